/* Rows of the elementwise operators: one infer, eval, batch and lower for all, since result element i depends
 * on element i of each operand alone; and for each differentiable operator one small function that multiplies
 * by a partial derivative, which serves forward and reverse mode alike. */
#include "loop/lower.h"
#include "ops/facts.h"
#include "ops/rowkit.h"
#include "ops/scalar_c.h"
#include "ops/scalar_lp.h"

/* ---- infer ---- */

static bool gives_bool(enum op op)
{
    return (op >= OP_eq && op <= OP_ge) || op == OP_isnan || op == OP_isinf || op == OP_isfinite;
}
_Static_assert(OP_eq + 1 == OP_ne && OP_ne + 1 == OP_lt && OP_lt + 1 == OP_le && OP_le + 1 == OP_gt &&
                   OP_gt + 1 == OP_ge,
               "comparisons stand together");

static _Noreturn void wrong_dtype(const struct infer *in, enum dtype found)
{
    struct text list = { .arena = &in->m->scratch };
    for (int t = 0; t < DT_COUNT; t++)
        if (scalar_c_defined((enum op)in->op, (enum dtype)t))
            text_add(&list, "%s%s", list.len ? ", " : "", dtype_info[t].name);
    infer_error(in, "is defined on %s, found %s", list.data, dtype_info[found].name);
}

static void infer_elementwise(struct infer *in)
{
    uint32_t model = in->op == OP_select ? 1 : 0;
    struct type t = infer_type(in, model);
    if (!scalar_c_defined((enum op)in->op, (enum dtype)t.dtype)) wrong_dtype(in, (enum dtype)t.dtype);
    if (in->op == OP_select)
        infer_same_type(in, type_with_dtype(in->m, in->operands[1], DT_BOOL), in->operands[0],
                        "the condition");
    for (uint32_t i = model + 1; i < in->n_operands; i++)
        infer_same_type(in, in->operands[model], in->operands[i],
                        arena_printf(&in->m->scratch, "operand %u", i));
    infer_result(in, gives_bool((enum op)in->op) ? type_with_dtype(in->m, in->operands[model], DT_BOOL)
                                                 : in->operands[model]);
}

static void infer_cast(struct infer *in)
{
    infer_result(in, type_with_dtype(in->m, in->operands[0], (enum dtype)in->attrs[CAST_DTYPE].i));
}

/* ---- eval ---- */

static void eval_elementwise(struct eval *e)
{
    const void *in[3] = { 0 };
    uint8_t dtypes[3] = { 0 };
    for (uint32_t i = 0; i < e->n->n_operands; i++)
        in[i] = e->operands[i]->data, dtypes[i] = e->operands[i]->dtype;
    scalar_c_apply((enum op)e->n->op, e->results[0]->count, (enum dtype)e->results[0]->dtype,
                   e->results[0]->data, e->n->n_operands, dtypes, in);
}

static void eval_cast(struct eval *e)
{
    scalar_c_cast((enum dtype)e->operands[0]->dtype,
                  (enum dtype)e->results[0]->dtype)(e->results[0]->count, e->results[0]->data,
                                                    (const void *[]){ e->operands[0]->data });
}

/* ---- derivatives ---- */

/* v·∂y/∂x[k]. Derivatives of the nodes emitted here are the second derivatives, so they too must be right. */
typedef val (*times_partial)(struct builder *b, const val *x, val y, uint32_t k, val v);

static val neg(struct builder *b, val x) { return emit1(b, OP_neg, x); }
static val add(struct builder *b, val x, val y) { return emit2(b, OP_add, x, y); }
static val sub(struct builder *b, val x, val y) { return emit2(b, OP_sub, x, y); }
static val mul(struct builder *b, val x, val y) { return emit2(b, OP_mul, x, y); }
static val divide(struct builder *b, val x, val y) { return emit2(b, OP_div, x, y); }
static val number(struct builder *b, val like, double value) { return emit_full_like(b, like, value); }

/* (1 - x)(1 + x): exact near 1. */
static val one_less_square(struct builder *b, val x)
{
    val one = number(b, x, 1);
    return mul(b, sub(b, one, x), add(b, one, x));
}

#define PARTIAL(op) static val partial_##op(struct builder *b, const val *x, val y, uint32_t k, val v)
#define UNUSED (void)x, (void)y, (void)k

PARTIAL(neg) { return UNUSED, neg(b, v); }
PARTIAL(abs) { return UNUSED, mul(b, v, emit1(b, OP_sign, x[0])); } /* at 0: 0 */
PARTIAL(exp) { return UNUSED, mul(b, v, y); }
PARTIAL(expm1) { return UNUSED, mul(b, v, add(b, y, number(b, y, 1))); }
PARTIAL(log) { return UNUSED, divide(b, v, x[0]); }
PARTIAL(log1p) { return UNUSED, divide(b, v, add(b, x[0], number(b, y, 1))); }
PARTIAL(sqrt) { return UNUSED, divide(b, mul(b, v, number(b, y, 0.5)), y); }
PARTIAL(rsqrt) { return UNUSED, mul(b, mul(b, v, number(b, y, -0.5)), divide(b, y, x[0])); }
PARTIAL(sin) { return UNUSED, mul(b, v, emit1(b, OP_cos, x[0])); }
PARTIAL(cos) { return UNUSED, neg(b, mul(b, v, emit1(b, OP_sin, x[0]))); }
PARTIAL(tanh) { return UNUSED, mul(b, v, sub(b, number(b, y, 1), mul(b, y, y))); }
PARTIAL(sigmoid) { return UNUSED, mul(b, v, mul(b, y, sub(b, number(b, y, 1), y))); }
PARTIAL(add) { return UNUSED, (void)b, v; }
PARTIAL(sub) { return UNUSED, k ? neg(b, v) : v; }
PARTIAL(mul) { return UNUSED, mul(b, v, x[1 - k]); }
PARTIAL(div) { return k ? neg(b, mul(b, v, divide(b, y, x[1]))) : divide(b, v, x[1]); }

