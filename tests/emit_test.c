/* The LLVM back end on loop programs made by hand: each program runs in the reference executor and as native
 * code (vector and scalar, parallel and serial), and every buffer, status, check and print must agree; in
 * strict mode bit for bit. Some results are held against plain C as well. Usage: emit_test [libhop_llvm.so];
 * HOP_FUZZ=N draws N programs at random. */
#include "ir/number.h"
#include "check.h"
#include "emit/emit.h"
#include "ops/build.h"
#include "loop/rt.h"
#include "runtime/worker.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <time.h>

static struct module *m;
static const struct code_generator *backend;

/* ---- programs ---- */

static const struct fn *header(uint32_t symbols)
{
    struct fn *f = ARENA_ZNEW(&m->arena, struct fn, 1);
    f->n_outer_symbols = f->n_symbols = symbols;
    f->symbols = ARENA_ZNEW(&m->arena, struct symbol, symbols + 1);
    for (uint32_t i = 0; i < symbols; i++)
        f->symbols[i] = (struct symbol){ module_string(m, "T", 1), SYMBOL_DIM, 0, 0, 1 << 20 };
    return f;
}

static uint32_t buffer(struct lp *p, enum lp_buffer_kind kind, enum dtype t, int64_t count, const char *name)
{
    return lp_buffer(p, (struct lp_buffer){ .kind = (uint8_t)kind,
                                            .dtype = (uint8_t)t,
                                            .index = kind == BUF_DYN ? HOP_NONE : 0,
                                            .count = dim_const(m, count),
                                            .static_count = count,
                                            .name = name });
}
static lpv idx(struct lp *p, int64_t v) { return lp_index(p, v); }
static lpv begin(struct lp *p, lpv lo, lpv hi, enum lp_for_kind kind)
{
    return lp_for_begin(p, lo, hi, idx(p, 1), kind);
}
static lpv f32(struct lp *p, double v) { return lp_real(p, DT_F32, v); }
static lpv add(struct lp *p, lpv a, lpv b) { return lp_bin(p, LP_ADD, a, b); }
static lpv mul(struct lp *p, lpv a, lpv b) { return lp_bin(p, LP_MUL, a, b); }

/* ---- the runtime's table as the tests see it ---- */

struct world {
    struct hop_rt rt; /* first: native code gets its address */
    void *blocks[96];
    char *buffers[96];
    int64_t symbols[8];
    char log[4096]; /* of checks and prints */
    uint32_t pieces, reserves;
};

static void world_log(struct hop_rt *rt, const char *word, int32_t site, int32_t n,
                      const struct hop_rt_operand *o)
{
    struct world *w = (struct world *)rt;
    size_t at = strlen(w->log);
    at += (size_t)snprintf(w->log + at, sizeof w->log - at, "%s %d:", word, site);
    for (int32_t k = 0; k < n && at < sizeof w->log - 200; k++) {
        int64_t count = 1;
        at += (size_t)snprintf(w->log + at, sizeof w->log - at, " %s[", dtype_info[o[k].dtype].name);
        for (int32_t d = 0; d < o[k].rank; d++)
            count *= o[k].dims[d],
                at += (size_t)snprintf(w->log + at, sizeof w->log - at, "%lld,", (long long)o[k].dims[d]);
        at += (size_t)snprintf(w->log + at, sizeof w->log - at, "]=");
        for (int64_t i = 0; i < count * dtype_info[o[k].dtype].size && i < 32; i++)
            at += (size_t)snprintf(w->log + at, sizeof w->log - at, "%02x", ((const uint8_t *)o[k].data)[i]);
    }
    snprintf(w->log + at, sizeof w->log - at, "\n");
}
static void world_check(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *o)
{
    world_log(rt, "check", site, n, o);
}
static void world_print(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *o)
{
    world_log(rt, "print", site, n, o);
}

static void *world_reserve(struct hop_rt *rt, int32_t b, int64_t bytes)
{
    struct world *w = (struct world *)rt;
    w->reserves++;
    if (bytes > 1 << 22) return NULL;
    w->blocks[b] = realloc(w->blocks[b], (size_t)bytes + 1);
    return w->buffers[b] = w->blocks[b];
}

/* Where an element of the right operand is; panels are its columns one after the other. */
static int64_t right(const struct hop_rt_gemm *g, int64_t col, int64_t depth)
{
    if (g->tb == HOP_RT_PANELS) return col * g->k + depth;
    return g->tb ? col * g->ldb + depth : depth * g->ldb + col;
}

static void world_pack(struct hop_rt *rt, const struct hop_rt_gemm *g)
{
    (void)rt;
    if (g->dtypes != HOP_RT_DTYPES(DT_F32, DT_F32, DT_F32)) return;
    for (int64_t j = 0; j < g->n; j++)
        for (int64_t k = 0; k < g->k; k++)
            ((float *)g->c)[j * g->k + k] = ((const float *)g->b)[right(g, j, k)];
}

static void world_gemm(struct hop_rt *rt, const struct hop_rt_gemm *g)
{
    (void)rt;
    if (g->dtypes != HOP_RT_DTYPES(DT_F32, DT_F32, DT_F32)) return;
    for (int64_t at = 0; at < g->batch; at++) {
        const float *x = (const float *)g->a + at * g->a_apart, *y = (const float *)g->b + at * g->b_apart;
        float *z = (float *)g->c + at * g->c_apart;
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                float sum = g->accumulate ? z[i * g->ldc + j] : 0;
                for (int64_t k = 0; k < g->k; k++)
                    sum += x[g->ta ? k * g->lda + i : i * g->lda + k] * y[right(g, j, k)];
                z[i * g->ldc + j] = sum;
            }
    }
}

/* Pieces in descending order, so that a wrong claim of independence shows. */
static int32_t world_parallel(struct hop_rt *rt, int32_t (*body)(struct hop_rt *, void *, int64_t, int64_t),
                              void *env, int64_t n, int64_t grain)
{
    struct world *w = (struct world *)rt;
    int64_t piece = (n + 2) / 3;
    CLAIM(grain && n > grain, "a parallel region is told a grain (%lld of %lld)", (long long)grain,
          (long long)n);
    for (int64_t hi = n; hi > 0; hi -= piece) {
        int32_t status = body(rt, env, HOP_MAX(hi - piece, 0), hi);
        w->pieces++;
        if (status) return status;
    }
    return 0;
}

enum { GUARD = 256 };
static uint64_t random_state = 88172645463325252u;
static uint64_t random_bits(void)
{
    return random_state ^= random_state << 13, random_state ^= random_state >> 7,
           random_state ^= random_state << 17;
}

static bool tame; /* no huge numbers, infinities or NaN: sums in another order stay close */

/* A number of f16 or bf16, halfway between two, or beside that. */
static double near_tie(uint64_t r)
{
    static const int32_t offsets[] = { 0, 0x1000, 0xfff, 0x1001, 0x8000, 0x7fff, 0x8001, 1 };
    float x = r & 1 ? f16_to_f32((uint16_t)(r >> 8)) : bf16_to_f32((uint16_t)(r >> 8));
    x = f32_of_bits(f32_bits(x) + (uint32_t)offsets[r >> 1 & 7]);
    return r >> 4 & 1 ? (double)x : nextafter((double)x, r >> 5 & 1 ? INFINITY : -INFINITY);
}

