/* argmax and argmin of every dtype, along rows, down columns and in rows of a few elements, of all lengths
 * from 0 up: elements are drawn from a few, so that there are equals, and among them NaN, infinities, both
 * zeros and the ends of the integers. What comes out is held against a plain search, on the interpreter, the
 * executor and native code with strict and default numbers, with vectors and without. */
#include "captured.h"

enum { LONGEST = 70, LENGTHS = 13 };
static const int lengths[LENGTHS] = { 0, 1, 3, 7, 8, 10, 16, 17, 20, 32, 33, 40, LONGEST };

static uint64_t state = 88172645463325252u;
static uint32_t drawn(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 33) % below;
}

/* One kind of values for each round: all equal to the worst, few and with NaN, few. */
static void fill(hop_tensor *t, int round)
{
    static const double reals[] = { -INFINITY, -1, -0.0, 0.0, 1, 2, INFINITY };
    enum dtype type = dtype_of(t);
    for (int64_t k = 0; k < hop_tensor_count(t); k++) {
        void *at = (char *)hop_data(t) + k * dtype_info[type].size;
        if (dtype_is_float(type)) {
            double x = reals[round == 0 ? 0 : round == 1 ? drawn(HOP_COUNT(reals)) : 1 + drawn(4)];
            set(t, k, round == 1 && !drawn(40) ? NAN : round == 3 ? -x : x);
        } else {
            int64_t few = drawn(3), most = type == DT_U64 ? -1 : dtype_most(type);
            element_set_whole(type, at, round == 0 ? dtype_least(type) : few == 2 ? most : few);
        }
    }
}

/* Does element a beat element b, which stands in front of it? */
static bool beats(enum dtype t, bool least, const char *a, const char *b)
{
    if (dtype_is_float(t)) {
        double x = element_real(t, a), y = element_real(t, b);
        return !isnan(y) && (isnan(x) || (least ? x < y : x > y));
    }
    int64_t x = element_whole(t, a), y = element_whole(t, b);
    if (t == DT_U64) return least ? (uint64_t)x<(uint64_t)y : (uint64_t)x>(uint64_t) y;
    return least ? x < y : x > y;
}

static int64_t searched(const hop_tensor *x, bool least, int64_t from, int64_t count, int64_t stride)
{
    enum dtype t = dtype_of(x);
    const char *data = (const char *)hop_data(x) + from * dtype_info[t].size;
    int64_t best = 0, apart = stride * dtype_info[t].size;
    for (int64_t i = 1; i < count; i++)
        if (beats(t, least, data + i * apart, data + best * apart)) best = i;
    return best;
}

/* Results: argmax and argmin along rows of x[rows, size], then down the columns of y[size, rows]. */
static void check_results(const char *how, enum dtype t, hop_tensor **in, hop_tensor **out, int64_t rows,
                          int64_t size)
{
    for (int k = 0; k < 4; k++)
        for (int64_t r = 0; r < rows; r++) {
            int64_t got = ((const int64_t *)hop_data(out[k]))[r];
            int64_t want = k < 2 ? searched(in[0], k == 1, r * size, size, 1)
                                 : searched(in[1], k == 3, r, size, rows);
            CLAIM(got == want, "%s[%lld, %lld], %s: result %d is %lld in row %lld, expected %lld",
                  dtype_info[t].name, (long long)rows, (long long)size, how, k, (long long)got, (long long)r,
                  (long long)want);
        }
}

static hop_fn *program(enum dtype t, const char *symbols, const char *rows, const char *size)
{
    char text[1024];
    const char *name = dtype_info[t].name;
    snprintf(
        text, sizeof text,
        "hop 1\nfn @main%s(%%x: %s[%s, %s], %%y: %s[%s, %s]) -> (i64[%s], i64[%s], i64[%s], i64[%s]) {\n"
        "  %%a = argmax {dim = 1} (%%x)\n  %%b = argmin {dim = 1} (%%x)\n"
        "  %%c = argmax {dim = 0} (%%y)\n  %%d = argmin {dim = 0} (%%y)\n  return %%a, %%b, %%c, %%d\n}\n",
        symbols, name, rows, size, name, size, rows, rows, rows, rows, rows);
    hop_fn *f = NULL;
    CLAIM(!hop_fn_read(&f, text, NULL), "%s\n%s", text, hop_message());
    return f;
}

