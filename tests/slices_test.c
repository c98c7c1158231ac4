/* Maps whose slices run on threads: each thread has the temporaries of its slices to itself. Programs are
 * random chains of products, loops, sorts, branches and calls over slices; results are the interpreter's bits
 * for any number of threads, with sizes that are known or not, in the caller's memory, and where no memory is
 * left. */
#include "api/api.h"
#include "check.h"
#include "loop/lower.h"
#include "runtime/exe.h"
#include "writer.h"

enum { MOST = 8 };
static const int thread_counts[] = { 1, 2, 3, 7, 16 };

/* ---- programs ---- */

static uint32_t seed;
static uint32_t chance(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* One more value of f32[24, 32], made of value `at`. */
static void say_step(struct writer *w, uint32_t at, uint32_t kind)
{
    uint32_t to = at + 1, other = chance(to);
    switch (kind) {
    case 0: say(w, "    %%p%u = matmul(%%a%u, %%v)\n    %%a%u = tanh(%%p%u)\n", to, at, to, to); break;
    case 1:
        say(w,
            "    %%a%u = scan carry(%%h = %%a%u) over(%%u in %%w) with(%%o = %%a%u) {\n"
            "      %%b = broadcast {dims = [24, 32], at = [1]} (%%u)\n      %%m = mul(%%h, %%b)\n"
            "      %%s = add(%%m, %%o)\n      %%t = sin(%%s)\n      next(%%t)\n    }\n",
            to, at, other);
        break;
    case 2: say(w, "    %%a%u, %%k%u = sort(%%a%u)\n", to, to, at); break;
    case 3:
        say(w,
            "    %%s%1$u = sum(%%a%2$u)\n    %%z%1$u = full {value = 0, dims = [], dtype = f32}\n"
            "    %%c%1$u = gt(%%s%1$u, %%z%1$u)\n"
            "    %%a%1$u = switch(%%c%1$u) [(%%l = %%a%2$u, %%r = %%v) {\n      %%q = matmul(%%l, %%r)\n"
            "      %%e = sin(%%q)\n      yield(%%e)\n    }, (%%l = %%a%2$u, %%r = %%a%3$u) {\n"
            "      %%e = mul(%%l, %%r)\n      %%q = tanh(%%e)\n      yield(%%q)\n    }]\n",
            to, at, other);
        break;
    case 4:
        say(w, "    %%a%u = invoke_subgraph {inline = no} @block(%%a%u, %%a%u, %%v)\n", to, at, other);
        break;
    default: say(w, "    %%m%u = mul(%%a%u, %%a%u)\n    %%a%u = cos(%%m%u)\n", to, at, other, to, to);
    }
}

enum { KINDS = 6 };

static char *program(const char *rows, uint32_t steps, uint32_t first_kind)
{
    struct writer w = { 0 };
    say(&w,
        "hop 1\nfn @block(%%x: f32[24, 32], %%y: f32[24, 32], %%v: f32[32, 32]) -> (f32[24, 32]) {\n"
        "  %%a = matmul(%%x, %%v)\n  %%b = tanh(%%a)\n  %%c = mul(%%b, %%y)\n  %%d, %%k = sort(%%c)\n"
        "  %%e = matmul(%%d, %%v)\n  %%f = sin(%%e)\n  return %%f\n}\n"
        "fn @main(%%xs: f32[%s, 24, 32], %%v: f32[32, 32], %%w: f32[5, 32]) -> (f32[%s, 24, 32], f32[%s]) {\n"
        "  %%ys, %%ss = map {sequential} over(%%a0 in %%xs) with(%%v = %%v, %%w = %%w) {\n",
        rows, rows, rows);
    for (uint32_t i = 0; i < steps; i++) say_step(&w, i, i ? chance(KINDS) : first_kind);
    say(&w, "    %%s = sum(%%a%u)\n    stack(%%a%u, %%s)\n  }\n  return %%ys, %%ss\n}\n", steps, steps);
    return w.text;
}

static hop_fn *read_text(char *text)
{
    hop_fn *f = NULL;
    if (hop_fn_read(&f, text, "main")) {
        printf("%s\n%s", hop_message(), text);
        exit(1);
    }
    free(text);
    return f;
}

/* A loop of five steps, each of them with nests that are worth threads; the last step of the chain is a map,
 * a call, or nothing more. */
static char *steps_program(uint32_t steps, uint32_t last)
{
    static const char *const texts[] = {
        "    %%p%1$u = mul(%%a%2$u, %%a0)\n    %%a%1$u = sin(%%p%1$u)\n",
        "    %%r%1$u = reverse {dims = [0]} (%%a%2$u)\n    %%a%1$u = add(%%r%1$u, %%a0)\n",
        "    %%m%1$u = reduce_max {dims = [1]} (%%a%2$u)\n"
        "    %%b%1$u = broadcast {dims = [256, 512], at = [0]} (%%m%1$u)\n"
        "    %%d%1$u = sub(%%a%2$u, %%b%1$u)\n    %%a%1$u = exp(%%d%1$u)\n",
        "    %%m%1$u = sum {dims = [0]} (%%a%2$u)\n    %%c%1$u = tanh(%%m%1$u)\n"
        "    %%b%1$u = broadcast {dims = [256, 512], at = [1]} (%%c%1$u)\n"
        "    %%a%1$u = mul(%%a%2$u, %%b%1$u)\n",
    };
    struct writer w = { 0 };
    say(&w, "hop 1\nfn @block(%%x: f32[256, 512], %%y: f32[256, 512]) -> (f32[256, 512]) {\n"
            "  %%a = sin(%%x)\n  %%b = mul(%%a, %%y)\n  %%c = reverse {dims = [1]} (%%b)\n"
            "  %%d = tanh(%%c)\n  %%e = add(%%d, %%x)\n  return %%e\n}\n"
            "fn @main(%%x: f32[256, 512], %%w: f32[5]) -> (f32[256, 512], f32[5]) {\n"
            "  %%last, %%ss = scan carry(%%a0 = %%x) over(%%u in %%w) {\n");
    uint32_t at = 0;
    for (; at < steps; at++) say(&w, texts[chance(HOP_COUNT(texts))], at + 1, at);
    if (last == 1)
        say(&w, "    %%a%u = invoke_subgraph {inline = no} @block(%%a%u, %%a0)\n", at + 1, at), at++;
    if (last == 2)
        say(&w,
            "    %%a%u = map {sequential} over(%%h in %%a%u) with(%%v = %%u) {\n"
            "      %%s, %%k = sort(%%h)\n      %%b = broadcast {dims = [512], at = []} (%%v)\n"
            "      %%m = mul(%%s, %%b)\n      %%t, %%l = sort(%%m)\n      stack(%%t)\n    }\n",
            at + 1, at),
            at++;
    say(&w,
        "    %%t = tanh(%%a%u)\n    %%s = sum(%%t)\n    next(%%t) stack(%%s)\n  }\n"
        "  return %%last, %%ss\n}\n",
        at);
    return w.text;
}

/* ---- arguments ---- */

enum { SLICES = 17 };

static hop_tensor *filled(const char *type, uint32_t salt)
{
    char known[96];
    const char *unknown = strchr(type, 'T');
    if (unknown) snprintf(known, sizeof known, "%.*s%d%s", (int)(unknown - type), type, SLICES, unknown + 1);
    hop_tensor *t = NULL;
    if (hop_tensor_new(&t, unknown ? known : type)) {
        printf("%s\n", hop_message());
        exit(1);
    }
    float *x = hop_data(t);
    int64_t n = hop_tensor_count(t);
    for (int64_t i = 0; i < n; i++) x[i] = (float)((i * 37 + salt * 11) % 41) / 41.0f - 0.45f;
    return t;
}

struct values {
    hop_tensor *t[MOST];
    int n;
};

static struct values arguments(hop_fn *f)
{
    struct values v = { .n = hop_fn_params(f) };
    for (int i = 0; i < v.n && i < MOST; i++) v.t[i] = filled(hop_fn_param_type(f, i), (uint32_t)i);
    return v;
}

static void forget(struct values *v)
{
    for (int i = 0; i < MOST; i++) hop_tensor_free(v->t[i]);
    *v = (struct values){ 0 };
}

static bool equal(const struct values *a, const struct values *b)
{
    for (int i = 0; i < a->n; i++) {
        if (!a->t[i] || !b->t[i]) return false;
        size_t bytes = (size_t)hop_tensor_count(a->t[i]) * sizeof(float);
        if (memcmp(hop_data(a->t[i]), hop_data(b->t[i]), bytes)) return false;
    }
    return true;
}

static struct values run(hop_fn *f, const hop_compile_options *o, const struct values *in)
{
    struct values out = { .n = hop_fn_results(f) };
    hop_exe *exe = NULL;
    hop_status status = o ? hop_compile(&exe, f, o) : hop_interpret(f, in->t, in->n, out.t, out.n);
    if (o && !status) status = hop_run(exe, in->t, in->n, out.t, out.n);
    CLAIM(!status, "%s", hop_message());
    hop_exe_free(exe);
    return out;
}

/* ---- claims ---- */

static bool has_parallel_loop(const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_FOR && s->mode == FOR_PARALLEL) return true;
        if (has_parallel_loop(s->body) || has_parallel_loop(s->other)) return true;
    }
    return false;
}

