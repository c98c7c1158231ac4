/* Where the parts of a node of flex_attention are, for its row and for whoever makes one. */
#ifndef HOP_FLEX_PARTS_H
#define HOP_FLEX_PARTS_H

/* Operand groups; within the first and the second one the operands. */
enum { FLEX_ARRAYS, FLEX_FROM, FLEX_BLOCKS };
enum { FLEX_QUERY, FLEX_KEY, FLEX_VALUE, FLEX_N_ARRAYS };
enum { FLEX_SCALE = FLEX_N_ARRAYS, FLEX_BATCH, FLEX_HEAD, FLEX_ROW, FLEX_COLUMN, FLEX_FIRST_BLOCK };
enum { FLEX_N_FROM = FLEX_FIRST_BLOCK - FLEX_SCALE };
/* counts [b, h, rows] and columns [b, h, rows, columns] of the blocks in which the mask is asked, then of
 * those in which it is not, because it holds everywhere. */
enum { FLEX_COUNTS, FLEX_COLUMNS, FLEX_LIST };
enum { FLEX_SCORE, FLEX_MASK };
enum { FLEX_BLOCK, FLEX_ATTRS };
enum { FLEX_OUT, FLEX_LSE, FLEX_MAX, FLEX_RESULTS };

#endif
