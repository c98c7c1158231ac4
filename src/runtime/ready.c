/* Blocks that are touched by threads of their own. Whoever wants the block ends them first, which takes no
 * longer than a piece: nothing is written into memory that is in use. */
#include "runtime/ready.h"
#include "base/memory.h"
#include "runtime/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { LEAST = 4 << 20, MOST = 1 << 30, PIECE = 1 << 20, PAGE = 4096, MOST_THREADS = 4, STACK = 64 << 10 };

struct ready {
    char *block;
    size_t bytes;
    atomic_size_t next; /* where the first piece begins that nobody has taken */
    pid_t process;      /* a forked child has the memory, but not the threads */
    uint32_t n;
    pthread_t threads[MOST_THREADS];
};

static void *touch(void *ready)
{
    struct ready *r = ready;
    for (;;) {
        size_t at = atomic_fetch_add_explicit(&r->next, PIECE, memory_order_relaxed);
        if (at >= r->bytes) return NULL;
        size_t end = HOP_MIN(at + PIECE, r->bytes);
        for (; at < end; at += PAGE) *(volatile char *)(r->block + at) = 0;
    }
}

static void begin_threads(struct ready *r, uint32_t wanted)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes)) return;
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    while (r->n < wanted && !pthread_create(&r->threads[r->n], &attributes, touch, r)) r->n++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

struct ready *ready_begin(size_t bytes)
{
    uint32_t cores = pool_threads();
    if (bytes < LEAST || bytes > MOST || cores < 2 || bytes > memory_left(true) / 4) return NULL;
    struct ready *r = hop_try_malloc(sizeof *r);
    if (!r) return NULL;
    *r = (struct ready){ .block = hop_try_malloc(bytes), .bytes = bytes, .process = getpid() };
    if (!r->block) {
        hop_free(r);
        return NULL;
    }
    memory_prefer_huge_pages(r->block, bytes);
    begin_threads(r, HOP_MIN(cores - 1, MOST_THREADS));
    return r;
}

void *ready_end(struct ready *r, size_t bytes)
{
    if (!r) return NULL;
    atomic_store_explicit(&r->next, r->bytes, memory_order_relaxed);
    if (getpid() == r->process)
        for (uint32_t i = 0; i < r->n; i++) pthread_join(r->threads[i], NULL);
    void *block = r->block;
    if (r->bytes < bytes) {
        hop_free(block);
        block = NULL;
    }
    hop_free(r);
    return block;
}
