/* Convolutions as loops: one nest over the result, whose innermost loop runs over one of its dims, in vector
 * code, with the sum over channels and taps inside. Along a spatial dim windows that lie wholly in x have no
 * conditions; the few at the edges are done one by one. */
#include "ops/convkit.h"

#include "loop/rt.h"
#include "ops/rowkit.h"

#include <math.h>

enum {
    WRITTEN_OUT = 32,      /* products of a sum that stand one after the other, without loops */
    WRITTEN_OUT_TAPS = 8,  /* or taps along the last dim */
    LONG_ENOUGH = 8,       /* a dim of so many elements is worth vector code */
    PRODUCT_ROWS = 2,      /* fewer channels out … */
    ROWS_GROUPS = 8,       /* groups of one channel out that the runtime does row by row */
    PRODUCT_SIDE = 4,      /* … results or terms than this: vector code … */
    PRODUCT_LEAST = 32768, /* … and fewer multiplications */
    UNKNOWN_SIZE = 1000    /* what a dim that is not static counts as */
};

/* The parts of a node; strides, sizes and indices are by part, in elements. */
struct nest {
    struct lower *L;
    struct lp *p;
    struct conv_dims d;
    struct type x_type, w_type, y_type;
    struct array x, w, y;
    lpv x_step[MAX_RANK], w_step[MAX_RANK], y_step[MAX_RANK];
    enum dtype wide;
    uint32_t along;       /* the part of the result that the innermost loop runs over */
    bool whole[MAX_RANK]; /* per spatial dim: every tap meets an element here */
    lpv at[MAX_RANK];     /* of the result: where it is computed */
    uint32_t acc;         /* the local that adds up */
    bool written_out;     /* the sum has few terms, all of which are known */
};

static lpv add(const struct nest *s, lpv a, lpv b) { return lp_bin(s->p, LP_ADD, a, b); }
static lpv sub(const struct nest *s, lpv a, lpv b) { return lp_bin(s->p, LP_SUB, a, b); }
static lpv mul(const struct nest *s, lpv a, lpv b) { return lp_bin(s->p, LP_MUL, a, b); }
static lpv number(const struct nest *s, int64_t value) { return lp_index(s->p, value); }

static void steps_of(const struct nest *s, const struct type *t, const uint32_t *parts, lpv *steps)
{
    lpv of_dim[MAX_RANK] = { 0 }, step = number(s, 1);
    for (uint32_t i = t->rank; i-- > 0;) {
        of_dim[i] = step;
        step = mul(s, step, lower_dim(s->L, t->dims[i]));
    }
    for (uint32_t i = 0; i < t->rank; i++) steps[i] = of_dim[parts[i]];
}

static dim x_size(const struct nest *s, uint32_t part) { return s->x_type.dims[s->d.x[part]]; }
static dim w_size(const struct nest *s, uint32_t part) { return s->w_type.dims[s->d.w[part]]; }
static dim y_size(const struct nest *s, uint32_t part) { return s->y_type.dims[s->d.y[part]]; }

static bool known(const struct nest *s, dim d, int64_t *value)
{
    struct module *m = lower_module(s->L);
    if (!dim_is_const(m, d)) return false;
    *value = dim_const_value(m, d);
    return true;
}
static bool at_most_zero(const struct nest *s, dim d)
{
    int64_t value;
    return known(s, d, &value) && value <= 0;
}

/* ---- the sum ---- */

/* Where tap 0 of the window stands along a spatial dim, in steps of dilated elements of x. */
static lpv window(const struct nest *s, uint32_t i)
{
    lpv start = mul(s, s->at[CONV_SPATIAL + i], number(s, s->d.stride[i]));
    return sub(s, start, lower_dim(s->L, s->d.low[i]));
}
/* The last such step that x has. */
static lpv last_step(const struct nest *s, uint32_t i)
{
    lpv last = sub(s, lower_dim(s->L, x_size(s, CONV_SPATIAL + i)), number(s, 1));
    return mul(s, last, number(s, s->d.x_dilation[i]));
}

