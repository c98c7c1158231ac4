/* The rest of the C surface: tensors and their memory, transforms against numbers worked out by hand,
 * executables (outputs given or made, workspaces, cancellation, printing, several at once), who owns what,
 * what must fail and how, and running out of memory at every allocation. */
#include "check.h"
#include "runtime/exe.h"

#include <math.h>
#include <pthread.h>

#define BODY(name) static int name(void *env, const hop_val *in, hop_val *out)
#define UNUSED (void)env, (void)in

static double number(const hop_tensor *t, int64_t i)
{
    return !t                                    ? NAN
           : !strcmp(hop_tensor_dtype(t), "f64") ? ((const double *)hop_data(t))[i]
                                                 : ((const float *)hop_data(t))[i];
}
static bool near(double a, double b) { return fabs(a - b) <= 1e-5 * fmax(1, fabs(b)); }
static void free_all(hop_tensor **t, int n)
{
    for (int i = 0; i < n; i++) hop_tensor_free(t[i]), t[i] = NULL;
}
static hop_tensor *filled(const char *type, double first, double step)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
    for (int64_t i = 0; t && i < hop_tensor_count(t); i++) {
        if (!strcmp(hop_tensor_dtype(t), "f64")) ((double *)hop_data(t))[i] = first + step * (double)i;
        else ((float *)hop_data(t))[i] = (float)(first + step * (double)i);
    }
    return t;
}
static const hop_compile_options *how(int strict)
{
    static hop_compile_options o;
    o = (hop_compile_options){ .strict = strict, .portable = !exe_available() };
    return &o;
}

/* ---- tensors ---- */

static int released;
static void count_release(void *ctx) { released += *(int *)ctx; }

static void test_tensors(void)
{
    hop_tensor *t = NULL, *v = NULL, *w = NULL, *c = NULL;
    CLAIM(!hop_tensor_new(&t, "f32[3, 4]") && hop_tensor_rank(t) == 2 && hop_tensor_dim(t, 0) == 3 &&
              hop_tensor_dim(t, -1) == 4 && hop_tensor_count(t) == 12,
          "a new tensor has its sizes");
    CLAIM(!strcmp(hop_tensor_dtype(t), "f32") && hop_tensor_is_contiguous(t) && hop_tensor_dim(t, 2) == -1 &&
              hop_tensor_stride(t, 0) == 4,
          "and its dtype and strides");
    bool zero = true;
    for (int i = 0; i < 12; i++) zero &= ((float *)hop_data(t))[i] == 0;
    CLAIM(zero, "and is zero");
    for (int i = 0; i < 12; i++) ((float *)hop_data(t))[i] = (float)i;
    CLAIM(!hop_tensor_view(&v, t, "1:, ::-2") && hop_tensor_dim(v, 0) == 2 && hop_tensor_dim(v, 1) == 2 &&
              hop_tensor_stride(v, 1) == -2,
          "a view: %s", hop_message());
    CLAIM(!hop_tensor_view(&w, v, "-1") && hop_tensor_rank(w) == 1 && *(float *)hop_data(w) == 11,
          "a view of a view");
    char *text = hop_tensor_text(v);
    CLAIM(text && !strcmp(text, "[[7, 5], [11, 9]]"), "a view's text: %s", text);
    hop_text_free(text);
    hop_tensor_free(t);
    CLAIM(!hop_tensor_copy(&c, v) && hop_tensor_is_contiguous(c) && ((float *)hop_data(c))[3] == 9,
          "a view keeps its memory; a copy is row-major");
    ((float *)hop_data(c))[0] = 100;
    CLAIM(!hop_tensor_fill(v, c) && *(float *)hop_data(v) == 100, "filling writes through strides");
    CLAIM(hop_tensor_fill(v, w) == HOP_INVALID, "filling needs equal types");
    free_all((hop_tensor *[]){ v, w, c }, 3);

    int ten = 10;
    static float memory[6] = { 1, 2, 3, 4, 5, 6 };
    t = NULL;
    CLAIM(!hop_tensor_borrow(&t, "f32[2, 3]", memory, count_release, &ten) && hop_data(t) == memory,
          "borrowed memory is used as it is");
    v = NULL;
    CLAIM(!hop_tensor_view(&v, t, ":, 1"), "%s", hop_message());
    hop_tensor_free(t);
    CLAIM(!released && ((float *)hop_data(v))[0] == 2, "a view keeps borrowed memory");
    hop_tensor_ref(v);
    hop_tensor_free(v);
    hop_tensor_free(v);
    CLAIM(released == 10, "the last reference releases it");
    CLAIM(hop_tensor_new(&t, "f32[3, -1]") == HOP_INVALID && hop_tensor_new(&t, "f32[T]") == HOP_INVALID &&
              hop_tensor_new(&t, NULL) == HOP_INVALID,
          "types of tensors are numbers");
    CLAIM(hop_tensor_new(&t, "f64[4611686018427387904, 4611686018427387904]") == HOP_INVALID &&
              strstr(hop_message(), "overflows"),
          "sizes that overflow: %s", hop_message());
    CLAIM(hop_tensor_borrow(&t, "f32[2]", NULL, NULL, NULL) == HOP_INVALID, "no memory");
    const int64_t dims[2] = { 2, 3 }, bad[2] = { 2, -1 };
    CLAIM(!hop_tensor_borrow_dims(&t, "f32", dims, 2, memory, NULL, NULL) && hop_tensor_dim(t, 1) == 3 &&
              hop_data(t) == memory,
          "sizes as numbers: %s", hop_message());
    hop_tensor_free(t);
    CLAIM(!hop_tensor_new_dims(&t, "i64", NULL, 0) && hop_tensor_rank(t) == 0 && *(int64_t *)hop_data(t) == 0,
          "a scalar has no sizes: %s", hop_message());
    hop_tensor_free(t), t = NULL;
    CLAIM(hop_tensor_new_dims(&t, "f32", bad, 2) == HOP_INVALID &&
              hop_tensor_new_dims(&t, "f33", dims, 2) == HOP_INVALID &&
              hop_tensor_new_dims(&t, NULL, dims, 2) == HOP_INVALID &&
              hop_tensor_new_dims(&t, "f32", NULL, 2) == HOP_INVALID &&
              hop_tensor_new_dims(&t, "f32", dims, 99) == HOP_INVALID &&
              hop_tensor_new_dims(&t, "f32", dims, -1) == HOP_INVALID && !t,
          "wrong sizes as numbers");
    hop_tensor_free(NULL);
    hop_fn_free(NULL);
    hop_exe_free(NULL);
    hop_text_free(NULL);
    CLAIM(!hop_data(NULL) && hop_tensor_rank(NULL) == -1, "NULL is no tensor");
}

