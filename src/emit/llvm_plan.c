/* Decisions before emission: which values are needed, which loops are widened, outlined or left serial, how
 * many lanes and parts a vector loop has, and which small buffers and accumulators live in registers. A loop
 * program comes in, struct plan goes out; nothing is emitted here. */
#include "emit/llvm.h"

enum {
    CHUNK_WORK = 60,  /* operations times parts a chunk may have when nothing asks for registers … */
    MOST_UNASKED = 4, /* … and parts */
    CARRY_WORK = 800, /* the same when a buffer could live in registers because of it: beside more work,
                         memory costs nothing */
    LIGHT_WORK = 16,  /* a body this small gets two vectors per step, so that the loop's own cost is shared */
    HEAVY_WORK = 150, /* a body this large is not emitted twice for its tail */
    HEAVY_SUM = 40,   /* a body this large that adds up in lanes gets one vector per step */
    HEAVY_INSIDE = 48, /* a body with loops this large gets two, smaller ones four */
    MOST_LANES = STRICT_LANES,
    WEIGHT_GATHER = 12,
    WEIGHT_APART = 16 /* of an access element by element, in a body without loops */
};
enum { KIND_UNIFORM, KIND_AFFINE, KIND_VARYING };

bool const_int(const struct emitter *e, lpv v, int64_t *out)
{
    if (v == LPV_NONE) return false;
    const struct lp_instr *i = instr(e, v);
    if (i->op != LP_CONST || is_float((enum dtype)i->dtype)) return false;
    *out = i->imm;
    if (!is_signed((enum dtype)i->dtype)) return i->imm >= 0;
    uint32_t unused = 64 - 8 * size_of((enum dtype)i->dtype);
    *out = (int64_t)(i->bits << unused) >> unused;
    return true;
}

/* ---- needed values, who touches what ---- */

struct walk {
    struct emitter *e;
    uint32_t outlined; /* loop in whose function we are */
    uint32_t loops;    /* loops around, vector loops aside */
};

static void need(struct emitter *e, lpv v)
{
    if (v != LPV_NONE) e->plan.needed[v] = true;
}

/* What a section reads before it writes it has from outside: from an earlier step of the loop around it. */
static void touch(const struct walk *w, struct slot_plan *s, bool writes)
{
    bool from_outside = !writes && is_section(w->e, w->outlined);
    if (!s->touched && !from_outside) {
        s->touched = true;
        s->home = w->outlined;
        return;
    }
    if (s->touched && s->home == w->outlined) return;
    s->touched = true;
    s->shared = true;
    s->home = HOP_NONE;
}

static void need_value(void *ctx, lpv v) { need(((struct walk *)ctx)->e, v); }

/* What a call touches lies in memory. */
static void touch_buffer(void *ctx, uint32_t buffer, lpv index, bool writes)
{
    struct walk *w = ctx;
    struct slot_plan *slot = &w->e->plan.buffers[buffer];
    HOP_UNUSED(index);
    touch(w, slot, writes);
    slot->in_registers = false;
}

static void walk_call(struct walk *w, const struct lp_stmt *s)
{
    lp_call_values(s->call, need_value, w);
    lp_stmt_buffers(w->e->p, s, touch_buffer, w);
    if (s->call->kind == CALL_SETDIM) w->e->plan.set_symbol[s->call->target] = true;
}

static void walk_block(struct walk *w, const struct lp_block *block);

