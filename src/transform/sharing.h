/* Calls: the body is put in place of the call, or stays a function that is called. Here alone it is decided,
 * in this order: the budget (a program does not become many times as large), what the call itself says
 * (its attribute `inline`), size. The pass `inline` asks about every call, lowering again about those that
 * are left. */
#ifndef HOP_SHARING_H
#define HOP_SHARING_H

#include "ir/table.h"

/* The code that a function's nodes become, bodies not counted, in nodes that compute an element. */
uint64_t own_code(const struct fn *f);
/* With its bodies in place; counted up to `limit` and a little more. */
uint64_t body_code(const struct module *m, const struct fn *f, uint64_t limit);
/* The most code that is put in place however many call it. */
uint64_t small_body_code(void);

/* The work of a body before lowering, when passes are still changing it: calls of what is neither small nor
 * anybody's only body stay. */
#define WORK_UNKNOWN INT64_MAX
struct shared_body {
    uint64_t code, copies; /* with its bodies in place; of it, if it were */
    int64_t work;          /* of a call (run_cost) */
    bool in_loop;          /* any call stands in one */
};

enum placing { CALLED_FOR_BUDGET, CALLED_AS_WRITTEN, CALLED_FOR_SIZE, PLACED_AS_WRITTEN, PLACED_FOR_SIZE };
/* over_budget: in place of its calls, with all that is there already, it would be too much. */
enum placing place_call(bool over_budget, enum inlining written, const struct shared_body *b);
static inline bool is_placed(enum placing p) { return p >= PLACED_AS_WRITTEN; }
/* "by its size", for texts. */
const char *placing_reason(enum placing p);

#endif