/* ---- transforms ---- */

BODY(cubes) /* sum(w * x^3) */
{
    UNUSED;
    out[0] = hop_sum(hop_mul(in[1], hop_mul(in[0], hop_mul(in[0], in[0]))), "all");
    return 0;
}
BODY(pair) /* x -> (x0 * x1, [x0^2, sin x1], a number of no interest) */
{
    UNUSED;
    hop_val a = hop_slice(in[0], "0"), b = hop_slice(in[0], "1"), parts[2] = { hop_mul(a, a), hop_sin(b) };
    out[0] = hop_mul(a, b);
    out[1] = hop_stack(parts, 2, 0);
    out[2] = hop_int(3);
    return 0;
}

static void test_transforms(void)
{
    hop_fn *f = NULL, *g = NULL, *h = NULL;
    hop_tensor *in[5] = { filled("f64[2]", 2, 1), filled("f64[2]", 10, 10) }, *out[6] = { 0 };
    CLAIM(!hop_capture(&f, "x: f64[N], w: f64[N]", 1, cubes, NULL), "%s", hop_message());
    CLAIM(!hop_grad(&g, f, "x") && !hop_interpret(g, in, 2, out, 1) && number(out[0], 0) == 120 &&
              number(out[0], 1) == 540,
          "grad: %s", hop_message());
    free_all(out, 6);
    hop_fn_free(g), g = NULL;
    CLAIM(!hop_value_and_grad(&g, f, NULL) && hop_fn_results(g) == 3 && !hop_interpret(g, in, 2, out, 3) &&
              number(out[0], 0) == 620 && number(out[2], 1) == 27,
          "value_and_grad: %s", hop_message());
    free_all(out, 6);
    hop_fn_free(g), g = NULL;
    CLAIM(!hop_hessian(&g, f, "x, w") && hop_fn_results(g) == 4 && !hop_interpret(g, in, 2, out, 4),
          "hessian: %s", hop_message());
    CLAIM(number(out[0], 0) == 120 && number(out[0], 1) == 0 && number(out[0], 3) == 360 &&
              number(out[1], 0) == 12 && number(out[1], 3) == 27 && number(out[2], 0) == 12 &&
              number(out[3], 0) == 0,
          "the second derivatives are right");
    free_all(out, 6);
    hop_fn_free(g), g = NULL;
    CLAIM(!hop_grad(&g, f, "x") && !hop_vmap(&h, g, "x", NULL), "vmap of grad: %s", hop_message());
    hop_fn_free(g), g = NULL;
    hop_fn_free(f), f = NULL;
    hop_tensor *batch[2] = { filled("f64[3, 2]", 1, 1), in[1] };
    CLAIM(!hop_interpret(h, batch, 2, out, 1) && hop_tensor_dim(out[0], 0) == 3 &&
              number(out[0], 5) == 20 * 3 * 36,
          "over a batch, with the functions it came from freed: %s", hop_message());
    free_all(out, 6);
    hop_fn_free(h), h = NULL;
    hop_tensor_free(batch[0]);

    CLAIM(!hop_capture(&f, "x: f64[2]", 3, pair, NULL), "%s", hop_message());
    CLAIM(!hop_vjp(&g, f, "x") && hop_fn_params(g) == 3 && hop_fn_results(g) == 4,
          "vjp takes a cotangent for each float result");
    hop_tensor *ct[3] = { in[0], filled("f64[]", 1, 0), filled("f64[2]", 1, 1) };
    CLAIM(!hop_interpret(g, ct, 3, out, 4) && near(number(out[3], 0), 3 + 4) &&
              near(number(out[3], 1), 2 + 2 * cos(3)),
          "vjp: %s %g %g", hop_message(), number(out[3], 0), number(out[3], 1));
    free_all(out, 6);
    hop_fn_free(g), g = NULL;
    CLAIM(!hop_jvp(&g, f, "x") && hop_fn_params(g) == 2 && hop_fn_results(g) == 5 &&
              !strcmp(hop_fn_param_name(g, 1), "d_x"),
          "jvp takes a tangent");
    hop_tensor *tangent[2] = { in[0], ct[2] };
    CLAIM(!hop_interpret(g, tangent, 2, out, 5) && near(number(out[3], 0), 3 * 1 + 2 * 2) &&
              near(number(out[4], 1), 2 * cos(3)),
          "jvp: %s", hop_message());
    free_all(out, 6);
    hop_fn_free(g), g = NULL;
    CLAIM(!hop_linearize(&g, f, "x", in, 1) && hop_fn_params(g) == 1 && hop_fn_results(g) == 2 &&
              !hop_interpret(g, &ct[2], 1, out, 2) && near(number(out[0], 0), 7) &&
              near(number(out[1], 1), 2 * cos(3)),
          "linearize: %s", hop_message());
    free_all(out, 6);
    hop_fn_free(g), g = NULL;
    for (int reverse = 0; reverse < 2; reverse++) {
        CLAIM(!(reverse ? hop_jacrev : hop_jacfwd)(&g, f, "x") && hop_fn_results(g) == 2 &&
                  !hop_interpret(g, in, 1, out, 2),
              "jacobian %d: %s", reverse, hop_message());
        CLAIM(hop_tensor_rank(out[0]) == 1 && near(number(out[0], 0), 3) && near(number(out[0], 1), 2) &&
                  hop_tensor_rank(out[1]) == 2 && near(number(out[1], 0), 4) && near(number(out[1], 1), 0) &&
                  near(number(out[1], 3), cos(3)),
              "jacobian %d is right", reverse);
        free_all(out, 6);
        hop_fn_free(g), g = NULL;
    }
    CLAIM(!hop_vmap(&g, f, "x: 1", "0, -1, -"), "vmap with axes: %s", hop_message());
    hop_tensor *columns = filled("f64[2, 3]", 1, 1);
    CLAIM(!hop_interpret(g, &columns, 1, out, 3) && hop_tensor_dim(out[0], 0) == 3 &&
              hop_tensor_dim(out[1], 1) == 3 && hop_tensor_rank(out[2]) == 0 && number(out[0], 2) == 18,
          "%s", hop_message());
    free_all(out, 6);
    hop_tensor_free(columns);
    hop_fn_free(g), g = NULL;
    CLAIM(hop_grad(&g, f, "y") == HOP_INVALID &&
              strstr(hop_message(), "there is no parameter 'y'; the function has x"),
          "an unknown parameter: %s", hop_message());
    CLAIM(hop_grad(&g, NULL, "x") == HOP_INVALID && !g, "a missing function");
    free_all(ct + 1, 2);
    free_all(in, 2);
    hop_fn_free(f);
}

