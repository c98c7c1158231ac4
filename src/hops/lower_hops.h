/* The compile column of the higher-order rows. */
#ifndef HOP_LOWER_HOPS_H
#define HOP_LOWER_HOPS_H

#include "loop/lower.h"

/* steps_lower: loops whose number of steps is known before the first. */
extern const struct op_lower steps_lower, while_lower, switch_lower, invoke_lower, associative_lower;

/* The block of invoke_lower, and how it uses operands: the body, in place or called. */
void lower_call(struct lower *L, const struct fn *f, const struct node *n);
uint8_t lower_call_use(const struct fn *f, const struct node *n, uint32_t i);

/* Does nobody read result k of a switch when that branch has run? */
bool switch_result_unread(struct lower *L, const struct fn *f, const struct node *n, uint32_t branch,
                          uint32_t k);

/* What a while_loop that runs past max_trips says, with the limit as the value shown. */
#define WHILE_TRIPS_MESSAGE "the loop ends within max_trips"

/* What a fori_loop says that stacks more rows than any memory holds. */
#define FORI_ROWS_MESSAGE "the stacked rows of the loop fit into memory"
enum { FORI_ROWS_BITS = 36 };

#endif
