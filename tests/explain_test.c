/* What the library says about a function: explanations for people and programs, and the function as text in
 * other languages. Emitted C is given to the system's compiler, all by itself. */
#include "check.h"

#include "check/cc.h"

#include <math.h>
#include <unistd.h>

static const char program[] =
    "fn @loss(%w: f32[4], %log: mut f32[2], %xs: f32[T, 4]) -> (f32[], new %log) {\n"
    "  %last, %all = scan carry(%h = %w) over(%x in %xs) {\n"
    "    %p = mul(%h, %x)\n"
    "    %n = sin(%p)\n"
    "    next(%n) stack(%n)\n"
    "  }\n"
    "  %l = sum {dims = [0, 1]} (%all)\n"
    "  %one = broadcast {dims = [2], at = []} (%l)\n"
    "  return %l, %one\n"
    "}\n";

/* The text, or why there is none, until the next call. */
static const char *explained(hop_fn *f, const hop_compile_options *o, const char *form)
{
    static char *text;
    hop_text_free(text);
    text = NULL;
    return hop_explain(&text, f, o, form) ? hop_message() : text;
}
static const char *emitted(hop_fn *f, const char *kind, const hop_emit_options *o)
{
    static char *text;
    hop_text_free(text);
    text = NULL;
    return hop_emit(&text, f, kind, o) ? hop_message() : text;
}
#define HAS(text, part) CLAIM(strstr((text), (part)), "expected '%s' in:\n%s", (part), (text))
#define LACKS(text, part) CLAIM(!strstr((text), (part)), "found '%s' in:\n%s", (part), (text))

static void explanations(hop_fn *f, hop_fn *gradient, bool native)
{
    hop_compile_options portable = { .portable = 1 };
    const char *text = explained(f, &portable, NULL);
    HAS(text, "@loss: 3 parameters");
    HAS(text, "passes               nodes after");
    HAS(text, "updated arguments: 1\n  log          in place");
    LACKS(explained(gradient, &portable, "short"), "kept for the gradient");
    HAS(explained(gradient, &portable, "all"), "kept for the gradient");
    LACKS(explained(f, &portable, "all"), "kept for the gradient");
    text = explained(gradient, &portable, "json");
    HAS(text, "{\"function\": \"");
    HAS(text, ", \"kept\": {\"values\": [{\"name\": ");
    CLAIM(text[strlen(text) - 1] == '\n' && text[strlen(text) - 2] == '}', "JSON ends with: %s", text);
    HAS(explained(f, &portable, "prose"), "expected 'short', 'all' or 'json', found 'prose'");
    HAS(explained(f, &(hop_compile_options){ .without = "everything" }, NULL),
        "there is no pass 'everything'");
    if (!native) return;
    text = explained(f, NULL, NULL);
    HAS(text, "  generate code");
    LACKS(text, "code: 0 bytes");
}

/* Expensive values are computed once for each element, however many elements are made of it; `keep` stores
 * cheap ones, too. */
static const struct {
    const char *text, *batched, *says;
} once[] = {
    { "fn @f(%x: f32[64], %a: f32[64, 16]) -> (f32[64, 16]) {\n  %e = exp(%x)\n  %d = broadcast {dims = [64, "
      "16], at = [0]} (%e)\n  %m = mul(%d, %a)\n  return %m\n}\n",
      NULL, "%e = exp: once, 64 elements: read many times" },
    { "fn @f[N](%x: f32[N], %a: f32[N, 16]) -> (f32[N]) {\n  %e = exp(%x)\n  %d = broadcast {dims = [N, 16], "
      "at = [0]} (%e)\n  %m = mul(%d, %a)\n  %s = sum {dims = [1]} (%m)\n  return %s\n}\n",
      NULL, "%e = exp: once, N elements: read many times" },
    { "fn @f[T, N](%xs: f32[T, N], %h: f32[N, 16]) -> (f32[N, 16]) {\n  %e = exp(%xs)\n  %l = scan carry(%c "
      "= "
      "%h) over(%x in %e) {\n    %y = add(%x, %x)\n    %d = broadcast {dims = [N, 16], at = [0]} (%y)\n    "
      "%n "
      "= mul(%d, %c)\n    next(%n)\n  }\n  return %l\n}\n",
      NULL, "%e = exp: once, T*N elements: read many times" },
    { "fn @f[T](%xs: f32[T, 64], %h: f32[64]) -> (f32[64]) {\n  %e = exp(%xs)\n  %l = scan carry(%c = %h) "
      "over(%x in %e) {\n    %n = mul(%x, %c)\n    next(%n)\n  }\n  return %l\n}\n",
      NULL, "%e = exp: once, 64*T elements, where line 4 is computed" },
    { "fn @f[T](%xs: f32[T], %h: f32[]) -> (f32[]) {\n  %e = exp(%xs)\n  %l = scan carry(%c = %h) over(%x in "
      "%e) {\n    %n = mul(%x, %c)\n    next(%n)\n  }\n  return %l\n}\n",
      NULL, "%e = exp: once, T elements: expensive, read by small slices" },
    { "fn @f[T](%xs: f32[T, 8], %w: f32[8], %h: f32[8, 16]) -> (f32[8, 16]) {\n  %l = scan carry(%c = %h) "
      "over(%x in %xs) with(%v = %w) {\n    %a = exp(%v)\n    %y = mul(%a, %x)\n    %d = broadcast {dims = "
      "[8, 16], at = [0]} (%y)\n    %n = mul(%d, %c)\n    next(%n)\n  }\n  return %l\n}\n",
      NULL, "%a = exp: once, 8 elements: read many times" },
    { "fn @f(%x: f32[64], %a: f32[64, 16]) -> (f32[64, 16]) {\n  %e = exp(%x)\n  %d = broadcast {dims = [64, "
      "16], at = [0]} (%e)\n  %m = mul(%d, %a)\n  return %m\n}\n",
      "x", "%e = exp: once, 64*B elements: read many times" },
    { "fn @f(%x: f32[640], %a: f32[640, 16]) -> (f32[640, 16]) {\n  %e = add(%x, %x)\n  %k = tag {gradient = "
      "keep} (%e)\n  %d = broadcast {dims = [640, 16], at = [0]} (%k)\n  %m = mul(%d, %a)\n  return %m\n}\n",
      NULL, "f32[640]         arena    asked for by keep" },
};

