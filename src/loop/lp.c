/* Building loop programs: hash-consed pure instructions placed as far out as they are known, simplification
 * of index arithmetic with the ranges of loop variables, folding of constants, and contraction of products
 * and sums in default mode. */
#include "ir/number.h"
#include "loop/lp_walk.h"

#include <math.h>

struct lp *lp_new(struct module *m, const struct fn *entry, bool strict)
{
    struct lp *p = hop_calloc(1, sizeof *p);
    hop_cleanup_push(lp_free, p);
    p->m = m;
    p->entry = entry;
    p->strict = strict;
    p->instr_map.arena = &p->arena;
    p->root = p->current = ARENA_ZNEW(&p->arena, struct lp_block, 1);
    hop_cleanup_pop(p);
    return p;
}

void lp_free(void *lp)
{
    struct lp *p = lp;
    if (!p) return;
    for (uint32_t i = 0; i < p->procedures.len; i++) lp_free(p->procedures.data[i]);
    arena_free(&p->arena);
    hop_free(p);
}

void lp_detach(struct lp *p)
{
    p->m = NULL;
    p->entry = arena_copy(&p->arena, p->entry, sizeof *p->entry);
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        p->procedures.data[i]->m = NULL;
        p->procedures.data[i]->entry = p->entry;
    }
}

uint32_t lp_buffer(struct lp *p, struct lp_buffer b)
{
    vec_push(&p->arena, &p->buffers, b);
    return p->buffers.len - 1;
}

uint32_t lp_local(struct lp *p, enum dtype dtype, enum lp_local_kind kind, const char *name)
{
    vec_push(&p->arena, &p->locals, (struct lp_local){ (uint8_t)kind, (uint8_t)dtype, name });
    return p->locals.len - 1;
}

/* ---- blocks and statements ---- */

struct lp_block *lp_open(struct lp *p, bool barrier)
{
    struct lp_block *b = ARENA_ZNEW(&p->arena, struct lp_block, 1);
    b->outer = p->current;
    b->depth = p->current->depth + 1;
    b->barrier = barrier;
    return p->current = b;
}

void lp_close(struct lp *p) { p->current = p->current->outer; }

struct lp_stmt *lp_add_stmt(struct lp *p, struct lp_stmt s)
{
    vec_push(&p->arena, &p->current->stmts, s);
    return &p->current->stmts.data[p->current->stmts.len - 1];
}

struct lp_call *lp_add_call(struct lp *p, struct lp_call c)
{
    struct lp_call *call = arena_copy(&p->arena, &c, sizeof c);
    if (lp_is_site(call)) {
        call->site = p->sites.len;
        vec_push(&p->arena, &p->sites, call);
    }
    lp_add_stmt(p, (struct lp_stmt){ .kind = LP_CALL, .call = call });
    return call;
}

void lp_store(struct lp *p, uint32_t buffer, lpv index, lpv value)
{
    lp_add_stmt(p, (struct lp_stmt){ .kind = LP_STORE, .target = buffer, .index = index, .value = value });
}

void lp_set(struct lp *p, uint32_t local, lpv value)
{
    lp_add_stmt(p, (struct lp_stmt){ .kind = LP_SET, .target = local, .value = value });
}

void lp_accum(struct lp *p, uint32_t local, enum lp_fold fold, lpv value)
{
    lp_add_stmt(p,
                (struct lp_stmt){ .kind = LP_ACCUM, .mode = (uint8_t)fold, .target = local, .value = value });
}

static lpv append(struct lp *p, struct lp_instr in, struct lp_value about)
{
    vec_push(&p->arena, &p->instrs, in);
    vec_push(&p->arena, &p->values, about);
    return p->instrs.len - 1;
}

lpv lp_for_begin(struct lp *p, lpv lo, lpv hi, lpv step, enum lp_for_kind kind)
{
    struct lp_stmt s = {
        .kind = LP_FOR, .mode = (uint8_t)kind, .target = p->loops.len, .lo = lo, .hi = hi, .step = step
    };
    int64_t first = p->values.data[lo].lo, last = p->values.data[hi].hi;
    if (last != INT64_MAX) last--;
    if (last < first) last = first;
    vec_push(&p->arena, &p->loops, (struct lp_loop){ first, last, hi });
    s.body = lp_open(p, false);
    vec_push(&p->arena, &p->open, s);
    return append(p,
                  (struct lp_instr){ .op = LP_VAR,
                                     .dtype = DT_I64,
                                     .depth = p->current->depth,
                                     .a = LPV_NONE,
                                     .b = LPV_NONE,
                                     .c = LPV_NONE,
                                     .imm = s.target },
                  (struct lp_value){ first, last, p->current });
}