/* Transforms of functions that update an argument. */
BODY(accumulate)
{
    UNUSED;
    hop_add_to(in[1], in[0]);
    out[0] = hop_sum(hop_mul(in[1], in[1]), "all");
    return 0;
}
static void test_update_transforms(void)
{
    hop_fn *f = NULL, *g = NULL;
    hop_tensor *in[2] = { filled("f64[2]", 1, 1), filled("f64[2]", 10, 0) }, *out[2] = { 0 };
    CLAIM(!hop_capture(&f, "x: f64[2], state: mut f64[2]", 1, accumulate, NULL), "%s", hop_message());
    CLAIM(!hop_value_and_grad(&g, f, "x") && hop_fn_results(g) == 2 && hop_fn_param_is_mut(g, 1),
          "value_and_grad keeps the update: %s", hop_message());
    CLAIM(!hop_interpret(g, in, 2, out, 2) && number(in[1], 0) == 11 && number(out[0], 0) == 265 &&
              number(out[1], 0) == 22,
          "gradients are taken at the content on entry: %g %g", number(out[0], 0), number(out[1], 0));
    free_all(out, 2);
    hop_fn_free(g), g = NULL;
    CLAIM(!hop_grad(&g, f, "x") && !hop_fn_param_is_mut(g, 1), "grad alone updates nothing");
    hop_fn_free(g), g = NULL;
    CLAIM(hop_vmap(&g, f, "x", NULL) == HOP_INVALID && strstr(hop_message(), "'state' is updated") &&
              strstr(hop_message(), "'x'"),
          "vmap over x alone: %s", hop_message());
    CLAIM(!hop_vmap(&g, f, "x, state: 1", NULL), "%s", hop_message());
    hop_tensor *batch[2] = { filled("f64[3, 2]", 1, 1), filled("f64[2, 3]", 0, 0) };
    CLAIM(!hop_interpret(g, batch, 2, out, 1) && number(batch[1], 0) == 1 && number(batch[1], 1) == 3 &&
              number(batch[1], 3) == 2,
          "each lane updates its own: %s", hop_message());
    free_all(batch, 2);
    free_all(out, 2);
    free_all(in, 2);
    hop_fn_free(g);
    hop_fn_free(f);
}

