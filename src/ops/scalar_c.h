/* Scalar operations as plain C: what the interpreter computes with. A kernel works on arrays of one dtype,
 * element by element. */
#ifndef HOP_SCALAR_C_H
#define HOP_SCALAR_C_H

#include "ir/table.h"

/* out[i] = op(in[0][i], in[1][i], …) for i < n. */
typedef void (*scalar_kernel)(int64_t n, void *out, const void *const *in);

/* The kernel of an elementwise operator whose last operand has this dtype; NULL: there is none. f16 and bf16
 * have none of their own. */
scalar_kernel scalar_c_kernel(enum op op, enum dtype t);
/* Is the operator defined when its last operand has this dtype? */
bool scalar_c_defined(enum op op, enum dtype t);
/* out[i] = op(in[0][i], …) for operands of the given dtypes: f16 and bf16 are computed as f32, and a result
 * is rounded once. */
void scalar_c_apply(enum op op, int64_t n, enum dtype to, void *out, uint32_t n_in, const uint8_t *dtypes,
                    const void *const *in);
scalar_kernel scalar_c_cast(enum dtype from, enum dtype to);
/* Makes t a copy of itself in another dtype, in the arena. */
void scalar_c_convert(struct arena *a, struct tensor *t, enum dtype to);

/* The two words of a random block: element `position` of a draw with this key. A second, independent block
 * has `second` set. */
void scalar_c_block(const uint32_t key[2], uint64_t position, bool second, uint32_t out[2]);
/* f16 and bf16 take as many first bits of the word as they have of precision, so that no result is rounded up
 * to 1. */
static inline uint32_t scalar_uniform_mask(enum dtype t)
{
    return t == DT_F16 ? 0xffe00000u : t == DT_BF16 ? 0xff000000u : 0xffffffffu;
}
/* Element `position` of a draw: OP_random_uniform or OP_random_normal in a float dtype. */
void scalar_c_draw(enum op op, enum dtype t, const uint32_t key[2], uint64_t position, void *out);
float scalar_c_uniform_f32(const uint32_t key[2], uint64_t position);
double scalar_c_uniform_f64(const uint32_t key[2], uint64_t position);
float scalar_c_normal_f32(const uint32_t key[2], uint64_t position);
double scalar_c_normal_f64(const uint32_t key[2], uint64_t position);

/* A fold's step as LP_ACCUM defines it; `fold` is an enum lp_fold. NULL where it is not defined. Folds n
 * elements, `stride` apart, into `lanes`, which are of t's accumulator (f32 for f16 and bf16, t for the
 * others): element i goes to lane i % n_lanes. */
typedef void (*scalar_fold)(int64_t n, int64_t stride, uint32_t n_lanes, void *lanes, const void *in);
scalar_fold scalar_c_fold(uint32_t fold, enum dtype t);
/* The fold's identity, one element. */
void scalar_c_identity(uint32_t fold, enum dtype t, void *out);

#endif
