/* Modes of a capture: what no_grad, enable_grad and autocast make of each operator. A function captured under
 * a mode is held against the same one with the casts and the stop_gradient written by hand: the texts are
 * equal. Which derivatives pass is held against numbers, in every operator that takes functions. Then modes
 * that do not nest, and the column `autocast` of every row of the table on its samples. */
#include "check.h"
#include "hop/hop.h"
#include "ir/text.h"
#include "ops/build.h"
#include "transform/simplify.h"

#include <math.h>

#define UNUSED (void)env
#define BODY(name) static int name(void *env, const hop_val *in, hop_val *out)

static char *text_of(const char *params, int n_out, hop_body body, void *env, unsigned modes)
{
    hop_fn *f = NULL;
    unsigned before = hop_modes_set(modes);
    int status = hop_capture(&f, params, n_out, body, env);
    hop_modes_set(before);
    char *text = strdup(status ? hop_message() : hop_fn_text(f));
    hop_fn_free(f);
    return text;
}

/* ---- texts ---- */

BODY(layer)
{
    UNUSED;
    hop_val h = hop_tanh(hop_add(hop_matmul(in[0], in[1]), in[2]));
    out[0] = hop_mean(hop_mul(h, h), NULL);
    return 0;
}
static hop_val low_product(hop_val x, hop_val y)
{
    hop_val low_x = hop_cast(x, "bf16"), low_y = hop_cast(y, "bf16");
    return hop_matmul(low_x, low_y);
}
BODY(layer_by_hand)
{
    UNUSED;
    hop_val product = low_product(in[0], in[1]);
    hop_val h = hop_tanh(hop_add(product, in[2])); /* the bias is f32, and so is the sum */
    out[0] = hop_mean(hop_mul(h, h), NULL);
    return 0;
}
BODY(layer_in_a_block)
{
    UNUSED;
    hop_autocast_begin("bf16");
    hop_no_grad_begin();
    hop_enable_grad_begin();
    hop_val product = hop_matmul(in[0], in[1]);
    hop_mode_end();
    hop_mode_end();
    hop_autocast_begin(NULL);
    hop_val whole = hop_matmul(in[0], in[1]);
    hop_mode_end();
    hop_val h = hop_exp(product); /* of bf16, in f32 */
    hop_mode_end();
    out[0] = hop_sum(hop_add(h, whole), NULL);
    return 0;
}
BODY(layer_in_a_block_by_hand)
{
    UNUSED;
    hop_val product = low_product(in[0], in[1]);
    hop_val whole = hop_matmul(in[0], in[1]);
    out[0] = hop_sum(hop_add(hop_exp(hop_cast(product, "f32")), whole), NULL);
    return 0;
}
/* One constant is used twice and given: it is stopped once. What is made of integers and constants needs
 * nothing. */
