/* Products made of tiles (product_kernels.h). An operand whose elements would be read many times, do not lie
 * beside each other where they must, or are of another dtype than is multiplied, is put into panels; blocks
 * of C are computed each on one thread, which first makes the panels that it needs and nobody has made. The
 * sum goes over the depth in stretches of DEPTH, of which an element of C gets one after the other: neither
 * cutting nor packing changes a result. */
#include "runtime/product.h"
#include "base/base.h"
#include "loop/rt.h"
#include "runtime/pool.h"
#include "runtime/product_lines.h"
#include "runtime/product_panels.h"

enum {
    BLOCK_TILES = 8,       /* rows of tiles in a block of C */
    BLOCK_PANELS = 4,      /* and columns; more of a short depth: */
    SHORT_LINE = 64,       /* bytes of the depth … */
    SHORT_SPAN = 16 << 10, /* … and of all columns of a block */
    MANY_BLOCKS = 96,
    MANY_MATRICES = 32,  /* of a batch: each is for one thread */
    SHORT_SIDE = 48,     /* so many rows read columns where they lie */
    STREAMED_ROWS = 192, /* and for so many a side of more bytes is put into panels bit by bit */
    STREAMED_SIDE = 4 << 20,
    FEW_PANELS = 2,       /* so many panels of columns read rows where they lie */
    SMALL_SIDE = 1 << 20, /* and a side of so many bytes is, if its lines are in different pages' parts … */
    ALIASED_SIDE = 32 << 10, /* … and else one of so many */
    PAGE = 4 << 10,
    ROOM = 32 << 20,    /* bytes of panels that all threads share */
    OWN_ROOM = 4 << 20, /* that a thread has for itself */
    ALIGNED = 64
};
/* Work that another thread is worth its waking, in multiplications. */
static const double WORTH_A_THREAD = 2.5e5;

/* What becomes of a block's sums: they are in the dtype of C; they are brought to it when they are complete;
 * whole numbers are added to it, stretch by stretch. */
enum leaving { LEAVE_IN_PLACE, LEAVE_ROUNDED, LEAVE_ADDED };

struct job {
    const struct product_kernel *kernel;
    struct side rows, cols;
    char *c;
    enum dtype c_dtype;
    enum leaving leaving;
    int64_t c_row, c_col, c_apart; /* c_apart: in bytes */
    int64_t depth;                 /* of this part of the sum */
    int64_t batch;
    bool add;   /* to what C has */
    bool alone; /* on the thread that calls */
    int64_t block_rows, block_cols, n_block_cols, n_blocks;
};

/* ---- blocks of C ---- */

/* Part of a block: one stretch of it. */
struct span {
    int64_t row, row_end, col, col_end, from, depth;
};
/* Where its sums go: the element of its first row and column. */
struct target {
    char *at;
    int64_t row, col;
    bool add;
};

static const char *line_at(const struct job *j, const struct side *s, int64_t line, int64_t first,
                           const struct span *b)
{
    if (!s->panels) return s->data + (line * s->along + b->from * s->step) * j->kernel->size;
    if (s->own) return panel_at(j->kernel, s, line - first, 0, b->depth);
    return panel_at(j->kernel, s, line, b->from, b->depth);
}

static void multiply_tile(const struct job *j, const struct span *b, const struct target *to, struct tile *w,
                          int64_t r, int64_t c)
{
    const struct product_kernel *k = j->kernel;
    w->rows = (int)HOP_MIN(k->rows, b->row_end - r);
    w->cols = (int)HOP_MIN(k->cols, b->col_end - c);
    w->a = line_at(j, &j->rows, r, b->row, b);
    w->b = line_at(j, &j->cols, c, b->col, b);
    w->c = to->at + ((r - b->row) * to->row + (c - b->col) * to->col) * k->sum_size;
    k->tile(w);
}

/* Tiles one below the other, whose columns stay in the first cache; where all columns do, since they are
 * short, beside each other: C is then written in long runs. */
static void multiply_span(const struct job *j, const struct span *b, const struct target *to)
{
    const struct product_kernel *k = j->kernel;
    struct tile w = { .c_row = to->row, .c_col = to->col, .add = to->add, .depth = b->depth };
    w.row_factor = j->cols.dtype == DT_I8 ? 0 : 128;
    w.col_factor = j->rows.dtype == DT_I8 ? 128 : 0;
    w.a_row = j->rows.panels ? 1 : j->rows.along;
    w.a_step = j->rows.panels ? j->rows.width : j->rows.step;
    w.b_step = j->cols.panels ? j->cols.width : j->cols.step;
    w.b_whole = j->cols.panels != NULL;
    int64_t line = b->depth * k->size;
    if (line < SHORT_LINE && line * (b->col_end - b->col) <= SHORT_SPAN) {
        for (int64_t r = b->row; r < b->row_end; r += k->rows)
            for (int64_t c = b->col; c < b->col_end; c += k->cols) multiply_tile(j, b, to, &w, r, c);
        return;
    }
    for (int64_t c = b->col; c < b->col_end; c += k->cols)
        for (int64_t r = b->row; r < b->row_end; r += k->rows) multiply_tile(j, b, to, &w, r, c);
}

static void make_panels(const struct job *j, const struct side *s, int64_t line, int64_t end,
                        const struct span *b)
{
    if (!s->own) {
        panels_ready(j->kernel, s, line, end, b->from, b->depth);
        return;
    }
    for (int64_t i = line; i < end; i += s->width)
        panel_make(j->kernel, s, i, b->from, b->depth, panel_at(j->kernel, s, i - line, 0, b->depth));
}