PARTIAL(exp2) { return UNUSED, mul(b, v, mul(b, y, number(b, y, 0x1.62e42fefa39efp-1))); }
PARTIAL(log2) { return UNUSED, divide(b, mul(b, v, number(b, y, 0x1.71547652b82fep+0)), x[0]); }
PARTIAL(cbrt) { return UNUSED, divide(b, mul(b, v, number(b, y, 1.0 / 3)), mul(b, y, y)); }
PARTIAL(tan) { return UNUSED, mul(b, v, add(b, mul(b, y, y), number(b, y, 1))); }
PARTIAL(asin) { return UNUSED, mul(b, v, emit1(b, OP_rsqrt, one_less_square(b, x[0]))); }
PARTIAL(acos) { return UNUSED, neg(b, mul(b, v, emit1(b, OP_rsqrt, one_less_square(b, x[0])))); }
PARTIAL(atan) { return UNUSED, divide(b, v, add(b, mul(b, x[0], x[0]), number(b, y, 1))); }
PARTIAL(sinh) { return UNUSED, mul(b, v, emit1(b, OP_cosh, x[0])); }
PARTIAL(cosh) { return UNUSED, mul(b, v, emit1(b, OP_sinh, x[0])); }
PARTIAL(asinh) { return UNUSED, divide(b, v, emit2(b, OP_hypot, x[0], number(b, y, 1))); }
PARTIAL(acosh)
{
    val one = number(b, y, 1);
    return UNUSED,
           mul(b, v, mul(b, emit1(b, OP_rsqrt, sub(b, x[0], one)), emit1(b, OP_rsqrt, add(b, x[0], one))));
}
PARTIAL(atanh) { return UNUSED, divide(b, v, one_less_square(b, x[0])); }
PARTIAL(erf)
{
    return UNUSED,
           mul(b, v,
               mul(b, number(b, y, 0x1.20dd750429b6dp+0), emit1(b, OP_exp, neg(b, mul(b, x[0], x[0])))));
} /* 2/sqrt(pi) */
PARTIAL(erfc) { return neg(b, partial_erf(b, x, y, k, v)); }
PARTIAL(fma) { return UNUSED, k == 2 ? v : mul(b, v, x[1 - k]); }
PARTIAL(copysign)
{
    return UNUSED,
           k ? number(b, v, 0)
             : mul(b, v, mul(b, emit1(b, OP_sign, x[0]), emit2(b, OP_copysign, number(b, v, 1), x[1])));
} /* at 0: 0 */

/* v·x[to]/length, and with `twice` over the length again; 0 where both are 0, in all derivatives. */
static val along(struct builder *b, const val *x, uint32_t to, val length, val v, bool twice)
{
    val zero = number(b, v, 0), nowhere = emit2(b, OP_eq, length, zero),
        safe = emit_select(b, nowhere, number(b, v, 1), length), part = divide(b, x[to], safe);
    return emit_select(b, nowhere, zero, mul(b, v, twice ? divide(b, part, safe) : part));
}
PARTIAL(hypot) { return UNUSED, along(b, x, k, y, v, false); }
PARTIAL(atan2)
{
    val r = along(b, x, 1 - k, emit2(b, OP_hypot, x[0], x[1]), v, true);
    return UNUSED, k ? neg(b, r) : r;
}

/* y = x₀ - q·x₁ with a whole number q, which is found again from y. */
PARTIAL(rem)
{
    if (!k) return v;
    val q = emit1(b, OP_floor, add(b, divide(b, sub(b, x[0], y), x[1]), number(b, y, 0.5)));
    return neg(b, mul(b, v, q));
}

PARTIAL(mod) { return partial_rem(b, x, y, k, v); }

/* ∂/∂x₀ = x₁·x₀^(x₁-1), 0 where both are 0 (there the exponent is replaced, so that no infinity arises).
 * ∂/∂x₁ = y·log x₀, 0 where x₀ is 0 and x₁ is not negative. */
PARTIAL(pow)
{
    val zero = number(b, y, 0), one = number(b, y, 1), at_zero = emit2(b, OP_eq, x[0], zero);
    if (!k) {
        val exponent = emit_select(b, emit2(b, OP_and, at_zero, emit2(b, OP_eq, x[1], zero)), one, x[1]);
        return mul(b, v, mul(b, x[1], emit2(b, OP_pow, x[0], sub(b, exponent, one))));
    }
    val base = emit_select(b, emit2(b, OP_and, at_zero, emit2(b, OP_ge, x[1], zero)), one, x[0]);
    return mul(b, v, mul(b, y, emit1(b, OP_log, base)));
}