/* Taps lo to hi of the window stand in x. */
static void tap_bounds(const struct nest *s, uint32_t i, lpv *lo, lpv *hi)
{
    struct lp *p = s->p;
    int64_t dilation = s->d.w_dilation[i];
    *lo = number(s, 0);
    *hi = lower_dim(s->L, w_size(s, CONV_SPATIAL + i));
    if (!s->whole[i] && !at_most_zero(s, s->d.low[i])) {
        lpv first = lp_bin(p, LP_FLOORDIV, sub(s, number(s, dilation - 1), window(s, i)),
                           number(s, dilation));
        *lo = lp_bin(p, LP_MAX, *lo, first);
    }
    if (!s->whole[i] && !at_most_zero(s, s->d.high[i])) {
        lpv last = lp_bin(p, LP_FLOORDIV, sub(s, last_step(s, i), window(s, i)), number(s, dilation));
        *hi = lp_bin(p, LP_MIN, *hi, add(s, last, number(s, 1)));
    }
}

static void put_taps(const struct nest *s, uint32_t i, lpv x_at, lpv w_at);

static void put_tap(const struct nest *s, uint32_t i, lpv tap, lpv x_at, lpv w_at)
{
    struct lp *p = s->p;
    lpv step = add(s, window(s, i), mul(s, tap, number(s, s->d.w_dilation[i])));
    lpv dilation = number(s, s->d.x_dilation[i]);
    bool spread = s->d.x_dilation[i] > 1;
    if (spread) lp_if_begin(p, lp_bin(p, LP_EQ, lp_bin(p, LP_MOD, step, dilation), number(s, 0)));
    if (spread) step = lp_bin(p, LP_FLOORDIV, step, dilation);
    if (s->d.turned) tap = sub(s, sub(s, lower_dim(s->L, w_size(s, CONV_SPATIAL + i)), number(s, 1)), tap);
    put_taps(s, i + 1, add(s, x_at, mul(s, step, s->x_step[CONV_SPATIAL + i])),
             add(s, w_at, mul(s, tap, s->w_step[CONV_SPATIAL + i])));
    if (spread) lp_if_end(p);
}

static void put_taps(const struct nest *s, uint32_t i, lpv x_at, lpv w_at)
{
    struct lp *p = s->p;
    if (i == s->d.n_spatial) {
        lpv x = lp_cast(p, s->wide, lp_load(p, s->x.buffer, add(s, s->x.at, x_at)));
        lpv w = lp_cast(p, s->wide, lp_load(p, s->w.buffer, add(s, s->w.at, w_at)));
        lpv before = lp_read(p, s->acc);
        lp_set(p, s->acc, lp_bin(p, LP_ADD, before, lp_bin(p, LP_MUL, x, w)));
        return;
    }
    lpv lo, hi;
    int64_t first, end;
    tap_bounds(s, i, &lo, &hi);
    bool fixed = lp_is_const(p, lo, &first) && lp_is_const(p, hi, &end);
    bool last = i + 1 == s->d.n_spatial;
    if (fixed && (s->written_out || (last && end - first <= WRITTEN_OUT_TAPS))) {
        for (int64_t tap = first; tap < end; tap++) put_tap(s, i, number(s, tap), x_at, w_at);
        return;
    }
    put_tap(s, i, lp_for_begin(p, lo, hi, number(s, 1), FOR_SERIAL), x_at, w_at);
    lp_for_end(p);
}

/* Computes and stores the element of the result at s->at. */
static void put_element(const struct nest *s)
{
    struct lp *p = s->p;
    lpv x_at = add(s, mul(s, s->at[CONV_BATCH], s->x_step[CONV_BATCH]),
                   mul(s, s->at[CONV_GROUP], s->x_step[CONV_GROUP]));
    lpv w_at = add(s, mul(s, s->at[CONV_GROUP], s->w_step[CONV_W_GROUP]),
                   mul(s, s->at[CONV_OUT], s->w_step[CONV_W_OUT]));
    int64_t channels = -1;
    lp_set(p, s->acc, lp_const_bits(p, s->wide, 0));
    if (s->written_out && known(s, x_size(s, CONV_CHANNEL), &channels))
        for (int64_t c = 0; c < channels; c++)
            put_taps(s, 0, add(s, x_at, mul(s, number(s, c), s->x_step[CONV_CHANNEL])),
                     add(s, w_at, mul(s, number(s, c), s->w_step[CONV_CHANNEL])));
    else {
        lpv c = lp_for_begin(p, number(s, 0), lower_dim(s->L, x_size(s, CONV_CHANNEL)), number(s, 1),
                             FOR_SERIAL);
        put_taps(s, 0, add(s, x_at, mul(s, c, s->x_step[CONV_CHANNEL])),
                 add(s, w_at, mul(s, c, s->w_step[CONV_CHANNEL])));
        lp_for_end(p);
    }
    lpv y_at = s->y.at;
    for (uint32_t i = 0; i < s->y_type.rank; i++) y_at = add(s, y_at, mul(s, s->at[i], s->y_step[i]));
    lp_store(p, s->y.buffer, y_at, lp_cast(p, (enum dtype)s->y_type.dtype, lp_read(p, s->acc)));
}

