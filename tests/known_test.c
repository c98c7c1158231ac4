/* Known answers for loops that text programs cannot hold: one compiled program run at many lengths, against
 * plain C; a scan whose carry has sixty scalars, forward and gradient, against plain C and differences; rows
 * of every trip of an open loop from C, and the Hessian through one. (tests/corpus/known has the rest.) */
#include "check.h"
#include "runtime/exe.h"

#include <hop/hop.h>
#include <math.h>

static hop_tensor *vector(const char *type, const double *content)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s: %s", type, hop_message());
    if (t && hop_tensor_count(t)) memcpy(hop_data(t), content, (size_t)hop_tensor_count(t) * sizeof *content);
    return t;
}
static hop_tensor *f64_vector(int n, const double *content)
{
    char type[32];
    snprintf(type, sizeof type, "f64[%d]", n);
    return vector(type, content);
}
static void free_all(hop_tensor **t, int n)
{
    for (int i = 0; i < n; i++) hop_tensor_free(t[i]), t[i] = NULL;
}
static double at(const hop_tensor *t, int64_t i) { return ((const double *)hop_data(t))[i]; }

/* Within the bound of the largest magnitude. */
static void close_to(const char *what, int n, const hop_tensor *found, const double *expected, double bound)
{
    double scale = 1;
    int64_t bad = -1;
    CLAIM(hop_tensor_count(found) == n, "%s: %lld elements, expected %d", what,
          (long long)hop_tensor_count(found), n);
    if (hop_tensor_count(found) != n) return;
    for (int i = 0; i < n; i++) scale = fmax(scale, fabs(expected[i]));
    for (int i = 0; i < n && bad < 0; i++)
        if (!(fabs(at(found, i) - expected[i]) <= bound * scale)) bad = i;
    CLAIM(bad < 0, "%s: element %lld is %.17g, expected %.17g", what, (long long)bad,
          at(found, bad < 0 ? 0 : bad), expected[bad < 0 ? 0 : bad]);
}

/* Interpreted, compiled with strict and with default numbers, as a loop program. */
struct ways {
    hop_fn *fn;
    hop_exe *exe[3];
};
enum { WAYS = 4 };
static const char *const way_names[WAYS] = { "interpreted", "strict", "default", "loop program" };

static struct ways make_ways(const char *name, hop_fn *fn)
{
    struct ways w = { .fn = fn };
    for (int i = 0; i < 3; i++) {
        if (i < 2 && !exe_available()) continue;
        CLAIM(!hop_compile(&w.exe[i], fn,
                           &(hop_compile_options){ .strict = i != 1, .portable = i == 2, .threads = 1 }),
              "%s: %s", name, hop_message());
    }
    return w;
}
static void free_ways(struct ways *w)
{
    for (int i = 0; i < 3; i++) hop_exe_free(w->exe[i]);
    hop_fn_free(w->fn);
}
static bool run_way(const char *name, const struct ways *w, int way, hop_tensor **in, int n_in,
                    hop_tensor **out, int n_out)
{
    if (way && !w->exe[way - 1]) return false;
    int status = way ? hop_run(w->exe[way - 1], in, n_in, out, n_out)
                     : hop_interpret(w->fn, in, n_in, out, n_out);
    CLAIM(!status, "%s, %s: %s", name, way_names[way], hop_message());
    return !status;
}

/* ---- one program, many lengths ----
 * Rows y of xs and w, and the loss Σ (t + 1) y_t; its gradients by xs and w. Recurrences are y_t = w y_{t-1}
 * + x_t (from 0), in either direction. */

#define LOSS(size) \
    "  %c = iota {dims = [" size "], dtype = f64}\n" \
    "  %one = full {value = 1, dims = [" size "], dtype = f64}\n" \
    "  %k = add(%c, %one)\n" \
    "  %p = mul(%ys, %k)\n" \
    "  %loss = sum(%p)\n" \
    "  return %loss, %ys\n" \
    "}\n"
#define HEAD(size) "hop 1\nfn @f[T](%xs: f64[T], %w: f64[]) -> (f64[], f64[" size "]) {\n"
#define SCAN(attribute) \
    HEAD("T") \
    "  %zero = full {value = 0, dims = [], dtype = f64}\n" \
    "  %last, %ys = scan " attribute "carry(%h = %zero) over(%x in %xs) with(%w) {\n" \
    "    %m = mul(%w, %h)\n    %n = add(%m, %x)\n    next(%n) stack(%n)\n  }\n" LOSS("T")
