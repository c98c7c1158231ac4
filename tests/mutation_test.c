/* Arguments that a run writes: which are computed in their own memory and which are copied, and why;
 * donation; tensors that overlap; runs that fail; and that repeated runs allocate nothing. Every program runs
 * natively and as a loop program, against the interpreter, bit for bit. */
#include "check.h"
#include "runtime/exe.h"

#include <math.h>

#define BODY(name) static int name(void *env, const hop_val *in, hop_val *out)
#define UNUSED (void)env, (void)in, (void)out

static uint64_t noise_state = 88172645463325252u;
static float noise(void)
{
    noise_state ^= noise_state << 13, noise_state ^= noise_state >> 7, noise_state ^= noise_state << 17;
    return (float)((double)(noise_state >> 11) / 9007199254740992.0 - 0.5);
}
static hop_tensor *random_tensor(const char *type)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
    for (int64_t i = 0; t && i < hop_tensor_count(t); i++) {
        if (!strcmp(hop_tensor_dtype(t), "i64")) ((int64_t *)hop_data(t))[i] = (int64_t)(noise() * 10) + 5;
        else ((float *)hop_data(t))[i] = noise();
    }
    return t;
}
static void free_all(hop_tensor **t, int n)
{
    for (int i = 0; i < n; i++) hop_tensor_free(t[i]), t[i] = NULL;
}
static bool same(const hop_tensor *a, const hop_tensor *b)
{
    const struct tensor *x = (const struct tensor *)a, *y = (const struct tensor *)b;
    return x && y && x->count == y->count && x->dtype == y->dtype &&
           !memcmp(x->data, y->data, (size_t)x->count * dtype_info[x->dtype].size);
}
static int first_way(void)
{
    return exe_available() ? 0 : 1;
} /* ways to compile: native, and the loop program itself */

/* ---- programs and what becomes of their first argument ---- */

BODY(elementwise)
{
    UNUSED;
    hop_assign(in[0], hop_add(hop_mul(in[0], hop_scalar(0.5)), in[1]));
    return 0;
}
BODY(window)
{
    UNUSED;
    hop_add_to(hop_view(in[0], "3:7"), hop_slice(in[1], "0:4"));
    return 0;
}
BODY(windows)
{
    UNUSED;
    hop_assign(hop_view(in[0], "0:2"), hop_int(7));
    hop_mul_to(hop_view(in[0], "1:5"), hop_slice(in[0], "5:9"));
    hop_assign(hop_view_index(in[0], in[2], 0), hop_sum(in[0], "all"));
    return 0;
}
BODY(strided_window)
{
    UNUSED;
    hop_add_to(hop_view(in[0], "::3"), hop_int(1));
    return 0;
}
BODY(strided_assign)
{
    UNUSED;
    hop_assign(hop_view(in[0], "1::3"), hop_scalar(0.5));
    return 0;
}
BODY(reversed)
{
    UNUSED;
    hop_assign(in[0], hop_reverse(in[0], "0"));
    return 0;
}
BODY(shifted)
{
    UNUSED;
    hop_assign(hop_view(in[0], "1:"), hop_slice(in[0], ":-1"));
    return 0;
}
BODY(swapped)
{
    UNUSED;
    hop_val a = hop_current(in[0]);
    hop_assign(in[0], in[1]);
    hop_assign(in[1], a);
    return 0;
}
BODY(old_and_new)
{
    UNUSED;
    out[0] = hop_current(in[0]);
    hop_add_to(in[0], in[1]);
    return 0;
}
BODY(read_later)
{
    UNUSED;
    hop_val old = hop_current(in[0]);
    hop_assign(in[0], hop_exp(in[1]));
    out[0] = hop_sum(hop_mul(old, hop_take(in[0],
                                           hop_clamp(hop_cast(hop_mul(in[0], hop_int(3)), "i64"), hop_int(0),
                                                     hop_int(5)),
                                           0)),
                     "all");
    return 0;
}
BODY(rows_summed)
{
    UNUSED;
    hop_sub_to(in[0], hop_mean(in[0], "all"));
    out[0] = hop_sum(in[0], "all");
    return 0;
}
BODY(step)
{
    (void)env;
    out[0] = hop_add(hop_mul(in[0], hop_scalar(0.9)), in[1]);
    return 0;
}
BODY(scanned)
{
    UNUSED;
    hop_val r;
    hop_scan(&r, 1, &(hop_scan_spec){ .step = step, .carry = in, .n_carry = 1, .xs = &in[1], .n_xs = 1 });
    hop_assign(in[0], r);
    return 0;
}
BODY(writing_step)
{
    const hop_val *a = env;
    hop_assign(hop_view_index(*a, in[0], 0), hop_add(hop_index(*a, hop_sub(in[0], hop_int(1)), 0), in[1]));
    out[0] = hop_add(in[0], hop_int(1));
    return 0;
}
BODY(scan_writes)
{
    UNUSED;
    hop_val one = hop_number("i64", 1);
    return hop_scan(&one, 1,
                    &(hop_scan_spec){ .step = writing_step,
                                      .env = (void *)&in[0],
                                      .carry = &one,
                                      .n_carry = 1,
                                      .xs = &in[1],
                                      .n_xs = 1 });
}
BODY(row_step)
{
    (void)env;
    hop_mul_to(in[1], in[0]);
    out[0] = hop_add(in[0], hop_scalar(0.25));
    return 0;
}
BODY(scan_slices)
{
    UNUSED;
    hop_val one = hop_number("f32", 1);
    return hop_scan(&one, 1,
                    &(hop_scan_spec){
                        .step = row_step, .carry = &one, .n_carry = 1, .xs = &in[0], .n_xs = 1 });
}
BODY(small_sum)
{
    const hop_val *a = env;
    (void)in;
    out[0] = hop_lt(hop_sum(hop_mul(*a, *a), "all"), hop_int(1000));
    return 0;
}
BODY(grow)
{
    const hop_val *a = env;
    hop_mul_to(*a, hop_scalar(1.25));
    out[0] = hop_add(in[0], hop_int(1));
    return 0;
}
BODY(while_writes)
{
    UNUSED;
    hop_val zero = hop_number("i64", 0);
    return hop_while(&out[0], 1,
                     &(hop_while_spec){ .cond = small_sum,
                                        .body = grow,
                                        .env = (void *)&in[0],
                                        .carry = &zero,
                                        .n_carry = 1,
                                        .max_trips = "100" });
}
BODY(add_one)
{
    const hop_val *a = env;
    (void)in, (void)out;
    hop_add_to(*a, hop_int(1));
    return 0;
}
BODY(write_row)
{
    const hop_val *a = env;
    (void)in, (void)out;
    hop_assign(hop_view(*a, "0"), hop_int(9));
    return 0;
}
BODY(nothing)
{
    UNUSED;
    return 0;
}
BODY(branch_writes)
{
    UNUSED;
    hop_body list[3] = { add_one, nothing, write_row };
    return hop_switch(NULL, 0,
                      &(hop_switch_spec){ .index = hop_rem(in[2], hop_int(3)),
                                          .branches = list,
                                          .n_branches = 3,
                                          .env = (void *)&in[0] });
}
BODY(product)
{
    UNUSED;
    hop_assign(in[0], hop_matmul(in[0], in[1]));
    return 0;
}
BODY(replaced_by_product)
{
    UNUSED;
    hop_assign(in[0], hop_matmul(in[1], in[1]));
    return 0;
}
BODY(counter)
{
    UNUSED;
    hop_add_to(in[0], hop_mul(in[1], in[0]));
    out[0] = hop_mul(in[0], hop_int(2));
    return 0;
}
BODY(transposed_view)
{
    UNUSED;
    hop_add_to(hop_view(hop_view_transpose(in[0]), "1:3"), hop_int(2));
    return 0;
}

