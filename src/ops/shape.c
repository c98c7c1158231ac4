/* Rows of the operators that only move elements: reshape permute broadcast slice slice_update pad concat
 * reverse. Sizes in attributes are dims, so every rule works on symbols; what cannot be proved about them is
 * required. Each is linear, so its jvp is itself. */
#include "loop/lower.h"
#include "ops/facts.h"
#include "ops/rowkit.h"

static void jvp_linear(struct jvp *j)
{
    if (j->tangents[0] != VAL_NONE) j->out[0] = emit_same(j->b, j->n, j->tangents[0], j->attrs);
}

static val operand(const struct fn *f, const struct node *n, uint32_t i) { return node_operands(f, n)[i]; }
static struct type operand_type(const struct module *m, const struct fn *f, const struct node *n, uint32_t i)
{
    return type_get(m, value_type(f, operand(f, n, i)));
}

/* ---- reshape ---- */

static void infer_reshape(struct infer *in)
{
    type_id from = in->operands[0];
    type_id to = infer_dims_type(in, infer_type(in, 0).dtype, &in->attrs[RESHAPE_DIMS]);
    dim have = type_elements(in->m, from), want = type_elements(in->m, to);
    if (have != want)
        infer_equal(in, have, want,
                    arena_printf(&in->m->scratch, "elements of the operand %s and of the result %s",
                                 infer_text(in, from), infer_text(in, to)));
    infer_result(in, to);
}

static void eval_reshape(struct eval *e)
{
    const struct tensor *r = e->results[0];
    if (r->count) memcpy(r->data, e->operands[0]->data, (size_t)r->count * tensor_width(r));
}

static void vjp_reshape(struct vjp *v)
{
    v->out[0] = emit_as(v->b, v->ct[0], builder_type(v->b, v->operands[0]));
}

static void batch_reshape(struct batch *v)
{
    if (batch_none(v)) return;
    struct attr a = batch_sizes(v, &v->attrs[RESHAPE_DIMS], v->size);
    v->results[0] = emit(v->b, OP_reshape, v->operands, 1, &a);
}

/* Splits dims `a` and `b` of equal element counts into the shortest runs of equal products, so that a reshape
 * touches only the indices of dims that really change: [B, T, 64] -> [B, T, 8, 8] divides nothing by T.
 * Returns the end of the run that starts at *i, *j. */
static void next_run(struct module *m, struct type a, struct type b, uint32_t i, uint32_t j, uint32_t *i_end,
                     uint32_t *j_end)
{
    dim pa[MAX_RANK + 1] = { 1 }, pb[MAX_RANK + 1] = { 1 };
    uint32_t na = a.rank - i, nb = b.rank - j;
    for (uint32_t k = 0; k < na; k++) pa[k + 1] = dim_mul(m, pa[k], a.dims[i + k]);
    for (uint32_t k = 0; k < nb; k++) pb[k + 1] = dim_mul(m, pb[k], b.dims[j + k]);
    for (uint32_t total = 1; total <= na + nb; total++)
        for (uint32_t k = total > nb ? total - nb : 0; k <= na && k <= total; k++)
            if (pa[k] == pb[total - k]) {
                *i_end = i + k;
                *j_end = j + total - k;
                return;
            }
    *i_end = a.rank; /* equal only by a requirement */
    *j_end = b.rank;
}

static lpv elem_reshape(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                        const lpv *idx)
{
    struct module *m = lower_module(L);
    struct lp *p = lower_lp(L);
    struct type from = operand_type(m, f, n, 0), to = type_get(m, value_type(f, n->results + result));
    lpv at[MAX_RANK];
    for (uint32_t i = 0, j = 0, i_end, j_end; i < from.rank || j < to.rank; i = i_end, j = j_end) {
        next_run(m, from, to, i, j, &i_end, &j_end);
        if (i_end == i + 1 && j_end == j + 1) {
            at[i] = idx[j];
            continue;
        }
        lpv flat = lp_index(p, 0);
        for (uint32_t k = j; k < j_end; k++)
            if (to.dims[k] != 1)
                flat = lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, flat, lower_dim(L, to.dims[k])), idx[k]);
        uint32_t first = i; /* the outermost dim that is not 1 takes what is left, without a mod */
        while (first < i_end && from.dims[first] == 1) first++;
        for (uint32_t k = i_end; k-- > i;) {
            if (from.dims[k] == 1) at[k] = lp_index(p, 0);
            else if (k == first) at[k] = flat;
            else { /* an empty array is never read, but index arithmetic may still be done */
                lpv size = lp_bin(p, LP_MAX, lower_dim(L, from.dims[k]), lp_index(p, 1));
                at[k] = lp_bin(p, LP_MOD, flat, size);
                flat = lp_bin(p, LP_FLOORDIV, flat, size);
            }
        }
    }
    return lower_elem(L, operand(f, n, 0), at);
}

static const struct attr_spec reshape_attrs[] = { [RESHAPE_DIMS] = { "dims", ATTR_DIMS, true, NULL } };
static bool run_reshape(struct module *m, const struct fn *f, const struct node *n, dim *at)
{
    HOP_UNUSED(m);
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    *at = 0;
    return true;
}
/* Its one operand is all of it. */
static void reshape_assembly(struct module *m, const struct fn *f, const struct node *n, uint32_t k,
                             uint32_t *along, dim *from)
{
    HOP_UNUSED(m);
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    HOP_UNUSED(k);
    *along = 0;
    *from = 0;
}
static const struct op_lower lower_reshape = { .kind = LOWER_POINTWISE,
                                               .access = ACCESS_VIEW,
                                               .cost = COST_CHEAP,
                                               .elem = elem_reshape,
                                               .run = run_reshape,
                                               .assembly = reshape_assembly };
