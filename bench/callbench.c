/* What the C surface costs: nodes captured a second through public calls, and the time of hop_run on a
 * program that does next to nothing, with the allocations it makes. Prints one JSON object a line: callbench
 * [capture_rate] [call_overhead] [allocations] [once] [operator]. */
#include "base/base.h"

#include <time.h>

/* The best of many short rounds of calls: on a busy machine no long one goes by undisturbed. */
enum { OPERATORS = 40, BODIES = 250, ROUNDS = 7, CALL_ROUNDS = 1400, CALLS = 1000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t nodes; /* calls that make one; promotion and broadcasting make more, which do not count */

/* ---- capture ---- */

struct around {
    hop_val w, x;
};

static hop_val mixed(hop_val x, hop_val w, int n)
{
    for (int i = 0; i < n; i += 5) {
        hop_val y = hop_add(x, w);
        hop_val z = hop_mul(y, hop_scalar(0.5 + i));
        x = hop_sub(z, hop_tanh(y));
        x = hop_max(x, w);
        nodes += 5;
    }
    return x;
}
static int inner_step(void *env, const hop_val *in, hop_val *out)
{
    const struct around *a = env;
    out[0] = mixed(in[0], a->w, OPERATORS / 2);
    return 0;
}
static int outer_step(void *env, const hop_val *in, hop_val *out)
{
    const struct around *a = env;
    hop_val mid = mixed(in[0], a->x, OPERATORS);
    nodes++;
    return hop_scan(out, 1,
                    &(hop_scan_spec){
                        .step = inner_step, .env = env, .carry = &mid, .n_carry = 1, .length = "3" });
}
static int program(void *env, const hop_val *in, hop_val *out)
{
    hop_val x = in[0];
    (void)env;
    for (int i = 0; i < BODIES; i++) {
        struct around a = { in[1], hop_mul(in[1], hop_scalar(i)) };
        x = mixed(x, in[1], OPERATORS);
        hop_scan(&x, 1,
                 &(hop_scan_spec){ .step = outer_step, .env = &a, .carry = &x, .n_carry = 1, .length = "2" });
        nodes += 2;
    }
    out[0] = x;
    return hop_failed();
}

static int capture_rate(void)
{
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        hop_fn *f = NULL;
        nodes = 0;
        double start = now();
        if (hop_capture(&f, "x: f32[T, 64], w: f32[T, 64]", 1, program, NULL)) return 1;
        best = HOP_MIN(best, now() - start);
        hop_fn_free(f);
    }
    printf("{\"case\": \"capture_rate\", \"nodes\": %llu, \"ms\": %.2f, \"nodes_per_s\": %.0f}\n",
           (unsigned long long)nodes, best * 1e3, (double)nodes / best);
    return 0;
}

/* ---- calls ---- */

static int small_program(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_add(in[0], in[1]);
    return 0;
}

/* A compiled function of two arguments and one result, and what it is called with. */
struct compiled {
    hop_fn *f;
    hop_exe *exe;
    hop_tensor *in[2], *out[1];
};

/* Of a function that is there: compiled, with arguments of these types. */
static int compiled_begin(struct compiled *c, const hop_compile_options *o, const char *x, const char *y)
{
    return hop_compile(&c->exe, c->f, o) || hop_tensor_new(&c->in[0], x) || hop_tensor_new(&c->in[1], y);
}

static void compiled_end(struct compiled *c)
{
    hop_tensor_free(c->in[0]);
    hop_tensor_free(c->in[1]);
    hop_tensor_free(c->out[0]);
    hop_exe_free(c->exe);
    hop_fn_free(c->f);
}

/* The shortest of `rounds` times that `calls` calls take, in seconds; below 0: one failed. */
static double shortest(struct compiled *c, int rounds, int calls)
{
    double best = 1e9;
    for (int round = 0; round < rounds; round++) {
        double start = now();
        for (int i = 0; i < calls; i++)
            if (hop_run(c->exe, c->in, 2, c->out, 1)) return -1;
        best = HOP_MIN(best, now() - start);
    }
    return best;
}

