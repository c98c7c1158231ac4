/* Lists of the blocks that a mask leaves: which blocks of keys have a key that takes part, and which of them
 * have no other. Most blocks are decided by bounds and corners (flex_bounds.c), all at once; the mask is
 * asked for each element only of those that are not. */
#include "hops/flex.h"

bool flex_wants_lists(const struct flex *x)
{
    bool one_tile = x->rows == 1 && x->columns == 1;
    return x->masked && !x->n_lists && !one_tile && !flex_reads(x->m, x->bodies[FLEX_MASK].fn, 0);
}

/* ---- all blocks by bounds ---- */

/* The axes over which the function of one block goes, the last one first. */
enum { OVER_COLUMNS, OVER_ROWS, OVER_HEADS, OVER_BATCHES, OVERS };
enum { AT_BATCH, AT_HEAD, AT_QUERIES, AT_KEYS = AT_QUERIES + 2, AT_OWN = AT_KEYS + 2 };

/* First and last index of each block along an axis. */
static void ranges(const struct flex *x, struct builder *b, uint32_t axis, val from, val *first, val *last)
{
    dim n = axis ? x->columns : x->rows;
    val size = emit_broadcast(b, emit_dim_value(b, x->block[axis]), 1, &n, NULL);
    val one = emit_full(b, DT_I64, 1, 1, &n), base = emit_broadcast(b, from, 1, &n, NULL);
    val end = emit_broadcast(b, emit_dim_value(b, axis ? x->keys : x->queries), 1, &n, NULL);
    val start = emit2(b, OP_mul, flex_counted(b, n), size);
    val stop = emit2(b, OP_min, emit2(b, OP_add, start, size), end);
    *first = emit2(b, OP_add, start, base);
    *last = emit2(b, OP_add, emit2(b, OP_sub, stop, one), base);
}

static val numbers_from(struct builder *b, dim n, val from)
{
    return emit2(b, OP_add, flex_counted(b, n), emit_broadcast(b, from, 1, &n, NULL));
}

/* The classes of all blocks, [batches, heads, rows, columns]; batches, heads: 1 or all. */
static val classes(const struct flex *x, struct builder *b, const val *operands, const dim *dims)
{
    struct module *m = x->m;
    uint32_t n = AT_OWN + x->n_mask, fn = flex_classes(m, x->bodies[FLEX_MASK].fn, x->block);
    struct flex_dims symbols = { .arena = &b->arena };
    val *args = ARENA_NEW(&b->arena, val, n), out;
    for (uint32_t k = 0; k < x->n_dims[FLEX_MASK]; k++)
        vec_push(&b->arena, &symbols.list, x->bodies[FLEX_MASK].dims[k]);
    ranges(x, b, 0, operands[FLEX_ROW], &args[AT_QUERIES], &args[AT_QUERIES + 1]);
    ranges(x, b, 1, operands[FLEX_COLUMN], &args[AT_KEYS], &args[AT_KEYS + 1]);
    args[AT_BATCH] = dims[0] == 1 ? operands[FLEX_BATCH] : numbers_from(b, dims[0], operands[FLEX_BATCH]);
    args[AT_HEAD] = dims[1] == 1 ? operands[FLEX_HEAD] : numbers_from(b, dims[1], operands[FLEX_HEAD]);
    if (x->n_mask) memcpy(args + AT_OWN, operands + x->n - x->n_mask, x->n_mask * sizeof *args);
    for (uint32_t over = 0; over < OVERS; over++) {
        dim size = dims[OVERS - 1 - over];
        if (over >= OVER_HEADS && size == 1) continue;
        bool *batched = ARENA_ZNEW(&b->arena, bool, n);
        batched[AT_KEYS] = batched[AT_KEYS + 1] = over == OVER_COLUMNS;
        batched[AT_QUERIES] = batched[AT_QUERIES + 1] = over == OVER_ROWS;
        batched[AT_HEAD] = over == OVER_HEADS;
        batched[AT_BATCH] = over == OVER_BATCHES;
        fn = flex_over(m, fn, batched, size, &symbols);
    }
    inline_function(b, fn, symbols.list.data, args, &out);
    return emit_reshape(b, out, 4, dims);
}

/* ---- blocks that are not decided ---- */

