/* Composite rows of windows: reduce_window, avg_pool and adaptive_pool. Windows of many elements along
 * several dims are folded dim by dim, the last dim first, which is part of the meaning of sums and products:
 * K·K elements then cost K + K. The first of equals is the same either way. */
#include "ops/indexkit.h"
#include "ops/window.h"

enum { TOGETHER = 32, MOST_FACTORS = 4096 };

/* infer of the windows alone: what it says of the attributes and the sizes holds for the composites, too. */
static type_id infer_windows_type(struct infer *in)
{
    struct infer inner = *in;
    type_id results[2];
    struct attr attrs[WINDOW_SUM_ATTRS];
    memcpy(attrs, in->attrs, WINDOW_EXTREME_ATTRS * sizeof *attrs);
    attrs[WINDOW_DIVISOR] = A_NONE;
    inner.attrs = attrs;
    inner.results = results;
    inner.n_results = 0;
    inner.capacity = 2;
    op_table[OP_window_sum]->infer(&inner);
    in->required = inner.required;
    return results[0];
}

static void infer_reduce_window(struct infer *in)
{
    type_id t = infer_windows_type(in);
    struct windows w = windows_of(in->attrs, infer_type(in, 0).rank);
    for (uint32_t d = 0; in->attrs[REDUCE_WINDOW_BY].i == REDUCE_BY_PROD && d < w.rank; d++)
        if (w.size[d] > MOST_FACTORS)
            infer_error(in, "attribute 'window': expected at most %d factors along dim %u, found %lld",
                        MOST_FACTORS, d, (long long)w.size[d]);
    infer_result(in, t);
}

static void infer_avg_pool(struct infer *in)
{
    struct type t = infer_type(in, 0);
    if (!dtype_is_float((enum dtype)t.dtype))
        infer_error(in, "expected floats, found %s", infer_text(in, in->operands[0]));
    infer_result(in, infer_windows_type(in));
}

/* ---- one dim after the other ---- */

static int64_t elements_of(const struct windows *w)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < w->rank; d++) n *= HOP_MIN(w->size[d], INT32_MAX / n);
    return n;
}

static bool goes_apart(const struct windows *w)
{
    uint32_t several = 0;
    for (uint32_t d = 0; d < w->rank; d++) several += w->size[d] > 1;
    return several > 1 && elements_of(w) > TOGETHER;
}

/* The node over the dims of the mask alone. */
static val emit_windows(struct builder *b, enum op op, val x, const struct windows *w, uint32_t mask,
                        int64_t divisor)
{
    uint32_t lists[WINDOW_EXTREME_ATTRS][MAX_RANK];
    struct attr a[WINDOW_SUM_ATTRS];
    for (uint32_t d = 0; d < w->rank; d++) {
        bool here = mask >> d & 1;
        lists[WINDOW_SIZES][d] = here ? (uint32_t)w->size[d] : 1;
        lists[WINDOW_STRIDES][d] = here ? (uint32_t)w->stride[d] : 1;
        lists[WINDOW_LOW][d] = here ? (uint32_t)w->low[d] : 0;
        lists[WINDOW_HIGH][d] = here ? (uint32_t)w->high[d] : 0;
        lists[WINDOW_DILATION][d] = here ? (uint32_t)w->dilation[d] : 1;
    }
    for (uint32_t k = 0; k < WINDOW_EXTREME_ATTRS; k++) a[k] = A_INTS(lists[k], w->rank);
    a[WINDOW_DIVISOR] = divisor == 1 ? A_NONE : A_INT(divisor);
    return emit(b, op, &x, 1, a);
}

static uint32_t moved_dims(const struct windows *w)
{
    uint32_t mask = 0;
    for (uint32_t d = 0; d < w->rank; d++) mask |= (uint32_t)w->moved[d] << d;
    return mask;
}

static val windows_by(struct builder *b, enum op op, val x, const struct windows *w, int64_t divisor)
{
    uint32_t mask = moved_dims(w);
    if (!mask && divisor == 1) return x;
    if (!goes_apart(w)) return emit_windows(b, op, x, w, mask, divisor);
    enum dtype given = (enum dtype)emit_type(b, x).dtype;
    if (op == OP_window_sum) x = emit_cast(b, x, dtype_accumulator(given)); /* rounded once */
    for (uint32_t d = w->rank; d-- > 0;) {
        if (!w->moved[d]) continue;
        mask &= ~(1u << d);
        x = emit_windows(b, op, x, w, 1u << d, mask ? 1 : divisor);
    }
    return emit_cast(b, x, given);
}

