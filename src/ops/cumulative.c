/* Rows that run along a dim and keep every step: cumsum cumprod cummax cummin, the linear recurrence s = a·s + b that is closed under differentiation, and
 * logcumsumexp made of them. One pass, element after element, in the order of the dim or, with `reverse`, from its end; the first element stands as it is. */
#include "ops/indexkit.h"
#include "ops/scalar_c.h"
#include "ops/scalar_lp.h"

static enum op combine(enum op op) { return op == OP_cumsum ? OP_add : op == OP_cumprod ? OP_mul : op == OP_cummax ? OP_max : OP_min; }
static bool is_reverse(const struct attr *a) { return a[CUMULATIVE_REVERSE].kind != ATTR_ABSENT && a[CUMULATIVE_REVERSE].i; }
static uint32_t dim_of(const struct attr *a) { return attr_dim_or_zero(&a[CUMULATIVE_DIM]); }

/* ---- infer ---- */

static void infer_cumulative(struct infer *in)
{
    struct type t = infer_type(in, 0);
    infer_one_dim(in, &in->attrs[CUMULATIVE_DIM], t.rank, "dim");
    if (!scalar_c_defined(combine((enum op)in->op), (enum dtype)t.dtype)) infer_error(in, "expected numbers, found %s", infer_text(in, in->operands[0]));
    infer_result(in, in->operands[0]);
}

static void infer_recurrence(struct infer *in)
{
    struct type t = infer_type(in, 0);
    infer_one_dim(in, &in->attrs[CUMULATIVE_DIM], t.rank, "dim");
    if (!scalar_c_defined(OP_mul, (enum dtype)t.dtype)) infer_error(in, "expected numbers, found %s", infer_text(in, in->operands[0]));
    infer_same_type(in, in->operands[0], in->operands[1], "operand 1 (terms)");
    infer_result(in, in->operands[1]);
}

/* ---- eval ---- */

/* Steps along the dim over rows of what stands behind it. Sums and products are kept in the accumulator's dtype and rounded where they are stored. */
static void eval_steps(struct eval *e)
{
    const struct tensor *x = e->operands[0], *y = e->results[0];
    const struct attr *attrs = node_attr(e->f, e->n, 0);
    uint32_t along = dim_of(attrs), n_operands = e->n->n_operands;
    bool reverse = is_reverse(attrs);
    enum dtype t = (enum dtype)x->dtype, wide = dtype_accumulator(t);
    int64_t outer = 1, inner = 1, n = x->dims[along];
    for (uint32_t d = 0; d < along; d++) outer *= x->dims[d];
    for (uint32_t d = along + 1; d < x->rank; d++) inner *= x->dims[d];
    if (!x->count) return;
    scalar_kernel step = scalar_c_kernel(n_operands == 2 ? OP_mul : combine((enum op)e->n->op), wide), plus = scalar_c_kernel(OP_add, wide);
    scalar_kernel widen = scalar_c_cast(t, wide), narrow = scalar_c_cast(wide, t); /* copies where they are the same */
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    size_t bytes = (size_t)inner * dtype_info[wide].size;
    char *row = arena_alloc(&arena, bytes), *other = arena_alloc(&arena, bytes), *acc = arena_alloc(&arena, bytes);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < n; k++) {
            size_t at = (size_t)((o * n + (reverse ? n - 1 - k : k)) * inner) * tensor_width(x);
            widen(inner, row, (const void *const[]){ (const char *)e->operands[n_operands - 1]->data + at });
            if (!k) memcpy(acc, row, bytes);
            else if (n_operands == 1) step(inner, acc, (const void *const[]){ acc, row });
            else {
                widen(inner, other, (const void *const[]){ (const char *)x->data + at });
                step(inner, acc, (const void *const[]){ other, acc });
                plus(inner, acc, (const void *const[]){ acc, row });
            }
            narrow(inner, (char *)y->data + at, (const void *const[]){ acc });
        }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* ---- derivatives ---- */

/* v one step later along the dim: place k holds what place k-1 held (in the direction of the steps), the first one `first`. */
static val shifted(struct builder *b, val v, uint32_t along, bool reverse, double first)
{
    struct type t = emit_type(b, v);
    dim zeros[MAX_RANK] = { 0 }, one[MAX_RANK] = { 0 }, start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    one[along] = 1;
    if (reverse) start[along] = 1, limit[along] = dim_add(b->m, t.dims[along], 1);
    struct attr a[3] = { reverse ? A_DIMS(zeros, t.rank) : A_DIMS(one, t.rank), reverse ? A_DIMS(one, t.rank) : A_DIMS(zeros, t.rank), A_NONE };
    val padded = emit(b, OP_pad, (val[]){ v, emit_full(b, (enum dtype)t.dtype, first, 0, NULL) }, 2, a);
    return emit_as(b, emit_slice(b, padded, start, limit), builder_type(b, v));
}

