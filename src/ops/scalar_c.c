/* The C instantiation of the scalar vocabulary, and kernels over arrays for every elementwise operator, cast and fold. Loop programs define the same
 * operations in loop/lp.h; the two must agree bit for bit. */
#include "ops/scalar_c.h"
#include "loop/lp.h"

#include <float.h>
#include <math.h>

_Static_assert(FLT_EVAL_METHOD == 0, "floats must be computed in their own precision");

typedef float F32;
typedef double F64;
typedef uint32_t U32;
typedef uint64_t I64;
typedef bool BOOL;

#define CTX
#define PASS
#define CONTRACTS 0 /* are products and sums fused? */
#define NAME(x) c_##x
#define F32_K(x) ((float)(x))
#define F64_K(x) ((double)(x))
#define U32_K(x) ((uint32_t)(x))
#define I64_K(x) ((uint64_t)(x))
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define NEG(a) (-(a))
#define ABS(a) _Generic((a), float: fabsf, default: fabs)(a)
#define SQRT(a) _Generic((a), float: sqrtf, default: sqrt)(a)
#define FLOOR(a) _Generic((a), float: floorf, default: floor)(a)
#define LT(a, b) ((a) < (b))
#define GT(a, b) ((a) > (b))
#define EQ(a, b) ((a) == (b))
#define NE(a, b) ((a) != (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
#define XOR(a, b) ((a) ^ (b))
#define SHL(a, n) ((a) << (n))
#define SHR(a, n) ((a) >> (n))
#define SELECT(c, a, b) ((c) ? (a) : (b))
#define TO_F64(x) ((double)(x))
#define TO_F32(x) ((float)(x))
#define LOW32(x) ((uint32_t)(x))
#define F32_INT(x) ((float)(int32_t)(x))
#define F64_INT(x) ((double)(int32_t)(x))

static inline uint32_t BITS32(float x) { uint32_t u; return memcpy(&u, &x, sizeof u), u; }
static inline float FLOAT32(uint32_t u) { float x; return memcpy(&x, &u, sizeof x), x; }
static inline uint64_t BITS64(double x) { uint64_t u; return memcpy(&u, &x, sizeof u), u; }
static inline double FLOAT64(uint64_t u) { double x; return memcpy(&x, &u, sizeof x), x; }

#define WIDTH 32
#include "ops/scalar_math.h"
#define WIDTH 64
#include "ops/scalar_math.h"

/* ---- scalars that C leaves undefined or defines otherwise ---- */

#define INT_RULES(T, type, unsigned_type, smallest) \
    static inline type div_##T(type x, type y) { return y == 0 ? 0 : y == (type)-1 && x == smallest ? x : (type)(x / y); } \
    static inline type rem_##T(type x, type y) { return y == 0 ? x : y == (type)-1 ? 0 : (type)(x % y); } \
    static inline type add_##T(type x, type y) { return (type)((unsigned_type)x + (unsigned_type)y); } \
    static inline type sub_##T(type x, type y) { return (type)((unsigned_type)x - (unsigned_type)y); } \
    static inline type mul_##T(type x, type y) { return (type)((unsigned_type)x * (unsigned_type)y); } \
    static inline type max_##T(type x, type y) { return x > y ? x : y; } \
    static inline type min_##T(type x, type y) { return x < y ? x : y; } \
    static inline type sign_##T(type x) { return (type)((x > 0) - (x < 0)); }
INT_RULES(i32, int32_t, uint32_t, INT32_MIN)
INT_RULES(i64, int64_t, uint64_t, INT64_MIN)
static inline uint32_t div_u32(uint32_t x, uint32_t y) { return y ? x / y : 0; }
static inline uint32_t rem_u32(uint32_t x, uint32_t y) { return y ? x % y : x; }
static inline uint32_t add_u32(uint32_t x, uint32_t y) { return x + y; }
static inline uint32_t sub_u32(uint32_t x, uint32_t y) { return x - y; }
static inline uint32_t mul_u32(uint32_t x, uint32_t y) { return x * y; }
static inline uint32_t max_u32(uint32_t x, uint32_t y) { return x > y ? x : y; }
static inline uint32_t min_u32(uint32_t x, uint32_t y) { return x < y ? x : y; }
static inline int32_t neg_i32(int32_t x) { return (int32_t)(0u - (uint32_t)x); }
static inline int64_t neg_i64(int64_t x) { return (int64_t)(0u - (uint64_t)x); }
static inline int32_t abs_i32(int32_t x) { return x < 0 ? neg_i32(x) : x; }
static inline int64_t abs_i64(int64_t x) { return x < 0 ? neg_i64(x) : x; }