/* Has a step of a loop something for threads? */
static bool threads_in_steps(const hop_fn *f)
{
    struct lp *p = lower_and_plan(f->shared->m, f->fn, &(struct pass_options){ .strict = true });
    bool has = false;
    for (uint32_t i = 0; i < p->root->stmts.len; i++) {
        const struct lp_stmt *s = &p->root->stmts.data[i];
        has |= s->kind == LP_FOR && s->mode == FOR_SERIAL && s->note && has_parallel_loop(s->body);
    }
    lp_free(p);
    return has;
}

static bool has_parallel_map(const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        bool is = s->kind == LP_FOR && s->mode == FOR_PARALLEL && s->note && !strncmp(s->note, "map", 3);
        if (is || has_parallel_map(s->body) || has_parallel_map(s->other)) return true;
    }
    return false;
}

static bool on_threads(const hop_fn *f)
{
    struct lp *p = lower_and_plan(f->shared->m, f->fn, &(struct pass_options){ .strict = true });
    bool is = has_parallel_map(p->root);
    lp_free(p);
    return is;
}

/* Strict numbers are the interpreter's; default ones are the same for any number of threads. */
static void same_bits(const char *what, hop_fn *f)
{
    struct values in = arguments(f), expected = run(f, NULL, &in), first = { 0 };
    struct values portable = run(f, &(hop_compile_options){ .strict = 1, .portable = 1 }, &in);
    CLAIM(equal(&expected, &portable), "%s: portable", what);
    forget(&portable);
    for (uint32_t i = 0; exe_available() && i < HOP_COUNT(thread_counts); i++) {
        struct values strict = run(f, &(hop_compile_options){ .strict = 1, .threads = thread_counts[i] },
                                   &in);
        CLAIM(equal(&expected, &strict), "%s: strict on %d threads", what, thread_counts[i]);
        forget(&strict);
        struct values fast = run(f, &(hop_compile_options){ .threads = thread_counts[i] }, &in);
        if (!i) first = fast;
        CLAIM(equal(&first, &fast), "%s: on %d threads", what, thread_counts[i]);
        if (i) forget(&fast);
    }
    if (exe_available()) {
        hop_compile_options o = { .strict = 1, .without = "parallel", .threads = 2 };
        struct values alone = run(f, &o, &in);
        CLAIM(equal(&expected, &alone), "%s: without threads", what);
        forget(&alone);
    }
    forget(&first), forget(&expected), forget(&in);
}