static const struct in_place {
    const char *name, *params;
    hop_body body;
    int n_in, n_out;
    const char *types[3], *report; /* report: what it says of argument 0 */
} in_place[] = {
    { "elementwise", "a: mut f32[N], b: f32[N]", elementwise, 2, 0, { "f32[100]", "f32[100]" }, "in place" },
    { "a window", "a: mut f32[N], b: f32[M]", window, 2, 0, { "f32[300]", "f32[9]" }, "in place" },
    { "a window of a small array",
      "a: mut f32[9], b: f32[9]",
      window,
      2,
      0,
      { "f32[9]", "f32[9]" },
      "in place" },
    { "several windows",
      "a: mut f32[N], b: f32[N], i: i64[]",
      windows,
      3,
      0,
      { "f32[300]", "f32[300]", "i64[]" },
      "in place" },
    { "every third element",
      "a: mut f32[N], b: f32[N]",
      strided_assign,
      2,
      0,
      { "f32[100]", "f32[100]" },
      "in place" },
    { "every third element from itself",
      "a: mut f32[N], b: f32[N]",
      strided_window,
      2,
      0,
      { "f32[100]", "f32[100]" },
      "in place" },
    { "reversed",
      "a: mut f32[N], b: f32[N]",
      reversed,
      2,
      0,
      { "f32[100]", "f32[100]" },
      "copied at the end" },
    { "shifted", "a: mut f32[300], b: f32[300]", shifted, 2, 0, { "f32[300]", "f32[300]" }, "in place" },
    { "swapped",
      "a: mut f32[N], b: mut f32[N]",
      swapped,
      2,
      0,
      { "f32[100]", "f32[100]" },
      "copied at the end" },
    { "old and new",
      "a: mut f32[N], b: f32[N]",
      old_and_new,
      2,
      1,
      { "f32[100]", "f32[100]" },
      "copied at the end" },
    { "read later",
      "a: mut f32[N], b: f32[N]",
      read_later,
      2,
      1,
      { "f32[100]", "f32[100]" },
      "copied at the end" },
    { "a sum first",
      "a: mut f32[N], b: f32[N]",
      rows_summed,
      2,
      1,
      { "f32[1000]", "f32[1000]" },
      "in place" },
    { "a carry", "a: mut f32[N], b: f32[T, N]", scanned, 2, 0, { "f32[700]", "f32[5, 700]" }, "in place" },
    { "writes in a scan",
      "a: mut f32[N], b: f32[T]",
      scan_writes,
      2,
      0,
      { "f32[700]", "f32[50]" },
      "in place" },
    { "slices of xs", "a: mut f32[T, N], b: f32[N]", scan_slices, 2, 0, { "f32[5, 70]", "f32[70]" }, "" },
    { "writes in a while",
      "a: mut f32[N], b: f32[N]",
      while_writes,
      2,
      1,
      { "f32[700]", "f32[700]" },
      "in place" },
    { "writes in branches",
      "a: mut f32[N, M], b: f32[N], i: i64[]",
      branch_writes,
      3,
      0,
      { "f32[30, 30]", "f32[30]", "i64[]" },
      "in place" },
    { "a product of itself",
      "a: mut f32[N, N], b: f32[N, N]",
      product,
      2,
      0,
      { "f32[30, 30]", "f32[30, 30]" },
      "" },
    { "a product of others",
      "a: mut f32[N, N], b: f32[N, N]",
      replaced_by_product,
      2,
      0,
      { "f32[30, 30]", "f32[30, 30]" },
      "in place" },
    { "a scalar", "a: mut f32[], b: f32[]", counter, 2, 1, { "f32[]", "f32[]" }, "in place" },
    { "a transposed window",
      "a: mut f32[N, M], b: f32[N]",
      transposed_view,
      2,
      0,
      { "f32[40, 50]", "f32[40]" },
      "" },
};