static struct lp_stmt pop_open(struct lp *p)
{
    lp_close(p);
    return p->open.data[--p->open.len];
}

struct lp_stmt *lp_for_end(struct lp *p) { return lp_add_stmt(p, pop_open(p)); }

void lp_if_begin(struct lp *p, lpv condition)
{
    struct lp_stmt s = { .kind = LP_IF, .value = condition };
    s.body = lp_open(p, true);
    vec_push(&p->arena, &p->open, s);
}

void lp_if_else(struct lp *p)
{
    lp_close(p);
    p->open.data[p->open.len - 1].other = lp_open(p, true);
}

void lp_if_end(struct lp *p) { lp_add_stmt(p, pop_open(p)); }

void lp_while_begin(struct lp *p)
{
    struct lp_stmt s = { .kind = LP_WHILE, .poll = true };
    s.body = lp_open(p, false);
    vec_push(&p->arena, &p->open, s);
}

void lp_while_body(struct lp *p, lpv predicate)
{
    lp_close(p);
    struct lp_stmt *s = &p->open.data[p->open.len - 1];
    s->value = predicate;
    s->other = lp_open(p, false);
}

void lp_while_end(struct lp *p) { lp_add_stmt(p, pop_open(p)); }

/* ---- placing ---- */

static struct lp_block *block_at(const struct lp *p, uint32_t depth)
{
    struct lp_block *b = p->current;
    while (b->depth > depth) b = b->outer;
    return b;
}

static bool visible(const struct lp *p, lpv v)
{
    struct lp_block *home = p->values.data[v].home;
    return !home || (home->depth <= p->current->depth && block_at(p, home->depth) == home);
}

static bool same_instr(const struct lp_instr *x, const struct lp_instr *y)
{
    return x->op == y->op && x->dtype == y->dtype && x->a == y->a && x->b == y->b && x->c == y->c &&
           x->bits == y->bits;
}

/* Finds or makes a pure instruction; index arithmetic may leave branches, anything else stays inside the
 * innermost one. */
static lpv pure(struct lp *p, enum lp_op op, enum dtype t, lpv a, lpv b, lpv c, uint64_t bits, int64_t lo,
                int64_t hi)
{
    struct lp_instr in = { .op = (uint8_t)op, .dtype = (uint8_t)t, .a = a, .b = b, .c = c, .bits = bits };
    uint64_t h = hash_mix(hash_mix(hash_mix(op * 64 + t, a), b), ((uint64_t)c << 1) ^ bits);
    for (uint32_t it = map_first(&p->instr_map, h); it != HOP_NONE; it = map_next(&p->instr_map, h, it)) {
        lpv v = map_value(&p->instr_map, it);
        if (same_instr(&p->instrs.data[v], &in) && visible(p, v)) return v;
    }
    struct lp_block *home = NULL;
    if (op != LP_CONST && op != LP_SYMBOL) {
        uint32_t depth = 0;
        lpv operands[3] = { a, b, c };
        for (int i = 0; i < 3; i++)
            if (operands[i] != LPV_NONE && p->values.data[operands[i]].home)
                depth = HOP_MAX(depth, p->values.data[operands[i]].home->depth);
        if (t != DT_I64)
            for (struct lp_block *q = p->current; q; q = q->outer)
                if (q->barrier) {
                    depth = HOP_MAX(depth, q->depth);
                    break;
                }
        home = block_at(p, depth);
        in.depth = depth;
    }
    lpv v = append(p, in, (struct lp_value){ lo, hi, home });
    map_put(&p->instr_map, h, v);
    if (home) vec_push(&p->arena, &home->stmts, (struct lp_stmt){ .kind = LP_LET, .value = v });
    return v;
}

static lpv placed(struct lp *p, enum lp_op op, enum dtype t, lpv a, lpv b, int64_t imm)
{
    struct lp_instr in = { .op = (uint8_t)op,
                           .dtype = (uint8_t)t,
                           .depth = p->current->depth,
                           .a = a,
                           .b = b,
                           .c = LPV_NONE,
                           .imm = imm };
    lpv v = append(p, in, (struct lp_value){ INT64_MIN, INT64_MAX, p->current });
    lp_add_stmt(p, (struct lp_stmt){ .kind = LP_LET, .value = v });
    return v;
}

lpv lp_read(struct lp *p, uint32_t local)
{
    return placed(p, LP_READ, (enum dtype)p->locals.data[local].dtype, LPV_NONE, LPV_NONE, local);
}
/* A load of the same element earlier in this block still stands if nothing was written to the buffer since.
 */
