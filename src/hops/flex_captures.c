/* Cotangents of arrays that a score function reads: sums of scatters into zeros, of which each is added where
 * it belongs. Where all of them lie at the head that is worked on, a head needs but its own rows. */
#include "hops/flex.h"
#include "transform/pass.h"

/* ---- sums ---- */

static bool adds(const struct attr *mode) { return mode->kind == ATTR_ABSENT || mode->i == 0; }

/* The place of a dim among those that a scatter has indices for; HOP_NONE: it has none. */
static uint32_t place_among(const struct attr *dims, uint32_t n_indices, uint32_t dim)
{
    if (dims->kind == ATTR_ABSENT) return dim < n_indices ? dim : HOP_NONE;
    for (uint32_t i = 0; i < n_indices; i++)
        if (dims->list[i] == dim) return i;
    return HOP_NONE;
}

/* What a scatter adds. */
static val scattered(struct builder *b, const struct node *n, val sum, const struct flex_rows *rows)
{
    uint32_t count = n->n_operands;
    struct attr attrs[2] = { *built_attr(b, n, SCATTER_DIMS), *built_attr(b, n, SCATTER_MODE) };
    val *operands = ARENA_NEW(&b->arena, val, count);
    for (uint32_t k = 1; k < count; k++) operands[k] = built_operand(b, n, k);
    operands[0] = sum;
    if (rows->dim != HOP_NONE) {
        uint32_t at = 1 + place_among(&attrs[0], count - 2, rows->dim);
        struct type t = emit_type(b, operands[at]);
        val head = emit_cast(b, rows->head, (enum dtype)t.dtype);
        operands[at] = t.rank ? emit_broadcast(b, head, t.rank, t.dims, NULL) : head;
    }
    return emit(b, OP_scatter, operands, count, attrs);
}

val flex_accumulated(struct builder *b, val sum, val ct, const struct flex_rows *rows)
{
    struct attr value;
    const struct node *n = built_node(b, ct);
    if (full_value(b, ct, &value) && attr_is_zero(&value)) return sum;
    if (n && n->op == OP_add) {
        val x = built_operand(b, n, 0), y = built_operand(b, n, 1);
        return flex_accumulated(b, flex_accumulated(b, sum, x, rows), y, rows);
    }
    if (!n || n->op != OP_scatter || !adds(built_attr(b, n, SCATTER_MODE))) return emit2(b, OP_add, sum, ct);
    uint32_t at = (uint32_t)(n - b->nodes.data);
    sum = flex_accumulated(b, sum, built_operand(b, n, 0), rows);
    return scattered(b, &b->nodes.data[at], sum, rows);
}

/* ---- rows of a head ---- */

struct search {
    const struct fn *f;
    val head;
    int64_t heads;
};

static const struct node *node_of(const struct fn *f, val v)
{
    return f->values[v].node == NODE_NONE ? NULL : fn_node(f, f->values[v].node);
}

static bool is_full(const struct fn *f, val v, struct attr *value)
{
    const struct node *n = node_of(f, v);
    if (!n || n->op != OP_full) return false;
    *value = *node_attr(f, n, FULL_VALUE);
    return true;
}

/* Is an index the head, perhaps clamped to the heads there are, or counted from the end if it were negative?
 */
static bool is_head(const struct search *s, val v)
{
    const struct node *n = node_of(s->f, v);
    const val *o = n ? node_operands(s->f, n) : NULL;
    struct attr limit;
    if (v == s->head) return true;
    if (!n) return false;
    switch (n->op) {
    case OP_cast:
    case OP_broadcast:
    case OP_reshape: return is_head(s, o[0]);
    case OP_max: return is_full(s->f, o[1], &limit) && limit.i <= 0 && is_head(s, o[0]);
    case OP_min: return is_full(s->f, o[1], &limit) && limit.i + 1 >= s->heads && is_head(s, o[0]);
    case OP_select: {
        const struct node *c = node_of(s->f, o[0]);
        if (!c || c->op != OP_lt || !is_head(s, node_operands(s->f, c)[0])) return false;
        return is_full(s->f, node_operands(s->f, c)[1], &limit) && limit.i <= 0 && is_head(s, o[2]);
    }
    default: return false;
    }
}

