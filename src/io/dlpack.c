/* DLPack: handing tensors to other array libraries of the process and taking theirs, without copying where
 * both sides mean the same bytes. */
#include "io/dlpack.h"

#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(struct dlpack_tensor) == 48 && sizeof(struct DLManagedTensor) == 64 &&
                   sizeof(struct DLManagedTensorVersioned) == 80,
               "the layout is an ABI");
_Static_assert(offsetof(struct dlpack_tensor, dims) == 24 &&
                   offsetof(struct DLManagedTensorVersioned, tensor) == 32,
               "the layout is an ABI");
#endif

/* ---- export ---- */

/* One block: what the consumer sees, and the shape and strides that it points to. */
struct exported {
    union {
        struct DLManagedTensor plain;
        struct DLManagedTensorVersioned versioned;
    } head;
    int64_t dims[MAX_RANK], strides[MAX_RANK];
    void (*release)(void *ctx);
    void *ctx;
};

static void end_export(struct exported *e)
{
    e->release(e->ctx);
    hop_free(e);
}

static void delete_plain(struct DLManagedTensor *m) { end_export(m->manager); }
static void delete_versioned(struct DLManagedTensorVersioned *m) { end_export(m->manager); }

static struct exported *describe(const struct dlpack_array *a, void (*release)(void *ctx), void *ctx,
                                 struct dlpack_tensor *out)
{
    const struct io_dtype *dtype = io_dtype_of(a->dtype);
    struct exported *e = hop_calloc(1, sizeof *e);
    memcpy(e->dims, a->dims, sizeof e->dims);
    memcpy(e->strides, a->strides, sizeof e->strides);
    e->release = release;
    e->ctx = ctx;
    *out = (struct dlpack_tensor){ .data = a->data,
                                   .device = { DLPACK_CPU, 0 },
                                   .rank = (int32_t)a->rank,
                                   .dtype = { dtype->dl_code, dtype->dl_bits, 1 },
                                   .dims = e->dims,
                                   .strides = e->strides };
    return e;
}

struct DLManagedTensor *dlpack_describe(const struct dlpack_array *a, void (*release)(void *ctx), void *ctx)
{
    struct dlpack_tensor d;
    struct exported *e = describe(a, release, ctx, &d);
    e->head.plain = (struct DLManagedTensor){ d, e, delete_plain };
    return &e->head.plain;
}

struct DLManagedTensorVersioned *dlpack_describe_versioned(const struct dlpack_array *a,
                                                           void (*release)(void *ctx), void *ctx)
{
    struct dlpack_tensor d;
    struct exported *e = describe(a, release, ctx, &d);
    e->head.versioned = (struct DLManagedTensorVersioned){
        { DLPACK_MAJOR, DLPACK_MINOR }, e, delete_versioned, 0, d
    };
    return &e->head.versioned;
}

static void dense_strides(struct dlpack_array *a)
{
    int64_t stride = 1;
    for (uint32_t i = a->rank; i-- > 0; stride *= HOP_MAX(a->dims[i], 1)) a->strides[i] = stride;
}

static struct dlpack_array array_of(const struct tensor *t)
{
    if (t->parts) hop_throw(HOP_INVALID, "a distributed array cannot be lent out: collect it first");
    struct dlpack_array a = { .dtype = (enum dtype)t->dtype,
                              .rank = t->rank,
                              .count = t->count,
                              .data = t->data,
                              .dense = !t->strides,
                              .shared = true };
    memcpy(a.dims, t->dims, t->rank * sizeof *t->dims);
    if (t->strides) memcpy(a.strides, t->strides, t->rank * sizeof *t->strides);
    else dense_strides(&a);
    return a;
}

static void end_lending(void *tensor)
{
    tensor_take_back(tensor);
    tensor_free(tensor);
}

/* The reference is counted once nothing can fail any more. */
struct DLManagedTensor *dlpack_export(struct tensor *t)
{
    struct dlpack_array a = array_of(t);
    struct DLManagedTensor *m = dlpack_describe(&a, end_lending, t);
    tensor_lend(tensor_ref(t));
    return m;
}

struct DLManagedTensorVersioned *dlpack_export_versioned(struct tensor *t)
{
    struct dlpack_array a = array_of(t);
    struct DLManagedTensorVersioned *m = dlpack_describe_versioned(&a, end_lending, t);
    tensor_lend(tensor_ref(t));
    return m;
}

/* ---- import ---- */

static const char *device_name(int32_t type)
{
    static const struct {
        int32_t type;
        const char *name;
    } devices[] = {
        { 1, "CPU" },     { 2, "CUDA" },    { 3, "CUDA host" }, { 4, "OpenCL" },     { 7, "Vulkan" },
        { 8, "Metal" },   { 9, "VPI" },     { 10, "ROCm" },     { 11, "ROCm host" }, { 13, "CUDA managed" },
        { 14, "oneAPI" }, { 15, "WebGPU" }, { 16, "Hexagon" },
    };
    for (size_t i = 0; i < HOP_COUNT(devices); i++)
        if (devices[i].type == type) return devices[i].name;
    return "another device";
}

