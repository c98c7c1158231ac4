/* The steps of random programs: values are made by steps; a step picks operands among the values that are
 * there (those not used yet first) and emits an operator. Programs of kind `wild` let infinities and NaN
 * arise, the others keep floats moderate, so that derivatives can be held against differences. */
#ifndef HOP_TEST_RANDOM_STEPS_H
#define HOP_TEST_RANDOM_STEPS_H

#include "check/check.h"
#include "ops/build.h"
#include "ops/scalar_c.h"

#include <math.h>

enum { MAX_VALUES = 4096, MAX_PARAMS = 6, MAX_OUTER = 4 };

struct gen {
    struct random r;
    struct module *m;
    bool wild, effects;
    bool operators;   /* calls of operators from outside (random_operators.h), which are registered */
    bool smooth;      /* derivatives will be held against differences */
    bool scaled;      /* rules of custom calls are not what their bodies say (random_custom.h) */
    bool loud;        /* so that values too tell which of them ran: no loop is run again for its gradient */
    uint32_t factors; /* numbers that scale them, so far */
    enum dtype floats[2]; /* the float dtypes in use; equal: one */
    int64_t consts[3];    /* the constant sizes in use */
    uint32_t steps;       /* that may still be made */
    uint32_t depth;       /* of nesting */
    uint32_t made, rejected;
    bool asked[OP_COUNT]; /* rows that the program asked for: nothing else tells of composites, which are gone
                             once they are made */
    const struct step *outer, *inner; /* the wish: inner in a body of outer; NULL: none */
    uint32_t wish_depth;              /* of the bodies that hold inner; 0: none now */
    bool bare; /* the next higher-order step has no carries, operands or results, as far as its row allows
                  that */
};

struct block {
    struct gen *g;
    struct builder b;
    uint32_t depth;
    bool predicate; /* no effects but checks */
    val link; /* a float scalar that depends on the wished node of this block; VAL_NONE: there is none */
    bool used[MAX_VALUES];
    bool hidden[MAX_VALUES]; /* inside the expansion of a composite: what is constant there for derivatives is
                                so for the whole alone */
};

struct step {
    void (*make)(struct block *s);
    uint32_t weight;
    enum op op; /* of a higher-order step, else OP_COUNT */
};

struct program {
    struct module *m;
    uint32_t fn;
    struct tensor *args[MAX_PARAMS];
    int64_t symbols[MAX_OUTER], dims[MAX_OUTER]; /* sizes; those of explicit dim parameters */
    bool wild, wide, large, coarse, scaled; /* wide: every float is f64; large: sizes that are worth threads;
                                               coarse: with f16 or bf16; scaled: as in struct gen */
    uint64_t seed;
};

static uint32_t below(struct gen *g, uint32_t n) { return n ? (uint32_t)(random_next(&g->r) % n) : 0; }
static bool chance(struct gen *g, double p) { return random_unit(&g->r) < p; }
static struct type block_type(struct block *s, val v) { return emit_type(&s->b, v); }
static type_id make_type(struct block *s, enum dtype t, uint32_t rank, const dim *dims)
{
    return type_intern(s->g->m, t, rank, dims);
}

/* ---- picking ---- */

static dim pick_dim(struct block *s)
{
    struct gen *g = s->g;
    uint32_t n = s->b.symbols.len;
    if (n && chance(g, 0.45)) {
        dim d = dim_symbol(g->m, below(g, n));
        if (chance(g, 0.08)) d = dim_add(g->m, d, dim_const(g->m, 1));
        return d;
    }
    return dim_const(g->m, chance(g, 0.04)  ? 0
                           : chance(g, 0.2) ? 1
                                            : g->consts[below(g, HOP_COUNT(g->consts))]);
}

static enum dtype pick_float(struct gen *g) { return g->floats[below(g, 2)]; }

static enum dtype pick_dtype(struct gen *g)
{
    static const enum dtype others[] = { DT_I32, DT_I64, DT_U32, DT_BOOL, DT_I64 },
                            rare[] = { DT_I8, DT_I16, DT_U8, DT_U16, DT_U64 };
    return chance(g, 0.7)    ? pick_float(g)
           : chance(g, 0.25) ? rare[below(g, HOP_COUNT(rare))]
                             : others[below(g, HOP_COUNT(others))];
}

/* Another float for a float, another integer for the others. */
static enum dtype pick_as(struct gen *g, enum dtype t)
{
    static const enum dtype whole[] = { DT_I8, DT_U8, DT_I16, DT_I32, DT_U32, DT_I64 };
    return dtype_is_float(t) ? pick_float(g) : whole[below(g, HOP_COUNT(whole))];
}

/* The dtype that a fold of elements of dtype t gives, now and then: floats do not become integers. */
static struct attr chosen_dtype(struct gen *g, enum dtype t)
{
    if (!chance(g, 0.2)) return A_NONE;
    enum dtype to = dtype_is_float(t) ? pick_float(g) : pick_dtype(g);
    return to == DT_BOOL ? A_NONE : A_DTYPE(to);
}

struct filter {
    uint32_t dtypes; /* bit per dtype; 0: any */
    uint32_t min_rank;
    uint32_t most_rank; /* 0: any */
    bool same;          /* exactly `dims` (rank of them) */
    uint32_t rank;
    const dim *dims;
    bool lead;    /* leading dim is `dims[0]` */
    bool visible; /* its dims mention no symbol that a node of this block binds */
    bool scalar;
};
#define FLOATS (1u << DT_F16 | 1u << DT_BF16 | 1u << DT_F32 | 1u << DT_F64)
#define INTEGERS \
    (1u << DT_I8 | 1u << DT_I16 | 1u << DT_I32 | 1u << DT_I64 | 1u << DT_U8 | 1u << DT_U16 | 1u << DT_U32 | \
     1u << DT_U64)

