/* Composite rows that read between elements: resize, dim by dim, and grid_sample and map_coordinates, at
 * positions that are given. Each is a few gathers and weights, so that derivatives by the array and by the
 * positions are those of the expansion. Weights are made in f64 from sizes, in the dtype of the positions
 * otherwise. */
#include "ops/indexkit.h"

/* A value that many read and that is slow to make: it is made once, wherever it is read. */
static val stored(struct builder *b, val v)
{
    struct attr keep[TAG_ATTRS] = { [TAG_GRADIENT] = A_WORD(TAG_KEEP) };
    return emit(b, OP_tag, &v, 1, keep);
}

/* ---- kernels ---- */

static val number_like(struct builder *b, val like, double v) { return emit_full_like(b, like, v); }
static val plus(struct builder *b, val v, double c) { return emit2(b, OP_add, v, number_like(b, v, c)); }
static val times(struct builder *b, val v, double c) { return emit2(b, OP_mul, v, number_like(b, v, c)); }

/* ((c3·t + c2)·t + c1)·t + c0 */
static val polynomial(struct builder *b, val t, const double c[4])
{
    val r = plus(b, times(b, t, c[3]), c[2]);
    r = plus(b, emit2(b, OP_mul, r, t), c[1]);
    return plus(b, emit2(b, OP_mul, r, t), c[0]);
}

/* Keys' kernel at a distance, with the slope a at 1: a third-order polynomial up to 1, another up to 2. */
static val cubic_weight(struct builder *b, val distance, double a)
{
    const double near[4] = { 1, 0, -(a + 3), a + 2 }, far[4] = { -4 * a, 8 * a, -5 * a, a };
    val inner = emit2(b, OP_le, distance, number_like(b, distance, 1));
    val outer = emit2(b, OP_lt, distance, number_like(b, distance, 2));
    val beyond = emit_select(b, outer, polynomial(b, distance, far), number_like(b, distance, 0));
    return emit_select(b, inner, polynomial(b, distance, near), beyond);
}

static val linear_weight(struct builder *b, val distance)
{
    val w = emit2(b, OP_sub, number_like(b, distance, 1), distance);
    return emit2(b, OP_max, w, number_like(b, distance, 0));
}

/* How far a kernel reaches to either side. */
static int64_t reach_of(int64_t method) { return method == BY_CUBIC ? 2 : 1; }

/* ---- resize ---- */

static void infer_resize(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *list = &in->attrs[RESIZE_DIMS], *sizes = &in->attrs[RESIZE_SIZES];
    bool nearest = in->attrs[RESIZE_METHOD].i == BY_NEAREST;
    bool align = in->attrs[RESIZE_ALIGN].kind != ATTR_ABSENT;
    if (!nearest && !dtype_is_float((enum dtype)t.dtype))
        infer_error(in, "expected floats, found %s", infer_text(in, in->operands[0]));
    if (nearest && align)
        infer_error(in, "attribute 'align_corners': expected a method that reads between elements");
    if (align && in->attrs[RESIZE_ANTIALIAS].kind != ATTR_ABSENT)
        infer_error(in, "expected one of the attributes 'align_corners' and 'antialias'");
    infer_dim_list(in, list, t.rank, "dims");
    if (sizes->n != list->n)
        infer_error(in, "attribute 'sizes': expected one per dim listed (%u), found %u", list->n, sizes->n);
    dim dims[MAX_RANK];
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t d = list->list[i];
        infer_not_negative(in, sizes->list[i], "attribute 'sizes'");
        infer_at_least(in, 1, t.dims[d], arena_printf(&in->m->scratch, "dim %u", d));
        dims[d] = sizes->list[i];
    }
    infer_result(in, type_intern(in->m, (enum dtype)t.dtype, t.rank, dims));
}

/* A size as f64, over one dim. */
static val real_size(struct builder *b, dim size, dim over)
{
    if (dim_is_const(b->m, size)) return emit_full(b, DT_F64, (double)dim_const_value(b->m, size), 1, &over);
    return emit_broadcast(b, emit_cast(b, emit_dim_value(b, size), DT_F64), 1, &over, NULL);
}

