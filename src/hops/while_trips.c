/* Trip counts, the while_loop row's `count`: a while_loop whose predicate compares a counter (a carry that
 * grows by one number every trip) with something that does not change becomes a fori_loop of exactly as many
 * trips. Integers wrap around, so a count is taken only where it is right for every value: a counter that
 * would run past the end of its dtype and around is given more trips than any run can make, which is what it
 * makes. */
#include "hops/hops.h"
#include "transform/pass.h"
#include "transform/ranges.h"

enum {
    MAX_LEAVES = 8,    /* comparisons in one predicate */
    ENDLESS_STEP = 256 /* a 64-bit counter with at most this step that passes the end of its dtype needs 2^56
                          trips to come around: it never does */
};
static const int64_t ENDLESS = INT64_MAX;

/* One comparison of the predicate, all of which must hold. */
struct leaf {
    enum comparison holds;
    bool invariant; /* the same in every trip: nothing is compared here … */
    bool negated;   /* … and it must not hold */
    val x, y; /* values of the predicate; x changes by `step`, y does not. An invariant leaf is x alone */
    int64_t step;
    enum dtype dtype;
    struct range from, bound; /* of x before the first trip, of y */
};

struct trips {
    struct copier *c;
    struct loop l;
    struct arena *a;
    const bool *counts;   /* per carry: is it a counter? */
    const int64_t *steps; /* then its step */
    struct leaf leaves[MAX_LEAVES];
    uint32_t n_leaves;
    struct range *start; /* of the predicate's values before the first trip */
    bool may_not_end;    /* some count stands for a loop without end */
    bool clamped;        /* some count is larger than can be written down: there, too */
};

static enum dtype value_dtype(const struct module *m, const struct fn *f, val v)
{
    return (enum dtype)type_get(m, value_type(f, v)).dtype;
}
static uint32_t bits_of(enum dtype t) { return 8u * dtype_info[t].size; }

/* ---- what the predicate says ---- */

static int64_t wrap(enum dtype t, uint64_t v)
{
    uint32_t bits = bits_of(t);
    return bits == 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* By how much v of the predicate grows from trip to trip; 0: it stays. */
static bool growth(const struct trips *w, val v, int64_t *step)
{
    const struct fn *cond = w->l.cond;
    struct type t = type_get(w->c->b->m, value_type(cond, v));
    *step = 0;
    if (v < w->l.n_carry) {
        if (w->l.body->results[v] == v) return true;
        *step = w->steps[v];
        return w->counts[v];
    }
    if (v < cond->n_params) return true;
    const struct node *n = fn_node(cond, cond->values[v].node);
    const val *x = node_operands(cond, n);
    if (!node_is_pure(w->c->b->m, cond, n) || may_not_end(w->c->b->m, cond, n)) return false;
    if (node_mentions_inner(w->c->b->m, cond, n)) return false; /* a size that may be another at every trip */
    const int8_t *factors = node_row(n)->factors;
    bool linear = factors[0] && !t.rank && dtype_is_integer((enum dtype)t.dtype);
    uint64_t sum = 0;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        int64_t one;
        if (!growth(w, x[k], &one) || (one && !linear)) return false;
        if (one) sum += factors[k] < 0 ? -(uint64_t)one : (uint64_t)one;
    }
    *step = wrap((enum dtype)t.dtype, sum);
    return true;
}

