/* How elements of x come to stand in panels: by what lines (results) and depths (channels and taps) they are
 * found. */
#ifndef HOP_CONV_GATHER_H
#define HOP_CONV_GATHER_H

#include "loop/rt.h"
#include "runtime/product_panels.h"

/* A spatial dim: result o meets tap m at element o · stride + m · tap_stride + first of x. */
struct conv_space {
    int64_t x_size, results, taps;
    int64_t stride, tap_stride, first;
    int64_t x_step, w_step, y_step; /* elements from one to the next; of w: of taps */
};

/* For each group, a product of rows (channels out) and lines (results of all batches, the last dim the
 * fastest), over the depth: channels, and taps in row-major order within each; or, `channels_inside`, the
 * other way around. */
struct conv_part {
    enum dtype x_dtype, w_dtype, y_dtype;
    const char *x, *w;
    char *y;
    int64_t batch, groups, out, channels;
    int64_t x_batch, x_group, x_channel, w_group, w_out, w_channel, y_batch, y_group, y_out;
    uint32_t n;
    struct conv_space space[HOP_RT_CONV_SPACES];
    int64_t lines, depth;
    bool channels_inside;
    bool by_depth; /* elements of x that lie beside each other are depths of one line, not lines */
};

/* Of the elements at first, first + step, …, count of them, which are below size? lo to hi. */
static inline void conv_within(int64_t first, int64_t step, int64_t size, int64_t count, int64_t *lo,
                               int64_t *hi)
{
    int64_t last = size - 1 - first;
    if (step == 1) {
        *lo = first < 0 ? -first : 0;
        *hi = last + 1;
    } else {
        *lo = first < 0 ? (step - 1 - first) / step : 0;
        *hi = last < 0 ? 0 : last / step + 1;
    }
    *lo = HOP_MIN(*lo, count);
    *hi = HOP_MAX(HOP_MIN(*hi, count), *lo);
}

/* Depths `from` on, so many: what is worked out once for all panels of them. */
struct conv_depths {
    int64_t from, n;
    int64_t at[DEPTH];   /* where they lie in x */
    uint16_t tap[DEPTH]; /* which taps they are of, counted through */
};
void conv_find_depths(const struct product_kernel *k, const struct conv_part *p, int64_t from, int64_t n,
                      struct conv_depths *d);
/* n lines and these depths into a panel, whose lines lie beside each other; those that are missing and
 * elements that x does not have are zeros. */
void conv_gather(const struct product_kernel *k, const struct conv_part *p, int64_t line, int64_t n,
                 const struct conv_depths *d, char *panel);
/* n rows of w likewise. */
void conv_gather_rows(const struct product_kernel *k, const struct conv_part *p, int64_t row, int64_t n,
                      int64_t from, int64_t depth, char *panel);
/* Where the results of n lines lie, in elements from the first row's first. */
void conv_places(const struct conv_part *p, int64_t line, int64_t n, int64_t *places);
/* Do depths lie evenly in w? Then a step is *step. */
bool conv_rows_even(const struct conv_part *p, int64_t *step);

static inline int64_t conv_blocks_of(int64_t n, int64_t each) { return (n + each - 1) / each; }
/* n pieces of so many multiplications together, on threads if these are worth it (conv.c). */
int32_t conv_each(struct hop_rt *rt, int32_t (*some)(struct hop_rt *, void *, int64_t, int64_t), void *env,
                  int64_t n, double work);
/* All groups of a convolution of f32 whose groups give few channels out, row by row (conv_planes.c), and
 * whether it is one that is done so. Phases differ in their spatial dims alone; up to CONV_PHASES of them. */
enum { CONV_PHASES = 9 };
bool conv_has_planes(const struct conv_part *part);
int32_t conv_planes(struct hop_rt *rt, const struct conv_part *parts, uint32_t n);

/* A convolution of few long sums (conv_sums.c). False: it is none, and nothing has been done. */
bool conv_long_sums(struct hop_rt *rt, const struct conv_part *p, int32_t *status);

#endif
