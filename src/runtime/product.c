/* Products made of tiles (product_kernels.h). An operand whose elements would be read many times, or do not
 * lie beside each other where they must, is put into panels first, all threads together; then blocks of C are
 * computed, each on one thread. The sum goes over the depth in stretches of DEPTH, of which an element of C
 * gets one after the other: neither cutting nor packing changes a result. */
#include "runtime/product.h"
#include "base/base.h"
#include "loop/rt.h"
#include "runtime/product_kernels.h"

#include <pthread.h>

enum {
    DEPTH = 256,      /* of a stretch: a panel of it stays in the first cache */
    BLOCK_TILES = 8,  /* rows of tiles in a block of C */
    BLOCK_PANELS = 4, /* and columns */
    MANY_BLOCKS = 64,
    FEW_MATRICES = 16,     /* of a batch, large ones: all threads multiply each */
    SHORT_SIDE = 48,       /* so many rows read columns where they lie */
    FEW_PANELS = 2,        /* so many panels of columns read rows where they lie */
    SMALL_SIDE = 32 << 10, /* and rows of so many bytes are, and twice as many bytes of columns */
    ROOM = 8 << 20,        /* bytes of panels */
    SMALL_ROOM = 64 << 10  /* of those on the stack, when there is no memory */
};
/* Work that another thread is worth its waking, in multiplications. */
static const double WORTH_A_THREAD = 1e6;

/* The rows of op(A), or the columns of op(B). */
struct side {
    const char *data;
    int64_t n, along, step; /* in elements: to the next row or column, to the next depth */
    int64_t width;          /* of a panel */
    int64_t whole;          /* n, as panels have it */
    char *panels;           /* NULL: read where it lies */
    bool ready;             /* the panels were made before */
};

struct job {
    const struct product_kernel *kernel;
    struct side rows, cols;
    char *c;
    int64_t c_row, c_col;
    int64_t depth; /* of this part of the sum */
    bool add;      /* to what C has */
    int64_t block_rows, block_cols, n_block_cols;
};

static int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/* ---- panels ---- */

/* Of one stretch after the other, and in it of one panel after the other. */
static char *panel_at(const struct job *j, const struct side *s, int64_t line, int64_t from, int64_t depth)
{
    return s->panels + (s->whole * from + line * depth) * j->kernel->size;
}

static void pack_panel(const struct job *j, const struct side *s, int64_t panel)
{
    int64_t first = panel * s->width, n = HOP_MIN(s->width, s->n - first);
    for (int64_t from = 0; from < j->depth; from += DEPTH) {
        int64_t depth = HOP_MIN(DEPTH, j->depth - from);
        const char *lines = s->data + (first * s->along + from * s->step) * j->kernel->size;
        j->kernel->pack(panel_at(j, s, first, from, depth), lines, n, s->along, depth, s->step, s->width);
    }
}

/* To be made. */
static int64_t n_panels(const struct side *s) { return s->panels && !s->ready ? s->whole / s->width : 0; }

static int32_t pack_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct job *j = env;
    int64_t of_rows = n_panels(&j->rows);
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++)
        if (i < of_rows) pack_panel(j, &j->rows, i);
        else pack_panel(j, &j->cols, i - of_rows);
    return 0;
}

/* ---- blocks of C ---- */

/* Columns that lie beside each other are read where they are, but for the last ones of a matrix, behind which
 * a vector would reach: `edge` has room for these. */
static const char *columns_at(const struct job *j, int64_t col, int64_t from, int64_t depth, char *edge,
                              int64_t *step)
{
    const struct side *s = &j->cols;
    *step = s->width;
    if (s->panels) return panel_at(j, s, col, from, depth);
    const char *lines = s->data + (col + from * s->step) * j->kernel->size;
    if (s->n - col < s->width && s->n - col != s->width / 2) {
        j->kernel->pack(edge, lines, s->n - col, 1, depth, s->step, s->width);
        return edge;
    }
    *step = s->step;
    return lines;
}

static void multiply_block(const struct job *j, int64_t row, int64_t col)
{
    const struct product_kernel *k = j->kernel;
    _Alignas(64) char edge[DEPTH * 32 * sizeof(float)];
    _Static_assert(sizeof edge >= DEPTH * 16 * sizeof(double), "room for a panel");
    int64_t row_end = HOP_MIN(row + j->block_rows, j->rows.n);
    int64_t col_end = HOP_MIN(col + j->block_cols, j->cols.n);
    for (int64_t from = 0; from < HOP_MAX(j->depth, 1); from += DEPTH) {
        struct tile w = { .c_row = j->c_row, .c_col = j->c_col, .add = j->add || from };
        w.depth = HOP_MIN(DEPTH, j->depth - from);
        for (int64_t c = col; c < col_end; c += k->cols) {
            w.cols = (int)HOP_MIN(k->cols, col_end - c);
            w.b = columns_at(j, c, from, w.depth, edge, &w.b_step);
            for (int64_t r = row; r < row_end; r += k->rows) {
                const struct side *s = &j->rows;
                w.rows = (int)HOP_MIN(k->rows, row_end - r);
                w.a_row = s->panels ? 1 : s->along;
                w.a_step = s->panels ? s->width : s->step;
                w.a = s->panels ? panel_at(j, s, r, from, w.depth)
                                : s->data + (r * s->along + from * s->step) * k->size;
                w.c = j->c + (r * j->c_row + c * j->c_col) * k->size;
                k->tile(&w);
            }
        }
    }
}

