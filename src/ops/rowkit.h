/* Small tools that first-order rows share: checks on attributes and sizes for infer, strided copies for eval,
 * and the few emissions that several batching and gradient rules begin with. Everything here is a plain
 * inline function over the contracts of table.h and build.h. */
#ifndef HOP_OPS_ROWKIT_H
#define HOP_OPS_ROWKIT_H

#include "ir/number.h"
#include "loop/lower.h"
#include "ops/build.h"

#define ROW_ATTRS(list) .n_attrs = HOP_COUNT(list), .attrs = list
#define ROW_SAMPLES(list) .samples = list, .n_samples = HOP_COUNT(list)

/* ---- infer ---- */

/* a <= b: proved, an error, or required (as max(a, b) == b). `what` is worked out where it is wanted. */
#define infer_le(in, a, b, what) \
    do { \
        dim le_a_ = (a), le_b_ = (b); \
        if (!dim_provably_le((in)->m, (in)->symbols, le_a_, le_b_)) infer_at_most(in, le_a_, le_b_, what); \
    } while (0)
static inline void infer_at_most(struct infer *in, dim a, dim b, const char *what)
{
    int64_t lo, hi;
    dim_range(in->m, in->symbols, dim_sub(in->m, b, a), &lo, &hi);
    if (hi < 0) {
        struct text small = { .arena = &in->m->scratch }, large = { .arena = &in->m->scratch };
        dim_print(in->m, in->symbols, b, &small);
        dim_print(in->m, in->symbols, a, &large);
        infer_error(in, "%s: expected at most %s, found %s", what, small.data, large.data);
    }
    infer_equal(in, b, dim_max(in->m, a, b), what);
}

/* A size of at least so many, likewise. */
#define infer_at_least(in, least, d, what) \
    do { \
        dim size_ = (d); \
        if (!dim_provably_le((in)->m, (in)->symbols, dim_const((in)->m, least), size_)) \
            infer_large_enough(in, least, size_, what); \
    } while (0)
#define infer_not_negative(in, d, what) infer_at_least(in, 0, d, what)
static inline void infer_large_enough(struct infer *in, int64_t least, dim d, const char *what)
{
    int64_t lo, hi;
    dim_range(in->m, in->symbols, d, &lo, &hi);
    if (hi < least) {
        struct text found = { .arena = &in->m->scratch };
        dim_print(in->m, in->symbols, d, &found);
        infer_error(in, "%s: expected a size of at least %lld, found %s", what, (long long)least, found.data);
    }
    infer_equal(in, d, dim_max(in->m, d, dim_const(in->m, least)), what);
}

/* The type whose dims an attribute lists. */
static inline type_id infer_dims_type(struct infer *in, enum dtype dtype, const struct attr *dims)
{
    if (dims->n > MAX_RANK)
        infer_error(in, "attribute 'dims' has %u entries, a type has at most %d dims", dims->n, MAX_RANK);
    for (uint32_t i = 0; i < dims->n; i++) infer_not_negative(in, dims->list[i], "attribute 'dims'");
    return type_intern(in->m, dtype, dims->n, dims->list);
}

/* The attribute that chooses the dtype in which operands are folded: floats do not become integers by it. */
static inline void infer_result_dtype(struct infer *in, const struct attr *dtype)
{
    enum dtype t = (enum dtype)dtype->i;
    if (t == DT_BOOL) infer_error(in, "attribute 'dtype': expected a dtype of numbers, found bool");
    for (uint32_t i = 0; i < in->n_operands; i++)
        if (dtype_is_float((enum dtype)infer_type(in, i).dtype) && !dtype_is_float(t))
            infer_error(in,
                        "attribute 'dtype': expected a float dtype for operand %u %s, found %s: cast the "
                        "operand first, or the result",
                        i, infer_text(in, in->operands[i]), dtype_info[t].name);
}

