/* Chains of products that run slice by slice. Random functions of arrays over a batch (products of every
 * kind, softmax, masks that all slices or some share, views, reductions, and nodes that need the whole batch)
 * are simplified with the pass `slices` at work whatever their size, and give the interpreter's bits on every
 * strict back end; so do their gradients and batches. Then the sizes at which the pass begins, and memory.
 *
 * chains_test [FIRST [COUNT]]: seeds; closes with `N passed, M failed`. */
#include "check.h"

#include "check/check.h"
#include "hop/hop.h"
#include "ops/build.h"
#include "transform/transform.h"

#include <stdlib.h>

/* ---- random chains ---- */

static uint64_t state;
static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* What the dims behind the batch are: rows, columns, features. */
enum shape { ROWS_COLUMNS, ROWS_FEATURES, COLUMNS_FEATURES, ROWS, N_SHAPES };
enum { MOST_VALUES = 64 };

struct chain {
    struct arena *arena;
    struct text text;
    uint32_t batch[2], n_batch, size[3]; /* of rows, columns, features */
    uint8_t shapes[MOST_VALUES];         /* of %v0, %v1, … */
    uint32_t n;
};

static const uint8_t dims_of[N_SHAPES][2] = { { 0, 1 }, { 0, 2 }, { 1, 2 }, { 0, 0 } };
static uint32_t rank_of(uint8_t shape) { return shape == ROWS ? 1 : 2; }

/* "2, 3, 5, 4": the batch's dims and the shape's. */
static const char *sizes(struct chain *c, uint8_t shape)
{
    struct text t = { .arena = c->arena };
    for (uint32_t i = 0; i < c->n_batch; i++) text_add(&t, "%u, ", c->batch[i]);
    for (uint32_t i = 0; i < rank_of(shape); i++)
        text_add(&t, "%s%u", i ? ", " : "", c->size[dims_of[shape][i]]);
    return t.data;
}

/* "0, 1, …" below n; the numbers from n on where `from` is not 0. */
static const char *numbers(struct chain *c, uint32_t from, uint32_t n)
{
    struct text t = { .arena = c->arena };
    text_add(&t, "%s", "");
    for (uint32_t i = 0; i < n; i++) text_add(&t, "%s%u", i ? ", " : "", from + i);
    return t.data;
}

/* A value of this shape, one of the latest. */
static uint32_t pick(const struct chain *c, uint8_t shape)
{
    uint32_t found = 0;
    for (uint32_t v = 0; v < c->n; v++)
        if (c->shapes[v] == shape && (!found || below(2))) found = v + 1;
    return found - 1;
}

static bool has(const struct chain *c, uint8_t shape)
{
    for (uint32_t v = 0; v < c->n; v++)
        if (c->shapes[v] == shape) return true;
    return false;
}

#define LINE(shape, ...) \
    (text_add(&c->text, "  %%v%u = ", c->n), text_add(&c->text, __VA_ARGS__), text_add(&c->text, "\n"), \
     c->shapes[c->n++] = (shape))

static void add_product(struct chain *c)
{
    const char *batch = numbers(c, 0, c->n_batch);
    uint32_t b = c->n_batch, how = below(4);
#define DOT(x, y) \
    "dot {batch_lhs = [%s], batch_rhs = [%s], contract_lhs = [%u], contract_rhs = [%u]} (%%v%u, %%v%u)", \
        batch, batch, b + (x), b + (y)
    if (how == 0) LINE(ROWS_COLUMNS, DOT(1, 1), pick(c, ROWS_FEATURES), pick(c, COLUMNS_FEATURES));
    else if (how == 1 && has(c, ROWS_COLUMNS))
        LINE(ROWS_FEATURES, "matmul(%%v%u, %%v%u)", pick(c, ROWS_COLUMNS), pick(c, COLUMNS_FEATURES));
    else if (how == 2 && has(c, ROWS_COLUMNS))
        LINE(COLUMNS_FEATURES, DOT(0, 0), pick(c, ROWS_COLUMNS), pick(c, ROWS_FEATURES));
    else LINE(ROWS_FEATURES, "matmul(%%v%u, %%w)", pick(c, ROWS_FEATURES));
#undef DOT
}

