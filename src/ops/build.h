/* Emitting operators into a builder, for rules and transforms, and the order of each operator's attributes.
 * Not for engines that must name no operator. */
#ifndef HOP_OPS_BUILD_H
#define HOP_OPS_BUILD_H

#include "ir/table.h"

/* Attribute numbers, as the rows' specifications list them. */
enum { FULL_VALUE, FULL_DIMS, FULL_DTYPE }; /* dtype absent: f32 */
enum { CONSTANT_VALUE };
enum { IOTA_DIMS, IOTA_DIM, IOTA_DTYPE }; /* counts along result dim `dim` (absent: 0); dtype absent: i64 */
enum { RESHAPE_DIMS };
enum { PERMUTE_ORDER }; /* result dim i is operand dim order[i] */
/* operand dim i (same size) becomes result dim at[i]; at strictly ascending */
enum { BROADCAST_DIMS, BROADCAST_AT };
/* step absent: ones; steps positive; slice_update: x, update, of slice's type */
enum { SLICE_START, SLICE_LIMIT, SLICE_STEP };
/* operands x, value[]; not negative; interior (between elements) absent: zeros */
enum { PAD_LOW, PAD_HIGH, PAD_INTERIOR };
enum { CONCAT_DIM };
enum { REVERSE_DIMS };
/* operands x, one i64[] start per dim; starts are clamped so that the window fits */
enum { DYNAMIC_SLICE_SIZES };
/* dynamic_update: operands x, update, starts…, clamped likewise */
/* sum prod reduce_max reduce_min any all; dims absent: all. dtype: of sum and prod alone, absent: that of the
 * operand */
enum { REDUCE_DIMS, REDUCE_DTYPE, REDUCE_ATTRS };
enum { ARGMAX_DIM }; /* argmax argmin: i64, first of equals, the first NaN before all */
/* mean var std: dims and dtype as above; var, std: divided by the count less correction (absent: 0) */
enum { MEAN_DIMS, MEAN_DTYPE, VAR_CORRECTION, STATISTIC_ATTRS };
enum { SOFTMAX_DIMS }; /* softmax log_softmax: dims, together; logsumexp: as a reduction */
/* parts: that many equal ones; or the sizes of the parts. As many results */
enum { SPLIT_DIM, SPLIT_PARTS, SPLIT_SIZES };
enum { SQUEEZE_DIMS };      /* of size 1; absent: all whose size is known to be 1 */
enum { EXPAND_DIMS };       /* expand_dims: dims of size 1 at these places of the result */
enum { BROADCAST_TO_DIMS }; /* last dims against last dims, a size of 1 is repeated */
enum { TILE_REPEATS };      /* one per dim */
/* shifts: one per dim listed; absent: operands i64[] after x, one per dim listed */
enum { ROLL_DIMS, ROLL_SHIFTS };
enum { STACK_DIM };
/* tril triu: element (i, j) of the last two dims stays if j - i <= diagonal, triu: >= */
enum { TRIANGLE_DIAGONAL };
enum { EYE_ROWS, EYE_COLUMNS, EYE_DIAGONAL, EYE_DTYPE }; /* columns absent: rows; dtype absent: f32 */
/* indices of any integer dtype and shape S: S + [depth]; nothing is hot for an index out of range; dtype
 * absent: f32 */
enum { ONE_HOT_DEPTH, ONE_HOT_DTYPE };
/* x, one index operand (any integer dtype, all of one shape S) per dim listed; absent: the first dims;
 * indices clamped */
enum { GATHER_DIMS };
enum { TAKE_DIM };       /* x, indices S: gather over one dim: x.dims[:d] + S + x.dims[d+1:]; absent: 0 */
enum { TAKE_ALONG_DIM }; /* x, positions with the dims of x but for this one; absent: 0 */
/* x, index operands as for gather, updates of gather's type; out-of-range indices are dropped; mode absent:
 * add */
enum { SCATTER_DIMS, SCATTER_MODE };
/* scatter_affine: x, index operands, factors, terms; its only attribute is dims */
/* window_sum window_max window_min: one entry per dim; all but the sizes absent: ones, zeros. divisor: of
 * window_sum and window_spread alone, absent: 1. dims: the sizes of what window_spread gives */
