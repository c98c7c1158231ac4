/* Ranges at work: integer nodes whose result can be but one number become it, comparisons, clamps and
 * remainders that cannot matter are taken away, checks that always hold too, and so is a while_loop that is
 * never entered. Bodies are gone through with what their node feeds them. */
#include "transform/pass.h"
#include "transform/ranges.h"

enum { MAX_DEPTH = 3 }; /* of nested bodies; each is also a function of its own to the simplifier */

struct context {
    struct range *values;
    uint32_t *bodies; /* per region of the function: what it becomes */
};

static enum dtype value_dtype(const struct module *m, const struct fn *f, val v)
{
    return (enum dtype)type_get(m, value_type(f, v)).dtype;
}

/* The operand that the node's result always equals, VAL_NONE: none. */
static val same_as(struct module *m, const struct fn *f, const struct node *n, const struct range *values)
{
    const struct op_row *row = node_row(n);
    if (!row->same || !dtype_is_integer(value_dtype(m, f, n->results))) return VAL_NONE;
    struct range_in w = range_in(m, f, n, values);
    return row->same(&w);
}

static bool is_known(const struct module *m, const struct fn *f, const struct node *n,
                     const struct range *values)
{
    if (n->n_results != 1 || n->n_regions || n->op == OP_full || n->op == OP_constant) return false;
    if (dtype_is_float(value_dtype(m, f, n->results)) || !range_is_point(values[n->results])) return false;
    if (!node_is_pure(m, f, n) || node_binds_symbols(f, n)) return false;
    return !type_is_inner(m, f, value_type(f, n->results));
}

/* Is it run for a check of operand 0 and nothing else? */
static bool is_check(const struct node *n) { return node_row(n)->effect == EFFECT_CHECK && !n->n_results; }

static bool always_holds(const struct fn *f, const struct node *n, const struct range *values)
{
    dim a, b;
    if (!is_check(n) || check_of_dims(f->values, f->nodes, f->pool, f->attrs, n, &a, &b)) return false;
    struct range condition = values[node_operands(f, n)[0]];
    return condition.lo == 1 && condition.hi == 1;
}

/* A while_loop or fori_loop that is left at once, and stacks nothing. */
static bool never_entered(struct arena *a, struct module *m, const struct fn *f, const struct node *n,
                          const struct range *values)
{
    struct loop l;
    if (!loop_of_node(m, f, n, &l) || loop_has_length(&l) || l.n_stack) return false;
    if (l.kind == LOOP_COUNTED) return values[l.from].lo >= values[l.to].hi;
    if (l.cond->effects) return false;
    struct range *first = ranges_of_region(a, m, f, n, l.cond_region, values);
    for (uint32_t i = 0; i < l.n_carry; i++) first[i] = values[l.carry[i]];
    struct range test = ranges_of_values(a, m, l.cond, first)[l.cond->results[0]];
    return range_is_point(test) && !test.lo;
}

static val number(struct builder *b, type_id type, int64_t value)
{
    struct type t = type_get(b->m, type);
    struct attr a[3] = { A_INT(value), A_DIMS(t.dims, t.rank), A_DTYPE(t.dtype) };
    return emit(b, OP_full, NULL, 0, a);
}

static bool with_new_bodies(struct copier *c, const struct node *n, const uint32_t *bodies, val *results)
{
    bool changed = false;
    for (uint32_t r = 0; r < n->n_regions; r++)
        changed |= bodies[n->regions + r] != node_region(c->f, n, r)->fn;
    if (!changed) return false;
    struct node_in in = copier_node_in(c, n);
    struct region_in *regions = arena_copy(&c->b->arena, in.regions, n->n_regions * sizeof *regions);
    for (uint32_t r = 0; r < n->n_regions; r++) regions[r].fn = bodies[n->regions + r];
    in.regions = regions;
    val first = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    return true;
}

