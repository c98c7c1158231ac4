/* Rows of the products: dot (any batch and contracted dims) and matmul (the usual shapes, the same thing
 * under shorter rules). Every result element is one accumulator that starts at 0 and adds a·b with the
 * contracted index ascending. With the attribute `dtype` operands are brought to the accumulator's dtype, and
 * what comes out to this one; they may differ from it and from each other. */
#include "ops/dot.h"

#include "ir/number.h"
#include "loop/lower.h"
#include "ops/rowkit.h"
#include "ops/scalar_c.h"
#include "transform/fold.h"

/* ---- which dim is what ---- */

static uint32_t free_dims(uint32_t rank, const uint32_t *batch, uint32_t n_batch, const uint32_t *contract,
                          uint32_t n_contract, uint32_t *out)
{
    uint32_t taken = 0, n = 0;
    for (uint32_t i = 0; i < n_batch; i++) taken |= 1u << batch[i];
    for (uint32_t i = 0; i < n_contract; i++) taken |= 1u << contract[i];
    for (uint32_t i = 0; i < rank; i++)
        if (!(taken >> i & 1)) out[n++] = i;
    return n;
}

static void find_free(struct dot_dims *d, uint32_t lhs_rank, uint32_t rhs_rank)
{
    d->n_lhs_free = free_dims(lhs_rank, d->batch_lhs, d->n_batch, d->contract_lhs, d->n_contract,
                              d->lhs_free);
    d->n_rhs_free = free_dims(rhs_rank, d->batch_rhs, d->n_batch, d->contract_rhs, d->n_contract,
                              d->rhs_free);
}

static void dims_of_dot(const struct attr *a, uint32_t lhs_rank, uint32_t rhs_rank, struct dot_dims *d)
{
    uint32_t *lists[4] = { d->batch_lhs, d->batch_rhs, d->contract_lhs, d->contract_rhs };
    for (uint32_t k = 0; k < 4; k++)
        if (a[k].n) memcpy(lists[k], a[k].list, a[k].n * sizeof **lists);
    d->n_batch = a[DOT_BATCH_LHS].n;
    d->n_contract = a[DOT_CONTRACT_LHS].n;
    find_free(d, lhs_rank, rhs_rank);
}

static void dims_of_matmul(uint32_t lhs_rank, uint32_t rhs_rank, struct dot_dims *d)
{
    d->n_batch = rhs_rank > 2 ? rhs_rank - 2 : 0;
    for (uint32_t i = 0; i < d->n_batch; i++) {
        d->batch_lhs[i] = i;
        d->batch_rhs[i] = i;
    }
    d->n_contract = 1;
    d->contract_lhs[0] = lhs_rank - 1;
    d->contract_rhs[0] = rhs_rank > 1 ? rhs_rank - 2 : 0;
    find_free(d, lhs_rank, rhs_rank);
}

void dot_dims(const struct module *m, const struct fn *f, const struct node *n, struct dot_dims *out)
{
    const val *x = node_operands(f, n);
    uint32_t lhs = type_get(m, value_type(f, x[0])).rank, rhs = type_get(m, value_type(f, x[1])).rank;
    if (n->op == OP_matmul) dims_of_matmul(lhs, rhs, out);
    else dims_of_dot(node_attr(f, n, 0), lhs, rhs, out);
}

/* ---- infer ---- */

static void infer_product(struct infer *in, const struct dot_dims *d, enum dtype result)
{
    struct type x = infer_type(in, 0), y = infer_type(in, 1);
    dim dims[2 * MAX_RANK];
    uint32_t n = 0;
    for (uint32_t k = 0; k < d->n_batch + d->n_contract; k++) {
        bool batch = k < d->n_batch;
        uint32_t i = batch ? d->batch_lhs[k] : d->contract_lhs[k - d->n_batch];
        uint32_t j = batch ? d->batch_rhs[k] : d->contract_rhs[k - d->n_batch];
        if (x.dims[i] != y.dims[j])
            infer_equal(in, x.dims[i], y.dims[j],
                        arena_printf(&in->m->scratch, "%s dims: dim %u of lhs %s and dim %u of rhs %s",
                                     batch ? "batch" : "contracted", i, infer_text(in, in->operands[0]), j,
                                     infer_text(in, in->operands[1])));
        if (batch) dims[n++] = x.dims[i];
    }
    for (uint32_t k = 0; k < d->n_lhs_free; k++) dims[n++] = x.dims[d->lhs_free[k]];
    for (uint32_t k = 0; k < d->n_rhs_free; k++) dims[n++] = y.dims[d->rhs_free[k]];
    if (n > MAX_RANK) infer_error(in, "the result would have %u dims, at most %d are possible", n, MAX_RANK);
    infer_result(in, type_intern(in->m, result, n, dims));
}

