/* Rows of windows: window_sum and its transpose window_spread, window_max and window_min, which also say
 * where the extreme stands. A window has a size, a stride, a dilation and padding for every dim; padding is
 * not there: a window of nothing but padding has the sum 0 and the extreme of nothing. The elements of a
 * window are folded one after the other in row-major order, the windows of an element added up likewise. */
#include "ops/window.h"

#include "ops/indexkit.h"
#include "ops/scalar_c.h"

/* ---- infer ---- */

static void infer_entries(struct infer *in, const struct attr *list, uint32_t rank, int32_t least,
                          const char *name)
{
    if (list->kind == ATTR_ABSENT) return;
    infer_list_length(in, list, rank, name);
    for (uint32_t d = 0; d < rank; d++)
        if ((int32_t)list->list[d] < least)
            infer_error(in, "attribute '%s': expected at least %d for dim %u, found %d", name, least, d,
                        (int32_t)list->list[d]);
}

/* How many windows each dim has. */
static struct windows infer_windows(struct infer *in, uint32_t rank, const dim *dims, dim counts[MAX_RANK])
{
    infer_entries(in, &in->attrs[WINDOW_SIZES], rank, 1, "window");
    infer_entries(in, &in->attrs[WINDOW_STRIDES], rank, 1, "strides");
    infer_entries(in, &in->attrs[WINDOW_LOW], rank, 0, "low");
    infer_entries(in, &in->attrs[WINDOW_HIGH], rank, 0, "high");
    infer_entries(in, &in->attrs[WINDOW_DILATION], rank, 1, "dilation");
    struct windows w = windows_of(in->attrs, rank);
    for (uint32_t d = 0; d < rank; d++) {
        counts[d] = dims[d];
        if (!w.moved[d]) continue;
        dim span = dim_const(in->m, window_span(&w, d));
        dim padded = dim_add(in->m, dims[d], dim_const(in->m, w.low[d] + w.high[d]));
        infer_le(in, span, padded,
                 arena_printf(&in->m->scratch,
                              "the elements from the first to the last of a window along dim %u, in the "
                              "array with its padding",
                              d));
        dim steps = dim_floordiv(in->m, dim_sub(in->m, padded, span), dim_const(in->m, w.stride[d]));
        counts[d] = dim_add(in->m, steps, 1);
    }
    return w;
}

static struct type infer_numbers(struct infer *in)
{
    struct type t = infer_type(in, 0);
    if (t.dtype == DT_BOOL || !t.rank)
        infer_error(in, "expected numbers with at least one dim, found %s", infer_text(in, in->operands[0]));
    return t;
}

static void infer_divisor(struct infer *in, enum dtype t)
{
    const struct attr *a = &in->attrs[WINDOW_DIVISOR];
    if (a->kind == ATTR_ABSENT) return;
    if (a->i < 1 || a->i > INT32_MAX)
        infer_error(in, "attribute 'divisor': expected at least 1, found %lld", (long long)a->i);
    if (!dtype_is_float(t))
        infer_error(in, "attribute 'divisor': expected floats to divide, found %s",
                    infer_text(in, in->operands[0]));
}

static void infer_window_sum(struct infer *in)
{
    struct type t = infer_numbers(in);
    dim counts[MAX_RANK];
    infer_windows(in, t.rank, t.dims, counts);
    infer_divisor(in, (enum dtype)t.dtype);
    infer_result(in, type_intern(in->m, (enum dtype)t.dtype, t.rank, counts));
}

static void infer_window_spread(struct infer *in)
{
    struct type t = infer_numbers(in);
    const struct attr *dims = &in->attrs[WINDOW_DIMS];
    dim counts[MAX_RANK];
    type_id to = infer_dims_type(in, (enum dtype)t.dtype, dims);
    infer_list_length(in, dims, t.rank, "dims");
    infer_windows(in, t.rank, dims->list, counts);
    infer_divisor(in, (enum dtype)t.dtype);
    for (uint32_t d = 0; d < t.rank; d++)
        infer_equal(in, counts[d], t.dims[d],
                    arena_printf(&in->m->scratch, "how many windows dim %u has, and dim %u of %s", d, d,
                                 infer_text(in, in->operands[0])));
    infer_result(in, to);
}

