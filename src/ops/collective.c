/* The rows along a named axis (ir/axes.h): a value that is the same in all lanes counted as one that varies,
 * reductions, gathers and permutations across lanes, the number of a lane. Batched over their axis they
 * become operators on the array of all lanes, whose dim 0 is the axis; along an axis of a mesh they run on
 * ranks (collective_run.c). Transposes follow the types: where a result is the same in all lanes, so is its
 * cotangent. */
#include "ir/axes.h"
#include "ops/collective.h"
#include "ops/rowkit.h"

/* ---- infer ---- */

static void infer_axis(struct infer *in)
{
    if (!in->attrs[AXIS_NAME].i) infer_error(in, "the axis has no name");
}

static const char *axis_text(const struct infer *in)
{
    return module_text(in->m, (uint32_t)in->attrs[AXIS_NAME].i);
}

/* How many lanes the axis has, at least one. */
static dim infer_size(struct infer *in)
{
    dim size = (dim)in->attrs[AXIS_SIZE].i;
    infer_axis(in);
    collective_check_size(in);
    if (dim_is_const(in->m, size) && dim_const_value(in->m, size) < 1)
        infer_error(in, "the axis '%s': expected a size of at least 1, found %lld", axis_text(in),
                    (long long)dim_const_value(in->m, size));
    return size;
}

/* The same where lanes are numbered in attributes: the size is a number. */
static int64_t infer_known_size(struct infer *in)
{
    dim size = infer_size(in);
    if (!dim_is_const(in->m, size))
        infer_error(in, "the axis '%s': its lanes are named by numbers, so its size must be one",
                    axis_text(in));
    return dim_const_value(in->m, size);
}

static void infer_same(struct infer *in)
{
    infer_axis(in);
    infer_result(in, in->operands[0]);
}

static void infer_index(struct infer *in)
{
    infer_axis(in);
    infer_result(in, type_scalar(in->m, DT_I64));
}

static void infer_all_reduce(struct infer *in)
{
    infer_axis(in);
    collective_check_size(in);
    if (infer_type(in, 0).dtype == DT_BOOL)
        infer_error(in, "expected numbers, found %s", infer_text(in, in->operands[0]));
    int64_t op = in->attrs[ALL_REDUCE_OP].i;
    if (op == REDUCTION_MEAN && !dtype_is_float((enum dtype)infer_type(in, 0).dtype))
        infer_error(in, "a mean: expected floats, found %s", infer_text(in, in->operands[0]));
    if (op == REDUCTION_PROD && in->attrs[AXIS_SIZE].kind == ATTR_ABSENT)
        infer_error(in, "a product: attribute 'size' says how many lanes the axis has");
    infer_result(in, in->operands[0]);
}

/* A part of dim d, of which the lanes of the axis have one each. */
static dim infer_part(struct infer *in, dim whole, dim lanes, uint32_t d)
{
    struct module *m = in->m;
    if (dim_is_const(m, whole) && dim_is_const(m, lanes) &&
        dim_const_value(m, whole) % dim_const_value(m, lanes))
        infer_error(in, "dim %u of %s: its size must be a multiple of the %lld lanes of the axis '%s'", d,
                    infer_text(in, in->operands[0]), (long long)dim_const_value(m, lanes), axis_text(in));
    dim part = dim_floordiv(m, whole, lanes);
    infer_equal(in, whole, dim_mul(m, part, lanes), "parts of equal size for each lane");
    return part;
}

/* A dim that has one element for each lane. */
static void infer_lanes_dim(struct infer *in, dim found, dim lanes, uint32_t d)
{
    struct module *m = in->m;
    if (dim_is_const(m, found) && dim_is_const(m, lanes) && found != lanes)
        infer_error(in, "dim %u of %s: expected the size of the axis '%s', %lld (tiled cuts a larger one)", d,
                    infer_text(in, in->operands[0]), axis_text(in), (long long)dim_const_value(m, lanes));
    infer_equal(in, lanes, found, "a dim with one element for each lane");
}

static bool has_flag(const struct attr *attrs, uint32_t k) { return attrs[k].kind != ATTR_ABSENT; }

static type_id with_dim(struct module *m, type_id t, uint32_t d, dim size)
{
    struct type type = type_get(m, t);
    dim dims[MAX_RANK];
    memcpy(dims, type.dims, type.rank * sizeof *dims);
    dims[d] = size;
    return type_with_dims(m, type, dims);
}

static void infer_all_gather(struct infer *in)
{
    dim lanes = infer_size(in);
    struct type t = infer_type(in, 0);
    bool tiled = has_flag(in->attrs, TILES_TILED);
    uint32_t d = infer_one_dim(in, &in->attrs[TILES_DIM], t.rank + !tiled, "dim");
    if (tiled) infer_result(in, with_dim(in->m, in->operands[0], d, dim_mul(in->m, lanes, t.dims[d])));
    else infer_result(in, type_insert_dim(in->m, in->operands[0], d, lanes));
}