static bool narrow_node(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    const struct context *x = ctx;
    if (never_entered(&c->b->arena, s->m, c->f, n, x->values)) {
        uint32_t n_carry = node_group_size(c->f, n, 0);
        for (uint32_t k = 0; k < n->n_results; k++) {
            if (k < n_carry) results[k] = c->values[node_operands(c->f, n)[k]];
            else results[k] = number(c->b, type_scalar(s->m, DT_I64), 0);
        }
        return true;
    }
    if (n->n_regions) return with_new_bodies(c, n, x->bodies, results);
    if (always_holds(c->f, n, x->values)) return true;
    if (n->n_results != 1) return false;
    if (is_known(s->m, c->f, n, x->values)) {
        type_id type = copier_type(c, value_type(c->f, n->results));
        results[0] = number(c->b, type, x->values[n->results].lo);
        return true;
    }
    val same = same_as(s->m, c->f, n, x->values);
    if (same == VAL_NONE) return false;
    results[0] = c->values[same];
    return builder_type(c->b, results[0]) == copier_type(c, value_type(c->f, n->results));
}

/* Does it work with whole numbers anywhere? */
static bool has_whole(const struct module *m, const struct fn *f, uint32_t depth)
{
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (is_check(n) || node_row(n)->count) return true;
        bool is_number = n->op == OP_full || n->op == OP_constant;
        for (uint32_t k = 0; k < n->n_results && !is_number; k++)
            if (!dtype_is_float(value_dtype(m, f, n->results + k))) return true;
        for (uint32_t r = 0; r < n->n_regions && depth < MAX_DEPTH; r++)
            if (has_whole(m, module_fn(m, node_region(f, n, r)->fn), depth + 1)) return true;
    }
    return false;
}

static uint32_t narrow_fn(struct simplifier *s, uint32_t fn, const struct range *params, uint32_t depth);

static uint32_t narrow_region(struct simplifier *s, struct arena *a, const struct fn *f, const struct node *n,
                              uint32_t r, const struct range *values, uint32_t depth)
{
    uint32_t fn = node_region(f, n, r)->fn;
    const struct fn *body = module_fn(s->m, fn);
    if (depth >= MAX_DEPTH) return fn;
    bool shared = node_row(n)->control == CONTROL_CALL && simplifier_uses(s, fn) > 1;
    if (shared || !has_whole(s->m, body, 0)) return fn;
    struct range *params = ranges_of_region(a, s->m, f, n, r, values);
    for (uint32_t p = 0; p < body->n_params; p++)
        if (!dtype_is_float(value_dtype(s->m, body, p)) && params[p].lo > params[p].hi)
            return fn; /* never run */
    return narrow_fn(s, fn, params, depth + 1);
}

/* Do the ranges say anything of the node itself? */
static bool narrows(struct arena *a, struct module *m, const struct fn *f, const struct node *n,
                    const struct range *values)
{
    if (never_entered(a, m, f, n, values) || always_holds(f, n, values)) return true;
    if (is_known(m, f, n, values)) return true;
    return n->n_results == 1 && same_as(m, f, n, values) != VAL_NONE;
}

static uint32_t narrow_fn(struct simplifier *s, uint32_t fn, const struct range *params, uint32_t depth)
{
    const struct fn *f = module_fn(s->m, fn);
    struct arena a = { 0 };
    struct context x;
    bool any = false;
    hop_cleanup_push(arena_free, &a);
    x.values = ranges_of_values(&a, s->m, f, params);
    x.bodies = ARENA_NEW(&a, uint32_t, f->n_regions);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t r = 0; r < n->n_regions; r++) {
            uint32_t body = narrow_region(s, &a, f, n, r, x.values, depth);
            x.bodies[n->regions + r] = body;
            any |= body != node_region(f, n, r)->fn;
        }
        any |= narrows(&a, s->m, f, n, x.values);
    }
    uint32_t out = any ? rewrite_nodes(s, fn, NULL, narrow_node, &x) : fn;
    hop_cleanup_pop(&a);
    arena_free(&a);
    return out;
}

uint32_t pass_ranges(struct simplifier *s, uint32_t fn)
{
    return has_whole(s->m, module_fn(s->m, fn), 0) ? narrow_fn(s, fn, NULL, 0) : fn;
}
