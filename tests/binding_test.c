/* What only bindings need: bodies that say themselves how many results they have, and parameters that a body
 * asks for while it runs. */
#include "check.h"

#include <hop/hop.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY(name) static int name(void *env, const hop_val *in, hop_val *out)

BODY(three) { return (void)env, out[0] = in[0], out[1] = hop_neg(in[0]), out[2] = hop_sum(in[0], "all"), 0; }
BODY(two) { return (void)env, out[0] = in[0], out[1] = hop_neg(in[0]), 0; }
BODY(nothing) { return (void)env, (void)in, (void)out, 0; }
BODY(step) { return (void)env, out[0] = hop_add(in[0], in[1]), out[1] = in[0], out[2] = in[1], 0; }
BODY(no_carry) { return (void)env, (void)in, (void)out, 0; }
BODY(outside) { return out[0] = hop_mul(in[0], hop_parameter("f32[]")), *(hop_val *)env = out[0], 0; }

static int filled(const hop_val *r, int room)
{
    int n = 0;
    while (n < room && r[n].scope) n++;
    for (int i = n; i < room; i++)
        if (r[i].scope || r[i].id) return -1;
    return n;
}

BODY(operators)
{
    hop_val r[8];
    (void)env;
    memset(r, 0xff, sizeof r);
    hop_call(r, HOP_UP_TO(8), &(hop_call_spec){ .body = three, .in = in, .n_in = 1 });
    CLAIM(filled(r, 8) == 3, "call: %d results", filled(r, 8));
    hop_val some[2] = { r[0], r[1] };
    memset(r, 0xff, sizeof r);
    hop_cond(r, HOP_UP_TO(8),
             &(hop_cond_spec){ .pred = hop_gt(hop_sum(in[0], "all"), hop_int(0)),
                               .then = two,
                               .otherwise = two,
                               .in = in,
                               .n_in = 1 });
    CLAIM(filled(r, 8) == 2, "cond: %d results", filled(r, 8));
    hop_val zero = hop_number("f32", 0);
    memset(r, 0xff, sizeof r);
    hop_scan(r, HOP_UP_TO(8),
             &(hop_scan_spec){ .step = step, .carry = &zero, .n_carry = 1, .xs = in, .n_xs = 1 });
    CLAIM(filled(r, 8) == 3, "scan: %d results", filled(r, 8));
    memset(r, 0xff, sizeof r);
    hop_map(r, HOP_UP_TO(8), &(hop_map_spec){ .body = two, .xs = in, .n_xs = 1 });
    CLAIM(filled(r, 8) == 2, "map: %d results", filled(r, 8));
    memset(r, 0xff, sizeof r);
    hop_call(r, HOP_UP_TO(8), &(hop_call_spec){ .body = nothing, .in = in, .n_in = 1 });
    CLAIM(filled(r, 8) == 0 && !hop_failed(), "a call without results: %d results", filled(r, 8));
    hop_switch(r, HOP_UP_TO(8),
               &(hop_switch_spec){ .index = hop_int(0),
                                   .branches = (hop_body[]){ two, three },
                                   .n_branches = 2,
                                   .in = in,
                                   .n_in = 1 });
    CLAIM(hop_forgive() == HOP_INVALID && strstr(hop_message(), "one gives 2 results, another one 3"),
          "branches that differ: '%s'", hop_message());
    hop_scan(r, HOP_UP_TO(8),
             &(hop_scan_spec){ .step = no_carry, .carry = &zero, .n_carry = 1, .xs = in, .n_xs = 1 });
    CLAIM(hop_forgive() == HOP_INVALID && strstr(hop_message(), "expected the 1 carries at least"),
          "a step without its carry: '%s'", hop_message());
    hop_call(r, -1, &(hop_call_spec){ .body = two, .in = in, .n_in = 1 });
    CLAIM(hop_forgive() == HOP_INVALID, "a negative number of results");
    out[0] = some[0];
    out[1] = some[1];
    return 0;
}

BODY(asks_inside) /* a parameter asked for inside of a body; one of a body that failed is gone again */
{
    hop_val kept, r[2] = { in[0] };
    hop_scan(r, HOP_UP_TO(2),
             &(hop_scan_spec){ .step = outside, .env = &kept, .carry = in, .n_carry = 1, .length = "2" });
    (void)env;
    hop_val other = hop_parameter("i64[3]");
    CLAIM(!strcmp(hop_type_text(other), "i64[3]"), "its type is %s", hop_type_text(other));
    hop_parameter("f32[N]");
    CLAIM(hop_forgive() == HOP_INVALID, "a parameter of unknown size");
    out[0] = r[0];
    out[1] = hop_sum(other, "all");
    return 0;
}

