/* Elementary functions against libm in a wider type, special values, the random generator, and the two
 * instantiations of the scalar vocabulary against each other bit for bit. Last line: "N passed, M failed". */
#include "interp/interp.h"
#include "ir/text.h"
#include "loop/lp.h"
#include "ops/scalar_c.h"
#include "ops/scalar_lp.h"
#include "loop/rt.h"
#include "transform/transform.h"

#include <math.h>

static int passed, failed;

static void claim(bool holds, const char *format, ...)
{
    va_list args;
    if (holds) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED: ");
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

static float float_of(uint32_t u)
{
    float x;
    return memcpy(&x, &u, sizeof x), x;
}
static double double_of(uint64_t u)
{
    double x;
    return memcpy(&x, &u, sizeof x), x;
}
static uint64_t state = 0x9e3779b97f4a7c15u;
static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}
static double between(double lo, double hi) { return lo + (hi - lo) * ((double)(draw() >> 11) * 0x1p-53); }

/* ---- accuracy ---- */

static long double sigmoid_l(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static long double rsqrt_l(long double x) { return 1 / sqrtl(x); }

static const struct function {
    const char *name;
    enum op op;
    long double (*wide)(long double);
    double limit32, limit64; /* |x| up to which the bounds hold; 0: everywhere */
    double bound32, bound64; /* in units in the last place */
} functions[] = {
    { "exp", OP_exp, expl, 0, 0, 1.0, 1.0 },          { "expm1", OP_expm1, expm1l, 0, 0, 1.5, 1.5 },
    { "log", OP_log, logl, 0, 0, 1.0, 1.0 },          { "log1p", OP_log1p, log1pl, 0, 0, 1.5, 1.5 },
    { "sqrt", OP_sqrt, sqrtl, 0, 0, 0.5001, 0.5001 }, { "rsqrt", OP_rsqrt, rsqrt_l, 0, 0, 1.5, 1.5 },
    { "sin", OP_sin, sinl, 0, 0, 2.2, 2.7 },          { "cos", OP_cos, cosl, 0, 0, 2.2, 2.7 },
    { "tanh", OP_tanh, tanhl, 0, 0, 2.5, 2.5 },       { "sigmoid", OP_sigmoid, sigmoid_l, 0, 0, 2.4, 2.4 },
    { "exp2", OP_exp2, exp2l, 0, 0, 1.3, 1.3 },       { "log2", OP_log2, log2l, 0, 0, 0.9, 0.9 },
    { "cbrt", OP_cbrt, cbrtl, 0, 0, 0.9, 0.8 },       { "tan", OP_tan, tanl, 0, 0, 0.6, 1.6 },
    { "asin", OP_asin, asinl, 0, 0, 1.4, 1.4 },       { "acos", OP_acos, acosl, 0, 0, 1.3, 1.3 },
    { "atan", OP_atan, atanl, 0, 0, 1.1, 1.0 },       { "sinh", OP_sinh, sinhl, 0, 0, 1.8, 1.8 },
    { "cosh", OP_cosh, coshl, 0, 0, 1.6, 1.6 },       { "asinh", OP_asinh, asinhl, 0, 0, 0.6, 1.8 },
    { "acosh", OP_acosh, acoshl, 0, 0, 0.6, 2.5 },    { "atanh", OP_atanh, atanhl, 0, 0, 0.6, 1.6 },
    { "erf", OP_erf, erfl, 0, 0, 1.4, 1.6 },          { "erfc", OP_erfc, erfcl, 0, 0, 3.9, 3.4 },
};

/* How far `found` is from `exact` in units in the last place of a type with `mantissa` bits and exponents
 * from `least`. Infinity where only one is NaN or infinite. */
static double distance(double found, long double exact, int mantissa, int least, double largest)
{
    if (isnan(exact) || isnan(found)) return isnan(exact) && isnan(found) ? 0 : INFINITY;
    int e;
    if (isinf(found)) return fabsl(exact) > largest && (exact > 0) == (found > 0) ? 0 : INFINITY;
    if (isinf(exact)) return INFINITY;
    frexpl(exact, &e);
    if (e < least) e = least;
    return (double)(fabsl((long double)found - exact) / ldexpl(1, e - mantissa));
}
static double distance32(float found, long double exact)
{
    return distance(found, exact, 24, -125, 3.40282346638528859811704183484516925e+38 * (1 + 0x1p-25));
}
static double distance64(double found, long double exact)
{
    if (isinf(found))
        return fabsl(exact) >= 0x1.fffffffffffff8p1023L && (exact > 0) == (found > 0) ? 0 : INFINITY;
    return distance(found, exact, 53, -1021, INFINITY);
}

enum { CHUNK = 4096 };

static void sweep_f32(const struct function *fn, uint32_t step)
{
    static float x[CHUNK], y[CHUNK];
    scalar_kernel kernel = scalar_c_kernel(fn->op, DT_F32);
    double worst = 0, square = 0;
    float where = 0;
    uint64_t count = 0;
    for (uint64_t u = 0; u < 1ull << 32;) {
        int n = 0;
        for (; n < CHUNK && u < 1ull << 32; u += step) {
            x[n] = float_of((uint32_t)u);
            if (!fn->limit32 || fabsf(x[n]) <= fn->limit32) n++;
        }
        kernel(n, y, (const void *[]){ x });
        for (int i = 0; i < n; i++) {
            double d = distance32(y[i], fn->wide(x[i]));
            if (d > worst) worst = d, where = x[i];
            square += d > 10 ? 0 : d * d;
            count++;
        }
    }
    if (getenv("MATH_TEST_VERBOSE"))
        printf("%-8s f32 worst %.4f at %a, rms %.4f over %llu\n", fn->name, worst, where,
               sqrt(square / (double)count), (unsigned long long)count);
    claim(worst <= fn->bound32, "%s f32 is %.3f ulp off at %a (bound %.2f)", fn->name, worst, where,
          fn->bound32);
}

static void sweep_f64(const struct function *fn, int rounds)
{
    static double x[CHUNK], y[CHUNK];
    scalar_kernel kernel = scalar_c_kernel(fn->op, DT_F64);
    double worst = 0, where = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < CHUNK; i++) {
            double bound = (const double[]){ 1, 2, 20, 760, 1e5, 0, 0, 0.1 }[round % 8];
            do
                x[i] = round % 8 == 6 ? 1 + between(-0.01, 0.01)
                       : bound        ? between(-bound, bound)
                                      : double_of(draw());
            while (fn->limit64 && fabs(x[i]) > fn->limit64);
        }
        kernel(CHUNK, y, (const void *[]){ x });
        for (int i = 0; i < CHUNK; i++) {
            double d = distance64(y[i], fn->wide(x[i]));
            if (d > worst) worst = d, where = x[i];
        }
    }
    if (getenv("MATH_TEST_VERBOSE")) printf("%-8s f64 worst %.4f at %a\n", fn->name, worst, where);
    claim(worst <= fn->bound64, "%s f64 is %.3f ulp off at %a (bound %.2f)", fn->name, worst, where,
          fn->bound64);
}

