/* Composite rows of statistics: mean var std logsumexp softmax log_softmax. Each is infer and an expansion
 * into other operators; its derivatives, its batching and its compiled form are those of the expansion. f16
 * and bf16 are computed with in f32; with the attribute `dtype` of mean, var and std all is computed in the
 * accumulator's dtype, and what comes out is brought to this one. */
#include "ops/rowkit.h"

/* ---- infer ---- */

static struct type infer_floats(struct infer *in)
{
    struct type t = infer_type(in, 0);
    if (!dtype_is_float((enum dtype)t.dtype))
        infer_error(in, "expected floats, found %s", infer_text(in, in->operands[0]));
    if (in->attrs[MEAN_DIMS].kind != ATTR_ABSENT) infer_dim_list(in, &in->attrs[MEAN_DIMS], t.rank, "dims");
    return t;
}

/* Has the operator a dtype of its own? */
static bool chooses(const struct attr *attrs, enum op op)
{
    return (op == OP_mean || op == OP_var || op == OP_std) && attrs[MEAN_DTYPE].kind != ATTR_ABSENT;
}

static void infer_statistic(struct infer *in)
{
    struct type t;
    if (chooses(in->attrs, (enum op)in->op)) {
        t = infer_type(in, 0);
        t.dtype = (uint8_t)in->attrs[MEAN_DTYPE].i;
        if (!dtype_is_float((enum dtype)t.dtype))
            infer_error(in, "attribute 'dtype': expected a float dtype, found %s", dtype_info[t.dtype].name);
        if (in->attrs[MEAN_DIMS].kind != ATTR_ABSENT)
            infer_dim_list(in, &in->attrs[MEAN_DIMS], t.rank, "dims");
    } else t = infer_floats(in);
    infer_result(in, folded_type(in->m, t, folded_mask(&in->attrs[MEAN_DIMS], t.rank)));
}

static void infer_same(struct infer *in)
{
    infer_floats(in);
    infer_result(in, in->operands[0]);
}

/* ---- expansions ---- */

/* The operand in the dtype that is computed with. */
static val widened(struct expand *e)
{
    val x = e->operands[0];
    enum dtype result = (enum dtype)type_get(e->b->m, e->types[0]).dtype;
    return emit_cast(e->b, x, dtype_accumulator_of((enum dtype)emit_type(e->b, x).dtype, result));
}
static void give(struct expand *e, val v)
{
    e->out[0] = emit_cast(e->b, v, (enum dtype)type_get(e->b->m, e->types[0]).dtype);
}

/* A size as a float, in the shape of `like`. */
static val size_like(struct builder *b, dim size, val like)
{
    struct type t = emit_type(b, like);
    if (dim_is_const(b->m, size))
        return emit_full(b, (enum dtype)t.dtype, (double)dim_const_value(b->m, size), t.rank, t.dims);
    val v = emit_cast(b, emit_dim_value(b, size), (enum dtype)t.dtype);
    return t.rank ? emit_broadcast(b, v, t.rank, t.dims, NULL) : v;
}

static val sum_over(struct builder *b, val x, uint32_t mask, enum op op)
{
    uint32_t dims[MAX_RANK], n = 0;
    for (uint32_t i = 0; i < emit_type(b, x).rank; i++)
        if (mask >> i & 1) dims[n++] = i;
    return emit_reduce(b, op, x, dims, n);
}

static dim count_of(struct builder *b, val x, uint32_t mask)
{
    struct type t = emit_type(b, x);
    dim count = 1;
    for (uint32_t i = 0; i < t.rank; i++)
        if (mask >> i & 1) count = dim_mul(b->m, count, t.dims[i]);
    return count;
}

static val mean_of(struct builder *b, val x, uint32_t mask)
{
    val sum = sum_over(b, x, mask, OP_sum);
    return emit2(b, OP_div, sum, size_like(b, count_of(b, x, mask), sum));
}

static void expand_mean(struct expand *e)
{
    val x = widened(e);
    give(e, mean_of(e->b, x, folded_mask(&e->attrs[MEAN_DIMS], emit_type(e->b, x).rank)));
}

/* The squares of the distances from the mean, summed and divided: two passes, so that a large mean costs no
 * digits. */
