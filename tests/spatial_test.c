/* Convolutions, transposed ones, pools, stencils, resizing and sampling at random shapes, strides, paddings,
 * dilations, groups, orders of dims and positions, against definitions written here: every result is a sum of
 * elements of x times factors (times elements of w), so that one list of such terms gives values and both
 * cotangents. The interpreter is held to the list; loop programs, native code with 1, 3 and 16 threads and
 * emitted C to the interpreter, strict ones bit for bit, functions and their reverse modes alike. Positions,
 * and everything in f64, are held to differences, and to lanes. `spatial_test [FIRST [COUNT]]` runs other
 * seeds; HOP_TEST_SEEDS says how many. */
#include "check/check.h"
#include "check/test_c.h"
#include "ir/text.h"
#include "transform/transform.h"

#include <math.h>
#include <stdio.h>

#ifdef __SANITIZE_ADDRESS__
enum { SEEDS = 24 };
#else
enum { SEEDS = 64 };
#endif
enum { MOST_SPACE = 3, MOST_DIMS = MOST_SPACE + 2, MOST_PARAMS = 4, MOST_TAPS = 4, KINDS = 8 };

static uint32_t passed, failed;

/* y += factor · x, or factor · x · w. */
struct term {
    int64_t y, x, w;
    double factor;
};
struct drawn {
    uint64_t seed;
    struct random random;
    struct bag *bag;
    struct text text;
    enum dtype dtype;
    struct tensor *args[MOST_PARAMS]; /* x, then w or positions */
    uint32_t n_args, rank;            /* rank: of the result */
    int64_t y[MOST_DIMS];
    bool by_w;
    vec(struct term) terms;
};

static int64_t from_to(struct drawn *d, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(random_next(&d->random) % (uint64_t)(hi - lo + 1));
}
static bool one_in(struct drawn *d, int64_t n) { return from_to(d, 1, n) == 1; }

static bool next(uint32_t n, const int64_t *sizes, int64_t *at)
{
    for (uint32_t i = n; i-- > 0;) {
        if (++at[i] < sizes[i]) return true;
        at[i] = 0;
    }
    return false;
}
static int64_t flat(uint32_t n, const int64_t *sizes, const int64_t *at)
{
    int64_t place = 0;
    for (uint32_t i = 0; i < n; i++) place = place * sizes[i] + at[i];
    return place;
}

static void add_term(struct drawn *d, int64_t y, int64_t x, int64_t w, double factor)
{
    vec_push(&d->bag->arena, &d->terms, ((struct term){ y, x, w, factor }));
}

/* ---- texts ---- */

static void put_type(struct drawn *d, uint32_t rank, const int64_t *dims)
{
    text_add(&d->text, "%s[", dtype_info[d->dtype].name);
    for (uint32_t i = 0; i < rank; i++) text_add(&d->text, "%s%lld", i ? ", " : "", (long long)dims[i]);
    text_str(&d->text, "]");
}
static void put_list(struct drawn *d, const char *name, uint32_t n, const int64_t *list)
{
    text_add(&d->text, "%s = [", name);
    for (uint32_t i = 0; i < n; i++) text_add(&d->text, "%s%lld", i ? ", " : "", (long long)list[i]);
    text_str(&d->text, "]");
}
/* fn @f(%p0: …, …) -> (…) {\n %y = NAME { */
static void put_head(struct drawn *d, const char *op)
{
    text_str(&d->text, "hop 1\nfn @f(");
    for (uint32_t i = 0; i < d->n_args; i++) {
        text_add(&d->text, "%s%%p%u: ", i ? ", " : "", i);
        put_type(d, d->args[i]->rank, d->args[i]->dims);
    }
    text_str(&d->text, ") -> (");
    put_type(d, d->rank, d->y);
    text_add(&d->text, ") {\n  %%y = %s {", op);
}
static void put_tail(struct drawn *d)
{
    text_str(&d->text, "} (");
    for (uint32_t i = 0; i < d->n_args; i++) text_add(&d->text, "%s%%p%u", i ? ", " : "", i);
    text_str(&d->text, ")\n  return %y\n}\n");
}

static struct tensor *add_arg(struct drawn *d, uint32_t rank, const int64_t *dims)
{
    struct tensor *t = bag_new(d->bag, d->dtype, rank, dims);
    tensor_random(t, &d->random, -1, 1);
    return d->args[d->n_args++] = t;
}

/* ---- convolutions ---- */

struct conv {
    uint32_t n, rank;
    bool transposed;
    int64_t groups, stride[MOST_SPACE], dilation[MOST_SPACE], other[MOST_SPACE], low[MOST_SPACE],
        high[MOST_SPACE];
    int64_t x[MOST_DIMS], w[MOST_DIMS], y[MOST_DIMS]; /* sizes by part: batch or out, channel or in, space */
    int64_t x_order[MOST_DIMS], w_order[MOST_DIMS];
};

