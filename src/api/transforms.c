/* Transforms as seen from C: parameters are named by text, the engines' functions are called under the
 * module's lock. Jacobians are jvp or vjp batched over one-hot arrays. */
#include "api/api.h"
#include "hops/probes.h"
#include "interp/interp.h"
#include "ir/mesh.h"
#include "transform/transform.h"

struct transform_args {
    hop_fn **out, **second; /* second: of transforms that make two functions */
    hop_fn *f;
    const char *wrt, *out_axes, *name;
    const char *axis_name;   /* whose lanes they are; NULL: one without a name */
    const struct hop_fn *of; /* what the result is called after, and what stands behind that; NULL: f, name */
    const char *suffix;
    hop_tensor *const *in;
    int n_in;
    bool value;
    void (*make)(struct transform_args *a, struct hop_fn *f, struct arena *arena);
};

/* Symbols of a function are the first ones of what a transform makes of it. */
static void keep_around(const struct hop_fn *f, struct hop_fn *made)
{
    made->around = f->around;
    made->n_around = f->n_around;
}

/* loss, grad: loss_grad. Made before the function is: nothing may fail once the caller has it. */
static uint32_t label_for(const struct transform_args *a, const struct hop_fn *f)
{
    struct module *m = f->shared->m;
    const struct hop_fn *of = a->of ? a->of : f;
    return module_label(m, fn_label(module_fn(m, of->fn)), a->suffix ? a->suffix : a->name);
}

/* What a transform adds to a function that is watched for NaNs is watched, too. */
static void watch_likewise(const struct hop_fn *f, struct hop_fn *made)
{
    bool infinities = false;
    if (made->fn == f->fn || !debug_nans_within(f->shared->m, f->fn, &infinities)) return;
    made->fn = debug_nans_function(f->shared->m, made->fn, infinities, true);
}

/* Where that fails the caller's places are as they were. */
static void watch_made(const struct transform_args *a, const struct hop_fn *f, hop_fn *out, hop_fn *second)
{
    struct hop_catch caught;
    if (HOP_TRY(caught)) {
        watch_likewise(f, *a->out);
        if (a->second) watch_likewise(f, *a->second);
        hop_catch_end(&caught);
        return;
    }
    hop_status status = hop_caught();
    hop_fn_free(*a->out);
    *a->out = out;
    if (a->second) hop_fn_free(*a->second);
    if (a->second) *a->second = second;
    hop_rethrow(status);
}

static void do_transform(void *args)
{
    struct transform_args *a = args;
    struct hop_fn *f = check_fn(a->f, a->name);
    check_place(a->out, a->name);
    struct arena arena = { 0 };
    module_change(f->shared);
    hop_cleanup_push(module_changed, f->shared);
    hop_cleanup_push(arena_free, &arena);
    uint32_t label = label_for(a, f);
    hop_fn *out = *a->out, *second = a->second ? *a->second : NULL;
    a->make(a, f, &arena);
    watch_made(a, f, out, second);
    struct fn *made = f->shared->m->fns.data[(*a->out)->fn];
    if (!a->second && !made->name && made->id != f->fn) made->label = label;
    keep_around(f, *a->out);
    if (a->second) keep_around(f, *a->second);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    hop_cleanup_pop(f->shared);
    module_changed(f->shared);
}

/* ---- parameters by name ---- */

static uint32_t find_param(struct module *m, const struct fn *f, const char *name, size_t length)
{
    for (uint32_t p = 0; p < f->n_params; p++) {
        const char *text = module_text(m, f->values[p].name);
        if (strlen(text) == length && !memcmp(text, name, length)) return p;
    }
    return HOP_NONE;
}

static bool is_float(struct module *m, type_id t) { return dtype_is_float((enum dtype)type_get(m, t).dtype); }

static _Noreturn void unknown_param(struct transform_args *a, struct module *m, const struct fn *f,
                                    const char *name, size_t length)
{
    char known[512] = "";
    for (uint32_t p = 0; p < f->n_params; p++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", p ? ", " : "",
                 module_text(m, f->values[p].name));
    hop_throw(HOP_INVALID, "%s: there is no parameter '%.*s'; the function has %s", a->name,
              (int)HOP_MIN(length, 100u), name, known);
}

