/* Capture from C: the programs of capture_programs.h are captured and then run by the interpreter, by the
 * loop program's executor, by native code and eagerly; all must give the expected numbers and, in strict
 * mode, the same bits. Then what a capture shares, keeps and says of itself. What must fail is
 * capture_errors_test.c. */
#include "capture_programs.h"

/* ---- remarks ---- */

static void test_remarks(void)
{
    hop_fn *f = NULL, *g = NULL;
    CLAIM(!hop_capture(&f, "x: f32[2], w: f32[2]", 4, branches, NULL) &&
              strstr(hop_fn_text(f), "switch {recompute} ("),
          "a switch says that its branch is run again: %s", f ? hop_fn_text(f) : hop_message());
    hop_fn_free(f);
    f = NULL;
    CLAIM(!hop_capture(&f, "xs: f32[T], rows: f32[T]", 3, map_writes, NULL) &&
              strstr(hop_fn_remarks(f), "capture_programs.h:") &&
              strstr(hop_fn_remarks(f), "map: its body assigns to 1 array from outside: it became a scan") &&
              strstr(hop_fn_text(f), "scan"),
          "a map that writes says that it became a scan: %s", f ? hop_fn_remarks(f) : hop_message());
    CLAIM(!hop_capture(&g, "x: f32[T]", 1, inner_exp, NULL) && !*hop_fn_remarks(g), "and others say nothing");
    hop_fn_free(f);
    hop_fn_free(g);
}

/* ---- every operator of the header, through its macro ---- */

