/* The row of nonzero: where a bool array holds, one index array a dim, row by row. How many there are is a
 * size that the node binds; with a static size the arrays have that size, and further places are cut off or
 * filled up. */
#include "ops/indexkit.h"

static bool is_sized(const struct attr *a) { return a[NONZERO_SIZE].kind != ATTR_ABSENT; }
static int64_t fill_of(const struct attr *a)
{
    return a[NONZERO_FILL].kind == ATTR_ABSENT ? -1 : a[NONZERO_FILL].i;
}

static void infer_nonzero(struct infer *in)
{
    struct type t = infer_type(in, 0);
    if (t.dtype != DT_BOOL || !t.rank)
        infer_error(in, "expected bool with at least one dim, found %s", infer_text(in, in->operands[0]));
    dim size;
    if (is_sized(in->attrs)) {
        size = (dim)in->attrs[NONZERO_SIZE].i;
        infer_not_negative(in, size, "attribute 'size'");
    } else {
        int64_t lo, hi;
        if (in->attrs[NONZERO_FILL].kind != ATTR_ABSENT)
            infer_error(in, "attribute 'fill' needs attribute 'size'");
        dim_range(in->m, in->symbols, type_elements(in->m, in->operands[0]), &lo, &hi);
        size = infer_fresh(in, 0, HOP_MAX(hi, 0));
    }
    for (uint32_t d = 0; d < t.rank; d++) infer_result(in, type_intern(in->m, DT_I64, 1, &size));
}

static void eval_nonzero(struct eval *e)
{
    const struct tensor *p = e->operands[0];
    const struct attr *attrs = node_attr(e->f, e->n, 0);
    const uint8_t *holds = p->data;
    int64_t count = 0, strides[MAX_RANK], at = 0;
    row_major(p->rank, p->dims, strides);
    for (int64_t i = 0; i < p->count; i++) count += holds[i];
    for (uint32_t d = 0; d < p->rank; d++)
        if (!e->results[d]) e->results[d] = tensor_new(DT_I64, 1, &count);
    int64_t size = e->results[0]->count;
    for (int64_t i = 0; i < p->count && at < size; i++) {
        if (!holds[i]) continue;
        for (uint32_t d = 0; d < p->rank; d++)
            ((int64_t *)e->results[d]->data)[at] = i / strides[d] % p->dims[d];
        at++;
    }
    for (; at < size; at++)
        for (uint32_t d = 0; d < p->rank; d++) ((int64_t *)e->results[d]->data)[at] = fill_of(attrs);
}

/* With a size: place k of the result is where the running count is k+1; those beyond the size fall outside
 * and are dropped. */
static void batch_nonzero(struct batch *v)
{
    if (batch_none(v)) return;
    struct builder *b = v->b;
    if (!is_sized(v->attrs))
        hop_throw(HOP_INVALID,
                  "%snonzero: how many there are differs from lane to lane, and arrays whose sizes differ do "
                  "not fit into one rectangular array; give a size: nonzero {size = n}",
                  place_text(b->m, v->n->place));
    struct type t = emit_type(b, v->operands[0]);
    dim flat[2] = { v->size, 1 }, out[2] = { v->size, (dim)v->attrs[NONZERO_SIZE].i };
    for (uint32_t d = 1; d < t.rank; d++) flat[1] = dim_mul(b->m, flat[1], t.dims[d]);
    val holds = emit_reshape(b, v->operands[0], 2, flat), ones = emit_cast(b, holds, DT_I64);
    struct attr along[CUMULATIVE_ATTRS] = { A_INT(1), A_NONE, A_NONE };
    val count = emit(b, OP_cumsum, &ones, 1, along), nowhere = emit_full(b, DT_I64, -1, 2, flat);
    val indices[2] = { emit_iota(b, 2, flat, 0),
                       emit_select(b, holds, emit2(b, OP_sub, count, emit_full(b, DT_I64, 1, 2, flat)),
                                   nowhere) };
    struct indexed s = indexed_dims(&A_NONE, 2, 2);
    struct attr fill[3] = { A_INT(fill_of(v->attrs)), A_DIMS(out, 2), A_DTYPE(DT_I64) };
    for (uint32_t d = 1; d < t.rank; d++) {
        val places = emit_reshape(b, emit_iota(b, t.rank, t.dims, d), 2, flat);
        val filled = emit(b, OP_full, NULL, 0, fill);
        v->results[d - 1] = emit_scatter(b, filled, &s, indices, places, SCATTER_SET);
    }
}

