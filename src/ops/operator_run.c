/* The function of an operator, called. One that does not take views with strides gets row-major copies of
 * them, which are copied back when it has done its work. */
#include "ops/operators.h"

static bool is_row_major(const hop_operator_array *a)
{
    int64_t step = 1;
    for (int32_t d = a->rank; a->strides && d-- > 0;) {
        if (a->dims[d] != 1 && a->strides[d] != step) return false;
        step *= a->dims[d];
    }
    return true;
}

static int64_t count_of(const hop_operator_array *a)
{
    int64_t n = 1;
    for (int32_t d = 0; d < a->rank; d++) n *= a->dims[d];
    return n;
}

/* Between a view and its elements in row-major order. */
static void move_elements(const hop_operator_array *view, char *packed, bool out)
{
    size_t width = dtype_info[view->dtype].size;
    int64_t index[MAX_RANK] = { 0 }, n = count_of(view), at = 0;
    for (int64_t k = 0; k < n; k++) {
        char *there = (char *)view->data + at * (int64_t)width;
        if (out) memcpy(there, packed, width);
        else memcpy(packed, there, width);
        packed += width;
        for (int32_t d = view->rank; d-- > 0;) {
            at += view->strides[d];
            if (++index[d] < view->dims[d]) break;
            at -= view->strides[d] * view->dims[d];
            index[d] = 0;
        }
    }
}

struct packed { /* one block: arrays, pointers, elements */
    hop_operator_array *arrays;
    void **data;
};

static size_t packed_bytes(const hop_operator_array *a)
{
    size_t bytes = (size_t)count_of(a) * dtype_info[a->dtype].size;
    return (bytes + 63) / 64 * 64;
}

static int run_packed(const struct registered *of, hop_operator_call *call, void *const *data,
                      const int64_t *sizes)
{
    const hop_operator_array *given = call->arrays;
    size_t n = (size_t)call->n_arrays, head = n * (sizeof *given + sizeof *data) + 64, bytes = head;
    for (size_t k = 0; k < n; k++)
        if (!is_row_major(&given[k])) bytes += packed_bytes(&given[k]);
    char *block = hop_try_malloc(bytes);
    if (!block) {
        snprintf(call->message, call->room, "out of memory: %zu bytes for row-major copies of views", bytes);
        return HOP_NOMEM;
    }
    struct packed p = { .arrays = (hop_operator_array *)block, .data = (void **)(block + n * sizeof *given) };
    char *at = (char *)(((uintptr_t)block + head) & ~(uintptr_t)63);
    for (size_t k = 0; k < n; k++) {
        p.arrays[k] = given[k];
        p.data[k] = data[k];
        if (is_row_major(&given[k])) continue;
        p.arrays[k].data = p.data[k] = at;
        p.arrays[k].strides = NULL;
        move_elements(&given[k], at, false);
        at += packed_bytes(&given[k]);
    }
    call->arrays = p.arrays;
    int status = of->run(call, p.data, sizes);
    call->arrays = given;
    for (size_t k = 0; k < n && !status; k++)
        if (!is_row_major(&given[k])) move_elements(&given[k], p.arrays[k].data, true);
    hop_free(block);
    return status;
}

int operator_run(const struct registered *of, hop_operator_call *call, void *const *data,
                 const int64_t *sizes)
{
    bool plain = of->strided;
    for (int32_t k = 0; k < call->n_arrays && !plain; k++) {
        if (is_row_major(&call->arrays[k])) continue;
        return run_packed(of, call, data, sizes);
    }
    return of->run(call, data, sizes);
}