/* ---- along one dim ---- */

static void put_stretch(struct nest *s, lpv lo, lpv hi, enum lp_for_kind kind)
{
    s->at[s->along] = lp_for_begin(s->p, lo, hi, number(s, 1), kind);
    put_element(s);
    lp_for_end(s->p);
}

/* The results whose windows lie wholly in x: lo to hi. */
static void interior(const struct nest *s, uint32_t i, lpv *lo, lpv *hi)
{
    struct lp *p = s->p;
    lpv size = lower_dim(s->L, y_size(s, CONV_SPATIAL + i)), stride = number(s, s->d.stride[i]);
    lpv low = lower_dim(s->L, s->d.low[i]), one = number(s, 1);
    lpv taps = lower_dim(s->L, w_size(s, CONV_SPATIAL + i));
    lpv reach = mul(s, sub(s, taps, one), number(s, s->d.w_dilation[i]));
    lpv most = sub(s, add(s, last_step(s, i), low), reach);
    *lo = number(s, 0);
    *hi = size;
    if (!at_most_zero(s, s->d.low[i])) {
        lpv first = lp_bin(p, LP_FLOORDIV, add(s, low, sub(s, stride, one)), stride);
        *lo = lp_bin(p, LP_MIN, lp_bin(p, LP_MAX, first, *lo), size);
    }
    if (!at_most_zero(s, s->d.high[i])) {
        lpv end = add(s, lp_bin(p, LP_FLOORDIV, most, stride), one);
        *hi = lp_bin(p, LP_MAX, lp_bin(p, LP_MIN, end, size), *lo);
    }
}

/* All results along the innermost dim. */
static void put_line(struct nest *s)
{
    lpv lo = number(s, 0), hi, size = lower_dim(s->L, y_size(s, s->along));
    uint32_t i = s->along - CONV_SPATIAL; /* of a spatial dim */
    if (s->along < CONV_SPATIAL) {
        put_stretch(s, lo, size, FOR_VECTOR);
        return;
    }
    if (s->d.x_dilation[i] > 1) {
        put_stretch(s, lo, size, FOR_SERIAL);
        return;
    }
    interior(s, i, &lo, &hi);
    if (!at_most_zero(s, s->d.low[i])) put_stretch(s, number(s, 0), lo, FOR_SERIAL);
    s->whole[i] = true;
    put_stretch(s, lo, hi, FOR_VECTOR);
    s->whole[i] = false;
    if (!at_most_zero(s, s->d.high[i])) put_stretch(s, hi, size, FOR_SERIAL);
}

/* Of a sum of few terms, lines all of whose windows lie in x across the other dims have code of their own. */
static void put_lines(struct nest *s)
{
    struct lp *p = s->p;
    lpv all = LPV_NONE;
    bool spread = false, none = false;
    int64_t first, end;
    for (uint32_t i = 0; i < s->d.n_spatial; i++) {
        spread |= s->d.x_dilation[i] > 1;
        if (CONV_SPATIAL + i == s->along) continue;
        if (at_most_zero(s, s->d.low[i]) && at_most_zero(s, s->d.high[i])) continue;
        lpv lo, hi, at = s->at[CONV_SPATIAL + i];
        interior(s, i, &lo, &hi);
        none |= lp_is_const(p, lo, &first) && lp_is_const(p, hi, &end) && first >= end;
        lpv here = lp_bin(p, LP_AND, lp_bin(p, LP_GE, at, lo), lp_bin(p, LP_LT, at, hi));
        all = all == LPV_NONE ? here : lp_bin(p, LP_AND, all, here);
    }
    if (all == LPV_NONE || !s->written_out || spread || none) {
        put_line(s);
        return;
    }
    lp_if_begin(p, all);
    for (uint32_t i = 0; i < s->d.n_spatial; i++) s->whole[i] = CONV_SPATIAL + i != s->along;
    put_line(s);
    for (uint32_t i = 0; i < s->d.n_spatial; i++) s->whole[i] = false;
    lp_if_else(p);
    put_line(s);
    lp_if_end(p);
}

