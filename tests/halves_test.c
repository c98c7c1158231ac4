/* Functions differentiated in two halves, through the public header: forward and backward together are the
 * vjp, forward and linear together the jvp, for functions with every kind of loop, with branches, calls, tags
 * and results whose size only a run knows. The linear half is linear and runs no loop of the function again.
 * Then tags and schedules written in C. */
#include "check.h"
#include "hop/hop.h"

#include <math.h>

enum { MOST = 24 };

static const struct {
    const char *name, *wrt, *text;
    const char *types[4];
} programs[] = {
    { "first-order",
      "x, w",
      "hop 1\nfn @f(%x: f64[2, 3], %w: f64[3]) -> (f64[2], f64[]) {\n  %a = matmul(%x, %w)\n  %b = sin(%a)\n "
      " %k = tag {gradient = recompute} (%b)\n"
      "  %c = mul(%k, %k)\n  %s = sum(%c)\n  return %a, %s\n}\n",
      { "f64[2, 3]", "f64[3]" } },
    { "scan",
      "h, w",
      "hop 1\nfn @f(%h: f64[2], %xs: f64[T, 2], %w: f64[2]) -> (f64[2], f64[T, 2]) {\n  %c, %ys = scan "
      "carry(%s = %h) over(%x in %xs) with(%v = %w) {\n    %a = mul(%s, %v)\n"
      "    %b = add(%a, %x)\n    %n = sin(%b)\n    next(%n) stack(%a)\n  }\n  return %c, %ys\n}\n",
      { "f64[2]", "f64[5, 2]", "f64[2]" } },
    { "snapshots",
      "h, xs",
      "hop 1\nfn @f(%h: f64[2], %xs: f64[T, 2], %w: f64[2]) -> (f64[2]) {\n  %c = scan {schedule = binomial, "
      "snapshots = 2} carry(%s = %h) over(%x in %xs) with(%v = %w) {\n"
      "    %a = mul(%s, %v)\n    %b = add(%a, %x)\n    %n = sin(%b)\n    next(%n)\n  }\n  return %c\n}\n",
      { "f64[2]", "f64[5, 2]", "f64[2]" } },
    { "while",
      "x",
      "hop 1\nfn @f(%x: f64[]) -> (f64[], i64[], f64[?n]) {\n  %y, %n, %ys: f64[?n] = while_loop carry(%c = "
      "%x) cond {\n    %four = full {value = 4, dims = [], dtype = f64}\n"
      "    %t = lt(%c, %four)\n    test(%t)\n  } body {\n    %half = full {value = 0.75, dims = [], dtype = "
      "f64}\n    %s = sin(%c)\n    %m = mul(%s, %s)\n    %a = add(%c, %half)\n"
      "    %b = add(%a, %m)\n    next(%b) stack(%m)\n  }\n  return %y, %n, %ys\n}\n",
      { "f64[]" } },
    { "switch",
      "x, y",
      "hop 1\nfn @f(%x: f64[3], %y: f64[3]) -> (f64[3]) {\n  %s = sum(%x)\n  %z = full {value = 0, dims = "
      "[], dtype = f64}\n  %p = gt(%s, %z)\n"
      "  %r = switch(%p) [(%x, %y) {\n    %a = mul(%x, %y)\n    %b = exp(%a)\n    yield(%b)\n  }, (%x, %y) "
      "{\n    %a = sin(%x)\n    %b = mul(%a, %y)\n    yield(%b)\n  }]\n  return %r\n}\n",
      { "f64[3]", "f64[3]" } },
    { "sizes",
      "x",
      "hop 1\nfn @f(%x: f64[4]) -> (f64[], f64[?k + 1]) {\n  %z = full {value = 0, dims = [4], dtype = "
      "f64}\n  %p = gt(%x, %z)\n  %i: i64[?k] = nonzero(%p)\n  %g = take(%x, %i)\n"
      "  %s = sin(%g)\n  %one = full {value = 1, dims = [1], dtype = f64}\n  %c = concat {dim = 0} (%one, "
      "%s)\n  %e = exp(%c)\n  %m = mul(%e, %c)\n  %t = sum(%m)\n  return %t, %m\n}\n",
      { "f64[4]" } },
    { "no derivative",
      "x",
      "hop 1\nfn @f(%x: f64[2]) -> (f64[2], i64[]) {\n  %y = floor(%x)\n  %k = full {value = 3, dims = [], "
      "dtype = i64}\n  return %y, %k\n}\n",
      { "f64[2]" } },
};

