/* Side by side: products of a loop's body that multiply one value of the step with several invariants, as the
 * gates of a recurrent network do, become one product with these side by side. They are put together once,
 * in front of the loop (by `hoist`), and each product is then a part of the one. Every element is the sum
 * that it was, so strict numbers stay. */
#include "loop/lower.h"
#include "ops/dot.h"
#include "transform/pass.h"

enum {
    FEWEST_TRIPS = 32,      /* for fewer nothing is put together … */
    MOST_ROWS = 128,        /* … nor for more rows a step: each product is large enough by itself … */
    LEAST_WORK = 32768,     /* … nor for fewer multiplications a step … */
    FEW_ROWS = 4,           /* … and for fewer rows than this nothing … */
    LEAST_READ = 128 << 10, /* … but from so many elements on, which is what takes the time … */
    MOST_ELEMENTS = 1 << 26 /* … and never more: they are there twice */
};

/* A product of a value of the step with an invariant. */
struct factor {
    const struct node *n;
    struct dot_dims d;
    bool right;   /* the invariant is the right operand */
    val step;     /* the other one */
    val shared;   /* the invariant … */
    uint32_t dim; /* … its free dim … */
    int64_t size; /* … and the size of that */
    bool taken;
};

struct search {
    struct simplifier *s;
    struct arena *a;
    const struct fn *g;
    struct body_values body;
    vec(struct factor) factors;
};

/* ---- which products ---- */

static bool is_factor(const struct search *w, const struct node *n, struct factor *out)
{
    struct module *m = w->s->m;
    if (!node_is_product(n)) return false;
    const val *x = node_operands(w->g, n);
    if (is_invariant(&w->body, x[0]) == is_invariant(&w->body, x[1])) return false;
    struct factor p = { .n = n, .right = is_invariant(&w->body, x[1]) };
    p.step = x[!p.right];
    p.shared = x[p.right];
    dot_dims(m, w->g, n, &p.d);
    uint32_t n_free = p.right ? p.d.n_rhs_free : p.d.n_lhs_free;
    if (p.d.n_batch || n_free != 1 || static_elements(m, value_type(w->g, p.shared)) <= 0) return false;
    p.dim = p.right ? p.d.rhs_free[0] : p.d.lhs_free[0];
    p.size = dim_const_value(m, type_get(m, value_type(w->g, p.shared)).dims[p.dim]);
    *out = p;
    return true;
}

static bool same_dims(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    return !memcmp(a, b, n * sizeof *a);
}

/* Do two products differ by the invariant and its free dim alone? */
static bool goes_with(const struct search *w, const struct factor *p, const struct factor *q)
{
    struct module *m = w->s->m;
    if (p->step != q->step || p->right != q->right || p->dim != q->dim) return false;
    if (p->d.n_contract != q->d.n_contract ||
        !same_dims(p->d.contract_lhs, q->d.contract_lhs, p->d.n_contract) ||
        !same_dims(p->d.contract_rhs, q->d.contract_rhs, p->d.n_contract))
        return false;
    return type_get(m, value_type(w->g, p->shared)).dtype == type_get(m, value_type(w->g, q->shared)).dtype &&
           type_get(m, value_type(w->g, p->n->results)).dtype ==
               type_get(m, value_type(w->g, q->n->results)).dtype;
}

/* The products that go with factor `first`, itself among them. */
typedef vec(struct factor *) together;

static bool pays(const struct search *w, const together *all)
{
    struct module *m = w->s->m;
    const struct factor *p = all->data[0];
    if (all->len < 2) return false;
    if (w->s->beside_of_any_size) return true;
    struct type t = type_get(m, value_type(w->g, p->step));
    uint32_t n_free = p->right ? p->d.n_lhs_free : p->d.n_rhs_free;
    int64_t rows = 1, elements = 0;
    for (uint32_t i = 0; i < n_free; i++) {
        dim extent = t.dims[p->right ? p->d.lhs_free[i] : p->d.rhs_free[i]];
        if (!dim_is_const(m, extent)) return false;
        rows *= HOP_MIN(dim_const_value(m, extent), MOST_ROWS + 1);
    }
    for (uint32_t i = 0; i < all->len; i++)
        elements += HOP_MIN(static_elements(m, value_type(w->g, all->data[i]->shared)), MOST_ELEMENTS + 1);
    bool large = rows < FEW_ROWS ? elements >= LEAST_READ : rows * elements >= LEAST_WORK;
    return rows <= MOST_ROWS && elements <= MOST_ELEMENTS && large;
}

