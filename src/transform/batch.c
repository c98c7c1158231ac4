/* Batching: a function comes in, one that works on many arguments at once goes out; every batched value has
 * the batch dim in front. Nodes that see nothing batched are copied. vmap_function moves the batch dim to
 * where the user wants it. */
#include "ir/axes.h"
#include "ops/build.h"
#include "transform/localize.h"
#include "transform/transform.h"

struct batch_record {
    uint32_t fn;
    bool *result_batched;
};

struct batching {
    struct module *m;
    struct builder *b;
    struct copier copy;
    const struct fn *f;
    bool *batched; /* per value of f */
    dim size;
    val lanes;
    axis_set axis; /* whose lanes they are; 0: one without a name */
};

static void batch_node(struct batching *s, const struct node *n)
{
    struct arena *arena = &s->b->arena;
    const struct fn *f = s->f;
    effect_set effects = node_effects(s->m, f, n);
    /* Every lane makes its own lines, and a masked lane makes none, whether the operands are batched or
     * not. */
    bool any = effects_of_every_lane(effects) || (s->lanes != VAL_NONE && effects);
    any |= (s->axis & node_axes(s->m, f, n)) != 0;
    bool *batched = ARENA_NEW(arena, bool, n->n_operands);
    val *operands = ARENA_NEW(arena, val, n->n_operands);
    val *results = ARENA_NEW(arena, val, n->n_results);
    for (uint32_t k = 0; k < n->n_operands; k++) {
        val x = node_operands(f, n)[k];
        operands[k] = s->copy.values[x];
        batched[k] = s->batched[x];
        any |= batched[k];
        /* a body says so of its parameters, whether or not lanes came of it */
        any |= n->n_regions && value_axes(s->m, value_type(f, x)) & s->axis;
    }
    if (!any) {
        copier_node(&s->copy, n);
        return;
    }
    bool *result_batched = ARENA_NEW(arena, bool, n->n_results);
    for (uint32_t k = 0; k < n->n_results; k++) {
        results[k] = VAL_NONE;
        result_batched[k] = true;
    }
    struct node_in in = copier_node_in(&s->copy, n);
    struct place outer = s->b->place;
    s->b->place = n->place;
    if (s->b->place.lanes < MAX_RANK) s->b->place.lanes++;
    node_row(n)->batch(&(struct batch){ .b = s->b,
                                        .copy = &s->copy,
                                        .f = f,
                                        .n = n,
                                        .attrs = in.attrs,
                                        .size = s->size,
                                        .axis = s->axis,
                                        .operands = operands,
                                        .batched = batched,
                                        .results = results,
                                        .result_batched = result_batched,
                                        .lanes = s->lanes });
    s->b->place = outer;
    copier_bind(&s->copy, n, results);
    for (uint32_t k = 0; k < n->n_results; k++) s->batched[n->results + k] = result_batched[k];
}

static uint32_t build_batched(struct module *m, const struct fn *f, const bool *batched, dim size,
                              const bool *force, bool lanes, axis_set axis, bool *result_batched)
{
    struct builder b;
    builder_begin(&b, m, f);
    b.label = module_label(m, fn_label(f), "vmap");
    struct batching s = { .m = m,
                          .b = &b,
                          .f = f,
                          .size = size,
                          .lanes = VAL_NONE,
                          .axis = axis,
                          .batched = ARENA_ZNEW(&b.arena, bool, f->n_values) };
    copier_begin(&s.copy, &b, f);
    if (size == HOP_NONE) s.size = dim_symbol(m, builder_symbol(&b, module_string(m, "B", 1), 0, INT64_MAX));
    if (lanes) s.lanes = builder_param(&b, type_intern(m, DT_BOOL, 1, &s.size), module_string(m, "lanes", 5));
    for (uint32_t p = 0; p < f->n_params; p++) {
        type_id t = copier_type(&s.copy, value_type(f, p));
        if (axis) t = type_varying(m, t, (axis_set)(value_axes(m, t) & ~axis));
        s.batched[p] = batched[p];
        s.copy.values[p] = builder_param(&b, batched[p] ? type_prepend(m, t, s.size) : t, f->values[p].name);
    }
    for (uint32_t i = 0; i < f->n_required; i++)
        builder_require(&b, copier_dim(&s.copy, f->required[i].a), copier_dim(&s.copy, f->required[i].b),
                        "requirement");
    for (uint32_t i = 0; i < f->n_nodes; i++) batch_node(&s, fn_node(f, i));
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) {
        results[k] = s.copy.values[f->results[k]];
        result_batched[k] = s.batched[f->results[k]];
        bool object = type_is_object(m, value_type(f, f->results[k])); /* one for all lanes */
        if (result_batched[k] || object || !force || !force[k]) continue;
        results[k] = emit_broadcast_front(&b, results[k], s.size);
        result_batched[k] = true;
    }
    return prune_function(m, builder_finish(&b, results, f->n_results), NULL);
}

uint32_t batch_function(struct module *m, uint32_t fn, const bool *batched, dim size, const bool *force,
                        bool lanes, bool *result_batched)
{
    return batch_axis(m, fn, batched, size, force, lanes, 0, result_batched);
}

