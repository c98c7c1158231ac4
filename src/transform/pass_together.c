/* Small reductions over the ranks along one axis that do not need each other become one, of all their
 * operands one behind the other: what an exchange takes is mostly the way to the others and back. So it is
 * with the gradients of small weights and biases. Every element is reduced as before, in the order of the
 * ranks; a value of rank 0 is reduced in another order, and stays. Where the result may still be
 * differentiated nothing is joined, as the derivative of the parts would add zeros to each other. */
#include "ir/mesh.h"
#include "transform/pass.h"

enum { MOST_JOINED = 4096 }; /* elements */

/* Reductions that become one, where the last of them stands. */
struct group {
    vec(uint32_t) nodes;
    int64_t elements;
    bool open; /* nothing has read what any of them gives */
};
struct search {
    struct module *m;
    const struct fn *f;
    struct arena arena;
    vec(struct group) groups;
    uint32_t *of; /* per value: the group that makes it, HOP_NONE: none */
};

/* Elements of a reduction over ranks that may be joined with others; 0: it may not. */
static int64_t small_elements(const struct search *w, const struct node *n)
{
    uint32_t axis;
    if (n->op != OP_all_reduce) return 0;
    if (mesh_of_axis(w->m, (uint32_t)node_attr(w->f, n, AXIS_NAME)->i, &axis) == HOP_NONE) return 0;
    type_id t = value_type(w->f, n->results);
    int64_t elements = static_elements(w->m, t);
    return type_get(w->m, t).rank && elements > 0 && elements <= MOST_JOINED ? elements : 0;
}

static bool alike(const struct search *w, const struct node *a, const struct node *b)
{
    struct type x = type_get(w->m, value_type(w->f, node_operands(w->f, a)[0]));
    struct type y = type_get(w->m, value_type(w->f, node_operands(w->f, b)[0]));
    bool equal = x.dtype == y.dtype && x.varying == y.varying;
    for (uint32_t k = 0; k <= ALL_REDUCE_OP; k++)
        equal &= attrs_equal(node_attr(w->f, a, k), node_attr(w->f, b, k));
    return equal;
}

static void add_reduction(struct search *w, uint32_t at, int64_t elements)
{
    const struct node *n = fn_node(w->f, at);
    uint32_t g = 0;
    for (; g < w->groups.len; g++) {
        const struct group *group = &w->groups.data[g];
        bool room = group->open && group->elements + elements <= MOST_JOINED;
        if (room && alike(w, fn_node(w->f, group->nodes.data[0]), n)) break;
    }
    if (g == w->groups.len) vec_push(&w->arena, &w->groups, (struct group){ .open = true });
    struct group *group = &w->groups.data[g];
    vec_push(&w->arena, &group->nodes, at);
    group->elements += elements;
    w->of[n->results] = g;
}

static bool find_groups(struct search *w)
{
    bool any = false;
    w->of = ARENA_NEW(&w->arena, uint32_t, w->f->n_values);
    for (val v = 0; v < w->f->n_values; v++) w->of[v] = HOP_NONE;
    for (uint32_t i = 0; i < w->f->n_nodes; i++) {
        const struct node *n = fn_node(w->f, i);
        for (uint32_t k = 0; k < n->n_operands; k++) {
            uint32_t g = w->of[node_operands(w->f, n)[k]];
            if (g != HOP_NONE) w->groups.data[g].open = false;
        }
        int64_t elements = small_elements(w, n);
        if (elements) add_reduction(w, i, elements);
    }
    for (uint32_t g = 0; g < w->groups.len; g++) any |= w->groups.data[g].nodes.len > 1;
    return any;
}

static val build_joined(const struct search *w, struct copier *c, const struct group *g)
{
    val *parts = ARENA_NEW(&c->b->arena, val, g->nodes.len);
    for (uint32_t k = 0; k < g->nodes.len; k++) {
        val v = c->values[node_operands(w->f, fn_node(w->f, g->nodes.data[k]))[0]];
        dim all = dim_const(w->m, static_elements(w->m, builder_type(c->b, v)));
        parts[k] = emit_reshape(c->b, v, 1, &all);
    }
    struct attr along = A_INT(0);
    struct node_in in = copier_node_in(c, fn_node(w->f, g->nodes.data[0]));
    val joined = emit(c->b, OP_concat, parts, g->nodes.len, &along);
    in.operands = &joined;
    return builder_node(c->b, &in);
}

static bool join_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct search *w = ctx;
    HOP_UNUSED(s);
    uint32_t of = w->of[n->results];
    const struct group *g = of == HOP_NONE ? NULL : &w->groups.data[of];
    if (!g || g->nodes.len < 2) return false;
    results[0] = VAL_NONE;
    if (n != fn_node(w->f, g->nodes.data[g->nodes.len - 1])) return true; /* it comes with the last */
    val joined = build_joined(w, c, g);
    int64_t at = 0;
    for (uint32_t k = 0; k < g->nodes.len; k++) {
        const struct node *one = fn_node(w->f, g->nodes.data[k]);
        struct type t = type_get(w->m, value_type(w->f, one->results));
        dim start = dim_const(w->m, at);
        at += static_elements(w->m, value_type(w->f, one->results));
        dim limit = dim_const(w->m, at);
        results[0] = emit_reshape(c->b, emit_slice(c->b, joined, &start, &limit), t.rank, t.dims);
        if (one != n) copier_bind(c, one, results);
    }
    return true;
}

static bool wants_reduction(const struct node *n) { return n->op == OP_all_reduce; }

uint32_t pass_together(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    uint32_t reductions = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) reductions += wants_reduction(fn_node(f, i));
    if (reductions < 2 || s->o->differentiable) return fn;
    struct search w = { .m = s->m, .f = f };
    hop_cleanup_push(arena_free, &w.arena);
    uint32_t out = find_groups(&w) ? rewrite_nodes(s, fn, wants_reduction, join_rule, &w) : fn;
    hop_cleanup_pop(&w.arena);
    arena_free(&w.arena);
    return out;
}
