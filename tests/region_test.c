/* region: a body under a regime, made by calls: text and back, transforms that keep the kind, attributes that
 * tell programs apart, and specifications that cannot be. Then what each kind does, seen in what is compiled:
 * a wrap is a boundary, a name stands in texts and messages, strict numbers are those of the interpreter in a
 * program without, hints are followed. */
#include "check.h"
#include "hop/hop.h"

#include <math.h>

static int cube(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_mul(in[0], hop_mul(in[0], in[0]));
    return 0;
}

struct given {
    const char *kind, *attributes;
};

static int cube_in_region(void *env, const hop_val *in, hop_val *out)
{
    const struct given *g = env;
    hop_region_spec spec = {
        .kind = g->kind, .attributes = g->attributes, .body = cube, .in = in, .n_in = 1, .name = "cube"
    };
    return hop_region(out, 1, &spec);
}

static hop_fn *captured(const char *kind, const char *attributes)
{
    struct given g = { kind, attributes };
    hop_fn *f = NULL;
    CLAIM(!hop_capture(&f, "f(x: f64[])", 1, cube_in_region, &g), "%s", hop_message());
    return f;
}

static double value_of(hop_fn *f, double x)
{
    hop_tensor *in = NULL, *out = NULL;
    double found = NAN;
    CLAIM(!hop_tensor_new(&in, "f64[]"), "%s", hop_message());
    memcpy(hop_data(in), &x, sizeof x);
    CLAIM(!hop_interpret(f, &in, 1, &out, 1), "%s", hop_message());
    if (out) memcpy(&found, hop_data(out), sizeof found);
    hop_tensor_free(in);
    hop_tensor_free(out);
    return found;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
    return n;
}

/* ---- text, transforms ---- */

static void test_text(void)
{
    static const char written[] =
        "{kind = \"mine\", bits = 8, levels = [0.5, -1, 2.0], mode = \"a \\\"b\\\"\", on = true}";
    hop_fn *f = captured("mine", "on = true, bits = 8,mode = \"a \\\"b\\\"\", levels = [0.5, -1, 2.0]");
    hop_fn *again = NULL;
    CLAIM(strstr(hop_fn_text(f), written), "attributes stand in the order of their names: %s",
          hop_fn_text(f));
    CLAIM(!hop_fn_read(&again, hop_fn_text(f), "f"), "%s", hop_message());
    CLAIM(!strcmp(hop_fn_text(f), hop_fn_text(again)), "what is printed reads as the same: %s",
          hop_fn_text(again));
    hop_fn_free(f);
    hop_fn_free(again);
}

static void test_transforms(void)
{
    hop_fn *f = captured("mine", "bits = 8"), *grad = NULL, *second = NULL, *jvp = NULL, *lanes = NULL;
    static const char kind[] = "region {kind = \"mine\", bits = 8}";
    CLAIM(!hop_grad(&grad, f, "x") && !hop_grad(&second, grad, "x"), "%s", hop_message());
    CLAIM(!hop_jvp(&jvp, f, "x") && !hop_vmap(&lanes, f, NULL, NULL), "%s", hop_message());
    CLAIM(value_of(f, 2) == 8 && value_of(grad, 2) == 12 && value_of(second, 2) == 12, "x³, 3x², 6x");
    CLAIM(count(hop_fn_text(grad), kind) >= 1, "the backward is a region: %s", hop_fn_text(grad));
    CLAIM(count(hop_fn_text(second), kind) >= 1, "and its backward: %s", hop_fn_text(second));
    CLAIM(count(hop_fn_text(jvp), kind) == 1, "the tangents: %s", hop_fn_text(jvp));
    CLAIM(count(hop_fn_text(lanes), kind) == 1, "the lanes: %s", hop_fn_text(lanes));
    hop_fn_free(f);
    hop_fn_free(grad);
    hop_fn_free(second);
    hop_fn_free(jvp);
    hop_fn_free(lanes);
}

