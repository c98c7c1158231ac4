/* A node of flex_attention as loops: a map over tiles of queries, in it a loop over the tiles of keys that
 * take part, which carries the largest score so far, the sum of the exponentials below it and the sum of the
 * values that they weigh. The score functions come in as scalar bodies and are put over tiles here. */
#include "hops/flex.h"
#include "transform/pass.h"

/* ---- sizes ---- */

dim flex_blocks(struct module *m, dim length, dim block)
{
    return dim_floordiv(m, dim_add(m, length, dim_sub(m, block, 1)), block);
}

dim flex_block(struct module *m, const struct attr *attrs, dim queries, uint32_t axis)
{
    if (attrs[FLEX_BLOCK].kind != ATTR_ABSENT) return dim_const(m, attrs[FLEX_BLOCK].list[axis]);
    bool few = dim_is_const(m, queries) && dim_const_value(m, queries) <= FLEX_FEW;
    return dim_const(m, axis && few ? FLEX_LONG_TILE : FLEX_TILE);
}

/* Symbols that the node mentions, in the order in which they appear. */
struct symbols_seen {
    struct arena *arena;
    vec(uint32_t) list;
};
static void see(void *ctx, uint32_t symbol)
{
    struct symbols_seen *s = ctx;
    for (uint32_t i = 0; i < s->list.len; i++)
        if (s->list.data[i] == symbol) return;
    vec_push(s->arena, &s->list, symbol);
}

/* The function whose parameters are the operands, and whose symbols all others have. */
static void make_shape(struct flex *x, struct arena *arena, const struct flex_in *in)
{
    struct module *m = x->m;
    struct symbols_seen seen = { .arena = arena };
    struct symbol_walk walk = { see, &seen };
    for (uint32_t k = 0; k < in->n_operands; k++) type_symbols(m, in->operands[k], &walk);
    for (uint32_t r = 0; r <= FLEX_MASK; r++)
        for (uint32_t k = 0; k < in->n_dims[r]; k++) dim_symbols(m, in->regions[r].dims[k], &walk);
    uint32_t n = seen.list.len, most = 0;
    for (uint32_t i = 0; i < n; i++) most = HOP_MAX(most, seen.list.data[i] + 1);
    dim *outer = ARENA_NEW(arena, dim, n), *same = ARENA_NEW(arena, dim, n);
    dim *to = ARENA_ZNEW(arena, dim, most);
    struct builder b;
    builder_begin(&b, m, NULL);
    for (uint32_t i = 0; i < n; i++) {
        const struct symbol *s = &in->symbols[seen.list.data[i]];
        builder_symbol(&b, s->name, s->lo, s->hi);
        outer[i] = dim_symbol(m, seen.list.data[i]);
        same[i] = dim_symbol(m, i);
        to[seen.list.data[i]] = same[i];
    }
    for (uint32_t k = 0; k < in->n_operands; k++)
        builder_param(&b, type_substitute(m, in->operands[k], to), 0);
    x->shape = module_fn(m, builder_finish(&b, NULL, 0));
    x->symbols = outer;
    x->same = same;
    dim *dims[2];
    for (uint32_t r = 0; r <= FLEX_MASK; r++) {
        dims[r] = ARENA_NEW(arena, dim, in->n_dims[r]);
        for (uint32_t k = 0; k < in->n_dims[r]; k++)
            dims[r][k] = dim_substitute(m, in->regions[r].dims[k], to);
    }
    x->score_dims = dims[FLEX_SCORE];
    x->mask_dims = dims[FLEX_MASK];
}

static uint32_t over_tile(const struct flex *x, enum flex_body_number body, const dim **dims,
                          struct arena *arena)
{
    struct flex_dims given = { .arena = arena };
    for (uint32_t k = 0; k < x->n_dims[body]; k++) vec_push(arena, &given.list, x->bodies[body].dims[k]);
    uint32_t fn = flex_over_tile(x, x->bodies[body].fn, false, &given);
    *dims = given.list.data;
    return fn;
}

/* Does a body give `true` whatever it is given? */
static bool always_true(const struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t made = f->values[f->results[0]].node;
    if (made == NODE_NONE) return false;
    const struct node *n = fn_node(f, made);
    return n->op == OP_full && node_attr(f, n, FULL_VALUE)->i != 0;
}

bool flex_reads(const struct module *m, uint32_t fn, uint32_t p)
{
    const struct fn *f = module_fn(m, fn);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        for (uint32_t k = 0; k < fn_node(f, i)->n_operands; k++)
            if (node_operands(f, fn_node(f, i))[k] == p) return true;
    return f->results[0] == p;
}