/* Positions count from the first dim that is windowed. */
static dim plane_size(struct module *m, struct type t, uint32_t first)
{
    dim size = 1;
    for (uint32_t d = first; d < t.rank; d++) size = dim_mul(m, size, t.dims[d]);
    return size;
}
static enum dtype position_dtype(struct module *m, dim plane)
{
    bool narrow = dim_is_const(m, plane) && dim_const_value(m, plane) <= INT32_MAX;
    return narrow ? DT_I32 : DT_I64;
}

static void infer_window_extreme(struct infer *in)
{
    struct type t = infer_numbers(in);
    dim counts[MAX_RANK];
    struct windows w = infer_windows(in, t.rank, t.dims, counts);
    infer_result(in, type_intern(in->m, (enum dtype)t.dtype, t.rank, counts));
    infer_result(in,
                 type_intern(in->m, position_dtype(in->m, plane_size(in->m, t, w.first)), t.rank, counts));
}

/* ---- eval ---- */

/* Where tap `tap` of the window `at` lies among `dims`; false: in the padding. */
static bool tap_place(const struct windows *w, const int64_t *dims, const int64_t *at, const int64_t *tap,
                      int64_t *place)
{
    *place = 0;
    for (uint32_t d = 0; d < w->rank; d++) {
        int64_t i = at[d] * w->stride[d] - w->low[d] + tap[d] * w->dilation[d];
        if (i < 0 || i >= dims[d]) return false;
        *place = *place * dims[d] + i;
    }
    return true;
}

static void narrowed(const struct tensor *to, int64_t count, enum dtype wide, int64_t divisor, char *from)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    if (divisor != 1) {
        size_t bytes = (size_t)count * dtype_info[wide].size;
        double one = (double)divisor;
        char *by = arena_alloc(&arena, bytes + 1);
        for (int64_t i = 0; i < count; i++)
            scalar_c_cast(DT_F64, wide)(1, by + i * (int64_t)dtype_info[wide].size,
                                        (const void *const[]){ &one });
        scalar_c_kernel(OP_div, wide)(count, from, (const void *const[]){ from, by });
    }
    scalar_c_cast(wide, (enum dtype)to->dtype)(count, to->data, (const void *const[]){ from });
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* Sums of windows, and with `spread` elements added to all that their windows have. */
static void add_windows(struct eval *e, const int64_t *dims, bool spread)
{
    const struct attr *attrs = node_attr(e->f, e->n, 0);
    struct tensor x = *e->operands[0];
    struct tensor *out = e->results[0];
    const int64_t *counts = spread ? x.dims : out->dims;
    int64_t windows = spread ? x.count : out->count, at[MAX_RANK] = { 0 };
    struct windows w = windows_of(attrs, x.rank);
    enum dtype wide = dtype_accumulator((enum dtype)x.dtype);
    size_t width = dtype_info[wide].size;
    scalar_fold add = scalar_c_fold(FOLD_SUM, wide);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    scalar_c_convert(&arena, &x, wide);
    char *sums = arena_alloc(&arena, (size_t)out->count * width + 1);
    for (int64_t i = 0; i < out->count; i++) scalar_c_identity(FOLD_SUM, wide, sums + i * (int64_t)width);
    for (int64_t o = 0; o < windows; o++, next_index(w.rank, counts, at)) {
        int64_t tap[MAX_RANK] = { 0 }, place;
        do {
            if (!tap_place(&w, dims, at, tap, &place)) continue;
            int64_t from = spread ? o : place, to = spread ? place : o;
            add(1, 1, 1, sums + to * (int64_t)width, (const char *)x.data + from * (int64_t)width);
        } while (next_index(w.rank, w.size, tap));
    }
    narrowed(out, out->count, wide, window_divisor(attrs), sums);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}