static uint64_t state = 5;
static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53 * 2 - 1;
}
static hop_tensor *filled(const char *type)
{
    hop_tensor *t = NULL;
    if (hop_tensor_new(&t, type)) return NULL;
    for (int64_t i = 0; i < hop_tensor_count(t); i++) ((double *)hop_data(t))[i] = uniform();
    return t;
}
static hop_tensor *filled_like(hop_tensor *like)
{
    char type[128];
    int n = snprintf(type, sizeof type, "f64[");
    for (int i = 0; i < hop_tensor_rank(like); i++)
        n += snprintf(type + n, sizeof type - (size_t)n, "%s%lld", i ? ", " : "",
                      (long long)hop_tensor_dim(like, i));
    snprintf(type + n, sizeof type - (size_t)n, "]");
    return filled(type);
}
static double off(hop_tensor *a, hop_tensor *b)
{
    double worst = hop_tensor_count(a) == hop_tensor_count(b) ? 0 : INFINITY;
    for (int64_t i = 0; i < hop_tensor_count(a) && !isinf(worst); i++)
        worst = fmax(worst, fabs(((const double *)hop_data(a))[i] - ((const double *)hop_data(b))[i]));
    return worst;
}
static void free_list(hop_tensor **t, int n)
{
    for (int i = 0; i < n; i++) hop_tensor_free(t[i]), t[i] = NULL;
}
static bool is_float(const hop_tensor *t) { return hop_tensor_dtype(t)[0] == 'f'; }

static hop_status run(hop_fn *f, bool compiled, hop_tensor **in, int n_in, hop_tensor **out)
{
    int n_out = hop_fn_results(f);
    if (!compiled) return hop_interpret(f, in, n_in, out, n_out);
    hop_exe *exe = NULL;
    hop_status status = hop_compile(&exe, f, &(hop_compile_options){ .portable = 1 });
    if (!status) status = hop_run(exe, in, n_in, out, n_out);
    hop_exe_free(exe);
    return status;
}

/* forward, then the second half on what it gave; against the transform that does both at once. */
static void one_program(size_t which, bool vjp, bool compiled)
{
    hop_fn *f = NULL, *whole = NULL, *forward = NULL, *second = NULL;
    hop_tensor *in[MOST] = { 0 }, *expected[MOST] = { 0 }, *first[MOST] = { 0 }, *found[MOST] = { 0 };
    const char *name = programs[which].name;
    hop_status made = hop_fn_read(&f, programs[which].text, "f");
    if (!made) made = (vjp ? hop_vjp : hop_jvp)(&whole, f, programs[which].wrt);
    if (!made) made = (vjp ? hop_vjp_halves : hop_jvp_halves)(&forward, &second, f, programs[which].wrt);
    CLAIM(!made, "%s: %s", name, hop_message());
    int n_x = hop_fn_params(f), n_y = hop_fn_results(f), n_forward = hop_fn_results(forward), n_given = 0;
    for (int i = 0; i < n_x; i++) in[i] = filled(programs[which].types[i]);
    if (!made) made = run(forward, compiled, in, n_x, first);
    CLAIM(!made, "%s, forward: %s", name, hop_message());
    hop_tensor *given[MOST] = { 0 },
               *args[MOST] = { 0 }; /* cotangents like the float results, or tangents like the wrt */
    if (vjp)
        for (int k = 0; k < n_y; k++)
            if (is_float(first[k])) given[n_given++] = filled_like(first[k]);
    for (int i = 0; !vjp && i < n_x; i++) {
        char padded[32], list[32];
        snprintf(padded, sizeof padded, " %s,", hop_fn_param_name(f, i)),
            snprintf(list, sizeof list, " %s,", programs[which].wrt);
        if (strstr(list, padded)) given[n_given++] = filled_like(in[i]);
    }
    for (int i = 0; i < n_x; i++) args[i] = in[i];
    for (int i = 0; i < n_given; i++) args[n_x + i] = given[i];
    made = run(whole, false, args, n_x + n_given, expected);
    CLAIM(!made, "%s, whole: %s", name, hop_message());
    for (int i = 0; i < n_forward; i++) args[n_x + i] = first[i];
    for (int i = 0; i < n_given; i++) args[n_x + n_forward + i] = given[i];
    CLAIM(hop_fn_params(second) == n_x + n_forward + n_given &&
              hop_fn_results(second) == hop_fn_results(whole) - n_y,
          "%s: the second half takes %d and gives %d", name, hop_fn_params(second), hop_fn_results(second));
    made = run(second, compiled, args, n_x + n_forward + n_given, found);
    CLAIM(!made, "%s, second half: %s", name, hop_message());
    for (int k = 0; k < hop_fn_results(second) && !made; k++)
        CLAIM(off(found[k], expected[n_y + k]) < 1e-12, "%s, %s%s: result %d is off by %g", name,
              vjp ? "vjp" : "jvp", compiled ? ", compiled" : "", k, off(found[k], expected[n_y + k]));
    if (!vjp) { /* it does not run the loop: no predicate is left */
        CLAIM(!strstr(hop_fn_text(second), "while_loop") || strstr(hop_fn_text(second), "binomial") ||
                  which == 2,
              "%s: the linear half runs a loop again:\n%s", name, hop_fn_text(second));
    }
    free_list(in, MOST), free_list(given, MOST), free_list(first, MOST), free_list(expected, MOST),
        free_list(found, MOST);
    hop_fn_free(f), hop_fn_free(whole), hop_fn_free(forward), hop_fn_free(second);
}

