/* Powers with exponents that are known when a program is compiled: many are multiplications, square roots and
 * divisions in default numbers. They are within the bound of docs/numbers.md on every back end, and at
 * zeros, infinities, negative numbers and NaN they are what C's annex F says. */
#include "captured.h"

enum { COUNT = 12000 };

/* In units of the last place; docs/numbers.md says so. */
static double bound(enum dtype t, double exponent)
{
    double size = fabs(exponent);
    if (t == DT_F32) return exponent < -3 || exponent > 6 ? 1 : 4;
    return size > 4 && size <= 16 ? size : 4;
}

static uint64_t state = 88172645463325252u;
static double between(double lo, double hi)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return lo + (hi - lo) * (double)(state >> 11) * 0x1p-53;
}

static const double corners[] = {
    0.0,   -0.0,   1,      -1,        2,         -2,     0.5,      -4,   1e30,
    -1e30, 1e-30,  -1e-30, INFINITY,  -INFINITY, NAN,    0x1p-149, 1e38, 1e-38,
    3e-39, 3.4e38, -3e-39, 0x1p-1074, 1e308,     1e-308, 5e-309,   1e26, 1e-26
};

/* Units in the last place of the dtype between what was found and the number. */
static double distance(enum dtype t, double found, long double exact)
{
    int digits = t == DT_F64 ? 53 : 24, least = t == DT_F64 ? -1021 : -125, e;
    long double largest = t == DT_F64 ? 0x1.fffffffffffffp1023L : 0x1.fffffep127L;
    if (isnan((double)exact)) return isnan(found) ? 0 : INFINITY;
    if (isinf(exact)) return found == (double)exact ? 0 : INFINITY;
    (void)frexpl(exact, &e);
    long double unit = ldexpl(1, (e < least ? least : e) - digits);
    if (isinf(found)) return (double)(fabsl(exact) > largest ? 0 : (largest - fabsl(exact)) / unit);
    return (double)(fabsl((long double)found - exact) / unit);
}

static double worst_of(const hop_tensor *x, const hop_tensor *y, double exponent, double *where)
{
    enum dtype t = dtype_of(x);
    double worst = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        double d = distance(t, get(y, i), powl(get(x, i), exponent));
        bool zero = get(y, i) == 0 && !signbit(get(y, i)) != !signbit((double)powl(get(x, i), exponent));
        if (d > worst || zero) worst = zero ? INFINITY : d, *where = get(x, i);
    }
    return worst;
}

static hop_tensor *numbers(enum dtype t)
{
    char type[32];
    hop_tensor *x = NULL;
    double reach = t == DT_F64 ? 740 : 103;
    snprintf(type, sizeof type, "%s[%d]", dtype_info[t].name, COUNT);
    CLAIM(!hop_tensor_new(&x, type), "%s", hop_message());
    for (int64_t i = 0; i < COUNT; i++) {
        double v = i < (int64_t)HOP_COUNT(corners) ? corners[i]
                   : i % 3 == 0                    ? between(0, 4)
                   : i % 3 == 1                    ? exp(between(-reach, reach))
                                                   : exp(between(-3, 3)) * (i % 2 ? 1 : -1);
        set(x, i, v);
    }
    return x;
}

static double check_power(enum dtype t, double exponent, int portable)
{
    char text[256];
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *x = numbers(t), *y = NULL;
    double worst = 0, where = 0;
    if (t == DT_F32) exponent = (float)exponent; /* which is what the program says */
    snprintf(
        text, sizeof text,
        "hop 1\nfn @main(%%x: %s[%d]) -> (%s[%d]) {\n  %%c = full {value = %.17g, dims = [%d], dtype = %s}\n"
        "  %%y = pow(%%x, %%c)\n  return %%y\n}\n",
        dtype_info[t].name, COUNT, dtype_info[t].name, COUNT, exponent, COUNT, dtype_info[t].name);
    int status = hop_fn_read(&f, text, NULL);
    if (!status) status = hop_compile(&exe, f, &(hop_compile_options){ .portable = portable });
    if (!status) status = hop_run(exe, &x, 1, &y, 1);
    CLAIM(!status, "%s", hop_message());
    if (!status) worst = worst_of(x, y, exponent, &where);
    CLAIM(worst <= bound(t, exponent), "%s to the power of %g is %g ulp off at %a, portable %d",
          dtype_info[t].name, exponent, worst, where, portable);
    hop_tensor_free(x);
    hop_tensor_free(y);
    hop_exe_free(exe);
    hop_fn_free(f);
    return worst;
}

static void check_both(double exponent, int portable)
{
    double narrow = check_power(DT_F32, exponent, portable), wide = check_power(DT_F64, exponent, portable);
    if (getenv("POWER_TEST_VERBOSE")) printf("%6.2f: f32 %.3f, f64 %.3f\n", exponent, narrow, wide);
}

int main(void)
{
    static const double large[] = { 5.5, 6.5, 9.5, 15.5, 16.25, 16.5, 17, 31.5, 63, 64, 64.5, 65 };
    for (int portable = 0; portable < 2; portable++) {
        if (!portable && !exe_available()) continue;
        for (int quarters = -18; quarters <= 18; quarters++) check_both(quarters / 4.0, portable);
        for (int whole = 5; whole <= 16; whole++) {
            check_both(whole, portable);
            check_both(-whole, portable);
        }
        for (size_t i = 0; i < HOP_COUNT(large); i++) {
            check_both(large[i], portable);
            check_both(-large[i], portable);
        }
        for (int thirds = -7; thirds <= 8; thirds++) {
            double third = thirds / 3.0; /* and what the derivative of a power makes of it */
            double narrow = check_power(DT_F32, third, portable);
            double wide = check_power(DT_F64, third, portable);
            double slope = check_power(DT_F32, (float)third - 1.0f, portable);
            if (getenv("POWER_TEST_VERBOSE"))
                printf("%6.2f: f32 %.3f, f64 %.3f, less 1: %.3f\n", third, narrow, wide, slope);
        }
    }
    return tests_end();
}
