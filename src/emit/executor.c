/* The model of a back end with a memory of its own: the loop program, cut into kernels, run by the reference
 * executor (loop/lp_exec.c). Its heap hands out addresses that no processor accepts, and every access of a
 * kernel is held against the blocks of the heap: neither side can reach the other's memory but by a copy.
 * Slow, and there wherever hop is: it is also what runs a program where nothing can be compiled. */
#include "emit/backend.h"
#include "loop/lp_exec.h"

#include <pthread.h>

/* ---- the heap ---- */

/* An address: the mark, the number of a block, an offset in it. No pointer of a process has these upper bits.
 */
enum { OFFSET_BITS = 40, NUMBER_BITS = 16, MARK = 0xa5, HEAP_ALIGN = 64 };
enum { BLOCKS = 1 << NUMBER_BITS };
static const uint64_t OFFSET_MASK = ((uint64_t)1 << OFFSET_BITS) - 1;

struct block {
    void *memory; /* NULL: the number is free */
    char *data;
    size_t bytes;
};
/* Taking and giving back lock; reaching does not, because whoever has an address got it after the block was
 * made. */
static struct {
    pthread_mutex_t lock;
    uint32_t newest; /* numbers are used in turn: an address of a block that is gone stays wrong for long */
    struct block blocks[BLOCKS];
} heap = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t mark_of(uint64_t address) { return address >> (OFFSET_BITS + NUMBER_BITS); }
static uint32_t number_of(uint64_t address) { return (uint32_t)(address >> OFFSET_BITS) & (BLOCKS - 1); }

static void *address_of(uint32_t number)
{
    return (void *)((uint64_t)MARK << (OFFSET_BITS + NUMBER_BITS) | (uint64_t)number << OFFSET_BITS);
}

static void heap_unlock(void) { pthread_mutex_unlock(&heap.lock); }
static void heap_lock_plain(void) { pthread_mutex_lock(&heap.lock); }
/* A child of fork finds the heap whole and unlocked. */
static void heap_begin(void) { pthread_atfork(heap_lock_plain, heap_unlock, heap_unlock); }
static void heap_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, heap_begin);
    heap_lock_plain();
}

/* A number that is free; BLOCKS: there is none. */
static uint32_t free_number(void)
{
    for (uint32_t i = 1; i <= BLOCKS; i++) {
        uint32_t number = (heap.newest + i) % BLOCKS;
        if (!heap.blocks[number].memory) return number;
    }
    return BLOCKS;
}

static void *heap_take(size_t bytes)
{
    if (bytes > OFFSET_MASK - HEAP_ALIGN) return NULL;
    void *memory = hop_try_malloc(bytes + HEAP_ALIGN);
    if (!memory) return NULL;
    char *data = (char *)(((uintptr_t)memory + HEAP_ALIGN - 1) & ~(uintptr_t)(HEAP_ALIGN - 1));
    memset(data, 0xa5, bytes); /* nobody may count on what is there */
    heap_lock();
    uint32_t number = free_number();
    if (number < BLOCKS) {
        heap.newest = number;
        heap.blocks[number] = (struct block){ memory, data, bytes };
    }
    heap_unlock();
    if (number < BLOCKS) return address_of(number);
    hop_free(memory);
    return NULL;
}

static void heap_give_back(void *at)
{
    if (!at) return;
    heap_lock();
    struct block *b = &heap.blocks[number_of((uint64_t)at)];
    void *memory = b->memory;
    *b = (struct block){ 0 };
    heap_unlock();
    hop_free(memory);
}

static void *heap_reach(void *at, size_t bytes, const char *buffer)
{
    uint64_t address = (uint64_t)at, offset = address & OFFSET_MASK;
    if (mark_of(address) != MARK)
        hop_throw(HOP_INTERNAL, "the executor's kernels cannot reach %s: %p is no address of their heap",
                  buffer, at);
    const struct block *b = &heap.blocks[number_of(address)];
    if (!b->memory || offset > b->bytes || bytes > b->bytes - offset)
        hop_throw(HOP_INTERNAL,
                  "the executor's kernels cannot reach %s: %zu bytes at %p are not in its memory", buffer,
                  bytes, at);
    return b->data + offset;
}

static void heap_copy_in(void *to, const void *from, size_t bytes)
{
    if (bytes) memcpy(heap_reach(to, bytes, "what is copied in"), from, bytes);
}

static void heap_copy_out(void *to, const void *from, size_t bytes)
{
    if (bytes) memcpy(to, heap_reach((void *)from, bytes, "what is copied out"), bytes);
}

static void heap_copy(void *to, const void *from, size_t bytes)
{
    if (bytes) memmove(heap_reach(to, bytes, "a copy"), heap_reach((void *)from, bytes, "a copy"), bytes);
}

