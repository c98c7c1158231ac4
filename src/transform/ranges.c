/* Interval analysis of integers. A function and what is known of its parameters come in, an interval per
 * value goes out: operators have one small rule each in a table, bodies are gone through with what their node
 * feeds them, and the carries of a loop are widened until a step adds nothing, then narrowed again. */
#include "transform/ranges.h"

#include "ir/number.h"
#include "ops/build.h"
#include "transform/pass.h"

enum {
    MAX_DEPTH = 3,      /* of nested bodies: each level goes through its body several times */
    JOIN_STEPS = 2,     /* steps of a loop before what still grows is widened */
    NARROW_STEPS = 2,   /* steps after that */
    CONSTANT_LIMIT = 64 /* elements of a constant that are looked at */
};

typedef __int128 wide;

struct range range_of_dtype(enum dtype t)
{
    const struct dtype_info *d = &dtype_info[t];
    if (d->kind == KIND_BOOL) return (struct range){ 0, 1 };
    if (d->kind == KIND_UINT)
        return (struct range){ 0, d->size == 8 ? INT64_MAX : ((int64_t)1 << 8 * d->size) - 1 };
    if (d->kind == KIND_FLOAT || d->size == 8) return (struct range){ INT64_MIN, INT64_MAX };
    return (struct range){ -((int64_t)1 << (8 * d->size - 1)), ((int64_t)1 << (8 * d->size - 1)) - 1 };
}

static bool is_whole(enum dtype t) { return !dtype_is_float(t); }
static bool is_open(enum dtype t, struct range r) { return t == DT_U64 && r.hi == INT64_MAX; }

/* Both ends in t, or anything: a result that may wrap around. */
static struct range wrapped(enum dtype t, wide lo, wide hi)
{
    struct range all = range_of_dtype(t);
    return lo < all.lo || hi > all.hi ? all : (struct range){ (int64_t)lo, (int64_t)hi };
}

static struct range join(struct range x, struct range y)
{
    return (struct range){ HOP_MIN(x.lo, y.lo), HOP_MAX(x.hi, y.hi) };
}

int range_compare(enum op op, enum dtype t, struct range x, struct range y)
{
    if (is_open(t, x) || is_open(t, y)) { /* an end that is none */
        if (op == OP_gt || op == OP_le)
            return x.hi < y.lo ? op == OP_le : x.lo > y.hi && !is_open(t, y) ? op == OP_gt : -1;
        if (op == OP_lt || op == OP_ge)
            return x.hi < y.lo ? op == OP_lt : x.lo > y.hi && !is_open(t, y) ? op == OP_ge : -1;
        return x.hi < y.lo || y.hi < x.lo ? op == OP_ne : -1;
    }
    switch (op) {
    case OP_lt: return x.hi < y.lo ? 1 : x.lo >= y.hi ? 0 : -1;
    case OP_le: return x.hi <= y.lo ? 1 : x.lo > y.hi ? 0 : -1;
    case OP_gt: return x.lo > y.hi ? 1 : x.hi <= y.lo ? 0 : -1;
    case OP_ge: return x.lo >= y.hi ? 1 : x.hi < y.lo ? 0 : -1;
    case OP_eq: return x.lo == x.hi && range_equal(x, y) ? 1 : x.hi < y.lo || y.hi < x.lo ? 0 : -1;
    case OP_ne: return x.lo == x.hi && range_equal(x, y) ? 0 : x.hi < y.lo || y.hi < x.lo ? 1 : -1;
    default: return -1;
    }
}

/* ---- operators ---- */

/* A node whose one result is whole. x: ranges of its operands, from: their dtypes. */
struct known {
    struct module *m;
    const struct fn *f;
    const struct node *n;
    const struct range *values;
    enum dtype t, from; /* of the result, of operand 0 */
    struct range x, y, z;
};

