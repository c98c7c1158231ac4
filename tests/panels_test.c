/* Random chains of products and of what is computed row by row around them, with steps among them that go
 * over rows in another way: compiled by panels of rows, on any number of threads, they give the bits of one
 * thread, are within bounds of the interpreter, and so is the loop program with every access checked; without
 * panels too. Some programs are written out, with the numbers of loops over panels and of operands in panels
 * that they must have.
 * `panels_test [FIRST [COUNT]]` runs other seeds; HOP_TEST_SEEDS says how many. */
#include "check/check.h"
#include "ir/text.h"
#include "loop/lower.h"
#include "runtime/exe.h"
#include "seeds.h"

#include <stdio.h>

enum { CHAIN = 9, MOST_VALUES = 64, SEEDS = 40 };

static uint32_t passed, failed;

/* ---- random chains ---- */

/* Values of one program, each with the rows in front and one more dim. */
struct chain {
    struct random random;
    struct text head, body; /* parameters, nodes */
    char rows[64];          /* "120" or "3, 40" */
    uint32_t n_rows_dims;
    int64_t n_rows;
    uint32_t n, n_params;
    int64_t width[MOST_VALUES];
    bool param[MOST_VALUES];
    uint32_t results[8], n_results;
    vec(const char *) others; /* results of other types: "%w3: f32[3, 4]" */
    const char *dtype;
    struct arena *arena;
};

static uint32_t below(struct chain *c, uint32_t n) { return (uint32_t)(random_next(&c->random) % n); }
static int64_t some_width(struct chain *c) { return 24 + below(c, 6) * 8 + below(c, 2) * below(c, 7); }

static const char *rows_type(struct chain *c, int64_t width)
{
    return arena_printf(c->arena, "%s[%s, %lld]", c->dtype, c->rows, (long long)width);
}

static uint32_t param(struct chain *c, const char *type)
{
    text_add(&c->head, "%s%%p%u: %s", c->n_params ? ", " : "", c->n_params, type);
    return c->n_params++;
}

static uint32_t new_value(struct chain *c, int64_t width)
{
    c->width[c->n] = width;
    return c->n++;
}

static void add_product(struct chain *c, uint32_t v)
{
    int64_t k = c->width[v], n = some_width(c);
    bool turned = below(c, 3) == 0;
    uint32_t w = param(c, arena_printf(c->arena, "%s[%lld, %lld]", c->dtype, (long long)(turned ? n : k),
                                       (long long)(turned ? k : n)));
    uint32_t r = new_value(c, n);
    if (turned) text_add(&c->body, "  %%t%u = permute {order = [1, 0]} (%%p%u)\n", r, w);
    text_add(&c->body, "  %%v%u = matmul(%%v%u, %%%c%u)\n", r, v, turned ? 't' : 'p', turned ? r : w);
}

static void add_bias(struct chain *c, uint32_t v)
{
    uint32_t b = param(c, arena_printf(c->arena, "%s[%lld]", c->dtype, (long long)c->width[v]));
    uint32_t r = new_value(c, c->width[v]);
    text_add(&c->body, "  %%b%u = broadcast {dims = [%s, %lld], at = [%u]} (%%p%u)\n", r, c->rows,
             (long long)c->width[v], c->n_rows_dims, b);
    text_add(&c->body, "  %%v%u = add(%%v%u, %%b%u)\n", r, v, r);
}

static void add_elementwise(struct chain *c, uint32_t v)
{
    static const char *const names[] = { "tanh", "neg", "sin", "sigmoid" };
    uint32_t r = new_value(c, c->width[v]);
    text_add(&c->body, "  %%v%u = %s(%%v%u)\n", r, names[below(c, HOP_COUNT(names))], v);
}

/* With another of the same width. */
static void add_pair(struct chain *c, uint32_t v)
{
    static const char *const names[] = { "add", "sub", "mul" };
    uint32_t other = below(c, c->n);
    while (c->width[other] != c->width[v]) other = (other + 1) % c->n;
    uint32_t r = new_value(c, c->width[v]);
    text_add(&c->body, "  %%v%u = %s(%%v%u, %%v%u)\n", r, names[below(c, HOP_COUNT(names))], v, other);
}