/* Can the trips for which the leaf holds be counted? */
static bool leaf_is_countable(struct leaf *l)
{
    struct range all = range_of_dtype(l->dtype);
    uint64_t size = l->step < 0 ? -(uint64_t)l->step : (uint64_t)l->step;
    bool up = l->step > 0, near = l->step == 1 || l->step == -1;
    if (l->holds == COMPARE_EQ) return true;
    if (l->holds == COMPARE_NE) {
        if (near && up && l->from.hi <= l->bound.lo && l->dtype != DT_U64)
            l->holds = COMPARE_LT; /* it meets the bound before it wraps */
        if (near && !up && l->from.lo >= l->bound.hi && l->dtype != DT_U64) l->holds = COMPARE_GT;
        return true;
    }
    /* It runs away from its bound. */
    if (up != (l->holds == COMPARE_LT || l->holds == COMPARE_LE)) return false;
    __int128 past = (__int128)size - (l->holds == COMPARE_LT || l->holds == COMPARE_GT);
    bool open = l->dtype == DT_U64 && up && l->bound.hi == INT64_MAX;
    /* The last value is one of the dtype. */
    bool stays = past == 0 || (!open && (up ? l->bound.hi + past <= all.hi : l->bound.lo - past >= all.lo));
    return stays || size == 1 || (bits_of(l->dtype) == 64 && size <= ENDLESS_STEP);
}

static bool collect(struct trips *w, val test, bool negated)
{
    const struct fn *cond = w->l.cond;
    int64_t step, other;
    if (w->n_leaves == MAX_LEAVES) return false;
    struct leaf *l = &w->leaves[w->n_leaves];
    if (growth(w, test, &step)) {
        *l = (struct leaf){ .invariant = true, .x = test, .negated = negated };
        w->n_leaves++;
        return true;
    }
    if (cond->values[test].node == NODE_NONE) return false;
    const struct node *n = fn_node(cond, cond->values[test].node);
    const val *x = node_operands(cond, n);
    const struct op_row *row = node_row(n);
    if (row->logic == LOGIC_NOT) return collect(w, x[0], !negated);
    if (row->logic == (negated ? LOGIC_OR : LOGIC_AND))
        return collect(w, x[0], negated) && collect(w, x[1], negated);
    if (!row->compares || !growth(w, x[0], &step) || !growth(w, x[1], &other) || (step && other))
        return false;
    bool swap = other;
    enum comparison holds = (enum comparison)row->compares;
    if (negated) holds = comparison_opposite(holds);
    *l = (struct leaf){ .holds = swap ? comparison_mirrored(holds) : holds,
                        .x = x[swap],
                        .y = x[!swap],
                        .step = swap ? other : step,
                        .dtype = value_dtype(w->c->b->m, cond, x[0]) };
    l->from = w->start[l->x];
    l->bound = w->start[l->y];
    w->n_leaves++;
    return dtype_is_integer(l->dtype) && leaf_is_countable(l);
}

/* ---- counting ---- */

static val emit_whole(struct builder *b, enum dtype t, int64_t value)
{
    struct attr a[3] = { A_INT(value), A_DIMS(NULL, 0), A_DTYPE(t) };
    return emit(b, OP_full, NULL, 0, a);
}

static bool known_number(const struct builder *b, val v, int64_t *out)
{
    const struct node *n = built_node(b, v);
    if (!n || n->op != OP_full || built_attr(b, n, FULL_VALUE)->kind != ATTR_INT) return false;
    *out = built_attr(b, n, FULL_VALUE)->i;
    return true;
}

static bool known_size(const struct builder *b, val v, dim *out)
{
    int64_t number;
    const struct node *n = built_node(b, v);
    if (known_number(b, v, &number) && number > INT32_MIN && number < INT32_MAX) {
        *out = dim_const(b->m, number);
        return true;
    }
    if (!n) return false;
    enum dtype t = (enum dtype)emit_type(b, v).dtype;
    if (n->op == OP_cast && (t == DT_I64 || t == DT_I32)) {
        dim d;
        int64_t lo, hi;
        if (!known_size(b, built_operand(b, n, 0), &d)) return false;
        dim_range(b->m, b->symbols.data, d, &lo, &hi);
        bool fits = t == DT_I64 || (lo >= INT32_MIN && hi <= INT32_MAX); /* surely */
        if (fits) *out = d;
        return fits;
    }
    if (n->op != OP_dim_value) return false;
    *out = (dim)built_attr(b, n, DIM_VALUE_DIM)->i;
    return true;
}

