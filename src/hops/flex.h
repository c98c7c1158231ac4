/* Attention with the user's score and mask functions, as loops of other operators: what a node of
 * flex_attention stands for (flex_forward.c) and its pullback (flex_backward.c). Both go over tiles, so many
 * queries by so many keys, and never hold more scores than those of one tile. */
#ifndef HOP_FLEX_H
#define HOP_FLEX_H

#include "hops/flex_parts.h"
#include "hops/hops.h"

#include <math.h>

/* Queries and keys of a tile where no block is given; keys where queries are few. */
enum { FLEX_TILE = 128, FLEX_FEW = 16, FLEX_LONG_TILE = 512 };

/* A node as its loops see it. Every function of them has the outer symbols of `shape`, whose parameters are
 * the node's operands. */
struct flex {
    struct module *m;
    struct place place; /* of the node, which its loops have */
    const struct fn *shape;
    const dim *symbols; /* what its symbols are where the node stands */
    const dim *same;    /* what they are in each of the functions: themselves */
    uint32_t n, n_lists;
    enum dtype given, computed; /* of queries; of scores, sums and logarithms */
    dim batches, kv_batches, heads, kv_heads, queries, keys, width, value_width;
    uint32_t n_blocks; /* operands of the lists */
    uint32_t ranges;   /* the operand of ranges; 0: there is none */
    bool compact[2];   /* the lists */
    dim list_batches, list_heads;
    dim block[2]; /* as the blocks are counted: the last one may reach beyond the end */
    dim tile[2];  /* as they are computed: the last one begins earlier */
    dim rows, columns;
    uint32_t n_score, n_mask; /* own operands */
    uint32_t score, mask;     /* on a tile: (scores [q, k], batch, head, rows [q], columns [k], own…) */
    const dim *score_dims, *mask_dims;
    bool masked;          /* the mask may be false somewhere */
    bool heads_from_zero; /* known, for a pullback: heads count from 0 */
    /* as given, in terms of the shape's symbols */
    struct region_in bodies[2];
    uint32_t n_dims[2];
    const struct attr *attrs;
};
/* symbols: of the function in which the types are; groups, attrs, regions: of the node in its terms. */
struct flex_in {
    struct module *m;
    struct place place;
    const struct symbol *symbols;
    const type_id *operands;
    uint32_t n_operands;
    const uint32_t *groups;
    const struct attr *attrs;
    const struct region_in *regions;
    const uint32_t *n_dims; /* of each region */
};
void flex_begin(struct flex *x, struct arena *arena, const struct flex_in *in);
/* The same node with other operands, in a builder in which x's are parameters. */
struct flex_changed {
    const val *operands;
    uint32_t n_operands, n_blocks;
    const struct attr *attrs;
    const struct region_in *bodies; /* their dims in terms of the shape's symbols */
};
void flex_again(struct flex *out, const struct flex *x, struct builder *b, const struct flex_changed *to);

/* ---- a scalar body over a tile (flex_over.c) ---- */

/* What the outer symbols of a function are while axes are added to it. */
struct flex_dims {
    struct arena *arena;
    vec(dim) list;
};
/* The function over one more leading dim of some parameters and of all results. */
uint32_t flex_over(struct module *m, uint32_t fn, const bool *batched, dim size, struct flex_dims *dims);
/* A body of x over a tile: (scores [q, k], batch, head, rows [q], columns [k], own…) -> [q, k]; gated: the
 * last own one is [q, k], too. */
uint32_t flex_over_tile(const struct flex *x, uint32_t fn, bool gated, struct flex_dims *dims);

dim flex_blocks(struct module *m, dim length, dim block); /* how many */
dim flex_block(struct module *m, const struct attr *attrs, dim queries, uint32_t axis);

/* Is there surely no query or no key? (Dim 0 is the number.) */
static inline bool flex_is_nothing(const struct flex *x)
{
    return !x->batches || !x->heads || !x->queries || !x->kv_batches || !x->keys;
}
/* (operands…) -> (out, lse, max) */
uint32_t flex_forward(const struct flex *x);
/* The same for a node of the program: where HOP_DEBUG lists `masks`, behind checks that its lists of blocks
 * agree with its mask. */
uint32_t flex_checked(const struct flex *x);
/* (operands…, out, lse, cotangent of out, of lse) -> (cotangent of each operand that wants one…) */
uint32_t flex_backward(const struct flex *x, const bool *wanted);

/* ---- cotangents of what the score function reads (flex_captures.c) ---- */

