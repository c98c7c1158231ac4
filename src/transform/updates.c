/* Transforms of functions that update parameters: a function and what a transform's engine takes come in; the
 * engine's function goes out, its header saying which results are new contents. */
#include "transform/localize.h"
#include "transform/transform.h"

static uint32_t *updates_of(struct arena *a, const struct fn *f, uint32_t n_results)
{
    uint32_t *updates = ARENA_NEW(a, uint32_t, n_results);
    for (uint32_t k = 0; k < n_results; k++) updates[k] = k < f->n_results ? fn_updated(f, k) : HOP_NONE;
    return updates;
}

/* `made` has fn's parameters and begins with fn's results. */
static uint32_t update_likewise(struct module *m, uint32_t fn, uint32_t made)
{
    const struct fn *f = module_fn(m, fn);
    if (!fn_has_updates(f)) return made;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    uint32_t out = module_with_updates(m, made, updates_of(&arena, f, module_fn(m, made)->n_results));
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

uint32_t visible_function(struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    if (!fn_has_updates(f)) return fn;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    bool *keep = ARENA_NEW(&arena, bool, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) keep[k] = fn_updated(f, k) == HOP_NONE;
    uint32_t out = prune_function(m, fn, keep);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

/* The same function with its new contents behind its other results. */
static uint32_t visible_first(struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t n = 0;
    bool ordered = true;
    for (uint32_t k = 1; k < f->n_results; k++)
        ordered &= fn_updated(f, k) != HOP_NONE || fn_updated(f, k - 1) == HOP_NONE;
    if (ordered) return fn;
    struct builder b;
    builder_begin(&b, m, f);
    val *args = ARENA_NEW(&b.arena, val, f->n_params);
    val *all = ARENA_NEW(&b.arena, val, f->n_results);
    val *out = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t p = 0; p < f->n_params; p++)
        args[p] = builder_param(&b, value_type(f, p), f->values[p].name);
    inline_function(&b, fn, NULL, args, all);
    for (uint32_t k = 0; k < f->n_results; k++)
        if (fn_updated(f, k) == HOP_NONE) out[n++] = all[k];
    for (uint32_t k = 0; k < f->n_results; k++) {
        if (fn_updated(f, k) == HOP_NONE) continue;
        builder_mut(&b, fn_updated(f, k), n);
        out[n++] = all[k];
    }
    return builder_finish(&b, out, n);
}

uint32_t grad_of(struct module *m, uint32_t fn, const bool *wrt, bool with_value)
{
    if (module_fn(m, fn)->global) return global_grad(m, fn, wrt, with_value);
    if (!with_value) return grad_function(m, visible_function(m, fn), wrt, false);
    fn = visible_first(m, fn);
    return update_likewise(m, fn, grad_function(m, fn, wrt, true));
}

/* `made` gives tangents of the results in found; the same with zeros for the other float ones. */
static uint32_t with_zero_tangents(struct module *m, const struct fn *f, uint32_t made, const bool *found)
{
    const struct fn *g = module_fn(m, made);
    struct builder b;
    builder_begin(&b, m, g);
    val *args = ARENA_NEW(&b.arena, val, g->n_params);
    val *results = ARENA_NEW(&b.arena, val, g->n_results);
    val *out = ARENA_NEW(&b.arena, val, 2 * (size_t)f->n_results);
    for (uint32_t p = 0; p < g->n_params; p++)
        args[p] = builder_param(&b, value_type(g, p), g->values[p].name);
    inline_function(&b, made, NULL, args, results);
    uint32_t n = f->n_results, next = n;
    for (uint32_t k = 0; k < f->n_results; k++) {
        out[k] = results[k];
        if (found[k]) out[n++] = results[next++];
        else if (dtype_is_float((enum dtype)type_get(m, builder_type(&b, results[k])).dtype))
            out[n++] = zeros_like(&b, results[k]);
    }
    return builder_finish(&b, out, n);
}

uint32_t jvp_of(struct module *m, uint32_t fn, const bool *wrt)
{
    if (module_fn(m, fn)->global) return global_jvp(m, fn, wrt);
    fn = visible_function(m, fn);
    const struct fn *f = module_fn(m, fn);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    bool *found = ARENA_ZNEW(&arena, bool, f->n_results + 1);
    bool complete = true;
    uint32_t out = jvp_function(m, fn, wrt, found);
    for (uint32_t k = 0; k < f->n_results; k++)
        complete &= found[k] || !dtype_is_float((enum dtype)type_get(m, value_type(f, f->results[k])).dtype);
    if (!complete) out = with_zero_tangents(m, f, out, found);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

/* An array that is updated must have the new dim if the update differs from lane to lane. */
static void check_lanes(struct module *m, uint32_t fn, const bool *batched, axis_set axis,
                        struct arena *arena)
{
    const struct fn *f = module_fn(m, fn);
    bool *found = ARENA_NEW(arena, bool, f->n_results + 1);
    uint32_t one = 0;
    for (uint32_t p = 0; p < f->n_params; p++)
        if (batched[p]) one = p;
    batch_axis(m, fn, batched, HOP_NONE, NULL, false, axis, found);
    for (uint32_t k = 0; k < f->n_results; k++) {
        uint32_t p = fn_updated(f, k);
        if (p != HOP_NONE && found[k] && !batched[p])
            hop_throw(HOP_INVALID,
                      "vmap: '%s' is updated, differently for each lane of '%s', but has no lanes of its "
                      "own: batch it too",
                      module_text(m, f->values[p].name), module_text(m, f->values[one].name));
    }
}

uint32_t vmap_of(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes, axis_set axis)
{
    const struct fn *f = module_fn(m, fn);
    if (f->global) return global_vmap(m, fn, in_axes, out_axes, axis);
    if (!fn_has_updates(f)) return vmap_axis(m, fn, in_axes, out_axes, axis);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    bool *batched = ARENA_NEW(&arena, bool, f->n_params);
    int *axes = ARENA_NEW(&arena, int, f->n_results);
    for (uint32_t p = 0; p < f->n_params; p++) batched[p] = in_axes[p] >= 0;
    for (uint32_t k = 0; k < f->n_results; k++)
        axes[k] = fn_updated(f, k) == HOP_NONE ? out_axes[k] : in_axes[fn_updated(f, k)];
    check_lanes(m, fn, batched, axis, &arena);
    uint32_t out = update_likewise(m, fn, vmap_axis(m, fn, in_axes, axes, axis));
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

uint32_t batch_of(struct module *m, uint32_t fn, const bool *batched, dim size)
{
    const struct fn *f = module_fn(m, fn);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    bool *force = ARENA_NEW(&arena, bool, f->n_results), *found = ARENA_NEW(&arena, bool, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++)
        force[k] = fn_updated(f, k) == HOP_NONE || batched[fn_updated(f, k)];
    if (fn_has_updates(f)) check_lanes(m, fn, batched, 0, &arena);
    uint32_t out = update_likewise(m, fn, batch_function(m, fn, batched, size, force, false, found));
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}