static void fill(void *to, enum dtype t, int64_t count)
{
    static const double special[] = { 0,    -0.0,  1,   -1,   0.5,  -2.5,  INFINITY,     -INFINITY,     NAN,
                                      1e30, -1e30, 3e9, -3e9, 1e19, -1e19, 2147483648.0, -2147483649.0, 7,
                                      1e-40 };
    static const int64_t whole[] = {
        0, 1, -1, 2, 7, -7, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 100, 31
    };
    for (int64_t i = 0; i < count; i++) {
        uint64_t r = random_bits();
        if (!tame && (r & 0x30) == 0x30 && dtype_is_float(t)) {
            element_set_real(t, (char *)to + i * (int64_t)dtype_info[t].size, near_tie(r >> 8));
            continue;
        }
        double x = r % 4 || tame ? (double)(int64_t)(r >> 20) / (double)(1ull << 42) * 8 - 4
                                 : special[(r >> 8) % HOP_COUNT(special)];
        int64_t k = r % 2 ? (int64_t)(r >> 30) % 41 - 20 : whole[(r >> 8) % HOP_COUNT(whole)];
        void *at = (char *)to + i * (int64_t)dtype_info[t].size;
        if (t == DT_BOOL) ((uint8_t *)to)[i] = r >> 9 & 1;
        else if (dtype_is_narrow(t) && !tame) ((uint16_t *)to)[i] = (uint16_t)(r >> 9);
        else if (dtype_is_float(t)) element_set_real(t, at, x);
        else element_set_whole(t, at, r % 8 == 1 ? (int64_t)random_bits() >> r % 61 : k);
    }
}

/* Arguments begin at an odd element, so nothing may count on more than the element's alignment. */
static void world_make(struct world *w, const struct lp *p, const int64_t *symbols)
{
    *w = (struct world){ .rt = { .gemm = world_gemm,
                                 .pack = world_pack,
                                 .reserve = world_reserve,
                                 .check = world_check,
                                 .print = world_print,
                                 .parallel = world_parallel,
                                 .copy = memmove,
                                 .zero = memset,
                                 .fmod = fmod,
                                 .fmodf = fmodf } };
    w->rt.buffers = (void **)w->buffers;
    random_state = 88172645463325252u;
    for (int i = 0; symbols && i < 8; i++) w->symbols[i] = symbols[i];
    for (uint32_t b = 0; b < p->buffers.len; b++) {
        const struct lp_buffer *x = &p->buffers.data[b];
        if (x->kind == BUF_LOCAL || x->kind == BUF_DYN) continue;
        size_t size = dtype_info[x->dtype].size, bytes = (size_t)x->static_count * size;
        char *block = aligned_alloc(64, (bytes + 64 + GUARD + 63) / 64 * 64);
        memset(block, 0x5a, (bytes + 64 + GUARD + 63) / 64 * 64);
        w->blocks[b] = block;
        w->buffers[b] = block + (x->kind == BUF_TEMP ? 0 : size);
        if (x->kind == BUF_ARG || x->kind == BUF_CONST)
            fill(w->buffers[b], (enum dtype)x->dtype, x->static_count);
    }
}
static void world_free(struct world *w)
{
    for (size_t b = 0; b < HOP_COUNT(w->blocks); b++) free(w->blocks[b]);
}

/* Equal bits, any two NaNs, or (in default mode) close. */
static bool close_enough(const void *x, const void *y, enum dtype t, int64_t i, double within)
{
    size_t size = dtype_info[t].size;
    if (!memcmp((const char *)x + i * (int64_t)size, (const char *)y + i * (int64_t)size, size)) return true;
    double a = element_real(t, (const char *)x + i * (int64_t)size),
           b = element_real(t, (const char *)y + i * (int64_t)size);
    return dtype_is_float(t) && ((a != a && b != b) || fabs(a - b) <= within * (1 + fabs(a)));
}

static bool worlds_agree(const char *what, const char *how, const struct lp *p, const struct world *a,
                         const struct world *b, double within)
{
    for (uint32_t k = 0; k < p->buffers.len; k++) {
        const struct lp_buffer *x = &p->buffers.data[k];
        int64_t count = x->kind == BUF_LOCAL ? 0 : x->static_count;
        if (x->kind == BUF_DYN && (!a->buffers[k] || !b->buffers[k])) continue;
        for (int64_t i = 0; i < count; i++)
            if (!close_enough(a->buffers[k], b->buffers[k], (enum dtype)x->dtype, i, within)) {
                uint64_t u = 0, v = 0;
                size_t size = dtype_info[x->dtype].size;
                memcpy(&u, a->buffers[k] + i * (int64_t)size, size);
                memcpy(&v, b->buffers[k] + i * (int64_t)size, size);
                printf("%s, %s: %s[%lld] is %llx, expected %llx", what, how, x->name, (long long)i,
                       (unsigned long long)v, (unsigned long long)u);
                if (x->dtype == DT_F32)
                    printf(" (%g, %g)", ((float *)b->buffers[k])[i], ((float *)a->buffers[k])[i]);
                printf("\n");
                return false;
            }
        if (x->kind == BUF_LOCAL || x->kind == BUF_DYN) continue;
        size_t bytes = (size_t)count * dtype_info[x->dtype].size;
        for (size_t g = bytes; g < bytes + GUARD; g++)
            if (b->buffers[k][g] != 0x5a)
                return printf("%s, %s: wrote behind %s\n", what, how, x->name), false;
    }
    if (memcmp(a->symbols, b->symbols, sizeof a->symbols))
        return printf("%s, %s: symbols differ\n", what, how), false;
    if (strcmp(a->log, b->log))
        return printf("%s, %s: told\n%sexpected\n%s", what, how, b->log, a->log), false;
    return true;
}

static const struct emit_threads three_threads = { 3, worker_begin, worker_end };

static const struct {
    const char *name;
    struct emit_options o;
} variants[] = {
    { "vector", { 0 } },
    { "vector, in sections", { .small_sections = true } },
    { "vector, in parts", { .many_parts = true, .threads = &three_threads } },
    { "scalar serial", { .scalar = true, .serial = true } },
/* The sanitizers watch the emitter, which does nothing new in the others, while LLVM takes all the time. */
#ifndef __SANITIZE_ADDRESS__
    { "vector, plain f16", { .plain_f16 = true } },
    { "scalar", { .scalar = true } },
    { "scalar, plain f16", { .scalar = true, .plain_f16 = true } },
    { "serial", { .serial = true } },
#endif
};
static uint32_t pieces_seen;

static bool compile_all(const char *what, const struct lp *p, struct native native[HOP_COUNT(variants)])
{
    char error[512];
    lp_check(p);
    for (size_t v = 0; v < HOP_COUNT(variants); v++)
        if (native_compile(backend, p, &variants[v].o, &native[v], error)) {
            CLAIM(false, "%s, %s: %s", what, variants[v].name, error);
            while (v--) native_free(&native[v]);
            return false;
        }
    return true;
}
static void release_all(struct native native[HOP_COUNT(variants)])
{
    for (size_t v = 0; v < HOP_COUNT(variants); v++) native_free(&native[v]);
}

static void run_all(const char *what, const struct lp *p, const struct native *native, const int64_t *symbols,
                    double within)
{
    struct world reference, world;
    tame = within > 0;
    world_make(&reference, p, symbols);
    int32_t want = lp_execute(p, &reference.rt, (void **)reference.buffers, reference.symbols);
    for (size_t v = 0; v < HOP_COUNT(variants); v++) {
        world_make(&world, p, symbols);
        int32_t got = native[v].code.entry(&world, (void **)world.buffers, world.symbols);
        CLAIM(got == want, "%s, %s: status %d, expected %d", what, variants[v].name, got, want);
        bool agree = worlds_agree(what, variants[v].name, p, &reference, &world, within);
        CLAIM(agree, "%s, %s agrees with the reference", what, variants[v].name);
        pieces_seen += world.pieces;
        world_free(&world);
    }
    world_free(&reference);
    tame = false;
}

/* Compares all variants of a program with the reference on the given symbols, then frees it. */
static void expect_same_within(const char *what, struct lp *p, const int64_t *symbols, double within)
{
    struct native native[HOP_COUNT(variants)];
    if (compile_all(what, p, native)) {
        run_all(what, p, native, symbols, within);
        release_all(native);
    }
    lp_free(p);
}
static void expect_same(const char *what, struct lp *p, const int64_t *symbols)
{
    expect_same_within(what, p, symbols, 0);
}

/* ---- operations ---- */

