/* Composite rows: conv and conv_transpose, convolutions of arrays of the usual shapes, x [batch, channels,
 * space…], or these dims in any other order that lists say. Each is infer and an expansion: channels are
 * split into groups, conv_general does the work, and groups are put together again. */
#include "ops/convkit.h"

#include "ops/rowkit.h"

/* Parts of dims in the lists x_dims and w_dims; spatial ones follow. Of a transposed convolution w has what
 * comes in where it has otherwise what goes out, and what a group gives out behind it. */
enum { USUAL_BATCH = 0, USUAL_CHANNEL = 1, USUAL_SPATIAL = 2 };
enum { USUAL_OUT = 0, USUAL_IN = 1 };

/* What the attributes say. */
struct usual {
    bool transposed;
    uint32_t n_spatial;
    uint32_t x[MAX_RANK], w[MAX_RANK];
    int64_t groups;
    uint32_t stride[MAX_RANK], dilation[MAX_RANK], other[MAX_RANK]; /* x_dilation, or output_padding */
    bool has_stride, has_dilation, has_other, same;
};

static uint32_t entry(const struct attr *a, uint32_t i, uint32_t absent)
{
    return a->kind == ATTR_ABSENT ? absent : a->list[i];
}

static struct usual usual_of(const struct attr *a, uint32_t rank, bool transposed)
{
    struct usual u = { .transposed = transposed, .n_spatial = rank - USUAL_SPATIAL };
    for (uint32_t i = 0; i < rank; i++) {
        u.x[i] = entry(&a[USUAL_X_DIMS], i, i);
        u.w[i] = entry(&a[USUAL_W_DIMS], i, i);
    }
    for (uint32_t i = 0; i < u.n_spatial; i++) {
        u.stride[i] = entry(&a[USUAL_STRIDES], i, 1);
        u.dilation[i] = entry(&a[USUAL_DILATION], i, 1);
        u.other[i] = entry(&a[USUAL_OTHER], i, transposed ? 0 : 1);
    }
    u.has_stride = a[USUAL_STRIDES].kind != ATTR_ABSENT;
    u.has_dilation = a[USUAL_DILATION].kind != ATTR_ABSENT;
    u.has_other = a[USUAL_OTHER].kind != ATTR_ABSENT;
    u.same = !transposed && a[USUAL_SAME].kind != ATTR_ABSENT;
    u.groups = a[USUAL_GROUPS].kind == ATTR_ABSENT ? 1 : a[USUAL_GROUPS].i;
    return u;
}

/* (size - 1) · step + 1 */
static dim spread_over(struct module *m, dim size, int64_t step)
{
    return dim_add(m, dim_mul(m, dim_sub(m, size, 1), dim_const(m, step)), 1);
}

/* With `same` there are as many results as there are elements for each stride. */
static dim same_size(struct module *m, const struct usual *u, uint32_t i, dim size)
{
    dim stride = dim_const(m, u->stride[i]), whole = spread_over(m, size, u->other[i]);
    return dim_floordiv(m, dim_add(m, whole, dim_sub(m, stride, 1)), stride);
}

/* What is padded along a spatial dim of so many elements and taps, on either side. */
struct padding {
    dim low, high;
};
static struct padding padding_of(struct module *m, const struct attr *a, const struct usual *u, uint32_t i,
                                 dim size, dim taps)
{
    struct padding p = { entry(&a[USUAL_LOW], i, 0), entry(&a[USUAL_HIGH], i, 0) };
    if (!u->same) return p;
    /* What is odd comes behind. */
    dim whole = spread_over(m, size, u->other[i]);
    dim steps = dim_sub(m, same_size(m, u, i, size), 1);
    dim reached = dim_add(m, dim_mul(m, steps, dim_const(m, u->stride[i])),
                          spread_over(m, taps, u->dilation[i]));
    dim missing = dim_sub(m, reached, whole);
    /* windows of nothing may begin behind the last element */
    if (taps != 0) missing = dim_max(m, missing, 0);
    p.low = dim_floordiv(m, missing, dim_const(m, 2));
    p.high = dim_sub(m, missing, p.low);
    return p;
}

/* ---- infer ---- */