static void walk_stmt(struct walk *w, const struct lp_stmt *s)
{
    struct emitter *e = w->e;
    struct plan *plan = &e->plan;
    struct walk inner = *w;
    switch ((enum lp_stmt_kind)s->kind) {
    case LP_LET: {
        const struct lp_instr *i = instr(e, s->value);
        if (i->op == LP_LOAD) {
            touch(w, &plan->buffers[i->imm], false);
            plan->buffers[i->imm].repeated |= w->loops > 0;
        }
        uint32_t locals[2], n = lp_locals_read(i, locals);
        for (uint32_t k = 0; k < n; k++) touch(w, &plan->locals[locals[k]], false);
        return;
    }
    case LP_STORE:
        need(e, s->index);
        need(e, s->value);
        touch(w, &plan->buffers[s->target], true);
        plan->buffers[s->target].repeated |= w->loops > 0;
        return;
    case LP_SET:
    case LP_ACCUM:
        need(e, s->value);
        touch(w, &plan->locals[s->target], true);
        return;
    case LP_FOR: {
        struct loop_plan *l = &plan->loops[s->target];
        if (l->stmt && l->stmt != s) emit_fail(e, "loop %u has two statements", s->target);
        need(e, s->lo);
        need(e, s->hi);
        need(e, s->step);
        l->stmt = s;
        l->outlined = w->outlined;
        if (l->own_function) inner.outlined = s->target;
        inner.loops += s->mode != FOR_VECTOR;
        walk_block(&inner, s->body);
        return;
    }
    case LP_WHILE:
    case LP_IF:
        need(e, s->value);
        inner.loops += s->kind == LP_WHILE;
        walk_block(&inner, s->body);
        walk_block(&inner, s->other);
        return;
    case LP_CALL: walk_call(w, s); return;
    }
}

static void walk_block(struct walk *w, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len;) {
        const struct section *section = section_at(w->e, &block->stmts.data[i]);
        struct walk inner = *w;
        if (section) inner.outlined = section->home;
        for (uint32_t end = section ? section->end : i + 1; i < end; i++)
            walk_stmt(&inner, &block->stmts.data[i]);
    }
}

/* Operands come before their users, so one sweep from the end is enough. */
static void spread_needed(struct emitter *e)
{
    for (uint32_t v = e->p->instrs.len; v-- > 0;) {
        const struct lp_instr *i = instr(e, v);
        lpv operands[3] = { i->a, i->b, i->c };
        if (!e->plan.needed[v]) continue;
        for (uint32_t k = 0; k < lp_arity((enum lp_op)i->op); k++) need(e, operands[k]);
    }
}

/* ---- can a loop be widened? ---- */

struct survey {
    struct emitter *e;
    struct loop_plan *l;
    uint32_t loop, epoch;
    uint8_t *known;    /* per local: set in the body before this place */
    uint8_t *assigned; /* per local: set somewhere in the body */
    bool ok, real8, word8, word4, inner_branch;
    bool nested;   /* in a loop or a branch of the body */
    bool left_off; /* lanes were put into before a loop or a branch of the body */
};

static uint32_t kind_of(struct survey *s, lpv v)
{
    const struct lp_instr *i = instr(s->e, v);
    if (i->op == LP_VAR) return (uint32_t)i->imm == s->loop ? KIND_AFFINE : KIND_UNIFORM;
    if (i->op == LP_CONST || i->op == LP_SYMBOL) return KIND_UNIFORM;
    uint32_t noted = s->e->plan.kinds[v];
    return noted >> 2 == s->epoch ? noted & 3 : KIND_UNIFORM;
}

/* By how much an affine value changes from element to element. */
static int64_t stride_of(const struct survey *s, lpv v)
{
    const struct lp_instr *i = instr(s->e, v);
    if (i->op == LP_VAR) return (uint32_t)i->imm == s->loop;
    return s->e->plan.kinds[v] == (s->epoch << 2 | KIND_AFFINE) ? s->e->plan.strides[v] : 0;
}

static int64_t affine_stride(const struct survey *s, const struct lp_instr *i)
{
    uint64_t a = (uint64_t)stride_of(s, i->a), b = i->op == LP_NEG ? 0 : (uint64_t)stride_of(s, i->b);
    int64_t by = 0;
    if (i->op == LP_ADD) return (int64_t)(a + b);
    if (i->op == LP_SUB) return (int64_t)(a - b);
    if (i->op == LP_NEG) return (int64_t)-a;
    if (!const_int(s->e, i->b, &by)) const_int(s->e, i->a, &by);
    return (int64_t)((a + b) * (uint64_t)by);
}