/* Products: the windows' first elements times their second ones, and so on, along one dim. */
static val products_along(struct builder *b, val x, const struct windows *w, uint32_t d)
{
    struct type t = emit_type(b, x);
    dim low[MAX_RANK] = { 0 }, high[MAX_RANK] = { 0 }, start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    uint32_t step[MAX_RANK];
    low[d] = dim_const(b->m, w->low[d]);
    high[d] = dim_const(b->m, w->high[d]);
    struct attr pads[3] = { A_DIMS(low, t.rank), A_DIMS(high, t.rank), A_NONE };
    dim padded = dim_add(b->m, t.dims[d], dim_const(b->m, w->low[d] + w->high[d]));
    if (w->low[d] || w->high[d])
        x = emit(b, OP_pad, (val[]){ x, emit_full(b, (enum dtype)t.dtype, 1, 0, NULL) }, 2, pads);
    dim span = dim_const(b->m, window_span(w, d)), stride = dim_const(b->m, w->stride[d]);
    dim last = dim_mul(b->m, dim_floordiv(b->m, dim_sub(b->m, padded, span), stride), stride);
    for (uint32_t i = 0; i < t.rank; i++) {
        limit[i] = t.dims[i];
        step[i] = i == d ? (uint32_t)w->stride[d] : 1;
    }
    val product = VAL_NONE;
    for (int64_t tap = 0; tap < w->size[d]; tap++) {
        start[d] = dim_const(b->m, tap * w->dilation[d]);
        limit[d] = dim_add(b->m, dim_add(b->m, start[d], last), 1);
        struct attr a[3] = { A_DIMS(start, t.rank), A_DIMS(limit, t.rank), A_INTS(step, t.rank) };
        val factor = emit(b, OP_slice, &x, 1, a);
        product = product == VAL_NONE ? factor : emit2(b, OP_mul, product, factor);
    }
    return product;
}

static void expand_reduce_window(struct expand *e)
{
    val x = e->operands[0];
    struct windows w = windows_of(e->attrs, emit_type(e->b, x).rank);
    switch (e->attrs[REDUCE_WINDOW_BY].i) {
    case REDUCE_BY_SUM: x = windows_by(e->b, OP_window_sum, x, &w, 1); break;
    case REDUCE_BY_MAX: x = windows_by(e->b, OP_window_max, x, &w, 1); break;
    case REDUCE_BY_MIN: x = windows_by(e->b, OP_window_min, x, &w, 1); break;
    default:
        for (uint32_t d = w.rank; d-- > 0;)
            if (w.moved[d]) x = products_along(e->b, x, &w, d);
    }
    e->out[0] = emit_as(e->b, x, e->types[0]);
}

/* ---- means ---- */

/* How many elements of each window along dim d are no padding, in the shape of `like`. */
static val counts_along(struct builder *b, const struct windows *w, uint32_t d, dim size, val like)
{
    struct type t = emit_type(b, like);
    val ones = emit_full(b, (enum dtype)t.dtype, 1, 1, &size);
    struct windows line = { .rank = 1, .first = 0, .moved = { true } };
    line.size[0] = w->size[d];
    line.stride[0] = w->stride[d];
    line.low[0] = w->low[d];
    line.high[0] = w->high[d];
    line.dilation[0] = w->dilation[d];
    val counts = emit_windows(b, OP_window_sum, ones, &line, 1, 1);
    counts = emit_as(b, counts, type_intern(b->m, (enum dtype)t.dtype, 1, &t.dims[d]));
    return emit_broadcast(b, counts, t.rank, t.dims, &d);
}

static void expand_avg_pool(struct expand *e)
{
    struct builder *b = e->b;
    val x = e->operands[0];
    struct type t = emit_type(b, x);
    struct windows w = windows_of(e->attrs, t.rank);
    bool padded = false;
    for (uint32_t d = 0; d < w.rank; d++) padded |= w.low[d] || w.high[d];
    if (!padded || e->attrs[AVG_POOL_WITHOUT_PADDING].kind == ATTR_ABSENT) {
        e->out[0] = emit_as(b, windows_by(b, OP_window_sum, x, &w, elements_of(&w)), e->types[0]);
        return;
    }
    int64_t whole = 1; /* of the dims that have no padding */
    val wide = emit_cast(b, x, dtype_accumulator((enum dtype)t.dtype)), counts = VAL_NONE;
    val sums = windows_by(b, OP_window_sum, wide, &w, 1);
    for (uint32_t d = 0; d < w.rank; d++) {
        if (!w.low[d] && !w.high[d]) {
            whole *= w.size[d];
            continue;
        }
        val along = counts_along(b, &w, d, t.dims[d], sums);
        counts = counts == VAL_NONE ? along : emit2(b, OP_mul, counts, along);
    }
    if (whole != 1) counts = emit2(b, OP_mul, counts, emit_full_like(b, counts, (double)whole));
    val mean = emit_cast(b, emit2(b, OP_div, sums, counts), (enum dtype)t.dtype);
    e->out[0] = emit_as(b, mean, e->types[0]);
}

