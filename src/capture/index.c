/* Parts of arrays: texts like "1:3, :, -1, ::2" become slices, reversals and reshapes, and the other way
 * round an array with such a part replaced; indices that are values become dynamic slices and updates, arrays
 * of indices gathers and scatters. */
#include "capture/capture.h"

/* A text worked out against an array: what is cut out, which axes are then reversed, and the dims of the
 * part. */
struct cut {
    uint32_t rank; /* of the array */
    dim start[MAX_RANK], limit[MAX_RANK];
    uint32_t step[MAX_RANK];
    dim length[MAX_RANK];
    uint32_t reversed[MAX_RANK], n_reversed;
    uint32_t part_rank;
    dim part[MAX_RANK];
    bool stepped, whole;
};

/* A bound in 0..size: a negative number counts from the end; numbers are brought into the range as NumPy
 * does, expressions must lie in it. */
static dim place_bound(struct module *m, bool given, bool negative, dim bound, dim size, dim otherwise)
{
    if (!given) return otherwise;
    if (negative) bound = dim_add(m, size, bound);
    if (!dim_is_const(m, bound) || !dim_is_const(m, size)) return bound;
    int64_t n = dim_const_value(m, bound), most = dim_const_value(m, size);
    if (n < 0) return dim_const(m, 0);
    return dim_const(m, HOP_MIN(n, most));
}

/* A negative number counts from the end. */
static dim from_end(struct module *m, bool negative, dim bound, dim size)
{
    return negative ? dim_add(m, size, bound) : bound;
}

/* From the last to the first: start and limit (exclusive, below start) counted downwards become a forward
 * range that is reversed. */
static void cut_backwards(struct builder *b, const struct slice_item *item, dim size, struct cut *c,
                          uint32_t d)
{
    struct module *m = b->m;
    int64_t step = -item->step;
    dim start = dim_sub(m, size, 1);
    if (item->has_start) start = from_end(m, item->start_negative, item->start, size);
    dim stop = item->has_limit ? from_end(m, item->limit_negative, item->limit, size) : dim_const(m, -1);
    bool numbers = dim_is_const(m, size) && dim_is_const(m, start) && dim_is_const(m, stop);
    if (numbers) { /* brought into -1..size-1 */
        int64_t most = dim_const_value(m, size) - 1;
        int64_t first = HOP_MAX(HOP_MIN(dim_const_value(m, start), most), -1);
        int64_t behind = HOP_MAX(dim_const_value(m, stop), -1);
        start = dim_const(m, first);
        stop = dim_const(m, HOP_MIN(behind, first));
    }
    dim span = dim_sub(m, start, stop);
    dim count = dim_floordiv(m, dim_add(m, span, dim_const(m, step - 1)), dim_const(m, step));
    c->limit[d] = dim_add(m, start, 1);
    c->start[d] = dim_sub(m, start, dim_mul(m, dim_sub(m, count, 1), dim_const(m, step)));
    bool empty = dim_is_const(m, count) && !dim_const_value(m, count);
    if (empty) {
        c->start[d] = 0;
        c->limit[d] = 0;
    } else if (step > 1 && !dim_provably_le(m, b->symbols.data, 1, count)) { /* it may be empty in a run */
        c->start[d] = dim_min(m, c->start[d], c->limit[d]);
    }
    c->step[d] = (uint32_t)step;
    c->reversed[c->n_reversed++] = d;
}

static void cut_index(struct module *m, const struct slice_item *item, dim size, struct cut *c, uint32_t d)
{
    dim at = from_end(m, item->start_negative, item->start, size);
    bool numbers = dim_is_const(m, at) && dim_is_const(m, size);
    if (numbers && (dim_const_value(m, at) < 0 || dim_const_value(m, at) >= dim_const_value(m, size)))
        capture_throw("index %lld is outside of axis %u of size %lld",
                      (long long)dim_const_value(m, item->start), d, (long long)dim_const_value(m, size));
    c->start[d] = at;
    c->limit[d] = dim_add(m, at, 1);
    c->step[d] = 1;
}

