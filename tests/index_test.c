/* Indexing, cumulative and sorting operators against plain loops in C, on random arrays of 0 to 200 elements
 * with ties, duplicates, NaN and indices out of range. Each program is run by the interpreter, as a loop
 * program, and as native code in strict mode: all must give the loop's bits. Then derivatives where there is
 * something to get wrong: duplicates, zeros among factors, overwritten updates. */
#include <hop/hop.h>

#include "check.h"

#include <math.h>
#include <stdio.h>

enum { MOST = 200, ENGINES = 4 };

static uint64_t state = 1;
static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return below ? (uint32_t)((state >> 33) % below) : 0;
}
static double number(void) { return (double)((int)draw(2001) - 1000) / 250; }

/* Few different numbers, so that there are ties; now and then one that is special. */
static double tied(void)
{
    static const double special[] = { NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e30 };
    return draw(9) ? (double)((int)draw(15) - 7) : special[draw(6)];
}

/* ---- running ---- */

struct program {
    const char *name;
    hop_fn *f;
    hop_exe *native, *portable, *loose;
};

static struct program read_program(const char *name, const char *text)
{
    struct program p = { .name = name };
    CLAIM(!hop_fn_read(&p.f, text, NULL), "%s: %s", name, hop_message());
    if (!p.f) return p;
    CLAIM(!hop_compile(&p.portable, p.f, &(hop_compile_options){ .strict = 1, .portable = 1 }), "%s: %s",
          name, hop_message());
    if (hop_compile(&p.native, p.f, &(hop_compile_options){ .strict = 1 }))
        p.native = NULL; /* without LLVM there is no native code */
    if (p.native) CLAIM(!hop_compile(&p.loose, p.f, NULL), "%s: %s", name, hop_message());
    return p;
}
static void free_program(struct program *p)
{
    hop_exe_free(p->native);
    hop_exe_free(p->portable);
    hop_exe_free(p->loose);
    hop_fn_free(p->f);
}

struct array {
    const char *dtype;
    size_t width;
    int rank;
    int64_t dims[2];
    const void *data;
};
#define ARRAY1(T, p, n) ((struct array){ T, sizeof *(p), 1, { (n) }, (p) })
#define ARRAY2(T, p, m, n) ((struct array){ T, sizeof *(p), 2, { (m), (n) }, (p) })
#define SCALAR(T, p) ((struct array){ T, sizeof *(p), 0, { 0 }, (p) })

static int64_t count_of(const struct array *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dims[d];
    return n;
}

static bool is_real(const struct array *a) { return a->dtype[0] == 'f'; }

/* Bits, but any NaN for a NaN; with a bound, within it. */
static bool agrees(const struct array *want, const void *got, double within)
{
    for (int64_t i = 0; i < count_of(want); i++) {
        const char *x = (const char *)want->data + (size_t)i * want->width,
                   *y = (const char *)got + (size_t)i * want->width;
        if (!memcmp(x, y, want->width)) continue;
        if (!is_real(want)) return false;
        double a = want->width == 4 ? *(const float *)x : *(const double *)x,
               b = want->width == 4 ? *(const float *)y : *(const double *)y;
        if (a != a && b != b) continue;
        if (within <= 0 || !(fabs(a - b) <= within * (1 + fabs(a)))) return false;
    }
    return true;
}

static int run_one(const struct program *p, int engine, hop_tensor *const *in, int n_in, hop_tensor **out,
                   int n_out)
{
    switch (engine) {
    case 0: return hop_interpret(p->f, in, n_in, out, n_out);
    case 1: return hop_run(p->portable, in, n_in, out, n_out);
    case 2: return hop_run(p->native, in, n_in, out, n_out);
    default: return hop_run(p->loose, in, n_in, out, n_out);
    }
}