static const struct op_sample reshape_samples[] = {
    { "hop 1\nfn @sample(%x: f32[2, 6]) -> (f32[3, 4]) {\n  %y = reshape {dims = [3, 4]} (%x)\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[T, 4]) -> (f64[2, T, 2]) {\n  %y = reshape {dims = [2, T, 2]} (%x)\n  "
      "return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[T, 3, 1, 4]) -> (f32[T, 12]) {\n  %y = reshape {dims = [T, 12]} (%x)\n  "
      "return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[2, 0, 3]) -> (i32[0]) {\n  %y = reshape {dims = [0]} (%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bool[1, 1]) -> (bool[]) {\n  %y = reshape {dims = []} (%x)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_reshape = {
    .name = "reshape",
    .meaning = "the same elements in row-major order under other dims",
    .sig = { 1, 1, ROW_ATTRS(reshape_attrs) },
    .infer = infer_reshape,
    .eval = eval_reshape,
    .vjp = vjp_reshape,
    .jvp = jvp_linear,
    .batch = batch_reshape,
    .lower = &lower_reshape,
    .range = range_of_operand,
    .fold = fold_reshape,
    .sliced = sliced_reshape,
    .sizes_attr = 1 + RESHAPE_DIMS,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(reshape_samples),
};

/* ---- permute ---- */

static void infer_permute(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *order = &in->attrs[PERMUTE_ORDER];
    infer_list_length(in, order, t.rank, "order");
    infer_dim_list(in, order, t.rank, "order");
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = t.dims[order->list[i]];
    infer_result(in, type_intern(in->m, t.dtype, t.rank, dims));
}

static void eval_permute(struct eval *e)
{
    const struct tensor *x = e->operands[0], *r = e->results[0];
    const struct attr *order = node_attr(e->f, e->n, PERMUTE_ORDER);
    int64_t from[MAX_RANK], to[MAX_RANK], step[MAX_RANK];
    row_major(x->rank, x->dims, from);
    row_major(r->rank, r->dims, to);
    for (uint32_t i = 0; i < r->rank; i++) step[i] = from[order->list[i]];
    copy_strided(tensor_width(x), r->rank, r->dims, r->data, to, x->data, step);
}

static void vjp_permute(struct vjp *v)
{
    const struct attr *order = &v->attrs[PERMUTE_ORDER];
    uint32_t inverse[MAX_RANK];
    for (uint32_t i = 0; i < order->n; i++) inverse[order->list[i]] = i;
    v->out[0] = emit_permute(v->b, v->ct[0], inverse);
}

static void batch_permute(struct batch *v)
{
    if (batch_none(v)) return;
    struct attr a = batch_dim_numbers(v, &v->attrs[PERMUTE_ORDER], 0);
    v->results[0] = emit(v->b, OP_permute, v->operands, 1, &a);
}

static lpv elem_permute(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                        const lpv *idx)
{
    HOP_UNUSED(result);
    const struct attr *order = node_attr(f, n, PERMUTE_ORDER);
    lpv at[MAX_RANK];
    for (uint32_t i = 0; i < order->n; i++) at[order->list[i]] = idx[i];
    return lower_elem(L, operand(f, n, 0), at);
}

static void permute_source_dims(const struct attr *attrs, uint32_t operand_rank, uint32_t result_rank,
                                uint32_t from[MAX_RANK])
{
    HOP_UNUSED(operand_rank);
    memcpy(from, attrs[PERMUTE_ORDER].list, result_rank * sizeof *from);
}

static const struct attr_spec permute_attrs[] = { [PERMUTE_ORDER] = { "order", ATTR_INTS, true, NULL } };
static const struct op_lower lower_permute = {
    .kind = LOWER_POINTWISE, .access = ACCESS_VIEW, .cost = COST_FREE, .elem = elem_permute
};
static const struct op_sample permute_samples[] = {
    { "hop 1\nfn @sample(%x: f32[2, 3]) -> (f32[3, 2]) {\n  %y = permute {order = [1, 0]} (%x)\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[2, T, 3]) -> (f64[3, 2, T]) {\n  %y = permute {order = [2, 0, 1]} (%x)\n "
      " return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: u32[0, 4]) -> (u32[4, 0]) {\n  %y = permute {order = [1, 0]} (%x)\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bool[2, 2, 2]) -> (bool[2, 2, 2]) {\n  %y = permute {order = [1, 2, 0]} (%x)\n  "
      "return %y\n}\n",
      NULL },
};
const struct op_row row_permute = {
    .name = "permute",
    .meaning = "dims in another order: result dim i is operand dim order[i]",
    .sig = { 1, 1, ROW_ATTRS(permute_attrs) },
    .infer = infer_permute,
    .eval = eval_permute,
    .vjp = vjp_permute,
    .jvp = jvp_linear,
    .batch = batch_permute,
    .lower = &lower_permute,
    .range = range_of_operand,
    .fold = fold_permute,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(permute_samples),
    .source_dims = permute_source_dims,
};

/* ---- broadcast ---- */

static void infer_broadcast(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *dims = &in->attrs[BROADCAST_DIMS], *at = &in->attrs[BROADCAST_AT];
    infer_list_length(in, at, t.rank, "at");
    infer_dim_list(in, at, dims->n, "at");
    for (uint32_t i = 0; i < at->n; i++) {
        if (i && at->list[i] <= at->list[i - 1])
            infer_error(in, "attribute 'at': expected ascending dims, found %u after %u", at->list[i],
                        at->list[i - 1]);
        if (t.dims[i] != dims->list[at->list[i]])
            infer_equal(in, t.dims[i], dims->list[at->list[i]],
                        arena_printf(&in->m->scratch, "dim %u of the operand %s and dim %u of the result", i,
                                     infer_text(in, in->operands[0]), at->list[i]));
    }
    infer_result(in, infer_dims_type(in, t.dtype, dims));
}

static void eval_broadcast(struct eval *e)
{
    const struct tensor *x = e->operands[0], *r = e->results[0];
    const struct attr *at = node_attr(e->f, e->n, BROADCAST_AT);
    int64_t from[MAX_RANK], to[MAX_RANK], step[MAX_RANK] = { 0 };
    row_major(x->rank, x->dims, from);
    row_major(r->rank, r->dims, to);
    for (uint32_t i = 0; i < at->n; i++) step[at->list[i]] = from[i];
    copy_strided(tensor_width(x), r->rank, r->dims, r->data, to, x->data, step);
}

static void vjp_broadcast(struct vjp *v)
{
    const struct attr *at = &v->attrs[BROADCAST_AT];
    uint32_t fresh[MAX_RANK], n = 0;
    for (uint32_t d = 0, i = 0; d < v->attrs[BROADCAST_DIMS].n; d++)
        if (i < at->n && at->list[i] == d) i++;
        else fresh[n++] = d;
    val sum = emit_reduce(v->b, OP_sum, v->ct[0], fresh, n);
    v->out[0] = emit_as(v->b, sum, builder_type(v->b, v->operands[0]));
}

static void batch_broadcast(struct batch *v)
{
    if (batch_none(v)) return;
    struct attr a[2] = { batch_sizes(v, &v->attrs[BROADCAST_DIMS], v->size),
                         batch_dim_numbers(v, &v->attrs[BROADCAST_AT], 0) };
    v->results[0] = emit(v->b, OP_broadcast, v->operands, 1, a);
}

static lpv elem_broadcast(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                          const lpv *idx)
{
    HOP_UNUSED(result);
    const struct attr *to = node_attr(f, n, BROADCAST_AT);
    lpv at[MAX_RANK];
    for (uint32_t i = 0; i < to->n; i++) at[i] = idx[to->list[i]];
    return lower_elem(L, operand(f, n, 0), at);
}

static void broadcast_source_dims(const struct attr *attrs, uint32_t operand_rank, uint32_t result_rank,
                                  uint32_t from[MAX_RANK])
{
    for (uint32_t i = 0; i < result_rank; i++) from[i] = HOP_NONE;
    for (uint32_t i = 0; i < operand_rank; i++) from[attrs[BROADCAST_AT].list[i]] = i;
}

static const struct attr_spec broadcast_attrs[] = {
    [BROADCAST_DIMS] = { "dims", ATTR_DIMS, true, NULL }, [BROADCAST_AT] = { "at", ATTR_INTS, true, NULL }
};
/* New dims of size 1 repeat nothing. */
static bool run_broadcast(struct module *m, const struct fn *f, const struct node *n, dim *at)
{
    *at = 0;
    return type_elements(m, value_type(f, n->results)) == type_elements(m, value_type(f, operand(f, n, 0)));
}

static const struct op_lower lower_broadcast = { .kind = LOWER_POINTWISE,
                                                 .access = ACCESS_REPEAT,
                                                 .cost = COST_FREE,
                                                 .elem = elem_broadcast,
                                                 .run = run_broadcast };
static const struct op_sample broadcast_samples[] = {
    { "hop 1\nfn @sample(%x: f32[3]) -> (f32[2, 3]) {\n  %y = broadcast {dims = [2, 3], at = [1]} (%x)\n  "
      "return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[T, 2], %n: f32[T]) -> (f64[T, 3, 2]) {\n  %y = broadcast {dims = [T, 3, "
      "2], at = [0, 2]} (%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[], %n: i32[T]) -> (f32[T, 2]) {\n  %y = broadcast {dims = [T, 2], at = "
      "[]} (%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i64[2]) -> (i64[2, 0]) {\n  %y = broadcast {dims = [2, 0], at = [0]} (%x)\n  "
      "return %y\n}\n",
      NULL },
};
const struct op_row row_broadcast = {
    .name = "broadcast",
    .meaning = "repeats over new dims: operand dim i becomes result dim at[i]",
    .sig = { 1, 1, ROW_ATTRS(broadcast_attrs) },
    .infer = infer_broadcast,
    .eval = eval_broadcast,
    .vjp = vjp_broadcast,
    .jvp = jvp_linear,
    .batch = batch_broadcast,
    .lower = &lower_broadcast,
    .range = range_of_operand,
    .fold = fold_broadcast,
    .sizes_attr = 1 + BROADCAST_DIMS,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(broadcast_samples),
    .source_dims = broadcast_source_dims,
};

/* ---- slice ---- */

static int64_t slice_step(const struct attr *a, uint32_t i)
{
    return a[SLICE_STEP].kind == ATTR_ABSENT ? 1 : (int32_t)a[SLICE_STEP].list[i];
}

static bool slice_is_whole(const struct attr *a, const struct type *t, uint32_t i)
{
    return a[SLICE_START].list[i] == 0 && a[SLICE_LIMIT].list[i] == t->dims[i] && slice_step(a, i) == 1;
}

static type_id infer_slice_type(struct infer *in)
{
    struct module *m = in->m;
    struct type t = infer_type(in, 0);
    const struct attr *start = &in->attrs[SLICE_START];
    const struct attr *limit = &in->attrs[SLICE_LIMIT];
    const struct attr *step = &in->attrs[SLICE_STEP];
    infer_list_length(in, start, t.rank, "start");
    infer_list_length(in, limit, t.rank, "limit");
    if (step->kind != ATTR_ABSENT) infer_list_length(in, step, t.rank, "step");
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t by = slice_step(in->attrs, i);
        if (by < 1)
            infer_error(in, "attribute 'step': expected steps of at least 1, found %lld for dim %u",
                        (long long)by, i);
        infer_not_negative(in, start->list[i], arena_printf(&m->scratch, "start of dim %u", i));
        infer_le(in, start->list[i], limit->list[i],
                 arena_printf(&m->scratch, "start of dim %u, against its limit", i));
        infer_le(in, limit->list[i], t.dims[i],
                 arena_printf(&m->scratch, "limit of dim %u of %s", i, infer_text(in, in->operands[0])));
        dim length = dim_sub(m, limit->list[i], start->list[i]);
        dims[i] = dim_floordiv(m, dim_add(m, length, dim_const(m, by - 1)), dim_const(m, by));
    }
    return type_intern(m, t.dtype, t.rank, dims);
}

