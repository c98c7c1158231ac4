/* Dead code: nodes nobody needs, and what higher-order nodes carry along for nobody: results of branches and
 * calls, carries, slices, stacked results, operands that a body does not read, operands given twice. */
#include "transform/pass.h"

struct dce {
    struct liveness live;     /* of the function */
    bool *used;               /* per value: somebody reads it, or it is needed to know a size */
    const bool *const *calls; /* per function of the module: results that some call of it here reads; NULL:
                                 not called here */
    bool changed;
};

/* ---- loops ---- */

/* Follows what wanted carries and stacks read until no further carry becomes wanted; is any? */
static bool close_carries(struct arena *a, const struct module *m, const struct loop *l, bool *wanted,
                          struct liveness *live)
{
    bool any = false;
    for (bool more = true; more;) {
        more = false;
        *live = live_values(a, m, l->body, wanted, NULL, NULL);
        for (uint32_t i = 0; i < l->n_carry; i++)
            if (live->value[i] && !wanted[i]) wanted[i] = more = true;
    }
    for (uint32_t i = 0; i < l->n_carry; i++) any |= wanted[i];
    return any;
}

/* Which carries, stacks and operands somebody needs; fills the plan's fates. */
static void live_carries(struct arena *a, const struct module *m, const struct loop *l, const struct dce *d,
                         struct loop_plan *p)
{
    const struct fn *body = l->body;
    bool *wanted = ARENA_ZNEW(a, bool, body->n_results);
    struct liveness cond = { 0 }, live;
    for (uint32_t i = 0; i < l->n_carry; i++) wanted[i] = d->used[l->n->results + i];
    for (uint32_t k = 0; k < l->n_stack; k++)
        wanted[l->n_carry + k] = p->keep_stack[k] = d->used[l->n->results + loop_stack_result(l, k)];
    if (l->cond) cond = live_values(a, m, l->cond, NULL, NULL, NULL);
    for (uint32_t i = 0; l->cond && i < l->n_carry; i++) wanted[i] |= cond.value[i];
    if (!close_carries(a, m, l, wanted, &live) && l->cond && l->n_carry) {
        wanted[0] = true; /* a while_loop has a carry, and what its next value reads */
        close_carries(a, m, l, wanted, &live);
    }
    for (uint32_t i = 0; i < body->n_params; i++) {
        bool index = l->kind == LOOP_COUNTED && loop_is_over(l, i); /* is there anyway */
        bool keep = i < l->n_carry ? wanted[i] : live.value[i] || index;
        if (!keep) p->body[i].fate = PARAM_DROP;
    }
    for (uint32_t i = l->n_carry; l->cond && i < l->cond->n_params; i++)
        if (!cond.value[i]) p->cond[i].fate = PARAM_DROP;
    p->count_used = l->counts && d->used[l->n->results + loop_trips_result(l)];
}

/* Parameters of [from, from + n) whose operand an earlier kept one has too. `operands` are values of the
 * builder, one for each. */
static void merge_operands(struct param_plan *plan, const val *operands, uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i < from + n; i++)
        for (uint32_t k = from; k < i && plan[i].fate == PARAM_KEEP; k++)
            if (plan[k].fate == PARAM_KEEP && operands[k - from] == operands[i - from])
                plan[i] = (struct param_plan){ .fate = PARAM_ALIAS, .of = k };
}

static const val *mapped_values(const struct copier *c, const val *values, uint32_t n)
{
    val *mapped = ARENA_NEW(&c->b->arena, val, n);
    for (uint32_t i = 0; i < n; i++) mapped[i] = c->values[values[i]];
    return mapped;
}

static bool plan_changes(const struct loop *l, const struct loop_plan *p)
{
    for (uint32_t i = 0; i < l->body->n_params; i++)
        if (p->body[i].fate != PARAM_KEEP) return true;
    for (uint32_t i = l->n_carry; l->cond && i < l->cond->n_params; i++)
        if (p->cond[i].fate != PARAM_KEEP) return true;
    for (uint32_t k = 0; k < l->n_stack; k++)
        if (!p->keep_stack[k]) return true;
    return l->counts && !l->n_stack && !p->count_used;
}

static bool trim_loop(struct copier *c, const struct loop *l, const struct dce *d, val *results)
{
    struct arena *a = &c->b->arena;
    struct loop_plan p = plan_new(a, l);
    live_carries(a, c->b->m, l, d, &p);
    if (loop_has_length(l))
        merge_operands(p.body, mapped_values(c, l->over, l->n_over), l->n_carry, l->n_over);
    merge_operands(p.body, mapped_values(c, l->with, l->n_with), loop_first_with(l), l->n_with);
    if (l->cond)
        merge_operands(p.cond, mapped_values(c, l->cond_with, l->n_cond_with), l->n_carry, l->n_cond_with);
    if (!plan_changes(l, &p)) return false;
    plan_build(c, l, &p);
    memcpy(results, p.results, l->n->n_results * sizeof *results);
    return true;
}

