/* Rows that run along a dim and keep every step: cumsum cumprod cummax cummin, the linear recurrence s = a·s
 * + b that is closed under differentiation, and logcumsumexp made of them. One pass, element after element,
 * in the order of the dim or, with `reverse`, from its end; the first element stands as it is. With the
 * attribute `dtype` elements are brought to the accumulator's dtype as they are read, and running values to
 * this one as they are stored. */
#include "ops/facts.h"
#include "ops/indexkit.h"
#include "ops/scalar_c.h"
#include "ops/scalar_lp.h"

static enum op combine(enum op op)
{
    switch (op) {
    case OP_cumsum: return OP_add;
    case OP_cumprod: return OP_mul;
    case OP_cummax: return OP_max;
    default: return OP_min;
    }
}
static bool is_reverse(const struct attr *a)
{
    return a[CUMULATIVE_REVERSE].kind != ATTR_ABSENT && a[CUMULATIVE_REVERSE].i;
}
static bool is_late(const struct attr *a)
{
    return a[RECURRENCE_LATE].kind != ATTR_ABSENT && a[RECURRENCE_LATE].i;
}
static uint32_t dim_of(const struct attr *a) { return attr_dim_or_zero(&a[CUMULATIVE_DIM]); }

/* Has the operator a dtype of its own? */
static bool chooses(uint32_t op) { return op == OP_cumsum || op == OP_cumprod; }

/* ---- infer ---- */

static void infer_cumulative(struct infer *in)
{
    struct type t = infer_type(in, 0);
    infer_one_dim(in, &in->attrs[CUMULATIVE_DIM], t.rank, "dim");
    if (chooses(in->op) && in->attrs[CUMULATIVE_DTYPE].kind != ATTR_ABSENT) {
        infer_result_dtype(in, &in->attrs[CUMULATIVE_DTYPE]);
        t.dtype = (uint8_t)in->attrs[CUMULATIVE_DTYPE].i;
    }
    if (!scalar_c_defined(combine((enum op)in->op), (enum dtype)t.dtype))
        infer_error(in, "expected numbers, found %s", infer_text(in, in->operands[0]));
    infer_result(in, type_intern(in->m, (enum dtype)t.dtype, t.rank, t.dims));
}

static void infer_recurrence(struct infer *in)
{
    struct type t = infer_type(in, 0);
    infer_one_dim(in, &in->attrs[CUMULATIVE_DIM], t.rank, "dim");
    if (!scalar_c_defined(OP_mul, (enum dtype)t.dtype))
        infer_error(in, "expected numbers, found %s", infer_text(in, in->operands[0]));
    infer_same_type(in, in->operands[0], in->operands[1], "operand 1 (terms)");
    infer_result(in, in->operands[1]);
}

/* ---- eval ---- */

/* Steps along the dim over rows of what stands behind it. Sums and products are kept in the accumulator's
 * dtype and rounded where they are stored. */
static void eval_steps(struct eval *e)
{
    const struct tensor *x = e->operands[0], *y = e->results[0];
    const struct attr *attrs = node_attr(e->f, e->n, 0);
    uint32_t along = dim_of(attrs), n_operands = e->n->n_operands;
    bool reverse = is_reverse(attrs), late = n_operands == 2 && is_late(attrs);
    enum dtype wide = node_accumulator(e->m, e->f, e->n);
    int64_t outer = 1, inner = 1, n = x->dims[along];
    for (uint32_t d = 0; d < along; d++) outer *= x->dims[d];
    for (uint32_t d = along + 1; d < x->rank; d++) inner *= x->dims[d];
    if (!x->count) return;
    scalar_kernel step = scalar_c_kernel(n_operands == 2 ? OP_mul : combine((enum op)e->n->op), wide);
    scalar_kernel plus = scalar_c_kernel(OP_add, wide);
    /* Copies where they are the same. */
    scalar_kernel widen = scalar_c_cast((enum dtype)x->dtype, wide);
    scalar_kernel narrow = scalar_c_cast(wide, (enum dtype)y->dtype);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    size_t bytes = (size_t)inner * dtype_info[wide].size;
    char *row = arena_alloc(&arena, bytes);
    char *other = arena_alloc(&arena, bytes);
    char *acc = arena_alloc(&arena, bytes);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < n; k++) {
            size_t element = (size_t)((o * n + (reverse ? n - 1 - k : k)) * inner);
            size_t at = element * tensor_width(x);
            widen(inner, row, (const void *const[]){ (const char *)e->operands[n_operands - 1]->data + at });
            if (!k) memcpy(acc, row, bytes);
            else if (n_operands == 1) step(inner, acc, (const void *const[]){ acc, row });
            else {
                size_t before = (size_t)((o * n + (reverse ? n - k : k - 1)) * inner) * tensor_width(x);
                widen(inner, other, (const void *const[]){ (const char *)x->data + (late ? before : at) });
                step(inner, acc, (const void *const[]){ other, acc });
                plus(inner, acc, (const void *const[]){ acc, row });
            }
            narrow(inner, (char *)y->data + element * tensor_width(y), (const void *const[]){ acc });
        }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* ---- derivatives ---- */

/* v one step later along the dim: place k holds what place k-1 held (in the direction of the steps), the
 * first one `first`. */
static val shifted(struct builder *b, val v, uint32_t along, bool reverse, double first)
{
    struct type t = emit_type(b, v);
    dim zeros[MAX_RANK] = { 0 }, one[MAX_RANK] = { 0 }, start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    one[along] = 1;
    if (reverse) {
        start[along] = 1;
        limit[along] = dim_add(b->m, t.dims[along], 1);
    }
    const dim *low = reverse ? zeros : one;
    const dim *high = reverse ? one : zeros;
    struct attr a[3] = { A_DIMS(low, t.rank), A_DIMS(high, t.rank), A_NONE };
    val padded = emit(b, OP_pad, (val[]){ v, emit_full(b, (enum dtype)t.dtype, first, 0, NULL) }, 2, a);
    return emit_as(b, emit_slice(b, padded, start, limit), builder_type(b, v));
}