static val emit_binary(struct builder *b, enum op op, val x, val y)
{
    int64_t i, j;
    bool known_x = known_number(b, x, &i), known_y = known_number(b, y, &j);
    if (op == OP_sub && known_y && !j) return x;
    if (op == OP_add && known_y && !j) return x;
    if (op == OP_add && known_x && !i) return y;
    if (op == OP_div && known_y && j == 1) return x;
    return emit2(b, op, x, y);
}

/* The value of v of the predicate before the first trip. */
static val before_first(struct trips *w, val v)
{
    struct copier inner = region_copier(w->c, w->l.n, w->l.cond_region);
    for (uint32_t i = 0; i < w->l.n_carry; i++) inner.values[i] = w->c->values[w->l.carry[i]];
    return copy_cone(&inner, v);
}

/* Trips of a counter that goes through known numbers; false: without end. */
static bool count_known(const struct leaf *l, int64_t from, int64_t bound, int64_t *out)
{
    __int128 size = l->step < 0 ? -(__int128)l->step : l->step;
    __int128 a = l->step > 0 ? from : bound;
    __int128 z = l->step > 0 ? bound : from;
    struct range all = range_of_dtype(l->dtype);
    bool strict = l->holds == COMPARE_LT || l->holds == COMPARE_GT;
    if (strict ? a >= z : a > z) {
        *out = 0;
        return true;
    }
    __int128 trips = (z - a - strict) / size + 1;
    __int128 last = from + trips * l->step;
    if (last < all.lo || last > all.hi || trips > INT64_MAX) return false;
    *out = (int64_t)trips;
    return true;
}

/* A counter on its way to a bound that it passes in one step. W: the dtype in which everything fits. */
static val count_towards(struct trips *w, const struct leaf *l, val from, val bound)
{
    struct builder *b = w->c->b;
    struct module *m = b->m;
    struct range all = range_of_dtype(l->dtype);
    bool up = l->step > 0;
    bool strict = l->holds == COMPARE_LT || l->holds == COMPARE_GT;
    bool wide = bits_of(l->dtype) == 64;
    int64_t size = up ? l->step : -l->step, i, j, trips;
    dim first, last;
    if (l->dtype != DT_U64 && known_number(b, from, &i) && known_number(b, bound, &j))
        return count_known(l, i, j, &trips) ? emit_whole(b, DT_I64, trips) : VAL_NONE;
    __int128 past = size - strict;
    bool open = l->dtype == DT_U64 && up && l->bound.hi == INT64_MAX;
    bool stays = past == 0 || (!open && (up ? l->bound.hi + past <= all.hi : l->bound.lo - past >= all.lo));
    if (stays && size < INT32_MAX && known_size(b, from, &first) && known_size(b, bound, &last)) {
        dim way = up ? dim_sub(m, last, first) : dim_sub(m, first, last), by = dim_const(m, size);
        way = strict ? dim_floordiv(m, dim_add(m, way, dim_const(m, size - 1)), by)
                     : dim_add(m, dim_floordiv(m, way, by), 1);
        return emit_dim_value(b, dim_max(m, way, 0));
    }
    val low = up ? from : bound, high = up ? bound : from, go = emit2(b, strict ? OP_lt : OP_le, low, high);
    struct range low_range = up ? l->from : l->bound, high_range = up ? l->bound : l->from;
    bool fits = !wide || (l->dtype == DT_I64 && stays &&
                          (__int128)high_range.hi - low_range.lo <= INT64_MAX - (!strict && size == 1));
    if (fits && strict && size == 1) {
        low = emit_cast(b, low, DT_I64);
        high = emit_cast(b, high, DT_I64);
        return emit_binary(b, OP_sub, emit2(b, OP_max, high, low), low);
    }
    enum dtype W = fits ? DT_I64 : DT_U64;
    val wide_low = emit_cast(b, low, W);
    val wide_high = emit_cast(b, high, W);
    val one = emit_whole(b, W, 1);
    val by = emit_whole(b, W, size);
    val way = emit_binary(b, OP_sub, wide_high, wide_low), count;
    if (strict && size == 1) {
        count = way;
    } else {
        val whole = emit_binary(b, OP_div, strict ? emit2(b, OP_sub, way, one) : way, by);
        count = emit2(b, OP_add, whole, one);
        if (!stays) { /* does the last value lie beyond the dtype? */
            val end = emit_cast(b, emit_whole(b, DT_I64, up ? all.hi : all.lo), W);
            if (l->dtype == DT_U64 && up) end = emit2(b, OP_sub, emit_whole(b, W, 0), one);
            val at = emit_cast(b, from, W), room = up ? emit2(b, OP_sub, end, at) : emit2(b, OP_sub, at, end);
            count = emit_select(b, emit2(b, OP_ge, whole, emit_binary(b, OP_div, room, by)),
                                emit_whole(b, W, ENDLESS), count);
            w->may_not_end = true;
        }
    }
    if (!fits) {
        count = emit_cast(b, emit2(b, OP_min, count, emit_whole(b, W, ENDLESS)), DT_I64);
        w->clamped = true;
    }
    return emit_select(b, go, count, emit_whole(b, DT_I64, 0));
}