/* To the winner; equals get half each. */
static val partial_extreme(struct builder *b, const val *x, uint32_t k, val v, enum op wins)
{
    val half = mul(b, v, number(b, v, 0.5)),
        rest = emit_select(b, emit2(b, wins, x[k], x[1 - k]), v, number(b, v, 0));
    return emit_select(b, emit2(b, OP_eq, x[0], x[1]), half, rest);
}
PARTIAL(max) { return UNUSED, partial_extreme(b, x, k, v, OP_gt); }
PARTIAL(min) { return UNUSED, partial_extreme(b, x, k, v, OP_lt); }

PARTIAL(select)
{
    val zero = number(b, v, 0);
    return UNUSED, k == 1 ? emit_select(b, x[0], v, zero) : emit_select(b, x[0], zero, v);
}

/* To whichever operand the result was taken from; within the bounds, ends included, that is x. */
PARTIAL(clamp)
{
    (void)y;
    val zero = number(b, v, 0), below = emit2(b, OP_lt, x[0], x[1]), low = emit_select(b, below, x[1], x[0]),
        above = emit2(b, OP_gt, low, x[2]);
    if (k == 2) return emit_select(b, above, v, zero);
    val inside = k ? emit_select(b, below, v, zero) : emit_select(b, below, zero, v);
    return emit_select(b, above, zero, inside);
}

static const times_partial partials[OP_COUNT] = {
#define HAS(op) [OP_##op] = partial_##op
    HAS(neg),   HAS(abs),  HAS(exp),      HAS(expm1), HAS(log),     HAS(log1p), HAS(sqrt),
    HAS(rsqrt), HAS(sin),  HAS(cos),      HAS(tanh),  HAS(sigmoid), HAS(add),   HAS(sub),
    HAS(mul),   HAS(div),  HAS(rem),      HAS(pow),   HAS(max),     HAS(min),   HAS(select),
    HAS(clamp), HAS(exp2), HAS(log2),     HAS(cbrt),  HAS(tan),     HAS(asin),  HAS(acos),
    HAS(atan),  HAS(sinh), HAS(cosh),     HAS(asinh), HAS(acosh),   HAS(atanh), HAS(erf),
    HAS(erfc),  HAS(fma),  HAS(copysign), HAS(hypot), HAS(atan2),   HAS(mod),
#undef HAS
};

static void vjp_elementwise(struct vjp *v)
{
    for (uint32_t k = 0; k < v->n->n_operands; k++)
        if (v->active[k])
            v->out[k] = emit_as(v->b, partials[v->n->op](v->b, v->operands, v->results[0], k, v->ct[0]),
                                builder_type(v->b, v->operands[k]));
}

static void jvp_elementwise(struct jvp *j)
{
    j->out[0] = VAL_NONE;
    for (uint32_t k = 0; k < j->n->n_operands; k++) {
        if (j->tangents[k] == VAL_NONE) continue;
        val term = emit_as(j->b, partials[j->n->op](j->b, j->operands, j->results[0], k, j->tangents[k]),
                           builder_type(j->b, j->results[0]));
        j->out[0] = j->out[0] == VAL_NONE ? term : add(j->b, j->out[0], term);
    }
}

/* Between floats; a cast to or from anything else has no derivative. */
static bool cast_is_smooth(const struct module *m, const struct fn *f, const struct node *n)
{
    struct type from = type_get(m, value_type(f, node_operands(f, n)[0])),
                to = type_get(m, value_type(f, n->results));
    return dtype_is_float((enum dtype)from.dtype) && dtype_is_float((enum dtype)to.dtype);
}
static void vjp_cast(struct vjp *v)
{
    if (v->active[0] && cast_is_smooth(v->b->m, v->f, v->n))
        v->out[0] = emit_cast(v->b, v->ct[0], (enum dtype)emit_type(v->b, v->operands[0]).dtype);
}
static void jvp_cast(struct jvp *j)
{
    bool moves = j->tangents[0] != VAL_NONE && cast_is_smooth(j->b->m, j->f, j->n);
    j->out[0] = moves ? emit_cast(j->b, j->tangents[0], (enum dtype)j->attrs[CAST_DTYPE].i) : VAL_NONE;
}

/* ---- batch, lower ---- */

static void batch_elementwise(struct batch *v)
{
    if (batch_none(v)) return;
    val operands[3];
    for (uint32_t i = 0; i < v->n->n_operands; i++) operands[i] = batch_operand(v, i);
    v->results[0] = emit(v->b, (enum op)v->n->op, operands, v->n->n_operands, v->attrs);
}

static lpv elem_elementwise(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                            const lpv *idx)
{
    lpv operands[3];
    (void)result;
    for (uint32_t i = 0; i < n->n_operands; i++) operands[i] = lower_elem(L, node_operands(f, n)[i], idx);
    return scalar_lp(lower_lp(L), (enum op)n->op, operands);
}

static lpv elem_cast(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                     const lpv *idx)
{
    (void)result;
    return lp_cast(lower_lp(L), (enum dtype)node_attr(f, n, CAST_DTYPE)->i,
                   lower_elem(L, node_operands(f, n)[0], idx));
}

