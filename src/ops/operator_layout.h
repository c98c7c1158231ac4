/* What the operands and results of a call of an operator from outside are: which array of the signature comes
 * from which operand, and becomes which result. From the declaration and the attributes of a node; infer,
 * eval and lowering go through it, and know no positions. */
#ifndef HOP_OPS_OPERATOR_LAYOUT_H
#define HOP_OPS_OPERATOR_LAYOUT_H

#include "ir/operator.h"
#include "ops/build.h"

/* A strided part of a base: element (i, j, …) is element offset + i·strides[0] + j·strides[1] + … of it. The
 * attribute `views` has for each `mut` array that is there the base's number, the offset, the rank, and size
 * and stride of each dim. The node's operands are then those that are not `mut`, and behind them the bases,
 * whose new contents are its results behind the others. */
struct operator_view {
    dim offset;
    uint32_t rank;
    const dim *records; /* size 0, stride 0, size 1, stride 1, … */
};

/* One of the arrays that the operator's function gets, in its order: operands, results, `out` parameters. */
struct operator_slot {
    const struct operator_type *type; /* NULL: any, of an operator that takes any operands */
    const char *name;                 /* of its parameter, "" for a result */
    uint32_t param;                   /* its number, HOP_NONE: it is a result */
    uint32_t operand;                 /* of the node, that it comes from; HOP_NONE: none, or it is absent */
    uint32_t result;                  /* of the node, that it becomes; HOP_NONE: none */
    bool present, mut;
    bool found;                       /* a result with a size that the operator finds */
    const struct operator_view *view; /* of its operand; NULL: all of it */
};

struct operator_layout {
    const struct operator_decl *decl;
    uint32_t lanes;
    bool masked, together;
    uint32_t n_slots, n_given; /* n_given: slots that are operands; the others are results and `out` ones */
    struct operator_slot *slots;
    int32_t *counts; /* per parameter that is no `out`: its slots */
    uint32_t n_counts;
    uint32_t n_results; /* of the node */
};

/* Rank and dims of a slot whose operand has the type t, lanes' dims aside. */
static inline uint32_t slot_rank(const struct operator_layout *l, const struct operator_slot *s,
                                 struct type t)
{
    return s->view ? s->view->rank : t.rank - l->lanes;
}
static inline dim slot_dim(const struct operator_layout *l, const struct operator_slot *s, struct type t,
                           uint32_t d)
{
    return s->view ? s->view->records[2 * d] : t.dims[l->lanes + d];
}

/* NULL, or what is wrong. The layout and the text are in the arena. */
const char *operator_layout(struct operator_layout *out, struct arena *a, struct module *m,
                            const struct attr *attrs, uint32_t n_operands);
/* Of a node that was checked. */
struct operator_layout operator_layout_of(struct arena *a, struct module *m, const struct fn *f,
                                          const struct node *n);

#endif
