/* Windows over an array: what their attributes say, for the rows (window.c) and their loops (window_lower.c).
 */
#ifndef HOP_OPS_WINDOW_H
#define HOP_OPS_WINDOW_H

#include "ops/rowkit.h"

/* Window o of a dim begins at o·stride - low and has `size` elements, `dilation` apart; those that lie
 * outside of the array are padding, and not there. */
struct windows {
    uint32_t rank;
    uint32_t first;       /* dims before it are left alone, and so may be some behind it */
    bool moved[MAX_RANK]; /* is the dim windowed at all? */
    int64_t size[MAX_RANK], stride[MAX_RANK], low[MAX_RANK], high[MAX_RANK], dilation[MAX_RANK];
    int64_t divisor;
};

static inline int64_t window_entry(const struct attr *list, uint32_t d, int64_t otherwise)
{
    return list->kind == ATTR_ABSENT ? otherwise : (int32_t)list->list[d];
}

static inline struct windows windows_of(const struct attr *attrs, uint32_t rank)
{
    struct windows w = { .rank = rank, .first = rank, .divisor = 1 };
    for (uint32_t d = rank; d-- > 0;) {
        w.size[d] = window_entry(&attrs[WINDOW_SIZES], d, 1);
        w.stride[d] = window_entry(&attrs[WINDOW_STRIDES], d, 1);
        w.low[d] = window_entry(&attrs[WINDOW_LOW], d, 0);
        w.high[d] = window_entry(&attrs[WINDOW_HIGH], d, 0);
        w.dilation[d] = window_entry(&attrs[WINDOW_DILATION], d, 1);
        w.moved[d] = w.size[d] != 1 || w.stride[d] != 1 || w.low[d] || w.high[d];
        if (w.moved[d]) w.first = d;
    }
    return w;
}

/* Elements from the first of a window to its last, both included. */
static inline int64_t window_span(const struct windows *w, uint32_t d)
{
    return (w->size[d] - 1) * w->dilation[d] + 1;
}

/* The divisor of sums, which only they have. */
static inline int64_t window_divisor(const struct attr *attrs)
{
    return attrs[WINDOW_DIVISOR].kind == ATTR_ABSENT ? 1 : attrs[WINDOW_DIVISOR].i;
}

extern const struct op_lower lower_window_sum, lower_window_spread, lower_window_extreme;

#endif