static struct range rule_add(const struct known *w)
{
    return wrapped(w->t, (wide)w->x.lo + w->y.lo, (wide)w->x.hi + w->y.hi);
}
static struct range rule_sub(const struct known *w)
{
    return wrapped(w->t, (wide)w->x.lo - w->y.hi, (wide)w->x.hi - w->y.lo);
}
static struct range rule_neg(const struct known *w) { return wrapped(w->t, -(wide)w->x.hi, -(wide)w->x.lo); }
static struct range rule_mul(const struct known *w)
{
    wide p[4] = { (wide)w->x.lo * w->y.lo, (wide)w->x.lo * w->y.hi, (wide)w->x.hi * w->y.lo,
                  (wide)w->x.hi * w->y.hi },
         lo = p[0], hi = p[0];
    for (int i = 1; i < 4; i++) lo = HOP_MIN(lo, p[i]), hi = HOP_MAX(hi, p[i]);
    return wrapped(w->t, lo, hi);
}
static struct range rule_abs(const struct known *w)
{
    wide lo = w->x.lo, hi = w->x.hi, most = HOP_MAX(lo < 0 ? -lo : lo, hi < 0 ? -hi : hi);
    return wrapped(w->t, lo <= 0 && hi >= 0 ? 0 : HOP_MIN(lo < 0 ? -lo : lo, hi < 0 ? -hi : hi), most);
}
static struct range rule_sign(const struct known *w)
{
    return (struct range){ w->x.lo > 0 ? 1 : w->x.lo == 0 ? 0 : -1, w->x.hi < 0 ? -1 : w->x.hi == 0 ? 0 : 1 };
}
static struct range rule_max(const struct known *w)
{
    return (struct range){ HOP_MAX(w->x.lo, w->y.lo), HOP_MAX(w->x.hi, w->y.hi) };
}
static struct range rule_min(const struct known *w)
{
    return (struct range){ HOP_MIN(w->x.lo, w->y.lo), HOP_MIN(w->x.hi, w->y.hi) };
}
/* By a positive divisor only. */
static struct range rule_div(const struct known *w)
{
    if (w->y.lo < 1) return range_of_dtype(w->t);
    return (struct range){ w->x.lo < 0 ? w->x.lo / w->y.lo : w->x.lo / w->y.hi,
                           w->x.hi < 0 ? w->x.hi / w->y.hi : w->x.hi / w->y.lo };
}
static int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static struct range rule_floor_div(const struct known *w)
{
    if (w->y.lo < 1) return range_of_dtype(w->t);
    return (struct range){ floor_quotient(w->x.lo, w->x.lo < 0 ? w->y.lo : w->y.hi),
                           floor_quotient(w->x.hi, w->x.hi < 0 ? w->y.hi : w->y.lo) };
}
static struct range rule_rem(const struct known *w)
{
    if (w->y.lo < 1) return range_of_dtype(w->t);
    return (struct range){ w->x.lo >= 0 ? 0 : HOP_MAX(w->x.lo, 1 - w->y.hi),
                           w->x.hi <= 0 ? 0 : HOP_MIN(w->x.hi, w->y.hi - 1) };
}
static struct range rule_mod(const struct known *w)
{
    if (w->y.lo < 1) return range_of_dtype(w->t);
    return (struct range){ 0, w->x.lo >= 0 ? HOP_MIN(w->x.hi, w->y.hi - 1) : w->y.hi - 1 };
}
static struct range rule_clamp(const struct known *w) /* operands x, low, high */
{
    struct range up = { HOP_MAX(w->x.lo, w->y.lo), HOP_MAX(w->x.hi, w->y.hi) };
    return (struct range){ HOP_MIN(up.lo, w->z.lo), HOP_MIN(up.hi, w->z.hi) };
}
static struct range rule_select(const struct known *w)
{
    return range_is_point(w->x) ? (w->x.lo ? w->y : w->z) : join(w->y, w->z);
}
static struct range rule_cast(const struct known *w)
{
    if (dtype_is_float(w->from) || is_open(w->from, w->x)) return range_of_dtype(w->t);
    if (w->t == DT_BOOL)
        return w->x.lo > 0 || w->x.hi < 0     ? (struct range){ 1, 1 }
               : w->x.lo == 0 && w->x.hi == 0 ? (struct range){ 0, 0 }
                                              : (struct range){ 0, 1 };
    return wrapped(w->t, w->x.lo, w->x.hi);
}
static struct range rule_same(const struct known *w) { return w->x; }
static struct range rule_compare(const struct known *w)
{
    int known = dtype_is_float(w->from) ? -1 : range_compare((enum op)w->n->op, w->from, w->x, w->y);
    return known < 0 ? (struct range){ 0, 1 } : (struct range){ known, known };
}
static struct range rule_not(const struct known *w)
{
    return w->t == DT_BOOL ? (struct range){ 1 - w->x.hi, 1 - w->x.lo } : range_of_dtype(w->t);
}
static struct range rule_and(const struct known *w)
{
    if (w->x.lo < 0 || w->y.lo < 0) return range_of_dtype(w->t);
    return (struct range){ w->t == DT_BOOL ? w->x.lo & w->y.lo : 0, HOP_MIN(w->x.hi, w->y.hi) };
}
static struct range rule_or(const struct known *w)
{
    return w->t == DT_BOOL ? (struct range){ w->x.lo | w->y.lo, w->x.hi | w->y.hi } : range_of_dtype(w->t);
}

