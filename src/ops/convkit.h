/* Which dims of a convolution's operands play which part, and how windows lie: what the row's rules and its
 * lowering read of a conv_general node. */
#ifndef HOP_OPS_CONVKIT_H
#define HOP_OPS_CONVKIT_H

#include "loop/lower.h"

/* Parts of dims, in the order in which x_dims, w_dims and y_dims list them; spatial ones follow. */
enum { CONV_BATCH = 0, CONV_GROUP = 1, CONV_CHANNEL = 2, CONV_SPATIAL = 3 }; /* of x */
enum { CONV_W_GROUP = 0, CONV_W_OUT = 1 };                                   /* of w; then as x has them */
enum { CONV_OUT = 2 };                                                       /* of y; else as x has them */

struct conv_dims {
    uint32_t n_spatial;
    const uint32_t *x, *w, *y; /* the dim that plays each part */
    /* Per spatial dim. An element i of x meets tap t of w for result o where i · x_dilation = o · stride + t
     * · w_dilation - low; with `turned` tap t is the one that is t before the last. */
    bool turned;
    int64_t stride[MAX_RANK], x_dilation[MAX_RANK], w_dilation[MAX_RANK];
    dim low[MAX_RANK], high[MAX_RANK];
};
/* Of a conv_general's attributes. */
struct conv_dims conv_dims(const struct attr *attrs);

extern const struct op_lower conv_lower;

#endif
