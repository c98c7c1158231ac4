/* What running a function costs, as a guess. */
#ifndef HOP_COST_H
#define HOP_COST_H

#include "ir/ir.h"

/* Guesses for choices (cost.c): what running a function costs, in bytes that could move to or from memory
 * meanwhile; how many bytes a value has. */
int64_t run_cost(struct module *m, uint32_t fn);
int64_t node_cost(struct module *m, const struct fn *f, const struct node *n);
int64_t guessed_bytes(const struct module *m, const struct symbol *symbols, type_id t);

#endif