static void sweep_pow(int rounds)
{
    static float x[CHUNK], y[CHUNK], z[CHUNK];
    static double u[CHUNK], v[CHUNK], w[CHUNK];
    double worst32 = 0, worst64 = 0, at32[2] = { 0 }, at64[2] = { 0 };
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < CHUNK; i++) {
            double base = round % 4 == 0   ? between(0, 3)
                          : round % 4 == 1 ? 1 + between(-1e-3, 1e-3)
                                           : exp(between(-700, 700));
            double reach = 740 / (fabs(log(base)) + 1e-12);
            u[i] = base;
            v[i] = round % 4 == 3 ? floor(between(-5, 5)) : between(-reach, reach);
            x[i] = round % 4 < 2 ? (float)base : (float)exp(between(-87, 87));
            y[i] = round % 4 == 3 ? (float)v[i] : (float)(between(-103, 89) / (fabs(log(x[i])) + 1e-12));
            if (round % 4 == 3 && i % 2) u[i] = -u[i], x[i] = -x[i];
        }
        scalar_c_kernel(OP_pow, DT_F32)(CHUNK, z, (const void *[]){ x, y });
        scalar_c_kernel(OP_pow, DT_F64)(CHUNK, w, (const void *[]){ u, v });
        for (int i = 0; i < CHUNK; i++) {
            double d = distance32(z[i], powl(x[i], y[i])), e = distance64(w[i], powl(u[i], v[i]));
            if (d > worst32) worst32 = d, at32[0] = x[i], at32[1] = y[i];
            if (e > worst64) worst64 = e, at64[0] = u[i], at64[1] = v[i];
        }
    }
    if (getenv("MATH_TEST_VERBOSE"))
        printf("pow f32 worst %.4f at %a %a, f64 worst %.4f at %a %a\n", worst32, at32[0], at32[1], worst64,
               at64[0], at64[1]);
    claim(worst32 <= 1.0, "pow f32 is %.3f ulp off at %a, %a", worst32, at32[0], at32[1]);
    claim(worst64 <= 2.5, "pow f64 is %.3f ulp off at %a, %a", worst64, at64[0], at64[1]);
}

/* Functions of two operands: near each other, far apart, and any bits. */
static void sweep_pairs(int rounds)
{
    static const struct {
        enum op op;
        long double (*wide)(long double, long double);
        double bound32, bound64;
    } pairs[] = {
        { OP_atan2, atan2l, 1.6, 1.6 },
        { OP_hypot, hypotl, 0.6, 1.3 },
        { OP_copysign, copysignl, 0, 0 },
    };
    static float x[CHUNK], y[CHUNK], z[CHUNK];
    static double u[CHUNK], v[CHUNK], w[CHUNK];
    for (size_t k = 0; k < HOP_COUNT(pairs); k++) {
        double worst32 = 0, worst64 = 0, at32[2] = { 0 }, at64[2] = { 0 };
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < CHUNK; i++) {
                u[i] = round % 3 == 0 ? double_of(draw()) : between(-2, 2);
                v[i] = round % 3 == 0   ? double_of(draw())
                       : round % 3 == 1 ? between(-2, 2)
                                        : u[i] * between(0.3, 3);
                x[i] = round % 3 == 0 ? float_of((uint32_t)draw()) : (float)u[i];
                y[i] = round % 3 == 0 ? float_of((uint32_t)draw()) : (float)v[i];
            }
            scalar_c_kernel(pairs[k].op, DT_F32)(CHUNK, z, (const void *[]){ x, y });
            scalar_c_kernel(pairs[k].op, DT_F64)(CHUNK, w, (const void *[]){ u, v });
            for (int i = 0; i < CHUNK; i++) {
                double d = distance32(z[i], pairs[k].wide(x[i], y[i])),
                       e = distance64(w[i], pairs[k].wide(u[i], v[i]));
                if (d > worst32) worst32 = d, at32[0] = x[i], at32[1] = y[i];
                if (e > worst64) worst64 = e, at64[0] = u[i], at64[1] = v[i];
            }
        }
        const char *name = op_table[pairs[k].op]->name;
        if (getenv("MATH_TEST_VERBOSE"))
            printf("%-8s f32 worst %.4f at %a %a, f64 worst %.4f at %a %a\n", name, worst32, at32[0], at32[1],
                   worst64, at64[0], at64[1]);
        claim(worst32 <= pairs[k].bound32, "%s f32 is %.3f ulp off at %a, %a", name, worst32, at32[0],
              at32[1]);
        claim(worst64 <= pairs[k].bound64, "%s f64 is %.3f ulp off at %a, %a", name, worst64, at64[0],
              at64[1]);
    }
}

/* ---- special values ---- */

static bool same_number(double x, double y)
{
    return (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y));
}

static double apply(enum op op, enum dtype t, double x, double y)
{
    float a = (float)x, b = (float)y, c;
    double d;
    if (t == DT_F32) return scalar_c_kernel(op, t)(1, &c, (const void *[]){ &a, &b }), c;
    return scalar_c_kernel(op, t)(1, &d, (const void *[]){ &x, &y }), d;
}

