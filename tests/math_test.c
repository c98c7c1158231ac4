/* Elementary functions against libm in a wider type, special values, the random generator, and the two instantiations of the scalar vocabulary against
 * each other bit for bit. Last line: "N passed, M failed". */
#include "loop/lp.h"
#include "ops/scalar_c.h"
#include "ops/scalar_lp.h"
#include "runtime/rt.h"

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

static float float_of(uint32_t u) { float x; return memcpy(&x, &u, sizeof x), x; }
static double double_of(uint64_t u) { double x; return memcpy(&x, &u, sizeof x), x; }
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
    double limit32, limit64;  /* |x| up to which the bounds hold; 0: everywhere */
    double bound32, bound64;  /* in units in the last place */
} functions[] = {
    { "exp", OP_exp, expl, 0, 0, 1.0, 1.0 },
    { "expm1", OP_expm1, expm1l, 0, 0, 1.5, 1.5 },
    { "log", OP_log, logl, 0, 0, 1.0, 1.0 },
    { "log1p", OP_log1p, log1pl, 0, 0, 1.5, 1.5 },
    { "sqrt", OP_sqrt, sqrtl, 0, 0, 0.5001, 0.5001 },
    { "rsqrt", OP_rsqrt, rsqrt_l, 0, 0, 1.5, 1.5 },
    { "sin", OP_sin, sinl, 6.5e6, 6.5e6, 2.2, 2.7 },
    { "cos", OP_cos, cosl, 6.5e6, 6.5e6, 2.2, 2.7 },
    { "tanh", OP_tanh, tanhl, 0, 0, 2.5, 2.5 },
    { "sigmoid", OP_sigmoid, sigmoid_l, 0, 0, 2.2, 2.2 },
};

/* How far `found` is from `exact` in units in the last place of a type with `mantissa` bits and exponents from `least`. Infinity where only one is
 * NaN or infinite. */
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
static double distance32(float found, long double exact) { return distance(found, exact, 24, -125, 3.40282346638528859811704183484516925e+38 * (1 + 0x1p-25)); }
static double distance64(double found, long double exact)
{
    if (isinf(found)) return fabsl(exact) >= 0x1.fffffffffffff8p1023L && (exact > 0) == (found > 0) ? 0 : INFINITY;
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
    if (getenv("MATH_TEST_VERBOSE")) printf("%-8s f32 worst %.4f at %a, rms %.4f over %llu\n", fn->name, worst, where, sqrt(square / (double)count), (unsigned long long)count);
    claim(worst <= fn->bound32, "%s f32 is %.3f ulp off at %a (bound %.2f)", fn->name, worst, where, fn->bound32);
}

static void sweep_f64(const struct function *fn, int rounds)
{
    static double x[CHUNK], y[CHUNK];
    scalar_kernel kernel = scalar_c_kernel(fn->op, DT_F64);
    double worst = 0, where = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < CHUNK; i++) {
            double bound = (const double[]){ 1, 2, 20, 760, 1e5, 0, 0, 0.1 }[round % 8];
            do x[i] = round % 8 == 6 ? 1 + between(-0.01, 0.01) : bound ? between(-bound, bound) : double_of(draw());
            while (fn->limit64 && fabs(x[i]) > fn->limit64);
        }
        kernel(CHUNK, y, (const void *[]){ x });
        for (int i = 0; i < CHUNK; i++) {
            double d = distance64(y[i], fn->wide(x[i]));
            if (d > worst) worst = d, where = x[i];
        }
    }
    if (getenv("MATH_TEST_VERBOSE")) printf("%-8s f64 worst %.4f at %a\n", fn->name, worst, where);
    claim(worst <= fn->bound64, "%s f64 is %.3f ulp off at %a (bound %.2f)", fn->name, worst, where, fn->bound64);
}

static void sweep_pow(int rounds)
{
    static float x[CHUNK], y[CHUNK], z[CHUNK];
    static double u[CHUNK], v[CHUNK], w[CHUNK];
    double worst32 = 0, worst64 = 0, at32[2] = { 0 }, at64[2] = { 0 };
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < CHUNK; i++) {
            double base = round % 4 == 0 ? between(0, 3) : round % 4 == 1 ? 1 + between(-1e-3, 1e-3) : exp(between(-700, 700));
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
    if (getenv("MATH_TEST_VERBOSE")) printf("pow f32 worst %.4f at %a %a, f64 worst %.4f at %a %a\n", worst32, at32[0], at32[1], worst64, at64[0], at64[1]);
    claim(worst32 <= 1.0, "pow f32 is %.3f ulp off at %a, %a", worst32, at32[0], at32[1]);
    claim(worst64 <= 2.5, "pow f64 is %.3f ulp off at %a, %a", worst64, at64[0], at64[1]);
}

/* ---- special values ---- */

static bool same_number(double x, double y) { return (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y)); }