static void infer_slice(struct infer *in) { infer_result(in, infer_slice_type(in)); }

/* The strides of a slice of x, and the element it begins with. */
static int64_t slice_strides(const struct eval *e, const struct tensor *x, int64_t *strides)
{
    const struct attr *a = node_attr(e->f, e->n, 0);
    int64_t offset = 0;
    row_major(x->rank, x->dims, strides);
    for (uint32_t i = 0; i < x->rank; i++) {
        offset += dim_eval(e->m, a[SLICE_START].list[i], e->symbols) * strides[i];
        strides[i] *= slice_step(a, i);
    }
    return offset;
}

static void eval_slice(struct eval *e)
{
    const struct tensor *x = e->operands[0], *r = e->results[0];
    int64_t from[MAX_RANK], to[MAX_RANK];
    int64_t offset = slice_strides(e, x, from);
    size_t width = tensor_width(x);
    row_major(r->rank, r->dims, to);
    if (!r->count) return;
    const char *first = (const char *)x->data + offset * (int64_t)width;
    copy_strided(width, r->rank, r->dims, r->data, to, first, from);
}

/* How many elements n elements with `interior` gaps between them span; 0 for none. */
static dim spanned(struct module *m, const struct symbol *symbols, dim n, int64_t interior)
{
    if (!interior) return n;
    dim gaps = dim_sub(m, n, 1);
    if (!dim_provably_le(m, symbols, 1, n)) gaps = dim_max(m, gaps, 0);
    return dim_add(m, n, dim_mul(m, gaps, dim_const(m, interior)));
}

