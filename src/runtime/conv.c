/* Convolutions as products of w and panels that are gathered from x block by block, so that nothing larger
 * than the panels of a block is ever made of x. Dilated inputs are cut into phases: results that meet the
 * same taps, each of which is a product without zeros between elements. The depth is summed in stretches, as
 * products do it, of which a result gets one after the other: where it is cut changes no result. */
#include "runtime/conv.h"
#include "base/base.h"
#include "runtime/conv_gather.h"

enum {
    BLOCK_PANELS = 4,        /* of lines in a block */
    BESIDE_SUMS = 128 << 10, /* bytes of sums that a block takes beside the result */
    BESIDE_PANELS = 2,       /* in a block of those */
    FEW_LINES = 4,           /* so many panels of lines are gathered once for all rows … */
    SHARED_ROOM = 256 << 10, /* … so much of their depth at a time */
    SHARED_ROWS = 8,         /* tiles of a block then */
    MANY_BLOCKS = 32,
    ROWS_ROOM = 32 << 20, /* for panels of rows */
    ALIGNED = 64,
    MOST_COLS = 32,
    MOST_ROWS = 12
};
/* Work that another thread is worth its waking, in multiplications. */
static const double WORTH_A_THREAD = 2.5e5;

struct conv_job {
    const struct product_kernel *kernel;
    struct conv_part part;
    bool beside;       /* results do not lie evenly, or are rounded */
    int64_t line_step; /* between results of one row, where they lie evenly: so many of them */
    int64_t unit;
    const char *rows; /* panels; NULL: rows are read where they lie */
    int64_t row_step; /* there, from one depth to the next */
    bool each_packs;  /* neither: each block has panels of its own */
    char *lines;      /* panels of all lines, for the depth at hand; NULL: each block gathers its own */
    int64_t from, to; /* the depth at hand */
    int64_t block_lines, block_rows, n_line_blocks, n_row_blocks;
    int64_t whole_rows, whole_lines;
};

/* ---- a block ---- */

static const char *row_panel(const struct conv_job *j, int64_t row, int64_t from, int64_t depth)
{
    return j->rows + (j->whole_rows * from + row * depth) * j->kernel->size;
}
static char *line_panel(const struct conv_job *j, int64_t line, int64_t from, int64_t depth)
{
    return j->lines + (j->whole_lines * (from - j->from) + line * depth) * j->kernel->size;
}

struct block {
    int64_t line, n_lines, row, row_end;
    char *c; /* where the sums of its first row and line go */
    int64_t c_row, c_col;
};

/* One stretch of a block, whose panels of lines are at `panels`. */
static void multiply_stretch(const struct conv_job *j, const struct block *b, int64_t from, int64_t depth,
                             const char *panels)
{
    _Alignas(ALIGNED) char own[MOST_ROWS * DEPTH * sizeof(double)];
    const struct product_kernel *k = j->kernel;
    bool packed = j->rows || j->each_packs;
    struct tile t = {
        .c_row = b->c_row, .c_col = b->c_col, .depth = depth, .add = from > 0, .b_whole = true
    };
    t.b_step = k->cols;
    t.a_row = packed ? 1 : j->part.w_out;
    t.a_step = packed ? k->rows : j->row_step;
    for (int64_t r = b->row; r < b->row_end; r += k->rows) {
        t.rows = (int)HOP_MIN(k->rows, b->row_end - r);
        t.a = j->part.w + (r * t.a_row + from * t.a_step) * k->size;
        if (j->rows) t.a = row_panel(j, r, from, depth);
        if (j->each_packs) {
            conv_gather_rows(k, &j->part, r, t.rows, from, depth, own);
            t.a = own;
        }
        for (int64_t l = 0; l < b->n_lines; l += k->cols) {
            t.cols = (int)HOP_MIN(k->cols, b->n_lines - l);
            t.b = panels + l * depth * k->size;
            t.c = b->c + ((r - b->row) * b->c_row + l * b->c_col) * k->sum_size;
            k->tile(&t);
        }
    }
}