/* The dtype of a product's result, whose operands messages call `lhs` and `rhs`: that of both, or the one
 * that the attribute chooses. */
static inline enum dtype infer_product_dtype(struct infer *in, const struct attr *dtype, const char *lhs,
                                             const char *rhs)
{
    struct type x = infer_type(in, 0), y = infer_type(in, 1);
    if (dtype->kind != ATTR_ABSENT) {
        infer_result_dtype(in, dtype);
        return (enum dtype)dtype->i;
    }
    if (x.dtype == DT_BOOL)
        infer_error(in, "operand 0 (%s): expected numbers, found %s", lhs, infer_text(in, in->operands[0]));
    if (x.dtype != y.dtype)
        infer_error(in, "operand 1 (%s): expected dtype %s, found %s", rhs, dtype_info[x.dtype].name,
                    infer_text(in, in->operands[1]));
    return (enum dtype)x.dtype;
}

/* A list of dims of a value: each below `rank`, none twice. */
static inline void infer_dim_list(struct infer *in, const struct attr *list, uint32_t rank, const char *name)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t d = list->list[i];
        if (d >= rank)
            infer_error(in, "attribute '%s': expected dims below the rank %u, found %d", name, rank,
                        (int32_t)d);
        if (seen >> d & 1) infer_error(in, "attribute '%s' names dim %u twice", name, d);
        seen |= 1u << d;
    }
}

static inline void infer_list_length(struct infer *in, const struct attr *list, uint32_t rank,
                                     const char *name)
{
    if (list->n != rank)
        infer_error(in, "attribute '%s': expected one entry per dim of the operand (%u), found %u", name,
                    rank, list->n);
}

/* A dim given as an ATTR_INT, absent: 0. */
static inline uint32_t infer_one_dim(struct infer *in, const struct attr *a, uint32_t rank, const char *name)
{
    int64_t d = a->kind == ATTR_ABSENT ? 0 : a->i;
    if (d < 0 || d >= (int64_t)rank)
        infer_error(in, "attribute '%s': expected a dim below the rank %u, found %lld", name, rank,
                    (long long)d);
    return (uint32_t)d;
}
static inline uint32_t attr_dim_or_zero(const struct attr *a)
{
    return a->kind == ATTR_ABSENT ? 0 : (uint32_t)a->i;
}

