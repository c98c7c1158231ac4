/* Windows against a plain definition, written here: random shapes, strides, paddings, dilations and dtypes,
 * as values, positions and cotangents, on every back end; strict numbers bit for bit the interpreter's; large
 * ones with 1, 2, 3, 7 and 16 threads, which must give the same bits. Pools, resizing, sampling and
 * convolutions by the calls of the header, with numbers from formulas, and what is wrong with arguments. */
#include "captured.h"
#include "ways.h"

static uint64_t state = 88172645463325252u;
static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}
static int64_t drawn(int64_t lo, int64_t hi) { return lo + (int64_t)(uniform() * (double)(hi - lo + 1)); }

/* ---- the plain definition ---- */

enum { MOST_DIMS = 4, MOST_CELLS = 1 << 14 };
struct shape {
    int rank;
    int64_t x[MOST_DIMS], y[MOST_DIMS], size[MOST_DIMS], stride[MOST_DIMS], low[MOST_DIMS], high[MOST_DIMS],
        apart[MOST_DIMS];
    int first; /* dim that is windowed */
};

static int64_t product(const int64_t *n, int from, int rank)
{
    int64_t p = 1;
    for (int d = from; d < rank; d++) p *= n[d];
    return p;
}
static void unflatten(int64_t flat, const int64_t *n, int rank, int64_t *out)
{
    for (int d = rank; d-- > 0; flat /= n[d]) out[d] = flat % n[d];
}
/* Element `tap` of window `o`: its place in x, -1: padding. */
static int64_t tap_at(const struct shape *s, int64_t o, int64_t tap)
{
    int64_t at[MOST_DIMS], t[MOST_DIMS], flat = 0;
    unflatten(o, s->y, s->rank, at);
    unflatten(tap, s->size, s->rank, t);
    for (int d = 0; d < s->rank; d++) {
        int64_t i = at[d] * s->stride[d] - s->low[d] + t[d] * s->apart[d];
        if (i < 0 || i >= s->x[d]) return -1;
        flat = flat * s->x[d] + i;
    }
    return flat;
}

static struct shape random_shape(void)
{
    struct shape s = { .rank = (int)drawn(1, MOST_DIMS) };
    s.first = s.rank;
    for (int d = s.rank; d-- > 0;) {
        bool moved = uniform() < 0.7, last = d + 1 == s.rank;
        s.x[d] = drawn(uniform() < 0.05 ? 0 : 1, last && uniform() < 0.5 ? 40 : 6);
        s.size[d] = moved ? drawn(1, last ? 6 : 4) : 1;
        s.stride[d] = moved ? drawn(1, uniform() < 0.1 ? 11 : 3) : 1;
        s.apart[d] = moved && uniform() < 0.3 ? drawn(1, 3) : 1;
        s.low[d] = moved && uniform() < 0.5 ? drawn(0, 4) : 0;
        s.high[d] = moved && uniform() < 0.5 ? drawn(0, 4) : 0;
        int64_t span = (s.size[d] - 1) * s.apart[d] + 1, short_of = span - s.x[d] - s.low[d] - s.high[d];
        if (short_of > 0) s.high[d] += short_of;
        s.y[d] = (s.x[d] + s.low[d] + s.high[d] - span) / s.stride[d] + 1;
        if (s.size[d] > 1 || s.stride[d] > 1 || s.low[d] || s.high[d]) s.first = d;
    }
    return s;
}