static hop_fn *gradient(hop_fn *f)
{
    hop_fn *g = NULL;
    CLAIM(!hop_vjp(&g, f, NULL), "%s", hop_message());
    return g;
}

static void random_slices(uint32_t seeds)
{
    char what[64];
    uint32_t threaded = 0;
    for (uint32_t i = 0; i < seeds; i++) {
        seed = i + 1;
        hop_fn *f = read_text(program(i % 3 ? "17" : "T", 2 + chance(4), i % KINDS));
        snprintf(what, sizeof what, "seed %u", i);
        threaded += on_threads(f);
        same_bits(what, f);
        hop_fn *g = i % 4 ? NULL : gradient(f);
        snprintf(what, sizeof what, "gradient of seed %u", i);
        if (g) same_bits(what, g);
        hop_fn_free(g), hop_fn_free(f);
    }
    /* of others passes leave no map: products of all slices are one */
    CLAIM(2 * threaded >= seeds, "the slices of %u of %u go to threads", threaded, seeds);
}

static void random_steps(uint32_t seeds)
{
    char what[64];
    for (uint32_t i = 0; i < seeds; i++) {
        seed = i + 100;
        hop_fn *f = read_text(steps_program(1 + chance(3), i % 3));
        snprintf(what, sizeof what, "steps of seed %u", i);
        CLAIM(threads_in_steps(f), "%s: they use threads", what);
        same_bits(what, f);
        hop_fn_free(f);
    }
}

