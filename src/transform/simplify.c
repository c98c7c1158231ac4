/* The simplifier: a function and options come in, an equivalent function goes out. Bodies are simplified
 * before the functions that use them, each once however many nodes share it; the passes are applied in the
 * order of passes.def until a round changes nothing. */
#include "transform/localize.h"
#include "ir/text.h"
#include "transform/pass.h"

#include <time.h>

/* Nodes that inlining may add, and how many times the program's own. */
enum { INLINED_ALWAYS = 50000, INLINED_PER_NODE = 8 };
/* Nested loops need about one round per level; the bound only guards against passes that undo each other. */
enum { MAX_ROUNDS = 12 };
static const uint64_t MEMO_TAG = 0x73696d70, MEMO_FOR_TRANSFORM = 0x73696d71;

const char *const switch_names[SWITCH_COUNT] = {
#define PASS(name, meaning) #name,
#define CHOICE(name, meaning) #name,
#include "transform/passes.def"
#undef PASS
#undef CHOICE
};
const char *const switch_meanings[SWITCH_COUNT] = {
#define PASS(name, meaning) meaning,
#define CHOICE(name, meaning) meaning,
#include "transform/passes.def"
#undef PASS
#undef CHOICE
};

bool switch_from_name(const char *name, uint32_t *out)
{
    for (uint32_t i = 0; i < SWITCH_COUNT; i++)
        if (!strcmp(switch_names[i], name)) {
            *out = i;
            return true;
        }
    return false;
}

static pass_function *const passes[PASS_COUNT] = {
#define PASS(name, meaning) pass_##name,
#define CHOICE(name, meaning)
#include "transform/passes.def"
#undef PASS
#undef CHOICE
};

static void grow_tables(struct simplifier *s)
{
    uint32_t need = s->m->fns.len;
    if (need <= s->cap) return;
    uint32_t cap = HOP_MAX(need, s->cap * 2);
    uint32_t *done = ARENA_NEW(&s->arena, uint32_t, cap), *uses = ARENA_ZNEW(&s->arena, uint32_t, cap);
    if (s->cap) memcpy(done, s->done, s->cap * sizeof *done);
    if (s->cap) memcpy(uses, s->uses, s->cap * sizeof *uses);
    for (uint32_t i = s->cap; i < cap; i++) done[i] = HOP_NONE;
    s->done = done;
    s->uses = uses;
    s->cap = cap;
}

uint32_t simplifier_uses(const struct simplifier *s, uint32_t fn) { return fn < s->cap ? s->uses[fn] : 0; }

/* Bodies with strict numbers in a program without are simplified by themselves, under their own options. */
static bool has_strict_bodies(const struct simplifier *s, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    return !s->o->strict && row->strict && row->strict(s->m, f, n);
}

static uint32_t strict_body(struct simplifier *s, uint32_t fn)
{
    struct pass_options strict = *s->o;
    strict.strict = true;
    strict.report = NULL;
    strict.note = NULL; /* the function around it tells of all bodies */
    hop_check_stack();
    return simplify(s->m, fn, &strict);
}

/* How often each function below fn is mentioned, but for strict bodies. A function comes after those that it
 * mentions. */
static void count_uses(struct simplifier *s, uint32_t fn)
{
    uint64_t nodes = 0;
    for (uint32_t i = fn + 1; i-- > 0;) {
        const struct fn *f = module_fn(s->m, i);
        if (i != fn && !s->uses[i]) continue;
        for (uint32_t k = 0; k < f->n_nodes; k++) {
            const struct node *n = fn_node(f, k);
            if (!n->n_regions || has_strict_bodies(s, f, n)) continue;
            for (uint32_t r = 0; r < n->n_regions; r++) s->uses[node_region(f, n, r)->fn]++;
        }
        nodes += f->n_nodes;
    }
    s->inline_left = INLINED_ALWAYS + INLINED_PER_NODE * nodes;
}

/* Functions that the simplified ones will mention: all below fn but those that inlining puts into their only
 * caller. */
static bool *mentioned(struct simplifier *s, uint32_t fn)
{
    bool *out = ARENA_ZNEW(&s->arena, bool, fn + 1), absorbs = pass_on(s->o, PASS_inline);
    for (uint32_t i = 0; i <= fn; i++) out[i] = s->uses[i] > 0;
    for (uint32_t i = 0; i <= fn && absorbs; i++) {
        const struct fn *f = module_fn(s->m, i);
        for (uint32_t k = 0; k < f->n_nodes && (s->uses[i] || i == fn); k++) {
            const struct node *n = fn_node(f, k);
            if (inline_absorbs(s, f, n)) out[node_region(f, n, 0)->fn] = false;
        }
    }
    return out;
}

static double milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static uint32_t simplify_fn(struct simplifier *s, uint32_t fn);

static uint32_t new_body(struct simplifier *s, const struct fn *f, const struct node *n, uint32_t r)
{
    uint32_t body = node_region(f, n, r)->fn;
    return has_strict_bodies(s, f, n) ? strict_body(s, body) : s->done[body];
}

static bool replace_bodies(struct simplifier *s, struct copier *c, const struct node *n, val *results,
                           void *ctx)
{
    HOP_UNUSED(ctx);
    uint32_t *fns = ARENA_NEW(&c->b->arena, uint32_t, n->n_regions);
    for (uint32_t r = 0; r < n->n_regions; r++) fns[r] = new_body(s, c->f, n, r);
    return replace_regions(c, n, fns, results);
}