static void vjp_slice(struct vjp *v)
{
    struct module *m = v->b->m;
    struct type x = emit_type(v->b, v->operands[0]), r = emit_type(v->b, v->ct[0]);
    dim high[MAX_RANK];
    uint32_t interior[MAX_RANK];
    for (uint32_t i = 0; i < x.rank; i++) {
        interior[i] = (uint32_t)(slice_step(v->attrs, i) - 1);
        if (interior[i]) {
            dim taken = spanned(m, v->b->symbols.data, r.dims[i], interior[i]);
            dim behind_start = dim_sub(m, x.dims[i], v->attrs[SLICE_START].list[i]);
            high[i] = dim_sub(m, behind_start, taken);
        } else {
            high[i] = dim_sub(m, x.dims[i], v->attrs[SLICE_LIMIT].list[i]);
        }
    }
    struct attr a[3] = { v->attrs[SLICE_START], A_DIMS(high, x.rank), A_INTS(interior, x.rank) };
    val zero = emit_full(v->b, (enum dtype)x.dtype, 0, 0, NULL);
    val padded = emit(v->b, OP_pad, (val[]){ v->ct[0], zero }, 2, a);
    v->out[0] = emit_as(v->b, padded, builder_type(v->b, v->operands[0]));
}

static void batch_slice_attrs(struct batch *v, struct attr a[3])
{
    a[SLICE_START] = batch_sizes(v, &v->attrs[SLICE_START], 0);
    a[SLICE_LIMIT] = batch_sizes(v, &v->attrs[SLICE_LIMIT], v->size);
    a[SLICE_STEP] = A_NONE;
    if (v->attrs[SLICE_STEP].kind != ATTR_ABSENT) a[SLICE_STEP] = batch_sizes(v, &v->attrs[SLICE_STEP], 1);
}

static void batch_slice(struct batch *v)
{
    struct attr a[3];
    if (batch_none(v)) return;
    batch_slice_attrs(v, a);
    v->results[0] = emit(v->b, OP_slice, v->operands, 1, a);
}

static lpv elem_slice(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                      const lpv *idx)
{
    HOP_UNUSED(result);
    struct lp *p = lower_lp(L);
    const struct attr *a = node_attr(f, n, 0);
    lpv at[MAX_RANK];
    for (uint32_t i = 0; i < a[SLICE_START].n; i++)
        at[i] = lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, idx[i], lp_index(p, slice_step(a, i))),
                       lower_dim(L, a[SLICE_START].list[i]));
    return lower_elem(L, operand(f, n, 0), at);
}

static const struct attr_spec slice_attrs[] = { [SLICE_START] = { "start", ATTR_DIMS, true, NULL },
                                                [SLICE_LIMIT] = { "limit", ATTR_DIMS, true, NULL },
                                                [SLICE_STEP] = { "step", ATTR_INTS, false, NULL } };
/* The dims in front of the one that is cut have one index, those behind are whole. */
static bool run_slice(struct module *m, const struct fn *f, const struct node *n, dim *at)
{
    const struct attr *a = node_attr(f, n, 0);
    struct type t = operand_type(m, f, n, 0), r = type_get(m, value_type(f, n->results));
    dim stride = 1;
    bool cut = false;
    *at = 0;
    for (uint32_t i = t.rank; i-- > 0;) {
        if (cut && r.dims[i] != 1) return false;
        if (!slice_is_whole(a, &t, i)) {
            if (slice_step(a, i) != 1 && r.dims[i] != 1) return false;
            cut = true;
        }
        *at = dim_add(m, *at, dim_mul(m, a[SLICE_START].list[i], stride));
        stride = dim_mul(m, stride, t.dims[i]);
    }
    return true;
}

static const struct op_lower lower_slice = {
    .kind = LOWER_POINTWISE, .access = ACCESS_VIEW, .cost = COST_FREE, .elem = elem_slice, .run = run_slice
};
static const struct op_sample slice_samples[] = {
    { "hop 1\nfn @sample(%x: f32[5]) -> (f32[3]) {\n  %y = slice {start = [1], limit = [4]} (%x)\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[7, 3]) -> (f32[3, 2]) {\n  %y = slice {start = [1, 0], limit = [6, 3], step "
      "= [2, 2]} (%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T in 1..64](%x: f64[T, 2]) -> (f64[T - 1, 2]) {\n  %y = slice {start = [1, 0], "
      "limit = [T, 2]} (%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T in 2..64](%x: f32[2*T], %n: i32[T]) -> (f32[T]) {\n  %y = slice {start = [1], "
      "limit = [2*T], step = [2]} (%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[4]) -> (i32[0]) {\n  %y = slice {start = [4], limit = [4]} (%x)\n  return "
      "%y\n}\n",
      NULL },
};
const struct op_row row_slice = {
    .name = "slice",
    .meaning = "elements start, start + step, … below limit of each dim",
    .sig = { 1, 1, ROW_ATTRS(slice_attrs) },
    .infer = infer_slice,
    .eval = eval_slice,
    .vjp = vjp_slice,
    .jvp = jvp_linear,
    .batch = batch_slice,
    .lower = &lower_slice,
    .range = range_of_operand,
    .fold = fold_slice,
    .sliced = sliced_slice,
    .sizes_attr = 1 + SLICE_LIMIT,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(slice_samples),
};

/* ---- slice_update ---- */

static void infer_slice_update(struct infer *in)
{
    infer_same_type(in, infer_slice_type(in), in->operands[1], "operand 1 (update)");
    infer_result(in, in->operands[0]);
}

static void eval_slice_update(struct eval *e)
{
    const struct tensor *x = e->operands[0], *u = e->operands[1], *r = e->results[0];
    int64_t from[MAX_RANK], to[MAX_RANK];
    int64_t offset = slice_strides(e, r, to);
    size_t width = tensor_width(r);
    row_major(u->rank, u->dims, from);
    if (r->count) memcpy(r->data, x->data, (size_t)r->count * width);
    if (!u->count) return;
    char *first = (char *)r->data + offset * (int64_t)width;
    copy_strided(width, u->rank, u->dims, first, to, u->data, from);
}

static void vjp_slice_update(struct vjp *v)
{
    struct builder *b = v->b;
    if (v->active[0]) {
        val zeros = emit_full_like(b, v->operands[1], 0);
        val kept = emit(b, OP_slice_update, (val[]){ v->ct[0], zeros }, 2, v->attrs);
        v->out[0] = emit_as(b, kept, builder_type(b, v->operands[0]));
    }
    if (v->active[1])
        v->out[1] = emit_as(b, emit(b, OP_slice, v->ct, 1, v->attrs), builder_type(b, v->operands[1]));
}

