/* What is computed once: a function is cut into one that computes what its `once` regions give, from
 * parameters that are constant alone, and one that takes that as further parameters. */
#ifndef HOP_ONCE_H
#define HOP_ONCE_H

#include "ir/table.h"

/* Which parameters are constant. */
struct once_marks {
    const uint8_t *params; /* per parameter; NULL: none */
    bool all;
};
struct once_split {
    uint32_t init; /* (constant parameters…) -> (kept values…) */
    uint32_t main; /* (parameters…, kept values…) -> (results…) */
    uint32_t n_inputs;
    const uint32_t *inputs; /* per parameter of init: which one of the function it is */
    uint32_t n_kept;
};
/* False: the function keeps nothing. Throws where a region that must be computed once reads what is not
 * constant. The list is in the arena. */
bool once_split(struct arena *a, struct module *m, uint32_t fn, const struct once_marks *marks,
                struct once_split *out);

#endif