static struct range rule_full(const struct known *w)
{
    const struct attr *v = node_attr(w->f, w->n, FULL_VALUE);
    if (v->kind != ATTR_INT) return range_of_dtype(w->t);
    return w->t == DT_BOOL ? (struct range){ v->i != 0, v->i != 0 } : wrapped(w->t, v->i, v->i);
}
static struct range rule_constant(const struct known *w)
{
    const struct constant *k = &w->m->constants.data[node_attr(w->f, w->n, CONSTANT_VALUE)->i];
    size_t width = dtype_info[w->t].size, count = k->bytes / width;
    if (!count || count > CONSTANT_LIMIT) return range_of_dtype(w->t);
    struct range r = { INT64_MAX, INT64_MIN };
    for (size_t i = 0; i < count; i++) {
        int64_t v = element_whole(w->t, (const char *)k->data + i * width);
        if (w->t == DT_U64 && v < 0) return range_of_dtype(w->t);
        r = join(r, (struct range){ v, v });
    }
    return r;
}
static struct range range_of_dim(const struct known *w, dim d)
{
    struct range r;
    dim_range(w->m, w->f->symbols, d, &r.lo, &r.hi);
    return r;
}
static struct range rule_iota(const struct known *w)
{
    struct type t = type_get(w->m, value_type(w->f, w->n->results));
    const struct attr *along = node_attr(w->f, w->n, IOTA_DIM);
    struct range size = range_of_dim(w, t.dims[along->kind == ATTR_ABSENT ? 0 : along->i]);
    return wrapped(w->t, 0, HOP_MAX(size.hi, 1) - 1);
}
static struct range rule_dim_value(const struct known *w)
{
    return range_of_dim(w, (dim)node_attr(w->f, w->n, DIM_VALUE_DIM)->i);
}
static struct range rule_bind_dim(const struct known *w)
{
    return (struct range){ 0, HOP_MAX(w->x.hi, 1) - 1 };
}
static struct range rule_argmax(const struct known *w)
{
    struct type t = type_get(w->m, value_type(w->f, node_operands(w->f, w->n)[0]));
    return (struct range){ 0,
                           HOP_MAX(range_of_dim(w, t.dims[node_attr(w->f, w->n, ARGMAX_DIM)->i]).hi, 1) - 1 };
}
static struct range rule_join_all(const struct known *w)
{
    struct range r = w->x;
    for (uint32_t k = 1; k < w->n->n_operands; k++) r = join(r, w->values[node_operands(w->f, w->n)[k]]);
    return r;
}
static struct range rule_join_two(const struct known *w) { return join(w->x, w->y); }

static struct range (*const rules[OP_COUNT])(const struct known *w) = {
    [OP_add] = rule_add,
    [OP_sub] = rule_sub,
    [OP_neg] = rule_neg,
    [OP_mul] = rule_mul,
    [OP_abs] = rule_abs,
    [OP_sign] = rule_sign,
    [OP_max] = rule_max,
    [OP_min] = rule_min,
    [OP_div] = rule_div,
    [OP_floor_div] = rule_floor_div,
    [OP_rem] = rule_rem,
    [OP_mod] = rule_mod,
    [OP_clamp] = rule_clamp,
    [OP_select] = rule_select,
    [OP_cast] = rule_cast,
    [OP_eq] = rule_compare,
    [OP_ne] = rule_compare,
    [OP_lt] = rule_compare,
    [OP_le] = rule_compare,
    [OP_gt] = rule_compare,
    [OP_ge] = rule_compare,
    [OP_not] = rule_not,
    [OP_and] = rule_and,
    [OP_or] = rule_or,
    [OP_full] = rule_full,
    [OP_constant] = rule_constant,
    [OP_iota] = rule_iota,
    [OP_dim_value] = rule_dim_value,
    [OP_bind_dim] = rule_bind_dim,
    [OP_argmax] = rule_argmax,
    [OP_argmin] = rule_argmax,
    [OP_reshape] = rule_same,
    [OP_permute] = rule_same,
    [OP_broadcast] = rule_same,
    [OP_slice] = rule_same,
    [OP_reverse] = rule_same,
    [OP_dynamic_slice] = rule_same,
    [OP_gather] = rule_same,
    [OP_stop_gradient] = rule_same,
    [OP_concat] = rule_join_all,
    [OP_pad] = rule_join_two,
    [OP_dynamic_update] = rule_join_two,
    [OP_cummax] = rule_same,
    [OP_cummin] = rule_same,
};
/* Those that compute with the ends: nothing is known of a result if an operand has none. */
static bool needs_ends(enum op op)
{
    return op != OP_max && op != OP_min && op != OP_select && (rules[op] != rule_same) && op != OP_concat &&
           op != OP_pad && op != OP_dynamic_update;
}

