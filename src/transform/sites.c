/* What the calls of one function are differentiated for. Each call asks for the derivative of some results by
 * some operands, and each such question is a pair of halves of its own: one more body forward, one more
 * backward. A question that few of the calls ask takes the halves of a commoner one that includes it, as in a
 * chain of layers, where the first alone has an input that nobody differentiates by; so does a call of which
 * no derivative is asked. What is computed beyond what was asked is thrown away, or never computed where the
 * body is put in place. Questions that remain have a body backward each, but one body forward. */
#include "transform/pass.h"
#include "transform/transform.h"

enum {
    FEW = 4,           /* one call of so many, or less: that is few */
    MOST_QUESTIONS = 8 /* that are told apart for one body */
};

struct asked {
    struct question q;
    const struct node *first; /* that asked */
    uint32_t calls;
    struct body_calls *of;
};
struct body_calls {
    uint32_t calls;
    uint32_t n_asked, asked[MOST_QUESTIONS];
    struct question *all; /* those that are answered, NULL: not listed yet */
    uint32_t n_all;
};
struct sites {
    struct arena *arena;
    struct module *m;
    const struct fn *f;
    const bool *wanted; /* per value of f */
    bool *active;       /* per value of f; more than is where loops and branches are concerned */
    struct map by_body; /* hash of body -> index of asked */
    vec(struct asked) asked;
    uint32_t *of_node; /* per node: index of asked, HOP_NONE: none */
};

static bool is_call(const struct node *n) { return node_row(n)->control == CONTROL_CALL; }

static bool is_float_value(const struct sites *s, val v)
{
    return dtype_is_float((enum dtype)type_get(s->m, value_type(s->f, v)).dtype);
}

static bool same(const bool *a, const bool *b, uint32_t n) { return !n || !memcmp(a, b, n); }

static bool includes(const bool *more, const bool *less, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (less[i] && !more[i]) return false;
    return true;
}

/* Calls of one body with the same attributes: what one keeps, another one may keep. */
static bool same_call(const struct fn *f, const struct node *x, const struct node *y)
{
    if (x->op != y->op || node_region(f, x, 0)->fn != node_region(f, y, 0)->fn) return false;
    for (uint32_t k = 0; k < node_row(x)->sig.n_attrs; k++)
        if (!attrs_equal(node_attr(f, x, k), node_attr(f, y, k))) return false;
    return true;
}

static void ask(struct sites *s, uint32_t i, const bool *active)
{
    const struct node *n = fn_node(s->f, i);
    const bool *wanted = s->wanted + n->results;
    uint64_t key = hash_mix(node_region(s->f, n, 0)->fn, n->op);
    struct body_calls *of = NULL;
    for (uint32_t it = map_first(&s->by_body, key); it != HOP_NONE; it = map_next(&s->by_body, key, it)) {
        struct asked *a = &s->asked.data[map_value(&s->by_body, it)];
        if (!same_call(s->f, a->first, n)) continue;
        of = a->of;
        if (!same(a->q.active, active, n->n_operands) || !same(a->q.wanted, wanted, n->n_results)) continue;
        a->calls++;
        of->calls++;
        s->of_node[i] = map_value(&s->by_body, it);
        return;
    }
    if (!of) of = ARENA_ZNEW(s->arena, struct body_calls, 1);
    of->calls++;
    if (of->n_asked == MOST_QUESTIONS) return;
    s->of_node[i] = of->asked[of->n_asked++] = s->asked.len;
    map_put(&s->by_body, key, s->asked.len);
    struct question q = { arena_copy(s->arena, active, n->n_operands), wanted };
    vec_push(s->arena, &s->asked, (struct asked){ q, n, 1, of });
}

static void activate(struct sites *s, uint32_t i)
{
    const struct node *n = fn_node(s->f, i);
    bool *active = ARENA_NEW(s->arena, bool, n->n_operands), *results = s->active + n->results;
    bool any = false, wanted = false;
    for (uint32_t k = 0; k < n->n_operands; k++) any |= active[k] = s->active[node_operands(s->f, n)[k]];
    for (uint32_t k = 0; k < n->n_results; k++) wanted |= s->wanted[n->results + k];
    if (is_call(n)) {
        ask(s, i, active);
        if (any && wanted) vjp_active_results(s->m, node_region(s->f, n, 0)->fn, active, results);
        return;
    }
    for (uint32_t k = 0; k < n->n_results; k++)
        results[k] = any && wanted && node_row(n)->vjp && is_float_value(s, n->results + k);
}