static lpv earlier_load(const struct lp *p, uint32_t buffer, lpv index)
{
    enum { LOOK_BACK = 96 };
    const struct lp_block *b = p->current;
    for (uint32_t i = b->stmts.len, seen = 0; i-- > 0 && seen < LOOK_BACK; seen++) {
        const struct lp_stmt *s = &b->stmts.data[i];
        if (s->kind == LP_SET || s->kind == LP_ACCUM) continue;
        if (s->kind == LP_STORE && s->target != buffer) continue;
        if (s->kind != LP_LET) return LPV_NONE;
        const struct lp_instr *in = &p->instrs.data[s->value];
        if (in->op == LP_LOAD && in->imm == buffer && in->a == index) return s->value;
    }
    return LPV_NONE;
}

lpv lp_load(struct lp *p, uint32_t buffer, lpv index)
{
    lpv seen = earlier_load(p, buffer, index);
    return seen != LPV_NONE
               ? seen
               : placed(p, LP_LOAD, (enum dtype)p->buffers.data[buffer].dtype, index, LPV_NONE, buffer);
}
lpv lp_fold_lanes(struct lp *p, uint32_t local, enum lp_fold fold)
{
    return placed(p, LP_FOLD, (enum dtype)p->locals.data[local].dtype, LPV_NONE, fold, local);
}

/* ---- constants ---- */

lpv lp_const_bits(struct lp *p, enum dtype t, uint64_t bits)
{
    int64_t v = element_whole(t, &bits);
    return pure(p, LP_CONST, t, LPV_NONE, LPV_NONE, LPV_NONE, bits, v, v);
}

lpv lp_int(struct lp *p, enum dtype t, int64_t v)
{
    if (dtype_is_float(t)) return lp_real(p, t, (double)v);
    uint64_t bits = 0;
    element_set_whole(t, &bits, v);
    return lp_const_bits(p, t, bits);
}

lpv lp_real(struct lp *p, enum dtype t, double v) { return lp_const_bits(p, t, real_bits(t, v)); }

lpv lp_symbol(struct lp *p, uint32_t index)
{
    const struct symbol *s = &p->entry->symbols[index];
    return pure(p, LP_SYMBOL, DT_I64, LPV_NONE, LPV_NONE, LPV_NONE, index, s->lo, s->hi);
}

bool lp_is_const(const struct lp *p, lpv v, int64_t *out)
{
    const struct lp_instr *i = &p->instrs.data[v];
    if (i->op != LP_CONST || dtype_is_float((enum dtype)i->dtype) ||
        (i->dtype == DT_U64 && i->bits > INT64_MAX))
        return false;
    *out = element_whole((enum dtype)i->dtype, &i->bits);
    return true;
}

void lp_range(const struct lp *p, lpv v, int64_t *lo, int64_t *hi)
{
    *lo = p->values.data[v].lo;
    *hi = p->values.data[v].hi;
}

/* ---- ranges of index arithmetic ---- */

static int64_t clamp128(__int128 x)
{
    return x > INT64_MAX ? INT64_MAX : x < INT64_MIN ? INT64_MIN : (int64_t)x;
}
static bool endless(int64_t x) { return x == INT64_MAX || x == INT64_MIN; }
static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b < 0);
}

static void range_of(const struct lp *p, enum lp_op op, lpv a, lpv b, int64_t *lo, int64_t *hi)
{
    struct lp_value x = p->values.data[a], y = b == LPV_NONE ? (struct lp_value){ 0 } : p->values.data[b];
    *lo = INT64_MIN;
    *hi = INT64_MAX;
    switch (op) {
    case LP_ADD:
        *lo = endless(x.lo) || endless(y.lo) ? INT64_MIN : clamp128((__int128)x.lo + y.lo);
        *hi = endless(x.hi) || endless(y.hi) ? INT64_MAX : clamp128((__int128)x.hi + y.hi);
        break;
    case LP_SUB:
        *lo = endless(x.lo) || endless(y.hi) ? INT64_MIN : clamp128((__int128)x.lo - y.hi);
        *hi = endless(x.hi) || endless(y.lo) ? INT64_MAX : clamp128((__int128)x.hi - y.lo);
        break;
    case LP_MUL:
        if (x.lo >= 0 && y.lo >= 0) {
            *lo = clamp128((__int128)x.lo * y.lo);
            if (x.hi == 0 || y.hi == 0) *hi = 0;
            else if (endless(x.hi) || endless(y.hi)) *hi = INT64_MAX;
            else *hi = clamp128((__int128)x.hi * y.hi);
        } else if (!endless(x.lo) && !endless(x.hi) && !endless(y.lo) && !endless(y.hi)) {
            __int128 c[4] = { (__int128)x.lo * y.lo, (__int128)x.lo * y.hi, (__int128)x.hi * y.lo,
                              (__int128)x.hi * y.hi };
            __int128 l = c[0], h = c[0];
            for (int i = 1; i < 4; i++) {
                l = HOP_MIN(l, c[i]);
                h = HOP_MAX(h, c[i]);
            }
            *lo = clamp128(l);
            *hi = clamp128(h);
        }
        break;
    case LP_MIN:
        *lo = HOP_MIN(x.lo, y.lo);
        *hi = HOP_MIN(x.hi, y.hi);
        break;
    case LP_MAX:
        *lo = HOP_MAX(x.lo, y.lo);
        *hi = HOP_MAX(x.hi, y.hi);
        break;
    case LP_FLOORDIV:
        if (y.lo > 0) {
            *lo = x.lo >= 0       ? (endless(y.hi) ? 0 : floor_div(x.lo, y.hi))
                  : endless(x.lo) ? INT64_MIN
                                  : floor_div(x.lo, y.lo);
            *hi = endless(x.hi) ? INT64_MAX : x.hi >= 0 ? x.hi / y.lo : -1;
        }
        break;
    case LP_MOD:
        if (y.lo > 0) {
            *lo = 0;
            *hi = endless(y.hi) ? INT64_MAX : y.hi - 1;
            if (x.lo >= 0 && x.hi < *hi) *hi = x.hi;
        }
        break;
    default: break;
    }
}

