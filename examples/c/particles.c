/* Particles that push each other away, in C of one's own: a cloud of soft discs expands against drag. How
 * stiff they are and how strong the drag is are found from where the discs are in the end, by the gradient
 * through all steps.
 *
 * Two kernels are operators from outside: `neighbours` lists who is near whom, by cells, which takes time in
 * proportion to the discs; `forces` adds up the forces over that list. The list is made of integers and has
 * no derivative. `forces` has a rule: its gradient is a third kernel, `forces_back`. Everything around them,
 * the loops over the steps and their gradient, is hop's, and calls the kernels straight from native code.
 *
 *     cc particles.c $(pkg-config --cflags --libs hop) -lm && ./a.out
 */
#include <hop/hop.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DISCS = 300, BLOCKS = 10, STEPS = 8, NEAR = 32 };
static const double RANGE = 1, SKIN = 0.3, TIME_STEP = 0.02;
static const double TRUE_STIFFNESS = 40, TRUE_DRAG = 1.5;

/* ---- the kernels ---- */

struct grid {
    double left, bottom, cell;
    int64_t columns, rows;
    int32_t *first, *next; /* the first disc of each cell, and the one after each disc; -1: none */
};

static int64_t place(double from, double cell, int64_t n, double x)
{
    int64_t i = (int64_t)((x - from) / cell);
    return i < 0 ? 0 : i < n ? i : n - 1;
}

static int sort_into_cells(struct grid *g, const double *x, int64_t n, double radius)
{
    double right = x[0], top = x[1];
    g->left = x[0], g->bottom = x[1], g->cell = radius;
    for (int64_t i = 0; i < n; i++) {
        g->left = fmin(g->left, x[2 * i]), right = fmax(right, x[2 * i]);
        g->bottom = fmin(g->bottom, x[2 * i + 1]), top = fmax(top, x[2 * i + 1]);
    }
    if (!(right - g->left < 1000 * radius && top - g->bottom < 1000 * radius)) return 0;
    g->columns = (int64_t)((right - g->left) / radius) + 1;
    g->rows = (int64_t)((top - g->bottom) / radius) + 1;
    g->first = malloc((size_t)(g->columns * g->rows + n) * sizeof *g->first);
    if (!g->first) return 0;
    g->next = g->first + g->columns * g->rows;
    memset(g->first, -1, (size_t)(g->columns * g->rows) * sizeof *g->first);
    for (int64_t i = 0; i < n; i++) {
        int64_t column = place(g->left, radius, g->columns, x[2 * i]);
        int64_t row = place(g->bottom, radius, g->rows, x[2 * i + 1]);
        int32_t *cell = &g->first[row * g->columns + column];
        g->next[i] = *cell;
        *cell = (int32_t)i;
    }
    return 1;
}

/* Those within the radius of disc i; how many there are. */
static int list_near(const struct grid *g, const double *x, int64_t i, double radius, int32_t *list, int most)
{
    int64_t column = place(g->left, g->cell, g->columns, x[2 * i]);
    int64_t row = place(g->bottom, g->cell, g->rows, x[2 * i + 1]);
    int n = 0;
    for (int64_t r = row - 1; r <= row + 1; r++)
        for (int64_t c = column - 1; c <= column + 1; c++) {
            if (r < 0 || r >= g->rows || c < 0 || c >= g->columns) continue;
            for (int32_t j = g->first[r * g->columns + c]; j >= 0; j = g->next[j]) {
                double dx = x[2 * i] - x[2 * j], dy = x[2 * i + 1] - x[2 * j + 1];
                if (j == i || dx * dx + dy * dy >= radius * radius) continue;
                if (n < most) list[n] = j;
                n++;
            }
        }
    return n;
}

/* neighbours(x: f64[N, 2], radius: f64[]) -> i32[N, K]: a row of numbers for each disc, filled up with -1. */
static int neighbours(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const double *x = arrays[0], radius = *(const double *)arrays[1];
    int32_t *table = arrays[2];
    int64_t n = sizes[0];
    struct grid g;
    if (n && !sort_into_cells(&g, x, n, radius)) {
        snprintf(call->message, call->room, "the discs have flown apart");
        return HOP_INVALID;
    }
    int most = 0;
    memset(table, -1, (size_t)(n * NEAR) * sizeof *table);
    for (int64_t i = 0; i < n; i++) {
        int found = list_near(&g, x, i, radius, table + i * NEAR, NEAR);
        if (found > most) most = found;
    }
    if (n) free(g.first);
    if (most <= NEAR) return 0;
    snprintf(call->message, call->room, "a disc has %d neighbours, expected at most %d", most, NEAR);
    return HOP_INVALID;
}

/* A pair at a distance r < RANGE pushes by 1 - r / RANGE. What the force on i is, along dx and dy, and how it
 * changes with them. */
static int push(double dx, double dy, double force[2], double slope[3])
{
    double r = sqrt(dx * dx + dy * dy);
    if (r >= RANGE || r == 0) return 0;
    double a = 1 / r - 1 / RANGE, b = -1 / (r * r * r); /* the force is a (dx, dy); b is da/dr / r */
    force[0] = a * dx, force[1] = a * dy;
    slope[0] = a + b * dx * dx, slope[1] = b * dx * dy, slope[2] = a + b * dy * dy;
    return 1;
}

