/* Capture from C, what must fail and how: bodies that do wrong, values of other captures, shapes that do not
 * fit, failures at every depth, texts that mean nothing. Each ends in a message that names the operator and
 * the place; nothing leaks. */
#include "captured.h"

/* ---- errors ---- */

BODY(endless)
{
    UNUSED;
    out[0] = hop_bool(1);
    return 0;
}
static hop_val escaped;
BODY(escape_step)
{
    (void)env;
    escaped = hop_exp(in[0]);
    out[0] = escaped;
    return 0;
}
BODY(escape)
{
    UNUSED;
    hop_val r;
    hop_scan(&r, 1, &(hop_scan_spec){ .step = escape_step, .carry = in, .n_carry = 1, .length = "3" });
    out[0] = hop_add(r, escaped);
    return 0;
}
BODY(stale)
{
    UNUSED;
    out[0] = hop_add(in[0], escaped);
    return 0;
}
BODY(mismatch)
{
    UNUSED;
    out[0] = hop_add(in[0], hop_zeros("f32[4]"));
    out[0] = hop_matmul(out[0], out[0]);
    return 0;
}
BODY(wrong_matmul)
{
    UNUSED;
    out[0] = hop_matmul(in[0], hop_zeros("f32[5, 2]"));
    return 0;
}
BODY(unset)
{
    UNUSED;
    (void)out;
    return 0;
}
BODY(own_status)
{
    UNUSED;
    (void)out;
    return 77;
}
BODY(own_message)
{
    UNUSED;
    (void)out;
    return hop_fail("the weights are missing");
}
BODY(status_in_body)
{
    UNUSED;
    return hop_scan(out, 1, &(hop_scan_spec){ .step = own_status, .carry = in, .n_carry = 1, .length = "2" });
}
BODY(ignored_status)
{
    UNUSED;
    hop_scan(out, 1, &(hop_scan_spec){ .step = own_status, .carry = in, .n_carry = 1, .length = "2" });
    out[0] = hop_exp(out[0]);
    return 0;
}
BODY(bad_type)
{
    UNUSED;
    out[0] = hop_zeros("f33[2]");
    return 0;
}
BODY(bad_size)
{
    UNUSED;
    out[0] = hop_zeros("f32[Q]");
    return 0;
}
BODY(bad_axis)
{
    UNUSED;
    out[0] = hop_sum(in[0], "0, 3");
    return 0;
}
BODY(bad_index)
{
    UNUSED;
    out[0] = hop_slice(in[0], "7");
    return 0;
}
BODY(empty)
{
    UNUSED;
    hop_val none = { 0, 0 };
    out[0] = hop_neg(none);
    return 0;
}
BODY(bad_carry)
{
    (void)env;
    out[0] = hop_cast(in[0], "f64");
    return 0;
}
BODY(bad_scan)
{
    UNUSED;
    hop_scan(out, 1, &(hop_scan_spec){ .step = bad_carry, .carry = in, .n_carry = 1, .length = "2" });
    return 0;
}
BODY(bad_carries)
{
    (void)env;
    out[0] = hop_cast(in[0], "f64"), out[1] = in[1], out[2] = hop_sum(in[2], "all");
    return 0;
}
BODY(bad_scan_of_three)
{
    UNUSED;
    hop_val carry[3] = { in[0], in[0], in[0] }, last[3];
    hop_scan(last, 3, &(hop_scan_spec){ .step = bad_carries, .carry = carry, .n_carry = 3, .length = "2" });
    out[0] = last[0];
    return 0;
}
BODY(same_carry)
{
    (void)env;
    out[0] = in[0];
    return 0;
}
BODY(always_loops)
{
    UNUSED;
    hop_while(out, 1, &(hop_while_spec){ .cond = endless, .body = same_carry, .carry = in, .n_carry = 1 });
    return 0;
}
BODY(writing_predicate)
{
    hop_add_to(*(const hop_val *)env, hop_int(1));
    out[0] = hop_lt(hop_sum(in[0], "all"), hop_int(3));
    return 0;
}
BODY(predicate_writes)
{
    UNUSED;
    hop_val a = hop_variable(in[0]);
    hop_while(out, 1,
              &(hop_while_spec){
                  .cond = writing_predicate, .body = bad_carry, .env = &a, .carry = in, .n_carry = 1 });
    return 0;
}
BODY(assign_plain)
{
    UNUSED;
    hop_assign(in[0], hop_int(1));
    out[0] = in[0];
    return 0;
}
BODY(assign_wrong)
{
    UNUSED;
    hop_val a = hop_variable(in[0]);
    hop_assign(a, hop_zeros("f32[2, 3]"));
    out[0] = a;
    return 0;
}
BODY(assign_broadcast)
{
    UNUSED;
    hop_val a = hop_variable(in[0]);
    hop_assign(hop_view_broadcast(a, "2, 3"), hop_int(1));
    out[0] = a;
    return 0;
}
BODY(bad_view)
{
    UNUSED;
    hop_val a = hop_variable(in[0]);
    hop_view_reshape(a, "2, 2");
    out[0] = a;
    return 0;
}
BODY(bad_permute)
{
    UNUSED;
    hop_val a = hop_variable(in[0]);
    hop_view_permute(a, "0, 0");
    out[0] = a;
    return 0;
}
BODY(other_capture_inner)
{
    out[0] = hop_add(in[0], *(const hop_val *)env);
    return 0;
}
BODY(other_capture)
{
    UNUSED;
    hop_fn *g = NULL;
    int status = hop_capture(&g, "y: f32[3]", 1, other_capture_inner, (void *)&in[0]);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), "belongs to another capture"),
          "a value of another capture: %d, %s", status, hop_message());
    out[0] = in[0];
    return 0;
}
BODY(tensor_while_capturing)
{
    UNUSED;
    hop_tensor *t = hop_value_tensor(in[0]);
    hop_tensor_free(t);
    out[0] = in[0];
    return 0;
}
BODY(unset_branch)
{
    UNUSED;
    (void)out;
    return 0;
}
BODY(unsigned_signed)
{
    UNUSED;
    out[0] = hop_add(hop_cast(in[0], "u64"), hop_cast(in[0], "i8"));
    return 0;
}
BODY(number_beyond)
{
    UNUSED;
    out[0] = hop_add(hop_cast(in[0], "u8"), hop_int(300));
    return 0;
}
BODY(real_step)
{
    UNUSED;
    out[0] = hop_scalar(0.5);
    return 0;
}
BODY(real_carry)
{
    UNUSED;
    hop_scan(out, 1,
             &(hop_scan_spec){ .step = real_step,
                               .carry = (hop_val[]){ hop_number("i64", 1) },
                               .n_carry = 1,
                               .length = "2" });
    return 0;
}
BODY(different_branches)
{
    UNUSED;
    hop_cond(out, 1,
             &(hop_cond_spec){
                 .pred = hop_bool(1), .then = bad_carry, .otherwise = escape_step, .in = in, .n_in = 1 });
    return 0;
}
BODY(unset_in_branch)
{
    UNUSED;
    hop_cond(out, 1,
             &(hop_cond_spec){ .pred = hop_bool(1), .then = unset_branch, .otherwise = unset_branch });
    return 0;
}

