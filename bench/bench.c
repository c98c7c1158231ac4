/* The benchmark: each case runs as a compiled hop program and, where there is C written by hand, as that in
 * the same process, interleaved, and prints one JSON object: cold (process start to first result), first
 * (reading, transforming, compiling and running with LLVM loaded), run (median of later calls), the C time
 * and the ratio C / hop. Cases without C have other libraries beside them (python/peers/dense.py). The case
 * `warm` says for each program how long it takes from its text to the executable and to the first result when
 * the cache has it: in files (a process of its own) or in memory. `bench DIR CASE…`; DIR holds the .hop
 * programs. */
#include "baseline.h"
#include "interp/interp.h"
#include "program.h"
#include "runtime/cache.h"
#include "runtime/exe.h"

#include <math.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum {
    BUDGET_MS = 2000, /* of the later calls of a case */
    MAX_WRITTEN = 2   /* results that C writes, as large as the one that is compared or smaller */
};

static struct tensor *floats(uint32_t rank, const int64_t *dims, float scale)
{
    struct tensor *t = tensor_new(DT_F32, rank, dims);
    for (int64_t i = 0; i < t->count; i++) ((float *)t->data)[i] = scale * (float)(noise() - 0.5);
    return t;
}
static const float *data(const struct tensor *t) { return t->data; }

struct bench_case {
    const char *name, *file;
    const char *wrt;         /* parameters to differentiate by, NULL: forward */
    uint32_t repeats, inner; /* timed samples, at most; calls per sample */
    void (*inputs)(struct tensor **args);
    void (*baseline)(struct tensor *const *args, float *out);
    int64_t out_floats; /* what baseline writes, compared with hop's result number compare */
    uint32_t compare;
    uint32_t steps;     /* of its loop, for the time a step takes; 0: not said */
    struct range range; /* of the arguments where there are no inputs */
};

static void while_inputs(struct tensor **a)
{
    a[0] = floats(1, (int64_t[]){ 16 }, 1);
    a[1] = tensor_new(DT_I64, 0, NULL);
    *(int64_t *)a[1]->data = 100000;
}
static void while_c(struct tensor *const *a, float *out)
{
    memcpy(out, a[0]->data, 16 * sizeof *out);
    baseline_while(out, a[1]->data);
}
static void scan_inputs(struct tensor **a)
{
    a[0] = floats(0, NULL, 0);
    a[1] = floats(1, (int64_t[]){ 10000000 }, 1);
}
static void scan_c(struct tensor *const *a, float *out)
{
    baseline_scan(out, a[1]->data, (size_t)a[1]->count);
}
static void rnn_inputs(struct tensor **a)
{
    a[0] = floats(1, (int64_t[]){ RNN_WIDTH }, 0);
    a[1] = floats(2, (int64_t[]){ RNN_STEPS, RNN_WIDTH }, 1);
    a[2] = floats(2, (int64_t[]){ RNN_WIDTH, RNN_WIDTH }, 0.4f);
    a[3] = floats(2, (int64_t[]){ RNN_WIDTH, RNN_WIDTH }, 0.4f);
}
static void rnn_c(struct tensor *const *a, float *out)
{
    out[0] = baseline_rnn(data(a[0]), data(a[1]), data(a[2]), data(a[3]));
}
static void rnn_grad_c(struct tensor *const *a, float *out)
{
    baseline_rnn_grad(out, data(a[0]), data(a[1]), data(a[2]), data(a[3]));
}
static void assoc_inputs(struct tensor **a)
{
    a[0] = floats(2, (int64_t[]){ ASSOC_ROWS, ASSOC_WIDTH }, 1);
    a[1] = floats(2, (int64_t[]){ ASSOC_ROWS, ASSOC_WIDTH }, 1);
    for (int64_t i = 0; i < a[0]->count; i++) ((float *)a[0]->data)[i] += 0.5f;
}
static void assoc_c(struct tensor *const *a, float *out)
{
    baseline_assoc(out + ASSOC_ROWS * ASSOC_WIDTH, out, data(a[0]), data(a[1]),
                   ASSOC_ROWS); /* what is compared comes first */
}
static void assoc_grad_c(struct tensor *const *a, float *out)
{
    baseline_assoc_grad(out, data(a[0]), data(a[1]), ASSOC_ROWS);
}
static void assoc1_inputs(struct tensor **a)
{
    a[0] = floats(1, (int64_t[]){ ASSOC_ROWS }, 1);
    a[1] = floats(1, (int64_t[]){ ASSOC_ROWS }, 1);
    for (int64_t i = 0; i < a[0]->count; i++) ((float *)a[0]->data)[i] += 0.5f;
}
static void assoc1_grad_c(struct tensor *const *a, float *out)
{
    baseline_assoc1_grad(out, data(a[0]), data(a[1]), ASSOC_ROWS);
}
static void carry_inputs(struct tensor **a) { a[0] = floats(1, (int64_t[]){ CARRY_LEAVES }, 0.5f); }
static void carry_c(struct tensor *const *a, float *out) { out[0] = baseline_carry(data(a[0])); }
static void carry_grad_c(struct tensor *const *a, float *out) { baseline_carry_grad(out, data(a[0])); }
static void cond_inputs(struct tensor **a)
{
    a[0] = tensor_new(DT_BOOL, 0, NULL);
    *(uint8_t *)a[0]->data = 1;
    a[1] = floats(1, (int64_t[]){ 1024 }, 1);
}
static void cond_c(struct tensor *const *a, float *out)
{
    baseline_cond(out, data(a[1]), 1024, *(const volatile uint8_t *)a[0]->data);
    __asm__ volatile("" ::: "memory");
}
static void elem_inputs(struct tensor **a)
{
    for (int i = 0; i < 4; i++) a[i] = floats(1, (int64_t[]){ 1 << 24 }, 1);
}
static void elem_c(struct tensor *const *a, float *out)
{
    baseline_elementwise(out, data(a[0]), data(a[1]), data(a[2]), data(a[3]), 1 << 24);
}

