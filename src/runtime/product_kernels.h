/* Products of small tiles, which larger ones are made of: for the processor at hand. */
#ifndef HOP_PRODUCT_KERNELS_H
#define HOP_PRODUCT_KERNELS_H

#include "ir/ir.h"

/* A factor that is not needed any more would get the sum into its register, and all sums would be copied at
 * every step: compilers are told that it is needed behind its last product. */
#if defined(__x86_64__)
#define STILL_NEEDED(x) __asm__("" : : "v"(x))
#else
#define STILL_NEEDED(x) ((void)(x))
#endif

/* Before a loop of few steps, whose number is known: each is written out. */
#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

/* So many rows of C at most have a kernel of their own; where B is read from memory. */
enum { PRODUCT_FEW_ROWS = 3, PRODUCT_STREAMED_ROWS = 8 };

/* C = A B, or C += A B: rows of A, columns of B that lie beside each other. Strides in elements. */
struct tile {
    const void *a, *b;
    void *c;
    int64_t a_row, a_step, b_step, c_row, c_col;
    int64_t b_apart; /* `row`: from one panel of B to the next */
    int64_t depth;
    int rows, cols;
    bool add;
    bool b_whole;               /* B has all columns of a tile: those that are too many are zeros */
    int row_factor, col_factor; /* bytes: what sums of lines are multiplied with */
};

struct product_kernel {
    enum dtype dtype;
    int size, sum_size, rows, cols; /* of an element, of a sum; the largest tile */
    int group, beside; /* depths that lie beside each other; what a panel has behind each line, in elements */
    void (*tile)(const struct tile *w);
    /* n lines into panels of `width`: the elements of one depth, or group of them, beside each other, zeros
     * for lines that are not there. */
    void (*pack)(void *panels, const void *lines, int64_t n, int64_t along, int64_t depth, int64_t step,
                 int64_t width, bool is_signed);
    /* A few rows of C, columns lo to hi: the elements of A's rows lie beside each other; and one column, rows
     * lo to hi: those of B and of each row of A do. */
    void (*row)(const struct tile *w, int64_t lo, int64_t hi);
    void (*column)(const struct tile *w, int64_t lo, int64_t hi);
};

/* For C, A and B of these dtypes: of f64 all are, else what multiplies in f32, or bytes and bf16 where the
 * processor has instructions for them. */
const struct product_kernel *product_kernel(enum dtype c, enum dtype a, enum dtype b);
extern const struct product_kernel product_bytes_kernel, product_halves_kernel; /* of x86 */
/* For tests: kernels of so high a level at most (0: of any processor, 1: AVX2, 2: AVX-512, 3: dot products of
 * bytes, 4: and of bf16). */
void product_kernels_limit(int level);
/* What the kernels are made for: "AVX-512", "AVX2", or "" where it is nothing in particular, and a BLAS knows
 * the processor better. */
const char *product_kernels_for(void);

#endif
