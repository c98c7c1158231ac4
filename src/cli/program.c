/* Programs named on the command line: the transforms, sizes, arguments and files of results that options ask
 * for. */
#include "cli/cli.h"

#include "hops/probes.h"
#include "io/io.h"
#include "transform/transform.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>

/* ---- transforms and sizes ---- */

const char *result_name(struct arena *a, const struct module *m, const struct fn *f, uint32_t r)
{
    uint32_t updated = fn_updated(f, r);
    if (updated != HOP_NONE) return fn_param_name(m, f, updated);
    uint32_t name = f->values[f->results[r]].name;
    return name ? module_text(m, name) : arena_printf(a, "%u", r);
}

/* The gradient of @f is called @f_grad, so that a program can go on with it. */
static uint32_t named_after(struct module *m, uint32_t fn, uint32_t made, const char *transform)
{
    if (!module_fn(m, made)->name)
        module_rename(m, made,
                      arena_printf(&m->scratch, "%s_%s", module_text(m, module_fn(m, fn)->name), transform));
    return made;
}

/* Without its probes, which derivatives and lanes do not ask for. */
static uint32_t plain_function(struct module *m, uint32_t fn)
{
    uint32_t out = without_probes(m, fn);
    if (out != fn && !module_fn(m, out)->name)
        module_rename(m, out, arena_printf(&m->scratch, "%s_plain", module_text(m, module_fn(m, fn)->name)));
    return out;
}

uint32_t program_probes(struct options *o, struct module *m, uint32_t fn)
{
    struct probe_request want = { .names = o->names, .gives = true, .stacked = option_on(o, O_STACKED) };
    m->without = o->without;
    return named_after(m, fn, probes_function(m, fn, &want).fn, "probes");
}

uint32_t program_grad(struct options *o, struct module *m, uint32_t fn)
{
    fn = plain_function(m, fn);
    const struct fn *f = module_fn(m, fn);
    uint32_t first = 0;
    m->without = o->without;
    while (first < f->n_results && fn_updated(f, first) != HOP_NONE) first++;
    if (first == f->n_results) hop_throw(HOP_INVALID, "grad: @%s has no result", module_text(m, f->name));
    struct type t = type_get(m, value_type(f, f->results[first]));
    if (t.rank || !dtype_is_float((enum dtype)t.dtype))
        hop_throw(HOP_INVALID, "grad: the first result of @%s must be a floating-point scalar, found %s",
                  module_text(m, f->name), type_text(m, f->symbols, value_type(f, f->results[first])));
    bool *wrt = param_mask(&o->bag.arena, m, f, o->wrt);
    return named_after(m, fn, grad_of(m, fn, wrt, option_on(o, O_VALUE)), "grad");
}

uint32_t program_jvp(struct options *o, struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    m->without = o->without;
    return named_after(m, fn, jvp_of(m, fn, param_mask(&o->bag.arena, m, f, o->wrt)), "jvp");
}

struct once_marks program_constants(struct options *o, const struct module *m, const struct fn *f)
{
    struct once_marks marks = { 0 };
    if (o->constant) marks.params = (const uint8_t *)param_mask(&o->bag.arena, m, f, o->constant);
    return marks;
}

/* "none" (-1) or a number, for parameter p. */
static int axis_parse(const struct module *m, const struct fn *f, uint32_t p, const char *text, size_t length)
{
    uint32_t most = type_get(m, value_type(f, p)).rank;
    char *end;
    long axis = strtol(text, &end, 10);
    bool is_number = length && end == text + length;
    if (length == strlen("none") && !memcmp(text, "none", length)) return -1;
    if (!is_number || axis < 0 || axis > most)
        hop_throw(HOP_INVALID, "--in-axes: %s: expected 'none' or an axis from 0 to %u, found '%.*s'",
                  fn_param_name(m, f, p), most, (int)length, text);
    return (int)axis;
}