static void infer_numbers(struct infer *in)
{
    if (infer_type(in, 0).dtype == DT_BOOL)
        infer_error(in, "expected numbers, found %s", infer_text(in, in->operands[0]));
}

static void infer_reduce_scatter(struct infer *in)
{
    dim lanes = infer_size(in);
    struct type t = infer_type(in, 0);
    uint32_t d = infer_one_dim(in, &in->attrs[TILES_DIM], t.rank, "dim");
    infer_numbers(in);
    if (has_flag(in->attrs, TILES_TILED)) {
        infer_result(in, with_dim(in->m, in->operands[0], d, infer_part(in, t.dims[d], lanes, d)));
        return;
    }
    infer_lanes_dim(in, t.dims[d], lanes, d);
    infer_result(in, type_drop_dim(in->m, in->operands[0], d));
}

static void infer_all_to_all(struct infer *in)
{
    dim lanes = infer_size(in);
    struct type t = infer_type(in, 0);
    uint32_t split = infer_one_dim(in, &in->attrs[ALL_TO_ALL_SPLIT], t.rank, "split");
    uint32_t concat = infer_one_dim(in, &in->attrs[ALL_TO_ALL_CONCAT], t.rank, "concat");
    if (has_flag(in->attrs, ALL_TO_ALL_TILED)) {
        dim part = infer_part(in, t.dims[split], lanes, split);
        type_id cut = with_dim(in->m, in->operands[0], split, part);
        dim more = dim_mul(in->m, lanes, type_get(in->m, cut).dims[concat]);
        infer_result(in, with_dim(in->m, cut, concat, more));
        return;
    }
    infer_lanes_dim(in, t.dims[split], lanes, split);
    infer_result(in, type_insert_dim(in->m, type_drop_dim(in->m, in->operands[0], split), concat, lanes));
}

static void infer_permute(struct infer *in)
{
    int64_t size = infer_known_size(in);
    const struct attr *pairs = &in->attrs[RANK_PERMUTE_PAIRS];
    if (pairs->n % 2)
        infer_error(in, "attribute 'pairs': expected from, to, from, to, …, found %u", pairs->n);
    for (uint32_t i = 0; i < pairs->n; i++) {
        int32_t lane = (int32_t)pairs->list[i];
        if (lane < 0 || lane >= size)
            infer_error(in,
                        "attribute 'pairs': expected lanes below the size of the axis '%s', %lld, found %d",
                        axis_text(in), (long long)size, lane);
        for (uint32_t k = i % 2; k < i; k += 2)
            if (pairs->list[k] == pairs->list[i])
                infer_error(in, "attribute 'pairs': lane %d %s twice", lane, i % 2 ? "receives" : "sends");
    }
    infer_result(in, in->operands[0]);
}

static void infer_broadcast(struct infer *in)
{
    int64_t size = infer_known_size(in), root = in->attrs[RANK_BROADCAST_ROOT].i;
    if (root < 0 || root >= size)
        infer_error(in, "attribute 'root': expected a lane below the size of the axis '%s', %lld, found %lld",
                    axis_text(in), (long long)size, (long long)root);
    infer_result(in, in->operands[0]);
}

/* ---- emission ---- */

static val emit_vary(struct builder *b, const struct attr *attrs, val x)
{
    return emit(b, OP_vary, &x, 1, &attrs[AXIS_NAME]);
}
static val emit_total(struct builder *b, const struct attr *attrs, val x)
{
    struct attr a[ALL_REDUCE_ATTRS] = { attrs[AXIS_NAME], A_NONE, A_WORD(REDUCTION_SUM) };
    return emit(b, OP_all_reduce, &x, 1, a);
}
static val emit_index(struct builder *b, const struct attr *attrs)
{
    return emit(b, OP_rank_index, NULL, 0, &attrs[AXIS_NAME]);
}
/* Is this lane the one of that number? A scalar, or spread over the shape of `like`. */
static val emit_is_lane(struct builder *b, const struct attr *attrs, int64_t lane, val like)
{
    struct type t = emit_type(b, like);
    val is = emit2(b, OP_eq, emit_index(b, attrs), emit_i64(b, lane));
    return t.rank ? emit_broadcast(b, is, t.rank, t.dims, NULL) : is;
}
static val emit_gathered(struct builder *b, const struct attr *attrs, val x, uint32_t d, bool tiled)
{
    struct attr a[TILES_ATTRS] = { attrs[AXIS_NAME], attrs[AXIS_SIZE], A_INT(d), A_FLAG(tiled) };
    return emit(b, OP_all_gather, &x, 1, a);
}

/* ---- derivatives ---- */

