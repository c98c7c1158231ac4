/* The innermost part of products, for one dtype and one kind of processor. Included by product_kernels.c with
 *   NAME(x)   the names of what is defined here
 *   T         the dtype
 *   LANES     elements of a vector
 *   ROWS      rows of a tile, which has two vectors in each: as many as registers hold
 *   TURN_SQUARE(x)   transposes a square of elements, whose rows have 16 bytes
 *   TARGET    attributes of functions: what the processor has
 *   PART_LOAD(from, n), PART_STORE(to, x, n)   the first n elements of a vector, zeros for the others; where
 *             the processor can
 * Every element is one chain of multiplications and additions in the order of the depth, whichever tile it is
 * in, so that results do not depend on where a product is cut. */

typedef T NAME(vector) __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));

TARGET static inline __attribute__((always_inline)) NAME(vector) NAME(load)(const T *from, int n)
{
#ifdef PART_LOAD
    return PART_LOAD(from, n);
#else
    NAME(vector) x = { 0 };
    for (int i = 0; i < n; i++) x[i] = from[i];
    return x;
#endif
}
TARGET static inline __attribute__((always_inline)) void NAME(store)(T *to, NAME(vector) x, int n)
{
#ifdef PART_STORE
    PART_STORE(to, x, n);
#else
    for (int i = 0; i < n; i++) to[i] = x[i];
#endif
}

/* The number in every lane: less zero it is itself, whatever it is. */
TARGET static inline __attribute__((always_inline)) NAME(vector) NAME(spread)(T x)
{
    return x - (NAME(vector)){ 0 };
}

/* A tile of `rows` rows and 1 or 2 vectors; these and what follows are numbers wherever it can be. */
TARGET static inline __attribute__((always_inline)) void NAME(tile_of)(const struct tile *w, int rows,
                                                                       int vectors, bool part, int64_t a_row,
                                                                       int64_t a_step, int64_t b_step, T *to,
                                                                       int64_t to_row, bool add)
{
    NAME(vector) s[ROWS][2] = { { { 0 } } };
    const T *a = w->a, *b = w->b;
    int64_t depth = w->depth;
    int some = w->cols - (vectors - 1) * LANES; /* in the last vector */
    for (int64_t t = 0; t < depth; t++, a += a_step, b += b_step) {
        NAME(vector) first = part && vectors == 1 ? NAME(load)(b, some) : *(const NAME(vector) *)b;
        NAME(vector) second = first;
        if (vectors == 2) second = part ? NAME(load)(b + LANES, some) : *(const NAME(vector) *)(b + LANES);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            NAME(vector) x = NAME(spread)(a[i * a_row]);
            s[i][0] += x * first;
            if (vectors == 2) s[i][1] += x * second;
            STILL_NEEDED(x);
        }
        STILL_NEEDED(first);
        STILL_NEEDED(second);
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        T *at = to + i * to_row, *last = at + (vectors - 1) * LANES;
        if (vectors == 2 && add) s[i][0] += *(NAME(vector) *)at;
        if (vectors == 2) *(NAME(vector) *)at = s[i][0];
        NAME(vector) sum = s[i][vectors - 1];
        if (add) sum += some == LANES ? *(NAME(vector) *)last : NAME(load)(last, some);
        if (some == LANES) *(NAME(vector) *)last = sum;
        else NAME(store)(last, sum, some);
    }
}

