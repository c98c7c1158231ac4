/* Operators from outside, from C: what signatures say and how broken ones are refused; what the function of
 * an operator gets; results that it finds, lists, absent and updated arguments; errors that end a run; names
 * that are replaced, removed while they are at work, and missing; allocations that fail. */
#include "check.h"

#include "ir/operator.h"

#include <pthread.h>

#define BODY(name) static int name(void *env, const hop_val *in, hop_val *out)
#define OPERATOR(name) static int name(hop_operator_call *call, void *const *arrays, const int64_t *sizes)

/* ---- signatures ---- */

OPERATOR(nothing) { return (void)call, (void)arrays, (void)sizes, 0; }

static void test_broken_signatures(void)
{
    static const struct {
        const char *signature, *message;
    } broken[] = {
        { "", "1:1: expected the name of an operator, found the end of the text" },
        { "f", "1:2: expected '(' and the parameters, found the end of the text" },
        { "3(x: f32[])", "1:1: expected the name of an operator, found '3'" },
        { "\"\"()", "1:1: expected the name of an operator, found \"\"" },
        { "add(x: f32[])", "1:1: expected a name that no operator of hop has, found 'add'" },
        { "f(x)", "1:4: expected ':' and the parameter's type, found ')'" },
        { "f(x:)", "1:5: expected a dtype" },
        { "f(x: f33[])", "1:6: expected a dtype" },
        { "f(x: f32)", "1:9: expected '[' and sizes, found ')'" },
        { "f(x: f32[N)", "1:11: expected ',' or ']', found ')'" },
        { "f(x: f32[N,])", "1:12: expected a size, found ']'" },
        { "f(x: f32[-1])", "1:10: expected a size of at least 0, found -1" },
        { "f(x: f32[N + 1])", "1:10: the size 'N' cannot be told" },
        { "f(x: f32[?k])", "1:10: only results have sizes that are found, found '?k' in a parameter" },
        { "f(x: f32[_ + 1])", "1:12: expected ',' or ']', found '+'" },
        { "f(x: f32[N + _])", "1:14: '_' stands for a size by itself" },
        { "f(x: f32[N] y: f32[N])", "1:13: expected ',' or ')', found 'y'" },
        { "f(x: f32[], x: f32[])", "1:13: the parameter 'x' is declared twice" },
        { "f(mut out x: f32[])", "1:11: expected ':' and the parameter's type, found 'x'" },
        { "f(mut x: out f32[])", "1:10: expected one of mut, out and reads" },
        { "f(out x: f32[]*)", "1:15: an `out` parameter is one array, found '*'" },
        { "f(x: f32[]?*)", "1:12: expected ',' or ')', found '*'" },
        { "f(...", "1:6: expected ')' behind '...'" },
        { "f(.., x: f32[])", "1:5: expected '...', found ','" },
        { "f(..., x: f32[])", "1:6: expected ')' behind '...', found ','" },
        { "f() ->", "1:7: expected a dtype" },
        { "f() -> T[]", "1:8: the dtype variable 'T' of a result is told by no parameter" },
        { "f() -> f32[_]", "1:12: '_' in a result" },
        { "f() -> (f32[]", "1:14: expected ',' or ')', found the end of the text" },
        { "f(x: f32[N]) -> (f32[?N])", "1:22: the size 'N' stands here with '?', and elsewhere without it" },
        { "f() -> f32[?k + 1]", "the size '?k' cannot be found: no result has it as a dim by itself" },
        { "f() -> f32[] more", "1:14: expected the end of the signature, found 'more'" },
        { "f() {effects}", "1:13: expected '=', found '}'" },
        { "f() {effects = loud}", "1:16: expected an effect: none, check, io, unordered, found 'loud'" },
        { "f() {colour = red}", "1:6: expected an option: effects, version, forward, backward, jvp, batch" },
        { "f() {backward = @g}", "1:6: expected effects or version here, found the rule 'backward'" },
        { "f() {version = -1}", "1:16: the number -1 is not in 0..2147483647" },
        { "f(x: f32[0x]) ", "1:10:" },
        { "f(x: f32[99999999999999999999])", "1:10:" },
        { "f(x: f32[N // 0]) -> f32[N]", "" },
        { "f(\xff)", "1:3: broken UTF-8" },
    };
    for (size_t i = 0; i < HOP_COUNT(broken); i++) {
        hop_status status = hop_operator_register(
            &(hop_operator_spec){ .signature = broken[i].signature, .run = nothing });
        CLAIM(status == HOP_INVALID && strstr(hop_message(), broken[i].message),
              "%s: expected \"%s\", found %d: %s", broken[i].signature, broken[i].message, status,
              hop_message());
        CLAIM(!strncmp(hop_message(), "operator_register: signature:", 29), "%s", hop_message());
    }
}

static void test_signatures(void)
{
    static const char *const good[][2] = {
        { "f1()", "f1()" },
        { "f2(x:f32[ N ,3],mut   state : f32[S])->f32[N]", "f2(x: f32[N, 3], mut state: f32[S]) -> f32[N]" },
        { "f3(x: mut T[N, _]*, y: T1[N * 2 + 1]?) -> (T[N], T1[?k, M])",
          "f3(mut x: T[N, _]*, y: T1[2*N + 1]?) -> (T[N], T1[?k, M])" },
        { "f4(...)", "f4(...)" },
        { "f5(...) -> (i64[], bool[min(3, 4)])", "f5(...) -> (i64[], bool[3])" },
        { "\"my log\"(out y: f64[N], x: f64[N])", "\"my log\"(out y: f64[N], x: f64[N])" },
        { "f6(mut: f32[], out: f32[])", "f6(mut: f32[], out: f32[])" },
        { "f7() -> ()", "f7()" },
    };
    for (size_t i = 0; i < HOP_COUNT(good); i++) {
        hop_status status = hop_operator_register(
            &(hop_operator_spec){ .signature = good[i][0], .run = nothing });
        char name[32];
        if (i == 5) snprintf(name, sizeof name, "my log");
        else snprintf(name, sizeof name, "%.2s", good[i][0]);
        const char *found = hop_operator_signature(name);
        CLAIM(!status && found && !strcmp(found, good[i][1]), "%s: expected %s, found %s (%s)", good[i][0],
              good[i][1], found ? found : "none", hop_message());
        status = hop_operator_register(&(hop_operator_spec){ .signature = good[i][1], .run = nothing });
        CLAIM(!status, "registered again as printed: %s", hop_message());
        CLAIM(!hop_operator_unregister(name), "%s", hop_message());
    }
    CLAIM(!hop_operator_signature("f1") && !hop_operator_signature(NULL), "it is gone");
}

