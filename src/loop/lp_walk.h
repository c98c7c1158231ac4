/* What the list lp.def says of operations and calls, and what one statement of a loop program reads and
 * touches, without its inner blocks: shared by printer, checker, executor, planners and emitters. */
#ifndef HOP_LP_WALK_H
#define HOP_LP_WALK_H

#include "loop/lp.h"

enum lp_class { LEAF, PLACED, PURE }; /* see lp.def */
static inline enum lp_class lp_class(enum lp_op op)
{
    static const uint8_t classes[] = {
#define LP_OP(NAME, class, ...) class,
#include "loop/lp.def"
    };
    return (enum lp_class)classes[op];
}

/* Operands that are values: of a, b and c the first so many. */
static inline uint32_t lp_arity(enum lp_op op)
{
    static const uint8_t arities[] = {
#define LP_OP(NAME, class, operands, ...) operands,
#include "loop/lp.def"
    };
    return arities[op];
}

static inline bool lp_is_comparison(enum lp_op op) { return op >= LP_EQ && op <= LP_GE; }

/* In additions, about. */
static inline uint32_t lp_cost(enum lp_op op)
{
    static const uint8_t costs[] = {
#define LP_OP(NAME, class, operands, rule, cost, ...) cost,
#include "loop/lp.def"
    };
    return costs[op];
}

static inline enum lp_op lp_fold_op(enum lp_fold fold)
{
    static const uint8_t ops[] = {
#define LP_FOLD_KIND(NAME, word, op) LP_##op,
#include "loop/lp.def"
    };
    return (enum lp_op)ops[fold];
}

static inline const char *lp_fold_word(enum lp_fold fold)
{
    static const char *const words[] = {
#define LP_FOLD_KIND(NAME, word, op) word,
#include "loop/lp.def"
    };
    return words[fold];
}

/* The locals that an instruction reads: their number. */
static inline uint32_t lp_locals_read(const struct lp_instr *i, uint32_t locals[2])
{
    if (i->op != LP_READ && i->op != LP_FOLD && i->op != LP_FIRST) return 0;
    locals[0] = (uint32_t)i->imm;
    locals[1] = i->b;
    return i->op == LP_FIRST ? 2 : 1;
}

/* An i64 as base + constant; the base of a constant is LPV_NONE. */
static inline lpv lp_split_constant(const struct lp *p, lpv v, int64_t *constant)
{
    const struct lp_instr *i = &p->instrs.data[v];
    *constant = 0;
    if (i->op == LP_CONST) {
        *constant = i->imm;
        return LPV_NONE;
    }
    if (i->op != LP_ADD || p->instrs.data[i->b].op != LP_CONST) return v;
    *constant = p->instrs.data[i->b].imm;
    return i->a;
}

/* Trips of a loop of steps of 1 whose bounds differ by a constant (the blocks of a split loop), else -1. */
static inline int64_t lp_extent(const struct lp *p, const struct lp_stmt *s)
{
    int64_t lo, hi, extent;
    if (lp_split_constant(p, s->lo, &lo) != lp_split_constant(p, s->hi, &hi)) return -1;
    if (__builtin_sub_overflow(hi, lo, &extent)) return -1;
    return extent < 0 ? 0 : extent;
}

/* The local that a statement accumulates into or reads; HOP_NONE: none. */
static inline uint32_t lp_local_touched(const struct lp *p, const struct lp_stmt *s)
{
    if (s->kind == LP_ACCUM) return s->target;
    if (s->kind != LP_LET) return HOP_NONE;
    const struct lp_instr *i = &p->instrs.data[s->value];
    return i->op == LP_READ ? (uint32_t)i->imm : HOP_NONE;
}

/* Of no local: false. */
static inline bool lp_has_lanes(const struct lp *p, uint32_t local)
{
    return local != HOP_NONE && p->locals.data[local].kind == LOCAL_LANES;
}