/* ---- as a product ---- */

static double size_or(const struct nest *s, dim d)
{
    int64_t size = UNKNOWN_SIZE;
    known(s, d, &size);
    return (double)size;
}

/* Do elements of x along the last dim lie beside each other? */
static bool is_along_rows(const struct nest *s)
{
    int64_t step;
    return lp_is_const(s->p, s->x_step[s->y_type.rank - 1], &step) && step == 1;
}

/* Is it large enough, group by group, to be multiplied by the runtime? */
static bool is_product(const struct nest *s, double terms)
{
    enum dtype to = (enum dtype)s->y_type.dtype;
    enum lp_product how = lp_multiplies(to, (enum dtype)s->x_type.dtype, (enum dtype)s->w_type.dtype);
    if (!lower_may_multiply(s->L) || how == PRODUCT_NONE || !dtype_is_float(to)) return false;
    double lines = size_or(s, y_size(s, CONV_BATCH)), rows = size_or(s, y_size(s, CONV_OUT));
    for (uint32_t i = CONV_SPATIAL; i < s->y_type.rank; i++) lines *= size_or(s, y_size(s, i));
    bool fits = s->d.n_spatial && s->d.n_spatial <= HOP_RT_CONV_SPACES;
    double groups = size_or(s, y_size(s, CONV_GROUP));
    bool in_rows = how == PRODUCT_PLAIN && to == DT_F32 && rows == 1 && is_along_rows(s);
    if (fits && in_rows) return groups >= ROWS_GROUPS && groups * lines * terms >= PRODUCT_LEAST;
    return fits && rows >= PRODUCT_ROWS && lines >= PRODUCT_SIDE && terms >= PRODUCT_SIDE &&
           rows * lines * terms >= PRODUCT_LEAST;
}

/* The words of struct hop_rt_conv_numbers. */
static void put_product(const struct nest *s)
{
    struct lp *p = s->p;
    enum { HEAD = 13, EACH = sizeof(struct hop_rt_space) / sizeof(int64_t) };
    _Static_assert(sizeof(struct hop_rt_conv_numbers) == HEAD * sizeof(int64_t), "the words below");
    uint32_t n = 0;
    lpv *words = ARENA_NEW(&p->arena, lpv, HEAD + EACH * s->d.n_spatial);
    const dim sizes[] = { y_size(s, CONV_BATCH), y_size(s, CONV_GROUP), y_size(s, CONV_OUT),
                          x_size(s, CONV_CHANNEL) };
    for (uint32_t i = 0; i < HOP_COUNT(sizes); i++) words[n++] = lower_dim(s->L, sizes[i]);
    const lpv steps[] = { s->x_step[CONV_BATCH],   s->x_step[CONV_GROUP], s->x_step[CONV_CHANNEL],
                          s->w_step[CONV_W_GROUP], s->w_step[CONV_W_OUT], s->w_step[CONV_CHANNEL],
                          s->y_step[CONV_BATCH],   s->y_step[CONV_GROUP], s->y_step[CONV_OUT] };
    for (uint32_t i = 0; i < HOP_COUNT(steps); i++) words[n++] = steps[i];
    for (uint32_t i = 0; i < s->d.n_spatial; i++) {
        uint32_t part = CONV_SPATIAL + i;
        const lpv each[] = { lower_dim(s->L, x_size(s, part)),
                             lower_dim(s->L, w_size(s, part)),
                             lower_dim(s->L, y_size(s, part)),
                             number(s, s->d.stride[i]),
                             number(s, s->d.x_dilation[i]),
                             number(s, s->d.w_dilation[i]),
                             lower_dim(s->L, s->d.low[i]),
                             s->x_step[part],
                             s->d.turned ? sub(s, number(s, 0), s->w_step[part]) : s->w_step[part],
                             s->y_step[part] };
        _Static_assert(HOP_COUNT(each) == EACH, "struct hop_rt_space");
        for (uint32_t k = 0; k < EACH; k++) words[n++] = each[k];
    }
    const struct array arrays[] = { s->x, s->w, s->y };
    struct lp_operand *operands = ARENA_ZNEW(&p->arena, struct lp_operand, HOP_COUNT(arrays));
    for (uint32_t i = 0; i < HOP_COUNT(arrays); i++)
        operands[i] = (struct lp_operand){ .buffer = arrays[i].buffer,
                                           .index = arrays[i].at,
                                           .value = LPV_NONE,
                                           .use = i == 2 ? OPERAND_WRITTEN : OPERAND_READ };
    lp_add_call(p, (struct lp_call){ .kind = CALL_CONV,
                                     .value = LPV_NONE,
                                     .mask = LPV_NONE,
                                     .operands = operands,
                                     .n_operands = HOP_COUNT(arrays),
                                     .sizes = words,
                                     .n_sizes = n });
}