#define ASSOCIATIVE(attribute) \
    HEAD("T") \
    "  %ws = broadcast {dims = [T], at = []} (%w)\n" \
    "  %as, %ys = associative_scan " attribute "over((%a, %b) in %ws, (%d, %e) in %xs) {\n" \
    "    %p = mul(%a, %b)\n    %q = mul(%b, %d)\n    %r = add(%q, %e)\n    next(%p, %r)\n  }\n" LOSS("T")

static const struct length_case {
    const char *name, *text;
    bool reverse, squares; /* squares: y_t = w x_t² in place of the recurrence */
} length_cases[] = {
    { "scan", SCAN(""), false, false },
    { "reversed scan", SCAN("{reverse} "), true, false },
    { "scan that recomputes in blocks", SCAN("{schedule = sqrt} "), false, false },
    { "associative_scan", ASSOCIATIVE(""), false, false },
    { "reversed associative_scan", ASSOCIATIVE("{reverse} "), true, false },
    { "fori_loop",
      HEAD("?k") "  %zero = full {value = 0, dims = [], dtype = f64}\n"
                 "  %from = full {value = 0, dims = [], dtype = i64}\n"
                 "  %to = dim_value {dim = T}\n"
                 "  %last, %ys: f64[?k] = fori_loop carry(%h = %zero) from(%i = %from) to(%to) with(%xs, %w) "
                 "{\n"
                 "    %x = take(%xs, %i)\n    %m = mul(%w, %h)\n    %n = add(%m, %x)\n    next(%n) "
                 "stack(%n)\n  }\n" LOSS("?k"),
      false, false },
    { "while_loop",
      HEAD("T") "  %zero = full {value = 0, dims = [], dtype = f64}\n"
                "  %from = full {value = 0, dims = [], dtype = i64}\n"
                "  %to = dim_value {dim = T}\n"
                "  %last, %end, %n, %ys = while_loop {max_trips = T} carry(%h = %zero, %i = %from) cond "
                "with(%to) {\n"
                "    %p = lt(%i, %to)\n    test(%p)\n  } body with(%xs, %w) {\n"
                "    %x = take(%xs, %i)\n    %m = mul(%w, %h)\n    %s = add(%m, %x)\n    %one = full {value "
                "= 1, dims = [], dtype = i64}\n    %j = add(%i, %one)\n"
                "    next(%s, %j) stack(%s)\n  }\n" LOSS("T"),
      false, false },
    { "map",
      HEAD("T") "  %ys = map over(%x in %xs) with(%w) {\n    %s = mul(%x, %x)\n    %m = mul(%w, %s)\n    "
                "stack(%m)\n  }\n" LOSS("T"),
      false, true },
    { "map, one after the other",
      HEAD("T") "  %ys = map {sequential} over(%x in %xs) with(%w) {\n    %s = mul(%x, %x)\n    %m = mul(%w, "
                "%s)\n    stack(%m)\n  }\n" LOSS("T"),
      false, true },
};

enum { LONGEST = 1000 };
static double reference(const struct length_case *c, int n, const double *x, double w, double *y, double *dx,
                        double *dw)
{
    double loss = 0, g = 0;
    *dw = 0;
    for (int i = 0; i < n; i++) {
        int t = c->reverse ? n - 1 - i : i, before = c->reverse ? t + 1 : t - 1;
        y[t] = c->squares ? w * x[t] * x[t] : (i ? w * y[before] : 0) + x[t];
        loss += (t + 1) * y[t];
    }
    for (int i = n - 1; i >= 0; i--) {
        int t = c->reverse ? n - 1 - i : i, before = c->reverse ? t + 1 : t - 1;
        g = (c->squares ? 0 : w * g) + (t + 1);
        dx[t] = c->squares ? g * 2 * w * x[t] : g;
        *dw += c->squares ? g * x[t] * x[t] : i ? g * y[before] : 0;
    }
    return loss;
}

