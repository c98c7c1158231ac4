/* Tiles of products of bf16 by the processor's dot products: two neighbours of the depth by two, each product
 * exact, added to an f32 one after the other. Panels have the two beside each other. Factors and sums below
 * the smallest normal number are zero there. */
#include "base/base.h"
#include "runtime/product_kernels.h"
#include "runtime/product_words.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,sse4.2")))
/* What _mm512_dpbf16_ps does, from compilers that do not know it. */
#define ADD_DOTS(sum, x, y) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y))
enum { ROWS = 12, COLS = 32, LANES = 16, GROUP = 2 };

TARGET static inline __attribute__((always_inline)) void tile_of(const struct tile *w, int rows)
{
    __m512 s[ROWS][2] = { { { 0 } } };
    const uint32_t *a = w->a, *b = w->b;
    int64_t groups = (w->depth + GROUP - 1) / GROUP;
    for (int64_t g = 0; g < groups; g++, a += ROWS, b += COLS) {
        __m512i first = _mm512_loadu_si512(b), second = _mm512_loadu_si512(b + LANES);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            __m512i x = _mm512_set1_epi32((int)a[i]);
            ADD_DOTS(s[i][0], x, first);
            ADD_DOTS(s[i][1], x, second);
        }
    }
    __mmask16 left = (__mmask16)((1u << HOP_MIN(w->cols, LANES)) - 1);
    __mmask16 right = (__mmask16)((1u << HOP_MAX(w->cols - LANES, 0)) - 1);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        if (i >= w->rows) break;
        float *c = (float *)w->c + i * w->c_row;
        if (w->add) {
            s[i][0] = _mm512_add_ps(s[i][0], _mm512_maskz_loadu_ps(left, c));
            s[i][1] = _mm512_add_ps(s[i][1], _mm512_maskz_loadu_ps(right, c + LANES));
        }
        _mm512_mask_storeu_ps(c, left, s[i][0]);
        _mm512_mask_storeu_ps(c + LANES, right, s[i][1]);
    }
}

TARGET static void tile(const struct tile *w)
{
    if (w->rows > 8) tile_of(w, ROWS);
    else if (w->rows > 4) tile_of(w, 8);
    else if (w->rows > 1) tile_of(w, 4);
    else tile_of(w, 1);
}

/* Two depths of `n` lines that lie beside each other; of the last depth there may be one. */
TARGET static inline __attribute__((always_inline)) void pairs_of(uint32_t *restrict to,
                                                                  const uint16_t *restrict from, int64_t step,
                                                                  int n, bool has_second)
{
    for (int j = 0; j < n; j++) to[j] = from[j] | (has_second ? (uint32_t)from[step + j] << 16 : 0);
}

/* Lines from anywhere, from the pair `g` of the depth on. */
static void turn_line(uint32_t *to, int64_t width, const uint16_t *line, int64_t depth, int64_t step,
                      int64_t g)
{
    for (; g * GROUP < depth; g++) {
        const uint16_t *from = line + g * GROUP * step;
        to[g * width] = from[0] | (g * GROUP + 1 < depth ? (uint32_t)from[step] << 16 : 0);
    }
}

TARGET static void pack(void *panels, const void *lines, int64_t n, int64_t along, int64_t depth,
                        int64_t step, int64_t width, bool is_signed)
{
    uint32_t *to = panels;
    const uint16_t *from = lines;
    int64_t groups = (depth + GROUP - 1) / GROUP, j = 0;
    HOP_UNUSED(is_signed);
    if (n < width) memset(to, 0, (size_t)(groups * width) * sizeof *to);
    if (along == 1) {
        for (int64_t g = 0; g < groups; g++, to += width, from += GROUP * step) {
            bool has_second = g * GROUP + 1 < depth;
            if (n == COLS && has_second) pairs_of(to, from, step, COLS, true);
            else pairs_of(to, from, step, (int)n, has_second);
        }
        return;
    }
    int64_t squares = step == 1 ? depth / GROUP / WORDS_SQUARE * WORDS_SQUARE : 0;
    for (; squares && j + WORDS_SQUARE <= n; j += WORDS_SQUARE) {
        for (int64_t g = 0; g < squares; g += WORDS_SQUARE)
            words_turn(to + g * width + j, width, from + j * along + g * GROUP, along * (int64_t)sizeof *from,
                       0);
        for (int64_t i = j; i < j + WORDS_SQUARE; i++)
            turn_line(to + i, width, from + i * along, depth, step, squares);
    }
    for (; j < n; j++) turn_line(to + j, width, from + j * along, depth, step, 0);
}

const struct product_kernel product_halves_kernel = { .dtype = DT_BF16,
                                                      .size = 2,
                                                      .sum_size = sizeof(float),
                                                      .rows = ROWS,
                                                      .cols = COLS,
                                                      .group = GROUP,
                                                      .tile = tile,
                                                      .pack = pack };
#endif