/* The rows of a captured array that are added up: along a dim, HOP_NONE: all of it, the one of a head. */
struct flex_rows {
    uint32_t dim;
    val head;
};
/* The sum of an accumulated cotangent and one more: what a scatter adds to zeros is added where it belongs.
 */
val flex_accumulated(struct builder *b, val sum, val ct, const struct flex_rows *rows);
/* A score function with one more parameter, whether the key takes part; where it does not, nothing that is
 * read gets a cotangent. */
uint32_t flex_gated(const struct flex *x);
/* Could cotangents of keys that take no part, which are 0, become NaN on the way to what the score function
 * reads, or to the scale? */
bool flex_wants_gate(const struct flex *x, struct arena *arena, bool scale);
/* The dim of result k of a function, as long as there are heads (a number), along which all that is not zero
 * stands at the head that parameter `head` is; HOP_NONE: there is none. */
uint32_t flex_dim_of_head(const struct module *m, uint32_t fn, uint32_t k, uint32_t head, dim heads);

/* ---- between the two ---- */

enum flex_list { FLEX_EVERY, FLEX_PARTIAL, FLEX_WHOLE }; /* which tiles a loop goes over */

/* A function of the loops while it is made. */
struct flex_body {
    const struct flex *x;
    struct builder b;
    const val *operands; /* its parameters that are the node's operands */
};
/* One that has `first` parameters, then the operands, then `last` ones. */
void flex_body_begin(struct flex_body *body, const struct flex *x, const type_id *first, uint32_t n_first,
                     const type_id *last, uint32_t n_last, val *params);
struct region_in flex_body_finish(struct flex_body *body, const val *results, uint32_t n, const val *with,
                                  uint32_t n_with);
/* The operands of the node and `last`, as own operands of a body. */
const val *flex_with(struct builder *b, const struct flex *x, const val *operands, const val *last,
                     uint32_t n_last);

val flex_counted(struct builder *b, dim n); /* 0, 1, … */
/* The body for each number below a length; apart: on threads, if there are some. */
val flex_map(const struct flex *x, struct builder *b, dim length, bool apart, struct region_in body);

static inline val flex_i64(struct builder *b, int64_t v) { return emit_full(b, DT_I64, (double)v, 0, NULL); }
static inline type_id flex_index(const struct flex *x) { return type_scalar(x->m, DT_I64); }
static inline type_id flex_type(const struct flex *x, dim first, dim second)
{
    return type_intern(x->m, x->computed, 2, (dim[]){ first, second });
}
val flex_window(struct builder *b, val x, val batch, val head, val from, dim rows, dim columns);
/* The first row or column of a tile, by its number: that of a block, or an earlier one for the last. */
val flex_start(const struct flex *x, struct builder *b, val number, uint32_t axis);
/* Which row of the lists belongs to a batch and a head. */
struct flex_row {
    val batch, head, row; /* row: of blocks */
};
enum { FLEX_AT_BATCH, FLEX_AT_HEAD, FLEX_AT_ROW, FLEX_AT };
static inline struct flex_row flex_row_of(const val *at)
{
    return (struct flex_row){ at[FLEX_AT_BATCH], at[FLEX_AT_HEAD], at[FLEX_AT_ROW] };
}
val flex_kv_batch(const struct flex *x, struct builder *b, val batch);
val flex_kv_head(const struct flex *x, struct builder *b, val head);

/* A tile of keys that a tile of queries meets: the number of its block, and where in its list that stands
 * (of a compact one in all columns). */
struct flex_entry {
    val column, place;
};
/* Where a tile lies, and what the bodies are told about it. */
struct flex_tile {
    val batch, head, row, column; /* row, column: numbers of blocks */
    val place;                    /* in the list */
    val start[2];
    val indices[2]; /* i64[q], i64[k], as the bodies see them */
};
struct flex_tile flex_tile_at(const struct flex *x, struct builder *b, const val *operands,
                              struct flex_row at, struct flex_entry entry);
/* A body over the tile. */
val flex_call_on_tile(struct builder *b, uint32_t fn, const dim *dims, const struct flex_tile *t, val scaled,
                      const val *own, uint32_t n_own);
/* exp(v), and 0 where it is below 1e-30 (f64: 1e-277): next to a sum of at least 1 that changes nothing, and
 * products with numbers that have few digits left take a hundred times as long as others. */