BODY(partly_constant)
{
    UNUSED;
    hop_no_grad_begin();
    hop_val a = hop_mul(hop_sin(in[0]), in[0]);
    hop_val ones = hop_ones("f32[3]");
    hop_val order = hop_argsort(in[0], 0, 0);
    hop_mode_end();
    out[0] = hop_add(hop_mul(a, in[0]), a);
    out[1] = hop_mul(ones, in[0]);
    out[2] = order;
    out[3] = a;
    return 0;
}
BODY(partly_constant_by_hand)
{
    UNUSED;
    hop_val a = hop_mul(hop_sin(in[0]), in[0]);
    hop_val ones = hop_ones("f32[3]");
    hop_val order = hop_argsort(in[0], 0, 0);
    a = hop_stop_gradient(a);
    out[0] = hop_add(hop_mul(a, in[0]), a);
    out[1] = hop_mul(ones, in[0]);
    out[2] = order;
    out[3] = a;
    return 0;
}
BODY(squares) { return UNUSED, out[0] = hop_mul(in[0], in[1]), out[1] = hop_sin(out[0]), 0; }
BODY(scan_squares)
{
    UNUSED;
    hop_no_grad_begin();
    hop_scan(out, 2, &(hop_scan_spec){ .step = squares, .carry = in, .n_carry = 1, .xs = in + 1, .n_xs = 1 });
    hop_mode_end();
    return 0;
}
/* Nothing is different in the body. */
BODY(scan_squares_by_hand)
{
    UNUSED;
    hop_val all[2];
    hop_scan(all, 2, &(hop_scan_spec){ .step = squares, .carry = in, .n_carry = 1, .xs = in + 1, .n_xs = 1 });
    out[0] = hop_stop_gradient(all[0]);
    out[1] = hop_stop_gradient(all[1]);
    return 0;
}
BODY(low_step) { return UNUSED, out[0] = hop_matmul(in[0], in[1]), 0; }
BODY(low_step_by_hand)
{
    UNUSED;
    out[0] = hop_cast(low_product(in[0], in[1]), "f32");
    return 0;
}
BODY(scan_low)
{
    return hop_scan(out, 1,
                    &(hop_scan_spec){
                        .step = *(hop_body *)env, .carry = in, .n_carry = 1, .xs = in + 1, .n_xs = 1 });
}
BODY(low_branch) { return UNUSED, out[0] = hop_matmul(in[0], in[1]), 0; }
BODY(high_branch) { return UNUSED, out[0] = hop_sum(in[1], "0"), 0; }
BODY(low_branch_by_hand)
{
    UNUSED;
    out[0] = hop_cast(low_product(in[0], in[1]), "f32");
    return 0;
}
BODY(cond_low)
{
    hop_body then = *(hop_body *)env;
    return hop_cond(out, 1, &(hop_cond_spec){ in[2], then, high_branch, .in = in, .n_in = 2 });
}
BODY(three_factors) { return UNUSED, out[0] = hop_einsum("ij,jk,k->ik", in, 3), 0; }
struct pair {
    const char *what, *params;
    int n_out;
    hop_body under, by_hand;
    unsigned modes; /* of the first */
    hop_body under_env, hand_env;
};

static void check_texts(void)
{
    static const char matrices[] = "f(x: f32[2, 3], w: f32[3, 4], b: f32[4])";
    const struct pair pairs[] = {
        { "a layer under autocast", matrices, 1, layer, layer_by_hand, HOP_AUTOCAST_BF16, 0, 0 },
        { "nested blocks", matrices, 1, layer_in_a_block, layer_in_a_block_by_hand, 0, 0, 0 },
        { "f64 is left alone", "f(x: f64[2, 3], w: f64[3, 4], b: f64[4])", 1, layer, layer, HOP_AUTOCAST_BF16,
          0, 0 },
        { "autocast to f32 of f32", matrices, 1, layer, layer, HOP_AUTOCAST_F32, 0, 0 },
        { "constants", "f(x: f32[3])", 4, partly_constant, partly_constant_by_hand, 0, 0, 0 },
        { "a scan under no_grad", "f(c: f32[], xs: f32[5])", 2, scan_squares, scan_squares_by_hand, 0, 0, 0 },
        { "a carry under autocast", "f(c: f32[3], xs: f32[5, 3, 3])", 1, scan_low, scan_low,
          HOP_AUTOCAST_BF16, low_step, low_step_by_hand },
        { "branches under autocast", "f(x: f32[3], w: f32[3, 4], p: bool[])", 1, cond_low, cond_low,
          HOP_AUTOCAST_BF16, low_branch, low_branch_by_hand },
    };
    for (size_t i = 0; i < HOP_COUNT(pairs); i++) {
        struct pair p = pairs[i];
        char *found = text_of(p.params, p.n_out, p.under, &p.under_env, p.modes);
        char *expected = text_of(p.params, p.n_out, p.by_hand, &p.hand_env, 0);
        CLAIM(!strcmp(found, expected), "%s: found\n%sexpected\n%s", p.what, found, expected);
        free(found);
        free(expected);
    }
    char *sum = text_of("f(x: f32[2, 3], y: f32[3, 4], z: f32[4])", 1, three_factors, NULL,
                        HOP_AUTOCAST_BF16);
    CLAIM(strstr(sum, "-> (f32[2, 4])") || strstr(sum, "-> (bf16[2, 4])"), "an einsum of three: %s", sum);
    free(sum);
}

