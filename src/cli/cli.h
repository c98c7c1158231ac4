/* What the files of the command share: options, programs and values given on the command line, one way to run
 * a function on any back end, and the comparisons that tests are made of. The tests under tests/ link these
 * files too (all but main.c). */
#ifndef HOP_CLI_H
#define HOP_CLI_H

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
struct tensor *bag_keep(struct bag *bag,
                        struct tensor *t); /* takes over one reference, also when it throws */
struct tensor *bag_new(struct bag *bag, enum dtype dtype, uint32_t rank, const int64_t *dims); /* cleared */

/* ---- options ---- */

enum option_id {
    O_HELP,
    O_FN,
    O_IN,
    O_DIM,
    O_INTERPRET,
    O_JIT,
    O_STRICT,
    O_WITHOUT,
    O_THREADS,
    O_TIME,
    O_WRT,
    O_IN_AXES,
    O_VALUE,
    O_RUN,
    O_SIMPLIFY,
    O_LOCATIONS,
    O_GRAD,
    O_JVP,
    O_VMAP,
    O_SAVED,
    O_LLVM,
    O_ASM,
    O_LOOPS,
    O_VERBOSE,
    O_QUICK,
    O_JOBS,
    O_JSON,
    O_OUT,
    O_C,
    O_CAPACITY,
    O_MARKDOWN,
    O_NO_CACHE,
    O_COUNT
};
#define O_BIT(o) ((uint64_t)1 << (o))
_Static_assert(O_COUNT <= 64, "a bit for each option");
struct options {
    struct bag bag;
    uint64_t given;   /* bit per option_id */
    uint32_t without; /* passes switched off */
    uint32_t threads, jobs, capacity;
    const char *fn, *wrt, *in_axes;
    vec(const char *) inputs, dims, outputs; /* "x=[1, 2]", "T=4", "y=y.npy" or "all.npz" */
    vec(const char *) files;                 /* or names: what is not an option */
};
static inline bool option_on(const struct options *o, enum option_id id) { return o->given >> id & 1; }

struct command {
    const char *name, *arguments, *meaning, *details;
    uint64_t options; /* bit per option_id it takes */
    uint32_t min_files, max_files;
    int (*run)(struct options *o); /* exit code; throws for bad input */
};
void options_parse(struct options *o, const struct command *c, int argc,
                   char **argv); /* throws HOP_INVALID */
void options_help(const struct command *c, FILE *out);
void options_free(void *options); /* signature of a cleanup */

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_BAD = 2 };
int cli_main(int argc, char **argv);

int command_run(struct options *o);
int command_check(struct options *o);
int command_show(struct options *o);
int command_grad(struct options *o);
int command_jvp(struct options *o);
int command_vmap(struct options *o);
int command_explain(struct options *o);
int command_test(struct options *o);
int command_ops(struct options *o);
int command_emit(struct options *o);
int command_cache(struct options *o);

/* ---- programs ---- */

char *file_text(struct arena *a, const char *path,
                size_t *length); /* throws HOP_IO: cannot be read, is a directory, is too large */
struct module *program_load(const char *path); /* the caller's; throws */
uint32_t program_select(struct module *m,
                        const char *name); /* name NULL: the only named function, else @main, else the last */
uint32_t param_find(const struct module *m, const struct fn *f, const char *name,
                    size_t length); /* throws when there is none; also takes "0", "1", … */
/* "x,y" as a mask over parameters; NULL: every float parameter. */
bool *param_mask(struct arena *a, const struct module *m, const struct fn *f, const char *names);
/* The transforms that --grad, --jvp, --vmap with --wrt, --in-axes, --value ask for. */
uint32_t program_grad(struct options *o, struct module *m, uint32_t fn);
uint32_t program_jvp(struct options *o, struct module *m, uint32_t fn);
uint32_t program_vmap(struct options *o, struct module *m, uint32_t fn);
const char *param_name(const struct module *m, const struct fn *f,
                       uint32_t p); /* without %; "0", "1", … for one without a name */
const char *result_name(struct arena *a, const struct module *m, const struct fn *f,
                        uint32_t r); /* that of the parameter for its new content */
/* compile_options.over for new contents of parameters; NULL: there are none. */
const uint32_t *program_updates(struct arena *a, const struct fn *f);
/* Explicit dim parameters from --dim, in symbol order. NULL when the function has none. */
int64_t *program_dims(struct options *o, const struct module *m, const struct fn *f);
/* Arguments from --in; throws naming a parameter that is not given. */
struct tensor **program_inputs(struct options *o, struct module *m, const struct fn *f);

/* Where --out sends results, found before the run, so that a wrong name costs no computation. */
struct output {
    const char *path;
    uint32_t result; /* HOP_NONE: all */
};
struct outputs {
    struct output *list;
    uint32_t n;
    const char **names; /* of the results, each once */
    const char **files; /* per result: the file it goes to, NULL: it is printed */
};
struct outputs program_outputs(struct options *o, const struct module *m, const struct fn *f);
void outputs_write(const struct outputs *out, struct tensor *const *results, uint32_t n_results);

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
void json_string(struct text *out, const char *s);

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
    bool compiled; /* natively */
    bool loops;    /* lowered, and the loop program run one scalar after the other: needs no back end */
    bool simplify; /* interpreted after the passes */
    bool in_place; /* compiled: results take the memory of (copies of) arguments of the same types where they
                      can */
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
void operators_markdown(struct text *out); /* the page of documentation */

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
const char *claim_gradient(const struct claim *c,
                           const bool *wrt); /* vjp against jvp, both against differences */
const char *claim_batch(const struct claim *c, const bool *batched, int64_t lanes,
                        struct tensor *const *const *lane_args); /* vmap against a loop */
const char *claim_round_trip(struct module *m);                  /* printed, read, printed: the same */
/* The text with every f32 made f64, in the arena; NULL when it has none. */
char *text_in_f64(struct arena *a, const char *text, size_t length);

#endif
