/* A reference executor for loop programs: scalar, one iteration after the other, every access held against
 * its buffer's size. A program, the runtime's table and the buffers come in, the status of the run goes out.
 * It says what a loop program means; tests hold lowering and emitters against it. */
#include "loop/lp_exec.h"
#include "ir/angle.h"
#include "ir/number.h"
#include "loop/lp_walk.h"

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
};

/* ---- scalar operations ---- */

static union cell cast(enum dtype from, enum dtype to, union cell x)
{
    union cell r = { 0 };
    if (from == to) return x;
    if (from == DT_F32 && to == DT_F16) r.f16 = f16_of_f32(x.f32);
    else if (from == DT_F32 && to == DT_BF16) r.bf16 = bf16_of_f32(x.f32);
    else if (from == DT_U64 && to == DT_F32) r.f32 = (float)x.u64;
    else if (from == DT_U64 && to == DT_F64) r.f64 = (double)x.u64;
    else if (dtype_is_float(from)) element_set_real(to, &r, element_real(from, &x));
    else element_set_whole(to, &r, element_whole(from, &x));
    return r;
}

/* A number, so that it can stand where an operation says what it gives. */
static int bad_op(enum dtype t)
{
    hop_throw(HOP_INTERNAL, "loop program: an operation is not defined on %s", dtype_info[t].name);
}

static int64_t positive(int64_t divisor)
{
    if (divisor <= 0)
        hop_throw(HOP_INTERNAL, "loop program: an index is divided by %lld", (long long)divisor);
    return divisor;
}
static int64_t floor_rest(int64_t x, int64_t y)
{
    int64_t rest = x % positive(y);
    return rest < 0 ? rest + y : rest;
}
static int64_t floor_quotient(int64_t x, int64_t y)
{
    int64_t rest = floor_rest(x, y);
    return x / y - (x % y != rest);
}

/* Below each pure operation says what it gives: on integers, on floats, on bools. There x, y and z are its
 * operands, of C type T; U is an unsigned type that C does not promote to a signed one; `least` is the
 * smallest number with a sign, 0 where there is none; `raw` are the bits of x at the top of 64, `width` is
 * how many. `i` is the instruction: NULL where an operation of two operands folds. */
#define MAYBE_UNUSED __attribute__((unused))
#define UNDEFINED bad_op(t)
#define CASE(DTYPE, field, type, unsigned_type, smallest, to, value) \
    case DTYPE: { \
        typedef type T MAYBE_UNUSED; \
        typedef unsigned_type U MAYBE_UNUSED; \
        const T x MAYBE_UNUSED = a.field; \
        const T y MAYBE_UNUSED = b.field; \
        const T z MAYBE_UNUSED = c.field; \
        const T least MAYBE_UNUSED = (T)(smallest); \
        const unsigned width MAYBE_UNUSED = 8 * sizeof(T); \
        const uint64_t raw MAYBE_UNUSED = a.bits << (64 - width); \
        r.to(field) = (__typeof__(r.to(field)))(value); \
        return r; \
    }
/* f16 and bf16 are computed with as f32: no case. */
#define OPERATION_TO(NAME, to, whole, real, boolean) \
    static union cell exec_##NAME(const struct lp_instr *i, enum dtype t, union cell a, union cell b, \
                                  union cell c) { \
        union cell r = { 0 }; \
        HOP_UNUSED(i); \
        switch (t) { \
            CASE(DT_I8, i8, int8_t, uint32_t, INT8_MIN, to, whole); \
            CASE(DT_I16, i16, int16_t, uint32_t, INT16_MIN, to, whole); \
            CASE(DT_I32, i32, int32_t, uint32_t, INT32_MIN, to, whole); \
            CASE(DT_I64, i64, int64_t, uint64_t, INT64_MIN, to, whole); \
            CASE(DT_U8, u8, uint8_t, uint32_t, 0, to, whole); \
            CASE(DT_U16, u16, uint16_t, uint32_t, 0, to, whole); \
            CASE(DT_U32, u32, uint32_t, uint32_t, 0, to, whole); \
            CASE(DT_U64, u64, uint64_t, uint64_t, 0, to, whole); \
            CASE(DT_F32, f32, float, uint32_t, 0, to, real); \
            CASE(DT_F64, f64, double, uint64_t, 0, to, real); \
            CASE(DT_BOOL, b, uint8_t, uint32_t, 0, to, boolean); \
        default: bad_op(t); \
        } \
        return r; \
    }
