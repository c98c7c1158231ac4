/* Hoisting: what a loop body computes from its invariant operands alone is computed once in front of the
 * loop, a stacked result that is the same in every step becomes a broadcast, and an invariant factor of a
 * product is laid out so that the body streams through it. */
#include "loop/lower.h"
#include "ops/dot.h"
#include "transform/pass.h"

enum { SHARED_MATRIX = 32768 }; /* elements of a view that products share */

/* ---- what is worth moving ---- */

static bool is_array(struct module *m, type_id t)
{
    int64_t n = static_elements(m, t);
    return n < 0 || n > 1;
}

/* Costs nothing where it is read: numbers, views, repetition. */
static bool is_free(const struct fn *f, val v)
{
    uint32_t i = f->values[v].node;
    if (i == NODE_NONE) return false;
    const struct node *n = fn_node(f, i);
    const struct op_lower *lower = node_row(n)->lower;
    if (!n->n_operands) return true;
    return lower && lower->kind == LOWER_POINTWISE && lower->cost != COST_EXPENSIVE &&
           lower->access == ACCESS_REPEAT;
}

/* Does computing the node once save more than reading its stored result costs? */
static bool worth_moving(struct module *m, const struct fn *f, const struct node *n)
{
    const struct op_lower *lower = node_row(n)->lower;
    if (!n->n_operands) return false;
    if (!lower || lower->kind != LOWER_POINTWISE || lower->cost == COST_EXPENSIVE) return true;
    type_id type = value_type(f, n->results);
    switch (lower->access) {
    case ACCESS_REPEAT: return false;
    case ACCESS_GATHER: return is_array(m, type);
    case ACCESS_VIEW:
        return (node_transposes(n) || n->n_operands > 1) && is_array(m, type); /* concat and pad, too */
    default: break;
    }
    if (!is_array(m, type)) return false;
    for (uint32_t k = 0; k < n->n_operands;
         k++) /* an elementwise node over repeated values only would be stored larger than what it reads */
        if (!is_free(f, node_operands(f, n)[k])) return true;
    return false;
}

/* Marks the invariant values worth moving among those that v, read by a node that stays, is made of. */
static void choose(struct module *m, const struct fn *f, const struct body_values *body, val v, bool *chosen,
                   bool *seen)
{
    if (!is_invariant(body, v) || seen[v] || f->values[v].node == NODE_NONE) return;
    const struct node *n = fn_node(f, f->values[v].node);
    seen[v] = true;
    if (worth_moving(m, f, n)) {
        chosen[v] = true;
        return;
    }
    for (uint32_t k = 0; k < n->n_operands; k++) choose(m, f, body, node_operands(f, n)[k], chosen, seen);
}

/* Is it read where an invariant value lies, as a matrix of stacked weights is? In front of the loop it is one
 * array that all steps share, which products take as it is or put into panels once. */
static bool is_shared_matrix(struct module *m, const struct fn *f, const struct body_values *body, val v)
{
    if (!is_invariant(body, v) || f->values[v].node == NODE_NONE) return false;
    const struct node *n = fn_node(f, f->values[v].node);
    const struct op_lower *lower = node_row(n)->lower;
    dim at;
    return static_elements(m, value_type(f, v)) >= SHARED_MATRIX && lower && lower->run &&
           lower->run(m, f, n, &at);
}

static const bool *chosen_values(struct arena *a, struct module *m, const struct fn *f,
                                 const struct body_values *body)
{
    bool *chosen = ARENA_ZNEW(a, bool, f->n_values), *seen = ARENA_ZNEW(a, bool, f->n_values);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (n->n_results && is_invariant(body, n->results)) continue;
        for (uint32_t k = 0; k < n->n_operands; k++) {
            val v = node_operands(f, n)[k];
            if (node_is_product(n) && is_shared_matrix(m, f, body, v)) chosen[v] = true;
            else choose(m, f, body, v, chosen, seen);
        }
    }
    for (uint32_t k = 0; k < f->n_results; k++) choose(m, f, body, f->results[k], chosen, seen);
    return chosen;
}

/* ---- layout ---- */

static bool contains(const uint32_t *list, uint32_t n, uint32_t what)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == what) return true;
    return false;
}

/* A factor whose rows run along the contracted dim becomes one whose rows run along the result: batch,
 * contracted, free dims. */
static bool layout_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    const struct body_values *body = ctx;
    const val *x = node_operands(c->f, n);
    struct dot_dims d;
    dot_dims(s->m, c->f, n, &d);
    uint32_t rank[2] = { type_get(s->m, value_type(c->f, x[0])).rank,
                         type_get(s->m, value_type(c->f, x[1])).rank };
    bool rhs = d.n_rhs_free > 0;
    uint32_t *batch = rhs ? d.batch_rhs : d.batch_lhs;
    uint32_t *contract = rhs ? d.contract_rhs : d.contract_lhs;
    uint32_t *free = rhs ? d.rhs_free : d.lhs_free;
    uint32_t n_free = rhs ? d.n_rhs_free : d.n_lhs_free;
    if (!d.n_contract || !n_free || !is_invariant(body, x[rhs])) return false;
    if (!contains(contract, d.n_contract, rank[rhs] - 1)) return false;
    uint32_t at = 0, order[MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < d.n_batch; i++) {
        order[at++] = batch[i];
        batch[i] = i;
    }
    for (uint32_t i = 0; i < d.n_contract; i++) {
        order[at++] = contract[i];
        contract[i] = d.n_batch + i;
    }
    for (uint32_t i = 0; i < n_free; i++) order[at++] = free[i];
    val operands[2] = { c->values[x[0]], c->values[x[1]] };
    operands[rhs] = emit_permute(c->b, operands[rhs], order);
    enum dtype t = (enum dtype)type_get(s->m, value_type(c->f, n->results)).dtype;
    results[0] = emit_dot_to(c->b, t, operands[0], operands[1], d.batch_lhs, d.batch_rhs, d.n_batch,
                             d.contract_lhs, d.contract_rhs, d.n_contract);
    return true;
}

