/* The simplifying passes: each program is simplified by one pass alone, by all but one, and by all together,
 * in both modes, and must give the interpreter's results of the program as it was, bit for bit (within a
 * bound where sums may be reordered); and it must end with the structure that the pass promises. */
#include "check.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "transform/pass.h"
#include "transform/transform.h"

#include <math.h>

/* ---- programs ---- */

struct program {
    const char *name;
    const char
        *grad; /* parameters to differentiate by, "" for none: the function becomes value and gradient */
    const char *passes; /* the passes that run for `expect`, "" for all */
    const char *expect; /* "dot=1 >dot=2": nodes of that operator in the function, with > in the bodies it
                           reaches; "nodes=3": all nodes */
    const char *text;
};

static const struct program programs[] = {
#include "simplify_programs.h"
};

/* Programs with control flow in control flow, for the transforms below; their bodies come out of engines, not
 * out of a writer's hands. */
static const struct program compositions[] = {
#include "simplify_compositions.h"
};

/* ---- inputs ---- */

static uint64_t state;
static double uniform(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static double special_or(double plain)
{
    static const double special[] = { 0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN };
    return uniform() < 0.3 ? special[(int)(uniform() * 7)] : plain;
}

static struct tensor *random_tensor(struct module *m, type_id type, const int64_t *symbols, bool specials)
{
    struct type t = type_get(m, type);
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_eval(m, t.dims[i], symbols);
    struct tensor *out = tensor_new((enum dtype)t.dtype, t.rank, dims);
    for (int64_t i = 0; i < out->count; i++) {
        double x = uniform() * 2 - 1;
        if (specials) x = special_or(x);
        int64_t k = (int64_t)(uniform() * 4);
        switch (t.dtype) {
        case DT_BOOL: ((uint8_t *)out->data)[i] = k & 1; break;
        case DT_I8:
        case DT_U8: ((uint8_t *)out->data)[i] = (uint8_t)(k * 60); break;
        case DT_I32:
        case DT_U32: ((uint32_t *)out->data)[i] = (uint32_t)k; break;
        case DT_I64: ((int64_t *)out->data)[i] = k; break;
        case DT_F32: ((float *)out->data)[i] = (float)x; break;
        default: ((double *)out->data)[i] = x;
        }
    }
    return out;
}

/* ---- running ---- */

struct run {
    struct module *m;
    uint32_t fn;
    struct tensor *args[32], *results[32];
    int64_t dims[16];
    char printed[4096];
    bool failed; /* the run ended with a failed check, which is a result, too */
};

static void keep_line(void *ctx, const char *line, size_t length)
{
    struct run *r = ctx;
    size_t have = strlen(r->printed);
    if (have + length + 2 < sizeof r->printed)
        snprintf(r->printed + have, sizeof r->printed - have, "%.*s\n", (int)length, line);
}

static void run_body(void *ctx)
{
    struct run *r = ctx;
    struct interp in = { .m = r->m, .print = keep_line, .print_ctx = r, .max_steps = 1000000 };
    interp_run(&in, r->fn, r->args, r->dims, r->results);
}

static void run_program(struct run *r)
{
    r->printed[0] = 0;
    memset(r->results, 0, sizeof r->results);
    r->failed = attempt(run_body, r) != HOP_OK;
}

static double worst_difference(const struct tensor *a, const struct tensor *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->count != b->count ||
        memcmp(a->dims, b->dims, a->rank * sizeof *a->dims))
        return INFINITY;
    double worst = 0;
    if (a->dtype != DT_F32 && a->dtype != DT_F64)
        return memcmp(a->data, b->data, (size_t)a->count * dtype_info[a->dtype].size) ? INFINITY : 0;
    for (int64_t i = 0; i < a->count; i++) {
        double x = a->dtype == DT_F32 ? (double)((float *)a->data)[i] : ((double *)a->data)[i];
        double y = b->dtype == DT_F32 ? (double)((float *)b->data)[i] : ((double *)b->data)[i];
        if (isnan(x) && isnan(y)) continue;
        if (x == y && signbit(x) == signbit(y)) continue;
        double d = x == y ? 1e-300
                          : fabs(x - y) / fmax(1, fabs(x)); /* zeros of different sign differ, but hardly */
        if (isnan(d)) d = INFINITY;
        worst = fmax(worst, d);
    }
    return worst;
}