static char *list_text(char *to, const char *name, const int64_t *n, int rank)
{
    to += sprintf(to, "%s = [", name);
    for (int d = 0; d < rank; d++) to += sprintf(to, "%s%lld", d ? ", " : "", (long long)n[d]);
    return to + sprintf(to, "]");
}
static void type_into(char *to, const char *dtype, const int64_t *n, int rank)
{
    to += sprintf(to, "%s[", dtype);
    for (int d = 0; d < rank; d++) to += sprintf(to, "%s%lld", d ? ", " : "", (long long)n[d]);
    sprintf(to, "]");
}
static void attributes(char *to, const struct shape *s)
{
    to = list_text(to, "window", s->size, s->rank);
    to = list_text(to + sprintf(to, ", "), "strides", s->stride, s->rank);
    to = list_text(to + sprintf(to, ", "), "low", s->low, s->rank);
    to = list_text(to + sprintf(to, ", "), "high", s->high, s->rank);
    list_text(to + sprintf(to, ", "), "dilation", s->apart, s->rank);
}

/* ---- against it ---- */

static void near_to(const char *text, const char *how, const hop_tensor *got, const double *want, double most)
{
    int64_t bad = -1;
    for (int64_t i = 0; i < hop_tensor_count(got) && bad < 0; i++) {
        double g = get(got, i), w = want[i];
        if (g != w && !(fabs(g - w) <= most * fmax(1, fabs(w)))) bad = i;
    }
    CLAIM(bad < 0, "%s\n%s: element %lld is %.9g, expected %.9g", text, how, (long long)bad,
          get(got, bad < 0 ? 0 : bad), want[bad < 0 ? 0 : bad]);
}
static bool bits_equal(hop_tensor *a, hop_tensor *b)
{
    size_t bytes = (size_t)hop_tensor_count(a) * dtype_info[dtype_of(a)].size;
    return hop_tensor_count(a) == hop_tensor_count(b) && (!bytes || !memcmp(hop_data(a), hop_data(b), bytes));
}

static double tolerance_of(enum dtype t) { return t == DT_F64 ? 1e-12 : t == DT_F32 ? 1e-5 : 2e-2; }

/* Runs a program of one argument each way; want: per result, NULL where nothing is known. */
static void check_text(const char *text, hop_tensor *in, int n_out, double **want)
{
    hop_fn *f = NULL;
    hop_tensor *first[2] = { 0 };
    CLAIM(!hop_fn_read(&f, text, NULL), "%s\n%s", text, hop_message());
    for (int way = 0; f && way < WAYS; way++) {
        hop_tensor *out[2] = { 0 };
        int status = run_way((enum way)way, f, &in, 1, out, n_out);
        CLAIM(!status, "%s\n%s: %s", text, way_names[way], hop_message());
        for (int k = 0; k < n_out && !status; k++) {
            enum dtype t = dtype_of(out[k]);
            near_to(text, way_names[way], out[k], want[k], dtype_is_float(t) ? tolerance_of(t) : 0);
            if (way == STRICT) CLAIM(bits_equal(first[k], out[k]), "%s\nstrict: other bits", text);
        }
        if (way == INTERPRETED) memcpy(first, out, sizeof first);
        else free_all(out, 2);
    }
    free_all(first, 2);
    hop_fn_free(f);
}

static void fill(hop_tensor *t)
{
    bool whole = !dtype_is_float(dtype_of(t));
    for (int64_t i = 0; i < hop_tensor_count(t); i++)
        set(t, i, whole || uniform() < 0.3 ? (double)drawn(0, 3) : 4 * uniform() - 2); /* equals, too */
}

static double wanted[2][MOST_CELLS];

