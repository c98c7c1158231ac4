/* Panels of a convolution's operands, gathered from where they lie: runs of elements that lie beside each
 * other are copied as one, whichever of lines and depths they belong to. */
#include "runtime/conv_gather.h"
#include "base/base.h"

enum { MOST_WIDTH = 32, TAPS_KNOWN = 64, MOST_ROWS = 12, ROWS_AHEAD = 36 };

/* ---- counting ---- */

/* A line: its batch and where it is in each spatial dim. */
struct spot {
    int64_t batch, at[HOP_RT_CONV_SPACES];
};
static struct spot spot_of(const struct conv_part *p, int64_t line)
{
    struct spot c;
    for (uint32_t i = p->n; i-- > 0;) {
        c.at[i] = line % p->space[i].results;
        line /= p->space[i].results;
    }
    c.batch = line;
    return c;
}

/* A depth: its channel and its taps. */
struct depth {
    int64_t channel, tap[HOP_RT_CONV_SPACES];
};
static struct depth depth_of(const struct conv_part *p, int64_t k)
{
    struct depth c = { 0 };
    if (p->channels_inside) {
        c.channel = k % p->channels;
        k /= p->channels;
    }
    for (uint32_t i = p->n; i-- > 0;) {
        c.tap[i] = k % p->space[i].taps;
        k /= p->space[i].taps;
    }
    if (!p->channels_inside) c.channel = k;
    return c;
}
/* The next one, behind the last of the innermost. */
static void next_depths(const struct conv_part *p, struct depth *c)
{
    uint32_t i = p->n;
    if (p->channels_inside) c->channel = 0;
    else if (i) c->tap[--i] = 0;
    while (i-- > 0) {
        if (++c->tap[i] < p->space[i].taps) return;
        c->tap[i] = 0;
    }
    if (!p->channels_inside) c->channel++;
}
/* How many depths there are from here to the end of the innermost. */
static int64_t depths_left(const struct conv_part *p, const struct depth *c)
{
    if (p->channels_inside) return p->channels - c->channel;
    return p->n ? p->space[p->n - 1].taps - c->tap[p->n - 1] : 1;
}

/* Does x have the element in all spatial dims but the last `but`? Adds where it lies to *at. */
static bool meets(const struct conv_part *p, const struct spot *line, const struct depth *c, uint32_t but,
                  int64_t *at)
{
    for (uint32_t i = 0; i + but < p->n; i++) {
        const struct conv_space *s = &p->space[i];
        int64_t element = line->at[i] * s->stride + c->tap[i] * s->tap_stride + s->first;
        if (element < 0 || element >= s->x_size) return false;
        *at += element * s->x_step;
    }
    return true;
}

/* ---- copying ---- */

/* to[lo..hi) = from[i · step], zeros around it up to n. */
#define COPY_RUN(T) \
    static inline void copy_run_##T(T *restrict to, const T *restrict from, int64_t step, int64_t lo, \
                                    int64_t hi, int64_t n) \
    { \
        enum { SOME = 16 / (int)sizeof(T) }; \
        int64_t i = lo; \
        for (int64_t k = 0; k < lo; k++) to[k] = 0; \
        if (step == 1) \
            for (; i + SOME <= hi; i += SOME) memcpy(to + i, from + i, 16); \
        for (; i < hi; i++) to[i] = from[i * step]; \
        for (int64_t k = hi; k < n; k++) to[k] = 0; \
    }
COPY_RUN(uint16_t)
COPY_RUN(uint32_t)
COPY_RUN(uint64_t)
#undef COPY_RUN

/* Runs of lines: the last spatial dim of results. Depth by depth, to[depth · width + line]. */
#define GATHER_LINES(T) \
    static void gather_lines_##T(const struct conv_part *p, int64_t line, int64_t n, int64_t from, \
                                 int64_t depth, int64_t width, T *to) \
    { \
        const struct conv_space *s = &p->space[p->n - 1]; \
        int64_t lo[TAPS_KNOWN], hi[TAPS_KNOWN], step = s->stride * s->x_step; \
        for (int64_t j = 0; j < n;) { \
            struct spot at = spot_of(p, line + j); \
            int64_t length = HOP_MIN(n - j, s->results - at.at[p->n - 1]); \
            int64_t first = at.at[p->n - 1] * s->stride + s->first; \
            for (int64_t m = 0; m < s->taps; m++) \
                conv_within(first + m * s->tap_stride, s->stride, s->x_size, length, &lo[m], &hi[m]); \
            struct depth c = depth_of(p, from); \
            for (int64_t k = 0; k < depth; next_depths(p, &c)) { \
                int64_t m = c.tap[p->n - 1], end = HOP_MIN(s->taps, m + depth - k); \
                int64_t x = at.batch * p->x_batch + c.channel * p->x_channel + first * s->x_step; \
                bool some = meets(p, &at, &c, 1, &x); \
                for (; m < end; m++, k++) { \
                    const T *element = (const T *)p->x + x + m * s->tap_stride * s->x_step; \
                    T *row = to + k * width + j; \
                    copy_run_##T(row, element, step, some ? lo[m] : 0, some ? hi[m] : 0, length); \
                } \
            } \
            j += length; \
        } \
    }
