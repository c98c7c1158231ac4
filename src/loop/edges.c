/* Lowering, the part about rows whose ends are unlike their middle, as those of stencils are: padding, what
 * is put together of pieces and what is updated in part ask for every element where it lies, and bring
 * indices into range. The loop along such a row is written as three, of which each knows the range of its
 * variable, so that what it does not need goes away: the few elements at either end, one by one, and the
 * middle, as vectors without conditions. Every element is computed as before. */
#include "loop/lower_impl.h"
#include "loop/lp_walk.h"

enum {
    MOST_AT_AN_END = 8,  /* elements */
    LEAST_MIDDLE = 40,   /* times as many as at both ends, which run one after the other */
    MOST_STATEMENTS = 96 /* of the loop: code grows with them */
};

struct row {
    struct lp *p;
    const struct lp_block *body;
    lpv var;
    int64_t lo, hi;      /* of the variable */
    int64_t left, right; /* of the middle */
    uint32_t n;          /* values made in the loop, ascending … */
    lpv *values, *now;   /* … and what they are in the part at hand */
    lpv var_now;
};

/* ---- where the middle is ---- */

/* From `at` on something is different. */
static void add_change(struct row *r, int64_t at)
{
    if (at <= r->lo || at >= r->hi) return;
    if (at - r->lo <= MOST_AT_AN_END) r->left = HOP_MAX(r->left, at);
    else if (r->hi - at <= MOST_AT_AN_END) r->right = HOP_MIN(r->right, at);
}

/* Comparisons of the variable plus a number with a number, and clamps. */
static void find_changes(struct row *r, const struct lp_instr *i)
{
    enum lp_op op = (enum lp_op)i->op;
    int64_t x, y, at;
    if (!lp_is_comparison(op) && op != LP_MIN && op != LP_MAX) return;
    if (lp_dtype(r->p, i->a) != DT_I64) return;
    lpv a = lp_split_constant(r->p, i->a, &x), b = lp_split_constant(r->p, i->b, &y);
    bool turned = a == LPV_NONE && b == r->var;
    if (!turned && (a != r->var || b != LPV_NONE)) return;
    if (__builtin_sub_overflow(turned ? x : y, turned ? y : x, &at)) return;
    if (at < r->lo - 1 || at > r->hi) return;
    bool from_next = op == LP_MIN || (turned ? op == LP_LT || op == LP_GE : op == LP_LE || op == LP_GT);
    bool both = op == LP_EQ || op == LP_NE;
    if (!from_next) add_change(r, at);
    if (from_next || both) add_change(r, at + 1);
}

/* Loads, stores and what is computed, and nothing else? */
static bool is_plain(const struct row *r)
{
    const struct lp_block *body = r->body;
    if (body->stmts.len > MOST_STATEMENTS) return false;
    for (uint32_t k = 0; k < body->stmts.len; k++) {
        const struct lp_stmt *s = &body->stmts.data[k];
        if (s->kind != LP_LET && s->kind != LP_STORE) return false;
        if (s->kind == LP_STORE) continue;
        enum lp_op op = (enum lp_op)r->p->instrs.data[s->value].op;
        if (op == LP_FOLD || op == LP_FIRST) return false;
    }
    return true;
}

static bool find_middle(struct row *r)
{
    r->left = r->lo;
    r->right = r->hi;
    for (uint32_t k = 0; k < r->body->stmts.len; k++) {
        const struct lp_stmt *s = &r->body->stmts.data[k];
        if (s->kind == LP_LET) find_changes(r, &r->p->instrs.data[s->value]);
    }
    int64_t ends = r->hi - r->lo - (r->right - r->left);
    return ends > 0 && r->right - r->left >= LEAST_MIDDLE * ends;
}

/* ---- a part ---- */

static uint32_t number_of(const struct row *r, lpv v)
{
    uint32_t lo = 0, hi = r->n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (r->values[mid] < v) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}
static lpv now(const struct row *r, lpv v)
{
    if (v == r->var) return r->var_now;
    uint32_t k = v == LPV_NONE ? r->n : number_of(r, v);
    return k < r->n && r->values[k] == v ? r->now[k] : v;
}

