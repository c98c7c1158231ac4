/* Pruning, for transforms: a function comes in with the results that are wanted, and goes out without
 * whatever they do not need, in one step and down to the bodies. Beside pass_dce it keeps every carry, so
 * that a loop stays the loop that a transform knows, and can drop effects as well. */
#include "ir/loop.h"
#include "transform/pass.h"
#include "transform/transform.h"

/* ---- what lives, results and operands of bodies included ---- */

/* What becomes of a live higher-order node. */
struct node_plan {
    bool live;
    bool *results;  /* kept, per result */
    bool *operands; /* kept, per operand */
    uint32_t *fns;  /* per region: the body that remains */
    bool count;     /* a loop that counts: the number of trips stays although nothing is stacked */
};
struct pruning {
    struct module *m;
    const struct fn *f;
    struct arena *arena;
    bool *values; /* used */
    struct node_plan *nodes;
    bool strip; /* effects keep nothing alive */
};

/* A function without some results, and which of its parameters stay. */
struct pruned {
    uint32_t fn;
    bool *params;
};
static const struct pruned *prune_body(struct module *m, uint32_t fn, const bool *results, uint32_t n_fed,
                                       bool strip);

/* Keeps the symbol bound: of the results whose types name it, one must stay. */
static void use_symbol(void *ctx, uint32_t symbol)
{
    struct pruning *l = ctx;
    if (symbol < l->f->n_outer_symbols) return;
    const struct node *n = fn_node(l->f, l->f->symbols[symbol].index);
    uint32_t bound;
    val candidate = VAL_NONE;
    for (uint32_t k = 0; k < n->n_results; k++) {
        struct type t = type_get(l->m, value_type(l->f, n->results + k));
        for (uint32_t i = 0; i < t.rank; i++)
            if (dim_is_symbol(l->m, t.dims[i], &bound) && bound == symbol) {
                if (l->values[n->results + k]) return;
                if (candidate == VAL_NONE) candidate = n->results + k;
            }
    }
    l->values[candidate] = true;
}

/* A node's results follow its last region's: carries (`next`), then what the row adds (a trip count), then
 * stacks; or plain yields. Only stacks and yields can go one by one. */
struct result_layout {
    uint32_t n_kept; /* carries */
    uint32_t first;  /* the first stack or yield among the node's results */
};
static struct result_layout layout_of(const struct module *m, const struct fn *f, const struct node *n)
{
    uint32_t last = n->n_regions - 1u, sizes[3] = { 0 };
    uint32_t n_body = module_fn(m, node_region(f, n, last)->fn)->n_results;
    uint32_t groups = sig_result_sizes(node_row(n), last, f->pool + n->groups, n_body, sizes);
    uint32_t kept = 0;
    if (groups > 1) kept = sizes[0];
    else if (!strcmp(sig_region(node_row(n), last)->results[0], "next")) kept = n_body;
    return (struct result_layout){ kept, n->n_results - (n_body - kept) };
}

static void plan_higher(struct pruning *l, const struct node *n, struct node_plan *plan)
{
    const struct op_row *row = node_row(n);
    struct result_layout at = layout_of(l->m, l->f, n);
    plan->results = ARENA_NEW(l->arena, bool, n->n_results);
    plan->operands = ARENA_NEW(l->arena, bool, n->n_operands);
    plan->fns = ARENA_NEW(l->arena, uint32_t, n->n_regions);
    bool any = false;
    for (uint32_t k = at.first; k < n->n_results; k++) any |= plan->results[k] = l->values[n->results + k];
    for (uint32_t k = 0; k < at.n_kept; k++) plan->results[k] = true;
    for (uint32_t k = at.n_kept; k < at.first; k++)
        plan->results[k] = plan->count = any || l->values[n->results + k];
    memset(plan->operands, true, n->n_operands);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct region *g = node_region(l->f, n, r);
        const struct fn *body = module_fn(l->m, g->fn);
        bool shrinks = !sig_region(row, r)->word[0] ||
                       r == n->n_regions - 1u; /* a predicate keeps its result */
        bool *keep = ARENA_NEW(l->arena, bool, body->n_results);
        for (uint32_t k = 0; k < body->n_results; k++)
            keep[k] = !shrinks || k < at.n_kept || plan->results[at.first + k - at.n_kept];
        uint32_t fed = body->n_params - g->n_operands;
        const struct pruned *inner = prune_body(l->m, g->fn, keep, fed, l->strip);
        for (uint32_t k = 0; k < g->n_operands; k++) plan->operands[g->operands + k] = inner->params[fed + k];
        plan->fns[r] = inner->fn;
    }
}

static void find_live(struct pruning *l, const bool *results)
{
    const struct fn *f = l->f;
    struct symbol_walk walk = { use_symbol, l };
    l->values = ARENA_ZNEW(l->arena, bool, f->n_values);
    l->nodes = ARENA_ZNEW(l->arena, struct node_plan, f->n_nodes);
    for (uint32_t k = 0; k < f->n_results; k++)
        if (results[k]) {
            l->values[f->results[k]] = true;
            type_symbols(l->m, value_type(f, f->results[k]), &walk);
        }
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        struct node_plan *plan = &l->nodes[i];
        plan->live = !l->strip && node_effects(l->m, f, n);
        for (uint32_t k = 0; k < n->n_results; k++) plan->live |= l->values[n->results + k];
        if (!plan->live) continue;
        if (n->n_regions) plan_higher(l, n, plan);
        for (uint32_t k = 0; k < n->n_operands; k++)
            if (!plan->operands || plan->operands[k]) l->values[node_operands(f, n)[k]] = true;
        node_symbols(l->m, f, n, &walk);
        for (uint32_t k = 0; k < n->n_results; k++)
            if (!plan->results || plan->results[k]) type_symbols(l->m, value_type(f, n->results + k), &walk);
    }
}