/* A row's sum or maximum, and the row without it. */
static void add_row_fold(struct chain *c, uint32_t v)
{
    uint32_t r = new_value(c, c->width[v]);
    const char *at = c->n_rows_dims == 1 ? "0" : "0, 1";
    text_add(&c->body, "  %%s%u = %s {dims = [%u]} (%%v%u)\n", r, below(c, 2) ? "sum" : "reduce_max",
             c->n_rows_dims, v);
    if (below(c, 2)) text_add(&c->body, "  %%q%u = tanh(%%s%u)\n", r, r);
    else text_add(&c->body, "  %%q%u = neg(%%s%u)\n", r, r);
    text_add(&c->body, "  %%e%u = broadcast {dims = [%s, %lld], at = [%s]} (%%q%u)\n", r, c->rows,
             (long long)c->width[v], at, r);
    text_add(&c->body, "  %%v%u = add(%%v%u, %%e%u)\n", r, v, r);
}

/* All rows together: nothing for a panel. */
static void add_column_fold(struct chain *c, uint32_t v)
{
    uint32_t r = new_value(c, c->width[v]);
    const char *dims = c->n_rows_dims == 1 ? "0" : "0, 1";
    text_add(&c->body, "  %%s%u = sum {dims = [%s]} (%%v%u)\n", r, dims, v);
    text_add(&c->body, "  %%c%u = full {value = 0.005, dims = [%lld], dtype = %s}\n", r,
             (long long)c->width[v], c->dtype);
    text_add(&c->body, "  %%q%u = mul(%%s%u, %%c%u)\n", r, r, r);
    text_add(&c->body, "  %%e%u = broadcast {dims = [%s, %lld], at = [%u]} (%%q%u)\n", r, c->rows,
             (long long)c->width[v], c->n_rows_dims, r);
    text_add(&c->body, "  %%v%u = sub(%%v%u, %%e%u)\n", r, v, r);
}

static void add_reversed(struct chain *c, uint32_t v)
{
    uint32_t r = new_value(c, c->width[v]);
    text_add(&c->body, "  %%s%u = reverse {dims = [0]} (%%v%u)\n  %%v%u = sub(%%v%u, %%s%u)\n", r, v, r, v,
             r);
}

/* A product over the rows, as the gradient of a weight is, which the chain does not go on with. */
static void add_weight_product(struct chain *c, uint32_t v)
{
    uint32_t other = below(c, c->n);
    const char *dims = c->n_rows_dims == 1 ? "0" : "0, 1";
    uint32_t k = c->others.len;
    text_add(
        &c->body,
        "  %%w%u = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [%s], contract_rhs = [%s]} (%%v%u, "
        "%%v%u)\n",
        k, dims, dims, v, other);
    vec_push(c->arena, &c->others,
             arena_printf(c->arena, "%s[%lld, %lld]", c->dtype, (long long)c->width[v],
                          (long long)c->width[other]));
}

static const char *random_chain(struct arena *a, uint64_t seed)
{
    static void (*const kinds[])(struct chain *, uint32_t) = {
        add_product,     add_product,     add_product,  add_bias,          add_bias,
        add_elementwise, add_elementwise, add_pair,     add_pair,          add_row_fold,
        add_row_fold,    add_column_fold, add_reversed, add_weight_product
    };
    struct chain c = {
        .random = { seed * 77 + 5 }, .head = { .arena = a }, .body = { .arena = a }, .arena = a
    };
    static const char *const dtypes[] = { "f32", "f32", "f32", "f64", "bf16", "f16" };
    c.dtype = dtypes[below(&c, HOP_COUNT(dtypes))];
    c.n_rows_dims = 1 + below(&c, 2);
    int64_t inner = 40 + below(&c, 20), rows = 97 + below(&c, 90);
    if (c.n_rows_dims == 1) snprintf(c.rows, sizeof c.rows, "%lld", (long long)rows);
    else snprintf(c.rows, sizeof c.rows, "3, %lld", (long long)inner);
    uint32_t inputs = 1 + below(&c, 2);
    for (uint32_t i = 0; i < inputs; i++) {
        int64_t width = some_width(&c);
        uint32_t p = param(&c, rows_type(&c, width));
        text_add(&c.body, "  %%v%u = neg(%%p%u)\n", new_value(&c, width), p);
    }
    for (uint32_t i = 0; i < CHAIN; i++) {
        uint32_t latest = below(&c, 4) ? c.n - 1 : below(&c, c.n);
        kinds[i == 1 ? 0 : below(&c, HOP_COUNT(kinds))](&c, latest);
    }
    struct text all = { .arena = a };
    text_add(&all, "hop 1\nfn @f(%s) -> (", c.head.data);
    uint32_t last = c.n - 1, extra = below(&c, c.n);
    text_add(&all, "%s, %s", rows_type(&c, c.width[last]), rows_type(&c, c.width[extra]));
    for (uint32_t k = 0; k < c.others.len; k++) text_add(&all, ", %s", c.others.data[k]);
    text_add(&all, ") {\n%s  return %%v%u, %%v%u", c.body.data, last, extra);
    for (uint32_t k = 0; k < c.others.len; k++) text_add(&all, ", %%w%u", k);
    text_str(&all, "\n}\n");
    return all.data;
}