static val emit_cumulative(struct builder *b, enum op op, val v, uint32_t along, bool reverse)
{
    struct attr a[CUMULATIVE_ATTRS] = { A_INT(along), A_FLAG(reverse), A_NONE };
    return emit(b, op, &v, 1, a);
}
/* cumsum or cumprod, given in dtype t. */
static val emit_cumulative_to(struct builder *b, enum op op, enum dtype t, val v, uint32_t along,
                              bool reverse)
{
    struct attr a[CUMULATIVE_ATTRS] = { A_INT(along), A_FLAG(reverse), emit_result_dtype(b, &v, 1, t) };
    return emit(b, op, &v, 1, a);
}
static val emit_recurrence(struct builder *b, val factors, val terms, uint32_t along, bool reverse, bool late)
{
    struct attr a[3] = { A_INT(along), A_FLAG(reverse), A_FLAG(late) };
    return emit(b, OP_recurrence, (val[]){ factors, terms }, 2, a);
}

static void vjp_cumsum(struct vjp *v)
{
    v->out[0] = emit_cumulative_to(v->b, OP_cumsum, (enum dtype)emit_type(v->b, v->operands[0]).dtype,
                                   v->ct[0], dim_of(v->attrs), !is_reverse(v->attrs));
}
static void jvp_cumsum(struct jvp *j)
{
    if (j->tangents[0] != VAL_NONE) j->out[0] = emit_same(j->b, j->n, j->tangents[0], j->attrs);
}

/* Where a dtype was chosen the derivative of cumprod is computed in the accumulator's, of running products
 * that were not rounded. */
static enum dtype product_dtype(const struct builder *b, const struct fn *f, const struct node *n)
{
    bool chosen = node_attr(f, n, CUMULATIVE_DTYPE)->kind != ATTR_ABSENT;
    return chosen ? node_accumulator(b->m, f, n)
                  : (enum dtype)type_get(b->m, value_type(f, n->results)).dtype;
}
static val products_before(struct builder *b, enum dtype wide, val x, val y, uint32_t along, bool reverse)
{
    if (emit_type(b, y).dtype != wide) y = emit_cumulative_to(b, OP_cumprod, wide, x, along, reverse);
    return shifted(b, y, along, reverse, 1);
}

/* dx_k = (product of those before) · s_k with s_k = ct_k + x_{k+1}·s_{k+1}: nothing is divided, so zeros are
 * no exception. */
static void vjp_cumprod(struct vjp *v)
{
    uint32_t along = dim_of(v->attrs);
    bool reverse = is_reverse(v->attrs);
    struct builder *b = v->b;
    enum dtype wide = product_dtype(b, v->f, v->n);
    val x = v->operands[0];
    val s = emit_recurrence(b, emit_cast(b, x, wide), emit_cast(b, v->ct[0], wide), along, !reverse, true);
    val ct = emit2(b, OP_mul, products_before(b, wide, x, v->results[0], along, reverse), s);
    v->out[0] = emit_cast(b, ct, (enum dtype)emit_type(b, x).dtype);
}
static void jvp_cumprod(struct jvp *j)
{
    if (j->tangents[0] == VAL_NONE) return;
    uint32_t along = dim_of(j->attrs);
    bool reverse = is_reverse(j->attrs);
    struct builder *b = j->b;
    enum dtype wide = product_dtype(b, j->f, j->n);
    val x = j->operands[0];
    val before = products_before(b, wide, x, j->results[0], along, reverse);
    val term = emit2(b, OP_mul, emit_cast(b, j->tangents[0], wide), before);
    val t = emit_recurrence(b, emit_cast(b, x, wide), term, along, reverse, false);
    j->out[0] = emit_cast(b, t, (enum dtype)emit_type(b, j->results[0]).dtype);
}

/* i64 like x: where the extreme of the elements so far stands, the first of equals. A place is new when it
 * beats what was there before it. */
static val winners(struct builder *b, enum op op, val x, val y, uint32_t along, bool reverse)
{
    struct type t = emit_type(b, x);
    bool max = op == OP_cummax;
    val before = shifted(b, y, along, reverse, max ? -1.0 / 0.0 : 1.0 / 0.0);
    val at = emit_iota(b, t.rank, t.dims, along);
    val stays = emit2(b, OP_or, emit2(b, max ? OP_ge : OP_le, before, x), emit2(b, OP_ne, before, before));
    dim first = reverse ? dim_sub(b->m, t.dims[along], 1) : 0;
    val none = emit_dim_full(b, first, t.rank, t.dims);
    val fresh = emit_select(b, stays, none, at);
    return emit_cumulative(b, reverse ? OP_cummin : OP_cummax, fresh, along, reverse);
}
static void vjp_extreme(struct vjp *v)
{
    uint32_t along = dim_of(v->attrs);
    val at = winners(v->b, (enum op)v->n->op, v->operands[0], v->results[0], along, is_reverse(v->attrs));
    v->out[0] = emit_put_along(v->b, v->operands[0], at, along, v->ct[0]);
}
static void jvp_extreme(struct jvp *j)
{
    if (j->tangents[0] == VAL_NONE) return;
    uint32_t along = dim_of(j->attrs);
    j->out[0] = emit_take_along(j->b, j->tangents[0],
                                winners(j->b, (enum op)j->n->op, j->operands[0], j->results[0], along,
                                        is_reverse(j->attrs)),
                                along);
}

/* The factor of the first step (a late one: of the last) is not used: whatever is infinite, its derivative is
 * 0. */