static void draw_order(struct drawn *d, uint32_t rank, int64_t *order)
{
    bool mixed = one_in(d, 2);
    for (uint32_t i = 0; i < rank; i++) order[i] = i;
    for (uint32_t i = rank; mixed && i > 1; i--) {
        int64_t j = from_to(d, 0, i - 1), k = order[j];
        order[j] = order[i - 1];
        order[i - 1] = k;
    }
}

static void in_order(uint32_t rank, const int64_t *by_part, const int64_t *order, int64_t *by_dim)
{
    for (uint32_t i = 0; i < rank; i++) by_dim[order[i]] = by_part[i];
}
static int64_t place_of(uint32_t rank, const int64_t *sizes, const int64_t *order, const int64_t *at)
{
    int64_t dims[MOST_DIMS], index[MOST_DIMS];
    in_order(rank, sizes, order, dims);
    in_order(rank, at, order, index);
    return flat(rank, dims, index);
}

static int64_t results_of(const struct conv *c, uint32_t i)
{
    int64_t size = c->x[2 + i], reach = (c->w[2 + i] - 1) * c->dilation[i], both = c->low[i] + c->high[i];
    if (c->transposed) return (size - 1) * c->stride[i] + 1 + reach - both + c->other[i];
    int64_t room = (size - 1) * c->other[i] + both - reach;
    return room < 0 ? 0 : room / c->stride[i] + 1;
}

static struct conv draw_conv(struct drawn *d, bool transposed)
{
    static const int64_t largest[] = { 90, 17, 6 };
    struct conv c = { .n = (uint32_t)from_to(d, 1, MOST_SPACE), .transposed = transposed };
    bool depthwise = one_in(d, 3), small = d->dtype == DT_F64;
    c.rank = c.n + 2;
    c.groups = depthwise ? from_to(d, 2, small ? 3 : 10) : from_to(d, 1, 2);
    int64_t in = depthwise ? 1 : from_to(d, 1, small ? 2 : 7), out = from_to(d, 1, small ? 2 : 9);
    if (depthwise && one_in(d, 2)) out = 1;
    c.x[0] = c.y[0] = from_to(d, 1, 3);
    c.x[1] = in * c.groups;
    c.y[1] = out * c.groups;
    c.w[0] = transposed ? c.x[1] : c.y[1];
    c.w[1] = transposed ? out : in;
    for (uint32_t i = 0; i < c.n; i++) do {
            c.x[2 + i] = from_to(d, 1, small ? 5 : largest[c.n - 1]);
            c.w[2 + i] = from_to(d, 1, small ? 3 : 5);
            c.stride[i] = from_to(d, 1, 3);
            c.dilation[i] = one_in(d, 3) ? from_to(d, 1, 3) : 1;
            c.other[i] = transposed ? from_to(d, 0, c.stride[i] - 1) : one_in(d, 3) ? from_to(d, 1, 3) : 1;
            c.low[i] = from_to(d, -1, 3);
            c.high[i] = from_to(d, -1, 3);
            c.y[2 + i] = results_of(&c, i);
        } while (c.y[2 + i] < 1);
    draw_order(d, c.rank, c.x_order);
    draw_order(d, c.rank, c.w_order);
    return c;
}

/* Element i of one side and tap t belong to element `at` of the other. */
static void conv_terms(struct drawn *d, const struct conv *c)
{
    int64_t in = c->x[1] / c->groups, out = c->y[1] / c->groups, x[MOST_DIMS] = { 0 };
    do {
        int64_t group = x[1] / in, w[MOST_DIMS] = { 0 }, steps[MOST_DIMS], y[MOST_DIMS] = { x[0] };
        int64_t place = place_of(c->rank, c->x, c->x_order, x);
        memcpy(steps, c->w, sizeof steps);
        steps[0] = out;
        steps[1] = 1;
        do {
            bool meets = true;
            for (uint32_t i = 0; i < c->n; i++) {
                int64_t element = x[2 + i], tap = w[2 + i] * c->dilation[i];
                int64_t at = c->transposed ? element * c->stride[i] + tap - c->low[i]
                                           : element * c->other[i] - tap + c->low[i];
                int64_t every = c->transposed ? 1 : c->stride[i];
                meets &= at >= 0 && at % every == 0 && at / every < c->y[2 + i];
                y[2 + i] = at / every;
            }
            if (!meets) continue;
            y[1] = group * out + w[0];
            int64_t at_w[MOST_DIMS];
            memcpy(at_w, w, sizeof at_w);
            at_w[0] = c->transposed ? x[1] : y[1];
            at_w[1] = c->transposed ? w[0] : x[1] % in;
            add_term(d, place_of(c->rank, c->y, c->x_order, y), place,
                     place_of(c->rank, c->w, c->w_order, at_w), 1);
        } while (next(c->rank, steps, w));
    } while (next(c->rank, c->x, x));
}

