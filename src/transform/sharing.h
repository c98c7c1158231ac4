/* Bodies with several callers: put in place of each call, or compiled once and called. Here alone it is
 * decided: the pass `inline` asks what it may always put in place, lowering about the calls that are left. */
#ifndef HOP_SHARING_H
#define HOP_SHARING_H

#include "ir/ir.h"

/* The code that a function's nodes become, bodies not counted, in nodes that compute an element. */
uint64_t own_code(const struct fn *f);
/* With its bodies in place; counted up to `limit` and a little more. */
uint64_t body_code(const struct module *m, const struct fn *f, uint64_t limit);
/* The most code that is put in place however many call it. */
uint64_t small_body_code(void);

struct shared_body {
    uint64_t code, copies; /* with its bodies in place; of it, if it were */
    int64_t work;          /* of a call (run_cost) */
    bool in_loop;          /* any call stands in one */
};
/* Is it better compiled once? */
bool sharing_pays(const struct shared_body *b);

#endif