static bool symbol_from(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

static bool dims_visible(struct block *s, struct type t)
{
    uint32_t outer = s->b.n_outer_symbols;
    for (uint32_t i = 0; i < t.rank; i++)
        if (dim_mentions(s->g->m, t.dims[i], symbol_from, &outer)) return false;
    return true;
}

static bool fits(struct block *s, val v, const struct filter *f)
{
    struct type t = block_type(s, v);
    if (s->hidden[v]) return false;
    if (f->dtypes && !(f->dtypes >> t.dtype & 1)) return false;
    if (t.rank < f->min_rank || (f->most_rank && t.rank > f->most_rank) || (f->scalar && t.rank))
        return false;
    if (f->same && (t.rank != f->rank || (t.rank && memcmp(t.dims, f->dims, t.rank * sizeof *t.dims))))
        return false;
    if (f->lead && (!t.rank || t.dims[0] != f->dims[0])) return false;
    return !f->visible || dims_visible(s, t);
}

/* A value that fits, those not used yet and later ones more likely; VAL_NONE: there is none. */
static val pick(struct block *s, const struct filter *f)
{
    uint64_t total = 0;
    val chosen = VAL_NONE;
    for (val v = 0; v < s->b.values.len; v++) {
        if (!fits(s, v, f)) continue;
        uint64_t weight = (s->used[v] ? 1 : 5) + (v + 6 > s->b.values.len ? 2 : 0);
        total += weight;
        if (random_next(&s->g->r) % total < weight) chosen = v;
    }
    if (chosen != VAL_NONE) s->used[chosen] = true;
    return chosen;
}

/* ---- making ---- */

static val node(struct block *s, enum op op, const val *x, uint32_t n, const struct attr *a)
{
    val before = s->b.values.len, v = emit(&s->b, op, x, n, a), end = v + s->b.n_last_results;
    for (val k = before; op_table[op]->expand && k < s->b.values.len; k++) s->hidden[k] = k < v || k >= end;
    s->g->asked[op] = true;
    return v;
}
static val unary(struct block *s, enum op op, val x) { return node(s, op, (val[]){ x }, 1, NULL); }
static val binary(struct block *s, enum op op, val x, val y) { return node(s, op, (val[]){ x, y }, 2, NULL); }
static val number_like(struct block *s, val x, double v) { return emit_full_like(&s->b, x, v); }

static val want(struct block *s, enum dtype t, uint32_t rank, const dim *dims);

static val random_key(struct block *s)
{
    dim two = dim_const(s->g->m, 2);
    val v = pick(s, &(struct filter){ .dtypes = 1u << DT_U32, .same = true, .rank = 1, .dims = &two });
    if (v != VAL_NONE) return v;
    uint32_t words[2] = { below(s->g, 100), below(s->g, 100) };
    struct attr a = A_CONST(module_constant(s->g->m, make_type(s, DT_U32, 1, &two), words, sizeof words, 0));
    return node(s, OP_constant, NULL, 0, &a);
}

static bool static_count(struct block *s, uint32_t rank, const dim *dims, int64_t *count)
{
    *count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (!dim_is_const(s->g->m, dims[i])) return false;
        *count *= dim_const_value(s->g->m, dims[i]);
    }
    return true;
}

/* Numbers at the edges of a dtype: zeros of both signs, the smallest and the largest, infinities, NaN of both
 * signs, quiet, signalling and with a payload. */
static void put_special(struct tensor *t, int64_t at, struct random *r)
{
    enum dtype dtype = (enum dtype)t->dtype;
    uint64_t which = random_next(r);
    static const double floats[] = { INFINITY, -INFINITY, -0.0, 0, 1e-40, -1e30, 1, 65504 };
    static const uint64_t nans[][3] = {
        /* f16, bf16, f32 and f64: quiet, negative with a payload, signalling */
        [0] = { 0x7e00, 0xfe41, 0x7d01 },
        [1] = { 0x7fc0, 0xffc3, 0x7f81 },
        [2] = { 0x7fc00000, 0xffc00123, 0x7f800001 },
        [3] = { 0x7ff8000000000000, 0xfff8000000000123, 0x7ff0000000000001 },
    };
    size_t size = dtype_info[dtype].size;
    if (dtype == DT_BOOL) {
        tensor_set(t, at, (double)(which & 1));
    } else if (dtype_is_integer(dtype)) { /* 0, all bits, the lowest and the highest of signed ones */
        uint64_t top = (uint64_t)1 << (8 * size - 1),
                 bits = (uint64_t[]){ 0, UINT64_MAX, top, top - 1 }[which % 4];
        memcpy((char *)t->data + (size_t)at * size, &bits, size);
    } else if (which % 3) {
        tensor_set(t, at, floats[which / 3 % HOP_COUNT(floats)]);
    } else {
        uint32_t row = dtype == DT_F16 ? 0 : dtype == DT_BF16 ? 1 : dtype == DT_F32 ? 2 : 3;
        memcpy((char *)t->data + (size_t)at * size, &nans[row][which / 3 % 3], size);
    }
}

static void put_specials(struct tensor *t, double share, struct random *r)
{
    for (int64_t k = 0; k < t->count; k++)
        if (random_unit(r) < share) put_special(t, k, r);
}

static val constant_array(struct block *s, enum dtype t, uint32_t rank, const dim *dims, int64_t count)
{
    double data[64];
    struct tensor of = { .dtype = (uint8_t)t, .count = count, .data = data };
    tensor_random(&of, &s->g->r, dtype_info[t].kind == KIND_UINT ? 0 : -2, 2);
    if (s->g->wild) put_specials(&of, 0.1, &s->g->r);
    struct attr a = A_CONST(
        module_constant(s->g->m, make_type(s, t, rank, dims), data, (size_t)count * dtype_info[t].size, 0));
    return node(s, OP_constant, NULL, 0, &a);
}

/* A value out of nothing. */
static val fill(struct block *s, enum dtype t, uint32_t rank, const dim *dims)
{
    struct gen *g = s->g;
    int64_t count;
    double top = dtype_is_float(t) ? 1.5 : 3;
    if (rank && t != DT_BOOL && chance(g, 0.3)) {
        struct attr a[3] = { A_DIMS(dims, rank), A_INT(below(g, rank)), A_DTYPE(t) };
        val v = node(s, OP_iota, NULL, 0, a);
        return dtype_is_float(t) && !g->wild ? unary(s, OP_sin, v) : v;
    }
    if (dtype_is_float(t) && chance(g, 0.2)) {
        struct attr a[2] = { A_DIMS(dims, rank), A_DTYPE(t) };
        return emit(&s->b, chance(g, 0.5) ? OP_random_uniform : OP_random_normal, (val[]){ random_key(s) }, 1,
                    a);
    }
    if (t == DT_U32 && chance(g, 0.3)) {
        struct attr a = A_DIMS(dims, rank);
        return emit(&s->b, OP_random_bits, (val[]){ random_key(s) }, 1, &a);
    }
    if (static_count(s, rank, dims, &count) && count <= 64 && chance(g, 0.4))
        return constant_array(s, t, rank, dims, count);
    double v = random_unit(&g->r) * 2 * top - (dtype_info[t].kind == KIND_UINT || t == DT_BOOL ? 0 : top);
    if (t == DT_BOOL) v = chance(g, 0.5);
    if (g->wild && dtype_is_float(t) && chance(g, 0.1))
        v = (double[]){ INFINITY, -INFINITY, NAN, -0.0, 1e30 }[below(g, 5)];
    if (chance(g, 0.2)) v = 0;
    if (chance(g, 0.1)) v = 1;
    return emit_full(&s->b, t, t == DT_F32 ? (double)(float)v : v, rank, dims);
}

