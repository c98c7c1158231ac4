/* Matrix products. Sizes and row-major matrices come in as loop programs state them. Where hop has kernels
 * for the processor (product.c) it multiplies itself, else BLAS does, if there is one and its integers hold
 * the sizes. BLAS runs on one thread: large products are cut into pieces by their shape alone and the pieces
 * go to the pool, so that results do not depend on the number of threads and two sets of threads never
 * compete; those with a single row or column go to the matrix-vector kernel. Products of f16, bf16 and bytes
 * are those of blocks that are brought to f32. */
#include "runtime/blas.h"
#include "ir/number.h"
#include "loop/lp.h"
#include "loop/rt.h"
#include "runtime/pool.h"
#include "runtime/product.h"

#include <pthread.h>
#include <stdlib.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
    return p->k && fits ? blas_library() : NULL;
}

static int32_t multiply_plain(struct hop_rt *rt, const struct product *p)
{
    const struct blas *blas = blas_for(p);
    if (!blas) return product_multiply(rt, p);
    (p->c_dtype == DT_F32 ? product_float : product_double)(blas, p);
    return 0;
}

/* ---- operands of other dtypes ---- */

/* Blocks of A and B are brought to f32, and their product is added to a block of C: no copy of a whole
 * operand is made, and what a thread needs besides does not grow with the product. */
enum { BLOCK_ROWS = 256, BLOCK_COLS = 512, BLOCK_DEPTH = 256 };
enum { BLOCK_FLOATS = BLOCK_ROWS * BLOCK_DEPTH + BLOCK_DEPTH * BLOCK_COLS + BLOCK_ROWS * BLOCK_COLS };
/* What is taken from the stack when there is no memory. */
enum { SMALL_ROWS = 16, SMALL_COLS = 64, SMALL_DEPTH = 64 };
enum { SMALL_FLOATS = SMALL_ROWS * SMALL_DEPTH + SMALL_DEPTH * SMALL_COLS + SMALL_ROWS * SMALL_COLS };
_Static_assert(255 * 255 * BLOCK_DEPTH <= 1 << 24, "f32 holds every sum of a block of bytes");

/* A row of n elements as f32, all exact. Sixteen at a time, which compilers make vectors of. */
enum { AT_ONCE = 16 };
#define ROW(name, T, U, value) \
    static inline void name##_some(T *restrict to, const U *restrict from, int n) \
    { \
        for (int j = 0; j < n; j++) to[j] = (value); \
    } \
    static void name(void *restrict to, const void *restrict from, int64_t n) \
    { \
        int64_t i = 0; \
        for (; i + AT_ONCE <= n; i += AT_ONCE) name##_some((T *)to + i, (const U *)from + i, AT_ONCE); \
        name##_some((T *)to + i, (const U *)from + i, (int)(n - i)); \
    }
ROW(widen_f32, float, float, from[j])
ROW(widen_f16, float, uint16_t, f16_to_f32(from[j]))
ROW(widen_bf16, float, uint16_t, bf16_to_f32(from[j]))
ROW(widen_i8, float, int8_t, (float)from[j])
ROW(widen_u8, float, uint8_t, (float)from[j])

/* Whole numbers are added to a row of C as they come, block after block; all that wraps around is equal
 * modulo the width. */
ROW(add_8, uint8_t, float, (uint8_t)(to[j] + (uint8_t)(int32_t)from[j]))
ROW(add_16, uint16_t, float, (uint16_t)(to[j] + (uint16_t)(int32_t)from[j]))
ROW(add_32, uint32_t, float, to[j] + (uint32_t)(int32_t)from[j])
ROW(add_64, uint64_t, float, to[j] + (uint64_t)(int32_t)from[j])
ROW(round_f16, uint16_t, float, f16_of_f32(from[j]))
ROW(round_bf16, uint16_t, float, bf16_of_f32(from[j]))
#undef ROW

#if defined(__x86_64__)
/* f16 by instructions, which every processor with AVX2 has. */
#define HAS_F16 __builtin_cpu_supports("avx2")
__attribute__((target("avx2,f16c"))) static void widen_f16_fast(void *restrict to, const void *restrict from,
                                                                int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i some = _mm_loadu_si128((const __m128i *)((const uint16_t *)from + i));
        _mm256_storeu_ps((float *)to + i, _mm256_cvtph_ps(some));
    }
    for (; i < n; i++) ((float *)to)[i] = f16_to_f32(((const uint16_t *)from)[i]);
}
__attribute__((target("avx2,f16c"))) static void round_f16_fast(void *restrict to, const void *restrict from,
                                                                int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i some = _mm256_cvtps_ph(_mm256_loadu_ps((const float *)from + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)((uint16_t *)to + i), some);
    }
    for (; i < n; i++) ((uint16_t *)to)[i] = f16_of_f32(((const float *)from)[i]);
}
#else
#define HAS_F16 false
#define widen_f16_fast widen_f16
#define round_f16_fast round_f16
#endif

typedef void (*row_function)(void *restrict to, const void *restrict from, int64_t n);
static row_function widen_of(enum dtype t)
{
    switch (t) {
    case DT_F32: return widen_f32;
    case DT_F16: return HAS_F16 ? widen_f16_fast : widen_f16;
    case DT_BF16: return widen_bf16;
    case DT_I8: return widen_i8;
    default: return widen_u8; /* and bool */
    }
}

