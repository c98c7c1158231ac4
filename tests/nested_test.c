/* Captures inside of captures: functions whose parameters have the types of values around them, whatever
 * their sizes, transformed and called there; parameters asked for while the inner body runs; sizes of the
 * capture around; what is refused. Each program is run by the interpreter, by the loop program's executor, by
 * native code and eagerly. Also which arguments a function accepts. */
#include "captured.h"

/* ---- inner functions ---- */

BODY(squares) { return UNUSED, out[0] = hop_sum(hop_mul(in[0], in[0]), "all"), 0; }
BODY(cubes) { return UNUSED, out[0] = hop_mul(hop_mul(in[0], in[0]), in[0]), 0; }
BODY(twice) { return UNUSED, out[0] = hop_add(in[0], in[0]), 0; }

/* sum(x * y) for a y from outside, which becomes a further parameter. */
struct outside {
    hop_val y, inside;
};
BODY(with_outside)
{
    struct outside *o = env;
    o->inside = hop_parameter_like(o->y);
    out[0] = hop_sum(hop_mul(in[0], o->inside), "all");
    return 0;
}

typedef hop_status (*transform)(hop_fn **, hop_fn *, const char *);

/* Captures `body` of one parameter with the type of v, transforms it and calls it. */
static int nested(hop_body body, transform change, hop_val v, const char *without, const hop_val *args, int n,
                  hop_val *out, int n_out)
{
    hop_fn *f = NULL, *g = NULL;
    hop_param p = { .name = "x", .like = v, .without = without };
    int status = hop_capture_params(&f, "inner", &p, 1, 1, body, NULL);
    if (!status && change) status = (int)change(&g, f, "x");
    if (!status) status = hop_call_fn(out, n_out, change ? g : f, args, n);
    hop_fn_free(f);
    hop_fn_free(g);
    return status;
}
static hop_status over_rows(hop_fn **out, hop_fn *f, const char *in) { return hop_vmap(out, f, in, NULL); }

/* ---- outer ones ---- */

/* The gradient for every second element: its size is (T + 1) // 2, which tells no T. */
BODY(grad_of_half)
{
    hop_val half = hop_slice(in[0], "::2");
    UNUSED;
    return nested(squares, hop_grad, half, NULL, &half, 1, out, 1);
}
/* Of those above 0, whose number only a run knows. */
static hop_val positive(hop_val x)
{
    hop_val where[1];
    hop_nonzero(where, hop_gt(x, hop_int(0)));
    return hop_gather(x, where, 1, NULL);
}
BODY(grad_of_positive)
{
    hop_val some = positive(in[0]);
    UNUSED;
    return nested(squares, hop_grad, some, NULL, &some, 1, out, 1);
}
BODY(rows_of_positive)
{
    hop_val some = positive(in[0]);
    hop_val both = hop_stack((hop_val[]){ some, hop_neg(some) }, 2, 0);
    UNUSED;
    return nested(cubes, over_rows, both, "0", &both, 1, out, 1);
}
BODY(vjp_of_half)
{
    hop_val half = hop_slice(in[0], "::2"), r[2];
    int status = nested(cubes, hop_vjp, half, NULL, (hop_val[]){ half, half }, 2, r, 2);
    UNUSED;
    out[0] = r[1];
    return status;
}
BODY(jvp_of_positive)
{
    hop_val some = positive(in[0]), r[2];
    int status = nested(cubes, hop_jvp, some, NULL, (hop_val[]){ some, some }, 2, r, 2);
    UNUSED;
    out[0] = r[1];
    return status;
}
BODY(jacobian_of_half)
{
    hop_val half = hop_slice(in[0], "::2");
    UNUSED;
    return nested(cubes, hop_jacfwd, half, NULL, &half, 1, out, 1);
}

/* Both halves of a gradient, called one after the other. */
BODY(halves_of_half)
{
    hop_val half = hop_slice(in[0], "::2"), r[4], back[5];
    hop_fn *f = NULL, *forward = NULL, *backward = NULL;
    hop_param p = { .name = "x", .like = half };
    UNUSED;
    int status = hop_capture_params(&f, NULL, &p, 1, 1, cubes, NULL);
    if (!status) status = (int)hop_vjp_halves(&forward, &backward, f, "x");
    int n = status ? 0 : hop_fn_results(forward);
    if (!status) status = hop_call_fn(r, n, forward, &half, 1);
    back[0] = half;
    for (int i = 0; i < n; i++) back[i + 1] = r[i];
    back[n + 1] = half;
    if (!status) status = hop_call_fn(out, 1, backward, back, n + 2);
    hop_fn_free(f);
    hop_fn_free(forward);
    hop_fn_free(backward);
    return status;
}

