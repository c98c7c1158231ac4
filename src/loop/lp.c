/* Building loop programs: hash-consed pure instructions placed as far out as they are known, folding of
 * constants, and contraction of products and sums in default mode. What is known of indices is
 * lp_index.c's. */
#include "ir/number.h"
#include "loop/lp_index.h"
#include "loop/lp_walk.h"
#include "loop/rt.h"

#include <math.h>

int64_t lp_panels_count(enum dtype b, int64_t n, int64_t k)
{
    int64_t whole = (n + HOP_RT_PANEL_COLUMNS - 1) / HOP_RT_PANEL_COLUMNS * HOP_RT_PANEL_COLUMNS;
    return whole * k * HOP_MAX((int64_t)sizeof(float) / dtype_info[b].size, 1);
}

struct lp *lp_new(struct module *m, const struct fn *entry, bool strict)
{
    struct lp *p = hop_calloc(1, sizeof *p);
    hop_cleanup_push(lp_free, p);
    p->m = m;
    p->entry = entry;
    p->strict = strict;
    p->regime.strict = strict;
    p->has_strict = strict;
    p->instr_map.arena = &p->arena;
    p->root = ARENA_ZNEW(&p->arena, struct lp_block, 1);
    p->current = p->root;
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
    vec_push(&p->arena, &p->locals,
             (struct lp_local){
                 .kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .strict = p->regime.strict, .name = name });
    return p->locals.len - 1;
}

/* ---- blocks and statements ---- */