static void check_in_place(const struct in_place *p, hop_fn *f, const hop_compile_options *o, const char *how)
{
    hop_exe *exe = NULL;
    CLAIM(!hop_compile(&exe, f, o), "%s, %s: %s", p->name, how, hop_message());
    for (int round = 0; exe && round < 4; round++) {
        hop_tensor *a[3] = { 0 }, *b[3] = { 0 }, *x[1] = { 0 }, *y[1] = { 0 };
        for (int i = 0; i < p->n_in; i++) {
            a[i] = random_tensor(p->types[i]);
            CLAIM(!hop_tensor_copy(&b[i], a[i]), "%s", hop_message());
        }
        void *memory = hop_data(b[0]);
        char *report = hop_explain_run(exe, b, p->n_in, NULL, 0);
        if (!round && !o->without)
            CLAIM(report && strstr(report, p->report), "%s, %s: expected '%s', the report says: %s", p->name,
                  how, p->report, report ? report : hop_message());
        hop_text_free(report);
        CLAIM(!hop_interpret(f, a, p->n_in, x, p->n_out), "%s: %s", p->name, hop_message());
        CLAIM(!hop_run(exe, b, p->n_in, y, p->n_out), "%s, %s: %s", p->name, how, hop_message());
        CLAIM(hop_data(b[0]) == memory, "%s: the argument stays where it is", p->name);
        for (int i = 0; i < p->n_in; i++)
            CLAIM(same(a[i], b[i]), "%s, %s: argument %d is not what the interpreter makes of it", p->name,
                  how, i);
        for (int i = 0; i < p->n_out; i++)
            CLAIM(same(x[i], y[i]), "%s, %s: result %d differs", p->name, how, i);
        free_all(a, 3), free_all(b, 3), free_all(x, 1), free_all(y, 1);
    }
    hop_exe_free(exe);
}

/* Printed and read, a function updates what it did: the text, the questions about it and its runs are the
 * same. */
static hop_fn *read_again(hop_fn *f, const char *name)
{
    hop_fn *g = NULL;
    const char *text = hop_fn_text(f);
    CLAIM(text && strstr(text, ": mut ") && strstr(text, "new %"), "%s: its text says what is updated:\n%s",
          name, text ? text : hop_message());
    CLAIM(text && !hop_fn_read(&g, text, NULL), "%s: its text reads: %s\n%s", name, hop_message(), text);
    CLAIM(g && !strcmp(hop_fn_text(g), text), "%s: the text stays the same:\n%s", name, text);
    CLAIM(g && hop_fn_results(g) == hop_fn_results(f), "%s: the same results", name);
    for (int i = 0; g && i < hop_fn_params(f); i++)
        CLAIM(hop_fn_param_is_mut(g, i) == hop_fn_param_is_mut(f, i), "%s: parameter %d is updated as before",
              name, i);
    return g;
}

/* What transforms make of a function that updates its first parameter: which of their results are new
 * contents, and that their texts read. */
