/* Functions that are called many times: each is taken into a program once, differentiated once, and compiled
 * once where it is large. Counted are functions, shared bodies and the instructions of loop programs; results
 * are the interpreter's bits, with threads, in loops, in branches, of second order and where a call updates
 * memory in place. */
#include "api/api.h"
#include "check.h"
#include "loop/lower.h"
#include "runtime/exe.h"
#include "transform/sharing.h"
#include "writer.h"

/* ---- programs ---- */

/* A block of more nodes and work than is put in place: two products with elementwise work between. */
static void say_block(struct writer *w, const char *rows)
{
    say(w,
        "hop 1\nfn @block(%%x: f32[%s, 16], %%u: f32[16, 64], %%v: f32[64, 16]) -> (f32[%s, 16]) {\n"
        "  %%a = matmul(%%x, %%u)\n  %%b = tanh(%%a)\n  %%c = mul(%%b, %%a)\n  %%d = sin(%%c)\n"
        "  %%e = add(%%d, %%b)\n  %%f = mul(%%e, %%d)\n  %%g = matmul(%%f, %%v)\n  %%h = tanh(%%g)\n"
        "  %%i = add(%%h, %%x)\n  %%j = cos(%%i)\n  %%k = mul(%%j, %%h)\n  %%l = sub(%%k, %%i)\n"
        "  %%m = mul(%%l, %%j)\n  %%n = tanh(%%m)\n  return %%n\n}\n",
        rows, rows);
}

static void say_weights(struct writer *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) say(w, ", %%u%u: f32[16, 64], %%v%u: f32[64, 16]", i, i);
}

/* n calls one after the other. */
static char *chain(uint32_t n, const char *rows)
{
    struct writer w = { 0 };
    say_block(&w, rows);
    say(&w, "fn @main(%%x0: f32[%s, 16]", rows);
    say_weights(&w, n);
    say(&w, ") -> (f32[]) {\n");
    for (uint32_t i = 0; i < n; i++)
        say(&w, "  %%x%u = invoke_subgraph @block(%%x%u, %%u%u, %%v%u)\n", i + 1, i, i, i);
    say(&w, "  %%s = sum(%%x%u)\n  return %%s\n}\n", n);
    return w.text;
}

/* n calls of a body, small (three nodes) or a block, each with these attributes. */
static char *written(uint32_t n, bool small, const char *attributes)
{
    struct writer w = { 0 };
    say_block(&w, "16");
    say(&w, "fn @small(%%x: f32[16, 16], %%u: f32[16, 64], %%v: f32[64, 16]) -> (f32[16, 16]) {\n"
            "  %%a = matmul(%%x, %%u)\n  %%b = tanh(%%a)\n  %%c = matmul(%%b, %%v)\n  return %%c\n}\n"
            "fn @main(%%x0: f32[16, 16]");
    say_weights(&w, n);
    say(&w, ") -> (f32[]) {\n");
    for (uint32_t i = 0; i < n; i++)
        say(&w, "  %%x%u = invoke_subgraph %s @%s(%%x%u, %%u%u, %%v%u)\n", i + 1, attributes,
            small ? "small" : "block", i, i, i);
    say(&w, "  %%s = sum(%%x%u)\n  return %%s\n}\n", n);
    return w.text;
}

/* 2^levels calls of one block in the end, all of them to be put in place. */
static char *doubling(uint32_t levels)
{
    struct writer w = { 0 };
    say_block(&w, "2");
    say(&w, "fn @f0(%%x: f32[2, 16], %%u: f32[16, 64], %%v: f32[64, 16]) -> (f32[2, 16]) {\n"
            "  %%r = invoke_subgraph {inline = yes} @block(%%x, %%u, %%v)\n  return %%r\n}\n");
    for (uint32_t i = 1; i <= levels; i++)
        say(&w,
            "fn @%1$s%2$u(%%x: f32[2, 16], %%u: f32[16, 64], %%v: f32[64, 16]) -> (f32[2, 16]) {\n"
            "  %%a = invoke_subgraph {inline = yes} @f%3$u(%%x, %%u, %%v)\n"
            "  %%b = invoke_subgraph {inline = yes} @f%3$u(%%a, %%u, %%v)\n  return %%b\n}\n",
            "f", i, i - 1);
    say(&w,
        "fn @main(%%x: f32[2, 16], %%u: f32[16, 64], %%v: f32[64, 16]) -> (f32[2, 16]) {\n"
        "  %%r = invoke_subgraph {inline = yes} @f%u(%%x, %%u, %%v)\n  return %%r\n}\n",
        levels);
    return w.text;
}

