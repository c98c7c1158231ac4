/* Matrix products. Sizes and row-major matrices come in as loop programs state them. BLAS itself runs on one
 * thread: large products are cut into pieces by their shape alone and the pieces go to the pool, so that
 * results do not depend on the number of threads and two sets of threads never compete. Products with a
 * single row or column go to the matrix-vector kernel. Where there is no BLAS, and for sizes that its
 * integers cannot hold, hop multiplies itself. */
#include "runtime/blas.h"
#include "ir/ir.h"
#include "runtime/pool.h"
#include "loop/rt.h"

/* Measured: below 6 MFLOP two threads lose, and each piece packs the other operand again, which wants a few
 * hundred rows once products are large. */
/* In floating point operations. */
static const double ONE_PIECE = 6e6;
static const double TWO_PIECES = 64e6;
static const double FOUR_PIECES = 512e6;
static const double ONE_PART = 1e9;
enum { LARGE_PIECE = 256, PIECE_STEP = 16, SMALLEST_CUT = 64 };

struct product {
    int32_t dtype, ta, tb, accumulate;
    int64_t m, n, k, lda, ldb, ldc;
    const char *a, *b;
    char *c;
    bool by_rows; /* pieces are rows of C, else columns */
    int64_t piece;
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

/* hop's own: OWN_ROWS × OWN_COLS elements of C at a time, in registers, over OWN_DEPTH of the sum; what they
 * read of A and B is put in a row first, for OWN_TILES such blocks beside each other. */
enum { OWN_ROWS = 4, OWN_COLS = 8, OWN_TILES = 8, OWN_DEPTH = 256 };
#define OWN_PRODUCT(T) \
    typedef T own_row_##T __attribute__((vector_size(OWN_COLS * sizeof(T)))); \
    static void own_tile_##T(const T *restrict a, const T *restrict b, int64_t depth, T *restrict sums) \
    { \
        own_row_##T s[OWN_ROWS] = { { 0 } }, cols; \
        for (int64_t t = 0; t < depth; t++, a += OWN_ROWS, b += OWN_COLS) { \
            memcpy(&cols, b, sizeof cols); \
            for (int i = 0; i < OWN_ROWS; i++) s[i] += a[i] * cols; \
        } \
        memcpy(sums, s, sizeof s); \
    } \
    /* Rows of op(A), or columns of op(B), from `first` on, beside each other; zeros where there are no \
     * more. */ \
    static void own_pack_##T(T *to, const T *from, int64_t wide, int64_t first, int64_t end, int64_t along, \
                             int64_t depth, int64_t step) \
    { \
        for (int64_t t = 0; t < depth; t++) \
            for (int64_t i = 0; i < wide; i++) \
                *to++ = first + i < end ? from[(first + i) * along + t * step] : 0; \
    } \
    static void own_##T(const struct product *p) \
    { \
        const T *a = (const T *)p->a, *b = (const T *)p->b; \
        int64_t a_row = p->ta ? 1 : p->lda; \
        int64_t a_step = p->ta ? p->lda : 1; \
        int64_t b_col = p->tb ? p->ldb : 1; \
        int64_t b_step = p->tb ? 1 : p->ldb; \
        T rows[OWN_ROWS * OWN_DEPTH], panel[OWN_TILES * OWN_COLS * OWN_DEPTH], sums[OWN_ROWS * OWN_COLS]; \
        for (int64_t i = 0; i < p->m && !p->accumulate; i++) \
            memset((T *)p->c + i * p->ldc, 0, (size_t)p->n * sizeof(T)); \
        for (int64_t t = 0; t < p->k; t += OWN_DEPTH) \
            for (int64_t j = 0; j < p->n; j += OWN_TILES * OWN_COLS) { \
                int64_t depth = HOP_MIN(OWN_DEPTH, p->k - t); \
                int64_t end = HOP_MIN(p->n, j + OWN_TILES * OWN_COLS); \
                for (int64_t at = j; at < end; at += OWN_COLS) { \
                    T *block = panel + (at - j) * depth; \
                    own_pack_##T(block, b + t * b_step, OWN_COLS, at, p->n, b_col, depth, b_step); \
                } \
                for (int64_t i = 0; i < p->m; i += OWN_ROWS) { \
                    own_pack_##T(rows, a + t * a_step, OWN_ROWS, i, p->m, a_row, depth, a_step); \
                    for (int64_t at = j; at < end; at += OWN_COLS) { \
                        own_tile_##T(rows, panel + (at - j) * depth, depth, sums); \
                        for (int64_t r = 0; r < HOP_MIN(OWN_ROWS, p->m - i); r++) \
                            for (int64_t c = 0; c < HOP_MIN(OWN_COLS, end - at); c++) \
                                ((T *)p->c)[(i + r) * p->ldc + at + c] += sums[r * OWN_COLS + c]; \
                    } \
                } \
            } \
    }
