/* Convolutions whose groups give one channel out, as depthwise ones do: results row by row, of f32. Where
 * rows of results are the longer ones they are computed side by side, and the sum goes over channels and taps
 * one after the other; where rows of taps are, as in the derivative by w, each result is a sum over lanes,
 * which are added up in a fixed order at the end. Either way a result is made by one thread, in an order that
 * the shape alone gives. With AVX-512 sums stay in registers for all taps along the last two dims, and which
 * elements exist is found once for all rows, as masks. */
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
    bool along_taps, wide;
    void (*add)(float *sums, const struct run *r);
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

/* Elements `first`, first + step, … of x that exist, of n. */
static void bound_run(struct run *r, int64_t first, int64_t step, int64_t size, int64_t n)
{
    int64_t last = size - 1 - first;
    r->lo = HOP_MIN(first < 0 ? (step - 1 - first) / step : 0, n);
    r->hi = HOP_MAX(HOP_MIN(last < 0 ? 0 : last / step + 1, n), r->lo);
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
                bound_run(&r, first, last->tap_stride, last->x_size, last->taps);
                s->add(sums, &r);
                continue;
            }
            for (int64_t m = 0; m < last->taps; m++) {
                int64_t at = first + m * last->tap_stride;
                struct run r = { .x = x + x_at + at * last->x_step,
                                 .w = w + w_at + m * last->w_step,
                                 .x_step = last->stride * last->x_step };
                bound_run(&r, at, last->stride, last->x_size, n);
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

/* The terms that one channel and one tap of the far dims, all but the last two, give to a row of results. */
struct stretch {
    const float *x, *w;
    int64_t rows, x_row, w_row; /* taps along the last dim but one, those that meet elements */
    int64_t taps, x_tap, w_tap; /* along the last */
    int64_t x_result;           /* from one result to the next */
    int n;                      /* vectors of results, or results that are sums over lanes */
    uint32_t masks[MASKED][VECTORS];
};

/* Which of LANES elements at `first`, first + step, … exist and are below n; every step-th bit is one. */
static uint32_t lanes_of(int64_t first, int64_t step, int64_t size, int64_t n, int64_t x_step)
{
    uint32_t mask = 0;
    for (int64_t i = 0, at = first; i < HOP_MIN(n, LANES); i++, at += step)
        mask |= (uint32_t)(at >= 0 && at < size) << i * x_step;
    return mask;
}

WIDE static inline __attribute__((always_inline)) __m512 load_lanes(const float *from, int64_t step,
                                                                    uint32_t mask)
{
    __m512 a = _mm512_maskz_loadu_ps((__mmask16)mask, from);
    if (step == 1) return a;
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, even, _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), from + LANES));
}

/* sums[i] += x[i] w, a tap after the other; masks: of taps and vectors. */
WIDE static inline __attribute__((always_inline)) void add_results(const struct stretch *k, int n,
                                                                   int64_t step, float *sums)
{
    __m512 s[VECTORS];
    for (int v = 0; v < n; v++) s[v] = _mm512_loadu_ps(sums + v * LANES);
    for (int64_t r = 0; r < k->rows; r++)
        for (int64_t m = 0; m < k->taps; m++) {
            const float *x = k->x + r * k->x_row + m * k->x_tap;
            __m512 w = _mm512_set1_ps(k->w[r * k->w_row + m * k->w_tap]);
            for (int v = 0; v < n; v++)
                s[v] = _mm512_fmadd_ps(load_lanes(x + v * LANES * step, step, k->masks[m][v]), w, s[v]);
        }
    for (int v = 0; v < n; v++) _mm512_storeu_ps(sums + v * LANES, s[v]);
}

/* sums of lanes[v] += x w for results v, side by side; masks: of vectors of taps and results. */
WIDE static inline __attribute__((always_inline)) void add_lanes(const struct stretch *k, int n, int64_t step,
                                                                 float *sums)
{
    __m512 s[VECTORS];
    for (int v = 0; v < n; v++) s[v] = _mm512_loadu_ps(sums + v * LANES);
    for (int64_t r = 0; r < k->rows; r++)
        for (int64_t m = 0; m < k->taps; m += LANES) {
            const float *x = k->x + r * k->x_row + m * step;
            __mmask16 some = (__mmask16)((1u << HOP_MIN(k->taps - m, LANES)) - 1);
            __m512 w = _mm512_maskz_loadu_ps(some, k->w + r * k->w_row + m);
            for (int v = 0; v < n; v++)
                s[v] = _mm512_fmadd_ps(load_lanes(x + v * k->x_result, step, k->masks[m / LANES][v]), w,
                                       s[v]);
        }
    for (int v = 0; v < n; v++) _mm512_storeu_ps(sums + v * LANES, s[v]);
}

/* Each with as many registers as there are sums, and elements beside each other or every other one. */
#define BY_COUNT(name) \
    WIDE static void name##_wide(const struct stretch *k, int64_t step, float *sums) \
    { \
        switch (k->n * 2 - (step == 1)) { \
        case 1: name(k, 1, 1, sums); break; \
        case 2: name(k, 1, 2, sums); break; \
        case 3: name(k, 2, 1, sums); break; \
        case 4: name(k, 2, 2, sums); break; \
        case 5: name(k, 3, 1, sums); break; \
        case 6: name(k, 3, 2, sums); break; \
        case 7: name(k, 4, 1, sums); break; \
        default: name(k, 4, 2, sums); break; \
        } \
    }
BY_COUNT(add_results)
BY_COUNT(add_lanes)
#undef BY_COUNT

