/* Finds the plug-in that makes machine code, and loads it once, when something is to be compiled for the first time. */
#include "emit/emit.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#ifndef HOP_PLUGIN_DIR /* where the plug-in is installed, "/usr/local/lib/hop/": the static library of an installation knows it */
#define HOP_PLUGIN_DIR ""
#endif

static const char plug_in[] = "libhop_llvm.so";
static pthread_once_t finding = PTHREAD_ONCE_INIT, loading = PTHREAD_ONCE_INIT;
static const struct emit_backend *loaded;
static char found[PATH_MAX + 64], why_not[1100];

static bool try_path(const char *path)
{
    if (access(path, R_OK)) return false;
    snprintf(found, sizeof found, "%s", path);
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

static void find(void)
{
    static const char *const places[] = { "", "hop/", "../", "../lib/hop/", "../lib/" }; /* beside the program, beside the library, from tests/, from bin/ */
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
    if (*HOP_PLUGIN_DIR && try_path(HOP_PLUGIN_DIR "libhop_llvm.so")) return;
    snprintf(why_not, sizeof why_not, "%s was not found beside %.900s, nor in hop/ or ../lib/hop/ there, nor in $HOP_BACKEND", plug_in, slash ? own : "the program");
}

const char *backend_path(void)
{
    pthread_once(&finding, find);
    return found[0] ? found : NULL;
}

static void load(void)
{
    if (!backend_path()) return;
    void *handle = dlopen(found, RTLD_NOW | RTLD_LOCAL);
    if (handle) loaded = dlsym(handle, "hop_llvm_backend");
    if (!loaded) snprintf(why_not, sizeof why_not, "%s", dlerror());
}

const struct emit_backend *backend_get(void)
{
    pthread_once(&loading, load);
    if (!loaded) hop_set_message("compiling needs the LLVM back end: %s", why_not);
    return loaded;
}

/* The executable segment around ask[0], to ask[0] and ask[1]. */
static int find_code(struct dl_phdr_info *info, size_t size, void *ask)
{
    uintptr_t *range = ask;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || range[0] < from || range[0] >= to) continue;
        range[0] = from;
        range[1] = to;
        return 1;
    }
    return 0;
}

bool backend_code(uintptr_t *first, uintptr_t *end)
{
    if (!loaded || !loaded->code) return false;
    uintptr_t range[2] = { (uintptr_t)loaded->code };
    if (!dl_iterate_phdr(find_code, range)) return false;
    *first = range[0];
    *end = range[1];
    return true;
}

int native_compile(const struct emit_backend *b, const struct lp *p, const struct emit_options *o, struct native *out, char error[512])
{
    if (b->compile(p, o, out, error)) return 1;
    if (!object_load(out->object, out->object_bytes, &out->code, error)) return 0;
    native_free(out);
    return 1;
}

void native_free(struct native *n)
{
    object_unload(&n->code);
    free(n->object);
    free(n->llvm);
    free(n->assembly);
    *n = (struct native){ 0 };
}
