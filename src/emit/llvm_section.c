/* Sections: a block with more statements than LLVM's passes take in a time that grows with its size is cut
 * into runs of statements, each a function of its own. Where to cut is decided here, before who touches what
 * is known, and what the sections share is laid out: small buffers and values that a section makes for others
 * lie in the frame, one block of memory on the entry's stack. Scalar locals that it sets go back to its
 * caller through the environment (llvm_call.c). */
#include "emit/llvm.h"
#include "loop/lp_walk.h"

enum {
    LARGE_COST = 6000,   /* of a block in one function, from which on LLVM's time is more than linear */
    SECTION_COST = 2000, /* of a section, when nothing stands against cutting there */
    SMALL_COST = 6,      /* of a section in tests */
    CALL_COST = 12,      /* a call with its arguments, in statements */
    PRODUCT_COST = 40,   /* a product's, whose arguments are many */
    REGION_COST = 120,   /* that of a loop on threads, which is given all that it reads */
    LOOP_COST = 4        /* a loop without its body */
};

/* Who touches a local. */
struct span {
    uint32_t first, last;     /* statements of the block that is to be cut */
    uint32_t inside, overall; /* touches in that block, in the program */
};

struct cutter {
    struct emitter *e;
    uint32_t child; /* statement of the block that is to be cut, while it is read */
    uint32_t *last; /* per value: the last such statement that uses it */
    struct span *locals;
    bool overall; /* the program is read, not a block of it */
    bool grows;   /* something in the block changes sizes */
};

/* ---- cost ---- */

static uint64_t stmt_cost(const struct emitter *e, const struct lp_stmt *s);

static uint64_t block_cost(const struct emitter *e, const struct lp_block *block)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; block && i < block->stmts.len; i++) cost += stmt_cost(e, &block->stmts.data[i]);
    return cost;
}

static uint64_t stmt_cost(const struct emitter *e, const struct lp_stmt *s)
{
    bool mark = s->kind == LP_CALL && (s->call->kind == CALL_MARK || s->call->kind == CALL_COUNT);
    if (mark) return 1;
    bool product = s->kind == LP_CALL && (s->call->kind == CALL_GEMM || s->call->kind == CALL_PACK);
    if (product) return PRODUCT_COST;
    if (s->kind == LP_CALL) return CALL_COST;
    if (s->kind == LP_FOR && e->plan.loops[s->target].own_function)
        return e->plan.loops[s->target].mode == LOOP_OUTLINED ? REGION_COST : CALL_COST;
    if (!s->body && !s->other) return 1;
    uint64_t times = s->unroll > 1 ? s->unroll : 1;
    return LOOP_COST + times * (block_cost(e, s->body) + block_cost(e, s->other));
}

static uint64_t large_cost(const struct emitter *e)
{
    return e->options->small_sections ? SMALL_COST : LARGE_COST;
}

static uint64_t section_cost(const struct emitter *e)
{
    return e->options->small_sections ? SMALL_COST : SECTION_COST;
}

bool section_is_large(const struct emitter *e, const struct lp_block *block)
{
    return block_cost(e, block) > large_cost(e);
}

/* ---- who uses what ---- */

static void use_value(void *ctx, lpv v)
{
    struct cutter *c = ctx;
    c->last[v] = c->child;
}

static void touch_local(struct cutter *c, uint32_t local)
{
    struct span *s = &c->locals[local];
    if (c->overall) {
        s->overall++;
        return;
    }
    if (!s->inside++) s->first = c->child;
    s->last = c->child;
}

/* Does the call move memory or change sizes? */
static bool grows_or_sizes(const struct lp_call *c)
{
    return c->kind == CALL_RESERVE || c->kind == CALL_SETDIM || c->n_found;
}

static void read_block(struct cutter *c, const struct lp_block *block);

static void read_stmt(struct cutter *c, const struct lp_stmt *s)
{
    const struct lp *p = c->e->p;
    lp_stmt_uses(p, s, use_value, c);
    if (s->kind == LP_SET || s->kind == LP_ACCUM) touch_local(c, s->target);
    if (s->kind == LP_LET) {
        uint32_t locals[2], n = lp_locals_read(instr(c->e, s->value), locals);
        for (uint32_t k = 0; k < n; k++) touch_local(c, locals[k]);
    }
    if (s->kind == LP_CALL) c->grows |= grows_or_sizes(s->call);
    read_block(c, s->body);
    read_block(c, s->other);
}

static void read_block(struct cutter *c, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) read_stmt(c, &block->stmts.data[i]);
}

/* Per statement of the block: would a cut behind it part those that touch the same lanes? They would go to
 * memory, and their loops would no longer be vector code. NULL: the block must stay whole. */
static const bool *find_joined(struct cutter *c, const struct lp_block *block)
{
    const struct lp *p = c->e->p;
    uint32_t n = block->stmts.len;
    for (uint32_t l = 0; l < p->locals.len; l++) c->locals[l].inside = 0;
    c->grows = false;
    for (c->child = 0; c->child < n; c->child++) read_stmt(c, &block->stmts.data[c->child]);
    if (c->grows) return NULL;
    int32_t *opened = EMIT_NEW(c->e, int32_t, n + 1), open = 0;
    for (uint32_t l = 0; l < p->locals.len; l++) {
        const struct span *s = &c->locals[l];
        if (!s->inside || p->locals.data[l].kind != LOCAL_LANES) continue;
        if (s->inside != s->overall) return NULL;
        opened[s->first]++;
        opened[s->last]--;
    }
    bool *joined = EMIT_NEW(c->e, bool, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        open += opened[i];
        joined[i] = open > 0;
    }
    return joined;
}

/* ---- cutting ---- */