/* ---- what each kind does ---- */

static hop_fn *read_fn(const char *text, const char *name)
{
    hop_fn *f = NULL;
    CLAIM(!hop_fn_read(&f, text, name), "%s", hop_message());
    return f;
}

/* What is compiled of a function of a program, as text; "" when it cannot be. */
static char *compiled_text(const char *program, const char *name, const char *kind)
{
    hop_fn *f = read_fn(program, name);
    char *text = NULL;
    int status = strcmp(kind, "explain") ? hop_emit(&text, f, kind, NULL)
                                         : hop_explain(&text, f, NULL, "all");
    CLAIM(!status, "%s: %s", name, hop_message());
    hop_fn_free(f);
    return text;
}

static bool compiled_says(const char *program, const char *name, const char *kind, const char *word)
{
    char *text = compiled_text(program, name, kind);
    bool found = text && strstr(text, word);
    hop_text_free(text);
    return found;
}

#define CHAIN(name, attributes) \
    "fn @" name "(%x: f32[64]) -> (f32[64]) {\n" \
    "  %a = exp(%x)\n" \
    "  %y = region {" attributes "} with(%a) {\n    %s = sin(%a)\n    yield(%s)\n  }\n" \
    "  %w = exp(%y)\n  return %w\n}\n"
static const char CHAINS[] = "hop 1\n" CHAIN("wrapped", "kind = \"wrap\"")
    CHAIN("inlined", "kind = \"wrap\", inline = \"yes\"") CHAIN("mine", "kind = \"mine\"")
        CHAIN("kept", "kind = \"mine\", inline = false");

static void test_wrap(void)
{
    static const char scalars[] = "hop 1\n"
                                  "fn @apart(%a: f32[], %b: f32[], %c: f32[]) -> (f32[]) {\n"
                                  "  %y = region {kind = \"wrap\"} with(%a, %b) {\n"
                                  "    %p = mul(%a, %b)\n    yield(%p)\n  }\n"
                                  "  %w = add(%y, %c)\n  return %w\n}\n"
                                  "fn @inside(%a: f32[], %b: f32[], %c: f32[]) -> (f32[]) {\n"
                                  "  %p = mul(%a, %b)\n"
                                  "  %y = region {kind = \"wrap\"} with(%p, %c) {\n"
                                  "    %s = add(%p, %c)\n    yield(%s)\n  }\n"
                                  "  return %y\n}\n";
    CLAIM(compiled_says(CHAINS, "wrapped", "explain", "nests: 3\n"), "exp, sin and exp are three nests");
    CLAIM(compiled_says(CHAINS, "kept", "explain", "nests: 3\n"), "inline = false says the same");
    CLAIM(compiled_says(CHAINS, "inlined", "explain", "nests: 1\n"), "inlined they are one");
    CLAIM(compiled_says(CHAINS, "mine", "explain", "nests: 1\n"), "a kind of the user's means its body");
    CLAIM(!compiled_says(scalars, "apart", "loops", "fma("), "no sum outside takes a product inside in");
    CLAIM(!compiled_says(scalars, "inside", "loops", "fma("), "nor the other way");
}

static void test_named(void)
{
    static const char text[] = "hop 1\n"
                               "fn @f(%x: f32[64]) -> (f32[]) {\n"
                               "  %y = region {kind = \"named\", name = \"outer\"} with(%x) {\n"
                               "    %z = region {kind = \"named\", name = \"inner\"} with(%x) {\n"
                               "      %s = sum(%x)\n"
                               "      %zero = full {value = 0.0, dims = []}\n"
                               "      %ok = gt(%s, %zero)\n"
                               "      check {message = \"positive\"} (%ok)\n"
                               "      yield(%s)\n    }\n"
                               "    yield(%z)\n  }\n"
                               "  return %y\n}\n";
    static const char says[] = "check: positive\n  in the region 'inner'\n  in the region 'outer'";
    CLAIM(compiled_says(text, "f", "explain", "outer/inner: sum"), "the nest has the name");
    hop_fn *f = read_fn(text, "f");
    hop_tensor *x = NULL, *out = NULL;
    hop_exe *exe = NULL;
    CLAIM(!hop_tensor_new(&x, "f32[64]") && !hop_compile(&exe, f, NULL), "%s", hop_message());
    CLAIM(hop_interpret(f, &x, 1, &out, 1) == HOP_CHECK && strstr(hop_message(), says), "%s", hop_message());
    CLAIM(hop_run(exe, &x, 1, &out, 1) == HOP_CHECK && strstr(hop_message(), says), "%s", hop_message());
    hop_exe_free(exe);
    hop_tensor_free(x);
    hop_fn_free(f);
}

