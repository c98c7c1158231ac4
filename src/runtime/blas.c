/* Matrix products. Sizes and row-major matrices come in as loop programs state them. Where hop has kernels
 * for the processor (product.c) it multiplies itself, else BLAS does, if there is one and its integers hold
 * the sizes. BLAS runs on one thread: large products are cut into pieces by their shape alone and the pieces
 * go to the pool, so that results do not depend on the number of threads and two sets of threads never
 * compete; those with a single row or column go to the matrix-vector kernel. Products of f16, bf16 and bytes
 * are hop's own. */
#include "runtime/blas.h"
#include "loop/lp.h"
#include "loop/rt.h"
#include "runtime/pool.h"
#include "runtime/product.h"

/* Measured: below 6 MFLOP two threads lose, and each piece packs the other operand again, which wants a few
 * hundred rows once products are large. */
/* In floating point operations. */
static const double ONE_PIECE = 6e6;
static const double TWO_PIECES = 64e6;
static const double FOUR_PIECES = 512e6;
static const double ONE_PART = 1e9;
enum { LARGE_PIECE = 256, PIECE_STEP = 16, SMALLEST_CUT = 64 };

/* A product in pieces. */
struct pieces {
    struct product whole;
    bool by_rows; /* they are rows of C, else columns */
    int64_t length;
};

/* One row or column of C is a matrix times a vector, the vector being a row or a column of the other operand.
 * C is cleared first when it must be: kernels that multiply it by a zero beta would keep its NaNs. */
#define BLAS_OF(T, gemm, gemv) \
    static void product_##T(const struct blas *blas, const struct product *p) \
    { \
        const T *a = (const T *)p->a, *b = (const T *)p->b; \
        T *c = (T *)p->c; \
        int m = (int)p->m, n = (int)p->n, k = (int)p->k; \
        int lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc; \
        int ta = p->ta ? BLAS_TRANSPOSED : BLAS_AS_IT_IS; \
        int tb = p->tb ? BLAS_TRANSPOSED : BLAS_AS_IT_IS; \
        if (m > 1 && n > 1) { \
            blas->gemm(BLAS_ROW_MAJOR, ta, tb, m, n, k, 1, a, lda, b, ldb, p->accumulate ? 1 : 0, c, ldc); \
            return; \
        } \
        bool is_column = n == 1; \
        int64_t length = is_column ? m : n; \
        int64_t c_step = is_column ? ldc : 1; \
        for (int64_t i = 0; !p->accumulate && i < length; i++) c[i * c_step] = 0; \
        if (is_column) { \
            int rows = p->ta ? k : m, cols = p->ta ? m : k; \
            int b_step = p->tb ? 1 : ldb; \
            blas->gemv(BLAS_ROW_MAJOR, ta, rows, cols, 1, a, lda, b, b_step, 1, c, ldc); \
        } else { \
            int rows = p->tb ? n : k, cols = p->tb ? k : n; \
            int a_step = p->ta ? lda : 1; \
            int other = p->tb ? BLAS_AS_IT_IS : BLAS_TRANSPOSED; \
            blas->gemv(BLAS_ROW_MAJOR, other, rows, cols, 1, b, ldb, a, a_step, 1, c, 1); \
        } \
    }
BLAS_OF(float, sgemm, sgemv)
BLAS_OF(double, dgemm, dgemv)

/* BLAS, if it is to multiply this. */
static const struct blas *blas_for(const struct product *p)
{
    bool fits = HOP_MAX(HOP_MAX(p->m, p->n), HOP_MAX(p->k, p->lda)) <= INT32_MAX &&
                HOP_MAX(p->ldb, p->ldc) <= INT32_MAX;
    bool plain = lp_multiplies(p->c_dtype, p->a_dtype, p->b_dtype) == PRODUCT_PLAIN;
    return p->k && fits && plain && p->tb != HOP_RT_PANELS ? blas_library() : NULL;
}

static bool ended(struct hop_rt *rt) { return rt->cancel && *rt->cancel && (!rt->asked || rt->asked(rt)); }

/* Only the columns of C from `at` on. */
static void from_column(struct product *p, int64_t at)
{
    p->b += (p->tb ? at * p->ldb : at) * dtype_info[p->b_dtype].size;
    p->c += at * dtype_info[p->c_dtype].size;
}

/* In parts that take some ten milliseconds each, columns of C, so that a run can be ended between them. What
 * is not done then is never seen. */
static int32_t multiply_in_parts(struct hop_rt *rt, const struct product *whole)
{
    double column = 2.0 * (double)whole->m * (double)whole->k;
    int64_t part = column * (double)whole->n <= ONE_PART ? whole->n : (int64_t)(ONE_PART / column);
    part = HOP_MAX(part / PIECE_STEP * PIECE_STEP, HOP_MIN(whole->n, PIECE_STEP));
    for (int64_t at = 0; at < whole->n; at += part) {
        struct product p = *whole;
        if (at && ended(rt)) return HOP_CANCELLED;
        p.n = HOP_MIN(part, whole->n - at);
        from_column(&p, at);
        (p.c_dtype == DT_F32 ? product_float : product_double)(blas_library(), &p);
    }
    return 0;
}