static double apply(enum op op, enum dtype t, double x, double y)
{
    float a = (float)x, b = (float)y, c;
    double d;
    if (t == DT_F32) return scalar_c_kernel(op, t)(1, &c, (const void *[]){ &a, &b }), c;
    return scalar_c_kernel(op, t)(1, &d, (const void *[]){ &x, &y }), d;
}

static void special_values(void)
{
    static const struct { enum op op; double x, y; } cases[] = {
        { OP_exp, 0, 1 }, { OP_exp, -0.0, 1 }, { OP_exp, INFINITY, INFINITY }, { OP_exp, -INFINITY, 0 }, { OP_exp, NAN, NAN }, { OP_exp, 1e30, INFINITY }, { OP_exp, -1e30, 0 },
        { OP_expm1, 0, 0 }, { OP_expm1, -0.0, -0.0 }, { OP_expm1, INFINITY, INFINITY }, { OP_expm1, -INFINITY, -1 }, { OP_expm1, NAN, NAN }, { OP_expm1, -1e30, -1 },
        { OP_log, 1, 0 }, { OP_log, 0, -INFINITY }, { OP_log, -0.0, -INFINITY }, { OP_log, INFINITY, INFINITY }, { OP_log, -1, NAN }, { OP_log, -INFINITY, NAN }, { OP_log, NAN, NAN },
        { OP_log1p, 0, 0 }, { OP_log1p, -0.0, -0.0 }, { OP_log1p, -1, -INFINITY }, { OP_log1p, -2, NAN }, { OP_log1p, INFINITY, INFINITY }, { OP_log1p, NAN, NAN },
        { OP_sqrt, -0.0, -0.0 }, { OP_sqrt, -1, NAN }, { OP_sqrt, INFINITY, INFINITY },
        { OP_rsqrt, 0, INFINITY }, { OP_rsqrt, -0.0, -INFINITY }, { OP_rsqrt, INFINITY, 0 }, { OP_rsqrt, -1, NAN }, { OP_rsqrt, NAN, NAN },
        { OP_sin, 0, 0 }, { OP_sin, -0.0, -0.0 }, { OP_sin, INFINITY, NAN }, { OP_sin, -INFINITY, NAN }, { OP_sin, NAN, NAN },
        { OP_cos, 0, 1 }, { OP_cos, -0.0, 1 }, { OP_cos, INFINITY, NAN }, { OP_cos, NAN, NAN },
        { OP_tanh, 0, 0 }, { OP_tanh, -0.0, -0.0 }, { OP_tanh, INFINITY, 1 }, { OP_tanh, -INFINITY, -1 }, { OP_tanh, NAN, NAN }, { OP_tanh, 50, 1 },
        { OP_sigmoid, 0, 0.5 }, { OP_sigmoid, INFINITY, 1 }, { OP_sigmoid, -INFINITY, 0 }, { OP_sigmoid, NAN, NAN },
        { OP_sign, -0.0, -0.0 }, { OP_sign, NAN, NAN }, { OP_sign, -3, -1 }, { OP_floor, -0.5, -1 }, { OP_floor, -0.0, -0.0 },
    };
    for (size_t i = 0; i < HOP_COUNT(cases); i++)
        for (enum dtype t = DT_F32; t <= DT_F64; t++) {
            double found = apply(cases[i].op, t, cases[i].x, 0);
            claim(same_number(found, cases[i].y), "operator %d on %s of %g: expected %g, found %g", cases[i].op, dtype_info[t].name, cases[i].x, cases[i].y, found);
        }
    for (enum dtype t = DT_F32; t <= DT_F64; t++) /* subnormals pass where the function is the identity to first order */
        for (int i = 0; i < 4; i++) {
            static const uint8_t odd[] = { OP_expm1, OP_log1p, OP_sin, OP_tanh };
            double x = t == DT_F32 ? 0x1.8p-147 : 0x1p-1074;
            claim(same_number(apply(odd[i], t, x, 0), x), "operator %d flushes a subnormal %s", odd[i], dtype_info[t].name);
        }
    claim(apply(OP_exp, DT_F32, -103, 0) == (float)exp(-103), "exp f32 gives subnormals");
    claim(apply(OP_exp, DT_F64, -744, 0) == exp(-744), "exp f64 gives subnormals");
    for (int i = 0; i < 20000; i++) {
        double x = double_of(draw()), s = apply(OP_sin, DT_F64, x, 0), c = apply(OP_cos, DT_F32, x, 0);
        if (!isnan(s) && fabs(s) > 1) claim(false, "sin f64 of %a is %a", x, s);
        if (!isnan(c) && fabs(c) > 1) claim(false, "cos f32 of %a is %a", x, c);
    }
}

