/* What a mask says about a block of queries and keys, found from bounds: each value of the mask's body gets a
 * least and a largest one over the block, of which comparisons say that they hold everywhere, somewhere or
 * nowhere. What is read from a captured array has the bounds of the elements that the block may read. Values
 * that depend on neither query nor key are computed as they are; what is not known here may be anything.
 * Comes in: a mask's body. Goes out: a function of one block that gives its class. */
#include "hops/flex.h"

/* A value over a block. Of a bool lo is whether it holds everywhere, hi whether it holds somewhere; of an
 * integer both are i64. */
struct bound {
    bool there; /* else nothing is known */
    bool point; /* the same everywhere in the block: it is in the copier's values; lo, hi are not set */
    val lo, hi;
    val known;    /* bool: the bounds hold; VAL_NONE: always. Of a bool: in lo and hi already */
    uint8_t bits; /* of an integer: its size is at most 2^bits */
    uint8_t of;   /* which axes it depends on */
};
enum { OF_QUERIES = 1, OF_KEYS = 2 };

/* The parameters of the function: batch, head, first and last query, first and last key, own… */
enum { AT_BATCH, AT_HEAD, AT_QUERIES, AT_KEYS = AT_QUERIES + 2, AT_OWN = AT_KEYS + 2 };

struct analysis {
    struct module *m;
    struct builder *b;
    const struct fn *f;
    struct copier copy;
    struct bound *bounds; /* of each value of f */
    const dim *block;
};

static enum dtype dtype_of(const struct analysis *w, val v)
{
    return (enum dtype)type_get(w->m, value_type(w->f, v)).dtype;
}
static bool is_scalar(const struct analysis *w, val v) { return !type_get(w->m, value_type(w->f, v)).rank; }

/* Bits of an integer's size; 0: none of those that are looked at. */
static uint8_t bits_of(enum dtype t)
{
    static const uint8_t bits[] = {
        [DT_I8] = 7, [DT_I16] = 15, [DT_I32] = 31, [DT_I64] = 63, [DT_U8] = 8, [DT_U16] = 16, [DT_U32] = 32
    };
    return (uint32_t)t < HOP_COUNT(bits) ? bits[t] : 0;
}
static bool is_signed(enum dtype t) { return t == DT_I8 || t == DT_I16 || t == DT_I32 || t == DT_I64; }

static val both(struct builder *b, val x, val y)
{
    if (x == VAL_NONE) return y;
    return y == VAL_NONE ? x : emit2(b, OP_and, x, y);
}
static val constant(struct builder *b, int64_t v)
{
    struct attr a[3] = { A_INT(v), A_DIMS(NULL, 0), A_DTYPE(DT_I64) };
    return emit(b, OP_full, NULL, 0, a);
}
static val truth(struct builder *b, bool v) { return emit_full(b, DT_BOOL, v, 0, NULL); }

/* The bounds of a value: a point as well. A bool of which nothing is known holds perhaps. */
static struct bound bound_of(struct analysis *w, val v)
{
    struct bound x = w->bounds[v];
    struct builder *b = w->b;
    enum dtype t = dtype_of(w, v);
    if (!is_scalar(w, v) || (t != DT_BOOL && !bits_of(t))) return (struct bound){ 0 };
    if (x.there && x.point) {
        x.lo = x.hi = t == DT_BOOL ? w->copy.values[v] : emit_cast(b, w->copy.values[v], DT_I64);
        x.known = VAL_NONE;
        x.bits = bits_of(t);
    }
    if (!x.there && t == DT_BOOL)
        x = (struct bound){ .there = true, .lo = truth(b, false), .hi = truth(b, true), .known = VAL_NONE };
    x.point = false;
    return x;
}

/* The same, as an integer. */
static struct bound integer_of(struct analysis *w, val v)
{
    struct bound x = bound_of(w, v);
    if (x.there && dtype_of(w, v) == DT_BOOL) {
        x.lo = emit_cast(w->b, x.lo, DT_I64);
        x.hi = emit_cast(w->b, x.hi, DT_I64);
        x.bits = 1;
    }
    return x;
}

/* Its size is at most 2^bits, or nothing is known about it. */
static void limit(struct analysis *w, struct bound *x, uint32_t bits)
{
    struct builder *b = w->b;
    if (x->bits <= bits) return;
    int64_t most = (int64_t)1 << bits;
    val fits = emit2(b, OP_and, emit2(b, OP_ge, x->lo, constant(b, -most)),
                     emit2(b, OP_le, x->hi, constant(b, most)));
    x->known = both(b, x->known, fits);
    x->bits = (uint8_t)bits;
}