/* Runs on every engine; results must be `want`, in strict mode bit for bit when `within` is 0. */
static void expect(const struct program *p, const struct array *in, int n_in, const struct array *want,
                   int n_out, double within)
{
    static const char *const engines[ENGINES] = { "interpreter", "loop program", "strict", "default" };
    hop_tensor *args[4] = { 0 };
    char type[64];
    if (!p->f) return;
    for (int i = 0; i < n_in; i++) {
        int at = snprintf(type, sizeof type, "%s[", in[i].dtype);
        for (int d = 0; d < in[i].rank; d++)
            at += snprintf(type + at, sizeof type - (size_t)at, "%s%lld", d ? ", " : "",
                           (long long)in[i].dims[d]);
        snprintf(type + at, sizeof type - (size_t)at, "]");
        if (hop_tensor_borrow(&args[i], type, (void *)(uintptr_t)in[i].data, NULL, NULL))
            CLAIM(false, "%s: %s", p->name, hop_message());
    }
    for (int e = 0; e < ENGINES; e++) {
        hop_tensor *out[3] = { 0 };
        if (e >= 2 && !p->native) continue;
        int status = run_one(p, e, args, n_in, out, n_out);
        CLAIM(!status, "%s, %s: %s", p->name, engines[e], hop_message());
        for (int k = 0; !status && k < n_out; k++) {
            bool shape = hop_tensor_rank(out[k]) == want[k].rank;
            for (int d = 0; shape && d < want[k].rank; d++)
                shape = hop_tensor_dim(out[k], d) == want[k].dims[d];
            CLAIM(shape && agrees(&want[k], hop_data(out[k]), e == 3 ? 1e-4 : within),
                  "%s, %s: result %d of %lld elements differs", p->name, engines[e], k,
                  (long long)count_of(&want[k]));
        }
        for (int k = 0; k < n_out; k++) hop_tensor_free(out[k]);
    }
    for (int i = 0; i < n_in; i++) hop_tensor_free(args[i]);
}

static int size_of_round(int round)
{
    return round < 20 ? round : round < 24 ? (int[]){ 31, 32, 33, MOST }[round - 20] : (int)draw(MOST + 1);
}
enum { ROUNDS = 34 };

/* ---- sorting ---- */

static bool stands_before(double x, double y, bool descending)
{
    if (descending) return x > y || (x != x && y == y);
    return x < y || (x == x && y != y);
}

static void test_sort(void)
{
    for (int descending = 0; descending < 2; descending++) {
        char text[256];
        snprintf(text, sizeof text,
                 "hop 1\nfn @f[N](%%x: f32[N]) -> (f32[N], i64[N]) {\n  %%v, %%i = sort%s(%%x)\n  return "
                 "%%v, %%i\n}\n",
                 descending ? " {descending} " : "");
        struct program both = read_program("sort", text);
        snprintf(text, sizeof text,
                 "hop 1\nfn @f[N](%%x: f32[N]) -> (f32[N]) {\n  %%v, %%i = sort%s(%%x)\n  return %%v\n}\n",
                 descending ? " {descending} " : "");
        struct program values = read_program("sorted values", text);
        for (int round = 0; round < ROUNDS; round++) {
            float x[MOST], v[MOST];
            int64_t at[MOST];
            int n = size_of_round(round);
            for (int i = 0; i < n; i++) x[i] = (float)(round % 3 ? tied() : number());
            if (round % 7 == 5)
                for (int i = 0; i < n; i++) x[i] = (float)i; /* in order already */
            for (int i = 0; i < n; i++) {                    /* insertion */
                int k = i;
                for (; k > 0 && stands_before(x[i], v[k - 1], descending); k--)
                    v[k] = v[k - 1], at[k] = at[k - 1];
                v[k] = x[i], at[k] = i;
            }
            expect(&both, &ARRAY1("f32", x, n), 1,
                   (struct array[]){ ARRAY1("f32", v, n), ARRAY1("i64", at, n) }, 2, 0);
            expect(&values, &ARRAY1("f32", x, n), 1, &ARRAY1("f32", v, n), 1, 0);
        }
        free_program(&both);
        free_program(&values);
    }
}

