/* Convolutions whose sums are long and whose results are few, as the derivative by w is: x is read where it
 * lies, a run of taps along the last dim after the other, for several of its batches (the channels of what it
 * is the derivative of) at once, or for several results along the last dim, from a copy of the run with zeros
 * at its edges. What is packed into panels is w alone, once. All sums of a piece of work stay together for
 * all of the depth. */
#include "base/base.h"
#include "runtime/conv_gather.h"
#include "runtime/pool.h"

enum {
    RUN = 20,             /* so many taps along the last dim are worth it … */
    BATCHES = 6,          /* … with so many batches … */
    RESULTS = 4,          /* … or results along the last dim … */
    OUTS = 12,            /* … and channels out */
    SUMS_ROOM = 96 << 10, /* bytes of sums of a piece */
    RUN_ROOM = 4 << 10,   /* elements of a copied run */
    PANELS_ROOM = 32 << 20,
    PANEL_KEPT = 512 << 10, /* bytes of w for a block of channels out that several results do without */
    FEW_RESULTS = 4,
    MANY_PIECES = 32,
    ALIGNED = 64
};

struct sums {
    const struct conv_part *part;
    const struct product_kernel *kernel;
    bool along;          /* rows of a tile are results along the last dim, not batches */
    int64_t rows, lines; /* of a tile, as many as the kernel has; blocks of them in what follows */
    int64_t row_blocks, line_blocks;
    int64_t outer, runs; /* results, and taps of a channel, of all dims but the last */
    int64_t pieces;      /* of the outer results, of which a piece has all or one */
    char *panels;
};

/* ---- panels of w ---- */

/* The panel of a block of channels out, for one run. */
static char *panel_of(const struct sums *s, int64_t block, int64_t channel, int64_t run)
{
    int64_t taps = s->part->space[s->part->n - 1].taps;
    int64_t before = (block * s->part->channels + channel) * s->runs + run;
    return s->panels + before * taps * s->lines * s->kernel->size;
}

static int32_t panels_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct sums *s = env;
    const struct conv_part *p = s->part;
    const struct conv_space *last = &p->space[p->n - 1];
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++) {
        int64_t run = i % s->runs, channel = i / s->runs % p->channels, block = i / s->runs / p->channels;
        int64_t line = block * s->lines, at = line * p->w_out + channel * p->w_channel;
        for (int64_t d = p->n - 1, left = run; d-- > 0; left /= p->space[d].taps)
            at += left % p->space[d].taps * p->space[d].w_step;
        s->kernel->pack(panel_of(s, block, channel, run), p->w + at * s->kernel->size,
                        HOP_MIN(s->lines, p->out - line), p->w_out, last->taps, 1, s->lines, false);
    }
    return 0;
}

/* ---- a piece ---- */

struct piece {
    int64_t row, line, first, end; /* results of the outer dims from first on */
    int rows, cols;
    char *sums; /* of each such result and each along the last dim: rows by lines */
};

/* Where the run that an outer result meets lies in x, from the first batch's first element on; false: it
 * meets none. */
static bool find_run(const struct conv_part *p, int64_t result, int64_t run, int64_t *at)
{
    for (int64_t d = p->n - 1; d-- > 0;) {
        const struct conv_space *s = &p->space[d];
        int64_t element = result % s->results * s->stride + run % s->taps * s->tap_stride + s->first;
        if (element < 0 || element >= s->x_size) return false;
        *at += element * s->x_step;
        result /= s->results;
        run /= s->taps;
    }
    return true;
}

static struct tile tile_of(const struct sums *s, const struct piece *b, int64_t a_row, int64_t a_step)
{
    return (struct tile){ .a_row = a_row,
                          .a_step = a_step,
                          .b_step = s->lines,
                          .c_row = s->lines,
                          .c_col = 1,
                          .rows = b->rows,
                          .cols = b->cols,
                          .add = true,
                          .b_whole = true };
}

