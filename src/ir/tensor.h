/* Tensors: what constants, arguments and results are. A reference count, a dtype, sizes, and row-major data.
 */
#ifndef HOP_TENSOR_H
#define HOP_TENSOR_H

#include "ir/ir.h"

struct tensor {
    int32_t refs;
    uint8_t dtype, rank;
    bool own; /* nobody writes to its memory but through tensors of it */
    int64_t dims[MAX_RANK];
    int64_t count;              /* elements */
    void *data;                 /* 64-byte aligned in the same block, or borrowed */
    void (*release)(void *ctx); /* borrowed data: called when the last reference goes; may be NULL */
    void *release_ctx;
    size_t block; /* bytes of the block when it is large enough to be kept for reuse, else 0 */
    /* In elements, of a tensor at the API's edge that is not row-major; NULL everywhere else. */
    const int64_t *strides;
    /* What tensor_stamp says of the memory that it owns, 0: nobody has asked since the last write; and to how
     * many others that memory is lent, who may write to it unseen. */
    uint64_t stamp;
    int32_t lent;
    /* An object (DT_OBJECT): its kind, in the same block, and what `data` points to, the host's pointer.
     * `release` and `release_ctx` are the host's. */
    const char *kind;
    uint64_t handle;
    /* A distributed array (dist/parts.h): `data` is NULL, dims and count are those of the whole array. NULL:
     * it is none. */
    struct parts *parts;
};
/* Not cleared; throws when it is too large. */
struct tensor *tensor_new(enum dtype dtype, uint32_t rank, const int64_t *dims);
struct tensor *tensor_borrow(enum dtype dtype, uint32_t rank, const int64_t *dims, void *data,
                             void (*release)(void *ctx), void *ctx);
/* Any strides, in elements; data is the element with all indices 0. Only the API's edge handles these. */
struct tensor *tensor_strided(enum dtype dtype, uint32_t rank, const int64_t *dims, const int64_t *strides,
                              void *data, void (*release)(void *ctx), void *ctx);
/* Something of the host's, of a kind; retain(pointer) is called here, release(pointer) when the last
 * reference goes; both may be NULL. */
struct tensor *tensor_object(const char *kind, void *pointer, void (*retain)(void *pointer),
                             void (*release)(void *pointer));
static inline bool tensor_is_object(const struct tensor *t) { return t->dtype == DT_OBJECT; }
struct tensor *tensor_contiguous(struct tensor *t); /* a new reference to it, or a row-major copy */
/* Same dtype and dims, any strides. */
void tensor_copy_elements(struct tensor *to, const struct tensor *from);
struct tensor *tensor_ref(struct tensor *t);
void tensor_free(void *t); /* drops one reference; accepts NULL */
/* The same for handles of the API, which may be used after they were freed: in debug builds that is noticed.
 */
void tensor_free_handle(void *t);
/* A number for the elements as they are now, which no other tensor of the process and no other content of
 * this memory ever has: a write takes it away. A view of a tensor has that of the tensor. 0: the memory is
 * borrowed or lent, and somebody may write to it unseen. */
uint64_t tensor_stamp(struct tensor *t);
void tensor_written(struct tensor *t); /* its elements changed, or may have; accepts NULL */
/* Others may write to its memory from now on, until it is taken back. */
void tensor_lend(struct tensor *t);
void tensor_take_back(struct tensor *t);
void tensor_watch(void (*gone)(const void *tensor)); /* called when the last reference goes; NULL: nobody */

#endif