static void test_sort_columns(void)
{
    struct program p = read_program("sort of columns",
                                    "hop 1\nfn @f[N, M](%x: i32[N, M]) -> (i32[N, M], i64[N, M]) {\n  %v, %i "
                                    "= sort(%x)\n  return %v, %i\n}\n");
    for (int round = 0; round < 12; round++) {
        int32_t x[MOST * 3], v[MOST * 3];
        int64_t at[MOST * 3];
        int n = size_of_round(round * 2), m = 1 + (int)draw(3);
        for (int i = 0; i < n * m; i++) x[i] = (int32_t)draw(20) - 10;
        for (int c = 0; c < m; c++)
            for (int i = 0; i < n; i++) {
                int k = i;
                for (; k > 0 && x[i * m + c] < v[(k - 1) * m + c]; k--)
                    v[k * m + c] = v[(k - 1) * m + c], at[k * m + c] = at[(k - 1) * m + c];
                v[k * m + c] = x[i * m + c], at[k * m + c] = i;
            }
        expect(&p, &ARRAY2("i32", x, n, m), 1,
               (struct array[]){ ARRAY2("i32", v, n, m), ARRAY2("i64", at, n, m) }, 2, 0);
    }
    free_program(&p);
}

static void test_search(void)
{
    struct program p = read_program("searchsorted",
                                    "hop 1\nfn @f[N, M](%x: f64[N], %q: f64[M]) -> (i64[M], i64[M]) {\n  %s, "
                                    "%o = sort(%x)\n  %i = searchsorted(%s, %q)\n"
                                    "  %j = searchsorted {right} (%s, %q)\n  return %i, %j\n}\n");
    for (int round = 0; round < ROUNDS; round++) {
        double x[MOST], q[MOST];
        int64_t left[MOST], right[MOST];
        int n = size_of_round(round), m = (int)draw(20);
        for (int i = 0; i < n; i++) x[i] = tied();
        for (int k = 0; k < m; k++) {
            q[k] = tied();
            left[k] = right[k] = 0;
            for (int i = 0; i < n; i++)
                left[k] += stands_before(x[i], q[k], false), right[k] += !stands_before(q[k], x[i], false);
        }
        expect(&p, (struct array[]){ ARRAY1("f64", x, n), ARRAY1("f64", q, m) }, 2,
               (struct array[]){ ARRAY1("i64", left, m), ARRAY1("i64", right, m) }, 2, 0);
    }
    free_program(&p);
}

/* ---- running values ---- */

static float fold(int op, float a, float b)
{
    switch (op) {
    case 0: return a + b;
    case 1: return a * b;
    case 2: return a != a || a > b ? a : b;
    default: return a != a || a < b ? a : b;
    }
}

static void test_cumulative(void)
{
    static const char *const ops[] = { "cumsum", "cumprod", "cummax", "cummin" };
    for (int op = 0; op < 4; op++)
        for (int reverse = 0; reverse < 2; reverse++)
            for (int along = 0; along < 2; along++) {
                char text[256];
                snprintf(text, sizeof text,
                         "hop 1\nfn @f[N, M](%%x: f32[N, M]) -> (f32[N, M]) {\n  %%y = %s {dim = %d%s} "
                         "(%%x)\n  return %%y\n}\n",
                         ops[op], along, reverse ? ", reverse" : "");
                struct program p = read_program(ops[op], text);
                for (int round = 0; round < ROUNDS; round += 2) {
                    static float x[MOST * 20], y[MOST * 20];
                    int n = along ? (int)draw(4) : size_of_round(round),
                        m = along ? size_of_round(round) : (int)draw(20), size = along ? m : n;
                    for (int i = 0; i < n * m; i++)
                        x[i] = (float)(round % 3 == 2 ? tied() : op == 1 ? number() / 4 : number());
                    for (int line = 0; line < (along ? n : m); line++)
                        for (int k = 0; k < size; k++) {
                            int at = reverse ? size - 1 - k : k, before = reverse ? at + 1 : at - 1,
                                here = along ? line * m + at : at * m + line;
                            y[here] = k ? fold(op, y[along ? line * m + before : before * m + line], x[here])
                                        : x[here];
                        }
                    expect(&p, &ARRAY2("f32", x, n, m), 1, &ARRAY2("f32", y, n, m), 1, 0);
                }
                free_program(&p);
            }
}

