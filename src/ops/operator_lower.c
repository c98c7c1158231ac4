/* How calls of operators from outside are compiled. */
#include "loop/lower.h"
#include "ops/operator_layout.h"

extern const struct op_lower lower_operator;

static void block_operator(struct lower *L, const struct fn *f, const struct node *n)
{
    const struct attr *name = node_attr(f, n, OPERATOR_NAME);
    hop_throw(HOP_UNAVAILABLE,
              "%sthe operator '%s' comes from outside, and such programs are interpreted so far",
              place_text(lower_module(L), n->place), module_text(lower_module(L), (uint32_t)name->i));
}

static uint8_t use_array(const struct fn *f, const struct node *n, uint32_t i)
{
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    HOP_UNUSED(i);
    return USE_ARRAY;
}

const struct op_lower lower_operator = { .kind = LOWER_BLOCK,
                                         .access = ACCESS_SAME,
                                         .cost = COST_EXPENSIVE,
                                         .block = block_operator,
                                         .operand_use = use_array };
