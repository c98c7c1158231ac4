/* Accumulating: a scan that adds a product to a carry in every step (a weight gradient) stacks the factors
 * instead, and one product that also contracts time follows the loop; sums of what is stacked anyway (a bias
 * gradient) become one sum over time. Changes the order in which numbers are added, so it is not for strict
 * mode, nor for carries of f16 and bf16. */
#include "loop/lower.h"
#include "ops/dot.h"
#include "transform/pass.h"

/* One addend of a carry. Between it and its core (a product, a sum, or an array over time) stand only nodes
 * that commute with sums. */
struct addend {
    val value; /* in the body */
    val core;
    bool moves;
    bool minus;   /* is subtracted */
    bool product; /* moves as a product of its factors, not as a sum of what is stacked */
};

struct accumulation {
    struct copier *c;
    struct loop l;
    struct loop_plan plan;
    struct body_values body;
    vec(struct addend) addends; /* of all carries */
    uint32_t *first, *last;     /* per carry: its addends */
};

static const struct node *body_node(const struct accumulation *w, val v)
{
    uint32_t i = w->l.body->values[v].node;
    return i == NODE_NONE ? NULL : fn_node(w->l.body, i);
}
static val body_operand(const struct accumulation *w, const struct node *n, uint32_t k)
{
    return node_operands(w->l.body, n)[k];
}

/* Nodes through which a sum over time can be drawn without a change of value. */
static bool is_arrangement(const struct node *n)
{
    const struct op_lower *lower = node_row(n)->lower;
    bool views = lower && lower->kind == LOWER_POINTWISE && lower->access == ACCESS_VIEW;
    return n->n_operands == 1 && (views || node_row(n)->factors[0]);
}

/* Is it a sum or a difference of two values? */
static bool is_sum_of_two(const struct node *n) { return n->n_operands == 2 && node_row(n)->factors[1]; }
static bool is_difference(const struct node *n) { return is_sum_of_two(n) && node_row(n)->factors[1] < 0; }

/* A sum over dims of an array, in its own dtype. */
static bool is_reduction(const struct accumulation *w, const struct node *n)
{
    const struct op_lower *lower = node_row(n)->lower;
    if (!lower || lower->kind != LOWER_REDUCE || lower->fold != FOLD_SUM || lower->product) return false;
    const struct fn *g = w->l.body;
    struct type from = type_get(w->c->b->m, value_type(g, node_operands(g, n)[0]));
    return from.dtype == type_get(w->c->b->m, value_type(g, n->results)).dtype;
}

static val core_of(const struct accumulation *w, val v)
{
    const struct node *n = body_node(w, v);
    while (n && is_arrangement(n)) {
        v = body_operand(w, n, 0);
        n = body_node(w, v);
    }
    return v;
}

/* Takes the tree of additions under v apart; *found counts how often the carry itself occurs in it. */
static void collect(struct accumulation *w, uint32_t carry, val v, uint32_t *found)
{
    const struct node *n = body_node(w, v);
    struct arena *a = &w->c->b->arena;
    uint32_t addends = w->addends.len, before = *found;
    if (v == carry) {
        ++*found;
        return;
    }
    if (n && is_sum_of_two(n) && !is_difference(n) && w->body.uses[v] == 1) {
        collect(w, carry, body_operand(w, n, 0), found);
        collect(w, carry, body_operand(w, n, 1), found);
        return;
    }
    /* Only off the carry's side, where something always remains to subtract from. */
    if (n && is_difference(n) && w->body.uses[v] == 1) {
        collect(w, carry, body_operand(w, n, 0), found);
        if (*found > before) {
            val x = body_operand(w, n, 1);
            vec_push(a, &w->addends, (struct addend){ .value = x, .core = core_of(w, x), .minus = true });
            return;
        }
        w->addends.len = addends;
    }
    vec_push(a, &w->addends, (struct addend){ .value = v, .core = core_of(w, v) });
}

static int64_t stacking_cost(const struct accumulation *w, val v)
{
    if (time_is_available(w->c, &w->l, &w->plan, v)) return 0;
    return static_elements(w->c->b->m, value_type(w->l.body, v));
}

/* Does the body bring something back into memory? Then it is there a step at a time, to leave room. */
static bool brings_back(const struct fn *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (node_row(fn_node(g, i))->moves == MOVES_BACK) return true;
    return false;
}

