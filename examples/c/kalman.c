/* A Kalman filter whose parameters are fitted: a cart on a spring is pushed about by noise and its place is
 * measured badly. Stiffness, damping and the sizes of both noises are unknown; the filter, a scan, gives the
 * likelihood of the measurements, and Newton's method with the gradient and the Hessian of that finds the
 * parameters, the inverse of the Hessian how well they are known.
 *
 *     cc kalman.c $(pkg-config --cflags --libs hop) -lm && ./a.out
 */
#include <hop/hop.h>
#include <math.h>
#include <stdio.h>

enum { T = 2000, PARAMS = 4 };
static const char *const names[PARAMS] = { "stiffness", "damping", "push noise", "measurement noise" };
static const double truth[PARAMS] = { 2.0, 0.3, 0.5, 0.4 }, start[PARAMS] = { 1.0, 1.0, 1.0, 1.0 };
static const double dt = 0.1;

/* ---- the filter ---- */

struct model {
    hop_val f;    /* f64[2, 2]: how (place, speed) moves on in a step */
    hop_val q, r; /* f64[2, 2], f64[]: variances of the push and of the measurement */
};

static int step(void *env, const hop_val *in,
                hop_val *out) /* (mean, covariance, nll; y) -> (mean, covariance, nll; filtered mean) */
{
    const struct model *m = env;
    hop_val mean = hop_matmul(m->f, in[0]); /* predict */
    hop_val cov = hop_add(hop_matmul(hop_matmul(m->f, in[1]), hop_transpose(m->f)), m->q);
    hop_val column = hop_slice(cov, ":, 0"); /* of the covariance: what the place has to do with either */
    hop_val variance = hop_add(hop_slice(cov, "0, 0"), m->r);
    hop_val surprise = hop_sub(in[3], hop_slice(mean, "0"));
    hop_val gain = hop_div(column, variance);
    out[0] = hop_add(mean, hop_mul(gain, surprise)); /* correct */
    out[1] = hop_sub(cov, hop_mul(hop_expand(gain, 1), hop_expand(column, 0)));
    out[2] = hop_add(in[2],
                     hop_mul(hop_scalar(0.5),
                             hop_add(hop_log(variance), hop_div(hop_mul(surprise, surprise), variance))));
    out[3] = out[0];
    return 0;
}

static hop_val matrix(hop_val a, hop_val b, hop_val c, hop_val d)
{
    hop_val all[4] = { a, b, c, d };
    return hop_reshape(hop_stack(all, 4, 0), "2, 2");
}

static int filter(void *env, const hop_val *in,
                  hop_val *out) /* (log of the parameters, ys) -> (negative log likelihood, filtered means) */
{
    hop_val p = hop_exp(in[0]), h = hop_number("f64", dt), zero = hop_number("f64", 0),
            one = hop_number("f64", 1);
    hop_val push = hop_mul(hop_slice(p, "2"), hop_slice(p, "2"));
    struct model m = {
        matrix(one, h, hop_neg(hop_mul(h, hop_slice(p, "0"))), hop_sub(one, hop_mul(h, hop_slice(p, "1")))),
        matrix(zero, zero, zero, hop_mul(h, push)),
        hop_mul(hop_slice(p, "3"), hop_slice(p, "3")),
    };
    hop_val carry[3] = { hop_zeros("f64[2]"), matrix(one, zero, zero, one), zero }, r[4];
    (void)env;
    hop_scan(r, 4,
             &(hop_scan_spec){
                 .step = step, .env = &m, .carry = carry, .n_carry = 3, .xs = &in[1], .n_xs = 1 });
    out[0] = r[2];
    out[1] = r[3];
    return 0;
}

/* ---- measurements ---- */

static double uniform(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}
static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

static void simulate(double *place, double *ys)
{
    double x = 1, v = 0;
    for (int t = 0; t < T; t++) {
        double next = x + dt * v;
        v += dt * (-truth[0] * x - truth[1] * v) + sqrt(dt) * truth[2] * normal();
        x = next;
        place[t] = x;
        ys[t] = x + truth[3] * normal();
    }
}

/* ---- Newton's method ---- */

/* The inverse of a symmetric matrix by Gauss and Jordan; false when it is not positive. */
static int invert(double a[PARAMS][PARAMS])
{
    for (int k = 0; k < PARAMS; k++) {
        double pivot = a[k][k];
        if (!(pivot > 1e-12)) return 0;
        a[k][k] = 1;
        for (int j = 0; j < PARAMS; j++) a[k][j] /= pivot;
        for (int i = 0; i < PARAMS; i++) {
            if (i == k) continue;
            double factor = a[i][k];
            a[i][k] = 0;
            for (int j = 0; j < PARAMS; j++) a[i][j] -= factor * a[k][j];
        }
    }
    return 1;
}

static double distance(const double *a, const double *b, int stride)
{
    double sum = 0;
    for (int t = 0; t < T; t++) sum += (a[t] - b[t * stride]) * (a[t] - b[t * stride]);
    return sqrt(sum / T);
}

