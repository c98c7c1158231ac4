/* The tiles of product_tile.h for the processors that this file knows, and the choice between them. It is
 * compiled with multiplications and additions contracted. */
#include "runtime/product_kernels.h"
#include "base/base.h"

#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

/* PACK_DEPTH: elements of a line that go to panels before the next line's. */
enum { ROW_VECTORS = 8, DOT_ROWS = 4, PACK_DEPTH = 16 };

#define JOIN(a, b) a##_##b

#if defined(__x86_64__)
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")))
#define NAME(x) JOIN(wide_f32, x)
#define T float
#define LANES 16
#define ROWS 12
#include "runtime/product_tile.h"
#define NAME(x) JOIN(wide_f64, x)
#define T double
#define LANES 8
#define ROWS 12
#include "runtime/product_tile.h"
#undef TARGET
#define TARGET __attribute__((target("avx2,fma")))
#define NAME(x) JOIN(avx2_f32, x)
#define T float
#define LANES 8
#define ROWS 6
#include "runtime/product_tile.h"
#define NAME(x) JOIN(avx2_f64, x)
#define T double
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
#define LANES 4
#define ROWS PLAIN_ROWS
#include "runtime/product_tile.h"
#define NAME(x) JOIN(plain_f64, x)
#define T double
#define LANES 2
#define ROWS PLAIN_ROWS
#include "runtime/product_tile.h"

enum level { PLAIN, AVX2, WIDE };
static _Atomic int known = -1, most = WIDE;

static int processor_level(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    bool is_wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
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

const struct product_kernel *product_kernel(enum dtype t)
{
    bool single = t == DT_F32;
#if defined(__x86_64__)
    if (level() == WIDE) return single ? &wide_f32_kernel : &wide_f64_kernel;
    if (level() == AVX2) return single ? &avx2_f32_kernel : &avx2_f64_kernel;
#endif
    return single ? &plain_f32_kernel : &plain_f64_kernel;
}

const char *product_kernels_for(void)
{
    static const char *const names[] = { [PLAIN] = "", [AVX2] = "AVX2", [WIDE] = "AVX-512" };
    return names[level()];
}
