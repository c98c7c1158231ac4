/* Lines of products whose matrix is read where it lies and brought to f32 on the way, for one dtype and one
 * kind of processor. Included by product_lines.c with
 *   NAME(x)   the names of what is defined here
 *   T         an element of the matrix
 *   LANES     elements of a vector of f32; VECTORS: so many are summed at a time across lines
 *   SUM       what sums along a line of the matrix are left in: float, or int32_t where they are whole
 *   WIDEN(from)   a vector of elements; ONE(x): an element
 *   TARGET    attributes of functions: what the processor has */

typedef float NAME(vector) __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

/* `steps` lines of the matrix from depth t on, times as many elements of each row: of so many vectors. */
TARGET static inline __attribute__((always_inline)) void NAME(add_some)(const struct lines *w, int rows,
                                                                        int steps, int vectors, int64_t t,
                                                                        int64_t j)
{
    const T *b = (const T *)w->matrix + t * w->apart + j;
    const float *x = w->x + t;
    int64_t apart = w->apart, x_row = w->x_row, sums_row = w->sums_row;
    NAME(vector) s[LINE_ROWS][VECTORS] = { { { 0 } } };
    for (int i = 0; t && i < rows; i++)
        for (int v = 0; v < vectors; v++)
            s[i][v] = *(const NAME(vector) *)(w->sums + i * sums_row + j + v * LANES);
    UNROLLED
    for (int u = 0; u < steps; u++, b += apart) {
        NAME(vector) y[VECTORS];
        UNROLLED
        for (int v = 0; v < vectors; v++) y[v] = WIDEN(b + v * LANES);
        __builtin_prefetch(b + steps * apart, 0, 2);
        UNROLLED
        for (int i = 0; i < rows; i++) {
            UNROLLED
            for (int v = 0; v < vectors; v++) s[i][v] += x[i * x_row + u] * y[v];
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++) {
        UNROLLED
        for (int v = 0; v < vectors; v++) *(NAME(vector) *)(w->sums + i * sums_row + j + v * LANES) = s[i][v];
    }
}

TARGET static inline __attribute__((always_inline)) void NAME(add_lines)(const struct lines *w, int rows,
                                                                         int steps, int64_t t)
{
    int64_t j = 0;
    for (; j + VECTORS * LANES <= w->n; j += VECTORS * LANES) NAME(add_some)(w, rows, steps, VECTORS, t, j);
    for (; j + LANES <= w->n; j += LANES) NAME(add_some)(w, rows, steps, 1, t, j);
    for (; j < w->n; j++)
        for (int i = 0; i < rows; i++) {
            float *sum = w->sums + i * w->sums_row + j, s = t ? *sum : 0;
            for (int u = 0; u < steps; u++)
                s += w->x[i * w->x_row + t + u] * ONE(((const T *)w->matrix)[(t + u) * w->apart + j]);
            *sum = s;
        }
}

TARGET static inline __attribute__((always_inline)) void NAME(across_of)(const struct lines *w, int rows)
{
    int64_t t = 0;
    for (; t + LINES_AT_ONCE <= w->depth; t += LINES_AT_ONCE) NAME(add_lines)(w, rows, LINES_AT_ONCE, t);
    for (; t < w->depth; t++) NAME(add_lines)(w, rows, 1, t);
}

/* sums[i, j] = sum over t of x[i, t] matrix[t, j]. */
TARGET static void NAME(across)(const struct lines *w)
{
    _Static_assert(LINE_ROWS == 3, "a case for each");
    switch (w->rows) {
    case 1: NAME(across_of)(w, 1); break;
    case 2: NAME(across_of)(w, 2); break;
    default: NAME(across_of)(w, 3); break;
    }
}

/* The sums of one row of x and `lines` lines of the matrix from line j on. */
TARGET static inline __attribute__((always_inline)) void NAME(dots_of)(const struct lines *w, int lines,
                                                                       int64_t i, int64_t j)
{
    NAME(vector) s[DOT_LINES][2] = { { { 0 } } };
    const T *b = (const T *)w->matrix + j * w->apart;
    const float *x = w->x + i * w->x_row;
    int64_t t = 0;
    for (; t + 2 * LANES <= w->depth; t += 2 * LANES) {
        NAME(vector) first = *(const NAME(vector) *)(x + t), second = *(const NAME(vector) *)(x + t + LANES);
        UNROLLED
        for (int l = 0; l < lines; l++) {
            const T *at = b + l * w->apart + t;
            s[l][0] += WIDEN(at) * first;
            s[l][1] += WIDEN(at + LANES) * second;
        }
    }
    UNROLLED
    for (int l = 0; l < lines; l++) {
        SUM sum = 0;
        for (int e = 0; e < LANES; e++) sum += (SUM)s[l][0][e] + (SUM)s[l][1][e];
        for (int64_t u = t; u < w->depth; u++) sum += (SUM)(ONE(b[l * w->apart + u]) * x[u]);
        ((SUM *)w->sums)[i * w->sums_row + j + l] = sum;
    }
}

/* sums[i, j] = sum over t of x[i, t] matrix[j, t]. */
TARGET static void NAME(along)(const struct lines *w)
{
    int64_t j = 0;
    for (; j + DOT_LINES <= w->n; j += DOT_LINES)
        for (int i = 0; i < w->rows; i++) NAME(dots_of)(w, DOT_LINES, i, j);
    for (; j < w->n; j++)
        for (int i = 0; i < w->rows; i++) NAME(dots_of)(w, 1, i, j);
}

static const struct line_kernel NAME(kernel) = { NAME(across), NAME(along) };
#undef NAME
#undef T
#undef SUM
#undef WIDEN
#undef ONE
