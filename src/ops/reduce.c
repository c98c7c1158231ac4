/* Rows of the reductions: sum, prod, reduce_max, reduce_min, any and all fold the dims that an attribute
 * lists (absent: all of them); argmax and argmin find a position along one dim. The order in which elements
 * are folded is part of the meaning: see docs/numbers.md. */
#include "loop/lower.h"
#include "ops/facts.h"
#include "ops/rowkit.h"
#include "ops/scalar_c.h"
#include "ir/number.h"

#include <math.h>

/* ---- which dims ---- */

static bool finds_position(uint32_t op) { return op == OP_argmax || op == OP_argmin; }

static uint32_t node_mask(const struct module *m, const struct fn *f, const struct node *n, struct type *t)
{
    *t = type_get(m, value_type(f, node_operands(f, n)[0]));
    if (finds_position(n->op)) return 1u << attr_dim_or_zero(node_attr(f, n, ARGMAX_DIM));
    return folded_mask(node_attr(f, n, REDUCE_DIMS), t->rank);
}

static enum lp_fold fold_of(enum op op)
{
    switch (op) {
    case OP_sum: return FOLD_SUM;
    case OP_prod: return FOLD_PROD;
    case OP_reduce_max: return FOLD_MAX;
    case OP_reduce_min: return FOLD_MIN;
    case OP_any: return FOLD_OR;
    default: return FOLD_AND;
    }
}

/* Has the operator a dtype of its own? */
static bool chooses(uint32_t op) { return op == OP_sum || op == OP_prod; }

/* ---- infer ---- */

static void infer_reduce(struct infer *in)
{
    struct type t = infer_type(in, 0);
    if (chooses(in->op) && in->attrs[REDUCE_DTYPE].kind != ATTR_ABSENT) {
        infer_result_dtype(in, &in->attrs[REDUCE_DTYPE]);
        t.dtype = (uint8_t)in->attrs[REDUCE_DTYPE].i;
    }
    if (!scalar_c_fold(fold_of((enum op)in->op), (enum dtype)t.dtype))
        infer_error(in, "expected %s, found %s", in->op == OP_any || in->op == OP_all ? "bool" : "numbers",
                    infer_text(in, in->operands[0]));
    if (in->attrs[REDUCE_DIMS].kind != ATTR_ABSENT)
        infer_dim_list(in, &in->attrs[REDUCE_DIMS], t.rank, "dims");
    infer_result(in, folded_type(in->m, t, folded_mask(&in->attrs[REDUCE_DIMS], t.rank)));
}

static void infer_argmax(struct infer *in)
{
    struct type t = infer_type(in, 0);
    if (t.dtype == DT_BOOL) infer_error(in, "expected numbers, found %s", infer_text(in, in->operands[0]));
    uint32_t along = infer_one_dim(in, &in->attrs[ARGMAX_DIM], t.rank, "dim"), n = 0;
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++)
        if (i != along) dims[n++] = t.dims[i];
    infer_result(in, type_intern(in->m, DT_I64, n, dims));
}

/* ---- eval ---- */

/* Kept and folded dims of a tensor with their strides, each in the tensor's order. */
struct parts {
    uint32_t n_kept, n_folded;
    int64_t kept[MAX_RANK], kept_strides[MAX_RANK], folded[MAX_RANK], folded_strides[MAX_RANK];
};

static struct parts split_dims(const struct tensor *t, uint32_t mask)
{
    struct parts p = { 0 };
    int64_t strides[MAX_RANK];
    row_major(t->rank, t->dims, strides);
    for (uint32_t i = 0; i < t->rank; i++)
        if (mask >> i & 1) {
            p.folded[p.n_folded] = t->dims[i];
            p.folded_strides[p.n_folded++] = strides[i];
        } else {
            p.kept[p.n_kept] = t->dims[i];
            p.kept_strides[p.n_kept++] = strides[i];
        }
    return p;
}

