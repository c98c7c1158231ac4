/* What the dtypes mean: f16 and bf16 against a definition of rounding in wider arithmetic, casts between all
 * pairs, arithmetic on f16 and bf16, integer arithmetic in every width, promotion, numbers as text. */
#include "capture/capture.h"
#include "check/check.h"
#include "interp/interp.h"
#include "ir/number.h"
#include "ir/text.h"
#include "ops/scalar_c.h"
#include "runtime/exe.h"
#include "transform/transform.h"
#include "check.h"

#include <float.h>
#include <math.h>

_Static_assert(LDBL_MANT_DIG >= 64, "the reference holds every i64, u64 and f64");

/* ---- the reference ---- */

struct format {
    int precision, least, most;
}; /* 1·2^least is the smallest normal number, 2^most too large */
static const struct format formats[DT_COUNT] = { [DT_F16] = { 11, -14, 16 },
                                                 [DT_BF16] = { 8, -126, 128 },
                                                 [DT_F32] = { 24, -126, 128 },
                                                 [DT_F64] = { 53, -1022, 1024 } };

/* x rounded to nearest even in a format; rintl rounds so. */
static long double rounded(enum dtype t, long double x)
{
    struct format f = formats[t];
    if (x == 0 || isinf(x) || isnan(x)) return x;
    int unit = HOP_MAX(ilogbl(x), f.least) - f.precision + 1;
    long double r = ldexpl(rintl(ldexpl(x, -unit)), unit);
    return fabsl(r) >= ldexpl(1, f.most) ? copysignl(INFINITY, x) : copysignl(r, x);
}

static long double value_of(enum dtype t, const void *at)
{
    if (t == DT_U64) return (long double)element_bits(t, at);
    return dtype_is_integer(t) || t == DT_BOOL ? (long double)element_whole(t, at)
                                               : (long double)element_real(t, at);
}

