/* Folding: nodes whose operands are constants are evaluated by their own rows, identities that hold for every
 * value (signed zeros and NaN included) are applied, and control flow whose choice is known is replaced by
 * what it chooses. One table: an operator and its rule. */
#include "interp/interp.h"
#include "ir/number.h"
#include "ops/dot.h"
#include "transform/pass.h"

#include <math.h>

enum { FOLD_LIMIT = 64 }; /* elements of an evaluated constant */

/* A node about to be copied, in terms of the builder. */
struct fold {
    struct copier *c;
    struct builder *b;
    struct module *m;
    const struct node *n;
    const val *x; /* operands */
    const struct attr *attrs;
    type_id type; /* of the result */
};
typedef val (*fold_rule)(
    const struct fold *w); /* a value equal to the node's result, VAL_NONE when the rule does not apply */

/* ---- looking at values ---- */

static const struct node *made_by(const struct fold *w, val v, enum op op)
{
    const struct node *n = built_node(w->b, v);
    return n && n->op == op ? n : NULL;
}

static enum dtype dtype_of(const struct fold *w, val v) { return (enum dtype)emit_type(w->b, v).dtype; }

/* Is every element of v the same known number? Integers and bools come as *i, floats as *r. */
static bool splat(const struct fold *w, val v, int64_t *i, double *r)
{
    const struct node *n = made_by(w, v, OP_full);
    if (!n) return false;
    const struct attr *a = built_attr(w->b, n, FULL_VALUE);
    *i = a->kind == ATTR_INT ? a->i : (int64_t)HOP_MAX(HOP_MIN(a->r, 9e18), -9e18);
    *r = a->kind == ATTR_INT ? (double)a->i : a->r;
    return true;
}

static bool is_float(const struct fold *w, val v) { return dtype_is_float(dtype_of(w, v)); }

/* v is `value` everywhere; zero counts with its sign. */
static bool is_number(const struct fold *w, val v, double value)
{
    int64_t i;
    double r;
    if (!splat(w, v, &i, &r)) return false;
    if (!is_float(w, v)) return (double)i == value;
    return r == value && !signbit(r) == !signbit(value);
}

/* Surely not -0: sums start at +0, and only (-0) + (-0) is -0. */
static bool never_negative_zero(const struct fold *w, val v)
{
    const struct node *n = built_node(w->b, v);
    if (!n) return false;
    switch (n->op) {
    case OP_dot:
    case OP_matmul:
    case OP_sum: return !dtype_is_narrow(dtype_of(w, v)); /* rounding a small negative sum to f16 gives -0 */
    case OP_permute:
    case OP_reshape:
    case OP_broadcast:
    case OP_slice: return never_negative_zero(w, built_operand(w->b, n, 0));
    case OP_add:
        return never_negative_zero(w, built_operand(w->b, n, 0)) ||
               never_negative_zero(w, built_operand(w->b, n, 1));
    case OP_full: return is_float(w, v) && !is_number(w, v, -0.0);
    default: return false;
    }
}

static val full_of_type(struct builder *b, type_id type, int64_t i, double r)
{
    struct type t = type_get(b->m, type);
    struct attr a[3] = { dtype_is_float((enum dtype)t.dtype) ? A_REAL(r) : A_INT(i), A_DIMS(t.dims, t.rank),
                         A_DTYPE(t.dtype) };
    return emit(b, OP_full, NULL, 0, a);
}

static val full_of(const struct fold *w, double value)
{
    return full_of_type(w->b, w->type, (int64_t)value, value);
}

/* The node's result when its first operand is a full and the operator only arranges elements. */
static val arranged_full(const struct fold *w)
{
    int64_t i;
    double r;
    return splat(w, w->x[0], &i, &r) ? full_of_type(w->b, w->type, i, r) : VAL_NONE;
}

/* ---- evaluating ---- */

static void scalar_bytes(enum dtype t, const struct attr *a, void *out)
{
    if (a->kind == ATTR_INT) element_set_whole(t, out, a->i);
    else element_set_real(t, out, a->r);
}

/* The number at p as a full's value. */
static struct attr scalar_attr(enum dtype t, const void *p)
{
    return dtype_is_float(t) ? A_REAL(element_real(t, p)) : A_INT(element_whole(t, p));
}
/* A full's value is an i64 or f64: u64 from 2^63 on stays a constant. */
static bool full_holds(enum dtype t, const void *p) { return t != DT_U64 || element_whole(t, p) >= 0; }

/* The tensor of a full or constant; of its first element only when `one`. */
static struct tensor *constant_tensor(const struct fold *w, val v, bool one)
{
    const struct node *n = built_node(w->b, v);
    struct type t = emit_type(w->b, v);
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = one ? 1 : dim_const_value(w->m, t.dims[i]);
    struct tensor *out = tensor_new((enum dtype)t.dtype, one ? 0 : t.rank, dims);
    size_t width = dtype_info[t.dtype].size;
    if (n->op == OP_constant)
        memcpy(out->data, w->m->constants.data[built_attr(w->b, n, CONSTANT_VALUE)->i].data,
               (size_t)out->count * width);
    else
        for (int64_t i = 0; i < out->count; i++)
            scalar_bytes((enum dtype)t.dtype, built_attr(w->b, n, FULL_VALUE),
                         (char *)out->data + (size_t)i * width);
    return out;
}