/* Elements farther apart than `most` are loaded or stored one by one. */
static uint32_t weight_apart(const struct survey *s, lpv index, int64_t most)
{
    int64_t stride = stride_of(s, index);
    bool near = stride >= -1 && stride <= most;
    return near || s->l->has_loop ? 0 : WEIGHT_APART;
}

static bool is_uniform(struct survey *s, lpv v) { return v == LPV_NONE || kind_of(s, v) == KIND_UNIFORM; }

static uint32_t pure_kind(struct survey *s, const struct lp_instr *i)
{
    lpv operands[3] = { i->a, i->b, i->c };
    uint32_t most = KIND_UNIFORM;
    int64_t c;
    for (uint32_t k = 0; k < lp_arity((enum lp_op)i->op); k++) {
        uint32_t kind = kind_of(s, operands[k]);
        most = HOP_MAX(most, kind);
    }
    if (most != KIND_AFFINE) return most;
    if (i->dtype != DT_I64) return KIND_VARYING;
    bool adds = i->op == LP_ADD || i->op == LP_SUB || i->op == LP_NEG;
    bool scales = i->op == LP_MUL && (const_int(s->e, i->a, &c) || const_int(s->e, i->b, &c));
    return adds || scales ? KIND_AFFINE : KIND_VARYING;
}

static void note_type(struct survey *s, enum dtype t)
{
    if (t == DT_F64) s->real8 = true;
    else if (size_of(t) == 8) s->word8 = true;
    else if (t != DT_BOOL)
        s->word4 = true; /* short integers are few bytes in registers as wide as their neighbours' */
}

static void survey_let(struct survey *s, lpv v)
{
    struct emitter *e = s->e;
    const struct lp_instr *i = instr(e, v);
    uint32_t kind = KIND_UNIFORM;
    if (!e->plan.needed[v]) return;
    switch ((enum lp_op)i->op) {
    case LP_READ:
        if (e->p->locals.data[i->imm].kind == LOCAL_LANES) {
            kind = KIND_VARYING;
            s->l->reads_lanes = true;
            s->ok &= !s->nested && !s->left_off;
        } else if (s->assigned[i->imm]) {
            kind = KIND_VARYING;
            s->ok &= s->known[i->imm];
        }
        break;
    case LP_LOAD: kind = kind_of(s, i->a) ? KIND_VARYING : KIND_UNIFORM; break;
    case LP_FOLD: s->ok &= !s->assigned[i->imm]; break;
    case LP_FIRST: s->ok &= !s->assigned[i->imm] && !s->assigned[i->b]; break;
    default:
        kind = pure_kind(s, i);
        if (kind && i->op == LP_REM && is_float((enum dtype)i->dtype)) s->ok = false;
    }
    e->plan.kinds[v] = s->epoch << 2 | kind;
    if (kind == KIND_AFFINE) e->plan.strides[v] = affine_stride(s, i);
    if (kind != KIND_VARYING) return;
    note_type(s, (enum dtype)i->dtype);
    bool gather = i->op == LP_LOAD && kind_of(s, i->a) == KIND_VARYING;
    s->l->weight += gather ? WEIGHT_GATHER : lp_cost((enum lp_op)i->op);
    if (i->op == LP_LOAD && !gather) s->l->weight += weight_apart(s, i->a, MOST_PICKED);
}

static void find_assigned(struct survey *s, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *t = &block->stmts.data[i];
        if (t->kind == LP_SET || t->kind == LP_ACCUM) s->assigned[t->target] = 1;
        find_assigned(s, t->body);
        find_assigned(s, t->other);
    }
}

