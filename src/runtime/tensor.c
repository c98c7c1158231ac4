/* Tensors: contiguous arrays with a reference count. Header and data are one block; borrowed data belongs to somebody else, who is told
 * when the last reference goes. Sizes come in as dims, sizes that overflow are errors. */
#include "ir/table.h"

enum { TENSOR_ALIGN = 64 };

static int64_t checked_count(enum dtype dtype, uint32_t rank, const int64_t *dims)
{
    if (rank > MAX_RANK) hop_throw(HOP_INVALID, "a tensor has %u dims, at most %d are possible", rank, MAX_RANK);
    /* Zero-sized tensors are fine, but the product of their other dims must fit as well: strides are made of it. */
    int64_t count = 1, product = dtype_info[dtype].size;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0) hop_throw(HOP_INVALID, "dim %u of a tensor is negative: %lld", i, (long long)dims[i]);
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
    struct tensor *t = hop_malloc(sizeof *t + TENSOR_ALIGN + (size_t)count * dtype_info[dtype].size);
    fill_header(t, dtype, rank, dims, count);
    t->data = (void *)(((uintptr_t)(t + 1) + TENSOR_ALIGN - 1) & ~(uintptr_t)(TENSOR_ALIGN - 1));
    return t;
}

struct tensor *tensor_borrow(enum dtype dtype, uint32_t rank, const int64_t *dims, void *data, void (*release)(void *ctx), void *ctx)
{
    int64_t count = checked_count(dtype, rank, dims);
    struct tensor *t = hop_malloc(sizeof *t);
    fill_header(t, dtype, rank, dims, count);
    t->data = data;
    t->release = release;
    t->release_ctx = ctx;
    return t;
}

struct tensor *tensor_ref(struct tensor *t)
{
    __atomic_fetch_add(&t->refs, 1, __ATOMIC_RELAXED);
    return t;
}

void tensor_free(void *tensor)
{
    struct tensor *t = tensor;
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (t->release) t->release(t->release_ctx);
    hop_free(t);
}