static val gather_along(struct builder *b, val x, uint32_t d, val at)
{
    struct attr a = A_INTS(&d, 1);
    return emit(b, OP_gather, (val[]){ x, at }, 2, &a);
}

/* The element whose middle is nearest to that of the new one: floor((i + 1/2)·n/m). */
static val nearest_of(struct builder *b, val x, uint32_t d, dim size)
{
    dim n = emit_type(b, x).dims[d];
    val odd = emit2(b, OP_add, emit2(b, OP_mul, emit_iota(b, 1, &size, 0), emit_dim_full(b, 2, 1, &size)),
                    emit_dim_full(b, 1, 1, &size));
    val scaled = emit2(b, OP_mul, odd, emit_dim_full(b, n, 1, &size));
    val twice = emit2(b, OP_mul, emit_dim_full(b, size, 1, &size), emit_dim_full(b, 2, 1, &size));
    return gather_along(b, x, d, emit2(b, OP_div, scaled, twice));
}

/* f64 over dims [size]: where the new elements lie among the old ones. */
static val positions_of(struct builder *b, dim n, dim size, bool align)
{
    struct attr a[3] = { A_DIMS(&size, 1), A_INT(0), A_DTYPE(DT_F64) };
    val i = emit(b, OP_iota, NULL, 0, a);
    if (align) {
        dim steps = dim_max(b->m, dim_sub(b->m, size, 1), 1);
        val scale = emit2(b, OP_div, real_size(b, dim_sub(b->m, n, 1), size), real_size(b, steps, size));
        return emit2(b, OP_mul, i, scale);
    }
    val scale = emit2(b, OP_div, real_size(b, n, size), real_size(b, size, size));
    return plus(b, emit2(b, OP_mul, plus(b, i, 0.5), scale), -0.5);
}

/* Whether indices lie below n: negative ones are large without a sign. */
static val inside_of(struct builder *b, val at, dim n)
{
    enum dtype without_sign = emit_type(b, at).dtype == DT_I32 ? DT_U32 : DT_U64;
    val index = emit_cast(b, at, without_sign);
    struct type t = emit_type(b, index);
    return emit2(b, OP_lt, index, emit_cast(b, emit_dim_full(b, n, t.rank, t.dims), without_sign));
}

static val weight_at(struct builder *b, val at, val position, val widened, int64_t method, dim n)
{
    val distance = emit1(b, OP_abs, emit2(b, OP_sub, emit_cast(b, at, DT_F64), position));
    if (widened != VAL_NONE) distance = emit2(b, OP_div, distance, widened);
    val w = method == BY_CUBIC ? cubic_weight(b, distance, -0.5) : linear_weight(b, distance);
    return emit_select(b, inside_of(b, at, n), w, emit_full_like(b, w, 0));
}

/* Two or four neighbours. What lies outside has no weight, and the others share it. */
static val between(struct builder *b, val x, uint32_t d, dim size, int64_t method, bool align)
{
    enum { MOST = 4 };
    struct type t = emit_type(b, x);
    int64_t reach = reach_of(method);
    val position = positions_of(b, t.dims[d], size, align), sum = VAL_NONE, total = VAL_NONE;
    val first = emit_cast(b, emit1(b, OP_floor, position), DT_I64), at[MOST], w[MOST];
    for (int64_t k = 0; k < 2 * reach; k++) {
        struct attr shift[3] = { A_INT(k + 1 - reach), A_DIMS(&size, 1), A_DTYPE(DT_I64) };
        at[k] = emit2(b, OP_add, first, emit(b, OP_full, NULL, 0, shift));
        w[k] = weight_at(b, at[k], position, VAL_NONE, method, t.dims[d]);
        total = k ? emit2(b, OP_add, total, w[k]) : w[k];
    }
    for (int64_t k = 0; k < 2 * reach; k++) {
        val v = gather_along(b, x, d, stored(b, at[k]));
        struct type shape = emit_type(b, v);
        val share = stored(b, emit_cast(b, emit2(b, OP_div, w[k], total), (enum dtype)t.dtype));
        val term = emit2(b, OP_mul, emit_broadcast(b, share, shape.rank, shape.dims, &d), v);
        sum = k ? emit2(b, OP_add, sum, term) : term;
    }
    return sum;
}

