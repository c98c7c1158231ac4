/* Transforms of global functions. A global function and what a transform takes come in; the transform of its
 * local function, as a global function again, goes out: a local_map over the transformed body, whose
 * placements follow from those of the function's parameters and results. */
#include "transform/localize.h"

#include "ir/axes.h"
#include "ops/build.h"
#include "transform/transform.h"

/* A global function around a local one. */
struct wrapping {
    struct module *m;
    const struct fn *f; /* the global function that was transformed */
    const struct edges *e;
    uint32_t made; /* what came of its local function */
    struct builder b;
    dim *symbols; /* per outer symbol of `made`: what it is in b; of a coordinate 0 */
    uint32_t n_in, n_out;
    struct placement (*in)[MESH_AXES], (*out)[MESH_AXES];
};

static void wrap_begin(struct wrapping *w, struct module *m, uint32_t fn, uint32_t made)
{
    const struct fn *g = module_fn(m, made);
    *w = (struct wrapping){ .m = m, .f = module_fn(m, fn), .e = localize(m, fn), .made = made };
    builder_begin(&w->b, m, NULL);
    struct arena *arena = &w->b.arena;
    w->b.fn_place = g->place;
    w->b.label = fn_label(g);
    w->symbols = ARENA_NEW(arena, dim, g->n_outer_symbols + 1);
    w->in = arena_alloc(arena, (g->n_params + 1) * sizeof *w->in);
    w->out = arena_alloc(arena, (g->n_results + 1) * sizeof *w->out);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) {
        const struct symbol *s = &g->symbols[i];
        w->symbols[i] = 0;
        if (s->axis && mesh_of_axis(m, s->axis, NULL) == w->e->mesh) continue;
        w->symbols[i] = dim_symbol(m, builder_symbol(&w->b, s->name, s->lo, s->hi));
    }
}

static void placements_of(const struct wrapping *w, type_id t, struct placement at[MESH_AXES])
{
    type_placements(w->m, t, w->e->mesh, at);
}

/* The next parameter: an array of the type t, in terms of the function's symbols. */
static void wrap_param(struct wrapping *w, type_id t)
{
    const struct fn *g = module_fn(w->m, w->made);
    uint32_t name = g->values[w->n_in].name;
    placements_of(w, t, w->in[w->n_in++]);
    builder_param(&w->b, type_substitute(w->m, t, w->symbols), name);
}

static void wrap_params(struct wrapping *w)
{
    for (uint32_t p = 0; p < w->e->n_params; p++) wrap_param(w, w->e->params[p]);
}

/* The next result, placed as arrays of type t are. */
static void wrap_result(struct wrapping *w, type_id t) { placements_of(w, t, w->out[w->n_out++]); }

static uint32_t wrap_end(struct wrapping *w)
{
    struct module *m = w->m;
    const struct fn *g = module_fn(m, w->made);
    struct arena *arena = &w->b.arena;
    if (w->n_in != g->n_params || w->n_out != g->n_results)
        hop_throw(HOP_INTERNAL,
                  "a transform of a global function: %u parameters and %u results, expected %u and %u",
                  g->n_params, g->n_results, w->n_in, w->n_out);
    const struct mesh *mesh = &m->meshes.data[w->e->mesh];
    struct attr attrs[LOCAL_MAP_ATTRS] = {
        [LOCAL_MAP_MESH] = A_STRING(mesh->name),
        [LOCAL_MAP_IN] = A_STRING(
            placements_text(m, w->e->mesh, w->n_in, (const struct placement(*)[MESH_AXES])w->in)),
        [LOCAL_MAP_OUT] = A_STRING(
            placements_text(m, w->e->mesh, w->n_out, (const struct placement(*)[MESH_AXES])w->out)),
    };
    val *all = ARENA_NEW(arena, val, w->n_in + w->n_out + 1);
    for (uint32_t p = 0; p < w->n_in; p++) all[p] = p;
    struct region_in body = { .fn = w->made, .dims = w->symbols };
    val first = builder_node(&w->b, &(struct node_in){ .op = OP_local_map,
                                                       .operands = all,
                                                       .n_operands = w->n_in,
                                                       .groups = &w->n_in,
                                                       .attrs = attrs,
                                                       .regions = &body,
                                                       .n_regions = 1,
                                                       .place = w->f->place });
    for (uint32_t p = 0; g->news && p < w->n_in; p++)
        if (g->news[p] != HOP_NONE) builder_mut(&w->b, p, g->news[p]);
    for (uint32_t k = 0; k < w->n_out; k++) all[k] = first + k;
    return builder_finish(&w->b, all, w->n_out);
}