/* What is run has one cast of a weight, in front of the loop, and nothing for derivatives. */
static hop_val weight;
BODY(weighted) { return UNUSED, out[0] = hop_matmul(in[0], weight), 0; }
BODY(uses_a_weight)
{
    UNUSED;
    weight = in[1];
    hop_scan(out, 1, &(hop_scan_spec){ .step = weighted, .carry = in, .n_carry = 1, .length = "5" });
    out[0] = hop_add(hop_matmul(out[0], weight), hop_matmul(in[0], weight));
    return 0;
}

struct simplified {
    const char *text;
    char *run;
};
static void simplify_text(void *ctx)
{
    struct simplified *s = ctx;
    const char *text = s->text;
    struct module *m = text_read("text", text, strlen(text));
    struct text out = { .arena = &m->arena };
    text_print(m, simplify(m, module_find(m, "f"), &(struct pass_options){ 0 }), 0, &out);
    s->run = strdup(out.data);
    module_free(m);
}

static void check_run(void)
{
    char *text = text_of("f(x: f32[4, 3], w: f32[3, 3])", 1, uses_a_weight, NULL,
                         HOP_AUTOCAST_BF16 | HOP_NO_GRAD);
    struct simplified s = { .text = text };
    CLAIM(!attempt(simplify_text, &s), "%s", hop_message());
    char *run = s.run;
    const char *cast = run ? strstr(run, "cast {dtype = bf16} (%w)") : NULL;
    CLAIM(cast, "no cast of the weight: %s", run);
    CLAIM(cast && !strstr(cast + 1, "cast {dtype = bf16} (%w)") && strstr(cast, "scan"), "one cast: %s", run);
    CLAIM(strstr(text, "stop_gradient") && run && !strstr(run, "stop_gradient"), "stopped: %s", run);
    free(text);
    free(run);
}

/* ---- which derivatives pass ---- */

/* y = x·w twice over: under no_grad, inside of each operator that takes functions. `enable` brings
 * derivatives back inside of the body. */
struct flow {
    bool no_grad, enable;
    int op;
};
enum {
    BY_SCAN,
    BY_MAP,
    BY_FORI,
    BY_WHILE,
    BY_COND,
    BY_SWITCH,
    BY_CALL,
    BY_CHECKPOINT,
    BY_ASSOCIATIVE,
    N_OPS
};
static const char *const op_names[] = { "scan",   "map",  "fori",       "while",           "cond",
                                        "switch", "call", "checkpoint", "associative_scan" };

static hop_val closed; /* w, which bodies close over */

static hop_val times_w(const struct flow *f, hop_val x)
{
    if (f->enable) hop_enable_grad_begin();
    hop_val y = hop_mul(x, closed);
    if (f->enable) hop_mode_end();
    return y;
}
BODY(flow_carry) { return out[0] = times_w(env, in[0]), 0; }
BODY(flow_stack) { return out[0] = in[0], out[1] = times_w(env, in[0]), 0; }
BODY(flow_counted) { return out[0] = times_w(env, in[1]), 0; }
BODY(flow_until) { return out[0] = hop_add(in[0], hop_int(1)), out[1] = times_w(env, in[1]), 0; }
BODY(flow_below) { return UNUSED, out[0] = hop_lt(in[0], hop_int(1)), 0; }
BODY(flow_pair)
{
    const struct flow *f = env;
    if (f->enable) hop_enable_grad_begin();
    out[0] = hop_mul(in[0], in[1]);
    if (f->enable) hop_mode_end();
    return 0;
}