#define SAME(field) field
#define TRUTH(field) b
#define OPERATION(NAME, whole, real, boolean) OPERATION_TO(NAME, SAME, whole, real, boolean)
#define COMPARISON(NAME, value) OPERATION_TO(NAME, TRUTH, value, value, value)
#define MATH1(name) (t == DT_F32 ? name##f((float)x) : name(x))
#define MATH2(name) (t == DT_F32 ? name##f((float)x, (float)y) : name(x, y))
#define MATH3(name) (t == DT_F32 ? name##f((float)x, (float)y, (float)z) : name(x, y, z))
#define NEGATIVE (least && raw >> 63)
#define OVERFLOWS (least && x == least && y == (T)(-1))
#define AMOUNT ((unsigned)y & (width - 1))

OPERATION(NEG, 0 - (U)x, -x, UNDEFINED)
OPERATION(ABS, NEGATIVE ? 0 - (U)x : (U)x, MATH1(fabs), UNDEFINED)
OPERATION(SQRT, UNDEFINED, MATH1(sqrt), UNDEFINED)
OPERATION(FLOOR, UNDEFINED, MATH1(floor), UNDEFINED)
OPERATION(CEIL, UNDEFINED, MATH1(ceil), UNDEFINED)
OPERATION(TRUNC, UNDEFINED, MATH1(trunc), UNDEFINED)
OPERATION(ROUND, UNDEFINED, MATH1(rint), UNDEFINED)
OPERATION(POPCOUNT, __builtin_popcountll(raw), UNDEFINED, UNDEFINED)
OPERATION(CLZ, raw ? (unsigned)__builtin_clzll(raw) : width, UNDEFINED, UNDEFINED)
OPERATION(NOT, ~(U)x, UNDEFINED, !x)

OPERATION(ADD, (U)x + (U)y, x + y, UNDEFINED)
OPERATION(SUB, (U)x - (U)y, x - y, UNDEFINED)
OPERATION(MUL, ((U)x * (U)y), (x * y), (x & y))
OPERATION(DIV, !y ? 0 : OVERFLOWS ? x : (T)(x / y), x / y, UNDEFINED)
OPERATION(REM, !y ? x : OVERFLOWS ? 0 : (T)(x % y), MATH2(fmod), UNDEFINED)
OPERATION(MIN, x < y ? x : y, x != x || x < y ? x : y, (x & y))
OPERATION(MAX, x > y ? x : y, x != x || x > y ? x : y, x | y)
OPERATION(AND, (x & y), UNDEFINED, (x & y))
OPERATION(OR, x | y, UNDEFINED, x | y)
OPERATION(XOR, x ^ y, UNDEFINED, x ^ y)
OPERATION(SHL, (U)x << AMOUNT, UNDEFINED, UNDEFINED)
OPERATION(SHR, raw >> (64 - width) >> AMOUNT, UNDEFINED, UNDEFINED)
OPERATION(SAR, x >> AMOUNT, UNDEFINED, UNDEFINED)
OPERATION(FLOORDIV, floor_quotient((int64_t)x, (int64_t)y), UNDEFINED, UNDEFINED)
OPERATION(MOD, floor_rest((int64_t)x, (int64_t)y), UNDEFINED, UNDEFINED)
COMPARISON(EQ, x == y)
COMPARISON(NE, x != y)
COMPARISON(LT, x < y)
COMPARISON(LE, x <= y)
COMPARISON(GT, x > y)
COMPARISON(GE, x >= y)

OPERATION(FMA, UNDEFINED, MATH3(fma), UNDEFINED)
OPERATION(FUSED, UNDEFINED, MATH3(fma), UNDEFINED)

/* ---- operations that look at more than the dtype of their first operand ---- */

