/* Places temporaries. A loop program comes in; every BUF_TEMP gets its live interval in statement order and a
 * place: an offset in one arena when all sizes are static (largest first, best fit), otherwise a slot that
 * buffers with disjoint intervals share and that is as large as the largest of them. */
#include "loop/lp_walk.h"

enum { PLACE_ALIGN = 64, THREAD_ALIGN = 128 };

/* A loop or a branch around a statement. */
struct scope {
    uint32_t first, last; /* statement numbers */
    const struct lp_stmt *stmt;
    struct scope *outer;
    uint32_t depth; /* number of scopes from the root to this one, itself included */
};
struct access {
    uint32_t at;
    struct scope *scope;
    lpv index;
    bool writes;
    struct access *next; /* of the same buffer, in statement order */
};
struct planner {
    struct lp *p;
    struct arena arena;
    uint32_t now;
    struct scope *scope;
    struct access **head, **tail; /* per buffer */
    uint32_t *asked, question;    /* per value: the last question of `follows` that met it */
};

static bool is_placed(const struct lp_buffer *b) { return b->kind == BUF_TEMP && !b->offloaded; }

/* ---- collecting ---- */

static void touch(void *ctx, uint32_t buffer, lpv index, bool writes)
{
    struct planner *k = ctx;
    if (!is_placed(&k->p->buffers.data[buffer])) return;
    struct access *a = ARENA_ZNEW(&k->arena, struct access, 1);
    *a = (struct access){ k->now, k->scope, index, writes, NULL };
    if (k->tail[buffer]) k->tail[buffer]->next = a;
    else k->head[buffer] = a;
    k->tail[buffer] = a;
}

static void collect(struct planner *k, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        k->now++;
        lp_stmt_buffers(k->p, s, touch, k);
        if (!s->body && !s->other) continue;
        struct scope *scope = ARENA_ZNEW(&k->arena, struct scope, 1);
        *scope = (struct scope){ k->now, k->now, s, k->scope, k->scope ? k->scope->depth + 1 : 1 };
        k->scope = scope;
        collect(k, s->body);
        collect(k, s->other);
        k->scope = scope->outer;
        scope->last = ++k->now;
    }
}

/* ---- live intervals ---- */

static struct scope *ancestor(struct scope *s, uint32_t depth)
{
    while (s && s->depth > depth) s = s->outer;
    return s && s->depth == depth ? s : NULL;
}

/* Does the index change from one iteration of the loop to the next, other than through loops inside it?
 * Unknown counts as yes. Values that were looked at in this question do not: the first that does ends it. */
static bool follows(struct planner *k, lpv v, const struct scope *loop)
{
    if (v == LPV_NONE || k->asked[v] == k->question) return false;
    k->asked[v] = k->question;
    const struct lp_instr *i = &k->p->instrs.data[v];
    if (i->op == LP_VAR) return loop->stmt->kind == LP_FOR && (uint64_t)i->imm == loop->stmt->target;
    if (lp_class((enum lp_op)i->op) != PURE) return lp_class((enum lp_op)i->op) == PLACED;
    const lpv operands[3] = { i->a, i->b, i->c };
    for (uint32_t n = 0; n < lp_arity((enum lp_op)i->op); n++)
        if (follows(k, operands[n], loop)) return true;
    return false;
}

/* All accesses are in `loop`. Is what one iteration leaves behind of no interest to the next? Then the buffer
 * lives inside the body only. So it is when the body writes first, for certain, and in the same places every
 * time. Iterations of a parallel loop overlap in time, and share what is not each thread's own. */
static bool is_private(struct planner *k, const struct lp_buffer *b, const struct access *first,
                       const struct scope *loop)
{
    if (loop->stmt->kind == LP_FOR && loop->stmt->mode == FOR_PARALLEL) return b->private;
    if (!first->writes) return false;
    for (const struct scope *s = first->scope; s != loop; s = s->outer)
        if (s->stmt->kind == LP_IF || s->stmt->kind == LP_WHILE) return false;
    k->question++;
    for (const struct access *a = first; a; a = a->next)
        if (follows(k, a->index, loop)) return false;
    return true;
}