void flex_begin(struct flex *x, struct arena *arena, const struct flex_in *in)
{
    struct module *m = in->m;
    *x = (struct flex){ .m = m, .place = in->place, .n = in->n_operands };
    make_shape(x, arena, in);
    struct type q = type_get(m, value_type(x->shape, FLEX_QUERY));
    struct type k = type_get(m, value_type(x->shape, FLEX_KEY));
    struct type v = type_get(m, value_type(x->shape, FLEX_VALUE));
    x->given = (enum dtype)q.dtype;
    x->computed = (enum dtype)type_get(m, value_type(x->shape, FLEX_SCALE)).dtype;
    x->batches = q.dims[0];
    x->kv_batches = k.dims[0];
    x->heads = q.dims[1];
    x->kv_heads = k.dims[1];
    x->queries = q.dims[2];
    x->keys = k.dims[2];
    x->width = q.dims[3];
    x->value_width = v.dims[3];
    x->n_blocks = in->groups[FLEX_BLOCKS];
    x->n_lists = x->n_blocks / FLEX_LIST;
    x->ranges = x->n_blocks % FLEX_LIST ? FLEX_FIRST_BLOCK + x->n_blocks - 1 : 0;
    for (uint32_t i = 0; i < x->n_lists; i++) {
        uint32_t first = FLEX_FIRST_BLOCK + i * FLEX_LIST;
        struct type list = type_get(m, value_type(x->shape, first));
        x->list_batches = list.dims[0];
        x->list_heads = list.dims[1];
        x->compact[i] = type_get(m, value_type(x->shape, first + FLEX_COLUMNS)).rank == 1;
    }
    for (uint32_t axis = 0; axis < 2; axis++) {
        x->block[axis] = flex_block(m, in->attrs, x->queries, axis);
        x->tile[axis] = dim_min(m, x->block[axis], axis ? x->keys : x->queries);
    }
    x->rows = flex_blocks(m, x->queries, x->block[0]);
    x->columns = flex_blocks(m, x->keys, x->block[1]);
    x->attrs = in->attrs;
    for (uint32_t r = 0; r <= FLEX_MASK; r++) {
        x->bodies[r] = in->regions[r];
        x->n_dims[r] = in->n_dims[r];
    }
    x->bodies[FLEX_SCORE].dims = x->score_dims;
    x->bodies[FLEX_MASK].dims = x->mask_dims;
    x->n_score = in->regions[FLEX_SCORE].n_operands;
    x->n_mask = in->regions[FLEX_MASK].n_operands;
    x->masked = !always_true(m, in->regions[FLEX_MASK].fn);
    x->score = over_tile(x, FLEX_SCORE, &x->score_dims, arena);
    x->mask = over_tile(x, FLEX_MASK, &x->mask_dims, arena);
}

void flex_again(struct flex *out, const struct flex *x, struct builder *b, const struct flex_changed *to)
{
    type_id *types = ARENA_NEW(&b->arena, type_id, to->n_operands);
    for (uint32_t k = 0; k < to->n_operands; k++) types[k] = builder_type(b, to->operands[k]);
    uint32_t groups[3] = { FLEX_N_ARRAYS, FLEX_N_FROM, to->n_blocks };
    flex_begin(out, &b->arena,
               &(struct flex_in){ .m = x->m,
                                  .place = x->place,
                                  .symbols = b->symbols.data,
                                  .operands = types,
                                  .n_operands = to->n_operands,
                                  .groups = groups,
                                  .attrs = to->attrs,
                                  .regions = to->bodies,
                                  .n_dims = x->n_dims });
}

/* ---- bodies ---- */

void flex_body_begin(struct flex_body *body, const struct flex *x, const type_id *first, uint32_t n_first,
                     const type_id *last, uint32_t n_last, val *params)
{
    builder_begin(&body->b, x->m, x->shape);
    body->b.place = x->place;
    body->x = x;
    for (uint32_t k = 0; k < n_first; k++) params[k] = builder_param(&body->b, first[k], 0);
    val *operands = ARENA_NEW(&body->b.arena, val, x->n);
    for (uint32_t k = 0; k < x->n; k++) operands[k] = builder_param(&body->b, value_type(x->shape, k), 0);
    body->operands = operands;
    for (uint32_t k = 0; k < n_last; k++) params[n_first + k] = builder_param(&body->b, last[k], 0);
}

struct region_in flex_body_finish(struct flex_body *body, const val *results, uint32_t n, const val *with,
                                  uint32_t n_with)
{
    const struct flex *x = body->x;
    uint32_t fn = builder_finish(&body->b, results, n);
    return (struct region_in){ fn, with, n_with, x->same };
}

