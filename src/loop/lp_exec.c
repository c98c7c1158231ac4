/* A reference executor for loop programs: scalar, one iteration after the other, every access held against
 * its buffer's size. A program, the runtime's table and the buffers come in, the status of the run goes out.
 * It says what a loop program means; tests hold lowering and emitters against it. */
#include "loop/lp_exec.h"
#include "ir/angle.h"
#include "ir/number.h"

#include <math.h>

union cell {
    uint64_t bits;
    uint8_t b;
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16, f16, bf16; /* f16 and bf16: bits */
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
};

struct executor {
    const struct lp *p, *program; /* what it runs; whose procedures that calls */
    struct executor **procedures; /* of the program, made when they are called first; all share this list */
    struct arena *arena;
    const struct lp_machine *machine;
    struct hop_rt *rt;  /* the machine's */
    int64_t *symbols;   /* the same */
    void **all_buffers; /* addresses of what may be touched now, over the program and its procedures */
    void **buffers;     /* the part of `p` */
    union cell *values; /* per instruction */
    int64_t *vars;      /* per loop */
    union cell *locals; /* LP_STRICT_LANES per local; a scalar uses the first */
    void **stack;       /* per buffer: address of BUF_LOCAL */
    int64_t *counts;    /* per buffer: elements; BUF_DYN: reserved so far */
    uint32_t lane;      /* of the innermost vector loop */
    struct lp_call **sites;
    uint32_t n_sites;
};

/* ---- scalar operations ---- */

static union cell cast(enum dtype from, enum dtype to, union cell x)
{
    union cell r = { 0 };
    if (from == to) return x;
    if (from == DT_F32 && to == DT_F16) return r.f16 = f16_of_f32(x.f32), r;
    if (from == DT_F32 && to == DT_BF16) return r.bf16 = bf16_of_f32(x.f32), r;
    if (from == DT_U64 && to == DT_F32) return r.f32 = (float)x.u64, r;
    if (from == DT_U64 && to == DT_F64) return r.f64 = (double)x.u64, r;
    if (dtype_is_float(from)) element_set_real(to, &r, element_real(from, &x));
    else element_set_whole(to, &r, element_whole(from, &x));
    return r;
}

static _Noreturn void bad_op(enum lp_op op, enum dtype t)
{
    hop_throw(HOP_INTERNAL, "loop program: operation %d is not defined on %s", op, dtype_info[t].name);
}

#define COMPARE(op, T, x, y, r) \
    case LP_EQ: (r).b = (x).T == (y).T; return r; \
    case LP_NE: (r).b = (x).T != (y).T; return r; \
    case LP_LT: (r).b = (x).T < (y).T; return r; \
    case LP_LE: (r).b = (x).T <= (y).T; return r; \
    case LP_GT: (r).b = (x).T > (y).T; return r; \
    case LP_GE: (r).b = (x).T >= (y).T; return r;

/* U is wide enough that C does not promote it to a signed type. */
#define INTEGER_OPS(T, type, U, smallest) \
    static union cell binary_##T(enum lp_op op, union cell x, union cell y) { \
        union cell r = { 0 }; \
        const unsigned width = (unsigned)(8 * sizeof x.T - 1), by = (unsigned)y.T & width; \
        bool wraps = (smallest) && x.T == (type)(smallest) && y.T == (type) - 1; \
        switch (op) { \
        case LP_ADD: r.T = (type)((U)x.T + (U)y.T); return r; \
        case LP_SUB: r.T = (type)((U)x.T - (U)y.T); return r; \
        case LP_MUL: r.T = (type)((U)x.T * (U)y.T); return r; \
        case LP_DIV: r.T = !y.T ? 0 : wraps ? x.T : (type)(x.T / y.T); return r; \
        case LP_REM: r.T = !y.T ? x.T : wraps ? 0 : (type)(x.T % y.T); return r; \
        case LP_MIN: r.T = x.T < y.T ? x.T : y.T; return r; \
        case LP_MAX: r.T = x.T > y.T ? x.T : y.T; return r; \
        case LP_AND: r.T = x.T & y.T; return r; \
        case LP_OR: r.T = x.T | y.T; return r; \
        case LP_XOR: r.T = x.T ^ y.T; return r; \
        case LP_SHL: r.T = (type)((U)x.T << by); return r; \
        case LP_SHR: r.T = (type)(x.bits << (63 - width) >> (63 - width) >> by); return r; \
        case LP_SAR: \
            r.T = (type)(x.T >> by); \
            return r; \
            COMPARE(op, T, x, y, r) \
        default: break; \
        } \
        bad_op(op, DT_I64); \
    }