static void set_interval(struct planner *k, uint32_t buffer)
{
    struct lp_buffer *b = &k->p->buffers.data[buffer];
    struct access *first = k->head[buffer];
    b->first = 0;
    b->last = 0;
    if (!first) return;
    uint32_t depth = 1;
    for (;; depth++) { /* down through what is around all accesses */
        struct scope *around = ancestor(first->scope, depth);
        bool all = around != NULL;
        for (struct access *a = first->next; a && all; a = a->next) all = ancestor(a->scope, depth) == around;
        if (!all) break;
        if (around->stmt->kind != LP_IF && !is_private(k, b, first, around)) {
            b->first = around->first;
            b->last = around->last;
            return;
        }
    }
    b->first = UINT32_MAX;
    for (struct access *a = first; a; a = a->next) { /* alive throughout any inner loop that touches it */
        const struct scope *around = ancestor(a->scope, depth);
        b->first = HOP_MIN(b->first, around ? around->first : a->at);
        b->last = HOP_MAX(b->last, around ? around->last : a->at);
    }
}

/* ---- places ---- */

static bool overlap(const struct lp *p, uint32_t x, uint32_t y)
{
    const struct lp_buffer *a = &p->buffers.data[x], *b = &p->buffers.data[y];
    return p->own_memory || (a->first <= b->last && b->first <= a->last);
}

