/* Meshes, placements, layouts. A mesh is ranks with coordinates along named axes, row-major, the last axis
 * fastest. A distributed array has a layout: a mesh, and a placement along each axis of it. Its type has the
 * dims of the whole array and the layout; what a rank has of it has a local type, with the dims of the part,
 * varying along the axes along which it is not replicated. An array without a layout is replicated.
 *
 * Parts of a dim of size N along an axis of n ranks: the rank with coordinate r has part_size(N, n, r)
 * elements from part_offset(N, n, r) on, C = ceil(N / n) each, the last ones fewer or none. Where several
 * axes shard one dim they cut it one after the other, in the order of the mesh. Sizes and offsets are the
 * same formulas as numbers and as dims, in which a rank's coordinate is a symbol. */
#ifndef HOP_MESH_H
#define HOP_MESH_H

#include "ir/table.h"

/* ---- meshes ---- */

/* The mesh of that name, one with these axes that is there already, or a new one: its index in m->meshes.
 * Axes are string ids. What cannot be is thrown: sizes below 1, more than MESH_AXES axes, an axis twice or of
 * another mesh, a name (0: any that is free) that another mesh has. */
uint32_t module_mesh(struct module *m, uint32_t name, uint32_t n_axes, const uint32_t *axes,
                     const int64_t *sizes);
uint32_t mesh_find(const struct module *m, uint32_t name); /* HOP_NONE: there is none */
/* The mesh that an axis belongs to, and its number there; HOP_NONE: none. */
uint32_t mesh_of_axis(const struct module *m, uint32_t axis, uint32_t *number);
int64_t mesh_size(const struct mesh *mesh); /* how many ranks */
/* "data = 2, model = 4" */
void mesh_print(const struct module *m, const struct mesh *mesh, struct text *out);
/* The same mesh of another module; its name may be another one. */
uint32_t mesh_import(struct module *to, const struct module *from, uint32_t mesh);
/* The mesh that an attribute of the row names; HOP_NONE: there is none of that name, or no attribute. */
uint32_t mesh_named(const struct module *m, const struct op_row *row, const struct attr *attrs);
/* All axes of the mesh; of all meshes. */
axis_set mesh_axes(struct module *m, uint32_t mesh);
axis_set meshes_axes(struct module *m);

/* ---- placements ---- */

static inline bool placement_same(struct placement a, struct placement b)
{
    return a.kind == b.kind && a.dim == b.dim && a.op == b.op;
}
/* "0", "_", "sum", "each": what stands in types and attributes. */
void placement_print(struct placement p, struct text *out);
/* Reads one such word; false: it is none. */
bool placement_read(const char *word, size_t length, struct placement *out);
/* "0 _, _ sum": a list of placements for each of n arrays, one for each axis of the mesh, or one "_" (or
 * nothing) for replicated ones. Returns what is wrong with the text (in the module's scratch); NULL:
 * nothing. out: n rows of MESH_AXES. */
const char *placements_read(struct module *m, uint32_t mesh, const char *text, uint32_t n,
                            struct placement (*out)[MESH_AXES]);
void placements_print(uint32_t n_axes, const struct placement *at, struct text *out); /* "0 _" */
/* string id of "0 _, _ sum" */
uint32_t placements_text(struct module *m, uint32_t mesh, uint32_t n,
                         const struct placement (*at)[MESH_AXES]);

/* ---- layouts ---- */

/* 0 where all is replicated. What cannot be is no error here (layout_error). */
uint16_t layout_intern(struct module *m, uint32_t mesh, const struct placement *at);
static inline const struct layout *layout_get(const struct module *m, uint16_t layout)
{
    return &m->layouts.data[layout - 1];
}
/* The placements of a type on a mesh, replicated where it has no layout. */
void type_placements(const struct module *m, type_id t, uint32_t mesh, struct placement at[MESH_AXES]);
/* The same type with that layout (0: none). */
type_id type_laid_out(struct module *m, type_id t, uint16_t layout);
/* Why arrays of type t cannot have the layout, in the module's scratch; NULL: they can. */
const char *layout_error(struct module *m, type_id t, uint32_t mesh, const struct placement *at);
/* @m(0, _) */
void layout_print(const struct module *m, uint16_t layout, struct text *out);
/* With a dim more at that place, or less: shards stand one further, or one less. False: it is sharded along
 * the dim that goes away. */
