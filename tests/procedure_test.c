/* Programs that would be too large with all their bodies in place. Chains of functions that call each other
 * twice, by calls, branches and loops, as they are and transformed, are compiled in little memory and give
 * the interpreter's bits; long chains, deep chains and wide functions end in a result or a message. And every
 * program of the corpus is right when each body that can be a procedure is one. */
#include "check.h"
#include "check/check.h"
#include "check/test.h"
#include "loop/lower.h"
#include "runtime/exe.h"
#include "writer.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* How a function mentions the last one several times. */
static const struct caller {
    const char *name;
    uint32_t levels; /* that are some ten thousand copies of the innermost function */
    const char *body;
} ways[] = {
    { "calls", 12, "  %%a = invoke_subgraph @%1$s(%%x, %%n)\n  %%b = invoke_subgraph @%1$s(%%a, %%n)\n" },
    { "branches", 6,
      "  %%z = full {value = 0, dims = [], dtype = f32}\n  %%p = gt(%%n, %%z)\n  %%q = not(%%p)\n"
      "  %%a = switch(%%p) [@%1$s(%%x, %%n), @%1$s(%%x, %%n)]\n  %%b = switch(%%q) [@%1$s(%%a, %%n), "
      "@%1$s(%%a, %%n)]\n" },
    { "loops", 12,
      "  %%i = full {value = 0, dims = [], dtype = i64}\n  %%e = full {value = 1, dims = [], dtype = i64}\n"
      "  %%a = fori_loop carry(%%c = %%x) from(%%k = %%i) to(%%e) with(%%v = %%n) {\n    %%r = "
      "invoke_subgraph @%1$s(%%c, %%v)\n    next(%%r)\n  }\n"
      "  %%b = invoke_subgraph @%1$s(%%a, %%n)\n" },
};

/* f0 … f<depth>, each with the last one several times; `rows` is the first dim of the array. The last one is
 * @main and sums. */
static char *doubling(const struct caller *way, uint32_t depth, const char *rows)
{
    struct writer w = { 0 };
    say(&w,
        "hop 1\nfn @f0(%%x: f32[%s], %%n: f32[]) -> (f32[%s]) {\n  %%h = full {value = 0.5, dims = [%s], "
        "dtype = f32}\n  %%s = sin(%%x)\n  %%t = mul(%%s, %%h)\n"
        "  %%m = broadcast {dims = [%s], at = []} (%%n)\n  %%y = add(%%t, %%m)\n  return %%y\n}\n",
        rows, rows, rows, rows);
    for (uint32_t i = 1; i <= depth; i++) {
        char before[16];
        snprintf(before, sizeof before, "f%u", i - 1);
        if (i < depth) say(&w, "fn @f%u(%%x: f32[%s], %%n: f32[]) -> (f32[%s]) {\n", i, rows, rows);
        else say(&w, "fn @main(%%x: f32[%s], %%n: f32[]) -> (f32[]) {\n", rows);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        say(&w, way->body, before);
#pragma GCC diagnostic pop
        say(&w, i < depth ? "  return %%b\n}\n" : "  %%s = sum(%%b)\n  return %%s\n}\n");
    }
    return w.text;
}

enum shape { AS_IT_IS, GRADIENT, TANGENT, LANES, LANES_OF_GRADIENT, SHAPES };

static hop_fn *transformed(hop_fn *f, enum shape shape)
{
    hop_fn *g = NULL, *h = NULL;
    switch (shape) {
    case GRADIENT: CLAIM(!hop_grad(&g, f, "x"), "%s", hop_message()); break;
    case TANGENT: CLAIM(!hop_jvp(&g, f, "x"), "%s", hop_message()); break;
    case LANES: CLAIM(!hop_vmap(&g, f, NULL, NULL), "%s", hop_message()); break;
    case LANES_OF_GRADIENT:
        CLAIM(!hop_grad(&h, f, "x") && !hop_vmap(&g, h, NULL, NULL), "%s", hop_message());
        hop_fn_free(h);
        break;
    default: break;
    }
    return g;
}