/* ---- gradients through what capture makes of assignments, against differences ---- */

struct arrays {
    hop_val a, b;
};
BODY(mutate_step)
{
    const struct arrays *w = env;
    hop_mul_to(hop_view(w->a, "::2"), hop_add(hop_int(1), in[1]));
    hop_add_to(hop_view_index(w->b, hop_rem(in[0], hop_int(3)), 0), hop_sum(hop_sin(w->a), "all"));
    out[0] = hop_add(in[0], hop_int(1));
    return 0;
}
BODY(mutating_scan)
{
    UNUSED;
    struct arrays w = { hop_variable(in[0]), hop_variable(hop_zeros("f64[3]")) };
    hop_val i = hop_number("i64", 0);
    hop_scan(&i, 1,
             &(hop_scan_spec){
                 .step = mutate_step, .env = &w, .carry = &i, .n_carry = 1, .xs = in, .n_xs = 1 });
    out[0] = hop_sum(hop_mul(w.a, hop_reshape(w.b, "-1")), "all");
    return 0;
}
BODY(grow_cond)
{
    const struct arrays *w = env;
    UNUSED;
    out[0] = hop_lt(hop_sum(w->a, "all"), hop_int(40));
    return 0;
}
BODY(grow_left)
{
    const struct arrays *w = env;
    UNUSED;
    (void)out;
    hop_mul_to(w->a, hop_scalar(1.5));
    return 0;
}
BODY(grow_right)
{
    const struct arrays *w = env;
    UNUSED;
    (void)out;
    hop_assign(w->a, hop_add(hop_mul(w->a, w->a), hop_int(1)));
    return 0;
}
BODY(grow_body)
{
    const struct arrays *w = env;
    hop_cond(NULL, 0,
             &(hop_cond_spec){ .pred = hop_gt(hop_slice(w->a, "0"), hop_scalar(2)),
                               .then = grow_left,
                               .otherwise = grow_right,
                               .env = env });
    out[0] = hop_add(in[0], hop_sum(w->a, "all"));
    return 0;
}
BODY(mutating_while)
{
    UNUSED;
    struct arrays w = { hop_variable(in[0]), in[0] };
    hop_val total = hop_number("f64", 0);
    hop_while(&total, 1,
              &(hop_while_spec){
                  .cond = grow_cond, .body = grow_body, .env = &w, .carry = &total, .n_carry = 1 });
    out[0] = hop_add(total, hop_sum(hop_sin(w.a), "all"));
    return 0;
}
BODY(square_row)
{
    (void)env;
    hop_assign(in[1], hop_mul(in[1], in[0]));
    out[0] = hop_add(in[0], hop_sum(in[1], "all"));
    return 0;
}
BODY(mutating_rows)
{
    UNUSED;
    hop_val rows = hop_variable(hop_mul(hop_expand(in[0], 1), in[0])), one = hop_number("f64", 1);
    hop_scan(&one, 1,
             &(hop_scan_spec){
                 .step = square_row, .carry = &one, .n_carry = 1, .xs = &rows, .n_xs = 1, .reverse = 1 });
    out[0] = hop_add(hop_sum(rows, "all"), one);
    return 0;
}