static bool same_value(long double a, long double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* What a cast must give. */
static long double cast_reference(enum dtype from, enum dtype to, const void *at)
{
    long double x = value_of(from, at);
    if (to == DT_BOOL) return x != 0;
    if (dtype_is_float(to)) return rounded(to, x);
    if (!dtype_is_float(from)) { /* the low bits */
        uint64_t bits = (uint64_t)element_whole(from, at);
        return value_of(to, &bits);
    }
    long double most = to == DT_U64 ? 0x1p64L - 1 : (long double)dtype_most(to),
                least = (long double)dtype_least(to);
    return isnan(x) ? 0 : x >= most ? most : x <= least ? least : truncl(x) + 0.0L;
}

static uint64_t random_state = 88172645463325252u;
static uint64_t random_bits(void)
{
    return random_state ^= random_state << 13, random_state ^= random_state >> 7,
           random_state ^= random_state << 17;
}

/* ---- f16 and bf16 ---- */

static float widened(enum dtype t, uint32_t h)
{
    return t == DT_F16 ? f16_to_f32((uint16_t)h) : bf16_to_f32((uint16_t)h);
}
static uint16_t narrowed(enum dtype t, float x) { return t == DT_F16 ? f16_of_f32(x) : bf16_of_f32(x); }
static uint16_t narrowed_f64(enum dtype t, double x) { return t == DT_F16 ? f16_of_f64(x) : bf16_of_f64(x); }

/* A number by its bits, from the definition of the format. */
static long double by_definition(enum dtype t, uint32_t h)
{
    int fraction = formats[t].precision - 1, exponent = (int)(h & 0x7fff) >> fraction,
        all = (1 << (15 - fraction)) - 1;
    long double f = (long double)(h & ((1u << fraction) - 1)), x;
    if (exponent == all) x = f > 0 ? NAN : INFINITY;
    else
        x = exponent ? ldexpl(ldexpl(1, fraction) + f, formats[t].least + exponent - 1 - fraction)
                     : ldexpl(f, formats[t].least - fraction);
    return h & 0x8000 ? -x : x;
}

static void test_every_number(enum dtype t)
{
    uint32_t wrong = 0, back = 0, nans = 0;
    for (uint32_t h = 0; h < 0x10000; h++) {
        long double x = by_definition(t, h);
        float f = widened(t, h);
        if (!same_value(f, x)) wrong++;
        if (isnan(x)) nans += !isnan(widened(t, narrowed(t, f))) || ((narrowed(t, f) ^ h) & 0x8000);
        else back += narrowed(t, f) != h || narrowed_f64(t, (double)f) != h;
    }
    CLAIM(!wrong, "%s: %u numbers are widened to something else", dtype_info[t].name, wrong);
    CLAIM(!back, "%s: %u numbers do not come back", dtype_info[t].name, back);
    CLAIM(!nans, "%s: %u NaNs do not stay NaN with their sign", dtype_info[t].name, nans);
}

static uint32_t rounds_wrong(enum dtype t, double x)
{
    long double want = rounded(t, x);
    uint32_t wrong = !same_value(by_definition(t, narrowed_f64(t, x)), want);
    if ((double)(float)x == x) wrong += !same_value(by_definition(t, narrowed(t, (float)x)), want);
    return wrong;
}

/* Halfway between neighbours, beside that in f32 and in f64, and random numbers. */
static void test_rounding(enum dtype t)
{
    uint32_t ties = 0, others = 0;
    for (uint32_t h = 0; h < 0x10000; h++) {
        double x = (double)widened(t, h), y = (double)widened(t, h + 1), middle;
        if (isnan(x) || isinf(x)) continue;
        middle = isinf(y) ? copysign(ldexp(1, formats[t].most), x) / 2 + x / 2 : (x + y) / 2;
        float near = (float)middle;
        double points[] = { middle,
                            nextafter(middle, INFINITY),
                            nextafter(middle, -INFINITY),
                            nextafterf(near, INFINITY),
                            nextafterf(near, -INFINITY),
                            nextafter(x, y),
                            nextafter(x, -y) };
        for (size_t k = 0; k < HOP_COUNT(points); k++) ties += rounds_wrong(t, points[k]);
    }
    for (int i = 0; i < 2000000; i++) {
        uint64_t r = random_bits();
        double x = i & 1 ? (double)f32_of_bits((uint32_t)r)
                         : f64_of_bits((r & 0x800fffffffffffff) | (1023 - 150 + random_bits() % 300) << 52);
        if (!isnan(x)) others += rounds_wrong(t, x);
    }
    CLAIM(!ties, "%s: %u numbers beside a tie are rounded wrongly", dtype_info[t].name, ties);
    CLAIM(!others, "%s: %u random numbers are rounded wrongly", dtype_info[t].name, others);
}

/* ---- casts ---- */

static const double real_edges[] = { 0,
                                     -0.0,
                                     0.5,
                                     -0.5,
                                     0.99,
                                     -0.99,
                                     1,
                                     -1,
                                     1.5,
                                     2.5,
                                     127,
                                     128,
                                     127.5,
                                     -128,
                                     -128.5,
                                     -129,
                                     255,
                                     256,
                                     255.5,
                                     32767,
                                     32768,
                                     -32768,
                                     -32769,
                                     65504,
                                     65519,
                                     65520,
                                     65535,
                                     65536,
                                     2147483647,
                                     2147483648.0,
                                     -2147483648.0,
                                     -2147483649.0,
                                     4294967295.0,
                                     4294967296.0,
                                     0x1p53,
                                     0x1p63,
                                     -0x1p63,
                                     0x1.fffffffffffffp62,
                                     0x1p64,
                                     0x1.fffffffffffffp63,
                                     1e30,
                                     -1e30,
                                     3.4e38,
                                     1e300,
                                     0x1p-24,
                                     0x1p-25,
                                     0x1.8p-25,
                                     0x1p-14,
                                     0x1p-126,
                                     0x1p-133,
                                     0x1p-134,
                                     0x1p-149,
                                     1e-300,
                                     INFINITY,
                                     -INFINITY,
                                     NAN };
static const int64_t whole_edges[] = { 0,
                                       1,
                                       -1,
                                       2,
                                       127,
                                       128,
                                       -128,
                                       -129,
                                       255,
                                       256,
                                       257,
                                       2047,
                                       2048,
                                       2049,
                                       2051,
                                       32767,
                                       32768,
                                       -32768,
                                       65503,
                                       65504,
                                       65519,
                                       65520,
                                       65535,
                                       65536,
                                       16777217,
                                       33554433,
                                       INT32_MAX,
                                       INT32_MIN,
                                       UINT32_MAX,
                                       (1ll << 53) + 1,
                                       (1ll << 62) + (1ll << 54) + 1,
                                       (1ll << 62) + (1ll << 54),
                                       -(1ll << 62) - (1ll << 54) - 1,
                                       (1ll << 62) + (3ll << 54),
                                       (1ll << 62) + (3ll << 54) - 1,
                                       (1ll << 62) + (1ll << 38) + 1,
                                       INT64_MAX,
                                       INT64_MIN,
                                       INT64_MIN + 1,
                                       INT64_MAX - 511,
                                       INT64_MAX - 512 };

enum {
    RANDOM_ELEMENTS = 4000,
    MOST_ELEMENTS = RANDOM_ELEMENTS + HOP_COUNT(real_edges) + HOP_COUNT(whole_edges)
};

static int64_t fill(enum dtype t, void *to)
{
    int64_t n = 0;
    size_t size = dtype_info[t].size;
    for (size_t i = 0; dtype_is_float(t) && i < HOP_COUNT(real_edges); i++)
        element_set_real(t, (char *)to + n++ * (int64_t)size, real_edges[i]);
    for (size_t i = 0; i < HOP_COUNT(whole_edges); i++)
        element_set_whole(t, (char *)to + n++ * (int64_t)size, whole_edges[i]);
    for (int i = 0; i < RANDOM_ELEMENTS; i++) {
        uint64_t r = random_bits();
        if (t == DT_BOOL) r &= 1;
        else if (dtype_is_integer(t) && i & 1) r = (uint64_t)((int64_t)r >> (i / 2 % 64));
        else if (t == DT_F64 && i & 1) r = f64_bits(ldexp((double)(int64_t)r, i / 2 % 200 - 180));
        memcpy((char *)to + n++ * (int64_t)size, &r, size);
    }
    return n;
}

static void test_casts(void)
{
    static uint64_t x[MOST_ELEMENTS], y[MOST_ELEMENTS];
    for (enum dtype from = 0; from < DT_COUNT; from++) {
        int64_t n = fill(from, x);
        for (enum dtype to = 0; to < DT_COUNT; to++) {
            int64_t wrong = -1;
            scalar_c_cast(from, to)(n, y, (const void *[]){ x });
            for (int64_t i = 0; i < n && wrong < 0; i++) {
                long double want = cast_reference(from, to, (char *)x + i * dtype_info[from].size),
                            found = value_of(to, (char *)y + i * dtype_info[to].size);
                if (dtype_is_float(to) ? !same_value(found, want) : found != want) wrong = i;
            }
            CLAIM(wrong < 0, "%s to %s: of %.20Lg", dtype_info[from].name, dtype_info[to].name,
                  value_of(from, (char *)x + wrong * dtype_info[from].size));
        }
    }
}

/* ---- arithmetic ---- */

static double plain(enum op op, double x, double y)
{
    switch ((int)op) {
    case OP_add: return x + y;
    case OP_sub: return x - y;
    case OP_mul: return x * y;
    case OP_div: return x / y;
    case OP_rem: return fmod(x, y);
    case OP_max: return isnan(x) || x > y ? x : y;
    case OP_min: return isnan(x) || x < y ? x : y;
    case OP_sqrt: return sqrt(x);
    case OP_neg: return -x;
    default: return floor(x);
    }
}

/* f64 has more than twice the bits and two, so rounding its result again is rounding the exact one. */
static void test_narrow_arithmetic(enum dtype t)
{
    enum { N = 1000, ROUNDS = 150 };
    static const struct {
        enum op op;
        uint32_t n;
    } ops[] = { { OP_add, 2 }, { OP_sub, 2 }, { OP_mul, 2 },  { OP_div, 2 }, { OP_rem, 2 },
                { OP_max, 2 }, { OP_min, 2 }, { OP_sqrt, 1 }, { OP_neg, 1 }, { OP_floor, 1 } };
    for (size_t k = 0; k < HOP_COUNT(ops); k++) {
        uint32_t wrong = 0;
        for (int round = 0; round < ROUNDS; round++) {
            uint16_t x[N], y[N], z[N];
            for (int i = 0; i < N; i++) {
                uint64_t r = random_bits();
                x[i] = (uint16_t)r;
                y[i] = r >> 60 ? (uint16_t)(r >> 16) : (uint16_t)(x[i] + (r >> 16) % 64 - 32);
            }
            scalar_c_apply(ops[k].op, N, t, z, ops[k].n, (uint8_t[]){ (uint8_t)t, (uint8_t)t },
                           (const void *[]){ x, y });
            for (int i = 0; i < N; i++) {
                double a = (double)widened(t, x[i]), b = (double)widened(t, y[i]);
                wrong += !same_value(by_definition(t, z[i]), rounded(t, plain(ops[k].op, a, b)));
            }
        }
        CLAIM(!wrong, "%s of %s: %u results are not the exact one rounded once", op_table[ops[k].op]->name,
              dtype_info[t].name, wrong);
    }
}

/* x·y + z by integers of 600 bits would be exact; here a product that is a tie and an addend that decides it,
 * and numbers whose sum long double holds. */
static void test_fma(enum dtype t)
{
    uint32_t wrong = 0, checked = 0;
    for (int i = 0; i < 200000; i++) {
        uint16_t v[3], r;
        for (int k = 0; k < 3; k++) v[k] = (uint16_t)random_bits();
        long double x = by_definition(t, v[0]), y = by_definition(t, v[1]), z = by_definition(t, v[2]),
                    p = x * y;
        if (isfinite(p) && p != 0 && z != 0 && isfinite(z) && abs(ilogbl(p) - ilogbl(z)) > 40)
            continue; /* not exact in long double */
        scalar_c_apply(OP_fma, 1, t, &r, 3, (uint8_t[]){ (uint8_t)t, (uint8_t)t, (uint8_t)t },
                       (const void *[]){ &v[0], &v[1], &v[2] });
        wrong += !same_value(by_definition(t, r), rounded(t, p + z));
        checked++;
    }
    CLAIM(checked > 1000 && !wrong, "fma of %s: %u of %u results are not the exact one rounded once",
          dtype_info[t].name, wrong, checked);
    /* (1 + u)(1 + v) halfway between two numbers, ± the smallest number there is */
    double unit = ldexp(1, 1 - formats[t].precision),
           smallest = ldexp(1, formats[t].least - formats[t].precision + 1);
    double x = 1 + unit, y = 1.5, even = x * y;
    for (int s = -1; s <= 1; s++) {
        uint16_t v[3], r;
        element_set_real(t, &v[0], x);
        element_set_real(t, &v[1], y);
        element_set_real(t, &v[2], s * smallest);
        scalar_c_apply(OP_fma, 1, t, &r, 3, (uint8_t[]){ (uint8_t)t, (uint8_t)t, (uint8_t)t },
                       (const void *[]){ &v[0], &v[1], &v[2] });
        double down = 1.5 + unit, up = 1.5 + 2 * unit,
               want = s < 0   ? down
                      : s > 0 ? up
                              : (double)rounded(t, even);
        CLAIM(element_real(t, &r) == want, "fma of %s: a tie and %d of the smallest number: %a, expected %a",
              dtype_info[t].name, s, element_real(t, &r), want);
    }
}

/* Integers wrap in their width: every pair of 8 bits, and of 16 bits modulo a step, against wider arithmetic.
 */
static void test_short_integers(void)
{
    static const enum dtype types[] = { DT_I8, DT_U8, DT_I16, DT_U16 };
    for (size_t k = 0; k < HOP_COUNT(types); k++) {
        enum dtype t = types[k];
        int64_t lo = dtype_least(t), hi = dtype_most(t), step = dtype_info[t].size == 1 ? 1 : 251;
        uint32_t wrong[5] = { 0 };
        static const enum op ops[] = { OP_add, OP_sub, OP_mul, OP_div, OP_rem };
        for (int64_t x = lo; x <= hi; x += step)
            for (int64_t y = lo; y <= hi; y += step)
                for (size_t o = 0; o < HOP_COUNT(ops); o++) {
                    int64_t want = o == 0   ? x + y
                                   : o == 1 ? x - y
                                   : o == 2 ? x * y
                                   : o == 3 ? (y ? x / y : 0)
                                   : y      ? x % y
                                            : x;
                    uint64_t a = (uint64_t)x, b = (uint64_t)y, r = 0, w = 0;
                    scalar_c_kernel(ops[o], t)(1, &r, (const void *[]){ &a, &b });
                    element_set_whole(t, &w, want);
                    wrong[o] += r != w;
                }
        for (size_t o = 0; o < HOP_COUNT(ops); o++)
            CLAIM(!wrong[o], "%s of %s: %u wrong", op_table[ops[o]]->name, dtype_info[t].name, wrong[o]);
    }
    uint64_t big[2] = { UINT64_MAX, UINT64_MAX - 6 }, seven[2] = { 7, UINT64_MAX }, q[2], r[2];
    bool less[2];
    scalar_c_kernel(OP_div, DT_U64)(2, q, (const void *[]){ big, seven });
    scalar_c_kernel(OP_rem, DT_U64)(2, r, (const void *[]){ big, seven });
    scalar_c_kernel(OP_lt, DT_U64)(2, less, (const void *[]){ big, seven });
    CLAIM(q[0] == UINT64_MAX / 7 && r[0] == UINT64_MAX % 7 && q[1] == 0 && r[1] == UINT64_MAX - 6 &&
              !less[0] && less[1],
          "u64 beyond 2^63 is divided and compared as it is");
}

/* ---- promotion ---- */

static void test_promotion(void)
{
    static const char *const names[] = { "bool", "i8",  "i16", "i32",  "i64", "u8", "u16",
                                         "u32",  "u64", "f16", "bf16", "f32", "f64" };
    static const char *const table[DT_COUNT] = {
        "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64",
        "i8 i8 i16 i32 i64 i16 i32 i64 - f16 bf16 f32 f64",
        "i16 i16 i16 i32 i64 i16 i32 i64 - f16 bf16 f32 f64",
        "i32 i32 i32 i32 i64 i32 i32 i64 - f16 bf16 f32 f64",
        "i64 i64 i64 i64 i64 i64 i64 i64 - f16 bf16 f32 f64",
        "u8 i16 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64",
        "u16 i32 i32 i32 i64 u16 u16 u32 u64 f16 bf16 f32 f64",
        "u32 i64 i64 i64 i64 u32 u32 u32 u64 f16 bf16 f32 f64",
        "u64 - - - - u64 u64 u64 u64 f16 bf16 f32 f64",
        "f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f32 f64",
        "bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64",
        "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64",
        "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64",
    };
    for (int a = 0; a < DT_COUNT; a++) {
        const char *at = table[a];
        CLAIM(!strcmp(dtype_info[a].name, names[a]), "dtype %d is called %s", a, dtype_info[a].name);
        for (int b = 0; b < DT_COUNT; b++) {
            size_t n = strcspn(at, " ");
            enum dtype found = promote_dtypes((enum dtype)a, (enum dtype)b);
            const char *name = found == DT_COUNT ? "-"
                                                 : dtype_info[found].name; /* -: u64 with a signed integer */
            CLAIM(strlen(name) == n && !memcmp(at, name, n), "%s and %s: expected %.*s, found %s", names[a],
                  names[b], (int)n, at, name);
            at += n + (at[n] == ' ');
        }
    }
}

/* ---- text ---- */

/* Every number of f16 and bf16 as the text form prints it and as `hop run` prints it reads back to its bits.
 */
static void test_text(enum dtype t)
{
    struct arena arena = { 0 };
    struct bag bag = { 0 };
    struct text program = { .arena = &arena };
    text_add(&program, "const @k: %s[65536] = [", dtype_info[t].name);
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint16_t bits = (uint16_t)h;
        if (h) text_str(&program, ", ");
        text_print_element(t, &bits, &program);
    }
    text_str(&program, "]\nfn @f() -> () {\n  return\n}\n");
    struct module *m = text_read("numbers", program.data, program.len);
    const uint16_t *found = m->constants.data[0].data;
    uint32_t wrong = 0, decimal = 0;
    for (uint32_t h = 0; h < 0x10000; h++) wrong += found[h] != h;
    CLAIM(!wrong, "%s: %u numbers are another one when read back", dtype_info[t].name, wrong);
    module_free(m);
    for (uint32_t h = 0; h < 0x10000; h += 7) {
        struct text out = { .arena = &arena }, json = { .arena = &arena };
        uint16_t bits = (uint16_t)h;
        struct tensor one = { .refs = 1, .dtype = (uint8_t)t, .count = 1, .data = &bits };
        tensor_print(&out, &one);
        tensor_json(&json, &one);
        struct tensor *back = tensor_parse(&bag, t, out.data, "a number"),
                      *again = json.data[0] == '"' ? NULL : tensor_parse(&bag, t, json.data, "a number");
        double x = (double)widened(t, h);
        decimal += isnan(x) ? !isnan(tensor_get(back, 0))
                            : *(uint16_t *)back->data != bits || (again && *(uint16_t *)again->data != bits);
    }
    CLAIM(!decimal, "%s: %u numbers printed in decimal read back to another one", dtype_info[t].name,
          decimal);
    bag_free(&bag);
    arena_free(&arena);
}