/* A counter that stops at exactly its bound, around the end of its dtype if need be: the smallest k with k
 * step = bound - from, modulo 2^bits. The step is odd times 2^twos; the odd part has an inverse. */
static val count_until_met(struct trips *w, const struct leaf *l, val from, val bound)
{
    static const uint8_t unsigned_of[] = { DT_U8, DT_U16, DT_U32, DT_U64 };
    struct builder *b = w->c->b;
    uint32_t bits = bits_of(l->dtype);
    uint32_t twos = (uint32_t)__builtin_ctzll((uint64_t)l->step);
    uint32_t left = bits - twos;
    uint64_t odd = (uint64_t)l->step >> twos;
    uint64_t inverse = odd;
    uint64_t mask = left == 64 ? UINT64_MAX : ((uint64_t)1 << left) - 1;
    for (int i = 0; i < 6; i++) inverse *= 2 - odd * inverse; /* each time twice as many bits are right */
    inverse &= mask;
    int64_t i, j;
    if (known_number(b, from, &i) && known_number(b, bound, &j)) {
        uint64_t way = (uint64_t)j - (uint64_t)i;
        if (bits < 64) way &= ((uint64_t)1 << bits) - 1;
        uint64_t trips = (way >> twos) * inverse & mask;
        bool missed = way & (((uint64_t)1 << twos) - 1);
        if (missed || trips >= (uint64_t)ENDLESS) return VAL_NONE;
        return emit_whole(b, DT_I64, (int64_t)trips);
    }
    bool back = l->step == -1;
    enum dtype narrow = (enum dtype)unsigned_of[bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3];
    val difference = back ? emit2(b, OP_sub, from, bound) : emit2(b, OP_sub, bound, from);
    val way = emit_cast(b, emit_cast(b, difference, narrow), DT_U64);
    val rest = VAL_NONE, count = way;
    if (twos) {
        val unit = emit_cast(b, emit_whole(b, DT_I64, (int64_t)((uint64_t)1 << twos)), DT_U64);
        rest = emit2(b, OP_rem, way, unit);
        count = emit2(b, OP_div, way, unit);
    }
    if (!back && inverse != 1) {
        count = emit2(b, OP_mul, count, emit_cast(b, emit_whole(b, DT_I64, (int64_t)inverse), DT_U64));
        if (left < 64)
            count = emit2(b, OP_and, count, emit_cast(b, emit_whole(b, DT_I64, (int64_t)mask), DT_U64));
    }
    if (left == 64) {
        count = emit2(b, OP_min, count, emit_whole(b, DT_U64, ENDLESS));
        w->clamped = true;
    }
    if (twos) {
        count = emit_select(b, emit2(b, OP_eq, rest, emit_whole(b, DT_U64, 0)), count,
                            emit_whole(b, DT_U64, ENDLESS));
        w->may_not_end = true;
    }
    return emit_cast(b, count, DT_I64);
}