static void jvp_slice_update(struct jvp *j)
{
    val operands[2];
    if (j->tangents[0] == VAL_NONE && j->tangents[1] == VAL_NONE) return;
    for (int i = 0; i < 2; i++)
        operands[i] = j->tangents[i] != VAL_NONE ? j->tangents[i] : emit_full_like(j->b, j->operands[i], 0);
    j->out[0] = emit(j->b, OP_slice_update, operands, 2, j->attrs);
}

static void batch_slice_update(struct batch *v)
{
    struct attr a[3];
    if (batch_none(v)) return;
    batch_slice_attrs(v, a);
    v->results[0] = emit(v->b, OP_slice_update, (val[]){ batch_operand(v, 0), batch_operand(v, 1) }, 2, a);
}

static lpv elem_slice_update(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                             const lpv *idx)
{
    HOP_UNUSED(result);
    struct lp *p = lower_lp(L);
    const struct attr *a = node_attr(f, n, 0);
    struct type t = operand_type(lower_module(L), f, n, 0), u = operand_type(lower_module(L), f, n, 1);
    lpv inside = LPV_NONE, some = LPV_NONE, at[MAX_RANK], zero = lp_index(p, 0);
    for (uint32_t i = 0; i < t.rank; i++) {
        at[i] = idx[i];
        if (slice_is_whole(a, &t, i)) continue;
        if (u.dims[i] == 0) return lower_elem(L, operand(f, n, 0), idx);
        lpv step = lp_index(p, slice_step(a, i));
        lpv from = lp_bin(p, LP_SUB, idx[i], lower_dim(L, a[SLICE_START].list[i]));
        lpv here = lp_bin(p, LP_AND, lp_bin(p, LP_GE, from, zero),
                          lp_bin(p, LP_LT, idx[i], lower_dim(L, a[SLICE_LIMIT].list[i])));
        if (slice_step(a, i) > 1)
            here = lp_bin(p, LP_AND, here, lp_bin(p, LP_EQ, lp_bin(p, LP_MOD, from, step), zero));
        inside = inside == LPV_NONE ? here : lp_bin(p, LP_AND, inside, here);
        at[i] = lower_clamp(p, slice_step(a, i) > 1 ? lp_bin(p, LP_FLOORDIV, from, step) : from,
                            lower_dim(L, u.dims[i]));
        some = lower_not_empty(L, f, u.dims[i], some);
    }
    if (inside == LPV_NONE) return lower_elem(L, operand(f, n, 1), at);
    lpv x = lower_elem(L, operand(f, n, 0), idx);
    return lp_select(p, inside, lower_elem_if(L, some, operand(f, n, 1), at, x), x);
}

/* The slice alone. */
static void part_slice_update(struct lower *L, const struct fn *f, const struct node *n, struct array whole)
{
    const struct attr *a = node_attr(f, n, 0);
    type_id t = value_type(f, operand(f, n, 0));
    uint32_t rank = type_get(lower_module(L), t).rank;
    lpv start[MAX_RANK];
    int64_t step[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        start[i] = lower_dim(L, a[SLICE_START].list[i]);
        step[i] = slice_step(a, i);
    }
    struct written_part x = { .v = operand(f, n, 1), .to = whole, .whole = t, .start = start, .step = step };
    lower_place(L, &x);
}

static const struct op_lower lower_slice_update = { .kind = LOWER_POINTWISE,
                                                    .access = ACCESS_GATHER,
                                                    .cost = COST_CHEAP,
                                                    .elem = elem_slice_update,
                                                    .part = part_slice_update };
static const struct op_sample slice_update_samples[] = {
    { "hop 1\nfn @sample(%x: f32[5], %u: f32[2]) -> (f32[5]) {\n  %y = slice_update {start = [1], limit = "
      "[4], step = [2]} (%x, %u)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[3, 4], %u: f64[2, 2]) -> (f64[3, 4]) {\n  %y = slice_update {start = [1, "
      "1], limit = [3, 3]} (%x, %u)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T in 1..64](%x: f64[3*T, 2], %u: f64[T, 2]) -> (f64[3*T, 2]) {\n  %y = slice_update "
      "{start = [0, 0], limit = [3*T, 2], step = [3, 1]} (%x, %u)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[4], %u: i32[0]) -> (i32[4]) {\n  %y = slice_update {start = [4], limit = "
      "[4]} (%x, %u)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bool[2, 3], %u: bool[2, 2]) -> (bool[2, 3]) {\n  %y = slice_update {start = [0, "
      "0], limit = [2, 3], step = [1, 2]} (%x, %u)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_slice_update = {
    .name = "slice_update",
    .meaning = "x with the elements that slice would give replaced by update",
    .sig = { 2, 2, ROW_ATTRS(slice_attrs) },
    .infer = infer_slice_update,
    .eval = eval_slice_update,
    .vjp = vjp_slice_update,
    .jvp = jvp_slice_update,
    .batch = batch_slice_update,
    .lower = &lower_slice_update,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(slice_update_samples),
};

/* ---- pad ---- */

static int64_t pad_interior(const struct attr *a, uint32_t i)
{
    return a[PAD_INTERIOR].kind == ATTR_ABSENT ? 0 : (int32_t)a[PAD_INTERIOR].list[i];
}

static void infer_pad(struct infer *in)
{
    struct module *m = in->m;
    struct type t = infer_type(in, 0);
    const struct attr *low = &in->attrs[PAD_LOW], *high = &in->attrs[PAD_HIGH];
    infer_list_length(in, low, t.rank, "low");
    infer_list_length(in, high, t.rank, "high");
    if (in->attrs[PAD_INTERIOR].kind != ATTR_ABSENT)
        infer_list_length(in, &in->attrs[PAD_INTERIOR], t.rank, "interior");
    infer_same_type(in, type_scalar(m, t.dtype), in->operands[1], "operand 1 (value)");
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t interior = pad_interior(in->attrs, i);
        if (interior < 0)
            infer_error(in, "attribute 'interior': expected at least 0, found %lld for dim %u",
                        (long long)interior, i);
        infer_not_negative(in, low->list[i], arena_printf(&m->scratch, "low of dim %u", i));
        infer_not_negative(in, high->list[i], arena_printf(&m->scratch, "high of dim %u", i));
        dims[i] = dim_add(m, dim_add(m, low->list[i], high->list[i]),
                          spanned(m, in->symbols, t.dims[i], interior));
    }
    infer_result(in, type_intern(m, t.dtype, t.rank, dims));
}