/* A parameter by its name, or by its number behind a #: some have no name, or one that is no word. */
static uint32_t read_param(struct transform_args *a, struct module *m, const struct fn *f, struct cursor *c)
{
    const char *name;
    size_t length;
    if (cursor_accept(c, "#")) {
        int64_t number;
        if (!cursor_integer(c, &number)) cursor_error(c, "the number of a parameter");
        if (number < 0 || number >= (int64_t)f->n_params)
            hop_throw(HOP_INVALID, "%s: there is no parameter #%lld; the function has %u", a->name,
                      (long long)number, f->n_params);
        return (uint32_t)number;
    }
    if (!cursor_word(c, &name, &length)) cursor_error(c, "the name of a parameter");
    uint32_t p = find_param(m, f, name, length);
    if (p == HOP_NONE) unknown_param(a, m, f, name, length);
    return p;
}

static bool *wrt_mask(struct transform_args *a, struct module *m, const struct fn *f, struct arena *arena)
{
    bool *mask = ARENA_ZNEW(arena, bool, f->n_params + 1);
    if (!a->wrt) {
        for (uint32_t p = 0; p < f->n_params; p++) mask[p] = is_float(m, value_type(f, p));
        return mask;
    }
    struct cursor c = { .text = a->wrt, .p = a->wrt, .what = "wrt" };
    cursor_space(&c);
    for (bool first = true; *c.p; first = false) {
        if (!first) cursor_expect(&c, ",");
        mask[read_param(a, m, f, &c)] = true;
    }
    return mask;
}

/* What is transformed: a function with its probes where the thread has the mode for it, else without them. */
static uint32_t transformed_fn(const struct hop_fn *f)
{
    return hop_modes() & HOP_PROBED ? f->fn : without_probes(f->shared->m, f->fn);
}

/* ---- gradients ---- */

static void make_grad(struct transform_args *a, struct hop_fn *f, struct arena *arena)
{
    struct module *m = f->shared->m;
    uint32_t fn = transformed_fn(f);
    hop_fn *made = fn_new(f->shared, carried_grad(m, fn, wrt_mask(a, m, module_fn(m, fn), arena), a->value));
    made->kept = saved_last(m);
    *a->out = made;
}

hop_status hop_grad(hop_fn **out, hop_fn *f, const char *wrt)
{
    struct transform_args a = { .out = out, .f = f, .wrt = wrt, .name = "grad", .make = make_grad };
    return api_edge(do_transform, &a);
}
hop_status hop_value_and_grad(hop_fn **out, hop_fn *f, const char *wrt)
{
    struct transform_args a = {
        .out = out, .f = f, .wrt = wrt, .name = "value_and_grad", .value = true, .make = make_grad
    };
    return api_edge(do_transform, &a);
}

static void make_vjp(struct transform_args *a, struct hop_fn *f, struct arena *arena)
{
    struct module *m = f->shared->m;
    uint32_t fn = transformed_fn(f);
    hop_fn *made = fn_new(f->shared, carried_vjp(m, fn, wrt_mask(a, m, module_fn(m, fn), arena)));
    made->kept = saved_last(m);
    *a->out = made;
}
hop_status hop_vjp(hop_fn **out, hop_fn *f, const char *wrt)
{
    struct transform_args a = { .out = out, .f = f, .wrt = wrt, .name = "vjp", .make = make_vjp };
    return api_edge(do_transform, &a);
}

static void make_jvp(struct transform_args *a, struct hop_fn *f, struct arena *arena)
{
    struct module *m = f->shared->m;
    uint32_t fn = transformed_fn(f);
    *a->out = fn_new(f->shared, carried_jvp(m, fn, wrt_mask(a, m, module_fn(m, fn), arena)));
}
hop_status hop_jvp(hop_fn **out, hop_fn *f, const char *wrt)
{
    struct transform_args a = { .out = out, .f = f, .wrt = wrt, .name = "jvp", .make = make_jvp };
    return api_edge(do_transform, &a);
}

