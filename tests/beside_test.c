/* Products of one value of a loop's step with several invariants, as gates of recurrent networks have them.
 * Random loops (rows or a vector, invariants on either side, as they are or transposed, given or made in the
 * body, of different sizes, beside products that cannot go with them) are simplified with the pass `beside`
 * at work whatever their size, and give the interpreter's bits on every strict back end; so do their
 * gradients. Default numbers are the same bits on any number of threads. Then where the pass begins.
 *
 * beside_test [FIRST [COUNT]]: seeds; closes with `N passed, M failed`. */
#include "check.h"

#include "check/check.h"
#include "loop/lower.h"
#include "transform/transform.h"

#include <stdlib.h>

/* ---- random loops ---- */

static uint64_t state;
static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

struct gates {
    struct arena *arena;
    struct text head, with, body; /* parameters, what the loop is given, its nodes */
    const char *dtype;
    uint32_t rows, size; /* rows 0: the carry is a vector */
    uint32_t n, n_shared;
};

static const char *carry_dims(const struct gates *g)
{
    return g->rows ? arena_printf(g->arena, "%u, %u", g->rows, g->size)
                   : arena_printf(g->arena, "%u", g->size);
}

/* The name of an invariant matrix: a parameter, its negative, or a part of it. */
static const char *shared_matrix(struct gates *g, uint32_t first, uint32_t second)
{
    uint32_t k = g->n_shared++, how = below(5), more = how == 1;
    text_add(&g->head, ", %%w%u: %s[%u, %u]", k, g->dtype, first + more, second);
    text_add(&g->with, "%s%%s%u = %%w%u", k ? ", " : "", k, k);
    if (how > 1) return arena_printf(g->arena, "s%u", k);
    if (how == 0) text_add(&g->body, "    %%m%u = neg(%%s%u)\n", k, k);
    else
        text_add(&g->body, "    %%m%u = slice {start = [1, 0], limit = [%u, %u]} (%%s%u)\n", k, first + 1,
                 second, k);
    return arena_printf(g->arena, "m%u", k);
}

/* %p…: a product of %x… with a matrix, %g…: what the carry gets of it. */
static void add_gate(struct gates *g, const char *x)
{
    uint32_t k = g->n++, columns = below(3) ? g->size : 1 + below(6), inner = g->rows ? 1 : 0;
    uint32_t how = below(4);
    const char *w;
    if (how == 0) { /* rows of the matrix are multiplied */
        w = shared_matrix(g, columns, g->size);
        text_add(&g->body,
                 "    %%p%u = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [%u], contract_rhs = [1]} "
                 "(%%%s, %%%s)\n",
                 k, inner, x, w);
    } else if (how == 1) { /* the matrix is on the left */
        w = shared_matrix(g, columns, g->size);
        text_add(&g->body,
                 "    %%q%u = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [1], contract_rhs = [%u]} "
                 "(%%%s, %%%s)\n",
                 k, inner, w, x);
        if (g->rows) text_add(&g->body, "    %%p%u = permute {order = [1, 0]} (%%q%u)\n", k, k);
        else text_add(&g->body, "    %%p%u = neg(%%q%u)\n", k, k);
    } else {
        w = shared_matrix(g, g->size, columns);
        text_add(&g->body, "    %%p%u = matmul(%%%s, %%%s)\n", k, x, w);
    }
    if (columns == g->size) {
        text_add(&g->body, "    %%g%u = neg(%%p%u)\n", k, k);
        return;
    }
    text_add(&g->body, "    %%f%u = sum {dims = [%u]} (%%p%u)\n", k, inner, k);
    text_add(&g->body, "    %%g%u = broadcast {dims = [%s], at = [%s]} (%%f%u)\n", k, carry_dims(g),
             g->rows ? "0" : "", k);
}

