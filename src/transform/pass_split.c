/* Splitting: products that need no carry leave a scan. Those over slices and invariants are computed for all
 * steps in front of the loop and scanned over; those that only feed stacked results are computed for all
 * steps behind it. The body's nodes are batched over time by their rows' batch rules, which keeps every sum
 * in its order. */
#include "loop/lower.h"
#include "ops/dot.h"
#include "transform/pass.h"
#include "transform/transform.h"

enum { LARGE_ROWS = 128 }; /* a product with that many rows a step is large enough by itself */

/* ---- batching a part of the body over time ---- */

struct time_cone {
    struct loop *l;
    vec(val) leaves; /* values of the body that come as arrays over time */
    vec(val) outer;  /* those arrays */
    vec(val) wanted; /* values of the body to be computed for all steps */
};

/* The function (leaves…, with…) -> wanted. */
static uint32_t cone_function(struct copier *c, const struct time_cone *t)
{
    const struct fn *g = t->l->body;
    struct builder b;
    struct copier inner;
    builder_begin(&b, c->b->m, g);
    copier_begin(&inner, &b, g);
    for (uint32_t i = 0; i < t->leaves.len; i++)
        inner.values[t->leaves.data[i]] = builder_param(&b, value_type(g, t->leaves.data[i]), 0);
    for (uint32_t p = loop_first_with(t->l); p < g->n_params; p++)
        inner.values[p] = builder_param(&b, value_type(g, p), g->values[p].name);
    val *results = ARENA_NEW(&b.arena, val, t->wanted.len);
    copy_requires(&inner);
    for (uint32_t k = 0; k < t->wanted.len; k++) results[k] = copy_cone(&inner, t->wanted.data[k]);
    return builder_finish(&b, results, t->wanted.len);
}

static void batch_cone(struct copier *c, const struct time_cone *t, val *out)
{
    struct module *m = c->b->m;
    struct arena *a = &c->b->arena;
    const struct loop *l = t->l;
    const struct fn *g = module_fn(m, cone_function(c, t));
    bool *batched = ARENA_ZNEW(a, bool, g->n_params);
    bool *force = ARENA_NEW(a, bool, t->wanted.len);
    bool *is = ARENA_NEW(a, bool, t->wanted.len);
    for (uint32_t i = 0; i < t->leaves.len; i++) batched[i] = true;
    for (uint32_t k = 0; k < t->wanted.len; k++) force[k] = true;
    dim length = copier_dim(c, l->length);
    bool fixed = dim_is_const(m, length);
    uint32_t fn = batch_function(m, g->id, batched, fixed ? length : HOP_NONE, force, false, is);
    struct copier inner;
    const struct fn *h = module_fn(m, fn);
    copier_begin(&inner, c->b, h);
    for (uint32_t k = 0; k < l->body->n_outer_symbols; k++) inner.symbols[k] = copier_dim(c, l->dims[k]);
    if (!fixed) inner.symbols[h->n_outer_symbols - 1] = length;
    for (uint32_t i = 0; i < t->leaves.len; i++) inner.values[i] = t->outer.data[i];
    for (uint32_t i = t->leaves.len; i < h->n_params; i++)
        inner.values[i] = c->values[l->with[i - t->leaves.len]];
    copier_body(&inner, out);
}

/* ---- which values ---- */

/* A product of something with an invariant, not yet large in one step. */
static bool small_product(struct module *m, const struct fn *g, const struct node *n,
                          const struct body_values *body)
{
    const val *x = node_operands(g, n);
    if (!node_is_product(n) || is_invariant(body, x[0]) == is_invariant(body, x[1])) return false;
    struct dot_dims d;
    dot_dims(m, g, n, &d);
    bool rhs = is_invariant(body, x[0]); /* which operand changes */
    struct type t = type_get(m, value_type(g, x[rhs]));
    int64_t rows = 1;
    for (uint32_t i = 0; i < (rhs ? d.n_rhs_free : d.n_lhs_free); i++) {
        dim extent = t.dims[rhs ? d.rhs_free[i] : d.lhs_free[i]];
        rows *= dim_is_const(m, extent) ? dim_const_value(m, extent) : 1;
    }
    return rows < LARGE_ROWS;
}

struct split {
    struct copier *c;
    struct loop l;
    struct body_values body;
    bool *product; /* a small product is among what makes it */
    bool *seen;
    struct time_cone before, after;
};

static bool is_early(const struct split *w, val v) { return w->body.made_of[v] <= OF_SLICES; }

static void find_products(struct split *w)
{
    const struct fn *g = w->l.body;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        bool product = small_product(w->c->b->m, g, n, &w->body);
        for (uint32_t k = 0; k < n->n_operands; k++) product |= w->product[node_operands(g, n)[k]];
        for (uint32_t k = 0; k < n->n_results; k++) w->product[n->results + k] = product;
    }
}

/* v is early and read by something that stays: take it, or what in it is worth taking. Views and repetitions
 * stay inside, elementwise nodes go along with their products as long as that makes nothing larger. */
static void take_early(struct split *w, val v)
{
    const struct fn *g = w->l.body;
    struct module *m = w->c->b->m;
    if (!is_early(w, v) || !w->product[v] || is_invariant(&w->body, v) || w->seen[v]) return;
    w->seen[v] = true;
    const struct node *n = fn_node(g, g->values[v].node);
    bool take = small_product(m, g, n, &w->body);
    if (!take && node_row(n)->flags & OPF_ELEMENTWISE)
        for (uint32_t k = 0; k < n->n_operands; k++) take |= w->product[node_operands(g, n)[k]];
    if (take && time_fits(w->c, &w->l, static_elements(m, value_type(g, v)))) {
        vec_push(&w->c->b->arena, &w->before.wanted, v);
        return;
    }
    for (uint32_t k = 0; k < n->n_operands; k++) take_early(w, node_operands(g, n)[k]);
}