/* A mask, a bias or a number for each row, which all or some slices share. */
static void add_shared(struct chain *c)
{
    uint32_t x = pick(c, ROWS_COLUMNS), b = c->n_batch, how = below(4);
    const char *all = sizes(c, ROWS_COLUMNS);
    if (how == 0)
        text_add(&c->text, "  %%b%u = broadcast {dims = [%s], at = [%u, %u]} (%%bias)\n", c->n, all, b,
                 b + 1);
    else if (how == 1)
        text_add(&c->text, "  %%b%u = broadcast {dims = [%s], at = [0, %u]} (%%mask)\n", c->n, all, b + 1);
    else if (how == 2)
        text_add(&c->text, "  %%b%u = iota {dims = [%s], dim = %u, dtype = f64}\n", c->n, all, below(b + 2));
    else text_add(&c->text, "  %%b%u = full {value = 0.5, dims = [%s], dtype = f64}\n", c->n, all);
    LINE(ROWS_COLUMNS, "%s(%%v%u, %%b%u)", below(2) ? "add" : "mul", x, c->n);
}

/* Rows of any shape of rank 2, repeated: of sums, of largest. */
static void add_rows(struct chain *c)
{
    uint8_t shape = below(2) ? ROWS_COLUMNS : ROWS_FEATURES;
    if (!has(c, shape)) return;
    uint32_t x = pick(c, shape), b = c->n_batch;
    const char *all = sizes(c, shape);
    LINE(ROWS, "%s {dims = [%u]} (%%v%u)", below(2) ? "sum" : "reduce_max", b + 1, x);
    text_add(&c->text, "  %%b%u = broadcast {dims = [%s], at = [%s]} (%%v%u)\n", c->n, all,
             numbers(c, 0, b + 1), c->n - 1);
    LINE(shape, "sub(%%v%u, %%b%u)", x, c->n);
}

/* Views, some along dims of the batch. */
static void add_view(struct chain *c)
{
    uint8_t shape = (uint8_t)below(3);
    if (!has(c, shape)) return;
    uint32_t x = pick(c, shape), b = c->n_batch, d = below(b + 2), n = c->n;
    const char *all = sizes(c, shape);
    uint32_t low[4] = { 0 };
    low[d] = 1;
    const char *front = b == 1 ? arena_printf(c->arena, "%u, %u, %u", low[0], low[1], low[2])
                               : arena_printf(c->arena, "%u, %u, %u, %u", low[0], low[1], low[2], low[3]);
    const char *none = b == 1 ? "0, 0, 0" : "0, 0, 0, 0";
    switch (below(5)) {
    case 0: LINE(shape, "reverse {dims = [%u]} (%%v%u)", d, x); break;
    case 1: LINE(shape, "cumsum {dim = %u} (%%v%u)", d, x); break;
    case 2:
        text_add(&c->text, "  %%r%u = reshape {dims = [1, %s, 1]} (%%v%u)\n  %%t%u = neg(%%r%u)\n", n, all, x,
                 n, n);
        LINE(shape, "reshape {dims = [%s]} (%%t%u)", all, n);
        break;
    case 3:
        text_add(&c->text, "  %%z%u = full {value = 0, dims = [], dtype = f64}\n", n);
        text_add(&c->text, "  %%p%u = pad {low = [%s], high = [%s]} (%%v%u, %%z%u)\n", n, front, none, x, n);
        LINE(shape, "slice {start = [%s], limit = [%s]} (%%p%u)", none, all, n);
        break;
    default:
        text_add(&c->text, "  %%c%u = concat {dim = %u} (%%v%u, %%v%u)\n", n, d, x, x);
        LINE(shape, "slice {start = [%s], limit = [%s]} (%%c%u)", none, all, n);
    }
}

static void add_elementwise(struct chain *c)
{
    uint8_t shape = (uint8_t)below(3);
    if (!has(c, shape)) return;
    if (below(2)) LINE(shape, "%s(%%v%u)", below(2) ? "tanh" : "neg", pick(c, shape));
    else LINE(shape, "%s(%%v%u, %%v%u)", below(2) ? "mul" : "add", pick(c, shape), pick(c, shape));
}

/* Needs the whole batch, and comes back to it. */
static void add_mixed(struct chain *c)
{
    uint32_t x = pick(c, ROWS_FEATURES), b = c->n_batch, d = below(b);
    struct text at = { .arena = c->arena };
    for (uint32_t i = 0, n = 0; i < b + 2; i++)
        if (i != d) text_add(&at, "%s%u", n++ ? ", " : "", i);
    text_add(&c->text, "  %%s%u = sum {dims = [%u]} (%%v%u)\n", c->n, d, x);
    LINE(ROWS_FEATURES, "broadcast {dims = [%s], at = [%s]} (%%s%u)", sizes(c, ROWS_FEATURES), at.data, c->n);
}

/* A function of two or three arrays over the batch, weights, a bias and a mask; a few of its values added up
 * are its results. */