static void make_transpose(struct transform_args *a, struct hop_fn *f, struct arena *arena)
{
    struct module *m = f->shared->m;
    uint32_t fn = visible_function(m, without_probes(m, f->fn));
    *a->out = fn_new(f->shared, transpose_function(m, fn, wrt_mask(a, m, module_fn(m, fn), arena),
                                                   "linear_transpose: the function", "transpose"));
}
hop_status hop_linear_transpose(hop_fn **out, hop_fn *f, const char *wrt)
{
    struct transform_args a = {
        .out = out, .f = f, .wrt = wrt, .name = "linear_transpose", .make = make_transpose
    };
    return api_edge(do_transform, &a);
}

/* ---- in two halves ---- */

static void free_fn(void *f) { hop_fn_free(f); }

static void make_halves(struct transform_args *a, struct hop_fn *f, struct arena *arena)
{
    struct module *m = f->shared->m;
    uint32_t fn = transformed_fn(f), first, second;
    check_place(a->second, a->name);
    carried_halves(m, fn, wrt_mask(a, m, module_fn(m, fn), arena), a->value, &first, &second);
    hop_fn *forward = fn_new(f->shared, first);
    hop_cleanup_push(free_fn, forward);
    *a->second = fn_new(f->shared, second);
    hop_cleanup_pop(forward);
    *a->out = forward;
}

hop_status hop_vjp_halves(hop_fn **forward, hop_fn **backward, hop_fn *f, const char *wrt)
{
    struct transform_args a = { .out = forward,
                                .second = backward,
                                .f = f,
                                .wrt = wrt,
                                .name = "vjp_halves",
                                .value = true,
                                .make = make_halves };
    return api_edge(do_transform, &a);
}
hop_status hop_jvp_halves(hop_fn **forward, hop_fn **linear, hop_fn *f, const char *wrt)
{
    struct transform_args a = {
        .out = forward, .second = linear, .f = f, .wrt = wrt, .name = "jvp_halves", .make = make_halves
    };
    return api_edge(do_transform, &a);
}

/* ---- at a point ---- */

static void make_linear(struct transform_args *a, struct hop_fn *f, struct arena *arena)
{
    struct module *m = f->shared->m;
    uint32_t fn = visible_function(m, without_probes(m, f->fn));
    const struct fn *g = module_fn(m, fn);
    bool *mask = wrt_mask(a, m, g, arena);
    if (a->n_in < 0 || (uint32_t)a->n_in != g->n_params)
        hop_throw(HOP_INVALID, "linearize: the function takes %u arguments, given %d", g->n_params, a->n_in);
    if (a->n_in && !a->in) hop_throw(HOP_INVALID, "linearize: expected %d arguments, found NULL", a->n_in);
    struct shape_view *views = ARENA_NEW(arena, struct shape_view, g->n_params);
    int64_t *sizes = ARENA_ZNEW(arena, int64_t, g->n_outer_symbols + 1);
    for (uint32_t p = 0; p < g->n_params; p++) {
        const struct tensor *t = check_tensor(a->in[p], "argument", (int)p);
        views[p] = shape_of(t);
    }
    bind_symbols(m, g, views, NULL, sizes);
    uint32_t jvp = jvp_of(m, fn, mask), n_args = g->n_params, n = 0;
    const struct fn *j = module_fn(m, jvp);
    dim *symbols = ARENA_NEW(arena, dim, j->n_outer_symbols + 1);
    for (uint32_t k = 0; k < g->n_outer_symbols; k++) symbols[k] = dim_const(m, sizes[k]);
    val *args = ARENA_NEW(arena, val, j->n_params), *results = ARENA_NEW(arena, val, j->n_results);
    struct builder b;
    builder_begin(&b, m, NULL);
    for (uint32_t p = g->n_params; p < j->n_params; p++)
        args[n_args++] = builder_param(&b, type_substitute(m, value_type(j, p), symbols), j->values[p].name);
    for (uint32_t p = 0; p < g->n_params; p++) {
        struct tensor *t = tensor_contiguous(tensor_of(a->in[p]));
        hop_cleanup_push(tensor_free, t);
        struct attr value = A_CONST(module_constant(m, type_substitute(m, value_type(g, p), symbols), t->data,
                                                    (size_t)t->count * dtype_info[t->dtype].size, 0));
        hop_cleanup_pop(t);
        tensor_free(t);
        args[p] = emit(&b, OP_constant, NULL, 0, &value);
    }
    inline_function(&b, jvp, symbols, args, results);
    n = j->n_results - g->n_results;
    uint32_t made = builder_finish(&b, results + g->n_results, n);
    struct pass_options options = { .without = m->without, .strict = true, .differentiable = true };
    *a->out = fn_new(f->shared, simplify(m, made, &options));
}

