/* Interval analysis of integers. A function and what is known of its parameters come in, an interval per
 * value goes out: what an operator makes of intervals is its row's `range`, bodies are gone through with what
 * their node feeds them, and the carries of a loop are widened until a step adds nothing, then narrowed
 * again. */
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

struct range range_wrapped(enum dtype t, wide lo, wide hi)
{
    struct range all = range_of_dtype(t);
    return lo < all.lo || hi > all.hi ? all : (struct range){ (int64_t)lo, (int64_t)hi };
}

int range_compare(enum comparison r, enum dtype t, struct range x, struct range y)
{
    uint32_t possible = 0; /* orders in which elements may stand */
    if (x.lo < y.hi || range_is_open(t, y)) possible |= COMPARE_LT;
    if (x.lo <= y.hi && y.lo <= x.hi) possible |= COMPARE_EQ;
    if (x.hi > y.lo || range_is_open(t, x)) possible |= COMPARE_GT;
    if (!(possible & ~(uint32_t)r)) return 1;
    return possible & r ? -1 : 0;
}

/* What is left of x when x `r` y holds. */
static void refine(enum comparison r, enum dtype t, struct range *x, struct range y)
{
    bool may_equal = r & COMPARE_EQ;
    if (!(r & COMPARE_GT) && !range_is_open(t, y))
        x->hi = HOP_MIN(x->hi, !may_equal && y.hi > INT64_MIN ? y.hi - 1 : y.hi);
    if (!(r & COMPARE_LT)) x->lo = HOP_MAX(x->lo, !may_equal && y.lo < INT64_MAX ? y.lo + 1 : y.lo);
    if (r == COMPARE_NE && y.lo == y.hi && !range_is_open(t, y)) {
        if (x->lo == y.lo && x->lo < INT64_MAX) x->lo++;
        if (x->hi == y.lo && x->hi > INT64_MIN && !range_is_open(t, *x)) x->hi--;
    }
}

/* ---- what rows see ---- */

struct range_in range_in(struct module *m, const struct fn *f, const struct node *n,
                         const struct range *values)
{
    const val *x = node_operands(f, n);
    enum dtype t = (enum dtype)type_get(m, value_type(f, n->results)).dtype;
    struct range_in w = { .m = m, .f = f, .n = n, .values = values, .t = t, .from = t };
    if (n->n_operands > 0) w.x = values[x[0]];
    if (n->n_operands > 0) w.from = (enum dtype)type_get(m, value_type(f, x[0])).dtype;
    if (n->n_operands > 1) w.y = values[x[1]];
    if (n->n_operands > 2) w.z = values[x[2]];
    return w;
}

bool range_in_is_open(const struct range_in *w)
{
    if (w->from != DT_U64) return false;
    for (uint32_t k = 0; k < w->n->n_operands; k++)
        if (range_is_open(DT_U64, w->values[node_operands(w->f, w->n)[k]])) return true;
    return false;
}