/* ---- from C ---- */

struct choice {
    const char *schedule;
    int tags;
};
static int step(void *env, const hop_val *in, hop_val *out)
{
    const struct choice *c = env;
    hop_val a = hop_mul(in[0], in[1]), b = hop_sin(c->tags ? hop_recompute(a) : a);
    out[0] = hop_mul(c->tags ? hop_keep(b) : b, a);
    return 0;
}
static int count_step(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_sin(hop_mul(in[1], hop_add(in[0], hop_scalar(0.5))));
    return 0;
}
static int goes_on(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_lt(in[0], hop_int(6));
    return 0;
}
static int while_step(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_add(in[0], hop_int(1));
    out[1] = hop_sin(hop_add(in[1], in[1]));
    return 0;
}
static int three_loops(void *env, const hop_val *in, hop_val *out)
{
    const struct choice *c = env;
    hop_val r[1], s[1], w[2];
    hop_scan(r, 1,
             &(hop_scan_spec){ .step = step,
                               .env = env,
                               .carry = &in[0],
                               .n_carry = 1,
                               .xs = &in[1],
                               .n_xs = 1,
                               .schedule = c->schedule });
    hop_fori(s, 1,
             &(hop_fori_spec){ .body = count_step,
                               .from = hop_int(0),
                               .to = in[2],
                               .carry = r,
                               .n_carry = 1,
                               .schedule = c->schedule });
    hop_while(w, 2,
              &(hop_while_spec){ .cond = goes_on,
                                 .body = while_step,
                                 .carry = (hop_val[]){ hop_sub(in[2], hop_int(5)), s[0] },
                                 .n_carry = 2,
                                 .schedule = c->schedule });
    out[0] = w[1];
    return 0;
}

static void from_c(void)
{
    static const struct choice choices[] = { { NULL, 0 },         { "none", 0 },       { "recompute", 0 },
                                             { "sqrt", 0 },       { "every 2", 0 },    { "every 4, 2", 1 },
                                             { "binomial 1", 0 }, { "binomial 3", 0 }, { NULL, 1 } };
    hop_tensor *in[3] = { filled("f64[]"), filled("f64[7]"), NULL }, *expected[3] = { 0 };
    hop_tensor_new(&in[2], "i64[]");
    *(int64_t *)hop_data(in[2]) = 4;
    for (size_t i = 0; i < HOP_COUNT(choices); i++) {
        hop_fn *f = NULL, *g = NULL;
        hop_tensor *out[3] = { 0 };
        hop_status made = hop_capture(&f, "h: f64[], xs: f64[T], n: i64[]", 1, three_loops,
                                      (void *)&choices[i]);
        if (!made) made = hop_value_and_grad(&g, f, "h, xs");
        if (!made) made = hop_interpret(g, in, 3, out, 3);
        CLAIM(!made, "schedule %s: %s", choices[i].schedule ? choices[i].schedule : "-", hop_message());
        for (int k = 0; k < 3 && !made && i; k++)
            CLAIM(off(out[k], expected[k]) < 1e-14, "schedule %s, result %d: off by %g",
                  choices[i].schedule ? choices[i].schedule : "-", k, off(out[k], expected[k]));
        if (i) free_list(out, 3);
        else memcpy(expected, out, sizeof out);
        hop_fn_free(f), hop_fn_free(g);
    }
    static const char *const wrong[] = { "often", "binomial", "binomial 0", "every", "every 0", "sqrt 3" };
    for (size_t i = 0; i < HOP_COUNT(wrong); i++) {
        hop_fn *f = NULL;
        struct choice c = { wrong[i], 0 };
        CLAIM(hop_capture(&f, "h: f64[], xs: f64[T], n: i64[]", 1, three_loops, &c) && hop_message()[0],
              "the schedule '%s' is accepted", wrong[i]);
        hop_fn_free(f);
    }
    free_list(in, 3), free_list(expected, 3);
}

int main(void)
{
    for (size_t i = 0; i < HOP_COUNT(programs); i++)
        for (int vjp = 0; vjp < 2; vjp++)
            for (int compiled = 0; compiled < 2; compiled++) one_program(i, vjp, compiled);
    from_c();
    hop_fn *f = NULL, *a = NULL, *b = NULL;
    CLAIM(!hop_fn_read(&f, programs[1].text, "f"), "%s", hop_message());
    CLAIM(hop_vjp_halves(&a, &b, f, "nobody") && !a && !b, "an unknown parameter is accepted");
    CLAIM(hop_vjp_halves(NULL, &b, f, "h") && hop_vjp_halves(&a, NULL, f, "h") && !a && !b,
          "no place for a half");
    CLAIM(hop_jvp_halves(&a, &b, NULL, "h"), "no function");
    hop_fn_free(f);
    return tests_end();
}
