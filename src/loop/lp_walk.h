/* What one statement of a loop program reads and touches, without its inner blocks: shared by printer,
 * checker and planner. */
#ifndef HOP_LP_WALK_H
#define HOP_LP_WALK_H

#include "loop/lp.h"

static inline uint32_t lp_arity(enum lp_op op)
{
    return op <= LP_FOLD ? op == LP_LOAD : op <= LP_BITCAST ? 1 : op <= LP_GE ? 2 : 3;
}

/* use(ctx, v) for every value that statement s reads. A WHILE reads its value at the end of its body. */
static inline void lp_stmt_uses(const struct lp *p, const struct lp_stmt *s, void (*use)(void *ctx, lpv v),
                                void *ctx)
{
    lpv list[16];
    uint32_t n = 0;
    const struct lp_call *c = s->call;
    switch ((enum lp_stmt_kind)s->kind) {
    case LP_LET: {
        const struct lp_instr *i = &p->instrs.data[s->value];
        const lpv operands[3] = { i->a, i->b, i->c };
        for (uint32_t k = 0; k < lp_arity((enum lp_op)i->op); k++) list[n++] = operands[k];
        break;
    }
    case LP_STORE:
        list[n++] = s->index;
        list[n++] = s->value;
        break;
    case LP_SET:
    case LP_ACCUM:
    case LP_IF:
    case LP_WHILE: list[n++] = s->value; break;
    case LP_FOR:
        list[n++] = s->lo;
        list[n++] = s->hi;
        if (s->step != LPV_NONE) list[n++] = s->step;
        break;
    case LP_CALL:
        switch ((enum lp_call_kind)c->kind) {
        case CALL_GEMM: {
            const lpv all[] = { c->gemm.a_at, c->gemm.b_at, c->gemm.c_at, c->gemm.m,  c->gemm.n,
                                c->gemm.k,    c->gemm.lda,  c->gemm.ldb,  c->gemm.ldc };
            for (uint32_t k = 0; k < HOP_COUNT(all); k++)
                if (all[k] != LPV_NONE) list[n++] = all[k];
            break;
        }
        case CALL_CHECK:
        case CALL_SETDIM: list[n++] = c->value; break;
        case CALL_PRINT:
        case CALL_CALLBACK:
            if (c->mask != LPV_NONE) list[n++] = c->mask;
            break;
        case CALL_RESERVE: list[n++] = c->index; break;
        case CALL_COPY:
            list[n++] = c->lo;
            list[n++] = c->index;
            list[n++] = c->count;
            break;
        case CALL_ZERO:
            list[n++] = c->lo;
            list[n++] = c->count;
            break;
        case CALL_PROCEDURE: break;
        }
        if (!call_is_told(c->kind) && c->kind != CALL_PROCEDURE) break;
        for (uint32_t k = 0; k < c->n_operands; k++) {
            const struct lp_operand *o = &c->operands[k];
            if (o->buffer == HOP_NONE) use(ctx, o->value);
            else if (o->index != LPV_NONE) use(ctx, o->index);
            for (uint32_t d = 0; d < o->rank; d++) use(ctx, o->dims[d]);
        }
        break;
    }
    for (uint32_t k = 0; k < n; k++)
        if (list[k] != LPV_NONE) use(ctx, list[k]);
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
        touch(ctx, c->gemm.a, c->gemm.a_at, false);
        touch(ctx, c->gemm.b, c->gemm.b_at, false);
        if (c->gemm.accumulate) touch(ctx, c->gemm.c, c->gemm.c_at, false);
        touch(ctx, c->gemm.c, c->gemm.c_at, true);
        break;
    case CALL_CHECK:
    case CALL_PRINT:
    case CALL_CALLBACK:
        for (uint32_t k = 0; k < c->n_operands; k++)
            if (c->operands[k].buffer != HOP_NONE)
                touch(ctx, c->operands[k].buffer, c->operands[k].index, false);
        break;
    case CALL_RESERVE: touch(ctx, c->target, LPV_NONE, true); break;
    case CALL_COPY:
        touch(ctx, c->source, c->index, false);
        touch(ctx, c->target, c->lo, true);
        break;
    case CALL_ZERO: touch(ctx, c->target, c->lo, true); break;
    case CALL_PROCEDURE:
        for (uint32_t k = 0; k < c->n_operands; k++)
            touch(ctx, c->operands[k].buffer, c->operands[k].index, k >= c->source);
        break;
    case CALL_SETDIM: break;
    }
}

#endif
