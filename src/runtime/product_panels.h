/* Panels: lines of an operand beside each other, as tiles read them. */
#ifndef HOP_PRODUCT_PANELS_H
#define HOP_PRODUCT_PANELS_H

#include "runtime/product_kernels.h"

#include <stdatomic.h>

/* Of a stretch, in which sums are taken: a panel of it stays in the first cache. */
enum { DEPTH = 256 };

/* The rows of op(A), or the columns of op(B). */
struct side {
    const char *data;
    enum dtype dtype;
    int64_t n, along, step; /* in elements: to the next line, to the next depth */
    int64_t width;          /* lines of a panel */
    int64_t whole;          /* n, as panels have it */
    int64_t apart;          /* bytes between the matrices of a batch */
    char *panels;           /* NULL: read where it lies */
    /* Per panel of a stretch, whether it is there: whoever needs one first makes it. NULL: all are. */
    atomic_uchar *made;
    bool own; /* each block of the result makes its own panels, stretch by stretch */
};

static inline int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/* The numbers of panels of all stretches, and their bytes; `whole` is set. */
int64_t panels_count(const struct side *s, int64_t depth);
int64_t panels_bytes(const struct product_kernel *k, const struct side *s, int64_t depth);
/* Where a panel of the stretch that begins at `from` is; line: its first. */
char *panel_at(const struct product_kernel *k, const struct side *s, int64_t line, int64_t from,
               int64_t depth);
void panel_make(const struct product_kernel *k, const struct side *s, int64_t line, int64_t from,
                int64_t depth, char *to);
/* Returns when the panels of these lines are there, some of which it makes. */
void panels_ready(const struct product_kernel *k, const struct side *s, int64_t line, int64_t end,
                  int64_t from, int64_t depth);

/* The calling thread's memory for panels, kept for its next product; NULL: there is none. */
char *panels_room(size_t size);

/* Rows of n elements: to f32 and exact, or from f32 or i32 to a result: f32 as it is, f16 and bf16 rounded,
 * whole numbers added. */
typedef void (*row_function)(void *restrict to, const void *restrict from, int64_t n);
row_function row_widens(enum dtype from);
row_function row_rounds(enum dtype to);
row_function row_adds(enum dtype to, bool from_i32);

#endif