/* A value from outside, asked for inside: grad of sum(x * y) is y. */
BODY(asks)
{
    hop_val half = hop_slice(in[0], "::2");
    struct outside o = { .y = hop_mul(half, hop_int(3)) };
    hop_fn *f = NULL, *g = NULL;
    hop_param p = { .name = "x", .like = half };
    UNUSED;
    int status = hop_capture_params(&f, "asks", &p, 1, 1, with_outside, &o);
    CLAIM(status || hop_fn_params(f) == 2, "it has %d parameters", hop_fn_params(f));
    if (!status) status = (int)hop_grad(&g, f, "x");
    if (!status) status = hop_call_fn(out, 1, g, (hop_val[]){ half, o.y }, 2);
    hop_fn_free(f);
    hop_fn_free(g);
    return status;
}

/* Three captures deep, the innermost of them inside of the step of a loop; sizes of the outermost are used in
 * it. */
struct deep {
    hop_dim size;
    hop_val y;
};
BODY(innermost)
{
    const struct deep *d = env;
    hop_val ones = hop_full_dims("f32", &d->size, 1, hop_scalar(1));
    out[0] = hop_add(hop_sum(hop_mul(in[0], in[0]), "all"), hop_sum(ones, "all"));
    return 0;
}
BODY(deep_step)
{
    hop_fn *f = NULL, *g = NULL;
    hop_val r[2];
    hop_param p = { .name = "x", .like = in[1] };
    int status = hop_capture_params(&f, "innermost", &p, 1, 1, innermost, env);
    if (!status) status = (int)hop_value_and_grad(&g, f, "x");
    if (!status) status = hop_call_fn(r, 2, g, &in[1], 1);
    out[0] = hop_add(in[0], hop_add(r[0], hop_sum(r[1], "all")));
    hop_fn_free(f);
    hop_fn_free(g);
    return status;
}
BODY(deep_middle)
{
    hop_val zero = hop_number("f32", 0);
    hop_val both = hop_stack((hop_val[]){ in[0], hop_mul(in[0], hop_int(2)) }, 2, 0);
    hop_val r[1];
    int status =
        hop_scan(r, 1,
                 &(hop_scan_spec){
                     .step = deep_step, .env = env, .carry = &zero, .n_carry = 1, .xs = &both, .n_xs = 1 });
    out[0] = r[0];
    return status;
}
BODY(deep)
{
    hop_val half = hop_slice(in[0], "::2");
    struct deep d = { hop_dim_of(in[0], 0), in[0] };
    hop_fn *f = NULL, *g = NULL;
    hop_param p = { .name = "x", .like = half };
    UNUSED;
    int status = hop_capture_params(&f, "middle", &p, 1, 1, deep_middle, &d);
    if (!status) status = (int)hop_value_and_grad(&g, f, "x");
    if (!status) status = hop_call_fn(out, 2, g, &half, 1);
    hop_fn_free(f);
    hop_fn_free(g);
    return status;
}

static const struct program programs[] = {
    { "grad of every second element",
      "x: f32[T]",
      1,
      1,
      grad_of_half,
      { "f32[5]" },
      { { 1, 2, 3, 4, 5 } },
      { "f32[3]" },
      { { 2, 6, 10 } } },
    { "grad of those above 0",
      "x: f32[T]",
      1,
      1,
      grad_of_positive,
      { "f32[5]" },
      { { 1, -2, 3, -4, 5 } },
      { "f32[3]" },
      { { 2, 6, 10 } } },
    { "vmap over rows of unknown length",
      "x: f32[T]",
      1,
      1,
      rows_of_positive,
      { "f32[4]" },
      { { 1, -2, 3, -4 } },
      { "f32[2, 2]" },
      { { 1, 27, -1, -27 } } },
    { "vjp", "x: f32[T]", 1, 1, vjp_of_half, { "f32[4]" }, { { 1, 9, 2, 9 } }, { "f32[2]" }, { { 3, 24 } } },
    { "jvp",
      "x: f32[T]",
      1,
      1,
      jvp_of_positive,
      { "f32[3]" },
      { { 1, -9, 2 } },
      { "f32[2]" },
      { { 3, 24 } } },
    { "jacfwd",
      "x: f32[T]",
      1,
      1,
      jacobian_of_half,
      { "f32[3]" },
      { { 1, 9, 2 } },
      { "f32[2, 2]" },
      { { 3, 0, 0, 12 } } },
    { "halves",
      "x: f32[T]",
      1,
      1,
      halves_of_half,
      { "f32[4]" },
      { { 1, 9, 2, 9 } },
      { "f32[2]" },
      { { 3, 24 } } },
    { "a parameter asked for",
      "x: f32[T]",
      1,
      1,
      asks,
      { "f32[3]" },
      { { 1, 9, 2 } },
      { "f32[2]" },
      { { 3, 6 } } },
    { "three deep",
      "x: f32[T]",
      1,
      2,
      deep,
      { "f32[4]" },
      { { 1, 9, 2, 9 } },
      { "f32[]", "f32[2]" },
      { { 51 }, { 16, 26 } } },
};

/* ---- what is refused ---- */

