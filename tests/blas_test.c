/* What multiplies: hop's own kernels, for this processor and for lesser ones, cut and packed anyhow; and the
 * library that may be told to: which kernel it was loaded with, what loading leaves of the environment.
 * Children run with other environments: blas_test own | small | core. */
#include "check.h"
#include "ir/number.h"
#include "runtime/blas.h"
#include "runtime/pool.h"
#include "runtime/product_kernels.h"
#include "loop/lp.h"
#include "loop/rt.h"

#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int32_t at_once(struct hop_rt *rt,
                       int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env,
                       int64_t n, int64_t grain)
{
    (void)grain;
    return body(rt, env, 0, n);
}

static void gemm(struct hop_rt *rt, int32_t dtypes, int ta, int tb, int64_t m, int64_t n, int64_t k,
                 const void *a, int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc,
                 bool accumulate)
{
    struct hop_rt_gemm g = { .dtypes = dtypes,
                             .ta = ta,
                             .tb = tb,
                             .accumulate = accumulate,
                             .m = m,
                             .n = n,
                             .k = k,
                             .lda = lda,
                             .ldb = ldb,
                             .ldc = ldc,
                             .batch = 1,
                             .a = a,
                             .b = b,
                             .c = c };
    blas_gemm(rt, &g);
}

#define PRODUCTS_OF(T, dtype) \
    static double worst_##T(int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool accumulate) \
    { \
        int64_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 2, ldc = n + 5; \
        T *a = calloc((size_t)((ta ? k : m) * lda + 1), sizeof *a), \
          *b = calloc((size_t)((tb ? n : k) * ldb + 1), sizeof *b), \
          *c = malloc((size_t)(m * ldc + 1) * sizeof *c); \
        struct hop_rt rt = { .parallel = at_once }; \
        double worst = 0; \
        for (int64_t i = 0; i < (ta ? k : m) * lda; i++) a[i] = (T)(i * 7 % 23) / 8 - 1; \
        for (int64_t i = 0; i < (tb ? n : k) * ldb; i++) b[i] = (T)(i * 5 % 19) / 8 - 1; \
        for (int64_t i = 0; i < m * ldc; i++) c[i] = accumulate || i % ldc >= n ? 1 : (T)NAN; \
        gemm(&rt, dtype, ta, tb, m, n, k, a, lda, b, ldb, c, ldc, accumulate); \
        for (int64_t i = 0; i < m; i++) \
            for (int64_t j = 0; j < ldc; j++) { \
                double sum = accumulate || j >= n ? 1 : 0; \
                for (int64_t t = 0; t < k && j < n; t++) \
                    sum += (double)a[ta ? t * lda + i : i * lda + t] * \
                           (double)b[tb ? j * ldb + t : t * ldb + j]; \
                double error = fabs((double)c[i * ldc + j] - sum); \
                worst = error <= worst ? worst : error; \
            } \
        free(a), free(b), free(c); \
        return worst; \
    }
PRODUCTS_OF(float, HOP_RT_DTYPES(DT_F32, DT_F32, DT_F32))
PRODUCTS_OF(double, HOP_RT_DTYPES(DT_F64, DT_F64, DT_F64))

static void test_products(void)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },     { 3, 4, 5 },       { 1, 9, 7 },     { 9, 1, 7 },
                                        { 4, 5, 0 },     { 65, 33, 17 },    { 70, 61, 300 }, { 5, 300, 513 },
                                        { 13, 16, 40 },  { 1, 1, 300 },     { 1, 300, 600 }, { 300, 1, 70 },
                                        { 200, 7, 513 }, { 256, 256, 256 }, { 97, 290, 600 } };
    for (size_t s = 0; s < HOP_COUNT(sizes); s++)
        for (int how = 0; how < 8; how++) {
            int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            if (m * n * k > 1 << 22 && ((size_t)how + s) % 3) continue; /* some ways of the largest */
            double f = worst_float(m, n, k, how & 1, how & 2, how & 4),
                   d = worst_double(m, n, k, how & 1, how & 2, how & 4);
            CLAIM(f <= 1e-6 * 4 * (double)(k + 1), "f32 %lld x %lld x %lld, case %d: off by %g", (long long)m,
                  (long long)n, (long long)k, how, f);
            CLAIM(d <= 1e-15 * 4 * (double)(k + 1), "f64 %lld x %lld x %lld, case %d: off by %g",
                  (long long)m, (long long)n, (long long)k, how, d);
        }
}

/* ---- pieces ---- */

/* How the pieces of a parallel loop are run: so many at a time, forwards or backwards. */
static int64_t at_a_time;
static bool backwards;
static int32_t in_pieces(struct hop_rt *rt,
                         int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env,
                         int64_t n, int64_t grain)
{
    (void)grain;
    int64_t count = (n + at_a_time - 1) / at_a_time;
    for (int64_t i = 0; i < count; i++) {
        int64_t lo = (backwards ? count - 1 - i : i) * at_a_time;
        int32_t status = body(rt, env, lo, HOP_MIN(lo + at_a_time, n));
        if (status) return status;
    }
    return 0;
}

/* Bits do not depend on how a product is cut, nor on what it is a part of: each row of C by itself, and each
 * column, is what it is in the whole. */
