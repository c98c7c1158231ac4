/* Exchanges with ranks that overlap with computing. A finished loop program comes in, in which every exchange
 * is waited for right where it is begun; in what goes out begins stand as early and waits as late in their
 * blocks as what they touch allows. Nothing else changes its order, and begins keep theirs, which has to be
 * that of all ranks.
 *
 * An exchange reads its operand and writes its result until it is waited for. So no wait moves past what
 * reads or writes the result, or writes the operand, and no begin past those or past another begin; neither
 * passes what the host sees or what may end the run, so that nothing is under way then. Blocks inside of a
 * statement count as the statement. A scalar is written where its exchange begins and read where it is waited
 * for. */
#include "loop/lower.h"
#include "loop/lp_walk.h"
#include "loop/rt.h"

struct mover {
    struct lp *p;
    struct arena scratch;
    uint32_t in, out;    /* buffers of the exchange at hand; in HOP_NONE: it sends nothing */
    uint32_t *of;        /* per value: the move in which it was marked */
    uint32_t move;       /* its number */
    bool with_operand;   /* what is sent is written by what moves */
    bool hit, marked;    /* what the statement at hand does: it touches them; it reads a marked value */
    vec(uint32_t) group; /* statements that move, by their places in the block */
    vec(struct lp_stmt) order;
};

static bool is_call(const struct lp_stmt *s, enum lp_call_kind kind)
{
    return s->kind == LP_CALL && s->call->kind == kind;
}
/* A rank's own number is not waited for. */
static bool is_begin(const struct lp_stmt *s)
{
    return is_call(s, CALL_EXCHANGE) && s->call->source != HOP_RT_INDEX;
}

/* ---- what statements do ---- */

static void touch(void *ctx, uint32_t buffer, lpv index, bool writes)
{
    struct mover *t = ctx;
    HOP_UNUSED(index);
    t->hit |= buffer == t->out || (buffer == t->in && (writes || t->with_operand));
}

static void use(void *ctx, lpv v)
{
    struct mover *t = ctx;
    t->marked |= t->of[v] == t->move;
}

static void mark(void *ctx, lpv v)
{
    struct mover *t = ctx;
    t->of[v] = t->move;
}

/* Does the host see it, or may it end the run? */
static bool is_told(const struct lp_call *c)
{
    return lp_is_site(c) || c->kind == CALL_RESERVE || c->kind == CALL_SETDIM;
}

static void look(struct mover *t, const struct lp_stmt *s)
{
    lp_stmt_buffers(t->p, s, touch, t);
    lp_stmt_uses(t->p, s, use, t);
    if (s->kind == LP_CALL) {
        bool dropped = s->call->kind == CALL_DROP && (s->call->target == t->in || s->call->target == t->out);
        t->hit |= dropped || is_told(s->call);
    }
    const struct lp_block *inside[2] = { s->body, s->other };
    for (uint32_t k = 0; k < 2 && !t->hit; k++)
        for (uint32_t i = 0; inside[k] && i < inside[k]->stmts.len; i++) look(t, &inside[k]->stmts.data[i]);
}

static void look_anew(struct mover *t, const struct lp_stmt *s)
{
    t->hit = t->marked = false;
    look(t, s);
}

static const struct lp *program_of(const struct lp *p) { return p->program ? p->program : p; }

/* Is an exchange begun in it? */
static bool begins(const struct lp *p, const struct lp_stmt *s)
{
    const struct lp_block *inside[3] = { s->body, s->other, NULL };
    if (is_begin(s)) return true;
    if (is_call(s, CALL_PROCEDURE)) inside[2] = program_of(p)->procedures.data[s->call->target]->root;
    for (uint32_t k = 0; k < 3; k++)
        for (uint32_t i = 0; inside[k] && i < inside[k]->stmts.len; i++)
            if (begins(p, &inside[k]->stmts.data[i])) return true;
    return false;
}