INTEGER_OPS(i8, int8_t, uint32_t, INT8_MIN)
INTEGER_OPS(i16, int16_t, uint32_t, INT16_MIN)
INTEGER_OPS(i32, int32_t, uint32_t, INT32_MIN)
INTEGER_OPS(u8, uint8_t, uint32_t, 0)
INTEGER_OPS(u16, uint16_t, uint32_t, 0)
INTEGER_OPS(u32, uint32_t, uint32_t, 0)
INTEGER_OPS(u64, uint64_t, uint64_t, 0)

#define FLOAT_OPS(T, remainder) \
    static union cell binary_##T(enum lp_op op, union cell x, union cell y) { \
        union cell r = { 0 }; \
        switch (op) { \
        case LP_ADD: r.T = x.T + y.T; return r; \
        case LP_SUB: r.T = x.T - y.T; return r; \
        case LP_MUL: r.T = x.T * y.T; return r; \
        case LP_DIV: r.T = x.T / y.T; return r; \
        case LP_REM: r.T = remainder(x.T, y.T); return r; \
        case LP_MIN: r.T = x.T != x.T || x.T < y.T ? x.T : y.T; return r; \
        case LP_MAX: \
            r.T = x.T != x.T || x.T > y.T ? x.T : y.T; \
            return r; \
            COMPARE(op, T, x, y, r) \
        default: break; \
        } \
        bad_op(op, DT_F64); \
    }
FLOAT_OPS(f32, fmodf)
FLOAT_OPS(f64, fmod)

#define binary_i64 binary_plain_i64
INTEGER_OPS(i64, int64_t, uint64_t, INT64_MIN)
#undef binary_i64

static union cell binary_i64(enum lp_op op, union cell x, union cell y)
{
    union cell r = { 0 };
    if (op != LP_FLOORDIV && op != LP_MOD) return binary_plain_i64(op, x, y);
    if (y.i64 <= 0) hop_throw(HOP_INTERNAL, "loop program: an index is divided by %lld", (long long)y.i64);
    int64_t rest = x.i64 % y.i64;
    r.i64 = op == LP_MOD ? rest + (rest < 0 ? y.i64 : 0) : x.i64 / y.i64 - (rest < 0);
    return r;
}

static union cell binary_bool(enum lp_op op, union cell x, union cell y)
{
    union cell r = { 0 };
    switch (op) {
    case LP_AND:
    case LP_MIN:
    case LP_MUL: r.b = x.b & y.b; return r;
    case LP_OR:
    case LP_MAX: r.b = x.b | y.b; return r;
    case LP_XOR:
        r.b = x.b ^ y.b;
        return r;
        COMPARE(op, b, x, y, r)
    default: bad_op(op, DT_BOOL);
    }
}

/* The builder computes with f16 and bf16 as f32. */
static union cell binary_narrow(enum lp_op op, union cell x, union cell y)
{
    (void)x, (void)y;
    bad_op(op, DT_F16);
}

static union cell (*const binary[DT_COUNT])(enum lp_op op, union cell x, union cell y) = {
    [DT_BOOL] = binary_bool, [DT_I8] = binary_i8,      [DT_I16] = binary_i16,     [DT_I32] = binary_i32,
    [DT_I64] = binary_i64,   [DT_U8] = binary_u8,      [DT_U16] = binary_u16,     [DT_U32] = binary_u32,
    [DT_U64] = binary_u64,   [DT_F16] = binary_narrow, [DT_BF16] = binary_narrow, [DT_F32] = binary_f32,
    [DT_F64] = binary_f64,
};