enum {
    WINDOW_SIZES,
    WINDOW_STRIDES,
    WINDOW_LOW,
    WINDOW_HIGH,
    WINDOW_DILATION,
    WINDOW_EXTREME_ATTRS,
    WINDOW_DIVISOR = WINDOW_EXTREME_ATTRS,
    WINDOW_SUM_ATTRS,
    WINDOW_DIMS = WINDOW_SUM_ATTRS,
    WINDOW_SPREAD_ATTRS
};
/* the same, and which fold; the same, and whether padding is no part of the mean */
enum { REDUCE_WINDOW_BY = WINDOW_EXTREME_ATTRS, REDUCE_WINDOW_ATTRS };
enum { REDUCE_BY_SUM, REDUCE_BY_PROD, REDUCE_BY_MAX, REDUCE_BY_MIN };
enum { AVG_POOL_WITHOUT_PADDING = WINDOW_EXTREME_ATTRS, AVG_POOL_ATTRS };
/* bin i of size m along a dim of size n: floor(i·n/m) up to ceil((i + 1)·n/m) */
enum { ADAPTIVE_DIMS, ADAPTIVE_SIZES, ADAPTIVE_BY, ADAPTIVE_ATTRS };
enum { ADAPTIVE_MEAN, ADAPTIVE_MAX };
/* one size per dim listed; antialias: where it becomes smaller */
enum { RESIZE_DIMS, RESIZE_SIZES, RESIZE_METHOD, RESIZE_ALIGN, RESIZE_ANTIALIAS, RESIZE_ATTRS };
/* grid_sample: x [N, C, S…], grid [N, T…, as many as S], its last dim first; map_coordinates: x and a
 * position per dim of it. padding absent: zeros */
enum { SAMPLE_METHOD, SAMPLE_PADDING, SAMPLE_ALIGN, SAMPLE_ATTRS };
enum { BY_NEAREST, BY_LINEAR, BY_CUBIC };
enum { OUTSIDE_ZEROS, OUTSIDE_BORDER, OUTSIDE_REFLECTION };
/* operand bool; one i64[?k] per dim, with size: i64[size], the first ones, then fill (absent: -1) */
enum { NONZERO_SIZE, NONZERO_FILL };
enum { SEARCH_RIGHT }; /* operands sorted [L…, n], values [L…, S…] */
/* cumsum cumprod cummax cummin recurrence logcumsumexp; dim absent: 0; reverse: from the last to the first.
 * dtype: of cumsum and cumprod alone, absent: that of the operand */
enum { CUMULATIVE_DIM, CUMULATIVE_REVERSE, CUMULATIVE_DTYPE, CUMULATIVE_ATTRS };
/* recurrence: s_k = a_{k-1}·s_{k-1} + b_k, the last step's factor is not used */
enum { RECURRENCE_LATE = CUMULATIVE_REVERSE + 1 };
enum { SORT_DIM, SORT_DESCENDING }; /* sort: values and i64 positions; argsort: positions; dim absent: 0 */
enum { TOP_K_K, TOP_K_DIM };        /* values and i64 positions of the k largest along a dim, absent: 0 */
/* result: batch dims, free dims of lhs, free dims of rhs */
enum { DOT_BATCH_LHS, DOT_BATCH_RHS, DOT_CONTRACT_LHS, DOT_CONTRACT_RHS, DOT_DTYPE, DOT_ATTRS };
enum { MATMUL_DTYPE };
/* conv_general: which dim plays which part (ops/convkit.h); the lists behind: one entry per spatial dim */
enum {
    CONV_X_DIMS,
    CONV_W_DIMS,
    CONV_Y_DIMS,
    CONV_STRIDES,
    CONV_LOW,
    CONV_HIGH,
    CONV_X_DILATION,
    CONV_W_DILATION,
    CONV_DTYPE,
    CONV_TURNED,
    CONV_ATTRS
};
/* conv, conv_transpose (without `same`); other: x_dilation of the one, output_padding of the other */
enum {
    USUAL_STRIDES,
    USUAL_LOW,
    USUAL_HIGH,
    USUAL_DILATION,
    USUAL_OTHER,
    USUAL_GROUPS,
    USUAL_X_DIMS,
    USUAL_W_DIMS,
    USUAL_DTYPE,
    USUAL_SAME,
    USUAL_ATTRS
};
enum { CAST_DTYPE };
/* operand key u32[2]; bits: u32, no dtype attribute; others: dtype absent: f32 */
enum { RANDOM_DIMS, RANDOM_DTYPE };
/* operands key, lo, hi (scalars): lo <= result < hi; lo where hi <= lo. bernoulli: key, p (scalar, or the
 * result's dims) */
enum { RANDINT_DIMS };
enum { RANDOM_SPLIT_COUNT }; /* keys u32[…, 2] to u32[…, count, 2] */
enum { PERMUTATION_SIZE };   /* i64[…, size] */
enum { CHECK_MESSAGE };      /* operands pred (bool, any shape: all must hold), values… */
/* operands: with `masked` bool over the lanes, the value, floats that it was made of, `trips` i64 with some
 * of the lanes' dims; see ir/finite.h */