static const struct memory_space executor_heap = {
    .name = "the executor's heap",
    .take = heap_take,
    .give_back = heap_give_back,
    .copy_in = heap_copy_in,
    .copy_out = heap_copy_out,
    .copy = heap_copy,
    .reach = heap_reach,
};

/* ---- programs ---- */

struct cut_program {
    const struct lp *p;
    struct lp_cut *cut;
    vec(struct launch_step) steps; /* in the cut's arena */
};

static void add_step(struct cut_program *c, enum launch_step_kind kind, uint32_t index)
{
    vec_push(&c->cut->arena, &c->steps, (struct launch_step){ (uint8_t)kind, index });
}

/* Arguments are brought before the first kernel that touches them; results have memory from the beginning. */
static void plan_launches(struct cut_program *c)
{
    const struct lp *p = c->p;
    bool *brought = ARENA_ZNEW(&c->cut->arena, bool, p->buffers.len);
    for (uint32_t b = 0; b < p->buffers.len; b++)
        if (p->buffers.data[b].kind == BUF_RESULT) add_step(c, LAUNCH_MAKE, b);
    for (uint32_t k = 0; k < c->cut->kernels.len; k++) {
        const struct lp_kernel *kernel = &c->cut->kernels.data[k];
        for (uint32_t i = 0; i < kernel->buffers.len; i++) {
            uint32_t b = kernel->buffers.data[i];
            if (b >= p->buffers.len || p->buffers.data[b].kind != BUF_ARG || brought[b]) continue;
            brought[b] = true;
            add_step(c, LAUNCH_BRING, b);
        }
        add_step(c, LAUNCH_KERNEL, k);
    }
    add_step(c, LAUNCH_WAIT, 0);
    for (uint32_t b = 0; b < p->buffers.len; b++) {
        const struct lp_buffer *buffer = &p->buffers.data[b];
        bool updated = buffer->kind == BUF_ARG && buffer->updated && brought[b];
        if (buffer->kind == BUF_RESULT || updated) add_step(c, LAUNCH_FETCH, b);
    }
}

static void cut_program_free(void *program)
{
    struct cut_program *c = program;
    if (!c) return;
    lp_cut_free(c->cut);
    hop_free(c);
}

static int executor_load(const void *object, size_t bytes, const struct lp *p, struct loaded_program *out,
                         char error[512])
{
    HOP_UNUSED(object);
    HOP_UNUSED(bytes);
    HOP_UNUSED(error);
    struct cut_program *c = hop_calloc(1, sizeof *c);
    hop_cleanup_push(cut_program_free, c);
    c->p = p;
    c->cut = lp_cut(p);
    plan_launches(c);
    hop_cleanup_pop(c);
    *out = (struct loaded_program){ .steps = c->steps.data,
                                    .n_steps = c->steps.len,
                                    .n_kernels = c->cut->kernels.len,
                                    .frame_bytes = c->cut->frame_bytes,
                                    .own = c };
    return EMIT_OK;
}

static void executor_unload(struct loaded_program *p)
{
    cut_program_free(p->own);
    *p = (struct loaded_program){ 0 };
}

/* ---- runs ---- */

struct executor_queue {
    struct arena arena;
    struct lp_machine machine;
    struct executor *executor;
};

static void executor_close(struct launch *l)
{
    struct executor_queue *q = l->queue;
    if (!q) return;
    arena_free(&q->arena);
    hop_free(q);
    l->queue = NULL;
}

static void executor_open(struct launch *l)
{
    const struct cut_program *c = l->program->own;
    struct executor_queue *q = hop_calloc(1, sizeof *q);
    l->queue = q;
    q->machine = (struct lp_machine){ .rt = l->rt,
                                      .buffers = l->buffers,
                                      .symbols = l->symbols,
                                      .counts = l->counts,
                                      .reach = heap_reach,
                                      .cut = c->cut,
                                      .frame = l->frame };
    q->executor = lp_executor(c->p, &q->machine, &q->arena);
}

static int32_t executor_launch(struct launch *l, uint32_t kernel)
{
    return lp_execute_kernel(((struct executor_queue *)l->queue)->executor, kernel);
}

const struct backend executor_backend = {
    .name = "executor",
    .meaning = "the loop program itself, slowly, on a heap of its own; there without LLVM",
    .abilities = ABLE_TO_TELL | ABLE_TO_GROW | ABLE_TO_MULTIPLY | RUNS_LOOPS,
    .memory = &executor_heap,
    .load = executor_load,
    .unload = executor_unload,
    .open = executor_open,
    .close = executor_close,
    .launch = executor_launch,
};