const val *flex_with(struct builder *b, const struct flex *x, const val *operands, const val *last,
                     uint32_t n_last)
{
    val *all = ARENA_NEW(&b->arena, val, x->n + n_last);
    memcpy(all, operands, x->n * sizeof *all);
    if (n_last) memcpy(all + x->n, last, n_last * sizeof *all);
    return all;
}

/* ---- places ---- */

/* As many as there are, one at most. */
static dim one_of(struct builder *b, dim n)
{
    return dim_provably_le(b->m, b->symbols.data, 1, n) ? 1 : dim_min(b->m, n, 1);
}

/* An array that may have no batch or no head has slices that have none either; then no tile asks for one. It
 * is sliced first and read at the head then: the other way round all rows of the head would leave the loop
 * and be kept. */
val flex_window(struct builder *b, val x, val batch, val head, val from, dim rows, dim columns)
{
    struct type t = emit_type(b, x);
    dim sizes[4] = { one_of(b, t.dims[0]), one_of(b, t.dims[1]), rows, columns };
    val zero = flex_i64(b, 0);
    struct attr a = A_DIMS(sizes, t.rank);
    val window = emit(b, OP_dynamic_slice, (val[]){ x, batch, head, from, zero }, t.rank + 1u, &a);
    if (sizes[0] == 1 && sizes[1] == 1) return emit_reshape(b, window, t.rank - 2u, sizes + 2);
    uint32_t leading[2] = { 0, 1 };
    struct attr first = A_INTS(leading, 2);
    return emit(b, OP_gather, (val[]){ window, zero, zero }, 3, &first);
}

val flex_start(const struct flex *x, struct builder *b, val number, uint32_t axis)
{
    val start = emit2(b, OP_mul, number, emit_dim_value(b, x->block[axis]));
    if (!flex_ragged(x, axis)) return start;
    dim last = dim_sub(x->m, axis ? x->keys : x->queries, x->tile[axis]);
    return emit2(b, OP_min, start, emit_dim_value(b, last));
}

val flex_kv_batch(const struct flex *x, struct builder *b, val batch)
{
    return x->kv_batches == x->batches ? batch : flex_i64(b, 0);
}

val flex_kv_head(const struct flex *x, struct builder *b, val head)
{
    if (x->kv_heads == x->heads) return head;
    dim group = dim_floordiv(x->m, x->heads, x->kv_heads);
    return emit2(b, OP_div, head, emit_dim_value(b, group));
}

static uint32_t list_operand(enum flex_list list)
{
    return FLEX_FIRST_BLOCK + (list == FLEX_WHOLE ? FLEX_LIST : 0);
}

static val list_element(const struct flex *x, struct builder *b, val list, struct flex_row at, val i)
{
    val zero = flex_i64(b, 0);
    val operands[5] = { list, x->list_batches == x->batches ? at.batch : zero,
                        x->list_heads == x->heads ? at.head : zero, at.row, i };
    uint32_t dims[4] = { 0, 1, 2, 3 }, n = i == VAL_NONE ? 3 : 4;
    struct attr a = A_INTS(dims, n);
    return emit_cast(b, emit(b, OP_gather, operands, n + 1, &a), DT_I64);
}

/* Of a compact list, where a row begins, or where the next one does. */
static val list_offset(const struct flex *x, struct builder *b, const val *operands, struct flex_row at,
                       enum flex_list list, bool end)
{
    if (end) at.row = emit2(b, OP_add, at.row, flex_i64(b, 1));
    return list_element(x, b, operands[list_operand(list) + FLEX_COUNTS], at, VAL_NONE);
}

static bool is_compact(const struct flex *x, enum flex_list list)
{
    return list != FLEX_EVERY && x->compact[list == FLEX_WHOLE];
}

val flex_list_length(const struct flex *x, struct builder *b, const val *operands, struct flex_row at,
                     enum flex_list list)
{
    val all = emit_dim_value(b, x->columns);
    if (list == FLEX_EVERY) return all;
    val count = list_offset(x, b, operands, at, list, is_compact(x, list));
    if (!is_compact(x, list)) return emit2(b, OP_min, count, all);
    count = emit2(b, OP_sub, count, list_offset(x, b, operands, at, list, false));
    dim room = emit_type(b, operands[list_operand(list) + FLEX_COLUMNS]).dims[0];
    return emit2(b, OP_min, count, emit2(b, OP_min, all, emit_dim_value(b, room)));
}