/* Before anybody reads them. */
static void infer_window_lists(struct infer *in, uint32_t n_spatial, bool transposed)
{
    const char *other = transposed ? "output_padding" : "x_dilation";
    const struct {
        uint8_t attr;
        int8_t least;
        const char *name;
    } lists[] = { { USUAL_STRIDES, 1, "strides" },
                  { USUAL_DILATION, 1, "dilation" },
                  { USUAL_OTHER, transposed ? 0 : 1, other },
                  { USUAL_LOW, -1, "low" },
                  { USUAL_HIGH, -1, "high" } };
    for (uint32_t k = 0; k < HOP_COUNT(lists); k++) {
        const struct attr *a = &in->attrs[lists[k].attr];
        if (a->kind == ATTR_ABSENT) continue;
        if (a->n != n_spatial)
            infer_error(in, "attribute '%s': expected an entry for each of %u spatial dims, found %u",
                        lists[k].name, n_spatial, a->n);
        for (uint32_t i = 0; lists[k].least >= 0 && i < a->n; i++)
            if ((int32_t)a->list[i] < lists[k].least)
                infer_error(in, "attribute '%s': expected at least %d, found %d", lists[k].name,
                            lists[k].least, (int32_t)a->list[i]);
    }
    bool padded = in->attrs[USUAL_LOW].kind != ATTR_ABSENT || in->attrs[USUAL_HIGH].kind != ATTR_ABSENT;
    bool same = !transposed && in->attrs[USUAL_SAME].kind != ATTR_ABSENT;
    if (same && padded)
        infer_error(in, "attribute 'same' says what is padded: expected neither 'low' nor 'high'");
}

/* Both operands have a dim for each part, and lists name each once. */
static void infer_ranks(struct infer *in)
{
    struct type x = infer_type(in, 0), w = infer_type(in, 1);
    static const uint8_t lists[] = { USUAL_X_DIMS, USUAL_W_DIMS };
    if (x.rank <= USUAL_SPATIAL)
        infer_error(in, "operand 0 (x): expected a batch, channels and at least one spatial dim, found %s",
                    infer_text(in, in->operands[0]));
    if (w.rank != x.rank)
        infer_error(in, "operand 1 (w): expected %u dims, as x %s has, found %s", x.rank,
                    infer_text(in, in->operands[0]), infer_text(in, in->operands[1]));
    for (uint32_t k = 0; k < HOP_COUNT(lists); k++) {
        const struct attr *a = &in->attrs[lists[k]];
        if (a->kind == ATTR_ABSENT) continue;
        infer_list_length(in, a, x.rank, k ? "w_dims" : "x_dims");
        infer_dim_list(in, a, x.rank, k ? "w_dims" : "x_dims");
    }
    const struct attr *groups = &in->attrs[USUAL_GROUPS];
    if (groups->kind != ATTR_ABSENT && (groups->i < 1 || groups->i > INT32_MAX))
        infer_error(in, "attribute 'groups': expected at least 1, found %lld", (long long)groups->i);
}

/* Channels of the result. */
static dim infer_channels(struct infer *in, const struct usual *u)
{
    struct module *m = in->m;
    struct type x = infer_type(in, 0), w = infer_type(in, 1);
    dim groups = dim_const(m, u->groups), channels = x.dims[u->x[USUAL_CHANNEL]];
    dim first = w.dims[u->w[USUAL_OUT]], second = w.dims[u->w[USUAL_IN]];
    dim expected = u->transposed ? first : dim_mul(m, second, groups);
    infer_equal(in, channels, expected,
                arena_printf(&m->scratch, "channels of x %s and of w %s in %lld %s",
                             infer_text(in, in->operands[0]), infer_text(in, in->operands[1]),
                             (long long)u->groups, u->groups == 1 ? "group" : "groups"));
    infer_equal(in, 0, dim_mod(m, first, groups),
                arena_printf(&m->scratch, "dim %u of w %s, which %lld groups must divide: what is left",
                             u->w[USUAL_OUT], infer_text(in, in->operands[1]), (long long)u->groups));
    return u->transposed ? dim_mul(m, second, groups) : first;
}

static dim infer_space(struct infer *in, const struct usual *u, uint32_t i)
{
    struct module *m = in->m;
    dim size = infer_type(in, 0).dims[u->x[USUAL_SPATIAL + i]];
    dim taps = infer_type(in, 1).dims[u->w[USUAL_SPATIAL + i]];
    struct padding pad = padding_of(m, in->attrs, u, i, size, taps);
    dim window = spread_over(m, taps, u->dilation[i]), both = dim_add(m, pad.low, pad.high), result;
    if (u->transposed) {
        dim spread = dim_add(m, spread_over(m, size, u->stride[i]), dim_sub(m, window, 1));
        result = dim_add(m, dim_sub(m, spread, both), u->other[i]);
    } else {
        dim room = dim_sub(m, dim_add(m, spread_over(m, size, u->other[i]), both), window);
        int64_t lo, hi;
        dim_range(m, in->symbols, room, &lo, &hi);
        result = u->same ? same_size(m, u, i, size)
                         : dim_add(m, dim_floordiv(m, room, dim_const(m, u->stride[i])), 1);
        if (hi < 0 && !u->same && !(size == 0 && result == 0)) /* of nothing there may be nothing */
            infer_error(in,
                        "spatial dim %u: the window of w %s does not fit into x %s with its padding: %lld "
                        "more %s needed",
                        i, infer_text(in, in->operands[1]), infer_text(in, in->operands[0]), (long long)-hi,
                        hi == -1 ? "element is" : "elements are");
    }
    infer_not_negative(in, result, arena_printf(&m->scratch, "results along spatial dim %u", i));
    return result;
}