/* forces(x: f64[N, 2], table: i32[N, K]) -> f64[N, 2] */
static int forces(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const double *x = arrays[0];
    const int32_t *table = arrays[1];
    double *sum = arrays[2], force[2], slope[3];
    (void)call;
    memset(sum, 0, (size_t)sizes[0] * 2 * sizeof *sum);
    for (int64_t i = 0; i < sizes[0]; i++)
        for (int64_t k = 0; k < sizes[1]; k++) {
            int64_t j = table[i * sizes[1] + k];
            if (j < 0) break;
            if (!push(x[2 * i] - x[2 * j], x[2 * i + 1] - x[2 * j + 1], force, slope)) continue;
            sum[2 * i] += force[0], sum[2 * i + 1] += force[1];
        }
    return 0;
}

/* forces_back(x: f64[N, 2], table: i32[N, K], ct: f64[N, 2]) -> f64[N, 2]: the cotangent of x. */
static int forces_back(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const double *x = arrays[0], *ct = arrays[2];
    const int32_t *table = arrays[1];
    double *sum = arrays[3], force[2], slope[3];
    (void)call;
    memset(sum, 0, (size_t)sizes[0] * 2 * sizeof *sum);
    for (int64_t i = 0; i < sizes[0]; i++)
        for (int64_t k = 0; k < sizes[1]; k++) {
            int64_t j = table[i * sizes[1] + k];
            if (j < 0) break;
            if (!push(x[2 * i] - x[2 * j], x[2 * i + 1] - x[2 * j + 1], force, slope)) continue;
            double cx = slope[0] * ct[2 * i] + slope[1] * ct[2 * i + 1];
            double cy = slope[1] * ct[2 * i] + slope[2] * ct[2 * i + 1];
            sum[2 * i] += cx, sum[2 * i + 1] += cy;
            sum[2 * j] -= cx, sum[2 * j + 1] -= cy;
        }
    return 0;
}

/* (x, table; forces; cotangent of forces) -> (cotangent of x) */
static int forces_rule(void *env, const hop_val *in, hop_val *out)
{
    hop_val args[3] = { in[0], in[1], in[3] };
    (void)env;
    return hop_operator(out, 1, "forces_back", args, 3);
}

static hop_status register_kernels(void)
{
    return hop_operator_register(&(hop_operator_spec){
               .signature = "neighbours(x: f64[N, 2], radius: f64[]) -> i32[N, 32]", .run = neighbours }) ||
           hop_operator_register(&(hop_operator_spec){
               .signature = "forces_back(x: f64[N, 2], table: i32[N, K], ct: f64[N, 2]) -> f64[N, 2]",
               .run = forces_back }) ||
           hop_operator_register(
               &(hop_operator_spec){ .signature = "forces(x: f64[N, 2], table: i32[N, K]) -> f64[N, 2]",
                                     .run = forces,
                                     .backward_body = { .body = forces_rule, .n_results = 1 } });
}

/* ---- the simulation ---- */

struct constants {
    hop_val stiffness, drag, table;
};

static int step(void *env, const hop_val *in, hop_val *out) /* (x, v) -> (x, v) */
{
    const struct constants *c = env;
    hop_val dt = hop_number("f64", TIME_STEP), args[2] = { in[0], c->table }, force;
    hop_operator(&force, 1, "forces", args, 2);
    hop_val pull = hop_sub(hop_mul(c->stiffness, force), hop_mul(c->drag, in[1]));
    out[1] = hop_add(in[1], hop_mul(dt, pull));
    out[0] = hop_add(in[0], hop_mul(dt, out[1]));
    return 0;
}

static int block(void *env, const hop_val *in, hop_val *out) /* the same, over some steps with one table */
{
    struct constants c = *(const struct constants *)env;
    hop_val args[2] = { in[0], hop_number("f64", RANGE + SKIN) };
    hop_operator(&c.table, 1, "neighbours", args, 2);
    hop_let("S", hop_dim_const(STEPS));
    return hop_scan(out, 2,
                    &(hop_scan_spec){ .step = step, .env = &c, .carry = in, .n_carry = 2, .length = "S" });
}

static int simulate(void *env, const hop_val *in, hop_val *out) /* (x, log of stiffness and drag) -> (x) */
{
    struct constants c = { hop_exp(hop_slice(in[1], "0")), hop_exp(hop_slice(in[1], "1")), { 0, 0 } };
    hop_val state[2] = { in[0], hop_zeros("f64[N, 2]") };
    (void)env;
    hop_let("B", hop_dim_const(BLOCKS));
    if (hop_scan(state, 2,
                 &(hop_scan_spec){ .step = block, .env = &c, .carry = state, .n_carry = 2, .length = "B" }))
        return 1;
    out[0] = state[0];
    return 0;
}

