/* Tiles of products of bytes by the processor's dot products: four unsigned bytes by four signed ones, added
 * to an i32. Rows are brought to unsigned numbers and columns to signed ones by 128, and sums of lines, which
 * panels have behind them, take that out again: all is exact modulo 2^32. */
#include "base/base.h"
#include "runtime/product_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx512vnni")))
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
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        int32_t *c = (int32_t *)w->c + i * w->c_row;
        int32_t sum;
        memcpy(&sum, a + (ptrdiff_t)i * GROUP, sizeof sum);
        __m512i more = _mm512_set1_epi32(sum * w->row_factor);
        _mm512_storeu_si512(c, _mm512_add_epi32(s[i][0], _mm512_sub_epi32(more, first)));
        _mm512_storeu_si512(c + LANES, _mm512_add_epi32(s[i][1], _mm512_sub_epi32(more, second)));
    }
}

/* C has room for whole tiles, and what it had is not added to. */
TARGET static void tile(const struct tile *w)
{
    if (w->rows > 8) tile_of(w, ROWS);
    else if (w->rows > 4) tile_of(w, 8);
    else if (w->rows > 1) tile_of(w, 4);
    else tile_of(w, 1);
}

/* Four depths of a panel whose lines lie beside each other; `n` of them, of the depths `deep`. */
TARGET static inline __attribute__((always_inline)) void group_of(uint32_t *restrict to,
                                                                  int32_t *restrict sums,
                                                                  const uint8_t *restrict from, int64_t step,
                                                                  int n, int deep, uint8_t flip, int sign)
{
    for (int j = 0; j < n; j++) {
        uint32_t four = 0;
        for (int t = 0; t < deep; t++) {
            uint8_t x = from[t * step + j];
            four |= (uint32_t)(uint8_t)(x ^ flip) << 8 * t;
            sums[j] += (int32_t)(x ^ sign) - sign;
        }
        to[j] = four;
    }
}

/* `flip` brings bytes to what is multiplied; (x ^ sign) - sign is the byte as a number. Of rows the bytes are
 * added up, of columns what is multiplied. */
TARGET static void pack(void *panels, const void *lines, int64_t n, int64_t along, int64_t depth,
                        int64_t step, int64_t width, bool is_signed)
{
    bool is_rows = width == ROWS;
    uint8_t flip = is_rows == is_signed ? 128 : 0;
    int sign = is_signed ? 128 : 0;
    int64_t groups = (depth + GROUP - 1) / GROUP;
    uint32_t *to = panels;
    int32_t *sums = (int32_t *)panels + groups * width;
    memset(sums, 0, (size_t)width * sizeof *sums);
    if (n < width) memset(to, 0, (size_t)(groups * width) * sizeof *to);
    if (along == 1)
        for (int64_t g = 0; g < groups; g++) {
            const uint8_t *from = (const uint8_t *)lines + g * GROUP * step;
            int deep = (int)HOP_MIN(GROUP, depth - g * GROUP);
            if (n == COLS && deep == GROUP)
                group_of(to + g * width, sums, from, step, COLS, GROUP, flip, sign);
            else group_of(to + g * width, sums, from, step, (int)n, deep, flip, sign);
        }
    else
        for (int64_t j = 0; j < n; j++) {
            const uint8_t *from = (const uint8_t *)lines + j * along;
            int32_t sum = 0;
            for (int64_t t = 0; t < depth; t++) sum += (int32_t)(from[t] ^ sign) - sign;
            sums[j] = sum;
            for (int64_t g = 0; g < groups; g++) {
                uint32_t four = 0, flips = flip * 0x01010101u;
                int64_t deep = HOP_MIN(GROUP, depth - g * GROUP);
                if (deep == GROUP) memcpy(&four, from + g * GROUP, GROUP);
                else memcpy(&four, from + g * GROUP, (size_t)deep);
                if (deep < GROUP) flips &= (1u << 8 * deep) - 1;
                to[g * width + j] = four ^ flips;
            }
        }
    /* Of columns that are unsigned, what is multiplied is 128 less than the bytes. */
    for (int64_t j = 0; !is_rows && !is_signed && j < n; j++) sums[j] -= (int32_t)(128 * depth);
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