/* ---- calls ---- */

static hop_tensor *floats(const char *type, double first)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
    for (int64_t i = 0; i < hop_tensor_count(t); i++) ((float *)hop_data(t))[i] = (float)(first + (double)i);
    return t;
}

static const char *shown(hop_tensor *t)
{
    static char text[512];
    char *given = t ? hop_tensor_text(t) : NULL;
    snprintf(text, sizeof text, "%s", given ? given : "nothing");
    hop_text_free(given);
    return text;
}

/* Captured, interpreted, and in eager mode: the results as text. */
static void claim_results(const char *params, hop_body body, hop_tensor **in, int n_in, int n_out,
                          const char *const *expected)
{
    hop_fn *f = NULL;
    hop_tensor *out[8] = { 0 };
    hop_status status = hop_capture(&f, params, n_out, body, NULL);
    if (!status) status = hop_interpret(f, in, n_in, out, n_out);
    CLAIM(!status, "%s", hop_message());
    for (int i = 0; i < n_out; i++) {
        CLAIM(!strcmp(shown(out[i]), expected[i]), "result %d: expected %s, found %s", i, expected[i],
              shown(out[i]));
        hop_tensor_free(out[i]), out[i] = NULL;
    }
    for (int portable = 0; portable < 2; portable++) {
        hop_exe *exe = NULL;
        status = hop_compile(&exe, f, &(hop_compile_options){ .strict = 1, .portable = portable });
        if (!status) status = hop_run(exe, in, n_in, out, n_out);
        CLAIM(!status, "%s: %s", portable ? "loop program" : "compiled", hop_message());
        for (int i = 0; i < n_out; i++) {
            CLAIM(!strcmp(shown(out[i]), expected[i]), "%s, result %d: expected %s, found %s",
                  portable ? "loop program" : "compiled", i, expected[i], shown(out[i]));
            hop_tensor_free(out[i]), out[i] = NULL;
        }
        hop_exe_free(exe);
    }
    status = hop_eager(params, body, NULL, in, n_in, out, n_out);
    CLAIM(!status, "eager: %s", hop_message());
    for (int i = 0; i < n_out; i++) {
        CLAIM(!strcmp(shown(out[i]), expected[i]), "eager, result %d: expected %s, found %s", i, expected[i],
              shown(out[i]));
        hop_tensor_free(out[i]);
    }
    hop_fn_free(f);
}

/* total: f32[] becomes the sum; -> x times the factor */
OPERATOR(run_tally)
{
    const float *x = arrays[1], *factor = arrays[2];
    float *total = arrays[0], *y = arrays[3];
    if (call->n_arrays != 4 || call->arrays[1].rank != 1 || call->arrays[1].dims[0] != sizes[0]) return 77;
    for (int64_t i = 0; i < sizes[0]; i++) *total += x[i], y[i] = x[i] * *factor;
    return 0;
}
BODY(tally_values)
{
    (void)env;
    return hop_operator(out, 2, "tally", (hop_val[]){ in[0], in[1], hop_scalar(3) }, 3);
}
BODY(tally_variable)
{
    hop_val v = hop_variable(in[0]);
    (void)env;
    if (hop_operator(out, 1, "tally", (hop_val[]){ v, in[1], hop_scalar(2) }, 3)) return hop_failed();
    if (hop_operator(out, 1, "tally", (hop_val[]){ v, out[0], hop_scalar(2) }, 3)) return hop_failed();
    out[1] = hop_add(v, hop_scalar(0));
    return 0;
}
static void test_updates(void)
{
    hop_tensor *in[2] = { floats("f32[]", 10), floats("f32[3]", 1) };
    CLAIM(!hop_operator_register(&(hop_operator_spec){
              .signature = "tally(mut total: T[], x: T[N], factor: T[]) -> T[N]", .run = run_tally }),
          "%s", hop_message());
    claim_results("t: f32[], x: f32[N]", tally_values, in, 2, 2, (const char *const[]){ "[3, 6, 9]", "16" });
    claim_results("t: f32[], x: f32[N]", tally_variable, in, 2, 2,
                  (const char *const[]){ "[4, 8, 12]", "28" });
    CLAIM(!hop_operator_unregister("tally"), "%s", hop_message());
    hop_tensor_free(in[0]);
    hop_tensor_free(in[1]);
}

/* ---- names ---- */

BODY(asks_for_more)
{
    (void)env;
    return hop_operator(out, 1, "named", in, 1);
}
static void test_names(void)
{
    hop_fn *f = NULL;
    hop_tensor *in[1] = { floats("f32[3]", 1) }, *out[1] = { NULL };
    CLAIM(hop_capture(&f, "x: f32[3]", 1, asks_for_more, NULL) &&
              strstr(hop_message(), "no operator 'named'"),
          "%s", hop_message());
    hop_operator_spec spec = { .signature = "named(x: f32[N]) -> f32[N]", .run = nothing };
    CLAIM(!hop_operator_register(&spec), "%s", hop_message());
    CLAIM(!hop_capture(&f, "x: f32[3]", 1, asks_for_more, NULL), "%s", hop_message());
    CLAIM(strstr(hop_fn_text(f), "operator @named(x: f32[N]) -> f32[N]\n") &&
              strstr(hop_fn_text(f), " = named(%x)"),
          "%s", hop_fn_text(f));
    CLAIM(!hop_interpret(f, in, 1, out, 1), "%s", hop_message());
    hop_tensor_free(out[0]), out[0] = NULL;
    spec.signature = "named(x: f32[M]) -> f32[]";
    CLAIM(hop_operator_register(&spec) == HOP_INVALID && strstr(hop_message(), "named(x: f32[M]) -> f32[]") &&
              strstr(hop_message(), "named(x: f32[N]) -> f32[N]"),
          "%s", hop_message());
    CLAIM(!hop_operator_unregister("named"), "%s", hop_message());
    CLAIM(hop_interpret(f, in, 1, out, 1) == HOP_INVALID && strstr(hop_message(), "operator_test.c:") &&
              strstr(hop_message(), "no operator 'named'"),
          "%s", hop_message());
    CLAIM(!hop_operator_register(&spec), "%s", hop_message());
    CLAIM(hop_interpret(f, in, 1, out, 1) == HOP_INVALID &&
              strstr(hop_message(), "the program declares named(x: f32[N]) -> f32[N], registered is named(x: "
                                    "f32[M]) -> f32[]"),
          "%s", hop_message());
    CLAIM(!hop_operator_unregister("named"), "%s", hop_message());
    hop_fn_free(f);
    hop_tensor_free(in[0]);
}