/* Products: worth it when what must be stacked for it is no larger than what is added. */
static bool product_moves(struct accumulation *w, const struct addend *d)
{
    struct module *m = w->c->b->m;
    const struct fn *g = w->l.body;
    const struct node *n = body_node(w, d->core);
    if (!n || !node_is_product(n) || w->body.uses[d->value] != 1) return false;
    val x = body_operand(w, n, 0), y = body_operand(w, n, 1);
    if (is_invariant(&w->body, x) || is_invariant(&w->body, y)) return false;
    if (type_is_inner(m, g, value_type(g, x)) || type_is_inner(m, g, value_type(g, y))) return false;
    struct type t = type_get(m, value_type(g, x)), u = type_get(m, value_type(g, y));
    enum dtype result = (enum dtype)type_get(m, value_type(g, n->results)).dtype;
    if (!dtype_is_float(result) || t.rank + 1 > MAX_RANK || u.rank + 1 > MAX_RANK) return false;
    if (node_accumulator(m, g, n) != result) return false; /* rounded at every step */
    struct dot_dims dims;
    dot_dims(m, g, n, &dims);
    int64_t cx = stacking_cost(w, x);
    int64_t cy = x == y ? 0 : stacking_cost(w, y);
    int64_t size = static_elements(m, value_type(g, d->core));
    if ((cx || cy) && brings_back(g)) return false;
    if (cx < 0 || cy < 0 || size < 0) return dims.n_lhs_free && dims.n_rhs_free;
    return cx + cy <= size && time_fits(w->c, &w->l, cx + cy);
}

/* Anything that is an array over time already, or the sum of one. */
static val summed_array(const struct accumulation *w, const struct addend *d)
{
    const struct node *n = body_node(w, d->core);
    for (uint32_t inside = n && is_reduction(w, n) ? 1 : 0; inside != HOP_NONE; inside--) {
        val v = inside ? body_operand(w, n, 0) : d->core;
        if (!is_invariant(&w->body, v) && time_is_available(w->c, &w->l, &w->plan, v)) return v;
    }
    return VAL_NONE;
}

/* ---- the body without the addends ---- */

/* What v becomes when addends that move are left out; VAL_NONE: nothing is left of it. */
static val reduced(struct accumulation *w, uint32_t carry, val v)
{
    const struct node *n = body_node(w, v);
    if (v == carry) return v;
    for (uint32_t i = w->first[carry]; i < w->last[carry]; i++)
        if (w->addends.data[i].value == v) return w->addends.data[i].moves ? VAL_NONE : v;
    val x = reduced(w, carry, body_operand(w, n, 0)), y = reduced(w, carry, body_operand(w, n, 1));
    if (x != VAL_NONE && y != VAL_NONE) return v;
    val left = x == VAL_NONE ? y : x;
    if (left != VAL_NONE) vec_push(&w->c->b->arena, &w->plan.aliases, (struct alias){ v, left });
    return left;
}

/* ---- behind the loop ---- */

/* Puts the nodes between an addend and its core around `v`. */
static val arranged(struct accumulation *w, struct copier *inner, val value, val core, val v)
{
    if (value == core) return v;
    const struct node *n = body_node(w, value);
    inner->values[body_operand(w, n, 0)] = arranged(w, inner, body_operand(w, n, 0), core, v);
    struct node_in in = copier_node_in(inner, n);
    return builder_node(inner->b, &in);
}

static val total(struct accumulation *w, const struct addend *d)
{
    struct builder *b = w->c->b;
    const struct fn *g = w->l.body;
    const struct node *n = body_node(w, d->core);
    struct copier inner = region_copier(w->c, w->l.n, w->l.body_region);
    val v;
    if (d->product) {
        struct dot_dims dims;
        dot_dims(b->m, g, n, &dims);
        uint32_t bx[MAX_RANK], by[MAX_RANK], cx[MAX_RANK] = { 0 }, cy[MAX_RANK] = { 0 };
        for (uint32_t i = 0; i < dims.n_batch; i++) {
            bx[i] = dims.batch_lhs[i] + 1;
            by[i] = dims.batch_rhs[i] + 1;
        }
        for (uint32_t i = 0; i < dims.n_contract; i++) {
            cx[i + 1] = dims.contract_lhs[i] + 1;
            cy[i + 1] = dims.contract_rhs[i] + 1;
        }
        val x = time_array(w->c, &w->l, &w->plan, body_operand(w, n, 0));
        val y = time_array(w->c, &w->l, &w->plan, body_operand(w, n, 1));
        enum dtype t = (enum dtype)type_get(b->m, value_type(g, d->core)).dtype;
        v = emit_dot_to(b, t, x, y, bx, by, dims.n_batch, cx, cy, dims.n_contract + 1);
    } else {
        val array = time_array(w->c, &w->l, &w->plan, summed_array(w, d));
        uint32_t over[MAX_RANK + 1] = { 0 }, rank = emit_type(b, array).rank, n_over = 1;
        if (n && is_reduction(w, n) && summed_array(w, d) != d->core) {
            const struct attr *dims = node_attr(g, n, REDUCE_DIMS);
            bool all = dims->kind == ATTR_ABSENT;
            uint32_t count = all ? rank - 1 : dims->n;
            for (uint32_t i = 0; i < count; i++) {
                uint32_t inside = all ? i : dims->list[i];
                over[n_over++] = inside + 1; /* behind the dim of time */
            }
        }
        v = emit_reduce(b, OP_sum, array, over, n_over);
    }
    return arranged(w, &inner, d->value, d->core, v);
}