static hop_tensor *filled(const char *type)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
    float *data = t ? hop_data(t) : NULL;
    for (int64_t i = 0; t && i < hop_tensor_count(t); i++) data[i] = (float)(i % 7) * 0.25f - 0.5f;
    return t;
}

/* Strict code, loop programs and the interpreter give the same bits; `interpreted`: it takes no too many
 * steps. */
static void same_everywhere(const char *what, hop_fn *f, enum shape shape, bool interpreted)
{
    static const char *const args[SHAPES][3] = { { "f32[5]", "f32[]" },
                                                 { "f32[5]", "f32[]" },
                                                 { "f32[5]", "f32[]", "f32[5]" },
                                                 { "f32[3, 5]", "f32[3]" },
                                                 { "f32[3, 5]", "f32[3]" } };
    hop_tensor *in[3] = { 0 }, *out[4][2] = { { 0 } };
    int n_in = args[shape][2] ? 3 : 2, n_out = shape == TANGENT ? 2 : 1;
    for (int i = 0; i < n_in; i++) in[i] = filled(args[shape][i]);
    if (interpreted) CLAIM(!hop_interpret(f, in, n_in, out[0], n_out), "%s: %s", what, hop_message());
    for (int way = 1; way < 4; way++) {
        if (way == 1 && !interpreted) continue;
        if (way > 1 && !exe_available()) continue;
        hop_exe *exe = NULL;
        hop_compile_options o = { .strict = 1, .portable = way == 1, .threads = way == 3 ? 2 : 1 };
        CLAIM(!hop_compile(&exe, f, &o), "%s: %s", what, hop_message());
        CLAIM(exe && !hop_run(exe, in, n_in, out[way], n_out), "%s: %s", what, hop_message());
        hop_exe_free(exe);
        const hop_tensor *right = out[interpreted ? 0 : 2][0];
        for (int k = 0; k < n_out && right; k++) {
            hop_tensor *x = out[interpreted ? 0 : 2][k], *y = out[way][k];
            CLAIM(y && hop_tensor_count(x) == hop_tensor_count(y) &&
                      !memcmp(hop_data(x), hop_data(y), (size_t)hop_tensor_count(x) * sizeof(float)),
                  "%s: way %d, result %d", what, way, k);
        }
    }
    for (int way = 0; way < 4; way++)
        for (int k = 0; k < 2; k++) hop_tensor_free(out[way][k]);
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
}

/* Runs `body` in a process of its own that gets at most so much memory; a crash, an endless run or too little
 * memory is a failure. */
static void within(const char *what, size_t megabytes, void (*body)(const void *), const void *ctx)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
#if !defined(__SANITIZE_ADDRESS__)
        struct rlimit limit = { megabytes << 20, megabytes << 20 };
        setrlimit(RLIMIT_AS, &limit);
#else
        (void)megabytes;
#endif
        alarm(300);
        tests_failed = 0;
        body(ctx);
        fflush(stdout);
        _exit(tests_failed != 0);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0) {}
    CLAIM(pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status), "%s: ended with %d", what, status);
}

struct doubled {
    const struct caller *way;
    uint32_t depth;
    const char *rows;
    enum shape shape;
    bool interpreted;
};
static void run_doubled(const void *ctx)
{
    const struct doubled *d = ctx;
    hop_fn *f = NULL, *g = NULL;
    char *text = doubling(d->way, d->depth, d->rows);
    CLAIM(!hop_fn_read(&f, text, "main"), "%s", hop_message());
    g = d->shape == AS_IT_IS ? f : transformed(f, d->shape);
    if (g) same_everywhere(d->way->name, g, d->shape, d->interpreted);
    if (g != f) hop_fn_free(g);
    hop_fn_free(f);
    free(text);
}

