/* Common subexpressions: of pure nodes that are equal in operator, operands, attributes and bodies, only the
 * first stays. */
#include "transform/pass.h"

static bool merge_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    const uint32_t *class = ctx;
    HOP_UNUSED(s);
    if (!n->n_results || class[n->results] == n->results) return false;
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = c->values[class[n->results + k]];
    return true;
}

uint32_t pass_cse(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    uint32_t *class = ARENA_NEW(&scratch, uint32_t, f->n_values);
    number_values(&scratch, s->m, f, NULL, class);
    bool merges = false;
    for (uint32_t v = f->n_params; v < f->n_values; v++) merges |= class[v] != v;
    uint32_t out = merges ? rewrite_nodes(s, fn, NULL, merge_rule, class) : fn;
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    return out;
}
