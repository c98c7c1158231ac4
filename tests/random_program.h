/* Random well-typed programs: a generator draws from a seed and gives a module with one function and arguments for it. Values are made by steps; a step
 * picks operands among the values that are there (those not used yet first) and emits an operator; a step of a higher-order operator
 * opens a scope for each body and fills it the same way. A step that the builder rejects is dropped. Programs of kind `wild` let infinities and NaN
 * arise, the others keep floats moderate, so that derivatives can be held against differences. */
#ifndef HOP_TEST_RANDOM_PROGRAM_H
#define HOP_TEST_RANDOM_PROGRAM_H

#include "cli/cli.h"
#include "ops/build.h"
#include "ops/scalar_c.h"

#include <math.h>

enum { MAX_VALUES = 4096, MAX_PARAMS = 6, MAX_OUTER = 4 };

struct gen {
    struct random r;
    struct module *m;
    bool wild, effects;
    enum dtype floats[2]; /* the float dtypes in use; equal: one */
    int64_t consts[3];    /* the constant sizes in use */
    uint32_t steps;       /* that may still be made */
    uint32_t depth;       /* of nesting */
    uint32_t made, rejected;
};

struct scope {
    struct gen *g;
    struct builder b;
    uint32_t depth;
    bool predicate; /* no effects but checks */
    bool used[MAX_VALUES];
};

struct program {
    struct module *m;
    uint32_t fn;
    struct tensor *args[MAX_PARAMS];
    int64_t symbols[MAX_OUTER], dims[MAX_OUTER]; /* sizes; those of explicit dim parameters */
    bool wild, wide, large;                      /* wide: every float is f64; large: sizes that are worth threads */
    uint64_t seed;
};

static uint32_t below(struct gen *g, uint32_t n) { return n ? (uint32_t)(random_next(&g->r) % n) : 0; }
static bool chance(struct gen *g, double p) { return random_unit(&g->r) < p; }
static struct type scope_type(struct scope *s, val v) { return emit_type(&s->b, v); }
static type_id make_type(struct scope *s, enum dtype t, uint32_t rank, const dim *dims) { return type_intern(s->g->m, t, rank, dims); }

/* ---- picking ---- */

static dim pick_dim(struct scope *s)
{
    struct gen *g = s->g;
    uint32_t n = s->b.symbols.len;
    if (n && chance(g, 0.45)) {
        dim d = dim_symbol(g->m, below(g, n));
        if (chance(g, 0.08)) d = dim_add(g->m, d, dim_const(g->m, 1));
        return d;
    }
    return dim_const(g->m, chance(g, 0.04) ? 0 : chance(g, 0.2) ? 1 : g->consts[below(g, HOP_COUNT(g->consts))]);
}

static enum dtype pick_float(struct gen *g) { return g->floats[below(g, 2)]; }

static enum dtype pick_dtype(struct gen *g)
{
    static const enum dtype others[] = { DT_I32, DT_I64, DT_U32, DT_BOOL, DT_I64 }, rare[] = { DT_I8, DT_I16, DT_U8, DT_U16, DT_U64 };
    return chance(g, 0.7) ? pick_float(g) : chance(g, 0.25) ? rare[below(g, HOP_COUNT(rare))] : others[below(g, HOP_COUNT(others))];
}

struct filter {
    uint32_t dtypes;         /* bit per dtype; 0: any */
    uint32_t min_rank;
    uint32_t most_rank;      /* 0: any */
    bool same;               /* exactly `dims` (rank of them) */
    uint32_t rank;
    const dim *dims;
    bool lead;               /* leading dim is `dims[0]` */
    bool visible;            /* its dims mention no symbol that a node of this scope binds */
    bool scalar;
};
#define FLOATS (1u << DT_F16 | 1u << DT_BF16 | 1u << DT_F32 | 1u << DT_F64)
#define INTEGERS (1u << DT_I8 | 1u << DT_I16 | 1u << DT_I32 | 1u << DT_I64 | 1u << DT_U8 | 1u << DT_U16 | 1u << DT_U32 | 1u << DT_U64)

static bool symbol_from(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

static bool dims_visible(struct scope *s, struct type t)
{
    uint32_t outer = s->b.n_outer_symbols;
    for (uint32_t i = 0; i < t.rank; i++)
        if (dim_mentions(s->g->m, t.dims[i], symbol_from, &outer)) return false;
    return true;
}

static bool fits(struct scope *s, val v, const struct filter *f)
{
    struct type t = scope_type(s, v);
    if (f->dtypes && !(f->dtypes >> t.dtype & 1)) return false;
    if (t.rank < f->min_rank || (f->most_rank && t.rank > f->most_rank) || (f->scalar && t.rank)) return false;
    if (f->same && (t.rank != f->rank || (t.rank && memcmp(t.dims, f->dims, t.rank * sizeof *t.dims)))) return false;
    if (f->lead && (!t.rank || t.dims[0] != f->dims[0])) return false;
    return !f->visible || dims_visible(s, t);
}

/* A value that fits, those not used yet and later ones more likely; VAL_NONE: there is none. */
static val pick(struct scope *s, const struct filter *f)
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

static val node(struct scope *s, enum op op, const val *x, uint32_t n, const struct attr *a) { return emit(&s->b, op, x, n, a); }
static val unary(struct scope *s, enum op op, val x) { return emit1(&s->b, op, x); }
static val binary(struct scope *s, enum op op, val x, val y) { return emit2(&s->b, op, x, y); }
static val number_like(struct scope *s, val x, double v) { return emit_full_like(&s->b, x, v); }

static val want(struct scope *s, enum dtype t, uint32_t rank, const dim *dims);

static val random_key(struct scope *s)
{
    dim two = dim_const(s->g->m, 2);
    val v = pick(s, &(struct filter){ .dtypes = 1u << DT_U32, .same = true, .rank = 1, .dims = &two });
    if (v != VAL_NONE) return v;
    uint32_t words[2] = { below(s->g, 100), below(s->g, 100) };
    struct attr a = A_CONST(module_constant(s->g->m, make_type(s, DT_U32, 1, &two), words, sizeof words, 0));
    return node(s, OP_constant, NULL, 0, &a);
}

static bool static_count(struct scope *s, uint32_t rank, const dim *dims, int64_t *count)
{
    *count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (!dim_is_const(s->g->m, dims[i])) return false;
        *count *= dim_const_value(s->g->m, dims[i]);
    }
    return true;
}

static val constant_array(struct scope *s, enum dtype t, uint32_t rank, const dim *dims, int64_t count)
{
    double data[64];
    struct tensor of = { .dtype = (uint8_t)t, .count = count, .data = data };
    tensor_random(&of, &s->g->r, dtype_info[t].kind == KIND_UINT ? 0 : -2, 2);
    struct attr a = A_CONST(module_constant(s->g->m, make_type(s, t, rank, dims), data, (size_t)count * dtype_info[t].size, 0));
    return node(s, OP_constant, NULL, 0, &a);
}