hop_status hop_linearize(hop_fn **out, hop_fn *f, const char *wrt, hop_tensor *const *in, int n_in)
{
    struct transform_args a = {
        .out = out, .f = f, .wrt = wrt, .name = "linearize", .in = in, .n_in = n_in, .make = make_linear
    };
    return api_edge(do_transform, &a);
}

/* ---- Jacobians ---- */

struct jacobian {
    struct module *m;
    struct arena *arena;
    struct builder b;
    const struct fn *f;
    uint32_t fn;
    val *params;
    vec(val) out;
};

static void begin_jacobian(struct jacobian *j, struct module *m, uint32_t fn, struct arena *arena)
{
    *j = (struct jacobian){ .m = m, .arena = arena, .f = module_fn(m, fn), .fn = fn };
    builder_begin(&j->b, m, j->f);
    j->params = ARENA_NEW(arena, val, j->f->n_params);
    for (uint32_t p = 0; p < j->f->n_params; p++)
        j->params[p] = builder_param(&j->b, value_type(j->f, p), j->f->values[p].name);
}

/* f32[N, dims…]: one-hot arrays of a type, one per element. */
static val one_hots(struct builder *b, type_id type, dim count)
{
    struct type t = type_get(b->m, type);
    dim square[2] = { count, count }, dims[MAX_RANK + 1] = { count };
    if (t.rank == MAX_RANK)
        hop_throw(HOP_INVALID, "an array of %d dims is too large for a Jacobian", MAX_RANK);
    struct attr rows[3] = { A_DIMS(square, 2), A_INT(0), A_NONE };
    struct attr columns[3] = { A_DIMS(square, 2), A_INT(1), A_NONE };
    val same = emit2(b, OP_eq, emit(b, OP_iota, NULL, 0, rows), emit(b, OP_iota, NULL, 0, columns));
    memcpy(dims + 1, t.dims, t.rank * sizeof *dims);
    return emit_reshape(b, emit_cast(b, same, (enum dtype)t.dtype), t.rank + 1u, dims);
}

/* Dims of a derivative: those of y, then those of x. */
static uint32_t derivative_dims(struct type y, struct type x, dim *dims)
{
    if (y.rank + x.rank > MAX_RANK)
        hop_throw(HOP_INVALID, "a Jacobian would have %d dims, at most %d are possible", y.rank + x.rank,
                  MAX_RANK);
    if (y.rank) memcpy(dims, y.dims, y.rank * sizeof *dims);
    if (x.rank) memcpy(dims + y.rank, x.dims, x.rank * sizeof *dims);
    return (uint32_t)y.rank + x.rank;
}

/* The whole of an array, on each rank. */
static val whole_of(struct builder *b, val x)
{
    static const struct placement plain[1][MESH_AXES];
    struct module *m = b->m;
    uint16_t layout = emit_type(b, x).layout;
    if (!layout) return x;
    uint32_t mesh = layout_get(m, layout)->mesh;
    struct attr attrs[REDISTRIBUTE_ATTRS] = {
        [REDISTRIBUTE_MESH] = A_STRING(m->meshes.data[mesh].name),
        [REDISTRIBUTE_TO] = A_STRING(placements_text(m, mesh, 1, plain)),
    };
    return emit(b, OP_redistribute, &x, 1, attrs);
}