static int64_t offset_of(uint32_t rank, const int64_t *idx, const int64_t *strides)
{
    int64_t at = 0;
    for (uint32_t i = 0; i < rank; i++) at += idx[i] * strides[i];
    return at;
}

/* Folds x, whose dtype is the one to fold in, or one whose accumulator that is. */
static void fold_tensor(struct eval *e, const struct tensor *x)
{
    struct tensor *out = e->results[0];
    enum dtype t = (enum dtype)x->dtype, result = (enum dtype)out->dtype;
    uint32_t fold = fold_of((enum op)e->n->op);
    uint32_t mask = folded_mask(node_attr(e->f, e->n, REDUCE_DIMS), x->rank);
    uint32_t n_lanes = x->rank && mask >> (x->rank - 1) & 1 ? LP_STRICT_LANES : 1;
    enum dtype accumulator = dtype_accumulator(t);
    scalar_fold step = scalar_c_fold(fold, t);
    scalar_fold join = scalar_c_fold(fold, accumulator);
    struct parts p = split_dims(x, mask);
    uint32_t outer = p.n_folded ? p.n_folded - 1 : 0; /* folded dims around the innermost one */
    int64_t inner = p.n_folded ? p.folded[outer] : 1;
    int64_t stride = p.n_folded ? p.folded_strides[outer] : 0;
    int64_t kept[MAX_RANK] = { 0 };
    size_t width = tensor_width(x), lane_width = dtype_info[accumulator].size;
    bool empty = false;
    for (uint32_t i = 0; i < p.n_folded; i++) empty |= !p.folded[i];
    for (int64_t r = 0; r < out->count; r++, next_index(p.n_kept, p.kept, kept)) {
        uint64_t lanes[LP_STRICT_LANES];
        char *lane = (char *)lanes;
        char *to = (char *)out->data + (size_t)r * tensor_width(out);
        int64_t folded[MAX_RANK] = { 0 };
        int64_t base = offset_of(p.n_kept, kept, p.kept_strides);
        for (uint32_t l = 0; l < n_lanes; l++) scalar_c_identity(fold, accumulator, lane + l * lane_width);
        for (bool more = !empty; more; more = next_index(outer, p.folded, folded)) {
            int64_t from = base + offset_of(outer, folded, p.folded_strides);
            step(inner, stride, n_lanes, lanes, (const char *)x->data + (size_t)from * width);
        }
        /* Lane j takes lane j + w: every step folds w lanes into the first w. */
        for (uint32_t w = n_lanes / 2; w; w /= 2) join(w, 1, w, lanes, lane + w * lane_width);
        if (accumulator == result) memcpy(to, lanes, lane_width);
        else scalar_c_cast(accumulator, result)(1, to, (const void *[]){ lanes });
    }
}