static void check_sum(const struct shape *s, const char *dtype, bool whole, bool spread)
{
    char attrs[512], from[128], to[128], text[1600], dims[160] = "";
    int64_t divisor = !whole && uniform() < 0.4 ? product(s->size, 0, s->rank) : 1;
    hop_tensor *in = NULL;
    attributes(attrs, s);
    type_into(from, dtype, spread ? s->y : s->x, s->rank);
    type_into(to, dtype, spread ? s->x : s->y, s->rank);
    if (divisor > 1) sprintf(attrs + strlen(attrs), ", divisor = %lld", (long long)divisor);
    if (spread) list_text(dims + sprintf(dims, ", "), "dims", s->x, s->rank);
    snprintf(text, sizeof text,
             "hop 1\nfn @main(%%x: %s) -> (%s) {\n  %%y = %s {%s%s} (%%x)\n  return %%y\n}\n", from, to,
             spread ? "window_spread" : "window_sum", attrs, dims);
    CLAIM(!hop_tensor_new(&in, from), "%s: %s", from, hop_message());
    fill(in);
    memset(wanted[0], 0, sizeof wanted[0]);
    for (int64_t o = 0; o < product(s->y, 0, s->rank); o++)
        for (int64_t tap = 0; tap < product(s->size, 0, s->rank); tap++) {
            int64_t at = tap_at(s, o, tap);
            if (at >= 0) wanted[0][spread ? at : o] += get(in, spread ? o : at) / (double)divisor;
        }
    check_text(text, in, 1, (double *[]){ wanted[0] });
    hop_tensor_free(in);
}

static void check_extreme(const struct shape *s, const char *dtype, bool max)
{
    char attrs[512], from[128], to[128], places[128], text[1600];
    int64_t plane = product(s->x, s->first, s->rank);
    hop_tensor *in = NULL;
    attributes(attrs, s);
    type_into(from, dtype, s->x, s->rank);
    type_into(to, dtype, s->y, s->rank);
    type_into(places, "i32", s->y, s->rank);
    snprintf(text, sizeof text,
             "hop 1\nfn @main(%%x: %s) -> (%s, %s) {\n  %%y, %%p = %s {%s} (%%x)\n  return %%y, %%p\n}\n",
             from, to, places, max ? "window_max" : "window_min", attrs);
    CLAIM(!hop_tensor_new(&in, from), "%s: %s", from, hop_message());
    fill(in);
    enum dtype t = dtype_of(in);
    double nothing = dtype_is_float(t) ? INFINITY : max ? -(double)dtype_least(t) : (double)dtype_most(t);
    for (int64_t o = 0; o < product(s->y, 0, s->rank); o++) {
        double best = max ? -nothing : nothing;
        int64_t place = -1;
        for (int64_t tap = 0; tap < product(s->size, 0, s->rank); tap++) {
            int64_t at = tap_at(s, o, tap);
            bool better = at >= 0 && (max ? get(in, at) > best : get(in, at) < best);
            if (better) best = get(in, at);
            if (better || (at >= 0 && place < 0)) place = at % plane;
        }
        wanted[0][o] = best;
        wanted[1][o] = (double)place;
    }
    check_text(text, in, 2, (double *[]){ wanted[0], wanted[1] });
    hop_tensor_free(in);
}

static void random_windows(int rounds)
{
    static const char *const dtypes[] = { "f32", "f64", "i32", "f16", "u8", "bf16" };
    for (int round = 0; round < rounds; round++) {
        struct shape s = random_shape();
        if (product(s.x, 0, s.rank) >= MOST_CELLS || product(s.y, 0, s.rank) >= MOST_CELLS) continue;
        const char *dtype = dtypes[uniform() < 0.6 ? drawn(0, 1) : drawn(2, 5)];
        bool whole = *dtype == 'i' || *dtype == 'u', small = *dtype == 'u';
        if (!small) check_sum(&s, dtype, whole, round & 1);
        check_extreme(&s, dtype, uniform() < 0.5);
    }
}

/* ---- threads ---- */