static void test_pieces(void)
{
    uint64_t seed = 20;
    for (int round = 0; round < 12; round++) {
        int64_t size[3];
        for (int i = 0; i < 3; i++) size[i] = 2 + (int64_t)((seed = hash_bytes(&seed, 8, 1)) % 330);
        int64_t m = size[0], n = size[1], k = size[2] + 200;
        int ta = round & 1, tb = round >> 1 & 1;
        float *a = calloc((size_t)(m * k), sizeof *a), *b = calloc((size_t)(k * n), sizeof *b),
              *c = calloc((size_t)(m * n), sizeof *c), *other = calloc((size_t)(m * n), sizeof *c);
        for (int64_t i = 0; i < m * k; i++) a[i] = (float)((double)(i * 7919 % 10007) / 997 - 5);
        for (int64_t i = 0; i < k * n; i++) b[i] = (float)((double)(i * 6101 % 10009) / 991 - 5);
        struct hop_rt rt = { .parallel = in_pieces };
        int32_t dtypes = HOP_RT_DTYPES(DT_F32, DT_F32, DT_F32);
        int64_t lda = ta ? m : k, ldb = tb ? k : n;
        at_a_time = INT32_MAX;
        gemm(&rt, dtypes, ta, tb, m, n, k, a, lda, b, ldb, c, n, 0);
        static const int64_t counts[] = { 1, 2, 3, 7, 16 };
        for (size_t t = 0; t < HOP_COUNT(counts); t++) {
            at_a_time = counts[t];
            backwards = t & 1;
            gemm(&rt, dtypes, ta, tb, m, n, k, a, lda, b, ldb, other, n, 0);
            CLAIM(!memcmp(c, other, (size_t)(m * n) * sizeof *c), "%lld x %lld x %lld: %lld at a time",
                  (long long)m, (long long)n, (long long)k, (long long)at_a_time);
        }
        int64_t half = m / 2 + 1, rest = n / 2 + 1; /* a corner, and it has two rows and columns at least */
        gemm(&rt, dtypes, ta, tb, half, rest, k, a, lda, b, ldb, other, n, 0);
        bool same = true;
        for (int64_t i = 0; i < half && half > 1 && rest > 1; i++)
            same &= !memcmp(c + i * n, other + i * n, (size_t)rest * sizeof *c);
        CLAIM(same, "%lld x %lld x %lld: a corner of it", (long long)m, (long long)n, (long long)k);
        free(a), free(b), free(c), free(other);
    }
}

/* A few rows by themselves are what they are among more, whether the matrix is read where it lies, from
 * memory or from panels, and however the columns are cut. */
static void test_few_rows(void)
{
    static const int64_t shapes[][2] = { { 1100, 1030 }, { 129, 600 }, { 1024, 256 }, { 47, 513 } };
    int32_t dtypes = HOP_RT_DTYPES(DT_F32, DT_F32, DT_F32);
    enum { ALL = 20 };
    for (size_t s = 0; s < HOP_COUNT(shapes); s++) {
        int64_t n = shapes[s][0], k = shapes[s][1], whole = (n + 63) / 64 * 64;
        float *a = calloc((size_t)(ALL * k), sizeof *a), *b = calloc((size_t)(k * n), sizeof *b),
              *c = calloc((size_t)(ALL * n), sizeof *c), *other = calloc((size_t)(ALL * n), sizeof *c);
        float *panels = aligned_alloc(64, (size_t)(whole * k) * sizeof *panels);
        for (int64_t i = 0; i < ALL * k; i++) a[i] = (float)((double)(i * 7919 % 10007) / 997 - 5);
        for (int64_t i = 0; i < k * n; i++) b[i] = (float)((double)(i * 6101 % 10009) / 991 - 5);
        struct hop_rt rt = { .parallel = in_pieces };
        struct hop_rt_gemm pack = { .dtypes = dtypes, .n = n, .k = k, .ldb = n, .b = b, .c = panels };
        at_a_time = INT32_MAX;
        gemm(&rt, dtypes, 0, 0, ALL, n, k, a, k, b, n, c, n, 0);
        blas_pack(&rt, &pack);
        for (int64_t m = 1; m <= 9; m++)
            for (int how = 0; how < 4; how++) {
                bool packed = how & 1;
                at_a_time = how & 2 ? 1 : 3;
                backwards = how & 2;
                memset(other, 0, (size_t)(ALL * n) * sizeof *other);
                gemm(&rt, dtypes, 0, packed ? HOP_RT_PANELS : 0, m, n, k, a, k, packed ? panels : b, n, other,
                     n, 0);
                CLAIM(!memcmp(c, other, (size_t)(m * n) * sizeof *c), "%lld rows of %lld x %lld%s",
                      (long long)m, (long long)n, (long long)k, packed ? " in panels" : "");
            }
        backwards = false;
        free(a), free(b), free(c), free(other), free(panels);
    }
}