static void lengths(const struct length_case *c)
{
    static const int all[] = { 0, 1, 2, 3, 7, LONGEST };
    static double x[LONGEST], y[LONGEST], dx[LONGEST];
    hop_fn *f = NULL, *g = NULL;
    CLAIM(!hop_fn_read(&f, c->text, NULL) && !hop_value_and_grad(&g, f, "xs, w"), "%s: %s", c->name,
          hop_message());
    hop_fn_free(f);
    if (!g) return;
    struct ways ways = make_ways(c->name, g);
    for (size_t k = 0; k < HOP_COUNT(all); k++) {
        int n = all[k];
        double w = 0.9, dw, loss;
        for (int i = 0; i < n; i++) x[i] = sin(i + 1.0);
        loss = reference(c, n, x, w, y, dx, &dw);
        hop_tensor *in[2] = { f64_vector(n, x), vector("f64[]", &w) };
        for (int way = 0; way < WAYS; way++) {
            hop_tensor *out[4] = { 0 };
            char what[128];
            snprintf(what, sizeof what, "%s, length %d, %s", c->name, n, way_names[way]);
            if (run_way(what, &ways, way, in, 2, out, 4)) {
                close_to(what, 1, out[0], &loss, 1e-12);
                close_to(what, n, out[1], y, 1e-12);
                close_to(what, n, out[2], dx, 1e-12);
                close_to(what, 1, out[3], &dw, 1e-11);
            }
            free_all(out, 4);
        }
        free_all(in, 2);
    }
    free_ways(&ways);
}

/* ---- a carry of sixty scalars ----
 * h_i ← sin(w (h_i h_{i+1} + h_{i-1})) on a ring, 614 steps; the loss is the sum of the last ones and of h_0
 * at every step. */

enum { LEAVES = 60, STEPS = 614 };

static int ring_step(void *env, const hop_val *in, hop_val *out)
{
    const hop_val *w = env;
    for (int i = 0; i < LEAVES; i++)
        out[i] = hop_sin(
            hop_mul(*w, hop_add(hop_mul(in[i], in[(i + 1) % LEAVES]), in[(i + LEAVES - 1) % LEAVES])));
    out[LEAVES] = in[0];
    return 0;
}
static int ring(void *env, const hop_val *in, hop_val *out)
{
    hop_val h[LEAVES], last[LEAVES + 1], w = in[1];
    (void)env;
    for (int i = 0; i < LEAVES; i++) h[i] = hop_index(in[0], hop_int(i), 0);
    int status = hop_scan(last, LEAVES + 1,
                          &(hop_scan_spec){
                              .step = ring_step, .env = &w, .carry = h, .n_carry = LEAVES, .length = "614" });
    out[0] = hop_add(hop_sum(hop_stack(last, LEAVES, 0), "all"), hop_sum(last[LEAVES], "all"));
    return status;
}

/* The same in plain C; gradients when dh is given. */
static double plain_ring(const double *start, double w, double *dh, double *dw)
{
    static double h[STEPS + 1][LEAVES];
    double loss = 0;
    memcpy(h[0], start, sizeof h[0]);
    for (int t = 0; t < STEPS; t++) {
        loss += h[t][0];
        for (int i = 0; i < LEAVES; i++)
            h[t + 1][i] = sin(w * (h[t][i] * h[t][(i + 1) % LEAVES] + h[t][(i + LEAVES - 1) % LEAVES]));
    }
    for (int i = 0; i < LEAVES; i++) loss += h[STEPS][i];
    if (!dh) return loss;
    *dw = 0;
    for (int i = 0; i < LEAVES; i++) dh[i] = 1;
    for (int t = STEPS - 1; t >= 0; t--) {
        double before[LEAVES] = { 0 };
        for (int i = 0; i < LEAVES; i++) {
            int next = (i + 1) % LEAVES, last = (i + LEAVES - 1) % LEAVES;
            double inside = h[t][i] * h[t][next] + h[t][last], g = dh[i] * cos(w * inside);
            *dw += g * inside;
            before[i] += g * w * h[t][next];
            before[next] += g * w * h[t][i];
            before[last] += g * w;
        }
        before[0] += 1;
        memcpy(dh, before, sizeof before);
    }
    return loss;
}

static void sixty_scalars(void)
{
    double h[LEAVES], dh[LEAVES], w = 1.03, dw, loss;
    for (int i = 0; i < LEAVES; i++) h[i] = 0.6 + 0.3 * sin(1.0 + i);
    loss = plain_ring(h, w, dh, &dw);
    double e = 1e-6, slope = (plain_ring(h, w + e, NULL, NULL) - plain_ring(h, w - e, NULL, NULL)) / (2 * e);
    CLAIM(fabs(slope - dw) <= 1e-5 * fmax(1, fabs(dw)),
          "sixty scalars: plain C gives %.9g, its differences %.9g", dw, slope);
    hop_fn *f = NULL, *g = NULL;
    CLAIM(!hop_capture(&f, "h: f64[60], w: f64[]", 1, ring, NULL) && !hop_value_and_grad(&g, f, "h, w"),
          "sixty scalars: %s", hop_message());
    hop_fn_free(f);
    if (!g) return;
    struct ways ways = make_ways("sixty scalars", g);
    hop_tensor *in[2] = { f64_vector(LEAVES, h), vector("f64[]", &w) };
    for (int way = 0; way < WAYS; way++) {
        hop_tensor *out[3] = { 0 };
        if (run_way("sixty scalars", &ways, way, in, 2, out, 3)) {
            close_to("sixty scalars, loss", 1, out[0], &loss, 1e-10);
            close_to("sixty scalars, by h", LEAVES, out[1], dh, 1e-9);
            close_to("sixty scalars, by w", 1, out[2], &dw, 1e-9);
        }
        free_all(out, 3);
    }
    free_all(in, 2);
    free_ways(&ways);
}