/* Bit d: dim d of the operand is folded; absent: all are. */
static inline uint32_t folded_mask(const struct attr *dims, uint32_t rank)
{
    uint32_t mask = 0;
    if (dims->kind == ATTR_ABSENT) return all_dims(rank);
    for (uint32_t i = 0; i < dims->n; i++) mask |= 1u << dims->list[i];
    return mask;
}
/* The type without the folded dims. */
static inline type_id folded_type(struct module *m, struct type t, uint32_t mask)
{
    dim dims[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (!(mask >> i & 1)) dims[n++] = t.dims[i];
    return type_intern(m, (enum dtype)t.dtype, n, dims);
}

/* ---- eval ---- */

static inline size_t tensor_width(const struct tensor *t) { return dtype_info[t->dtype].size; }

/* Row-major strides in elements. */
static inline void row_major(uint32_t rank, const int64_t *dims, int64_t *strides)
{
    int64_t s = 1;
    for (uint32_t i = rank; i-- > 0;) strides[i] = s, s *= dims[i];
}

/* Steps idx through dims in row-major order; false after the last. */
static inline bool next_index(uint32_t rank, const int64_t *dims, int64_t *idx)
{
    for (uint32_t i = rank; i-- > 0;) {
        if (++idx[i] < dims[i]) return true;
        idx[i] = 0;
    }
    return false;
}

/* to[i·to_strides] = from[i·from_strides] for every index i below dims; strides in elements of `width` bytes.
 */
static inline void copy_strided(size_t width, uint32_t rank, const int64_t *dims, char *to,
                                const int64_t *to_strides, const char *from, const int64_t *from_strides)
{
    int64_t idx[MAX_RANK] = { 0 };
    for (uint32_t i = 0; i < rank; i++)
        if (!dims[i]) return;
    do {
        int64_t t = 0, f = 0;
        for (uint32_t i = 0; i < rank; i++) t += idx[i] * to_strides[i], f += idx[i] * from_strides[i];
        memcpy(to + t * (int64_t)width, from + f * (int64_t)width, width);
    } while (next_index(rank, dims, idx));
}

/* An element of an array of indices, of any integer dtype; beyond int64_t it is the largest of it, which lies
 * outside of every array. */
static inline int64_t index_at(const struct tensor *t, int64_t i)
{
    if (t->dtype == DT_I64) return ((const int64_t *)t->data)[i];
    return element_index((enum dtype)t->dtype, (const char *)t->data + i * (int64_t)tensor_width(t));
}

/* ---- lower ---- */

/* An index of any integer dtype as i64; u64 beyond its range is the largest, as index_at has it. */
static inline lpv lower_index(struct lp *p, lpv i)
{
    if (lp_dtype(p, i) == DT_U64) i = lp_bin(p, LP_MIN, i, lp_const_bits(p, DT_U64, INT64_MAX));
    return lp_cast(p, DT_I64, i);
}

/* For op_lower.operand_use: each operand is read once. */
static inline uint8_t use_once(const struct fn *f, const struct node *n, uint32_t i)
{
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    HOP_UNUSED(i);
    return USE_ONCE;
}

/* A call that ends the run unless call.value holds, with the operands from `first` on to show: arrays among
 * them are brought to memory only where it does not hold. */
static inline void lower_call_unless(struct lower *L, struct lp_call call, const struct fn *f,
                                     const struct node *n, uint32_t first)
{
    struct lp *p = lower_lp(L);
    bool arrays = false;
    for (uint32_t i = first; i < n->n_operands; i++)
        arrays |= type_get(lower_module(L), value_type(f, node_operands(f, n)[i])).rank > 0;
    if (arrays) lp_if_begin(p, lp_un(p, LP_NOT, call.value));
    call.n_operands = n->n_operands - first;
    call.operands = ARENA_ZNEW(&p->arena, struct lp_operand, call.n_operands);
    for (uint32_t i = first; i < n->n_operands; i++)
        call.operands[i - first] = lower_operand(L, node_operands(f, n)[i]);
    lp_add_call(p, call);
    if (arrays) lp_if_end(p);
}

/* i brought into 0..size-1 (0 when size is 0). */
static inline lpv lower_clamp(struct lp *p, lpv i, lpv size)
{
    return lp_bin(p, LP_MAX, lp_bin(p, LP_MIN, i, lp_bin(p, LP_SUB, size, lp_index(p, 1))), lp_index(p, 0));
}
/* `holds` and that dim d is not empty, LPV_NONE standing for what always holds. */
static inline lpv lower_not_empty(struct lower *L, const struct fn *f, dim d, lpv holds)
{
    struct lp *p = lower_lp(L);
    int64_t lo, hi;
    dim_range(lower_module(L), f->symbols, d, &lo, &hi);
    if (lo > 0) return holds;
    lpv some = lp_bin(p, LP_GT, lower_dim(L, d), lp_index(p, 0));
    return holds == LPV_NONE ? some : lp_bin(p, LP_AND, holds, some);
}
/* The element of v where `holds`, `otherwise` elsewhere. Unlike under a select, v is not read at all where it
 * does not hold: an array that may be empty has no element that could be read instead. */
static inline lpv lower_elem_if(struct lower *L, lpv holds, val v, const lpv *idx, lpv otherwise)
{
    struct lp *p = lower_lp(L);
    if (holds == LPV_NONE) return lower_elem(L, v, idx);
    uint32_t local = lp_local(p, lp_dtype(p, otherwise), LOCAL_SCALAR, "part");
    lp_set(p, local, otherwise);
    lp_if_begin(p, holds);
    lp_set(p, local, lower_elem(L, v, idx));
    lp_if_end(p);
    return lp_read(p, local);
}

/* ---- emission ---- */

/* v with exactly this type: sizes that are equal but not written alike are made so. */
static inline val emit_as(struct builder *b, val v, type_id type)
{
    struct type t = type_get(b->m, type);
    return builder_type(b, v) == type ? v : emit_reshape(b, v, t.rank, t.dims);
}

/* A value over the dims that are not folded, spread over the shape of `like`. */
static inline val emit_spread(struct builder *b, val v, val like, uint32_t mask)
{
    struct type t = emit_type(b, like);
    uint32_t at[MAX_RANK], n = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (!(mask >> i & 1)) at[n++] = i;
    return mask ? emit_broadcast(b, v, t.rank, t.dims, at) : v;
}

/* An i64 array filled with a size. */
static inline val emit_dim_full(struct builder *b, dim d, uint32_t rank, const dim *dims)
{
    if (dim_is_const(b->m, d)) {
        struct attr a[3] = { A_INT(dim_const_value(b->m, d)), A_DIMS(dims, rank), A_DTYPE(DT_I64) };
        return emit(b, OP_full, NULL, 0, a);
    }
    val v = emit_dim_value(b, d);
    return rank ? emit_broadcast(b, v, rank, dims, NULL) : v;
}
static inline val emit_iota(struct builder *b, uint32_t rank, const dim *dims, uint32_t along)
{
    struct attr a[3] = { A_DIMS(dims, rank), A_INT(along), A_DTYPE(DT_I64) };
    return emit(b, OP_iota, NULL, 0, a);
}
static inline val emit_i64(struct builder *b, int64_t value)
{
    struct attr a[3] = { A_INT(value), A_DIMS(NULL, 0), A_DTYPE(DT_I64) };
    return emit(b, OP_full, NULL, 0, a);
}

/* The node's one operand replaced by x, its attributes kept: the jvp of a linear operator. */
static inline val emit_same(struct builder *b, const struct node *n, val x, const struct attr *attrs)
{
    return emit(b, (enum op)n->op, &x, 1, attrs);
}

/* ---- batch ---- */

/* When nothing is batched the node stays as it is. */
static inline bool batch_none(struct batch *v)
{
    for (uint32_t i = 0; i < v->n->n_operands; i++)
        if (v->batched[i]) return false;
    val first = emit(v->b, (enum op)v->n->op, v->operands, v->n->n_operands, v->attrs);
    for (uint32_t i = 0; i < v->n->n_results; i++) v->results[i] = first + i, v->result_batched[i] = false;
    return true;
}
/* Operand i with a batch dim, broadcast when it has none. */
static inline val batch_operand(struct batch *v, uint32_t i)
{
    return v->batched[i] ? v->operands[i] : emit_broadcast_front(v->b, v->operands[i], v->size);
}
/* A list of dims, or of sizes, with one more in front. */
static inline struct attr batch_sizes(struct batch *v, const struct attr *a, dim front)
{
    uint32_t *list = ARENA_NEW(&v->b->arena, uint32_t, a->n + 1);
    list[0] = front;
    for (uint32_t i = 0; i < a->n; i++) list[i + 1] = a->list[i];
    return (struct attr){ .kind = a->kind, .n = a->n + 1, .list = list };
}
/* A list of dim numbers, each one further, with `front` before them when it is not HOP_NONE. */
static inline struct attr batch_dim_numbers(struct batch *v, const struct attr *a, uint32_t front)
{
    uint32_t *list = ARENA_NEW(&v->b->arena, uint32_t, a->n + 1), n = 0;
    if (front != HOP_NONE) list[n++] = front;
    for (uint32_t i = 0; i < a->n; i++) list[n++] = a->list[i] + 1;
    return (struct attr){ .kind = ATTR_INTS, .n = n, .list = list };
}

#endif
