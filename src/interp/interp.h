/* The reference interpreter: node by node, slow, obviously right. Always computes in strict mode. */
#ifndef HOP_INTERP_H
#define HOP_INTERP_H

#include "ir/table.h"

struct hop_rt_exchange; /* loop/rt.h */
struct interp;
struct interp_ranks {
    /* An exchange with other ranks; a message is set where it fails. */
    hop_status (*exchange)(const struct hop_rt_exchange *x);
    /* interp_run of a function over a mesh. */
    void (*run)(struct interp *in, uint32_t fn, struct tensor *const *args, const int64_t *dims,
                struct tensor **results);
};
struct interp {
    struct module *m;
    void (*print)(void *ctx, const char *line, size_t length); /* where print goes; NULL: nowhere */
    void *print_ctx;
    /* Takes the calls of callbacks; NULL: the registered functions do. */
    void (*callback)(void *ctx, const char *name, struct tensor *const *args, uint32_t n);
    void *callback_ctx;
    /* What runs on ranks (runtime/ranks.h); NULL: nothing can. */
    const struct interp_ranks *ranks;
    int32_t
        rank; /* of a program on several ranks: this one's number, and one: it is told with what it prints */
    uint64_t steps;     /* nodes evaluated so far */
    uint64_t max_steps; /* 0: no limit; else throws HOP_CANCELLED beyond it (fuzzing, random tests) */
};

/* Runs a function on tensors, binding its symbols from their shapes; checks types, ranges and requirements
 * (throws HOP_INVALID naming the parameter or dim). `results` receives n_results new references. `dims` gives
 * explicit dim parameters in symbol order (NULL: none). */
void interp_run(struct interp *in, uint32_t fn, struct tensor *const *args, const int64_t *dims,
                struct tensor **results);
/* For rows: evaluates a body whose outer symbols are known. */
void interp_call(struct interp *in, uint32_t fn, const int64_t *outer_symbols, struct tensor *const *args,
                 struct tensor **results);
/* Outer symbol values of region r given the symbols of the function around. Scratch of `capacity` n_dims. */
void interp_region_symbols(const struct module *m, const struct region *r, const int64_t *symbols,
                           int64_t *out);
/* Symbols bound by arguments of these shapes: fills symbols[n_outer_symbols]; throws HOP_INVALID on any
 * mismatch. Shared with the executable. */
struct shape_view {
    uint8_t dtype, rank;
    const int64_t *dims;
    const char *kind; /* of an object */
};
static inline struct shape_view shape_of(const struct tensor *t)
{
    return (struct shape_view){ t->dtype, t->rank, t->dims, t->kind };
}
/* Programs take their parameters for different objects: throws where one is given twice and written. */
void check_objects_differ(const struct module *m, const struct fn *f, struct tensor *const *args);
void bind_symbols(struct module *m, const struct fn *f, const struct shape_view *args, const int64_t *dims,
                  int64_t *symbols);

/* "x = {}": one line with the values put in for {}; shared by interpreter and runtime. `lanes` NULL: one
 * line; see print's row. */
void format_values(struct text *out, const char *format, struct tensor *const *values, uint32_t n);
/* [[1, 2], [3, 4]]; decimal that reads back to the same bits. */
void tensor_print(struct text *out, const struct tensor *t);

#endif
