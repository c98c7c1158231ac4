/* Finds OpenBLAS and loads it, when something is to be multiplied for the first time: loading takes ten times
 * as long as all else that a small program does.
 *
 * OpenBLAS chooses its kernels while it is loaded, by the processor's model. A version that is older than the
 * processor does not know the model and takes kernels for one of twenty years ago, five times slower. So the
 * kernel that it chose is compared with what the processor can do, and where it falls short the library is
 * unloaded and loaded again with OPENBLAS_CORETYPE in its environment. Neither happens to a library that
 * somebody else has loaded, nor when the user has set that variable. */
#include "runtime/blas.h"
#include "base/base.h"
#include "runtime/product_kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct blas found;
static bool is_there;
static char description[512];

/* ---- the environment, while a library is loaded ---- */

/* A list of variables with two more, put in place of the process's for a moment. Other threads read one list
 * or the other, both whole; setenv would free the one they are reading. So this list is never freed. */
struct surroundings {
    char **before, **with;
};

static bool is_set(const char *name) { return getenv(name) != NULL; }

static struct surroundings surround(const char *threads, const char *core)
{
    struct surroundings s = { .before = environ };
    size_t n = 0, more = 0;
    while (environ && environ[n]) n++;
    s.with = malloc((n + 3) * sizeof *s.with);
    if (!s.with) return s;
    if (threads) s.with[more++] = (char *)threads;
    if (core) s.with[more++] = (char *)core;
    if (n) memcpy(s.with + more, environ, n * sizeof *environ);
    s.with[more + n] = NULL;
    environ = s.with;
    return s;
}

static void surround_end(struct surroundings s, const char *threads, const char *core)
{
    static char **_Atomic kept; /* so that no leak checker takes it for lost */
    if (!s.with) return;
    atomic_store(&kept, s.with);
    if (environ == s.with) {
        environ = s.before;
        return;
    }
    if (threads)
        unsetenv(
            "OPENBLAS_NUM_THREADS"); /* another thread has set something meanwhile, in a list of its own */
    if (core) unsetenv("OPENBLAS_CORETYPE");
}

/* ---- kernels and processors ---- */

enum width { PLAIN, AVX, AVX2, AVX512 }; /* what a kernel is made for; each contains those before it */
static const struct kernel {
    const char *name;
    enum width width;
} kernels[] = {
    { "SkylakeX", AVX512 }, { "Cooperlake", AVX512 }, { "SapphireRapids", AVX512 }, { "Haswell", AVX2 },
    { "Zen", AVX2 },        { "Excavator", AVX2 },    { "Sandybridge", AVX },       { "Bulldozer", AVX },
    { "Piledriver", AVX },  { "Steamroller", AVX },
};

#if defined(__x86_64__) || defined(__i386__)
static enum width processor_width(void)
{
    __builtin_cpu_init();
    bool fma = __builtin_cpu_supports("fma");
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (wide && fma) return AVX512;
    if (__builtin_cpu_supports("avx2") && fma) return AVX2;
    return __builtin_cpu_supports("avx") ? AVX : PLAIN;
}
static const char *wanted_core(void)
{
    switch (processor_width()) {
    case AVX512: return "OPENBLAS_CORETYPE=SkylakeX"; /* which every version with AVX-512 kernels has */
    case AVX2: return __builtin_cpu_is("amd") ? "OPENBLAS_CORETYPE=Zen" : "OPENBLAS_CORETYPE=Haswell";
    case AVX: return "OPENBLAS_CORETYPE=Sandybridge";
    default: return NULL;
    }
}
#else
static enum width processor_width(void) { return PLAIN; } /* elsewhere its choice stands */
static const char *wanted_core(void) { return NULL; }
#endif

static enum width kernel_width(const char *name)
{
    for (size_t i = 0; i < HOP_COUNT(kernels); i++)
        if (!strcasecmp(kernels[i].name, name)) return kernels[i].width;
    return PLAIN;
}

bool blas_kernel_fits(const char *kernel) { return kernel_width(kernel) >= processor_width(); }

/* ---- loading ---- */