/* ---- rules ---- */

static int runs;

/* x: T[N] -> T[N]: the cube of each, of f32 and f64; over lanes (of a batch rule) any rank */
OPERATOR(run_cube)
{
    const hop_operator_array *x = &call->arrays[0];
    (void)sizes;
    runs++;
    int64_t n = 1;
    for (int32_t d = 0; d < x->rank; d++) n *= x->dims[d];
    for (int64_t i = 0; i < n; i++)
        if (x->dtype == HOP_F32) {
            float v = ((const float *)arrays[0])[i];
            ((float *)arrays[1])[i] = v * v * v;
        } else {
            double v = ((const double *)arrays[0])[i];
            ((double *)arrays[1])[i] = v * v * v;
        }
    return 0;
}
/* (x, y, ct): 3 x² ct */
BODY(cube_backward)
{
    (void)env;
    return out[0] = hop_mul(hop_mul(hop_scalar(3), hop_mul(in[0], in[0])), in[2]), 0;
}
/* (x) -> (y, 3 x²); y by the operator itself, without rules */
BODY(cube_forward)
{
    if (hop_operator(out, 1, env, in, 1)) return hop_failed();
    return out[1] = hop_mul(hop_scalar(3), hop_mul(in[0], in[0])), 0;
}
BODY(cube_saved_backward) { return (void)env, out[0] = hop_mul(in[0], in[1]), 0; }
/* (x, dx) -> (y, dy) */
BODY(cube_jvp)
{
    if (hop_operator(out, 1, env, in, 1)) return hop_failed();
    return out[1] = hop_mul(hop_mul(hop_scalar(3), hop_mul(in[0], in[0])), in[1]), 0;
}
/* (x over lanes): one call of it for all */
BODY(cube_batch)
{
    hop_val flat = hop_flatten(in[0]);
    if (hop_operator(&flat, 1, env, &flat, 1)) return hop_failed();
    return out[0] = hop_reshape_dims(flat, (hop_dim[]){ hop_dim_of(in[0], 0), hop_dim_of(in[0], 1) }, 2), 0;
}
static const char *cube_name;
BODY(sum_of_cubes)
{
    (void)env;
    if (hop_operator(out, 1, cube_name, in, 1)) return hop_failed();
    return out[0] = hop_sum(out[0], "all"), 0;
}

static const char *derivatives(const char *type, hop_tensor *x)
{
    static char text[1024];
    char params[64];
    hop_fn *f = NULL, *g = NULL, *h = NULL, *j = NULL, *v = NULL;
    hop_tensor *out[2] = { NULL, NULL };
    snprintf(params, sizeof params, "x: %s", type);
    text[0] = 0;
    hop_status status = hop_capture(&f, params, 1, sum_of_cubes, NULL);
    if (!status) status = hop_grad(&g, f, "x");
    if (!status) status = hop_interpret(g, &x, 1, out, 1);
    if (!status) snprintf(text, sizeof text, "grad %s", shown(out[0]));
    hop_tensor_free(out[0]), out[0] = NULL;
    if (!status) status = hop_jvp(&j, f, "x");
    if (!status) status = hop_interpret(j, (hop_tensor *[]){ x, x }, 2, out, 2);
    size_t n = strlen(text);
    if (!status) snprintf(text + n, sizeof text - n, " jvp %s", shown(out[1]));
    hop_tensor_free(out[0]), out[0] = NULL;
    hop_tensor_free(out[1]), out[1] = NULL;
    if (!status) status = hop_vmap(&v, g, "x", NULL);
    if (!status) status = hop_jvp(&h, g, "x");
    if (!status) status = hop_interpret(h, (hop_tensor *[]){ x, x }, 2, out, 2);
    n = strlen(text);
    if (!status) snprintf(text + n, sizeof text - n, " twice %s", shown(out[1]));
    hop_tensor_free(out[0]);
    hop_tensor_free(out[1]);
    if (status) snprintf(text, sizeof text, "%d: %.900s", status, hop_message());
    hop_fn *all[] = { v, h, j, g, f };
    for (int i = 0; i < 5; i++) hop_fn_free(all[i]);
    return text;
}