static double value_at(hop_fn *f, hop_tensor *x)
{
    hop_tensor *out[1] = { 0 };
    double v = hop_interpret(f, &x, 1, out, 1) ? NAN : number(out[0], 0);
    hop_tensor_free(out[0]);
    return v;
}
static void test_gradients(void)
{
    static const hop_body bodies[] = { mutating_scan, mutating_while, mutating_rows };
    for (size_t k = 0; k < HOP_COUNT(bodies); k++) {
        hop_fn *f = NULL, *g = NULL, *h = NULL, *v = NULL;
        hop_exe *exe = NULL;
        hop_tensor *x = filled("f64[3]", 0.3, 0.25), *out[2] = { 0 }, *rows = filled("f64[2, 3]", 0.3, 0.25),
                   *batch[1] = { 0 }, *second[1] = { 0 };
        CLAIM(!hop_capture(&f, "x: f64[N]", 1, bodies[k], NULL) && !hop_value_and_grad(&g, f, "x"),
              "program %zu: %s", k, hop_message());
        CLAIM(!hop_compile(&exe, g, how(0)) && !hop_run(exe, &x, 1, out, 2), "program %zu: %s", k,
              hop_message());
        for (int i = 0; i < 3; i++) {
            double *e = (double *)hop_data(x) + i, was = *e, up, down;
            *e = was + 1e-6, up = value_at(f, x);
            *e = was - 1e-6, down = value_at(f, x);
            *e = was;
            CLAIM(fabs((up - down) / 2e-6 - number(out[1], i)) < 1e-4 * fmax(1, fabs(number(out[1], i))),
                  "program %zu: derivative %d is %g, differences say %g", k, i, number(out[1], i),
                  (up - down) / 2e-6);
        }
        CLAIM(!hop_grad(&h, f, "x") && !hop_vmap(&v, h, "x", NULL) && !hop_interpret(v, &rows, 1, batch, 1) &&
                  near(number(batch[0], 1), number(out[1], 1)),
              "program %zu over a batch: %s", k, hop_message());
        hop_fn_free(h), h = NULL;
        CLAIM(!hop_hessian(&h, f, "x") && !hop_interpret(h, &x, 1, second, 1) &&
                  near(number(second[0], 1), number(second[0], 3)),
              "program %zu: its second derivatives are symmetric: %s", k, hop_message());
        free_all((hop_tensor *[]){ x, out[0], out[1], rows, batch[0], second[0] }, 6);
        hop_exe_free(exe);
        hop_fn_free(f);
        hop_fn_free(g);
        hop_fn_free(h);
        hop_fn_free(v);
    }
}

/* ---- functions ---- */

BODY(call_it)
{
    hop_val r[3];
    hop_call_fn(r, 3, env, in, 1);
    hop_val again = hop_stack((hop_val[]){ r[0], r[0] }, 2, 0);
    hop_call_fn(r, 3, env, &again, 1);
    out[0] = r[0];
    return 0;
}
BODY(call_update)
{
    hop_val state = hop_variable(in[1]);
    hop_call_fn(&out[0], 1, env, (hop_val[]){ in[0], state }, 2);
    out[1] = state;
    return 0;
}
static void test_eager_update_call(void)
{
    hop_fn *f = NULL;
    hop_tensor *in[2] = { filled("f64[2]", 1, 1), filled("f64[2]", 10, 0) }, *out[2] = { 0 };
    CLAIM(!hop_capture(&f, "x: f64[2], state: mut f64[2]", 1, accumulate, NULL), "%s", hop_message());
    CLAIM(!hop_eager(NULL, call_update, f, in, 2, out, 2) && number(out[0], 0) == 265 &&
              number(out[1], 1) == 12,
          "a function that updates, called in eager mode: %s", hop_message());
    free_all(out, 2);
    free_all(in, 2);
    hop_fn_free(f);
}
static void test_functions(void)
{
    hop_fn *f = NULL, *g = NULL, *h = NULL;
    hop_tensor *in[2] = { filled("f64[2]", 2, 1), filled("f64[2]", 10, 0) }, *out[2] = { 0 };
    CLAIM(!hop_capture(&f, "pair(x: f64[2])", 3, pair, NULL), "%s", hop_message());
    CLAIM(!strcmp(hop_fn_param_type(f, 0), "f64[2]") && !strcmp(hop_fn_result_type(f, 1), "f64[2]") &&
              !strcmp(hop_fn_param_name(f, 0), "x"),
          "a function says its types");
    CLAIM(!hop_fn_param_type(f, 1), "and only those it has");
    CLAIM(!strcmp(hop_fn_name(f), "pair") && hop_fn_dims(f) == 0 && !*hop_fn_dim_name(f, 0),
          "its name, and that it has no declared sizes");
    const char *repeat = "fn @repeat[dim K, dim L](%x: f32[N]) -> (f32[K, L]) {\n"
                         "  %y = full {dtype = f32, dims = [K, L], value = 1}\n  return %y\n}\n";
    CLAIM(!hop_fn_read(&h, repeat, NULL) && hop_fn_dims(h) == 2 && !strcmp(hop_fn_dim_name(h, 1), "L") &&
              !*hop_fn_dim_name(h, 2) && !strcmp(hop_fn_name(h), "repeat"),
          "declared sizes have names: %s", hop_message());
    hop_fn_free(h), h = NULL;
    const char *text = hop_fn_text(f);
    CLAIM(text && strstr(text, "fn @pair(%x: f64[2])") && !hop_fn_read(&g, text, "pair"),
          "a function's text reads back: %s", hop_message());
    CLAIM(!strcmp(hop_fn_text(g), text), "and prints the same");
    CLAIM(hop_fn_read(&h, text, "other") == HOP_INVALID &&
              !strcmp(hop_message(), "the program has no function @other; it has @pair"),
          "a name that is not there: %s", hop_message());
    CLAIM(!hop_vjp(&h, g, "#0") && hop_fn_params(h) == 3, "a parameter by its number: %s", hop_message());
    hop_fn_free(h), h = NULL;
    CLAIM(hop_vjp(&h, g, "#1") == HOP_INVALID && strstr(hop_message(), "no parameter #1; the function has 1"),
          "and one that is not there: %s", hop_message());
    CLAIM(hop_fn_read(&h, text, "other") == HOP_INVALID && hop_fn_read(&h, "fn @f(", NULL) == HOP_INVALID &&
              strstr(hop_message(), "text:1:"),
          "texts that are wrong: %s", hop_message());
    CLAIM(!hop_capture(&h, "x: f64[2]", 1, call_it, f), "a call of a function of another capture: %s",
          hop_message());
    CLAIM(!hop_interpret(h, in, 1, out, 1) && number(out[0], 0) == 36, "and its result");
    free_all(out, 2);
    hop_fn_free(f), f = NULL;
    hop_fn_free(g), g = NULL;
    hop_fn_free(h), h = NULL;
    CLAIM(!hop_capture(&f, "x: f64[2], state: mut f64[2]", 1, accumulate, NULL) &&
              !hop_capture(&h, "x: f64[2], s: f64[2]", 2, call_update, f),
          "a call that updates a variable: %s", hop_message());
    CLAIM(!hop_interpret(h, in, 2, out, 2) && number(out[1], 1) == 13 && number(in[1], 1) == 10, "%s",
          hop_message());
    free_all(out, 2);
    free_all(in, 2);
    hop_fn_free(hop_fn_ref(f));
    CLAIM(hop_fn_params(f) == 2, "references are counted");
    hop_fn_free(f);
    hop_fn_free(h);
#ifndef NDEBUG
    CLAIM(hop_grad(&g, f, "x") == HOP_INVALID && strstr(hop_message(), "freed"),
          "a freed function is noticed: %s", hop_message());
#endif
}