/* Batches a function over its parameter `over` alone, and inlines it; derivatives are no distributed arrays,
 * whatever they are of. batched says per result. */
static void inline_batched(struct jacobian *j, uint32_t fn, uint32_t over, dim count, const val *args,
                           val *results, bool *batched)
{
    const struct fn *f = module_fn(j->m, fn);
    bool *mask = ARENA_ZNEW(j->arena, bool, f->n_params);
    mask[over] = true;
    bool fixed = dim_is_const(j->m, count);
    uint32_t made = batch_function(j->m, fn, mask, fixed ? count : HOP_NONE, NULL, false, batched);
    const struct fn *g = module_fn(j->m, made);
    dim *symbols = ARENA_NEW(j->arena, dim, g->n_outer_symbols + 1);
    for (uint32_t k = 0; k < g->n_outer_symbols; k++)
        symbols[k] = k < j->f->n_outer_symbols ? dim_symbol(j->m, k) : count;
    inline_function(&j->b, made, symbols, args, results);
    for (uint32_t k = 0; k < g->n_results; k++) results[k] = whole_of(&j->b, results[k]);
}

/* What both ways to a Jacobian work with. */
struct jacobian_of {
    struct module *m;
    struct arena *arena;
};

static uint32_t jacfwd_of(void *ctx, uint32_t fn, const bool *mask)
{
    const struct jacobian_of *of = ctx;
    struct module *m = of->m;
    struct arena *arena = of->arena;
    struct jacobian j;
    begin_jacobian(&j, m, fn, arena);
    const struct fn *g = j.f;
    val *columns = ARENA_NEW(arena, val,
                             (size_t)g->n_results * g->n_params + 1); /* per result and parameter */
    for (uint32_t p = 0; p < g->n_params; p++) {
        if (!mask[p]) continue;
        bool *active = ARENA_ZNEW(arena, bool, g->n_params);
        active[p] = true;
        uint32_t jvp = jvp_of(m, j.fn, active);
        const struct fn *h = module_fn(m, jvp);
        struct type x = type_get(m, value_type(g, p));
        dim count = type_elements(m, value_type(g, p));
        val *args = ARENA_NEW(arena, val, h->n_params), *results = ARENA_NEW(arena, val, h->n_results);
        bool *batched = ARENA_NEW(arena, bool, h->n_results);
        memcpy(args, j.params, g->n_params * sizeof *args);
        args[g->n_params] = one_hots(&j.b, value_type(g, p), count);
        inline_batched(&j, jvp, g->n_params, count, args, results, batched);
        for (uint32_t k = 0, t = g->n_results; k < g->n_results; k++) {
            if (!is_float(m, value_type(g, g->results[k]))) continue;
            struct type y = emit_type(&j.b, results[t]);
            if (batched[t]) {
                y.dims++;
                y.rank--;
            }
            dim dims[MAX_RANK];
            uint32_t rank = derivative_dims(y, x, dims);
            val column = results[t];
            if (!batched[t]) column = emit_broadcast_front(&j.b, column, count);
            column = emit_move_dim(&j.b, column, 0, y.rank);
            columns[k * (size_t)g->n_params + p] = emit_reshape(&j.b, column, rank, dims);
            t++;
        }
    }
    for (uint32_t k = 0; k < g->n_results; k++)
        for (uint32_t p = 0; p < g->n_params && is_float(m, value_type(g, g->results[k])); p++)
            if (mask[p]) vec_push(arena, &j.out, columns[k * (size_t)g->n_params + p]);
    return prune_function(m, builder_finish(&j.b, j.out.data, j.out.len), NULL);
}

