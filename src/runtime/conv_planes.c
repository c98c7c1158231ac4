/* Convolutions whose groups give one channel out, as depthwise ones do, or a few: results row by row, of f32.
 * Where rows of results are the longer ones they are computed side by side, and the sum goes over channels
 * and taps one after the other; where rows of taps are, as in the derivative by w, each result is a sum over
 * lanes, which are added up in a fixed order at the end. Either way a result is made by one thread, in an
 * order that the shape alone gives. With AVX-512 the sums of four rows of results, or of up to four channels
 * out, stay in registers for all channels and taps along the last two dims, and which elements exist is found
 * once for all rows, as masks. */
#include "base/base.h"
#include "runtime/conv_gather.h"
#include "runtime/pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define WIDE __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi2")))
#endif

enum {
    LANES = 16,
    VECTORS = 4, /* sums in registers */
    CHUNK = VECTORS * LANES,
    ROWS = 4,   /* of results, or channels out, at once */
    MASKED = 64 /* taps, or vectors of them, whose masks are known at a time */
};
static const double WORTH_A_THREAD = 2.5e5;

/* Steps along the last dim of a row of results, or of terms. */
struct run {
    const float *x, *w;
    int64_t x_step, w_step, lo, hi; /* elements lo to hi - 1 of the run exist */
};

/* ---- the two loops ---- */

/* sums[i] += x[i] w for the elements that exist. */
static void add_scaled(float *sums, const struct run *r)
{
    float w = *r->w;
    for (int64_t i = r->lo; i < r->hi; i++) sums[i] += r->x[i * r->x_step] * w;
}
/* sums[i % LANES] += x[i] w[i] likewise. */
static void add_products(float *sums, const struct run *r)
{
    for (int64_t i = r->lo; i < r->hi; i++) sums[i % LANES] += r->x[i * r->x_step] * r->w[i * r->w_step];
}

/* ---- planes ---- */

struct planes {
    struct conv_part part;
    bool along_taps, wide, one_out;
    int64_t stripe; /* rows of results in a piece of work */
    void (*add)(float *sums, const struct run *r);
};

/* A piece of work: rows of results of some channels out of one batch and group, where x, w and y begin. */
struct plane {
    const float *x, *w;
    float *y;
    int64_t row, row_end;
    int outs;
};

/* The next index of the first n dims; false: that was all. */
static bool next_outer(const struct conv_part *p, uint32_t n, bool taps, int64_t *at)
{
    for (uint32_t i = n; i-- > 0;) {
        if (++at[i] < (taps ? p->space[i].taps : p->space[i].results)) return true;
        at[i] = 0;
    }
    return false;
}

/* Adds all terms of results out[…], from result `from` of the last dim on: n of them side by side, or one. */
static void add_terms(const struct planes *s, const float *x, const float *w, const int64_t *out,
                      int64_t from, int64_t n, float *sums)
{
    const struct conv_part *p = &s->part;
    const struct conv_space *last = &p->space[p->n - 1];
    for (int64_t c = 0; c < p->channels; c++) {
        int64_t tap[HOP_RT_CONV_SPACES] = { 0 };
        do {
            int64_t x_at = c * p->x_channel, w_at = c * p->w_channel;
            bool meets = true;
            for (uint32_t i = 0; i + 1 < p->n; i++) {
                const struct conv_space *d = &p->space[i];
                int64_t at = out[i] * d->stride + tap[i] * d->tap_stride + d->first;
                meets &= at >= 0 && at < d->x_size;
                x_at += at * d->x_step;
                w_at += tap[i] * d->w_step;
            }
            if (!meets) continue;
            int64_t first = from * last->stride + last->first;
            if (s->along_taps) {
                struct run r = { .x = x + x_at + first * last->x_step,
                                 .w = w + w_at,
                                 .x_step = last->tap_stride * last->x_step,
                                 .w_step = last->w_step };
                conv_within(first, last->tap_stride, last->x_size, last->taps, &r.lo, &r.hi);
                s->add(sums, &r);
                continue;
            }
            for (int64_t m = 0; m < last->taps; m++) {
                int64_t at = first + m * last->tap_stride;
                struct run r = { .x = x + x_at + at * last->x_step,
                                 .w = w + w_at + m * last->w_step,
                                 .x_step = last->stride * last->x_step };
                conv_within(at, last->stride, last->x_size, n, &r.lo, &r.hi);
                s->add(sums, &r);
            }
        } while (next_outer(p, p->n - 1, true, tap));
    }
}