/* With each kind of rule, of x = 1, 2: the gradient 3 x², along x itself 3 (1 + 8), 6 x of the gradient. */
static void test_rules(void)
{
    static const char *const same = "grad [3, 12] jvp 27 twice [6, 24]";
    hop_tensor *x = floats("f32[2]", 1), *wide = NULL;
    CLAIM(!hop_tensor_new(&wide, "f64[2]"), "%s", hop_message());
    ((double *)hop_data(wide))[0] = 1;
    ((double *)hop_data(wide))[1] = 2;
    hop_fn *backward = NULL;
    CLAIM(!hop_capture(&backward, "x: f32[N], y: f32[N], ct: f32[N]", 1, cube_backward, NULL), "%s",
          hop_message());
    hop_operator_spec specs[] = {
        { .signature = "cube_fn(x: T[N]) -> T[N]", .backward = backward },
        { .signature = "cube_backward(x: T[N]) -> T[N]", .backward_body = { cube_backward, NULL, 0 } },
        { .signature = "cube_forward(x: T[N]) -> T[N]",
          .forward_body = { cube_forward, "cube_forward", 2 },
          .backward_body = { cube_saved_backward, NULL, 0 } },
        { .signature = "cube_jvp(x: T[N]) -> T[N]", .jvp_body = { cube_jvp, "cube_jvp", 2 } },
        { .signature = "cube_all(x: T[N]) -> T[N]",
          .backward_body = { cube_backward, NULL, 0 },
          .jvp_body = { cube_jvp, "cube_all", 0 },
          .batch_body = { cube_batch, "cube_all", 0 } },
    };
    static const char *const names[] = { "cube_fn", "cube_backward", "cube_forward", "cube_jvp", "cube_all" };
    for (size_t i = 0; i < HOP_COUNT(specs); i++) {
        specs[i].run = run_cube;
        cube_name = names[i];
        CLAIM(!hop_operator_register(&specs[i]), "%s", hop_message());
        const char *found = derivatives("f32[N]", x);
        CLAIM(!strcmp(found, same), "%s: expected %s, found %s", names[i], same, found);
        found = derivatives("f64[2]", wide);
        if (i) CLAIM(!strcmp(found, same), "%s in f64: expected %s, found %s", names[i], same, found);
        else CLAIM(strstr(found, "its backward: parameter 0 has type f32[N], expected f64[2]"), "%s", found);
        hop_fn *f = NULL, *v = NULL;
        hop_tensor *in = floats("f32[3, 2]", 1), *out = NULL;
        runs = 0;
        hop_status status = hop_capture(&f, "x: f32[2]", 1, sum_of_cubes, NULL) ||
                            hop_vmap(&v, f, "x", NULL) || hop_interpret(v, &in, 1, &out, 1);
        CLAIM(!status && !strcmp(shown(out), "[9, 91, 341]") && runs == (i == 4 ? 1 : 3),
              "%s over lanes: %s in %d runs (%s)", names[i], shown(out), runs, hop_message());
        hop_tensor_free(in);
        hop_tensor_free(out);
        hop_fn_free(v);
        hop_fn_free(f);
        CLAIM(!hop_operator_unregister(names[i]), "%s", hop_message());
    }
    cube_name = "cube_bare";
    CLAIM(!hop_operator_register(
              &(hop_operator_spec){ .signature = "cube_bare(x: T[N]) -> T[N]", .run = run_cube }),
          "%s", hop_message());
    const char *found = derivatives("f32[2]", x);
    CLAIM(strstr(found, "operator_test.c:") &&
              strstr(found, "operator 'cube_bare' has no derivatives: give it a backward or a jvp"),
          "%s", found);
    CLAIM(!hop_operator_unregister(cube_name), "%s", hop_message());
    hop_fn_free(backward);
    hop_tensor_free(x);
    hop_tensor_free(wide);
}

/* ---- sizes ---- */

/* x: T[N] -> f32[M]: x again and again */
OPERATOR(run_repeat)
{
    (void)call;
    for (int64_t i = 0; i < sizes[1]; i++) ((float *)arrays[1])[i] = ((const float *)arrays[0])[i % sizes[0]];
    return 0;
}
static int doubled(void *user, const hop_dim *known, hop_dim *found)
{
    if (user) return hop_fail("no size today");
    return found[0] = hop_dim_add(hop_dim_mul(known[0], hop_dim_const(2)), hop_dim_const(1)), hop_failed();
}
BODY(repeat) { return (void)env, hop_operator(out, 1, "repeat", in, 1); }

/* x: f32[N] -> (f32[?k], i64[]): those above 0, and N; what it is told is in `odd` */
static int odd;
OPERATOR(run_positive)
{
    const float *x = arrays[0];
    int64_t k = 0, at = 0;
    if (arrays[1] || sizes[1] != -1 || call->arrays[1].dims[0] != -1) return 99;
    for (int64_t i = 0; i < sizes[0]; i++) k += x[i] > 0;
    *(int64_t *)arrays[2] = sizes[0];
    if (odd == 1) return 0; /* forgets to ask */
    if (odd == 2) k = -1;
    if (odd == 3 && call->result(call, 7, &k)) return 98;
    if (odd == 4) { /* asks twice, for other sizes */
        int64_t other = k + 1;
        if (!call->result(call, 0, &k) || call->result(call, 0, &other)) return 97;
        return 0;
    }
    float *y = call->result(call, 0, &k);
    if (!y) return odd == 2 ? HOP_INVALID : HOP_NOMEM;
    for (int64_t i = 0; i < sizes[0]; i++)
        if (x[i] > 0) y[at++] = x[i];
    return 0;
}
BODY(positive)
{
    hop_val given[2];
    (void)env;
    if (hop_operator(given, 2, "positive", in, 1)) return hop_failed();
    out[0] = hop_add(given[0], given[0]);
    out[1] = given[1];
    return 0;
}

static void test_sizes(void)
{
    static char why[] = "why";
    hop_tensor *in[1] = { floats("f32[2]", 1) };
    hop_fn *f = NULL;
    hop_operator_spec spec = { .signature = "repeat(x: f32[N]) -> f32[M]",
                               .run = run_repeat,
                               .infer = doubled };
    CLAIM(!hop_operator_register(&spec), "%s", hop_message());
    claim_results("x: f32[N]", repeat, in, 1, 1, (const char *const[]){ "[1, 2, 1, 2, 1]" });
    CLAIM(!hop_capture(&f, "x: f32[N]", 1, repeat, NULL) &&
              strstr(hop_fn_text(f), "repeat {sizes = [2*N + 1]} (%x)"),
          "%s", f ? hop_fn_text(f) : hop_message());
    hop_fn_free(f), f = NULL;
    spec.user = why;
    CLAIM(!hop_operator_register(&spec), "%s", hop_message());
    CLAIM(hop_capture(&f, "x: f32[N]", 1, repeat, NULL) == HOP_INVALID &&
              strstr(hop_message(), "no size today"),
          "%s", hop_message());
    spec.infer = NULL;
    CLAIM(!hop_operator_register(&spec), "%s", hop_message());
    CLAIM(hop_capture(&f, "x: f32[N]", 1, repeat, NULL) == HOP_INVALID &&
              strstr(hop_message(),
                     "no operand tells the size 'M', and the operator has no `infer` that does"),
          "%s", hop_message());
    CLAIM(!hop_operator_unregister("repeat"), "%s", hop_message());
    hop_tensor_free(in[0]);
}