/* ---- folding of constants ---- */

static bool fold_i64(enum lp_op op, int64_t a, int64_t b, int64_t *out)
{
    switch (op) {
    case LP_ADD: *out = (int64_t)((uint64_t)a + (uint64_t)b); return true;
    case LP_SUB: *out = (int64_t)((uint64_t)a - (uint64_t)b); return true;
    case LP_MUL: *out = (int64_t)((uint64_t)a * (uint64_t)b); return true;
    case LP_MIN: *out = HOP_MIN(a, b); return true;
    case LP_MAX: *out = HOP_MAX(a, b); return true;
    case LP_FLOORDIV:
        if (b <= 0) return false;
        *out = floor_div(a, b);
        return true;
    case LP_MOD:
        if (b <= 0) return false;
        *out = a - floor_div(a, b) * b;
        return true;
    case LP_EQ: *out = a == b; return true;
    case LP_NE: *out = a != b; return true;
    case LP_LT: *out = a < b; return true;
    case LP_LE: *out = a <= b; return true;
    case LP_GT: *out = a > b; return true;
    case LP_GE: *out = a >= b; return true;
    default: return false;
    }
}

/* Negating a constant keeps subtraction foldable into the literal; exact for floats. */
static bool is_real_const(const struct lp *p, lpv v, double *out)
{
    const struct lp_instr *i = &p->instrs.data[v];
    if (i->op != LP_CONST || !dtype_is_float((enum dtype)i->dtype)) return false;
    *out = element_real((enum dtype)i->dtype, &i->bits);
    return true;
}

/* ---- index arithmetic ---- */

static bool is_mul_by(const struct lp *p, lpv v, int64_t *factor, lpv *base)
{
    const struct lp_instr *i = &p->instrs.data[v];
    if (i->op == LP_MUL && lp_is_const(p, i->b, factor)) return *base = i->a, true;
    return false;
}

/* Splits v into q·c + r with 0 <= r < c provable; c a constant. */
static bool split(struct lp *p, lpv v, int64_t c, lpv *q, lpv *r)
{
    int64_t k, lo, hi;
    lpv base;
    lp_range(p, v, &lo, &hi);
    if (lo >= 0 && hi < c) return *q = lp_index(p, 0), *r = v, true;
    if (lp_is_const(p, v, &k))
        return *q = lp_index(p, floor_div(k, c)), *r = lp_index(p, k - floor_div(k, c) * c), true;
    if (is_mul_by(p, v, &k, &base) && k % c == 0)
        return *q = lp_bin(p, LP_MUL, base, lp_index(p, k / c)), *r = lp_index(p, 0), true;
    struct lp_instr i = p->instrs.data[v];
    if (i.op == LP_ADD) {
        lpv q1, r1, q2, r2;
        if (split(p, i.a, c, &q1, &r1) && split(p, i.b, c, &q2, &r2)) {
            lpv rest = lp_bin(p, LP_ADD, r1, r2);
            lp_range(p, rest, &lo, &hi);
            if (lo >= 0 && hi < c) return *q = lp_bin(p, LP_ADD, q1, q2), *r = rest, true;
        }
    }
    return false;
}

/* v = x·c + y with y the variable of a loop that ends at c (the symbolic form of an index made by
 * flattening)? */