/* The results of one batch, group and channel out. */
static void make_plane(const struct planes *s, const float *x, const float *w, float *y)
{
    const struct conv_part *p = &s->part;
    const struct conv_space *last = &p->space[p->n - 1];
    int64_t out[HOP_RT_CONV_SPACES] = { 0 }, step = s->along_taps ? 1 : CHUNK;
    do {
        int64_t y_at = 0;
        for (uint32_t i = 0; i + 1 < p->n; i++) y_at += out[i] * p->space[i].y_step;
        for (int64_t from = 0; from < last->results; from += step) {
            float sums[CHUNK] = { 0 }, *to = y + y_at + from * last->y_step;
            int64_t n = HOP_MIN(step, last->results - from);
            add_terms(s, x, w, out, from, n, sums);
            for (int half = LANES / 2; s->along_taps && half; half /= 2)
                for (int i = 0; i < half; i++) sums[i] += sums[i + half];
            for (int64_t i = 0; i < n; i++) to[i * last->y_step] = sums[i];
        }
    } while (next_outer(p, p->n - 1, false, out));
}

#if defined(__x86_64__)
/* ---- planes in registers ---- */

/* What the channels and one tap of the far dims, all but the last two, give to rows of results: of rows of
 * one channel out, which read other elements of x, or of several channels out, which read other taps. */
struct stretch {
    const float *x, *w;
    int64_t channels, x_channel, w_channel;
    int64_t rows, x_row, w_row; /* taps along the last dim but one, those that meet elements */
    int64_t taps, x_tap, w_tap; /* along the last */
    int64_t x_result;           /* from one result to the next */
    int64_t x_next, w_next;     /* from one row of results to the next */
    int results;                /* rows of results */
    int n;                      /* vectors in each, or results that are sums over lanes */
    uint32_t masks[MASKED][VECTORS];
};

/* Which of LANES elements at `first`, first + step, … exist and are below n; every x_step-th bit is one. */
WIDE static uint32_t lanes_of(int64_t first, int64_t step, int64_t size, int64_t n, int64_t x_step)
{
    int64_t lo, hi;
    conv_within(first, step, size, HOP_MAX(HOP_MIN(n, LANES), 0), &lo, &hi);
    uint32_t mask = (1u << hi) - (1u << lo);
    return x_step == 1 ? mask : _pdep_u32(mask, 0x55555555);
}

WIDE static inline __attribute__((always_inline)) __m512 load_lanes(const float *from, int64_t step,
                                                                    uint32_t mask)
{
    __m512 a = _mm512_maskz_loadu_ps((__mmask16)mask, from);
    if (step == 1) return a;
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, even, _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), from + LANES));
}

/* `rows` rows of n vectors, both numbers where this is used: all sums stay in registers. */
#define EACH_SUM(r, v) \
    UNROLLED \
    for (int r = 0; r < rows; r++) UNROLLED for (int v = 0; v < n; v++)