/* Numbers whose sum depends on its order. */
static hop_tensor *numbers(int64_t n)
{
    hop_tensor *x = NULL;
    char type[32];
    snprintf(type, sizeof type, "f32[%lld]", (long long)n);
    CLAIM(!hop_tensor_new(&x, type), "%s", hop_message());
    float *data = hop_data(x);
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}

static float compiled_value(const char *program, const char *name, hop_tensor *x, bool interpreted)
{
    hop_fn *f = read_fn(program, name);
    hop_exe *exe = NULL;
    hop_tensor *out = NULL;
    float value = NAN;
    if (interpreted) CLAIM(!hop_interpret(f, &x, 1, &out, 1), "%s", hop_message());
    else CLAIM(!hop_compile(&exe, f, NULL) && !hop_run(exe, &x, 1, &out, 1), "%s", hop_message());
    if (out) memcpy(&value, hop_data(out), sizeof value);
    hop_tensor_free(out);
    hop_exe_free(exe);
    hop_fn_free(f);
    return value;
}

static const char SUMS[] = "hop 1\n"
                           "fn @fast(%v: f32[1003]) -> (f32[]) {\n    %q = mul(%v, %v)\n    %p = mul(%q, "
                           "%v)\n    %s = sum(%p)\n    return %s\n}\n"
                           "fn @strict(%v: f32[1003]) -> (f32[]) {\n"
                           "  %y = region {kind = \"numbers\", mode = \"strict\"} @fast(%v)\n  return %y\n}\n"
                           "fn @rest(%v: f32[1003]) -> (f32[]) {\n"
                           "  %y = region {kind = \"numbers\", mode = \"strict\"} @fast(%v)\n"
                           "  %z = invoke_subgraph @fast(%v)\n  %d = sub(%z, %y)\n  return %d\n}\n"
                           "fn @accumulated(%v: f32[1003]) -> (f32[]) {\n"
                           "  %y = region {kind = \"numbers\", mode = \"strict\"} with(%v) {\n"
                           "    %o = full {value = 0.0, dims = []}\n"
                           "    %t = scan carry(%c = %o) over(%e in %v) {\n"
                           "      %p = mul(%e, %e)\n      %n = add(%c, %p)\n      next(%n)\n    }\n"
                           "    yield(%t)\n  }\n  return %y\n}\n";

static void test_numbers(void)
{
    hop_tensor *x = numbers(1003);
    float fast = compiled_value(SUMS, "fast", x, false), strict = compiled_value(SUMS, "strict", x, false);
    float interpreted = compiled_value(SUMS, "fast", x, true);
    CLAIM(fast != interpreted, "default numbers add in another order: %.9g", fast);
    CLAIM(strict == interpreted, "a strict part has the interpreter's: %.9g, %.9g", strict, interpreted);
    CLAIM(compiled_value(SUMS, "rest", x, false) == fast - strict, "the rest of the program stays as it is");
    CLAIM(compiled_value(SUMS, "accumulated", x, false) == compiled_value(SUMS, "accumulated", x, true),
          "a loop that adds up keeps its order");
    CLAIM(!compiled_says(SUMS, "accumulated", "loops", "fma("), "products are rounded");
    CLAIM(compiled_says(SUMS, "strict", "c", "without -ffast-math"), "emitted C insists on it");
    CLAIM(!compiled_says(SUMS, "strict", "c", "hop_fma_f32("), "and has no fused products in it");
    hop_tensor_free(x);
}