static int64_t bytes_of(const struct lp_buffer *b)
{
    return (b->static_count * dtype_info[b->dtype].size + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
}

static _Thread_local const struct lp_buffer *sort_buffers; /* qsort has no context argument */

static int larger_first(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    int64_t m = bytes_of(&sort_buffers[a]), n = bytes_of(&sort_buffers[b]);
    return m != n ? (m < n) - (m > n) : (a > b) - (a < b);
}

/* The smallest gap that fits among the placed buffers alive at the same time (lowest offset first), else the
 * end. */
static int64_t best_offset(const struct lp *p, uint32_t buffer, const uint32_t *neighbours, uint32_t n)
{
    int64_t size = bytes_of(&p->buffers.data[buffer]), end = 0, best = -1, best_gap = INT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const struct lp_buffer *b = &p->buffers.data[neighbours[i]];
        int64_t gap = b->offset - end;
        if (gap >= size && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        end = HOP_MAX(end, b->offset + bytes_of(b));
    }
    return best >= 0 ? best : end;
}

static void place_static(struct planner *k, uint32_t *temps, uint32_t n)
{
    struct lp *p = k->p;
    uint32_t *by_offset = ARENA_NEW(&k->arena, uint32_t, n), *neighbours = ARENA_NEW(&k->arena, uint32_t, n);
    sort_buffers = p->buffers.data;
    qsort(temps, n, sizeof *temps, larger_first);
    for (uint32_t i = 0; i < n; i++) {
        struct lp_buffer *b = &p->buffers.data[temps[i]];
        uint32_t m = 0, at = i;
        for (uint32_t j = 0; j < i; j++)
            if (overlap(p, temps[i], by_offset[j])) neighbours[m++] = by_offset[j];
        b->offset = best_offset(p, temps[i], neighbours, m);
        p->arena_size = HOP_MAX(p->arena_size, b->offset + bytes_of(b));
        for (; at > 0 && p->buffers.data[by_offset[at - 1]].offset > b->offset; at--)
            by_offset[at] = by_offset[at - 1];
        by_offset[at] = temps[i];
    }
}

/* How well a buffer goes into a free slot, best first. */
enum slot_cost {
    SLOT_EQUAL,
    SLOT_LARGER,
    SLOT_GROWS,   /* to the buffer's size */
    SLOT_UNKNOWN, /* it gets the larger of the two sizes, whichever that is */
    SLOT_NONE
};

static enum slot_cost slot_cost(struct lp *p, dim slot, dim size)
{
    if (slot == size) return SLOT_EQUAL;
    if (dim_provably_le(p->m, p->entry->symbols, size, slot)) return SLOT_LARGER;
    return dim_provably_le(p->m, p->entry->symbols, slot, size) ? SLOT_GROWS : SLOT_UNKNOWN;
}

/* Slots that nothing alive is in, by their size: those of one size are equally good, so that a buffer is
 * compared with the sizes there are and not with every slot. */
struct free_slots {
    vec(struct free_size {
        dim size;
        uint32_t top; /* the slot that became free last, HOP_NONE: none is free */
    }) sizes;
    vec(uint32_t) below; /* per slot: the free one of its size before it */
};

static void slot_free(struct planner *k, struct free_slots *f, uint32_t slot)
{
    dim size = k->p->slot_size.data[slot];
    uint32_t i = 0;
    while (i < f->sizes.len && f->sizes.data[i].size != size) i++;
    if (i == f->sizes.len) vec_push(&k->arena, &f->sizes, ((struct free_size){ size, HOP_NONE }));
    f->below.data[slot] = f->sizes.data[i].top;
    f->sizes.data[i].top = slot;
}

/* A slot for that many bytes, as large as that from now on. */
static uint32_t slot_take(struct planner *k, struct free_slots *f, dim size)
{
    struct lp *p = k->p;
    struct free_size *best = NULL;
    enum slot_cost best_cost = SLOT_NONE;
    for (uint32_t i = 0; i < f->sizes.len && best_cost != SLOT_EQUAL; i++) {
        if (f->sizes.data[i].top == HOP_NONE) continue;
        enum slot_cost cost = slot_cost(p, f->sizes.data[i].size, size);
        if (cost >= best_cost) continue;
        best = &f->sizes.data[i];
        best_cost = cost;
    }
    if (!best) {
        vec_push(&p->arena, &p->slot_size, size);
        vec_push(&k->arena, &f->below, HOP_NONE);
        return p->slot_size.len - 1;
    }
    uint32_t slot = best->top;
    best->top = f->below.data[slot];
    if (best_cost == SLOT_GROWS) p->slot_size.data[slot] = size;
    if (best_cost == SLOT_UNKNOWN) p->slot_size.data[slot] = dim_max(p->m, p->slot_size.data[slot], size);
    return slot;
}

static int begins_first(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    uint32_t m = sort_buffers[a].first, n = sort_buffers[b].first;
    return m != n ? (m > n) - (m < n) : (a > b) - (a < b);
}

static int ends_first(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    uint32_t m = sort_buffers[a].last, n = sort_buffers[b].last;
    return m != n ? (m > n) - (m < n) : (a > b) - (a < b);
}

/* Buffers get their slots in the order in which they come to life; those that ended before have given theirs
 * back. */
static void place_in_slots(struct planner *k, uint32_t *temps, uint32_t n)
{
    struct lp *p = k->p;
    struct free_slots free_slots = { 0 };
    uint32_t *ending = ARENA_NEW(&k->arena, uint32_t, n), ended = 0;
    for (uint32_t s = 0; s < p->slot_size.len; s++) vec_push(&k->arena, &free_slots.below, HOP_NONE);
    sort_buffers = p->buffers.data;
    memcpy(ending, temps, n * sizeof *temps);
    qsort(temps, n, sizeof *temps, begins_first);
    qsort(ending, n, sizeof *ending, ends_first);
    for (uint32_t i = 0; i < n; i++) {
        struct lp_buffer *b = &p->buffers.data[temps[i]];
        for (; !p->own_memory && p->buffers.data[ending[ended]].last < b->first; ended++)
            slot_free(k, &free_slots, p->buffers.data[ending[ended]].slot);
        dim size = dim_mul(p->m, b->count, dim_const(p->m, dtype_info[b->dtype].size));
        b->slot = slot_take(k, &free_slots, size);
    }
}

/* The temporaries of the program or a procedure. Those that threads have one each of are placed by
 * themselves; where all are so, nothing tells them apart. */
static void place_temps(struct planner *k, uint32_t *temps, uint32_t n)
{
    struct lp *p = k->p;
    void (*place)(struct planner *, uint32_t *, uint32_t) = p->arena_static ? place_static : place_in_slots;
    uint32_t *private = ARENA_NEW(&k->arena, uint32_t, n), n_private = 0, n_shared = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool own = p->buffers.data[temps[i]].private && !p->in_region;
        if (own) private[n_private++] = temps[i];
        else temps[n_shared++] = temps[i]; }
    place(k, temps, n_shared);
    int64_t shared_size = p->arena_size;
    p->arena_size = 0;
    place(k, private, n_private);
    p->private_size = p->arena_size;
    p->arena_size = shared_size;
}

static void plan_one(struct lp *p, bool in_arena)
{
    struct planner k = { .p = p };
    hop_cleanup_push(arena_free, &k.arena);
    k.head = ARENA_ZNEW(&k.arena, struct access *, p->buffers.len);
    k.tail = ARENA_ZNEW(&k.arena, struct access *, p->buffers.len);
    k.asked = ARENA_ZNEW(&k.arena, uint32_t, p->instrs.len);
    collect(&k, p->root);
    uint32_t *temps = ARENA_NEW(&k.arena, uint32_t, p->buffers.len), n = 0;
    p->arena_static = in_arena;
    p->arena_size = 0;
    p->slot_size.len = 0;
    for (uint32_t b = 0; b < p->buffers.len; b++) {
        if (!is_placed(&p->buffers.data[b])) continue;
        set_interval(&k, b);
        temps[n++] = b;
    }
    place_temps(&k, temps, n);
    hop_cleanup_pop(&k.arena);
    arena_free(&k.arena);
}