static bool op_exists(enum lp_op op, enum dtype t)
{
    bool whole = dtype_is_integer(t), real = dtype_is_float(t);
    if (op == LP_NEG || op == LP_ABS) return t != DT_BOOL;
    if (op == LP_SQRT || (op >= LP_FLOOR && op <= LP_ROUND)) return real;
    if (op == LP_POPCOUNT || op == LP_CLZ) return whole;
    if (op == LP_NOT) return !real;
    if (op == LP_MUL || op == LP_MIN || op == LP_MAX) return true;
    if (op >= LP_ADD && op <= LP_REM) return t != DT_BOOL;
    if (op >= LP_AND && op <= LP_XOR) return !real;
    if (op >= LP_SHL && op <= LP_SAR) return whole;
    return op >= LP_EQ && op <= LP_GE;
}

static uint32_t result(struct lp *p, enum dtype t, int64_t n, const char *kind, int code)
{
    return buffer(p, BUF_RESULT, t, n, arena_printf(&p->arena, "%s%d", kind, code));
}

/* Every operation on one dtype, n elements read from memory; `count` NULL: static. */
static struct lp *ops_program(enum dtype t, int64_t n, bool dynamic, enum lp_for_kind kind)
{
    struct lp *p = lp_new(m, header(1), true);
    uint32_t a = buffer(p, BUF_ARG, t, n, "a"), b = buffer(p, BUF_ARG, t, n, "b"),
             c = buffer(p, BUF_ARG, DT_BOOL, n, "c");
    lpv i = begin(p, idx(p, 0), dynamic ? lp_symbol(p, 0) : idx(p, n), kind);
    lpv x = lp_load(p, a, i), y = lp_load(p, b, i), yes = lp_load(p, c, i);
    for (enum lp_op op = LP_NEG; op <= LP_NOT; op++)
        if (op_exists(op, t)) lp_store(p, result(p, t, n, "unary", op), i, lp_un(p, op, x));
    for (enum dtype to = 0; to < DT_COUNT; to++)
        lp_store(p, result(p, to, n, "cast to ", to), i, lp_cast(p, to, x));
    static const uint8_t same_size[DT_COUNT] = {
        [DT_I8] = DT_U8,   [DT_U8] = DT_I8,    [DT_I16] = DT_F16, [DT_U16] = DT_BF16,
        [DT_F16] = DT_I16, [DT_BF16] = DT_U16, [DT_I32] = DT_F32, [DT_U32] = DT_F32,
        [DT_F32] = DT_I32, [DT_I64] = DT_F64,  [DT_U64] = DT_F64, [DT_F64] = DT_I64
    };
    enum dtype bits = (enum dtype)same_size[t];
    if (t != DT_BOOL) lp_store(p, result(p, bits, n, "bits of ", bits), i, lp_bitcast(p, bits, x));
    for (enum lp_op op = LP_ADD; op <= LP_GE; op++) {
        if (!op_exists(op, t) || op == LP_FLOORDIV || op == LP_MOD) continue;
        lpv by = y;
        if (op >= LP_SHL && op <= LP_SAR)
            by = lp_bin(p, LP_AND, y, lp_int(p, t, HOP_MIN(31, 8 * dtype_info[t].size - 1)));
        bool compare = op >= LP_EQ;
        lp_store(p, result(p, compare ? DT_BOOL : t, n, "binary", op), i, lp_bin(p, op, x, by));
        if (op == LP_MIN || op == LP_MAX || ((op == LP_DIV || op == LP_REM) && !dtype_is_float(t))) {
            lp_store(p, result(p, t, n, "by constant ", op), i,
                     lp_bin(p, op, x, lp_int(p, t, t == DT_BOOL ? 1 : 7)));
            lp_store(p, result(p, t, n, "of constant ", op), i,
                     lp_bin(p, op, lp_int(p, t, t == DT_BOOL ? 0 : -3), y));
        }
    }
    lp_store(p, result(p, t, n, "select", 0), i, lp_select(p, yes, x, y));
    if (dtype_is_float(t))
        lp_store(p, result(p, t, n, "fused", 0), i, lp_fused(p, x, y, lp_real(p, t, -1.0 / 3)));
    lp_for_end(p);
    return p;
}

static void test_ops(void)
{
    for (enum dtype t = 0; t < DT_COUNT; t++) {
        char what[64];
        snprintf(what, sizeof what, "operations on %s", dtype_info[t].name);
        expect_same(what, ops_program(t, 77, true, FOR_VECTOR), (int64_t[8]){ 77 });
        snprintf(what, sizeof what, "operations on %s, one chunk", dtype_info[t].name);
        expect_same(what, ops_program(t, 31, false, FOR_VECTOR), NULL);
        snprintf(what, sizeof what, "operations on %s, serial", dtype_info[t].name);
        expect_same(what, ops_program(t, 200, false, FOR_SERIAL), NULL);
    }
}

/* Index arithmetic that differs from lane to lane. */
static void test_index_division(void)
{
    static const int64_t divisors[] = { 1, 3, 7, 8, 64, 100 };
    struct lp *p = lp_new(m, header(2), true);
    enum { N = 90 };
    lpv i = begin(p, idx(p, 0), idx(p, N), FOR_VECTOR);
    for (uint32_t k = 0; k < HOP_COUNT(divisors); k++) {
        lpv d = idx(p, divisors[k]), shifted = add(p, i, idx(p, -50));
        lp_store(p, result(p, DT_I64, N, "div", (int)k), i, lp_bin(p, LP_FLOORDIV, mul(p, i, idx(p, 3)), d));
        lp_store(p, result(p, DT_I64, N, "mod", (int)k), i, lp_bin(p, LP_MOD, mul(p, i, idx(p, 3)), d));
        lp_store(p, result(p, DT_I64, N, "negative div", (int)k), i, lp_bin(p, LP_FLOORDIV, shifted, d));
        lp_store(p, result(p, DT_I64, N, "negative mod", (int)k), i, lp_bin(p, LP_MOD, shifted, d));
    }
    lp_store(p, result(p, DT_I64, N, "symbol div", 0), i,
             lp_bin(p, LP_FLOORDIV, add(p, i, idx(p, 5)), lp_symbol(p, 0)));
    lp_store(p, result(p, DT_I64, N, "symbol mod", 0), i,
             lp_bin(p, LP_MOD, add(p, i, idx(p, 5)), lp_symbol(p, 0)));
    lp_store(p, result(p, DT_I64, N, "big mod", 0), i,
             lp_bin(p, LP_MOD, mul(p, i, idx(p, 1ll << 40)), lp_symbol(p, 0)));
    lp_store(p, result(p, DT_F32, N, "iota", 0), i, lp_cast(p, DT_F32, i));
    lp_store(p, result(p, DT_I32, N, "down", 0), i, lp_cast(p, DT_I32, lp_bin(p, LP_SUB, idx(p, 10), i)));
    lp_store(p, result(p, DT_BOOL, N, "triangle", 0), i, lp_bin(p, LP_LT, i, lp_symbol(p, 0)));
    lp_for_end(p);
    expect_same("index division", p, (int64_t[8]){ 13 });
}

/* ---- extents, tails, accesses ---- */

/* r[i] = a[i] * 2 + 1 and s = sum of a, both modes; `n` static or symbol 0. */
static struct lp *sum_program(enum dtype t, int64_t n, bool dynamic, bool strict, enum lp_fold fold)
{
    struct lp *p = lp_new(m, header(1), strict);
    uint32_t a = buffer(p, BUF_ARG, t, n, "a"), r = buffer(p, BUF_RESULT, t, n, "r"),
             s = buffer(p, BUF_RESULT, t, 1, "s");
    uint32_t acc = lp_local(p, t, LOCAL_LANES, "acc");
    double most = fold == FOLD_MAX
                      ? -INFINITY
                      : 0; /* in default mode the number of lanes is free, so they begin with the identity */
    lp_set(p, acc,
           dtype_is_float(t) && !strict ? lp_real(p, t, most) : lp_int(p, t, strict || fold == FOLD_AND));
    lpv i = begin(p, idx(p, 0), dynamic ? lp_symbol(p, 0) : idx(p, n), FOR_VECTOR);
    lpv x = lp_load(p, a, i);
    if (t != DT_BOOL) x = add(p, mul(p, x, lp_int(p, t, 2)), lp_int(p, t, 1));
    lp_store(p, r, i, x);
    lp_accum(p, acc, fold, x);
    lp_for_end(p);
    lp_store(p, s, idx(p, 0), lp_fold_lanes(p, acc, fold));
    return p;
}