#define LOOP(name, attributes) \
    "fn @" name "(%x: f32[64]) -> (f32[]) {\n" \
    "  %y = region {kind = \"hints\", " attributes "} with(%x) {\n" \
    "    %o = full {value = 0.0, dims = []}\n" \
    "    %t = scan carry(%c = %o) over(%e in %x) {\n" \
    "      %n = add(%c, %e)\n      %m = sin(%n)\n      next(%m)\n    }\n" \
    "    yield(%t)\n  }\n  return %y\n}\n"
#define ROOTS(name, attributes) \
    "fn @" name "(%x: f32[2000, 2000]) -> (f32[2000, 2000]) {\n" \
    "  %y = region {kind = \"hints\", " attributes "} with(%x) {\n" \
    "    %s = sqrt(%x)\n    yield(%s)\n  }\n  return %y\n}\n"
static const char HINTS[] = "hop 1\n" LOOP("unrolled", "unroll = 4, flavour = \"sour\"")
    LOOP("scheduled", "schedule = \"every 8\"") ROOTS("roots", "flavour = \"sour\"")
        ROOTS("single", "vector = \"off\"") ROOTS("serial", "threads = 1") ROOTS("three", "threads = 3");

static void test_hints(void)
{
    CLAIM(compiled_says(HINTS, "unrolled", "loops", " unroll 4 {"), "the loop is unrolled");
    CLAIM(compiled_says(HINTS, "roots", "llvm", "x float>"), "vectors are the rule");
    CLAIM(!compiled_says(HINTS, "single", "llvm", "x float>"), "there are no vectors");
    CLAIM(compiled_says(HINTS, "roots", "loops", " parallel {"), "threads are the rule");
    CLAIM(!compiled_says(HINTS, "serial", "loops", " parallel"), "one thread");
    CLAIM(compiled_says(HINTS, "three", "loops", " parallel threads 3 {"), "at most three");
    hop_fn *f = read_fn(HINTS, "unrolled"), *grad = NULL;
    CLAIM(strstr(hop_fn_text(f), "flavour = \"sour\""), "what hop does not know stays: %s", hop_fn_text(f));
    hop_fn_free(f);
    f = read_fn(HINTS, "scheduled");
    CLAIM(!hop_grad(&grad, f, "x") && strstr(hop_fn_text(grad), "reshape {dims = [8, 8]}"),
          "the gradient keeps the carries of every eighth step: %s",
          grad ? hop_fn_text(grad) : hop_message());
    hop_fn_free(f);
    hop_fn_free(grad);
}

/* Results that nobody reads are not computed: not even across a boundary. */
static void test_unread(void)
{
    static const char text[] = "hop 1\n"
                               "fn @f(%x: f32[64]) -> (f32[64]) {\n"
                               "  %y, %z = region {kind = \"wrap\"} with(%x) {\n"
                               "    %s = sin(%x)\n    %c = sqrt(%x)\n    yield(%s, %c)\n  }\n"
                               "  return %y\n}\n";
    CLAIM(!compiled_says(text, "f", "loops", "sqrt("), "nobody reads the root");
}

/* ---- rewritings ---- */

struct scaling {
    const hop_fn *body;
    double by;
    int calls, released;
    const char *params; /* of what it gives; NULL: as many f64[] as the body has */
    int fails;
};

static int scaled_body(void *env, const hop_val *in, hop_val *out)
{
    const struct scaling *s = env;
    int n = hop_fn_results(s->body);
    if (hop_call_fn(out, n, s->body, in, hop_fn_params(s->body))) return 1;
    for (int k = 0; k < n; k++) out[k] = hop_mul(out[k], hop_scalar(s->by));
    return 0;
}

