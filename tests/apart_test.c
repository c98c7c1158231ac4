/* Loops over lanes that end at different trips. Random functions of one lane with a while_loop or a fori_loop
 * (numbers and rows carried, counters that all lanes share, what lanes share and what is each one's own),
 * batched over a known number of lanes, are simplified with the pass `lanes` making blocks of three, and give
 * the interpreter's bits on every strict back end. Then what is said of a loop whose lanes stay together.
 *
 * apart_test [FIRST [COUNT]]: seeds; closes with `N passed, M failed`. */
#include "check.h"

#include "check/check.h"
#include "ir/loop.h"
#include "transform/transform.h"

#include <stdlib.h>

/* ---- random loops ---- */

static uint64_t state;
static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* Of one lane, %v a number and %u a row of two, both changed by every trip; %a is the lane's own, %s shared.
 */
struct lane {
    struct arena *arena;
    struct text body;
    const char *dtype;
    uint32_t n;
};

/* Numbers that nothing makes large. */
static const char *random_number(struct lane *l, const char *v)
{
    static const char *const one[] = { "sin", "cos", "tanh", "abs", "neg" };
    const char *found = v;
    for (uint32_t steps = 1 + below(3); steps; steps--) {
        uint32_t k = l->n++, how = below(5);
        if (how == 0) text_add(&l->body, "    %%n%u = mul(%%%s, %%al)\n", k, found);
        else if (how == 1)
            text_add(&l->body, "    %%t%u = sum(%%u)\n    %%n%u = add(%%%s, %%t%u)\n", k, k, found, k);
        else if (how == 2)
            text_add(&l->body,
                     "    %%t%u = reduce_max(%%sl)\n    %%m%u = sub(%%%s, %%t%u)\n    %%n%u = tanh(%%m%u)\n",
                     k, k, found, k, k, k);
        else text_add(&l->body, "    %%n%u = %s(%%%s)\n", k, one[below(5)], found);
        found = arena_printf(l->arena, "n%u", k);
    }
    return found;
}

static void random_step(struct lane *l)
{
    const char *v = random_number(l, "v"), *w = random_number(l, "v");
    text_add(&l->body,
             "    %%damp = full {value = 0.8, dims = [], dtype = %s}\n    %%bounded = tanh(%%%s)\n"
             "    %%nv = mul(%%bounded, %%damp)\n",
             l->dtype, v);
    text_add(&l->body,
             "    %%wide = broadcast {dims = [2], at = []} (%%%s)\n    %%moved = add(%%u, %%wide)\n"
             "    %%nu = sin(%%moved)\n",
             w);
}

/* The loop of one lane. counter: a carry is the same in all lanes that run; last: and comes out. */
static const char *random_lane(struct arena *arena, uint64_t seed)
{
    struct lane lane = { .arena = arena, .body = { .arena = arena } }, *l = &lane;
    struct text t = { .arena = arena };
    state = seed * 91 + 5;
    for (int i = 0; i < 8; i++) below(2);
    l->dtype = below(3) ? "f32" : "f64";
    bool counted = below(3) == 0, counter = !counted && below(2), last = !counted && below(3) == 0;
    random_step(l);
    const char *d = l->dtype;
    text_add(&t,
             "hop 1\nfn @one(%%x: %s[], %%a: %s[], %%s: %s[3], %%n: i64[]) -> (%s[], %s[2]%s) {\n"
             "  %%zero = full {value = 0, dims = [], dtype = i64}\n"
             "  %%x2 = broadcast {dims = [2], at = []} (%%x)\n",
             d, d, d, d, d, last ? ", i64[]" : "");
    if (counted) {
        text_add(&t,
                 "  %%r, %%ru = fori_loop carry(%%v = %%x, %%u = %%x2) from(%%i = %%zero) to(%%n) "
                 "with(%%al = %%a, %%sl = %%s) {\n%s    next(%%nv, %%nu)\n  }\n",
                 l->body.data);
    } else { /* never without end: %k is how many trips are left, of all lanes or of one */
        text_add(&t, "  %%most = full {value = %u, dims = [], dtype = i64}\n", 3 + below(9));
        text_add(&t,
                 "  %%r, %%ru, %%rk = while_loop carry(%%v = %%x, %%u = %%x2, %%k = %%%s) "
                 "cond with(%%al = %%a) {\n"
                 "    %%size = abs(%%v)\n    %%small = mul(%%al, %%al)\n    %%go = gt(%%size, %%small)\n"
                 "    %%none = full {value = 0, dims = [], dtype = i64}\n    %%left = gt(%%k, %%none)\n"
                 "    %%both = and(%%go, %%left)\n    test(%%both)\n",
                 counter ? "most" : "n");
        text_add(&t,
                 "  } body with(%%al = %%a, %%sl = %%s) {\n%s"
                 "    %%one = full {value = 1, dims = [], dtype = i64}\n    %%nk = sub(%%k, %%one)\n"
                 "    next(%%nv, %%nu, %%nk)\n  }\n",
                 l->body.data);
    }
    text_add(&t, "  return %%r, %%ru%s\n}\n", last ? ", %rk" : "");
    return t.data;
}