/* Elements that lie in memory of some dtype: bytes of every value, floats of so many, so far apart. */
enum { MOST_VALUES = 1009, PERIOD = 8191 };
static char *elements(enum dtype t, int64_t count, uint64_t seed, int n_values, double apart)
{
    int64_t size = dtype_info[t].size;
    int middle = n_values / 2;
    char *data = calloc((size_t)count + 1, (size_t)size), values[MOST_VALUES][8];
    for (int i = 0; dtype_is_float(t) && i < n_values; i++)
        element_set_real(t, values[i], (i - middle) * apart);
    for (int64_t i = 0; i < HOP_MIN(count, PERIOD); i++) {
        uint64_t r = (seed += 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u >> 33;
        char *at = data + i * size;
        if (t == DT_BOOL) *at = (char)(r & 1);
        else if (dtype_is_float(t)) memcpy(at, values[r % (uint64_t)n_values], (size_t)size);
        else *at = (char)r;
    }
    for (int64_t done = PERIOD; done < count; done *= 2)
        memcpy(data + done * size, data, (size_t)(HOP_MIN(done, count - done) * size));
    return data;
}
/* Small whole numbers: sums are exact. */
static char *some_elements(enum dtype t, int64_t count, uint64_t seed)
{
    return elements(t, count, seed, 17, 1);
}
/* Sums are rounded: their order shows. */
static char *some_fractions(enum dtype t, int64_t count, uint64_t seed)
{
    return elements(t, count, seed, MOST_VALUES, 0.0101);
}

/* The rows of op(X), or the columns, as doubles, which hold every number here. */
static double *as_doubles(enum dtype t, const char *data, int64_t lines, int64_t along, int64_t depth,
                          int64_t step)
{
    double *out = malloc((size_t)(lines * depth + 1) * sizeof *out);
    for (int64_t i = 0; i < lines; i++)
        for (int64_t k = 0; k < depth; k++) {
            const char *at = data + (i * along + k * step) * (int64_t)dtype_info[t].size;
            out[i * depth + k] = dtype_is_float(t) ? element_real(t, at) : (double)element_whole(t, at);
        }
    return out;
}

/* Whole numbers throughout, whose products and sums f32 holds: exactly one result is right. How many differ
 * from it, those beside the result included. */
static int64_t wrong_elements(enum dtype c_dtype, enum dtype a_dtype, enum dtype b_dtype, int64_t m,
                              int64_t n, int64_t k, bool ta, bool tb, bool accumulate)
{
    int64_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 2, ldc = n + 5, wrong = 0;
    int64_t size = dtype_info[c_dtype].size;
    char *a = some_elements(a_dtype, (ta ? k : m) * lda, 1),
         *b = some_elements(b_dtype, (tb ? n : k) * ldb, 2);
    char *c = some_elements(c_dtype, m * ldc, 3), *before = some_elements(c_dtype, m * ldc, 3);
    double *rows = as_doubles(a_dtype, a, m, ta ? 1 : lda, k, ta ? lda : 1);
    double *columns = as_doubles(b_dtype, b, n, tb ? ldb : 1, k, tb ? 1 : ldb);
    struct hop_rt rt = { .parallel = at_once };
    gemm(&rt, HOP_RT_DTYPES(c_dtype, a_dtype, b_dtype), ta, tb, m, n, k, a, lda, b, ldb, c, ldc, accumulate);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < ldc; j++) {
            const char *here = c + (i * ldc + j) * size, *was = before + (i * ldc + j) * size;
            uint64_t expected = 0;
            double sum = 0;
            for (int64_t t = 0; j < n && t < k; t++) sum += rows[i * k + t] * columns[j * k + t];
            if (j >= n) memcpy(&expected, was, (size_t)size);
            else if (dtype_is_float(c_dtype))
                element_set_real(c_dtype, &expected, sum + (accumulate ? element_real(c_dtype, was) : 0));
            else {
                int64_t whole = (int64_t)sum + (accumulate ? element_whole(c_dtype, was) : 0);
                memcpy(&expected, &whole, (size_t)size);
            }
            wrong += memcmp(&expected, here, (size_t)size) != 0;
        }
    void *all[] = { a, b, c, before, rows, columns };
    for (size_t i = 0; i < HOP_COUNT(all); i++) free(all[i]);
    return wrong;
}

/* Operands and results of other dtypes, in blocks: sizes beside and across the edges of blocks. */
static void test_conversions(void)
{
    static const struct {
        enum dtype c, a, b;
    } dtypes[] = { { DT_F32, DT_BF16, DT_BF16 },  { DT_F32, DT_F16, DT_F16 }, { DT_F32, DT_F32, DT_BF16 },
                   { DT_BF16, DT_BF16, DT_BF16 }, { DT_F16, DT_F16, DT_F32 }, { DT_I32, DT_I8, DT_I8 },
                   { DT_I32, DT_U8, DT_I8 },      { DT_U32, DT_U8, DT_U8 },   { DT_I64, DT_I8, DT_BOOL },
                   { DT_I8, DT_I8, DT_I8 },       { DT_I16, DT_U8, DT_U8 } };
    static const int64_t sizes[][3] = { { 1, 1, 1 },   { 3, 4, 5 },     { 9, 1, 7 },
                                        { 4, 5, 0 },   { 17, 65, 65 },  { 257, 33, 17 },
                                        { 5, 517, 9 }, { 16, 64, 600 }, { 258, 515, 24 } };
    for (size_t d = 0; d < HOP_COUNT(dtypes); d++)
        for (size_t s = 0; s < HOP_COUNT(sizes); s++)
            for (int how = 0; how < 8; how++) {
                int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                if (s + 1 == HOP_COUNT(sizes) && how != (int)(d % 8)) continue; /* one way of the largest */
                int64_t wrong = wrong_elements(dtypes[d].c, dtypes[d].a, dtypes[d].b, m, n, k, how & 1,
                                               how & 2, how & 4);
                CLAIM(!wrong, "%s by %s in %s, %lld x %lld x %lld, case %d: %lld are wrong",
                      dtype_info[dtypes[d].a].name, dtype_info[dtypes[d].b].name,
                      dtype_info[dtypes[d].c].name, (long long)m, (long long)n, (long long)k, how,
                      (long long)wrong);
            }
}