/* ---- adaptive pools ---- */

static void infer_adaptive_pool(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *list = &in->attrs[ADAPTIVE_DIMS], *sizes = &in->attrs[ADAPTIVE_SIZES];
    bool mean = in->attrs[ADAPTIVE_BY].i == ADAPTIVE_MEAN;
    if (mean ? !dtype_is_float((enum dtype)t.dtype) : t.dtype == DT_BOOL)
        infer_error(in, "expected %s, found %s", mean ? "floats" : "numbers",
                    infer_text(in, in->operands[0]));
    infer_dim_list(in, list, t.rank, "dims");
    if (sizes->n != list->n)
        infer_error(in, "attribute 'sizes': expected one per dim listed (%u), found %u", list->n, sizes->n);
    dim dims[MAX_RANK];
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t d = list->list[i];
        infer_at_least(in, 1, sizes->list[i], "attribute 'sizes'");
        infer_at_least(in, 1, t.dims[d], arena_printf(&in->m->scratch, "dim %u", d));
        dims[d] = sizes->list[i];
    }
    infer_result(in, type_intern(in->m, (enum dtype)t.dtype, t.rank, dims));
}

/* The most elements that a bin has. */
static dim largest_bin(struct module *m, dim n, dim bins)
{
    enum { FEW = 1 << 16 };
    dim above = dim_add(m, dim_floordiv(m, dim_add(m, n, dim_sub(m, bins, 1)), bins), 1);
    if (!dim_is_const(m, n) || !dim_is_const(m, bins) || dim_const_value(m, bins) > FEW) return above;
    int64_t size = dim_const_value(m, n), count = dim_const_value(m, bins), most = 1;
    if (size > INT32_MAX) return above;
    for (int64_t i = 0; i < count; i++)
        most = HOP_MAX(most, ((i + 1) * size + count - 1) / count - i * size / count);
    return dim_const(m, most);
}

/* i64 over dims [bins]: floor(i·n/m), with `end` ceil((i + 1)·n/m). */
static val bin_edges(struct builder *b, dim n, dim bins, bool end)
{
    val i = emit_iota(b, 1, &bins, 0);
    if (end) i = emit2(b, OP_add, i, emit_dim_full(b, 1, 1, &bins));
    val scaled = emit2(b, OP_mul, i, emit_dim_full(b, n, 1, &bins));
    if (end) scaled = emit2(b, OP_add, scaled, emit_dim_full(b, dim_sub(b->m, bins, 1), 1, &bins));
    return emit2(b, OP_div, scaled, emit_dim_full(b, bins, 1, &bins));
}

static val over(struct builder *b, val v, uint32_t rank, const dim *dims, uint32_t at)
{
    return emit_broadcast(b, v, rank, dims, &at);
}

/* Bins of different sizes along dim d: their first elements, their second ones and so on stand along a dim
 * before it, and what is beyond a bin does not count. */
static val pool_bins(struct builder *b, val x, uint32_t d, dim bins, bool mean)
{
    struct type t = emit_type(b, x);
    dim pair[2] = { largest_bin(b->m, t.dims[d], bins), bins };
    val begin = bin_edges(b, t.dims[d], bins, false), end = bin_edges(b, t.dims[d], bins, true);
    val at = emit2(b, OP_add, over(b, begin, 2, pair, 1), emit_iota(b, 2, pair, 0));
    val inside = emit2(b, OP_lt, at, over(b, end, 2, pair, 1));
    struct attr along = A_INTS(&d, 1);
    val elements = emit(b, OP_gather, (val[]){ x, at }, 2, &along);
    struct type wide = emit_type(b, elements);
    val kept = emit_broadcast(b, inside, wide.rank, wide.dims, (uint32_t[]){ d, d + 1 });
    if (mean) {
        val part = emit_select(b, kept, elements, emit_full_like(b, elements, 0));
        val sum = emit_reduce(b, OP_sum, part, &d, 1);
        struct type s = emit_type(b, sum);
        val count = emit_cast(b, emit2(b, OP_sub, end, begin), (enum dtype)t.dtype);
        return emit2(b, OP_div, sum, over(b, count, s.rank, s.dims, d));
    }
    /* Which of a bin is the largest: the first of equals. */
    enum dtype dtype = (enum dtype)t.dtype;
    struct attr least[3] = { dtype_is_float(dtype) ? A_REAL(-1.0 / 0.0) : A_INT(dtype_least(dtype)),
                             A_DIMS(wide.dims, wide.rank), A_DTYPE(dtype) };
    val part = emit_select(b, kept, elements, emit(b, OP_full, NULL, 0, least));
    struct attr dim_attr = A_INT(d);
    val which = emit(b, OP_argmax, &part, 1, &dim_attr);
    struct type w = emit_type(b, which);
    return emit_take_along(b, x, emit2(b, OP_add, which, over(b, begin, w.rank, w.dims, d)), d);
}

