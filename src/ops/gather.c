/* Rows that read at indices: gather over any set of dims, and what is made of it: take (one dim) and
 * take_along (an index for every place). Indices are brought into range by clamping, so no rule can reach
 * outside an array; of an empty dim zeros are taken. */
#include "ops/facts.h"
#include "ops/indexkit.h"

static val operand(const struct fn *f, const struct node *n, uint32_t i) { return node_operands(f, n)[i]; }
static struct type operand_type(const struct module *m, const struct fn *f, const struct node *n, uint32_t i)
{
    return type_get(m, value_type(f, operand(f, n, i)));
}

/* ---- gather ---- */

static void infer_gather(struct infer *in)
{
    struct indexed s = infer_indexed(in, &in->attrs[GATHER_DIMS], 1, in->n_operands - 1);
    infer_result(in, infer_indexed_type(in, &s, 1));
}

static int64_t clamp64(int64_t i, int64_t size)
{
    if (i < 0) return 0;
    return i < size ? i : size - 1;
}

/* What stands behind every indexed dim lies together in x and in the result. */
static void eval_gather(struct eval *e)
{
    const struct tensor *x = e->operands[0], *r = e->results[0];
    struct indexed s = indexed_dims(node_attr(e->f, e->n, GATHER_DIMS), e->n->n_operands - 1, x->rank);
    uint32_t rank = e->operands[1]->rank, n = r->rank - s.n_inner; /* dims of the result that are walked */
    int64_t strides[MAX_RANK], idx[MAX_RANK] = { 0 }, run = 1;
    row_major(x->rank, x->dims, strides);
    for (uint32_t d = x->rank - s.n_inner; d < x->rank; d++) run *= x->dims[d];
    if (!r->count) return;
    for (uint32_t i = 0; i < s.n; i++)
        if (!x->dims[s.dims[i]]) {
            memset(r->data, 0, (size_t)r->count * tensor_width(r));
            return;
        }
    int64_t to = 0, bytes = run * (int64_t)tensor_width(x);
    do {
        int64_t at = 0, from = 0;
        for (uint32_t k = 0; k < rank; k++) at = at * r->dims[s.first + k] + idx[s.first + k];
        for (uint32_t i = 0; i < s.n; i++)
            from += clamp64(index_at(e->operands[1 + i], at), x->dims[s.dims[i]]) * strides[s.dims[i]];
        for (uint32_t i = 0; i + s.n_inner < s.n_rest; i++)
            from += idx[i < s.first ? i : i + rank] * strides[s.rest[i]];
        const char *found = (const char *)x->data + from * (int64_t)tensor_width(x);
        memcpy((char *)r->data + to * bytes, found, (size_t)bytes);
        to++;
    } while (next_index(n, r->dims, idx));
}

static void vjp_gather(struct vjp *v)
{
    struct type x = emit_type(v->b, v->operands[0]);
    struct indexed s = indexed_dims(&v->attrs[GATHER_DIMS], v->n->n_operands - 1, x.rank);
    val indices[MAX_RANK];
    for (uint32_t i = 0; i < s.n; i++)
        indices[i] = clamped_indices(v->b, v->operands[1 + i], x.dims[s.dims[i]]);
    val zeros = emit_full_like(v->b, v->operands[0], 0);
    v->out[0] = emit_scatter(v->b, zeros, &s, indices, v->ct[0], SCATTER_ADD);
}

static void jvp_gather(struct jvp *j)
{
    if (j->tangents[0] == VAL_NONE) return;
    val operands[MAX_RANK + 1] = { j->tangents[0] };
    memcpy(operands + 1, j->operands + 1, (j->n->n_operands - 1) * sizeof *operands);
    j->out[0] = emit(j->b, OP_gather, operands, j->n->n_operands, j->attrs);
}

/* Where each lane has its own array and indices, the lane is one more index. */
static void batch_gather(struct batch *v)
{
    if (batch_none(v)) return;
    struct builder *b = v->b;
    uint32_t n = v->n->n_operands - 1, x_rank = emit_type(b, v->operands[0]).rank - v->batched[0], rank = 0;
    struct indexed s = indexed_dims(&v->attrs[GATHER_DIMS], n, x_rank);
    bool lanes = false;
    for (uint32_t i = 1; i <= n; i++) lanes |= v->batched[i];
    val operands[MAX_RANK + 2] = { v->operands[0] };
    uint32_t dims[MAX_RANK + 1] = { 0 };
    for (uint32_t i = 0; i < n; i++) {
        operands[2 + i] = lanes ? batch_operand(v, 1 + i) : v->operands[1 + i];
        dims[1 + i] = s.dims[i] + v->batched[0];
        rank = emit_type(b, operands[2]).rank - lanes;
    }
    if (!lanes || !v->batched[0]) { /* one array for all lanes, or one set of indices */
        operands[1] = operands[0];
        struct attr a = A_INTS(dims + 1, n);
        val r = emit(b, OP_gather, operands + 1, n + 1, &a);
        v->results[0] = lanes ? emit_move_dim(b, r, s.first, 0) : r;
        return;
    }
    struct type t = emit_type(b, operands[2]);
    operands[1] = emit_iota(b, t.rank, t.dims, 0);
    struct attr a = A_INTS(dims, n + 1);
    val r = emit(b, OP_gather, operands, n + 2, &a); /* [lane, S…, rest…] */
    uint32_t order[MAX_RANK] = { 0 }, k = 1, total = emit_type(b, r).rank;
    for (uint32_t i = 0; i < s.first; i++) order[k++] = 1 + rank + i;
    for (uint32_t i = 0; i < rank; i++) order[k++] = 1 + i;
    for (; k < total; k++) order[k] = k;
    v->results[0] = emit_permute(b, r, order);
}