static struct bound made(const struct bound *x, const struct bound *y, struct builder *b, uint32_t bits)
{
    return (struct bound){ .there = true,
                           .known = both(b, x->known, y ? y->known : VAL_NONE),
                           .bits = (uint8_t)bits,
                           .of = x->of | (y ? y->of : 0) };
}

/* A bool: what is not known holds perhaps. */
static struct bound answer(struct analysis *w, val everywhere, val somewhere, val known, uint8_t of)
{
    struct builder *b = w->b;
    struct bound x = { .there = true, .lo = everywhere, .hi = somewhere, .known = VAL_NONE, .of = of };
    if (known == VAL_NONE) return x;
    x.lo = emit2(b, OP_and, everywhere, known);
    x.hi = emit2(b, OP_or, somewhere, emit1(b, OP_not, known));
    return x;
}

/* ---- operators ---- */

static struct bound sum(struct analysis *w, struct bound x, struct bound y, bool less, uint32_t bits)
{
    struct builder *b = w->b;
    limit(w, &x, bits - 2);
    limit(w, &y, bits - 2);
    struct bound out = made(&x, &y, b, bits - 1);
    out.lo = emit2(b, less ? OP_sub : OP_add, x.lo, less ? y.hi : y.lo);
    out.hi = emit2(b, less ? OP_sub : OP_add, x.hi, less ? y.lo : y.hi);
    return out;
}

static struct bound product(struct analysis *w, struct bound x, struct bound y, uint32_t bits)
{
    struct builder *b = w->b;
    limit(w, &x, (bits - 1) / 2);
    limit(w, &y, (bits - 1) / 2);
    struct bound out = made(&x, &y, b, bits - 1);
    val corners[4] = { emit2(b, OP_mul, x.lo, y.lo), emit2(b, OP_mul, x.lo, y.hi),
                       emit2(b, OP_mul, x.hi, y.lo), emit2(b, OP_mul, x.hi, y.hi) };
    out.lo = out.hi = corners[0];
    for (uint32_t k = 1; k < 4; k++) {
        out.lo = emit2(b, OP_min, out.lo, corners[k]);
        out.hi = emit2(b, OP_max, out.hi, corners[k]);
    }
    return out;
}

static struct bound negated(struct analysis *w, struct bound x, bool size, uint32_t bits)
{
    struct builder *b = w->b;
    limit(w, &x, bits - 1);
    val lo = emit1(b, OP_neg, x.hi), hi = emit1(b, OP_neg, x.lo);
    if (size) {
        lo = emit2(b, OP_max, constant(b, 0), emit2(b, OP_max, lo, x.lo));
        hi = emit2(b, OP_max, hi, x.hi);
    }
    x.lo = lo;
    x.hi = hi;
    return x;
}

static struct bound extreme(struct analysis *w, enum op op, struct bound x, struct bound y)
{
    struct bound out = made(&x, &y, w->b, HOP_MAX(x.bits, y.bits));
    out.lo = emit2(w->b, op, x.lo, y.lo);
    out.hi = emit2(w->b, op, x.hi, y.hi);
    return out;
}

/* Over a divisor that is the same everywhere, and positive. */
static struct bound quotient(struct analysis *w, enum op op, struct bound x, val divisor)
{
    struct builder *b = w->b;
    val positive = emit2(b, OP_gt, divisor, constant(b, 0));
    x.known = both(b, x.known, positive);
    x.lo = emit2(b, op, x.lo, divisor);
    x.hi = emit2(b, op, x.hi, divisor);
    return x;
}

/* What such a division leaves: numbers in a row, or any. rem: with the sign of x. */
static struct bound remainder_of(struct analysis *w, enum op op, struct bound x, const struct bound *y)
{
    struct builder *b = w->b;
    val divisor = y->lo, zero = constant(b, 0), most = emit2(b, OP_sub, divisor, constant(b, 1));
    val same = emit2(b, OP_eq, emit2(b, OP_floor_div, x.lo, divisor), emit2(b, OP_floor_div, x.hi, divisor));
    val least = zero;
    x.bits = HOP_MAX(x.bits, y->bits);
    x.known = both(b, x.known, emit2(b, OP_gt, divisor, zero));
    if (op == OP_rem) {
        val positive = emit2(b, OP_ge, x.lo, zero);
        same = emit2(b, OP_and, same, positive);
        least = emit_select(b, positive, zero, emit1(b, OP_neg, most));
    }
    x.lo = emit_select(b, same, emit2(b, OP_mod, x.lo, divisor), least);
    x.hi = emit_select(b, same, emit2(b, OP_mod, x.hi, divisor), most);
    return x;
}