struct tensors {
    struct tensor *data[8];
    uint32_t n;
};
static void tensors_free(void *list)
{
    struct tensors *l = list;
    for (uint32_t i = 0; i < l->n; i++) tensor_free(l->data[i]);
}

/* A constant of these elements: a full when all are the same number. */
static val constant_of(const struct fold *w, const struct tensor *t)
{
    size_t width = dtype_info[t->dtype].size;
    const char *data = t->data;
    bool same = t->count > 0;
    for (int64_t i = 1; i < t->count && same; i++) same = !memcmp(data, data + (size_t)i * width, width);
    struct type type = type_get(w->m, w->type);
    if ((same && full_holds((enum dtype)t->dtype, data)) || !t->count) {
        struct attr a[3] = { t->count                               ? scalar_attr((enum dtype)t->dtype, data)
                             : dtype_is_float((enum dtype)t->dtype) ? A_REAL(0)
                                                                    : A_INT(0),
                             A_DIMS(type.dims, type.rank), A_DTYPE(type.dtype) };
        return emit(w->b, OP_full, NULL, 0, a);
    }
    if (t->count != static_elements(w->m, w->type))
        return VAL_NONE; /* one element stands for all, and no full holds it */
    struct attr a = A_CONST(module_constant(w->m, w->type, data, (size_t)t->count * width, 0));
    return emit(w->b, OP_constant, NULL, 0, &a);
}

/* Runs the row on tensors: a function of one node is made for it and thrown away. */
static val evaluate(const struct fold *w, bool one)
{
    const struct op_row *row = node_row(w->n);
    struct builder b;
    struct tensors all = { .n = 0 };
    val operands[7];
    builder_begin(&b, w->m, NULL);
    hop_cleanup_push(tensors_free, &all);
    for (uint32_t k = 0; k < w->n->n_operands; k++) {
        all.data[k] = constant_tensor(w, w->x[k], one);
        all.n = k + 1;
        type_id t = builder_type(w->b, w->x[k]);
        operands[k] = builder_param(&b, one ? type_scalar(w->m, (enum dtype)type_get(w->m, t).dtype) : t, 0);
    }
    val result = builder_node(&b, &(struct node_in){ .op = w->n->op,
                                                     .operands = operands,
                                                     .n_operands = w->n->n_operands,
                                                     .attrs = w->attrs,
                                                     .place = w->n->place });
    struct type t = type_get(w->m, builder_type(&b, result));
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_const_value(w->m, t.dims[i]);
    struct tensor **out = &all.data[all.n];
    *out = tensor_new((enum dtype)t.dtype, t.rank, dims);
    all.n++;
    struct fn view = { .n_params = b.n_params,
                       .n_values = b.values.len,
                       .n_nodes = b.nodes.len,
                       .values = b.values.data,
                       .nodes = b.nodes.data,
                       .pool = b.pool.data,
                       .attrs = b.attrs.data,
                       .regions = b.regions.data };
    struct interp in = { .m = w->m };
    row->eval(&(struct eval){ .in = &in,
                              .m = w->m,
                              .f = &view,
                              .n = &view.nodes[view.n_nodes - 1],
                              .operands = all.data,
                              .results = out });
    val folded = constant_of(w, *out);
    hop_cleanup_pop(&all);
    tensors_free(&all);
    builder_abandon(&b);
    return folded;
}

static bool attrs_are_static(const struct fold *w)
{
    for (uint32_t k = 0; k < node_row(w->n)->sig.n_attrs; k++) {
        const struct attr *a = &w->attrs[k];
        if (a->kind == ATTR_DIM && !dim_is_const(w->m, (dim)a->i)) return false;
        for (uint32_t i = 0; a->kind == ATTR_DIMS && i < a->n; i++)
            if (!dim_is_const(w->m, a->list[i])) return false;
    }
    return true;
}

/* A node over constants. Elementwise nodes over fulls of any size are evaluated on one element. */
static val fold_constants(const struct fold *w)
{
    const struct op_row *row = node_row(w->n);
    if (!w->n->n_operands || w->n->n_operands > 7 || w->n->n_results != 1 || !row->eval || row->effect ||
        row->flags & (OPF_NO_FOLD | OPF_NO_MERGE | OPF_HIGHER))
        return VAL_NONE;
    bool fulls = true, small = true;
    for (uint32_t k = 0; k < w->n->n_operands; k++) {
        const struct node *n = built_node(w->b, w->x[k]);
        if (!n || (n->op != OP_full && n->op != OP_constant)) return VAL_NONE;
        int64_t elements = static_elements(w->m, builder_type(w->b, w->x[k]));
        fulls &= n->op == OP_full;
        small &= elements >= 0 && elements <= FOLD_LIMIT;
    }
    if (fulls && row->flags & OPF_ELEMENTWISE) return evaluate(w, true);
    int64_t elements = static_elements(w->m, w->type);
    if (!small || elements < 0 || elements > FOLD_LIMIT || !attrs_are_static(w)) return VAL_NONE;
    return evaluate(w, false);
}

