/* Reductions over ranks, element by element: each rank's array is folded into accumulators, block by block,
 * in the order of the ranks. The loops are plain, for the compiler to vectorise. */
#include "dist/dist_impl.h"

#include "ir/number.h"

enum { BLOCK = 1024, LANES = 16 }; /* elements that are folded at a time; lanes of a scalar's order */

/* The accumulators of a block: the dtype itself, f32 for f16 and bf16. */
union block {
    double f64[BLOCK];
    float f32[BLOCK];
    uint64_t u64[BLOCK];
};

struct fold {
    void (*start)(void *acc, int64_t n); /* the identity */
    void (*two)(void *acc, const void *x, const void *y,
                int64_t n);                                /* start, add x, add y; acc may be x, y */
    void (*add)(void *acc, const void *from, int64_t n);   /* elements of the dtype */
    void (*join)(void *acc, const void *other, int64_t n); /* other accumulators */
    void (*give)(void *out, const void *acc, int64_t n);   /* rounded */
};

#ifdef __clang__ /* has no such word */
#define NOTHING_OVERLAPS
#else
#define NOTHING_OVERLAPS _Pragma("GCC ivdep")
#endif
#define FOLD_LOOPS(name, T, type, wide, identity, load, store, combine) \
    static void start_##name##_##T(void *acc, int64_t n) \
    { \
        wide *a = acc; \
        for (int64_t i = 0; i < n; i++) a[i] = (identity); \
    } \
    static void add_##name##_##T(void *restrict acc, const void *restrict from, int64_t n) \
    { \
        wide *restrict a = acc; \
        const type *restrict x = from; \
        for (int64_t i = 0; i < n; i++) a[i] = combine(wide, a[i], load(x[i])); \
    } \
    static void two_##name##_##T(void *acc, const void *from, const void *then, int64_t n) \
    { \
        wide *a = acc; \
        const type *x = from, *y = then; \
        wide first = (identity); \
        NOTHING_OVERLAPS for (int64_t i = 0; i < n; i++) \
        { \
            wide one = combine(wide, first, load(x[i])); \
            a[i] = combine(wide, one, load(y[i])); \
        } \
    } \
    static void join_##name##_##T(void *restrict acc, const void *restrict other, int64_t n) \
    { \
        wide *restrict a = acc; \
        const wide *restrict x = other; \
        for (int64_t i = 0; i < n; i++) a[i] = combine(wide, a[i], x[i]); \
    }
#define GIVE_LOOP(T, type, wide, store) \
    static void give_##T(void *restrict out, const void *restrict acc, int64_t n) \
    { \
        type *restrict to = out; \
        const wide *restrict a = acc; \
        for (int64_t i = 0; i < n; i++) to[i] = store(a[i]); \
    }

#define AS_IT_IS(x) (x)
/* Integers wrap around: computed in u64, of which the low bits are right. */
#define WRAP_ADD(wide, x, y) ((wide)((uint64_t)(x) + (uint64_t)(y)))
#define WRAP_MUL(wide, x, y) ((wide)((uint64_t)(x) * (uint64_t)(y)))
#define WHOLE_MAX(wide, x, y) ((x) > (y) ? (x) : (y))
#define WHOLE_MIN(wide, x, y) ((x) < (y) ? (x) : (y))
#define REAL_ADD(wide, x, y) ((x) + (y))
#define REAL_MUL(wide, x, y) ((x) * (y))
#define REAL_MAX(wide, x, y) real_max_##wide(x, y)
#define REAL_MIN(wide, x, y) real_min_##wide(x, y)
#define REAL_EXTREMES(type) \
    static inline type real_max_##type(type x, type y) { return x != x || x > y ? x : y; } \
    static inline type real_min_##type(type x, type y) { return x != x || x < y ? x : y; }
REAL_EXTREMES(float)
REAL_EXTREMES(double)

#define WHOLE(T, type, least, most) \
    FOLD_LOOPS(sum, T, type, type, 0, AS_IT_IS, AS_IT_IS, WRAP_ADD) \
    FOLD_LOOPS(max, T, type, type, least, AS_IT_IS, AS_IT_IS, WHOLE_MAX) \
    FOLD_LOOPS(min, T, type, type, most, AS_IT_IS, AS_IT_IS, WHOLE_MIN) \
    FOLD_LOOPS(prod, T, type, type, 1, AS_IT_IS, AS_IT_IS, WRAP_MUL) \
    GIVE_LOOP(T, type, type, AS_IT_IS)
#define REAL(T, type, wide, load, store) \
    FOLD_LOOPS(sum, T, type, wide, 0, load, store, REAL_ADD) \
    FOLD_LOOPS(max, T, type, wide, (wide)(-1.0 / 0.0), load, store, REAL_MAX) \
    FOLD_LOOPS(min, T, type, wide, (wide)(1.0 / 0.0), load, store, REAL_MIN) \
    FOLD_LOOPS(prod, T, type, wide, 1, load, store, REAL_MUL) \
    GIVE_LOOP(T, type, wide, store)