static void computed_once(void)
{
    for (size_t i = 0; i < sizeof once / sizeof *once; i++) {
        hop_fn *f = NULL, *lanes = NULL;
        hop_status made = hop_fn_read(&f, once[i].text, NULL);
        if (!made && once[i].batched) made = hop_vmap(&lanes, f, once[i].batched, NULL);
        CLAIM(!made, "%s", hop_message());
        if (made) continue;
        HAS(explained(lanes ? lanes : f, &(hop_compile_options){ .portable = 1 }, NULL), once[i].says);
        HAS(explained(lanes ? lanes : f, &(hop_compile_options){ .portable = 1 }, "json"), "\"computed\": [");
        hop_fn_free(lanes);
        hop_fn_free(f);
    }
}

#define ROW_SUM "  %s = sum {dims = [1]} (%x)\n  %t = tanh(%s)\n"
/* What is long and made of a row's fold is computed for many rows at a time, unless the row needs it. */
static void after_rows(void)
{
    static const struct {
        const char *behind, *says;
    } cases[] = {
        { "(f32[256]) {\n" ROW_SUM "  return %t\n}\n", "nests: 2\n" },
        { "(f32[256, 64]) {\n" ROW_SUM "  %e = broadcast {dims = [256, 64], at = [0]} (%t)\n"
          "  %y = mul(%e, %x)\n  return %y\n}\n",
          "nests: 1\n" },
    };
    char text[1024];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hop_fn *f = NULL;
        snprintf(text, sizeof text, "fn @f(%%x: f32[256, 64]) -> %s", cases[i].behind);
        CLAIM(!hop_fn_read(&f, text, NULL), "%s", hop_message());
        HAS(explained(f, &(hop_compile_options){ .portable = 1 }, NULL), cases[i].says);
        hop_fn_free(f);
    }
}

/* A carry of one element is a scalar, whatever its rank. */
static void single_carries(void)
{
    static const char step[] = "fn @f[T](%xs: f32[T, 1], %h: f32[1]) -> (f32[1]) {\n"
                               "  %l = scan carry(%c = %h) over(%x in %xs) {\n"
                               "    %p = mul(%c, %x)\n"
                               "    %n = sub(%x, %p)\n"
                               "    next(%n)\n"
                               "  }\n"
                               "  return %l\n"
                               "}\n";
    hop_fn *f = NULL;
    CLAIM(!hop_fn_read(&f, step, NULL), "%s", hop_message());
    const char *text = emitted(f, "loops", NULL);
    HAS(text, "f32 carry0;");
    LACKS(text, "carry of a loop");
    LACKS(text, "vector {");
    hop_fn_free(f);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) n++;
    return n;
}

