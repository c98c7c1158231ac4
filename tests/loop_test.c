/* Loop programs made by hand: what they compute in the reference executor, what the checker refuses, where
 * the planner puts temporaries, how they print. */
#include "check.h"
#include "loop/lp.h"
#include "ops/build.h"
#include "loop/rt.h"

#include <math.h>

static struct module *m;

/* A header without parameters; `symbols` outer symbols T0, T1, … with range 1..1000, and one bound by a node.
 */
static const struct fn *header(uint32_t symbols)
{
    struct fn *f = ARENA_ZNEW(&m->arena, struct fn, 1);
    f->n_outer_symbols = symbols;
    f->n_symbols = symbols + 1;
    f->symbols = ARENA_ZNEW(&m->arena, struct symbol, symbols + 1);
    for (uint32_t i = 0; i <= symbols; i++) {
        char name[8];
        int n = snprintf(name, sizeof name, "T%u", i);
        f->symbols[i] = (struct symbol){ module_string(m, name, (size_t)n),
                                         i < symbols ? SYMBOL_DIM : SYMBOL_NODE, 0, 1, 1000 };
    }
    return f;
}

static uint32_t static_buffer(struct lp *p, enum lp_buffer_kind kind, enum dtype t, int64_t count,
                              const char *name)
{
    return lp_buffer(p, (struct lp_buffer){ .kind = (uint8_t)kind,
                                            .dtype = (uint8_t)t,
                                            .index = kind == BUF_DYN ? HOP_NONE : 0,
                                            .count = dim_const(m, count),
                                            .static_count = count,
                                            .name = name });
}

static uint32_t symbolic_buffer(struct lp *p, enum lp_buffer_kind kind, enum dtype t, dim count,
                                const char *name)
{
    return lp_buffer(p, (struct lp_buffer){ .kind = (uint8_t)kind,
                                            .dtype = (uint8_t)t,
                                            .count = count,
                                            .static_count = -1,
                                            .name = name });
}

/* for (i < n) to[i] = from[i] + add */
static struct lp_stmt *copy_loop(struct lp *p, uint32_t from, uint32_t to, int64_t n, double add)
{
    lpv i = lp_for_begin(p, lp_index(p, 0), lp_index(p, n), lp_index(p, 1), FOR_VECTOR);
    lp_store(p, to, i, lp_bin(p, LP_ADD, lp_load(p, from, i), lp_real(p, DT_F32, add)));
    return lp_for_end(p);
}

static bool executes(struct lp *p, void **buffers, int64_t *symbols, int32_t want)
{
    struct hop_rt rt = { .buffers = buffers };
    lp_check(p);
    return lp_execute(p, &rt, buffers, symbols) == want;
}

/* ---- execution ---- */

static void test_elementwise(void *unused)
{
    (void)unused;
    struct lp *p = lp_new(m, header(1), true);
    hop_cleanup_push(lp_free, p);
    dim n = dim_symbol(m, 0);
    uint32_t x = symbolic_buffer(p, BUF_ARG, DT_F32, n, "x"),
             y = symbolic_buffer(p, BUF_RESULT, DT_F32, n, "y");
    lpv i = lp_for_begin(p, lp_index(p, 0), lp_symbol(p, 0), lp_index(p, 1), FOR_VECTOR);
    lp_store(p, y, i,
             lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, lp_load(p, x, i), lp_real(p, DT_F32, 3)),
                    lp_real(p, DT_F32, 1)));
    lp_for_end(p);
    float in[37], out[37];
    for (int k = 0; k < 37; k++) in[k] = (float)k;
    int64_t symbols[2] = { 37, 0 };
    CLAIM(executes(p, (void *[]){ in, out }, symbols, HOP_OK), "an elementwise loop runs");
    bool right = true;
    for (int k = 0; k < 37; k++) right &= out[k] == 3 * (float)k + 1;
    CLAIM(right, "y = 3x + 1");
    hop_cleanup_pop(p);
    lp_free(p);
}