/* ---- executables ---- */

BODY(loop_step)
{
    (void)env;
    out[0] = hop_add(hop_mul(in[0], hop_scalar(0.5)), in[1]);
    out[1] = hop_tanh(out[0]);
    return 0;
}
BODY(looped) /* (h, xs) -> (last h, all tanh h) */
{
    UNUSED;
    return hop_scan(out, 2,
                    &(hop_scan_spec){
                        .step = loop_step, .carry = in, .n_carry = 1, .xs = &in[1], .n_xs = 1 });
}

static void test_runs(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { filled("f32[4]", 1, 1), filled("f32[6, 4]", 0, 0.1) }, *out[2] = { 0 },
               *given[2] = { filled("f32[4]", 0, 0), filled("f32[6, 4]", 0, 0) };
    CLAIM(!hop_capture(&f, "h: f32[N], xs: f32[T, N]", 2, looped, NULL) && !hop_compile(&exe, f, how(1)),
          "%s", hop_message());
    hop_fn_free(f);
    CLAIM(!hop_run(exe, in, 2, out, 2), "an executable outlives its function: %s", hop_message());
    CLAIM(!hop_run(exe, in, 2, given, 2) && !memcmp(hop_data(given[1]), hop_data(out[1]), 96),
          "outputs may be given");
    size_t bytes = 0;
    CLAIM(!hop_workspace(&bytes, exe, in, 2, NULL) && bytes, "the size of the workspace: %s", hop_message());
    void *workspace = malloc(bytes);
    hop_run_options o = { .workspace = workspace, .workspace_bytes = bytes };
    memset(hop_data(given[1]), 0, 96);
    uint64_t before = hop_allocation_count();
    hop_status status = hop_run_with(exe, in, 2, given, 2, &o);
    uint64_t made = hop_allocation_count() - before;
    CLAIM(!status && !memcmp(hop_data(given[1]), hop_data(out[1]), 96), "a run in the caller's memory: %s",
          hop_message());
    if (exe_available()) CLAIM(!made, "allocates nothing, made %llu", (unsigned long long)made);
    o.workspace_bytes = 8;
    CLAIM(hop_run_with(exe, in, 2, given, 2, &o) == HOP_INVALID && strstr(hop_message(), "workspace"),
          "a workspace that is too small: %s", hop_message());
    free(workspace);
    CLAIM(!hop_run(exe, in, 2, given, 2) && !memcmp(hop_data(given[0]), hop_data(out[0]), 16),
          "and a run without one after it");

    /* strided arguments and results; a result that is an argument's memory */
    hop_tensor *wide = filled("f32[6, 8]", 0, 0), *xs = NULL, *ys = NULL, *mixed[2];
    CLAIM(!hop_tensor_view(&xs, wide, ":, ::2") && !hop_tensor_view(&ys, wide, ":, 1::2") &&
              !hop_tensor_fill(xs, in[1]),
          "%s", hop_message());
    mixed[0] = in[0], mixed[1] = xs;
    hop_tensor *to[2] = { given[0], ys };
    CLAIM(!hop_run(exe, mixed, 2, to, 2) && ((float *)hop_data(wide))[47] == ((float *)hop_data(out[1]))[23],
          "strided arguments and results: %s", hop_message());
    hop_tensor *same[2] = { in[0], NULL };
    CLAIM(!hop_run(exe, in, 2, same, 2) && ((float *)hop_data(in[0]))[3] == ((float *)hop_data(out[0]))[3],
          "a result may be written over an argument");
    hop_tensor_free(same[1]);
    free_all((hop_tensor *[]){ wide, xs, ys }, 3);

    /* what does not fit; outputs stay as they are */
    hop_tensor *bad[2] = { in[0], filled("f32[6, 5]", 0, 0) }, *none[2] = { 0 };
    CLAIM(hop_run(exe, bad, 2, none, 2) == HOP_INVALID && strstr(hop_message(), "%xs") &&
              strstr(hop_message(), "(N) is 5") && strstr(hop_message(), "says 4") && !none[0] && !none[1],
          "sizes that differ: %s", hop_message());
    CLAIM(hop_run(exe, in, 1, none, 2) == HOP_INVALID && strstr(hop_message(), "takes 2 arguments, given 1"),
          "%s", hop_message());
    CLAIM(hop_run(exe, in, 2, none, 1) == HOP_INVALID &&
              strstr(hop_message(), "has 2 results, room given for 1"),
          "%s", hop_message());
    CLAIM(hop_run(exe, (hop_tensor *[]){ in[0], NULL }, 2, none, 2) == HOP_INVALID &&
              strstr(hop_message(), "argument 1"),
          "%s", hop_message());
    hop_tensor *doubles[2] = { filled("f64[4]", 0, 0), in[1] };
    CLAIM(hop_run(exe, doubles, 2, none, 2) == HOP_INVALID &&
              strstr(hop_message(), "expected f32[N], found f64[4]"),
          "%s", hop_message());
    memset(hop_data(given[0]), 0x11, 16);
    hop_tensor *half[2] = { given[0], bad[1] };
    CLAIM(hop_run(exe, in, 2, half, 2) == HOP_INVALID && *(unsigned char *)hop_data(given[0]) == 0x11,
          "a result of another size is noticed before anything is written: %s", hop_message());
    hop_tensor_free(bad[1]);
    hop_tensor_free(doubles[0]);
    hop_exe_free(exe);
#ifndef NDEBUG
    CLAIM(hop_run(exe, in, 2, none, 2) == HOP_INVALID && strstr(hop_message(), "freed"),
          "a freed executable is noticed: %s", hop_message());
#endif
    CLAIM(hop_compile(&exe, NULL, NULL) == HOP_INVALID, "nothing to compile");
    free_all(out, 2);
    free_all(given, 2);
    free_all(in, 2);
}