/* ---- bodies ---- */

struct ranger {
    struct arena *a;
    struct module *m;
};

static struct range all_of(const struct ranger *r, const struct fn *f, val v)
{
    return range_of_dtype((enum dtype)type_get(r->m, value_type(f, v)).dtype);
}
static struct range *go_through(const struct ranger *r, const struct fn *f, const struct range *params,
                                uint32_t depth);

/* Parameters of region k of n: what its groups feed, then its own operands; of the groups, carries and
 * indices are left to the caller (all there is). */
static struct range *fed(const struct ranger *r, const struct fn *f, const struct node *n, uint32_t k,
                         const struct range *values)
{
    const struct region *g = node_region(f, n, k);
    const struct fn *body = module_fn(r->m, g->fn);
    struct range *out = ARENA_NEW(r->a, struct range, body->n_params);
    for (uint32_t p = 0; p < body->n_params; p++) out[p] = all_of(r, body, p);
    for (uint32_t i = 0; i < g->n_operands; i++)
        out[body->n_params - g->n_operands + i] = values[node_region_operands(f, n, k)[i]];
    return out;
}

/* What is left of x when x `op` y holds (or, negated, does not). */
static void refine(enum op op, bool negated, enum dtype t, struct range *x, struct range y)
{
    static const uint8_t opposite[OP_COUNT] = {
        [OP_lt] = OP_ge, [OP_le] = OP_gt, [OP_gt] = OP_le, [OP_ge] = OP_lt, [OP_eq] = OP_ne, [OP_ne] = OP_eq
    };
    if (negated) op = (enum op)opposite[op];
    if ((op == OP_lt || op == OP_le || op == OP_eq) && !is_open(t, y))
        x->hi = HOP_MIN(x->hi, op == OP_lt && y.hi > INT64_MIN ? y.hi - 1 : y.hi);
    if (op == OP_gt || op == OP_ge || op == OP_eq)
        x->lo = HOP_MAX(x->lo, op == OP_gt && y.lo < INT64_MAX ? y.lo + 1 : y.lo);
    if (op == OP_ne && y.lo == y.hi && !is_open(t, y)) {
        if (x->lo == y.lo && x->lo < INT64_MAX) x->lo++;
        if (x->hi == y.lo && x->hi > INT64_MIN && !is_open(t, *x)) x->hi--;
    }
}

static enum op mirrored(enum op op)
{
    return op == OP_lt ? OP_gt : op == OP_le ? OP_ge : op == OP_gt ? OP_lt : op == OP_ge ? OP_le : op;
}

/* The carries of a while_loop where its predicate gave `outcome`; false: it never does. */
static bool assume(const struct ranger *r, const struct fn *cond, val test, bool outcome,
                   const struct range *values, uint32_t n_carry, struct range *carry)
{
    if (range_is_point(values[test]) && values[test].lo != outcome) return false;
    if (cond->values[test].node == NODE_NONE) return true;
    const struct node *n = fn_node(cond, cond->values[test].node);
    const val *x = node_operands(cond, n);
    bool possible = true;
    if (n->op == OP_not) return assume(r, cond, x[0], !outcome, values, n_carry, carry);
    if (n->op == (outcome ? OP_and : OP_or))
        for (uint32_t k = 0; k < 2; k++) possible &= assume(r, cond, x[k], outcome, values, n_carry, carry);
    if (rules[n->op] != rule_compare) return possible;
    enum dtype t = (enum dtype)type_get(r->m, value_type(cond, x[0])).dtype;
    if (dtype_is_float(t)) return possible;
    if (x[0] < n_carry) refine((enum op)n->op, !outcome, t, &carry[x[0]], values[x[1]]);
    if (x[1] < n_carry) refine(mirrored((enum op)n->op), !outcome, t, &carry[x[1]], values[x[0]]);
    for (uint32_t k = 0; k < 2; k++)
        if (x[k] < n_carry && carry[x[k]].lo > carry[x[k]].hi) return false;
    return possible;
}