static val without_end(struct builder *b, val v, uint32_t along, bool last)
{
    struct type t = emit_type(b, v);
    val at = emit_iota(b, t.rank, t.dims, along);
    dim place = last ? dim_sub(b->m, t.dims[along], 1) : 0;
    val end = emit_dim_full(b, place, t.rank, t.dims);
    return emit_select(b, emit2(b, OP_eq, at, end), emit_full_like(b, v, 0), v);
}
/* With g the cotangents of all steps, g_k = ct_k + a·g_{k+1}: the same factors the other way, where what was
 * late is not and what was not is. The derivative by a factor is g of its step times what was before that
 * step. */
static void vjp_recurrence(struct vjp *v)
{
    uint32_t along = dim_of(v->attrs);
    bool reverse = is_reverse(v->attrs), late = is_late(v->attrs);
    val g = emit_recurrence(v->b, v->operands[0], v->ct[0], along, !reverse, !late);
    if (v->active[0]) {
        val of_step = late ? shifted(v->b, g, along, !reverse, 0) : g;
        val before = late ? v->results[0] : shifted(v->b, v->results[0], along, reverse, 0);
        v->out[0] = emit_as(v->b,
                            without_end(v->b, emit2(v->b, OP_mul, of_step, before), along, reverse != late),
                            builder_type(v->b, v->operands[0]));
    }
    if (v->active[1]) v->out[1] = g;
}
static void jvp_recurrence(struct jvp *j)
{
    uint32_t along = dim_of(j->attrs);
    bool reverse = is_reverse(j->attrs), late = is_late(j->attrs);
    val term = j->tangents[1];
    if (j->tangents[0] != VAL_NONE) {
        val factor = late ? shifted(j->b, j->tangents[0], along, reverse, 0) : j->tangents[0];
        val moved = without_end(j->b,
                                emit2(j->b, OP_mul, factor, shifted(j->b, j->results[0], along, reverse, 0)),
                                along, reverse);
        term = term == VAL_NONE ? moved : emit2(j->b, OP_add, moved, term);
    }
    if (term != VAL_NONE) j->out[0] = emit_recurrence(j->b, j->operands[0], term, along, reverse, late);
}

/* ---- batch ---- */

static void batch_steps(struct batch *v)
{
    if (batch_none(v)) return;
    val operands[2];
    for (uint32_t i = 0; i < v->n->n_operands; i++) operands[i] = batch_operand(v, i);
    uint32_t along = dim_of(v->attrs) + 1;
    bool reverse = is_reverse(v->attrs);
    if (v->n->n_operands == 2)
        v->results[0] = emit_recurrence(v->b, operands[0], operands[1], along, reverse, is_late(v->attrs));
    else if (chooses(v->n->op))
        v->results[0] = emit_cumulative_to(
            v->b, (enum op)v->n->op, (enum dtype)type_get(v->b->m, value_type(v->f, v->n->results)).dtype,
            operands[0], along, reverse);
    else v->results[0] = emit_cumulative(v->b, (enum op)v->n->op, operands[0], along, reverse);
}

/* ---- lower ---- */

/* The numbers behind how steps are compiled. */
enum {
    /* steps taken together: three operations an element in place of two, and one operation's latency for four
       elements (65,536 f32: 71 to 32 µs) */
    GROUP_STEPS = 4,
    SMALL_ROW = 128,           /* elements up to which the running values of a row are kept in registers */
    PARALLEL_ELEMENTS = 32768, /* elements below which threads do not pay: a step costs a nanosecond */
    PARALLEL_LINES = 32,       /* lines that are enough for threads */
    LEAST_COLUMNS = 64,        /* that one piece of wide rows has */
    LEAST_STEPS = 8192,        /* that one block of a line has */
    /* steps from which a line is worth cutting: blocks read it twice, so that two threads gain nothing (2^20
       f32 of a recurrence: 0.54 ms in one go, in blocks 0.61 on two threads) and sixteen much */
    LONG_LINE = 1 << 20
};

struct steps {
    struct lower *L;
    const struct fn *f;
    const struct node *n;
    struct type t;
    type_id type;
    uint32_t along;
    enum dtype wide;
    bool reverse, late;
    lpv size, idx[MAX_RANK];
    lpv lo, hi; /* elements of a row that are gone through here */
    struct array to;
};

static void put_step(struct steps *s, lpv k)
{
    struct lp *p = lower_lp(s->L);
    s->idx[s->along] = s->reverse ? lp_bin(p, LP_SUB, lp_bin(p, LP_SUB, s->size, lp_index(p, 1)), k) : k;
}
static lpv operand_at(struct steps *s, uint32_t operand)
{
    return lp_cast(lower_lp(s->L), s->wide, lower_elem(s->L, node_operands(s->f, s->n)[operand], s->idx));
}
static lpv term_at(struct steps *s) { return operand_at(s, s->n->n_operands - 1u); }
/* The factor of the step at s->idx; a late one stands a step before. */
static lpv factor_at(struct steps *s)
{
    struct lp *p = lower_lp(s->L);
    lpv here = s->idx[s->along];
    if (s->late) s->idx[s->along] = lp_bin(p, s->reverse ? LP_ADD : LP_SUB, here, lp_index(p, 1));
    lpv a = operand_at(s, 0);
    s->idx[s->along] = here;
    return a;
}
static lpv multiply_add(struct lp *p, lpv a, lpv x, lpv b)
{
    return scalar_lp(p, OP_add, (lpv[]){ scalar_lp(p, OP_mul, (lpv[]){ a, x }), b });
}

/* What `before` becomes at s->idx (LPV_NONE: there is none). */
static lpv step_value(struct steps *s, lpv before)
{
    struct lp *p = lower_lp(s->L);
    lpv x = term_at(s);
    if (before == LPV_NONE) return x;
    if (s->n->n_operands == 1) return scalar_lp(p, combine((enum op)s->n->op), (lpv[]){ before, x });
    return multiply_add(p, factor_at(s), before, x);
}

