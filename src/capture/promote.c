/* Promotion as in JAX, broadcasting as in NumPy, made explicit: operands of any dtypes and shapes come in,
 * nodes that cast and broadcast are emitted, values of one type go out. Numbers without a dtype take that of
 * the others. A symbolic size never broadcasts: it is required to be equal. */
#include "capture/capture.h"

/* A signed one that is larger than both where only one is signed; beyond u64 there is none. */
static enum dtype join_integers(enum dtype a, enum dtype b)
{
    if (dtype_info[a].kind == dtype_info[b].kind) return dtype_info[a].size >= dtype_info[b].size ? a : b;
    enum dtype u = dtype_info[a].kind == KIND_UINT ? a : b;
    enum dtype s = u == a ? b : a;
    enum dtype best = DT_COUNT;
    for (int t = 0; t < DT_COUNT; t++) {
        bool holds = dtype_info[t].kind == KIND_INT && dtype_info[t].size > dtype_info[u].size &&
                     dtype_info[t].size >= dtype_info[s].size;
        if (holds && (best == DT_COUNT || dtype_info[t].size < dtype_info[best].size)) best = (enum dtype)t;
    }
    return best;
}

enum dtype promote_dtypes(enum dtype a, enum dtype b)
{
    if (a == b) return a;
    if (dtype_info[a].kind == KIND_BOOL) return b;
    if (dtype_info[b].kind == KIND_BOOL) return a;
    bool fa = dtype_is_float(a), fb = dtype_is_float(b);
    if (fa != fb) return fa ? a : b;
    if (!fa) return join_integers(a, b);
    if (dtype_info[a].size == dtype_info[b].size) return DT_F32; /* f16 and bf16 */
    return dtype_info[a].size > dtype_info[b].size ? a : b;
}

static enum dtype common_dtype(enum dtype a, enum dtype b)
{
    enum dtype t = promote_dtypes(a, b);
    if (t != DT_COUNT) return t;
    const char *name = dtype_info[dtype_info[a].kind == KIND_INT ? a : b].name;
    capture_throw("no integer dtype holds both u64 and %s: cast one of them, hop_cast(x, \"i64\") where all "
                  "values are below 2^63, "
                  "hop_cast(x, \"u64\") where none is negative",
                  name);
}

static enum dtype with_weak(int strong, uint8_t weak)
{
    uint8_t kind = strong < 0 ? KIND_BOOL : dtype_info[strong].kind;
    if (weak == HANDLE_REAL) return kind == KIND_FLOAT ? (enum dtype)strong : DT_F32;
    if (weak == HANDLE_INT) return kind == KIND_BOOL ? DT_I64 : (enum dtype)strong;
    return strong < 0 ? DT_BOOL : (enum dtype)strong;
}

enum dtype operands_dtype(struct builder *b, const struct operand *in, uint32_t n)
{
    int strong = -1;
    uint8_t weak = 0; /* the widest: HANDLE_REAL is the smallest of the three */
    for (uint32_t i = 0; i < n; i++) {
        if (in[i].weak) {
            weak = weak ? HOP_MIN(weak, in[i].weak) : in[i].weak;
            continue;
        }
        enum dtype t = (enum dtype)emit_type(b, in[i].v).dtype;
        strong = (int)(strong < 0 ? t : common_dtype((enum dtype)strong, t));
    }
    if (weak) return with_weak(strong, weak);
    return strong < 0 ? DT_F32 : (enum dtype)strong;
}

int beside_range(enum dtype t, int64_t n)
{
    bool is_signed = dtype_info[t].kind == KIND_INT;
    uint32_t bits = 8u * dtype_info[t].size - is_signed;
    if (n < 0) return !is_signed || (bits < 63 && n < -((int64_t)1 << bits)) ? -1 : 0;
    return bits < 63 && n >> bits ? 1 : 0;
}

val weak_full(struct builder *b, const struct operand *o, enum dtype t, uint32_t rank, const dim *dims)
{
    double real = o->weak == HANDLE_REAL ? o->real : (double)o->integer;
    int64_t integer = o->integer;
    /* Cast as a value of f64 would be: emitted, so that it is the same everywhere. */
    if (o->weak == HANDLE_REAL && !dtype_is_float(t)) {
        struct attr a[3] = { A_REAL(o->real), A_DIMS(dims, rank), A_DTYPE(DT_F64) };
        return emit_cast(b, emit(b, OP_full, NULL, 0, a), t);
    }
    if (dtype_is_integer(t) && beside_range(t, integer)) {
        uint32_t bits = 8u * dtype_info[t].size;
        bool is_signed = dtype_info[t].kind == KIND_INT;
        int64_t least = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
        uint64_t most = UINT64_MAX >> (64 - bits + is_signed);
        capture_throw("%s holds %lld..%llu, which %lld is not within: cast the array to a larger dtype",
                      dtype_info[t].name, (long long)least, (unsigned long long)most, (long long)integer);
    }
    if (t == DT_BOOL) integer = integer != 0;
    struct attr a[3] = { dtype_is_float(t) ? A_REAL(real) : A_INT(integer), A_DIMS(dims, rank), A_DTYPE(t) };
    return emit(b, OP_full, NULL, 0, a);
}

