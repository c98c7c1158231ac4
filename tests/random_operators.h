/* Operators from outside for random programs: registered by the test program, with rules of every kind that
 * say what the operator says, so that derivatives and lanes of programs with calls of them are held to the
 * same claims as all others. A call is captured as a user would write it, for f32 or f64, and put into the
 * random program; so rules that are bodies, rules that are functions, and variables are all met. */
#ifndef HOP_TEST_RANDOM_OPERATORS_H
#define HOP_TEST_RANDOM_OPERATORS_H

#include "api/api.h"
#include "random_steps.h"
#include "transform/transform.h"

#define RULE(name) static int name(void *env, const hop_val *in, hop_val *out)
#define OPERATOR(name) static int name(hop_operator_call *call, void *const *arrays, const int64_t *sizes)

/* ---- what they compute ---- */

static double number_at(const hop_operator_call *call, int array, int64_t i)
{
    const hop_operator_array *a = &call->arrays[array];
    return a->dtype == HOP_F64 ? ((const double *)a->data)[i] : ((const float *)a->data)[i];
}
static void set_number(const hop_operator_call *call, int array, int64_t i, double v)
{
    const hop_operator_array *a = &call->arrays[array];
    if (a->dtype == HOP_F64) ((double *)a->data)[i] = v;
    else ((float *)a->data)[i] = (float)v;
}
/* In the dtype of the call, as rules that give values as well compute it: to the last bit. */
static bool is_single(const hop_operator_call *call) { return call->arrays[0].dtype == HOP_F32; }
static double bent(const hop_operator_call *call, double v)
{
    float s = (float)v;
    return is_single(call) ? (double)(s / (1 + s * s)) : v / (1 + v * v);
}
static double product(const hop_operator_call *call, double v, double w)
{
    return is_single(call) ? (double)((float)v * (float)w) : v * w;
}
static double total(const hop_operator_call *call, double v, double w)
{
    return is_single(call) ? (double)((float)v + (float)w) : v + w;
}

/* Where the lane of array 1 finds its part of array 0, whose lane dims may be 1. */
static int64_t part_of_lane(const hop_operator_call *call, int64_t lane)
{
    int64_t part = 0, step = 1;
    for (int32_t d = call->lanes; d-- > 0;) {
        int64_t size = call->arrays[1].dims[d], own = call->arrays[0].dims[d];
        part += own == 1 ? 0 : lane % size * step;
        lane /= size;
        step *= own;
    }
    return part;
}

/* x: T[N] -> T[N]: x / (1 + x²), also of all lanes at once */
OPERATOR(run_bend)
{
    int64_t lanes = 1;
    (void)arrays;
    for (int32_t d = 0; d < call->lanes; d++) lanes *= call->arrays[1].dims[d];
    for (int64_t lane = 0; lane < lanes; lane++)
        for (int64_t i = 0, from = part_of_lane(call, lane) * sizes[0]; i < sizes[0]; i++)
            set_number(call, 1, lane * sizes[0] + i, bent(call, number_at(call, 0, from + i)));
    return 0;
}

/* x: T[N], k: T[] -> (T[N], T[]): k bent(x), and k bent(k) */
OPERATOR(run_twist)
{
    double k = number_at(call, 1, 0);
    (void)arrays;
    for (int64_t i = 0; i < sizes[0]; i++)
        set_number(call, 2, i, product(call, k, bent(call, number_at(call, 0, i))));
    set_number(call, 3, 0, product(call, k, bent(call, k)));
    return 0;
}

/* mut state: T[N], x: T[N] -> T[N]: state x; then state is state / 2 + bent(x) */
OPERATOR(run_blend)
{
    (void)arrays;
    for (int64_t i = 0; i < sizes[0]; i++) {
        double s = number_at(call, 0, i), x = number_at(call, 1, i);
        set_number(call, 2, i, product(call, s, x));
        set_number(call, 0, i, total(call, product(call, 0.5, s), bent(call, x)));
    }
    return 0;
}