static int32_t multiply_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct job *j = env;
    HOP_UNUSED(rt);
    for (int64_t i = lo; i < hi; i++)
        multiply_block(j, i / j->n_block_cols * j->block_rows, i % j->n_block_cols * j->block_cols);
    return 0;
}

/* ---- the plan ---- */

/* The calling thread's memory for panels, kept for its next product; NULL: there is none. */
struct room {
    char *data;
    size_t size;
};
static pthread_once_t room_once = PTHREAD_ONCE_INIT;
static pthread_key_t room_key;
static bool room_has_key;
static void room_free(void *room)
{
    free(((struct room *)room)->data);
    free(room);
}
static void room_begin(void) { room_has_key = !pthread_key_create(&room_key, room_free); }

static char *room_for(size_t size)
{
    pthread_once(&room_once, room_begin);
    if (!room_has_key) return NULL;
    struct room *room = pthread_getspecific(room_key);
    if (room && room->size >= size) return room->data;
    if (!room) {
        room = calloc(1, sizeof *room);
        if (!room) return NULL;
        if (pthread_setspecific(room_key, room)) {
            free(room);
            return NULL;
        }
    }
    free(room->data);
    room->data = aligned_alloc(64, (size_t)rounded_up((int64_t)size, 64));
    room->size = room->data ? size : 0;
    return room->data;
}

/* Panels are worth it for what is read often, and is not in the cache anyway. */
static bool packs_rows(const struct job *j)
{
    int64_t bytes = j->rows.n * j->depth * j->kernel->size;
    return bytes > SMALL_SIDE && j->cols.n > FEW_PANELS * j->kernel->cols;
}
static bool packs_cols(const struct job *j)
{
    int64_t bytes = j->cols.n * j->depth * j->kernel->size;
    if (j->cols.ready) return false;
    return j->cols.along != 1 || (bytes > 2 * SMALL_SIDE && j->rows.n > SHORT_SIDE);
}

/* How large blocks of C are, and how many: enough for many threads, if each is worth one. */
static int64_t choose_blocks(struct job *j, double work)
{
    const struct product_kernel *k = j->kernel;
    int64_t tiles = BLOCK_TILES, panels = BLOCK_PANELS;
    for (;;) {
        j->block_rows = tiles * k->rows;
        j->block_cols = panels * k->cols;
        j->n_block_cols = (j->cols.n + j->block_cols - 1) / j->block_cols;
        int64_t n = (j->rows.n + j->block_rows - 1) / j->block_rows * j->n_block_cols;
        bool many = n >= MANY_BLOCKS || work / (double)n < WORTH_A_THREAD / 2;
        if (many || (tiles == 1 && panels == 1)) return n;
        if (panels == 1 || j->block_rows > j->block_cols) tiles = (tiles + 1) / 2;
        else panels = (panels + 1) / 2;
    }
}

/* Part of a product, whose panels fit into the room. */
static int32_t multiply_part(struct hop_rt *rt, struct job *j, bool pack_rows, bool pack_cols, char *room)
{
    const struct product_kernel *k = j->kernel;
    double work = (double)j->rows.n * (double)j->cols.n * (double)j->depth;
    j->rows.whole = rounded_up(j->rows.n, k->rows);
    j->cols.whole = rounded_up(j->cols.n, k->cols);
    j->rows.panels = pack_rows ? room : NULL;
    int64_t of_rows = pack_rows ? j->rows.whole * j->depth * k->size : 0;
    if (!j->cols.ready) j->cols.panels = pack_cols ? room + of_rows : NULL;
    int64_t n_blocks = choose_blocks(j, work);
    int64_t packs = n_panels(&j->rows) + n_panels(&j->cols);
    if (work < 2 * WORTH_A_THREAD) {
        pack_some(rt, j, 0, packs);
        return multiply_some(rt, j, 0, n_blocks);
    }
    int32_t status = rt->parallel(rt, pack_some, j, packs, 1);
    return status ? status : rt->parallel(rt, multiply_some, j, n_blocks, 1);
}