/* For how many trips the leaf holds; VAL_NONE: for ever. */
static val leaf_count(struct trips *w, const struct leaf *l)
{
    struct builder *b = w->c->b;
    val from = before_first(w, l->x);
    if (l->invariant) {
        w->may_not_end = true;
        return l->negated ? emit_select(b, from, emit_whole(b, DT_I64, 0), emit_whole(b, DT_I64, ENDLESS))
                          : emit_select(b, from, emit_whole(b, DT_I64, ENDLESS), emit_whole(b, DT_I64, 0));
    }
    val bound = before_first(w, l->y);
    if (l->holds == COMPARE_EQ) return emit_cast(b, emit2(b, OP_eq, from, bound), DT_I64);
    return l->holds == COMPARE_NE ? count_until_met(w, l, from, bound) : count_towards(w, l, from, bound);
}

static val fewer(struct builder *b, val x, val y)
{
    int64_t i, j;
    dim d, e;
    if (known_number(b, x, &i) && known_number(b, y, &j)) return emit_whole(b, DT_I64, HOP_MIN(i, j));
    if (known_size(b, x, &d) && known_size(b, y, &e)) return emit_dim_value(b, dim_min(b->m, d, e));
    return emit2(b, OP_min, x, y);
}

/* ---- the counted loop ---- */

struct counted {
    val from, to;      /* bounds of the fori_loop */
    uint32_t index_is; /* the carry that is the index itself, HOP_NONE: none */
    bool replace;      /* counters are worked out from the index, not carried */
};

/* `i < n` of an i64 counter that goes up by one: the bounds are i and n themselves. */
static bool count_directly(struct trips *w, struct counted *k)
{
    struct builder *b = w->c->b;
    const struct leaf *l = &w->leaves[0];
    if (w->n_leaves != 1 || l->invariant || l->dtype != DT_I64 || l->step != 1 || l->x >= w->l.n_carry)
        return false;
    if (l->holds != COMPARE_LT && !(l->holds == COMPARE_LE && l->bound.hi < INT64_MAX)) return false;
    int64_t n;
    k->from = before_first(w, l->x);
    k->to = before_first(w, l->y);
    if (l->holds == COMPARE_LE) {
        if (known_number(b, k->to, &n)) k->to = emit_whole(b, DT_I64, n + 1);
        else k->to = emit2(b, OP_add, k->to, emit_whole(b, DT_I64, 1));
    }
    k->index_is = l->x;
    k->replace = true;
    return true;
}

static bool count_trips(struct trips *w, struct counted *k)
{
    struct builder *b = w->c->b;
    val count = VAL_NONE;
    bool ends = false;
    for (uint32_t i = 0; i < w->n_leaves; i++) ends |= !w->leaves[i].invariant;
    if (!ends) return false; /* no trip or no end: fold knows the first */
    if (count_directly(w, k)) return true;
    for (uint32_t i = 0; i < w->n_leaves; i++) {
        val one = leaf_count(w, &w->leaves[i]);
        if (one == VAL_NONE) {
            if (w->n_leaves == 1) return false;
            one = emit_whole(b, DT_I64, ENDLESS);
            w->may_not_end = true;
        }
        count = count == VAL_NONE ? one : fewer(b, count, one);
    }
    k->from = emit_whole(b, DT_I64, 0);
    k->to = count;
    k->index_is = HOP_NONE;
    k->replace = !w->may_not_end && !w->clamped;
    return true;
}

/* start + step × index, in the counter's dtype. */
static val counter_at(struct builder *b, val start, int64_t step, val index)
{
    enum dtype t = (enum dtype)emit_type(b, start).dtype;
    int64_t n;
    bool at_zero = known_number(b, start, &n) && !n, whole = known_number(b, index, &n);
    if (!step) return start;
    if (whole) {
        index = emit_whole(b, DT_I64, (int64_t)((uint64_t)n * (uint64_t)step));
        step = 1;
    }
    val way = emit_cast(b, index, t);
    if (step == -1) return emit2(b, OP_sub, start, way);
    if (step != 1) way = emit2(b, OP_mul, way, emit_cast(b, emit_whole(b, DT_I64, step), t));
    return at_zero ? way : emit2(b, OP_add, start, way);
}

