/* custom: whose rule runs under which transform. Every rule of the functions here is scaled by a number of
 * its own, so that results tell: the body gives 2 x x, forward 3 x x, backward 5 x ct, jvp 11 x x and the
 * tangent 7 x dx, batch 13 x x. Then rules that cannot be. */
#include "check.h"
#include "hop/hop.h"
#include "ways.h"

#include <math.h>

#define SCALED(name, number) \
    "fn @" name "(%x: f64[]) -> (f64[]) {\n  %s = mul(%x, %x)\n  %c = full {value = " number \
    ", dims = [], dtype = f64}\n  %r = mul(%c, %s)\n  return %r\n}\n"
static const char RULES[] = "hop 1\n" SCALED("body", "2") /**/
    "fn @forward(%x: f64[]) -> (f64[], f64[]) {\n  %s = mul(%x, %x)\n  %c = full {value = 3, dims = [], "
    "dtype = f64}\n  %r = mul(%c, %s)\n  return %r, %x\n}\n"
    "fn @backward(%x: f64[], %ct: f64[]) -> (f64[]) {\n  %c = full {value = 5, dims = [], dtype = f64}\n"
    "  %a = mul(%c, %x)\n  %r = mul(%a, %ct)\n  return %r\n}\n"
    "fn @jvp(%x: f64[], %dx: f64[]) -> (f64[], f64[]) {\n  %s = mul(%x, %x)\n  %c = full {value = 11, dims "
    "= [], dtype = f64}\n  %y = mul(%c, %s)\n  %k = full {value = 7, dims = [], dtype = f64}\n"
    "  %a = mul(%k, %x)\n  %t = mul(%a, %dx)\n  return %y, %t\n}\n"
    "fn @batch(%x: f64[B]) -> (f64[B]) {\n  %s = mul(%x, %x)\n  %c = full {value = 13, dims = [B], dtype = "
    "f64}\n  %r = mul(%c, %s)\n  return %r\n}\n";

/* ---- running ---- */

static hop_tensor *vector(const double *data, int64_t n)
{
    hop_tensor *t = NULL;
    char type[32] = "f64[]";
    if (n >= 0) snprintf(type, sizeof type, "f64[%lld]", (long long)n);
    if (hop_tensor_new(&t, type)) return NULL;
    memcpy(hop_data(t), data, (size_t)(n < 0 ? 1 : n) * sizeof *data);
    return t;
}

/* A program, the transforms it goes through, its arguments and what must come out. */
struct expected {
    const char *what, *attrs;
    const char *transforms[4]; /* "grad x", "jvp x", "vmap x", … */
    int n_in, n_out;
    double in[4], out[4];
    int64_t lanes; /* > 0: of each argument, which is repeated; results are compared in each lane */
};

static hop_fn *transformed(hop_fn *f, const char *how)
{
    static const struct {
        const char *name;
        hop_status (*make)(hop_fn **, hop_fn *, const char *);
    } all[] = { { "grad ", hop_grad },
                { "value ", hop_value_and_grad },
                { "jvp ", hop_jvp },
                { "vjp ", hop_vjp },
                { "jacfwd ", hop_jacfwd } };
    hop_fn *out = NULL;
    int status = HOP_INVALID;
    if (!strcmp(how, "vmap")) status = hop_vmap(&out, f, NULL, NULL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strncmp(how, all[i].name, strlen(all[i].name)))
            status = all[i].make(&out, f, how + strlen(all[i].name));
    CLAIM(!status, "%s: %s", how, hop_message());
    hop_fn_free(f);
    return out;
}

static void compare(const struct expected *e, const char *by, hop_tensor **out)
{
    int64_t lanes = e->lanes > 0 ? e->lanes : 1;
    for (int k = 0; k < e->n_out; k++)
        for (int64_t i = 0; i < lanes; i++) {
            double found = ((const double *)hop_data(out[k]))[i];
            CLAIM(fabs(found - e->out[k]) < 1e-12, "%s, %s: result %d is %g, expected %g", e->what, by, k,
                  found, e->out[k]);
        }
    for (int k = 0; k < e->n_out; k++) hop_tensor_free(out[k]);
}

static hop_fn *program(const char *attrs)
{
    char text[4096];
    snprintf(text, sizeof text,
             "%sfn @f(%%x: f64[]) -> (f64[]) {\n  %%y = custom {%s} @body(%%x)\n  return %%y\n}\n", RULES,
             attrs);
    hop_fn *f = NULL;
    int status = hop_fn_read(&f, text, "f");
    CLAIM(!status, "%s: %s", attrs, hop_message());
    return f;
}

