/* The loops of windows. Outside stand the dims of the result, the leading ones shared by threads; the last
 * dim is a vector loop whose body goes over the elements of a window. Padding costs nothing but at the edges:
 * rows whose windows lie inside of the array have loops of their own, and so have the elements of a row, so
 * that vector code asks nothing and reads one after the other. */
#include "ops/window.h"

enum {
    UNROLLED = 32,    /* elements of a window that are written out, all or those of the last dims */
    PHASES = 8,       /* strides up to which vectors go over what a stride skips */
    SHARED_ROWS = 64, /* rows that are enough for threads: more dims are not taken together */
    PIECE = 8192      /* elements of a single row that a thread takes at a time */
};

/* One node being written. Indices: `at` of the result, `from` of the operand. */
struct walk {
    struct lower *L;
    struct lp *p;
    const struct fn *f;
    const struct node *n;
    struct windows w;
    struct type x, r; /* of operand and result */
    type_id r_type;
    enum dtype wide;
    val operand;
    struct array to, positions;
    bool values_wanted, positions_wanted;
    uint32_t best, place; /* locals */
    lpv at[MAX_RANK], from[MAX_RANK];
    bool inside[MAX_RANK];                  /* no element along this dim is padding */
    lpv tap_lo[MAX_RANK], tap_hi[MAX_RANK]; /* else: which are not */
    bool unrolled[MAX_RANK];
    void (*row)(struct walk *k, lpv lo, lpv hi); /* writes the elements of a row, all or a piece */
};

static lpv number(const struct walk *k, int64_t v) { return lp_index(k->p, v); }
static lpv plus(const struct walk *k, lpv a, int64_t v) { return lp_bin(k->p, LP_ADD, a, number(k, v)); }
static lpv floor_div(const struct walk *k, lpv a, int64_t by)
{
    return lp_bin(k->p, LP_FLOORDIV, a, number(k, by));
}
static lpv ceil_div(const struct walk *k, lpv a, int64_t by) { return floor_div(k, plus(k, a, by - 1), by); }
static lpv most(const struct walk *k, lpv a, lpv b) { return lp_bin(k->p, LP_MAX, a, b); }
static lpv least(const struct walk *k, lpv a, lpv b) { return lp_bin(k->p, LP_MIN, a, b); }
static lpv size_of(const struct walk *k, struct type t, uint32_t d) { return lower_dim(k->L, t.dims[d]); }

static struct walk walk_of(struct lower *L, const struct fn *f, const struct node *n)
{
    struct module *m = lower_module(L);
    struct walk k = { .L = L, .p = lower_lp(L), .f = f, .n = n, .operand = node_operands(f, n)[0] };
    k.x = type_get(m, value_type(f, k.operand));
    k.r_type = value_type(f, n->results);
    k.r = type_get(m, k.r_type);
    k.w = windows_of(node_attr(f, n, 0), k.x.rank);
    k.wide = dtype_accumulator((enum dtype)k.x.dtype);
    k.values_wanted = lower_result_used(L, n, 0);
    k.to = k.values_wanted ? lower_result(L, n, 0) : (struct array){ HOP_NONE, LPV_NONE };
    /* Those of the last dims that together have few elements. */
    int64_t together = 1;
    for (uint32_t d = k.x.rank; d-- > 0;) {
        together *= HOP_MIN(k.w.size[d], UNROLLED + 1);
        k.unrolled[d] = together <= UNROLLED;
        together = HOP_MIN(together, UNROLLED + 1);
    }
    return k;
}

/* ---- the elements of a window ---- */

static lpv window_start(const struct walk *k, uint32_t d)
{
    lpv scaled = lp_bin(k->p, LP_MUL, k->at[d], number(k, k->w.stride[d]));
    return plus(k, scaled, -k->w.low[d]);
}