static void check_threads(const char *type, const char *body, int n_out)
{
    static const int counts[] = { 16, 7, 3, 2, 1 };
    char text[1200];
    hop_fn *f = NULL;
    hop_tensor *in = NULL, *want[2] = { 0 };
    for (int strict = 0; strict < 2; strict++) {
        hop_exe *exe = NULL;
        snprintf(text, sizeof text, "hop 1\nfn @main(%%x: %s) -> (%s}\n", type, body);
        CLAIM(!hop_fn_read(&f, text, NULL), "%s\n%s", text, hop_message());
        CLAIM(!hop_tensor_new(&in, type), "%s", hop_message());
        fill(in);
        hop_set_threads(counts[0]);
        CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .strict = strict, .no_cache = 1 }), "%s\n%s",
              text, hop_message());
        if (strict) CLAIM(!hop_interpret(f, &in, 1, want, n_out), "%s", hop_message());
        for (int k = 0; exe && k < (int)HOP_COUNT(counts); k++) {
            hop_tensor *out[2] = { 0 };
            hop_set_threads(counts[k]);
            CLAIM(!hop_run(exe, &in, 1, out, n_out), "%s\n%s", text, hop_message());
            for (int r = 0; r < n_out && out[r]; r++)
                if (want[r])
                    CLAIM(bits_equal(want[r], out[r]), "%s\n%d threads: other bits", text, counts[k]);
                else want[r] = out[r], out[r] = NULL;
            free_all(out, 2);
        }
        hop_set_threads(0);
        free_all(want, 2);
        memset(want, 0, sizeof want);
        hop_exe_free(exe);
        hop_fn_free(f);
        hop_tensor_free(in);
        f = NULL;
        in = NULL;
    }
}

static void large_windows(void)
{
    check_threads("f32[5, 7, 61, 67]",
                  "f32[5, 7, 31, 34], i32[5, 7, 31, 34]) {\n  %y, %p = window_max {window = [1, 1, 3, 3], "
                  "strides = [1, 1, 2, 2], low = [0, 0, 1, 1], high = [0, 0, 1, 1]} (%x)\n  return %y, %p\n",
                  2);
    check_threads("f32[301, 67]",
                  "f32[301, 34]) {\n  %y = window_sum {window = [5, 3], strides = [1, 2], low = [2, 1], high "
                  "= [2, 1], divisor = 15} (%x)\n  return %y\n",
                  1);
    check_threads("f32[301, 34]",
                  "f32[301, 67]) {\n  %y = window_spread {window = [5, 3], strides = [1, 2], low = [2, 1], "
                  "high = [2, 1], dims = [301, 67]} (%x)\n  return %y\n",
                  1);
    check_threads("f64[70001]",
                  "f64[70001]) {\n  %y = window_sum {window = [9], low = [4], high = [4]} (%x)\n  "
                  "return %y\n",
                  1);
    check_threads(
        "f64[70001]",
        "f64[140003]) {\n  %y = window_spread {window = [3], strides = [2], dims = [140003]} (%x)\n  "
        "return %y\n",
        1);
}

/* ---- calls of the header ---- */

static int pools_body(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    hop_window_spec pairs = { .window = "1, 2", .strides = "1, 2", .padding = "0:0, 1:1" };
    out[0] = hop_reduce_window(in[0], "max", &pairs);
    out[1] = hop_reduce_window(in[0], "prod", &(hop_window_spec){ .window = "2, 1" });
    out[2] = hop_avg_pool(in[0], &pairs, 1);
    out[3] = hop_avg_pool(in[0], &pairs, 0);
    out[4] = hop_adaptive_pool(in[0], "mean", "1", "3");
    out[5] = hop_adaptive_pool(in[0], "max", "-1", "3");
    return 0;
}
static const struct program pools = {
    "pools",
    "x: f32[2, 4]",
    1,
    6,
    pools_body,
    { "f32[2, 4]" },
    { { 1, 2, 3, 4, 8, 7, 6, 5 } },
    { "f32[2, 3]", "f32[1, 4]", "f32[2, 3]", "f32[2, 3]", "f32[2, 3]", "f32[2, 3]" },
    { { 1, 3, 4, 8, 7, 5 },
      { 8, 14, 18, 20 },
      { 1, 2.5, 4, 8, 6.5, 5 },
      { 0.5, 2.5, 2, 4, 6.5, 2.5 },
      { 1.5, 2.5, 3.5, 7.5, 6.5, 5.5 },
      { 2, 3, 4, 8, 7, 6 } },
};

