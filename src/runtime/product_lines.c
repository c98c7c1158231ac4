/* The lines of product_line.h for the dtypes of matrices and the processors that products have kernels for.
 * It is compiled with multiplications and additions contracted. */
#include "runtime/product_lines.h"
#include "base/base.h"
#include "ir/number.h"
#include "loop/rt.h"
#include "runtime/pool.h"
#include "runtime/product_panels.h"

enum {
    LINES_AT_ONCE = 8, /* are added to sums that stay in the first cache */
    DOT_LINES = 4,
    CHUNK = 1024, /* elements of a row of C that are summed at a time */
    UNIT = 64     /* elements of a row of C: no less for a thread */
};
/* Work that waking a thread is worth, in multiplications. */
static const double WORTH_THREADS = 1.25e5;

#define JOIN(a, b) a##_##b
#define OF_F32(x) (x)
#define OF_WHOLE(x) ((float)(x))

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c")))
#define LANES 16
#define VECTORS 1
#define BYTES_16(from) _mm_loadu_si128((const __m128i *)(from))
#define BYTES_32(from) _mm256_loadu_si256((const __m256i *)(from))
#define NAME(x) JOIN(wide_f32_lines, x)
#define T float
#define SUM float
#define WIDEN(from) (wide_f32_lines_vector) _mm512_loadu_ps(from)
#define ONE OF_F32
#include "runtime/product_line.h"
#define NAME(x) JOIN(wide_f16_lines, x)
#define T uint16_t
#define SUM float
#define WIDEN(from) (wide_f16_lines_vector) _mm512_cvtph_ps(BYTES_32(from))
#define ONE f16_to_f32
#include "runtime/product_line.h"
#define NAME(x) JOIN(wide_bf16_lines, x)
#define T uint16_t
#define SUM float
#define WIDEN(from) (wide_bf16_lines_vector) _mm512_slli_epi32(_mm512_cvtepu16_epi32(BYTES_32(from)), 16)
#define ONE bf16_to_f32
#include "runtime/product_line.h"
#define NAME(x) JOIN(wide_i8_lines, x)
#define T int8_t
#define SUM int32_t
#define WIDEN(from) (wide_i8_lines_vector) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(BYTES_16(from)))
#define ONE OF_WHOLE
#include "runtime/product_line.h"
#define NAME(x) JOIN(wide_u8_lines, x)
#define T uint8_t
#define SUM int32_t
#define WIDEN(from) (wide_u8_lines_vector) _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(BYTES_16(from)))
#define ONE OF_WHOLE
#include "runtime/product_line.h"
#undef TARGET
#undef LANES
#undef VECTORS

#define TARGET __attribute__((target("avx2,fma,f16c")))
#define LANES 8
#define VECTORS 2
#define BYTES_8(from) _mm_loadl_epi64((const __m128i *)(from))
#define NAME(x) JOIN(avx2_f32_lines, x)
#define T float
#define SUM float
#define WIDEN(from) (avx2_f32_lines_vector) _mm256_loadu_ps(from)
#define ONE OF_F32
#include "runtime/product_line.h"
#define NAME(x) JOIN(avx2_f16_lines, x)
#define T uint16_t
#define SUM float
#define WIDEN(from) (avx2_f16_lines_vector) _mm256_cvtph_ps(BYTES_16(from))
#define ONE f16_to_f32
#include "runtime/product_line.h"
#define NAME(x) JOIN(avx2_bf16_lines, x)
#define T uint16_t
#define SUM float
#define WIDEN(from) (avx2_bf16_lines_vector) _mm256_slli_epi32(_mm256_cvtepu16_epi32(BYTES_16(from)), 16)
#define ONE bf16_to_f32
#include "runtime/product_line.h"
#define NAME(x) JOIN(avx2_i8_lines, x)
#define T int8_t
#define SUM int32_t
#define WIDEN(from) (avx2_i8_lines_vector) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(BYTES_8(from)))
#define ONE OF_WHOLE
#include "runtime/product_line.h"
#define NAME(x) JOIN(avx2_u8_lines, x)
#define T uint8_t
#define SUM int32_t
#define WIDEN(from) (avx2_u8_lines_vector) _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(BYTES_8(from)))
#define ONE OF_WHOLE
#include "runtime/product_line.h"
#undef TARGET
#undef LANES
#undef VECTORS
#endif