struct range range_of_dim(const struct range_in *w, dim d)
{
    struct range r;
    dim_range(w->m, w->f->symbols, d, &r.lo, &r.hi);
    return r;
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

/* The carries of a while_loop where its predicate gave `outcome`; false: it never does. */
static bool assume(const struct ranger *r, const struct fn *cond, val test, bool outcome,
                   const struct range *values, uint32_t n_carry, struct range *carry)
{
    if (range_is_point(values[test]) && values[test].lo != outcome) return false;
    if (cond->values[test].node == NODE_NONE) return true;
    const struct node *n = fn_node(cond, cond->values[test].node);
    const val *x = node_operands(cond, n);
    bool possible = true;
    const struct op_row *row = node_row(n);
    if (row->logic == LOGIC_NOT) return assume(r, cond, x[0], !outcome, values, n_carry, carry);
    if (row->logic == (outcome ? LOGIC_AND : LOGIC_OR))
        for (uint32_t k = 0; k < 2; k++) possible &= assume(r, cond, x[k], outcome, values, n_carry, carry);
    if (!row->compares) return possible;
    enum dtype t = (enum dtype)type_get(r->m, value_type(cond, x[0])).dtype;
    if (dtype_is_float(t)) return possible;
    enum comparison holds = (enum comparison)row->compares;
    if (!outcome) holds = comparison_opposite(holds);
    if (x[0] < n_carry) refine(holds, t, &carry[x[0]], values[x[1]]);
    if (x[1] < n_carry) refine(comparison_mirrored(holds), t, &carry[x[1]], values[x[0]]);
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
    if (v == carry) {
        *offset = 0;
        return true;
    }
    if (body->values[v].node == NODE_NONE) return false;
    const struct node *n = fn_node(body, body->values[v].node);
    const int8_t *factors = node_row(n)->factors;
    const val *x = node_operands(body, n);
    if (n->n_operands != 2) return false;
    for (uint32_t k = 0; k < 2; k++) {
        struct range other = values[x[1 - k]];
        if (factors[k] != 1 || !range_is_point(other) || !is_shifted(body, carry, x[k], values, offset))
            continue;
        *offset += factors[1 - k] < 0 ? -(uint64_t)other.lo : (uint64_t)other.lo;
        return true;
    }
    return false;
}

bool carry_step(struct module *m, const struct fn *body, uint32_t carry, const struct range *values,
                int64_t *step)
{
    struct type t = type_get(m, value_type(body, carry));
    uint64_t offset;
    if (t.rank || !dtype_is_integer((enum dtype)t.dtype)) return false;
    if (!is_shifted(body, carry, body->results[carry], values, &offset)) return false;
    *step = wrapped_number((enum dtype)t.dtype, (int64_t)offset);
    return true;
}

/* Most trips the loop can make, where that is known: then a counter needs no widening. */
static bool trips_at_most(const struct ranger *r, const struct fn *f, const struct loop *l,
                          const struct range *values, int64_t *most)
{
    int64_t lo;
    if (loop_has_length(l)) {
        dim_range(r->m, f->symbols, l->length, &lo, most);
        return true;
    }
    if (l->kind != LOOP_COUNTED) return false;
    wide trips = (wide)values[l->to].hi - values[l->from].lo;
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
        bool left = assume(r, l->cond, l->cond->results[0], false, cond, l->n_carry, out->final);
        /* Never left: any claim would do. */
        for (uint32_t i = 0; i < l->n_carry && !left; i++) out->final[i] = carry[i];
    } else {
        for (uint32_t i = 0; i < l->n_carry; i++) out->final[i] = carry[i];
    }
    if (out->entered) out->body = go_through(r, l->body, out->params, depth + 1);
}

/* Carries that are shifted by the same number in every step are known without going through steps: marks
 * them, and says in `carry` where they get in `most` steps. */
static void count_carries(const struct ranger *r, const struct loop *l, int64_t most, uint32_t depth,
                          struct loop_ranges *out, struct range *carry, bool *counts)
{
    int64_t step;
    /* What holds whatever the carries are. */
    for (uint32_t i = 0; i < l->n_carry; i++) out->params[i] = all_of(r, l->body, i);
    out->body = go_through(r, l->body, out->params, depth + 1);
    for (uint32_t i = 0; i < l->n_carry; i++) {
        if (!carry_step(r->m, l->body, i, out->body, &step)) continue;
        enum dtype t = (enum dtype)type_get(r->m, value_type(l->body, i)).dtype;
        wide far = (wide)step * most;
        counts[i] = true;
        if (range_is_open(t, carry[i])) continue;
        carry[i] = range_wrapped(t, HOP_MIN(0, far) + carry[i].lo, HOP_MAX(0, far) + carry[i].hi);
    }
}

