/* Policies that a function of the user's decides (policy.c). */
#ifndef HOP_POLICY_H
#define HOP_POLICY_H

#include "ir/ir.h"

/* Is a value kept? Of an operator by name, its type as text, its name or NULL. 1: yes, 0: no; all else is a
 * status that is thrown. */
typedef int (*policy_question)(void *user, const char *op, const char *type, const char *name);
/* The body, its values tagged as the function, or the policy in words (NULL: none), wants them kept;
 * *recompute: all others are run again. */
uint32_t policy_asked(struct module *m, uint32_t fn, const char *text, policy_question ask, void *user,
                      bool *recompute);

#endif