static void test_transformed_text(void)
{
    typedef hop_status (*transform)(hop_fn **out, hop_fn *f, const char *wrt);
    static const struct {
        const char *name;
        transform make;
        int results;
        bool mut;
    } list[] = {
        { "grad", hop_grad, 1, false },     { "value_and_grad", hop_value_and_grad, 2, true },
        { "vjp", hop_vjp, 2, false },       { "jvp", hop_jvp, 2, false },
        { "jacrev", hop_jacrev, 1, false }, { "jacfwd", hop_jacfwd, 1, false },
    };
    static const char text[] = "fn @f(%a: mut f64[3], %b: mut f64[], %c: f64[3]) -> (new %a, f64[], new %b) "
                               "{\n  %d = mul(%a, %c)\n  %s = sum(%d)\n  return %d, %s, %s\n}\n";
    hop_fn *f = NULL;
    CLAIM(!hop_fn_read(&f, text, "f"), "%s", hop_message());
    CLAIM(hop_fn_results(f) == 1 && hop_fn_param_is_mut(f, 0) && hop_fn_param_is_mut(f, 1) &&
              !hop_fn_param_is_mut(f, 2),
          "what it updates");
    for (size_t k = 0; k < HOP_COUNT(list); k++) {
        hop_fn *g = NULL, *h = NULL;
        CLAIM(!list[k].make(&g, f, "c"), "%s: %s", list[k].name, hop_message());
        CLAIM(hop_fn_results(g) == list[k].results, "%s has %d results", list[k].name, hop_fn_results(g));
        for (int i = 0; i < 2; i++)
            CLAIM(hop_fn_param_is_mut(g, i) == list[k].mut, "%s: parameter %d", list[k].name, i);
        CLAIM(!hop_fn_read(&h, hop_fn_text(g), NULL) && !strcmp(hop_fn_text(g), hop_fn_text(h)),
              "%s: its text reads: %s\n%s", list[k].name, hop_message(), hop_fn_text(g));
        CLAIM(hop_fn_results(h) == list[k].results && hop_fn_param_is_mut(h, 0) == list[k].mut,
              "%s: and says the same", list[k].name);
        hop_fn_free(g), hop_fn_free(h);
    }
    hop_fn *v = NULL, *w = NULL;
    hop_tensor *in[3] = { random_tensor("f64[3]"), random_tensor("f64[]"), random_tensor("f64[3]") },
               *out[2] = { NULL, NULL };
    static const double a[3] = { 1, 2, 3 }, c[3] = { 2, 0, 1 };
    memcpy(hop_data(in[0]), a, sizeof a), memcpy(hop_data(in[2]), c, sizeof c);
    CLAIM(!hop_value_and_grad(&v, f, "c") && !hop_interpret(v, in, 3, out, 2), "%s", hop_message());
    const double *x = hop_data(in[0]), *y = hop_data(in[1]);
    CLAIM(out[1] && *(const double *)hop_data(out[0]) == 5 && !memcmp(hop_data(out[1]), a, sizeof a),
          "the value, and its gradient at the content on entry");
    CLAIM(x[0] == 2 && x[1] == 0 && x[2] == 3 && *y == 5, "and both arguments are updated");
    free_all(in, 3), free_all(out, 2);
    hop_fn_free(v), v = NULL;
    CLAIM(!hop_vmap(&v, f, "a: 1, b, c", NULL) && hop_fn_results(v) == 1 && hop_fn_param_is_mut(v, 0) &&
              hop_fn_param_is_mut(v, 1),
          "vmap keeps updates: %s", hop_message());
    CLAIM(!hop_fn_read(&w, hop_fn_text(v), NULL) && hop_fn_param_is_mut(w, 0), "its text reads: %s",
          hop_message());
    hop_fn_free(w), w = NULL;
    CLAIM(hop_vmap(&w, f, "a", NULL) == HOP_INVALID &&
              strstr(hop_message(), "'b' is updated, differently for each lane of 'a'"),
          "b has no lanes: %s", hop_message());
    hop_fn_free(v), hop_fn_free(f);
}

static void test_in_place(void)
{
    for (size_t k = 0; k < HOP_COUNT(in_place); k++) {
        hop_fn *f = NULL;
        CLAIM(!hop_capture(&f, in_place[k].params, in_place[k].n_out, in_place[k].body, NULL), "%s: %s",
              in_place[k].name, hop_message());
        for (int portable = first_way(); f && portable < 2; portable++) {
            check_in_place(&in_place[k], f, &(hop_compile_options){ .strict = 1, .portable = portable },
                           portable ? "loop program" : "native");
            check_in_place(&in_place[k], f,
                           &(hop_compile_options){ .strict = 1, .portable = portable, .without = "inplace" },
                           "not in place");
            check_in_place(&in_place[k], f,
                           &(hop_compile_options){ .strict = 1, .portable = portable, .without = "fuse" },
                           "not fused");
        }
        hop_fn *read = f ? read_again(f, in_place[k].name) : NULL;
        if (read)
            check_in_place(&in_place[k], read, &(hop_compile_options){ .strict = 1, .portable = 1 },
                           "read from text");
        hop_fn_free(read);
        hop_fn_free(f);
    }
}

/* ---- tensors that overlap ---- */

BODY(add_second)
{
    UNUSED;
    hop_assign(in[0], hop_add(in[0], hop_reverse(in[1], "0")));
    out[0] = hop_mul(in[1], hop_int(2));
    return 0;
}

