/* What passes know of operators that arrange elements: their results hold numbers of their operands, and two
 * arrangements in a row are often one or none. */
#include "ops/facts.h"

/* ---- range ---- */

struct range range_of_operand(const struct range_in *w) { return w->x; }

struct range range_of_two(const struct range_in *w) { return range_join(w->x, w->y); }

struct range range_of_operands(const struct range_in *w)
{
    const val *x = node_operands(w->f, w->n);
    struct range r = w->x;
    for (uint32_t k = 1; k < w->n->n_operands; k++) r = range_join(r, w->values[x[k]]);
    return r;
}

/* ---- fold ---- */

val fold_reshape(const struct fold *w)
{
    const struct node *n = fold_made_by(w, w->x[0], OP_reshape);
    struct type t = type_get(w->m, w->type);
    if (builder_type(w->b, w->x[0]) == w->type) return w->x[0];
    if (n) return emit_reshape(w->b, built_operand(w->b, n, 0), t.rank, t.dims);
    return fold_arranged(w);
}

val fold_permute(const struct fold *w)
{
    const struct attr *order = &w->attrs[PERMUTE_ORDER];
    const struct node *n = fold_made_by(w, w->x[0], OP_permute);
    bool identity = true;
    for (uint32_t i = 0; i < order->n; i++) identity &= order->list[i] == i;
    if (identity) return w->x[0];
    if (!n) return fold_arranged(w);
    uint32_t both[MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < order->n; i++)
        both[i] = built_attr(w->b, n, PERMUTE_ORDER)->list[order->list[i]];
    return emit_permute(w->b, built_operand(w->b, n, 0), both);
}

