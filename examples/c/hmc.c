/* Hamiltonian Monte Carlo: samples from a bent density of two variables, of which nothing is known but its
 * logarithm. The gradient of that is taken inside the captured program; a chain is a scan over samples around
 * a scan over leapfrog steps; many chains are one chain under vmap.
 *
 * The density: x is normal with variance 4, and y given x is normal with variance 1 around (x^2 - 4) / 2. So
 * both have mean 0, they are not correlated, and y has variance 1 + 32 / 4 = 9.
 *
 *     cc hmc.c $(pkg-config --cflags --libs hop) -lm && ./a.out
 */
#include <hop/hop.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

enum { CHAINS = 200, SAMPLES = 4000, FIRST = 200, LEAPS = 20 }; /* the first of each chain are not counted */
static const double epsilon = 0.2;

static int log_density(void *env, const hop_val *in, hop_val *out) /* (f32[2]) -> (f32[]) */
{
    hop_val x = hop_slice(in[0], "0"), y = hop_slice(in[0], "1"), square = hop_mul(x, x);
    hop_val off = hop_sub(y, hop_mul(hop_scalar(0.5), hop_sub(square, hop_scalar(4))));
    (void)env;
    out[0] = hop_neg(
        hop_add(hop_mul(square, hop_scalar(0.125)), hop_mul(hop_scalar(0.5), hop_mul(off, off))));
    return 0;
}

/* ---- a chain ---- */

static hop_val kinetic(hop_val p) { return hop_mul(hop_scalar(0.5), hop_sum(hop_mul(p, p), "all")); }

static int leapfrog(void *env, const hop_val *in, hop_val *out) /* (place, momentum, log density, gradient) */
{
    const hop_val step = hop_scalar(epsilon), half = hop_scalar(epsilon / 2);
    hop_val p = hop_add(in[1], hop_mul(half, in[3])), r[2];
    out[0] = hop_add(in[0], hop_mul(step, p));
    hop_call_fn(r, 2, env, out, 1);
    out[1] = hop_add(p, hop_mul(half, r[1]));
    out[2] = r[0];
    out[3] = r[1];
    return 0;
}

static int transition(void *env, const hop_val *in,
                      hop_val *out) /* (key, place, log density, gradient) -> (the same; place, accepted) */
{
    hop_val keys = hop_random_split(in[0], "3");
    hop_val start[4] = { in[1], hop_random_normal(hop_slice(keys, "1"), "f32[2]"), in[2], in[3] }, r[4];
    hop_let("L", hop_dim_const(LEAPS));
    hop_scan(r, 4,
             &(hop_scan_spec){ .step = leapfrog, .env = env, .carry = start, .n_carry = 4, .length = "L" });
    hop_val gain = hop_sub(hop_sub(r[2], kinetic(r[1])), hop_sub(in[2], kinetic(start[1])));
    hop_val accepted = hop_lt(hop_log(hop_random_uniform(hop_slice(keys, "2"), "f32[]")), gain);
    out[0] = hop_slice(keys, "0");
    out[1] = hop_select(accepted, r[0], in[1]);
    out[2] = hop_select(accepted, r[2], in[2]);
    out[3] = hop_select(accepted, r[3], in[3]);
    out[4] = out[1];
    out[5] = hop_cast(accepted, "f32");
    return 0;
}

static int chain(void *env, const hop_val *in,
                 hop_val *out) /* (key) -> (samples f32[N, 2], rate of acceptance) */
{
    hop_val keys = hop_random_split(in[0], "2"),
            carry[4] = { hop_slice(keys, "0"), hop_random_normal(hop_slice(keys, "1"), "f32[2]") }, r[6];
    hop_let("N", hop_dim_const(SAMPLES)); /* texts may say N from here on */
    hop_call_fn(&carry[2], 2, env, &carry[1], 1);
    hop_scan(r, 6,
             &(hop_scan_spec){ .step = transition, .env = env, .carry = carry, .n_carry = 4, .length = "N" });
    out[0] = r[4];
    out[1] = hop_mean(r[5], "all");
    return 0;
}

/* ---- around it ---- */