/* The body with counters worked out from the index. Own operands: the body's, then the starts of the
 * counters, then where the index starts unless that is a number. */
static struct region_in counted_body(struct trips *w, const struct counted *k, const struct loop *old,
                                     const bool *gone)
{
    const struct fn *body = old->body;
    struct builder *around = w->c->b, b;
    struct copier c;
    val *own = ARENA_NEW(&around->arena, val, old->n_with + w->l.n_carry + 1), index;
    uint32_t n_own = 0, n_wanted = 0;
    struct attr *known = ARENA_NEW(&around->arena, struct attr, w->l.n_carry);
    bool *is_known = ARENA_ZNEW(&around->arena, bool, w->l.n_carry);
    for (uint32_t i = 0; i < old->n_with; i++) own[n_own++] = old->with[i];
    for (uint32_t i = 0; i < w->l.n_carry; i++) {
        if (!gone[i] || i == k->index_is) continue;
        is_known[i] = full_value(around, old->carry[i], &known[i]);
        if (!is_known[i]) own[n_own++] = old->carry[i];
    }
    int64_t first;
    bool first_known = known_number(around, k->from, &first);
    if (!first_known) own[n_own++] = k->from;
    builder_begin(&b, around->m, body);
    copier_begin(&c, &b, body);
    for (uint32_t i = 0; i < w->l.n_carry; i++)
        if (!gone[i]) c.values[i] = builder_param(&b, value_type(body, i), body->values[i].name);
    index = builder_param(&b, type_scalar(b.m, DT_I64),
                          k->index_is == HOP_NONE ? 0 : body->values[k->index_is].name);
    for (uint32_t i = w->l.n_carry; i < body->n_params; i++)
        c.values[i] = builder_param(&b, value_type(body, i), body->values[i].name);
    for (uint32_t i = 0; i < w->l.n_carry; i++)
        if (gone[i] && i != k->index_is && !is_known[i])
            c.values[i] = builder_param(&b, value_type(body, i), 0);
    val from = first_known ? VAL_NONE : builder_param(&b, type_scalar(b.m, DT_I64), 0);
    copy_requires(&c);
    val passed = index; /* trips before this one */
    if (!first_known) passed = emit2(&b, OP_sub, index, from);
    else if (first) passed = emit2(&b, OP_sub, index, emit_whole(&b, DT_I64, first));
    for (uint32_t i = 0; i < w->l.n_carry; i++) {
        if (!gone[i]) continue;
        if (i == k->index_is) {
            c.values[i] = index;
            continue;
        }
        if (is_known[i]) c.values[i] = emit_whole(&b, value_dtype(b.m, body, i), known[i].i);
        c.values[i] = counter_at(&b, c.values[i], w->steps[i], passed);
        if (body->values[i].name) builder_name(&b, c.values[i], body->values[i].name);
    }
    val *results = ARENA_NEW(&b.arena, val, body->n_results);
    val *wanted = ARENA_NEW(&b.arena, val, body->n_results);
    copier_body(&c, results);
    for (uint32_t i = 0; i < body->n_results; i++)
        if (i >= w->l.n_carry || !gone[i]) wanted[n_wanted++] = results[i];
    return (struct region_in){ builder_finish(&b, wanted, n_wanted), own, n_own, old->dims };
}

static struct loop_results emit_counted(struct trips *w, const struct counted *k, const struct loop *old,
                                        const bool *gone)
{
    struct builder *b = w->c->b;
    val *carry = ARENA_NEW(&b->arena, val, old->n_carry);
    struct loop made = loop_new(LOOP_COUNTED);
    for (uint32_t i = 0; i < old->n_carry; i++)
        if (!gone[i]) carry[made.n_carry++] = old->carry[i];
    made.carry = carry;
    made.from = k->from;
    made.to = k->to;
    made.schedule = old->schedule;
    made.tape = old->tape;
    made.place = old->place;
    loop_set_body(&made, b->m, counted_body(w, k, old, gone));
    return loop_build(b, &made);
}