/* ---- branches and calls ---- */

/* The region's function with some results and parameters left out; *own: the operands it still takes. */
static uint32_t trim_region(struct copier *c, const struct node *n, uint32_t r, const bool *keep, val *own,
                            uint32_t *n_own, bool *changed)
{
    const struct fn *g = module_fn(c->b->m, node_region(c->f, n, r)->fn);
    const val *operands = node_region_operands(c->f, n, r);
    struct arena *a = &c->b->arena;
    struct liveness live = live_values(a, c->b->m, g, keep, NULL, NULL);
    struct param_plan *plan = ARENA_ZNEW(a, struct param_plan, g->n_params);
    val *mapped = ARENA_NEW(a, val, g->n_params);
    bool trims = false;
    for (uint32_t i = 0; i < g->n_params; i++) {
        mapped[i] = c->values[operands[i]];
        if (!live.value[i]) plan[i].fate = PARAM_DROP;
    }
    /* A call that merged its operands would no longer share its body. */
    if (node_row(n)->control == CONTROL_CHOICE) merge_operands(plan, mapped, 0, g->n_params);
    *n_own = g->n_params;
    for (uint32_t i = 0; i < g->n_params; i++) {
        own[i] = mapped[i];
        trims |= plan[i].fate != PARAM_KEEP;
    }
    for (uint32_t k = 0; k < g->n_results; k++) trims |= !keep[k];
    *changed |= trims;
    if (!trims) return g->id;
    val *wanted = ARENA_NEW(a, val, g->n_results);
    uint32_t n_wanted = 0;
    for (uint32_t k = 0; k < g->n_results; k++)
        if (keep[k]) wanted[n_wanted++] = g->results[k];
    struct region_plan trimmed = {
        .g = g, .params = plan, .wanted = wanted, .n_wanted = n_wanted, .own = mapped
    };
    return region_build(c->b->m, &trimmed, own, n_own);
}

/* Choices and calls: node results are the results of every region. */
static bool trim_branches(struct copier *c, const struct node *n, const bool *keep, val *results)
{
    struct arena *a = &c->b->arena;
    struct node_in in = copier_node_in(c, n);
    struct region_in *regions = ARENA_NEW(a, struct region_in, n->n_regions);
    bool changed = false;
    for (uint32_t r = 0; r < n->n_regions; r++) {
        val *own = ARENA_NEW(a, val, in.regions[r].n_operands);
        uint32_t n_own, fn = trim_region(c, n, r, keep, own, &n_own, &changed);
        regions[r] = (struct region_in){ fn, own, n_own, in.regions[r].dims };
    }
    if (!changed) return false;
    in.regions = regions;
    val next = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = keep[k] ? next++ : VAL_NONE;
    return true;
}

/* ---- running totals ---- */

/* An array goes when nobody reads its totals and no total that stays is made of it.
 * Parameters: left…, right…, own. */
static bool trim_totals(struct copier *c, const struct node *n, const bool *used, val *results)
{
    struct arena *a = &c->b->arena;
    struct node_in in = copier_node_in(c, n);
    const struct region_in *r = &in.regions[0];
    const struct fn *g = module_fn(c->b->m, r->fn);
    uint32_t n_leaves = in.groups[0], n_kept = 0;
    bool *wanted = arena_copy(a, used, n_leaves * sizeof *wanted), changed = false;
    struct liveness live;
    for (bool more = true; more;) {
        more = false;
        live = live_values(a, c->b->m, g, wanted, NULL, NULL);
        bool any = false;
        for (uint32_t k = 0; k < n_leaves; k++) {
            if ((live.value[k] || live.value[n_leaves + k]) && !wanted[k]) wanted[k] = more = true;
            any |= wanted[k];
        }
        if (!any) wanted[0] = more = true; /* checks keep it: it must have an array */
    }
    for (uint32_t k = 0; k < n_leaves; k++) n_kept += wanted[k];
    struct param_plan *plan = ARENA_ZNEW(a, struct param_plan, g->n_params);
    for (uint32_t p = 0; p < g->n_params; p++) {
        bool keep = p < 2 * n_leaves ? wanted[p % n_leaves] : live.value[p];
        if (!keep) plan[p].fate = PARAM_DROP;
    }
    merge_operands(plan, r->operands, 2 * n_leaves, g->n_params - 2 * n_leaves);
    for (uint32_t p = 0; p < g->n_params; p++) changed |= plan[p].fate != PARAM_KEEP;
    if (!changed) return false;
    val *kept = ARENA_NEW(a, val, n_kept);
    val *operands = ARENA_NEW(a, val, n_kept);
    val *own = ARENA_NEW(a, val, g->n_params);
    uint32_t at = 0, n_own;
    for (uint32_t k = 0; k < n_leaves; k++) {
        if (!wanted[k]) continue;
        kept[at] = g->results[k];
        operands[at] = in.operands[k];
        at++;
    }
    uint32_t fn = region_build(c->b->m,
                               &(struct region_plan){ .g = g,
                                                      .n_carry = 2 * n_leaves,
                                                      .params = plan,
                                                      .wanted = kept,
                                                      .n_wanted = n_kept,
                                                      .own = r->operands },
                               own, &n_own);
    struct region_in region = { fn, own, n_own, r->dims };
    in.operands = operands;
    in.n_operands = n_kept;
    in.groups = &n_kept;
    in.regions = &region;
    val next = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n_leaves; k++) results[k] = wanted[k] ? next++ : VAL_NONE;
    return true;
}

