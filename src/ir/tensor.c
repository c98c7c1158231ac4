/* Tensors: contiguous arrays with a reference count. Header and data are one block; borrowed data belongs to
 * somebody else, who is told when the last reference goes. Sizes come in as dims, sizes that overflow are
 * errors. */
#include "ir/tensor.h"
#include "base/memory.h"

#include <stdatomic.h>

enum { TENSOR_ALIGN = 64 };

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
    size_t block;
    struct tensor *t = memory_take(sizeof *t + TENSOR_ALIGN + (size_t)count * dtype_info[dtype].size, &block);
    fill_header(t, dtype, rank, dims, count);
    t->own = true;
    t->block = block;
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

struct tensor *tensor_object(const char *kind, void *pointer, void (*retain)(void *pointer),
                             void (*release)(void *pointer))
{
    size_t length = strlen(kind) + 1;
    struct tensor *t = hop_malloc(sizeof *t + length);
    fill_header(t, DT_OBJECT, 0, NULL, 1);
    t->kind = memcpy(t + 1, kind, length);
    t->handle = (uint64_t)(uintptr_t)pointer;
    t->data = &t->handle;
    t->release = release;
    t->release_ctx = pointer;
    if (retain) retain(pointer);
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

/* ---- what was kept of a tensor ---- */

static struct tensor *owner_of(struct tensor *t)
{
    while (t->release == tensor_free) t = t->release_ctx;
    return t;
}

uint64_t tensor_stamp(struct tensor *t)
{
    static _Atomic uint64_t last;
    struct tensor *o = owner_of(t);
    if (!o->own || __atomic_load_n(&o->lent, __ATOMIC_RELAXED)) return 0;
    uint64_t stamp = __atomic_load_n(&o->stamp, __ATOMIC_RELAXED);
    if (stamp) return stamp;
    uint64_t fresh = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    bool first = __atomic_compare_exchange_n(&o->stamp, &stamp, fresh, false, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED);
    return first ? fresh : stamp;
}

void tensor_written(struct tensor *t)
{
    if (!t) return;
    struct tensor *o = owner_of(t);
    if (__atomic_load_n(&o->stamp, __ATOMIC_RELAXED)) __atomic_store_n(&o->stamp, 0, __ATOMIC_RELAXED);
}

void tensor_lend(struct tensor *t) { __atomic_fetch_add(&owner_of(t)->lent, 1, __ATOMIC_RELAXED); }

void tensor_take_back(struct tensor *t)
{
    tensor_written(t);
    __atomic_fetch_sub(&owner_of(t)->lent, 1, __ATOMIC_RELAXED);
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
    if (t->block && memory_keep(t, t->block)) return;
    if (handle && small) hop_free_later(t);
    else hop_free(t);
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