static void test_errors(void)
{
    static const struct {
        const char *params;
        hop_body body;
        int status;
        const char *parts[3];
    } cases[] = {
        { "x: f32[3]",
          escape,
          HOP_INVALID,
          { "capture_errors_test.c:", "is used after that has ended", "the step of scan" } },
        { "x: f32[3]", stale, HOP_INVALID, { "a value of another capture, of one that has ended" } },
        { "x: f32[3]",
          mismatch,
          HOP_INVALID,
          { "capture_errors_test.c:", "add: shapes do not broadcast", "must be 3 or 1" } },
        { "x: f32[3, 4]",
          wrong_matmul,
          HOP_INVALID,
          { "capture_errors_test.c:", "matmul: ", "expected 4, found 5" } },
        { "x: f32[3]", unset, HOP_INVALID, { "result 0 was not set" } },
        { "x: f32[3]", own_status, 77, { "returned 77" } },
        { "x: f32[3]", own_message, HOP_INVALID, { "capture_errors_test.c:", "the weights are missing" } },
        { "x: f32[3]", status_in_body, 77, { "scan: the step of scan returned 77" } },
        { "x: f32[3]", ignored_status, 77, { "scan: the step of scan returned 77" } },
        { "x: f32[3]", bad_type, HOP_INVALID, { "zeros: the type \"f33[2]\": expected a dtype" } },
        { "x: f32[3]", bad_size, HOP_INVALID, { "the size 'Q' is not known here" } },
        { "x: f32[3]", bad_axis, HOP_INVALID, { "sum: expected an axis in -1..0, found 3" } },
        { "x: f32[3]", bad_index, HOP_INVALID, { "index 7 is outside of axis 0 of size 3" } },
        { "x: f32[3]", empty, HOP_INVALID, { "an empty handle" } },
        { "x: f32[3]", bad_scan, HOP_INVALID, { "scan: ", "carry 0 and what the step makes of it" } },
        { "x: f32[3]",
          bad_scan_of_three,
          HOP_INVALID,
          { "scan: carry 0 and what the step makes of it: expected f32[3], found f64[3]; carry 2 and what "
            "the step makes of it: expected f32[3], found f32[]" } },
        { "x: f32[3]",
          always_loops,
          HOP_INVALID,
          { "capture_errors_test.c:", "the predicate is always true, so the loop can never end" } },
        { "x: f32[3]", predicate_writes, HOP_INVALID, { "the predicate of while", "may not assign" } },
        { "x: f32[3]", assign_plain, HOP_INVALID, { "assign: expected an assignable array" } },
        { "x: f32[3]",
          assign_wrong,
          HOP_INVALID,
          { "assign: ", "expected f32[3] or fewer dims, found f32[2, 3]" } },
        { "x: f32[3]",
          assign_broadcast,
          HOP_INVALID,
          { "assign: the view is a broadcast of f32[3]", "read but not assigned to" } },
        { "x: f32[3]", bad_view, HOP_INVALID, { "capture_errors_test.c:", "expected 3, found 4" } },
        { "x: f32[3]", bad_permute, HOP_INVALID, { "view_permute: the axes \"0, 0\" name axis 0 twice" } },
        { "x: f32[3]", other_capture, HOP_OK, { 0 } },
        { "x: f32[3]", tensor_while_capturing, HOP_INVALID, { "no tensor while it is captured" } },
        { "x: f32[3]", different_branches, HOP_INVALID, { "branch 0 gives f32[3], branch 1 gives f64[3]" } },
        { "x: f32[3]",
          unsigned_signed,
          HOP_INVALID,
          { "add: no integer dtype holds both u64 and i8", "hop_cast(x, \"i64\")" } },
        { "x: f32[3]", number_beyond, HOP_INVALID, { "add: ", "300", "u8" } },
        { "x: f32[3]", real_carry, HOP_INVALID, { "a result is the number 0.5, where i64 is expected" } },
        { "x: f32[3]", unset_in_branch, HOP_INVALID, { "result 0 was not set" } },
        { "x: f32[3], x: f32[3]", empty, HOP_INVALID, { "the name 'x' stands twice" } },
        { "x: f32[3", empty, HOP_INVALID, { "expected ']' at the end" } },
        { "x f32", empty, HOP_INVALID, { "expected ':'" } },
        { "x: f32[2*T]", empty, HOP_INVALID, { "no parameter has the size 'T' by itself" } },
    };
    for (size_t i = 0; i < HOP_COUNT(cases); i++) {
        hop_fn *f = NULL;
        int status = hop_capture(&f, cases[i].params, 1, cases[i].body, NULL);
        CLAIM(status == cases[i].status, "error %zu: status %d, expected %d: %s", i, status, cases[i].status,
              hop_message());
        for (int k = 0; k < 3 && cases[i].parts[k]; k++)
            CLAIM(strstr(hop_message(), cases[i].parts[k]), "error %zu says \"%s\", expected \"%s\"", i,
                  hop_message(), cases[i].parts[k]);
        CLAIM(!status == !!f, "error %zu: the output is untouched", i);
        hop_fn_free(f);
    }
    hop_val v = hop_add(hop_int(1), hop_int(2));
    CLAIM(!v.scope && strstr(hop_message(), "outside of a capture"), "a call outside of a capture: %s",
          hop_message());
}