static union cell unary(enum lp_op op, enum dtype t, union cell x)
{
    union cell r = { 0 };
    switch (t) {
    case DT_BOOL:
        if (op == LP_NOT) return r.b = !x.b, r;
        break;
    case DT_I8:
    case DT_I16:
    case DT_I32:
    case DT_I64:
    case DT_U8:
    case DT_U16:
    case DT_U32:
    case DT_U64: {
        int64_t v = element_whole(t, &x);
        bool negate = op == LP_NEG || (op == LP_ABS && dtype_info[t].kind == KIND_INT && v < 0);
        if (op == LP_POPCOUNT || op == LP_CLZ) {
            int width = 8 * dtype_info[t].size;
            uint64_t bits = (uint64_t)v << (64 - width);
            element_set_whole(t, &r,
                              op == LP_POPCOUNT ? __builtin_popcountll(bits)
                              : bits            ? __builtin_clzll(bits)
                                                : width);
            return r;
        }
        if (op != LP_NEG && op != LP_ABS && op != LP_NOT) break;
        element_set_whole(t, &r, op == LP_NOT ? ~v : negate ? (int64_t)(0 - (uint64_t)v) : v);
        return r;
    }
    case DT_F32:
        if (op == LP_NEG) return r.f32 = -x.f32, r;
        if (op == LP_ABS) return r.f32 = fabsf(x.f32), r;
        if (op == LP_SQRT) return r.f32 = sqrtf(x.f32), r;
        if (op == LP_FLOOR) return r.f32 = floorf(x.f32), r;
        if (op == LP_CEIL) return r.f32 = ceilf(x.f32), r;
        if (op == LP_TRUNC) return r.f32 = truncf(x.f32), r;
        if (op == LP_ROUND) return r.f32 = rintf(x.f32), r;
        break;
    case DT_F64:
        if (op == LP_NEG) return r.f64 = -x.f64, r;
        if (op == LP_ABS) return r.f64 = fabs(x.f64), r;
        if (op == LP_SQRT) return r.f64 = sqrt(x.f64), r;
        if (op == LP_FLOOR) return r.f64 = floor(x.f64), r;
        if (op == LP_CEIL) return r.f64 = ceil(x.f64), r;
        if (op == LP_TRUNC) return r.f64 = trunc(x.f64), r;
        if (op == LP_ROUND) return r.f64 = rint(x.f64), r;
        break;
    default: break;
    }
    bad_op(op, t);
}

static union cell fold(enum lp_fold f, enum dtype t, union cell x, union cell y)
{
    static const uint8_t op[] = { [FOLD_SUM] = LP_ADD, [FOLD_MAX] = LP_MAX, [FOLD_MIN] = LP_MIN,
                                  [FOLD_AND] = LP_AND, [FOLD_OR] = LP_OR,   [FOLD_PROD] = LP_MUL };
    return binary[t](op[f], x, y);
}

/* ---- values ---- */

static const char *buffer_name(const struct lp_buffer *b) { return b->name ? b->name : "a buffer"; }

/* Where elements of a buffer lie, in the machine's memory. */
static void *address(struct executor *e, uint32_t buffer, int64_t index, int64_t count, const char *what)
{
    const struct lp_buffer *b = &e->p->buffers.data[buffer];
    if (count && (index < 0 || count < 0 || index > e->counts[buffer] - count))
        hop_throw(HOP_INTERNAL, "loop program: %s of %s at %lld, which has %lld elements", what,
                  buffer_name(b), (long long)(index + count - 1), (long long)e->counts[buffer]);
    char *base = b->kind == BUF_LOCAL ? e->stack[buffer] : e->buffers[buffer];
    if (!base && count)
        hop_throw(HOP_INTERNAL, "loop program: %s of %s, which has no memory", what, buffer_name(b));
    return base ? base + index * dtype_info[b->dtype].size : NULL;
}

/* The same elements, for this code to read and write. */
static void *elements(struct executor *e, uint32_t buffer, int64_t index, int64_t count, const char *what)
{
    const struct lp_buffer *b = &e->p->buffers.data[buffer];
    void *at = address(e, buffer, index, count, what);
    if (!e->machine->reach || !count) return at;
    return e->machine->reach(at, (size_t)count * dtype_info[b->dtype].size, buffer_name(b));
}

static union cell fetch(const void *at, enum dtype t)
{
    union cell r = { 0 };
    memcpy(&r, at, dtype_info[t].size);
    return r;
}

/* Leaves are read where they are used: a symbol may be set by the program, a variable changes. */
static union cell value_of(const struct executor *e, lpv v)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    switch (i->op) {
    case LP_CONST: return (union cell){ .bits = i->bits };
    case LP_SYMBOL: return (union cell){ .i64 = e->symbols[i->imm] };
    case LP_VAR: return (union cell){ .i64 = e->vars[i->imm] };
    default: return e->values[v];
    }
}