/* What the body gives, times the attribute `by`. */
static int scales(void *user, const hop_attributes *attributes, const hop_fn *body, hop_fn **out)
{
    struct scaling *s = user;
    char params[256] = "";
    s->calls++;
    s->body = body;
    if (s->fails) return hop_fail("it does not feel like it");
    if (!hop_attribute_real(attributes, "by", &s->by)) {
        *out = hop_fn_ref((hop_fn *)body);
        return 0;
    }
    for (int i = 0; i < hop_fn_params(body); i++) {
        size_t n = strlen(params);
        snprintf(params + n, sizeof params - n, "%sp%d: f64[]", i ? ", " : "", i);
    }
    return hop_capture(out, s->params ? s->params : params, hop_fn_results(body), scaled_body, s);
}

static void was_released(void *user) { ((struct scaling *)user)->released++; }

static double run_value(hop_fn *f, double x)
{
    hop_tensor *in = NULL, *out = NULL;
    hop_exe *exe = NULL;
    double found = NAN;
    CLAIM(!hop_tensor_new(&in, "f64[]") && !hop_compile(&exe, f, NULL), "%s", hop_message());
    memcpy(hop_data(in), &x, sizeof x);
    CLAIM(!hop_run(exe, &in, 1, &out, 1), "%s", hop_message());
    if (out) memcpy(&found, hop_data(out), sizeof found);
    hop_exe_free(exe);
    hop_tensor_free(in);
    hop_tensor_free(out);
    return found;
}

static void test_rewriting(void)
{
    struct scaling s = { 0 }, other = { 0 };
    hop_fn *f = captured("scaled", "by = 10.0"), *plain = captured("scaled", NULL), *grad = NULL;
    CLAIM(value_of(f, 2) == 8 && run_value(f, 2) == 8, "without a rewriting it is its body");
    uint64_t before = hop_region_changes();
    CLAIM(!hop_region_register("scaled", "1", scales, &s, was_released), "%s", hop_message());
    CLAIM(hop_region_changes() != before, "whoever keeps programs sees that there is one");
    CLAIM(!hop_grad(&grad, f, "x") && !s.calls, "it runs after the transforms: %s", hop_message());
    CLAIM(value_of(f, 2) == 80 && run_value(f, 2) == 80, "interpreted and compiled: %g", value_of(f, 2));
    CLAIM(value_of(grad, 2) == 120 && run_value(grad, 2) == 120, "the backward is rewritten as well: %g",
          value_of(grad, 2));
    CLAIM(value_of(plain, 2) == 8, "it may leave a body as it is");
    CLAIM(strstr(hop_fn_text(f), "region {kind = \"scaled\", by = 10.0}"), "the text shows what was written");
    CLAIM(!hop_region_register("scaled", "2", scales, &other, NULL) && s.released == 1,
          "another one in its place");
    CLAIM(run_value(f, 2) == 80 && other.calls > 0, "which is asked");
    CLAIM(!hop_region_unregister("scaled"), "%s", hop_message());
    CLAIM(hop_region_unregister("scaled") == HOP_INVALID && strstr(hop_message(), "no rewriting of 'scaled'"),
          "%s", hop_message());
    CLAIM(value_of(f, 2) == 8 && run_value(f, 2) == 8, "and without it the body again");
    hop_fn_free(f);
    hop_fn_free(plain);
    hop_fn_free(grad);
}

