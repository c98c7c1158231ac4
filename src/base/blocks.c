/* Large blocks of memory. A few are kept when they are freed, because programs make the same results again
 * and again and fresh pages cost more than computing them. */
#include "base/memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KEEP_FROM = 1 << 20, KEPT_BLOCKS = 8, HUGE_PAGE = 1 << 21 };
static const size_t KEPT_BYTES = (size_t)1 << 29; /* and at most a sixteenth of the machine's memory */

static struct {
    pthread_mutex_t lock; /* only ever tried: whoever does not get it does without */
    struct {
        void *block;
        size_t bytes;
    } kept[KEPT_BLOCKS];
    size_t total, limit;
} spare = { .lock = PTHREAD_MUTEX_INITIALIZER };

void memory_prefer_huge_pages(void *block, size_t bytes)
{
    uintptr_t first = ((uintptr_t)block + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)block + bytes) & ~(uintptr_t)(HUGE_PAGE - 1);
    if (bytes >= 2 * HUGE_PAGE && end > first)
        madvise((void *)first, end - first, MADV_HUGEPAGE); /* a hint: failure changes nothing */
}

static void *take_kept(size_t bytes, size_t *size)
{
    void *block = NULL;
    if (pthread_mutex_trylock(&spare.lock)) return NULL;
    for (int i = 0; i < KEPT_BLOCKS && !block; i++)
        if (spare.kept[i].block && spare.kept[i].bytes >= bytes && spare.kept[i].bytes - bytes <= bytes / 4) {
            block = spare.kept[i].block;
            *size = spare.kept[i].bytes;
            spare.total -= *size;
            spare.kept[i].block = NULL;
        }
    pthread_mutex_unlock(&spare.lock);
    if (block) hop_count_live(1);
    return block;
}

bool memory_keep(void *block, size_t bytes)
{
    bool done = false;
    if (pthread_mutex_trylock(&spare.lock)) return false;
    if (!spare.limit) {
        size_t sixteenth = (size_t)sysconf(_SC_PHYS_PAGES) / 16 * (size_t)sysconf(_SC_PAGESIZE);
        spare.limit = HOP_MIN(KEPT_BYTES, sixteenth);
    }
    for (int i = 0; i < KEPT_BLOCKS && !done && bytes <= spare.limit - HOP_MIN(spare.limit, spare.total); i++)
        if (!spare.kept[i].block) {
            spare.kept[i].block = block;
            spare.kept[i].bytes = bytes;
            spare.total += bytes;
            done = true;
        }
    pthread_mutex_unlock(&spare.lock);
    if (done) hop_count_live(-1);
    return done;
}

void memory_drop_kept(void)
{
    if (pthread_mutex_trylock(&spare.lock)) return;
    for (int i = 0; i < KEPT_BLOCKS; i++) {
        if (spare.kept[i].block) hop_count_live(1);
        hop_free(spare.kept[i].block);
        spare.kept[i].block = NULL;
    }
    spare.total = 0;
    pthread_mutex_unlock(&spare.lock);
}

void *memory_take(size_t bytes, size_t *size)
{
    *size = bytes < KEEP_FROM ? 0 : bytes;
    if (!*size) return hop_malloc(bytes);
    void *block = take_kept(bytes, size);
    if (block) return block;
    block = hop_try_malloc(bytes);
    if (!block) {
        memory_drop_kept();
        block = hop_malloc(bytes);
    }
    memory_prefer_huge_pages(block, bytes);
    return block;
}