/* Which elements of the window at hand lie in the array, along a dim. */
static void clip_taps(struct walk *k, uint32_t d)
{
    const struct windows *w = &k->w;
    lpv zero = number(k, 0), all = number(k, w->size[d]), start = window_start(k, d);
    k->tap_lo[d] = zero;
    k->tap_hi[d] = all;
    if (k->inside[d] || !w->moved[d]) return;
    if (w->low[d]) k->tap_lo[d] = most(k, ceil_div(k, lp_un(k->p, LP_NEG, start), w->dilation[d]), zero);
    if (w->high[d]) {
        lpv left = lp_bin(k->p, LP_SUB, size_of(k, k->x, d), start);
        k->tap_hi[d] = most(k, least(k, ceil_div(k, left, w->dilation[d]), all), zero);
    }
    k->tap_lo[d] = least(k, k->tap_lo[d], k->tap_hi[d]);
}

static void each_tap(struct walk *k, uint32_t d, void (*visit)(struct walk *))
{
    const struct windows *w = &k->w;
    if (d == w->rank) {
        visit(k);
        return;
    }
    k->from[d] = k->at[d];
    if (!w->moved[d]) {
        each_tap(k, d + 1, visit);
        return;
    }
    lpv start = window_start(k, d);
    bool whole = k->inside[d] || (!w->low[d] && !w->high[d]);
    if (whole && k->unrolled[d]) {
        for (int64_t t = 0; t < w->size[d]; t++) {
            k->from[d] = plus(k, start, t * w->dilation[d]);
            each_tap(k, d + 1, visit);
        }
        return;
    }
    lpv tap = lp_for_begin(k->p, k->tap_lo[d], k->tap_hi[d], number(k, 1), FOR_SERIAL);
    k->from[d] = lp_bin(k->p, LP_ADD, start, lp_bin(k->p, LP_MUL, tap, number(k, w->dilation[d])));
    /* It lies there, but not even of a loop without steps may it be said that it never does. */
    if (!whole) k->from[d] = lower_clamp(k->p, k->from[d], size_of(k, k->x, d));
    each_tap(k, d + 1, visit);
    lp_for_end(k->p);
}

static lpv element(const struct walk *k)
{
    return lp_cast(k->p, k->wide, lower_elem(k->L, k->operand, k->from));
}

static void visit_sum(struct walk *k)
{
    lpv x = element(k);
    lp_set(k->p, k->best, lp_bin(k->p, LP_ADD, lp_read(k->p, k->best), x));
}

/* Behind the dims that no window runs along. */
static lpv position(const struct walk *k, const lpv *from)
{
    lpv flat = number(k, 0);
    for (uint32_t d = k->w.first; d < k->x.rank; d++)
        flat = lp_bin(k->p, LP_ADD, lp_bin(k->p, LP_MUL, flat, size_of(k, k->x, d)), from[d]);
    return lp_cast(k->p, (enum dtype)k->p->locals.data[k->place].dtype, flat);
}

/* The first of equals stays, and so does a NaN. */
static void visit_extreme(struct walk *k)
{
    struct lp *p = k->p;
    bool max = k->n->op == OP_window_max;
    lpv x = element(k), best = lp_read(p, k->best);
    if (!k->positions_wanted) {
        lp_set(p, k->best, lp_bin(p, max ? LP_MAX : LP_MIN, x, best));
        return;
    }
    lpv beaten = lp_un(p, LP_NOT, lp_bin(p, max ? LP_GE : LP_LE, best, x));
    if (dtype_is_float(k->wide)) beaten = lp_bin(p, LP_AND, beaten, lp_bin(p, LP_EQ, best, best));
    lpv place = lp_read(p, k->place);
    lp_set(p, k->best, lp_select(p, beaten, x, best));
    lp_set(p, k->place, lp_select(p, beaten, position(k, k->from), place));
}

