/* Lists of blocks against the mask, for programs in search of a mistake (HOP_DEBUG=masks): a block in which a
 * key takes part by the mask must be listed, and in one that is listed without a mask all keys must take
 * part. Lists are meaning, so nothing else would tell. */
#include "hops/flex.h"

/* Is there something to compare? Ranges stand for the mask; one that reads scores cannot be asked before. */
static bool compares(const struct flex *x)
{
    bool asked = x->masked && !flex_reads(x->m, x->bodies[FLEX_MASK].fn, 0);
    return x->n_lists && !x->ranges && asked && !flex_is_nothing(x) && hop_debugs("masks");
}

/* By the mask alone, [batches, heads, rows, columns]. */
static val classes(const struct flex *x, struct builder *b, const val *operands)
{
    uint32_t n = x->n - x->n_blocks;
    struct flex unlisted;
    struct flex_body body;
    val *with = ARENA_NEW(&b->arena, val, n), out;
    memcpy(with, operands, FLEX_FIRST_BLOCK * sizeof *with);
    const val *own = operands + FLEX_FIRST_BLOCK + x->n_blocks;
    if (n > FLEX_FIRST_BLOCK) memcpy(with + FLEX_FIRST_BLOCK, own, (n - FLEX_FIRST_BLOCK) * sizeof *with);
    flex_again(&unlisted, x, b, &(struct flex_changed){ with, n, 0, x->attrs, x->bodies });
    flex_body_begin(&body, &unlisted, NULL, 0, NULL, 0, NULL);
    out = flex_decided_classes(&unlisted, &body.b, body.operands, unlisted.batches, unlisted.heads);
    inline_function(b, builder_finish(&body.b, &out, 1), unlisted.symbols, with, &out);
    return out;
}

/* (number in a list, operands…, batch, head, row) -> the column that it lists; behind its end: behind all. */
static struct region_in entry_body(const struct flex *x, enum flex_list list, const val *with)
{
    type_id index = flex_index(x), last[FLEX_AT] = { index, index, index };
    val params[1 + FLEX_AT];
    struct flex_body body;
    flex_body_begin(&body, x, &index, 1, last, FLEX_AT, params);
    struct builder *b = &body.b;
    struct flex_row at = flex_row_of(params + 1);
    val column = flex_list_entry(x, b, body.operands, at, list, params[0]).column;
    val listed = emit2(b, OP_lt, params[0], flex_list_length(x, b, body.operands, at, list));
    val out = emit_select(b, listed, column, emit_dim_value(b, x->columns));
    return flex_body_finish(&body, &out, 1, with, x->n + FLEX_AT);
}

/* (number of a row of blocks, operands…) -> which columns a list has. */
static struct region_in row_body(const struct flex *x, enum flex_list list, const val *with)
{
    type_id index = flex_index(x);
    uint32_t along = 0;
    val number, at[FLEX_AT];
    struct flex_body body;
    flex_body_begin(&body, x, &index, 1, NULL, 0, &number);
    struct builder *b = &body.b;
    val rows = emit_dim_value(b, x->rows), heads = emit_dim_value(b, x->heads);
    val of_head = emit2(b, OP_div, number, rows);
    at[FLEX_AT_ROW] = emit2(b, OP_rem, number, rows);
    at[FLEX_AT_HEAD] = emit2(b, OP_rem, of_head, heads);
    at[FLEX_AT_BATCH] = emit2(b, OP_div, of_head, heads);
    dim n = x->columns;
    struct region_in entries = entry_body(x, list, flex_with(b, x, body.operands, at, FLEX_AT));
    val listed = flex_spread(b, flex_map(x, b, n, false, entries), n, n, 0);
    val same = emit2(b, OP_eq, listed, flex_spread(b, flex_counted(b, n), n, n, 1));
    val out = emit_reduce(b, OP_any, same, &along, 1);
    return flex_body_finish(&body, &out, 1, with, x->n);
}

/* bool[batches, heads, rows, columns]: what a list has. */
static val listed(const struct flex *x, struct builder *b, const val *operands, enum flex_list list)
{
    dim dims[4] = { x->batches, x->heads, x->rows, x->columns };
    dim length = dim_mul(x->m, dim_mul(x->m, x->batches, x->heads), x->rows);
    return emit_reshape(b, flex_map(x, b, length, true, row_body(x, list, operands)), 4, dims);
}

/* That no block is bad; the message ends with the row and column of the first that is. */
static void check_none(const struct flex *x, struct builder *b, val bad, const char *message)
{
    uint32_t outer[2] = { 0, 1 }, along = 0;
    dim n = dim_mul(x->m, x->rows, x->columns);
    val any = emit_reshape(b, emit_reduce(b, OP_any, bad, outer, 2), 1, &n);
    val all = emit_dim_value(b, n), number = flex_counted(b, n);
    val left = emit2(b, OP_sub, emit_broadcast(b, all, 1, &n, NULL), number);
    left = emit_select(b, any, left, emit_full(b, DT_I64, 0, 1, &n));
    val most = emit2(b, OP_max, emit_reduce(b, OP_reduce_max, left, &along, 1), flex_i64(b, 0));
    val first = emit2(b, OP_sub, all, most), columns = emit_dim_value(b, dim_max(x->m, x->columns, 1));
    val at[2] = { emit2(b, OP_div, first, columns), emit2(b, OP_rem, first, columns) };
    flex_check(b, emit2(b, OP_eq, most, flex_i64(b, 0)), message, at, 2);
}

uint32_t flex_checked(const struct flex *x)
{
    if (!compares(x)) return flex_forward(x);
    struct flex_body body;
    val results[FLEX_RESULTS];
    flex_body_begin(&body, x, NULL, 0, NULL, 0, NULL);
    struct builder *b = &body.b;
    val found = classes(x, b, body.operands), any = listed(x, b, body.operands, FLEX_PARTIAL);
    val some = emit2(b, OP_ne, found, emit_full_like(b, found, FLEX_NONE));
    val whole = x->n_lists > 1 ? listed(x, b, body.operands, FLEX_WHOLE) : VAL_NONE;
    if (whole != VAL_NONE) any = emit2(b, OP_or, any, whole);
    check_none(
        x, b, emit2(b, OP_and, some, emit1(b, OP_not, any)),
        "block mask: by the mask, the block of this row and column is not listed, but keys in it take part");
    if (whole != VAL_NONE) {
        val part = emit1(b, OP_not, flex_of_class(b, found, FLEX_ALL));
        check_none(
            x, b, emit2(b, OP_and, whole, part),
            "block mask: by the mask, the block of this row and column is listed as full, but not all keys "
            "take part");
    }
    inline_function(b, flex_forward(x), x->same, body.operands, results);
    return builder_finish(b, results, FLEX_RESULTS);
}
