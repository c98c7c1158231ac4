/* Emitted C as one more way to run a test: functions come in, are emitted into one source, compiled to a
 * shared library by the system's compiler and called through their adapters. */
#include "check/test_c.h"
#include "check/cc.h"
#include "emit/c99.h"
#include "loop/lower.h"
#include "ops/operators.h"
#include "ops/misc.h"

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

struct c_program {
    char *name;
    const struct fn *entry; /* after the passes: symbols are numbered as in it */
    const uint32_t *over;   /* per result: the argument in which it is left, HOP_NONE */
    c99_adapter *call;
    c99_adapter_bytes *bytes;
};
struct c_programs {
    struct arena arena;
    struct c99_unit unit;
    vec(struct c_program) list;
    char folder[64];  /* of the files; "": none */
    const char *flag; /* for the compiler */
    void *library;
};

/* By turns in vector types, as the text that has none, in vector types again and without those that the text
 * has. */
struct c_programs *c_programs_new(const struct c99_dialect *dialect)
{
    static const struct {
        const struct c99_dialect *dialect;
        const char *flag;
    } forms[] = { { &c99_own_dialect, "-march=native" },
                  { &c99_plain_dialect, "-march=native" },
                  { &c99_own_dialect, "-march=native" },
                  { &c99_own_dialect, "-DHOP_PLAIN_C" } };
    static _Atomic uint32_t made;
    struct c_programs *c = hop_calloc(1, sizeof *c);
    uint32_t form = made++ % HOP_COUNT(forms);
    bool chosen = getenv("HOP_TEST_CFLAGS") != NULL; /* then they decide alone */
    c->flag = forms[form].flag;
    if (!dialect) dialect = chosen ? &c99_own_dialect : forms[form].dialect;
    c99_begin(&c->unit, &c->arena, dialect);
    return c;
}

void c_programs_free(void *programs)
{
    struct c_programs *c = programs;
    if (!c) return;
    if (c->library) dlclose(c->library);
    static const char *const files[] = { "unit.c", "unit.so" };
    for (size_t i = 0; c->folder[0] && i < HOP_COUNT(files); i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/%s", c->folder, files[i]);
        unlink(path);
    }
    if (c->folder[0]) rmdir(c->folder);
    arena_free(&c->arena);
    hop_free(c);
}

uint32_t c_programs_add(struct c_programs *c, struct module *m, uint32_t fn,
                        const struct pass_options *passes)
{
    struct lp *p = c99_lower(m, fn, passes);
    hop_cleanup_push(lp_free, p);
    const char *name = arena_printf(&c->arena, "test%u", c->list.len);
    struct c99_options options = { .name = name, .original = module_fn(m, fn), .adapter = true };
    name = c99_add(&c->unit, p, &options);
    uint32_t *over = ARENA_NEW(&c->arena, uint32_t, p->entry->n_results);
    memset(over, 0xff, p->entry->n_results * sizeof *over);
    for (uint32_t i = 0; i < p->updates.len; i++)
        if (!p->updates.data[i].elsewhere) over[p->updates.data[i].result] = p->updates.data[i].param;
    char *kept_name = arena_string(&c->arena, name, strlen(name));
    struct c_program program = { .name = kept_name, .entry = p->entry, .over = over };
    vec_push(&c->arena, &c->list, program);
    hop_cleanup_pop(p);
    lp_free(p);
    return c->list.len - 1;
}

/* Operators from outside are what is registered here. */
static _Thread_local struct {
    int status;
    char name[128], message[OPERATOR_MESSAGE_ROOM];
} operator_end; /* of the last one that failed */
typedef int operator_by_name(const char *name, hop_operator_call *call, void *const *arrays,
                             const int64_t *sizes);

static int call_by_name(const char *name, hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    struct registered *of = operator_hold(name);
    int status = HOP_INVALID;
    if (of) {
        call->user = of->user;
        status = operator_run(of, call, arrays, sizes);
        operator_drop(of);
    } else snprintf(call->message, call->room, "there is no operator '%s'", name);
    operator_end.status = status;
    snprintf(operator_end.name, sizeof operator_end.name, "%s", name);
    snprintf(operator_end.message, sizeof operator_end.message, "%s", call->message);
    return status;
}

static void put_operators(struct c_programs *c, struct text *source)
{
    if (!c->unit.operators.len) return;
    text_str(source,
             "extern int (*hop_test_operator)(const char *, struct hop_operator_call *, void *const *, "
             "const int64_t *);\nint (*hop_test_operator)(const char *, struct hop_operator_call *, "
             "void *const *, const int64_t *);\n");
    for (uint32_t i = 0; i < c->unit.operators.len; i++) {
        const struct c99_operator *o = &c->unit.operators.data[i];
        text_add(source,
                 "int %s(struct hop_operator_call *call, void *const *arrays, const int64_t *sizes)\n{\n"
                 "    return hop_test_operator(\"%s\", call, arrays, sizes);\n}\n",
                 o->c_name, o->name);
    }
}

