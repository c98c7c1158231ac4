/* Runs of back ends that have a memory of their own, step by step. */
#ifndef HOP_LAUNCH_H
#define HOP_LAUNCH_H

#include "runtime/exe_impl.h"

struct hop_rt;

/* Constants into the back end's memory, once for the executable: `brought`. */
void launch_constants(struct exe *e);
void launch_constants_free(struct exe *e);

/* Goes through the launch plan. `buffers` hold the host's memory of arguments and results, and addresses of
 * the back end's memory for all others. */
int32_t launch_plan(const struct exe *e, struct hop_rt *rt, void **buffers, int64_t *symbols);

#endif