/* x: i64[N] -> i64[N]: the other way around, and each with its place */
OPERATOR(run_turn)
{
    const uint64_t *x = arrays[0];
    uint64_t *y = arrays[1];
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) y[i] = x[sizes[0] - 1 - i] + (uint64_t)i;
    return 0;
}

/* ---- rules ---- */

static hop_val bend_of(hop_val x) { return hop_div(x, hop_add(hop_scalar(1), hop_mul(x, x))); }
static hop_val slope_of(hop_val x)
{
    hop_val square = hop_mul(x, x), below = hop_add(hop_scalar(1), square);
    return hop_div(hop_sub(hop_scalar(1), square), hop_mul(below, below));
}

RULE(bend_backward) { return (void)env, out[0] = hop_mul(slope_of(in[0]), in[2]), hop_failed(); }
RULE(bend_forward) { return (void)env, out[0] = bend_of(in[0]), out[1] = slope_of(in[0]), hop_failed(); }
RULE(bend_backward_saved) { return (void)env, out[0] = hop_mul(in[0], in[1]), hop_failed(); }
RULE(bend_jvp)
{
    return (void)env, out[0] = bend_of(in[0]), out[1] = hop_mul(slope_of(in[0]), in[1]), hop_failed();
}
RULE(bend_batch)
{
    hop_val flat = hop_flatten(in[0]);
    if (hop_operator(&flat, 1, env, &flat, 1)) return hop_failed();
    out[0] = hop_reshape_dims(flat, (hop_dim[]){ hop_dim_of(in[0], 0), hop_dim_of(in[0], 1) }, 2);
    return hop_failed();
}

/* (x, k, u, s, cu, cs) */
RULE(twist_backward)
{
    hop_val x = in[0], k = in[1], cu = in[4], slope = hop_add(bend_of(k), hop_mul(k, slope_of(k)));
    (void)env;
    out[0] = hop_mul(slope_of(x), hop_mul(k, cu));
    out[1] = hop_add(hop_sum(hop_mul(bend_of(x), cu), "all"), hop_mul(slope, in[5]));
    return hop_failed();
}
/* (x, k, dx, dk) */
RULE(twist_jvp)
{
    hop_val x = in[0], k = in[1], v = bend_of(x), slope = hop_add(bend_of(k), hop_mul(k, slope_of(k)));
    (void)env;
    out[0] = hop_mul(k, v);
    out[1] = hop_mul(k, bend_of(k));
    out[2] = hop_add(hop_mul(k, hop_mul(slope_of(x), in[2])), hop_mul(in[3], v));
    out[3] = hop_mul(slope, in[3]);
    return hop_failed();
}

/* (state, x, r, new state, cr, cs) */
RULE(blend_backward)
{
    (void)env;
    out[0] = hop_add(hop_mul(in[4], in[1]), hop_mul(hop_scalar(0.5), in[5]));
    out[1] = hop_add(hop_mul(in[4], in[0]), hop_mul(slope_of(in[1]), in[5]));
    return hop_failed();
}
/* (state, x, ds, dx) */
RULE(blend_jvp)
{
    (void)env;
    out[0] = hop_mul(in[0], in[1]);
    out[1] = hop_add(hop_mul(hop_scalar(0.5), in[0]), bend_of(in[1]));
    out[2] = hop_add(hop_mul(in[2], in[1]), hop_mul(in[0], in[3]));
    out[3] = hop_add(hop_mul(hop_scalar(0.5), in[2]), hop_mul(slope_of(in[1]), in[3]));
    return hop_failed();
}

/* ---- calls ---- */

enum { F32_ONLY = 1, F64_ONLY, ANY_FLOAT, WHOLE };
struct random_operator {
    const char *name;
    const char *params; /* of the function that calls it, %s for the dtype */
    int n_in, n_out, dtypes;
    hop_body body;
};

