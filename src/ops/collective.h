/* Running collectives: what collective.c's rows do on ranks, in the interpreter and in loop programs. */
#ifndef HOP_OPS_COLLECTIVE_H
#define HOP_OPS_COLLECTIVE_H

#include "loop/lower.h"

/* Throws where an attribute says another number of lanes than the mesh's axis has; an axis without a mesh may
 * have any. */
void collective_check_size(struct infer *in);

void eval_vary(struct eval *e);
void eval_rank_count(struct eval *e);
void eval_exchange(struct eval *e); /* all others */

extern const struct op_lower lower_vary, lower_rank_count, lower_exchange;

#endif