static void matmul_inputs(struct tensor **a)
{
    for (int i = 0; i < 2; i++) a[i] = floats(2, (int64_t[]){ SQUARE, SQUARE }, 1);
}
static void matmul_c(struct tensor *const *a, float *out) { baseline_matmul(out, data(a[0]), data(a[1])); }
static void columns_inputs(struct tensor **a) { a[0] = floats(2, (int64_t[]){ TABLE_ROWS, TABLE_WIDTH }, 1); }
static void columns_c(struct tensor *const *a, float *out)
{
    baseline_columns(out + TABLE_ROWS, out, data(a[0])); /* what is compared comes first */
}
static void softmax_inputs(struct tensor **a) { a[0] = floats(2, (int64_t[]){ SOFT_ROWS, SOFT_WIDTH }, 8); }
static void softmax_c(struct tensor *const *a, float *out) { baseline_softmax(out, data(a[0])); }
static void nbody_inputs(struct tensor **a)
{
    a[0] = floats(2, (int64_t[]){ BODIES, 3 }, 2);
    a[1] = floats(2, (int64_t[]){ BODIES, 3 }, 1);
    a[2] = floats(1, (int64_t[]){ BODIES }, 1.0f / BODIES);
    for (int i = 0; i < BODIES; i++) ((float *)a[2]->data)[i] += 1.0f / BODIES;
}
static void nbody_c(struct tensor *const *a, float *out)
{
    baseline_nbody(out, data(a[0]), data(a[1]), data(a[2]));
}