uint32_t program_vmap(struct options *o, struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    int *in_axes = ARENA_ZNEW(&o->bag.arena, int, f->n_params);
    int *out_axes = ARENA_ZNEW(&o->bag.arena, int, f->n_results);
    for (const char *at = o->in_axes; at && *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", "), name = strcspn(at, "=, ");
        if (!length) continue;
        if (name == length)
            hop_throw(HOP_INVALID, "--in-axes: expected NAME=AXIS, found '%.*s'", (int)length, at);
        uint32_t p = param_find(m, f, at, name);
        in_axes[p] = axis_parse(m, f, p, at + name + 1, length - name - 1);
        at += length;
    }
    m->without = o->without;
    return named_after(m, fn, vmap_of(m, fn, in_axes, out_axes, 0), "vmap");
}

uint32_t program_transformed(struct options *o, struct module *m, uint32_t fn)
{
    if (option_on(o, O_GRAD)) fn = program_grad(o, m, fn);
    if (option_on(o, O_JVP)) fn = program_jvp(o, m, fn);
    if (option_on(o, O_VMAP)) fn = program_vmap(o, m, fn);
    return fn;
}

/* The next dim parameter from symbol s on; n_outer_symbols: there is none. */
static uint32_t next_dim_param(const struct fn *f, uint32_t s)
{
    while (s < f->n_outer_symbols && f->symbols[s].origin != SYMBOL_DIM) s++;
    return s;
}

/* "T=4": which dim parameter, and its size. */
static uint32_t dim_parse(const struct module *m, const struct fn *f, const char *text, int64_t *size)
{
    const char *equals = strchr(text, '=');
    if (!equals) hop_throw(HOP_INVALID, "--dim: expected NAME=N, found '%s'", text);
    size_t length = (size_t)(equals - text);
    uint32_t number = 0, s = next_dim_param(f, 0);
    for (; s < f->n_outer_symbols; s = next_dim_param(f, s + 1), number++) {
        const char *name = module_text(m, f->symbols[s].name);
        if (strlen(name) == length && !memcmp(name, text, length)) break;
    }
    if (s == f->n_outer_symbols)
        hop_throw(HOP_INVALID, "--dim: the function has no dim parameter '%.*s'", (int)length, text);
    char *end;
    errno = 0;
    long long value = strtoll(equals + 1, &end, 10);
    if (end == equals + 1 || *end || errno || value < 0)
        hop_throw(HOP_INVALID, "--dim: expected a size, found '%s'", equals + 1);
    *size = value;
    return number;
}

int64_t *program_dims(struct options *o, const struct module *m, const struct fn *f)
{
    int64_t *dims = ARENA_ZNEW(&o->bag.arena, int64_t, f->n_outer_symbols);
    bool *given = ARENA_ZNEW(&o->bag.arena, bool, f->n_outer_symbols);
    for (uint32_t i = 0; i < o->dims.len; i++) {
        int64_t size;
        uint32_t number = dim_parse(m, f, o->dims.data[i], &size);
        dims[number] = size;
        given[number] = true;
    }
    uint32_t n = 0;
    for (uint32_t s = next_dim_param(f, 0); s < f->n_outer_symbols; s = next_dim_param(f, s + 1)) {
        const char *name = module_text(m, f->symbols[s].name);
        if (!given[n++])
            hop_throw(HOP_INVALID, "the dim parameter '%s' is not given; use --dim %s=N", name, name);
    }
    return n ? dims : NULL;
}

/* ---- arguments ---- */

/* "f32[4, 2]" between `at` and `end`. */
static void shape_parse(const struct fn *f, const struct module *m, uint32_t p, const char *at,
                        const char *end, struct shape_view *out, int64_t dims[MAX_RANK])
{
    const char *open = memchr(at, '[', (size_t)(end - at));
    size_t name = (size_t)((open ? open : end) - at);
    enum dtype dtype;
    while (name && at[name - 1] == ' ') name--;
    if (!dtype_from_name(at, name, &dtype))
        hop_throw(HOP_INVALID, "--in %s: expected a type such as f32[4], found '%.*s'",
                  fn_param_name(m, f, p), (int)(end - at), at);
    *out = (struct shape_view){ .dtype = (uint8_t)dtype, .dims = dims };
    for (const char *c = open ? open + 1 : end; c < end && *c != ']';) {
        char *after;
        long long v = strtoll(c, &after, 10);
        after += strspn(after, " ,");
        if (after == c || v < 0 || out->rank == MAX_RANK)
            hop_throw(HOP_INVALID, "--in %s: expected sizes in '%.*s'", fn_param_name(m, f, p),
                      (int)(end - at), at);
        dims[out->rank++] = v;
        c = after;
    }
}