struct flex_entry flex_list_entry(const struct flex *x, struct builder *b, const val *operands,
                                  struct flex_row at, enum flex_list list, val i)
{
    if (list == FLEX_EVERY) return (struct flex_entry){ i, i };
    val columns = operands[list_operand(list) + FLEX_COLUMNS], column;
    if (is_compact(x, list)) {
        uint32_t along = 0;
        struct attr a = A_INTS(&along, 1);
        i = emit2(b, OP_add, i, list_offset(x, b, operands, at, list, false));
        column = emit_cast(b, emit(b, OP_gather, (val[]){ columns, i }, 2, &a), DT_I64);
    } else {
        column = list_element(x, b, columns, at, i);
    }
    val last = emit_dim_value(b, dim_sub(x->m, x->columns, 1));
    return (struct flex_entry){ emit2(b, OP_max, emit2(b, OP_min, column, last), flex_i64(b, 0)), i };
}

val flex_counted(struct builder *b, dim n)
{
    struct attr a[3] = { A_DIMS(&n, 1), A_NONE, A_NONE };
    return emit(b, OP_iota, NULL, 0, a);
}

struct flex_tile flex_tile_at(const struct flex *x, struct builder *b, const val *operands,
                              struct flex_row at, struct flex_entry entry)
{
    struct flex_tile t = { .row = at.row, .column = entry.column, .place = entry.place };
    const val numbers[2] = { at.row, entry.column };
    for (uint32_t axis = 0; axis < 2; axis++) {
        t.start[axis] = flex_start(x, b, numbers[axis], axis);
        val first = emit2(b, OP_add, t.start[axis], operands[FLEX_ROW + axis]);
        val spread = emit_broadcast(b, first, 1, &x->tile[axis], NULL);
        t.indices[axis] = emit2(b, OP_add, flex_counted(b, x->tile[axis]), spread);
    }
    t.batch = emit2(b, OP_add, at.batch, operands[FLEX_BATCH]);
    t.head = emit2(b, OP_add, at.head, operands[FLEX_HEAD]);
    return t;
}

/* ---- scores ---- */

val flex_spread(struct builder *b, val v, dim first, dim second, uint32_t at)
{
    return emit_broadcast(b, v, 2, (dim[]){ first, second }, &at);
}

val flex_dot_keys(const struct flex *x, struct builder *b, val queries, val keys)
{
    uint32_t along = 1;
    return emit_dot(b, emit_cast(b, queries, x->computed), emit_cast(b, keys, x->computed), NULL, NULL, 0,
                    &along, &along, 1);
}

val flex_scaled(const struct flex *x, struct builder *b, const val *operands, val raw)
{
    return emit2(b, OP_mul, raw, emit_broadcast(b, operands[FLEX_SCALE], 2, x->tile, NULL));
}

val flex_call_on_tile(struct builder *b, uint32_t fn, const dim *dims, const struct flex_tile *t, val scaled,
                      const val *own, uint32_t n_own)
{
    val *args = ARENA_NEW(&b->arena, val, FLEX_N_FROM + n_own), out;
    args[0] = scaled;
    args[1] = t->batch;
    args[2] = t->head;
    args[3] = t->indices[0];
    args[4] = t->indices[1];
    if (n_own) memcpy(args + FLEX_N_FROM, own, n_own * sizeof *own);
    inline_function(b, fn, dims, args, &out);
    return out;
}

static const val *score_own(const struct flex *x, const val *operands)
{
    return operands + x->n - x->n_mask - x->n_score;
}

val flex_scores(const struct flex *x, struct builder *b, const val *operands, const struct flex_tile *t,
                val scaled)
{
    return flex_call_on_tile(b, x->score, x->score_dims, t, scaled, score_own(x, operands), x->n_score);
}

static val also(struct builder *b, val x, val y) { return x == VAL_NONE ? y : emit2(b, OP_and, x, y); }

val flex_in_block(const struct flex *x, struct builder *b, const struct flex_tile *t, uint32_t axis)
{
    val first = emit2(b, OP_mul, axis ? t->column : t->row, emit_dim_value(b, x->block[axis]));
    val skipped = emit2(b, OP_sub, first, t->start[axis]);
    return emit2(b, OP_sub, flex_counted(b, x->tile[axis]),
                 emit_broadcast(b, skipped, 1, &x->tile[axis], NULL));
}

/* Whose keys the ranges of the block let take part. */
static val in_ranges(const struct flex *x, struct builder *b, val ranges, const struct flex_tile *t)
{
    dim rows = x->tile[0];
    uint32_t dims[3] = { 0, 1, 2 };
    struct attr a = A_INTS(dims, 3);
    val place = emit_broadcast(b, t->place, 1, &rows, NULL), row = flex_in_block(x, b, t, 0);
    val key = flex_spread(b, flex_in_block(x, b, t, 1), rows, x->tile[1], 1), ends[2];
    for (int64_t k = 0; k < 2; k++) {
        val which = emit_full(b, DT_I64, (double)k, 1, &rows);
        val found = emit_cast(b, emit(b, OP_gather, (val[]){ ranges, place, row, which }, 4, &a), DT_I64);
        ends[k] = flex_spread(b, found, rows, x->tile[1], 0);
    }
    return emit2(b, OP_and, emit2(b, OP_ge, key, ends[0]), emit2(b, OP_lt, key, ends[1]));
}