static void eval_window_sum(struct eval *e) { add_windows(e, e->operands[0]->dims, false); }
static void eval_window_spread(struct eval *e) { add_windows(e, e->results[0]->dims, true); }

/* Does x stand before the best so far? The first of equals wins, and the first NaN over all. */
static bool beats(enum op op, enum dtype t, const char *x, const char *best)
{
    uint8_t keeps = 0, nan = 0;
    scalar_c_kernel(op == OP_window_max ? OP_ge : OP_le, t)(1, &keeps, (const void *const[]){ best, x });
    scalar_c_kernel(OP_ne, t)(1, &nan, (const void *const[]){ best, best });
    return !keeps && !nan;
}

static void eval_window_extreme(struct eval *e)
{
    enum op op = (enum op)e->n->op;
    struct tensor x = *e->operands[0];
    struct tensor *out = e->results[0], *where = e->results[1];
    struct windows w = windows_of(node_attr(e->f, e->n, 0), x.rank);
    enum dtype wide = dtype_accumulator((enum dtype)x.dtype);
    size_t width = dtype_info[wide].size;
    int64_t plane = 1, at[MAX_RANK] = { 0 };
    for (uint32_t d = w.first; d < w.rank; d++) plane *= x.dims[d];
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    scalar_c_convert(&arena, &x, wide);
    char *bests = arena_alloc(&arena, (size_t)out->count * width + 1);
    for (int64_t o = 0; o < out->count; o++, next_index(w.rank, out->dims, at)) {
        int64_t tap[MAX_RANK] = { 0 }, place, found = -1;
        char *best = bests + o * (int64_t)width;
        scalar_c_identity(op == OP_window_max ? FOLD_MAX : FOLD_MIN, wide, best);
        do {
            if (!tap_place(&w, x.dims, at, tap, &place)) continue;
            const char *here = (const char *)x.data + place * (int64_t)width;
            bool taken = beats(op, wide, here, best);
            if (taken) memcpy(best, here, width);
            if (taken || found < 0) found = place % plane;
        } while (next_index(w.rank, w.size, tap));
        scalar_c_cast(DT_I64,
                      (enum dtype)where->dtype)(1, (char *)where->data + o * (int64_t)tensor_width(where),
                                                (const void *const[]){ &found });
    }
    narrowed(out, out->count, wide, 1, bests);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* ---- derivatives ---- */

static void vjp_window_sum(struct vjp *v)
{
    if (!v->active[0]) return;
    struct type t = emit_type(v->b, v->operands[0]);
    struct attr a[WINDOW_SPREAD_ATTRS];
    memcpy(a, v->attrs, WINDOW_SUM_ATTRS * sizeof *a);
    a[WINDOW_DIMS] = A_DIMS(t.dims, t.rank);
    v->out[0] = emit(v->b, OP_window_spread, v->ct, 1, a);
}

static void vjp_window_spread(struct vjp *v)
{
    if (!v->active[0]) return;
    val sums = emit(v->b, OP_window_sum, v->ct, 1, v->attrs);
    v->out[0] = emit_as(v->b, sums, builder_type(v->b, v->operands[0]));
}

static void jvp_window_linear(struct jvp *j)
{
    if (j->tangents[0] != VAL_NONE) j->out[0] = emit_same(j->b, j->n, j->tangents[0], j->attrs);
}

/* An array as rows of what stands before the first windowed dim, and of all behind. */
static val as_planes(struct builder *b, val v, uint32_t first)
{
    struct type t = emit_type(b, v);
    dim lead = 1;
    for (uint32_t d = 0; d < first; d++) lead = dim_mul(b->m, lead, t.dims[d]);
    return emit_reshape(b, v, 2, (dim[]){ lead, plane_size(b->m, t, first) });
}

/* Where the extremes stand, as indices of the planes. */
static struct indexed plane_indices(struct builder *b, val positions, uint32_t first, val indices[2])
{
    indices[1] = as_planes(b, positions, first);
    struct type t = emit_type(b, indices[1]);
    indices[0] = emit_iota(b, 2, t.dims, 0);
    return indexed_dims(&A_NONE, 2, 2);
}

/* The position of a window without an extreme is -1: nothing is written there. */
static void vjp_window_extreme(struct vjp *v)
{
    if (!v->active[0]) return;
    struct builder *b = v->b;
    struct type t = emit_type(b, v->operands[0]);
    uint32_t first = windows_of(v->attrs, t.rank).first;
    val indices[2];
    struct indexed s = plane_indices(b, v->results[1], first, indices);
    val zeros = emit_full_like(b, as_planes(b, v->operands[0], first), 0);
    val spread = emit_scatter(b, zeros, &s, indices, as_planes(b, v->ct[0], first), SCATTER_ADD);
    v->out[0] = emit_reshape(b, spread, t.rank, t.dims);
}

static void jvp_window_extreme(struct jvp *j)
{
    if (j->tangents[0] == VAL_NONE) return;
    struct builder *b = j->b;
    struct type t = emit_type(b, j->results[0]), positions = emit_type(b, j->results[1]);
    uint32_t first = windows_of(j->attrs, t.rank).first;
    val indices[2];
    struct indexed s = plane_indices(b, j->results[1], first, indices);
    val taken = emit_reshape(b, emit_gather(b, as_planes(b, j->tangents[0], first), &s, indices), t.rank,
                             t.dims);
    val none = emit_full(b, (enum dtype)positions.dtype, 0, t.rank, t.dims);
    j->out[0] = emit_select(b, emit2(b, OP_lt, j->results[1], none), emit_full_like(b, taken, 0), taken);
}

/* ---- batch ---- */

static void batch_windows(struct batch *v)
{
    static const uint32_t n_attrs[] = { [OP_window_sum - OP_window_sum] = WINDOW_SUM_ATTRS,
                                        [OP_window_spread - OP_window_sum] = WINDOW_SPREAD_ATTRS,
                                        [OP_window_max - OP_window_sum] = WINDOW_EXTREME_ATTRS,
                                        [OP_window_min - OP_window_sum] = WINDOW_EXTREME_ATTRS };
    if (batch_none(v)) return;
    static const uint32_t fronts[] = {
        [WINDOW_SIZES] = 1, [WINDOW_STRIDES] = 1, [WINDOW_LOW] = 0, [WINDOW_HIGH] = 0, [WINDOW_DILATION] = 1
    };
    struct attr a[WINDOW_SPREAD_ATTRS];
    uint32_t n = n_attrs[v->n->op - OP_window_sum];
    memcpy(a, v->attrs, n * sizeof *a);
    for (uint32_t k = 0; k < HOP_COUNT(fronts); k++)
        if (a[k].kind != ATTR_ABSENT) a[k] = batch_sizes(v, &a[k], fronts[k]);
    if (n == WINDOW_SPREAD_ATTRS) a[WINDOW_DIMS] = batch_sizes(v, &a[WINDOW_DIMS], v->size);
    val first = emit(v->b, (enum op)v->n->op, v->operands, 1, a);
    for (uint32_t k = 0; k < v->n->n_results; k++) v->results[k] = first + k;
}

/* ---- rows ---- */

#define WINDOW_SPECS \
    [WINDOW_SIZES] = { "window", ATTR_INTS, true, NULL }, \
    [WINDOW_STRIDES] = { "strides", ATTR_INTS, false, NULL }, \
    [WINDOW_LOW] = { "low", ATTR_INTS, false, NULL }, [WINDOW_HIGH] = { "high", ATTR_INTS, false, NULL }, \
    [WINDOW_DILATION] = { "dilation", ATTR_INTS, false, NULL }
static const struct attr_spec extreme_attrs[] = { WINDOW_SPECS };
static const struct attr_spec sum_attrs[] = { WINDOW_SPECS, [WINDOW_DIVISOR] = { "divisor", ATTR_INT, false,
                                                                                 NULL } };
static const struct attr_spec spread_attrs[] = {
    WINDOW_SPECS, [WINDOW_DIVISOR] = { "divisor", ATTR_INT, false, NULL },
    [WINDOW_DIMS] = { "dims", ATTR_DIMS, true, NULL }
};

#define SAMPLE(symbols, from, op, attrs, to) \
    { "hop 1\nfn @sample" symbols "(%x: " from ") -> (" to ") {\n  %y = " op " {" attrs \
      "} (%x)\n  return %y\n}\n", \
      NULL }
static const struct op_sample window_sum_samples[] = {
    SAMPLE("", "f32[7]", "window_sum", "window = [3]", "f32[5]"),
    SAMPLE("", "f64[40]", "window_sum", "window = [3], low = [1], high = [1], divisor = 3", "f64[40]"),
    SAMPLE("", "f32[2, 9, 38]", "window_sum",
           "window = [1, 3, 3], strides = [1, 2, 2], low = [0, 1, 1], high = [0, 1, 1]", "f32[2, 5, 19]"),
    SAMPLE("", "f64[6, 5, 20]", "window_sum",
           "window = [3, 2, 1], dilation = [2, 1, 1], low = [3, 0, 0], high = [5, 1, 0]", "f64[10, 5, 20]"),
    SAMPLE("[H in 4.., W in 4..]", "f32[H, W]", "window_sum", "window = [2, 4], high = [1, 0]",
           "f32[H, W - 3]"),
    SAMPLE("[N]", "f64[N, 8]", "window_sum", "window = [1, 2], strides = [1, 2]", "f64[N, 4]"),
    SAMPLE("", "i32[5, 6]", "window_sum", "window = [2, 7], low = [0, 4]", "i32[4, 4]"),
    SAMPLE("", "f16[9]", "window_sum", "window = [4], divisor = 4", "f16[6]"),
    SAMPLE("", "f32[0, 3]", "window_sum", "window = [2, 1], low = [2, 0], high = [1, 0]", "f32[2, 3]"),
    SAMPLE("", "f32[12, 12]", "window_sum", "window = [9, 9]", "f32[4, 4]"),
    SAMPLE("", "f64[3]", "window_sum", "window = [1]", "f64[3]"),
};
static const struct op_sample window_spread_samples[] = {
    SAMPLE("", "f32[5]", "window_spread", "window = [3], dims = [7]", "f32[7]"),
    SAMPLE("", "f64[40]", "window_spread", "window = [3], low = [1], high = [1], divisor = 3, dims = [40]",
           "f64[40]"),
    SAMPLE("", "f32[2, 5, 19]", "window_spread",
           "window = [1, 3, 3], strides = [1, 2, 2], low = [0, 1, 1], high = [0, 1, 1], dims = [2, 9, 38]",
           "f32[2, 9, 38]"),
    SAMPLE("", "f64[10, 5, 20]", "window_spread",
           "window = [3, 2, 1], dilation = [2, 1, 1], low = [3, 0, 0], high = [5, 1, 0], dims = [6, 5, 20]",
           "f64[6, 5, 20]"),
    SAMPLE("", "f32[3, 13]", "window_spread",
           "window = [2, 3], strides = [1, 3], dilation = [1, 2], low = [0, 2], dims = [4, 40]",
           "f32[4, 40]"),
    SAMPLE("[N]", "f64[N, 4]", "window_spread", "window = [1, 2], strides = [1, 2], dims = [N, 8]",
           "f64[N, 8]"),
    SAMPLE("", "i32[4, 4]", "window_spread", "window = [2, 7], low = [0, 4], dims = [5, 6]", "i32[5, 6]"),
    SAMPLE("", "f16[6]", "window_spread", "window = [4], divisor = 4, dims = [9]", "f16[9]"),
    SAMPLE("", "f32[4, 4]", "window_spread",
           "window = [9, 9], strides = [11, 1], high = [30, 0], dims = [12, 12]", "f32[12, 12]"),
    SAMPLE("", "f32[2, 3]", "window_spread", "window = [2, 1], low = [2, 0], high = [1, 0], dims = [0, 3]",
           "f32[0, 3]"),
};
#define EXTREME(symbols, from, op, attrs, to, positions) \
    { "hop 1\nfn @sample" symbols "(%x: " from ") -> (" to ", " positions ") {\n  %y, %p = " op " {" attrs \
      "} (%x)\n  return %y, %p\n}\n", \
      NULL }
#define EXTREME_SAMPLES(op) \
    EXTREME("", "f32[7]", op, "window = [3]", "f32[5]", "i32[5]"), \
        EXTREME("", "f32[2, 9, 38]", op, \
                "window = [1, 3, 3], strides = [1, 2, 2], low = [0, 1, 1], high = [0, 1, 1]", \
                "f32[2, 5, 19]", "i32[2, 5, 19]"), \
        EXTREME("", "f64[6, 5, 20]", op, \
                "window = [3, 2, 1], dilation = [2, 1, 1], low = [3, 0, 0], high = [5, 1, 0]", \
                "f64[10, 5, 20]", "i32[10, 5, 20]"), \
        EXTREME("[H in 4.., W in 4..]", "f32[H, W]", op, "window = [2, 4], high = [1, 0]", "f32[H, W - 3]", \
                "i64[H, W - 3]"), \
        EXTREME("[N]", "f64[N, 8]", op, "window = [1, 2], strides = [1, 2]", "f64[N, 4]", "i32[N, 4]"), \
        EXTREME("", "i32[5, 6]", op, "window = [2, 7], low = [0, 4]", "i32[4, 4]", "i32[4, 4]"), \
        EXTREME("", "bf16[9]", op, "window = [4], low = [5]", "bf16[11]", "i32[11]"), \
        EXTREME("", "u8[0, 3]", op, "window = [2, 1], low = [2, 0], high = [1, 0]", "u8[2, 3]", \
                "i32[2, 3]"), \
        EXTREME("", "f32[12, 12]", op, "window = [9, 9]", "f32[4, 4]", "i32[4, 4]")
static const struct op_sample window_max_samples[] = { EXTREME_SAMPLES("window_max") },
                              window_min_samples[] = { EXTREME_SAMPLES("window_min") };

#define WINDOW_ROW(op, text, list, infers, evals, vjps, jvps, lowers, class) \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { 1, 1, ROW_ATTRS(list) }, \
                                     .infer = infers, \
                                     .eval = evals, \
                                     .vjp = vjps, \
                                     .jvp = jvps, \
                                     .batch = batch_windows, \
                                     .lower = &lowers, \
                                     .autocast = AUTOCAST_##class, \
                                     ROW_SAMPLES(op##_samples) };
WINDOW_ROW(window_sum,
           "the sums of windows, an entry a dim: sizes, strides (absent: 1), padding in front and behind "
           "(absent: 0), distances within a window (absent: 1); divided by the divisor (absent: 1)",
           sum_attrs, infer_window_sum, eval_window_sum, vjp_window_sum, jvp_window_linear, lower_window_sum,
           F32)
WINDOW_ROW(window_spread,
           "for every element of an array of these dims the sum of what its windows are given, divided by "
           "the divisor: the transpose of window_sum",
           spread_attrs, infer_window_spread, eval_window_spread, vjp_window_spread, jvp_window_linear,
           lower_window_spread, F32)
WINDOW_ROW(window_max,
           "the largest of each window, and its position in the array behind the dims that no window runs "
           "along: the first of equals, the first NaN; of nothing -inf or the smallest integer, and -1",
           extreme_attrs, infer_window_extreme, eval_window_extreme, vjp_window_extreme, jvp_window_extreme,
           lower_window_extreme, KEEP)
WINDOW_ROW(window_min,
           "the smallest of each window, and its position as window_max has it; of nothing inf or the "
           "largest integer, and -1",
           extreme_attrs, infer_window_extreme, eval_window_extreme, vjp_window_extreme, jvp_window_extreme,
           lower_window_extreme, KEEP)