static together find_together(struct search *w, struct factor *first)
{
    together all = { 0 };
    for (struct factor *q = first; q < w->factors.data + w->factors.len; q++)
        if (!q->taken && goes_with(w, first, q)) vec_push(w->a, &all, q);
    return all;
}

/* ---- one product in their place ---- */

/* Of one group; the first of its products comes first in the body, and nothing that they read is made of one
 * of them: the invariants of all can be there. */
static void multiply_together(struct search *w, struct copier *c, const together *all)
{
    struct module *m = w->s->m;
    struct factor *p = all->data[0];
    val *shared = ARENA_NEW(w->a, val, all->len);
    for (uint32_t i = 0; i < all->len; i++) shared[i] = copy_cone(c, all->data[i]->shared);
    struct attr along = A_INT(p->dim);
    val operands[2];
    operands[p->right] = emit(c->b, OP_concat, shared, all->len, &along);
    operands[!p->right] = c->values[p->step];
    enum dtype t = (enum dtype)type_get(m, value_type(w->g, p->n->results)).dtype;
    val whole = emit_dot_to(c->b, t, operands[0], operands[1], NULL, NULL, 0, p->d.contract_lhs,
                            p->d.contract_rhs, p->d.n_contract);
    struct type type = emit_type(c->b, whole);
    dim from[MAX_RANK], to[MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) {
        from[i] = dim_const(m, 0);
        to[i] = type.dims[i];
    }
    uint32_t dim_of_whole = p->right ? p->d.n_lhs_free : 0;
    int64_t at = 0;
    for (uint32_t i = 0; i < all->len; i++) {
        struct factor *q = all->data[i];
        from[dim_of_whole] = dim_const(m, at);
        to[dim_of_whole] = dim_const(m, at += q->size);
        c->values[q->n->results] = emit_slice(c->b, whole, from, to);
        builder_name(c->b, c->values[q->n->results], w->g->values[q->n->results].name);
        q->taken = true;
    }
}

static bool beside_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct search *w = ctx;
    HOP_UNUSED(s);
    for (uint32_t i = 0; i < w->factors.len; i++) {
        struct factor *p = &w->factors.data[i];
        if (p->n != n) continue;
        together all = { 0 };
        if (!p->taken) all = find_together(w, p);
        if (!p->taken && !pays(w, &all)) return false;
        if (!p->taken) multiply_together(w, c, &all);
        results[0] = c->values[n->results];
        return true;
    }
    return false;
}

/* ---- the pass ---- */

static bool has_few_trips(const struct module *m, const struct loop *l)
{
    return loop_has_length(l) && dim_is_const(m, l->length) && dim_const_value(m, l->length) < FEWEST_TRIPS;
}

static bool loop_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct loop l;
    HOP_UNUSED(ctx);
    if (!loop_of_node(s->m, c->f, n, &l) || (has_few_trips(s->m, &l) && !s->beside_of_any_size)) return false;
    struct arena *a = &c->b->arena;
    struct search w = { .s = s, .a = a, .g = l.body };
    for (uint32_t i = 0; i < l.body->n_nodes; i++) {
        struct factor p;
        if (!node_is_product(fn_node(l.body, i))) continue;
        if (!w.body.made_of) w.body = body_values(a, s->m, l.body, l.n_carry, loop_first_with(&l));
        if (is_factor(&w, fn_node(l.body, i), &p)) vec_push(a, &w.factors, p);
    }
    if (w.factors.len < 2) return false;
    uint32_t *fns = ARENA_NEW(a, uint32_t, n->n_regions);
    for (uint32_t r = 0; r < n->n_regions; r++) fns[r] = node_region(c->f, n, r)->fn;
    fns[l.body_region] = rewrite_nodes(s, l.body->id, node_is_product, beside_rule, &w);
    return replace_regions(c, n, fns, results);
}

uint32_t pass_beside(struct simplifier *s, uint32_t fn)
{
    if (s->o->differentiable) return fn;
    return rewrite_nodes(s, fn, node_is_loop, loop_rule, NULL);
}
