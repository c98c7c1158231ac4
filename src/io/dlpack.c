/* DLPack: handing tensors to other array libraries of the process and taking theirs, without copying where both sides mean the same bytes. */
#include "io/dlpack.h"

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(struct dlpack_tensor) == 48 && sizeof(struct DLManagedTensor) == 64 && sizeof(struct DLManagedTensorVersioned) == 80, "the layout is an ABI");
_Static_assert(offsetof(struct dlpack_tensor, dims) == 24 && offsetof(struct DLManagedTensorVersioned, tensor) == 32, "the layout is an ABI");
#endif

/* ---- export ---- */

/* One block: what the consumer sees, and the shape and strides that it points to. */
struct exported {
    union {
        struct DLManagedTensor plain;
        struct DLManagedTensorVersioned versioned;
    } head; /* first: the consumer's pointer is the block's */
    struct tensor *t;
    int64_t dims[MAX_RANK], strides[MAX_RANK];
};

static void release(struct exported *e)
{
    tensor_free(e->t);
    hop_free(e);
}

static void delete_plain(struct DLManagedTensor *m) { release(m->manager); }
static void delete_versioned(struct DLManagedTensorVersioned *m) { release(m->manager); }

static struct exported *describe(struct tensor *t, struct dlpack_tensor *out)
{
    const struct io_dtype *dtype = io_dtype_of((enum dtype)t->dtype);
    struct exported *e = hop_calloc(1, sizeof *e);
    *out = (struct dlpack_tensor){ .data = t->data, .device = { DLPACK_CPU, 0 }, .rank = t->rank, .dtype = { dtype->dl_code, dtype->dl_bits, 1 }, .dims = e->dims, .strides = e->strides };
    int64_t stride = 1;
    for (uint32_t i = t->rank; i-- > 0; stride *= HOP_MAX(t->dims[i], 1)) {
        e->dims[i] = t->dims[i];
        e->strides[i] = stride;
    }
    e->t = tensor_ref(t);
    return e;
}

struct DLManagedTensor *dlpack_export(struct tensor *t)
{
    struct dlpack_tensor d;
    struct exported *e = describe(t, &d);
    e->head.plain = (struct DLManagedTensor){ d, e, delete_plain };
    return &e->head.plain;
}

struct DLManagedTensorVersioned *dlpack_export_versioned(struct tensor *t)
{
    struct dlpack_tensor d;
    struct exported *e = describe(t, &d);
    e->head.versioned = (struct DLManagedTensorVersioned){ { DLPACK_MAJOR, DLPACK_MINOR }, e, delete_versioned, 0, d };
    return &e->head.versioned;
}

/* ---- import ---- */

static const char *device_name(int32_t type)
{
    static const struct { int32_t type; const char *name; } devices[] = {
        { 1, "CPU" }, { 2, "CUDA" }, { 3, "CUDA host" }, { 4, "OpenCL" }, { 7, "Vulkan" }, { 8, "Metal" }, { 9, "VPI" }, { 10, "ROCm" }, { 11, "ROCm host" },
        { 13, "CUDA managed" }, { 14, "oneAPI" }, { 15, "WebGPU" }, { 16, "Hexagon" },
    };
    for (size_t i = 0; i < HOP_COUNT(devices); i++)
        if (devices[i].type == type) return devices[i].name;
    return "another device";
}

static const struct io_where here = { "DLPack tensor", NULL };

/* Everything that can be said without looking at the elements. */
static enum dtype check(const struct dlpack_tensor *d, int64_t *count)
{
    enum dtype dtype;
    if (d->device.type != DLPACK_CPU)
        io_fail(HOP_INVALID, &here, "device: expected CPU (1), found %s (%d); copy the tensor to the CPU first", device_name(d->device.type), d->device.type);
    if (d->dtype.lanes != 1 || !io_dtype_from_dlpack(d->dtype.code, d->dtype.bits, &dtype))
        io_fail(HOP_INVALID, &here, "dtype: expected one that hop has (bool, integers, floats; 1 lane), found code %u, %u bits, %u lanes", d->dtype.code, d->dtype.bits, d->dtype.lanes);
    if (d->rank < 0 || d->rank > MAX_RANK) io_fail(HOP_INVALID, &here, "ndim: expected 0 to %d, found %d", MAX_RANK, d->rank);
    if (d->rank && !d->dims) io_fail(HOP_INVALID, &here, "shape: expected %d sizes, found NULL", d->rank);
    *count = io_count(&here, dtype, (uint32_t)d->rank, d->dims);
    if (*count && !d->data) io_fail(HOP_INVALID, &here, "data: expected %lld elements, found NULL", (long long)*count);
    /* elements stay within 2^61 bytes of the first */
    int64_t reach = 0;
    for (int32_t i = 0; d->strides && *count && i < d->rank; i++) {
        int64_t step;
        if (__builtin_mul_overflow(d->dims[i] - 1, d->strides[i], &step) || step == INT64_MIN || __builtin_add_overflow(reach, llabs(step), &reach) || reach > INT64_MAX / 32)
            io_fail(HOP_INVALID, &here, "strides: expected elements within 2^61 bytes, found stride %lld of dim %d", (long long)d->strides[i], i);
    }
    return dtype;
}

static bool contiguous(const struct dlpack_tensor *d, int64_t count)
{
    int64_t stride = 1;
    for (int32_t i = d->rank; d->strides && count && i-- > 0; stride *= d->dims[i])
        if (d->dims[i] != 1 && d->strides[i] != stride) return false;
    return true;
}

/* The result borrows (*shared) or is a copy. */
static struct tensor *import(const struct dlpack_tensor *d, bool read_only, void (*release_shared)(void *), void *managed, bool *shared)
{
    int64_t count;
    enum dtype dtype = check(d, &count);
    size_t size = dtype_info[dtype].size;
    uint32_t rank = (uint32_t)d->rank;
    char *data = d->data ? (char *)d->data + d->byte_offset : NULL;
    bool dense = contiguous(d, count);
    *shared = dense && !read_only && data && (uintptr_t)data % size == 0;
    if (*shared) {
        io_check_bools(&here, dtype, data, count);
        return tensor_borrow(dtype, rank, d->dims, data, release_shared, managed);
    }
    struct tensor *t = tensor_new(dtype, rank, d->dims);
    hop_cleanup_push(tensor_free, t);
    if (dense && count) memcpy(t->data, data, (size_t)count * size);
    else if (count) io_gather(t->data, data, size, rank, d->dims, d->strides);
    io_check_bools(&here, dtype, t->data, count);
    hop_cleanup_pop(t);
    return t;
}

static void drop_plain(void *managed)
{
    struct DLManagedTensor *m = managed;
    if (m->deleter) m->deleter(m);
}

static void drop_versioned(void *managed)
{
    struct DLManagedTensorVersioned *m = managed;
    if (m->deleter) m->deleter(m);
}

struct tensor *dlpack_import(struct DLManagedTensor *m)
{
    bool shared;
    struct tensor *t = import(&m->tensor, false, drop_plain, m, &shared);
    if (!shared) drop_plain(m);
    return t;
}

struct tensor *dlpack_import_versioned(struct DLManagedTensorVersioned *m)
{
    bool shared;
    if (m->version.major != DLPACK_MAJOR) io_fail(HOP_INVALID, &here, "version: expected %d.x, found %u.%u", DLPACK_MAJOR, m->version.major, m->version.minor);
    struct tensor *t = import(&m->tensor, m->flags & DLPACK_READ_ONLY, drop_versioned, m, &shared);
    if (!shared) drop_versioned(m);
    return t;
}
