/* What passes know of elementwise operators: the interval of an integer result, the operand that a result
 * equals when intervals say so, and identities that hold for every number, NaN and signed zeros included. */
#include "ops/facts.h"
#include "loop/lower.h"

#include <math.h>

typedef __int128 wide;

/* ---- range ---- */

static struct range all_of(const struct range_in *w) { return range_of_dtype(w->t); }

struct range range_add(const struct range_in *w)
{
    if (range_in_is_open(w)) return all_of(w);
    return range_wrapped(w->t, (wide)w->x.lo + w->y.lo, (wide)w->x.hi + w->y.hi);
}

struct range range_sub(const struct range_in *w)
{
    if (range_in_is_open(w)) return all_of(w);
    return range_wrapped(w->t, (wide)w->x.lo - w->y.hi, (wide)w->x.hi - w->y.lo);
}

struct range range_neg(const struct range_in *w)
{
    if (range_in_is_open(w)) return all_of(w);
    return range_wrapped(w->t, -(wide)w->x.hi, -(wide)w->x.lo);
}

struct range range_mul(const struct range_in *w)
{
    if (range_in_is_open(w)) return all_of(w);
    wide corners[4] = { (wide)w->x.lo * w->y.lo, (wide)w->x.lo * w->y.hi, (wide)w->x.hi * w->y.lo,
                        (wide)w->x.hi * w->y.hi };
    wide lo = corners[0], hi = corners[0];
    for (int i = 1; i < 4; i++) {
        lo = HOP_MIN(lo, corners[i]);
        hi = HOP_MAX(hi, corners[i]);
    }
    return range_wrapped(w->t, lo, hi);
}

struct range range_abs(const struct range_in *w)
{
    if (range_in_is_open(w)) return all_of(w);
    wide lo = w->x.lo, hi = w->x.hi;
    wide left = lo < 0 ? -lo : lo, right = hi < 0 ? -hi : hi;
    bool has_zero = lo <= 0 && hi >= 0;
    return range_wrapped(w->t, has_zero ? 0 : HOP_MIN(left, right), HOP_MAX(left, right));
}

static int sign_of(int64_t i) { return (i > 0) - (i < 0); }
struct range range_sign(const struct range_in *w)
{
    return (struct range){ sign_of(w->x.lo), sign_of(w->x.hi) };
}

struct range range_max(const struct range_in *w)
{
    return (struct range){ HOP_MAX(w->x.lo, w->y.lo), HOP_MAX(w->x.hi, w->y.hi) };
}

struct range range_min(const struct range_in *w)
{
    return (struct range){ HOP_MIN(w->x.lo, w->y.lo), HOP_MIN(w->x.hi, w->y.hi) };
}

/* Quotients and remainders: by a positive divisor only. */
static bool divides(const struct range_in *w) { return w->y.lo >= 1 && !range_in_is_open(w); }

struct range range_div(const struct range_in *w)
{
    if (!divides(w)) return all_of(w);
    return (struct range){ w->x.lo < 0 ? w->x.lo / w->y.lo : w->x.lo / w->y.hi,
                           w->x.hi < 0 ? w->x.hi / w->y.hi : w->x.hi / w->y.lo };
}

static int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b < 0); }
struct range range_floor_div(const struct range_in *w)
{
    if (!divides(w)) return all_of(w);
    return (struct range){ floor_quotient(w->x.lo, w->x.lo < 0 ? w->y.lo : w->y.hi),
                           floor_quotient(w->x.hi, w->x.hi < 0 ? w->y.hi : w->y.lo) };
}

struct range range_rem(const struct range_in *w)
{
    if (!divides(w)) return all_of(w);
    return (struct range){ w->x.lo >= 0 ? 0 : HOP_MAX(w->x.lo, 1 - w->y.hi),
                           w->x.hi <= 0 ? 0 : HOP_MIN(w->x.hi, w->y.hi - 1) };
}

struct range range_mod(const struct range_in *w)
{
    if (!divides(w)) return all_of(w);
    return (struct range){ 0, w->x.lo >= 0 ? HOP_MIN(w->x.hi, w->y.hi - 1) : w->y.hi - 1 };
}

struct range range_clamp(const struct range_in *w) /* operands x, low, high */
{
    if (range_in_is_open(w)) return all_of(w);
    struct range raised = range_max(w);
    return (struct range){ HOP_MIN(raised.lo, w->z.lo), HOP_MIN(raised.hi, w->z.hi) };
}

struct range range_select(const struct range_in *w) /* operands condition, x, y */
{
    if (range_is_point(w->x)) return w->x.lo ? w->y : w->z;
    return range_join(w->y, w->z);
}