static void test_large_integers(void *unused)
{
    (void)unused;
    struct arena arena = { 0 };
    struct bag bag = { 0 };
    struct text out = { .arena = &arena }, json = { .arena = &arena };
    uint64_t values[3] = { UINT64_MAX, (uint64_t)1 << 63, 18446744073709551557u };
    struct tensor t = { .refs = 1, .dtype = DT_U64, .rank = 1, .dims = { 3 }, .count = 3, .data = values };
    tensor_print(&out, &t);
    tensor_json(&json, &t);
    CLAIM(!strcmp(out.data, "[18446744073709551615, 9223372036854775808, 18446744073709551557]"),
          "u64 prints as %s", out.data);
    CLAIM(!strcmp(json.data, out.data), "u64 as JSON is %s", json.data);
    CLAIM(!memcmp(tensor_parse(&bag, DT_U64, out.data, "u64")->data, values, sizeof values),
          "u64 reads back");
    bag_free(&bag);
    arena_free(&arena);
}

static void parse_wrong(void *text)
{
    struct bag bag = { 0 };
    const char *at = text;
    enum dtype t = DT_BOOL;
    dtype_from_name(at, strcspn(at, " "), &t);
    hop_cleanup_push(bag_free, &bag);
    tensor_parse(&bag, t, strchr(at, ' '), "x");
    hop_cleanup_pop(&bag);
    bag_free(&bag);
}