static int64_t index_of(const struct executor *e, lpv v, int64_t absent)
{
    return v == LPV_NONE ? absent : value_of(e, v).i64;
}

static union cell fold_lanes(const struct executor *e, const struct lp_instr *i)
{
    union cell lanes[LP_STRICT_LANES];
    memcpy(lanes, e->locals + i->imm * LP_STRICT_LANES, sizeof lanes);
    for (int w = LP_STRICT_LANES / 2; w; w /= 2)
        for (int j = 0; j < w; j++)
            lanes[j] = fold((enum lp_fold)i->b, (enum dtype)i->dtype, lanes[j], lanes[j + w]);
    return lanes[0];
}

static union cell compute(struct executor *e, lpv v)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    enum dtype t = (enum dtype)i->dtype;
    switch (i->op) {
    case LP_CONST:
    case LP_SYMBOL:
    case LP_VAR: return value_of(e, v);
    case LP_READ: {
        bool lanes = e->p->locals.data[i->imm].kind == LOCAL_LANES;
        return e->locals[i->imm * LP_STRICT_LANES + (lanes ? e->lane : 0)];
    }
    case LP_LOAD: return fetch(elements(e, (uint32_t)i->imm, value_of(e, i->a).i64, 1, "load"), t);
    case LP_FOLD: return fold_lanes(e, i);
    case LP_NEG:
    case LP_ABS:
    case LP_SQRT:
    case LP_FLOOR:
    case LP_CEIL:
    case LP_TRUNC:
    case LP_ROUND:
    case LP_POPCOUNT:
    case LP_CLZ:
    case LP_NOT: return unary((enum lp_op)i->op, t, value_of(e, i->a));
    case LP_CAST: return cast(lp_dtype(e->p, i->a), t, value_of(e, i->a));
    case LP_BITCAST: return value_of(e, i->a);
    case LP_FMA:
    case LP_FUSED: {
        union cell x = value_of(e, i->a), y = value_of(e, i->b), z = value_of(e, i->c), r = { 0 };
        if (t == DT_F32) r.f32 = fmaf(x.f32, y.f32, z.f32);
        else r.f64 = fma(x.f64, y.f64, z.f64);
        return r;
    }
    case LP_SELECT: return value_of(e, i->a).b ? value_of(e, i->b) : value_of(e, i->c);
    case LP_FAR: {
        union cell x = value_of(e, i->b), r = { 0 };
        if (!value_of(e, i->a).b) return value_of(e, i->c);
        angle_far_lanes((int32_t)i->imm, t == DT_F64, 1, &x, &r);
        return r;
    }
    default: return binary[lp_dtype(e->p, i->a)]((enum lp_op)i->op, value_of(e, i->a), value_of(e, i->b));
    }
}

/* ---- calls ---- */

static void number_sites(struct executor *e, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_CALL && call_is_told(s->call->kind)) {
            if (e->sites) e->sites[e->n_sites] = s->call;
            e->n_sites++;
        }
        number_sites(e, s->body);
        number_sites(e, s->other);
    }
}

static int32_t tell_site(struct executor *e, const struct lp_call *c)
{
    int32_t site = 0;
    while (e->sites[site] != c) site++;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct hop_rt_operand *operands = ARENA_ZNEW(&arena, struct hop_rt_operand, c->n_operands);
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        int64_t *dims = ARENA_NEW(&arena, int64_t, o->rank), count = 1;
        for (uint32_t d = 0; d < o->rank; d++) count *= dims[d] = value_of(e, o->dims[d]).i64;
        operands[k].rank = (int32_t)o->rank;
        operands[k].dims = dims;
        if (o->buffer == HOP_NONE) {
            union cell x = value_of(e, o->value);
            operands[k].data = arena_copy(&arena, &x, sizeof x);
            operands[k].dtype = lp_dtype(e->p, o->value);
        } else {
            enum dtype t = (enum dtype)e->p->buffers.data[o->buffer].dtype;
            const void *shown = elements(e, o->buffer, index_of(e, o->index, 0), count, "showing");
            operands[k].data = count ? arena_copy(&arena, shown, (size_t)count * dtype_info[t].size) : shown;
            operands[k].dtype = t;
        }
    }
    int32_t status = HOP_OK;
    if (c->kind == CALL_CALLBACK)
        status = e->rt->callback(e->rt, site, (int32_t)c->n_operands, operands) ? HOP_INVALID : HOP_OK;
    else (c->kind == CALL_CHECK ? e->rt->check : e->rt->print)(e->rt, site, (int32_t)c->n_operands, operands);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return status;
}

