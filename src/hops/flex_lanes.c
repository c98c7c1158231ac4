/* Lanes of flex_attention as more batches: where the queries differ from lane to lane, and keys and values
 * either do as well or are shared by all, the node of all lanes is one over lanes · batches. Bodies that ask
 * for the batch are told the one within the lane; an array of the mask's that differs is read by the lane
 * first. What cannot be told so stays a map (flex_attention.c). */
#include "hops/flex.h"

struct lanes {
    const struct batch *v;
    struct node_in in; /* the node, its operands those of one lane */
    dim batches, all;  /* of a lane, of all lanes */
};

/* An operand's type in one lane. */
static struct type of_operand(const struct lanes *w, uint32_t k)
{
    struct module *m = w->v->b->m;
    type_id t = builder_type(w->v->b, w->v->operands[k]);
    return type_get(m, w->v->batched[k] ? type_drop_leading(m, t) : t);
}

static bool any_batched(const struct lanes *w, uint32_t first, uint32_t n)
{
    for (uint32_t k = first; k < first + n; k++)
        if (w->v->batched[k]) return true;
    return false;
}

static uint32_t first_own(const struct lanes *w, enum flex_body_number number)
{
    return w->in.n_operands + (number == FLEX_MASK ? w->in.regions[FLEX_SCORE].n_operands : 0);
}

/* Arrays of the score function that differ would get cotangents as large as all lanes for each head. */
static bool can_fold(const struct lanes *w)
{
    const struct batch *v = w->v;
    const bool *batched = v->batched;
    uint32_t n_blocks = w->in.groups[FLEX_BLOCKS];
    bool shared = of_operand(w, FLEX_KEY).dims[0] == 1, own = !shared || w->batches == 1;
    if (v->axis || !batched[FLEX_QUERY] || batched[FLEX_KEY] != batched[FLEX_VALUE]) return false;
    if (batched[FLEX_KEY] ? !own : !shared) return false;
    if (any_batched(w, FLEX_SCALE, FLEX_N_FROM)) return false;
    if (any_batched(w, first_own(w, FLEX_SCORE), w->in.regions[FLEX_SCORE].n_operands)) return false;
    for (uint32_t k = FLEX_FIRST_BLOCK; k < FLEX_FIRST_BLOCK + n_blocks; k++)
        if (of_operand(w, k).rank != (k - FLEX_FIRST_BLOCK) % FLEX_LIST + 3u) return false; /* compact */
    return true;
}

/* An operand with batches in front, of all lanes; it may have one for all batches. apart: of lists, all of
 * which have as many, some differ. */
static val with_lanes(const struct lanes *w, uint32_t k, bool apart)
{
    struct builder *b = w->v->b;
    val x = w->v->operands[k];
    struct type t = of_operand(w, k);
    bool batched = w->v->batched[k], for_all = t.dims[0] == 1;
    if (!batched && for_all && !apart) return x;
    dim lanes[5] = { w->v->size, w->batches }, found[5], merged[4] = { w->all };
    uint32_t at[5], n = 0;
    for (uint32_t i = 1; i < t.rank; i++) lanes[i + 1] = merged[i] = t.dims[i];
    for (uint32_t i = 0; i < t.rank + 1u; i++) { /* what is missing is the same for all lanes, or batches */
        if (i == 0 ? !batched : i == 1 && for_all) continue;
        found[n] = lanes[i];
        at[n++] = i;
    }
    x = emit_reshape(b, x, n, found);
    bool whole = n == t.rank + 1u || (batched && w->batches == 1);
    if (!whole) x = emit_broadcast(b, x, t.rank + 1u, lanes, at);
    return emit_reshape(b, x, t.rank, merged);
}

