/* The tiles of product_tile.h for the processors that this file knows, and the choice between them. It is
 * compiled with multiplications and additions contracted. */
#include "runtime/product_kernels.h"
#include "base/base.h"

enum {
    ROW_VECTORS = 8,
    FEW_ROWS = PRODUCT_STREAMED_ROWS,
    DOT_ROWS = 4,
    WIDE_COLUMNS = 1024, /* whose sums stay in the first cache … */
    ROWS_AT_ONCE = 8     /* … while so many rows of B are added */
};

#define TURN_TWO(x) \
    do { \
        __typeof__(x[0]) first = __builtin_shufflevector(x[0], x[1], 0, 2); \
        x[1] = __builtin_shufflevector(x[0], x[1], 1, 3); \
        x[0] = first; \
    } while (0)
#define TURN_FOUR(x) \
    do { \
        __typeof__(x[0]) a = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5); \
        __typeof__(x[0]) b = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7); \
        __typeof__(x[0]) c = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5); \
        __typeof__(x[0]) d = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7); \
        x[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5); \
        x[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7); \
        x[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5); \
        x[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7); \
    } while (0)

#define JOIN(a, b) a##_##b

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")))
#define NAME(x) JOIN(wide_f32, x)
#define PART_LOAD(from, n) (wide_f32_vector) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1), from)
#define PART_STORE(to, x, n) _mm512_mask_storeu_ps(to, (__mmask16)((1u << (n)) - 1), (__m512)(x))
#define T float
#define TURN_SQUARE TURN_FOUR
#define LANES 16
#define ROWS 12
#include "runtime/product_tile.h"
#define NAME(x) JOIN(wide_f64, x)
#define PART_LOAD(from, n) (wide_f64_vector) _mm512_maskz_loadu_pd((__mmask8)((1u << (n)) - 1), from)
#define PART_STORE(to, x, n) _mm512_mask_storeu_pd(to, (__mmask8)((1u << (n)) - 1), (__m512d)(x))
#define T double
#define TURN_SQUARE TURN_TWO
#define LANES 8
#define ROWS 12
#include "runtime/product_tile.h"
#undef TARGET
#define TARGET __attribute__((target("avx2,fma")))
#define FIRST_OF_8(n) _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
#define FIRST_OF_4(n) _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3))
#define NAME(x) JOIN(avx2_f32, x)
#define PART_LOAD(from, n) (avx2_f32_vector) _mm256_maskload_ps(from, FIRST_OF_8(n))
#define PART_STORE(to, x, n) _mm256_maskstore_ps(to, FIRST_OF_8(n), (__m256)(x))
#define T float
#define TURN_SQUARE TURN_FOUR
#define LANES 8
#define ROWS 6
#include "runtime/product_tile.h"
#define NAME(x) JOIN(avx2_f64, x)
#define PART_LOAD(from, n) (avx2_f64_vector) _mm256_maskload_pd(from, FIRST_OF_4(n))
#define PART_STORE(to, x, n) _mm256_maskstore_pd(to, FIRST_OF_4(n), (__m256d)(x))
#define T double
#define TURN_SQUARE TURN_TWO
#define LANES 4
#define ROWS 6
#include "runtime/product_tile.h"
#undef TARGET
#endif

/* Vectors of 16 bytes, which every processor has. */
#define TARGET
#if defined(__aarch64__)
#define PLAIN_ROWS 12
#else
#define PLAIN_ROWS 4
#endif
#define NAME(x) JOIN(plain_f32, x)
#define T float
#define TURN_SQUARE TURN_FOUR
#define LANES 4
#define ROWS PLAIN_ROWS
#include "runtime/product_tile.h"
#define NAME(x) JOIN(plain_f64, x)
#define T double
#define TURN_SQUARE TURN_TWO
#define LANES 2
#define ROWS PLAIN_ROWS
#include "runtime/product_tile.h"

/* WIDE: AVX-512; BYTES: and dot products of bytes; HALVES: and of bf16. */
enum level { PLAIN, AVX2, WIDE, BYTES, HALVES };
static _Atomic int known = -1, most = HALVES;

static int processor_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    if (is_wide && __builtin_cpu_supports("avx512vnni"))
        return __builtin_cpu_supports("avx512bf16") ? HALVES : BYTES;
    return has_avx2 ? is_wide ? WIDE : AVX2 : PLAIN;
#else
    return PLAIN;
#endif
}

static enum level level(void)
{
    if (known < 0) known = processor_level();
    return (enum level)HOP_MIN(known, most);
}

void product_kernels_limit(int level) { most = level; }

const struct product_kernel *product_kernel(enum dtype c, enum dtype a, enum dtype b)
{
    bool single = c != DT_F64;
#if defined(__x86_64__)
    bool bytes = dtype_is_integer(c) && dtype_info[a].size == 1 && dtype_info[b].size == 1;
    bool halves = a == DT_BF16 && b == DT_BF16 && (c == DT_BF16 || c == DT_F32);
    if (level() >= BYTES && bytes) return &product_bytes_kernel;
    if (level() == HALVES && halves) return &product_halves_kernel;
    if (level() >= WIDE) return single ? &wide_f32_kernel : &wide_f64_kernel;
    if (level() == AVX2) return single ? &avx2_f32_kernel : &avx2_f64_kernel;
#endif
    HOP_UNUSED(a);
    HOP_UNUSED(b);
    return single ? &plain_f32_kernel : &plain_f64_kernel;
}

const char *product_kernels_for(void)
{
    static const char *const names[] = {
        [PLAIN] = "", [AVX2] = "AVX2", [WIDE] = "AVX-512", [BYTES] = "AVX-512", [HALVES] = "AVX-512"
    };
    return names[level()];
}