static struct cut read_cut(struct scope *s, struct builder *b, val v, const char *text)
{
    struct module *m = b->m;
    struct type t = emit_type(b, v);
    struct cursor cursor = cursor_over(text, "the slices", s, m);
    struct slice_item items[MAX_SLICE_ITEMS];
    uint32_t n = parse_slices(&cursor, t.rank, items, HOP_COUNT(items)), d = 0;
    struct cut c = { .rank = t.rank, .whole = true };
    for (uint32_t i = 0; i < n; i++) {
        const struct slice_item *item = &items[i];
        if (c.part_rank == MAX_RANK && item->kind != SLICE_INDEX)
            capture_throw("the part would have more than %d dims", MAX_RANK);
        if (item->kind == SLICE_NEW) {
            c.part[c.part_rank++] = 1;
            continue;
        }
        dim size = t.dims[d];
        if (item->kind == SLICE_INDEX) cut_index(m, item, size, &c, d);
        else if (item->step < 0) cut_backwards(b, item, size, &c, d);
        else {
            c.start[d] = place_bound(m, item->has_start, item->start_negative, item->start, size, 0);
            c.limit[d] = place_bound(m, item->has_limit, item->limit_negative, item->limit, size, size);
            bool numbers = dim_is_const(m, c.start[d]) && dim_is_const(m, c.limit[d]);
            if (numbers && dim_const_value(m, c.limit[d]) < dim_const_value(m, c.start[d]))
                c.limit[d] = c.start[d];
            c.step[d] = (uint32_t)item->step;
        }
        c.length[d] = dim_floordiv(m,
                                   dim_add(m, dim_sub(m, c.limit[d], c.start[d]),
                                           dim_const(m, (int64_t)c.step[d] - 1)),
                                   dim_const(m, c.step[d]));
        if (item->kind == SLICE_RANGE) c.part[c.part_rank++] = c.length[d];
        c.stepped |= c.step[d] != 1;
        c.whole &= c.start[d] == 0 && c.limit[d] == size && c.step[d] == 1;
        d++;
    }
    return c;
}

static bool same_dims(uint32_t rank, const dim *a, uint32_t other, const dim *b)
{
    bool same = rank == other;
    for (uint32_t i = 0; i < rank && same; i++) same = a[i] == b[i];
    return same;
}

val emit_slices(struct scope *s, struct builder *b, val v, const char *text)
{
    struct cut c = read_cut(s, b, v, text);
    if (!c.whole) {
        struct attr a[3] = { A_DIMS(c.start, c.rank), A_DIMS(c.limit, c.rank),
                             c.stepped ? A_INTS(c.step, c.rank) : A_NONE };
        v = emit(b, OP_slice, &v, 1, a);
    }
    struct attr reversed = A_INTS(c.reversed, c.n_reversed);
    if (c.n_reversed) v = emit(b, OP_reverse, &v, 1, &reversed);
    return same_dims(c.rank, c.length, c.part_rank, c.part) ? v : emit_reshape(b, v, c.part_rank, c.part);
}

val emit_slices_update(struct scope *s, struct builder *b, val whole, const char *text, val part)
{
    struct cut c = read_cut(s, b, whole, text);
    struct type t = emit_type(b, whole);
    if (emit_type(b, part).rank > c.part_rank)
        capture_throw("the value has %u dims, the part it is assigned to %u", emit_type(b, part).rank,
                      c.part_rank);
    part = bring_to(b, emit_cast(b, part, (enum dtype)t.dtype), c.part_rank, c.part);
    for (uint32_t i = 0; i < c.part_rank; i++)
        require_equal(b, c.part[i], emit_type(b, part).dims[i], "a size of the value assigned");
    if (!same_dims(c.rank, c.length, c.part_rank, c.part)) part = emit_reshape(b, part, c.rank, c.length);
    struct attr reversed = A_INTS(c.reversed, c.n_reversed);
    if (c.n_reversed) part = emit(b, OP_reverse, &part, 1, &reversed);
    if (c.whole) return part;
    if (c.stepped) {
        struct attr a[3] = { A_DIMS(c.start, c.rank), A_DIMS(c.limit, c.rank), A_INTS(c.step, c.rank) };
        return emit(b, OP_slice_update, (val[]){ whole, part }, 2, a);
    }
    val *operands = ARENA_NEW(&b->arena, val, c.rank + 2);
    operands[0] = whole;
    operands[1] = part;
    for (uint32_t i = 0; i < c.rank; i++) operands[2 + i] = emit_dim_value(b, c.start[i]);
    return emit(b, OP_dynamic_update, operands, c.rank + 2, NULL);
}

