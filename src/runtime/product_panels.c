/* Panels of products' operands: made by whichever thread needs one first, in the dtype that is multiplied;
 * what is narrower is converted on the way. */
#include "runtime/product_panels.h"
#include "base/base.h"
#include "ir/number.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <immintrin.h>
#define PAUSE() _mm_pause()
#else
#define PAUSE() ((void)0)
#endif

/* ---- rows of other dtypes ---- */

/* Sixteen at a time, which compilers make vectors of. */
enum { AT_ONCE = 16 };
#define ROW(name, T, U, value) ROW_FOR(, name, T, U, value)
#define ROW_FOR(target, name, T, U, value) \
    target static inline void name##_some(T *restrict to, const U *restrict from, int n) \
    { \
        for (int j = 0; j < n; j++) to[j] = (value); \
    } \
    target static void name(void *restrict to, const void *restrict from, int64_t n) \
    { \
        int64_t i = 0; \
        for (; i + AT_ONCE <= n; i += AT_ONCE) name##_some((T *)to + i, (const U *)from + i, AT_ONCE); \
        name##_some((T *)to + i, (const U *)from + i, (int)(n - i)); \
    }
ROW(copy_f32, float, float, from[j])
ROW(widen_f16, float, uint16_t, f16_to_f32(from[j]))
ROW(widen_bf16, float, uint16_t, bf16_to_f32(from[j]))
ROW(widen_i8, float, int8_t, (float)from[j])
ROW(widen_u8, float, uint8_t, (float)from[j])
ROW(round_f16, uint16_t, float, f16_of_f32(from[j]))
ROW(round_bf16, uint16_t, float, bf16_of_f32(from[j]))

/* Whole numbers are added as they come, stretch after stretch; all that wraps around is equal modulo the
 * width. */