static bool accumulates_lanes(struct emitter *e, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *t = &block->stmts.data[i];
        if (lp_has_lanes(e->p, lp_local_touched(e->p, t))) return true;
        if (accumulates_lanes(e, t->body) || accumulates_lanes(e, t->other)) return true;
    }
    return false;
}

static void survey_block(struct survey *s, const struct lp_block *block);

/* What a nested block sets is not known to be set after it. Statements between such blocks are emitted part
 * by part, so lanes that are read stand, with all that is put into lanes, behind the last of them: a part
 * would see what a later one has put there. */
static void survey_nested(struct survey *s, const struct lp_block *block)
{
    uint32_t n = s->e->p->locals.len;
    uint8_t *before = EMIT_NEW(s->e, uint8_t, n + 1);
    bool outer = s->nested;
    memcpy(before, s->known, n);
    s->ok &= !s->l->reads_lanes;
    s->left_off |= s->l->has_lanes;
    s->nested = true;
    survey_block(s, block);
    s->nested = outer;
    s->left_off |= s->l->has_lanes;
    memcpy(s->known, before, n);
}

static void survey_stmt(struct survey *s, const struct lp_stmt *t)
{
    struct emitter *e = s->e;
    switch ((enum lp_stmt_kind)t->kind) {
    case LP_LET: survey_let(s, t->value); return;
    case LP_STORE:
        if (kind_of(s, t->index) == KIND_UNIFORM) s->ok &= kind_of(s, t->value) == KIND_UNIFORM;
        else note_type(s, (enum dtype)e->p->buffers.data[t->target].dtype);
        s->l->weight += 1 + weight_apart(s, t->index, 1);
        return;
    case LP_SET:
        s->ok &= e->p->locals.data[t->target].kind == LOCAL_SCALAR;
        s->known[t->target] = 1;
        return;
    case LP_ACCUM:
        if (e->p->locals.data[t->target].kind == LOCAL_LANES) {
            s->l->has_lanes = true;
            s->l->strict_lanes |= e->p->locals.data[t->target].strict;
            note_type(s, (enum dtype)e->p->locals.data[t->target].dtype);
        } else s->ok &= s->known[t->target];
        s->l->weight++;
        return;
    case LP_FOR:
        s->ok &= is_uniform(s, t->lo) && is_uniform(s, t->hi) && is_uniform(s, t->step) && !t->poll;
        if (t->mode == FOR_VECTOR && accumulates_lanes(e, t->body)) s->ok = false;
        s->l->has_loop = true;
        survey_nested(s, t->body);
        return;
    case LP_IF:
        s->ok &= is_uniform(s, t->value);
        s->inner_branch = true;
        survey_nested(s, t->body);
        survey_nested(s, t->other);
        return;
    case LP_WHILE:
    case LP_CALL: s->ok = false; return;
    }
}

static void survey_block(struct survey *s, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len && s->ok; i++) survey_stmt(s, &block->stmts.data[i]);
}

static bool widenable(struct emitter *e, uint32_t loop)
{
    struct loop_plan *l = &e->plan.loops[loop];
    struct survey s = { .e = e, .l = l, .loop = loop, .epoch = ++e->plan.epoch, .ok = true };
    int64_t step = 1;
    if (e->options->scalar || l->stmt->scalar || l->stmt->poll ||
        (l->stmt->step != LPV_NONE && (!const_int(e, l->stmt->step, &step) || step != 1)))
        return false;
    s.known = EMIT_NEW(e, uint8_t, e->p->locals.len + 1);
    s.assigned = EMIT_NEW(e, uint8_t, e->p->locals.len + 1);
    l->has_lanes = false;
    l->strict_lanes = false;
    l->has_loop = false;
    l->reads_lanes = false;
    l->weight = 0;
    find_assigned(&s, l->stmt->body);
    survey_block(&s, l->stmt->body);
    l->one_round = l->strict_lanes && (l->has_loop || s.inner_branch);
    l->wide_bytes = s.real8 || (s.word8 && !s.word4) ? 8 : 4;
    l->extent = lp_extent(e->p, l->stmt);
    return s.ok;
}