static bool is_static(const struct lp *p)
{
    for (uint32_t b = 0; b < p->buffers.len; b++)
        if (is_placed(&p->buffers.data[b]) && p->buffers.data[b].static_count < 0) return false;
    return true;
}

/* Where the temporaries of the procedures lie that threads call, or of all others: from `end` on. At one time
 * at most one of each level runs, and those that wait for it are of higher levels, so all of one level share
 * their bytes. Gives where they end. */
static int64_t place_levels(struct lp *p, bool in_region, int64_t end)
{
    uint32_t highest = 0;
    for (uint32_t i = 0; i < p->procedures.len; i++) highest = HOP_MAX(highest, p->procedures.data[i]->level);
    int64_t *most = ARENA_ZNEW(&p->arena, int64_t, highest + 1u);
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        const struct lp *q = p->procedures.data[i];
        if (q->in_region == in_region) most[q->level] = HOP_MAX(most[q->level], q->arena_size);
    }
    for (uint32_t level = highest; level > 0; level--) {
        int64_t bytes = most[level];
        most[level] = end;
        if (__builtin_add_overflow(end, bytes, &end))
            hop_throw(HOP_INVALID, "the temporaries of this program need more than 2^63 bytes");
    }
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        struct lp *q = p->procedures.data[i];
        if (q->in_region == in_region) q->first_byte = most[q->level];
    }
    return end;
}

/* The private buffers of q from `first` on. Gives how many bytes they are. */
static int64_t place_private(struct lp *q, int64_t first)
{
    for (uint32_t b = 0; b < q->buffers.len && !q->in_region; b++) {
        struct lp_buffer *buffer = &q->buffers.data[b];
        if (is_placed(buffer) && buffer->private) buffer->offset += first - q->first_byte;
    }
    return q->private_size;
}

/* Behind all temporaries that there are once come those that each thread has. Parallel loops run one at a
 * time, so they share their bytes; procedures that they call come behind. */
static void place_areas(struct lp *p)
{
    int64_t shared = place_levels(p, false, p->arena_size), most = p->private_size;
    bool private = most > 0;
    for (uint32_t i = 0; i < p->procedures.len; i++)
    private |= p->procedures.data[i]->private_size || p->procedures.data[i]->in_region;
    int64_t first = shared;
    if (private && __builtin_add_overflow(shared, THREAD_ALIGN - 1, &first))
        hop_throw(HOP_INVALID, "the temporaries of this program need more than 2^63 bytes");
    if (private) first -= first % THREAD_ALIGN;
    place_private(p, first);
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        int64_t own = place_private(p->procedures.data[i], first);
        most = HOP_MAX(most, own);
    }
    if (__builtin_add_overflow(first, most, &most))
        hop_throw(HOP_INVALID, "the temporaries of this program need more than 2^63 bytes");
    p->arena_total = place_levels(p, true, most);
    p->private_size = p->arena_total - first;
}

static void remove_drops(struct lp_block *block)
{
    uint32_t n = 0;
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_CALL && s->call->kind == CALL_DROP) continue;
        remove_drops(s->body);
        remove_drops(s->other);
        block->stmts.data[n++] = *s;
    }
    if (block) block->stmts.len = n;
}

void lp_keep_in_memory(struct lp *p)
{
    for (uint32_t b = 0; b < p->buffers.len; b++) p->buffers.data[b].offloaded = NULL;
    remove_drops(p->root);
    for (uint32_t i = 0; i < p->procedures.len; i++) lp_keep_in_memory(p->procedures.data[i]);
}

void lp_plan(struct lp *p)
{
    bool in_arena = is_static(p);
    for (uint32_t i = 0; i < p->procedures.len; i++) in_arena &= is_static(p->procedures.data[i]);
    plan_one(p, in_arena);
    uint32_t buffers = p->buffers.len, slots = p->slot_size.len;
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        struct lp *q = p->procedures.data[i];
        q->own_memory = p->own_memory;
        plan_one(q, in_arena);
        q->first_buffer = buffers;
        q->first_slot = slots;
        buffers += q->buffers.len;
        slots += q->slot_size.len;
    }
    place_areas(p);
}