struct range range_cast(const struct range_in *w)
{
    if (dtype_is_float(w->from) || range_is_open(w->from, w->x)) return all_of(w);
    if (w->t != DT_BOOL) return range_wrapped(w->t, w->x.lo, w->x.hi);
    bool may_be_zero = w->x.lo <= 0 && w->x.hi >= 0, is_zero = w->x.lo == 0 && w->x.hi == 0;
    return (struct range){ !may_be_zero, !is_zero };
}

struct range range_comparison(const struct range_in *w)
{
    if (dtype_is_float(w->from)) return all_of(w);
    int known = range_compare((enum comparison)node_row(w->n)->compares, w->from, w->x, w->y);
    return known < 0 ? all_of(w) : (struct range){ known, known };
}

struct range range_not(const struct range_in *w)
{
    return w->t == DT_BOOL ? (struct range){ 1 - w->x.hi, 1 - w->x.lo } : all_of(w);
}

struct range range_and(const struct range_in *w)
{
    if (w->x.lo < 0 || w->y.lo < 0 || range_in_is_open(w)) return all_of(w);
    return (struct range){ w->t == DT_BOOL ? w->x.lo & w->y.lo : 0, HOP_MIN(w->x.hi, w->y.hi) };
}

struct range range_or(const struct range_in *w)
{
    return w->t == DT_BOOL ? (struct range){ w->x.lo | w->y.lo, w->x.hi | w->y.hi } : all_of(w);
}

/* ---- same ---- */

static val operand(const struct range_in *w, uint32_t k) { return node_operands(w->f, w->n)[k]; }

/* Is x <= y, element for element? */
static bool below(const struct range_in *w, struct range x, struct range y)
{
    return range_compare(COMPARE_LE, w->t, x, y) == 1;
}

val same_max(const struct range_in *w)
{
    if (below(w, w->y, w->x)) return operand(w, 0);
    return below(w, w->x, w->y) ? operand(w, 1) : VAL_NONE;
}

val same_min(const struct range_in *w)
{
    if (below(w, w->x, w->y)) return operand(w, 0);
    return below(w, w->y, w->x) ? operand(w, 1) : VAL_NONE;
}

val same_clamp(const struct range_in *w)
{
    return below(w, w->y, w->x) && below(w, w->x, w->z) ? operand(w, 0) : VAL_NONE;
}

val same_rem(const struct range_in *w)
{
    bool smaller = range_compare(COMPARE_LT, w->t, w->x, w->y) == 1;
    return w->x.lo >= 0 && smaller ? operand(w, 0) : VAL_NONE;
}

val same_abs(const struct range_in *w) { return w->x.lo >= 0 ? operand(w, 0) : VAL_NONE; }

val same_cast(const struct range_in *w) /* there and back again */
{
    uint32_t made = w->f->values[operand(w, 0)].node;
    if (made == NODE_NONE || fn_node(w->f, made)->op != OP_cast) return VAL_NONE;
    val origin = node_operands(w->f, fn_node(w->f, made))[0];
    if (type_get(w->m, value_type(w->f, origin)).dtype != w->t || !dtype_is_integer(w->from)) return VAL_NONE;
    struct range held = range_of_dtype(w->from), r = w->values[origin];
    bool fits = r.lo >= held.lo && r.hi <= held.hi && !range_is_open(w->t, r);
    return fits ? origin : VAL_NONE;
}

/* ---- fold ---- */

/* Sums start at +0, and only (-0) + (-0) is -0. */
enum zeros {
    ZEROS_ANY,
    ZEROS_OF_FOLD,    /* positive unless it is rounded at the end, where a small negative sum gives -0 */
    ZEROS_OF_OPERAND, /* of operand 0 */
    ZEROS_OF_SUM,     /* positive if those of an operand are */
    ZEROS_OF_VALUE,   /* a full */
    ZEROS_OF_BODY     /* a call */
};

static enum zeros zeros_of(const struct node *n, enum dtype t)
{
    switch (n->op) {
    case OP_dot:
    case OP_matmul:
    case OP_sum: return ZEROS_OF_FOLD;
    case OP_permute:
    case OP_reshape:
    case OP_broadcast:
    case OP_slice: return ZEROS_OF_OPERAND;
    case OP_add: return ZEROS_OF_SUM;
    case OP_full: return dtype_is_float(t) ? ZEROS_OF_VALUE : ZEROS_ANY;
    case OP_invoke_subgraph: return ZEROS_OF_BODY;
    default: return ZEROS_ANY;
    }
}

static bool is_negative_zero(const struct attr *a) { return a->kind == ATTR_REAL && !a->r && signbit(a->r); }

enum { DEEPEST_ZEROS = 16 }; /* nodes that are followed */