static void eval_reduce(struct eval *e)
{
    struct tensor x = *e->operands[0];
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    if (x.dtype != e->results[0]->dtype) scalar_c_convert(&arena, &x, node_accumulator(e->m, e->f, e->n));
    fold_tensor(e, &x);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* The first of `count` elements that none beats, the first NaN before all. */
#define FIND(T, C, is_nan) \
    case T: { \
        const C *x = from; \
        for (int64_t i = 1; i < count && !(is_nan(x[best * stride])); i++) { \
            C a = x[i * stride], b = x[best * stride]; \
            if (is_nan(a) || (least ? a < b : a > b)) best = i; \
        } \
        break; \
    }
#define NEVER(x) false
static int64_t find_best(enum dtype t, bool least, const void *from, int64_t count, int64_t stride)
{
    int64_t best = 0;
    switch (t) {
        FIND(DT_F32, float, isnan)
        FIND(DT_F64, double, isnan)
        FIND(DT_I8, int8_t, NEVER)
        FIND(DT_I16, int16_t, NEVER)
        FIND(DT_I32, int32_t, NEVER)
        FIND(DT_I64, int64_t, NEVER)
        FIND(DT_U8, uint8_t, NEVER)
        FIND(DT_U16, uint16_t, NEVER)
        FIND(DT_U32, uint32_t, NEVER)
        FIND(DT_U64, uint64_t, NEVER)
    default: hop_throw(HOP_INTERNAL, "a position in %s", dtype_info[t].name);
    }
    return best;
}
#undef FIND
#undef NEVER

static void eval_position(struct eval *e)
{
    struct tensor x = *e->operands[0];
    struct tensor *out = e->results[0];
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    if (dtype_is_narrow((enum dtype)x.dtype)) scalar_c_convert(&arena, &x, DT_F32);
    struct parts p = split_dims(&x, 1u << attr_dim_or_zero(node_attr(e->f, e->n, ARGMAX_DIM)));
    int64_t kept[MAX_RANK] = { 0 };
    for (int64_t r = 0; r < out->count; r++, next_index(p.n_kept, p.kept, kept)) {
        const char *from = (const char *)x.data +
                           (size_t)offset_of(p.n_kept, kept, p.kept_strides) * tensor_width(&x);
        ((int64_t *)out->data)[r] = find_best((enum dtype)x.dtype, e->n->op == OP_argmin, from, p.folded[0],
                                              p.folded_strides[0]);
    }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* ---- derivatives ---- */

static void vjp_sum(struct vjp *v)
{
    if (!v->active[0]) return;
    struct type t = emit_type(v->b, v->operands[0]);
    val ct = emit_cast(v->b, v->ct[0], (enum dtype)t.dtype);
    v->out[0] = emit_spread(v->b, ct, v->operands[0], folded_mask(&v->attrs[REDUCE_DIMS], t.rank));
}

static void jvp_sum(struct jvp *j)
{
    j->out[0] = j->tangents[0] == VAL_NONE ? VAL_NONE : emit_same(j->b, j->n, j->tangents[0], j->attrs);
}

/* Which elements equal the result, and how many of them each result has (at least 1): they share the
 * derivative evenly. */
static val winners(struct builder *b, val x, val y, const struct attr *attrs, uint32_t mask, val *count)
{
    val wins = emit2(b, OP_eq, x, emit_spread(b, y, x, mask));
    struct attr over[REDUCE_ATTRS] = { attrs[REDUCE_DIMS], A_NONE };
    val sum = emit(b, OP_sum, (val[]){ emit_cast(b, wins, (enum dtype)emit_type(b, x).dtype) }, 1, over);
    *count = emit2(b, OP_max, sum, emit_full_like(b, sum, 1));
    return wins;
}

static void vjp_extreme(struct vjp *v)
{
    if (!v->active[0]) return;
    struct builder *b = v->b;
    val x = v->operands[0], count;
    uint32_t mask = folded_mask(&v->attrs[REDUCE_DIMS], emit_type(b, x).rank);
    val wins = winners(b, x, v->results[0], v->attrs, mask, &count);
    val share = emit2(b, OP_div, v->ct[0], count);
    v->out[0] = emit_select(b, wins, emit_spread(b, share, x, mask), emit_full_like(b, x, 0));
}

static void jvp_extreme(struct jvp *j)
{
    j->out[0] = VAL_NONE;
    if (j->tangents[0] == VAL_NONE) return;
    struct builder *b = j->b;
    val x = j->operands[0], count;
    val wins = winners(b, x, j->results[0], j->attrs,
                       folded_mask(&j->attrs[REDUCE_DIMS], emit_type(b, x).rank), &count);
    val chosen = emit_select(b, wins, j->tangents[0], emit_full_like(b, x, 0));
    struct attr over[REDUCE_ATTRS] = { j->attrs[REDUCE_DIMS], A_NONE };
    j->out[0] = emit2(b, OP_div, emit(b, OP_sum, &chosen, 1, over), count);
}

/* For each element the product of all others with which it is folded: those before it times those behind it,
 * so that zeros are no exception. */
static val product_of_others(struct builder *b, val x, uint32_t mask)
{
    struct type t = emit_type(b, x);
    uint32_t order[MAX_RANK], back[MAX_RANK], n = 0;
    dim dims[MAX_RANK], rows[2] = { 1, 1 }, one[2] = { 0, 1 }, none[2] = { 0, 0 };
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < t.rank; i++) {
            if ((mask >> i & 1) != pass) continue;
            order[n] = i;
            back[i] = n;
            dims[n++] = t.dims[i];
            rows[pass] = dim_mul(b->m, rows[pass], t.dims[i]);
        }
    val flat = emit_reshape(b, emit_permute(b, x, order), 2, rows);
    val unit = emit_full(b, (enum dtype)t.dtype, 1, 0, NULL);
    val side[2];
    for (uint32_t k = 0; k < 2; k++) { /* the products up to an element begin one step earlier, with 1 */
        struct attr pads[3] = { A_DIMS(k ? none : one, 2), A_DIMS(k ? one : none, 2), A_NONE };
        struct attr along[CUMULATIVE_ATTRS] = { A_INT(1), A_FLAG(k) };
        val padded = emit(b, OP_pad, (val[]){ flat, unit }, 2, pads);
        val steps = emit(b, OP_cumprod, &padded, 1, along);
        dim start[2] = { 0, k }, limit[2] = { rows[0], dim_add(b->m, rows[1], k) };
        side[k] = emit_as(b, emit_slice(b, steps, start, limit), builder_type(b, flat));
    }
    return emit_permute(b, emit_reshape(b, emit2(b, OP_mul, side[0], side[1]), t.rank, dims), back);
}

/* A value of a product, or of its derivative, in the dtype in which that is computed: the accumulator where a
 * dtype was chosen. */
static val prod_value(struct builder *b, const struct module *m, const struct fn *f, const struct node *n,
                      val v)
{
    bool chosen = node_attr(f, n, REDUCE_DTYPE)->kind != ATTR_ABSENT;
    return chosen ? emit_cast(b, v, node_accumulator(m, f, n)) : v;
}

static void vjp_prod(struct vjp *v)
{
    if (!v->active[0]) return;
    struct builder *b = v->b;
    struct type t = emit_type(b, v->operands[0]);
    uint32_t mask = folded_mask(&v->attrs[REDUCE_DIMS], t.rank);
    val x = prod_value(b, b->m, v->f, v->n, v->operands[0]);
    val ct = emit_spread(b, prod_value(b, b->m, v->f, v->n, v->ct[0]), x, mask);
    if (mask) ct = emit2(b, OP_mul, ct, product_of_others(b, x, mask));
    v->out[0] = emit_cast(b, ct, (enum dtype)t.dtype);
}

static void jvp_prod(struct jvp *j)
{
    j->out[0] = VAL_NONE;
    struct builder *b = j->b;
    uint32_t mask = folded_mask(&j->attrs[REDUCE_DIMS], emit_type(b, j->operands[0]).rank);
    if (j->tangents[0] == VAL_NONE) return;
    val terms = prod_value(b, b->m, j->f, j->n, j->tangents[0]);
    val x = prod_value(b, b->m, j->f, j->n, j->operands[0]);
    if (mask) terms = emit2(b, OP_mul, terms, product_of_others(b, x, mask));
    enum dtype t = (enum dtype)type_get(b->m, value_type(j->f, j->n->results)).dtype;
    j->out[0] = mask ? emit(b, OP_sum, &terms, 1, j->attrs) : emit_cast(b, terms, t);
}

/* ---- batch ---- */

static void batch_reduce(struct batch *v)
{
    if (batch_none(v)) return;
    uint32_t rank = emit_type(v->b, v->operands[0]).rank;
    uint32_t dims[MAX_RANK];
    uint32_t n = 0;
    uint32_t mask = folded_mask(&v->attrs[REDUCE_DIMS], rank - 1);
    for (uint32_t i = 1; i < rank; i++)
        if (mask >> (i - 1) & 1) dims[n++] = i;
    struct attr a[REDUCE_ATTRS] = { A_INTS(dims, n), chooses(v->n->op) ? v->attrs[REDUCE_DTYPE] : A_NONE };
    v->results[0] = emit(v->b, (enum op)v->n->op, v->operands, 1, a);
}

static void batch_position(struct batch *v)
{
    if (batch_none(v)) return;
    struct attr a[] = { A_INT(attr_dim_or_zero(&v->attrs[ARGMAX_DIM]) + 1) };
    v->results[0] = emit(v->b, (enum op)v->n->op, v->operands, 1, a);
}

/* ---- lower ---- */

static uint32_t reduced_extents(const struct module *m, const struct fn *f, const struct node *n,
                                dim extents[MAX_RANK])
{
    struct type t;
    uint32_t mask = node_mask(m, f, n, &t), count = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (mask >> i & 1) extents[count++] = t.dims[i];
    return count;
}

static lpv reduced_elem(struct lower *L, const struct fn *f, const struct node *n, const lpv *idx,
                        const lpv *folded)
{
    struct type t;
    uint32_t mask = node_mask(lower_module(L), f, n, &t), kept = 0, inner = 0;
    lpv at[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) at[i] = mask >> i & 1 ? folded[inner++] : idx[kept++];
    return lower_elem(L, node_operands(f, n)[0], at);
}

static bool folds_rows(const struct module *m, const struct fn *f, const struct node *n)
{
    struct type t;
    uint32_t mask = node_mask(m, f, n, &t);
    return t.rank && mask >> (t.rank - 1) & 1;
}

static uint32_t leading_dims(const struct module *m, const struct fn *f, const struct node *n)
{
    struct type t;
    uint32_t mask = node_mask(m, f, n, &t), count = 0;
    while (mask >> count & 1) count++;
    return mask >> count || count == t.rank ? 0 : count;
}

static bool folds_across(const struct module *m, const struct fn *f, const struct node *n)
{
    struct type t;
    uint32_t mask = node_mask(m, f, n, &t);
    return t.rank > 1 && mask == 1u << (t.rank - 2);
}

/* ---- rows ---- */

#define FOLD_LOWER(name, which, where) \
    static const struct op_lower lower_##name = { .kind = LOWER_REDUCE, \
                                                  .cost = COST_EXPENSIVE, \
                                                  .fold = which, \
                                                  .position = where, \
                                                  .reduced = reduced_extents, \
                                                  .reduce_elem = reduced_elem, \
                                                  .row_fold = folds_rows, \
                                                  .leading = leading_dims, \
                                                  .across = folds_across };
