/* Equal nests: loops at the top of a program (in no other loop) that are the same up to the buffers, values
 * and locals they name become one function that is called for each. A program made of twelve equal blocks
 * then costs the code generator one. Nests of some size become functions, too, where their program has
 * several: functions are what threads that generate code can share among them. The nests' canonical texts are
 * made here, before anything else is decided. */
#include "emit/llvm.h"

enum {
    LEAST_STATEMENTS = 6, /* a nest smaller than this is cheaper in place */
    ENOUGH_WORK = 8192,   /* operations of a nest in a loop beside which a call is nothing */
    UNKNOWN_EXTENT = 32,  /* trips of a loop whose bounds are found while running */
    LARGE_NEST = 32,    /* statements of a nest that is a function although it is the only one of its kind */
    LARGE_PROGRAM = 160 /* where all nests together have so many */
};

/* A canonical text under construction: words, and a number for each name in the order of first use. */
struct writer {
    struct emitter *e;
    struct top_loop *n;
    uint32_t cap, statements, epoch;
    uint32_t all; /* statements of all nests */
    struct numbers {
        uint32_t *number, *epoch;
    } values, inner, buffers, locals, loops; /* inner: values made inside */
    uint32_t n_inner, n_loops;
};

static void put(struct writer *w, uint64_t word)
{
    struct top_loop *n = w->n;
    if (n->length == w->cap) {
        uint32_t cap = w->cap * 2 + 256;
        uint64_t *more = EMIT_NEW(w->e, uint64_t, cap);
        if (n->length) memcpy(more, n->text, n->length * sizeof *more);
        n->text = more;
        w->cap = cap;
    }
    n->text[n->length++] = word;
    n->hash = hash_mix(n->hash, word);
}

static uint32_t name_of(struct writer *w, struct names *names, struct numbers *numbers, uint32_t id)
{
    if (numbers->epoch[id] == w->epoch) return numbers->number[id];
    if (names->n == names->cap) {
        uint32_t *more = EMIT_NEW(w->e, uint32_t, names->cap * 2 + 8);
        if (names->n) memcpy(more, names->ids, names->n * sizeof *more);
        names->ids = more;
        names->cap = names->cap * 2 + 8;
    }
    numbers->epoch[id] = w->epoch;
    numbers->number[id] = names->n;
    names->ids[names->n] = id;
    return names->n++;
}

enum {
    WORD_NONE = 1,
    WORD_CONST,
    WORD_SYMBOL,
    WORD_VAR,
    WORD_INNER,
    WORD_OUTER,
    WORD_BUFFER,
    WORD_LOCAL,
    WORD_RANGE
};

/* Code depends on what is known of an index. */
static void put_range(struct writer *w, lpv v)
{
    put(w, WORD_RANGE);
    struct lp_range range = lp_range(w->e->p, v);
    put(w, (uint64_t)range.lo);
    put(w, (uint64_t)range.hi);
}

static void put_value(struct writer *w, lpv v)
{
    if (v == LPV_NONE) {
        put(w, WORD_NONE);
        return;
    }
    const struct lp_instr *i = instr(w->e, v);
    switch ((enum lp_op)i->op) {
    case LP_CONST:
        put(w, WORD_CONST | i->dtype << 8);
        put(w, i->bits);
        return;
    case LP_SYMBOL: put(w, WORD_SYMBOL | (uint64_t)i->imm << 8); return;
    case LP_VAR:
        if (w->loops.epoch[i->imm] != w->epoch) break; /* of a loop around the nest */
        put(w, WORD_VAR | (uint64_t)w->loops.number[i->imm] << 8);
        return;
    default: break;
    }
    if (w->inner.epoch[v] == w->epoch) {
        put(w, WORD_INNER | (uint64_t)w->inner.number[v] << 8);
        return;
    }
    put(w, WORD_OUTER | i->dtype << 8 | (uint64_t)name_of(w, &w->n->values, &w->values, v) << 16);
    if (i->dtype == DT_I64) put_range(w, v);
}