static lpv again(const struct row *r, lpv v)
{
    struct lp *p = r->p;
    struct lp_instr i = p->instrs.data[v];
    enum lp_op op = (enum lp_op)i.op;
    lpv a = now(r, i.a), b = now(r, i.b), c = now(r, i.c);
    switch (op) {
    case LP_LOAD: return lp_load(p, (uint32_t)i.imm, a);
    case LP_READ: return lp_read(p, (uint32_t)i.imm);
    case LP_CAST: return lp_cast(p, (enum dtype)i.dtype, a);
    case LP_BITCAST: return lp_bitcast(p, (enum dtype)i.dtype, a);
    case LP_SELECT: return lp_select(p, a, b, c);
    case LP_FMA: return lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, a, b), c);
    case LP_FUSED: return lp_fused(p, a, b, c);
    case LP_FAR: return lp_far(p, (uint32_t)i.imm, a, b, c);
    default: return lp_arity(op) == 1 ? lp_un(p, op, a) : lp_bin(p, op, a, b);
    }
}

struct used {
    lpv first;
    bool *of;
};
static void use(void *ctx, lpv v)
{
    struct used *u = ctx;
    if (v >= u->first) u->of[v - u->first] = true;
}

/* Takes out what nobody reads any more. */
static void sweep(struct lp *p, struct lp_block *body, lpv first)
{
    struct used u = { .first = first, .of = ARENA_ZNEW(&p->arena, bool, p->instrs.len - first + 1) };
    uint32_t kept = body->stmts.len;
    for (uint32_t k = body->stmts.len; k-- > 0;) {
        const struct lp_stmt *s = &body->stmts.data[k];
        if (s->kind == LP_LET && !u.of[s->value - first]) continue;
        lp_stmt_uses(p, s, use, &u);
        body->stmts.data[--kept] = *s;
    }
    uint32_t n = body->stmts.len - kept;
    memmove(body->stmts.data, body->stmts.data + kept, n * sizeof *body->stmts.data);
    body->stmts.len = n;
}

static void put_part(struct row *r, int64_t lo, int64_t hi, enum lp_for_kind kind, const char *note)
{
    struct lp *p = r->p;
    if (lo >= hi) return;
    lpv first = p->instrs.len;
    uint32_t k = 0;
    r->var_now = lp_for_begin(p, lp_index(p, lo), lp_index(p, hi), lp_index(p, 1), kind);
    for (uint32_t i = 0; i < r->body->stmts.len; i++) {
        const struct lp_stmt *s = &r->body->stmts.data[i];
        if (s->kind == LP_STORE) {
            lp_store(p, s->target, now(r, s->index), now(r, s->value));
            continue;
        }
        r->now[k] = again(r, s->value);
        if (p->values.data[s->value].kept) lp_keep(p, r->now[k]);
        k++;
    }
    struct lp_stmt *loop = lp_for_end(p);
    loop->note = note;
    sweep(p, loop->body, first);
}

void edges_split(struct lp *p, lpv var)
{
    struct lp_block *around = p->current;
    struct lp_stmt loop = around->stmts.data[around->stmts.len - 1];
    struct row r = { .p = p, .body = loop.body, .var = var };
    int64_t step;
    if (!lp_is_const(p, loop.lo, &r.lo) || !lp_is_const(p, loop.hi, &r.hi)) return;
    if (!lp_is_const(p, loop.step, &step) || step != 1 || !is_plain(&r) || !find_middle(&r)) return;
    r.values = ARENA_NEW(&p->arena, lpv, r.body->stmts.len);
    r.now = ARENA_NEW(&p->arena, lpv, r.body->stmts.len);
    for (uint32_t i = 0; i < r.body->stmts.len; i++)
        if (r.body->stmts.data[i].kind == LP_LET) r.values[r.n++] = r.body->stmts.data[i].value;
    around->stmts.len--;
    put_part(&r, r.lo, r.left, FOR_SERIAL, NULL);
    put_part(&r, r.left, r.right, (enum lp_for_kind)loop.mode, loop.note);
    put_part(&r, r.right, r.hi, FOR_SERIAL, NULL);
}
