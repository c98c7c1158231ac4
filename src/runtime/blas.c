/* Matrix products through CBLAS. Sizes and row-major matrices come in as loop programs state them. BLAS itself runs on one thread: large products are cut
 * into pieces by their shape alone and the pieces go to the pool, so that results do not depend on the number of threads and two sets of threads never
 * compete. Products with a single row or column go to the matrix-vector kernel; sizes that BLAS's integers cannot hold are done in plain loops. */
#include "ir/ir.h"
#include "runtime/pool.h"
#include "runtime/rt.h"

#include <cblas.h>
#include <pthread.h>

/* Measured: below 6 MFLOP two threads lose, and each piece packs the other operand again, which wants a few hundred rows once products are large. */
static const double ONE_PIECE = 6e6, TWO_PIECES = 64e6, FOUR_PIECES = 512e6; /* floating point operations */
enum { LARGE_PIECE = 256, PIECE_STEP = 16, SMALLEST_CUT = 64 };

struct product {
    int32_t dtype, ta, tb, accumulate;
    int64_t m, n, k, lda, ldb, ldc;
    const char *a, *b;
    char *c;
    bool by_rows; /* pieces are rows of C, else columns */
    int64_t piece;
};

/* One row or column of C is a matrix times a vector, the vector being a row or a column of the other operand. C is cleared first when it must be: kernels
 * that multiply it by a zero beta would keep its NaNs. */
#define BLAS_OF(T, gemm_name, gemv_name) \
    static void product_##T(const struct product *p) \
    { \
        const T *a = (const T *)p->a, *b = (const T *)p->b; \
        T *c = (T *)p->c; \
        int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc; \
        if (m > 1 && n > 1) { \
            gemm_name(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans, m, n, k, 1, a, lda, b, ldb, p->accumulate ? 1 : 0, c, ldc); \
            return; \
        } \
        for (int64_t i = 0; !p->accumulate && i < (n == 1 ? m : n); i++) c[n == 1 ? i * ldc : i] = 0; \
        if (n == 1) \
            gemv_name(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->ta ? k : m, p->ta ? m : k, 1, a, lda, b, p->tb ? 1 : ldb, 1, c, ldc); \
        else \
            gemv_name(CblasRowMajor, p->tb ? CblasNoTrans : CblasTrans, p->tb ? n : k, p->tb ? k : n, 1, b, ldb, a, p->ta ? lda : 1, 1, c, 1); \
    } \
    static void plain_##T(const struct product *p) \
    { \
        const T *a = (const T *)p->a, *b = (const T *)p->b; \
        for (int64_t i = 0; i < p->m; i++) \
            for (int64_t j = 0; j < p->n; j++) { \
                T sum = 0, *to = (T *)p->c + i * p->ldc + j; \
                for (int64_t t = 0; t < p->k; t++) sum += a[p->ta ? t * p->lda + i : i * p->lda + t] * b[p->tb ? j * p->ldb + t : t * p->ldb + j]; \
                *to = p->accumulate ? *to + sum : sum; \
            } \
    }
BLAS_OF(float, cblas_sgemm, cblas_sgemv)
BLAS_OF(double, cblas_dgemm, cblas_dgemv)

static void one_thread(void) { openblas_set_num_threads(1); }

static void multiply(const struct product *p)
{
    bool fits = HOP_MAX(HOP_MAX(p->m, p->n), HOP_MAX(p->k, p->lda)) <= INT32_MAX && HOP_MAX(p->ldb, p->ldc) <= INT32_MAX;
    if (!p->k || !fits) (p->dtype == DT_F32 ? plain_float : plain_double)(p);
    else (p->dtype == DT_F32 ? product_float : product_double)(p);
}

static int32_t multiply_pieces(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    (void)rt;
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
        multiply(&p);
    }
    return 0;
}

void blas_gemm(struct hop_rt *rt, int32_t dtype, int32_t ta, int32_t tb, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb,
               void *c, int64_t ldc, int32_t accumulate)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct product p = { .dtype = dtype, .ta = ta, .tb = tb, .accumulate = accumulate, .m = m, .n = n, .k = k, .a = a, .b = b, .c = c };
    if (!m || !n) return;
    pthread_once(&once, one_thread);
    /* A leading dimension says nothing when there is one row, but CBLAS insists that it is at least a row's length. */
    p.lda = HOP_MAX(lda, ta ? m : k);
    p.ldb = HOP_MAX(ldb, tb ? k : n);
    p.ldc = HOP_MAX(ldc, n);
    double work = 2.0 * (double)m * (double)n * (double)k;
    p.by_rows = m >= n || m >= SMALLEST_CUT;
    int64_t length = p.by_rows ? m : n;
    int64_t count = work < ONE_PIECE || length < SMALLEST_CUT ? 1 : work < TWO_PIECES ? 2 : work < FOUR_PIECES ? 4 : HOP_MAX(4, length / LARGE_PIECE);
    if (count == 1) {
        multiply(&p);
        return;
    }
    p.piece = (length + count - 1) / count;
    p.piece = (p.piece + PIECE_STEP - 1) / PIECE_STEP * PIECE_STEP;
    rt->parallel(rt, multiply_pieces, &p, (length + p.piece - 1) / p.piece, 1);
}
