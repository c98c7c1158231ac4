/* From a function to a loop program. A row says how its result is defined (lp's element, a reduction, or a block of statements); the
 * engine decides what is stored, gathers stored values into nests and writes the statements. */
#ifndef HOP_LOWER_H
#define HOP_LOWER_H

#include "ir/table.h"
#include "loop/lp.h"

enum lower_kind { LOWER_POINTWISE, LOWER_REDUCE, LOWER_BLOCK };
enum lower_access {
    ACCESS_SAME,   /* reads operands at the index it is asked for (elementwise) */
    ACCESS_VIEW,   /* each operand element is read at most once per visit (reshape, permute, slice, pad, concat, reverse) */
    ACCESS_REPEAT, /* operand elements are read many times (broadcast) */
    ACCESS_GATHER  /* at computed positions (take, dynamic_slice) */
};
enum lower_cost { COST_FREE, COST_CHEAP, COST_EXPENSIVE };

struct lower; /* the state of lowering; one per function instance being lowered */

struct op_lower {
    uint8_t kind, access, cost;
    /* POINTWISE: the element of result `result` at idx (one i64 per dim). */
    lpv (*elem)(struct lower *L, const struct fn *f, const struct node *n, uint32_t result, const lpv *idx);
    /* REDUCE: the extents folded over (dims of f, *rank of them), the fold, and the folded expression. */
    uint8_t fold; /* enum lp_fold */
    uint32_t (*reduced)(const struct module *m, const struct fn *f, const struct node *n, dim extents[MAX_RANK]);
    lpv (*reduce_elem)(struct lower *L, const struct fn *f, const struct node *n, const lpv *idx, const lpv *folded);
    /* Does the innermost folded extent run along the operand's innermost dim? Then a row is folded over lanes (strict: 16 lanes and a
     * tree), otherwise each result element is folded one after the other. Both back ends and eval must follow the same answer. */
    bool (*row_fold)(const struct module *m, const struct fn *f, const struct node *n);
    /* BLOCK: writes statements that fill the results' buffers (lower_result_buffer). */
    void (*block)(struct lower *L, const struct fn *f, const struct node *n);
};

/* ---- services for rows ---- */

struct lp *lower_lp(struct lower *L);
struct module *lower_module(struct lower *L);
/* The element of a value of the function being lowered: loaded if the value is stored, else expanded in place. */
lpv lower_elem(struct lower *L, val v, const lpv *idx);
lpv lower_dim(struct lower *L, dim d); /* a dim of the function being lowered as an i64 */
/* The element at row-major position `flat` of a value: the index is split by its dims. */
void lower_unflatten(struct lower *L, type_id t, lpv flat, lpv *idx);
lpv lower_flatten(struct lower *L, type_id t, const lpv *idx);

#endif
