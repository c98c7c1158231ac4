/* hop emit: a function of a program as C99, as an object file or as a shared library. The C comes from the
 * C99 back end; the others are that C, given to the system's compiler. */
#include "check/cc.h"
#include "cli/cli.h"
#include "emit/c99.h"

#include <errno.h>
#include <unistd.h>

/* Gradients are called after their parameters: d_w. */
static const char **result_names(struct options *o, struct module *m, uint32_t fn, uint32_t n_results)
{
    const char **names = ARENA_ZNEW(&o->bag.arena, const char *, n_results);
    const struct fn *f = module_fn(m, fn);
    if (!option_on(o, O_GRAD) || option_on(o, O_JVP) || option_on(o, O_VMAP)) return names;
    const bool *wrt = param_mask(&o->bag.arena, m, f, o->wrt);
    uint32_t n = 0, k = 0;
    for (uint32_t p = 0; p < f->n_params; p++) n += wrt[p];
    for (uint32_t p = 0; p < f->n_params && n <= n_results; p++)
        if (wrt[p]) names[n_results - n + k++] = arena_printf(&o->bag.arena, "d_%s", fn_param_name(m, f, p));
    return names;
}

/* A function called @main becomes `stem`: C has a main of its own. */
static void emit_texts(struct options *o, const char *stem, const char *header_name, struct text *source,
                       struct text *header)
{
    struct pass_options passes = { .without = o->without, .strict = option_on(o, O_STRICT) };
    struct module *m = program_load(o->files.data[1]);
    hop_cleanup_push(module_free, m);
    uint32_t selected = program_select(m, o->fn), fn = program_transformed(o, m, selected);
    const struct fn *f = module_fn(m, fn);
    bool is_main = !strcmp(module_text(m, f->name), "main");
    struct c99_options options = { .name = is_main ? stem : NULL,
                                   .capacity = o->capacity,
                                   .plain = option_on(o, O_PLAIN),
                                   .constant = program_constants(o, m, f),
                                   .results = result_names(o, m, selected, f->n_results) };
    c99_function(m, fn, &passes, &options, header_name, source, header);
    hop_cleanup_pop(m);
    module_free(m);
}

static void unlink_path(void *path) { unlink(path); }

/* Compiles a source to `out`; it stands in a new file beside it meanwhile. */
static void compile_to(struct options *o, const char *name, const struct text *source, bool shared)
{
    const char *out = cc_path(&o->bag.arena, name);
    char *path = arena_printf(&o->bag.arena, "%s.XXXXXX.c", out);
    int fd = mkstemps(path, 2);
    if (fd < 0) hop_throw(HOP_IO, "%s cannot be written: %s", path, strerror(errno));
    close(fd);
    hop_cleanup_push(unlink_path, path);
    file_write(path, source);
    const char *const object[] = { "-std=c99", "-O3", "-ffp-contract=off", "-fPIC", "-c", path, "-o",
                                   out,        NULL };
    const char *const library[] = {
        "-std=c99", "-O3", "-ffp-contract=off", "-fPIC", "-shared", path, "-o", out, "-lm", NULL
    };
    cc_run(shared ? library : object);
    hop_cleanup_pop(path);
    unlink(path);
}

int command_emit(struct options *o)
{
    enum { EMIT_C, EMIT_OBJ, EMIT_SO, EMIT_COUNT };
    static const struct {
        const char *word, *suffix;
    } kinds[EMIT_COUNT] = { { "c", ".c" }, { "obj", ".o" }, { "so", ".so" } };
    int kind = 0;
    while (kind < EMIT_COUNT && strcmp(o->files.data[0], kinds[kind].word)) kind++;
    if (kind == EMIT_COUNT)
        hop_throw(HOP_INVALID, "hop emit: expected c, obj or so, found '%s'", o->files.data[0]);
    if (o->outputs.len != 1)
        hop_throw(HOP_INVALID, "hop emit %s needs one -o NAME%s", kinds[kind].word, kinds[kind].suffix);
    struct arena *a = &o->bag.arena;
    const char *out = o->outputs.data[0];
    size_t length = strlen(out), suffix = strlen(kinds[kind].suffix);
    if (length <= suffix || strcmp(out + length - suffix, kinds[kind].suffix))
        hop_throw(HOP_INVALID, "-o: expected a name that ends in %s, found '%s'", kinds[kind].suffix, out);
    const char *header_path = arena_printf(a, "%.*s.h", (int)(length - suffix), out);
    const char *slash = strrchr(header_path, '/');
    const char *base = slash ? slash + 1 : header_path;
    const char *stem = arena_printf(a, "%.*s", (int)(strlen(base) - 2), base);
    struct text source = { .arena = a }, header = { .arena = a };
    emit_texts(o, stem, kind == EMIT_C ? base : NULL, &source, &header);
    if (kind == EMIT_C) file_write(out, &source);
    else compile_to(o, out, &source, kind == EMIT_SO);
    file_write(header_path, &header);
    return EXIT_OK;
}