static bool never_in_body(const struct module *m, const struct fn *f, val v, uint32_t depth)
{
    if (f->values[v].node == NODE_NONE || !depth--) return false;
    const struct node *n = fn_node(f, f->values[v].node);
    switch (zeros_of(n, (enum dtype)type_get(m, value_type(f, v)).dtype)) {
    case ZEROS_OF_FOLD: return node_accumulator(m, f, n) == type_get(m, value_type(f, v)).dtype;
    case ZEROS_OF_OPERAND: return never_in_body(m, f, node_operands(f, n)[0], depth);
    case ZEROS_OF_SUM:
        return never_in_body(m, f, node_operands(f, n)[0], depth) ||
               never_in_body(m, f, node_operands(f, n)[1], depth);
    case ZEROS_OF_VALUE: return !is_negative_zero(node_attr(f, n, FULL_VALUE));
    case ZEROS_OF_BODY: {
        const struct fn *g = module_fn(m, node_region(f, n, 0)->fn);
        return never_in_body(m, g, g->results[v - n->results], depth);
    }
    case ZEROS_ANY: break;
    }
    return false;
}

/* node_accumulator of a node that is being built. */
static enum dtype fold_accumulator(const struct fold *w, const struct node *n, val v)
{
    enum dtype t = fold_dtype(w, v);
    for (uint32_t i = 0; i < n->n_operands; i++)
        t = dtype_accumulator_of(fold_dtype(w, built_operand(w->b, n, i)), t);
    return t;
}

static bool never_negative_zero(const struct fold *w, val v, uint32_t depth)
{
    const struct node *n = built_node(w->b, v);
    if (!n || !depth--) return false;
    switch (zeros_of(n, fold_dtype(w, v))) {
    case ZEROS_OF_FOLD: return fold_accumulator(w, n, v) == fold_dtype(w, v);
    case ZEROS_OF_OPERAND: return never_negative_zero(w, built_operand(w->b, n, 0), depth);
    case ZEROS_OF_SUM:
        return never_negative_zero(w, built_operand(w->b, n, 0), depth) ||
               never_negative_zero(w, built_operand(w->b, n, 1), depth);
    case ZEROS_OF_VALUE: return !is_negative_zero(built_attr(w->b, n, FULL_VALUE));
    case ZEROS_OF_BODY: {
        const struct fn *g = module_fn(w->m, w->b->regions.data[n->regions].fn);
        return never_in_body(w->m, g, g->results[v - n->results], depth);
    }
    case ZEROS_ANY: break;
    }
    return false;
}

bool fold_never_negative_zero(const struct fold *w, val v)
{
    return never_negative_zero(w, v, DEEPEST_ZEROS);
}

val fold_add(const struct fold *w)
{
    for (uint32_t k = 0; k < 2; k++) {
        val x = w->x[k], y = w->x[1 - k];
        if (fold_is_number(w, y, fold_is_float(w, y) ? -0.0 : 0.0)) return x;
        if (fold_is_float(w, y) && fold_is_number(w, y, 0.0) && fold_never_negative_zero(w, x)) return x;
    }
    for (uint32_t k = 0; k < 2; k++) {
        const struct node *negation = fold_made_by(w, w->x[1 - k], OP_neg);
        if (negation) return emit2(w->b, OP_sub, w->x[k], built_operand(w->b, negation, 0));
    }
    return fold_sum_of_pads(w);
}

val fold_sub(const struct fold *w)
{
    const struct node *n = fold_made_by(w, w->x[1], OP_neg);
    if (fold_is_number(w, w->x[1], 0.0)) return w->x[0];
    if (w->x[0] == w->x[1] && !fold_is_float(w, w->x[0])) return fold_number(w, 0);
    return n ? emit2(w->b, OP_add, w->x[0], built_operand(w->b, n, 0)) : VAL_NONE;
}

val fold_mul(const struct fold *w)
{
    const struct node *n = fold_made_by(w, w->x[0], OP_neg), *k = fold_made_by(w, w->x[1], OP_neg);
    for (uint32_t i = 0; i < 2; i++) {
        if (fold_is_number(w, w->x[1 - i], 1)) return w->x[i];
        if (!fold_is_float(w, w->x[i]) && fold_is_number(w, w->x[i], 0)) return w->x[i];
    }
    return n && k ? emit2(w->b, OP_mul, built_operand(w->b, n, 0), built_operand(w->b, k, 0)) : VAL_NONE;
}

val fold_div(const struct fold *w)
{
    const struct node *n = fold_made_by(w, w->x[0], OP_neg), *k = fold_made_by(w, w->x[1], OP_neg);
    if (fold_is_number(w, w->x[1], 1)) return w->x[0];
    return n && k && fold_is_float(w, w->x[0])
               ? emit2(w->b, OP_div, built_operand(w->b, n, 0), built_operand(w->b, k, 0))
               : VAL_NONE;
}