/* The same with weights that lie one behind the other in two arrays. */
static char *stacked(uint32_t n)
{
    struct writer w = { 0 };
    say_block(&w, "16");
    say(&w, "fn @main(%%x0: f32[16, 16], %%u: f32[%u, 16, 64], %%v: f32[%u, 64, 16]) -> (f32[]) {\n", n, n);
    for (uint32_t i = 0; i < n; i++)
        say(&w,
            "  %%p%1$u = slice {start = [%1$u, 0, 0], limit = [%2$u, 16, 64]} (%%u)\n"
            "  %%u%1$u = reshape {dims = [16, 64]} (%%p%1$u)\n"
            "  %%q%1$u = slice {start = [%1$u, 0, 0], limit = [%2$u, 64, 16]} (%%v)\n"
            "  %%v%1$u = reshape {dims = [64, 16]} (%%q%1$u)\n"
            "  %%x%2$u = invoke_subgraph @block(%%x%1$u, %%u%1$u, %%v%1$u)\n",
            i, i + 1);
    say(&w, "  %%s = sum(%%x%u)\n  return %%s\n}\n", n);
    return w.text;
}

/* n calls in the step of a scan of three steps, and one in a branch behind it. */
static char *looped(uint32_t n)
{
    struct writer w = { 0 };
    say_block(&w, "8");
    say(&w, "fn @main(%%x: f32[8, 16]");
    say_weights(&w, n);
    say(&w, ") -> (f32[]) {\n  %%t = full {value = 0.25, dims = [3], dtype = f32}\n"
            "  %%last = scan carry(%%x0 = %%x) over(%%f in %%t) with(");
    for (uint32_t i = 0; i < n; i++) say(&w, "%s%%p%u = %%u%u, %%q%u = %%v%u", i ? ", " : "", i, i, i, i);
    say(&w, ") {\n");
    for (uint32_t i = 0; i < n; i++)
        say(&w, "    %%x%u = invoke_subgraph @block(%%x%u, %%p%u, %%q%u)\n", i + 1, i, i, i);
    say(&w,
        "    %%g = broadcast {dims = [8, 16], at = []} (%%f)\n    %%y = mul(%%x%u, %%g)\n    next(%%y)\n  }\n"
        "  %%s = sum(%%last)\n  %%z = full {value = 0, dims = [], dtype = f32}\n  %%c = gt(%%s, %%z)\n"
        "  %%r = switch(%%c) [(%%a = %%last, %%b = %%u0, %%d = %%v0) {\n"
        "    %%e = invoke_subgraph @block(%%a, %%b, %%d)\n    yield(%%e)\n  }, (%%a = %%last) {\n"
        "    %%e = neg(%%a)\n    yield(%%e)\n  }]\n  %%l = sum(%%r)\n  return %%l\n}\n",
        n);
    return w.text;
}

/* n caches, each written at one place by a call of the same function, which reads all of it before. */
static char *caches(uint32_t n)
{
    struct writer w = { 0 };
    say(&w, "hop 1\nfn @layer(%%x: f32[16], %%cache: f32[256, 16], %%i: i64[]) -> (f32[16], f32[256, 16]) {\n"
            "  %%a = matmul(%%cache, %%x)\n  %%b = tanh(%%a)\n  %%c = sin(%%b)\n  %%d = mul(%%c, %%b)\n"
            "  %%e = cos(%%d)\n  %%f = mul(%%e, %%a)\n  %%g = tanh(%%f)\n  %%h = matmul(%%g, %%cache)\n"
            "  %%j = tanh(%%h)\n  %%k = sin(%%j)\n  %%l = mul(%%k, %%x)\n  %%m = tanh(%%l)\n"
            "  %%z = full {value = 0, dims = [], dtype = i64}\n  %%n = reshape {dims = [1, 16]} (%%m)\n  %%o "
            "= dynamic_update(%%cache, %%n, %%i, %%z)\n"
            "  return %%m, %%o\n}\nfn @main(%%x0: f32[16], %%i: i64[]");
    for (uint32_t i = 0; i < n; i++) say(&w, ", %%c%u: mut f32[256, 16]", i);
    say(&w, ") -> (f32[16]");
    for (uint32_t i = 0; i < n; i++) say(&w, ", new %%c%u", i);
    say(&w, ") {\n");
    for (uint32_t i = 0; i < n; i++)
        say(&w, "  %%x%u, %%d%u = invoke_subgraph @layer(%%x%u, %%c%u, %%i)\n", i + 1, i, i, i);
    say(&w, "  return %%x%u", n);
    for (uint32_t i = 0; i < n; i++) say(&w, ", %%d%u", i);
    say(&w, "\n}\n");
    return w.text;
}