static union cell exec_CAST(const struct lp_instr *i, enum dtype t, union cell a, union cell b, union cell c)
{
    HOP_UNUSED(b);
    HOP_UNUSED(c);
    return cast(t, (enum dtype)i->dtype, a);
}

static union cell exec_BITCAST(const struct lp_instr *i, enum dtype t, union cell a, union cell b,
                               union cell c)
{
    HOP_UNUSED(i);
    HOP_UNUSED(t);
    HOP_UNUSED(b);
    HOP_UNUSED(c);
    return a;
}

static union cell exec_SELECT(const struct lp_instr *i, enum dtype t, union cell a, union cell b,
                              union cell c)
{
    HOP_UNUSED(i);
    HOP_UNUSED(t);
    return a.b ? b : c;
}

static union cell exec_FAR(const struct lp_instr *i, enum dtype t, union cell a, union cell b, union cell c)
{
    HOP_UNUSED(t);
    if (!a.b) return c;
    union cell r = { 0 };
    angle_far_lanes((int32_t)i->imm, i->dtype == DT_F64, 1, &b, &r);
    return r;
}

static union cell (*const pure[])(const struct lp_instr *, enum dtype, union cell, union cell, union cell) = {
#define PURE_LEAF(NAME)
#define PURE_PLACED(NAME)
#define PURE_PURE(NAME) [LP_##NAME] = exec_##NAME,
#define LP_OP(NAME, class, ...) PURE_##class(NAME)
#include "loop/lp.def"
};