/* ---- the pass ---- */

static bool dce_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct dce *d = ctx;
    struct loop l;
    if (!d->live.node[n - c->f->nodes]) {
        for (uint32_t k = 0; k < n->n_results; k++) results[k] = VAL_NONE;
        return true;
    }
    if (loop_of_node(s->m, c->f, n, &l)) return trim_loop(c, &l, d, results);
    switch (node_row(n)->control) {
    case CONTROL_TOTALS: return trim_totals(c, n, d->used + n->results, results);
    case CONTROL_CHOICE: return trim_branches(c, n, d->used + n->results, results);
    case CONTROL_CALL: return trim_branches(c, n, d->calls[node_region(c->f, n, 0)->fn], results);
    default: return false;
    }
}

/* A size that a node finds out must stay known: if no used result of the node has it as a dim, the first that
 * does counts as used. */
static void use_sizes(const struct module *m, const struct fn *f, struct dce *d)
{
    for (uint32_t s = f->n_outer_symbols; s < f->n_symbols; s++) {
        const struct node *n = fn_node(f, f->symbols[s].index);
        if (!d->live.symbol[s]) continue;
        val first = VAL_NONE;
        bool known = false;
        for (uint32_t k = 0; k < n->n_results; k++) {
            struct type t = type_get(m, value_type(f, n->results + k));
            uint32_t symbol;
            for (uint32_t i = 0; i < t.rank; i++)
                if (dim_is_symbol(m, t.dims[i], &symbol) && symbol == s) {
                    known |= d->used[n->results + k];
                    if (first == VAL_NONE) first = n->results + k;
                }
        }
        if (!known && first != VAL_NONE) d->used[first] = true;
    }
}

/* Calls of one body must go on sharing it, so a result is dropped only where no call of it in this function
 * reads it, and only when all its calls are here. */
static const bool *const *call_uses(struct simplifier *s, struct arena *a, const struct fn *f,
                                    const struct dce *d)
{
    bool **calls = ARENA_ZNEW(a, bool *, s->m->fns.len);
    uint32_t *count = ARENA_ZNEW(a, uint32_t, s->m->fns.len);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (node_row(n)->control != CONTROL_CALL || !d->live.node[i]) continue;
        uint32_t g = node_region(f, n, 0)->fn;
        if (!calls[g]) calls[g] = ARENA_ZNEW(a, bool, n->n_results);
        for (uint32_t k = 0; k < n->n_results; k++) calls[g][k] |= d->used[n->results + k];
        count[g]++;
    }
    for (uint32_t g = 0; g < s->m->fns.len; g++)
        if (calls[g] && simplifier_uses(s, g) > count[g])
            memset(calls[g], true, module_fn(s->m, g)->n_results);
    return (const bool *const *)calls;
}

uint32_t pass_dce(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    struct dce d = { .live = live_values(&scratch, s->m, f, NULL, NULL, NULL) };
    bool work = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) work |= !d.live.node[i] || wants_higher(fn_node(f, i));
    uint32_t out = fn;
    if (work) {
        d.used = arena_copy(&scratch, d.live.value, f->n_values * sizeof *d.used);
        use_sizes(s->m, f, &d);
        d.calls = call_uses(s, &scratch, f, &d);
        out = rewrite_nodes(s, fn, NULL, dce_rule, &d);
    }
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    return out;
}