#define FLOAT_RULES(T, type, suffix) \
    static inline type add_##T(type x, type y) { return x + y; } \
    static inline type sub_##T(type x, type y) { return x - y; } \
    static inline type mul_##T(type x, type y) { return x * y; } \
    static inline type div_##T(type x, type y) { return x / y; } \
    static inline type rem_##T(type x, type y) { return fmod##suffix(x, y); } \
    static inline type max_##T(type x, type y) { return x != x || x > y ? x : y; } \
    static inline type min_##T(type x, type y) { return x != x || x < y ? x : y; } \
    static inline type neg_##T(type x) { return -x; } \
    static inline type abs_##T(type x) { return fabs##suffix(x); } \
    static inline type sign_##T(type x) { return x > 0 ? 1 : x < 0 ? -1 : x; } \
    static inline type floor_##T(type x) { return floor##suffix(x); } \
    static inline type sqrt_##T(type x) { return sqrt##suffix(x); }
FLOAT_RULES(f32, float, f)
FLOAT_RULES(f64, double, )

static inline bool add_bit(bool x, bool y) { return x | y; } /* only to name the folds of bools */
static inline bool mul_bit(bool x, bool y) { return x & y; }

typedef bool type_bit;
typedef int32_t type_i32;
typedef int64_t type_i64;
typedef uint32_t type_u32;
typedef float type_f32;
typedef double type_f64;

/* ---- kernels ---- */