static const char *random_chain(struct arena *arena, uint64_t seed)
{
    struct chain chain = { .arena = arena, .text = { .arena = arena } }, *c = &chain;
    state = seed * 77 + 1;
    for (int i = 0; i < 8; i++) below(2);
    c->n_batch = 1 + below(2);
    for (uint32_t i = 0; i < 2; i++) c->batch[i] = 1 + below(3);
    for (uint32_t i = 0; i < 3; i++) c->size[i] = 1 + below(4);
    static const uint8_t given[] = { ROWS_FEATURES, COLUMNS_FEATURES, COLUMNS_FEATURES };
    text_add(&c->text, "hop 1\nfn @main(");
    for (uint32_t i = 0; i < HOP_COUNT(given); i++) {
        text_add(&c->text, "%%v%u: f64[%s], ", i, sizes(c, given[i]));
        c->shapes[c->n++] = given[i];
    }
    text_add(&c->text, "%%w: f64[%u, %u], %%bias: f64[%u, %u], ", c->size[2], c->size[2], c->size[0],
             c->size[1]);
    text_add(&c->text, "%%mask: f64[%u, %u]) -> (f64[%s], f64[]) {\n", c->batch[0], c->size[1],
             sizes(c, ROWS_FEATURES));
    LINE(ROWS_COLUMNS,
         "dot {batch_lhs = [%s], batch_rhs = [%s], contract_lhs = [%u], contract_rhs = [%u]} (%%v0, %%v1)",
         numbers(c, 0, c->n_batch), numbers(c, 0, c->n_batch), c->n_batch + 1, c->n_batch + 1);
    for (uint32_t steps = 4 + below(12); steps-- > 0 && c->n < MOST_VALUES - 8;) switch (below(8)) {
        case 0:
        case 1: add_product(c); break;
        case 2: add_shared(c); break;
        case 3: add_rows(c); break;
        case 4: add_view(c); break;
        case 5:
            LINE(ROWS_COLUMNS, "softmax {dims = [%u]} (%%v%u)", c->n_batch + 1, pick(c, ROWS_COLUMNS));
            break;
        case 6: add_elementwise(c); break;
        default:
            if (!below(3)) add_mixed(c);
            else add_product(c);
        }
    LINE(ROWS_FEATURES, "matmul(%%v%u, %%v%u)", pick(c, ROWS_COLUMNS), pick(c, COLUMNS_FEATURES));
    uint8_t shape = (uint8_t)below(3);
    text_add(&c->text, "  %%square = mul(%%v%u, %%v%u)\n  %%all = sum(%%square)\n", pick(c, shape),
             pick(c, shape));
    text_add(&c->text, "  return %%v%u, %%all\n}\n", c->n - 1);
    return c->text.data;
}
#undef LINE

/* ---- claims ---- */

static uint32_t n_sliced, n_chains;

/* Maps over slices in a function and its bodies. */
static uint32_t count_maps(const struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *node = fn_node(f, i);
        n += node->op == OP_map && node_attr(f, node, MAP_APART)->kind != ATTR_ABSENT;
        for (uint32_t r = 0; r < node->n_regions; r++) n += count_maps(m, node_region(f, node, r)->fn);
    }
    return n;
}

static void same_bits(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                      const char *what, uint64_t seed)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    static const struct bound f32 = { BOUND_TENSOR, 1e-5 }, f64 = { BOUND_TENSOR, 1e-10 };
    const struct way ways[] = {
        { .name = "simplified", .simplify = true, .passes = { .strict = true } },
        { .name = "slices alone",
          .simplify = true,
          .passes = { .strict = true, .without = EVERY_PASS & ~(1u << PASS_slices) } },
        { .name = "simplified, default", .simplify = true },
        { .name = "executor", .backend = backend_named("executor"), .passes = { .strict = true } },
        { .name = "LLVM", .backend = backend_named("llvm"), .passes = { .strict = true }, .threads = 3 },
        { .name = "LLVM, default", .backend = backend_named("llvm"), .threads = 2 },
    };
    struct outcome expected, found;
    run_on(bag, m, fn, &interpreter, args, NULL, &expected);
    for (uint32_t i = 0; i < HOP_COUNT(ways); i++) {
        if (i >= 3 && (!ways[i].backend || (i >= 4 && seed % 4))) continue; /* LLVM takes its time */
        bool strict = ways[i].passes.strict;
        run_on(bag, m, fn, &ways[i], args, NULL, &found);
        const char *wrong = outcome_difference(&bag->arena, &found, &expected, strict ? bits : f32,
                                               strict ? bits : f64);
        CLAIM(!wrong, "%s of chain %llu, %s: %s", what, (unsigned long long)seed, ways[i].name,
              wrong ? wrong : "");
    }
}