static int64_t wrapped_number(enum dtype t, int64_t v)
{
    uint32_t bits = 8u * dtype_info[t].size;
    return bits == 64 ? v : (int64_t)((uint64_t)v << (64 - bits)) >> (64 - bits);
}

/* v is carry + *offset, through additions of known numbers. */
static bool is_shifted(const struct fn *body, uint32_t carry, val v, const struct range *values,
                       uint64_t *offset)
{
    if (v == carry) return *offset = 0, true;
    if (body->values[v].node == NODE_NONE) return false;
    const struct node *n = fn_node(body, body->values[v].node);
    if (n->op != OP_add && n->op != OP_sub) return false;
    const val *x = node_operands(body, n);
    if (range_is_point(values[x[1]]) && is_shifted(body, carry, x[0], values, offset))
        return *offset += n->op == OP_add ? (uint64_t)values[x[1]].lo : -(uint64_t)values[x[1]].lo, true;
    return n->op == OP_add && range_is_point(values[x[0]]) && is_shifted(body, carry, x[1], values, offset) &&
           (*offset += (uint64_t)values[x[0]].lo, true);
}

bool carry_step(struct module *m, const struct fn *body, uint32_t carry, const struct range *values,
                int64_t *step)
{
    struct type t = type_get(m, value_type(body, carry));
    uint64_t offset;
    if (t.rank || !dtype_is_integer((enum dtype)t.dtype) ||
        !is_shifted(body, carry, body->results[carry], values, &offset))
        return false;
    *step = wrapped_number((enum dtype)t.dtype, (int64_t)offset);
    return true;
}

/* Most trips the loop can make, where that is known: then a counter needs no widening. */
static bool trips_at_most(const struct ranger *r, const struct fn *f, const struct loop *l,
                          const struct range *values, int64_t *most)
{
    int64_t lo;
    if (l->scan) return dim_range(r->m, f->symbols, l->length, &lo, most), true;
    if (!l->counted) return false;
    const val *bounds = node_operands(f, l->n) + l->n_carry;
    wide trips = (wide)values[bounds[1]].hi - values[bounds[0]].lo;
    *most = trips > INT64_MAX ? INT64_MAX : HOP_MAX(0, (int64_t)trips);
    return true;
}

/* A loop's carries before (`steps`) and after its steps, and its body's ranges. */
struct loop_ranges {
    struct range *params; /* of the body, in every step */
    struct range *final;  /* per carry */
    struct range *body;   /* per value of the body */
    bool entered;         /* may there be a step? */
};

/* One more step: what the body makes of the carries. */
static void step_once(const struct ranger *r, const struct fn *f, const struct loop *l,
                      const struct range *values, struct range *carry, uint32_t depth,
                      struct loop_ranges *out)
{
    for (uint32_t i = 0; i < l->n_carry; i++) out->params[i] = carry[i];
    out->entered = true;
    if (l->cond) {
        struct range *given = fed(r, f, l->n, l->cond_region, values);
        for (uint32_t i = 0; i < l->n_carry; i++) given[i] = carry[i];
        struct range *cond = go_through(r, l->cond, given, depth + 1);
        out->entered = assume(r, l->cond, l->cond->results[0], true, cond, l->n_carry, out->params);
        for (uint32_t i = 0; i < l->n_carry; i++) out->final[i] = carry[i];
        if (!assume(r, l->cond, l->cond->results[0], false, cond, l->n_carry, out->final))
            for (uint32_t i = 0; i < l->n_carry; i++)
                out->final[i] = carry[i]; /* never left: any claim would do */
    } else {
        for (uint32_t i = 0; i < l->n_carry; i++) out->final[i] = carry[i];
    }
    if (out->entered) out->body = go_through(r, l->body, out->params, depth + 1);
}