FOLD_LOWER(sum, FOLD_SUM, false)
FOLD_LOWER(prod, FOLD_PROD, false)
FOLD_LOWER(reduce_max, FOLD_MAX, false)
FOLD_LOWER(reduce_min, FOLD_MIN, false)
FOLD_LOWER(any, FOLD_OR, false)
FOLD_LOWER(all, FOLD_AND, false)
FOLD_LOWER(argmax, FOLD_MAX, true)
FOLD_LOWER(argmin, FOLD_MIN, true)

/* ---- what passes ask ---- */

static void reduce_source_dims(const struct attr *attrs, uint32_t operand_rank, uint32_t result_rank,
                               uint32_t from[MAX_RANK])
{
    uint32_t mask = folded_mask(&attrs[REDUCE_DIMS], operand_rank), n = 0;
    for (uint32_t d = 0; d < operand_rank && n < result_rank; d++)
        if (!(mask >> d & 1)) from[n++] = d;
}

static void position_source_dims(const struct attr *attrs, uint32_t operand_rank, uint32_t result_rank,
                                 uint32_t from[MAX_RANK])
{
    uint32_t along = attr_dim_or_zero(&attrs[ARGMAX_DIM]), n = 0;
    for (uint32_t d = 0; d < operand_rank && n < result_rank; d++)
        if (d != along) from[n++] = d;
}