/* ---- structure ---- */

static uint32_t count_nodes(const struct module *m, uint32_t fn, int op, bool bodies, bool here)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) n += here && (op < 0 || f->nodes[i].op == op);
    for (uint32_t r = 0; bodies && r < f->n_regions; r++)
        n += count_nodes(m, f->regions[r].fn, op, true, true);
    return n;
}

static const char *function_text(const struct module *m, uint32_t fn)
{
    static struct arena arena;
    arena_free(&arena);
    struct text out = { .arena = &arena };
    text_print(m, fn, 0, &out);
    return out.data;
}

static void check_structure(const struct program *p, const struct module *m, uint32_t fn)
{
    const char *at = p->expect;
    bool good = true;
    while (*at) {
        char word[64];
        uint32_t want;
        int used = 0;
        if (sscanf(at, " %63[^=]=%u%n", word, &want, &used) != 2) break;
        at += used;
        while (*at == ' ') at++;
        bool bodies = word[0] == '>';
        const char *name = word + bodies;
        int op = !strcmp(name, "nodes") ? -1 : (int)op_find(name, strlen(name));
        uint32_t found = count_nodes(m, fn, op, bodies, !bodies);
        if (op == OP_COUNT) printf("%s: '%s' is no operator\n", p->name, name);
        if (op == OP_COUNT || found != want)
            good = false, printf("%s: expected %s=%u, found %u\n", p->name, word, want, found);
    }
    CLAIM(good, "%s has the promised structure:\n%s", p->name, function_text(m, fn));
}

/* ---- one program ---- */

static uint32_t mask_of(const char *names)
{
    uint32_t mask = 0;
    char word[32];
    int used;
    while (sscanf(names, " %31s%n", word, &used) == 1) {
        uint32_t pass;
        names += used;
        if (switch_from_name(word, &pass)) mask |= 1u << pass;
        else printf("no pass %s\n", word);
    }
    return mask;
}

static void verify_all(struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    verify_fn(m, fn);
    for (uint32_t r = 0; r < f->n_regions; r++) verify_all(m, f->regions[r].fn);
}

static bool same_results(const struct program *p, struct run *want, uint32_t fn, uint32_t n_results,
                         double bound, const char *what)
{
    struct run got = *want;
    got.fn = fn;
    run_program(&got);
    bool good = got.failed == want->failed && !strcmp(got.printed, want->printed);
    if (got.failed && !want->failed) printf("%s, %s: %s\n", p->name, what, hop_message());
    for (uint32_t k = 0; k < n_results && good && !got.failed; k++) {
        double d = worst_difference(want->results[k], got.results[k]);
        if (d > bound) good = false, printf("%s, %s: result %u differs by %g\n", p->name, what, k, d);
    }
    for (uint32_t k = 0; k < n_results; k++) tensor_free(got.results[k]);
    return good;
}