static const struct io_where here = { "DLPack tensor", NULL };

/* Elements stay within 2^61 bytes of the first, so that no address overflows on the way. */
static void check_strides(const struct dlpack_array *a)
{
    int64_t reach = 0, step;
    for (uint32_t i = 0; a->count && i < a->rank; i++) {
        bool far = __builtin_mul_overflow(a->dims[i] - 1, a->strides[i], &step) || step == INT64_MIN;
        far = far || __builtin_add_overflow(reach, llabs(step), &reach) || reach > INT64_MAX / 32;
        if (far)
            io_fail(HOP_INVALID, &here,
                    "strides: expected elements within 2^61 bytes, found stride %lld of dim %u",
                    (long long)a->strides[i], i);
    }
}

static void check_bools(const struct dlpack_array *a)
{
    if (dtype_info[a->dtype].kind != KIND_BOOL) return;
    if (a->dense) io_check_bools(&here, a->dtype, a->data, a->count);
    else tensor_free(dlpack_copy(a));
}

static struct dlpack_array look(const struct dlpack_tensor *d, bool read_only)
{
    struct dlpack_array a = { .rank = (uint32_t)d->rank };
    if (d->device.type != DLPACK_CPU)
        io_fail(HOP_INVALID, &here,
                "device: expected CPU (1), found %s (%d); copy the tensor to the CPU first",
                device_name(d->device.type), d->device.type);
    if (d->dtype.lanes != 1 || !io_dtype_from_dlpack(d->dtype.code, d->dtype.bits, &a.dtype))
        io_fail(HOP_INVALID, &here,
                "dtype: expected one that hop has (bool, integers, floats; 1 lane), found code %u, %u bits, "
                "%u lanes",
                d->dtype.code, d->dtype.bits, d->dtype.lanes);
    if (d->rank < 0 || d->rank > MAX_RANK)
        io_fail(HOP_INVALID, &here, "ndim: expected 0 to %d, found %d", MAX_RANK, d->rank);
    if (d->rank && !d->dims) io_fail(HOP_INVALID, &here, "shape: expected %d sizes, found NULL", d->rank);
    a.count = io_count(&here, a.dtype, a.rank, d->dims);
    if (a.count && !d->data)
        io_fail(HOP_INVALID, &here, "data: expected %lld elements, found NULL", (long long)a.count);
    for (uint32_t i = 0; i < a.rank; i++) a.dims[i] = d->dims[i];
    dense_strides(&a);
    a.dense = true;
    for (uint32_t i = 0; d->strides && a.count && i < a.rank; i++) {
        if (a.dims[i] != 1 && a.strides[i] != d->strides[i]) a.dense = false;
    }
    if (!a.dense) memcpy(a.strides, d->strides, a.rank * sizeof *d->strides);
    check_strides(&a);
    a.data = d->data ? (char *)d->data + d->byte_offset : NULL;
    a.shared = !read_only && a.data && (uintptr_t)a.data % dtype_info[a.dtype].size == 0;
    check_bools(&a);
    return a;
}

struct dlpack_array dlpack_look(const struct DLManagedTensor *m) { return look(&m->tensor, false); }

struct dlpack_array dlpack_look_versioned(const struct DLManagedTensorVersioned *m)
{
    if (m->version.major != DLPACK_MAJOR)
        io_fail(HOP_INVALID, &here, "version: expected %d.x, found %u.%u", DLPACK_MAJOR, m->version.major,
                m->version.minor);
    return look(&m->tensor, m->flags & DLPACK_READ_ONLY);
}

struct tensor *dlpack_copy(const struct dlpack_array *a)
{
    struct tensor *t = tensor_new(a->dtype, a->rank, a->dims);
    hop_cleanup_push(tensor_free, t);
    if (a->count) io_gather(t->data, a->data, dtype_info[a->dtype].size, a->rank, a->dims, a->strides);
    io_check_bools(&here, a->dtype, t->data, a->count);
    hop_cleanup_pop(t);
    return t;
}

void dlpack_drop(void *managed)
{
    struct DLManagedTensor *m = managed;
    if (m->deleter) m->deleter(m);
}

void dlpack_drop_versioned(void *managed)
{
    struct DLManagedTensorVersioned *m = managed;
    if (m->deleter) m->deleter(m);
}

static struct tensor *import(const struct dlpack_array *a, void (*drop)(void *managed), void *managed)
{
    if (a->shared) return tensor_strided(a->dtype, a->rank, a->dims, a->strides, a->data, drop, managed);
    struct tensor *t = dlpack_copy(a);
    drop(managed);
    return t;
}

struct tensor *dlpack_import(struct DLManagedTensor *m)
{
    struct dlpack_array a = dlpack_look(m);
    return import(&a, dlpack_drop, m);
}

struct tensor *dlpack_import_versioned(struct DLManagedTensorVersioned *m)
{
    struct dlpack_array a = dlpack_look_versioned(m);
    return import(&a, dlpack_drop_versioned, m);
}