static void test_found_sizes(void)
{
    hop_tensor *in[1] = { floats("f32[4]", -1) },
               *rows[2] = { floats("f32[2, 3]", -1), floats("f32[2, 3]", 1) };
    hop_operator_spec spec = { .signature = "positive(x: f32[N]) -> (f32[?k], i64[])", .run = run_positive };
    CLAIM(!hop_operator_register(&spec), "%s", hop_message());
    claim_results("x: f32[N]", positive, in, 1, 2, (const char *const[]){ "[2, 4]", "4" });
    hop_fn *f = NULL, *v = NULL;
    hop_tensor *out[2] = { NULL, NULL };
    static const char *const messages[] = {
        "", "positive: result 0 has a size that the operator finds, but it asked for no memory",
        "positive: result 0: expected f32[?k], found [-1]", "", ""
    };
    CLAIM(!hop_capture(&f, "x: f32[N]", 2, positive, NULL) && !hop_vmap(&v, f, "x", NULL), "%s",
          hop_message());
    for (odd = 0; odd < 5; odd++) {
        hop_status status = hop_interpret(f, in, 1, out, 2);
        if (*messages[odd])
            CLAIM(status == HOP_INVALID && strstr(hop_message(), messages[odd]),
                  "%d: expected %s, found %d: %s", odd, messages[odd], status, hop_message());
        else CLAIM(!status, "%d: %s", odd, hop_message());
        for (int i = 0; i < 2; i++) hop_tensor_free(out[i]), out[i] = NULL;
    }
    odd = 0;
    CLAIM(!hop_interpret(v, &rows[1], 1, out, 2) && !strcmp(shown(out[0]), "[[2, 4, 6], [8, 10, 12]]"),
          "%s %s", hop_message(), shown(out[0]));
    for (int i = 0; i < 2; i++) hop_tensor_free(out[i]), out[i] = NULL;
    CLAIM(hop_interpret(v, &rows[0], 1, out, 2) == HOP_INVALID &&
              strstr(hop_message(), "positive: result 0: expected f32[?k], found [3], N = 3, k = 1"),
          "lanes that find other sizes: %s", hop_message());
    CLAIM(!out[0] && !out[1], "outputs are untouched");
    hop_fn_free(v);
    hop_fn_free(f);
    CLAIM(!hop_operator_unregister("positive"), "%s", hop_message());
    hop_tensor_free(in[0]);
    for (int i = 0; i < 2; i++) hop_tensor_free(rows[i]);
}

/* ---- lists, absent ones, `out` ---- */

/* xs: f32[N]*, bias: f32[]?, mut sums: f64[_]*, out n: i64[] */
OPERATOR(run_collect)
{
    int32_t n_xs = call->counts[0], n_sums = call->counts[2];
    const float *bias = arrays[n_xs];
    if (call->counts[1] != 1 || call->n_arrays != n_xs + 1 + n_sums + 1) return 99;
    for (int32_t k = 0; k < n_sums; k++) {
        double *sum = arrays[n_xs + 1 + k];
        int64_t room = sum ? call->arrays[n_xs + 1 + k].dims[0] : 0;
        for (int64_t i = 0; i < room; i++) {
            if (bias) sum[i] += *bias;
            for (int32_t x = 0; x < n_xs; x++)
                if (arrays[x] && i < sizes[0]) sum[i] += ((const float *)arrays[x])[i];
        }
    }
    *(int64_t *)arrays[call->n_arrays - 1] = n_xs;
    return 0;
}
BODY(collects)
{
    static const hop_val none = { 0, 0 };
    hop_val v = hop_variable(in[1]), w = hop_variable(in[1]);
    (void)env;
    if (hop_operator_lists(out, 1, "collect", (hop_val[]){ in[0], none, in[0], none, v, none, w }, 7,
                           (int[]){ 3, 1, 3 }))
        return hop_failed();
    if (hop_operator_lists(out + 1, 1, "collect", (hop_val[]){ in[0], hop_scalar(5), v }, 3,
                           (int[]){ 1, 1, 1 }))
        return hop_failed();
    out[2] = hop_add(v, hop_scalar(0));
    out[3] = hop_add(w, hop_scalar(0));
    return 0;
}
BODY(collects_wrong)
{
    const int *counts = env;
    return hop_operator_lists(out, 1, "collect", (hop_val[]){ in[0], in[1] }, 2, counts);
}
static void test_lists(void)
{
    hop_tensor *in[2] = { floats("f32[2]", 1), NULL };
    CLAIM(!hop_tensor_new(&in[1], "f64[3]"), "%s", hop_message());
    CLAIM(!hop_operator_register(&(hop_operator_spec){
              .signature = "collect(xs: f32[N]*, bias: f32[]?, mut sums: f64[_]*, out n: i64[])",
              .run = run_collect }),
          "%s", hop_message());
    hop_fn *f = NULL;
    int wrong[][3] = { { 1, 1, 1 }, { 3, 0, 0 }, { 1, 2, 0 }, { -1, 1, 1 }, { 0, 0, 0 } };
    for (size_t i = 0; i < HOP_COUNT(wrong); i++)
        CLAIM(hop_capture(&f, "x: f32[2], y: f64[3]", 1, collects_wrong, wrong[i]) == HOP_INVALID &&
                  strstr(hop_message(), "collect: "),
              "%zu: %s", i, hop_message());
    CLAIM(hop_capture(&f, "x: f32[2], y: f64[3]", 1, collects_wrong, NULL) == HOP_INVALID &&
              strstr(hop_message(), "several parameters are lists"),
          "%s", hop_message());
    claim_results("x: f32[2], y: f64[3]", collects, in, 2, 4,
                  (const char *const[]){ "3", "1", "[8, 11, 5]", "[2, 4, 0]" });
    CLAIM(!hop_operator_unregister("collect"), "%s", hop_message());
    for (int i = 0; i < 2; i++) hop_tensor_free(in[i]);
}

/* ---- views ---- */