static lpv elem_gather(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                       const lpv *idx)
{
    HOP_UNUSED(result);
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    struct type x = operand_type(m, f, n, 0);
    uint32_t rank = operand_type(m, f, n, 1).rank;
    struct indexed s = indexed_dims(node_attr(f, n, GATHER_DIMS), n->n_operands - 1, x.rank);
    lpv at[MAX_RANK], some = LPV_NONE, zero = lp_const_bits(p, (enum dtype)x.dtype, 0);
    for (uint32_t i = 0; i < s.n_rest; i++) at[s.rest[i]] = idx[i < s.first ? i : i + rank];
    for (uint32_t i = 0; i < s.n; i++) {
        dim size = x.dims[s.dims[i]];
        if (!size) return zero;
        at[s.dims[i]] = lower_clamp(p, lower_index(p, lower_elem(L, operand(f, n, 1 + i), idx + s.first)),
                                    lower_dim(L, size));
        some = lower_not_empty(L, f, size, some);
    }
    return lower_elem_if(L, some, operand(f, n, 0), at, zero);
}

static const struct attr_spec gather_attrs[] = { [GATHER_DIMS] = { "dims", ATTR_INTS, false, NULL } };
static const struct op_lower lower_gather = {
    .kind = LOWER_POINTWISE, .access = ACCESS_GATHER, .cost = COST_CHEAP, .elem = elem_gather
};
static const struct op_sample gather_samples[] = {
    { "hop 1\nfn @sample(%x: f32[4], %i: i64[3]) -> (f32[3]) {\n  %y = gather(%x, %i)\n  return %y\n}\n",
      "i = -1..5" },
    { "hop 1\nfn @sample(%x: f64[3, 4], %i: i64[5], %j: i32[5]) -> (f64[5]) {\n  %y = gather(%x, %i, %j)\n  "
      "return %y\n}\n",
      "i = -1..4, j = -1..5" },
    { "hop 1\nfn @sample[T](%x: f64[2, 3, 2], %i: i32[T, 2]) -> (f64[2, T, 2, 2]) {\n  %y = gather {dims = "
      "[1]} (%x, %i)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[2, T, 3, 2], %i: i64[2], %j: i64[2]) -> (f32[2, 2, 3]) {\n  %y = gather "
      "{dims = [3, 1]} (%x, %i, %j)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[T, 2], %i: i64[], %j: i64[]) -> (f32[]) {\n  %y = gather(%x, %i, %j)\n  "
      "return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[200], %i: i8[5]) -> (f64[5]) {\n  %y = gather(%x, %i)\n  return %y\n}\n",
      "i = -3..127" },
    { "hop 1\nfn @sample(%x: f32[3, 4], %i: u8[5], %j: u64[5]) -> (f32[5]) {\n  %y = gather(%x, %i, %j)\n  "
      "return %y\n}\n",
      "i = 0..4, j = 0..5" },
    { "hop 1\nfn @sample(%x: bool[3, 2], %i: i32[0], %j: i32[0]) -> (bool[0]) {\n  %y = gather {dims = [1, "
      "0]} (%x, %i, %j)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[2, 0, 2], %i: i64[3], %j: i64[3]) -> (i32[3, 2]) {\n  %y = gather(%x, %i, "
      "%j)\n  return %y\n}\n",
      NULL },
};
/* Elements of operand 0, or zeros where a dim that is read along may be empty. */
static struct range range_gather(const struct range_in *w)
{
    struct type t = operand_type(w->m, w->f, w->n, 0);
    const struct attr *dims = node_attr(w->f, w->n, GATHER_DIMS);
    bool may_be_empty = false;
    for (uint32_t k = 0; k + 1 < w->n->n_operands; k++) {
        dim size = t.dims[dims->kind == ATTR_ABSENT ? k : dims->list[k]];
        may_be_empty |= range_of_dim(w, size).lo < 1;
    }
    return may_be_empty ? range_join(w->x, (struct range){ 0, 0 }) : w->x;
}