/* A value out of nothing. */
static val fill(struct scope *s, enum dtype t, uint32_t rank, const dim *dims)
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
        return emit(&s->b, chance(g, 0.5) ? OP_random_uniform : OP_random_normal, (val[]){ random_key(s) }, 1, a);
    }
    if (t == DT_U32 && chance(g, 0.3)) {
        struct attr a = A_DIMS(dims, rank);
        return emit(&s->b, OP_random_bits, (val[]){ random_key(s) }, 1, &a);
    }
    if (static_count(s, rank, dims, &count) && count <= 64 && chance(g, 0.4)) return constant_array(s, t, rank, dims, count);
    double v = random_unit(&g->r) * 2 * top - (dtype_info[t].kind == KIND_UINT || t == DT_BOOL ? 0 : top);
    if (t == DT_BOOL) v = chance(g, 0.5);
    if (g->wild && dtype_is_float(t) && chance(g, 0.1)) v = (double[]){ INFINITY, -INFINITY, NAN, -0.0, 1e30 }[below(g, 5)];
    if (chance(g, 0.2)) v = 0;
    if (chance(g, 0.1)) v = 1;
    return emit_full(&s->b, t, t == DT_F32 ? (double)(float)v : v, rank, dims);
}

/* The value in another dtype. */
static val convert(struct scope *s, val v, enum dtype t)
{
    struct gen *g = s->g;
    enum dtype from = (enum dtype)scope_type(s, v).dtype;
    if (from == t) return v;
    if (t == DT_BOOL && from != DT_BOOL && chance(g, 0.7)) return binary(s, chance(g, 0.5) ? OP_gt : OP_le, v, number_like(s, v, dtype_is_float(from) ? 0.1 : 1));
    if (dtype_is_integer(t) && dtype_is_float(from)) v = binary(s, OP_mul, v, number_like(s, v, 2.3));
    if (dtype_is_float(t) && dtype_is_integer(from) && !g->wild) v = binary(s, OP_rem, v, number_like(s, v, 7));
    return emit_cast(&s->b, v, t);
}