static void test_wrong_rewriting(void)
{
    static const struct {
        const char *params;
        int fails;
        const char *says;
    } all[] = {
        { NULL, 1, ": it does not feel like it" },
        { "p0: f64[], p1: f64[]", 0, "gives a function of 2 parameters, expected 1, those of the body" },
        { "p0: f32[]", 0, "whose parameter 0 has type f32[], expected f64[]" },
        { "p0: f64[3]", 0, "failed: tests/region_test.c:" },
        { "p0: nonsense", 0, "region: the rewriting of kind 'scaled' failed: " },
    };
    hop_fn *f = captured("scaled", "by = 2.0");
    hop_tensor *x = NULL, *out = NULL;
    hop_exe *exe = NULL;
    CLAIM(!hop_tensor_new(&x, "f64[]"), "%s", hop_message());
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct scaling s = { .params = all[i].params, .fails = all[i].fails };
        CLAIM(!hop_region_register("scaled", NULL, scales, &s, NULL), "%s", hop_message());
        CLAIM(hop_compile(&exe, f, NULL) && strstr(hop_message(), all[i].says) &&
                  strstr(hop_message(), "region_test.c:"),
              "expected '%s', found '%s'", all[i].says, hop_message());
        CLAIM(hop_interpret(f, &x, 1, &out, 1) && strstr(hop_message(), all[i].says), "%s", hop_message());
        CLAIM(!hop_region_unregister("scaled"), "%s", hop_message());
    }
    CLAIM(hop_region_register(NULL, NULL, scales, NULL, NULL) == HOP_INVALID, "a kind has a name");
    CLAIM(hop_region_register("scaled", NULL, NULL, NULL, NULL) == HOP_INVALID, "there is a function");
    CLAIM(hop_region_unregister(NULL) == HOP_INVALID, "nothing is registered under nothing");
    hop_tensor_free(x);
    hop_fn_free(f);
}

/* ---- what cannot be ---- */

static void test_wrong(void)
{
    static const struct {
        const char *kind, *attributes, *says;
    } all[] = {
        { NULL, NULL, "expected the name of a kind" },
        { "", NULL, "expected the name of a kind" },
        { "mine", "bits", "expected '='" },
        { "mine", "bits = ", "expected a string in quotes, a number" },
        { "mine", "bits = even", "expected a string in quotes, a number" },
        { "mine", "bits = [1", "expected ',' or ']'" },
        { "mine", "bits = [[1]]", "expected a string in quotes, a number" },
        { "mine", "bits = 1 2", "expected ','" },
        { "mine", "bits = 1, bits = 2", "attribute 'bits' is given twice" },
        { "mine", "kind = \"other\"", "attribute 'kind' is given twice" },
        { "mine", "8 = 8", "expected the name of an attribute" },
        { "named", NULL, "expected name = " },
        { "named", "name = 3", "expected name = " },
        { "wrap", "inline = 3", "inline: expected \"yes\"" },
        { "numbers", NULL, "expected mode = \"strict\"" },
        { "numbers", "mode = \"fast\"", "expected mode = \"strict\"" },
        { "numbers", "mode = \"strict\", inline = true", "it is not inlined" },
        { "hints", "unroll = 0", "unroll: expected an integer from 1 to 64, found 0" },
        { "hints", "unroll = \"4\"", "unroll: expected an integer" },
        { "hints", "vector = \"never\"", "vector: expected \"yes\"" },
        { "hints", "threads = -1", "threads: expected an integer" },
        { "hints", "schedule = \"every\"", "schedule: expected \"none\"" },
        { "hints", "schedule = 8", "schedule: expected \"none\"" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct given g = { all[i].kind, all[i].attributes };
        hop_fn *f = NULL;
        CLAIM(hop_capture(&f, "f(x: f64[])", 1, cube_in_region, &g), "%s", all[i].says);
        CLAIM(strstr(hop_message(), all[i].says) && strstr(hop_message(), "region_test.c:"),
              "expected '%s', found '%s'", all[i].says, hop_message());
        hop_fn_free(f);
    }
    hop_val none;
    CLAIM(hop_region(&none, 1, NULL) != 0, "a specification that is NULL");
}

int main(void)
{
    test_text();
    test_transforms();
    test_wrap();
    test_named();
    test_numbers();
    test_hints();
    test_unread();
    test_rewriting();
    test_wrong_rewriting();
    test_wrong();
    return tests_end();
}