/* Bins of one size are windows. */
static bool divides(const struct module *m, dim n, dim bins, int64_t *size)
{
    if (!dim_is_const(m, n) || !dim_is_const(m, bins)) return false;
    *size = dim_const_value(m, n) / dim_const_value(m, bins);
    return dim_const_value(m, n) % dim_const_value(m, bins) == 0 && *size <= INT32_MAX;
}

static void expand_adaptive_pool(struct expand *e)
{
    struct builder *b = e->b;
    val x = e->operands[0];
    struct type t = emit_type(b, x);
    const struct attr *list = &e->attrs[ADAPTIVE_DIMS], *sizes = &e->attrs[ADAPTIVE_SIZES];
    bool mean = e->attrs[ADAPTIVE_BY].i == ADAPTIVE_MEAN;
    enum dtype given = (enum dtype)t.dtype;
    struct windows even = { .rank = t.rank };
    for (uint32_t d = 0; d < t.rank; d++) even.size[d] = even.stride[d] = even.dilation[d] = 1;
    if (mean) x = emit_cast(b, x, dtype_accumulator(given));
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t d = list->list[i];
        int64_t size;
        if (sizes->list[i] == t.dims[d]) continue;
        if (!divides(b->m, t.dims[d], sizes->list[i], &size)) {
            x = pool_bins(b, x, d, sizes->list[i], mean);
            continue;
        }
        even.size[d] = even.stride[d] = size;
        even.moved[d] = size > 1;
    }
    x = windows_by(b, mean ? OP_window_sum : OP_window_max, x, &even, mean ? elements_of(&even) : 1);
    e->out[0] = emit_as(b, emit_cast(b, x, given), e->types[0]);
}

/* ---- rows ---- */

#define WINDOW_SPECS \
    [WINDOW_SIZES] = { "window", ATTR_INTS, true, NULL }, \
    [WINDOW_STRIDES] = { "strides", ATTR_INTS, false, NULL }, \
    [WINDOW_LOW] = { "low", ATTR_INTS, false, NULL }, [WINDOW_HIGH] = { "high", ATTR_INTS, false, NULL }, \
    [WINDOW_DILATION] = { "dilation", ATTR_INTS, false, NULL }
static const char *const fold_words[] = { "sum", "prod", "max", "min", NULL };
static const char *const pool_words[] = { "mean", "max", NULL };
static const struct attr_spec reduce_window_attrs[] = {
    WINDOW_SPECS, [REDUCE_WINDOW_BY] = { "by", ATTR_WORD, true, fold_words }
};
static const struct attr_spec avg_pool_attrs[] = {
    WINDOW_SPECS, [AVG_POOL_WITHOUT_PADDING] = { "without_padding", ATTR_FLAG, false, NULL }
};
static const struct attr_spec adaptive_attrs[] = {
    [ADAPTIVE_DIMS] = { "dims", ATTR_INTS, true, NULL },
    [ADAPTIVE_SIZES] = { "sizes", ATTR_DIMS, true, NULL },
    [ADAPTIVE_BY] = { "by", ATTR_WORD, true, pool_words },
};

#define SAMPLE(symbols, from, op, attrs, to) \
    { "hop 1\nfn @sample" symbols "(%x: " from ") -> (" to ") {\n  %y = " op " {" attrs \
      "} (%x)\n  return %y\n}\n", \
      NULL }