static void store_step(struct steps *s, lpv y)
{
    struct lp *p = lower_lp(s->L);
    lp_store(p, s->to.buffer, lp_bin(p, LP_ADD, s->to.at, lower_flatten(s->L, s->type, s->idx)),
             lp_cast(p, (enum dtype)s->t.dtype, y));
}

/* Steps lo to hi one after the other; the first of all has nothing before it. */
static void single_steps(struct steps *s, uint32_t acc, lpv lo, lpv hi, bool first)
{
    struct lp *p = lower_lp(s->L);
    put_step(s, lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_SERIAL));
    lpv y = step_value(s, first ? LPV_NONE : lp_read(p, acc));
    lp_set(p, acc, y);
    store_step(s, y);
    lp_for_end(p);
}

static lpv is_finite(struct lp *p, lpv x)
{
    enum dtype t = lp_dtype(p, x);
    return lp_bin(p, LP_LE, lp_un(p, LP_ABS, x),
                  lp_real(p, t, t == DT_F64 ? 0x1.fffffffffffffp1023 : 0x1.fffffep127));
}
/* Are all of y finite? What is not shows in their sum; a sum that overflows by itself says no as well, which
 * only costs a detour. */
static lpv all_finite(struct lp *p, const lpv y[GROUP_STEPS])
{
    lpv sum[GROUP_STEPS];
    memcpy(sum, y, sizeof sum);
    for (uint32_t n = GROUP_STEPS / 2; n; n /= 2)
        for (uint32_t k = 0; k < n; k++) sum[k] = lp_bin(p, LP_ADD, sum[2 * k], sum[2 * k + 1]);
    return is_finite(p, sum[0]);
}

static bool is_linear(const struct steps *s) { return s->n->n_operands == 2; }
static enum op step_op(const struct steps *s) { return is_linear(s) ? OP_add : combine((enum op)s->n->op); }
/* Is the result the same in whatever order steps are put together? */
static bool is_exact(const struct steps *s)
{
    return !dtype_is_float(s->wide) || step_op(s) == OP_max || step_op(s) == OP_min;
}

/* GROUP_STEPS steps from `start` on. What they make of a value c before them needs no c: after step j it is
 * a[j]·c + b[j], or c combined with b[j]. */
struct group {
    lpv start, factor[GROUP_STEPS], term[GROUP_STEPS], a[GROUP_STEPS], b[GROUP_STEPS];
};
static struct group group_at(struct steps *s, lpv start)
{
    struct lp *p = lower_lp(s->L);
    struct group g = { .start = start };
    bool linear = is_linear(s);
    for (uint32_t j = 0; j < GROUP_STEPS; j++) {
        put_step(s, lp_bin(p, LP_ADD, start, lp_index(p, j)));
        g.term[j] = term_at(s);
        if (linear) g.factor[j] = factor_at(s);
        if (!j) g.b[j] = g.term[j];
        else if (linear) g.b[j] = multiply_add(p, g.factor[j], g.b[j - 1], g.term[j]);
        else g.b[j] = scalar_lp(p, step_op(s), (lpv[]){ g.b[j - 1], g.term[j] });
        if (linear) g.a[j] = j ? scalar_lp(p, OP_mul, (lpv[]){ g.factor[j], g.a[j - 1] }) : g.factor[j];
    }
    return g;
}
static lpv after_group(struct steps *s, const struct group *g, uint32_t j, lpv c)
{
    struct lp *p = lower_lp(s->L);
    if (is_linear(s)) return multiply_add(p, g->a[j], c, g->b[j]);
    return scalar_lp(p, step_op(s), (lpv[]){ c, g->b[j] });
}

/* A group as the definition has it. */
static void group_step_by_step(struct steps *s, const struct group *g, uint32_t acc, lpv before)
{
    struct lp *p = lower_lp(s->L);
    for (uint32_t j = 0; j < GROUP_STEPS; j++) {
        put_step(s, lp_bin(p, LP_ADD, g->start, lp_index(p, j)));
        if (is_linear(s)) before = multiply_add(p, g->factor[j], before, g->term[j]);
        else before = scalar_lp(p, step_op(s), (lpv[]){ before, g->term[j] });
        store_step(s, before);
    }
    lp_set(p, acc, before);
}

/* The loop over the groups of steps from `first` to hi; *rest is where it ends. */
static lpv groups_begin(struct steps *s, lpv first, lpv hi, lpv *rest)
{
    struct lp *p = lower_lp(s->L);
    lpv width = lp_index(p, GROUP_STEPS);
    lpv groups = lp_bin(p, LP_MAX, lp_bin(p, LP_FLOORDIV, lp_bin(p, LP_SUB, hi, first), width),
                        lp_index(p, 0));
    *rest = lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, groups, width), first);
    lpv k = lp_for_begin(p, lp_index(p, 0), groups, lp_index(p, 1), FOR_SERIAL);
    return lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, k, width), first);
}

/* Default numbers: GROUP_STEPS steps at once, so the maps of several groups are made at the same time and one
 * group waits for the one before it for a single operation. A group with a result that is not finite goes
 * step by step: products of factors that overflow are none of the definition's numbers, and its steps never
 * lead back from infinity. Nothing that is not finite can hide: whatever is so in a, b or c shows in the last
 * result. */
static lpv grouped_steps(struct steps *s, uint32_t acc, lpv first, lpv hi)
{
    struct lp *p = lower_lp(s->L);
    lpv y[GROUP_STEPS], rest, start = groups_begin(s, first, hi, &rest), c = lp_read(p, acc);
    struct group g = group_at(s, start);
    for (uint32_t j = 0; j < GROUP_STEPS; j++) y[j] = after_group(s, &g, j, c);
    lp_set(p, acc, y[GROUP_STEPS - 1]);
    for (uint32_t j = 0; j < GROUP_STEPS; j++) {
        put_step(s, lp_bin(p, LP_ADD, start, lp_index(p, j)));
        store_step(s, y[j]);
    }
    if (!is_exact(s)) {
        lp_if_begin(p, all_finite(p, y));
        lp_if_else(p);
        group_step_by_step(s, &g, acc, c);
        lp_if_end(p);
    }
    lp_for_end(p);
    return rest;
}