static void conv_inputs(struct tensor **a)
{
    a[0] = floats(4, (int64_t[]){ 1, LAYER_CHANNELS, PLANE_SIDE, PLANE_SIDE }, 1);
    a[1] = floats(4, (int64_t[]){ LAYER_CHANNELS, LAYER_CHANNELS, 3, 3 }, 0.1f);
}
static void conv_c(struct tensor *const *a, float *out) { baseline_conv3x3(out, data(a[0]), data(a[1])); }
static void depthwise_inputs(struct tensor **a)
{
    a[0] = floats(4, (int64_t[]){ 1, DEPTHWISE_CHANNELS, PLANE_SIDE, PLANE_SIDE }, 1);
    a[1] = floats(4, (int64_t[]){ DEPTHWISE_CHANNELS, 1, 3, 3 }, 1);
}
static void depthwise_c(struct tensor *const *a, float *out)
{
    baseline_depthwise(out, data(a[0]), data(a[1]));
}
static void heat_inputs(struct tensor **a)
{
    static const float star[] = { 0, 0.1f, 0, 0.1f, 0.6f, 0.1f, 0, 0.1f, 0 };
    a[0] = floats(4, (int64_t[]){ 1, 1, HEAT_SIDE, HEAT_SIDE }, 1);
    a[1] = tensor_new(DT_F32, 4, (int64_t[]){ 1, 1, 3, 3 });
    memcpy(a[1]->data, star, sizeof star);
}
static void heat_c(struct tensor *const *a, float *out) { baseline_heat(out, data(a[0]), data(a[1])); }
static void argmax_inputs(struct tensor **a) { a[0] = floats(2, (int64_t[]){ PLACE_ROWS, PLACE_WIDTH }, 1); }
static void argmax_c(struct tensor *const *a, float *out) { baseline_argmax(out, data(a[0])); }
static void spread_inputs(struct tensor **a)
{
    a[0] = floats(2, (int64_t[]){ SPREAD_ROWS, SPREAD_WIDTH }, 4);
    a[1] = floats(2, (int64_t[]){ SPREAD_WIDTH, SPREAD_STATES }, 1);
    a[2] = floats(2, (int64_t[]){ SPREAD_ROWS, SPREAD_STATES }, 1);
}
static void spread_c(struct tensor *const *a, float *out)
{
    baseline_spread(out, data(a[0]), data(a[1]), data(a[2]));
}
static void powers_inputs(struct tensor **a)
{
    a[0] = floats(1, (int64_t[]){ POWERS }, 1);
    for (int i = 0; i < POWERS; i++) ((float *)a[0]->data)[i] += 1;
}
static void powers_c(struct tensor *const *a, float *out) { baseline_powers(out, data(a[0])); }
static void single_inputs(struct tensor **a)
{
    a[0] = floats(1, (int64_t[]){ 1 }, 0);
    a[1] = floats(2, (int64_t[]){ SINGLE_STEPS, 1 }, 1);
}
static void single_c(struct tensor *const *a, float *out)
{
    out[0] = baseline_single(data(a[0]), data(a[1]));
}
static void field_inputs(struct tensor **a) { a[0] = floats(1, (int64_t[]){ FIELD }, 2); }
static void field_c(struct tensor *const *a, float *out) { out[0] = baseline_mean_field(data(a[0])); }
static void branches_c(struct tensor *const *a, float *out) { out[0] = baseline_branches(data(a[0])); }
static void skew_inputs(struct tensor **a)
{
    a[0] = floats(1, (int64_t[]){ SKEW_LANES }, 22);
    for (int i = 0; i < SKEW_LANES; i++) ((float *)a[0]->data)[i] += 19;
}
static void skew_c(struct tensor *const *a, float *out) { baseline_skew(out, data(a[0])); }

static void layer_norm_c(struct tensor *const *a, float *out)
{
    baseline_layer_norm(out, data(a[0]), data(a[1]), data(a[2]));
}
static void batched_c(struct tensor *const *a, float *out) { baseline_batched(out, data(a[0]), data(a[1])); }
static void lstm_c(struct tensor *const *a, float *out)
{
    baseline_lstm(out, &(struct lstm_inputs){ data(a[0]), data(a[1]), data(a[2]), data(a[3]), data(a[4]),
                                              data(a[5]) });
}
static void viterbi_c(struct tensor *const *a, float *out)
{
    baseline_viterbi(out, data(a[0]), data(a[1]), data(a[2]));
}