static const struct {
    enum op op;
    double x, y;
} special[] = {
    { OP_exp, 0, 1 },
    { OP_exp, -0.0, 1 },
    { OP_exp, INFINITY, INFINITY },
    { OP_exp, -INFINITY, 0 },
    { OP_exp, NAN, NAN },
    { OP_exp, 1e30, INFINITY },
    { OP_exp, -1e30, 0 },
    { OP_expm1, 0, 0 },
    { OP_expm1, -0.0, -0.0 },
    { OP_expm1, INFINITY, INFINITY },
    { OP_expm1, -INFINITY, -1 },
    { OP_expm1, NAN, NAN },
    { OP_expm1, -1e30, -1 },
    { OP_log, 1, 0 },
    { OP_log, 0, -INFINITY },
    { OP_log, -0.0, -INFINITY },
    { OP_log, INFINITY, INFINITY },
    { OP_log, -1, NAN },
    { OP_log, -INFINITY, NAN },
    { OP_log, NAN, NAN },
    { OP_log1p, 0, 0 },
    { OP_log1p, -0.0, -0.0 },
    { OP_log1p, -1, -INFINITY },
    { OP_log1p, -2, NAN },
    { OP_log1p, INFINITY, INFINITY },
    { OP_log1p, NAN, NAN },
    { OP_sqrt, -0.0, -0.0 },
    { OP_sqrt, -1, NAN },
    { OP_sqrt, INFINITY, INFINITY },
    { OP_rsqrt, 0, INFINITY },
    { OP_rsqrt, -0.0, -INFINITY },
    { OP_rsqrt, INFINITY, 0 },
    { OP_rsqrt, -1, NAN },
    { OP_rsqrt, NAN, NAN },
    { OP_sin, 0, 0 },
    { OP_sin, -0.0, -0.0 },
    { OP_sin, INFINITY, NAN },
    { OP_sin, -INFINITY, NAN },
    { OP_sin, NAN, NAN },
    { OP_cos, 0, 1 },
    { OP_cos, -0.0, 1 },
    { OP_cos, INFINITY, NAN },
    { OP_cos, NAN, NAN },
    { OP_tanh, 0, 0 },
    { OP_tanh, -0.0, -0.0 },
    { OP_tanh, INFINITY, 1 },
    { OP_tanh, -INFINITY, -1 },
    { OP_tanh, NAN, NAN },
    { OP_tanh, 50, 1 },
    { OP_sigmoid, 0, 0.5 },
    { OP_sigmoid, INFINITY, 1 },
    { OP_sigmoid, -INFINITY, 0 },
    { OP_sigmoid, NAN, NAN },
    { OP_exp2, 0, 1 },
    { OP_exp2, 10, 1024 },
    { OP_exp2, -126, 0x1p-126 },
    { OP_exp2, -149, 0x1p-149 },
    { OP_exp2, INFINITY, INFINITY },
    { OP_exp2, -INFINITY, 0 },
    { OP_exp2, NAN, NAN },
    { OP_exp2, 1e30, INFINITY },
    { OP_log2, 1, 0 },
    { OP_log2, 0x1p-140, -140 },
    { OP_log2, 8, 3 },
    { OP_log2, -0.0, -INFINITY },
    { OP_log2, -1, NAN },
    { OP_log2, INFINITY, INFINITY },
    { OP_log2, NAN, NAN },
    { OP_cbrt, 27, 3 },
    { OP_cbrt, -8, -2 },
    { OP_cbrt, -0.0, -0.0 },
    { OP_cbrt, 0, 0 },
    { OP_cbrt, -INFINITY, -INFINITY },
    { OP_cbrt, NAN, NAN },
    { OP_cbrt, 0x1p-147, 0x1p-49 },
    { OP_tan, 0, 0 },
    { OP_tan, -0.0, -0.0 },
    { OP_tan, INFINITY, NAN },
    { OP_tan, NAN, NAN },
    { OP_asin, 0, 0 },
    { OP_asin, -0.0, -0.0 },
    { OP_asin, 1.5, NAN },
    { OP_asin, -INFINITY, NAN },
    { OP_asin, NAN, NAN },
    { OP_acos, 1, 0 },
    { OP_acos, -1.5, NAN },
    { OP_acos, INFINITY, NAN },
    { OP_acos, NAN, NAN },
    { OP_atan, 0, 0 },
    { OP_atan, -0.0, -0.0 },
    { OP_atan, NAN, NAN },
    { OP_sinh, 0, 0 },
    { OP_sinh, -0.0, -0.0 },
    { OP_sinh, -INFINITY, -INFINITY },
    { OP_sinh, 1e5, INFINITY },
    { OP_sinh, NAN, NAN },
    { OP_cosh, 0, 1 },
    { OP_cosh, -0.0, 1 },
    { OP_cosh, -INFINITY, INFINITY },
    { OP_cosh, 1e5, INFINITY },
    { OP_cosh, NAN, NAN },
    { OP_asinh, 0, 0 },
    { OP_asinh, -0.0, -0.0 },
    { OP_asinh, -INFINITY, -INFINITY },
    { OP_asinh, NAN, NAN },
    { OP_acosh, 1, 0 },
    { OP_acosh, 0.5, NAN },
    { OP_acosh, -2, NAN },
    { OP_acosh, -INFINITY, NAN },
    { OP_acosh, INFINITY, INFINITY },
    { OP_acosh, NAN, NAN },
    { OP_atanh, 0, 0 },
    { OP_atanh, -0.0, -0.0 },
    { OP_atanh, 1, INFINITY },
    { OP_atanh, -1, -INFINITY },
    { OP_atanh, 2, NAN },
    { OP_atanh, -INFINITY, NAN },
    { OP_atanh, NAN, NAN },
    { OP_erf, 0, 0 },
    { OP_erf, -0.0, -0.0 },
    { OP_erf, INFINITY, 1 },
    { OP_erf, -INFINITY, -1 },
    { OP_erf, 40, 1 },
    { OP_erf, NAN, NAN },
    { OP_erfc, 0, 1 },
    { OP_erfc, -0.0, 1 },
    { OP_erfc, INFINITY, 0 },
    { OP_erfc, -INFINITY, 2 },
    { OP_erfc, 30, 0 },
    { OP_erfc, -30, 2 },
    { OP_erfc, NAN, NAN },
    { OP_ceil, -0.5, -0.0 },
    { OP_ceil, 0.5, 1 },
    { OP_ceil, -0.0, -0.0 },
    { OP_ceil, -INFINITY, -INFINITY },
    { OP_ceil, NAN, NAN },
    { OP_trunc, -0.5, -0.0 },
    { OP_trunc, 1.75, 1 },
    { OP_trunc, -1.75, -1 },
    { OP_trunc, INFINITY, INFINITY },
    { OP_round, 0.5, 0 },
    { OP_round, 1.5, 2 },
    { OP_round, 2.5, 2 },
    { OP_round, -0.5, -0.0 },
    { OP_round, -1.5, -2 },
    { OP_round, 0x1p30, 0x1p30 },
    { OP_round, -INFINITY, -INFINITY },
    { OP_round, NAN, NAN },
    { OP_sign, -0.0, -0.0 },
    { OP_sign, NAN, NAN },
    { OP_sign, -3, -1 },
    { OP_floor, -0.5, -1 },
    { OP_floor, -0.0, -0.0 },
};

static void special_values(void)
{
    for (size_t i = 0; i < HOP_COUNT(special); i++)
        for (enum dtype t = DT_F32; t <= DT_F64; t++) {
            double found = apply(special[i].op, t, special[i].x, 0);
            claim(same_number(found, special[i].y), "operator %d on %s of %g: expected %g, found %g",
                  special[i].op, dtype_info[t].name, special[i].x, special[i].y, found);
        }
    for (enum dtype t = DT_F32; t <= DT_F64;
         t++) /* subnormals pass where the function is the identity to first order */
        for (int i = 0; i < 10; i++) {
            static const uint8_t odd[] = { OP_expm1, OP_log1p, OP_sin,  OP_tanh,  OP_tan,
                                           OP_asin,  OP_atan,  OP_sinh, OP_asinh, OP_atanh };
            double x = t == DT_F32 ? 0x1.8p-147 : 0x1p-1074;
            claim(same_number(apply(odd[i], t, x, 0), x), "operator %d flushes a subnormal %s", odd[i],
                  dtype_info[t].name);
        }
    claim(apply(OP_exp, DT_F32, -103, 0) == (float)exp(-103), "exp f32 gives subnormals");
    claim(apply(OP_exp, DT_F64, -744, 0) == exp(-744), "exp f64 gives subnormals");
    for (int i = 0; i < 20000; i++) {
        double x = double_of(draw()), s = apply(OP_sin, DT_F64, x, 0), c = apply(OP_cos, DT_F32, x, 0);
        if (!isnan(s) && fabs(s) > 1) claim(false, "sin f64 of %a is %a", x, s);
        if (!isnan(c) && fabs(c) > 1) claim(false, "cos f32 of %a is %a", x, c);
        double t = apply(OP_tan, DT_F64, x, 0), u = apply(OP_tan, DT_F32, x, 0);
        if (isfinite(x) && !isfinite(t)) claim(false, "tan f64 of %a is %a", x, t);
        if (isfinite((float)x) && !isfinite(u)) claim(false, "tan f32 of %a is %a", x, u);
    }
}

/* At the corners atan2, hypot and copysign are what C's annex F says; mod and floor_div follow fmod, rounded
 * down. */