/* (operands…, batch, head, row, column) -> its class, by all its elements. */
static uint32_t counted_class(const struct flex *x)
{
    type_id index = flex_index(x), last[FLEX_AT + 1] = { index, index, index, index };
    val params[FLEX_AT + 1];
    uint32_t both[2] = { 0, 1 };
    struct flex_body body;
    flex_body_begin(&body, x, NULL, 0, last, FLEX_AT + 1, params);
    struct builder *b = &body.b;
    struct flex_entry entry = { params[FLEX_AT], VAL_NONE };
    struct flex_tile t = flex_tile_at(x, b, body.operands, flex_row_of(params), entry);
    val nothing = emit_full(b, x->computed, 0, 2, x->tile), area = flex_i64(b, 1);
    val allowed = flex_allowed(x, b, body.operands, &t, nothing, FLEX_PARTIAL, true);
    for (uint32_t axis = 0; axis < 2; axis++) { /* what the last tile has of the block before is not there */
        val number = axis ? t.column : t.row, size = emit_dim_value(b, x->tile[axis]);
        val first = emit2(b, OP_mul, number, emit_dim_value(b, x->block[axis]));
        area = emit2(b, OP_mul, area, emit2(b, OP_sub, size, emit2(b, OP_sub, first, t.start[axis])));
    }
    val count = emit_cast(b, emit_reduce(b, OP_sum, emit_cast(b, allowed, DT_I32), both, 2), DT_I64);
    val any = emit2(b, OP_gt, count, flex_i64(b, 0)), all = emit2(b, OP_eq, count, area);
    val some = emit_select(b, any, flex_i64(b, FLEX_SOME), flex_i64(b, FLEX_NONE));
    val out = emit_select(b, all, flex_i64(b, FLEX_ALL), some);
    return builder_finish(b, &out, 1);
}

static uint32_t given_class(const struct flex *x)
{
    struct builder b;
    builder_begin(&b, x->m, x->shape);
    val given = builder_param(&b, flex_index(x), 0);
    return builder_finish(&b, &given, 1);
}

/* (column, operands…, batch, head, row, classes) -> the class of the block, none undecided. */
static struct region_in decided_body(const struct flex *x, type_id classes, const val *with)
{
    type_id index = flex_index(x), last[FLEX_AT + 1] = { index, index, index, classes };
    val params[1 + FLEX_AT + 1];
    struct flex_body body;
    flex_body_begin(&body, x, &index, 1, last, FLEX_AT + 1, params);
    struct builder *b = &body.b;
    val column = params[0], at[FLEX_AT + 1] = { params[1], params[2], params[3], column };
    uint32_t dims[4] = { 0, 1, 2, 3 };
    struct attr a = A_INTS(dims, 4);
    val given = emit(b, OP_gather, (val[]){ params[1 + FLEX_AT], at[0], at[1], at[2], column }, 5, &a);
    val open = emit2(b, OP_eq, given, flex_i64(b, FLEX_UNDECIDED));
    struct region_in regions[2] = { { given_class(x), &given, 1, x->same },
                                    { counted_class(x), flex_with(b, x, body.operands, at, FLEX_AT + 1),
                                      x->n + FLEX_AT + 1, x->same } };
    val out = builder_node(b, &(struct node_in){ .op = OP_switch,
                                                 .operands = &open,
                                                 .n_operands = 1,
                                                 .groups = (const uint32_t[1]){ 1 },
                                                 .regions = regions,
                                                 .n_regions = 2 });
    return flex_body_finish(&body, &out, 1, with, x->n + FLEX_AT + 1);
}

/* (number of a row of blocks, operands…, classes) -> the classes of all its columns. */
static struct region_in decided_row(const struct flex *x, dim heads, type_id classes, const val *with)
{
    type_id index = flex_index(x);
    val params[2], at[FLEX_AT + 1];
    struct flex_body body;
    flex_body_begin(&body, x, &index, 1, &classes, 1, params);
    struct builder *b = &body.b;
    val rows = emit_dim_value(b, x->rows), n_heads = emit_dim_value(b, heads);
    val number = params[0], of_head = emit2(b, OP_div, number, rows);
    at[FLEX_AT_ROW] = emit2(b, OP_rem, number, rows);
    at[FLEX_AT_HEAD] = emit2(b, OP_rem, of_head, n_heads);
    at[FLEX_AT_BATCH] = emit2(b, OP_div, of_head, n_heads);
    at[FLEX_AT] = params[1];
    const val *all = flex_with(b, x, body.operands, at, FLEX_AT + 1);
    val out = flex_map(x, b, x->columns, false, decided_body(x, classes, all));
    return flex_body_finish(&body, &out, 1, with, x->n + 1);
}

/* ---- lists ---- */