/* sums[r][i] += x[r][i] w[r], a tap after the other; one_x: all rows read the same of x. */
WIDE static inline __attribute__((always_inline)) void add_results(const struct stretch *k, int rows, int n,
                                                                   int64_t step, bool one_x, float *sums)
{
    __m512 s[ROWS][VECTORS];
    EACH_SUM(r, v) s[r][v] = _mm512_loadu_ps(sums + r * CHUNK + v * LANES);
    const float *later = k->x + 2 * ROWS * k->x_next; /* what the block after the next one reads */
    for (int64_t r = 0; !one_x && rows == ROWS && r < ROWS * step; r++)
        for (int64_t v = 0; v < n * step; v++) {
            const float *from = later + r / step * k->x_next + r % step * k->x_row + v * LANES;
            _mm_prefetch((const char *)from, _MM_HINT_T0);
        }
    for (int64_t c = 0; c < k->channels; c++) {
        /* the next row of each channel: they lie too far apart for the processor to guess it */
        const float *next = k->x + c * k->x_channel + k->rows * k->x_row;
        for (int v = 0; one_x && v <= n * step; v++)
            _mm_prefetch((const char *)(next + v * LANES), _MM_HINT_T1);
        for (int64_t t = 0; t < k->rows; t++)
            for (int64_t m = 0; m < k->taps; m++) {
                const float *x = k->x + c * k->x_channel + t * k->x_row + m * k->x_tap;
                const float *w = k->w + c * k->w_channel + t * k->w_row + m * k->w_tap;
                UNROLLED
                for (int v = 0; v < n; v++) {
                    uint32_t mask = k->masks[m][v];
                    __m512 first = load_lanes(x + v * LANES * step, step, mask);
                    UNROLLED
                    for (int r = 0; r < rows; r++) {
                        __m512 here = first, tap = _mm512_set1_ps(w[one_x ? r * k->w_next : 0]);
                        if (r && !one_x) here = load_lanes(x + r * k->x_next + v * LANES * step, step, mask);
                        s[r][v] = _mm512_fmadd_ps(here, tap, s[r][v]);
                    }
                }
            }
    }
    EACH_SUM(r, v) _mm512_storeu_ps(sums + r * CHUNK + v * LANES, s[r][v]);
}

/* The same for rows that are as far apart as taps: what a row of x gives to all rows of results, of which
 * each element is read once. `tall` taps, a number, too. */
WIDE static inline __attribute__((always_inline)) void add_tall(const struct stretch *k, int n, int tall,
                                                                float *sums)
{
    enum { rows = ROWS, TALLEST = 7 };
    __m512 s[ROWS][VECTORS], w[TALLEST];
    EACH_SUM(r, v) s[r][v] = _mm512_loadu_ps(sums + r * CHUNK + v * LANES);
    const float *later = k->x + (2 * ROWS + tall) * k->x_row; /* what the block after the next one reads */
    EACH_SUM(r, v) _mm_prefetch((const char *)(later + r * k->x_row + v * LANES), _MM_HINT_T0);
    for (int64_t c = 0; c < k->channels; c++)
        for (int64_t m = 0; m < k->taps; m++) {
            const float *x = k->x + c * k->x_channel + m * k->x_tap;
            UNROLLED
            for (int t = 0; t < tall; t++)
                w[t] = _mm512_set1_ps(k->w[c * k->w_channel + t * k->w_row + m * k->w_tap]);
            UNROLLED
            for (int v = 0; v < n; v++) {
                __mmask16 mask = (__mmask16)k->masks[m][v];
                UNROLLED
                for (int i = 0; i < ROWS + tall - 1; i++) {
                    __m512 here = _mm512_maskz_loadu_ps(mask, x + i * k->x_row + v * LANES);
                    UNROLLED
                    for (int r = 0; r < ROWS; r++)
                        if (i >= r && i < r + tall) s[r][v] = _mm512_fmadd_ps(here, w[i - r], s[r][v]);
                }
            }
        }
    EACH_SUM(r, v) _mm512_storeu_ps(sums + r * CHUNK + v * LANES, s[r][v]);
}

/* sums of lanes[r][v] += x[r] w for results v of row r, side by side; masks: of vectors of taps and results.
 */
WIDE static inline __attribute__((always_inline)) void add_lanes(const struct stretch *k, int rows, int n,
                                                                 int64_t step, float *sums)
{
    __m512 s[ROWS][VECTORS];
    EACH_SUM(r, v) s[r][v] = _mm512_loadu_ps(sums + r * CHUNK + v * LANES);
    for (int64_t c = 0; c < k->channels; c++)
        for (int64_t t = 0; t < k->rows; t++)
            for (int64_t m = 0; m < k->taps; m += LANES) {
                const float *x = k->x + c * k->x_channel + t * k->x_row + m * step;
                const float *w = k->w + c * k->w_channel + t * k->w_row + m;
                __mmask16 some = (__mmask16)((1u << HOP_MIN(k->taps - m, LANES)) - 1);
                __m512 taps = _mm512_maskz_loadu_ps(some, w);
                EACH_SUM(r, v)
                {
                    const float *from = x + r * k->x_next + v * k->x_result;
                    s[r][v] = _mm512_fmadd_ps(load_lanes(from, step, k->masks[m / LANES][v]), taps, s[r][v]);
                }
            }
    EACH_SUM(r, v) _mm512_storeu_ps(sums + r * CHUNK + v * LANES, s[r][v]);
}
#undef EACH_SUM