static void pair_corners(void)
{
    static const double corners[] = { 0,        -0.0,      1,     -1,        2.5,     -2.5,
                                      7,        -7,        1e-40, -1e-40,    1e38,    -1e38,
                                      INFINITY, -INFINITY, NAN,   0x1p-1074, 1.5e308, -1.5e308 };
    for (size_t i = 0; i < HOP_COUNT(corners); i++)
        for (size_t k = 0; k < HOP_COUNT(corners); k++)
            for (enum dtype t = DT_F32; t <= DT_F64; t++) {
                double x = t == DT_F32 ? (float)corners[i] : corners[i],
                       y = t == DT_F32 ? (float)corners[k] : corners[k];
                double angle = t == DT_F32 ? (float)atan2(x, y) : atan2(x, y),
                       found = apply(OP_atan2, t, x, y), step = t == DT_F32 ? 0x1p-23 : 0x1p-52;
                claim(same_number(found, angle) || (angle != 0 && fabs(found / angle - 1) < 1.1 * step) ||
                          fabs(found - angle) <= (t == DT_F32 ? 0x1p-149 : 0x1p-1074),
                      "atan2 %s %g %g: expected %a, found %a", dtype_info[t].name, x, y, angle, found);
                double length = t == DT_F32 ? (float)hypot(x, y) : hypot(x, y);
                found = apply(OP_hypot, t, x, y);
                claim(same_number(found, length) || fabs(found / length - 1) < 1.1 * step,
                      "hypot %s %g %g: expected %a, found %a", dtype_info[t].name, x, y, length, found);
                found = apply(OP_copysign, t, x, y);
                claim(same_number(found, copysign(x, y)), "copysign %s %g %g: found %a", dtype_info[t].name,
                      x, y, found);
                double rest = fmod(x, y), floored = (x - rest) / y;
                if (rest && (rest < 0) != (y < 0)) rest += y, floored -= 1;
                if (t == DT_F32) rest = (float)rest;
                if (rest == 0) rest = copysign(0, y);
                found = apply(OP_mod, t, x, y);
                claim(same_number(found, rest), "mod %s %g %g: expected %a, found %a", dtype_info[t].name, x,
                      y, rest, found);
                double whole = y == 0 || isinf(x) || isinf(y) ? x / y
                               : floored == 0                 ? copysign(0, x / y)
                                                              : rint(floored);
                if (t == DT_F32) whole = (float)whole;
                found = apply(OP_floor_div, t, x, y);
                claim(same_number(found, whole) || fabs(found / whole - 1) < step,
                      "floor_div %s %g %g: expected %a, found %a", dtype_info[t].name, x, y, whole, found);
            }
    claim(apply(OP_mod, DT_F64, -1, 3) == 2 && apply(OP_mod, DT_F64, 1, -3) == -2 &&
              apply(OP_floor_div, DT_F32, -1, 3) == -1 && apply(OP_floor_div, DT_F32, 7, -2) == -4,
          "mod has the sign of the divisor, floor_div rounds down");
    claim(apply(OP_mod, DT_F64, -1, INFINITY) == INFINITY &&
              same_number(apply(OP_floor_div, DT_F64, -1, INFINITY), -0.0),
          "mod and floor_div by infinity");
    for (int i = 0; i < 20000; i++) { /* an f64 holds the floor of two f32 whose quotient an f32 holds */
        float x = float_of((uint32_t)draw()), y = float_of((uint32_t)draw());
        double ratio = (double)x / (double)y;
        if (!(fabs(ratio) < 0x1p24) || !isfinite(y)) continue;
        double whole = floor(ratio);
        claim(apply(OP_floor_div, DT_F32, x, y) == whole, "floor_div f32 %a %a: expected %.0f, found %.0f", x,
              y, whole, apply(OP_floor_div, DT_F32, x, y));
    }
    for (int e = -1074; e <= 1023; e++) { /* exact where the result is */
        double x = ldexp(1, e);
        if (apply(OP_exp2, DT_F64, e, 0) != x || apply(OP_log2, DT_F64, x, 0) != e)
            claim(false, "exp2 and log2 of 2^%d", e);
        if (e % 3 == 0 && apply(OP_cbrt, DT_F64, x, 0) != ldexp(1, e / 3)) claim(false, "cbrt of 2^%d", e);
    }
    claim(fabs(apply(OP_erfc, DT_F64, 27.2, 0) - erfc(27.2)) <= 0x1p-1074 && erfc(27.2) > 0,
          "erfc f64 falls off to subnormals");
    claim(fabs(apply(OP_erfc, DT_F32, 10, 0) - erfc(10)) <= 0x1p-149 && apply(OP_erfc, DT_F32, 10, 0) > 0,
          "erfc f32 falls off to subnormals");
}

/* One rounding: products that need twice the bits. */
static void fused(void)
{
    float x[] = { 1 + 0x1p-23f, 0x1p-100f, INFINITY, 0x1.fffffep127f, 0 },
          y[] = { 1 - 0x1p-23f, 0x1p-49f, 0, 2, -1 }, z[] = { -1, 0x1p-149f, 1, -0x1.fffffep127f, 0 }, r[5];
    scalar_c_kernel(OP_fma, DT_F32)(5, r, (const void *[]){ x, y, z });
    claim(r[0] == -0x1p-46f && r[1] == 0x1p-148f && isnan(r[2]) && r[3] == 0x1.fffffep127f && r[4] == 0 &&
              !signbit(r[4]),
          "fma f32 rounds once");
    double a[] = { 1 + 0x1p-52, 0x1p600 }, b[] = { 1 - 0x1p-52, 0x1p500 }, c[] = { -1, -INFINITY }, d[2];
    scalar_c_kernel(OP_fma, DT_F64)(2, d, (const void *[]){ a, b, c });
    claim(d[0] == -0x1p-104 && d[1] == -INFINITY, "fma f64 rounds once");
}

/* pow at the corners is what C's annex F says. */
static void pow_corners(void)
{
    static const double corners[] = { 0,    -0.0,      1,      -1,      2,       -2,       3,
                                      -3,   0.5,       -0.5,   1.5,     -2.5,    1e-30,    -1e-30,
                                      1e30, -1e30,     0x1p52, -0x1p53, 0x1.8p1, INFINITY, -INFINITY,
                                      NAN,  0x1p-1074, 1e300,  -1e300 };
    for (size_t i = 0; i < HOP_COUNT(corners); i++)
        for (size_t k = 0; k < HOP_COUNT(corners); k++) {
            double x = corners[i], y = corners[k], wide = apply(OP_pow, DT_F64, x, y), e = pow(x, y);
            claim(same_number(wide, e) || (isfinite(e) && e != 0 && fabs(wide / e - 1) < 1e-15),
                  "pow f64 %g %g: expected %a, found %a", x, y, e, wide);
            float a = (float)x, b = (float)y, narrow = (float)apply(OP_pow, DT_F32, x, y),
                  f = (float)pow(a, b);
            claim(same_number(narrow, f) || (isfinite(f) && f != 0 && fabsf(narrow / f - 1) < 1e-6f),
                  "pow f32 %g %g: expected %a, found %a", a, b, f, narrow);
        }
}

/* pow(x, 1) and pow(x, 2) are x and x·x, so that passes may replace them. */
static void exact_powers(void)
{
    for (int i = 0; i < 5000; i++) {
        double x = i % 2 ? double_of(draw()) : between(-100, 100);
        float f = i % 2 ? float_of((uint32_t)draw()) : (float)x;
        bool same = same_number(apply(OP_pow, DT_F64, x, 1), x) &&
                    same_number(apply(OP_pow, DT_F64, x, 2), x * x) &&
                    same_number(apply(OP_pow, DT_F32, f, 1), f) &&
                    same_number(apply(OP_pow, DT_F32, f, 2), f * f);
        if (!same) claim(false, "pow of %a and %a to 1 and 2", x, f);
    }
    claim(apply(OP_pow, DT_F64, NAN, 0) == 1 && apply(OP_pow, DT_F32, 3, 2) == 9, "pow to 0 and 2");
}