enum {
    CHECK_FINITE_OPERATOR,
    CHECK_FINITE_PART,
    CHECK_FINITE_LANES,
    CHECK_FINITE_TRIPS,
    CHECK_FINITE_LOOPS,
    CHECK_FINITE_EACH,
    CHECK_FINITE_INFINITIES,
    CHECK_FINITE_MASKED,
    CHECK_FINITE_ATTRS
};
/* lanes k: a line for each index of the k leading dims; masked: operand 0 is bool over them */
enum { PRINT_FORMAT, PRINT_LANES, PRINT_MASKED };
/* as for print; together: all lanes in one call */
enum { CALLBACK_NAME, CALLBACK_LANES, CALLBACK_MASKED, CALLBACK_TOGETHER, CALLBACK_ATTRS };
/* lanes k, masked as for print; together: all lanes in one call; alone: over no lanes; sizes: those that
 * neither operands nor runs tell; given: per parameter that may be absent or is a list its count, then 1 or 0
 * for each element; views: ops/operator_layout.h */
enum {
    OPERATOR_NAME,
    OPERATOR_LANES,
    OPERATOR_MASKED,
    OPERATOR_TOGETHER,
    OPERATOR_SIZES,
    OPERATOR_GIVEN,
    OPERATOR_VIEWS,
    OPERATOR_ALONE,
    OPERATOR_ATTRS
};
enum { STOP_RESULT };                                      /* the one word: unread */
enum { OFFLOAD_NAME, OFFLOAD_ATTRS };                      /* what messages call the value */
val emit_offload(struct builder *b, val v, uint32_t name); /* string id of its name, 0: none */
val emit_fetch(struct builder *b, val v);
/* an enum tag; what policies or probes call the value; an enum tag_use, absent: for policies */
enum { TAG_GRADIENT, TAG_NAME, TAG_USE, TAG_ATTRS };
/* Whom the name of a tag speaks to. A probe is both of the last two. */
enum tag_use { TAG_SAVES, TAG_PROBES, TAG_GIVES, TAG_TAKES };
enum { DIM_VALUE_DIM };
/* operand n: i64[]; result i64[?k] = 0, 1, … n-1, which makes k = n; n < lo (default 0) or n > hi fails as
 * a check */
enum { BIND_DIM_LO, BIND_DIM_HI };
/* results: carries; trip count i64[] if `count` or anything is stacked; stacks [?n, …] or, without `tape`,
 * [max_trips, …] zero-padded */
enum { WHILE_MAX_TRIPS, WHILE_COUNT, WHILE_SCHEDULE, WHILE_EVERY, WHILE_SNAPSHOTS, WHILE_TAPE, WHILE_ATTRS };
/* length: dim, needed when nothing is scanned over */
enum { SCAN_REVERSE, SCAN_LENGTH, SCAN_SCHEDULE, SCAN_EVERY, SCAN_SNAPSHOTS, SCAN_ATTRS };
/* schedule, every, snapshots, in this order on every loop: what its gradient keeps; the rest is computed
 * again. every = [k, …]: carries of every k-th step, which no word of `schedule` says: SCHEDULE_EVERY */
enum { SCHEDULE_NONE, SCHEDULE_RECOMPUTE, SCHEDULE_SQRT, SCHEDULE_BINOMIAL, SCHEDULE_EVERY };
/* length: dim, needed when nothing is mapped over; sequential: never all slices at once; apart: the same,
 * said by the pass that cut a batch into slices; axis: the name of the axis that the slices are lanes of */
enum { MAP_LENGTH, MAP_SEQUENTIAL, MAP_APART, MAP_AXIS, MAP_ATTRS };
/* Operators along a named axis (ir/axes.h): its name comes first. size: how many lanes it has */
enum { AXIS_NAME, AXIS_SIZE }; /* vary, rank_index, rank_count: the name alone */
enum {
    ALL_REDUCE_OP = AXIS_SIZE + 1,
    ALL_REDUCE_ATTRS
}; /* a word, enum reduction; size: of a product alone */
enum reduction { REDUCTION_SUM, REDUCTION_MAX, REDUCTION_MIN, REDUCTION_PROD, REDUCTION_MEAN };
/* all_gather, reduce_scatter: a new dim of the axis's size, or one that goes away; tiled: that dim is cut
 * into as many parts. dim absent: 0 */
