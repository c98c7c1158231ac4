/* Tensors: contiguous arrays with a reference count. Header and data are one block; borrowed data belongs to
 * somebody else, who is told when the last reference goes. Sizes come in as dims, sizes that overflow are
 * errors. A few large blocks are kept when they are freed, because programs make the same results again and
 * again and fresh pages cost more than computing them. */
#include "runtime/memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TENSOR_ALIGN = 64, KEEP_FROM = 1 << 20, KEPT_BLOCKS = 8, HUGE_PAGE = 1 << 21 };
static const size_t KEPT_BYTES = (size_t)1 << 29; /* and at most a sixteenth of the machine's memory */

/* ---- large blocks ---- */

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
    uintptr_t first = ((uintptr_t)block + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1),
              end = ((uintptr_t)block + bytes) & ~(uintptr_t)(HUGE_PAGE - 1);
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

static bool keep(void *block, size_t bytes)
{
    bool done = false;
    if (pthread_mutex_trylock(&spare.lock)) return false;
    if (!spare.limit)
        spare.limit = HOP_MIN(KEPT_BYTES,
                              (size_t)sysconf(_SC_PHYS_PAGES) / 16 * (size_t)sysconf(_SC_PAGESIZE));
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

static struct tensor *new_block(size_t bytes, size_t *size)
{
    *size = bytes;
    if (bytes < KEEP_FROM) return hop_malloc(bytes);
    void *block = take_kept(bytes, size);
    if (!block && !(block = hop_try_malloc(bytes))) {
        memory_drop_kept();
        block = hop_malloc(bytes);
    }
    if (*size == bytes) memory_prefer_huge_pages(block, bytes);
    return block;
}

/* ---- tensors ---- */

static int64_t checked_count(enum dtype dtype, uint32_t rank, const int64_t *dims)
{
    if (rank > MAX_RANK)
        hop_throw(HOP_INVALID, "a tensor has %u dims, at most %d are possible", rank, MAX_RANK);
    /* Zero-sized tensors are fine, but the product of their other dims must fit as well: strides are made of
     * it. */
    int64_t count = 1, product = dtype_info[dtype].size;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0)
            hop_throw(HOP_INVALID, "dim %u of a tensor is negative: %lld", i, (long long)dims[i]);
        if (__builtin_mul_overflow(product, dims[i] ? dims[i] : 1, &product) || product > INT64_MAX / 4)
            hop_throw(HOP_INVALID, "a tensor's size overflows: the product of its dims passes 2^61 bytes");
        count *= dims[i];
    }
    return count;
}

static void fill_header(struct tensor *t, enum dtype dtype, uint32_t rank, const int64_t *dims, int64_t count)
{
    memset(t, 0, sizeof *t);
    t->refs = 1;
    t->dtype = (uint8_t)dtype;
    t->rank = (uint8_t)rank;
    t->count = count;
    if (rank) memcpy(t->dims, dims, rank * sizeof *dims);
}

struct tensor *tensor_new(enum dtype dtype, uint32_t rank, const int64_t *dims)
{
    int64_t count = checked_count(dtype, rank, dims);
    size_t size;
    struct tensor *t = new_block(sizeof *t + TENSOR_ALIGN + (size_t)count * dtype_info[dtype].size, &size);
    fill_header(t, dtype, rank, dims, count);
    t->block = size < KEEP_FROM ? 0 : size;
    t->data = (void *)(((uintptr_t)(t + 1) + TENSOR_ALIGN - 1) & ~(uintptr_t)(TENSOR_ALIGN - 1));
    return t;
}

struct tensor *tensor_borrow(enum dtype dtype, uint32_t rank, const int64_t *dims, void *data,
                             void (*release)(void *ctx), void *ctx)
{
    int64_t count = checked_count(dtype, rank, dims);
    struct tensor *t = hop_malloc(sizeof *t);
    fill_header(t, dtype, rank, dims, count);
    t->data = data;
    t->release = release;
    t->release_ctx = ctx;
    return t;
}

struct tensor *tensor_strided(enum dtype dtype, uint32_t rank, const int64_t *dims, const int64_t *strides,
                              void *data, void (*release)(void *ctx), void *ctx)
{
    int64_t count = checked_count(dtype, rank, dims), expected = 1;
    bool row_major = true;
    for (uint32_t i = rank; i-- > 0; expected *= dims[i])
        if (dims[i] != 1 && strides[i] != expected) row_major = false;
    if (row_major || !count) return tensor_borrow(dtype, rank, dims, data, release, ctx);
    struct tensor *t = hop_malloc(sizeof *t + rank * sizeof *strides);
    fill_header(t, dtype, rank, dims, count);
    t->data = data;
    t->release = release;
    t->release_ctx = ctx;
    t->strides = memcpy(t + 1, strides, rank * sizeof *strides);
    return t;
}

static const int64_t *strides_of(const struct tensor *t, int64_t *row_major)
{
    int64_t s = 1;
    if (t->strides) return t->strides;
    for (uint32_t i = t->rank; i-- > 0; s *= t->dims[i]) row_major[i] = s;
    return row_major;
}

void tensor_copy_elements(struct tensor *to, const struct tensor *from)
{
    size_t width = dtype_info[to->dtype].size;
    if (!to->count) return;
    if (!to->strides && !from->strides) {
        memmove(to->data, from->data, (size_t)to->count * width);
        return;
    }
    int64_t a[MAX_RANK], b[MAX_RANK], index[MAX_RANK] = { 0 };
    const int64_t *ts = strides_of(to, a), *fs = strides_of(from, b);
    char *t = to->data;
    const char *f = from->data;
    for (int64_t n = 0; n < to->count; n++) {
        memcpy(t, f, width);
        for (uint32_t i = to->rank; i-- > 0;) {
            t += ts[i] * (int64_t)width;
            f += fs[i] * (int64_t)width;
            if (++index[i] < to->dims[i]) break;
            t -= index[i] * ts[i] * (int64_t)width;
            f -= index[i] * fs[i] * (int64_t)width;
            index[i] = 0;
        }
    }
}

struct tensor *tensor_contiguous(struct tensor *t)
{
    if (!t->strides) return tensor_ref(t);
    struct tensor *copy = tensor_new((enum dtype)t->dtype, t->rank, t->dims);
    tensor_copy_elements(copy, t);
    return copy;
}

struct tensor *tensor_ref(struct tensor *t)
{
    __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

static void (*_Atomic watch)(const void *tensor);
void tensor_watch(void (*gone)(const void *tensor)) { atomic_store(&watch, gone); }

enum { BURIED_BYTES = 1 << 14 };

/* A handle's block stays for a while, if it is small: whoever uses it again finds that it has no references.
 */
static void end_tensor(struct tensor *t, bool handle)
{
    void (*gone)(const void *) = atomic_load_explicit(&watch, memory_order_relaxed);
    if (gone) gone(t);
    if (t->release) t->release(t->release_ctx);
    bool small = (size_t)t->count * dtype_info[t->dtype].size <= BURIED_BYTES;
    if (t->block && keep(t, t->block)) return;
    handle &&small ? hop_free_later(t) : hop_free(t);
}

void tensor_free(void *tensor)
{
    struct tensor *t = tensor;
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) return;
    end_tensor(t, false);
}

void tensor_free_handle(void *tensor)
{
    struct tensor *t = tensor;
    if (!t || __atomic_load_n(&t->refs, __ATOMIC_RELAXED) <= 0 ||
        __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL))
        return;
    end_tensor(t, true);
}