static void next_span(const struct job *j, struct span *b, int64_t from)
{
    b->from = from;
    b->depth = HOP_MIN(DEPTH, j->depth - from);
    if (!b->depth) return;
    make_panels(j, &j->cols, b->col, b->col_end, b);
    make_panels(j, &j->rows, b->row, b->row_end, b);
}

/* Sums of another dtype than C's are taken beside it. */
static void multiply_beside(const struct job *j, struct span *b)
{
    enum { ROWS = BLOCK_TILES * 12, COLS = BLOCK_PANELS * 32 };
    _Alignas(ALIGNED) char sums[ROWS * COLS * sizeof(float)];
    int64_t n = b->col_end - b->col, m = b->row_end - b->row, size = dtype_info[j->c_dtype].size;
    int64_t row = COLS * (int64_t)sizeof(float);
    char *c = j->c + (b->row * j->c_row + b->col) * size;
    bool added = j->leaving == LEAVE_ADDED;
    row_function leave = added ? row_adds(j->c_dtype, j->kernel->dtype == DT_I8) : row_rounds(j->c_dtype);
    for (int64_t i = 0; i < m; i++)
        if (added && !j->add) memset(c + i * j->c_row * size, 0, (size_t)(n * size));
        else if (!added && j->add) row_widens(j->c_dtype)(sums + i * row, c + i * j->c_row * size, n);
    for (int64_t from = 0; from < HOP_MAX(j->depth, 1); from += DEPTH) {
        struct target to = { sums, COLS, 1, !added && (j->add || from) };
        next_span(j, b, from);
        multiply_span(j, b, &to);
        bool leaves = added || from + DEPTH >= j->depth;
        for (int64_t i = 0; leaves && i < m; i++) leave(c + i * j->c_row * size, sums + i * row, n);
    }
}

static void multiply_block(const struct job *j, int64_t row, int64_t col)
{
    struct span b = { .row = row, .col = col };
    b.row_end = HOP_MIN(row + j->block_rows, j->rows.n);
    b.col_end = HOP_MIN(col + j->block_cols, j->cols.n);
    if (j->leaving != LEAVE_IN_PLACE) {
        multiply_beside(j, &b);
        return;
    }
    struct target to = { j->c + (row * j->c_row + col * j->c_col) * j->kernel->sum_size, j->c_row, j->c_col,
                         0 };
    for (int64_t from = 0; from < HOP_MAX(j->depth, 1); from += DEPTH) {
        to.add = j->add || from;
        next_span(j, &b, from);
        multiply_span(j, &b, &to);
    }
}

/* The side of one of a batch's matrices. */
static void side_of_matrix(const struct job *j, struct side *s, int64_t matrix)
{
    s->data += matrix * s->apart;
    if (!s->panels || s->own) return;
    s->panels += matrix * (s->made ? rounded_up(panels_bytes(j->kernel, s, j->depth), ALIGNED) : s->apart);
    if (s->made) s->made += matrix * panels_count(s, j->depth);
}

static struct job job_of_matrix(const struct job *all, int64_t matrix)
{
    struct job j = *all;
    if (!matrix) return j;
    side_of_matrix(all, &j.rows, matrix);
    side_of_matrix(all, &j.cols, matrix);
    j.c += matrix * j.c_apart;
    return j;
}

static int32_t blocks_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct job *all = env;
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi;) {
        int64_t matrix = i / all->n_blocks, first = matrix * all->n_blocks;
        int64_t end = HOP_MIN(hi, first + all->n_blocks);
        struct job j = job_of_matrix(all, matrix);
        for (; i < end; i++)
            multiply_block(&j, (i - first) / j.n_block_cols * j.block_rows,
                           (i - first) % j.n_block_cols * j.block_cols);
    }
    return 0;
}

/* Blocks whose panels are made for each of them: where there is no memory for those of a whole side. */
enum { OWN_TILES = 2, OWN_PANELS = 2 };
static int32_t own_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    enum { LINES = OWN_TILES * 12 + OWN_PANELS * 16 }; /* of f64; panels of f32 have twice the columns */
    _Alignas(ALIGNED) char room[LINES * DEPTH * sizeof(double)];
    struct job j = *(const struct job *)env;
    const struct product_kernel *k = j.kernel;
    int64_t of_rows = j.rows.own ? j.block_rows * (DEPTH + k->beside) * k->size : 0;
    if (j.rows.own) j.rows.panels = room;
    if (j.cols.own) j.cols.panels = room + of_rows;
    return blocks_some(rt, &j, lo, hi);
}

/* ---- how it is cut ---- */

static double work_of(const struct job *j)
{
    return (double)j->rows.n * (double)j->cols.n * (double)HOP_MAX(j->depth, 1);
}

/* Lines that are a multiple of a page apart push each other out of the first cache. */
static bool is_large(int64_t bytes, int64_t apart)
{
    return bytes > (apart % PAGE ? SMALL_SIDE : ALIASED_SIDE);
}