static void infer_dot(struct infer *in)
{
    static const char *const names[] = { "batch_lhs", "batch_rhs", "contract_lhs", "contract_rhs" };
    struct type t[2] = { infer_type(in, 0), infer_type(in, 1) };
    const struct attr *a = in->attrs;
    enum dtype result = infer_product_dtype(in, &a[DOT_DTYPE], "lhs", "rhs");
    for (uint32_t k = 0; k < 4; k++) infer_dim_list(in, &a[k], t[k & 1].rank, names[k]);
    for (uint32_t k = 0; k < 4; k += 2)
        if (a[k].n != a[k + 1].n)
            infer_error(in, "attributes '%s' and '%s' have %u and %u entries, expected as many", names[k],
                        names[k + 1], a[k].n, a[k + 1].n);
    for (uint32_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < a[k].n; i++)
            for (uint32_t j = 0; j < a[k + 2].n; j++)
                if (a[k].list[i] == a[k + 2].list[j])
                    infer_error(in, "dim %u of %s is both a batch and a contracted dim", a[k].list[i],
                                k ? "rhs" : "lhs");
    struct dot_dims d;
    dims_of_dot(a, t[0].rank, t[1].rank, &d);
    infer_product(in, &d, result);
}

static void infer_matmul(struct infer *in)
{
    uint32_t x = infer_type(in, 0).rank, y = infer_type(in, 1).rank;
    enum dtype result = infer_product_dtype(in, &in->attrs[MATMUL_DTYPE], "lhs", "rhs");
    for (uint32_t i = 0; i < 2; i++)
        if (!infer_type(in, i).rank)
            infer_error(in, "operand %u (%s): expected at least one dim, found %s", i, i ? "rhs" : "lhs",
                        infer_text(in, in->operands[i]));
    if (y > 2 && x != y)
        infer_error(in, "operand 1 (rhs): expected rank 1, rank 2 or the rank of lhs %s, found %s",
                    infer_text(in, in->operands[0]), infer_text(in, in->operands[1]));
    struct dot_dims d;
    dims_of_matmul(x, y, &d);
    infer_product(in, &d, result);
}

/* ---- eval ---- */

/* Offsets of the elements whose listed dims run through all their indices in row-major order. */
static int64_t *offsets(const struct tensor *t, const uint32_t *dims, uint32_t n, int64_t *count)
{
    int64_t strides[MAX_RANK], extents[MAX_RANK], idx[MAX_RANK] = { 0 };
    row_major(t->rank, t->dims, strides);
    *count = 1;
    for (uint32_t i = 0; i < n; i++) {
        extents[i] = t->dims[dims[i]];
        *count *= extents[i];
    }
    int64_t *out = hop_malloc((size_t)HOP_MAX(*count, 1) * sizeof *out);
    for (int64_t k = 0; k < *count; k++) {
        out[k] = 0;
        for (uint32_t i = 0; i < n; i++) out[k] += idx[i] * strides[dims[i]];
        next_index(n, extents, idx);
    }
    hop_cleanup_push(hop_free, out);
    return out;
}

#define AS_IT_IS(x) (x)
#define PRODUCT(type) PRODUCT_IN(type, type, AS_IT_IS, AS_IT_IS)
#define PRODUCT_IN(type, sum_type, wide, rounded) \
    for (int64_t b = 0; b < n_batch; b++) \
        for (int64_t i = 0; i < n_lhs; i++) \
            for (int64_t j = 0; j < n_rhs; j++) { \
                const type *p = (const type *)x->data + batch_x[b] + lhs[i], \
                           *q = (const type *)y->data + batch_y[b] + rhs[j]; \
                sum_type sum = 0; \
                for (int64_t k = 0; k < n_contract; k++) \
                    sum = (sum_type)(sum + (sum_type)(wide(p[at_x[k]]) * wide(q[at_y[k]]))); \
                ((type *)r->data)[(b * n_lhs + i) * n_rhs + j] = (type)rounded(sum); \
            }