static int32_t reserve(struct executor *e, const struct lp_call *c)
{
    int64_t want = value_of(e, c->index).i64, bytes;
    if (want <= e->counts[c->target] && e->buffers[c->target]) return HOP_OK;
    if (__builtin_mul_overflow(want, dtype_info[e->p->buffers.data[c->target].dtype].size, &bytes))
        return HOP_NOMEM;
    void *at = e->rt->reserve(e->rt, (int32_t)c->target, bytes);
    if (!at) return HOP_NOMEM;
    e->buffers[c->target] = at;
    e->counts[c->target] = HOP_MAX(want, e->counts[c->target]);
    return HOP_OK;
}

static void gemm(struct executor *e, const struct lp_call *c)
{
    int64_t m = value_of(e, c->gemm.m).i64, n = value_of(e, c->gemm.n).i64, k = value_of(e, c->gemm.k).i64;
    int64_t lda = value_of(e, c->gemm.lda).i64, ldb = value_of(e, c->gemm.ldb).i64,
            ldc = value_of(e, c->gemm.ldc).i64;
    int64_t a_rows = c->gemm.ta ? k : m, a_cols = c->gemm.ta ? m : k, b_rows = c->gemm.tb ? n : k,
            b_cols = c->gemm.tb ? k : n;
    if (!m || !n) return;
    void *a = elements(e, c->gemm.a, index_of(e, c->gemm.a_at, 0), k ? (a_rows - 1) * lda + a_cols : 0,
                       "product");
    void *b = elements(e, c->gemm.b, index_of(e, c->gemm.b_at, 0), k ? (b_rows - 1) * ldb + b_cols : 0,
                       "product");
    void *to = elements(e, c->gemm.c, index_of(e, c->gemm.c_at, 0), (m - 1) * ldc + n, "product");
    e->rt->gemm(e->rt, c->gemm.dtype, c->gemm.ta, c->gemm.tb, m, n, k, a, lda, b, ldb, to, ldc,
                c->gemm.accumulate);
}

static int32_t run_block(struct executor *e, const struct lp_block *block);
static struct executor *executor_for(const struct executor *from, const struct lp *p);

static int32_t run_procedure(struct executor *e, const struct lp_call *c)
{
    struct executor **q = &e->procedures[c->target];
    if (!*q) *q = executor_for(e, e->program->procedures.data[c->target]);
    for (uint32_t k = 0; k < c->n_operands; k++)
        (*q)->buffers[k] = address(e, c->operands[k].buffer, index_of(e, c->operands[k].index, 0),
                                   (*q)->counts[k], "an array for a procedure");
    return run_block(*q, (*q)->p->root);
}

static int32_t run_call(struct executor *e, const struct lp_call *c)
{
    const struct lp_buffer *buffers = e->p->buffers.data;
    switch ((enum lp_call_kind)c->kind) {
    case CALL_GEMM: gemm(e, c); return HOP_OK;
    case CALL_CHECK:
        if (value_of(e, c->value).b) return HOP_OK;
        tell_site(e, c);
        return HOP_CHECK;
    case CALL_PRINT:
    case CALL_CALLBACK: return c->mask == LPV_NONE || value_of(e, c->mask).b ? tell_site(e, c) : HOP_OK;
    case CALL_RESERVE: return reserve(e, c);
    case CALL_SETDIM: e->symbols[c->target] = value_of(e, c->value).i64; return HOP_OK;
    case CALL_COPY: {
        int64_t count = value_of(e, c->count).i64;
        void *to = elements(e, c->target, index_of(e, c->lo, 0), count, "copy to"),
             *from = elements(e, c->source, index_of(e, c->index, 0), count, "copy");
        if (count) memmove(to, from, (size_t)count * dtype_info[buffers[c->target].dtype].size);
        return HOP_OK;
    }
    case CALL_ZERO: {
        int64_t count = value_of(e, c->count).i64;
        void *to = elements(e, c->target, index_of(e, c->lo, 0), count, "clearing");
        if (count) memset(to, 0, (size_t)count * dtype_info[buffers[c->target].dtype].size);
        return HOP_OK;
    }
    case CALL_PROCEDURE: return run_procedure(e, c);
    }
    hop_throw(HOP_INTERNAL, "loop program: call of unknown kind %d", c->kind);
}

