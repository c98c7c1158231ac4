/* The loop program instantiation of the scalar vocabulary: every function of scalar_math.h builds the
 * expression that its C twin computes. */
#include "ops/scalar_lp.h"
#include "ir/angle.h"
#include "ir/number.h"
#include "ops/scalar_c.h"

#include <math.h>

typedef lpv F32;
typedef lpv F64;
typedef lpv U32;
typedef lpv I64;
typedef lpv BOOL;

#define CTX struct lp *lp,
#define PASS lp,
#define CONTRACTS (!lp->regime.strict && !lp->no_contract)
#define NAME(x) build_##x
#define F32_K(x) lp_real(lp, DT_F32, (x))
#define F64_K(x) lp_real(lp, DT_F64, (x))
#define U32_K(x) lp_int(lp, DT_U32, (int64_t)(x))
#define I64_K(x) lp_int(lp, DT_I64, (int64_t)(x))
#define ADD(a, b) lp_bin(lp, LP_ADD, (a), (b))
#define SUB(a, b) lp_bin(lp, LP_SUB, (a), (b))
#define MUL(a, b) lp_bin(lp, LP_MUL, (a), (b))
#define DIV(a, b) lp_bin(lp, LP_DIV, (a), (b))
#define REM(a, b) lp_bin(lp, LP_REM, (a), (b))
#define NEG(a) lp_un(lp, LP_NEG, (a))
#define ABS(a) lp_un(lp, LP_ABS, (a))
#define SQRT(a) lp_un(lp, LP_SQRT, (a))
#define FLOOR(a) lp_un(lp, LP_FLOOR, (a))
#define CEIL(a) lp_un(lp, LP_CEIL, (a))
#define TRUNC(a) lp_un(lp, LP_TRUNC, (a))
#define ROUND(a) lp_un(lp, LP_ROUND, (a))
#define LT(a, b) lp_bin(lp, LP_LT, (a), (b))
#define GT(a, b) lp_bin(lp, LP_GT, (a), (b))
#define EQ(a, b) lp_bin(lp, LP_EQ, (a), (b))
#define NE(a, b) lp_bin(lp, LP_NE, (a), (b))
#define AND(a, b) lp_bin(lp, LP_AND, (a), (b))
#define OR(a, b) lp_bin(lp, LP_OR, (a), (b))
#define XOR(a, b) lp_bin(lp, LP_XOR, (a), (b))
#define SHL(a, n) shift(lp, LP_SHL, (a), (n))
#define SHR(a, n) shift(lp, LP_SHR, (a), (n))
#define SELECT(c, a, b) lp_select(lp, (c), (a), (b))
#define TO_F64(x) lp_cast(lp, DT_F64, (x))
#define TO_F32(x) lp_cast(lp, DT_F32, (x))
#define LOW32(x) lp_cast(lp, DT_U32, (x))
#define F32_INT(x) lp_cast(lp, DT_F32, lp_bitcast(lp, DT_I32, (x)))
#define F64_INT(x) lp_cast(lp, DT_F64, lp_bitcast(lp, DT_I32, (x)))
#define BITS32(x) lp_bitcast(lp, DT_U32, (x))
#define FLOAT32(x) lp_bitcast(lp, DT_F32, (x))
#define BITS64(x) lp_bitcast(lp, DT_I64, (x))
#define FLOAT64(x) lp_bitcast(lp, DT_F64, (x))
#define FAR(which, far, x, y) lp_far(lp, (which), (far), (x), (y))

static inline lpv shift(struct lp *lp, enum lp_op op, lpv a, int n)
{
    return lp_bin(lp, op, a, lp_int(lp, lp_dtype(lp, a), n));
}

#define WIDTH 32
#include "ops/scalar_math.h"
#define WIDTH 64
#include "ops/scalar_math.h"

/* x > 0 ? 1 : x < 0 ? -1 : x, so that zeros and NaN stay. */
static lpv build_sign(struct lp *lp, lpv x)
{
    enum dtype t = lp_dtype(lp, x);
    lpv zero = lp_int(lp, t, 0);
    return SELECT(GT(x, zero), lp_int(lp, t, 1), SELECT(LT(x, zero), lp_int(lp, t, -1), x));
}

static lpv build_clamp(struct lp *lp, lpv x, lpv lo, lpv hi)
{
    lpv low = SELECT(LT(x, lo), lo, x);
    return SELECT(GT(low, hi), hi, low);
}