/* Panels are worth it for what is read often, and is not in the cache anyway. */
static bool packs_rows(const struct job *j)
{
    int64_t bytes = j->rows.n * j->depth * j->kernel->size;
    if (j->rows.dtype != j->kernel->dtype || j->kernel->group > 1) return true;
    return is_large(bytes, j->rows.along * j->kernel->size) && j->cols.n > FEW_PANELS * j->kernel->cols;
}
static bool packs_cols(const struct job *j)
{
    int64_t bytes = j->cols.n * j->depth * j->kernel->size;
    if (j->cols.panels) return false; /* they are there */
    if (j->cols.dtype != j->kernel->dtype || j->kernel->group > 1) return true;
    return j->cols.along != 1 ||
           (is_large(bytes / 2, j->cols.step * j->kernel->size) && j->rows.n > SHORT_SIDE);
}

/* A large matrix for fewer rows than pay for panels of all of it: each block of columns has panels of its
 * own, which stay in the cache. */
static bool streams_cols(const struct job *j)
{
    const struct product_kernel *k = j->kernel;
    double bytes = (double)j->cols.n * (double)j->depth * k->size;
    int64_t most = j->leaving == LEAVE_IN_PLACE ? STREAMED_ROWS : BLOCK_TILES * k->rows; /* sums beside C */
    return !j->cols.panels && j->rows.n <= most && bytes > STREAMED_SIDE;
}

/* How large blocks of C are: such that there are enough for many threads, if each is worth one. */
static void choose_blocks(struct job *j)
{
    const struct product_kernel *k = j->kernel;
    int64_t tiles = BLOCK_TILES, panels = BLOCK_PANELS;
    double work = work_of(j) * (double)j->batch;
    int64_t line = j->depth * k->size;
    bool is_short = line < SHORT_LINE && j->leaving == LEAVE_IN_PLACE && j->c_col == 1;
    while (is_short && 2 * panels * k->cols * line <= SHORT_SPAN) panels *= 2;
    if (j->rows.own || j->cols.own) {
        tiles = j->rows.own ? OWN_TILES : (j->rows.n + k->rows - 1) / k->rows;
        panels = OWN_PANELS;
    }
    for (;;) {
        j->block_rows = tiles * k->rows;
        j->block_cols = panels * k->cols;
        j->n_block_cols = (j->cols.n + j->block_cols - 1) / j->block_cols;
        j->n_blocks = (j->rows.n + j->block_rows - 1) / j->block_rows * j->n_block_cols;
        double n = (double)j->n_blocks * (double)j->batch;
        bool many = j->alone || n >= MANY_BLOCKS || work / n < WORTH_A_THREAD ||
                    (j->cols.own && !j->rows.own);
        if (many || (tiles == 1 && panels == 1)) return;
        if (panels == 1 || j->block_rows > j->block_cols) tiles = (tiles + 1) / 2;
        else panels = (panels + 1) / 2;
    }
}

/* All blocks, whose panels have memory. */
static int32_t multiply_blocks(struct hop_rt *rt, struct job *j)
{
    choose_blocks(j);
    int32_t (*some)(struct hop_rt *, void *, int64_t, int64_t) = j->rows.own || j->cols.own ? own_some
                                                                                            : blocks_some;
    double work = work_of(j);
    if (j->alone || work * (double)j->batch < 2 * WORTH_A_THREAD)
        return some(rt, j, 0, j->batch * j->n_blocks);
    int64_t grain = (int64_t)(WORTH_A_THREAD * (double)j->n_blocks / 2 / work) + 1;
    return rt->parallel(rt, some, j, j->batch * j->n_blocks, grain);
}

/* Which sides go into panels. */
struct packing {
    bool rows, cols;
    int64_t size; /* of the memory for them */
    char *room;
};

/* What a line takes, and the signs that panels are there. */
static int64_t line_bytes(const struct product_kernel *k, int64_t depth)
{
    int64_t stretches = (depth + DEPTH - 1) / DEPTH;
    return (rounded_up(depth, k->group) + stretches * k->beside) * k->size + stretches;
}

/* Gives both sides their part of the room. */
static void place_panels(struct job *j, const struct packing *p)
{
    struct side *sides[] = { &j->rows, &j->cols };
    const bool packs[] = { p->rows, p->cols };
    char *at = p->room;
    for (int i = 0; i < 2; i++)
        if (packs[i]) {
            sides[i]->panels = at;
            at += j->batch * rounded_up(panels_bytes(j->kernel, sides[i], j->depth), ALIGNED);
        }
    for (int i = 0; i < 2; i++)
        if (packs[i]) {
            int64_t n = j->batch * panels_count(sides[i], j->depth);
            sides[i]->made = (atomic_uchar *)at;
            memset(at, 0, (size_t)n);
            at += n;
        }
}

/* Part of a product, whose panels fit into the room. */
static int32_t multiply_part(struct hop_rt *rt, struct job *j, const struct packing *p)
{
    j->rows.whole = rounded_up(j->rows.n, j->kernel->rows);
    if (!j->cols.panels) j->cols.whole = rounded_up(j->cols.n, j->kernel->cols);
    place_panels(j, p);
    return multiply_blocks(rt, j);
}

/* The side from that line and that depth on. */
static void side_at(struct side *s, int64_t line, int64_t from)
{
    s->data += (line * s->along + from * s->step) * (int64_t)dtype_info[s->dtype].size;
}

/* As many lines of both sides, as much of the depth and as many matrices as there is room for. Sums that are
 * rounded to the dtype of C are not cut. */