/* All weights, by their names in tf12.hop. */
#define TRANSFORMER "w_down,w_down_bias,w_k,w_o,w_q,w_scale1,w_scale2,w_shift1,w_shift2,w_up,w_up_bias,w_v"

static const struct bench_case cases[] = {
    { "while100k", "while100k.hop", NULL, 101, 1, while_inputs, while_c, 16, 0 },
    { "scan1e7", "scan1e7.hop", NULL, 11, 1, scan_inputs, scan_c, 10000000, 1 },
    { "rnn", "rnn.hop", NULL, 101, 1, rnn_inputs, rnn_c, 1, 0 },
    { "rnn_grad", "rnn.hop", "w", 101, 1, rnn_inputs, rnn_grad_c, RNN_WIDTH *RNN_WIDTH, 0 },
    { "assoc_scan", "assoc_scan.hop", NULL, 101, 1, assoc_inputs, assoc_c, ASSOC_ROWS *ASSOC_WIDTH, 1 },
    { "assoc_grad", "assoc_loss.hop", "a", 101, 1, assoc_inputs, assoc_grad_c, ASSOC_ROWS *ASSOC_WIDTH, 0 },
    { "assoc1_grad", "assoc1_loss.hop", "a", 101, 1, assoc1_inputs, assoc1_grad_c, ASSOC_ROWS, 0 },
    { "carry60", "carry60.hop", NULL, 101, 1, carry_inputs, carry_c, 1, 0, CARRY_STEPS },
    { "carry60_grad", "carry60.hop", "h", 101, 1, carry_inputs, carry_grad_c, CARRY_LEAVES, 0, CARRY_STEPS },
    { "cond", "cond.hop", NULL, 101, 1000, cond_inputs, cond_c, 1024, 0 },
    { "elem16M", "elem16M.hop", NULL, 15, 1, elem_inputs, elem_c, 1 << 24, 0 },
    { "matmul1024", "matmul1024.hop", NULL, 31, 1, matmul_inputs, matmul_c, SQUARE *SQUARE, 0 },
    { "columns", "columns.hop", NULL, 31, 1, columns_inputs, columns_c, TABLE_ROWS, 1 },
    { "softmax", "softmax.hop", NULL, 31, 1, softmax_inputs, softmax_c, SOFT_ROWS *SOFT_WIDTH, 0 },
    { "conv3x3", "conv3x3.hop", NULL, 31, 1, conv_inputs, conv_c, LAYER_CHANNELS *PLANE_SIDE *PLANE_SIDE, 0 },
    { "depthwise", "depthwise.hop", NULL, 101, 1, depthwise_inputs, depthwise_c,
      DEPTHWISE_CHANNELS *PLANE_SIDE *PLANE_SIDE, 0 },
    { "heat", "heat.hop", NULL, 31, 1, heat_inputs, heat_c, HEAT_SIDE *HEAT_SIDE, 0, HEAT_STEPS },
    { "nbody", "nbody.hop", NULL, 21, 1, nbody_inputs, nbody_c, BODIES * 3, 0, BODY_STEPS },
    { "layer_norm", "layer_norm.hop", NULL, 31, 1, .baseline = layer_norm_c,
      .out_floats = SOFT_ROWS * SOFT_WIDTH, .range = { -1, 1 } },
    { "batched32", "batched32.hop", NULL, 101, 10, .baseline = batched_c,
      .out_floats = BATCH_COUNT * BATCH_SIDE * BATCH_SIDE, .range = { -0.5, 0.5 } },
    { "lstm", "lstm.hop", NULL, 31, 1, .baseline = lstm_c, .out_floats = LSTM_STEPS * LSTM_UNITS,
      .steps = LSTM_STEPS, .range = { -0.2, 0.2 } },
    { "viterbi", "viterbi.hop", NULL, 51, 1, .baseline = viterbi_c, .out_floats = VITERBI_STATES,
      .steps = VITERBI_STEPS, .range = { -3, 3 } },
    { "tf12", "tf12.hop", TRANSFORMER, 31, 1, .range = { -0.1, 0.1 } },
    { "tf48", "tf48.hop", TRANSFORMER, 15, 1, .range = { -0.1, 0.1 } },
    { "mlp_adam", "mlp_adam.hop", NULL, 101, 1, .range = { 0, 0.05 } },
    { "gru_grad", "gru.hop", "w_b,w_h,w_x", 31, 1, .range = { -0.2, 0.2 } },
    { "nbody_grad", "nbody_loss.hop", "x,v", 31, 1, .range = { -0.5, 0.5 } },
    { "adaptive", "adaptive.hop", NULL, 101, 1, .range = { 0.5, 4 } },
    { "mamba", "mamba.hop", NULL, 51, 1, .range = { -0.1, 0.1 } },
    { "mamba_sample", "mamba_sample.hop", NULL, 101, 1, .range = { -0.1, 0.1 } },
    { "attention", "attention.hop", NULL, 31, 1, .range = { -2, 2 } },
    { "attention_grad", "attention.hop", "q,k,v", 21, 1, .range = { -2, 2 } },
    { "argmax", "argmax.hop", NULL, 101, 1, argmax_inputs, argmax_c, PLACE_ROWS, 0 },
    { "spread", "spread.hop", NULL, 51, 1, spread_inputs, spread_c, SPREAD_ROWS *SPREAD_WIDTH *SPREAD_STATES,
      0 },
    { "powers", "powers.hop", NULL, 51, 1, powers_inputs, powers_c, POWERS, 0 },
    { "single", "single.hop", NULL, 51, 1, single_inputs, single_c, 1, 0, SINGLE_STEPS },
    { "mean_field", "mean_field.hop", NULL, 51, 1, field_inputs, field_c, 1, 0, FIELD_STEPS },
    { "branches60", "branches60.hop", NULL, 51, 1, carry_inputs, branches_c, 1, 0, CARRY_STEPS },
    { "skew", "skew.hop", NULL, 51, 5, skew_inputs, skew_c, SKEW_LANES, 0 },
};

