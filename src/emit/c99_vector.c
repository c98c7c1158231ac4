/* Which vector loops emitted C also has in vector types, and how: the lanes of their elements, how many
 * vectors go side by side, which values are the same in all lanes. A counted program (c99_count) comes in,
 * struct c99_vectors goes out; nothing is written here. */
#include "emit/c99_vector.h"

enum {
    LIGHT_WORK = 16,   /* a body this small gets two vectors at a time */
    HEAVY_SUM = 40,    /* a body this large that adds up in lanes gets one */
    HEAVY_INSIDE = 48, /* a body with loops this large gets two, smaller ones four */
    CHUNK_WORK = 160,  /* a loop of so much work altogether is one step */
    ROW_WORK = 400,    /* the same of one whose last vector is not whole, and which is written once more */
    MOST_PARTS = 4,
    FEWEST_TRIPS = 4, /* a shorter loop stays plain, unless it has loops and parts of vectors are loaded */
    WIDEST = 64,      /* bytes of the vectors that parts are chosen for */
    WEIGHT_GATHER = 12
};

static const struct lp_instr *instr(const struct c99 *e, lpv v) { return &e->p->instrs.data[v]; }

enum dtype c99_wide_dtype(enum dtype t, enum c99_wide_class class)
{
    if (t == DT_BOOL) return class == WIDE_A ? DT_I32 : DT_I64;
    return t == DT_I64 && class == WIDE_A ? DT_I32 : t;
}

bool c99_wide_fits(const struct c99 *e, lpv v)
{
    struct lp_range range = lp_range(e->p, v);
    return range.lo >= INT32_MIN && range.hi <= INT32_MAX;
}

/* ---- kinds ---- */

enum c99_kind c99_kind_of(const struct c99 *e, lpv v)
{
    const struct lp_instr *i = instr(e, v);
    uint32_t loop = e->vectors->now.loop->stmt->target;
    if (i->op == LP_VAR) return (uint32_t)i->imm == loop ? KIND_AFFINE : KIND_UNIFORM;
    if (lp_class((enum lp_op)i->op) == LEAF) return KIND_UNIFORM;
    uint32_t noted = e->vectors->kinds[v];
    return noted >> 2 == e->vectors->epoch ? (enum c99_kind)(noted & 3) : KIND_UNIFORM;
}

bool c99_stride(const struct c99 *e, lpv v, int64_t *stride)
{
    const struct lp_instr *i = instr(e, v);
    int64_t a, b, factor;
    *stride = 0;
    if (c99_kind_of(e, v) == KIND_UNIFORM) return true;
    if (i->op == LP_VAR) {
        *stride = 1;
        return true;
    }
    if (i->op == LP_NEG) {
        if (!c99_stride(e, i->a, &a)) return false;
        *stride = -a;
        return true;
    }
    if (i->op == LP_MUL) {
        bool left = c99_kind_of(e, i->a) == KIND_AFFINE;
        if (!lp_is_const(e->p, left ? i->b : i->a, &factor)) return false;
        if (!c99_stride(e, left ? i->a : i->b, &a)) return false;
        return !__builtin_mul_overflow(a, factor, stride);
    }
    if (!c99_stride(e, i->a, &a) || !c99_stride(e, i->b, &b)) return false;
    return i->op == LP_ADD ? !__builtin_add_overflow(a, b, stride) : !__builtin_sub_overflow(a, b, stride);
}

struct survey {
    struct c99 *e;
    struct c99_loop *l;
    uint8_t *known, *assigned; /* per local: set before this place, set somewhere in the loop */
    bool ok, wide;             /* wide: elements of 8 bytes */
};

static bool is_uniform(const struct survey *s, lpv v)
{
    return v == LPV_NONE || c99_kind_of(s->e, v) == KIND_UNIFORM;
}

static enum c99_kind pure_kind(const struct c99 *e, const struct lp_instr *i)
{
    const lpv operands[3] = { i->a, i->b, i->c };
    enum c99_kind kinds[3] = { KIND_UNIFORM, KIND_UNIFORM, KIND_UNIFORM }, most = KIND_UNIFORM;
    for (uint32_t k = 0; k < lp_arity((enum lp_op)i->op); k++) {
        kinds[k] = c99_kind_of(e, operands[k]);
        most = HOP_MAX(most, kinds[k]);
    }
    if (most != KIND_AFFINE) return most;
    if (i->dtype != DT_I64) return KIND_VARYING;
    bool adds = i->op == LP_ADD || i->op == LP_SUB || i->op == LP_NEG;
    bool scales = i->op == LP_MUL && (kinds[0] == KIND_UNIFORM || kinds[1] == KIND_UNIFORM);
    return adds || scales ? KIND_AFFINE : KIND_VARYING;
}

