/* Rows of the elementwise operators, made of elementwise.def: one infer, eval, batch and lower for all, since
 * result element i depends on element i of each operand alone. The def gives each operator's partial
 * derivative as an expression; what does not fit there is a function below. */
#include "loop/lower.h"
#include "ops/facts.h"
#include "ops/rowkit.h"
#include "ops/scalar_c.h"
#include "ops/scalar_lp.h"

/* ---- infer ---- */

static _Noreturn void wrong_dtype(const struct infer *in, enum dtype found)
{
    struct text list = { .arena = &in->m->scratch };
    for (int t = 0; t < DT_COUNT; t++)
        if (scalar_c_defined((enum op)in->op, (enum dtype)t))
            text_add(&list, "%s%s", list.len ? ", " : "", dtype_info[t].name);
    infer_error(in, "is defined on %s, found %s", list.data, dtype_info[found].name);
}

/* Operands from `model` on are of one type, on which the operator is defined. */
static type_id infer_alike(struct infer *in, uint32_t model)
{
    enum dtype t = (enum dtype)infer_type(in, model).dtype;
    if (!scalar_c_defined((enum op)in->op, t)) wrong_dtype(in, t);
    for (uint32_t i = model + 1; i < in->n_operands; i++)
        infer_same_type(in, in->operands[model], in->operands[i],
                        arena_printf(&in->m->scratch, "operand %u", i));
    return in->operands[model];
}

static void infer_elementwise(struct infer *in) { infer_result(in, infer_alike(in, 0)); }

static void infer_question(struct infer *in)
{
    infer_result(in, type_with_dtype(in->m, infer_alike(in, 0), DT_BOOL));
}

static void infer_select(struct infer *in)
{
    type_id t = infer_alike(in, 1);
    infer_same_type(in, type_with_dtype(in->m, t, DT_BOOL), in->operands[0], "the condition");
    infer_result(in, t);
}

/* The infer of each family. */
#define infer_FLOAT infer_elementwise
#define infer_FLOAT2 infer_elementwise
#define infer_QUESTION infer_question
#define infer_NUMBER infer_elementwise
#define infer_SIGNED infer_elementwise
#define infer_ARITHMETIC infer_elementwise
#define infer_EQUALITY infer_question
#define infer_ORDER infer_question
#define infer_LOGIC infer_elementwise
#define infer_LOGIC2 infer_elementwise
#define infer_COUNT infer_elementwise
#define infer_SHIFT infer_elementwise
#define infer_SELECT infer_select
#define infer_CLAMP infer_elementwise
#define infer_FMA infer_elementwise

/* Its class: what is expensive among functions of floats is transcendental. */
#define AUTOCAST_FLOAT(cost) AUTOCAST_FLOAT_##cost
#define AUTOCAST_FLOAT_CHEAP AUTOCAST_KEEP
#define AUTOCAST_FLOAT_EXPENSIVE AUTOCAST_F32
#define AUTOCAST_FLOAT2 AUTOCAST_FLOAT
#define AUTOCAST_QUESTION(cost) AUTOCAST_KEEP
#define AUTOCAST_NUMBER AUTOCAST_QUESTION
#define AUTOCAST_SIGNED AUTOCAST_QUESTION
#define AUTOCAST_ARITHMETIC AUTOCAST_QUESTION
#define AUTOCAST_EQUALITY AUTOCAST_QUESTION
#define AUTOCAST_ORDER AUTOCAST_QUESTION
#define AUTOCAST_LOGIC AUTOCAST_QUESTION
#define AUTOCAST_LOGIC2 AUTOCAST_QUESTION
#define AUTOCAST_COUNT AUTOCAST_QUESTION
#define AUTOCAST_SHIFT AUTOCAST_QUESTION
#define AUTOCAST_SELECT AUTOCAST_QUESTION
#define AUTOCAST_CLAMP AUTOCAST_QUESTION
#define AUTOCAST_FMA AUTOCAST_QUESTION

static void infer_cast(struct infer *in)
{
    infer_result(in, type_with_dtype(in->m, in->operands[0], (enum dtype)in->attrs[CAST_DTYPE].i));
}

/* ---- eval ---- */

static void eval_elementwise(struct eval *e)
{
    const void *in[3] = { 0 };
    uint8_t dtypes[3] = { 0 };
    for (uint32_t i = 0; i < e->n->n_operands; i++) {
        in[i] = e->operands[i]->data;
        dtypes[i] = e->operands[i]->dtype;
    }
    const struct tensor *r = e->results[0];
    scalar_c_apply((enum op)e->n->op, r->count, (enum dtype)r->dtype, r->data, e->n->n_operands, dtypes, in);
}