RULE(call_plainly)
{
    const struct random_operator *o = env;
    return hop_operator(out, o->n_out, o->name, in, o->n_in);
}
/* A variable, twice */
RULE(call_on_variable)
{
    const struct random_operator *o = env;
    hop_val v = hop_variable(in[0]);
    if (hop_operator(out, 1, o->name, (hop_val[]){ v, in[1] }, 2)) return hop_failed();
    if (hop_operator(out + 1, 1, o->name, (hop_val[]){ v, in[1] }, 2)) return hop_failed();
    return out[2] = hop_mul(v, hop_scalar(0.5)), hop_failed();
}

static const struct random_operator random_operators[] = {
    { "bend_32", "x: %s[N]", 1, 1, F32_ONLY, call_plainly },
    { "bend_64", "x: %s[N]", 1, 1, F64_ONLY, call_plainly },
    { "bend_backward", "x: %s[N]", 1, 1, ANY_FLOAT, call_plainly },
    { "bend_saved", "x: %s[N]", 1, 1, ANY_FLOAT, call_plainly },
    { "bend_jvp", "x: %s[N]", 1, 1, ANY_FLOAT, call_plainly },
    { "bend_batch", "x: %s[N]", 1, 1, ANY_FLOAT, call_plainly },
    { "bend_together", "x: %s[N]", 1, 1, ANY_FLOAT, call_plainly },
    { "twist_backward", "x: %s[N], k: %s[]", 2, 2, ANY_FLOAT, call_plainly },
    { "twist_jvp", "x: %s[N], k: %s[]", 2, 2, ANY_FLOAT, call_plainly },
    { "twist_both", "x: %s[N], k: %s[]", 2, 2, ANY_FLOAT, call_plainly },
    { "blend_backward", "s: %s[N], x: %s[N]", 2, 2, ANY_FLOAT, call_plainly },
    { "blend_jvp", "s: %s[N], x: %s[N]", 2, 2, ANY_FLOAT, call_plainly },
    { "blend_backward", "s: %s[N], x: %s[N]", 2, 3, ANY_FLOAT, call_on_variable },
    { "blend_jvp", "s: %s[N], x: %s[N]", 2, 3, ANY_FLOAT, call_on_variable },
    { "turn", "x: %s[N]", 1, 1, WHOLE, call_plainly },
};

/* Whether all of them are known from now on. */
static bool random_operators_register(void)
{
    static const char *const types[] = { "f32", "f64" };
    hop_fn *rules[2] = { NULL, NULL };
    char params[64];
    bool good = true;
    for (int i = 0; i < 2; i++) {
        snprintf(params, sizeof params, "x: %s[N], y: %s[N], ct: %s[N]", types[i], types[i], types[i]);
        good &= !hop_capture(&rules[i], params, 1, bend_backward, NULL);
    }
    const hop_operator_rule of_bend = { bend_backward, NULL, 0 };
    const hop_operator_spec specs[] = {
        { .signature = "bend_32(x: f32[N]) -> f32[N]", .run = run_bend, .backward = rules[0] },
        { .signature = "bend_64(x: f64[N]) -> f64[N]", .run = run_bend, .backward = rules[1] },
        { .signature = "bend_backward(x: T[N]) -> T[N]", .run = run_bend, .backward_body = of_bend },
        { .signature = "bend_saved(x: T[N]) -> T[N]",
          .run = run_bend,
          .forward_body = { bend_forward, NULL, 2 },
          .backward_body = { bend_backward_saved, NULL, 0 } },
        { .signature = "bend_jvp(x: T[N]) -> T[N]", .run = run_bend, .jvp_body = { bend_jvp, NULL, 0 } },
        { .signature = "bend_batch(x: T[N]) -> T[N]",
          .run = run_bend,
          .backward_body = of_bend,
          .jvp_body = { bend_jvp, NULL, 0 },
          .batch_body = { bend_batch, "bend_batch", 0 } },
        { .signature = "bend_together(x: T[N]) -> T[N]",
          .run = run_bend,
          .backward_body = of_bend,
          .together = 1 },
        { .signature = "twist_backward(x: T[N], k: T[]) -> (T[N], T[])",
          .run = run_twist,
          .backward_body = { twist_backward, NULL, 0 } },
        { .signature = "twist_jvp(x: T[N], k: T[]) -> (T[N], T[])",
          .run = run_twist,
          .jvp_body = { twist_jvp, NULL, 0 } },
        { .signature = "twist_both(x: T[N], k: T[]) -> (T[N], T[])",
          .run = run_twist,
          .backward_body = { twist_backward, NULL, 0 },
          .jvp_body = { twist_jvp, NULL, 0 } },
        { .signature = "blend_backward(mut state: T[N], x: T[N]) -> T[N]",
          .run = run_blend,
          .backward_body = { blend_backward, NULL, 0 } },
        { .signature = "blend_jvp(mut state: T[N], x: T[N]) -> T[N]",
          .run = run_blend,
          .jvp_body = { blend_jvp, NULL, 0 } },
        { .signature = "turn(x: i64[N]) -> i64[N]", .run = run_turn },
    };
    for (size_t i = 0; i < HOP_COUNT(specs); i++) good &= !hop_operator_register(&specs[i]);
    for (int i = 0; i < 2; i++) hop_fn_free(rules[i]);
    return good;
}