static int of_bits(const char *name)
{
    static const char *const names[] = { "not", "popcount", "count_leading_zeros", "and",
                                         "or",  "xor",      "shift_left",          "shift_right" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return 1;
    return 0;
}
BODY(all_unary)
{
    UNUSED;
    int n = 0;
#define ONE(name) out[n++] = hop_##name(of_bits(#name) ? hop_cast(in[0], "i32") : in[0]);
    HOP_UNARY_OPERATORS(ONE)
#undef ONE
    return 0;
}
BODY(all_binary)
{
    UNUSED;
    int n = 0;
#define ONE(name) out[n++] = hop_##name(in[of_bits(#name)], in[of_bits(#name)]);
    HOP_BINARY_OPERATORS(ONE)
#undef ONE
    hop_val v = hop_variable(in[0]), bits = hop_variable(in[1]);
#define ONE(name) hop_##name##_to(of_bits(#name) ? bits : v, in[of_bits(#name)]);
    HOP_IN_PLACE_OPERATORS(ONE)
#undef ONE
    hop_dim two = hop_dim_const(2);
#define ONE(name) two = hop_dim_max(hop_dim_##name(two, two), hop_dim_const(2));
    HOP_DIM_OPERATORS(ONE)
#undef ONE
#define ONE(name) \
    if (strcmp(#name, "any") && strcmp(#name, "all")) v = hop_add(hop_##name(in[0], "all"), v);
    HOP_REDUCTIONS(ONE)
#undef ONE
    return hop_failed();
}
static void test_every_operator(void)
{
    hop_fn *f = NULL;
    int n = 0, m = 0;
#define ONE(name) n++;
    HOP_UNARY_OPERATORS(ONE)
#undef ONE
#define ONE(name) m++;
    HOP_BINARY_OPERATORS(ONE)
#undef ONE
    CLAIM(!hop_capture(&f, "x: f32[3]", n, all_unary, NULL), "unary operators: %s", hop_message());
    hop_fn_free(f);
    f = NULL;
    CLAIM(!hop_capture(&f, "x: f32[3], i: i32[3]", m, all_binary, NULL), "binary operators: %s",
          hop_message());
    hop_fn_free(f);
}

/* ---- sharing, keys, names ---- */

static int runs;
BODY(counted)
{
    (void)env;
    runs++;
    out[0] = hop_exp(in[0]);
    return 0;
}
BODY(layers)
{
    const int *keyed = env;
    hop_val x = in[0];
    for (int i = 0; i < 10; i++)
        hop_call(&x, 1,
                 &(hop_call_spec){
                     .body = counted, .in = &x, .n_in = 1, .key = *keyed ? (const void *)keyed : NULL });
    out[0] = hop_name(x, "top");
    return 0;
}
static void test_sharing(void)
{
    for (int keyed = 0; keyed < 2; keyed++) {
        hop_fn *f = NULL;
        runs = 0;
        CLAIM(!hop_capture(&f, "layers(x: f32[T, 3])", 1, layers, &keyed), "%s", hop_message());
        CLAIM(runs == (keyed ? 1 : 10), "a body %s was run %d times", keyed ? "under a key" : "without a key",
              runs);
        const char *text = hop_fn_text(f);
        int bodies = 0;
        for (const char *p = text; p && (p = strstr(p, "exp(")); p++) bodies++;
        CLAIM(bodies == 1, "ten equal bodies became %d functions:\n%s", bodies, text);
        CLAIM(text && strstr(text, "fn @layers") && strstr(text, "%top"), "names are kept:\n%s", text);
        hop_fn_free(f);
    }
}

struct keyed_env {
    hop_val w;
    const void *key;
    int lifted;
};
BODY(keyed_step)
{
    struct keyed_env *k = env;
    runs++;
    out[0] = hop_add(hop_mul(in[0], k->w), hop_add(in[1], hop_full("f32[T]", hop_int(1))));
    return 0;
}
BODY(keyed_outer)
{
    struct keyed_env *k = env;
    hop_val r;
    for (int i = 0; i < 3; i++) {
        hop_scan(&r, 1,
                 &(hop_scan_spec){ .step = keyed_step,
                                   .env = k,
                                   .carry = in,
                                   .n_carry = 1,
                                   .xs = &in[1],
                                   .n_xs = 1,
                                   .key = k->key });
        out[0] = i ? hop_add(out[0], r) : r;
    }
    return 0;
}
BODY(keyed_scans)
{
    struct keyed_env k = { in[2], env, 0 };
    hop_val a;
    keyed_outer(&k, in, &a);
    hop_call(&out[0], 1, &(hop_call_spec){ .body = keyed_outer, .env = &k, .in = in, .n_in = 2 });
    out[0] = hop_add(out[0], a);
    return 0;
}
static void test_keys(void)
{
    hop_tensor *in[3] = { 0 }, *out[2][1] = { { 0 } };
    static const char *const types[3] = { "f32[2]", "f32[3, 2]", "f32[]" };
    for (int i = 0; i < 3; i++) {
        CLAIM(!hop_tensor_new(&in[i], types[i]), "%s", hop_message());
        for (int64_t k = 0; k < hop_tensor_count(in[i]); k++) set(in[i], k, (double)(k + i + 1));
    }
    for (int keyed = 0; keyed < 2; keyed++) {
        hop_fn *f = NULL;
        static const char key;
        runs = 0;
        CLAIM(!hop_capture(&f, "h: f32[T], xs: f32[N, T], w: f32[]", 1, keyed_scans,
                           keyed ? (void *)&key : NULL),
              "%s", hop_message());
        CLAIM(runs == (keyed ? 1 : 6), "keyed %d: the step ran %d times", keyed, runs);
        CLAIM(!hop_interpret(f, in, 3, out[keyed], 1), "%s", hop_message());
        hop_fn_free(f);
    }
    CLAIM(out[0][0] && out[1][0] && get(out[0][0], 0) == get(out[1][0], 0) &&
              get(out[0][0], 1) == get(out[1][0], 1),
          "keys do not change results");
    free_all(out[0], 1);
    free_all(out[1], 1);
    free_all(in, 3);
}

/* ---- parameters that are updated ---- */

BODY(update_log)
{
    UNUSED;
    hop_add_to(hop_view(in[1], "1:"), hop_slice(in[0], "1:"));
    hop_assign(hop_view(in[1], "0"), hop_scalar(7));
    out[0] = hop_sum(in[1], "all");
    return 0;
}
static void test_updates(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { 0 }, *out[1] = { 0 };
    float xs[3] = { 1, 2, 3 }, log[6] = { 10, -1, 20, -1, 30, -1 };
    int64_t stride = 2;
    CLAIM(!hop_capture(&f, "x: f32[T], log: mut f32[T]", 1, update_log, NULL), "%s", hop_message());
    CLAIM(hop_fn_results(f) == 1 && hop_fn_param_is_mut(f, 1) && !hop_fn_param_is_mut(f, 0),
          "the function says what it updates");
    CLAIM(!hop_tensor_borrow(&in[0], "f32[3]", xs, NULL, NULL) &&
              !hop_tensor_strided(&in[1], "f32[3]", log, &stride, NULL, NULL),
          "%s", hop_message());
    CLAIM(!hop_interpret(f, in, 2, out, 1), "%s", hop_message());
    CLAIM(log[0] == 7 && log[2] == 22 && log[4] == 33 && log[1] == -1 && log[3] == -1,
          "the strided argument is updated in place: %g %g %g", log[0], log[2], log[4]);
    CLAIM(get(out[0], 0) == 62, "and the result is the new sum");
    CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .portable = !exe_available() }), "%s", hop_message());
    hop_tensor_free(in[1]);
    float other[3] = { 1, 1, 1 };
    CLAIM(!hop_tensor_borrow(&in[1], "f32[3]", other, NULL, NULL) && !hop_run(exe, in, 2, out, 1), "%s",
          hop_message());
    CLAIM(other[0] == 7 && other[1] == 3 && other[2] == 4 && get(out[0], 0) == 14,
          "a compiled function updates its argument: %g %g %g", other[0], other[1], other[2]);
    free_all(in, 2);
    free_all(out, 1);
    hop_exe_free(exe);
    hop_fn_free(f);
}