/* ---- claims ---- */

static uint32_t n_apart, n_loops;

static uint32_t count_maps(const struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *node = fn_node(f, i);
        n += node_loop_kind(node) == LOOP_MAP;
        for (uint32_t r = 0; r < node->n_regions; r++) n += count_maps(m, node_region(f, node, r)->fn);
    }
    return n;
}

static void same_bits(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                      uint64_t seed)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    const struct way ways[] = {
        { .name = "simplified", .simplify = true, .passes = { .strict = true } },
        { .name = "lanes alone",
          .simplify = true,
          .passes = { .strict = true, .without = EVERY_PASS & ~(1u << PASS_lanes | 1u << PASS_inline) } },
        { .name = "executor", .backend = backend_named("executor"), .passes = { .strict = true } },
        { .name = "LLVM", .backend = backend_named("llvm"), .passes = { .strict = true }, .threads = 3 },
        { .name = "LLVM without lanes",
          .backend = backend_named("llvm"),
          .passes = { .strict = true, .without = 1u << PASS_lanes } },
    };
    struct outcome expected, found;
    run_on(bag, m, fn, &interpreter, args, NULL, &expected);
    for (uint32_t i = 0; i < HOP_COUNT(ways); i++) {
        if (i >= 2 && (!ways[i].backend || (i >= 3 && seed % 6))) continue; /* LLVM takes its time */
        run_on(bag, m, fn, &ways[i], args, NULL, &found);
        const char *wrong = outcome_difference(&bag->arena, &found, &expected, bits, bits);
        CLAIM(!wrong, "loop %llu, %s: %s", (unsigned long long)seed, ways[i].name, wrong ? wrong : "");
    }
}

/* The function of all lanes, so many: @main calls what vmap makes of @one. */
static struct module *over_lanes(struct arena *arena, const char *one, uint32_t lanes)
{
    struct module *m = text_read("lane", one, strlen(one));
    struct text t = { .arena = arena };
    hop_cleanup_push(module_free, m);
    const struct fn *f = module_fn(m, module_find(m, "one"));
    int in[] = { 0, 0, -1, 0 }, out[] = { 0, 0, 0 };
    text_print(m, vmap_function(m, f->id, in, out), 0, &t);
    const char *d = dtype_info[type_get(m, value_type(f, 0)).dtype].name,
               *more = f->n_results == 3 ? "k" : "";
    text_add(&t, "\nfn @main(%%x: %s[%u], %%a: %s[%u], %%s: %s[3], %%n: i64[%u]) -> (%s[%u], %s[%u, 2]", d,
             lanes, d, lanes, d, lanes, d, lanes, d, lanes);
    if (*more) text_add(&t, ", i64[%u]", lanes);
    text_add(&t,
             ") {\n  %%y, %%z%s = invoke_subgraph @one_vmap(%%x, %%a, %%s, %%n)\n  return %%y, %%z%s\n}\n",
             *more ? ", %k" : "", *more ? ", %k" : "");
    hop_cleanup_pop(m);
    module_free(m);
    if (getenv("HOP_TEST_SHOW")) puts(t.data);
    return text_read("lanes", t.data, strlen(t.data));
}

static void walk_loop(uint64_t seed)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    if (!HOP_TRY(caught)) {
        CLAIM(false, "loop %llu: %s", (unsigned long long)seed, hop_message());
        return;
    }
    hop_cleanup_push(bag_free, &bag);
    const char *text = random_lane(&bag.arena, seed);
    struct module *m = over_lanes(&bag.arena, text, 6 + below(9));
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "main");
    struct sample_sizes sizes = sample_sizes(&bag.arena, module_fn(m, fn), 0);
    struct tensor **args = sample_arguments(&bag, m, module_fn(m, fn), "n = -2..9, a = 0.3..0.9", &sizes,
                                            seed);
    static const struct pass_options strict = { .strict = true };
    n_loops++;
    n_apart += count_maps(m, simplify(m, fn, &strict));
    same_bits(&bag, m, fn, args, seed);
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
    hop_catch_end(&caught);
}

/* ---- what is said ---- */

struct said {
    const char *what, *lanes, *step; /* the step has %alive, %v, %b, a number of each lane, and gives %next */
    const char *said;
    uint32_t without; /* passes */
};

