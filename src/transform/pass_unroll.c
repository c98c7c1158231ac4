/* Unrolling: a scan of a few steps whose body is a handful of elementwise nodes becomes its steps, one after
 * the other, so that they are computed together and nothing is carried through memory. What it stacks must be
 * taken apart again by others of its kind (a gradient's two scans), or there is no gain. */
#include "loop/lower.h"
#include "transform/pass.h"

enum {
    MAX_STEPS = 8,
    MAX_NODES = 64 /* of all steps together */
};

/* Costs nothing of its own: it is computed where it is read. */
static bool is_light(const struct module *m, const struct fn *f, const struct node *n)
{
    if (n->n_regions || n->n_results != 1 || !node_is_pure(m, f, n) || node_binds_symbols(f, n)) return false;
    const struct op_lower *lower = node_row(n)->lower;
    if (!lower || lower->kind != LOWER_POINTWISE) return false;
    bool arranges_one = lower->access == ACCESS_VIEW && n->n_operands == 1;
    return node_row(n)->flags & OPF_ELEMENTWISE || lower->cost == COST_FREE || arranges_one;
}

static bool is_small(struct module *m, const struct fn *f, const struct node *n)
{
    struct loop l;
    if (!loop_of_node(m, f, n, &l) || l.kind != LOOP_SCAN || !dim_is_const(m, l.length)) return false;
    int64_t length = dim_const_value(m, l.length);
    if (length < 2 || length > MAX_STEPS || !l.body->n_nodes || (int64_t)l.body->n_nodes * length > MAX_NODES)
        return false;
    for (uint32_t i = 0; i < l.body->n_nodes; i++)
        if (!is_light(m, l.body, fn_node(l.body, i))) return false;
    return true;
}

/* Do only scans in `chosen` read v, as slices, themselves or by way of others that arrange rows? */
static bool taken_apart(const struct module *m, const struct fn *f, val v, const bool *chosen, uint32_t depth)
{
    for (uint32_t k = 0; k < f->n_results; k++)
        if (f->results[k] == v) return false;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        const val *x = node_operands(f, n);
        for (uint32_t k = 0; k < n->n_operands; k++) {
            if (x[k] != v) continue;
            struct loop l;
            bool slices = chosen[i] && loop_of_node(m, f, n, &l) && k - loop_positions(f, n).over < l.n_over;
            if (slices) continue;
            const struct op_lower *lower = node_row(n)->lower;
            bool arranges = lower && lower->kind == LOWER_POINTWISE && lower->access == ACCESS_VIEW;
            if (!arranges || depth > 4 || !taken_apart(m, f, n->results, chosen, depth + 1)) return false;
        }
    }
    return true;
}

static bool *choose(struct arena *a, struct module *m, const struct fn *f, bool *any)
{
    bool *chosen = ARENA_ZNEW(a, bool, f->n_nodes);
    *any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        chosen[i] = is_small(m, f, fn_node(f, i));
        *any |= chosen[i];
    }
    for (bool changed = *any; changed;) {
        changed = false;
        *any = false;
        for (uint32_t i = 0; i < f->n_nodes; i++) {
            const struct node *n = fn_node(f, i);
            struct loop l;
            if (!chosen[i] || !loop_of_node(m, f, n, &l)) continue;
            for (uint32_t k = 0; k < l.n_stack; k++) {
                if (taken_apart(m, f, n->results + loop_stack_result(&l, k), chosen, 0)) continue;
                chosen[i] = false;
                changed = true;
            }
            *any |= chosen[i];
        }
    }
    return chosen;
}

static val row_of(struct builder *b, val xs, int64_t t)
{
    struct type type = emit_type(b, xs);
    dim from[MAX_RANK] = { dim_const(b->m, t) }, to[MAX_RANK];
    memcpy(to, type.dims, type.rank * sizeof *to);
    to[0] = dim_const(b->m, t + 1);
    return emit_reshape(b, emit_slice(b, xs, from, to), type.rank - 1u, type.dims + 1);
}

static val stack_rows(struct builder *b, const val *rows, uint32_t n)
{
    val *parts = ARENA_NEW(&b->arena, val, n);
    for (uint32_t t = 0; t < n; t++) {
        struct type type = type_get(b->m, type_prepend(b->m, builder_type(b, rows[t]), 1));
        parts[t] = emit_reshape(b, rows[t], type.rank, type.dims);
    }
    struct attr along = A_INT(0);
    return emit(b, OP_concat, parts, n, &along);
}

static bool unroll_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    const bool *chosen = ctx;
    struct builder *b = c->b;
    struct loop l;
    if (!chosen[n - c->f->nodes] || !loop_of_node(s->m, c->f, n, &l)) return false;
    uint32_t length = (uint32_t)dim_const_value(s->m, l.length);
    val *arguments = ARENA_NEW(&b->arena, val, l.body->n_params);
    val *out = ARENA_NEW(&b->arena, val, l.body->n_results);
    val *rows = ARENA_NEW(&b->arena, val, (size_t)l.n_stack * length);
    for (uint32_t i = 0; i < l.body->n_params; i++) arguments[i] = c->values[loop_operand(&l, i)];
    for (uint32_t step = 0; step < length; step++) {
        uint32_t t = l.reverse ? length - 1 - step : step;
        for (uint32_t i = 0; i < l.n_over; i++) arguments[l.n_carry + i] = row_of(b, c->values[l.over[i]], t);
        inline_region(c, n, l.body_region, arguments, out);
        memcpy(arguments, out, l.n_carry * sizeof *arguments);
        for (uint32_t k = 0; k < l.n_stack; k++) rows[(size_t)k * length + t] = out[l.n_carry + k];
    }
    for (uint32_t i = 0; i < l.n_carry; i++) results[i] = arguments[i];
    for (uint32_t k = 0; k < l.n_stack; k++)
        results[loop_stack_result(&l, k)] = stack_rows(b, rows + (size_t)k * length, length);
    return true;
}

static bool wants_scan(const struct node *n) { return node_loop_kind(n) == LOOP_SCAN; }

uint32_t pass_unroll(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    struct arena a = { 0 };
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) any |= wants_scan(fn_node(f, i));
    if (!any) return fn;
    hop_cleanup_push(arena_free, &a);
    bool *chosen = choose(&a, s->m, f, &any);
    uint32_t out = any ? rewrite_nodes(s, fn, wants_scan, unroll_rule, chosen) : fn;
    hop_cleanup_pop(&a);
    arena_free(&a);
    return out;
}