val weak_like(struct builder *b, const struct operand *o, struct type t)
{
    enum dtype found = with_weak((int)t.dtype, o->weak);
    if (found != (enum dtype)t.dtype)
        capture_throw(
            "a result is the number %.17g, where %s is expected: cast it, or give a number of that kind",
            o->weak == HANDLE_REAL ? o->real : (double)o->integer, dtype_info[t.dtype].name);
    return weak_full(b, o, (enum dtype)t.dtype, t.rank, t.dims);
}

val operand_value(struct builder *b, const struct operand *o)
{
    return o->weak ? weak_full(b, o, with_weak(-1, o->weak), 0, NULL) : o->v;
}

val operand_as(struct builder *b, const struct operand *o, enum dtype t)
{
    return o->weak ? weak_full(b, o, t, 0, NULL) : emit_cast(b, o->v, t);
}

/* A size that is 0 or 1, nobody knows which: y[:1] of a size of a run. */
static bool is_at_most_one(struct builder *b, dim d)
{
    return !dim_is_const(b->m, d) && dim_provably_le(b->m, b->symbols.data, d, 1);
}

/* The size that the other operands have along a dim counted from the end, unless all are at most 1. */
static dim size_beside(struct builder *b, const struct operand *in, uint32_t n, uint32_t from_end)
{
    dim beside = 1;
    for (uint32_t i = 0; i < n && beside == 1; i++) {
        struct type t = in[i].weak ? (struct type){ .rank = 0 } : emit_type(b, in[i].v);
        if (from_end >= t.rank) continue;
        dim d = t.dims[t.rank - 1 - from_end];
        if (!is_at_most_one(b, d)) beside = d;
    }
    return beside;
}

/* Beside dims of other sizes such a one stands for 1, as NumPy has it: it is filled up to 1. If it is 0,
 * there is nothing beside it either; that is required. */
static void fill_single(struct builder *b, struct operand *in, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct type t = in[i].weak ? (struct type){ .rank = 0 } : emit_type(b, in[i].v);
        dim none[MAX_RANK] = { 0 }, missing[MAX_RANK] = { 0 };
        bool fills = false;
        for (uint32_t d = 0; d < t.rank; d++) {
            if (!is_at_most_one(b, t.dims[d])) continue;
            dim beside = size_beside(b, in, n, t.rank - 1 - d);
            if (beside == 1) continue;
            builder_require(b, beside, dim_mul(b->m, beside, t.dims[d]), "a size that is broadcast");
            missing[d] = dim_sub(b->m, 1, t.dims[d]);
            fills = true;
        }
        if (!fills) continue;
        struct attr a[3] = { A_DIMS(none, t.rank), A_DIMS(missing, t.rank), A_NONE };
        val zero = emit_full(b, (enum dtype)t.dtype, 0, 0, NULL);
        in[i].v = emit(b, OP_pad, (val[]){ in[i].v, zero }, 2, a);
    }
}

uint32_t broadcast_dims(struct builder *b, struct operand *in, uint32_t n, dim *dims)
{
    uint32_t rank = 0;
    struct module *m = b->m;
    fill_single(b, in, n);
    for (uint32_t i = 0; i < n; i++)
        if (!in[i].weak) rank = HOP_MAX(rank, emit_type(b, in[i].v).rank);
    for (uint32_t d = 0; d < rank; d++) dims[d] = 1;
    for (uint32_t i = 0; i < n; i++) {
        if (in[i].weak) continue;
        struct type t = emit_type(b, in[i].v);
        for (uint32_t d = 0; d < t.rank; d++) {
            dim *have = &dims[rank - t.rank + d], found = t.dims[d];
            if (found == *have || found == 1) continue;
            if (*have == 1) *have = found;
            else if (dim_is_const(m, *have) && dim_is_const(m, found)) {
                const char *whole = type_text(m, b->symbols.data, builder_type(b, in[i].v));
                capture_throw("shapes do not broadcast: operand %u is %s, but its dim %u must be %lld or 1",
                              i, whole, d, (long long)dim_const_value(m, *have));
            } else if (dim_is_const(m, found)) *have = found; /* required to be equal by the operator */
        }
    }
    return rank;
}

val bring_to(struct builder *b, val v, uint32_t rank, const dim *dims)
{
    struct type t = emit_type(b, v);
    uint32_t at[MAX_RANK], n = 0;
    dim kept[MAX_RANK];
    bool same = t.rank == rank;
    for (uint32_t d = 0; d < t.rank; d++) {
        uint32_t to = rank - t.rank + d;
        if (t.dims[d] == 1 && dims[to] != 1) {
            same = false;
            continue;
        }
        kept[n] = t.dims[d];
        at[n++] = to;
    }
    if (same) return v;
    if (n < t.rank) v = emit_reshape(b, v, n, kept);
    return emit_broadcast(b, v, rank, dims, at);
}

void require_equal(struct builder *b, dim want, dim found, const char *what)
{
    if (want != found && dim_is_const(b->m, want) && dim_is_const(b->m, found))
        capture_throw("%s: expected %lld, found %lld", what, (long long)dim_const_value(b->m, want),
                      (long long)dim_const_value(b->m, found));
    builder_require(b, want, found, what);
}

void promote_all(struct builder *b, struct operand *in, uint32_t n, enum dtype t, val *out)
{
    dim dims[MAX_RANK];
    uint32_t rank = broadcast_dims(b, in, n, dims);
    for (uint32_t i = 0; i < n; i++)
        if (in[i].weak) out[i] = weak_full(b, &in[i], t, rank, dims);
        else out[i] = bring_to(b, emit_cast(b, in[i].v, t), rank, dims);
}
