/* Which results of a branch nobody reads when that branch has run: what the other branches save for the
 * gradient. The index that chose the branch is followed with the result, out of the loop that stacks both or
 * goes over the index, into loops that go over both, to switches by the same index: if only other branches of
 * these read the result, the branch need not write it. */
#include "hops/lower_hops.h"
#include "ir/loop.h"
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

/* Is it a loop whose steps get slices? */
static bool goes_over(const struct module *m, const struct fn *f, const struct node *n, struct loop *l)
{
    return loop_of_node(m, f, n, l) && loop_has_length(l);
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
    uint32_t made = c->step->values[x].node, made_again = step->values[y].node;
    struct loop l, again;
    if (!goes_over(m, c->around, c->loop, &l) || !goes_over(m, c->around, c->again, &again)) return false;
    if (made == NODE_NONE && made_again == NODE_NONE) {
        if (x < l.n_carry || y < again.n_carry) return false;
        bool alike = loop_is_over(&l, x) == loop_is_over(&again, y);
        return alike && loop_operand(&l, x) == loop_operand(&again, y);
    }
    if (made == NODE_NONE || made_again == NODE_NONE) return false;
    const struct node *n = fn_node(c->step, made), *o = fn_node(step, made_again);
    if (n->op != o->op || n->n_regions || n->n_results != 1 || n->n_operands != o->n_operands) return false;
    if (node_row(n)->lower->kind != LOWER_POINTWISE || node_effects(m, c->step, n)) return false;
    if (is_float(m, c->step, x) && n->n_operands) return false;
    if (type_get(m, value_type(c->step, x)).rank || !constant_attrs(c->step, n, step, o)) return false;
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
    struct loop l;
    if (!goes_over(gap.m, f, n, &l)) return false;
    for (uint32_t p = 0; p < l.body->n_params; p++) {
        if (loop_operand(&l, p) != gap.value) continue;
        if (!loop_is_over(&l, p) || is_result(l.body, p)) return false;
        struct gap inside = gap;
        bool good = false;
        inside.value = p;
        if (gap.index == HOP_NONE && gap.computed.loop && !gap.computed.again) {
            inside.computed.again = n;
            good = reads_stay_away(l.body, inside);
        }
        for (uint32_t q = l.n_carry; q < l.body->n_params && !good; q++) {
            if (loop_operand(&l, q) != gap.index) continue;
            inside.index = q;
            good = reads_stay_away(l.body, inside);
        }
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
    struct loop l;
    if (!lower_outer(L, &outer, &n)) return false;
    g = lower_fn(outer);
    if (!goes_over(gap.m, g, n, &l) || r < l.n_carry) return false;
    struct gap around = { gap.m, n->results + r, HOP_NONE, gap.branch, gap.branches, { 0 } };
    if (gap.index == HOP_NONE) return false;
    if (gap.index < f->n_params && gap.index >= l.n_carry) {
        around.index = loop_operand(&l, gap.index);
        if (unread_in(outer, around)) return true;
    }
    for (uint32_t k = l.n_carry; k < f->n_results; k++) {
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
