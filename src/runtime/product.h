/* Matrix products by hop's own kernels. */
#ifndef HOP_PRODUCT_H
#define HOP_PRODUCT_H

#include "ir/ir.h"

/* C = op(A) op(B), or C += op(A) op(B), of row-major matrices; `batch` of them, so many elements apart. */
struct product {
    enum dtype c_dtype, a_dtype, b_dtype;
    int32_t ta, tb, accumulate; /* tb: enum hop_rt_form */
    int64_t m, n, k, lda, ldb, ldc;
    int64_t batch, a_apart, b_apart, c_apart;
    const char *a, *b;
    char *c;
};

struct hop_rt;
/* Of f32 or f64 throughout, or what lp_multiplies says is converted. Large ones are cut, and the pieces go to
 * rt->parallel; no result depends on how. Not 0: the run was ended, and C holds anything. */
int32_t product_multiply(struct hop_rt *rt, const struct product *p);
/* op(B) into panels at C, which products with tb == HOP_RT_PANELS read: lp_panels_count elements at most.
 * Those of narrow elements are for products that lp_packs allows. */
int32_t product_pack(struct hop_rt *rt, const struct product *p);

#endif
