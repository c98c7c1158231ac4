/* Which dims of a product's operands play which part. The same for dot and matmul, so that rules and the
 * compiler see one operator: result dims are the batch dims, then the free dims of lhs, then the free dims of
 * rhs. */
#ifndef HOP_OPS_DOT_H
#define HOP_OPS_DOT_H

#include "loop/lower.h" /* struct dot_dims */

/* Of a dot or matmul node. */
void dot_dims(const struct module *m, const struct fn *f, const struct node *n, struct dot_dims *out);

#endif
