/* A loop program in pieces, for back ends that launch several kernels. A kernel is a run of statements of the
 * program's root block: one nest, branch or call with the scalars before it. What one kernel leaves for a
 * later one besides buffers (scalars, locals, small arrays on the stack) lies in the frame, a block of memory
 * of its own. */
#ifndef HOP_CUT_H
#define HOP_CUT_H

#include "loop/lp.h"

enum lp_cell_kind { CELL_VALUE, CELL_LOCAL };
enum { FRAME_VALUE = 8, FRAME_LOCAL = FRAME_VALUE * LP_STRICT_LANES }; /* bytes */
struct lp_cell { /* a scalar or a local that several kernels share */
    uint8_t kind;
    bool in, out;   /* read from the frame when the kernel begins, written there when it ends */
    uint32_t index; /* of the instruction or the local */
    int64_t at;     /* in the frame */
};
struct lp_kernel {
    uint32_t first, n; /* statements of the root block */
    /* Those it touches, each once, those of procedures that it calls included: numbered over the program and
     * all its procedures; not BUF_LOCAL and BUF_PARAM. */
    vec(uint32_t) buffers;
    vec(struct lp_cell) cells;
};
struct lp_cut {
    struct arena arena;
    vec(struct lp_kernel) kernels;
    int64_t frame_bytes;
    int64_t *array_at; /* per buffer of the program and its procedures: a BUF_LOCAL's place in the frame */
};
/* The program must be checked and planned. The caller frees the cut. */
struct lp_cut *lp_cut(const struct lp *p);
void lp_cut_free(void *cut); /* signature of a cleanup */

#endif