static void test_recurrence(void)
{
    struct program p = read_program(
        "recurrence",
        "hop 1\nfn @f[N](%a: f64[N], %b: f64[N]) -> (f64[N], f64[N]) {\n  %s = recurrence(%a, %b)\n"
        "  %t = recurrence {reverse} (%a, %b)\n  return %s, %t\n}\n");
    for (int round = 0; round < ROUNDS; round++) {
        double a[MOST], b[MOST], s[MOST], t[MOST];
        int n = size_of_round(round);
        for (int i = 0; i < n; i++) a[i] = number() / 4, b[i] = number();
        for (int i = 0; i < n; i++) {
            int j = n - 1 - i;
            s[i] = b[i], t[j] = b[j];
            if (i) s[i] = a[i] * s[i - 1] + b[i], t[j] = a[j] * t[j + 1] + b[j];
        }
        expect(&p, (struct array[]){ ARRAY1("f64", a, n), ARRAY1("f64", b, n) }, 2,
               (struct array[]){ ARRAY1("f64", s, n), ARRAY1("f64", t, n) }, 2, 0);
    }
    free_program(&p);
}

/* log Σ exp with the largest taken off, in long double. */
static void test_logcumsumexp(void)
{
    struct program p =
        read_program("logcumsumexp",
                     "hop 1\nfn @f[N](%x: f64[N]) -> (f64[N]) {\n  %y = logcumsumexp(%x)\n  return %y\n}\n");
    for (int round = 0; round < ROUNDS; round++) {
        double x[MOST], y[MOST];
        int n = size_of_round(round);
        for (int i = 0; i < n; i++)
            x[i] = round % 4 == 3 && !draw(5) ? -INFINITY : number() * (round % 2 ? 300 : 1);
        for (int i = 0; i < n; i++) {
            double most = -INFINITY;
            long double sum = 0;
            for (int k = 0; k <= i; k++) most = fmax(most, x[k]);
            for (int k = 0; k <= i && most > -INFINITY; k++) sum += expl((long double)x[k] - most);
            y[i] = most > -INFINITY ? (double)(logl(sum) + most) : -INFINITY;
        }
        expect(&p, &ARRAY1("f64", x, n), 1, &ARRAY1("f64", y, n), 1, 1e-13);
    }
    free_program(&p);
}

/* ---- indices ---- */

static const char *const modes[] = { "add", "set", "mul", "min", "max" };

static float combine(int mode, float r, float u)
{
    switch (mode) {
    case 0: return r + u;
    case 1: return u;
    case 2: return r * u;
    case 3: return r != r || r < u ? r : u;
    default: return r != r || r > u ? r : u;
    }
}

static void test_scatter(void)
{
    for (int mode = 0; mode < 5; mode++) {
        char text[512];
        snprintf(text, sizeof text,
                 "hop 1\nfn @f[N, M](%%x: f32[N], %%i: i64[M], %%u: f32[M]) -> (f32[N]) {\n  %%y = scatter "
                 "{mode = %s} (%%x, %%i, %%u)\n  return %%y\n}\n",
                 modes[mode]);
        struct program one = read_program(modes[mode], text);
        snprintf(text, sizeof text,
                 "hop 1\nfn @f[N, M, K](%%x: f32[N, K], %%i: i32[M], %%j: i32[M], %%u: f32[M]) -> (f32[N, "
                 "K], f32[M]) {\n"
                 "  %%y = scatter {dims = [1, 0], mode = %s} (%%x, %%i, %%j, %%u)\n  %%z = gather {dims = "
                 "[1, 0]} (%%x, %%i, %%j)\n  return %%y, %%z\n}\n",
                 modes[mode]);
        struct program two = read_program(modes[mode], text);
        for (int round = 0; round < ROUNDS; round++) {
            float x[MOST], y[MOST], u[MOST], z[MOST];
            int64_t at[MOST];
            int32_t i[MOST], j[MOST];
            int n = size_of_round(round), m = (int)draw(MOST + 1);
            for (int k = 0; k < n; k++) x[k] = y[k] = (float)(round % 3 ? number() : tied());
            for (int k = 0; k < m; k++) {
                u[k] = (float)(round % 3 ? number() : tied());
                at[k] = (int64_t)draw((uint32_t)n + 4) - 2;
                if (at[k] >= 0 && at[k] < n) y[at[k]] = combine(mode, y[at[k]], u[k]);
            }
            expect(&one, (struct array[]){ ARRAY1("f32", x, n), ARRAY1("i64", at, m), ARRAY1("f32", u, m) },
                   3, &ARRAY1("f32", y, n), 1, 0);
            int columns = 1 + (int)draw(4), rows = n / columns;
            memcpy(y, x, sizeof y);
            for (int k = 0; k < m; k++) {
                i[k] = (int32_t)draw((uint32_t)columns + 2) - 1, j[k] = (int32_t)draw((uint32_t)rows + 2) - 1;
                int32_t c = i[k] < 0          ? 0
                            : i[k] >= columns ? columns - 1
                                              : i[k],
                        r = j[k] < 0       ? 0
                            : j[k] >= rows ? rows - 1
                                           : j[k];
                z[k] = rows ? x[r * columns + c] : 0;
                if (i[k] == c && j[k] == r && rows)
                    y[r * columns + c] = combine(mode, y[r * columns + c], u[k]);
            }
            expect(&two,
                   (struct array[]){ ARRAY2("f32", x, rows, columns), ARRAY1("i32", i, m),
                                     ARRAY1("i32", j, m), ARRAY1("f32", u, m) },
                   4, (struct array[]){ ARRAY2("f32", y, rows, columns), ARRAY1("f32", z, m) }, 2, 0);
        }
        free_program(&one);
        free_program(&two);
    }
}

