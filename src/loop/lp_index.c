/* Arithmetic on indices as it is written into a loop program: the range of a result, and what an operation on
 * two values is equal to, given their ranges and how they were made. */
#include "loop/lp_index.h"
#include "loop/lp_walk.h"

/* ---- ranges ---- */

static const struct lp_range EVERYTHING = { INT64_MIN, INT64_MAX };

static int64_t clamp128(__int128 x)
{
    if (x > INT64_MAX) return INT64_MAX;
    if (x < INT64_MIN) return INT64_MIN;
    return (int64_t)x;
}

/* An end that is not known. */
static bool endless(int64_t x) { return x == INT64_MAX || x == INT64_MIN; }

static bool is_bounded(struct lp_range x) { return !endless(x.lo) && !endless(x.hi); }

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    bool rounded_up = a % b < 0;
    return quotient - rounded_up;
}

static int64_t floor_rest(int64_t a, int64_t b) { return a - floor_div(a, b) * b; }

static struct lp_range range_add(struct lp_range x, struct lp_range y)
{
    struct lp_range sum = EVERYTHING;
    if (!endless(x.lo) && !endless(y.lo)) sum.lo = clamp128((__int128)x.lo + y.lo);
    if (!endless(x.hi) && !endless(y.hi)) sum.hi = clamp128((__int128)x.hi + y.hi);
    return sum;
}

static struct lp_range range_sub(struct lp_range x, struct lp_range y)
{
    struct lp_range difference = EVERYTHING;
    if (!endless(x.lo) && !endless(y.hi)) difference.lo = clamp128((__int128)x.lo - y.hi);
    if (!endless(x.hi) && !endless(y.lo)) difference.hi = clamp128((__int128)x.hi - y.lo);
    return difference;
}

/* Of two that are not negative. */
static struct lp_range range_mul_naturals(struct lp_range x, struct lp_range y)
{
    struct lp_range product = { clamp128((__int128)x.lo * y.lo), INT64_MAX };
    if (x.hi == 0 || y.hi == 0) product.hi = 0;
    else if (!endless(x.hi) && !endless(y.hi)) product.hi = clamp128((__int128)x.hi * y.hi);
    return product;
}

static struct lp_range range_mul(struct lp_range x, struct lp_range y)
{
    if (x.lo >= 0 && y.lo >= 0) return range_mul_naturals(x, y);
    if (!is_bounded(x) || !is_bounded(y)) return EVERYTHING;
    const __int128 corners[4] = { (__int128)x.lo * y.lo, (__int128)x.lo * y.hi, (__int128)x.hi * y.lo,
                                  (__int128)x.hi * y.hi };
    __int128 least = corners[0];
    __int128 most = corners[0];
    for (int i = 1; i < 4; i++) {
        least = HOP_MIN(least, corners[i]);
        most = HOP_MAX(most, corners[i]);
    }
    return (struct lp_range){ clamp128(least), clamp128(most) };
}

/* Of a divisor that may not be positive nothing is known. */
static struct lp_range range_floordiv(struct lp_range x, struct lp_range y)
{
    struct lp_range quotient = EVERYTHING;
    if (y.lo <= 0) return quotient;
    if (x.lo >= 0) quotient.lo = endless(y.hi) ? 0 : floor_div(x.lo, y.hi);
    else if (!endless(x.lo)) quotient.lo = floor_div(x.lo, y.lo);
    if (!endless(x.hi)) quotient.hi = x.hi >= 0 ? x.hi / y.lo : -1;
    return quotient;
}

static struct lp_range range_mod(struct lp_range x, struct lp_range y)
{
    if (y.lo <= 0) return EVERYTHING;
    struct lp_range rest = { 0, endless(y.hi) ? INT64_MAX : y.hi - 1 };
    if (x.lo >= 0) rest.hi = HOP_MIN(rest.hi, x.hi);
    return rest;
}