static struct range range_position(const struct range_in *w)
{
    dim extents[MAX_RANK];
    reduced_extents(w->m, w->f, w->n, extents);
    return (struct range){ 0, HOP_MAX(range_of_dim(w, extents[0]).hi - 1, 0) };
}

/* The best of nothing is beyond all others. */
static struct range range_extreme(const struct range_in *w)
{
    dim extents[MAX_RANK];
    uint32_t n = reduced_extents(w->m, w->f, w->n, extents);
    struct range r = w->x, all = range_of_dtype(w->t);
    for (uint32_t i = 0; i < n; i++) {
        if (range_of_dim(w, extents[i]).lo > 0) continue;
        int64_t of_nothing = w->n->op == OP_reduce_min ? all.hi : all.lo;
        r = range_join(r, (struct range){ of_nothing, of_nothing });
    }
    return r;
}

/* A sum of outer products over dims they are batched over (a shared operand's gradient) is one product that
 * contracts them: both add one after the other. */
static val sum_of_products(const struct fold *w)
{
    const struct node *n = fold_made_by(w, w->x[0], OP_dot);
    const struct attr *dims = &w->attrs[REDUCE_DIMS];
    if (!n || dims->kind != ATTR_INTS || built_attr(w->b, n, DOT_CONTRACT_LHS)->n) return VAL_NONE;
    enum dtype t = fold_dtype(w, w->x[0]);
    if (w->attrs[REDUCE_DTYPE].kind != ATTR_ABSENT && w->attrs[REDUCE_DTYPE].i != t) return VAL_NONE;
    for (uint32_t side = 0; side < 2; side++) /* products that are rounded before they are added up */
        if (dtype_accumulator_of(fold_dtype(w, built_operand(w->b, n, side)), t) != t) return VAL_NONE;
    uint32_t total = built_attr(w->b, n, DOT_BATCH_LHS)->n;
    if (total >= emit_type(w->b, w->x[0]).rank) return VAL_NONE;
    uint32_t batch[2][MAX_RANK] = { { 0 } };
    uint32_t contract[2][MAX_RANK] = { { 0 } };
    uint32_t n_batch = 0;
    uint32_t n_contract = 0;
    for (uint32_t i = 0; i < dims->n; i++)
        if (dims->list[i] >= total) return VAL_NONE;
    for (uint32_t i = 0; i < total; i++) {
        bool folded = false;
        for (uint32_t k = 0; k < dims->n; k++) folded |= dims->list[k] == i;
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t d = built_attr(w->b, n, DOT_BATCH_LHS + side)->list[i];
            if (folded) contract[side][n_contract] = d;
            else batch[side][n_batch] = d;
        }
        if (folded) n_contract++;
        else n_batch++;
    }
    return emit_dot_to(w->b, t, built_operand(w->b, n, 0), built_operand(w->b, n, 1), batch[0], batch[1],
                       n_batch, contract[0], contract[1], n_contract);
}