/* A row sum in strict mode: 16 lanes, then a tree. */
static void test_lanes(void *unused)
{
    (void)unused;
    struct lp *p = lp_new(m, header(0), true);
    hop_cleanup_push(lp_free, p);
    enum { N = 53 };
    uint32_t x = static_buffer(p, BUF_ARG, DT_F32, N, "x"), y = static_buffer(p, BUF_RESULT, DT_F32, 1, "y"),
             sum = lp_local(p, DT_F32, LOCAL_LANES, "sum");
    lp_set(p, sum, lp_real(p, DT_F32, 0));
    lpv i = lp_for_begin(p, lp_index(p, 0), lp_index(p, N), lp_index(p, 1), FOR_VECTOR);
    lp_accum(p, sum, FOLD_SUM, lp_load(p, x, i));
    lp_for_end(p);
    lp_store(p, y, lp_index(p, 0), lp_fold_lanes(p, sum, FOLD_SUM));
    float in[N], out = 0, lanes[16] = { 0 };
    for (int k = 0; k < N; k++) in[k] = sinf((float)k) * 1e3f, lanes[k % 16] += in[k];
    for (int w = 8; w; w /= 2)
        for (int j = 0; j < w; j++) lanes[j] += lanes[j + w];
    CLAIM(executes(p, (void *[]){ in, &out }, (int64_t[]){ 0 }, HOP_OK) && out == lanes[0],
          "16 lanes and a tree: %.9g, expected %.9g", out, lanes[0]);
    hop_cleanup_pop(p);
    lp_free(p);
}

struct scalar_case {
    enum lp_op op;
    enum dtype t, to;
    double a, b, want;
};

/* Operations on scalars in the corners of their domains; i64 values here fit in a double. */
static const struct scalar_case scalar_cases[] = {
    { LP_DIV, DT_I32, DT_I32, 7, 0, 0 },
    { LP_REM, DT_I32, DT_I32, 7, 0, 7 },
    { LP_DIV, DT_I32, DT_I32, INT32_MIN, -1, INT32_MIN },
    { LP_REM, DT_I32, DT_I32, INT32_MIN, -1, 0 },
    { LP_DIV, DT_I64, DT_I64, -7, 2, -3 },
    { LP_REM, DT_I64, DT_I64, -7, 2, -1 },
    { LP_DIV, DT_U32, DT_U32, 4294967295.0, 2, 2147483647.0 },
    { LP_ADD, DT_I32, DT_I32, INT32_MAX, 1, INT32_MIN },
    { LP_MUL, DT_U32, DT_U32, 65536, 65537, 65536 },
    { LP_SUB, DT_U32, DT_U32, 0, 1, 4294967295.0 },
    { LP_MAX, DT_F32, DT_F32, NAN, 1, NAN },
    { LP_MAX, DT_F32, DT_F32, 1, NAN, NAN },
    { LP_MIN, DT_F64, DT_F64, NAN, 1, NAN },
    { LP_MIN, DT_F64, DT_F64, 1, NAN, NAN },
    { LP_MAX, DT_F32, DT_F32, -INFINITY, -1, -1 },
    { LP_REM, DT_F32, DT_F32, -7.5, 2, -1.5 },
    { LP_REM, DT_F64, DT_F64, 7.5, -2, 1.5 },
    { LP_CAST, DT_F32, DT_I32, 3e9, 0, INT32_MAX },
    { LP_CAST, DT_F32, DT_I32, -3e9, 0, INT32_MIN },
    { LP_CAST, DT_F32, DT_I32, NAN, 0, 0 },
    { LP_CAST, DT_F64, DT_U32, -1, 0, 0 },
    { LP_CAST, DT_F64, DT_U32, 5e9, 0, 4294967295.0 },
    { LP_CAST, DT_F32, DT_I32, -1.9, 0, -1 },
    { LP_CAST, DT_F32, DT_BOOL, NAN, 0, 1 },
    { LP_CAST, DT_F32, DT_BOOL, -0.0, 0, 0 },
    { LP_CAST, DT_I32, DT_U32, -1, 0, 4294967295.0 },
    { LP_CAST, DT_U32, DT_F32, 4294967295.0, 0, 4294967296.0 },
    { LP_SHR, DT_I32, DT_I32, -1, 31, 1 },
    { LP_SAR, DT_I32, DT_I32, -8, 2, -2 },
    { LP_SHL, DT_U32, DT_U32, 3, 31, 2147483648.0 },
    { LP_FLOORDIV, DT_I64, DT_I64, -1, 3, -1 },
    { LP_MOD, DT_I64, DT_I64, -1, 3, 2 },
    { LP_NOT, DT_I32, DT_I32, 0, 0, -1 },
    { LP_NEG, DT_I32, DT_I32, INT32_MIN, 0, INT32_MIN },
    { LP_ABS, DT_I64, DT_I64, -5, 0, 5 },
    { LP_FLOOR, DT_F32, DT_F32, -0.5, 0, -1 },
    { LP_LT, DT_F32, DT_BOOL, NAN, 1, 0 },
    { LP_NE, DT_F32, DT_BOOL, NAN, NAN, 1 },
    { LP_XOR, DT_BOOL, DT_BOOL, 1, 1, 0 },
    { LP_SQRT, DT_F64, DT_F64, -1, 0, NAN },
};