/* Spreads something with fewer dims. */
static val spread(struct scope *s, enum dtype t, uint32_t rank, const dim *dims)
{
    uint32_t drop = below(s->g, rank), at[MAX_RANK], n = 0;
    dim fewer[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        if (i != drop) fewer[n] = dims[i], at[n++] = i;
    val v = pick(s, &(struct filter){ .dtypes = 1u << t, .same = true, .rank = n, .dims = fewer });
    if (v == VAL_NONE) v = pick(s, &(struct filter){ .dtypes = 1u << t, .same = true }), n = 0;
    return v == VAL_NONE ? VAL_NONE : emit_broadcast(&s->b, v, rank, dims, at);
}

static val want(struct scope *s, enum dtype t, uint32_t rank, const dim *dims)
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

static val want_scalar(struct scope *s, enum dtype t) { return want(s, t, 0, NULL); }

/* Floats back to a moderate size. */
static val squash(struct scope *s, val v)
{
    static const enum op ops[] = { OP_tanh, OP_sin, OP_sigmoid };
    if (!dtype_is_float((enum dtype)scope_type(s, v).dtype)) return v;
    return chance(s->g, 0.25) ? binary(s, OP_mul, v, number_like(s, v, 0.375)) : unary(s, ops[below(s->g, 3)], v);
}

static val maybe_squash(struct scope *s, val v) { return !s->g->wild && chance(s->g, 0.4) ? squash(s, v) : v; }

/* ---- first-order steps ---- */

/* Where the operator is not smooth or not defined, moderate programs keep away from there. */
static void guard(struct scope *s, enum op op, val *x)
{
    val tame = x[0];
    if (s->g->wild || !dtype_is_float((enum dtype)scope_type(s, x[0]).dtype)) return;
    if (op == OP_exp || op == OP_expm1 || op == OP_exp2 || op == OP_sinh || op == OP_cosh || op == OP_tan) x[0] = unary(s, OP_tanh, tame);
    if (op == OP_asin || op == OP_acos || op == OP_atanh) x[0] = binary(s, OP_mul, unary(s, OP_tanh, tame), number_like(s, tame, 0.75));
    if (op == OP_log || op == OP_sqrt || op == OP_rsqrt || op == OP_pow || op == OP_log1p || op == OP_log2 || op == OP_cbrt || op == OP_acosh || op == OP_copysign)
        x[0] = binary(s, OP_add, binary(s, OP_mul, tame, tame), number_like(s, tame, op == OP_acosh ? 1.5 : 0.5));
    if (op == OP_div || op == OP_rem || op == OP_mod || op == OP_floor_div || op == OP_atan2 || op == OP_hypot || op == OP_copysign) x[1] = binary(s, OP_add, binary(s, OP_mul, x[1], x[1]), number_like(s, x[1], 0.5));
    if (op == OP_pow) x[1] = unary(s, OP_tanh, x[1]);
}

static void step_elementwise(struct scope *s)
{
    struct gen *g = s->g;
    enum op op;
    do op = (enum op)below(g, OP_COUNT);
    while (!(op_table[op]->flags & OPF_ELEMENTWISE) || op == OP_cast);
    uint32_t n = op_table[op]->sig.min_operands;
    uint32_t bits = INTEGERS | (scalar_c_defined(op, DT_BOOL) ? 1u << DT_BOOL : 0);
    val x[3] = { pick(s, &(struct filter){ .dtypes = !scalar_c_defined(op, DT_F32) ? bits : n == 1 || chance(g, 0.6) ? FLOATS : 0 }) };
    if (x[0] == VAL_NONE) return;
    struct type t = scope_type(s, x[0]);
    for (uint32_t i = 1; i < n; i++) x[i] = want(s, (enum dtype)t.dtype, t.rank, t.dims);
    if (op == OP_select) x[0] = want(s, DT_BOOL, t.rank, t.dims), x[1] = want(s, (enum dtype)t.dtype, t.rank, t.dims);
    guard(s, op, x + (op == OP_select));
    maybe_squash(s, node(s, op, x, n, NULL));
}

static void step_cast(struct scope *s)
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
static val not_empty(struct scope *s, val x)
{
    struct type t = scope_type(s, x);
    dim low[MAX_RANK] = { 0 }, high[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) high[i] = dim_const(s->g->m, 1);
    struct attr pad[3] = { A_DIMS(low, t.rank), A_DIMS(high, t.rank), A_NONE };
    return t.rank ? node(s, OP_pad, (val[]){ x, want_scalar(s, (enum dtype)t.dtype) }, 2, pad) : x;
}

static void step_reduce(struct scope *s)
{
    struct gen *g = s->g;
    static const enum op ops[] = { OP_sum, OP_sum, OP_reduce_max, OP_reduce_min, OP_any, OP_all, OP_argmax, OP_argmin, OP_prod };
    enum op op = ops[below(g, HOP_COUNT(ops))];
    bool arg = op == OP_argmax || op == OP_argmin;
    uint32_t dims[MAX_RANK];
    val x = pick(s, &(struct filter){ .dtypes = op == OP_any || op == OP_all ? 1u << DT_BOOL : FLOATS | (chance(g, 0.3) ? INTEGERS : 0), .min_rank = arg || chance(g, 0.9) });
    if (x == VAL_NONE) return;
    uint32_t rank = scope_type(s, x).rank, n = subset(g, rank, dims);
    struct attr a = arg ? A_INT(below(g, rank)) : n ? A_INTS(dims, n) : A_NONE;
    if (!g->wild && (op == OP_reduce_max || op == OP_reduce_min)) x = not_empty(s, x);
    if (!g->wild && op == OP_prod && dtype_is_float((enum dtype)scope_type(s, x).dtype)) x = unary(s, OP_tanh, x);
    maybe_squash(s, node(s, op, &x, 1, &a));
}

static void step_shape(struct scope *s)
{
    struct gen *g = s->g;
    struct module *m = g->m;
    val x = pick(s, &(struct filter){ .min_rank = chance(g, 0.9) });
    if (x == VAL_NONE) return;
    struct type t = scope_type(s, x);
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
        struct attr a[3] = { A_DIMS(dims, rank), A_DIMS(more, rank), chance(g, 0.5) ? A_INTS(list, rank) : A_NONE };
        node(s, OP_slice, &x, 1, a);
        return;
    }
    case 4: { /* pad */
        for (uint32_t i = 0; i < rank; i++) dims[i] = dim_const(m, below(g, 3)), more[i] = dim_const(m, below(g, 2)), list[i] = below(g, 2);
        struct attr a[3] = { A_DIMS(dims, rank), A_DIMS(more, rank), chance(g, 0.4) ? A_INTS(list, rank) : A_NONE };
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

static void step_index(struct scope *s)
{
    struct gen *g = s->g;
    val x = pick(s, &(struct filter){ .min_rank = 1, .dtypes = chance(g, 0.7) ? FLOATS : 0 });
    if (x == VAL_NONE) return;
    struct type t = scope_type(s, x);
    uint32_t how = below(g, 4), at = below(g, t.rank), n = 0;
    dim dims[MAX_RANK];
    val operands[2 + MAX_RANK] = { x };
    if (how < 2) { /* take, scatter: indices of rank 0..2 */
        dim index_dims[2] = { pick_dim(s), pick_dim(s) };
        uint32_t index_rank = below(g, t.rank > 2 ? 2 : 3);
        operands[1] = want(s, chance(g, 0.5) ? DT_I32 : DT_I64, index_rank, index_dims);
        for (uint32_t i = 0; i < t.rank; i++) {
            if (i != at) dims[n++] = t.dims[i];
            else
                for (uint32_t k = 0; k < index_rank; k++) dims[n++] = index_dims[k];
        }
        if (how) operands[2] = want(s, (enum dtype)t.dtype, n, dims);
        struct attr a[2] = { how ? A_INTS(&at, 1) : A_INT(at), A_WORD(t.dtype == DT_BOOL ? 1 : below(g, 5)) }; /* bools can only be set */
        maybe_squash(s, node(s, how ? OP_scatter : OP_take, operands, how ? 3 : 2, a));
        return;
    }
    n = how == 2 ? 1 : 2;
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = chance(g, 0.4) ? t.dims[i] : dim_min(g->m, t.dims[i], dim_const(g->m, 1 + below(g, 2)));
    if (how == 3) operands[1] = want(s, (enum dtype)t.dtype, t.rank, dims);
    for (uint32_t i = 0; i < t.rank; i++) operands[n + i] = want_scalar(s, DT_I64);
    struct attr a = A_DIMS(dims, t.rank);
    node(s, how == 2 ? OP_dynamic_slice : OP_dynamic_update, operands, n + t.rank, how == 2 ? &a : NULL);
}

/* Indices of several dims at once. */
static void step_gather(struct scope *s)
{
    struct gen *g = s->g;
    val x = pick(s, &(struct filter){ .min_rank = 1, .dtypes = chance(g, 0.7) ? FLOATS : 0 });
    if (x == VAL_NONE) return;
    struct type t = scope_type(s, x);
    uint32_t list[MAX_RANK], n = 0, first = t.rank, rank = 0, index_rank = below(g, t.rank > 2 ? 2 : 3), start = below(g, t.rank);
    dim index_dims[2] = { pick_dim(s), pick_dim(s) }, dims[MAX_RANK];
    val operands[2 + MAX_RANK] = { x };
    for (uint32_t i = 0; i < t.rank; i++)
        if (!n || chance(g, 0.5)) list[n++] = (start + i) % t.rank;
    for (uint32_t i = 0; i < n; i++) {
        operands[1 + i] = want(s, chance(g, 0.5) ? DT_I32 : DT_I64, index_rank, index_dims);
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
    maybe_squash(s, node(s, OP_scatter, operands, n + 2, a));
}

/* Along one dim: running values, order, places. */
static void step_along(struct scope *s)
{
    struct gen *g = s->g;
    static const enum op ops[] = { OP_cumsum, OP_cumprod, OP_cummax, OP_cummin, OP_recurrence, OP_logcumsumexp, OP_sort, OP_argsort, OP_take_along, OP_searchsorted, OP_nonzero };
    enum op op = ops[below(g, HOP_COUNT(ops))];
    bool ordered = op == OP_sort || op == OP_argsort || op == OP_searchsorted;
    uint32_t dtypes = op == OP_nonzero ? 1u << DT_BOOL : op == OP_logcumsumexp || chance(g, 0.6) ? FLOATS : ordered || op == OP_take_along ? 0 : FLOATS | INTEGERS;
    val x = pick(s, &(struct filter){ .min_rank = 1, .dtypes = dtypes });
    if (x == VAL_NONE) return;
    struct type t = scope_type(s, x);
    uint32_t at = below(g, t.rank);
    dim dims[MAX_RANK];
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    struct attr a[2] = { A_INT(at), A_FLAG(chance(g, 0.5)) };
    if (!g->wild && dtype_is_float((enum dtype)t.dtype) && (op == OP_cumprod || op == OP_recurrence)) x = unary(s, OP_tanh, x);
    if (op == OP_recurrence) maybe_squash(s, node(s, op, (val[]){ x, want(s, (enum dtype)t.dtype, t.rank, dims) }, 2, a));
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
    } else
        maybe_squash(s, node(s, op, &x, 1, a));
}

/* Operators made of others, over all dims or some. */
static void step_statistic(struct scope *s)
{
    struct gen *g = s->g;
    static const enum op ops[] = { OP_mean, OP_var, OP_logsumexp, OP_softmax, OP_log_softmax, OP_std };
    enum op op = ops[below(g, HOP_COUNT(ops) - !g->wild)]; /* std has no derivative where all are equal */
    val x = pick(s, &(struct filter){ .min_rank = chance(g, 0.9), .dtypes = FLOATS });
    uint32_t dims[MAX_RANK];
    if (x == VAL_NONE) return;
    if (!g->wild) x = not_empty(s, x);
    struct attr a[2] = { A_INTS(dims, subset(g, scope_type(s, x).rank, dims)), chance(g, 0.2) ? A_INT(-1) : A_NONE };
    if (chance(g, 0.2) && op != OP_softmax && op != OP_log_softmax) a[0] = A_NONE;
    maybe_squash(s, node(s, op, &x, 1, a));
}

static void step_composite(struct scope *s)
{
    struct gen *g = s->g;
    struct module *m = g->m;
    static const enum op ops[] = { OP_split, OP_squeeze, OP_expand_dims, OP_broadcast_to, OP_tile, OP_roll, OP_stack, OP_tril, OP_triu, OP_one_hot, OP_eye };
    enum op op = ops[below(g, HOP_COUNT(ops))];
    val x = pick(s, &(struct filter){ .min_rank = op == OP_tril || op == OP_triu ? 2 : op == OP_split || op == OP_roll || chance(g, 0.8), .most_rank = 3,
                                      .dtypes = op == OP_one_hot ? 1u << DT_I32 | 1u << DT_I64 : chance(g, 0.6) ? FLOATS : 0 });
    if (x == VAL_NONE) return;
    struct type t = scope_type(s, x);
    uint32_t list[MAX_RANK], more[MAX_RANK], n = 0, at = t.rank ? below(g, t.rank) : 0;
    dim dims[MAX_RANK];
    struct attr a[4] = { A_NONE, A_NONE, A_NONE, A_NONE };
    val operands[4] = { x, x, x, x };
    switch (op) {
    case OP_split: {
        dim cut = dim_min(m, t.dims[at], dim_const(m, 1)), sizes[2] = { cut, dim_sub(m, t.dims[at], cut) };
        a[SPLIT_DIM] = A_INT(at);
        if (chance(g, 0.5)) a[SPLIT_SIZES] = A_DIMS(sizes, 2);
        else a[SPLIT_PARTS] = A_INT(1 + below(g, 3)), x = operands[0] = node(s, OP_concat, (val[]){ x, x, x, x, x, x }, 6, &A_INT(at));
        break;
    }
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
    case OP_eye: a[EYE_ROWS] = A_DIM(pick_dim(s)), a[EYE_COLUMNS] = A_DIM(pick_dim(s)), a[EYE_DIAGONAL] = A_INT((int)below(g, 3) - 1), a[EYE_DTYPE] = A_DTYPE(pick_dtype(g)); break;
    default: a[0] = A_INT((int)below(g, 5) - 2); break;
    }
    node(s, op, operands, op == OP_eye ? 0 : op == OP_stack ? 2 + below(g, 2) : op == OP_roll && a[ROLL_SHIFTS].kind == ATTR_ABSENT ? 2 : 1, a);
}

static void step_draw(struct scope *s)
{
    struct gen *g = s->g;
    dim dims[2] = { pick_dim(s), pick_dim(s) };
    struct attr a = A_DIMS(dims, below(g, 3));
    enum dtype t = chance(g, 0.5) ? DT_I32 : DT_I64;
    switch (below(g, 4)) {
    case 0: a = A_DIM(dims[0]), node(s, OP_random_split, (val[]){ random_key(s) }, 1, &a); break;
    case 1: a = A_DIM(dims[0]), node(s, OP_permutation, (val[]){ random_key(s) }, 1, &a); break;
    case 2: node(s, OP_bernoulli, (val[]){ random_key(s), want_scalar(s, pick_float(g)) }, 2, &a); break;
    default: node(s, OP_randint, (val[]){ random_key(s), want_scalar(s, t), want_scalar(s, t) }, 3, &a); break;
    }
}

static void step_dot(struct scope *s)
{
    struct gen *g = s->g;
    val x = pick(s, &(struct filter){ .min_rank = 1, .most_rank = 3, .dtypes = FLOATS | (chance(g, 0.2) ? INTEGERS : 0) });
    if (x == VAL_NONE) return;
    struct type t = scope_type(s, x);
    dim dims[MAX_RANK];
    if (chance(g, 0.4)) { /* matmul: [..., M, K] by [K], [K, N] or [..., K, N] */
        uint32_t rank = t.rank == 3 ? 2u + chance(g, 0.5) : 1 + below(g, 2), n = 0;
        for (uint32_t i = 0; rank == 3 && i < t.rank - 2u; i++) dims[n++] = t.dims[i];
        dims[n++] = t.dims[t.rank - 1];
        if (rank > 1) dims[n++] = pick_dim(s);
        maybe_squash(s, binary(s, OP_matmul, x, want(s, (enum dtype)t.dtype, n, dims)));
        return;
    }
    uint32_t role[MAX_RANK], from[MAX_RANK], n = 0, bl[MAX_RANK], br[MAX_RANK], nb = 0, cl[MAX_RANK], cr[MAX_RANK], nc = 0;
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

static void step_source(struct scope *s)
{
    struct gen *g = s->g;
    dim dims[2] = { pick_dim(s), pick_dim(s) };
    if (chance(g, 0.3)) emit_dim_value(&s->b, pick_dim(s));
    else fill(s, pick_dtype(g), below(g, 3), dims);
}

static void step_effect(struct scope *s)
{
    struct gen *g = s->g;
    val x = pick(s, &(struct filter){ .most_rank = 1 });
    if (x == VAL_NONE) return;
    if (!g->effects || chance(g, 0.4)) {
        val y = pick(s, &(struct filter){ 0 });
        if (chance(g, 0.3)) unary(s, OP_stop_gradient, x);
        else node(s, OP_barrier, (val[]){ x, y }, y != x && chance(g, 0.5) ? 2 : 1, NULL);
        return;
    }
    if (chance(g, 0.5) && !s->predicate) {
        struct attr a[3] = { A_STRING(module_string(g->m, "x {}", 4)), A_NONE, A_NONE };
        node(s, OP_print, &x, 1, a);
    } else if (chance(g, 0.15) && scope_type(s, x).dtype != DT_BOOL) { /* holds mostly */
        val p = binary(s, OP_le, x, number_like(s, x, 3));
        struct attr a = A_STRING(module_string(g->m, "at most three", 13));
        node(s, OP_check, (val[]){ p, x }, 2, &a);
    } else { /* holds always */
        val p = binary(s, OP_le, binary(s, OP_min, x, x), x);
        if (dtype_is_float((enum dtype)scope_type(s, x).dtype)) p = binary(s, OP_or, p, binary(s, OP_ne, x, x));
        struct attr a = A_STRING(module_string(g->m, "at most itself", 14));
        node(s, OP_check, (val[]){ p, x }, 2, &a);
    }
}

/* A size known only when running. */
static void step_bind(struct scope *s)
{
    struct gen *g = s->g;
    val n = want_scalar(s, DT_I64), lo = number_like(s, n, 0), hi = number_like(s, n, 3);
    n = node(s, OP_clamp, (val[]){ n, lo, hi }, 3, NULL);
    struct attr a[2] = { A_NONE, chance(g, 0.5) ? A_INT(3) : A_NONE };
    val k = node(s, OP_bind_dim, &n, 1, a);
    struct type t = scope_type(s, k);
    val spread_over = want(s, pick_float(g), t.rank, t.dims);
    if (chance(g, 0.7)) binary(s, OP_mul, spread_over, convert(s, k, (enum dtype)scope_type(s, spread_over).dtype));
}

/* ---- bodies ---- */

/* A body of the scope `outer`: its parameters have these types, its dims[k] is what its symbol k is outside, inside[k] what outer's symbol k is in it. */
struct body {
    struct scope s;
    dim dims[64], inside[64];
    uint32_t n_types;
};

static type_id type_through(struct module *m, type_id t, const dim *symbols)
{
    struct type in = type_get(m, t);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < in.rank; i++) dims[i] = dim_substitute(m, in.dims[i], symbols);
    return type_intern(m, in.dtype, in.rank, dims);
}

static bool is_symbol(void *ctx, uint32_t symbol) { return symbol == *(const uint32_t *)ctx; }

static bool types_mention(struct module *m, const type_id *types, uint32_t n, uint32_t symbol)
{
    for (uint32_t i = 0; i < n; i++) {
        struct type t = type_get(m, types[i]);
        for (uint32_t d = 0; d < t.rank; d++)
            if (dim_mentions(m, t.dims[d], is_symbol, &symbol)) return true;
    }
    return false;
}

/* `types`: n_params of parameters, the others may appear inside as well. */
static void body_begin(struct body *body, struct scope *outer, const type_id *types, uint32_t n_params, uint32_t n_types)
{
    struct gen *g = outer->g;
    body->s = (struct scope){ .g = g, .depth = outer->depth + 1, .predicate = outer->predicate };
    builder_begin(&body->s.b, g->m, NULL);
    if (outer->b.symbols.len > HOP_COUNT(body->dims)) hop_throw(HOP_INVALID, "too many symbols");
    for (uint32_t k = 0; k < outer->b.symbols.len; k++) {
        const struct symbol *y = &outer->b.symbols.data[k];
        body->inside[k] = HOP_NONE;
        if (!types_mention(g->m, types, n_types, k) && !chance(g, 0.15)) continue;
        uint32_t inner = builder_symbol(&body->s.b, y->name, y->lo, y->hi);
        body->inside[k] = dim_symbol(g->m, inner);
        body->dims[inner] = dim_symbol(g->m, k);
    }
    for (uint32_t i = 0; i < n_params; i++) builder_param(&body->s.b, type_through(g->m, types[i], body->inside), 0);
}

static uint32_t body_end(struct body *body, const val *results, uint32_t n)
{
    if (body->s.depth == 1 && chance(body->s.g, 0.05)) body->s.b.name = module_string(body->s.g->m, "named", 5);
    if (body->s.b.name && module_find(body->s.g->m, "named") != HOP_NONE) body->s.b.name = 0;
    return builder_finish(&body->s.b, results, n);
}

static void make_steps(struct scope *s, uint32_t n);

/* A result of the given type that depends on what is there. */
static val result_of_type(struct scope *s, struct type t)
{
    static const enum op numbers[] = { OP_add, OP_mul, OP_sub, OP_max, OP_min }, logic[] = { OP_and, OP_or };
    val x = want(s, (enum dtype)t.dtype, t.rank, t.dims);
    if (chance(s->g, 0.7)) {
        val y = want(s, (enum dtype)t.dtype, t.rank, t.dims);
        x = binary(s, t.dtype == DT_BOOL ? logic[below(s->g, 2)] : numbers[below(s->g, 5)], x, y);
    }
    return x;
}

/* What the next carry is: of the carry's type, and never growing without bound. */
static val next_carry(struct scope *s, val carry)
{
    val v = result_of_type(s, scope_type(s, carry));
    if (v < s->b.n_params && v != carry && chance(s->g, 0.5)) v = carry;
    return s->g->wild && chance(s->g, 0.5) ? v : v < s->b.n_params && chance(s->g, 0.3) ? v : squash(s, v);
}

/* Values of a scope that bodies get. */
static uint32_t pick_some(struct scope *s, uint32_t most, val *out, type_id *types)
{
    uint32_t n = 0;
    for (uint32_t want_n = below(s->g, most + 1); n < want_n; n++) {
        val v = pick(s, &(struct filter){ .dtypes = chance(s->g, 0.6) ? FLOATS : 0, .most_rank = 3 });
        if (v == VAL_NONE) return n;
        out[n] = v;
        types[n] = builder_type(&s->b, v);
    }
    return n;
}

static val stackable(struct scope *s) { return pick(s, &(struct filter){ .visible = true, .most_rank = 2, .dtypes = chance(s->g, 0.7) ? FLOATS : 0 }); }

/* A schedule of what reverse mode keeps of a loop. */
static struct attr pick_every(struct gen *g, uint32_t every[2])
{
    every[0] = 1 + below(g, 4), every[1] = 1 + below(g, 3);
    return A_INTS(every, 1 + chance(g, 0.3));
}

static void step_scan(struct scope *s)
{
    struct gen *g = s->g;
    val operands[8], own[4], results[8];
    type_id types[12];
    uint32_t n_carry = pick_some(s, 3, operands, types), n_over = 0, n_results = 0;
    dim length = pick_dim(s);
    for (uint32_t n = below(g, 3); n_over < n; n_over++) {
        val v = pick(s, &(struct filter){ .min_rank = 1, .most_rank = 3, .lead = n_over, .dims = &length });
        if (v == VAL_NONE) break;
        length = scope_type(s, v).dims[0];
        operands[n_carry + n_over] = v;
        types[n_carry + n_over] = type_drop_leading(g->m, builder_type(&s->b, v));
    }
    uint32_t n = n_carry + n_over, n_own = pick_some(s, 3, own, types + n);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, types, n + n_own, n + n_own);
    make_steps(&body->s, 1 + below(g, 5));
    for (; n_results < n_carry; n_results++) results[n_results] = next_carry(&body->s, n_results);
    for (uint32_t k = below(g, 3) + !n_carry; k; k--) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n_results++] = v;
    }
    uint32_t groups[2] = { n_carry, n_over };
    uint32_t every[2];
    struct attr attrs[SCAN_ATTRS] = { [SCAN_REVERSE] = A_FLAG(chance(g, 0.4)), [SCAN_LENGTH] = !n_over || chance(g, 0.2) ? A_DIM(length) : A_NONE };
    if (chance(g, 0.15)) attrs[SCAN_SCHEDULE] = A_WORD(below(g, 2));
    else if (chance(g, 0.15)) attrs[SCAN_EVERY] = pick_every(g, every);
    struct region_in region = { .operands = own, .n_operands = n_own, .dims = body->dims };
    region.fn = body_end(body, results, n_results);
    builder_node(&s->b, &(struct node_in){ .op = OP_scan, .operands = operands, .n_operands = n, .groups = groups, .attrs = attrs, .regions = &region, .n_regions = 1 });
}