/* Every buffer of the caller's or of the arena is just a pointer; one on the stack has a size. */
static void put_buffer(struct writer *w, uint32_t b)
{
    const struct lp_buffer *x = &w->e->p->buffers.data[b];
    bool local = x->kind == BUF_LOCAL;
    w->n->apart |= x->kind == BUF_DYN;
    uint64_t name = name_of(w, &w->n->buffers, &w->buffers, b);
    put(w, WORD_BUFFER | x->dtype << 8 | (uint64_t)local << 16 | (uint64_t)x->private << 17 | name << 24);
    if (local) put(w, (uint64_t)x->static_count);
}

static void put_local(struct writer *w, uint32_t l)
{
    const struct lp_local *x = &w->e->p->locals.data[l];
    uint64_t name = name_of(w, &w->n->locals, &w->locals, l);
    put(w, WORD_LOCAL | x->dtype << 8 | x->kind << 16 | (uint64_t)x->strict << 20 | name << 24);
}

static void put_let(struct writer *w, lpv v)
{
    const struct lp_instr *i = instr(w->e, v);
    lpv operands[3] = { i->a, i->b, i->c };
    put(w, i->op | i->dtype << 8);
    if (i->op == LP_LOAD) put_buffer(w, (uint32_t)i->imm);
    uint32_t locals[2], n_locals = lp_locals_read(i, locals);
    for (uint32_t k = 0; k < n_locals; k++) put_local(w, locals[k]);
    if (i->op == LP_FOLD) put(w, i->b);
    if (i->op == LP_FAR) put(w, (uint64_t)i->imm);
    for (uint32_t k = 0; k < lp_arity((enum lp_op)i->op); k++) put_value(w, operands[k]);
    if (i->op == LP_FLOORDIV || i->op == LP_MOD)
        for (uint32_t k = 0; k < 2; k++) put_range(w, operands[k]);
    w->inner.epoch[v] = w->epoch;
    w->inner.number[v] = w->n_inner++;
}

static void put_call(struct writer *w, const struct lp_call *c)
{
    put(w, c->kind);
    if (c->kind == CALL_GEMM || c->kind == CALL_PACK) {
        lpv values[GEMM_VALUES];
        uint32_t n_values = lp_gemm_values(c, values);
        if (c->kind == CALL_GEMM) put_buffer(w, c->gemm.a);
        put_buffer(w, c->gemm.b);
        put_buffer(w, c->gemm.c);
        for (uint32_t k = 0; k < n_values; k++) put_value(w, values[k]);
        put(w, c->gemm.ta | c->gemm.accumulate << 1 | c->gemm.tb << 2 | n_values << 8);
    } else if (c->kind == CALL_COPY || c->kind == CALL_ZERO || c->kind == CALL_DROP) {
        if (c->kind == CALL_DROP) put(w, c->source);
        put_buffer(w, c->target);
        if (c->kind == CALL_COPY) {
            put_buffer(w, c->source);
            put_value(w, c->index);
        }
        put_value(w, c->lo);
        put_value(w, c->count);
    } else w->n->apart = true; /* sites have numbers, sizes have names */
}

static void put_block(struct writer *w, const struct lp_block *block);

static void put_stmt(struct writer *w, const struct lp_stmt *s)
{
    w->statements++;
    put(w, s->kind | s->mode << 8 | s->unroll << 16 | (uint64_t)s->poll << 24 | (uint64_t)s->scalar << 25 |
               (uint64_t)s->threads << 32);
    switch ((enum lp_stmt_kind)s->kind) {
    case LP_LET: put_let(w, s->value); return;
    case LP_STORE:
        put_buffer(w, s->target);
        put_value(w, s->index);
        put_value(w, s->value);
        return;
    case LP_SET:
    case LP_ACCUM:
        put_local(w, s->target);
        put_value(w, s->value);
        return;
    case LP_FOR:
        put_value(w, s->lo);
        put_value(w, s->hi);
        put_value(w, s->step);
        put(w, (uint64_t)lp_extent(w->e->p, s));
        w->loops.number[s->target] = w->n_loops++;
        w->loops.epoch[s->target] = w->epoch;
        put_block(w, s->body);
        return;
    case LP_IF:
        put_value(w, s->value);
        put_block(w, s->body);
        put_block(w, s->other);
        return;
    case LP_WHILE:
        put_block(w, s->body);
        put_value(w, s->value);
        put_block(w, s->other);
        return;
    case LP_CALL: put_call(w, s->call); return;
    }
}

static void put_block(struct writer *w, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) put_stmt(w, &block->stmts.data[i]);
    put(w, 0);
}