/* A loop whose carry is made of two to six gates. */
static const char *random_gates(struct arena *arena, uint64_t seed, uint32_t most)
{
    struct gates gates = {
        .arena = arena, .head = { .arena = arena }, .with = { .arena = arena }, .body = { .arena = arena }
    };
    struct gates *g = &gates;
    state = seed * 91 + 5;
    for (int i = 0; i < 8; i++) below(2);
    g->dtype = below(3) ? "f32" : "f64";
    g->rows = below(4) ? 1 + below(most) : 0;
    g->size = 1 + below(2 * most);
    bool counted = below(3) == 0;
    text_add(&g->head, "%%h0: %s[%s]", g->dtype, carry_dims(g));
    text_add(&g->body, "    %%y = tanh(%%h)\n");
    uint32_t n = 2 + below(5);
    for (uint32_t i = 0; i < n; i++) add_gate(g, below(4) ? "h" : "y");
    const char *of = "y";
    for (uint32_t i = 0; i < g->n; i++) {
        text_add(&g->body, "    %%a%u = %s(%%%s, %%g%u)\n", i, below(2) ? "add" : "sub", of, i);
        of = arena_printf(arena, "a%u", i);
    }
    const char *dims = carry_dims(g); /* nothing that rounding makes grows: factors are small */
    text_add(&g->body, "    %%k = full {value = 0.02, dims = [%s], dtype = %s}\n", dims, g->dtype);
    text_add(&g->body, "    %%o = mul(%%%s, %%k)\n    %%z = tanh(%%o)\n", of);
    struct text t = { .arena = arena };
    text_add(&t, "hop 1\nfn @main(%s, %%xs: %s[9, %s]) -> (%s[], %s[%s]) {\n", g->head.data, g->dtype, dims,
             g->dtype, g->dtype, dims);
    if (counted)
        text_add(&t,
                 "  %%from = full {value = 0, dims = [], dtype = i64}\n"
                 "  %%to = full {value = 9, dims = [], dtype = i64}\n"
                 "  %%r = fori_loop carry(%%h = %%h0) from(%%i = %%from) to(%%to) with(%s) {\n%s"
                 "    next(%%z)\n  }\n",
                 g->with.data, g->body.data);
    else
        text_add(&t,
                 "  %%r = scan carry(%%h = %%h0) over(%%x in %%xs) with(%s) {\n%s"
                 "    %%next = mul(%%z, %%x)\n    next(%%next)\n  }\n",
                 g->with.data, g->body.data);
    text_add(&t, "  %%all = sum(%%r)\n  return %%all, %%r\n}\n");
    return t.data;
}

/* ---- claims ---- */

static uint32_t n_joined, n_loops;

static uint32_t count_products(const struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *node = fn_node(f, i);
        n += node_is_product(node);
        for (uint32_t r = 0; r < node->n_regions; r++) n += count_products(m, node_region(f, node, r)->fn);
    }
    return n;
}

static void same_bits(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                      const char *what, uint64_t seed)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    const struct way ways[] = {
        { .name = "simplified", .simplify = true, .passes = { .strict = true } },
        { .name = "beside alone",
          .simplify = true,
          .passes = { .strict = true, .without = EVERY_PASS & ~(1u << PASS_beside) } },
        { .name = "executor", .backend = backend_named("executor"), .passes = { .strict = true } },
        { .name = "LLVM", .backend = backend_named("llvm"), .passes = { .strict = true }, .threads = 3 },
        { .name = "LLVM without beside",
          .backend = backend_named("llvm"),
          .passes = { .strict = true, .without = 1u << PASS_beside } },
    };
    struct outcome expected, found;
    run_on(bag, m, fn, &interpreter, args, NULL, &expected);
    for (uint32_t i = 0; i < HOP_COUNT(ways); i++) {
        if (i >= 2 && (!ways[i].backend || (i >= 3 && seed % 4))) continue; /* LLVM takes its time */
        run_on(bag, m, fn, &ways[i], args, NULL, &found);
        const char *wrong = outcome_difference(&bag->arena, &found, &expected, bits, bits);
        CLAIM(!wrong, "%s of loop %llu, %s: %s", what, (unsigned long long)seed, ways[i].name,
              wrong ? wrong : "");
    }
}

/* Default numbers: within bounds of the interpreter's, and the same on any number of threads. */
static void same_on_threads(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                            uint64_t seed)
{
    static const struct bound bits = { BOUND_BITS, 0 }, f32 = { BOUND_TENSOR, 1e-4 },
                              f64 = { BOUND_TENSOR, 1e-10 };
    static const uint32_t threads[] = { 1, 2, 3, 7, 16 };
    struct outcome expected, first, found;
    struct way way = { .name = "threads", .backend = backend_named("llvm") };
    if (!way.backend) return;
    run_on(bag, m, fn, &interpreter, args, NULL, &expected);
    for (uint32_t i = 0; i < HOP_COUNT(threads); i++) {
        way.threads = threads[i];
        run_on(bag, m, fn, &way, args, NULL, i ? &found : &first);
        const char *wrong = i ? outcome_difference(&bag->arena, &found, &first, bits, bits)
                              : outcome_difference(&bag->arena, &first, &expected, f32, f64);
        CLAIM(!wrong, "loop %llu on %u threads: %s", (unsigned long long)seed, threads[i],
              wrong ? wrong : "");
    }
}