/* A workspace of the size that is asked for is enough for the threads that there are. */
static void memory_of_the_caller(void)
{
    hop_fn *f = read_text(program("T", 4, 4));
    struct values in = arguments(f), expected = run(f, NULL, &in), out = { .n = 2 };
    size_t one = 0, seven = 0;
    for (int threads = 1; exe_available() && threads <= 7; threads += 6) {
        hop_exe *exe = NULL;
        size_t *bytes = threads == 1 ? &one : &seven;
        CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .strict = 1, .threads = threads }) &&
                  !hop_workspace(bytes, exe, in.t, in.n, NULL),
              "%s", hop_message());
        void *workspace = malloc(*bytes);
        hop_run_options o = { .workspace = workspace, .workspace_bytes = *bytes };
        CLAIM(workspace && !hop_run_with(exe, in.t, in.n, out.t, out.n, &o) && equal(&expected, &out), "%s",
              hop_message());
        o.workspace_bytes--;
        CLAIM(hop_run_with(exe, in.t, in.n, out.t, out.n, &o) == HOP_INVALID, "one byte too few");
        CLAIM(!hop_run(exe, in.t, in.n, out.t, out.n) && equal(&expected, &out), "%s", hop_message());
        free(workspace);
        forget(&out);
        out.n = 2;
        hop_exe_free(exe);
    }
    if (exe_available()) CLAIM(seven > one, "%zu bytes for one thread, %zu for seven", one, seven);
    forget(&in), forget(&expected);
    hop_fn_free(f);
}

/* The number of threads may change between runs of one executable. */
static void threads_between_runs(void)
{
    if (!exe_available()) return;
    hop_fn *f = read_text(program("17", 5, 4));
    struct values in = arguments(f), expected = run(f, NULL, &in), out = { .n = 2 };
    hop_exe *exe = NULL;
    CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .strict = 1 }), "%s", hop_message());
    for (int threads = 1; threads <= 9; threads += 2) {
        hop_set_threads(threads);
        CLAIM(!hop_run(exe, in.t, in.n, out.t, out.n) && equal(&expected, &out), "%d threads: %s", threads,
              hop_message());
    }
    hop_set_threads(0);
    hop_exe_free(exe);
    forget(&in), forget(&expected), forget(&out);
    hop_fn_free(f);
}

/* Wherever memory runs out, the run says so and the next one is right. */
static void no_memory(void)
{
    if (!exe_available()) return;
    hop_fn *f = read_text(program("T", 3, 4));
    struct values in = arguments(f), expected = run(f, NULL, &in);
    bool whole = false;
    for (uint64_t n = 1; n < 100 && !whole; n++) {
        hop_exe *exe = NULL;
        struct values out = { .n = 2 };
        CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .strict = 1, .threads = 3 }), "%s",
              hop_message());
        hop_fail_allocation(n);
        hop_status status = hop_run(exe, in.t, in.n, out.t, out.n);
        hop_fail_allocation(0);
        whole = !status;
        CLAIM(!status || status == HOP_NOMEM, "allocation %llu fails: %s", (unsigned long long)n,
              hop_message());
        if (status) CLAIM(!hop_run(exe, in.t, in.n, out.t, out.n), "%s", hop_message());
        CLAIM(equal(&expected, &out), "after allocation %llu failed", (unsigned long long)n);
        forget(&out);
        hop_exe_free(exe);
    }
    CLAIM(whole, "a run needs few allocations");
    forget(&in), forget(&expected);
    hop_fn_free(f);
}

/* What is seen outside keeps its order; few large slices leave the threads to what is in them. */
static void loops_that_stay(void)
{
    static const char *const texts[] = {
        "hop 1\nfn @main(%xs: f32[64, 100, 100]) -> (f32[64]) {\n"
        "  %ys = map {sequential} over(%x in %xs) {\n    %p = matmul(%x, %x)\n    %s = sum(%p)\n"
        "    print {format = \"{}\"} (%s)\n    stack(%s)\n  }\n  return %ys\n}\n",
        "hop 1\nfn @main(%xs: f32[3, 512, 512]) -> (f32[3, 512, 512]) {\n"
        "  %ys = map {sequential} over(%x in %xs) {\n    %p = matmul(%x, %x)\n    stack(%p)\n  }\n"
        "  return %ys\n}\n",
        "hop 1\nfn @main(%xs: f32[4, 8]) -> (f32[4, 8]) {\n"
        "  %ys = map {sequential} over(%x in %xs) {\n    %p = sin(%x)\n    stack(%p)\n  }\n  return %ys\n}\n",
    };
    for (uint32_t i = 0; i < HOP_COUNT(texts); i++) {
        hop_fn *f = NULL;
        CLAIM(!hop_fn_read(&f, texts[i], "main"), "%s", hop_message());
        if (f) CLAIM(!on_threads(f), "program %u stays a loop", i);
        hop_fn_free(f);
    }
}

int main(int argc, char **argv)
{
    uint32_t seeds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 6;
    random_slices(seeds);
    random_steps(HOP_MAX(seeds / 2, 3));
    memory_of_the_caller();
    threads_between_runs();
    no_memory();
    loops_that_stay();
    return tests_end();
}