/* ---- statements ---- */

static bool cancelled(const struct executor *e, const struct lp_stmt *s)
{
    if (!s->poll || !e->rt->cancel || !__atomic_load_n(e->rt->cancel, __ATOMIC_RELAXED)) return false;
    return !e->rt->asked || e->rt->asked(e->rt);
}

static int32_t run_for(struct executor *e, const struct lp_stmt *s)
{
    int64_t lo = value_of(e, s->lo).i64, hi = value_of(e, s->hi).i64, step = index_of(e, s->step, 1);
    uint32_t outer_lane = e->lane;
    int32_t status = HOP_OK;
    if (step <= 0) hop_throw(HOP_INTERNAL, "loop program: a loop steps by %lld", (long long)step);
    for (int64_t i = lo; i < hi && !status; i += step) {
        e->vars[s->target] = i;
        if (s->mode == FOR_VECTOR) e->lane = (uint32_t)((i - lo) / step % LP_STRICT_LANES);
        status = run_block(e, s->body);
        if (!status && cancelled(e, s)) status = HOP_CANCELLED;
    }
    e->lane = outer_lane;
    return status;
}

static int32_t run_while(struct executor *e, const struct lp_stmt *s)
{
    for (;;) {
        int32_t status = run_block(e, s->body);
        if (status) return status;
        if (!value_of(e, s->value).b) return HOP_OK;
        status = run_block(e, s->other);
        if (status) return status;
        if (cancelled(e, s)) return HOP_CANCELLED;
    }
}

static void set_local(struct executor *e, const struct lp_stmt *s)
{
    const struct lp_local *l = &e->p->locals.data[s->target];
    union cell *cells = e->locals + s->target * LP_STRICT_LANES, x = value_of(e, s->value);
    bool lanes = l->kind == LOCAL_LANES;
    if (s->kind == LP_ACCUM) {
        union cell *at = cells + (lanes ? e->lane : 0);
        *at = fold((enum lp_fold)s->mode, (enum dtype)l->dtype, *at, x);
        return;
    }
    for (uint32_t k = 0; k < (lanes ? LP_STRICT_LANES : 1); k++) cells[k] = x;
}

static int32_t run_some(struct executor *e, const struct lp_block *block, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        int32_t status = HOP_OK;
        switch ((enum lp_stmt_kind)s->kind) {
        case LP_LET: e->values[s->value] = compute(e, s->value); break;
        case LP_STORE: {
            union cell x = value_of(e, s->value);
            memcpy(elements(e, s->target, value_of(e, s->index).i64, 1, "store"), &x,
                   dtype_info[e->p->buffers.data[s->target].dtype].size);
            break;
        }
        case LP_SET:
        case LP_ACCUM: set_local(e, s); break;
        case LP_FOR: status = run_for(e, s); break;
        case LP_WHILE: status = run_while(e, s); break;
        case LP_IF: status = run_block(e, value_of(e, s->value).b ? s->body : s->other); break;
        case LP_CALL: status = run_call(e, s->call); break;
        }
        if (status) return status;
    }
    return HOP_OK;
}

static int32_t run_block(struct executor *e, const struct lp_block *block)
{
    return block ? run_some(e, block, 0, block->stmts.len) : HOP_OK;
}

/* ---- executors ---- */

enum { FORGOTTEN = 0xa5 }; /* every byte of what nobody may count on */

/* Room of a BUF_LOCAL: in the frame of a machine that has one. */
static void *stack_room(struct executor *e, uint32_t b)
{
    const struct lp_machine *m = e->machine;
    if (m->cut) return (char *)m->frame + m->cut->array_at[e->p->first_buffer + b];
    size_t bytes = (size_t)e->counts[b] * dtype_info[e->p->buffers.data[b].dtype].size;
    return memset(arena_alloc(e->arena, bytes), FORGOTTEN, bytes);
}