/* ---- the nest ---- */

/* The innermost dim of the result that is worth vector code, else the innermost of more than one element. */
static uint32_t chosen_along(const struct nest *s)
{
    uint32_t part_at[MAX_RANK] = { 0 }, best = HOP_NONE;
    for (uint32_t i = 0; i < s->y_type.rank; i++) part_at[s->d.y[i]] = i;
    for (uint32_t at = s->y_type.rank; at-- > 0;) {
        uint32_t part = part_at[at];
        int64_t size = UNKNOWN_SIZE;
        known(s, y_size(s, part), &size);
        if (part >= CONV_SPATIAL && s->d.x_dilation[part - CONV_SPATIAL] > 1) continue;
        if (size >= LONG_ENOUGH) return part;
        if (size > 1 && best == HOP_NONE) best = part;
    }
    return best == HOP_NONE ? part_at[s->y_type.rank - 1] : best;
}

static double terms_of(const struct nest *s, bool *all_known)
{
    double n = 1;
    *all_known = true;
    for (uint32_t i = CONV_CHANNEL; i < s->w_type.rank; i++) {
        int64_t size = UNKNOWN_SIZE;
        *all_known &= known(s, w_size(s, i), &size);
        n *= (double)size;
    }
    return n;
}

static bool on_threads(const struct nest *s, double terms, bool all_known)
{
    double work = terms;
    for (uint32_t i = 0; i < s->y_type.rank; i++) {
        int64_t size = UNKNOWN_SIZE;
        all_known &= known(s, s->y_type.dims[i], &size);
        work *= (double)size;
    }
    return lower_may_thread(s->L) && lower_worth_threads(s->L, (uint64_t)fmin(work, 1e18), all_known);
}

static void conv_block(struct lower *L, const struct fn *f, const struct node *n)
{
    struct module *m = lower_module(L);
    struct lp *p = lower_lp(L);
    const val *operands = node_operands(f, n);
    struct nest s = { .L = L, .p = p, .d = conv_dims(node_attr(f, n, 0)) };
    s.x_type = type_get(m, value_type(f, operands[0]));
    s.w_type = type_get(m, value_type(f, operands[1]));
    s.y_type = type_get(m, value_type(f, n->results));
    s.x = lower_array(L, operands[0]);
    s.w = lower_array(L, operands[1]);
    s.y = lower_result(L, n, 0);
    s.wide = node_accumulator(m, f, n);
    s.acc = lp_local(p, s.wide, LOCAL_SCALAR, "sum");
    steps_of(&s, &s.x_type, s.d.x, s.x_step);
    steps_of(&s, &s.w_type, s.d.w, s.w_step);
    steps_of(&s, &s.y_type, s.d.y, s.y_step);
    bool all_known;
    double terms = terms_of(&s, &all_known);
    s.written_out = all_known && terms <= WRITTEN_OUT;
    if (is_product(&s, terms)) {
        put_product(&s);
        return;
    }
    s.along = chosen_along(&s);
    dim dims[MAX_RANK];
    lpv idx[MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < s.y_type.rank; i++)
        if (i != s.d.y[s.along]) dims[rank++] = s.y_type.dims[i];
    type_id lines = type_intern(m, DT_BOOL, rank, dims);
    bool threads = on_threads(&s, terms, all_known);
    if (threads) {
        lpv count = lower_dim(L, type_elements(m, lines));
        lower_unflatten(L, lines, lp_for_begin(p, lp_index(p, 0), count, lp_index(p, 1), FOR_PARALLEL), idx);
    } else lower_each_begin(L, lines, false, idx);
    for (uint32_t i = 0; i < s.y_type.rank; i++) {
        uint32_t at = s.d.y[i];
        if (i != s.along) s.at[i] = idx[at - (at > s.d.y[s.along])];
    }
    put_lines(&s);
    if (threads) lp_for_end(p);
    else lower_each_end(L, lines);
}

const struct op_lower conv_lower = {
    .kind = LOWER_BLOCK, .access = ACCESS_REPEAT, .cost = COST_EXPENSIVE, .block = conv_block
};