/* ---- counting ---- */

struct counts {
    uint32_t fns, bodies, calls, threaded; /* threaded: parallel loops of shared bodies */
    uint64_t instructions;
    uint32_t n_updates, in_place;
    int64_t bytes;
};

static uint32_t parallel_loops(const struct lp_block *block)
{
    uint32_t n = 0;
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        n += s->kind == LP_FOR && s->mode == FOR_PARALLEL;
        n += parallel_loops(s->body) + parallel_loops(s->other);
    }
    return n;
}

static struct counts counts_of(const hop_fn *f)
{
    struct counts c = { .fns = f->shared->m->fns.len };
    struct lp *p = lower_and_plan(f->shared->m, f->fn, &(struct pass_options){ .strict = true });
    c.bodies = p->procedures.len;
    c.instructions = lp_size(p);
    c.bytes = p->arena_total;
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        c.calls += p->procedures.data[i]->n_calls;
        c.threaded += parallel_loops(p->procedures.data[i]->root);
    }
    c.n_updates = p->updates.len;
    for (uint32_t i = 0; i < p->updates.len; i++) c.in_place += p->updates.data[i].in_place;
    lp_free(p);
    return c;
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

static hop_fn *gradient(hop_fn *f, const char *wrt)
{
    hop_fn *g = NULL;
    if (hop_grad(&g, f, wrt)) {
        printf("%s\n", hop_message());
        exit(1);
    }
    return g;
}

static void same_bits(const char *what, hop_fn *f, const char *rows);

/* A call is a list of addresses: each more adds so many instructions, nodes nothing. */
enum { PER_CALL = 8 };

static void the_number_of_calls_does_not_matter(void)
{
    enum { FEW = 4, MANY = 48 };
    hop_fn *few = read_text(chain(FEW, "16")), *many = read_text(chain(MANY, "16"));
    struct counts a = counts_of(few), b = counts_of(many);
    CLAIM(a.bodies == 1 && a.calls == FEW, "%u bodies, %u calls", a.bodies, a.calls);
    CLAIM(b.bodies == 1 && b.calls == MANY, "%u bodies, %u calls", b.bodies, b.calls);
    CLAIM(b.instructions <= a.instructions + (MANY - FEW) * PER_CALL, "%llu instructions, then %llu",
          (unsigned long long)a.instructions, (unsigned long long)b.instructions);
    hop_fn *few_grad = gradient(few, NULL), *many_grad = gradient(many, NULL);
    uint32_t before = few_grad->shared->m->fns.len, then = many_grad->shared->m->fns.len;
    CLAIM(before == then, "the gradient of %d calls has %u functions, of %d calls %u", FEW, before, MANY,
          then);
    a = counts_of(few_grad), b = counts_of(many_grad);
    CLAIM(a.bodies == 2 && a.calls == 2 * FEW, "%u bodies, %u calls", a.bodies, a.calls);
    CLAIM(b.bodies == 2 && b.calls == 2 * MANY, "%u bodies, %u calls", b.bodies, b.calls);
    CLAIM(b.instructions <= a.instructions + 2 * (MANY - FEW) * PER_CALL, "%llu instructions, then %llu",
          (unsigned long long)a.instructions, (unsigned long long)b.instructions);
    hop_fn_free(few_grad), hop_fn_free(many_grad);
    hop_fn_free(few), hop_fn_free(many);
}

/* ---- in place or called: the budget, then what is written, then size ---- */