static struct bound compared(struct analysis *w, enum op op, struct bound x, struct bound y)
{
    struct builder *b = w->b;
    val known = both(b, x.known, y.known), everywhere, somewhere;
    uint8_t of = x.of | y.of;
    if (op == OP_eq || op == OP_ne) {
        val apart = emit2(b, OP_or, emit2(b, OP_lt, x.hi, y.lo), emit2(b, OP_gt, x.lo, y.hi));
        val one = emit2(b, OP_and, emit2(b, OP_eq, x.lo, y.hi), emit2(b, OP_eq, x.hi, y.lo));
        everywhere = op == OP_eq ? one : apart;
        somewhere = emit1(b, OP_not, op == OP_eq ? apart : one);
    } else {
        bool less = op == OP_lt || op == OP_le;
        everywhere = emit2(b, op, less ? x.hi : x.lo, less ? y.lo : y.hi);
        somewhere = emit2(b, op, less ? x.lo : x.hi, less ? y.hi : y.lo);
    }
    return answer(w, everywhere, somewhere, known, of);
}

static struct bound chosen(struct analysis *w, struct bound c, struct bound x, struct bound y)
{
    struct builder *b = w->b;
    bool logic = emit_type(b, x.lo).dtype == DT_BOOL;
    struct bound out = made(&x, &y, b, HOP_MAX(x.bits, y.bits));
    out.of |= c.of;
    val lo = emit2(b, logic ? OP_and : OP_min, x.lo, y.lo), hi = emit2(b, logic ? OP_or : OP_max, x.hi, y.hi);
    out.lo = emit_select(b, c.lo, x.lo, emit_select(b, c.hi, lo, y.lo));
    out.hi = emit_select(b, c.lo, x.hi, emit_select(b, c.hi, hi, y.hi));
    return out;
}

static struct bound cast_to(struct analysis *w, struct bound x, enum dtype from, enum dtype to)
{
    struct builder *b = w->b;
    if (to == DT_BOOL && from != DT_BOOL) {
        val zero = constant(b, 0);
        val none = emit2(b, OP_and, emit2(b, OP_eq, x.lo, zero), emit2(b, OP_eq, x.hi, zero));
        val some = emit2(b, OP_or, emit2(b, OP_gt, x.lo, zero), emit2(b, OP_lt, x.hi, zero));
        return answer(w, some, emit1(b, OP_not, none), x.known, x.of);
    }
    if (to == DT_BOOL) return x;
    if (!is_signed(to)) return (struct bound){ 0 };
    if (bits_of(from) > bits_of(to)) limit(w, &x, bits_of(to) - 1u);
    return x;
}

/* An element of a captured array, by indices of which one may differ within the block: the least and the
 * largest of the elements between its bounds, which are at most as many as the block is long. */
static struct bound element(struct analysis *w, const struct node *n)
{
    struct builder *b = w->b;
    const val *operands = node_operands(w->f, n);
    const struct attr *dims = node_attr(w->f, n, GATHER_DIMS);
    uint32_t rank = n->n_operands - 1u, moving = HOP_NONE;
    struct type array = type_get(w->m, value_type(w->f, operands[0]));
    enum dtype t = (enum dtype)array.dtype;
    struct bound none = { 0 };
    if (!w->bounds[operands[0]].point || array.rank != rank || (t != DT_BOOL && !bits_of(t))) return none;
    for (uint32_t k = 0; k < rank; k++) {
        if (w->bounds[operands[1 + k]].there && w->bounds[operands[1 + k]].point) continue;
        if (moving != HOP_NONE) return none;
        moving = k;
    }
    struct bound at = moving == HOP_NONE ? none : integer_of(w, operands[1 + moving]);
    if (!at.there) return none;
    int64_t window = 0;
    for (uint32_t axis = 0; axis < 2; axis++)
        if (at.of & (axis ? OF_KEYS : OF_QUERIES)) window += dim_const_value(w->m, w->block[axis]);
    dim length = dim_const(w->m, window);
    if (!window) return none;
    limit(w, &at, 61);
    val within = emit2(b, OP_lt, emit2(b, OP_sub, at.hi, at.lo), constant(b, window));
    val *given = ARENA_NEW(&b->arena, val, rank + 1);
    given[0] = w->copy.values[operands[0]];
    for (uint32_t k = 0; k < rank; k++) {
        val index = k == moving ? at.lo : emit_as_index(b, w->copy.values[operands[1 + k]]);
        given[1 + k] = emit_broadcast(b, index, 1, &length, NULL);
    }
    val last = emit_broadcast(b, at.hi, 1, &length, NULL);
    given[1 + moving] = emit2(b, OP_min, emit2(b, OP_add, given[1 + moving], flex_counted(b, length)), last);
    val read = emit_cast(b, emit(b, OP_gather, given, rank + 1, dims), DT_I64);
    uint32_t along = 0;
    struct bound out = made(&at, NULL, b, t == DT_BOOL ? 1 : bits_of(t));
    out.known = both(b, out.known, within);
    out.lo = emit_reduce(b, OP_reduce_min, read, &along, 1);
    out.hi = emit_reduce(b, OP_reduce_max, read, &along, 1);
    return t == DT_BOOL ? cast_to(w, out, DT_I64, DT_BOOL) : out;
}