/* A chain, its gradient with respect to everything, a batch of it, and the gradient of that. */
static void check_chain(struct bag *bag, struct module *m, uint64_t seed)
{
    uint32_t fn = module_find(m, "main"), n_params = module_fn(m, fn)->n_params;
    struct sample_sizes sizes = sample_sizes(&bag->arena, module_fn(m, fn), 0);
    struct tensor **args = sample_arguments(bag, m, module_fn(m, fn), NULL, &sizes, seed);
    static const struct pass_options strict = { .strict = true };
    n_chains++;
    n_sliced += count_maps(m, simplify(m, fn, &strict)) > 0;
    same_bits(bag, m, fn, args, "the value", seed);
    bool *wrt = ARENA_NEW(&bag->arena, bool, n_params);
    for (uint32_t p = 0; p < n_params; p++) wrt[p] = true;
    bool keep[2] = { false, true };
    uint32_t slope = grad_function(m, prune_function(m, fn, keep), wrt, true);
    same_bits(bag, m, slope, args, "the gradient", seed);
    if (seed % 3) return;
    struct tensor **wide = ARENA_NEW(&bag->arena, struct tensor *, n_params);
    int *in_axes = ARENA_NEW(&bag->arena, int, n_params), out_axes[] = { 0, 0 };
    for (uint32_t p = 0; p < n_params; p++) {
        int64_t dims[MAX_RANK] = { 2 };
        struct random r = { seed + p };
        memcpy(dims + 1, args[p]->dims, args[p]->rank * sizeof *dims);
        in_axes[p] = p % 3 == seed % 3 ? -1 : 0;
        wide[p] = in_axes[p] ? args[p] : bag_new(bag, (enum dtype)args[p]->dtype, args[p]->rank + 1u, dims);
        if (!in_axes[p]) tensor_random(wide[p], &r, -1, 1);
    }
    same_bits(bag, m, vmap_function(m, fn, in_axes, out_axes), wide, "the batch", seed);
}

static void walk_chain(uint64_t seed)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    if (!HOP_TRY(caught)) {
        CLAIM(false, "chain %llu: %s", (unsigned long long)seed, hop_message());
        return;
    }
    hop_cleanup_push(bag_free, &bag);
    const char *text = random_chain(&bag.arena, seed);
    if (getenv("HOP_TEST_SHOW")) puts(text);
    struct module *m = text_read("chain", text, strlen(text));
    hop_cleanup_push(module_free, m);
    check_chain(&bag, m, seed);
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
    hop_catch_end(&caught);
}

/* ---- sizes and memory ---- */

/* Bytes of temporaries of attention over so many heads, or of its gradient. */
static size_t workspace_of(int heads, int rows, bool gradient, const char *without)
{
    char text[768];
    hop_fn *f = NULL, *g = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[3] = { NULL, NULL, NULL };
    size_t bytes = 0;
    char type[64];
    snprintf(type, sizeof type, "f32[%d, %d, 64]", heads, rows);
    snprintf(
        text, sizeof text,
        "hop 1\nfn @main(%%q: %s, %%k: %s, %%v: %s) -> (f32[]) {\n"
        "  %%s = dot {batch_lhs = [0], batch_rhs = [0], contract_lhs = [2], contract_rhs = [2]} (%%q, %%k)\n"
        "  %%p = softmax {dims = [2]} (%%s)\n  %%o = matmul(%%p, %%v)\n  %%t = tanh(%%o)\n"
        "  %%r = sum(%%t)\n  return %%r\n}\n",
        type, type, type);
    bool failed = hop_fn_read(&f, text, "main") || (gradient && hop_grad(&g, f, "q, k, v"));
    hop_compile_options options = { .portable = 1, .without = without };
    failed = failed || hop_compile(&exe, g ? g : f, &options);
    for (int i = 0; i < 3 && !failed; i++) failed = hop_tensor_new(&in[i], type);
    failed = failed || hop_workspace(&bytes, exe, in, 3, NULL);
    if (failed) printf("attention: %s\n", hop_message());
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
    hop_exe_free(exe);
    hop_fn_free(g);
    hop_fn_free(f);
    return bytes;
}

static void check_memory(void)
{
    for (int gradient = 0; gradient < 2; gradient++) {
        size_t sliced = workspace_of(16, 256, gradient, NULL),
               whole = workspace_of(16, 256, gradient, "slices");
        CLAIM(sliced * 4 < whole, "sixteen slices need less memory than all at once: %zu, %zu", sliced,
              whole);
        size_t small = workspace_of(16, 32, gradient, NULL);
        CLAIM(small == workspace_of(16, 32, gradient, "slices"), "small products stay together");
    }
}