static void multiply_depth(const struct conv_job *j, const struct block *b)
{
    _Alignas(ALIGNED) char room[BLOCK_PANELS * MOST_COLS * DEPTH * sizeof(float)];
    const struct product_kernel *k = j->kernel;
    for (int64_t from = j->from; from < j->to; from += DEPTH) {
        int64_t depth = HOP_MIN(DEPTH, j->to - from);
        char *panels = j->lines ? line_panel(j, b->line, from, depth) : room;
        struct conv_depths d;
        if (!j->lines) conv_find_depths(k, &j->part, from, depth, &d);
        for (int64_t l = 0; !j->lines && l < b->n_lines; l += k->cols)
            conv_gather(k, &j->part, b->line + l, HOP_MIN(k->cols, b->n_lines - l), &d,
                        panels + l * depth * k->size);
        multiply_stretch(j, b, from, depth, panels);
    }
}

/* Sums of a block to where its results lie. */
static void leave_sums(const struct conv_job *j, const struct block *b, const char *sums)
{
    const struct conv_part *p = &j->part;
    int64_t places[BLOCK_PANELS * MOST_COLS], size = dtype_info[p->y_dtype].size;
    _Alignas(ALIGNED) uint16_t rounded[BLOCK_PANELS * MOST_COLS];
    conv_places(p, b->line, b->n_lines, places);
    for (int64_t r = b->row; r < b->row_end; r++) {
        const char *from = sums + (r - b->row) * b->c_row * j->kernel->sum_size;
        char *to = p->y + r * p->y_out * size;
        if (size == 2) row_rounds(p->y_dtype)(rounded, from, b->n_lines);
        for (int64_t l = 0; l < b->n_lines; l++)
            if (size == 2) ((uint16_t *)to)[places[l]] = rounded[l];
            else if (size == 4) ((float *)to)[places[l]] = ((const float *)from)[l];
            else ((double *)to)[places[l]] = ((const double *)from)[l];
    }
}

static void multiply_beside(const struct conv_job *j, struct block *b)
{
    _Alignas(ALIGNED) char sums[BESIDE_SUMS];
    b->c = sums;
    b->c_row = j->block_lines;
    b->c_col = 1;
    multiply_depth(j, b);
    leave_sums(j, b, sums);
}

static int32_t blocks_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct conv_job *j = env;
    const struct conv_part *p = &j->part;
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++) {
        int64_t of_unit = conv_blocks_of(j->unit, j->block_lines), at = i / j->n_row_blocks;
        int64_t first = at % of_unit * j->block_lines;
        struct block b = { .line = at / of_unit * j->unit + first,
                           .row = i % j->n_row_blocks * j->block_rows };
        b.n_lines = HOP_MIN(j->block_lines, j->unit - first);
        b.row_end = HOP_MIN(b.row + j->block_rows, p->out);
        if (j->beside) {
            multiply_beside(j, &b);
            continue;
        }
        int64_t place;
        conv_places(p, b.line, 1, &place);
        b.c = p->y + (place + b.row * p->y_out) * j->kernel->size;
        b.c_row = p->y_out;
        b.c_col = j->line_step;
        multiply_depth(j, &b);
    }
    return 0;
}

/* ---- panels for all blocks ---- */

static int32_t rows_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct conv_job *j = env;
    const struct product_kernel *k = j->kernel;
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++)
        for (int64_t from = 0; from < j->part.depth; from += DEPTH) {
            int64_t depth = HOP_MIN(DEPTH, j->part.depth - from), row = i * k->rows;
            conv_gather_rows(k, &j->part, row, HOP_MIN(k->rows, j->part.out - row), from, depth,
                             (char *)(uintptr_t)row_panel(j, row, from, depth));
        }
    return 0;
}

static int32_t lines_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct conv_job *j = env;
    const struct product_kernel *k = j->kernel;
    int64_t panels = j->whole_lines / k->cols;
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++) {
        int64_t from = j->from + i / panels * DEPTH, line = i % panels * k->cols;
        int64_t depth = HOP_MIN(DEPTH, j->to - from);
        struct conv_depths d;
        conv_find_depths(k, &j->part, from, depth, &d);
        conv_gather(k, &j->part, line, HOP_MIN(k->cols, j->part.lines - line), &d,
                    line_panel(j, line, from, depth));
    }
    return 0;
}