static void make_conv(struct drawn *d, bool transposed)
{
    struct conv c = draw_conv(d, transposed);
    int64_t dims[MOST_DIMS];
    in_order(c.rank, c.x, c.x_order, dims);
    add_arg(d, c.rank, dims);
    in_order(c.rank, c.w, c.w_order, dims);
    add_arg(d, c.rank, dims);
    in_order(c.rank, c.y, c.x_order, d->y);
    d->rank = c.rank;
    d->by_w = true;
    put_head(d, transposed ? "conv_transpose" : "conv");
    put_list(d, "strides", c.n, c.stride);
    put_list(d, ", low", c.n, c.low);
    put_list(d, ", high", c.n, c.high);
    put_list(d, ", dilation", c.n, c.dilation);
    put_list(d, transposed ? ", output_padding" : ", x_dilation", c.n, c.other);
    text_add(&d->text, ", groups = %lld", (long long)c.groups);
    put_list(d, ", x_dims", c.rank, c.x_order);
    put_list(d, ", w_dims", c.rank, c.w_order);
    put_tail(d);
    conv_terms(d, &c);
}

/* ---- dim by dim: resizing and means ---- */

struct along {
    int64_t n, m;
    double *weights; /* of element k for result i: [i · n + k] */
};

static struct along new_along(struct drawn *d, int64_t n, int64_t m)
{
    return (struct along){ n, m, ARENA_ZNEW(&d->bag->arena, double, n *m + 1) };
}
static struct along the_same(struct drawn *d, int64_t n)
{
    struct along a = new_along(d, n, n);
    for (int64_t i = 0; i < n; i++) a.weights[i * n + i] = 1;
    return a;
}

static void separable_terms(struct drawn *d, const struct along *along)
{
    int64_t at[2 * MOST_DIMS] = { 0 }, sizes[2 * MOST_DIMS];
    for (uint32_t i = 0; i < d->rank; i++) {
        sizes[i] = along[i].m;
        sizes[d->rank + i] = along[i].n;
    }
    do {
        double factor = 1;
        for (uint32_t i = 0; i < d->rank; i++)
            factor *= along[i].weights[at[i] * along[i].n + at[d->rank + i]];
        if (factor != 0)
            add_term(d, flat(d->rank, sizes, at), flat(d->rank, sizes + d->rank, at + d->rank), 0, factor);
    } while (next(2 * d->rank, sizes, at));
}