static uint32_t jacrev_of(void *ctx, uint32_t fn, const bool *mask)
{
    const struct jacobian_of *of = ctx;
    struct module *m = of->m;
    struct arena *arena = of->arena;
    struct jacobian j;
    begin_jacobian(&j, m, fn, arena);
    const struct fn *g = j.f;
    uint32_t vjp = vjp_function(m, j.fn, mask);
    const struct fn *h = module_fn(m, vjp);
    if (h->n_outer_symbols != g->n_outer_symbols)
        hop_throw(HOP_INVALID, "jacrev: the function has results whose sizes only a run knows");
    for (uint32_t k = 0, ct = g->n_params; k < g->n_results; k++) {
        if (!is_float(m, value_type(g, g->results[k]))) continue;
        type_id type = value_type(h, ct);
        struct type y = type_get(m, type);
        dim count = type_elements(m, type);
        val *args = ARENA_NEW(arena, val, h->n_params), *results = ARENA_NEW(arena, val, h->n_results);
        bool *batched = ARENA_NEW(arena, bool, h->n_results);
        memcpy(args, j.params, g->n_params * sizeof *args);
        for (uint32_t p = g->n_params; p < h->n_params; p++)
            args[p] = p == ct ? one_hots(&j.b, type, count) : zeros_of(&j.b, value_type(h, p));
        inline_batched(&j, vjp, ct++, count, args, results, batched);
        for (uint32_t p = 0, t = g->n_results; p < g->n_params; p++) {
            if (!mask[p]) continue;
            dim dims[MAX_RANK];
            uint32_t rank = derivative_dims(y, type_get(m, value_type(g, p)), dims);
            val rows = batched[t] ? results[t] : emit_broadcast_front(&j.b, results[t], count);
            vec_push(arena, &j.out, emit_reshape(&j.b, rows, rank, dims));
            t++;
        }
    }
    return prune_function(m, builder_finish(&j.b, j.out.data, j.out.len), NULL);
}

static void make_jacobian(struct transform_args *a, struct hop_fn *f, struct arena *arena, derivation derive)
{
    struct module *m = f->shared->m;
    uint32_t fn = transformed_fn(f);
    struct jacobian_of of = { m, arena };
    const bool *mask = wrt_mask(a, m, module_fn(m, fn), arena);
    *a->out = fn_new(f->shared, carried_beside(m, fn, mask, derive, &of));
}
static void make_jacfwd(struct transform_args *a, struct hop_fn *f, struct arena *arena)
{
    make_jacobian(a, f, arena, jacfwd_of);
}
static void make_jacrev(struct transform_args *a, struct hop_fn *f, struct arena *arena)
{
    make_jacobian(a, f, arena, jacrev_of);
}

hop_status hop_jacfwd(hop_fn **out, hop_fn *f, const char *wrt)
{
    struct transform_args a = { .out = out, .f = f, .wrt = wrt, .name = "jacfwd", .make = make_jacfwd };
    return api_edge(do_transform, &a);
}
hop_status hop_jacrev(hop_fn **out, hop_fn *f, const char *wrt)
{
    struct transform_args a = { .out = out, .f = f, .wrt = wrt, .name = "jacrev", .make = make_jacrev };
    return api_edge(do_transform, &a);
}
hop_status hop_hessian(hop_fn **out, hop_fn *f, const char *wrt)
{
    hop_fn *gradient = NULL;
    hop_status status = hop_grad(&gradient, f, wrt);
    struct transform_args a = { .out = out,
                                .f = gradient,
                                .wrt = wrt,
                                .name = "jacfwd",
                                .make = make_jacfwd,
                                .of = f,
                                .suffix = "hessian" };
    if (!status) status = api_edge(do_transform, &a);
    hop_fn_free(gradient);
    return status;
}

/* ---- vmap ---- */

static int place_axis(struct transform_args *a, int64_t axis, uint32_t rank, const char *what)
{
    int64_t at = axis < 0 ? axis + (int64_t)rank + 1 : axis;
    if (at < 0 || at > (int64_t)rank)
        hop_throw(HOP_INVALID, "%s: the new dim of %s can stand at %d to %d, found %lld", a->name, what,
                  -(int)rank - 1, (int)rank, (long long)axis);
    return (int)at;
}