/* "random:SEED" or "random:SEED:LO..HI" over a shape. */
static struct tensor *random_input(struct bag *bag, const struct module *m, const struct fn *f, uint32_t p,
                                   const char *text, const struct shape_view *shape)
{
    char *end;
    const char *seed_text = text + strlen("random:");
    struct random r = { strtoull(seed_text, &end, 0) };
    bool is_float = dtype_is_float((enum dtype)shape->dtype);
    double lo = is_float ? -2 : 0, hi = is_float ? 2 : 3;
    bool good = end != seed_text;
    if (good && *end == ':') {
        const char *range = end + 1;
        lo = strtod(range, &end);
        good = end != range;
        if (end > range && end[-1] == '.') end--; /* "0..4": strtod takes "0." */
        range = end + 2;
        good = good && !strncmp(end, "..", 2);
        if (good) {
            hi = strtod(range, &end);
            good = end != range;
        }
    }
    if (!good || *end || !(lo <= hi))
        hop_throw(HOP_INVALID, "--in %s: expected random:SEED or random:SEED:LO..HI, found '%s'",
                  fn_param_name(m, f, p), text);
    struct tensor *t = bag_new(bag, (enum dtype)shape->dtype, shape->rank, shape->dims);
    tensor_random(t, &r, lo, hi);
    return t;
}

/* "file.npy", "file.npz:name": what it holds must fit the parameter, as far as the sizes are written down. */
static struct tensor *file_input(struct bag *bag, struct module *m, const struct fn *f, uint32_t p,
                                 const char *spec)
{
    struct tensor *t = bag_keep(bag, io_load(spec));
    struct type want = type_get(m, value_type(f, p));
    bool fits = t->dtype == want.dtype && t->rank == want.rank;
    for (uint32_t i = 0; fits && i < t->rank; i++)
        fits = !dim_is_const(m, want.dims[i]) || dim_const_value(m, want.dims[i]) == t->dims[i];
    if (fits) return t;
    struct text found = { .arena = &bag->arena };
    tensor_type_text(&found, t);
    hop_throw(HOP_INVALID, "--in %s: expected %s, found %s in %s", fn_param_name(m, f, p),
              type_text(m, f->symbols, value_type(f, p)), found.data, spec);
}

/* "x=3", "x:f32[4]=random:7", "x=x.npy": fills args[x]. */
static void take_input(struct options *o, struct module *m, const struct fn *f, const char *text,
                       struct tensor **args)
{
    size_t name = strcspn(text, "=:");
    if (!text[name]) hop_throw(HOP_INVALID, "--in: expected NAME=VALUE, found '%s'", text);
    uint32_t p = param_find(m, f, text, name);
    struct type t = type_get(m, value_type(f, p));
    int64_t dims[MAX_RANK];
    struct shape_view shape = { .dtype = t.dtype, .rank = t.rank, .dims = dims };
    const char *equals = strchr(text + name, '=');
    if (!equals) hop_throw(HOP_INVALID, "--in: expected NAME=VALUE, found '%s'", text);
    bool typed = text[name] == ':';
    if (typed) shape_parse(f, m, p, text + name + 1, equals, &shape, dims);
    const char *value = equals + 1;
    if (args[p]) hop_throw(HOP_INVALID, "--in: the parameter '%s' is given twice", fn_param_name(m, f, p));
    if (t.kind) {
        char *end;
        long long number = strtoll(value, &end, 10);
        if (end == value || *end)
            hop_throw(HOP_INVALID, "--in %s: an object is given by a number, 0 to 63, found '%s'",
                      fn_param_name(m, f, p), value);
        args[p] = bag_object(&o->bag, module_text(m, t.kind), number);
        return;
    }
    if (strncmp(value, "random:", 7)) {
        if (io_names_file(value)) args[p] = file_input(&o->bag, m, f, p, value);
        else
            args[p] = tensor_parse(&o->bag, (enum dtype)shape.dtype, value,
                                   arena_printf(&o->bag.arena, "--in %s", fn_param_name(m, f, p)));
        bool same = !typed || args[p]->rank == shape.rank;
        for (uint32_t i = 0; typed && same && i < shape.rank; i++) same = args[p]->dims[i] == shape.dims[i];
        if (!same)
            hop_throw(HOP_INVALID, "--in %s: the value does not have the type that stands before '='",
                      fn_param_name(m, f, p));
        return;
    }
    for (uint32_t i = 0; !typed && i < t.rank; i++) {
        if (!dim_is_const(m, t.dims[i]))
            hop_throw(HOP_INVALID, "--in %s: its type is %s; give the sizes, as in %s:f32[4]=random:7",
                      fn_param_name(m, f, p), type_text(m, f->symbols, value_type(f, p)),
                      fn_param_name(m, f, p));
        dims[i] = dim_const_value(m, t.dims[i]);
    }
    args[p] = random_input(&o->bag, m, f, p, value, &shape);
}

