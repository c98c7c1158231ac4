/* Ranges of integers: between which two numbers every element of a value surely lies, found by going through
 * a function with intervals in place of numbers. What an operator makes of intervals is its row's `range`.
 * Carries of loops are found by widening. Nothing is claimed of floats. */
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
static inline struct range range_join(struct range x, struct range y)
{
    return (struct range){ HOP_MIN(x.lo, y.lo), HOP_MAX(x.hi, y.hi) };
}
/* Without an upper end: values beyond INT64_MAX are possible. */
static inline bool range_is_open(enum dtype t, struct range r) { return t == DT_U64 && r.hi == INT64_MAX; }
/* The range if both ends are numbers of t, else anything: a result that may wrap around. */
struct range range_wrapped(enum dtype t, __int128 lo, __int128 hi);
/* Does `r` hold between numbers of these ranges of dtype t: 0 or 1, -1: it can be either. */
int range_compare(enum comparison r, enum dtype t, struct range x, struct range y);

/* What a row's `range` and `same` see: a node with one result, which is no float, and the ranges of f's
 * values up to it. */
struct range_in {
    struct module *m;
    const struct fn *f;
    const struct node *n;
    const struct range *values; /* per value of f */
    enum dtype t, from;         /* of the result, of operand 0 (without operands: of the result) */
    struct range x, y, z;       /* of its first three operands */
};
struct range_in range_in(struct module *m, const struct fn *f, const struct node *n,
                         const struct range *values);
/* Has an operand no upper end? Then nothing can be computed with its ends. */
bool range_in_is_open(const struct range_in *w);
struct range range_of_dim(const struct range_in *w, dim d);

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

#endif