static int32_t multiply_parts(struct hop_rt *rt, const struct job *whole, const struct packing *p)
{
    const struct product_kernel *k = whole->kernel;
    int64_t rows = rounded_up(whole->rows.n, k->rows), cols = rounded_up(whole->cols.n, k->cols);
    int64_t least = whole->leaving == LEAVE_ROUNDED ? whole->depth : HOP_MIN(whole->depth, DEPTH);
    int64_t lines = (p->size - 4 * ALIGNED) / line_bytes(k, least), half = lines / 2;
    int64_t of_rows = p->rows ? HOP_MIN(rows, half) : 0, of_cols = p->cols ? HOP_MIN(cols, half) : 0;
    if (p->rows) rows = HOP_MIN(rows, HOP_MAX((lines - of_cols) / k->rows, 1) * k->rows);
    if (p->cols) cols = HOP_MIN(cols, HOP_MAX((lines - of_rows) / k->cols, 1) * k->cols);
    int64_t packed = (p->rows ? rows : 0) + (p->cols ? cols : 0);
    int64_t depth = whole->depth;
    while (depth > DEPTH && least < depth && packed * line_bytes(k, depth) > p->size - 4 * ALIGNED)
        depth = rounded_up(depth / 2, DEPTH);
    bool cut = rows < whole->rows.n || cols < whole->cols.n || depth < whole->depth;
    int64_t each = packed * line_bytes(k, depth) + 4 * ALIGNED;
    int64_t batch = cut ? 1 : HOP_MIN(HOP_MAX(p->size / each, 1), whole->batch);
    for (int64_t at = 0; at < whole->batch; at += batch)
        for (int64_t r = 0; r < whole->rows.n; r += rows)
            for (int64_t c = 0; c < whole->cols.n; c += cols)
                for (int64_t from = 0; from < whole->depth; from += depth) {
                    struct job part = job_of_matrix(whole, at);
                    part.batch = HOP_MIN(batch, whole->batch - at);
                    part.rows.n = HOP_MIN(rows, whole->rows.n - r);
                    part.cols.n = HOP_MIN(cols, whole->cols.n - c);
                    part.depth = HOP_MIN(depth, whole->depth - from);
                    part.add = whole->add || from;
                    part.c += (r * part.c_row + c * part.c_col) * dtype_info[part.c_dtype].size;
                    side_at(&part.rows, r, from);
                    side_at(&part.cols, c, from);
                    if (part.cols.panels) part.cols.panels += panels_bytes(k, &part.cols, from);
                    int32_t status = multiply_part(rt, &part, p);
                    if (status) return status;
                }
    return 0;
}

static struct packing packing_of(const struct job *j, int64_t most)
{
    const struct product_kernel *k = j->kernel;
    struct packing p = { .rows = packs_rows(j), .cols = packs_cols(j) && !j->cols.own };
    int64_t lines = (p.rows ? rounded_up(j->rows.n, k->rows) : 0) +
                    (p.cols ? rounded_up(j->cols.n, k->cols) : 0);
    double bytes = (double)j->batch * ((double)lines * (double)line_bytes(k, j->depth) + 4 * ALIGNED);
    p.size = bytes < (double)most ? (int64_t)bytes : most;
    return p;
}

/* A product, or a batch of them, on this thread or on all. */
static int32_t multiply_job(struct hop_rt *rt, struct job *j, struct packing p)
{
    const struct product_kernel *k = j->kernel;
    if (!p.rows && !p.cols) return multiply_part(rt, j, &p);
    int64_t least = j->leaving == LEAVE_ROUNDED ? j->depth : HOP_MIN(j->depth, DEPTH);
    int64_t rows = HOP_MIN(rounded_up(j->rows.n, k->rows), BLOCK_TILES * k->rows),
            cols = HOP_MIN(rounded_up(j->cols.n, k->cols), BLOCK_PANELS * k->cols);
    int64_t wanted = (p.rows ? rows : 0) + (p.cols ? cols : 0);
    p.room = p.size >= wanted * line_bytes(k, least) ? panels_room((size_t)p.size) : NULL;
    if (p.room) return multiply_parts(rt, j, &p);
    j->rows.own = p.rows;
    j->cols.own |= p.cols;
    return multiply_blocks(rt, j);
}

/* ---- a few rows, or one column ---- */

struct line_job {
    const struct product_kernel *kernel;
    struct tile w;
    bool row;
    int64_t n, unit;     /* elements of C; so many are done at once */
    int64_t depth, next; /* a row: of all of the sum; bytes from one stretch of B to the next */
};

/* In stretches, as tiles do. */
static void line_row(const struct line_job *j, int64_t lo, int64_t hi)
{
    const struct product_kernel *k = j->kernel;
    struct tile w = j->w;
    for (int64_t from = 0; from < j->depth; from += DEPTH) {
        w.depth = HOP_MIN(DEPTH, j->depth - from);
        if (w.b_whole) w.b_apart = w.depth * k->cols;
        k->row(&w, lo, hi);
        w.a = (const char *)w.a + DEPTH * k->size;
        w.b = (const char *)w.b + j->next;
        w.add = true;
    }
}

static int32_t line_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct line_job *j = env;
    int64_t end = HOP_MIN(hi * j->unit, j->n);
    HOP_UNUSED(rt);
    if (j->row) line_row(j, lo * j->unit, end);
    else j->kernel->column(&j->w, lo * j->unit, end);
    return 0;
}

enum { LINE_UNIT = 64 };

/* The elements of the only row or column beside each other. */
static const char *line_elements(const struct job *j, const struct side *s)
{
    if (s->step == 1 || j->depth < 2) return s->data;
    if (s->n > 1) return NULL;
    char *room = panels_room((size_t)(j->depth * j->kernel->size));
    if (room) j->kernel->pack(room, s->data, 1, 2, j->depth, s->step, 1, false);
    return room;
}