/* Which values a call reads. */
enum lp_call_uses {
    USES_VALUE = 1,
    USES_LO = 2,
    USES_INDEX = 4,
    USES_COUNT = 8,
    USES_MASK = 16,
    USES_OPERANDS = 32,
    USES_GEMM = 64,
    IS_SITE = 128, /* it has a place in the program and values to show */
    USES_SIZES = 256
};
static inline uint32_t lp_call_uses(uint8_t kind)
{
    static const uint16_t uses[] = {
#define LP_CALL_KIND(NAME, uses) uses,
#include "loop/lp.def"
    };
    return uses[kind];
}

static inline bool lp_is_site(const struct lp_call *c) { return lp_call_uses(c->kind) & IS_SITE; }

/* The values that a product or the packing for one reads; how many. */
enum { GEMM_VALUES = 13 };
static inline uint32_t lp_gemm_values(const struct lp_call *c, lpv values[GEMM_VALUES])
{
    const lpv all[GEMM_VALUES] = { c->gemm.a_at, c->gemm.b_at,    c->gemm.c_at,    c->gemm.m,
                                   c->gemm.n,    c->gemm.k,       c->gemm.lda,     c->gemm.ldb,
                                   c->gemm.ldc,  c->gemm.a_apart, c->gemm.b_apart, c->gemm.c_apart,
                                   c->gemm.batch };
    if (c->kind == CALL_PACK) {
        const lpv some[] = { c->gemm.b_at, c->gemm.c_at, c->gemm.n, c->gemm.k, c->gemm.ldb };
        memcpy(values, some, sizeof some);
        return HOP_COUNT(some);
    }
    memcpy(values, all, sizeof all);
    return c->gemm.batch == LPV_NONE ? GEMM_VALUES - 4 : GEMM_VALUES;
}

/* use(ctx, v) for every value that a call reads. */
static inline void lp_call_values(const struct lp_call *c, void (*use)(void *ctx, lpv v), void *ctx)
{
    uint32_t uses = lp_call_uses(c->kind);
    const lpv plain[] = { c->value, c->lo, c->index, c->count, c->mask };
    lpv gemm[GEMM_VALUES];
    uint32_t n_gemm = uses & USES_GEMM ? lp_gemm_values(c, gemm) : 0;
    for (uint32_t k = 0; k < HOP_COUNT(plain); k++)
        if (uses & 1u << k && plain[k] != LPV_NONE) use(ctx, plain[k]);
    for (uint32_t k = 0; k < n_gemm; k++)
        if (gemm[k] != LPV_NONE) use(ctx, gemm[k]);
    for (uint32_t k = 0; uses & USES_OPERANDS && k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        if (o->buffer != HOP_NONE && o->index != LPV_NONE) use(ctx, o->index);
        if (o->buffer == HOP_NONE && o->use != OPERAND_ABSENT) use(ctx, o->value);
        for (uint32_t d = 0; d < o->rank; d++)
            if (o->dims[d] != LPV_NONE) use(ctx, o->dims[d]);
        for (uint32_t d = 0; o->strides && d < o->rank; d++) use(ctx, o->strides[d]);
    }
    for (uint32_t k = 0; uses & USES_SIZES && k < c->n_sizes; k++) use(ctx, c->sizes[k]);
}

/* use(ctx, v) for every value that statement s reads. A WHILE reads its value at the end of its body. */
static inline void lp_stmt_uses(const struct lp *p, const struct lp_stmt *s, void (*use)(void *ctx, lpv v),
                                void *ctx)
{
    lpv list[3] = { LPV_NONE, LPV_NONE, LPV_NONE };
    switch ((enum lp_stmt_kind)s->kind) {
    case LP_LET: {
        const struct lp_instr *i = &p->instrs.data[s->value];
        uint32_t n = lp_arity((enum lp_op)i->op);
        if (n > 0) list[0] = i->a;
        if (n > 1) list[1] = i->b;
        if (n > 2) list[2] = i->c;
        break;
    }
    case LP_STORE:
        list[0] = s->index;
        list[1] = s->value;
        break;
    case LP_SET:
    case LP_ACCUM:
    case LP_IF:
    case LP_WHILE: list[0] = s->value; break;
    case LP_FOR:
        list[0] = s->lo;
        list[1] = s->hi;
        list[2] = s->step;
        break;
    case LP_CALL: lp_call_values(s->call, use, ctx); break;
    }
    for (uint32_t k = 0; k < HOP_COUNT(list); k++)
        if (list[k] != LPV_NONE) use(ctx, list[k]);
}