val flex_allowed(const struct flex *x, struct builder *b, const val *operands, const struct flex_tile *t,
                 val scaled, enum flex_list list, bool rows)
{
    val out = VAL_NONE;
    const val *own = operands + x->n - x->n_mask;
    if (x->ranges && list != FLEX_WHOLE) out = in_ranges(x, b, operands[x->ranges], t);
    else if (x->masked && list != FLEX_WHOLE)
        out = flex_call_on_tile(b, x->mask, x->mask_dims, t, scaled, own, x->n_mask);
    for (uint32_t axis = rows ? 0 : 1; axis < 2; axis++) {
        if (!flex_ragged(x, axis)) continue;
        /* the last tile begins in the block before */
        val fresh = emit2(b, OP_ge, flex_in_block(x, b, t, axis), emit_full(b, DT_I64, 0, 1, &x->tile[axis]));
        out = also(b, out, flex_spread(b, fresh, x->tile[0], x->tile[1], axis));
    }
    return out;
}

/* ---- loops over tiles of keys ---- */

/* From 0 or the part's first one to `to`, or the part's last one. */
static void build_counted(const struct flex_step *s, struct builder *b, val *carry, const val *extra, val to,
                          struct region_in body)
{
    val from = flex_i64(b, 0);
    if (s->there != HOP_NONE) to = emit2(b, OP_mul, to, extra[s->there]);
    if (s->parts != 1) {
        val parts = emit_dim_value(b, s->parts), part = extra[s->part], length = to;
        val next = emit2(b, OP_add, part, flex_i64(b, 1));
        from = emit2(b, OP_div, emit2(b, OP_mul, length, part), parts);
        to = emit2(b, OP_div, emit2(b, OP_mul, length, next), parts);
    }
    struct loop l = loop_new(LOOP_COUNTED);
    l.carry = arena_copy(&b->arena, carry, s->n_carry * sizeof *carry);
    l.n_carry = s->n_carry;
    l.from = from;
    l.to = to;
    loop_set_body(&l, s->x->m, body);
    val first = loop_build(b, &l).last;
    for (uint32_t k = 0; k < s->n_carry; k++) carry[k] = first + k;
}

/* The body of a loop: (carries…, index in the list, operands…, extra…) -> (carries…). */
struct step_body {
    struct flex_body body;
    val *carry, *extra, index;
};
static void step_begin(struct step_body *w, const struct flex_step *s, struct arena *arena)
{
    uint32_t n = s->n_carry;
    type_id *first = ARENA_NEW(arena, type_id, n + 1);
    memcpy(first, s->carry, n * sizeof *first);
    first[n] = flex_index(s->x);
    w->carry = ARENA_NEW(arena, val, n + 1 + s->n_extra);
    w->extra = w->carry + n + 1;
    flex_body_begin(&w->body, s->x, first, n + 1, s->extra, s->n_extra, w->carry);
    w->index = w->carry[n];
}

void flex_loop(const struct flex_step *s, struct builder *b, val *carry, const val *operands,
               const val *extra, enum flex_list list)
{
    const struct flex *x = s->x;
    struct step_body w;
    val *next = ARENA_NEW(&b->arena, val, s->n_carry);
    step_begin(&w, s, &b->arena);
    struct flex_entry entry = flex_list_entry(x, &w.body.b, w.body.operands, flex_row_of(w.extra), list,
                                              w.index);
    s->emit(s, &w.body.b, w.carry, w.body.operands, w.extra, entry, list, next);
    const val *with = flex_with(b, x, operands, extra, s->n_extra);
    struct region_in body = flex_body_finish(&w.body, next, s->n_carry, with, x->n + s->n_extra);
    build_counted(s, b, carry, extra, flex_list_length(x, b, operands, flex_row_of(extra), list), body);
}

void flex_loops(const struct flex_step *s, struct builder *b, val *carry, const val *operands,
                const val *extra)
{
    if (!s->x->n_lists) flex_loop(s, b, carry, operands, extra, FLEX_EVERY);
    if (s->x->n_lists > 1) flex_loop(s, b, carry, operands, extra, FLEX_WHOLE);
    if (s->x->n_lists) flex_loop(s, b, carry, operands, extra, FLEX_PARTIAL);
}