static hop_val through(struct flow *f, hop_val x)
{
    hop_val y[2] = { { 0, 0 } }, ones = hop_ones("f64[1]"), zero = hop_cast(hop_int(0), "i64");
    hop_body both[2] = { flow_carry, flow_carry };
    hop_val row = hop_reshape(x, "1"), state[2] = { zero, x };
    switch (f->op) {
    case BY_SCAN:
        hop_scan(y, 2,
                 &(hop_scan_spec){
                     .step = flow_stack, .env = f, .carry = &x, .n_carry = 1, .xs = &ones, .n_xs = 1 });
        return y[1];
    case BY_MAP:
        hop_map(y, 1, &(hop_map_spec){ .body = flow_carry, .env = f, .xs = &row, .n_xs = 1 });
        return y[0];
    case BY_FORI:
        hop_fori(
            y, 1,
            &(hop_fori_spec){
                .body = flow_counted, .env = f, .from = zero, .to = hop_int(1), .carry = &x, .n_carry = 1 });
        return y[0];
    case BY_WHILE:
        hop_while(y, 2,
                  &(hop_while_spec){ .cond = flow_below,
                                     .body = flow_until,
                                     .env = f,
                                     .carry = state,
                                     .n_carry = 2,
                                     .max_trips = "4" });
        return y[1];
    case BY_COND:
        hop_cond(y, 1,
                 &(hop_cond_spec){ .pred = hop_gt(x, hop_int(0)),
                                   .then = flow_carry,
                                   .otherwise = flow_carry,
                                   .env = f,
                                   .in = &x,
                                   .n_in = 1 });
        return y[0];
    case BY_SWITCH:
        hop_switch(y, 1,
                   &(hop_switch_spec){
                       .index = zero, .branches = both, .n_branches = 2, .env = f, .in = &x, .n_in = 1 });
        return y[0];
    case BY_CALL:
    case BY_CHECKPOINT:
        hop_call(
            y, 1,
            &(hop_call_spec){
                .body = flow_carry, .env = f, .in = &x, .n_in = 1, .recompute = f->op == BY_CHECKPOINT });
        return y[0];
    default: {
        hop_val parts[2] = { row, hop_reshape(closed, "1") }, list = hop_concat(parts, 2, 0);
        hop_associative_scan(y, 1,
                             &(hop_associative_scan_spec){
                                 .combine = flow_pair, .env = f, .xs = &list, .n_xs = 1 });
        return y[0];
    }
    }
}
BODY(flow_body)
{
    struct flow *f = env;
    closed = in[1];
    if (f->no_grad) hop_no_grad_begin();
    hop_val y = through(f, in[0]);
    if (f->no_grad) hop_mode_end();
    if (hop_rank(y)) y = hop_sum(hop_slice(y, "-1:"), NULL); /* the last row of a stack */
    out[0] = hop_add(y, hop_mul(in[0], hop_scalar(100)));    /* which derivatives always pass through */
    return 0;
}

static double number(hop_tensor *t) { return *(const double *)hop_data(t); }
static hop_tensor *scalar(double x)
{
    hop_tensor *t = NULL;
    if (!hop_tensor_new(&t, "f64[]")) *(double *)hop_data(t) = x;
    return t;
}

static void check_derivative(hop_fn *f, const char *what, const char *of, double expected)
{
    hop_fn *g = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { scalar(3), scalar(5) }, *out = NULL, *run = NULL;
    CLAIM(!hop_grad(&g, f, of), "%s: %s", what, hop_message());
    CLAIM(g && !hop_interpret(g, in, 2, &out, 1), "%s: %s", what, hop_message());
    CLAIM(out && number(out) == expected, "%s: the derivative by %s is %g, expected %g", what, of,
          out ? number(out) : 0, expected);
    CLAIM(g && !hop_compile(&exe, g, NULL) && !hop_run(exe, in, 2, &run, 1), "%s: %s", what, hop_message());
    CLAIM(run && number(run) == expected, "%s, compiled: the derivative by %s is %g, expected %g", what, of,
          run ? number(run) : 0, expected);
    hop_tensor_free(in[0]);
    hop_tensor_free(in[1]);
    hop_tensor_free(out);
    hop_tensor_free(run);
    hop_exe_free(exe);
    hop_fn_free(g);
}

static void check_flows(void)
{
    for (int k = 0; k < N_OPS * 3; k++) {
        struct flow f = { .op = k / 3, .no_grad = k % 3, .enable = k % 3 == 2 };
        char what[64];
        snprintf(what, sizeof what, "%s%s%s", op_names[f.op], f.no_grad ? " under no_grad" : "",
                 f.enable ? " with enable_grad inside" : "");
        hop_fn *fn = NULL;
        int status = hop_capture(&fn, "f(x: f64[], w: f64[])", 1, flow_body, &f);
        CLAIM(!status, "%s: %s", what, hop_message());
        if (!fn) continue;
        /* rows that a map or an associative_scan goes over, and a reshape before it, are made under no_grad
         */
        bool rows = f.op == BY_MAP || f.op == BY_ASSOCIATIVE;
        bool flows = !f.no_grad || f.enable;
        check_derivative(fn, what, "x", 100 + (flows && !(rows && f.no_grad) ? 5 : 0));
        check_derivative(fn, what, "w", flows && !(f.op == BY_ASSOCIATIVE && f.no_grad) ? 3 : 0);
        hop_fn_free(fn);
    }
}