/* ---- identities: numbers ---- */

static val binary(const struct fold *w, enum op op, val x, val y) { return emit2(w->b, op, x, y); }

static val fold_add(const struct fold *w)
{
    const struct node *n;
    for (uint32_t k = 0; k < 2; k++) {
        val x = w->x[k], y = w->x[1 - k];
        if (is_number(w, y, is_float(w, y) ? -0.0 : 0.0)) return x;
        if (is_float(w, y) && is_number(w, y, 0.0) && never_negative_zero(w, x)) return x;
    }
    for (uint32_t k = 0; k < 2; k++)
        if ((n = made_by(w, w->x[1 - k], OP_neg)))
            return binary(w, OP_sub, w->x[k], built_operand(w->b, n, 0));
    return VAL_NONE;
}

static val fold_sub(const struct fold *w)
{
    const struct node *n = made_by(w, w->x[1], OP_neg);
    if (is_number(w, w->x[1], 0.0)) return w->x[0];
    if (w->x[0] == w->x[1] && !is_float(w, w->x[0])) return full_of(w, 0);
    return n ? binary(w, OP_add, w->x[0], built_operand(w->b, n, 0)) : VAL_NONE;
}

static val fold_mul(const struct fold *w)
{
    const struct node *n = made_by(w, w->x[0], OP_neg), *k = made_by(w, w->x[1], OP_neg);
    for (uint32_t i = 0; i < 2; i++) {
        if (is_number(w, w->x[1 - i], 1)) return w->x[i];
        if (!is_float(w, w->x[i]) && is_number(w, w->x[i], 0)) return w->x[i];
    }
    return n && k ? binary(w, OP_mul, built_operand(w->b, n, 0), built_operand(w->b, k, 0)) : VAL_NONE;
}

static val fold_div(const struct fold *w)
{
    const struct node *n = made_by(w, w->x[0], OP_neg), *k = made_by(w, w->x[1], OP_neg);
    if (is_number(w, w->x[1], 1)) return w->x[0];
    return n && k && is_float(w, w->x[0])
               ? binary(w, OP_div, built_operand(w->b, n, 0), built_operand(w->b, k, 0))
               : VAL_NONE;
}

static val fold_tag(const struct fold *w)
{
    return w->x[0];
} /* it has nothing to say to anybody but a gradient */
static val fold_same(const struct fold *w) { return w->x[0] == w->x[1] ? w->x[0] : VAL_NONE; } /* max min */

static val fold_and_or(const struct fold *w)
{
    bool and = w->n->op == OP_and;
    if (w->x[0] == w->x[1]) return w->x[0];
    if (dtype_of(w, w->x[0]) != DT_BOOL) return VAL_NONE;
    for (uint32_t i = 0; i < 2; i++) {
        if (is_number(w, w->x[1 - i], and)) return w->x[i];
        if (is_number(w, w->x[1 - i], !and)) return w->x[1 - i];
    }
    return VAL_NONE;
}

static val fold_compare(const struct fold *w)
{
    if (w->x[0] != w->x[1] || is_float(w, w->x[0])) return VAL_NONE;
    return full_of(w, w->n->op == OP_eq || w->n->op == OP_le || w->n->op == OP_ge);
}

static val fold_twice(const struct fold *w) /* neg not */
{
    const struct node *n = made_by(w, w->x[0], (enum op)w->n->op);
    return n ? built_operand(w->b, n, 0) : VAL_NONE;
}

static val fold_abs(const struct fold *w)
{
    const struct node *n = made_by(w, w->x[0], OP_neg);
    if (made_by(w, w->x[0], OP_abs)) return w->x[0];
    return n ? emit1(w->b, OP_abs, built_operand(w->b, n, 0)) : VAL_NONE;
}

static val fold_select(const struct fold *w)
{
    int64_t i;
    double r;
    const struct node *n = made_by(w, w->x[0], OP_not);
    if (splat(w, w->x[0], &i, &r)) return i ? w->x[1] : w->x[2];
    if (w->x[1] == w->x[2]) return w->x[1];
    if (dtype_of(w, w->x[1]) == DT_BOOL && is_number(w, w->x[1], 1) && is_number(w, w->x[2], 0))
        return w->x[0];
    return n ? emit_select(w->b, built_operand(w->b, n, 0), w->x[2], w->x[1]) : VAL_NONE;
}

/* Does every value of a survive a cast to b and back? */
static bool widens(enum dtype a, enum dtype b)
{
    static const uint8_t precision[DT_COUNT] = { [DT_F16] = 11, [DT_BF16] = 8, [DT_F32] = 24, [DT_F64] = 53 };
    bool same_sign = dtype_info[a].kind == dtype_info[b].kind || dtype_info[b].kind == KIND_INT;
    uint32_t bits = 8u * dtype_info[a].size - (dtype_info[a].kind == KIND_INT),
             room = 8u * dtype_info[b].size - (dtype_info[b].kind == KIND_INT);
    if (a == DT_BOOL || b == DT_BOOL || (dtype_is_float(a) && !dtype_is_float(b))) return false;
    if (dtype_is_float(a)) return dtype_info[a].size < dtype_info[b].size;
    return dtype_is_float(b) ? bits <= precision[b] && b != DT_F16 : same_sign && bits <= room;
}