static int loss(void *env, const hop_val *in, hop_val *out) /* (x, logs, seen) -> (mean squared distance) */
{
    hop_val x;
    if (simulate(env, in, &x)) return 1;
    hop_val error = hop_sub(x, in[2]);
    out[0] = hop_mean(hop_mul(error, error), "all");
    return 0;
}

/* ---- around it ---- */

static void fill_disc(double *x) /* on a spiral: evenly, denser than the discs like */
{
    for (int i = 0; i < DISCS; i++) {
        double r = 0.32 * sqrt(i + 0.5), angle = 2.399963229728653 * i;
        x[2 * i] = r * cos(angle);
        x[2 * i + 1] = r * sin(angle);
    }
}

/* Half the difference of the losses on both sides of p[k], against the gradient. */
static int check_gradient(hop_exe *gradient, hop_tensor *const *in, hop_tensor **out, double *p)
{
    double start[2] = { p[0], p[1] }, found[2], worst = 0;
    const double h = 1e-6;
    if (hop_run(gradient, in, 3, out, 2)) return 1;
    memcpy(found, hop_data_const(out[1]), sizeof found);
    for (int k = 0; k < 2; k++) {
        double side[2];
        for (int s = 0; s < 2; s++) {
            p[k] = start[k] + (s ? h : -h);
            if (hop_run(gradient, in, 3, out, 2)) return 1;
            side[s] = *(const double *)hop_data_const(out[0]);
        }
        p[k] = start[k];
        worst = fmax(worst, fabs((side[1] - side[0]) / (2 * h) - found[k]) / (fabs(found[k]) + 1e-3));
    }
    printf("the gradient and differences agree to %.0e\n", worst);
    return worst > 1e-4;
}

/* Steps of a descent whose rates follow from how far the last step changed the gradient. */
static int fit(hop_exe *gradient, hop_tensor *const *in, hop_tensor **out, double *p)
{
    double rate[2] = { 0.05, 0.05 }, before[2] = { 0, 0 }, moved[2] = { 0, 0 }, value = 1;
    printf("step  mean squared distance  stiffness   drag\n");
    for (int i = 0; i < 40 && value > 1e-12; i++) {
        if (hop_run(gradient, in, 3, out, 2)) return 1;
        const double *g = hop_data_const(out[1]);
        value = *(const double *)hop_data_const(out[0]);
        if (i % 4 == 0 || value <= 1e-12)
            printf("%4d  %21.3e  %9.4f  %.4f\n", i, value, exp(p[0]), exp(p[1]));
        double square = 0, product = 0;
        for (int k = 0; k < 2; k++) {
            square += moved[k] * moved[k];
            product += moved[k] * (g[k] - before[k]);
        }
        if (i && product > 0) rate[0] = rate[1] = square / product;
        for (int k = 0; k < 2; k++) {
            moved[k] = fmax(-0.5, fmin(0.5, -rate[k] * g[k]));
            before[k] = g[k];
            p[k] += moved[k];
        }
    }
    return 0;
}

int main(void)
{
    static double x[2 * DISCS];
    double p[2] = { log(TRUE_STIFFNESS), log(TRUE_DRAG) };
    hop_fn *f = NULL, *l = NULL, *g = NULL;
    hop_exe *simulation = NULL, *gradient = NULL;
    hop_tensor *in[3] = { NULL, NULL, NULL }, *out[2] = { NULL, NULL };
    int64_t dims[2] = { DISCS, 2 };
    int failed = 1;

    fill_disc(x);
    if (register_kernels() || hop_capture(&f, "x: f64[N, 2], logs: f64[2]", 1, simulate, NULL) ||
        hop_capture(&l, "x: f64[N, 2], logs: f64[2], seen: f64[N, 2]", 1, loss, NULL) ||
        hop_value_and_grad(&g, l, "logs") || hop_compile(&simulation, f, NULL) ||
        hop_compile(&gradient, g, NULL) || hop_tensor_borrow_dims(&in[0], "f64", dims, 2, x, NULL, NULL) ||
        hop_tensor_borrow(&in[1], "f64[2]", p, NULL, NULL) || hop_run(simulation, in, 2, &in[2], 1))
        goto done;
    p[0] = log(15), p[1] = log(5);
    if (check_gradient(gradient, in, out, p) || fit(gradient, in, out, p)) goto done;
    failed = fabs(exp(p[0]) / TRUE_STIFFNESS - 1) > 1e-3 || fabs(exp(p[1]) / TRUE_DRAG - 1) > 1e-3;
    printf("stiffness %.4f and drag %.4f; %g and %g are right\n", exp(p[0]), exp(p[1]), TRUE_STIFFNESS,
           TRUE_DRAG);
done:
    if (failed && *hop_message()) fprintf(stderr, "%s\n", hop_message());
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
    hop_tensor_free(out[0]), hop_tensor_free(out[1]);
    hop_exe_free(simulation), hop_exe_free(gradient);
    hop_fn_free(f), hop_fn_free(l), hop_fn_free(g);
    hop_operator_unregister("forces"), hop_operator_unregister("forces_back");
    hop_operator_unregister("neighbours");
    return failed;
}