val fold_idempotent(const struct fold *w) { return w->x[0] == w->x[1] ? w->x[0] : VAL_NONE; }

/* Of bools one is the operand's own value (true of and, false of or), the other absorbs. */
static val fold_logic(const struct fold *w, bool neutral)
{
    if (w->x[0] == w->x[1]) return w->x[0];
    if (fold_dtype(w, w->x[0]) != DT_BOOL) return VAL_NONE;
    for (uint32_t i = 0; i < 2; i++) {
        if (fold_is_number(w, w->x[1 - i], neutral)) return w->x[i];
        if (fold_is_number(w, w->x[1 - i], !neutral)) return w->x[1 - i];
    }
    return VAL_NONE;
}
val fold_and(const struct fold *w) { return fold_logic(w, true); }
val fold_or(const struct fold *w) { return fold_logic(w, false); }

/* Of a value and itself. */
val fold_comparison(const struct fold *w)
{
    if (w->x[0] != w->x[1] || fold_is_float(w, w->x[0])) return VAL_NONE;
    return fold_number(w, (node_row(w->n)->compares & COMPARE_EQ) != 0);
}

val fold_involution(const struct fold *w)
{
    const struct node *n = fold_made_by(w, w->x[0], (enum op)w->n->op);
    return n ? built_operand(w->b, n, 0) : VAL_NONE;
}

val fold_abs(const struct fold *w)
{
    const struct node *n = fold_made_by(w, w->x[0], OP_neg);
    if (fold_made_by(w, w->x[0], OP_abs)) return w->x[0];
    return n ? emit1(w->b, OP_abs, built_operand(w->b, n, 0)) : VAL_NONE;
}

val fold_select(const struct fold *w)
{
    int64_t i;
    double r;
    const struct node *n = fold_made_by(w, w->x[0], OP_not);
    if (fold_splat(w, w->x[0], &i, &r)) return i ? w->x[1] : w->x[2];
    if (w->x[1] == w->x[2]) return w->x[1];
    if (fold_dtype(w, w->x[1]) == DT_BOOL && fold_is_number(w, w->x[1], 1) && fold_is_number(w, w->x[2], 0))
        return w->x[0];
    return n ? emit_select(w->b, built_operand(w->b, n, 0), w->x[2], w->x[1]) : VAL_NONE;
}

/* Does every value of a survive a cast to b and back? */
static bool widens(enum dtype a, enum dtype b)
{
    static const uint8_t precision[DT_COUNT] = { [DT_F16] = 11, [DT_BF16] = 8, [DT_F32] = 24, [DT_F64] = 53 };
    bool same_sign = dtype_info[a].kind == dtype_info[b].kind || dtype_info[b].kind == KIND_INT;
    uint32_t bits = 8u * dtype_info[a].size - (dtype_info[a].kind == KIND_INT);
    uint32_t room = 8u * dtype_info[b].size - (dtype_info[b].kind == KIND_INT);
    if (a == DT_BOOL || b == DT_BOOL || (dtype_is_float(a) && !dtype_is_float(b))) return false;
    if (dtype_is_float(a)) return dtype_info[a].size < dtype_info[b].size;
    return dtype_is_float(b) ? bits <= precision[b] && b != DT_F16 : same_sign && bits <= room;
}

val fold_cast(const struct fold *w)
{
    enum dtype to = (enum dtype)type_get(w->m, w->type).dtype, from = fold_dtype(w, w->x[0]);
    const struct node *n = fold_made_by(w, w->x[0], OP_cast);
    if (to == from) return w->x[0];
    if (!n) return VAL_NONE;
    val first = built_operand(w->b, n, 0);
    enum dtype origin = fold_dtype(w, first);
    if (!widens(origin, from)) return VAL_NONE;
    /* Integers saturate on their way out of floats but wrap among themselves. */
    bool through_float = dtype_is_integer(origin) && dtype_is_float(from);
    if (through_float && dtype_is_integer(to) && to != origin && to != DT_I64) return VAL_NONE;
    return emit_cast(w->b, first, to);
}

/* Exact: pow itself gives these numbers. */
val fold_pow(const struct fold *w)
{
    if (fold_is_number(w, w->x[1], 0.0) || fold_is_number(w, w->x[1], -0.0)) return fold_number(w, 1);
    if (fold_is_number(w, w->x[1], 1.0)) return w->x[0];
    return fold_is_number(w, w->x[1], 2.0) ? emit2(w->b, OP_mul, w->x[0], w->x[0]) : VAL_NONE;
}