static void test_extents(void)
{
    static const struct {
        enum dtype t;
        enum lp_fold fold;
    } cases[] = { { DT_F32, FOLD_SUM }, { DT_F64, FOLD_SUM },  { DT_F32, FOLD_MAX },
                  { DT_I64, FOLD_SUM }, { DT_BOOL, FOLD_AND }, { DT_U32, FOLD_OR },
                  { DT_I8, FOLD_SUM },  { DT_U16, FOLD_MAX },  { DT_U64, FOLD_MIN } };
    for (uint32_t c = 0; c < HOP_COUNT(cases); c++)
        for (int strict = 0; strict < 2; strict++) {
            char what[96];
            double within = strict || !dtype_is_float(cases[c].t) ? 0 : 1e-4;
            struct lp *p = sum_program(cases[c].t, 200, true, strict, cases[c].fold);
            struct native native[HOP_COUNT(variants)];
            if (compile_all("sum", p, native)) {
                for (int64_t n = 0; n <= 40; n++) {
                    snprintf(what, sizeof what, "%s %s fold %d of %lld", strict ? "strict" : "default",
                             dtype_info[cases[c].t].name, cases[c].fold, (long long)n);
                    run_all(what, p, native, (int64_t[8]){ n }, within);
                }
                for (int64_t n = 63; n <= 200; n += 17)
                    run_all("longer", p, native, (int64_t[8]){ n }, within);
                release_all(native);
            }
            lp_free(p);
            static const int64_t fixed[] = { 0,  1,  2,  3,   5,   8,   13,  16,  17,  24,  31,  32,
                                             33, 60, 64, 100, 127, 128, 129, 160, 200, 255, 256, 1000 };
            for (uint32_t k = c ? 12 : 0; k < HOP_COUNT(fixed); k += c ? 3 : 1) {
                snprintf(what, sizeof what, "%s %s fold %d of static %lld", strict ? "strict" : "default",
                         dtype_info[cases[c].t].name, cases[c].fold, (long long)fixed[k]);
                expect_same_within(what, sum_program(cases[c].t, fixed[k], false, strict, cases[c].fold),
                                   NULL, within);
            }
        }
}

/* Strided, reversed, gathered, scattered and uniform accesses; the tail of each. */
static struct lp *access_program(enum dtype t, int64_t n, bool dynamic)
{
    struct lp *p = lp_new(m, header(1), true);
    uint32_t a = buffer(p, BUF_ARG, t, 4 * n + 8, "a"), where = buffer(p, BUF_TEMP, DT_I64, n, "where"),
             flags = buffer(p, BUF_ARG, DT_BOOL, 2 * n + 2, "flags");
    uint32_t r[9];
    for (int k = 0; k < 9; k++) r[k] = buffer(p, BUF_RESULT, t, 4 * n + 8, arena_printf(&p->arena, "r%d", k));
    uint32_t flag = buffer(p, BUF_RESULT, DT_BOOL, 4 * n + 8, "flag");
    lpv count = dynamic ? lp_symbol(p, 0) : idx(p, n), last = lp_bin(p, LP_SUB, count, idx(p, 1));
    lpv j = begin(p, idx(p, 0), count, FOR_SERIAL);
    lp_store(p, where, j, lp_bin(p, LP_MOD, mul(p, j, idx(p, 7)), count));
    lp_for_end(p);
    lpv i = begin(p, idx(p, 0), count, FOR_VECTOR);
    lpv back = lp_bin(p, LP_SUB, last, i), at = lp_load(p, where, i);
    lp_store(p, r[0], i, lp_load(p, a, back));
    lp_store(p, r[1], back, lp_load(p, a, i));
    lp_store(p, r[2], mul(p, i, idx(p, 2)), lp_load(p, a, add(p, mul(p, i, idx(p, 3)), idx(p, 1))));
    lp_store(p, r[3], i, lp_load(p, a, at));
    lp_store(p, r[4], add(p, mul(p, i, idx(p, 2)), idx(p, 1)), lp_load(p, a, at));
    lp_store(p, r[5], i, lp_load(p, a, idx(p, 3)));
    lp_store(p, r[6], mul(p, back, idx(p, 4)), lp_load(p, a, mul(p, back, idx(p, 2))));
    lp_store(p, r[7], i, lp_load(p, a, add(p, i, count)));
    lp_store(p, r[8], idx(p, 0), lp_load(p, a, last));
    lp_store(p, flag, back, lp_load(p, flags, mul(p, i, idx(p, 2))));
    lp_for_end(p);
    return p;
}

static void test_accesses(void)
{
    static const enum dtype types[] = { DT_F32, DT_F64, DT_BOOL, DT_I64, DT_F16, DT_I8 };
    for (uint32_t k = 0; k < HOP_COUNT(types); k++) {
        struct native native[HOP_COUNT(variants)];
        struct lp *p = access_program(types[k], 80, true);
        if (compile_all("accesses", p, native)) {
            for (int64_t n = 1; n < 80; n += n < 20 ? 1 : 9) {
                char what[64];
                snprintf(what, sizeof what, "accesses to %lld of %s", (long long)n,
                         dtype_info[types[k]].name);
                run_all(what, p, native, (int64_t[8]){ n }, 0);
            }
            release_all(native);
        }
        lp_free(p);
        expect_same("accesses, static", access_program(types[k], 29, false), NULL);
        expect_same("accesses, static", access_program(types[k], 300, false), NULL);
    }
}

/* ---- state in registers ---- */

/* while (i < n) x = x * 0.999 + 0.001 on `width` floats in a local buffer. */
static struct lp *while_program(int64_t width, bool strict, bool poll)
{
    struct lp *p = lp_new(m, header(1), strict);
    uint32_t x0 = buffer(p, BUF_ARG, DT_F32, width, "x0"), x = buffer(p, BUF_LOCAL, DT_F32, width, "x"),
             r = buffer(p, BUF_RESULT, DT_F32, width, "r");
    uint32_t trip = lp_local(p, DT_I64, LOCAL_SCALAR, "trip");
    lp_set(p, trip, idx(p, 0));
    lpv i = begin(p, idx(p, 0), idx(p, width), FOR_VECTOR);
    lp_store(p, x, i, lp_load(p, x0, i));
    lp_for_end(p);
    lp_while_begin(p);
    lpv now = lp_read(p, trip);
    lpv more = lp_bin(p, LP_LT, now, lp_symbol(p, 0));
    lp_while_body(p, more);
    lpv t = lp_read(p, trip);
    i = begin(p, idx(p, 0), idx(p, width), FOR_VECTOR);
    lp_store(p, x, i, add(p, mul(p, lp_load(p, x, i), f32(p, 0.999)), f32(p, 0.001)));
    lp_for_end(p);
    lp_set(p, trip, add(p, t, idx(p, 1)));
    lp_while_end(p);
    p->root->stmts.data[p->root->stmts.len - 1].poll = poll;
    i = begin(p, idx(p, 0), idx(p, width), FOR_VECTOR);
    lp_store(p, r, i, lp_load(p, x, i));
    lp_for_end(p);
    return p;
}