/* A function that was captured before, and its gradient, are constants where they are called under no_grad.
 */
BODY(cube) { return UNUSED, out[0] = hop_mul(in[0], hop_mul(in[0], in[0])), 0; }
BODY(gradient_inside)
{
    hop_fn *f = NULL, *g = NULL;
    bool no_grad = *(bool *)env;
    if (no_grad) hop_no_grad_begin();
    hop_enable_grad_begin(); /* what is differentiated begins without no_grad */
    int status = hop_capture(&f, "g(x: f64[])", 1, cube, NULL);
    hop_mode_end();
    if (!status) status = hop_grad(&g, f, "x");
    if (!status) status = hop_call_fn(out, 1, g, in, 1);
    if (no_grad) hop_mode_end();
    hop_fn_free(f);
    hop_fn_free(g);
    out[0] = hop_add(out[0], hop_mul(in[0], in[1]));
    return status;
}
static void check_gradient_inside(void)
{
    for (int k = 0; k < 2; k++) {
        hop_fn *f = NULL;
        hop_tensor *in[2] = { scalar(3), scalar(5) }, *out = NULL;
        CLAIM(!hop_capture(&f, "f(x: f64[], w: f64[])", 1, gradient_inside, &(bool){ k }), "%s",
              hop_message());
        CLAIM(f && !hop_interpret(f, in, 2, &out, 1) && number(out) == 27 + 15, "%s",
              hop_message()); /* 3·x² = 27 */
        if (f) check_derivative(f, "a gradient", "x", k ? 5 : 18 + 5);
        hop_tensor_free(in[0]);
        hop_tensor_free(in[1]);
        hop_tensor_free(out);
        hop_fn_free(f);
    }
}

/* ---- modes that do not nest ---- */

BODY(ends_inside) { return UNUSED, hop_no_grad_begin(), out[0] = hop_sin(in[0]), 0; }
BODY(ends_too_often) { return UNUSED, out[0] = hop_sin(in[0]), hop_mode_end(); }
BODY(ends_another)
{
    UNUSED;
    hop_no_grad_begin();
    hop_call(out, 1, &(hop_call_spec){ .body = ends_too_often, .in = in, .n_in = 1 });
    return hop_mode_end();
}
BODY(body_ends_inside)
{
    UNUSED;
    return hop_call(out, 1, &(hop_call_spec){ .body = ends_inside, .in = in, .n_in = 1 });
}
BODY(casts_integers) { return UNUSED, out[0] = in[0], hop_autocast_begin("i32"); }
BODY(sets_and_leaves) { return UNUSED, hop_modes_set(HOP_NO_GRAD), out[0] = in[0], 0; }

static void check_error(const char *what, hop_body body, const char *const *parts)
{
    hop_fn *f = NULL;
    int status = hop_capture(&f, "f(x: f64[])", 1, body, NULL);
    CLAIM(status == HOP_INVALID && !f, "%s: the status is %d", what, status);
    for (; *parts; parts++)
        CLAIM(strstr(hop_message(), *parts), "%s: expected '%s' in '%s'", what, *parts, hop_message());
    CLAIM(!hop_modes(), "%s: the modes are %u afterwards", what, hop_modes());
    hop_fn_free(f);
}