static struct numbers numbers_new(struct emitter *e, uint32_t n)
{
    return (struct numbers){ EMIT_NEW(e, uint32_t, n + 1), EMIT_NEW(e, uint32_t, n + 1) };
}

static uint32_t find_leader(const struct plan *plan, uint32_t k)
{
    const struct top_loop *n = &plan->nests[k];
    for (uint32_t j = 0; j < k && !n->apart; j++) {
        const struct top_loop *o = &plan->nests[j];
        if (o->hash == n->hash && o->length == n->length && o->leader == j && !o->apart &&
            !memcmp(o->text, n->text, n->length * sizeof *n->text))
            return j;
    }
    return k;
}

static void mark_functions(struct emitter *e)
{
    for (uint32_t k = 0; k < e->plan.n_nests; k++) {
        const struct top_loop *n = &e->plan.nests[k];
        struct loop_plan *l = &e->plan.loops[n->loop];
        bool called = e->plan.nests[n->leader].copies > 1 || (n->large && !n->apart);
        l->own_function = l->mode == LOOP_OUTLINED || called;
    }
}

/* Operations of a statement, as far as the trips of its loops are known. */
static uint64_t work_of(const struct emitter *e, const struct lp_stmt *s)
{
    uint64_t work = 1, trips = 1;
    const struct lp_block *blocks[] = { s->body, s->other };
    for (uint32_t k = 0; k < HOP_COUNT(blocks); k++)
        for (uint32_t i = 0; blocks[k] && i < blocks[k]->stmts.len; i++)
            work += work_of(e, &blocks[k]->stmts.data[i]);
    if (s->kind == LP_FOR) {
        int64_t extent = lp_extent(e->p, s);
        trips = extent < 0 ? UNKNOWN_EXTENT : (uint64_t)extent;
    }
    return work > ENOUGH_WORK || trips > ENOUGH_WORK ? ENOUGH_WORK : work * trips;
}

static void add_nest(struct writer *w, const struct lp_stmt *s, bool looped)
{
    struct emitter *e = w->e;
    struct plan *plan = &e->plan;
    uint32_t k = plan->n_nests++;
    struct top_loop *n = &plan->nests[k];
    *n = (struct top_loop){ .loop = s->target, .looped = looped };
    w->n = n;
    w->cap = 0;
    w->statements = 0;
    w->n_inner = 0;
    w->n_loops = 0;
    w->epoch++;
    put_stmt(w, s);
    plan->loops[s->target].nest = k;
    bool region = s->mode == FOR_PARALLEL && !e->options->serial;
    if (region) plan->loops[s->target].mode = LOOP_OUTLINED;
    n->apart |= w->statements < LEAST_STATEMENTS || (looped && work_of(e, s) < ENOUGH_WORK);
    n->leader = find_leader(plan, k);
    n->large = w->statements >= LARGE_NEST;
    plan->nests[n->leader].copies++;
    w->all += w->statements;
}

static bool has_region(const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_FOR && s->mode == FOR_PARALLEL) return true;
        if (has_region(s->body) || has_region(s->other)) return true;
    }
    return false;
}

/* Are there functions of their own in it? The steps of a loop that is not large are better off without calls,
 * but for what threads run. */
static bool is_divided(const struct emitter *e, const struct lp_block *steps)
{
    return section_is_large(e, steps) || (!e->options->serial && has_region(steps));
}

static void find_nests(struct writer *w, const struct lp_block *block, bool looped)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        bool steps = s->kind == LP_WHILE || (s->kind == LP_FOR && s->mode == FOR_SERIAL);
        if (s->kind == LP_IF) {
            find_nests(w, s->body, looped);
            find_nests(w, s->other, looped);
        } else if (steps && is_divided(w->e, s->kind == LP_WHILE ? s->other : s->body)) {
            if (s->kind == LP_FOR) w->e->plan.loops[s->target].divided = true;
            find_nests(w, s->kind == LP_WHILE ? s->other : s->body, true);
        } else if (s->kind == LP_FOR) add_nest(w, s, looped);
    }
}

