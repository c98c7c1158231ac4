/* Distributed arrays as tensors: a mesh, a placement for each of its axes, and the parts of the ranks that
 * this process has. They belong to no module; what a program says of such an array is its type (ir/mesh.h).
 */
#ifndef HOP_PARTS_H
#define HOP_PARTS_H

#include "dist/dist.h"
#include "ir/mesh.h"

/* Where an array lies. */
struct spread {
    uint32_t n_axes;
    int64_t sizes[DIST_AXES];
    struct placement at[DIST_AXES];
    int32_t ranks;          /* of the mesh */
    const char *mesh;       /* "data = 2, model = 4" */
    const char *placements; /* "0 _": a dim, "_" for all of it, "sum", "max", "min", "prod", "mean", "each" */
};

struct parts {
    struct spread spread;
    int32_t first, n;     /* the ranks whose parts are here: first … first + n - 1 */
    struct tensor **part; /* n, row-major; ranks that have the same elements may share a tensor */
};

/* From texts: a mesh with or without blanks and parentheses around, placements with blanks or commas between;
 * all axes of an array of this rank. Texts of the result lie in the arena. Throws. */
void spread_parse(struct arena *arena, const char *mesh, const char *placements, uint32_t rank,
                  struct spread *out);
/* Replicated everywhere? */
bool spread_is_plain(const struct spread *s);

/* The part of a rank of an array of these dims. */
void parts_box(const struct spread *s, int32_t rank, uint32_t n_dims, const int64_t *dims,
               struct part_box *out);

/* A distributed tensor of these parts, one reference to each of which is taken, also when it throws. Their
 * sizes must be right. dims: of the whole array. */
struct tensor *parts_new(enum dtype dtype, uint32_t rank, const int64_t *dims, const struct spread *s,
                         int32_t first, int32_t n, struct tensor **part);
/* The parts of a plain array for the ranks first … first + n - 1. Where they are to be reduced, the first
 * rank has the array, the others the identity; of a mean each has the array. */
struct tensor *parts_of(struct tensor *whole, const struct spread *s, int32_t first, int32_t n);
/* The array whose parts are all here; throws. */
struct tensor *parts_whole(const struct tensor *t);
/* Elements of `from` to `to`, of one dtype and one size: both plain, both distributed alike
 * (parts_check_alike throws where they are not), or one that is put together. */
void parts_bring(struct tensor *to, struct tensor *from);
void parts_check_alike(const struct tensor *to, const struct tensor *from, uint32_t result);
/* "f32[8, 16] on (data = 2) as (0)" */
const char *parts_text(struct arena *arena, const struct tensor *t);

#endif
