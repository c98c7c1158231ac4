/* The row of check_finite, which debug_nans puts behind operators: it ends the run where the operator made a
 * NaN or an infinity. What is looked at first is the value alone, in one sweep; what it was made of is looked
 * at where that finds something, by the host (ir/finite.h). */
#include "interp/interp.h"
#include "ir/finite.h"
#include "ops/rowkit.h"

static uint32_t number_or_zero(const struct attr *a) { return a->kind == ATTR_ABSENT ? 0 : (uint32_t)a->i; }
static bool flag(const struct attr *a) { return a->kind != ATTR_ABSENT && a->i; }

static struct finite spec_of(const struct module *m, const struct attr *a)
{
    const struct attr *part = &a[CHECK_FINITE_PART], *loops = &a[CHECK_FINITE_LOOPS];
    return (struct finite){ .name = module_text(m, (uint32_t)a[CHECK_FINITE_OPERATOR].i),
                            .loops = loops->kind == ATTR_ABSENT ? "" : module_text(m, (uint32_t)loops->i),
                            .part = part->kind == ATTR_ABSENT ? FINITE_PLAIN : (uint32_t)part->i + 1,
                            .lanes = number_or_zero(&a[CHECK_FINITE_LANES]),
                            .trips = number_or_zero(&a[CHECK_FINITE_TRIPS]),
                            .each = flag(&a[CHECK_FINITE_EACH]),
                            .infinities = flag(&a[CHECK_FINITE_INFINITIES]),
                            .masked = flag(&a[CHECK_FINITE_MASKED]) };
}

/* Dims that lanes run along are the same in the value and in `t`, as far as that has them. */
static void infer_lanes(struct infer *in, uint32_t value, uint32_t i, uint32_t lanes)
{
    struct type of = infer_type(in, value), t = infer_type(in, i);
    for (uint32_t d = 0; d < t.rank && d < lanes; d++)
        if (t.dims[d] != of.dims[d])
            infer_equal(in, of.dims[d], t.dims[d],
                        arena_printf(&in->m->scratch, "operand %u: lane dim %u of %s", i, d,
                                     infer_text(in, in->operands[i])));
}

static void infer_count(const struct infer *in, uint32_t attr, const char *name, uint32_t most)
{
    const struct attr *a = &in->attrs[attr];
    if (a->kind != ATTR_ABSENT && (a->i < 0 || a->i > most))
        infer_error(in, "attribute '%s': expected 0..%u, found %lld", name, most, (long long)a->i);
}

static void infer_check_finite(struct infer *in)
{
    infer_count(in, CHECK_FINITE_LANES, "lanes", MAX_RANK);
    infer_count(in, CHECK_FINITE_TRIPS, "trips", in->n_operands - 1);
    struct finite s = spec_of(in->m, in->attrs);
    uint32_t value = s.masked;
    if (in->n_operands < value + 1 + s.trips)
        infer_error(in, "expected at least %u operands, found %u", value + 1 + s.trips, in->n_operands);
    if (strchr(s.name, '\n')) infer_error(in, "attribute 'operator': expected a name of one line");
    struct type t = infer_type(in, value);
    if (!dtype_is_float((enum dtype)t.dtype) || t.rank < s.lanes)
        infer_error(in, "operand %u: expected floats with at least %u dims (lanes), found %s", value, s.lanes,
                    infer_text(in, in->operands[value]));
    if (s.masked && (infer_type(in, 0).dtype != DT_BOOL || infer_type(in, 0).rank != s.lanes))
        infer_error(in, "operand 0 (mask): expected bool with %u dims, found %s", s.lanes,
                    infer_text(in, in->operands[0]));
    if (s.masked) infer_lanes(in, value, 0, s.lanes);
    for (uint32_t i = value + 1; i < in->n_operands; i++) {
        struct type x = infer_type(in, i);
        bool trip = i >= in->n_operands - s.trips;
        if (trip ? x.dtype != DT_I64 || x.rank > s.lanes : !dtype_is_float((enum dtype)x.dtype))
            infer_error(in, "operand %u: expected %s, found %s", i,
                        trip ? "an i64 with no more dims than there are lanes" : "floats",
                        infer_text(in, in->operands[i]));
        if (trip) infer_lanes(in, value, i, s.lanes);
    }
}

static void eval_check_finite(struct eval *e)
{
    struct finite s = spec_of(e->m, node_attr(e->f, e->n, 0));
    struct finite_found found = finite_look(&s, e->operands, e->n->n_operands);
    if (found.made == MADE_NOTHING) return;
    struct text out = { .arena = &e->m->scratch };
    const char *place = place_text(e->m, e->n->place), *stack = place_stack(e->m, e->n->place);
    finite_text(&s, found, place, stack, e->operands, e->n->n_operands, &out);
    hop_throw(HOP_CHECK, "%s", out.data);
}

static void vjp_check_finite(struct vjp *v) { HOP_UNUSED(v); /* no results, so nothing flows back */ }
static void jvp_check_finite(struct jvp *j) { HOP_UNUSED(j); }

/* The mask over one more dim: v->lanes over the new one, the mask there was over the others. */
static val batch_mask(struct batch *v, const struct finite *s, val value)
{
    struct builder *b = v->b;
    uint32_t rank = s->lanes + 1;
    struct type t = emit_type(b, value);
    val before = s->masked ? batch_operand(v, 0) : VAL_NONE, lanes = v->lanes;
    if (lanes == VAL_NONE) return before;
    if (rank > 1) lanes = emit_broadcast(b, lanes, rank, t.dims, &(uint32_t){ 0 });
    return before == VAL_NONE ? lanes : emit2(b, OP_and, before, lanes);
}