static void one_function_decides(void)
{
    const struct shared_body small = { .code = 3, .copies = 48, .work = 1 << 20 };
    const struct shared_body large = { .code = 100, .copies = 48, .work = 1 << 20 };
    static const struct {
        bool over, large;
        enum inlining written;
        enum placing placing;
    } rows[] = {
        { true, false, INLINE_YES, CALLED_FOR_BUDGET },    { true, false, INLINE_NO, CALLED_FOR_BUDGET },
        { true, false, INLINE_UNSAID, CALLED_FOR_BUDGET }, { false, true, INLINE_YES, PLACED_AS_WRITTEN },
        { false, false, INLINE_NO, CALLED_AS_WRITTEN },    { false, true, INLINE_UNSAID, CALLED_FOR_SIZE },
        { false, false, INLINE_UNSAID, PLACED_FOR_SIZE },
    };
    for (uint32_t i = 0; i < HOP_COUNT(rows); i++) {
        enum placing p = place_call(rows[i].over, rows[i].written, rows[i].large ? &large : &small);
        CLAIM(p == rows[i].placing, "row %u: %d", i, (int)p);
    }
}

static void calls_say_whether_they_are_put_in_place(void)
{
    static const struct {
        uint32_t calls;
        bool small;
        const char *attributes;
        uint32_t bodies, backward; /* of the function, and of its gradient */
    } rows[] = {
        { 4, true, "", 0, 0 },                /* small: in place */
        { 4, true, "{inline = no}", 1, 2 },   /* … but called as written */
        { 1, true, "{inline = no}", 1, 2 },   /* also where nobody else calls it */
        { 4, false, "", 1, 2 },               /* large: called */
        { 4, false, "{inline = yes}", 0, 0 }, /* … but in place as written */
        { 4, false, "{inline = no}", 1, 2 },  /* with a policy of its own, too */
        { 4, false, "{recompute, inline = no}", 1, 2 },
        { 4, false, "{policy = \"products\", inline = yes}", 0, 0 },
    };
    for (uint32_t i = 0; i < HOP_COUNT(rows); i++) {
        hop_fn *f = read_text(written(rows[i].calls, rows[i].small, rows[i].attributes));
        hop_fn *g = gradient(f, NULL);
        struct counts a = counts_of(f), b = counts_of(g);
        CLAIM(a.bodies == rows[i].bodies && a.calls == rows[i].bodies * rows[i].calls,
              "row %u: %u bodies, %u calls", i, a.bodies, a.calls);
        CLAIM(b.bodies == rows[i].backward, "row %u: %u bodies in the gradient", i, b.bodies);
        same_bits(rows[i].attributes, g, "16");
        hop_fn_free(f), hop_fn_free(g);
    }
}

static void the_budget_comes_first(void)
{
    enum { LEVELS = 16, NODES = 14 }; /* of a block: about a million in place */
    hop_fn *f = read_text(doubling(LEVELS));
    struct counts c = counts_of(f);
    CLAIM(c.bodies > 0 && c.instructions < (uint64_t)NODES << LEVELS, "%u bodies, %llu instructions",
          c.bodies, (unsigned long long)c.instructions);
    hop_fn_free(f);
    f = read_text(doubling(3));
    c = counts_of(f);
    CLAIM(!c.bodies, "eight blocks are in the budget: %u bodies", c.bodies);
    hop_fn_free(f);
}

/* Calls of one body that ask for different derivatives: n in a row, by the weights alone or by `also` as
 * well, and one beside them whose result is no part of what is differentiated. */
static char *chain_and_aside(uint32_t n)
{
    struct writer w = { 0 };
    say_block(&w, "16");
    say(&w, "fn @main(%%x0: f32[16, 16]");
    say_weights(&w, n);
    say(&w, ") -> (f32[], f32[16, 16]) {\n");
    for (uint32_t i = 0; i < n; i++)
        say(&w, "  %%x%u = invoke_subgraph @block(%%x%u, %%u%u, %%v%u)\n", i + 1, i, i, i);
    say(&w, "  %%aside = invoke_subgraph @block(%%x%u, %%u0, %%v0)\n", n);
    say(&w, "  %%s = sum(%%x%u)\n  return %%s, %%aside\n}\n", n);
    return w.text;
}