static void check_errors(void)
{
    check_error("a function", ends_inside,
                (const char *[]){ "modes_test.c:", "the function ends inside of the mode no_grad", NULL });
    check_error("a body", body_ends_inside,
                (const char *[]){ "the body of call ends inside of the mode no_grad, which began at ",
                                  NULL });
    check_error("one end too many", ends_too_often,
                (const char *[]){ "modes_test.c:", "mode_end: no mode has begun", NULL });
    check_error("a mode from outside", ends_another,
                (const char *[]){ "mode_end: the body of call ends the mode no_grad, which began outside",
                                  NULL });
    check_error("integers", casts_integers,
                (const char *[]){ "modes_test.c:", "autocast: expected bf16, f16 or f32, found i32", NULL });
    check_error("modes that were set", sets_and_leaves,
                (const char *[]){ "ends under other modes than it began with", NULL });
    CLAIM(hop_mode_end() == HOP_INVALID && strstr(hop_message(), "no mode has begun"), "%s", hop_message());
    int begun = 0;
    while (begun < 100 && !hop_no_grad_begin()) begun++;
    CLAIM(begun == 64 && strstr(hop_message(), "64 deep"), "%d modes: %s", begun, hop_message());
    while (begun--) CLAIM(!hop_mode_end(), "%s", hop_message());
    CLAIM(!hop_modes(), "the modes are %u", hop_modes());
}

/* ---- eager mode ---- */

BODY(eager_step) { return UNUSED, out[0] = hop_matmul(in[0], in[1]), 0; }
static void check_eager(void)
{
    CLAIM(!hop_eager_begin(), "%s", hop_message());
    hop_val x = hop_full("f32[2, 2]", hop_scalar(1.0 / 3)), y[1];
    hop_autocast_begin("bf16");
    hop_val product = hop_matmul(x, x);
    CLAIM(!strcmp(hop_type_text(product), "bf16[2, 2]"), "a product is %s", hop_type_text(product));
    hop_val low = hop_cast(x, "bf16");
    CLAIM(!strcmp(hop_type_text(hop_exp(low)), "f32[2, 2]"), "an exponential is %s", hop_type_text(low));
    int status =
        hop_fori(y, 1,
                 &(hop_fori_spec){
                     .body = eager_step, .from = hop_int(0), .to = hop_int(0), .carry = &x, .n_carry = 1 });
    CLAIM(!status, "%s", hop_message());
    hop_val rows = hop_full("f32[4, 2, 2]", hop_scalar(1.0 / 3));
    status = hop_scan(y, 1,
                      &(hop_scan_spec){
                          .step = eager_step, .carry = &x, .n_carry = 1, .xs = &rows, .n_xs = 1 });
    CLAIM(!status, "%s", hop_message());
    CLAIM(!strcmp(hop_type_text(y[0]), "f32[2, 2]"), "a carry is %s", hop_type_text(y[0]));
    hop_mode_end();
    CLAIM(!hop_eager_end(), "%s", hop_message());
}

/* ---- the column of every row ---- */

struct applied {
    char op[256];      /* with its attributes */
    uint32_t which[8]; /* the parameters that are its operands */
    int n, n_out;
    enum autocast by_hand; /* AUTOCAST_UNSAID: under the mode */
};
BODY(apply_body)
{
    const struct applied *a = env;
    hop_val operands[8];
    for (int i = 0; i < a->n; i++) {
        hop_val v = operands[i] = in[a->which[i]];
        const char *type = hop_type_text(v);
        bool half = !strncmp(type, "f16", 3) || !strncmp(type, "bf16", 4), single = !strncmp(type, "f32", 3);
        if (a->by_hand == AUTOCAST_LOW && (half || single)) operands[i] = hop_cast(v, "bf16");
        if (a->by_hand == AUTOCAST_F32 && half) operands[i] = hop_cast(v, "f32");
    }
    return hop_apply(out, a->n_out, a->op, operands, a->n);
}

/* What a sample applies, from its text: parameters, the line "%y = op {…} (%x, …)". False: that is not all
 * there is. */
