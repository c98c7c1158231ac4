/* Compiled functions: made from a function by lowering, planning and emitting; run from any thread. */
#ifndef HOP_EXE_H
#define HOP_EXE_H

#include "emit/backend.h"
#include "ir/table.h"
#include "loop/lp.h"
#include "transform/once.h"
#include "transform/simplify.h"

struct compile_options {
    struct pass_options passes; /* strict is here */
    uint32_t threads;           /* 0: all cores */
    bool keep_lp;               /* keep the loop program and the texts below for explain */
    bool keep_ir_text, keep_machine_text;
    const uint32_t *over;          /* as lower_function takes it */
    uint64_t rewritings;           /* versions of what rewrote it before: a part of the cache's key */
    bool no_cache;                 /* compile, whatever the cache holds, and keep nothing */
    bool soon;                     /* a run follows: its memory is made ready while code is generated */
    const struct backend *backend; /* NULL: the default one */
    struct once_marks constant;    /* parameters from which `once` regions may be computed */
};
/* What explain shows. */
struct compile_report {
    struct {
        const char *name;
        double ms;
    } stages[24];
    uint32_t n_stages;
    size_t code_bytes;
    /* enum code_origin: where the executable came from, or would have come from had nothing else been asked
     * for. */
    uint8_t origin;
    char *ir_text, *machine_text; /* malloc'ed when asked for */
};
struct exe;
/* Where the function has regions that are computed once, the executable has two programs: one makes what it
 * keeps, at the first run and whenever a constant argument is another tensor or was written to; the other
 * takes that as further arguments.
 * Takes nothing from the module after it returns: the executable owns its copies of constants and types.
 * Where the thread has a watch (hop_watch_set), code is generated on a thread of its own, which a cancelled
 * call leaves behind. */
struct exe *exe_compile(struct module *m, uint32_t fn, const struct compile_options *o,
                        struct compile_report *report);
const struct lp *exe_lp(const struct exe *e); /* with keep_lp; valid while the module is */
/* One more owner: each frees it. */
struct exe *exe_ref(struct exe *e);
void exe_free(void *e);
/* Its parameters, results and symbols, in a module of its own; no nodes. */
const struct fn *exe_header(const struct exe *e, const struct module **m);
/* Results that compile_options.over names: which of them are computed in the memory of an argument. exe_run
 * gives no tensor for these: args hold them. */
const struct lp_update *exe_updates(const struct exe *e, uint32_t *n);
/* Is it of a program over a mesh? Its arguments and results may be distributed; it writes to none of them. */
bool exe_on_ranks(const struct exe *e);
const char *exe_name(const struct exe *e);
const char *exe_param_name(const struct exe *e, uint32_t p);
/* Runs on contiguous tensors: results[i] NULL is allocated, else written into (shape must fit). Throws with
 * the run's status. `print` receives print's lines, `callback` (NULL: the registered functions) the calls of
 * callbacks; it may throw. `cancel` (may be NULL) is polled. */
struct exe_call {
    void (*print)(void *ctx, const char *line, size_t length);
    void *print_ctx;
    const volatile int *cancel;
    /* NULL, or asked on this thread whether *cancel means it; 0: the run goes on. */
    int (*confirm)(void *ctx);
    void *confirm_ctx;
    /* The caller's memory for temporaries, exe_workspace bytes; NULL: the executable's own. */
    void *workspace;
    size_t workspace_bytes;
    void (*callback)(void *ctx, const char *name, struct tensor *const *args, uint32_t n);
    void *callback_ctx;
    /* The caller's own tensors, of which some arguments may be copies: by these it is known whether a
     * constant has changed. NULL: the arguments. */
    struct tensor *const *given;
};
/* Bytes that temporaries need for arguments of these shapes; also makes the next run find all else it needs,
 * so that it allocates nothing. */
size_t exe_workspace(struct exe *e, struct tensor *const *args, const int64_t *dims);
void exe_run(struct exe *e, struct tensor *const *args, const int64_t *dims, struct tensor **results,
             const struct exe_call *call);
/* What is kept from constant arguments is made anew at the next run; from then on memory that is borrowed or
 * lent counts as unchanged until the next call of this. */
void exe_refresh(struct exe *e);
/* What is kept at the moment. */
struct exe_kept {
    uint32_t values; /* that are kept once there has been a run */
    uint64_t bytes;  /* of those that are there */
    uint64_t runs;   /* how often they were made */
};
struct exe_kept exe_kept(struct exe *e);
/* The program that makes what is kept, NULL: nothing is. */
const struct fn *exe_init(const struct exe *e, const struct module **m);
/* Is the default back end there? If not, hop_message() says why. */
bool exe_available(void);
/* Can it be loaded, as far as one sees without doing so? A program in the cache does not need it loaded. */
bool exe_promising(void);
size_t exe_arena_bytes(const struct exe *e); /* -1 when it depends on sizes */

#endif