static void check_parameters(void)
{
    hop_fn *f = NULL, *g = NULL;
    hop_tensor *in[3] = { NULL, NULL, NULL }, *out[3] = { NULL, NULL, NULL };
    int status = hop_capture(&f, "x: f32[]", HOP_UP_TO(100), asks_inside, NULL);
    CLAIM(!status && hop_fn_params(f) == 3 && hop_fn_results(f) == 2, "status %d: %s", status, hop_message());
    if (status) return;
    CLAIM(!strcmp(hop_fn_param_type(f, 1), "f32[]") && !strcmp(hop_fn_param_type(f, 2), "i64[3]"),
          "further parameters: %s, %s", hop_fn_param_type(f, 1), hop_fn_param_type(f, 2));
    status = hop_tensor_new(&in[0], "f32[]") || hop_tensor_new(&in[1], "f32[]") ||
             hop_tensor_new(&in[2], "i64[3]");
    *(float *)hop_data(in[0]) = 5;
    *(float *)hop_data(in[1]) = 3;
    ((int64_t *)hop_data(in[2]))[1] = 7;
    status = status || hop_interpret(f, in, 3, out, 2);
    CLAIM(!status && *(float *)hop_data(out[0]) == 45 && *(int64_t *)hop_data(out[1]) == 7, "status %d: %s",
          status, hop_message());
    status = hop_grad(&g, f, "x");
    CLAIM(!status && !hop_interpret(g, in, 3, &out[2], 1) && *(float *)hop_data(out[2]) == 9,
          "its gradient: %s", hop_message());
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]), hop_tensor_free(out[i]);
    hop_fn_free(f);
    hop_fn_free(g);
}

/* ---- as many as there are ---- */

enum { MANY = 3000 };

/* in[k] + k for each of MANY inputs, handed over by hop_give. */
BODY(gives_many)
{
    hop_val *values = calloc(MANY, sizeof *values);
    (void)env;
    (void)out;
    for (int i = 0; i < MANY; i++) values[i] = hop_add(in[i], hop_int(i));
    hop_give(in, 1); /* of several the last counts */
    int status = hop_give(values, MANY);
    free(values);
    return status;
}
BODY(calls_many)
{
    int n = -1;
    hop_call(NULL, HOP_ANY, &(hop_call_spec){ .body = gives_many, .in = in, .n_in = MANY });
    const hop_val *got = hop_given(&n);
    CLAIM(got && n == MANY, "a call gave %d results", n);
    int status = hop_call(NULL, HOP_ANY, &(hop_call_spec){ .body = gives_many, .in = got, .n_in = MANY });
    got = hop_given(&n);
    (void)env;
    (void)out;
    return status ? status : hop_give(got, n);
}
/* The same function, called from another capture, by room that the caller has. */
BODY(calls_function)
{
    hop_val *results = calloc(MANY, sizeof *results);
    (void)out;
    int status = hop_call_fn(results, MANY, env, in, MANY);
    status = status ? status : hop_give(results, MANY);
    free(results);
    return status;
}
BODY(nothing_given) { return (void)env, (void)in, (void)out, 0; }
BODY(mixed_branches)
{
    int n;
    hop_val p = hop_gt(hop_sum(in[0], "all"), hop_int(0));
    (void)env;
    hop_cond(NULL, HOP_ANY,
             &(hop_cond_spec){
                 .pred = p, .then = gives_many, .otherwise = nothing_given, .in = in, .n_in = MANY });
    CLAIM(hop_forgive() == HOP_INVALID && strstr(hop_message(), "one gives 0 results, another one 3000"),
          "branches that differ: '%s'", hop_message());
    hop_cond(NULL, HOP_ANY,
             &(hop_cond_spec){
                 .pred = p, .then = gives_many, .otherwise = gives_many, .in = in, .n_in = MANY });
    const hop_val *got = hop_given(&n);
    CLAIM(n == MANY, "a cond gave %d results", n);
    hop_call(NULL, HOP_ANY, &(hop_call_spec){ .body = nothing_given, .in = in, .n_in = 1 });
    int none = -1;
    CLAIM(hop_given(&none) && none == 0, "a call that gives nothing gave %d results", none);
    out[0] = got[MANY - 1];
    return 0;
}

static char *many_params(void)
{
    char *text = calloc(MANY, 16);
    size_t at = 0;
    for (int i = 0; i < MANY; i++) at += (size_t)sprintf(text + at, "%sx%d: f32[]", i ? ", " : "", i);
    return text;
}