/* A large matrix times few rows, whose sums are taken beside the result, for fewer rows and for more than one
 * block of it has. */
static void test_streamed(void)
{
    static const struct {
        enum dtype dtype;
        int64_t rows, depth;
    } cases[] = { { DT_BF16, 97, 4200 }, { DT_BF16, 8, 4200 }, { DT_F16, 5, 4200 }, { DT_I8, 8, 8300 } };
    for (size_t i = 0; i < HOP_COUNT(cases); i++) {
        enum dtype t = cases[i].dtype;
        int64_t wrong = wrong_elements(t, t, t, cases[i].rows, 515, cases[i].depth, 0, i & 1, i & 2);
        CLAIM(!wrong, "%lld rows of %s times a large matrix: %lld are wrong", (long long)cases[i].rows,
              dtype_info[t].name, (long long)wrong);
    }
}

/* NaN and an infinity stay in the rows that have them: what panels are filled up with meets neither. */
static void test_special(enum dtype t)
{
    enum { M = 21, N = 39, K = 37, NAN_ROW = 7, INF_ROW = 20 };
    char *a = some_elements(t, M * K, 1), *b = some_elements(t, N * K, 2), *c = some_elements(t, M * N, 3);
    struct hop_rt rt = { .parallel = at_once };
    int64_t size = dtype_info[t].size;
    for (int64_t i = 0; i < N * K; i++) element_set_real(t, b + i * size, 1 + (double)(i % 5));
    element_set_real(t, a + (NAN_ROW * K + 1) * size, NAN);
    element_set_real(t, a + (INF_ROW * K + K - 1) * size, -INFINITY);
    for (int tb = 0; tb < 2; tb++) {
        int64_t wrong = 0;
        gemm(&rt, HOP_RT_DTYPES(t, t, t), 0, tb, M, N, K, a, K, b, tb ? K : N, c, N, 0);
        for (int64_t i = 0; i < M * N; i++) {
            double x = element_real(t, c + i * size);
            bool right = i / N == NAN_ROW ? isnan(x) : i / N == INF_ROW ? x == -INFINITY : isfinite(x);
            wrong += !right;
        }
        CLAIM(!wrong, "%s with NaN and an infinity, %d: %lld are wrong", dtype_info[t].name, tb,
              (long long)wrong);
    }
    free(a), free(b), free(c);
}

/* ---- batches ---- */

/* A batch is its matrices one by one, bit for bit, however the pieces are run; nothing between them changes.
 * Operands may be shared. */
static void test_batch(enum dtype t, int64_t batch, int64_t m, int64_t n, int64_t k, int how)
{
    bool ta = how & 1, tb = how & 2, accumulate = how & 4;
    int64_t lda = (ta ? m : k) + 1, ldb = (tb ? k : n) + how % 3, ldc = n + (how & 8 ? 0 : 3);
    int64_t size = dtype_info[t].size, a_apart = (ta ? k : m) * lda, b_apart = (tb ? n : k) * ldb + 4;
    if (how & 16) b_apart = 0;
    struct hop_rt_gemm g = { .dtypes = HOP_RT_DTYPES(t, t, t),
                             .ta = ta,
                             .tb = tb,
                             .accumulate = accumulate,
                             .m = m,
                             .n = n,
                             .k = k,
                             .lda = lda,
                             .ldb = ldb,
                             .ldc = ldc,
                             .batch = batch,
                             .a_apart = a_apart,
                             .b_apart = b_apart,
                             .c_apart = m * ldc + (how & 8 ? 0 : 7) };
    char *a = some_elements(t, batch * a_apart, 4),
         *b = some_elements(t, batch * b_apart + n * k + ldb * k + k, 5);
    int64_t count = batch * g.c_apart;
    char *one = some_elements(t, count, 6), *all = some_elements(t, count, 6),
         *before = some_elements(t, count, 6);
    struct hop_rt rt = { .parallel = in_pieces };
    at_a_time = INT32_MAX;
    for (int64_t i = 0; i < batch; i++)
        gemm(&rt, g.dtypes, ta, tb, m, n, k, a + i * a_apart * size, lda, b + i * b_apart * size, ldb,
             one + i * g.c_apart * size, ldc, accumulate);
    static const int64_t counts[] = { INT32_MAX, 1, 3, 16 };
    for (size_t c = 0; c < HOP_COUNT(counts); c++) {
        at_a_time = counts[c];
        backwards = c & 1;
        memcpy(all, before, (size_t)(count * size));
        g.a = a;
        g.b = b;
        g.c = all;
        blas_gemm(&rt, &g);
        CLAIM(!memcmp(one, all, (size_t)(count * size)),
              "%lld of %s %lld x %lld x %lld, case %d, %lld at a time", (long long)batch, dtype_info[t].name,
              (long long)m, (long long)n, (long long)k, how, (long long)at_a_time);
    }
    free(a), free(b), free(one), free(all), free(before);
}