static void test_wrong_literals(void)
{
    static const char *const wrong[] = { "i8 128",
                                         "i8 -129",
                                         "u8 256",
                                         "u8 -1",
                                         "i16 40000",
                                         "u16 65536",
                                         "u64 -1",
                                         "u64 18446744073709551616",
                                         "i64 9223372036854775808" };
    for (size_t i = 0; i < HOP_COUNT(wrong); i++)
        CLAIM(attempt(parse_wrong, (void *)(uintptr_t)wrong[i]) == HOP_INVALID &&
                  strstr(hop_message(), "that fits"),
              "%s is refused: %s", wrong[i], hop_message());
}

/* ---- running sums ---- */

enum { RUNNING_STEPS = 70, RUNNING_ROW = 5, MOST_NAMES = 16 };

/* A scan whose carry is a sum, over elements or rows: carry ± what up to four exact operations make of the
 * element and an invariant. None of them has a freedom that default numbers could use, so every way of
 * running it gives the same bits. */
static void running_program(struct text *out, const char *dtype, bool rows)
{
    static const char *const ops[] = { "add", "sub", "mul", "max", "min" };
    const char *shape = rows ? "5" : "";
    char names[MOST_NAMES][8] = { "v", "w" };
    uint32_t n = 2, made = (uint32_t)(random_bits() >> 20) % 4;
    text_add(out, "hop 1\nfn @f(%%start: %s[%s], %%w: %s[%s], %%x: %s[%d%s%s]) -> (%s[%s]) {\n", dtype, shape,
             dtype, shape, dtype, RUNNING_STEPS, rows ? ", " : "", shape, dtype, shape);
    text_str(out, "  %last = scan carry(%c = %start) over(%v in %x) with(%w) {\n");
    for (uint32_t i = 0; i < made; i++, n++) {
        uint64_t r = random_bits() >> 20;
        snprintf(names[n], sizeof names[n], "t%u", i);
        text_add(out, "    %%%s = %s(%%%s, %%%s)\n", names[n], ops[r % HOP_COUNT(ops)], names[r / 8 % n],
                 names[r / 512 % n]);
    }
    uint64_t r = random_bits() >> 20;
    text_add(out,
             "    %%once = %s(%%c, %%%s)\n    %%n = %s(%%%s, %%%s)\n    next(%%n)\n  }\n  return %%last\n}\n",
             r & 1 ? "add" : "sub", names[n - 1], r & 6 ? "add" : "max", r & 8 ? "once" : names[r / 16 % n],
             r & 8 ? names[r / 16 % n] : "once");
}