/* The kernel is as wide as a new element: as many old ones as that takes, along a dim before it. */
static val averaged(struct builder *b, val x, uint32_t d, dim size, int64_t method)
{
    struct module *m = b->m;
    struct type t = emit_type(b, x);
    int64_t reach = reach_of(method);
    dim wide = dim_max(m, t.dims[d], size);
    dim span = dim_mul(m, wide, dim_const(m, 2 * reach));
    dim taps = dim_floordiv(m, dim_add(m, span, dim_sub(m, size, 1)), dim_max(m, size, 1));
    dim pair[2] = { taps, size };
    val position = positions_of(b, t.dims[d], size, false);
    val scale = emit2(b, OP_div, real_size(b, wide, size), real_size(b, size, size));
    val before = emit2(b, OP_sub, position, times(b, scale, (double)reach));
    val first = emit_cast(b, plus(b, emit1(b, OP_floor, before), 1), DT_I64);
    uint32_t last = 1;
    val at = emit2(b, OP_add, emit_broadcast(b, first, 2, pair, &last), emit_iota(b, 2, pair, 0));
    val w = weight_at(b, at, emit_broadcast(b, position, 2, pair, &last),
                      emit_broadcast(b, scale, 2, pair, &last), method, t.dims[d]);
    val total = emit_reduce(b, OP_sum, w, (uint32_t[]){ 0 }, 1);
    w = stored(b, emit2(b, OP_div, w, emit_broadcast(b, total, 2, pair, &last)));
    val v = gather_along(b, x, d, stored(b, at));
    struct type shape = emit_type(b, v);
    val share = emit_broadcast(b, emit_cast(b, w, (enum dtype)t.dtype), shape.rank, shape.dims,
                               (uint32_t[]){ d, d + 1 });
    return emit_reduce(b, OP_sum, emit2(b, OP_mul, share, v), &d, 1);
}

static bool surely_grows(const struct module *m, dim n, dim size)
{
    return dim_is_const(m, n) && dim_is_const(m, size) && dim_const_value(m, n) <= dim_const_value(m, size);
}

/* Dims that shrink before those that grow; of the first the outer ones, which are rows, and of the others the
 * inner ones, before there are more rows. */
static uint32_t resize_order(const struct module *m, struct type t, const struct attr *list,
                             const struct attr *sizes, uint32_t order[MAX_RANK])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (!surely_grows(m, t.dims[list->list[i]], sizes->list[i])) order[n++] = i;
    for (uint32_t i = list->n; i-- > 0;)
        if (surely_grows(m, t.dims[list->list[i]], sizes->list[i])) order[n++] = i;
    return n;
}

static void expand_resize(struct expand *e)
{
    struct builder *b = e->b;
    struct type t = emit_type(b, e->operands[0]);
    const struct attr *list = &e->attrs[RESIZE_DIMS], *sizes = &e->attrs[RESIZE_SIZES];
    int64_t method = e->attrs[RESIZE_METHOD].i;
    bool align = e->attrs[RESIZE_ALIGN].kind != ATTR_ABSENT;
    bool antialias = e->attrs[RESIZE_ANTIALIAS].kind != ATTR_ABSENT;
    val x = e->operands[0];
    if (method != BY_NEAREST) x = emit_cast(b, x, dtype_accumulator((enum dtype)t.dtype));
    uint32_t order[MAX_RANK], n = resize_order(b->m, t, list, sizes, order);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = order[k], d = list->list[i];
        dim size = sizes->list[i];
        if (size == t.dims[d]) continue;
        if (method == BY_NEAREST) x = nearest_of(b, x, d, size);
        else if (antialias && !surely_grows(b->m, t.dims[d], size)) x = averaged(b, x, d, size, method);
        else x = between(b, x, d, size, method, align);
        if (method != BY_NEAREST && k + 1 < n) x = stored(b, x);
    }
    e->out[0] = emit_as(b, emit_cast(b, x, (enum dtype)t.dtype), e->types[0]);
}