static struct exe *build(const struct bench_case *c, const char *dir, struct module **m)
{
    uint32_t fn;
    *m = read_program(dir, c->file, c->wrt, &fn);
    return exe_compile(*m, fn, &(struct compile_options){ .threads = 0 }, NULL);
}

static void make_inputs(const struct bench_case *c, const char *dir, struct tensor **args)
{
    uint32_t fn;
    struct module *m = read_program(dir, c->file, NULL, &fn);
    const struct fn *f = module_fn(m, fn);
    if (c->inputs) c->inputs(args);
    for (uint32_t p = 0; p < f->n_params && !c->inputs; p++)
        args[p] = draw(&c->range, m, type_get(m, value_type(f, p)));
    module_free(m);
}

static void free_tensors(struct tensor **tensors, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) tensor_free(tensors[k]), tensors[k] = NULL;
}

/* Child of a cold run: prints the clock when the first result is there. */
static int cold_child(const struct bench_case *c, const char *dir)
{
    struct tensor *args[MAX_ARGS] = { 0 }, *results[MAX_RESULTS] = { 0 };
    double before = now_ms();
    make_inputs(c, dir, args);
    double inputs = now_ms() - before;
    struct module *m;
    struct exe *e = build(c, dir, &m);
    exe_run(e, args, NULL, results, NULL);
    printf("%.6f\n", now_ms() - inputs);
    return 0;
}

/* Runs this program again with `mode`; what it prints is left in text. Returns the clock before it started.
 */
static double run_child(const char *mode, const char *dir, const char *name, const char *cache, char text[64])
{
    char *argv[] = { "bench", (char *)mode, (char *)dir, (char *)name, (char *)cache, NULL };
    int pipes[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    memset(text, 0, 64);
    if (pipe(pipes)) return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
    double start = now_ms();
    int failed = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ);
    close(pipes[1]);
    if (!failed && read(pipes[0], text, 63) < 0) text[0] = 0;
    close(pipes[0]);
    if (!failed) waitpid(pid, NULL, 0);
    posix_spawn_file_actions_destroy(&actions);
    return start;
}