/* The value in another dtype. */
static val convert(struct block *s, val v, enum dtype t)
{
    struct gen *g = s->g;
    enum dtype from = (enum dtype)block_type(s, v).dtype;
    if (from == t) return v;
    if (t == DT_BOOL && from != DT_BOOL && chance(g, 0.7))
        return binary(s, chance(g, 0.5) ? OP_gt : OP_le, v,
                      number_like(s, v, dtype_is_float(from) ? 0.1 : 1));
    if (dtype_is_integer(t) && dtype_is_float(from)) v = binary(s, OP_mul, v, number_like(s, v, 2.3));
    if (dtype_is_float(t) && dtype_is_integer(from) && !g->wild)
        v = binary(s, OP_rem, v, number_like(s, v, 7));
    return emit_cast(&s->b, v, t);
}

/* Spreads something with fewer dims. */
static val spread(struct block *s, enum dtype t, uint32_t rank, const dim *dims)
{
    uint32_t drop = below(s->g, rank), at[MAX_RANK], n = 0;
    dim fewer[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        if (i != drop) fewer[n] = dims[i], at[n++] = i;
    val v = pick(s, &(struct filter){ .dtypes = 1u << t, .same = true, .rank = n, .dims = fewer });
    if (v == VAL_NONE) v = pick(s, &(struct filter){ .dtypes = 1u << t, .same = true }), n = 0;
    return v == VAL_NONE ? VAL_NONE : emit_broadcast(&s->b, v, rank, dims, at);
}

static val want(struct block *s, enum dtype t, uint32_t rank, const dim *dims)
{
    struct filter exact = { .dtypes = 1u << t, .same = true, .rank = rank, .dims = dims }, shape = exact;
    shape.dtypes = 0;
    val v = VAL_NONE;
    uint32_t how = below(s->g, 12);
    if (how < 8) v = pick(s, &exact);
    if (v == VAL_NONE && how < 10) v = pick(s, &shape);
    if (v == VAL_NONE && rank && how < 11) v = spread(s, t, rank, dims);
    if (v == VAL_NONE) v = pick(s, &exact);
    if (v == VAL_NONE || (how == 11 && chance(s->g, 0.3))) v = fill(s, t, rank, dims);
    return convert(s, v, t);
}

static val want_scalar(struct block *s, enum dtype t) { return want(s, t, 0, NULL); }

/* Floats no larger than 1. */
static val bounded(struct block *s, val v)
{
    static const enum op ops[] = { OP_tanh, OP_sin, OP_sigmoid };
    return dtype_is_float((enum dtype)block_type(s, v).dtype) ? unary(s, ops[below(s->g, 3)], v) : v;
}

/* Floats back to a moderate size, unless that is done again and again: what a loop squares at every step
 * outgrows any factor. */
static val squash(struct block *s, val v)
{
    if (!dtype_is_float((enum dtype)block_type(s, v).dtype)) return v;
    return chance(s->g, 0.25) ? binary(s, OP_mul, v, number_like(s, v, 0.375)) : bounded(s, v);
}

static val maybe_squash(struct block *s, val v)
{
    return !s->g->wild && chance(s->g, 0.4) ? squash(s, v) : v;
}

/* ---- first-order steps ---- */

/* Where the operator is not smooth or not defined, moderate programs keep away from there. */
static void guard(struct block *s, enum op op, val *x)
{
    val tame = x[0];
    if (s->g->wild || !dtype_is_float((enum dtype)block_type(s, x[0]).dtype)) return;
    if (op == OP_exp || op == OP_expm1 || op == OP_exp2 || op == OP_sinh || op == OP_cosh || op == OP_tan)
        x[0] = unary(s, OP_tanh, tame);
    if (op == OP_asin || op == OP_acos || op == OP_atanh)
        x[0] = binary(s, OP_mul, unary(s, OP_tanh, tame), number_like(s, tame, 0.75));
    if (op == OP_log || op == OP_sqrt || op == OP_rsqrt || op == OP_pow || op == OP_log1p || op == OP_log2 ||
        op == OP_cbrt || op == OP_acosh || op == OP_copysign)
        x[0] = binary(s, OP_add, binary(s, OP_mul, tame, tame),
                      number_like(s, tame, op == OP_acosh ? 1.5 : 0.5));
    if (op == OP_div || op == OP_rem || op == OP_mod || op == OP_floor_div || op == OP_atan2 ||
        op == OP_hypot || op == OP_copysign)
        x[1] = binary(s, OP_add, binary(s, OP_mul, x[1], x[1]), number_like(s, x[1], 0.5));
    if (op == OP_pow) x[1] = unary(s, OP_tanh, x[1]);
}

static void step_elementwise(struct block *s)
{
    struct gen *g = s->g;
    enum op op;
    do op = (enum op)below(g, OP_COUNT);
    while (!(op_table[op]->flags & OPF_ELEMENTWISE) || op == OP_cast ||
           (op == OP_stop_gradient && g->smooth));
    uint32_t n = op_table[op]->sig.min_operands;
    uint32_t bits = INTEGERS | (scalar_c_defined(op, DT_BOOL) ? 1u << DT_BOOL : 0);
    val x[3] = { pick(s, &(struct filter){ .dtypes = !scalar_c_defined(op, DT_F32) ? bits
                                                     : n == 1 || chance(g, 0.6)    ? FLOATS
                                                                                   : 0 }) };
    if (x[0] == VAL_NONE) return;
    struct type t = block_type(s, x[0]);
    for (uint32_t i = 1; i < n; i++) x[i] = want(s, (enum dtype)t.dtype, t.rank, t.dims);
    if (op == OP_select)
        x[0] = want(s, DT_BOOL, t.rank, t.dims), x[1] = want(s, (enum dtype)t.dtype, t.rank, t.dims);
    guard(s, op, x + (op == OP_select));
    maybe_squash(s, node(s, op, x, n, NULL));
}

static void step_cast(struct block *s)
{
    val x = pick(s, &(struct filter){ 0 });
    if (x != VAL_NONE) convert(s, x, pick_dtype(s->g));
}

static uint32_t subset(struct gen *g, uint32_t rank, uint32_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++)
        if (chance(g, 0.5)) out[n++] = i;
    return n;
}

/* x with one element more along each dim: some reductions of nothing are not finite. */
static val not_empty(struct block *s, val x)
{
    struct type t = block_type(s, x);
    dim low[MAX_RANK] = { 0 }, high[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) high[i] = dim_const(s->g->m, 1);
    struct attr pad[3] = { A_DIMS(low, t.rank), A_DIMS(high, t.rank), A_NONE };
    return t.rank ? node(s, OP_pad, (val[]){ x, want_scalar(s, (enum dtype)t.dtype) }, 2, pad) : x;
}