static void infer_usual(struct infer *in)
{
    infer_ranks(in);
    struct type x = infer_type(in, 0);
    bool transposed = in->op == OP_conv_transpose;
    infer_window_lists(in, x.rank - USUAL_SPATIAL, transposed);
    struct usual u = usual_of(in->attrs, x.rank, transposed);
    enum dtype result = infer_product_dtype(in, &in->attrs[USUAL_DTYPE], "x", "w");
    dim dims[MAX_RANK];
    dims[u.x[USUAL_BATCH]] = x.dims[u.x[USUAL_BATCH]];
    dims[u.x[USUAL_CHANNEL]] = infer_channels(in, &u);
    for (uint32_t i = 0; i < u.n_spatial; i++) dims[u.x[USUAL_SPATIAL + i]] = infer_space(in, &u, i);
    infer_result(in, type_intern(in->m, result, x.rank, dims));
}

/* ---- expansion ---- */

/* Dim `at` becomes two: groups, and what each of them has. */
static val split_groups(struct builder *b, val v, uint32_t at, int64_t groups)
{
    struct type t = emit_type(b, v);
    dim dims[MAX_RANK + 1], count = dim_const(b->m, groups);
    for (uint32_t i = 0, k = 0; i < t.rank; i++) {
        if (i == at) dims[k++] = count;
        dims[k++] = i == at ? dim_floordiv(b->m, t.dims[i], count) : t.dims[i];
    }
    return emit_reshape(b, v, t.rank + 1u, dims);
}

/* Where a dim is once dim `split` has become two, of which it is the second. */
static uint32_t behind(uint32_t at, uint32_t split) { return at + (at >= split); }

static void expand_usual(struct expand *e)
{
    struct builder *b = e->b;
    struct module *m = b->m;
    struct type x_type = emit_type(b, e->operands[0]), w_type = emit_type(b, e->operands[1]);
    uint32_t rank = x_type.rank, n = rank - USUAL_SPATIAL;
    struct usual u = usual_of(e->attrs, rank, e->op == OP_conv_transpose);
    uint32_t channel = u.x[USUAL_CHANNEL], split = u.w[USUAL_OUT];
    /* Parts of the general form: what goes out and the channels of a group, in w. */
    uint32_t out = behind(u.w[u.transposed ? USUAL_IN : USUAL_OUT], split);
    uint32_t in = behind(u.w[u.transposed ? USUAL_OUT : USUAL_IN], split);
    uint32_t x_dims[MAX_RANK] = { behind(u.x[USUAL_BATCH], channel), channel, channel + 1 };
    uint32_t w_dims[MAX_RANK] = { split, out, in };
    dim low[MAX_RANK], high[MAX_RANK];
    for (uint32_t i = 0; i < n; i++) {
        dim size = x_type.dims[u.x[USUAL_SPATIAL + i]], taps = w_type.dims[u.w[USUAL_SPATIAL + i]];
        struct padding pad = padding_of(m, e->attrs, &u, i, size, taps);
        dim reach = dim_mul(m, dim_sub(m, taps, 1), dim_const(m, u.dilation[i]));
        x_dims[CONV_SPATIAL + i] = behind(u.x[USUAL_SPATIAL + i], channel);
        w_dims[CONV_SPATIAL + i] = behind(u.w[USUAL_SPATIAL + i], split);
        low[i] = u.transposed ? dim_sub(m, reach, pad.low) : pad.low;
        high[i] = u.transposed ? dim_add(m, dim_sub(m, reach, pad.high), u.other[i]) : pad.high;
    }
    val x = split_groups(b, e->operands[0], channel, u.groups);
    val w = split_groups(b, e->operands[1], split, u.groups);
    struct attr stride = u.has_stride ? A_INTS(u.stride, n) : A_NONE;
    struct attr other = u.has_other ? A_INTS(u.other, n) : A_NONE;
    struct attr a[CONV_ATTRS] = { [CONV_X_DIMS] = A_INTS(x_dims, rank + 1),
                                  [CONV_W_DIMS] = A_INTS(w_dims, rank + 1),
                                  [CONV_Y_DIMS] = A_INTS(x_dims, rank + 1),
                                  [CONV_STRIDES] = u.transposed ? A_NONE : stride,
                                  [CONV_LOW] = A_DIMS(low, n),
                                  [CONV_HIGH] = A_DIMS(high, n),
                                  [CONV_X_DILATION] = u.transposed ? stride : other,
                                  [CONV_W_DILATION] = u.has_dilation ? A_INTS(u.dilation, n) : A_NONE,
                                  [CONV_DTYPE] = e->attrs[USUAL_DTYPE],
                                  [CONV_TURNED] = A_FLAG(u.transposed) };
    e->out[0] = emit_as(b, emit(b, OP_conv_general, (val[]){ x, w }, 2, a), e->types[0]);
}