val flex_exp(const struct flex *x, struct builder *b, val v);
val flex_unchanging(struct builder *b, val v); /* v, without a derivative */
val flex_dot_keys(const struct flex *x, struct builder *b, val queries, val keys); /* [q, e] · [k, e] */
/* Scores as the mask and the score function see them. */
val flex_scaled(const struct flex *x, struct builder *b, const val *operands, val raw);
val flex_scores(const struct flex *x, struct builder *b, const val *operands, const struct flex_tile *t,
                val scaled);
/* Where the rows or columns of a tile are within their block; of the last tile the first ones are before it.
 */
val flex_in_block(const struct flex *x, struct builder *b, const struct flex_tile *t, uint32_t axis);
/* bool[q, k]: whose keys take part; VAL_NONE: all. rows: rows that the tile before has, too, do not. */
val flex_allowed(const struct flex *x, struct builder *b, const val *operands, const struct flex_tile *t,
                 val scaled, enum flex_list list, bool rows);
/* A loop over the tiles of keys that a tile of queries meets. Its carries and what else a step needs:
 * `extra`, which begins with the batch, the head and the row of blocks. */
struct flex_step {
    const struct flex *x;
    const type_id *carry, *extra;
    uint32_t n_carry, n_extra;
    dim parts;      /* into which each list is cut, */
    uint32_t part;  /* and where among `extra` the number of one is; parts 1: it is not read */
    uint32_t there; /* where among `extra` 1 is, or 0: no tile at all; HOP_NONE: nowhere */
    const void *ctx;
    void (*emit)(const struct flex_step *s, struct builder *b, const val *carry, const val *operands,
                 const val *extra, struct flex_entry entry, enum flex_list list, val *next);
};
/* Those of a list. carry: what the loop begins with, and what comes out of it. */
void flex_loop(const struct flex_step *s, struct builder *b, val *carry, const val *operands,
               const val *extra, enum flex_list list);
/* All of them, list by list. */
void flex_loops(const struct flex_step *s, struct builder *b, val *carry, const val *operands,
                const val *extra);
/* A mask without lists of blocks, and one that can be asked before there are scores: then lists are made
 * first, so that tiles without any key are left out and those with all of them do not ask. */
bool flex_wants_lists(const struct flex *x);
void flex_with_lists(struct flex *out, const struct flex *x, struct builder *b, const val *operands,
                     const val **with);
/* What a mask says about a block: (batch, head, first and last query, first and last key, own…) -> i64[], one
 * of these. block: queries and keys of the largest one, which are numbers. */
enum flex_class { FLEX_NONE, FLEX_SOME, FLEX_ALL, FLEX_UNDECIDED };
uint32_t flex_classes(struct module *m, uint32_t mask, const dim *block);
/* The classes of all blocks, none undecided, [batches, heads, rows, columns]; batches, heads: 1 or all. */
val flex_decided_classes(const struct flex *x, struct builder *b, const val *operands, dim batches,
                         dim heads);
val flex_of_class(struct builder *b, val classes, enum flex_class which); /* which blocks */
/* A check whose message ends with the values. */
void flex_check(struct builder *b, val holds, const char *message, const val *values, uint32_t n);
/* How many blocks of keys a list has for a row, and one of them, by its number. */
val flex_list_length(const struct flex *x, struct builder *b, const val *operands, struct flex_row at,
                     enum flex_list list);
struct flex_entry flex_list_entry(const struct flex *x, struct builder *b, const val *operands,
                                  struct flex_row at, enum flex_list list, val i);
/* Grouped heads of few queries as rows of one tile: then the results are those of the packed node, reshaped.
 */
bool flex_packs(const struct flex *x);
void flex_packed(struct flex *out, const struct flex *x, struct builder *b, const val *operands,
                 const val **with);
/* Lanes of a node as more batches of one node; false: they cannot be that, and nothing is made. */
bool flex_fold_lanes(const struct batch *v);
dim flex_parts(const struct flex *x); /* into which the keys are cut, by sizes alone */
/* Tiles of all heads, [n, q, columns…] one behind the other, as an array [batches, heads, queries, …]. */
val flex_assemble(const struct flex *x, struct builder *b, val tiles);
val flex_spread(struct builder *b, val v, dim first, dim second, uint32_t at); /* v[q] or v[k] over a tile */
static inline bool flex_ragged(const struct flex *x, uint32_t axis)
{
    dim length = axis ? x->keys : x->queries;
    return length && dim_mod(x->m, length, x->tile[axis]) != 0;
}

#endif