struct lp_range lp_index_range(const struct lp *p, enum lp_op op, lpv a, lpv b)
{
    struct lp_range x = lp_range(p, a);
    struct lp_range y = lp_range(p, b);
    switch (op) {
    case LP_ADD: return range_add(x, y);
    case LP_SUB: return range_sub(x, y);
    case LP_MUL: return range_mul(x, y);
    case LP_MIN: return (struct lp_range){ HOP_MIN(x.lo, y.lo), HOP_MIN(x.hi, y.hi) };
    case LP_MAX: return (struct lp_range){ HOP_MAX(x.lo, y.lo), HOP_MAX(x.hi, y.hi) };
    case LP_FLOORDIV: return range_floordiv(x, y);
    case LP_MOD: return range_mod(x, y);
    default: return EVERYTHING;
    }
}

/* ---- constants ---- */

bool lp_index_fold(enum lp_op op, int64_t a, int64_t b, int64_t *out)
{
    bool divides = op == LP_FLOORDIV || op == LP_MOD;
    if (divides && b <= 0) return false;
    switch (op) {
    case LP_ADD: *out = (int64_t)((uint64_t)a + (uint64_t)b); return true;
    case LP_SUB: *out = (int64_t)((uint64_t)a - (uint64_t)b); return true;
    case LP_MUL: *out = (int64_t)((uint64_t)a * (uint64_t)b); return true;
    case LP_MIN: *out = HOP_MIN(a, b); return true;
    case LP_MAX: *out = HOP_MAX(a, b); return true;
    case LP_FLOORDIV: *out = floor_div(a, b); return true;
    case LP_MOD: *out = floor_rest(a, b); return true;
    case LP_EQ: *out = a == b; return true;
    case LP_NE: *out = a != b; return true;
    case LP_LT: *out = a < b; return true;
    case LP_LE: *out = a <= b; return true;
    case LP_GT: *out = a > b; return true;
    case LP_GE: *out = a >= b; return true;
    default: return false;
    }
}

/* ---- quotients and rests ---- */

/* A value as q·c + r. */
struct divided {
    lpv q, r;
};

static bool is_mul_by(const struct lp *p, lpv v, int64_t *factor, lpv *base)
{
    const struct lp_instr *i = &p->instrs.data[v];
    if (i->op != LP_MUL || !lp_is_const(p, i->b, factor)) return false;
    *base = i->a;
    return true;
}

static bool is_rest_of(const struct lp *p, lpv v, int64_t c)
{
    struct lp_range x = lp_range(p, v);
    return x.lo >= 0 && x.hi < c;
}

/* v as q·c + r with 0 <= r < c provable; c a constant. */
static bool divide(struct lp *p, lpv v, int64_t c, struct divided *out)
{
    int64_t k;
    lpv base;
    if (is_rest_of(p, v, c)) {
        *out = (struct divided){ .q = lp_index(p, 0), .r = v };
        return true;
    }
    if (lp_is_const(p, v, &k)) {
        out->q = lp_index(p, floor_div(k, c));
        out->r = lp_index(p, floor_rest(k, c));
        return true;
    }
    if (is_mul_by(p, v, &k, &base) && k % c == 0) {
        out->q = lp_bin(p, LP_MUL, base, lp_index(p, k / c));
        out->r = lp_index(p, 0);
        return true;
    }
    struct lp_instr i = p->instrs.data[v];
    struct divided x, y;
    if (i.op != LP_ADD || !divide(p, i.a, c, &x) || !divide(p, i.b, c, &y)) return false;
    out->r = lp_bin(p, LP_ADD, x.r, y.r);
    if (!is_rest_of(p, out->r, c)) return false;
    out->q = lp_bin(p, LP_ADD, x.q, y.q);
    return true;
}

/* Is v the variable of a loop from 0 or later that ends at c? */
static bool runs_to(const struct lp *p, lpv v, lpv c)
{
    const struct lp_instr *i = &p->instrs.data[v];
    if (i->op != LP_VAR) return false;
    const struct lp_loop *loop = &p->loops.data[i->imm];
    return loop->bound == c && loop->range.lo >= 0;
}

/* Is the product x·c, and the rest a variable that runs to c? */
static bool is_flattened(const struct lp *p, lpv product, lpv rest, lpv c, struct divided *out)
{
    const struct lp_instr *m = &p->instrs.data[product];
    if (m->op != LP_MUL || (m->a != c && m->b != c) || !runs_to(p, rest, c)) return false;
    *out = (struct divided){ .q = m->a == c ? m->b : m->a, .r = rest };
    return true;
}