/* Vectors of 16 bytes, which every processor has. */
#define TARGET
#define LANES 4
#define VECTORS 1
#define FOUR(one, x) { one((x)[0]), one((x)[1]), one((x)[2]), one((x)[3]) }
#define NAME(x) JOIN(plain_f32_lines, x)
#define T float
#define SUM float
#define WIDEN(from) (*(const plain_f32_lines_vector *)(from))
#define ONE OF_F32
#include "runtime/product_line.h"
#define NAME(x) JOIN(plain_f16_lines, x)
#define T uint16_t
#define SUM float
#define WIDEN(from) ((plain_f16_lines_vector)FOUR(f16_to_f32, from))
#define ONE f16_to_f32
#include "runtime/product_line.h"
#define NAME(x) JOIN(plain_bf16_lines, x)
#define T uint16_t
#define SUM float
#define WIDEN(from) ((plain_bf16_lines_vector)FOUR(bf16_to_f32, from))
#define ONE bf16_to_f32
#include "runtime/product_line.h"
#define NAME(x) JOIN(plain_i8_lines, x)
#define T int8_t
#define SUM int32_t
#define WIDEN(from) ((plain_i8_lines_vector)FOUR(OF_WHOLE, from))
#define ONE OF_WHOLE
#include "runtime/product_line.h"
#define NAME(x) JOIN(plain_u8_lines, x)
#define T uint8_t
#define SUM int32_t
#define WIDEN(from) ((plain_u8_lines_vector)FOUR(OF_WHOLE, from))
#define ONE OF_WHOLE
#include "runtime/product_line.h"