void share_find(struct emitter *e)
{
    const struct lp *p = e->p;
    struct writer w = { .e = e,
                        .values = numbers_new(e, p->instrs.len),
                        .inner = numbers_new(e, p->instrs.len),
                        .buffers = numbers_new(e, p->buffers.len),
                        .locals = numbers_new(e, p->locals.len),
                        .loops = numbers_new(e, p->loops.len) };
    for (uint32_t k = 0; k < p->loops.len; k++) e->plan.loops[k].nest = HOP_NONE;
    e->plan.nests = EMIT_NEW(e, struct top_loop, p->loops.len + 1);
    find_nests(&w, p->root, false);
    for (uint32_t k = 0; k < e->plan.n_nests && w.all < LARGE_PROGRAM; k++) e->plan.nests[k].large = false;
    mark_functions(e);
}

/* Is the buffer the nest's own, on the stack of its function? */
static bool is_private(const struct emitter *e, const struct top_loop *n, uint32_t buffer)
{
    return e->p->buffers.data[buffer].kind == BUF_LOCAL && e->plan.buffers[buffer].home == n->loop;
}

/* State that a nest shares with the rest of the program stays with it: lanes and locals it sets, buffers that
 * might live in registers, sizes set while running. A buffer that is private in one of two equal nests only
 * would not be handed over. */
static bool must_stay(const struct emitter *e, const struct top_loop *n)
{
    const struct top_loop *leader = &e->plan.nests[n->leader];
    for (uint32_t k = 0; k < n->buffers.n; k++) {
        bool private = is_private(e, n, n->buffers.ids[k]);
        if (private != is_private(e, leader, leader->buffers.ids[k])) return true;
        if (private && n->looped) return true; /* it may hold what the next step wants */
    }
    for (uint32_t k = 0; k < n->locals.n; k++)
        if (e->plan.locals[n->locals.ids[k]].shared) return true;
    /* What a region shares with others is in memory, whether the region is shared or not. */
    bool region = e->plan.loops[n->loop].mode == LOOP_OUTLINED;
    for (uint32_t k = 0; k < n->buffers.n && !region; k++) {
        const struct lp_buffer *b = &e->p->buffers.data[n->buffers.ids[k]];
        const struct slot_plan *about = &e->plan.buffers[n->buffers.ids[k]];
        bool small = b->kind == BUF_LOCAL && b->static_count * size_of((enum dtype)b->dtype) <= CHUNK_BYTES;
        if (small && about->shared && about->repeated) return true;
    }
    return false;
}

bool share_check(struct emitter *e)
{
    struct plan *plan = &e->plan;
    bool changed = false, sizes = false;
    for (uint32_t k = 0; k < plan->n_symbols; k++) sizes |= plan->set_symbol[k];
    for (uint32_t k = 0; k < plan->n_nests; k++) {
        struct top_loop *n = &plan->nests[k];
        struct top_loop *leader = &plan->nests[n->leader];
        bool called = leader->copies > 1 || (n->large && !n->apart);
        if (called && (sizes || must_stay(e, n))) {
            leader->apart = true;
            changed = true;
        }
    }
    if (!changed) return false;
    for (uint32_t k = 0; k < plan->n_nests; k++) {
        struct top_loop *n = &plan->nests[k];
        const struct top_loop *leader = &plan->nests[n->leader];
        if (!leader->apart || n == leader) continue;
        n->leader = k;
        n->apart = true;
        n->copies = 1;
    }
    for (uint32_t k = 0; k < plan->n_nests; k++)
        if (plan->nests[k].apart) plan->nests[k].copies = 1;
    mark_functions(e);
    return true;
}

static uint32_t translate(const struct names *from, const struct names *to, uint32_t id)
{
    for (uint32_t k = 0; k < from->n; k++)
        if (from->ids[k] == id) return to->ids[k];
    return id;
}

struct capture share_translate(const struct emitter *e, const struct top_loop *of, struct capture c)
{
    const struct top_loop *from = &e->plan.nests[e->plan.nests[of->leader].emitted];
    if (from == of) return c;
    if (c.kind == CAPTURE_VALUE) c.id = translate(&from->values, &of->values, c.id);
    if (c.kind == CAPTURE_BUFFER) c.id = translate(&from->buffers, &of->buffers, c.id);
    if (c.kind == CAPTURE_SLOT || c.kind == CAPTURE_LANES) c.id = translate(&from->locals, &of->locals, c.id);
    return c;
}