static void test_while(void)
{
    static const int64_t widths[] = { 1, 3, 8, 16, 20, 48, 63, 64, 128, 130 };
    for (uint32_t k = 0; k < HOP_COUNT(widths); k++)
        for (int strict = 0; strict < 2; strict++) {
            char what[64];
            snprintf(what, sizeof what, "%s while loop over %lld floats", strict ? "strict" : "default",
                     (long long)widths[k]);
            for (int64_t n = 0; n < 12; n += 5)
                expect_same_within(what, while_program(widths[k], strict, n == 5), (int64_t[8]){ n },
                                   strict ? 0 : 1e-5); /* hosts without fma round twice */
        }
    /* a loop without memory traffic */
    struct native native;
    char error[512] = "";
    struct lp *p = while_program(16, false, true);
    if (!native_compile(backend, p, &(struct emit_options){ .keep_machine_text = true, .keep_ir_text = true },
                        &native, error)) {
        int loads = 0;
        const char *from = strstr(native.ir_text, "\ndo:"), *to = from ? strstr(from + 1, "br ") : NULL;
        for (const char *at = from; at && to && (at = strstr(at, "load <")) && at < to; at++) loads++;
        CLAIM(from && to && !loads, "the carry of a while loop stays in registers");
        CLAIM(native.machine_text && strstr(native.machine_text, "hop_entry"), "assembly is kept");
        CLAIM(native.code.code_bytes > 20 && native.code.code_bytes < 4000, "code size is told: %zu",
              native.code.code_bytes);
        native_free(&native);
    } else CLAIM(false, "%s", error);
    lp_free(p);
}

/* A local buffer that is swapped with another in an IF, inside a FOR; one element buffers; locals set in
 * branches. */
static void test_branches(void)
{
    struct lp *p = lp_new(m, header(2), true);
    enum { N = 24 };
    uint32_t a = buffer(p, BUF_ARG, DT_F32, N, "a"), x = buffer(p, BUF_LOCAL, DT_F32, N, "x"),
             one = buffer(p, BUF_LOCAL, DT_I64, 1, "one"), r = buffer(p, BUF_RESULT, DT_F32, N, "r"),
             s = buffer(p, BUF_RESULT, DT_I64, 1, "s");
    uint32_t count = lp_local(p, DT_I64, LOCAL_SCALAR, "count");
    lpv i = begin(p, idx(p, 0), idx(p, N), FOR_VECTOR);
    lp_store(p, x, i, lp_load(p, a, i));
    lp_for_end(p);
    lp_store(p, one, idx(p, 0), idx(p, 5));
    lp_set(p, count, idx(p, 0));
    lpv t = begin(p, idx(p, 0), lp_symbol(p, 0), FOR_SERIAL);
    lpv odd = lp_bin(p, LP_EQ, lp_bin(p, LP_MOD, t, idx(p, 2)), idx(p, 1));
    lp_if_begin(p, odd);
    i = begin(p, idx(p, 0), idx(p, N), FOR_VECTOR);
    lp_store(p, x, i, mul(p, lp_load(p, x, i), f32(p, 0.5)));
    lp_for_end(p);
    lp_store(p, one, idx(p, 0), mul(p, lp_load(p, one, idx(p, 0)), idx(p, 3)));
    lp_if_else(p);
    lp_accum(p, count, FOLD_SUM, lp_load(p, one, idx(p, 0)));
    lp_if_end(p);
    lp_for_end(p);
    i = begin(p, idx(p, 0), idx(p, N), FOR_VECTOR);
    lp_store(p, r, i, add(p, lp_load(p, x, i), lp_cast(p, DT_F32, lp_load(p, one, idx(p, 0)))));
    lp_for_end(p);
    lp_store(p, s, idx(p, 0), lp_read(p, count));
    struct native native[HOP_COUNT(variants)];
    if (compile_all("branches", p, native)) {
        for (int64_t n = 0; n < 7; n++) run_all("branches in a loop", p, native, (int64_t[8]){ n }, 0);
        release_all(native);
    }
    lp_free(p);
}

/* r[j] = sum over k of h[k] * w[k, j] with the accumulator a local of the vector loop; unrolled, and with two
 * accumulators. */
static struct lp *product_program(enum dtype t, int64_t n, int64_t depth, uint8_t unroll, bool strict)
{
    struct lp *p = lp_new(m, header(1), strict);
    uint32_t h = buffer(p, BUF_ARG, t, depth, "h"), w = buffer(p, BUF_ARG, t, depth * n, "w"),
             r = buffer(p, BUF_RESULT, t, n, "r"), acc = lp_local(p, t, LOCAL_SCALAR, "acc");
    lpv j = begin(p, idx(p, 0), idx(p, n), FOR_VECTOR);
    lp_set(p, acc, lp_int(p, t, 0));
    lpv k = begin(p, idx(p, 0), idx(p, depth), FOR_SERIAL);
    lp_set(p, acc,
           add(p, lp_read(p, acc), mul(p, lp_load(p, h, k), lp_load(p, w, add(p, mul(p, k, idx(p, n)), j)))));
    lp_for_end(p)->unroll = unroll;
    lp_store(p, r, j, lp_read(p, acc));
    lp_for_end(p);
    return p;
}

static void test_products(void)
{
    static const int64_t widths[] = { 3, 16, 20, 64, 100, 300 };
    for (uint32_t k = 0; k < HOP_COUNT(widths); k++)
        for (uint8_t unroll = 0; unroll < 5; unroll += 2) {
            char what[64];
            snprintf(what, sizeof what, "product of width %lld, unrolled %d", (long long)widths[k], unroll);
            expect_same(what, product_program(DT_F32, widths[k], 13, unroll, true), NULL);
            expect_same_within(what, product_program(DT_F64, widths[k], 12, unroll, false), NULL, 1e-6);
        }
}

/* Unrolled serial loops: static and not, forwards; trips that the factor does not divide. */
static void test_unroll(void)
{
    for (int dynamic = 0; dynamic < 2; dynamic++)
        for (int64_t n = 0; n < 11; n++)
            for (uint8_t unroll = 0; unroll <= 4; unroll += 2) {
                struct lp *p = lp_new(m, header(1), true);
                uint32_t a = buffer(p, BUF_ARG, DT_F32, 64, "a"), r = buffer(p, BUF_RESULT, DT_F32, 64, "r"),
                         h = lp_local(p, DT_F32, LOCAL_SCALAR, "h");
                lp_set(p, h, f32(p, 0));
                lpv t = lp_for_begin(p, idx(p, 2), dynamic ? lp_symbol(p, 0) : idx(p, n),
                                     idx(p, n % 2 ? 1 : 3), FOR_SERIAL);
                lpv next = add(p, mul(p, lp_read(p, h), f32(p, 0.9)), lp_load(p, a, t));
                lp_set(p, h, next);
                lp_store(p, r, t, next);
                struct lp_stmt *s = lp_for_end(p);
                s->unroll = unroll;
                s->poll = unroll == 4;
                lp_store(p, r, idx(p, 63), lp_read(p, h));
                char what[64];
                snprintf(what, sizeof what, "scan of %lld steps unrolled %d", (long long)n, unroll);
                expect_same(what, p, (int64_t[8]){ n });
            }
}

/* A row softmax: two reductions and a store over the same rows, rows in parallel, columns symbolic. */
static struct lp *rows_program(bool strict, bool heavy, uint32_t *reads)
{
    struct lp *p = lp_new(m, header(2), strict);
    enum { MOST = 64 * 100 };
    uint32_t a = buffer(p, BUF_ARG, DT_F32, MOST, "a"), r = buffer(p, BUF_RESULT, DT_F32, MOST, "r"),
             row = buffer(p, BUF_LOCAL, DT_F32, 128, "row");
    uint32_t top = lp_local(p, DT_F32, LOCAL_LANES, "top"), sum = lp_local(p, DT_F32, LOCAL_LANES, "sum");
    lpv rows = lp_symbol(p, 0), cols = lp_symbol(p, 1),
        scale = mul(p, lp_cast(p, DT_F32, cols), f32(p, 0.25));
    lpv t = begin(p, idx(p, 0), rows, FOR_PARALLEL);
    lpv at = mul(p, t, cols);
    lp_set(p, top, f32(p, -INFINITY));
    lpv i = begin(p, idx(p, 0), cols, FOR_VECTOR);
    lpv x = lp_load(p, a, add(p, at, i));
    lp_accum(p, top, FOLD_MAX, x);
    lp_store(p, row, i, x);
    lp_for_end(p);
    lpv best = lp_fold_lanes(p, top, FOLD_MAX);
    lp_set(p, sum, f32(p, 0));
    i = begin(p, idx(p, 0), cols, FOR_VECTOR);
    lpv d = lp_bin(p, LP_SUB, lp_load(p, row, i), best);
    for (int k = 0; k < (heavy ? 200 : 3); k++) d = add(p, mul(p, d, f32(p, 0.75 + k * 0.001)), f32(p, 0.1));
    lp_store(p, r, add(p, at, i), d);
    lp_accum(p, sum, FOLD_SUM, d);
    lp_for_end(p);
    lpv total = lp_fold_lanes(p, sum, FOLD_SUM);
    i = begin(p, idx(p, 0), cols, FOR_VECTOR);
    lp_store(p, r, add(p, at, i), lp_bin(p, LP_DIV, mul(p, lp_load(p, r, add(p, at, i)), scale), total));
    lp_for_end(p);
    lp_for_end(p);
    *reads = a;
    return p;
}