static void vjp_vary(struct vjp *v) { v->out[0] = emit_total(v->b, v->attrs, v->ct[0]); }
static void jvp_linear(struct jvp *j) { j->out[0] = emit_same(j->b, j->n, j->tangents[0], j->attrs); }

static val emit_mean_of(struct builder *b, const struct attr *attrs, val x)
{
    struct type t = emit_type(b, x);
    val count = emit(b, OP_rank_count, NULL, 0, &attrs[AXIS_NAME]);
    count = emit_cast(b, count, (enum dtype)t.dtype);
    return emit2(b, OP_div, x, t.rank ? emit_broadcast(b, count, t.rank, t.dims, NULL) : count);
}

/* What the reduction's derivative by the lane's own operand is: equals share that of an extreme, that of a
 * product is the product of the others. */
static val emit_slope(struct builder *b, const struct attr *attrs, val x, val y)
{
    struct type t = emit_type(b, x);
    if (attrs[ALL_REDUCE_OP].i != REDUCTION_PROD) {
        val best = emit_cast(b, emit2(b, OP_eq, x, y), (enum dtype)t.dtype);
        return emit2(b, OP_div, best, emit_total(b, attrs, best));
    }
    val all = emit_gathered(b, attrs, x, 0, false);
    struct type whole = emit_type(b, all);
    val index = emit_broadcast(b, emit_index(b, attrs), whole.rank, whole.dims, NULL);
    val own = emit2(b, OP_eq, emit_iota(b, whole.rank, whole.dims, 0), index);
    val others = emit_select(b, own, emit_full_like(b, all, 1), all);
    return emit_reduce(b, OP_prod, others, (const uint32_t[]){ 0 }, 1);
}

static void vjp_all_reduce(struct vjp *v)
{
    struct builder *b = v->b;
    val ct = v->ct[0];
    int64_t op = v->attrs[ALL_REDUCE_OP].i;
    if (op == REDUCTION_MEAN) ct = emit_mean_of(b, v->attrs, ct);
    v->out[0] = emit_vary(b, v->attrs, ct);
    if (op == REDUCTION_SUM || op == REDUCTION_MEAN) return;
    v->out[0] = emit2(b, OP_mul, v->out[0], emit_slope(b, v->attrs, v->operands[0], v->results[0]));
}

static void jvp_all_reduce(struct jvp *j)
{
    struct builder *b = j->b;
    int64_t op = j->attrs[ALL_REDUCE_OP].i;
    if (op == REDUCTION_SUM || op == REDUCTION_MEAN) {
        jvp_linear(j);
        return;
    }
    val slope = emit_slope(b, j->attrs, j->operands[0], j->results[0]);
    j->out[0] = emit_total(b, j->attrs, emit2(b, OP_mul, j->tangents[0], slope));
}

/* What a sum over the lanes of the same axis is the sum of, where x is one; VAL_NONE: it is none. */
static val summed_over(const struct builder *b, val x, const struct attr *attrs)
{
    uint32_t made = b->values.data[x].node;
    const struct node *n = made == NODE_NONE ? NULL : &b->nodes.data[made];
    if (!n || n->op != OP_all_reduce) return VAL_NONE;
    const struct attr *of = &b->attrs.data[n->attrs];
    bool same = of[ALL_REDUCE_OP].i == REDUCTION_SUM && of[AXIS_NAME].i == attrs[AXIS_NAME].i;
    return same ? b->pool.data[n->operands] : VAL_NONE;
}

/* The lane's own part of what all of them have. Where what was gathered is varied, that is the lane's part of
 * a sum over the lanes: the two are one exchange of parts. */
static void vjp_all_gather(struct vjp *v)
{
    struct builder *b = v->b;
    val terms = summed_over(b, v->ct[0], v->attrs);
    if (terms != VAL_NONE) {
        v->out[0] = emit(b, OP_reduce_scatter, &terms, 1, v->attrs);
        return;
    }
    struct type own = emit_type(b, v->operands[0]), whole = emit_type(b, v->ct[0]);
    uint32_t d = attr_dim_or_zero(&v->attrs[TILES_DIM]);
    bool tiled = has_flag(v->attrs, TILES_TILED);
    val operands[MAX_RANK + 1] = { v->ct[0] };
    dim sizes[MAX_RANK];
    for (uint32_t i = 0; i < whole.rank; i++) {
        sizes[i] = i == d ? (tiled ? own.dims[d] : 1) : whole.dims[i];
        operands[i + 1] = emit_i64(b, 0);
    }
    operands[d + 1] = emit_index(b, v->attrs);
    if (tiled) operands[d + 1] = emit2(b, OP_mul, operands[d + 1], emit_dim_full(b, own.dims[d], 0, NULL));
    struct attr a = A_DIMS(sizes, whole.rank);
    val part = emit(b, OP_dynamic_slice, operands, whole.rank + 1u, &a);
    v->out[0] = emit_reshape(b, part, own.rank, own.dims);
}