struct tensor **program_inputs(struct options *o, struct module *m, const struct fn *f)
{
    struct tensor **args = ARENA_ZNEW(&o->bag.arena, struct tensor *, f->n_params);
    for (uint32_t i = 0; i < o->inputs.len; i++) take_input(o, m, f, o->inputs.data[i], args);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (!args[p])
            hop_throw(HOP_INVALID,
                      "the parameter '%s' (%s) is not given; use --in %s=VALUE or --in %s=random:1",
                      fn_param_name(m, f, p), type_text(m, f->symbols, value_type(f, p)),
                      fn_param_name(m, f, p), fn_param_name(m, f, p));
    return args;
}

/* ---- results to files ---- */

static uint32_t result_find(struct options *o, const struct module *m, const struct fn *f, const char *name,
                            size_t length)
{
    if (length && name[0] == '%') {
        name++;
        length--;
    }
    struct text names = { .arena = &o->bag.arena };
    for (uint32_t r = 0; r < f->n_results; r++) {
        const char *have = result_name(&o->bag.arena, m, f, r);
        if (strlen(have) == length && !memcmp(have, name, length)) return r;
        text_add(&names, "%s%s", r ? ", " : "", have);
    }
    char *end;
    unsigned long number = length && isdigit((unsigned char)name[0]) ? strtoul(name, &end, 10) : ULONG_MAX;
    if (number < f->n_results && end == name + length) return (uint32_t)number;
    hop_throw(HOP_INVALID, "--out: there is no result '%.*s'; the results are: %s", (int)length, name,
              f->n_results ? names.data : "none");
}

struct outputs program_outputs(struct options *o, const struct module *m, const struct fn *f)
{
    struct arena *a = &o->bag.arena;
    struct outputs out = { ARENA_NEW(a, struct output, o->outputs.len), o->outputs.len,
                           ARENA_NEW(a, const char *, f->n_results),
                           ARENA_ZNEW(a, const char *, f->n_results) };
    for (uint32_t r = 0; r < f->n_results; r++) {
        out.names[r] = result_name(a, m, f, r);
        for (uint32_t k = 0; k < r; k++)
            if (!strcmp(out.names[k], out.names[r]))
                out.names[r] = arena_printf(a, "%u", r); /* one value returned twice */
    }
    for (uint32_t i = 0; i < out.n; i++) {
        const char *text = o->outputs.data[i];
        const char *equals = strchr(text, '=');
        const char *path = equals ? equals + 1 : text;
        uint32_t result = equals ? result_find(o, m, f, text, (size_t)(equals - text)) : HOP_NONE;
        io_check_target(path, equals ? 1 : f->n_results);
        out.list[i] = (struct output){ path, result };
        for (uint32_t r = 0; r < f->n_results; r++)
            if (result == HOP_NONE || result == r) out.files[r] = path;
    }
    return out;
}

void outputs_write(const struct outputs *out, struct tensor *const *results, uint32_t n_results)
{
    for (uint32_t i = 0; i < out->n; i++) {
        uint32_t r = out->list[i].result;
        if (r == HOP_NONE) io_save(out->list[i].path, out->names, results, n_results);
        else io_save(out->list[i].path, &out->names[r], &results[r], 1);
    }
}