static bool split_symbolic(struct lp *p, lpv v, lpv c, lpv *q, lpv *r)
{
    struct lp_instr i = p->instrs.data[v];
    if (i.op == LP_VAR && p->loops.data[i.imm].bound == c && p->loops.data[i.imm].lo >= 0)
        return *q = lp_index(p, 0), *r = v, true;
    if (i.op != LP_ADD) return false;
    for (int k = 0; k < 2; k++) {
        lpv product = k ? i.b : i.a, rest = k ? i.a : i.b;
        struct lp_instr m = p->instrs.data[product], y = p->instrs.data[rest];
        if (m.op != LP_MUL || (m.a != c && m.b != c)) continue;
        if (y.op == LP_VAR && p->loops.data[y.imm].bound == c && p->loops.data[y.imm].lo >= 0)
            return *q = m.a == c ? m.b : m.a, *r = rest, true;
    }
    return false;
}

static lpv index_div(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    int64_t c;
    lpv q, r;
    if (lp_is_const(p, b, &c) && c > 0) {
        if (c == 1) return op == LP_FLOORDIV ? a : lp_index(p, 0);
        if (split(p, a, c, &q, &r)) return op == LP_FLOORDIV ? q : r;
    } else if (split_symbolic(p, a, b, &q, &r)) return op == LP_FLOORDIV ? q : r;
    return LPV_NONE;
}

/* (x // c) * c + x % c is x. */
static lpv rejoin(struct lp *p, lpv product, lpv rest)
{
    struct lp_instr m = p->instrs.data[product], y = p->instrs.data[rest];
    if (m.op != LP_MUL || y.op != LP_MOD) return LPV_NONE;
    for (int k = 0; k < 2; k++) {
        struct lp_instr d = p->instrs.data[k ? m.b : m.a];
        lpv factor = k ? m.a : m.b;
        if (d.op == LP_FLOORDIV && d.b == factor && y.b == factor && y.a == d.a) return d.a;
    }
    return LPV_NONE;
}

static lpv simplify_index(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    int64_t x, y;
    bool ca = lp_is_const(p, a, &x), cb = lp_is_const(p, b, &y);
    lpv r;
    switch (op) {
    case LP_ADD: {
        if (ca && x == 0) return b;
        if (cb && y == 0) return a;
        if (ca) return lp_bin(p, LP_ADD, b, a); /* constants stand right */
        if ((r = rejoin(p, a, b)) != LPV_NONE || (r = rejoin(p, b, a)) != LPV_NONE) return r;
        struct lp_instr i = p->instrs.data[a];
        int64_t z;
        if (cb && i.op == LP_ADD && lp_is_const(p, i.b, &z))
            return lp_bin(p, LP_ADD, i.a, lp_index(p, y + z));
        struct lp_instr k = p->instrs.data[b];
        if (k.op == LP_ADD && lp_is_const(p, k.b, &z))
            return lp_bin(p, LP_ADD, lp_bin(p, LP_ADD, a, k.a), k.b);
        break;
    }
    case LP_SUB: {
        if (a == b) return lp_index(p, 0);
        if (cb && y != INT64_MIN) return lp_bin(p, LP_ADD, a, lp_index(p, -y));
        struct lp_instr i = p->instrs.data[a];
        if (i.op == LP_ADD && i.b == b) return i.a;
        if (i.op == LP_ADD && i.a == b) return i.b;
        break;
    }
    case LP_MUL: {
        if (ca && !cb) return lp_bin(p, LP_MUL, b, a);
        if (cb && y == 1) return a;
        if (cb && y == 0) return b;
        int64_t z;
        lpv base;
        if (cb && is_mul_by(p, a, &z, &base)) return lp_bin(p, LP_MUL, base, lp_index(p, y * z));
        struct lp_instr i = p->instrs.data[a];
        if (cb && i.op == LP_ADD && lp_is_const(p, i.b, &z))
            return lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, i.a, b), lp_index(p, y * z));
        break;
    }
    case LP_FLOORDIV:
    case LP_MOD: return index_div(p, op, a, b);
    case LP_MIN:
    case LP_MAX: {
        struct lp_value u = p->values.data[a], v = p->values.data[b];
        if (a == b) return a;
        if (u.hi <= v.lo) return op == LP_MIN ? a : b;
        if (v.hi <= u.lo) return op == LP_MIN ? b : a;
        break;
    }
    default: break;
    }
    return LPV_NONE;
}