/* A tile of any size, from anywhere. */
TARGET static inline __attribute__((always_inline)) void NAME(any_tile)(const struct tile *w, bool part,
                                                                        T *to, int64_t to_row, bool add)
{
    bool narrow = w->cols <= LANES;
#define CASE(r, vectors) \
    case (r) * 2 - 2 + (vectors): \
        NAME(tile_of)(w, HOP_MIN(r, ROWS), vectors, part, w->a_row, w->a_step, w->b_step, to, to_row, add); \
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
TARGET static __attribute__((noinline)) void NAME(whole_tile)(const struct tile *w, T *to, int64_t to_row,
                                                              bool add)
{
    NAME(any_tile)(w, false, to, to_row, add);
}
TARGET static __attribute__((noinline)) void NAME(part_tile)(const struct tile *w, T *to, int64_t to_row,
                                                             bool add)
{
    NAME(any_tile)(w, true, to, to_row, add);
}

/* Four lines, four elements of each at a time; of f64 two and two. `add`: to what is there. */
#define SQUARE (16 / (int)sizeof(T))
typedef T NAME(square) __attribute__((vector_size(16), aligned(sizeof(T)), may_alias));
TARGET static inline __attribute__((always_inline)) void NAME(turn_square)(T *to, int64_t width,
                                                                           const T *from, int64_t along,
                                                                           bool add)
{
    NAME(square) x[4];
    UNROLLED
    for (int i = 0; i < SQUARE; i++) x[i] = *(const NAME(square) *)(from + i * along);
    TURN_SQUARE(x);
    UNROLLED
    for (int i = 0; i < SQUARE; i++) {
        NAME(square) *at = (NAME(square) *)(to + i * width);
        if (add) x[i] += *at;
        *at = x[i];
    }
}

/* The sums of a tile go to C element by element, or in squares where it lies turned. */
TARGET static void NAME(leave)(const struct tile *w, const T *sums)
{
    int rows = w->c_row == 1 ? w->rows / SQUARE * SQUARE : 0, cols = w->cols / SQUARE * SQUARE;
    for (int j = 0; j < cols; j += SQUARE)
        for (int i = 0; i < rows; i += SQUARE)
            NAME(turn_square)((T *)w->c + j * w->c_col + i, w->c_col, sums + i * 2 * LANES + j, 2 * LANES,
                              w->add);
    for (int i = 0; i < w->rows; i++)
        for (int j = i < rows ? cols : 0; j < w->cols; j++) {
            T *c = (T *)w->c + i * w->c_row + j * w->c_col;
            *c = w->add ? *c + sums[i * 2 * LANES + j] : sums[i * 2 * LANES + j];
        }
}

TARGET static void NAME(tile)(const struct tile *w)
{
    T room[ROWS * 2 * LANES];
    bool straight = w->c_col == 1, add = straight && w->add;
    T *to = straight ? w->c : room;
    int64_t to_row = straight ? w->c_row : 2 * LANES;
    bool is_packed = w->a_row == 1 && w->a_step == ROWS && w->b_whole;
    if (is_packed && w->rows == ROWS && w->cols > LANES)
        NAME(tile_of)(w, ROWS, 2, false, 1, ROWS, 2 * LANES, to, to_row, add);
    else if (w->b_whole || w->cols % LANES == 0) NAME(whole_tile)(w, to, to_row, add);
    else NAME(part_tile)(w, to, to_row, add);
    if (!straight) NAME(leave)(w, room);
}

/* Lines whose elements lie beside each other. */
TARGET static void NAME(turn)(T *to, const T *from, int64_t n, int64_t along, int64_t depth, int64_t width)
{
    int64_t squares = depth / SQUARE * SQUARE, j = 0;
    for (; j + SQUARE <= n; j += SQUARE) {
        const T *lines = from + j * along;
        for (int64_t t = 0; t < squares; t += SQUARE)
            NAME(turn_square)(to + t * width + j, width, lines + t, along, false);
        for (int64_t t = squares; t < depth; t++)
            for (int i = 0; i < SQUARE; i++) to[t * width + j + i] = lines[i * along + t];
    }
    for (; j < n; j++)
        for (int64_t t = 0; t < depth; t++) to[t * width + j] = from[j * along + t];
}

/* Panels of `width` lines beside each other, one after the other; zeros where there are no more lines. */
TARGET static void NAME(pack)(void *panels, const void *lines, int64_t n, int64_t along, int64_t depth,
                              int64_t step, int64_t width, bool is_signed)
{
    HOP_UNUSED(is_signed);
    T *to = panels;
    const T *from = lines;
    for (int64_t i = 0; i < n; i += width, from += width * along, to += width * depth) {
        int64_t some = HOP_MIN(width, n - i);
        if (some < width) memset(to, 0, (size_t)(width * depth) * sizeof(T));
        if (along == 1 && some == 2 * LANES)
            for (int64_t t = 0; t < depth; t++)
                memcpy(to + t * 2 * LANES, from + t * step, 2 * LANES * sizeof(T));
        else if (along == 1)
            for (int64_t t = 0; t < depth; t++)
                memcpy(to + t * width, from + t * step, (size_t)some * sizeof(T));
        else if (step == 1) NAME(turn)(to, from, some, along, depth, width);
        else
            for (int64_t t = 0; t < depth; t++)
                for (int64_t j = 0; j < some; j++) to[t * width + j] = from[j * along + t * step];
    }
}

/* ---- a few rows, or one column ---- */

/* c[i, j] = sum over t of a[i, t] b[t, j] for `rows` rows and `vectors` vectors of columns. */
TARGET static inline __attribute__((always_inline)) void NAME(row_of)(const struct tile *w, int rows,
                                                                      int vectors, int64_t j)
{
    NAME(vector) s[FEW_ROWS][ROW_VECTORS] = { { { 0 } } };
    const T *a = w->a, *b = (const T *)w->b + j / (2 * LANES) * w->b_apart + j % (2 * LANES);
    int64_t depth = w->depth, step = w->b_step, apart = w->b_apart, a_row = w->a_row;
    for (int64_t t = 0; t < depth; t++, b += step) {
        NAME(vector) x[ROW_VECTORS];
        UNROLLED
        for (int v = 0; v < vectors; v++) x[v] = *(const NAME(vector) *)(b + v / 2 * apart + v % 2 * LANES);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            NAME(vector) y = NAME(spread)(a[i * a_row + t]);
            UNROLLED
            for (int v = 0; v < vectors; v++) s[i][v] += y * x[v];
            STILL_NEEDED(y);
        }
        if (rows > 1) { /* one row reads each where it lies */
            UNROLLED
            for (int v = 0; v < vectors; v++) STILL_NEEDED(x[v]);
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        T *c = (T *)w->c + i * w->c_row + j;
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            NAME(vector) *at = (NAME(vector) *)(c + v * LANES);
            if (w->add) s[i][v] += *at;
            *at = s[i][v];
        }
    }
}