/* Rows whose ends are unlike their middle: the middle has no conditions; short rows stay one loop. */
static void ends_of_rows(void)
{
    static const char neighbours[] = "fn @f(%%x: f32[%d]) -> (f32[%d]) {\n"
                                     "  %%o = full {value = 0.0, dims = []}\n"
                                     "  %%p = pad {low = [1], high = [1], interior = [0]} (%%x, %%o)\n"
                                     "  %%a = slice {start = [0], limit = [%d]} (%%p)\n"
                                     "  %%b = slice {start = [2], limit = [%d]} (%%p)\n"
                                     "  %%y = sub(%%a, %%b)\n"
                                     "  return %%y\n"
                                     "}\n";
    static const int sizes[] = { 200, 25 };
    for (int k = 0; k < 2; k++) {
        char text[512], range[64];
        int n = sizes[k];
        hop_fn *f = NULL;
        snprintf(text, sizeof text, neighbours, n, n, n, n + 2);
        CLAIM(!hop_fn_read(&f, text, NULL), "%s", hop_message());
        const char *loops = emitted(f, "loops", NULL), *middle = strstr(loops, "vector {");
        snprintf(range, sizeof range, "= %d; ", k ? 0 : 1);
        CLAIM(middle && count(loops, "for (") == (k ? 1 : 3), "%d elements: %s", n, loops);
        bool chooses = middle && memchr(middle, '?', strcspn(middle, "}"));
        CLAIM(chooses == (k == 1), "%d elements: %s", n, loops);
        HAS(loops, range);
        hop_fn_free(f);
    }
}

/* Lanes that may end at different trips: whether they do, in text and JSON. */
static void lanes_apart(void)
{
    static const char halve[] =
        "fn @many(%%x: f32[%d]) -> (f32[%d]) {\n"
        "  %%y = invoke_subgraph with(%%x0: f32[B] = %%x) [B = %d] {\n"
        "    %%one = full {value = 1.0, dims = [B], dtype = f32}\n"
        "    %%first = gt(%%x0, %%one)\n"
        "    %%a, %%r = while_loop carry(%%alive = %%first, %%v = %%x0) cond [d0 = B] "
        "{\n"
        "      %%any = any {dims = [0]} (%%alive)\n"
        "      test(%%any)\n"
        "    } body with(%%b = %%one) {\n"
        "      %%half = full {value = 0.5, dims = [B], dtype = f32}\n"
        "      %%w = mul(%%v, %%half)\n"
        "      %%next = select(%%alive, %%w, %%v)\n"
        "      %%on = gt(%%next, %%b)\n"
        "      %%na = and(%%alive, %%on)\n"
        "      next(%%na, %%next)\n"
        "    }\n"
        "    yield(%%r)\n"
        "  }\n"
        "  return %%y\n"
        "}\n";
    static const struct {
        int lanes;
        const char *says;
    } cases[] = {
        { 512, "while_loop: 4 blocks of 128 lanes, each until its last lane ends, the last few alone" },
        { 100, "while_loop: 100 lanes together: too few for two blocks" },
    };
    hop_compile_options portable = { .portable = 1 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hop_fn *f = NULL;
        char text[2048];
        int lanes = cases[i].lanes;
        snprintf(text, sizeof text, halve, lanes, lanes, lanes);
        CLAIM(!hop_fn_read(&f, text, NULL), "%s", hop_message());
        HAS(explained(f, &portable, NULL), "loops over lanes: 1\n");
        HAS(explained(f, &portable, NULL), cases[i].says);
        HAS(explained(f, &portable, "json"), "\"lanes\": [\"");
        HAS(explained(f, &portable, "json"), cases[i].says);
        hop_fn_free(f);
    }
}

static void compiles(const char *source)
{
    char path[] = "/tmp/hop_explain_XXXXXX.c", object[sizeof path];
    int fd = mkstemps(path, 2);
    CLAIM(fd >= 0, "no file for the source");
    if (fd < 0) return;
    close(fd);
    memcpy(object, path, sizeof path);
    object[strlen(object) - 1] = 'o';
    struct text text = { .data = (char *)source, .len = strlen(source) };
    struct hop_catch caught;
    if (HOP_TRY(caught)) {
        file_write(path, &text);
        cc_run((const char *const[]){ "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-c", path,
                                      "-o", object, NULL });
        hop_catch_end(&caught);
        CLAIM(true, " ");
    } else {
        hop_status status = hop_caught();
        CLAIM(status == HOP_UNAVAILABLE, "%s", hop_message()); /* a machine without a C compiler */
    }
    unlink(path);
    unlink(object);
}