static void vjp_reduce_scatter(struct vjp *v)
{
    uint32_t d = attr_dim_or_zero(&v->attrs[TILES_DIM]);
    val all = emit_gathered(v->b, v->attrs, v->ct[0], d, has_flag(v->attrs, TILES_TILED));
    v->out[0] = emit_vary(v->b, v->attrs, all);
}

static void vjp_all_to_all(struct vjp *v)
{
    struct attr a[ALL_TO_ALL_ATTRS];
    memcpy(a, v->attrs, sizeof a);
    a[ALL_TO_ALL_SPLIT] = v->attrs[ALL_TO_ALL_CONCAT];
    a[ALL_TO_ALL_CONCAT] = v->attrs[ALL_TO_ALL_SPLIT];
    v->out[0] = emit(v->b, OP_all_to_all, &v->ct[0], 1, a);
}

static void vjp_permute(struct vjp *v)
{
    struct attr a[RANK_PERMUTE_ATTRS];
    memcpy(a, v->attrs, sizeof a);
    const struct attr *pairs = &v->attrs[RANK_PERMUTE_PAIRS];
    uint32_t *back = ARENA_NEW(&v->b->arena, uint32_t, pairs->n + 1);
    for (uint32_t i = 0; i < pairs->n; i++) back[i ^ 1] = pairs->list[i];
    a[RANK_PERMUTE_PAIRS] = A_INTS(back, pairs->n);
    v->out[0] = emit(v->b, OP_rank_permute, &v->ct[0], 1, a);
}

static void vjp_broadcast(struct vjp *v)
{
    val is_root = emit_is_lane(v->b, v->attrs, v->attrs[RANK_BROADCAST_ROOT].i, v->ct[0]);
    v->out[0] = emit_select(v->b, is_root, v->ct[0], emit_full_like(v->b, v->ct[0], 0));
}

/* ---- batch ---- */

/* Is it the lanes of the row's own axis that come in? */
static bool is_own_axis(const struct batch *v)
{
    return v->axis == axes_named(v->b->m, op_table[v->n->op], v->attrs);
}

/* The attribute says as many lanes as there are; an error, or required. */
static void require_size(struct batch *v, dim said)
{
    struct module *m = v->b->m;
    if (dim_is_const(m, said) && dim_is_const(m, v->size))
        hop_throw(HOP_INVALID, "%s%s: attribute 'size' says that the axis '%s' has %lld lanes, it has %lld",
                  place_text(m, v->n->place), op_table[v->n->op]->name,
                  module_text(m, (uint32_t)v->attrs[AXIS_NAME].i), (long long)dim_const_value(m, said),
                  (long long)dim_const_value(m, v->size));
    builder_require(v->b, said, v->size, "the size of the axis");
}

/* The operand of all lanes, its dim 0 as large as the attribute says the axis is. */
static val all_lanes(struct batch *v)
{
    const struct attr *size = v->n->op == OP_all_reduce ? &v->attrs[AXIS_SIZE] : NULL;
    bool sized = op_table[v->n->op]->sig.n_attrs > AXIS_SIZE && (!size || size->kind != ATTR_ABSENT);
    val x = batch_operand(v, 0);
    if (!sized || (dim)v->attrs[AXIS_SIZE].i == v->size) return x;
    require_size(v, (dim)v->attrs[AXIS_SIZE].i);
    struct type t = emit_type(v->b, x);
    dim dims[MAX_RANK];
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    dims[0] = (dim)v->attrs[AXIS_SIZE].i;
    return emit_reshape(v->b, x, t.rank, dims);
}

/* A result that is the same in all lanes, or one for each. */
static void give(struct batch *v, val x, bool batched)
{
    if (batched && emit_type(v->b, x).dims[0] != v->size) {
        struct type t = emit_type(v->b, x);
        dim dims[MAX_RANK];
        memcpy(dims, t.dims, t.rank * sizeof *dims);
        dims[0] = v->size;
        x = emit_reshape(v->b, x, t.rank, dims);
    }
    v->results[0] = x;
    v->result_batched[0] = batched;
}

/* Over the lanes of another axis, or of one without a name: the node, whose dims stand one further. */
static bool batch_other(struct batch *v, uint32_t first_dim, uint32_t n_dims)
{
    const struct signature *sig = &op_table[v->n->op]->sig;
    if (is_own_axis(v)) return false;
    if (batch_none(v)) return true;
    struct attr *a = arena_copy(&v->b->arena, v->attrs, sig->n_attrs * sizeof *a);
    for (uint32_t k = first_dim; k < first_dim + n_dims; k++)
        a[k] = A_INT(attr_dim_or_zero(&v->attrs[k]) + 1);
    v->results[0] = emit(v->b, (enum op)v->n->op, v->operands, v->n->n_operands, a);
    return true;
}

