/* What a rank does to have an array in another placement, for the rows over distributed arrays. Everything is
 * emitted into the local program: own parts are slices that start where the rank's coordinate says, the rest
 * are collectives. */
#ifndef HOP_OPS_PLACED_H
#define HOP_OPS_PLACED_H

#include "ir/mesh.h"
#include "ops/build.h"

/* An array in the local program: what a rank has of it, what the whole is, how it is placed. */
struct placed {
    val v;
    uint32_t mesh;
    struct type whole; /* dims, in terms of the builder's symbols, and dtype */
    struct placement at[MESH_AXES];
    const struct coordinates *ranks;
};
/* The same array placed otherwise, by the cheapest exchange. Neither place has PLACE_EACH but where both have
 * it. */
void placed_become(struct builder *b, struct placed *x, const struct placement to[MESH_AXES]);
/* With its type varying as its placements say. */
val placed_value(struct builder *b, const struct placed *x);

#endif
