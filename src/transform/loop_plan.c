/* Loops as the passes change them: a plan (which carries, slices, operands and stacks stay, what comes in
 * from outside, what is stacked besides) from which the changed loop is built. */
#include "transform/pass.h"

struct loop_plan plan_new(struct arena *a, const struct loop *l)
{
    struct loop_plan p = { .body = ARENA_ZNEW(a, struct param_plan, l->body->n_params),
                           .keep_stack = ARENA_NEW(a, bool, l->n_stack) };
    if (l->cond) p.cond = ARENA_ZNEW(a, struct param_plan, l->cond->n_params);
    for (uint32_t k = 0; k < l->n_stack; k++) p.keep_stack[k] = true;
    p.count_used = true;
    return p;
}

/* ---- building ---- */

static void add_param(struct copier *c, uint32_t i)
{
    c->values[i] = builder_param(c->b, copier_type(c, value_type(c->f, i)), c->f->values[i].name);
}

static void add_params(struct copier *c, const struct region_plan *p, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (p->params[i].fate == PARAM_KEEP) add_param(c, i);
}

static void add_given(struct copier *c, const struct given *given, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) add_param(c, given[i].inner);
}

static void copy_live_nodes(struct copier *c, const struct region_plan *p)
{
    const struct fn *g = p->g;
    struct arena *a = &c->b->arena;
    bool *given = ARENA_ZNEW(a, bool, g->n_values);
    val *alias = ARENA_NEW(a, val, g->n_values), *fixed = ARENA_NEW(a, val, g->n_values);
    memset(alias, 0xff, g->n_values * sizeof *alias);
    for (uint32_t i = 0; i < p->n_aliases; i++) alias[p->aliases[i].inner] = p->aliases[i].same;
    for (uint32_t v = 0; v < g->n_values; v++) given[v] = v >= g->n_params && c->values[v] != VAL_NONE;
    if (g->n_values) memcpy(fixed, c->values, g->n_values * sizeof *fixed);
    /* The wanted values take the place of the results for the liveness of the nodes. */
    struct fn view = *g;
    view.results = (val *)p->wanted;
    view.n_results = p->n_wanted;
    struct needs needs = { .given = given, .alias = alias };
    struct liveness live = live_values(a, c->b->m, &view, needs);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        if (live.node[i]) copier_node(c, n);
        for (uint32_t k = 0; k < n->n_results; k++) {
            val v = n->results + k;
            if (given[v]) c->values[v] = fixed[v];
            else if (alias[v] != VAL_NONE) c->values[v] = c->values[alias[v]];
        }
    }
}

uint32_t region_build(struct module *m, const struct region_plan *p, val *own, uint32_t *n_own)
{
    const struct fn *g = p->g;
    struct builder b;
    struct copier c;
    uint32_t first_with = p->n_carry + p->n_over, n = 0;
    builder_begin(&b, m, g);
    copier_begin(&c, &b, g);
    add_params(&c, p, 0, first_with);
    add_given(&c, p->over, p->n_new_over);
    for (uint32_t i = first_with; i < g->n_params; i++)
        if (p->params[i].fate == PARAM_KEEP) own[n++] = p->own[i - first_with];
    add_params(&c, p, first_with, g->n_params);
    for (uint32_t i = 0; i < g->n_params; i++)
        if (p->params[i].fate == PARAM_WITH) {
            c.values[i] = builder_param(&b, copier_type(&c, value_type(g, i)), g->values[i].name);
            own[n++] = p->params[i].outer;
        }
    for (uint32_t i = 0; i < p->n_with; i++) own[n++] = p->with[i].outer;
    add_given(&c, p->with, p->n_with);
    for (uint32_t i = 0; i < g->n_params; i++) {
        if (p->params[i].fate != PARAM_FULL) continue;
        struct type t = type_get(m, copier_type(&c, value_type(g, i)));
        struct attr attrs[3] = { p->params[i].value, A_DIMS(t.dims, t.rank), A_DTYPE(t.dtype) };
        c.values[i] = emit(&b, OP_full, NULL, 0, attrs);
    }
    for (uint32_t i = 0; i < g->n_params; i++) {
        uint32_t of = i;
        while (p->params[of].fate == PARAM_ALIAS) of = p->params[of].of;
        if (of != i) c.values[i] = c.values[of];
    }
    copy_requires(&c);
    copy_live_nodes(&c, p);
    val *results = ARENA_NEW(&b.arena, val, p->n_wanted);
    for (uint32_t k = 0; k < p->n_wanted; k++) results[k] = c.values[p->wanted[k]];
    *n_own = n;
    return builder_finish(&b, results, p->n_wanted);
}