/* (score, batch of all lanes, head, query, key, first batch, batches of a lane, own…). */
static struct region_in body_of_lanes(const struct lanes *w, enum flex_body_number number)
{
    enum { BATCH = FLEX_BATCH - FLEX_SCALE };
    struct module *m = w->v->b->m;
    const struct region_in *given = &w->in.regions[number];
    const struct fn *f = module_fn(m, given->fn);
    uint32_t n = given->n_operands, at = first_own(w, number), first_dim = 0;
    const bool *batched = w->v->batched + at;
    if (!flex_reads(m, given->fn, BATCH) && !any_batched(w, at, n)) return *given;
    struct arena *arena = &w->v->b->arena;
    struct builder b;
    builder_begin(&b, m, f);
    uint32_t n_dims = f->n_outer_symbols;
    dim *dims = ARENA_NEW(arena, dim, n_dims + 1), size = w->v->size;
    if (n_dims) memcpy(dims, given->dims, n_dims * sizeof *dims);
    if (!dim_is_const(m, size) && any_batched(w, at, n)) {
        dims[n_dims] = size;
        size = dim_symbol(m, builder_symbol(&b, module_string(m, "B", 1), 0, INT64_MAX));
    }
    val *args = ARENA_NEW(&b.arena, val, FLEX_N_FROM + n), *with = ARENA_NEW(arena, val, 2 + n), out;
    for (uint32_t k = 0; k < FLEX_N_FROM; k++) args[k] = builder_param(&b, value_type(f, k), 0);
    val first = builder_param(&b, type_scalar(m, DT_I64), 0);
    val count = builder_param(&b, type_scalar(m, DT_I64), 0);
    for (uint32_t k = 0; k < n; k++) {
        type_id t = value_type(f, FLEX_N_FROM + k);
        args[FLEX_N_FROM + k] = builder_param(&b, batched[k] ? type_prepend(m, t, size) : t, 0);
    }
    struct attr a = A_INTS(&first_dim, 1);
    val lane = emit2(&b, OP_div, args[BATCH], count);
    args[BATCH] = emit2(&b, OP_add, first, emit2(&b, OP_rem, args[BATCH], count));
    for (uint32_t k = FLEX_N_FROM; k < FLEX_N_FROM + n; k++)
        if (batched[k - FLEX_N_FROM]) args[k] = emit(&b, OP_gather, (val[]){ args[k], lane }, 2, &a);
    inline_function(&b, given->fn, NULL, args, &out);
    uint32_t fn = prune_function(m, builder_finish(&b, &out, 1), NULL);
    with[0] = w->v->operands[FLEX_BATCH];
    with[1] = emit_dim_value(w->v->b, w->batches);
    memcpy(with + 2, w->v->operands + at, n * sizeof *with);
    return (struct region_in){ fn, with, 2 + n, dims };
}

bool flex_fold_lanes(const struct batch *v)
{
    struct builder *b = v->b;
    struct lanes w = { .v = v, .in = copier_node_in(v->copy, v->n) };
    w.batches = of_operand(&w, FLEX_QUERY).dims[0];
    if (!can_fold(&w)) return false;
    w.all = dim_mul(b->m, v->size, w.batches);
    uint32_t n = w.in.n_operands;
    val *operands = ARENA_NEW(&b->arena, val, n);
    bool apart = any_batched(&w, FLEX_FIRST_BLOCK, n - FLEX_FIRST_BLOCK);
    for (uint32_t k = 0; k < n; k++) {
        bool counts = k >= FLEX_SCALE && k < FLEX_FIRST_BLOCK, list = k >= FLEX_FIRST_BLOCK;
        operands[k] = counts ? v->operands[k] : with_lanes(&w, k, list && apart);
    }
    operands[FLEX_BATCH] = flex_i64(b, 0);
    struct region_in regions[2];
    for (uint32_t r = 0; r < 2; r++) regions[r] = body_of_lanes(&w, r);
    struct node_in in = w.in;
    in.operands = operands;
    in.regions = regions;
    val first = builder_node(b, &in);
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) {
        struct type t = emit_type(b, first + k);
        dim dims[5] = { v->size, w.batches };
        for (uint32_t i = 1; i < t.rank; i++) dims[i + 1] = t.dims[i];
        v->results[k] = emit_reshape(b, first + k, t.rank + 1u, dims);
    }
    return true;
}