static void put(void *at, enum dtype t, double v)
{
    switch (t) {
    case DT_BOOL: *(uint8_t *)at = v != 0; break;
    case DT_I32: *(int32_t *)at = (int32_t)v; break;
    case DT_I64: *(int64_t *)at = (int64_t)v; break;
    case DT_U32: *(uint32_t *)at = (uint32_t)v; break;
    case DT_F32: *(float *)at = (float)v; break;
    default: *(double *)at = v; break;
    }
}

static double get(const void *at, enum dtype t)
{
    switch (t) {
    case DT_BOOL: return *(const uint8_t *)at;
    case DT_I32: return *(const int32_t *)at;
    case DT_I64: return (double)*(const int64_t *)at;
    case DT_U32: return *(const uint32_t *)at;
    case DT_F32: return *(const float *)at;
    default: return *(const double *)at;
    }
}

static void test_scalars(void *unused)
{
    (void)unused;
    for (size_t k = 0; k < HOP_COUNT(scalar_cases); k++) {
        struct scalar_case c = scalar_cases[k];
        struct lp *p = lp_new(m, header(0), true);
        hop_cleanup_push(lp_free, p);
        uint32_t x = static_buffer(p, BUF_ARG, c.t, 2, "x"), y = static_buffer(p, BUF_RESULT, c.to, 1, "y");
        lpv a = lp_load(p, x, lp_index(p, 0)), b = lp_load(p, x, lp_index(p, 1));
        lpv r = c.op == LP_CAST      ? lp_cast(p, c.to, a)
                : c.op <= LP_BITCAST ? lp_un(p, c.op, a)
                                     : lp_bin(p, c.op, a, b);
        lp_store(p, y, lp_index(p, 0), r);
        char in[16], out[8];
        put(in, c.t, c.a);
        put(in + dtype_info[c.t].size, c.t, c.b);
        bool ran = executes(p, (void *[]){ in, out }, (int64_t[]){ 0 }, HOP_OK);
        double got = get(out, c.to);
        CLAIM(ran && (got == c.want || (isnan(got) && isnan(c.want))),
              "case %zu: operation %d on %s of %g, %g gives %.17g, expected %.17g", k, c.op,
              dtype_info[c.t].name, c.a, c.b, got, c.want);
        hop_cleanup_pop(p);
        lp_free(p);
    }
}

/* i = 0; while (i < 5) { i = i + 1 }; symbol 0 := i */
static void test_while(void *unused)
{
    (void)unused;
    struct lp *p = lp_new(m, header(0), true);
    hop_cleanup_push(lp_free, p);
    uint32_t i = lp_local(p, DT_I64, LOCAL_SCALAR, "i");
    lp_set(p, i, lp_index(p, 0));
    lp_while_begin(p);
    lp_while_body(p, lp_bin(p, LP_LT, lp_read(p, i), lp_index(p, 5)));
    lp_set(p, i, lp_bin(p, LP_ADD, lp_read(p, i), lp_index(p, 1)));
    lp_while_end(p);
    lp_add_call(p, (struct lp_call){ .kind = CALL_SETDIM, .target = 0, .value = lp_read(p, i) });
    int64_t symbols[1] = { 0 };
    CLAIM(executes(p, NULL, symbols, HOP_OK) && symbols[0] == 5, "a while loop counts to 5, found %lld",
          (long long)symbols[0]);
    volatile int32_t cancel = 1;
    struct hop_rt rt = { .cancel = &cancel };
    CLAIM(lp_execute(p, &rt, NULL, symbols) == HOP_CANCELLED, "a cancelled loop ends");
    hop_cleanup_pop(p);
    lp_free(p);
}

/* ---- the checker ---- */

