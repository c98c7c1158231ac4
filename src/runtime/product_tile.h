/* The innermost part of products, for one dtype and one kind of processor. Included by product_kernels.c with
 *   NAME(x)   the names of what is defined here
 *   T         the dtype
 *   LANES     elements of a vector
 *   ROWS      rows of a tile, which has two vectors in each: as many as registers hold
 *   TARGET    attributes of functions: what the processor has
 * Every element is one chain of multiplications and additions in the order of the depth, whichever tile it is
 * in, so that results do not depend on where a product is cut. */

typedef T NAME(vector) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));

/* A tile of `rows` rows and 1 or 2 vectors; these and what follows are numbers wherever it can be. */
TARGET static inline __attribute__((always_inline)) void NAME(tile_of)(const struct tile *w, int rows,
                                                                       int vectors, int64_t a_row,
                                                                       int64_t a_step, int64_t b_step, T *to,
                                                                       int64_t to_row, bool add)
{
    NAME(vector) s[ROWS][2] = { { { 0 } } };
    const T *a = w->a, *b = w->b;
    int64_t depth = w->depth;
    for (int64_t t = 0; t < depth; t++, a += a_step, b += b_step) {
        NAME(vector) first = *(const NAME(vector) *)b, second = first;
        if (vectors == 2) second = *(const NAME(vector) *)(b + LANES);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            T x = a[i * a_row];
            s[i][0] += x * first;
            if (vectors == 2) s[i][1] += x * second;
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        NAME(vector) *at = (NAME(vector) *)(to + i * to_row);
        if (add) s[i][0] += at[0];
        at[0] = s[i][0];
        if (vectors == 2 && add) s[i][1] += at[1];
        if (vectors == 2) at[1] = s[i][1];
    }
}

/* A tile of any size, from anywhere. */
TARGET static void NAME(any_tile)(const struct tile *w, T *to, int64_t to_row, bool add)
{
    bool narrow = w->cols <= LANES;
#define CASE(r, vectors) \
    case (r) * 2 - 2 + (vectors): \
        NAME(tile_of)(w, HOP_MIN(r, ROWS), vectors, w->a_row, w->a_step, w->b_step, to, to_row, add); \
        break
#define CASES(r) \
    CASE(r, 1); \
    CASE(r, 2)
    switch (w->rows * 2 - narrow) {
        CASES(1);
        CASES(2);
        CASES(3);
        CASES(4);
#if ROWS > 4
        CASES(5);
        CASES(6);
#endif
#if ROWS > 6
        CASES(7);
        CASES(8);
        CASES(9);
        CASES(10);
        CASES(11);
        CASES(12);
#endif
    }
#undef CASES
#undef CASE
}

TARGET static void NAME(tile)(const struct tile *w)
{
    T room[ROWS * 2 * LANES];
    bool straight = w->c_col == 1 && (w->cols == LANES || w->cols == 2 * LANES), add = straight && w->add;
    T *to = straight ? w->c : room;
    int64_t to_row = straight ? w->c_row : 2 * LANES;
    bool is_packed = w->a_row == 1 && w->a_step == ROWS && w->b_step == 2 * LANES;
    if (is_packed && w->rows == ROWS && w->cols > LANES)
        NAME(tile_of)(w, ROWS, 2, 1, ROWS, 2 * LANES, to, to_row, add);
    else NAME(any_tile)(w, to, to_row, add);
    if (straight) return;
    for (int i = 0; i < w->rows; i++)
        for (int j = 0; j < w->cols; j++) {
            T *c = (T *)w->c + i * w->c_row + j * w->c_col;
            *c = w->add ? *c + room[i * 2 * LANES + j] : room[i * 2 * LANES + j];
        }
}

/* Panels of `width` lines beside each other, one after the other; zeros where there are no more lines. */
TARGET static void NAME(pack)(void *panels, const void *lines, int64_t n, int64_t along, int64_t depth,
                              int64_t step, int64_t width)
{
    T *to = panels;
    const T *from = lines;
    for (int64_t i = 0; i < n; i += width, from += width * along, to += width * depth) {
        int64_t some = HOP_MIN(width, n - i);
        if (some < width) memset(to, 0, (size_t)(width * depth) * sizeof(T));
        if (along == 1)
            for (int64_t t = 0; t < depth; t++)
                memcpy(to + t * width, from + t * step, (size_t)some * sizeof(T));
        else
            for (int64_t t = 0; t < depth; t += PACK_DEPTH) {
                int64_t end = HOP_MIN(t + PACK_DEPTH, depth);
                for (int64_t j = 0; j < some; j++)
                    for (int64_t u = t; u < end; u++) to[u * width + j] = from[j * along + u * step];
            }
    }
}