static void eval_pad(struct eval *e)
{
    const struct tensor *x = e->operands[0], *value = e->operands[1], *r = e->results[0];
    const struct attr *a = node_attr(e->f, e->n, 0);
    size_t width = tensor_width(x);
    int64_t from[MAX_RANK], to[MAX_RANK], none[MAX_RANK] = { 0 }, offset = 0;
    row_major(x->rank, x->dims, from);
    row_major(r->rank, r->dims, to);
    copy_strided(width, r->rank, r->dims, r->data, to, value->data, none);
    for (uint32_t i = 0; i < r->rank; i++) {
        offset += dim_eval(e->m, a[PAD_LOW].list[i], e->symbols) * to[i];
        to[i] *= pad_interior(a, i) + 1;
    }
    if (x->count)
        copy_strided(width, x->rank, x->dims, (char *)r->data + offset * (int64_t)width, to, x->data, from);
}

/* bool like the result: does x, of this type, stand there? */
static val where_padded(struct builder *b, struct type x, const struct attr *pad)
{
    val yes = emit_full(b, DT_BOOL, 1, x.rank, x.dims);
    val no = emit_full(b, DT_BOOL, 0, 0, NULL);
    return emit(b, OP_pad, (val[]){ yes, no }, 2, pad);
}

static void vjp_pad(struct vjp *v)
{
    struct builder *b = v->b;
    struct module *m = b->m;
    struct type x = emit_type(b, v->operands[0]);
    if (v->active[0]) {
        dim limit[MAX_RANK];
        uint32_t step[MAX_RANK];
        for (uint32_t i = 0; i < x.rank; i++) {
            int64_t interior = pad_interior(v->attrs, i);
            dim span = spanned(m, b->symbols.data, x.dims[i], interior);
            limit[i] = dim_add(m, v->attrs[PAD_LOW].list[i], span);
            step[i] = (uint32_t)interior + 1;
        }
        struct attr a[3] = { v->attrs[PAD_LOW], A_DIMS(limit, x.rank), A_INTS(step, x.rank) };
        v->out[0] = emit_as(b, emit(b, OP_slice, v->ct, 1, a), builder_type(b, v->operands[0]));
    }
    if (v->active[1]) { /* what stands where x does not */
        val inside = where_padded(b, x, v->attrs);
        val outside = emit_select(b, inside, emit_full_like(b, v->ct[0], 0), v->ct[0]);
        uint32_t all[MAX_RANK];
        for (uint32_t i = 0; i < x.rank; i++) all[i] = i;
        v->out[1] = emit_reduce(b, OP_sum, outside, all, x.rank);
    }
}

static void jvp_pad(struct jvp *j)
{
    if (j->tangents[0] == VAL_NONE && j->tangents[1] == VAL_NONE) return;
    val t[2];
    for (int i = 0; i < 2; i++)
        t[i] = j->tangents[i] != VAL_NONE ? j->tangents[i] : emit_full_like(j->b, j->operands[i], 0);
    j->out[0] = emit(j->b, OP_pad, t, 2, j->attrs);
}

static void batch_pad(struct batch *v)
{
    if (batch_none(v)) return;
    struct builder *b = v->b;
    struct attr a[3];
    a[PAD_LOW] = batch_sizes(v, &v->attrs[PAD_LOW], 0);
    a[PAD_HIGH] = batch_sizes(v, &v->attrs[PAD_HIGH], 0);
    a[PAD_INTERIOR] = A_NONE;
    if (v->attrs[PAD_INTERIOR].kind != ATTR_ABSENT)
        a[PAD_INTERIOR] = batch_sizes(v, &v->attrs[PAD_INTERIOR], 0);
    val x = batch_operand(v, 0), value = v->operands[1];
    if (!v->batched[1]) {
        v->results[0] = emit(b, OP_pad, (val[]){ x, value }, 2, a);
        return;
    }
    /* A value per lane: pad with anything, then put each lane's value where x is not. */
    struct type t = emit_type(b, x);
    val inside = where_padded(b, t, a);
    val padded = emit(b, OP_pad, (val[]){ x, emit_full(b, (enum dtype)t.dtype, 0, 0, NULL) }, 2, a);
    struct type r = emit_type(b, padded);
    uint32_t front = 0;
    v->results[0] = emit_select(b, inside, padded, emit_broadcast(b, value, r.rank, r.dims, &front));
}

static lpv elem_pad(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                    const lpv *idx)
{
    HOP_UNUSED(result);
    struct lp *p = lower_lp(L);
    struct type x = operand_type(lower_module(L), f, n, 0);
    const struct attr *a = node_attr(f, n, 0);
    lpv zero = lp_index(p, 0);
    lpv inside = LPV_NONE;
    lpv some = LPV_NONE;
    lpv at[MAX_RANK];
    lpv value = lower_scalar(L, operand(f, n, 1));
    for (uint32_t i = 0; i < x.rank; i++) {
        int64_t gap = pad_interior(a, i) + 1;
        if (x.dims[i] == 0) return value;
        at[i] = idx[i];
        if (!a[PAD_LOW].list[i] && !a[PAD_HIGH].list[i] && gap == 1) continue;
        lpv size = lower_dim(L, x.dims[i]);
        lpv moved = lp_bin(p, LP_SUB, idx[i], lower_dim(L, a[PAD_LOW].list[i]));
        lpv here = lp_bin(p, LP_GE, moved, zero);
        if (gap > 1) { /* moved may be negative: floor-div and mod are still right, the divisor is positive */
            here = lp_bin(p, LP_AND, here,
                          lp_bin(p, LP_EQ, lp_bin(p, LP_MOD, moved, lp_index(p, gap)), zero));
            moved = lp_bin(p, LP_FLOORDIV, moved, lp_index(p, gap));
        }
        here = lp_bin(p, LP_AND, here, lp_bin(p, LP_LT, moved, size));
        inside = inside == LPV_NONE ? here : lp_bin(p, LP_AND, inside, here);
        at[i] = lower_clamp(p, moved, size);
        some = lower_not_empty(L, f, x.dims[i], some);
    }
    lpv x_at = lower_elem_if(L, some, operand(f, n, 0), at, value);
    return inside == LPV_NONE ? x_at : lp_select(p, inside, x_at, value);
}

static const struct attr_spec pad_attrs[] = { [PAD_LOW] = { "low", ATTR_DIMS, true, NULL },
                                              [PAD_HIGH] = { "high", ATTR_DIMS, true, NULL },
                                              [PAD_INTERIOR] = { "interior", ATTR_INTS, false, NULL } };