/* The commonest question about the same body that includes this one, itself where it is not few that ask. */
static const struct asked *commoner(const struct sites *s, const struct asked *a)
{
    const struct asked *best = NULL;
    if (a->calls > a->of->calls / FEW) return a;
    for (uint32_t k = 0; k < a->of->n_asked; k++) {
        const struct asked *other = &s->asked.data[a->of->asked[k]];
        if (other == a || other->calls <= a->calls || (best && other->calls <= best->calls)) continue;
        if (includes(other->q.active, a->q.active, a->first->n_operands) &&
            includes(other->q.wanted, a->q.wanted, a->first->n_results))
            best = other;
    }
    return best ? best : a;
}

static bool any_of(const bool *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i]) return true;
    return false;
}

static bool asks(const struct asked *a)
{
    return any_of(a->q.active, a->first->n_operands) && any_of(a->q.wanted, a->first->n_results);
}

static void list_questions(const struct sites *s, struct body_calls *of)
{
    if (of->all) return;
    of->all = ARENA_NEW(s->arena, struct question, of->n_asked);
    for (uint32_t k = 0; k < of->n_asked; k++) {
        const struct asked *a = &s->asked.data[of->asked[k]];
        if (asks(a) && commoner(s, a) == a) of->all[of->n_all++] = a->q;
    }
}

/* NULL: its own question, and no other is asked. */
static const struct call_question *answer(const struct sites *s, const struct asked *a)
{
    const struct asked *taken = commoner(s, a);
    list_questions(s, a->of);
    bool several = a->of->n_all > 1 && asks(taken);
    if (taken == a && !several) return NULL;
    struct call_question *out = ARENA_ZNEW(s->arena, struct call_question, 1);
    out->q = taken->q;
    if (!several) return out;
    out->all = a->of->all;
    out->n_all = a->of->n_all;
    while (out->all[out->which].active != taken->q.active) out->which++;
    return out;
}

const struct call_question **call_questions(struct arena *arena, struct module *m, const struct fn *f,
                                            const bool *active, const bool *wanted)
{
    uint32_t n_calls = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) n_calls += is_call(fn_node(f, i));
    if (n_calls < 2) return NULL;
    struct sites s = { .arena = arena, .m = m, .f = f, .wanted = wanted, .by_body = { .arena = arena } };
    s.active = ARENA_ZNEW(arena, bool, f->n_values);
    s.of_node = ARENA_NEW(arena, uint32_t, f->n_nodes);
    memset(s.of_node, 0xff, f->n_nodes * sizeof *s.of_node);
    if (f->n_params) memcpy(s.active, active, f->n_params);
    for (uint32_t i = 0; i < f->n_nodes; i++) activate(&s, i);
    const struct call_question **out = ARENA_ZNEW(arena, const struct call_question *, f->n_nodes);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (s.of_node[i] != HOP_NONE) out[i] = answer(&s, &s.asked.data[s.of_node[i]]);
    return out;
}

/* ---- one forward half ---- */

/* The forward halves in one function, what is equal in them once. */
static uint32_t all_forward(struct module *m, const struct vjp_halves *const *halves, uint32_t n,
                            uint32_t n_y)
{
    struct builder b;
    struct copier c;
    vec(val) results = { 0 };
    const struct fn *first = module_fn(m, halves[0]->forward);
    builder_begin(&b, m, first);
    copier_begin(&c, &b, first);
    copier_params(&c);
    val *params = arena_copy(&b.arena, c.values, first->n_params * sizeof *params);
    for (uint32_t i = 0; i < n; i++) {
        const struct fn *g = module_fn(m, halves[i]->forward);
        val *own = ARENA_NEW(&b.arena, val, g->n_results);
        inline_function(&b, g->id, NULL, params, own);
        for (uint32_t k = i ? n_y : 0; k < g->n_results; k++) vec_push(&b.arena, &results, own[k]);
    }
    return pass_for_transform(m, builder_finish(&b, results.data, results.len), PASS_cse, pass_cse);
}