static val fold_cast(const struct fold *w)
{
    enum dtype to = (enum dtype)type_get(w->m, w->type).dtype, from = dtype_of(w, w->x[0]);
    const struct node *n = made_by(w, w->x[0], OP_cast);
    if (to == from) return w->x[0];
    if (!n) return VAL_NONE;
    val first = built_operand(w->b, n, 0);
    enum dtype origin = dtype_of(w, first);
    if (!widens(origin, from)) return VAL_NONE;
    /* Integers saturate on their way out of floats but wrap among themselves. */
    bool through_float = dtype_is_integer(origin) && dtype_is_float(from);
    if (through_float && dtype_is_integer(to) && to != origin && to != DT_I64) return VAL_NONE;
    return emit_cast(w->b, first, to);
}

/* ---- identities: arrangement ---- */

static val fold_full(const struct fold *w) /* one way to write each */
{
    const struct attr *v = &w->attrs[FULL_VALUE], *t = &w->attrs[FULL_DTYPE];
    enum dtype dtype = (enum dtype)type_get(w->m, w->type).dtype;
    char bytes[8];
    scalar_bytes(dtype, v, bytes);
    struct attr canonical = scalar_attr(dtype, bytes);
    if (t->kind == ATTR_DTYPE && attrs_equal(&canonical, v)) return VAL_NONE;
    return full_of_type(w->b, w->type, canonical.kind == ATTR_INT ? canonical.i : 0,
                        canonical.kind == ATTR_REAL ? canonical.r : 0);
}

static val fold_constant(const struct fold *w)
{
    const struct constant *k = &w->m->constants.data[w->attrs[CONSTANT_VALUE].i];
    enum dtype dtype = (enum dtype)type_get(w->m, w->type).dtype;
    size_t width = dtype_info[dtype].size;
    if (k->bytes > FOLD_LIMIT * width || !k->bytes) return VAL_NONE;
    for (size_t at = width; at < k->bytes; at += width)
        if (memcmp(k->data, (const char *)k->data + at, width)) return VAL_NONE;
    if (!full_holds(dtype, k->data)) return VAL_NONE;
    struct attr v = scalar_attr(dtype, k->data);
    return full_of_type(w->b, w->type, v.kind == ATTR_INT ? v.i : 0, v.kind == ATTR_REAL ? v.r : 0);
}

static val fold_reshape(const struct fold *w)
{
    const struct node *n = made_by(w, w->x[0], OP_reshape);
    struct type t = type_get(w->m, w->type);
    if (builder_type(w->b, w->x[0]) == w->type) return w->x[0];
    if (n) return emit_reshape(w->b, built_operand(w->b, n, 0), t.rank, t.dims);
    return arranged_full(w);
}

static val fold_permute(const struct fold *w)
{
    const struct attr *order = &w->attrs[PERMUTE_ORDER];
    const struct node *n = made_by(w, w->x[0], OP_permute);
    bool identity = true;
    for (uint32_t i = 0; i < order->n; i++) identity &= order->list[i] == i;
    if (identity) return w->x[0];
    if (!n) return arranged_full(w);
    uint32_t both[MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < order->n; i++)
        both[i] = built_attr(w->b, n, PERMUTE_ORDER)->list[order->list[i]];
    return emit_permute(w->b, built_operand(w->b, n, 0), both);
}

static val fold_broadcast(const struct fold *w)
{
    const struct node *n = made_by(w, w->x[0], OP_broadcast);
    const struct attr *at = &w->attrs[BROADCAST_AT];
    struct type t = type_get(w->m, w->type);
    if (builder_type(w->b, w->x[0]) == w->type) return w->x[0]; /* equal ranks leave no room for new dims */
    if (!n) return arranged_full(w);
    uint32_t both[MAX_RANK] = { 0 };
    const struct attr *inner = built_attr(w->b, n, BROADCAST_AT);
    for (uint32_t i = 0; i < inner->n; i++) both[i] = at->list[inner->list[i]];
    return emit_broadcast(w->b, built_operand(w->b, n, 0), t.rank, t.dims, both);
}

static bool unit_steps(const struct attr *a)
{
    for (uint32_t i = 0; a->kind == ATTR_INTS && i < a->n; i++)
        if (a->list[i] != 1) return false;
    return true;
}

/* A slice that lies within one operand of a concat. */
static val slice_of_concat(const struct fold *w, const struct node *concat)
{
    const struct attr *start = &w->attrs[SLICE_START], *limit = &w->attrs[SLICE_LIMIT];
    uint32_t d = (uint32_t)built_attr(w->b, concat, CONCAT_DIM)->i;
    dim at = 0;
    for (uint32_t k = 0; k < concat->n_operands; k++) {
        val part = built_operand(w->b, concat, k);
        struct type t = emit_type(w->b, part);
        dim end = dim_add(w->m, at, t.dims[d]);
        if (dim_provably_le(w->m, w->b->symbols.data, at, start->list[d]) &&
            dim_provably_le(w->m, w->b->symbols.data, limit->list[d], end)) {
            dim from[MAX_RANK], to[MAX_RANK];
            memcpy(from, start->list, t.rank * sizeof *from);
            memcpy(to, limit->list, t.rank * sizeof *to);
            from[d] = dim_sub(w->m, from[d], at);
            to[d] = dim_sub(w->m, to[d], at);
            return emit_slice(w->b, part, from, to);
        }
        at = end;
    }
    return VAL_NONE;
}