static val emit_cumulative(struct builder *b, enum op op, const val *operands, uint32_t n, uint32_t along, bool reverse)
{
    struct attr a[2] = { A_INT(along), A_FLAG(reverse) };
    return emit(b, op, operands, n, a);
}
static val emit_recurrence(struct builder *b, val factors, val terms, uint32_t along, bool reverse)
{
    return emit_cumulative(b, OP_recurrence, (val[]){ factors, terms }, 2, along, reverse);
}

static void vjp_cumsum(struct vjp *v) { v->out[0] = emit_cumulative(v->b, OP_cumsum, &v->ct[0], 1, dim_of(v->attrs), !is_reverse(v->attrs)); }
static void jvp_cumsum(struct jvp *j)
{
    if (j->tangents[0] != VAL_NONE) j->out[0] = emit_same(j->b, j->n, j->tangents[0], j->attrs);
}

/* dx_k = (product of those before) · s_k with s_k = ct_k + x_{k+1}·s_{k+1}: nothing is divided, so zeros are no exception. */
static void vjp_cumprod(struct vjp *v)
{
    uint32_t along = dim_of(v->attrs);
    bool reverse = is_reverse(v->attrs);
    val s = emit_recurrence(v->b, shifted(v->b, v->operands[0], along, !reverse, 0), v->ct[0], along, !reverse);
    v->out[0] = emit2(v->b, OP_mul, shifted(v->b, v->results[0], along, reverse, 1), s);
}
static void jvp_cumprod(struct jvp *j)
{
    if (j->tangents[0] == VAL_NONE) return;
    uint32_t along = dim_of(j->attrs);
    bool reverse = is_reverse(j->attrs);
    val term = emit2(j->b, OP_mul, j->tangents[0], shifted(j->b, j->results[0], along, reverse, 1));
    j->out[0] = emit_recurrence(j->b, j->operands[0], term, along, reverse);
}

/* i64 like x: where the extreme of the elements so far stands, the first of equals. A place is new when it beats what was there before it. */
static val winners(struct builder *b, enum op op, val x, val y, uint32_t along, bool reverse)
{
    struct type t = emit_type(b, x);
    bool max = op == OP_cummax;
    val before = shifted(b, y, along, reverse, max ? -1.0 / 0.0 : 1.0 / 0.0), at = emit_iota(b, t.rank, t.dims, along);
    val stays = emit2(b, OP_or, emit2(b, max ? OP_ge : OP_le, before, x), emit2(b, OP_ne, before, before));
    val none = reverse ? emit_dim_full(b, dim_sub(b->m, t.dims[along], 1), t.rank, t.dims) : emit_dim_full(b, 0, t.rank, t.dims);
    val fresh = emit_select(b, stays, none, at);
    return emit_cumulative(b, reverse ? OP_cummin : OP_cummax, &fresh, 1, along, reverse);
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
    j->out[0] = emit_take_along(j->b, j->tangents[0], winners(j->b, (enum op)j->n->op, j->operands[0], j->results[0], along, is_reverse(j->attrs)), along);
}

/* The first factor is not used: whatever is infinite, its derivative is 0. */
static val without_first(struct builder *b, val v, uint32_t along, bool reverse)
{
    struct type t = emit_type(b, v);
    val at = emit_iota(b, t.rank, t.dims, along);
    val first = reverse ? emit_dim_full(b, dim_sub(b->m, t.dims[along], 1), t.rank, t.dims) : emit_dim_full(b, 0, t.rank, t.dims);
    return emit_select(b, emit2(b, OP_eq, at, first), emit_full_like(b, v, 0), v);
}
static void vjp_recurrence(struct vjp *v)
{
    uint32_t along = dim_of(v->attrs);
    bool reverse = is_reverse(v->attrs);
    val s = emit_recurrence(v->b, shifted(v->b, v->operands[0], along, !reverse, 0), v->ct[0], along, !reverse);
    if (v->active[0])
        v->out[0] = emit_as(v->b, without_first(v->b, emit2(v->b, OP_mul, s, shifted(v->b, v->results[0], along, reverse, 0)), along, reverse), builder_type(v->b, v->operands[0]));
    if (v->active[1]) v->out[1] = s;
}
static void jvp_recurrence(struct jvp *j)
{
    uint32_t along = dim_of(j->attrs);
    bool reverse = is_reverse(j->attrs);
    val term = j->tangents[1];
    if (j->tangents[0] != VAL_NONE) {
        val moved = without_first(j->b, emit2(j->b, OP_mul, j->tangents[0], shifted(j->b, j->results[0], along, reverse, 0)), along, reverse);
        term = term == VAL_NONE ? moved : emit2(j->b, OP_add, moved, term);
    }
    if (term != VAL_NONE) j->out[0] = emit_recurrence(j->b, j->operands[0], term, along, reverse);
}