static char *weights_of(uint32_t n)
{
    struct writer w = { 0 };
    for (uint32_t i = 0; i < n; i++) say(&w, "%su%u, v%u", i ? ", " : "", i, i);
    return w.text;
}

/* The first call of a chain is not differentiated by its input, another one not at all: neither has bodies
 * of its own where most calls ask for more. */
static void few_calls_take_the_halves_of_most(void)
{
    static const uint32_t counts[] = { 4, 12, 48 };
    uint32_t functions = 0;
    for (uint32_t i = 0; i < HOP_COUNT(counts); i++) {
        uint32_t n = counts[i];
        char *wrt = weights_of(n);
        hop_fn *f = read_text(chain(n, "16")), *g = gradient(f, wrt);
        struct counts c = counts_of(g);
        CLAIM(c.bodies == 2 && c.calls == 2 * n, "%u calls: %u bodies, %u calls", n, c.bodies, c.calls);
        if (!i) functions = c.fns;
        CLAIM(c.fns == functions, "%u calls: %u functions, of four %u", n, c.fns, functions);
        hop_fn_free(f), hop_fn_free(g);
        f = read_text(chain_and_aside(n)), g = NULL;
        CLAIM(!hop_value_and_grad(&g, f, wrt), "%s", hop_message());
        c = counts_of(g);
        CLAIM(c.bodies == 2 && c.calls == 2 * n + 1, "%u calls and one aside: %u bodies, %u calls", n,
              c.bodies, c.calls);
        hop_fn_free(f), hop_fn_free(g);
        free(wrt);
    }
}

/* Of three calls one is not few: three share one body forward, two one backward. */
static void many_calls_have_halves_of_their_own(void)
{
    char *wrt = weights_of(3);
    hop_fn *f = read_text(chain(3, "16")), *g = gradient(f, wrt);
    struct counts c = counts_of(g);
    CLAIM(c.bodies == 2 && c.calls == 5, "%u bodies, %u calls", c.bodies, c.calls);
    hop_fn_free(f), hop_fn_free(g);
    free(wrt);
}

/* Slices are read where the argument lies, and cotangents of slices written where the result lies: one more
 * call is one more call, and nothing is copied. */
static void stacked_weights_stay_where_they_are(void)
{
    enum { FEW = 4, MANY = 48 };
    hop_fn *few = read_text(stacked(FEW)), *many = read_text(stacked(MANY));
    hop_fn *few_grad = gradient(few, "u, v"), *many_grad = gradient(many, "u, v");
    struct counts a = counts_of(few_grad), b = counts_of(many_grad);
    CLAIM(b.bodies == 2 && b.calls == 2 * MANY, "%u bodies, %u calls", b.bodies, b.calls);
    CLAIM(b.instructions <= a.instructions + 2 * (MANY - FEW) * PER_CALL, "%llu instructions, then %llu",
          (unsigned long long)a.instructions, (unsigned long long)b.instructions);
    same_bits("the gradient by stacked weights", few_grad, "16");
    hop_fn_free(few_grad), hop_fn_free(many_grad);
    hop_fn_free(few), hop_fn_free(many);
}

/* In a loop, in a branch, and the bodies of both derivatives. */
static void calls_in_loops_are_shared(void)
{
    for (uint32_t n = 4; n <= 16; n += 12) {
        hop_fn *f = read_text(looped(n)), *g = gradient(f, "x, u0, v1");
        struct counts c = counts_of(f);
        CLAIM(c.bodies == 2 && c.calls == n + 1, "%u bodies, %u calls", c.bodies, c.calls);
        static uint32_t bodies;
        c = counts_of(g);
        if (n == 4) bodies = c.bodies;
        CLAIM(c.bodies == bodies && c.calls >= 2 * n, "%u bodies, %u calls", c.bodies, c.calls);
        hop_fn_free(f), hop_fn_free(g);
    }
}