static const struct op_lower lower_pad = {
    .kind = LOWER_POINTWISE, .access = ACCESS_VIEW, .cost = COST_CHEAP, .elem = elem_pad
};
static const struct op_sample pad_samples[] = {
    { "hop 1\nfn @sample(%x: f32[3], %v: f32[]) -> (f32[6]) {\n  %y = pad {low = [1], high = [2]} (%x, %v)\n "
      " return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[2, 3], %v: f64[]) -> (f64[4, 8]) {\n  %y = pad {low = [0, 1], high = [1, "
      "0], interior = [1, 2]} (%x, %v)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[T, 2], %v: f32[]) -> (f32[T + 2, 2]) {\n  %y = pad {low = [2, 0], high = "
      "[0, 0]} (%x, %v)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[T], %n: f32[2, T], %v: f32[]) -> (f32[2*T]) {\n  %y = pad {low = [T], "
      "high = [0]} (%x, %v)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[0, 2], %v: i32[]) -> (i32[3, 2]) {\n  %y = pad {low = [1, 0], high = [2, "
      "0], interior = [1, 0]} (%x, %v)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_pad = {
    .name = "pad",
    .meaning = "x with a value around it (low, high) and between its elements (interior)",
    .sig = { 2, 2, ROW_ATTRS(pad_attrs) },
    .infer = infer_pad,
    .eval = eval_pad,
    .vjp = vjp_pad,
    .jvp = jvp_pad,
    .batch = batch_pad,
    .lower = &lower_pad,
    .range = range_of_two,
    .fold = fold_pad,
    .sliced = sliced_pad,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(pad_samples),
};

/* ---- concat ---- */

static void infer_concat(struct infer *in)
{
    struct module *m = in->m;
    struct type first = infer_type(in, 0);
    uint32_t along = infer_one_dim(in, &in->attrs[CONCAT_DIM], first.rank, "dim");
    dim dims[MAX_RANK], total = first.dims[along];
    for (uint32_t i = 1; i < in->n_operands; i++) {
        struct type t = infer_type(in, i);
        if (t.dtype != first.dtype || t.rank != first.rank)
            infer_error(in, "operand %u: expected dtype and rank of %s, found %s", i,
                        infer_text(in, in->operands[0]), infer_text(in, in->operands[i]));
        for (uint32_t d = 0; d < t.rank; d++)
            if (d != along && t.dims[d] != first.dims[d])
                infer_equal(in, first.dims[d], t.dims[d],
                            arena_printf(&m->scratch, "operand %u: dim %u of %s", i, d,
                                         infer_text(in, in->operands[i])));
        total = dim_add(m, total, t.dims[along]);
    }
    for (uint32_t d = 0; d < first.rank; d++) dims[d] = d == along ? total : first.dims[d];
    infer_result(in, type_intern(m, first.dtype, first.rank, dims));
}

static void eval_concat(struct eval *e)
{
    const struct tensor *r = e->results[0];
    uint32_t along = (uint32_t)node_attr(e->f, e->n, CONCAT_DIM)->i;
    int64_t from[MAX_RANK], to[MAX_RANK], offset = 0;
    row_major(r->rank, r->dims, to);
    for (uint32_t i = 0; i < e->n->n_operands; i++) {
        const struct tensor *x = e->operands[i];
        row_major(x->rank, x->dims, from);
        char *first = (char *)r->data + offset * (int64_t)tensor_width(x);
        if (x->count) copy_strided(tensor_width(x), x->rank, x->dims, first, to, x->data, from);
        offset += x->dims[along] * to[along];
    }
}

static void vjp_concat(struct vjp *v)
{
    struct module *m = v->b->m;
    struct type r = emit_type(v->b, v->ct[0]);
    uint32_t along = (uint32_t)v->attrs[CONCAT_DIM].i;
    dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    for (uint32_t d = 0; d < r.rank; d++) limit[d] = r.dims[d];
    limit[along] = 0;
    for (uint32_t i = 0; i < v->n->n_operands; i++) {
        start[along] = limit[along];
        limit[along] = dim_add(m, start[along], emit_type(v->b, v->operands[i]).dims[along]);
        if (!v->active[i]) continue;
        val part = emit_slice(v->b, v->ct[0], start, limit);
        v->out[i] = emit_as(v->b, part, builder_type(v->b, v->operands[i]));
    }
}

static void jvp_concat(struct jvp *j)
{
    uint32_t n = j->n->n_operands;
    val *t = ARENA_NEW(&j->b->arena, val, n);
    bool any = false;
    for (uint32_t i = 0; i < n; i++) any |= j->tangents[i] != VAL_NONE;
    if (!any) return;
    for (uint32_t i = 0; i < n; i++)
        t[i] = j->tangents[i] != VAL_NONE ? j->tangents[i] : emit_full_like(j->b, j->operands[i], 0);
    j->out[0] = emit(j->b, OP_concat, t, n, j->attrs);
}

static void batch_concat(struct batch *v)
{
    if (batch_none(v)) return;
    val *x = ARENA_NEW(&v->b->arena, val, v->n->n_operands);
    for (uint32_t i = 0; i < v->n->n_operands; i++) x[i] = batch_operand(v, i);
    struct attr a = A_INT(v->attrs[CONCAT_DIM].i + 1);
    v->results[0] = emit(v->b, OP_concat, x, v->n->n_operands, &a);
}

/* Where an element of the whole stands in operand i of a concat. An index of the whole is never below the
 * first operand and never beyond the last one: only where another one is meant must it be brought into range.
 */
static lpv concat_at(struct lower *L, const struct fn *f, const struct node *n, uint32_t i, dim start,
                     lpv index)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    uint32_t along = (uint32_t)node_attr(f, n, CONCAT_DIM)->i, last = n->n_operands - 1;
    lpv at = lp_bin(p, LP_SUB, index, lower_dim(L, start));
    dim size = operand_type(m, f, n, i).dims[along];
    while (last > i && !operand_type(m, f, n, last).dims[along]) last--;
    if (i != last || dim_is_const(m, size)) /* of a number the range is known */
        at = lp_bin(p, LP_MIN, at, lp_bin(p, LP_SUB, lower_dim(L, size), lp_index(p, 1)));
    return start ? lp_bin(p, LP_MAX, at, lp_index(p, 0)) : at;
}

