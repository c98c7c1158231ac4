/* What passes ask of first-order rows: `range`, `same` and `fold` rules, by the file that has them. Rules
 * that only one row uses stand beside that row, static. */
#ifndef HOP_OPS_FACTS_H
#define HOP_OPS_FACTS_H

#include "transform/fold.h"
#include "transform/ranges.h"

/* elementwise_facts.c */
struct range range_add(const struct range_in *w);
struct range range_sub(const struct range_in *w);
struct range range_neg(const struct range_in *w);
struct range range_mul(const struct range_in *w);
struct range range_abs(const struct range_in *w);
struct range range_sign(const struct range_in *w);
struct range range_max(const struct range_in *w);
struct range range_min(const struct range_in *w);
struct range range_div(const struct range_in *w);
struct range range_floor_div(const struct range_in *w);
struct range range_rem(const struct range_in *w);
struct range range_mod(const struct range_in *w);
struct range range_clamp(const struct range_in *w);
struct range range_select(const struct range_in *w);
struct range range_cast(const struct range_in *w);
struct range range_comparison(const struct range_in *w);
struct range range_not(const struct range_in *w);
struct range range_and(const struct range_in *w);
struct range range_or(const struct range_in *w);
val same_max(const struct range_in *w);
val same_min(const struct range_in *w);
val same_clamp(const struct range_in *w);
val same_rem(const struct range_in *w); /* mod, too */
val same_abs(const struct range_in *w);
val same_cast(const struct range_in *w);
val fold_add(const struct fold *w);
bool fold_never_negative_zero(const struct fold *w, val v); /* surely no element is -0 */
val fold_sub(const struct fold *w);
val fold_mul(const struct fold *w);
val fold_div(const struct fold *w);
val fold_pow(const struct fold *w);
val fold_idempotent(const struct fold *w); /* of x and x it is x: max min */
val fold_involution(const struct fold *w); /* twice it is nothing: neg not */
val fold_and(const struct fold *w);
val fold_or(const struct fold *w);
val fold_comparison(const struct fold *w);
val fold_abs(const struct fold *w);
val fold_select(const struct fold *w);
val fold_cast(const struct fold *w);

/* shape_facts.c */
struct range range_of_operand(const struct range_in *w);  /* elements of operand 0, arranged */
struct range range_of_two(const struct range_in *w);      /* of operands 0 and 1 */
struct range range_of_operands(const struct range_in *w); /* of all */
val fold_reshape(const struct fold *w);
val fold_permute(const struct fold *w);
val fold_broadcast(const struct fold *w);
val fold_slice(const struct fold *w);
val fold_reverse(const struct fold *w);
val fold_concat(const struct fold *w);
val fold_pad(const struct fold *w);
val fold_sum_of_pads(const struct fold *w); /* of add: both operands are padded with zeros, side by side */
val fold_dynamic_slice(const struct fold *w);
val fold_dynamic_update(const struct fold *w);
#define SLICED_RULE(name) \
    bool name(const struct module *m, const struct fn *f, const struct node *n, uint32_t axis, \
              uint32_t *along)
SLICED_RULE(sliced_anywhere); /* there are no operands, and the result is the same along every dim */
SLICED_RULE(sliced_same);     /* index by index its operand */
SLICED_RULE(sliced_iota);
SLICED_RULE(sliced_reshape);
SLICED_RULE(sliced_slice);
SLICED_RULE(sliced_pad);
SLICED_RULE(sliced_concat);
SLICED_RULE(sliced_reverse);

#endif