/* ---- holding programs to claims ---- */

static struct tensor **draw(struct bag *bag, struct module *m, const struct fn *f)
{
    struct tensor **args = ARENA_NEW(&bag->arena, struct tensor *, f->n_params);
    struct random random = { 11 };
    for (uint32_t k = 0; k < f->n_params; k++) {
        args[k] = bag_new_of(bag, m, value_type(f, k));
        tensor_random(args[k], &random, -0.3, 0.3);
    }
    return args;
}

static const char *differs(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args)
{
    static const struct bound f32 = { BOUND_TENSOR, 2e-4 }, f64 = { BOUND_TENSOR, 1e-11 };
    static const struct bound bits = { BOUND_BITS, 0 };
    static const uint32_t threads[] = { 1, 2, 3, 7, 16 };
    struct outcome expected, first, found;
    run_on(bag, m, fn, &interpreter, args, NULL, &expected);
    if (expected.status) return expected.message;
    struct way plain = { .name = "without panels", .backend = backend_at(0) };
    plain.passes.without = 1u << CHOICE_panels;
    struct way checked = { .name = "checked", .backend = &executor_backend };
    struct way in_place = { .name = "in place", .backend = backend_at(0), .in_place = true };
    const struct way *ways[] = { &plain, &checked, &in_place };
    for (uint32_t i = 0; i < HOP_COUNT(ways); i++) {
        if (ways[i]->backend == backend_at(0) && !exe_available()) continue;
        run_on(bag, m, fn, ways[i], args, NULL, &found);
        const char *wrong = outcome_difference(&bag->arena, &found, &expected, f32, f64);
        if (wrong) return arena_printf(&bag->arena, "%s: %s", ways[i]->name, wrong);
    }
    for (uint32_t i = 0; i < HOP_COUNT(threads) && exe_available(); i++) {
        struct way way = { .name = "threads", .backend = backend_at(0), .threads = threads[i] };
        struct outcome *out = i ? &found : &first;
        run_on(bag, m, fn, &way, args, NULL, out);
        const char *wrong = i ? outcome_difference(&bag->arena, out, &first, bits, bits)
                              : outcome_difference(&bag->arena, out, &expected, f32, f64);
        if (wrong) return arena_printf(&bag->arena, "%u threads: %s", threads[i], wrong);
    }
    return NULL;
}

static void hold(const char *name, const char *text)
{
    struct bag bag = { 0 };
    struct hop_catch caught;
    const char *volatile wrong = NULL;
    hop_cleanup_push(bag_free, &bag);
    if (HOP_TRY(caught)) {
        struct module *m = text_read("t", text, strlen(text));
        hop_cleanup_push(module_free, m);
        uint32_t fn = module_find(m, "f");
        wrong = differs(&bag, m, fn, draw(&bag, m, module_fn(m, fn)));
        hop_cleanup_pop(m);
        module_free(m);
        hop_catch_end(&caught);
    } else wrong = hop_message();
    if (wrong) {
        failed++;
        printf("%s: %s\n%s", name, wrong, text);
    } else passed++;
    hop_cleanup_pop(&bag);
    bag_free(&bag);
}

/* ---- programs with the loops that they must have ---- */

struct program {
    const char *name;
    uint32_t loops, packs; /* over panels of rows; operands put into panels */
    const char *text;
};

