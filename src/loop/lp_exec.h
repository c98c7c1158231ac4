/* Running a loop program as it stands, one scalar after the other: whole (lp_execute, in lp.h), or kernel by
 * kernel on memory that only a machine can reach. */
#ifndef HOP_LP_EXEC_H
#define HOP_LP_EXEC_H

#include "loop/cut.h"
#include "loop/rt.h"

/* What a program runs on. */
struct lp_machine {
    struct hop_rt *rt;
    void **buffers; /* addresses, per buffer of the program and its procedures */
    int64_t *symbols;
    const int64_t *counts; /* elements of each buffer; NULL: the program's module says */
    /* Memory behind an address of this machine; throws when `bytes` from there on are not all its own. NULL:
     * addresses are the host's. */
    void *(*reach)(void *address, size_t bytes, const char *buffer);
    const struct lp_cut *cut; /* NULL: the program runs whole */
    void *frame;              /* with it: an address of cut->frame_bytes */
};
struct executor;
/* One run's, in the arena; program and machine stay as long. */
struct executor *lp_executor(const struct lp *p, const struct lp_machine *machine, struct arena *a);
/* The next kernel of the cut. It reaches the buffers that the cut lists for it, and knows no scalar of an
 * earlier kernel but those of the frame. */
int32_t lp_execute_kernel(struct executor *e, uint32_t kernel);

#endif