static void test_parallel(void)
{
    for (int strict = 0; strict < 2; strict++)
        for (int heavy = 0; heavy < 2; heavy++) {
            struct native native[HOP_COUNT(variants)];
            uint32_t a;
            struct lp *p = rows_program(strict, heavy, &a);
            pieces_seen = 0;
            if (compile_all("rows", p, native)) {
                static const int64_t sizes[][2] = { { 0, 10 },  { 1, 1 },  { 3, 100 }, { 64, 100 },
                                                    { 64, 33 }, { 5, 16 }, { 7, 64 } };
                for (uint32_t k = 0; k < HOP_COUNT(sizes); k++) {
                    char what[64];
                    snprintf(what, sizeof what, "%s rows %lld x %lld", strict ? "strict" : "default",
                             (long long)sizes[k][0], (long long)sizes[k][1]);
                    run_all(what, p, native, (int64_t[8]){ sizes[k][0], sizes[k][1] }, strict ? 0 : 1e-3);
                }
                CLAIM(!heavy || pieces_seen > 0, "enough work is given to the pool");
                release_all(native);
            }
            lp_free(p);
        }
}

/* ---- fallbacks ---- */

/* Vector loops that cannot be widened run one element after the other with the same results: branches and
 * loops that differ from lane to lane, lanes that are read, scalar accumulators, float remainders. */
static void test_fallbacks(void)
{
    for (int which = 0; which < 6; which++) {
        struct lp *p = lp_new(m, header(2), true);
        enum { N = 37 };
        uint32_t a = buffer(p, BUF_ARG, DT_F32, N, "a"), r = buffer(p, BUF_RESULT, DT_F32, N, "r"),
                 s = buffer(p, BUF_RESULT, DT_F32, 1, "s");
        uint32_t acc = lp_local(p, DT_F32, LOCAL_LANES, "acc"),
                 one = lp_local(p, DT_F32, LOCAL_SCALAR, "one"),
                 inner = lp_local(p, DT_F32, LOCAL_LANES, "inner");
        lp_set(p, acc, f32(p, 0.25));
        lp_set(p, inner, f32(p, 0.5));
        lp_set(p, one, f32(p, 0));
        lpv i = begin(p, idx(p, 0), which % 2 ? lp_symbol(p, 0) : idx(p, N), FOR_VECTOR);
        lpv x = lp_load(p, a, i), y = x;
        if (which == 0) {
            lp_if_begin(p, lp_bin(p, LP_GT, x, f32(p, 0)));
            lp_store(p, r, i, x);
            lp_if_else(p);
            lp_store(p, r, i, f32(p, 7));
            lp_if_end(p);
        } else if (which == 1) {
            lpv k = begin(p, idx(p, 0), lp_bin(p, LP_MOD, i, idx(p, 5)), FOR_SERIAL);
            lp_accum(p, one, FOLD_SUM, lp_load(p, a, k));
            lp_for_end(p);
            y = lp_read(p, one);
        } else if (which == 2) y = lp_bin(p, LP_REM, x, f32(p, 0.75));
        else if (which == 3) lp_accum(p, one, FOLD_SUM, x);
        else if (which == 4) y = lp_read(p, acc);
        else if (which == 5) {
            lpv k = begin(p, idx(p, 0), idx(p, 20), FOR_SERIAL);
            lp_accum(p, inner, FOLD_SUM, mul(p, lp_load(p, a, k), x));
            lp_for_end(p);
            y = lp_bin(p, LP_REM, x, f32(p, -0.5));
        }
        if (which) lp_store(p, r, i, y);
        lp_accum(p, acc, FOLD_SUM, y);
        lp_for_end(p);
        lp_store(p, s, idx(p, 0),
                 add(p, add(p, lp_fold_lanes(p, acc, FOLD_SUM), lp_fold_lanes(p, inner, FOLD_SUM)),
                     lp_read(p, one)));
        char what[64];
        snprintf(what, sizeof what, "fallback %d", which);
        expect_same(what, p, (int64_t[8]){ N });
    }
}

/* A branch with a uniform condition and a loop with uniform bounds inside a vector loop. */
static void test_uniform_control(void)
{
    struct lp *p = lp_new(m, header(2), true);
    enum { N = 50 };
    uint32_t a = buffer(p, BUF_ARG, DT_F32, N, "a"), r = buffer(p, BUF_RESULT, DT_F32, N, "r"),
             acc = lp_local(p, DT_F32, LOCAL_SCALAR, "acc"),
             lanes = lp_local(p, DT_F32, LOCAL_LANES, "lanes");
    uint32_t s = buffer(p, BUF_RESULT, DT_F32, 1, "s");
    lp_set(p, lanes, f32(p, 0));
    lpv flag = lp_bin(p, LP_GT, lp_symbol(p, 1), idx(p, 2));
    lpv i = begin(p, idx(p, 0), lp_symbol(p, 0), FOR_VECTOR);
    lp_set(p, acc, lp_load(p, a, i));
    lp_if_begin(p, flag);
    lp_set(p, acc, mul(p, lp_read(p, acc), f32(p, 3)));
    lp_accum(p, lanes, FOLD_SUM, lp_read(p, acc));
    lp_if_else(p);
    lpv k = begin(p, idx(p, 0), lp_symbol(p, 1), FOR_SERIAL);
    lp_accum(p, acc, FOLD_MAX, lp_load(p, a, k));
    lp_accum(p, lanes, FOLD_SUM, lp_cast(p, DT_F32, k));
    lp_for_end(p);
    lp_if_end(p);
    lp_store(p, r, i, lp_read(p, acc));
    lp_for_end(p);
    lp_store(p, s, idx(p, 0), lp_fold_lanes(p, lanes, FOLD_SUM));
    struct native native[HOP_COUNT(variants)];
    if (compile_all("uniform control", p, native)) {
        for (int64_t n = 0; n < 50; n += 7)
            for (int64_t q = 0; q < 5; q++) run_all("uniform control", p, native, (int64_t[8]){ n, q }, 0);
        release_all(native);
    }
    lp_free(p);
}

/* ---- calls and exits ---- */

static struct lp_operand *operands(struct lp *p, uint32_t b, lpv at, lpv n, lpv scalar)
{
    struct lp_operand *o = ARENA_ZNEW(&p->arena, struct lp_operand, 2);
    o[0] = (struct lp_operand){ .buffer = b, .index = at, .rank = 1, .dims = { n } };
    o[1] = (struct lp_operand){ .buffer = HOP_NONE, .value = scalar };
    return o;
}