/* mut a: f32[_, _], mut b: f32[_]: a gets 10 times b's sum, then b gets a's sum at its first place */
OPERATOR(run_views)
{
    const hop_operator_array *a = &call->arrays[0], *b = &call->arrays[1];
    float *x = arrays[0], *y = arrays[1], sum = 0;
    int64_t rows = a->strides ? a->strides[0] : a->dims[1], columns = a->strides ? a->strides[1] : 1;
    int64_t step = b->strides ? b->strides[0] : 1;
    (void)sizes;
    for (int64_t i = 0; i < b->dims[0]; i++) sum += y[i * step];
    for (int64_t i = 0; i < a->dims[0]; i++)
        for (int64_t k = 0; k < a->dims[1]; k++) x[i * rows + k * columns] += 10 * sum;
    sum = 0;
    for (int64_t i = 0; i < a->dims[0]; i++)
        for (int64_t k = 0; k < a->dims[1]; k++) sum += x[i * rows + k * columns];
    if (b->dims[0]) y[0] = sum;
    return 0;
}
static const char *views_of[2];
BODY(changes_views)
{
    hop_val v = hop_variable(in[0]), a = hop_view(v, views_of[0]), b = hop_view(v, views_of[1]);
    (void)env;
    if (hop_operator(NULL, 0, "views", (hop_val[]){ a, b }, 2)) return hop_failed();
    return out[0] = hop_add(v, hop_scalar(0)), 0;
}
BODY(changes_transposed)
{
    hop_val v = hop_variable(in[0]), w = hop_variable(in[0]);
    (void)env;
    if (hop_operator(NULL, 0, "views", (hop_val[]){ hop_view_transpose(v), hop_view_reshape(w, "6") }, 2))
        return hop_failed();
    return out[0] = hop_sub(v, w), 0;
}
/* env: the other one first */
BODY(changes_a_row_that_is_found)
{
    hop_val v = hop_variable(in[0]), row = hop_view_index(v, in[1], 0), last = hop_view(v, "-1");
    hop_val w = hop_variable(in[0]), both[2] = { env ? last : row, env ? row : last };
    if (hop_operator(NULL, 0, "grow", (hop_val[]){ both[0], both[1], hop_view(w, "0") }, 3))
        return hop_failed();
    return out[0] = hop_add(v, hop_scalar(0)), out[1] = hop_add(w, hop_scalar(0)), 0;
}
/* mut a: f32[N], mut b: f32[N], mut c: f32[N] */
OPERATOR(run_grow)
{
    (void)call;
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < sizes[0]; i++) ((float *)arrays[k])[i] += (float)(10 * (k + 1));
    return 0;
}
/* A row whose number only the run knows, and one that is known, of one array. */
static void test_views_that_are_cut(void)
{
    hop_operator_spec spec = { .signature = "grow(mut a: f32[N], mut b: f32[N], mut c: f32[N])",
                               .run = run_grow };
    CLAIM(!hop_operator_register(&spec), "%s", hop_message());
    hop_tensor *in[2] = { floats("f32[3, 2]", 0), NULL };
    CLAIM(!hop_tensor_new(&in[1], "i64[]"), "%s", hop_message());
    *(int64_t *)hop_data(in[1]) = 0;
    const char *other = "[[30, 31], [2, 3], [4, 5]]";
    static const char *const expected[] = { "[[10, 11], [2, 3], [24, 25]]", "[[20, 21], [2, 3], [14, 15]]" };
    for (int i = 0; i < 2; i++) {
        hop_fn *f = NULL;
        hop_tensor *out[2] = { NULL };
        CLAIM(!hop_capture(&f, "x: f32[3, 2], i: i64[]", 2, changes_a_row_that_is_found, i ? &spec : NULL) &&
                  !hop_interpret(f, in, 2, out, 2) && !strcmp(shown(out[0]), expected[i]) &&
                  !strcmp(shown(out[1]), other),
              "%s %s %s", shown(out[0]), f ? hop_fn_text(f) : "", hop_message());
        for (int k = 0; k < 2; k++) hop_tensor_free(out[k]);
        hop_fn_free(f);
    }
    claim_results("x: f32[3, 2], i: i64[]", changes_a_row_that_is_found, in, 2, 2,
                  (const char *const[]){ expected[0], other });
    CLAIM(!hop_operator_unregister("grow"), "%s", hop_message());
    for (int k = 0; k < 2; k++) hop_tensor_free(in[k]);
}
static void test_views(void)
{
    /* of [[0, 1, 2], [3, 4, 5]] */
    static const struct {
        const char *a, *b, *expected;
    } cases[] = {
        { "0:1", "1, :", "[[120, 121, 122], [363, 4, 5]]" },   /* two rows: 12; 363 */
        { ":, 0:1", "0, 1:", "[[30, 63, 2], [33, 4, 5]]" },    /* a column, the rest of a row */
        { ":, :", "0, :", "[[195, 31, 32], [33, 34, 35]]" },   /* overlapping */
        { ":, ::2", "1, ::2", "[[80, 1, 82], [330, 4, 85]]" }, /* every other column, overlapping */
    };
    hop_tensor *in[1] = { floats("f32[2, 3]", 0) };
    for (int strided = 0; strided < 2; strided++) {
        CLAIM(!hop_operator_register(
                  &(hop_operator_spec){ .signature = "views(mut a: f32[_, _], mut b: f32[_])",
                                        .run = run_views,
                                        .strided = strided }),
              "%s", hop_message());
        for (size_t i = 0; i < HOP_COUNT(cases); i++) {
            views_of[0] = cases[i].a;
            views_of[1] = cases[i].b;
            /* copies of overlapping parts are put back one after the other */
            const char *copied = "[[80, 1, 82], [330, 4, 5]]";
            const char *expected = strided || i != 3 ? cases[i].expected : copied;
            claim_results("x: f32[2, 3]", changes_views, in, 1, 1, &expected);
            claim_results("x: f32[2, N]", changes_views, in, 1, 1, &expected);
        }
        /* v += 150; w's first is the sum of v, 15 + 6·150 = 915 */
        claim_results("x: f32[2, 3]", changes_transposed, in, 1, 1,
                      (const char *const[]){ "[[-765, 150, 150], [150, 150, 150]]" });
        hop_fn *f = NULL;
        views_of[0] = ":, 0:1";
        views_of[1] = "0, 1:";
        CLAIM(!hop_capture(&f, "x: f32[2, 3]", 1, changes_views, NULL) && !strstr(hop_fn_text(f), "slice") &&
                  strstr(hop_fn_text(f), "views {views = [0, 0, 2, 2, 3, 1, 1, 0, 1, 1, 2, 1]} (%x)"),
              "%s", f ? hop_fn_text(f) : hop_message());
        hop_fn_free(f);
    }
    CLAIM(!hop_operator_unregister("views"), "%s", hop_message());
    hop_tensor_free(in[0]);
}