static val fold_slice(const struct fold *w)
{
    const struct attr *start = &w->attrs[SLICE_START], *limit = &w->attrs[SLICE_LIMIT],
                      *step = &w->attrs[SLICE_STEP];
    const struct node *n;
    bool zero = true;
    for (uint32_t i = 0; i < start->n; i++) zero &= start->list[i] == 0;
    if (zero && unit_steps(step) && builder_type(w->b, w->x[0]) == w->type) return w->x[0];
    if ((n = made_by(w, w->x[0], OP_concat)) && unit_steps(step)) return slice_of_concat(w, n);
    if (!(n = made_by(w, w->x[0], OP_slice)) || !unit_steps(built_attr(w->b, n, SLICE_STEP)))
        return n ? VAL_NONE : arranged_full(w);
    dim from[MAX_RANK], to[MAX_RANK];
    for (uint32_t i = 0; i < start->n; i++) {
        from[i] = dim_add(w->m, built_attr(w->b, n, SLICE_START)->list[i], start->list[i]);
        to[i] = dim_add(w->m, built_attr(w->b, n, SLICE_START)->list[i], limit->list[i]);
    }
    struct attr a[3] = { A_DIMS(from, start->n), A_DIMS(to, start->n), *step };
    val x = built_operand(w->b, n, 0);
    return emit(w->b, OP_slice, &x, 1, a);
}

static val fold_reverse(const struct fold *w)
{
    const struct node *n = made_by(w, w->x[0], OP_reverse);
    const struct attr *dims = &w->attrs[REVERSE_DIMS];
    if (!dims->n) return w->x[0];
    if (!n) return arranged_full(w);
    uint32_t here = 0, there = 0;
    for (uint32_t i = 0; i < dims->n; i++) here |= 1u << dims->list[i];
    for (uint32_t i = 0; i < built_attr(w->b, n, REVERSE_DIMS)->n; i++)
        there |= 1u << built_attr(w->b, n, REVERSE_DIMS)->list[i];
    return here == there ? built_operand(w->b, n, 0) : VAL_NONE;
}

/* Slices of one array that lie one behind the other are one slice, and all of it is the array. VAL_NONE: they
 * are not. */
static val joined_slices(const struct fold *w, val x, val y, uint32_t d)
{
    const struct node *a = made_by(w, x, OP_slice), *c = made_by(w, y, OP_slice);
    if (!a || !c || built_operand(w->b, a, 0) != built_operand(w->b, c, 0) ||
        !unit_steps(built_attr(w->b, a, SLICE_STEP)) || !unit_steps(built_attr(w->b, c, SLICE_STEP)))
        return VAL_NONE;
    const dim *from = built_attr(w->b, a, SLICE_START)->list,
              *middle = built_attr(w->b, a, SLICE_LIMIT)->list,
              *then = built_attr(w->b, c, SLICE_START)->list;
    const dim *to = built_attr(w->b, c, SLICE_LIMIT)->list;
    val whole = built_operand(w->b, a, 0);
    struct type t = emit_type(w->b, whole);
    bool all = true;
    for (uint32_t i = 0; i < t.rank; i++) {
        if (i == d ? middle[i] != then[i] : from[i] != then[i] || middle[i] != to[i]) return VAL_NONE;
        all &= from[i] == 0 && to[i] == t.dims[i];
    }
    return all ? whole : emit_slice(w->b, whole, from, to);
}

static val fold_concat(const struct fold *w)
{
    uint32_t d = (uint32_t)w->attrs[CONCAT_DIM].i, n = 0;
    val *some = ARENA_NEW(&w->b->arena, val, w->n->n_operands), both;
    for (uint32_t k = 0; k < w->n->n_operands; k++) {
        if (emit_type(w->b, w->x[k]).dims[d] == 0) continue;
        if (n && (both = joined_slices(w, some[n - 1], w->x[k], d)) != VAL_NONE) some[n - 1] = both;
        else some[n++] = w->x[k];
    }
    if (n == 1) return some[0];
    return n && n < w->n->n_operands ? emit(w->b, OP_concat, some, n, w->attrs) : VAL_NONE;
}

static val fold_pad(const struct fold *w)
{
    for (uint32_t i = 0; i < w->attrs[PAD_LOW].n; i++)
        if (w->attrs[PAD_LOW].list[i] || w->attrs[PAD_HIGH].list[i] ||
            (w->attrs[PAD_INTERIOR].kind == ATTR_INTS && w->attrs[PAD_INTERIOR].list[i]))
            return VAL_NONE;
    return w->x[0];
}

/* A sum of outer products over dims they are batched over (a shared operand's gradient) is one product that
 * contracts them: both add one after the other. */
