/* Where the parts of a node of flex_attention are, for its row and for whoever makes one. */
#ifndef HOP_FLEX_PARTS_H
#define HOP_FLEX_PARTS_H

#include "ir/table.h"

/* Operand groups; within the first and the second one the operands. */
enum { FLEX_ARRAYS, FLEX_FROM, FLEX_BLOCKS };
enum { FLEX_QUERY, FLEX_KEY, FLEX_VALUE, FLEX_N_ARRAYS };
enum { FLEX_SCALE = FLEX_N_ARRAYS, FLEX_BATCH, FLEX_HEAD, FLEX_ROW, FLEX_COLUMN, FLEX_FIRST_BLOCK };
enum { FLEX_N_FROM = FLEX_FIRST_BLOCK - FLEX_SCALE };
/* counts [b, h, rows] and columns [b, h, rows, columns] of the blocks in which the mask is asked, then of
 * those in which it is not, because it holds everywhere. A compact list has offsets [b, h, rows + 1] into
 * columns [n] of all rows. Last, where the first list is compact, ranges [n, q, 2]: the first key within the
 * block that takes part, and the one behind the last; then no mask is asked. */
enum { FLEX_COUNTS, FLEX_COLUMNS, FLEX_LIST };
enum { FLEX_MOST_BLOCKS = 2 * FLEX_LIST + 1 };
enum flex_body_number { FLEX_SCORE, FLEX_MASK };
enum { FLEX_BLOCK, FLEX_ATTRS };
enum { FLEX_OUT, FLEX_LSE, FLEX_MAX, FLEX_RESULTS };

/* Does a body read its parameter p? */
bool flex_reads(const struct module *m, uint32_t fn, uint32_t p);
/* The lists of a mask, in b: counts and columns of blocks with some keys, then of those with all, i64. */
struct flex_lists_in {
    dim batches, heads, queries, keys;
    dim room;    /* of compact lists: for so many blocks each; 0: lists are not compact */
    bool ranges; /* of compact lists: these, too */
    bool sized;  /* a block has these sizes; else hop's choice */
    uint32_t block[2];
    val from[FLEX_N_FROM];
    struct region_in mask; /* does not read the score; its operands are values of b */
};
val flex_emit_lists(struct builder *b, const struct flex_lists_in *in);

#endif