/* ---- eager mode, in pieces ---- */

static void test_eager(void)
{
    hop_tensor *t = NULL, *r;
    CLAIM(!hop_tensor_new(&t, "f32[3]"), "%s", hop_message());
    for (int i = 0; i < 3; i++) set(t, i, i);
    CLAIM(!hop_eager_begin(), "%s", hop_message());
    hop_val v = hop_from_tensor(t), w = hop_add(hop_mul(v, v), hop_int(1));
    CLAIM(!strcmp(hop_type_text(w), "f32[3]") && hop_rank(w) == 1, "the type of a value: %s",
          hop_type_text(w));
    r = hop_value_tensor(w);
    CLAIM(r && get(r, 2) == 5, "eager values can be read back");
    hop_tensor_free(r);
    hop_add(w, hop_zeros("f32[7]"));
    CLAIM(hop_failed() && !hop_value_tensor(w), "after an error calls do nothing");
    CLAIM(hop_eager_end() == HOP_INVALID && strstr(hop_message(), "do not broadcast"),
          "end gives the first error: %s", hop_message());
    CLAIM(hop_eager_end() == HOP_INVALID, "end without begin");
    hop_tensor_free(t);
}

/* ---- captures within each other, and eager mode with names ---- */

BODY(of_nothing)
{
    UNUSED;
    hop_val none = { 0, 0 };
    out[0] = hop_neg(none);
    return 0;
}
BODY(inner_square)
{
    UNUSED;
    out[0] = hop_mul(in[0], in[0]);
    return 0;
}
BODY(captures_inside)
{
    UNUSED;
    hop_fn *f = NULL, *g = NULL;
    CLAIM(!hop_capture(&f, "x: f32[N]", 1, inner_square, NULL), "a capture inside: %s", hop_message());
    hop_call_fn(out, 1, f, in, 1);
    CLAIM(hop_capture(&g, "x: f32[N]", 1, of_nothing, NULL) && !hop_failed(),
          "the failure of an inner capture is its own");
    hop_fn_free(f);
    return 0;
}
BODY(named_sizes)
{
    UNUSED;
    hop_add_to(in[1], hop_full("f32[T]", hop_int(2)));
    out[0] = hop_broadcast(hop_dim_value(hop_dim_text("2*T")), "T");
    return 0;
}
static void test_nesting(void)
{
    hop_tensor *in[2] = { 0 }, *out[1] = { 0 };
    hop_fn *f = NULL;
    CLAIM(!hop_tensor_new(&in[0], "f32[3]") && !hop_tensor_new(&in[1], "f32[3]"), "%s", hop_message());
    for (int i = 0; i < 3; i++) set(in[0], i, i + 1);
    CLAIM(!hop_eager(NULL, captures_inside, NULL, in, 1, out, 1) && get(out[0], 2) == 9,
          "a capture inside of eager mode: %s", hop_message());
    free_all(out, 1);
    CLAIM(!hop_capture(&f, "x: f32[3]", 1, captures_inside, NULL) && !hop_interpret(f, in, 1, out, 1) &&
              get(out[0], 1) == 4,
          "a capture inside of a capture: %s", hop_message());
    free_all(out, 1);
    CLAIM(!hop_eager("x: f32[T], log: mut f32[T]", named_sizes, NULL, in, 2, out, 1) && get(in[1], 1) == 2 &&
              get(out[0], 0) == 6,
          "names and updates in eager mode: %s", hop_message());
    free_all(out, 1);
    hop_tensor_free(in[1]);
    in[1] = NULL;
    CLAIM(!hop_tensor_new(&in[1], "f32[4]"), "%s", hop_message());
    CLAIM(hop_eager("x: f32[T], log: mut f32[T]", named_sizes, NULL, in, 2, out, 1) == HOP_INVALID &&
              strstr(hop_message(), "(T) is 4") && strstr(hop_message(), "says 3"),
          "%s", hop_message());
    hop_fn_free(f);
    free_all(in, 2);
}

