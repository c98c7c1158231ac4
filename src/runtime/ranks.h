/* Programs over a mesh: what a function that is global (transform/localize.h) needs to be run on ranks. Those
 * are threads of this process, or, where the process is itself a rank of a job (dist_process, or the calling
 * thread's rank), that one. */
#ifndef HOP_RANKS_H
#define HOP_RANKS_H

#include "dist/parts.h"
#include "interp/interp.h"
#include "runtime/exe.h"
#include "transform/localize.h"

#include <stdatomic.h>

struct mesh_program {
    struct module *m; /* with the header: parameters, results and symbols of the global function */
    const struct fn *header;
    uint32_t local;                  /* the function that each rank runs, in the module that it was made of */
    struct spread mesh;              /* the placements say nothing */
    struct spread *params, *results; /* where nothing is distributed all placements are PLACE_REPLICATE */
    uint32_t n_symbols;             /* outer ones of the local function: the global one's, then coordinates */
    bool *explicit;                 /* per outer symbol: it is given with the run */
    uint32_t n_ranks;               /* coordinates of a rank … */
    uint8_t rank_axes[DIST_AXES];   /* … along these axes of the mesh */
    uint64_t hash[2];               /* of what all ranks of a job must have alike */
    atomic_bool compared;           /* the ranks of the job have */
    struct dist_team *_Atomic team; /* that ran it last; NULL: it is at it, or there is none */
};
/* fn is global; all lists and texts lie in the arena. The header is fn itself. */
void mesh_program_of(struct arena *arena, struct module *m, uint32_t fn, struct mesh_program *out);
void mesh_program_end(void *program); /* frees what runs have left; signature of a cleanup */

/* One rank's run of the local function. `call` says what is printed where and what ends it. */
struct rank_run {
    struct tensor *const *args;
    const int64_t *dims; /* the explicit symbols */
    struct tensor **results;
    const struct exe_call *call;
    int32_t number;
};
/* Runs it on the ranks that are here: `run` for each, args and results those of exe_run, distributed or not.
 * A plain argument whose parameter is distributed is cut; results are made new, and made at all only where
 * every rank has succeeded. */
void mesh_run(struct mesh_program *p, struct tensor *const *args, const int64_t *dims,
              struct tensor **results, const struct exe_call *call,
              void (*run)(void *ctx, const struct rank_run *r), void *ctx);

/* The whole of a distributed tensor, whichever ranks have its parts: where they are processes all of them
 * call this, and all get it. Throws. */
struct tensor *mesh_collect(struct tensor *t);

/* For interpreters. */
extern const struct interp_ranks interp_on_ranks;

#endif