static struct tensor *running_values(enum dtype t, uint32_t rank, const int64_t *dims, double lo, double hi)
{
    struct tensor *x = tensor_new(t, rank, dims);
    for (int64_t i = 0; i < x->count; i++)
        ((uint16_t *)x->data)[i] = narrowed_f64(t, lo + (hi - lo) * (double)(random_bits() >> 11) * 0x1p-53);
    return x;
}

/* The interpreter's bits from compiled default and strict code and from the executor, with `fn`'s results in
 * `n`. */
static void running_agrees(struct module *m, uint32_t fn, struct tensor **args, uint32_t n,
                           const char *program)
{
    static const struct {
        bool strict, slow;
        const char *name;
    } ways[] = { { false, false, "default" }, { true, false, "strict" }, { false, true, "the executor" } };
    struct tensor *want[3] = { NULL };
    interp_run(&(struct interp){ .m = m }, fn, args, NULL, want);
    for (size_t k = 0; k < HOP_COUNT(ways); k++) {
        struct exe *e = exe_compile(m, fn,
                                    &(struct compile_options){ .passes = { .strict = ways[k].strict },
                                                               .threads = 1,
                                                               .backend = ways[k].slow ? &executor_backend
                                                                                       : NULL },
                                    NULL);
        struct tensor *found[3] = { NULL };
        exe_run(e, args, NULL, found, NULL);
        for (uint32_t i = 0; i < n; i++) {
            bool same = !memcmp(want[i]->data, found[i]->data, (size_t)want[i]->count * 2);
            CLAIM(same, "%s rounds a running sum otherwise (result %u):\n%s", ways[k].name, i, program);
            tensor_free(found[i]);
        }
        exe_free(e);
    }
    for (uint32_t i = 0; i < n; i++) tensor_free(want[i]);
}