static void step_reduce(struct block *s)
{
    struct gen *g = s->g;
    static const enum op ops[] = { OP_sum, OP_sum,    OP_reduce_max, OP_reduce_min, OP_any,
                                   OP_all, OP_argmax, OP_argmin,     OP_prod };
    enum op op = ops[below(g, HOP_COUNT(ops))];
    bool arg = op == OP_argmax || op == OP_argmin;
    uint32_t dims[MAX_RANK];
    val x = pick(s, &(struct filter){ .dtypes = op == OP_any || op == OP_all
                                                    ? 1u << DT_BOOL
                                                    : FLOATS | (chance(g, 0.3) ? INTEGERS : 0),
                                      .min_rank = arg || chance(g, 0.9) });
    if (x == VAL_NONE) return;
    uint32_t rank = block_type(s, x).rank, n = subset(g, rank, dims);
    struct attr a[REDUCE_ATTRS] = { arg ? A_INT(below(g, rank)) : n ? A_INTS(dims, n) : A_NONE, A_NONE };
    if (!g->wild && (op == OP_reduce_max || op == OP_reduce_min)) x = not_empty(s, x);
    if (!g->wild && op == OP_prod && dtype_is_float((enum dtype)block_type(s, x).dtype))
        x = unary(s, OP_tanh, x);
    if (op == OP_sum || op == OP_prod) a[REDUCE_DTYPE] = chosen_dtype(g, (enum dtype)block_type(s, x).dtype);
    maybe_squash(s, node(s, op, &x, 1, a));
}

static void step_shape(struct block *s)
{
    struct gen *g = s->g;
    struct module *m = g->m;
    val x = pick(s, &(struct filter){ .min_rank = chance(g, 0.9) });
    if (x == VAL_NONE) return;
    struct type t = block_type(s, x);
    uint32_t rank = t.rank, list[MAX_RANK] = { 0 }, n = 0;
    dim dims[MAX_RANK], more[MAX_RANK];
    switch (below(g, 8)) {
    case 0: { /* permute */
        for (uint32_t i = 0; i < rank; i++) list[i] = i;
        for (uint32_t i = rank; i > 1; i--) {
            uint32_t j = below(g, i), k = list[j];
            list[j] = list[i - 1], list[i - 1] = k;
        }
        struct attr a = A_INTS(list, rank);
        node(s, OP_permute, &x, 1, &a);
        return;
    }
    case 1: { /* reshape: one dim into the next, or a dim of 1 more */
        uint32_t at = below(g, rank);
        if (rank > 1 && at + 1 < rank && chance(g, 0.7)) {
            for (uint32_t i = 0; i < rank; i++) {
                if (i == at + 1) dims[n - 1] = dim_mul(m, dims[n - 1], t.dims[i]);
                else dims[n++] = t.dims[i];
            }
        } else {
            for (uint32_t i = 0; i < rank; i++) {
                if (i == at) dims[n++] = dim_const(m, 1);
                dims[n++] = t.dims[i];
            }
        }
        if (n <= 4) emit_reshape(&s->b, x, n, dims);
        return;
    }
    case 2: { /* broadcast */
        if (rank > 2) return;
        uint32_t at = below(g, rank + 1);
        for (uint32_t i = 0; i <= rank; i++) {
            if (i == at) dims[n++] = pick_dim(s);
            if (i < rank) list[i] = n, dims[n++] = t.dims[i];
        }
        emit_broadcast(&s->b, x, n, dims, list);
        return;
    }
    case 3: { /* slice */
        for (uint32_t i = 0; i < rank; i++) {
            dim size = t.dims[i], one = dim_const(m, 1);
            dims[i] = chance(g, 0.5) ? dim_const(m, 0) : dim_min(m, size, one);
            more[i] = chance(g, 0.5) ? size : dim_max(m, dims[i], dim_sub(m, size, one));
            list[i] = chance(g, 0.7) ? 1 : 2;
        }
        struct attr a[3] = { A_DIMS(dims, rank), A_DIMS(more, rank),
                             chance(g, 0.5) ? A_INTS(list, rank) : A_NONE };
        val part = node(s, OP_slice, &x, 1, a);
        if (!chance(g, 0.3)) return;
        struct type u = block_type(s, part);
        val whole = want(s, (enum dtype)t.dtype, t.rank, t.dims),
            update = want(s, (enum dtype)t.dtype, u.rank, u.dims);
        node(s, OP_slice_update, (val[]){ whole, update }, 2, a);
        return;
    }
    case 4: { /* pad */
        for (uint32_t i = 0; i < rank; i++)
            dims[i] = dim_const(m, below(g, 3)), more[i] = dim_const(m, below(g, 2)), list[i] = below(g, 2);
        struct attr a[3] = { A_DIMS(dims, rank), A_DIMS(more, rank),
                             chance(g, 0.4) ? A_INTS(list, rank) : A_NONE };
        node(s, OP_pad, (val[]){ x, want_scalar(s, (enum dtype)t.dtype) }, 2, a);
        return;
    }
    case 5: { /* concat */
        if (!rank) return;
        uint32_t at = below(g, rank);
        val parts[3] = { x };
        for (n = 1; n < 2u + chance(g, 0.3); n++) {
            memcpy(dims, t.dims, rank * sizeof *dims);
            if (chance(g, 0.5)) dims[at] = pick_dim(s);
            parts[n] = want(s, (enum dtype)t.dtype, rank, dims);
        }
        struct attr a = A_INT(at);
        node(s, OP_concat, parts, n, &a);
        return;
    }
    case 6: {
        n = subset(g, rank, list);
        if (!n && rank) list[n++] = below(g, rank);
        struct attr a = A_INTS(list, n);
        node(s, OP_reverse, &x, 1, &a);
        return;
    }
    default: { /* reshape to one dim, or drop dims of 1 */
        dim one = dim_const(m, 1);
        for (uint32_t i = 0; i < rank; i++)
            if (t.dims[i] != one) dims[n++] = t.dims[i];
        if (n == rank) dims[0] = type_elements(m, builder_type(&s->b, x)), n = 1;
        emit_reshape(&s->b, x, n, dims);
    }
    }
}

/* Indices, now and then by way of a narrow dtype. */
static val want_indices(struct block *s, uint32_t rank, const dim *dims)
{
    struct gen *g = s->g;
    static const enum dtype narrow[] = { DT_I8, DT_I16, DT_U8, DT_U16, DT_U32, DT_U64 };
    enum dtype t = chance(g, 0.5) ? DT_I32 : DT_I64;
    if (!chance(g, 0.2)) return want(s, t, rank, dims);
    return emit_cast(&s->b, want(s, narrow[below(g, HOP_COUNT(narrow))], rank, dims), t);
}