/* Counts from 0 or a little more up to a limit below 5; the predicate may end the loop earlier. */
static uint32_t while_predicate(struct scope *s, struct body *body, const type_id *types, uint32_t n_carry, uint32_t counter, val limit, val *own, uint32_t *n_own)
{
    struct gen *g = s->g;
    type_id all[12];
    memcpy(all, types, n_carry * sizeof *all);
    all[n_carry] = builder_type(&s->b, limit);
    own[0] = limit;
    *n_own = 1 + pick_some(s, 1, own + 1, all + n_carry + 1);
    body_begin(body, s, all, n_carry + *n_own, n_carry + *n_own);
    body->s.predicate = true;
    struct scope *p = &body->s;
    val test = binary(p, chance(g, 0.8) ? OP_lt : OP_le, counter, n_carry);
    if (chance(g, 0.5)) {
        make_steps(p, below(g, 3));
        val early = want_scalar(p, DT_BOOL);
        test = binary(p, OP_and, test, early);
    }
    return body_end(body, &test, 1);
}

static void step_while(struct scope *s)
{
    struct gen *g = s->g;
    val carries[8], own[8], results[8], cond_own[4];
    type_id types[12];
    enum dtype count_type = chance(g, 0.7) ? DT_I64 : DT_I32;
    uint32_t n_carry = pick_some(s, 3, carries, types), counter = below(g, n_carry + 1), n_cond = 0;
    val start = chance(g, 0.7) ? emit_full(&s->b, count_type, 0, 0, NULL) : VAL_NONE, limit = VAL_NONE;
    if (start == VAL_NONE) {
        val v = want_scalar(s, count_type);
        start = node(s, OP_clamp, (val[]){ v, number_like(s, v, 0), number_like(s, v, 2) }, 3, NULL);
    }
    limit = chance(g, 0.5) ? emit_full(&s->b, count_type, below(g, 5), 0, NULL) : want_scalar(s, count_type);
    limit = binary(s, OP_min, limit, number_like(s, limit, 4));
    for (uint32_t i = n_carry++; i > counter; i--) carries[i] = carries[i - 1], types[i] = types[i - 1];
    carries[counter] = start;
    types[counter] = builder_type(&s->b, start);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body), *cond = arena_alloc(&s->b.arena, sizeof *cond);
    struct region_in regions[2];
    regions[0].fn = while_predicate(s, cond, types, n_carry, counter, limit, cond_own, &n_cond);
    regions[0].operands = cond_own, regions[0].n_operands = n_cond, regions[0].dims = cond->dims;
    uint32_t n_own = pick_some(s, 3, own, types + n_carry), n_results = n_carry;
    body_begin(body, s, types, n_carry + n_own, n_carry + n_own);
    make_steps(&body->s, 1 + below(g, 5));
    for (uint32_t i = 0; i < n_carry; i++) results[i] = i == counter ? binary(&body->s, OP_add, i, number_like(&body->s, i, 1 + chance(g, 0.2))) : next_carry(&body->s, i);
    for (uint32_t k = chance(g, 0.5) ? 1 + below(g, 2) : 0; k; k--) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n_results++] = v;
    }
    regions[1] = (struct region_in){ .operands = own, .n_operands = n_own, .dims = body->dims };
    regions[1].fn = body_end(body, results, n_results);
    uint32_t every[2];
    struct attr attrs[WHILE_ATTRS] = { [WHILE_COUNT] = A_FLAG(chance(g, 0.3)) };
    if (chance(g, 0.4)) attrs[WHILE_MAX_TRIPS] = A_DIM(dim_const(g->m, chance(g, 0.1) ? 2 : 6));
    if (chance(g, 0.2)) attrs[WHILE_EVERY] = pick_every(g, every);
    builder_node(&s->b, &(struct node_in){ .op = OP_while_loop, .operands = carries, .n_operands = n_carry, .groups = &n_carry, .attrs = attrs, .regions = regions, .n_regions = 2 });
}