static void add_tile(const struct sums *s, const struct piece *b, struct tile *t, const char *panel,
                     int64_t from, int64_t to, int64_t at)
{
    if (from >= to) return;
    t->b = panel + from * s->lines * s->kernel->size;
    t->c = b->sums + at * s->rows * s->lines * s->kernel->size;
    t->depth = to - from;
    s->kernel->tile(t);
}

/* Results along the last dim as rows: each is a step further on in the copied run. */
static void add_along(const struct sums *s, const struct piece *b, const char *x, const char *panel,
                      int64_t at, char *copy)
{
    const struct conv_space *last = &s->part->space[s->part->n - 1];
    int64_t length = (last->results - 1) * last->stride + (last->taps - 1) * last->tap_stride + 1, lo, hi;
    int size = s->kernel->size;
    conv_within(last->first, 1, last->x_size, length, &lo, &hi);
    memset(copy, 0, (size_t)(lo * size));
    memcpy(copy + lo * size, x + (last->first + lo) * size, (size_t)((hi - lo) * size));
    memset(copy + hi * size, 0, (size_t)((length - hi) * size));
    struct tile t = tile_of(s, b, last->stride, last->tap_stride);
    t.a = copy + b->row * last->stride * size;
    add_tile(s, b, &t, panel, 0, last->taps, at);
}

/* Batches as rows, for one result along the last dim after the other. */
static void add_batches(const struct sums *s, const struct piece *b, const char *x, const char *panel,
                        int64_t at)
{
    const struct conv_part *p = s->part;
    const struct conv_space *last = &p->space[p->n - 1];
    int size = s->kernel->size;
    struct tile t = tile_of(s, b, p->x_batch, last->tap_stride * last->x_step);
    for (int64_t r = 0; r < last->results; r++) {
        int64_t first = r * last->stride + last->first, lo, hi;
        conv_within(first, last->tap_stride, last->x_size, last->taps, &lo, &hi);
        t.a = x + (b->row * p->x_batch + (first + lo * last->tap_stride) * last->x_step) * size;
        add_tile(s, b, &t, panel, lo, hi, at * last->results + r);
    }
}

/* The sums of a piece to where its results lie. */
static void leave(const struct sums *s, const struct piece *b, int64_t batch)
{
    const struct conv_part *p = s->part;
    const struct conv_space *last = &p->space[p->n - 1];
    int64_t along = s->along ? 1 : last->results, size = s->kernel->size;
    for (int64_t result = b->first; result < b->end; result++) {
        int64_t place = batch * p->y_batch + b->line * p->y_out;
        for (int64_t d = p->n - 1, left = result; d-- > 0; left /= p->space[d].results)
            place += left % p->space[d].results * p->space[d].y_step;
        for (int64_t i = 0; i < along * b->rows; i++) {
            int64_t r = i / b->rows, row = i % b->rows, beside = s->along ? b->row + row : r;
            int64_t to = place + beside * last->y_step + (s->along ? 0 : (b->row + row) * p->y_batch);
            int64_t from = (((result - b->first) * along + r) * s->rows + row) * s->lines;
            for (int j = 0; j < b->cols; j++)
                memcpy(p->y + (to + j * p->y_out) * size, b->sums + (from + j) * size, (size_t)size);
        }
    }
}