/* A few rows, or a column, times a matrix; false: it is none that the kernels know. */
static bool multiply_line(struct hop_rt *rt, const struct job *j, int32_t *status)
{
    bool is_rows = j->rows.n == 1 || (j->rows.n <= PRODUCT_STREAMED_ROWS && j->cols.n > 1);
    const struct side *lines = is_rows ? &j->rows : &j->cols, *matrix = is_rows ? &j->cols : &j->rows;
    int64_t c_step = is_rows ? j->c_col : j->c_row;
    bool packed = matrix->panels != NULL, by_vectors = packed || (matrix->along == 1 && matrix->step != 1);
    if (by_vectors ? c_step != 1 : matrix->step != 1 || lines->n > 1) return false;
    const char *x = line_elements(j, lines);
    if (!x) return false;
    const struct product_kernel *k = j->kernel;
    int64_t stretch = packed ? matrix->whole : matrix->step;
    struct line_job line = { .kernel = k,
                             .w = { .c = j->c, .depth = j->depth, .add = j->add, .rows = (int)lines->n },
                             .row = by_vectors,
                             .n = matrix->n,
                             .unit = LINE_UNIT,
                             .depth = j->depth,
                             .next = DEPTH * stretch * k->size };
    line.w.a = by_vectors ? x : matrix->data;
    line.w.b = by_vectors ? packed ? matrix->panels : matrix->data : x;
    line.w.a_row = by_vectors ? lines->along : matrix->along;
    line.w.b_step = packed ? k->cols : matrix->step;
    line.w.b_apart = k->cols;
    line.w.b_whole = packed;
    line.w.c_row = by_vectors ? is_rows ? j->c_row : j->c_col : c_step;
    double work = work_of(j);
    int64_t n_units = (matrix->n + LINE_UNIT - 1) / LINE_UNIT;
    if (j->alone || work < WORTH_A_THREAD / 2) *status = line_some(rt, &line, 0, n_units);
    else *status = rt->parallel(rt, line_some, &line, n_units, HOP_MAX(n_units / (2 * pool_threads()), 1));
    return true;
}

/* The same in narrow elements. */
static bool multiply_narrow(struct hop_rt *rt, const struct job *j, int32_t *status)
{
    bool is_rows = j->rows.n <= LINE_ROWS;
    const struct side *x = is_rows ? &j->rows : &j->cols, *matrix = is_rows ? &j->cols : &j->rows;
    struct narrow p = { .c_dtype = j->c_dtype,
                        .x_dtype = x->dtype,
                        .matrix_dtype = matrix->dtype,
                        .x = x->data,
                        .matrix = matrix->data,
                        .c = j->c,
                        .rows = x->n,
                        .n = matrix->n,
                        .depth = j->depth,
                        .x_along = x->along,
                        .x_step = x->step,
                        .along = matrix->along,
                        .step = matrix->step,
                        .c_row = is_rows ? j->c_row : j->c_col,
                        .c_step = is_rows ? j->c_col : j->c_row,
                        .add = j->add,
                        .alone = j->alone };
    return !matrix->panels && narrow_multiply(rt, &p, status);
}

/* ---- which side is the columns' ---- */

/* In units of a multiplication that is one of a vector's. */
enum { COST_PACK = 16, COST_STORE = 16 };

static double cost(const struct job *j)
{
    int64_t lanes = j->kernel->cols / 2;
    double depth = (double)j->depth, rows = (double)j->rows.n, cols = (double)j->cols.n;
    double sum = rows * (double)rounded_up(j->cols.n, lanes) * depth;
    if (packs_rows(j)) sum += COST_PACK * rows * depth;
    if (packs_cols(j)) sum += COST_PACK * cols * depth;
    if (j->c_col != 1) sum += COST_STORE * rows * cols;
    return sum;
}

/* The same product as its transpose: columns become rows. */
static struct job transposed(const struct job *j)
{
    struct job t = *j;
    t.rows = j->cols;
    t.cols = j->rows;
    t.rows.width = j->rows.width;
    t.cols.width = j->cols.width;
    t.c_row = j->c_col;
    t.c_col = j->c_row;
    return t;
}

/* ---- tiny ones ---- */

/* Sides that stay in the first cache: nothing is planned, each matrix is for one thread. What is narrower
 * than f32 is widened, which holds sums of so few bytes exactly, too. */
enum { TINY = 64 };

struct tiny {
    const struct product *product;
    const struct product_kernel *kernel;
};

static bool is_tiny(const struct product *p)
{
    bool plain = p->c_dtype != DT_F64 || (p->a_dtype == DT_F64 && p->b_dtype == DT_F64);
    bool line = p->m == 1 || (p->n == 1 && p->tb != HOP_RT_PANELS);
    bool panels = p->tb == HOP_RT_PANELS && p->b_dtype != DT_F32 && p->b_dtype != DT_F64;
    bool dots = product_kernel(p->c_dtype, p->a_dtype, p->b_dtype)->group > 1; /* which pay early */
    int64_t most = dots ? TINY / 2 : TINY;
    return plain && !panels && !line && p->m <= most && p->n <= most && p->k <= most;
}