val flex_map(const struct flex *x, struct builder *b, dim length, bool apart, struct region_in body)
{
    val numbers = flex_counted(b, length);
    struct loop l = loop_new(LOOP_MAP);
    l.over = &numbers;
    l.n_over = 1;
    l.length = length;
    l.apart = apart;
    l.sequential = !apart;
    loop_set_body(&l, x->m, body);
    return loop_build(b, &l).stacks;
}

/* ---- tiles together ---- */

/* Rows of an array [batches, heads, rows · q, …] of tiles as they are queries: all of them but the first ones
 * of the last tile. */
static val without_repeated(const struct flex *x, struct builder *b, val v)
{
    struct module *m = x->m;
    struct type t = emit_type(b, v);
    dim zero[4] = { 0 }, start[4] = { 0 }, most[4], limit[4];
    dim whole = dim_mul(m, dim_sub(m, x->rows, 1), x->tile[0]), all = t.dims[2];
    for (uint32_t i = 0; i < t.rank; i++) most[i] = limit[i] = t.dims[i];
    if (dim_is_const(m, x->queries)) {
        most[2] = whole;
        start[2] = dim_sub(m, all, dim_sub(m, x->queries, whole));
        struct attr along = A_INT(2);
        val parts[2] = { emit_slice(b, v, zero, most), emit_slice(b, v, start, limit) };
        return emit(b, OP_concat, parts, 2, &along);
    }
    val index = flex_counted(b, x->queries);
    val size = emit_broadcast(b, emit_dim_value(b, x->block[0]), 1, &x->queries, NULL);
    val number = emit2(b, OP_div, index, size), first = emit2(b, OP_mul, number, size);
    val last = emit_broadcast(b, emit_dim_value(b, dim_sub(m, x->queries, x->tile[0])), 1, &x->queries, NULL);
    val within = emit2(b, OP_sub, index, emit2(b, OP_min, first, last));
    val rows = emit_broadcast(b, emit_dim_value(b, x->tile[0]), 1, &x->queries, NULL);
    struct attr along = A_INT(2);
    val at = emit2(b, OP_add, emit2(b, OP_mul, number, rows), within);
    return emit(b, OP_take, (val[]){ v, at }, 2, &along);
}

val flex_assemble(const struct flex *x, struct builder *b, val tiles)
{
    struct type t = emit_type(b, tiles);
    uint32_t rank = t.rank + 1u;
    dim rows = flex_ragged(x, 0) ? dim_mul(x->m, x->rows, x->tile[0]) : x->queries;
    dim dims[4] = { x->batches, x->heads, rows, rank == 4 ? t.dims[2] : 0 };
    val v = emit_reshape(b, tiles, rank, dims);
    return flex_ragged(x, 0) ? without_repeated(x, b, v) : v;
}

/* ---- forward ---- */

enum { CARRY_MAX, CARRY_SUM, CARRY_OUT, CARRIES };
enum { EXTRA_QUERIES = FLEX_AT, EXTRA_PART, EXTRAS };

static void carry_types(const struct flex *x, type_id types[CARRIES])
{
    types[CARRY_MAX] = type_intern(x->m, x->computed, 1, &x->tile[0]);
    types[CARRY_SUM] = types[CARRY_MAX];
    types[CARRY_OUT] = flex_type(x, x->tile[0], x->value_width);
}

/* Where v is -inf, 0. */
static val finite_or_zero(struct builder *b, val v)
{
    val dead = emit2(b, OP_eq, v, emit_full_like(b, v, -INFINITY));
    return emit_select(b, dead, emit_full_like(b, v, 0), v);
}

val flex_exp(const struct flex *x, struct builder *b, val v)
{
    const double least = x->computed == DT_F64 ? -640 : -69;
    val small = emit2(b, OP_lt, v, emit_full_like(b, v, least));
    return emit_select(b, small, emit_full_like(b, v, 0), emit1(b, OP_exp, v));
}

val flex_unchanging(struct builder *b, val v)
{
    struct attr unread = A_NONE;
    return emit(b, OP_stop_gradient, &v, 1, &unread);
}