/* ---- a node ---- */

static struct bound logic(struct analysis *w, const struct node *n, const val *operands)
{
    struct builder *b = w->b;
    struct bound x = bound_of(w, operands[0]), y = x, out;
    if (n->op == OP_not) return answer(w, emit1(b, OP_not, x.hi), emit1(b, OP_not, x.lo), VAL_NONE, x.of);
    y = bound_of(w, operands[1]);
    if (n->op == OP_xor) return compared(w, OP_ne, integer_of(w, operands[0]), integer_of(w, operands[1]));
    out = made(&x, &y, b, 0);
    out.lo = emit2(b, (enum op)n->op, x.lo, y.lo);
    out.hi = emit2(b, (enum op)n->op, x.hi, y.hi);
    return out;
}

/* Of integers, at least one of which differs within the block. */
static struct bound arithmetic(struct analysis *w, const struct node *n, const val *operands)
{
    struct bound none = { 0 }, x = integer_of(w, operands[0]);
    struct bound y = n->n_operands > 1 ? integer_of(w, operands[1]) : x;
    enum dtype t = dtype_of(w, operands[0]);
    uint32_t bits = bits_of(t);
    bool divides = n->n_operands == 2 && w->bounds[operands[1]].there && w->bounds[operands[1]].point;
    bool compares = node_row(n)->compares;
    if (!x.there || !y.there || (t == DT_BOOL && !compares)) return none;
    switch (n->op) {
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le:
    case OP_gt:
    case OP_ge: return compared(w, (enum op)n->op, x, y);
    case OP_min:
    case OP_max: return extreme(w, (enum op)n->op, x, y);
    case OP_add:
    case OP_sub: return is_signed(t) ? sum(w, x, y, n->op == OP_sub, bits) : none;
    case OP_mul: return is_signed(t) ? product(w, x, y, bits) : none;
    case OP_neg:
    case OP_abs: return is_signed(t) ? negated(w, x, n->op == OP_abs, bits) : none;
    case OP_div:
    case OP_floor_div: return divides ? quotient(w, (enum op)n->op, x, y.lo) : none;
    case OP_rem:
    case OP_mod: return divides ? remainder_of(w, (enum op)n->op, x, &y) : none;
    default: return none;
    }
}

static struct bound of_node(struct analysis *w, const struct node *n)
{
    struct bound none = { 0 };
    const val *operands = node_operands(w->f, n);
    val result = n->results;
    if (n->op == OP_gather) return element(w, n);
    if (n->n_results != 1 || !n->n_operands || !is_scalar(w, result)) return none;
    enum dtype t = dtype_of(w, result), given = dtype_of(w, operands[0]);
    if (n->op == OP_select) {
        struct bound x = bound_of(w, operands[1]), y = bound_of(w, operands[2]);
        return x.there && y.there ? chosen(w, bound_of(w, operands[0]), x, y) : none;
    }
    if (n->op == OP_cast) {
        struct bound x = integer_of(w, operands[0]);
        if (given == DT_BOOL && t == DT_BOOL) return bound_of(w, operands[0]);
        return x.there && (t == DT_BOOL || bits_of(t)) ? cast_to(w, x, given == DT_BOOL ? DT_I8 : given, t)
                                                       : none;
    }
    bool connective = n->op == OP_and || n->op == OP_or || n->op == OP_xor || n->op == OP_not;
    if (connective) return t == DT_BOOL ? logic(w, n, operands) : none;
    return arithmetic(w, n, operands);
}