static const struct op_lower lower_cheap = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_CHEAP, .elem = elem_elementwise
};
static const struct op_lower lower_expensive = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_EXPENSIVE, .elem = elem_elementwise
};
static const struct op_lower lower_cast = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_CHEAP, .elem = elem_cast
};

/* ---- rows ---- */

#define SAMPLE1(op, T, inputs) SAMPLE1_TO(op, T, T, inputs)
#define SAMPLE1_TO(op, T, R, inputs) \
    { "hop 1\nfn @sample(%x: " T ") -> (" R ") {\n  %y = " op "(%x)\n  return %y\n}\n", inputs }
#define SAMPLE2(op, T, R, inputs) \
    { "hop 1\nfn @sample(%x: " T ", %y: " T ") -> (" R ") {\n  %z = " op "(%x, %y)\n  return %z\n}\n", \
      inputs }
#define SAMPLE1_SYMBOLIC(op, T, inputs) \
    { "hop 1\nfn @sample[N](%x: " T "[N, 5]) -> (" T "[N, 5]) {\n  %y = " op "(%x)\n  return %y\n}\n", \
      inputs }
#define SAMPLE2_SYMBOLIC(op, T, R, inputs) \
    { "hop 1\nfn @sample[N](%x: " T "[N, 5], %y: " T "[N, 5]) -> (" R "[N, 5]) {\n  %z = " op \
      "(%x, %y)\n  return %z\n}\n", \
      inputs }