enum { TILES_DIM = AXIS_SIZE + 1, TILES_TILED, TILES_ATTRS };
enum { ALL_TO_ALL_SPLIT = AXIS_SIZE + 1, ALL_TO_ALL_CONCAT, ALL_TO_ALL_TILED, ALL_TO_ALL_ATTRS };
enum { RANK_PERMUTE_PAIRS = AXIS_SIZE + 1, RANK_PERMUTE_ATTRS }; /* from, to, from, to, … */
enum { RANK_BROADCAST_ROOT = AXIS_SIZE + 1, RANK_BROADCAST_ATTRS };
/* Over distributed arrays (ir/mesh.h): placements as text, "0 _, _ sum", an entry for each operand that is
 * cut (the group `part`), for each result */
enum {
    LOCAL_MAP_MESH,
    LOCAL_MAP_IN,
    LOCAL_MAP_OUT,
    LOCAL_MAP_IN_GRAD,
    LOCAL_MAP_REDISTRIBUTE,
    LOCAL_MAP_ATTRS
};
enum { REDISTRIBUTE_MESH, REDISTRIBUTE_TO, REDISTRIBUTE_ATTRS };
/* operands: carries, from, to; schedule as for scan */
enum { FORI_SCHEDULE, FORI_EVERY, FORI_SNAPSHOTS, FORI_TAPE, FORI_ATTRS };
enum { ASSOCIATIVE_DIM, ASSOCIATIVE_REVERSE, ASSOCIATIVE_ATTRS }; /* dim absent: 0 */
enum {
    CUSTOM_FORWARD,
    CUSTOM_BACKWARD,
    CUSTOM_JVP,
    CUSTOM_BATCH,
    CUSTOM_GIVES,
    CUSTOM_CLOSED,
    CUSTOM_SIZES,
    CUSTOM_TANGENT,
    CUSTOM_ASKS,
    CUSTOM_ATTRS
};
/* Where the jvp of a custom with a backward alone comes from; none: it must not be differentiated. */
enum { TANGENT_TRANSPOSE, TANGENT_BODY, TANGENT_NONE };
enum { REGION_KIND, REGION_NAMED, REGION_ATTRS }; /* the last: all that its user gives it (ir/named.h) */
/* recompute: the gradient keeps the operands only and runs the function again; policy: and what it keeps
 * besides (hops/policy.c); inline: whether the body is put in place (transform/sharing.h) */
enum { INVOKE_RECOMPUTE, INVOKE_POLICY, INVOKE_INLINE, INVOKE_ATTRS };
enum { SWITCH_RECOMPUTE, SWITCH_ATTRS }; /* the same for the branch taken */

static inline val emit(struct builder *b, enum op op, const val *operands, uint32_t n,
                       const struct attr *attrs)
{
    return builder_node(b, &(struct node_in){
                               .op = (uint16_t)op, .operands = operands, .n_operands = n, .attrs = attrs });
}
static inline val emit1(struct builder *b, enum op op, val x) { return emit(b, op, (val[]){ x }, 1, NULL); }
static inline val emit2(struct builder *b, enum op op, val x, val y)
{
    return emit(b, op, (val[]){ x, y }, 2, NULL);
}
static inline val emit_select(struct builder *b, val c, val x, val y)
{
    return emit(b, OP_select, (val[]){ c, x, y }, 3, NULL);
}
static inline struct type emit_type(const struct builder *b, val v)
{
    return type_get(b->m, builder_type(b, v));
}

/* A scalar spread over dims. */
static inline val emit_full(struct builder *b, enum dtype t, double value, uint32_t rank, const dim *dims)
{
    struct attr a[3] = { dtype_is_float(t) ? A_REAL(value) : A_INT((int64_t)value), A_DIMS(dims, rank),
                         A_DTYPE(t) };
    return emit(b, OP_full, NULL, 0, a);
}
static inline val emit_full_like(struct builder *b, val v, double value)
{
    struct type t = emit_type(b, v);
    return emit_full(b, (enum dtype)t.dtype, value, t.rank, t.dims);
}
static inline val emit_cast(struct builder *b, val v, enum dtype t)
{
    if (emit_type(b, v).dtype == t) return v;
    struct attr a = A_DTYPE(t);
    return emit(b, OP_cast, &v, 1, &a);
}
/* Indices of any integer dtype as i64; u64 beyond its range becomes the largest, which lies outside of every
 * array. */