/* A failed body leaves the function around as it was. */
BODY(failing_inner)
{
    hop_val *w = env;
    out[0] = hop_add(in[0], hop_mul(*w, hop_full("f32[T]", hop_int(2))));
    hop_assign(w[1], out[0]);
    return hop_fail("no");
}
BODY(failing_outer)
{
    hop_val *w = env;
    hop_call(out, 1, &(hop_call_spec){ .body = failing_inner, .env = w, .in = in, .n_in = 1 });
    CLAIM(hop_failed() == HOP_INVALID && hop_forgive() == HOP_INVALID && !hop_failed(),
          "the error can be forgiven");
    out[0] = hop_exp(in[0]);
    return 0;
}
BODY(plain_outer)
{
    (void)env;
    out[0] = hop_exp(in[0]);
    return 0;
}
BODY(with_failure)
{
    const hop_body *inner = env;
    hop_val w[2] = { in[1], hop_variable(in[0]) };
    hop_call(out, 1, &(hop_call_spec){ .body = *inner, .env = w, .in = in, .n_in = 1 });
    return 0;
}
static void test_failed_body(void)
{
    hop_fn *f = NULL, *g = NULL;
    hop_body bodies[2] = { failing_outer, plain_outer };
    CLAIM(!hop_capture(&f, "x: f32[T], w: f32[T]", 1, with_failure, &bodies[0]) &&
              !hop_capture(&g, "x: f32[T], w: f32[T]", 1, with_failure, &bodies[1]),
          "%s", hop_message());
    const char *a = hop_fn_text(f), *b = hop_fn_text(g);
    CLAIM(a && b && !strcmp(a, b), "a failed body left something behind:\n%s\n%s", a, b);
    hop_fn_free(f);
    hop_fn_free(g);
}