enum bad {
    BAD_ARGUMENT,
    BAD_INDEX,
    BAD_DTYPE,
    BAD_SCOPE,
    BAD_RACE,
    BAD_NESTED_VECTORS,
    BAD_LANES,
    BAD_UNWRITTEN,
    BAD_UNSET,
    BAD_CALL,
    BAD_COUNT
};
static const char *const bad_says[BAD_COUNT] = { "argument",
                                                 "elements",
                                                 "not",
                                                 "not visible",
                                                 "parallel",
                                                 "inside a vector loop",
                                                 "lanes",
                                                 "nothing writes",
                                                 "nothing was put into",
                                                 "inside a vector loop" };

static void make_bad(struct lp *p, enum bad kind)
{
    uint32_t x = static_buffer(p, BUF_ARG, DT_F32, 8, "x"), y = static_buffer(p, BUF_RESULT, DT_F32, 8, "y");
    uint32_t lanes = lp_local(p, DT_F32, LOCAL_LANES, "lanes");
    lpv zero = lp_index(p, 0), one = lp_index(p, 1), eight = lp_index(p, 8), i,
        half = lp_real(p, DT_F32, 0.5), v;
    switch (kind) {
    case BAD_ARGUMENT: lp_store(p, x, zero, half); break;
    case BAD_INDEX: lp_store(p, y, eight, half); break;
    case BAD_DTYPE: lp_store(p, y, zero, lp_real(p, DT_F64, 0.5)); break;
    case BAD_SCOPE:
        i = lp_for_begin(p, zero, eight, one, FOR_SERIAL);
        v = lp_load(p, x, i);
        lp_for_end(p);
        lp_store(p, y, zero, v);
        break;
    case BAD_RACE:
        i = lp_for_begin(p, zero, eight, one, FOR_PARALLEL);
        lp_store(p, y, zero, lp_load(p, x, i));
        lp_for_end(p);
        break;
    case BAD_NESTED_VECTORS:
        lp_for_begin(p, zero, one, one, FOR_VECTOR);
        copy_loop(p, x, y, 8, 1);
        lp_for_end(p);
        break;
    case BAD_UNWRITTEN:
        lp_store(p, y, zero, lp_load(p, static_buffer(p, BUF_TEMP, DT_F32, 1, "t"), zero));
        break;
    case BAD_UNSET: lp_store(p, y, zero, lp_read(p, lp_local(p, DT_F32, LOCAL_SCALAR, "l"))); break;
    case BAD_LANES:
        lp_set(p, lanes, half);
        lp_accum(p, lanes, FOLD_SUM, half);
        break;
    default:
        lp_for_begin(p, zero, eight, one, FOR_VECTOR);
        lp_add_call(p, (struct lp_call){ .kind = CALL_ZERO, .target = y, .lo = zero, .count = eight });
        lp_for_end(p);
        break;
    }
}

static void check_bad(void *kind)
{
    struct lp *p = lp_new(m, header(0), true);
    hop_cleanup_push(lp_free, p);
    make_bad(p, *(enum bad *)kind);
    lp_check(p);
    hop_cleanup_pop(p);
    lp_free(p);
}

static void test_checker(void *unused)
{
    (void)unused;
    for (enum bad k = 0; k < BAD_COUNT; k++) {
        hop_status status = attempt(check_bad, &k);
        CLAIM(status == HOP_INTERNAL && strstr(hop_message(), bad_says[k]),
              "bad program %d: status %d, \"%s\" does not say \"%s\"", k, status, hop_message(), bad_says[k]);
    }
}

static void run_outside(void *unused)
{
    (void)unused;
    struct lp *p = lp_new(m, header(1), true);
    hop_cleanup_push(lp_free, p);
    uint32_t y = static_buffer(p, BUF_RESULT, DT_F32, 8, "y");
    lp_store(p, y, lp_symbol(p, 0), lp_real(p, DT_F32, 1)); /* in range for small T0 only */
    float out[8];
    executes(p, (void *[]){ out }, (int64_t[]){ 9, 0 }, HOP_OK);
}

/* ---- the planner ---- */

