/* The memory layout of DLPack 1.0, by which array libraries of one process hand each other tensors, and hop's side of it. The structures carry the names that
 * the convention gives them, so that a pointer from any of those libraries is a pointer to these. */
#ifndef HOP_DLPACK_H
#define HOP_DLPACK_H

#include "io/io.h"

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0, DLPACK_CPU = 1 };
enum dlpack_flags { DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2 };

struct dlpack_tensor {
    void *data;
    struct { int32_t type, id; } device;
    int32_t rank;
    struct { uint8_t code, bits; uint16_t lanes; } dtype;
    int64_t *dims;
    int64_t *strides; /* in elements; NULL: contiguous */
    uint64_t byte_offset; /* of the first element */
};
struct DLManagedTensor {
    struct dlpack_tensor tensor;
    void *manager;
    void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};
struct DLManagedTensorVersioned {
    struct { uint32_t major, minor; } version;
    void *manager;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    struct dlpack_tensor tensor;
};

/* Export: the tensor lives until the deleter is called, from any thread. Its memory is shared. */
struct DLManagedTensor *dlpack_export(struct tensor *t);
struct DLManagedTensorVersioned *dlpack_export_versioned(struct tensor *t);
/* Import: on success hop owns the managed tensor and calls its deleter exactly once: when the last reference to the result goes (memory shared), or
 * before it returns (memory copied: strides, alignment, or read-only). On a throw it still belongs to the caller. */
struct tensor *dlpack_import(struct DLManagedTensor *m);
struct tensor *dlpack_import_versioned(struct DLManagedTensorVersioned *m);

#endif