static void plot(const double *place, const double *ys, const double *means, int from)
{
    printf("\n      * place   o filtered   . measured\n");
    for (int t = from; t < from + 48; t += 2) {
        char line[64];
        for (int i = 0; i < 61; i++) line[i] = i == 30 ? '|' : ' ';
        line[61] = 0;
        const double at[3] = { ys[t], means[2 * t], place[t] };
        for (int k = 0; k < 3; k++) {
            int column = 30 + (int)lround(at[k] * 16);
            if (column >= 0 && column < 61) line[column] = ".o*"[k];
        }
        printf("%5.1f %s\n", t * dt, line);
    }
}

int main(void)
{
    static double place[T], ys[T];
    double p[PARAMS], trial[PARAMS], inverse[PARAMS][PARAMS], damping = 1, first_error = 0, error = 0,
                                                              worst = 0;
    const double *nll, *gradient, *hessian;
    const int64_t samples = T;
    hop_fn *f = NULL, *g = NULL, *h = NULL;
    hop_exe *value_and_grad = NULL, *second = NULL, *value = NULL;
    hop_tensor *in[2] = { NULL, NULL }, *out[3] = { NULL, NULL, NULL }, *curvature = NULL,
               *told[2] = { NULL, NULL };
    int failed = 1, trips = 0;

    simulate(place, ys);
    for (int i = 0; i < PARAMS; i++) p[i] = log(start[i]);
    if (hop_capture(&f, "p: f64[4], ys: f64[T]", 2, filter, NULL) || hop_value_and_grad(&g, f, "p") ||
        hop_hessian(&h, f, "p") || hop_compile(&value, f, NULL) || hop_compile(&value_and_grad, g, NULL) ||
        hop_compile(&second, h, NULL) || hop_tensor_borrow_dims(&in[1], "f64", &samples, 1, ys, NULL, NULL) ||
        hop_tensor_borrow(&in[0], "f64[4]", p, NULL, NULL) || hop_run(value_and_grad, in, 2, out, 3))
        goto done;
    first_error = distance(place, hop_data(out[1]), 2);
    printf("trip  -log likelihood  |gradient|  damping\n");
    for (;; trips++) {
        double size = 0, before[PARAMS];
        if (hop_run(value_and_grad, in, 2, out, 3) || hop_run(second, in, 2, &curvature, 1)) goto done;
        nll = hop_data(out[0]), gradient = hop_data(out[2]), hessian = hop_data(curvature);
        for (int i = 0; i < PARAMS; i++) size += gradient[i] * gradient[i];
        printf("%4d  %15.6f  %10.2e  %7.0e\n", trips, *nll, sqrt(size), damping);
        if (sqrt(size) < 1e-6 || trips == 40) break;
        for (int tries = 0; tries < 30; tries++) { /* more damping until the step goes down */
            for (int i = 0; i < PARAMS; i++)
                for (int j = 0; j < PARAMS; j++)
                    inverse[i][j] = hessian[i * PARAMS + j] +
                                    (i == j) * damping * (fabs(hessian[i * PARAMS + i]) + 1);
            int good = invert(inverse);
            for (int i = 0; i < PARAMS; i++) {
                trial[i] = before[i] = p[i];
                for (int j = 0; j < PARAMS; j++) trial[i] -= inverse[i][j] * gradient[j];
            }
            for (int i = 0; i < PARAMS; i++) p[i] = trial[i];
            if (good && hop_run(value, in, 2, told, 2)) goto done;
            if (good && *(double *)hop_data(told[0]) <= *nll) {
                damping = damping < 1e-8 ? 0 : damping * 0.1;
                break;
            }
            for (int i = 0; i < PARAMS; i++) p[i] = before[i];
            damping = damping * 10 + 1e-6;
        }
    }
    for (int i = 0; i < PARAMS; i++)
        for (int j = 0; j < PARAMS; j++) inverse[i][j] = hessian[i * PARAMS + j];
    if (!invert(inverse)) {
        fprintf(stderr, "this is no minimum\n");
        goto done;
    }
    printf("\n%-18s %8s %18s %8s\n", "", "start", "found", "truth");
    for (int i = 0; i < PARAMS; i++) {
        double found = exp(p[i]), known = found * sqrt(inverse[i][i]); /* p is a logarithm */
        printf("%-18s %8.3f %8.3f +- %6.3f %8.3f\n", names[i], start[i], found, known, truth[i]);
        worst = fmax(worst, fabs(found - truth[i]) / known);
    }
    error = distance(place, hop_data(out[1]), 2);
    printf(
        "error of the place: measured %.3f, filtered at the start %.3f, filtered with what was found %.3f\n",
        distance(place, ys, 1), first_error, error);
    plot(place, ys, hop_data(out[1]), 1000);
    failed = trips == 40 || worst > 4 || error >= first_error || error > 0.75 * distance(place, ys, 1);
    if (failed) fprintf(stderr, "the fit is not as it should be\n");
done:
    if (failed && *hop_message()) fprintf(stderr, "%s\n", hop_message());
    for (int i = 0; i < 2; i++) hop_tensor_free(in[i]), hop_tensor_free(told[i]);
    for (int i = 0; i < 3; i++) hop_tensor_free(out[i]);
    hop_tensor_free(curvature);
    hop_exe_free(value_and_grad), hop_exe_free(second), hop_exe_free(value);
    hop_fn_free(f), hop_fn_free(g), hop_fn_free(h);
    return failed;
}