/* mut a: f32[N], mut b: f32[N]: swaps them */
OPERATOR(run_swap)
{
    float *a = arrays[0], *b = arrays[1];
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) {
        float was = a[i];
        a[i] = b[i];
        b[i] = was;
    }
    return 0;
}
/* (a, b, new a, new b, cotangents) */
BODY(swap_backward) { return (void)env, out[0] = in[5], out[1] = in[4], 0; }
BODY(swaps)
{
    hop_val v = hop_variable(in[0]), a = hop_view(v, views_of[0]), b = hop_view(v, views_of[1]);
    (void)env;
    if (hop_operator(NULL, 0, "swap", (hop_val[]){ a, b }, 2)) return hop_failed();
    return out[0] = hop_sum(hop_mul(v, hop_iota("f32[4]", 0)), "all"), 0;
}
BODY(swap_step)
{
    hop_val *v = env;
    (void)in, (void)out;
    return hop_operator(NULL, 0, "swap", (hop_val[]){ v[1], v[2] }, 2);
}
BODY(swaps_often)
{
    hop_val v[3] = { hop_variable(in[0]) };
    (void)env;
    v[1] = hop_view(v[0], ":2");
    v[2] = hop_view(v[0], "2:");
    if (hop_fori(NULL, 0,
                 &(hop_fori_spec){ .from = hop_int(0), .to = hop_int(3), .body = swap_step, .env = v }))
        return hop_failed();
    return out[0] = hop_add(v[0], hop_scalar(0)), 0;
}
static void test_views_and_rules(void)
{
    hop_tensor *in[1] = { floats("f32[4]", 1) }, *out = NULL;
    hop_fn *f = NULL, *g = NULL;
    hop_operator_spec spec = { .signature = "swap(mut a: f32[N], mut b: f32[N])", .run = run_swap };
    CLAIM(!hop_operator_register(&spec), "%s", hop_message());
    claim_results("x: f32[4]", swaps_often, in, 1, 1, (const char *const[]){ "[3, 4, 1, 2]" });
    spec.backward_body = (hop_operator_rule){ swap_backward, NULL, 0 };
    CLAIM(!hop_operator_register(&spec), "%s", hop_message());
    views_of[0] = "::2";
    views_of[1] = "1::2";
    claim_results("x: f32[4]", swaps_often, in, 1, 1, (const char *const[]){ "[3, 4, 1, 2]" });
    CLAIM(!hop_capture(&f, "x: f32[4]", 1, swaps, NULL) && !hop_grad(&g, f, "x") &&
              !hop_interpret(g, in, 1, &out, 1) && !strcmp(shown(out), "[1, 0, 3, 2]"),
          "the gradient of a swap: %s %s", shown(out), hop_message());
    hop_tensor_free(out);
    hop_fn_free(g);
    hop_fn_free(f), f = NULL;
    views_of[0] = ":2";
    views_of[1] = "1:3";
    CLAIM(hop_capture(&f, "x: f32[4]", 1, swaps, NULL) == HOP_INVALID &&
              strstr(hop_message(), "two of its `mut` arguments may overlap, views 0 and 1 of one array"),
          "%s", hop_message());
    CLAIM(!hop_operator_unregister("swap"), "%s", hop_message());
    hop_tensor_free(in[0]);
}

/* ---- runs that fail ---- */

static struct {
    int at, status; /* the call that fails, and with what */
    const char *message;
    int calls;
} failing;
OPERATOR(run_failing)
{
    float *state = arrays[0];
    for (int64_t i = 0; i < sizes[0]; i++) state[i] += 1;
    if (failing.calls++ != failing.at) return 0;
    if (failing.message) snprintf(call->message, call->room, "%s", failing.message);
    return failing.status;
}
BODY(failing_step)
{
    (void)env;
    return hop_operator(out, 1, "failing", in, 1);
}
BODY(failing_loop)
{
    (void)env;
    return hop_scan(out, 1,
                    &(hop_scan_spec){ .step = failing_step, .carry = in, .n_carry = 1, .length = "3" });
}
static void test_failures(void)
{
    static const struct {
        int status;
        const char *message;
        hop_status expected;
        const char *text;
    } cases[] = { { HOP_CHECK, "it is late", HOP_CHECK, "failing: it is late" },
                  { HOP_NOMEM, NULL, HOP_NOMEM, "failing: the operator returned 3" },
                  { 77, NULL, HOP_INVALID, "failing: the operator returned 77" },
                  { -5, "", HOP_INVALID, "failing: the operator returned -5" } };
    char long_message[2000];
    memset(long_message, 'x', sizeof long_message - 1);
    long_message[sizeof long_message - 1] = 0;
    hop_tensor *in[1] = { floats("f32[2]", 0) }, *out[1] = { floats("f32[2]", 7) };
    hop_fn *f = NULL;
    CLAIM(!hop_operator_register(
              &(hop_operator_spec){ .signature = "failing(mut x: f32[N])", .run = run_failing }),
          "%s", hop_message());
    CLAIM(!hop_capture(&f, "x: f32[2]", 1, failing_loop, NULL), "%s", hop_message());
    for (size_t i = 0; i <= HOP_COUNT(cases); i++) {
        bool is_long = i == HOP_COUNT(cases);
        failing.at = 1;
        failing.calls = 0;
        failing.status = is_long ? HOP_IO : cases[i].status;
        failing.message = is_long ? long_message : cases[i].message;
        hop_tensor *got[1] = { out[0] };
        hop_status status = hop_interpret(f, in, 1, got, 1);
        CLAIM(status == (is_long ? HOP_IO : cases[i].expected) && strstr(hop_message(), "operator_test.c:") &&
                  strstr(hop_message(), is_long ? "failing: xxx" : cases[i].text),
              "%zu: %d: %s", i, status, hop_message());
        CLAIM(failing.calls == 2 && !strcmp(shown(out[0]), "[7, 8]") && !strcmp(shown(in[0]), "[0, 1]"),
              "the run ended, and touched nothing: %s %s", shown(out[0]), shown(in[0]));
    }
    hop_fn_free(f);
    CLAIM(!hop_operator_unregister("failing"), "%s", hop_message());
    hop_tensor_free(in[0]);
    hop_tensor_free(out[0]);
}