/* One element a step, from the steps lo to hi: a running value at hand. `first`: steps that have nothing
 * before them, 0 or 1. */
static void running_steps(struct steps *s, uint32_t acc, lpv lo, lpv hi, lpv first)
{
    struct lp *p = lower_lp(s->L);
    lpv from = lp_bin(p, LP_ADD, lo, first);
    single_steps(s, acc, lo, lp_bin(p, LP_MIN, from, hi), true);
    if (!p->regime.strict && dtype_is_float(s->wide)) from = grouped_steps(s, acc, from, hi);
    single_steps(s, acc, from, hi, false);
}

static void steps_along_rows(struct steps *s)
{
    struct lp *p = lower_lp(s->L);
    lpv zero = lp_index(p, 0);
    for (uint32_t d = s->along + 1; d < s->t.rank; d++) s->idx[d] = zero;
    uint32_t acc = lp_local(p, s->wide, LOCAL_SCALAR, "running");
    lp_set(p, acc, lp_const_bits(p, s->wide, 0)); /* replaced by the first element, if there is one */
    running_steps(s, acc, zero, s->size, lp_index(p, 1));
}

/* Rows of several elements: whole rows side by side. What was before is the row before in the result, or in
 * memory of its own where that is too narrow, or so small that it is registers. */
static void steps_of_rows(struct steps *s, bool held)
{
    struct lp *p = lower_lp(s->L);
    lpv zero = lp_index(p, 0), one = lp_index(p, 1);
    type_id row_type = type_intern(lower_module(s->L), s->wide, s->t.rank - 1u - s->along,
                                   s->t.dims + s->along + 1);
    struct array row = { HOP_NONE, LPV_NONE };
    if (held) row = lower_alloc(s->L, row_type, "running values");
    for (int rest = 0; rest < 2; rest++) {
        put_step(s, rest ? lp_for_begin(p, one, s->size, one, FOR_SERIAL)
                         : lp_for_begin(p, zero, lp_bin(p, LP_MIN, one, s->size), one, FOR_SERIAL));
        lpv i = lp_for_begin(p, s->lo, s->hi, one, FOR_VECTOR);
        lpv before = LPV_NONE;
        lower_unflatten(s->L, row_type, i, s->idx + s->along + 1);
        if (rest && held) before = lp_load(p, row.buffer, lp_bin(p, LP_ADD, row.at, i));
        else if (rest) {
            lpv at = s->idx[s->along];
            s->idx[s->along] = lp_bin(p, s->reverse ? LP_ADD : LP_SUB, at, one);
            before = lp_load(p, s->to.buffer,
                             lp_bin(p, LP_ADD, s->to.at, lower_flatten(s->L, s->type, s->idx)));
            s->idx[s->along] = at;
        }
        lpv y = step_value(s, before);
        if (held) lp_store(p, row.buffer, lp_bin(p, LP_ADD, row.at, i), y);
        store_step(s, y);
        lp_for_end(p);
        lp_for_end(p);
    }
}

/* ---- one line on threads ---- */

/* What the steps lo to hi do to a value before them: nothing but the number that they add (or multiply, or
 * compare with), or a factor and a term. */
static void block_total(struct steps *s, lpv lo, lpv hi, uint32_t factor, uint32_t term)
{
    struct lp *p = lower_lp(s->L);
    lpv rest, start = groups_begin(s, lo, hi, &rest);
    struct group g = group_at(s, start);
    for (int single = 0; single < 2; single++) {
        uint32_t last = single ? 0 : GROUP_STEPS - 1;
        lp_set(p, term, after_group(s, &g, last, lp_read(p, term)));
        if (is_linear(s)) lp_set(p, factor, scalar_lp(p, OP_mul, (lpv[]){ g.a[last], lp_read(p, factor) }));
        lp_for_end(p);
        if (single) break;
        lpv k = lp_for_begin(p, rest, hi, lp_index(p, 1), FOR_SERIAL);
        put_step(s, k);
        g.b[0] = term_at(s);
        if (is_linear(s)) g.a[0] = factor_at(s);
    }
}

/* A number that changes nothing it is combined with. */
static lpv neutral(struct steps *s)
{
    struct lp *p = lower_lp(s->L);
    bool real = dtype_is_float(s->wide);
    switch (step_op(s)) {
    case OP_add: return real ? lp_real(p, s->wide, -0.0) : lp_int(p, s->wide, 0);
    case OP_mul: return lp_int(p, s->wide, 1);
    case OP_max: return real ? lp_real(p, s->wide, -1.0 / 0.0) : lp_int(p, s->wide, dtype_least(s->wide));
    default:
        if (s->wide == DT_U64) return lp_int(p, s->wide, -1);
        return real ? lp_real(p, s->wide, 1.0 / 0.0) : lp_int(p, s->wide, dtype_most(s->wide));
    }
}

/* Before each block: what the blocks before it lead to. Leaves in `fine` whether all of it is finite. */
static void block_carries(struct steps *s, const struct blocks *b, struct array factors, struct array terms,
                          uint32_t fine)
{
    struct lp *p = lower_lp(s->L);
    uint32_t carry = lp_local(p, s->wide, LOCAL_SCALAR, "carry");
    lp_set(p, fine, lp_int(p, DT_BOOL, 1));
    lp_set(p, carry, neutral(s));
    lpv k = lp_for_begin(p, lp_index(p, 0), b->count, lp_index(p, 1), FOR_SERIAL);
    lpv before = lp_read(p, carry), term = lp_load(p, terms.buffer, k), after;
    if (is_linear(s)) {
        after = multiply_add(p, lp_load(p, factors.buffer, k), before, term);
        after = lp_select(p, lp_bin(p, LP_EQ, k, lp_index(p, 0)), term, after); /* it begins with nothing */
    } else after = scalar_lp(p, step_op(s), (lpv[]){ before, term });
    lp_store(p, terms.buffer, k, before);
    lp_set(p, carry, after);
    if (!is_exact(s)) lp_set(p, fine, lp_bin(p, LP_AND, lp_read(p, fine), is_finite(p, after)));
    lp_for_end(p);
}