/* ---- indices that are values ---- */

static void starts_at(struct builder *b, uint32_t rank, uint32_t axis, val index, val *starts)
{
    val zero = emit_full(b, DT_I64, 0, 0, NULL);
    for (uint32_t i = 0; i < rank; i++) starts[i] = i == axis ? index : zero;
}

static val index_scalar(struct builder *b, val index)
{
    struct type t = emit_type(b, index);
    if (t.rank || !dtype_is_integer((enum dtype)t.dtype))
        capture_throw("the index: expected an integer scalar, found %s",
                      type_text(b->m, b->symbols.data, builder_type(b, index)));
    return emit_as_index(b, index);
}

val emit_index(struct builder *b, val v, val index, uint32_t axis)
{
    struct type t = emit_type(b, v);
    dim sizes[MAX_RANK], rest[MAX_RANK];
    uint32_t n = 0;
    val operands[MAX_RANK + 1] = { v };
    starts_at(b, t.rank, axis, index_scalar(b, index), operands + 1);
    for (uint32_t i = 0; i < t.rank; i++) {
        sizes[i] = i == axis ? 1 : t.dims[i];
        if (i != axis) rest[n++] = t.dims[i];
    }
    struct attr a = A_DIMS(sizes, t.rank);
    return emit_reshape(b, emit(b, OP_dynamic_slice, operands, t.rank + 1u, &a), n, rest);
}

val emit_index_update(struct builder *b, val whole, val index, uint32_t axis, val part)
{
    struct type t = emit_type(b, whole);
    dim sizes[MAX_RANK], rest[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t.rank; i++) {
        sizes[i] = i == axis ? 1 : t.dims[i];
        if (i != axis) rest[n++] = t.dims[i];
    }
    if (emit_type(b, part).rank > n)
        capture_throw("the value has %u dims, the part it is assigned to %u", emit_type(b, part).rank, n);
    part = emit_reshape(b, bring_to(b, emit_cast(b, part, (enum dtype)t.dtype), n, rest), t.rank, sizes);
    val operands[MAX_RANK + 2] = { whole, part };
    starts_at(b, t.rank, axis, index_scalar(b, index), operands + 2);
    return emit(b, OP_dynamic_update, operands, t.rank + 2u, NULL);
}

/* ---- calls ---- */

static void rule_slice(struct emission *e)
{
    e->out[0] = emit_slices(e->s, e->b, operand_value(e->b, &e->in[0]), e->args);
}
hop_val hop_slice_at(hop_place at, hop_val x, const char *slices)
{
    return capture_emit1(at, "slice", rule_slice, slices, &x, 1);
}

static void rule_index(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    e->out[0] = emit_index(e->b, v, operand_value(e->b, &e->in[1]),
                           check_axis(*(const int *)e->args, emit_type(e->b, v).rank));
}
hop_val hop_index_at(hop_place at, hop_val x, hop_val i, int axis)
{
    return capture_emit1(at, "index", rule_index, &axis, (hop_val[]){ x, i }, 2);
}