static void eval_cast(struct eval *e)
{
    const struct tensor *x = e->operands[0], *r = e->results[0];
    scalar_kernel cast = scalar_c_cast((enum dtype)x->dtype, (enum dtype)r->dtype);
    cast(r->count, r->data, (const void *[]){ x->data });
}

/* ---- derivatives ---- */

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

#define LN_2 0x1.62e42fefa39efp-1
#define ONE_OVER_LN_2 0x1.71547652b82fep+0
#define TWO_OVER_ROOT_PI 0x1.20dd750429b6dp+0

static val partial_acosh(struct builder *b, val x, val v)
{
    val one = number(b, x, 1);
    return mul(b, v, mul(b, emit1(b, OP_rsqrt, sub(b, x, one)), emit1(b, OP_rsqrt, add(b, x, one))));
}

static val partial_erf(struct builder *b, val x, val v)
{
    val bell = emit1(b, OP_exp, neg(b, mul(b, x, x)));
    return mul(b, v, mul(b, number(b, x, TWO_OVER_ROOT_PI), bell));
}

/* At 0: 0. */
static val partial_copysign(struct builder *b, const val *x, uint32_t k, val v)
{
    if (k) return number(b, v, 0);
    val wanted = emit2(b, OP_copysign, number(b, v, 1), x[1]);
    return mul(b, v, mul(b, emit1(b, OP_sign, x[0]), wanted));
}

/* v·x[to]/length, and with `twice` over the length again; 0 where both are 0, in all derivatives. */
static val along(struct builder *b, const val *x, uint32_t to, val length, val v, bool twice)
{
    val zero = number(b, v, 0);
    val nowhere = emit2(b, OP_eq, length, zero);
    val safe = emit_select(b, nowhere, number(b, v, 1), length);
    val part = divide(b, x[to], safe);
    return emit_select(b, nowhere, zero, mul(b, v, twice ? divide(b, part, safe) : part));
}

static val partial_atan2(struct builder *b, const val *x, uint32_t k, val v)
{
    val r = along(b, x, 1 - k, emit2(b, OP_hypot, x[0], x[1]), v, true);
    return k ? neg(b, r) : r;
}

/* Of rem and mod: y = x₀ - q·x₁ with a whole number q, which is found again from y. */
static val partial_rem(struct builder *b, const val *x, val y, uint32_t k, val v)
{
    if (!k) return v;
    val q = emit1(b, OP_floor, add(b, divide(b, sub(b, x[0], y), x[1]), number(b, y, 0.5)));
    return neg(b, mul(b, v, q));
}

/* ∂/∂x₀ = x₁·x₀^(x₁-1), 0 where both are 0 (there the exponent is replaced, so that no infinity arises).
 * ∂/∂x₁ = y·log x₀, 0 where x₀ is 0 and x₁ is not negative. */
static val partial_pow(struct builder *b, const val *x, val y, uint32_t k, val v)
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
    val half = mul(b, v, number(b, v, 0.5));
    val rest = emit_select(b, emit2(b, wins, x[k], x[1 - k]), v, number(b, v, 0));
    return emit_select(b, emit2(b, OP_eq, x[0], x[1]), half, rest);
}

static val partial_select(struct builder *b, const val *x, uint32_t k, val v)
{
    val zero = number(b, v, 0);
    return k == 1 ? emit_select(b, x[0], v, zero) : emit_select(b, x[0], zero, v);
}

/* To whichever operand the result was taken from; within the bounds, ends included, that is x. */
static val partial_clamp(struct builder *b, const val *x, uint32_t k, val v)
{
    val zero = number(b, v, 0);
    val below = emit2(b, OP_lt, x[0], x[1]);
    val low = emit_select(b, below, x[1], x[0]);
    val above = emit2(b, OP_gt, low, x[2]);
    if (k == 2) return emit_select(b, above, v, zero);
    val inside = k ? emit_select(b, below, v, zero) : emit_select(b, below, zero, v);
    return emit_select(b, above, zero, inside);
}