/* ---- how it is cut ---- */

static double work_of(const struct conv_part *p)
{
    return (double)p->out * (double)p->lines * (double)p->depth;
}

/* Results are written where they lie if lines do so evenly, all of them or, where these are many, those of a
 * batch. */
static void choose_leaving(struct conv_job *j)
{
    const struct conv_part *p = &j->part;
    int64_t of_batch = p->lines / p->batch, count = 1;
    bool even = true;
    j->line_step = 1;
    for (uint32_t i = p->n; i-- > 0;) {
        const struct conv_space *s = &p->space[i];
        even &= s->results == 1 || s->y_step == count;
        count *= s->results;
    }
    bool whole = p->batch == 1 || p->y_batch == count;
    j->unit = whole ? p->lines : of_batch;
    j->beside = !even || p->y_dtype != j->kernel->dtype ||
                (!whole && of_batch < BLOCK_PANELS * j->kernel->cols);
    if (j->beside) j->unit = p->lines;
}

static void choose_blocks(struct conv_job *j)
{
    const struct product_kernel *k = j->kernel;
    const struct conv_part *p = &j->part;
    int64_t panels = BLOCK_PANELS, tiles = conv_blocks_of(p->out, k->rows);
    double work = work_of(p);
    if (j->beside) panels = BESIDE_PANELS;
    if (j->lines) tiles = HOP_MIN(tiles, SHARED_ROWS);
    bool by_rows = j->each_packs && p->lines <= panels * k->cols; /* each is packed for one block */
    for (;; by_rows ? (tiles = (tiles + 1) / 2) : (panels = (panels + 1) / 2)) {
        j->block_lines = panels * k->cols;
        j->n_line_blocks = p->lines / j->unit * conv_blocks_of(j->unit, j->block_lines);
        j->block_rows = tiles * k->rows;
        int64_t room = BESIDE_SUMS / (j->block_lines * k->sum_size) / k->rows * k->rows;
        if (j->beside) j->block_rows = HOP_MIN(j->block_rows, room);
        j->n_row_blocks = conv_blocks_of(p->out, j->block_rows);
        double n = (double)j->n_line_blocks * (double)j->n_row_blocks;
        if ((by_rows ? tiles : panels) == 1 || n >= MANY_BLOCKS || work / n < WORTH_A_THREAD) return;
    }
}

int32_t conv_each(struct hop_rt *rt, int32_t (*some)(struct hop_rt *, void *, int64_t, int64_t), void *env,
                  int64_t n, double work)
{
    if (work < 2 * WORTH_A_THREAD || n < 2) return some(rt, env, 0, n);
    return rt->parallel(rt, some, env, n, (int64_t)(WORTH_A_THREAD * (double)n / 2 / work) + 1);
}

/* Memory for panels of all rows, and of all lines where they are few, as far as there is any. Those of lines
 * are made stretch by stretch, all blocks of each after them: sums that do not lie in the result have to be
 * there at the end of one. */
static int32_t make_panels(struct hop_rt *rt, struct conv_job *j)
{
    const struct product_kernel *k = j->kernel;
    const struct conv_part *p = &j->part;
    int64_t of_rows = j->whole_rows * p->depth * k->size, of_depth = j->whole_lines * k->size;
    int64_t together = HOP_MIN(SHARED_ROOM / of_depth / DEPTH * DEPTH, p->depth);
    bool even = conv_rows_even(p, &j->row_step) && p->w_dtype == k->dtype;
    bool few = p->lines <= FEW_LINES * k->cols, read_in_place = even && few;
    bool share = few && j->unit == p->lines && p->out > 2 * SHARED_ROWS * k->rows && together > 0;
    if (j->beside && together < p->depth) share = false;
    bool once = few && !j->beside; /* all lines are one block: rows are packed where they are multiplied */
    bool pack = !read_in_place && !once && of_rows <= ROWS_ROOM;
    int64_t size = (pack ? rounded_up(of_rows, ALIGNED) : 0) + (share ? together * of_depth : 0);
    char *room = size ? panels_room((size_t)size) : NULL;
    int32_t status = 0;
    if (room && pack) {
        j->rows = room;
        room += rounded_up(of_rows, ALIGNED);
        status = conv_each(rt, rows_some, j, j->whole_rows / k->rows, (double)of_rows / 4);
    }
    if (room && share) j->lines = room;
    j->to = j->lines ? together : p->depth;
    j->each_packs = !j->rows && !even;
    return status;
}