static void rule_dynamic_slice(struct emission *e)
{
    const char *text = e->args ? e->args : "";
    struct cursor c = { .text = text, .p = text, .what = "the sizes", .s = e->s, .m = e->b->m };
    dim sizes[MAX_RANK];
    uint32_t rank = parse_dims(&c, sizes);
    cursor_end(&c);
    val operands[MAX_RANK + 1] = { operand_value(e->b, &e->in[0]) };
    for (uint32_t i = 1; i < e->n; i++) operands[i] = index_scalar(e->b, operand_value(e->b, &e->in[i]));
    struct attr a = A_DIMS(sizes, rank);
    e->out[0] = emit(e->b, OP_dynamic_slice, operands, e->n, &a);
}

/* Starts come as an array of the operand's rank, which is known only inside: hop_rank says it. */
static int gather_starts(hop_place at, hop_val x, const hop_val *starts, hop_val *in)
{
    int rank = hop_rank(x);
    if (rank < 0) {
        if (!hop_failed()) hop_fail_at(at, "a part of an empty handle was asked for");
        return -1;
    }
    if (rank && !starts) {
        hop_fail_at(at, "expected a start for each axis, found NULL");
        return -1;
    }
    for (int i = 0; i < rank; i++) in[i] = starts[i];
    return rank;
}

hop_val hop_dynamic_slice_at(hop_place at, hop_val x, const hop_val *starts, const char *sizes)
{
    hop_val in[MAX_RANK + 1] = { x };
    int rank = gather_starts(at, x, starts, in + 1);
    if (rank < 0) return (hop_val){ 0, 0 };
    return capture_emit1(at, "dynamic_slice", rule_dynamic_slice, sizes, in, (uint32_t)rank + 1);
}

static void rule_dynamic_update(struct emission *e)
{
    val operands[MAX_RANK + 2] = { operand_value(e->b, &e->in[0]) };
    operands[1] = operand_as(e->b, &e->in[1], (enum dtype)emit_type(e->b, operands[0]).dtype);
    for (uint32_t i = 2; i < e->n; i++) operands[i] = index_scalar(e->b, operand_value(e->b, &e->in[i]));
    e->out[0] = emit(e->b, OP_dynamic_update, operands, e->n, NULL);
}
hop_val hop_dynamic_update_at(hop_place at, hop_val x, hop_val update, const hop_val *starts)
{
    hop_val in[MAX_RANK + 2] = { x, update };
    int rank = gather_starts(at, x, starts, in + 2);
    if (rank < 0) return (hop_val){ 0, 0 };
    return capture_emit1(at, "dynamic_update", rule_dynamic_update, NULL, in, (uint32_t)rank + 2);
}

/* What is no array of integers is for the row to refuse. */
static val index_array(struct builder *b, const struct operand *o)
{
    val v = operand_value(b, o);
    enum dtype t = (enum dtype)emit_type(b, v).dtype;
    return t == DT_I32 || !dtype_is_integer(t) ? v : emit_as_index(b, v);
}

static void rule_take(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    struct attr a = A_INT(check_axis(*(const int *)e->args, emit_type(e->b, v).rank));
    e->out[0] = emit(e->b, OP_take, (val[]){ v, index_array(e->b, &e->in[1]) }, 2, &a);
}
hop_val hop_take_at(hop_place at, hop_val x, hop_val indices, int axis)
{
    return capture_emit1(at, "take", rule_take, &axis, (hop_val[]){ x, indices }, 2);
}

static void rule_take_along(struct emission *e)
{
    struct builder *b = e->b;
    val v = operand_value(b, &e->in[0]), at = index_array(b, &e->in[1]);
    struct type t = emit_type(b, v), s = emit_type(b, at);
    uint32_t axis = check_axis(*(const int *)e->args, t.rank);
    if (s.rank != t.rank)
        capture_throw("the indices: expected %u dims, found %s", t.rank,
                      type_text(b->m, b->symbols.data, builder_type(b, at)));
    dim x_dims[MAX_RANK], at_dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        dim common = t.dims[i] == 1 ? s.dims[i] : t.dims[i];
        x_dims[i] = i == axis ? t.dims[i] : common;
        at_dims[i] = i == axis ? s.dims[i] : common;
    }
    struct attr a = A_INT(axis);
    val operands[2] = { bring_to(b, v, t.rank, x_dims), bring_to(b, at, t.rank, at_dims) };
    e->out[0] = emit(b, OP_take_along, operands, 2, &a);
}
hop_val hop_take_along_at(hop_place at, hop_val x, hop_val indices, int axis)
{
    return capture_emit1(at, "take_along", rule_take_along, &axis, (hop_val[]){ x, indices }, 2);
}