static double cold_ms(const struct bench_case *c, const char *dir)
{
    char text[64];
    double start = run_child("--cold", dir, c->name, NULL, text);
    return text[0] ? strtod(text, NULL) - start : -1;
}

/* ---- warm: what the cache spares ---- */

struct warm {
    double ready, result; /* ms from the text to the executable, to the first result */
};

static struct warm warm_once(const struct bench_case *c, const char *dir, struct tensor **args)
{
    struct tensor *results[MAX_RESULTS] = { 0 };
    struct module *m;
    struct warm w;
    double start = now_ms();
    struct exe *e = build(c, dir, &m);
    w.ready = now_ms() - start;
    exe_run(e, args, NULL, results, NULL);
    w.result = now_ms() - start;
    free_tensors(results, MAX_RESULTS);
    exe_free(e);
    module_free(m);
    return w;
}

static int warm_child(const struct bench_case *c, const char *dir, const char *cache)
{
    struct tensor *args[MAX_ARGS] = { 0 };
    make_inputs(c, dir, args);
    cache_set_directory(cache);
    struct warm w = warm_once(c, dir, args);
    hop_cache_stats s;
    cache_statistics(&s);
    printf("%.6f %.6f %d\n", w.ready, w.result, s.disk_hits == 1);
    return 0;
}

static void run_warm(const struct bench_case *c, const char *dir)
{
    enum { TIMES = 11 };
    char cache[] = "/tmp/hop-bench-XXXXXX", text[64], why[256];
    struct tensor *args[MAX_ARGS] = { 0 };
    double ready[TIMES], result[TIMES], memory[TIMES];
    uint64_t removed;
    int hits = 0;
    if (!mkdtemp(cache)) hop_throw(HOP_IO, "%s cannot be made", cache);
    run_child("--warm", dir, c->name, cache, text); /* compiles */
    for (int i = 0; i < TIMES; i++) {
        int hit = 0;
        run_child("--warm", dir, c->name, cache, text);
        if (sscanf(text, "%lf %lf %d", &ready[i], &result[i], &hit) == 3) hits += hit;
    }
    disk_clear(cache, &removed, why);
    rmdir(cache);
    make_inputs(c, dir, args);
    cache_set_directory("memory");
    warm_once(c, dir, args);
    for (int i = 0; i < TIMES; i++) memory[i] = warm_once(c, dir, args).ready;
    cache_set_directory("off");
    printf("{\"case\": \"warm\", \"program\": \"%s\", \"disk_ready_ms\": %.3f, \"disk_result_ms\": %.3f, "
           "\"memory_ready_ms\": %.3f, \"hits\": %d}\n",
           c->name, median(ready, TIMES), median(result, TIMES), median(memory, TIMES), hits);
    fflush(stdout);
    free_tensors(args, MAX_ARGS);
}

static double worst_error(const struct bench_case *c, const float *want, const struct tensor *found)
{
    double worst = 0;
    for (int64_t i = 0; i < c->out_floats; i++) {
        double e = fabs((double)want[i] - data(found)[i]) / fmax(1, fabs(want[i]));
        worst = e > worst || isnan(e) ? e : worst;
    }
    return worst;
}

struct both { /* what is timed of a case */
    const struct bench_case *c;
    struct exe *exe;
    struct tensor *args[MAX_ARGS], *results[MAX_RESULTS];
    float *out; /* of the C */
};
static void call_hop(void *given)
{
    struct both *b = given;
    exe_run(b->exe, b->args, NULL, b->results, NULL);
}
static void call_c(void *given)
{
    const struct both *b = given;
    b->c->baseline(b->args, b->out);
}