static void test_nonzero(void)
{
    struct program p = read_program(
        "nonzero", "hop 1\nfn @f[N, M](%x: i32[N, M]) -> (i64[?k], i64[?k]) {\n  %z = full {value = 0, dims "
                   "= [N, M], dtype = i32}\n"
                   "  %p = ne(%x, %z)\n  %i: i64[?k], %j: i64[?k] = nonzero(%p)\n  return %i, %j\n}\n");
    struct program sized = read_program(
        "sized nonzero",
        "hop 1\nfn @f[N, M](%x: i32[N, M]) -> (i64[9], i64[9]) {\n  %z = full {value = 0, dims = [N, M], "
        "dtype = i32}\n"
        "  %p = ne(%x, %z)\n  %i, %j = nonzero {size = 9, fill = 77} (%p)\n  return %i, %j\n}\n");
    for (int round = 0; round < ROUNDS; round++) {
        int32_t x[MOST];
        int64_t i[MOST], j[MOST], count = 0;
        int columns = 1 + (int)draw(7), rows = size_of_round(round) / columns;
        for (int k = 0; k < rows * columns; k++) {
            x[k] = (int32_t)draw(3);
            if (x[k]) i[count] = k / columns, j[count++] = k % columns;
        }
        expect(&p, &ARRAY2("i32", x, rows, columns), 1,
               (struct array[]){ ARRAY1("i64", i, count), ARRAY1("i64", j, count) }, 2, 0);
        for (int64_t k = count; k < 9; k++) i[k] = j[k] = 77;
        expect(&sized, &ARRAY2("i32", x, rows, columns), 1,
               (struct array[]){ ARRAY1("i64", i, 9), ARRAY1("i64", j, 9) }, 2, 0);
    }
    free_program(&p);
    free_program(&sized);
}

/* ---- derivatives ---- */

/* grad of Σ c·f(x) for all of wrt. */
static struct program gradient(const char *name, const char *text, const char *wrt)
{
    struct program p = { .name = name };
    hop_fn *f = NULL;
    CLAIM(!hop_fn_read(&f, text, NULL) && !hop_grad(&p.f, f, wrt), "%s: %s", name, hop_message());
    hop_fn_free(f);
    if (!p.f) return p;
    CLAIM(!hop_compile(&p.portable, p.f, &(hop_compile_options){ .strict = 1, .portable = 1 }), "%s: %s",
          name, hop_message());
    if (hop_compile(&p.native, p.f, &(hop_compile_options){ .strict = 1 })) p.native = NULL;
    if (p.native) CLAIM(!hop_compile(&p.loose, p.f, NULL), "%s: %s", name, hop_message());
    return p;
}

