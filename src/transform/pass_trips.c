/* Trip counts: loops that ask before each step whether there is one become loops of as many steps, where
 * their row's `count` can say beforehand how many these are. */
#include "transform/pass.h"
#include "transform/ranges.h"
#include "transform/transform.h"

struct context {
    struct arena a;
    const struct range *values;
    bool stacked;
};

static bool wants_count(const struct node *n) { return node_row(n)->count; }

static bool count_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct context *x = ctx;
    if (!x->values) x->values = ranges_of_values(&x->a, s->m, c->f, NULL);
    return node_row(n)->count(c, n, x->values, x->stacked, results);
}

static uint32_t count_all(struct simplifier *s, uint32_t fn, bool stacked)
{
    struct context x = { .stacked = stacked };
    hop_cleanup_push(arena_free, &x.a);
    uint32_t out = rewrite_nodes(s, fn, wants_count, count_rule, &x);
    hop_cleanup_pop(&x.a);
    arena_free(&x.a);
    return out;
}

static uint32_t count_stacked(struct simplifier *s, uint32_t fn) { return count_all(s, fn, true); }
static uint32_t count_plain(struct simplifier *s, uint32_t fn) { return count_all(s, fn, false); }

uint32_t pass_trips(struct simplifier *s, uint32_t fn) { return count_stacked(s, fn); }

uint32_t count_loops(struct module *m, uint32_t fn, bool stacked)
{
    const struct fn *f = module_fn(m, fn);
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) any |= wants_count(fn_node(f, i));
    if (!any) return fn;
    return pass_for_transform(m, fn, PASS_trips, stacked ? count_stacked : count_plain);
}