static bool read_sample(const struct op_row *row, const char *text, char *params, size_t room,
                        struct applied *a)
{
    const char *head = strstr(text, "fn @sample"), *open = head ? strchr(head, '(') : NULL;
    const char *arrow = open ? strstr(open, ") -> (") : NULL;
    char mark[80];
    snprintf(mark, sizeof mark, "= %s", row->name);
    const char *line = arrow ? strstr(arrow, mark) : NULL;
    bool gives = line != NULL;
    snprintf(mark, sizeof mark, "  %s", row->name);
    if (arrow && !gives) line = strstr(arrow, mark);
    const char *next = line ? strchr(line, '\n') : NULL;
    if (!next || strncmp(next + 1, "  return", 8)) return false;
    size_t n = 0;
    for (const char *p = head + strlen("fn @"); p < arrow + 1 && n + 1 < room; p++)
        if (*p != '%') params[n++] = *p;
    params[n] = 0;
    const char *op = line + 2, *end = next;
    const char *list = end;
    while (list > op && *list != '(') list--;
    n = 0;
    for (const char *p = op; p < list && n + 1 < sizeof a->op; p++) a->op[n++] = *p;
    a->op[n] = 0;
    a->n = 0;
    for (const char *p = list; p < end && *p != ')'; p++) {
        if (*p != '%') continue;
        size_t length = strcspn(p, ",)");
        const char *at = open;
        uint32_t k = 0;
        while (strncmp(at + 1, p, length) || at[1 + length] != ':') {
            at = strstr(at + 1, ", %");
            if (!at || at > arrow || a->n == 8) return false;
            at++;
            k++;
        }
        a->which[a->n++] = k;
    }
    a->n_out = gives;
    const char *begin = line;
    while (begin > text && *begin != '\n') begin--;
    for (const char *p = begin; gives && p < line; p++) a->n_out += *p == ',';
    return true;
}

static const char *replaced(const char *params, const char *from, const char *to, char *out)
{
    size_t n = 0;
    for (const char *p = params; *p;) {
        bool here = !strncmp(p, from, strlen(from)) && p > params && p[-1] == ' ';
        n += (size_t)sprintf(out + n, "%.*s", here ? (int)strlen(to) : 1, here ? to : p);
        p += here ? strlen(from) : 1;
    }
    out[n] = 0;
    return out;
}

static void check_row(const struct op_row *row, uint32_t *n_checked)
{
    static const char *const dtypes[] = { "f32", "bf16", "f16", "f64" };
    CLAIM(row->autocast != AUTOCAST_UNSAID && row->autocast <= AUTOCAST_KEEP,
          "%s: its row has no class (.autocast)", row->name);
    if (row->flags & OPF_HIGHER) {
        CLAIM(row->autocast == AUTOCAST_KEEP, "%s takes functions, whose operators have classes", row->name);
        return;
    }
    for (uint32_t i = 0; i < row->n_samples; i++)
        for (size_t d = 0; d < HOP_COUNT(dtypes); d++) {
            char given[1024], params[2048];
            struct applied a = { .n = 0 }, by_hand;
            if (!read_sample(row, row->samples[i].text, given, sizeof given, &a)) continue;
            replaced(given, "f32", dtypes[d], params);
            by_hand = a;
            by_hand.by_hand = (enum autocast)row->autocast;
            char *found = text_of(params, a.n_out, apply_body, &a, HOP_AUTOCAST_BF16);
            char *expected = text_of(params, by_hand.n_out, apply_body, &by_hand, 0);
            CLAIM(!strcmp(found, expected), "%s of %s: found\n%sexpected\n%s", row->name, params, found,
                  expected);
            *n_checked += strncmp(found, "hop 1", 5) == 0;
            free(found);
            free(expected);
        }
}

static void check_table(void)
{
    for (int op = 0; op < OP_COUNT; op++) {
        uint32_t n = 0;
        check_row(op_table[op], &n);
        /* what is made of others is shown by samples of several operators */
        CLAIM(n || op_table[op]->autocast == AUTOCAST_KEEP, "%s: none of its samples could be checked",
              op_table[op]->name);
    }
    CLAIM(op_table[OP_dot]->autocast == AUTOCAST_LOW && op_table[OP_sum]->autocast == AUTOCAST_F32 &&
              op_table[OP_exp]->autocast == AUTOCAST_F32 && op_table[OP_add]->autocast == AUTOCAST_KEEP,
          "products, sums, transcendental functions and the rest have other classes");
}

int main(void)
{
    check_texts();
    check_run();
    check_flows();
    check_gradient_inside();
    check_errors();
    check_eager();
    check_table();
    return tests_end();
}