static void doubled_programs(void)
{
    for (size_t w = 0; w < HOP_COUNT(ways); w++)
        for (enum shape shape = AS_IT_IS; shape < SHAPES; shape++) {
            char what[80];
            struct doubled small = { &ways[w], ways[w].levels, (w + shape) % 2 ? "T" : "5", shape, true };
            snprintf(what, sizeof what, "%s, shape %d, %s", ways[w].name, shape, small.rows);
            within(what, 2000, run_doubled, &small);
        }
    struct doubled large = { &ways[0], 20, "5", AS_IT_IS, false }; /* a million calls */
    within("20 functions", 1500, run_doubled, &large);
    large.shape = GRADIENT;
    within("the gradient of 20 functions", 2000, run_doubled, &large);
}

/* ---- long and deep ---- */

/* Nests beyond what a thread's stack holds are refused, so are derivatives that stack a row for each of more
 * loops around them than a type has dims. Which comes first is for the stack to say. */
static bool is_too_deep(void) { return strstr(hop_message(), "deep") || strstr(hop_message(), "at most 32"); }

static void use(const char *text, const char *needs)
{
    hop_fn *f = NULL, *g[3] = { 0 };
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { filled("f32[5]"), filled("f32[]") }, *out[2] = { 0 };
    CLAIM(!hop_fn_read(&f, text, "main"), "%s", hop_message());
    CLAIM(f && hop_fn_text(f), "it is printed: %s", hop_message());
    CLAIM(!hop_interpret(f, in, 2, &out[0], 1) || strstr(hop_message(), "deep"), "interpreted: %s",
          hop_message());
    CLAIM(!exe_available() || !hop_compile(&exe, f, &(hop_compile_options){ .threads = 1 }) ||
              strstr(hop_message(), needs),
          "compiled: %s", hop_message());
    if (exe) CLAIM(!hop_run(exe, in, 2, &out[1], 1), "%s", hop_message());
    CLAIM(!hop_grad(&g[0], f, "x") || is_too_deep(), "differentiated: %s", hop_message());
    CLAIM(!hop_jvp(&g[1], f, "x") || is_too_deep(), "with tangents: %s", hop_message());
    CLAIM(!hop_vmap(&g[2], f, NULL, NULL) || is_too_deep(), "with lanes: %s", hop_message());
    for (int i = 0; i < 3; i++) hop_fn_free(g[i]);
    for (int i = 0; i < 2; i++) hop_tensor_free(in[i]), hop_tensor_free(out[i]);
    hop_exe_free(exe);
    hop_fn_free(f);
}

enum chain { ONE_CALL, CALL_IN_LOOP, TWO_CALLS_IN_ALL };
static void chain(const void *ctx)
{
    const struct {
        enum chain kind;
        uint32_t n;
    } *c = ctx;
    struct writer w = { 0 };
    say(&w, "hop 1\nfn @f0(%%x: f32[5], %%n: f32[]) -> (f32[5]) {\n  %%y = sin(%%x)\n  return %%y\n}\n");
    for (uint32_t i = 1; i <= c->n; i++) {
        say(&w, "fn @f%u(%%x: f32[5], %%n: f32[]) -> (f32[5]) {\n", i);
        if (c->kind == CALL_IN_LOOP)
            say(&w,
                "  %%i = full {value = 0, dims = [], dtype = i64}\n  %%e = full {value = 1, dims = [], dtype "
                "= i64}\n"
                "  %%y = fori_loop carry(%%c = %%x) from(%%k = %%i) to(%%e) with(%%v = %%n) {\n    %%r = "
                "invoke_subgraph @f%u(%%c, %%v)\n    next(%%r)\n  }\n",
                i - 1);
        else say(&w, "  %%a = invoke_subgraph @f%u(%%x, %%n)\n  %%y = neg(%%a)\n", i - 1);
        say(&w, "  return %%y\n}\n");
    }
    say(&w, "fn @main(%%x: f32[5], %%n: f32[]) -> (f32[]) {\n  %%y = invoke_subgraph @f%u(%%x, %%n)\n", c->n);
    if (c->kind == TWO_CALLS_IN_ALL) /* none has one caller alone */
        for (uint32_t i = 0; i < c->n; i++) say(&w, "  %%u%u = invoke_subgraph @f%u(%%x, %%n)\n", i, i);
    say(&w, "  %%s = sum(%%y)\n  return %%s\n}\n");
    use(w.text, c->kind == ONE_CALL ? "never" : "deep");
    free(w.text);
}