/* Fewer heads than cores are cut along their queries as well. */
static void check_few_heads(void)
{
    for (int heads = 1; heads <= 2; heads++) {
        size_t cut = workspace_of(heads, 1024, false, NULL),
               whole = workspace_of(heads, 1024, false, "slices");
        CLAIM(cut * 6 < whole, "%d heads are cut into more slices than heads: %zu, %zu", heads, cut, whole);
    }
}

/* The slices that the only map of a function has. */
static int64_t slices_of(const struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (n->op != OP_map || node_attr(f, n, MAP_APART)->kind == ATTR_ABSENT) continue;
        return dim_const_value(m, type_get(m, value_type(f, n->results)).dims[0]);
    }
    return 0;
}

static void same_on_threads(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                            const char *what)
{
    static const struct bound bits = { BOUND_BITS, 0 }, f32 = { BOUND_TENSOR, 1e-5 },
                              f64 = { BOUND_TENSOR, 1e-10 };
    static const uint32_t threads[] = { 1, 2, 3, 7, 16 };
    struct way way = { .name = "threads", .backend = backend_named("llvm") };
    struct outcome expected, first, found;
    run_on(bag, m, fn, &interpreter, args, NULL, &expected);
    for (uint32_t i = 0; i < HOP_COUNT(threads) && way.backend; i++) {
        way.threads = threads[i];
        run_on(bag, m, fn, &way, args, NULL, i ? &found : &first);
        const char *wrong = i ? outcome_difference(&bag->arena, &found, &first, bits, bits)
                              : outcome_difference(&bag->arena, &first, &expected, f32, f64);
        CLAIM(!wrong, "%s on %u threads: %s", what, threads[i], wrong ? wrong : "");
    }
}

/* Attention over a few heads with a mask and a bias, and its gradient: strict numbers are the interpreter's,
 * default ones the same on any number of threads. The gradient's sums over queries are taken in parts where
 * numbers may be added in another order. */
static void few_heads_body(void *ctx)
{
    uint32_t heads = *(const uint32_t *)ctx;
    struct bag bag = { 0 };
    hop_cleanup_push(bag_free, &bag);
    const char *q = arena_printf(&bag.arena, "f32[%u, 96, 8]", heads);
    const char *text = arena_printf(
        &bag.arena,
        "hop 1\nfn @main(%%q: %s, %%k: %s, %%v: %s, %%m: f32[96, 96], %%w: f32[8, 8]) -> (f32[]) {\n"
        "  %%s = dot {batch_lhs = [0], batch_rhs = [0], contract_lhs = [2], contract_rhs = [2]} (%%q, %%k)\n"
        "  %%b = broadcast {dims = [%u, 96, 96], at = [1, 2]} (%%m)\n  %%t = add(%%s, %%b)\n"
        "  %%p = softmax {dims = [2]} (%%t)\n  %%o = matmul(%%p, %%v)\n"
        "  %%r = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [2], contract_rhs = [0]} (%%o, %%w)\n"
        "  %%y = sin(%%r)\n  %%l = sum(%%y)\n  return %%l\n}\n",
        q, q, q, heads);
    struct module *m = text_read("heads", text, strlen(text));
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "main");
    struct sample_sizes sizes = sample_sizes(&bag.arena, module_fn(m, fn), 0);
    struct tensor **args = sample_arguments(&bag, m, module_fn(m, fn), NULL, &sizes, heads);
    CLAIM(count_maps(m, simplify(m, fn, NULL)) == 1, "%u heads run by slices", heads);
    same_bits(&bag, m, fn, args, "few heads", 4);
    same_on_threads(&bag, m, fn, args, "few heads");
    bool wrt[] = { true, true, true, true, true };
    uint32_t slope = grad_function(m, fn, wrt, false);
    same_bits(&bag, m, slope, args, "the gradient over few heads", 4);
    same_on_threads(&bag, m, slope, args, "the gradient over few heads");
    CLAIM(slices_of(m, simplify(m, slope, NULL)) >= 16, "the gradient over %u heads has as many slices",
          heads);
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 60;
    check_memory();
    check_few_heads();
    setenv("HOP_DEBUG", "verify,slices", 1);
    for (uint32_t heads = 1; heads <= 3; heads++)
        CLAIM(attempt(few_heads_body, &heads) == HOP_OK, "%u heads: %s", heads, hop_message());
    for (uint64_t seed = first; seed < first + count; seed++) walk_chain(seed);
    CLAIM(n_sliced * 2 > n_chains, "most chains run slice by slice: %u of %u", n_sliced, n_chains);
    return tests_end();
}