/* ---- sampling ---- */

/* The elements of a dim that a position reads. */
enum { MOST_TAPS = 4, MOST_SAMPLED = MAX_RANK };
struct taps {
    uint32_t n;
    val at[MOST_TAPS], weight[MOST_TAPS], inside[MOST_TAPS]; /* weight, inside: VAL_NONE: 1, always */
};
struct sampling {
    struct builder *b;
    int64_t method, padding;
    bool align;
    val x;
    enum dtype dtype;           /* in which values are added up */
    uint32_t n, dims[MAX_RANK]; /* the dims that are indexed, with a position or an index each */
    uint32_t n_fixed;           /* of the first ones the index is given */
    val indices[MAX_RANK];
    struct taps taps[MAX_RANK];
    val result;
};

/* A size as a float in the shape of v. */
static val size_over(struct builder *b, dim size, val v)
{
    struct type t = emit_type(b, v);
    if (dim_is_const(b->m, size)) return emit_full_like(b, v, (double)dim_const_value(b->m, size));
    val one = emit_cast(b, emit_dim_value(b, size), (enum dtype)t.dtype);
    return t.rank ? emit_broadcast(b, one, t.rank, t.dims, NULL) : one;
}

static val into_borders(struct builder *b, val position, dim n)
{
    val last = size_over(b, dim_sub(b->m, n, 1), position);
    return emit2(b, OP_max, emit2(b, OP_min, position, last), emit_full_like(b, position, 0));
}

/* Mirrored at the middles of the first and the last element (align), or at their outer edges: a position
 * beyond runs back and forth. */
static val reflected(struct builder *b, val position, dim n, bool align)
{
    double edge = align ? 0 : 0.5;
    val zero = emit_full_like(b, position, 0);
    val length = size_over(b, align ? dim_sub(b->m, n, 1) : n, position);
    val some = emit2(b, OP_gt, length, zero);
    val period = emit_select(b, some, times(b, length, 2), emit_full_like(b, position, 1));
    val away = emit1(b, OP_abs, plus(b, position, edge));
    val turns = emit1(b, OP_floor, emit2(b, OP_div, away, period));
    val rest = emit2(b, OP_sub, away, emit2(b, OP_mul, turns, period));
    val back = emit_select(b, emit2(b, OP_gt, rest, length), emit2(b, OP_sub, period, rest), rest);
    return into_borders(b, emit_select(b, some, plus(b, back, -edge), zero), n);
}

/* The element at a whole position: the outermost integer where it is far outside, 0 for NaN. Of small sizes
 * in i32, of which vectors have more. */
static val whole_index(struct builder *b, val position, dim n)
{
    enum { SMALL = 1 << 24 };
    bool small = dim_is_const(b->m, n) && dim_const_value(b->m, n) <= SMALL;
    return stored(b, emit_cast(b, position, small ? DT_I32 : DT_I64));
}