static lpv extreme_of_nothing(const struct walk *k)
{
    bool max = k->n->op == OP_window_max;
    if (dtype_is_float(k->wide)) return lp_real(k->p, k->wide, max ? -1.0 / 0.0 : 1.0 / 0.0);
    if (max) return lp_int(k->p, k->wide, dtype_least(k->wide));
    return lp_int(k->p, k->wide, k->wide == DT_U64 ? -1 : dtype_most(k->wide));
}

/* The first element of the window that is there, -1: there is none. */
static lpv first_position(struct walk *k)
{
    lpv first[MAX_RANK] = { 0 }, some = LPV_NONE;
    for (uint32_t d = 0; d < k->x.rank; d++) {
        first[d] = k->at[d];
        if (!k->w.moved[d]) continue;
        lpv skipped = lp_bin(k->p, LP_MUL, k->tap_lo[d], number(k, k->w.dilation[d]));
        first[d] = lp_bin(k->p, LP_ADD, window_start(k, d), skipped);
        if (k->inside[d] || (!k->w.low[d] && !k->w.high[d])) continue;
        lpv here = lp_bin(k->p, LP_LT, k->tap_lo[d], k->tap_hi[d]);
        some = some == LPV_NONE ? here : lp_bin(k->p, LP_AND, some, here);
    }
    lpv place = position(k, first);
    lpv none = lp_int(k->p, lp_dtype(k->p, place), -1);
    return some == LPV_NONE ? place : lp_select(k->p, some, place, none);
}

/* ---- results ---- */

static void put(struct walk *k, struct array to, lpv v)
{
    lpv flat = lower_flatten(k->L, k->r_type, k->at);
    enum dtype t = (enum dtype)k->p->buffers.data[to.buffer].dtype;
    lp_store(k->p, to.buffer, lp_bin(k->p, LP_ADD, to.at, flat), lp_cast(k->p, t, v));
}

static void put_sum(struct walk *k)
{
    int64_t divisor = window_divisor(node_attr(k->f, k->n, 0));
    lpv sum = lp_read(k->p, k->best);
    if (divisor != 1) sum = lp_bin(k->p, LP_DIV, sum, lp_real(k->p, k->wide, (double)divisor));
    put(k, k->to, sum);
}

static void write_element(struct walk *k)
{
    bool sums = k->n->op == OP_window_sum;
    for (uint32_t d = 0; d < k->x.rank; d++) clip_taps(k, d);
    lp_set(k->p, k->best, sums ? lp_int(k->p, k->wide, 0) : extreme_of_nothing(k));
    if (k->positions_wanted) lp_set(k->p, k->place, first_position(k));
    each_tap(k, 0, sums ? visit_sum : visit_extreme);
    if (sums) put_sum(k);
    else if (k->values_wanted) put(k, k->to, lp_read(k->p, k->best));
    if (k->positions_wanted) put(k, k->positions, lp_read(k->p, k->place));
}

/* ---- rows ---- */

static void write_range(struct walk *k, lpv lo, lpv hi, bool inside, void (*write)(struct walk *))
{
    uint32_t last = k->r.rank - 1u;
    k->inside[last] = inside;
    k->at[last] = lp_for_begin(k->p, lo, hi, number(k, 1), inside ? FOR_VECTOR : FOR_SERIAL);
    write(k);
    lp_for_end(k->p)->note = node_row(k->n)->name;
}

static lpv clamped(const struct walk *k, lpv v, lpv lo, lpv hi) { return most(k, least(k, v, hi), lo); }

/* Windows from lo to hi of a row: those that begin in the padding, those inside, those that end in it. */
static void windows_row(struct walk *k, lpv lo, lpv hi)
{
    const struct windows *w = &k->w;
    uint32_t last = k->r.rank - 1u;
    int64_t before = (w->low[last] + w->stride[last] - 1) / w->stride[last];
    lpv begin = lo, end = hi;
    if (w->low[last]) {
        begin = clamped(k, number(k, before), lo, hi);
        write_range(k, lo, begin, false, write_element);
    }
    if (w->high[last]) {
        lpv room = plus(k, size_of(k, k->x, last), w->low[last] - window_span(w, last));
        end = clamped(k, plus(k, floor_div(k, room, w->stride[last]), 1), begin, hi);
    }
    write_range(k, begin, end, true, write_element);
    if (w->high[last]) write_range(k, end, hi, false, write_element);
}