static void loop_through(const struct ranger *r, const struct fn *f, const struct loop *l,
                         const struct range *values, uint32_t depth, struct loop_ranges *out)
{
    struct range *first = ARENA_NEW(r->a, struct range, l->n_carry);
    struct range *carry = ARENA_NEW(r->a, struct range, l->n_carry);
    bool *counts = ARENA_ZNEW(r->a, bool, l->n_carry);
    *out = (struct loop_ranges){ .params = fed(r, f, l->n, l->body_region, values),
                                 .final = ARENA_NEW(r->a, struct range, l->n_carry) };
    for (uint32_t i = 0; i < l->n_carry; i++) {
        first[i] = values[l->carry[i]];
        carry[i] = first[i];
    }
    if (loop_has_length(l))
        for (uint32_t i = 0; i < l->n_over; i++) out->params[l->n_carry + i] = values[l->over[i]];
    if (l->kind == LOOP_COUNTED) {
        struct range from = values[l->from], to = values[l->to];
        int64_t last = to.hi == INT64_MIN ? INT64_MIN : to.hi - 1;
        out->params[l->n_carry] = (struct range){ from.lo, HOP_MAX(from.lo, last) };
    }
    bool whole = false;
    for (uint32_t i = 0; i < l->n_carry; i++)
        whole |= is_whole((enum dtype)type_get(r->m, value_type(l->body, i)).dtype);
    int64_t most;
    if (whole && trips_at_most(r, f, l, values, &most)) count_carries(r, l, most, depth, out, carry, counts);
    for (uint32_t round = 0;; round++) {
        bool grown = false;
        step_once(r, f, l, values, carry, depth, out);
        if (!out->entered) return;
        for (uint32_t i = 0; i < l->n_carry; i++) {
            if (counts[i]) continue;
            struct range next = range_join(carry[i], out->body[l->body->results[i]]);
            struct range all = all_of(r, l->body, i);
            if (range_equal(next, carry[i])) continue;
            if (round >= JOIN_STEPS && next.lo < carry[i].lo) next.lo = all.lo;
            if (round >= JOIN_STEPS && next.hi > carry[i].hi) next.hi = all.hi;
            carry[i] = next;
            grown = true;
        }
        if (!grown) break;
    }
    /* A step from what holds in all steps gives what holds in all steps. */
    for (uint32_t round = 0; round < NARROW_STEPS; round++) {
        bool shrunk = false;
        for (uint32_t i = 0; i < l->n_carry; i++) {
            struct range next = counts[i] ? carry[i] : range_join(first[i], out->body[l->body->results[i]]);
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
        values[l->n->results + i] = w.entered || l->cond ? w.final[i] : values[l->carry[i]];
    int64_t lo, most = INT64_MAX;
    bool limited = l->max_trips != HOP_NONE; /* then zeros may stand behind the last row */
    if (limited) dim_range(r->m, f->symbols, l->max_trips, &lo, &most);
    if (l->counts)
        values[l->n->results + loop_trips_result(l)] = (struct range){ 0, w.entered ? HOP_MAX(most, 0) : 0 };
    for (uint32_t k = 0; k < l->n_stack && w.entered; k++) {
        struct range row = w.body[l->body->results[l->n_carry + k]];
        if (limited) row = range_join(row, (struct range){ 0, 0 });
        values[l->n->results + loop_stack_result(l, k)] = row;
    }
}

static void through_branches(const struct ranger *r, const struct fn *f, const struct node *n,
                             struct range *values, uint32_t depth)
{
    bool choice = node_row(n)->control == CONTROL_CHOICE;
    struct range index = choice ? values[node_operands(f, n)[0]] : (struct range){ 0, 0 };
    int64_t last = n->n_regions - 1;
    uint32_t from = (uint32_t)HOP_MAX(0, HOP_MIN(index.lo, last));
    uint32_t to = (uint32_t)HOP_MAX(0, HOP_MIN(index.hi, last));
    for (uint32_t k = from; k <= to; k++) {
        const struct fn *body = module_fn(r->m, node_region(f, n, k)->fn);
        const struct range *inner = go_through(r, body, fed(r, f, n, k, values), depth + 1);
        for (uint32_t i = 0; i < n->n_results; i++) {
            struct range one = inner[body->results[i]], *all = &values[n->results + i];
            *all = k == from ? one : range_join(*all, one);
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
        uint8_t control = node_row(n)->control;
        if (control == CONTROL_CHOICE || control == CONTROL_CALL) through_branches(r, f, n, values, depth);
        else if (loop_of_node(r->m, f, n, &l)) through_loop(r, f, &l, values, depth);
        return;
    }
    if (n->n_results != 1 || !node_row(n)->range) return;
    struct range_in w = range_in(r->m, f, n, values);
    values[n->results] = node_row(n)->range(&w);
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
    if (!loop_of_node(m, f, n, &l)) return fed(&r, f, n, k, values);
    loop_through(&r, f, &l, values, 0, &w);
    if (k == l.body_region) return w.params;
    struct range *cond =
        fed(&r, f, n, k, values); /* the predicate sees the carries before every step and after the last */
    for (uint32_t i = 0; i < l.n_carry; i++) {
        cond[i] = values[l.carry[i]];
        if (w.entered) cond[i] = range_join(cond[i], w.body[l.body->results[i]]);
    }
    return cond;
}