static void loop_through(const struct ranger *r, const struct fn *f, const struct loop *l,
                         const struct range *values, uint32_t depth, struct loop_ranges *out)
{
    const val *operands = node_operands(f, l->n);
    struct range *first = ARENA_NEW(r->a, struct range, l->n_carry),
                 *carry = ARENA_NEW(r->a, struct range, l->n_carry);
    bool *counts = ARENA_ZNEW(r->a, bool, l->n_carry);
    *out = (struct loop_ranges){ .params = fed(r, f, l->n, l->body_region, values),
                                 .final = ARENA_NEW(r->a, struct range, l->n_carry) };
    for (uint32_t i = 0; i < l->n_carry; i++) first[i] = carry[i] = values[operands[i]];
    if (l->scan)
        for (uint32_t i = 0; i < l->n_over; i++)
            out->params[l->n_carry + i] = values[operands[l->n_carry + i]];
    if (l->counted) {
        struct range from = values[operands[l->n_carry]], to = values[operands[l->n_carry + 1]];
        out->params[l->n_carry] = (struct range){ from.lo, HOP_MAX(from.lo, to.hi == INT64_MIN ? INT64_MIN
                                                                                               : to.hi - 1) };
    }
    bool whole = false;
    for (uint32_t i = 0; i < l->n_carry; i++)
        whole |= is_whole((enum dtype)type_get(r->m, value_type(l->body, i)).dtype);
    int64_t most, step;
    if (whole && trips_at_most(r, f, l, values, &most)) {
        for (uint32_t i = 0; i < l->n_carry; i++)
            out->params[i] = all_of(r, l->body, i); /* what holds whatever the carries are */
        out->body = go_through(r, l->body, out->params, depth + 1);
        for (uint32_t i = 0; i < l->n_carry; i++) {
            if (!carry_step(r->m, l->body, i, out->body, &step)) continue;
            enum dtype t = (enum dtype)type_get(r->m, value_type(l->body, i)).dtype;
            wide far = (wide)step * most;
            carry[i] = is_open(t, first[i])
                           ? first[i]
                           : wrapped(t, HOP_MIN(0, far) + first[i].lo, HOP_MAX(0, far) + first[i].hi);
            counts[i] = true;
        }
    }
    for (uint32_t round = 0;; round++) {
        bool grown = false;
        step_once(r, f, l, values, carry, depth, out);
        if (!out->entered) return;
        for (uint32_t i = 0; i < l->n_carry; i++) {
            if (counts[i]) continue;
            struct range next = join(carry[i], out->body[l->body->results[i]]), all = all_of(r, l->body, i);
            if (range_equal(next, carry[i])) continue;
            if (round >= JOIN_STEPS)
                next = (struct range){ next.lo < carry[i].lo ? all.lo : next.lo,
                                       next.hi > carry[i].hi ? all.hi : next.hi };
            carry[i] = next;
            grown = true;
        }
        if (!grown) break;
    }
    for (uint32_t round = 0; round < NARROW_STEPS;
         round++) { /* a step from what holds in all steps gives what holds in all steps */
        bool shrunk = false;
        for (uint32_t i = 0; i < l->n_carry; i++) {
            struct range next = counts[i] ? carry[i] : join(first[i], out->body[l->body->results[i]]);
            shrunk |= !range_equal(next, carry[i]);
            carry[i] = next;
        }
        if (!shrunk) return;
        step_once(r, f, l, values, carry, depth, out);
        if (!out->entered) return;
    }
}

static void through_loop(const struct ranger *r, const struct fn *f, const struct loop *l,
                         struct range *values, uint32_t depth)
{
    struct loop_ranges w;
    loop_through(r, f, l, values, depth, &w);
    for (uint32_t i = 0; i < l->n_carry; i++)
        values[l->n->results + i] = w.entered || l->cond ? w.final[i] : values[node_operands(f, l->n)[i]];
    const struct attr *max = l->cond ? node_attr(f, l->n, WHILE_MAX_TRIPS) : NULL;
    int64_t lo, most = INT64_MAX;
    if (max && max->kind != ATTR_ABSENT) dim_range(r->m, f->symbols, (dim)max->i, &lo, &most);
    if (l->n_extra)
        values[l->n->results + l->n_carry] = (struct range){ 0, w.entered ? HOP_MAX(most, 0) : 0 };
    bool padded = max && max->kind != ATTR_ABSENT;
    for (uint32_t k = 0; k < l->n_stack && w.entered; k++) {
        struct range row = w.body[l->body->results[l->n_carry + k]];
        values[l->n->results + loop_stack_result(l, k)] = padded ? join(row, (struct range){ 0, 0 }) : row;
    }
}