static void step_index(struct block *s)
{
    struct gen *g = s->g;
    val x = pick(s, &(struct filter){ .min_rank = 1, .dtypes = chance(g, 0.7) ? FLOATS : 0 });
    if (x == VAL_NONE) return;
    struct type t = block_type(s, x);
    uint32_t how = below(g, 4), at = below(g, t.rank), n = 0;
    dim dims[MAX_RANK];
    val operands[2 + MAX_RANK] = { x };
    if (how < 2) { /* take, scatter: indices of rank 0..2 */
        dim index_dims[2] = { pick_dim(s), pick_dim(s) };
        uint32_t index_rank = below(g, t.rank > 2 ? 2 : 3);
        operands[1] = want_indices(s, index_rank, index_dims);
        for (uint32_t i = 0; i < t.rank; i++) {
            if (i != at) dims[n++] = t.dims[i];
            else
                for (uint32_t k = 0; k < index_rank; k++) dims[n++] = index_dims[k];
        }
        if (how) operands[2] = want(s, (enum dtype)t.dtype, n, dims);
        struct attr a[2] = { how ? A_INTS(&at, 1) : A_INT(at),
                             A_WORD(t.dtype == DT_BOOL ? 1 : below(g, 5)) }; /* bools can only be set */
        maybe_squash(s, node(s, how ? OP_scatter : OP_take, operands, how ? 3 : 2, a));
        return;
    }
    n = how == 2 ? 1 : 2;
    for (uint32_t i = 0; i < t.rank; i++)
        dims[i] = chance(g, 0.4) ? t.dims[i] : dim_min(g->m, t.dims[i], dim_const(g->m, 1 + below(g, 2)));
    if (how == 3) operands[1] = want(s, (enum dtype)t.dtype, t.rank, dims);
    for (uint32_t i = 0; i < t.rank; i++) operands[n + i] = want_scalar(s, DT_I64);
    struct attr a = A_DIMS(dims, t.rank);
    node(s, how == 2 ? OP_dynamic_slice : OP_dynamic_update, operands, n + t.rank, how == 2 ? &a : NULL);
}

/* Indices of several dims at once. */
static void step_gather(struct block *s)
{
    struct gen *g = s->g;
    val x = pick(s, &(struct filter){ .min_rank = 1, .dtypes = chance(g, 0.7) ? FLOATS : 0 });
    if (x == VAL_NONE) return;
    struct type t = block_type(s, x);
    uint32_t list[MAX_RANK], n = 0, first = t.rank, rank = 0, index_rank = below(g, t.rank > 2 ? 2 : 3),
                             start = below(g, t.rank);
    dim index_dims[2] = { pick_dim(s), pick_dim(s) }, dims[MAX_RANK];
    val operands[3 + MAX_RANK] = { x };
    for (uint32_t i = 0; i < t.rank; i++)
        if (!n || chance(g, 0.5)) list[n++] = (start + i) % t.rank;
    for (uint32_t i = 0; i < n; i++) {
        operands[1 + i] = want_indices(s, index_rank, index_dims);
        first = HOP_MIN(first, list[i]);
    }
    struct attr a[2] = { A_INTS(list, n), A_WORD(t.dtype == DT_BOOL ? 1 : below(g, 5)) };
    if (chance(g, 0.5)) {
        maybe_squash(s, node(s, OP_gather, operands, n + 1, a));
        return;
    }
    for (uint32_t i = 0; i < t.rank; i++) {
        bool indexed = false;
        for (uint32_t k = 0; k < n; k++) indexed |= list[k] == i;
        for (uint32_t k = 0; i == first && k < index_rank; k++) dims[rank++] = index_dims[k];
        if (!indexed) dims[rank++] = t.dims[i];
    }
    operands[1 + n] = want(s, (enum dtype)t.dtype, rank, dims);
    if (t.dtype != DT_BOOL && chance(g, 0.3)) { /* factors and terms: what stands there is multiplied and
                                                   added to, one update after the other */
        if (!g->wild && dtype_is_float((enum dtype)t.dtype))
            operands[1 + n] = unary(s, OP_tanh, operands[1 + n]);
        operands[2 + n] = want(s, (enum dtype)t.dtype, rank, dims);
        maybe_squash(s, node(s, OP_scatter_affine, operands, n + 3, a));
        return;
    }
    maybe_squash(s, node(s, OP_scatter, operands, n + 2, a));
}

/* Along one dim: running values, order, places. */
static void step_along(struct block *s)
{
    struct gen *g = s->g;
    static const enum op ops[] = { OP_cumsum,     OP_cumprod,      OP_cummax,  OP_cummin,
                                   OP_recurrence, OP_logcumsumexp, OP_sort,    OP_argsort,
                                   OP_take_along, OP_searchsorted, OP_nonzero, OP_top_k };
    enum op op = ops[below(g, HOP_COUNT(ops))];
    bool ordered = op == OP_sort || op == OP_argsort || op == OP_searchsorted || op == OP_top_k;
    uint32_t dtypes = op == OP_nonzero                          ? 1u << DT_BOOL
                      : op == OP_logcumsumexp || chance(g, 0.6) ? FLOATS
                      : ordered || op == OP_take_along          ? 0
                                                                : FLOATS | INTEGERS;
    val x = pick(s, &(struct filter){ .min_rank = 1, .dtypes = dtypes });
    if (x == VAL_NONE && op == OP_nonzero && (x = pick(s, &(struct filter){ .min_rank = 1 })) != VAL_NONE)
        x = convert(s, x, DT_BOOL);
    if (x == VAL_NONE) return;
    struct type t = block_type(s, x);
    uint32_t at = below(g, t.rank);
    dim dims[MAX_RANK];
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    struct attr a[3] = { A_INT(at), A_FLAG(chance(g, 0.5)), A_FLAG(op == OP_recurrence && chance(g, 0.3)) };
    if (!g->wild && dtype_is_float((enum dtype)t.dtype) && (op == OP_cumprod || op == OP_recurrence))
        x = unary(s, OP_tanh, x);
    if (op == OP_cumsum || op == OP_cumprod) a[CUMULATIVE_DTYPE] = chosen_dtype(g, (enum dtype)t.dtype);
    if (op == OP_recurrence)
        maybe_squash(s, node(s, op, (val[]){ x, want(s, (enum dtype)t.dtype, t.rank, dims) }, 2, a));
    else if (op == OP_take_along) {
        dims[at] = pick_dim(s);
        node(s, op, (val[]){ x, want(s, DT_I64, t.rank, dims) }, 2, a);
    } else if (op == OP_searchsorted) {
        a[0] = A_INT(t.rank - 1);
        dims[t.rank - 1] = pick_dim(s);
        a[1] = A_NONE;
        val sorted = node(s, OP_sort, &x, 1, a), values = want(s, (enum dtype)t.dtype, t.rank, dims);
        a[0] = A_FLAG(chance(g, 0.5));
        node(s, op, (val[]){ sorted, values }, 2, a);
    } else if (op == OP_nonzero) {
        a[0] = A_DIM(pick_dim(s));
        a[1] = chance(g, 0.5) ? A_INT(below(g, 4)) : A_NONE;
        node(s, op, &x, 1, a);
    } else if (op == OP_top_k) {
        a[TOP_K_K] = A_DIM(dim_min(g->m, t.dims[at], dim_const(g->m, below(g, 4))));
        a[TOP_K_DIM] = A_INT(at);
        node(s, op, &x, 1, a);
    } else maybe_squash(s, node(s, op, &x, 1, a));
}