/* The carries after one more tile of scores u, -inf where a key takes no part. */
static void next_carries(const struct flex *x, struct builder *b, const val *carry, val u, val values,
                         val *next)
{
    uint32_t along = 1, zero = 0;
    val largest = emit_reduce(b, OP_reduce_max, u, &along, 1);
    next[CARRY_MAX] = emit2(b, OP_max, carry[CARRY_MAX], flex_unchanging(b, largest));
    val base = finite_or_zero(b, next[CARRY_MAX]);
    val shrink = emit1(b, OP_exp, emit2(b, OP_sub, carry[CARRY_MAX], base));
    val spread = flex_spread(b, base, x->tile[0], x->tile[1], 0);
    val p = flex_exp(x, b, emit2(b, OP_sub, u, spread));
    val sum = emit_reduce(b, OP_sum, p, &along, 1);
    next[CARRY_SUM] = emit2(b, OP_add, emit2(b, OP_mul, carry[CARRY_SUM], shrink), sum);
    val more = emit_dot_to(b, x->computed, emit_cast(b, p, x->given), values, NULL, NULL, 0, &along, &zero,
                           1);
    val rest = emit2(b, OP_mul, carry[CARRY_OUT], flex_spread(b, shrink, x->tile[0], x->value_width, 0));
    next[CARRY_OUT] = emit2(b, OP_add, rest, more);
}

static void tile_step(const struct flex_step *s, struct builder *b, const val *carry, const val *operands,
                      const val *extra, struct flex_entry entry, enum flex_list list, val *next)
{
    const struct flex *x = s->x;
    struct flex_row at = flex_row_of(extra);
    struct flex_tile t = flex_tile_at(x, b, operands, at, entry);
    val kv_batch = flex_kv_batch(x, b, at.batch), kv_head = flex_kv_head(x, b, at.head);
    val keys = flex_window(b, operands[FLEX_KEY], kv_batch, kv_head, t.start[1], x->tile[1], x->width);
    val values = flex_window(b, operands[FLEX_VALUE], kv_batch, kv_head, t.start[1], x->tile[1],
                             x->value_width);
    val scaled = flex_scaled(x, b, operands, flex_dot_keys(x, b, extra[EXTRA_QUERIES], keys));
    val u = flex_scores(x, b, operands, &t, scaled);
    val allowed = flex_allowed(x, b, operands, &t, scaled, list, false);
    if (allowed != VAL_NONE) u = emit_select(b, allowed, u, emit_full_like(b, u, -INFINITY));
    next_carries(x, b, carry, u, values, next);
}

/* out, lse and max of what the loops leave; dims: of the sums, then the width of values. */
static void finish(const struct flex *x, struct builder *b, const val *carry, val *results)
{
    struct type t = emit_type(b, carry[CARRY_OUT]);
    uint32_t at[3] = { 0, 1, 2 };
    val none = emit2(b, OP_eq, carry[CARRY_SUM], emit_full_like(b, carry[CARRY_SUM], 0));
    val sum = emit_select(b, none, emit_full_like(b, carry[CARRY_SUM], 1), carry[CARRY_SUM]);
    val out = emit2(b, OP_div, carry[CARRY_OUT], emit_broadcast(b, sum, t.rank, t.dims, at));
    results[FLEX_OUT] = emit_cast(b, out, x->given);
    results[FLEX_LSE] = emit2(b, OP_add, carry[CARRY_MAX], emit1(b, OP_log, sum));
    results[FLEX_MAX] = carry[CARRY_MAX];
}

/* The body of the map: (number of the tile of queries, operands…) -> (out, lse, max); where keys are cut into
 * parts: (number of the part, operands…) -> (carries…). */
static struct region_in tile_body(const struct flex *x, dim parts, const val *with)
{
    type_id index = flex_index(x);
    val number, extra[EXTRAS], carry[CARRIES], results[FLEX_RESULTS];
    struct flex_body body;
    flex_body_begin(&body, x, &index, 1, NULL, 0, &number);
    struct builder *b = &body.b;
    val rows = emit_dim_value(b, x->rows), heads = emit_dim_value(b, x->heads);
    val n_parts = emit_dim_value(b, parts), tile = emit2(b, OP_div, number, n_parts);
    extra[EXTRA_PART] = emit2(b, OP_rem, number, n_parts);
    val of_head = emit2(b, OP_div, tile, rows);
    extra[FLEX_AT_ROW] = emit2(b, OP_rem, tile, rows);
    extra[FLEX_AT_HEAD] = emit2(b, OP_rem, of_head, heads);
    extra[FLEX_AT_BATCH] = emit2(b, OP_div, of_head, heads);
    val start = flex_start(x, b, extra[FLEX_AT_ROW], 0);
    extra[EXTRA_QUERIES] = flex_window(b, body.operands[FLEX_QUERY], extra[FLEX_AT_BATCH],
                                       extra[FLEX_AT_HEAD], start, x->tile[0], x->width);
    dim out_dims[2] = { x->tile[0], x->value_width };
    carry[CARRY_MAX] = emit_full(b, x->computed, -INFINITY, 1, x->tile);
    carry[CARRY_SUM] = emit_full(b, x->computed, 0, 1, x->tile);
    carry[CARRY_OUT] = emit_full(b, x->computed, 0, 2, out_dims);
    type_id types[CARRIES], extras[EXTRAS];
    carry_types(x, types);
    for (uint32_t k = 0; k < EXTRAS; k++) extras[k] = flex_index(x);
    extras[EXTRA_QUERIES] = type_intern(x->m, x->given, 2, (dim[]){ x->tile[0], x->width });
    struct flex_step step = { .x = x,
                              .carry = types,
                              .extra = extras,
                              .n_carry = CARRIES,
                              .n_extra = EXTRAS,
                              .parts = parts,
                              .part = EXTRA_PART,
                              .there = HOP_NONE,
                              .emit = tile_step };
    flex_loops(&step, b, carry, body.operands, extra);
    if (parts != 1) return flex_body_finish(&body, carry, CARRIES, with, x->n);
    finish(x, b, carry, results);
    return flex_body_finish(&body, results, FLEX_RESULTS, with, x->n);
}

