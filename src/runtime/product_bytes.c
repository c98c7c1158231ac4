/* Tiles of products of bytes by the processor's dot products: four unsigned bytes by four signed ones, added
 * to an i32. Rows are brought to unsigned numbers and columns to signed ones by 128, and sums of lines, which
 * panels have behind them, take that out again: all is exact modulo 2^32. */
#include "base/base.h"
#include "runtime/product_kernels.h"
#include "runtime/product_words.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vnni,avx2,sse4.2")))
/* What _mm512_dpbusd_epi32 does, for which gcc copies all sums to memory and back at every step. */
#define ADD_DOTS(sum, x, y) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y))
enum { ROWS = 12, COLS = 32, GROUP = 4, VECTOR = 64, LANES = 16 };

TARGET static inline __attribute__((always_inline)) void tile_of(const struct tile *w, int rows)
{
    __m512i s[ROWS][2] = { { { 0 } } };
    const char *a = w->a, *b = w->b;
    int64_t groups = (w->depth + GROUP - 1) / GROUP;
    for (int64_t g = 0; g < groups; g++, a += (size_t)ROWS * GROUP, b += (size_t)COLS * GROUP) {
        __m512i first = _mm512_loadu_si512(b), second = _mm512_loadu_si512(b + VECTOR);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            int32_t four;
            memcpy(&four, a + (ptrdiff_t)i * GROUP, sizeof four);
            __m512i x = _mm512_set1_epi32(four);
            ADD_DOTS(s[i][0], x, first);
            ADD_DOTS(s[i][1], x, second);
        }
    }
    __m512i factor = _mm512_set1_epi32(w->col_factor);
    __m512i first = _mm512_mullo_epi32(_mm512_loadu_si512(b), factor);
    __m512i second = _mm512_mullo_epi32(_mm512_loadu_si512(b + VECTOR), factor);
    __mmask16 left = (__mmask16)((1u << HOP_MIN(w->cols, LANES)) - 1);
    __mmask16 right = (__mmask16)((1u << HOP_MAX(w->cols - LANES, 0)) - 1);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        if (i >= w->rows) break;
        int32_t *c = (int32_t *)w->c + i * w->c_row;
        int32_t sum;
        memcpy(&sum, a + (ptrdiff_t)i * GROUP, sizeof sum);
        __m512i more = _mm512_set1_epi32(sum * w->row_factor);
        s[i][0] = _mm512_add_epi32(s[i][0], _mm512_sub_epi32(more, first));
        s[i][1] = _mm512_add_epi32(s[i][1], _mm512_sub_epi32(more, second));
        if (w->add) {
            s[i][0] = _mm512_add_epi32(s[i][0], _mm512_maskz_loadu_epi32(left, c));
            s[i][1] = _mm512_add_epi32(s[i][1], _mm512_maskz_loadu_epi32(right, c + LANES));
        }
        _mm512_mask_storeu_epi32(c, left, s[i][0]);
        _mm512_mask_storeu_epi32(c + LANES, right, s[i][1]);
    }
}

TARGET static void tile(const struct tile *w)
{
    if (w->rows > 8) tile_of(w, ROWS);
    else if (w->rows > 4) tile_of(w, 8);
    else if (w->rows > 1) tile_of(w, 4);
    else tile_of(w, 1);
}

/* Four depths of `n` lines that lie beside each other; of the last four there may be fewer. */
TARGET static inline __attribute__((always_inline)) void fours_of(uint32_t *to, int64_t width,
                                                                  const uint8_t *from, int64_t step, int n,
                                                                  int deep, uint8_t flip)
{
    __mmask32 some = (__mmask32)((1ull << n) - 1);
    __m256i x[GROUP], flips = _mm256_set1_epi8((char)flip), zero = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int t = 0; t < GROUP; t++) {
        x[t] = zero;
        if (t < deep) x[t] = _mm256_xor_si256(_mm256_maskz_loadu_epi8(some, from + t * step), flips);
        x[t] = _mm256_maskz_mov_epi8(some, x[t]);
    }
    __m256i a = _mm256_unpacklo_epi8(x[0], x[1]), b = _mm256_unpackhi_epi8(x[0], x[1]);
    __m256i c = _mm256_unpacklo_epi8(x[2], x[3]), d = _mm256_unpackhi_epi8(x[2], x[3]);
    __m256i e = _mm256_unpacklo_epi16(a, c), f = _mm256_unpackhi_epi16(a, c);
    __m256i g = _mm256_unpacklo_epi16(b, d), h = _mm256_unpackhi_epi16(b, d);
    __m512i first = _mm512_castsi256_si512(_mm256_permute2x128_si256(e, f, 0x20));
    __m512i second = _mm512_castsi256_si512(_mm256_permute2x128_si256(e, f, 0x31));
    first = _mm512_inserti64x4(first, _mm256_permute2x128_si256(g, h, 0x20), 1);
    second = _mm512_inserti64x4(second, _mm256_permute2x128_si256(g, h, 0x31), 1);
    if (width == COLS) _mm512_storeu_si512(to + LANES, second);
    _mm512_mask_storeu_epi32(to, width == COLS ? 0xffff : (1 << ROWS) - 1, first);
}