static lpv elem_concat(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                       const lpv *idx)
{
    HOP_UNUSED(result);
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    uint32_t along = (uint32_t)node_attr(f, n, CONCAT_DIM)->i, rank = operand_type(m, f, n, 0).rank;
    lpv at[MAX_RANK];
    lpv value = LPV_NONE;
    lpv nothing = lp_const_bits(p, (enum dtype)operand_type(m, f, n, 0).dtype, 0);
    dim start = 0;
    memcpy(at, idx, rank * sizeof *at);
    /* The last operand with elements that starts at or before the index. */
    for (uint32_t i = 0; i < n->n_operands; i++) {
        dim size = operand_type(m, f, n, i).dims[along];
        if (!size) continue;
        at[along] = concat_at(L, f, n, i, start, idx[along]);
        lpv here = lower_elem_if(L, lower_not_empty(L, f, size, LPV_NONE), operand(f, n, i), at,
                                 value == LPV_NONE ? nothing : value);
        if (value == LPV_NONE) value = here;
        else value = lp_select(p, lp_bin(p, LP_GE, idx[along], lower_dim(L, start)), here, value);
        start = dim_add(m, start, size);
    }
    return value != LPV_NONE ? value : nothing;
}

static const struct attr_spec concat_attrs[] = { [CONCAT_DIM] = { "dim", ATTR_INT, true, NULL } };
static void assembly_concat(struct module *m, const struct fn *f, const struct node *n, uint32_t k,
                            uint32_t *along, dim *from)
{
    *along = (uint32_t)node_attr(f, n, CONCAT_DIM)->i;
    *from = 0;
    for (uint32_t i = 0; i < k; i++) *from = dim_add(m, *from, operand_type(m, f, n, i).dims[*along]);
}

static const struct op_lower lower_concat = { .kind = LOWER_POINTWISE,
                                              .access = ACCESS_VIEW,
                                              .cost = COST_CHEAP,
                                              .elem = elem_concat,
                                              .assembly = assembly_concat };
static const struct op_sample concat_samples[] = {
    { "hop 1\nfn @sample(%x: f32[2], %y: f32[3]) -> (f32[5]) {\n  %z = concat {dim = 0} (%x, %y)\n  return "
      "%z\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[2, T], %y: f64[2, 3], %z: f64[2, 1]) -> (f64[2, T + 4]) {\n  %r = concat "
      "{dim = 1} (%x, %y, %z)\n  return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i64[2, 0], %y: i64[2, 2]) -> (i64[2, 2]) {\n  %z = concat {dim = 1} (%x, %y)\n  "
      "return %z\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[1, 2]) -> (f32[3, 2]) {\n  %z = concat {dim = 0} (%x, %x, %x)\n  return "
      "%z\n}\n",
      NULL },
};
const struct op_row row_concat = {
    .name = "concat",
    .meaning = "operands one after the other along a dim",
    .sig = { 1, MANY, ROW_ATTRS(concat_attrs) },
    .infer = infer_concat,
    .eval = eval_concat,
    .vjp = vjp_concat,
    .jvp = jvp_concat,
    .batch = batch_concat,
    .lower = &lower_concat,
    .range = range_of_operands,
    .fold = fold_concat,
    .sliced = sliced_concat,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(concat_samples),
};

/* ---- reverse ---- */

static void infer_reverse(struct infer *in)
{
    infer_dim_list(in, &in->attrs[REVERSE_DIMS], infer_type(in, 0).rank, "dims");
    infer_result(in, in->operands[0]);
}

static void eval_reverse(struct eval *e)
{
    const struct tensor *x = e->operands[0], *r = e->results[0];
    const struct attr *dims = node_attr(e->f, e->n, REVERSE_DIMS);
    int64_t from[MAX_RANK], to[MAX_RANK], offset = 0;
    row_major(x->rank, x->dims, from);
    row_major(r->rank, r->dims, to);
    for (uint32_t i = 0; i < dims->n; i++) {
        uint32_t d = dims->list[i];
        offset += (x->dims[d] - 1) * from[d];
        from[d] = -from[d];
    }
    const char *first = (const char *)x->data + offset * (int64_t)tensor_width(x);
    if (x->count) copy_strided(tensor_width(x), r->rank, r->dims, r->data, to, first, from);
}

static void vjp_reverse(struct vjp *v) { v->out[0] = emit(v->b, OP_reverse, v->ct, 1, v->attrs); }

static void batch_reverse(struct batch *v)
{
    if (batch_none(v)) return;
    struct attr a = batch_dim_numbers(v, &v->attrs[REVERSE_DIMS], HOP_NONE);
    v->results[0] = emit(v->b, OP_reverse, v->operands, 1, &a);
}

static lpv elem_reverse(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                        const lpv *idx)
{
    HOP_UNUSED(result);
    struct lp *p = lower_lp(L);
    struct type t = operand_type(lower_module(L), f, n, 0);
    const struct attr *dims = node_attr(f, n, REVERSE_DIMS);
    lpv at[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) at[i] = idx[i];
    for (uint32_t i = 0; i < dims->n; i++) {
        uint32_t d = dims->list[i];
        at[d] = lp_bin(p, LP_SUB, lp_bin(p, LP_SUB, lower_dim(L, t.dims[d]), lp_index(p, 1)), idx[d]);
    }
    return lower_elem(L, operand(f, n, 0), at);
}

static const struct attr_spec reverse_attrs[] = { [REVERSE_DIMS] = { "dims", ATTR_INTS, true, NULL } };
static const struct op_lower lower_reverse = {
    .kind = LOWER_POINTWISE, .access = ACCESS_VIEW, .cost = COST_FREE, .elem = elem_reverse
};
static const struct op_sample reverse_samples[] = {
    { "hop 1\nfn @sample(%x: f32[4]) -> (f32[4]) {\n  %y = reverse {dims = [0]} (%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[T, 3, 2]) -> (f64[T, 3, 2]) {\n  %y = reverse {dims = [2, 0]} (%x)\n  "
      "return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[0, 3]) -> (i32[0, 3]) {\n  %y = reverse {dims = [0, 1]} (%x)\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bool[]) -> (bool[]) {\n  %y = reverse {dims = []} (%x)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_reverse = {
    .name = "reverse",
    .meaning = "elements of the listed dims in reverse order",
    .sig = { 1, 1, ROW_ATTRS(reverse_attrs) },
    .infer = infer_reverse,
    .eval = eval_reverse,
    .vjp = vjp_reverse,
    .jvp = jvp_linear,
    .batch = batch_reverse,
    .lower = &lower_reverse,
    .range = range_of_operand,
    .fold = fold_reverse,
    .sliced = sliced_reverse,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(reverse_samples),
};