/* x and one index array per axis, of one shape. */
struct indexing {
    uint32_t n, axes[MAX_RANK];
    val operands[MAX_RANK + 2]; /* x, indices, and room for updates */
    uint32_t rank;              /* of what is read or written */
    dim dims[2 * MAX_RANK];
};

/* `one`: the only axis, text NULL: the first ones. */
static struct indexing read_indexing(struct emission *e, uint32_t n, const char *axes, const int *one)
{
    struct builder *b = e->b;
    struct indexing x = { .n = n, .operands = { operand_value(b, &e->in[0]) } };
    struct type t = emit_type(b, x.operands[0]);
    struct operand in[MAX_RANK];
    dim dims[MAX_RANK];
    uint32_t listed = n, mask = 0, first = t.rank;
    if (!n || n > t.rank)
        capture_throw("%u index arrays for %s", n,
                      type_text(b->m, b->symbols.data, builder_type(b, x.operands[0])));
    if (one) x.axes[0] = check_axis(*one, t.rank);
    else if (axes) listed = parse_axis_list(axes, t.rank, x.axes);
    else
        for (uint32_t i = 0; i < n; i++) x.axes[i] = i;
    if (listed != n) capture_throw("the axes \"%s\" are %u, the index arrays %u", axes, listed, n);
    for (uint32_t i = 0; i < n; i++) {
        in[i] = (struct operand){ .v = index_array(b, &e->in[1 + i]) };
        mask |= 1u << x.axes[i];
        first = HOP_MIN(first, x.axes[i]);
    }
    uint32_t rank = broadcast_dims(b, in, n, dims);
    for (uint32_t i = 0; i < n; i++) x.operands[1 + i] = bring_to(b, in[i].v, rank, dims);
    for (uint32_t i = 0; i < t.rank; i++) {
        for (uint32_t k = 0; i == first && k < rank; k++) x.dims[x.rank++] = dims[k];
        if (!(mask >> i & 1)) x.dims[x.rank++] = t.dims[i];
    }
    if (x.rank > MAX_RANK)
        capture_throw("the part would have %u dims, at most %d are possible", x.rank, MAX_RANK);
    return x;
}

struct index_args {
    uint32_t n;
    const char *axes, *mode;
    const int *axis;
};

static void rule_gather(struct emission *e)
{
    const struct index_args *a = e->args;
    struct indexing x = read_indexing(e, a->n, a->axes, NULL);
    struct attr dims = A_INTS(x.axes, x.n);
    e->out[0] = emit(e->b, OP_gather, x.operands, x.n + 1, &dims);
}

static void rule_scatter(struct emission *e)
{
    const struct index_args *a = e->args;
    const char *const *words = op_table[OP_scatter]->sig.attrs[SCATTER_MODE].words;
    struct indexing x = read_indexing(e, a->n, a->axes, a->axis);
    enum dtype t = (enum dtype)emit_type(e->b, x.operands[0]).dtype;
    const struct operand *given = &e->in[1 + x.n];
    val updates = given->weak ? weak_full(e->b, given, t, x.rank, x.dims) : emit_cast(e->b, given->v, t);
    if (emit_type(e->b, updates).rank <= x.rank) updates = bring_to(e->b, updates, x.rank, x.dims);
    x.operands[1 + x.n] = updates;
    uint32_t mode = 0;
    while (words[mode] && (!a->mode || strcmp(words[mode], a->mode))) mode++;
    if (!words[mode])
        capture_throw("the mode: expected add, set, mul, min or max, found \"%s\"", a->mode ? a->mode : "");
    struct attr attrs[2] = { A_INTS(x.axes, x.n), A_WORD(mode) };
    e->out[0] = emit(e->b, OP_scatter, x.operands, x.n + 2, attrs);
}

