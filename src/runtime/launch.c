/* The launch plan of a program, carried out: buffers are brought into the back end's memory, kernels launched
 * and waited for, results fetched. Comes after run.c has sized and placed everything; what it takes for the
 * run it gives back, whatever happens. */
#include "runtime/launch.h"
#include "loop/rt.h"

static void *take(const struct memory_space *space, size_t bytes)
{
    void *at = space->take(bytes);
    if (!at) hop_throw(HOP_NOMEM, "out of memory: %zu bytes of %s could not be had", bytes, space->name);
    return at;
}

/* ---- constants ---- */

/* Two buffers may be one constant. */
static void *brought_before(const struct exe *e, uint32_t b)
{
    for (uint32_t i = 0; i < b; i++)
        if (e->constants[i] == e->constants[b]) return e->brought[i];
    return NULL;
}

void launch_constants(struct exe *e)
{
    const struct memory_space *space = e->backend->memory;
    e->brought = ARENA_ZNEW(&e->arena, void *, e->n_buffers);
    e->brought_blocks = ARENA_ZNEW(&e->arena, void *, e->n_buffers);
    for (uint32_t b = 0; b < e->n_buffers; b++) {
        if (!e->constants[b]) continue;
        e->brought[b] = brought_before(e, b);
        if (e->brought[b]) continue;
        size_t bytes = (size_t)e->buffers[b].static_count * dtype_info[e->buffers[b].dtype].size;
        e->brought[b] = take(space, bytes);
        e->brought_blocks[e->n_brought++] = e->brought[b];
        space->copy_in(e->brought[b], e->constants[b], bytes);
    }
}

void launch_constants_free(struct exe *e)
{
    for (uint32_t i = 0; i < e->n_brought; i++) e->backend->memory->give_back(e->brought_blocks[i]);
}

/* ---- one run ---- */

struct passage {
    const struct exe *e;
    struct launch launch;
    void **host;     /* per buffer: where the host has it, if the plan moves it */
    void **taken;    /* per buffer: memory of this run */
    int64_t *counts; /* elements of each buffer */
};

static void passage_free(void *passage)
{
    struct passage *p = passage;
    const struct backend *backend = p->e->backend;
    if (backend->close) backend->close(&p->launch);
    for (uint32_t b = 0; b < p->e->n_buffers; b++) backend->memory->give_back(p->taken[b]);
    backend->memory->give_back(p->launch.frame);
    hop_free(p);
}

static struct passage *passage_new(const struct exe *e, struct hop_rt *rt, void **buffers, int64_t *symbols)
{
    size_t each = 2 * sizeof(void *) + sizeof(int64_t);
    struct passage *p = hop_calloc(1, sizeof *p + e->n_buffers * each);
    p->e = e;
    p->host = (void **)(p + 1);
    p->taken = p->host + e->n_buffers;
    p->counts = (int64_t *)(p->taken + e->n_buffers);
    p->launch = (struct launch){
        .program = &e->program, .rt = rt, .buffers = buffers, .counts = p->counts, .symbols = symbols
    };
    for (uint32_t b = 0; b < e->n_buffers; b++) {
        const struct lp_buffer *buffer = &e->buffers[b];
        if (buffer->kind == BUF_DYN) continue;
        p->counts[b] = buffer->static_count;
        if (p->counts[b] < 0) p->counts[b] = dim_eval(e->m, buffer->count, symbols);
    }
    return p;
}

static size_t buffer_bytes(const struct passage *p, uint32_t b)
{
    return (size_t)p->counts[b] * dtype_info[p->e->buffers[b].dtype].size;
}

static void make_buffer(struct passage *p, uint32_t b)
{
    p->host[b] = p->launch.buffers[b];
    p->taken[b] = take(p->e->backend->memory, buffer_bytes(p, b));
    p->launch.buffers[b] = p->taken[b];
}

static int32_t launch_kernel(struct passage *p, uint32_t kernel)
{
    struct hop_rt *rt = p->launch.rt;
    if (__atomic_load_n(rt->cancel, __ATOMIC_RELAXED) && rt->asked(rt)) return HOP_CANCELLED;
    return p->e->backend->launch(&p->launch, kernel);
}

static int32_t take_step(struct passage *p, const struct launch_step *s)
{
    const struct backend *backend = p->e->backend;
    switch ((enum launch_step_kind)s->kind) {
    case LAUNCH_BRING:
        make_buffer(p, s->index);
        backend->memory->copy_in(p->taken[s->index], p->host[s->index], buffer_bytes(p, s->index));
        return HOP_OK;
    case LAUNCH_MAKE: make_buffer(p, s->index); return HOP_OK;
    case LAUNCH_KERNEL: return launch_kernel(p, s->index);
    case LAUNCH_WAIT: return backend->wait ? backend->wait(&p->launch) : HOP_OK;
    case LAUNCH_FETCH:
        backend->memory->copy_out(p->host[s->index], p->taken[s->index], buffer_bytes(p, s->index));
        return HOP_OK;
    }
    return HOP_INTERNAL;
}

int32_t launch_plan(const struct exe *e, struct hop_rt *rt, void **buffers, int64_t *symbols)
{
    struct passage *p = passage_new(e, rt, buffers, symbols);
    int32_t status = HOP_OK;
    hop_cleanup_push(passage_free, p);
    if (e->program.frame_bytes) p->launch.frame = take(e->backend->memory, (size_t)e->program.frame_bytes);
    if (e->backend->open) e->backend->open(&p->launch);
    for (uint32_t i = 0; i < e->program.n_steps && !status; i++) status = take_step(p, &e->program.steps[i]);
    hop_cleanup_pop(p);
    passage_free(p);
    return status;
}