static union cell fold(enum lp_fold f, enum dtype t, union cell x, union cell y)
{
    if (f == FOLD_LAST) return y;
    return pure[lp_fold_op(f)](NULL, t, x, y, (union cell){ 0 });
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

static union cell read_CONST(const struct executor *e, const struct lp_instr *i)
{
    HOP_UNUSED(e);
    return (union cell){ .bits = i->bits };
}

static union cell read_SYMBOL(const struct executor *e, const struct lp_instr *i)
{
    return (union cell){ .i64 = e->symbols[i->imm] };
}

static union cell read_VAR(const struct executor *e, const struct lp_instr *i)
{
    return (union cell){ .i64 = e->vars[i->imm] };
}

/* Leaves are read where they are used: a symbol may be set by the program, a variable changes. */
static union cell value_of(const struct executor *e, lpv v)
{
    static union cell (*const leaves[])(const struct executor *, const struct lp_instr *) = {
#define READ_LEAF(NAME) [LP_##NAME] = read_##NAME,
#define READ_PLACED(NAME)
#define READ_PURE(NAME)
#define LP_OP(NAME, class, ...) READ_##class(NAME)
#include "loop/lp.def"
    };
    const struct lp_instr *i = &e->p->instrs.data[v];
    return lp_class((enum lp_op)i->op) == LEAF ? leaves[i->op](e, i) : e->values[v];
}

static int64_t index_of(const struct executor *e, lpv v, int64_t absent)
{
    return v == LPV_NONE ? absent : value_of(e, v).i64;
}

/* The cells of a local: LP_STRICT_LANES, of which a scalar uses the first. */
static union cell *cells_of(const struct executor *e, uint32_t local)
{
    return e->locals + (size_t)local * LP_STRICT_LANES;
}

/* The one of this lane. */
static union cell *current_cell(const struct executor *e, uint32_t local)
{
    uint32_t lane = lp_has_lanes(e->p, local) ? e->lane : 0;
    return cells_of(e, local) + lane;
}

static union cell place_READ(struct executor *e, const struct lp_instr *i)
{
    return *current_cell(e, (uint32_t)i->imm);
}

static union cell place_LOAD(struct executor *e, const struct lp_instr *i)
{
    int64_t index = value_of(e, i->a).i64;
    const void *at = elements(e, (uint32_t)i->imm, index, 1, "load");
    return fetch(at, (enum dtype)i->dtype);
}

static union cell place_FOLD(struct executor *e, const struct lp_instr *i)
{
    union cell lanes[LP_STRICT_LANES];
    memcpy(lanes, cells_of(e, (uint32_t)i->imm), sizeof lanes);
    for (int half = LP_STRICT_LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            lanes[j] = fold((enum lp_fold)i->b, (enum dtype)i->dtype, lanes[j], lanes[j + half]);
    return lanes[0];
}

static union cell place_FIRST(struct executor *e, const struct lp_instr *i)
{
    enum dtype of = lp_dtype(e->p, i->a), t = (enum dtype)i->dtype;
    union cell best = value_of(e, i->a), none = { 0 }, least = { .i64 = INT64_MAX };
    const union cell *values = cells_of(e, (uint32_t)i->imm), *positions = cells_of(e, i->b);
    if (t == DT_I32) least.i32 = INT32_MAX;
    for (int j = 0; j < LP_STRICT_LANES; j++) {
        bool holds = pure[LP_EQ](NULL, of, values[j], best, none).b ||
                     pure[LP_NE](NULL, of, values[j], values[j], none).b;
        if (holds) least = fold(FOLD_MIN, t, least, positions[j]);
    }
    return least;
}

static union cell compute(struct executor *e, lpv v)
{
    static union cell (*const placed[])(struct executor *, const struct lp_instr *) = {
#define PLACE_LEAF(NAME)
#define PLACE_PLACED(NAME) [LP_##NAME] = place_##NAME,
#define PLACE_PURE(NAME)
#define LP_OP(NAME, class, ...) PLACE_##class(NAME)
#include "loop/lp.def"
    };
    const struct lp_instr *i = &e->p->instrs.data[v];
    const lpv operands[3] = { i->a, i->b, i->c };
    union cell given[3] = { 0 };
    enum lp_op op = (enum lp_op)i->op;
    if (lp_class(op) == LEAF) return value_of(e, v);
    if (lp_class(op) == PLACED) return placed[op](e, i);
    for (uint32_t k = 0; k < lp_arity(op); k++) given[k] = value_of(e, operands[k]);
    return pure[op](i, lp_dtype(e->p, i->a), given[0], given[1], given[2]);
}

/* ---- calls ---- */

/* What the host is shown: a copy, in the arena. */
static struct hop_rt_operand show_operand(struct executor *e, const struct lp_operand *o, struct arena *arena)
{
    int64_t *dims = ARENA_NEW(arena, int64_t, o->rank);
    int64_t count = 1;
    for (uint32_t d = 0; d < o->rank; d++) {
        dims[d] = value_of(e, o->dims[d]).i64;
        count *= dims[d];
    }
    struct hop_rt_operand shown = { .rank = (int32_t)o->rank, .dims = dims };
    if (o->buffer == HOP_NONE) {
        union cell x = value_of(e, o->value);
        shown.data = arena_copy(arena, &x, sizeof x);
        shown.dtype = lp_dtype(e->p, o->value);
        return shown;
    }
    enum dtype t = (enum dtype)e->p->buffers.data[o->buffer].dtype;
    void *at = elements(e, o->buffer, index_of(e, o->index, 0), count, "showing");
    shown.data = count ? arena_copy(arena, at, (size_t)count * dtype_info[t].size) : at;
    shown.dtype = t;
    return shown;
}

/* What the host says of it; only of a check_finite something else than 0 means that it failed. */
static int32_t tell_site(struct executor *e, const struct lp_call *c)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct hop_rt_operand *operands = ARENA_ZNEW(&arena, struct hop_rt_operand, c->n_operands);
    for (uint32_t k = 0; k < c->n_operands; k++) operands[k] = show_operand(e, &c->operands[k], &arena);
    int32_t site = (int32_t)c->site, n = (int32_t)c->n_operands, failed = 0;
    if (c->kind == CALL_CHECK) e->rt->check(e->rt, site, n, operands);
    else if (c->kind == CALL_FINITE) failed = e->rt->finite(e->rt, site, n, operands);
    else e->rt->print(e->rt, site, n, operands);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return failed;
}

/* How far apart the first and the last element of a view lie. */
static int64_t view_span(const struct hop_rt_operand *o)
{
    int64_t span = 1;
    for (int32_t d = 0; d < o->rank; d++) {
        if (!o->dims[d]) return 0;
        span += (o->dims[d] - 1) * o->strides[d];
    }
    return span;
}

static int64_t *values_of(struct executor *e, const lpv *list, uint32_t n, struct arena *arena)
{
    int64_t *values = ARENA_NEW(arena, int64_t, n + 1);
    for (uint32_t k = 0; k < n; k++) values[k] = value_of(e, list[k]).i64;
    return values;
}

/* What an operator is given: the program's own memory, scalars that it reads in the arena. */
static struct hop_rt_operand give_operand(struct executor *e, const struct lp_operand *o, struct arena *arena)
{
    if (o->use == OPERAND_ABSENT) return (struct hop_rt_operand){ .dtype = -1 };
    if (o->use == OPERAND_OBJECT)
        return (struct hop_rt_operand){ .data = (void *)(uintptr_t)value_of(e, o->value).i64,
                                        .dtype = DT_OBJECT };
    if (o->buffer == HOP_NONE) return show_operand(e, o, arena);
    struct hop_rt_operand given = { .rank = (int32_t)o->rank };
    given.dims = ARENA_NEW(arena, int64_t, 2 * (size_t)o->rank + 1);
    int64_t count = 1;
    given.dtype = e->p->buffers.data[o->buffer].dtype;
    for (uint32_t d = 0; d < o->rank; d++) {
        bool found = o->found && o->found[d] != HOP_NONE;
        given.dims[d] = found ? -1 : value_of(e, o->dims[d]).i64;
        given.dims[o->rank + 1 + d] = found ? (int64_t)o->found[d] : -1;
        count *= given.dims[d];
    }
    given.dims[o->rank] = o->buffer;
    if (o->use == OPERAND_FOUND) return given;
    if (o->strides) given.strides = values_of(e, o->strides, o->rank, arena);
    if (o->strides) count = view_span(&given);
    given.data = elements(e, o->buffer, index_of(e, o->index, 0), count, "an operator's array");
    return given;
}

/* The arrays that the operator found room for, which are there now. */
static void take_found(struct executor *e, const struct lp_call *c, const struct hop_rt_operand *operands)
{
    for (uint32_t k = 0; k < c->n_operands; k++) {
        if (c->operands[k].use != OPERAND_FOUND) continue;
        int64_t count = 1;
        for (int32_t d = 0; d < operands[k].rank; d++) count *= operands[k].dims[d];
        uint32_t buffer = c->operands[k].buffer;
        int64_t bytes = count * (int64_t)dtype_info[operands[k].dtype].size;
        e->buffers[buffer] = e->rt->reserve(e->rt, (int32_t)buffer, HOP_MAX(bytes, 1));
        e->counts[buffer] = HOP_MAX(count, e->counts[buffer]);
    }
}

static int32_t call_operator(struct executor *e, const struct lp_call *c)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct hop_rt_call call = { .site = (int32_t)c->site,
                                .lanes = (int32_t)c->lanes,
                                .n = (int32_t)c->n_operands,
                                .n_found = (int32_t)c->n_found };
    call.operands = ARENA_ZNEW(&arena, struct hop_rt_operand, c->n_operands);
    call.sizes = values_of(e, c->sizes, c->n_sizes, &arena);
    if (c->n_found) call.found = elements(e, c->target, 0, c->n_found, "sizes that are found");
    for (uint32_t k = 0; k < c->n_operands; k++) call.operands[k] = give_operand(e, &c->operands[k], &arena);
    int32_t status = e->rt->call(e->rt, &call) ? HOP_INVALID : HOP_OK;
    if (!status) take_found(e, c, call.operands);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return status;
}