/* The same for a stretch of columns that lie beside each other: a few rows of B at a time, so that long runs
 * of each are read; the sums stay in the first cache. */
TARGET static inline __attribute__((always_inline)) void NAME(wide_rows_of)(const struct tile *w, int rows,
                                                                            int64_t lo, int64_t hi)
{
    T sums[FEW_ROWS][WIDE_COLUMNS];
    const T *a = w->a, *b = (const T *)w->b + lo;
    int64_t depth = w->depth, step = w->b_step, a_row = w->a_row, n = hi - lo, t = 0;
    for (; t + ROWS_AT_ONCE <= depth; t += ROWS_AT_ONCE, b += ROWS_AT_ONCE * step)
        for (int64_t j = 0; j < n; j += LANES) {
            NAME(vector) s[FEW_ROWS] = { { 0 } };
            if (t) {
                UNROLLED
                for (int i = 0; i < rows; i++) s[i] = *(const NAME(vector) *)(sums[i] + j);
            }
            UNROLLED
            for (int u = 0; u < ROWS_AT_ONCE; u++) {
                const T *at = b + u * step + j;
                NAME(vector) x = *(const NAME(vector) *)at;
                __builtin_prefetch(at + ROWS_AT_ONCE * step, 0, 2);
                UNROLLED
                for (int i = 0; i < rows; i++) s[i] += NAME(spread)(a[i * a_row + t + u]) * x;
                STILL_NEEDED(x);
            }
            UNROLLED
            for (int i = 0; i < rows; i++) *(NAME(vector) *)(sums[i] + j) = s[i];
        }
    for (int64_t j = 0; j < n; j += LANES) {
        UNROLLED
        for (int i = 0; i < rows; i++) {
            NAME(vector) s = { 0 }, *c = (NAME(vector) *)((T *)w->c + i * w->c_row + lo + j);
            if (t) s = *(const NAME(vector) *)(sums[i] + j);
            for (int64_t u = t; u < depth; u++)
                s += a[i * a_row + u] * *(const NAME(vector) *)(b + (u - t) * step + j);
            if (w->add) s += *c;
            *c = s;
        }
    }
}

