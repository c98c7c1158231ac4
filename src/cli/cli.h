/* What the files of the command share: options, and programs and values given on the command line. */
#ifndef HOP_CLI_H
#define HOP_CLI_H

#include "check/check.h"

/* ---- options ---- */

enum option_id {
    O_HELP,
    O_FN,
    O_IN,
    O_DIM,
    O_INTERPRET,
    O_JIT,
    O_BACKEND,
    O_STRICT,
    O_WITHOUT,
    O_THREADS,
    O_RANKS,
    O_TIME,
    O_WRT,
    O_IN_AXES,
    O_VALUE,
    O_RUN,
    O_SIMPLIFY,
    O_AFTER,
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
    O_CONSTANT,
    O_OPERATORS,
    O_NAMES,
    O_STACKED,
    O_DEBUG_NANS,
    O_PROFILE,
    O_PROFILE_OUT,
    O_PLAIN,
    O_COUNT
};
#define O_BIT(o) ((uint64_t)1 << (o))
_Static_assert(O_COUNT <= 64, "a bit for each option");
struct options {
    struct bag bag;
    uint64_t given;                          /* bit per option_id */
    uint32_t without;                        /* switches that are off */
    enum pass after;                         /* with O_AFTER */
    uint32_t threads, ranks, jobs, capacity; /* 0: not given */
    const char *fn, *wrt, *in_axes, *constant, *names;
    const char *profile, *profile_out;       /* the form, "": not said; the file, NULL: none */
    const struct backend *backend;           /* NULL: not said */
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
/* Throws HOP_INVALID. */
void options_parse(struct options *o, const struct command *c, int argc, char **argv);
void options_help(const struct command *c, FILE *out);
void options_free(void *options); /* signature of a cleanup */

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_BAD = 2 };
int cli_main(int argc, char **argv);

int command_run(struct options *o);
int command_check(struct options *o);
int command_show(struct options *o);
int command_grad(struct options *o);
int command_probes(struct options *o);
int command_jvp(struct options *o);
int command_vmap(struct options *o);
int command_explain(struct options *o);
int command_test(struct options *o);
int command_ops(struct options *o);
int command_emit(struct options *o);
int command_cache(struct options *o);

/* ---- programs ---- */

/* The transforms that --grad, --jvp, --vmap with --wrt, --in-axes, --value ask for. */
uint32_t program_probes(struct options *o, struct module *m, uint32_t fn);
uint32_t program_grad(struct options *o, struct module *m, uint32_t fn);
uint32_t program_jvp(struct options *o, struct module *m, uint32_t fn);
uint32_t program_vmap(struct options *o, struct module *m, uint32_t fn);
uint32_t program_transformed(struct options *o, struct module *m, uint32_t fn); /* all that are asked for */
/* That of the parameter for its new content. */
const char *result_name(struct arena *a, const struct module *m, const struct fn *f, uint32_t r);
/* Explicit dim parameters from --dim, in symbol order. NULL when the function has none. */
int64_t *program_dims(struct options *o, const struct module *m, const struct fn *f);
/* Parameters of --constant. */
struct once_marks program_constants(struct options *o, const struct module *m, const struct fn *f);
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

/* ---- operators from outside ---- */

/* Registers those of a shared library (--operators); throws. */
void operators_load(const char *path);

/* ---- documentation ---- */

void operators_markdown(struct text *out); /* the page of operators */

#endif