/* Windows that always fit: their padding alone has room for one. */
static void step_windows(struct block *s)
{
    struct gen *g = s->g;
    static const enum op ops[] = { OP_window_sum, OP_reduce_window, OP_window_max, OP_window_min,
                                   OP_avg_pool };
    enum op op = ops[below(g, g->wild ? HOP_COUNT(ops) : 2)]; /* extremes of nothing are infinite */
    val x = pick(s, &(struct filter){ .min_rank = 1,
                                      .most_rank = 3,
                                      .dtypes = op == OP_avg_pool || chance(g, 0.7) ? FLOATS
                                                                                    : FLOATS | INTEGERS });
    if (x == VAL_NONE) return;
    uint32_t rank = block_type(s, x).rank, lists[WINDOW_EXTREME_ATTRS][MAX_RANK];
    for (uint32_t d = 0; d < rank; d++) {
        bool moved = chance(g, 0.6);
        uint32_t size = moved ? 1 + below(g, 3) : 1, apart = 1 + (moved && chance(g, 0.3));
        uint32_t span = (size - 1) * apart + 1, low = moved ? below(g, 3) : 0;
        lists[WINDOW_SIZES][d] = size;
        lists[WINDOW_STRIDES][d] = moved ? 1 + below(g, 3) : 1;
        lists[WINDOW_LOW][d] = low;
        lists[WINDOW_HIGH][d] = moved ? (span > low ? span - low : below(g, 2)) : 0;
        lists[WINDOW_DILATION][d] = apart;
    }
    struct attr a[WINDOW_EXTREME_ATTRS + 1];
    for (uint32_t k = 0; k < WINDOW_EXTREME_ATTRS; k++) a[k] = A_INTS(lists[k], rank);
    a[WINDOW_EXTREME_ATTRS] = A_NONE; /* no divisor, no flag */
    if (op == OP_reduce_window) a[REDUCE_WINDOW_BY] = A_WORD(g->wild ? below(g, 4) : REDUCE_BY_SUM);
    maybe_squash(s, node(s, op, &x, 1, a));
}

/* A size of something that is there. */
static dim some_dim(struct block *s)
{
    dim d = pick_dim(s);
    bool some = dim_provably_le(s->g->m, s->b.symbols.data, 1, d);
    return some ? d : dim_add(s->g->m, d, dim_const(s->g->m, 1));
}

/* Bins along some dims, as many as a size says, or other sizes by reading between elements. */
static void step_resized(struct block *s)
{
    struct gen *g = s->g;
    enum op op = chance(g, 0.4) ? OP_adaptive_pool : OP_resize;
    bool floats = chance(g, 0.8);
    uint32_t method = floats ? below(g, 3) : BY_NEAREST, list[MAX_RANK];
    val x = pick(s, &(struct filter){
                        .min_rank = 1, .most_rank = 3, .dtypes = floats ? FLOATS : FLOATS | INTEGERS });
    if (x == VAL_NONE) return;
    x = not_empty(s, x);
    uint32_t n = subset(g, block_type(s, x).rank, list);
    dim sizes[MAX_RANK];
    for (uint32_t i = 0; i < n; i++) sizes[i] = op == OP_adaptive_pool ? some_dim(s) : pick_dim(s);
    struct attr a[RESIZE_ATTRS] = { A_INTS(list, n), A_DIMS(sizes, n), A_WORD(method) };
    if (op == OP_adaptive_pool) { /* equal elements are kinks of the largest */
        bool largest = !floats || (!g->smooth && chance(g, 0.5));
        a[ADAPTIVE_BY] = A_WORD(largest ? ADAPTIVE_MAX : ADAPTIVE_MEAN);
    } else if (method != BY_NEAREST && chance(g, 0.6)) {
        a[chance(g, 0.4) ? RESIZE_ALIGN : RESIZE_ANTIALIAS] = A_FLAG(true);
    }
    maybe_squash(s, node(s, op, &x, 1, a));
}

/* Positions about a middle. Moderate ones keep away from whole numbers, where what is read has kinks, as far
 * as they are zero or of size one. */
static val positions(struct block *s, uint32_t rank, const dim *dims, double middle, double reach)
{
    val v = want(s, pick_float(s->g), rank, dims);
    if (s->g->wild) return v;
    v = bounded(s, v);
    return binary(s, OP_add, binary(s, OP_mul, v, number_like(s, v, reach)), number_like(s, v, middle));
}

/* Arrays read at positions that the program computes. */
static void step_sample(struct block *s)
{
    struct gen *g = s->g;
    bool grid = chance(g, 0.5), reads = chance(g, 0.9);
    uint32_t method = reads && !g->smooth ? below(g, 3) : reads ? BY_LINEAR + below(g, 2) : BY_NEAREST;
    val x = pick(s, &(struct filter){ .min_rank = grid ? 3 : 1,
                                      .most_rank = 3,
                                      .dtypes = reads ? FLOATS : FLOATS | INTEGERS });
    if (x == VAL_NONE) return;
    x = not_empty(s, x);
    struct type t = block_type(s, x);
    val operands[4] = { x };
    uint32_t n = grid ? 1 : t.rank, rank = grid ? 3 : below(g, 3);
    dim dims[3] = { grid ? t.dims[0] : pick_dim(s), pick_dim(s), dim_const(g->m, 1) };
    if (method == BY_CUBIC && t.rank > 2 && !grid) method = BY_LINEAR; /* 64 taps take long */
    for (uint32_t i = 0; i < n; i++)
        operands[1 + i] = positions(s, rank, dims, grid ? 0.07 : 1.13, grid ? 1.37 : 2.41);
    for (uint32_t i = 1; i < n; i++)
        operands[1 + i] = convert(s, operands[1 + i], (enum dtype)block_type(s, operands[1]).dtype);
    struct attr a[SAMPLE_ATTRS] = { A_WORD(method), A_WORD(below(g, 3)) };
    if (chance(g, 0.4)) a[SAMPLE_ALIGN] = A_FLAG(true);
    maybe_squash(s, node(s, grid ? OP_grid_sample : OP_map_coordinates, operands, 1 + n, a));
}

