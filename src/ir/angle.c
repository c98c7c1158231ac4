/* See angle.h. The functions are written once: compiled here, and kept as text for emitted C. */
#include "ir/angle.h"

#include <math.h>
#include <string.h>

static inline uint64_t hop_bits_of_f64(double x)
{
    uint64_t r;
    memcpy(&r, &x, sizeof r);
    return r;
}
static inline double hop_f64_of_bits(uint64_t x)
{
    double r;
    memcpy(&r, &x, sizeof r);
    return r;
}

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)

/* hop_high: the upper half of a product.
 *
 * hop_far: x = m·2^e with a whole m of 53 bits. Of 2/pi only the bits whose product with m·2^e is below 4
 * matter: 192 of them from place e - 1 behind the point on (the table has 64 zeros in front), so that m times
 * them, modulo 2^192, is x·2/pi modulo 4 with 190 bits behind the point. No f64 comes nearer than 2^-62 to a
 * multiple, hence 70 bits and more of the rest are right. It is taken to the nearest multiple (to -1/2..1/2),
 * turned into two doubles, and times pi/2 gives r + low. Each function is then that of r and a correction by
 * `low`; of the tangent's reciprocal t's upper half is exact. */
#define SOURCE \
    static uint64_t hop_high(uint64_t a, uint64_t b) \
    { \
        const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32; \
        const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xffffffffu); \
        return a1 * b1 + (middle >> 32) + (other >> 32); \
    } \
    static double hop_far(int32_t which, double x) \
    { \
        static const uint64_t two_over_pi[20] = { 0u, \
                                                  0xa2f9836e4e441529u, \
                                                  0xfc2757d1f534ddc0u, \
                                                  0xdb6295993c439041u, \
                                                  0xfe5163abdebbc561u, \
                                                  0xb7246e3a424dd2e0u, \
                                                  0x06492eea09d1921cu, \
                                                  0xfe1deb1cb129a73eu, \
                                                  0xe88235f52ebb4484u, \
                                                  0xe99c7026b45f7e41u, \
                                                  0x3991d639835339f4u, \
                                                  0x9c845f8bbdf9283bu, \
                                                  0x1ff897ffde05980fu, \
                                                  0xef2f118b5a0a6d1fu, \
                                                  0x6d367ecf27cb09b7u, \
                                                  0x4f463f669e5fea2du, \
                                                  0x7527bac7ebe5f17bu, \
                                                  0x3d0739f78a5292eau, \
                                                  0x6bfb5fb11f8d5d08u, \
                                                  0x56033046fc7b6babu }; \
        static const double sin_c[] = { ANGLE_SIN_C }; \
        static const double cos_c[] = { ANGLE_COS_C }; \
        static const double tan_c[] = { ANGLE_TAN_C }; \
        const uint64_t bits = hop_bits_of_f64(x), m = (bits & 0x000fffffffffffffu) | 0x0010000000000000u; \
        const int32_t exponent = (int32_t)(bits >> 52 & 0x7ffu); \
        if (exponent == 0x7ff) return x - x; \
        const int32_t place = exponent - 1013, word = place >> 6, shift = place & 63; \
        uint64_t w[3]; \
        for (int32_t k = 0; k < 3; k++) { \
            const uint64_t upper = two_over_pi[word + k], lower = two_over_pi[word + k + 1]; \
            w[k] = shift ? upper << shift | lower >> (64 - shift) : upper; \
        } \
        const uint64_t p2 = m * w[2], h2 = hop_high(m, w[2]), l1 = m * w[1], p1 = l1 + h2; \
        const uint64_t p0 = m * w[0] + hop_high(m, w[1]) + (p1 < l1 ? 1u : 0u); \
        uint64_t f0 = p0 << 2 | p1 >> 62, f1 = p1 << 2 | p2 >> 62, f2 = p2 << 2; \
        const uint64_t below = f0 >> 63; \
        const uint32_t n = (uint32_t)(p0 >> 62) + (uint32_t)below; \
        if (below) { \
            f2 = ~f2 + 1u; \
            f1 = ~f1 + (f2 == 0u ? 1u : 0u); \
            f0 = ~f0 + (f2 == 0u && f1 == 0u ? 1u : 0u); \
        } \
        int32_t zeros = 0; \
        for (int32_t by = 32; by; by /= 2) { \
            if (f0 >> (64 - by)) continue; \
            f0 = f0 << by | f1 >> (64 - by); \
            f1 = f1 << by | f2 >> (64 - by); \
            f2 <<= by; \
            zeros += by; \
        } \
        const double scale = hop_f64_of_bits((uint64_t)(1023 - 53 - zeros) << 52), \
                     sign = below != bits >> 63 ? -scale : scale; \
        const double high = (double)(int64_t)(f0 >> 11) * sign, \
                     rest = (double)(int64_t)((f0 & 2047u) << 42 | f1 >> 22) * 0x1p-53 * sign; \
        const double product = high * 0x1.921fb54442d18p+0; \
        const double lost = fma(high, 0x1.921fb54442d18p+0, -product) + \
                            (high * 0x1.1a62633145c07p-54 + rest * 0x1.921fb54442d18p+0); \
        const double r = product + lost, low = product - r + lost, z = r * r; \
        const uint32_t quadrant = (bits >> 63 ? 0u - n : n) + (which == 1 ? 1u : 0u); \
        if (which == 2) { \
            double p = tan_c[14]; \
            for (int32_t k = 13; k >= 0; k--) p = p * z + tan_c[k]; \
            const double more = r * z * p + low * (z + 1.0), t = r + more; \
            if (!(quadrant & 1u)) return t; \
            const double t_high = hop_f64_of_bits(hop_bits_of_f64(t) & 0xfffffffff8000000u), \
                         t_low = more - (t_high - r), inverse = -1.0 / t; \
            const double i_high = hop_f64_of_bits(hop_bits_of_f64(inverse) & 0xfffffffff8000000u); \
            return i_high + inverse * (i_high * t_high + 1.0 + i_high * t_low); \
        } \
        double y; \
        if (quadrant & 1u) { \
            double p = cos_c[5]; \
            for (int32_t k = 4; k >= 0; k--) p = p * z + cos_c[k]; \
            const double half = z * 0.5, most = 1.0 - half; \
            y = most + (1.0 - most - half + (z * z * p - r * low)); \
        } else { \
            double p = sin_c[5]; \
            for (int32_t k = 4; k >= 0; k--) p = p * z + sin_c[k]; \
            y = r + (r * z * p + low * (1.0 - z * 0.5)); \
        } \
        return quadrant & 2u ? -y : y; \
    }

SOURCE
const char *const angle_far_text = TEXT(SOURCE);

double angle_far(int32_t which, double x) { return hop_far(which, x); }

void angle_far_lanes(int32_t which, int32_t wide, uint32_t lanes, const void *x, void *out)
{
    for (uint32_t i = 0; lanes >> i; i++) {
        if (!(lanes >> i & 1)) continue;
        if (wide) ((double *)out)[i] = hop_far(which, ((const double *)x)[i]);
        else ((float *)out)[i] = (float)hop_far(which, (double)((const float *)x)[i]);
    }
}