static void batch_vary(struct batch *v)
{
    if (batch_other(v, 0, 0)) return;
    v->results[0] = v->operands[0];
    v->result_batched[0] = v->batched[0];
}

static void batch_all_reduce(struct batch *v)
{
    static const uint16_t folds[] = { [REDUCTION_SUM] = OP_sum,
                                      [REDUCTION_MAX] = OP_reduce_max,
                                      [REDUCTION_MIN] = OP_reduce_min,
                                      [REDUCTION_PROD] = OP_prod,
                                      [REDUCTION_MEAN] = OP_mean };
    if (batch_other(v, 0, 0)) return;
    int64_t op = v->attrs[ALL_REDUCE_OP].i;
    give(v, emit_reduce(v->b, (enum op)folds[op], all_lanes(v), (const uint32_t[]){ 0 }, 1), false);
}

/* Dims d and d + 1 as one. */
static val emit_merged(struct builder *b, val x, uint32_t d)
{
    struct type t = emit_type(b, x);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i + 1 < t.rank; i++) dims[i] = t.dims[i + (i > d)];
    dims[d] = dim_mul(b->m, t.dims[d], t.dims[d + 1]);
    return emit_reshape(b, x, t.rank - 1u, dims);
}

/* Dim d as two: `lanes` parts. */
static val emit_cut(struct builder *b, val x, uint32_t d, dim lanes)
{
    struct type t = emit_type(b, x);
    dim dims[MAX_RANK + 1];
    for (uint32_t i = 0; i < t.rank; i++) dims[i + (i > d)] = t.dims[i];
    dims[d] = lanes;
    dims[d + 1] = dim_floordiv(b->m, t.dims[d], lanes);
    return emit_reshape(b, x, t.rank + 1u, dims);
}

static void batch_all_gather(struct batch *v)
{
    if (batch_other(v, TILES_DIM, 1)) return;
    uint32_t d = attr_dim_or_zero(&v->attrs[TILES_DIM]);
    val x = emit_move_dim(v->b, all_lanes(v), 0, d);
    give(v, has_flag(v->attrs, TILES_TILED) ? emit_merged(v->b, x, d) : x, false);
}

static void batch_reduce_scatter(struct batch *v)
{
    if (batch_other(v, TILES_DIM, 1)) return;
    uint32_t d = attr_dim_or_zero(&v->attrs[TILES_DIM]);
    val total = emit_reduce(v->b, OP_sum, all_lanes(v), (const uint32_t[]){ 0 }, 1);
    if (has_flag(v->attrs, TILES_TILED)) total = emit_cut(v->b, total, d, (dim)v->attrs[AXIS_SIZE].i);
    give(v, emit_move_dim(v->b, total, d, 0), true);
}

/* The dims of the array of all lanes: who sends, then the parts, `to` whom each goes among them. */
static void batch_all_to_all(struct batch *v)
{
    if (batch_other(v, ALL_TO_ALL_SPLIT, 2)) return;
    struct builder *b = v->b;
    uint32_t split = attr_dim_or_zero(&v->attrs[ALL_TO_ALL_SPLIT]);
    uint32_t concat = attr_dim_or_zero(&v->attrs[ALL_TO_ALL_CONCAT]);
    bool tiled = has_flag(v->attrs, ALL_TO_ALL_TILED);
    val x = all_lanes(v);
    if (tiled) x = emit_cut(b, x, split + 1, (dim)v->attrs[AXIS_SIZE].i);
    x = emit_move_dim(b, x, split + 1, 0); /* to, from, … */
    x = emit_move_dim(b, x, 1, concat + 1);
    give(v, tiled ? emit_merged(b, x, concat + 1) : x, true);
}

static val emit_constant(struct builder *b, enum dtype t, dim n, const void *data, size_t bytes)
{
    struct attr a = A_CONST(module_constant(b->m, type_intern(b->m, t, 1, &n), data, bytes, 0));
    return emit(b, OP_constant, NULL, 0, &a);
}

/* Each lane takes the row of the one that sends to it; where none does, zeros. */
static void batch_permute(struct batch *v)
{
    if (batch_other(v, 0, 0)) return;
    struct builder *b = v->b;
    const struct attr *pairs = &v->attrs[RANK_PERMUTE_PAIRS];
    dim lanes = (dim)v->attrs[AXIS_SIZE].i;
    size_t n = (size_t)dim_const_value(b->m, lanes);
    int64_t *from = ARENA_ZNEW(&b->arena, int64_t, n);
    uint8_t *sent = ARENA_ZNEW(&b->arena, uint8_t, n);
    for (uint32_t i = 0; i < pairs->n; i += 2) {
        from[pairs->list[i + 1]] = (int32_t)pairs->list[i];
        sent[pairs->list[i + 1]] = 1;
    }
    val operands[2] = { all_lanes(v), emit_constant(b, DT_I64, lanes, from, n * sizeof *from) };
    struct attr along = A_INTS((const uint32_t[]){ 0 }, 1);
    val x = emit(b, OP_gather, operands, 2, &along);
    if (pairs->n / 2 < n) {
        struct type t = emit_type(b, x);
        val some = emit_constant(b, DT_BOOL, lanes, sent, n);
        some = emit_broadcast(b, some, t.rank, t.dims, (const uint32_t[]){ 0 });
        val zero = t.dtype == DT_BOOL ? emit_full(b, DT_BOOL, 0, t.rank, t.dims) : emit_full_like(b, x, 0);
        x = emit_select(b, some, x, zero);
    }
    give(v, x, true);
}