/* ---- the pass ---- */

static void find_addends(struct accumulation *w, const bool *used)
{
    struct arena *a = &w->c->b->arena;
    const struct fn *g = w->l.body;
    w->first = ARENA_ZNEW(a, uint32_t, w->l.n_carry);
    w->last = ARENA_ZNEW(a, uint32_t, w->l.n_carry);
    for (uint32_t i = 0; i < w->l.n_carry; i++) {
        uint32_t found = 0, before = w->addends.len;
        val next = g->results[i];
        const struct node *n = body_node(w, next);
        enum dtype t = (enum dtype)type_get(w->c->b->m, value_type(g, i)).dtype;
        bool adds = n && is_sum_of_two(n) && w->body.uses[next] == 1 && w->body.uses[i] == 1;
        /* f16 and bf16 are rounded at every step, which a sum over time would not do */
        if (adds && used[i] && dtype_is_float(t) && !dtype_is_narrow(t)) collect(w, i, next, &found);
        if (found != 1) w->addends.len = before;
        w->first[i] = before;
        w->last[i] = w->addends.len;
    }
}

static bool accumulate_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results,
                            void *ctx)
{
    struct accumulation w = { .c = c };
    struct arena *a = &c->b->arena;
    const bool *used = ctx;
    if (!loop_of_node(s->m, c->f, n, &w.l) || !loop_has_length(&w.l)) return false;
    const struct fn *g = w.l.body;
    w.plan = plan_new(a, &w.l);
    w.body = body_values(a, s->m, g, w.l.n_carry, loop_first_with(&w.l));
    find_addends(&w, used + n->results);
    bool any = false;
    /* products first: what they have stacked is then there for sums */
    for (uint32_t i = 0; i < w.addends.len; i++) {
        struct addend *d = &w.addends.data[i];
        if (!product_moves(&w, d)) continue;
        const struct node *product = body_node(&w, d->core);
        for (uint32_t k = 0; k < 2; k++) time_need(c, &w.l, &w.plan, body_operand(&w, product, k));
        d->moves = true;
        d->product = true;
        any = true;
    }
    for (uint32_t i = 0; i < w.addends.len; i++) {
        struct addend *d = &w.addends.data[i];
        if (d->moves || summed_array(&w, d) == VAL_NONE) continue;
        d->moves = true;
        any = true;
    }
    if (!any) return false;
    for (uint32_t i = 0; i < w.l.n_carry; i++)
        if (w.first[i] < w.last[i]) reduced(&w, i, g->results[i]);
    plan_build(c, &w.l, &w.plan);
    memcpy(results, w.plan.results, n->n_results * sizeof *results);
    for (uint32_t i = 0; i < w.l.n_carry; i++)
        for (uint32_t k = w.first[i]; k < w.last[i]; k++) {
            const struct addend *d = &w.addends.data[k];
            if (!d->moves) continue;
            val sum = total(&w, d);
            results[i] = emit2(c->b, d->minus ? OP_sub : OP_add, results[i], sum);
        }
    return true;
}

uint32_t pass_accumulate(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    if (s->o->strict) return fn;
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) any |= node_is_loop(fn_node(f, i));
    if (!any) return fn;
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    const bool *used = live_values(&scratch, s->m, f, (struct needs){ 0 }).value;
    uint32_t out = rewrite_nodes(s, fn, node_is_loop, accumulate_rule, (void *)used);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    return out;
}