static lpv compare_by_range(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    struct lp_value u = p->values.data[a], v = p->values.data[b];
    int known = -1;
    switch (op) {
    case LP_LT: known = u.hi < v.lo ? 1 : u.lo >= v.hi ? 0 : -1; break;
    case LP_LE: known = u.hi <= v.lo ? 1 : u.lo > v.hi ? 0 : -1; break;
    case LP_GT: known = u.lo > v.hi ? 1 : u.hi <= v.lo ? 0 : -1; break;
    case LP_GE: known = u.lo >= v.hi ? 1 : u.hi < v.lo ? 0 : -1; break;
    case LP_EQ: known = a == b ? 1 : u.hi < v.lo || v.hi < u.lo ? 0 : -1; break;
    case LP_NE: known = a == b ? 0 : u.hi < v.lo || v.hi < u.lo ? 1 : -1; break;
    default: break;
    }
    return known < 0 ? LPV_NONE : lp_int(p, DT_BOOL, known);
}

/* ---- operations ---- */

static lpv contract(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    struct lp_instr x = p->instrs.data[a], y = p->instrs.data[b];
    enum dtype t = (enum dtype)x.dtype;
    if (op == LP_ADD && x.op == LP_MUL) return pure(p, LP_FMA, t, x.a, x.b, b, 0, 0, 0);
    if (op == LP_ADD && y.op == LP_MUL) return pure(p, LP_FMA, t, y.a, y.b, a, 0, 0, 0);
    if (op == LP_SUB && x.op == LP_MUL) return pure(p, LP_FMA, t, x.a, x.b, lp_un(p, LP_NEG, b), 0, 0, 0);
    if (op == LP_SUB && y.op == LP_MUL) return pure(p, LP_FMA, t, lp_un(p, LP_NEG, y.a), y.b, a, 0, 0, 0);
    return LPV_NONE;
}

/* Is v the lowest (highest) number that its integer dtype has? */
static bool is_end(const struct lp *p, lpv v, bool highest)
{
    const struct lp_instr *i = &p->instrs.data[v];
    enum dtype t = (enum dtype)i->dtype;
    if (i->op != LP_CONST || !dtype_is_integer(t)) return false;
    uint64_t top = (uint64_t)1 << (8 * dtype_info[t].size - 1), all = top | (top - 1);
    bool has_sign = dtype_info[t].kind == KIND_INT;
    return (i->bits & all) == (has_sign ? (highest ? top - 1 : top) : highest ? all : 0);
}

/* Nothing is below the lowest number of a dtype or above its highest: what a comparison with one of them
 * gives, or LPV_NONE where it depends. C compilers warn of a comparison that is always the same. */
static lpv compare_with_end(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    bool never = (op == LP_LT && (is_end(p, b, false) || is_end(p, a, true))) ||
                 (op == LP_GT && (is_end(p, b, true) || is_end(p, a, false)));
    bool always = (op == LP_GE && (is_end(p, b, false) || is_end(p, a, true))) ||
                  (op == LP_LE && (is_end(p, b, true) || is_end(p, a, false)));
    return never || always ? lp_int(p, DT_BOOL, always) : LPV_NONE;
}

lpv lp_bin(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    enum dtype t = lp_dtype(p, a);
    int64_t x, y, folded, lo = INT64_MIN, hi = INT64_MAX;
    lpv r;
    if (dtype_is_narrow(t)) {
        r = lp_bin(p, op, lp_cast(p, DT_F32, a), lp_cast(p, DT_F32, b));
        return lp_is_comparison(op) ? r : lp_cast(p, t, r);
    }
    if (t == DT_I64) {
        if (lp_is_const(p, a, &x) && lp_is_const(p, b, &y) && fold_i64(op, x, y, &folded))
            return lp_is_comparison(op) ? lp_int(p, DT_BOOL, folded) : lp_index(p, folded);
        r = lp_is_comparison(op) ? compare_by_range(p, op, a, b) : simplify_index(p, op, a, b);
        if (r != LPV_NONE) return r;
        if (!lp_is_comparison(op)) range_of(p, op, a, b, &lo, &hi);
    }
    if (dtype_is_integer(t) && lp_is_comparison(op) && (r = compare_with_end(p, op, a, b)) != LPV_NONE)
        return r;
    if (dtype_is_float(t) && !p->strict && !p->no_contract && (op == LP_ADD || op == LP_SUB) &&
        (r = contract(p, op, a, b)) != LPV_NONE)
        return r;
    double u, v;
    if (dtype_is_float(t) && is_real_const(p, a, &u) && is_real_const(p, b, &v) &&
        (op == LP_MUL || op == LP_ADD || op == LP_SUB)) {
        double d = op == LP_MUL   ? (t == DT_F32 ? (double)((float)u * (float)v) : u * v)
                   : op == LP_ADD ? (t == DT_F32 ? (double)((float)u + (float)v) : u + v)
                                  : (t == DT_F32 ? (double)((float)u - (float)v) : u - v);
        if (!isnan(d)) return lp_const_bits(p, t, real_bits(t, d));
    }
    if (t == DT_BOOL && (op == LP_AND || op == LP_OR)) {
        if (lp_is_const(p, a, &x)) return (op == LP_AND) == (x != 0) ? b : a;
        if (lp_is_const(p, b, &y)) return (op == LP_AND) == (y != 0) ? a : b;
    }
    return pure(p, op, lp_is_comparison(op) ? DT_BOOL : t, a, b, LPV_NONE, 0, lo, hi);
}