/* By vectors: of 64 bytes, of 32, of 16. */
struct line_kernels {
    const struct line_kernel *f32, *f16, *bf16, *i8, *u8;
};
#define KERNELS(level) \
    { &level##_f32_lines_kernel, &level##_f16_lines_kernel, &level##_bf16_lines_kernel, \
      &level##_i8_lines_kernel, &level##_u8_lines_kernel }
static const struct line_kernels plain = KERNELS(plain);
#if defined(__x86_64__)
static const struct line_kernels wide = KERNELS(wide), avx2 = KERNELS(avx2);
#endif

static const struct line_kernels *line_kernels(void)
{
#if defined(__x86_64__)
    int lanes = product_kernel(DT_F32, DT_F32, DT_F32)->cols / 2;
    if (lanes == 16) return &wide;
    if (lanes == 8) return &avx2;
#endif
    return &plain;
}

const struct line_kernel *line_kernel(enum dtype matrix)
{
    const struct line_kernels *k = line_kernels();
    switch (matrix) {
    case DT_F32: return k->f32;
    case DT_F16: return k->f16;
    case DT_BF16: return k->bf16;
    case DT_I8: return k->i8;
    default: return k->u8; /* and bool */
    }
}

/* ---- rows of C ---- */

/* What threads share. */
struct narrow_job {
    const struct narrow *p;
    const struct line_kernel *kernel;
    const float *x; /* rows in f32, one behind the other */
    bool across, whole;
};

/* A row function on a part of row i of C; `numbers` are of 4 bytes. */
static void each_way(const struct narrow *p, row_function f, int64_t i, int64_t j, int64_t n, void *numbers,
                     bool from_c)
{
    int64_t size = dtype_info[p->c_dtype].size, at_once = p->c_step == 1 ? n : 1;
    for (int64_t e = 0; e < n; e += at_once) {
        char *c = p->c + (i * p->c_row + (j + e) * p->c_step) * size, *number = (char *)numbers + e * 4;
        if (from_c) f(number, c, at_once);
        else f(c, number, at_once);
    }
}

static void clear_row(const struct narrow *p, int64_t i, int64_t j, int64_t n)
{
    int64_t size = dtype_info[p->c_dtype].size, at_once = p->c_step == 1 ? n : 1;
    for (int64_t e = 0; e < n; e += at_once)
        memset(p->c + (i * p->c_row + (j + e) * p->c_step) * size, 0, (size_t)(at_once * size));
}

/* Elements j to j + n of all rows. Sums of floats are added up in f32 and rounded once. */
static void multiply_chunk(const struct narrow_job *job, int64_t j, int64_t n)
{
    _Alignas(64) float sums[LINE_ROWS * CHUNK], totals[LINE_ROWS * CHUNK];
    const struct narrow *p = job->p;
    int64_t size = dtype_info[p->matrix_dtype].size, apart = job->across ? p->step : p->along;
    int64_t most = job->across ? LINE_DEPTH : job->whole ? DOT_DEPTH : p->depth;
    struct lines w = { .x = job->x,
                       .x_row = p->depth,
                       .matrix = p->matrix + j * p->along * size,
                       .apart = apart,
                       .n = n,
                       .sums = sums,
                       .sums_row = CHUNK,
                       .rows = (int)p->rows };
    for (int64_t i = 0; i < p->rows; i++)
        if (job->whole && !p->add) clear_row(p, i, j, n);
        else if (!job->whole && p->add)
            each_way(p, row_widens(p->c_dtype), i, j, n, totals + i * CHUNK, true);
        else if (!job->whole) memset(totals + i * CHUNK, 0, (size_t)n * sizeof *totals);
    for (int64_t from = 0; from < p->depth; from += most) {
        w.depth = HOP_MIN(most, p->depth - from);
        (job->across ? job->kernel->across : job->kernel->along)(&w);
        for (int64_t i = 0; i < p->rows; i++) {
            float *row = sums + i * CHUNK, *total = totals + i * CHUNK;
            if (job->whole) each_way(p, row_adds(p->c_dtype, !job->across), i, j, n, row, false);
            else
                for (int64_t e = 0; e < n; e++) total[e] += row[e];
        }
        w.x += most;
        w.matrix += most * p->step * size;
    }
    for (int64_t i = 0; i < p->rows && !job->whole; i++)
        each_way(p, row_rounds(p->c_dtype), i, j, n, totals + i * CHUNK, false);
}

static int32_t narrow_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct narrow_job *job = env;
    int64_t end = HOP_MIN(hi * UNIT, job->p->n);
    HOP_UNUSED(rt);
    for (int64_t j = lo * UNIT; j < end; j += CHUNK) multiply_chunk(job, j, HOP_MIN(CHUNK, end - j));
    return 0;
}

/* The rows in f32, in memory of the thread's; NULL: there is none. */
static const float *widened_rows(const struct narrow *p)
{
    row_function widen = row_widens(p->x_dtype);
    int64_t size = dtype_info[p->x_dtype].size, at_once = p->x_step == 1 ? p->depth : 1;
    float *x = (float *)panels_room((size_t)(p->rows * p->depth) * sizeof *x);
    for (int64_t i = 0; x && i < p->rows; i++)
        for (int64_t t = 0; t < p->depth; t += at_once)
            widen(x + i * p->depth + t, p->x + (i * p->x_along + t * p->x_step) * size, at_once);
    return x;
}

bool narrow_multiply(struct hop_rt *rt, const struct narrow *p, int32_t *status)
{
    struct narrow_job job = { p, line_kernel(p->matrix_dtype), NULL,
                              .across = p->along == 1 && p->step != 1 };
    job.whole = dtype_is_integer(p->c_dtype);
    if (p->rows > LINE_ROWS || (!job.across && p->step != 1)) return false;
    job.x = widened_rows(p);
    if (!job.x) return false;
    double work = (double)p->rows * (double)p->n * (double)p->depth;
    int64_t units = (p->n + UNIT - 1) / UNIT;
    if (p->alone || work < WORTH_THREADS) *status = narrow_some(rt, &job, 0, units);
    else *status = rt->parallel(rt, narrow_some, &job, units, HOP_MAX(units / (2 * pool_threads()), 1));
    return true;
}