static void step_map(struct scope *s)
{
    struct gen *g = s->g;
    val over[2], own[4], results[4];
    type_id types[8];
    uint32_t n_over = 0, n_results = 0;
    dim length = pick_dim(s);
    for (uint32_t n = chance(g, 0.1) ? 0 : 1 + below(g, 2); n_over < n; n_over++) {
        val v = pick(s, &(struct filter){ .min_rank = 1, .most_rank = 3, .lead = n_over, .dims = &length });
        if (v == VAL_NONE) break;
        length = scope_type(s, v).dims[0];
        over[n_over] = v;
        types[n_over] = type_drop_leading(g->m, builder_type(&s->b, v));
    }
    uint32_t n_own = pick_some(s, 3, own, types + n_over);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, types, n_over + n_own, n_over + n_own);
    make_steps(&body->s, 1 + below(g, 5));
    for (uint32_t k = 1 + below(g, 3); k; k--) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n_results++] = v;
    }
    struct attr attrs[MAP_ATTRS] = { [MAP_LENGTH] = !n_over || chance(g, 0.1) ? A_DIM(length) : A_NONE, [MAP_SEQUENTIAL] = A_FLAG(chance(g, 0.2)) };
    struct region_in region = { .operands = own, .n_operands = n_own, .dims = body->dims };
    region.fn = body_end(body, results, n_results);
    builder_node(&s->b, &(struct node_in){ .op = OP_map, .operands = over, .n_operands = n_over, .groups = &n_over, .attrs = attrs, .regions = &region, .n_regions = 1 });
}

