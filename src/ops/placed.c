/* From one placement to another: the emission of the exchanges. A dim that several axes cut is put together
 * from the last axis on and cut from the first one on; what stays as it is is not touched. */
#include "ops/placed.h"

#include "ir/axes.h"

static struct mesh mesh_of(const struct builder *b, const struct placed *x)
{
    return b->m->meshes.data[x->mesh];
}

static struct attr axis_of(const struct builder *b, const struct placed *x, uint32_t k)
{
    return A_STRING(mesh_of(b, x).axes[k]);
}

static struct attr size_of(const struct builder *b, const struct placed *x, uint32_t k)
{
    return A_DIM(dim_const(b->m, mesh_of(b, x).sizes[k]));
}

/* What is cut along axis k: dim d as the axes in front of it leave it. */
static dim before_axis(struct builder *b, const struct placed *x, uint32_t d, uint32_t k)
{
    struct mesh mesh = mesh_of(b, x);
    dim whole = x->whole.dims[d];
    for (uint32_t i = 0; i < k; i++)
        if (x->at[i].kind == PLACE_SHARD && x->at[i].dim == d)
            whole = part_dim(b->m, whole, mesh.sizes[i], x->ranks->at[i]);
    return whole;
}

static bool even(struct builder *b, const struct placed *x, uint32_t d, uint32_t k)
{
    return part_is_even(b->m, before_axis(b, x, d, k), mesh_of(b, x).sizes[k]);
}

static val emit_rank(struct builder *b, const struct placed *x, uint32_t k)
{
    struct attr axis = axis_of(b, x, k);
    return emit(b, OP_rank_index, NULL, 0, &axis);
}

static val emit_zero_index(struct builder *b)
{
    struct attr zero[3] = { A_INT(0), A_DIMS(NULL, 0), A_DTYPE(DT_I64) };
    return emit(b, OP_full, NULL, 0, zero);
}

/* ---- steps along one axis ---- */

/* Replicated to sharded: the rank's own part. */
static void take_part(struct builder *b, struct placed *x, uint32_t k, uint32_t d)
{
    struct module *m = b->m;
    struct type t = emit_type(b, x->v);
    int64_t n = mesh_of(b, x).sizes[k];
    dim whole = t.dims[d], sizes[MAX_RANK];
    val operands[MAX_RANK + 1] = { x->v }, zero = emit_zero_index(b);
    for (uint32_t i = 0; i < t.rank; i++) {
        sizes[i] = t.dims[i];
        operands[i + 1] = zero;
    }
    sizes[d] = part_dim(m, whole, n, x->ranks->at[k]);
    operands[d + 1] = emit2(b, OP_mul, emit_rank(b, x, k), emit_dim_value(b, part_largest(m, whole, n)));
    struct attr a = A_DIMS(sizes, t.rank);
    x->v = emit(b, OP_dynamic_slice, operands, t.rank + 1u, &a);
    x->at[k] = (struct placement){ .kind = PLACE_SHARD, .dim = (uint8_t)d };
}

/* Replicated to partial: rank 0 has it, the others what changes nothing; or all have it, where that is the
 * same. */
static void take_contribution(struct builder *b, struct placed *x, uint32_t k, uint8_t op)
{
    x->at[k] = (struct placement){ .kind = PLACE_PARTIAL, .op = op };
    if (op == REDUCTION_SUM || op == REDUCTION_PROD) {
        struct type t = emit_type(b, x->v);
        val first = emit2(b, OP_eq, emit_rank(b, x, k), emit_zero_index(b));
        if (t.rank) first = emit_broadcast(b, first, t.rank, t.dims, NULL);
        x->v = emit_select(b, first, x->v, emit_full_like(b, x->v, op == REDUCTION_PROD));
    }
    x->v = builder_vary(b, x->v, module_axis(b->m, mesh_of(b, x).axes[k]));
}

static void add_up(struct builder *b, struct placed *x, uint32_t k)
{
    struct attr a[ALL_REDUCE_ATTRS] = { axis_of(b, x, k), size_of(b, x, k), A_WORD(x->at[k].op) };
    if (x->at[k].op != REDUCTION_PROD) a[AXIS_SIZE] = A_NONE;
    x->v = emit(b, OP_all_reduce, &x->v, 1, a);
    x->at[k] = (struct placement){ .kind = PLACE_REPLICATE };
}

/* Partial sums to parts of the sum. */
static void scatter_sum(struct builder *b, struct placed *x, uint32_t k, uint32_t d)
{
    struct attr a[TILES_ATTRS] = { axis_of(b, x, k), size_of(b, x, k), A_INT(d), A_FLAG(true) };
    x->v = emit(b, OP_reduce_scatter, &x->v, 1, a);
    x->at[k] = (struct placement){ .kind = PLACE_SHARD, .dim = (uint8_t)d };
}

static val emit_padded(struct builder *b, val v, uint32_t d, dim more)
{
    struct type t = emit_type(b, v);
    dim low[MAX_RANK] = { 0 }, high[MAX_RANK] = { 0 };
    high[d] = more;
    struct attr a[3] = { A_DIMS(low, t.rank), A_DIMS(high, t.rank), A_NONE };
    val zero = emit_full(b, (enum dtype)t.dtype, 0, 0, NULL);
    return emit(b, OP_pad, (val[]){ v, zero }, 2, a);
}

