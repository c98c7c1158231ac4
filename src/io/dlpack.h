/* The memory layout of DLPack 1.0, by which array libraries of one process hand each other tensors, and hop's
 * side of it. The structures carry the names that the convention gives them, so that a pointer from any of
 * those libraries is a pointer to these. */
#ifndef HOP_DLPACK_H
#define HOP_DLPACK_H

#include "io/io.h"

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0, DLPACK_CPU = 1 };
enum dlpack_flags { DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2 };

struct dlpack_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t rank;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *dims;
    int64_t *strides;     /* in elements; NULL: contiguous */
    uint64_t byte_offset; /* of the first element */
};
struct DLManagedTensor {
    struct dlpack_tensor tensor;
    void *manager;
    void (*deleter)(struct DLManagedTensor *self); /* may be NULL */
};
struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
    uint64_t flags;
    struct dlpack_tensor tensor;
};

/* An array as hop sees it. */
struct dlpack_array {
    enum dtype dtype;
    uint32_t rank;
    int64_t dims[MAX_RANK], strides[MAX_RANK]; /* in elements */
    int64_t count;
    void *data;  /* the element with all indices 0 */
    bool dense;  /* row-major without gaps */
    bool shared; /* its memory can be used as it is: aligned, and it may be written to */
};

/* Export. release(ctx) is called from the deleter, from any thread; not when this throws. */
struct DLManagedTensor *dlpack_describe(const struct dlpack_array *a, void (*release)(void *ctx), void *ctx);
struct DLManagedTensorVersioned *dlpack_describe_versioned(const struct dlpack_array *a,
                                                           void (*release)(void *ctx), void *ctx);
/* The tensor lives until the deleter is called; its memory is shared. */
struct DLManagedTensor *dlpack_export(struct tensor *t);
struct DLManagedTensorVersioned *dlpack_export_versioned(struct tensor *t);

/* Import. Looks at an array from outside and throws when hop cannot have it: another device, dtype, an
 * impossible shape, bools that are none. */
struct dlpack_array dlpack_look(const struct DLManagedTensor *m);
struct dlpack_array dlpack_look_versioned(const struct DLManagedTensorVersioned *m);
struct tensor *dlpack_copy(const struct dlpack_array *a);
void dlpack_drop(void *managed); /* calls the deleter of a struct DLManagedTensor; signature of a release */
void dlpack_drop_versioned(void *managed); /* of a struct DLManagedTensorVersioned */
/* On success hop owns the managed tensor and calls its deleter exactly once: when the last reference to the
 * result goes (the memory is used as it is, strides and all: tensor_contiguous for who needs rows), or before
 * it returns (the memory is copied). On a throw it still belongs to the caller. */
struct tensor *dlpack_import(struct DLManagedTensor *m);
struct tensor *dlpack_import_versioned(struct DLManagedTensorVersioned *m);

#endif