/* Each with as many registers as there are sums. */
#define BY_ROWS(name, n, ...) \
    switch (k->results) { \
    case 1: name(k, 1, n, __VA_ARGS__); break; \
    case 2: name(k, 2, n, __VA_ARGS__); break; \
    case 3: name(k, 3, n, __VA_ARGS__); break; \
    default: name(k, 4, n, __VA_ARGS__); break; \
    } \
    break
#define BY_COUNT(called, name, ...) \
    WIDE static void called(const struct stretch *k, float *sums) \
    { \
        switch (k->n) { \
        case 1: BY_ROWS(name, 1, __VA_ARGS__, sums); \
        case 2: BY_ROWS(name, 2, __VA_ARGS__, sums); \
        case 3: BY_ROWS(name, 3, __VA_ARGS__, sums); \
        default: BY_ROWS(name, 4, __VA_ARGS__, sums); \
        } \
    }
BY_COUNT(rows_beside, add_results, 1, false)
BY_COUNT(rows_apart, add_results, 2, false)
BY_COUNT(outs_beside, add_results, 1, true)
BY_COUNT(outs_apart, add_results, 2, true)
BY_COUNT(lanes_beside, add_lanes, 1)
BY_COUNT(lanes_apart, add_lanes, 2)
#undef BY_COUNT
#undef BY_ROWS

#define BY_TALL(n) \
    switch (k->rows) { \
    case 3: add_tall(k, n, 3, sums); break; \
    case 5: add_tall(k, n, 5, sums); break; \
    default: add_tall(k, n, 7, sums); break; \
    } \
    break
WIDE static void rows_tall(const struct stretch *k, float *sums)
{
    switch (k->n) {
    case 1: BY_TALL(1);
    case 2: BY_TALL(2);
    case 3: BY_TALL(3);
    default: BY_TALL(4);
    }
}
#undef BY_TALL

/* Elements of x from one lane to the next. */
static int64_t lane_step(const struct conv_part *p, bool along_taps)
{
    const struct conv_space *last = &p->space[p->n - 1];
    return (along_taps ? last->tap_stride : last->stride) * last->x_step;
}

static bool has_tall(int64_t taps) { return taps == 3 || taps == 5 || taps == 7; }

static void add_terms_wide(const struct planes *s, const struct stretch *k, float *sums)
{
    bool beside = lane_step(&s->part, s->along_taps) == 1;
    if (s->along_taps) (beside ? lanes_beside : lanes_apart)(k, sums);
    else if (!s->one_out) (beside ? outs_beside : outs_apart)(k, sums);
    else if (beside && k->results == ROWS && k->x_next == k->x_row && has_tall(k->rows)) rows_tall(k, sums);
    else (beside ? rows_beside : rows_apart)(k, sums);
}

/* Masks for results from `from` on, n of them, and k->taps taps from `tap` on. */
static void find_masks(const struct planes *s, int64_t from, int64_t n, int64_t tap, struct stretch *k)
{
    const struct conv_space *last = &s->part.space[s->part.n - 1];
    int64_t step = lane_step(&s->part, s->along_taps);
    for (int64_t m = 0; m < k->taps; m += s->along_taps ? LANES : 1)
        for (int64_t v = 0; v < k->n; v++) {
            int64_t result = from + (s->along_taps ? v : v * LANES);
            int64_t first = result * last->stride + (tap + m) * last->tap_stride + last->first;
            if (s->along_taps)
                k->masks[m / LANES][v] = lanes_of(first, last->tap_stride, last->x_size, k->taps - m, step);
            else k->masks[m][v] = lanes_of(first, last->stride, last->x_size, n - v * LANES, step);
        }
}