static void *load(const char *file, const char *core)
{
    /* Unless told, it starts a thread for every processor at once. */
    const char *threads = is_set("OPENBLAS_NUM_THREADS") ? NULL : "OPENBLAS_NUM_THREADS=1";
    struct surroundings s = surround(threads, core);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    surround_end(s, threads, core);
    return library;
}

static const char *kernel_of(void *library)
{
    char *(*name)(void) = (char *(*)(void))dlsym(library, "openblas_get_corename");
    return name ? name() : "unknown";
}

/* Loads it anew with the kernel that fits the processor, where its own choice does not. */
static void *load_fitting(const char *file)
{
    void *library = load(file, NULL);
    const char *core = wanted_core();
    if (!library || !core || is_set("OPENBLAS_CORETYPE") || blas_kernel_fits(kernel_of(library)))
        return library;
    dlclose(library);
    library = dlopen(file, RTLD_NOW | RTLD_LOCAL |
                               RTLD_NOLOAD); /* it did not go: somebody has loaded it meanwhile */
    return library ? library : load(file, core);
}

static bool look_up(void *library)
{
    const struct {
        const char *name;
        void *to;
    } functions[] = { { "cblas_sgemm", &found.sgemm },
                      { "cblas_dgemm", &found.dgemm },
                      { "cblas_sgemv", &found.sgemv },
                      { "cblas_dgemv", &found.dgemv } };
    for (size_t i = 0; i < HOP_COUNT(functions); i++) {
        void *f = dlsym(library, functions[i].name);
        if (!f) return false;
        memcpy(functions[i].to, &f, sizeof f);
    }
    return true;
}

/* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …": the first two words. */
static void describe(void *library, bool anothers)
{
    char *(*config)(void) = (char *(*)(void))dlsym(library, "openblas_get_config");
    const char *text = config ? config() : "a BLAS that does not say its version";
    const char *kernel = kernel_of(library);
    size_t n = strcspn(text, " ");
    if (config && text[n]) n += 1 + strcspn(text + n + 1, " ");
    else if (!config) n = strlen(text);
    const char *slow = blas_kernel_fits(kernel) ? "" : ", which does not use all that the processor can do";
    snprintf(description, sizeof description, "%.*s, kernel %s%s%s", (int)HOP_MIN(n, 80u), text, kernel, slow,
             anothers ? "; loaded by another part of the process" : "");
}

/* Says that hop multiplies itself, and why. */
static void own_kernels(const char *why)
{
    const char *made_for = product_kernels_for(), *with = *made_for ? " for " : ", slower";
    snprintf(description, sizeof description, "hop's own kernels%s%s%s%.400s", with, made_for,
             *why ? ": " : "", why);
}

static bool take(void *library, const char *file, bool anothers)
{
    if (!look_up(library)) {
        char why[400];
        snprintf(why, sizeof why, "%.300s has no cblas_sgemm", file);
        own_kernels(why);
        return false;
    }
    void (*set_threads)(int) = (void (*)(int))dlsym(library, "openblas_set_num_threads");
    if (set_threads) set_threads(1); /* hop's own threads share the work */
    describe(library, anothers);
    is_there = true;
    return true;
}

static void find(void)
{
    static const char *const names[] = { "libopenblas.so.0", "libopenblas.so" };
    const char *wish = getauxval(AT_SECURE) ? NULL : getenv("HOP_BLAS"), *only[] = { wish };
    bool named = wish && *wish;
    if ((named && !strcmp(wish, "off")) || (!named && *product_kernels_for())) {
        own_kernels(named ? "HOP_BLAS is off" : "");
        return;
    }
    for (size_t i = 0; i < (named ? 1 : HOP_COUNT(names)); i++) {
        const char *file = (named ? only : names)[i];
        void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        bool anothers = library != NULL;
        if (!library) library = load_fitting(file);
        if (library && take(library, file, anothers)) return;
        const char *why = library ? NULL : dlerror();
        if (library) dlclose(library);
        if (why && !i) own_kernels(why);
    }
}

const struct blas *blas_library(void)
{
    pthread_once(&once, find);
    return is_there ? &found : NULL;
}

const char *blas_description(void)
{
    pthread_once(&once, find);
    return description;
}