/* Elements of x from one lane to the next. */
static int64_t lane_step(const struct conv_part *p, bool along_taps)
{
    const struct conv_space *last = &p->space[p->n - 1];
    return (along_taps ? last->tap_stride : last->stride) * last->x_step;
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

/* Adds what a stretch of taps along the last dim gives to results out[…], from `from` on. */
static void add_stretch(const struct planes *s, const float *x, const float *w, const int64_t *out,
                        int64_t from, int64_t at_tap, struct stretch *k, float *sums)
{
    const struct conv_part *p = &s->part;
    const struct conv_space *last = &p->space[p->n - 1], *row = last - 1;
    struct run rows;
    int64_t top = out[p->n - 2] * row->stride + row->first, step = lane_step(p, s->along_taps);
    bound_run(&rows, top, row->tap_stride, row->x_size, row->taps);
    int64_t left = from * last->stride + at_tap * last->tap_stride + last->first;
    k->rows = rows.hi - rows.lo;
    for (int64_t c = 0; c < p->channels; c++) {
        int64_t tap[HOP_RT_CONV_SPACES] = { 0 };
        do {
            int64_t x_at = c * p->x_channel + (top + rows.lo * row->tap_stride) * row->x_step;
            int64_t w_at = c * p->w_channel + rows.lo * row->w_step;
            bool meets = true;
            for (uint32_t i = 0; i + 2 < p->n; i++) {
                const struct conv_space *d = &p->space[i];
                int64_t at = out[i] * d->stride + tap[i] * d->tap_stride + d->first;
                meets &= at >= 0 && at < d->x_size;
                x_at += at * d->x_step;
                w_at += tap[i] * d->w_step;
            }
            if (!meets) continue;
            k->x = x + x_at + left * last->x_step;
            k->w = w + w_at + at_tap * last->w_step;
            if (s->along_taps) add_lanes_wide(k, step, sums);
            else add_results_wide(k, step, sums);
        } while (next_outer(p, p->n - 2, true, tap));
    }
}

/* n results from `from` on leave their registers. */
static void leave_row(const struct planes *s, float *sums, int64_t n, float *to)
{
    int64_t y_step = s->part.space[s->part.n - 1].y_step;
    for (int64_t i = 0; s->along_taps && i < n; i++) {
        float *lanes = sums + i * LANES;
        for (int half = LANES / 2; half; half /= 2)
            for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
        to[i * y_step] = lanes[0];
    }
    if (s->along_taps) return;
    if (y_step == 1) memcpy(to, sums, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++) to[i * y_step] = sums[i];
}

/* The results of one batch, group and channel out: columns of as many results as there are registers for. */
static void make_plane_wide(const struct planes *s, const float *x, const float *w, float *y)
{
    const struct conv_part *p = &s->part;
    const struct conv_space *last = &p->space[p->n - 1], *row = last - 1;
    int64_t most = s->along_taps ? VECTORS : CHUNK, most_taps = s->along_taps ? MASKED * LANES : MASKED;
    struct stretch k = { .x_row = row->tap_stride * row->x_step, .w_row = row->w_step };
    k.x_tap = last->tap_stride * last->x_step;
    k.w_tap = last->w_step;
    k.x_result = last->stride * last->x_step;
    for (int64_t from = 0; from < last->results; from += most) {
        int64_t out[HOP_RT_CONV_SPACES] = { 0 }, n = HOP_MIN(most, last->results - from);
        bool known = false;
        k.n = (int)(s->along_taps ? n : (n + LANES - 1) / LANES);
        do {
            _Alignas(64) float sums[CHUNK] = { 0 };
            int64_t y_at = from * last->y_step;
            for (uint32_t i = 0; i + 1 < p->n; i++) y_at += out[i] * p->space[i].y_step;
            for (int64_t tap = 0; tap < last->taps; tap += most_taps) {
                k.taps = HOP_MIN(most_taps, last->taps - tap);
                if (!known) find_masks(s, from, n, tap, &k);
                known = k.taps == last->taps;
                add_stretch(s, x, w, out, from, tap, &k, sums);
            }
            leave_row(s, sums, n, y + y_at);
        } while (next_outer(p, p->n - 1, false, out));
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
#define make_plane_wide(s, x, w, y) ((void)0)
#endif

static int32_t planes_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct planes *s = env;
    const struct conv_part *p = &s->part;
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++) {
        int64_t out = i % p->out, group = i / p->out % p->groups, batch = i / p->out / p->groups;
        const float *x = (const float *)p->x + batch * p->x_batch + group * p->x_group;
        const float *w = (const float *)p->w + group * p->w_group + out * p->w_out;
        float *y = (float *)p->y + batch * p->y_batch + group * p->y_group + out * p->y_out;
        if (s->wide) make_plane_wide(s, x, w, y);
        else make_plane(s, x, w, y);
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

int32_t conv_planes(struct hop_rt *rt, const struct conv_part *part)
{
    struct planes s = { .part = *part };
    double each = (double)part->channels;
    for (uint32_t i = 0; i < part->n; i++) {
        if (!part->space[i].results) return 0;
        each *= (double)part->space[i].taps * (double)part->space[i].results;
    }
    add_row_dim(&s.part);
    const struct conv_space *last = &s.part.space[s.part.n - 1];
    s.along_taps = last->taps > last->results;
    s.add = s.along_taps ? add_products : add_scaled;
    s.wide = is_wide(&s);
    if (!each) s.part.channels = 0; /* of no terms */
    int64_t n = part->batch * part->groups * part->out;
    if (each * (double)n < 2 * WORTH_A_THREAD) return planes_some(rt, &s, 0, n);
    return rt->parallel(rt, planes_some, &s, n, (int64_t)(WORTH_A_THREAD / 2 / HOP_MAX(each, 1)) + 1);
}