/* One matrix, tile by tile: rows are cut evenly, into tiles that need not be the largest. */
static void multiply_tiny(const struct product_kernel *k, const struct product *p, struct tile *w,
                          const char *a, const char *b, char *c)
{
    int64_t size = k->size, n_tiles = (p->m + k->rows - 1) / k->rows, rows = (p->m + n_tiles - 1) / n_tiles;
    int64_t next_rows = rows * w->a_row * size, next_cols = (w->b_whole ? p->k : 1) * size;
    for (int64_t j = 0; j < p->n; j += k->cols) {
        w->cols = (int)HOP_MIN(k->cols, p->n - j);
        w->b = b + j * next_cols;
        w->a = a;
        for (int64_t i = 0; i < p->m; i += rows, w->a = (const char *)w->a + next_rows) {
            w->rows = (int)HOP_MIN(rows, p->m - i);
            w->c = c + (i * p->ldc + j) * size;
            k->tile(w);
        }
    }
}

static bool is_widened(const struct product *p)
{
    return p->c_dtype != p->a_dtype || p->c_dtype != p->b_dtype ||
           (p->c_dtype != DT_F32 && p->c_dtype != DT_F64);
}

/* Rows so many elements apart, beside each other as f32. */
static void widen_rows(float *to, enum dtype t, const char *from, int64_t rows, int64_t n, int64_t apart)
{
    row_function widen = row_widens(t);
    if (apart == n) n *= rows, rows = 1;
    for (int64_t i = 0; i < rows; i++) widen(to + i * n, from + i * apart * dtype_info[t].size, n);
}

/* A matrix of narrower elements; `sums` are of f32. */
static void multiply_widened(const struct tiny *tiny, int64_t matrix)
{
    float a[TINY * TINY], b[TINY * TINY], sums[TINY * TINY], turned[TINY * TINY];
    const struct product *p = tiny->product;
    const struct product_kernel *k = tiny->kernel;
    int64_t size = dtype_info[p->c_dtype].size, a_row = p->ta ? p->m : p->k, b_row = p->tb ? p->k : p->n;
    char *c = p->c + matrix * p->c_apart * size;
    bool whole = dtype_is_integer(p->c_dtype);
    struct product of = { .m = p->m, .n = p->n, .k = p->k, .ldc = p->n };
    struct tile w = { .a_row = p->ta ? 1 : a_row,
                      .a_step = p->ta ? a_row : 1,
                      .b_step = p->tb ? k->cols : b_row,
                      .b_whole = p->tb,
                      .c_row = p->n,
                      .c_col = 1,
                      .depth = p->k,
                      .add = p->accumulate && !whole };
    widen_rows(a, p->a_dtype, p->a + matrix * p->a_apart * dtype_info[p->a_dtype].size, p->ta ? p->k : p->m,
               a_row, p->lda);
    widen_rows(b, p->b_dtype, p->b + matrix * p->b_apart * dtype_info[p->b_dtype].size, p->tb ? p->n : p->k,
               b_row, p->ldb);
    if (w.add) widen_rows(sums, p->c_dtype, c, p->m, p->n, p->ldc);
    if (p->tb) k->pack(turned, b, p->n, p->k, p->k, 1, k->cols, false);
    multiply_tiny(k, &of, &w, (const char *)a, (const char *)(p->tb ? turned : b), (char *)sums);
    row_function leave = whole ? row_adds(p->c_dtype, false) : row_rounds(p->c_dtype);
    int64_t rows = p->ldc == p->n ? 1 : p->m, n = p->ldc == p->n ? p->m * p->n : p->n;
    for (int64_t i = 0; i < rows; i++) {
        char *row = c + i * p->ldc * size;
        if (whole && !p->accumulate) memset(row, 0, (size_t)(n * size));
        leave(row, sums + i * n, n);
    }
}

static int32_t tiny_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    _Alignas(ALIGNED) char room[TINY * TINY * sizeof(double)];
    const struct tiny *tiny = env;
    const struct product *p = tiny->product;
    const struct product_kernel *k = tiny->kernel;
    struct tile w = { .a_row = p->ta ? 1 : p->lda,
                      .a_step = p->ta ? p->lda : 1,
                      .b_step = p->tb ? k->cols : p->ldb,
                      .b_whole = p->tb,
                      .c_row = p->ldc,
                      .c_col = 1,
                      .depth = p->k,
                      .add = p->accumulate };
    HOP_UNUSED(rt);
    if (is_widened(p)) {
        for (int64_t i = lo; i < hi; i++) multiply_widened(tiny, i);
        return 0;
    }
    for (int64_t i = lo; i < hi; i++) {
        const char *b = p->b + i * p->b_apart * k->size;
        bool turned = p->tb && p->tb != HOP_RT_PANELS;
        if (turned && (i == lo || p->b_apart)) k->pack(room, b, p->n, p->ldb, p->k, 1, k->cols, false);
        multiply_tiny(k, p, &w, p->a + i * p->a_apart * k->size, turned ? room : b,
                      p->c + i * p->c_apart * k->size);
    }
    return 0;
}

static int32_t multiply_all_tiny(struct hop_rt *rt, const struct product *p)
{
    struct tiny tiny = { p, product_kernel(p->c_dtype == DT_F64 ? DT_F64 : DT_F32, DT_F32, DT_F32) };
    double work = (double)(p->m * p->n * p->k);
    if (p->batch == 1 || work * (double)p->batch < 2 * WORTH_A_THREAD)
        return tiny_some(rt, &tiny, 0, p->batch);
    return rt->parallel(rt, tiny_some, &tiny, p->batch, (int64_t)(WORTH_A_THREAD / 2 / work) + 1);
}

/* ---- all of it ---- */