static val plan_final(const struct loop_plan *p, uint32_t carry, const val *kept)
{
    while (p->body[carry].fate == PARAM_ALIAS) carry = p->body[carry].of;
    const struct param_plan *plan = &p->body[carry];
    if (plan->fate == PARAM_WITH) return plan->outer;
    return plan->fate == PARAM_KEEP ? kept[carry] : VAL_NONE;
}

/* The values of the body that become its results: next carries that stay, then rows of stacks. */
static uint32_t plan_wanted(const struct loop *l, const struct loop_plan *p, val *wanted)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n_carry; i++)
        if (p->body[i].fate == PARAM_KEEP) wanted[n++] = l->body->results[i];
    for (uint32_t k = 0; k < l->n_stack; k++)
        if (p->keep_stack[k]) wanted[n++] = l->body->results[l->n_carry + k];
    for (uint32_t k = 0; k < p->stacks.len; k++) wanted[n++] = p->stacks.data[k];
    return n;
}

/* A region with room for its own operands, which the plan may add to. */
static struct region_in plan_region(struct builder *b, const struct region_plan *p, const dim *dims)
{
    val *own = ARENA_NEW(&b->arena, val, p->g->n_params + p->n_with);
    uint32_t n_own = 0, fn = region_build(b->m, p, own, &n_own);
    return (struct region_in){ fn, own, n_own, dims };
}

static struct region_in plan_body(struct builder *b, const struct loop *l, const struct loop_plan *p)
{
    val *wanted = ARENA_NEW(&b->arena, val, l->body->n_results + p->stacks.len);
    uint32_t n_wanted = plan_wanted(l, p, wanted);
    struct region_plan body = { .g = l->body,
                                .n_carry = l->n_carry,
                                .n_over = l->n_over,
                                .params = p->body,
                                .with = p->body_with.data,
                                .n_with = p->body_with.len,
                                .over = p->over.data,
                                .n_new_over = p->over.len,
                                .aliases = p->aliases.data,
                                .n_aliases = p->aliases.len,
                                .wanted = wanted,
                                .n_wanted = n_wanted,
                                .own = l->with };
    return plan_region(b, &body, l->dims);
}

static struct region_in plan_cond(struct builder *b, const struct loop *l, const struct loop_plan *p)
{
    memcpy(p->cond, p->body, l->n_carry * sizeof *p->cond);
    struct region_plan cond = { .g = l->cond,
                                .n_carry = l->n_carry,
                                .params = p->cond,
                                .with = p->cond_with.data,
                                .n_with = p->cond_with.len,
                                .wanted = l->cond->results,
                                .n_wanted = l->cond->n_results,
                                .own = l->cond_with };
    return plan_region(b, &cond, l->cond_dims);
}

/* The carries and slices of `l` that stay, and those that come. */
static void plan_operands(struct builder *b, const struct loop *l, const struct loop_plan *p,
                          struct loop *made)
{
    val *carry = ARENA_NEW(&b->arena, val, l->n_carry);
    val *over = ARENA_NEW(&b->arena, val, l->n_over + p->over.len);
    made->carry = carry;
    made->n_carry = 0;
    for (uint32_t i = 0; i < l->n_carry; i++)
        if (p->body[i].fate == PARAM_KEEP) carry[made->n_carry++] = l->carry[i];
    if (!loop_has_length(l)) return;
    made->over = over;
    made->n_over = 0;
    for (uint32_t i = 0; i < l->n_over; i++)
        if (p->body[l->n_carry + i].fate == PARAM_KEEP) over[made->n_over++] = l->over[i];
    for (uint32_t i = 0; i < p->over.len; i++) over[made->n_over++] = p->over.data[i].outer;
}