/* Operators made of others, over all dims or some. */
static void step_statistic(struct block *s)
{
    struct gen *g = s->g;
    static const enum op ops[] = { OP_mean, OP_var, OP_logsumexp, OP_softmax, OP_log_softmax, OP_std };
    enum op op = ops[below(g, HOP_COUNT(ops) - !g->wild)]; /* std has no derivative where all are equal */
    val x = pick(s, &(struct filter){ .min_rank = chance(g, 0.9), .dtypes = FLOATS });
    uint32_t dims[MAX_RANK];
    if (x == VAL_NONE) return;
    if (!g->wild) x = not_empty(s, x);
    struct attr a[STATISTIC_ATTRS] = { [MEAN_DIMS] = A_INTS(dims, subset(g, block_type(s, x).rank, dims)),
                                       [VAR_CORRECTION] = chance(g, 0.2) ? A_INT(-1) : A_NONE };
    if (op == OP_mean || op == OP_var || op == OP_std)
        a[MEAN_DTYPE] = chosen_dtype(g, (enum dtype)block_type(s, x).dtype);
    if (chance(g, 0.2) && op != OP_softmax && op != OP_log_softmax) a[0] = A_NONE;
    maybe_squash(s, node(s, op, &x, 1, a));
}

static void step_composite(struct block *s)
{
    struct gen *g = s->g;
    struct module *m = g->m;
    static const enum op ops[] = { OP_split, OP_squeeze, OP_expand_dims, OP_broadcast_to, OP_tile, OP_roll,
                                   OP_stack, OP_tril,    OP_triu,        OP_one_hot,      OP_eye };
    enum op op = ops[below(g, HOP_COUNT(ops))];
    val x = pick(s, &(struct filter){ .min_rank = op == OP_tril || op == OP_triu
                                                      ? 2
                                                      : op == OP_split || op == OP_roll || chance(g, 0.8),
                                      .most_rank = 3,
                                      .dtypes = op == OP_one_hot ? 1u << DT_I32 | 1u << DT_I64
                                                : chance(g, 0.6) ? FLOATS
                                                                 : 0 });
    if (x == VAL_NONE) return;
    struct type t = block_type(s, x);
    uint32_t list[MAX_RANK], more[MAX_RANK], n = 0, at = t.rank ? below(g, t.rank) : 0;
    dim dims[MAX_RANK];
    struct attr a[4] = { A_NONE, A_NONE, A_NONE, A_NONE };
    val operands[4] = { x, x, x, x };
    switch (op) {
    case OP_split:
        dims[0] = dim_min(m, t.dims[at], dim_const(m, 1)), dims[1] = dim_sub(m, t.dims[at], dims[0]);
        a[SPLIT_DIM] = A_INT(at);
        if (chance(g, 0.5)) a[SPLIT_SIZES] = A_DIMS(dims, 2);
        else
            a[SPLIT_PARTS] = A_INT(1 + below(g, 3)),
            x = operands[0] = node(s, OP_concat, (val[]){ x, x, x, x, x, x }, 6, &A_INT(at));
        break;
    case OP_squeeze: break;
    case OP_expand_dims: list[0] = below(g, t.rank + 1u), a[0] = A_INTS(list, 1); break;
    case OP_broadcast_to:
        dims[n++] = pick_dim(s);
        for (uint32_t i = 0; i < t.rank; i++) dims[n++] = t.dims[i];
        a[0] = A_DIMS(dims + chance(g, 0.3), n);
        a[0].n -= a[0].list != dims;
        break;
    case OP_tile:
        for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_const(m, below(g, 3));
        a[0] = A_DIMS(dims, t.rank);
        break;
    case OP_roll:
        list[0] = at, more[0] = below(g, 7) - 3;
        a[ROLL_DIMS] = A_INTS(list, 1);
        if (chance(g, 0.5)) a[ROLL_SHIFTS] = A_INTS(more, 1);
        else operands[1] = want_scalar(s, DT_I64);
        break;
    case OP_stack:
        operands[1] = want(s, (enum dtype)t.dtype, t.rank, t.dims);
        a[0] = A_INT(below(g, t.rank + 1u));
        break;
    case OP_one_hot: a[ONE_HOT_DEPTH] = A_DIM(pick_dim(s)), a[ONE_HOT_DTYPE] = A_DTYPE(pick_dtype(g)); break;
    case OP_eye:
        a[EYE_ROWS] = A_DIM(pick_dim(s)), a[EYE_COLUMNS] = A_DIM(pick_dim(s)),
        a[EYE_DIAGONAL] = A_INT((int)below(g, 3) - 1), a[EYE_DTYPE] = A_DTYPE(pick_dtype(g));
        break;
    default: a[0] = A_INT((int)below(g, 5) - 2); break;
    }
    node(s, op, operands,
         op == OP_eye                                          ? 0
         : op == OP_stack                                      ? 2 + below(g, 2)
         : op == OP_roll && a[ROLL_SHIFTS].kind == ATTR_ABSENT ? 2
                                                               : 1,
         a);
}

static void step_draw(struct block *s)
{
    struct gen *g = s->g;
    dim dims[2] = { pick_dim(s), pick_dim(s) };
    struct attr a = A_DIMS(dims, below(g, 3));
    enum dtype t = chance(g, 0.5) ? DT_I32 : DT_I64;
    switch (below(g, 4)) {
    case 0: a = A_DIM(dims[0]), node(s, OP_random_split, (val[]){ random_key(s) }, 1, &a); break;
    case 1: a = A_DIM(dims[0]), node(s, OP_permutation, (val[]){ random_key(s) }, 1, &a); break;
    case 2: node(s, OP_bernoulli, (val[]){ random_key(s), want_scalar(s, pick_float(g)) }, 2, &a); break;
    default:
        node(s, OP_randint, (val[]){ random_key(s), want_scalar(s, t), want_scalar(s, t) }, 3, &a);
        break;
    }
}

