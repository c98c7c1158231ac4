/* The row of convolutions: sums over channels and the taps of a window, for any number of spatial dims, group
 * by group. Which dim of an operand plays which part is said by lists, so that the derivatives of a
 * convolution are convolutions of the same arrays as they lie. Every result element is one accumulator that
 * starts at 0 and adds x·w over the channels ascending, and within each over the taps in row-major order;
 * taps that meet no element of x, because they stand in the padding or between dilated elements, add nothing.
 * With the attribute `dtype` all is as for dot. */
#include "ops/convkit.h"

#include "ops/rowkit.h"
#include "ops/scalar_c.h"

/* ---- attributes ---- */

static int64_t step_of(const struct attr *a, uint32_t i)
{
    return a->kind == ATTR_ABSENT ? 1 : (int32_t)a->list[i];
}

struct conv_dims conv_dims(const struct attr *a)
{
    struct conv_dims d = { .n_spatial = a[CONV_X_DIMS].n - CONV_SPATIAL,
                           .x = a[CONV_X_DIMS].list,
                           .w = a[CONV_W_DIMS].list,
                           .y = a[CONV_Y_DIMS].list,
                           .turned = a[CONV_TURNED].kind != ATTR_ABSENT };
    for (uint32_t i = 0; i < d.n_spatial; i++) {
        d.stride[i] = step_of(&a[CONV_STRIDES], i);
        d.w_dilation[i] = step_of(&a[CONV_W_DILATION], i);
        d.x_dilation[i] = step_of(&a[CONV_X_DILATION], i);
        d.low[i] = a[CONV_LOW].kind == ATTR_ABSENT ? 0 : a[CONV_LOW].list[i];
        d.high[i] = a[CONV_HIGH].kind == ATTR_ABSENT ? 0 : a[CONV_HIGH].list[i];
    }
    return d;
}

/* ---- infer ---- */

/* Lists of one entry per dim, which name each of them once. */
static void infer_parts(struct infer *in, const struct attr *list, uint32_t rank, const char *name)
{
    if (list->n != rank)
        infer_error(in, "attribute '%s': expected an entry for each of %u dims, found %u", name, rank,
                    list->n);
    infer_dim_list(in, list, rank, name);
}

static void infer_windows(struct infer *in, uint32_t n_spatial)
{
    static const struct {
        uint8_t attr;
        bool at_least_one;
        const char *name;
    } lists[] = { { CONV_STRIDES, true, "strides" },
                  { CONV_LOW, false, "low" },
                  { CONV_HIGH, false, "high" },
                  { CONV_X_DILATION, true, "x_dilation" },
                  { CONV_W_DILATION, true, "w_dilation" } };
    for (uint32_t k = 0; k < HOP_COUNT(lists); k++) {
        const struct attr *a = &in->attrs[lists[k].attr];
        if (a->kind == ATTR_ABSENT) continue;
        if (a->n != n_spatial)
            infer_error(in, "attribute '%s': expected an entry for each of %u spatial dims, found %u",
                        lists[k].name, n_spatial, a->n);
        for (uint32_t i = 0; lists[k].at_least_one && i < a->n; i++)
            if ((int32_t)a->list[i] < 1)
                infer_error(in, "attribute '%s': expected at least 1, found %d", lists[k].name,
                            (int32_t)a->list[i]);
    }
}

/* (size - 1) · dilation + 1. Of an empty dim it is less than 1: what is padded counts from there. */
static dim spread_size(struct module *m, dim size, int64_t dilation)
{
    dim steps = dim_mul(m, dim_sub(m, size, 1), dim_const(m, dilation));
    return dim_add(m, steps, 1);
}

static dim infer_size(struct infer *in, const struct conv_dims *d, uint32_t i)
{
    struct module *m = in->m;
    dim size = infer_type(in, 0).dims[d->x[CONV_SPATIAL + i]];
    dim taps = infer_type(in, 1).dims[d->w[CONV_SPATIAL + i]];
    dim padded = dim_add(m, spread_size(m, size, d->x_dilation[i]), dim_add(m, d->low[i], d->high[i]));
    dim room = dim_sub(m, padded, spread_size(m, taps, d->w_dilation[i]));
    dim out = dim_add(m, dim_floordiv(m, room, dim_const(m, d->stride[i])), 1);
    infer_not_negative(
        in, out,
        arena_printf(&m->scratch, "results along spatial dim %u: x %s with its padding has no room for w %s",
                     i, infer_text(in, in->operands[0]), infer_text(in, in->operands[1])));
    return out;
}

