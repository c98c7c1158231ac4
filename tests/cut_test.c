/* Cutting captures: the parts of a function, run one after the other, give what the whole gives, and each of
 * their nodes runs once; a part of an inner function is recorded in the outer one, which is cut in turn; what
 * is refused. */
#include "captured.h"

/* ---- running parts ---- */

/* What a function hands to `run_part`: the tensors that the part takes and those that it gives. */
struct running {
    hop_tensor *in[4], *out[4];
    int n_in, n_out, parts;
    int status; /* what the callback shall give instead of 0 */
};

static int run_part(void *env, hop_fn *part)
{
    struct running *r = env;
    hop_exe *exe = NULL;
    r->parts++;
    CLAIM(hop_fn_params(part) == r->n_in && hop_fn_results(part) == r->n_out,
          "a part takes %d and gives %d, expected %d and %d", hop_fn_params(part), hop_fn_results(part),
          r->n_in, r->n_out);
    CLAIM(!hop_failed() && hop_rank(hop_zeros("f32[2]")) < 0, "around the capture there is another one");
    int status = hop_compile(&exe, part, NULL);
    if (!status) status = hop_run(exe, r->in, r->n_in, r->out, r->n_out);
    hop_exe_free(exe);
    return status ? status : r->status;
}

static hop_tensor *number(const char *type, double value)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
    for (int64_t i = 0; i < hop_tensor_count(t); i++) set(t, i, value + (double)i);
    return t;
}

/* Halves x until its sum is below 1, as a host would decide it; then x * w. */
struct halving {
    struct running r;
    hop_tensor *w;
    int steps;
};
BODY(halved)
{
    struct halving *h = env;
    hop_val x = in[0], w = in[1];
    for (;;) {
        hop_val sum = hop_sum(x, "all");
        hop_val live[2] = { x, sum };
        h->r.n_out = 2;
        int status = hop_cut(live, 2, run_part, &h->r);
        if (status) return status;
        free_all(h->r.in, h->r.n_in);
        double total = get(h->r.out[1], 0);
        hop_tensor_free(h->r.out[1]);
        h->r.in[0] = h->r.out[0];
        h->r.out[0] = h->r.out[1] = NULL;
        h->r.n_in = 1;
        x = hop_parameter(type_of(h->r.in[0]));
        if (total < 1) break;
        x = hop_mul(x, hop_scalar(0.5));
        h->steps++;
    }
    w = hop_parameter(type_of(h->w));
    out[0] = hop_mul(x, w);
    return 0;
}

static void check_loop(void)
{
    struct halving h = { .w = number("f32[3]", 1) };
    h.r.in[0] = number("f32[3]", 1);
    h.r.in[1] = hop_tensor_ref(h.w);
    h.r.n_in = 2;
    hop_fn *last = NULL;
    int status = hop_capture(&last, "f(x: f32[3], w: f32[3])", 1, halved, &h);
    CLAIM(!status, "%s", hop_message());
    CLAIM(h.steps == 3 && h.r.parts == 4, "%d steps, %d parts", h.steps, h.r.parts);
    CLAIM(hop_fn_params(last) == 2, "the last part takes %d", hop_fn_params(last));
    hop_tensor *in[2] = { h.r.in[0], h.w }, *out[1] = { NULL };
    hop_exe *exe = NULL;
    CLAIM(!hop_compile(&exe, last, NULL) && !hop_run(exe, in, 2, out, 1), "%s", hop_message());
    const double expected[3] = { 1 / 8.0, 4 / 8.0, 9 / 8.0 };
    for (int i = 0; i < 3; i++)
        CLAIM(fabs(get(out[0], i) - expected[i]) < 1e-6, "element %d is %g", i, get(out[0], i));
    hop_tensor_free(out[0]);
    hop_exe_free(exe);
    hop_fn_free(last);
    free_all(h.r.in, h.r.n_in);
    hop_tensor_free(h.w);
}

/* The n-th allocation fails: the capture ends with that, and nothing else happens. */
static int keep_part(void *env, hop_fn *part)
{
    CLAIM(!*(hop_fn **)env, "a part is handed over twice");
    *(hop_fn **)env = hop_fn_ref(part);
    return 0;
}
BODY(cut_once)
{
    hop_val y = hop_mul(in[0], hop_exp(in[0]));
    int status = hop_cut(&y, 1, keep_part, env);
    if (status) return status;
    y = hop_parameter("f32[3]");
    out[0] = hop_add(y, y);
    return hop_failed();
}
static void check_memory(void)
{
    int failures = 0;
    int64_t live = hop_live_allocations();
    for (int n = 1; n < 400; n++) {
        hop_fn *part = NULL, *last = NULL;
        hop_fail_allocation(n);
        int status = hop_capture(&last, "f(x: f32[3])", 1, cut_once, &part);
        hop_fail_allocation(0);
        failures += status != 0;
        CLAIM(!status == (last != NULL), "status %d", status);
        CLAIM(status || (part && hop_fn_params(part) == 1 && hop_fn_params(last) == 1), "other functions");
        hop_fn_free(part);
        hop_fn_free(last);
        CLAIM(hop_live_allocations() == live, "allocation %d fails: %lld blocks leak", n,
              (long long)(hop_live_allocations() - live));
    }
    CLAIM(failures > 10 && failures < 390, "%d of 400 allocations failed", failures);
}