BODY(with_dims)
{
    UNUSED;
    out[0] = hop_full("f32[N, T]", hop_sum(in[0], "all"));
    return 0;
}
BODY(shown)
{
    UNUSED;
    hop_print("x is {} and its sum {}", (hop_val[]){ in[0], hop_sum(in[0], "all") }, 2);
    hop_check(hop_lt(hop_sum(in[0], "all"), hop_int(10)), "the sum is small", in, 1);
    out[0] = in[0];
    return 0;
}
static char lines[256];
static void keep_line(void *ctx, const char *line, size_t length)
{
    ++*(int *)ctx;
    snprintf(lines, sizeof lines, "%.*s", (int)length, line);
}
static void test_effects(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[1] = { filled("f32[2]", 1, 1) }, *out[1] = { 0 };
    int count = 0;
    hop_run_options o = { .print = keep_line, .print_ctx = &count };
    CLAIM(!hop_capture(&f, "x: f32[2]", 1, shown, NULL) && !hop_compile(&exe, f, how(0)), "%s",
          hop_message());
    CLAIM(!hop_run_with(exe, in, 1, out, 1, &o) && count == 1 && strstr(lines, "x is [1, 2] and its sum 3"),
          "printed: %s", lines);
    lines[0] = 0;
    CLAIM(!hop_interpret_with(f, in, 1, out, 1, &o) && count == 2 &&
              strstr(lines, "x is [1, 2] and its sum 3"),
          "printed by the interpreter: %s", lines);
    CLAIM(!hop_run(exe, in, 1, out, 1), "without a callback lines are dropped");
    ((float *)hop_data(in[0]))[0] = 20;
    CLAIM(hop_run(exe, in, 1, out, 1) == HOP_CHECK && strstr(hop_message(), "api_test.c:") &&
              strstr(hop_message(), "the sum is small"),
          "a failed check says where: %s", hop_message());
    CLAIM(hop_interpret(f, in, 1, out, 1) == HOP_CHECK && strstr(hop_message(), "api_test.c:"),
          "so does the interpreter: %s", hop_message());
    hop_exe_free(exe), exe = NULL;
    hop_fn_free(f), f = NULL;
    free_all(out, 1);
    CLAIM(!hop_capture(&f, "[dim N](x: f32[T])", 1, with_dims, NULL) && !hop_compile(&exe, f, how(0)), "%s",
          hop_message());
    int64_t n = 3;
    o = (hop_run_options){ .dims = &n };
    CLAIM(!hop_run_with(exe, in, 1, out, 1, &o) && hop_tensor_dim(out[0], 0) == 3 && number(out[0], 5) == 22,
          "sizes given to a run: %s", hop_message());
    free_all(out, 1);
    CLAIM(hop_run(exe, in, 1, out, 1) == HOP_INVALID && strstr(hop_message(), "'N'"), "and not given: %s",
          hop_message());
    free_all(in, 1);
    hop_exe_free(exe);
    hop_fn_free(f);
}

