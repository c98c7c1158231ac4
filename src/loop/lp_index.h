/* What the builder of loop programs knows of indices; lp_bin asks before it makes an instruction. */
#ifndef HOP_LP_INDEX_H
#define HOP_LP_INDEX_H

#include "loop/lp.h"

/* The numbers that `a op b` can be. */
struct lp_range lp_index_range(const struct lp *p, enum lp_op op, lpv a, lpv b);
/* `a op b` of two numbers: false where it is not defined. */
bool lp_index_fold(enum lp_op op, int64_t a, int64_t b, int64_t *out);
/* A simpler value equal to `a op b`; LPV_NONE: none is known. `op` is no comparison. */
lpv lp_index_simplify(struct lp *p, enum lp_op op, lpv a, lpv b);
/* What the comparison gives, as far as ranges tell; otherwise LPV_NONE. */
lpv lp_index_compare(struct lp *p, enum lp_op op, lpv a, lpv b);

#endif
