/* Inlining: a call becomes the nodes of its body when the body is small or when nobody else calls it. Large bodies with several callers
 * stay calls, so that they are compiled once. A switch with one branch is a call, too. */
#include "transform/pass.h"

enum { SMALL_BODY = 12 }; /* nodes, those of nested bodies included */

static uint32_t body_size(const struct module *m, const struct fn *f)
{
    uint32_t size = f->n_nodes;
    for (uint32_t r = 0; r < f->n_regions && size <= SMALL_BODY; r++) size += body_size(m, module_fn(m, f->regions[r].fn));
    return size;
}

static bool wants_call(const struct node *n) { return n->op == OP_invoke_subgraph || (n->op == OP_switch && n->n_regions == 1); }

static bool inline_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    (void)ctx;
    const struct region *region = node_region(c->f, n, 0);
    const struct fn *g = module_fn(s->m, region->fn);
    uint32_t here = 0;
    for (uint32_t r = 0; r < c->f->n_regions; r++) here += c->f->regions[r].fn == region->fn;
    if (body_size(s->m, g) > SMALL_BODY && HOP_MAX(here, simplifier_uses(s, region->fn)) > 1) return false;
    val *arguments = ARENA_NEW(&c->b->arena, val, g->n_params);
    for (uint32_t p = 0; p < g->n_params; p++) arguments[p] = c->values[node_region_operands(c->f, n, 0)[p]];
    inline_region(c, n, 0, arguments, results);
    return true;
}

uint32_t pass_inline(struct simplifier *s, uint32_t fn) { return rewrite_nodes(s, fn, wants_call, inline_rule, NULL); }
