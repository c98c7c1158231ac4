/* One call of an operator from outside by compiled code: what the loop program gives becomes what the
 * operator's function takes. */
#ifndef HOP_OPERATOR_CALL_H
#define HOP_OPERATOR_CALL_H

#include "loop/rt.h"
#include "ops/operators.h"
#include "runtime/exe_impl.h"

/* 0: done; else the status that the run ends with, and `note` says why. Throws nothing: it runs below native
 * code. */
int operator_call(const struct registered *of, const struct site *site, const struct memory_space *space,
                  struct hop_rt *rt, struct hop_rt_call *call, char *note, size_t room);

#endif
