/* Which results of a branch nobody reads when that branch has run: what the other branches save for the
 * gradient. The index that chose the branch is followed with the result, out of the loop that stacks both or
 * goes over the index, into loops that go over both, to switches by the same index: if only other branches of
 * these read the result, the branch need not write it. */
#include "hops/lower_hops.h"
#include "ops/build.h"
#include "transform/pass.h"

/* An index that each step of a loop computes from slices: another loop of the same function may compute it
 * again. */
struct computed {
    const struct fn *around, *step;
    const struct node *loop, *again; /* again: the loop in whose step one looks */
    val index;                       /* in step */
};
/* The value has no content where `index` chose branch `branch` of `branches`; both are values of one
 * function. */
struct gap {
    const struct module *m;
    val value, index; /* index HOP_NONE: `computed` … */
    uint32_t branch, branches;
    struct computed computed; /* … of which loop and again are NULL where there is none */
};

/* A loop whose steps get slices: how many carries and slices come first among its operands. */
static bool goes_over(const struct fn *f, const struct node *n, uint32_t *n_carry, uint32_t *n_over)
{
    if (n->op != OP_scan && n->op != OP_map) return false;
    *n_carry = n->op == OP_scan ? node_group_size(f, n, 0) : 0;
    *n_over = node_group_size(f, n, n->op == OP_scan);
    return node_region(f, n, 0)->operands == *n_carry + *n_over; /* parameters stand as operands do */
}

static bool constant_attrs(const struct fn *f, const struct node *n, const struct fn *g, const struct node *o)
{
    for (uint32_t k = 0; k < node_row(n)->sig.n_attrs; k++) {
        const struct attr *a = node_attr(f, n, k), *b = node_attr(g, o, k);
        if (a->kind != b->kind || a->kind == ATTR_DIM || (a->kind == ATTR_DIMS && a->n) || !attrs_equal(a, b))
            return false;
    }
    return true;
}

static bool is_float(const struct module *m, const struct fn *f, val v)
{
    return dtype_is_float((enum dtype)type_get(m, value_type(f, v)).dtype);
}

/* Is y, in a step of loop `again`, the number that x is in that of the other loop? Both are computed by the
 * same operations from the same slices. Numbers of floating point are compared, never computed with: what is
 * rounded may be so in different ways. */
static bool same_number(const struct module *m, const struct computed *c, val x, const struct fn *step, val y)
{
    uint32_t carries[2], over[2], made = c->step->values[x].node, made_again = step->values[y].node;
    if (!goes_over(c->around, c->loop, &carries[0], &over[0]) ||
        !goes_over(c->around, c->again, &carries[1], &over[1]))
        return false;
    if (made == NODE_NONE && made_again == NODE_NONE)
        return x >= carries[0] && y >= carries[1] &&
               (x < carries[0] + over[0]) == (y < carries[1] + over[1]) &&
               node_operands(c->around, c->loop)[x] == node_operands(c->around, c->again)[y];
    if (made == NODE_NONE || made_again == NODE_NONE) return false;
    const struct node *n = fn_node(c->step, made), *o = fn_node(step, made_again);
    if (n->op != o->op || n->n_regions || n->n_results != 1 || n->n_operands != o->n_operands ||
        node_row(n)->lower->kind != LOWER_POINTWISE || node_effects(m, c->step, n) ||
        (is_float(m, c->step, x) && n->n_operands) || type_get(m, value_type(c->step, x)).rank ||
        !constant_attrs(c->step, n, step, o))
        return false;
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (!same_number(m, c, node_operands(c->step, n)[k], step, node_operands(step, o)[k])) return false;
    return true;
}

static bool is_index(const struct gap *gap, const struct fn *f, val v)
{
    if (gap->index != HOP_NONE) return v == gap->index;
    return gap->computed.loop && gap->computed.again &&
           same_number(gap->m, &gap->computed, gap->computed.index, f, v);
}

static bool reads_stay_away(const struct fn *f, struct gap gap);