/* A body that fails at any depth fails the whole capture with its own message, or, forgiven around it, leaves
 * no trace. */
struct depth {
    int now, last, fails, forgives;
    hop_val a, w;
};
BODY(deeper)
{
    struct depth *d = env, inner = *d;
    inner.now++;
    hop_val x = hop_mul(in[0], d->w), r = x;
    if (d->now == d->last) {
        if (d->fails) {
            hop_add_to(d->a, x);
            hop_exp(d->w);
            return hop_fail("at the bottom");
        }
    } else if (d->now % 3 == 0)
        hop_scan(&r, 1,
                 &(hop_scan_spec){ .step = deeper, .env = &inner, .carry = &x, .n_carry = 1, .length = "2" });
    else if (d->now % 3 == 1)
        hop_cond(&r, 1,
                 &(hop_cond_spec){ .pred = hop_bool(1),
                                   .then = deeper,
                                   .otherwise = deeper,
                                   .env = &inner,
                                   .in = &x,
                                   .n_in = 1 });
    else hop_call(&r, 1, &(hop_call_spec){ .body = deeper, .env = &inner, .in = &x, .n_in = 1 });
    if (d->forgives && d->now == d->last - 1 && hop_forgive()) r = x;
    out[0] = r;
    return 0;
}
BODY(from_the_top)
{
    struct depth *d = env;
    d->w = in[1];
    d->a = hop_variable(in[0]);
    return deeper(d, in, out);
}
BODY(without_the_bottom)
{
    struct depth *d = env;
    d->last--;
    return from_the_top(d, in, out);
}
static void test_failing_depths(void)
{
    for (int last = 1; last < 9; last++) {
        hop_fn *f = NULL, *g = NULL, *h = NULL;
        struct depth fails = { .last = last, .fails = 1 },
                     forgiven = { .last = last, .fails = 1, .forgives = 1 }, plain = { .last = last };
        CLAIM(hop_capture(&f, "x: f32[T], w: f32[T]", 1, from_the_top, &fails) == HOP_INVALID &&
                  strstr(hop_message(), "at the bottom") && !f,
              "depth %d: %s", last, hop_message());
        CLAIM(!hop_capture(&g, "x: f32[T], w: f32[T]", 1, from_the_top, &forgiven) &&
                  !hop_capture(&h, "x: f32[T], w: f32[T]", 1, without_the_bottom, &plain),
              "depth %d: %s", last, hop_message());
        CLAIM(g && h && !strcmp(hop_fn_text(g), hop_fn_text(h)),
              "depth %d: a failed body left something behind", last);
        hop_fn_free(g);
        hop_fn_free(h);
    }
}