/* A long line in blocks: what each does to a value before it, then what is before each, then all steps.
 * Numbers that are not finite go the one way from the first step to the last. */
static void steps_in_blocks(struct steps *s)
{
    struct lp *p = lower_lp(s->L);
    lpv lo, hi, zero = lp_index(p, 0);
    struct blocks b = lower_blocks(s->L, s->size, LEAST_STEPS);
    struct array factors = { HOP_NONE, LPV_NONE };
    struct array terms = lower_block_memory(s->L, s->wide, 1, "what blocks of steps lead to");
    if (is_linear(s)) factors = lower_block_memory(s->L, s->wide, 1, "factors of blocks of steps");
    for (uint32_t d = 0; d < s->t.rank; d++) s->idx[d] = zero; /* the other dims are 1 */
    uint32_t factor = is_linear(s) ? lp_local(p, s->wide, LOCAL_SCALAR, "factor") : HOP_NONE;
    uint32_t term = lp_local(p, s->wide, LOCAL_SCALAR, "term");
    uint32_t fine = lp_local(p, DT_BOOL, LOCAL_SCALAR, "fine");
    uint32_t acc = lp_local(p, s->wide, LOCAL_SCALAR, "running");
    lp_set(p, fine, lp_int(p, DT_BOOL, 0));
    lp_if_begin(p, lp_bin(p, LP_GE, s->size, lp_index(p, lower_large(LONG_LINE))));
    lpv block = lower_block_begin(s->L, &b, &lo, &hi);
    lpv none = lp_select(p, lp_bin(p, LP_EQ, block, zero), lp_index(p, 1),
                         zero); /* nothing before its first */
    lp_set(p, term, neutral(s));
    if (is_linear(s)) {
        lp_set(p, factor, lp_int(p, s->wide, 1));
        put_step(s, lp_for_begin(p, lo, lp_bin(p, LP_MIN, lp_bin(p, LP_ADD, lo, none), hi), lp_index(p, 1),
                                 FOR_SERIAL));
        lp_set(p, term, term_at(s));
        lp_for_end(p);
        lo = lp_bin(p, LP_ADD, lo, none);
    }
    block_total(s, lo, hi, factor, term);
    lp_store(p, terms.buffer, block, lp_read(p, term));
    if (is_linear(s)) lp_store(p, factors.buffer, block, lp_read(p, factor));
    lp_for_end(p);
    block_carries(s, &b, factors, terms, fine);
    lp_if_end(p);
    lp_if_begin(p, lp_read(p, fine));
    block = lower_block_begin(s->L, &b, &lo, &hi);
    lp_set(p, acc, lp_load(p, terms.buffer, block));
    none = lp_select(p, lp_bin(p, LP_EQ, block, zero), lp_index(p, 1), zero);
    running_steps(s, acc, lo, hi, none);
    lp_for_end(p);
    lp_if_else(p);
    steps_along_rows(s);
    lp_if_end(p);
}

/* ---- which way ---- */

/* Wide rows in pieces of columns, on threads. */
static struct blocks pieces_of_columns(struct steps *s, lpv row)
{
    struct lp *p = lower_lp(s->L);
    lpv sixteen = lp_index(p, 16), over = lp_index(p, 16 * (int64_t)LOWER_BLOCKS);
    lpv share = lp_bin(p, LP_FLOORDIV, lp_bin(p, LP_ADD, row, lp_bin(p, LP_SUB, over, lp_index(p, 1))), over);
    lpv size = lp_bin(p, LP_MAX, lp_index(p, LEAST_COLUMNS), lp_bin(p, LP_MUL, share, sixteen));
    return lower_pieces(s->L, row, size);
}

/* The lines in front of the dim, one after the other or, `threads`, on threads. How many loops are opened. */
static uint32_t lines_begin(struct steps *s, bool threads)
{
    struct lp *p = lower_lp(s->L);
    type_id lines = type_intern(lower_module(s->L), DT_BOOL, s->along, s->t.dims);
    lpv count = lower_dim(s->L, type_elements(lower_module(s->L), lines)), zero = lp_index(p, 0);
    if (!threads)
        for (uint32_t d = 0; d < s->along; d++)
            s->idx[d] = lp_for_begin(p, zero, lower_dim(s->L, s->t.dims[d]), lp_index(p, 1), FOR_SERIAL);
    else lower_unflatten(s->L, lines, lp_for_begin(p, zero, count, lp_index(p, 1), FOR_PARALLEL), s->idx);
    return threads ? 1 : s->along;
}