/* ---- one row, or one column ---- */

/* c[j] = sum over t of x[t] b[t, j] for `vectors` vectors of columns. */
TARGET static inline __attribute__((always_inline)) void NAME(row_of)(const struct tile *w, int vectors,
                                                                      int64_t j)
{
    NAME(vector) s[ROW_VECTORS] = { { 0 } };
    const T *x = w->a, *b = (const T *)w->b + j;
    T *c = (T *)w->c + j;
    for (int64_t t = 0; t < w->depth; t++, b += w->b_step) {
        UNROLLED
        for (int v = 0; v < vectors; v++) s[v] += x[t] * *(const NAME(vector) *)(b + v * LANES);
    }
    UNROLLED
    for (int v = 0; v < vectors; v++) {
        NAME(vector) *at = (NAME(vector) *)(c + v * LANES);
        if (w->add) s[v] += *at;
        *at = s[v];
    }
}

/* A row of C, whose columns lie beside each other in B, from column lo up to hi. */
TARGET static void NAME(row)(const struct tile *w, int64_t lo, int64_t hi)
{
    int64_t j = lo;
    for (; j + ROW_VECTORS * LANES <= hi; j += ROW_VECTORS * LANES) NAME(row_of)(w, ROW_VECTORS, j);
    for (; j + LANES <= hi; j += LANES) NAME(row_of)(w, 1, j);
    for (; j < hi; j++) {
        const T *x = w->a, *b = (const T *)w->b + j;
        T *c = (T *)w->c + j, s = 0;
        for (int64_t t = 0; t < w->depth; t++) s += x[t] * b[t * w->b_step];
        *c = w->add ? *c + s : s;
    }
}

/* c[i] = sum over t of a[i, t] x[t] for `rows` rows, whose elements lie beside each other. */
TARGET static inline __attribute__((always_inline)) void NAME(dots_of)(const struct tile *w, int rows,
                                                                       int64_t i)
{
    NAME(vector) s[DOT_ROWS][2] = { { { 0 } } };
    const T *a = (const T *)w->a + i * w->a_row, *x = w->b;
    int64_t t = 0;
    for (; t + 2 * LANES <= w->depth; t += 2 * LANES) {
        NAME(vector) first = *(const NAME(vector) *)(x + t), second = *(const NAME(vector) *)(x + t + LANES);
        UNROLLED
        for (int r = 0; r < rows; r++) {
            s[r][0] += *(const NAME(vector) *)(a + r * w->a_row + t) * first;
            s[r][1] += *(const NAME(vector) *)(a + r * w->a_row + t + LANES) * second;
        }
    }
    UNROLLED
    for (int r = 0; r < rows; r++) {
        T sum = 0, *c = (T *)w->c + (i + r) * w->c_row;
        s[r][0] += s[r][1];
        for (int l = 0; l < LANES; l++) sum += s[r][0][l];
        for (int64_t u = t; u < w->depth; u++) sum += a[r * w->a_row + u] * x[u];
        *c = w->add ? *c + sum : sum;
    }
}

/* A column of C, from row lo up to hi. */
TARGET static void NAME(column)(const struct tile *w, int64_t lo, int64_t hi)
{
    int64_t i = lo;
    for (; i + DOT_ROWS <= hi; i += DOT_ROWS) NAME(dots_of)(w, DOT_ROWS, i);
    for (; i < hi; i++) NAME(dots_of)(w, 1, i);
}

static const struct product_kernel NAME(kernel) = { .size = sizeof(T),
                                                    .rows = ROWS,
                                                    .cols = 2 * LANES,
                                                    .tile = NAME(tile),
                                                    .pack = NAME(pack),
                                                    .row = NAME(row),
                                                    .column = NAME(column) };
#undef NAME
#undef T
#undef LANES
#undef ROWS