static int32_t multiply_pieces(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct pieces *pieces = env;
    int64_t total = pieces->by_rows ? pieces->whole.m : pieces->whole.n;
    for (int64_t i = lo; i < hi; i++) {
        struct product p = pieces->whole;
        int64_t at = i * pieces->length, length = HOP_MIN(pieces->length, total - at);
        if (pieces->by_rows) {
            p.m = length;
            p.a += (p.ta ? at : at * p.lda) * dtype_info[p.a_dtype].size;
            p.c += at * p.ldc * dtype_info[p.c_dtype].size;
        } else {
            p.n = length;
            from_column(&p, at);
        }
        if ((i > lo && ended(rt)) || multiply_in_parts(rt, &p)) return HOP_CANCELLED;
    }
    return 0;
}

static double operations(const struct product *p) { return 2.0 * (double)p->m * (double)p->n * (double)p->k; }

/* How many pieces a product of so much work is cut into along `length`. */
static int64_t pieces_of(double work, int64_t length)
{
    if (work < ONE_PIECE || length < SMALLEST_CUT) return 1;
    if (work < TWO_PIECES) return 2;
    if (work < FOUR_PIECES) return 4;
    return HOP_MAX(4, length / LARGE_PIECE);
}

/* One product, not of a batch, whole or in pieces. */
static int32_t multiply_cut(struct hop_rt *rt, const struct product *p)
{
    struct pieces pieces = { *p, p->m >= p->n || p->m >= SMALLEST_CUT, 0 };
    int64_t length = pieces.by_rows ? p->m : p->n;
    int64_t count = pieces_of(operations(p), length);
    if (count == 1) return multiply_in_parts(rt, p);
    pieces.length = (length + count - 1) / count;
    pieces.length = (pieces.length + PIECE_STEP - 1) / PIECE_STEP * PIECE_STEP;
    return rt->parallel(rt, multiply_pieces, &pieces, (length + pieces.length - 1) / pieces.length, 1);
}

static int32_t multiply_matrices(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct product *all = env;
    for (int64_t i = lo; i < hi; i++) {
        struct product p = *all;
        p.batch = 1;
        p.a += i * p.a_apart * dtype_info[p.a_dtype].size;
        p.b += i * p.b_apart * dtype_info[p.b_dtype].size;
        p.c += i * p.c_apart * dtype_info[p.c_dtype].size;
        if ((i > lo && ended(rt)) || multiply_cut(rt, &p)) return HOP_CANCELLED;
    }
    return 0;
}

void blas_gemm(struct hop_rt *rt, const struct hop_rt_gemm *g)
{
    struct product p = { .c_dtype = (enum dtype)(g->dtypes & 0xff),
                         .a_dtype = (enum dtype)(g->dtypes >> 8 & 0xff),
                         .b_dtype = (enum dtype)(g->dtypes >> 16 & 0xff),
                         .ta = g->ta,
                         .tb = g->tb,
                         .accumulate = g->accumulate,
                         .m = g->m,
                         .n = g->n,
                         .k = g->k,
                         .batch = g->batch,
                         .a_apart = g->a_apart,
                         .b_apart = g->b_apart,
                         .c_apart = g->c_apart,
                         .a = g->a,
                         .b = g->b,
                         .c = g->c };
    if (p.m < 1 || p.n < 1 || p.batch < 1) return;
    /* A leading dimension says nothing when there is one row, but CBLAS insists that it is at least a row's
     * length. */
    p.lda = HOP_MAX(g->lda, g->ta ? g->m : g->k);
    p.ldb = HOP_MAX(g->ldb, g->tb ? g->k : g->n);
    p.ldc = HOP_MAX(g->ldc, g->n);
    if (!p.b_apart && !p.ta && p.a_apart == p.m * p.lda && p.c_apart == p.m * p.ldc) { /* one below another */
        p.m *= p.batch;
        p.batch = 1;
    }
    if (!blas_for(&p)) {
        product_multiply(rt, &p);
        return;
    }
    double work = operations(&p);
    if (pieces_of(work, HOP_MAX(p.m, p.n)) > 1 || work * (double)p.batch < ONE_PIECE)
        multiply_matrices(rt, &p, 0, p.batch);
    else rt->parallel(rt, multiply_matrices, &p, p.batch, (int64_t)(ONE_PIECE / 2 / HOP_MAX(work, 1)) + 1);
}

void blas_pack(struct hop_rt *rt, const struct hop_rt_gemm *g)
{
    struct product p = { .c_dtype = (enum dtype)(g->dtypes & 0xff),
                         .b_dtype = (enum dtype)(g->dtypes >> 16 & 0xff),
                         .tb = g->tb,
                         .n = g->n,
                         .k = g->k,
                         .ldb = g->ldb,
                         .b = g->b,
                         .c = g->c };
    if (p.n > 0 && p.k > 0) product_pack(rt, &p);
}