/* The depth at hand, and what follows it. */
static int32_t multiply_job(struct hop_rt *rt, struct conv_job *j)
{
    const struct conv_part *p = &j->part;
    int64_t together = j->to, panels = j->whole_lines / j->kernel->cols;
    int32_t status = 0;
    for (; j->from < p->depth && !status; j->from = j->to) {
        j->to = HOP_MIN(j->from + together, p->depth);
        int64_t depth = j->to - j->from;
        if (j->lines)
            status = conv_each(rt, lines_some, j, panels * conv_blocks_of(depth, DEPTH),
                               (double)(j->whole_lines * depth * j->kernel->size));
        if (!status)
            status = conv_each(rt, blocks_some, j, j->n_line_blocks * j->n_row_blocks,
                               (double)p->out * (double)p->lines * (double)depth);
    }
    return status;
}

static void clear(const struct conv_part *p)
{
    int64_t size = dtype_info[p->y_dtype].size, place;
    for (int64_t line = 0; line < p->lines; line++) {
        conv_places(p, line, 1, &place);
        for (int64_t r = 0; r < p->out; r++) memset(p->y + (place + r * p->y_out) * size, 0, (size_t)size);
    }
}

/* What lies beside each other in x: results along the last dim, its taps, or channels. */
static void choose_order(struct conv_part *p)
{
    const struct conv_space *s = &p->space[p->n - 1];
    bool lines = p->n && s->results > 1 && s->x_step == 1 && s->stride <= 2;
    bool taps = p->n && s->taps > 1 && s->tap_stride * s->x_step == 1;
    bool channels = p->channels > 1 && p->x_channel == 1;
    bool short_lines = lines && taps && s->results < s->taps;
    p->by_depth = !p->n || s->taps > 64 || short_lines || (!lines && (taps || channels));
    p->channels_inside = p->by_depth && channels && !taps;
}

static int32_t multiply_part(struct hop_rt *rt, const struct conv_part *given)
{
    struct conv_job j = { .part = *given };
    struct conv_part *p = &j.part;
    p->lines = p->batch;
    p->depth = p->channels;
    for (uint32_t i = 0; i < p->n; i++) {
        p->lines *= p->space[i].results;
        p->depth *= p->space[i].taps;
    }
    if (!p->lines || !p->out) return 0;
    if (!p->depth) return clear(p), 0;
    int32_t done;
    if (conv_long_sums(rt, p, &done)) return done;
    j.kernel = product_kernel(p->y_dtype, DT_F32, DT_F32); /* what is narrower is widened as it is gathered */
    choose_order(p);
    choose_leaving(&j);
    j.whole_rows = rounded_up(p->out, j.kernel->rows);
    j.whole_lines = rounded_up(p->lines, j.kernel->cols);
    int32_t status = make_panels(rt, &j);
    choose_blocks(&j);
    return status ? status : multiply_job(rt, &j);
}

/* ---- phases ---- */

static int64_t common_factor(int64_t a, int64_t b) { return b ? common_factor(b, a % b) : a; }
static int64_t floor_mod(int64_t a, int64_t b) { return (a % b + b) % b; }

/* Along a dim whose inputs are `e` apart, results r, r + period, … meet every so many-th tap. */
static int64_t period_of(const struct hop_rt_space *s)
{
    return s->x_dilation / common_factor(s->x_dilation, s->stride);
}

