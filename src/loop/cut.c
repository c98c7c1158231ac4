/* Cuts a loop program into kernels. Statements of the root block come in; kernels with the buffers that each
 * touches and the scalars that they share go out. */
#include "loop/cut.h"
#include "loop/lp_walk.h"

enum { NO_PLACE = -1 };

struct cutter {
    const struct lp *p;
    struct lp_cut *cut;
    struct arena scratch;
    uint32_t kernel;        /* the one that is looked at */
    uint32_t *made_in;      /* per value: the kernel that computes it at its root; HOP_NONE: inside a nest */
    int64_t *value_at;      /* per value: its place in the frame */
    int64_t *local_at;      /* per local, the same */
    uint32_t *local_kernel; /* per local: the first kernel that touches it */
    uint32_t *value_seen;   /* per value, local, buffer (over all procedures), procedure: the last kernel … */
    uint32_t *local_seen;   /* … that has it in its list */
    uint32_t *buffer_seen;
    uint32_t *procedure_seen;
};

static struct lp_kernel *this_kernel(struct cutter *c) { return &c->cut->kernels.data[c->kernel]; }

static int64_t frame_place(struct cutter *c, int64_t bytes)
{
    int64_t at = c->cut->frame_bytes;
    c->cut->frame_bytes = at + bytes;
    return at;
}

/* ---- where the cuts are ---- */

static bool ends_kernel(const struct lp_stmt *s)
{
    return s->kind == LP_FOR || s->kind == LP_WHILE || s->kind == LP_IF || s->kind == LP_CALL;
}

static void cut_root(struct cutter *c)
{
    const struct lp_block *root = c->p->root;
    uint32_t first = 0;
    for (uint32_t i = 0; i < root->stmts.len; i++) {
        const struct lp_stmt *s = &root->stmts.data[i];
        if (s->kind == LP_LET) c->made_in[s->value] = c->cut->kernels.len;
        if (!ends_kernel(s) && i + 1 < root->stmts.len) continue;
        vec_push(&c->cut->arena, &c->cut->kernels, (struct lp_kernel){ .first = first, .n = i + 1 - first });
        first = i + 1;
    }
}

static void place_arrays(struct cutter *c, const struct lp *p)
{
    for (uint32_t b = 0; b < p->buffers.len; b++) {
        const struct lp_buffer *buffer = &p->buffers.data[b];
        if (buffer->kind != BUF_LOCAL) continue;
        int64_t bytes = buffer->static_count * dtype_info[buffer->dtype].size;
        int64_t cells = (bytes + FRAME_VALUE - 1) / FRAME_VALUE;
        c->cut->array_at[p->first_buffer + b] = frame_place(c, cells * FRAME_VALUE);
    }
}

/* ---- walking a kernel, its nests included ---- */

struct kernel_visit {
    void (*value)(void *c, lpv v);
    void (*local)(struct cutter *c, uint32_t local);
    void (*buffer)(void *c, uint32_t buffer, lpv index, bool writes);
    void (*call)(struct cutter *c, const struct lp_call *call); /* NULL: of no interest */
};

static void visit_block(struct cutter *c, const struct lp_block *block, const struct kernel_visit *visit);

static void visit_stmt(struct cutter *c, const struct lp_stmt *s, const struct kernel_visit *visit)
{
    lp_stmt_uses(c->p, s, visit->value, c);
    lp_stmt_buffers(c->p, s, visit->buffer, c);
    if (s->kind == LP_LET) {
        uint32_t locals[2], n = lp_locals_read(&c->p->instrs.data[s->value], locals);
        for (uint32_t k = 0; k < n; k++) visit->local(c, locals[k]);
    }
    if (s->kind == LP_SET || s->kind == LP_ACCUM) visit->local(c, s->target);
    if (s->kind == LP_CALL && visit->call) visit->call(c, s->call);
    visit_block(c, s->body, visit);
    visit_block(c, s->other, visit);
}

static void visit_block(struct cutter *c, const struct lp_block *block, const struct kernel_visit *visit)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) visit_stmt(c, &block->stmts.data[i], visit);
}

static void visit_kernels(struct cutter *c, const struct kernel_visit *visit)
{
    for (c->kernel = 0; c->kernel < c->cut->kernels.len; c->kernel++) {
        struct lp_kernel k = *this_kernel(c);
        for (uint32_t i = 0; i < k.n; i++) visit_stmt(c, &c->p->root->stmts.data[k.first + i], visit);
    }
}

/* ---- first: what several kernels share gets a place in the frame ---- */

static void share_value(void *cutter, lpv v)
{
    struct cutter *c = cutter;
    if (c->made_in[v] == HOP_NONE || c->made_in[v] == c->kernel || c->value_at[v] != NO_PLACE) return;
    c->value_at[v] = frame_place(c, FRAME_VALUE);
}

static void share_local(struct cutter *c, uint32_t local)
{
    if (c->local_kernel[local] == HOP_NONE) c->local_kernel[local] = c->kernel;
    if (c->local_kernel[local] == c->kernel || c->local_at[local] != NO_PLACE) return;
    c->local_at[local] = frame_place(c, FRAME_LOCAL);
}

static void skip_buffer(void *c, uint32_t buffer, lpv index, bool writes)
{
    HOP_UNUSED(c);
    HOP_UNUSED(buffer);
    HOP_UNUSED(index);
    HOP_UNUSED(writes);
}

/* ---- then: the lists of each kernel ---- */