OWN_PRODUCT(float)
OWN_PRODUCT(double)

static void multiply(const struct product *p)
{
    bool fits = HOP_MAX(HOP_MAX(p->m, p->n), HOP_MAX(p->k, p->lda)) <= INT32_MAX &&
                HOP_MAX(p->ldb, p->ldc) <= INT32_MAX;
    const struct blas *blas = p->k && fits ? blas_library() : NULL;
    if (blas) (p->dtype == DT_F32 ? product_float : product_double)(blas, p);
    else (p->dtype == DT_F32 ? own_float : own_double)(p);
}

static bool ended(struct hop_rt *rt) { return rt->cancel && *rt->cancel && (!rt->asked || rt->asked(rt)); }

/* In parts that take some ten milliseconds each, columns of C, so that a run can be ended between them. What
 * is not done then is never seen. */
static int32_t multiply_in_parts(struct hop_rt *rt, const struct product *whole)
{
    int64_t size = dtype_info[whole->dtype].size;
    double column = 2.0 * (double)whole->m * (double)whole->k;
    int64_t part = column * (double)whole->n <= ONE_PART ? whole->n : (int64_t)(ONE_PART / column);
    part = HOP_MAX(part / PIECE_STEP * PIECE_STEP, HOP_MIN(whole->n, PIECE_STEP));
    for (int64_t at = 0; at < whole->n; at += part) {
        struct product p = *whole;
        if (at && ended(rt)) return HOP_CANCELLED;
        p.n = HOP_MIN(part, whole->n - at);
        p.b += (p.tb ? at * p.ldb : at) * size;
        p.c += at * size;
        multiply(&p);
    }
    return 0;
}

static int32_t multiply_pieces(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct product *whole = env;
    int64_t size = dtype_info[whole->dtype].size, total = whole->by_rows ? whole->m : whole->n;
    for (int64_t i = lo; i < hi; i++) {
        struct product p = *whole;
        int64_t at = i * p.piece, length = HOP_MIN(p.piece, total - at);
        if (p.by_rows) {
            p.m = length;
            p.a += (p.ta ? at : at * p.lda) * size;
            p.c += at * p.ldc * size;
        } else {
            p.n = length;
            p.b += (p.tb ? at * p.ldb : at) * size;
            p.c += at * size;
        }
        if ((i > lo && ended(rt)) || multiply_in_parts(rt, &p)) return HOP_CANCELLED;
    }
    return 0;
}

/* How many pieces a product of so much work is cut into along `length`. */
static int64_t pieces_of(double work, int64_t length)
{
    if (work < ONE_PIECE || length < SMALLEST_CUT) return 1;
    if (work < TWO_PIECES) return 2;
    if (work < FOUR_PIECES) return 4;
    return HOP_MAX(4, length / LARGE_PIECE);
}

void blas_gemm(struct hop_rt *rt, int32_t dtype, int32_t ta, int32_t tb, int64_t m, int64_t n, int64_t k,
               const void *a, int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc,
               int32_t accumulate)
{
    struct product p = { .dtype = dtype,
                         .ta = ta,
                         .tb = tb,
                         .accumulate = accumulate,
                         .m = m,
                         .n = n,
                         .k = k,
                         .a = a,
                         .b = b,
                         .c = c };
    if (!m || !n) return;
    /* A leading dimension says nothing when there is one row, but CBLAS insists that it is at least a row's
     * length. */
    p.lda = HOP_MAX(lda, ta ? m : k);
    p.ldb = HOP_MAX(ldb, tb ? k : n);
    p.ldc = HOP_MAX(ldc, n);
    double work = 2.0 * (double)m * (double)n * (double)k;
    p.by_rows = m >= n || m >= SMALLEST_CUT;
    int64_t length = p.by_rows ? m : n;
    int64_t count = pieces_of(work, length);
    if (count == 1) {
        multiply_in_parts(rt, &p);
        return;
    }
    p.piece = (length + count - 1) / count;
    p.piece = (p.piece + PIECE_STEP - 1) / PIECE_STEP * PIECE_STEP;
    rt->parallel(rt, multiply_pieces, &p, (length + p.piece - 1) / p.piece, 1);
}