WHOLE(i8, int8_t, INT8_MIN, INT8_MAX)
WHOLE(i16, int16_t, INT16_MIN, INT16_MAX)
WHOLE(i32, int32_t, INT32_MIN, INT32_MAX)
WHOLE(i64, int64_t, INT64_MIN, INT64_MAX)
WHOLE(u8, uint8_t, 0, UINT8_MAX)
WHOLE(u16, uint16_t, 0, UINT16_MAX)
WHOLE(u32, uint32_t, 0, UINT32_MAX)
WHOLE(u64, uint64_t, 0, UINT64_MAX)
REAL(f16, uint16_t, float, f16_to_f32, f16_of_f32)
REAL(bf16, uint16_t, float, bf16_to_f32, bf16_of_f32)
REAL(f32, float, float, AS_IT_IS, AS_IT_IS)
REAL(f64, double, double, AS_IT_IS, AS_IT_IS)

#define FOLDS(T) \
    { \
        [REDUCTION_SUM] = { start_sum_##T, two_sum_##T, add_sum_##T, join_sum_##T, give_##T }, \
        [REDUCTION_MAX] = { start_max_##T, two_max_##T, add_max_##T, join_max_##T, give_##T }, \
        [REDUCTION_MIN] = { start_min_##T, two_min_##T, add_min_##T, join_min_##T, give_##T }, \
        [REDUCTION_PROD] = { start_prod_##T, two_prod_##T, add_prod_##T, join_prod_##T, give_##T }, \
        [REDUCTION_MEAN] = { start_sum_##T, two_sum_##T, add_sum_##T, join_sum_##T, give_##T }, \
    }
static const struct fold folds[DT_COUNT][REDUCTION_MEAN + 1] = {
    [DT_I8] = FOLDS(i8),   [DT_I16] = FOLDS(i16),   [DT_I32] = FOLDS(i32), [DT_I64] = FOLDS(i64),
    [DT_U8] = FOLDS(u8),   [DT_U16] = FOLDS(u16),   [DT_U32] = FOLDS(u32), [DT_U64] = FOLDS(u64),
    [DT_F16] = FOLDS(f16), [DT_BF16] = FOLDS(bf16), [DT_F32] = FOLDS(f32), [DT_F64] = FOLDS(f64),
};

static void divide(enum dtype t, void *acc, int64_t n, int32_t ranks)
{
    double *f64 = acc;
    float *f32 = acc;
    if (t == DT_F64) {
        for (int64_t i = 0; i < n; i++) f64[i] /= (double)ranks;
    } else {
        for (int64_t i = 0; i < n; i++) f32[i] /= (float)ranks;
    }
}

/* A scalar: the order of a row of as many elements as there are ranks. */
static void fold_row(const struct fold *f, int32_t n, const void *const *parts, union block *acc)
{
    uint64_t lanes[LANES]; /* an accumulator each */
    for (int32_t lane = 0; lane < LANES; lane++) f->start(&lanes[lane], 1);
    for (int32_t k = 0; k < n; k++) f->add(&lanes[k % LANES], parts[k], 1);
    for (int32_t half = LANES / 2; half; half /= 2)
        for (int32_t lane = 0; lane < half; lane++) f->join(&lanes[lane], &lanes[lane + half], 1);
    memcpy(acc, &lanes[0], sizeof lanes[0]);
}

/* A block, in the order of the ranks: into `out` itself, unless it is computed in another dtype or would take
 * the place of what is read later. */
static void fold_block(const struct dist_call *call, const struct fold *f, int32_t n,
                       const void *const *parts, int64_t at, char *out, int64_t some)
{
    union block block;
    bool apart = call->dtype == DT_F16 || call->dtype == DT_BF16 || n < 2;
    for (int32_t k = 2; k < n; k++) apart |= (const char *)parts[k] + at == out;
    void *acc = apart ? (void *)&block : out;
    if (n > 1) f->two(acc, (const char *)parts[0] + at, (const char *)parts[1] + at, some);
    else {
        f->start(acc, some);
        if (n) f->add(acc, (const char *)parts[0] + at, some);
    }
    for (int32_t k = 2; k < n; k++) f->add(acc, (const char *)parts[k] + at, some);
    if (call->op == REDUCTION_MEAN) divide(call->dtype, acc, some, n);
    if (apart) f->give(out, acc, some);
}

void dist_reduce(const struct dist_call *call, int32_t n, const void *const *parts, void *out, int64_t count)
{
    const struct fold *f = &folds[call->dtype][call->op];
    int64_t width = element_bytes(call->dtype);
    if (call->scalar) {
        union block acc;
        fold_row(f, n, parts, &acc);
        if (call->op == REDUCTION_MEAN) divide(call->dtype, &acc, 1, n);
        f->give(out, &acc, 1);
        return;
    }
    for (int64_t first = 0; first < count; first += BLOCK) {
        int64_t some = HOP_MIN(count - first, BLOCK);
        fold_block(call, f, n, parts, first * width, (char *)out + first * width, some);
    }
}
