/* The C instantiation of the scalar vocabulary, and kernels over arrays for every elementwise operator, cast
 * and fold. Loop programs define the same operations in loop/lp.h; the two must agree bit for bit. */
#include "ops/scalar_c.h"
#include "ir/angle.h"
#include "ir/number.h"
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
#define REM(a, b) _Generic((a), float: fmodf, default: fmod)((a), (b))
#define NEG(a) (-(a))
#define ABS(a) _Generic((a), float: fabsf, default: fabs)(a)
#define SQRT(a) _Generic((a), float: sqrtf, default: sqrt)(a)
#define FLOOR(a) _Generic((a), float: floorf, default: floor)(a)
#define CEIL(a) _Generic((a), float: ceilf, default: ceil)(a)
#define TRUNC(a) _Generic((a), float: truncf, default: trunc)(a)
#define ROUND(a) _Generic((a), float: rintf, default: rint)(a)
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
#define FAR(which, far, x, y) ((far) ? angle_far((which), (x)) : (y))

#define BITS32(x) f32_bits(x)
#define FLOAT32(u) f32_of_bits(u)
#define BITS64(x) f64_bits(x)
#define FLOAT64(u) f64_of_bits(u)

#define WIDTH 32
#include "ops/scalar_math.h"
#define WIDTH 64
#include "ops/scalar_math.h"

/* ---- scalars that C leaves undefined or defines otherwise ---- */

#define INT_RULES(T, type, unsigned_type, smallest) \
    static inline type c_div_##T(type x, type y) \
    { \
        return y == 0 ? 0 : y == (type) - 1 && x == smallest ? x : (type)(x / y); \
    } \
    static inline type c_rem_##T(type x, type y) \
    { \
        return y == 0 ? x : y == (type) - 1 ? 0 : (type)(x % y); \
    } \
    static inline type c_add_##T(type x, type y) { return (type)((unsigned_type)x + (unsigned_type)y); } \
    static inline type c_sub_##T(type x, type y) { return (type)((unsigned_type)x - (unsigned_type)y); } \
    static inline type c_mul_##T(type x, type y) { return (type)((unsigned_type)x * (unsigned_type)y); } \
    static inline type c_max_##T(type x, type y) { return x > y ? x : y; } \
    static inline type c_min_##T(type x, type y) { return x < y ? x : y; } \
    static inline type c_sign_##T(type x) { return (type)((x > 0) - (x < 0)); }
/* The unsigned type is one that C does not promote to int: products of shorter ones could overflow there. */
#define SIGNED_RULES(T, type, unsigned_type, smallest) \
    INT_RULES(T, type, unsigned_type, smallest) \
    static inline type c_neg_##T(type x) { return (type)(0u - (unsigned_type)x); } \
    static inline type c_abs_##T(type x) { return x < 0 ? c_neg_##T(x) : x; }
#define UNSIGNED_RULES(T, type, unsigned_type) \
    static inline type c_div_##T(type x, type y) { return y ? (type)(x / y) : 0; } \
    static inline type c_rem_##T(type x, type y) { return y ? (type)(x % y) : x; } \
    static inline type c_add_##T(type x, type y) { return (type)((unsigned_type)x + (unsigned_type)y); } \
    static inline type c_sub_##T(type x, type y) { return (type)((unsigned_type)x - (unsigned_type)y); } \
    static inline type c_mul_##T(type x, type y) { return (type)((unsigned_type)x * (unsigned_type)y); } \
    static inline type c_max_##T(type x, type y) { return x > y ? x : y; } \
    static inline type c_min_##T(type x, type y) { return x < y ? x : y; } \
    static inline type c_neg_##T(type x) { return (type)(0u - (unsigned_type)x); }
/* Rounded down, with the divisor's sign on the rest. Shifts by the width or more, or by less than 0, leave
 * nothing but the sign. */
#define SIGNED_BITS(T, type, unsigned_type) \
    static inline bool below_##T(type x, type y, type q) \
    { \
        return y && c_mul_##T(q, y) != x && (x < 0) != (y < 0); \
    } \
    static inline type c_floor_div_##T(type x, type y) \
    { \
        type q = c_div_##T(x, y); \
        return below_##T(x, y, q) ? c_sub_##T(q, 1) : q; \
    } \
    static inline type c_mod_##T(type x, type y) \
    { \
        return c_sub_##T(x, c_mul_##T(c_floor_div_##T(x, y), y)); \
    } \
    static inline type c_shift_right_##T(type x, type y) \
    { \
        return (type)(x >> (y < 0 || y >= (type)(8 * sizeof x) ? (int)(8 * sizeof x - 1) : (int)y)); \
    } \
    BITS_RULES(T, type, unsigned_type)