/* They are counted, which gives the size, then written. */
static void block_nonzero(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    const struct attr *attrs = node_attr(f, n, 0);
    val x = node_operands(f, n)[0];
    type_id type = value_type(f, x);
    uint32_t rank = type_get(m, type).rank, symbol;
    lpv idx[MAX_RANK], one = lp_index(p, 1), zero = lp_index(p, 0);
    bool sized = is_sized(attrs);
    if (!sized) {
        uint32_t count = lp_local(p, DT_I64, LOCAL_LANES, "count");
        lp_set(p, count, zero);
        lower_each_begin(L, type, true, idx);
        lp_accum(p, count, FOLD_SUM, lp_cast(p, DT_I64, lower_elem(L, x, idx)));
        lower_each_end(L, type);
        lpv total = lp_fold_lanes(p, count, FOLD_SUM);
        if (dim_is_symbol(m, type_get(m, value_type(f, n->results)).dims[0], &symbol))
            lower_bind_symbol(L, symbol, total);
    }
    struct array out[MAX_RANK];
    for (uint32_t d = 0; d < rank; d++)
        if (lower_result_used(L, n, d)) out[d] = lower_result(L, n, d);
    lpv size = lower_dim(L, type_get(m, value_type(f, n->results)).dims[0]);
    uint32_t next = lp_local(p, DT_I64, LOCAL_SCALAR, "next");
    lp_set(p, next, zero);
    lower_each_begin(L, type, false, idx);
    lpv holds = lower_elem(L, x, idx);
    if (sized) holds = lp_bin(p, LP_AND, holds, lp_bin(p, LP_LT, lp_read(p, next), size));
    lp_if_begin(p, holds);
    lpv at = lp_read(p, next);
    for (uint32_t d = 0; d < rank; d++)
        if (lower_result_used(L, n, d)) lp_store(p, out[d].buffer, lp_bin(p, LP_ADD, out[d].at, at), idx[d]);
    lp_set(p, next, lp_bin(p, LP_ADD, at, one));
    lp_if_end(p);
    lower_each_end(L, type);
    if (!sized) return;
    for (uint32_t d = 0; d < rank; d++) {
        if (!lower_result_used(L, n, d)) continue;
        lpv i = lp_for_begin(p, lp_read(p, next), size, one, FOR_VECTOR);
        lp_store(p, out[d].buffer, lp_bin(p, LP_ADD, out[d].at, i), lp_index(p, fill_of(attrs)));
        lp_for_end(p);
    }
}

static uint8_t use_many(const struct fn *f, const struct node *n, uint32_t i)
{
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    HOP_UNUSED(i);
    return USE_MANY;
}

static const struct attr_spec nonzero_attrs[] = {
    [NONZERO_SIZE] = { "size", ATTR_DIM, false, NULL }, [NONZERO_FILL] = { "fill", ATTR_INT, false, NULL }
};
static const struct op_lower lower_nonzero = { .kind = LOWER_BLOCK,
                                               .access = ACCESS_GATHER,
                                               .cost = COST_EXPENSIVE,
                                               .block = block_nonzero,
                                               .operand_use = use_many };
static const struct op_sample nonzero_samples[] = {
    { "hop 1\nfn @sample(%p: bool[9]) -> (i64[4]) {\n  %i = nonzero {size = 4} (%p)\n  return %i\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%p: bool[T, 3]) -> (i64[T], i64[T]) {\n  %i, %j = nonzero {size = T, fill = 7} "
      "(%p)\n  return %i, %j\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[0, 2]) -> (i64[2]) {\n  %p = eq(%x, %x)\n  %i, %j = nonzero {size = 2} "
      "(%p)\n  return %j\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[2]) -> (i64[?k], i64[?k], f32[2]) {\n  %a = iota {dims = [3, 4], dim = 1}\n "
      " %b = iota {dims = [3, 4]}\n  %p = gt(%a, %b)\n"
      "  %i: i64[?k], %j: i64[?k] = nonzero(%p)\n  return %i, %j, %x\n}\n",
      NULL },
};
const struct op_row row_nonzero = {
    .name = "nonzero",
    .meaning = "where p holds, row by row: one array of indices a dim, whose size the node binds; with size "
               "that many, then fill (absent: -1)",
    .sig = { 1, 1, ROW_ATTRS(nonzero_attrs) },
    .infer = infer_nonzero,
    .eval = eval_nonzero,
    .batch = batch_nonzero,
    .lower = &lower_nonzero,
    .no_gradient = "integer-valued",
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(nonzero_samples),
};