/* Rows all of whose windows lie inside along the dims around it are written out apart. */
static void rows_of_windows(struct walk *k, lpv lo, lpv hi)
{
    const struct windows *w = &k->w;
    lpv whole = LPV_NONE;
    for (uint32_t d = 0; d + 1 < k->r.rank; d++) {
        k->inside[d] = true;
        if (!w->low[d] && !w->high[d]) continue;
        lpv start = window_start(k, d), end = plus(k, start, window_span(w, d));
        lpv here = lp_bin(k->p, LP_GE, start, number(k, 0));
        here = lp_bin(k->p, LP_AND, here, lp_bin(k->p, LP_LE, end, size_of(k, k->x, d)));
        whole = whole == LPV_NONE ? here : lp_bin(k->p, LP_AND, whole, here);
    }
    if (whole == LPV_NONE) {
        windows_row(k, lo, hi);
        return;
    }
    lp_if_begin(k->p, whole);
    windows_row(k, lo, hi);
    lp_if_else(k->p);
    for (uint32_t d = 0; d + 1 < k->r.rank; d++) k->inside[d] = false;
    windows_row(k, lo, hi);
    lp_if_end(k->p);
}

/* ---- the loops around a row ---- */

static void write_rows(struct walk *k, bool parallel)
{
    struct lp *p = k->p;
    struct module *m = lower_module(k->L);
    uint32_t outer = k->r.rank - 1u, together = 0, loops = 0;
    lpv zero = number(k, 0), one = number(k, 1), lo = zero, hi = size_of(k, k->r, outer);
    uint64_t rows = 1;
    while (parallel && together < outer && rows < SHARED_ROWS) {
        dim d = k->r.dims[together++];
        rows *= dim_is_const(m, d) ? (uint64_t)HOP_MIN(dim_const_value(m, d), SHARED_ROWS) : SHARED_ROWS;
    }
    if (parallel && !outer) {
        struct blocks b = lower_pieces(k->L, hi, number(k, PIECE));
        lower_block_begin(k->L, &b, &lo, &hi);
        loops++;
    } else if (together) {
        type_id front = type_intern(m, DT_BOOL, together, k->r.dims);
        lpv row = lp_for_begin(p, zero, lower_dim(k->L, type_elements(m, front)), one, FOR_PARALLEL);
        lower_unflatten(k->L, front, row, k->at);
        loops++;
    }
    for (uint32_t d = together; d < outer; d++, loops++)
        k->at[d] = lp_for_begin(p, zero, size_of(k, k->r, d), one, FOR_SERIAL);
    k->row(k, lo, hi);
    for (; loops; loops--) lp_for_end(p)->note = node_row(k->n)->name;
}

/* On threads where that is worth it; where only a run tells, both ways. */
static void write_all(struct walk *k, uint64_t each)
{
    enum { GUESS = 1 << 22 };
    struct module *m = lower_module(k->L);
    dim count = type_elements(m, k->r_type);
    bool known = dim_is_const(m, count);
    uint64_t elements = known ? (uint64_t)dim_const_value(m, count) : GUESS;
    uint64_t work = elements > UINT32_MAX || each > UINT32_MAX ? UINT64_MAX / 4 : elements * each;
    bool parallel = lower_worth_threads(k->L, work, known);
    if (parallel || known || !lower_may_ask(k->L)) {
        write_rows(k, parallel);
        return;
    }
    lpv later = lp_bin(k->p, LP_MUL, lower_dim(k->L, count), number(k, (int64_t)HOP_MIN(each, 1u << 20)));
    lp_if_begin(k->p, lower_worth_later(k->L, later));
    write_rows(k, true);
    lp_if_else(k->p);
    write_rows(k, false);
    lp_if_end(k->p);
}