/* ---- rows of every trip, from C ----
 * x ← w x while x ≥ 1, what each trip leaves stacked: rows x w, x w², …; as many as there are trips. Then Σ
 * of their squares. */

static int at_least_one(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_ge(in[0], hop_number("f64", 1)), 0;
}
static int shrink(void *env, const hop_val *in, hop_val *out)
{
    return out[0] = out[1] = hop_mul(in[0], *(const hop_val *)env), 0;
}
static int trips(void *env, const hop_val *in, hop_val *out)
{
    hop_val w = in[1], r[3];
    (void)env;
    int status = hop_while(
        r, 3,
        &(hop_while_spec){
            .cond = at_least_one, .body = shrink, .env = &w, .carry = in, .n_carry = 1, .n_stack = 1 });
    out[0] = hop_sum(hop_mul(r[2], r[2]), "all");
    out[1] = r[1];
    out[2] = r[2];
    return status;
}

static void stacked_trips(void)
{
    static const struct {
        double x;
        int n;
    } cases[] = { { 0.5, 0 }, { 1, 1 }, { 9, 4 }, { 1e30, 100 } };
    hop_fn *f = NULL, *g = NULL, *hessian = NULL;
    CLAIM(!hop_capture(&f, "x: f64[], w: f64[]", 3, trips, NULL) && !hop_value_and_grad(&g, f, "x, w") &&
              !hop_hessian(&hessian, f, "x, w"),
          "stacked trips: %s", hop_message());
    hop_fn_free(f);
    if (!g || !hessian) return;
    struct ways ways = make_ways("stacked trips", g), second = make_ways("stacked trips, Hessian", hessian);
    for (size_t k = 0; k < HOP_COUNT(cases); k++) {
        int n = cases[k].n;
        double w = 0.5, x = cases[k].x, rows[128], sum = 0, dx = 0, dw = 0, xx = 0, xw = 0, ww = 0;
        for (int t = 1; t <= n; t++) { /* x² w^2t */
            double power = pow(w, 2 * t);
            rows[t - 1] = x * pow(w, t);
            sum += x * x * power, dx += 2 * x * power, dw += x * x * 2 * t * power / w;
            xx += 2 * power, xw += 4 * t * x * power / w, ww += x * x * 2 * t * (2 * t - 1) * power / (w * w);
        }
        hop_tensor *in[2] = { vector("f64[]", &x), vector("f64[]", &w) };
        for (int way = 0; way < WAYS; way++) {
            hop_tensor *out[5] = { 0 };
            if (run_way("stacked trips", &ways, way, in, 2, out, 5)) {
                CLAIM(*(const int64_t *)hop_data(out[1]) == n, "stacked trips: %lld trips, expected %d",
                      (long long)*(const int64_t *)hop_data(out[1]), n);
                close_to("stacked trips, sum", 1, out[0], &sum, 1e-13);
                close_to("stacked trips, rows", n, out[2], rows, 1e-14);
                close_to("stacked trips, by x", 1, out[3], &dx, 1e-13);
                close_to("stacked trips, by w", 1, out[4], &dw, 1e-13);
            }
            free_all(out, 5);
            if (run_way("stacked trips, Hessian", &second, way, in, 2, out, 4)) {
                const double expected[4] = { xx, xw, xw, ww };
                for (int i = 0; i < 4; i++)
                    close_to("stacked trips, Hessian", 1, out[i], &expected[i], 1e-12);
            }
            free_all(out, 4);
        }
        free_all(in, 2);
    }
    free_ways(&ways);
    free_ways(&second);
}

int main(void)
{
    for (size_t k = 0; k < HOP_COUNT(length_cases); k++) lengths(&length_cases[k]);
    sixty_scalars();
    stacked_trips();
    return tests_end();
}