/* What waits for another keeps its memory; bodies that never wait for each other share theirs. */
static void bodies_share_memory(void)
{
    hop_fn *f = read_text(chain(8, "16")), *g = gradient(f, NULL);
    struct lp *p = lower_and_plan(g->shared->m, g->fn, &(struct pass_options){ .strict = true });
    int64_t sum = p->arena_size, most = 0;
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        sum += p->procedures.data[i]->arena_size;
        most = HOP_MAX(most, p->procedures.data[i]->arena_size);
    }
    CLAIM(p->procedures.len == 2 && p->arena_total == p->arena_size + most && p->arena_total < sum,
          "%lld bytes of %lld", (long long)p->arena_total, (long long)sum);
    lp_free(p);
    hop_fn_free(f), hop_fn_free(g);
}

/* ---- values ---- */

enum { MOST = 40 };

static hop_tensor *filled(const char *type, uint32_t seed)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
    for (int64_t i = 0; t && i < hop_tensor_count(t); i++) {
        double x = (double)((i * 7 + seed * 5) % 13) * 0.0625 - 0.375;
        if (!strcmp(type, "i64[]")) ((int64_t *)hop_data(t))[i] = 3;
        else ((float *)hop_data(t))[i] = (float)x;
    }
    return t;
}

static void same_bits(const char *what, hop_fn *f, const char *rows)
{
    hop_tensor *out[5][MOST] = { { 0 } }, *first[MOST] = { 0 };
    int n_in = hop_fn_params(f), n_out = hop_fn_results(f);
    CLAIM(n_in <= MOST && n_out <= MOST, "%s: room", what);
    for (int way = 0; way < 5; way++) {
        hop_tensor *in[MOST] = { 0 };
        hop_exe *exe = NULL;
        hop_compile_options o = { .strict = 1, .portable = way == 1, .threads = way == 3 ? 3 : 1 };
        if (way == 4) o.without = "inline, inplace";
        if (way > 1 && !exe_available()) continue;
        for (int i = 0; i < n_in; i++) {
            char type[64];
            snprintf(type, sizeof type, "%s", hop_fn_param_type(f, i));
            if (strchr(type, 'T')) snprintf(type, sizeof type, "f32[%s, 16]", rows);
            in[i] = filled(type, (uint32_t)i);
        }
        if (!way) CLAIM(!hop_interpret(f, in, n_in, out[way], n_out), "%s: %s", what, hop_message());
        else {
            CLAIM(!hop_compile(&exe, f, &o), "%s: %s", what, hop_message());
            CLAIM(exe && !hop_run(exe, in, n_in, out[way], n_out), "%s: %s", what, hop_message());
        }
        hop_exe_free(exe);
        for (int k = 0; k < n_out && out[way][k] && out[0][k]; k++) {
            size_t bytes = (size_t)hop_tensor_count(out[0][k]) * sizeof(float);
            CLAIM(!memcmp(hop_data(out[way][k]), hop_data(out[0][k]), bytes), "%s: way %d, result %d", what,
                  way, k);
        }
        for (int i = 0; i < n_in && way; i++) { /* new contents are left in the arguments */
            size_t bytes = (size_t)hop_tensor_count(in[i]) * sizeof(float);
            CLAIM(!memcmp(hop_data(in[i]), hop_data(first[i]), bytes), "%s: way %d, argument %d", what, way,
                  i);
            hop_tensor_free(in[i]);
        }
        if (!way) memcpy(first, in, sizeof first);
    }
    for (int i = 0; i < MOST; i++) hop_tensor_free(first[i]);
    for (int way = 0; way < 5; way++)
        for (int k = 0; k < MOST; k++) hop_tensor_free(out[way][k]);
}

static void results_are_those_of_the_interpreter(void)
{
    hop_fn *f = read_text(chain(4, "16")), *g = gradient(f, NULL), *h = NULL;
    same_bits("calls", f, "16");
    same_bits("the gradient of calls", g, "16");
    CLAIM(!hop_jvp(&h, g, "x0"), "%s", hop_message());
    same_bits("the second derivative of calls", h, "16");
    hop_fn_free(f), hop_fn_free(g), hop_fn_free(h);
    char *wrt = weights_of(4);
    f = read_text(chain_and_aside(4));
    g = h = NULL;
    CLAIM(!hop_value_and_grad(&g, f, wrt), "%s", hop_message());
    same_bits("the gradient of calls by weights alone", g, "16");
    CLAIM(!hop_jvp(&h, g, "u0"), "%s", hop_message());
    same_bits("the second derivative of calls by weights alone", h, "16");
    hop_fn_free(f), hop_fn_free(g), hop_fn_free(h);
    free(wrt);
    f = read_text(chain(3, "T")), g = gradient(f, NULL);
    same_bits("calls with a symbol", f, "21");
    same_bits("the gradient of calls with a symbol", g, "21");
    hop_fn_free(f), hop_fn_free(g);
    f = read_text(looped(5)), g = gradient(f, "x, u0, v1");
    same_bits("calls in a loop", f, "8");
    same_bits("the gradient of calls in a loop", g, "8");
    hop_fn_free(f), hop_fn_free(g);
}