static struct taps taps_of(const struct sampling *s, val position, dim n)
{
    struct builder *b = s->b;
    struct taps r = { 0 };
    bool moved = s->padding != OUTSIDE_ZEROS && s->method != BY_CUBIC;
    if (moved && s->padding == OUTSIDE_REFLECTION) position = reflected(b, position, n, s->align);
    else if (moved) position = into_borders(b, position, n);
    bool nearest = s->method == BY_NEAREST;
    val first = emit1(b, nearest ? OP_round : OP_floor, position);
    val rest = emit2(b, OP_sub, position, first);
    r.n = nearest ? 1 : 2 * (uint32_t)reach_of(s->method);
    for (uint32_t k = 0; k < r.n; k++) {
        double shift = nearest ? 0 : (double)k + 1 - (double)reach_of(s->method);
        val at = plus(b, first, shift);
        if (s->method == BY_CUBIC && s->padding == OUTSIDE_REFLECTION) at = reflected(b, at, n, s->align);
        r.at[k] = whole_index(b, at, n);
        r.inside[k] = s->padding == OUTSIDE_ZEROS ? inside_of(b, r.at[k], n) : VAL_NONE;
        r.weight[k] = VAL_NONE;
        if (s->method == BY_LINEAR)
            r.weight[k] = k ? rest : emit2(b, OP_sub, emit_full_like(b, rest, 1), rest);
        if (s->method == BY_CUBIC)
            r.weight[k] = cubic_weight(b, emit1(b, OP_abs, plus(b, rest, -shift)), -0.75);
    }
    return r;
}

/* Over the rest of the array behind the indices' dims. */
static val over_rest(struct builder *b, val v, val like)
{
    struct type t = emit_type(b, like);
    uint32_t at[MAX_RANK], rank = emit_type(b, v).rank;
    for (uint32_t i = 0; i < rank; i++) at[i] = i;
    return rank == t.rank ? v : emit_broadcast(b, v, t.rank, t.dims, at);
}

/* Adds the element at one choice of taps for every dim. */
static void sample_taps(struct sampling *s, uint32_t i, val weight, val inside)
{
    struct builder *b = s->b;
    if (i == s->n) {
        struct indexed dims = indexed_dims(&A_INTS(s->dims, s->n), s->n, emit_type(b, s->x).rank);
        val v = emit_cast(b, emit_gather(b, s->x, &dims, s->indices), s->dtype);
        if (weight != VAL_NONE) v = emit2(b, OP_mul, over_rest(b, emit_cast(b, weight, s->dtype), v), v);
        if (inside != VAL_NONE) v = emit_select(b, over_rest(b, inside, v), v, emit_full_like(b, v, 0));
        s->result = s->result == VAL_NONE ? v : emit2(b, OP_add, s->result, v);
        return;
    }
    if (i < s->n_fixed) {
        sample_taps(s, i + 1, weight, inside);
        return;
    }
    const struct taps *t = &s->taps[i];
    for (uint32_t k = 0; k < t->n; k++) {
        val w = t->weight[k], here = t->inside[k];
        s->indices[i] = t->at[k];
        if (weight != VAL_NONE && w != VAL_NONE) w = emit2(b, OP_mul, weight, w);
        if (inside != VAL_NONE && here != VAL_NONE) here = emit2(b, OP_and, inside, here);
        sample_taps(s, i + 1, w, here);
    }
}

static val sampled(struct sampling *s)
{
    s->result = VAL_NONE;
    sample_taps(s, 0, VAL_NONE, VAL_NONE);
    return s->result;
}

static int64_t word_or(const struct attr *a, int64_t otherwise)
{
    return a->kind == ATTR_ABSENT ? otherwise : a->i;
}

static struct sampling sampling_of(struct expand *e)
{
    enum dtype given = (enum dtype)emit_type(e->b, e->operands[0]).dtype;
    struct sampling s = { .b = e->b,
                          .x = e->operands[0],
                          .align = e->attrs[SAMPLE_ALIGN].kind != ATTR_ABSENT };
    s.method = word_or(&e->attrs[SAMPLE_METHOD], BY_LINEAR);
    s.padding = word_or(&e->attrs[SAMPLE_PADDING], OUTSIDE_ZEROS);
    s.dtype = s.method == BY_NEAREST ? given : dtype_accumulator(given);
    return s;
}

static void infer_sampled(struct infer *in, struct type x)
{
    bool nearest = word_or(&in->attrs[SAMPLE_METHOD], BY_LINEAR) == BY_NEAREST;
    if (!nearest && !dtype_is_float((enum dtype)x.dtype))
        infer_error(in, "operand 0: expected floats, found %s", infer_text(in, in->operands[0]));
}