static void test_running_sums(void *unused)
{
    (void)unused;
    for (int i = 0; i < 60; i++) {
        enum dtype t = i % 2 ? DT_F16 : DT_BF16;
        bool rows = i % 3 == 0;
        int64_t dims[] = { RUNNING_STEPS, RUNNING_ROW };
        struct arena arena = { 0 };
        struct text text = { .arena = &arena };
        running_program(&text, dtype_info[t].name, rows);
        struct module *m = text_read("running", text.data, text.len);
        struct tensor *args[3] = { running_values(t, rows, dims + 1, 1, t == DT_F16 ? 3000 : 300),
                                   running_values(t, rows, dims + 1, 0.5, 2),
                                   running_values(t, 1 + rows, dims, 0.5, 2) };
        uint32_t f = module_find(m, "f");
        running_agrees(m, f, args, 1, text.data);
        if (!rows)
            running_agrees(m, grad_function(m, f, (const bool[]){ true, true, true }, false), args, 3,
                           text.data);
        for (int k = 0; k < 3; k++) tensor_free(args[k]);
        module_free(m);
        arena_free(&arena);
    }
}

int main(void)
{
    static const enum dtype narrow[] = { DT_F16, DT_BF16 };
    for (size_t i = 0; i < HOP_COUNT(narrow); i++) {
        test_every_number(narrow[i]);
        test_rounding(narrow[i]);
        test_narrow_arithmetic(narrow[i]);
        test_fma(narrow[i]);
        test_text(narrow[i]);
    }
    test_casts();
    test_short_integers();
    test_promotion();
    attempt(test_large_integers, NULL);
    CLAIM(attempt(test_running_sums, NULL) == HOP_OK, "running sums: %s", hop_message());
    test_wrong_literals();
    return tests_end();
}