static void choose_block(struct emitter *e, const struct lp_block *block, bool inside)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        bool widened = inside;
        if (s->kind == LP_FOR && e->plan.loops[s->target].mode != LOOP_OUTLINED) {
            struct loop_plan *l = &e->plan.loops[s->target];
            l->mode = LOOP_SERIAL;
            if (s->mode == FOR_VECTOR && !inside && !l->rejected) {
                widened = widenable(e, s->target);
                l->rejected = !widened;
                if (widened) l->mode = LOOP_VECTOR;
            }
        }
        choose_block(e, s->body, widened);
        choose_block(e, s->other, widened);
    }
}

/* ---- lanes and register buffers ---- */

static bool chunk_possible(const struct loop_plan *l)
{
    if (l->one_round && l->extent > STRICT_LANES) return false;
    return l->extent > 0 && l->extent * l->wide_bytes <= CHUNK_BYTES &&
           (uint64_t)l->weight * (uint64_t)(l->extent / STRICT_LANES + 1) <= CARRY_WORK;
}

/* A buffer stays in registers while each access is at the variable of a chunk as long as the buffer, or at 0
 * of a buffer of one element. */
static void check_access(struct emitter *e, uint32_t buffer, lpv index, uint32_t vector_loop, bool store)
{
    const struct lp_buffer *b = &e->p->buffers.data[buffer];
    struct slot_plan *s = &e->plan.buffers[buffer];
    const struct lp_instr *i = instr(e, index);
    int64_t at, lo;
    if (!s->in_registers) return;
    s->in_registers = false;
    if (b->static_count == 1) {
        s->in_registers = const_int(e, index, &at) && at == 0 && !(store && vector_loop != HOP_NONE);
        return;
    }
    if (vector_loop == HOP_NONE || i->op != LP_VAR || (uint32_t)i->imm != vector_loop) return;
    const struct loop_plan *l = &e->plan.loops[vector_loop];
    if (!chunk_possible(l) || l->extent != b->static_count ||
        b->static_count * (int64_t)size_of((enum dtype)b->dtype) > CHUNK_BYTES)
        return;
    s->in_registers = const_int(e, l->stmt->lo, &lo) && lo == 0;
}

/* Visits accesses with the vector loop they stand in: buffers that leave registers, lanes that are not
 * accumulated by a vector loop. */
static void check_block(struct emitter *e, const struct lp_block *block, uint32_t vector_loop)
{
    for (uint32_t k = 0; block && k < block->stmts.len; k++) {
        const struct lp_stmt *s = &block->stmts.data[k];
        uint32_t inner = vector_loop;
        if (s->kind == LP_LET && e->plan.needed[s->value]) {
            const struct lp_instr *i = instr(e, s->value);
            if (i->op == LP_LOAD) check_access(e, (uint32_t)i->imm, i->a, vector_loop, false);
            if (i->op == LP_READ && vector_loop == HOP_NONE) e->plan.locals[i->imm].in_registers = false;
        }
        if (s->kind == LP_STORE) check_access(e, s->target, s->index, vector_loop, true);
        if (s->kind == LP_ACCUM && vector_loop == HOP_NONE) e->plan.locals[s->target].in_registers = false;
        if (s->kind == LP_FOR && e->plan.loops[s->target].mode == LOOP_VECTOR) inner = s->target;
        check_block(e, s->body, inner);
        check_block(e, s->other, inner);
    }
}

static void reset_registers(struct emitter *e, bool buffers)
{
    for (uint32_t l = 0; l < e->p->locals.len; l++)
        e->plan.locals[l].in_registers = e->p->locals.data[l].kind == LOCAL_LANES &&
                                         !e->plan.locals[l].shared;
    for (uint32_t b = 0; buffers && b < e->p->buffers.len; b++)
        e->plan.buffers[b].in_registers = e->p->buffers.data[b].kind == BUF_LOCAL &&
                                          e->p->buffers.data[b].static_count > 0;
}