val fold_broadcast(const struct fold *w)
{
    const struct node *n = fold_made_by(w, w->x[0], OP_broadcast);
    const struct attr *at = &w->attrs[BROADCAST_AT];
    struct type t = type_get(w->m, w->type);
    if (builder_type(w->b, w->x[0]) == w->type) return w->x[0]; /* equal ranks leave no room for new dims */
    if (!n) return fold_arranged(w);
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
        const struct symbol *symbols = w->b->symbols.data;
        bool starts_here = dim_provably_le(w->m, symbols, at, start->list[d]);
        if (starts_here && dim_provably_le(w->m, symbols, limit->list[d], end)) {
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

val fold_slice(const struct fold *w)
{
    const struct attr *start = &w->attrs[SLICE_START];
    const struct attr *limit = &w->attrs[SLICE_LIMIT];
    const struct attr *step = &w->attrs[SLICE_STEP];
    bool zero = true;
    for (uint32_t i = 0; i < start->n; i++) zero &= start->list[i] == 0;
    if (zero && unit_steps(step) && builder_type(w->b, w->x[0]) == w->type) return w->x[0];
    const struct node *concat = fold_made_by(w, w->x[0], OP_concat);
    if (concat && unit_steps(step)) return slice_of_concat(w, concat);
    const struct node *n = fold_made_by(w, w->x[0], OP_slice);
    if (!n) return fold_arranged(w);
    if (!unit_steps(built_attr(w->b, n, SLICE_STEP))) return VAL_NONE;
    dim from[MAX_RANK], to[MAX_RANK];
    for (uint32_t i = 0; i < start->n; i++) {
        from[i] = dim_add(w->m, built_attr(w->b, n, SLICE_START)->list[i], start->list[i]);
        to[i] = dim_add(w->m, built_attr(w->b, n, SLICE_START)->list[i], limit->list[i]);
    }
    struct attr a[3] = { A_DIMS(from, start->n), A_DIMS(to, start->n), *step };
    val x = built_operand(w->b, n, 0);
    return emit(w->b, OP_slice, &x, 1, a);
}

val fold_reverse(const struct fold *w)
{
    const struct node *n = fold_made_by(w, w->x[0], OP_reverse);
    const struct attr *dims = &w->attrs[REVERSE_DIMS];
    if (!dims->n) return w->x[0];
    if (!n) return fold_arranged(w);
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
    const struct node *a = fold_made_by(w, x, OP_slice), *c = fold_made_by(w, y, OP_slice);
    if (!a || !c || built_operand(w->b, a, 0) != built_operand(w->b, c, 0)) return VAL_NONE;
    if (!unit_steps(built_attr(w->b, a, SLICE_STEP))) return VAL_NONE;
    if (!unit_steps(built_attr(w->b, c, SLICE_STEP))) return VAL_NONE;
    const dim *from = built_attr(w->b, a, SLICE_START)->list;
    const dim *middle = built_attr(w->b, a, SLICE_LIMIT)->list;
    const dim *then = built_attr(w->b, c, SLICE_START)->list;
    const dim *to = built_attr(w->b, c, SLICE_LIMIT)->list;
    val whole = built_operand(w->b, a, 0);
    struct type t = emit_type(w->b, whole);
    bool all = true;
    for (uint32_t i = 0; i < t.rank; i++) {
        bool follows = middle[i] == then[i], same = from[i] == then[i] && middle[i] == to[i];
        if (i == d ? !follows : !same) return VAL_NONE;
        all &= from[i] == 0 && to[i] == t.dims[i];
    }
    return all ? whole : emit_slice(w->b, whole, from, to);
}

val fold_concat(const struct fold *w)
{
    uint32_t d = (uint32_t)w->attrs[CONCAT_DIM].i, n = 0;
    val *some = ARENA_NEW(&w->b->arena, val, w->n->n_operands);
    for (uint32_t k = 0; k < w->n->n_operands; k++) {
        if (emit_type(w->b, w->x[k]).dims[d] == 0) continue;
        val both = n ? joined_slices(w, some[n - 1], w->x[k], d) : VAL_NONE;
        if (both != VAL_NONE) some[n - 1] = both;
        else some[n++] = w->x[k];
    }
    if (n == 1) return some[0];
    return n && n < w->n->n_operands ? emit(w->b, OP_concat, some, n, w->attrs) : VAL_NONE;
}

val fold_pad(const struct fold *w)
{
    bool between = w->attrs[PAD_INTERIOR].kind == ATTR_INTS;
    for (uint32_t i = 0; i < w->attrs[PAD_LOW].n; i++) {
        if (w->attrs[PAD_LOW].list[i] || w->attrs[PAD_HIGH].list[i]) return VAL_NONE;
        if (between && w->attrs[PAD_INTERIOR].list[i]) return VAL_NONE;
    }
    return w->x[0];
}

/* An array with zeros in front of it and behind it along one dim. */
struct padded {
    val x;
    uint32_t d;
    dim low, high;
};

/* One dim is padded: d, or any where d is HOP_NONE. */
static bool find_padded(const struct fold *w, val v, uint32_t d, struct padded *out)
{
    const struct node *n = fold_made_by(w, v, OP_pad);
    if (!n || !fold_is_number(w, built_operand(w->b, n, 1), 0.0)) return false;
    const struct attr *low = built_attr(w->b, n, PAD_LOW), *high = built_attr(w->b, n, PAD_HIGH);
    const struct attr *between = built_attr(w->b, n, PAD_INTERIOR);
    for (uint32_t i = 0; i < low->n; i++) {
        if (between->kind == ATTR_INTS && between->list[i]) return false;
        if (!low->list[i] && !high->list[i]) continue;
        if (d != HOP_NONE && d != i) return false;
        d = i;
    }
    if (d == HOP_NONE) return false;
    *out = (struct padded){ built_operand(w->b, n, 0), d, low->list[d], high->list[d] };
    return true;
}

/* More is left in parts of parts: the parts of a sum of n pads are written down n times. */
enum { MOST_PARTS = 256 };

/* Adds the parts of x along d, each as it is when zero was added to it. */
static uint32_t add_parts(const struct fold *w, const struct padded *x, val *parts, uint32_t n)
{
    const struct node *concat = fold_made_by(w, x->x, OP_concat);
    if (concat && (built_attr(w->b, concat, CONCAT_DIM)->i != x->d || concat->n_operands > MOST_PARTS))
        concat = NULL;
    for (uint32_t k = 0; k < (concat ? concat->n_operands : 1); k++) {
        val part = concat ? built_operand(w->b, concat, k) : x->x;
        if (!fold_never_negative_zero(w, part))
            part = emit2(w->b, OP_add, part, emit_full_like(w->b, part, 0));
        parts[n++] = part;
    }
    return n;
}

/* What the gradient of slices is: zeros everywhere but in the slice, all of them added up. Where one slice
 * begins at the end of the other it is both, one behind the other. */
val fold_sum_of_pads(const struct fold *w)
{
    struct padded x, y;
    if (!fold_is_float(w, w->x[0]) || !find_padded(w, w->x[0], HOP_NONE, &x)) return VAL_NONE;
    if (!find_padded(w, w->x[1], x.d, &y)) return VAL_NONE;
    if (dim_add(w->m, y.low, emit_type(w->b, y.x).dims[y.d]) == x.low) {
        struct padded front = y;
        y = x;
        x = front;
    }
    if (dim_add(w->m, x.low, emit_type(w->b, x.x).dims[x.d]) != y.low) return VAL_NONE;
    val *parts = ARENA_NEW(&w->b->arena, val, 2 * MOST_PARTS);
    uint32_t n = add_parts(w, &y, parts, add_parts(w, &x, parts, 0));
    struct attr along[1] = { A_INT(x.d) };
    val both = emit(w->b, OP_concat, parts, n, along);
    if (!x.low && !y.high) return both;
    struct type t = type_get(w->m, w->type);
    dim low[MAX_RANK] = { 0 }, high[MAX_RANK] = { 0 };
    low[x.d] = x.low;
    high[x.d] = y.high;
    struct attr a[3] = { A_DIMS(low, t.rank), A_DIMS(high, t.rank), A_NONE };
    val zero = emit_full(w->b, (enum dtype)t.dtype, 0, 0, NULL);
    return emit(w->b, OP_pad, (val[]){ both, zero }, 2, a);
}

/* Starts are clamped so that the window fits: a window as large as the operand is the operand, known starts
 * make a slice. */
val fold_dynamic_slice(const struct fold *w)
{
    struct type t = emit_type(w->b, w->x[0]), window = type_get(w->m, w->type);
    if (builder_type(w->b, w->x[0]) == w->type) return w->x[0];
    dim from[MAX_RANK], to[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t start = 0;
        double r;
        if (t.dims[i] != window.dims[i]) {
            if (!fold_splat(w, w->x[1 + i], &start, &r)) return VAL_NONE;
            if (!dim_is_const(w->m, t.dims[i]) || !dim_is_const(w->m, window.dims[i])) return VAL_NONE;
            int64_t last = dim_const_value(w->m, t.dims[i]) - dim_const_value(w->m, window.dims[i]);
            start = HOP_MAX(0, HOP_MIN(start, last));
        }
        from[i] = dim_const(w->m, start);
        to[i] = dim_add(w->m, from[i], window.dims[i]);
    }
    return emit_slice(w->b, w->x[0], from, to);
}

val fold_dynamic_update(const struct fold *w)
{
    return builder_type(w->b, w->x[1]) == w->type ? w->x[1] : VAL_NONE;
}

/* ---- sliced ---- */

SLICED_RULE(sliced_anywhere)
{
    HOP_UNUSED(m);
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    HOP_UNUSED(axis);
    HOP_UNUSED(along);
    return true;
}

SLICED_RULE(sliced_same)
{
    HOP_UNUSED(m);
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    along[0] = axis;
    return true;
}

SLICED_RULE(sliced_iota)
{
    const struct attr *counted = node_attr(f, n, IOTA_DIM);
    HOP_UNUSED(m);
    HOP_UNUSED(along);
    return axis != (counted->kind == ATTR_ABSENT ? 0 : (uint32_t)counted->i);
}

/* A dim that is there before and after, with as many elements in front of it. */
SLICED_RULE(sliced_reshape)
{
    struct type from = type_get(m, value_type(f, node_operands(f, n)[0]));
    struct type to = type_get(m, value_type(f, n->results));
    int64_t in_front = 1, passed = 1;
    for (uint32_t i = 0; i < axis; i++) {
        if (!dim_is_const(m, to.dims[i])) return false;
        in_front *= dim_const_value(m, to.dims[i]);
    }
    for (uint32_t i = 0; i < from.rank; i++) {
        if (passed == in_front && from.dims[i] == to.dims[axis]) {
            along[0] = i;
            return true;
        }
        if (!dim_is_const(m, from.dims[i])) return false;
        passed *= dim_const_value(m, from.dims[i]);
    }
    return false;
}

SLICED_RULE(sliced_slice)
{
    const struct attr *a = node_attr(f, n, 0);
    struct type t = type_get(m, value_type(f, node_operands(f, n)[0]));
    along[0] = axis;
    return a[SLICE_START].list[axis] == 0 && a[SLICE_LIMIT].list[axis] == t.dims[axis] &&
           (a[SLICE_STEP].kind == ATTR_ABSENT || a[SLICE_STEP].list[axis] == 1);
}

SLICED_RULE(sliced_pad)
{
    const struct attr *a = node_attr(f, n, 0);
    HOP_UNUSED(m);
    along[0] = axis;
    bool between = a[PAD_INTERIOR].kind != ATTR_ABSENT && a[PAD_INTERIOR].list[axis];
    return !a[PAD_LOW].list[axis] && !a[PAD_HIGH].list[axis] && !between;
}

SLICED_RULE(sliced_concat)
{
    HOP_UNUSED(m);
    for (uint32_t k = 0; k < n->n_operands; k++) along[k] = axis;
    return axis != (uint32_t)node_attr(f, n, CONCAT_DIM)->i;
}

SLICED_RULE(sliced_reverse)
{
    const struct attr *dims = node_attr(f, n, REVERSE_DIMS);
    HOP_UNUSED(m);
    along[0] = axis;
    for (uint32_t i = 0; i < dims->n; i++)
        if (dims->list[i] == axis) return false;
    return true;
}