static val fold_sum(const struct fold *w)
{
    struct type t = emit_type(w->b, w->x[0]);
    const struct attr *dims = &w->attrs[REDUCE_DIMS];
    bool nothing = false;
    for (uint32_t i = 0; i < t.rank; i++) {
        bool folded = dims->kind == ATTR_ABSENT;
        for (uint32_t k = 0; k < dims->n; k++) folded |= dims->list[k] == i;
        nothing |= folded && t.dims[i] == 0;
    }
    bool zero = nothing || fold_is_number(w, w->x[0], 0.0) || fold_is_number(w, w->x[0], -0.0);
    return zero ? fold_number(w, 0) : sum_of_products(w);
}

#define SAMPLE(op, symbols, from, attrs, to) \
    { "hop 1\nfn @sample" symbols "(%x: " from ") -> (" to ") {\n  %y = " op attrs \
      " (%x)\n  return %y\n}\n", \
      NULL }
#define FLOAT_SAMPLES(op) \
    SAMPLE(op, "", "f32[37]", "", "f32[]"), SAMPLE(op, "", "f32[3, 21]", " {dims = [1]}", "f32[3]"), \
        SAMPLE(op, "", "f64[5, 4]", " {dims = [0]}", "f64[4]"), \
        SAMPLE(op, "", "f32[2, 3, 4]", " {dims = [0, 2]}", "f32[3]"), \
        SAMPLE(op, "", "f64[2, 3, 4]", " {dims = [0, 1]}", "f64[4]"), SAMPLE(op, "", "f32[]", "", "f32[]"), \
        SAMPLE(op, "", "f64[2, 3]", " {dims = []}", "f64[2, 3]"), \
        SAMPLE(op, "", "f32[3, 0]", " {dims = [1]}", "f32[3]"), \
        SAMPLE(op, "", "f32[3, 0]", " {dims = [0]}", "f32[0]"), \
        SAMPLE(op, "[M, N]", "f32[M, N]", " {dims = [1]}", "f32[M]"), \
        SAMPLE(op, "[M, N]", "f64[M, N]", "", "f64[]"), \
        SAMPLE(op, "", "i32[3, 4]", " {dims = [0]}", "i32[4]"), SAMPLE(op, "", "i64[18]", "", "i64[]"), \
        SAMPLE(op, "", "u32[2, 18]", " {dims = [1]}", "u32[2]"), SAMPLE(op, "", "f16[37]", "", "f16[]"), \
        SAMPLE(op, "", "bf16[3, 21]", " {dims = [1]}", "bf16[3]"), \
        SAMPLE(op, "", "f16[5, 4]", " {dims = [0]}", "f16[4]"), SAMPLE(op, "", "i8[40]", "", "i8[]"), \
        SAMPLE(op, "", "u64[3, 4]", " {dims = [0]}", "u64[4]")