static const struct program programs[] = {
    { "bias and activation", 1, 0,
      "fn @f(%x: f32[240, 64], %w: f32[64, 80], %b: f32[80]) -> (f32[240, 80]) {\n"
      "  %p = matmul(%x, %w)\n  %c = broadcast {dims = [240, 80], at = [1]} (%b)\n  %s = add(%p, %c)\n"
      "  %r = tanh(%s)\n  return %r\n}\n" },
    { "softmax of rows between two products", 1, 0,
      "fn @f(%x: f32[2, 60, 64], %w: f32[64, 80], %u: f32[80, 40]) -> (f32[2, 60, 40]) {\n"
      "  %p = matmul(%x, %w)\n  %s = softmax {dims = [2]} (%p)\n  %r = matmul(%s, %u)\n  return %r\n}\n" },
    { "three products of one operand", 1, 0,
      "fn @f(%x: f32[240, 64], %q: f32[64, 80], %k: f32[64, 80], %v: f32[64, 48]) -> (f32[240, 80], "
      "f32[240, 80], f32[240, 48]) {\n"
      "  %a = matmul(%x, %q)\n  %b = matmul(%x, %k)\n  %c = matmul(%x, %v)\n  return %a, %b, %c\n}\n" },
    { "a product over the rows goes behind", 1, 0,
      "fn @f(%x: f32[240, 64], %w: f32[64, 80], %u: f32[80, 64]) -> (f32[64, 80], f32[240, 64]) {\n"
      "  %p = matmul(%x, %w)\n  %t = tanh(%p)\n"
      "  %g = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [0], contract_rhs = [0]} (%x, %t)\n"
      "  %q = matmul(%t, %u)\n  %r = sin(%q)\n  return %g, %r\n}\n" },
    { "rows in another order end a group", 1, 0,
      "fn @f(%x: f32[240, 64], %w: f32[64, 80], %u: f32[80, 64]) -> (f32[240, 64]) {\n"
      "  %p = matmul(%x, %w)\n  %t = tanh(%p)\n  %o = reverse {dims = [0]} (%t)\n"
      "  %q = matmul(%o, %u)\n  %r = sin(%q)\n  return %r\n}\n" },
    { "a large operand, and one that is transposed, in panels", 1, 2,
      "fn @f(%x: f32[240, 300], %w: f32[300, 320], %u: f32[64, 320]) -> (f32[240, 64]) {\n"
      "  %p = matmul(%x, %w)\n  %t = tanh(%p)\n  %v = permute {order = [1, 0]} (%u)\n"
      "  %r = matmul(%t, %v)\n  return %r\n}\n" },
    { "what all steps of a loop multiply with, as it is and transposed", 0, 2,
      "fn @f(%h0: f32[16, 96], %xs: f32[9, 16, 96], %w: f32[96, 96]) -> (f32[16, 96], f32[9, 16, 96]) {\n"
      "  %last, %all = scan carry(%h = %h0) over(%x in %xs) with(%v = %w) {\n"
      "    %a = matmul(%h, %v)\n    %t = tanh(%a)\n    %u = permute {order = [1, 0]} (%v)\n"
      "    %b = matmul(%t, %u)\n    %c = add(%b, %x)\n    %n = sin(%c)\n    next(%n) stack(%n)\n  }\n"
      "  return %last, %all\n}\n" },
    { "layers of a loop, each with weights of its own", 1, 0,
      "fn @f(%x: f32[2, 64, 96], %ws: f32[3, 96, 192], %us: f32[3, 192, 96], %bs: f32[3, 192]) -> "
      "(f32[2, 64, 96], f32[3, 2, 64, 192]) {\n"
      "  %last, %all = scan carry(%h = %x) over(%w in %ws, %u in %us, %b in %bs) {\n"
      "    %s = softmax {dims = [2]} (%h)\n    %p = matmul(%s, %w)\n"
      "    %c = broadcast {dims = [2, 64, 192], at = [2]} (%b)\n    %q = add(%p, %c)\n    %t = tanh(%q)\n"
      "    %r = matmul(%t, %u)\n    %n = add(%h, %r)\n    next(%n) stack(%t)\n  }\n"
      "  return %last, %all\n}\n" },
    { "narrow elements, converted once", 1, 2,
      "fn @f(%x: f16[600, 64], %w: f16[64, 80], %b: f16[80], %u: f16[64, 80]) -> (f16[600, 64]) {\n"
      "  %p = matmul(%x, %w)\n  %c = broadcast {dims = [600, 80], at = [1]} (%b)\n  %s = add(%p, %c)\n"
      "  %t = tanh(%s)\n  %v = permute {order = [1, 0]} (%u)\n  %r = matmul(%t, %v)\n  return %r\n}\n" },
    { "bytes", 1, 1,
      "fn @f(%x: i8[600, 64], %w: u8[64, 80], %b: i32[80]) -> (i32[600, 80]) {\n"
      "  %p = matmul {dtype = i32} (%x, %w)\n  %c = broadcast {dims = [600, 80], at = [1]} (%b)\n"
      "  %r = add(%p, %c)\n  return %r\n}\n" },
    { "large matrices of narrow elements", 0, 0,
      "fn @f(%x: bf16[400, 200], %w: bf16[200, 200], %b: bf16[200]) -> (bf16[400, 200]) {\n"
      "  %p = matmul(%x, %w)\n  %c = broadcast {dims = [400, 200], at = [1]} (%b)\n"
      "  %r = add(%p, %c)\n  return %r\n}\n" },
    { "what all steps multiply with in narrow elements, as it is and transposed", 0, 2,
      "fn @f(%h0: bf16[16, 96], %xs: bf16[9, 16, 96], %w: bf16[96, 96]) -> (bf16[16, 96]) {\n"
      "  %last = scan carry(%h = %h0) over(%x in %xs) with(%v = %w) {\n"
      "    %a = matmul(%h, %v)\n    %t = tanh(%a)\n    %u = permute {order = [1, 0]} (%v)\n"
      "    %b = matmul(%t, %u)\n    %c = add(%b, %x)\n    %n = sin(%c)\n    next(%n)\n  }\n"
      "  return %last\n}\n" },
    { "few rows", 0, 0,
      "fn @f(%x: f32[48, 64], %w: f32[64, 80]) -> (f32[48, 80]) {\n"
      "  %p = matmul(%x, %w)\n  %r = tanh(%p)\n  return %r\n}\n" },
};