/* Words of 8 bytes that an i32 does not hold make all of the loop wide. */
static void note_value(struct survey *s, lpv v, enum dtype t)
{
    if (dtype_info[t].size < 8) return;
    s->wide |= t != DT_I64 || !c99_wide_fits(s->e, v);
}

static bool compares_indices(const struct survey *s, const struct lp_instr *i)
{
    if (!lp_is_comparison((enum lp_op)i->op) || lp_dtype(s->e->p, i->a) != DT_I64) return false;
    int64_t a, b;
    return c99_kind_of(s->e, i->a) != KIND_VARYING && c99_kind_of(s->e, i->b) != KIND_VARYING &&
           c99_stride(s->e, i->a, &a) && c99_stride(s->e, i->b, &b) && a - b > -1024 && a - b < 1024;
}

static void note_varying(struct survey *s, lpv v)
{
    const struct lp_instr *i = instr(s->e, v);
    const lpv operands[3] = { i->a, i->b, i->c };
    note_value(s, v, (enum dtype)i->dtype);
    bool gather = i->op == LP_LOAD && c99_kind_of(s->e, i->a) == KIND_VARYING;
    s->l->weight += gather ? WEIGHT_GATHER : lp_cost((enum lp_op)i->op);
    if (i->op == LP_LOAD || compares_indices(s, i)) return;
    for (uint32_t k = 0; k < lp_arity((enum lp_op)i->op); k++)
        note_value(s, operands[k], lp_dtype(s->e->p, operands[k]));
}