#define BOOL_SAMPLES(op) \
    SAMPLE(op, "", "bool[37]", "", "bool[]"), SAMPLE(op, "", "bool[5, 3]", " {dims = [1]}", "bool[5]"), \
        SAMPLE(op, "", "bool[2, 7]", " {dims = [0]}", "bool[7]"), SAMPLE(op, "", "bool[]", "", "bool[]"), \
        SAMPLE(op, "", "bool[2, 0]", "", "bool[]"), \
        SAMPLE(op, "[N]", "bool[N, 2, 3]", " {dims = [0, 2]}", "bool[2]")

#define SUM_SAMPLES(op) \
    FLOAT_SAMPLES(op), SAMPLE(op, "", "i8[70]", " {dtype = i32}", "i32[]"), \
        SAMPLE(op, "", "bool[3, 21]", " {dims = [1], dtype = u8}", "u8[3]"), \
        SAMPLE(op, "", "bf16[5, 4]", " {dims = [0], dtype = f32}", "f32[4]"), \
        SAMPLE(op, "[M, N]", "f32[M, N]", " {dims = [1], dtype = f64}", "f64[M]"), \
        SAMPLE(op, "", "f64[2, 19]", " {dims = [1], dtype = bf16}", "bf16[2]"), \
        SAMPLE(op, "", "u16[2, 3]", " {dims = [], dtype = f32}", "f32[2, 3]")

static const struct attr_spec reduce_attrs[] = {
    [REDUCE_DIMS] = { "dims", ATTR_INTS, false, NULL }, [REDUCE_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL }
};
enum { ATTRS_SUM = REDUCE_ATTRS, ATTRS_FOLD = REDUCE_DTYPE }; /* with a dtype of its own, without */
#define REDUCE_ROW(op, text, list, n, class, ...) \
    static const struct op_sample samples_##op[] = { list(#op) }; \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { 1, 1, .n_attrs = ATTRS_##n, .attrs = reduce_attrs }, \
                                     .infer = infer_reduce, \
                                     .eval = eval_reduce, \
                                     .batch = batch_reduce, \
                                     .lower = &lower_##op, \
                                     .source_dims = reduce_source_dims, \
                                     .autocast = AUTOCAST_##class, \
                                     ROW_SAMPLES(samples_##op), \
                                     __VA_ARGS__ };