/* ---- running out of memory ---- */

BODY(everything)
{
    UNUSED;
    hop_val r[4];
    writes(NULL, (hop_val[]){ in[0], hop_int(1), hop_slice(in[0], "0:2") }, r);
    hop_val total = hop_sum(r[1], "all");
    deep(NULL, (hop_val[]){ in[0], in[0] }, r);
    total = hop_add(total, hop_sum(r[0], "all"));
    whiles(NULL, (hop_val[]){ total, hop_scalar(10) }, r);
    out[0] = hop_add(total, r[0]);
    return 0;
}
static void test_out_of_memory(void)
{
    int64_t live = hop_live_allocations();
    uint64_t n = 1;
    int status = HOP_NOMEM;
    for (; status && n < 20000; n++) {
        hop_fn *f = NULL;
        hop_fail_allocation(n);
        status = hop_capture(&f, "x: f32[T]", 1, everything, NULL);
        hop_fail_allocation(0);
        if (status != HOP_NOMEM && status)
            CLAIM(0, "allocation %llu fails: status %d, %s", (unsigned long long)n, status, hop_message());
        if (status && f) CLAIM(0, "allocation %llu fails: the output is touched", (unsigned long long)n);
        hop_fn_free(f);
        if (hop_live_allocations() != live) {
            CLAIM(0, "allocation %llu fails: %lld blocks leak", (unsigned long long)n,
                  (long long)(hop_live_allocations() - live));
            return;
        }
    }
    CLAIM(!status && n > 10, "capture with each of %llu allocations failing", (unsigned long long)n);
    hop_tensor *in[1] = { 0 }, *out[3] = { 0 };
    CLAIM(!hop_tensor_new(&in[0], "f32[3]"), "%s", hop_message());
    live = hop_live_allocations();
    for (n = 1, status = HOP_NOMEM; status && n < 20000; n++) {
        hop_fail_allocation(n);
        status = hop_eager(NULL, write_branches, NULL, in, 1, out, 3);
        hop_fail_allocation(0);
        if (status != HOP_NOMEM && status)
            CLAIM(0, "eagerly, allocation %llu fails: status %d, %s", (unsigned long long)n, status,
                  hop_message());
        free_all(out, 3);
        if (hop_live_allocations() != live) {
            CLAIM(0, "eagerly, allocation %llu fails: %lld blocks leak", (unsigned long long)n,
                  (long long)(hop_live_allocations() - live));
            break;
        }
    }
    CLAIM(!status, "eager mode with each of %llu allocations failing", (unsigned long long)n);
    free_all(in, 1);
}

/* ---- policies ---- */