/* Operations for one result. */
static uint64_t taps_of(const struct windows *w)
{
    uint64_t taps = 1;
    for (uint32_t d = 0; d < w->rank; d++) taps *= HOP_MIN((uint64_t)w->size[d], UINT32_MAX / taps);
    return taps + 1;
}

static void block_windows(struct lower *L, const struct fn *f, const struct node *n)
{
    struct walk k = walk_of(L, f, n);
    k.positions_wanted = n->n_results == 2 && lower_result_used(L, n, 1);
    k.best = lp_local(k.p, k.wide, LOCAL_SCALAR, n->op == OP_window_sum ? "sum" : "best");
    if (k.positions_wanted) {
        enum dtype t = (enum dtype)type_get(lower_module(L), value_type(f, n->results + 1)).dtype;
        k.positions = lower_result(L, n, 1);
        k.place = lp_local(k.p, t, LOCAL_SCALAR, "place");
    }
    k.row = rows_of_windows;
    if (k.values_wanted || k.positions_wanted) write_all(&k, taps_of(&k.w));
}

/* ---- the transpose ---- */

/* The windows that an element of the result belongs to, along a dim: `at` + low = o·stride + tap·dilation. */
static void each_window(struct walk *k, uint32_t d, int64_t phase);

/* They are tried one after the other, from the first on. */
static void search_windows(struct walk *k, uint32_t d, int64_t phase)
{
    const struct windows *w = &k->w;
    lpv reached = plus(k, k->at[d], w->low[d]);
    lpv first = ceil_div(k, plus(k, reached, 1 - window_span(w, d)), w->stride[d]);
    lpv behind = plus(k, floor_div(k, reached, w->stride[d]), 1);
    lpv o = lp_for_begin(k->p, most(k, first, number(k, 0)), least(k, behind, size_of(k, k->x, d)),
                         number(k, 1), FOR_SERIAL);
    k->from[d] = o;
    if (w->dilation[d] > 1) {
        lpv gone = lp_bin(k->p, LP_SUB, reached, lp_bin(k->p, LP_MUL, o, number(k, w->stride[d])));
        lpv off = lp_bin(k->p, LP_MOD, gone, number(k, w->dilation[d]));
        lp_if_begin(k->p, lp_bin(k->p, LP_EQ, off, number(k, 0)));
    }
    each_window(k, d + 1, phase);
    if (w->dilation[d] > 1) lp_if_end(k->p);
    lp_for_end(k->p);
}

/* Element q·stride + phase of the last dim, where all windows that it could have are there: window q + step
 * for every tap that leaves no rest. */
static bool window_step(const struct walk *k, int64_t phase, int64_t tap, int64_t *step)
{
    uint32_t last = k->r.rank - 1u;
    int64_t gone = phase + k->w.low[last] - tap * k->w.dilation[last], stride = k->w.stride[last];
    int64_t rest = (gone % stride + stride) % stride;
    *step = (gone - rest) / stride;
    return !rest;
}

static void each_window(struct walk *k, uint32_t d, int64_t phase)
{
    const struct windows *w = &k->w;
    uint32_t last = k->r.rank - 1u;
    if (d == w->rank) {
        visit_sum(k);
        return;
    }
    if (!w->moved[d]) {
        k->from[d] = k->at[d];
        each_window(k, d + 1, phase);
    } else if (d == last && k->inside[d]) {
        lpv q = k->from[d], at = q;
        for (int64_t tap = w->size[d], step; tap-- > 0;) {
            if (!window_step(k, phase, tap, &step)) continue;
            k->from[d] = plus(k, at, step);
            each_window(k, d + 1, phase);
        }
        k->from[d] = q;
    } else search_windows(k, d, phase);
}