static void test_overlap(void)
{
    hop_fn *f = NULL, *two = NULL;
    CLAIM(!hop_capture(&f, "a: mut f32[N], b: f32[N]", 1, add_second, NULL) &&
              !hop_capture(&two, "a: mut f32[N], b: mut f32[N]", 0, swapped, NULL),
          "%s", hop_message());
    static const char *const views[][2] = { { ":8", ":8" },   { ":8", "2:10" },  { "2:10", ":8" },
                                            { ":8", "::2" },  { "7::-1", ":8" }, { "::2", "1::2" },
                                            { "::2", "::2" }, { "0:8", "8:16" } };
    for (size_t k = 0; k < HOP_COUNT(views); k++)
        for (int portable = first_way(); portable < 2; portable++)
            for (int given = 0; given < 3;
                 given++) { /* no output, one that is argument 1, one that overlaps it */
                hop_exe *exe = NULL;
                hop_tensor *base = random_tensor("f32[16]"), *a[2] = { 0 }, *want[2] = { 0 }, *x[1] = { 0 },
                           *y[1] = { 0 };
                CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .strict = 1, .portable = portable }),
                      "%s", hop_message());
                for (int i = 0; i < 2; i++) {
                    CLAIM(!hop_tensor_view(&a[i], base, views[k][i]) && !hop_tensor_copy(&want[i], a[i]),
                          "%s", hop_message());
                }
                if (given)
                    CLAIM(!hop_tensor_view(&y[0], base, given == 1 ? views[k][1] : "4:12"), "%s",
                          hop_message());
                CLAIM(!hop_interpret(f, want, 2, x, 1), "%s", hop_message());
                hop_status status = hop_run(exe, a, 2, y, 1);
                if (status)
                    CLAIM(status == HOP_INVALID && given && strstr(hop_message(), "same memory"),
                          "views %zu: %s", k, hop_message());
                else {
                    hop_tensor *got[2] = { 0 };
                    CLAIM(!hop_tensor_copy(&got[0], a[0]) && !hop_tensor_copy(&got[1], y[0]), "%s",
                          hop_message());
                    CLAIM(same(got[0], want[0]) && same(got[1], x[0]),
                          "views %zu, output %d: results are as if all had been read first", k, given);
                    free_all(got, 2);
                }
                free_all(a, 2), free_all(want, 2), free_all(x, 1), free_all(y, 1);
                hop_tensor_free(base);
                hop_exe_free(exe);
            }
    hop_exe *exe = NULL;
    hop_tensor *t = random_tensor("f32[100]"), *pair[2] = { t, t }, *halves[2] = { 0 }, *copy = NULL;
    CLAIM(!hop_compile(&exe, two, &(hop_compile_options){ .portable = first_way() }), "%s", hop_message());
    CLAIM(!hop_tensor_copy(&copy, t), "%s", hop_message());
    CLAIM(hop_run(exe, pair, 2, NULL, 0) == HOP_INVALID &&
              strstr(hop_message(), "updated argument 0 and updated argument 1 are given the same memory"),
          "one tensor updated twice: %s", hop_message());
    CLAIM(same(t, copy), "and it is as it was");
    CLAIM(!hop_tensor_view(&halves[0], t, "::2") && !hop_tensor_view(&halves[1], t, "1::2") &&
              !hop_run(exe, halves, 2, NULL, 0),
          "elements that interleave do not overlap: %s", hop_message());
    CLAIM(((float *)hop_data(t))[0] == ((float *)hop_data(copy))[1] &&
              ((float *)hop_data(t))[99] == ((float *)hop_data(copy))[98],
          "and are swapped");
    char *report = hop_explain_run(exe, halves, 2, NULL, 0);
    CLAIM(report && strstr(report, "argument 0, 'a', updated: copied before the run, it is not row-major"),
          "%s", report);
    hop_text_free(report);
    hop_exe_free(exe);
    exe = NULL;
    CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .portable = first_way() }), "%s", hop_message());
    report = hop_explain_run(exe, pair, 2, NULL, 0);
    CLAIM(report &&
              strstr(report,
                     "argument 0, 'a', updated: copied before the run, it shares memory with argument 1"),
          "%s", report);
    hop_text_free(report);
    free_all(halves, 2);
    hop_tensor_free(t);
    hop_tensor_free(copy);
    hop_exe_free(exe);
    hop_fn_free(f);
    hop_fn_free(two);
}

/* ---- donation ---- */

BODY(descend) /* (w, g, rate) -> (w - rate g, |g|^2) */
{
    UNUSED;
    out[0] = hop_sub(in[0], hop_mul(in[2], in[1]));
    out[1] = hop_sum(hop_mul(in[1], in[1]), "all");
    return 0;
}

