/* Scalar operations as loop program expressions: what the compiler makes of elementwise and random operators.
 * Same functions as scalar_c.h. */
#ifndef HOP_SCALAR_LP_H
#define HOP_SCALAR_LP_H

#include "ir/table.h"
#include "loop/lp.h"

/* An elementwise operator (all but cast) of scalar operands. */
lpv scalar_lp(struct lp *p, enum op op, const lpv *operands);

/* Element `position` (i64, not negative) of a draw with a key of two u32: random_bits, random_uniform or
 * random_normal; t is the result's dtype. */
lpv scalar_lp_random(struct lp *p, enum op op, enum dtype t, const lpv key[2], lpv position);

#endif