/* Is it work that is worth having an exchange under way? Another exchange is. */
static bool is_work(const struct lp_stmt *s)
{
    if (s->kind != LP_CALL) return s->body != NULL;
    switch ((enum lp_call_kind)s->call->kind) {
    case CALL_GEMM:
    case CALL_PACK:
    case CALL_CONV:
    case CALL_EXCHANGE:
    case CALL_COPY:
    case CALL_ZERO:
    case CALL_PROCEDURE: return true;
    default: return false;
    }
}

/* ---- moving ---- */

/* The mark of a profiled run in front of statement `at`, as far as the block says; NULL: it does not. */
static const struct lp_stmt *mark_before(const struct lp_block *block, uint32_t at)
{
    while (at-- > 0)
        if (is_call(&block->stmts.data[at], CALL_MARK)) return &block->stmts.data[at];
    return NULL;
}

/* Puts the group in front of statement `to`, in its order; time is counted where it was. */
static void put_group(struct mover *t, struct lp_block *block, uint32_t to)
{
    const uint32_t *group = t->group.data, n = t->group.len;
    uint32_t lo = HOP_MIN(group[0], to), hi = HOP_MAX(group[n - 1] + 1, to), taken = 0;
    const struct lp_stmt *own = mark_before(block, group[n - 1]), *there = mark_before(block, to);
    bool told = own && there && own->call->target != there->call->target;
    t->order.len = 0;
    for (uint32_t i = lo; i <= hi; i++) {
        if (i == to) {
            if (told) vec_push(&t->scratch, &t->order, *own);
            for (uint32_t k = 0; k < n; k++) vec_push(&t->scratch, &t->order, block->stmts.data[group[k]]);
            if (told) vec_push(&t->scratch, &t->order, *there);
        }
        if (taken < n && group[taken] == i) taken++;
        else if (i < hi) vec_push(&t->scratch, &t->order, block->stmts.data[i]);
    }
    uint32_t more = t->order.len - (hi - lo), behind = block->stmts.len - hi;
    for (uint32_t k = 0; k < more; k++) vec_push(&t->p->arena, &block->stmts, (struct lp_stmt){ 0 });
    struct lp_stmt *at = block->stmts.data + lo;
    if (more && behind) memmove(at + t->order.len, at + (hi - lo), behind * sizeof *at);
    memcpy(at, t->order.data, t->order.len * sizeof *at);
}

static void start_move(struct mover *t, const struct lp_call *c)
{
    t->in = c->operands[0].buffer;
    t->out = c->operands[1].buffer;
    t->move++;
    t->group.len = 0;
    t->with_operand = false;
}

/* Values that move with what reads them, or with what they are made of. */
static bool is_pure_let(const struct lp *p, const struct lp_stmt *s)
{
    return s->kind == LP_LET && lp_class((enum lp_op)p->instrs.data[s->value].op) == PURE;
}

/* Does it write the scalar that the exchange sends? */
static bool is_operand(const struct mover *t, const struct lp_stmt *s)
{
    return s->kind == LP_STORE && s->target == t->in && t->in != t->out &&
           t->p->buffers.data[t->in].static_count == 1;
}

/* The begin at `at` goes in front of all work that it may, with the values that it needs. */
static void begin_early(struct mover *t, struct lp_block *block, uint32_t at)
{
    uint32_t to = at, moved = 0;
    start_move(t, block->stmts.data[at].call);
    vec_push(&t->scratch, &t->group, at);
    lp_stmt_uses(t->p, &block->stmts.data[at], mark, t);
    for (uint32_t i = at; i-- > 0;) {
        const struct lp_stmt *s = &block->stmts.data[i];
        bool writes = is_operand(t, s) && !t->with_operand;
        t->with_operand |= writes;
        if (writes || (s->kind == LP_LET && t->of[s->value] == t->move)) {
            if (!writes && !is_pure_let(t->p, s)) break;
            lp_stmt_uses(t->p, s, mark, t);
            vec_push(&t->scratch, &t->group, i);
            continue;
        }
        look_anew(t, s);
        if (t->hit || begins(t->p, s)) break;
        if (!is_work(s)) continue;
        to = i;
        moved = t->group.len;
    }
    if (!moved) return;
    t->group.len = moved;
    for (uint32_t i = 0, k = moved; i + 1 < k--; i++) { /* they were found from the last to the first */
        uint32_t last = t->group.data[k];
        t->group.data[k] = t->group.data[i];
        t->group.data[i] = last;
    }
    put_group(t, block, to);
}