/* Loops whose lanes are in memory become scalar. True when one did. */
static bool reject_memory_lanes(struct emitter *e, const struct lp_block *block, uint32_t vector_loop)
{
    bool changed = false;
    for (uint32_t k = 0; block && k < block->stmts.len; k++) {
        const struct lp_stmt *s = &block->stmts.data[k];
        uint32_t local = lp_local_touched(e->p, s);
        uint32_t inner = vector_loop;
        bool lanes_in_memory = lp_has_lanes(e->p, local) && !e->plan.locals[local].in_registers;
        if (lanes_in_memory && vector_loop != HOP_NONE && !e->plan.loops[vector_loop].rejected) {
            e->plan.loops[vector_loop].rejected = true;
            changed = true;
        }
        if (s->kind == LP_FOR && e->plan.loops[s->target].mode == LOOP_VECTOR) inner = s->target;
        changed |= reject_memory_lanes(e, s->body, inner);
        changed |= reject_memory_lanes(e, s->other, inner);
    }
    return changed;
}

/* A loop and the accumulators and register buffers it uses agree on the lanes of a part. True when something
 * became narrower. */
static bool agree(uint8_t *a, uint8_t *b)
{
    if (*a == *b) return false;
    uint8_t fewer = HOP_MIN(*a, *b);
    *a = fewer;
    *b = fewer;
    return true;
}

static bool agree_block(struct emitter *e, const struct lp_block *block, uint32_t vector_loop)
{
    bool changed = false;
    for (uint32_t k = 0; block && k < block->stmts.len; k++) {
        const struct lp_stmt *s = &block->stmts.data[k];
        struct loop_plan *l = vector_loop == HOP_NONE ? NULL : &e->plan.loops[vector_loop];
        struct slot_plan *slot = NULL;
        uint32_t inner = vector_loop;
        const struct lp_instr *i = s->kind == LP_LET ? instr(e, s->value) : NULL;
        if (s->kind == LP_ACCUM || (i && i->op == LP_READ)) slot = &e->plan.locals[i ? i->imm : s->target];
        if (s->kind == LP_STORE || (i && i->op == LP_LOAD)) {
            uint32_t b = i ? (uint32_t)i->imm : s->target;
            if (e->plan.buffers[b].in_registers && e->p->buffers.data[b].static_count > 1) {
                slot = &e->plan.buffers[b];
                if (l) l->chunk = true;
            }
        }
        if (l && slot && slot->in_registers) changed |= agree(&l->lanes, &slot->lanes);
        if (s->kind == LP_FOR && e->plan.loops[s->target].mode == LOOP_VECTOR) inner = s->target;
        changed |= agree_block(e, s->body, inner);
        changed |= agree_block(e, s->other, inner);
    }
    return changed;
}

/* A step covers whole rounds of the strict lanes, so that an element's lane is its index modulo their number.
 */
static uint32_t least_parts(const struct loop_plan *l)
{
    return l->strict_lanes ? STRICT_LANES / l->lanes : 1;
}

/* How many vectors go side by side: as many as hide each other's latency, fewer the more registers each
 * takes. Loops inside are run once for all of them; sums wait for the sum before. */
static uint8_t parts_of_work(const struct loop_plan *l)
{
    if (l->has_loop) return l->weight > HEAVY_INSIDE ? 2 : 4;
    if (!l->has_lanes) return l->weight <= LIGHT_WORK ? 2 : 1;
    if (l->weight > HEAVY_SUM) return 1;
    return l->weight > LIGHT_WORK ? 2 : 4;
}