/* ---- an inner function ---- */

/* The inner function is cut: its part becomes a call in the outer one. */
struct inner {
    hop_val x;      /* of the outer one */
    hop_val square; /* the part's result there */
};
static int call_part(void *env, hop_fn *part)
{
    struct inner *i = env;
    return hop_call_fn(&i->square, 1, part, &i->x, 1);
}
BODY(cut_inside)
{
    struct inner *i = env;
    hop_val square = hop_mul(in[0], in[0]);
    int status = hop_cut(&square, 1, call_part, i);
    if (status) return status;
    out[0] = hop_add(hop_parameter_like(i->square), hop_int(1));
    return 0;
}
BODY(with_inner)
{
    struct inner i = { .x = in[0] };
    hop_fn *last = NULL;
    hop_param p = { .name = "x", .like = in[0] };
    UNUSED;
    int status = hop_capture_params(&last, "inner", &p, 1, 1, cut_inside, &i);
    if (!status) status = hop_call_fn(out, 1, last, &i.square, 1);
    hop_fn_free(last);
    return status;
}

/* ---- refusals ---- */

static int in_step(void *env, const hop_val *in, hop_val *out)
{
    UNUSED;
    hop_val y = hop_mul(in[0], in[0]);
    struct running r = { 0 };
    int status = hop_cut(&y, 1, run_part, &r);
    out[0] = y;
    return status;
}
BODY(cut_in_loop)
{
    hop_fori_spec s = { .body = in_step, .from = hop_int(0), .to = hop_int(3), .carry = in, .n_carry = 1 };
    UNUSED;
    return hop_fori(out, 1, &s);
}
BODY(cut_mut)
{
    hop_val y = hop_mul(in[0], hop_int(2));
    struct running r = { 0 };
    (void)env;
    (void)out;
    return hop_cut(&y, 1, run_part, &r);
}
BODY(cut_nothing)
{
    (void)in;
    (void)out;
    return hop_cut(NULL, 1, run_part, env);
}
BODY(stale)
{
    struct running *r = env;
    hop_val y = hop_mul(in[0], in[0]);
    int status = hop_cut(&y, 1, run_part, r);
    free_all(r->out, 1);
    if (status) return status;
    out[0] = hop_mul(y, y);
    return 0;
}

static void refused(const char *params, hop_body body, void *env, const char *said)
{
    hop_fn *f = NULL;
    int status = hop_capture(&f, params, 1, body, env);
    CLAIM(status && strstr(hop_message(), said), "status %d, %s", status, hop_message());
    hop_fn_free(f);
}

static void check_refusals(void)
{
    struct running r = { .n_in = 1, .n_out = 1 };
    refused("x: f32[]", cut_in_loop, NULL, "cannot be cut in the body of fori");
    refused("x: mut f32[]", cut_mut, NULL, "updates its arguments");
    refused("x: f32[]", cut_nothing, NULL, "found NULL");
    r.in[0] = number("f32[]", 3);
    refused("x: f32[]", stale, &r, "of one that has ended");
    r.status = 77;
    hop_fn *f = NULL;
    CLAIM(hop_capture(&f, "x: f32[]", 1, stale, &r) == 77 && !f, "what the callback returns is lost");
    hop_tensor_free(r.in[0]);
    hop_val none = { 0, 0 };
    CLAIM(hop_cut(&none, 1, run_part, &r) && strstr(hop_message(), "outside of a capture"), "%s",
          hop_message());
}

int main(void)
{
    static const struct program nested = { .name = "a cut inside of a capture",
                                           .params = "x: f32[T]",
                                           .n_in = 1,
                                           .n_out = 1,
                                           .body = with_inner,
                                           .types = { "f32[2]" },
                                           .in = { { 2, 3 } },
                                           .out_types = { "f32[2]" },
                                           .expect = { { 5, 10 } } };
    check_loop();
    check_memory();
    check_program(&nested);
    check_refusals();
    return tests_end();
}