/* ---- batch ---- */

static void batch_steps(struct batch *v)
{
    if (batch_none(v)) return;
    val operands[2];
    for (uint32_t i = 0; i < v->n->n_operands; i++) operands[i] = batch_operand(v, i);
    v->results[0] = emit_cumulative(v->b, (enum op)v->n->op, operands, v->n->n_operands, dim_of(v->attrs) + 1, is_reverse(v->attrs));
}

/* ---- lower ---- */

struct steps {
    struct lower *L;
    const struct fn *f;
    const struct node *n;
    struct type t;
    type_id type;
    uint32_t along;
    enum dtype wide;
    bool reverse;
    lpv size, idx[MAX_RANK];
};

/* The step's operands at s->idx put to what there was before (LPV_NONE: nothing). */
static lpv step_value(struct steps *s, lpv before)
{
    struct lp *p = lower_lp(s->L);
    const val *operands = node_operands(s->f, s->n);
    lpv x = lp_cast(p, s->wide, lower_elem(s->L, operands[s->n->n_operands - 1], s->idx));
    if (before == LPV_NONE) return x;
    if (s->n->n_operands == 1) return scalar_lp(p, combine((enum op)s->n->op), (lpv[]){ before, x });
    lpv a = lp_cast(p, s->wide, lower_elem(s->L, operands[0], s->idx));
    return scalar_lp(p, OP_add, (lpv[]){ scalar_lp(p, OP_mul, (lpv[]){ a, before }), x });
}

/* A loop over steps lo to hi; s->idx gets the place of the step. */
static void steps_begin(struct steps *s, lpv lo, lpv hi)
{
    struct lp *p = lower_lp(s->L);
    lpv k = lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_SERIAL);
    s->idx[s->along] = s->reverse ? lp_bin(p, LP_SUB, lp_bin(p, LP_SUB, s->size, lp_index(p, 1)), k) : k;
}

/* The dim is the last one: a running value at hand. */
static void steps_along_rows(struct steps *s, struct array to)
{
    struct lp *p = lower_lp(s->L);
    lpv zero = lp_index(p, 0), one = lp_index(p, 1);
    uint32_t acc = lp_local(p, s->wide, LOCAL_SCALAR, "running");
    lp_set(p, acc, lp_const_bits(p, s->wide, 0)); /* replaced by the first element, if there is one */
    for (int rest = 0; rest < 2; rest++) {
        if (rest) steps_begin(s, one, s->size);
        else steps_begin(s, zero, lp_bin(p, LP_MIN, one, s->size));
        lpv y = step_value(s, rest ? lp_read(p, acc) : LPV_NONE);
        lp_set(p, acc, y);
        lp_store(p, to.buffer, lp_bin(p, LP_ADD, to.at, lower_flatten(s->L, s->type, s->idx)), lp_cast(p, (enum dtype)s->t.dtype, y));
        lp_for_end(p);
    }
}

/* Dims stand behind it: whole rows side by side, what was before is the row before in the result, or in memory of its own where that is too narrow. */
static void steps_of_rows(struct steps *s, struct array to)
{
    struct lp *p = lower_lp(s->L);
    lpv zero = lp_index(p, 0), one = lp_index(p, 1);
    bool own = s->wide != s->t.dtype;
    type_id row_type = type_intern(lower_module(s->L), s->wide, s->t.rank - 1u - s->along, s->t.dims + s->along + 1);
    struct array row = own ? lower_alloc(s->L, row_type, "running values in the accumulator's dtype") : (struct array){ HOP_NONE, LPV_NONE };
    for (int rest = 0; rest < 2; rest++) {
        if (rest) steps_begin(s, one, s->size);
        else steps_begin(s, zero, lp_bin(p, LP_MIN, one, s->size));
        for (uint32_t d = s->along + 1; d < s->t.rank; d++)
            s->idx[d] = lp_for_begin(p, zero, lower_dim(s->L, s->t.dims[d]), one, d + 1u == s->t.rank ? FOR_VECTOR : FOR_SERIAL);
        lpv place = lp_bin(p, LP_ADD, to.at, lower_flatten(s->L, s->type, s->idx)), before = LPV_NONE, here = LPV_NONE;
        if (own) here = lp_bin(p, LP_ADD, row.at, lower_flatten(s->L, row_type, s->idx + s->along + 1));
        if (rest && own) before = lp_load(p, row.buffer, here);
        else if (rest) {
            lpv at = s->idx[s->along];
            s->idx[s->along] = lp_bin(p, s->reverse ? LP_ADD : LP_SUB, at, one);
            before = lp_load(p, to.buffer, lp_bin(p, LP_ADD, to.at, lower_flatten(s->L, s->type, s->idx)));
            s->idx[s->along] = at;
        }
        lpv y = step_value(s, before);
        if (own) lp_store(p, row.buffer, here, y);
        lp_store(p, to.buffer, place, lp_cast(p, (enum dtype)s->t.dtype, y));
        for (uint32_t d = s->along + 1; d < s->t.rank; d++) lp_for_end(p);
        lp_for_end(p);
    }
}