static void survey_let(struct survey *s, lpv v)
{
    struct c99 *e = s->e;
    const struct lp_instr *i = instr(e, v);
    enum c99_kind kind = KIND_UNIFORM;
    if (!e->uses[v]) return;
    switch ((enum lp_op)i->op) {
    case LP_READ:
        if (e->p->locals.data[i->imm].kind == LOCAL_LANES) {
            kind = KIND_VARYING;
            s->l->reads_lanes = true;
            s->l->strict |= e->p->locals.data[i->imm].strict;
        } else if (s->assigned[i->imm]) {
            kind = KIND_VARYING;
            s->ok &= s->known[i->imm];
        }
        break;
    case LP_LOAD: kind = c99_kind_of(e, i->a) ? KIND_VARYING : KIND_UNIFORM; break;
    case LP_FOLD: s->ok &= !s->assigned[i->imm]; break;
    case LP_FIRST: s->ok &= !s->assigned[i->imm] && !s->assigned[i->b]; break;
    default: kind = pure_kind(e, i);
    }
    e->vectors->kinds[v] = e->vectors->epoch << 2 | kind;
    if (kind == KIND_VARYING) note_varying(s, v);
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

static void survey_block(struct survey *s, const struct lp_block *block);

/* What a nested block sets is not known to be set after it. */
static void survey_nested(struct survey *s, const struct lp_block *block)
{
    uint32_t n = s->e->p->locals.len;
    uint8_t *before = ARENA_NEW(s->e->arena, uint8_t, n + 1);
    memcpy(before, s->known, n);
    survey_block(s, block);
    memcpy(s->known, before, n);
}

static void survey_store(struct survey *s, const struct lp_stmt *t)
{
    const struct lp_buffer *buffer = &s->e->p->buffers.data[t->target];
    if (buffer->kind == BUF_DYN && s->e->o->capacity > 0) s->ok = false;
    if (is_uniform(s, t->index)) s->ok &= is_uniform(s, t->value);
    else {
        note_value(s, t->value, (enum dtype)buffer->dtype);
        s->l->stores = true;
    }
    s->l->weight++;
}

static void survey_accumulation(struct survey *s, const struct lp_stmt *t)
{
    const struct lp_local *local = &s->e->p->locals.data[t->target];
    s->wide |= dtype_info[local->dtype].size == 8;
    s->l->weight++;
    if (local->kind != LOCAL_LANES) {
        s->ok &= t->kind == LP_SET || s->known[t->target];
        s->known[t->target] = 1;
        return;
    }
    s->ok &= t->kind == LP_ACCUM;
    s->l->has_lanes = true;
    s->l->stores = true;
    s->l->strict |= local->strict;
}

static void survey_stmt(struct survey *s, const struct lp_stmt *t)
{
    if (c99_is_dead(s->e, t)) return;
    switch ((enum lp_stmt_kind)t->kind) {
    case LP_LET: survey_let(s, t->value); return;
    case LP_STORE: survey_store(s, t); return;
    case LP_SET:
    case LP_ACCUM: survey_accumulation(s, t); return;
    case LP_FOR:
        s->ok &= is_uniform(s, t->lo) && is_uniform(s, t->hi) && is_uniform(s, t->step) && !t->poll;
        s->ok &= t->mode != FOR_VECTOR;
        s->l->has_loop = true;
        survey_nested(s, t->body);
        return;
    case LP_IF:
        s->ok &= is_uniform(s, t->value);
        s->l->branches = true;
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

static bool survey_loop(struct c99 *e, uint32_t loop)
{
    struct c99_loop *l = &e->vectors->loops[loop];
    struct survey s = { .e = e, .l = l, .ok = true };
    uint32_t n = e->p->locals.len;
    l->weight = 0;
    e->vectors->now.loop = l;
    e->vectors->epoch++;
    s.known = ARENA_ZNEW(e->arena, uint8_t, n + 1);
    s.assigned = ARENA_ZNEW(e->arena, uint8_t, n + 1);
    find_assigned(&s, l->stmt->body);
    survey_block(&s, l->stmt->body);
    l->class = s.wide ? WIDE_B : WIDE_A;
    if (l->strict && (l->has_loop || l->branches)) return false;
    return s.ok && l->stores;
}

void c99_survey(struct c99 *e, uint32_t loop) { survey_loop(e, loop); }

/* ---- which loops ---- */

static bool has_unit_step(const struct c99 *e, const struct lp_stmt *s)
{
    int64_t step;
    return s->step == LPV_NONE || (lp_is_const(e->p, s->step, &step) && step == 1);
}

static uint32_t most_lanes(const struct c99_loop *l) { return WIDEST / (l->class == WIDE_A ? 4 : 8); }

/* As native code has it: as many vectors side by side as hide each other's latency. */
static uint8_t parts_of(const struct c99_loop *l)
{
    uint32_t lanes = most_lanes(l), parts = 1;
    uint32_t least = l->strict && l->class == WIDE_B ? 2 : 1;
    if (l->reads_lanes && l->strict) return (uint8_t)least;
    if (l->has_loop) parts = l->weight > HEAVY_INSIDE ? 2 : 4;
    else if (!l->has_lanes) parts = l->weight <= LIGHT_WORK ? 2 : 1;
    else if (l->weight <= HEAVY_SUM) parts = l->weight > LIGHT_WORK ? 2 : 4;
    int64_t full = l->extent < 0 ? 0 : (l->extent + lanes - 1) / lanes;
    bool chunk = full >= 1 && full <= MOST_PARTS && (l->has_loop || l->weight * full <= CHUNK_WORK);
    if (chunk && l->extent % lanes == 0 && !l->strict) return (uint8_t)full;
    parts = HOP_MAX(parts, least);
    while (parts > least && l->extent >= 0 && l->extent % (parts * lanes) &&
           l->extent <= 8 * (int64_t)(parts * lanes))
        parts /= 2;
    return (uint8_t)parts;
}

/* A loop without a loop, in the text or in the machine: what it leaves in a temporary for the next one stays
 * in registers. */
static uint8_t row_of(const struct c99_loop *l)
{
    uint32_t lanes = most_lanes(l);
    int64_t full = (l->extent + lanes - 1) / lanes;
    if (l->extent < 0 || l->extent % lanes == 0 || full < 2 || full > MOST_PARTS) return 0;
    if (l->strict || l->has_lanes || l->reads_lanes || l->has_loop) return 0;
    return l->weight * (uint32_t)full <= ROW_WORK ? (uint8_t)full : 0;
}

static void find_loops(struct c99 *e, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_FOR && s->mode == FOR_VECTOR) {
            struct c99_loop *l = &e->vectors->loops[s->target];
            l->stmt = s;
            l->extent = lp_extent(e->p, s);
            l->wide = !s->scalar && !s->poll && has_unit_step(e, s) && l->extent != 0 &&
                      survey_loop(e, s->target);
            l->short_rows = l->extent >= 0 && l->extent < FEWEST_TRIPS;
            l->wide &= !l->short_rows || (l->has_loop && !l->has_lanes && l->extent > 1);
            if (l->wide) l->parts = parts_of(l);
            continue;
        }
        find_loops(e, s->body);
        find_loops(e, s->other);
    }
}

/* ---- accumulators ---- */

/* An accumulator and the loops around it agree on the class and on strictness, and are vectors all or none.
 * True when something changed. */
static bool agree(struct c99 *e, struct c99_loop *l, uint32_t local)
{
    struct c99_accumulators *a = &e->vectors->locals[local];
    bool vectors = l && l->wide;
    if (!a->wide && !vectors) return false;
    if (!vectors || !a->wide || l->class != a->class) {
        bool changed = a->wide || vectors;
        a->wide = false;
        if (l) l->wide = false;
        return changed;
    }
    if (l->strict == a->strict) return false;
    l->strict = true;
    a->strict = true;
    return true;
}

static bool agree_block(struct c99 *e, const struct lp_block *block, struct c99_loop *inside)
{
    bool changed = false;
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        struct c99_loop *l = inside;
        uint32_t local = lp_local_touched(e->p, s);
        bool dead = c99_is_dead(e, s) || (s->kind == LP_LET && !e->uses[s->value]);
        if (!dead && lp_has_lanes(e->p, local)) changed |= agree(e, inside, local);
        if (s->kind == LP_FOR && s->mode == FOR_VECTOR) l = &e->vectors->loops[s->target];
        changed |= agree_block(e, s->body, l);
        changed |= agree_block(e, s->other, l);
    }
    return changed;
}