static void check_many(void)
{
    hop_fn *f = NULL, *g = NULL, *h = NULL;
    hop_exe *exe = NULL;
    char *params = many_params();
    hop_tensor **in = calloc(MANY, sizeof *in), **out = calloc(MANY, sizeof *out);
    bool right = true;
    int failed = hop_capture(&f, params, HOP_ANY, calls_many, NULL) ||
                 hop_capture(&g, params, HOP_ANY, calls_function, f) ||
                 hop_capture(&h, params, 1, mixed_branches, NULL);
    CLAIM(!failed && hop_fn_params(g) == MANY && hop_fn_results(g) == MANY && hop_fn_results(h) == 1,
          "functions of many values: %s", hop_message());
    for (int i = 0; i < MANY && !failed; i++) {
        failed = hop_tensor_new(&in[i], "f32[]");
        *(float *)hop_data(in[i]) = 0.5F;
    }
    failed = failed || hop_compile(&exe, g, &(hop_compile_options){ .portable = 1 }) ||
             hop_run(exe, in, MANY, out, MANY);
    for (int i = 0; i < MANY && !failed; i++) right &= *(float *)hop_data(out[i]) == 0.5F + (float)(2 * i);
    CLAIM(!failed && right, "a run with %d arguments and results: %s", MANY, hop_message());
    for (int i = 0; i < MANY; i++) hop_tensor_free(in[i]), hop_tensor_free(out[i]);
    hop_exe_free(exe), hop_fn_free(f), hop_fn_free(g), hop_fn_free(h);
    free(in), free(out), free(params);
}

enum { CARRIES = 300 };
BODY(doubles) /* carries, and the first row of xs */
{
    for (int i = 0; i < CARRIES; i++) out[i] = hop_add(in[i], in[i]);
    return (void)env, 0;
}
BODY(below) { return (void)env, out[0] = hop_lt(in[0], hop_int(100)), 0; }
BODY(counted)
{
    for (int i = 0; i < CARRIES; i++) out[i] = hop_add(in[i + 1], in[0]);
    return (void)env, 0;
}
BODY(combined)
{
    for (int i = 0; i < CARRIES; i++) out[i] = hop_add(in[i], in[CARRIES + i]);
    return (void)env, 0;
}

static double last_of(const hop_val *r)
{
    hop_tensor *t = hop_value_tensor(r[CARRIES - 1]);
    double found = t ? *(double *)hop_data(t) : -1;
    hop_tensor_free(t);
    return found;
}

/* Loops of many carries at once, and messages that show many values. */
static void check_many_at_once(void)
{
    hop_val c[CARRIES], r[CARRIES], xs[CARRIES];
    hop_eager_begin();
    for (int i = 0; i < CARRIES; i++) c[i] = hop_number("f64", i), xs[i] = hop_ones("f64[3]");
    int failed = hop_scan(r, CARRIES,
                          &(hop_scan_spec){ .step = doubles, .carry = c, .n_carry = CARRIES, .length = "3" });
    CLAIM(!failed && last_of(r) == 8 * (CARRIES - 1), "scan: %s", hop_message());
    c[0] = hop_number("f64", 1);
    failed = hop_while(r, CARRIES,
                       &(hop_while_spec){ .cond = below, .body = doubles, .carry = c, .n_carry = CARRIES });
    CLAIM(!failed && last_of(r) == 128 * (CARRIES - 1), "while: %s", hop_message());
    failed =
        hop_fori(r, CARRIES,
                 &(hop_fori_spec){
                     .body = counted, .from = hop_int(0), .to = hop_int(4), .carry = c, .n_carry = CARRIES });
    CLAIM(!failed && last_of(r) == CARRIES - 1 + 6, "fori: %s", hop_message());
    failed = hop_associative_scan(r, CARRIES,
                                  &(hop_associative_scan_spec){
                                      .combine = combined, .xs = xs, .n_xs = CARRIES });
    hop_val total = hop_sum(r[CARRIES - 1], "all");
    r[CARRIES - 1] = total;
    CLAIM(!failed && last_of(r) == 6, "associative_scan: %s", hop_message());
    CLAIM(!hop_check(hop_bool(1), "fine", c, CARRIES), "a check that shows many values: %s", hop_message());
    hop_eager_end();
}

int main(void)
{
    hop_fn *f = NULL;
    int status = hop_capture(&f, "x: f32[4]", HOP_UP_TO(16), operators, NULL);
    CLAIM(!status && hop_fn_results(f) == 2, "status %d: %s", status, hop_message());
    hop_fn_free(f);
    f = NULL;
    CLAIM(hop_capture(&f, "x: f32[4]", -1, two, NULL) == HOP_INVALID && !f, "a function with -1 results");
    check_parameters();
    check_many();
    check_many_at_once();
    hop_eager_begin();
    hop_val r[2], x = hop_ones("f32[2]");
    CLAIM(hop_call(r, HOP_UP_TO(2), &(hop_call_spec){ .body = two, .in = &x, .n_in = 1 }) == HOP_INVALID,
          "eager mode needs to know the number of results");
    hop_forgive();
    hop_parameter("f32[]");
    CLAIM(hop_forgive() == HOP_INVALID, "eager mode has no parameters");
    hop_eager_end();
    return tests_end();
}