static void test_donation(void)
{
    hop_fn *f = NULL;
    CLAIM(!hop_capture(&f, "w: f32[N], g: f32[N], rate: f32[]", 2, descend, NULL), "%s", hop_message());
    for (int portable = first_way(); portable < 2; portable++) {
        hop_exe *exe = NULL;
        CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .portable = portable, .donate = "w, rate" }),
              "%s", hop_message());
        int64_t live = hop_live_allocations();
        hop_tensor *in[3] = { random_tensor("f32[100]"), random_tensor("f32[100]"), random_tensor("f32[]") },
                   *out[2] = { 0 }, *w = in[0], *was = NULL, *want[2] = { 0 };
        CLAIM(!hop_interpret(f, in, 3, want, 2), "%s", hop_message());
        char *report = hop_explain_run(exe, in, 3, NULL, 0);
        CLAIM(report && strstr(report, "'w', donated: in place") &&
                  strstr(report, "'rate', donated: in place"),
              "%s", report);
        hop_text_free(report);
        CLAIM(!hop_run(exe, in, 3, out, 2) && out[0] == w &&
                  fabs(*(float *)hop_data(out[0]) - *(float *)hop_data(want[0])) < 1e-6,
              "the result is the donated tensor: %s", hop_message());
        free_all(want, 2);
        /* somebody else holds the tensor: it is not touched */
        in[0] = hop_tensor_ref(out[0]);
        CLAIM(!hop_tensor_copy(&was, out[0]), "%s", hop_message());
        in[2] = random_tensor("f32[]");
        hop_tensor *next[2] = { 0 };
        report = hop_explain_run(exe, in, 3, NULL, 0);
        CLAIM(report && strstr(report, "copied before the run, somebody else holds it too"), "%s", report);
        hop_text_free(report);
        CLAIM(!hop_run(exe, in, 3, next, 2) && next[0] != w && same(w, was),
              "a tensor that others hold is copied: %s", hop_message());
        free_all(next, 2);
        /* given as output as well */
        hop_tensor *same_out[2] = { out[0], out[1] };
        in[0] = out[0];
        in[2] = random_tensor("f32[]");
        CLAIM(!hop_run(exe, in, 3, same_out, 2) && same_out[0] == w && !same(w, was),
              "a donated tensor may be the output: %s", hop_message());
        /* kept */
        in[0] = w;
        in[2] = random_tensor("f32[]");
        hop_tensor_free(was);
        was = NULL;
        CLAIM(!hop_tensor_copy(&was, w) &&
                  !hop_run_with(exe, in, 3, next, 2, &(hop_run_options){ .keep = 1 }) && next[0] != w &&
                  same(w, was),
              "kept arguments stay: %s", hop_message());
        free_all(next, 2);
        hop_tensor *twice[3] = { in[0], in[1], in[2] };
        twice[1] = hop_tensor_ref(twice[0]);
        CLAIM(!hop_run(exe, twice, 3, next, 2) && next[0] != w,
              "a donated tensor that is also read elsewhere is copied: %s", hop_message());
        free_all(next, 2);
        hop_tensor_free(twice[1]);
        hop_tensor_free(out[1]);
        hop_tensor_free(in[1]);
        hop_tensor_free(was);
        CLAIM(hop_live_allocations() - live <= 2, "%lld blocks of donated tensors leak",
              (long long)(hop_live_allocations() - live)); /* what the executable keeps for its next run */
        hop_exe_free(exe);
        exe = NULL;
        CLAIM(hop_compile(&exe, f, &(hop_compile_options){ .portable = portable, .donate = "w, q" }) ==
                      HOP_INVALID &&
                  strstr(hop_message(), "donate: there is no parameter 'q'"),
              "%s", hop_message());
    }
    hop_fn_free(f);
}

/* ---- a gradient step, again and again ---- */

BODY(loss)
{
    UNUSED;
    hop_val e = hop_sub(hop_matmul(in[2], hop_tanh(hop_matmul(in[0], in[1]))), in[3]);
    out[0] = hop_mean(hop_mul(e, e), "all");
    return 0;
}
BODY(train_step) /* (w, v, x, y): w and v are updated */
{
    hop_val r[3];
    hop_call_fn(r, 3, env, in, 4);
    hop_sub_to(in[0], hop_mul(hop_scalar(0.1), r[1]));
    hop_sub_to(in[1], hop_mul(hop_scalar(0.1), r[2]));
    out[0] = r[0];
    return 0;
}

static void test_training(void)
{
    static const char *const types[4] = { "f32[32, 32]", "f32[32, 8]", "f32[64, 32]", "f32[64, 8]" };
    hop_fn *f = NULL, *g = NULL, *s = NULL;
    CLAIM(!hop_capture(&f, "w: f32[32, 32], v: f32[32, 8], x: f32[B, 32], y: f32[B, 8]", 1, loss, NULL) &&
              !hop_value_and_grad(&g, f, "w, v"),
          "%s", hop_message());
    CLAIM(!hop_capture(&s, "w: mut f32[32, 32], v: mut f32[32, 8], x: f32[B, 32], y: f32[B, 8]", 1,
                       train_step, g),
          "%s", hop_message());
    for (int portable = first_way(); portable < 2; portable++) {
        hop_exe *exe = NULL;
        hop_tensor *in[4], *out[1] = { 0 };
        for (int i = 0; i < 4; i++) in[i] = random_tensor(types[i]);
        CLAIM(!hop_compile(&exe, s, &(hop_compile_options){ .portable = portable, .threads = 1 }), "%s",
              hop_message());
        char *report = hop_explain_run(exe, in, 4, NULL, 0);
        CLAIM(report && strstr(report, "'w', updated: in place") && strstr(report, "'v', updated: in place"),
              "a gradient step updates in place: %s", report);
        hop_text_free(report);
        CLAIM(!hop_run(exe, in, 4, out, 1), "%s", hop_message());
        float first = *(float *)hop_data(out[0]);
        CLAIM(!hop_run(exe, in, 4, out, 1), "%s", hop_message());
        uint64_t before = hop_allocation_count();
        int failed = 0;
        for (int i = 0; i < (portable ? 5 : 200); i++) failed += hop_run(exe, in, 4, out, 1) != HOP_OK;
        CLAIM(!failed && (portable || hop_allocation_count() == before),
              "%llu allocations in repeated gradient steps",
              (unsigned long long)(hop_allocation_count() - before));
        CLAIM(*(float *)hop_data(out[0]) < first, "and the loss falls: %g, then %g", first,
              *(float *)hop_data(out[0]));
        free_all(in, 4), free_all(out, 1);
        hop_exe_free(exe);
    }
    hop_fn_free(s);
    hop_fn_free(g);
    hop_fn_free(f);
}

