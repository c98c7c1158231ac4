/* Elements as numbers: what the bits of each dtype mean, f16 and bf16 in plain integer arithmetic included.
 * An element's memory or bits come in, C numbers go out, and back. Rounding is to nearest even and happens
 * once. */
#ifndef HOP_NUMBER_H
#define HOP_NUMBER_H

#include "ir/ir.h"

static inline uint32_t f32_bits(float x)
{
    uint32_t u;
    return memcpy(&u, &x, sizeof u), u;
}
static inline float f32_of_bits(uint32_t u)
{
    float x;
    return memcpy(&x, &u, sizeof x), x;
}
static inline uint64_t f64_bits(double x)
{
    uint64_t u;
    return memcpy(&u, &x, sizeof u), u;
}
static inline double f64_of_bits(uint64_t u)
{
    double x;
    return memcpy(&x, &u, sizeof x), x;
}

/* ---- f16: sign, 5 bits of exponent, 10 of fraction ---- */

/* Exact; a NaN becomes quiet. Subnormals are brought up by a subtraction: 2^-14·(1 + f) - 2^-14 = 2^-14·f. */
static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t rest = (uint32_t)(h & 0x7fff) << 13;
    uint32_t exponent = rest & 0x0f800000;
    uint32_t normal = rest + 0x38000000, special = rest | 0x7f800000 | (rest & 0x007fffff ? 0x00400000 : 0);
    uint32_t small = f32_bits(f32_of_bits(rest + 0x38800000) - 0x1p-14f);
    return f32_of_bits(sign | (exponent == 0x0f800000 ? special : exponent ? normal : small));
}

/* Below 2^-14 an f32 whose last bit stands for 2^-24 does the rounding. */
static inline uint16_t f16_of_f32(float x)
{
    uint32_t u = f32_bits(x), sign = u >> 16 & 0x8000, rest = u & 0x7fffffff;
    uint32_t normal = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
    uint32_t small = f32_bits(f32_of_bits(rest) + 0.5f) - 0x3f000000;
    uint32_t large = rest > 0x7f800000 ? 0x7e00 | (rest >> 13 & 0x3ff) : 0x7c00;
    return (uint16_t)(sign | (rest >= 0x47800000 ? large : rest < 0x38800000 ? small : normal));
}

/* ---- bf16: the upper half of an f32 ---- */

static inline float bf16_to_f32(uint16_t h) { return f32_of_bits((uint32_t)h << 16); }

static inline uint16_t bf16_of_f32(float x)
{
    uint32_t u = f32_bits(x), rounded = u + 0x7fff + (u >> 16 & 1);
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded >> 16);
}

/* ---- by way of f32 without rounding twice ---- */

/* The f32 next to x whose last bit is 1 when x is none itself. Rounded again to a type that is at least two
 * bits shorter, the result is that of rounding x. */
static inline float f32_to_odd(double x)
{
    float f = (float)x;
    double back = (double)f;
    uint32_t u = f32_bits(f);
    bool above = (back < 0 ? -back : back) > (x < 0 ? -x : x); /* further from 0 */
    return back < x || back > x ? f32_of_bits((u - above) | 1) : f;
}
static inline uint16_t f16_of_f64(double x) { return f16_of_f32(f32_to_odd(x)); }
static inline uint16_t bf16_of_f64(double x) { return bf16_of_f32(f32_to_odd(x)); }

/* The same idea for integers of more than 53 bits: the low twelve become one. */
static inline double f64_to_odd_u64(uint64_t x)
{
    return (double)(x >> 53 ? (x & ~(uint64_t)0xfff) | (uint64_t)((x & 0xfff) != 0) << 12 : x);
}
static inline double f64_to_odd_i64(int64_t x)
{
    return x < 0 ? -f64_to_odd_u64(0 - (uint64_t)x) : f64_to_odd_u64((uint64_t)x);
}

/* ---- floats to integers: truncated, saturated, NaN gives 0 ---- */

/* The bounds are powers of two, so they are exact. */
#define NUMBER_SATURATE(T, type, low, above, least, most) \
    static inline type T##_of_f64(double x) \
    { \
        return x != x ? 0 : x >= (above) ? (most) : x <= (low) - 1 ? (least) : (type)x; \
    }
NUMBER_SATURATE(i8, int8_t, -0x1p7, 0x1p7, INT8_MIN, INT8_MAX)
NUMBER_SATURATE(i16, int16_t, -0x1p15, 0x1p15, INT16_MIN, INT16_MAX)
NUMBER_SATURATE(i32, int32_t, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
NUMBER_SATURATE(u8, uint8_t, 0.0, 0x1p8, 0, UINT8_MAX)
NUMBER_SATURATE(u16, uint16_t, 0.0, 0x1p16, 0, UINT16_MAX)
NUMBER_SATURATE(u32, uint32_t, 0.0, 0x1p32, 0, UINT32_MAX)
NUMBER_SATURATE(u64, uint64_t, 0.0, 0x1p64, 0, UINT64_MAX)
static inline int64_t i64_of_f64(double x)
{
    return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}
#undef NUMBER_SATURATE

/* ---- elements of any dtype ---- */

/* Smallest and largest of an integer dtype or bool; u64's largest is beyond int64_t and comes as INT64_MAX.
 */
int64_t dtype_least(enum dtype t);
int64_t dtype_most(enum dtype t);

/* An integer or bool; of u64 the bits. */
int64_t element_whole(enum dtype t, const void *at);
static inline int64_t element_index(enum dtype t,
                                    const void *at) /* as an index: u64 from 2^63 on is the largest int64_t */
{
    int64_t v = element_whole(t, at);
    return t == DT_U64 && v < 0 ? INT64_MAX : v;
}
/* Any element; exact but for i64 and u64 beyond 2^53. */
double element_real(enum dtype t, const void *at);
/* The low bits; floats are rounded once, bool is whether it is not 0. */
void element_set_whole(enum dtype t, void *at, int64_t value);
/* As a cast from f64. */
void element_set_real(enum dtype t, void *at, double value);

/* Bits of one element, zeros above. */
static inline uint64_t element_bits(enum dtype t, const void *at)
{
    uint64_t bits = 0;
    return memcpy(&bits, at, dtype_info[t].size), bits;
}
static inline uint64_t real_bits(enum dtype t, double value)
{
    uint64_t bits = 0;
    return element_set_real(t, &bits, value), bits;
}
/* Sign, exponent and fraction of a float dtype's bits. */
struct float_layout {
    uint64_t sign, infinity, quiet;
};
struct float_layout dtype_float_layout(enum dtype t);

#endif