/* Does all that is not zero in v stand at the head, along a dim? */
static bool is_at_head(const struct search *s, val v, uint32_t dim)
{
    const struct node *n = node_of(s->f, v);
    struct attr value;
    if (!n) return false;
    const val *o = node_operands(s->f, n);
    if (n->op == OP_full) return is_full(s->f, v, &value) && attr_is_zero(&value);
    if (n->op == OP_add) return is_at_head(s, o[0], dim) && is_at_head(s, o[1], dim);
    if (n->op != OP_scatter || !adds(node_attr(s->f, n, SCATTER_MODE))) return false;
    if (!is_at_head(s, o[0], dim)) return false;
    uint32_t at = place_among(node_attr(s->f, n, SCATTER_DIMS), n->n_operands - 2, dim);
    return at != HOP_NONE && is_head(s, o[1 + at]);
}

uint32_t flex_dim_of_head(const struct module *m, uint32_t fn, uint32_t k, uint32_t head, dim heads)
{
    struct search s = { module_fn(m, fn), head, dim_const_value(m, heads) };
    struct type t = type_get(m, value_type(s.f, s.f->results[k]));
    for (uint32_t d = 0; d < t.rank; d++)
        if (t.dims[d] == heads && is_at_head(&s, s.f->results[k], d)) return d;
    return HOP_NONE;
}

/* ---- keys that take no part ---- */

static bool is_float(const struct flex *x, const struct fn *f, val v)
{
    return dtype_is_float((enum dtype)type_get(x->m, value_type(f, v)).dtype);
}

bool flex_wants_gate(const struct flex *x, struct arena *arena, bool scale)
{
    const struct fn *f = module_fn(x->m, x->bodies[FLEX_SCORE].fn);
    bool *read = ARENA_ZNEW(arena, bool, f->n_values), wants = false;
    for (uint32_t p = FLEX_N_FROM; p < f->n_params; p++) read[p] = true;
    for (uint32_t i = 0; i < f->n_nodes && !wants; i++) {
        const struct node *n = fn_node(f, i);
        const val *o = node_operands(f, n);
        bool any = false;
        for (uint32_t k = 0; k < n->n_operands; k++) any |= read[o[k]];
        for (uint32_t k = 0; k < n->n_results; k++) read[n->results + k] = any;
        if (n->n_results != 1) wants = true;
        else if (n->op == OP_mul) wants = (read[o[0]] && read[o[1]]) || (scale && any);
        else if (is_float(x, f, n->results))
            wants = n->op != OP_add && n->op != OP_sub && n->op != OP_neg && n->op != OP_cast &&
                    n->op != OP_select && n->op != OP_gather && n->op != OP_full;
    }
    return wants;
}

/* v, and without a derivative where the key takes no part. */
static val gated(struct builder *b, val there, val v)
{
    struct type t = emit_type(b, v);
    if (!dtype_is_float((enum dtype)t.dtype) || t.rank) return v;
    return emit_select(b, there, v, flex_unchanging(b, v));
}

uint32_t flex_gated(const struct flex *x)
{
    struct module *m = x->m;
    const struct fn *f = module_fn(m, x->bodies[FLEX_SCORE].fn);
    struct builder b;
    struct copier copy;
    builder_begin(&b, m, f);
    copier_begin(&copy, &b, f);
    copier_params(&copy);
    val there = builder_param(&b, type_scalar(m, DT_BOOL), 0), out;
    for (uint32_t p = 0; p < f->n_params; p++) copy.values[p] = gated(&b, there, copy.values[p]);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        const val *o = node_operands(f, n);
        copier_node(&copy, n);
        bool reads = false;
        for (uint32_t k = 0; k < n->n_operands; k++) reads |= o[k] >= FLEX_N_FROM && o[k] < f->n_params;
        for (uint32_t k = 0; k < n->n_results && reads; k++)
            copy.values[n->results + k] = gated(&b, there, copy.values[n->results + k]);
    }
    out = copy.values[f->results[0]];
    return builder_finish(&b, &out, 1);
}
