/* Texts that the interpreter and compiled code must give alike. */
#ifndef HOP_OPS_MISC_H
#define HOP_OPS_MISC_H

#include "ir/table.h"

/* "PLACE: check: MESSAGE (value, value)"; `place` is what place_text gives ("file:line:col: " or ""), the
 * list is left out when n is 0. */
void check_failed_text(struct text *out, const char *place, const char *stack, const char *message,
                       struct tensor *const *values, uint32_t n);
/* What a bind_dim whose operand is out of its range says, as the message of a check with the operand as its
 * value. */
extern const char bind_dim_message[];

#endif