static void block_steps(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    const struct attr *attrs = node_attr(f, n, 0);
    struct steps s = { .L = L,
                       .f = f,
                       .n = n,
                       .type = value_type(f, n->results),
                       .along = dim_of(attrs),
                       .reverse = is_reverse(attrs),
                       .late = n->n_operands == 2 && is_late(attrs) };
    s.t = type_get(m, s.type);
    s.wide = node_accumulator(m, f, n);
    s.size = lower_dim(L, s.t.dims[s.along]);
    s.to = lower_result(L, n, 0);
    dim inner = 1, outer = 1;
    int64_t least, most, lines, least_row, row;
    for (uint32_t d = s.along + 1; d < s.t.rank; d++) inner = dim_mul(m, inner, s.t.dims[d]);
    for (uint32_t d = 0; d < s.along; d++) outer = dim_mul(m, outer, s.t.dims[d]);
    dim_range(m, f->symbols, type_elements(m, s.type), &least, &most);
    dim_range(m, f->symbols, outer, &least, &lines);
    dim_range(m, f->symbols, inner, &least_row, &row);
    bool small = dim_is_const(m, inner) && dim_const_value(m, inner) <= SMALL_ROW;
    bool held = small || s.wide != s.t.dtype;
    bool threads = most >= PARALLEL_ELEMENTS && lower_may_thread(L), few = lines < PARALLEL_LINES;
    bool in_columns = threads && few && !small && inner != 1;
    bool in_blocks = threads && outer == 1 && inner == 1 && (is_exact(&s) || !p->regime.strict) &&
                     most >= lower_large(LONG_LINE);
    bool one_row = held && !small; /* held in memory: one for all lines */
    if (in_blocks) {
        steps_in_blocks(&s);
        return;
    }
    s.lo = lp_index(p, 0);
    s.hi = lower_dim(L, inner);
    struct blocks columns = pieces_of_columns(&s, s.hi);
    if (in_columns) lower_block_begin(L, &columns, &s.lo, &s.hi);
    uint32_t loops = lines_begin(&s, threads && !in_columns && !one_row && s.along) + in_columns;
    if (inner == 1) steps_along_rows(&s);
    else steps_of_rows(&s, held);
    for (uint32_t d = 0; d < loops; d++) lp_for_end(p);
}

/* One element a step: not vector code. */
static bool single_elements(struct module *m, const struct fn *f, const struct node *n)
{
    struct type t = type_get(m, value_type(f, n->results));
    dim inner = 1;
    for (uint32_t d = dim_of(node_attr(f, n, 0)) + 1; d < t.rank; d++) inner = dim_mul(m, inner, t.dims[d]);
    return inner == 1;
}
static uint8_t use_steps(const struct fn *f, const struct node *n, uint32_t i)
{
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    HOP_UNUSED(i);
    return USE_ONCE;
}

/* ---- logcumsumexp ---- */

static void infer_logcumsumexp(struct infer *in)
{
    struct type t = infer_type(in, 0);
    infer_one_dim(in, &in->attrs[CUMULATIVE_DIM], t.rank, "dim");
    if (!dtype_is_float((enum dtype)t.dtype))
        infer_error(in, "expected floats, found %s", infer_text(in, in->operands[0]));
    infer_result(in, in->operands[0]);
}

/* Sums of exp(x - m) with m the largest so far: s_k = s_{k-1}·exp(m_{k-1} - m_k) + exp(x_k - m_k) is between
 * 1 and k+1, and log s + m the result. Where m is infinite, nothing is taken off; where nothing but -inf was
 * before, nothing is carried on. */
static void expand_logcumsumexp(struct expand *e)
{
    struct builder *b = e->b;
    val x = e->operands[0], zero = emit_full_like(b, x, 0), low = emit_full_like(b, x, -1.0 / 0.0);
    uint32_t along = dim_of(e->attrs);
    bool reverse = is_reverse(e->attrs);
    val m = emit_cumulative(b, OP_cummax, emit1(b, OP_stop_gradient, x), along, reverse);
    val base = emit_select(b, emit2(b, OP_eq, emit1(b, OP_abs, m), emit_full_like(b, x, 1.0 / 0.0)), zero, m);
    val carried = emit1(b, OP_exp, emit2(b, OP_sub, shifted(b, base, along, reverse, 0), base));
    val factor = emit_select(b, emit2(b, OP_eq, shifted(b, m, along, reverse, -1.0 / 0.0), low), zero,
                             carried);
    val s = emit_recurrence(b, factor, emit1(b, OP_exp, emit2(b, OP_sub, x, base)), along, reverse, false);
    val none = emit2(b, OP_eq, s, zero);
    e->out[0] = emit_select(b, none, low,
                            emit2(b, OP_add,
                                  emit1(b, OP_log, emit_select(b, none, emit_full_like(b, x, 1), s)), base));
}

/* ---- rows ---- */

static const struct attr_spec cumulative_attrs[] = {
    [CUMULATIVE_DIM] = { "dim", ATTR_INT, false, NULL },
    [CUMULATIVE_REVERSE] = { "reverse", ATTR_FLAG, false, NULL },
    [CUMULATIVE_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL },
};
enum { ATTRS_CHOOSES = CUMULATIVE_ATTRS, ATTRS_KEEPS = CUMULATIVE_DTYPE }; /* with a dtype, without */
static const struct attr_spec recurrence_attrs[] = {
    [CUMULATIVE_DIM] = { "dim", ATTR_INT, false, NULL },
    [CUMULATIVE_REVERSE] = { "reverse", ATTR_FLAG, false, NULL },
    [RECURRENCE_LATE] = { "late", ATTR_FLAG, false, NULL },
};
static const struct op_lower lower_steps = { .kind = LOWER_BLOCK,
                                             .access = ACCESS_SAME,
                                             .cost = COST_EXPENSIVE,
                                             .block = block_steps,
                                             .operand_use = use_steps,
                                             .one_by_one = single_elements };

#define SAMPLE_TO(op, symbols, type, attrs, to) \
    { "hop 1\nfn @sample" symbols "(%x: " type ") -> (" to ") {\n  %y = " op attrs \
      " (%x)\n  return %y\n}\n", \
      NULL }
#define SAMPLE(op, symbols, type, attrs) SAMPLE_TO(op, symbols, type, attrs, type)
#define FLOAT_SAMPLES(op) \
    SAMPLE(op, "", "f32[21]", ""), SAMPLE(op, "", "f64[7]", " {reverse}"), \
        SAMPLE(op, "", "f32[3, 5]", " {dim = 1}"), SAMPLE(op, "", "f64[4, 3]", " {reverse}"), \
        SAMPLE(op, "[T]", "f32[2, T, 19]", " {dim = 1}"), \
        SAMPLE(op, "[T]", "f64[T, 2]", " {dim = 1, reverse}"), SAMPLE(op, "", "f32[1]", ""), \
        SAMPLE(op, "", "f32[0, 3]", ""), SAMPLE(op, "", "f32[3, 0]", "")