static void batch_broadcast(struct batch *v)
{
    if (batch_other(v, 0, 0)) return;
    struct builder *b = v->b;
    val x = all_lanes(v);
    struct type t = emit_type(b, x);
    dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    start[0] = dim_const(b->m, v->attrs[RANK_BROADCAST_ROOT].i);
    limit[0] = dim_const(b->m, v->attrs[RANK_BROADCAST_ROOT].i + 1);
    give(v, emit_reshape(b, emit_slice(b, x, start, limit), t.rank - 1u, t.dims + 1), false);
}

static void batch_index(struct batch *v)
{
    if (batch_other(v, 0, 0)) return;
    give(v, emit_iota(v->b, 1, &v->size, 0), true);
}

static void batch_count(struct batch *v)
{
    if (batch_other(v, 0, 0)) return;
    give(v, emit_dim_full(v->b, v->size, 0, NULL), false);
}

static bool adds_or_multiplies(const struct attr *attrs)
{
    return attrs[ALL_REDUCE_OP].i == REDUCTION_SUM || attrs[ALL_REDUCE_OP].i == REDUCTION_PROD;
}
static bool always(const struct attr *attrs)
{
    HOP_UNUSED(attrs);
    return true;
}

/* ---- rows ---- */

#define AXIS_ATTR [AXIS_NAME] = { "axis", ATTR_STRING, true, NULL }
#define SIZE_ATTR(required) [AXIS_SIZE] = { "size", ATTR_DIM, required, NULL }
static const char *const reductions[] = { "sum", "max", "min", "prod", "mean", NULL };
static const struct attr_spec axis_attrs[] = { AXIS_ATTR };
static const struct attr_spec all_reduce_attrs[] = {
    AXIS_ATTR, SIZE_ATTR(false), [ALL_REDUCE_OP] = { "op", ATTR_WORD, true, reductions }
};
static const struct attr_spec tiles_attrs[] = {
    AXIS_ATTR, SIZE_ATTR(true), [TILES_DIM] = { "dim", ATTR_INT, false, NULL },
    [TILES_TILED] = { "tiled", ATTR_FLAG, false, NULL }
};
static const struct attr_spec all_to_all_attrs[] = {
    AXIS_ATTR, SIZE_ATTR(true), [ALL_TO_ALL_SPLIT] = { "split", ATTR_INT, true, NULL },
    [ALL_TO_ALL_CONCAT] = { "concat", ATTR_INT, true, NULL },
    [ALL_TO_ALL_TILED] = { "tiled", ATTR_FLAG, false, NULL }
};
static const struct attr_spec permute_attrs[] = {
    AXIS_ATTR, SIZE_ATTR(true), [RANK_PERMUTE_PAIRS] = { "pairs", ATTR_INTS, true, NULL }
};
static const struct attr_spec broadcast_attrs[] = {
    AXIS_ATTR, SIZE_ATTR(true), [RANK_BROADCAST_ROOT] = { "root", ATTR_INT, true, NULL }
};

/* One lane's work in the body of a map over the lanes: `line` makes %y of %x. */
#define LANES(symbols, from, to, line) \
    { "hop 1\nfn @sample" symbols "(%xs: " from ") -> (" to ") {\n" \
      "  %ys = map {axis = \"i\"} over(%x in %xs) {\n    " line "\n    stack(%y)\n  }\n  return %ys\n}\n", \
      NULL }
/* The same with the body's own symbols, of which one is the size of the axis. */
#define SIZED_LANES(from, to, line) \
    { "hop 1\nfn @sample[N in 1..](%xs: " from ") -> (" to ") {\n" \
      "  %ys = map {axis = \"i\"} over(%x in %xs) [N in 1..] {\n    " line \
      "\n    stack(%y)\n  }\n  return %ys\n}\n", \
      NULL }

#define AXIS_ROW(op, role, text, list, ...) \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .axis_attr = 1 + AXIS_NAME, \
                                     .axis_role = AXIS_##role, \
                                     .autocast = AUTOCAST_KEEP, \
                                     ROW_SAMPLES(list), \
                                     __VA_ARGS__ };

