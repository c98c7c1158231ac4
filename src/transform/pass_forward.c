/* Forwarding: what a loop, branch or call only passes through is taken from where it came: carries that keep
 * their first value, carries that always equal another, slices stacked as they are, results that every branch
 * takes from one operand or makes from one constant, operands given twice. A carry that steps read and give
 * back reshaped is carried in the shape that they work with. */
#include "loop/lower.h"
#include "transform/pass.h"

/* ---- loops ---- */

/* Does every trip leave the carry as it came in? */
static bool carry_is_constant(const struct copier *c, const struct loop *l, uint32_t i, val init)
{
    const struct fn *body = l->body;
    val next = body->results[i];
    if (next == i) return true;
    const struct node *outer = built_node(c->b, init);
    if (!outer || body->values[next].node == NODE_NONE) return false;
    const struct node *inner = fn_node(body, body->values[next].node);
    return same_constant(c->b->m, outer, c->b->attrs.data + outer->attrs, inner, body->attrs + inner->attrs);
}

/* equal[i]: the first carry that starts like carry i and is always given the same next value. */
static void equal_carries(struct arena *a, const struct module *m, const struct loop *l, const val *init,
                          uint32_t *equal)
{
    const struct fn *body = l->body;
    bool candidates = false;
    for (uint32_t i = 0; i < l->n_carry; i++) {
        equal[i] = i;
        for (uint32_t k = 0; k < i && equal[i] == i; k++)
            if (init[k] == init[i] && value_type(body, k) == value_type(body, i)) {
                equal[i] = equal[k];
                candidates = true;
            }
    }
    uint32_t *class = ARENA_NEW(a, uint32_t, body->n_values), *param = ARENA_NEW(a, uint32_t, body->n_params);
    while (candidates) {
        for (uint32_t p = 0; p < body->n_params; p++) param[p] = p < l->n_carry ? equal[p] : p;
        number_values(a, m, body, param, class);
        uint32_t *split = ARENA_NEW(a, uint32_t, l->n_carry);
        bool changed = false;
        candidates = false;
        for (uint32_t i = 0; i < l->n_carry; i++) {
            split[i] = i;
            for (uint32_t k = 0; k < i && split[i] == i; k++)
                if (equal[k] == equal[i] && class[body->results[k]] == class[body->results[i]])
                    split[i] = split[k];
            candidates |= split[i] != i;
        }
        for (uint32_t i = 0; i < l->n_carry; i++) changed |= split[i] != equal[i];
        memcpy(equal, split, l->n_carry * sizeof *equal);
        if (!changed) break;
    }
}

/* A slice that is the same in every step: of a full, or of an array that was repeated over its leading dim.
 */
static bool slice_is_constant(struct copier *c, val xs, struct param_plan *out)
{
    if (full_value(c->b, xs, &out->value)) {
        out->fate = PARAM_FULL;
        return true;
    }
    const struct node *n = built_node(c->b, xs);
    if (!n || !node_repeats(n)) return false;
    struct type t = emit_type(c->b, xs);
    val x = built_operand(c->b, n, 0);
    uint32_t rank = emit_type(c->b, x).rank, from[MAX_RANK], below[MAX_RANK];
    node_row(n)->source_dims(built_attr(c->b, n, 0), rank, t.rank, from);
    if (from[0] != HOP_NONE) return false;
    for (uint32_t i = 1; i < t.rank; i++)
        if (from[i] != HOP_NONE) below[from[i]] = i - 1;
    out->fate = PARAM_WITH;
    out->outer = rank == t.rank - 1u ? x : emit_broadcast(c->b, x, t.rank - 1u, t.dims + 1, below);
    return true;
}

/* Operands from `first` on that are given twice are one inside. */
static bool merge_operands(const struct copier *c, const val *operands, uint32_t n, uint32_t first,
                           struct param_plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i && plan[first + i].fate == PARAM_KEEP; k++) {
            if (plan[first + k].fate != PARAM_KEEP) continue;
            if (c->values[operands[k]] != c->values[operands[i]]) continue;
            plan[first + i] = (struct param_plan){ .fate = PARAM_ALIAS, .of = first + k };
            any = true;
        }
    return any;
}

/* Own operands of a region that are fulls are known inside. */
static bool known_operands(struct copier *c, const struct node *n, uint32_t r, uint32_t first,
                           struct param_plan *plan)
{
    const struct region *region = node_region(c->f, n, r);
    const val *operands = node_region_operands(c->f, n, r);
    bool any = false;
    for (uint32_t i = 0; i < region->n_operands; i++) {
        if (!full_value(c->b, c->values[operands[i]], &plan[first + i].value)) continue;
        plan[first + i].fate = PARAM_FULL;
        any = true;
    }
    return merge_operands(c, operands, region->n_operands, first, plan) || any;
}

