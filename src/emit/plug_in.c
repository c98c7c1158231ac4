/* Finds plug-ins, and loads the one that makes machine code once, when something is to be compiled for the
 * first time. */
#include "emit/emit.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where plug-ins are installed, "/usr/local/lib/hop/": the static library of an installation knows it. */
#ifndef HOP_PLUGIN_DIR
#define HOP_PLUGIN_DIR ""
#endif

static pthread_once_t finding = PTHREAD_ONCE_INIT, loading = PTHREAD_ONCE_INIT;
static const struct code_generator *loaded;
static struct plug_in generator = { .file = "libhop_llvm.so", .variable = "HOP_BACKEND" };

/* May this file be loaded? A process with rights that its caller does not have loads only what nobody but
 * root or the owner of those rights can change: its own file may have been linked into any directory. */
static bool is_trusted(const char *path)
{
    struct stat st;
    char parent[PATH_MAX + 64];
    if (!getauxval(AT_SECURE)) return true;
    snprintf(parent, sizeof parent, "%s", path);
    for (char *end = parent + strlen(parent); end; end = strrchr(parent, '/')) {
        *end = 0;
        if (stat(*parent ? parent : "/", &st) || (st.st_uid && st.st_uid != geteuid())) return false;
        bool others_write = st.st_mode & (S_IWGRP | S_IWOTH),
             only_their_own = S_ISDIR(st.st_mode) && st.st_mode & S_ISVTX;
        if (others_write && !only_their_own) return false;
    }
    return true;
}

static bool try_path(struct plug_in *p, const char *path)
{
    if (*path != '/' || access(path, R_OK) || !is_trusted(path)) return false;
    snprintf(p->path, sizeof p->path, "%s", path);
    return true;
}

/* The file that is mapped at an address, as the kernel names it. */
static bool mapped_path(uintptr_t address, char path[PATH_MAX])
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t room = 0;
    bool here = false;
    while (maps && !here && getline(&line, &room, maps) > 0) {
        unsigned long from, to;
        char *name = strchr(line, '/');
        here = sscanf(line, "%lx-%lx", &from, &to) == 2 && from <= address && address < to && name;
        if (!here) continue;
        name[strcspn(name, "\n")] = 0;
        if (realpath(name, path)) continue;
        here = false;
        path[0] = 0;
    }
    free(line);
    if (maps) fclose(maps);
    return here;
}

/* The file that this code is in: the library, or the program it was linked into. Neither the way the program
 * was called nor the working directory says where that is. */
static bool own_path(char path[PATH_MAX])
{
    Dl_info info;
    struct link_map *map = NULL;
    bool known = dladdr1((void *)own_path, &info, (void **)&map, RTLD_DL_LINKMAP) && map;
    if (!known || !map->l_name[0]) { /* the program */
        ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
        if (n > 0) path[n] = 0;
        return n > 0 && path[0] == '/';
    }
    if (map->l_name[0] == '/') return realpath(map->l_name, path);
    /* loaded by a path that began at what was the working directory then */
    return mapped_path((uintptr_t)own_path, path);
}

bool plug_in_find(struct plug_in *p)
{
    /* beside the program, beside the library, from tests/, from bin/ */
    static const char *const places[] = { "", "hop/", "../", "../lib/hop/", "../lib/" };
    char own[PATH_MAX], path[PATH_MAX + 64], whole[PATH_MAX];
    /* NULL in a process with rights that its caller does not have. */
    const char *named = secure_getenv(p->variable);
    if (named && try_path(p, named)) return true;
    if (!own_path(own)) own[0] = 0;
    char *slash = strrchr(own, '/');
    if (slash) slash[1] = 0;
    for (size_t i = 0; slash && i < HOP_COUNT(places); i++) {
        snprintf(path, sizeof path, "%s%s%s", own, places[i], p->file);
        if (realpath(path, whole) && try_path(p, whole)) return true;
    }
    snprintf(path, sizeof path, "%s%s", HOP_PLUGIN_DIR, p->file);
    if (*HOP_PLUGIN_DIR && try_path(p, path)) return true;
    bool is_relative = named && *named && *named != '/';
    snprintf(p->why_not, sizeof p->why_not,
             "%s was not found beside %.900s, nor in hop/ or ../lib/hop/ there, nor in $%s", p->file,
             slash ? own : "the program", p->variable);
    size_t said = strlen(p->why_not);
    if (is_relative)
        snprintf(p->why_not + said, sizeof p->why_not - said, "; $%s must be a path from the root",
                 p->variable);
    return false;
}

void *plug_in_load(struct plug_in *p, const char *symbol)
{
    void *handle = dlopen(p->path, RTLD_NOW | RTLD_LOCAL), *found = handle ? dlsym(handle, symbol) : NULL;
    if (!found) snprintf(p->why_not, sizeof p->why_not, "%s", dlerror());
    return found;
}

static void find(void) { plug_in_find(&generator); }

const char *plug_in_path(void)
{
    pthread_once(&finding, find);
    return generator.path[0] ? generator.path : NULL;
}

static void load(void)
{
    if (plug_in_path()) loaded = plug_in_load(&generator, "hop_llvm_generator");
}

const struct code_generator *plug_in_get(void)
{
    pthread_once(&loading, load);
    if (!loaded) hop_set_message("compiling needs the LLVM back end: %s", generator.why_not);
    return loaded;
}

/* The executable segment around ask[0], to ask[0] and ask[1]. */
static int find_code(struct dl_phdr_info *info, size_t size, void *ask)
{
    uintptr_t *range = ask;
    HOP_UNUSED(size);
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

bool plug_in_code(uintptr_t *first, uintptr_t *end)
{
    if (!loaded || !loaded->code) return false;
    uintptr_t range[2] = { (uintptr_t)loaded->code };
    if (!dl_iterate_phdr(find_code, range)) return false;
    *first = range[0];
    *end = range[1];
    return true;
}

int native_compile(const struct code_generator *b, const struct lp *p, const struct emit_options *o,
                   struct native *out, char error[512])
{
    int status = b->compile(p, o, out, error);
    if (status) return status;
    status = object_load(out->object, out->object_bytes, &out->code, error);
    if (status) native_free(out);
    return status;
}

void native_free(struct native *n)
{
    object_unload(&n->code);
    free(n->object);
    free(n->ir_text);
    free(n->machine_text);
    *n = (struct native){ 0 };
}