static void test_batches(void)
{
    static const int64_t sizes[][4] = { { 5, 8, 8, 8 },     { 130, 32, 32, 32 }, { 3, 33, 17, 65 },
                                        { 17, 1, 40, 9 },   { 17, 40, 1, 300 },  { 4, 150, 140, 130 },
                                        { 20, 70, 66, 300 } };
    for (size_t s = 0; s < HOP_COUNT(sizes); s++)
        for (int how = 0; how < 32; how++) {
            const int64_t *x = sizes[s];
            bool large = x[0] * x[1] * x[2] * x[3] > 1 << 21;
            if (large && how % 5) continue;
            test_batch(DT_F32, x[0], x[1], x[2], x[3], how);
            test_batch(DT_F64, x[0], x[1], x[2], x[3], how);
            if (!large) test_batch(DT_BF16, x[0], x[1], x[2], x[3], how);
        }
}

/* A product of panels is the product, bit for bit where it has no line of its own; and so of each row. */
static void test_panels_of(enum dtype t, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    int64_t size = dtype_info[t].size, lda = (ta ? m : k) + 1, ldb = (tb ? k : n) + 2, ldc = n + 3;
    int64_t count = lp_panels_count(t, n, k);
    char *a = some_elements(t, (ta ? k : m) * lda, 7), *b = some_elements(t, (tb ? n : k) * ldb, 8),
         *c = some_elements(t, m * ldc, 9), *other = some_elements(t, m * ldc, 9),
         *panels = some_elements(t, count + 1, 10), *end = panels + count * size;
    struct hop_rt rt = { .parallel = in_pieces };
    struct hop_rt_gemm g = {
        .dtypes = HOP_RT_DTYPES(t, t, t), .tb = tb, .n = n, .k = k, .ldb = ldb, .b = b, .c = panels
    };
    char behind[8];
    memcpy(behind, end, (size_t)size);
    at_a_time = INT32_MAX;
    gemm(&rt, g.dtypes, ta, tb, m, n, k, a, lda, b, ldb, c, ldc, true);
    static const int64_t counts[] = { 1, 5 };
    for (size_t i = 0; i < HOP_COUNT(counts); i++) {
        at_a_time = counts[i];
        char *before = some_elements(t, m * ldc, 9);
        memcpy(other, before, (size_t)(m * ldc * size));
        free(before);
        blas_pack(&rt, &g);
        gemm(&rt, g.dtypes, ta, HOP_RT_PANELS, m, n, k, a, lda, panels, 0, other, ldc, true);
        CLAIM(!memcmp(c, other, (size_t)(m * ldc * size)) && !memcmp(end, behind, (size_t)size),
              "%s %lld x %lld x %lld of panels, %d %d", dtype_info[t].name, (long long)m, (long long)n,
              (long long)k, ta, tb);
    }
    free(a), free(b), free(c), free(other), free(panels);
}

static void test_panels(void)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },      { 2, 70, 3 },      { 5, 64, 300 }, { 48, 200, 513 },
                                        { 300, 31, 700 }, { 500, 130, 257 }, { 1, 400, 300 } };
    for (size_t s = 0; s < HOP_COUNT(sizes); s++)
        for (int how = 0; how < 4; how++) {
            test_panels_of(DT_F32, sizes[s][0], sizes[s][1], sizes[s][2], how & 1, how & 2);
            test_panels_of(DT_F64, sizes[s][0], sizes[s][1], sizes[s][2], how & 1, how & 2);
        }
}

/* Of what is converted, or multiplied by dot products. */
static void test_narrow_panels(void)
{
    static const enum dtype dtypes[] = { DT_BF16, DT_F16, DT_I8, DT_U8 };
    static const int64_t sizes[][3] = { { 1, 3, 2 },      { 2, 70, 3 },     { 5, 64, 300 }, { 48, 200, 513 },
                                        { 130, 31, 701 }, { 97, 130, 257 }, { 33, 260, 50 } };
    for (size_t s = 0; s < HOP_COUNT(sizes); s++)
        for (size_t d = 0; d < HOP_COUNT(dtypes); d++)
            for (int how = 0; how < 4; how++)
                test_panels_of(dtypes[d], sizes[s][0], sizes[s][1], sizes[s][2], how & 1, how & 2);
}

/* ---- threads ---- */

static uint32_t n_threads;
static int32_t on_threads(struct hop_rt *rt,
                          int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env,
                          int64_t n, int64_t grain)
{
    return pool_run(n_threads, rt, body, env, n, grain);
}

#ifdef __SANITIZE_ADDRESS__
enum { RANDOM_PRODUCTS = 12, MOST_WORK = 500000 };
#else
enum { RANDOM_PRODUCTS = 100, MOST_WORK = 3000000 };
#endif

/* A product to be tried; pads: elements behind each row of A, B and C, and behind each matrix. */
struct trial {
    enum dtype c_dtype, a_dtype, b_dtype;
    int64_t m, n, k, batch, pads[3];
    bool ta, tb, accumulate, shared; /* shared: all matrices of a batch have one B */
};