/* Where the results of `l` are among those of the loop made of it. */
static void plan_results(struct builder *b, const struct loop *l, struct loop_plan *p,
                         struct loop_results made)
{
    struct arena *a = &b->arena;
    val *kept = ARENA_NEW(a, val, l->n_carry);
    p->results = ARENA_NEW(a, val, l->n->n_results);
    p->stacked = ARENA_NEW(a, val, p->stacks.len);
    for (uint32_t i = 0; i < l->n_carry; i++)
        kept[i] = p->body[i].fate == PARAM_KEEP ? made.last++ : VAL_NONE;
    for (uint32_t i = 0; i < l->n_carry; i++) p->results[i] = plan_final(p, i, kept);
    if (l->counts) p->results[loop_trips_result(l)] = made.trips;
    for (uint32_t k = 0; k < l->n_stack; k++)
        p->results[loop_stack_result(l, k)] = p->keep_stack[k] ? made.stacks++ : VAL_NONE;
    for (uint32_t k = 0; k < p->stacks.len; k++) p->stacked[k] = made.stacks++;
}

void plan_build(struct copier *c, const struct loop *l, struct loop_plan *p)
{
    struct loop old, made;
    loop_of_copy(c, l->n, &old);
    /* The step may have been made anew before the plan: it is the body that counts, not the node's. */
    old.body = l->body;
    made = old;
    plan_operands(c->b, &old, p, &made);
    if (l->cond) loop_set_cond(&made, c->b->m, plan_cond(c->b, &old, p));
    loop_set_body(&made, c->b->m, plan_body(c->b, &old, p));
    bool stacks = made.body->n_results > made.n_carry;
    if (l->counts && !stacks) made.count = p->count_used;
    plan_results(c->b, l, p, loop_build(c->b, &made));
}

/* ---- values over time ---- */

static uint32_t stack_of(const struct loop *l, const struct loop_plan *p, val v)
{
    for (uint32_t k = 0; k < l->n_stack; k++)
        if (p->keep_stack[k] && l->body->results[l->n_carry + k] == v) return k;
    return HOP_NONE;
}

static uint32_t new_stack_of(const struct loop_plan *p, val v)
{
    for (uint32_t k = 0; k < p->stacks.len; k++)
        if (p->stacks.data[k] == v) return k;
    return HOP_NONE;
}

/* A carry whose next value is stacked: its values over time are the first one and all stacked ones but the
 * last. */
static bool is_shifted(const struct copier *c, const struct loop *l, const struct loop_plan *p, val v)
{
    int64_t lo, hi;
    if (v >= l->n_carry || stack_of(l, p, l->body->results[v]) == HOP_NONE) return false;
    dim_range(c->b->m, c->f->symbols, l->length, &lo, &hi);
    return lo >= 1;
}

bool time_is_available(const struct copier *c, const struct loop *l, const struct loop_plan *p, val v)
{
    if (loop_is_over(l, v)) return true;
    return stack_of(l, p, v) != HOP_NONE || new_stack_of(p, v) != HOP_NONE || is_shifted(c, l, p, v);
}

void time_need(struct copier *c, const struct loop *l, struct loop_plan *p, val v)
{
    if (!time_is_available(c, l, p, v)) vec_push(&c->b->arena, &p->stacks, v);
}

static val shifted_array(struct copier *c, const struct loop *l, val init, val stack)
{
    struct module *m = c->b->m;
    struct type t = emit_type(c->b, stack);
    dim from[MAX_RANK] = { 0 }, to[MAX_RANK], one[MAX_RANK];
    memcpy(to, t.dims, t.rank * sizeof *to);
    memcpy(one, t.dims, t.rank * sizeof *one);
    one[0] = 1;
    if (l->reverse) from[0] = 1;
    else to[0] = dim_sub(m, t.dims[0], 1);
    val first = emit_reshape(c->b, init, t.rank, one), rest = emit_slice(c->b, stack, from, to);
    struct attr dim0 = A_INT(0);
    return emit(c->b, OP_concat, l->reverse ? (val[]){ rest, first } : (val[]){ first, rest }, 2, &dim0);
}