/* Parts of dim d to all of it. Parts of different sizes are as long as the longest while they travel. */
static void gather(struct builder *b, struct placed *x, uint32_t k, uint32_t d)
{
    struct module *m = b->m;
    struct attr a[TILES_ATTRS] = { axis_of(b, x, k), size_of(b, x, k), A_INT(d), A_FLAG(true) };
    dim whole = before_axis(b, x, d, k), most = part_largest(m, whole, mesh_of(b, x).sizes[k]);
    bool same = even(b, x, d, k);
    if (!same) x->v = emit_padded(b, x->v, d, dim_sub(m, most, emit_type(b, x->v).dims[d]));
    x->v = emit(b, OP_all_gather, &x->v, 1, a);
    if (!same) {
        struct type t = emit_type(b, x->v);
        dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
        memcpy(limit, t.dims, t.rank * sizeof *limit);
        limit[d] = whole;
        x->v = emit_slice(b, x->v, start, limit);
    }
    x->at[k] = (struct placement){ .kind = PLACE_REPLICATE };
}

/* Parts of one dim to parts of another. */
static void exchange(struct builder *b, struct placed *x, uint32_t k, uint32_t to)
{
    struct attr a[ALL_TO_ALL_ATTRS] = { axis_of(b, x, k), size_of(b, x, k), A_INT(to), A_INT(x->at[k].dim),
                                        A_FLAG(true) };
    x->v = emit(b, OP_all_to_all, &x->v, 1, a);
    x->at[k].dim = (uint8_t)to;
}

/* ---- which steps ---- */

/* May axis k cut dim d now, behind all that cut it already, and is it so in `to`? */
static bool comes_next(uint32_t n, const struct placed *x, const struct placement *to, uint32_t k, uint32_t d)
{
    for (uint32_t i = 0; i < n; i++) {
        bool cuts = x->at[i].kind == PLACE_SHARD && x->at[i].dim == d;
        bool will = to[i].kind == PLACE_SHARD && to[i].dim == d;
        if (i < k ? cuts != will : i > k && cuts) return false;
    }
    return true;
}

/* Is no axis behind k among those that cut dim d? */
static bool is_innermost(uint32_t n, const struct placed *x, uint32_t k, uint32_t d)
{
    for (uint32_t i = k + 1; i < n; i++)
        if (x->at[i].kind == PLACE_SHARD && x->at[i].dim == d) return false;
    return true;
}

static void sum_partials(struct builder *b, struct placed *x, const struct placement *to, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        if (x->at[k].kind != PLACE_PARTIAL || placement_same(x->at[k], to[k])) continue;
        bool scatters = to[k].kind == PLACE_SHARD && x->at[k].op == REDUCTION_SUM &&
                        comes_next(n, x, to, k, to[k].dim) && even(b, x, to[k].dim, k);
        if (scatters) scatter_sum(b, x, k, to[k].dim);
        else add_up(b, x, k);
    }
}

static void exchange_parts(struct builder *b, struct placed *x, const struct placement *to, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        bool both = x->at[k].kind == PLACE_SHARD && to[k].kind == PLACE_SHARD && x->at[k].dim != to[k].dim;
        if (both && is_innermost(n, x, k, x->at[k].dim) && comes_next(n, x, to, k, to[k].dim) &&
            even(b, x, x->at[k].dim, k) && even(b, x, to[k].dim, k))
            exchange(b, x, k, to[k].dim);
    }
}

/* An axis stays where it is cut as in `to`, and all in front of it that cut the same dim stay. */
static bool stays(const struct placed *x, const struct placement *to, uint32_t k)
{
    uint32_t d = x->at[k].dim;
    for (uint32_t i = 0; i <= k; i++) {
        bool cuts = x->at[i].kind == PLACE_SHARD && x->at[i].dim == d;
        bool will = to[i].kind == PLACE_SHARD && to[i].dim == d;
        if (cuts != will) return false;
    }
    return true;
}

void placed_become(struct builder *b, struct placed *x, const struct placement to[MESH_AXES])
{
    uint32_t n = mesh_of(b, x).n_axes;
    sum_partials(b, x, to, n);
    exchange_parts(b, x, to, n);
    for (uint32_t k = n; k-- > 0;)
        if (x->at[k].kind == PLACE_SHARD && !stays(x, to, k)) gather(b, x, k, x->at[k].dim);
    for (uint32_t k = 0; k < n; k++)
        if (x->at[k].kind == PLACE_REPLICATE && to[k].kind == PLACE_SHARD) take_part(b, x, k, to[k].dim);
    for (uint32_t k = 0; k < n; k++)
        if (x->at[k].kind == PLACE_REPLICATE && to[k].kind == PLACE_PARTIAL)
            take_contribution(b, x, k, to[k].op);
}

val placed_value(struct builder *b, const struct placed *x)
{
    struct mesh mesh = mesh_of(b, x);
    axis_set axes = 0;
    for (uint32_t k = 0; k < mesh.n_axes; k++)
        if (x->at[k].kind != PLACE_REPLICATE) axes |= module_axis(b->m, mesh.axes[k]);
    return builder_vary(b, x->v, axes);
}