/* Of integers, as in C: q is x div y, one less where something is left and the signs differ. */
static lpv build_floor(struct lp *lp, lpv x, lpv y, bool rest)
{
    enum dtype t = lp_dtype(lp, x);
    if (dtype_info[t].kind == KIND_UINT) return lp_bin(lp, rest ? LP_REM : LP_DIV, x, y);
    lpv zero = lp_int(lp, t, 0), q = DIV(x, y), left = SUB(x, MUL(q, y));
    lpv below = AND(AND(NE(y, zero), NE(left, zero)), LT(XOR(x, y), zero));
    return rest ? SELECT(below, ADD(left, y), left) : SELECT(below, SUB(q, lp_int(lp, t, 1)), q);
}

/* By the width or more, or by less than 0, nothing but the sign is left. */
static lpv build_shift(struct lp *lp, lpv x, lpv n, bool right)
{
    enum dtype t = lp_dtype(lp, x);
    bool has_sign = dtype_info[t].kind == KIND_INT;
    lpv zero = lp_int(lp, t, 0), within = LT(n, lp_int(lp, t, 8 * dtype_info[t].size));
    if (has_sign) within = AND(within, lp_bin(lp, LP_GE, n, zero));
    if (right && has_sign)
        return lp_bin(lp, LP_SAR, x, SELECT(within, n, lp_int(lp, t, 8 * dtype_info[t].size - 1)));
    return SELECT(within, lp_bin(lp, right ? LP_SHR : LP_SHL, x, SELECT(within, n, zero)), zero);
}

/* ---- powers with exponents that are known ---- */

/* x^n, n at least 1, by squaring: n - 1 roundings in all, as if x were multiplied n times. */
static lpv build_whole_power(struct lp *lp, lpv x, int n)
{
    lpv r = LPV_NONE;
    for (lpv power = x;; power = MUL(power, power)) {
        if (n % 2) r = r == LPV_NONE ? power : MUL(power, r);
        n /= 2;
        if (!n) return r;
    }
}

/* x^(n + quarters/4), x not negative. */
static lpv build_quarter_power(struct lp *lp, lpv x, int n, int quarters)
{
    lpv root = quarters ? SQRT(x) : LPV_NONE;
    lpv fourth = quarters % 2 ? SQRT(root) : LPV_NONE;
    lpv part = quarters == 1 ? fourth : quarters == 3 ? MUL(root, fourth) : root;
    if (!n) return part;
    lpv whole = build_whole_power(lp, x, n);
    return quarters ? MUL(whole, part) : whole;
}

/* x^-(n + quarters/4), n at least 2: nothing overflows or becomes 0 on the way unless the result does, and no
 * rounding but that of the first division counts twice. */
static lpv build_falling_power(struct lp *lp, lpv x, int n, int quarters)
{
    lpv half = DIV(lp_real(lp, lp_dtype(lp, x), 1), build_whole_power(lp, x, n / 2)), r = MUL(half, half);
    lpv left = n % 2 ? x : LPV_NONE;
    if (quarters) {
        lpv part = build_quarter_power(lp, x, 0, quarters);
        left = left == LPV_NONE ? part : MUL(left, part);
    }
    return left == LPV_NONE ? r : DIV(r, left);
}

/* Exponents of which powers are multiplications, and those of them that f32 has computed in f32. */
enum { F32_EXPONENTS = 64, F64_EXPONENTS = 16, F32_OWN_BELOW = -3, F32_OWN_ABOVE = 6 };

/* Default numbers: multiples of 1/2, and of 1/4 between -1 and 1, are multiplications, square roots and
 * divisions. Roundings add up with the exponent, so larger ones of f32 are computed in f64, where what
 * overflows or becomes 0 on the way does so in the result. In a dtype of its own that holds as well: for
 * exponents from -1 to -3 the division comes first; above, where results of the smallest and the largest
 * numbers are ordinary ones, it comes last. LPV_NONE: not such an exponent. */
static lpv build_known_power(struct lp *lp, lpv x, lpv y)
{
    enum dtype t = lp_dtype(lp, x);
    const struct lp_instr *i = &lp->instrs.data[y];
    if (lp->regime.strict || i->op != LP_CONST) return LPV_NONE;
    double exponent = element_real(t, (const char *)&i->bits), size = fabs(exponent);
    double parts = size < 1 ? 4 : 2;
    bool near = size > 0 && size <= (t == DT_F64 ? F64_EXPONENTS : F32_EXPONENTS);
    if (!near || floor(parts * size) != parts * size) return LPV_NONE;
    bool widened = t == DT_F32 && (exponent < F32_OWN_BELOW || exponent > F32_OWN_ABOVE);
    int n = (int)size, quarters = (int)(4 * size) % 4;
    lpv a = quarters ? ABS(x) : x, one = lp_real(lp, widened ? DT_F64 : t, 1), r;
    if (widened) a = TO_F64(a);
    if (exponent < -3 && !widened) r = build_falling_power(lp, a, n, quarters);
    else {
        bool divides_first = exponent <= -1 && !widened;
        r = build_quarter_power(lp, divides_first ? DIV(one, a) : a, n, quarters);
        if (exponent < 0 && !divides_first) r = DIV(one, r);
    }
    if (widened) r = TO_F32(r);
    if (!quarters) return r;
    lpv below = AND(LT(x, lp_real(lp, t, 0)), GT(x, lp_real(lp, t, -INFINITY)));
    return SELECT(below, lp_real(lp, t, NAN), r);
}