/* exe NULL: interpreted. */
static void check_size(const char *how, hop_fn *f, hop_exe *exe, enum dtype t, int64_t rows, int64_t size)
{
    for (int round = 0; round < 4; round++) {
        hop_tensor *in[2] = { 0 }, *out[4] = { 0 };
        char x[64], y[64];
        snprintf(x, sizeof x, "%s[%lld, %lld]", dtype_info[t].name, (long long)rows, (long long)size);
        snprintf(y, sizeof y, "%s[%lld, %lld]", dtype_info[t].name, (long long)size, (long long)rows);
        int status = hop_tensor_new(&in[0], x);
        if (!status) status = hop_tensor_new(&in[1], y);
        for (int k = 0; k < 2 && !status; k++) fill(in[k], round);
        if (!status) status = exe ? hop_run(exe, in, 2, out, 4) : hop_interpret(f, in, 2, out, 4);
        CLAIM(!status, "%s, %s: %s", x, how, hop_message());
        if (!status) check_results(how, t, in, out, rows, size);
        free_all(in, 2);
        free_all(out, 4);
    }
}

static const struct way {
    const char *how;
    hop_compile_options options;
} ways[] = {
    { "executor", { .portable = 1 } },
    { "native", { 0 } },
    { "strict", { .strict = 1 } },
    { "without vectors", { .without = "vector" } },
    { "without nests", { .without = "fuse, parallel" } },
};

static hop_exe *compiled(hop_fn *f, const struct way *way)
{
    hop_compile_options options = way->options;
    hop_exe *exe = NULL;
    options.no_cache = 1;
    CLAIM(!hop_compile(&exe, f, &options), "%s: %s", way->how, hop_message());
    return exe;
}

static void check_symbols(enum dtype t)
{
    hop_fn *f = program(t, "[M, N]", "M", "N");
    for (int k = 0; k < LENGTHS; k++) check_size("interpreter", f, NULL, t, 5, lengths[k]);
    for (uint32_t w = 0; w < HOP_COUNT(ways); w++) {
        if (!ways[w].options.portable && !exe_available()) continue;
        hop_exe *exe = compiled(f, &ways[w]);
        for (int k = 0; k < LENGTHS && exe; k++)
            check_size(ways[w].how, f, exe, t, 5 + 30 * (k % 2), lengths[k]);
        hop_exe_free(exe);
    }
    hop_fn_free(f);
}

static void check_numbers(enum dtype t, int rows, int size)
{
    char text[2][16];
    snprintf(text[0], sizeof text[0], "%d", rows);
    snprintf(text[1], sizeof text[1], "%d", size);
    hop_fn *f = program(t, "", text[0], text[1]);
    for (uint32_t w = 1; w < 3 && exe_available(); w++) {
        hop_exe *exe = compiled(f, &ways[w]);
        if (exe) check_size(ways[w].how, f, exe, t, rows, size);
        hop_exe_free(exe);
    }
    hop_fn_free(f);
}

int main(void)
{
    for (uint32_t t = 0; t < DT_COUNT; t++) {
        if (t == DT_BOOL) continue;
        check_symbols((enum dtype)t);
        check_numbers((enum dtype)t, 33, 3);
    }
    for (int k = 3; k < LENGTHS; k++) check_numbers(DT_F32, 7, lengths[k]);
    check_numbers(DT_F64, 3, 300);
    check_numbers(DT_F32, 3, 1000);
    check_numbers(DT_F16, 3, 300);
    check_numbers(DT_I8, 3, 300);
    return tests_end();
}