#if defined(__SANITIZE_ADDRESS__)
/* Several times as slow, and frames several times as large. */
enum { LONG_CHAIN = 1500, DEEP_CHAIN = 400, MANY_NODES = 20000 };
#else
enum { LONG_CHAIN = 20000, DEEP_CHAIN = 3000, MANY_NODES = 1000000 };
#endif

static void long_chains(void)
{
    struct {
        enum chain kind;
        uint32_t n;
    } c = { ONE_CALL, LONG_CHAIN };
    within("functions, each with a call of the last", 4000, chain, &c);
    c.kind = CALL_IN_LOOP, c.n = DEEP_CHAIN;
    within("loops in loops by way of calls", 6000, chain, &c);
    c.kind = TWO_CALLS_IN_ALL, c.n = DEEP_CHAIN;
    within("functions, each called twice", 6000, chain, &c);
}

/* A million nodes, each with the last as operand, are read, printed, verified and interpreted. */
static void many_nodes(const void *ctx)
{
    struct writer w = { 0 };
    uint32_t n = *(const uint32_t *)ctx;
    hop_fn *f = NULL, *g = NULL;
    hop_tensor *in[1] = { filled("f32[]") }, *out[1] = { 0 };
    say(&w, "hop 1\nfn @main(%%v0: f32[]) -> (f32[]) {\n");
    for (uint32_t i = 1; i <= n; i++) say(&w, "  %%v%u = neg(%%v%u)\n", i, i - 1);
    say(&w, "  return %%v%u\n}\n", n);
    CLAIM(!hop_fn_read(&f, w.text, "main") && hop_fn_text(f), "%s", hop_message());
    CLAIM(!hop_interpret(f, in, 1, out, 1), "%s", hop_message());
    CLAIM(!hop_grad(&g, f, "v0"), "%s", hop_message());
    hop_fn_free(g), g = NULL;
    CLAIM(!hop_vmap(&g, f, NULL, NULL), "%s", hop_message());
    hop_fn_free(g);
    hop_exe *exe = NULL;
    CLAIM(!exe_available() || !hop_compile(&exe, f, &(hop_compile_options){ .threads = 1 }), "%s",
          hop_message());
    hop_exe_free(exe);
    hop_tensor_free(in[0]);
    hop_tensor_free(out[0]);
    hop_fn_free(f);
    free(w.text);
}

/* ---- the corpus ---- */

static void corpus_file(const void *path)
{
    struct arena arena = { 0 };
    struct text told = { .arena = &arena };
    struct test_run run = { .path = path, .quick = true, .compiled = exe_available(), .out = &told };
    lower_procedures_everywhere(true);
    test_file(&run);
    CLAIM(!run.failed, "%s: %s", (const char *)path, told.data ? told.data : "");
    arena_free(&arena);
}

static int is_program(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 4 && !strcmp(d->d_name + n - 4, ".hop");
}

static void corpus(const char *folder)
{
    struct dirent **list = NULL;
    int n = scandir(folder, &list, is_program, alphasort);
    CLAIM(n > 0, "%s has programs", folder);
    for (int i = 0; i < n; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        within(path, 4000, corpus_file, path);
        free(list[i]);
    }
    free(list);
}

int main(void)
{
    struct rlimit core = { 0, 0 };
    setrlimit(RLIMIT_CORE, &core);
    doubled_programs();
    long_chains();
    within("many nodes", 6000, many_nodes, &(uint32_t){ MANY_NODES });
#if defined(__SANITIZE_ADDRESS__)
    static const char *const folders[] = { "calls" };
#else
    static const char *const folders[] = { "calls", "nested", "switch", "higher", "symbols" };
#endif
    char folder[80];
    for (size_t i = 0; i < HOP_COUNT(folders); i++) {
        snprintf(folder, sizeof folder, "tests/corpus/%s", folders[i]);
        corpus(folder);
    }
    return tests_end();
}