BODY(named_body)
{
    UNUSED;
    hop_val e = hop_checkpoint_name(hop_exp(in[0]), "e");
    out[0] = hop_sum(hop_sin(hop_mul(e, e)), "all");
    return 0;
}
BODY(with_policy)
{
    return hop_call(out, 1, &(hop_call_spec){ .body = named_body, .in = in, .n_in = 1, .policy = env });
}
static void test_policies(void)
{
    hop_fn *f = NULL, *g = NULL;
    char policy[] = "names(save = [e])", unknown[] = "names(save = [z])", broken[] = "names(save = [e]";
    CLAIM(!hop_capture(&f, "x: f32[3]", 1, with_policy, policy) &&
              strstr(hop_fn_text(f), "invoke_subgraph {policy = \"names(save = [e])\"}") &&
              strstr(hop_fn_text(f), "tag {name = \"e\"}"),
          "a call has its policy: %s", f ? hop_fn_text(f) : hop_message());
    CLAIM(!hop_grad(&g, f, "x") && strstr(hop_fn_text(g), "tag {gradient = keep, use = save}"),
          "its gradient keeps what has the name: %s", g ? hop_fn_text(g) : hop_message());
    hop_fn_free(g);
    hop_fn_free(f);
    f = NULL;
    CLAIM(hop_capture(&f, "x: f32[3]", 1, with_policy, unknown) == HOP_INVALID &&
              strstr(hop_message(), "capture_test.c:") &&
              strstr(hop_message(), "no value has such a name; named are 'e'"),
          "a policy that names nothing: %s", hop_message());
    CLAIM(hop_capture(&f, "x: f32[3]", 1, with_policy, broken) == HOP_INVALID &&
              strstr(hop_message(), "expected ), found the end"),
          "a policy that ends too early: %s", hop_message());
}

/* ---- what a call says of itself ---- */

static hop_fn *called;
struct said {
    const char *policy, *inlining;
    int recompute;
    bool by_body;
};
BODY(with_options)
{
    const struct said *s = env;
    hop_call_spec spec = { .body = named_body, .in = in, .n_in = 1, .recompute = s->recompute };
    spec.policy = s->policy;
    spec.inlining = s->inlining;
    if (s->by_body) return hop_call(out, 1, &spec);
    hop_call_options o = { .recompute = s->recompute, .policy = s->policy, .inlining = s->inlining };
    return hop_call_fn_with(out, 1, called, in, 1, &o);
}
static void test_options_of_calls(void)
{
    static const struct {
        struct said said;
        const char *text; /* of the call; NULL: an error … */
        const char *message;
    } rows[] = {
        { { NULL, NULL, 0, false }, "= invoke_subgraph @named_body(", NULL },
        { { NULL, "yes", 0, false }, "invoke_subgraph {inline = yes} ", NULL },
        { { NULL, "no", 1, false }, "invoke_subgraph {recompute, inline = no} ", NULL },
        { { "products", "no", 0, false }, "invoke_subgraph {policy = \"products\", inline = no} ", NULL },
        { { NULL, "maybe", 0, false }, NULL, "inlining: expected \"yes\" or \"no\", found \"maybe\"" },
        { { "products", NULL, 1, false }, NULL, "both 'recompute' and 'policy' are given" },
        { { "most", NULL, 0, false }, NULL, "found 'most'" },
    };
    CLAIM(!hop_capture(&called, "x: f32[3]", 1, named_body, NULL), "%s", hop_message());
    for (size_t i = 0; i < 2 * HOP_COUNT(rows); i++) {
        struct said said = rows[i / 2].said;
        hop_fn *f = NULL;
        said.by_body = i % 2;
        hop_status status = hop_capture(&f, "x: f32[3]", 1, with_options, &said);
        if (rows[i / 2].text)
            CLAIM(!status && (i < 2 || strstr(hop_fn_text(f), rows[i / 2].text)), "row %zu: %s", i,
                  status ? hop_message() : hop_fn_text(f));
        else
            CLAIM(status == HOP_INVALID && strstr(hop_message(), "capture_test.c:") &&
                      strstr(hop_message(), rows[i / 2].message),
                  "row %zu: %s", i, status ? hop_message() : hop_fn_text(f));
        hop_fn_free(f);
    }
    hop_fn_free(called);
}

int main(void)
{
    int64_t live = hop_live_allocations();
    for (size_t i = 0; i < HOP_COUNT(programs); i++) check_program(&programs[i]);
    test_every_operator();
    test_remarks();
    test_policies();
    test_options_of_calls();
    test_sharing();
    test_keys();
    test_updates();
    test_eager();
    test_nesting();
    CLAIM(hop_live_allocations() == live, "%lld blocks leak", (long long)(hop_live_allocations() - live));
    test_out_of_memory();
    return tests_end();
}