/* The same for a c that is no constant: v is the variable of a loop that ends at c, or x·c and such a
 * variable, an index made by flattening. */
static bool divide_symbolic(struct lp *p, lpv v, lpv c, struct divided *out)
{
    if (runs_to(p, v, c)) {
        *out = (struct divided){ .q = lp_index(p, 0), .r = v };
        return true;
    }
    const struct lp_instr *i = &p->instrs.data[v];
    if (i->op != LP_ADD) return false;
    return is_flattened(p, i->a, i->b, c, out) || is_flattened(p, i->b, i->a, c, out);
}

static lpv simplify_div(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    int64_t c;
    struct divided by;
    bool constant = lp_is_const(p, b, &c) && c > 0;
    if (constant && c == 1) return op == LP_FLOORDIV ? a : lp_index(p, 0);
    bool known = constant ? divide(p, a, c, &by) : divide_symbolic(p, a, b, &by);
    if (!known) return LPV_NONE;
    return op == LP_FLOORDIV ? by.q : by.r;
}

/* ---- sums, differences, products ---- */

/* x of (x // c) * c, where `quotient` is x // c and `factor` is c, and x % c is `rest`. */
static lpv rejoined(const struct lp *p, lpv quotient, lpv factor, const struct lp_instr *rest)
{
    const struct lp_instr *d = &p->instrs.data[quotient];
    bool same = d->op == LP_FLOORDIV && d->b == factor && rest->b == factor && rest->a == d->a;
    return same ? d->a : LPV_NONE;
}

/* (x // c) * c + x % c is x. */
static lpv rejoin(const struct lp *p, lpv product, lpv rest)
{
    const struct lp_instr *m = &p->instrs.data[product];
    const struct lp_instr *y = &p->instrs.data[rest];
    if (m->op != LP_MUL || y->op != LP_MOD) return LPV_NONE;
    lpv x = rejoined(p, m->a, m->b, y);
    return x != LPV_NONE ? x : rejoined(p, m->b, m->a, y);
}

/* Constants stand right, and as far out as they can. */
static lpv simplify_add(struct lp *p, lpv a, lpv b)
{
    int64_t x, y, z;
    bool const_a = lp_is_const(p, a, &x);
    bool const_b = lp_is_const(p, b, &y);
    if (const_a && x == 0) return b;
    if (const_b && y == 0) return a;
    if (const_a) return lp_bin(p, LP_ADD, b, a);
    lpv joined = rejoin(p, a, b);
    if (joined == LPV_NONE) joined = rejoin(p, b, a);
    if (joined != LPV_NONE) return joined;
    struct lp_instr left = p->instrs.data[a];
    if (const_b && left.op == LP_ADD && lp_is_const(p, left.b, &z))
        return lp_bin(p, LP_ADD, left.a, lp_index(p, y + z));
    struct lp_instr right = p->instrs.data[b];
    if (right.op == LP_ADD && lp_is_const(p, right.b, &z)) {
        lpv sum = lp_bin(p, LP_ADD, a, right.a);
        return lp_bin(p, LP_ADD, sum, right.b);
    }
    return LPV_NONE;
}

static lpv simplify_sub(struct lp *p, lpv a, lpv b)
{
    int64_t y;
    if (a == b) return lp_index(p, 0);
    if (lp_is_const(p, b, &y) && y != INT64_MIN) return lp_bin(p, LP_ADD, a, lp_index(p, -y));
    const struct lp_instr *left = &p->instrs.data[a];
    if (left->op == LP_ADD && left->b == b) return left->a;
    if (left->op == LP_ADD && left->a == b) return left->b;
    return LPV_NONE;
}