uint16_t layout_insert_dim(struct module *m, uint16_t layout, uint32_t at);
bool layout_drop_dim(struct module *m, uint16_t layout, uint32_t at, uint16_t *out);

/* ---- parts ---- */

static inline int64_t part_size(int64_t whole, int64_t n, int64_t rank)
{
    int64_t most = whole / n + (whole % n != 0), left = whole - rank * most;
    return left < 0 ? 0 : left < most ? left : most;
}
static inline int64_t part_offset(int64_t whole, int64_t n, int64_t rank)
{
    int64_t most = whole / n + (whole % n != 0), at = rank * most;
    return at < whole ? at : whole;
}
/* Where a rank's part of an array lies: ranks are numbered row-major, `sizes` are those of the whole array.
 */
struct part_box {
    int64_t sizes[MAX_RANK], offsets[MAX_RANK];
};
void part_of(const struct mesh *mesh, const struct placement *at, uint32_t rank_of_array,
             const int64_t *sizes, int64_t rank, struct part_box *out);

/* Coordinates of a rank, as dims, one for each axis of a mesh. */
struct coordinates {
    dim at[MESH_AXES];
};
/* The same as dims. */
dim part_dim(struct module *m, dim whole, int64_t n, dim coordinate);
dim part_offset_dim(struct module *m, dim whole, int64_t n, dim coordinate);
dim part_largest(struct module *m, dim whole, int64_t n); /* ceil(whole / n) */
/* Have all ranks parts of the same size, whatever the symbols are? */
bool part_is_even(struct module *m, dim whole, int64_t n);
/* The type of what a rank has of an array of type t, whose layout is not looked at, placed so; t is without
 * a layout then, and varies along the axes of the mesh as the placements say. */
type_id part_type(struct module *m, uint32_t mesh, const struct placement *at, type_id t,
                  const struct coordinates *ranks);
/* On which coordinates of a rank the dims of its part depend: bit k is axis k of the mesh. */
uint32_t part_coordinates(struct module *m, uint32_t mesh, const struct placement *at, type_id t);
/* The other way round: the type of the whole array of which a rank has a part of type t placed so. HOP_NONE:
 * the size of dim *wrong depends on the rank without being that of a part placed so. */
type_id whole_type(struct module *m, uint32_t mesh, const struct placement *at, type_id t,
                   const struct coordinates *ranks, uint32_t *wrong);
/* The placements under which a rank's part has type t, as far as its sizes tell, replicated along other axes:
 * a size that depends on the rank is that of a part. False: one is none. */
bool part_placements(struct module *m, uint32_t mesh, type_id t, const struct coordinates *ranks,
                     struct placement at[MESH_AXES]);

/* ---- nodes ---- */

/* What a node says of the parts that its one body is given (GROUP_PART). Types and dims are those of the
 * function around, in which the coordinates are symbols behind its own. */
struct parts_node {
    uint32_t mesh, n; /* the mesh; operands that have placements, the first ones */
    bool moves;       /* those that lie elsewhere are redistributed */
    const struct mesh *of;
    struct placement (*at)[MESH_AXES]; /* per operand of the group */
    type_id *feeds;                    /* per parameter of the body */
    struct coordinates ranks;
    const struct symbol *symbols; /* the function's, and the coordinates */
};
/* Throws where placements are none, or are not those that operands have. */
void parts_read(struct infer *in, const struct op_row *row, struct parts_node *out);
/* Binds the body of a node that is being built: one with other parameter types than what it is given becomes
 * such a one. given: as in region_in. */
void parts_settle(struct infer *in, const struct op_row *row, struct region *region, const dim *given);
/* The symbols of the body here, coordinates among them; throws where it does not take what it is given. */
dim *parts_bound(struct infer *in, const struct parts_node *parts, const struct region *region);
/* For the printer: is parameter i of a node's body, which the group feeds, the part that the node's
 * attributes say? inner: per symbol of f what it is in the body, HOP_NONE: nothing there. */
bool parts_feed(struct module *m, struct arena *arena, const struct fn *f, const struct node *n, uint32_t i,
                const dim *inner);
/* Throws where a function over distributed arrays works across ranks outside of bodies over parts. */
void parts_outside(struct module *m, const struct fn *f);
/* Throws where a row that does not take distributed arrays, or bodies over such, has them. */
void parts_refuse(struct infer *in, const struct op_row *row);

#endif
