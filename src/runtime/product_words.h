/* What kernels of narrow elements have in common: panels of words of 32 bits, each some neighbours of the
 * depth of one line. */
#ifndef HOP_PRODUCT_WORDS_H
#define HOP_PRODUCT_WORDS_H

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>

enum { WORDS_SQUARE = 4 };

/* Four lines so many bytes apart, four words of each, become four words of the depth, with some bits turned.
 */
static inline void words_turn(uint32_t *to, int64_t width, const void *from, int64_t apart, uint32_t flips)
{
    __m128i x[WORDS_SQUARE], flip = _mm_set1_epi32((int)flips);
    for (int i = 0; i < WORDS_SQUARE; i++)
        x[i] = _mm_xor_si128(_mm_loadu_si128((const __m128i *)((const char *)from + i * apart)), flip);
    __m128i a = _mm_unpacklo_epi32(x[0], x[1]), b = _mm_unpacklo_epi32(x[2], x[3]);
    __m128i c = _mm_unpackhi_epi32(x[0], x[1]), d = _mm_unpackhi_epi32(x[2], x[3]);
    _mm_storeu_si128((__m128i *)to, _mm_unpacklo_epi64(a, b));
    _mm_storeu_si128((__m128i *)(to + width), _mm_unpackhi_epi64(a, b));
    _mm_storeu_si128((__m128i *)(to + 2 * width), _mm_unpacklo_epi64(c, d));
    _mm_storeu_si128((__m128i *)(to + 3 * width), _mm_unpackhi_epi64(c, d));
}

#endif
#endif