/* The results of each tile, of what its parts leave: [tiles · parts, q, …]. The parts are added up in their
 * order. */
static void join(const struct flex *x, struct builder *b, dim tiles, dim parts, val first, val *results)
{
    uint32_t along = 1, of_tile[2] = { 0, 2 }, of_part[3] = { 0, 1, 2 };
    dim dims[4] = { tiles, parts, x->tile[0], x->value_width };
    val carry[CARRIES];
    for (uint32_t k = 0; k < CARRIES; k++)
        carry[k] = emit_reshape(b, first + k, k == CARRY_OUT ? 4 : 3, dims);
    val largest = flex_unchanging(b, emit_reduce(b, OP_reduce_max, carry[CARRY_MAX], &along, 1));
    val base = emit_broadcast(b, finite_or_zero(b, largest), 3, dims, of_tile);
    val weight = emit1(b, OP_exp, emit2(b, OP_sub, carry[CARRY_MAX], base));
    val sums = emit2(b, OP_mul, carry[CARRY_SUM], weight);
    val outs = emit2(b, OP_mul, carry[CARRY_OUT], emit_broadcast(b, weight, 4, dims, of_part));
    carry[CARRY_MAX] = largest;
    carry[CARRY_SUM] = emit_reduce(b, OP_sum, sums, &along, 1);
    carry[CARRY_OUT] = emit_reduce(b, OP_sum, outs, &along, 1);
    finish(x, b, carry, results);
}

/* Without any query, or without any key. */
static uint32_t forward_of_nothing(const struct flex *x, struct builder *b)
{
    dim dims[4] = { x->batches, x->heads, x->queries, x->value_width };
    val results[FLEX_RESULTS] = { emit_full(b, x->given, 0, 4, dims),
                                  emit_full(b, x->computed, -INFINITY, 3, dims),
                                  emit_full(b, x->computed, -INFINITY, 3, dims) };
    return builder_finish(b, results, FLEX_RESULTS);
}

/* The results of another node that stands for x, whose operands are `with`. */
static uint32_t forward_of(const struct flex *x, struct builder *b, const struct flex *other, const val *with)
{
    val results[FLEX_RESULTS];
    dim dims[4] = { x->batches, x->heads, x->queries, x->value_width };
    inline_function(b, flex_forward(other), other->symbols, with, results);
    for (uint32_t k = 0; k < FLEX_RESULTS; k++)
        results[k] = emit_reshape(b, results[k], k == FLEX_OUT ? 4 : 3, dims);
    return builder_finish(b, results, FLEX_RESULTS);
}

uint32_t flex_forward(const struct flex *x)
{
    struct flex_body body;
    struct flex other;
    const val *with;
    val results[FLEX_RESULTS];
    flex_body_begin(&body, x, NULL, 0, NULL, 0, NULL);
    struct builder *b = &body.b;
    if (flex_is_nothing(x)) return forward_of_nothing(x, b);
    if (flex_packs(x)) {
        flex_packed(&other, x, b, body.operands, &with);
        return forward_of(x, b, &other, with);
    }
    if (flex_wants_lists(x)) {
        flex_with_lists(&other, x, b, body.operands, &with);
        return forward_of(x, b, &other, with);
    }
    dim tiles = dim_mul(x->m, dim_mul(x->m, x->batches, x->heads), x->rows), parts = flex_parts(x);
    val first = flex_map(x, b, dim_mul(x->m, tiles, parts), true, tile_body(x, parts, body.operands));
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) results[k] = first + k;
    if (parts != 1) join(x, b, tiles, parts, first, results);
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) results[k] = flex_assemble(x, b, results[k]);
    return builder_finish(b, results, FLEX_RESULTS);
}
