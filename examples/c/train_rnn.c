/* A gated recurrent network learns the adding problem: of the numbers in a sequence two are marked, and the
 * answer is their sum. Who ignores the sequence and answers 1 has a mean squared error of 1/6.
 *
 * Twenty-five steps of training are one compiled call: a scan whose step draws a batch, takes the gradient of
 * the loss and makes a step of Adam. Parameters and moments are `mut` arrays, which the call updates in
 * place.
 *
 *     cc train_rnn.c $(pkg-config --cflags --libs hop) -lm && ./a.out
 */
#include <hop/hop.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = 40, BATCH = 64, STEPS = 25, ROUNDS = 24 };

/* The parameters: inputs to gates, state to gates, biases, and the read-out. */
enum { W, U, B, OUT, OUT_B, PARAMS };
static const char *const names[PARAMS] = { "w", "u", "b", "out", "out_b" };
static const char *const types[PARAMS] = { "f32[2, 96]", "f32[32, 96]", "f32[96]", "f32[32]", "f32[]" };
static const double scale[PARAMS] = { 0.7, 0.18, 0, 0.18, 0 };

/* ---- the network ---- */

static int cell(void *env, const hop_val *in, hop_val *out) /* (h; x) -> (h) */
{
    const hop_val *p = env;
    hop_val h = in[0];
    hop_val x_part = hop_reshape(hop_add(hop_matmul(in[1], p[W]), p[B]), "N, 3, 32"),
            h_part = hop_reshape(hop_matmul(h, p[U]), "N, 3, 32");
    hop_val update = hop_sigmoid(hop_add(hop_slice(x_part, ":, 0"), hop_slice(h_part, ":, 0")));
    hop_val reset = hop_sigmoid(hop_add(hop_slice(x_part, ":, 1"), hop_slice(h_part, ":, 1")));
    hop_val fresh = hop_tanh(hop_add(hop_slice(x_part, ":, 2"), hop_mul(reset, hop_slice(h_part, ":, 2"))));
    out[0] = hop_add(fresh, hop_mul(update, hop_sub(h, fresh)));
    return 0;
}

static int loss(void *env, const hop_val *in,
                hop_val *out) /* (parameters, xs, sums) -> (mean squared error, predictions) */
{
    hop_val h = hop_zeros("f32[N, 32]"), error;
    (void)env;
    hop_scan(&h, 1,
             &(hop_scan_spec){
                 .step = cell, .env = (void *)in, .carry = &h, .n_carry = 1, .xs = &in[PARAMS], .n_xs = 1 });
    out[1] = hop_add(hop_matmul(h, in[OUT]), in[OUT_B]);
    error = hop_sub(out[1], in[PARAMS + 1]);
    out[0] = hop_mean(hop_mul(error, error), "all");
    return 0;
}

/* A batch: numbers in [0, 1), one mark in each half. xs: f32[T, N, 2], sums: f32[N]. */
static void draw(hop_val key, hop_val *xs, hop_val *sums)
{
    hop_let("T", hop_dim_const(LENGTH));
    hop_let("N", hop_dim_const(BATCH));
    hop_val keys = hop_random_split(key, "2"), half = hop_int(LENGTH / 2);
    hop_val value = hop_random_uniform(hop_slice(keys, "0"), "f32[T, N]");
    hop_val at = hop_floor(hop_mul(hop_random_uniform(hop_slice(keys, "1"), "f32[2, N]"), half));
    hop_val time = hop_iota("f32[T, N]", 0);
    hop_val marked = hop_or(hop_eq(time, hop_slice(at, "0")),
                            hop_eq(time, hop_add(hop_slice(at, "1"), half)));
    hop_val parts[2] = { value, hop_cast(marked, "f32") };
    *xs = hop_stack(parts, 2, -1);
    *sums = hop_sum(hop_mul(parts[0], parts[1]), "0");
}

/* ---- training ---- */

struct training {
    const hop_fn *gradient;
    const hop_val *state; /* parameters, first moments, second moments: all assignable */
    hop_val seed;
};

static int train_step(void *env, const hop_val *in, hop_val *out) /* (step) -> (step; loss) */
{
    const struct training *t = env;
    hop_val step = hop_add(in[0], hop_int(1)), args[PARAMS + 2], results[2 + PARAMS];
    hop_val key[2] = { t->seed, hop_cast(step, "u32") };
    draw(hop_stack(key, 2, 0), &args[PARAMS], &args[PARAMS + 1]);
    for (int i = 0; i < PARAMS; i++) args[i] = hop_current(t->state[i]);
    hop_call_fn(results, 2 + PARAMS, t->gradient, args, PARAMS + 2);

    hop_val n = hop_cast(step, "f32"), one = hop_scalar(1);
    hop_val rate = hop_mul(hop_scalar(0.01), hop_div(hop_sqrt(hop_sub(one, hop_pow(hop_scalar(0.999), n))),
                                                     hop_sub(one, hop_pow(hop_scalar(0.9), n))));
    for (int i = 0; i < PARAMS; i++) { /* Adam */
        hop_val p = t->state[i], m = t->state[PARAMS + i], v = t->state[2 * PARAMS + i], g = results[2 + i];
        hop_add_to(m, hop_mul(hop_scalar(0.1), hop_sub(g, m)));
        hop_add_to(v, hop_mul(hop_scalar(0.001), hop_sub(hop_mul(g, g), v)));
        hop_sub_to(p, hop_div(hop_mul(rate, m), hop_add(hop_sqrt(v), hop_scalar(1e-8))));
    }
    out[0] = step;
    out[1] = results[0];
    return 0;
}