static void expand_var(struct expand *e)
{
    struct builder *b = e->b;
    val x = widened(e);
    uint32_t mask = folded_mask(&e->attrs[MEAN_DIMS], emit_type(b, x).rank);
    int64_t correction = e->attrs[VAR_CORRECTION].kind == ATTR_ABSENT ? 0 : e->attrs[VAR_CORRECTION].i;
    val away = emit2(b, OP_sub, x, emit_spread(b, mean_of(b, x, mask), x, mask));
    val sum = sum_over(b, emit2(b, OP_mul, away, away), mask, OP_sum);
    dim by = dim_max(b->m, dim_sub(b->m, count_of(b, x, mask), dim_const(b->m, correction)), 0);
    val var = emit2(b, OP_div, sum, size_like(b, by, sum));
    give(e, e->op == OP_std ? emit1(b, OP_sqrt, var) : var);
}

/* With c the largest element, log Σ exp(x - c) + c overflows nowhere; it is the same for any c, so no
 * derivative passes through c and the gradient is softmax. An element of +inf counts as exp(0), and where all
 * are -inf the sum is not touched: results there are infinite, derivatives zero. */
static void expand_logsumexp(struct expand *e)
{
    struct builder *b = e->b;
    val x = widened(e);
    uint32_t mask = folded_mask(&e->attrs[MEAN_DIMS], emit_type(b, x).rank);
    val largest = emit1(b, OP_stop_gradient, sum_over(b, x, mask, OP_reduce_max));
    val lowest = emit_full_like(b, largest, -1.0 / 0.0);
    val c = emit_select(b, emit2(b, OP_gt, largest, lowest), largest, emit_full_like(b, largest, 0));
    val infinite = emit2(b, OP_eq, x, emit_full_like(b, x, 1.0 / 0.0));
    val above = emit_select(b, infinite, emit_full_like(b, x, 0),
                            emit2(b, OP_sub, x, emit_spread(b, c, x, mask)));
    val sum = sum_over(b, emit1(b, OP_exp, above), mask, OP_sum);
    val nothing = emit2(b, OP_eq, sum, emit_full_like(b, sum, 0));
    val log = emit1(b, OP_log, emit_select(b, nothing, emit_full_like(b, sum, 1), sum));
    give(e, emit_select(b, nothing, lowest, emit2(b, OP_add, log, c)));
}

static void expand_softmax(struct expand *e)
{
    struct builder *b = e->b;
    val x = widened(e);
    uint32_t mask = folded_mask(&e->attrs[SOFTMAX_DIMS], emit_type(b, x).rank);
    val largest = emit1(b, OP_stop_gradient, sum_over(b, x, mask, OP_reduce_max));
    val below = emit2(b, OP_sub, x, emit_spread(b, largest, x, mask));
    val exp = emit1(b, OP_exp, below);
    val sum = sum_over(b, exp, mask, OP_sum);
    if (e->op == OP_softmax) give(e, emit2(b, OP_div, exp, emit_spread(b, sum, x, mask)));
    else give(e, emit2(b, OP_sub, below, emit_spread(b, emit1(b, OP_log, sum), x, mask)));
}

/* ---- rows ---- */

#define SAMPLE(op, symbols, from, attrs, to) \
    { "hop 1\nfn @sample" symbols "(%x: " from ") -> (" to ") {\n  %y = " op attrs \
      " (%x)\n  return %y\n}\n", \
      NULL }
#define STATISTIC_SAMPLES(op) \
    SAMPLE(op, "", "f32[37]", "", "f32[]"), SAMPLE(op, "", "f32[3, 21]", " {dims = [1]}", "f32[3]"), \
        SAMPLE(op, "", "f64[5, 4]", " {dims = [0]}", "f64[4]"), \
        SAMPLE(op, "", "f32[2, 3, 4]", " {dims = [0, 2]}", "f32[3]"), \
        SAMPLE(op, "[M, N]", "f32[M, N]", " {dims = [1]}", "f32[M]"), \
        SAMPLE(op, "[M in 1.., N in 2..]", "f64[M, N]", "", "f64[]"), \
        SAMPLE(op, "", "f32[0, 3]", " {dims = [1]}", "f32[0]"), \
        SAMPLE(op, "", "f16[2, 19]", " {dims = [1]}", "f16[2]"), SAMPLE(op, "", "bf16[5]", "", "bf16[]")
#define CHOSEN_SAMPLES(op) \
    STATISTIC_SAMPLES(op), SAMPLE(op, "", "i8[70]", " {dtype = f32}", "f32[]"), \
        SAMPLE(op, "", "bf16[5, 4]", " {dims = [0], dtype = f32}", "f32[4]"), \
        SAMPLE(op, "[M, N]", "f32[M, N]", " {dims = [1], dtype = f64}", "f64[M]"), \
        SAMPLE(op, "", "f64[2, 19]", " {dims = [1], dtype = f16}", "f16[2]")