/* What phase r of a dim is; y moves to its first result, w to its first tap. */
static struct conv_space phase_of(const struct hop_rt_space *s, int64_t r, struct conv_part *p)
{
    int64_t period = period_of(s), e = s->x_dilation, every = e / common_factor(e, s->w_dilation);
    int64_t start = r * s->stride - s->low, tap = 0;
    while (tap < every && floor_mod(start + tap * s->w_dilation, e)) tap++;
    struct conv_space to = { .x_size = s->x_size,
                             .results = s->results > r ? (s->results - r - 1) / period + 1 : 0,
                             .taps = tap < every && s->taps > tap ? (s->taps - tap - 1) / every + 1 : 0,
                             .stride = period * s->stride / e,
                             .tap_stride = every * s->w_dilation / e,
                             .x_step = s->x_step,
                             .w_step = s->w_step * every,
                             .y_step = s->y_step * period };
    if (to.taps) to.first = (start + tap * s->w_dilation) / e;
    p->y += r * s->y_step * dtype_info[p->y_dtype].size;
    p->w += tap * s->w_step * dtype_info[p->w_dtype].size;
    return to;
}

/* Phases that are no products, as groups have few channels out; they are made together. */
struct planes_kept {
    struct conv_part of[CONV_PHASES];
    uint32_t n;
};
static int32_t make_planes(struct hop_rt *rt, struct planes_kept *kept)
{
    uint32_t n = kept->n;
    kept->n = 0;
    return n ? conv_planes(rt, kept->of, n) : 0;
}

static int32_t multiply_groups(struct hop_rt *rt, const struct conv_part *p, struct planes_kept *kept)
{
    int32_t status = 0;
    if (conv_has_planes(p)) {
        if (kept->n == CONV_PHASES) status = make_planes(rt, kept);
        kept->of[kept->n++] = *p;
        return status;
    }
    for (int64_t g = 0; g < p->groups && !status; g++) {
        struct conv_part one = *p;
        one.x += g * p->x_group * dtype_info[p->x_dtype].size;
        one.w += g * p->w_group * dtype_info[p->w_dtype].size;
        one.y += g * p->y_group * dtype_info[p->y_dtype].size;
        status = multiply_part(rt, &one);
    }
    return status;
}

static int32_t multiply_phases(struct hop_rt *rt, const struct hop_rt_conv *c, struct conv_part part,
                               uint32_t i, struct planes_kept *kept)
{
    if (i == part.n) return multiply_groups(rt, &part, kept);
    const struct hop_rt_space *s = &c->numbers->space[i];
    int32_t status = 0;
    for (int64_t r = 0; r < period_of(s) && !status; r++) {
        struct conv_part one = part;
        one.space[i] = phase_of(s, r, &one);
        status = multiply_phases(rt, c, one, i + 1, kept);
    }
    return status;
}

void conv_multiply(struct hop_rt *rt, const struct hop_rt_conv *c)
{
    const struct hop_rt_conv_numbers *v = c->numbers;
    struct conv_part part = { .y_dtype = (enum dtype)(c->dtypes & 0xff),
                              .x_dtype = (enum dtype)(c->dtypes >> 8 & 0xff),
                              .w_dtype = (enum dtype)(c->dtypes >> 16 & 0xff),
                              .x = c->x,
                              .w = c->w,
                              .y = c->y,
                              .batch = v->batch,
                              .groups = v->groups,
                              .out = v->out,
                              .channels = v->channels,
                              .x_batch = v->x_batch,
                              .x_group = v->x_group,
                              .x_channel = v->x_channel,
                              .w_group = v->w_group,
                              .w_out = v->w_out,
                              .w_channel = v->w_channel,
                              .y_batch = v->y_batch,
                              .y_group = v->y_group,
                              .y_out = v->y_out,
                              .n = (uint32_t)c->n_spatial };
    for (uint32_t i = 0; i < part.n; i++) {
        const struct hop_rt_space *s = &v->space[i];
        if (s->w_step < 0) part.w -= (s->taps - 1) * s->w_step * dtype_info[part.w_dtype].size;
    }
    struct planes_kept kept;
    kept.n = 0;
    if (!multiply_phases(rt, c, part, 0, &kept)) make_planes(rt, &kept);
}