/* d/dx and d/du of Σ c·scatter(x, i, u): every product of the other factors multiplied up on its own. */
static void test_scatter_gradients(void)
{
    for (int mode = 1; mode < 5; mode++) {
        char text[512];
        snprintf(text, sizeof text,
                 "hop 1\nfn @f[N, M](%%x: f64[N], %%i: i64[M], %%u: f64[M], %%c: f64[N]) -> (f64[]) {\n  %%y "
                 "= scatter {mode = %s} (%%x, %%i, %%u)\n"
                 "  %%p = mul(%%y, %%c)\n  %%s = sum(%%p)\n  return %%s\n}\n",
                 modes[mode]);
        struct program p = gradient(modes[mode], text, "x, u");
        for (int round = 0; round < ROUNDS; round++) {
            double x[MOST], u[MOST], c[MOST], dx[MOST], du[MOST];
            int64_t at[MOST];
            int n = 1 + size_of_round(round) / 8, m = (int)draw(40);
            for (int k = 0; k < n; k++)
                x[k] = (double)((int)draw(7) - 3),
                c[k] = (double)((int)draw(9) - 4); /* few numbers: ties and zeros */
            for (int k = 0; k < m; k++)
                u[k] = (double)((int)draw(7) - 3), at[k] = (int64_t)draw((uint32_t)n + 2) - 1;
            for (int place = 0; place < n; place++) {
                int members[MOST], count = 0;
                double r = x[place], equal = 0;
                for (int k = 0; k < m; k++)
                    if (at[k] == place) members[count++] = k;
                for (int q = 0; q < count; q++)
                    r = mode == 1   ? u[members[q]]
                        : mode == 2 ? r * u[members[q]]
                        : mode == 3 ? fmin(r, u[members[q]])
                                    : fmax(r, u[members[q]]);
                for (int q = -1; q < count; q++) equal += (q < 0 ? x[place] : u[members[q]]) == r;
                for (int q = -1; q < count; q++) {
                    double d, own = q < 0 ? x[place] : u[members[q]];
                    if (mode == 1)
                        d = q == count - 1 ? c[place] : 0; /* the last one, x where there is none */
                    else if (mode == 2) {
                        d = c[place];
                        for (int o = -1; o < count; o++)
                            if (o != q) d *= o < 0 ? x[place] : u[members[o]];
                    } else d = own == r ? c[place] / equal : 0;
                    *(q < 0 ? &dx[place] : &du[members[q]]) = d;
                }
            }
            for (int k = 0; k < m; k++)
                if (at[k] < 0 || at[k] >= n) du[k] = 0;
            expect(&p,
                   (struct array[]){ ARRAY1("f64", x, n), ARRAY1("i64", at, m), ARRAY1("f64", u, m),
                                     ARRAY1("f64", c, n) },
                   4, (struct array[]){ ARRAY1("f64", dx, n), ARRAY1("f64", du, m) }, 2, 1e-12);
        }
        free_program(&p);
    }
}