static void check_expected(const struct expected *e)
{
    hop_fn *f = program(e->attrs);
    for (int i = 0; f && i < 4 && e->transforms[i]; i++) f = transformed(f, e->transforms[i]);
    if (!f) return;
    hop_tensor *in[4] = { NULL };
    for (int i = 0; i < e->n_in; i++) {
        double data[8];
        for (int k = 0; k < 8; k++) data[k] = e->in[i];
        in[i] = vector(data, e->lanes > 0 ? e->lanes : -1);
    }
    static const hop_compile_options how[] = {
        { 0 }, { .strict = 1 }, { .portable = 1 }, { .without = "fold, inline, dce" }
    };
    hop_tensor *out[4] = { NULL };
    CLAIM(!hop_interpret(f, in, e->n_in, out, e->n_out), "%s: %s", e->what, hop_message());
    compare(e, "interpreted", out);
    for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
        hop_exe *exe = NULL;
        hop_tensor *made[4] = { NULL };
        int status = hop_compile(&exe, f, &how[k]);
        CLAIM(!status, "%s: %s", e->what, hop_message());
        if (status) continue;
        CLAIM(!hop_run(exe, in, e->n_in, made, e->n_out), "%s: %s", e->what, hop_message());
        compare(e, "compiled", made);
        hop_exe_free(exe);
    }
    for (int i = 0; i < e->n_in; i++) hop_tensor_free(in[i]);
    hop_fn_free(f);
}

#define BACK "forward = @forward, backward = @backward"
static const struct expected all[] = {
    { "run", BACK ", jvp = @jvp, batch = @batch", { NULL }, 1, 1, { 2 }, { 8 }, 0 },
    { "value and gradient", BACK, { "value x" }, 1, 2, { 2 }, { 12, 10 }, 0 },
    { "without a forward", "backward = @backward", { "value x" }, 1, 2, { 2 }, { 8, 10 }, 0 },
    { "vjp", BACK, { "vjp x" }, 2, 2, { 2, 3 }, { 12, 30 }, 0 },
    { "the transpose", BACK, { "jvp x" }, 2, 2, { 2, 3 }, { 12, 30 }, 0 },
    { "the transpose without a forward", "backward = @backward", { "jvp x" }, 2, 2, { 2, 3 }, { 8, 30 }, 0 },
    { "the body", BACK ", tangent = body", { "jvp x" }, 2, 2, { 2, 3 }, { 8, 24 }, 0 },
    { "both: jvp", BACK ", jvp = @jvp", { "jvp x" }, 2, 2, { 2, 3 }, { 44, 42 }, 0 },
    { "both: gradient", BACK ", jvp = @jvp", { "value x" }, 1, 2, { 2 }, { 12, 10 }, 0 },
    { "jvp alone", "jvp = @jvp", { "jvp x" }, 2, 2, { 2, 3 }, { 44, 42 }, 0 },
    { "jvp alone: gradient", "jvp = @jvp", { "value x" }, 1, 2, { 2 }, { 44, 14 }, 0 },
    { "jvp alone: second", "jvp = @jvp", { "grad x", "grad x" }, 1, 1, { 2 }, { 7 }, 0 },
    { "second", BACK, { "grad x", "grad x" }, 1, 1, { 2 }, { 5 }, 0 },
    { "jvp of the gradient", BACK, { "grad x", "jvp x" }, 2, 2, { 2, 3 }, { 10, 15 }, 0 },
    { "gradient of the jvp", BACK, { "jvp x", "vjp x" }, 4, 3, { 2, 3, 1, 10 }, { 12, 30, 12 + 150 }, 0 },
    { "jacfwd", BACK, { "jacfwd x" }, 1, 1, { 2 }, { 10 }, 0 },
    { "batch alone", "batch = @batch", { "vmap" }, 1, 1, { 2 }, { 52 }, 3 },
    { "batch alone: gradient", "batch = @batch", { "grad x" }, 1, 1, { 2 }, { 8 }, 0 },
    { "vmap", BACK, { "vmap" }, 1, 1, { 2 }, { 8 }, 3 },
    { "vmap of the gradient", BACK, { "value x", "vmap" }, 1, 2, { 2 }, { 12, 10 }, 3 },
    { "vjp of vmap", BACK, { "vmap", "vjp x" }, 2, 2, { 2, 3 }, { 12, 30 }, 3 },
    { "jvp of vmap", BACK, { "vmap", "jvp x" }, 2, 2, { 2, 3 }, { 12, 30 }, 3 },
    { "jvp alone: vjp of vmap", "jvp = @jvp", { "vmap", "vjp x" }, 2, 2, { 2, 3 }, { 44, 42 }, 3 },
    { "jvp alone: jvp of vmap", "jvp = @jvp", { "vmap", "jvp x" }, 2, 2, { 2, 3 }, { 44, 42 }, 3 },
};