static void find_given(struct cutter *c, struct section *s)
{
    uint32_t n = s->end - s->first;
    s->given = EMIT_NEW(c->e, lpv, n);
    for (uint32_t i = s->first; i < s->end; i++) {
        const struct lp_stmt *t = &s->block->stmts.data[i];
        if (t->kind == LP_LET && c->last[t->value] >= s->end) s->given[s->n_given++] = t->value;
    }
}

static void add_section(struct cutter *c, const struct lp_block *block, uint32_t first, uint32_t end)
{
    struct plan *plan = &c->e->plan;
    if (plan->n_sections == plan->cap_sections) {
        uint32_t cap = plan->cap_sections * 2 + 16;
        struct section *more = EMIT_NEW(c->e, struct section, cap);
        if (plan->n_sections) memcpy(more, plan->sections, plan->n_sections * sizeof *more);
        plan->sections = more;
        plan->cap_sections = cap;
    }
    struct section *s = &plan->sections[plan->n_sections];
    *s = (struct section){ .block = block, .first = first, .end = end };
    s->home = c->e->p->loops.len + plan->n_sections++;
    find_given(c, s);
}

/* Cuts the block; returns what is left of its cost in the function that it stands in. */
static uint64_t cut_block(struct cutter *c, const struct lp_block *block, const uint64_t *costs)
{
    const bool *joined = find_joined(c, block);
    uint64_t left = 0, cost = 0;
    uint32_t first = 0;
    for (uint32_t i = 0; i < block->stmts.len; i++) {
        cost += costs[i];
        bool enough = cost >= section_cost(c->e) && joined && !joined[i];
        bool last = i + 1 == block->stmts.len;
        if (!enough && !last) continue;
        if (enough) add_section(c, block, first, i + 1);
        left += enough ? CALL_COST : cost;
        first = i + 1;
        cost = 0;
    }
    return left;
}

/* Loops whose steps lanes or threads share are left whole, as is what a WHILE looks at to go on. Returns what
 * is left of the block's cost. */
static uint64_t find_sections(struct cutter *c, const struct lp_block *block)
{
    const struct emitter *e = c->e;
    if (!block) return 0;
    uint64_t *costs = EMIT_NEW(c->e, uint64_t, block->stmts.len + 1), all = 0;
    for (uint32_t i = 0; i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        bool steps = s->kind == LP_FOR && s->mode == FOR_SERIAL && !e->plan.loops[s->target].own_function;
        costs[i] = stmt_cost(e, s);
        if (costs[i] > large_cost(e)) {
            if (s->kind == LP_WHILE) costs[i] = block_cost(e, s->body) + find_sections(c, s->other);
            if (s->kind == LP_IF) costs[i] = find_sections(c, s->body) + find_sections(c, s->other);
            if (steps) costs[i] = find_sections(c, s->body);
        }
        all += costs[i];
    }
    return all > large_cost(e) ? cut_block(c, block, costs) : all;
}

void section_layout(struct emitter *e)
{
    struct plan *plan = &e->plan;
    uint64_t at = 0;
    for (uint32_t b = 0; plan->n_sections && b < e->p->buffers.len; b++) {
        const struct lp_buffer *x = &e->p->buffers.data[b];
        struct slot_plan *s = &plan->buffers[b];
        bool here = s->touched && !s->in_registers && memory_home(e, b) == HOP_NONE;
        if (x->kind != BUF_LOCAL || !here) continue;
        uint64_t bytes = (uint64_t)x->static_count * size_of((enum dtype)x->dtype);
        s->in_frame = at;
        at += (bytes + FRAME_ALIGN - 1) & ~(uint64_t)(FRAME_ALIGN - 1);
    }
    if (plan->n_sections) plan->in_frame = EMIT_NEW(e, uint64_t, e->p->instrs.len + 1);
    for (uint32_t k = 0; k < plan->n_sections; k++)
        for (uint32_t i = 0; i < plan->sections[k].n_given; i++, at += sizeof(int64_t))
            plan->in_frame[plan->sections[k].given[i]] = at + 1;
    plan->frame_bytes = at;
}

/* ---- looking up ---- */

static uint32_t slot_for(const struct plan *plan, const struct lp_stmt *s)
{
    return (uint32_t)hash_mix(0, (uint64_t)(uintptr_t)s) & (plan->section_slots - 1);
}

static void index_sections(struct emitter *e)
{
    struct plan *plan = &e->plan;
    plan->section_slots = power_above(2 * plan->n_sections);
    plan->section_index = EMIT_NEW(e, uint32_t, plan->section_slots);
    for (uint32_t k = 0; k < plan->n_sections; k++) {
        uint32_t at = slot_for(plan, &plan->sections[k].block->stmts.data[plan->sections[k].first]);
        while (plan->section_index[at]) at = (at + 1) & (plan->section_slots - 1);
        plan->section_index[at] = k + 1;
    }
}

struct section *section_at(const struct emitter *e, const struct lp_stmt *s)
{
    const struct plan *plan = &e->plan;
    if (!plan->n_sections) return NULL;
    for (uint32_t at = slot_for(plan, s); plan->section_index[at];
         at = (at + 1) & (plan->section_slots - 1)) {
        struct section *found = &plan->sections[plan->section_index[at] - 1];
        if (&found->block->stmts.data[found->first] == s) return found;
    }
    return NULL;
}

void section_find(struct emitter *e)
{
    const struct lp *p = e->p;
    if (!section_is_large(e, p->root)) return;
    struct cutter c = { .e = e,
                        .last = EMIT_NEW(e, uint32_t, p->instrs.len + 1),
                        .locals = EMIT_NEW(e, struct span, p->locals.len + 1) };
    c.overall = true;
    read_block(&c, p->root);
    c.overall = false;
    find_sections(&c, p->root);
    index_sections(e);
}