static void widen_block(float *to, enum dtype t, const char *from, int64_t ld, int64_t rows, int64_t cols)
{
    row_function row = widen_of(t);
    for (int64_t i = 0; i < rows; i++) row(to + i * cols, from + i * ld * dtype_info[t].size, cols);
}

static row_function leave_of(enum dtype t)
{
    if (t == DT_F16) return HAS_F16 ? round_f16_fast : round_f16;
    if (t == DT_BF16) return round_bf16;
    switch (dtype_info[t].size) {
    case 1: return add_8;
    case 2: return add_16;
    case 4: return add_32;
    default: return add_64;
    }
}

/* How large blocks are, and the memory for one of each. */
struct blocks {
    int64_t rows, cols, depth;
    float *a, *b, *c;
};

/* One block of C, over the whole sum. */
static void multiply_block(struct hop_rt *rt, const struct product *p, const struct blocks *w, int64_t i,
                           int64_t j)
{
    int64_t m = HOP_MIN(w->rows, p->m - i), n = HOP_MIN(w->cols, p->n - j),
            size = dtype_info[p->c_dtype].size;
    bool whole = dtype_is_integer(p->c_dtype), single = p->c_dtype == DT_F32;
    char *c = p->c + (i * p->ldc + j) * size;
    float *to = single ? (float *)c : w->c;
    int64_t to_row = single ? p->ldc : n;
    row_function leave = single ? NULL : leave_of(p->c_dtype);
    for (int64_t r = 0; r < m; r++) {
        char *row = c + r * p->ldc * size;
        if (whole && !p->accumulate) memset(row, 0, (size_t)(n * size));
        else if (!whole && !single && p->accumulate) widen_of(p->c_dtype)(w->c + r * n, row, n);
    }
    struct product part = { .c_dtype = DT_F32,
                            .batch = 1,
                            .ta = p->ta,
                            .tb = p->tb,
                            .accumulate = p->accumulate && !whole,
                            .m = m,
                            .n = n,
                            .a = (char *)w->a,
                            .b = (char *)w->b,
                            .c = (char *)to,
                            .ldc = to_row };
    for (int64_t t = 0; t < HOP_MAX(p->k, 1); t += w->depth) {
        int64_t k = part.k = HOP_MIN(w->depth, p->k - t), a_size = dtype_info[p->a_dtype].size,
                b_size = dtype_info[p->b_dtype].size;
        part.lda = p->ta ? m : HOP_MAX(k, 1);
        part.ldb = p->tb ? HOP_MAX(k, 1) : n;
        widen_block(w->a, p->a_dtype, p->a + (p->ta ? t * p->lda + i : i * p->lda + t) * a_size, p->lda,
                    p->ta ? k : m, p->ta ? m : k);
        widen_block(w->b, p->b_dtype, p->b + (p->tb ? j * p->ldb + t : t * p->ldb + j) * b_size, p->ldb,
                    p->tb ? n : k, p->tb ? k : n);
        multiply_plain(rt, &part);
        part.accumulate = !whole;
        for (int64_t r = 0; whole && r < m; r++) leave(c + r * p->ldc * size, w->c + r * n, n);
    }
    for (int64_t r = 0; !whole && !single && r < m; r++) leave(c + r * p->ldc * size, w->c + r * n, n);
}

/* The calling thread's memory for blocks, kept for its next product; NULL: there is none. */
static pthread_once_t blocks_once = PTHREAD_ONCE_INIT;
static pthread_key_t blocks_key;
static bool blocks_have_key;
static void blocks_begin(void) { blocks_have_key = !pthread_key_create(&blocks_key, free); }
static float *blocks_memory(void)
{
    pthread_once(&blocks_once, blocks_begin);
    if (!blocks_have_key) return NULL;
    float *memory = pthread_getspecific(blocks_key);
    if (memory) return memory;
    memory = malloc(BLOCK_FLOATS * sizeof *memory);
    if (memory && pthread_setspecific(blocks_key, memory)) {
        free(memory);
        memory = NULL;
    }
    return memory;
}

static int32_t multiply_converted(struct hop_rt *rt, const struct product *p)
{
    float small[SMALL_FLOATS];
    struct blocks w = { BLOCK_ROWS, BLOCK_COLS, BLOCK_DEPTH, blocks_memory(), NULL, NULL };
    if (!w.a) w = (struct blocks){ SMALL_ROWS, SMALL_COLS, SMALL_DEPTH, small, NULL, NULL };
    w.b = w.a + w.rows * w.depth;
    w.c = w.b + w.depth * w.cols;
    for (int64_t j = 0; j < p->n; j += w.cols)
        for (int64_t i = 0; i < p->m; i += w.rows) multiply_block(rt, p, &w, i, j);
    return 0;
}

static bool is_plain(const struct product *p)
{
    return lp_multiplies(p->c_dtype, p->a_dtype, p->b_dtype) == PRODUCT_PLAIN;
}

static int32_t multiply(struct hop_rt *rt, const struct product *p)
{
    return is_plain(p) ? multiply_plain(rt, p) : multiply_converted(rt, p);
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
        int32_t status = multiply(rt, &p);
        if (status) return status;
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
    if (p.tb == HOP_RT_PANELS || (is_plain(&p) && !blas_for(&p))) {
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