/* ---- derivatives ---- */

static bool is_float(const struct module *m, type_id t)
{
    return dtype_is_float((enum dtype)type_get(m, t).dtype);
}

static bool is_partial(const struct module *m, type_id t, bool linear)
{
    uint16_t layout = type_get(m, t).layout;
    for (uint32_t k = 0; layout && k < MESH_AXES; k++) {
        struct placement at = layout_get(m, layout)->at[k];
        bool sum = at.op == REDUCTION_SUM || at.op == REDUCTION_MEAN;
        if (at.kind == PLACE_PARTIAL && !(linear && sum)) return true;
    }
    return false;
}

/* Contributions to a whole have no derivatives of their own. linear: tangents of sums are contributions to a
 * sum. */
static void refuse_partial(struct module *m, const struct fn *f, const bool *wrt, const bool *wanted,
                           bool linear)
{
    for (uint32_t p = 0; p < f->n_params; p++)
        if (wrt[p] && is_partial(m, value_type(f, p), linear))
            hop_throw(HOP_INVALID,
                      "%s@%s: parameter %u (%%%s) of type %s is a contribution to a whole, which has no "
                      "derivative of its own: redistribute it first",
                      place_text(m, f->place), module_text(m, fn_label(f)), p,
                      module_text(m, f->values[p].name), type_text(m, f->symbols, value_type(f, p)));
    for (uint32_t k = 0; k < f->n_results; k++) {
        type_id t = value_type(f, f->results[k]);
        if ((!wanted || wanted[k]) && is_float(m, t) && is_partial(m, t, linear))
            hop_throw(HOP_INVALID,
                      "%s@%s: result %u of type %s is a contribution to a whole, which has no derivative of "
                      "its own: redistribute it first",
                      place_text(m, f->place), module_text(m, fn_label(f)), k, type_text(m, f->symbols, t));
    }
}

static const bool *first_visible(struct module *m, const struct fn *f)
{
    bool *wanted = ARENA_ZNEW(&m->scratch, bool, f->n_results + 1);
    for (uint32_t k = 0; k < f->n_results; k++)
        if (fn_updated(f, k) == HOP_NONE) {
            wanted[k] = true;
            break;
        }
    return wanted;
}

static void wrap_gradients(struct wrapping *w, const bool *wrt)
{
    for (uint32_t p = 0; p < w->e->n_params; p++)
        if (wrt[p]) wrap_result(w, w->e->params[p]);
}

uint32_t global_vjp(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted)
{
    const struct fn *f = module_fn(m, fn);
    struct wrapping w;
    refuse_partial(m, f, wrt, wanted, false);
    uint32_t made = vjp_of_some(m, localized(m, fn), wrt, wanted);
    wrap_begin(&w, m, fn, made);
    wrap_params(&w);
    for (uint32_t k = 0; k < w.e->n_results; k++)
        if ((!wanted || wanted[k]) && is_float(m, w.e->results[k])) wrap_param(&w, w.e->results[k]);
    for (uint32_t k = 0; k < w.e->n_results; k++) wrap_result(&w, w.e->results[k]);
    wrap_gradients(&w, wrt);
    return wrap_end(&w);
}

uint32_t global_grad(struct module *m, uint32_t fn, const bool *wrt, bool value)
{
    const struct fn *f = module_fn(m, fn);
    struct wrapping w;
    refuse_partial(m, f, wrt, first_visible(m, f), false);
    uint32_t made = grad_of(m, localized(m, fn), wrt, value);
    wrap_begin(&w, m, fn, made);
    wrap_params(&w);
    for (uint32_t k = 0; value && k < w.e->n_results; k++) /* new contents come behind the others */
        if (fn_updated(f, k) == HOP_NONE) wrap_result(&w, w.e->results[k]);
    for (uint32_t k = 0; value && k < w.e->n_results; k++)
        if (fn_updated(f, k) != HOP_NONE) wrap_result(&w, w.e->results[k]);
    wrap_gradients(&w, wrt);
    return wrap_end(&w);
}