static struct side columns_of(const struct product *p, const struct product_kernel *kernel)
{
    struct side s = { .data = p->b, .dtype = p->b_dtype, .n = p->n, .width = kernel->cols };
    s.along = p->tb ? p->ldb : 1;
    s.step = p->tb ? 1 : p->ldb;
    s.apart = p->b_apart * dtype_info[p->b_dtype].size;
    s.whole = rounded_up(p->n, kernel->cols);
    if (p->tb == HOP_RT_PANELS) s.panels = (char *)(uintptr_t)p->b; /* which nothing writes */
    return s;
}

static struct side rows_of(const struct product *p, const struct product_kernel *kernel)
{
    struct side s = { .data = p->a, .dtype = p->a_dtype, .n = p->m, .width = kernel->rows };
    s.along = p->ta ? 1 : p->lda;
    s.step = p->ta ? p->lda : 1;
    s.apart = p->a_apart * dtype_info[p->a_dtype].size;
    return s;
}

/* How a product is multiplied: by its shape alone. */
struct plan {
    struct job job;
    bool line;   /* a few rows, or one column … */
    bool narrow; /* … of elements that are widened */
};

static struct plan plan_of(const struct product *p)
{
    const struct product_kernel *kernel = product_kernel(p->c_dtype, p->a_dtype, p->b_dtype);
    struct plan plan = { .job = { .kernel = kernel,
                                  .rows = rows_of(p, kernel),
                                  .cols = columns_of(p, kernel),
                                  .c = p->c,
                                  .c_dtype = p->c_dtype,
                                  .c_row = p->ldc,
                                  .c_col = 1,
                                  .c_apart = p->c_apart * dtype_info[p->c_dtype].size,
                                  .depth = p->k,
                                  .batch = p->batch,
                                  .add = p->accumulate } };
    struct job *j = &plan.job;
    bool dots = kernel->group > 1; /* whose sums may be elements of C, too */
    bool in_place = dots ? p->c_dtype == DT_F32 || p->c_dtype == DT_I32 || p->c_dtype == DT_U32
                         : p->c_dtype == kernel->dtype;
    if (!in_place) j->leaving = dtype_is_integer(p->c_dtype) ? LEAVE_ADDED : LEAVE_ROUNDED;
    bool may_turn = j->leaving == LEAVE_IN_PLACE && !j->cols.panels && !dots;
    bool same = !dots && p->a_dtype == kernel->dtype && p->b_dtype == kernel->dtype;
    int64_t few = streams_cols(j) && !p->tb && !p->ta ? PRODUCT_STREAMED_ROWS : PRODUCT_FEW_ROWS;
    bool line = p->m <= few || (p->n == 1 && !j->cols.panels);
    plan.line = line && j->leaving == LEAVE_IN_PLACE && same;
    plan.narrow = !plan.line && (p->m <= LINE_ROWS || p->n == 1) && !j->cols.panels;
    if (!may_turn || (!p->tb && !packs_rows(j) && !packs_cols(j))) return plan; /* small ones notice */
    if (streams_cols(j) && !p->tb) return plan;
    struct job other = transposed(j);
    if (cost(&other) < cost(j)) *j = other;
    return plan;
}

static int32_t multiply_planned(struct hop_rt *rt, const struct plan *plan, struct job *j, int64_t room)
{
    int32_t status = 0;
    if (plan->line && multiply_line(rt, j, &status)) return status;
    if (plan->narrow && multiply_narrow(rt, j, &status)) return status;
    j->cols.own = streams_cols(j);
    return multiply_job(rt, j, packing_of(j, room));
}

/* Matrices of a batch, one by one. */
static int32_t matrices_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct plan *plan = env;
    int32_t status = 0;
    for (int64_t i = lo; i < hi && !status; i++) {
        struct job j = job_of_matrix(&plan->job, i);
        j.batch = 1;
        status = multiply_planned(rt, plan, &j, j.alone ? OWN_ROOM : ROOM);
    }
    return status;
}

/* Sums without terms. */
static void clear(const struct product *p)
{
    int64_t size = dtype_info[p->c_dtype].size;
    for (int64_t i = 0; i < p->batch && !p->accumulate; i++)
        for (int64_t r = 0; r < p->m; r++)
            memset(p->c + (i * p->c_apart + r * p->ldc) * size, 0, (size_t)(p->n * size));
}

/* ---- deep ones ---- */

/* A result of long sums and fewer tiles than would keep the threads busy has the sums of its stretches made
 * at once, as a batch of products; they are then added up in their order, as blocks of C add them: the bits
 * are the same. */
enum { MANY_STRETCHES = 16, FEW_TILES = 12, SUMS_ROOM = 2 << 20 };

struct sums {
    const struct product *product;
    const char *data; /* one matrix after the other */
    int64_t n;
    bool add; /* the first of them, too */
};

static bool is_deep(const struct product *p, const struct job *j)
{
    const struct product_kernel *k = j->kernel;
    int64_t tiles = ((p->m + k->rows - 1) / k->rows) * ((p->n + k->cols - 1) / k->cols);
    bool few = tiles <= FEW_TILES && p->batch == 1 && p->m > 1 && p->n > 1;
    bool deep = p->k >= MANY_STRETCHES * DEPTH && work_of(j) >= 8 * WORTH_A_THREAD;
    return few && deep && k->group == 1 && j->leaving == LEAVE_IN_PLACE && p->tb != HOP_RT_PANELS &&
           pool_threads() >= 2 * tiles;
}