/* How many columns of `present`, and these first, in order. */
static void list_of(struct builder *b, val present, val *counts, val *columns)
{
    struct type t = emit_type(b, present);
    uint32_t along = 3;
    struct attr numbers[3] = { A_DIMS(t.dims, 4), A_INT(3), A_NONE }, sorted[2] = { A_INT(3), A_NONE };
    val column = emit(b, OP_iota, NULL, 0, numbers);
    val behind = emit2(b, OP_add, column, emit_broadcast(b, emit_dim_value(b, t.dims[3]), 4, t.dims, NULL));
    *counts = emit_reduce(b, OP_sum, emit_cast(b, present, DT_I64), &along, 1);
    *columns = emit(b, OP_sort, (val[]){ emit_select(b, present, column, behind) }, 1, sorted);
}

val flex_decided_classes(const struct flex *x, struct builder *b, const val *operands, dim batches, dim heads)
{
    struct module *m = x->m;
    dim dims[4] = { batches, heads, x->rows, x->columns };
    dim length = dim_mul(m, dim_mul(m, batches, heads), x->rows);
    val found = classes(x, b, operands, dims);
    const val *with = flex_with(b, x, operands, &found, 1);
    val decided = flex_map(x, b, length, true, decided_row(x, heads, builder_type(b, found), with));
    return emit_reshape(b, decided, 4, dims);
}

val flex_of_class(struct builder *b, val classes, enum flex_class which)
{
    return emit2(b, OP_eq, classes, emit_full_like(b, classes, which));
}

/* Counts and columns of the blocks in which some keys take part, then of those in which all do. */
static void lists(const struct flex *x, struct builder *b, const val *operands, dim batches, dim heads,
                  val *out)
{
    val found = flex_decided_classes(x, b, operands, batches, heads);
    list_of(b, flex_of_class(b, found, FLEX_SOME), &out[0], &out[1]);
    list_of(b, flex_of_class(b, found, FLEX_ALL), &out[2], &out[3]);
}

/* The node with lists of blocks, in b, whose parameters are x's: *with are its operands. */
void flex_with_lists(struct flex *out, const struct flex *x, struct builder *b, const val *operands,
                     const val **with)
{
    struct module *m = x->m;
    uint32_t mask = x->bodies[FLEX_MASK].fn, n = x->n + 2 * FLEX_LIST, at = FLEX_FIRST_BLOCK;
    dim batches = flex_reads(m, mask, 1) ? x->batches : 1, heads = flex_reads(m, mask, 2) ? x->heads : 1;
    val *given = ARENA_NEW(&b->arena, val, n);
    memcpy(given, operands, at * sizeof *given);
    lists(x, b, operands, batches, heads, given + at);
    memcpy(given + at + 2 * FLEX_LIST, operands + at, (x->n - at) * sizeof *given);
    *with = given;
    flex_again(out, x, b, &(struct flex_changed){ given, n, 2 * FLEX_LIST, x->attrs, x->bodies });
    out->heads_from_zero = x->heads_from_zero;
}

/* ---- compact lists ---- */

void flex_check(struct builder *b, val holds, const char *message, const val *values, uint32_t n)
{
    struct attr text = A_STRING(module_string(b->m, message, strlen(message)));
    val operands[3] = { holds };
    memcpy(operands + 1, values, n * sizeof *values);
    emit(b, OP_check, operands, 1 + n, &text);
}

enum { PLACES = 4 }; /* batch, head, row and column of a block */

/* Offsets and columns of what is present, in a room that is checked. places: of all blocks, PLACES values;
 * returns how many there are. */
static val compact_list(struct builder *b, val present, dim room, val *offsets, val places[PLACES])
{
    struct module *m = b->m;
    struct type t = emit_type(b, present);
    uint32_t along = 3;
    dim rows = t.dims[2], dims[3] = { t.dims[0], t.dims[1], rows };
    dim flat = dim_mul(m, dim_mul(m, dims[0], dims[1]), rows), last[3] = { 0, 0, dim_sub(m, rows, 1) };
    val counts = emit_reduce(b, OP_sum, emit_cast(b, present, DT_I64), &along, 1);
    struct attr first[CUMULATIVE_ATTRS] = { A_INT(0), A_NONE, A_NONE };
    val ends = emit(b, OP_cumsum, (val[]){ emit_reshape(b, counts, 1, &flat) }, 1, first);
    ends = emit_reshape(b, ends, 3, dims);
    struct attr behind = A_INT(2);
    val parts[2] = { emit2(b, OP_sub, ends, counts), emit_slice(b, ends, last, dims) };
    *offsets = emit(b, OP_concat, parts, 2, &behind);
    struct attr sized[2] = { A_DIM(room), A_INT(0) };
    val found = emit(b, OP_nonzero, &present, 1, sized);
    for (uint32_t k = 0; k < PLACES; k++) places[k] = found + k;
    val total = emit_reduce(b, OP_sum, counts, (uint32_t[]){ 0, 1, 2 }, 3), most = emit_dim_value(b, room);
    flex_check(b, emit2(b, OP_le, total, most), "block_mask: more blocks than a compact list has room for",
               (val[]){ total, most }, 2);
    return total;
}

