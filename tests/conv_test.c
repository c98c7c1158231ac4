/* Convolutions against their definition, written as loops: random numbers of spatial dims, sizes, strides,
 * paddings (negative ones too), dilations of both operands, groups, orders of dims, dtypes, sizes that are
 * known when running. The interpreter is held to the loops, strict code to its bits; default code, which
 * calls the runtime for large ones, to bounds, on any number of threads to the same bits, for every kind of
 * processor that the kernels know. Small ones are held to their derivatives and batches.
 * `conv_test [FIRST [COUNT]]` runs other seeds; HOP_TEST_SEEDS says how many. */
#include "check/check.h"
#include "ir/text.h"
#include "loop/lower.h"
#include "ops/convkit.h"
#include "runtime/exe.h"
#include "runtime/product_kernels.h"
#include "seeds.h"

#include <math.h>
#include <stdio.h>

#ifdef __SANITIZE_ADDRESS__
enum { SEEDS = 20 };
#else
enum { SEEDS = 60 };
#endif
enum { MOST_SPACE = 3, MOST_DIMS = MOST_SPACE + CONV_SPATIAL, LEVELS = 4 };

static uint32_t passed, failed;

/* A convolution; sizes by part. */
struct drawn {
    struct random random;
    uint32_t n;
    int64_t batch, groups, out, channels;
    int64_t size[MOST_SPACE], taps[MOST_SPACE], results[MOST_SPACE];
    int64_t stride[MOST_SPACE], x_dilation[MOST_SPACE], w_dilation[MOST_SPACE], low[MOST_SPACE],
        high[MOST_SPACE];
    uint32_t x[MOST_DIMS], w[MOST_DIMS], y[MOST_DIMS];
    enum dtype dtype;
    bool small, symbolic, turned;
};

static int64_t from_to(struct drawn *d, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(random_next(&d->random) % (uint64_t)(hi - lo + 1));
}

/* In half of all cases as they come. */
static void draw_order(struct drawn *d, uint32_t *order)
{
    uint32_t rank = d->n + CONV_SPATIAL;
    bool mixed = from_to(d, 0, 1);
    for (uint32_t i = 0; i < rank; i++) order[i] = i;
    for (uint32_t i = rank; mixed && i > 1; i--) {
        uint32_t j = (uint32_t)from_to(d, 0, i - 1), k = order[j];
        order[j] = order[i - 1];
        order[i - 1] = k;
    }
}

static void count_results(struct drawn *d, uint32_t i)
{
    int64_t padded = (d->size[i] - 1) * d->x_dilation[i] + 1 + d->low[i] + d->high[i];
    int64_t room = padded - (d->taps[i] - 1) * d->w_dilation[i] - 1;
    d->results[i] = (room < 0 ? -((d->stride[i] - 1 - room) / d->stride[i]) : room / d->stride[i]) + 1;
}

static bool draw_space(struct drawn *d, uint32_t i)
{
    static const int64_t large[] = { 300, 24, 9 };
    d->size[i] = from_to(d, 0, d->small ? 5 : large[d->n - 1]);
    d->taps[i] = from_to(d, 0, 9) ? from_to(d, 1, d->small ? 3 : 5) : from_to(d, 0, d->size[i]);
    d->stride[i] = from_to(d, 1, 3);
    d->w_dilation[i] = from_to(d, 0, 2) ? 1 : from_to(d, 1, 3);
    d->x_dilation[i] = from_to(d, 0, 2) ? 1 : from_to(d, 1, 3);
    d->low[i] = from_to(d, -1, 3);
    d->high[i] = from_to(d, -1, 3);
    count_results(d, i);
    return d->results[i] >= 0;
}