static void size_loop(const struct emitter *e, struct loop_plan *l)
{
    uint32_t full = l->extent >= 0 ? (uint32_t)((l->extent + l->lanes - 1) / l->lanes) : 0;
    bool small = full <= MOST_UNASKED && l->weight * full <= CHUNK_WORK;
    if (chunk_possible(l) && (l->chunk || l->has_loop || small) && full <= MAX_PARTS) {
        l->chunk = true;
        l->parts = (uint8_t)full;
        return;
    }
    l->chunk = false;
    l->least = (uint8_t)least_parts(l);
    l->parts = parts_of_work(l);
    l->parts = l->one_round ? l->least : HOP_MAX(l->parts, l->least);
    if (l->extent < 0) {
        l->heavy = l->weight * l->parts > HEAVY_WORK;
        if (l->heavy) l->parts = l->least;
        return;
    }
    bool leaves_rest = l->has_lanes || l->extent % l->lanes; /* of a long loop it may have code of its own */
    while (l->parts > l->least && l->extent % (l->parts * l->lanes) &&
           !(leaves_rest && l->extent > 8 * l->parts * l->lanes))
        l->parts /= 2;
    uint32_t step = (uint32_t)l->parts * l->lanes;
    l->heavy = e->vector_bytes == 64 && l->parts == l->least && l->weight * l->parts > HEAVY_WORK &&
               l->extent > step && l->extent % step; /* narrower vectors have no masks for everything */
}

static void size_lanes(struct emitter *e, const struct lp_block *block, uint32_t vector_loop)
{
    for (uint32_t k = 0; block && k < block->stmts.len; k++) {
        const struct lp_stmt *s = &block->stmts.data[k];
        uint32_t inner = vector_loop;
        if (s->kind == LP_ACCUM && vector_loop != HOP_NONE && !e->p->locals.data[s->target].strict) {
            const struct loop_plan *l = &e->plan.loops[vector_loop];
            uint32_t parts = HOP_MIN(power_above(l->parts),
                                     4u);              /* four chains of additions hide their latency */
            if (l->reads_lanes && l->chunk) parts = 1; /* putting them together would take longer */
            e->plan.locals[s->target].parts = (uint8_t)HOP_MAX(e->plan.locals[s->target].parts, parts);
        }
        if (s->kind == LP_FOR && e->plan.loops[s->target].mode == LOOP_VECTOR) inner = s->target;
        size_lanes(e, s->body, inner);
        size_lanes(e, s->other, inner);
    }
}

/* Lanes that a loop reads belong with those that it puts something into: part by part, so all of them have as
 * many. Strict lanes have their number. True when some became fewer. */
static bool agree_parts(struct emitter *e, const struct lp_block *block, uint32_t vector_loop, uint8_t *parts)
{
    bool changed = false;
    for (uint32_t k = 0; block && k < block->stmts.len; k++) {
        const struct lp_stmt *s = &block->stmts.data[k];
        uint32_t local = lp_local_touched(e->p, s);
        uint32_t inner = s->kind == LP_FOR && e->plan.loops[s->target].mode == LOOP_VECTOR ? s->target
                                                                                           : vector_loop;
        bool reads = vector_loop != HOP_NONE && e->plan.loops[vector_loop].reads_lanes;
        if (reads && lp_has_lanes(e->p, local) && !e->p->locals.data[local].strict)
            changed |= agree(&parts[vector_loop], &e->plan.locals[local].parts);
        changed |= agree_parts(e, s->body, inner, parts);
        changed |= agree_parts(e, s->other, inner, parts);
    }
    return changed;
}