/* `rows` rows of C, whose columns lie beside each other in B, or in panels; from column lo, the first of a
 * panel, up to hi. */
TARGET static inline __attribute__((always_inline)) void NAME(rows_of)(const struct tile *w, int rows,
                                                                       int64_t lo, int64_t hi)
{
    int64_t j = lo;
    int most = rows == 1 ? ROW_VECTORS : rows <= PRODUCT_FEW_ROWS ? ROW_VECTORS / 2 : 2;
    for (; !w->b_whole && j + most * LANES <= hi;) {
        int64_t end = HOP_MIN(j + (rows <= 4 ? WIDE_COLUMNS : WIDE_COLUMNS / 2),
                              j + (hi - j) / LANES * LANES);
        NAME(wide_rows_of)(w, rows, j, end);
        j = end;
    }
    for (; j + most * LANES <= hi; j += most * LANES) NAME(row_of)(w, rows, most, j);
    for (; j + 2 * LANES <= hi; j += 2 * LANES) NAME(row_of)(w, rows, 2, j);
    for (; j + LANES <= hi; j += LANES) NAME(row_of)(w, rows, 1, j);
    for (; j < hi; j++)
        for (int i = 0; i < rows; i++) {
            const T *a = (const T *)w->a + i * w->a_row;
            const T *b = (const T *)w->b + j / (2 * LANES) * w->b_apart + j % (2 * LANES);
            T *c = (T *)w->c + i * w->c_row + j, s = 0;
            for (int64_t t = 0; t < w->depth; t++) s += a[t] * b[t * w->b_step];
            if (w->add) s += *c;
            *c = s;
        }
}

TARGET static void NAME(row)(const struct tile *w, int64_t lo, int64_t hi)
{
    _Static_assert(FEW_ROWS == 8, "a case for each");
    switch (w->rows) {
    case 1: NAME(rows_of)(w, 1, lo, hi); break;
    case 2: NAME(rows_of)(w, 2, lo, hi); break;
    case 3: NAME(rows_of)(w, 3, lo, hi); break;
    case 4: NAME(rows_of)(w, 4, lo, hi); break;
    case 5: NAME(rows_of)(w, 5, lo, hi); break;
    case 6: NAME(rows_of)(w, 6, lo, hi); break;
    case 7: NAME(rows_of)(w, 7, lo, hi); break;
    default: NAME(rows_of)(w, 8, lo, hi); break;
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

static const struct product_kernel NAME(kernel) = { .dtype = sizeof(T) == 4 ? DT_F32 : DT_F64,
                                                    .size = sizeof(T),
                                                    .sum_size = sizeof(T),
                                                    .group = 1,
                                                    .rows = ROWS,
                                                    .cols = 2 * LANES,
                                                    .tile = NAME(tile),
                                                    .pack = NAME(pack),
                                                    .row = NAME(row),
                                                    .column = NAME(column) };
#undef NAME
#undef SQUARE
#undef TURN_SQUARE
#undef T
#undef LANES
#undef ROWS
#undef PART_LOAD
#undef PART_STORE