static void infer_conv(struct infer *in)
{
    struct module *m = in->m;
    struct type x = infer_type(in, 0), w = infer_type(in, 1);
    const struct attr *a = in->attrs;
    enum dtype result = infer_product_dtype(in, &a[CONV_DTYPE], "x", "w");
    if (x.rank < CONV_SPATIAL)
        infer_error(in, "operand 0 (x): expected at least 3 dims (batch, group, channel), found %s",
                    infer_text(in, in->operands[0]));
    if (w.rank != x.rank)
        infer_error(in, "operand 1 (w): expected %u dims, as x %s has, found %s", x.rank,
                    infer_text(in, in->operands[0]), infer_text(in, in->operands[1]));
    infer_parts(in, &a[CONV_X_DIMS], x.rank, "x_dims");
    infer_parts(in, &a[CONV_W_DIMS], x.rank, "w_dims");
    infer_parts(in, &a[CONV_Y_DIMS], x.rank, "y_dims");
    infer_windows(in, x.rank - CONV_SPATIAL);
    struct conv_dims d = conv_dims(a);
    infer_equal(in, x.dims[d.x[CONV_GROUP]], w.dims[d.w[CONV_W_GROUP]],
                arena_printf(&m->scratch, "groups of x %s and w %s", infer_text(in, in->operands[0]),
                             infer_text(in, in->operands[1])));
    infer_equal(in, x.dims[d.x[CONV_CHANNEL]], w.dims[d.w[CONV_CHANNEL]],
                arena_printf(&m->scratch, "channels of x %s and w %s", infer_text(in, in->operands[0]),
                             infer_text(in, in->operands[1])));
    dim dims[MAX_RANK];
    dims[d.y[CONV_BATCH]] = x.dims[d.x[CONV_BATCH]];
    dims[d.y[CONV_GROUP]] = x.dims[d.x[CONV_GROUP]];
    dims[d.y[CONV_OUT]] = w.dims[d.w[CONV_W_OUT]];
    for (uint32_t i = 0; i < d.n_spatial; i++) dims[d.y[CONV_SPATIAL + i]] = infer_size(in, &d, i);
    infer_result(in, type_intern(m, result, x.rank, dims));
}

/* ---- eval ---- */

/* The elements of the sums at one place of the result's spatial dims: the taps that meet an element. */
struct taps {
    int64_t n, *x, *w; /* where they lie, from the first channel on */
};
struct windows {
    struct conv_dims d;
    int64_t low[MAX_RANK], size[MAX_RANK], n_taps[MAX_RANK]; /* per spatial dim */
    int64_t x_steps[MAX_RANK], w_steps[MAX_RANK];            /* strides of x and w, per spatial dim */
    int64_t w_first;                                         /* where tap 0 lies */
};

static void find_taps(const struct windows *v, const int64_t *out, struct taps *to)
{
    int64_t tap[MAX_RANK] = { 0 };
    uint32_t rank = v->d.n_spatial;
    to->n = 0;
    for (uint32_t i = 0; i < rank; i++)
        if (!v->n_taps[i]) return;
    do {
        int64_t x = 0, w = v->w_first;
        bool meets = true;
        for (uint32_t i = 0; i < rank; i++) {
            int64_t at = out[i] * v->d.stride[i] + tap[i] * v->d.w_dilation[i] - v->low[i];
            int64_t e = v->d.x_dilation[i];
            meets &= at >= 0 && at % e == 0 && at / e < v->size[i];
            x += at / e * v->x_steps[i];
            w += tap[i] * v->w_steps[i];
        }
        if (!meets) continue;
        to->x[to->n] = x;
        to->w[to->n++] = w;
    } while (next_index(rank, v->n_taps, tap));
}

/* The dims of the result but the spatial ones, and the channels: sizes, and what a step is in each array. */
struct conv_steps {
    int64_t size[4], x[4], w[4], y[4]; /* batch, group, out, channel */
};

