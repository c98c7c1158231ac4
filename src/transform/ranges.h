/* Ranges of integers: between which two numbers every element of a value surely lies, found by going through
 * a function with intervals in place of numbers. Carries of loops are found by widening. Nothing is claimed
 * of floats. */
#ifndef HOP_RANGES_H
#define HOP_RANGES_H

#include "ir/table.h"

/* lo <= every element <= hi. u64: a hi of INT64_MAX means no bound. Of a float: no claim, whatever stands
 * there. */
struct range {
    int64_t lo, hi;
};
struct range range_of_dtype(enum dtype t); /* all there is */
static inline bool range_is_point(struct range r) { return r.lo == r.hi && r.hi < INT64_MAX; }
static inline bool range_equal(struct range x, struct range y) { return x.lo == y.lo && x.hi == y.hi; }

/* Ranges of all values of f; of its parameters: those given (NULL: nothing is known of them). Values of nodes
 * in loops nested too deeply get all there is. */
struct range *ranges_of_values(struct arena *a, struct module *m, const struct fn *f,
                               const struct range *params);
/* What the parameters of region r of n are, in every step where it is a loop's. values: of f's values, as far
 * as n's operands. */
struct range *ranges_of_region(struct arena *a, struct module *m, const struct fn *f, const struct node *n,
                               uint32_t r, const struct range *values);
/* By how much a scalar integer carry grows from step to step, where that is one number. values: of the body's
 * values. Counted in the dtype, wrapped around into it. */
bool carry_step(struct module *m, const struct fn *body, uint32_t carry, const struct range *values,
                int64_t *step);
/* The comparison of two ranges of dtype t: 0 or 1, -1: it can be either. */
int range_compare(enum op op, enum dtype t, struct range x, struct range y);

#endif
