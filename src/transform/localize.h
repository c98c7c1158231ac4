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

/* What a row over distributed arrays emits for a node of it. */
struct localizing {
    struct builder *b;
    struct copier *copy; /* symbols are mapped */
    const struct fn *f;  /* the global function */
    const struct node *n;
    const struct attr *attrs; /* in terms of b */
    const val *operands;      /* what the rank has of each */
    uint32_t mesh;
    struct coordinates ranks; /* of the rank, as far as they are needed */
    val *results;             /* out */
};

/* ---- transforms of global functions ---- */

/* Each localizes, transforms, and makes a global function of what comes out, whose one node is a local_map:
 * gradients are placed as their parameters, tangents as their primals, cotangents as their results, lanes in
 * front of what they are lanes of. Parameters and results that are partial have no gradients, which is an
 * error. Arguments as in transform.h. */
uint32_t global_vjp(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted);
uint32_t global_grad(struct module *m, uint32_t fn, const bool *wrt, bool value);
uint32_t global_jvp(struct module *m, uint32_t fn, const bool *wrt);
uint32_t global_vmap(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes, axis_set axis);
struct batch_of { /* what batch_axis is asked for */
    const bool *batched, *force;
    dim size;
    axis_set axis;
    bool lanes;
};
uint32_t global_batch(struct module *m, uint32_t fn, const struct batch_of *of, bool *result_batched);
void global_halves(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted, bool linear,
                   uint32_t *forward, uint32_t *second);
uint32_t global_debug_nans(struct module *m, uint32_t fn, bool infinities, bool arguments);

#endif