static void shared_bodies_use_threads(void)
{
    hop_fn *f = read_text(chain(3, "4096"));
    struct counts c = counts_of(f);
    CLAIM(c.bodies == 1 && c.threaded > 0, "%u bodies with %u parallel loops", c.bodies, c.threaded);
    same_bits("calls of large arrays", f, "4096");
    hop_fn_free(f);
}

static void calls_update_in_place(void)
{
    enum { CACHES = 6 };
    hop_fn *f = read_text(caches(CACHES));
    struct counts c = counts_of(f);
    CLAIM(c.bodies == 1 && c.calls == CACHES, "%u bodies, %u calls", c.bodies, c.calls);
    CLAIM(c.n_updates == CACHES && c.in_place == CACHES, "%u of %u in place", c.in_place, c.n_updates);
    same_bits("caches", f, "16");
    hop_fn_free(f);
}

/* ---- calls from captures ---- */

struct repeated {
    const hop_fn *block;
    int n;
};
static int call_repeatedly(void *env, const hop_val *in, hop_val *out)
{
    const struct repeated *r = env;
    hop_val x = in[0];
    for (int i = 0; i < r->n; i++) hop_call_fn(&x, 1, r->block, (hop_val[]){ x, in[1], in[2] }, 3);
    out[0] = hop_sum(x, NULL);
    return 0;
}

static int block_body(void *env, const hop_val *in, hop_val *out)
{
    HOP_UNUSED(env);
    hop_val a = hop_tanh(hop_matmul(in[0], in[1]));
    hop_val b = hop_add(hop_matmul(hop_mul(a, hop_sin(a)), in[2]), in[0]);
    for (int i = 0; i < 6; i++) b = hop_mul(hop_tanh(b), b);
    out[0] = b;
    return 0;
}

/* However often it is called, a captured function is there once; so are its derivatives. */
static void captures_take_a_function_in_once(void)
{
    static const char params[] = "x: f32[16, 16], u: f32[16, 64], v: f32[64, 16]";
    hop_fn *block = NULL, *f[2] = { 0 }, *g[2] = { 0 };
    CLAIM(!hop_capture(&block, params, 1, block_body, NULL), "%s", hop_message());
    for (int k = 0; k < 2; k++) {
        struct repeated r = { block, k ? 48 : 4 };
        CLAIM(!hop_capture(&f[k], params, 1, call_repeatedly, &r), "%s", hop_message());
        g[k] = gradient(f[k], NULL);
    }
    uint32_t few = f[0]->shared->m->fns.len, many = f[1]->shared->m->fns.len;
    CLAIM(few == many, "%u functions for 4 calls, %u for 48", few, many);
    struct counts a = counts_of(g[0]), b = counts_of(g[1]);
    CLAIM(a.bodies == b.bodies && b.calls == a.calls + 2 * 44, "%u bodies, %u calls; %u bodies, %u calls",
          a.bodies, a.calls, b.bodies, b.calls);
    same_bits("a captured function", f[0], "16");
    for (int k = 0; k < 2; k++) hop_fn_free(f[k]), hop_fn_free(g[k]);
    hop_fn_free(block);
}

int main(void)
{
    one_function_decides();
    calls_say_whether_they_are_put_in_place();
    the_budget_comes_first();
    the_number_of_calls_does_not_matter();
    few_calls_take_the_halves_of_most();
    many_calls_have_halves_of_their_own();
    stacked_weights_stay_where_they_are();
    calls_in_loops_are_shared();
    bodies_share_memory();
    results_are_those_of_the_interpreter();
    shared_bodies_use_threads();
    calls_update_in_place();
    captures_take_a_function_in_once();
    return tests_end();
}