/* ---- several operands ---- */

#define TWO \
    "hop 1\nfn @body(%x: f64[n], %w: f64[n]) -> (f64[n]) {\n  %y = mul(%x, %w)\n  return %y\n}\n" \
    "fn @back(%x: f64[n], %w: f64[n], %ct: f64[n]) -> (f64[n], f64[n]) {\n  %a = mul(%w, %ct)\n  %b = " \
    "mul(%x, %ct)\n  %c = add(%b, %b)\n  return %a, %c\n}\n" \
    "fn @back_w(%x: f64[n], %w: f64[n], %ct: f64[n]) -> (f64[n]) {\n  %b = mul(%x, %ct)\n  return %b\n}\n"

/* The cotangent of an operand that is the same in all lanes is the sum of theirs; an operand that backward
 * gives nothing for gets zeros. */
static void test_operands(void)
{
    static const struct {
        const char *attrs, *batched;
        double x, w; /* cotangents, each of all elements */
    } cases[] = {
        { "backward = @back", "x", 5, 2 * 3 * 4 },
        { "backward = @back_w, gives = [1]", "x", 0, 3 * 4 },
        { "backward = @back", "x, w", 5, 2 * 4 },
        { "backward = @back_w, gives = [1], tangent = body", "w", 0, 4 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "%sfn @f(%%x: f64[2], %%w: f64[2]) -> (f64[2]) {\n  %%y = custom {%s} @body(%%x, %%w)\n  "
                 "return %%y\n}\n",
                 TWO, cases[k].attrs);
        hop_fn *f = NULL, *lanes = NULL, *back = NULL;
        CLAIM(!hop_fn_read(&f, text, "f"), "%s: %s", cases[k].attrs, hop_message());
        CLAIM(!hop_vmap(&lanes, f, cases[k].batched, NULL), "%s: %s", cases[k].attrs, hop_message());
        CLAIM(!hop_vjp(&back, lanes, "x, w"), "%s: %s", cases[k].attrs, hop_message());
        bool lanes_x = strchr(cases[k].batched, 'x'), lanes_w = strchr(cases[k].batched, 'w');
        hop_tensor *in[3] = { NULL }, *out[3] = { NULL };
        hop_tensor_new(&in[0], lanes_x ? "f64[3, 2]" : "f64[2]");
        hop_tensor_new(&in[1], lanes_w ? "f64[3, 2]" : "f64[2]");
        hop_tensor_new(&in[2], "f64[3, 2]");
        for (int i = 0; i < 3; i++)
            for (int64_t j = 0; j < hop_tensor_count(in[i]); j++)
                ((double *)hop_data(in[i]))[j] = i == 0 ? 4 : i == 1 ? 5 : 1;
        CLAIM(!hop_interpret(back, in, 3, out, 3), "%s: %s", cases[k].attrs, hop_message());
        for (int i = 1; i < 3 && out[i]; i++)
            for (int64_t j = 0; j < hop_tensor_count(out[i]); j++) {
                double found = ((double *)hop_data(out[i]))[j], expected = i == 1 ? cases[k].x : cases[k].w;
                CLAIM(found == expected, "%s over %s: cotangent %d is %g, expected %g", cases[k].attrs,
                      cases[k].batched, i - 1, found, expected);
            }
        for (int i = 0; i < 3; i++) {
            hop_tensor_free(in[i]);
            hop_tensor_free(out[i]);
        }
        hop_fn_free(f);
        hop_fn_free(lanes);
        hop_fn_free(back);
    }
}

/* ---- rules that cannot be ---- */