static inline val emit_as_index(struct builder *b, val v)
{
    struct type t = emit_type(b, v);
    if (t.dtype == DT_U64) {
        struct attr most[3] = { A_INT(INT64_MAX), A_DIMS(t.dims, t.rank), A_DTYPE(DT_U64) };
        v = emit2(b, OP_min, v, emit(b, OP_full, NULL, 0, most));
    }
    return emit_cast(b, v, DT_I64);
}
static inline val emit_broadcast(struct builder *b, val v, uint32_t rank, const dim *dims, const uint32_t *at)
{
    struct attr a[2] = { A_DIMS(dims, rank), A_INTS(at, emit_type(b, v).rank) };
    return emit(b, OP_broadcast, &v, 1, a);
}
/* In front: T[…] -> T[d, …]. */
static inline val emit_broadcast_front(struct builder *b, val v, dim d)
{
    struct type t = emit_type(b, v);
    dim dims[MAX_RANK + 1] = { d };
    uint32_t at[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i + 1] = t.dims[i], at[i] = i + 1;
    return emit_broadcast(b, v, t.rank + 1u, dims, at);
}
static inline val emit_reduce(struct builder *b, enum op op, val v, const uint32_t *dims, uint32_t n)
{
    struct attr a[REDUCE_ATTRS] = { A_INTS(dims, n), A_NONE };
    return n ? emit(b, op, &v, 1, a) : v;
}
static inline val emit_reshape(struct builder *b, val v, uint32_t rank, const dim *dims)
{
    struct attr a = A_DIMS(dims, rank);
    return emit(b, OP_reshape, &v, 1, &a);
}
static inline val emit_permute(struct builder *b, val v, const uint32_t *order)
{
    uint32_t rank = emit_type(b, v).rank;
    bool identity = true;
    for (uint32_t i = 0; i < rank; i++) identity &= order[i] == i;
    struct attr a = A_INTS(order, rank);
    return identity ? v : emit(b, OP_permute, &v, 1, &a);
}
/* Moves dim `from` to position `to`, the others keep their order. */
static inline val emit_move_dim(struct builder *b, val v, uint32_t from, uint32_t to)
{
    uint32_t rank = emit_type(b, v).rank, order[MAX_RANK], n = 0;
    for (uint32_t i = 0; i < rank; i++)
        if (i != from) order[n++] = i;
    for (uint32_t i = rank - 1; i > to; i--) order[i] = order[i - 1];
    order[to] = from;
    return emit_permute(b, v, order);
}
static inline val emit_slice(struct builder *b, val v, const dim *start, const dim *limit)
{
    uint32_t rank = emit_type(b, v).rank;
    struct attr a[3] = { A_DIMS(start, rank), A_DIMS(limit, rank), A_NONE };
    return emit(b, OP_slice, &v, 1, a);
}
/* What says that a result has this dtype: nothing where the operands have it. */
static inline struct attr emit_result_dtype(const struct builder *b, const val *operands, uint32_t n,
                                            enum dtype t)
{
    for (uint32_t i = 0; i < n; i++)
        if (emit_type(b, operands[i]).dtype != t) return A_DTYPE(t);
    return A_NONE;
}
/* The product added up and given in a dtype; see numbers.md. */
static inline val emit_dot_to(struct builder *b, enum dtype t, val x, val y, const uint32_t *bx,
                              const uint32_t *by, uint32_t nb, const uint32_t *cx, const uint32_t *cy,
                              uint32_t nc)
{
    val operands[2] = { x, y };
    struct attr a[DOT_ATTRS] = { A_INTS(bx, nb), A_INTS(by, nb), A_INTS(cx, nc), A_INTS(cy, nc),
                                 emit_result_dtype(b, operands, 2, t) };
    return emit(b, OP_dot, operands, 2, a);
}
static inline val emit_dot(struct builder *b, val x, val y, const uint32_t *bx, const uint32_t *by,
                           uint32_t nb, const uint32_t *cx, const uint32_t *cy, uint32_t nc)
{
    return emit_dot_to(b, (enum dtype)emit_type(b, x).dtype, x, y, bx, by, nb, cx, cy, nc);
}
/* How many trips a counted loop makes whose bounds are numbers or sizes (or sums of them), as a dim; false:
 * they are not. Then it can be a scan over its indices, whose rows have a known number (fori_loop.c). */
struct loop;
bool fori_trips(const struct builder *b, val from, val to, dim *trips);
void fori_over(struct builder *b, struct loop *l, dim trips);
/* A call of an operator from outside, as `custom` where it has rules (functions; HOP_NONE: none), with what
 * their sizes are that no parameter of theirs tells. attrs: OPERATOR_ATTRS of them (operator.c). */
val emit_operator(struct builder *b, const val *operands, uint32_t n, const struct attr *attrs,
                  const uint32_t *rules, struct attr sizes);
static inline val emit_dim_value(struct builder *b, dim d)
{
    struct attr a = A_DIM(d);
    return emit(b, OP_dim_value, NULL, 0, &a);
}

#endif
