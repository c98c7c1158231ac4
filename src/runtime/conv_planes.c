/* Convolutions whose groups give one channel out, as depthwise ones do: results row by row, of f32. Where
 * rows of results are the longer ones they are computed side by side, and the sum goes over channels and taps
 * one after the other; where rows of taps are, as in the derivative by w, each result is a sum over lanes,
 * which are added up in a fixed order at the end. Either way a result is made by one thread, in an order that
 * the shape alone gives. */
#include "base/base.h"
#include "runtime/conv_gather.h"
#include "runtime/pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define WIDE __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,bmi2")))
#endif

enum { LANES = 16, CHUNK = 4 * LANES }; /* results, or terms, at once */
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

#if defined(__x86_64__)
/* Lanes from `at` on that are from lo to hi - 1. */
static inline uint32_t lanes_within(int64_t at, int64_t lo, int64_t hi)
{
    int64_t from = HOP_MIN(HOP_MAX(lo - at, 0), LANES), to = HOP_MIN(HOP_MAX(hi - at, 0), LANES);
    return ((1u << to) - (1u << from)) & 0xffff;
}
WIDE static inline __m512 load_some(const float *from, int64_t step, uint32_t mask)
{
    if (step == 1) return _mm512_maskz_loadu_ps((__mmask16)mask, from);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    uint32_t spread = _pdep_u32(mask, 0x55555555);
    __m512 a = _mm512_maskz_loadu_ps((__mmask16)spread, from);
    __m512 b = _mm512_maskz_loadu_ps((__mmask16)(spread >> 16), from + LANES);
    return _mm512_permutex2var_ps(a, even, b);
}
WIDE static void add_scaled_wide(float *sums, const struct run *r)
{
    __m512 w = _mm512_set1_ps(*r->w);
    for (int64_t i = r->lo / LANES * LANES; i < r->hi; i += LANES) {
        __m512 x = load_some(r->x + i * r->x_step, r->x_step, lanes_within(i, r->lo, r->hi));
        _mm512_storeu_ps(sums + i, _mm512_fmadd_ps(x, w, _mm512_loadu_ps(sums + i)));
    }
}
WIDE static void add_products_wide(float *sums, const struct run *r)
{
    __m512 sum = _mm512_loadu_ps(sums);
    for (int64_t i = r->lo / LANES * LANES; i < r->hi; i += LANES) {
        uint32_t some = lanes_within(i, r->lo, r->hi);
        __m512 x = load_some(r->x + i * r->x_step, r->x_step, some);
        sum = _mm512_fmadd_ps(x, load_some(r->w + i * r->w_step, r->w_step, some), sum);
    }
    _mm512_storeu_ps(sums, sum);
}
#endif

/* ---- planes ---- */

struct planes {
    struct conv_part part;
    bool along_taps;
    void (*add)(float *sums, const struct run *r);
};

/* The next index of dims but the last; false: that was all. */
static bool next_outer(const struct conv_part *p, bool taps, int64_t *at)
{
    for (uint32_t i = p->n - 1; i-- > 0;) {
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
        } while (next_outer(p, true, tap));
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
    } while (next_outer(p, false, out));
}

static int32_t planes_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct planes *s = env;
    const struct conv_part *p = &s->part;
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++) {
        int64_t out = i % p->out, group = i / p->out % p->groups, batch = i / p->out / p->groups;
        make_plane(s, (const float *)p->x + batch * p->x_batch + group * p->x_group,
                   (const float *)p->w + group * p->w_group + out * p->w_out,
                   (float *)p->y + batch * p->y_batch + group * p->y_group + out * p->y_out);
    }
    return 0;
}

int32_t conv_planes(struct hop_rt *rt, const struct conv_part *part)
{
    struct planes s = { .part = *part };
    const struct conv_space *last = &part->space[part->n - 1];
    double each = (double)part->channels;
    for (uint32_t i = 0; i < part->n; i++) {
        if (!part->space[i].results) return 0;
        each *= (double)part->space[i].taps * (double)part->space[i].results;
    }
    s.along_taps = last->taps > last->results;
    s.add = s.along_taps ? add_products : add_scaled;
#if defined(__x86_64__)
    int64_t x_step = (s.along_taps ? last->tap_stride : last->stride) * last->x_step;
    bool steps = x_step >= 1 && x_step <= 2 && (!s.along_taps || (last->w_step >= 1 && last->w_step <= 2));
    if (steps && product_kernel(DT_F32, DT_F32, DT_F32)->cols == 2 * LANES)
        s.add = s.along_taps ? add_products_wide : add_scaled_wide;
#endif
    if (!each) s.part.channels = 0; /* of no terms */
    int64_t n = part->batch * part->groups * part->out;
    if (each * (double)n < 2 * WORTH_A_THREAD) return planes_some(rt, &s, 0, n);
    return rt->parallel(rt, planes_some, &s, n, (int64_t)(WORTH_A_THREAD / 2 / HOP_MAX(each, 1)) + 1);
}
