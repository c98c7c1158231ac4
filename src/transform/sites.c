/* What the calls of one function are differentiated for. Each call asks for the derivative of some results by
 * some operands, and each such question is a pair of halves of its own: one more body forward, one more
 * backward. A question that few of the calls ask takes the halves of a commoner one that includes it, as in a
 * chain of layers, where the first alone has an input that nobody differentiates by; so does a call of which
 * no derivative is asked. What is computed beyond what was asked is thrown away, or never computed where the
 * body is put in place. */
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

/* The commonest question about the same body that includes this one; NULL: it is answered by itself. */
static const struct question *commoner(const struct sites *s, const struct asked *a, const struct node *n)
{
    const struct asked *best = NULL;
    if (a->calls > a->of->calls / FEW) return NULL;
    for (uint32_t k = 0; k < a->of->n_asked; k++) {
        const struct asked *other = &s->asked.data[a->of->asked[k]];
        if (other == a || other->calls <= a->calls || (best && other->calls <= best->calls)) continue;
        if (includes(other->q.active, a->q.active, n->n_operands) &&
            includes(other->q.wanted, a->q.wanted, n->n_results))
            best = other;
    }
    return best ? &best->q : NULL;
}

const struct question **call_questions(struct arena *arena, struct module *m, const struct fn *f,
                                       const bool *active, const bool *wanted)
{
    uint32_t n_calls = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) n_calls += is_call(fn_node(f, i));
    if (n_calls < FEW) return NULL;
    struct sites s = { .arena = arena, .m = m, .f = f, .wanted = wanted, .by_body = { .arena = arena } };
    s.active = ARENA_ZNEW(arena, bool, f->n_values);
    s.of_node = ARENA_NEW(arena, uint32_t, f->n_nodes);
    memset(s.of_node, 0xff, f->n_nodes * sizeof *s.of_node);
    if (f->n_params) memcpy(s.active, active, f->n_params);
    for (uint32_t i = 0; i < f->n_nodes; i++) activate(&s, i);
    const struct question **out = ARENA_ZNEW(arena, const struct question *, f->n_nodes);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (s.of_node[i] != HOP_NONE) out[i] = commoner(&s, &s.asked.data[s.of_node[i]], fn_node(f, i));
    return out;
}