/* Warnings are errors: emitted C is to compile cleanly. */
void c_programs_build(struct c_programs *c, bool optimised)
{
    struct text source = { .arena = &c->arena };
    const char *level = getenv("HOP_TEST_CFLAGS"), *folder = secure_getenv("TMPDIR");
    if (!level) level = arena_printf(&c->arena, "%s %s", optimised ? "-O1" : "-O0", c->flag);
    char *flags = arena_string(&c->arena, level, strlen(level));
    if (!c->list.len) return;
    snprintf(c->folder, sizeof c->folder, "%.40s/hop_c_XXXXXX", folder && *folder == '/' ? folder : "/tmp");
    if (!mkdtemp(c->folder)) {
        c->folder[0] = 0;
        hop_throw(HOP_IO, "no folder for emitted C could be made: %s", strerror(errno));
    }
    const char *in = arena_printf(&c->arena, "%s/unit.c", c->folder);
    const char *out = arena_printf(&c->arena, "%s/unit.so", c->folder);
    c99_finish(&c->unit, NULL, &source, NULL);
    put_operators(c, &source);
    file_write(in, &source);
    const char *const fixed[] = { "-std=c99", "-pedantic", "-Wall",
                                  "-Wextra",  "-Werror",   "-ffp-contract=off",
                                  "-fPIC",    "-shared",   "-Wl,-Bsymbolic", /* no operator from elsewhere */
                                  in,         "-o",        out,
                                  "-lm",      NULL };
    enum { MOST_FLAGS = 12 };
    const char *args[MOST_FLAGS + HOP_COUNT(fixed)];
    uint32_t n = 0;
    for (char *flag = strtok(flags, " "); flag && n < MOST_FLAGS; flag = strtok(NULL, " ")) args[n++] = flag;
    memcpy(args + n, fixed, sizeof fixed);
    cc_run(args);
    c->library = dlopen(out, RTLD_NOW | RTLD_LOCAL);
    if (!c->library) hop_throw(HOP_IO, "the compiled C does not load: %s", dlerror());
    operator_by_name **by_name = dlsym(c->library, "hop_test_operator");
    if (by_name) *by_name = call_by_name;
    for (uint32_t i = 0; i < c->list.len; i++) {
        struct c_program *p = &c->list.data[i];
        *(void **)&p->call = dlsym(c->library, arena_printf(&c->arena, "%s_call", p->name));
        *(void **)&p->bytes = dlsym(c->library, arena_printf(&c->arena, "%s_bytes", p->name));
        if (!p->call || !p->bytes) hop_throw(HOP_INTERNAL, "the compiled C has no %s", p->name);
    }
}

/* ---- running ---- */

struct c_run {
    struct bag *bag;
    struct outcome *out;
    struct text message; /* of a failed check */
};

static void *c_resize(void *user, void *block, size_t bytes)
{
    HOP_UNUSED(user);
    if (bytes) return realloc(block, bytes);
    free(block);
    return NULL;
}

static struct tensor **shown(struct arena *a, int n, const struct c99_value *values)
{
    struct tensor **list = ARENA_NEW(a, struct tensor *, n);
    for (int i = 0; i < n; i++) {
        struct tensor *t = ARENA_ZNEW(a, struct tensor, 1);
        list[i] = t;
        *t = (struct tensor){ .refs = 1,
                              .dtype = (uint8_t)values[i].dtype,
                              .rank = (uint8_t)values[i].rank,
                              .count = 1,
                              .data = (void *)values[i].data };
        for (int d = 0; d < values[i].rank; d++) {
            t->dims[d] = values[i].dims[d];
            t->count *= t->dims[d];
        }
    }
    return list;
}

static void c_print(void *user, const char *format, int n, const struct c99_value *values)
{
    struct c_run *r = user;
    struct text line = { .arena = &r->bag->arena };
    format_values(&line, format, shown(&r->bag->arena, n, values), (uint32_t)n);
    text_bytes(&r->out->printed, line.data, line.len);
    if (!line.len || line.data[line.len - 1] != '\n') text_str(&r->out->printed, "\n");
}

static int c_callback(void *user, const char *name, int n, const struct c99_value *values)
{
    struct c_run *r = user;
    callback_text(&r->out->printed, name, shown(&r->bag->arena, n, values), (uint32_t)n);
    text_str(&r->out->printed, "\n");
    return 0;
}