static void compare(const struct program *p, struct module *m, uint32_t before, uint32_t after, bool exact,
                    const char *what)
{
    static const int64_t sizes[] = { 3, 1, 0, 5 };
    const struct fn *f = module_fn(m, before);
    bool good = true;
    for (uint32_t round = 0; round < HOP_COUNT(sizes) && good; round++) {
        struct run r = { .m = m, .fn = before };
        int64_t symbols[16] = { 0 };
        uint32_t n_dims = 0;
        state = 12345 + round;
        for (uint32_t s = 0; s < f->n_outer_symbols; s++) {
            symbols[s] = HOP_MAX(f->symbols[s].lo, HOP_MIN(f->symbols[s].hi, sizes[round]));
            if (f->symbols[s].origin == SYMBOL_DIM) r.dims[n_dims++] = symbols[s];
        }
        for (uint32_t i = 0; i < f->n_params; i++)
            r.args[i] = random_tensor(m, value_type(f, i), symbols, exact && round == 3);
        run_program(&r);
        if (r.failed && strstr(hop_message(), "stopped after"))
            continue; /* a loop that does not end on these numbers */
        if (r.failed && !strstr(p->name, "fail")) printf("%s: %s\n", p->name, hop_message()), good = false;
        good &= same_results(p, &r, after, f->n_results, exact ? 0 : 2e-5, what);
        for (uint32_t i = 0; i < f->n_params; i++) tensor_free(r.args[i]);
        for (uint32_t k = 0; k < f->n_results; k++) tensor_free(r.results[k]);
    }
    CLAIM(good, "%s means the same after %s:\n%s", p->name, what, function_text(m, after));
}

/* Passes that add numbers in another order. */
enum { REORDERS = 1u << PASS_accumulate | 1u << PASS_sums };

static void one_option(const struct program *p, struct module *m, uint32_t fn, struct pass_options o,
                       const char *what)
{
    uint32_t out = simplify(m, fn, &o);
    verify_all(m, out);
    CLAIM(simplify(m, out, &o) == out, "%s: %s twice is %s once", p->name, what, what);
    compare(p, m, fn, out, o.strict || (o.without & REORDERS) == REORDERS, what);
}

static void one_program(void *ctx)
{
    const struct program *p = ctx;
    const uint32_t every = EVERY_PASS;
    struct module *m = text_read(p->name, p->text, strlen(p->text));
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "main");
    if (p->grad[0]) {
        const struct fn *f = module_fn(m, fn);
        bool wrt[32] = { false };
        for (uint32_t i = 0; i < f->n_params; i++) {
            const char *name = module_text(m, f->values[i].name), *found = strstr(p->grad, name);
            wrt[i] = found && (found == p->grad || found[-1] == ' ') &&
                     (found[strlen(name)] == ' ' || !found[strlen(name)]);
        }
        fn = grad_function(m, fn, wrt, true);
    }
    struct pass_options some = { .without = p->passes[0] ? every & ~mask_of(p->passes) : 0 };
    check_structure(p, m, simplify(m, fn, &some));
    one_option(p, m, fn, (struct pass_options){ 0 }, "all passes");
    one_option(p, m, fn, (struct pass_options){ .strict = true }, "all passes in strict mode");
    one_option(p, m, fn, (struct pass_options){ .without = REORDERS }, "all passes that keep the order");
    for (int i = 0; i < PASS_COUNT; i++) {
        one_option(p, m, fn, (struct pass_options){ .without = every & ~(1u << i) }, switch_names[i]);
        one_option(p, m, fn, (struct pass_options){ .without = 1u << i }, "all passes but one");
    }
    hop_cleanup_pop(m);
    module_free(m);
}

/* ---- compositions ---- */

enum { PLAIN, VJP, VJP_VJP, JVP, VMAP, VMAP_VJP, WAYS };
static const char *const transform_names[] = {
    "", ", vjp", ", vjp of vjp", ", jvp", ", vmap", ", vmap of vjp"
};

struct composition {
    const struct program *p;
    int transform;
    struct module *m;
    uint32_t fn;
};

static const bool *float_params(struct module *m, uint32_t fn, bool *out)
{
    const struct fn *f = module_fn(m, fn);
    for (uint32_t i = 0; i < f->n_params; i++)
        out[i] = dtype_is_float((enum dtype)type_get(m, value_type(f, i)).dtype);
    return out;
}