static void through_branches(const struct ranger *r, const struct fn *f, const struct node *n,
                             struct range *values, uint32_t depth)
{
    struct range index = n->op == OP_switch ? values[node_operands(f, n)[0]] : (struct range){ 0, 0 };
    uint32_t last = n->n_regions - 1u, from = index.lo < 0 ? 0 : (uint32_t)HOP_MIN(index.lo, (int64_t)last),
             to = index.hi < 0 ? 0 : (uint32_t)HOP_MIN(index.hi, (int64_t)last);
    for (uint32_t k = from; k <= to; k++) {
        const struct fn *body = module_fn(r->m, node_region(f, n, k)->fn);
        const struct range *inner = go_through(r, body, fed(r, f, n, k, values), depth + 1);
        for (uint32_t i = 0; i < n->n_results; i++) {
            struct range one = inner[body->results[i]], *all = &values[n->results + i];
            *all = k == from ? one : join(*all, one);
        }
    }
}

static bool gives_whole(const struct ranger *r, const struct fn *f, const struct node *n)
{
    for (uint32_t k = 0; k < n->n_results; k++)
        if (is_whole((enum dtype)type_get(r->m, value_type(f, n->results + k)).dtype)) return true;
    return false;
}

static void through_node(const struct ranger *r, const struct fn *f, const struct node *n,
                         struct range *values, uint32_t depth)
{
    struct loop l;
    if (!gives_whole(r, f, n)) return;
    if (n->n_regions) {
        if (depth >= MAX_DEPTH) return;
        if (n->op == OP_switch || n->op == OP_invoke_subgraph) through_branches(r, f, n, values, depth);
        else if (loop_decode(r->m, f, n, &l)) through_loop(r, f, &l, values, depth);
        return;
    }
    if (n->n_results != 1 || !rules[n->op]) return;
    const val *x = node_operands(f, n);
    struct known w = { .m = r->m,
                       .f = f,
                       .n = n,
                       .values = values,
                       .t = (enum dtype)type_get(r->m, value_type(f, n->results)).dtype };
    w.from = w.t;
    if (n->n_operands > 0) w.x = values[x[0]], w.from = (enum dtype)type_get(r->m, value_type(f, x[0])).dtype;
    if (n->n_operands > 1) w.y = values[x[1]];
    if (n->n_operands > 2) w.z = values[x[2]];
    if (w.t == DT_U64 && needs_ends((enum op)n->op))
        for (uint32_t k = 0; k < n->n_operands; k++)
            if (is_open(w.t, values[x[k]]) && w.from == DT_U64) return;
    values[n->results] = rules[n->op](&w);
}

static struct range *go_through(const struct ranger *r, const struct fn *f, const struct range *params,
                                uint32_t depth)
{
    struct range *values = ARENA_NEW(r->a, struct range, f->n_values);
    for (uint32_t v = 0; v < f->n_values; v++)
        values[v] = v < f->n_params && params ? params[v] : all_of(r, f, v);
    for (uint32_t i = 0; i < f->n_nodes; i++) through_node(r, f, fn_node(f, i), values, depth);
    return values;
}

struct range *ranges_of_values(struct arena *a, struct module *m, const struct fn *f,
                               const struct range *params)
{
    return go_through(&(struct ranger){ a, m }, f, params, 0);
}

struct range *ranges_of_region(struct arena *a, struct module *m, const struct fn *f, const struct node *n,
                               uint32_t k, const struct range *values)
{
    struct ranger r = { a, m };
    struct loop l;
    struct loop_ranges w;
    if (!loop_decode(m, f, n, &l)) return fed(&r, f, n, k, values);
    loop_through(&r, f, &l, values, 0, &w);
    if (k == l.body_region) return w.params;
    struct range *cond =
        fed(&r, f, n, k, values); /* the predicate sees the carries before every step and after the last */
    for (uint32_t i = 0; i < l.n_carry; i++) {
        cond[i] = values[node_operands(f, n)[i]];
        if (w.entered) cond[i] = join(cond[i], w.body[l.body->results[i]]);
    }
    return cond;
}