/* Of tensors of one dtype. */
static void product_of(struct dot_dims d, const struct tensor *x, const struct tensor *y,
                       const struct tensor *r)
{
    int64_t n_batch, n_lhs, n_rhs, n_contract;
    int64_t *batch_x = offsets(x, d.batch_lhs, d.n_batch, &n_batch);
    int64_t *batch_y = offsets(y, d.batch_rhs, d.n_batch, &n_batch);
    int64_t *lhs = offsets(x, d.lhs_free, d.n_lhs_free, &n_lhs);
    int64_t *rhs = offsets(y, d.rhs_free, d.n_rhs_free, &n_rhs);
    int64_t *at_x = offsets(x, d.contract_lhs, d.n_contract, &n_contract);
    int64_t *at_y = offsets(y, d.contract_rhs, d.n_contract, &n_contract);
    /* Integers wrap alike with and without sign; short ones are summed in words, which keeps their low bits.
     */
    switch (r->dtype) {
    case DT_F16: PRODUCT_IN(uint16_t, float, f16_to_f32, f16_of_f32) break;
    case DT_BF16: PRODUCT_IN(uint16_t, float, bf16_to_f32, bf16_of_f32) break;
    case DT_F32: PRODUCT(float) break;
    case DT_F64: PRODUCT(double) break;
    case DT_I8:
    case DT_U8: PRODUCT_IN(uint8_t, uint32_t, (uint32_t), AS_IT_IS) break;
    case DT_I16:
    case DT_U16: PRODUCT_IN(uint16_t, uint32_t, (uint32_t), AS_IT_IS) break;
    case DT_I64:
    case DT_U64: PRODUCT(uint64_t) break;
    default: PRODUCT(uint32_t) break;
    }
    int64_t *all[] = { at_y, at_x, rhs, lhs, batch_y, batch_x };
    for (uint32_t i = 0; i < HOP_COUNT(all); i++) {
        hop_cleanup_pop(all[i]);
        hop_free(all[i]);
    }
}

static void eval_product(struct eval *e)
{
    struct tensor x = *e->operands[0], y = *e->operands[1], r = *e->results[0];
    enum dtype result = (enum dtype)r.dtype;
    struct dot_dims d;
    dot_dims(e->m, e->f, e->n, &d);
    if (x.dtype == result && y.dtype == result) {
        product_of(d, &x, &y, &r);
        return;
    }
    enum dtype wide = node_accumulator(e->m, e->f, e->n);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    scalar_c_convert(&arena, &x, wide);
    scalar_c_convert(&arena, &y, wide);
    r.data = arena_alloc(&arena, (size_t)r.count * dtype_info[wide].size);
    r.dtype = (uint8_t)wide;
    product_of(d, &x, &y, &r);
    scalar_c_cast(wide, result)(r.count, e->results[0]->data, (const void *[]){ r.data });
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* ---- gradients ---- */

/* Dims 0 … n-1, from `first` on. */
static void count_from(uint32_t first, uint32_t n, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++) out[i] = first + i;
}

/* order[dim of the operand] = dim of a product that lists: batch dims, `middle`, then `tail` — whichever
 * operand dims they stand for. */
static val arrange(struct builder *b, val v, const uint32_t *batch, uint32_t n_batch, const uint32_t *middle,
                   uint32_t n_middle, const uint32_t *tail, uint32_t n_tail)
{
    uint32_t order[MAX_RANK], at = 0;
    for (uint32_t i = 0; i < n_batch; i++) order[batch[i]] = at++;
    for (uint32_t i = 0; i < n_middle; i++) order[middle[i]] = at++;
    for (uint32_t i = 0; i < n_tail; i++) order[tail[i]] = at++;
    return emit_permute(b, v, order);
}