static int between_body(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    hop_sample_spec border = { .padding = "border" };
    out[0] = hop_resize(in[0], &(hop_resize_spec){ .axes = "0", .sizes = "6" });
    out[1] = hop_resize(in[0], &(hop_resize_spec){ .axes = "0", .sizes = "5", .align_corners = 1 });
    out[2] = hop_resize(in[0], &(hop_resize_spec){ .axes = "0", .sizes = "2", .method = "nearest" });
    out[3] = hop_map_coordinates(in[0], &in[1], 1, NULL);
    out[4] = hop_map_coordinates(in[0], &in[1], 1, &border);
    hop_val picture = hop_reshape(in[0], "1, 1, 1, 3"), grid = hop_reshape(in[2], "1, 1, 2, 2");
    out[5] = hop_grid_sample(picture, grid, &(hop_sample_spec){ .align_corners = 1 });
    return 0;
}
static const struct program between = {
    "between elements",
    "x: f32[3], at: f32[3], grid: f32[4]",
    3,
    6,
    between_body,
    { "f32[3]", "f32[3]", "f32[4]" },
    { { 0, 4, 8 }, { 0.5, -0.5, 2.75 }, { 0.25, 0, -1, 0 } },
    { "f32[6]", "f32[5]", "f32[2]", "f32[3]", "f32[3]", "f32[1, 1, 1, 2]" },
    { { 0, 1, 3, 5, 7, 8 }, { 0, 2, 4, 6, 8 }, { 0, 8 }, { 2, 0, 2 }, { 2, 0, 8 }, { 5, 0 } },
};

static int convolutions_body(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_conv(in[0], in[1], NULL);
    out[1] = hop_conv(in[0], in[1], &(hop_conv_spec){ .strides = "2", .padding = "same" });
    out[2] = hop_conv(in[0], in[1], &(hop_conv_spec){ .padding = "1:0", .dilation = "2" });
    out[3] = hop_conv(in[0], in[1], &(hop_conv_spec){ .x_dilation = "2" });
    out[4] = hop_conv_transpose(in[0], in[1], &(hop_conv_spec){ .strides = "2", .output_padding = "1" });
    out[5] = hop_conv(hop_reshape(in[0], "1, 2, 2"), in[2], &(hop_conv_spec){ .layout = "NWC", .groups = 2 });
    return 0;
}
static const struct program convolutions = {
    "convolutions",
    "x: f32[1, 1, 4], w: f32[1, 1, 3], v: f32[1, 1, 2]",
    3,
    6,
    convolutions_body,
    { "f32[1, 1, 4]", "f32[1, 1, 3]", "f32[1, 1, 2]" },
    { { 1, 2, 4, 8 }, { 1, 0, -1 }, { 10, 100 } },
    { "f32[1, 1, 2]", "f32[1, 1, 2]", "f32[1, 1, 1]", "f32[1, 1, 5]", "f32[1, 1, 10]", "f32[1, 2, 2]" },
    { { -3, -6 },
      { -3, 4 },
      { -8 },
      { -1, 0, -2, 0, -4 },
      { 1, 0, 1, 0, 2, 0, 4, 0, -8, 0 },
      { 10, 200, 40, 800 } },
};

/* ---- what is wrong ---- */