static bool forward_loop(struct copier *c, const struct loop *l, val *results)
{
    struct arena *a = &c->b->arena;
    struct module *m = c->b->m;
    const struct fn *body = l->body;
    struct loop_plan p = plan_new(a, l);
    val *init = ARENA_NEW(a, val, l->n_carry), *passed = ARENA_NEW(a, val, l->n_stack);
    uint32_t *equal = ARENA_NEW(a, uint32_t, l->n_carry);
    uint32_t *twin = ARENA_NEW(a, uint32_t, l->n_stack);
    bool changed = false;
    for (uint32_t i = 0; i < l->n_carry; i++) init[i] = c->values[l->carry[i]];
    for (uint32_t i = 0; i < l->n_carry; i++) {
        if (!carry_is_constant(c, l, i, init[i])) continue;
        p.body[i] = (struct param_plan){ .fate = PARAM_WITH, .outer = init[i] };
        changed = true;
    }
    equal_carries(a, m, l, init, equal);
    for (uint32_t i = 0; i < l->n_carry; i++)
        if (equal[i] != i && p.body[i].fate == PARAM_KEEP && p.body[equal[i]].fate == PARAM_KEEP) {
            p.body[i] = (struct param_plan){ .fate = PARAM_ALIAS, .of = equal[i] };
            changed = true;
        }
    for (uint32_t i = 0; loop_has_length(l) && i < l->n_over; i++)
        changed |= slice_is_constant(c, c->values[l->over[i]], &p.body[l->n_carry + i]);
    if (loop_has_length(l)) changed |= merge_operands(c, l->over, l->n_over, l->n_carry, p.body);
    changed |= known_operands(c, l->n, l->body_region, loop_first_with(l), p.body);
    if (l->cond) changed |= known_operands(c, l->n, l->cond_region, l->n_carry, p.cond);
    for (uint32_t k = 0; k < l->n_stack; k++) {
        val v = body->results[l->n_carry + k];
        passed[k] = VAL_NONE;
        twin[k] = k;
        if (loop_has_length(l) && loop_is_over(l, v)) {
            val xs = c->values[loop_operand(l, v)];
            type_id t = builder_type(c->b, xs);
            if (t == copier_type(c, value_type(c->f, l->n->results + loop_stack_result(l, k))))
                passed[k] = xs;
        }
        for (uint32_t j = 0; j < k && twin[k] == k; j++)
            if (body->results[l->n_carry + j] == v) twin[k] = j;
        if (passed[k] != VAL_NONE || twin[k] != k) {
            p.keep_stack[k] = false;
            changed = true;
        }
    }
    if (!changed) return false;
    plan_build(c, l, &p);
    memcpy(results, p.results, l->n->n_results * sizeof *results);
    for (uint32_t k = 0; k < l->n_stack; k++) {
        val *out = &results[loop_stack_result(l, k)];
        if (passed[k] != VAL_NONE) *out = passed[k];
        else if (twin[k] != k) *out = results[loop_stack_result(l, twin[k])];
    }
    return true;
}

/* ---- carries that are reshaped ---- */

static bool is_static(const struct module *m, type_id t)
{
    struct type type = type_get(m, t);
    bool all = true;
    for (uint32_t d = 0; d < type.rank; d++) all &= dim_is_const(m, type.dims[d]);
    return all;
}

/* The value of which carry i's next one is a reshape, where steps read the carry as reshapes to that value's
 * type alone; VAL_NONE: it is not so. */
static val reshaped_carry(const struct module *m, const struct loop *l, uint32_t i)
{
    const struct fn *body = l->body;
    uint32_t made = body->values[body->results[i]].node;
    if (made == NODE_NONE || fn_node(body, made)->op != OP_reshape) return VAL_NONE;
    val inner = node_operands(body, fn_node(body, made))[0];
    type_id type = value_type(body, inner);
    if (type == value_type(body, i) || type_is_inner(m, body, type)) return VAL_NONE;
    if (l->cond && !is_static(m, type))
        return VAL_NONE; /* symbols of the step are not those of the predicate */
    bool read = false;
    for (uint32_t k = 0; k < body->n_nodes; k++) {
        const struct node *n = fn_node(body, k);
        for (uint32_t o = 0; o < n->n_operands; o++) {
            if (node_operands(body, n)[o] != i) continue;
            if (n->op != OP_reshape || value_type(body, n->results) != type) return VAL_NONE;
            read = true;
        }
    }
    for (uint32_t k = 0; k < body->n_results; k++)
        if (body->results[k] == i) return VAL_NONE;
    return read ? inner : VAL_NONE;
}