/* Where a block of results is: out[…] but for the last two dims, and its first row. */
struct block {
    int64_t out[HOP_RT_CONV_SPACES], row, from, tap;
    int rows;
};

/* Adds what taps lo to hi - 1 along the last dim but one give to `rows` rows of results, the block's
 * `first` and those behind it. */
static void add_rows(const struct planes *s, const float *x, const float *w, const struct block *at,
                     int64_t first, int64_t lo, int64_t hi, struct stretch *k, float *sums)
{
    const struct conv_part *p = &s->part;
    const struct conv_space *last = &p->space[p->n - 1], *row = last - 1;
    if (lo >= hi) return;
    int64_t top = (at->row + first) * row->stride + lo * row->tap_stride + row->first;
    int64_t left = at->from * last->stride + at->tap * last->tap_stride + last->first;
    int64_t tap[HOP_RT_CONV_SPACES] = { 0 };
    k->rows = hi - lo;
    do {
        int64_t x_at = top * row->x_step + left * last->x_step;
        int64_t w_at = lo * row->w_step + at->tap * last->w_step;
        bool meets = true;
        for (uint32_t i = 0; i + 2 < p->n; i++) {
            const struct conv_space *d = &p->space[i];
            int64_t element = at->out[i] * d->stride + tap[i] * d->tap_stride + d->first;
            meets &= element >= 0 && element < d->x_size;
            x_at += element * d->x_step;
            w_at += tap[i] * d->w_step;
        }
        if (!meets) continue;
        k->x = x + x_at;
        k->w = w + w_at;
        add_terms_wide(s, k, sums + first * CHUNK);
    } while (next_outer(p, p->n - 2, true, tap));
}

/* Adds a stretch of taps along the last dim to the rows of a block: those taps along the dim before it that
 * all rows meet for all at once, the others for each of them. */
static void add_block(const struct planes *s, const float *x, const float *w, const struct block *at,
                      struct stretch *k, float *sums)
{
    const struct conv_space *row = &s->part.space[s->part.n - 2];
    bool outs = !s->one_out;
    int64_t all_lo = 0, all_hi = row->taps, lo[ROWS], hi[ROWS];
    for (int r = 0; r < (outs ? 1 : at->rows); r++) {
        int64_t top = (at->row + r) * row->stride + row->first;
        conv_within(top, row->tap_stride, row->x_size, row->taps, &lo[r], &hi[r]);
        all_lo = HOP_MAX(all_lo, lo[r]);
        all_hi = HOP_MIN(all_hi, hi[r]);
    }
    k->results = at->rows;
    add_rows(s, x, w, at, 0, all_lo, all_hi, k, sums);
    all_hi = HOP_MAX(all_lo, all_hi);
    bool alike = true;
    for (int r = 0; r < (outs ? 0 : at->rows); r++) alike &= lo[r] == all_lo && hi[r] == all_hi;
    if (alike) return;
    k->results = 1;
    for (int r = 0; r < at->rows; r++) {
        add_rows(s, x, w, at, r, lo[r], HOP_MIN(all_lo, hi[r]), k, sums);
        add_rows(s, x, w, at, r, HOP_MAX(all_hi, lo[r]), hi[r], k, sums);
    }
}

WIDE static void clear_sums(float *sums, int rows, int vectors)
{
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) _mm512_store_ps(sums + r * CHUNK + v * LANES, _mm512_setzero_ps());
}

/* n sums over lanes. */
static void leave_totals(float *sums, int64_t n, float *to, int64_t y_step)
{
    for (int64_t i = 0; i < n; i++) {
        float *lanes = sums + i * LANES;
        for (int half = LANES / 2; half; half /= 2)
            for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
        to[i * y_step] = lanes[0];
    }
}

/* n results leave their registers: beside each other, every other one, as phases have them, or further
 * apart. */