#define ADDS(from_name, U) \
    ROW(add_8_##from_name, uint8_t, U, (uint8_t)(to[j] + (uint8_t)(int32_t)from[j])) \
    ROW(add_16_##from_name, uint16_t, U, (uint16_t)(to[j] + (uint16_t)(int32_t)from[j])) \
    ROW(add_32_##from_name, uint32_t, U, to[j] + (uint32_t)(int32_t)from[j]) \
    ROW(add_64_##from_name, uint64_t, U, to[j] + (uint64_t)(int32_t)from[j])
ADDS(f32, float)
ADDS(i32, int32_t)
#undef ADDS

#if defined(__x86_64__)
/* f16 by instructions, which every processor with AVX2 has; bf16 in wider vectors. */
#define HAS_AVX2 __builtin_cpu_supports("avx2")
ROW_FOR(__attribute__((target("avx2"))), widen_bf16_fast, float, uint16_t, bf16_to_f32(from[j]))
ROW_FOR(__attribute__((target("avx2"))), round_bf16_fast, uint16_t, float, bf16_of_f32(from[j]))
__attribute__((target("avx2,f16c"))) static void widen_f16_fast(void *restrict to, const void *restrict from,
                                                                int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i some = _mm_loadu_si128((const __m128i *)((const uint16_t *)from + i));
        _mm256_storeu_ps((float *)to + i, _mm256_cvtph_ps(some));
    }
    for (; i < n; i++) ((float *)to)[i] = f16_to_f32(((const uint16_t *)from)[i]);
}
__attribute__((target("avx2,f16c"))) static void round_f16_fast(void *restrict to, const void *restrict from,
                                                                int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i some = _mm256_cvtps_ph(_mm256_loadu_ps((const float *)from + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)((uint16_t *)to + i), some);
    }
    for (; i < n; i++) ((uint16_t *)to)[i] = f16_of_f32(((const float *)from)[i]);
}
#else
#define HAS_AVX2 false
#define widen_f16_fast widen_f16
#define round_f16_fast round_f16
#define widen_bf16_fast widen_bf16
#define round_bf16_fast round_bf16
#endif
#undef ROW
#undef ROW_FOR

row_function row_widens(enum dtype from)
{
    switch (from) {
    case DT_F32: return copy_f32;
    case DT_F16: return HAS_AVX2 ? widen_f16_fast : widen_f16;
    case DT_BF16: return HAS_AVX2 ? widen_bf16_fast : widen_bf16;
    case DT_I8: return widen_i8;
    default: return widen_u8; /* and bool */
    }
}

row_function row_rounds(enum dtype to)
{
    if (to == DT_F32) return copy_f32;
    if (to == DT_BF16) return HAS_AVX2 ? round_bf16_fast : round_bf16;
    return HAS_AVX2 ? round_f16_fast : round_f16;
}

row_function row_adds(enum dtype to, bool from_i32)
{
    switch (dtype_info[to].size) {
    case 1: return from_i32 ? add_8_i32 : add_8_f32;
    case 2: return from_i32 ? add_16_i32 : add_16_f32;
    case 4: return from_i32 ? add_32_i32 : add_32_f32;
    default: return from_i32 ? add_64_i32 : add_64_f32;
    }
}

/* ---- panels ---- */

int64_t panels_count(const struct side *s, int64_t depth)
{
    return s->whole / s->width * ((depth + DEPTH - 1) / DEPTH);
}

/* How much of a line is before a stretch. */
static int64_t packed_depth(const struct product_kernel *k, int64_t from)
{
    return from + from / DEPTH * k->beside;
}

int64_t panels_bytes(const struct product_kernel *k, const struct side *s, int64_t depth)
{
    int64_t stretches = (depth + DEPTH - 1) / DEPTH;
    return s->whole * (rounded_up(depth, k->group) + stretches * k->beside) * k->size;
}

/* Of one stretch after the other, and in it of one panel after the other. */
char *panel_at(const struct product_kernel *k, const struct side *s, int64_t line, int64_t from,
               int64_t depth)
{
    int64_t of_line = rounded_up(depth, k->group) + k->beside;
    return s->panels + (s->whole * packed_depth(k, from) + line * of_line) * k->size;
}

/* The lines of a panel in the dtype that is multiplied: a little copy in the first cache. */
static void convert(const struct side *s, const char *lines, int64_t n, int64_t depth, float *to)
{
    row_function widen = row_widens(s->dtype);
    bool beside = s->along == 1;
    int64_t rows = beside ? depth : n, length = beside ? n : depth;
    int64_t row = (beside ? s->step : s->along) * (int64_t)dtype_info[s->dtype].size;
    for (int64_t i = 0; i < rows; i++) widen(to + i * length, lines + i * row, length);
}

void panel_make(const struct product_kernel *k, const struct side *s, int64_t line, int64_t from,
                int64_t depth, char *to)
{
    int64_t n = HOP_MIN(s->width, s->n - line), size = dtype_info[s->dtype].size;
    const char *lines = s->data + (line * s->along + from * s->step) * size;
    bool is_signed = s->dtype == DT_I8;
    if (s->dtype == k->dtype || k->group > 1) {
        k->pack(to, lines, n, s->along, depth, s->step, s->width, is_signed);
        return;
    }
    float some[32 * DEPTH];
    bool beside = s->along == 1;
    convert(s, lines, n, depth, some);
    k->pack(to, some, n, beside ? 1 : depth, depth, beside ? n : 1, s->width, false);
}

enum { NOT_MADE, IN_THE_MAKING, MADE };
enum { SPINS_BEFORE_YIELD = 4000 };

static atomic_uchar *made_at(const struct side *s, int64_t line, int64_t from)
{
    return s->made + (s->whole / s->width) * (from / DEPTH) + line / s->width;
}

void panels_ready(const struct product_kernel *k, const struct side *s, int64_t line, int64_t end,
                  int64_t from, int64_t depth)
{
    bool wait = false;
    if (!s->made) return;
    for (int64_t i = line; i < end; i += s->width) {
        atomic_uchar *made = made_at(s, i, from);
        unsigned char state = atomic_load_explicit(made, memory_order_acquire);
        if (state == NOT_MADE && atomic_compare_exchange_strong(made, &state, IN_THE_MAKING)) {
            panel_make(k, s, i, from, depth, panel_at(k, s, i, from, depth));
            atomic_store_explicit(made, MADE, memory_order_release);
        } else wait |= state != MADE;
    }
    for (int64_t i = line; wait && i < end; i += s->width) {
        atomic_uchar *made = made_at(s, i, from);
        for (uint32_t spins = 0; atomic_load_explicit(made, memory_order_acquire) != MADE; spins++)
            if (spins < SPINS_BEFORE_YIELD) PAUSE();
            else sched_yield();
    }
}

/* ---- memory ---- */

struct room {
    char *data;
    size_t size;
};
static pthread_once_t room_once = PTHREAD_ONCE_INIT;
static pthread_key_t room_key;
static bool room_has_key;
static void room_free(void *room)
{
    free(((struct room *)room)->data);
    free(room);
}
static void room_begin(void) { room_has_key = !pthread_key_create(&room_key, room_free); }

/* Large rooms lie in large pages where the system gives them: panels are read at random. */
static char *room_new(size_t size)
{
    enum { PAGE = 64, LARGE_PAGE = 2 << 20 };
    size_t align = size >= LARGE_PAGE ? LARGE_PAGE : PAGE;
    char *data = aligned_alloc(align, (size_t)rounded_up((int64_t)size, (int64_t)align));
    if (data && align == LARGE_PAGE) madvise(data, size, MADV_HUGEPAGE);
    return data;
}

char *panels_room(size_t size)
{
    pthread_once(&room_once, room_begin);
    if (!room_has_key) return NULL;
    struct room *room = pthread_getspecific(room_key);
    if (room && room->size >= size) return room->data;
    if (!room) {
        room = calloc(1, sizeof *room);
        if (!room) return NULL;
        if (pthread_setspecific(room_key, room)) {
            free(room);
            return NULL;
        }
    }
    free(room->data);
    room->data = room_new(size);
    room->size = room->data ? size : 0;
    return room->data;
}
