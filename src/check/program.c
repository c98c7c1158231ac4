/* Programs in files, and their functions and parameters by name. */
#include "check/check.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

enum { LARGEST_FILE = 1 << 30 };

/* ---- files ---- */

static void close_file(void *file) { fclose(file); }

char *file_text(struct arena *a, const char *path, size_t *length)
{
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (!f) hop_throw(HOP_IO, "%s: %s", path, strerror(errno));
    hop_cleanup_push(close_file, f);
    if (!fstat(fileno(f), &st) && S_ISDIR(st.st_mode))
        hop_throw(HOP_IO, "%s: is a directory, expected a program", path);
    struct text out = { .arena = a };
    char piece[1 << 14];
    size_t n;
    while ((n = fread(piece, 1, sizeof piece, f)) > 0) {
        if (out.len + n > LARGEST_FILE) hop_throw(HOP_IO, "%s: larger than %d bytes", path, LARGEST_FILE);
        text_bytes(&out, piece, n);
    }
    if (ferror(f)) hop_throw(HOP_IO, "%s: %s", path, strerror(errno));
    if (!out.data) text_str(&out, "");
    hop_cleanup_pop(f);
    fclose(f);
    *length = out.len;
    return out.data;
}

struct module *program_load(const char *path)
{
    struct arena arena = { 0 };
    size_t length;
    hop_cleanup_push(arena_free, &arena);
    const char *text = file_text(&arena, path, &length);
    struct module *m = text_read(path, text, length);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return m;
}

uint32_t program_select(struct module *m, const char *name)
{
    if (name) {
        uint32_t fn = module_find(m, name);
        if (fn == HOP_NONE) hop_throw(HOP_INVALID, "there is no function @%s in the program", name);
        return fn;
    }
    uint32_t last = HOP_NONE, named = 0;
    for (uint32_t i = 0; i < m->fns.len; i++)
        if (m->fns.data[i] && m->fns.data[i]->name) {
            last = i;
            named++;
        }
    if (!named) hop_throw(HOP_INVALID, "the program has no function");
    uint32_t main = module_find(m, "main");
    return named > 1 && main != HOP_NONE ? main : last;
}

/* ---- parameters ---- */

uint32_t param_find(const struct module *m, const struct fn *f, const char *name, size_t length)
{
    if (length && name[0] == '%') {
        name++;
        length--;
    }
    for (uint32_t p = 0; p < f->n_params; p++) {
        const char *have = module_text(m, f->values[p].name);
        if (length && strlen(have) == length && !memcmp(have, name, length)) return p;
    }
    char *end;
    unsigned long number = length && isdigit((unsigned char)name[0]) ? strtoul(name, &end, 10) : ULONG_MAX;
    if (number < f->n_params && end == name + length) return (uint32_t)number;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena); /* freed by the throw below */
    struct text names = { .arena = &arena };
    for (uint32_t p = 0; p < f->n_params; p++)
        text_add(&names, "%s%s", p ? ", " : "", fn_param_name(m, f, p));
    hop_throw(HOP_INVALID, "there is no parameter '%.*s'; the parameters are: %s", (int)length, name,
              f->n_params ? names.data : "none");
}

bool *param_mask(struct arena *a, const struct module *m, const struct fn *f, const char *names)
{
    bool *mask = ARENA_ZNEW(a, bool, f->n_params);
    for (uint32_t p = 0; !names && p < f->n_params; p++)
        mask[p] = dtype_is_float((enum dtype)type_get(m, value_type(f, p)).dtype);
    while (names && *names) {
        size_t n = strcspn(names, ", ");
        if (n) mask[param_find(m, f, names, n)] = true;
        names += n;
        names += strspn(names, ", ");
    }
    return mask;
}