static void write_spread(struct walk *k)
{
    lp_set(k->p, k->best, lp_int(k->p, k->wide, 0));
    each_window(k, 0, 0);
    put_sum(k);
}

/* All elements from q·stride on that come before the next stride. */
static void write_stride(struct walk *k)
{
    uint32_t last = k->r.rank - 1u;
    lpv q = k->at[last];
    int64_t stride = k->w.stride[last];
    for (int64_t phase = 0; phase < stride; phase++) {
        k->at[last] = plus(k, lp_bin(k->p, LP_MUL, q, number(k, stride)), phase);
        k->from[last] = q;
        lp_set(k->p, k->best, lp_int(k->p, k->wide, 0));
        each_window(k, 0, phase);
        put_sum(k);
    }
    k->at[last] = q;
}

/* Elements from lo to hi of a row. Vectors go over those whose windows are all there, a stride at a time. */
static void spread_row(struct walk *k, lpv lo, lpv hi)
{
    const struct windows *w = &k->w;
    uint32_t last = k->r.rank - 1u;
    int64_t stride = w->stride[last], lowest = 0, highest = 0;
    if (!w->moved[last]) {
        write_range(k, lo, hi, true, write_spread);
        return;
    }
    if (stride > PHASES || w->size[last] > UNROLLED) {
        write_range(k, lo, hi, false, write_spread);
        return;
    }
    for (int64_t phase = 0; phase < stride; phase++)
        for (int64_t tap = 0, step; tap < w->size[last]; tap++) {
            if (!window_step(k, phase, tap, &step)) continue;
            lowest = HOP_MIN(lowest, step);
            highest = HOP_MAX(highest, step);
        }
    lpv first = most(k, ceil_div(k, lo, stride), number(k, -lowest));
    lpv behind = least(k, floor_div(k, hi, stride), plus(k, size_of(k, k->x, last), -highest));
    behind = most(k, behind, first);
    lpv begin = clamped(k, lp_bin(k->p, LP_MUL, first, number(k, stride)), lo, hi);
    lpv end = clamped(k, lp_bin(k->p, LP_MUL, behind, number(k, stride)), begin, hi);
    write_range(k, lo, begin, false, write_spread);
    write_range(k, first, behind, true, write_stride);
    write_range(k, end, hi, false, write_spread);
}

static void block_spread(struct lower *L, const struct fn *f, const struct node *n)
{
    struct walk k = walk_of(L, f, n);
    k.best = lp_local(k.p, k.wide, LOCAL_SCALAR, "sum");
    k.row = spread_row;
    uint64_t each = 1;
    for (uint32_t d = 0; d < k.w.rank; d++) {
        uint64_t several = (uint64_t)((window_span(&k.w, d) + k.w.stride[d] - 1) / k.w.stride[d]);
        each *= HOP_MIN(several, UINT32_MAX / each);
    }
    if (k.values_wanted) write_all(&k, each + 1);
}

/* ---- what the compiler asks ---- */

/* Elements that lie in one window at most are read once. */
static uint8_t windows_use(const struct fn *f, const struct node *n, uint32_t i)
{
    uint32_t rank = node_attr(f, n, WINDOW_SIZES)->n;
    struct windows w = windows_of(node_attr(f, n, 0), rank);
    HOP_UNUSED(i);
    for (uint32_t d = 0; d < rank; d++)
        if (n->op == OP_window_spread ? w.size[d] > 1 : window_span(&w, d) > w.stride[d]) return USE_MANY;
    return USE_ONCE;
}

const struct op_lower
    lower_window_sum = { .kind = LOWER_BLOCK, .block = block_windows, .operand_use = windows_use },
    lower_window_extreme = { .kind = LOWER_BLOCK, .block = block_windows, .operand_use = windows_use },
    lower_window_spread = { .kind = LOWER_BLOCK, .block = block_spread, .operand_use = windows_use };