static bool is_result(const struct fn *f, val v)
{
    for (uint32_t r = 0; r < f->n_results; r++)
        if (f->results[r] == v) return true;
    return false;
}

/* Does no other branch than the one that has run get the value? */
static bool switch_stays_away(const struct fn *f, const struct node *n, struct gap gap)
{
    if (!is_index(&gap, f, node_operands(f, n)[0]) || n->n_regions != gap.branches) return false;
    for (uint32_t i = 0; i < node_region(f, n, gap.branch)->n_operands; i++)
        if (node_region_operands(f, n, gap.branch)[i] == gap.value) return false;
    return true;
}

/* A step that gets a slice of the value must also get that of the index, or the index itself where it is one
 * for all steps. */
static bool loop_stays_away(const struct fn *f, const struct node *n, struct gap gap)
{
    uint32_t n_carry, n_over;
    if (!goes_over(f, n, &n_carry, &n_over)) return false;
    const struct fn *step = module_fn(gap.m, node_region(f, n, 0)->fn);
    for (uint32_t i = 0; i < n->n_operands; i++) {
        if (node_operands(f, n)[i] != gap.value) continue;
        if (i < n_carry || i >= n_carry + n_over || is_result(step, i)) return false;
        struct gap inside = gap;
        bool good = false;
        inside.value = i;
        if (gap.index == HOP_NONE && gap.computed.loop && !gap.computed.again)
            inside.computed.again = n, good = reads_stay_away(step, inside);
        for (uint32_t k = n_carry; k < n->n_operands && !good; k++)
            good = node_operands(f, n)[k] == gap.index && (inside.index = k, reads_stay_away(step, inside));
        if (!good) return false;
    }
    return true;
}

static bool reads_stay_away(const struct fn *f, struct gap gap)
{
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        bool reads = false;
        for (uint32_t k = 0; k < n->n_operands; k++) reads |= node_operands(f, n)[k] == gap.value;
        if (reads && !(n->op == OP_switch ? switch_stays_away(f, n, gap) : loop_stays_away(f, n, gap)))
            return false;
    }
    return true;
}

static bool unread_in(struct lower *L, struct gap gap);

/* The value is stacked as result r of a step. What stands for the index around: what steps get slices of,
 * what all steps get, a stack of it, or its computation. */
static bool stacked_unread(struct lower *L, struct gap gap, uint32_t r)
{
    struct lower *outer;
    const struct fn *f = lower_fn(L), *g;
    const struct node *n;
    uint32_t n_carry, n_over;
    if (!lower_outer(L, &outer, &n) || !goes_over(g = lower_fn(outer), n, &n_carry, &n_over) || r < n_carry)
        return false;
    struct gap around = { gap.m, n->results + r, HOP_NONE, gap.branch, gap.branches, { 0 } };
    if (gap.index == HOP_NONE) return false;
    if (gap.index < f->n_params &&
        gap.index >=
            n_carry) { /* parameters are carries, slices, and what all steps get, as the operands are */
        around.index = node_operands(g, n)[gap.index];
        if (unread_in(outer, around)) return true;
    }
    for (uint32_t k = n_carry; k < f->n_results; k++) {
        around.index = n->results + k;
        if (f->results[k] == gap.index && unread_in(outer, around)) return true;
    }
    around.index = HOP_NONE;
    around.computed = (struct computed){ g, f, n, NULL, gap.index };
    return unread_in(outer, around);
}

static bool unread_in(struct lower *L, struct gap gap)
{
    const struct fn *f = lower_fn(L);
    if (!reads_stay_away(f, gap)) return false;
    for (uint32_t r = 0; r < f->n_results; r++)
        if (f->results[r] == gap.value && !stacked_unread(L, gap, r)) return false;
    return true;
}

bool switch_result_unread(struct lower *L, const struct fn *f, const struct node *n, uint32_t branch,
                          uint32_t k)
{
    return unread_in(
        L,
        (struct gap){ lower_module(L), n->results + k, node_operands(f, n)[0], branch, n->n_regions, { 0 } });
}
