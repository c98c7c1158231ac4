/* An executable from the inside, for the files that make one: exe.c from a loop program, image.c from the
 * bytes that the cache keeps. Every field that a loop program gives must pass through image.c as well, or a
 * program from the cache would run without it. */
#ifndef HOP_EXE_IMPL_H
#define HOP_EXE_IMPL_H

#include "emit/backend.h"
#include "ir/canon.h"
#include "runtime/exe.h"
#include "runtime/ranks.h"

#include <stdatomic.h>

enum { ARENA_ALIGN = 64, SPARE_RUNS = 16 };

struct site {                         /* of a check, a print, a callback or an operator */
    const char *text, *place, *stack; /* stack: the frames there, a line each, or "" … */
    const char *within;               /* … and the regions around, which stack ends with */
    struct place where;               /* the same place, in the module that was compiled */
    /* of an operator: what the program declares, "": it takes anything, as callbacks do */
    const char *declared;
    effect_set effects;
    uint32_t version, n_counts;
    uint32_t varies; /* of a print: each rank has values of its own */
    int32_t *counts; /* arrays of each parameter */
};
struct bound_buffer { /* an argument or a result and the buffer it lies in */
    uint32_t buffer, index;
};
/* What each rank runs, and what a run has to know. */
struct exe_ranks {
    struct exe *local;
    struct mesh_program program;
};
struct run;
struct code;
struct profile;
struct keeper;
struct ready;
struct exe {
    int32_t more;       /* owners besides the first */
    struct arena arena; /* everything below */
    struct module *m; /* holds the header's types and names, nothing else; never changes after compilation */
    const struct fn *header; /* parameters, results, symbols and requirements; no nodes */
    const struct backend *backend;
    struct loaded_program program; /* what it launches; in `code` where there is one */
    struct code *code;             /* shared with equal programs; NULL: the back end has none that is kept */
    /* The whole program, to be called straight; NULL: the launch plan is gone through. */
    int32_t (*entry)(void *rt, void **buffers, int64_t *symbols);
    const struct lp *kept; /* loop program, with keep_lp or where the back end runs it */
    uint32_t threads;
    struct lp_buffer *buffers; /* counts in terms of `m` */
    uint32_t n_buffers, n_args, n_results, n_dyn;
    struct bound_buffer *args, *results, *dyn; /* dyn: index is the result it becomes, or HOP_NONE */
    bool arena_static;
    uint32_t n_offloaded; /* BUF_TEMP in a file */
    int64_t arena_size;
    int64_t private_size; /* of it, at its end: for one thread (lp.private_size) */
    uint32_t n_slots;
    dim *slots;             /* bytes */
    bool *slot_private;     /* threads have one each */
    bool has_private;       /* there are private buffers … */
    bool gives_tables;      /* … and procedures that threads call */
    const void **constants; /* per buffer, NULL for others */
    /* With a back end that has a memory of its own: per buffer the constant's address there, and the blocks.
     */
    void **brought, **brought_blocks;
    uint32_t n_brought;
    struct site *sites;
    uint32_t n_sites;
    struct lp_update *updates; /* results that may take an argument's memory */
    uint32_t n_updates;
    struct mark_table *marks;             /* of a profiled program; NULL: of none */
    struct lp_amount *bytes, *operations; /* per mark, in terms of `m` */
    struct profile *profile; /* what its runs are noted in, NULL: nothing; behind profile.c's lock */
    struct exe_ranks *ranks; /* of a program over a mesh: all there is besides the header; NULL: of none */
    struct keeper *once;     /* what it keeps from run to run; NULL: nothing */
    struct run *_Atomic spare[SPARE_RUNS];
    struct ready *_Atomic ready; /* memory for the temporaries of the first run; NULL: it takes its own */
};

/* ---- what is kept (once.c) ---- */

/* Takes over `init`, also when it throws. */
struct keeper *once_new(struct exe *init, const struct once_split *split);
void once_free(struct keeper *o); /* accepts NULL */
uint32_t once_count(const struct keeper *o);
/* Makes what is kept where it is not there or a constant has changed, and gives a reference to each; args are
 * row-major or not. Safe from any thread. */
void once_values(struct keeper *o, struct tensor *const *args, const struct exe_call *call,
                 struct tensor **values);

void run_free(struct run *r); /* accepts NULL */
/* Finds out, of an executable whose buffers are known, which slots are private, and that there are some. */
void exe_note_private(struct exe *e);

/* What a run needs to know besides the code, as bytes. Writing takes an executable that was made from module
 * m; what the program itself holds (places, constants) is referred to by its number in `c`. False: something
 * in it belongs to no program that could be found again, so that the bytes must not be kept. */
bool image_write(const struct exe *e, struct module *m, const struct canon *c, struct text *out);
/* Fills an empty executable. m, f and c are the program that is asked for; the bytes must stay as long as e.
 * Throws when they make no sense. */
void image_read(struct exe *e, struct module *m, const struct fn *f, const struct canon *c, const void *bytes,
                size_t n);

#endif