static char told[512];

static void hear(void *ctx, const char *text)
{
    HOP_UNUSED(ctx);
    size_t length = strlen(told);
    snprintf(told + length, sizeof told - length, "%s%s", length ? "; " : "", text);
}

static void hear_pass(void *ctx, const char *pass, double ms, uint32_t nodes)
{
    HOP_UNUSED(ctx);
    HOP_UNUSED(pass);
    HOP_UNUSED(ms);
    HOP_UNUSED(nodes);
}

static void said_body(void *ctx)
{
    const struct said *s = ctx;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    const char *text = arena_printf(
        &arena,
        "hop 1\nfn @many[dim N](%%x: f32[%s], %%rows: f32[4, 5], %%i: i64[]) -> (f32[%s]) {\n"
        "  %%y = invoke_subgraph with(%%x0: f32[B] = %%x, %%rows, %%i) [B = %s] {\n"
        "    %%one = full {value = 1.0, dims = [B], dtype = f32}\n    %%first = gt(%%x0, %%one)\n"
        "    %%a, %%r, %%c = while_loop carry(%%alive = %%first, %%v = %%x0, %%j = %%i) cond [d0 = B] {\n"
        "      %%any = any {dims = [0]} (%%alive)\n      test(%%any)\n    } body with(%%b = %%one, %%rows) "
        "{\n"
        "      %%half = full {value = 0.5, dims = [B], dtype = f32}\n"
        "      %%k1 = full {value = 1, dims = [], dtype = i64}\n      %%j1 = add(%%j, %%k1)\n%s"
        "      %%on = gt(%%next, %%b)\n      %%na = and(%%alive, %%on)\n      next(%%na, %%next, %%j1)\n    "
        "}\n"
        "    yield(%%r)\n  }\n  return %%y\n}\n",
        s->lanes, s->lanes, s->lanes, s->step);
    struct module *m = text_read("said", text, strlen(text));
    hop_cleanup_push(module_free, m);
    told[0] = 0;
    const struct pass_options o = { .without = s->without, .report = hear_pass, .note = hear };
    simplify(m, module_find(m, "many"), &o);
    CLAIM(strstr(told, s->said), "%s: found \"%s\"", s->what, told);
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

#define HALVED "      %w = mul(%v, %half)\n      %next = select(%alive, %w, %v)\n"
static const struct said all_said[] = {
    { "separate lanes", "512", HALVED, "while_loop: 4 blocks of 128 lanes, each until its last lane ends",
      0 },
    { "lanes that fill no block", "300", HALVED, "while_loop: 2 blocks of 160 lanes, each until", 0 },
    { "few lanes", "255", HALVED, "while_loop: 255 lanes together: too few for two blocks", 0 },
    { "any number", "N", HALVED, "while_loop: B lanes together: how many is not known", 0 },
    { "the pass is off", "512", HALVED, "512 lanes together: the pass is switched off", 1u << PASS_lanes },
    { "lanes that are added up", "512",
      "      %all = sum(%v)\n      %s = broadcast {dims = [B], at = []} (%all)\n"
      "      %m = min(%s, %half)\n      %w = mul(%v, %m)\n      %next = select(%alive, %w, %v)\n",
      "512 lanes together: the sum of line 13 needs other lanes", 0 },
    { "their places", "512",
      "      %at = iota {dims = [B]}\n      %f = cast {dtype = f32} (%at)\n      %w = sub(%v, %f)\n"
      "      %next = select(%alive, %w, %v)\n",
      "512 lanes together: the iota of line 13 needs other lanes", 0 },
    { "what does not stop", "512", "      %next = mul(%v, %half)\n",
      "512 lanes together: carry 1 changes in lanes that have stopped", 0 },
    { "a loop inside", "512",
      "      %w = scan carry(%h = %v) over(%row in %rows) {\n        %g = sin(%h)\n        next(%g)\n      "
      "}\n"
      "      %next = select(%alive, %w, %v)\n",
      "512 lanes together: the scan of line 13 is one for all lanes", 1u << PASS_unroll },
};

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 90;
    setenv("HOP_DEBUG", "verify", 1);
    for (uint32_t i = 0; i < HOP_COUNT(all_said); i++)
        CLAIM(attempt(said_body, (void *)&all_said[i]) == HOP_OK, "%s: %s", all_said[i].what, hop_message());
    setenv("HOP_DEBUG", "verify,lanes", 1);
    for (uint64_t seed = first; seed < first + count; seed++) walk_loop(seed);
    CLAIM(n_apart == n_loops, "lanes of all loops end apart: %u of %u", n_apart, n_loops);
    return tests_end();
}