struct wrong {
    hop_window_spec spec;
    const char *by, *message;
};
static int wrong_body(void *env, const hop_val *in, hop_val *out)
{
    const struct wrong *w = env;
    out[0] = hop_reduce_window(in[0], w->by, &w->spec);
    return 0;
}
static void wrong_windows(void)
{
    static const struct wrong all[] = {
        { { .window = "1, 9" }, "max", "along dim 1" },
        { { .window = "1, 3", .dilation = "1, 2" }, "max", "expected at most 4, found 5" },
        { { .window = "1, 0" }, "max", "attribute 'window': expected at least 1 for dim 1, found 0" },
        { { .window = "1, 2", .strides = "1, 0" },
          "sum",
          "'strides': expected at least 1 for dim 1, found 0" },
        { { .window = "1, 2", .strides = "-1, 1" },
          "sum",
          "'strides': expected at least 1 for dim 0, found -1" },
        { { .window = "1, 2", .padding = "0:0, -1:0" },
          "sum",
          "'low': expected at least 0 for dim 1, found -1" },
        { { .window = "2" }, "sum", "'window': expected one entry per dim of the operand (2), found 1" },
        { { .window = "2, x" }, "sum", "the window" },
        { { .window = "2, 2", .padding = "1, 1" }, "sum", "the padding" },
        { { .window = "1, 2" }, "median", "expected one of sum, prod, max, min, found \"median\"" },
        { { 0 }, "sum", "'window'" },
    };
    for (uint32_t k = 0; k < HOP_COUNT(all); k++) {
        hop_fn *f = NULL;
        struct wrong w = all[k];
        int status = hop_capture(&f, "x: f32[3, 4]", 1, wrong_body, &w);
        CLAIM(status == HOP_INVALID, "case %u gives %d: %s", k, status, hop_message());
        CLAIM(strstr(hop_message(), w.message), "case %u: \"%s\" is not in \"%s\"", k, w.message,
              hop_message());
        hop_fn_free(f);
    }
}

struct wrong_conv {
    hop_conv_spec spec;
    int transposed;
    const char *message;
};
static int wrong_conv_body(void *env, const hop_val *in, hop_val *out)
{
    const struct wrong_conv *w = env;
    out[0] = w->transposed ? hop_conv_transpose(in[0], in[1], &w->spec) : hop_conv(in[0], in[1], &w->spec);
    return 0;
}
static void wrong_convolutions(void)
{
    static const struct wrong_conv all[] = {
        { { .strides = "0" }, 0, "'strides': expected at least 1, found 0" },
        { { .strides = "1, 2" }, 0, "expected one entry, or one for each of 1 spatial axes, found 2" },
        { { .strides = "two" }, 0, "strides" },
        { { .padding = "-1" }, 0, "with its padding: 1 more element is needed" },
        { { .padding = "full" }, 0, "padding" },
        { { .padding = "same" }, 1, "padding \"same\": expected numbers" },
        { { .padding = "4" }, 1, "expected a size of at least 0" },
        { { .dilation = "3" }, 0, "with its padding: 3 more elements are needed" },
        { { .groups = 3 }, 0, "in 3 groups: expected 2, found 6" },
        { { .groups = 2 }, 1, "2 groups must divide" },
        { { .groups = -1 }, 0, "groups: expected at least 1, found -1" },
        { { .layout = "NC" }, 0, "layout \"NC\": expected a letter for each of 3 axes" },
        { { .kernel_layout = "OOI" }, 0, "expected the letter O once" },
        { { .output_padding = "1" }, 0, "output_padding has no meaning here" },
        { { .dtype = "f31" }, 0, "f31" },
    };
    for (uint32_t k = 0; k < HOP_COUNT(all); k++) {
        hop_fn *f = NULL;
        struct wrong_conv w = all[k];
        const char *params = w.transposed ? "x: f32[2, 3, 4], w: f32[3, 1, 3]"
                                          : "x: f32[1, 2, 4], w: f32[2, 2, 3]";
        int status = hop_capture(&f, params, 2, wrong_conv_body, &w);
        CLAIM(status == HOP_INVALID, "convolution %u gives %d: %s", k, status, hop_message());
        CLAIM(strstr(hop_message(), w.message), "convolution %u: \"%s\" is not in \"%s\"", k, w.message,
              hop_message());
        hop_fn_free(f);
    }
}

int main(int argc, char **argv)
{
    random_windows(argc > 1 ? atoi(argv[1]) : 60);
    large_windows();
    check_program(&pools);
    check_program(&between);
    check_program(&convolutions);
    wrong_windows();
    wrong_convolutions();
    return tests_end();
}