/* ---- texts that mean nothing ---- */

static const char *random_text(uint64_t *state)
{
    static char text[40];
    static const char *const pieces[] = {
        "f32", "i64",   "[", "]",  ",",    ":",   "-",   "3",    "T",   "9223372036854775807",
        "*",   "//",    "%", "(",  ")",    "new", "...", "min(", "max", " ",
        "{",   "}",     "=", "\"", "dim ", "in",  "1..", "mut",  "x",   "argmax",
        "all", "every", "0"
    };
    text[0] = 0;
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    for (uint64_t n = *state >> 60, i = 0; i < n + 1; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        const char *piece = pieces[(*state >> 33) % HOP_COUNT(pieces)];
        if (strlen(text) + strlen(piece) < sizeof text) strcat(text, piece);
    }
    return text;
}
BODY(nonsense)
{
    uint64_t *state = env;
    int kept = 0;
    hop_val a = hop_variable(in[0]), r[1];
    for (int i = 0; i < 40; i++) {
        hop_slice(in[0], random_text(state));
        hop_zeros(random_text(state));
        hop_reshape(in[0], random_text(state));
        hop_sum(in[0], random_text(state));
        hop_pad(in[0], random_text(state), hop_int(0));
        hop_assign(hop_view(a, random_text(state)), hop_int(1));
        hop_apply(r, 1, random_text(state), in, 1);
        hop_scan(r, 1,
                 &(hop_scan_spec){ .step = escape_step,
                                   .carry = in,
                                   .n_carry = 1,
                                   .length = random_text(state),
                                   .schedule = random_text(state) });
        kept += hop_forgive() == HOP_OK;
    }
    (void)kept;
    out[0] = in[0];
    return 0;
}
static void test_nonsense(void)
{
    uint64_t state = 1;
    int strange = 0;
    for (int i = 0; i < 200; i++) {
        hop_fn *f = NULL;
        hop_tensor *t = NULL;
        int status = hop_capture(&f, i % 2 ? "x: f32[T, 3]" : random_text(&state), 1, nonsense, &state);
        strange += status != HOP_OK && status != HOP_INVALID;
        status = (int)hop_tensor_new(&t, random_text(&state));
        strange += status != HOP_OK && status != HOP_INVALID && status != HOP_NOMEM;
        hop_tensor_free(t);
        hop_fn *v = NULL;
        if (f) hop_vmap(&v, f, random_text(&state), random_text(&state));
        hop_fn_free(v);
        hop_fn_free(f);
    }
    CLAIM(!strange, "%d texts were answered with something else than invalid", strange);
}

int main(void)
{
    int64_t live = hop_live_allocations();
    test_errors();
    test_failed_body();
    test_failing_depths();
    test_nonsense();
    CLAIM(hop_live_allocations() == live, "%lld blocks leak", (long long)(hop_live_allocations() - live));
    return tests_end();
}