/* d²/dx² along a direction, for zeros among the factors: Σ_k c_k·Π x and its derivatives by definition. */
static void test_cumprod_gradients(void)
{
    static const char text[] = "hop 1\nfn @f[N](%x: f64[N], %c: f64[N]) -> (f64[]) {\n  %y = cumprod(%x)\n  "
                               "%p = mul(%y, %c)\n  %s = sum(%p)\n  return %s\n}\n";
    struct program p = gradient("cumprod", text, "x");
    hop_fn *f = NULL, *g = NULL, *h = NULL;
    CLAIM(!hop_fn_read(&f, text, NULL) && !hop_grad(&g, f, "x") && !hop_jacrev(&h, g, "x"),
          "cumprod twice: %s", hop_message());
    struct program twice = { .name = "cumprod twice", .f = h };
    if (h) {
        CLAIM(!hop_compile(&twice.portable, h, &(hop_compile_options){ .strict = 1, .portable = 1 }),
              "cumprod twice: %s", hop_message());
        if (hop_compile(&twice.native, h, &(hop_compile_options){ .strict = 1 })) twice.native = NULL;
        if (twice.native) CLAIM(!hop_compile(&twice.loose, h, NULL), "cumprod twice: %s", hop_message());
    }
    for (int round = 0; round < 14; round++) {
        double x[MOST], c[MOST], d[MOST], dd[20 * 20];
        int n = round;
        for (int i = 0; i < n; i++) x[i] = (double)((int)draw(5) - 2), c[i] = (double)((int)draw(9) - 4);
        for (int i = 0; i < n; i++) {
            d[i] = 0;
            for (int j = 0; j < n; j++) {
                double second = 0;
                for (int k = i > j ? i : j; k < n; k++) {
                    double product = c[k];
                    for (int o = 0; o <= k; o++)
                        if (o != i && o != j) product *= x[o];
                    if (i == j) d[i] += product;
                    else second += product;
                }
                dd[i * n + j] = second;
            }
        }
        expect(&p, (struct array[]){ ARRAY1("f64", x, n), ARRAY1("f64", c, n) }, 2, &ARRAY1("f64", d, n), 1,
               1e-12);
        expect(&twice, (struct array[]){ ARRAY1("f64", x, n), ARRAY1("f64", c, n) }, 2,
               &ARRAY2("f64", dd, n, n), 1, 1e-12);
    }
    free_program(&p);
    free_program(&twice);
    hop_fn_free(f);
    hop_fn_free(g);
}

/* Second derivatives of scattered products: H_{jk} = c·Π of the other factors at the same place. */
static void test_product_twice(void)
{
    static const char text[] = "hop 1\nfn @f[N, M](%u: f64[M], %x: f64[N], %i: i64[M], %c: f64[N]) -> "
                               "(f64[]) {\n  %y = scatter {mode = mul} (%x, %i, %u)\n"
                               "  %p = mul(%y, %c)\n  %s = sum(%p)\n  return %s\n}\n";
    hop_fn *f = NULL;
    struct program p = { .name = "products twice" };
    CLAIM(!hop_fn_read(&f, text, NULL) && !hop_hessian(&p.f, f, "u"), "products twice: %s", hop_message());
    hop_fn_free(f);
    if (!p.f) return;
    CLAIM(!hop_compile(&p.portable, p.f, &(hop_compile_options){ .strict = 1, .portable = 1 }),
          "products twice: %s", hop_message());
    if (hop_compile(&p.native, p.f, &(hop_compile_options){ .strict = 1 })) p.native = NULL;
    if (p.native) CLAIM(!hop_compile(&p.loose, p.f, NULL), "products twice: %s", hop_message());
    for (int round = 0; round < 12; round++) {
        double x[4], u[12], c[4], dd[12 * 12];
        int64_t at[12];
        int n = 1 + (int)draw(3), m = round;
        for (int k = 0; k < n; k++) x[k] = (double)((int)draw(5) - 2), c[k] = (double)((int)draw(9) - 4);
        for (int k = 0; k < m; k++)
            u[k] = (double)((int)draw(5) - 2), at[k] = (int64_t)draw((uint32_t)n + 1) - (round % 3 == 0);
        for (int j = 0; j < m; j++)
            for (int k = 0; k < m; k++) {
                bool same = j != k && at[j] == at[k] && at[j] >= 0 && at[j] < n;
                double product = same ? c[at[j]] * x[at[j]] : 0;
                for (int o = 0; o < m && same; o++)
                    if (o != j && o != k && at[o] == at[j]) product *= u[o];
                dd[j * m + k] = product;
            }
        expect(&p,
               (struct array[]){ ARRAY1("f64", u, m), ARRAY1("f64", x, n), ARRAY1("i64", at, m),
                                 ARRAY1("f64", c, n) },
               4, &ARRAY2("f64", dd, m, m), 1, 1e-12);
    }
    free_program(&p);
}

int main(void)
{
    test_sort();
    test_sort_columns();
    test_search();
    test_cumulative();
    test_recurrence();
    test_logcumsumexp();
    test_scatter();
    test_nonzero();
    test_scatter_gradients();
    test_cumprod_gradients();
    test_product_twice();
    return tests_end();
}