static void check_loop(struct bag *bag, struct module *m, uint64_t seed, bool large)
{
    uint32_t fn = module_find(m, "main"), n_params = module_fn(m, fn)->n_params;
    struct sample_sizes sizes = sample_sizes(&bag->arena, module_fn(m, fn), 0);
    struct tensor **args = sample_arguments(bag, m, module_fn(m, fn), NULL, &sizes, seed);
    static const struct pass_options strict = { .strict = true };
    static const struct pass_options without = { .strict = true, .without = 1u << PASS_beside };
    if (large) {
        same_on_threads(bag, m, fn, args, seed);
        return;
    }
    n_loops++;
    n_joined += count_products(m, simplify(m, fn, &strict)) < count_products(m, simplify(m, fn, &without));
    same_bits(bag, m, fn, args, "the value", seed);
    bool *wrt = ARENA_NEW(&bag->arena, bool, n_params);
    for (uint32_t p = 0; p < n_params; p++) wrt[p] = true;
    const bool keep[2] = { true, false };
    uint32_t slope = grad_function(m, prune_function(m, fn, keep), wrt, true);
    same_bits(bag, m, slope, args, "the gradient", seed);
}

static void walk_loop(uint64_t seed, bool large)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    if (!HOP_TRY(caught)) {
        CLAIM(false, "loop %llu: %s", (unsigned long long)seed, hop_message());
        return;
    }
    hop_cleanup_push(bag_free, &bag);
    const char *text = random_gates(&bag.arena, seed, large ? 48 : 4);
    if (getenv("HOP_TEST_SHOW")) puts(text);
    struct module *m = text_read("loop", text, strlen(text));
    hop_cleanup_push(module_free, m);
    check_loop(&bag, m, seed, large);
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
    hop_catch_end(&caught);
}

/* ---- where it begins ---- */

struct begins {
    const char *what, *rows, *inner, *columns;
    int trips;
    uint32_t products; /* of three gates */
};

static void count_body(void *ctx)
{
    const struct begins *b = ctx;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    const char *w = arena_printf(&arena, "f32[%s, %s]", b->inner, b->columns);
    const char *h = arena_printf(&arena, "f32[%s, %s]", b->rows, b->inner);
    const char *text = arena_printf(
        &arena,
        "hop 1\nfn @main[dim B](%%h: %s, %%xs: f32[%d], %%a: %s, %%b: %s, %%c: %s) -> (%s) {\n"
        "  %%r = scan carry(%%s = %%h) over(%%x in %%xs) with(%%u = %%a, %%v = %%b, %%w = %%c) {\n"
        "    %%p = matmul(%%s, %%u)\n    %%q = matmul(%%s, %%v)\n    %%t = matmul(%%s, %%w)\n"
        "    %%d = mul(%%p, %%q)\n    %%e = add(%%d, %%t)\n    %%n = tanh(%%e)\n    next(%%n)\n  }\n"
        "  return %%r\n}\n",
        h, b->trips, w, w, w, h);
    struct module *m = text_read("begins", text, strlen(text));
    hop_cleanup_push(module_free, m);
    uint32_t n = count_products(m, simplify(m, module_find(m, "main"), NULL));
    CLAIM(n == b->products, "%s: %u products, not %u", b->what, n, b->products);
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

static void check_begins(void)
{
    static const struct begins all[] = {
        { "three gates of 128", "4", "128", "128", 100, 1 },
        { "one row, times large ones", "1", "256", "256", 100, 1 },
        { "one row, times small ones", "1", "128", "128", 100, 3 },
        { "small ones stay", "4", "16", "16", 100, 3 },
        { "few trips", "4", "128", "128", 10, 3 },
        { "many rows", "512", "128", "128", 100, 3 },
        { "rows that only a run knows", "B", "128", "128", 100, 3 },
    };
    for (uint32_t i = 0; i < HOP_COUNT(all); i++)
        CLAIM(attempt(count_body, (void *)&all[i]) == HOP_OK, "%s: %s", all[i].what, hop_message());
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 60;
    setenv("HOP_DEBUG", "verify", 1);
    check_begins();
    for (uint64_t seed = first; seed < first + count / 10; seed++) walk_loop(seed, true);
    setenv("HOP_DEBUG", "verify,beside", 1);
    for (uint64_t seed = first; seed < first + count; seed++) walk_loop(seed, false);
    CLAIM(n_joined * 2 > n_loops, "products of most loops become fewer: %u of %u", n_joined, n_loops);
    return tests_end();
}