static size_t element_bytes(const struct executor *e, uint32_t buffer)
{
    return dtype_info[e->p->buffers.data[buffer].dtype].size;
}

static int32_t reserve(struct executor *e, const struct lp_call *c)
{
    uint32_t buffer = c->target;
    int64_t want = value_of(e, c->index).i64;
    int64_t bytes;
    if (want <= e->counts[buffer] && e->buffers[buffer]) return HOP_OK;
    if (__builtin_mul_overflow(want, element_bytes(e, buffer), &bytes)) return HOP_NOMEM;
    void *at = e->rt->reserve(e->rt, (int32_t)buffer, bytes);
    if (!at) return HOP_NOMEM;
    e->buffers[buffer] = at;
    e->counts[buffer] = HOP_MAX(want, e->counts[buffer]);
    return HOP_OK;
}

/* The first element of matrices that lie in a buffer, all their rows checked; so far behind it is that of the
 * last one. */
static void *matrices(struct executor *e, uint32_t buffer, lpv at, int64_t rows, int64_t cols, int64_t ld,
                      int64_t last)
{
    int64_t count = rows && cols ? last + (rows - 1) * ld + cols : 0;
    return elements(e, buffer, index_of(e, at, 0), count, "product");
}

static void *panels(struct executor *e, uint32_t buffer, lpv at, int64_t n, int64_t k)
{
    enum dtype t = (enum dtype)e->p->buffers.data[buffer].dtype;
    return elements(e, buffer, index_of(e, at, 0), lp_panels_count(t, n, k), "panels");
}