static void test_calls(void)
{
    struct lp *p = lp_new(m, header(3), true);
    uint32_t a = buffer(p, BUF_ARG, DT_F32, 60, "a"), b = buffer(p, BUF_ARG, DT_F32, 60, "b"),
             c = buffer(p, BUF_RESULT, DT_F32, 100, "c"), r = buffer(p, BUF_RESULT, DT_F32, 400, "r"),
             panels = buffer(p, BUF_TEMP, DT_F32, 3 + HOP_RT_PANEL_COLUMNS * 4, "panels");
    lpv n = lp_symbol(p, 0);
    lp_add_call(p, (struct lp_call){ .kind = CALL_ZERO, .target = c, .lo = idx(p, 0), .count = idx(p, 100) });
    lp_add_call(p, (struct lp_call){ .kind = CALL_ZERO, .target = r, .lo = idx(p, 1), .count = idx(p, 13) });
    lp_add_call(p, (struct lp_call){ .kind = CALL_COPY,
                                     .target = r,
                                     .source = a,
                                     .lo = idx(p, 20),
                                     .index = idx(p, 3),
                                     .count = idx(p, 17) });
    lp_add_call(p, (struct lp_call){ .kind = CALL_COPY,
                                     .target = r,
                                     .source = b,
                                     .lo = idx(p, 100),
                                     .index = n,
                                     .count = lp_bin(p, LP_SUB, idx(p, 60), n) });
    lp_add_call(p, (struct lp_call){ .kind = CALL_COPY,
                                     .target = r,
                                     .source = r,
                                     .lo = idx(p, 22),
                                     .index = idx(p, 20),
                                     .count = idx(p, 9) });
    lp_add_call(p, (struct lp_call){ .kind = CALL_GEMM,
                                     .gemm = { .a = a,
                                               .b = b,
                                               .c = c,
                                               .a_at = idx(p, 0),
                                               .b_at = idx(p, 1),
                                               .c_at = idx(p, 2),
                                               .m = n,
                                               .n = idx(p, 4),
                                               .k = idx(p, 5),
                                               .lda = idx(p, 5),
                                               .ldb = idx(p, 4),
                                               .ldc = idx(p, 6),
                                               .batch = LPV_NONE,
                                               .accumulate = true } });
    lp_add_call(p, (struct lp_call){ .kind = CALL_GEMM,
                                     .gemm = { .a = a,
                                               .b = b,
                                               .c = c,
                                               .a_at = idx(p, 2),
                                               .b_at = idx(p, 0),
                                               .c_at = idx(p, 40),
                                               .m = idx(p, 2),
                                               .n = idx(p, 3),
                                               .k = idx(p, 2),
                                               .lda = idx(p, 2),
                                               .ldb = idx(p, 3),
                                               .ldc = idx(p, 3),
                                               .batch = lp_bin(p, LP_SUB, n, idx(p, 1)),
                                               .a_apart = idx(p, 4),
                                               .b_apart = idx(p, 0),
                                               .c_apart = idx(p, 6) } });
    for (uint8_t transposed = 0; transposed < 2; transposed++) {
        lp_add_call(p, (struct lp_call){ .kind = CALL_PACK,
                                         .gemm = { .b = b,
                                                   .c = panels,
                                                   .b_at = n,
                                                   .c_at = idx(p, 3),
                                                   .n = idx(p, 3),
                                                   .k = idx(p, 4),
                                                   .ldb = idx(p, transposed ? 5 : 3),
                                                   .tb = transposed } });
        lp_add_call(p, (struct lp_call){ .kind = CALL_GEMM,
                                         .gemm = { .a = a,
                                                   .b = panels,
                                                   .c = r,
                                                   .a_at = idx(p, 0),
                                                   .b_at = idx(p, 3),
                                                   .c_at = idx(p, 200 + transposed * 50),
                                                   .m = n,
                                                   .n = idx(p, 3),
                                                   .k = idx(p, 4),
                                                   .lda = idx(p, 5),
                                                   .ldb = idx(p, 0),
                                                   .ldc = idx(p, 4),
                                                   .batch = LPV_NONE,
                                                   .tb = HOP_RT_PANELS } });
    }
    lp_add_call(p,
                (struct lp_call){ .kind = CALL_PRINT,
                                  .mask = LPV_NONE,
                                  .n_operands = 2,
                                  .operands = operands(p, a, idx(p, 2), n, lp_bin(p, LP_GT, n, idx(p, 2))) });
    lp_add_call(p, (struct lp_call){ .kind = CALL_PRINT,
                                     .mask = lp_bin(p, LP_GT, n, idx(p, 5)),
                                     .n_operands = 1,
                                     .operands = operands(p, a, idx(p, 0), idx(p, 1), n) });
    lp_add_call(p, (struct lp_call){ .kind = CALL_CHECK,
                                     .value = lp_bin(p, LP_LT, n, idx(p, 9)),
                                     .n_operands = 2,
                                     .operands = operands(p, b, idx(p, 1), idx(p, 3), n) });
    lp_add_call(p, (struct lp_call){ .kind = CALL_SETDIM, .target = 2, .value = mul(p, n, idx(p, 2)) });
    lp_store(p, r, idx(p, 399), lp_cast(p, DT_F32, lp_symbol(p, 2)));
    struct native native[HOP_COUNT(variants)];
    if (compile_all("calls", p, native)) {
        for (int64_t k = 1; k < 11; k++) run_all("calls", p, native, (int64_t[8]){ k, 0, 99 }, 0);
        release_all(native);
    }
    lp_free(p);
}

/* A check that fails in a loop, in a parallel region, in a while loop; sites keep their numbers in unrolled
 * bodies. */
static void test_exits(void)
{
    for (int which = 0; which < 3; which++) {
        struct lp *p = lp_new(m, header(2), true);
        uint32_t a = buffer(p, BUF_ARG, DT_I32, 4000, "a"), r = buffer(p, BUF_RESULT, DT_I32, 4000, "r"),
                 k = lp_local(p, DT_I64, LOCAL_SCALAR, "k");
        lpv limit = lp_symbol(p, 0), t;
        if (which == 2) {
            lp_set(p, k, idx(p, 0));
            lp_while_begin(p);
            lp_while_body(p, lp_bin(p, LP_LT, lp_read(p, k), idx(p, 4000)));
            t = lp_read(p, k);
        } else t = begin(p, idx(p, 0), idx(p, 4000), which ? FOR_PARALLEL : FOR_SERIAL);
        struct lp_operand *o = ARENA_ZNEW(&p->arena, struct lp_operand, 1);
        *o = (struct lp_operand){ .buffer = HOP_NONE, .value = t };
        lp_add_call(p, (struct lp_call){ .kind = CALL_PRINT,
                                         .mask = lp_bin(p, LP_GT, lp_bin(p, LP_SUB, t, limit), idx(p, -2)),
                                         .n_operands = 1,
                                         .operands = o });
        lp_add_call(p, (struct lp_call){ .kind = CALL_CHECK,
                                         .value = lp_bin(p, LP_LT, t, limit),
                                         .n_operands = 1,
                                         .operands = o });
        if (which != 1) lp_store(p, r, t, lp_load(p, a, t));
        if (which == 2) lp_set(p, k, add(p, t, idx(p, 1))), lp_while_end(p);
        else lp_for_end(p)->unroll = which ? 0 : 4;
        struct native native[HOP_COUNT(variants)];
        if (compile_all("exits", p, native)) {
            for (int64_t n = 0; n < 6; n++)
                if (which != 1 || n < 0) run_all("exit in a loop", p, native, (int64_t[8]){ n }, 0);
            run_all("no exit", p, native, (int64_t[8]){ 4000 }, 0);
            struct world w;
            world_make(&w, p, (int64_t[8]){ 3000 });
            CLAIM(native[0].code.entry(&w, (void **)w.buffers, w.symbols) == HOP_CHECK &&
                      strstr(w.log, "check 1: i64[]="),
                  "a failed check ends the run, %d", which);
            world_free(&w);
            release_all(native);
        }
        lp_free(p);
    }
}