static void block_steps(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct steps s = { .L = L, .f = f, .n = n, .type = value_type(f, n->results), .along = dim_of(node_attr(f, n, 0)), .reverse = is_reverse(node_attr(f, n, 0)) };
    s.t = type_get(lower_module(L), s.type);
    s.wide = dtype_accumulator((enum dtype)s.t.dtype);
    s.size = lower_dim(L, s.t.dims[s.along]);
    struct array to = lower_result(L, n, 0);
    for (uint32_t d = 0; d < s.along; d++) s.idx[d] = lp_for_begin(p, lp_index(p, 0), lower_dim(L, s.t.dims[d]), lp_index(p, 1), FOR_SERIAL);
    if (s.along + 1u == s.t.rank) steps_along_rows(&s, to);
    else steps_of_rows(&s, to);
    for (uint32_t d = 0; d < s.along; d++) lp_for_end(p);
}

static uint8_t use_steps(const struct fn *f, const struct node *n, uint32_t i) { return (void)f, (void)n, (void)i, USE_ONCE; }

/* ---- logcumsumexp ---- */

static void infer_logcumsumexp(struct infer *in)
{
    struct type t = infer_type(in, 0);
    infer_one_dim(in, &in->attrs[CUMULATIVE_DIM], t.rank, "dim");
    if (!dtype_is_float((enum dtype)t.dtype)) infer_error(in, "expected floats, found %s", infer_text(in, in->operands[0]));
    infer_result(in, in->operands[0]);
}

/* Sums of exp(x - m) with m the largest so far: s_k = s_{k-1}·exp(m_{k-1} - m_k) + exp(x_k - m_k) is between 1 and k+1, and log s + m the result. Where m is
 * infinite, nothing is taken off; where nothing but -inf was before, nothing is carried on. */
static void expand_logcumsumexp(struct expand *e)
{
    struct builder *b = e->b;
    val x = e->operands[0], zero = emit_full_like(b, x, 0), low = emit_full_like(b, x, -1.0 / 0.0);
    uint32_t along = dim_of(e->attrs);
    bool reverse = is_reverse(e->attrs);
    val m = emit_cumulative(b, OP_cummax, (val[]){ emit1(b, OP_stop_gradient, x) }, 1, along, reverse);
    val base = emit_select(b, emit2(b, OP_eq, emit1(b, OP_abs, m), emit_full_like(b, x, 1.0 / 0.0)), zero, m);
    val carried = emit1(b, OP_exp, emit2(b, OP_sub, shifted(b, base, along, reverse, 0), base));
    val factor = emit_select(b, emit2(b, OP_eq, shifted(b, m, along, reverse, -1.0 / 0.0), low), zero, carried);
    val s = emit_recurrence(b, factor, emit1(b, OP_exp, emit2(b, OP_sub, x, base)), along, reverse);
    val none = emit2(b, OP_eq, s, zero);
    e->out[0] = emit_select(b, none, low, emit2(b, OP_add, emit1(b, OP_log, emit_select(b, none, emit_full_like(b, x, 1), s)), base));
}

/* ---- rows ---- */

static const struct attr_spec cumulative_attrs[] = { [CUMULATIVE_DIM] = { "dim", ATTR_INT, false, NULL }, [CUMULATIVE_REVERSE] = { "reverse", ATTR_FLAG, false, NULL } };
static const struct op_lower lower_steps = { .kind = LOWER_BLOCK, .access = ACCESS_SAME, .cost = COST_EXPENSIVE, .block = block_steps, .operand_use = use_steps };