static val reshaped_to(struct builder *b, val v, type_id type)
{
    struct type t = type_get(b->m, type);
    return emit_reshape(b, v, t.rank, t.dims);
}

/* A step, or a predicate, whose carries have these types (HOP_NONE: as before); the next ones are `next`. */
static const struct fn *with_carries(struct module *m, const struct fn *f, const struct loop *l,
                                     const type_id *types, const val *next)
{
    struct builder b;
    struct copier c;
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    for (uint32_t p = 0; p < f->n_params; p++) {
        bool other = p < l->n_carry && types[p] != HOP_NONE;
        type_id type = copier_type(&c, other ? types[p] : value_type(f, p));
        c.values[p] = builder_param(&b, type, f->values[p].name);
    }
    for (uint32_t i = 0; i < l->n_carry; i++)
        if (types[i] != HOP_NONE)
            c.values[i] = reshaped_to(&b, c.values[i], copier_type(&c, value_type(f, i)));
    val *out = ARENA_NEW(&b.arena, val, f->n_results + 1);
    copier_body(&c, out);
    for (uint32_t i = 0; next && i < l->n_carry; i++)
        if (types[i] != HOP_NONE) out[i] = c.values[next[i]];
    return module_fn(m, builder_finish(&b, out, f->n_results));
}

/* Carries in the shape that steps work with; the array need not be moved or looked at in between. */
static bool reshape_carries(struct copier *c, const struct node *n, const struct loop *given, val *results)
{
    struct module *m = c->b->m;
    struct arena *a = &c->b->arena;
    uint32_t n_carry = given->n_carry;
    type_id *types = ARENA_NEW(a, type_id, n_carry);
    val *next = ARENA_NEW(a, val, n_carry), *carry = ARENA_NEW(a, val, n_carry);
    bool any = false;
    for (uint32_t k = 0; k < n->n_results; k++) /* rows that are found while running are named once */
        if (type_is_inner(m, c->f, value_type(c->f, n->results + k))) return false;
    for (uint32_t i = 0; i < n_carry; i++) {
        next[i] = reshaped_carry(m, given, i);
        types[i] = next[i] != VAL_NONE ? value_type(given->body, next[i]) : HOP_NONE;
        any |= next[i] != VAL_NONE;
    }
    if (!any) return false;
    struct loop l;
    loop_of_copy(c, n, &l);
    for (uint32_t i = 0; i < n_carry; i++) {
        carry[i] = l.carry[i];
        if (types[i] != HOP_NONE)
            carry[i] = reshaped_to(c->b, carry[i], type_substitute(m, types[i], l.dims));
    }
    l.carry = carry;
    l.body = with_carries(m, given->body, given, types, next);
    if (l.cond) l.cond = with_carries(m, given->cond, given, types, NULL);
    val first = loop_build(c->b, &l).last;
    for (uint32_t k = 0; k < n->n_results; k++) {
        type_id type = copier_type(c, value_type(c->f, n->results + k));
        results[k] = k < n_carry && types[k] != HOP_NONE ? reshaped_to(c->b, first + k, type) : first + k;
    }
    return true;
}

/* ---- branches and calls ---- */

/* The outer value that result k is whichever branch runs, VAL_NONE when there is none. */
static val passed_operand(const struct copier *c, const struct node *n, uint32_t k)
{
    val same = VAL_NONE;
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct fn *g = module_fn(c->b->m, node_region(c->f, n, r)->fn);
        if (g->results[k] >= g->n_params) return VAL_NONE;
        val v = c->values[node_region_operands(c->f, n, r)[g->results[k]]];
        if (r && v != same) return VAL_NONE;
        same = v;
    }
    return same;
}

static bool same_constant_everywhere(const struct copier *c, const struct node *n, uint32_t k)
{
    const struct module *m = c->b->m;
    const struct fn *first = module_fn(m, node_region(c->f, n, 0)->fn);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct fn *g = module_fn(m, node_region(c->f, n, r)->fn);
        uint32_t i = g->values[g->results[k]].node, j = first->values[first->results[k]].node;
        if (i == NODE_NONE || j == NODE_NONE) return false;
        const struct node *x = fn_node(first, j), *y = fn_node(g, i);
        if (!node_is_pure(m, g, y) || !same_constant(m, x, first->attrs + x->attrs, y, g->attrs + y->attrs))
            return false;
    }
    return true;
}