/* `mine` in the order in which `others` ascend: free dims of a product come out ascending. */
static void sort_by(const uint32_t *others, const uint32_t *mine, uint32_t n, uint32_t *out)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = 0;
        for (uint32_t j = 0; j < n; j++) rank += others[j] < others[i];
        out[rank] = mine[i];
    }
}

static void vjp_product(struct vjp *v)
{
    struct dot_dims d;
    struct builder *b = v->b;
    dot_dims(b->m, v->f, v->n, &d);
    uint32_t batch[MAX_RANK], lhs[MAX_RANK], rhs[MAX_RANK], sorted[MAX_RANK]; /* dims of the cotangent */
    count_from(0, d.n_batch, batch);
    count_from(d.n_batch, d.n_lhs_free, lhs);
    count_from(d.n_batch + d.n_lhs_free, d.n_rhs_free, rhs);
    /* [batch, lhs free, rhs free] · rhs -> [batch, lhs free, contracted as rhs has them] */
    if (v->active[0]) {
        val ct = emit_dot_to(b, (enum dtype)emit_type(b, v->operands[0]).dtype, v->ct[0], v->operands[1],
                             batch, d.batch_rhs, d.n_batch, rhs, d.rhs_free, d.n_rhs_free);
        sort_by(d.contract_rhs, d.contract_lhs, d.n_contract, sorted);
        ct = arrange(b, ct, d.batch_lhs, d.n_batch, d.lhs_free, d.n_lhs_free, sorted, d.n_contract);
        v->out[0] = emit_as(b, ct, builder_type(b, v->operands[0]));
    }
    /* lhs · [batch, lhs free, rhs free] -> [batch, contracted as lhs has them, rhs free] */
    if (v->active[1]) {
        val ct = emit_dot_to(b, (enum dtype)emit_type(b, v->operands[1]).dtype, v->operands[0], v->ct[0],
                             d.batch_lhs, batch, d.n_batch, d.lhs_free, lhs, d.n_lhs_free);
        sort_by(d.contract_lhs, d.contract_rhs, d.n_contract, sorted);
        ct = arrange(b, ct, d.batch_rhs, d.n_batch, sorted, d.n_contract, d.rhs_free, d.n_rhs_free);
        v->out[1] = emit_as(b, ct, builder_type(b, v->operands[1]));
    }
}

static void jvp_product(struct jvp *j)
{
    enum op op = (enum op)j->n->op;
    val x = j->tangents[0], y = j->tangents[1];
    if (x != VAL_NONE) x = emit(j->b, op, (val[]){ x, j->operands[1] }, 2, j->attrs);
    if (y != VAL_NONE) y = emit(j->b, op, (val[]){ j->operands[0], y }, 2, j->attrs);
    if (x == VAL_NONE) j->out[0] = y;
    else if (y == VAL_NONE) j->out[0] = x;
    else j->out[0] = emit2(j->b, OP_add, x, y);
}

/* ---- batch ---- */

static void shift(uint32_t *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) list[i]++;
}

static void batch_product(struct batch *v)
{
    if (batch_none(v)) return;
    struct dot_dims d;
    struct builder *b = v->b;
    dot_dims(b->m, v->f, v->n, &d);
    uint32_t batch_lhs[MAX_RANK + 1] = { 0 };
    uint32_t batch_rhs[MAX_RANK + 1] = { 0 };
    uint32_t both = v->batched[0] && v->batched[1];
    memcpy(batch_lhs + both, d.batch_lhs, d.n_batch * sizeof *batch_lhs);
    memcpy(batch_rhs + both, d.batch_rhs, d.n_batch * sizeof *batch_rhs);
    if (v->batched[0]) {
        shift(batch_lhs + both, d.n_batch);
        shift(d.contract_lhs, d.n_contract);
    }
    if (v->batched[1]) {
        shift(batch_rhs + both, d.n_batch);
        shift(d.contract_rhs, d.n_contract);
    }
    enum dtype t = (enum dtype)type_get(b->m, value_type(v->f, v->n->results)).dtype;
    val r = emit_dot_to(b, t, v->operands[0], v->operands[1], batch_lhs, batch_rhs, d.n_batch + both,
                        d.contract_lhs, d.contract_rhs, d.n_contract);
    /* One batched operand: its batch dim came out as the first of its free dims. */
    v->results[0] = both ? r : emit_move_dim(b, r, v->batched[0] ? d.n_batch : d.n_batch + d.n_lhs_free, 0);
}

