/* Sines, cosines and tangents of large arguments. The functions of ops/scalar_math.h subtract multiples of
 * pi/2 in a few steps, which is right up to a limit; beyond it every back end takes the result from here, so
 * that it is right, and the same, for every number. */
#ifndef HOP_ANGLE_H
#define HOP_ANGLE_H

#include <stdint.h>

enum angle { ANGLE_SIN, ANGLE_COS, ANGLE_TAN };

/* Of |x| >= 2^-9 (in use: of numbers beyond the limits in ops/scalar_math.h); NaN of an infinity. */
double angle_far(int32_t which, double x);
/* out[i] = the function of x[i] where bit i of `lanes` is set; `wide`: f64, else f32, rounded from f64. */
void angle_far_lanes(int32_t which, int32_t wide, uint32_t lanes, const void *x, void *out);
/* The definition of hop_far, which is angle_far, as text for emitted C; it calls hop_bits_of_f64 and
 * hop_f64_of_bits. One line, without comments. */
extern const char *const angle_far_text;

/* Coefficients of f64, shared with ops/scalar_math.h, which says of what; lowest first. */
#define ANGLE_SIN_N 6
#define ANGLE_SIN_C \
    -0x1.5555555555549p-3, 0x1.111111110f861p-7, -0x1.a01a019c0e475p-13, 0x1.71de3574b2a6ap-19, \
        -0x1.ae5e63c6026c2p-26, 0x1.5d92445fca460p-33
#define ANGLE_COS_N 6
#define ANGLE_COS_C \
    0x1.555555555554cp-5, -0x1.6c16c16c15162p-10, 0x1.a01a019caef52p-16, -0x1.27e4f807d708fp-22, \
        0x1.1ee9ea6d23553p-29, -0x1.8fadd085d8478p-37
#define ANGLE_TAN_N 15
#define ANGLE_TAN_C \
    0x1.555555555555dp-2, 0x1.11111111106dap-3, 0x1.ba1ba1bab279cp-5, 0x1.664f485fb435ap-6, \
        0x1.226e3a320954dp-7, 0x1.d6d2f45f69b71p-9, 0x1.7db0da38ff8d4p-10, 0x1.34c34d83ae637p-11, \
        0x1.fec439e872e1fp-13, 0x1.60b0d23bc52b3p-14, 0x1.15ba09a6baf2dp-14, -0x1.97be1bd1cfbbap-16, \
        0x1.8e4704b78903dp-15, -0x1.8d440531c139cp-16, 0x1.4436fe8396c4ap-17

#endif
