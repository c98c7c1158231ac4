/* Which rank this process is, where it is one of several that run one program (MPI). */
#ifndef HOP_DIST_PROCESS_H
#define HOP_DIST_PROCESS_H

#include "dist/dist.h"

/* The rank that programs over a mesh run as here; NULL: all ranks are threads of this process. */
struct rank *dist_process(void);
void dist_process_set(struct rank *r);

#endif