/* The wait at `at` goes behind all work that it may, with elements of the result that are read behind it, and
 * what is made of those alone. */
static void wait_late(struct mover *t, struct lp_block *block, uint32_t at)
{
    uint32_t to = at, moved = 0;
    start_move(t, block->stmts.data[at].call);
    vec_push(&t->scratch, &t->group, at);
    for (uint32_t i = at + 1; i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        look_anew(t, s);
        bool element = s->kind == LP_LET && t->p->instrs.data[s->value].op == LP_LOAD && t->hit;
        if (element || (t->marked && is_pure_let(t->p, s))) {
            vec_push(&t->scratch, &t->group, i);
            mark(t, s->value);
            continue;
        }
        if (t->hit || t->marked) break;
        if (!is_work(s)) continue;
        to = i + 1;
        moved = t->group.len;
    }
    if (!moved) return;
    t->group.len = moved;
    put_group(t, block, to);
}

/* ---- whole programs ---- */

static bool waits_for(const struct lp_stmt *s, uint32_t exchange)
{
    return is_call(s, CALL_WAIT) && s->call->target == exchange;
}

/* For explain: what is computed from the begin at `at` on until the wait. */
static void note(struct mover *t, const struct lp_block *block, uint32_t at)
{
    const struct lp_call *c = block->stmts.data[at].call;
    uint32_t products = 0, loops = 0, others = 0;
    struct lp *program = t->p->program ? t->p->program : t->p;
    for (uint32_t i = at + 1; i < block->stmts.len && !waits_for(&block->stmts.data[i], c->target); i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        products += is_call(s, CALL_GEMM) || is_call(s, CALL_CONV);
        loops += s->body != NULL;
        others += is_begin(s);
    }
    struct text say = { .arena = &program->arena };
    text_add(&say, "%s%s: ", place_text(t->p->m, c->place), module_text(t->p->m, c->text));
    if (!products && !loops && !others) text_str(&say, "waited for where it is begun");
    else
        text_add(&say, "%u product%s, %u loop%s and %u other exchange%s between begin and wait", products,
                 products == 1 ? "" : "s", loops, loops == 1 ? "" : "s", others, others == 1 ? "" : "s");
    vec_push(&program->arena, &program->exchange_notes, say.data);
}

static void overlap_block(struct mover *t, struct lp_block *block, bool moves)
{
    if (!block) return;
    hop_check_stack();
    for (uint32_t i = 0; i < block->stmts.len; i++) {
        overlap_block(t, block->stmts.data[i].body, moves);
        overlap_block(t, block->stmts.data[i].other, moves);
    }
    for (uint32_t i = 0; moves && i < block->stmts.len; i++)
        if (is_begin(&block->stmts.data[i])) begin_early(t, block, i);
    for (uint32_t i = block->stmts.len; moves && i-- > 0;)
        if (is_call(&block->stmts.data[i], CALL_WAIT)) wait_late(t, block, i);
    for (uint32_t i = 0; i < block->stmts.len; i++)
        if (is_begin(&block->stmts.data[i])) note(t, block, i);
}

void lp_overlap(struct lp *p, bool moves)
{
    if (!p->n_exchanges) return;
    for (uint32_t i = 0; i <= p->procedures.len; i++) {
        struct mover t = { .p = i ? p->procedures.data[i - 1] : p };
        hop_cleanup_push(arena_free, &t.scratch);
        t.of = ARENA_ZNEW(&t.scratch, uint32_t, t.p->instrs.len + 1);
        overlap_block(&t, t.p->root, moves);
        hop_cleanup_pop(&t.scratch);
        arena_free(&t.scratch);
    }
}