/* The depths of a line from group g on. */
static void turn_line(uint32_t *to, int64_t width, const uint8_t *line, int64_t depth, int64_t g,
                      uint8_t flip)
{
    for (; g * GROUP < depth; g++) {
        uint32_t four = 0, flips = flip * 0x01010101u;
        int64_t deep = HOP_MIN(GROUP, depth - g * GROUP);
        memcpy(&four, line + g * GROUP, (size_t)deep);
        if (deep < GROUP) flips &= (1u << 8 * deep) - 1;
        to[g * width] = four ^ flips;
    }
}

/* What rows have as unsigned bytes, and columns as signed ones, added up by lines. */
TARGET static void add_lines(int32_t *sums, const uint32_t *panel, int64_t groups, int64_t width)
{
    bool is_rows = width == ROWS;
    __mmask16 some = is_rows ? (1 << ROWS) - 1 : 0xffff;
    __m512i first = _mm512_setzero_si512(), second = first, ones = _mm512_set1_epi8(1);
    for (int64_t g = 0; g < groups; g++, panel += width) {
        __m512i x = _mm512_maskz_loadu_epi32(some, panel);
        if (is_rows) ADD_DOTS(first, x, ones);
        else ADD_DOTS(first, ones, x);
        if (is_rows) continue;
        x = _mm512_loadu_si512(panel + LANES);
        ADD_DOTS(second, ones, x);
    }
    _mm512_mask_storeu_epi32(sums, some, first);
    if (!is_rows) _mm512_storeu_si512(sums + LANES, second);
}

/* `flip` brings bytes to what is multiplied. Behind the panel are the sums of its lines: of rows the bytes as
 * numbers, of columns what is multiplied. */
TARGET static void pack(void *panels, const void *lines, int64_t n, int64_t along, int64_t depth,
                        int64_t step, int64_t width, bool is_signed)
{
    bool is_rows = width == ROWS;
    uint8_t flip = is_rows == is_signed ? 128 : 0;
    int64_t groups = (depth + GROUP - 1) / GROUP, j = 0;
    const uint8_t *from = lines;
    uint32_t *to = panels;
    int32_t *sums = (int32_t *)panels + groups * width;
    if (along == 1) {
        for (int64_t g = 0; g < groups; g++) {
            int deep = (int)HOP_MIN(GROUP, depth - g * GROUP);
            fours_of(to + g * width, width, from + g * GROUP * step, step, (int)n, deep, flip);
        }
    } else {
        int64_t squares = depth / GROUP / WORDS_SQUARE * WORDS_SQUARE;
        if (n < width) memset(to, 0, (size_t)(groups * width) * sizeof *to);
        for (; j + WORDS_SQUARE <= n; j += WORDS_SQUARE) {
            for (int64_t g = 0; g < squares; g += WORDS_SQUARE)
                words_turn(to + g * width + j, width, from + j * along + g * GROUP, along,
                           flip * 0x01010101u);
            for (int64_t i = j; i < j + WORDS_SQUARE; i++)
                turn_line(to + i, width, from + i * along, depth, squares, flip);
        }
        for (; j < n; j++) turn_line(to + j, width, from + j * along, depth, 0, flip);
    }
    add_lines(sums, to, groups, width);
    for (j = 0; is_rows && is_signed && j < n; j++) sums[j] -= (int32_t)(128 * depth);
}

const struct product_kernel product_bytes_kernel = { .dtype = DT_I8,
                                                     .size = 1,
                                                     .sum_size = sizeof(int32_t),
                                                     .rows = ROWS,
                                                     .cols = COLS,
                                                     .group = GROUP,
                                                     .beside = sizeof(int32_t),
                                                     .tile = tile,
                                                     .pack = pack };
#endif