static void test_cancel(void)
{
    char error[512];
    struct native native;
    struct lp *p = while_program(16, true, true);
    if (!native_compile(backend, p, &variants[0].o, &native, error)) {
        struct world w;
        volatile int32_t cancel = 1;
        world_make(&w, p, (int64_t[8]){ INT64_MAX });
        w.rt.cancel = &cancel;
        CLAIM(native.code.entry(&w, (void **)w.buffers, w.symbols) == HOP_CANCELLED,
              "an endless loop is cancelled");
        cancel = 0;
        w.symbols[0] = 10;
        CLAIM(native.code.entry(&w, (void **)w.buffers, w.symbols) == HOP_OK, "and runs when nobody asks");
        world_free(&w);
        native_free(&native);
    } else CLAIM(false, "%s", error);
    lp_free(p);
}

/* A buffer that grows while the loop runs, read back afterwards in reverse. */
static void test_growing(void)
{
    struct lp *p = lp_new(m, header(2), true);
    uint32_t tape = buffer(p, BUF_DYN, DT_F32, 0, "tape"), r = buffer(p, BUF_RESULT, DT_F32, 1000, "r"),
             k = lp_local(p, DT_I64, LOCAL_SCALAR, "k"), x = lp_local(p, DT_F32, LOCAL_SCALAR, "x");
    lp_set(p, k, idx(p, 0));
    lp_set(p, x, f32(p, 1));
    lp_while_begin(p);
    lp_while_body(p, lp_bin(p, LP_LT, lp_read(p, k), lp_symbol(p, 0)));
    lpv t = lp_read(p, k), now = lp_read(p, x), next = add(p, t, idx(p, 1));
    lp_add_call(p, (struct lp_call){ .kind = CALL_RESERVE, .target = tape, .index = next });
    lp_store(p, tape, t, now);
    lp_set(p, x, mul(p, now, f32(p, 1.01)));
    lp_set(p, k, next);
    lp_while_end(p);
    lpv trips = lp_read(p, k);
    lpv i = begin(p, idx(p, 0), trips, FOR_VECTOR);
    lp_store(p, r, i, lp_load(p, tape, lp_bin(p, LP_SUB, lp_bin(p, LP_SUB, trips, idx(p, 1)), i)));
    lp_for_end(p);
    struct native native[HOP_COUNT(variants)];
    if (compile_all("growing", p, native)) {
        for (int64_t n = 0; n <= 1000; n = n * 3 + 1)
            run_all("a growing buffer", p, native, (int64_t[8]){ n }, 0);
        struct world w;
        world_make(&w, p, (int64_t[8]){ 1000 });
        native[0].code.entry(&w, (void **)w.buffers, w.symbols);
        CLAIM(w.reserves < 20, "a buffer grows by doubling: %u calls", w.reserves);
        world_free(&w);
        world_make(&w, p, (int64_t[8]){ 2000000 });
        CLAIM(native[0].code.entry(&w, (void **)w.buffers, w.symbols) == HOP_NOMEM, "no memory is a status");
        world_free(&w);
        release_all(native);
    }
    lp_free(p);
}

/* Equal nests on other buffers, with other values from outside, are one function; a nest with state of its
 * own is not. */
static void test_sharing(void)
{
    for (int kind = 0; kind < 2; kind++) {
        struct lp *p = lp_new(m, header(2), true);
        enum { ROWS = 5, COLS = 40, N = ROWS * COLS };
        uint32_t a[5], carry = lp_local(p, DT_F32, LOCAL_SCALAR, "carry");
        for (int k = 0; k < 5; k++)
            a[k] = buffer(p, k ? BUF_RESULT : BUF_ARG, DT_F32, N, arena_printf(&p->arena, "a%d", k));
        lp_set(p, carry, f32(p, 0));
        for (int k = 0; k < 4; k++) {
            uint32_t lanes = lp_local(p, DT_F32, LOCAL_LANES, "lanes"),
                     row = buffer(p, BUF_LOCAL, DT_F32, COLS, "row");
            lpv outer = lp_cast(p, DT_F32, add(p, lp_symbol(p, 0), idx(p, k)));
            lpv t = begin(p, idx(p, 0), idx(p, ROWS), kind ? FOR_PARALLEL : FOR_SERIAL),
                at = mul(p, t, idx(p, COLS));
            lp_set(p, lanes, f32(p, 0));
            lpv i = begin(p, idx(p, 0), idx(p, COLS), FOR_VECTOR),
                x = mul(p, lp_load(p, a[k], add(p, at, i)), outer);
            lp_store(p, row, i, x);
            lp_accum(p, lanes, FOLD_MAX, x);
            lp_for_end(p);
            lpv top = lp_fold_lanes(p, lanes, FOLD_MAX);
            i = begin(p, idx(p, 0), idx(p, COLS), FOR_VECTOR);
            lp_store(p, a[k + 1], add(p, at, i), lp_bin(p, LP_SUB, lp_load(p, row, i), top));
            lp_for_end(p);
            if (!kind && k == 3) lp_accum(p, carry, FOLD_SUM, top); /* so the last differs */
            lp_for_end(p);
        }
        lp_store(p, a[4], idx(p, 0), lp_read(p, carry));
        struct native native;
        char error[512];
        if (!native_compile(backend, p, &(struct emit_options){ .keep_ir_text = true }, &native, error)) {
            int functions = 0;
            for (const char *at = native.ir_text; (at = strstr(at, "\ndefine ")); at++) functions++;
            CLAIM(functions == 2, "equal nests are one function: %d", functions);
            native_free(&native);
        } else CLAIM(false, "%s", error);
        expect_same("equal nests", p, (int64_t[8]){ 3 });
    }
}

/* ---- programs at random ---- */

#include "emit_random.h"

/* ---- the back end itself ---- */

struct compiler {
    struct lp *p;
    int failures;
};

static void *compile_often(void *what)
{
    struct compiler *c = what;
    for (int k = 0; k < 10; k++) {
        struct native n;
        char error[512];
        if (native_compile(backend, c->p, NULL, &n, error)) c->failures++;
        else native_free(&n);
    }
    return NULL;
}

static void test_back_end(void)
{
    char error[512] = "";
    struct native n;
    struct lp *p = lp_new(m, header(1), true);
    uint32_t r = buffer(p, BUF_RESULT, DT_F32, 4, "r");
    lp_if_begin(p, lp_bin(p, LP_GT, lp_symbol(p, 0), idx(p, 3)));
    lpv x = lp_cast(p, DT_F32, lp_symbol(p, 0));
    lp_if_end(p);
    lp_store(p, r, idx(p, 0), x); /* out of its branch */
    CLAIM(native_compile(backend, p, NULL, &n, error) && error[0],
          "a wrong program is an error, not a crash");
    lp_free(p);
    CLAIM(strstr(backend->version, "LLVM"), "the back end has a version: %s", backend->version);
    struct compiler compilers[2] = { { ops_program(DT_F32, 20, true, FOR_VECTOR), 0 },
                                     { while_program(16, true, true), 0 } };
    pthread_t threads[2];
    for (int k = 0; k < 2; k++)
        CLAIM(!pthread_create(&threads[k], NULL, compile_often, &compilers[k]), "a thread starts");
    for (int k = 0; k < 2; k++) {
        pthread_join(threads[k], NULL);
        CLAIM(!compilers[k].failures, "two threads compile at the same time");
        lp_free(compilers[k].p);
    }
}

/* ---- main ---- */

static void run_tests(void *unused)
{
    (void)unused;
    m = module_new();
    test_ops();
    test_index_division();
    test_extents();
    test_accesses();
    test_while();
    test_branches();
    test_products();
    test_unroll();
    test_parallel();
    test_fallbacks();
    test_uniform_control();
    test_calls();
    test_exits();
    test_cancel();
    test_growing();
    test_sharing();
    test_back_end();
    const char *more = getenv("HOP_FUZZ");
    test_random(more ? strtoull(more, NULL, 10) : 60);
    module_free(m);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        backend = handle ? dlsym(handle, "hop_llvm_generator") : NULL;
        if (!backend) printf("%s\n", dlerror());
    } else backend = plug_in_get();
    CLAIM(backend, "the back end is there: %s", hop_message());
    if (backend) {
        hop_status status = attempt(run_tests, NULL);
        CLAIM(!status, "status %d: %s", status, hop_message());
    }
    return tests_end();
}