/* Parameters that are constants of the source: no arguments, and what they hold is to be read there. */
static void constants(void)
{
    static const char sum[] = "fn @f(%x: f32[3], %w: f32[3], %s: f32[], %k: i8[0]) -> (f32[3]) {\n"
                              "  %b = broadcast {dims = [3], at = []} (%s)\n"
                              "  %p = mul(%x, %w)\n"
                              "  %r = add(%p, %b)\n"
                              "  return %r\n"
                              "}\n";
    hop_fn *f = NULL;
    hop_tensor *w = NULL, *s = NULL, *k = NULL;
    float weights[3] = { 1.5f, -2, 0.25f }, shift[1] = { NAN };
    int8_t none[1] = { 0 };
    hop_status made = hop_fn_read(&f, sum, NULL);
    if (!made) made = hop_tensor_borrow(&w, "f32[3]", weights, NULL, NULL);
    if (!made) made = hop_tensor_borrow(&s, "f32[]", shift, NULL, NULL);
    if (!made) made = hop_tensor_borrow(&k, "i8[0]", none, NULL, NULL);
    CLAIM(!made, "%s", hop_message());
    if (made) return;
    const hop_tensor *known[4] = { NULL, w, s, k };
    hop_emit_options o = { .constants = known, .params = "in_0, weights, shift", .results = "out_0" };
    const char *text = emitted(f, "c", &o);
    HAS(text, "int f(const float *in_0, float *out_0);");
    HAS(text, "static const float weights[3] = {\n        1.5f, (-2.0f), 0.25f,\n    };");
    HAS(text, "hop_bits_of_shift"); /* NaN, by its bits */
    compiles(text);
    HAS(emitted(f, "header", &o), "int f(const float *in_0, float *out_0);");
    o.params = "a, b, c, d, e";
    HAS(emitted(f, "c", &o), "the function has 4 parameters, found more names");
    o.params = "s_0, c_1";
    HAS(emitted(f, "c", &o), "int f(const float *x_s_0,"); /* the text's own names */
    known[1] = s;
    HAS(emitted(f, "c", &o), "the constant of parameter 1 w: expected f32[3], found f32[]");
    known[1] = NULL;
    known[3] = w;
    HAS(emitted(f, "c", &o), "the constant of parameter 3 k: expected i8[0], found f32[3]");
    hop_tensor_free(k);
    hop_tensor_free(s);
    hop_tensor_free(w);
    hop_fn_free(f);
}

static void texts(hop_fn *f, hop_fn *gradient, bool native)
{
    const char *text = emitted(f, "c", NULL);
    HAS(text, "int loss(int64_t T,");
    HAS(text, "vector_size");
    compiles(text);
    size_t length = strlen(text);
    text = emitted(f, "c", &(hop_emit_options){ .plain = 1 });
    HAS(text, "int loss(int64_t T,");
    LACKS(text, "__attribute__");
    LACKS(text, "__builtin_");
    LACKS(text, "HOP_VECTOR");
    LACKS(text, "HOP_PLAIN_C");
    CLAIM(strlen(text) < length, "plain C99 has %zu bytes, with vector types %zu", strlen(text), length);
    compiles(text);
    hop_emit_options named = { .name = "step", .results = "l, d_w", .header = "step.h" };
    text = emitted(gradient, "c", &named);
    HAS(text, "#include \"step.h\"");
    HAS(text, "int step(");
    HAS(text, "d_w");
    text = emitted(gradient, "header", &named);
    HAS(text, "#pragma once");
    HAS(text, "float *d_w");
    LACKS(text, ")\n{\n");
    named.results = "a, b, c, d";
    HAS(emitted(gradient, "c", &named), "found more names");
    hop_emit_options large = { .capacity = -1 };
    HAS(emitted(f, "c", &large), "expected a number of elements, found -1");
    const hop_tensor *log[3] = { NULL };
    hop_tensor *two = NULL;
    CLAIM(!hop_tensor_new(&two, "f32[2]"), "%s", hop_message());
    log[1] = two;
    HAS(emitted(f, "c", &(hop_emit_options){ .constants = log }), "parameter 1 log is updated");
    hop_tensor_free(two);
    HAS(emitted(f, "loops", NULL), "for ");
    HAS(emitted(f, "prose", NULL), "expected 'c', 'header', 'loops', 'llvm' or 'asm', found 'prose'");
    HAS(emitted(f, NULL, NULL), "found ''");
    if (!native) return;
    HAS(emitted(f, "llvm", NULL), "define ");
    HAS(emitted(f, "asm", NULL), "hop_entry");
    hop_compile_options strict = { .strict = 1 };
    HAS(emitted(f, "c", &(hop_emit_options){ .compile = &strict }), "strict numbers");
}

int main(void)
{
    hop_fn *f = NULL, *gradient = NULL;
    CLAIM(!hop_fn_read(&f, program, NULL) && !hop_value_and_grad(&gradient, f, "w"), "%s", hop_message());
    if (!gradient) return tests_end();
    char *text = NULL;
    bool native = hop_emit(&text, f, "asm", NULL) != HOP_UNAVAILABLE;
    hop_text_free(text);
    explanations(f, gradient, native);
    texts(f, gradient, native);
    constants();
    computed_once();
    after_rows();
    single_carries();
    ends_of_rows();
    lanes_apart();
    emitted(NULL, NULL, NULL); /* frees the last texts */
    explained(NULL, NULL, NULL);
    hop_fn_free(gradient);
    hop_fn_free(f);
    return tests_end();
}