/* ---- rebuilding with what lives ---- */

static bool plan_changes(const struct pruning *l, const struct node *n, const struct node_plan *plan)
{
    if (!plan->live) return true;
    if (!n->n_regions) return false;
    for (uint32_t k = 0; k < n->n_results; k++)
        if (!plan->results[k]) return true;
    for (uint32_t r = 0; r < n->n_regions; r++)
        if (plan->fns[r] != node_region(l->f, n, r)->fn) return true;
    return false;
}

static void copy_planned(struct copier *c, const struct node *n, const struct node_plan *plan)
{
    struct arena *arena = &c->b->arena;
    struct node_in in = copier_node_in(c, n);
    struct region_in *regions = arena_copy(arena, in.regions, n->n_regions * sizeof *regions);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        val *operands = ARENA_NEW(arena, val, regions[r].n_operands);
        const bool *planned = plan->operands + node_region(c->f, n, r)->operands;
        uint32_t kept = 0;
        for (uint32_t k = 0; k < regions[r].n_operands; k++)
            if (planned[k]) operands[kept++] = regions[r].operands[k];
        regions[r].fn = plan->fns[r];
        regions[r].operands = operands;
        regions[r].n_operands = kept;
    }
    in.regions = regions;
    const struct loop_row *loop = node_row(n)->loop;
    /* The trips are a result when asked for or when anything is stacked: now it must be said. */
    if (loop && loop->attr.count) {
        struct attr *attrs = arena_copy(arena, in.attrs, node_row(n)->sig.n_attrs * sizeof *attrs);
        attrs[loop->attr.count - 1] = A_FLAG(plan->count);
        in.attrs = attrs;
    }
    val next = builder_node(c->b, &in);
    val *results = ARENA_NEW(arena, val, n->n_results);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = plan->results[k] ? next++ : VAL_NONE;
    copier_bind(c, n, results);
}

static void copy_live(struct copier *c, const struct pruning *l)
{
    for (uint32_t i = 0; i < l->f->n_required; i++)
        builder_require(c->b, copier_dim(c, l->f->required[i].a), copier_dim(c, l->f->required[i].b),
                        "requirement");
    for (uint32_t i = 0; i < l->f->n_nodes; i++) {
        const struct node *n = fn_node(l->f, i);
        if (!l->nodes[i].live) continue;
        if (plan_changes(l, n, &l->nodes[i])) {
            /* operands that went are not there to be mapped */
            for (uint32_t k = 0; k < n->n_operands; k++) {
                val *x = &c->values[node_operands(l->f, n)[k]];
                if (!l->nodes[i].operands[k] && *x == VAL_NONE) *x = 0;
            }
            copy_planned(c, n, &l->nodes[i]);
        } else {
            copier_node(c, n);
        }
    }
}

static uint32_t rebuild(struct pruning *l, const bool *results, const bool *params)
{
    struct builder b;
    struct copier c;
    const struct fn *f = l->f;
    builder_begin(&b, l->m, f);
    copier_begin(&c, &b, f);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (params[p]) c.values[p] = builder_param(&b, copier_type(&c, value_type(f, p)), f->values[p].name);
    copy_live(&c, l);
    val *out = ARENA_NEW(&b.arena, val, f->n_results);
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->n_results; k++)
        if (results[k]) out[n++] = c.values[f->results[k]];
    return builder_finish(&b, out, n);
}

/* Own operands (parameters from n_fed on) that nothing reads go too. Made once for each (function, results).
 */
static const struct pruned *prune_body(struct module *m, uint32_t fn, const bool *results, uint32_t n_fed,
                                       bool strip)
{
    hop_check_stack();
    const struct fn *f = module_fn(m, fn);
    bool *mask = ARENA_NEW(&m->arena, bool, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) mask[k] = !results || results[k];
    uint64_t word = (uint64_t)n_fed << 1 | strip;
    struct pruned *out = transform_recall(m, MEMO_PRUNE, fn, word, mask, f->n_results);
    if (out) return out;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct pruning l = { .m = m, .f = f, .arena = &arena, .strip = strip };
    find_live(&l, mask);
    out = ARENA_NEW(&m->arena, struct pruned, 1);
    *out = (struct pruned){ fn, ARENA_NEW(&m->arena, bool, f->n_params) };
    bool changes = false;
    for (uint32_t p = 0; p < f->n_params; p++) changes |= !(out->params[p] = p < n_fed || l.values[p]);
    for (uint32_t k = 0; k < f->n_results; k++) changes |= !mask[k];
    for (uint32_t i = 0; i < f->n_nodes && !changes; i++)
        changes = plan_changes(&l, fn_node(f, i), &l.nodes[i]);
    if (changes) out->fn = rebuild(&l, mask, out->params);
    transform_remember(m, MEMO_PRUNE, fn, word, mask, f->n_results, out);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

uint32_t prune_function(struct module *m, uint32_t fn, const bool *keep)
{
    return prune_body(m, fn, keep, HOP_NONE, false)->fn;
}
uint32_t strip_effects(struct module *m, uint32_t fn, const bool *keep)
{
    return keep || module_fn(m, fn)->effects ? prune_body(m, fn, keep, HOP_NONE, true)->fn : fn;
}