static void pack(struct executor *e, const struct lp_call *c)
{
    int32_t dtype = e->p->buffers.data[c->gemm.b].dtype;
    struct hop_rt_gemm g = { .dtypes = HOP_RT_DTYPES(e->p->buffers.data[c->gemm.c].dtype, dtype, dtype),
                             .tb = c->gemm.tb,
                             .n = value_of(e, c->gemm.n).i64,
                             .k = value_of(e, c->gemm.k).i64,
                             .ldb = value_of(e, c->gemm.ldb).i64 };
    if (!g.n || !g.k) return;
    g.b = matrices(e, c->gemm.b, c->gemm.b_at, g.tb ? g.n : g.k, g.tb ? g.k : g.n, g.ldb, 0);
    g.c = panels(e, c->gemm.c, c->gemm.c_at, g.n, g.k);
    e->rt->pack(e->rt, &g);
}

static void gemm(struct executor *e, const struct lp_call *c)
{
    const struct lp_buffer *buffers = e->p->buffers.data;
    struct hop_rt_gemm g = { .dtypes = HOP_RT_DTYPES(buffers[c->gemm.c].dtype, buffers[c->gemm.a].dtype,
                                                     buffers[c->gemm.b].dtype),
                             .ta = c->gemm.ta,
                             .tb = c->gemm.tb,
                             .accumulate = c->gemm.accumulate,
                             .m = value_of(e, c->gemm.m).i64,
                             .n = value_of(e, c->gemm.n).i64,
                             .k = value_of(e, c->gemm.k).i64,
                             .lda = value_of(e, c->gemm.lda).i64,
                             .ldb = value_of(e, c->gemm.ldb).i64,
                             .ldc = value_of(e, c->gemm.ldc).i64,
                             .batch = 1 };
    if (c->gemm.batch != LPV_NONE) {
        g.batch = value_of(e, c->gemm.batch).i64;
        g.a_apart = value_of(e, c->gemm.a_apart).i64;
        g.b_apart = value_of(e, c->gemm.b_apart).i64;
        g.c_apart = value_of(e, c->gemm.c_apart).i64;
    }
    if (!g.m || !g.n || g.batch < 1) return;
    int64_t others = g.batch - 1;
    g.a = matrices(e, c->gemm.a, c->gemm.a_at, g.ta ? g.k : g.m, g.ta ? g.m : g.k, g.lda, others * g.a_apart);
    if (g.tb == HOP_RT_PANELS) g.b = panels(e, c->gemm.b, c->gemm.b_at, g.n, g.k);
    else
        g.b = matrices(e, c->gemm.b, c->gemm.b_at, g.tb ? g.n : g.k, g.tb ? g.k : g.n, g.ldb,
                       others * g.b_apart);
    g.c = matrices(e, c->gemm.c, c->gemm.c_at, g.m, g.n, g.ldc, others * g.c_apart);
    e->rt->gemm(e->rt, &g);
}

static void copy(struct executor *e, const struct lp_call *c)
{
    int64_t count = value_of(e, c->count).i64;
    void *to = elements(e, c->target, index_of(e, c->lo, 0), count, "copy to");
    const void *from = elements(e, c->source, index_of(e, c->index, 0), count, "copy");
    if (count) memmove(to, from, (size_t)count * element_bytes(e, c->target));
}