struct lp_block *lp_open(struct lp *p, bool barrier)
{
    struct lp_block *b = ARENA_ZNEW(&p->arena, struct lp_block, 1);
    b->outer = p->current;
    b->depth = p->current->depth + 1;
    b->barrier = barrier;
    p->current = b;
    return b;
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
    call->within = p->regime.within;
    if (lp_is_site(call)) {
        struct lp *program = p->program ? p->program : p;
        call->site = program->sites.len;
        vec_push(&program->arena, &program->sites, call);
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

static struct lp_instr instr(enum lp_op op, enum dtype t, lpv a, lpv b, lpv c)
{
    return (struct lp_instr){ .op = (uint8_t)op, .dtype = (uint8_t)t, .a = a, .b = b, .c = c };
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
    struct lp_range range = { lp_range(p, lo).lo, lp_range(p, hi).hi };
    if (range.hi != INT64_MAX) range.hi--;
    if (range.hi < range.lo) range.hi = range.lo;
    vec_push(&p->arena, &p->loops, (struct lp_loop){ range, hi });
    s.body = lp_open(p, false);
    vec_push(&p->arena, &p->open, s);
    struct lp_instr var = instr(LP_VAR, DT_I64, LPV_NONE, LPV_NONE, LPV_NONE);
    var.depth = p->current->depth;
    var.imm = s.target;
    return append(p, var, (struct lp_value){ range, p->current });
}

static struct lp_stmt pop_open(struct lp *p)
{
    lp_close(p);
    return p->open.data[--p->open.len];
}

static bool has_loops(const struct lp_block *block)
{
    for (uint32_t i = 0; i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        bool loop = s->kind == LP_FOR || s->kind == LP_WHILE;
        if (loop || (s->body && has_loops(s->body)) || (s->other && has_loops(s->other))) return true;
    }
    return false;
}

struct lp_stmt *lp_for_end(struct lp *p)
{
    struct lp_stmt s = pop_open(p);
    if (s.mode == FOR_VECTOR) s.scalar = p->regime.scalar;
    if (s.mode == FOR_PARALLEL) s.threads = p->regime.threads;
    if (s.mode == FOR_SERIAL && p->regime.unroll && !has_loops(s.body)) s.unroll = p->regime.unroll;
    return lp_add_stmt(p, s);
}

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

struct lp_stmt *lp_while_end(struct lp *p) { return lp_add_stmt(p, pop_open(p)); }

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

/* The depth of the innermost branch around what is written now; 0: none. */
static uint32_t branch_depth(const struct lp *p)
{
    for (const struct lp_block *b = p->current; b; b = b->outer)
        if (b->barrier) return b->depth;
    return 0;
}

/* As far out as the operands are known. Index arithmetic may leave branches, anything else stays inside the
 * innermost one. */
static struct lp_block *home_of(const struct lp *p, const struct lp_instr *in)
{
    if (in->op == LP_CONST || in->op == LP_SYMBOL) return NULL;
    uint32_t depth = in->dtype == DT_I64 ? 0 : branch_depth(p);
    const lpv operands[3] = { in->a, in->b, in->c };
    for (int i = 0; i < 3; i++) {
        if (operands[i] == LPV_NONE) continue;
        const struct lp_block *home = p->values.data[operands[i]].home;
        if (home) depth = HOP_MAX(depth, home->depth);
    }
    return block_at(p, depth);
}

static uint64_t hash_instr(const struct lp_instr *in)
{
    uint64_t h = hash_mix(in->op * 64u + in->dtype, in->a);
    h = hash_mix(h, in->b);
    return hash_mix(h, ((uint64_t)in->c << 1) ^ in->bits);
}

/* Finds or makes a pure instruction. */
static lpv pure(struct lp *p, struct lp_instr in, struct lp_range range)
{
    uint64_t h = hash_instr(&in);
    for (uint32_t it = map_first(&p->instr_map, h); it != HOP_NONE; it = map_next(&p->instr_map, h, it)) {
        lpv v = map_value(&p->instr_map, it);
        if (same_instr(&p->instrs.data[v], &in) && visible(p, v)) return v;
    }
    struct lp_block *home = home_of(p, &in);
    if (home) in.depth = home->depth;
    lpv v = append(p, in, (struct lp_value){ range, home });
    map_put(&p->instr_map, h, v);
    if (home) vec_push(&p->arena, &home->stmts, (struct lp_stmt){ .kind = LP_LET, .value = v });
    return v;
}

static const struct lp_range EVERYTHING = { INT64_MIN, INT64_MAX };

/* Pure instructions of which no range is known. */
static lpv pure1(struct lp *p, enum lp_op op, enum dtype t, lpv a)
{
    return pure(p, instr(op, t, a, LPV_NONE, LPV_NONE), EVERYTHING);
}

static lpv pure3(struct lp *p, enum lp_op op, enum dtype t, lpv a, lpv b, lpv c)
{
    return pure(p, instr(op, t, a, b, c), EVERYTHING);
}

/* An instruction that stays here. */
static lpv placed(struct lp *p, struct lp_instr in)
{
    in.depth = p->current->depth;
    lpv v = append(p, in, (struct lp_value){ EVERYTHING, p->current });
    lp_add_stmt(p, (struct lp_stmt){ .kind = LP_LET, .value = v });
    return v;
}

static enum dtype local_dtype(const struct lp *p, uint32_t local)
{
    return (enum dtype)p->locals.data[local].dtype;
}

lpv lp_read(struct lp *p, uint32_t local)
{
    struct lp_instr in = instr(LP_READ, local_dtype(p, local), LPV_NONE, LPV_NONE, LPV_NONE);
    in.imm = local;
    return placed(p, in);
}

/* A load of the same element earlier in this block still stands if nothing was written to the buffer since.
 */
static lpv earlier_load(const struct lp *p, uint32_t buffer, lpv index)
{
    enum { LOOK_BACK = 96 };
    const struct lp_block *b = p->current;
    uint32_t end = b->stmts.len;
    uint32_t begin = end > LOOK_BACK ? end - LOOK_BACK : 0;
    for (uint32_t i = end; i-- > begin;) {
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
    if (seen != LPV_NONE) return seen;
    enum dtype t = (enum dtype)p->buffers.data[buffer].dtype;
    struct lp_instr in = instr(LP_LOAD, t, index, LPV_NONE, LPV_NONE);
    in.imm = buffer;
    return placed(p, in);
}

lpv lp_fold_lanes(struct lp *p, uint32_t local, enum lp_fold fold)
{
    struct lp_instr in = instr(LP_FOLD, local_dtype(p, local), LPV_NONE, fold, LPV_NONE);
    in.imm = local;
    return placed(p, in);
}

lpv lp_first_lane(struct lp *p, uint32_t values, lpv best, uint32_t positions)
{
    struct lp_instr in = instr(LP_FIRST, local_dtype(p, positions), best, positions, LPV_NONE);
    in.imm = values;
    return placed(p, in);
}

/* ---- constants ---- */

lpv lp_const_bits(struct lp *p, enum dtype t, uint64_t bits)
{
    struct lp_instr in = instr(LP_CONST, t, LPV_NONE, LPV_NONE, LPV_NONE);
    in.bits = bits;
    int64_t v = element_whole(t, &bits);
    return pure(p, in, (struct lp_range){ v, v });
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
    struct lp_instr in = instr(LP_SYMBOL, DT_I64, LPV_NONE, LPV_NONE, LPV_NONE);
    in.imm = index;
    return pure(p, in, (struct lp_range){ s->lo, s->hi });
}

bool lp_is_const(const struct lp *p, lpv v, int64_t *out)
{
    const struct lp_instr *i = &p->instrs.data[v];
    enum dtype t = (enum dtype)i->dtype;
    if (i->op != LP_CONST || dtype_is_float(t)) return false;
    if (t == DT_U64 && i->bits > INT64_MAX) return false;
    *out = element_whole(t, &i->bits);
    return true;
}

/* ---- operations ---- */

static bool is_real_const(const struct lp *p, lpv v, double *out)
{
    const struct lp_instr *i = &p->instrs.data[v];
    if (i->op != LP_CONST || !dtype_is_float((enum dtype)i->dtype)) return false;
    *out = element_real((enum dtype)i->dtype, &i->bits);
    return true;
}

void lp_keep(struct lp *p, lpv v) { p->values.data[v].kept = true; }

/* x·y + z for a sum or a difference with a product in it; LPV_NONE: there is none. */
static lpv contract(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    struct lp_instr x = p->instrs.data[a];
    struct lp_instr y = p->instrs.data[b];
    enum dtype t = (enum dtype)x.dtype;
    bool minus = op == LP_SUB;
    if (x.op == LP_MUL && !p->values.data[a].kept) {
        lpv addend = minus ? lp_un(p, LP_NEG, b) : b;
        return pure3(p, LP_FMA, t, x.a, x.b, addend);
    }
    if (y.op == LP_MUL && !p->values.data[b].kept) {
        lpv factor = minus ? lp_un(p, LP_NEG, y.a) : y.a;
        return pure3(p, LP_FMA, t, factor, y.b, a);
    }
    return LPV_NONE;
}

/* The bits of the lowest or highest number that an integer dtype has. */
static uint64_t end_bits(enum dtype t, bool highest)
{
    uint64_t top = (uint64_t)1 << (8 * dtype_info[t].size - 1);
    uint64_t below = top - 1;
    bool has_sign = dtype_info[t].kind == KIND_INT;
    if (has_sign) return highest ? below : top;
    return highest ? top | below : 0;
}

static bool is_end(const struct lp *p, lpv v, bool highest)
{
    const struct lp_instr *i = &p->instrs.data[v];
    enum dtype t = (enum dtype)i->dtype;
    if (i->op != LP_CONST || !dtype_is_integer(t)) return false;
    uint64_t top = (uint64_t)1 << (8 * dtype_info[t].size - 1);
    uint64_t all = top | (top - 1);
    return (i->bits & all) == end_bits(t, highest);
}

/* Nothing is below the lowest number of a dtype or above its highest: what a comparison with one of them
 * gives, or LPV_NONE where it depends. C compilers warn of a comparison that is always the same. */
static lpv compare_with_end(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    bool at_least = is_end(p, b, false) || is_end(p, a, true); /* a >= b, whatever they are */
    bool at_most = is_end(p, b, true) || is_end(p, a, false);  /* a <= b */
    bool never = (op == LP_LT && at_least) || (op == LP_GT && at_most);
    bool always = (op == LP_GE && at_least) || (op == LP_LE && at_most);
    return never || always ? lp_int(p, DT_BOOL, always) : LPV_NONE;
}

static lpv simplify_whole(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    bool compares = lp_is_comparison(op);
    int64_t x, y, folded;
    if (lp_dtype(p, a) == DT_I64) {
        if (lp_is_const(p, a, &x) && lp_is_const(p, b, &y) && lp_index_fold(op, x, y, &folded))
            return lp_int(p, compares ? DT_BOOL : DT_I64, folded);
        bool naturals = lp_range(p, a).lo >= 0 && lp_range(p, b).lo > 0;
        if (naturals && op == LP_DIV) return lp_bin(p, LP_FLOORDIV, a, b);
        if (naturals && op == LP_REM) return lp_bin(p, LP_MOD, a, b);
        lpv simple = compares ? lp_index_compare(p, op, a, b) : lp_index_simplify(p, op, a, b);
        if (simple != LPV_NONE) return simple;
    }
    return compares ? compare_with_end(p, op, a, b) : LPV_NONE;
}

/* Rounded as the dtype rounds. */
static double fold_real(enum dtype t, enum lp_op op, double x, double y)
{
    bool single = t == DT_F32;
    switch (op) {
    case LP_ADD: return single ? (double)((float)x + (float)y) : x + y;
    case LP_SUB: return single ? (double)((float)x - (float)y) : x - y;
    case LP_MUL: return single ? (double)((float)x * (float)y) : x * y;
    default: return NAN; /* is not folded */
    }
}

static lpv simplify_real(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    enum dtype t = lp_dtype(p, a);
    double x, y;
    if (!p->regime.strict && !p->no_contract && (op == LP_ADD || op == LP_SUB)) {
        lpv contracted = contract(p, op, a, b);
        if (contracted != LPV_NONE) return contracted;
    }
    if (!is_real_const(p, a, &x) || !is_real_const(p, b, &y)) return LPV_NONE;
    double folded = fold_real(t, op, x, y);
    return isnan(folded) ? LPV_NONE : lp_real(p, t, folded);
}

static lpv simplify_bool(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    int64_t x, y;
    if (op != LP_AND && op != LP_OR) return LPV_NONE;
    bool neutral = op == LP_AND; /* and true, or false, changes nothing */
    if (lp_is_const(p, a, &x)) return neutral == (x != 0) ? b : a;
    if (lp_is_const(p, b, &y)) return neutral == (y != 0) ? a : b;
    return LPV_NONE;
}

static lpv simplify(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    enum dtype t = lp_dtype(p, a);
    if (dtype_is_integer(t)) return simplify_whole(p, op, a, b);
    if (dtype_is_float(t)) return simplify_real(p, op, a, b);
    return simplify_bool(p, op, a, b);
}

lpv lp_bin(struct lp *p, enum lp_op op, lpv a, lpv b)
{
    enum dtype t = lp_dtype(p, a);
    bool compares = lp_is_comparison(op);
    if (dtype_is_narrow(t)) {
        lpv y = lp_cast(p, DT_F32, b);
        lpv x = lp_cast(p, DT_F32, a);
        lpv r = lp_bin(p, op, x, y);
        return compares ? r : lp_cast(p, t, r);
    }
    lpv simple = simplify(p, op, a, b);
    if (simple != LPV_NONE) return simple;
    bool is_index = t == DT_I64 && !compares;
    struct lp_range range = is_index ? lp_index_range(p, op, a, b) : EVERYTHING;
    return pure(p, instr(op, compares ? DT_BOOL : t, a, b, LPV_NONE), range);
}

lpv lp_un(struct lp *p, enum lp_op op, lpv a)
{
    enum dtype t = lp_dtype(p, a);
    double u;
    int64_t x;
    if (dtype_is_narrow(t)) {
        lpv r = lp_un(p, op, lp_cast(p, DT_F32, a));
        return lp_cast(p, t, r);
    }
    if (op == LP_NEG) {
        if (is_real_const(p, a, &u) && !isnan(u)) return lp_real(p, t, -u);
        if (t == DT_I64 && lp_is_const(p, a, &x)) return lp_index(p, (int64_t)(0 - (uint64_t)x));
        if (p->instrs.data[a].op == LP_NEG && dtype_is_float(t)) return p->instrs.data[a].a;
    }
    if (op == LP_NOT && t == DT_BOOL && lp_is_const(p, a, &x)) return lp_int(p, DT_BOOL, !x);
    return pure1(p, op, t, a);
}

lpv lp_select(struct lp *p, lpv c, lpv a, lpv b)
{
    int64_t k;
    if (lp_is_const(p, c, &k)) return k ? a : b;
    if (a == b) return a;
    struct lp_range x = lp_range(p, a);
    struct lp_range y = lp_range(p, b);
    struct lp_range either = { HOP_MIN(x.lo, y.lo), HOP_MAX(x.hi, y.hi) };
    return pure(p, instr(LP_SELECT, lp_dtype(p, a), c, a, b), either);
}

lpv lp_fused(struct lp *p, lpv a, lpv b, lpv c)
{
    enum dtype t = lp_dtype(p, a);
    if (dtype_is_narrow(t)) {
        lpv z = lp_cast(p, DT_F32, c);
        lpv y = lp_cast(p, DT_F32, b);
        lpv x = lp_cast(p, DT_F32, a);
        return lp_cast(p, t, lp_fused(p, x, y, z));
    }
    return pure3(p, LP_FUSED, t, a, b, c);
}

lpv lp_far(struct lp *p, uint32_t which, lpv far, lpv x, lpv near)
{
    const struct lp_instr *i = &p->instrs.data[x];
    if (i->op == LP_CAST && lp_dtype(p, i->a) == DT_F16) return near; /* no f16 is far */
    struct lp_instr in = instr(LP_FAR, lp_dtype(p, x), far, x, near);
    in.imm = which;
    return pure(p, in, EVERYTHING);
}

/* The f32 beside x that makes a second rounding harmless: see f32_to_odd. */
static lpv cast_to_odd(struct lp *p, lpv x)
{
    lpv f = lp_cast(p, DT_F32, x);
    lpv back = lp_cast(p, DT_F64, f);
    lpv bits = lp_bitcast(p, DT_U32, f);
    lpv magnitude = lp_un(p, LP_ABS, x);
    lpv rounded_magnitude = lp_un(p, LP_ABS, back);
    lpv above = lp_bin(p, LP_GT, rounded_magnitude, magnitude);
    lpv one = lp_int(p, DT_U32, 1);
    lpv towards_zero = lp_bin(p, LP_SUB, bits, lp_cast(p, DT_U32, above));
    lpv odd = lp_bin(p, LP_OR, towards_zero, one);
    lpv rounded_up = lp_bin(p, LP_GT, back, x);
    lpv rounded_down = lp_bin(p, LP_LT, back, x);
    lpv inexact = lp_bin(p, LP_OR, rounded_down, rounded_up);
    return lp_bitcast(p, DT_F32, lp_select(p, inexact, odd, bits));
}

/* 64-bit integers that f64 could round: their low twelve bits become one. See f64_to_odd_i64. */
static lpv without_low_bits(struct lp *p, lpv x)
{
    const int64_t low_bits = 0xfff;
    const int64_t exact = (int64_t)1 << 53; /* up to here f64 has all integers */
    enum dtype t = lp_dtype(p, x);
    lpv low = lp_bin(p, LP_AND, x, lp_int(p, t, low_bits));
    lpv high = lp_bin(p, LP_AND, x, lp_int(p, t, ~low_bits));
    lpv zero = lp_int(p, t, 0);
    lpv one_bit = lp_int(p, t, low_bits + 1);
    lpv has_low = lp_bin(p, LP_NE, low, zero);
    lpv sticky = lp_select(p, has_low, one_bit, zero);
    lpv large = lp_bin(p, LP_GT, x, lp_int(p, t, exact));
    if (t == DT_I64) {
        lpv largely_negative = lp_bin(p, LP_LT, x, lp_int(p, t, -exact));
        large = lp_bin(p, LP_OR, large, largely_negative);
    }
    return lp_select(p, large, lp_bin(p, LP_OR, high, sticky), x);
}

static lpv cast_narrow_f32(struct lp *p, enum dtype t, lpv a)
{
    struct lp_instr i = p->instrs.data[a];
    double u;
    if (is_real_const(p, a, &u)) {
        uint64_t bits = t == DT_F16 ? f16_of_f32((float)u) : bf16_of_f32((float)u);
        return lp_const_bits(p, t, bits);
    }
    if (i.op == LP_CAST && lp_dtype(p, i.a) == t) return i.a;
    return pure1(p, LP_CAST, t, a);
}

/* Casts from and to f16 and bf16 that are instructions are those from and to f32; the others go by way of it
 * without rounding twice. */
static lpv cast_narrow(struct lp *p, enum dtype t, lpv a)
{
    enum dtype from = lp_dtype(p, a);
    if (from == DT_F32) return cast_narrow_f32(p, t, a);
    if (from == DT_F64) return cast_narrow_f32(p, t, cast_to_odd(p, a));
    bool exact_in_f32 = dtype_is_narrow(from) || dtype_info[from].size <= 2;
    if (exact_in_f32) return cast_narrow_f32(p, t, lp_cast(p, DT_F32, a));
    bool f64_rounds = t == DT_BF16 && dtype_info[from].size == 8; /* f16 ends long before that */
    lpv whole = f64_rounds ? without_low_bits(p, a) : a;
    return lp_cast(p, t, lp_cast(p, DT_F64, whole));
}

/* What is known of the i64 that an integer or bool becomes. */
static struct lp_range cast_range(const struct lp *p, enum dtype t, lpv a)
{
    enum dtype from = lp_dtype(p, a);
    if (from == DT_BOOL) return (struct lp_range){ 0, 1 };
    bool keeps = dtype_is_integer(from) && from != DT_U64 && t == DT_I64;
    if (!keeps) return EVERYTHING;
    struct lp_range x = lp_range(p, a);
    return (struct lp_range){ HOP_MAX(x.lo, dtype_least(from)), HOP_MIN(x.hi, dtype_most(from)) };
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
        bool exact_in_f32 = k >= -(1 << 24) && k <= 1 << 24;
        if (!dtype_is_float(t)) return lp_int(p, t, k);
        if (t == DT_F64 || exact_in_f32) return lp_real(p, t, (double)k);
    }
    return pure(p, instr(LP_CAST, t, a, LPV_NONE, LPV_NONE), cast_range(p, t, a));
}

lpv lp_bitcast(struct lp *p, enum dtype t, lpv a)
{
    const struct lp_instr *i = &p->instrs.data[a];
    if (i->dtype == t) return a;
    if (i->op == LP_CONST) return lp_const_bits(p, t, i->bits);
    return pure1(p, LP_BITCAST, t, a);
}