static void infer_positions(struct infer *in, uint32_t i, const char *what)
{
    if (!dtype_is_float((enum dtype)infer_type(in, i).dtype))
        infer_error(in, "operand %u (%s): expected floats, found %s", i, what,
                    infer_text(in, in->operands[i]));
}

static void infer_grid_sample(struct infer *in)
{
    struct type x = infer_type(in, 0), grid = infer_type(in, 1);
    infer_sampled(in, x);
    infer_positions(in, 1, "the grid");
    if (x.rank < 3 || x.rank > 5)
        infer_error(in, "operand 0: expected [N, C] and one to three dims, found %s",
                    infer_text(in, in->operands[0]));
    uint32_t n = x.rank - 2u;
    if (in->attrs[SAMPLE_METHOD].kind != ATTR_ABSENT && in->attrs[SAMPLE_METHOD].i == BY_CUBIC && n > 2)
        infer_error(in, "attribute 'method': expected nearest or linear for %s",
                    infer_text(in, in->operands[0]));
    if (grid.rank != x.rank || grid.dims[grid.rank - 1] != dim_const(in->m, n))
        infer_error(in, "operand 1 (the grid): expected %u dims, %u positions along the last, found %s",
                    (uint32_t)x.rank, n, infer_text(in, in->operands[1]));
    infer_equal(in, x.dims[0], grid.dims[0], "operand 1 (the grid): dim 0");
    dim dims[MAX_RANK] = { x.dims[0], x.dims[1] };
    for (uint32_t d = 0; d < n; d++) {
        infer_at_least(in, 1, x.dims[2 + d], arena_printf(&in->m->scratch, "dim %u of operand 0", 2 + d));
        dims[2 + d] = grid.dims[1 + d];
    }
    infer_result(in, type_intern(in->m, (enum dtype)x.dtype, x.rank, dims));
}

/* Component k of the grid: -1 and 1 are the middles of the first and the last element (align), or their outer
 * edges. */
static val grid_position(struct builder *b, val grid, uint32_t k, dim n, bool align)
{
    struct type t = emit_type(b, grid);
    dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    start[t.rank - 1] = dim_const(b->m, k);
    limit[t.rank - 1] = dim_const(b->m, k + 1);
    val g = emit_reshape(b, emit_slice(b, grid, start, limit), t.rank - 1u, t.dims);
    val from_start = plus(b, g, 1);
    if (align) return times(b, emit2(b, OP_mul, from_start, size_over(b, dim_sub(b->m, n, 1), g)), 0.5);
    return times(b, plus(b, emit2(b, OP_mul, from_start, size_over(b, n, g)), -1), 0.5);
}

static void expand_grid_sample(struct expand *e)
{
    struct builder *b = e->b;
    struct sampling s = sampling_of(e);
    struct type x = emit_type(b, s.x), grid = emit_type(b, e->operands[1]);
    uint32_t n = x.rank - 2u, order[MAX_RANK] = { 0 };
    val positions = emit_cast(b, e->operands[1], dtype_accumulator((enum dtype)grid.dtype));
    s.n = n + 1;
    s.n_fixed = 1;
    s.indices[0] = emit_iota(b, grid.rank - 1u, grid.dims, 0);
    for (uint32_t d = 0; d < n; d++) {
        dim size = x.dims[2 + d];
        s.dims[1 + d] = 2 + d;
        s.taps[1 + d] = taps_of(&s, grid_position(b, positions, n - 1 - d, size, s.align), size);
    }
    val found = emit_cast(b, sampled(&s), (enum dtype)x.dtype); /* [N, T…, C] */
    order[1] = x.rank - 1u;
    for (uint32_t d = 0; d < n; d++) order[2 + d] = 1 + d;
    e->out[0] = emit_as(b, emit_permute(b, found, order), e->types[0]);
}