static val sum_of_products(const struct fold *w)
{
    const struct node *n = made_by(w, w->x[0], OP_dot);
    const struct attr *dims = &w->attrs[REDUCE_DIMS];
    if (!n || dims->kind != ATTR_INTS || built_attr(w->b, n, DOT_CONTRACT_LHS)->n ||
        built_attr(w->b, n, DOT_BATCH_LHS)->n >= emit_type(w->b, w->x[0]).rank)
        return VAL_NONE;
    uint32_t batch[2][MAX_RANK] = { { 0 } }, contract[2][MAX_RANK] = { { 0 } }, n_batch = 0, n_contract = 0,
             total = built_attr(w->b, n, DOT_BATCH_LHS)->n;
    for (uint32_t i = 0; i < dims->n; i++)
        if (dims->list[i] >= total) return VAL_NONE;
    for (uint32_t i = 0; i < total; i++) {
        bool folded = false;
        for (uint32_t k = 0; k < dims->n; k++) folded |= dims->list[k] == i;
        for (uint32_t side = 0; side < 2; side++)
            (folded ? contract : batch)[side][folded ? n_contract : n_batch] =
                built_attr(w->b, n, DOT_BATCH_LHS + side)->list[i];
        *(folded ? &n_contract : &n_batch) += 1;
    }
    return emit_dot(w->b, built_operand(w->b, n, 0), built_operand(w->b, n, 1), batch[0], batch[1], n_batch,
                    contract[0], contract[1], n_contract);
}

static val fold_sum(const struct fold *w)
{
    struct type t = emit_type(w->b, w->x[0]);
    const struct attr *dims = &w->attrs[REDUCE_DIMS];
    bool nothing = false;
    for (uint32_t i = 0; i < t.rank; i++) {
        bool folded = dims->kind == ATTR_ABSENT;
        for (uint32_t k = 0; k < dims->n; k++) folded |= dims->list[k] == i;
        nothing |= folded && t.dims[i] == 0;
    }
    return nothing || is_number(w, w->x[0], 0.0) || is_number(w, w->x[0], -0.0) ? full_of(w, 0)
                                                                                : sum_of_products(w);
}

static val fold_dim_value(const struct fold *w)
{
    dim d = (dim)w->attrs[DIM_VALUE_DIM].i;
    return dim_is_const(w->m, d) ? full_of_type(w->b, w->type, dim_const_value(w->m, d), 0) : VAL_NONE;
}

/* Starts are clamped so that the window fits: a window as large as the operand is the operand, known starts
 * make a slice. */
static val fold_dynamic_slice(const struct fold *w)
{
    struct type t = emit_type(w->b, w->x[0]), window = type_get(w->m, w->type);
    if (builder_type(w->b, w->x[0]) == w->type) return w->x[0];
    dim from[MAX_RANK], to[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t start = 0;
        double r;
        if (t.dims[i] != window.dims[i]) {
            if (!splat(w, w->x[1 + i], &start, &r) || !dim_is_const(w->m, t.dims[i]) ||
                !dim_is_const(w->m, window.dims[i]))
                return VAL_NONE;
            start = HOP_MAX(0, HOP_MIN(start, dim_const_value(w->m, t.dims[i]) -
                                                  dim_const_value(w->m, window.dims[i])));
        }
        from[i] = dim_const(w->m, start);
        to[i] = dim_add(w->m, from[i], window.dims[i]);
    }
    return emit_slice(w->b, w->x[0], from, to);
}

static val fold_dynamic_update(const struct fold *w)
{
    return builder_type(w->b, w->x[1]) == w->type ? w->x[1] : VAL_NONE;
}

/* A factor that was transposed: the product reads it where it lies, as long as its free dims keep their
 * order. */
static val fold_dot(const struct fold *w)
{
    for (uint32_t side = 0; side < 2; side++) {
        const struct node *n = made_by(w, w->x[side], OP_permute);
        if (!n) continue;
        const struct attr *order = built_attr(w->b, n, PERMUTE_ORDER),
                          *batch = &w->attrs[DOT_BATCH_LHS + side],
                          *contract = &w->attrs[DOT_CONTRACT_LHS + side];
        uint32_t lists[2][MAX_RANK], taken = 0, last = 0;
        bool ordered = true, any = false;
        for (uint32_t i = 0; i < batch->n; i++)
            lists[0][i] = order->list[batch->list[i]], taken |= 1u << batch->list[i];
        for (uint32_t i = 0; i < contract->n; i++)
            lists[1][i] = order->list[contract->list[i]], taken |= 1u << contract->list[i];
        for (uint32_t i = 0; i < order->n; i++) {
            if (taken >> i & 1) continue;
            ordered &= !any || order->list[i] > last;
            last = order->list[i];
            any = true;
        }
        if (!ordered) continue;
        struct attr attrs[4] = { w->attrs[0], w->attrs[1], w->attrs[2], w->attrs[3] };
        attrs[DOT_BATCH_LHS + side] = A_INTS(lists[0], batch->n);
        attrs[DOT_CONTRACT_LHS + side] = A_INTS(lists[1], contract->n);
        val x[2] = { w->x[0], w->x[1] };
        x[side] = built_operand(w->b, n, 0);
        return emit(w->b, OP_dot, x, 2, attrs);
    }
    return VAL_NONE;
}