/* As many lines of both sides, and as much of the depth, as there is room for. */
static int32_t multiply_parts(struct hop_rt *rt, const struct job *whole, char *room, int64_t size)
{
    const struct product_kernel *k = whole->kernel;
    bool pack_rows = packs_rows(whole), pack_cols = packs_cols(whole);
    int64_t rows = rounded_up(whole->rows.n, k->rows), cols = rounded_up(whole->cols.n, k->cols);
    int64_t lines = size / k->size / DEPTH, half = lines / 2;
    int64_t of_rows = pack_rows ? HOP_MIN(rows, half) : 0, of_cols = pack_cols ? HOP_MIN(cols, half) : 0;
    if (pack_rows) rows = HOP_MIN(rows, HOP_MAX((lines - of_cols) / k->rows, 1) * k->rows);
    if (pack_cols) cols = HOP_MIN(cols, HOP_MAX((lines - of_rows) / k->cols, 1) * k->cols);
    for (int64_t r = 0; r < whole->rows.n; r += rows)
        for (int64_t c = 0; c < whole->cols.n; c += cols) {
            struct job j = *whole;
            j.rows.n = HOP_MIN(rows, whole->rows.n - r);
            j.cols.n = HOP_MIN(cols, whole->cols.n - c);
            j.c += (r * j.c_row + c * j.c_col) * k->size;
            int64_t packed = (pack_rows ? rounded_up(j.rows.n, k->rows) : 0) +
                             (pack_cols ? rounded_up(j.cols.n, k->cols) : 0);
            int64_t depth = packed ? HOP_MAX(size / k->size / packed / DEPTH, 1) * DEPTH
                                   : HOP_MAX(whole->depth, 1);
            for (int64_t from = 0; from < HOP_MAX(whole->depth, 1); from += depth) {
                struct job part = j;
                part.depth = HOP_MIN(depth, whole->depth - from);
                part.add = j.add || from;
                part.rows.data += (r * j.rows.along + from * j.rows.step) * k->size;
                part.cols.data += (c * j.cols.along + from * j.cols.step) * k->size;
                if (part.cols.ready) part.cols.panels += cols * from * k->size;
                int32_t status = multiply_part(rt, &part, pack_rows, pack_cols, room);
                if (status) return status;
            }
        }
    return 0;
}

/* ---- one row, or one column ---- */

struct line_job {
    const struct product_kernel *kernel;
    struct tile w;
    bool row;
    int64_t n, unit; /* elements of C; so many are done at once */
};

static int32_t line_some(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct line_job *j = env;
    int64_t end = HOP_MIN(hi * j->unit, j->n);
    HOP_UNUSED(rt);
    (j->row ? j->kernel->row : j->kernel->column)(&j->w, lo * j->unit, end);
    return 0;
}

enum { LINE_UNIT = 128 };

/* The elements of the only row or column beside each other. */
static const char *line_elements(const struct job *j, const struct side *s)
{
    if (s->step == 1 || j->depth < 2) return s->data;
    char *room = room_for((size_t)(j->depth * j->kernel->size));
    if (room) j->kernel->pack(room, s->data, 1, 2, j->depth, s->step, 1);
    return room;
}

/* A matrix times a vector; false: it is none that the kernels know. */
static bool multiply_line(struct hop_rt *rt, const struct job *j, int32_t *status)
{
    bool one_row = j->rows.n == 1;
    const struct side *vector = one_row ? &j->rows : &j->cols, *matrix = one_row ? &j->cols : &j->rows;
    int64_t c_step = one_row ? j->c_col : j->c_row;
    bool row = matrix->along == 1 && matrix->step != 1;
    if ((row && c_step != 1) || (!row && matrix->step != 1)) return false;
    const char *x = line_elements(j, vector);
    if (!x) return false;
    struct line_job line = {
        j->kernel, { .c = j->c, .depth = j->depth, .add = j->add }, row, matrix->n, LINE_UNIT
    };
    line.w.a = row ? x : matrix->data;
    line.w.b = row ? matrix->data : x;
    line.w.a_row = matrix->along;
    line.w.b_step = matrix->step;
    line.w.c_row = c_step;
    double work = (double)matrix->n * (double)j->depth;
    int64_t n_units = (matrix->n + LINE_UNIT - 1) / LINE_UNIT;
    if (work < WORTH_A_THREAD / 4) *status = line_some(rt, &line, 0, n_units);
    else *status = rt->parallel(rt, line_some, &line, n_units, 1);
    return true;
}

/* ---- which side is the columns' ---- */

/* In units of a multiplication that is one of a vector's. */
enum { COST_PACK = 16, COST_STORE = 48 };

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

/* ---- all of it ---- */

/* How a product is multiplied: by its shape alone. */
struct plan {
    struct job job; /* of the first matrix of a batch */
    bool line;      /* one row or column */
    bool turned;    /* its rows are the columns of op(B) */
    bool packs;     /* into panels, which want so many bytes */
    int64_t size;
};