static int train(void *env, const hop_val *in,
                 hop_val *out) /* (seed, step, parameters and moments) -> (mean loss) */
{
    struct training t = { env, &in[2], in[0] };
    hop_val r[2];
    hop_let("S", hop_dim_const(STEPS)); /* texts may say S from here on */
    hop_scan(r, 2,
             &(hop_scan_spec){ .step = train_step, .env = &t, .carry = &in[1], .n_carry = 1, .length = "S" });
    hop_assign(in[1], r[0]);
    out[0] = hop_mean(r[1], "all");
    return 0;
}

static int test(void *env, const hop_val *in,
                hop_val *out) /* (seed, parameters) -> (loss, how many are within 0.1) */
{
    hop_val args[PARAMS + 2], r[2], key[2] = { in[0], hop_number("u32", 0) };
    memcpy(args, &in[1], PARAMS * sizeof *args);
    draw(hop_stack(key, 2, 0), &args[PARAMS], &args[PARAMS + 1]);
    hop_call_fn(r, 2, env, args, PARAMS + 2);
    out[0] = r[0];
    out[1] = hop_mean(hop_cast(hop_lt(hop_abs(hop_sub(r[1], args[PARAMS + 1])), hop_scalar(0.1)), "f32"),
                      "all");
    return 0;
}

/* ---- around it ---- */

/* "w: mut f32[2, 96], …" */
static void declare(char *text, size_t size, const char *suffix, const char *mut)
{
    for (int i = 0; i < PARAMS; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s%s: %s%s", used ? ", " : "", names[i], suffix, mut, types[i]);
    }
}

static int start(hop_tensor **state) /* random parameters, moments of zero */
{
    hop_eager_begin();
    for (int i = 0; i < PARAMS; i++)
        state[i] = hop_value_tensor(
            hop_mul(hop_random_normal(hop_key((uint64_t)i + 1), types[i]), hop_scalar(scale[i])));
    if (hop_eager_end()) return 1;
    for (int i = PARAMS; i < 3 * PARAMS; i++)
        if (hop_tensor_new(&state[i], types[i % PARAMS])) return 1;
    return 0;
}

int main(void)
{
    char loss_params[512] = "", train_params[1024] = "seed: u32[], step: mut i64[]",
         test_params[512] = "seed: u32[]";
    hop_fn *f = NULL, *g = NULL, *train_fn = NULL, *test_fn = NULL;
    hop_exe *trainer = NULL, *tester = NULL;
    hop_tensor *in[2 + 3 * PARAMS] = { NULL }, *out = NULL, *told[2] = { NULL, NULL };
    uint32_t seed = 7, test_seed = 1234567;
    int64_t step = 0;
    float accuracy = 0;
    int failed = 1;

    declare(loss_params, sizeof loss_params, "", "");
    strcat(loss_params, ", xs: f32[T, N, 2], sums: f32[N]");
    declare(train_params, sizeof train_params, "", "mut ");
    declare(train_params, sizeof train_params, "_m", "mut ");
    declare(train_params, sizeof train_params, "_v", "mut ");
    declare(test_params, sizeof test_params, "", "");
    if (hop_capture(&f, loss_params, 2, loss, NULL) || hop_value_and_grad(&g, f, "w, u, b, out, out_b") ||
        hop_capture(&train_fn, train_params, 1, train, g) || hop_capture(&test_fn, test_params, 2, test, f) ||
        hop_compile(&trainer, train_fn, NULL) || hop_compile(&tester, test_fn, NULL) || start(&in[2]) ||
        hop_tensor_borrow(&in[0], "u32[]", &seed, NULL, NULL) ||
        hop_tensor_borrow(&in[1], "i64[]", &step, NULL, NULL))
        goto done;
    printf("step     loss   (mean over %d steps; 0.1667 is a constant answer; bars are logarithmic)\n",
           STEPS);
    for (int round = 0; round < ROUNDS; round++) {
        if (hop_run(trainer, in, 2 + 3 * PARAMS, &out, 1)) goto done;
        double l = *(float *)hop_data(out);
        int bar = (int)(16 * (4.5 + log10(l)));
        printf("%4d  %.5f  %.*s\n", (int)step, l, bar < 0 ? 0 : bar,
               "################################################################");
    }
    {
        hop_tensor *test_in[1 + PARAMS];
        if (hop_tensor_borrow(&test_in[0], "u32[]", &test_seed, NULL, NULL)) goto done;
        memcpy(&test_in[1], &in[2], PARAMS * sizeof *test_in);
        failed = hop_run(tester, test_in, 1 + PARAMS, told, 2);
        hop_tensor_free(test_in[0]);
    }
    if (failed) goto done;
    accuracy = *(float *)hop_data(told[1]);
    printf("on new sequences: mean squared error %.5f, %.1f%% of the answers within 0.1\n",
           *(float *)hop_data(told[0]), 100 * accuracy);
    failed = accuracy < 0.9f;
    if (failed) fprintf(stderr, "it did not learn\n");
done:
    if (failed && *hop_message()) fprintf(stderr, "%s\n", hop_message());
    for (int i = 0; i < 2 + 3 * PARAMS; i++) hop_tensor_free(in[i]);
    hop_tensor_free(out), hop_tensor_free(told[0]), hop_tensor_free(told[1]);
    hop_exe_free(trainer), hop_exe_free(tester);
    hop_fn_free(f), hop_fn_free(g), hop_fn_free(train_fn), hop_fn_free(test_fn);
    return failed;
}