GATHER_LINES(uint16_t)
GATHER_LINES(uint32_t)
GATHER_LINES(uint64_t)
#undef GATHER_LINES

/* Runs of depths: the last taps, or channels. Line by line, to[line · depth + depth]. */
#define GATHER_DEPTHS(T) \
    static void gather_depths_##T(const struct conv_part *p, int64_t line, int64_t n, int64_t from, \
                                  int64_t depth, T *to) \
    { \
        const struct conv_space *s = &p->space[p->n - 1]; \
        for (int64_t j = 0; j < n; j++) { \
            struct spot at = spot_of(p, line + j); \
            struct depth c = depth_of(p, from); \
            for (int64_t k = 0; k < depth; next_depths(p, &c)) { \
                int64_t x = at.batch * p->x_batch + c.channel * p->x_channel, step = p->x_channel; \
                int64_t length = HOP_MIN(depth - k, depths_left(p, &c)), lo = 0, hi = length; \
                bool some = meets(p, &at, &c, !p->channels_inside, &x); \
                if (!p->channels_inside && p->n) { \
                    int64_t first = at.at[p->n - 1] * s->stride + c.tap[p->n - 1] * s->tap_stride + \
                                    s->first; \
                    conv_within(first, s->tap_stride, s->x_size, length, &lo, &hi); \
                    x += first * s->x_step; \
                    step = s->tap_stride * s->x_step; \
                } \
                if (!some) lo = hi = 0; \
                copy_run_##T(to + j * depth + k, (const T *)p->x + x, step, lo, hi, length); \
                k += length; \
            } \
        } \
    }
GATHER_DEPTHS(uint16_t)
GATHER_DEPTHS(uint32_t)
GATHER_DEPTHS(uint64_t)
#undef GATHER_DEPTHS

/* ---- runs of lines by masks ---- */

#if defined(__x86_64__)
#include <immintrin.h>
#define WIDE __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi2")))
enum { MASKED_TAPS = 256, MASKED_WIDTH = 32 };

static void find_depths(const struct conv_part *p, struct conv_depths *d)
{
    const struct conv_space *s = &p->space[p->n - 1];
    struct depth c = depth_of(p, d->from);
    for (int64_t k = 0; k < d->n; next_depths(p, &c)) {
        int64_t at = c.channel * p->x_channel, tap = 0, m = c.tap[p->n - 1];
        for (uint32_t i = 0; i + 1 < p->n; i++) {
            at += c.tap[i] * p->space[i].tap_stride * p->space[i].x_step;
            tap = (tap + c.tap[i]) * p->space[i + 1].taps;
        }
        for (; m < s->taps && k < d->n; m++, k++) {
            d->at[k] = at + m * s->tap_stride * s->x_step;
            d->tap[k] = (uint16_t)(tap + m);
        }
    }
}

/* For every tap, which lines of a run meet an element. */
static void find_masks(const struct conv_part *p, const struct spot *line, int64_t length, uint32_t *masks)
{
    const struct conv_space *s = &p->space[p->n - 1];
    struct depth c = { 0 };
    int64_t first = line->at[p->n - 1] * s->stride + s->first, count = 0;
    for (; !c.channel; next_depths(p, &c)) {
        int64_t at = 0, lo, hi;
        bool some = meets(p, line, &c, 1, &at);
        for (int64_t m = 0; m < s->taps; m++) {
            conv_within(first + m * s->tap_stride, s->stride, s->x_size, length, &lo, &hi);
            uint64_t bits = ((uint64_t)1 << hi) - ((uint64_t)1 << lo);
            masks[count++] = some ? (uint32_t)bits : 0;
        }
    }
}