static struct side columns_of(const struct product *p, const struct product_kernel *kernel)
{
    struct side s = { .data = p->b, .n = p->n, .width = kernel->cols };
    s.along = p->tb ? p->ldb : 1;
    s.step = p->tb ? 1 : p->ldb;
    s.ready = p->tb == HOP_RT_PANELS;
    if (s.ready) s.panels = (char *)(uintptr_t)p->b; /* which nothing writes */
    return s;
}

static struct plan plan_of(const struct product *p)
{
    const struct product_kernel *kernel = product_kernel(p->c_dtype);
    struct side rows = { p->a, p->m, p->ta ? 1 : p->lda, p->ta ? p->lda : 1, kernel->rows };
    struct side cols = columns_of(p, kernel);
    struct plan plan = { .line = (p->m == 1 || p->n == 1) && !cols.ready };
    struct job *j = &plan.job;
    *j = (struct job){ .kernel = kernel, .rows = rows, .cols = cols, .c = p->c, .c_row = p->ldc, .c_col = 1 };
    j->depth = p->k;
    j->add = p->accumulate;
    plan.packs = p->tb || p->n % (kernel->cols / 2) || packs_rows(j) || packs_cols(j);
    if (!plan.packs) return plan; /* as it is, which small ones notice */
    struct job other = transposed(j);
    plan.turned = !cols.ready && cost(&other) < cost(j);
    if (plan.turned) *j = other;
    plan.packs = packs_rows(j) || packs_cols(j);
    int64_t most = (rounded_up(j->rows.n, kernel->rows) + rounded_up(j->cols.n, kernel->cols)) *
                   rounded_up(HOP_MAX(p->k, 1), DEPTH) * kernel->size;
    plan.size = HOP_MIN(most, ROOM);
    return plan;
}

static int32_t multiply_planned(struct hop_rt *rt, const struct plan *plan, struct job *j)
{
    int32_t status = 0;
    if (plan->line && multiply_line(rt, j, &status)) return status;
    if (!plan->packs) return multiply_part(rt, j, false, false, NULL);
    char *room = room_for((size_t)plan->size);
    if (room) return multiply_parts(rt, j, room, plan->size);
    _Alignas(64) char small[SMALL_ROOM];
    return multiply_parts(rt, j, small, SMALL_ROOM);
}

/* Where the matrices of a batch are: so many bytes apart. */
struct batch {
    struct plan plan;
    int64_t rows_apart, cols_apart, c_apart;
};

static int32_t multiply_matrices(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    const struct batch *b = env;
    int32_t status = 0;
    for (int64_t i = lo; i < hi && !status; i++) {
        struct job j = b->plan.job;
        j.rows.data += i * b->rows_apart;
        j.cols.data += i * b->cols_apart;
        if (j.cols.ready) j.cols.panels += i * b->cols_apart;
        j.c += i * b->c_apart;
        status = multiply_planned(rt, &b->plan, &j);
    }
    return status;
}

int32_t product_multiply(struct hop_rt *rt, const struct product *p)
{
    struct batch b = { .plan = plan_of(p) };
    if (p->batch == 1) return multiply_planned(rt, &b.plan, &b.plan.job);
    int64_t size = b.plan.job.kernel->size;
    b.rows_apart = (b.plan.turned ? p->b_apart : p->a_apart) * size;
    b.cols_apart = (b.plan.turned ? p->a_apart : p->b_apart) * size;
    b.c_apart = p->c_apart * size;
    double work = (double)p->m * (double)p->n * (double)HOP_MAX(p->k, 1);
    bool one_by_one = p->batch < FEW_MATRICES && work > WORTH_A_THREAD * FEW_MATRICES;
    if (one_by_one || work * (double)p->batch < 2 * WORTH_A_THREAD)
        return multiply_matrices(rt, &b, 0, p->batch);
    return rt->parallel(rt, multiply_matrices, &b, p->batch, (int64_t)(WORTH_A_THREAD / 2 / work) + 1);
}

int32_t product_pack(struct hop_rt *rt, const struct product *p)
{
    const struct product_kernel *kernel = product_kernel(p->c_dtype);
    struct job j = { .kernel = kernel, .cols = columns_of(p, kernel), .depth = p->k };
    _Static_assert(HOP_RT_PANEL_COLUMNS % 32 == 0, "whole panels of every kernel");
    j.cols.whole = rounded_up(p->n, kernel->cols);
    j.cols.panels = p->c;
    int64_t n = n_panels(&j.cols), each = kernel->cols * p->k;
    if ((double)n * (double)each < WORTH_A_THREAD / COST_PACK) return pack_some(rt, &j, 0, n);
    return rt->parallel(rt, pack_some, &j, n, HOP_MAX((int64_t)WORTH_A_THREAD / COST_PACK / 2 / each, 1));
}