/* (number, operands…, places…, how many blocks there are) -> the ranges of a block: i64[q, 2]. */
static struct region_in ranges_body(const struct flex *x, dim room, const val *with)
{
    type_id index = flex_index(x), list = type_intern(x->m, DT_I64, 1, &room);
    type_id last[PLACES + 1] = { list, list, list, list, index };
    val params[1 + PLACES + 1], at[PLACES];
    uint32_t along = 1, first_dim = 0;
    struct flex_body body;
    flex_body_begin(&body, x, &index, 1, last, PLACES + 1, params);
    struct builder *b = &body.b;
    struct attr of_list = A_INTS(&first_dim, 1), of_row = A_INT(1), of_block = A_INT(0);
    for (uint32_t k = 0; k < PLACES; k++)
        at[k] = emit(b, OP_gather, (val[]){ params[1 + k], params[0] }, 2, &of_list);
    struct flex_tile t = flex_tile_at(x, b, body.operands, flex_row_of(at),
                                      (struct flex_entry){ at[FLEX_AT] });
    val nothing = emit_full(b, x->computed, 0, 2, x->tile);
    val allowed = flex_allowed(x, b, body.operands, &t, nothing, FLEX_PARTIAL, true);
    val count = emit_reduce(b, OP_sum, emit_cast(b, allowed, DT_I64), &along, 1);
    val from = emit(b, OP_argmax, (val[]){ emit_cast(b, allowed, DT_I32) }, 1, &of_row);
    val to = emit2(b, OP_add, from, count);
    val key = flex_spread(b, flex_counted(b, x->tile[1]), x->tile[0], x->tile[1], 1);
    val inside = emit2(b, OP_and, emit2(b, OP_ge, key, flex_spread(b, from, x->tile[0], x->tile[1], 0)),
                       emit2(b, OP_lt, key, flex_spread(b, to, x->tile[0], x->tile[1], 0)));
    val same = emit_reduce(b, OP_all, emit2(b, OP_eq, inside, allowed), (uint32_t[]){ 0, 1 }, 2);
    val absent = emit2(b, OP_ge, params[0], params[1 + PLACES]);
    flex_check(b, emit2(b, OP_or, same, absent),
               "block_mask: the keys of a query are no range, in the block of this row and column",
               (val[]){ at[FLEX_AT_ROW], at[FLEX_AT] }, 2);
    /* in keys of the block, for each query of it: the tile may begin before it */
    val skipped = emit2(b, OP_sub, emit2(b, OP_mul, at[FLEX_AT], emit_dim_value(b, x->block[1])), t.start[1]);
    val first = emit2(b, OP_mul, at[FLEX_AT_ROW], emit_dim_value(b, x->block[0]));
    val rows_skipped = emit2(b, OP_sub, first, t.start[0]);
    val rows = emit2(b, OP_add, flex_counted(b, x->block[0]),
                     emit_broadcast(b, rows_skipped, 1, &x->block[0], NULL));
    dim pair[2] = { x->block[0], 1 };
    val ends[2] = { from, to };
    for (uint32_t k = 0; k < 2; k++) {
        val within = emit2(b, OP_sub, ends[k], emit_broadcast(b, skipped, 1, &x->tile[0], NULL));
        ends[k] = emit_reshape(b, emit(b, OP_take, (val[]){ within, rows }, 2, &of_block), 2, pair);
    }
    val out = emit(b, OP_concat, ends, 2, &of_row);
    return flex_body_finish(&body, &out, 1, with, x->n + PLACES + 1);
}

/* Offsets and columns of both lists, and ranges of the first one if they are asked for. */
static void compact_lists(const struct flex *x, struct builder *b, const val *operands, dim room, bool ranges,
                          val *out)
{
    val found = flex_decided_classes(x, b, operands, x->batches, x->heads), last[PLACES + 1], full[PLACES];
    val total = compact_list(b, flex_of_class(b, found, FLEX_SOME), room, &out[0], last);
    out[1] = last[FLEX_AT];
    compact_list(b, flex_of_class(b, found, FLEX_ALL), room, &out[2], full);
    out[3] = full[FLEX_AT];
    last[PLACES] = total;
    const val *with = flex_with(b, x, operands, last, PLACES + 1);
    if (ranges) out[2 * FLEX_LIST] = flex_map(x, b, room, true, ranges_body(x, room, with));
}