/* Fewer trips than max_trips, surely? */
static bool within_limit(struct trips *w, const struct counted *k)
{
    struct builder *b = w->c->b;
    dim from, to;
    if (w->l.max_trips == HOP_NONE) return true;
    bool all_rows = w->l.n_stack && !w->l.tape; /* there may be more of them than trips */
    if (all_rows || !known_size(b, k->from, &from) || !known_size(b, k->to, &to)) return false;
    dim limit = copier_dim(w->c, w->l.max_trips);
    return dim_provably_le(b->m, b->symbols.data, dim_sub(b->m, to, from), limit) &&
           dim_provably_le(b->m, b->symbols.data, 0, limit);
}

static bool find_counters(struct trips *w, const struct range *values)
{
    struct module *m = w->c->b->m;
    const struct fn *f = w->c->f;
    struct range *body = ranges_of_values(w->a, m, w->l.body,
                                          ranges_of_region(w->a, m, f, w->l.n, w->l.body_region, values));
    bool *counts = ARENA_ZNEW(w->a, bool, w->l.n_carry), any = false;
    int64_t *steps = ARENA_ZNEW(w->a, int64_t, w->l.n_carry);
    for (uint32_t i = 0; i < w->l.n_carry; i++) {
        counts[i] = carry_step(m, w->l.body, i, body, &steps[i]) && steps[i];
        any |= counts[i];
    }
    w->counts = counts;
    w->steps = steps;
    struct range *first = ranges_of_region(w->a, m, f, w->l.n, w->l.cond_region, values);
    for (uint32_t i = 0; i < w->l.n_carry; i++) first[i] = values[w->l.carry[i]];
    w->start = ranges_of_values(w->a, m, w->l.cond, first);
    return any;
}

/* Puts a counted loop in place of n. values: ranges of f's values. */
bool while_count(struct copier *c, const struct node *n, const struct range *values, bool stacked,
                 val *results)
{
    struct builder *b = c->b;
    struct trips w = { .c = c, .a = &b->arena };
    struct counted k;
    if (!loop_of_node(b->m, c->f, n, &w.l) || w.l.cond->effects) return false;
    if (w.l.n_stack && (w.l.body->effects || (!stacked && !w.l.tape))) return false;
    if (!find_counters(&w, values) || !collect(&w, w.l.cond->results[0], false)) return false;
    if (!count_trips(&w, &k) || !within_limit(&w, &k)) return false;
    /* The count itself would be wrong where the loop is removed because nobody needs its carries. */
    if (w.l.counts && w.may_not_end) return false;
    struct loop old;
    loop_of_copy(c, n, &old);
    bool *gone = ARENA_ZNEW(&b->arena, bool, w.l.n_carry);
    uint32_t left = 0;
    for (uint32_t i = 0; i < w.l.n_carry; i++) {
        gone[i] = k.replace && w.counts[i];
        left += !gone[i];
    }
    struct loop_results made = { VAL_NONE, VAL_NONE, VAL_NONE, 0 };
    if (left || w.l.n_stack || w.l.body->effects) made = emit_counted(&w, &k, &old, gone);
    val count = emit_binary(b, OP_sub, k.index_is == HOP_NONE ? k.to : emit2(b, OP_max, k.to, k.from),
                            k.from);
    int64_t from, to;
    if (known_number(b, k.from, &from) && known_number(b, k.to, &to) && from >= -INT32_MAX && to <= INT32_MAX)
        count = emit_whole(b, DT_I64, HOP_MAX(to, from) - from);
    for (uint32_t i = 0; i < w.l.n_carry; i++) {
        if (!gone[i]) results[i] = made.last++;
        else if (i == k.index_is) results[i] = emit2(b, OP_max, k.to, k.from);
        else results[i] = counter_at(b, old.carry[i], w.steps[i], count);
    }
    if (w.l.counts) results[loop_trips_result(&w.l)] = count;
    for (uint32_t i = 0; i < w.l.n_stack; i++) results[loop_stack_result(&w.l, i)] = made.stacks++;
    return true;
}
