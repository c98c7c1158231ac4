/* From programs over a mesh to what each rank does. In a global function arrays may be distributed; its local
 * function is the same program for all ranks, of their parts: parameters and results have local types, bodies
 * of local_map stand in place, redistributions are collectives. */
#ifndef HOP_LOCALIZE_H
#define HOP_LOCALIZE_H

#include "ir/mesh.h"

/* How a run feeds the local function of a global one. */
struct edges {
    uint32_t local; /* the function. Its outer symbols are those of the global function in the same order,
                       then `n_ranks` coordinates of the rank; whichever of them no parameter binds are
                       explicit (SYMBOL_DIM) */
    uint32_t mesh;  /* in m->meshes */
    uint32_t n_params, n_results;
    const type_id *params, *results; /* of the global function, with layouts */
    uint32_t n_ranks;
    uint8_t rank_axes[MESH_AXES]; /* along which axis of the mesh each coordinate is */
};

/* Memoised. A function that is not global (fn->global) is its own local function; its mesh is HOP_NONE. */
const struct edges *localize(struct module *m, uint32_t fn);
static inline uint32_t localized(struct module *m, uint32_t fn) { return localize(m, fn)->local; }

#endif