static void infer_map_coordinates(struct infer *in)
{
    struct type x = infer_type(in, 0);
    infer_sampled(in, x);
    if (!x.rank || in->n_operands != x.rank + 1u)
        infer_error(in, "expected an array and a position for each of its dims, found %s and %u positions",
                    infer_text(in, in->operands[0]), in->n_operands - 1);
    if (x.rank > 4) infer_error(in, "operand 0: expected at most 4 dims, found %u", (uint32_t)x.rank);
    struct type s = infer_type(in, 1);
    for (uint32_t i = 1; i < in->n_operands; i++) {
        infer_positions(in, i, "positions");
        infer_same_type(in, in->operands[1], in->operands[i],
                        arena_printf(&in->m->scratch, "operand %u (positions)", i));
        infer_at_least(in, 1, x.dims[i - 1], arena_printf(&in->m->scratch, "dim %u of operand 0", i - 1));
    }
    infer_result(in, type_intern(in->m, (enum dtype)x.dtype, s.rank, s.dims));
}

static void expand_map_coordinates(struct expand *e)
{
    struct builder *b = e->b;
    struct sampling s = sampling_of(e);
    struct type x = emit_type(b, s.x), given = emit_type(b, e->operands[1]);
    enum dtype wide = dtype_accumulator((enum dtype)given.dtype);
    s.n = x.rank;
    for (uint32_t d = 0; d < s.n; d++) {
        s.dims[d] = d;
        s.taps[d] = taps_of(&s, emit_cast(b, e->operands[1 + d], wide), x.dims[d]);
    }
    e->out[0] = emit_as(b, emit_cast(b, sampled(&s), (enum dtype)x.dtype), e->types[0]);
}

/* ---- rows ---- */

static const char *const method_words[] = { "nearest", "linear", "cubic", NULL };
static const char *const padding_words[] = { "zeros", "border", "reflection", NULL };
static const struct attr_spec resize_attrs[] = {
    [RESIZE_DIMS] = { "dims", ATTR_INTS, true, NULL },
    [RESIZE_SIZES] = { "sizes", ATTR_DIMS, true, NULL },
    [RESIZE_METHOD] = { "method", ATTR_WORD, true, method_words },
    [RESIZE_ALIGN] = { "align_corners", ATTR_FLAG, false, NULL },
    [RESIZE_ANTIALIAS] = { "antialias", ATTR_FLAG, false, NULL },
};
static const struct attr_spec sample_attrs[] = {
    [SAMPLE_METHOD] = { "method", ATTR_WORD, false, method_words },
    [SAMPLE_PADDING] = { "padding", ATTR_WORD, false, padding_words },
    [SAMPLE_ALIGN] = { "align_corners", ATTR_FLAG, false, NULL },
};

#define RESIZED(symbols, from, attrs, to) \
    { "hop 1\nfn @sample" symbols "(%x: " from ") -> (" to ") {\n  %y = resize {" attrs \
      "} (%x)\n  return %y\n}\n", \
      NULL }
static const struct op_sample resize_samples[] = {
    RESIZED("", "f32[3, 4]", "dims = [0, 1], sizes = [6, 7], method = linear", "f32[6, 7]"),
    RESIZED("", "f64[5, 2]", "dims = [0], sizes = [3], method = linear, antialias", "f64[3, 2]"),
    RESIZED("", "f64[5, 2]", "dims = [0], sizes = [3], method = cubic, antialias", "f64[3, 2]"),
    RESIZED("", "f64[4, 4]", "dims = [0, 1], sizes = [7, 3], method = cubic", "f64[7, 3]"),
    RESIZED("", "f64[4, 4]", "dims = [1], sizes = [7], method = linear, align_corners", "f64[4, 7]"),
    RESIZED("", "i32[5]", "dims = [0], sizes = [8], method = nearest", "i32[8]"),
    RESIZED("[H in 1.., W in 1..]", "f64[H, W]",
            "dims = [0, 1], sizes = [2*H, 3], method = linear, antialias", "f64[2*H, 3]"),
    RESIZED("", "f16[3]", "dims = [0], sizes = [5], method = linear", "f16[5]"),
};
#define SAMPLED(symbols, from, grid, attrs, to) \
    { "hop 1\nfn @sample" symbols "(%x: " from ", %g: " grid ") -> (" to ") {\n  %y = grid_sample {" attrs \
      "} (%x, %g)\n  return %y\n}\n", \
      "g = -1.3..1.3" }