static void integer_rules(void)
{
    int32_t x[] = { 7, -7, 7, -7, 5, INT32_MIN, INT32_MIN }, y[] = { 2, 2, -2, -2, 0, -1, 0 }, q[7], r[7];
    scalar_c_kernel(OP_div, DT_I32)(7, q, (const void *[]){ x, y });
    scalar_c_kernel(OP_rem, DT_I32)(7, r, (const void *[]){ x, y });
    claim(!memcmp(q, (int32_t[]){ 3, -3, -3, 3, 0, INT32_MIN, 0 }, sizeof q),
          "i32 div truncates; by zero it is 0");
    claim(!memcmp(r, (int32_t[]){ 1, -1, 1, -1, 5, 0, INT32_MIN }, sizeof r),
          "i32 rem follows the dividend; by zero it is the dividend");
    scalar_c_kernel(OP_floor_div, DT_I32)(7, q, (const void *[]){ x, y });
    scalar_c_kernel(OP_mod, DT_I32)(7, r, (const void *[]){ x, y });
    claim(!memcmp(q, (int32_t[]){ 3, -4, -4, 3, 0, INT32_MIN, 0 }, sizeof q),
          "i32 floor_div rounds down; by zero it is 0");
    claim(!memcmp(r, (int32_t[]){ 1, 1, -1, -1, 5, 0, INT32_MIN }, sizeof r),
          "i32 mod follows the divisor; by zero it is the dividend");
    int32_t bits[] = { 1, -1, -8, 5, INT32_MIN, 3, -3 }, by[] = { 31, 32, 1, -1, 31, 0, INT32_MIN };
    scalar_c_kernel(OP_shift_left, DT_I32)(7, q, (const void *[]){ bits, by });
    scalar_c_kernel(OP_shift_right, DT_I32)(7, r, (const void *[]){ bits, by });
    claim(!memcmp(q, (int32_t[]){ INT32_MIN, 0, -16, 0, 0, 3, 0 }, sizeof q),
          "i32 shift_left; by the width or a negative number it is 0");
    claim(!memcmp(r, (int32_t[]){ 0, -1, -4, 0, -1, 3, -1 }, sizeof r), "i32 shift_right copies the sign");
    uint32_t words[] = { 0x80000000u, 1, 0xffffffffu, 0xffffffffu }, far[] = { 31, 1, 32, 0xffffffffu },
             shifted[4];
    scalar_c_kernel(OP_shift_right, DT_U32)(4, shifted, (const void *[]){ words, far });
    claim(!memcmp(shifted, (uint32_t[]){ 1, 0, 0, 0 }, sizeof shifted), "u32 shift_right moves zeros in");
    scalar_c_kernel(OP_popcount, DT_I32)(7, q, (const void *[]){ bits });
    scalar_c_kernel(OP_count_leading_zeros,
                    DT_I32)(7, r, (const void *[]){ (int32_t[]){ 1, -1, 0, 5, INT32_MIN, 1 << 30, 255 } });
    claim(!memcmp(q, (int32_t[]){ 1, 32, 29, 2, 1, 2, 31 }, sizeof q),
          "popcount counts bits of two's complement");
    claim(!memcmp(r, (int32_t[]){ 31, 0, 32, 29, 0, 1, 24 }, sizeof r),
          "count_leading_zeros of 0 is the width");
    float f[] = { 1.9f, -1.9f, 3e9f, -3e9f, NAN, INFINITY, -1.0f };
    int32_t i[7];
    uint32_t u[7];
    scalar_c_cast(DT_F32, DT_I32)(7, i, (const void *[]){ f });
    scalar_c_cast(DT_F32, DT_U32)(7, u, (const void *[]){ f });
    claim(!memcmp(i, (int32_t[]){ 1, -1, INT32_MAX, INT32_MIN, 0, INT32_MAX, -1 }, sizeof i),
          "f32 to i32 truncates and saturates, NaN gives 0");
    claim(!memcmp(u, (uint32_t[]){ 1, 0, 3000000000u, 0, 0, UINT32_MAX, 0 }, sizeof u),
          "f32 to u32 truncates and saturates, NaN gives 0");
    claim(isnan(apply(OP_max, DT_F32, NAN, 1)) && isnan(apply(OP_max, DT_F32, 1, NAN)) &&
              isnan(apply(OP_min, DT_F64, 1, NAN)),
          "NaN wins in max and min");
}

/* ---- random ---- */

static void random_numbers(void)
{
    static const struct {
        uint32_t key[2], counter[2], words[2];
    } known[] = {
        /* the generator's published test vectors */
        { { 0, 0 }, { 0, 0 }, { 0x6b200159, 0x99ba4efe } },
        { { 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff }, { 0x1cb996fc, 0xbb002be7 } },
        { { 0x13198a2e, 0x03707344 }, { 0x243f6a88, 0x85a308d3 }, { 0xc4923a9c, 0x483df7a0 } },
    };
    for (size_t i = 0; i < HOP_COUNT(known); i++) {
        uint32_t words[2];
        scalar_c_block(known[i].key, known[i].counter[0] | (uint64_t)known[i].counter[1] << 32, false, words);
        claim(!memcmp(words, known[i].words, sizeof words), "block %zu: expected %08x %08x, found %08x %08x",
              i, known[i].words[0], known[i].words[1], words[0], words[1]);
    }
    enum { DRAWS = 200000 };
    const uint32_t key[2] = { 42, 7 };
    double sums[4][5] = { { 0 } };
    bool inside = true;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x[4] = { scalar_c_uniform_f32(key, i), scalar_c_uniform_f64(key, i),
                        scalar_c_normal_f32(key, i), scalar_c_normal_f64(key, i) };
        inside &= x[0] >= 0 && x[0] < 1 && x[1] >= 0 && x[1] < 1 && isfinite(x[2]) && isfinite(x[3]);
        for (int k = 0; k < 4; k++)
            for (int power = 1; power <= 4; power++) sums[k][power] += pow(x[k], power) / DRAWS;
    }
    claim(inside, "uniform numbers lie in [0, 1), normal ones are finite");
    for (int k = 0; k < 4; k++) /* five standard errors of each moment */
        for (int power = 1; power <= 4; power++) {
            double expected = k < 2 ? 1.0 / (power + 1) : (const double[]){ 0, 0, 1, 0, 3 }[power];
            double second = k < 2 ? 1.0 / (2 * power + 1) : (const double[]){ 0, 1, 3, 15, 105 }[power];
            double error = 5 * sqrt((second - expected * expected) / DRAWS);
            claim(fabs(sums[k][power] - expected) < error, "moment %d of %s: expected %g, found %g", power,
                  (const char *[]){ "uniform f32", "uniform f64", "normal f32", "normal f64" }[k], expected,
                  sums[k][power]);
        }
    uint32_t ones[32] = { 0 };
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t w[2];
        scalar_c_block(key, i, false, w);
        for (int bit = 0; bit < 32; bit++) ones[bit] += w[0] >> bit & 1;
    }
    for (int bit = 0; bit < 32; bit++)
        claim(fabs(ones[bit] - DRAWS / 2.0) < 5 * sqrt(DRAWS / 4.0), "bit %d is set %u times of %d", bit,
              ones[bit], DRAWS);
}

/* ---- the two instantiations ---- */

static struct module *module;