/* The class of the first loop that adds to it. */
static void find_classes(struct c99 *e, const struct lp_block *block, const struct c99_loop *inside)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        const struct c99_loop *l = inside;
        uint32_t local = lp_local_touched(e->p, s);
        if (lp_has_lanes(e->p, local) && inside && inside->wide) {
            struct c99_accumulators *a = &e->vectors->locals[local];
            if (!a->wide) a->class = inside->class;
            a->wide = true;
            a->strict |= e->p->locals.data[local].strict;
        }
        if (s->kind == LP_FOR && s->mode == FOR_VECTOR) l = &e->vectors->loops[s->target];
        find_classes(e, s->body, l);
        find_classes(e, s->other, l);
    }
}

/* How many vectors each accumulator has, and which scalar locals vector loops have for themselves. */
static void size_locals(struct c99 *e, const struct lp_block *block, const struct c99_loop *inside)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        const struct c99_loop *l = inside;
        bool sets = s->kind == LP_SET || s->kind == LP_ACCUM;
        if (inside && inside->wide && sets) {
            struct c99_accumulators *a = &e->vectors->locals[s->target];
            bool lanes = e->p->locals.data[s->target].kind == LOCAL_LANES;
            uint8_t strict_parts = a->class == WIDE_A ? 1 : 2;
            if (lanes) a->parts = a->strict ? strict_parts : HOP_MAX(a->parts, inside->parts);
            else e->vectors->own[s->target] = true;
        }
        if (s->kind == LP_FOR && s->mode == FOR_VECTOR) l = &e->vectors->loops[s->target];
        size_locals(e, s->body, l);
        size_locals(e, s->other, l);
    }
}

void c99_plan_vectors(struct c99 *e)
{
    struct c99_vectors *v = ARENA_ZNEW(e->arena, struct c99_vectors, 1);
    e->vectors = v;
    v->loops = ARENA_ZNEW(e->arena, struct c99_loop, e->p->loops.len + 1);
    v->locals = ARENA_ZNEW(e->arena, struct c99_accumulators, e->p->locals.len + 1);
    v->own = ARENA_ZNEW(e->arena, bool, e->p->locals.len + 1);
    v->kinds = ARENA_ZNEW(e->arena, uint32_t, e->p->instrs.len + 1);
    if (!e->unit->dialect->vectors) return;
    find_loops(e, e->p->root);
    find_classes(e, e->p->root, NULL);
    while (agree_block(e, e->p->root, NULL)) {}
    for (uint32_t i = 0; i < e->p->loops.len; i++) {
        if (v->loops[i].wide) {
            v->loops[i].parts = parts_of(&v->loops[i]);
            v->loops[i].row = row_of(&v->loops[i]);
        }
        v->any |= v->loops[i].wide;
    }
    size_locals(e, e->p->root, NULL);
}