/* What an operator reads comes before what it writes. */
static inline void lp_operator_buffers(const struct lp_call *c,
                                       void (*touch)(void *ctx, uint32_t buffer, lpv index, bool writes),
                                       void *ctx)
{
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        bool read = o->use == OPERAND_READ || o->use == OPERAND_CHANGED;
        if (o->buffer != HOP_NONE && read) touch(ctx, o->buffer, o->index, false);
    }
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        if (o->buffer != HOP_NONE && o->use != OPERAND_READ) touch(ctx, o->buffer, o->index, true);
    }
    if (c->n_found) touch(ctx, c->target, LPV_NONE, true);
}

static inline void lp_gemm_buffers(const struct lp_call *c,
                                   void (*touch)(void *ctx, uint32_t buffer, lpv index, bool writes),
                                   void *ctx)
{
    if (c->kind == CALL_GEMM) touch(ctx, c->gemm.a, c->gemm.a_at, false);
    touch(ctx, c->gemm.b, c->gemm.b_at, false);
    if (c->kind == CALL_GEMM && c->gemm.accumulate) touch(ctx, c->gemm.c, c->gemm.c_at, false);
    touch(ctx, c->gemm.c, c->gemm.c_at, true);
}

/* touch(ctx, buffer, index, writes) for every buffer that statement s reads or writes; index LPV_NONE:
 * several elements. */
static inline void lp_stmt_buffers(const struct lp *p, const struct lp_stmt *s,
                                   void (*touch)(void *ctx, uint32_t buffer, lpv index, bool writes),
                                   void *ctx)
{
    const struct lp_call *c = s->call;
    if (s->kind == LP_LET && p->instrs.data[s->value].op == LP_LOAD)
        touch(ctx, (uint32_t)p->instrs.data[s->value].imm, p->instrs.data[s->value].a, false);
    if (s->kind == LP_STORE) touch(ctx, s->target, s->index, true);
    if (s->kind != LP_CALL) return;
    switch ((enum lp_call_kind)c->kind) {
    case CALL_GEMM:
    case CALL_PACK: lp_gemm_buffers(c, touch, ctx); break;
    case CALL_CHECK:
    case CALL_FINITE:
    case CALL_PRINT:
        for (uint32_t k = 0; k < c->n_operands; k++)
            if (c->operands[k].buffer != HOP_NONE)
                touch(ctx, c->operands[k].buffer, c->operands[k].index, false);
        break;
    case CALL_CONV:
    case CALL_EXCHANGE:
    case CALL_WAIT:
    case CALL_OPERATOR: lp_operator_buffers(c, touch, ctx); break;
    case CALL_RESERVE: touch(ctx, c->target, LPV_NONE, true); break;
    case CALL_COPY:
        touch(ctx, c->source, c->index, false);
        touch(ctx, c->target, c->lo, true);
        break;
    case CALL_ZERO: touch(ctx, c->target, c->lo, true); break;
    case CALL_DROP: touch(ctx, c->target, c->lo, false); break;
    case CALL_PROCEDURE:
        for (uint32_t k = 0; k < c->n_operands; k++)
            touch(ctx, c->operands[k].buffer, c->operands[k].index, k >= c->source);
        break;
    case CALL_SETDIM:
    case CALL_MARK:
    case CALL_COUNT: break;
    }
}

#endif