/* out[i] = op(in[0][i], …) by the reference executor of loop programs. */
static void run_program(enum op op, enum dtype t, enum dtype result, uint32_t n_operands, bool strict,
                        int64_t n, void *out, const void *const *in)
{
    struct lp *p = lp_new(module, NULL, strict);
    void *buffers[4];
    lpv operands[3];
    for (uint32_t i = 0; i <= n_operands; i++) {
        enum dtype dtype = i == n_operands ? result : op == OP_select && i == 0 ? DT_BOOL : t;
        lp_buffer(p, (struct lp_buffer){ .kind = i == n_operands ? BUF_RESULT : BUF_ARG,
                                         .dtype = (uint8_t)dtype,
                                         .static_count = n });
        buffers[i] = i == n_operands ? out : (void *)in[i];
    }
    lpv i = lp_for_begin(p, lp_index(p, 0), lp_index(p, n), lp_index(p, 1), FOR_VECTOR);
    for (uint32_t k = 0; k < n_operands; k++) operands[k] = lp_load(p, k, i);
    lp_store(p, n_operands, i, scalar_lp(p, op, operands));
    lp_for_end(p);
    lp_execute(p, &(struct hop_rt){ 0 }, buffers, NULL);
    lp_free(p);
}

static bool same_bits(enum dtype t, const void *a, const void *b, int64_t i)
{
    size_t width = dtype_info[t].size;
    if (t == DT_F32 && isnan(((const float *)a)[i]) && isnan(((const float *)b)[i])) return true;
    if (t == DT_F64 && isnan(((const double *)a)[i]) && isnan(((const double *)b)[i])) return true;
    return !memcmp((const char *)a + (size_t)i * width, (const char *)b + (size_t)i * width, width);
}

static void fill(enum dtype t, void *data, int64_t n)
{
    static const double corners[] = { 0,   -0.0, 1,     -1,     2,      -2,   0.5,  INFINITY, -INFINITY,
                                      NAN, 3,    1e-40, -1e-40, 1e-310, 88.8, -104, 709.9,    -745.2 };
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = draw();
        double moderate = i % 5 == 0   ? corners[bits % HOP_COUNT(corners)]
                          : i % 5 == 1 ? between(-2, 2)
                          : i % 5 == 2 ? between(-100, 100)
                                       : double_of(bits);
        switch (t) {
        case DT_BOOL: ((bool *)data)[i] = bits >> 40 & 1; break;
        case DT_I32: ((int32_t *)data)[i] = i % 3 ? (int32_t)(bits % 7) - 3 : (int32_t)bits; break;
        case DT_I64: ((int64_t *)data)[i] = i % 3 ? (int64_t)(bits % 7) - 3 : (int64_t)bits; break;
        case DT_U32: ((uint32_t *)data)[i] = i % 3 ? (uint32_t)(bits % 7) : (uint32_t)bits; break;
        case DT_F32: ((float *)data)[i] = i % 5 == 4 ? float_of((uint32_t)bits) : (float)moderate; break;
        default: ((double *)data)[i] = moderate; break;
        }
    }
}

static void instantiations_agree(void)
{
    enum { N = 3000 };
    static double x[3][N], c[N], lp[N];
    const void *in[3] = { x[0], x[1], x[2] };
    for (int op = 0; op < OP_COUNT; op++)
        for (enum dtype t = DT_BOOL; t < DT_COUNT; t++) {
            scalar_kernel kernel = scalar_c_kernel((enum op)op, t);
            if (!kernel) continue;
            bool asks = (op >= OP_eq && op <= OP_ge) || op == OP_isnan || op == OP_isinf || op == OP_isfinite;
            enum dtype result = asks ? DT_BOOL : t;
            uint32_t n_operands = op_table[op]->sig.min_operands;
            for (uint32_t k = 0; k < n_operands; k++) fill(op == OP_select && k == 0 ? DT_BOOL : t, x[k], N);
            kernel(N, c, in);
            run_program((enum op)op, t, result, n_operands, true, N, lp, in);
            int64_t wrong = 0;
            while (wrong < N && same_bits(result, c, lp, wrong)) wrong++;
            claim(wrong == N, "%s on %s: the loop program and C disagree on element %lld", op_table[op]->name,
                  dtype_info[t].name, (long long)wrong);
        }
}

static void random_instantiations_agree(void)
{
    enum { N = 2000 };
    static uint32_t keys[2 * N];
    static int64_t positions[N];
    static double lp[N], c[N];
    for (int i = 0; i < N; i++)
        keys[2 * i] = (uint32_t)draw(), keys[2 * i + 1] = (uint32_t)draw(),
                 positions[i] = i % 2 ? i : (int64_t)(draw() >> 2);
    for (int op = OP_random_bits; op <= OP_random_normal; op++)
        for (enum dtype t = op == OP_random_bits ? DT_U32 : DT_F32;
             t <= (op == OP_random_bits ? DT_U32 : DT_F64); t++) {
            struct lp *p = lp_new(module, NULL, true);
            lp_buffer(p, (struct lp_buffer){ .kind = BUF_ARG, .dtype = DT_U32, .static_count = 2 * N });
            lp_buffer(p, (struct lp_buffer){ .kind = BUF_ARG, .dtype = DT_I64, .static_count = N });
            lp_buffer(p, (struct lp_buffer){ .kind = BUF_RESULT, .dtype = (uint8_t)t, .static_count = N });
            lpv i = lp_for_begin(p, lp_index(p, 0), lp_index(p, N), lp_index(p, 1), FOR_VECTOR),
                two = lp_bin(p, LP_MUL, i, lp_index(p, 2));
            lpv key[2] = { lp_load(p, 0, two), lp_load(p, 0, lp_bin(p, LP_ADD, two, lp_index(p, 1))) };
            lp_store(p, 2, i, scalar_lp_random(p, (enum op)op, t, key, lp_load(p, 1, i)));
            lp_for_end(p);
            lp_execute(p, &(struct hop_rt){ 0 }, (void *[]){ keys, positions, lp }, NULL);
            lp_free(p);
            int64_t wrong = N;
            for (int k = 0; k < N; k++) {
                const uint32_t *key_k = keys + 2 * k;
                uint32_t words[2];
                uint64_t at = (uint64_t)positions[k];
                scalar_c_block(key_k, at, false, words);
                if (t == DT_U32) ((uint32_t *)c)[k] = words[0];
                else if (t == DT_F32)
                    ((float *)c)[k] = op == OP_random_uniform ? scalar_c_uniform_f32(key_k, at)
                                                              : scalar_c_normal_f32(key_k, at);
                else
                    c[k] = op == OP_random_uniform ? scalar_c_uniform_f64(key_k, at)
                                                   : scalar_c_normal_f64(key_k, at);
                if (wrong == N && !same_bits(t, c, lp, k)) wrong = k;
            }
            claim(wrong == N, "%s %s: the loop program and C disagree on element %lld", op_table[op]->name,
                  dtype_info[t].name, (long long)wrong);
        }
}

