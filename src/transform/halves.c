/* Functions differentiated in two halves, for users: (x…) -> (y…, residual…), which runs the function and
 * gives what the second half needs beside its arguments and results; and (x…, y…, residual…, cotangents or
 * tangents…), which is linear in the last. The cut is that of vjp_split. */
#include "ops/build.h"
#include "transform/localize.h"
#include "transform/transform.h"

static bool is_float(const struct module *m, type_id t)
{
    return dtype_is_float((enum dtype)type_get(m, t).dtype);
}

/* The second half being built. */
struct second {
    struct builder b;
    const struct fn *f;
    const struct vjp_halves *h;
    val *x, *y, *r;
    const struct fn *forward;
    dim *symbols; /* of forward here: those its nodes bind are new ones, bound by the types of y and r */
};

static bool symbol_here(void *ctx, uint32_t symbol)
{
    struct second *s = ctx;
    const struct symbol *like = &s->forward->symbols[symbol];
    if (s->symbols[symbol] == HOP_NONE)
        s->symbols[symbol] = dim_symbol(s->b.m, builder_symbol(&s->b, like->name, like->lo, like->hi));
    return false;
}

static type_id type_here(struct second *s, type_id t)
{
    struct module *m = s->b.m;
    struct type type = type_get(m, t);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) {
        if (type.dims[i] & DIM_TABLE) dim_mentions(m, type.dims[i], symbol_here, s);
        dims[i] = dim_substitute(m, type.dims[i], s->symbols);
    }
    return type_with_dims(m, type, dims);
}

static uint32_t named(struct second *s, const char *prefix, uint32_t name)
{
    if (!name) return 0;
    const char *text = arena_printf(&s->b.arena, "%s%s", prefix, module_text(s->b.m, name));
    return module_string(s->b.m, text, strlen(text));
}

static void second_begin(struct second *s, struct module *m, const struct fn *f, const struct vjp_halves *h,
                         const char *suffix)
{
    const struct fn *forward = module_fn(m, h->forward);
    builder_begin(&s->b, m, f);
    s->b.transposed = true;
    s->b.label = module_label(m, fn_label(f), suffix);
    struct arena *arena = &s->b.arena;
    s->f = f;
    s->h = h;
    s->forward = forward;
    s->symbols = ARENA_NEW(arena, dim, forward->n_symbols);
    for (uint32_t k = 0; k < forward->n_symbols; k++)
        s->symbols[k] = k < f->n_outer_symbols ? dim_symbol(m, k) : HOP_NONE;
    s->x = ARENA_NEW(arena, val, f->n_params);
    s->y = ARENA_NEW(arena, val, f->n_results);
    s->r = ARENA_NEW(arena, val, forward->n_results);
    for (uint32_t p = 0; p < f->n_params; p++)
        s->x[p] = builder_param(&s->b, value_type(f, p), f->values[p].name);
    for (uint32_t k = 0; k < forward->n_results; k++) {
        val *out = k < f->n_results ? &s->y[k] : &s->r[k - f->n_results];
        *out = builder_param(&s->b, type_here(s, value_type(forward, forward->results[k])), 0);
    }
}

/* The residuals in the order in which backward takes them. */
static uint32_t residuals_of(const struct second *s, val *out)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < s->h->n_residuals; i++) {
        uint32_t param = s->h->source_param[i], result = s->h->source_result[i];
        if (param != HOP_NONE) out[i] = s->x[param];
        else if (result != HOP_NONE) out[i] = s->y[result];
        else out[i] = s->r[next++];
    }
    return s->h->n_residuals;
}

static val call(struct second *s, uint32_t fn, const val *operands, uint32_t n)
{
    const struct fn *g = module_fn(s->b.m, fn);
    /* symbols beyond those of f are sizes of cotangents: found from the operands */
    dim *dims = ARENA_NEW(&s->b.arena, dim, g->n_outer_symbols);
    for (uint32_t k = 0; k < g->n_outer_symbols; k++)
        dims[k] = k < s->f->n_outer_symbols ? dim_symbol(s->b.m, k) : HOP_NONE;
    struct region_in region = { fn, operands, n, dims };
    struct attr attrs[INVOKE_ATTRS] = { A_NONE };
    return builder_node(&s->b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                  .groups = (const uint32_t[1]){ 0 },
                                                  .attrs = attrs,
                                                  .regions = &region,
                                                  .n_regions = 1 });
}