/* A bound between -2 and 4. */
static val loop_bound(struct scope *s)
{
    struct gen *g = s->g;
    if (chance(g, 0.3)) return emit_full(&s->b, DT_I64, (double)below(g, 7) - 2, 0, NULL);
    if (s->b.symbols.len && chance(g, 0.2)) {
        val d = emit_dim_value(&s->b, dim_symbol(g->m, below(g, s->b.symbols.len)));
        return chance(g, 0.3) ? d : binary(s, OP_min, d, number_like(s, d, 4));
    }
    val v = want_scalar(s, DT_I64);
    return node(s, OP_clamp, (val[]){ v, number_like(s, v, -2), number_like(s, v, 4) }, 3, NULL);
}

static void step_fori(struct scope *s)
{
    struct gen *g = s->g;
    val operands[8], own[4], results[8];
    type_id types[12];
    uint32_t n_carry = pick_some(s, 3, operands, types), n_results = 0, every[2], groups[3] = { n_carry, 1, 1 };
    operands[n_carry] = loop_bound(s), operands[n_carry + 1] = loop_bound(s);
    types[n_carry] = builder_type(&s->b, operands[n_carry]);
    uint32_t n_own = pick_some(s, 3, own, types + n_carry + 1);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, types, n_carry + 1 + n_own, n_carry + 1 + n_own);
    make_steps(&body->s, 1 + below(g, 5));
    for (; n_results < n_carry; n_results++) results[n_results] = next_carry(&body->s, n_results);
    if (chance(g, 0.25) || !n_carry) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n_results++] = v;
    }
    struct attr attrs[FORI_ATTRS] = { 0 };
    if (chance(g, 0.2)) attrs[FORI_SCHEDULE] = A_WORD(below(g, 2));
    else if (chance(g, 0.2)) attrs[FORI_EVERY] = pick_every(g, every);
    struct region_in region = { .operands = own, .n_operands = n_own, .dims = body->dims };
    region.fn = body_end(body, results, n_results);
    builder_node(&s->b, &(struct node_in){ .op = OP_fori_loop, .operands = operands, .n_operands = n_carry + 2, .groups = groups, .attrs = attrs, .regions = &region, .n_regions = 1 });
}