val time_array(struct copier *c, const struct loop *l, const struct loop_plan *p, val v)
{
    if (loop_is_over(l, v)) return c->values[loop_operand(l, v)];
    uint32_t k = stack_of(l, p, v), fresh = new_stack_of(p, v);
    if (k != HOP_NONE) return p->results[loop_stack_result(l, k)];
    if (fresh != HOP_NONE) return p->stacked[fresh];
    k = stack_of(l, p, l->body->results[v]);
    return shifted_array(c, l, c->values[l->carry[v]], p->results[loop_stack_result(l, k)]);
}

bool time_fits(struct copier *c, const struct loop *l, int64_t elements)
{
    struct module *m = c->b->m;
    if (elements < 0 || !dim_is_const(m, l->length)) return true;
    return elements == 0 || dim_const_value(m, l->length) <= TIME_LIMIT / elements;
}

/* ---- invariants ---- */

bool may_not_end(const struct module *m, const struct fn *f, const struct node *n)
{
    enum loop_kind kind = node_loop_kind(n);
    if (kind == LOOP_WHILE || kind == LOOP_COUNTED) return true; /* or runs for years */
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct fn *g = module_fn(m, node_region(f, n, r)->fn);
        for (uint32_t i = 0; i < g->n_nodes; i++)
            if (may_not_end(m, g, fn_node(g, i))) return true;
    }
    return false;
}

bool node_batches(const struct module *m, const struct fn *g, const struct node *n)
{
    const struct op_row *row = node_row(n);
    return row->batch && !(row->flags & OPF_HIGHER) && node_is_pure(m, g, n) && !node_mentions_inner(m, g, n);
}

static enum made_of node_made_of(const struct body_values *b, const struct module *m, const struct fn *g,
                                 const struct node *n)
{
    enum made_of most = OF_INVARIANTS;
    for (uint32_t k = 0; k < n->n_operands; k++) most = HOP_MAX(most, b->made_of[node_operands(g, n)[k]]);
    bool same = most == OF_INVARIANTS && node_is_pure(m, g, n) && !node_mentions_inner(m, g, n);
    if (same && !may_not_end(m, g, n)) return OF_INVARIANTS;
    return most <= OF_SLICES && node_batches(m, g, n) ? OF_SLICES : OF_CARRIES;
}

struct body_values body_values(struct arena *a, const struct module *m, const struct fn *g, uint32_t n_carry,
                               uint32_t first_with)
{
    struct body_values b = { ARENA_NEW(a, uint8_t, g->n_values), ARENA_ZNEW(a, uint32_t, g->n_values) };
    for (uint32_t p = 0; p < g->n_params; p++) {
        if (p < n_carry) b.made_of[p] = OF_CARRIES;
        else if (p < first_with) b.made_of[p] = OF_SLICES;
        else b.made_of[p] = OF_INVARIANTS;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        enum made_of of = node_made_of(&b, m, g, n);
        for (uint32_t k = 0; k < n->n_results; k++) b.made_of[n->results + k] = (uint8_t)of;
        for (uint32_t k = 0; k < n->n_operands; k++) b.uses[node_operands(g, n)[k]]++;
    }
    for (uint32_t k = 0; k < g->n_results; k++) b.uses[g->results[k]]++;
    return b;
}

val copy_cone(struct copier *inner, val v)
{
    const struct fn *g = inner->f;
    if (inner->values[v] != VAL_NONE) return inner->values[v];
    bool *need = ARENA_ZNEW(&inner->b->arena, bool, g->n_nodes);
    uint32_t last = g->values[v].node;
    need[last] = true;
    for (uint32_t i = last + 1; i-- > 0;) {
        if (!need[i]) continue;
        const struct node *n = fn_node(g, i);
        for (uint32_t k = 0; k < n->n_operands; k++) {
            val x = node_operands(g, n)[k];
            if (inner->values[x] == VAL_NONE && g->values[x].node != NODE_NONE)
                need[g->values[x].node] = true;
        }
    }
    for (uint32_t i = 0; i <= last; i++)
        if (need[i]) copier_node(inner, fn_node(g, i));
    return inner->values[v];
}