static void read_in_axes(struct transform_args *a, struct module *m, const struct fn *f, int *axes)
{
    if (!a->wrt) {
        for (uint32_t p = 0; p < f->n_params; p++) axes[p] = type_is_object(m, value_type(f, p)) ? -1 : 0;
        return;
    }
    for (uint32_t p = 0; p < f->n_params; p++) axes[p] = -1;
    struct cursor c = { .text = a->wrt, .p = a->wrt, .what = "the batched parameters" };
    cursor_space(&c);
    for (bool first = true; *c.p; first = false) {
        int64_t axis = 0;
        if (!first) cursor_expect(&c, ",");
        uint32_t p = read_param(a, m, f, &c);
        if (cursor_accept(&c, ":") && !cursor_integer(&c, &axis)) cursor_error(&c, "an axis");
        axes[p] = place_axis(a, axis, type_get(m, value_type(f, p)).rank, module_text(m, f->values[p].name));
    }
}

static void read_out_axes(struct transform_args *a, struct hop_fn *h, struct module *m, const struct fn *f,
                          int *axes)
{
    struct cursor c = cursor_over(a->out_axes, "the axes of the results", NULL, NULL);
    bool first = true;
    for (uint32_t k = 0; k < f->n_results; k++) {
        uint32_t rank = type_get(m, value_type(f, f->results[k])).rank;
        axes[k] = 0;
        if (h->map.updates[k] != HOP_NONE || !a->out_axes) continue;
        int64_t axis;
        if (!first) cursor_expect(&c, ",");
        first = false;
        if (cursor_integer(&c, &axis)) axes[k] = place_axis(a, axis, rank, "a result");
        else if (cursor_accept(&c, "-")) axes[k] = -1;
        else cursor_error(&c, "an axis or - for each result");
    }
    cursor_end(&c);
}

static void make_vmap(struct transform_args *a, struct hop_fn *h, struct arena *arena)
{
    struct module *m = h->shared->m;
    uint32_t fn = transformed_fn(h);
    bool infinities = (hop_modes() & HOP_DEBUG_INFINITIES) == HOP_DEBUG_INFINITIES;
    if (hop_modes() & HOP_DEBUG_NANS) fn = debug_nans_function(m, fn, infinities, false);
    const struct fn *f = module_fn(m, fn);
    int *in = ARENA_NEW(arena, int, f->n_params + 1), *out = ARENA_NEW(arena, int, f->n_results + 1);
    read_in_axes(a, m, f, in);
    read_out_axes(a, h, m, f, out);
    const char *name = a->axis_name;
    axis_set axis = name && *name ? module_axis(m, module_string(m, name, strlen(name))) : 0;
    *a->out = fn_new(h->shared, carried_vmap(m, fn, in, out, axis));
}

hop_status hop_vmap(hop_fn **out, hop_fn *f, const char *in, const char *out_axes)
{
    return hop_vmap_axis(out, f, in, out_axes, NULL);
}

hop_status hop_vmap_axis(hop_fn **out, hop_fn *f, const char *in, const char *out_axes, const char *axis_name)
{
    struct transform_args a = { .out = out,
                                .f = f,
                                .wrt = in,
                                .out_axes = out_axes,
                                .axis_name = axis_name,
                                .name = "vmap",
                                .make = make_vmap };
    return api_edge(do_transform, &a);
}

/* ---- the first NaN ---- */

static void make_debug_nans(struct transform_args *a, struct hop_fn *f, struct arena *arena)
{
    HOP_UNUSED(arena);
    hop_fn *made = fn_new(f->shared, debug_nans_function(f->shared->m, f->fn, a->value, true));
    made->kept = f->kept;
    *a->out = made;
}

hop_status hop_debug_nans(hop_fn **out, hop_fn *f, int infinities)
{
    struct transform_args a = {
        .out = out, .f = f, .name = "debug_nans", .value = infinities != 0, .make = make_debug_nans
    };
    return api_edge(do_transform, &a);
}