REDUCE_ROW(sum,
           "the sum over the dims listed (absent: all). dtype: what is added up and given (absent: the "
           "operand's)",
           SUM_SAMPLES, SUM, F32, .vjp = vjp_sum, .jvp = jvp_sum, .fold = fold_sum)
REDUCE_ROW(prod, "the product over the dims listed (absent: all); of nothing 1. dtype: as for sum",
           SUM_SAMPLES, SUM, F32, .vjp = vjp_prod, .jvp = jvp_prod)
REDUCE_ROW(
    reduce_max,
    "the largest over the dims listed; of nothing -inf or the smallest integer; equals share the derivative",
    FLOAT_SAMPLES, FOLD, KEEP, .vjp = vjp_extreme, .jvp = jvp_extreme, .range = range_extreme)
REDUCE_ROW(
    reduce_min,
    "the smallest over the dims listed; of nothing inf or the largest integer; equals share the derivative",
    FLOAT_SAMPLES, FOLD, KEEP, .vjp = vjp_extreme, .jvp = jvp_extreme, .range = range_extreme)
REDUCE_ROW(any, "whether any holds over the dims listed", BOOL_SAMPLES, FOLD, KEEP,
           .no_gradient = "integer-valued")
REDUCE_ROW(all, "whether all hold over the dims listed", BOOL_SAMPLES, FOLD, KEEP,
           .no_gradient = "integer-valued")

static const struct attr_spec argmax_attrs[] = { [ARGMAX_DIM] = { "dim", ATTR_INT, false, NULL } };
#define ARG_SAMPLES(op) \
    SAMPLE(op, "", "f32[21]", "", "i64[]"), SAMPLE(op, "", "f64[3, 5]", " {dim = 1}", "i64[3]"), \
        SAMPLE(op, "", "i32[4, 6]", " {dim = 0}", "i64[6]"), \
        SAMPLE(op, "", "u32[2, 5, 3]", " {dim = 1}", "i64[2, 3]"), \
        SAMPLE(op, "", "f32[0, 4]", " {dim = 1}", "i64[0]"), \
        SAMPLE(op, "", "f32[3, 0]", " {dim = 1}", "i64[3]"), \
        SAMPLE(op, "", "f16[3, 21]", " {dim = 1}", "i64[3]"), SAMPLE(op, "", "i8[40]", "", "i64[]"), \
        SAMPLE(op, "", "u64[5, 20]", " {dim = 0}", "i64[20]"), \
        SAMPLE(op, "[N]", "f32[3, N]", " {dim = 1}", "i64[3]"), \
        SAMPLE(op, "[N]", "i64[N, 4]", " {dim = 0}", "i64[4]")
#define ARG_ROW(op, which) \
    static const struct op_sample samples_##op[] = { ARG_SAMPLES(#op) }; \
    const struct op_row row_##op = { \
        .name = #op, \
        .meaning = "where the " which " stands along a dim (absent: 0): the first of equals, the first NaN " \
                   "if there is one, 0 of nothing", \
        .sig = { 1, 1, ROW_ATTRS(argmax_attrs) }, \
        .infer = infer_argmax, \
        .eval = eval_position, \
        .batch = batch_position, \
        .lower = &lower_##op, \
        .source_dims = position_source_dims, \
        .range = range_position, \
        .no_gradient = "integer-valued", \
        .autocast = AUTOCAST_KEEP, \
        ROW_SAMPLES(samples_##op), \
    };
ARG_ROW(argmax, "largest")
ARG_ROW(argmin, "smallest")