uint32_t global_jvp(struct module *m, uint32_t fn, const bool *wrt)
{
    const struct fn *f = module_fn(m, fn);
    struct wrapping w;
    refuse_partial(m, f, wrt, NULL, true);
    uint32_t made = jvp_of(m, localized(m, fn), wrt);
    wrap_begin(&w, m, fn, made);
    wrap_params(&w);
    for (uint32_t p = 0; p < w.e->n_params; p++)
        if (wrt[p]) wrap_param(&w, w.e->params[p]);
    for (uint32_t k = 0; k < w.e->n_results; k++)
        if (fn_updated(f, k) == HOP_NONE) wrap_result(&w, w.e->results[k]);
    for (uint32_t k = 0; k < w.e->n_results; k++)
        if (fn_updated(f, k) == HOP_NONE && is_float(m, w.e->results[k])) wrap_result(&w, w.e->results[k]);
    return wrap_end(&w);
}

/* ---- lanes ---- */

/* The next parameter, one of type t with lanes in front of dim `at`; `made` has it, too. */
static void wrap_lanes(struct wrapping *w, type_id t, axis_set axis, uint32_t at)
{
    struct module *m = w->m;
    t = type_varying(m, t, value_axes(m, t) & (axis_set)~axis);
    dim lanes = type_get(m, value_type(module_fn(m, w->made), w->n_in)).dims[at];
    wrap_param(w, type_insert_dim(m, t, at, lanes));
}

uint32_t global_vmap(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes, axis_set axis)
{
    const struct fn *f = module_fn(m, fn);
    struct wrapping w;
    uint32_t made = vmap_of(m, localized(m, fn), in_axes, out_axes, axis);
    wrap_begin(&w, m, fn, made);
    for (uint32_t p = 0; p < w.e->n_params; p++) {
        if (in_axes[p] >= 0) wrap_lanes(&w, w.e->params[p], axis, (uint32_t)in_axes[p]);
        else wrap_param(&w, type_varying(m, w.e->params[p], value_axes(m, w.e->params[p]) & (axis_set)~axis));
    }
    for (uint32_t k = 0; k < w.e->n_results; k++) {
        uint32_t updated = fn_updated(f, k);
        int at = updated == HOP_NONE ? out_axes[k] : in_axes[updated];
        type_id t = w.e->results[k];
        wrap_result(&w, at < 0 ? t : type_insert_dim(m, t, (uint32_t)at, 1));
    }
    return wrap_end(&w);
}

uint32_t global_batch(struct module *m, uint32_t fn, const struct batch_of *of, bool *result_batched)
{
    struct wrapping w;
    uint32_t made = batch_axis(m, localized(m, fn), of->batched, of->size, of->force, of->lanes, of->axis,
                               result_batched);
    wrap_begin(&w, m, fn, made);
    if (of->lanes) wrap_param(&w, value_type(module_fn(m, made), 0));
    for (uint32_t p = 0; p < w.e->n_params; p++) {
        if (of->batched[p]) wrap_lanes(&w, w.e->params[p], of->axis, 0);
        else wrap_param(&w, w.e->params[p]);
    }
    for (uint32_t k = 0; k < w.e->n_results; k++) {
        type_id t = w.e->results[k];
        wrap_result(&w, result_batched[k] ? type_insert_dim(m, t, 0, 1) : t);
    }
    return wrap_end(&w);
}

/* ---- halves ---- */

/* How a value of `made` that the first half keeps is placed: sizes that depend on the rank are those of
 * parts; what else differs between ranks is each rank's own. False: a size depends on the rank without being
 * that of a part, as that of a part with its halo does. */
static bool place_kept(struct module *m, uint32_t mesh, const struct fn *g, uint32_t k,
                       struct placement at[MESH_AXES])
{
    type_id t = value_type(g, g->results[k]);
    struct mesh of = m->meshes.data[mesh];
    struct coordinates ranks;
    uint32_t number;
    for (uint32_t i = 0; i < MESH_AXES; i++) ranks.at[i] = dim_symbol(m, g->n_symbols + i);
    for (uint32_t s = 0; s < g->n_outer_symbols; s++)
        if (g->symbols[s].axis && mesh_of_axis(m, g->symbols[s].axis, &number) == mesh)
            ranks.at[number] = dim_symbol(m, s);
    if (!part_placements(m, mesh, t, &ranks, at)) return false;
    for (uint32_t i = 0; i < of.n_axes; i++)
        if (at[i].kind == PLACE_REPLICATE && value_axes(m, t) & module_axis(m, of.axes[i]))
            at[i].kind = PLACE_EACH;
    return true;
}