/* Default numbers: exponents that are -4/3, -2/3, -1/3, 1/3, 2/3, 4/3 or 5/3 but for a unit in the last place
 * of 1. They are off by some `beyond`, which the largest and the smallest numbers show: a factor of
 * 1 + beyond·log(x). LPV_NONE: not such an exponent. */
static lpv build_third_power(struct lp *lp, lpv x, lpv y)
{
    enum dtype t = lp_dtype(lp, x);
    const struct lp_instr *i = &lp->instrs.data[y];
    if (lp->regime.strict || i->op != LP_CONST) return LPV_NONE;
    double exponent = element_real(t, (const char *)&i->bits), thirds = nearbyint(3 * exponent);
    double beyond = fma(3, exponent, -thirds) / 3;
    bool near = fabs(beyond) <= (t == DT_F64 ? 0x1p-52 : 0x1p-23) && thirds >= -4 && thirds <= 5;
    int part = near ? (int)thirds % 3 : 0;
    if (!part) return LPV_NONE;
    lpv zero = lp_real(lp, t, 0), infinity = lp_real(lp, t, INFINITY), a = ABS(x), log2;
    lpv r = (t == DT_F64 ? build_third_power_f64 : build_third_power_f32)(lp, a, part, &log2);
    r = ADD(r, MUL(r, MUL(log2, lp_real(lp, t, beyond * 0x1.62e42fefa39efp-1))));
    if (thirds < -3) r = MUL(r, DIV(lp_real(lp, t, 1), a));
    if (thirds > 3) r = MUL(r, a);
    lpv at_zero = exponent < 0 ? infinity : zero, beyond_all = exponent < 0 ? zero : infinity;
    r = SELECT(EQ(a, zero), at_zero, SELECT(EQ(a, infinity), beyond_all, r));
    lpv below = AND(LT(x, zero), GT(x, lp_real(lp, t, -INFINITY)));
    return SELECT(OR(below, lp_bin(lp, LP_NE, x, x)), lp_real(lp, t, NAN), r);
}

/* What an operator of scalars is: one operation of loop programs, or a function of this file. */
struct scalar_form {
    enum { FORM_NONE, FORM_UNARY, FORM_BINARY, FORM_FUNCTION, FORM_FUNCTION2 } form;
    enum lp_op lp_op;
    lpv (*f32)(struct lp *lp, lpv x), (*f64)(struct lp *lp, lpv x);
    lpv (*pair_f32)(struct lp *lp, lpv x, lpv y), (*pair_f64)(struct lp *lp, lpv x, lpv y);
};

/* f16 and bf16: computed as f32, however many steps that takes, and rounded once. */
static lpv scalar_lp_narrow(struct lp *lp, enum op op, enum dtype t, uint32_t n, const lpv *operands)
{
    lpv wide[4];
    if (op == OP_fma)
        return lp_cast(lp, t,
                       build_fused_to_odd_f64(lp, TO_F64(operands[0]), TO_F64(operands[1]),
                                              TO_F64(operands[2])));
    for (uint32_t i = 0; i < n; i++)
        wide[i] = dtype_is_narrow(lp_dtype(lp, operands[i])) ? lp_cast(lp, DT_F32, operands[i]) : operands[i];
    lpv r = scalar_lp(lp, op, wide);
    return lp_dtype(lp, r) == DT_F32 ? lp_cast(lp, t, r) : r;
}

