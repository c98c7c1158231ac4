/* What native code sees of the runtime: a table of functions and the call's state, passed as its first
 * argument, so that objects contain no addresses. The native entry is `int32_t entry(struct hop_rt *rt, void
 * **buffers, int64_t *symbols)`; 0 is success, else a hop_status. */
#ifndef HOP_RT_H
#define HOP_RT_H

#include <stdint.h>

/* The dtypes of a product's result and operands in one number. */
#define HOP_RT_DTYPES(c, a, b) ((int32_t)((c) | (a) << 8 | (b) << 16))

/* How the right operand of a product lies. PANELS: as `pack` leaves it, for this processor. */
enum hop_rt_form { HOP_RT_AS_IT_IS, HOP_RT_TRANSPOSED, HOP_RT_PANELS };
enum { HOP_RT_PANEL_COLUMNS = 64 }; /* panels are as large as if their columns were a multiple of this */

/* C = op(A) op(B), or C += op(A) op(B), of row-major matrices: `batch` of each, so many elements apart; 0
 * apart: one that all of them share. */
struct hop_rt_gemm {
    int32_t dtypes;             /* HOP_RT_DTYPES of C, A and B */
    int32_t ta, tb, accumulate; /* tb: enum hop_rt_form; ldb says nothing of panels */
    int64_t m, n, k, lda, ldb, ldc;
    int64_t batch, a_apart, b_apart, c_apart;
    const void *a, *b;
    void *c;
};

/* A convolution: sizes, and steps from one element to the next of each array; elements and taps meet as
 * ops/convkit.h says; a step of w below 0: tap 0 is the last one of that dim. */
enum { HOP_RT_CONV_SPACES = 4 }; /* spatial dims at most */
struct hop_rt_space {
    int64_t x_size, taps, results, stride, x_dilation, w_dilation, low, x_step, w_step, y_step;
};
struct hop_rt_conv_numbers {
    int64_t batch, groups, out, channels;
    int64_t x_batch, x_group, x_channel, w_group, w_out, w_channel, y_batch, y_group, y_out;
    struct hop_rt_space space[];
};
struct hop_rt_conv {
    int32_t dtypes; /* HOP_RT_DTYPES of y, x and w */
    int32_t n_spatial;
    const void *x, *w;
    void *y;
    const struct hop_rt_conv_numbers *numbers;
};

/* What a rank has to do with an exchange among the ranks along one axis of a mesh. Sizes are in elements, and
 * mean what dist/dist.h says; parts of all ranks are equally large. */
enum hop_rt_exchange_kind {
    HOP_RT_ALL_REDUCE,
    HOP_RT_ALL_GATHER,
    HOP_RT_REDUCE_SCATTER,
    HOP_RT_ALL_TO_ALL,
    HOP_RT_PERMUTE,
    HOP_RT_BROADCAST,
    HOP_RT_INDEX /* out: the rank's number along the axis, an i64; nobody is waited for */
};
enum { HOP_RT_MESH_AXES = 8 };
struct hop_rt_exchange_numbers {
    int64_t kind, op; /* enum hop_rt_exchange_kind, enum reduction */
    int64_t scalar;   /* all_reduce: see dist.h */
    int64_t root;     /* broadcast */
    int64_t rows, size;
    int64_t n_axes, axis, sizes[HOP_RT_MESH_AXES]; /* of the mesh; the number of the axis among them */
    int64_t n_pairs;                               /* permute: from, to */
    int64_t pairs[];
};
struct hop_rt_exchange {
    int32_t dtype, number; /* number: of the exchange in the program, by which it is waited for */
    const void *in;
    void *out;
    const struct hop_rt_exchange_numbers *numbers;
};

struct hop_rt_operand {
    void *data;
    int32_t dtype, rank; /* dtype -1: nothing is given */
    int64_t *dims;
    const int64_t *strides; /* in elements; NULL: row-major */
};
/* A call of an operator. An array whose size the operator finds has no data, and -1 for dims that are not
 * known; behind its dims stand its buffer and, per dim, the number of the size that is found, -1: known. */
struct hop_rt_call {
    int32_t site, lanes, n, n_found;
    struct hop_rt_operand *operands;
    const int64_t *sizes; /* the variables of the signature */
    int64_t *found;       /* filled in */
};
struct hop_rt {
    const volatile int32_t
        *cancel; /* polled on back edges; non-zero: leave with HOP_CANCELLED, unless asked() says otherwise */
    int32_t (*asked)(struct hop_rt *rt); /* NULL: leave */
    void (*gemm)(struct hop_rt *rt, const struct hop_rt_gemm *g);
    /* Puts op(B), k by n, into panels at C; all but b, c, dtypes, tb, n, k and ldb says nothing. */
    void (*pack)(struct hop_rt *rt, const struct hop_rt_gemm *g);
    void (*conv)(struct hop_rt *rt, const struct hop_rt_conv *c);
    /* Makes buffers[buffer] hold at least `bytes`, contents kept; returns the pointer or NULL: leave with
     * HOP_NOMEM. */
    void *(*reserve)(struct hop_rt *rt, int32_t buffer, int64_t bytes);
    /* Notes a failed check; native code then returns HOP_CHECK. `site` indexes the executable's table of
     * sites. */
    void (*check)(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *operands);
    /* Looks whether the site's operator made a NaN or an infinity. Non-zero: it did, which is noted; native
     * code leaves with HOP_CHECK. */
    int32_t (*finite)(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *operands);
    void (*print)(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *operands);
    /* Calls the operator or the callback that the site names. Non-zero: it failed, which is noted; native
     * code leaves with HOP_INVALID. */
    int32_t (*call)(struct hop_rt *rt, struct hop_rt_call *call);
    /* Begins an exchange with other ranks; waits for one that was begun. Non-zero: it failed, which is noted;
     * native code leaves with HOP_INVALID. Between the two nobody writes to `in` or looks at `out`. */
    int32_t (*begin)(struct hop_rt *rt, const struct hop_rt_exchange *x);
    int32_t (*wait)(struct hop_rt *rt, int32_t number);
    /* Runs body(rt, env, lo, hi) over pieces of 0..n on the pool; returns the first non-zero status. Grain:
     * so many iterations are worth a thread; below zero: one is, -grain times. */
    int32_t (*parallel)(struct hop_rt *rt,
                        int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env,
                        int64_t n, int64_t grain);
    /* For iterations of a parallel loop: how far behind the first thread's private buffers those of the
     * thread at hand lie, in bytes; and the table of buffers that it gives to procedures, where `table` is
     * that of whoever runs the loop. */
    int64_t (*offset)(struct hop_rt *rt);
    void **(*table)(struct hop_rt *rt, void **table);
    /* Bytes that are not read for a while; again: they are later. What is in no file stays where it is. */
    void (*drop)(struct hop_rt *rt, const void *at, uint64_t bytes, int32_t again);
    void *(*copy)(void *to, const void *from, uint64_t bytes); /* memmove */
    void *(*zero)(void *to, int value, uint64_t bytes);        /* memset */
    double (*fmod)(double, double);
    float (*fmodf)(float, float);
    void (*far)(int32_t which, int32_t wide, uint32_t lanes, const void *x, void *out); /* angle_far_lanes */
    /* Of a profiled run: where it is, for the program and each level of procedures, and how often it was
     * there (CALL_MARK, CALL_COUNT). */
    int32_t *at;
    uint64_t *counters;
    /* private to the runtime from here on */
    void **buffers;
    void *state;
};

#endif