static int32_t pieces_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    _Alignas(ALIGNED) char sums[SUMS_ROOM], copy[RUN_ROOM * sizeof(double)];
    const struct sums *s = env;
    const struct conv_part *p = s->part;
    int64_t batches = s->along ? p->batch : 1, each = s->outer / s->pieces;
    int64_t along = s->along ? 1 : p->space[p->n - 1].results;
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++) {
        int64_t part = i % s->pieces, block = i / s->pieces % s->line_blocks;
        int64_t rest = i / s->pieces / s->line_blocks, batch = rest % batches;
        struct piece b = { .row = rest / batches * s->rows, .line = block * s->lines, .sums = sums };
        b.first = part * each;
        b.end = b.first + each;
        int64_t n_rows = s->along ? p->space[p->n - 1].results : p->batch;
        b.rows = (int)HOP_MIN(s->rows, n_rows - b.row);
        b.cols = (int)HOP_MIN(s->lines, p->out - b.line);
        memset(sums, 0, (size_t)(each * along * s->rows * s->lines * s->kernel->size));
        for (int64_t c = 0; c < p->channels; c++)
            for (int64_t run = 0; run < s->runs; run++) {
                const char *panel = panel_of(s, block, c, run);
                for (int64_t result = b.first; result < b.end; result++) {
                    int64_t at = batch * p->x_batch + c * p->x_channel;
                    if (!find_run(p, result, run, &at)) continue;
                    const char *x = p->x + at * s->kernel->size;
                    if (s->along) add_along(s, &b, x, panel, result - b.first, copy);
                    else add_batches(s, &b, x, panel, result - b.first);
                }
            }
        leave(s, &b, batch);
    }
    return 0;
}

/* ---- all of them ---- */

/* How it is cut; false: it is none of these. */
static bool plan(const struct conv_part *p, struct sums *s, int64_t *panels_size)
{
    const struct conv_space *last = &p->space[p->n - 1];
    if (!p->n || p->x_dtype != p->y_dtype || p->w_dtype != p->y_dtype) return false;
    if (p->y_dtype != DT_F32 && p->y_dtype != DT_F64) return false;
    if (last->taps < RUN || last->taps <= last->results || last->w_step != 1 || p->out < OUTS) return false;
    *s = (struct sums){ .part = p, .kernel = product_kernel(p->y_dtype, p->x_dtype, p->w_dtype) };
    s->along = p->batch < BATCHES;
    int64_t length = (last->results - 1) * last->stride + (last->taps - 1) * last->tap_stride + 1;
    if (s->along && (last->results < RESULTS || last->x_step != 1 || length > RUN_ROOM)) return false;
    s->rows = s->kernel->rows;
    s->lines = s->kernel->cols;
    s->row_blocks = s->along ? conv_blocks_of(last->results, s->rows) * p->batch
                             : conv_blocks_of(p->batch, s->rows);
    s->line_blocks = conv_blocks_of(p->out, s->lines);
    s->outer = s->runs = s->pieces = 1;
    for (uint32_t i = 0; i + 1 < p->n; i++) {
        s->outer *= p->space[i].results;
        s->runs *= p->space[i].taps;
    }
    int64_t of_result = (s->along ? 1 : last->results) * s->rows * s->lines * s->kernel->size;
    if (s->row_blocks * s->line_blocks < MANY_PIECES || s->outer * of_result > SUMS_ROOM)
        s->pieces = s->outer;
    *panels_size = s->line_blocks * s->lines * p->channels * s->runs * last->taps * s->kernel->size;
    bool kept = s->outer * last->results >= FEW_RESULTS || *panels_size <= s->line_blocks * PANEL_KEPT;
    return kept && s->outer > 0 && of_result <= SUMS_ROOM && *panels_size > 0 && *panels_size <= PANELS_ROOM;
}

bool conv_long_sums(struct hop_rt *rt, const struct conv_part *p, int32_t *status)
{
    struct sums s;
    int64_t size;
    if (!plan(p, &s, &size)) return false;
    s.panels = panels_room((size_t)size);
    if (!s.panels) return false;
    const struct conv_space *last = &p->space[p->n - 1];
    double work = (double)p->out * (double)p->batch * (double)s.outer * (double)last->results *
                  (double)p->channels * (double)s.runs * (double)last->taps;
    *status = conv_each(rt, panels_some, &s, s.line_blocks * p->channels * s.runs, (double)size);
    if (!*status) *status = conv_each(rt, pieces_some, &s, s.row_blocks * s.line_blocks * s.pieces, work);
    return true;
}