static void step_dot(struct block *s)
{
    struct gen *g = s->g;
    val x = pick(s, &(struct filter){
                        .min_rank = 1, .most_rank = 3, .dtypes = FLOATS | (chance(g, 0.2) ? INTEGERS : 0) });
    if (x == VAL_NONE) return;
    struct type t = block_type(s, x);
    dim dims[MAX_RANK];
    if (chance(g, 0.4)) { /* matmul: [..., M, K] by [K], [K, N] or [..., K, N] */
        uint32_t rank = t.rank == 3 ? 2u + chance(g, 0.5) : 1 + below(g, 2), n = 0;
        for (uint32_t i = 0; rank == 3 && i < t.rank - 2u; i++) dims[n++] = t.dims[i];
        dims[n++] = t.dims[t.rank - 1];
        if (rank > 1) dims[n++] = pick_dim(s);
        struct attr a = chosen_dtype(g, (enum dtype)t.dtype);
        enum dtype other = a.kind != ATTR_ABSENT && chance(g, 0.5) ? pick_as(g, (enum dtype)t.dtype)
                                                                   : (enum dtype)t.dtype;
        maybe_squash(s, node(s, OP_matmul, (val[]){ x, want(s, other, n, dims) }, 2, &a));
        return;
    }
    uint32_t role[MAX_RANK], from[MAX_RANK], n = 0, bl[MAX_RANK], br[MAX_RANK], nb = 0, cl[MAX_RANK],
                                             cr[MAX_RANK], nc = 0;
    for (uint32_t i = 0; i < t.rank; i++) role[i] = below(g, 3);
    for (uint32_t i = 0; i < t.rank; i++)
        if (role[i]) from[n++] = i;
    if (n < 3 && chance(g, 0.6)) from[n++] = HOP_NONE; /* a free dim of rhs */
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = below(g, i), k = from[j];
        from[j] = from[i - 1], from[i - 1] = k;
    }
    for (uint32_t i = 0; i < n; i++) {
        dims[i] = from[i] == HOP_NONE ? pick_dim(s) : t.dims[from[i]];
        if (from[i] == HOP_NONE) continue;
        if (role[from[i]] == 1) bl[nb] = from[i], br[nb++] = i;
        else cl[nc] = from[i], cr[nc++] = i;
    }
    maybe_squash(s, emit_dot(&s->b, x, want(s, (enum dtype)t.dtype, n, dims), bl, br, nb, cl, cr, nc));
}

/* [batch, channels, space] with windows of up to three taps, or the other way around; padded so that some
 * window always fits. */
static void step_conv(struct block *s)
{
    struct gen *g = s->g;
    val x = pick(s, &(struct filter){
                        .min_rank = 3, .most_rank = 3, .dtypes = FLOATS | (chance(g, 0.2) ? INTEGERS : 0) });
    if (x == VAL_NONE) return;
    struct type t = block_type(s, x);
    /* what is spread out must be there: of nothing the size would be negative */
    bool some = dim_provably_le(g->m, s->b.symbols.data, 1, t.dims[2]);
    bool transposed = chance(g, 0.3) && some;
    int64_t n_taps = 1 + below(g, 3);
    uint32_t stride = 1 + below(g, 3), dilation = 1 + below(g, 2), x_dilation = some ? 1 + below(g, 2) : 1;
    dim low = dim_const(g->m, (n_taps - 1) * dilation), high = dim_const(g->m, below(g, 3));
    dim out = pick_dim(s), taps = dim_const(g->m, n_taps);
    dim dims[3] = { transposed ? t.dims[1] : out, transposed ? out : t.dims[1], taps };
    struct attr a[USUAL_ATTRS] = {
        [USUAL_STRIDES] = A_INTS(&stride, 1), [USUAL_DILATION] = A_INTS(&dilation, 1)
    };
    if (!transposed && chance(g, 0.3)) a[USUAL_SAME] = A_FLAG(true);
    else if (!transposed) {
        a[USUAL_LOW] = A_DIMS(&low, 1);
        a[USUAL_HIGH] = A_DIMS(&high, 1);
        if (chance(g, 0.4)) a[USUAL_OTHER] = A_INTS(&x_dilation, 1);
    }
    val w = want(s, (enum dtype)t.dtype, 3, dims);
    maybe_squash(s, node(s, transposed ? OP_conv_transpose : OP_conv, (val[]){ x, w }, 2, a));
}

static void step_source(struct block *s)
{
    struct gen *g = s->g;
    dim dims[2] = { pick_dim(s), pick_dim(s) };
    if (chance(g, 0.3)) emit_dim_value(&s->b, pick_dim(s));
    else fill(s, pick_dtype(g), below(g, 3), dims);
}

static void step_effect(struct block *s)
{
    struct gen *g = s->g;
    val x = pick(s, &(struct filter){ .most_rank = 1 });
    if (x == VAL_NONE) return;
    if (!g->effects || chance(g, 0.4)) {
        val y = pick(s, &(struct filter){ 0 });
        if (!g->smooth && chance(g, 0.3)) unary(s, OP_stop_gradient, x); /* differences see through it */
        else if (chance(g, 0.5)) {
            struct attr a[TAG_ATTRS] = { [TAG_GRADIENT] = A_WORD(below(g, 2)) };
            if (chance(g, 0.3)) a[TAG_NAME] = A_STRING(module_string(g->m, chance(g, 0.5) ? "a" : "b", 1));
            node(s, OP_tag, &y, 1, a);
        } else node(s, OP_barrier, (val[]){ x, y }, y != x && chance(g, 0.5) ? 2 : 1, NULL);
        return;
    }
    if (chance(g, 0.5) && !s->predicate) {
        struct attr print[3] = { A_STRING(module_string(g->m, "x {}", 4)), A_NONE, A_NONE };
        struct attr call[CALLBACK_ATTRS] = { [CALLBACK_NAME] = A_STRING(module_string(g->m, "log", 3)) };
        if (chance(g, 0.5)) node(s, OP_print, &x, 1, print);
        else node(s, OP_callback, (val[]){ x, pick(s, &(struct filter){ 0 }) }, below(g, 3), call);
    } else if (chance(g, 0.15) && block_type(s, x).dtype != DT_BOOL) { /* holds mostly */
        val p = binary(s, OP_le, x, number_like(s, x, 3));
        struct attr a = A_STRING(module_string(g->m, "at most three", 13));
        node(s, OP_check, (val[]){ p, x }, 2, &a);
    } else { /* holds always */
        val p = binary(s, OP_le, binary(s, OP_min, x, x), x);
        if (dtype_is_float((enum dtype)block_type(s, x).dtype))
            p = binary(s, OP_or, p, binary(s, OP_ne, x, x));
        struct attr a = A_STRING(module_string(g->m, "at most itself", 14));
        node(s, OP_check, (val[]){ p, x }, 2, &a);
    }
}

/* A size known only when running. */
static void step_bind(struct block *s)
{
    struct gen *g = s->g;
    val n = want_scalar(s, DT_I64), lo = number_like(s, n, 0), hi = number_like(s, n, 3);
    n = node(s, OP_clamp, (val[]){ n, lo, hi }, 3, NULL);
    struct attr a[2] = { A_NONE, chance(g, 0.5) ? A_INT(3) : A_NONE };
    val k = node(s, OP_bind_dim, &n, 1, a);
    struct type t = block_type(s, k);
    val spread_over = want(s, pick_float(g), t.rank, t.dims);
    if (chance(g, 0.7))
        binary(s, OP_mul, spread_over, convert(s, k, (enum dtype)block_type(s, spread_over).dtype));
}

#endif