/* ---- rows ---- */

#define USUAL_ATTR_SPECS(other_name) \
    [USUAL_STRIDES] = { "strides", ATTR_INTS, false, NULL }, \
    [USUAL_LOW] = { "low", ATTR_DIMS, false, NULL }, [USUAL_HIGH] = { "high", ATTR_DIMS, false, NULL }, \
    [USUAL_DILATION] = { "dilation", ATTR_INTS, false, NULL }, \
    [USUAL_OTHER] = { other_name, ATTR_INTS, false, NULL }, \
    [USUAL_GROUPS] = { "groups", ATTR_INT, false, NULL }, \
    [USUAL_X_DIMS] = { "x_dims", ATTR_INTS, false, NULL }, \
    [USUAL_W_DIMS] = { "w_dims", ATTR_INTS, false, NULL }, \
    [USUAL_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL }
static const struct attr_spec usual_attrs[] = {
    USUAL_ATTR_SPECS("x_dilation"), [USUAL_SAME] = { "same", ATTR_FLAG, false, NULL }
};
static const struct attr_spec transposed_attrs[] = { USUAL_ATTR_SPECS("output_padding") };
_Static_assert(USUAL_SAME == HOP_COUNT(transposed_attrs), "conv alone has 'same', behind the others");

static const struct op_sample conv_samples[] = {
    { "hop 1\nfn @sample(%x: f32[2, 3, 5, 6], %w: f32[4, 3, 3, 2]) -> (f32[2, 4, 5, 6]) {\n"
      "  %y = conv {same} (%x, %w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[2, 4, 9], %w: f64[6, 2, 3]) -> (f64[2, 6, 3]) {\n"
      "  %y = conv {strides = [2], low = [1], high = [0], dilation = [2], groups = 2} (%x, %w)\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nfn @sample[H in 3..50, W in 3..50](%x: f32[1, H, W, 2], %w: f32[3, 3, 2, 3]) -> (f32[1, H - 2, "
      "W - 2, 3]) {\n  %y = conv {x_dims = [0, 3, 1, 2], w_dims = [3, 2, 0, 1]} (%x, %w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T in 1..50](%x: f32[1, 2, T], %w: f32[2, 1, 4]) -> (f32[1, 2, (T + 1)//2]) {\n"
      "  %y = conv {same, strides = [2], groups = 2} (%x, %w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f16[0, 2, 5], %w: f16[3, 2, 2]) -> (f32[0, 3, 8]) {\n"
      "  %y = conv {x_dilation = [2], dtype = f32} (%x, %w)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_conv = {
    .name = "conv",
    .meaning =
        "convolution of x [batch, channels, space…] with windows w [channels out, channels in / groups, "
        "space…]; x_dims, w_dims: which dims these are, the result has x's. low, high: elements of zero "
        "before and behind (negative: left out), same: so many that strides alone make the result smaller",
    .sig = { 2, 2, ROW_ATTRS(usual_attrs) },
    .infer = infer_usual,
    .expand = expand_usual,
    .autocast = AUTOCAST_LOW,
    ROW_SAMPLES(conv_samples),
};

static const struct op_sample transposed_samples[] = {
    { "hop 1\nfn @sample(%x: f32[2, 3, 4, 3], %w: f32[3, 2, 3, 3]) -> (f32[2, 2, 8, 5]) {\n"
      "  %y = conv_transpose {strides = [2, 2], low = [1, 1], high = [1, 1], output_padding = [1, 0]} (%x, "
      "%w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T in 1..50](%x: f64[1, T, 4], %w: f64[3, 4, 1]) -> (f64[1, 3*T + 2, 2]) {\n"
      "  %y = conv_transpose {strides = [3], dilation = [2], groups = 2, x_dims = [0, 2, 1], w_dims = [1, 2, "
      "0]} (%x, %w)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_conv_transpose = {
    .name = "conv_transpose",
    .meaning = "the derivative of a convolution by its x, applied to x [batch, channels, space…]: windows w "
               "[channels in, channels out / groups, space…], each element times its window, added up; "
               "strides, low, high, dilation, groups: of that convolution",
    .sig = { 2, 2, ROW_ATTRS(transposed_attrs) },
    .infer = infer_usual,
    .expand = expand_usual,
    .autocast = AUTOCAST_LOW,
    ROW_SAMPLES(transposed_samples),
};