#define AS_IT_IS(x) (x)
#define SUMS(type) SUMS_IN(type, type, AS_IT_IS, AS_IT_IS)
#define SUMS_IN(type, sum_type, wide, rounded) \
    for (int64_t b = 0; b < s->size[0]; b++) \
        for (int64_t g = 0; g < s->size[1]; g++) \
            for (int64_t o = 0; o < s->size[2]; o++) { \
                const type *x = (const type *)x_data + b * s->x[0] + g * s->x[1]; \
                const type *w = (const type *)w_data + g * s->w[1] + o * s->w[2]; \
                sum_type sum = 0; \
                for (int64_t c = 0; c < s->size[3]; c++, x += s->x[3], w += s->w[3]) \
                    for (int64_t k = 0; k < t->n; k++) \
                        sum = (sum_type)(sum + (sum_type)(wide(x[t->x[k]]) * wide(w[t->w[k]]))); \
                ((type *)y_data)[b * s->y[0] + g * s->y[1] + o * s->y[2]] = (type)rounded(sum); \
            }

/* Integers wrap alike with and without sign; short ones are summed in words, which keeps their low bits. */
static void sums_at(enum dtype dtype, const struct conv_steps *s, const struct taps *t, const void *x_data,
                    const void *w_data, void *y_data)
{
    switch (dtype) {
    case DT_F16: SUMS_IN(uint16_t, float, f16_to_f32, f16_of_f32) break;
    case DT_BF16: SUMS_IN(uint16_t, float, bf16_to_f32, bf16_of_f32) break;
    case DT_F32: SUMS(float) break;
    case DT_F64: SUMS(double) break;
    case DT_I8:
    case DT_U8: SUMS_IN(uint8_t, uint32_t, (uint32_t), AS_IT_IS) break;
    case DT_I16:
    case DT_U16: SUMS_IN(uint16_t, uint32_t, (uint32_t), AS_IT_IS) break;
    case DT_I64:
    case DT_U64: SUMS(uint64_t) break;
    default: SUMS(uint32_t) break;
    }
}

static int64_t *new_offsets(struct arena *a, int64_t n)
{
    return arena_alloc(a, (size_t)HOP_MAX(n, 1) * sizeof(int64_t));
}

/* Of tensors of one dtype. */
static void convolve(const struct eval *e, struct arena *arena, const struct tensor *x,
                     const struct tensor *w, const struct tensor *y)
{
    struct windows v = { .d = conv_dims(node_attr(e->f, e->n, 0)) };
    const struct conv_dims *d = &v.d;
    int64_t xs[MAX_RANK], ws[MAX_RANK], ys[MAX_RANK], out[MAX_RANK] = { 0 }, sizes[MAX_RANK], taps = 1;
    row_major(x->rank, x->dims, xs);
    row_major(w->rank, w->dims, ws);
    row_major(y->rank, y->dims, ys);
    for (uint32_t i = 0; i < d->n_spatial; i++) {
        uint32_t at = CONV_SPATIAL + i;
        v.low[i] = dim_eval(e->m, d->low[i], e->symbols);
        v.size[i] = x->dims[d->x[at]];
        v.n_taps[i] = w->dims[d->w[at]];
        v.x_steps[i] = xs[d->x[at]];
        v.w_steps[i] = d->turned ? -ws[d->w[at]] : ws[d->w[at]];
        if (d->turned) v.w_first += (v.n_taps[i] - 1) * ws[d->w[at]];
        sizes[i] = y->dims[d->y[at]];
        taps *= v.n_taps[i];
    }
    struct conv_steps s = { .size = { y->dims[d->y[CONV_BATCH]], y->dims[d->y[CONV_GROUP]],
                                      y->dims[d->y[CONV_OUT]], x->dims[d->x[CONV_CHANNEL]] },
                            .x = { xs[d->x[CONV_BATCH]], xs[d->x[CONV_GROUP]], 0, xs[d->x[CONV_CHANNEL]] },
                            .w = { 0, ws[d->w[CONV_W_GROUP]], ws[d->w[CONV_W_OUT]], ws[d->w[CONV_CHANNEL]] },
                            .y = { ys[d->y[CONV_BATCH]], ys[d->y[CONV_GROUP]], ys[d->y[CONV_OUT]] } };
    struct taps found = { .x = new_offsets(arena, taps), .w = new_offsets(arena, taps) };
    if (!y->count) return;
    do {
        int64_t at = 0;
        for (uint32_t i = 0; i < d->n_spatial; i++) at += out[i] * ys[d->y[CONV_SPATIAL + i]];
        find_taps(&v, out, &found);
        sums_at((enum dtype)y->dtype, &s, &found, x->data, w->data,
                (char *)y->data + at * (int64_t)tensor_width(y));
    } while (next_index(d->n_spatial, sizes, out));
}