/* Default mode contracts; the bounds hold there too. */
static void contracted_accuracy(void)
{
    enum { N = 3500 };
    static float x[N], y[N];
    static double u[N], v[N];
    for (size_t k = 0; k < HOP_COUNT(functions); k++) {
        const struct function *fn = &functions[k];
        double worst32 = 0, worst64 = 0;
        for (int i = 0; i < N; i++) {
            double bound = (const double[]){ 1, 3, 20, 100, 1e5, 0x1p20, 0 }[i % 7];
            u[i] = bound ? between(-bound, bound) : double_of(draw());
            x[i] = bound ? (float)u[i] : float_of((uint32_t)draw());
        }
        run_program(fn->op, DT_F32, DT_F32, 1, false, N, y, (const void *[]){ x });
        run_program(fn->op, DT_F64, DT_F64, 1, false, N, v, (const void *[]){ u });
        for (int i = 0; i < N; i++) {
            worst32 = fmax(worst32, distance32(y[i], fn->wide(x[i])));
            worst64 = fmax(worst64, distance64(v[i], fn->wide(u[i])));
        }
        claim(worst32 <= fn->bound32, "%s f32 with contraction is %.3f ulp off", fn->name, worst32);
        claim(worst64 <= fn->bound64, "%s f64 with contraction is %.3f ulp off", fn->name, worst64);
    }
}

/* Arguments beyond every limit of the quick reductions, and next to them. The first two are the f64 and the
 * f32 that come nearest to an odd multiple of pi/2 (Muller and others, Handbook of Floating-Point Arithmetic,
 * section 10.2), the third is Ng's example; values by mpmath with 2,500 bits. */
static const struct angle_case {
    double x;
    long double sine, cosine, tangent;
} large[] = {
    { 0x1.6ac5b262ca1ffp+849, 1.0L, -4.68716592425462761112e-19L, -2133485385753703843.67L },
    { 0x1.f37c8ap+95, 0.999999999999999998696L, -1.6147697982476211876e-9L, -619283318.950613868117L },
    { 0x1.0f0cf064dd592p+73, -0.852200849767188801773L, 0.523214785395138945498L, -1.62877822560689887855L },
    { 0x1.fffffffffffffp+1023, 0.0049619547891840617905L, -0.999987689426559937465L,
      -0.0049620158744448949005L },
    { 0x1.fffffep+127, -0.521876523333658540552L, 0.853021039830304158052L, -0.611797949834248061162L },
    { 0x1.000002p+26, -0.958738717291690148189L, -0.284288712343428496598L, 3.37241218403883620224L },
    { 0x1p+1023, 0.563127779850884013453L, -0.826369834614147994501L, -0.681447647606621501285L },
    { -0x1p+120, -0.377820109360752022656L, -0.925879022854837867304L, 0.408066388841804238545L },
    { 0x1.000002p+20, 0.445583582441247176668L, 0.895240342622484970837L, 0.497725092611410475187L },
    { -0x1.000002p+26, 0.958738717291690148189L, -0.284288712343428496598L, -3.37241218403883620224L },
    { 0x1.0000000000001p+44, 0.393762890444911381183L, 0.91921204632471430493L, 0.428370028460020317379L },
};

static void large_angles(void)
{
    enum { N = HOP_COUNT(large) };
    static const enum op ops[] = { OP_sin, OP_cos, OP_tan };
    for (int k = 0; k < 3; k++)
        for (int mode = 0; mode < 3; mode++) { /* C, the strict loop program, the contracted one */
            float x[N], y[N];
            double u[N], v[N];
            for (int i = 0; i < N; i++) u[i] = large[i].x, x[i] = (float)u[i];
            if (mode) run_program(ops[k], DT_F32, DT_F32, 1, mode == 1, N, y, (const void *[]){ x });
            else scalar_c_kernel(ops[k], DT_F32)(N, y, (const void *[]){ x });
            if (mode) run_program(ops[k], DT_F64, DT_F64, 1, mode == 1, N, v, (const void *[]){ u });
            else scalar_c_kernel(ops[k], DT_F64)(N, v, (const void *[]){ u });
            for (int i = 0; i < N; i++) {
                long double exact = k == 0 ? large[i].sine : k == 1 ? large[i].cosine : large[i].tangent;
                double off = distance64(v[i], exact);
                claim(off < (fabs(u[i]) > 0x1p44 ? 1 : 2.7), "%s f64 of %a is %a, %.2f ulp off (mode %d)",
                      op_table[ops[k]]->name, u[i], v[i], off, mode);
                if (x[i] != u[i]) continue;
                off = distance32(y[i], exact);
                claim(off < (fabs(u[i]) > 0x1p26 ? 0.51 : 2.2), "%s f32 of %a is %a, %.2f ulp off (mode %d)",
                      op_table[ops[k]]->name, x[i], y[i], off, mode);
            }
        }
}

/* ---- derivatives where they need care ---- */

/* Derivatives of z = `op`(x, y) by x and y, and the second one by x. */
static const struct corner {
    const char *op;
    double x, y, by_x, by_y, by_xx;
} corners[] = {
    { "pow", 0, 0, 0, 0, 0 },
    { "pow", 0, 1, 1, 0, 0 },
    { "pow", 0, 2, 0, 0, 2 },
    { "pow", 2, 0, 0, 0x1.62e42fefa39efp-1, 0 },
    { "pow", -2, 3, 12, NAN, -12 },
    { "pow", 2, 3, 12, 8 * 0x1.62e42fefa39efp-1, 12 },
    { "max", 1, 1, 0.5, 0.5, 0 },
    { "max", 2, 1, 1, 0, 0 },
    { "min", 1, 1, 0.5, 0.5, 0 },
    { "min", 2, 1, 0, 1, 0 },
    { "div", 3, 2, 0.5, -0.75, 0 },
    { "rem", 7, 2, 1, -3, 0 },
    { "rem", -7, 2, 1, 3, 0 },
    { "mod", 7, 2, 1, -3, 0 },
    { "mod", -7, 2, 1, 4, 0 },
    { "atan2", 0, 0, 0, 0, 0 },
    { "atan2", 3, 4, 0.16, -0.12, -2 * 0.16 * 0.12 },
    { "atan2", 3e200, 4e200, 0.16e-200, -0.12e-200, 0 },
    { "hypot", 0, 0, 0, 0, 0 },
    { "hypot", 3, 4, 0.6, 0.8, 0.128 },
    { "hypot", 3e200, -4e200, 0.6, -0.8, 0 },
    { "copysign", 2, -1, -1, 0, 0 },
    { "copysign", -2, -0.0, 1, 0, 0 },
    { "copysign", 0, -1, 0, 0, 0 },
    { "mul", 3, 5, 5, 3, 0 },
};
static const struct {
    const char *op;
    double x, by_x, by_xx;
} single_corners[] = {
    { "abs", 0, 0, 0 },
    { "abs", -3, -1, 0 },
    { "tanh", 0, 1, 0 },
    { "sigmoid", 0, 0.25, 0 },
    { "expm1", 0, 1, 1 },
    { "log1p", 0, 1, -1 },
    { "sqrt", 4, 0.25, -0.03125 },
    { "rsqrt", 4, -0.0625, 0.0234375 },
    { "tanh", 400, 0, 0 },
    { "sigmoid", -800, 0, 0 },
    { "cos", 0, 0, -1 },
    { "sin", 0, 1, 0 },
    { "exp2", 0, 0x1.62e42fefa39efp-1, 0x1.ebfbdff82c58fp-2 },
    { "log2", 2, 0.5 * 0x1.71547652b82fep+0, -0.25 * 0x1.71547652b82fep+0 },
    { "cbrt", 8, 1.0 / 12, -1.0 / 144 },
    { "tan", 0, 1, 0 },
    { "asin", 0, 1, 0 },
    { "acos", 0, -1, 0 },
    { "atan", 1, 0.5, -0.5 },
    { "atan", 1e200, 0, 0 },
    { "sinh", 0, 1, 0 },
    { "cosh", 0, 0, 1 },
    { "asinh", 0, 1, 0 },
    { "asinh", 1e200, 1e-200, 0 },
    { "acosh", 1.25, 4.0 / 3, -1.25 * 64 / 27 },
    { "atanh", 0.5, 4.0 / 3, 16.0 / 9 },
    { "erf", 0, 0x1.20dd750429b6dp+0, 0 },
    { "erfc", 0, -0x1.20dd750429b6dp+0, 0 },
    { "erf", 30, 0, 0 },
};