static int32_t sums_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct sums *sums = env;
    const struct product *p = sums->product;
    int64_t size = dtype_info[p->c_dtype].size;
    HOP_UNUSED(rt);
    for (int64_t r = lo; r < hi; r++) {
        char *c = p->c + r * p->ldc * size;
        for (int64_t i = 0; i < sums->n; i++) {
            const char *from = sums->data + (i * p->m + r) * p->n * size;
            if (!i && !sums->add) memcpy(c, from, (size_t)(p->n * size));
            else if (p->c_dtype == DT_F32)
                for (int64_t t = 0; t < p->n; t++) ((float *)c)[t] += ((const float *)from)[t];
            else
                for (int64_t t = 0; t < p->n; t++) ((double *)c)[t] += ((const double *)from)[t];
        }
    }
    return 0;
}

/* The product from that depth on. */
static struct product product_from(const struct product *p, int64_t from)
{
    struct product rest = *p;
    rest.a += from * (p->ta ? p->lda : 1) * dtype_info[p->a_dtype].size;
    rest.b += from * (p->tb ? 1 : p->ldb) * dtype_info[p->b_dtype].size;
    rest.k = p->k - from;
    rest.accumulate = p->accumulate || from;
    return rest;
}

static int32_t multiply_stretches(struct hop_rt *rt, const struct product *p, char *room, int64_t n)
{
    struct product all = *p;
    all.k = DEPTH;
    all.batch = n;
    all.a_apart = DEPTH * (p->ta ? p->lda : 1);
    all.b_apart = DEPTH * (p->tb ? 1 : p->ldb);
    all.c_apart = p->m * p->n;
    all.ldc = p->n;
    all.c = room;
    all.accumulate = 0;
    int32_t status = product_multiply(rt, &all);
    if (status) return status;
    struct sums sums = { p, room, n, p->accumulate };
    double of_row = (double)p->n * (double)n, least = WORTH_A_THREAD / 4;
    if (of_row * (double)p->m < 2 * least) return sums_some(rt, &sums, 0, p->m);
    return rt->parallel(rt, sums_some, &sums, p->m, (int64_t)(least / of_row) + 1);
}

/* false: there is no memory for sums. */
static bool multiply_deep(struct hop_rt *rt, const struct product *p, int32_t *status)
{
    int64_t n_whole = p->k / DEPTH, each = p->m * p->n * dtype_info[p->c_dtype].size;
    int64_t at_once = HOP_MIN(n_whole, SUMS_ROOM / each);
    char *room = malloc((size_t)(at_once * each));
    if (!room) return false;
    *status = 0;
    for (int64_t i = 0; i < n_whole && !*status; i += at_once) {
        struct product some = product_from(p, i * DEPTH);
        *status = multiply_stretches(rt, &some, room, HOP_MIN(at_once, n_whole - i));
    }
    free(room);
    struct product rest = product_from(p, n_whole * DEPTH);
    if (rest.k && !*status) *status = product_multiply(rt, &rest);
    return true;
}

int32_t product_multiply(struct hop_rt *rt, const struct product *p)
{
    if (!p->k) return clear(p), 0;
    if (is_tiny(p)) return multiply_all_tiny(rt, p);
    struct plan plan = plan_of(p);
    struct job *j = &plan.job;
    int32_t status;
    if (is_deep(p, j) && multiply_deep(rt, p, &status)) return status;
    if (p->batch == 1) return multiply_planned(rt, &plan, j, ROOM);
    double work = work_of(j);
    bool one_block = j->rows.n <= BLOCK_TILES * j->kernel->rows &&
                     j->cols.n <= BLOCK_PANELS * j->kernel->cols;
    bool few = p->batch < MANY_MATRICES && !one_block;
    if (few && !plan.line && !plan.narrow) return multiply_job(rt, j, packing_of(j, ROOM));
    if (few && work > 4 * WORTH_A_THREAD) return matrices_some(rt, &plan, 0, p->batch);
    j->alone = true;
    if (work * (double)p->batch < 2 * WORTH_A_THREAD) return matrices_some(rt, &plan, 0, p->batch);
    return rt->parallel(rt, matrices_some, &plan, p->batch, (int64_t)(WORTH_A_THREAD / 2 / work) + 1);
}

/* ---- panels for later ---- */

struct pack_job {
    const struct product_kernel *kernel;
    struct side side;
    int64_t depth;
};

static int32_t pack_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct pack_job *j = env;
    const struct side *s = &j->side;
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++)
        for (int64_t from = 0; from < j->depth; from += DEPTH) {
            int64_t depth = HOP_MIN(DEPTH, j->depth - from);
            panel_make(j->kernel, s, i * s->width, from, depth,
                       panel_at(j->kernel, s, i * s->width, from, depth));
        }
    return 0;
}

int32_t product_pack(struct hop_rt *rt, const struct product *p)
{
    const struct product_kernel *kernel = product_kernel(p->c_dtype, p->c_dtype, p->b_dtype);
    struct pack_job j = { kernel, columns_of(p, kernel), p->k };
    _Static_assert(HOP_RT_PANEL_COLUMNS % 32 == 0, "whole panels of every kernel");
    j.side.panels = p->c;
    int64_t n = j.side.whole / kernel->cols, each = kernel->cols * p->k;
    if ((double)n * (double)each < WORTH_A_THREAD / 4) return pack_some(rt, &j, 0, n);
    return rt->parallel(rt, pack_some, &j, n, (int64_t)WORTH_A_THREAD / 8 / each + 1);
}