lpv lp_un(struct lp *p, enum lp_op op, lpv a)
{
    enum dtype t = lp_dtype(p, a);
    double u;
    int64_t x;
    if (dtype_is_narrow(t)) return lp_cast(p, t, lp_un(p, op, lp_cast(p, DT_F32, a)));
    if (op == LP_NEG) {
        if (is_real_const(p, a, &u) && !isnan(u)) return lp_const_bits(p, t, real_bits(t, -u));
        if (t == DT_I64 && lp_is_const(p, a, &x)) return lp_index(p, (int64_t)(0 - (uint64_t)x));
        if (p->instrs.data[a].op == LP_NEG && dtype_is_float(t)) return p->instrs.data[a].a;
    }
    if (op == LP_NOT && t == DT_BOOL && lp_is_const(p, a, &x)) return lp_int(p, DT_BOOL, !x);
    return pure(p, op, t, a, LPV_NONE, LPV_NONE, 0, INT64_MIN, INT64_MAX);
}

lpv lp_select(struct lp *p, lpv c, lpv a, lpv b)
{
    int64_t k;
    if (lp_is_const(p, c, &k)) return k ? a : b;
    if (a == b) return a;
    int64_t lo = HOP_MIN(p->values.data[a].lo, p->values.data[b].lo),
            hi = HOP_MAX(p->values.data[a].hi, p->values.data[b].hi);
    return pure(p, LP_SELECT, lp_dtype(p, a), c, a, b, 0, lo, hi);
}

lpv lp_fused(struct lp *p, lpv a, lpv b, lpv c)
{
    enum dtype t = lp_dtype(p, a);
    if (dtype_is_narrow(t))
        return lp_cast(p, t,
                       lp_fused(p, lp_cast(p, DT_F32, a), lp_cast(p, DT_F32, b), lp_cast(p, DT_F32, c)));
    return pure(p, LP_FUSED, t, a, b, c, 0, INT64_MIN, INT64_MAX);
}

lpv lp_far(struct lp *p, uint32_t which, lpv far, lpv x, lpv near)
{
    const struct lp_instr *i = &p->instrs.data[x];
    if (i->op == LP_CAST && lp_dtype(p, i->a) == DT_F16) return near; /* no f16 is far */
    return pure(p, LP_FAR, lp_dtype(p, x), far, x, near, which, INT64_MIN, INT64_MAX);
}

/* The f32 beside x that makes a second rounding harmless: see f32_to_odd. */
static lpv cast_to_odd(struct lp *p, lpv x)
{
    lpv f = lp_cast(p, DT_F32, x), back = lp_cast(p, DT_F64, f), bits = lp_bitcast(p, DT_U32, f);
    lpv above = lp_bin(p, LP_GT, lp_un(p, LP_ABS, back), lp_un(p, LP_ABS, x));
    lpv odd = lp_bin(p, LP_OR, lp_bin(p, LP_SUB, bits, lp_cast(p, DT_U32, above)), lp_int(p, DT_U32, 1));
    lpv inexact = lp_bin(p, LP_OR, lp_bin(p, LP_LT, back, x), lp_bin(p, LP_GT, back, x));
    return lp_bitcast(p, DT_F32, lp_select(p, inexact, odd, bits));
}

/* 64-bit integers that f64 could round: their low twelve bits become one. See f64_to_odd_i64. */
static lpv without_low_bits(struct lp *p, lpv x)
{
    enum dtype t = lp_dtype(p, x);
    lpv low = lp_bin(p, LP_AND, x, lp_int(p, t, 0xfff)),
        high = lp_bin(p, LP_AND, x, lp_int(p, t, ~(int64_t)0xfff));
    lpv sticky = lp_select(p, lp_bin(p, LP_NE, low, lp_int(p, t, 0)), lp_int(p, t, 0x1000), lp_int(p, t, 0));
    lpv large = lp_bin(p, LP_GT, x, lp_int(p, t, (int64_t)1 << 53));
    if (t == DT_I64) large = lp_bin(p, LP_OR, large, lp_bin(p, LP_LT, x, lp_int(p, t, -((int64_t)1 << 53))));
    return lp_select(p, large, lp_bin(p, LP_OR, high, sticky), x);
}