static bool index_operands(hop_place at, hop_val x, const hop_val *indices, int n, hop_val *in)
{
    if (n < 1 || n > MAX_RANK || !indices) {
        hop_fail_at(at, "expected an index array for one axis or more");
        return false;
    }
    in[0] = x;
    memcpy(in + 1, indices, (size_t)n * sizeof *in);
    return true;
}

hop_val hop_gather_at(hop_place at, hop_val x, const hop_val *indices, int n, const char *axes)
{
    hop_val in[MAX_RANK + 1];
    if (!index_operands(at, x, indices, n, in)) return (hop_val){ 0, 0 };
    struct index_args args = { .n = (uint32_t)n, .axes = axes };
    return capture_emit1(at, "gather", rule_gather, &args, in, (uint32_t)n + 1);
}
hop_val hop_scatter_at(hop_place at, hop_val x, const hop_val *indices, int n, const char *axes,
                       hop_val updates, const char *mode)
{
    hop_val in[MAX_RANK + 2];
    if (!index_operands(at, x, indices, n, in)) return (hop_val){ 0, 0 };
    in[n + 1] = updates;
    struct index_args args = { .n = (uint32_t)n, .axes = axes, .mode = mode };
    return capture_emit1(at, "scatter", rule_scatter, &args, in, (uint32_t)n + 2);
}
#define DEFINE(name) \
    hop_val hop_scatter_##name##_at(hop_place at, hop_val x, hop_val indices, hop_val updates, int axis) \
    { \
        return capture_emit1(at, "scatter_" #name, rule_scatter, \
                             &(struct index_args){ .n = 1, .axis = &axis, .mode = #name }, \
                             (hop_val[]){ x, indices, updates }, 3); \
    }
HOP_SCATTERS(DEFINE)
#undef DEFINE

struct nonzero_args {
    const char *size;
    int64_t fill;
};
static void rule_nonzero(struct emission *e)
{
    const struct nonzero_args *a = e->args;
    struct builder *b = e->b;
    val v = operand_value(b, &e->in[0]);
    if (emit_type(b, v).dtype != DT_BOOL) v = emit2(b, OP_ne, v, emit_full_like(b, v, 0));
    struct attr attrs[2] = { A_NONE, A_NONE };
    if (a->size) {
        struct cursor c = { .text = a->size, .p = a->size, .what = "the size", .s = e->s, .m = b->m };
        attrs[NONZERO_SIZE] = A_DIM(parse_dim(&c));
        cursor_end(&c);
        attrs[NONZERO_FILL] = A_INT(a->fill);
    }
    val first = emit(b, OP_nonzero, &v, 1, attrs);
    for (uint32_t i = 0; i < e->n_out; i++) e->out[i] = first + i;
}
static int emit_nonzero(hop_place at, hop_val *out, hop_val x, const struct nonzero_args *a)
{
    int rank = hop_rank(x);
    if (rank < 1 && hop_failed()) return hop_failed();
    if (rank < 1) return hop_fail_at(at, "nonzero: expected an array with at least one dim");
    return capture_emit(at, "nonzero", rule_nonzero, a, &x, 1, out, (uint32_t)rank);
}
int hop_nonzero_at(hop_place at, hop_val *out, hop_val x)
{
    return emit_nonzero(at, out, x, &(struct nonzero_args){ NULL, 0 });
}
int hop_nonzero_sized_at(hop_place at, hop_val *out, hop_val x, const char *size, int64_t fill)
{
    return emit_nonzero(at, out, x, &(struct nonzero_args){ size ? size : "", fill });
}