WIDE static void gather_masked(const struct conv_part *p, int64_t line, int64_t n,
                               const struct conv_depths *d, float *to)
{
    const struct conv_space *s = &p->space[p->n - 1];
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    uint32_t masks[MASKED_TAPS];
    enum { LINE = 64 / sizeof(float) };
    bool beside = s->stride * s->x_step == 1;
    int64_t ahead = MASKED_WIDTH * s->stride * s->x_step;
    for (int64_t j = 0; j < n;) {
        struct spot at = spot_of(p, line + j);
        int64_t length = HOP_MIN(n - j, s->results - at.at[p->n - 1]), x = at.batch * p->x_batch;
        for (uint32_t i = 0; i < p->n; i++)
            x += (at.at[i] * p->space[i].stride + p->space[i].first) * p->space[i].x_step;
        find_masks(p, &at, length, masks);
        uint32_t whole = (uint32_t)(((uint64_t)1 << length) - 1);
        for (int64_t k = 0; k < d->n; k++) {
            const float *from = (const float *)p->x + (x + d->at[k]);
            float *row = to + k * MASKED_WIDTH + j;
            uint32_t mask = masks[d->tap[k]];
            /* what the next panel reads there: channels lie too far apart for the processor to guess it */
            _mm_prefetch((const char *)(from + ahead), _MM_HINT_T0);
            _mm_prefetch((const char *)(from + ahead + LINE), _MM_HINT_T0);
            for (int64_t half = 0; half < length; half += 16) {
                uint32_t some = mask >> half & 0xffff;
                __m512 v;
                if (beside) v = _mm512_maskz_loadu_ps((__mmask16)some, from + half);
                else {
                    uint32_t spread = _pdep_u32(some, 0x55555555);
                    __m512 a = _mm512_maskz_loadu_ps((__mmask16)spread, from + 2 * half);
                    __m512 b = _mm512_maskz_loadu_ps((__mmask16)(spread >> 16), from + 2 * half + 16);
                    v = _mm512_permutex2var_ps(a, even, b);
                }
                _mm512_mask_storeu_ps(row + half, (__mmask16)(whole >> half), v);
            }
        }
        j += length;
    }
}

/* f32 in panels as wide as the masks, by lines that are beside each other or every other one. */
static bool is_masked(const struct product_kernel *k, const struct conv_part *p)
{
    if (p->by_depth || p->x_dtype != DT_F32 || k->dtype != DT_F32 || k->cols != MASKED_WIDTH) return false;
    int64_t step = p->space[p->n - 1].stride * p->space[p->n - 1].x_step, taps = 1;
    for (uint32_t i = 0; i < p->n; i++) taps *= p->space[i].taps;
    return (step == 1 || step == 2) && taps <= MASKED_TAPS;
}
#else
#define is_masked(k, p) false
#define find_depths(p, d) ((void)0)
#define gather_masked(p, line, n, d, to) ((void)0)
#endif

/* ---- panels ---- */

void conv_find_depths(const struct product_kernel *k, const struct conv_part *p, int64_t from, int64_t n,
                      struct conv_depths *d)
{
    d->from = from;
    d->n = n;
    if (is_masked(k, p)) find_depths(p, d);
}

void conv_gather(const struct product_kernel *k, const struct conv_part *p, int64_t line, int64_t n,
                 const struct conv_depths *d, char *panel)
{
    int64_t from = d->from, depth = d->n;
    _Alignas(64) char room[MOST_WIDTH * DEPTH * sizeof(float)], narrow[MOST_WIDTH * DEPTH * sizeof(uint16_t)];
    int size = dtype_info[p->x_dtype].size;
    bool widens = p->x_dtype != k->dtype;
    char *to = widens ? narrow : p->by_depth ? room : panel;
    int64_t width = p->by_depth ? n : k->cols;
    if (!p->by_depth && n < width) memset(to, 0, (size_t)(width * depth * size));
    if (is_masked(k, p)) {
        gather_masked(p, line, n, d, (float *)panel);
        return;
    }
    if (p->by_depth) {
        if (size == 2) gather_depths_uint16_t(p, line, n, from, depth, (uint16_t *)to);
        else if (size == 4) gather_depths_uint32_t(p, line, n, from, depth, (uint32_t *)to);
        else gather_depths_uint64_t(p, line, n, from, depth, (uint64_t *)to);
    } else if (size == 2) gather_lines_uint16_t(p, line, n, from, depth, width, (uint16_t *)to);
    else if (size == 4) gather_lines_uint32_t(p, line, n, from, depth, width, (uint32_t *)to);
    else gather_lines_uint64_t(p, line, n, from, depth, width, (uint64_t *)to);
    if (widens) row_widens(p->x_dtype)(p->by_depth ? room : panel, to, width * depth);
    if (p->by_depth) k->pack(panel, room, n, depth, depth, 1, k->cols, false);
}

