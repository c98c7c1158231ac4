/* The library that multiplies: which kernel it was loaded with, what loading leaves of the environment, and
 * products by hop's own loops, which serve where there is no library. Children run with other environments:
 * blas_test own | core. */
#include "check.h"
#include "ir/ir.h"
#include "runtime/blas.h"
#include "loop/rt.h"

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static int32_t at_once(struct hop_rt *rt,
                       int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env,
                       int64_t n, int64_t grain)
{
    (void)grain;
    return body(rt, env, 0, n);
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
        blas_gemm(&rt, dtype, ta, tb, m, n, k, a, lda, b, ldb, c, ldc, accumulate); \
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
PRODUCTS_OF(float, DT_F32)
PRODUCTS_OF(double, DT_F64)

static void test_products(void)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },     { 3, 4, 5 },     { 1, 9, 7 },
                                        { 9, 1, 7 },     { 4, 5, 0 },     { 65, 33, 17 },
                                        { 70, 61, 300 }, { 5, 300, 513 }, { 256, 256, 256 } };
    for (size_t s = 0; s < HOP_COUNT(sizes); s++)
        for (int how = 0; how < 8; how++) {
            int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            double f = worst_float(m, n, k, how & 1, how & 2, how & 4),
                   d = worst_double(m, n, k, how & 1, how & 2, how & 4);
            CLAIM(f <= 1e-6 * 4 * (double)(k + 1), "f32 %lld x %lld x %lld, case %d: off by %g", (long long)m,
                  (long long)n, (long long)k, how, f);
            CLAIM(d <= 1e-15 * 4 * (double)(k + 1), "f64 %lld x %lld x %lld, case %d: off by %g",
                  (long long)m, (long long)n, (long long)k, how, d);
        }
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
    test_loading();
    test_products();
    if (argc > 1 || !blas_library()) return tests_end();
    child(argv[0], "HOP_BLAS=off", "own", said);
    CLAIM(strstr(said, " 0 failed"), "hop's own loops: %s", said);
    child(argv[0], "HOP_BLAS=off", "core", said);
    CLAIM(strstr(said, "hop's own loops") && strstr(said, "HOP_BLAS is off"), "%s", said);
    child(argv[0], "HOP_BLAS=/nowhere/libopenblas.so.0", "own", said);
    CLAIM(strstr(said, " 0 failed"), "a library that is not there: %s", said);
    child(argv[0], "HOP_BLAS=/nowhere/libopenblas.so.0", "core", said);
    CLAIM(strstr(said, "hop's own loops") && strstr(said, "/nowhere/"), "%s", said);
    child(argv[0], "HOP_BLAS=libm.so.6", "core", said);
    CLAIM(strstr(said, "hop's own loops") && strstr(said, "cblas_sgemm"), "a library that is no BLAS: %s",
          said);
    child(argv[0], "OPENBLAS_CORETYPE=Prescott", "core", said);
#if defined(__x86_64__)
    CLAIM(strstr(said, "kernel Prescott, which does not use all"), "what the user has set is respected: %s",
          said);
#endif
    return tests_end();
}