static struct hop_rt_gemm gemm_of(const struct trial *t)
{
    struct hop_rt_gemm g = { .dtypes = HOP_RT_DTYPES(t->c_dtype, t->a_dtype, t->b_dtype),
                             .ta = t->ta,
                             .tb = t->tb,
                             .accumulate = t->accumulate,
                             .m = t->m,
                             .n = t->n,
                             .k = t->k,
                             .lda = (t->ta ? t->m : t->k) + t->pads[0],
                             .ldb = (t->tb ? t->k : t->n) + t->pads[1],
                             .ldc = t->n + t->pads[2],
                             .batch = t->batch };
    g.a_apart = (t->ta ? t->k : t->m) * g.lda + t->pads[0];
    g.b_apart = t->shared ? 0 : (t->tb ? t->n : t->k) * g.ldb + t->pads[1];
    g.c_apart = t->m * g.ldc + t->pads[2];
    return g;
}

/* How many elements of a matrix are not what doubles give, roundings aside; whole numbers wrap around. */
static int64_t elements_off(const struct trial *t, const struct hop_rt_gemm *g, int64_t matrix,
                            const char *before)
{
    const char *a = (const char *)g->a + matrix * g->a_apart * dtype_info[t->a_dtype].size,
               *b = (const char *)g->b + matrix * g->b_apart * dtype_info[t->b_dtype].size;
    double *rows = as_doubles(t->a_dtype, a, t->m, t->ta ? 1 : g->lda, t->k, t->ta ? g->lda : 1);
    double *columns = as_doubles(t->b_dtype, b, t->n, t->tb ? g->ldb : 1, t->k, t->tb ? 1 : g->ldb);
    double unit = t->c_dtype == DT_F64 ? 0x1p-52 : 0x1p-23;
    double rounded = t->c_dtype == DT_F16 ? 0x1p-10 : t->c_dtype == DT_BF16 ? 0x1p-7 : 0;
    int64_t size = dtype_info[t->c_dtype].size, off = 0;
    int64_t step = 1 + t->m * t->n * t->k / MOST_WORK; /* some rows of a large one */
    for (int64_t i = 0; i < t->m; i += step)
        for (int64_t j = 0; j < t->n; j++) {
            int64_t at = matrix * g->c_apart + i * g->ldc + j;
            const char *here = (const char *)g->c + at * size, *was = before + at * size;
            double sum = 0, large = 0;
            for (int64_t u = 0; u < t->k; u++) {
                double x = rows[i * t->k + u] * columns[j * t->k + u];
                sum += x;
                large += fabs(x);
            }
            if (dtype_is_float(t->c_dtype)) {
                double first = t->accumulate ? element_real(t->c_dtype, was) : 0;
                double bound = unit * (double)(t->k + 1) * (large + fabs(first)) +
                               rounded * fabs(sum + first);
                uint64_t expected = 0; /* infinite, beyond f16 */
                element_set_real(t->c_dtype, &expected, sum + first);
                bool equal = !memcmp(&expected, here, (size_t)size);
                off += !equal && !(fabs(element_real(t->c_dtype, here) - sum - first) <= bound);
                continue;
            }
            int64_t whole = (int64_t)sum + (t->accumulate ? element_whole(t->c_dtype, was) : 0);
            off += memcmp(&whole, here, (size_t)size) != 0;
        }
    free(rows), free(columns);
    return off;
}

/* Elements of C that a product does not have: behind its rows and its matrices. */
static bool keeps_the_rest(const struct trial *t, const struct hop_rt_gemm *g, const char *before)
{
    int64_t size = dtype_info[t->c_dtype].size, count = t->batch * g->c_apart;
    bool kept = true;
    for (int64_t i = 0; i < count; i++) {
        int64_t in = i % g->c_apart;
        bool inside = in / g->ldc < t->m && in % g->ldc < t->n;
        kept &= inside || !memcmp((const char *)g->c + i * size, before + i * size, (size_t)size);
    }
    return kept;
}

/* Numbers are right, and their bits do not depend on the number of threads. */
static void try_product(const struct trial *t, const char *name, uint64_t seed)
{
    static const uint32_t counts[] = { 1, 2, 3, 7, 16 };
    struct hop_rt rt = { .parallel = on_threads };
    struct hop_rt_gemm g = gemm_of(t);
    size_t bytes = (size_t)(t->batch * g.c_apart) * dtype_info[t->c_dtype].size;
    int64_t of_b = HOP_MAX(t->shared ? 1 : t->batch, 1) * ((t->tb ? t->n : t->k) * g.ldb + t->pads[1]);
    char *a = some_fractions(t->a_dtype, t->batch * g.a_apart, seed + 11),
         *b = some_fractions(t->b_dtype, of_b, seed + 12),
         *before = some_fractions(t->c_dtype, t->batch * g.c_apart, seed + 13), *first = calloc(bytes + 1, 1),
         *other = calloc(bytes + 1, 1);
    g.a = a;
    g.b = b;
    for (size_t i = 0; i < HOP_COUNT(counts); i++) {
        n_threads = counts[i];
        pool_set_threads(n_threads);
        g.c = i ? other : first;
        memcpy(g.c, before, bytes);
        blas_gemm(&rt, &g);
        CLAIM(!i || !memcmp(first, other, bytes), "%s: %u threads", name, n_threads);
    }
    pool_set_threads(0);
    g.c = first;
    int64_t some = 1 + (1 << 20) / HOP_MAX(t->m * t->n * t->k, 1), off = 0; /* all matrices, or a few */
    for (int64_t i = 0; i < t->batch && i < some; i++) off += elements_off(t, &g, i, before);
    CLAIM(!off, "%s: %lld elements are wrong", name, (long long)off);
    CLAIM(keeps_the_rest(t, &g, before), "%s: writes beside its result", name);
    free(a), free(b), free(before), free(first), free(other);
}