static struct drawn draw(uint64_t seed)
{
    static const enum dtype dtypes[] = { DT_F32, DT_F32, DT_F32, DT_F64, DT_BF16, DT_F16, DT_I32, DT_U8 };
    struct drawn d = { .random = { seed * 0x9e3779b97f4a7c15u + 1 } };
    d.small = seed % 3 == 0;
    d.n = (uint32_t)from_to(&d, 1, MOST_SPACE);
    d.dtype = dtypes[from_to(&d, 0, HOP_COUNT(dtypes) - 1)];
    if (d.small) d.dtype = DT_F64;
    bool depthwise = from_to(&d, 0, 3) == 0;
    d.batch = from_to(&d, d.small ? 0 : 1, 3);
    d.groups = depthwise ? from_to(&d, 8, 11) : from_to(&d, 1, 2);
    d.out = depthwise ? 1 : from_to(&d, 1, d.small ? 3 : 40);
    d.channels = depthwise ? 1 : from_to(&d, 0, d.small ? 3 : 20);
    d.symbolic = from_to(&d, 0, 2) == 0;
    for (uint32_t i = 0; i < d.n;) i += draw_space(&d, i);
    draw_order(&d, d.x);
    draw_order(&d, d.w);
    draw_order(&d, d.y);
    d.turned = from_to(&d, 0, 2) == 0;
    return d;
}

/* Groups of one channel out or a few, large enough for the runtime: what the kernels that keep rows of sums
 * in registers tell apart. Rows of results are longer than those of taps, or the other way round; either may
 * be more than is known at a time (64 taps, 1,024 taps over lanes); elements lie beside each other, every
 * other one, or further apart. */