uint32_t batch_axis(struct module *m, uint32_t fn, const bool *batched, dim size, const bool *force,
                    bool lanes, axis_set axis, bool *result_batched)
{
    const struct fn *f = module_fn(m, fn);
    if (size != HOP_NONE && !dim_is_const(m, size))
        hop_throw(HOP_INTERNAL, "batching by a size that is neither constant nor a symbol of its own");
    uint32_t n_mask = f->n_params + f->n_results;
    bool *mask = ARENA_ZNEW(&m->arena, bool, n_mask); /* not in scratch: kept across building */
    if (f->n_params) memcpy(mask, batched, f->n_params);
    if (force && f->n_results) memcpy(mask + f->n_params, force, f->n_results);
    uint64_t word = (uint64_t)axis << 33 | (uint64_t)size << 1 | lanes;
    struct batch_record *known = transform_recall(m, MEMO_BATCH, fn, word, mask, n_mask);
    if (!known) {
        hop_check_stack();
        bool *out = ARENA_ZNEW(&m->arena, bool, f->n_results);
        struct batch_of of = {
            .batched = batched, .force = force, .size = size, .axis = axis, .lanes = lanes
        };
        uint32_t made = f->global ? global_batch(m, fn, &of, out)
                                  : build_batched(m, module_fn(m, count_loops(m, fn, false)), batched, size,
                                                  force, lanes, axis, out);
        known = ARENA_NEW(&m->arena, struct batch_record, 1);
        *known = (struct batch_record){ made, out };
        transform_remember(m, MEMO_BATCH, fn, word, mask, n_mask, known);
    }
    if (f->n_results) memcpy(result_batched, known->result_batched, f->n_results);
    return known->fn;
}

uint32_t vmap_function(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes)
{
    return vmap_axis(m, fn, in_axes, out_axes, 0);
}

/* A parameter that has lanes varies along their axis: what was transposed inside of the function relied on
 * it. */
static void check_axis(struct module *m, const struct fn *f, const int *in_axes, axis_set axis)
{
    for (uint32_t p = 0; p < f->n_params; p++) {
        type_id t = value_type(f, p);
        bool varies = value_axes(m, t) & axis;
        if (f->axes & axis && in_axes[p] >= 0 && !varies)
            hop_throw(
                HOP_INVALID,
                "vmap: parameter %u (%%%s) has lanes along the axis %s, and its type, %s, does not vary "
                "along it",
                p, module_text(m, f->values[p].name), axes_text(m, axis), type_text(m, f->symbols, t));
    }
}

uint32_t vmap_axis(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes, axis_set axis)
{
    const struct fn *f = module_fn(m, fn);
    if (f->global) return global_vmap(m, fn, in_axes, out_axes, axis);
    check_axis(m, f, in_axes, axis);
    struct builder b;
    builder_begin(&b, m, f);
    struct arena *arena = &b.arena;
    bool *batched = ARENA_ZNEW(arena, bool, f->n_params);
    bool *force = ARENA_ZNEW(arena, bool, f->n_results);
    bool *found = ARENA_ZNEW(arena, bool, f->n_results);
    bool any = false;
    for (uint32_t p = 0; p < f->n_params; p++) {
        int rank = type_get(m, value_type(f, p)).rank;
        batched[p] = in_axes[p] >= 0;
        if (batched[p] && type_is_object(m, value_type(f, p)))
            hop_throw(HOP_INVALID, "vmap: parameter %u (%%%s) is %s: an object is one for all lanes", p,
                      module_text(m, f->values[p].name), type_text(m, f->symbols, value_type(f, p)));
        any |= batched[p];
        if (in_axes[p] > rank)
            hop_throw(HOP_INVALID,
                      "vmap: parameter %u (%%%s) of type %s: its batch dim can stand at 0 to %d, found %d", p,
                      module_text(m, f->values[p].name), type_text(m, f->symbols, value_type(f, p)), rank,
                      in_axes[p]);
    }
    if (!any) hop_throw(HOP_INVALID, "vmap: at least one parameter must be batched");
    for (uint32_t k = 0; k < f->n_results; k++) {
        force[k] = out_axes[k] >= 0;
        if (type_is_object(m, value_type(f, f->results[k]))) continue;
        if (out_axes[k] > type_get(m, value_type(f, f->results[k])).rank)
            hop_throw(HOP_INVALID, "vmap: result %u of type %s: its batch dim cannot stand at %d", k,
                      type_text(m, f->symbols, value_type(f, f->results[k])), out_axes[k]);
    }
    uint32_t inner = batch_axis(m, fn, batched, HOP_NONE, force, false, axis, found);
    for (uint32_t k = 0; k < f->n_results; k++)
        if (found[k] && out_axes[k] < 0)
            hop_throw(HOP_INVALID, "vmap: result %u differs from lane to lane, so it needs a batch dim", k);
    const struct fn *g = module_fn(m, inner);
    /* `g` has one more symbol than f: begin again like it; arena-held masks are no longer needed. */
    builder_abandon(&b);
    builder_begin(&b, m, g);
    arena = &b.arena;
    val *args = ARENA_NEW(arena, val, f->n_params), *results = ARENA_NEW(arena, val, f->n_results);
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(m, value_type(g, p));
        dim dims[MAX_RANK];
        memcpy(dims, t.dims, t.rank * sizeof *dims);
        for (int i = 0; i < in_axes[p]; i++) dims[i] = t.dims[i + 1];
        if (in_axes[p] > 0) dims[in_axes[p]] = t.dims[0];
        args[p] = builder_param(&b, type_with_dims(m, t, dims), g->values[p].name);
    }
    for (uint32_t p = 0; p < f->n_params; p++)
        if (in_axes[p] > 0) args[p] = emit_move_dim(&b, args[p], (uint32_t)in_axes[p], 0);
    inline_function(&b, inner, NULL, args, results);
    for (uint32_t k = 0; k < f->n_results; k++)
        if (out_axes[k] > 0 && !type_is_object(m, value_type(g, g->results[k])))
            results[k] = emit_move_dim(&b, results[k], 0, (uint32_t)out_axes[k]);
    return builder_finish(&b, results, f->n_results);
}