/* Its function is seldom associative: the order of the reference is part of what it means. */
static void step_associative(struct scope *s)
{
    struct gen *g = s->g;
    val xs[3], own[4], results[3];
    type_id types[12];
    uint32_t n = 0, along = 0;
    for (uint32_t most = 1 + below(g, 3); n < most; n++) {
        val v = pick(s, &(struct filter){ .min_rank = 1, .most_rank = 3, .dtypes = chance(g, 0.8) ? FLOATS : 0 });
        if (v == VAL_NONE) break;
        struct type t = scope_type(s, v);
        if (!n) along = below(g, t.rank);
        else if (t.rank <= along || t.dims[along] != scope_type(s, xs[0]).dims[along]) break;
        xs[n] = v;
    }
    if (!n) return;
    for (uint32_t k = 0; k < n; k++) types[k] = types[n + k] = type_drop_dim(g->m, builder_type(&s->b, xs[k]), along);
    uint32_t n_own = pick_some(s, 2, own, types + 2 * n);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, types, 2 * n + n_own, 2 * n + n_own);
    body->s.predicate = true;
    make_steps(&body->s, below(g, 5));
    for (uint32_t k = 0; k < n; k++) results[k] = next_carry(&body->s, k);
    struct attr attrs[ASSOCIATIVE_ATTRS] = { [ASSOCIATIVE_DIM] = along ? A_INT(along) : A_NONE, [ASSOCIATIVE_REVERSE] = A_FLAG(chance(g, 0.4)) };
    struct region_in region = { .operands = own, .n_operands = n_own, .dims = body->dims };
    region.fn = body_end(body, results, n);
    builder_node(&s->b, &(struct node_in){ .op = OP_associative_scan, .operands = xs, .n_operands = n, .groups = &n, .attrs = attrs, .regions = &region, .n_regions = 1 });
}

static void step_switch(struct scope *s)
{
    struct gen *g = s->g;
    enum dtype index_type = chance(g, 0.5) ? DT_BOOL : (enum dtype[]){ DT_I32, DT_I64, DT_U32, DT_U8, DT_I16, DT_U64 }[below(g, 6)];
    uint32_t n = index_type == DT_BOOL ? 2 : 1 + below(g, 4), one = 1, n_results = 1 + below(g, 3);
    val index = want_scalar(s, index_type), own[4][4];
    struct region_in regions[4];
    type_id types[12], result_types[4];
    for (uint32_t k = 0; k < n_results; k++) {
        val like = pick(s, &(struct filter){ .dtypes = chance(g, 0.8) ? FLOATS : 0, .most_rank = 2 });
        if (like == VAL_NONE) like = index;
        result_types[k] = builder_type(&s->b, like);
    }
    for (uint32_t r = 0; r < n; r++) {
        if (r && chance(g, 0.1)) {
            regions[r] = regions[r - 1];
            continue;
        }
        struct body *body = arena_alloc(&s->b.arena, sizeof *body);
        uint32_t n_own = pick_some(s, 4, own[r], types);
        memcpy(types + n_own, result_types, n_results * sizeof *types);
        body_begin(body, s, types, n_own, n_own + n_results);
        make_steps(&body->s, below(g, 5));
        val results[4];
        for (uint32_t k = 0; k < n_results; k++) results[k] = maybe_squash(&body->s, result_of_type(&body->s, type_get(g->m, type_through(g->m, result_types[k], body->inside))));
        regions[r] = (struct region_in){ .operands = own[r], .n_operands = n_own, .dims = body->dims };
        regions[r].fn = body_end(body, results, n_results);
    }
    builder_node(&s->b, &(struct node_in){ .op = OP_switch, .operands = &index, .n_operands = 1, .groups = &one, .regions = regions, .n_regions = n });
}

static void step_call(struct scope *s)
{
    struct gen *g = s->g;
    val own[4], results[3];
    type_id types[4];
    uint32_t n_own = pick_some(s, 4, own, types), n = 0;
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, types, n_own, n_own);
    make_steps(&body->s, 1 + below(g, 4));
    for (uint32_t k = 1 + below(g, 3); k; k--) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n++] = v;
    }
    struct region_in region = { .operands = own, .n_operands = n_own, .dims = body->dims };
    region.fn = body_end(body, results, n);
    struct node_in call = { .op = OP_invoke_subgraph, .regions = &region, .n_regions = 1 };
    builder_node(&s->b, &call);
    if (!chance(g, 0.4)) return;
    for (uint32_t i = 0; i < n_own; i++) {
        struct type t = type_get(g->m, types[i]);
        own[i] = want(s, (enum dtype)t.dtype, t.rank, t.dims);
    }
    builder_node(&s->b, &call); /* the same function again, on other operands */
}