const struct op_row row_gather = {
    .name = "gather",
    .meaning = "x at given indices along the dims listed (absent: the first ones), clamped; the indices' "
               "dims stand where the first of these dims stood",
    .sig = { 2, MANY, ROW_ATTRS(gather_attrs) },
    .infer = infer_gather,
    .eval = eval_gather,
    .vjp = vjp_gather,
    .jvp = jvp_gather,
    .batch = batch_gather,
    .lower = &lower_gather,
    .range = range_gather,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(gather_samples),
};

/* ---- take ---- */

static void infer_take(struct infer *in)
{
    struct type x = infer_type(in, 0);
    if (!x.rank)
        infer_error(in, "operand 0: expected at least one dim, found %s", infer_text(in, in->operands[0]));
    uint32_t along = infer_one_dim(in, &in->attrs[TAKE_DIM], x.rank, "dim");
    struct indexed s = infer_indexed(in, &A_INTS(&along, 1), 1, 1);
    infer_result(in, infer_indexed_type(in, &s, 1));
}

static void expand_take(struct expand *e)
{
    uint32_t along = attr_dim_or_zero(&e->attrs[TAKE_DIM]);
    struct attr a = A_INTS(&along, 1);
    e->out[0] = emit(e->b, OP_gather, e->operands, 2, &a);
}

static const struct attr_spec take_attrs[] = { [TAKE_DIM] = { "dim", ATTR_INT, false, NULL } };
static const struct op_sample take_samples[] = {
    { "hop 1\nfn @sample(%x: f32[4], %i: i64[3]) -> (f32[3]) {\n  %y = take(%x, %i)\n  return %y\n}\n",
      "i = -1..5" },
    { "hop 1\nfn @sample[T](%x: f64[2, 3, 2], %i: i32[T, 2]) -> (f64[2, T, 2, 2]) {\n  %y = take {dim = 1} "
      "(%x, %i)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[T, 2], %i: i64[]) -> (f32[2]) {\n  %y = take(%x, %i)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bool[3], %i: i32[0]) -> (bool[0]) {\n  %y = take(%x, %i)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[0, 2], %i: i64[3]) -> (i32[3, 2]) {\n  %y = take(%x, %i)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_take = {
    .name = "take",
    .meaning = "slices of x along a dim (absent: 0) at given indices, clamped to its size; zeros when that "
               "dim is empty",
    .sig = { 2, 2, ROW_ATTRS(take_attrs) },
    .infer = infer_take,
    .expand = expand_take,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(take_samples),
};

/* ---- take_along ---- */

static void infer_take_along(struct infer *in)
{
    struct type x = infer_type(in, 0), at = infer_type(in, 1);
    uint32_t along = infer_one_dim(in, &in->attrs[TAKE_ALONG_DIM], x.rank, "dim");
    if (!dtype_is_integer((enum dtype)at.dtype))
        infer_error(in, "operand 1 (indices): expected integers, found %s", infer_text(in, in->operands[1]));
    if (at.rank != x.rank)
        infer_error(in, "operand 1 (indices): expected the dims of %s but for dim %u, found %s",
                    infer_text(in, in->operands[0]), along, infer_text(in, in->operands[1]));
    for (uint32_t d = 0; d < x.rank; d++)
        if (d != along)
            infer_equal(in, x.dims[d], at.dims[d],
                        arena_printf(&in->m->scratch, "operand 1 (indices): dim %u", d));
    infer_result(in, type_intern(in->m, (enum dtype)x.dtype, at.rank, at.dims));
}

static void expand_take_along(struct expand *e)
{
    e->out[0] = emit_take_along(e->b, e->operands[0], e->operands[1],
                                attr_dim_or_zero(&e->attrs[TAKE_ALONG_DIM]));
}

static const struct attr_spec take_along_attrs[] = { [TAKE_ALONG_DIM] = { "dim", ATTR_INT, false, NULL } };
static const struct op_sample take_along_samples[] = {
    { "hop 1\nfn @sample(%x: f32[4], %i: i64[3]) -> (f32[3]) {\n  %y = take_along(%x, %i)\n  return %y\n}\n",
      "i = -1..5" },
    { "hop 1\nfn @sample[T](%x: f64[T, 3], %i: i32[T, 2]) -> (f64[T, 2]) {\n  %y = take_along {dim = 1} (%x, "
      "%i)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[2, 3, 2], %i: i64[2, 4, 2]) -> (f32[2, 4, 2]) {\n  %y = take_along {dim = "
      "1} (%x, %i)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[0, 2], %i: i64[1, 2]) -> (i32[1, 2]) {\n  %y = take_along(%x, %i)\n  return "
      "%y\n}\n",
      NULL },
};
const struct op_row row_take_along = {
    .name = "take_along",
    .meaning = "x at positions along a dim (absent: 0) that are given for every place of the result, "
               "clamped; zeros when that dim is empty",
    .sig = { 2, 2, ROW_ATTRS(take_along_attrs) },
    .infer = infer_take_along,
    .expand = expand_take_along,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(take_along_samples),
};