#define ONE(name, from, to, body) "fn @" name "(" from ") -> (" to ") {\n" body "}\n"
static const struct {
    const char *rule, *attrs;
    const char *transform; /* "grad x", "jvp x"; NULL: it cannot be read */
    const char *says;
} wrong[] = {
    { "", "forward = @body", NULL, "it has a forward but no backward" },
    { "", "gives = [0]", NULL, "gives says what its backward gives, but there is none" },
    { "", "backward = @nothing", NULL, "@nothing" },
    { ONE("r", "%a: f64[]", "f64[]", "  return %a\n"), "backward = @r", NULL,
      "its backward has 1 parameter, expected 2" },
    { ONE("r", "%a: f64[], %b: f64[]", "f64[], f64[]", "  return %a, %b\n"), "backward = @r", NULL,
      "its backward has 2 results, expected 1" },
    { ONE("r", "%a: f64[], %b: f32[]", "f64[]", "  return %a\n"), "backward = @r", NULL,
      "its backward: parameter 1 has type f32[], expected f64[]: a cotangent has its result's type" },
    { ONE("r", "%a: f64[3], %b: f64[]", "f64[]", "  return %b\n"), "backward = @r", NULL,
      "its backward: parameter 0 has type f64[3], expected f64[]: as it is saved" },
    { ONE("r", "%a: f64[], %b: f64[]", "f64[], f64[], f64[]", "  return %a, %b, %b\n"), "jvp = @r", NULL,
      "its jvp has 3 results, expected 2" },
    { ONE("r", "%a: f64[]", "f64[]", "  return %a\n"), "batch = @r", NULL,
      "its batch: parameter 0 has type f64[], expected that of the body, f64[], with one more leading dim" },
    { ONE("r", "%a: f64[], %b: f64[]", "f64[]", "  return %a\n"), "backward = @r, gives = [1]", NULL,
      "gives: operand 1 is no float operand" },
    { ONE("r", "%a: f64[], %b: f64[]", "f64[]", "  return %a\n"), "backward = @r, closed = 2", NULL,
      "closed: there are 1 operands, found 2" },
    { ONE("r", "%x: f64[], %ct: f64[]", "f64[]", "  %s = mul(%ct, %ct)\n  return %s\n"), "backward = @r",
      "jvp x", "its backward is not linear in what it is given" },
    { ONE("r", "%x: f64[], %ct: f64[]", "f64[]", "  %s = sign(%ct)\n  return %s\n"), "backward = @r", "jvp x",
      "its backward is not linear in what it is given (sign: no derivative goes through it)" },
    { ONE("r", "%x: f64[], %dx: f64[]", "f64[], f64[]", "  %s = mul(%dx, %dx)\n  return %x, %s\n"),
      "jvp = @r", "grad x", "its jvp is not linear in what it is given" },
    { ONE("r", "%x: f64[], %ct: f64[]", "", "  return\n"), "backward = @r, closed = 1", "grad x",
      "a value that its function uses from outside is differentiated" },
    { ONE("r", "%x: f64[]", "f64[]", "  return %x\n"), "batch = @r, closed = 1", NULL,
      "its batch: result 0 has type f64[], expected that of the body, f64[], with one more leading dim" },
    { "", "asks", NULL, "asks is about its backward, but there is none" },
    { ONE("r", "%x: f64[], %ct: f64[]", "f64[]", "  return %ct\n"), "backward = @r, asks", NULL,
      "its backward has 2 parameters, expected 3: what is saved, which cotangents there are" },
    { ONE("r", "%x: f64[], %k: i64[], %ct: f64[]", "f64[]", "  return %ct\n"), "backward = @r, asks", NULL,
      "its backward: parameter 1 has type i64[], expected i32[]: which cotangents there are" },
    { "", "tangent = none", "grad x", "called in its own rule" },
    { "", "tangent = none", "jvp x", "called in its own rule" },
    { ONE("inner", "%a: f64[]", "f64[]", "  %s = floor(%a)\n  return %s\n")
          ONE("r", "%x: f64[], %ct: f64[]", "f64[]", "  %s = invoke_subgraph @inner(%ct)\n  return %s\n"),
      "backward = @r", "jvp x", "(floor: no derivative goes through it)" },
};