/* v·∂y/∂x[k], as elementwise.def says. */
static val times_partial(enum op op, struct builder *b, const val *x, val y, uint32_t k, val v)
{
    switch (op) {
#define RETURN_PARTIAL(expression) return expression
#define RETURN_CONSTANT_PIECES break
#define RETURN_INTEGERS break
#define UNARY(op, family, meaning, cost, inputs, derivative, ...) \
    case OP_##op: RETURN_##derivative;
#define BINARY(op, family, meaning, cost, order, inputs, derivative, ...) \
    case OP_##op: RETURN_##derivative;
#define TERNARY(op, family, meaning, derivative, ...) \
    case OP_##op: RETURN_##derivative;
#include "ops/elementwise.def"
    default: break;
    }
    hop_throw(HOP_INTERNAL, "%s has no derivative", op_table[op]->name);
}

static void vjp_elementwise(struct vjp *v)
{
    enum op op = (enum op)v->n->op;
    for (uint32_t k = 0; k < v->n->n_operands; k++) {
        if (!v->active[k]) continue;
        val term = times_partial(op, v->b, v->operands, v->results[0], k, v->ct[0]);
        v->out[k] = emit_as(v->b, term, builder_type(v->b, v->operands[k]));
    }
}

static void jvp_elementwise(struct jvp *j)
{
    enum op op = (enum op)j->n->op;
    j->out[0] = VAL_NONE;
    for (uint32_t k = 0; k < j->n->n_operands; k++) {
        if (j->tangents[k] == VAL_NONE) continue;
        val product = times_partial(op, j->b, j->operands, j->results[0], k, j->tangents[k]);
        val term = emit_as(j->b, product, builder_type(j->b, j->results[0]));
        j->out[0] = j->out[0] == VAL_NONE ? term : add(j->b, j->out[0], term);
    }
}

/* Between floats; a cast to or from anything else has no derivative. */
static bool cast_is_smooth(const struct module *m, const struct fn *f, const struct node *n)
{
    struct type from = type_get(m, value_type(f, node_operands(f, n)[0]));
    struct type to = type_get(m, value_type(f, n->results));
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
    HOP_UNUSED(result);
    for (uint32_t i = 0; i < n->n_operands; i++) operands[i] = lower_elem(L, node_operands(f, n)[i], idx);
    return scalar_lp(lower_lp(L), (enum op)n->op, operands);
}

static lpv elem_cast(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                     const lpv *idx)
{
    HOP_UNUSED(result);
    return lp_cast(lower_lp(L), (enum dtype)node_attr(f, n, CAST_DTYPE)->i,
                   lower_elem(L, node_operands(f, n)[0], idx));
}

