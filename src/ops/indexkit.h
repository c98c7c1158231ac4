/* What rows that index share: which dims of an array index operands replace, indices brought into range, and
 * positions along one dim written as indices of all dims. Plain inline functions over build.h, for gather,
 * scatter, the cumulative and the sorting rows. */
#ifndef HOP_OPS_INDEXKIT_H
#define HOP_OPS_INDEXKIT_H

#include "ops/rowkit.h"

/* Dims of x that are indexed, in the order of the index operands, and the rest. The dims of the indices (S)
 * stand where the first of the indexed dims stood: an indexed array has the dims x.dims[:first] + S + the
 * rest behind. */
struct indexed {
    uint32_t n, dims[MAX_RANK];
    uint32_t first;                  /* the smallest of dims */
    uint32_t n_rest, rest[MAX_RANK]; /* the others, ascending; `first` of them stand before S */
    uint32_t n_inner;                /* how many of the rest stand behind every indexed dim */
};

/* `list` absent: the first n dims of x. */
static inline struct indexed indexed_dims(const struct attr *list, uint32_t n, uint32_t rank)
{
    struct indexed s = { .n = n, .first = rank };
    uint32_t mask = 0, last = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t d = list->kind == ATTR_ABSENT ? i : list->list[i];
        s.dims[i] = d;
        mask |= 1u << d;
        s.first = HOP_MIN(s.first, d);
        last = HOP_MAX(last, d);
    }
    for (uint32_t d = 0; d < rank; d++)
        if (!(mask >> d & 1)) s.rest[s.n_rest++] = d;
    s.n_inner = rank - 1 - last;
    return s;
}

/* infer: operands `at` to at+n-1 are indices of one shape, `list` names one dim of x for each. */
static inline struct indexed infer_indexed(struct infer *in, const struct attr *list, uint32_t at, uint32_t n)
{
    struct type x = infer_type(in, 0);
    if (!n) infer_error(in, "expected indices, found none");
    if (list->kind != ATTR_ABSENT) {
        infer_dim_list(in, list, x.rank, "dims");
        if (list->n != n)
            infer_error(in, "attribute 'dims': expected a dim for each of the %u index operands, found %u", n,
                        list->n);
    } else if (n > x.rank)
        infer_error(in, "expected at most one index operand per dim of %s, found %u",
                    infer_text(in, in->operands[0]), n);
    for (uint32_t i = at; i < at + n; i++) {
        struct type t = infer_type(in, i), first = infer_type(in, at);
        if (!dtype_is_integer((enum dtype)t.dtype))
            infer_error(in, "operand %u (indices): expected integers, found %s", i,
                        infer_text(in, in->operands[i]));
        if (t.rank != first.rank)
            infer_error(in, "operand %u (indices): expected the dims of %s, found %s", i,
                        infer_text(in, in->operands[at]), infer_text(in, in->operands[i]));
        for (uint32_t d = 0; d < t.rank; d++)
            infer_equal(in, first.dims[d], t.dims[d],
                        arena_printf(&in->m->scratch, "operand %u (indices): dim %u", i, d));
    }
    return indexed_dims(list, n, x.rank);
}

/* x.dims[:first] + S + the rest; returns how many. */
static inline uint32_t indexed_shape(const struct indexed *s, struct type x, struct type indices,
                                     dim dims[2 * MAX_RANK])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->first; i++) dims[n++] = x.dims[i];
    for (uint32_t i = 0; i < indices.rank; i++) dims[n++] = indices.dims[i];
    for (uint32_t i = s->first; i < s->n_rest; i++) dims[n++] = x.dims[s->rest[i]];
    return n;
}
static inline type_id infer_indexed_type(struct infer *in, const struct indexed *s, uint32_t at)
{
    struct type x = infer_type(in, 0);
    dim dims[2 * MAX_RANK];
    uint32_t n = indexed_shape(s, x, infer_type(in, at), dims);
    if (n > MAX_RANK) infer_error(in, "the result would have %u dims, at most %d are possible", n, MAX_RANK);
    return type_intern(in->m, (enum dtype)x.dtype, n, dims);
}