static void eval_conv(struct eval *e)
{
    struct tensor x = *e->operands[0], w = *e->operands[1], y = *e->results[0];
    enum dtype result = (enum dtype)y.dtype, wide = result;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    if (x.dtype != result || w.dtype != result) {
        wide = node_accumulator(e->m, e->f, e->n);
        scalar_c_convert(&arena, &x, wide);
        scalar_c_convert(&arena, &w, wide);
        y.dtype = (uint8_t)wide;
        y.data = arena_alloc(&arena, (size_t)y.count * dtype_info[wide].size);
    }
    convolve(e, &arena, &x, &w, &y);
    if (y.data != e->results[0]->data)
        scalar_c_cast(wide, result)(y.count, e->results[0]->data, (const void *[]){ y.data });
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* ---- gradients ---- */

/* A conv_general about to be emitted. */
struct conv_in {
    uint32_t x[MAX_RANK], w[MAX_RANK], y[MAX_RANK];
    uint32_t stride[MAX_RANK], x_dilation[MAX_RANK], w_dilation[MAX_RANK];
    dim low[MAX_RANK], high[MAX_RANK];
    bool turned;
};

static val emit_conv(struct builder *b, const struct conv_in *in, uint32_t rank, val x, val w, enum dtype t)
{
    uint32_t n = rank - CONV_SPATIAL;
    bool plain[3] = { true, true, true }, unpadded = true;
    for (uint32_t i = 0; i < n; i++) {
        plain[0] &= in->stride[i] == 1;
        plain[1] &= in->x_dilation[i] == 1;
        plain[2] &= in->w_dilation[i] == 1;
        unpadded &= in->low[i] == 0 && in->high[i] == 0;
    }
    val operands[2] = { x, w };
    struct attr a[CONV_ATTRS] = { [CONV_X_DIMS] = A_INTS(in->x, rank),
                                  [CONV_W_DIMS] = A_INTS(in->w, rank),
                                  [CONV_Y_DIMS] = A_INTS(in->y, rank),
                                  [CONV_STRIDES] = plain[0] ? A_NONE : A_INTS(in->stride, n),
                                  [CONV_LOW] = unpadded ? A_NONE : A_DIMS(in->low, n),
                                  [CONV_HIGH] = unpadded ? A_NONE : A_DIMS(in->high, n),
                                  [CONV_X_DILATION] = plain[1] ? A_NONE : A_INTS(in->x_dilation, n),
                                  [CONV_W_DILATION] = plain[2] ? A_NONE : A_INTS(in->w_dilation, n),
                                  [CONV_DTYPE] = emit_result_dtype(b, operands, 2, t),
                                  [CONV_TURNED] = A_FLAG(in->turned) };
    return emit(b, OP_conv_general, operands, 2, a);
}

/* The cotangent spread out by the strides, over the window turned around. */
static val cotangent_of_x(struct vjp *v, const struct conv_dims *d, const struct type *y)
{
    struct builder *b = v->b;
    struct module *m = b->m;
    struct type x = emit_type(b, v->operands[0]), w = emit_type(b, v->operands[1]);
    struct conv_in in = { .x = { d->y[CONV_BATCH], d->y[CONV_GROUP], d->y[CONV_OUT] },
                          .w = { d->w[CONV_W_GROUP], d->w[CONV_CHANNEL], d->w[CONV_W_OUT] },
                          .y = { d->x[CONV_BATCH], d->x[CONV_GROUP], d->x[CONV_CHANNEL] },
                          .turned = d->n_spatial && !d->turned };
    for (uint32_t i = 0; i < d->n_spatial; i++) {
        uint32_t at = CONV_SPATIAL + i;
        in.x[at] = d->y[at];
        in.w[at] = d->w[at];
        in.y[at] = d->x[at];
        in.stride[i] = (uint32_t)d->x_dilation[i];
        in.x_dilation[i] = (uint32_t)d->stride[i];
        in.w_dilation[i] = (uint32_t)d->w_dilation[i];
        dim reach = dim_sub(m, spread_size(m, w.dims[d->w[at]], d->w_dilation[i]), 1);
        dim of_x = spread_size(m, x.dims[d->x[at]], d->x_dilation[i]);
        dim of_y = spread_size(m, y->dims[d->y[at]], d->stride[i]);
        in.low[i] = dim_sub(m, reach, d->low[i]);
        in.high[i] = dim_add(m, dim_sub(m, of_x, of_y), d->low[i]);
    }
    val ct = emit_conv(b, &in, x.rank, v->ct[0], v->operands[1], (enum dtype)x.dtype);
    return emit_as(b, ct, builder_type(b, v->operands[0]));
}

/* x with the cotangent as its window: batch and channels change places. */
static val cotangent_of_w(struct vjp *v, const struct conv_dims *d, const struct type *y)
{
    struct builder *b = v->b;
    struct module *m = b->m;
    struct type x = emit_type(b, v->operands[0]), w = emit_type(b, v->operands[1]);
    struct conv_in in = { .x = { d->x[CONV_CHANNEL], d->x[CONV_GROUP], d->x[CONV_BATCH] },
                          .w = { d->y[CONV_GROUP], d->y[CONV_OUT], d->y[CONV_BATCH] },
                          .y = { d->w[CONV_CHANNEL], d->w[CONV_W_GROUP], d->w[CONV_W_OUT] } };
    for (uint32_t i = 0; i < d->n_spatial; i++) {
        uint32_t at = CONV_SPATIAL + i;
        in.x[at] = d->x[at];
        in.w[at] = d->y[at];
        in.y[at] = d->w[at];
        in.stride[i] = (uint32_t)d->w_dilation[i];
        in.x_dilation[i] = (uint32_t)d->x_dilation[i];
        in.w_dilation[i] = (uint32_t)d->stride[i];
        dim of_x = spread_size(m, x.dims[d->x[at]], d->x_dilation[i]);
        dim of_y = spread_size(m, y->dims[d->y[at]], d->stride[i]);
        dim of_w = spread_size(m, w.dims[d->w[at]], d->w_dilation[i]);
        dim together = dim_sub(m, dim_add(m, of_w, of_y), 1);
        in.low[i] = d->low[i];
        in.high[i] = dim_sub(m, dim_sub(m, together, of_x), d->low[i]);
    }
    val ct = emit_conv(b, &in, x.rank, v->operands[0], v->ct[0], (enum dtype)w.dtype);
    struct attr spatial = A_INTS(in.y + CONV_SPATIAL, d->n_spatial);
    if (d->turned && d->n_spatial) ct = emit(b, OP_reverse, &ct, 1, &spatial);
    return emit_as(b, ct, builder_type(b, v->operands[1]));
}

static void vjp_conv(struct vjp *v)
{
    struct conv_dims d = conv_dims(v->attrs);
    struct type y = emit_type(v->b, v->ct[0]);
    if (v->active[0]) v->out[0] = cotangent_of_x(v, &d, &y);
    if (v->active[1]) v->out[1] = cotangent_of_w(v, &d, &y);
}

static void jvp_conv(struct jvp *j)
{
    val x = j->tangents[0], w = j->tangents[1];
    if (x != VAL_NONE) x = emit(j->b, OP_conv_general, (val[]){ x, j->operands[1] }, 2, j->attrs);
    if (w != VAL_NONE) w = emit(j->b, OP_conv_general, (val[]){ j->operands[0], w }, 2, j->attrs);
    if (x == VAL_NONE) j->out[0] = w;
    else if (w == VAL_NONE) j->out[0] = x;
    else j->out[0] = emit2(j->b, OP_add, x, w);
}

/* ---- batch ---- */

/* Lanes, which are dim 0, become part of the dim that is number `place` without them. */
static val lanes_into(struct builder *b, val v, uint32_t place)
{
    val moved = emit_move_dim(b, v, 0, place);
    struct type t = emit_type(b, moved);
    dim dims[MAX_RANK];
    for (uint32_t i = 0, k = 0; i < t.rank; i++) {
        dims[k] = i == place ? dim_mul(b->m, t.dims[i], t.dims[i + 1]) : t.dims[i];
        k++;
        i += i == place;
    }
    return emit_reshape(b, moved, t.rank - 1u, dims);
}

/* And back again. */
static val lanes_out_of(struct builder *b, val v, uint32_t place, dim lanes, dim rest)
{
    struct type t = emit_type(b, v);
    dim dims[MAX_RANK + 1];
    for (uint32_t i = 0, k = 0; i < t.rank; i++) {
        if (i == place) dims[k++] = lanes;
        dims[k++] = i == place ? rest : t.dims[i];
    }
    return emit_move_dim(b, emit_reshape(b, v, t.rank + 1u, dims), place, 0);
}

/* One batched operand takes the lanes into its batch, or into what it gives out; two have a group each. */
static void batch_conv(struct batch *v)
{
    if (batch_none(v)) return;
    struct builder *b = v->b;
    struct conv_dims d = conv_dims(v->attrs);
    bool both = v->batched[0] && v->batched[1];
    uint32_t x_part = both ? CONV_GROUP : CONV_BATCH, w_part = both ? CONV_W_GROUP : CONV_W_OUT;
    uint32_t y_part = both ? CONV_GROUP : v->batched[0] ? CONV_BATCH : CONV_OUT;
    uint32_t moved = v->batched[0] ? d.x[x_part] : d.w[w_part];
    dim rest = emit_type(b, v->operands[!v->batched[0]]).dims[moved + 1];
    val x = v->batched[0] ? lanes_into(b, v->operands[0], d.x[x_part]) : v->operands[0];
    val w = v->batched[1] ? lanes_into(b, v->operands[1], d.w[w_part]) : v->operands[1];
    val y = emit(b, OP_conv_general, (val[]){ x, w }, 2, v->attrs);
    v->results[0] = lanes_out_of(b, y, d.y[y_part], v->size, rest);
}

/* ---- the row ---- */

static const struct attr_spec conv_attrs[] = {
    [CONV_X_DIMS] = { "x_dims", ATTR_INTS, true, NULL },
    [CONV_W_DIMS] = { "w_dims", ATTR_INTS, true, NULL },
    [CONV_Y_DIMS] = { "y_dims", ATTR_INTS, true, NULL },
    [CONV_STRIDES] = { "strides", ATTR_INTS, false, NULL },
    [CONV_LOW] = { "low", ATTR_DIMS, false, NULL },
    [CONV_HIGH] = { "high", ATTR_DIMS, false, NULL },
    [CONV_X_DILATION] = { "x_dilation", ATTR_INTS, false, NULL },
    [CONV_W_DILATION] = { "w_dilation", ATTR_INTS, false, NULL },
    [CONV_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL },
    [CONV_TURNED] = { "turned", ATTR_FLAG, false, NULL },
};
static const struct op_sample conv_samples[] = {
    { "hop 1\nfn @sample(%x: f32[2, 1, 3, 5, 6], %w: f32[1, 4, 3, 2, 3]) -> (f32[2, 1, 4, 4, 4]) {\n"
      "  %y = conv_general {x_dims = [0, 1, 2, 3, 4], w_dims = [0, 1, 2, 3, 4], y_dims = [0, 1, 2, 3, 4]} "
      "(%x, %w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[2, 7, 9, 2, 2], %w: f64[3, 3, 2, 2, 3]) -> (f64[2, 2, 6, 2, 3]) {\n"
      "  %y = conv_general {x_dims = [0, 3, 4, 1, 2], w_dims = [2, 4, 3, 0, 1], y_dims = [0, 3, 4, 1, 2], "
      "strides = [2, 2], low = [-1, 2], high = [3, 4], x_dilation = [1, 1], w_dilation = [3, 2]} (%x, %w)\n "
      " return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[N, T in 2..100](%x: f64[N, 2, 1, T], %w: f64[2, 1, 1, 3]) -> (f64[N, 2, 1, T]) {\n"
      "  %y = conv_general {x_dims = [0, 1, 2, 3], w_dims = [0, 1, 2, 3], y_dims = [0, 1, 2, 3], low = [1], "
      "high = [1]} (%x, %w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T in 1..100](%x: f32[1, 2, 1, T], %w: f32[1, 2, 1, 4]) -> (f32[1, 1, 1, 3*T + 2]) "
      "{\n  %y = conv_general {x_dims = [0, 2, 1, 3], w_dims = [0, 2, 1, 3], y_dims = [0, 1, 2, 3], low = "
      "[2], high = [5], x_dilation = [3]} (%x, %w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T in 1..50](%x: f64[2, 1, 2, 4, T], %w: f64[1, 2, 2, 3, 2]) -> (f64[2, 1, 2, 2, T + "
      "1]) {\n  %y = conv_general {x_dims = [0, 1, 2, 3, 4], w_dims = [0, 1, 2, 3, 4], y_dims = [0, 1, 2, 3, "
      "4], low = [0, 1], high = [0, 1], turned} (%x, %w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bf16[1, 1, 5, 6, 6], %w: bf16[1, 2, 5, 3, 3]) -> (bf16[1, 1, 2, 3, 3]) {\n"
      "  %y = conv_general {x_dims = [0, 1, 2, 3, 4], w_dims = [0, 1, 2, 3, 4], y_dims = [0, 1, 2, 3, 4], "
      "strides = [2, 2], low = [1, 1], high = [1, 1]} (%x, %w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i8[2, 1, 3, 5], %w: u8[1, 2, 3, 2]) -> (i32[2, 1, 2, 6]) {\n"
      "  %y = conv_general {x_dims = [0, 1, 2, 3], w_dims = [0, 1, 2, 3], y_dims = [0, 1, 2, 3], low = [1], "
      "high = [1], dtype = i32} (%x, %w)\n  return %y\n}\n",
      "x = -128..127, w = 0..255" },
    { "hop 1\nfn @sample(%x: f64[2, 1, 2, 3, 4, 3], %w: f64[1, 2, 2, 2, 1, 2]) -> (f64[2, 1, 2, 2, 4, 3]) "
      "{\n  %y = conv_general {x_dims = [0, 1, 2, 3, 4, 5], w_dims = [0, 1, 2, 3, 4, 5], y_dims = [0, 1, 2, "
      "3, 4, 5], low = [0, 0, 1], high = [0, 0, 0]} (%x, %w)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[2, 1, 0, 4], %w: f32[1, 3, 0, 2]) -> (f32[2, 1, 3, 3]) {\n"
      "  %y = conv_general {x_dims = [0, 1, 2, 3], w_dims = [0, 1, 2, 3], y_dims = [0, 1, 2, 3]} (%x, %w)\n "
      " return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[3, 2, 4], %w: f32[2, 5, 4]) -> (f32[3, 2, 5]) {\n"
      "  %y = conv_general {x_dims = [0, 1, 2], w_dims = [0, 1, 2], y_dims = [0, 1, 2]} (%x, %w)\n  return "
      "%y\n}\n",
      NULL },
};
const struct op_row row_conv_general = {
    .name = "conv_general",
    .meaning = "sums of products over channels and the taps of a window. x_dims: which dims of x are batch, "
               "group, channel, space…; w_dims: of w group, out, channel, space…; y_dims: of the result "
               "batch, group, out, space…. Result o meets element i of x and tap t where i·x_dilation = "
               "o·stride + t·w_dilation - low. turned: tap 0 is the last of w. dtype: as for dot",
    .sig = { 2, 2, ROW_ATTRS(conv_attrs) },
    .infer = infer_conv,
    .eval = eval_conv,
    .vjp = vjp_conv,
    .jvp = jvp_conv,
    .batch = batch_conv,
    .lower = &conv_lower,
    .autocast = AUTOCAST_LOW,
    ROW_SAMPLES(conv_samples),
};