static void draw(const float *samples)
{
    enum { WIDTH = 64, HEIGHT = 24 };
    static int count[HEIGHT][WIDTH];
    int most = 1;
    for (int i = 0; i < CHAINS * SAMPLES; i++) {
        int x = (int)((samples[2 * i] + 6.4f) * 5), y = HEIGHT - 1 - (int)((samples[2 * i + 1] + 5) * 1.5f);
        if (samples[2 * i] > -6.4f && samples[2 * i + 1] > -5 && x < WIDTH && y >= 0 && ++count[y][x] > most)
            most = count[y][x];
    }
    for (int y = 0; y < HEIGHT; y++) {
        printf("  ");
        for (int x = 0; x < WIDTH; x++) putchar(" .:-=+*#%@"[(int)(9.99 * sqrt((double)count[y][x] / most))]);
        putchar('\n');
    }
}

int main(void)
{
    static const char *const moments[5] = { "x", "y", "x^2", "x y", "y^2" };
    static const double truth[5] = { 0, 0, 4, 0, 9 };
    static uint32_t keys[CHAINS][2];
    const int64_t dims[2] = { CHAINS, 2 };
    hop_fn *density = NULL, *gradient = NULL, *one = NULL, *many = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in = NULL, *out[2] = { NULL, NULL };
    int failed = 1;

    for (int c = 0; c < CHAINS; c++) keys[c][0] = 2024, keys[c][1] = (uint32_t)c;
    if (hop_capture(&density, "at: f32[2]", 1, log_density, NULL) ||
        hop_value_and_grad(&gradient, density, "at") ||
        hop_capture(&one, "key: u32[2]", 2, chain, gradient) || hop_vmap(&many, one, "key", NULL) ||
        hop_compile(&exe, many, NULL) || hop_tensor_borrow_dims(&in, "u32", dims, 2, keys, NULL, NULL))
        goto done;
    clock_t began = clock();
    if (hop_run(exe, &in, 1, out, 2)) goto done;
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;

    const float *samples = hop_data(out[0]), *rates = hop_data(out[1]);
    double mean[5] = { 0 }, error[5] = { 0 },
           rate = 0; /* of x, y, x x, x y, y y; the error is seen in what chains differ by */
    for (int c = 0; c < CHAINS; c++) {
        double own[5] = { 0 };
        for (int s = FIRST; s < SAMPLES; s++) {
            double x = samples[2 * (c * SAMPLES + s)], y = samples[2 * (c * SAMPLES + s) + 1],
                   all[5] = { x, y, x * x, x * y, y * y };
            for (int k = 0; k < 5; k++) own[k] += all[k] / (SAMPLES - FIRST);
        }
        for (int k = 0; k < 5; k++) mean[k] += own[k] / CHAINS, error[k] += own[k] * own[k] / CHAINS;
        rate += rates[c] / CHAINS;
    }
    draw(samples);
    printf("%d chains of %d samples, %d leapfrog steps each: %.2f s of processor time, %.0f ns a gradient; "
           "%.1f%% accepted\n",
           CHAINS, SAMPLES, LEAPS, seconds, seconds * 1e9 / ((double)LEAPS * CHAINS * SAMPLES), 100 * rate);
    failed = !(rate > 0.6 && rate < 1);
    for (int k = 0; k < 5; k++) {
        error[k] = sqrt((error[k] - mean[k] * mean[k]) / (CHAINS - 1));
        printf("mean of %-4s %7.3f +- %.3f, truth %g\n", moments[k], mean[k], error[k], truth[k]);
        failed |= !(error[k] < 0.3) || !(fabs(mean[k] - truth[k]) < 5 * error[k]);
    }
    if (failed) fprintf(stderr, "these are not the moments of the density\n");
done:
    if (failed && *hop_message()) fprintf(stderr, "%s\n", hop_message());
    hop_tensor_free(in), hop_tensor_free(out[0]), hop_tensor_free(out[1]);
    hop_exe_free(exe);
    hop_fn_free(density), hop_fn_free(gradient), hop_fn_free(one), hop_fn_free(many);
    return failed;
}
