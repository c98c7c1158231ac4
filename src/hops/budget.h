/* Checkpointing within a budget of memory. */
#ifndef HOP_BUDGET_H
#define HOP_BUDGET_H

#include "ir/ir.h"

struct budget {
    uint32_t id; /* string id of the policy */
    const char *text;
    int64_t bytes; /* 0: share */
    double share;  /* of what the gradient needs without a policy */
};
/* At what price the gradient of a body, asked for active parameters and wanted results, stays within the
 * budget. Throws the least that it needs where that is more; n: the call. */
struct price budget_price(struct module *m, uint32_t fn, const struct budget *budget, const struct node *n,
                          const bool *active, const bool *wanted);
/* Bytes that a function needs at most at one time for what it computes, arguments and results not counted;
 * with guesses for sizes that are not known. */
int64_t memory_of(struct module *m, uint32_t fn);

#endif