#define UNARY(op, T, expression) \
    static void op##_kernel_##T(int64_t n, void *out, const void *const *in) \
    { \
        type_##T *r = out; \
        const type_##T *xs = in[0]; \
        for (int64_t i = 0; i < n; i++) { \
            type_##T x = xs[i]; \
            r[i] = (type_##T)(expression); \
        } \
    }
#define BINARY(op, T, R, expression) \
    static void op##_kernel_##T(int64_t n, void *out, const void *const *in) \
    { \
        type_##R *r = out; \
        const type_##T *xs = in[0], *ys = in[1]; \
        for (int64_t i = 0; i < n; i++) { \
            type_##T x = xs[i], y = ys[i]; \
            r[i] = (type_##R)(expression); \
        } \
    }

#define SIGNED(M) M(i32) M(i64) M(f32) M(f64)
#define NUMBERS(M) M(i32) M(i64) M(u32) M(f32) M(f64)
#define FLOATS(M) M(f32) M(f64)
#define WHOLE(M) M(i32) M(i64) M(u32)
#define EVERY(M) M(bit) M(i32) M(i64) M(u32) M(f32) M(f64)

#define KERNEL_SIGNED(T) UNARY(neg, T, neg_##T(x)) UNARY(abs, T, abs_##T(x)) UNARY(sign, T, sign_##T(x))
SIGNED(KERNEL_SIGNED)
UNARY(neg, u32, 0u - x)
#define KERNEL_FLOAT(T) \
    UNARY(floor, T, floor_##T(x)) UNARY(sqrt, T, sqrt_##T(x)) UNARY(exp, T, c_exp_##T(x)) UNARY(expm1, T, c_expm1_##T(x)) \
    UNARY(log, T, c_log_##T(x)) UNARY(log1p, T, c_log1p_##T(x)) UNARY(rsqrt, T, c_rsqrt_##T(x)) UNARY(sin, T, c_sin_##T(x)) \
    UNARY(cos, T, c_cos_##T(x)) UNARY(tanh, T, c_tanh_##T(x)) UNARY(sigmoid, T, c_sigmoid_##T(x)) BINARY(pow, T, T, c_pow_##T(x, y))
FLOATS(KERNEL_FLOAT)
#define KERNEL_NUMBER(T) \
    BINARY(add, T, T, add_##T(x, y)) BINARY(sub, T, T, sub_##T(x, y)) BINARY(mul, T, T, mul_##T(x, y)) BINARY(div, T, T, div_##T(x, y)) \
    BINARY(rem, T, T, rem_##T(x, y)) BINARY(max, T, T, max_##T(x, y)) BINARY(min, T, T, min_##T(x, y)) \
    BINARY(lt, T, bit, x < y) BINARY(le, T, bit, x <= y) BINARY(gt, T, bit, x > y) BINARY(ge, T, bit, x >= y) \
    static void clamp_kernel_##T(int64_t n, void *out, const void *const *in) \
    { \
        const type_##T *xs = in[0], *lo = in[1], *hi = in[2]; \
        type_##T *r = out; \
        for (int64_t i = 0; i < n; i++) { \
            type_##T x = xs[i] < lo[i] ? lo[i] : xs[i]; \
            r[i] = x > hi[i] ? hi[i] : x; \
        } \
    }
NUMBERS(KERNEL_NUMBER)
#define KERNEL_WHOLE(T) UNARY(not, T, ~x) BINARY(and, T, T, x & y) BINARY(or, T, T, x | y)
WHOLE(KERNEL_WHOLE)
UNARY(not, bit, !x)
BINARY(and, bit, bit, x & y)
BINARY(or, bit, bit, x | y)
#define KERNEL_EVERY(T) \
    BINARY(eq, T, bit, x == y) BINARY(ne, T, bit, x != y) \
    static void select_kernel_##T(int64_t n, void *out, const void *const *in) \
    { \
        const bool *c = in[0]; \
        const type_##T *xs = in[1], *ys = in[2]; \
        type_##T *r = out; \
        for (int64_t i = 0; i < n; i++) r[i] = c[i] ? xs[i] : ys[i]; \
    }
EVERY(KERNEL_EVERY)

#define OF_SIGNED(op) [OP_##op] = { [DT_I32] = op##_kernel_i32, [DT_I64] = op##_kernel_i64, [DT_F32] = op##_kernel_f32, [DT_F64] = op##_kernel_f64 }
#define OF_FLOATS(op) [OP_##op] = { [DT_F32] = op##_kernel_f32, [DT_F64] = op##_kernel_f64 }
#define OF_NUMBERS(op) \
    [OP_##op] = { [DT_I32] = op##_kernel_i32, [DT_I64] = op##_kernel_i64, [DT_U32] = op##_kernel_u32, [DT_F32] = op##_kernel_f32, [DT_F64] = op##_kernel_f64 }
#define OF_WHOLE(op) [OP_##op] = { [DT_BOOL] = op##_kernel_bit, [DT_I32] = op##_kernel_i32, [DT_I64] = op##_kernel_i64, [DT_U32] = op##_kernel_u32 }
#define OF_EVERY(op) \
    [OP_##op] = { [DT_BOOL] = op##_kernel_bit, [DT_I32] = op##_kernel_i32, [DT_I64] = op##_kernel_i64, \
                  [DT_U32] = op##_kernel_u32,   [DT_F32] = op##_kernel_f32, [DT_F64] = op##_kernel_f64 }

scalar_kernel scalar_c_kernel(enum op op, enum dtype t)
{
    static const scalar_kernel table[OP_COUNT][DT_COUNT] = {
        OF_NUMBERS(neg), OF_SIGNED(abs), OF_SIGNED(sign), OF_FLOATS(floor), OF_FLOATS(exp), OF_FLOATS(expm1), OF_FLOATS(log), OF_FLOATS(log1p),
        OF_FLOATS(sqrt), OF_FLOATS(rsqrt), OF_FLOATS(sin), OF_FLOATS(cos), OF_FLOATS(tanh), OF_FLOATS(sigmoid), OF_WHOLE(not), OF_NUMBERS(add),
        OF_NUMBERS(sub), OF_NUMBERS(mul), OF_NUMBERS(div), OF_NUMBERS(rem), OF_FLOATS(pow), OF_NUMBERS(max), OF_NUMBERS(min), OF_EVERY(eq),
        OF_EVERY(ne), OF_NUMBERS(lt), OF_NUMBERS(le), OF_NUMBERS(gt), OF_NUMBERS(ge), OF_WHOLE(and), OF_WHOLE(or), OF_EVERY(select), OF_NUMBERS(clamp),
    };
    return table[op][t];
}

/* ---- casts ---- */

/* Truncates and saturates, NaN gives 0. The bounds are exact in either float type. */
static inline int32_t whole_i32(double x) { return x != x ? 0 : x >= 0x1p31 ? INT32_MAX : x < -0x1p31 ? INT32_MIN : (int32_t)x; }
static inline int64_t whole_i64(double x) { return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x; }
static inline uint32_t whole_u32(double x) { return x != x || x <= 0 ? 0 : x >= 0x1p32 ? UINT32_MAX : (uint32_t)x; }

#define CAST(from, to, expression) \
    static void cast_##from##_##to(int64_t n, void *out, const void *const *in) \
    { \
        const type_##from *xs = in[0]; \
        type_##to *r = out; \
        for (int64_t i = 0; i < n; i++) { \
            type_##from x = xs[i]; \
            r[i] = expression; \
        } \
    }
#define CASTS_FROM_WHOLE(from) \
    CAST(from, bit, x != 0) CAST(from, i32, (int32_t)(uint32_t)x) CAST(from, i64, (int64_t)x) CAST(from, u32, (uint32_t)x) CAST(from, f32, (float)x) \
    CAST(from, f64, (double)x)
CASTS_FROM_WHOLE(bit)
WHOLE(CASTS_FROM_WHOLE)
#define CASTS_FROM_FLOAT(from) \
    CAST(from, bit, x != 0) CAST(from, i32, whole_i32((double)x)) CAST(from, i64, whole_i64((double)x)) CAST(from, u32, whole_u32((double)x)) \
    CAST(from, f32, (float)x) CAST(from, f64, (double)x)
FLOATS(CASTS_FROM_FLOAT)

scalar_kernel scalar_c_cast(enum dtype from, enum dtype to)
{
#define CAST_ROW(DT, T) \
    [DT] = { [DT_BOOL] = cast_##T##_bit, [DT_I32] = cast_##T##_i32, [DT_I64] = cast_##T##_i64, \
             [DT_U32] = cast_##T##_u32,   [DT_F32] = cast_##T##_f32, [DT_F64] = cast_##T##_f64 }
    static const scalar_kernel table[DT_COUNT][DT_COUNT] = {
        CAST_ROW(DT_BOOL, bit), CAST_ROW(DT_I32, i32), CAST_ROW(DT_I64, i64), CAST_ROW(DT_U32, u32), CAST_ROW(DT_F32, f32), CAST_ROW(DT_F64, f64),
    };
    return table[from][to];
}

/* ---- folds ---- */

#define FOLD(name, T, step) \
    static void fold_##name##_##T(int64_t n, int64_t stride, uint32_t n_lanes, void *lanes, const void *in) \
    { \
        type_##T *to = lanes; \
        const type_##T *xs = in; \
        for (int64_t i = 0; i < n; i++) to[i % n_lanes] = step(to[i % n_lanes], xs[i * stride]); \
    }
#define FOLDS(T) FOLD(sum, T, add_##T) FOLD(max, T, max_##T) FOLD(min, T, min_##T)
NUMBERS(FOLDS)
FOLD(and, bit, mul_bit)
FOLD(or, bit, add_bit)

scalar_fold scalar_c_fold(uint32_t fold, enum dtype t)
{
#define FOLD_ROW(name) \
    { [DT_I32] = fold_##name##_i32, [DT_I64] = fold_##name##_i64, [DT_U32] = fold_##name##_u32, [DT_F32] = fold_##name##_f32, [DT_F64] = fold_##name##_f64 }
    static const scalar_fold table[][DT_COUNT] = {
        [FOLD_SUM] = FOLD_ROW(sum),
        [FOLD_MAX] = FOLD_ROW(max),
        [FOLD_MIN] = FOLD_ROW(min),
        [FOLD_AND] = { [DT_BOOL] = fold_and_bit },
        [FOLD_OR] = { [DT_BOOL] = fold_or_bit },
    };
    return table[fold][t];
}

void scalar_c_identity(uint32_t fold, enum dtype t, void *out)
{
    bool low = fold == FOLD_MAX, high = fold == FOLD_MIN;
    switch (t) {
    case DT_BOOL: *(bool *)out = fold == FOLD_AND; break;
    case DT_I32: *(int32_t *)out = low ? INT32_MIN : high ? INT32_MAX : 0; break;
    case DT_I64: *(int64_t *)out = low ? INT64_MIN : high ? INT64_MAX : 0; break;
    case DT_U32: *(uint32_t *)out = high ? UINT32_MAX : 0; break;
    case DT_F32: *(float *)out = low ? -INFINITY : high ? INFINITY : 0; break;
    default: *(double *)out = low ? -INFINITY : high ? INFINITY : 0; break;
    }
}

/* ---- random numbers ---- */

void scalar_c_block(const uint32_t key[2], uint64_t position, bool second, uint32_t out[2])
{
    uint32_t counter[2] = { (uint32_t)position, (uint32_t)(position >> 32) ^ (second ? 0x80000000u : 0) };
    c_threefry(key, counter, out);
}

float scalar_c_uniform_f32(const uint32_t key[2], uint64_t position)
{
    uint32_t w[2];
    scalar_c_block(key, position, false, w);
    return c_uniform_f32(w);
}

double scalar_c_uniform_f64(const uint32_t key[2], uint64_t position)
{
    uint32_t w[2];
    scalar_c_block(key, position, false, w);
    return c_uniform_f64(w);
}

float scalar_c_normal_f32(const uint32_t key[2], uint64_t position)
{
    uint32_t w[2];
    scalar_c_block(key, position, false, w);
    return c_normal_f32(w);
}

double scalar_c_normal_f64(const uint32_t key[2], uint64_t position)
{
    uint32_t w[2], angle[2];
    scalar_c_block(key, position, false, w);
    scalar_c_block(key, position, true, angle);
    return c_normal_f64(w, angle);
}