static void size_everything(struct emitter *e)
{
    struct plan *plan = &e->plan;
    for (uint32_t i = 0; i < e->p->loops.len; i++)
        if (plan->loops[i].mode == LOOP_VECTOR)
            plan->loops[i].lanes = (uint8_t)HOP_MIN(e->vector_bytes / plan->loops[i].wide_bytes,
                                                    (uint32_t)MOST_LANES);
    for (uint32_t i = 0; i < e->p->locals.len; i++) plan->locals[i].lanes = MOST_LANES;
    for (uint32_t i = 0; i < e->p->buffers.len; i++) plan->buffers[i].lanes = MOST_LANES;
    while (agree_block(e, e->p->root, HOP_NONE)) {}
    for (uint32_t i = 0; i < e->p->loops.len; i++)
        if (plan->loops[i].mode == LOOP_VECTOR) size_loop(e, &plan->loops[i]);
    for (uint32_t i = 0; i < e->p->locals.len; i++)
        plan->locals[i].parts = e->p->locals.data[i].strict ? (uint8_t)(STRICT_LANES / plan->locals[i].lanes)
                                                            : 1;
    size_lanes(e, e->p->root, HOP_NONE);
    uint8_t *parts = EMIT_NEW(e, uint8_t, e->p->loops.len + 1);
    memset(parts, MAX_PARTS, e->p->loops.len);
    while (agree_parts(e, e->p->root, HOP_NONE, parts)) {}
    for (uint32_t i = 0; i < e->p->buffers.len; i++) {
        struct slot_plan *s = &plan->buffers[i];
        int64_t count = e->p->buffers.data[i].static_count;
        s->parts = s->in_registers ? (uint8_t)((count + s->lanes - 1) / s->lanes) : 0;
    }
}

/* The symbols of the entry function, and any that the program names beyond them. */
static uint32_t count_symbols(const struct emitter *e)
{
    uint32_t n = e->p->entry ? e->p->entry->n_symbols : 0;
    for (uint32_t v = 0; v < e->p->instrs.len; v++)
        if (instr(e, v)->op == LP_SYMBOL) n = HOP_MAX(n, (uint32_t)instr(e, v)->imm + 1);
    return n;
}

static uint32_t largest_setdim(const struct lp_block *block)
{
    uint32_t n = 0;
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_CALL && s->call->kind == CALL_SETDIM) n = HOP_MAX(n, s->call->target + 1);
        uint32_t in_body = largest_setdim(s->body), in_other = largest_setdim(s->other);
        n = HOP_MAX(n, HOP_MAX(in_body, in_other));
    }
    return n;
}

static void walk_program(struct emitter *e)
{
    struct plan *plan = &e->plan;
    memset(plan->locals, 0, e->p->locals.len * sizeof *plan->locals);
    memset(plan->buffers, 0, e->p->buffers.len * sizeof *plan->buffers);
    memset(plan->needed, 0, e->p->instrs.len * sizeof *plan->needed);
    reset_registers(e, true);
    walk_block(&(struct walk){ .e = e, .outlined = HOP_NONE }, e->p->root);
    spread_needed(e);
}

void plan_make(struct emitter *e)
{
    const struct lp *p = e->p;
    struct plan *plan = &e->plan;
    plan->n_symbols = HOP_MAX(count_symbols(e), largest_setdim(p->root));
    plan->loops = EMIT_NEW(e, struct loop_plan, p->loops.len + 1);
    plan->locals = EMIT_NEW(e, struct slot_plan, p->locals.len + 1);
    plan->buffers = EMIT_NEW(e, struct slot_plan, p->buffers.len + 1);
    plan->needed = EMIT_NEW(e, bool, p->instrs.len + 1);
    plan->set_symbol = EMIT_NEW(e, bool, plan->n_symbols + 1);
    plan->kinds = EMIT_NEW(e, uint32_t, p->instrs.len + 1);
    plan->strides = EMIT_NEW(e, int64_t, p->instrs.len + 1);
    share_find(e);
    section_find(e);
    do walk_program(e);
    while (share_check(e));
    for (uint32_t b = 0; b < p->buffers.len; b++)
        plan->buffers[b].in_registers &= plan->buffers[b].repeated && !plan->buffers[b].shared;
    bool again;
    do {
        choose_block(e, p->root, false);
        reset_registers(e, false);
        check_block(e, p->root, HOP_NONE);
        again = reject_memory_lanes(e, p->root, HOP_NONE);
    } while (again);
    size_everything(e);
    section_layout(e);
}