static void transform_body(void *ctx)
{
    struct composition *c = ctx;
    bool mask[64], all[64], out[64];
    memset(all, true, sizeof all);
    if (c->transform == VJP || c->transform == VJP_VJP || c->transform == VMAP_VJP)
        c->fn = vjp_function(c->m, c->fn, float_params(c->m, c->fn, mask));
    if (c->transform == VJP_VJP) c->fn = vjp_function(c->m, c->fn, float_params(c->m, c->fn, mask));
    if (c->transform == JVP) c->fn = jvp_function(c->m, c->fn, float_params(c->m, c->fn, mask), out);
    if (c->transform == VMAP || c->transform == VMAP_VJP)
        c->fn = batch_function(c->m, c->fn, all, 2, NULL, false, out);
}

static void one_composition(void *ctx)
{
    struct composition *c = ctx;
    char name[128];
    c->m = text_read(c->p->name, c->p->text, strlen(c->p->text));
    hop_cleanup_push(module_free, c->m);
    c->fn = module_find(c->m, "main");
    if (attempt(transform_body, c) == HOP_OK) { /* what cannot be transformed is another test's matter */
        struct program p = *c->p;
        snprintf(name, sizeof name, "%s%s", p.name, transform_names[c->transform]);
        p.name = name;
        one_option(&p, c->m, c->fn, (struct pass_options){ 0 }, "all passes");
        one_option(&p, c->m, c->fn, (struct pass_options){ .strict = true }, "all passes in strict mode");
        one_option(&p, c->m, c->fn, (struct pass_options){ .without = REORDERS },
                   "all passes that keep the order");
        for (int i = 0; i < PASS_COUNT && c->transform < VJP_VJP; i++) {
            one_option(&p, c->m, c->fn, (struct pass_options){ .without = EVERY_PASS & ~(1u << i) },
                       switch_names[i]);
            one_option(&p, c->m, c->fn, (struct pass_options){ .without = 1u << i }, "all passes but one");
        }
    }
    hop_cleanup_pop(c->m);
    module_free(c->m);
}

/* ---- random programs ---- */

#include "simplify_random.h"

struct random_case {
    uint64_t seed;
    bool lanes, smooth, grad;
    char *text;
};