/* Donated instead of updated: each step's result is the next step's argument. */
static void test_donating_loop(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    CLAIM(!hop_capture(&f, "w: f32[N], g: f32[N], rate: f32[]", 2, descend, NULL) &&
              !hop_compile(&exe, f, &(hop_compile_options){ .portable = first_way(), .donate = "w" }),
          "%s", hop_message());
    hop_tensor *in[3] = { random_tensor("f32[1000]"), random_tensor("f32[1000]"), random_tensor("f32[]") },
               *out[2] = { 0 }, *w = in[0];
    int failed = 0;
    uint64_t before = 0;
    for (int i = 0; i < 100; i++) {
        if (i == 2) before = hop_allocation_count();
        failed += hop_run(exe, in, 3, out, 2) != HOP_OK;
        in[0] = out[0], out[0] = NULL;
    }
    CLAIM(!failed && in[0] == w && hop_allocation_count() == before,
          "a hundred donating steps stay in one tensor and allocate %llu times",
          (unsigned long long)(hop_allocation_count() - before));
    free_all(in, 3), free_all(out, 2);
    hop_exe_free(exe);
    hop_fn_free(f);
}

/* Many arguments: the lists of a call do not fit where those of small calls lie. */
enum { PARAMS = 60 };
BODY(many)
{
    (void)env, (void)out;
    for (int i = 0; i < PARAMS; i++) hop_mul_to(in[i], hop_scalar(0.5));
    return 0;
}
static void test_many(void)
{
    char params[PARAMS * 32] = "";
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[PARAMS];
    for (int i = 0; i < PARAMS; i++) {
        snprintf(params + strlen(params), sizeof params - strlen(params), "%sp%d: mut f32[N]", i ? ", " : "",
                 i);
        in[i] = random_tensor("f32[33]");
    }
    CLAIM(!hop_capture(&f, params, 0, many, NULL) &&
              !hop_compile(&exe, f, &(hop_compile_options){ .portable = first_way(), .threads = 1 }),
          "%s", hop_message());
    float was = ((float *)hop_data(in[59]))[7];
    CLAIM(!hop_run(exe, in, PARAMS, NULL, 0) && ((float *)hop_data(in[59]))[7] == was / 2, "%s",
          hop_message());
    uint64_t before = hop_allocation_count();
    CLAIM(!hop_run(exe, in, PARAMS, NULL, 0) && hop_allocation_count() == before,
          "a call with many arguments allocates %llu times",
          (unsigned long long)(hop_allocation_count() - before));
    free_all(in, PARAMS);
    hop_exe_free(exe);
    hop_fn_free(f);
}

/* ---- failures ---- */

BODY(checked)
{
    UNUSED;
    hop_add_to(in[0], hop_int(1));
    hop_check(hop_lt(hop_reduce_max(in[0], "all"), in[1]), "too large", in, 1);
    hop_mul_to(in[0], hop_int(2));
    out[0] = hop_add(in[0], hop_int(0));
    return 0;
}

static void test_failures(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    CLAIM(!hop_capture(&f, "a: mut f32[N], most: f32[]", 1, checked, NULL) &&
              !hop_compile(&exe, f, &(hop_compile_options){ .portable = first_way() }),
          "%s", hop_message());
    hop_tensor *in[2] = { random_tensor("f32[50]"), random_tensor("f32[]") }, *was = NULL,
               *out[1] = { random_tensor("f32[50]") }, *out_was = NULL, *none[1] = { 0 };
    *(float *)hop_data(in[1]) = 0;
    CLAIM(!hop_tensor_copy(&was, in[0]) && !hop_tensor_copy(&out_was, out[0]), "%s", hop_message());
    CLAIM(hop_run_with(exe, in, 2, out, 1, &(hop_run_options){ .keep = 1 }) == HOP_CHECK &&
              same(in[0], was) && same(out[0], out_was),
          "a failed run that keeps: %s", hop_message());
    CLAIM(hop_interpret(f, in, 2, out, 1) == HOP_CHECK && same(in[0], was) && same(out[0], out_was),
          "the interpreter always keeps");
    CLAIM(hop_run(exe, in, 2, none, 1) == HOP_CHECK && !none[0] && strstr(hop_message(), "too large"),
          "a failed run makes no output: %s", hop_message());
    *(float *)hop_data(in[1]) = 100;
    CLAIM(!hop_run_with(exe, in, 2, out, 1, &(hop_run_options){ .keep = 1 }) && !same(in[0], was) &&
              same(in[0], out[0]),
          "keeping changes nothing else: %s", hop_message());

    /* bad arguments: nothing is written */
    struct {
        const char *a, *most, *out;
        int n_in;
        const char *says;
    } bad[] = {
        { "f32[50]", "f32[2]", NULL, 2, "argument %most: expected f32[], found f32[2]" },
        { "f32[50, 2]", "f32[]", NULL, 2, "argument %a: expected f32[N], found f32[50, 2]" },
        { "i64[50]", "f32[]", NULL, 2, "argument %a: expected f32[N], found i64[50]" },
        { "f32[50]", "f32[]", "f32[49]", 2, "result 0" },
        { "f32[50]", "f32[]", "i64[50]", 2, "result 0" },
        { "f32[50]", "f32[]", NULL, 1, "takes 2 arguments, given 1" },
    };
    for (size_t k = 0; k < HOP_COUNT(bad); k++) {
        hop_tensor *args[2] = { random_tensor(bad[k].a), random_tensor(bad[k].most) },
                   *to[1] = { bad[k].out ? random_tensor(bad[k].out) : NULL }, *a_was = NULL, *to_was = NULL;
        if (bad[k].out) CLAIM(!hop_tensor_copy(&to_was, to[0]), "%s", hop_message());
        CLAIM(!hop_tensor_copy(&a_was, args[0]), "%s", hop_message());
        CLAIM(hop_run(exe, args, bad[k].n_in, to, 1) == HOP_INVALID && strstr(hop_message(), bad[k].says),
              "bad arguments %zu: %s", k, hop_message());
        CLAIM(same(args[0], a_was) && (bad[k].out ? same(to[0], to_was) : !to[0]),
              "bad arguments %zu: nothing is written", k);
        free_all(args, 2), free_all(to, 1);
        hop_tensor_free(a_was);
        hop_tensor_free(to_was);
    }
    free_all(in, 2), free_all(out, 1);
    hop_tensor_free(was);
    hop_tensor_free(out_was);
    hop_exe_free(exe);
    hop_fn_free(f);
}