static double linear_kernel(double t) { return fmax(1 - fabs(t), 0); }
static double cubic_kernel(double t, double a)
{
    t = fabs(t);
    if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

enum method { NEAREST, LINEAR, CUBIC };
static const char *const method_names[] = { "nearest", "linear", "cubic" };

static struct along resized(struct drawn *d, int64_t n, int64_t m, enum method method, bool align, bool wide)
{
    struct along a = new_along(d, n, m);
    for (int64_t i = 0; i < m; i++) {
        double *row = a.weights + i * n, total = 0, stretch = wide && n > m ? (double)n / (double)m : 1;
        double at = ((double)i + 0.5) * (double)n / (double)m - 0.5;
        if (align) at = m > 1 ? (double)i * (double)(n - 1) / (double)(m - 1) : 0;
        if (method == NEAREST) row[(2 * i + 1) * n / (2 * m)] = 1;
        for (int64_t k = 0; k < n && method != NEAREST; k++) {
            double t = ((double)k - at) / stretch;
            total += row[k] = method == CUBIC ? cubic_kernel(t, -0.5) : linear_kernel(t);
        }
        for (int64_t k = 0; k < n && method != NEAREST; k++) row[k] /= total;
    }
    return a;
}

/* Dims of x, of which some are changed. */
static uint32_t draw_dims(struct drawn *d, int64_t *x, int64_t *changed)
{
    uint32_t n = 0;
    d->rank = (uint32_t)from_to(d, 1, 3);
    for (uint32_t i = 0; i < d->rank; i++) {
        x[i] = from_to(d, 1, d->rank == 1 ? 40 : 9);
        if (one_in(d, 2) || (i + 1 == d->rank && !n)) changed[n++] = i;
    }
    return n;
}

static void make_resize(struct drawn *d)
{
    int64_t x[MOST_DIMS], changed[MOST_DIMS], sizes[MOST_DIMS];
    uint32_t n = draw_dims(d, x, changed);
    struct along along[MOST_DIMS];
    enum method method = (enum method)from_to(d, NEAREST, CUBIC);
    bool align = method != NEAREST && one_in(d, 3), wide = method != NEAREST && !align && one_in(d, 2);
    for (uint32_t i = 0; i < d->rank; i++) along[i] = the_same(d, x[i]);
    for (uint32_t k = 0; k < n; k++) {
        int64_t of = x[changed[k]];
        sizes[k] = one_in(d, 5) ? of : from_to(d, 1, 2 * of + 3);
        if (sizes[k] != of) along[changed[k]] = resized(d, of, sizes[k], method, align, wide);
    }
    for (uint32_t i = 0; i < d->rank; i++) d->y[i] = along[i].m;
    add_arg(d, d->rank, x);
    put_head(d, "resize");
    put_list(d, "dims", n, changed);
    put_list(d, ", sizes", n, sizes);
    text_add(&d->text, ", method = %s%s%s", method_names[method], align ? ", align_corners" : "",
             wide ? ", antialias" : "");
    put_tail(d);
    separable_terms(d, along);
}

static struct along bins(struct drawn *d, int64_t n, int64_t m)
{
    struct along a = new_along(d, n, m);
    for (int64_t i = 0; i < m; i++) {
        int64_t lo = i * n / m, hi = ((i + 1) * n + m - 1) / m;
        for (int64_t k = lo; k < hi; k++) a.weights[i * n + k] = 1 / (double)(hi - lo);
    }
    return a;
}

static void make_adaptive(struct drawn *d)
{
    int64_t x[MOST_DIMS], changed[MOST_DIMS], sizes[MOST_DIMS];
    uint32_t n = draw_dims(d, x, changed);
    struct along along[MOST_DIMS];
    for (uint32_t i = 0; i < d->rank; i++) along[i] = the_same(d, x[i]);
    for (uint32_t k = 0; k < n; k++) {
        sizes[k] = from_to(d, 1, x[changed[k]] + 2);
        along[changed[k]] = bins(d, x[changed[k]], sizes[k]);
    }
    for (uint32_t i = 0; i < d->rank; i++) d->y[i] = along[i].m;
    add_arg(d, d->rank, x);
    put_head(d, "adaptive_pool");
    put_list(d, "dims", n, changed);
    put_list(d, ", sizes", n, sizes);
    text_str(&d->text, ", by = mean");
    put_tail(d);
    separable_terms(d, along);
}

static void make_avg_pool(struct drawn *d)
{
    int64_t x[MOST_DIMS], window[MOST_DIMS], stride[MOST_DIMS], low[MOST_DIMS], high[MOST_DIMS];
    struct along along[MOST_DIMS];
    bool there = one_in(d, 2);
    d->rank = (uint32_t)from_to(d, 1, 3);
    for (uint32_t i = 0; i < d->rank; i++) {
        window[i] = from_to(d, 1, 4);
        stride[i] = from_to(d, 1, 3);
        low[i] = from_to(d, 0, window[i] - 1);
        high[i] = from_to(d, 0, window[i] - 1);
        x[i] = from_to(d, window[i], d->rank == 1 ? 40 : 9);
        d->y[i] = (x[i] + low[i] + high[i] - window[i]) / stride[i] + 1;
        along[i] = new_along(d, x[i], d->y[i]);
        for (int64_t o = 0; o < d->y[i]; o++) {
            int64_t first = HOP_MAX(o * stride[i] - low[i], 0);
            int64_t end = HOP_MIN(o * stride[i] - low[i] + window[i], x[i]);
            double each = 1 / (double)(there ? end - first : window[i]);
            for (int64_t k = first; k < end; k++) along[i].weights[o * x[i] + k] = each;
        }
    }
    add_arg(d, d->rank, x);
    put_head(d, "avg_pool");
    put_list(d, "window", d->rank, window);
    put_list(d, ", strides", d->rank, stride);
    put_list(d, ", low", d->rank, low);
    put_list(d, ", high", d->rank, high);
    if (there) text_str(&d->text, ", without_padding");
    put_tail(d);
    separable_terms(d, along);
}

/* ---- sampling ---- */

enum padding { ZEROS, BORDER, REFLECTION };
static const char *const padding_names[] = { "zeros", "border", "reflection" };
struct sampled {
    enum method method;
    enum padding padding;
    bool align;
    uint32_t n; /* dims that are read at positions */
    int64_t size[MOST_SPACE];
};
/* The elements that a position along one dim reads; negative ones have no weight. */
struct reads {
    uint32_t n;
    int64_t at[MOST_TAPS];
    double weight[MOST_TAPS];
};

static double mirrored(double p, int64_t n, bool align)
{
    double edge = align ? 0 : 0.5, length = align ? (double)(n - 1) : (double)n;
    if (length <= 0) return 0;
    double away = fmod(fabs(p + edge), 2 * length);
    if (away > length) away = 2 * length - away;
    return fmin(fmax(away - edge, 0), (double)(n - 1));
}
static double brought_inside(const struct sampled *s, double p, int64_t n)
{
    if (s->padding == REFLECTION) return mirrored(p, n, s->align);
    return s->padding == BORDER ? fmin(fmax(p, 0), (double)(n - 1)) : p;
}

static struct reads reads_of(const struct sampled *s, double p, int64_t n)
{
    struct reads r = { .n = s->method == NEAREST ? 1 : s->method == LINEAR ? 2 : 4 };
    if (s->method != CUBIC) p = brought_inside(s, p, n);
    double first = s->method == NEAREST ? rint(p) : floor(p) - (s->method == CUBIC);
    for (uint32_t k = 0; k < r.n; k++) {
        double at = first + k, t = p - at;
        r.weight[k] = s->method == NEAREST ? 1
                      : s->method == CUBIC ? cubic_kernel(t, -0.75)
                                           : linear_kernel(t);
        if (s->method == CUBIC) at = brought_inside(s, at, n);
        r.at[k] = at >= 0 && at < (double)n ? (int64_t)at : -1;
    }
    return r;
}

static struct sampled draw_sampled(struct drawn *d, uint32_t n)
{
    struct sampled s = { .n = n };
    s.method = (enum method)from_to(d, NEAREST, n > 2 ? LINEAR : CUBIC);
    s.padding = (enum padding)from_to(d, ZEROS, REFLECTION);
    s.align = one_in(d, 2);
    for (uint32_t i = 0; i < n; i++) s.size[i] = from_to(d, 1, 7);
    return s;
}

/* Off the places where the method changes: whole numbers, and halves. */
static double draw_position(struct drawn *d, int64_t n)
{
    double part = 0.1 + 0.3 * random_unit(&d->random);
    return (double)from_to(d, -n - 1, 2 * n) + (one_in(d, 2) ? part : part + 0.5);
}

/* Adds the terms of one result; the dims read at positions lie side by side in x. */
static void sample_terms(struct drawn *d, const struct sampled *s, const struct reads *reads, int64_t y,
                         int64_t x)
{
    int64_t at[MOST_SPACE] = { 0 }, sizes[MOST_SPACE];
    for (uint32_t i = 0; i < s->n; i++) sizes[i] = reads[i].n;
    do {
        int64_t element = 0;
        double factor = 1;
        for (uint32_t i = 0; i < s->n; i++) {
            int64_t here = reads[i].at[at[i]];
            factor *= here < 0 ? 0 : reads[i].weight[at[i]];
            element = element * s->size[i] + HOP_MAX(here, 0);
        }
        if (factor != 0) add_term(d, y, x + element, 0, factor);
    } while (next(s->n, sizes, at));
}

static void put_sampled(struct drawn *d, const char *op, const struct sampled *s)
{
    put_head(d, op);
    text_add(&d->text, "method = %s, padding = %s%s", method_names[s->method], padding_names[s->padding],
             s->align ? ", align_corners" : "");
    put_tail(d);
}

/* x [N, C, S…] at grid [N, T…, as many as S]. */
static void make_grid_sample(struct drawn *d)
{
    uint32_t n = (uint32_t)from_to(d, 1, MOST_SPACE);
    struct sampled s = draw_sampled(d, n);
    int64_t x[MOST_DIMS] = { from_to(d, 1, 2), from_to(d, 1, 3) }, grid[MOST_DIMS] = { x[0] };
    int64_t plane = 1, results = 1;
    d->rank = n + 2;
    d->y[0] = x[0];
    d->y[1] = x[1];
    for (uint32_t i = 0; i < n; i++) {
        plane *= x[2 + i] = s.size[i];
        results *= d->y[2 + i] = grid[1 + i] = from_to(d, 1, 5);
    }
    grid[1 + n] = n;
    add_arg(d, n + 2, x);
    struct tensor *g = add_arg(d, n + 2, grid);
    put_sampled(d, "grid_sample", &s);
    for (int64_t at = 0; at < x[0] * results; at++) {
        struct reads reads[MOST_SPACE];
        for (uint32_t i = 0; i < n; i++) {
            double p = draw_position(d, s.size[i]), size = (double)s.size[i];
            if (s.align && s.size[i] == 1) p = 0; /* whatever the grid says */
            tensor_set(g, at * n + (n - 1 - i),
                       s.align ? 2 * p / fmax(size - 1, 1) - 1 : (2 * p + 1) / size - 1);
            reads[i] = reads_of(&s, p, s.size[i]);
        }
        for (int64_t c = 0; c < x[1]; c++) {
            int64_t of = at / results * x[1] + c;
            sample_terms(d, &s, reads, of * results + at % results, of * plane);
        }
    }
}

static void make_map_coordinates(struct drawn *d)
{
    uint32_t n = (uint32_t)from_to(d, 1, MOST_SPACE);
    struct sampled s = draw_sampled(d, n);
    int64_t results = 1;
    d->rank = (uint32_t)from_to(d, 0, 2);
    for (uint32_t i = 0; i < d->rank; i++) results *= d->y[i] = from_to(d, 1, 6);
    add_arg(d, n, s.size);
    for (uint32_t i = 0; i < n; i++) add_arg(d, d->rank, d->y);
    put_sampled(d, "map_coordinates", &s);
    for (int64_t at = 0; at < results; at++) {
        struct reads reads[MOST_SPACE];
        for (uint32_t i = 0; i < n; i++) {
            double p = draw_position(d, s.size[i]);
            tensor_set(d->args[1 + i], at, p);
            reads[i] = reads_of(&s, p, s.size[i]);
        }
        sample_terms(d, &s, reads, at, 0);
    }
}

/* ---- stencils ---- */

/* y += factor · x moved by so many rows and columns; what comes in are zeros or, around the end, columns. */
struct move {
    int64_t rows, columns;
    bool around;
    double factor;
};

static void put_moved(struct drawn *d, uint32_t k, const struct move *m)
{
    const char *t = dtype_info[d->dtype].name;
    int64_t rows = d->y[0], n = d->y[1], up = HOP_MAX(-m->rows, 0), left = HOP_MAX(-m->columns, 0);
    int64_t shift = (m->columns % n + n) % n;
    if (m->around && shift) {
        text_add(&d->text, "  %%l%u = slice {start = [0, %lld], limit = [%lld, %lld]} (%%p0)\n", k,
                 (long long)(n - shift), (long long)rows, (long long)n);
        text_add(&d->text, "  %%r%u = slice {start = [0, 0], limit = [%lld, %lld]} (%%p0)\n", k,
                 (long long)rows, (long long)(n - shift));
        text_add(&d->text, "  %%m%u = concat {dim = 1} (%%l%u, %%r%u)\n", k, k, k);
    } else {
        text_add(&d->text, "  %%o%u = full {value = 0.0, dims = [], dtype = %s}\n", k, t);
        text_add(&d->text, "  %%w%u = pad {low = [%lld, %lld], high = [%lld, %lld], interior = [0, 0]} ", k,
                 (long long)HOP_MAX(m->rows, 0), (long long)HOP_MAX(m->columns, 0), (long long)up,
                 (long long)left);
        text_add(&d->text, "(%%p0, %%o%u)\n  %%m%u = slice {start = [%lld, %lld], limit = [%lld, %lld]} ", k,
                 k, (long long)up, (long long)left, (long long)(up + rows), (long long)(left + n));
        text_add(&d->text, "(%%w%u)\n", k);
    }
    text_add(&d->text, "  %%c%u = full {value = %g, dims = [%lld, %lld], dtype = %s}\n", k, m->factor,
             (long long)rows, (long long)n, t);
    text_add(&d->text, "  %%t%u = mul(%%m%u, %%c%u)\n", k, k, k);
    if (k) text_add(&d->text, "  %%s%u = add(%%%c%u, %%t%u)\n", k, k > 1 ? 's' : 't', k - 1, k);
}

/* A sum of moved arrays; some of it, or all but a few columns, is put into x. */
static void make_stencil(struct drawn *d)
{
    enum { MOST_MOVES = 4 };
    struct move moves[MOST_MOVES];
    uint32_t n_moves = (uint32_t)from_to(d, 2, MOST_MOVES);
    int64_t rows = from_to(d, 1, 3), n = from_to(d, 30, 420), first = 0, end = n;
    bool updates = one_in(d, 2);
    d->rank = 2;
    d->y[0] = rows;
    d->y[1] = n;
    if (updates) first = from_to(d, 0, 9);
    if (updates) end = n - (one_in(d, 4) ? from_to(d, 0, n - first) : from_to(d, 0, 9));
    add_arg(d, 2, d->y);
    text_str(&d->text, "hop 1\nfn @f(%p0: ");
    put_type(d, 2, d->y);
    text_str(&d->text, ") -> (");
    put_type(d, 2, d->y);
    text_str(&d->text, ") {\n");
    for (uint32_t k = 0; k < n_moves; k++) {
        int64_t most = one_in(d, 6) ? n : 5;
        moves[k] = (struct move){ 0, from_to(d, -most, most), one_in(d, 3), (double)from_to(d, 1, 8) / 4 };
        moves[k].around &= moves[k].columns % n != 0;
        moves[k].rows = moves[k].around ? 0 : from_to(d, -1, 1);
        put_moved(d, k, &moves[k]);
    }
    text_add(&d->text, "  %%z = slice {start = [0, %lld], limit = [%lld, %lld]} (%%s%u)\n", (long long)first,
             (long long)rows, (long long)end, n_moves - 1);
    text_add(&d->text, "  %%i = dim_value {dim = 0}\n  %%j = dim_value {dim = %lld}\n", (long long)first);
    text_str(&d->text, "  %y = dynamic_update(%p0, %z, %i, %j)\n  return %y\n}\n");
    for (int64_t at = 0; at < rows * n; at++) {
        int64_t row = at / n, column = at % n;
        bool kept = column < first || column >= end;
        if (kept) add_term(d, at, at, 0, 1);
        for (uint32_t k = 0; k < n_moves && !kept; k++) {
            int64_t from_row = row - moves[k].rows, from = column - moves[k].columns;
            if (moves[k].around) from = (from % n + n) % n;
            if (from >= 0 && from < n && from_row >= 0 && from_row < rows)
                add_term(d, at, from_row * n + from, 0, moves[k].factor);
        }
    }
}

/* ---- what is claimed ---- */

static const struct bound near_f32 = { BOUND_TENSOR, 5e-5 }, near_f64 = { BOUND_TENSOR, 1e-11 },
                          bits = { BOUND_BITS, 0 };

/* A function that is also emitted. */
struct item {
    struct drawn *drawn;
    struct module *m;
    uint32_t fn, number;
    struct tensor **args;
    struct outcome expected;
};
static vec(struct item) items;
static struct bag all;
static struct c_programs *emitted;

static const char *back_ends(struct bag *bag, struct module *m, uint32_t fn, struct tensor **args,
                             const struct outcome *expected)
{
    const struct backend *native = backend_at(0);
    const struct way ways[] = {
        { .name = "loop program", .backend = &executor_backend },
        { .name = "loop program, strict", .backend = &executor_backend, .passes = { .strict = true } },
        { .name = "native, strict", .backend = native, .passes = { .strict = true }, .threads = 3 },
        { .name = "native", .backend = native, .threads = 1 },
        { .name = "native, 3 threads", .backend = native, .threads = 3 },
        { .name = "native, 16 threads", .backend = native, .threads = 16 },
    };
    struct outcome first, found;
    bool any = false;
    for (uint32_t i = 0; i < HOP_COUNT(ways); i++) {
        bool strict = ways[i].passes.strict, again = any && ways[i].backend == native && !strict;
        if (ways[i].backend == native && !exe_available()) continue;
        run_on(bag, m, fn, &ways[i], args, NULL, &found);
        const char *wrong = outcome_difference(&bag->arena, &found, again ? &first : expected,
                                               strict || again ? bits : near_f32,
                                               strict || again ? bits : near_f64);
        if (wrong) return arena_printf(&bag->arena, "%s: %s", ways[i].name, wrong);
        if (ways[i].backend != native || strict || any) continue;
        first = found;
        any = true;
    }
    return NULL;
}

static const char *against_terms(struct drawn *d, const struct outcome *o, uint32_t result,
                                 const struct tensor *like, const double *numbers)
{
    struct tensor *want = bag_new(d->bag, d->dtype, like->rank, like->dims);
    for (int64_t i = 0; i < want->count; i++) tensor_set(want, i, numbers[i]);
    return tensor_difference(&d->bag->arena, o->results[result], want,
                             bound_of(d->dtype, near_f32, near_f64));
}

static const char *interpreted(struct drawn *d, struct item *item, const char *what)
{
    run_on(d->bag, item->m, item->fn, &interpreter, item->args, NULL, &item->expected);
    if (item->expected.status) return item->expected.message;
    const char *wrong = back_ends(d->bag, item->m, item->fn, item->args, &item->expected);
    if (wrong) return arena_printf(&d->bag->arena, "%s: %s", what, wrong);
    item->number = c_programs_add(emitted, item->m, item->fn, &(struct pass_options){ .strict = true });
    vec_push(&all.arena, &items, *item);
    return NULL;
}

static double w_at(const struct drawn *d, int64_t i) { return d->by_w ? tensor_get(d->args[1], i) : 1; }

static const char *values(struct drawn *d, struct module *m, uint32_t fn)
{
    struct arena *a = &d->bag->arena;
    struct item item = { .drawn = d, .m = m, .fn = fn, .args = d->args };
    const char *wrong = interpreted(d, &item, "values");
    if (wrong) return wrong;
    const struct tensor *y = item.expected.results[0];
    double *sums = ARENA_ZNEW(a, double, y->count + 1);
    for (uint32_t i = 0; i < d->terms.len; i++) {
        const struct term *t = &d->terms.data[i];
        sums[t->y] += t->factor * tensor_get(d->args[0], t->x) * w_at(d, t->w);
    }
    wrong = against_terms(d, &item.expected, 0, y, sums);
    return wrong ? arena_printf(a, "the definition: %s", wrong) : NULL;
}

static const char *cotangents(struct drawn *d, struct module *m, uint32_t fn)
{
    struct arena *a = &d->bag->arena;
    bool wrt[MOST_PARAMS] = { true, true, true, true };
    struct tensor **args = ARENA_NEW(a, struct tensor *, MOST_PARAMS + 1);
    struct tensor *ct = bag_new(d->bag, d->dtype, d->rank, d->y);
    tensor_random(ct, &d->random, -1, 1);
    memcpy(args, d->args, sizeof d->args);
    args[d->n_args] = ct;
    struct item item = { .drawn = d, .m = m, .fn = vjp_function(m, fn, wrt), .args = args };
    const char *wrong = interpreted(d, &item, "cotangents");
    if (wrong) return wrong;
    double *of_x = ARENA_ZNEW(a, double, d->args[0]->count + 1), *of_w = NULL;
    if (d->by_w) of_w = ARENA_ZNEW(a, double, d->args[1]->count + 1);
    for (uint32_t i = 0; i < d->terms.len; i++) {
        const struct term *t = &d->terms.data[i];
        double each = t->factor * tensor_get(ct, t->y);
        of_x[t->x] += each * w_at(d, t->w);
        if (of_w) of_w[t->w] += each * tensor_get(d->args[0], t->x);
    }
    wrong = against_terms(d, &item.expected, 1, d->args[0], of_x);
    if (wrong) return arena_printf(a, "the cotangent of x and the definition: %s", wrong);
    if (of_w) wrong = against_terms(d, &item.expected, 2, d->args[1], of_w);
    return wrong ? arena_printf(a, "the cotangent of w and the definition: %s", wrong) : NULL;
}

static const char *transforms(struct drawn *d, struct module *m, uint32_t fn)
{
    enum { LANES = 3 };
    bool wrt[MOST_PARAMS] = { true, true, true, true };
    struct claim c = { .bag = d->bag, .m = m, .fn = fn, .args = d->args, .seed = d->seed };
    struct tensor **lanes[LANES];
    const char *wrong = claim_gradient(&c, wrt);
    if (wrong) return arena_printf(&d->bag->arena, "derivatives: %s", wrong);
    for (uint32_t l = 0; l < LANES; l++) {
        lanes[l] = ARENA_NEW(&d->bag->arena, struct tensor *, MOST_PARAMS);
        for (uint32_t k = 0; k < d->n_args; k++) {
            lanes[l][k] = bag_new(d->bag, d->dtype, d->args[k]->rank, d->args[k]->dims);
            tensor_random(lanes[l][k], &d->random, -1, 1);
        }
    }
    wrong = claim_batch(&c, wrt, LANES, (struct tensor *const *const *)lanes);
    return wrong ? arena_printf(&d->bag->arena, "lanes: %s", wrong) : NULL;
}

static void fail(const struct drawn *d, const char *wrong)
{
    failed++;
    printf("seed %llu: %s\n%s", (unsigned long long)d->seed, wrong, d->text.data ? d->text.data : "");
}

static void draw(struct drawn *d)
{
    switch (d->seed % KINDS) {
    case 0: make_conv(d, false); break;
    case 1: make_conv(d, true); break;
    case 2: make_resize(d); break;
    case 3: make_grid_sample(d); break;
    case 4: make_map_coordinates(d); break;
    case 5: make_adaptive(d); break;
    case 6: make_avg_pool(d); break;
    default: make_stencil(d); break;
    }
}

static void hold(uint64_t seed)
{
    struct hop_catch caught;
    struct drawn *d = ARENA_ZNEW(&all.arena, struct drawn, 1);
    const char *volatile wrong = NULL;
    *d = (struct drawn){ .seed = seed, .random = { seed * 0x9e3779b97f4a7c15u + 1 }, .bag = &all };
    d->text.arena = &all.arena;
    d->dtype = seed / KINDS % 3 ? DT_F32 : DT_F64;
    if (HOP_TRY(caught)) {
        draw(d);
        struct module *m = text_read("t", d->text.data, strlen(d->text.data));
        uint32_t fn = module_find(m, "f"); /* the module is left to emitted C */
        wrong = values(d, m, fn);
        if (!wrong) wrong = cotangents(d, m, fn);
        if (!wrong && d->dtype == DT_F64) wrong = transforms(d, m, fn);
        hop_catch_end(&caught);
    } else wrong = hop_message();
    if (wrong) fail(d, wrong);
    else passed++;
}

static void in_c(void)
{
    struct hop_catch caught;
    if (HOP_TRY(caught)) {
        c_programs_build(emitted, false);
        for (uint32_t i = 0; i < items.len; i++) {
            struct item *item = &items.data[i];
            struct outcome found;
            c_programs_run(emitted, item->number, &all, item->m, item->fn, item->args, NULL, &found);
            const char *wrong = outcome_difference(&all.arena, &found, &item->expected, bits, bits);
            if (wrong) fail(item->drawn, arena_printf(&all.arena, "emitted C: %s", wrong));
            else passed++;
        }
        hop_catch_end(&caught);
    } else {
        failed++;
        printf("emitted C: %s\n", hop_message());
    }
}

int main(int argc, char **argv)
{
    const char *more = getenv("HOP_TEST_SEEDS");
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t count = more ? strtoull(more, NULL, 10) : argc > 1 ? 1 : SEEDS;
    if (argc > 2) count = strtoull(argv[2], NULL, 10);
    emitted = c_programs_new(NULL);
    for (uint64_t seed = first; seed < first + count; seed++) hold(seed);
    in_c();
    c_programs_free(emitted);
    for (uint32_t i = 0; i < items.len; i++)
        if (!i || items.data[i].m != items.data[i - 1].m) module_free(items.data[i].m);
    bag_free(&all);
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