static const struct op_lower lower_CHEAP = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_CHEAP, .elem = elem_elementwise
};
static const struct op_lower lower_EXPENSIVE = {
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

/* What each family's operators are tried on. */
#define SAMPLES_FLOAT(op, inputs) \
    SAMPLE1(#op, "f32[21]", inputs), SAMPLE1(#op, "f64[2, 3]", inputs), SAMPLE1(#op, "f32[]", inputs), \
        SAMPLE1(#op, "f64[3, 0]", inputs), SAMPLE1_SYMBOLIC(#op, "f32", inputs), \
        SAMPLE1(#op, "f16[35]", inputs), SAMPLE1(#op, "bf16[3, 5]", inputs)
#define SAMPLES_QUESTION(op, inputs) \
    SAMPLE1_TO(#op, "f32[21]", "bool[21]", inputs), SAMPLE1_TO(#op, "f64[2, 3]", "bool[2, 3]", inputs), \
        SAMPLE1_TO(#op, "f32[]", "bool[]", inputs), SAMPLE1_TO(#op, "f64[3, 0]", "bool[3, 0]", inputs), \
        SAMPLE1_TO(#op, "f16[7]", "bool[7]", inputs)
#define SAMPLES_NUMBER(op, inputs) \
    SAMPLE1(#op, "f32[21]", inputs), SAMPLE1(#op, "f64[2, 3]", inputs), SAMPLE1(#op, "f32[]", inputs), \
        SAMPLE1(#op, "i32[0, 3]", inputs), SAMPLE1(#op, "i64[2, 5]", "x = -3..3"), \
        SAMPLE1(#op, "i32[]", "x = -3..3"), SAMPLE1(#op, "f16[35]", inputs), SAMPLE1(#op, "bf16[]", inputs), \
        SAMPLE1(#op, "i8[21]", "x = -128..127"), SAMPLE1(#op, "i16[5]", "x = -3..3")
#define SAMPLES_SIGNED SAMPLES_NUMBER
#define SAMPLES_ARITHMETIC(op, inputs) \
    SAMPLE2(#op, "f32[21]", "f32[21]", inputs), SAMPLE2(#op, "f64[2, 3]", "f64[2, 3]", inputs), \
        SAMPLE2(#op, "f32[]", "f32[]", inputs), SAMPLE2(#op, "f32[0]", "f32[0]", inputs), \
        SAMPLE2(#op, "i32[2, 4]", "i32[2, 4]", "x = -3..3, y = -2..2"), \
        SAMPLE2(#op, "u32[5]", "u32[5]", NULL), SAMPLE2(#op, "i64[]", "i64[]", "x = -9..9, y = -2..2"), \
        SAMPLE2_SYMBOLIC(#op, "f32", "f32", inputs), SAMPLE2(#op, "f16[35]", "f16[35]", inputs), \
        SAMPLE2(#op, "bf16[3, 5]", "bf16[3, 5]", inputs), \
        SAMPLE2(#op, "i8[21]", "i8[21]", "x = -128..127, y = -128..127"), \
        SAMPLE2(#op, "u16[7]", "u16[7]", "x = 0..65535, y = 0..9"), SAMPLE2(#op, "u64[5]", "u64[5]", NULL)
#define SAMPLES_FLOAT2(op, inputs) \
    SAMPLE2(#op, "f32[21]", "f32[21]", inputs), SAMPLE2(#op, "f64[2, 3]", "f64[2, 3]", inputs), \
        SAMPLE2(#op, "f64[]", "f64[]", inputs), SAMPLE2(#op, "f32[2, 0]", "f32[2, 0]", NULL), \
        SAMPLE2_SYMBOLIC(#op, "f64", "f64", inputs), SAMPLE2(#op, "f16[35]", "f16[35]", inputs), \
        SAMPLE2(#op, "bf16[]", "bf16[]", inputs)
#define SAMPLES_COMPARISON(op, inputs) \
    SAMPLE2(#op, "f32[21]", "bool[21]", inputs), SAMPLE2(#op, "i32[2, 4]", "bool[2, 4]", inputs), \
        SAMPLE2(#op, "u32[]", "bool[]", inputs), SAMPLE2(#op, "i64[0, 2]", "bool[0, 2]", inputs), \
        SAMPLE2_SYMBOLIC(#op, "f64", "bool", inputs), SAMPLE2(#op, "f16[35]", "bool[35]", inputs), \
        SAMPLE2(#op, "bf16[3]", "bool[3]", inputs), \
        SAMPLE2(#op, "i8[21]", "bool[21]", "x = -2..2, y = -2..2"), \
        SAMPLE2(#op, "u64[3]", "bool[3]", inputs)
#define SAMPLES_EQUALITY(op, inputs) \
    SAMPLES_COMPARISON(op, inputs), SAMPLE2(#op, "bool[7]", "bool[7]", inputs)
#define SAMPLES_ORDER(op, inputs) SAMPLES_COMPARISON(op, inputs), SAMPLE2(#op, "i64[7]", "bool[7]", inputs)
#define SAMPLES_LOGIC(op, inputs) \
    SAMPLE1(#op, "bool[21]", inputs), SAMPLE1(#op, "i32[2, 3]", inputs), SAMPLE1(#op, "u32[]", inputs), \
        SAMPLE1(#op, "i64[0]", inputs), SAMPLE1_SYMBOLIC(#op, "bool", inputs)
#define SAMPLES_LOGIC2(op, inputs) \
    SAMPLE2(#op, "bool[21]", "bool[21]", inputs), \
        SAMPLE2(#op, "i32[2, 3]", "i32[2, 3]", "x = -9..9, y = 0..9"), \
        SAMPLE2(#op, "u32[]", "u32[]", inputs), SAMPLE2(#op, "i64[0]", "i64[0]", inputs), \
        SAMPLE2(#op, "i64[5]", "i64[5]", inputs)
#define SAMPLES_SHIFT(op, inputs) \
    SAMPLE2(#op, "i32[21]", "i32[21]", "x = -99..99, y = -2..40"), SAMPLE2(#op, "u32[]", "u32[]", inputs), \
        SAMPLE2(#op, "i64[2, 3]", "i64[2, 3]", "x = -9..9, y = 0..70"), \
        SAMPLE2(#op, "u64[0]", "u64[0]", inputs), \
        SAMPLE2(#op, "i8[19]", "i8[19]", "x = -99..99, y = -2..10"), \
        SAMPLE2(#op, "u16[7]", "u16[7]", "y = 0..20")
#define SAMPLES_COUNT(op, inputs) \
    SAMPLE1(#op, "i32[21]", "x = -99..99"), SAMPLE1(#op, "u32[]", inputs), \
        SAMPLE1(#op, "i64[2, 3]", "x = -9..99"), SAMPLE1(#op, "u64[0]", inputs), \
        SAMPLE1(#op, "i8[19]", "x = -99..99"), SAMPLE1(#op, "u16[7]", inputs)
#define SELECT_SAMPLE(D, T) \
    { "hop 1\nfn @sample(%c: bool" D ", %x: " T D ", %y: " T D ") -> (" T D \
      ") {\n  %z = select(%c, %x, %y)\n  return %z\n}\n", \
      NULL }
#define SAMPLES_SELECT \
    SELECT_SAMPLE("[21]", "f32"), SELECT_SAMPLE("[2, 3]", "f64"), SELECT_SAMPLE("[]", "f32"), \
        SELECT_SAMPLE("[0, 4]", "i32"), SELECT_SAMPLE("[5]", "i64"), SELECT_SAMPLE("[5]", "bool"), \
        SELECT_SAMPLE("[3]", "u32"), SELECT_SAMPLE("[35]", "f16"), SELECT_SAMPLE("[3]", "bf16"), \
        SELECT_SAMPLE("[21]", "i8"), SELECT_SAMPLE("[2]", "u64")
#define CLAMP_SAMPLE(T, inputs) \
    { "hop 1\nfn @sample(%x: " T ", %lo: " T ", %hi: " T ") -> (" T \
      ") {\n  %y = clamp(%x, %lo, %hi)\n  return %y\n}\n", \
      inputs }
#define SAMPLES_CLAMP \
    CLAMP_SAMPLE("f32[21]", "lo = -1..0, hi = 0.1..1"), CLAMP_SAMPLE("f64[2, 3]", NULL), \
        CLAMP_SAMPLE("f64[]", "lo = -1..0, hi = 0.1..1"), CLAMP_SAMPLE("f32[0]", NULL), \
        CLAMP_SAMPLE("i32[7]", "x = 0..9, lo = 2..3, hi = 5..6"), CLAMP_SAMPLE("u32[2, 2]", NULL), \
        CLAMP_SAMPLE("f16[35]", "lo = -1..0, hi = 0.1..1"), \
        CLAMP_SAMPLE("i16[7]", "x = 0..9, lo = 2..3, hi = 5..6")
#define FMA_SAMPLE(T) \
    { "hop 1\nfn @sample(%x: " T ", %y: " T ", %z: " T ") -> (" T \
      ") {\n  %w = fma(%x, %y, %z)\n  return %w\n}\n", \
      NULL }
#define SAMPLES_FMA \
    FMA_SAMPLE("f32[21]"), FMA_SAMPLE("f64[2, 3]"), FMA_SAMPLE("f64[]"), FMA_SAMPLE("f32[0]"), \
        FMA_SAMPLE("f16[35]"), FMA_SAMPLE("bf16[3, 5]")

#define RULES_PARTIAL(expression) .vjp = vjp_elementwise, .jvp = jvp_elementwise
#define RULES_CONSTANT_PIECES .no_gradient = "piecewise constant"
#define RULES_INTEGERS .no_gradient = "integer-valued"
enum { ORDERED, COMMUTES = OPF_COMMUTES };
#define COMPARES(holds) .range = range_comparison, .fold = fold_comparison, .compares = (holds)

#define ROW(op, operands, family, text, cost, order, derivative, ...) \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { operands, operands }, \
                                     .flags = OPF_ELEMENTWISE | (order), \
                                     .infer = infer_##family, \
                                     .eval = eval_elementwise, \
                                     .batch = batch_elementwise, \
                                     .lower = &lower_##cost, \
                                     .autocast = AUTOCAST_##family(cost), \
                                     ROW_SAMPLES(samples_##op), \
                                     RULES_##derivative, \
                                     __VA_ARGS__ };
#define UNARY(op, family, text, cost, inputs, derivative, ...) \
    static const struct op_sample samples_##op[] = { SAMPLES_##family(op, inputs) }; \
    ROW(op, 1, family, text, cost, ORDERED, derivative, __VA_ARGS__)
#define BINARY(op, family, text, cost, order, inputs, derivative, ...) \
    static const struct op_sample samples_##op[] = { SAMPLES_##family(op, inputs) }; \
    ROW(op, 2, family, text, cost, order, derivative, __VA_ARGS__)
#define TERNARY(op, family, text, derivative, ...) \
    static const struct op_sample samples_##op[] = { SAMPLES_##family }; \
    ROW(op, 3, family, text, CHEAP, ORDERED, derivative, __VA_ARGS__)
#include "ops/elementwise.def"

/* ---- cast ---- */

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
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(samples_cast),
};