static const struct op_sample vary_samples[] = {
    LANES("", "f64[3, 2]", "f64[3, 2]",
          "%c = full {value = 2.0, dims = [2], dtype = f64}\n    %v = vary {axis = \"i\"} (%c)\n"
          "    %y = mul(%x, %v)"),
    LANES("[N]", "i32[N]", "i32[N]",
          "%c = full {value = 2, dims = [], dtype = i32}\n    %v = vary {axis = \"i\"} (%c)\n"
          "    %y = add(%x, %v)"),
};
AXIS_ROW(vary, VARIES,
         "its operand, which is the same in all lanes, counted as one that differs: the derivative is the "
         "sum over "
         "the lanes",
         vary_samples, .sig = { 1, 1, ROW_ATTRS(axis_attrs) }, .infer = infer_same, .vjp = vjp_vary,
         .jvp = jvp_linear, .batch = batch_vary, .eval = eval_vary, .lower = &lower_vary)

#define REDUCED(op) LANES("", "f64[4, 3]", "f64[4, 3]", "%y = all_reduce {axis = \"i\", op = " op "} (%x)")
static const struct op_sample all_reduce_samples[] = {
    REDUCED("sum"),
    REDUCED("max"),
    REDUCED("min"),
    REDUCED("mean"),
    LANES("", "f64[3, 2]", "f64[3, 2]", "%y = all_reduce {axis = \"i\", size = 3, op = prod} (%x)"),
    LANES("[N]", "f32[N, 2]", "f32[N, 2]", "%y = all_reduce {axis = \"i\", op = sum} (%x)"),
    LANES("", "i32[5]", "i32[5]", "%y = all_reduce {axis = \"i\", op = max} (%x)"),
};
AXIS_ROW(
    all_reduce, JOINS,
    "the sum, the extreme, the product or the mean over the lanes of an axis, the same in all of them. size: "
    "how many lanes, for a product",
    all_reduce_samples, .sig = { 1, 1, ROW_ATTRS(all_reduce_attrs) }, .repeats = adds_or_multiplies,
    .infer = infer_all_reduce, .vjp = vjp_all_reduce, .jvp = jvp_all_reduce, .batch = batch_all_reduce,
    .eval = eval_exchange, .lower = &lower_exchange, .flags = OPF_NO_FOLD)

static const struct op_sample all_gather_samples[] = {
    LANES("", "f64[3, 2]", "f64[3, 3, 2]", "%y = all_gather {axis = \"i\", size = 3} (%x)"),
    LANES("", "f64[3, 2]", "f64[3, 2, 3]", "%y = all_gather {axis = \"i\", size = 3, dim = 1} (%x)"),
    LANES("", "f64[3, 2, 2]", "f64[3, 2, 6]",
          "%y = all_gather {axis = \"i\", size = 3, dim = 1, tiled} (%x)"),
    SIZED_LANES("f32[N, 2]", "f32[N, 2*N]", "%y = all_gather {axis = \"i\", size = N, tiled} (%x)"),
    LANES("", "bool[3]", "bool[3, 3]", "%y = all_gather {axis = \"i\", size = 3} (%x)"),
};
AXIS_ROW(
    all_gather, JOINS,
    "the operands of all lanes, along a new dim (absent: 0), or with tiled one behind the other along a dim; "
    "the same in all lanes",
    all_gather_samples, .sig = { 1, 1, ROW_ATTRS(tiles_attrs) }, .infer = infer_all_gather,
    .vjp = vjp_all_gather, .jvp = jvp_linear, .batch = batch_all_gather, .eval = eval_exchange,
    .lower = &lower_exchange, .flags = OPF_NO_FOLD)

static const struct op_sample reduce_scatter_samples[] = {
    LANES("", "f64[3, 3, 2]", "f64[3, 2]", "%y = reduce_scatter {axis = \"i\", size = 3} (%x)"),
    LANES("", "f64[2, 3, 4]", "f64[2, 3, 2]",
          "%y = reduce_scatter {axis = \"i\", size = 2, dim = 1, tiled} (%x)"),
    SIZED_LANES("f32[N, 3*N]", "f32[N, (3*N) // N]",
                "%y = reduce_scatter {axis = \"i\", size = N, tiled} (%x)"),
    LANES("", "i64[2, 2]", "i64[2]", "%y = reduce_scatter {axis = \"i\", size = 2} (%x)"),
};
AXIS_ROW(
    reduce_scatter, EXCHANGES,
    "the sum over the lanes of an axis, of which each lane has a part: its element of a dim (absent: 0) of "
    "the axis's size, or with tiled its share of the dim",
    reduce_scatter_samples, .sig = { 1, 1, ROW_ATTRS(tiles_attrs) }, .repeats = always,
    .infer = infer_reduce_scatter, .vjp = vjp_reduce_scatter, .jvp = jvp_linear,
    .batch = batch_reduce_scatter, .eval = eval_exchange, .lower = &lower_exchange, .flags = OPF_NO_FOLD)