/* ---- removed while at work ---- */

static int released;
static void let_go(void *user) { *(int *)user += 1; }
OPERATOR(run_leaving)
{
    (void)sizes;
    hop_status status = hop_operator_unregister("leaving");
    if (status || *(int *)call->user) return 1; /* not before this call has returned */
    *(float *)arrays[1] = 2 * *(const float *)arrays[0];
    return 0;
}
BODY(leaves) { return (void)env, hop_operator(out, 1, "leaving", in, 1); }

static void *replace_often(void *spec)
{
    for (int i = 0; i < 2000; i++) hop_operator_register(spec);
    return NULL;
}
OPERATOR(run_same)
{
    (void)call, (void)sizes;
    *(float *)arrays[1] = *(const float *)arrays[0];
    return 0;
}
static void test_removal(void)
{
    hop_tensor *in[1] = { floats("f32[]", 3) }, *out[1] = { NULL };
    hop_operator_spec spec = {
        .signature = "leaving(x: f32[]) -> f32[]", .run = run_leaving, .user = &released, .release = let_go
    };
    hop_fn *f = NULL;
    CLAIM(!hop_operator_register(&spec) && !hop_capture(&f, "x: f32[]", 1, leaves, NULL), "%s",
          hop_message());
    CLAIM(!hop_interpret(f, in, 1, out, 1) && !strcmp(shown(out[0]), "6") && released == 1, "%s (%d)",
          hop_message(), released);
    hop_tensor_free(out[0]), out[0] = NULL;
    CLAIM(hop_interpret(f, in, 1, out, 1) == HOP_INVALID, "it is gone");
    released = 0;
    spec.run = run_same;
    CLAIM(!hop_operator_register(&spec) && !hop_operator_register(&spec) && released == 1, "replaced: %d",
          released);
    released = 0;
    spec.release = NULL;
    pthread_t thread;
    int wrong = pthread_create(&thread, NULL, replace_often, &spec);
    for (int i = 0; i < 2000 && !wrong; i++) {
        wrong = hop_interpret(f, in, 1, out, 1) || *(float *)hop_data(out[0]) != 3;
        hop_tensor_free(out[0]), out[0] = NULL;
    }
    pthread_join(thread, NULL);
    CLAIM(!wrong, "runs while it is replaced: %s", hop_message());
    CLAIM(!hop_operator_unregister("leaving"), "%s", hop_message());
    hop_fn_free(f);
    hop_tensor_free(in[0]);
}

/* ---- allocations that fail ---- */

static void whole_life(void)
{
    hop_tensor *x = NULL, *out[2] = { NULL, NULL };
    hop_fn *f = NULL, *g = NULL;
    hop_operator_spec spec = { .signature = "cube_alloc(x: T[N]) -> T[N]",
                               .run = run_cube,
                               .backward_body = { cube_backward, NULL, 0 } };
    hop_operator_spec found = { .signature = "positive(x: f32[N]) -> (f32[?k], i64[])", .run = run_positive };
    cube_name = "cube_alloc";
    if (hop_operator_register(&spec)) return;
    if (!hop_operator_register(&found)) {
        if (!hop_tensor_new(&x, "f32[2]") && !hop_capture(&f, "x: f32[N]", 1, sum_of_cubes, NULL) &&
            !hop_value_and_grad(&g, f, "x") && hop_fn_text(g))
            hop_interpret(g, &x, 1, out, 2);
        hop_fn_free(g), g = NULL;
        hop_fn_free(f), f = NULL;
        for (int i = 0; i < 2; i++) hop_tensor_free(out[i]), out[i] = NULL;
        if (x && !hop_capture(&f, "x: f32[N]", 2, positive, NULL)) hop_interpret(f, &x, 1, out, 2);
        for (int i = 0; i < 2; i++) hop_tensor_free(out[i]);
        hop_fn_free(f);
        hop_tensor_free(x);
        hop_operator_unregister("positive");
    }
    hop_operator_unregister("cube_alloc");
}

static void test_no_memory(void)
{
    hop_tiny_chunks(true);
    whole_life();
    int64_t before = hop_live_allocations();
    uint64_t first = hop_allocation_count();
    whole_life();
    uint64_t n = hop_allocation_count() - first;
    CLAIM(n > 500, "it takes %llu allocations: %s", (unsigned long long)n, hop_message());
    CLAIM(hop_live_allocations() == before, "a whole life leaves nothing behind");
    int leaks = 0;
    for (uint64_t i = 1; i <= n && leaks < 3; i++) {
        hop_fail_one_allocation(i);
        whole_life();
        hop_fail_one_allocation(0);
        int64_t left = hop_live_allocations() - before;
        if (left)
            printf("allocation %llu of %llu: %lld left\n", (unsigned long long)i, (unsigned long long)n,
                   (long long)left);
        leaks += left != 0;
        before += left;
    }
    hop_tiny_chunks(false);
    CLAIM(!leaks, "with any of %llu allocations failing, nothing is left behind", (unsigned long long)n);
}

int main(void)
{
    test_broken_signatures();
    test_signatures();
    test_updates();
    test_names();
    test_rules();
    test_sizes();
    test_found_sizes();
    test_lists();
    test_views();
    test_views_that_are_cut();
    test_views_and_rules();
    test_failures();
    test_removal();
    test_no_memory();
    return tests_end();
}