#define UNSIGNED_BITS(T, type, unsigned_type) \
    static inline type c_floor_div_##T(type x, type y) { return c_div_##T(x, y); } \
    static inline type c_mod_##T(type x, type y) { return c_rem_##T(x, y); } \
    static inline type c_shift_right_##T(type x, type y) { return y >= 8 * sizeof x ? 0 : (type)(x >> y); } \
    BITS_RULES(T, type, unsigned_type)
#define BITS_RULES(T, type, unsigned_type) \
    static inline type c_shift_left_##T(type x, type y) \
    { \
        return (uint64_t)y >= 8 * sizeof x ? 0 : (type)((unsigned_type)x << y); \
    } \
    static inline uint64_t top_##T(type x) { return (uint64_t)x << (64 - 8 * sizeof x); } \
    static inline type c_popcount_##T(type x) { return (type)__builtin_popcountll(top_##T(x)); } \
    static inline type c_count_leading_zeros_##T(type x) \
    { \
        return (type)(x ? __builtin_clzll(top_##T(x)) : (int)(8 * sizeof x)); \
    }
SIGNED_RULES(i8, int8_t, uint32_t, INT8_MIN)
SIGNED_RULES(i16, int16_t, uint32_t, INT16_MIN)
SIGNED_RULES(i32, int32_t, uint32_t, INT32_MIN)
SIGNED_RULES(i64, int64_t, uint64_t, INT64_MIN)
UNSIGNED_RULES(u8, uint8_t, uint32_t)
UNSIGNED_RULES(u16, uint16_t, uint32_t)
UNSIGNED_RULES(u32, uint32_t, uint32_t)
UNSIGNED_RULES(u64, uint64_t, uint64_t)
SIGNED_BITS(i8, int8_t, uint32_t)
SIGNED_BITS(i16, int16_t, uint32_t)
SIGNED_BITS(i32, int32_t, uint32_t)
SIGNED_BITS(i64, int64_t, uint64_t)
UNSIGNED_BITS(u8, uint8_t, uint32_t)
UNSIGNED_BITS(u16, uint16_t, uint32_t)
UNSIGNED_BITS(u32, uint32_t, uint32_t)
UNSIGNED_BITS(u64, uint64_t, uint64_t)

#define FLOAT_RULES(T, type, suffix) \
    static inline type c_add_##T(type x, type y) { return x + y; } \
    static inline type c_sub_##T(type x, type y) { return x - y; } \
    static inline type c_mul_##T(type x, type y) { return x * y; } \
    static inline type c_div_##T(type x, type y) { return x / y; } \
    static inline type c_rem_##T(type x, type y) { return fmod##suffix(x, y); } \
    static inline type c_max_##T(type x, type y) { return x != x || x > y ? x : y; } \
    static inline type c_min_##T(type x, type y) { return x != x || x < y ? x : y; } \
    static inline type c_neg_##T(type x) { return -x; } \
    static inline type c_abs_##T(type x) { return fabs##suffix(x); } \
    static inline type c_sign_##T(type x) { return x > 0 ? 1 : x < 0 ? -1 : x; } \
    static inline type c_fma_##T(type x, type y, type z) { return fma##suffix(x, y, z); }
FLOAT_RULES(f32, float, f)
FLOAT_RULES(f64, double, )

typedef bool type_bit;
typedef int8_t type_i8;
typedef int16_t type_i16;
typedef int32_t type_i32;
typedef int64_t type_i64;
typedef uint8_t type_u8;
typedef uint16_t type_u16;
typedef uint32_t type_u32;
typedef uint64_t type_u64;
typedef uint16_t type_f16; /* bits */
typedef uint16_t type_bf16;
typedef float type_f32;
typedef double type_f64;

/* M(dtype, about) for the dtypes that a scalar is defined on. f16 and bf16 are not among them: scalar_c_apply
 * widens them. */
#define SIGNED_WHOLE(M, about) M(i8, about) M(i16, about) M(i32, about) M(i64, about)
#define UNSIGNED(M, about) M(u8, about) M(u16, about) M(u32, about) M(u64, about)
#define FLOATS(M, about) M(f32, about) M(f64, about)
#define WHOLE(M, about) SIGNED_WHOLE(M, about) UNSIGNED(M, about)
#define SIGNED(M, about) SIGNED_WHOLE(M, about) FLOATS(M, about)
#define NUMBERS(M, about) WHOLE(M, about) FLOATS(M, about)
#define BITS(M, about) M(bit, about) WHOLE(M, about)
#define EVERY(M, about) M(bit, about) NUMBERS(M, about)
enum {
    AT_bit = DT_BOOL,
    AT_i8 = DT_I8,
    AT_i16 = DT_I16,
    AT_i32 = DT_I32,
    AT_i64 = DT_I64,
    AT_u8 = DT_U8,
    AT_u16 = DT_U16,
    AT_u32 = DT_U32,
    AT_u64 = DT_U64,
    AT_f32 = DT_F32,
    AT_f64 = DT_F64
};

#define EQUALITIES(T, about) \
    static inline bool c_eq_##T(type_##T x, type_##T y) { return x == y; } \
    static inline bool c_ne_##T(type_##T x, type_##T y) { return x != y; } \
    static inline type_##T c_select_##T(bool c, type_##T x, type_##T y) { return c ? x : y; }
EVERY(EQUALITIES, comparisons)
#define ORDERS(T, about) \
    static inline bool c_lt_##T(type_##T x, type_##T y) { return x < y; } \
    static inline bool c_le_##T(type_##T x, type_##T y) { return x <= y; } \
    static inline bool c_gt_##T(type_##T x, type_##T y) { return x > y; } \
    static inline bool c_ge_##T(type_##T x, type_##T y) { return x >= y; } \
    static inline type_##T c_clamp_##T(type_##T x, type_##T lo, type_##T hi) \
    { \
        type_##T low = x < lo ? lo : x; \
        return low > hi ? hi : low; \
    }
NUMBERS(ORDERS, comparisons)
#define LOGICS(T, about) \
    static inline type_##T c_and_##T(type_##T x, type_##T y) { return x & y; } \
    static inline type_##T c_or_##T(type_##T x, type_##T y) { return x | y; } \
    static inline type_##T c_xor_##T(type_##T x, type_##T y) { return x ^ y; }
BITS(LOGICS, bits)
#define NOTS(T, about) \
    static inline type_##T c_not_##T(type_##T x) { return (type_##T) ~x; }
WHOLE(NOTS, bits)
static inline bool c_not_bit(bool x) { return !x; }

/* ---- kernels ---- */

#define KERNEL1(T, op, R) \
    static void op##_kernel_##T(int64_t n, void *out, const void *const *in) \
    { \
        R *r = out; \
        const type_##T *xs = in[0]; \
        for (int64_t i = 0; i < n; i++) r[i] = c_##op##_##T(xs[i]); \
    }
#define KERNEL2(T, op, R) \
    static void op##_kernel_##T(int64_t n, void *out, const void *const *in) \
    { \
        R *r = out; \
        const type_##T *xs = in[0], *ys = in[1]; \
        for (int64_t i = 0; i < n; i++) r[i] = c_##op##_##T(xs[i], ys[i]); \
    }
#define KERNEL3(T, op, first) \
    static void op##_kernel_##T(int64_t n, void *out, const void *const *in) \
    { \
        type_##T *r = out; \
        const first *xs = in[0]; \
        const type_##T *ys = in[1], *zs = in[2]; \
        for (int64_t i = 0; i < n; i++) r[i] = c_##op##_##T(xs[i], ys[i], zs[i]); \
    }
#define TO_SAME1(T, op) KERNEL1(T, op, type_##T)
#define TO_SAME2(T, op) KERNEL2(T, op, type_##T)
#define TO_BOOL1(T, op) KERNEL1(T, op, bool)
#define TO_BOOL2(T, op) KERNEL2(T, op, bool)
#define OF_SAME3(T, op) KERNEL3(T, op, type_##T)
#define OF_BOOL3(T, op) KERNEL3(T, op, bool)

/* Of each family of elementwise.def: the dtypes, and the kernel. */
#define DTYPES_FLOAT FLOATS
#define DTYPES_FLOAT2 FLOATS
#define DTYPES_QUESTION FLOATS
#define DTYPES_NUMBER NUMBERS
#define DTYPES_SIGNED SIGNED
#define DTYPES_ARITHMETIC NUMBERS
#define DTYPES_EQUALITY EVERY
#define DTYPES_ORDER NUMBERS
#define DTYPES_LOGIC BITS
#define DTYPES_LOGIC2 BITS
#define DTYPES_COUNT WHOLE
#define DTYPES_SHIFT WHOLE
#define DTYPES_SELECT EVERY
#define DTYPES_CLAMP NUMBERS
#define DTYPES_FMA FLOATS
#define KERNEL_FLOAT TO_SAME1
#define KERNEL_FLOAT2 TO_SAME2
#define KERNEL_QUESTION TO_BOOL1
#define KERNEL_NUMBER TO_SAME1
#define KERNEL_SIGNED TO_SAME1
#define KERNEL_ARITHMETIC TO_SAME2
#define KERNEL_EQUALITY TO_BOOL2
#define KERNEL_ORDER TO_BOOL2
#define KERNEL_LOGIC TO_SAME1
#define KERNEL_LOGIC2 TO_SAME2
#define KERNEL_COUNT TO_SAME1
#define KERNEL_SHIFT TO_SAME2
#define KERNEL_SELECT OF_BOOL3
#define KERNEL_CLAMP OF_SAME3
#define KERNEL_FMA OF_SAME3
#define UNARY(op, family, ...) DTYPES_##family(KERNEL_##family, op)
#define BINARY UNARY
#define TERNARY UNARY
#include "ops/elementwise.def"

scalar_kernel scalar_c_kernel(enum op op, enum dtype t)
{
    static const scalar_kernel table[OP_COUNT][DT_COUNT] = {
#define ENTRY(T, op) [AT_##T] = op##_kernel_##T,
#define UNARY(op, family, ...) [OP_##op] = { DTYPES_##family(ENTRY, op) },
#define BINARY UNARY
#define TERNARY UNARY
#include "ops/elementwise.def"
    };
    return table[op][t];
}

/* ---- casts ---- */

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
#define CASTS_TO_WHOLE(from, from_rule) \
    CAST(from, i8, from_rule(i8)) \
    CAST(from, i16, from_rule(i16)) \
    CAST(from, i32, from_rule(i32)) \
    CAST(from, i64, from_rule(i64)) \
    CAST(from, u8, from_rule(u8)) \
    CAST(from, u16, from_rule(u16)) CAST(from, u32, from_rule(u32)) CAST(from, u64, from_rule(u64))
#define LOW_BITS(to) (type_##to)(uint64_t) x
#define SATURATED(to) to##_of_f64((double)x)
#define CASTS_FROM_WHOLE(from, odd) \
    CAST(from, bit, x != 0) \
    CASTS_TO_WHOLE(from, LOW_BITS) \
    CAST(from, f16, f16_of_f64((double)x)) \
    CAST(from, bf16, bf16_of_f64(odd(x))) CAST(from, f32, (float)x) CAST(from, f64, (double)x)
CASTS_FROM_WHOLE(bit, f64_to_odd_u64)
#define CASTS_FROM_SIGNED(from, about) CASTS_FROM_WHOLE(from, f64_to_odd_i64)
#define CASTS_FROM_UNSIGNED(from, about) CASTS_FROM_WHOLE(from, f64_to_odd_u64)
SIGNED_WHOLE(CASTS_FROM_SIGNED, casts)
UNSIGNED(CASTS_FROM_UNSIGNED, casts)
CAST(f64, f16, f16_of_f64(x))
CAST(f64, bf16, bf16_of_f64(x))
CAST(f32, f16, f16_of_f32(x))
CAST(f32, bf16, bf16_of_f32(x))
#define CASTS_FROM_FLOAT(from, about) \
    CAST(from, bit, x != 0) \
    CASTS_TO_WHOLE(from, SATURATED) CAST(from, f32, (float)x) CAST(from, f64, (double)x)
FLOATS(CASTS_FROM_FLOAT, casts)
/* From f16 and bf16 exactly to f32 and on. */
#define NARROW_SATURATED_f16(to) to##_of_f64((double)f16_to_f32(x))
#define NARROW_SATURATED_bf16(to) to##_of_f64((double)bf16_to_f32(x))
#define CASTS_FROM_NARROW(from) \
    CAST(from, bit, from##_to_f32(x) != 0) \
    CASTS_TO_WHOLE(from, NARROW_SATURATED_##from) \
    CAST(from, f32, from##_to_f32(x)) CAST(from, f64, (double)from##_to_f32(x))
CASTS_FROM_NARROW(f16)
CASTS_FROM_NARROW(bf16)
CAST(f16, bf16, bf16_of_f32(f16_to_f32(x)))
CAST(bf16, f16, f16_of_f32(bf16_to_f32(x)))
CAST(f16, f16, x)
CAST(bf16, bf16, x)

scalar_kernel scalar_c_cast(enum dtype from, enum dtype to)
{
#define CAST_ROW(DT, T) \
    [DT] = { [DT_BOOL] = cast_##T##_bit, [DT_I8] = cast_##T##_i8,     [DT_I16] = cast_##T##_i16, \
             [DT_I32] = cast_##T##_i32,  [DT_I64] = cast_##T##_i64,   [DT_U8] = cast_##T##_u8, \
             [DT_U16] = cast_##T##_u16,  [DT_U32] = cast_##T##_u32,   [DT_U64] = cast_##T##_u64, \
             [DT_F16] = cast_##T##_f16,  [DT_BF16] = cast_##T##_bf16, [DT_F32] = cast_##T##_f32, \
             [DT_F64] = cast_##T##_f64 }
    static const scalar_kernel table[DT_COUNT][DT_COUNT] = {
        CAST_ROW(DT_BOOL, bit), CAST_ROW(DT_I8, i8),   CAST_ROW(DT_I16, i16),   CAST_ROW(DT_I32, i32),
        CAST_ROW(DT_I64, i64),  CAST_ROW(DT_U8, u8),   CAST_ROW(DT_U16, u16),   CAST_ROW(DT_U32, u32),
        CAST_ROW(DT_U64, u64),  CAST_ROW(DT_F16, f16), CAST_ROW(DT_BF16, bf16), CAST_ROW(DT_F32, f32),
        CAST_ROW(DT_F64, f64),
    };
    return table[from][to];
}

void scalar_c_convert(struct arena *a, struct tensor *t, enum dtype to)
{
    void *out = arena_alloc(a, (size_t)t->count * dtype_info[to].size);
    scalar_c_cast((enum dtype)t->dtype, to)(t->count, out, (const void *[]){ t->data });
    t->data = out;
    t->dtype = (uint8_t)to;
}

/* ---- f16 and bf16 ---- */

bool scalar_c_defined(enum op op, enum dtype t) { return scalar_c_kernel(op, dtype_accumulator(t)) != NULL; }

/* What is only chosen keeps its bits. */
static bool only_moves(enum op op) { return op == OP_select; }

/* The one operator for which f32 is too short. */
static void fma_narrow(int64_t n, enum dtype t, uint16_t *out, const void *const *in)
{
    for (int64_t i = 0; i < n; i++) {
        double x[3];
        for (int k = 0; k < 3; k++) x[k] = element_real(t, (const uint16_t *)in[k] + i);
        element_set_real(t, out + i, c_fused_to_odd_f64(x[0], x[1], x[2]));
    }
}

void scalar_c_apply(enum op op, int64_t n, enum dtype to, void *out, uint32_t n_in, const uint8_t *dtypes,
                    const void *const *in)
{
    enum { CHUNK = 256, MOST_OPERANDS = 4 };
    enum dtype t = (enum dtype)dtypes[n_in - 1];
    if (!dtype_is_narrow(t) || only_moves(op)) {
        scalar_c_kernel(op, dtype_is_narrow(t) ? DT_U16 : t)(n, out, in);
        return;
    }
    if (op == OP_fma) {
        fma_narrow(n, t, out, in);
        return;
    }
    float wide[MOST_OPERANDS + 1][CHUNK];
    if (n_in > MOST_OPERANDS)
        hop_throw(HOP_INTERNAL, "%s: more than %d operands", op_table[op]->name, MOST_OPERANDS);
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t m = HOP_MIN(n - at, (int64_t)CHUNK);
        const void *operands[MOST_OPERANDS];
        char *result = (char *)out + at * dtype_info[to].size;
        for (uint32_t i = 0; i < n_in; i++) {
            const void *from = (const char *)in[i] + at * dtype_info[dtypes[i]].size;
            bool narrow = dtype_is_narrow((enum dtype)dtypes[i]);
            operands[i] = narrow ? wide[i] : from;
            if (narrow) scalar_c_cast((enum dtype)dtypes[i], DT_F32)(m, wide[i], &from);
        }
        void *computed = dtype_is_narrow(to) ? (void *)wide[MOST_OPERANDS] : (void *)result;
        scalar_c_kernel(op, DT_F32)(m, computed, operands);
        if (dtype_is_narrow(to))
            scalar_c_cast(DT_F32, to)(m, result, (const void *[]){ wide[MOST_OPERANDS] });
    }
}

/* ---- folds ---- */

#define FOLD_FROM(name, T, A, value, step) \
    static void fold_##name##_##T(int64_t n, int64_t stride, uint32_t n_lanes, void *lanes, const void *in) \
    { \
        type_##A *to = lanes; \
        const type_##T *xs = in; \
        for (int64_t i = 0; i < n; i++) to[i % n_lanes] = step(to[i % n_lanes], value(xs[i * stride])); \
    }
#define AS_IT_IS(x) (x)
#define FOLD(name, T, step) FOLD_FROM(name, T, T, AS_IT_IS, step)
#define FOLDS_NARROW(T) \
    FOLD_FROM(sum, T, f32, T##_to_f32, c_add_f32) \
    FOLD_FROM(max, T, f32, T##_to_f32, c_max_f32) \
    FOLD_FROM(min, T, f32, T##_to_f32, c_min_f32) FOLD_FROM(prod, T, f32, T##_to_f32, c_mul_f32)
#define FOLDS(T, about) \
    FOLD(sum, T, c_add_##T) FOLD(max, T, c_max_##T) FOLD(min, T, c_min_##T) FOLD(prod, T, c_mul_##T)
NUMBERS(FOLDS, folds)
FOLDS_NARROW(f16)
FOLDS_NARROW(bf16)
FOLD(and, bit, c_and_bit)
FOLD(or, bit, c_or_bit)

scalar_fold scalar_c_fold(uint32_t fold, enum dtype t)
{
#define FOLD_ROW(name) \
    { [DT_I8] = fold_##name##_i8,     [DT_I16] = fold_##name##_i16, [DT_I32] = fold_##name##_i32, \
      [DT_I64] = fold_##name##_i64,   [DT_U8] = fold_##name##_u8,   [DT_U16] = fold_##name##_u16, \
      [DT_U32] = fold_##name##_u32,   [DT_U64] = fold_##name##_u64, [DT_F16] = fold_##name##_f16, \
      [DT_BF16] = fold_##name##_bf16, [DT_F32] = fold_##name##_f32, [DT_F64] = fold_##name##_f64 }
    static const scalar_fold table[][DT_COUNT] = {
        [FOLD_SUM] = FOLD_ROW(sum),
        [FOLD_MAX] = FOLD_ROW(max),
        [FOLD_MIN] = FOLD_ROW(min),
        [FOLD_AND] = { [DT_BOOL] = fold_and_bit },
        [FOLD_OR] = { [DT_BOOL] = fold_or_bit },
        [FOLD_PROD] = FOLD_ROW(prod),
    };
    return table[fold][t];
}

void scalar_c_identity(uint32_t fold, enum dtype t, void *out)
{
    bool low = fold == FOLD_MAX, high = fold == FOLD_MIN, one = fold == FOLD_PROD;
    bool real = dtype_is_float(t);
    if (t == DT_BOOL) *(bool *)out = fold == FOLD_AND;
    else if (low && real) element_set_real(t, out, -INFINITY);
    else if (low) element_set_whole(t, out, dtype_least(t));
    else if (high && real) element_set_real(t, out, INFINITY);
    else if (high) element_set_whole(t, out, t == DT_U64 ? -1 : dtype_most(t));
    else if (real) element_set_real(t, out, one);
    else element_set_whole(t, out, one);
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

void scalar_c_draw(enum op op, enum dtype t, const uint32_t key[2], uint64_t position, void *out)
{
    bool uniform = op == OP_random_uniform;
    if (t == DT_F64) {
        *(double *)out = uniform ? scalar_c_uniform_f64(key, position) : scalar_c_normal_f64(key, position);
        return;
    }
    uint32_t w[2];
    scalar_c_block(key, position, false, w);
    if (uniform) w[0] &= scalar_uniform_mask(t);
    float drawn = uniform ? c_uniform_f32(w) : c_normal_f32(w);
    scalar_c_cast(DT_F32, t)(1, out, (const void *[]){ &drawn });
}