/* A matmul of a transposed factor is a dot. */
static val fold_matmul(const struct fold *w)
{
    if (!made_by(w, w->x[0], OP_permute) && !made_by(w, w->x[1], OP_permute)) return VAL_NONE;
    struct dot_dims d;
    dot_dims(w->m, w->c->f, w->n, &d);
    return emit_dot(w->b, w->x[0], w->x[1], d.batch_lhs, d.batch_rhs, d.n_batch, d.contract_lhs,
                    d.contract_rhs, d.n_contract);
}

/* Exact: pow itself gives these numbers. */
static val fold_pow(const struct fold *w)
{
    if (is_number(w, w->x[1], 0.0) || is_number(w, w->x[1], -0.0)) return full_of(w, 1);
    if (is_number(w, w->x[1], 1.0)) return w->x[0];
    return is_number(w, w->x[1], 2.0) ? emit2(w->b, OP_mul, w->x[0], w->x[0]) : VAL_NONE;
}

static const fold_rule rules[OP_COUNT] = {
    [OP_add] = fold_add,
    [OP_sub] = fold_sub,
    [OP_mul] = fold_mul,
    [OP_div] = fold_div,
    [OP_max] = fold_same,
    [OP_min] = fold_same,
    [OP_and] = fold_and_or,
    [OP_or] = fold_and_or,
    [OP_eq] = fold_compare,
    [OP_ne] = fold_compare,
    [OP_lt] = fold_compare,
    [OP_le] = fold_compare,
    [OP_gt] = fold_compare,
    [OP_ge] = fold_compare,
    [OP_neg] = fold_twice,
    [OP_not] = fold_twice,
    [OP_abs] = fold_abs,
    [OP_select] = fold_select,
    [OP_cast] = fold_cast,
    [OP_full] = fold_full,
    [OP_constant] = fold_constant,
    [OP_reshape] = fold_reshape,
    [OP_permute] = fold_permute,
    [OP_broadcast] = fold_broadcast,
    [OP_slice] = fold_slice,
    [OP_reverse] = fold_reverse,
    [OP_concat] = fold_concat,
    [OP_pad] = fold_pad,
    [OP_sum] = fold_sum,
    [OP_dim_value] = fold_dim_value,
    [OP_dynamic_slice] = fold_dynamic_slice,
    [OP_dynamic_update] = fold_dynamic_update,
    [OP_dot] = fold_dot,
    [OP_matmul] = fold_matmul,
    [OP_pow] = fold_pow,
    [OP_tag] = fold_tag,
};

/* ---- control flow ---- */

static const val *region_arguments(struct copier *c, const struct node *n, uint32_t r)
{
    const struct region *region = node_region(c->f, n, r);
    val *out = ARENA_NEW(&c->b->arena, val, region->n_operands);
    for (uint32_t i = 0; i < region->n_operands; i++) out[i] = c->values[node_region_operands(c->f, n, r)[i]];
    return out;
}

static bool fold_switch(struct copier *c, const struct node *n, val *results)
{
    struct fold w = { .c = c, .b = c->b, .m = c->b->m, .n = n };
    int64_t index;
    double r;
    if (splat(&w, c->values[node_operands(c->f, n)[0]], &index, &r)) {
        uint32_t chosen = (uint32_t)HOP_MAX(0, HOP_MIN(index, (int64_t)n->n_regions - 1));
        inline_region(c, n, chosen, region_arguments(c, n, chosen), results);
        return true;
    }
    struct node_in in = copier_node_in(c, n);
    for (uint32_t k = 1; k < n->n_regions; k++) {
        const struct region_in *x = &in.regions[0], *y = &in.regions[k];
        if (x->fn != y->fn || x->n_operands != y->n_operands) return false;
        if (x->n_operands && memcmp(x->operands, y->operands, x->n_operands * sizeof *x->operands))
            return false;
        uint32_t n_dims = node_region(c->f, n, 0)->n_dims;
        if (n_dims && memcmp(x->dims, y->dims, n_dims * sizeof *x->dims)) return false;
    }
    val first = builder_node(c->b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                      .regions = in.regions,
                                                      .n_regions = 1,
                                                      .place = n->place });
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    return true;
}

/* Is the predicate false whatever comes, or false on the first carries, which are known as far as it reads
 * them? */
