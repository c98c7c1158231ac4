/* What the parts of the row of associative_scan share: the row itself (associative_scan.c) and its reverse
 * mode (associative_vjp.c). */
#ifndef HOP_ASSOCIATIVE_H
#define HOP_ASSOCIATIVE_H

#include "hops/hops.h"

static inline uint32_t associative_dim(const struct attr *attrs)
{
    return attrs[ASSOCIATIVE_DIM].kind == ATTR_INT ? (uint32_t)attrs[ASSOCIATIVE_DIM].i : 0;
}
static inline bool associative_reverse(const struct attr *attrs)
{
    return attrs[ASSOCIATIVE_REVERSE].kind != ATTR_ABSENT;
}
val emit_associative(struct builder *b, const val *xs, uint32_t n, uint32_t along, bool reverse,
                     struct region_in region);

/* A function each element of whose results depends on that element of its parameters alone: elementwise nodes
 * over values of a slice's shape or over scalars, numbers and scalars spread over a slice. It means the same
 * over arrays of any other shape in a slice's place. */
bool is_pointwise(struct module *m, const struct fn *g, struct type slice);
/* Emits it over arrays of other dims; values of rank 0 stay so unless slices are scalars. symbols: what its
 * outer symbols are in b, NULL: its symbol k is b's. */
void emit_pointwise(struct builder *b, uint32_t fn, const dim *symbols, uint32_t slice_rank, uint32_t rank,
                    const dim *dims, const val *args, val *results);
bool combines_pointwise(struct module *m, const struct fn *g,
                        uint32_t n); /* the same of a combine function of n leaves, all of one shape */

void associative_vjp_forward(struct vjp_forward *v);
void associative_vjp(struct vjp *v);

/* How the gradient goes back. Both give the same numbers up to rounding; for tests and measurements the
 * choice can be taken from the numbers in associative_vjp.c. */
enum associative_form { FORM_BY_COST, FORM_SEQUENTIAL, FORM_AFFINE };
extern _Thread_local enum associative_form associative_form;

#endif