/* Casts from and to f16 and bf16 that are instructions are those from and to f32; the others go by way of it
 * without rounding twice. */
static lpv cast_narrow(struct lp *p, enum dtype t, lpv a)
{
    enum dtype from = lp_dtype(p, a);
    struct lp_instr i = p->instrs.data[a];
    if (from == DT_F32) {
        double u;
        if (is_real_const(p, a, &u))
            return lp_const_bits(p, t, t == DT_F16 ? f16_of_f32((float)u) : bf16_of_f32((float)u));
        if (i.op == LP_CAST && lp_dtype(p, i.a) == t) return i.a;
        return pure(p, LP_CAST, t, a, LPV_NONE, LPV_NONE, 0, INT64_MIN, INT64_MAX);
    }
    if (from == DT_F64) return cast_narrow(p, t, cast_to_odd(p, a));
    if (dtype_is_narrow(from) || dtype_info[from].size <= 2)
        return cast_narrow(p, t, lp_cast(p, DT_F32, a)); /* exact */
    /* f16 ends long before f64 begins to round integers */
    return lp_cast(p, t,
                   lp_cast(p, DT_F64,
                           t == DT_BF16 && dtype_info[from].size == 8 ? without_low_bits(p, a) : a));
}

lpv lp_cast(struct lp *p, enum dtype t, lpv a)
{
    enum dtype from = lp_dtype(p, a);
    int64_t k;
    double u;
    if (from == t) return a;
    if (dtype_is_narrow(t)) return cast_narrow(p, t, a);
    if (dtype_is_narrow(from)) {
        if (t != DT_F32) return lp_cast(p, t, lp_cast(p, DT_F32, a));
        if (is_real_const(p, a, &u)) return lp_real(p, t, u);
    }
    if (!dtype_is_float(from) && lp_is_const(p, a, &k)) {
        if (!dtype_is_float(t)) return lp_int(p, t, k);
        if (t == DT_F64 || (k >= -(1 << 24) && k <= 1 << 24)) return lp_real(p, t, (double)k);
    }
    bool keeps = dtype_is_integer(from) && from != DT_U64 && t == DT_I64;
    int64_t lo = INT64_MIN, hi = INT64_MAX;
    if (keeps) {
        lo = HOP_MAX(p->values.data[a].lo, dtype_least(from));
        hi = HOP_MIN(p->values.data[a].hi, dtype_most(from));
    }
    if (from == DT_BOOL) {
        lo = 0;
        hi = 1;
    }
    return pure(p, LP_CAST, t, a, LPV_NONE, LPV_NONE, 0, lo, hi);
}

lpv lp_bitcast(struct lp *p, enum dtype t, lpv a)
{
    if (lp_dtype(p, a) == t) return a;
    if (p->instrs.data[a].op == LP_CONST) return lp_const_bits(p, t, p->instrs.data[a].bits);
    return pure(p, LP_BITCAST, t, a, LPV_NONE, LPV_NONE, 0, INT64_MIN, INT64_MAX);
}

/* ---- looking at indices ---- */

bool lp_depends(const struct lp *p, lpv v, lpv var)
{
    if (v == var) return true;
    const struct lp_instr *i = &p->instrs.data[v];
    const struct lp_block *home = p->values.data[v].home;
    if (!home || home->depth < p->values.data[var].home->depth) return false;
    if (i->op == LP_READ || i->op == LP_FOLD) return true; /* could: locals are not followed */
    if (i->op == LP_LOAD) return true;
    lpv operands[3] = { i->a, i->b, i->c };
    for (int k = 0; k < 3; k++)
        if (operands[k] != LPV_NONE && lp_depends(p, operands[k], var)) return true;
    return false;
}

bool lp_stride(struct lp *p, lpv index, lpv var, lpv *stride)
{
    if (index == var) return *stride = lp_index(p, 1), true;
    if (!lp_depends(p, index, var)) return *stride = lp_index(p, 0), true;
    struct lp_instr i = p->instrs.data[index];
    lpv x, y;
    if ((i.op == LP_ADD || i.op == LP_SUB) && lp_stride(p, i.a, var, &x) && lp_stride(p, i.b, var, &y))
        return *stride = lp_bin(p, (enum lp_op)i.op, x, y), true;
    if (i.op == LP_MUL && !lp_depends(p, i.b, var) && lp_stride(p, i.a, var, &x))
        return *stride = lp_bin(p, LP_MUL, x, i.b), true;
    if (i.op == LP_MUL && !lp_depends(p, i.a, var) && lp_stride(p, i.b, var, &x))
        return *stride = lp_bin(p, LP_MUL, x, i.a), true;
    return false;
}