/* What a value was made of is left as it is: an array that all lanes share is not made once per lane. Trips
 * that have dims have those of the outermost lanes. */
static void batch_check_finite(struct batch *v)
{
    struct builder *b = v->b;
    uint32_t n = v->n->n_operands, at = 0;
    struct finite s = spec_of(b->m, v->attrs);
    val *operands = ARENA_NEW(&b->arena, val, n + 1), value = batch_operand(v, s.masked);
    val mask = batch_mask(v, &s, value);
    if (mask != VAL_NONE) operands[at++] = mask;
    operands[at++] = value;
    for (uint32_t i = s.masked + 1u; i < n; i++) {
        bool spread = i >= n - s.trips && emit_type(b, v->operands[i]).rank > 0;
        operands[at++] = spread ? batch_operand(v, i) : v->operands[i];
    }
    struct attr *a = arena_copy(&b->arena, v->attrs, CHECK_FINITE_ATTRS * sizeof *a);
    a[CHECK_FINITE_LANES] = A_INT(s.lanes + 1);
    a[CHECK_FINITE_MASKED] = A_FLAG(mask != VAL_NONE);
    emit(b, OP_check_finite, operands, at, a);
}

/* Finite numbers times zero add up to zero, anything else to a NaN. */
static lpv all_finite(struct lower *L, const struct fn *f, val v)
{
    struct lp *p = lower_lp(L);
    type_id type = value_type(f, v);
    struct type t = type_get(lower_module(L), type);
    enum dtype dtype = dtype_accumulator((enum dtype)t.dtype);
    lpv zero = lp_real(p, dtype, 0), idx[MAX_RANK];
    if (!t.rank) {
        lpv x = lp_cast(p, dtype, lower_scalar(L, v));
        return lp_bin(p, LP_EQ, lp_bin(p, LP_MUL, x, zero), zero);
    }
    uint32_t sum = lp_local(p, dtype, LOCAL_LANES, "finite");
    lp_set(p, sum, zero);
    lower_each_begin(L, type, true, idx);
    lp_accum(p, sum, FOLD_SUM, lp_bin(p, LP_MUL, lp_cast(p, dtype, lower_elem(L, v, idx)), zero));
    lower_each_end(L, type);
    return lp_bin(p, LP_EQ, lp_fold_lanes(p, sum, FOLD_SUM), zero);
}

static void block_check_finite(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    struct finite s = spec_of(m, node_attr(f, n, 0));
    struct text text = { .arena = &p->arena };
    finite_write(&s, &text);
    struct lp_call call = { .kind = CALL_FINITE,
                            .value = all_finite(L, f, node_operands(f, n)[s.masked]),
                            .text = module_string(m, text.data, text.len),
                            .place = n->place,
                            .mask = LPV_NONE };
    lower_call_unless(L, call, f, n, 0);
}

static const char *const part_words[] = { "gradient", "tangent", "argument", NULL };
_Static_assert(FINITE_GRADIENT == 1 && FINITE_TANGENT == 2 && FINITE_ARGUMENT == 3, "words follow the parts");
static const struct attr_spec attr_specs[CHECK_FINITE_ATTRS] = {
    [CHECK_FINITE_OPERATOR] = { "operator", ATTR_STRING, true, NULL },
    [CHECK_FINITE_PART] = { "part", ATTR_WORD, false, part_words },
    [CHECK_FINITE_LANES] = { "lanes", ATTR_INT, false, NULL },
    [CHECK_FINITE_TRIPS] = { "trips", ATTR_INT, false, NULL },
    [CHECK_FINITE_LOOPS] = { "loops", ATTR_STRING, false, NULL },
    [CHECK_FINITE_EACH] = { "each", ATTR_FLAG, false, NULL },
    [CHECK_FINITE_INFINITIES] = { "infinities", ATTR_FLAG, false, NULL },
    [CHECK_FINITE_MASKED] = { "masked", ATTR_FLAG, false, NULL },
};
static const struct op_lower lower_check_finite = { .kind = LOWER_BLOCK,
                                                    .access = ACCESS_SAME,
                                                    .cost = COST_CHEAP,
                                                    .block = block_check_finite,
                                                    .operand_use = use_once };
static const struct op_sample samples[] = {
    { "hop 1\nfn @sample(%x: f32[3]) -> (f32[3]) {\n  %y = exp(%x)\n  check_finite {operator = \"exp\", "
      "each, "
      "infinities} (%y, %x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[T, 2], %i: i64[], %p: bool[T]) -> (f64[T, 2]) {\n  %y = sin(%x)\n  "
      "check_finite {operator = \"sin\", lanes = 1, trips = 1, loops = \"scan\", masked} (%p, %y, %x, %i)\n  "
      "return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f16[]) -> (f16[]) {\n  check_finite {operator = \"x\", part = argument} (%x)\n  "
      "return %x\n}\n",
      NULL },
};
const struct op_row row_check_finite = {
    .name = "check_finite",
    .meaning =
        "ends the run if its operand has a NaN or an infinity that is not in what it was made of; what "
        "debug_nans puts behind operators",
    .sig = { 1, MANY, ROW_ATTRS(attr_specs) },
    .effect = EFFECT_CHECK,
    .flags = OPF_NO_FOLD,
    .infer = infer_check_finite,
    .eval = eval_check_finite,
    .vjp = vjp_check_finite,
    .jvp = jvp_check_finite,
    .batch = batch_check_finite,
    .lower = &lower_check_finite,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(samples),
};