lpv scalar_lp(struct lp *lp, enum op op, const lpv *operands)
{
    static const struct scalar_form forms[OP_COUNT] = {
#define FORM_FLOAT(op) \
    [OP_##op] = { .form = FORM_FUNCTION, .f32 = build_##op##_f32, .f64 = build_##op##_f64 },
#define FORM_FLOAT2(op) \
    [OP_##op] = { .form = FORM_FUNCTION2, .pair_f32 = build_##op##_f32, .pair_f64 = build_##op##_f64 },
#define FORM_QUESTION FORM_FLOAT
#define FORM_NUMBER(op)
#define FORM_SIGNED(op)
#define FORM_ARITHMETIC(op)
#define FORM_EQUALITY(op)
#define FORM_ORDER(op)
#define FORM_LOGIC(op)
#define FORM_LOGIC2(op)
#define FORM_COUNT(op)
#define FORM_SHIFT(op)
#define UNARY(op, family, ...) FORM_##family(op)
#define BINARY UNARY
#define TERNARY(...)
#include "ops/elementwise.def"
#define ONE(op, code) [OP_##op] = { .form = FORM_UNARY, .lp_op = code }
#define TWO(op, code) [OP_##op] = { .form = FORM_BINARY, .lp_op = code }
        ONE(neg, LP_NEG),
        ONE(abs, LP_ABS),
        ONE(not, LP_NOT),
        ONE(popcount, LP_POPCOUNT),
        ONE(count_leading_zeros, LP_CLZ),
        TWO(add, LP_ADD),
        TWO(sub, LP_SUB),
        TWO(mul, LP_MUL),
        TWO(div, LP_DIV),
        TWO(rem, LP_REM),
        TWO(max, LP_MAX),
        TWO(min, LP_MIN),
        TWO(eq, LP_EQ),
        TWO(ne, LP_NE),
        TWO(lt, LP_LT),
        TWO(le, LP_LE),
        TWO(gt, LP_GT),
        TWO(ge, LP_GE),
        TWO(and, LP_AND),
        TWO(or, LP_OR),
        TWO(xor, LP_XOR),
    };
    uint32_t n = op_table[op]->sig.min_operands;
    enum dtype t = lp_dtype(lp, operands[n - 1]);
    if (dtype_is_narrow(t) && op != OP_select) return scalar_lp_narrow(lp, op, t, n, operands);
    bool wide = lp_dtype(lp, operands[0]) == DT_F64, real = dtype_is_float(t);
    const struct scalar_form *f = &forms[op];
    switch (f->form) {
    case FORM_UNARY: return lp_un(lp, f->lp_op, operands[0]);
    case FORM_BINARY: return lp_bin(lp, f->lp_op, operands[0], operands[1]);
    case FORM_FUNCTION: return (wide ? f->f64 : f->f32)(lp, operands[0]);
    case FORM_FUNCTION2:
        if (op == OP_pow) {
            lpv known = build_known_power(lp, operands[0], operands[1]);
            if (known == LPV_NONE) known = build_third_power(lp, operands[0], operands[1]);
            if (known != LPV_NONE) return known;
        }
        return (wide ? f->pair_f64 : f->pair_f32)(lp, operands[0], operands[1]);
    case FORM_NONE: break;
    }
    switch (op) {
    case OP_sign: return build_sign(lp, operands[0]);
    case OP_mod:
        if (!real) return build_floor(lp, operands[0], operands[1], true);
        return (wide ? build_mod_f64 : build_mod_f32)(lp, operands[0], operands[1]);
    case OP_floor_div:
        if (!real) return build_floor(lp, operands[0], operands[1], false);
        return (wide ? build_floor_div_f64 : build_floor_div_f32)(lp, operands[0], operands[1]);
    case OP_shift_left: return build_shift(lp, operands[0], operands[1], false);
    case OP_shift_right: return build_shift(lp, operands[0], operands[1], true);
    case OP_fma: return lp_fused(lp, operands[0], operands[1], operands[2]);
    case OP_select: return lp_select(lp, operands[0], operands[1], operands[2]);
    case OP_clamp: return build_clamp(lp, operands[0], operands[1], operands[2]);
    default: hop_throw(HOP_INTERNAL, "%s is not a scalar operator", op_table[op] ? op_table[op]->name : "?");
    }
}

/* See scalar_c_block. */
static void build_block(struct lp *lp, const lpv key[2], lpv position, bool second, lpv out[2])
{
    struct lp_range range = lp_range(lp, position);
    bool fits_u32 = range.lo >= 0 && range.hi <= UINT32_MAX;
    lpv high = fits_u32 ? U32_K(0) : LOW32(SHR(position, 32));
    lpv counter[2] = { LOW32(position), second ? XOR(high, U32_K(0x80000000u)) : high };
    build_threefry(lp, key, counter, out);
}

lpv scalar_lp_random(struct lp *lp, enum op op, enum dtype t, const lpv key[2], lpv position)
{
    lpv word[2], angle[2];
    build_block(lp, key, position, false, word);
    if (op == OP_random_bits) return word[0];
    if (op == OP_random_uniform && dtype_is_narrow(t)) word[0] = AND(word[0], U32_K(scalar_uniform_mask(t)));
    if (op == OP_random_uniform)
        return t == DT_F64 ? build_uniform_f64(lp, word) : lp_cast(lp, t, build_uniform_f32(lp, word));
    if (t != DT_F64) return lp_cast(lp, t, build_normal_f32(lp, word));
    build_block(lp, key, position, true, angle);
    return build_normal_f64(lp, word, angle);
}