static uint32_t twin_result(const struct copier *c, const struct node *n, uint32_t k)
{
    for (uint32_t j = 0; j < k; j++) {
        bool same = true;
        for (uint32_t r = 0; r < n->n_regions && same; r++) {
            const struct fn *g = module_fn(c->b->m, node_region(c->f, n, r)->fn);
            same = g->results[j] == g->results[k];
        }
        if (same) return j;
    }
    return k;
}

/* Branches in which fulls given from outside are known; false if there are none. */
static bool known_branches(struct copier *c, const struct node *n, struct node_in *in)
{
    struct arena *a = &c->b->arena;
    bool any = false;
    struct region_in *regions = arena_copy(a, in->regions, n->n_regions * sizeof *regions);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct fn *g = module_fn(c->b->m, regions[r].fn);
        struct param_plan *plan = ARENA_ZNEW(a, struct param_plan, g->n_params);
        if (!known_operands(c, n, r, 0, plan)) continue;
        val *own = ARENA_NEW(a, val, g->n_params);
        struct region_plan p = {
            .g = g, .params = plan, .wanted = g->results, .n_wanted = g->n_results, .own = regions[r].operands
        };
        regions[r].fn = region_build(c->b->m, &p, own, &regions[r].n_operands);
        regions[r].operands = own;
        any = true;
    }
    in->regions = regions;
    return any;
}

static bool forward_branches(struct copier *c, const struct node *n, const bool *used, val *results)
{
    struct arena *a = &c->b->arena;
    struct node_in in = copier_node_in(c, n);
    val *passed = ARENA_NEW(a, val, n->n_results);
    bool any = node_row(n)->control == CONTROL_CHOICE && known_branches(c, n, &in);
    for (uint32_t k = 0; k < n->n_results; k++) {
        passed[k] = VAL_NONE;
        if (!used[k]) continue;
        val v = passed_operand(c, n, k);
        if (v == VAL_NONE && same_constant_everywhere(c, n, k)) {
            struct copier inner = region_copier(c, n, 0);
            v = copy_cone(&inner, inner.f->results[k]);
        }
        type_id t = value_type(c->f, n->results + k);
        bool may_pass = v != VAL_NONE && !type_is_inner(c->b->m, c->f, t);
        if (may_pass && builder_type(c->b, v) == copier_type(c, t)) passed[k] = v;
        any |= passed[k] != VAL_NONE || twin_result(c, n, k) != k;
    }
    if (!any) return false;
    val first = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = passed[k] != VAL_NONE ? passed[k] : first + k;
    for (uint32_t k = 0; k < n->n_results; k++)
        if (used[k] && passed[k] == VAL_NONE) results[k] = results[twin_result(c, n, k)];
    return true;
}

/* ---- running totals ---- */

/* Numbers given to an associative_scan's function from outside are known inside. */
static bool forward_totals(struct copier *c, const struct node *n, val *results)
{
    struct arena *a = &c->b->arena;
    const struct fn *g = module_fn(c->b->m, node_region(c->f, n, 0)->fn);
    uint32_t first_own = 2 * node_group_size(c->f, n, 0), n_own;
    struct param_plan *plan = ARENA_ZNEW(a, struct param_plan, g->n_params);
    if (!known_operands(c, n, 0, first_own, plan)) return false;
    struct node_in in = copier_node_in(c, n);
    val *own = ARENA_NEW(a, val, g->n_params);
    uint32_t fn = region_build(c->b->m,
                               &(struct region_plan){ .g = g,
                                                      .n_carry = first_own,
                                                      .params = plan,
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

/* ---- the pass ---- */

static bool forward_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results,
                         void *ctx)
{
    const bool *used = ctx;
    struct loop l;
    if (loop_of_node(s->m, c->f, n, &l))
        return forward_loop(c, &l, results) || reshape_carries(c, n, &l, results);
    switch (node_row(n)->control) {
    case CONTROL_TOTALS: return forward_totals(c, n, results);
    case CONTROL_CALL:
    case CONTROL_CHOICE: return forward_branches(c, n, used + n->results, results);
    default: return false;
    }
}

uint32_t pass_forward(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) any |= wants_higher(fn_node(f, i));
    if (!any) return fn;
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    bool *used = ARENA_ZNEW(&scratch, bool, f->n_values);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; k < n->n_operands; k++) used[node_operands(f, n)[k]] = true;
    }
    for (uint32_t k = 0; k < f->n_results; k++) used[f->results[k]] = true;
    uint32_t out = rewrite_nodes(s, fn, wants_higher, forward_rule, used);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    return out;
}