static void test_plan_chain(void *unused)
{
    (void)unused;
    for (int own = 0; own < 2; own++) {
        struct lp *p = lp_new(m, header(0), true);
        hop_cleanup_push(lp_free, p);
        uint32_t x = static_buffer(p, BUF_ARG, DT_F32, 100, "x"),
                 y = static_buffer(p, BUF_RESULT, DT_F32, 100, "y"), t[4];
        for (int k = 0; k < 4; k++) t[k] = static_buffer(p, BUF_TEMP, DT_F32, 100, "t");
        copy_loop(p, x, t[0], 100, 1);
        for (int k = 0; k < 3; k++) copy_loop(p, t[k], t[k + 1], 100, 1);
        copy_loop(p, t[3], y, 100, 1);
        p->own_memory = own;
        lp_plan(p);
        const struct lp_buffer *b = p->buffers.data;
        CLAIM(p->arena_static && p->arena_size == (own ? 4 : 2) * 448,
              "a chain needs two buffers: %lld bytes", (long long)p->arena_size);
        for (int k = 0; k < 3; k++)
            CLAIM(b[t[k]].offset != b[t[k + 1]].offset, "neighbours in a chain are apart");
        float in[100], out[100];
        char *arena = arena_alloc(&p->arena, (size_t)p->arena_size);
        for (int k = 0; k < 100; k++) in[k] = (float)k;
        void *buffers[6] = { in, out };
        for (int k = 0; k < 4; k++) buffers[t[k]] = arena + b[t[k]].offset;
        CLAIM(executes(p, buffers, (int64_t[]){ 0 }, HOP_OK) && out[99] == 104 && out[0] == 5,
              "the chain computes x + 5");
        hop_cleanup_pop(p);
        lp_free(p);
    }
}

/* c is a carry, a a temporary of the body, d another one after it: a and d may share, c may not. */
static void test_plan_loop(void *unused)
{
    (void)unused;
    struct lp *p = lp_new(m, header(0), true);
    hop_cleanup_push(lp_free, p);
    uint32_t x = static_buffer(p, BUF_ARG, DT_F32, 64, "x"),
             y = static_buffer(p, BUF_RESULT, DT_F32, 64, "y");
    uint32_t c = static_buffer(p, BUF_TEMP, DT_F32, 64, "c"), a = static_buffer(p, BUF_TEMP, DT_F32, 64, "a"),
             d = static_buffer(p, BUF_TEMP, DT_F32, 64, "d");
    uint32_t inner = static_buffer(p, BUF_TEMP, DT_F32, 64, "inner"),
             row = static_buffer(p, BUF_TEMP, DT_F32, 640, "row");
    copy_loop(p, x, inner, 64, 0);
    copy_loop(p, inner, c, 64, 0);
    lpv t = lp_for_begin(p, lp_index(p, 0), lp_index(p, 10), lp_index(p, 1), FOR_SERIAL);
    copy_loop(p, c, a, 64, 1);
    copy_loop(p, a, d, 64, 1);
    lp_store(p, row, lp_bin(p, LP_MUL, t, lp_index(p, 64)),
             lp_load(p, d, lp_index(p, 0))); /* a stacked value that only the loop reads */
    copy_loop(p, d, c, 64, 1);
    lp_for_end(p);
    copy_loop(p, c, y, 64, 0);
    lp_plan(p);
    const struct lp_buffer *b = p->buffers.data;
    CLAIM(b[c].first < b[a].first && b[c].last > b[d].last, "a carry lives throughout the loop");
    CLAIM(b[a].offset != b[d].offset && b[a].offset != b[c].offset && b[d].offset != b[c].offset,
          "carry and temporaries are apart");
    CLAIM(b[inner].offset != b[c].offset, "a source and its copy are apart");
    CLAIM(b[row].first < b[a].first && b[row].last > b[d].last,
          "what is written at the step's index lives throughout the loop");
    CLAIM(p->arena_size == 256 * 3 + 2560,
          "the source before the loop shares with the loop's temporaries: %lld bytes",
          (long long)p->arena_size);
    hop_cleanup_pop(p);
    lp_free(p);
}

static void test_plan_symbolic(void *unused)
{
    (void)unused;
    struct lp *p = lp_new(m, header(2), true);
    hop_cleanup_push(lp_free, p);
    dim n = dim_symbol(m, 0), k = dim_symbol(m, 1), n2 = dim_mul(m, n, dim_const(m, 2));
    uint32_t x = static_buffer(p, BUF_ARG, DT_F32, 1, "x"),
             t[3] = { symbolic_buffer(p, BUF_TEMP, DT_F32, n, "t0"),
                      symbolic_buffer(p, BUF_TEMP, DT_F32, k, "t1"),
                      symbolic_buffer(p, BUF_TEMP, DT_F32, n2, "t2") };
    copy_loop(p, x, t[0], 1, 0);
    copy_loop(p, t[0], t[1], 1, 0);
    copy_loop(p, t[1], t[2], 1, 0);
    lp_plan(p);
    const struct lp_buffer *b = p->buffers.data;
    CLAIM(!p->arena_static && p->slot_size.len == 2 && b[t[0]].slot == b[t[2]].slot &&
              b[t[1]].slot != b[t[0]].slot,
          "two slots for a chain of three symbolic sizes");
    CLAIM(p->slot_size.data[b[t[0]].slot] == dim_mul(m, n, dim_const(m, 8)),
          "a slot is as large as the largest of its buffers");
    hop_cleanup_pop(p);
    lp_free(p);
}