BODY(two_sizes)
{
    UNUSED;
    out[0] = hop_sum(hop_matmul(in[0], in[1]), "all");
    return 0;
}
static void test_sizes(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    CLAIM(!hop_capture(&f, "x: f32[N, K], y: f32[K, 3]", 1, two_sizes, NULL) &&
              !hop_compile(&exe, f, &(hop_compile_options){ .portable = first_way() }),
          "%s", hop_message());
    hop_tensor *in[2] = { random_tensor("f32[2, 4]"), random_tensor("f32[5, 3]") }, *out[1] = { 0 };
    for (int way = 0; way < 2; way++) {
        hop_status status = way ? hop_run(exe, in, 2, out, 1) : hop_interpret(f, in, 2, out, 1);
        CLAIM(status == HOP_INVALID && strstr(hop_message(), "K") && strstr(hop_message(), "4") &&
                  strstr(hop_message(), "5") && !out[0],
              "the message names the size and both values: %s", hop_message());
    }
    free_all(in, 2);
    hop_exe_free(exe);
    hop_fn_free(f);
}

/* ---- handles ---- */

static void test_handles(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { random_tensor("f32[2, 4]"), random_tensor("f32[4, 3]") }, *out[1] = { 0 },
               *view = NULL;
    hop_debug_track(1);
    CLAIM(!hop_capture(&f, "named(x: f32[N, K], y: f32[K, 3])", 1, two_sizes, NULL) &&
              !hop_compile(&exe, f, &(hop_compile_options){ .portable = first_way() }),
          "%s", hop_message());
    CLAIM(!hop_run(exe, in, 2, out, 1) && !hop_tensor_view(&view, in[0], "0"), "%s", hop_message());
    char *text = hop_debug_leaks();
    CLAIM(text && strstr(text, "function 'named', made at ") && strstr(text, "mutation_test.c:") &&
              strstr(text, "executable of 'named'") && strstr(text, "tensor f32[]") &&
              strstr(text, "tensor f32[4]"),
          "live handles are named:\n%s", text);
    hop_text_free(text);
    hop_tensor_free(view);
    hop_tensor_free(out[0]);
    hop_exe_free(exe);
    text = hop_debug_leaks();
    CLAIM(text && strstr(text, "function 'named'") && !strstr(text, "executable") &&
              !strstr(text, "tensor f32[4]"),
          "and those that were freed are not:\n%s", text);
    hop_text_free(text);
    hop_fn *gone = f;
    hop_fn_free(f);
    hop_debug_track(0);
#ifndef NDEBUG
    hop_fn *g = NULL;
    hop_tensor *dead[2] = { in[0], view };
    CLAIM(hop_grad(&g, gone, NULL) == HOP_INVALID && strstr(hop_message(), "freed"), "a freed function: %s",
          hop_message());
    CLAIM(hop_run(exe, in, 2, out, 1) == HOP_INVALID &&
              strstr(hop_message(), "expected an executable, found a handle that was freed"),
          "a freed executable: %s", hop_message());
    f = NULL;
    CLAIM(!hop_capture(&f, "x: f32[N, K], y: f32[K]", 1, two_sizes, NULL) &&
              hop_interpret(f, dead, 2, out, 1) == HOP_INVALID &&
              strstr(hop_message(), "argument 1: expected a tensor, found one that was freed"),
          "a freed tensor: %s", hop_message());
    hop_tensor_free(view); /* twice: nothing happens */
    hop_exe_free(exe);
    hop_fn_free(gone);
    hop_fn_free(f);
#endif
    free_all(in, 2);
}

int main(void)
{
    int64_t live = hop_live_allocations();
    test_in_place();
    test_transformed_text();
    test_overlap();
    test_donation();
    test_training();
    test_donating_loop();
    test_many();
    test_failures();
    test_sizes();
    test_handles();
    CLAIM(hop_live_allocations() == live, "%lld blocks leak", (long long)(hop_live_allocations() - live));
    return tests_end();
}