static int small_calls(const char *what)
{
    struct compiled c = { 0 };
    double best = -1;
    uint64_t before = 0;
    if (!hop_capture(&c.f, "x: f32[16], y: f32[16]", 1, small_program, NULL) &&
        !compiled_begin(&c, NULL, "f32[16]", "f32[16]") && shortest(&c, 1, 1) >= 0) {
        before = hop_allocation_count();
        best = shortest(&c, CALL_ROUNDS, CALLS);
    }
    uint64_t allocated = hop_allocation_count() - before;
    compiled_end(&c);
    if (best < 0) return 1;
    if (!strcmp(what, "call_overhead"))
        printf("{\"case\": \"call_overhead\", \"elements\": 16, \"ns\": %.1f}\n", best / CALLS * 1e9);
    else
        printf("{\"case\": \"allocations\", \"calls\": %d, \"allocations\": %llu}\n", CALL_ROUNDS * CALLS,
               (unsigned long long)allocated);
    return 0;
}

/* ---- what is computed once ---- */

/* A small product with weights that are normalised, from the weights at every run or kept. */
static const char layer[] = /**/
    "hop 1\n"
    "fn @layer(%w: f32[256, 256], %x: f32[4, 256]) -> (f32[4, 256]) {\n"
    "  %u = region {kind = \"once\", otherwise = \"body\"} with(%v = %w) {\n"
    "    %s = mul(%v, %v)\n"
    "    %t = sum {dims = [0]} (%s)\n"
    "    %q = sqrt(%t)\n"
    "    %b = broadcast {dims = [256, 256], at = [1]} (%q)\n"
    "    %r = div(%v, %b)\n"
    "    yield(%r)\n"
    "  }\n"
    "  %y = matmul(%x, %u)\n"
    "  return %y\n"
    "}\n";

static int layer_us(const char *constant, double *us)
{
    struct compiled c = { 0 };
    double best = -1;
    hop_compile_options o = { .threads = 1, .constant = constant };
    if (!hop_fn_read(&c.f, layer, "layer") && !compiled_begin(&c, &o, "f32[256, 256]", "f32[4, 256]")) {
        float *w = hop_data(c.in[0]);
        for (int i = 0; i < 256 * 256; i++) w[i] = (float)(i % 17 + 1);
        best = shortest(&c, 2 * CALLS, 1);
    }
    compiled_end(&c);
    *us = best * 1e6;
    return best < 0;
}

static int once(void)
{
    double each, kept;
    if (layer_us(NULL, &each) || layer_us("w", &kept)) return 1;
    printf("{\"case\": \"once\", \"every_run_us\": %.2f, \"kept_us\": %.2f, \"ratio\": %.1f}\n", each, kept,
           each / kept);
    return 0;
}

/* ---- operators from outside ---- */

enum { TRIPS = 1000000 };

static int tick(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    (void)call;
    (void)sizes;
    ((float *)arrays[0])[0] += *(const float *)arrays[1];
    return 0;
}

/* A million steps that call an operator, or do the same work by themselves. */
static const char ticks[] = /**/
    "hop 1\n"
    "operator @tick(mut x: f32[N], by: f32[])\n"
    "fn @ticks(%x: f32[16], %by: f32[]) -> (f32[16]) {\n"
    "  %from = full {value = 0, dims = [], dtype = i64}\n"
    "  %to = full {value = 1000000, dims = [], dtype = i64}\n"
    "  %y = fori_loop carry(%c = %x) from(%i = %from) to(%to) with(%b = %by) {\n"
    "    %n = tick(%c, %b)\n"
    "    next(%n)\n"
    "  }\n"
    "  return %y\n"
    "}\n";

static int operator_calls(void)
{
    struct compiled c = { 0 };
    double best = -1;
    hop_compile_options o = { .threads = 1 };
    hop_operator_spec spec = { .signature = "tick(mut x: f32[N], by: f32[])", .run = tick };
    if (hop_operator_register(&spec)) return 1;
    if (!hop_fn_read(&c.f, ticks, "ticks") && !compiled_begin(&c, &o, "f32[16]", "f32[]"))
        best = shortest(&c, 30, 1);
    compiled_end(&c);
    hop_operator_unregister("tick");
    if (best < 0) return 1;
    printf("{\"case\": \"operator\", \"calls\": %d, \"ns\": %.2f}\n", TRIPS, best / TRIPS * 1e9);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const all[] = {
        "", "capture_rate", "call_overhead", "allocations", "once", "operator"
    };
    int n = argc > 1 ? argc : (int)HOP_COUNT(all), failed = 0;
    for (int i = 1; i < n && !failed; i++) {
        const char *what = argc > 1 ? argv[i] : all[i];
        if (!strcmp(what, "capture_rate")) failed = capture_rate();
        else if (!strcmp(what, "operator")) failed = operator_calls();
        else failed = !strcmp(what, "once") ? once() : small_calls(what);
        fflush(stdout);
    }
    if (failed) fprintf(stderr, "callbench: %s\n", hop_message());
    return failed;
}