static void test_wrong(void)
{
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "hop 1\n%s%sfn @f(%%x: f64[]) -> (f64[]) {\n  %%y = custom {%s} "
                 "@body(%%x)\n  return %%y\n}\n",
                 SCALED("body", "2"), wrong[k].rule, wrong[k].attrs);
        hop_fn *f = NULL, *made = NULL;
        int status = hop_fn_read(&f, text, "f");
        if (wrong[k].transform) {
            CLAIM(!status, "%s: %s", wrong[k].attrs, hop_message());
            status = wrong[k].transform[0] == 'g' ? hop_grad(&made, f, "x") : hop_jvp(&made, f, "x");
        }
        CLAIM(status == HOP_INVALID && strstr(hop_message(), wrong[k].says), "%s: %d, %s; expected: %s",
              wrong[k].attrs, status, status ? hop_message() : "", wrong[k].says);
        if (!wrong[k].transform || status == 0) hop_fn_free(wrong[k].transform ? made : NULL);
        hop_fn_free(f);
    }
}

/* ---- from C ---- */

struct both {
    hop_fn *body, *back;
};
static int calls_custom(void *env, const hop_val *in, hop_val *out)
{
    const struct both *b = env;
    return hop_custom(out, 1,
                      &(hop_custom_spec){ .body = b->body, .backward = b->back, .in = in, .n_in = 1 });
}

static void test_capture(void)
{
    struct both b = { NULL, NULL };
    hop_fn *f = NULL, *grad = NULL, *again = NULL;
    CLAIM(!hop_fn_read(&b.body, RULES, "body") && !hop_fn_read(&b.back, RULES, "backward"), "%s",
          hop_message());
    CLAIM(!hop_capture(&f, "f(x: f64[])", 1, calls_custom, &b), "%s", hop_message());
    CLAIM(!hop_grad(&grad, f, "x"), "%s", hop_message());
    /* what is printed is read as the same */
    CLAIM(!hop_fn_read(&again, hop_fn_text(f), "f") && !strcmp(hop_fn_text(f), hop_fn_text(again)), "%s",
          hop_fn_text(f));
    double two = 2;
    hop_tensor *in = vector(&two, -1), *out = NULL;
    CLAIM(!hop_interpret(grad, &in, 1, &out, 1) && *(double *)hop_data(out) == 10, "%s", hop_message());
    hop_val none;
    CLAIM(hop_custom(&none, 1, NULL) != 0, "a specification that is NULL");
    hop_tensor_free(in);
    hop_tensor_free(out);
    hop_fn_free(f);
    hop_fn_free(grad);
    hop_fn_free(again);
    hop_fn_free(b.body);
    hop_fn_free(b.back);
}

/* ---- hooks ---- */

static int scales(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_mul(in[0], in[1]); /* the state, the cotangent */
    return 0;
}
static int is_wrong(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_sum(in[1], NULL);
    return 0;
}

struct hooked {
    bool has;
    hop_body body;
};
/* The sum of the sines of a value that has a hook, or has none. */
static int step_hooked(void *env, const hop_val *in, hop_val *out)
{
    const struct hooked *h = env;
    hop_val x = in[0];
    hop_hook_spec spec = {
        .in = &x, .n_in = 1, .body = h->body, .state = &in[1], .n_state = 1, .name = "scaled"
    };
    hop_val y = x;
    if (h->has) hop_hook(&y, &spec); /* whatever it gives, errors are the capture's */
    out[0] = hop_sum(hop_sin(y), NULL);
    return 0;
}