static void add_cell(struct cutter *c, struct lp_kernel *k, struct lp_cell cell)
{
    vec_push(&c->cut->arena, &k->cells, cell);
}

static void list_value(void *cutter, lpv v)
{
    struct cutter *c = cutter;
    if (c->value_at[v] == NO_PLACE || c->made_in[v] == c->kernel || c->value_seen[v] == c->kernel) return;
    struct lp_cell cell = { .kind = CELL_VALUE, .index = v, .at = c->value_at[v], .in = true };
    c->value_seen[v] = c->kernel;
    add_cell(c, this_kernel(c), cell);
}

static void list_local(struct cutter *c, uint32_t local)
{
    if (c->local_at[local] == NO_PLACE || c->local_seen[local] == c->kernel) return;
    struct lp_cell cell = {
        .kind = CELL_LOCAL, .index = local, .at = c->local_at[local], .in = true, .out = true
    };
    c->local_seen[local] = c->kernel;
    add_cell(c, this_kernel(c), cell);
}

static void list_number(struct cutter *c, uint32_t number)
{
    if (c->buffer_seen[number] == c->kernel) return;
    c->buffer_seen[number] = c->kernel;
    vec_push(&c->cut->arena, &this_kernel(c)->buffers, number);
}

static void list_buffer(void *cutter, uint32_t buffer, lpv index, bool writes)
{
    struct cutter *c = cutter;
    HOP_UNUSED(index);
    HOP_UNUSED(writes);
    if (c->p->buffers.data[buffer].kind != BUF_LOCAL) list_number(c, buffer);
}

static void list_called(struct cutter *c, const struct lp_block *block);

static void list_procedure(struct cutter *c, const struct lp_call *call)
{
    if (call->kind != CALL_PROCEDURE || c->procedure_seen[call->target] == c->kernel) return;
    c->procedure_seen[call->target] = c->kernel;
    const struct lp *q = c->p->procedures.data[call->target];
    for (uint32_t b = 0; b < q->buffers.len; b++) {
        uint8_t kind = q->buffers.data[b].kind;
        if (kind != BUF_LOCAL && kind != BUF_PARAM) list_number(c, q->first_buffer + b);
    }
    list_called(c, q->root);
}

static void list_called(struct cutter *c, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_CALL) list_procedure(c, s->call);
        list_called(c, s->body);
        list_called(c, s->other);
    }
}

/* The values that a kernel computes for others. */
static void list_made(struct cutter *c)
{
    for (uint32_t k = 0; k < c->cut->kernels.len; k++) {
        struct lp_kernel *kernel = &c->cut->kernels.data[k];
        for (uint32_t i = 0; i < kernel->n; i++) {
            const struct lp_stmt *s = &c->p->root->stmts.data[kernel->first + i];
            if (s->kind != LP_LET || c->value_at[s->value] == NO_PLACE) continue;
            struct lp_cell cell = {
                .kind = CELL_VALUE, .index = s->value, .at = c->value_at[s->value], .out = true
            };
            add_cell(c, kernel, cell);
        }
    }
}

/* ---- the whole ---- */

static uint32_t *none_each(struct arena *a, size_t n)
{
    uint32_t *list = ARENA_NEW(a, uint32_t, n);
    for (size_t i = 0; i < n; i++) list[i] = HOP_NONE;
    return list;
}

static int64_t *no_place_each(struct arena *a, size_t n)
{
    int64_t *list = ARENA_NEW(a, int64_t, n);
    for (size_t i = 0; i < n; i++) list[i] = NO_PLACE;
    return list;
}

void lp_cut_free(void *cut)
{
    struct lp_cut *c = cut;
    if (!c) return;
    arena_free(&c->arena);
    hop_free(c);
}

static void free_scratch(void *cutter) { arena_free(&((struct cutter *)cutter)->scratch); }

struct lp_cut *lp_cut(const struct lp *p)
{
    static const struct kernel_visit sharing = { share_value, share_local, skip_buffer, NULL };
    static const struct kernel_visit listing = { list_value, list_local, list_buffer, list_procedure };
    struct lp_cut *cut = hop_calloc(1, sizeof *cut);
    hop_cleanup_push(lp_cut_free, cut);
    struct cutter c = { .p = p, .cut = cut };
    struct arena *a = &c.scratch;
    hop_cleanup_push(free_scratch, &c);
    const struct lp *last = p->procedures.len ? p->procedures.data[p->procedures.len - 1] : p;
    uint32_t n_buffers = last->first_buffer + last->buffers.len;
    c.made_in = none_each(a, p->instrs.len);
    c.value_at = no_place_each(a, p->instrs.len);
    c.value_seen = none_each(a, p->instrs.len);
    c.local_at = no_place_each(a, p->locals.len);
    c.local_kernel = none_each(a, p->locals.len);
    c.local_seen = none_each(a, p->locals.len);
    c.buffer_seen = none_each(a, n_buffers);
    c.procedure_seen = none_each(a, p->procedures.len);
    cut->array_at = ARENA_ZNEW(&cut->arena, int64_t, n_buffers);

    cut_root(&c);
    for (uint32_t q = 0; q < p->procedures.len; q++) place_arrays(&c, p->procedures.data[q]);
    place_arrays(&c, p);
    visit_kernels(&c, &sharing);
    visit_kernels(&c, &listing);
    list_made(&c);
    hop_cleanup_pop(&c);
    free_scratch(&c);
    hop_cleanup_pop(cut);
    return cut;
}