/* The median of first calls; the executable of the last one and its results stay. */
static double first_ms(struct both *b, const char *dir, struct module **m)
{
    enum { TIMES = 5 };
    double firsts[TIMES];
    for (int i = 0; i < TIMES; i++) {
        exe_free(b->exe);
        module_free(*m);
        free_tensors(b->results, MAX_RESULTS);
        double start = now_ms();
        b->exe = build(b->c, dir, m);
        call_hop(b);
        firsts[i] = now_ms() - start;
    }
    return median(firsts, TIMES);
}

static void run_case(const struct bench_case *c, const char *dir)
{
    struct both b = { .c = c };
    struct module *m = NULL;
    double cold[3], medians[2] = { 0 }, error = 0;
    for (int i = 0; i < 3; i++) cold[i] = cold_ms(c, dir);
    make_inputs(c, dir, b.args);
    double first = first_ms(&b, dir, &m);
    if (c->baseline) { /* which writes every result */
        b.out = hop_malloc((size_t)c->out_floats * MAX_WRITTEN * sizeof *b.out);
        call_c(&b);
        error = worst_error(c, b.out, b.results[c->compare]);
    }
    struct side sides[] = { { call_hop, &b }, { call_c, &b } };
    time_in_turns(now_ms, sides, c->baseline ? 2 : 1, c->repeats, c->inner, BUDGET_MS, medians);
    printf("{\"case\": \"%s\", \"hop_cold_ms\": %.2f, \"hop_first_ms\": %.3f, \"hop_ms\": %.6f", c->name,
           median(cold, 3), first, medians[0]);
    if (c->baseline)
        printf(", \"c_ms\": %.6f, \"ratio_c\": %.3f, \"max_error\": %.1e", medians[1],
               medians[1] / medians[0], error);
    if (c->baseline && c->steps)
        printf(", \"hop_ns_a_step\": %.2f, \"c_ns_a_step\": %.2f", medians[0] * 1e6 / c->steps,
               medians[1] * 1e6 / c->steps);
    printf("}\n");
    fflush(stdout);
    free_tensors(b.results, MAX_RESULTS);
    free_tensors(b.args, MAX_ARGS);
    hop_free(b.out);
    exe_free(b.exe);
    module_free(m);
}

/* LLVM is loaded and has compiled something before "first" is measured. */
static void warm_up(void)
{
    static const char text[] = "hop 1\nfn @main(%x: f32[4]) -> (f32[4]) {\n  %y = neg(%x)\n  return %y\n}\n";
    struct module *m = text_read("warm-up", text, sizeof text - 1);
    struct exe *e = exe_compile(m, module_find(m, "main"), &(struct compile_options){ .threads = 0 }, NULL);
    exe_free(e);
    module_free(m);
}

int main(int argc, char **argv)
{
    bool cold = argc > 1 && !strcmp(argv[1], "--cold"), warm = argc > 4 && !strcmp(argv[1], "--warm");
    int first = cold || warm ? 2 : 1;
    if (argc <= first) return fprintf(stderr, "usage: bench DIR [CASE…]\n"), 2;
    struct hop_catch c;
    if (HOP_TRY(c)) {
        if (!cold && !warm) warm_up();
        for (size_t k = 0; k < HOP_COUNT(cases); k++) {
            bool wanted = argc == first + 1;
            for (int i = first + 1; i < argc; i++) wanted |= !strcmp(argv[i], cases[k].name);
            if (!wanted) continue;
            if (cold) return cold_child(&cases[k], argv[first]);
            if (warm) return warm_child(&cases[k], argv[first], argv[first + 2]);
            run_case(&cases[k], argv[first]);
        }
        bool warm_too = argc == first + 1;
        for (int i = first + 1; i < argc; i++) warm_too |= !strcmp(argv[i], "warm");
        for (size_t k = 0; warm_too && k < HOP_COUNT(cases); k++) run_warm(&cases[k], argv[first]);
        hop_catch_end(&c);
        return 0;
    }
    fprintf(stderr, "bench: %s\n", hop_message());
    return 1;
}
