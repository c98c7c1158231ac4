/* Finds and loads the plug-in that makes machine code, once, when something is to be compiled for the first time. */
#include "emit/emit.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>

static const char plug_in[] = "libhop_llvm.so";
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct emit_backend *loaded;
static char why_not[1100];

static bool try_path(const char *path)
{
    if (access(path, R_OK)) return false;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle) loaded = dlsym(handle, "hop_llvm_backend");
    if (!loaded) snprintf(why_not, sizeof why_not, "%s", dlerror());
    return true;
}

/* The file that this code is in: the library, or the program it was linked into. */
static bool own_path(char path[PATH_MAX])
{
    Dl_info info;
    if (dladdr((void *)own_path, &info) && info.dli_fname && strchr(info.dli_fname, '/') && realpath(info.dli_fname, path)) return true;
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (n > 0) path[n] = 0;
    return n > 0;
}

static void load(void)
{
    static const char *const places[] = { "", "../", "../lib/hop/", "../lib/" };
    char own[PATH_MAX], path[PATH_MAX + 64];
    const char *named = getenv("HOP_BACKEND");
    if (named && try_path(named)) return;
    if (!own_path(own)) own[0] = 0;
    char *slash = strrchr(own, '/');
    if (slash) slash[1] = 0;
    for (size_t i = 0; slash && i < HOP_COUNT(places); i++) {
        snprintf(path, sizeof path, "%s%s%s", own, places[i], plug_in);
        if (try_path(path)) return;
    }
    snprintf(why_not, sizeof why_not, "%s was not found beside %.900s, nor in ../lib/hop, nor in $HOP_BACKEND", plug_in, slash ? own : "the program");
}

const struct emit_backend *backend_get(void)
{
    pthread_once(&once, load);
    if (!loaded) hop_set_message("compiling needs the LLVM back end: %s", why_not);
    return loaded;
}