/* The loop with its body laid out anew. */
static bool layout_body(struct simplifier *s, struct arena *a, struct loop *l)
{
    struct body_values values = body_values(a, s->m, l->body, l->n_carry, loop_first_with(l));
    uint32_t body = rewrite_nodes(s, l->body->id, node_is_product, layout_rule, &values);
    if (body == l->body->id) return false;
    l->body = module_fn(s->m, body);
    return true;
}

/* ---- the pass ---- */

/* associative_scan: what its function computes from its own operands alone. */
static bool hoist_totals(struct simplifier *s, struct copier *c, const struct node *n, val *results)
{
    struct arena *a = &c->b->arena;
    const struct fn *g = module_fn(s->m, node_region(c->f, n, 0)->fn);
    uint32_t first_own = 2 * node_group_size(c->f, n, 0), n_own;
    struct body_values values = body_values(a, s->m, g, first_own, first_own);
    const bool *chosen = chosen_values(a, s->m, g, &values);
    struct copier inner = region_copier(c, n, 0);
    vec(struct given) with = { 0 };
    for (val v = 0; v < g->n_values; v++)
        if (chosen[v]) vec_push(a, &with, (struct given){ v, copy_cone(&inner, v) });
    if (!with.len) return false;
    struct node_in in = copier_node_in(c, n);
    val *own = ARENA_NEW(a, val, g->n_params + with.len);
    uint32_t fn = region_build(s->m,
                               &(struct region_plan){ .g = g,
                                                      .n_carry = first_own,
                                                      .params = ARENA_ZNEW(a, struct param_plan, g->n_params),
                                                      .with = with.data,
                                                      .n_with = with.len,
                                                      .wanted = g->results,
                                                      .n_wanted = g->n_results,
                                                      .own = in.regions[0].operands },
                               own, &n_own);
    struct region_in region = { fn, own, n_own, in.regions[0].dims };
    in.regions = &region;
    val first = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    return true;
}

static bool hoist_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct loop l;
    struct arena *a = &c->b->arena;
    HOP_UNUSED(ctx);
    if (node_row(n)->control == CONTROL_TOTALS) return hoist_totals(s, c, n, results);
    if (!loop_of_node(s->m, c->f, n, &l)) return false;
    bool changed = layout_body(s, a, &l);
    struct loop_plan p = plan_new(a, &l);
    struct body_values values = body_values(a, s->m, l.body, l.n_carry, loop_first_with(&l)), cond_values;
    const bool *body = chosen_values(a, s->m, l.body, &values), *cond = NULL;
    if (l.cond) {
        cond_values = body_values(a, s->m, l.cond, l.n_carry, l.n_carry);
        cond = chosen_values(a, s->m, l.cond, &cond_values);
    }
    struct copier from_body = region_copier_of(c, n, l.body_region, l.body), from_cond = { 0 };
    if (l.cond) from_cond = region_copier(c, n, l.cond_region);
    for (val v = 0; v < l.body->n_values; v++)
        if (body[v]) vec_push(a, &p.body_with, (struct given){ v, copy_cone(&from_body, v) });
    for (val v = 0; l.cond && v < l.cond->n_values; v++)
        if (cond[v]) vec_push(a, &p.cond_with, (struct given){ v, copy_cone(&from_cond, v) });
    changed |= p.body_with.len || p.cond_with.len;
    val *same = ARENA_NEW(a, val, l.n_stack);
    for (uint32_t k = 0; k < l.n_stack; k++) {
        val v = l.body->results[l.n_carry + k];
        same[k] = VAL_NONE;
        if (!loop_has_length(&l) || !is_invariant(&values, v)) continue;
        same[k] = copy_cone(&from_body, v);
        p.keep_stack[k] = false;
        changed = true;
    }
    if (!changed) return false;
    plan_build(c, &l, &p);
    memcpy(results, p.results, n->n_results * sizeof *results);
    for (uint32_t k = 0; k < l.n_stack; k++)
        if (same[k] != VAL_NONE)
            results[loop_stack_result(&l, k)] = emit_broadcast_front(c->b, same[k], copier_dim(c, l.length));
    return true;
}

static bool wants_hoist(const struct node *n)
{
    return node_is_loop(n) || node_row(n)->control == CONTROL_TOTALS;
}

uint32_t pass_hoist(struct simplifier *s, uint32_t fn)
{
    return rewrite_nodes(s, fn, wants_hoist, hoist_rule, NULL);
}