WIDE static void leave_row(const float *sums, int64_t n, float *to, int64_t y_step)
{
    const __m512i later = _mm512_setr_epi32(8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15);
    for (int64_t i = 0; y_step > 2 && i < n; i++) to[i * y_step] = sums[i];
    for (int64_t i = 0; y_step <= 2 && i < n; i += LANES) {
        uint32_t some = (1u << HOP_MIN(n - i, LANES)) - 1;
        __m512 v = _mm512_loadu_ps(sums + i);
        if (y_step == 1) _mm512_mask_storeu_ps(to + i, (__mmask16)some, v);
        if (y_step == 1) continue;
        some = _pdep_u32(some, 0x55555555);
        _mm512_mask_storeu_ps(to + 2 * i, (__mmask16)some, _mm512_maskz_expand_ps(0x5555, v));
        _mm512_mask_storeu_ps(to + 2 * i + LANES, (__mmask16)(some >> 16), _mm512_permutexvar_ps(later, v));
    }
}

/* Rows of results of one batch and group, of as many channels out as are made at once: columns of as many
 * results as there are registers for. */
static void make_plane_wide(const struct planes *s, const struct plane *at)
{
    const struct conv_part *p = &s->part;
    const struct conv_space *last = &p->space[p->n - 1], *row = last - 1;
    int64_t most = s->along_taps ? VECTORS : CHUNK, most_taps = s->along_taps ? MASKED * LANES : MASKED;
    bool outs = !s->one_out;
    struct stretch k = { .channels = p->channels, .x_channel = p->x_channel, .w_channel = p->w_channel };
    k.x_row = row->tap_stride * row->x_step;
    k.w_row = row->w_step;
    k.x_tap = last->tap_stride * last->x_step;
    k.w_tap = last->w_step;
    k.x_result = last->stride * last->x_step;
    k.x_next = outs ? 0 : row->stride * row->x_step;
    k.w_next = outs ? p->w_out : 0;
    int64_t y_next = outs ? p->y_out : row->y_step;
    for (int64_t from = 0; from < last->results; from += most) {
        struct block b = { .from = from };
        int64_t n = HOP_MIN(most, last->results - from);
        bool known = false;
        k.n = (int)(s->along_taps ? n : (n + LANES - 1) / LANES);
        do {
            int64_t far = from * last->y_step;
            for (uint32_t i = 0; i + 2 < p->n; i++) far += b.out[i] * p->space[i].y_step;
            for (b.row = at->row; b.row < at->row_end; b.row += outs ? 1 : ROWS) {
                _Alignas(64) float sums[ROWS * CHUNK];
                b.rows = outs ? at->outs : (int)HOP_MIN(ROWS, at->row_end - b.row);
                clear_sums(sums, b.rows, k.n);
                for (b.tap = 0; b.tap < last->taps; b.tap += most_taps) {
                    k.taps = HOP_MIN(most_taps, last->taps - b.tap);
                    if (!known) find_masks(s, from, n, b.tap, &k);
                    known = k.taps == last->taps;
                    add_block(s, at->x, at->w, &b, &k, sums);
                }
                for (int r = 0; r < b.rows; r++) {
                    float *to = at->y + far + b.row * row->y_step + r * y_next;
                    if (s->along_taps) leave_totals(sums + r * CHUNK, n, to, last->y_step);
                    else leave_row(sums + r * CHUNK, n, to, last->y_step);
                }
            }
        } while (next_outer(p, p->n - 2, false, b.out));
    }
}

/* Steps of one or two elements, on a processor that has the registers. */
static bool is_wide(const struct planes *s)
{
    const struct conv_part *p = &s->part;
    int64_t step = lane_step(p, s->along_taps);
    bool steps = step >= 1 && step <= 2 && (!s->along_taps || p->space[p->n - 1].w_step == 1);
    return steps && product_kernel(DT_F32, DT_F32, DT_F32)->cols == 2 * LANES;
}
#else
#define is_wide(s) false
#define make_plane_wide(s, at) ((void)0)
#endif

/* ---- all of them ---- */

/* The phases of one convolution: their planes of a batch and group are made together, while what they read
 * and write is close. */
struct phases {
    struct planes of[CONV_PHASES];
    uint32_t n;
    int64_t outs;    /* channels out made at once */
    int64_t stripes; /* pieces of work of a plane */
};