/* ---- lower ---- */

static uint32_t reduced_product(const struct module *m, const struct fn *f, const struct node *n,
                                dim extents[MAX_RANK])
{
    struct dot_dims d;
    dot_dims(m, f, n, &d);
    struct type x = type_get(m, value_type(f, node_operands(f, n)[0]));
    for (uint32_t i = 0; i < d.n_contract; i++) extents[i] = x.dims[d.contract_lhs[i]];
    return d.n_contract;
}

static lpv elem_product(struct lower *L, const struct fn *f, const struct node *n, const lpv *idx,
                        const lpv *folded)
{
    struct dot_dims d;
    dot_dims(lower_module(L), f, n, &d);
    lpv x[MAX_RANK], y[MAX_RANK];
    const lpv *next = idx; /* batch dims, then the free ones of either side */
    for (uint32_t i = 0; i < d.n_batch; i++) {
        x[d.batch_lhs[i]] = *next;
        y[d.batch_rhs[i]] = *next++;
    }
    for (uint32_t i = 0; i < d.n_lhs_free; i++) x[d.lhs_free[i]] = *next++;
    for (uint32_t i = 0; i < d.n_rhs_free; i++) y[d.rhs_free[i]] = *next++;
    for (uint32_t i = 0; i < d.n_contract; i++) {
        x[d.contract_lhs[i]] = folded[i];
        y[d.contract_rhs[i]] = folded[i];
    }
    struct lp *p = lower_lp(L);
    const val *operands = node_operands(f, n);
    enum dtype t = node_accumulator(lower_module(L), f, n);
    return lp_bin(p, LP_MUL, lp_cast(p, t, lower_elem(L, operands[0], x)),
                  lp_cast(p, t, lower_elem(L, operands[1], y)));
}

static bool never_row_fold(const struct module *m, const struct fn *f, const struct node *n)
{
    HOP_UNUSED(m);
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    return false;
}

/* ---- fold ---- */

/* A factor that was only brought to the result's dtype, exactly: the product does that as it reads it, so
 * that no wide copy is made. */
static val fold_casts(const struct fold *w, uint32_t dtype_attr, uint32_t n_attrs)
{
    enum dtype t = w->attrs[dtype_attr].kind == ATTR_ABSENT ? fold_dtype(w, w->x[0])
                                                            : (enum dtype)w->attrs[dtype_attr].i;
    val x[2] = { w->x[0], w->x[1] };
    for (uint32_t side = 0; side < 2; side++) {
        const struct node *n = fold_made_by(w, x[side], OP_cast);
        if (!n || fold_dtype(w, x[side]) != t) continue;
        enum dtype from = fold_dtype(w, built_operand(w->b, n, 0));
        bool narrow = t == DT_F32 && dtype_is_narrow(from);
        bool byte = dtype_is_integer(t) && !dtype_is_float(from) && dtype_info[from].size == 1;
        if (narrow || byte) x[side] = built_operand(w->b, n, 0);
    }
    if (x[0] == w->x[0] && x[1] == w->x[1]) return VAL_NONE;
    struct attr attrs[DOT_ATTRS];
    memcpy(attrs, w->attrs, n_attrs * sizeof *attrs);
    attrs[dtype_attr] = emit_result_dtype(w->b, x, 2, t);
    return emit(w->b, (enum op)w->n->op, x, 2, attrs);
}

/* A factor that was transposed: the product reads it where it lies, as long as its free dims keep their
 * order. */