static void c_failed(void *user, const char *place, const char *message, int n,
                     const struct c99_value *values)
{
    struct c_run *r = user;
    check_failed_text(&r->message, place, "", message, shown(&r->bag->arena, n, values), (uint32_t)n);
}

static void take_results(const struct module *m, const struct fn *f, const int64_t *symbols, void **memory,
                         struct outcome *out)
{
    int64_t dims[MAX_RANK];
    for (uint32_t k = 0; k < f->n_results; k++) {
        if (out->results[k]) continue;
        struct type t = type_get(m, value_type(f, f->results[k]));
        for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_eval(m, t.dims[d], symbols);
        out->results[k] = tensor_new((enum dtype)t.dtype, t.rank, dims);
        if (out->results[k]->count)
            memcpy(out->results[k]->data, memory[k],
                   (size_t)out->results[k]->count * dtype_info[t.dtype].size);
        free(memory[k]);
        memory[k] = NULL;
    }
}

static bool is_inner(void *ctx, uint32_t symbol)
{
    return symbol >= ((const struct fn *)ctx)->n_outer_symbols;
}

/* Memory for the results whose sizes are known before the call. */
static void make_results(struct module *m, const struct fn *f, const int64_t *symbols, void **memory,
                         struct outcome *out)
{
    int64_t dims[MAX_RANK];
    for (uint32_t k = 0; k < f->n_results; k++) {
        struct type t = type_get(m, value_type(f, f->results[k]));
        bool known = true;
        for (uint32_t d = 0; d < t.rank && known; d++) {
            known = !dim_mentions(m, t.dims[d], is_inner, (void *)f);
            if (known) dims[d] = dim_eval(m, t.dims[d], symbols);
        }
        if (!known) continue;
        out->results[k] = tensor_new((enum dtype)t.dtype, t.rank, dims);
        memory[k] = out->results[k]->data;
    }
}

static void run_program(const struct c_program *p, struct c_run *r, struct module *m,
                        struct tensor *const *args, const int64_t *dims)
{
    const struct fn *f = p->entry;
    struct arena *a = &r->bag->arena;
    int64_t *symbols = ARENA_ZNEW(a, int64_t, f->n_symbols);
    struct shape_view *views = ARENA_NEW(a, struct shape_view, f->n_params);
    const void **data = ARENA_NEW(a, const void *, f->n_params);
    void **memory = ARENA_ZNEW(a, void *, f->n_results);
    for (uint32_t i = 0; i < f->n_params; i++) {
        views[i] = shape_of(args[i]);
        data[i] = args[i]->data;
    }
    bind_symbols(m, f, views, dims, symbols);
    make_results(m, f, symbols, memory, r->out);
    for (uint32_t k = 0; k < f->n_results; k++) {
        if (p->over[k] == HOP_NONE) continue;
        tensor_copy_elements(r->out->results[k],
                             args[p->over[k]]); /* the argument of the run is the result's memory */
        data[p->over[k]] = memory[k];
    }
    struct c99_context context = {
        .user = r, .resize = c_resize, .print = c_print, .failed = c_failed, .callback = c_callback
    };
    void *workspace = arena_alloc(a, p->bytes(symbols) + 1);
    int status = p->call(symbols, data, memory, workspace, &context);
    switch (status) {
    case C99_OK: break;
    case C99_CHECK: hop_throw(HOP_CHECK, "%s", r->message.len ? r->message.data : "");
    case C99_OPERATOR:
        operator_failed(context.place ? context.place : "", operator_end.name, operator_end.status,
                        operator_end.message);
    case C99_NOMEM: hop_throw(HOP_NOMEM, "out of memory");
    case C99_SIZE: hop_throw(HOP_INVALID, "a size is out of range");
    default: hop_throw(HOP_INTERNAL, "emitted C ended with status %d", status);
    }
    take_results(m, f, symbols, memory, r->out);
}

bool c_programs_run(struct c_programs *c, uint32_t number, struct bag *bag, struct module *m, uint32_t fn,
                    struct tensor *const *args, const int64_t *dims, struct outcome *out)
{
    struct hop_catch caught;
    stand_ins_clear();
    struct c_run r = { .bag = bag, .out = out, .message = { .arena = &bag->arena } };
    *out = (struct outcome){ .n = module_fn(m, fn)->n_results, .printed = { .arena = &bag->arena } };
    out->results = ARENA_ZNEW(&bag->arena, struct tensor *, out->n);
    uint32_t n = out->n;
    if (HOP_TRY(caught)) {
        run_program(&c->list.data[number], &r, m, args, dims);
        hop_catch_end(&caught);
    } else {
        out->status = hop_caught();
        out->message = arena_string(&bag->arena, hop_message(), strlen(hop_message()));
        out->n = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        if (out->results[i]) bag_keep(bag, out->results[i]);
    return !out->status;
}