#define NUMBER_SAMPLES(op) \
    FLOAT_SAMPLES(op), SAMPLE(op, "", "i32[5]", ""), SAMPLE(op, "", "u32[3, 4]", ""), \
        SAMPLE(op, "", "i64[2, 9]", " {dim = 1, reverse}"), SAMPLE(op, "", "f16[9]", ""), \
        SAMPLE(op, "", "bf16[5, 3]", " {reverse}"), SAMPLE(op, "", "u8[7]", ""), \
        SAMPLE(op, "", "i16[2, 3]", " {dim = 1}")
#define CHOSEN_SAMPLES(op) \
    NUMBER_SAMPLES(op), SAMPLE_TO(op, "", "i8[40]", " {dtype = i32}", "i32[40]"), \
        SAMPLE_TO(op, "", "bool[3, 5]", " {dim = 1, dtype = u8}", "u8[3, 5]"), \
        SAMPLE_TO(op, "", "bf16[5, 4]", " {reverse, dtype = f32}", "f32[5, 4]"), \
        SAMPLE_TO(op, "[M, N]", "f32[M, N]", " {dim = 1, dtype = f64}", "f64[M, N]"), \
        SAMPLE_TO(op, "", "f64[7, 2]", " {dtype = bf16}", "bf16[7, 2]"), \
        SAMPLE_TO(op, "", "f64[9]", " {reverse, dtype = f32}", "f32[9]"), \
        SAMPLE_TO(op, "", "u16[4, 200]", " {dtype = f16}", "f16[4, 200]")

#define CUMULATIVE_ROW(op, text, class, list, n, ...) \
    static const struct op_sample samples_##op[] = { list(#op) }; \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { 1, 1, .n_attrs = ATTRS_##n, .attrs = cumulative_attrs }, \
                                     .infer = infer_cumulative, \
                                     .eval = eval_steps, \
                                     .batch = batch_steps, \
                                     .lower = &lower_steps, \
                                     .autocast = AUTOCAST_##class, \
                                     ROW_SAMPLES(samples_##op), \
                                     __VA_ARGS__ };
CUMULATIVE_ROW(cumsum,
               "running sums along a dim (absent: 0), from its end with reverse. dtype: what is added up and "
               "given (absent: the operand's)",
               F32, CHOSEN_SAMPLES, CHOOSES, .vjp = vjp_cumsum, .jvp = jvp_cumsum)
CUMULATIVE_ROW(cumprod,
               "running products along a dim (absent: 0), from its end with reverse. dtype: as for cumsum",
               F32, CHOSEN_SAMPLES, CHOOSES, .vjp = vjp_cumprod, .jvp = jvp_cumprod)
CUMULATIVE_ROW(cummax,
               "the largest so far along a dim (absent: 0), NaN from the first NaN on; the derivative goes "
               "to the first of equals",
               KEEP, NUMBER_SAMPLES, KEEPS, .vjp = vjp_extreme, .jvp = jvp_extreme, .range = range_of_operand)
CUMULATIVE_ROW(cummin,
               "the smallest so far along a dim (absent: 0), NaN from the first NaN on; the derivative goes "
               "to the first of equals",
               KEEP, NUMBER_SAMPLES, KEEPS, .vjp = vjp_extreme, .jvp = jvp_extreme, .range = range_of_operand)

#define SAMPLE2(symbols, type, attrs) \
    { "hop 1\nfn @sample" symbols "(%a: " type ", %b: " type ") -> (" type ") {\n  %y = recurrence" attrs \
      " (%a, %b)\n  return %y\n}\n", \
      NULL }
static const struct op_sample samples_recurrence[] = {
    SAMPLE2("", "f32[21]", ""),
    SAMPLE2("", "f64[7]", " {reverse}"),
    SAMPLE2("", "f32[3, 5]", " {dim = 1}"),
    SAMPLE2("", "f64[4, 3]", " {reverse}"),
    SAMPLE2("", "f64[9]", " {late}"),
    SAMPLE2("[T]", "f64[2, T]", " {dim = 1, reverse, late}"),
    SAMPLE2("", "f32[6, 3]", " {late}"),
    SAMPLE2("", "f16[7]", " {reverse, late}"),
    SAMPLE2("[T]", "f32[2, T, 19]", " {dim = 1}"),
    SAMPLE2("", "f32[1]", ""),
    SAMPLE2("", "f32[0, 3]", ""),
    SAMPLE2("", "i32[5]", ""),
};
const struct op_row row_recurrence = {
    .name = "recurrence",
    .meaning = "s = a·s + b along a dim (absent: 0), from its end with reverse; the first s is the first b; "
               "late: with the a of the step before",
    .sig = { 2, 2, ROW_ATTRS(recurrence_attrs) },
    .infer = infer_recurrence,
    .eval = eval_steps,
    .vjp = vjp_recurrence,
    .jvp = jvp_recurrence,
    .batch = batch_steps,
    .lower = &lower_steps,
    .autocast = AUTOCAST_F32,
    ROW_SAMPLES(samples_recurrence),
};

static const struct op_sample samples_logcumsumexp[] = { FLOAT_SAMPLES("logcumsumexp") };
const struct op_row row_logcumsumexp = {
    .name = "logcumsumexp",
    .meaning = "the logarithm of running sums of exp(x) along a dim (absent: 0), without overflow; from its "
               "end with reverse",
    .sig = { 1, 1, .n_attrs = ATTRS_KEEPS, .attrs = cumulative_attrs },
    .infer = infer_logcumsumexp,
    .expand = expand_logcumsumexp,
    .autocast = AUTOCAST_F32,
    ROW_SAMPLES(samples_logcumsumexp),
};