static const struct op_sample grid_sample_samples[] = {
    SAMPLED("", "f64[2, 3, 4, 5]", "f64[2, 3, 2, 2]", "method = linear", "f64[2, 3, 3, 2]"),
    SAMPLED("", "f64[2, 3, 4, 5]", "f64[2, 3, 2, 2]", "method = linear, padding = border, align_corners",
            "f64[2, 3, 3, 2]"),
    SAMPLED("", "f64[1, 2, 4, 5]", "f64[1, 3, 2, 2]", "method = linear, padding = reflection",
            "f64[1, 2, 3, 2]"),
    SAMPLED("", "f32[1, 2, 4, 5]", "f32[1, 3, 2, 2]", "method = nearest, padding = border",
            "f32[1, 2, 3, 2]"),
    SAMPLED("", "f64[1, 2, 4, 5]", "f64[1, 3, 2, 2]", "method = cubic", "f64[1, 2, 3, 2]"),
    SAMPLED("", "f64[1, 1, 4, 5]", "f64[1, 3, 2, 2]", "method = cubic, padding = reflection, align_corners",
            "f64[1, 1, 3, 2]"),
    SAMPLED("", "f64[1, 2, 3, 3, 2]", "f64[1, 2, 1, 2, 3]", "method = linear", "f64[1, 2, 2, 1, 2]"),
    SAMPLED("[N, H in 1..]", "f64[N, 2, H, 3]", "f64[N, 2, 2, 2]", "padding = border", "f64[N, 2, 2, 2]"),
};
static const struct op_sample map_coordinates_samples[] = {
    { "hop 1\nfn @sample(%x: f64[4, 5], %i: f64[3], %j: f64[3]) -> (f64[3]) {\n  %y = map_coordinates(%x, "
      "%i, "
      "%j)\n  return %y\n}\n",
      "i = -1.5..4.5, j = -1.5..5.5" },
    { "hop 1\nfn @sample(%x: i32[4], %i: f32[2, 3]) -> (i32[2, 3]) {\n  %y = map_coordinates {method = "
      "nearest, padding = border} (%x, %i)\n  return %y\n}\n",
      "i = -1.4..4.4" },
    { "hop 1\nfn @sample[T in 1..](%x: f32[T], %i: f64[3]) -> (f32[3]) {\n  %y = map_coordinates {padding = "
      "reflection} (%x, %i)\n  return %y\n}\n",
      "i = -1.4..4.4" },
};

#define COMPOSITE(op, text, least, most, list, infers, expands, ...) \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { least, most, ROW_ATTRS(list) }, \
                                     .infer = infers, \
                                     .expand = expands, \
                                     .autocast = AUTOCAST_F32, \
                                     ROW_SAMPLES(op##_samples), \
                                     __VA_ARGS__ };
COMPOSITE(resize,
          "the array with other sizes along the dims listed, read at the middles of its new elements, or "
          "with align_corners from the middle of the first to that of the last; antialias: where a dim "
          "shrinks the kernel is as wide as a new element",
          1, 1, resize_attrs, infer_resize, expand_resize)
COMPOSITE(grid_sample,
          "pictures [N, C, S…] read at the positions of a grid [N, T…, as many as S], which lists the last "
          "dim first: -1 and 1 are the outer edges, or with align_corners the middles of the first and the "
          "last element",
          2, 2, sample_attrs, infer_grid_sample, expand_grid_sample)
COMPOSITE(map_coordinates, "an array read at positions that are given for each of its dims", 2, MAX_RANK + 1,
          sample_attrs, infer_map_coordinates, expand_map_coordinates)