BODY(uses_value) { return out[0] = hop_neg(*(const hop_val *)env), (void)in, 0; }
static void refused(const char *what, const char *name, const hop_param *p, int n, hop_body body, void *env,
                    const char *message)
{
    hop_fn *f = NULL;
    int status = hop_capture_params(&f, name, p, n, 1, body, env);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), message), "%s: status %d, '%s'", what, status,
          hop_message());
    hop_fn_free(f);
    hop_forgive();
}
BODY(refusals)
{
    hop_val none = { 0, 0 }, number = hop_scalar(1), made = hop_neg(in[0]);
    hop_param good = { .name = "x", .like = in[0] };
    (void)env;
    refused("no value", "f", &(hop_param){ .name = "x", .like = none }, 1, twice, NULL, "expected a value");
    refused("a number", "f", &(hop_param){ .name = "x", .like = number }, 1, twice, NULL, "expected a value");
    refused("an axis too many", "f", &(hop_param){ .name = "x", .like = in[0], .without = "1" }, 1, twice,
            NULL, "expected an axis in -1..0");
    refused("a name twice", "f", (hop_param[]){ good, good }, 2, twice, NULL, "two parameters have the name");
    refused("no list", "f", NULL, 1, twice, NULL, "expected 1 parameters, found NULL");
    refused("a negative count", "f", &good, -1, twice, NULL, "negative");
    refused("something behind the name", "f(x)", &good, 1, twice, NULL, "expected the end");
    refused("a size that nothing tells", "f", &(hop_param){ .name = "x", .type = "f32[2*N]" }, 1, twice, NULL,
            "no parameter has the size 'N'");
    refused("a value that is not passed", "f", &good, 1, uses_value, &made, "belongs to another capture");
    out[0] = in[0];
    return 0;
}

/* A function made inside of a capture cannot be called when that is over and a size of it is needed. */
static hop_fn *kept;
BODY(keeps)
{
    hop_param p = { .name = "x", .like = hop_slice(in[0], "::2") };
    (void)env;
    out[0] = in[0];
    return hop_capture_params(&kept, "kept", &p, 1, 1, squares, NULL);
}
BODY(calls_kept) { return (void)env, hop_call_fn(out, 1, kept, in, 1); }

static void check_refusals(void)
{
    hop_fn *f = NULL, *g = NULL;
    CLAIM(!hop_capture(&f, "x: f32[T]", 1, refusals, NULL), "%s", hop_message());
    hop_fn_free(f);
    CLAIM(!hop_capture(&f, "x: f32[T]", 1, keeps, NULL), "%s", hop_message());
    int status = hop_capture(&g, "x: f32[N]", 1, calls_kept, NULL);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), "a size was used outside of the capture"),
          "status %d: %s", status, hop_message());
    hop_fn_free(f);
    hop_fn_free(g);
    hop_fn_free(kept);
}

/* ---- which arguments fit ---- */

BODY(adds) { return UNUSED, out[0] = hop_add(in[0], in[1]), 0; }
static void check_accepts(void)
{
    static const struct {
        const char *x, *y, *message; /* NULL: they fit */
    } cases[] = { { "f32[3]", "f32[3]", NULL },
                  { "f32[2]", "f32[2]", NULL },
                  { "f32[3]", "f32[4]", "must equal" },
                  { "f32[1]", "f32[1]", "must be in 2..9" },
                  { "f32[10]", "f32[10]", "must be in 2..9" },
                  { "f64[3]", "f32[3]", "expected f32[T]" },
                  { "f32[3, 1]", "f32[3]", "expected f32[T]" } };
    hop_fn *f = NULL;
    CLAIM(!hop_capture(&f, "f[T in 2..9](x: f32[T], y: f32[N])", 1, adds, NULL), "%s", hop_message());
    CLAIM(hop_fn_requires(f) == 1 && !strcmp(hop_fn_require_text(f, 0), "T == N"), "%d requirements, %s",
          hop_fn_requires(f), hop_fn_require_text(f, 0));
    CLAIM(!hop_fn_require_text(f, 1) && !hop_fn_require_text(f, -1), "there is no other");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hop_tensor *in[2] = { NULL, NULL };
        CLAIM(!hop_tensor_new(&in[0], cases[i].x) && !hop_tensor_new(&in[1], cases[i].y), "%s",
              hop_message());
        hop_status status = hop_fn_accepts(f, in, 2, NULL);
        if (cases[i].message)
            CLAIM(status == HOP_INVALID && strstr(hop_message(), cases[i].message), "%s, %s: status %d, '%s'",
                  cases[i].x, cases[i].y, status, hop_message());
        else CLAIM(!status, "%s, %s: %s", cases[i].x, cases[i].y, hop_message());
        CLAIM(hop_fn_accepts(f, in, 1, NULL) == HOP_INVALID, "one argument of two");
        free_all(in, 2);
    }
    hop_fn_free(f);
}

int main(void)
{
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) check_program(&programs[i]);
    check_refusals();
    check_accepts();
    return tests_end();
}