/* The function without results that it gives twice. at: per result, its number then. */
static uint32_t each_once(struct module *m, uint32_t fn, uint32_t n_y, uint32_t *at)
{
    struct builder b;
    struct copier c;
    const struct fn *f = module_fn(m, fn);
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    val *all = ARENA_NEW(&b.arena, val, f->n_results), *once = ARENA_NEW(&b.arena, val, f->n_results);
    copier_body(&c, all);
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->n_results; k++) {
        uint32_t same = k < n_y ? n : 0;
        while (same < n && once[same] != all[k]) same++;
        at[k] = same;
        if (same == n) once[n++] = all[k];
    }
    return builder_finish(&b, once, n);
}

/* It may be a quarter larger than the largest, and give half as much again as the one that keeps least. */
static bool is_worth_it(struct module *m, const struct vjp_halves *const *halves, uint32_t n, uint32_t n_y,
                        uint32_t forward)
{
    const struct fn *f = module_fn(m, forward);
    uint32_t most = 0, least = HOP_NONE;
    for (uint32_t i = 0; i < n; i++) {
        const struct fn *g = module_fn(m, halves[i]->forward);
        most = HOP_MAX(most, g->n_nodes);
        least = HOP_MIN(least, g->n_results - n_y);
    }
    return f->n_nodes <= most + most / 4 + 1 && f->n_results - n_y <= least + least / 2 + 1;
}

/* Effects would be there several times, sizes bound several times. */
static bool is_simple(const struct fn *f) { return !f->effects && f->n_symbols == f->n_outer_symbols; }

static struct common_forward make_common(struct module *m, const struct fn *f,
                                         const struct vjp_halves *const *halves, uint32_t n)
{
    struct common_forward none = { .forward = HOP_NONE };
    bool simple = is_simple(f);
    for (uint32_t i = 0; i < n; i++) {
        const struct fn *g = module_fn(m, halves[i]->forward);
        simple &= is_simple(g) && g->n_outer_symbols == f->n_outer_symbols && g->n_params == f->n_params;
    }
    if (!simple) return none;
    uint32_t fn = all_forward(m, halves, n, f->n_results), next = f->n_results;
    uint32_t *at = ARENA_NEW(&m->arena, uint32_t, module_fn(m, fn)->n_results);
    fn = each_once(m, fn, f->n_results, at);
    if (!is_worth_it(m, halves, n, f->n_results, fn)) return none;
    const uint32_t **of = ARENA_NEW(&m->arena, const uint32_t *, n);
    for (uint32_t i = 0; i < n; i++) {
        of[i] = at + next;
        next += module_fn(m, halves[i]->forward)->n_results - f->n_results;
    }
    return (struct common_forward){ fn, of };
}

const struct common_forward *vjp_common_forward(struct module *m, uint32_t fn, const struct question *all,
                                                uint32_t n, bool recompute)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t each = f->n_params + f->n_results;
    bool *mask = ARENA_NEW(&m->arena, bool, n *each);
    const struct vjp_halves **halves = ARENA_NEW(&m->arena, const struct vjp_halves *, n);
    for (uint32_t i = 0; i < n; i++) {
        if (f->n_params) memcpy(mask + i * each, all[i].active, f->n_params);
        if (f->n_results) memcpy(mask + i * each + f->n_params, all[i].wanted, f->n_results);
    }
    struct common_forward *known = transform_recall(m, MEMO_COMMON, fn, recompute, mask, n * each);
    if (!known) {
        for (uint32_t i = 0; i < n; i++)
            halves[i] = vjp_split(m, fn, all[i].active, all[i].wanted, 0, recompute);
        known = ARENA_NEW(&m->arena, struct common_forward, 1);
        *known = make_common(m, module_fn(m, fn), halves, n);
        transform_remember(m, MEMO_COMMON, fn, recompute, mask, n * each, known);
    }
    return known->forward == HOP_NONE ? NULL : known;
}