static void find_before(struct split *w)
{
    const struct fn *g = w->l.body;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        if (n->n_results && is_early(w, n->results)) continue;
        for (uint32_t k = 0; k < n->n_operands; k++) take_early(w, node_operands(g, n)[k]);
    }
    for (uint32_t k = 0; k < g->n_results; k++) take_early(w, g->results[k]);
}

/* Walks what makes v down to values that the carries need anyway (`kept`); false if something on the way must
 * stay in the loop. */
static bool walk_late(struct split *w, const bool *kept, val v, bool *visited, bool *product, bool *boundary)
{
    const struct fn *g = w->l.body;
    if (visited[v] || is_invariant(&w->body, v)) return true;
    visited[v] = true;
    if (kept[v] || g->values[v].node == NODE_NONE) {
        boundary[v] = true;
        return true;
    }
    const struct node *n = fn_node(g, g->values[v].node);
    if (!node_batches(w->c->b->m, g, n)) return false;
    *product |= small_product(w->c->b->m, g, n, &w->body);
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (!walk_late(w, kept, node_operands(g, n)[k], visited, product, boundary)) return false;
    return true;
}

/* Stacked results behind a product that no carry needs: stack what goes into the product instead, unless that
 * is larger. */
static void find_after(struct split *w, struct loop_plan *p, const bool *kept)
{
    struct module *m = w->c->b->m;
    struct arena *a = &w->c->b->arena;
    const struct fn *g = w->l.body;
    for (uint32_t k = 0; k < w->l.n_stack; k++) {
        val v = g->results[w->l.n_carry + k];
        if (kept[v] || is_early(w, v) || v < g->n_params) continue;
        bool *visited = ARENA_ZNEW(a, bool, g->n_values);
        bool *boundary = ARENA_ZNEW(a, bool, g->n_values);
        bool product = false;
        if (!walk_late(w, kept, v, visited, &product, boundary) || !product) continue;
        int64_t fresh = 0, size = static_elements(m, value_type(g, v));
        uint32_t unknown = 0;
        p->keep_stack[k] = false;
        for (val b = 0; b < g->n_values; b++) {
            if (!boundary[b] || time_is_available(w->c, &w->l, p, b)) continue;
            int64_t n = static_elements(m, value_type(g, b));
            if (n < 0) unknown++;
            else fresh += n;
        }
        bool pays = unknown || size < 0 ? unknown <= 1 && (unknown || !fresh) : fresh <= 2 * size;
        if (!pays || !time_fits(w->c, &w->l, fresh)) {
            p->keep_stack[k] = true;
            continue;
        }
        vec_push(a, &w->after.wanted, v);
        for (val b = 0; b < g->n_values; b++) {
            if (!boundary[b]) continue;
            time_need(w->c, &w->l, p, b);
            bool known = false;
            for (uint32_t i = 0; i < w->after.leaves.len; i++) known |= w->after.leaves.data[i] == b;
            if (!known) vec_push(a, &w->after.leaves, b);
        }
    }
}

static bool split_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct arena *a = &c->b->arena;
    struct split w = { .c = c };
    HOP_UNUSED(ctx);
    if (!loop_of_node(s->m, c->f, n, &w.l) || !loop_has_length(&w.l) || w.l.apart) return false;
    const struct fn *g = w.l.body;
    struct loop_plan p = plan_new(a, &w.l);
    w.body = body_values(a, s->m, g, w.l.n_carry, loop_first_with(&w.l));
    w.product = ARENA_ZNEW(a, bool, g->n_values);
    w.seen = ARENA_ZNEW(a, bool, g->n_values);
    w.before.l = &w.l;
    w.after.l = &w.l;
    find_products(&w);
    find_before(&w);
    bool *next = ARENA_ZNEW(a, bool, g->n_results);
    for (uint32_t i = 0; i < w.l.n_carry; i++) next[i] = true;
    find_after(&w, &p, live_values(a, s->m, g, (struct needs){ .wanted = next }).value);
    if (!w.before.wanted.len && !w.after.wanted.len) return false;
    if (w.before.wanted.len) {
        for (uint32_t i = w.l.n_carry; i < loop_first_with(&w.l); i++) {
            vec_push(a, &w.before.leaves, i);
            vec_push(a, &w.before.outer, c->values[node_operands(c->f, n)[i]]);
        }
        val *out = ARENA_NEW(a, val, w.before.wanted.len);
        batch_cone(c, &w.before, out);
        for (uint32_t k = 0; k < w.before.wanted.len; k++)
            vec_push(a, &p.over, (struct given){ w.before.wanted.data[k], out[k] });
    }
    plan_build(c, &w.l, &p);
    memcpy(results, p.results, n->n_results * sizeof *results);
    if (w.after.wanted.len) {
        for (uint32_t i = 0; i < w.after.leaves.len; i++)
            vec_push(a, &w.after.outer, time_array(c, &w.l, &p, w.after.leaves.data[i]));
        val *out = ARENA_NEW(a, val, w.after.wanted.len);
        batch_cone(c, &w.after, out);
        uint32_t at = 0;
        for (uint32_t k = 0; k < w.l.n_stack; k++)
            if (!p.keep_stack[k]) results[loop_stack_result(&w.l, k)] = out[at++];
    }
    return true;
}

uint32_t pass_split(struct simplifier *s, uint32_t fn)
{
    return rewrite_nodes(s, fn, node_is_loop, split_rule, NULL);
}