static const struct op_sample mean_samples[] = { CHOSEN_SAMPLES("mean"),
                                                 SAMPLE("mean", "", "f64[2, 3]", " {dims = []}", "f64[2, 3]"),
                                                 SAMPLE("mean", "", "f32[3, 0]", " {dims = [0]}", "f32[0]") };
static const struct op_sample var_samples[] = {
    CHOSEN_SAMPLES("var"), SAMPLE("var", "", "f32[5, 3]", " {dims = [0], correction = 1}", "f32[3]"),
    SAMPLE("var", "[N in 2..]", "f64[N, 2]", " {correction = 1}", "f64[]")
};
static const struct op_sample std_samples[] = {
    CHOSEN_SAMPLES("std"), SAMPLE("std", "", "f64[5, 3]", " {dims = [0], correction = 1}", "f64[3]")
};
static const struct op_sample logsumexp_samples[] = {
    STATISTIC_SAMPLES("logsumexp"),
    SAMPLE("logsumexp", "", "f64[]", "", "f64[]"),
    SAMPLE("logsumexp", "", "f64[2, 3]", " {dims = []}", "f64[2, 3]"),
    SAMPLE("logsumexp", "", "f32[3, 0]", " {dims = [1]}", "f32[3]"),
};
#define SOFTMAX_SAMPLES(op) \
    SAMPLE(op, "", "f32[21]", " {dims = [0]}", "f32[21]"), \
        SAMPLE(op, "", "f64[3, 5]", " {dims = [1]}", "f64[3, 5]"), \
        SAMPLE(op, "", "f32[4, 6]", " {dims = [0]}", "f32[4, 6]"), \
        SAMPLE(op, "", "f32[2, 3, 4]", " {dims = [0, 2]}", "f32[2, 3, 4]"), \
        SAMPLE(op, "[M, N]", "f64[M, N]", " {dims = [1]}", "f64[M, N]"), \
        SAMPLE(op, "", "f32[3, 0]", " {dims = [1]}", "f32[3, 0]"), \
        SAMPLE(op, "", "f16[2, 19]", " {dims = [1]}", "f16[2, 19]")
static const struct op_sample softmax_samples[] = { SOFTMAX_SAMPLES("softmax") },
                              log_softmax_samples[] = { SOFTMAX_SAMPLES("log_softmax") };

static const struct attr_spec statistic_attrs[] = {
    [MEAN_DIMS] = { "dims", ATTR_INTS, false, NULL },
    [MEAN_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL },
    [VAR_CORRECTION] = { "correction", ATTR_INT, false, NULL },
};
static const struct attr_spec softmax_attrs[] = { [SOFTMAX_DIMS] = { "dims", ATTR_INTS, true, NULL } };

#define COMPOSITE(op, text, n, list, infers, expands) \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { 1, 1, .n_attrs = n, .attrs = list }, \
                                     .infer = infers, \
                                     .expand = expands, \
                                     .autocast = AUTOCAST_F32, \
                                     ROW_SAMPLES(op##_samples) };
COMPOSITE(mean,
          "the mean over the dims listed (absent: all) of floats; of nothing NaN. dtype: a float's, in which "
          "all is computed and given (absent: the operand's)",
          VAR_CORRECTION, statistic_attrs, infer_statistic, expand_mean)
COMPOSITE(var,
          "the variance over the dims listed (absent: all): squares of distances from the mean, divided by "
          "their count less `correction` (absent: 0). dtype: as for mean",
          STATISTIC_ATTRS, statistic_attrs, infer_statistic, expand_var)
COMPOSITE(std, "the root of the variance over the dims listed; see var", STATISTIC_ATTRS, statistic_attrs,
          infer_statistic, expand_var)
COMPOSITE(
    logsumexp,
    "log of the sum of exp over the dims listed (absent: all), without overflow; of nothing and of -inf -inf",
    MEAN_DTYPE, statistic_attrs, infer_statistic, expand_logsumexp)
COMPOSITE(softmax, "exp, divided by the sum of exp over the dims listed, without overflow", 1, softmax_attrs,
          infer_same, expand_softmax)
COMPOSITE(log_softmax, "the logarithm of softmax over the dims listed, without overflow", 1, softmax_attrs,
          infer_same, expand_softmax)