static const struct op_sample all_to_all_samples[] = {
    LANES("", "f64[3, 3, 2]", "f64[3, 2, 3]",
          "%y = all_to_all {axis = \"i\", size = 3, split = 0, concat = 1} (%x)"),
    LANES("", "f64[2, 4, 3]", "f64[2, 2, 6]",
          "%y = all_to_all {axis = \"i\", size = 2, split = 0, concat = 1, tiled} (%x)"),
    LANES("", "f64[2, 3, 4]", "f64[2, 3, 4]",
          "%y = all_to_all {axis = \"i\", size = 2, split = 1, concat = 1, tiled} (%x)"),
    SIZED_LANES("f32[N, N, 2]", "f32[N, N, 2]",
                "%y = all_to_all {axis = \"i\", size = N, split = 0, concat = 0} (%x)"),
};
AXIS_ROW(
    all_to_all, EXCHANGES,
    "lane k gets the k-th part along dim split of each lane, along a new dim at concat; tiled: parts are "
    "shares of the dim, put one behind the other along dim concat",
    all_to_all_samples, .sig = { 1, 1, ROW_ATTRS(all_to_all_attrs) }, .infer = infer_all_to_all,
    .vjp = vjp_all_to_all, .jvp = jvp_linear, .batch = batch_all_to_all, .eval = eval_exchange,
    .lower = &lower_exchange, .flags = OPF_NO_FOLD)

static const struct op_sample rank_permute_samples[] = {
    LANES("", "f64[3, 2]", "f64[3, 2]",
          "%y = rank_permute {axis = \"i\", size = 3, pairs = [0, 1, 1, 2, 2, 0]} (%x)"),
    LANES("", "f64[4, 2]", "f64[4, 2]",
          "%y = rank_permute {axis = \"i\", size = 4, pairs = [0, 3, 3, 1]} (%x)"),
    LANES("", "bool[2]", "bool[2]", "%y = rank_permute {axis = \"i\", size = 2, pairs = [0, 1]} (%x)"),
};
AXIS_ROW(rank_permute, EXCHANGES,
         "lane `to` gets what lane `from` has, for pairs from, to, …; a lane that nobody sends to gets zeros",
         rank_permute_samples, .sig = { 1, 1, ROW_ATTRS(permute_attrs) }, .infer = infer_permute,
         .vjp = vjp_permute, .jvp = jvp_linear, .batch = batch_permute, .eval = eval_exchange,
         .lower = &lower_exchange, .flags = OPF_NO_FOLD)

static const struct op_sample rank_broadcast_samples[] = {
    LANES("", "f64[3, 2]", "f64[3, 2]", "%y = rank_broadcast {axis = \"i\", size = 3, root = 1} (%x)"),
    LANES("", "i32[2]", "i32[2]", "%y = rank_broadcast {axis = \"i\", size = 2, root = 0} (%x)"),
};
AXIS_ROW(rank_broadcast, JOINS, "what the lane of number root has, in all lanes", rank_broadcast_samples,
         .sig = { 1, 1, ROW_ATTRS(broadcast_attrs) }, .infer = infer_broadcast, .vjp = vjp_broadcast,
         .jvp = jvp_linear, .batch = batch_broadcast, .eval = eval_exchange, .lower = &lower_exchange,
         .flags = OPF_NO_FOLD)

static const struct op_sample rank_index_samples[] = {
    LANES("", "i64[4]", "i64[4]", "%k = rank_index {axis = \"i\"}\n    %y = add(%x, %k)"),
    LANES("[N]", "i64[N]", "i64[N]", "%k = rank_index {axis = \"i\"}\n    %y = mul(%x, %k)"),
};
AXIS_ROW(rank_index, VARIES, "the number of the lane along an axis, from 0 on, i64", rank_index_samples,
         .sig = { 0, 0, ROW_ATTRS(axis_attrs) }, .infer = infer_index, .batch = batch_index,
         .eval = eval_exchange, .lower = &lower_exchange, .flags = OPF_NO_FOLD,
         .no_gradient = "integer-valued")

static const struct op_sample rank_count_samples[] = {
    LANES("", "i64[4]", "i64[4]", "%n = rank_count {axis = \"i\"}\n    %y = add(%x, %n)"),
    LANES("[N]", "i64[N]", "i64[N]", "%n = rank_count {axis = \"i\"}\n    %y = sub(%x, %n)"),
};
AXIS_ROW(rank_count, COUNTS, "how many lanes an axis has, i64", rank_count_samples,
         .sig = { 0, 0, ROW_ATTRS(axis_attrs) }, .infer = infer_index, .batch = batch_count,
         .eval = eval_rank_count, .lower = &lower_rank_count, .flags = OPF_NO_FOLD,
         .no_gradient = "integer-valued")