static const struct {
    uint32_t n;
    int64_t channels, out;
    int64_t size[MOST_SPACE], taps[MOST_SPACE], stride[MOST_SPACE], x_dilation[MOST_SPACE],
        w_dilation[MOST_SPACE], low[MOST_SPACE], high[MOST_SPACE];
    int64_t batch; /* 0: two */
    bool in_f64;
} by_group[] = {
    { 1, 1, 1, { 600 }, { 7 }, { 1 }, { 1 }, { 1 }, { 3 }, { 0 } },
    { 1, 3, 1, { 300 }, { 64 }, { 1 }, { 1 }, { 1 }, { 0 }, { 0 } },
    { 1, 1, 1, { 300 }, { 65 }, { 2 }, { 1 }, { 1 }, { 9 }, { 0 } },
    { 1, 1, 1, { 500 }, { 131 }, { 1 }, { 1 }, { 2 }, { 40 }, { 0 } },
    { 1, 2, 1, { 1030 }, { 1024 }, { 1 }, { 1 }, { 1 }, { 2 }, { 0 } },
    { 1, 1, 1, { 1100 }, { 1099 }, { 1 }, { 1 }, { 1 }, { 0 }, { 5 } },
    { 1, 1, 1, { 2300 }, { 1150 }, { 2 }, { 1 }, { 2 }, { 7 }, { 0 } },
    { 1, 1, 1, { 3400 }, { 1130 }, { 1 }, { 1 }, { 3 }, { 1 }, { 0 } },
    { 2, 1, 1, { 12, 150 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { 2, 1, 1, { 30, 71 }, { 3, 5 }, { 2, 2 }, { 1, 1 }, { 1, 2 }, { 1, 4 }, { 1, 3 } },
    { 2, 1, 1, { 30, 71 }, { 5, 5 }, { 3, 3 }, { 1, 1 }, { 2, 1 }, { 4, -1 }, { 4, 2 } },
    { 2, 1, 1, { 9, 160 }, { 3, 70 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 2, 30 }, { 0, 0 } },
    { 2, 1, 1, { 28, 28 }, { 28, 28 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 3 }, { 1, 3 } },
    { 3, 1, 1, { 4, 6, 40 }, { 2, 3, 3 }, { 1, 2, 1 }, { 1, 1, 1 }, { 2, 1, 1 }, { 1, 1, 1 }, { 0, 1, 1 } },
    { 3, 2, 1, { 3, 6, 90 }, { 2, 5, 88 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 0, 1, 2 }, { 0, 0, 0 } },
    { 2, 1, 1, { 23, 81 }, { 5, 3 }, { 1, 1 }, { 1, 1 }, { 1, 2 }, { 2, 1 }, { 2, 1 } },
    { 2, 2, 1, { 10, 33 }, { 7, 7 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 3, 3 }, { 6, 3 } },
    { 2, 2, 3, { 9, 70 }, { 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 } },
    { 2, 1, 4, { 21, 61 }, { 5, 3 }, { 2, 2 }, { 1, 1 }, { 1, 3 }, { 2, 0 }, { 0, 0 } },
    { 2, 3, 2, { 11, 37 }, { 4, 4 }, { 1, 1 }, { 2, 2 }, { 1, 1 }, { 2, 1 }, { 1, 2 } },
    { 2, 1, 1, { 19, 47 }, { 4, 4 }, { 1, 1 }, { 3, 3 }, { 1, 1 }, { 0, 0 }, { 2, 5 } },
    { 1, 2, 3, { 300 }, { 9 }, { 1 }, { 2 }, { 1 }, { 4 }, { 0 } },
    { 3, 2, 5, { 3, 7, 40 }, { 2, 3, 3 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } },
    { 3, 2, 3, { 3, 7, 40 }, { 2, 3, 3 }, { 1, 1, 1 }, { 1, 1, 1 }, { 2, 1, 1 }, { 1, 2, 1 }, { 1, 0, 1 } },
    /* Few long sums for each of several channels out: results along the last dim at once, or batches. */
    { 1, 2, 13, { 90 }, { 80 }, { 1 }, { 1 }, { 1 }, { 4 }, { 4 } },
    { 2, 1, 40, { 12, 66 }, { 10, 30 }, { 1, 1 }, { 1, 1 }, { 1, 2 }, { 1, 1 }, { 1, 1 } },
    { 2, 2, 33, { 12, 30 }, { 10, 28 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 13 },
    { 1, 3, 12, { 70 }, { 25 }, { 3 }, { 1 }, { 2 }, { 5 }, { 0 }, 7 },
    { 2, 2, 16, { 9, 50 }, { 7, 23 }, { 2, 3 }, { 1, 1 }, { 1, 2 }, { -1, -2 }, { 3, 9 }, 6, true },
    { 3,
      1,
      17,
      { 3, 6, 30 },
      { 2, 5, 28 },
      { 1, 1, 1 },
      { 1, 1, 1 },
      { 1, 1, 1 },
      { 1, 0, 1 },
      { 0, 1, 1 },
      8 },
    { 1, 2, 14, { 300 }, { 64 }, { 4 }, { 1 }, { 4 }, { 9 }, { 0 }, 1, true },
    { 2, 1, 30, { 40, 34 }, { 3, 32 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 25 },
    { 2, 3, 15, { 20, 60 }, { 20, 60 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 }, 10 },
    /* Few results for many channels out, of sums so long that all panels of x are not there at a time. */
    { 1, 700, 193, { 4 }, { 3 }, { 1 }, { 1 }, { 1 }, { 1 }, { 1 }, 1 },
};

static struct drawn case_by_group(uint32_t k)
{
    struct drawn d = { .n = by_group[k].n,
                       .batch = by_group[k].batch ? by_group[k].batch : 2,
                       .groups = by_group[k].out < 12 ? 9 : 2,
                       .out = by_group[k].out,
                       .channels = by_group[k].channels,
                       .dtype = by_group[k].in_f64 ? DT_F64 : DT_F32,
                       .turned = by_group[k].out < 12 && k % 3 == 2 };
    for (uint32_t i = 0; i < d.n; i++) {
        d.size[i] = by_group[k].size[i];
        d.taps[i] = by_group[k].taps[i];
        d.stride[i] = by_group[k].stride[i];
        d.x_dilation[i] = by_group[k].x_dilation[i];
        d.w_dilation[i] = by_group[k].w_dilation[i];
        d.low[i] = by_group[k].low[i];
        d.high[i] = by_group[k].high[i];
        count_results(&d, i);
    }
    for (uint32_t i = 0; i < d.n + CONV_SPATIAL; i++) d.x[i] = d.w[i] = d.y[i] = i;
    return d;
}

/* ---- as a program ---- */

static void put_dims(struct text *t, const struct drawn *d, const uint32_t *order, const char *const *sizes)
{
    uint32_t rank = d->n + CONV_SPATIAL, part_at[MOST_DIMS];
    for (uint32_t i = 0; i < rank; i++) part_at[order[i]] = i;
    text_add(t, "%s[", dtype_info[d->dtype].name);
    for (uint32_t i = 0; i < rank; i++) text_add(t, "%s%s", i ? ", " : "", sizes[part_at[i]]);
    text_str(t, "]");
}
static void put_list(struct text *t, const char *name, const int64_t *list, uint32_t n)
{
    text_add(t, ", %s = [", name);
    for (uint32_t i = 0; i < n; i++) text_add(t, "%s%lld", i ? ", " : "", (long long)list[i]);
    text_str(t, "]");
}
static void put_order(struct text *t, const char *name, const uint32_t *order, uint32_t rank)
{
    text_add(t, "%s = [", name);
    for (uint32_t i = 0; i < rank; i++) text_add(t, "%s%u", i ? ", " : "", order[i]);
    text_str(t, "]");
}

static const char *program_of(struct arena *a, const struct drawn *d)
{
    struct text t = { .arena = a };
    const char *x[MOST_DIMS], *w[MOST_DIMS], *y[MOST_DIMS];
    uint32_t rank = d->n + CONV_SPATIAL, last = d->n - 1;
    x[CONV_BATCH] = y[CONV_BATCH] = d->symbolic ? "N" : arena_printf(a, "%lld", (long long)d->batch);
    x[CONV_GROUP] = y[CONV_GROUP] = w[CONV_W_GROUP] = arena_printf(a, "%lld", (long long)d->groups);
    x[CONV_CHANNEL] = w[CONV_CHANNEL] = arena_printf(a, "%lld", (long long)d->channels);
    w[CONV_W_OUT] = y[CONV_OUT] = arena_printf(a, "%lld", (long long)d->out);
    for (uint32_t i = 0; i < d->n; i++) {
        int64_t rest = d->low[i] + d->high[i] - d->x_dilation[i] - (d->taps[i] - 1) * d->w_dilation[i];
        x[CONV_SPATIAL + i] = arena_printf(a, "%lld", (long long)d->size[i]);
        w[CONV_SPATIAL + i] = arena_printf(a, "%lld", (long long)d->taps[i]);
        y[CONV_SPATIAL + i] = arena_printf(a, "%lld", (long long)d->results[i]);
        if (i != last || !d->symbolic) continue;
        x[CONV_SPATIAL + i] = "T";
        y[CONV_SPATIAL + i] = arena_printf(a, "(%lld*T + %lld) // %lld + 1", (long long)d->x_dilation[i],
                                           (long long)rest, (long long)d->stride[i]);
    }
    text_add(&t, "hop 1\nfn @f%s(%%x: ", d->symbolic ? "[N, T]" : "");
    put_dims(&t, d, d->x, x);
    text_str(&t, ", %w: ");
    put_dims(&t, d, d->w, w);
    text_str(&t, ") -> (");
    put_dims(&t, d, d->y, y);
    text_str(&t, ") {\n  %y = conv_general {");
    put_order(&t, "x_dims", d->x, rank);
    put_order(&t, ", w_dims", d->w, rank);
    put_order(&t, ", y_dims", d->y, rank);
    put_list(&t, "strides", d->stride, d->n);
    put_list(&t, "low", d->low, d->n);
    put_list(&t, "high", d->high, d->n);
    put_list(&t, "x_dilation", d->x_dilation, d->n);
    put_list(&t, "w_dilation", d->w_dilation, d->n);
    text_str(&t, d->turned ? ", turned" : "");
    text_str(&t, "} (%x, %w)\n  return %y\n}\n");
    return t.data;
}

/* ---- as loops ---- */

static struct tensor *array_of(struct bag *bag, const struct drawn *d, const uint32_t *order,
                               const int64_t head[CONV_SPATIAL], const int64_t *space)
{
    int64_t dims[MOST_DIMS];
    for (uint32_t i = 0; i < CONV_SPATIAL; i++) dims[order[i]] = head[i];
    for (uint32_t i = 0; i < d->n; i++) dims[order[CONV_SPATIAL + i]] = space[i];
    return bag_new(bag, d->dtype, d->n + CONV_SPATIAL, dims);
}

/* Row-major, of an index by part. */
static int64_t position(const struct tensor *t, const uint32_t *order, const int64_t *at)
{
    int64_t by_dim[MOST_DIMS], flat = 0;
    for (uint32_t i = 0; i < t->rank; i++) by_dim[order[i]] = at[i];
    for (uint32_t i = 0; i < t->rank; i++) flat = flat * t->dims[i] + by_dim[i];
    return flat;
}

static bool next(uint32_t n, const int64_t *sizes, int64_t *at)
{
    for (uint32_t i = n; i-- > 0;) {
        if (++at[i] < sizes[i]) return true;
        at[i] = 0;
    }
    return false;
}

static double sum_at(const struct drawn *d, const struct tensor *x, const struct tensor *w, const int64_t *y)
{
    int64_t at_x[MOST_DIMS] = { y[CONV_BATCH], y[CONV_GROUP] };
    int64_t at_w[MOST_DIMS] = { y[CONV_GROUP], y[CONV_OUT] };
    double sum = 0;
    for (int64_t c = 0; c < d->channels; c++) {
        int64_t tap[MOST_SPACE] = { 0 };
        bool empty = false;
        for (uint32_t i = 0; i < d->n; i++) empty |= !d->taps[i];
        if (empty) return 0;
        do {
            bool meets = true;
            at_x[CONV_CHANNEL] = at_w[CONV_CHANNEL] = c;
            for (uint32_t i = 0; i < d->n; i++) {
                int64_t at = y[CONV_SPATIAL + i] * d->stride[i] + tap[i] * d->w_dilation[i] - d->low[i];
                meets &= at >= 0 && at % d->x_dilation[i] == 0 && at / d->x_dilation[i] < d->size[i];
                at_x[CONV_SPATIAL + i] = at / d->x_dilation[i];
                at_w[CONV_SPATIAL + i] = d->turned ? d->taps[i] - 1 - tap[i] : tap[i];
            }
            if (meets) sum += tensor_get(x, position(x, d->x, at_x)) * tensor_get(w, position(w, d->w, at_w));
        } while (next(d->n, d->taps, tap));
    }
    return sum;
}

static struct tensor *loops(struct bag *bag, const struct drawn *d, const struct tensor *x,
                            const struct tensor *w)
{
    int64_t head[] = { d->batch, d->groups, d->out }, at[MOST_DIMS] = { 0 }, sizes[MOST_DIMS];
    struct tensor *y = array_of(bag, d, d->y, head, d->results);
    memcpy(sizes, head, sizeof head);
    memcpy(sizes + CONV_SPATIAL, d->results, sizeof d->results);
    if (!y->count) return y;
    do {
        double sum = sum_at(d, x, w, at);
        if (d->dtype == DT_U8) sum = fmod(sum, 256);
        tensor_set(y, position(y, d->y, at), sum);
    } while (next(y->rank, sizes, at));
    return y;
}

/* ---- what is claimed ---- */

static const struct bound near_f32 = { BOUND_TENSOR, 2e-5 }, near_f64 = { BOUND_TENSOR, 1e-12 },
                          bits = { BOUND_BITS, 0 };

static const char *differs(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args,
                           const struct tensor *reference)
{
    static const uint32_t threads[] = { 1, 2, 3, 7, 16 };
    struct outcome expected, first, found;
    run_on(bag, m, fn, &interpreter, args, NULL, &expected);
    if (expected.status) return expected.message;
    const char *wrong = tensor_difference(&bag->arena, expected.results[0], reference,
                                          bound_of((enum dtype)reference->dtype, near_f32, near_f64));
    if (wrong) return arena_printf(&bag->arena, "the interpreter and the definition: %s", wrong);
    struct way strict = { .name = "strict", .backend = backend_at(0), .passes = { .strict = true } };
    struct way checked = { .name = "checked", .backend = &executor_backend };
    struct way checked_strict = { .name = "checked, strict",
                                  .backend = &executor_backend,
                                  .passes = { .strict = true } };
    struct way loops_alone = { .name = "without products", .backend = backend_at(0) };
    loops_alone.passes.without = 1u << CHOICE_blas;
    const struct way *ways[] = { &strict, &checked, &checked_strict, &loops_alone };
    for (uint32_t i = 0; i < HOP_COUNT(ways); i++) {
        bool is_strict = ways[i]->passes.strict;
        if (ways[i]->backend == backend_at(0) && !exe_available()) continue;
        run_on(bag, m, fn, ways[i], args, NULL, &found);
        wrong = outcome_difference(&bag->arena, &found, &expected, is_strict ? bits : near_f32,
                                   is_strict ? bits : near_f64);
        if (wrong) return arena_printf(&bag->arena, "%s: %s", ways[i]->name, wrong);
    }
    for (int level = 0; level < LEVELS && exe_available(); level++) {
        product_kernels_limit(level);
        for (uint32_t i = 0; i < HOP_COUNT(threads); i++) {
            struct way way = { .name = "threads", .backend = backend_at(0), .threads = threads[i] };
            struct outcome *out = i ? &found : &first;
            if (i && level != LEVELS - 1) break;
            run_on(bag, m, fn, &way, args, NULL, out);
            wrong = outcome_difference(&bag->arena, out, i ? &first : &expected, i ? bits : near_f32,
                                       i ? bits : near_f64);
            if (wrong)
                return arena_printf(&bag->arena, "kernels %d, %u threads: %s", level, threads[i], wrong);
        }
    }
    return NULL;
}

/* Derivatives by x, by w and by both; lanes of x, of w and of both. */
static const char *transforms(struct bag *bag, struct module *m, uint32_t fn, struct tensor *const *args)
{
    enum { LANES = 3 };
    struct tensor *others[LANES][2], *const *lanes[LANES];
    struct random random = { 77 };
    for (uint32_t l = 0; l < LANES; l++) {
        for (uint32_t k = 0; k < 2; k++) {
            others[l][k] = bag_new(bag, (enum dtype)args[k]->dtype, args[k]->rank, args[k]->dims);
            tensor_random(others[l][k], &random, -1, 1);
        }
        lanes[l] = others[l];
    }
    for (uint32_t which = 1; which < 4; which++) {
        bool chosen[2] = { which & 1, which >> 1 };
        for (uint32_t k = 0; k < 2; k++) /* what is not batched is the same in all lanes */
            for (uint32_t l = 0; l < LANES && !chosen[k]; l++) others[l][k] = args[k];
        struct claim c = { .bag = bag, .m = m, .fn = fn, .args = args, .seed = which };
        const char *wrong = claim_gradient(&c, chosen);
        if (wrong) return arena_printf(&bag->arena, "derivatives %u: %s", which, wrong);
        wrong = claim_batch(&c, chosen, LANES, lanes);
        if (wrong) return arena_printf(&bag->arena, "lanes %u: %s", which, wrong);
        for (uint32_t k = 0; k < 2; k++)
            for (uint32_t l = 0; l < LANES; l++)
                if (others[l][k] == args[k]) {
                    others[l][k] = bag_new(bag, (enum dtype)args[k]->dtype, args[k]->rank, args[k]->dims);
                    tensor_random(others[l][k], &random, -1, 1);
                }
    }
    return NULL;
}

static void hold(const char *name, uint64_t seed, struct drawn d)
{
    struct bag bag = { 0 };
    struct hop_catch caught;
    const char *volatile wrong = NULL, *volatile text = "";
    hop_cleanup_push(bag_free, &bag);
    if (HOP_TRY(caught)) {
        struct random random = { seed };
        double most = d.dtype == DT_U8 ? 9 : d.dtype == DT_I32 ? 100 : 1;
        double least = d.dtype == DT_U8 ? 0 : -most;
        struct tensor *args[2] = {
            array_of(&bag, &d, d.x, (int64_t[]){ d.batch, d.groups, d.channels }, d.size),
            array_of(&bag, &d, d.w, (int64_t[]){ d.groups, d.out, d.channels }, d.taps)
        };
        for (uint32_t k = 0; k < 2; k++) tensor_random(args[k], &random, least, most);
        text = program_of(&bag.arena, &d);
        struct module *m = text_read("t", text, strlen(text));
        hop_cleanup_push(module_free, m);
        uint32_t fn = module_find(m, "f");
        wrong = differs(&bag, m, fn, args, loops(&bag, &d, args[0], args[1]));
        if (!wrong && d.small) wrong = transforms(&bag, m, fn, args);
        hop_cleanup_pop(m);
        module_free(m);
        hop_catch_end(&caught);
    } else wrong = hop_message();
    if (wrong) {
        failed++;
        printf("%s %llu: %s\n%s", name, (unsigned long long)seed, wrong, text);
    } else passed++;
    hop_cleanup_pop(&bag);
    bag_free(&bag);
}

int main(int argc, char **argv)
{
    struct seeds seeds = seeds_asked(argc, argv, SEEDS);
    for (uint64_t seed = seeds.first; seed < seeds.end; seed++) hold("seed", seed, draw(seed));
    for (uint32_t k = 0; argc < 2 && k < HOP_COUNT(by_group); k++) hold("by group", k, case_by_group(k));
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