static val fold_dot(const struct fold *w)
{
    val narrow = fold_casts(w, DOT_DTYPE, DOT_ATTRS);
    if (narrow != VAL_NONE) return narrow;
    for (uint32_t side = 0; side < 2; side++) {
        const struct node *n = fold_made_by(w, w->x[side], OP_permute);
        if (!n) continue;
        const struct attr *order = built_attr(w->b, n, PERMUTE_ORDER);
        const struct attr *batch = &w->attrs[DOT_BATCH_LHS + side];
        const struct attr *contract = &w->attrs[DOT_CONTRACT_LHS + side];
        uint32_t lists[2][MAX_RANK], taken = 0, last = 0;
        bool ordered = true, any = false;
        for (uint32_t i = 0; i < batch->n; i++) {
            lists[0][i] = order->list[batch->list[i]];
            taken |= 1u << batch->list[i];
        }
        for (uint32_t i = 0; i < contract->n; i++) {
            lists[1][i] = order->list[contract->list[i]];
            taken |= 1u << contract->list[i];
        }
        for (uint32_t i = 0; i < order->n; i++) {
            if (taken >> i & 1) continue;
            ordered &= !any || order->list[i] > last;
            last = order->list[i];
            any = true;
        }
        if (!ordered) continue;
        struct attr attrs[DOT_ATTRS];
        memcpy(attrs, w->attrs, sizeof attrs);
        attrs[DOT_BATCH_LHS + side] = A_INTS(lists[0], batch->n);
        attrs[DOT_CONTRACT_LHS + side] = A_INTS(lists[1], contract->n);
        val x[2] = { w->x[0], w->x[1] };
        x[side] = built_operand(w->b, n, 0);
        return emit(w->b, OP_dot, x, 2, attrs);
    }
    return VAL_NONE;
}

/* A matmul of a transposed factor is a dot. */
static val fold_matmul(const struct fold *w)
{
    val narrow = fold_casts(w, MATMUL_DTYPE, MATMUL_DTYPE + 1);
    if (narrow != VAL_NONE) return narrow;
    if (!fold_made_by(w, w->x[0], OP_permute) && !fold_made_by(w, w->x[1], OP_permute)) return VAL_NONE;
    struct dot_dims d;
    dot_dims(w->m, w->f, w->n, &d);
    enum dtype t = (enum dtype)type_get(w->m, value_type(w->f, w->n->results)).dtype;
    return emit_dot_to(w->b, t, w->x[0], w->x[1], d.batch_lhs, d.batch_rhs, d.n_batch, d.contract_lhs,
                       d.contract_rhs, d.n_contract);
}

static const struct op_lower lower_product = { .kind = LOWER_REDUCE,
                                               .access = ACCESS_REPEAT,
                                               .cost = COST_EXPENSIVE,
                                               .fold = FOLD_SUM,
                                               .reduced = reduced_product,
                                               .reduce_elem = elem_product,
                                               .row_fold = never_row_fold,
                                               .product = dot_dims };

/* ---- rows ---- */

static const struct attr_spec dot_attrs[] = { [DOT_BATCH_LHS] = { "batch_lhs", ATTR_INTS, true, NULL },
                                              [DOT_BATCH_RHS] = { "batch_rhs", ATTR_INTS, true, NULL },
                                              [DOT_CONTRACT_LHS] = { "contract_lhs", ATTR_INTS, true, NULL },
                                              [DOT_CONTRACT_RHS] = { "contract_rhs", ATTR_INTS, true, NULL },
                                              [DOT_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL } };
static const struct attr_spec matmul_attrs[] = { [MATMUL_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL } };
static const struct op_sample dot_samples[] = {
    { "hop 1\nfn @sample(%x: f32[2, 3], %y: f32[3, 4]) -> (f32[2, 4]) {\n"
      "  %r = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [1], contract_rhs = [0]} (%x, %y)\n  "
      "return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[2, T, 3], %y: f64[4, 3, 2, T]) -> (f64[2, 4]) {\n"
      "  %r = dot {batch_lhs = [0], batch_rhs = [2], contract_lhs = [2, 1], contract_rhs = [1, 3]} (%x, "
      "%y)\n  return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[2, T], %y: f32[3, 2]) -> (f32[2, T, 3]) {\n"
      "  %r = dot {batch_lhs = [0], batch_rhs = [1], contract_lhs = [], contract_rhs = []} (%x, %y)\n  "
      "return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[2, 0], %y: i32[3, 0]) -> (i32[2, 3]) {\n"
      "  %r = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [1], contract_rhs = [1]} (%x, %y)\n  "
      "return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i8[2, 40], %y: u8[3, 40]) -> (i32[2, 3]) {\n"
      "  %r = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [1], contract_rhs = [1], dtype = i32} (%x, "
      "%y)\n  return %r\n}\n",
      "x = -128..127, y = 0..255" },
    { "hop 1\nfn @sample[T](%x: bf16[T, 2, 3], %y: f32[T, 3]) -> (f64[T, 2]) {\n"
      "  %r = dot {batch_lhs = [0], batch_rhs = [0], contract_lhs = [2], contract_rhs = [1], dtype = f64} "
      "(%x, %y)\n  return %r\n}\n",
      NULL },
};
const struct op_row row_dot = {
    .name = "dot",
    .meaning =
        "sums of products over contracted dims; result dims: batch dims, free dims of lhs, free dims of rhs. "
        "dtype: what is added up and given (absent: that of the operands, which is one)",
    .sig = { 2, 2, ROW_ATTRS(dot_attrs) },
    .infer = infer_dot,
    .eval = eval_product,
    .vjp = vjp_product,
    .jvp = jvp_product,
    .batch = batch_product,
    .lower = &lower_product,
    .fold = fold_dot,
    .autocast = AUTOCAST_LOW,
    ROW_SAMPLES(dot_samples),
};