/* For a program, or for a procedure that is called from one. */
static struct executor *executor_for(const struct executor *from, const struct lp *p)
{
    struct arena *a = from->arena;
    struct executor *e = arena_copy(a, from, sizeof *from);
    const int64_t *counts = e->machine->counts ? e->machine->counts + p->first_buffer : NULL;
    e->p = p;
    e->buffers = e->all_buffers + p->first_buffer;
    e->lane = 0;
    e->values = ARENA_ZNEW(a, union cell, p->instrs.len);
    e->vars = ARENA_ZNEW(a, int64_t, p->loops.len);
    e->locals = ARENA_ZNEW(a, union cell, p->locals.len * (size_t)LP_STRICT_LANES);
    e->stack = ARENA_ZNEW(a, void *, p->buffers.len);
    e->counts = ARENA_ZNEW(a, int64_t, p->buffers.len);
    for (uint32_t b = 0; b < p->buffers.len; b++) {
        const struct lp_buffer *buffer = &p->buffers.data[b];
        if (buffer->kind == BUF_DYN) continue;
        if (buffer->static_count >= 0) e->counts[b] = buffer->static_count;
        else e->counts[b] = counts ? counts[b] : dim_eval(p->m, buffer->count, e->symbols);
        if (buffer->kind == BUF_LOCAL) e->stack[b] = stack_room(e, b);
    }
    return e;
}

struct executor *lp_executor(const struct lp *p, const struct lp_machine *machine, struct arena *a)
{
    struct executor first = { .program = p,
                              .machine = machine,
                              .rt = machine->rt,
                              .symbols = machine->symbols,
                              .all_buffers = machine->buffers,
                              .arena = a,
                              .procedures = ARENA_ZNEW(a, struct executor *, p->procedures.len) };
    if (machine->cut) { /* a kernel gets its own buffers and no others */
        const struct lp *last = p->procedures.len ? p->procedures.data[p->procedures.len - 1] : p;
        first.all_buffers = ARENA_ZNEW(a, void *, last->first_buffer + last->buffers.len);
    }
    number_sites(&first, p->root);
    first.sites = ARENA_NEW(a, struct lp_call *, first.n_sites);
    first.n_sites = 0;
    number_sites(&first, p->root);
    return executor_for(&first, p);
}

int32_t lp_execute(const struct lp *p, struct hop_rt *rt, void **buffers, int64_t *symbols)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct lp_machine machine = { .rt = rt, .buffers = buffers, .symbols = symbols };
    struct executor *e = lp_executor(p, &machine, &arena);
    int32_t status = run_block(e, p->root);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return status;
}

/* ---- kernels ---- */

static void move_cell(struct executor *e, const struct lp_cell *c, bool in)
{
    bool local = c->kind == CELL_LOCAL;
    size_t bytes = local ? FRAME_LOCAL : FRAME_VALUE;
    void *here = local ? &e->locals[c->index * LP_STRICT_LANES] : &e->values[c->index];
    void *there = e->machine->reach((char *)e->machine->frame + c->at, bytes, "the frame");
    if (in && c->in) memcpy(here, there, bytes);
    if (!in && c->out) memcpy(there, here, bytes);
    if (!in) memset(here, FORGOTTEN, bytes);
}

int32_t lp_execute_kernel(struct executor *e, uint32_t kernel)
{
    _Static_assert(sizeof(union cell) == FRAME_VALUE, "a value is a cell of the frame");
    const struct lp_kernel *k = &e->machine->cut->kernels.data[kernel];
    const struct lp_block *root = e->p->root;
    for (uint32_t i = 0; i < k->buffers.len; i++)
        e->buffers[k->buffers.data[i]] = e->machine->buffers[k->buffers.data[i]];
    for (uint32_t i = 0; i < k->cells.len; i++) move_cell(e, &k->cells.data[i], true);
    int32_t status = run_some(e, root, k->first, k->n);
    for (uint32_t i = 0; i < k->cells.len; i++) move_cell(e, &k->cells.data[i], false);
    for (uint32_t i = 0; i < k->n; i++) {
        const struct lp_stmt *s = &root->stmts.data[k->first + i];
        if (s->kind == LP_LET) memset(&e->values[s->value], FORGOTTEN, sizeof *e->values);
    }
    for (uint32_t i = 0; i < k->buffers.len; i++) e->buffers[k->buffers.data[i]] = NULL;
    return status;
}