static bool can_be_kept(struct module *m, uint32_t mesh, uint32_t first, uint32_t n_results)
{
    const struct fn *g = module_fn(m, first);
    struct placement at[MESH_AXES];
    bool can = true;
    for (uint32_t k = n_results; k < g->n_results && can; k++) can = place_kept(m, mesh, g, k, at);
    return can;
}

/* The second half of a local function whose first half keeps nothing: it makes again what it needs. */
static uint32_t second_alone(struct module *m, uint32_t local, const bool *wrt, const bool *wanted,
                             bool linear)
{
    uint32_t both = linear ? jvp_of(m, local, wrt) : vjp_of_some(m, local, wrt, wanted), n = 0, n_out = 0;
    const struct fn *f = module_fn(m, local), *g = module_fn(m, both);
    struct builder b;
    builder_begin(&b, m, g);
    val *args = ARENA_NEW(&b.arena, val, g->n_params + 1), *out = ARENA_NEW(&b.arena, val, g->n_results + 1);
    for (uint32_t p = 0; p < f->n_params; p++)
        args[n++] = builder_param(&b, value_type(g, p), g->values[p].name);
    for (uint32_t k = 0; k < f->n_results; k++) builder_param(&b, value_type(g, g->results[k]), 0);
    for (uint32_t p = f->n_params; p < g->n_params; p++)
        args[n++] = builder_param(&b, value_type(g, p), g->values[p].name);
    inline_function(&b, both, NULL, args, out);
    for (uint32_t k = 0, t = f->n_results; linear && k < f->n_results; k++) {
        if (!is_float(m, value_type(f, f->results[k]))) continue;
        if (!wanted || wanted[k]) out[f->n_results + n_out++] = out[t];
        t++;
    }
    if (!linear) n_out = g->n_results - f->n_results;
    return prune_function(m, builder_finish(&b, out + f->n_results, n_out), NULL);
}

static uint32_t wrap_forward(struct module *m, uint32_t fn, uint32_t made)
{
    struct wrapping w;
    wrap_begin(&w, m, fn, made);
    wrap_params(&w);
    for (uint32_t k = 0; k < w.e->n_results; k++) wrap_result(&w, w.e->results[k]);
    for (uint32_t n = module_fn(m, made)->n_results; w.n_out < n; w.n_out++)
        place_kept(m, w.e->mesh, module_fn(m, made), w.n_out, w.out[w.n_out]);
    return wrap_end(&w);
}

static uint32_t wrap_second(struct module *m, uint32_t fn, uint32_t made, const struct fn *forward,
                            const bool *wrt, const bool *wanted, bool linear)
{
    struct wrapping w;
    wrap_begin(&w, m, fn, made);
    wrap_params(&w);
    for (uint32_t k = 0; k < forward->n_results; k++)
        wrap_param(&w, value_type(forward, forward->results[k]));
    for (uint32_t p = 0; linear && p < w.e->n_params; p++)
        if (wrt[p]) wrap_param(&w, w.e->params[p]);
    for (uint32_t k = 0; k < w.e->n_results; k++) {
        type_id t = w.e->results[k];
        if (!is_float(m, t) || (wanted && !wanted[k])) continue;
        if (linear) wrap_result(&w, t);
        else wrap_param(&w, t);
    }
    if (!linear) wrap_gradients(&w, wrt);
    return wrap_end(&w);
}

void global_halves(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted, bool linear,
                   uint32_t *forward, uint32_t *second)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t first, then, local = localized(m, fn);
    refuse_partial(m, f, wrt, wanted, linear);
    if (linear) jvp_two_functions(m, local, wrt, wanted, &first, &then);
    else vjp_two_functions(m, local, wrt, wanted, &first, &then);
    if (!can_be_kept(m, localize(m, fn)->mesh, first, f->n_results)) {
        first = local;
        then = second_alone(m, local, wrt, wanted, linear);
    }
    *forward = wrap_forward(m, fn, first);
    *second = wrap_second(m, fn, then, module_fn(m, *forward), wrt, wanted, linear);
}

/* ---- others ---- */

uint32_t global_debug_nans(struct module *m, uint32_t fn, bool infinities, bool arguments)
{
    struct wrapping w;
    wrap_begin(&w, m, fn, debug_nans_function(m, localized(m, fn), infinities, arguments));
    wrap_params(&w);
    for (uint32_t k = 0; k < w.e->n_results; k++) wrap_result(&w, w.e->results[k]);
    return wrap_end(&w);
}