BODY(forever_cond)
{
    (void)env;
    out[0] = hop_ge(in[0], hop_int(0));
    return 0;
}
BODY(forever_body)
{
    (void)env;
    out[0] = hop_rem(hop_add(in[0], hop_int(1)), hop_int(7));
    return 0;
}
BODY(forever)
{
    UNUSED;
    return hop_while(out, 1,
                     &(hop_while_spec){
                         .cond = forever_cond, .body = forever_body, .carry = in, .n_carry = 1 });
}

struct endless {
    hop_exe *exe;
    volatile int cancel;
    hop_status status;
};
static void *run_endless(void *arg)
{
    struct endless *e = arg;
    hop_tensor *in[1] = { 0 }, *out[1] = { 0 };
    hop_tensor_new(&in[0], "i64[]");
    e->status = hop_run_with(e->exe, in, 1, out, 1, &(hop_run_options){ .cancel = &e->cancel });
    hop_tensor_free(in[0]);
    hop_tensor_free(out[0]);
    return NULL;
}
static void test_cancel(void)
{
    hop_fn *f = NULL;
    struct endless e = { 0 };
    pthread_t thread;
    CLAIM(!hop_capture(&f, "x: i64[]", 1, forever, NULL) && !hop_compile(&e.exe, f, how(0)), "%s",
          hop_message());
    CLAIM(!pthread_create(&thread, NULL, run_endless, &e), "a thread");
    struct timespec moment = { 0, 20000000 };
    nanosleep(&moment, NULL);
    e.cancel = 1;
    pthread_join(thread, NULL);
    CLAIM(e.status == HOP_CANCELLED, "an endless loop ends when another thread says so: %d", e.status);
    hop_exe_free(e.exe);
    hop_fn_free(f);
}

/* ---- running out of memory ---- */

static hop_status everything(void)
{
    hop_fn *f = NULL, *g = NULL, *h = NULL, *j = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { 0 }, *out[4] = { 0 }, *more[1] = { 0 };
    hop_status status;
    if ((status = (hop_status)hop_capture(&f, "x: f64[N], w: f64[N]", 1, cubes, NULL)) ||
        (status = hop_tensor_new(&in[0], "f64[2]")) || (status = hop_tensor_new(&in[1], "f64[2]")) ||
        (status = hop_value_and_grad(&g, f, "x")) || (status = hop_vmap(&h, g, "x", NULL)) ||
        (status = hop_jacrev(&j, f, "w")) ||
        (status = hop_compile(&exe, g, &(hop_compile_options){ .portable = 1 })) ||
        (status = hop_run(exe, in, 2, out, 2)) || (status = hop_interpret(f, in, 2, more, 1)) ||
        (status = hop_fn_text(h) ? HOP_OK : HOP_NOMEM))
        goto done;
done:
    free_all(in, 2);
    free_all(out, 4);
    free_all(more, 1);
    hop_exe_free(exe);
    hop_fn_free(j);
    hop_fn_free(f);
    hop_fn_free(h);
    hop_fn_free(g);
    return status;
}

static void test_out_of_memory(void)
{
    CLAIM(!everything(), "%s", hop_message());
    int64_t live = hop_live_allocations();
    hop_status status = HOP_NOMEM;
    uint64_t n = 1;
    for (; status && n < 20000; n++) {
        hop_fail_allocation(n);
        status = everything();
        hop_fail_allocation(0);
        if (status && status != HOP_NOMEM)
            CLAIM(0, "allocation %llu fails: status %d, %s", (unsigned long long)n, status, hop_message());
        if (hop_live_allocations() != live) {
            CLAIM(0, "allocation %llu fails: %lld blocks leak", (unsigned long long)n,
                  (long long)(hop_live_allocations() - live));
            return;
        }
    }
    CLAIM(!status && n > 50, "capture, transform, compile, run with each of %llu allocations failing",
          (unsigned long long)n);
}

int main(void)
{
    int64_t live = hop_live_allocations();
    test_tensors();
    test_transforms();
    test_update_transforms();
    test_gradients();
    test_functions();
    test_eager_update_call();
    test_runs();
    test_effects();
    test_cancel();
    CLAIM(hop_live_allocations() == live, "%lld blocks leak", (long long)(hop_live_allocations() - live));
    test_out_of_memory();
    return tests_end();
}