static const char *trial_name(const struct trial *t, char out[200])
{
    snprintf(out, 200, "%lld of %s by %s in %s, %lld x %lld x %lld, %s%s%s%s, rows %lld, %lld, %lld longer",
             (long long)t->batch, dtype_info[t->a_dtype].name, dtype_info[t->b_dtype].name,
             dtype_info[t->c_dtype].name, (long long)t->m, (long long)t->n, (long long)t->k,
             t->ta ? "ta " : "", t->tb ? "tb " : "", t->accumulate ? "added " : "", t->shared ? "shared" : "",
             (long long)t->pads[0], (long long)t->pads[1], (long long)t->pads[2]);
    return out;
}

static void test_threads(void)
{
    static const int64_t sizes[][4] = { { 300, 300, 1024, 1 }, { 700, 500, 300, 1 }, { 256, 200, 64, 40 },
                                        { 200, 200, 200, 5 },  { 32, 32, 32, 200 },  { 1, 2048, 1024, 1 },
                                        { 1024, 1, 2048, 1 },  { 32, 32, 8192, 1 },  { 20, 17, 30011, 1 } };
    static const enum dtype dtypes[][2] = { { DT_F32, DT_F32 }, { DT_F64, DT_F64 }, { DT_BF16, DT_BF16 },
                                            { DT_F16, DT_F16 }, { DT_F32, DT_F16 }, { DT_F32, DT_BF16 },
                                            { DT_I32, DT_I8 } };
    char name[200];
    for (size_t s = 0; s < HOP_COUNT(sizes); s++)
        for (size_t d = 0; d < HOP_COUNT(dtypes); d++)
            for (int how = 0; how < 4; how++) {
                const int64_t *x = sizes[s];
                struct trial t = { dtypes[d][0], dtypes[d][1], dtypes[d][1], x[0], x[1], x[2], x[3] };
                t.ta = how & 1;
                t.tb = how & 2;
                t.accumulate = t.ta != t.tb;
                try_product(&t, trial_name(&t, name), 0);
            }
}

/* ---- random products ---- */

static uint64_t random_state;
static int64_t below(int64_t n)
{
    random_state = hash_bytes(&random_state, sizeof random_state, 1);
    return (int64_t)(random_state % (uint64_t)n);
}
static int64_t one_of(const int64_t *list, int64_t n) { return list[below(n)]; }

/* Sizes beside the edges of tiles, panels, blocks and stretches, and any others. */
static int64_t some_lines(void)
{
    static const int64_t edges[] = { 1,  2,  3,  4,  6,  8,  9,  12,  13,  16,
                                     31, 32, 33, 64, 65, 96, 97, 128, 192, 257 };
    return below(3) ? one_of(edges, HOP_COUNT(edges)) : 1 + below(300);
}
static int64_t some_depth(void)
{
    static const int64_t edges[] = { 1, 2, 3, 4, 5, 63, 64, 65, 255, 256, 257, 511, 513, 768, 1025 };
    return below(3) ? one_of(edges, HOP_COUNT(edges)) : 1 + below(700);
}

static void test_random(uint64_t seed)
{
    static const enum dtype dtypes[][3] = {
        { DT_F32, DT_F32, DT_F32 },   { DT_F64, DT_F64, DT_F64 }, { DT_BF16, DT_BF16, DT_BF16 },
        { DT_F32, DT_BF16, DT_BF16 }, { DT_F16, DT_F16, DT_F16 }, { DT_F32, DT_F16, DT_F16 },
        { DT_F32, DT_F32, DT_BF16 },  { DT_F32, DT_F16, DT_F32 }, { DT_F16, DT_BF16, DT_F16 },
        { DT_BF16, DT_F32, DT_F32 },  { DT_I32, DT_I8, DT_I8 },   { DT_I32, DT_U8, DT_I8 },
        { DT_I32, DT_I8, DT_U8 },     { DT_U32, DT_U8, DT_U8 },   { DT_I64, DT_I8, DT_BOOL },
        { DT_I8, DT_I8, DT_I8 },      { DT_U16, DT_U8, DT_U8 },
    };
    char text[200], name[256];
    random_state = seed;
    const enum dtype *d = dtypes[below(HOP_COUNT(dtypes))];
    struct trial t = { .c_dtype = d[0], .a_dtype = d[1], .b_dtype = d[2] };
    do {
        t.m = some_lines();
        t.n = some_lines();
        t.k = some_depth();
        t.batch = below(3) ? 1 : 1 + below(50);
    } while (t.m * t.n * t.k * t.batch > MOST_WORK);
    t.ta = below(2);
    t.tb = below(2);
    t.accumulate = below(2);
    t.shared = below(2);
    for (int i = 0; i < 3; i++) t.pads[i] = below(2) ? below(9) : 0;
    snprintf(name, sizeof name, "random product %llu: %s", (unsigned long long)seed, trial_name(&t, text));
    try_product(&t, name, seed);
}