static void clear(struct executor *e, const struct lp_call *c)
{
    int64_t count = value_of(e, c->count).i64;
    void *to = elements(e, c->target, index_of(e, c->lo, 0), count, "clearing");
    if (count) memset(to, 0, (size_t)count * element_bytes(e, c->target));
}

static void drop(struct executor *e, const struct lp_call *c)
{
    int64_t count = value_of(e, c->count).i64;
    void *at = elements(e, c->target, index_of(e, c->lo, 0), count, "dropping");
    e->rt->drop(e->rt, at, (uint64_t)count * element_bytes(e, c->target), (int32_t)c->source);
}

static int32_t run_block(struct executor *e, const struct lp_block *block);
static struct executor *executor_for(const struct executor *from, const struct lp *p);

/* All of every array is read and written. */
static void convolve(struct executor *e, const struct lp_call *c)
{
    enum { MOST = sizeof(struct hop_rt_conv_numbers) + HOP_RT_CONV_SPACES * sizeof(struct hop_rt_space) };
    int64_t words[MOST / sizeof(int64_t)] = { 0 };
    for (uint32_t k = 0; k < c->n_sizes; k++) words[k] = value_of(e, c->sizes[k]).i64;
    const struct hop_rt_conv_numbers *v = (const struct hop_rt_conv_numbers *)words;
    uint32_t n = (uint32_t)((c->n_sizes * sizeof *words - sizeof *v) / sizeof *v->space);
    int64_t counts[3] = { v->batch * v->groups * v->channels, v->groups * v->out * v->channels,
                          v->batch * v->groups * v->out };
    for (uint32_t i = 0; i < n; i++) {
        counts[0] *= v->space[i].x_size;
        counts[1] *= v->space[i].taps;
        counts[2] *= v->space[i].results;
    }
    char *at[3];
    int32_t dtypes[3];
    if (!counts[2]) return;
    for (uint32_t k = 0; k < 3; k++) {
        const struct lp_operand *o = &c->operands[k];
        at[k] = elements(e, o->buffer, index_of(e, o->index, 0), counts[k], "an array of a convolution");
        dtypes[k] = e->p->buffers.data[o->buffer].dtype;
    }
    struct hop_rt_conv conv = { .dtypes = HOP_RT_DTYPES(dtypes[2], dtypes[0], dtypes[1]),
                                .n_spatial = (int32_t)n,
                                .x = at[0],
                                .w = at[1],
                                .y = at[2],
                                .numbers = v };
    e->rt->conv(e->rt, &conv);
}

/* How many elements an exchange reads and writes on this rank. */
static void exchanged(const struct hop_rt_exchange_numbers *x, int64_t *reads, int64_t *writes)
{
    int64_t lanes = x->sizes[x->axis], each = x->rows * x->size;
    bool gathers = x->kind == HOP_RT_ALL_GATHER, scatters = x->kind == HOP_RT_REDUCE_SCATTER;
    bool parts = x->kind == HOP_RT_ALL_TO_ALL;
    *reads = x->kind == HOP_RT_INDEX ? 0 : scatters || parts ? each * lanes : each;
    *writes = x->kind == HOP_RT_INDEX ? 1 : gathers || parts ? each * lanes : each;
}

static int32_t begin_exchange(struct executor *e, const struct lp_call *c)
{
    struct arena arena = { 0 };
    int64_t reads, writes;
    hop_cleanup_push(arena_free, &arena);
    const struct hop_rt_exchange_numbers *numbers = (const struct hop_rt_exchange_numbers *)
        values_of(e, c->sizes, c->n_sizes, &arena);
    const struct lp_operand *in = &c->operands[0], *out = &c->operands[1];
    exchanged(numbers, &reads, &writes);
    struct hop_rt_exchange x = { .dtype = e->p->buffers.data[out->buffer].dtype,
                                 .number = (int32_t)c->target,
                                 .numbers = numbers };
    if (in->buffer != HOP_NONE)
        x.in = elements(e, in->buffer, index_of(e, in->index, 0), reads, "what an exchange sends");
    x.out = elements(e, out->buffer, index_of(e, out->index, 0), writes, "what an exchange gives");
    int32_t status = e->rt->begin(e->rt, &x) ? HOP_INVALID : HOP_OK;
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return status;
}