static double call(struct module *m, uint32_t fn, const double *x, uint32_t n_args, uint32_t result)
{
    struct interp in = { .m = m };
    struct tensor *args[2], *out[4];
    for (uint32_t i = 0; i < n_args; i++) {
        args[i] = tensor_new(DT_F64, 0, NULL);
        memcpy(args[i]->data, &x[i], sizeof x[i]);
    }
    interp_run(&in, fn, args, NULL, out);
    double found = *(const double *)out[result]->data;
    for (uint32_t i = 0; i < module_fn(m, fn)->n_results; i++) tensor_free(out[i]);
    for (uint32_t i = 0; i < n_args; i++) tensor_free(args[i]);
    return found;
}

static bool near(double found, double expected)
{
    return (isnan(found) && isnan(expected)) || fabs(found - expected) <= 1e-14 * fmax(1, fabs(expected));
}

static void check_corner(const char *op, const double *x, uint32_t n_args, const double *first, double second)
{
    struct module *m = module_new();
    hop_cleanup_push(module_free, m);
    char text[256];
    const char *format =
        n_args == 2
            ? "hop 1\nfn @f(%%x: f64[], %%y: f64[]) -> (f64[]) {\n  %%z = %s(%%x, %%y)\n  return %%z\n}\n"
            : "hop 1\nfn @f(%%x: f64[]) -> (f64[]) {\n  %%z = %s(%%x)\n  return %%z\n}\n";
    int length = snprintf(text, sizeof text, format, op);
    text_read_into(m, "corner", text, (size_t)length);
    uint32_t fn = module_find(m, "f"), by_all = grad_function(m, fn, (bool[]){ true, true }, false),
             by_x = grad_function(m, fn, (bool[]){ true, false }, false);
    uint32_t by_xx = grad_function(m, by_x, (bool[]){ true, false }, false);
    for (uint32_t i = 0; i < n_args; i++) {
        double found = call(m, by_all, x, n_args, i);
        claim(near(found, first[i]), "%s at %g, %g by operand %u: expected %g, found %g", op, x[0],
              n_args > 1 ? x[1] : 0, i, first[i], found);
    }
    double found = call(m, by_xx, x, n_args, 0);
    claim(near(found, second), "%s at %g, %g twice by operand 0: expected %g, found %g", op, x[0],
          n_args > 1 ? x[1] : 0, second, found);
    hop_cleanup_pop(m);
    module_free(m);
}

static void derivatives(void)
{
    for (size_t i = 0; i < HOP_COUNT(corners); i++)
        check_corner(corners[i].op, (double[]){ corners[i].x, corners[i].y }, 2,
                     (double[]){ corners[i].by_x, corners[i].by_y }, corners[i].by_xx);
    for (size_t i = 0; i < HOP_COUNT(single_corners); i++)
        check_corner(single_corners[i].op, &single_corners[i].x, 1, &single_corners[i].by_x,
                     single_corners[i].by_xx);
}

/* Elements that share the largest value share its derivative. */
static void shared_maximum(void)
{
    static const char text[] =
        "hop 1\nfn @f(%x: f64[4]) -> (f64[]) {\n  %y = reduce_max(%x)\n  return %y\n}\n";
    struct module *m = text_read("shared", text, sizeof text - 1);
    struct interp in = { .m = m };
    struct tensor *x = tensor_new(DT_F64, 1, (int64_t[]){ 4 }), *out;
    memcpy(x->data, (double[]){ 3, 1, 3, 2 }, 4 * sizeof(double));
    interp_run(&in, grad_function(m, module_find(m, "f"), (bool[]){ true }, false), &x, NULL, &out);
    claim(!memcmp(out->data, (double[]){ 0.5, 0, 0.5, 0 }, 4 * sizeof(double)),
          "equal largest elements get half the derivative each");
    tensor_free(out);
    tensor_free(x);
    module_free(m);
}

/* ---- sums ---- */

/* The strict order of a row: sixteen lanes, then halves onto each other. */
static void strict_order(void)
{
    static const char text[] = "hop 1\nfn @f(%x: f32[3, 37]) -> (f32[3], f32[37], f32[]) {\n  %a = sum {dims "
                               "= [1]} (%x)\n  %b = sum {dims = [0]} (%x)\n"
                               "  %c = sum(%x)\n  return %a, %b, %c\n}\n";
    struct module *m = text_read("order", text, sizeof text - 1);
    struct interp in = { .m = m };
    struct tensor *x = tensor_new(DT_F32, 2, (int64_t[]){ 3, 37 }), *out[3];
    float(*rows)[37] = x->data, whole[16] = { 0 };
    for (int r = 0; r < 3; r++)
        for (int i = 0; i < 37; i++) rows[r][i] = (float)between(-1, 1);
    interp_run(&in, module_find(m, "f"), &x, NULL, out);
    for (int r = 0; r < 3; r++) {
        float lanes[16] = { 0 };
        for (int i = 0; i < 37; i++) lanes[i % 16] += rows[r][i], whole[i % 16] += rows[r][i];
        for (int w = 8; w; w /= 2)
            for (int j = 0; j < w; j++) lanes[j] += lanes[j + w];
        claim(((float *)out[0]->data)[r] == lanes[0], "row %d is summed over 16 lanes", r);
    }
    for (int w = 8; w; w /= 2)
        for (int j = 0; j < w; j++) whole[j] += whole[j + w];
    claim(*(float *)out[2]->data == whole[0], "all rows are summed over the same 16 lanes");
    for (int i = 0; i < 37; i++)
        claim(((float *)out[1]->data)[i] == ((0 + rows[0][i]) + rows[1][i]) + rows[2][i],
              "column %d is summed from above", i);
    for (int k = 0; k < 3; k++) tensor_free(out[k]);
    tensor_free(x);
    module_free(m);
}

static void everything(void)
{
    for (size_t i = 0; i < HOP_COUNT(functions); i++) {
        sweep_f32(&functions[i], getenv("MATH_TEST_STEP") ? (uint32_t)atoi(getenv("MATH_TEST_STEP")) : 1499);
        sweep_f64(&functions[i], 32);
    }
    sweep_pow(16);
    sweep_pairs(24);
    special_values();
    pow_corners();
    exact_powers();
    pair_corners();
    fused();
    integer_rules();
    random_numbers();
    instantiations_agree();
    random_instantiations_agree();
    contracted_accuracy();
    large_angles();
    derivatives();
    shared_maximum();
    strict_order();
}

int main(void)
{
    struct hop_catch catch;
    module = module_new();
    if (HOP_TRY(catch)) {
        everything();
        hop_catch_end(&catch);
    } else {
        claim(false, "an error: %s", (hop_caught(), hop_message()));
    }
    module_free(module);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