static const struct op_sample matmul_samples[] = {
    { "hop 1\nfn @sample(%x: f16[2, 37], %y: f16[37, 4]) -> (f16[2, 4]) {\n  %r = matmul(%x, %y)\n  return "
      "%r\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bf16[3], %y: bf16[3, 4]) -> (bf16[4]) {\n  %r = matmul(%x, %y)\n  return "
      "%r\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i8[2, 30], %y: i8[30, 4]) -> (i8[2, 4]) {\n  %r = matmul(%x, %y)\n  return "
      "%r\n}\n",
      "x = -128..127, y = -128..127" },
    { "hop 1\nfn @sample(%x: f32[2, 3], %y: f32[3, 4]) -> (f32[2, 4]) {\n  %r = matmul(%x, %y)\n  return "
      "%r\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[3], %y: f64[3]) -> (f64[]) {\n  %r = matmul(%x, %y)\n  return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[2, T], %y: f32[T]) -> (f32[2]) {\n  %r = matmul(%x, %y)\n  return "
      "%r\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[T], %y: f32[T, 2]) -> (f32[2]) {\n  %r = matmul(%x, %y)\n  return "
      "%r\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[2, T, 2, 3], %y: f64[2, T, 3, 2]) -> (f64[2, T, 2, 2]) {\n  %r = "
      "matmul(%x, %y)\n  return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[T, 2, 3], %y: f32[3, 2]) -> (f32[T, 2, 2]) {\n  %r = matmul(%x, %y)\n  "
      "return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i8[3, 70], %y: i8[70, 5]) -> (i32[3, 5]) {\n  %r = matmul {dtype = i32} (%x, "
      "%y)\n  return %r\n}\n",
      "x = -128..127, y = -128..127" },
    { "hop 1\nfn @sample(%x: bf16[3, 20], %y: bf16[20, 4]) -> (f32[3, 4]) {\n  %r = matmul {dtype = f32} "
      "(%x, %y)\n  return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[2, 9], %y: f64[9]) -> (f16[2]) {\n  %r = matmul {dtype = f16} (%x, %y)\n  "
      "return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: bool[T], %y: bool[T, 2]) -> (u16[2]) {\n  %r = matmul {dtype = u16} (%x, "
      "%y)\n  return %r\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i64[2, 0], %y: i64[0, 2]) -> (i64[2, 2]) {\n  %r = matmul(%x, %y)\n  return "
      "%r\n}\n",
      NULL },
};
const struct op_row row_matmul = {
    .name = "matmul",
    .meaning = "matrix product: [K]·[K], [M,K]·[K], [K]·[K,N], […,M,K]·[…,K,N], and […,M,K]·[K,N]. dtype: as "
               "for dot",
    .sig = { 2, 2, ROW_ATTRS(matmul_attrs) },
    .infer = infer_matmul,
    .eval = eval_product,
    .vjp = vjp_product,
    .jvp = jvp_product,
    .batch = batch_product,
    .lower = &lower_product,
    .fold = fold_matmul,
    .autocast = AUTOCAST_LOW,
    ROW_SAMPLES(matmul_samples),
};
