/* What tests are made of: programs and values, one way to run a function on any back end, comparisons, and
 * claims about the rules of the table. The command and the tests under tests/ link these files. */
#ifndef HOP_CHECK_H
#define HOP_CHECK_H

#include "interp/interp.h"
#include "ir/table.h"
#include "ir/text.h"
#include "runtime/exe.h"
#include "transform/simplify.h"

/* ---- memory: what one command or one test makes, freed in one go ---- */

struct bag {
    struct arena arena;
    vec(struct tensor *) tensors;
};
void bag_free(void *bag); /* signature of a cleanup; the bag is empty and usable afterwards */
/* Takes over one reference, also when it throws. */
struct tensor *bag_keep(struct bag *bag, struct tensor *t);
/* What stands in for an object of a host's where there is none: number 0 to 63 of 64 bytes each, which are
 * zeros when a run begins. */
struct tensor *bag_object(struct bag *bag, const char *kind, int64_t number);
void stand_ins_clear(void);
struct tensor *bag_new(struct bag *bag, enum dtype dtype, uint32_t rank, const int64_t *dims); /* cleared */
/* One of a type whose sizes are known, cleared. */
struct tensor *bag_new_of(struct bag *bag, const struct module *m, type_id type);

/* ---- programs ---- */

/* Throws HOP_IO: cannot be read, is a directory, is too large. */
char *file_text(struct arena *a, const char *path, size_t *length);
struct module *program_load(const char *path); /* the caller's; throws */
/* name NULL: the only named function, else @main, else the last. */
uint32_t program_select(struct module *m, const char *name);
/* Throws when there is none; also takes "0", "1", … */
uint32_t param_find(const struct module *m, const struct fn *f, const char *name, size_t length);
/* "x,y" as a mask over parameters; NULL: every float parameter. */
bool *param_mask(struct arena *a, const struct module *m, const struct fn *f, const char *names);

/* ---- values ---- */

struct random {
    uint64_t state;
};
uint64_t random_next(struct random *r);
double random_unit(struct random *r); /* 0 <= u < 1 */
/* Uniform in lo..hi (integers: inclusive; bools: either). */
void tensor_random(struct tensor *t, struct random *r, double lo, double hi);
double tensor_get(const struct tensor *t, int64_t i);
void tensor_set(struct tensor *t, int64_t i, double v);
/* "[[1, 2], [3, 4]]"; what is for messages. The shape is the text's. */
struct tensor *tensor_parse(struct bag *bag, enum dtype dtype, const char *text, const char *what);
struct tensor *tensor_of_constant(struct bag *bag, const struct module *m, uint32_t constant);
void tensor_type_text(struct text *out, const struct tensor *t); /* f32[3, 4] */
void tensor_json(struct text *out, const struct tensor *t);

/* How far results may be from the reference. */
enum bound_kind {
    BOUND_BITS,    /* equal bits; NaN equals NaN */
    BOUND_ELEMENT, /* |a - e| <= within * max(1, |e|) */
    BOUND_TENSOR   /* |a - e| <= within * max(1, largest |e| of the tensor) */
};
struct bound {
    uint8_t kind;
    double within;
};
/* The bound for a dtype, given those of f32 and f64; f16 and bf16 are allowed a few units in their last
 * place. */
struct bound bound_of(enum dtype t, struct bound f32, struct bound f64);
/* NULL when `found` is close enough to `expected`, else where and how they differ. */
const char *tensor_difference(struct arena *a, const struct tensor *found, const struct tensor *expected,
                              struct bound bound);

/* ---- running ---- */

struct way {
    const char *name;
    const struct backend *backend; /* NULL: interpreted */
    bool simplify;                 /* interpreted after the passes */
    /* With a back end: results take the memory of (copies of) arguments of the same types where they can. */
    bool in_place;
    struct pass_options passes;
    uint32_t threads;
};
struct outcome {
    hop_status status;
    const char *message; /* when it failed */
    uint32_t n;
    struct tensor **results; /* in the bag */
    struct text printed;     /* what print wrote, a line each */
};
/* Runs and catches every error. Results live as long as the bag. */
bool run_on(struct bag *bag, struct module *m, uint32_t fn, const struct way *how, struct tensor *const *args,
            const int64_t *dims, struct outcome *out);
extern const struct way interpreter;
/* NULL, or how one outcome differs from the other (status, message of a failed check, printed text, results).
 */
const char *outcome_difference(struct arena *a, const struct outcome *found, const struct outcome *expected,
                               struct bound f32, struct bound f64);

/* ---- samples of rows ---- */

struct sample_sizes {
    int64_t *symbols, *dims; /* of the function's outer symbols; of those that are dim parameters */
};
/* Attempt 0 gives every symbol its own size, attempt 1 one size to all, for programs whose sizes must agree.
 */
struct sample_sizes sample_sizes(struct arena *a, const struct fn *f, uint32_t attempt);
struct tensor **sample_arguments(struct bag *bag, struct module *m, const struct fn *f, const char *inputs,
                                 const struct sample_sizes *s, uint64_t seed);

/* Registers the operators from outside that samples call; sample_sizes has done so. */
void sample_operators(void);

/* ---- claims about rules, for tests ---- */

/* Sum of x[i]·y[i], and of its magnitudes, over pairs of tensors. */
struct product {
    double sum, size;
};
void product_add(struct product *p, const struct tensor *x, const struct tensor *y);

struct claim {
    struct bag *bag;
    struct module *m;
    uint32_t fn;
    struct tensor *const *args;
    const int64_t *dims;
    uint64_t seed;
    bool compiled; /* also run the transformed functions natively and compare */
};
/* Each gives NULL when the claim holds, else what is wrong. */
/* vjp against jvp, both against differences. */
const char *claim_gradient(const struct claim *c, const bool *wrt);
const char *claim_batch(const struct claim *c, const bool *batched, int64_t lanes,
                        struct tensor *const *const *lane_args); /* vmap against a loop */
const char *claim_round_trip(struct module *m);                  /* printed, read, printed: the same */
/* The text with every f32 made f64, in the arena; NULL when it has none. */
char *text_in_f64(struct arena *a, const char *text, size_t length);

#endif