static lpv simplify_mul(struct lp *p, lpv a, lpv b)
{
    int64_t x, y, z;
    lpv base;
    bool const_a = lp_is_const(p, a, &x);
    bool const_b = lp_is_const(p, b, &y);
    if (const_a && !const_b) return lp_bin(p, LP_MUL, b, a);
    if (!const_b) return LPV_NONE;
    if (y == 1) return a;
    if (y == 0) return b;
    if (is_mul_by(p, a, &z, &base)) return lp_bin(p, LP_MUL, base, lp_index(p, y * z));
    struct lp_instr left = p->instrs.data[a];
    if (left.op == LP_ADD && lp_is_const(p, left.b, &z)) {
        lpv offset = lp_index(p, y * z);
        lpv product = lp_bin(p, LP_MUL, left.a, b);
        return lp_bin(p, LP_ADD, product, offset);
    }
    return LPV_NONE;
}

/* The smaller or the larger one, where ranges say which. */
static lpv simplify_choice(const struct lp *p, enum lp_op op, lpv a, lpv b)
{
    struct lp_range x = lp_range(p, a);
    struct lp_range y = lp_range(p, b);
    if (a == b) return a;
    if (x.hi <= y.lo) return op == LP_MIN ? a : b;
    if (y.hi <= x.lo) return op == LP_MIN ? b : a;
    return LPV_NONE;
}

lpv lp_index_simplify(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    switch (op) {
    case LP_ADD: return simplify_add(p, a, b);
    case LP_SUB: return simplify_sub(p, a, b);
    case LP_MUL: return simplify_mul(p, a, b);
    case LP_FLOORDIV:
    case LP_MOD: return simplify_div(p, op, a, b);
    case LP_MIN:
    case LP_MAX: return simplify_choice(p, op, a, b);
    default: return LPV_NONE;
    }
}

lpv lp_index_compare(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    struct lp_range x = lp_range(p, a);
    struct lp_range y = lp_range(p, b);
    bool apart = x.hi < y.lo || y.hi < x.lo;
    bool always = false;
    bool never = false;
    switch (op) {
    case LP_LT:
        always = x.hi < y.lo;
        never = x.lo >= y.hi;
        break;
    case LP_LE:
        always = x.hi <= y.lo;
        never = x.lo > y.hi;
        break;
    case LP_GT:
        always = x.lo > y.hi;
        never = x.hi <= y.lo;
        break;
    case LP_GE:
        always = x.lo >= y.hi;
        never = x.hi < y.lo;
        break;
    case LP_EQ:
        always = a == b;
        never = apart;
        break;
    case LP_NE:
        always = a != b && apart;
        never = a == b;
        break;
    default: break;
    }
    return always || never ? lp_int(p, DT_BOOL, always) : LPV_NONE;
}

/* ---- strides ---- */

bool lp_depends(const struct lp *p, lpv v, lpv var)
{
    if (v == var) return true;
    const struct lp_instr *i = &p->instrs.data[v];
    const struct lp_block *home = p->values.data[v].home;
    if (!home || home->depth < p->values.data[var].home->depth) return false;
    if (lp_class((enum lp_op)i->op) == PLACED) return true; /* what they read is not followed */
    const lpv operands[3] = { i->a, i->b, i->c };
    for (int k = 0; k < 3; k++)
        if (operands[k] != LPV_NONE && lp_depends(p, operands[k], var)) return true;
    return false;
}

bool lp_stride(struct lp *p, lpv index, lpv var, lpv *stride)
{
    if (index == var || !lp_depends(p, index, var)) {
        *stride = lp_index(p, index == var);
        return true;
    }
    struct lp_instr i = p->instrs.data[index];
    lpv x, y;
    if (i.op == LP_ADD || i.op == LP_SUB) {
        if (!lp_stride(p, i.a, var, &x) || !lp_stride(p, i.b, var, &y)) return false;
        *stride = lp_bin(p, (enum lp_op)i.op, x, y);
        return true;
    }
    if (i.op != LP_MUL) return false;
    bool left_varies = !lp_depends(p, i.b, var);
    lpv varies = left_varies ? i.a : i.b;
    lpv factor = left_varies ? i.b : i.a;
    if (lp_depends(p, factor, var) || !lp_stride(p, varies, var, &x)) return false;
    *stride = lp_bin(p, LP_MUL, x, factor);
    return true;
}