static uint64_t hash_of_environment(void)
{
    uint64_t h = 0;
    for (char **e = environ; *e; e++) h = hash_bytes(*e, strlen(*e), h);
    return h;
}

static void test_loading(void)
{
    char **before = environ;
    uint64_t hash = hash_of_environment();
    bool chosen = getenv("OPENBLAS_CORETYPE") != NULL;
    const char *what = blas_description(), *kernel = strstr(what, "kernel ");
    CLAIM(*what, "it is described");
    CLAIM(environ == before && hash_of_environment() == hash, "loading leaves the environment as it was");
    if (!blas_library()) return;
    char name[64] = "";
    CLAIM(kernel && sscanf(kernel, "kernel %63[A-Za-z0-9_]", name) == 1, "'%s' names a kernel", what);
    CLAIM(chosen || blas_kernel_fits(name), "the kernel %s uses what this processor can do", name);
    CLAIM(blas_kernel_fits("SkylakeX") || !blas_kernel_fits("Prescott"),
          "an old kernel does not fit a new processor");
}

/* What a child says, its last line. */
static void child(const char *self, const char *setting, const char *mode, char out[256])
{
    char command[1024], line[256];
    snprintf(command, sizeof command, "%s '%s' %s", setting, self, mode);
    FILE *f = popen(command, "r");
    out[0] = 0;
    while (f && fgets(line, sizeof line, f)) memcpy(out, line, sizeof line);
    out[strcspn(out, "\n")] = 0;
    if (f && pclose(f)) snprintf(out, 256, "it failed");
}

int main(int argc, char **argv)
{
    char said[256];
    if (argc > 1 && !strcmp(argv[1], "core")) return puts(blas_description()) < 0;
    /* Without a key threads keep no memory: small blocks on the stack do. */
    pthread_key_t key;
    while (argc > 1 && !strcmp(argv[1], "small") && !pthread_key_create(&key, NULL)) continue;
    test_loading();
    test_products();
    test_conversions();
    test_special(DT_BF16);
    test_special(DT_F32);
    test_batches();
    test_panels();
    test_narrow_panels();
    if (argc > 1) return tests_end();
    test_streamed();
    test_threads();
    for (uint64_t seed = 0; seed < RANDOM_PRODUCTS; seed++) test_random(seed);
    test_pieces();
    test_few_rows();
    for (int level = 3; level >= 0; level--) { /* which any machine with a higher one has, too */
        product_kernels_limit(level);
        test_conversions();
        test_narrow_panels();
        for (uint64_t seed = 0; seed < RANDOM_PRODUCTS; seed++)
            test_random((uint64_t)(level + 1) * RANDOM_PRODUCTS + seed);
        if (level > 1) continue;
        test_products();
        test_pieces();
        test_few_rows();
        test_batches();
        test_panels();
    }
    product_kernels_limit(INT32_MAX);
    child(argv[0], "HOP_BLAS=off", "own", said);
    CLAIM(strstr(said, " 0 failed"), "hop's own kernels: %s", said);
    child(argv[0], "", "small", said);
    CLAIM(strstr(said, " 0 failed"), "without memory for panels: %s", said);
    child(argv[0], "HOP_BLAS=off", "core", said);
    CLAIM(strstr(said, "hop's own kernels") && strstr(said, "HOP_BLAS is off"), "%s", said);
    child(argv[0], "HOP_BLAS=/nowhere/libopenblas.so.0", "own", said);
    CLAIM(strstr(said, " 0 failed"), "a library that is not there: %s", said);
    child(argv[0], "HOP_BLAS=/nowhere/libopenblas.so.0", "core", said);
    CLAIM(strstr(said, "hop's own kernels") && strstr(said, "/nowhere/"), "%s", said);
    child(argv[0], "HOP_BLAS=libm.so.6", "core", said);
    CLAIM(strstr(said, "hop's own kernels") && strstr(said, "cblas_sgemm"), "a library that is no BLAS: %s",
          said);
    child(argv[0], "HOP_BLAS=libopenblas.so.0", "core", said);
    if (!strstr(said, "OpenBLAS")) return tests_end(); /* it is not installed */
    child(argv[0], "HOP_BLAS=libopenblas.so.0", "own", said);
    CLAIM(strstr(said, " 0 failed"), "OpenBLAS: %s", said);
    child(argv[0], "HOP_BLAS=libopenblas.so.0", "small", said);
    CLAIM(strstr(said, " 0 failed"), "OpenBLAS without memory for blocks: %s", said);
    child(argv[0], "OPENBLAS_CORETYPE=Prescott HOP_BLAS=libopenblas.so.0", "core", said);
#if defined(__x86_64__)
    CLAIM(strstr(said, "kernel Prescott, which does not use all"), "what the user has set is respected: %s",
          said);
#endif
    return tests_end();
}