/* Indices as i64 brought into 0..size-1 (0 when size is 0). */
static inline val clamped_indices(struct builder *b, val indices, dim size)
{
    indices = emit_as_index(b, indices);
    struct type t = emit_type(b, indices);
    val below = emit2(b, OP_min, indices, emit_dim_full(b, dim_sub(b->m, size, 1), t.rank, t.dims));
    return emit2(b, OP_max, below, emit_dim_full(b, 0, t.rank, t.dims));
}

/* bool of the indices' shape: do all indices lie in x? */
static inline val indices_in_range(struct builder *b, const struct indexed *s, val x, const val *indices)
{
    struct type t = emit_type(b, x);
    val all = VAL_NONE;
    for (uint32_t i = 0; i < s->n; i++) {
        val at = emit_as_index(b, indices[i]);
        struct type shape = emit_type(b, at);
        val low = emit2(b, OP_ge, at, emit_dim_full(b, 0, shape.rank, shape.dims));
        val here = emit2(b, OP_and, low,
                         emit2(b, OP_lt, at, emit_dim_full(b, t.dims[s->dims[i]], shape.rank, shape.dims)));
        all = all == VAL_NONE ? here : emit2(b, OP_and, all, here);
    }
    return all;
}

/* A value over S spread over the dims of an indexed array. */
static inline val spread_over(struct builder *b, const struct indexed *s, val v, val like)
{
    struct type t = emit_type(b, like);
    uint32_t at[MAX_RANK], rank = emit_type(b, v).rank;
    for (uint32_t i = 0; i < rank; i++) at[i] = s->first + i;
    return rank == t.rank ? v : emit_broadcast(b, v, t.rank, t.dims, at);
}

static inline val emit_gather(struct builder *b, val x, const struct indexed *s, const val *indices)
{
    val operands[MAX_RANK + 1] = { x };
    struct attr a = A_INTS(s->dims, s->n);
    memcpy(operands + 1, indices, s->n * sizeof *indices);
    return emit(b, OP_gather, operands, s->n + 1, &a);
}

enum { SCATTER_ADD, SCATTER_SET, SCATTER_MUL, SCATTER_MIN, SCATTER_MAX };
static inline val emit_scatter(struct builder *b, val x, const struct indexed *s, const val *indices,
                               val updates, uint32_t mode)
{
    val operands[MAX_RANK + 2] = { x };
    struct attr a[2] = { A_INTS(s->dims, s->n), A_WORD(mode) };
    memcpy(operands + 1, indices, s->n * sizeof *indices);
    operands[s->n + 1] = updates;
    return emit(b, OP_scatter, operands, s->n + 2, a);
}

/* Positions along dim `along` of x, given for every place of `at` (dims of x but for that dim), as indices of
 * all dims. */
static inline struct indexed along_indices(struct builder *b, val at, uint32_t along, val indices[MAX_RANK])
{
    struct type t = emit_type(b, at);
    for (uint32_t d = 0; d < t.rank; d++) indices[d] = d == along ? at : emit_iota(b, t.rank, t.dims, d);
    return indexed_dims(&A_NONE, t.rank, t.rank);
}

/* x at these positions along a dim; and its transpose, v added into zeros like x. */
static inline val emit_take_along(struct builder *b, val x, val at, uint32_t along)
{
    val indices[MAX_RANK];
    struct indexed s = along_indices(b, at, along, indices);
    return emit_gather(b, x, &s, indices);
}
static inline val emit_put_along(struct builder *b, val x, val at, uint32_t along, val v)
{
    val indices[MAX_RANK];
    struct indexed s = along_indices(b, at, along, indices);
    return emit_scatter(b, emit_full_like(b, x, 0), &s, indices, v, SCATTER_ADD);
}

#endif