static void random_body(void *ctx)
{
    struct random_case *c = ctx;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct text out = { .arena = &arena };
    (c->lanes ? write_lanes_program : write_program)(&out, c->seed, c->smooth);
    c->text = out.data;
    char name[64];
    snprintf(name, sizeof name, "random %s%s%s%llu", c->lanes ? "lanes " : "", c->smooth ? "smooth " : "",
             c->grad ? "vjp " : "", (unsigned long long)c->seed);
    struct program p = { name, "", "", "", out.data };
    struct module *m = text_read(name, out.data, out.len);
    hop_cleanup_push(module_free, m);
    struct composition t = { &p, c->grad ? VJP : PLAIN, m, module_find(m, "main") };
    if (attempt(transform_body, &t) == HOP_OK) {
        one_option(&p, m, t.fn, (struct pass_options){ .strict = true }, "all passes in strict mode");
        if (c->smooth) one_option(&p, m, t.fn, (struct pass_options){ 0 }, "all passes");
        one_option(&p, m, t.fn,
                   (struct pass_options){ .strict = true, .without = 1u << (c->seed % PASS_COUNT) },
                   "all passes but one");
    }
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

static void random_programs(uint64_t from, uint64_t to)
{
    for (uint64_t seed = from; seed < to; seed++)
        for (int variant = 0; variant < 8; variant++) {
            struct random_case c = {
                .seed = seed, .smooth = variant & 1, .grad = variant & 2, .lanes = variant & 4
            };
            int failed = tests_failed;
            CLAIM(attempt(random_body, &c) == HOP_OK, "random program %llu, variant %d: %s",
                  (unsigned long long)seed, variant, hop_message());
            if (tests_failed > failed) printf("seed %llu, variant %d\n", (unsigned long long)seed, variant);
        }
}

/* ---- random chains of adds ---- */

#include "simplify_chains.h"

struct chain_case {
    uint64_t seed;
    int transform;
};

static void chain_body(void *ctx)
{
    struct chain_case *c = ctx;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct text out = { .arena = &arena };
    state = c->seed * 7919 + 1;
    bool complete = write_chain(&out);
    char name[64];
    snprintf(name, sizeof name, "chain %llu%s", (unsigned long long)c->seed, transform_names[c->transform]);
    struct program p = { name, "", "", complete ? "add=0" : "", out.data };
    struct module *m = text_read(name, out.data, out.len);
    hop_cleanup_push(module_free, m);
    struct composition t = { &p, c->transform, m, module_find(m, "main") };
    transform_body(&t);
    enum dtype dtype = (enum dtype)type_get(m, value_type(module_fn(m, t.fn), 0)).dtype;
    struct pass_options strict = { .strict = true };
    if (c->transform == PLAIN) check_structure(&p, m, simplify(m, t.fn, NULL));
    if (c->transform == PLAIN && dtype_is_integer(dtype)) check_structure(&p, m, simplify(m, t.fn, &strict));
    one_option(&p, m, t.fn, (struct pass_options){ 0 }, "all passes");
    one_option(&p, m, t.fn, (struct pass_options){ .without = EVERY_PASS & ~(1u << PASS_sums) }, "sums");
    one_option(&p, m, t.fn, strict, "all passes in strict mode");
    one_option(&p, m, t.fn, (struct pass_options){ .without = REORDERS }, "all passes that keep the order");
    /* strict numbers are the same with the sum as without */
    uint32_t with = simplify(m, t.fn, &strict);
    uint32_t without = simplify(m, t.fn,
                                &(struct pass_options){ .strict = true, .without = 1u << PASS_sums });
    compare(&p, m, with, without, true, "leaving out sums in strict mode");
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

static void random_chains(uint64_t from, uint64_t to)
{
    for (uint64_t seed = from; seed < to; seed++)
        for (int transform = PLAIN; transform < WAYS; transform++) {
            struct chain_case c = { seed, transform };
            int failed = tests_failed;
            CLAIM(attempt(chain_body, &c) == HOP_OK, "chain %llu: %s", (unsigned long long)seed,
                  hop_message());
            if (tests_failed > failed)
                printf("chain %llu%s\n", (unsigned long long)seed, transform_names[transform]);
        }
}

static void names_are_found(void)
{
    for (uint32_t i = 0; i < SWITCH_COUNT; i++) {
        uint32_t found = SWITCH_COUNT;
        CLAIM(switch_from_name(switch_names[i], &found) && found == i && switch_meanings[i][0],
              "%s is found by its name", switch_names[i]);
    }
    uint32_t found;
    CLAIM(!switch_from_name("polish", &found), "no pass is called polish");
}

struct heard {
    uint32_t calls;
    bool named;
};
static void hear(void *ctx, const char *pass, double ms, uint32_t nodes)
{
    struct heard *h = ctx;
    uint32_t found;
    (void)nodes;
    h->calls++;
    h->named |= switch_from_name(pass, &found) && ms >= 0;
}

static void report_body(void *ctx)
{
    struct heard heard = { 0 };
    struct module *m = text_read("report", ctx, strlen(ctx));
    hop_cleanup_push(module_free, m);
    simplify(m, module_find(m, "main"), &(struct pass_options){ .report = hear, .report_ctx = &heard });
    CLAIM(heard.calls == PASS_COUNT && heard.named, "every pass reports its time once, found %u",
          heard.calls);
    hop_cleanup_pop(m);
    module_free(m);
}

/* ---- verification ---- */

struct broken {
    struct module *m;
    uint32_t fn, root, made;
};
static void verify_body(void *ctx)
{
    struct broken *b = ctx;
    pass_verify(b->m, PASS_fold, b->fn, b->root, b->made);
}

/* A function that a pass has made, damaged: the message names the pass and the function. */
static void verification_body(void *ctx)
{
    struct module *m = text_read("broken", ctx, strlen(ctx));
    hop_cleanup_push(module_free, m);
    uint32_t main = module_find(m, "main"), made = simplify(m, main, NULL);
    struct broken b = { m, main, main, made };
    CLAIM(made != main && attempt(verify_body, &b) == HOP_OK, "what simplify makes is right: %s",
          hop_message());
    ((struct fn *)(uintptr_t)module_fn(m, made))->effects ^= EFFECT_IO;
    CLAIM(attempt(verify_body, &b) == HOP_INTERNAL && strstr(hop_message(), "the pass 'fold' broke @main: "),
          "a function that is broken is named, found: %s", hop_message());
    b.fn = made;
    CLAIM(attempt(verify_body, &b) == HOP_INTERNAL &&
              strstr(hop_message(), "the pass 'fold' broke a body of @main: "),
          "a body that is broken is named, found: %s", hop_message());
    hop_cleanup_pop(m);
    module_free(m);
}

/* ---- no memory ---- */

static void starved_body(void *ctx)
{
    struct composition *c = ctx;
    c->fn = simplify(c->m, c->fn, NULL);
}

/* The n-th allocation of a simplification fails, for every n: it throws, and nothing is lost. */
static void starve(void *ctx)
{
    const struct program *p = ctx;
    int64_t before = hop_live_allocations();
    bool done = false, right = true;
    for (uint64_t n = 1; !done && right; n++) {
        struct composition c = { p, VJP, text_read(p->name, p->text, strlen(p->text)), 0 };
        hop_cleanup_push(module_free, c.m);
        c.fn = module_find(c.m, "main");
        transform_body(&c);
        hop_fail_allocation(n);
        hop_status status = attempt(starved_body, &c);
        hop_fail_allocation(0);
        done = status == HOP_OK;
        right = done || status == HOP_NOMEM;
        hop_cleanup_pop(c.m);
        module_free(c.m);
    }
    CLAIM(right, "%s: without memory, simplify says so, not: %s", p->name, hop_message());
    CLAIM(hop_live_allocations() == before, "%s: a failed simplification loses nothing", p->name);
}

int main(int argc, char **argv)
{
    setenv("HOP_DEBUG", "verify,slices,beside", 1); /* programs are small */
    names_are_found();
    static char text[] = "hop 1\nfn @main(%x: f32[3]) -> (f32[3]) {\n  %y = add(%x, %x)\n  return %y\n}\n";
    CLAIM(attempt(report_body, text) == HOP_OK, "reporting: %s", hop_message());
    static char folded[] =
        "hop 1\nfn @main(%x: f32[]) -> (f32[]) {\n  %o = full {value = 1, dims = [], dtype = f32}\n"
        "  %y = mul(%x, %o)\n  return %y\n}\n";
    CLAIM(attempt(verification_body, folded) == HOP_OK, "verifying: %s", hop_message());
    for (uint32_t i = 0; i < HOP_COUNT(programs); i++) {
        if (argc > 1 && strcmp(argv[1], programs[i].name)) continue;
        hop_status status = attempt(one_program, (void *)&programs[i]);
        CLAIM(status == HOP_OK, "%s: %s", programs[i].name, hop_message());
    }
    for (uint32_t i = 0; i < HOP_COUNT(compositions); i++)
        for (int t = 0; t < WAYS; t++) {
            if (argc > 1 && strcmp(argv[1], compositions[i].name)) continue;
            struct composition c = { &compositions[i], t, NULL, 0 };
            CLAIM(attempt(one_composition, &c) == HOP_OK, "%s%s: %s", compositions[i].name,
                  transform_names[t], hop_message());
        }
    for (uint32_t i = 0; i < HOP_COUNT(compositions) && argc == 1; i++)
        CLAIM(attempt(starve, (void *)&compositions[i]) == HOP_OK, "%s, without memory: %s",
              compositions[i].name, hop_message());
    if (argc == 1) random_programs(0, 60);
    if (argc == 1) random_chains(0, 60);
    if (argc == 4 && !strcmp(argv[1], "chains"))
        random_chains(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    if (argc == 4 && !strcmp(argv[1], "random"))
        random_programs(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    return tests_end();
}