#define DIFFERENTIABLE .vjp = vjp_elementwise, .jvp = jvp_elementwise
#define CONSTANT_PIECES .no_gradient = "piecewise constant"
#define INTEGERS .no_gradient = "integer-valued"
#define COMMON(op, operands, row_flags, rule) \
    .name = #op, .sig = { operands, operands }, .flags = OPF_ELEMENTWISE | (row_flags), \
    .infer = infer_elementwise, .eval = eval_elementwise, .batch = batch_elementwise, .lower = &rule, \
    ROW_SAMPLES(samples_##op)

/* Functions of one float. */
#define FLOAT_ROW(op, text, rule, inputs, ...) \
    static const struct op_sample samples_##op[] = { \
        SAMPLE1(#op, "f32[21]", inputs),      SAMPLE1(#op, "f64[2, 3]", inputs), \
        SAMPLE1(#op, "f32[]", inputs),        SAMPLE1(#op, "f64[3, 0]", inputs), \
        SAMPLE1_SYMBOLIC(#op, "f32", inputs), SAMPLE1(#op, "f16[35]", inputs), \
        SAMPLE1(#op, "bf16[3, 5]", inputs) \
    }; \
    const struct op_row row_##op = { COMMON(op, 1, 0, rule), .meaning = text, __VA_ARGS__ };
FLOAT_ROW(floor, "the largest whole number not above x", lower_cheap, NULL, CONSTANT_PIECES)
FLOAT_ROW(ceil, "the smallest whole number not below x", lower_cheap, NULL, CONSTANT_PIECES)
FLOAT_ROW(trunc, "the next whole number towards 0", lower_cheap, NULL, CONSTANT_PIECES)
FLOAT_ROW(round, "the nearest whole number, of two the even one", lower_cheap, NULL, CONSTANT_PIECES)
FLOAT_ROW(exp, "e to the x", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(expm1, "e to the x, less 1, exact near 0", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(log, "natural logarithm", lower_expensive, "x = 0.3..3", DIFFERENTIABLE)
FLOAT_ROW(log1p, "log(1 + x), exact near 0", lower_expensive, "x = -0.5..2", DIFFERENTIABLE)
FLOAT_ROW(sqrt, "square root", lower_expensive, "x = 0.3..3", DIFFERENTIABLE)
FLOAT_ROW(rsqrt, "1 over the square root", lower_expensive, "x = 0.3..3", DIFFERENTIABLE)
FLOAT_ROW(exp2, "2 to the x", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(log2, "logarithm to base 2; exact for powers of 2", lower_expensive, "x = 0.3..3", DIFFERENTIABLE)
FLOAT_ROW(cbrt, "cube root, of negative numbers too", lower_expensive, "x = 0.3..3", DIFFERENTIABLE)
FLOAT_ROW(tan, "tangent", lower_expensive, "x = -1.2..1.2", DIFFERENTIABLE)
FLOAT_ROW(asin, "inverse sine, -pi/2..pi/2", lower_expensive, "x = -0.8..0.8", DIFFERENTIABLE)
FLOAT_ROW(acos, "inverse cosine, 0..pi", lower_expensive, "x = -0.8..0.8", DIFFERENTIABLE)
FLOAT_ROW(atan, "inverse tangent, -pi/2..pi/2", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(sinh, "hyperbolic sine", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(cosh, "hyperbolic cosine", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(asinh, "inverse hyperbolic sine", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(acosh, "inverse hyperbolic cosine, of x from 1 on", lower_expensive, "x = 1.2..3", DIFFERENTIABLE)
FLOAT_ROW(atanh, "inverse hyperbolic tangent, of x in -1..1", lower_expensive, "x = -0.8..0.8",
          DIFFERENTIABLE)
FLOAT_ROW(erf, "error function: 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x", lower_expensive,
          NULL, DIFFERENTIABLE)
FLOAT_ROW(erfc, "1 - erf(x), exact where that is small", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(sin, "sine", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(cos, "cosine", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(tanh, "hyperbolic tangent", lower_expensive, NULL, DIFFERENTIABLE)
FLOAT_ROW(sigmoid, "1/(1 + exp(-x))", lower_expensive, NULL, DIFFERENTIABLE)

/* Questions about one float. */
#define QUESTION_ROW(op, text) \
    static const struct op_sample samples_##op[] = { SAMPLE1_TO(#op, "f32[21]", "bool[21]", NULL), \
                                                     SAMPLE1_TO(#op, "f64[2, 3]", "bool[2, 3]", NULL), \
                                                     SAMPLE1_TO(#op, "f32[]", "bool[]", NULL), \
                                                     SAMPLE1_TO(#op, "f64[3, 0]", "bool[3, 0]", NULL), \
                                                     SAMPLE1_TO(#op, "f16[7]", "bool[7]", NULL) }; \
    const struct op_row row_##op = { COMMON(op, 1, 0, lower_cheap), .meaning = text, INTEGERS };
QUESTION_ROW(isnan, "is x NaN?")
QUESTION_ROW(isinf, "is x infinite?")
QUESTION_ROW(isfinite, "is x neither NaN nor infinite?")

/* Functions of one number. */
#define NUMBER_ROW(op, text, ...) \
    static const struct op_sample samples_##op[] = { SAMPLE1(#op, "f32[21]", NULL), \
                                                     SAMPLE1(#op, "f64[2, 3]", NULL), \
                                                     SAMPLE1(#op, "f32[]", NULL), \
                                                     SAMPLE1(#op, "i32[0, 3]", NULL), \
                                                     SAMPLE1(#op, "i64[2, 5]", "x = -3..3"), \
                                                     SAMPLE1(#op, "i32[]", "x = -3..3"), \
                                                     SAMPLE1(#op, "f16[35]", NULL), \
                                                     SAMPLE1(#op, "bf16[]", NULL), \
                                                     SAMPLE1(#op, "i8[21]", "x = -128..127"), \
                                                     SAMPLE1(#op, "i16[5]", "x = -3..3") }; \
    const struct op_row row_##op = { COMMON(op, 1, 0, lower_cheap), .meaning = text, __VA_ARGS__ };
NUMBER_ROW(neg, "-x", DIFFERENTIABLE, .range = range_neg, .fold = fold_involution, .factors = { -1 })
NUMBER_ROW(abs, "x without its sign; its derivative at 0 is 0", DIFFERENTIABLE, .range = range_abs,
           .same = same_abs, .fold = fold_abs)
NUMBER_ROW(sign, "-1, 0 or 1; zeros and NaN as they are", CONSTANT_PIECES, .range = range_sign)

/* Arithmetic on two numbers. */
#define ARITHMETIC_ROW(op, text, row_flags, rule, inputs, ...) \
    static const struct op_sample samples_##op[] = { \
        SAMPLE2(#op, "f32[21]", "f32[21]", inputs), \
        SAMPLE2(#op, "f64[2, 3]", "f64[2, 3]", inputs), \
        SAMPLE2(#op, "f32[]", "f32[]", inputs), \
        SAMPLE2(#op, "f32[0]", "f32[0]", inputs), \
        SAMPLE2(#op, "i32[2, 4]", "i32[2, 4]", "x = -3..3, y = -2..2"), \
        SAMPLE2(#op, "u32[5]", "u32[5]", NULL), \
        SAMPLE2(#op, "i64[]", "i64[]", "x = -9..9, y = -2..2"), \
        SAMPLE2_SYMBOLIC(#op, "f32", "f32", inputs), \
        SAMPLE2(#op, "f16[35]", "f16[35]", inputs), \
        SAMPLE2(#op, "bf16[3, 5]", "bf16[3, 5]", inputs), \
        SAMPLE2(#op, "i8[21]", "i8[21]", "x = -128..127, y = -128..127"), \
        SAMPLE2(#op, "u16[7]", "u16[7]", "x = 0..65535, y = 0..9"), \
        SAMPLE2(#op, "u64[5]", "u64[5]", NULL) \
    }; \
    const struct op_row row_##op = { COMMON(op, 2, row_flags, rule), .meaning = text, __VA_ARGS__ };
ARITHMETIC_ROW(add, "x + y; integers wrap", OPF_COMMUTES, lower_cheap, NULL, DIFFERENTIABLE,
               .range = range_add, .fold = fold_add, .factors = { 1, 1 })
ARITHMETIC_ROW(sub, "x - y; integers wrap", 0, lower_cheap, NULL, DIFFERENTIABLE, .range = range_sub,
               .fold = fold_sub, .factors = { 1, -1 })
ARITHMETIC_ROW(mul, "x times y; integers wrap", OPF_COMMUTES, lower_cheap, NULL, DIFFERENTIABLE,
               .range = range_mul, .fold = fold_mul)
ARITHMETIC_ROW(div, "x over y; integers truncate, by 0 they give 0", 0, lower_expensive, "y = 0.5..2",
               DIFFERENTIABLE, .range = range_div, .fold = fold_div)
ARITHMETIC_ROW(rem, "what is left of x after whole multiples of y, with the sign of x; integers by 0 give x",
               0, lower_expensive, "x = -5..5, y = 0.7..1.7", DIFFERENTIABLE, .range = range_rem,
               .same = same_rem)
ARITHMETIC_ROW(floor_div, "x over y, rounded down; integers by 0 give 0", 0, lower_expensive,
               "x = -5..5, y = 0.7..1.7", CONSTANT_PIECES, .range = range_floor_div)
ARITHMETIC_ROW(mod, "what floor_div leaves of x, with the sign of y; integers by 0 give x", 0,
               lower_expensive, "x = -5..5, y = 0.7..1.7", DIFFERENTIABLE, .range = range_mod,
               .same = same_rem)
ARITHMETIC_ROW(max, "the larger; NaN if either is; equals share the derivative", 0, lower_cheap, NULL,
               DIFFERENTIABLE, .range = range_max, .same = same_max, .fold = fold_idempotent)
ARITHMETIC_ROW(min, "the smaller; NaN if either is; equals share the derivative", 0, lower_cheap, NULL,
               DIFFERENTIABLE, .range = range_min, .same = same_min, .fold = fold_idempotent)

/* Functions of two floats. */
#define FLOAT2_ROW(op, text, row_flags, rule, inputs, ...) \
    static const struct op_sample samples_##op[] = { \
        SAMPLE2(#op, "f32[21]", "f32[21]", inputs),  SAMPLE2(#op, "f64[2, 3]", "f64[2, 3]", inputs), \
        SAMPLE2(#op, "f64[]", "f64[]", inputs),      SAMPLE2(#op, "f32[2, 0]", "f32[2, 0]", NULL), \
        SAMPLE2_SYMBOLIC(#op, "f64", "f64", inputs), SAMPLE2(#op, "f16[35]", "f16[35]", inputs), \
        SAMPLE2(#op, "bf16[]", "bf16[]", inputs) \
    }; \
    const struct op_row row_##op = { COMMON(op, 2, row_flags, rule), .meaning = text, __VA_ARGS__ };
FLOAT2_ROW(atan2,
           "the angle, -pi..pi, of the point at height x (the first operand) above y on the axis; "
           "derivatives are 0 at the origin",
           0, lower_expensive, "x = 0.3..2", DIFFERENTIABLE)
FLOAT2_ROW(hypot, "sqrt(x*x + y*y) without overflow; derivatives are 0 at the origin", OPF_COMMUTES,
           lower_expensive, "x = 0.3..2", DIFFERENTIABLE)
FLOAT2_ROW(copysign, "x with the sign of y", 0, lower_cheap, "x = 0.3..2, y = 0.2..1", DIFFERENTIABLE)

static const struct op_sample samples_pow[] = {
    SAMPLE2("pow", "f32[21]", "f32[21]", "x = 0.3..2"),
    SAMPLE2("pow", "f64[2, 3]", "f64[2, 3]", "x = 0.3..2"),
    SAMPLE2("pow", "f64[]", "f64[]", "x = 0.3..2"),
    SAMPLE2("pow", "f32[2, 0]", "f32[2, 0]", NULL),
    SAMPLE2_SYMBOLIC("pow", "f64", "f64", "x = 0.3..2, y = -3..3"),
};
const struct op_row row_pow = { COMMON(pow, 2, 0, lower_expensive), .meaning = "x to the y", DIFFERENTIABLE,
                                .fold = fold_pow };

/* Comparisons. */
#define COMPARE_ROW(op, text, row_flags, holds, ...) \
    static const struct op_sample samples_##op[] = { \
        SAMPLE2(#op, "f32[21]", "bool[21]", NULL), \
        SAMPLE2(#op, "i32[2, 4]", "bool[2, 4]", NULL), \
        SAMPLE2(#op, "u32[]", "bool[]", NULL), \
        SAMPLE2(#op, "i64[0, 2]", "bool[0, 2]", NULL), \
        SAMPLE2_SYMBOLIC(#op, "f64", "bool", NULL), \
        SAMPLE2(#op, "f16[35]", "bool[35]", NULL), \
        SAMPLE2(#op, "bf16[3]", "bool[3]", NULL), \
        SAMPLE2(#op, "i8[21]", "bool[21]", "x = -2..2, y = -2..2"), \
        SAMPLE2(#op, "u64[3]", "bool[3]", NULL), \
        __VA_ARGS__ \
    }; \
    const struct op_row row_##op = { COMMON(op, 2, row_flags, lower_cheap), \
                                     INTEGERS, \
                                     .meaning = text, \
                                     .range = range_comparison, \
                                     .fold = fold_comparison, \
                                     .compares = holds };
COMPARE_ROW(eq, "x = y; false with NaN", OPF_COMMUTES, COMPARE_EQ, SAMPLE2("eq", "bool[7]", "bool[7]", NULL))
COMPARE_ROW(ne, "x is not y; true with NaN", OPF_COMMUTES, COMPARE_NE,
            SAMPLE2("ne", "bool[7]", "bool[7]", NULL))
COMPARE_ROW(lt, "x < y; false with NaN", 0, COMPARE_LT, SAMPLE2("lt", "i64[7]", "bool[7]", NULL))
COMPARE_ROW(le, "x <= y; false with NaN", 0, COMPARE_LE, SAMPLE2("le", "i64[7]", "bool[7]", NULL))
COMPARE_ROW(gt, "x > y; false with NaN", 0, COMPARE_GT, SAMPLE2("gt", "i64[7]", "bool[7]", NULL))
COMPARE_ROW(ge, "x >= y; false with NaN", 0, COMPARE_GE, SAMPLE2("ge", "i64[7]", "bool[7]", NULL))

/* Bits. */
static const struct op_sample samples_not[] = { SAMPLE1("not", "bool[21]", NULL),
                                                SAMPLE1("not", "i32[2, 3]", NULL),
                                                SAMPLE1("not", "u32[]", NULL), SAMPLE1("not", "i64[0]", NULL),
                                                SAMPLE1_SYMBOLIC("not", "bool", NULL) };
const struct op_row row_not = { COMMON(not, 1, 0, lower_cheap),
                                INTEGERS,
                                .meaning = "not x; of integers every bit",
                                .range = range_not,
                                .fold = fold_involution,
                                .logic = LOGIC_NOT };
#define BITS_ROW(op, text, ...) \
    static const struct op_sample samples_##op[] = { \
        SAMPLE2(#op, "bool[21]", "bool[21]", NULL), \
        SAMPLE2(#op, "i32[2, 3]", "i32[2, 3]", "x = -9..9, y = 0..9"), SAMPLE2(#op, "u32[]", "u32[]", NULL), \
        SAMPLE2(#op, "i64[0]", "i64[0]", NULL), SAMPLE2(#op, "i64[5]", "i64[5]", NULL) \
    }; \
    const struct op_row row_##op = { COMMON(op, 2, OPF_COMMUTES, lower_cheap), INTEGERS, .meaning = text, \
                                     __VA_ARGS__ };
BITS_ROW(and, "x and y; of integers bit by bit", .range = range_and, .fold = fold_and, .logic = LOGIC_AND)
BITS_ROW(or, "x or y; of integers bit by bit", .range = range_or, .fold = fold_or, .logic = LOGIC_OR)
BITS_ROW(xor, "x or y but not both; of integers bit by bit", .logic = LOGIC_NONE)
#define SHIFT_ROW(op, text) \
    static const struct op_sample samples_##op[] = { \
        SAMPLE2(#op, "i32[21]", "i32[21]", "x = -99..99, y = -2..40"), \
        SAMPLE2(#op, "u32[]", "u32[]", NULL), \
        SAMPLE2(#op, "i64[2, 3]", "i64[2, 3]", "x = -9..9, y = 0..70"), \
        SAMPLE2(#op, "u64[0]", "u64[0]", NULL), \
        SAMPLE2(#op, "i8[19]", "i8[19]", "x = -99..99, y = -2..10"), \
        SAMPLE2(#op, "u16[7]", "u16[7]", "y = 0..20") \
    }; \
    const struct op_row row_##op = { COMMON(op, 2, 0, lower_cheap), .meaning = text, INTEGERS };
SHIFT_ROW(shift_left,
          "the bits of x moved up by y, zeros moved in; y below 0 is taken as more than the width")
SHIFT_ROW(shift_right, "the bits of x moved down by y, the sign (unsigned: zeros) moved in; y below 0 is "
                       "taken as more than the width")
#define COUNT_ROW(op, text) \
    static const struct op_sample samples_##op[] = { \
        SAMPLE1(#op, "i32[21]", "x = -99..99"),  SAMPLE1(#op, "u32[]", NULL), \
        SAMPLE1(#op, "i64[2, 3]", "x = -9..99"), SAMPLE1(#op, "u64[0]", NULL), \
        SAMPLE1(#op, "i8[19]", "x = -99..99"),   SAMPLE1(#op, "u16[7]", NULL) \
    }; \
    const struct op_row row_##op = { COMMON(op, 1, 0, lower_cheap), .meaning = text, INTEGERS };
COUNT_ROW(popcount, "how many bits of x are set; of negative numbers in two's complement")
COUNT_ROW(count_leading_zeros, "how many bits above the highest that is set in x; of 0 all")

/* Choices. */
#define SELECT_SAMPLE(D, T) \
    { "hop 1\nfn @sample(%c: bool" D ", %x: " T D ", %y: " T D ") -> (" T D \
      ") {\n  %z = select(%c, %x, %y)\n  return %z\n}\n", \
      NULL }
static const struct op_sample samples_select[] = {
    SELECT_SAMPLE("[21]", "f32"),   SELECT_SAMPLE("[2, 3]", "f64"), SELECT_SAMPLE("[]", "f32"),
    SELECT_SAMPLE("[0, 4]", "i32"), SELECT_SAMPLE("[5]", "i64"),    SELECT_SAMPLE("[5]", "bool"),
    SELECT_SAMPLE("[3]", "u32"),    SELECT_SAMPLE("[35]", "f16"),   SELECT_SAMPLE("[3]", "bf16"),
    SELECT_SAMPLE("[21]", "i8"),    SELECT_SAMPLE("[2]", "u64")
};
const struct op_row row_select = { COMMON(select, 3, 0, lower_cheap),
                                   .meaning = "c ? x : y, element by element", DIFFERENTIABLE,
                                   .range = range_select, .fold = fold_select };

#define CLAMP_SAMPLE(T, inputs) \
    { "hop 1\nfn @sample(%x: " T ", %lo: " T ", %hi: " T ") -> (" T \
      ") {\n  %y = clamp(%x, %lo, %hi)\n  return %y\n}\n", \
      inputs }
static const struct op_sample samples_clamp[] = {
    CLAMP_SAMPLE("f32[21]", "lo = -1..0, hi = 0.1..1"),
    CLAMP_SAMPLE("f64[2, 3]", NULL),
    CLAMP_SAMPLE("f64[]", "lo = -1..0, hi = 0.1..1"),
    CLAMP_SAMPLE("f32[0]", NULL),
    CLAMP_SAMPLE("i32[7]", "x = 0..9, lo = 2..3, hi = 5..6"),
    CLAMP_SAMPLE("u32[2, 2]", NULL),
    CLAMP_SAMPLE("f16[35]", "lo = -1..0, hi = 0.1..1"),
    CLAMP_SAMPLE("i16[7]", "x = 0..9, lo = 2..3, hi = 5..6"),
};
const struct op_row row_clamp = {
    COMMON(clamp, 3, 0, lower_cheap), DIFFERENTIABLE, .range = range_clamp, .same = same_clamp,
    .meaning = "x moved to the nearer of lo and hi when it lies outside; hi wins if lo > hi; NaN stays"
};

#define FMA_SAMPLE(T) \
    { "hop 1\nfn @sample(%x: " T ", %y: " T ", %z: " T ") -> (" T \
      ") {\n  %w = fma(%x, %y, %z)\n  return %w\n}\n", \
      NULL }
static const struct op_sample samples_fma[] = { FMA_SAMPLE("f32[21]"), FMA_SAMPLE("f64[2, 3]"),
                                                FMA_SAMPLE("f64[]"),   FMA_SAMPLE("f32[0]"),
                                                FMA_SAMPLE("f16[35]"), FMA_SAMPLE("bf16[3, 5]") };
const struct op_row row_fma = { COMMON(fma, 3, 0, lower_cheap),
                                .meaning = "x*y + z rounded once, in every mode", DIFFERENTIABLE };

#define CAST_SAMPLE(D, A, B, inputs) \
    { "hop 1\nfn @sample(%x: " A D ") -> (" B D ") {\n  %y = cast {dtype = " B "} (%x)\n  return %y\n}\n", \
      inputs }
static const struct op_sample samples_cast[] = {
    CAST_SAMPLE("[21]", "f32", "f64", NULL),       CAST_SAMPLE("[2, 3]", "f64", "f32", NULL),
    CAST_SAMPLE("[]", "f32", "i32", NULL),         CAST_SAMPLE("[0]", "i32", "f32", NULL),
    CAST_SAMPLE("[5]", "f64", "i64", NULL),        CAST_SAMPLE("[5]", "f32", "u32", NULL),
    CAST_SAMPLE("[5]", "i64", "bool", NULL),       CAST_SAMPLE("[2, 2]", "bool", "f32", NULL),
    CAST_SAMPLE("[4]", "i64", "i32", NULL),        CAST_SAMPLE("[4]", "u32", "f64", NULL),
    CAST_SAMPLE("[9]", "i32", "i64", "x = -5..5"), CAST_SAMPLE("[9]", "i32", "u32", "x = -5..5"),
    CAST_SAMPLE("[9]", "i64", "f32", NULL),        CAST_SAMPLE("[9]", "u32", "f32", NULL),
    CAST_SAMPLE("[9]", "f64", "bool", NULL),       CAST_SAMPLE("[35]", "f16", "f32", NULL),
    CAST_SAMPLE("[35]", "f32", "f16", NULL),       CAST_SAMPLE("[5]", "f64", "bf16", NULL),
    CAST_SAMPLE("[5]", "bf16", "f16", NULL),       CAST_SAMPLE("[5]", "bf16", "i8", NULL),
    CAST_SAMPLE("[5]", "u64", "bf16", NULL),       CAST_SAMPLE("[5]", "i16", "u8", "x = -300..300"),
    CAST_SAMPLE("[]", "f16", "bool", NULL),
};
static const struct attr_spec cast_attrs[] = { [CAST_DTYPE] = { "dtype", ATTR_DTYPE, true, NULL } };
const struct op_row row_cast = {
    .name = "cast",
    .meaning =
        "x in another dtype; floats to integers truncate and saturate, NaN gives 0; to bool: x is not 0",
    .sig = { 1, 1, ROW_ATTRS(cast_attrs) },
    .flags = OPF_ELEMENTWISE,
    .infer = infer_cast,
    .eval = eval_cast,
    .vjp = vjp_cast,
    .jvp = jvp_cast,
    .batch = batch_elementwise,
    .lower = &lower_cast,
    .range = range_cast,
    .same = same_cast,
    .fold = fold_cast,
    ROW_SAMPLES(samples_cast),
};