static int32_t planes_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct phases *all = env;
    const struct conv_part *any = &all->of[0].part;
    int64_t blocks = conv_blocks_of(any->out, all->outs);
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++) {
        int64_t unit = i / all->stripes, stripe = i % all->stripes, out = unit % blocks * all->outs;
        int64_t group = unit / blocks % any->groups, batch = unit / blocks / any->groups;
        for (uint32_t k = 0; k < all->n; k++) {
            const struct planes *s = &all->of[k];
            const struct conv_part *p = &s->part;
            int64_t y_at = batch * p->y_batch + group * p->y_group + out * p->y_out;
            struct plane at = { .x = (const float *)p->x + batch * p->x_batch + group * p->x_group,
                                .w = (const float *)p->w + group * p->w_group + out * p->w_out,
                                .y = (float *)p->y + y_at,
                                .row = stripe * s->stripe,
                                .outs = (int)HOP_MIN(all->outs, p->out - out) };
            at.row_end = HOP_MIN(at.row + s->stripe, p->space[p->n - 2].results);
            if (s->wide) make_plane_wide(s, &at);
            else if (!stripe) make_plane(s, at.x, at.w, at.y);
        }
    }
    return 0;
}

/* A dim of one element before the last, where there is none. */
static void add_row_dim(struct conv_part *p)
{
    if (p->n > 1) return;
    p->space[1] = p->space[0];
    p->space[0] = (struct conv_space){ .x_size = 1, .results = 1, .taps = 1, .stride = 1, .tap_stride = 1 };
    p->n = 2;
}

/* How the planes of a convolution are made. */
static struct planes planes_of(const struct conv_part *part)
{
    struct planes s = { .part = *part, .one_out = part->out == 1 };
    add_row_dim(&s.part);
    const struct conv_space *last = &s.part.space[s.part.n - 1];
    s.along_taps = last->taps > last->results;
    s.add = s.along_taps ? add_products : add_scaled;
    s.wide = is_wide(&s);
    s.stripe = last[-1].results;
    return s;
}

bool conv_has_planes(const struct conv_part *part)
{
    if (!part->n || part->x_dtype != DT_F32 || part->w_dtype != DT_F32 || part->y_dtype != DT_F32)
        return false;
    if (part->out == 1) return true;
    struct planes s = planes_of(part);
    return part->out <= ROWS && s.wide && !s.along_taps && part->space[part->n - 1].results >= LANES;
}

/* Adds a phase that has results; gives the multiplications of a plane of it. */
static double add_phase(struct phases *all, const struct conv_part *part)
{
    double work = (double)part->channels;
    for (uint32_t i = 0; i < part->n; i++) {
        if (!part->space[i].results) return 0;
        work *= (double)part->space[i].taps * (double)part->space[i].results;
    }
    struct planes *s = &all->of[all->n++];
    *s = planes_of(part);
    if (!work) s->part.channels = 0; /* of no terms */
    return work;
}

/* Rows of each phase in as many stripes as are worth it. */
static void cut_stripes(struct phases *all, double each)
{
    int64_t most = 1;
    for (uint32_t k = 0; k < all->n; k++) {
        struct planes *s = &all->of[k];
        int64_t rows = s->stripe, worth = (int64_t)(2 * WORTH_A_THREAD / each * (double)rows) + 1;
        s->stripe = (worth + ROWS - 1) / ROWS * ROWS;
        if (s->wide) most = HOP_MAX(most, conv_blocks_of(rows, s->stripe));
    }
    all->stripes = most;
}

int32_t conv_planes(struct hop_rt *rt, const struct conv_part *parts, uint32_t n)
{
    struct phases all = { .stripes = 1, .outs = parts->out > 1 ? ROWS : 1 };
    double each = 0;
    for (uint32_t k = 0; k < n; k++) each += add_phase(&all, &parts[k]);
    if (!all.n) return 0;
    each *= (double)HOP_MIN(all.outs, parts->out);
    if (each > 2 * WORTH_A_THREAD) cut_stripes(&all, each);
    int64_t units = parts->batch * parts->groups * conv_blocks_of(parts->out, all.outs);
    return conv_each(rt, planes_some, &all, units * all.stripes, each * (double)units);
}