/* ---- rows ---- */

/* Where depths lie in w, from a row's first element on. */
static void places_in_w(const struct conv_part *p, int64_t from, int64_t depth, int64_t *places)
{
    struct depth c = depth_of(p, from);
    for (int64_t k = 0; k < depth; next_depths(p, &c)) {
        int64_t at = c.channel * p->w_channel, step = p->w_channel;
        for (uint32_t i = 0; i < p->n; i++) at += c.tap[i] * p->space[i].w_step;
        if (!p->channels_inside && p->n) step = p->space[p->n - 1].w_step;
        int64_t length = HOP_MIN(depth - k, depths_left(p, &c));
        for (int64_t i = 0; i < length; i++) places[k++] = at + i * step;
    }
}

bool conv_rows_even(const struct conv_part *p, int64_t *step)
{
    int64_t count = 1;
    bool any = false;
    *step = 1;
    for (uint32_t i = 0; i < p->n + 1; i++) { /* from the innermost on */
        bool channel = p->channels_inside ? i == 0 : i == p->n;
        const struct conv_space *s = channel ? NULL : &p->space[p->n - 1 - (i - p->channels_inside)];
        int64_t n = channel ? p->channels : s->taps, each = channel ? p->w_channel : s->w_step;
        if (n == 1) continue;
        if (!any) *step = each;
        else if (each != *step * count) return false;
        any = true;
        count *= n;
    }
    return true;
}

/* Rows of one depth beside each other. What is read some depths later is asked for, a row or two at a time:
 * channels lie too far apart for the processor to guess it. */
#define GATHER_ROWS(T) \
    static void gather_rows_##T(const struct conv_part *p, int64_t row, int64_t n, const int64_t *places, \
                                int64_t depth, int64_t width, T *to) \
    { \
        const T *w = (const T *)p->w + row * p->w_out; \
        for (int64_t k = 0, next = 0; k < depth; k++, next = next + 2 < n ? next + 2 : 0) { \
            const T *from = w + places[k], *ahead = w + places[HOP_MIN(k + ROWS_AHEAD, depth - 1)]; \
            __builtin_prefetch(ahead + next * p->w_out); \
            __builtin_prefetch(ahead + HOP_MIN(next + 1, n - 1) * p->w_out); \
            for (int64_t i = 0; i < n; i++) to[k * width + i] = from[i * p->w_out]; \
            for (int64_t i = n; i < width; i++) to[k * width + i] = 0; \
        } \
    }
GATHER_ROWS(uint16_t)
GATHER_ROWS(uint32_t)
GATHER_ROWS(uint64_t)
#undef GATHER_ROWS

void conv_gather_rows(const struct product_kernel *k, const struct conv_part *p, int64_t row, int64_t n,
                      int64_t from, int64_t depth, char *panel)
{
    uint16_t narrow[MOST_ROWS * DEPTH];
    int64_t places[DEPTH], step;
    int size = dtype_info[p->w_dtype].size;
    if (p->w_dtype == k->dtype && conv_rows_even(p, &step)) {
        const char *rows = p->w + (row * p->w_out + from * step) * size;
        k->pack(panel, rows, n, p->w_out, depth, step, k->rows, false);
        return;
    }
    places_in_w(p, from, depth, places);
    if (size == 8) gather_rows_uint64_t(p, row, n, places, depth, k->rows, (uint64_t *)panel);
    else if (size == 4) gather_rows_uint32_t(p, row, n, places, depth, k->rows, (uint32_t *)panel);
    else {
        gather_rows_uint16_t(p, row, n, places, depth, k->rows, narrow);
        row_widens(p->w_dtype)(panel, narrow, k->rows * depth);
    }
}

void conv_places(const struct conv_part *p, int64_t line, int64_t n, int64_t *places)
{
    for (int64_t j = 0; j < n;) {
        struct spot at = spot_of(p, line + j);
        int64_t y = at.batch * p->y_batch, step = 0, length = 1;
        for (uint32_t i = 0; i < p->n; i++) y += at.at[i] * p->space[i].y_step;
        if (p->n) {
            step = p->space[p->n - 1].y_step;
            length = HOP_MIN(n - j, p->space[p->n - 1].results - at.at[p->n - 1]);
        }
        for (int64_t i = 0; i < length; i++) places[j++] = y + i * step;
    }
}