/* ---- steps ---- */

static const struct step {
    void (*make)(struct scope *s);
    uint32_t weight;
    bool higher;
} step_kinds[] = {
    { step_elementwise, 34, false }, { step_cast, 3, false }, { step_reduce, 9, false }, { step_shape, 12, false }, { step_index, 8, false }, { step_gather, 4, false }, { step_along, 7, false }, { step_dot, 7, false }, { step_statistic, 4, false }, { step_composite, 7, false }, { step_draw, 2, false }, { step_source, 3, false },
    { step_effect, 3, false }, { step_bind, 1, false }, { step_scan, 14, true }, { step_while, 11, true }, { step_switch, 11, true }, { step_call, 6, true },
    { step_map, 9, true }, { step_fori, 9, true }, { step_associative, 9, true },
};

static const struct step *pick_step(struct scope *s)
{
    struct gen *g = s->g;
    uint32_t total = 0;
    bool higher = s->depth < g->depth && g->steps > 3;
    const struct step *chosen = NULL;
    for (size_t i = 0; i < HOP_COUNT(step_kinds); i++) {
        if (step_kinds[i].higher && !higher) continue;
        uint32_t weight = step_kinds[i].weight * (step_kinds[i].higher && s->depth < 2 ? 2 : 1);
        total += weight;
        if (below(g, total) < weight) chosen = &step_kinds[i];
    }
    return chosen;
}

static void one_step(struct scope *s)
{
    struct gen *g = s->g;
    struct hop_catch caught;
    g->steps -= g->steps > 0;
    if (HOP_TRY(caught)) {
        pick_step(s)->make(s);
        g->made++;
        hop_catch_end(&caught);
    } else {
        hop_status status = hop_caught();
        if (status != HOP_INVALID) hop_rethrow(status);
        g->rejected++;
        if (getenv("RANDOM_REJECTED")) printf("rejected: %s\n", hop_message());
    }
}

static void make_steps(struct scope *s, uint32_t n)
{
    for (uint32_t i = 0; i < n && s->b.values.len + 200 < MAX_VALUES; i++) one_step(s);
}

/* ---- programs ---- */

static const int64_t run_sizes[] = { 3, 2, 1, 5, 0, 4, 17, 8, 33 };

static void draw_args(struct bag *bag, struct program *p, uint64_t seed, struct tensor **args)
{
    const struct fn *f = module_fn(p->m, p->fn);
    struct random r = { seed };
    for (uint32_t i = 0; i < f->n_params; i++) {
        struct type t = type_get(p->m, value_type(f, i));
        int64_t dims[MAX_RANK];
        for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_eval(p->m, t.dims[d], p->symbols);
        args[i] = bag_new(bag, (enum dtype)t.dtype, t.rank, dims);
        tensor_random(args[i], &r, dtype_info[t.dtype].kind == KIND_UINT ? 0 : dtype_is_float((enum dtype)t.dtype) ? -1.5 : -2, dtype_is_float((enum dtype)t.dtype) ? 1.5 : 5);
        if (!p->wild || !dtype_is_float((enum dtype)t.dtype)) continue;
        for (int64_t k = 0; k < args[i]->count; k++)
            if (random_unit(&r) < 0.1) tensor_set(args[i], k, (double[]){ INFINITY, NAN, -0.0, 0, 1e-40, -1e30, -INFINITY, 1 }[random_next(&r) % 8]);
    }
}

static void random_program(struct bag *bag, struct gen *g, struct program *p)
{
    struct scope *s = arena_alloc(&bag->arena, sizeof *s);
    uint32_t kind = below(g, 10), n_symbols = below(g, 3), n_params = 2 + below(g, 4), n = 0, size_kinds = chance(g, 0.15) ? 9 : 6;
    val results[6];
    *s = (struct scope){ .g = g };
    g->wild = p->wild = kind >= 8;
    g->effects = chance(g, 0.2);
    p->wide = kind < 4;
    g->floats[0] = kind < 4 ? DT_F64 : DT_F32, g->floats[1] = kind < 4 || kind == 9 || kind == 6 ? DT_F64 : DT_F32;
    if (g->wild && chance(g, 0.5)) g->floats[below(g, 2)] = chance(g, 0.5) ? DT_F16 : DT_BF16; /* too coarse for what the others are held against */
    g->steps = 6 + below(g, 25);
    g->depth = 2 + below(g, 3);
    p->large = chance(g, 0.03);
    if (p->large) g->depth = 1, n_symbols = 1;
    for (size_t i = 0; i < HOP_COUNT(g->consts); i++) g->consts[i] = (int64_t[]){ 2, 3, 4, 5, 1, 7 }[below(g, 6)];
    builder_begin(&s->b, g->m, NULL);
    for (uint32_t i = 0; i < n_symbols; i++) {
        builder_symbol(&s->b, module_string(g->m, i ? "S" : "T", 1), 0, INT64_MAX);
        p->symbols[i] = p->large ? 150 : run_sizes[below(g, size_kinds)];
    }
    for (uint32_t i = 0; i < n_params; i++) {
        dim dims[3] = { pick_dim(s), pick_dim(s), pick_dim(s) };
        enum dtype t = i ? pick_dtype(g) : pick_float(g);
        for (uint32_t d = 0; d < 3; d++) /* a size bound by a parameter is a plain symbol there */
            if (!dim_is_const(g->m, dims[d]) && !dim_is_symbol(g->m, dims[d], &(uint32_t){ 0 })) dims[d] = dim_symbol(g->m, below(g, n_symbols));
        char name[2] = { (char)('a' + i), 0 };
        builder_param(&s->b, make_type(s, t, i == 0 ? 1 + below(g, p->large ? 1 : 2) : below(g, p->large ? 2 : size_kinds > 6 ? 3 : 4), dims), module_string(g->m, name, 1));
    }
    make_steps(s, 3 + below(g, 8));
    for (uint32_t k = 1 + below(g, 4); k; k--) results[n++] = pick(s, &(struct filter){ .dtypes = k == 1 || chance(g, 0.7) ? FLOATS : 0 });
    s->b.name = module_string(g->m, "main", 4);
    p->m = g->m;
    p->fn = builder_finish(&s->b, results, n);
    const struct fn *f = module_fn(g->m, p->fn);
    for (uint32_t i = 0, k = 0; i < f->n_outer_symbols; i++)
        if (f->symbols[i].origin == SYMBOL_DIM) p->dims[k++] = p->symbols[i];
    draw_args(bag, p, p->seed, p->args);
}

#endif