static int32_t run_procedure(struct executor *e, const struct lp_call *c)
{
    struct executor **known = &e->procedures[c->target];
    if (!*known) *known = executor_for(e, e->program->procedures.data[c->target]);
    struct executor *callee = *known;
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        int64_t index = index_of(e, o->index, 0);
        callee->buffers[k] = address(e, o->buffer, index, callee->counts[k], "an array for a procedure");
    }
    return run_block(callee, callee->p->root);
}

static int32_t run_call(struct executor *e, const struct lp_call *c)
{
    switch ((enum lp_call_kind)c->kind) {
    case CALL_GEMM: gemm(e, c); return HOP_OK;
    case CALL_PACK: pack(e, c); return HOP_OK;
    case CALL_CHECK:
        if (value_of(e, c->value).b) return HOP_OK;
        tell_site(e, c);
        return HOP_CHECK;
    case CALL_FINITE: return value_of(e, c->value).b || !tell_site(e, c) ? HOP_OK : HOP_CHECK;
    case CALL_PRINT:
        if (c->mask == LPV_NONE || value_of(e, c->mask).b) tell_site(e, c);
        return HOP_OK;
    case CALL_CONV: convolve(e, c); return HOP_OK;
    case CALL_EXCHANGE: return begin_exchange(e, c);
    case CALL_WAIT: return e->rt->wait(e->rt, (int32_t)c->target) ? HOP_INVALID : HOP_OK;
    case CALL_OPERATOR: return call_operator(e, c);
    case CALL_RESERVE: return reserve(e, c);
    case CALL_SETDIM: e->symbols[c->target] = value_of(e, c->value).i64; return HOP_OK;
    case CALL_COPY: copy(e, c); return HOP_OK;
    case CALL_ZERO: clear(e, c); return HOP_OK;
    case CALL_DROP: drop(e, c); return HOP_OK;
    case CALL_PROCEDURE: return run_procedure(e, c);
    case CALL_MARK:
        __atomic_store_n(&e->rt->at[e->p->level], (int32_t)c->target, __ATOMIC_RELAXED);
        return HOP_OK;
    case CALL_COUNT: e->rt->counters[c->target] += (uint64_t)value_of(e, c->value).i64; return HOP_OK;
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
    int64_t lo = value_of(e, s->lo).i64;
    int64_t hi = value_of(e, s->hi).i64;
    int64_t step = index_of(e, s->step, 1);
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

static void set(struct executor *e, const struct lp_stmt *s)
{
    union cell x = value_of(e, s->value);
    union cell *cells = cells_of(e, s->target);
    uint32_t n = lp_has_lanes(e->p, s->target) ? LP_STRICT_LANES : 1;
    for (uint32_t k = 0; k < n; k++) cells[k] = x;
}

static void accumulate(struct executor *e, const struct lp_stmt *s)
{
    union cell x = value_of(e, s->value);
    union cell *cell = current_cell(e, s->target);
    enum dtype t = (enum dtype)e->p->locals.data[s->target].dtype;
    *cell = fold((enum lp_fold)s->mode, t, *cell, x);
}

static void store(struct executor *e, const struct lp_stmt *s)
{
    union cell x = value_of(e, s->value);
    int64_t index = value_of(e, s->index).i64;
    void *at = elements(e, s->target, index, 1, "store");
    memcpy(at, &x, element_bytes(e, s->target));
}

static int32_t run_some(struct executor *e, const struct lp_block *block, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        int32_t status = HOP_OK;
        switch ((enum lp_stmt_kind)s->kind) {
        case LP_LET: e->values[s->value] = compute(e, s->value); break;
        case LP_STORE: store(e, s); break;
        case LP_SET: set(e, s); break;
        case LP_ACCUM: accumulate(e, s); break;
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
    size_t bytes = (size_t)e->counts[b] * element_bytes(e, b);
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
    void *here = local ? cells_of(e, c->index) : &e->values[c->index];
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
