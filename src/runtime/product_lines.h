/* A few rows times a matrix in narrow elements, which is read once and not packed. */
#ifndef HOP_PRODUCT_LINES_H
#define HOP_PRODUCT_LINES_H

#include "ir/ir.h"

enum {
    LINE_ROWS = 3,    /* as many at most */
    LINE_DEPTH = 256, /* of a sum across lines, and … */
    DOT_DEPTH = 2048  /* … along them, in which products of bytes are exact */
};

struct lines {
    const float *x; /* rows, their elements beside each other, so many elements apart */
    int64_t x_row;
    const char *matrix; /* lines of it: elements beside each other, lines `apart` elements apart */
    int64_t apart;
    int64_t n, depth; /* elements of a row of sums; terms of each */
    float *sums;      /* written: rows so many elements apart */
    int64_t sums_row;
    int rows;
};

/* For a matrix of some dtype. Elements of a line are summed over the lines, or along each line; the sums of
 * bytes along lines are of i32. */
struct line_kernel {
    void (*across)(const struct lines *w);
    void (*along)(const struct lines *w);
};
const struct line_kernel *line_kernel(enum dtype matrix);

/* A few rows, each times all lines of a matrix, into rows of C: all strides in elements. */
struct narrow {
    enum dtype c_dtype, x_dtype, matrix_dtype;
    const char *x, *matrix;
    char *c;
    int64_t rows, n, depth; /* n: elements of a row of C */
    int64_t x_along, x_step, along, step, c_row,
        c_step;      /* along: to the next line, step: to the next depth */
    bool add, alone; /* to what C has; on the thread that calls */
};
struct hop_rt;
/* false: it is none that there are kernels or memory for; nothing is done. */
bool narrow_multiply(struct hop_rt *rt, const struct narrow *p, int32_t *status);

#endif
