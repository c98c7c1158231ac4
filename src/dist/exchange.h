/* Exchanges of programs: what native code and the interpreter ask for (loop/rt.h) is done among the ranks
 * along an axis of a mesh by the rank that the calling thread runs. Where no job is, a mesh of one rank
 * works. Functions return a status, set hop_message() and do not throw. */
#ifndef HOP_DIST_EXCHANGE_H
#define HOP_DIST_EXCHANGE_H

#include "dist/dist.h"
#include "loop/rt.h"

/* r NULL: no job. When it returns HOP_OK, request->comm is NULL where there is nothing to wait for. */
hop_status exchange_begin(struct rank *r, const struct hop_rt_exchange *x, struct dist_request *request);
hop_status exchange_wait(struct dist_request *request);
/* Both, by the calling thread's rank: for the interpreter. */
hop_status exchange_do(const struct hop_rt_exchange *x);

#endif