static const struct vjp_halves *halves_of(struct module *m, const struct fn *f, const bool *wrt,
                                          const bool *some)
{
    bool *wanted = ARENA_NEW(&m->arena, bool, f->n_results);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (wrt[p] && !is_float(m, value_type(f, p)))
            hop_throw(
                HOP_INVALID,
                "cannot differentiate with respect to parameter %u (%%%s): expected a float type, found %s",
                p, module_text(m, f->values[p].name), type_text(m, f->symbols, value_type(f, p)));
    for (uint32_t k = 0; k < f->n_results; k++) wanted[k] = !some || some[k];
    return vjp_split_whole(m, f->id, wrt, wanted);
}

void vjp_two_functions(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted, uint32_t *forward,
                       uint32_t *backward)
{
    const struct fn *f = module_fn(m, fn);
    if (f->global) {
        global_halves(m, fn, wrt, wanted, false, forward, backward);
        return;
    }
    const struct vjp_halves *h = halves_of(m, f, wrt, wanted);
    struct second s;
    second_begin(&s, m, f, h, "backward");
    struct arena *arena = &s.b.arena;
    val *ct = ARENA_NEW(arena, val, f->n_results);
    val *operands = ARENA_NEW(arena, val, h->n_residuals + f->n_results);
    val *out = ARENA_NEW(arena, val, f->n_params);
    for (uint32_t k = 0; k < f->n_results; k++) {
        val v = f->results[k];
        ct[k] = VAL_NONE;
        if (!is_float(m, value_type(f, v)) || (wanted && !wanted[k])) continue;
        uint32_t name = named(&s, "ct_", f->values[v].name);
        ct[k] = builder_param(&s.b, builder_type(&s.b, s.y[k]), name);
    }
    uint32_t n = residuals_of(&s, operands), n_out = 0;
    for (uint32_t k = 0; k < f->n_results; k++)
        if (h->ct_result[k]) operands[n++] = ct[k];
    val next = call(&s, h->backward, operands, n);
    for (uint32_t p = 0; p < f->n_params; p++) {
        val found = h->ct_param[p] ? next++ : VAL_NONE;
        if (wrt[p]) out[n_out++] = found != VAL_NONE ? found : zeros_like(&s.b, s.x[p]);
    }
    *backward = prune_function(m, builder_finish(&s.b, out, n_out), NULL);
    *forward = h->forward;
}

/* Backward is linear in its cotangents, so its own pullback is the derivative itself: loops keep what the
 * first half stacked and are not run again. */
void jvp_two_functions(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted, uint32_t *forward,
                       uint32_t *linear)
{
    const struct fn *f = module_fn(m, fn);
    if (f->global) {
        global_halves(m, fn, wrt, wanted, true, forward, linear);
        return;
    }
    const struct vjp_halves *h = halves_of(m, f, wrt, wanted);
    const struct fn *back = module_fn(m, h->backward);
    bool *cotangents = ARENA_ZNEW(&m->arena, bool, back->n_params);
    for (uint32_t p = h->n_residuals; p < back->n_params; p++) cotangents[p] = true;
    uint32_t twice = vjp_function(m, h->backward, cotangents);
    uint32_t n_ct = back->n_params - h->n_residuals;
    bool *keep = ARENA_ZNEW(&m->arena, bool, module_fn(m, twice)->n_results);
    for (uint32_t k = 0; k < n_ct; k++) keep[back->n_results + k] = true;
    twice = strip_effects(m, twice, keep);
    struct second s;
    second_begin(&s, m, f, h, "linear");
    struct arena *arena = &s.b.arena;
    val *tangent = ARENA_NEW(arena, val, f->n_params);
    val *operands = ARENA_NEW(arena, val, back->n_params + back->n_results);
    val *out = ARENA_NEW(arena, val, f->n_results);
    for (uint32_t p = 0; p < f->n_params; p++) {
        tangent[p] = VAL_NONE;
        if (!wrt[p]) continue;
        tangent[p] = builder_param(&s.b, value_type(f, p), named(&s, "d_", f->values[p].name));
    }
    uint32_t n = residuals_of(&s, operands), n_out = 0;
    for (uint32_t k = 0; k < f->n_results; k++)
        if (h->ct_result[k]) operands[n++] = zeros_like(&s.b, s.y[k]); /* nothing depends on it */
    for (uint32_t p = 0; p < f->n_params; p++)
        if (h->ct_param[p]) operands[n++] = tangent[p];
    val next = call(&s, twice, operands, n);
    for (uint32_t k = 0; k < f->n_results; k++) {
        val found = h->ct_result[k] ? next++ : VAL_NONE;
        if (is_float(m, value_type(f, f->results[k])) && (!wanted || wanted[k]))
            out[n_out++] = found != VAL_NONE ? found : zeros_like(&s.b, s.y[k]);
    }
    *linear = prune_function(m, builder_finish(&s.b, out, n_out), NULL);
    *forward = h->forward;
}
