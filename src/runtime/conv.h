/* Convolutions by the kernels of products. */
#ifndef HOP_CONV_H
#define HOP_CONV_H

struct hop_rt;
struct hop_rt_conv;
/* Of floats that lp_multiplies allows. Cut by shape alone, and the pieces go to rt->parallel; no result
 * depends on how. */
void conv_multiply(struct hop_rt *rt, const struct hop_rt_conv *c);

#endif