static bool all_points(const struct analysis *w, const struct node *n)
{
    const val *operands = node_operands(w->f, n);
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (!w->bounds[operands[k]].there || !w->bounds[operands[k]].point) return false;
    return true;
}

/* The bounds of what the body gives. */
static struct bound of_body(struct analysis *w, const val *params)
{
    const struct fn *f = w->f;
    enum { SCORE, BATCH, HEAD, QUERY, KEY };
    w->bounds = ARENA_ZNEW(&w->b->arena, struct bound, f->n_values);
    bool binds_sizes = f->n_symbols > f->n_outer_symbols; /* which may be other ones at each position */
    if (binds_sizes) return bound_of(w, f->results[0]);
    copier_begin(&w->copy, w->b, f);
    for (uint32_t p = BATCH; p < f->n_params; p++) {
        bool moves = p == QUERY || p == KEY;
        w->bounds[p] = (struct bound){ .there = true, .point = !moves, .known = VAL_NONE };
        if (!moves) w->copy.values[p] = params[p < QUERY ? AT_BATCH + p - BATCH : AT_OWN + p - FLEX_N_FROM];
    }
    for (uint32_t axis = 0; axis < 2; axis++) {
        struct bound *x = &w->bounds[QUERY + axis];
        const val *range = params + (axis ? AT_KEYS : AT_QUERIES);
        x->lo = range[0];
        x->hi = range[1];
        x->bits = bits_of(DT_I64);
        x->of = axis ? OF_KEYS : OF_QUERIES;
    }
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (all_points(w, n)) {
            copier_node(&w->copy, n);
            for (uint32_t k = 0; k < n->n_results; k++)
                w->bounds[n->results + k] = (struct bound){ .there = true, .point = true, .known = VAL_NONE };
        } else {
            w->bounds[n->results] = of_node(w, n);
        }
    }
    return bound_of(w, f->results[0]);
}

/* Does the mask hold in a corner of the block? */
static val in_corner(const struct analysis *w, const val *params, uint32_t corner)
{
    struct builder *b = w->b;
    uint32_t n = w->f->n_params;
    val *args = ARENA_NEW(&b->arena, val, n), out;
    args[0] = emit_full(b, dtype_of(w, 0), 0, 0, NULL); /* the score, which is not read */
    args[1] = params[AT_BATCH];
    args[2] = params[AT_HEAD];
    args[3] = params[AT_QUERIES + (corner & 1)];
    args[4] = params[AT_KEYS + (corner >> 1)];
    for (uint32_t k = FLEX_N_FROM; k < n; k++) args[k] = params[AT_OWN + k - FLEX_N_FROM];
    inline_function(b, w->f->id, NULL, args, &out);
    return out;
}

uint32_t flex_classes(struct module *m, uint32_t mask, const dim *block)
{
    struct builder b;
    struct analysis w = { .m = m, .b = &b, .f = module_fn(m, mask), .block = block };
    builder_begin(&b, m, w.f);
    uint32_t n_own = w.f->n_params - FLEX_N_FROM;
    val *params = ARENA_NEW(&b.arena, val, AT_OWN + n_own);
    for (uint32_t k = 0; k < AT_OWN; k++) params[k] = builder_param(&b, type_scalar(m, DT_I64), 0);
    for (uint32_t k = 0; k < n_own; k++)
        params[AT_OWN + k] = builder_param(&b, value_type(w.f, FLEX_N_FROM + k), 0);
    struct bound all = of_body(&w, params);
    val some = truth(&b, false), not_all = some;
    for (uint32_t corner = 0; corner < 4; corner++) {
        val holds = in_corner(&w, params, corner);
        some = emit2(&b, OP_or, some, holds);
        not_all = emit2(&b, OP_or, not_all, emit1(&b, OP_not, holds));
    }
    val mixed = emit2(&b, OP_and, some, not_all);
    val out = emit_select(&b, mixed, constant(&b, FLEX_SOME), constant(&b, FLEX_UNDECIDED));
    out = emit_select(&b, all.lo, constant(&b, FLEX_ALL), out);
    out = emit_select(&b, all.hi, out, constant(&b, FLEX_NONE));
    return builder_finish(&b, &out, 1);
}