static uint32_t simplify_bodies(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    bool changed = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        struct loop l;
        bool slices = node_is_loop(n) && loop_of_node(s->m, f, n, &l) && l.apart;
        s->slices_around += slices;
        for (uint32_t r = 0; r < n->n_regions; r++) {
            uint32_t body = node_region(f, n, r)->fn;
            uint32_t now = has_strict_bodies(s, f, n) ? strict_body(s, body) : simplify_fn(s, body);
            changed |= now != body;
        }
        s->slices_around -= slices;
    }
    return changed ? rewrite_nodes(s, fn, wants_higher, replace_bodies, NULL) : fn;
}

void pass_verify(struct module *m, enum pass p, uint32_t fn, uint32_t root, uint32_t first_made)
{
    struct hop_catch caught;
    if (HOP_TRY(caught)) {
        for (uint32_t made = first_made; made < m->fns.len; made++) verify_fn(m, made);
        hop_catch_end(&caught);
        return;
    }
    hop_status status = hop_caught();
    if (status != HOP_INVALID) hop_rethrow(status);
    bool body = !module_fn(m, fn)->name;
    const char *name = module_text(m, module_fn(m, body ? root : fn)->name);
    const char *found = arena_printf(&m->scratch, "%s", hop_message());
    hop_throw(HOP_INTERNAL, "the pass '%s' broke %s@%s: %s", switch_names[p], body ? "a body of " : "", name,
              found);
}

/* What function `fn` has become, `now`, after another pass. */
static uint32_t run_pass(struct simplifier *s, enum pass p, uint32_t fn, uint32_t now)
{
    uint32_t first_made = s->m->fns.len;
    double start = milliseconds();
    now = passes[p](s, now);
    s->ms[p] += milliseconds() - start;
    s->runs[p]++;
    s->nodes[p] += module_fn(s->m, now)->n_nodes;
    if (s->verify) pass_verify(s->m, p, fn, s->root, first_made);
    return now;
}

uint32_t pass_for_transform(struct module *m, uint32_t fn, enum pass p, pass_function *run)
{
    static const struct pass_options everything;
    if (m->without >> p & 1) return fn;
    uint64_t key[4] = { MEMO_FOR_TRANSFORM, fn, p, (uint64_t)(uintptr_t)run };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.fn;
    uint32_t first_made = m->fns.len;
    uint32_t out = run(&(struct simplifier){ .m = m, .o = &everything, .root = fn }, fn);
    if (hop_debugs("verify")) pass_verify(m, p, fn, fn, first_made);
    memo_put(m, key, (union memo_value){ .fn = out });
    return out;
}

static enum pass last_pass(const struct simplifier *s) { return s->o->after ? *s->o->after : PASS_COUNT - 1; }

static uint32_t simplify_fn(struct simplifier *s, uint32_t fn)
{
    grow_tables(s);
    if (s->done[fn] != HOP_NONE) return s->done[fn];
    hop_check_stack();
    uint32_t now = pass_on(s->o, PASS_inline) ? inline_absorb(s, fn) : fn;
    for (uint32_t round = 0; round < MAX_ROUNDS; round++) {
        uint32_t before = now;
        now = simplify_bodies(s, now);
        for (enum pass p = 0; p <= last_pass(s); p++)
            if (pass_on(s->o, p)) now = run_pass(s, p, fn, now);
        if (now == before || s->o->after) break;
    }
    grow_tables(s);
    s->done[fn] = now;
    if (s->done[now] == HOP_NONE) s->done[now] = now;
    if (now != fn) s->uses[now] += s->uses[fn];
    return now;
}

uint32_t simplify(struct module *m, uint32_t fn, const struct pass_options *o)
{
    static const struct pass_options everything;
    if (module_fn(m, fn)->global) return fn; /* what each rank does is simplified */
    struct simplifier s = { .m = m, .o = o ? o : &everything, .root = fn };
    s.verify = hop_debugs("verify");
    s.slices_of_any_size = hop_debugs("slices");
    s.beside_of_any_size = hop_debugs("beside");
    s.few_lanes = hop_debugs("lanes");
    uint64_t how = s.o->strict | s.o->differentiable << 1 | (s.o->after ? *s.o->after + 1 : 0) << 2;
    uint64_t key[4] = { MEMO_TAG, fn, s.o->without & EVERY_PASS, how };
    union memo_value known;
    if (memo_get(m, key, &known) && !s.o->report) return known.fn;
    hop_cleanup_push(arena_free, &s.arena);
    uint32_t start = s.o->differentiable ? fn : with_stand_ins(m, fn);
    grow_tables(&s);
    count_uses(&s, start);
    const bool *needed = mentioned(&s, start);
    /* from the innermost, so that no chain of functions is followed by recursion */
    for (uint32_t i = 0; i < start; i++)
        if (needed[i]) simplify_fn(&s, i);
    uint32_t out = simplify_fn(&s, start);
    if (s.o->report)
        for (enum pass p = 0; p < PASS_COUNT; p++)
            if (s.runs[p]) s.o->report(s.o->report_ctx, switch_names[p], s.ms[p], s.nodes[p]);
    if (s.o->note) tell_lanes(&s, out);
    if (fn_has_updates(module_fn(m, fn))) { /* the passes look at nodes alone */
        const struct fn *f = module_fn(m, fn);
        uint32_t *updates = ARENA_NEW(&s.arena, uint32_t, f->n_results);
        for (uint32_t k = 0; k < f->n_results; k++) updates[k] = fn_updated(f, k);
        out = module_with_updates(m, out, updates);
    }
    hop_cleanup_pop(&s.arena);
    arena_free(&s.arena);
    memo_put(m, key, (union memo_value){ .fn = out });
    key[1] = out;
    if (out != fn) memo_put(m, key, (union memo_value){ .fn = out });
    return out;
}