#define EACH_SAMPLE(by) \
    SAMPLE("", "f32[2, 9, 8]", "reduce_window", \
           "window = [1, 3, 3], strides = [1, 2, 2], low = [0, 1, 1], high = [0, 1, 1], by = " by, \
           "f32[2, 5, 4]"), \
        SAMPLE("", "f64[9, 9]", "reduce_window", "window = [7, 7], low = [2, 3], high = [1, 0], by = " by, \
               "f64[6, 6]"), \
        SAMPLE("[N in 3..]", "f64[N, 4]", "reduce_window", "window = [3, 1], strides = [2, 1], by = " by, \
               "f64[(N - 3) // 2 + 1, 4]"), \
        SAMPLE("", "i32[6]", "reduce_window", "window = [2], dilation = [3], by = " by, "i32[3]"), \
        SAMPLE("", "f32[3, 2]", "reduce_window", "window = [1, 1], by = " by, "f32[3, 2]")
static const struct op_sample reduce_window_samples[] = {
    EACH_SAMPLE("sum"), EACH_SAMPLE("prod"), EACH_SAMPLE("max"), EACH_SAMPLE("min"),
    SAMPLE("", "f16[8, 8]", "reduce_window", "window = [6, 6], by = sum", "f16[3, 3]")
};
static const struct op_sample avg_pool_samples[] = {
    SAMPLE("", "f32[2, 6, 8]", "avg_pool", "window = [1, 2, 2], strides = [1, 2, 2]", "f32[2, 3, 4]"),
    SAMPLE("", "f64[5, 7]", "avg_pool", "window = [3, 3], low = [1, 1], high = [1, 1]", "f64[5, 7]"),
    SAMPLE("", "f64[5, 7, 2]", "avg_pool",
           "window = [3, 2, 2], strides = [2, 1, 1], low = [1, 0, 0], high = [1, 1, 0], without_padding",
           "f64[3, 7, 1]"),
    SAMPLE("[H in 1.., N]", "f32[N, H]", "avg_pool",
           "window = [1, 3], low = [0, 1], high = [0, 1], without_padding", "f32[N, H]"),
    SAMPLE("", "bf16[9, 9]", "avg_pool", "window = [6, 6]", "bf16[4, 4]"),
};
static const struct op_sample adaptive_pool_samples[] = {
    SAMPLE("", "f32[2, 6, 8]", "adaptive_pool", "dims = [1, 2], sizes = [3, 4], by = mean", "f32[2, 3, 4]"),
    SAMPLE("", "f64[7, 2, 5]", "adaptive_pool", "dims = [0, 2], sizes = [3, 4], by = mean", "f64[3, 2, 4]"),
    SAMPLE("", "f64[7, 2, 5]", "adaptive_pool", "dims = [0, 2], sizes = [3, 8], by = max", "f64[3, 2, 8]"),
    SAMPLE("[H in 1.., N]", "f32[N, H]", "adaptive_pool", "dims = [1], sizes = [3], by = mean", "f32[N, 3]"),
    SAMPLE("[H in 1.., N]", "f64[N, H]", "adaptive_pool", "dims = [1], sizes = [3], by = max", "f64[N, 3]"),
    SAMPLE("", "i32[7]", "adaptive_pool", "dims = [0], sizes = [2], by = max", "i32[2]"),
    SAMPLE("", "f16[10]", "adaptive_pool", "dims = [0], sizes = [4], by = mean", "f16[4]"),
};

#define COMPOSITE(op, text, list, infers, expands, class) \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { 1, 1, ROW_ATTRS(list) }, \
                                     .infer = infers, \
                                     .expand = expands, \
                                     .autocast = AUTOCAST_##class, \
                                     ROW_SAMPLES(op##_samples) };
COMPOSITE(reduce_window,
          "the sum, product, largest or smallest of each window, an entry a dim: sizes, strides (absent: 1), "
          "padding in front and behind (absent: 0), which counts for nothing, distances within a window "
          "(absent: 1). The derivative of an extreme goes to the first of equals",
          reduce_window_attrs, infer_reduce_window, expand_reduce_window, F32)
COMPOSITE(avg_pool,
          "the mean of each window, windows as for reduce_window: the sum by the window's size, or "
          "without_padding by how many of its elements are there",
          avg_pool_attrs, infer_avg_pool, expand_avg_pool, F32)
COMPOSITE(adaptive_pool,
          "the mean or the largest of bins along the dims listed, as many as `sizes` says: of n elements "
          "bin i of m has those from floor(i n / m) up to ceil((i + 1) n / m)",
          adaptive_attrs, infer_adaptive_pool, expand_adaptive_pool, F32)
