/* Few queries over many keys, as when one token after the other is decoded. Heads of queries that share a
 * head of keys become rows of one tile, so that keys and values are read once for all of them; and where
 * tiles are few the keys are cut into parts, which depends on sizes alone: each part has sums of its own,
 * joined behind the map. */
#include "hops/flex.h"

/* Rows of a tile up to which heads are packed into one. */
enum { MOST_PACKED = 64 };
/* Tiles of queries below which keys are cut, and how many keys a part has at least. */
enum { ENOUGH_TILES = 16, KEYS_OF_A_PART = 1024 };

bool flex_packs(const struct flex *x)
{
    struct module *m = x->m;
    if (!dim_is_const(m, x->heads) || !dim_is_const(m, x->kv_heads) || !dim_is_const(m, x->queries))
        return false;
    int64_t group = dim_const_value(m, x->heads) / dim_const_value(m, x->kv_heads);
    bool one_list = !x->n_lists || x->list_heads == 1;
    return group > 1 && x->rows == 1 && one_list && group * dim_const_value(m, x->queries) <= MOST_PACKED;
}

/* A body whose rows are pairs of a head and a query: (score, batch, head of keys, row, key, first head, first
 * query, own…). */
static struct region_in packed_body(const struct flex *x, enum flex_body_number number,
                                    struct builder *around, const val *operands, const val *own)
{
    const struct region_in *given = &x->bodies[number];
    const struct fn *f = module_fn(x->m, given->fn);
    uint32_t n_own = given->n_operands;
    struct builder b;
    builder_begin(&b, x->m, f);
    val *args = ARENA_NEW(&b.arena, val, FLEX_N_FROM + n_own), out, first[2];
    for (uint32_t k = 0; k < FLEX_N_FROM; k++) args[k] = builder_param(&b, value_type(f, k), 0);
    for (uint32_t k = 0; k < 2; k++) first[k] = builder_param(&b, flex_index(x), 0);
    for (uint32_t k = 0; k < n_own; k++)
        args[FLEX_N_FROM + k] = builder_param(&b, value_type(f, FLEX_N_FROM + k), 0);
    enum { HEAD = FLEX_HEAD - FLEX_SCALE, ROW = FLEX_ROW - FLEX_SCALE };
    val row = args[ROW], queries = emit_dim_value(&b, x->queries);
    if (flex_reads(x->m, given->fn, HEAD)) {
        val group = emit_dim_value(&b, dim_floordiv(x->m, x->heads, x->kv_heads));
        val head = emit2(&b, OP_add, emit2(&b, OP_mul, args[HEAD], group), emit2(&b, OP_div, row, queries));
        args[HEAD] = emit2(&b, OP_add, first[0], head);
    }
    if (flex_reads(x->m, given->fn, ROW))
        args[ROW] = emit2(&b, OP_add, first[1], emit2(&b, OP_rem, row, queries));
    inline_function(&b, given->fn, NULL, args, &out);
    uint32_t fn = builder_finish(&b, &out, 1);
    val *with = ARENA_NEW(&around->arena, val, 2 + n_own);
    with[0] = operands[FLEX_HEAD];
    with[1] = operands[FLEX_ROW];
    if (n_own) memcpy(with + 2, own, n_own * sizeof *with);
    return (struct region_in){ fn, with, 2 + n_own, given->dims };
}

/* Ranges of the queries, once for each head. */
static val packed_ranges(const struct flex *x, struct builder *b, val ranges, dim rows)
{
    struct type t = emit_type(b, ranges);
    dim zero[3] = { 0 }, there[3] = { t.dims[0], x->queries, t.dims[2] };
    dim group = dim_floordiv(x->m, x->heads, x->kv_heads);
    dim repeated[4] = { t.dims[0], group, x->queries, t.dims[2] };
    dim merged[3] = { t.dims[0], rows, t.dims[2] };
    uint32_t at[3] = { 0, 2, 3 };
    return emit_reshape(b, emit_broadcast(b, emit_slice(b, ranges, zero, there), 4, repeated, at), 3, merged);
}

void flex_packed(struct flex *out, const struct flex *x, struct builder *b, const val *operands,
                 const val **with)
{
    struct module *m = x->m;
    dim rows = dim_mul(m, dim_floordiv(m, x->heads, x->kv_heads), x->queries);
    dim dims[4] = { x->batches, x->kv_heads, rows, x->width };
    uint32_t at = FLEX_FIRST_BLOCK + x->n_blocks, n = at;
    const val *own = operands + x->n - x->n_mask - x->n_score;
    struct region_in bodies[2] = { packed_body(x, FLEX_SCORE, b, operands, own),
                                   packed_body(x, FLEX_MASK, b, operands, own + x->n_score) };
    val *given = ARENA_NEW(&b->arena, val, x->n + 4);
    memcpy(given, operands, at * sizeof *given);
    given[FLEX_QUERY] = emit_reshape(b, operands[FLEX_QUERY], 4, dims);
    given[FLEX_HEAD] = given[FLEX_ROW] = flex_i64(b, 0);
    if (x->ranges) given[x->ranges] = packed_ranges(x, b, operands[x->ranges], rows);
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t k = 0; k < bodies[r].n_operands; k++) given[n++] = bodies[r].operands[k];
    uint32_t *block = ARENA_NEW(&b->arena, uint32_t, 2);
    int64_t keys = dim_const_value(m, x->block[1]);
    block[0] = (uint32_t)dim_const_value(m, rows);
    block[1] = (uint32_t)keys;
    struct attr *attrs = ARENA_NEW(&b->arena, struct attr, FLEX_ATTRS);
    attrs[FLEX_BLOCK] = A_INTS(block, 2);
    *with = given;
    flex_again(out, x, b, &(struct flex_changed){ given, n, x->n_blocks, attrs, bodies });
}

dim flex_parts(const struct flex *x)
{
    struct module *m = x->m;
    int64_t tiles = 1;
    const dim sizes[3] = { x->heads, x->rows, x->batches };
    for (uint32_t k = 0; k < 3; k++) {
        bool known = dim_is_const(m, sizes[k]);
        if (!known && k < 2) return 1;
        if (known) tiles *= HOP_MAX(dim_const_value(m, sizes[k]), 1);
        if (tiles >= ENOUGH_TILES) return 1;
    }
    dim most = dim_const(m, (ENOUGH_TILES + tiles - 1) / tiles);
    dim wanted = dim_floordiv(m, x->keys, dim_const(m, KEYS_OF_A_PART));
    return dim_min(m, most, dim_max(m, wanted, 1));
}