static void random_operators_unregister(void)
{
    for (size_t i = 0; i < HOP_COUNT(random_operators); i++)
        hop_operator_unregister(random_operators[i].name);
}

/* The function that calls it, in the program's module. */
static uint32_t operator_caller(struct block *s, const struct random_operator *o, enum dtype t)
{
    const char *type = dtype_info[t].name;
    char params[64];
    hop_fn *f = NULL;
    snprintf(params, sizeof params, o->params, type, type);
    if (hop_capture(&f, params, o->n_out, o->body, (void *)o)) hop_rethrow(HOP_INTERNAL);
    uint32_t fn = import_function(s->g->m, f->shared->m, f->fn);
    hop_fn_free(f);
    return fn;
}

/* A call of one, of an array of any rank but 0, as a vector. */
static void step_operator(struct block *s)
{
    struct gen *g = s->g;
    const struct random_operator *o = &random_operators[below(g, HOP_COUNT(random_operators))];
    bool whole = o->dtypes == WHOLE;
    val like = pick(s, &(struct filter){ .dtypes = whole ? INTEGERS : FLOATS, .min_rank = 1 });
    if (like == VAL_NONE) return;
    enum dtype t = (enum dtype)block_type(s, like).dtype;
    if (whole) t = DT_I64;
    else if (dtype_is_narrow(t)) t = DT_F32;
    if (o->dtypes == F32_ONLY || o->dtypes == F64_ONLY) o = &random_operators[t == DT_F64];
    like = convert(s, like, t);
    struct type shape = block_type(s, like);
    dim n = 1;
    for (uint32_t d = 0; d < shape.rank; d++) n = dim_mul(g->m, n, shape.dims[d]);
    val x[2] = { emit_reshape(&s->b, like, 1, &n), VAL_NONE }, results[4];
    if (o->n_in == 2) x[1] = strstr(o->params, "k:") ? want_scalar(s, t) : want(s, t, 1, &n);
    uint32_t fn = operator_caller(s, o, t);
    inline_function(&s->b, fn, &n, x, results);
    for (int i = 0; i < o->n_out; i++) {
        struct type r = block_type(s, results[i]);
        if (r.rank && shape.rank > 1) results[i] = emit_reshape(&s->b, results[i], shape.rank, shape.dims);
        maybe_squash(s, results[i]);
    }
}

#undef RULE
#undef OPERATOR

#endif