/* An index made of sixty numbers, each of the one before it twice: whoever asks what it depends on looks at
 * each once, or does not come back. */
static void test_plan_many_paths(void *unused)
{
    (void)unused;
    struct lp *p = lp_new(m, header(0), true);
    hop_cleanup_push(lp_free, p);
    uint32_t y = static_buffer(p, BUF_RESULT, DT_F64, 4, "y"), t = static_buffer(p, BUF_TEMP, DT_F64, 4, "t");
    lpv x = lp_real(p, DT_F64, 0.25);
    for (int k = 0; k < 60; k++) x = lp_bin(p, LP_ADD, lp_un(p, LP_SQRT, x), lp_un(p, LP_NEG, x));
    lpv at = lp_bin(p, LP_MIN, lp_bin(p, LP_MAX, lp_cast(p, DT_I64, x), lp_index(p, 0)), lp_index(p, 3));
    lpv i = lp_for_begin(p, lp_index(p, 0), lp_index(p, 4), lp_index(p, 1), FOR_SERIAL);
    lp_store(p, t, at, lp_real(p, DT_F64, 7));
    lp_store(p, y, i, lp_load(p, t, at));
    lp_for_end(p);
    lp_plan(p);
    double out[4] = { 0 }, temp[4];
    CLAIM(executes(p, (void *[]){ out, temp }, (int64_t[]){ 0 }, HOP_OK) && out[3] == 7,
          "the planner and the checker come back");
    hop_cleanup_pop(p);
    lp_free(p);
}

/* ---- the printer ---- */

static void test_print(void *unused)
{
    (void)unused;
    struct lp *p = lp_new(m, header(1), true);
    hop_cleanup_push(lp_free, p);
    uint32_t x = symbolic_buffer(p, BUF_ARG, DT_F32, dim_symbol(m, 0), "x"),
             y = symbolic_buffer(p, BUF_RESULT, DT_F32, dim_symbol(m, 0), "y");
    lpv i = lp_for_begin(p, lp_index(p, 0), lp_symbol(p, 0), lp_index(p, 1), FOR_VECTOR);
    lp_store(p, y, i, lp_un(p, LP_SQRT, lp_load(p, x, i)));
    lp_for_end(p)->note = "roots";
    struct text out = { .arena = &p->arena };
    lp_print(p, &out);
    static const char want[] = "f32 x[T0];  /* argument 0 */\nf32 y[T0];  /* result 0 */\n{\n  /* roots */\n "
                               " for (i = 0; i < T0; i++) vector {\n    f32 v4 = x[i];\n"
                               "    y[i] = sqrt(v4);\n  }\n}\n";
    CLAIM(!strcmp(out.data, want), "printed:\n%s\nexpected:\n%s", out.data, want);
    hop_cleanup_pop(p);
    lp_free(p);
}

int main(void)
{
    static void (*const tests[])(
        void *) = { test_elementwise, test_lanes,     test_scalars,       test_while,           test_checker,
                    test_plan_chain,  test_plan_loop, test_plan_symbolic, test_plan_many_paths, test_print };
    int64_t live = hop_live_allocations();
    m = module_new();
    for (size_t i = 0; i < HOP_COUNT(tests); i++) {
        hop_status status = attempt(tests[i], NULL);
        CLAIM(status == HOP_OK, "test %zu threw: %s", i, hop_message());
    }
    CLAIM(attempt(run_outside, NULL) == HOP_INTERNAL && strstr(hop_message(), "y at 9"),
          "the executor refuses an access outside: %s", hop_message());
    module_free(m);
    CLAIM(hop_live_allocations() == live, "nothing leaks: %lld blocks",
          (long long)(hop_live_allocations() - live));
    return tests_end();
}