/* pow at the corners is what C's annex F says. */
static void pow_corners(void)
{
    static const double corners[] = { 0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -2.5, 1e-30, -1e-30, 1e30, -1e30, 0x1p52, -0x1p53, 0x1.8p1, INFINITY, -INFINITY, NAN, 0x1p-1074, 1e300, -1e300 };
    for (size_t i = 0; i < HOP_COUNT(corners); i++)
        for (size_t k = 0; k < HOP_COUNT(corners); k++) {
            double x = corners[i], y = corners[k], wide = apply(OP_pow, DT_F64, x, y), e = pow(x, y);
            claim(same_number(wide, e) || (isfinite(e) && e != 0 && fabs(wide / e - 1) < 1e-15), "pow f64 %g %g: expected %a, found %a", x, y, e, wide);
            float a = (float)x, b = (float)y, narrow = (float)apply(OP_pow, DT_F32, x, y), f = (float)pow(a, b);
            claim(same_number(narrow, f) || (isfinite(f) && f != 0 && fabsf(narrow / f - 1) < 1e-6f), "pow f32 %g %g: expected %a, found %a", a, b, f, narrow);
        }
}

static void integer_rules(void)
{
    int32_t x[] = { 7, -7, 7, -7, 5, INT32_MIN, INT32_MIN }, y[] = { 2, 2, -2, -2, 0, -1, 0 }, q[7], r[7];
    scalar_c_kernel(OP_div, DT_I32)(7, q, (const void *[]){ x, y });
    scalar_c_kernel(OP_rem, DT_I32)(7, r, (const void *[]){ x, y });
    claim(!memcmp(q, (int32_t[]){ 3, -3, -3, 3, 0, INT32_MIN, 0 }, sizeof q), "i32 div truncates; by zero it is 0");
    claim(!memcmp(r, (int32_t[]){ 1, -1, 1, -1, 5, 0, INT32_MIN }, sizeof r), "i32 rem follows the dividend; by zero it is the dividend");
    float f[] = { 1.9f, -1.9f, 3e9f, -3e9f, NAN, INFINITY, -1.0f };
    int32_t i[7];
    uint32_t u[7];
    scalar_c_cast(DT_F32, DT_I32)(7, i, (const void *[]){ f });
    scalar_c_cast(DT_F32, DT_U32)(7, u, (const void *[]){ f });
    claim(!memcmp(i, (int32_t[]){ 1, -1, INT32_MAX, INT32_MIN, 0, INT32_MAX, -1 }, sizeof i), "f32 to i32 truncates and saturates, NaN gives 0");
    claim(!memcmp(u, (uint32_t[]){ 1, 0, 3000000000u, 0, 0, UINT32_MAX, 0 }, sizeof u), "f32 to u32 truncates and saturates, NaN gives 0");
    claim(isnan(apply(OP_max, DT_F32, NAN, 1)) && isnan(apply(OP_max, DT_F32, 1, NAN)) && isnan(apply(OP_min, DT_F64, 1, NAN)), "NaN wins in max and min");
}

/* ---- random ---- */

static void random_numbers(void)
{
    static const struct { uint32_t key[2], counter[2], words[2]; } known[] = { /* the generator's published test vectors */
        { { 0, 0 }, { 0, 0 }, { 0x6b200159, 0x99ba4efe } },
        { { 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff }, { 0x1cb996fc, 0xbb002be7 } },
        { { 0x13198a2e, 0x03707344 }, { 0x243f6a88, 0x85a308d3 }, { 0xc4923a9c, 0x483df7a0 } },
    };
    for (size_t i = 0; i < HOP_COUNT(known); i++) {
        uint32_t words[2];
        scalar_c_block(known[i].key, known[i].counter[0] | (uint64_t)known[i].counter[1] << 32, false, words);
        claim(!memcmp(words, known[i].words, sizeof words), "block %zu: expected %08x %08x, found %08x %08x", i, known[i].words[0], known[i].words[1], words[0], words[1]);
    }
    enum { DRAWS = 200000 };
    const uint32_t key[2] = { 42, 7 };
    double sums[4][5] = { { 0 } };
    bool inside = true;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double x[4] = { scalar_c_uniform_f32(key, i), scalar_c_uniform_f64(key, i), scalar_c_normal_f32(key, i), scalar_c_normal_f64(key, i) };
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
                  (const char *[]){ "uniform f32", "uniform f64", "normal f32", "normal f64" }[k], expected, sums[k][power]);
        }
    uint32_t ones[32] = { 0 };
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t w[2];
        scalar_c_block(key, i, false, w);
        for (int bit = 0; bit < 32; bit++) ones[bit] += w[0] >> bit & 1;
    }
    for (int bit = 0; bit < 32; bit++) claim(fabs(ones[bit] - DRAWS / 2.0) < 5 * sqrt(DRAWS / 4.0), "bit %d is set %u times of %d", bit, ones[bit], DRAWS);
}

int main(void)
{
    for (size_t i = 0; i < HOP_COUNT(functions); i++) {
        sweep_f32(&functions[i], getenv("MATH_TEST_STEP") ? (uint32_t)atoi(getenv("MATH_TEST_STEP")) : 1499);
        sweep_f64(&functions[i], 32);
    }
    sweep_pow(16);
    special_values();
    pow_corners();
    integer_rules();
    random_numbers();
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