static void test_hook(void)
{
    struct hooked with = { true, scales }, without = { false, NULL }, wrong = { true, is_wrong };
    hop_fn *f = NULL, *plain = NULL, *grad = NULL, *moved = NULL, *none = NULL;
    const char *params = "f(x: f64[3], s: f64[3])";
    CLAIM(!hop_capture(&f, params, 1, step_hooked, &with), "%s", hop_message());
    CLAIM(!hop_capture(&plain, params, 1, step_hooked, &without), "%s", hop_message());
    CLAIM(!hop_grad(&grad, f, "x, s") && !hop_jvp(&moved, f, "x"), "%s", hop_message());
    double x[] = { 0.1, 0.2, 0.3 }, s[] = { 2, -3, 4 }, dx[] = { 1, 10, 100 };
    hop_tensor *in[] = { vector(x, 3), vector(s, 3), vector(dx, 3) };
    for (enum way way = 0; way < WAYS; way++) {
        hop_tensor *out[2] = { NULL, NULL };
        CLAIM(!run_way(way, grad, in, 2, out, 2), "%s: %s", way_names[way], hop_message());
        for (int i = 0; i < 3; i++) {
            double expected = s[i] * cos(x[i]);
            CLAIM(out[0] && fabs(((double *)hop_data(out[0]))[i] - expected) < 1e-12, "%s", way_names[way]);
            CLAIM(out[1] && ((double *)hop_data(out[1]))[i] == 0, "a state has no gradient");
        }
        hop_tensor_free(out[0]);
        hop_tensor_free(out[1]);
        out[0] = out[1] = NULL;
        CLAIM(!run_way(way, moved, in, 3, out, 2), "%s: %s", way_names[way], hop_message());
        double tangent = cos(0.1) + 10 * cos(0.2) + 100 * cos(0.3);
        CLAIM(out[1] && fabs(*(double *)hop_data(out[1]) - tangent) < 1e-10, "tangents do not see it");
        hop_tensor_free(out[0]);
        hop_tensor_free(out[1]);
    }
    for (const char *const *kind = (const char *const[]){ "loops", "asm", "c", NULL }; *kind; kind++) {
        char *a = NULL, *b = NULL;
        CLAIM(!hop_emit(&a, f, *kind, NULL) && !hop_emit(&b, plain, *kind, NULL), "%s", hop_message());
        CLAIM(a && b && !strcmp(a, b), "the %s of a hook that nobody asks for", *kind);
        hop_text_free(a);
        hop_text_free(b);
    }
    CLAIM(hop_capture(&none, params, 1, step_hooked, &wrong) == HOP_INVALID &&
              strstr(hop_message(), "a cotangent has its operand's type"),
          "%s", hop_message());
    CLAIM(hop_capture(&none, "f(x: i64[3], s: f64[3])", 1, step_hooked, &with) == HOP_INVALID &&
              strstr(hop_message(), "hook: value 0: expected floats, which have cotangents, found i64[3]"),
          "%s", hop_message());
    hop_val no;
    CLAIM(hop_hook(&no, NULL) == HOP_INVALID, "a specification that is NULL");
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
    hop_fn_free(f);
    hop_fn_free(plain);
    hop_fn_free(grad);
    hop_fn_free(moved);
}

/* ---- transposes ---- */

static void test_transpose(void)
{
    static const char text[] =
        "hop 1\nfn @inner(%a: f64[]) -> (f64[]) {\n  %s = floor(%a)\n  return %s\n}\n"
        "fn @linear(%w: f64[], %x: f64[3]) -> (f64[]) {\n  %v = broadcast {dims = [3], at = []} (%w)\n"
        "  %p = mul(%v, %x)\n  %r = sum {dims = [0]} (%p)\n  return %r\n}\n"
        "fn @square(%x: f64[]) -> (f64[]) {\n  %r = mul(%x, %x)\n  return %r\n}\n"
        "fn @steps(%x: f64[]) -> (f64[]) {\n  %r = invoke_subgraph @inner(%x)\n  return %r\n}\n";
    hop_fn *f = NULL, *t = NULL;
    CLAIM(!hop_fn_read(&f, text, "linear") && !hop_linear_transpose(&t, f, "x"), "%s", hop_message());
    double w = 5, x[] = { 7, 8, 9 }, ct = 2; /* what x is does not matter */
    hop_tensor *in[] = { vector(&w, -1), vector(x, 3), vector(&ct, -1) }, *out = NULL;
    CLAIM(hop_fn_params(t) == 3 && hop_fn_results(t) == 1 && !hop_interpret(t, in, 3, &out, 1), "%s",
          hop_message());
    for (int i = 0; out && i < 3; i++) CLAIM(((double *)hop_data(out))[i] == 10, "w ct in every place");
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
    hop_tensor_free(out);
    hop_fn_free(t);
    t = NULL;
    CLAIM(hop_linear_transpose(&t, f, "w, x") == HOP_INVALID && strstr(hop_message(), "is not linear"),
          "a product of both: %s", hop_message());
    hop_fn_free(f);
    static const char *const others[][2] = { { "square", "its derivative reads what it is given" },
                                             { "steps", "floor: no derivative goes through it" } };
    for (int k = 0; k < 2; k++) {
        CLAIM(!hop_fn_read(&f, text, others[k][0]), "%s", hop_message());
        CLAIM(hop_linear_transpose(&t, f, NULL) == HOP_INVALID && strstr(hop_message(), others[k][1]),
              "%s: %s", others[k][0], hop_message());
        hop_fn_free(f);
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_expected(&all[i]);
    test_operands();
    test_wrong();
    test_capture();
    test_hook();
    test_transpose();
    return tests_end();
}