#define SAMPLE(op, symbols, type, attrs) { "hop 1\nfn @sample" symbols "(%x: " type ") -> (" type ") {\n  %y = " op attrs " (%x)\n  return %y\n}\n", NULL }
#define FLOAT_SAMPLES(op) \
    SAMPLE(op, "", "f32[21]", ""), SAMPLE(op, "", "f64[7]", " {reverse}"), SAMPLE(op, "", "f32[3, 5]", " {dim = 1}"), SAMPLE(op, "", "f64[4, 3]", " {reverse}"), \
        SAMPLE(op, "[T]", "f32[2, T, 19]", " {dim = 1}"), SAMPLE(op, "[T]", "f64[T, 2]", " {dim = 1, reverse}"), SAMPLE(op, "", "f32[1]", ""), \
        SAMPLE(op, "", "f32[0, 3]", ""), SAMPLE(op, "", "f32[3, 0]", "")
#define NUMBER_SAMPLES(op) FLOAT_SAMPLES(op), SAMPLE(op, "", "i32[5]", ""), SAMPLE(op, "", "u32[3, 4]", ""), SAMPLE(op, "", "i64[2, 9]", " {dim = 1, reverse}"), \
    SAMPLE(op, "", "f16[9]", ""), SAMPLE(op, "", "bf16[5, 3]", " {reverse}"), SAMPLE(op, "", "u8[7]", ""), SAMPLE(op, "", "i16[2, 3]", " {dim = 1}")

#define CUMULATIVE_ROW(op, text, ...) \
    static const struct op_sample samples_##op[] = { NUMBER_SAMPLES(#op) }; \
    const struct op_row row_##op = { .name = #op, .meaning = text, .sig = { 1, 1, ROW_ATTRS(cumulative_attrs) }, .infer = infer_cumulative, .eval = eval_steps, \
                                     .batch = batch_steps, .lower = &lower_steps, ROW_SAMPLES(samples_##op), __VA_ARGS__ };
CUMULATIVE_ROW(cumsum, "running sums along a dim (absent: 0), from its end with reverse", .vjp = vjp_cumsum, .jvp = jvp_cumsum)
CUMULATIVE_ROW(cumprod, "running products along a dim (absent: 0), from its end with reverse", .vjp = vjp_cumprod, .jvp = jvp_cumprod)
CUMULATIVE_ROW(cummax, "the largest so far along a dim (absent: 0), NaN from the first NaN on; the derivative goes to the first of equals", .vjp = vjp_extreme, .jvp = jvp_extreme)
CUMULATIVE_ROW(cummin, "the smallest so far along a dim (absent: 0), NaN from the first NaN on; the derivative goes to the first of equals", .vjp = vjp_extreme, .jvp = jvp_extreme)

#define SAMPLE2(symbols, type, attrs) { "hop 1\nfn @sample" symbols "(%a: " type ", %b: " type ") -> (" type ") {\n  %y = recurrence" attrs " (%a, %b)\n  return %y\n}\n", NULL }
static const struct op_sample samples_recurrence[] = {
    SAMPLE2("", "f32[21]", ""), SAMPLE2("", "f64[7]", " {reverse}"), SAMPLE2("", "f32[3, 5]", " {dim = 1}"), SAMPLE2("", "f64[4, 3]", " {reverse}"),
    SAMPLE2("[T]", "f32[2, T, 19]", " {dim = 1}"), SAMPLE2("", "f32[1]", ""), SAMPLE2("", "f32[0, 3]", ""), SAMPLE2("", "i32[5]", ""),
};
const struct op_row row_recurrence = {
    .name = "recurrence", .meaning = "s = a·s + b along a dim (absent: 0), from its end with reverse; the first s is the first b",
    .sig = { 2, 2, ROW_ATTRS(cumulative_attrs) }, .infer = infer_recurrence, .eval = eval_steps, .vjp = vjp_recurrence, .jvp = jvp_recurrence, .batch = batch_steps,
    .lower = &lower_steps, ROW_SAMPLES(samples_recurrence),
};

static const struct op_sample samples_logcumsumexp[] = { FLOAT_SAMPLES("logcumsumexp") };
const struct op_row row_logcumsumexp = {
    .name = "logcumsumexp", .meaning = "the logarithm of running sums of exp(x) along a dim (absent: 0), without overflow; from its end with reverse",
    .sig = { 1, 1, ROW_ATTRS(cumulative_attrs) }, .infer = infer_logcumsumexp, .expand = expand_logcumsumexp, ROW_SAMPLES(samples_logcumsumexp),
};