/* ---- a mask alone ---- */

/* The lists of no block at all. */
static void lists_of_nothing(const struct flex *x, struct builder *b, const struct flex_lists_in *in,
                             val *out)
{
    dim dims[4] = { x->batches, x->heads, in->room ? dim_add(x->m, x->rows, 1) : x->rows, x->columns };
    dim ranges[3] = { in->room, x->block[0], 2 };
    for (uint32_t k = 0; k < 2 * FLEX_LIST; k++) {
        if (k % FLEX_LIST == FLEX_COUNTS) out[k] = emit_full(b, DT_I64, 0, 3, dims);
        else out[k] = in->room ? emit_full(b, DT_I64, 0, 1, &in->room) : emit_full(b, DT_I64, 0, 4, dims);
    }
    if (in->ranges) out[2 * FLEX_LIST] = emit_full(b, DT_I64, 0, 3, ranges);
}

/* (operands…) -> the lists, for all batches and heads. */
static uint32_t lists_function(const struct flex *x, const struct flex_lists_in *in)
{
    struct flex_body body;
    val out[FLEX_MOST_BLOCKS];
    flex_body_begin(&body, x, NULL, 0, NULL, 0, NULL);
    struct builder *b = &body.b;
    if (flex_is_nothing(x)) lists_of_nothing(x, b, in, out);
    else if (in->room) compact_lists(x, b, body.operands, in->room, in->ranges, out);
    else lists(x, b, body.operands, x->batches, x->heads, out);
    return builder_finish(b, out, 2 * FLEX_LIST + in->ranges);
}

/* A score function that leaves scores as they are. */
static uint32_t same_score(const struct flex_lists_in *in, const struct builder *around)
{
    struct builder b;
    val params[FLEX_N_FROM];
    builder_begin(&b, around->m, NULL);
    for (uint32_t k = 0; k < FLEX_N_FROM; k++) {
        enum dtype t = (enum dtype)emit_type(around, in->from[k]).dtype;
        params[k] = builder_param(&b, type_scalar(around->m, t), 0);
    }
    return builder_finish(&b, params, 1);
}

/* By a node of flex_attention over arrays of width 0, of which nothing is in memory. */
val flex_emit_lists(struct builder *b, const struct flex_lists_in *in)
{
    struct module *m = b->m;
    struct region_in regions[2] = { { same_score(in, b), NULL, 0, NULL }, in->mask };
    uint32_t n = FLEX_FIRST_BLOCK + in->mask.n_operands, groups[3] = { FLEX_N_ARRAYS, FLEX_N_FROM, 0 };
    uint32_t n_dims[2] = { 0, module_fn(m, in->mask.fn)->n_outer_symbols };
    val *operands = ARENA_NEW(&b->arena, val, n);
    type_id *types = ARENA_NEW(&b->arena, type_id, n);
    for (uint32_t k = 0; k < FLEX_N_ARRAYS; k++) {
        dim dims[4] = { in->batches, in->heads, k == FLEX_QUERY ? in->queries : in->keys, 0 };
        operands[k] = emit_full(b, DT_F32, 0, 4, dims);
    }
    memcpy(operands + FLEX_SCALE, in->from, sizeof in->from);
    for (uint32_t k = FLEX_FIRST_BLOCK; k < n; k++) operands[k] = in->mask.operands[k - FLEX_FIRST_BLOCK];
    for (uint32_t k = 0; k < n; k++) types[k] = builder_type(b, operands[k]);
    struct attr attrs[FLEX_ATTRS] = { [FLEX_BLOCK] = in->sized ? A_INTS(in->block, 2) : A_NONE };
    struct flex x;
    flex_begin(&x, &b->arena,
               &(struct flex_in){ .m = m,
                                  .place = b->place,
                                  .symbols = b->symbols.data,
                                  .operands = types,
                                  .n_operands = n,
                                  .groups = groups,
                                  .attrs = attrs,
                                  .regions = regions,
                                  .n_dims = n_dims });
    struct region_in call = { lists_function(&x, in), operands, n, x.symbols };
    return builder_node(b, &(struct node_in){ .op = OP_invoke_subgraph,
                                              .groups = (const uint32_t[1]){ 0 },
                                              .regions = &call,
                                              .n_regions = 1 });
}