static bool false_at_entry(struct copier *c, const struct loop *l)
{
    const struct fn *cond = l->cond;
    struct arena *a = &c->b->arena;
    struct module *m = c->b->m;
    const struct region *region = node_region(c->f, l->n, l->cond_region);
    if (cond->effects || cond->n_symbols || cond->n_nodes > FOLD_LIMIT) return false;
    for (uint32_t i = 0; i < cond->n_nodes; i++)
        if (fn_node(cond, i)->n_regions || !node_is_pure(m, cond, fn_node(cond, i))) return false;
    for (uint32_t v = 0; v < cond->n_values; v++)
        if (static_elements(m, value_type(cond, v)) > FOLD_LIMIT) return false;
    struct liveness live = live_values(a, m, cond, NULL, NULL, NULL);
    struct param_plan *plan = ARENA_ZNEW(a, struct param_plan, cond->n_params);
    for (uint32_t p = 0; p < cond->n_params; p++) {
        val given =
            c->values[p < l->n_carry ? node_operands(c->f, l->n)[p]
                                     : node_region_operands(c->f, l->n, l->cond_region)[p - l->n_carry]];
        plan[p].fate = live.value[p] ? PARAM_FULL : PARAM_DROP;
        if (live.value[p] && !full_value(c->b, given, &plan[p].value)) return false;
    }
    val *own = ARENA_NEW(a, val, region->n_operands);
    uint32_t n_own, fn = region_build(m,
                                      &(struct region_plan){ .g = cond,
                                                             .n_carry = l->n_carry,
                                                             .params = plan,
                                                             .wanted = cond->results,
                                                             .n_wanted = 1,
                                                             .own = own },
                                      own, &n_own);
    struct interp in = { .m = m };
    struct tensor *test;
    interp_call(&in, fn, NULL, NULL, &test);
    bool again = *(const uint8_t *)test->data;
    tensor_free(test);
    return !again;
}

/* A loop without a trip. */
static bool fold_while(struct copier *c, const struct loop *l, val *results)
{
    if (l->n_stack || !false_at_entry(c, l)) return false;
    for (uint32_t i = 0; i < l->n_carry; i++) results[i] = c->values[node_operands(c->f, l->n)[i]];
    if (l->n_extra) results[l->n_carry] = full_of_type(c->b, type_scalar(c->b->m, DT_I64), 0, 0);
    return true;
}

/* A scan of no step or of one. */
static bool fold_scan(struct copier *c, const struct loop *l, val *results)
{
    struct module *m = c->b->m;
    dim length = copier_dim(c, l->length);
    const val *operands = node_operands(c->f, l->n);
    if (length == 0) {
        for (uint32_t k = 0; k < l->n_stack; k++) {
            type_id t = value_type(c->f, l->n->results + loop_stack_result(l, k));
            results[loop_stack_result(l, k)] = full_of_type(c->b, copier_type(c, t), 0, 0);
        }
        for (uint32_t i = 0; i < l->n_carry; i++) results[i] = c->values[operands[i]];
        return true;
    }
    if (length != 1) return false;
    val *arguments = ARENA_NEW(&c->b->arena, val, l->body->n_params),
        *out = ARENA_NEW(&c->b->arena, val, l->body->n_results);
    for (uint32_t i = 0; i < l->n_carry; i++) arguments[i] = c->values[operands[i]];
    for (uint32_t i = l->n_carry; i < l->n_carry + l->n_over; i++) {
        val xs = c->values[operands[i]];
        struct type t = emit_type(c->b, xs);
        arguments[i] = emit_reshape(c->b, xs, t.rank - 1u, t.dims + 1);
    }
    const val *own = region_arguments(c, l->n, 0);
    for (uint32_t i = loop_first_with(l); i < l->body->n_params; i++)
        arguments[i] = own[i - loop_first_with(l)];
    inline_region(c, l->n, 0, arguments, out);
    for (uint32_t i = 0; i < l->n_carry; i++) results[i] = out[i];
    for (uint32_t k = 0; k < l->n_stack; k++) {
        struct type t = type_get(m, type_prepend(m, builder_type(c->b, out[l->n_carry + k]), 1));
        results[loop_stack_result(l, k)] = emit_reshape(c->b, out[l->n_carry + k], t.rank, t.dims);
    }
    return true;
}

/* ---- the pass ---- */

static bool fold_node(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    (void)ctx;
    const struct op_row *row = node_row(n);
    struct loop l;
    if (row->rewrite && row->rewrite(c, n, results, s->o)) return true;
    if (n->op == OP_switch) return fold_switch(c, n, results);
    if (loop_decode(s->m, c->f, n, &l))
        return l.scan ? fold_scan(c, &l, results) : l.cond && fold_while(c, &l, results);
    if (n->n_results != 1 || (!rules[n->op] && !n->n_operands) || node_binds_symbols(c->f, n)) return false;
    bool constants = n->n_operands > 0;
    for (uint32_t k = 0; k < n->n_operands && constants; k++) {
        const struct node *from = built_node(c->b, c->values[node_operands(c->f, n)[k]]);
        constants = from && (from->op == OP_full || from->op == OP_constant);
    }
    if (!constants && !rules[n->op]) return false;
    struct node_in in = copier_node_in(c, n);
    struct fold w = { c, c->b, s->m, n, in.operands, in.attrs, copier_type(c, value_type(c->f, n->results)) };
    val v = rules[n->op] ? rules[n->op](&w) : VAL_NONE;
    if (v == VAL_NONE && constants) v = fold_constants(&w);
    if (v == VAL_NONE || builder_type(c->b, v) != w.type) return false;
    results[0] = v;
    return true;
}

uint32_t pass_fold(struct simplifier *s, uint32_t fn) { return rewrite_nodes(s, fn, NULL, fold_node, NULL); }