static void count_panels(const struct lp_block *block, uint32_t *loops, uint32_t *packs)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        *loops += s->kind == LP_FOR && s->note && !strncmp(s->note, "panels of rows", 14);
        *packs += s->kind == LP_CALL && s->call->kind == CALL_PACK;
        count_panels(s->body, loops, packs);
        count_panels(s->other, loops, packs);
    }
}

static void count_loops(const struct program *p, const char *text)
{
    struct pass_options options = { 0 };
    struct module *m = text_read("t", text, strlen(text));
    hop_cleanup_push(module_free, m);
    struct lp *lp = lower_and_plan(m, module_find(m, "f"), &options);
    uint32_t loops = 0, packs = 0;
    count_panels(lp->root, &loops, &packs);
    lp_free(lp);
    hop_cleanup_pop(m);
    module_free(m);
    if (loops == p->loops && packs == p->packs) passed++;
    else {
        failed++;
        printf("%s: expected %u loops over panels and %u operands in panels, found %u and %u\n", p->name,
               p->loops, p->packs, loops, packs);
    }
}

/* What lives within a panel is there once for each thread, not for all rows. */
static void measure_arena(void)
{
    enum { ROWS = 2048, WIDTH = 256, PANEL = 48 };
    static const char text[] =
        "hop 1\nfn @f(%x: f32[2048, 256], %w: f32[256, 256], %u: f32[256, 256]) -> (f32[2048, 256]) {\n"
        "  %p = matmul(%x, %w)\n  %t = tanh(%p)\n  %q = matmul(%t, %u)\n  %s = sin(%q)\n  return %s\n}\n";
    struct pass_options options = { 0 };
    struct module *m = text_read("t", text, strlen(text));
    hop_cleanup_push(module_free, m);
    struct lp *lp = lower_and_plan(m, module_find(m, "f"), &options);
    int64_t all_rows = (int64_t)sizeof(float) * ROWS * WIDTH,
            of_thread = (int64_t)sizeof(float) * PANEL * WIDTH;
    bool small = lp->arena_total < all_rows && lp->private_size > 0 && lp->private_size <= 3 * of_thread;
    if (small) passed++;
    else {
        failed++;
        printf("temporaries of panels: %lld bytes, %lld of them for each thread\n",
               (long long)lp->arena_total, (long long)lp->private_size);
    }
    lp_free(lp);
    hop_cleanup_pop(m);
    module_free(m);
}

int main(int argc, char **argv)
{
    struct arena arena = { 0 };
    struct seeds seeds = seeds_asked(argc, argv, SEEDS);
    for (uint32_t i = 0; i < HOP_COUNT(programs) && argc < 2; i++) {
        const char *text = arena_printf(&arena, "hop 1\n%s", programs[i].text);
        hold(programs[i].name, text);
        count_loops(&programs[i], text);
    }
    if (argc < 2) measure_arena();
    for (uint64_t seed = seeds.first; seed < seeds.end; seed++)
        hold(arena_printf(&arena, "seed %llu", (unsigned long long)seed), random_chain(&arena, seed));
    arena_free(&arena);
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
