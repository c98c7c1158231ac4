/* Products of matrices in emitted C, as text: by CBLAS where whoever compiles asks for it, in vector types
 * where there are some (tiles of C in registers, panels of B and rows of A packed), else as plain loops over
 * packed tiles of B. Each element of C takes its products in ascending order. */
#include "emit/c99_vector.h"

/* What is written for one element type: D is the vector, T the element, S its name. */
#define CBLAS(S, T, letter) \
    "#ifdef HOP_USE_CBLAS\n" \
    "static void hop_gemm_" S "(int ta, int tb, int64_t m, int64_t n, int64_t k, const " T \
    " *a, int64_t lda, const " T " *b, int64_t ldb, " T " *c, int64_t ldc, int accumulate)\n" \
    "{\n" \
    "    cblas_" letter \
    "gemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, " \
    "(int)m, (int)n, (int)k, 1, a, (int)lda, b, (int)ldb, accumulate, c, (int)ldc);\n" \
    "}\n"

#define VECTORS(S, T, D, W, columns) \
    "#elif HOP_VECTOR_BYTES\n" \
    "/* R rows of C and V vectors of each; a is read at [r * down + p * along]. */\n" \
    "HOP_VECTOR_FN void hop_tile_" S "(const int R, const int V, int64_t np, const " T \
    " *a, int64_t down, int64_t along, const " T " *b, int64_t ldb, " T " *c, int64_t ldc, int64_t nj, int " \
    "first)\n" \
    "{\n" \
    "    hop_" D " sum[HOP_TILE_ROWS][2], y[2] = { { 0 }, { 0 } };\n" \
    "    HOP_UNROLL for (int r = 0; r < R; r++)\n" \
    "        HOP_UNROLL for (int v = 0; v < V; v++)\n" \
    "            sum[r][v] = first ? hop_set_" D "(0) : hop_part_" D "(c + r * ldc + v * " W \
    ", hop_rest(nj - v * " W ", " W "));\n" \
    "    HOP_ROLLED for (int64_t p = 0; p < np; p++) {\n" \
    "        HOP_UNROLL for (int v = 0; v < V; v++) y[v] = hop_load_" D "(b + p * ldb + v * " W ");\n" \
    "        HOP_UNROLL for (int r = 0; r < R; r++) {\n" \
    "            const hop_" D " x = hop_set_" D "(a[r * down + p * along]);\n" \
    "            HOP_UNROLL for (int v = 0; v < V; v++) sum[r][v] = hop_fma_" D "(x, y[v], sum[r][v]);\n" \
    "        }\n" \
    "    }\n" \
    "    HOP_UNROLL for (int r = 0; r < R; r++)\n" \
    "        HOP_UNROLL for (int v = 0; v < V; v++)\n" \
    "            hop_store_part_" D "(c + r * ldc + v * " W ", sum[r][v], hop_rest(nj - v * " W ", " W \
    "));\n" \
    "}\n" \
    "#define HOP_TILE(R) \\\n" \
    "    static __attribute__((noinline)) void hop_tile_" S "_##R(int64_t np, const " T \
    " *a, int64_t down, int64_t along, const " T " *b, int64_t ldb, " T \
    " *c, int64_t ldc, int64_t nj, int first) \\\n" \
    "    { \\\n" \
    "        if (nj > " W ") hop_tile_" S "(R, 2, np, a, down, along, b, ldb, c, ldc, nj, first); \\\n" \
    "        else hop_tile_" S "(R, 1, np, a, down, along, b, ldb, c, ldc, nj, first); \\\n" \
    "    }\n" \
    "HOP_TILE(1)\n" \
    "HOP_TILE(2)\n" \
    "HOP_TILE(4)\n" \
    "HOP_TILE(6)\n" \
    "#if HOP_TILE_ROWS == 12\n" \
    "HOP_TILE(12)\n" \
    "#endif\n" \
    "#undef HOP_TILE\n" \
    "static inline void hop_rows_" S "(int rows, int64_t np, const " T \
    " *a, int64_t down, int64_t along, const " T " *b, int64_t ldb, " T \
    " *c, int64_t ldc, int64_t nj, int first)\n" \
    "{\n" \
    "    switch (rows) {\n" \
    "    case 1: hop_tile_" S "_1(np, a, down, along, b, ldb, c, ldc, nj, first); return;\n" \
    "    case 2: hop_tile_" S "_2(np, a, down, along, b, ldb, c, ldc, nj, first); return;\n" \
    "    case 4: hop_tile_" S "_4(np, a, down, along, b, ldb, c, ldc, nj, first); return;\n" \
    "    case 6: hop_tile_" S "_6(np, a, down, along, b, ldb, c, ldc, nj, first); return;\n" \
    "#if HOP_TILE_ROWS == 12\n" \
    "    default: hop_tile_" S "_12(np, a, down, along, b, ldb, c, ldc, nj, first);\n" \
    "#endif\n" \
    "    }\n" \
    "}\n" \
    "static void hop_gemm_" S "(int ta, int tb, int64_t m, int64_t n, int64_t k, const " T \
    " *a, int64_t lda, const " T " *b, int64_t ldb, " T " *c, int64_t ldc, int accumulate)\n" \
    "{\n" \
    "    enum { DEEP = 128, WIDE = " columns ", STRIP = 2 * " W ", APART = DEEP + 2 * " W " };\n" \
    "    " T " panels[DEEP * WIDE], rows_of_a[HOP_TILE_ROWS * APART];\n" \
    "    const int64_t down = ta ? 1 : lda, along = ta ? lda : 1;\n" \
    "    /* Few rows read B once or twice: it is not worth packing, but where its columns are not whole. " \
    "*/\n" \
    "    const int64_t beside = !tb && m <= 2 * HOP_TILE_ROWS ? n / STRIP * STRIP : 0;\n" \
    "    for (int64_t i = 0; i < m;) {\n" \
    "        const int rows = hop_tile_rows(m - i);\n" \
    "        for (int64_t j = 0; j < beside; j += STRIP)\n" \
    "            hop_rows_" S \
    "(rows, k, a + i * down, down, along, b + j, ldb, c + i * ldc + j, ldc, STRIP, " \
    "!accumulate);\n" \
    "        i += rows;\n" \
    "    }\n" \
    "    for (int64_t j0 = beside; j0 < n; j0 += WIDE)\n" \
    "        for (int64_t p0 = 0; p0 < k || p0 == 0; p0 += DEEP) {\n" \
    "            const int64_t np = k - p0 < DEEP ? k - p0 : DEEP, nj = n - j0 < WIDE ? n - j0 : WIDE;\n" \
    "            const int first = !accumulate && p0 == 0;\n" \
    "            for (int64_t j = 0; j < nj; j += STRIP)\n" \
    "                for (int64_t p = 0; p < np; p++) {\n" \
    "                    " T " *const to = panels + j * DEEP + p * STRIP;\n" \
    "                    const int64_t here = nj - j < STRIP ? nj - j : STRIP;\n" \
    "                    const " T \
    " *const from = tb ? b + (j0 + j) * ldb + p0 + p : b + (p0 + p) * ldb + j0 + " \
    "j;\n" \
    "                    if (!tb && here == STRIP) memcpy(to, from, STRIP * sizeof *to);\n" \
    "                    else\n" \
    "                        for (int64_t q = 0; q < STRIP; q++) to[q] = q < here ? from[tb ? q * ldb : q] " \
    ": 0;\n" \
    "                }\n" \
    "            for (int64_t i = 0; i < m;) {\n" \
    "                const int rows = hop_tile_rows(m - i);\n" \
    "                const " T " *of = a + i * down + p0 * along;\n" \
    "                const int copies = !ta && nj > STRIP; /* rows that are far apart meet in the cache " \
    "*/\n" \
    "                for (int64_t r = 0; copies && r < rows; r++) memcpy(rows_of_a + r * APART, of + r * " \
    "lda, " \
    "(size_t)np * sizeof *of);\n" \
    "                if (copies) of = rows_of_a;\n" \
    "                for (int64_t j = 0; j < nj; j += STRIP)\n" \
    "                    hop_rows_" S "(rows, np, of, copies ? APART : down, along, panels + j * DEEP, " \
    "STRIP, c + i * ldc + j0 + j, ldc, nj - j, first);\n" \
    "                i += rows;\n" \
    "            }\n" \
    "        }\n" \
    "}\n"

/* Four rows of C at a time over a tile of B; the tile is packed, so that a transposed B is read along its
 * rows only once. */
#define PLAIN(S, T) \
    "static void hop_gemm_" S "(int ta, int tb, int64_t m, int64_t n, int64_t k, $buffer const " T \
    " *a, int64_t lda, $buffer const " T " *b, int64_t ldb, $buffer " T \
    " *c, int64_t ldc, int accumulate)\n" \
    "{\n" \
    "    enum { TILE = 64 };\n" \
    "    " T " tile[TILE * TILE];\n" \
    "    const int64_t down = ta ? 1 : lda, along = ta ? lda : 1;\n" \
    "    for (int64_t i = 0; !accumulate && i < m; i++)\n" \
    "        for (int64_t j = 0; j < n; j++) c[i * ldc + j] = 0;\n" \
    "    for (int64_t p0 = 0; p0 < k; p0 += TILE)\n" \
    "        for (int64_t j0 = 0; j0 < n; j0 += TILE) {\n" \
    "            const int64_t np = k - p0 < TILE ? k - p0 : TILE, nj = n - j0 < TILE ? n - j0 : TILE;\n" \
    "            for (int64_t p = 0; p < np; p++)\n" \
    "                for (int64_t j = 0; j < nj; j++) tile[p * TILE + j] = tb ? b[(j0 + j) * ldb + p0 + " \
    "p] : b[(p0 + p) * ldb + j0 + j];\n" \
    "            for (int64_t i = 0; i < m; i += 4) {\n" \
    "                const int64_t last = m - 1 - i, r1 = last < 1 ? last : 1, r2 = last < 2 ? last : 2, " \
    "r3 = last < 3 ? last : 3;\n" \
    "                " T " row[4][TILE];\n" \
    "                $buffer const " T " *at = a + i * down + p0 * along;\n" \
    "                for (int64_t r = 0; r < 4; r++)\n" \
    "                    for (int64_t j = 0; j < nj; j++) row[r][j] = r <= last ? c[(i + r) * ldc + j0 + " \
    "j] : 0;\n" \
    "                for (int64_t p = 0; p < np; p++) {\n" \
    "                    const " T " *from = tile + p * TILE;\n" \
    "                    const " T " x0 = at[p * along], x1 = at[r1 * down + p * along], x2 = at[r2 * " \
    "down + p * along], x3 = at[r3 * down + p * along];\n" \
    "                    for (int64_t j = 0; j < nj; j++) {\n" \
    "                        row[0][j] += x0 * from[j];\n" \
    "                        row[1][j] += x1 * from[j];\n" \
    "                        row[2][j] += x2 * from[j];\n" \
    "                        row[3][j] += x3 * from[j];\n" \
    "                    }\n" \
    "                }\n" \
    "                for (int64_t r = 0; r < 4 && r <= last; r++)\n" \
    "                    for (int64_t j = 0; j < nj; j++) c[(i + r) * ldc + j0 + j] = row[r][j];\n" \
    "            }\n" \
    "        }\n" \
    "}\n"

static const char shared[] =
    "#if !defined(HOP_USE_CBLAS) && HOP_VECTOR_BYTES\n"
    "#ifdef __clang__\n"
    "#define HOP_UNROLL _Pragma(\"clang loop unroll(full)\")\n"
    "#define HOP_ROLLED _Pragma(\"clang loop unroll(disable)\") /* all registers are taken */\n"
    "#else\n"
    "#define HOP_UNROLL _Pragma(\"GCC unroll 16\")\n"
    "#define HOP_ROLLED\n"
    "#endif\n"
    "#if HOP_VECTOR_BYTES == 64\n"
    "#define HOP_TILE_ROWS 12\n"
    "#else\n"
    "#define HOP_TILE_ROWS 6\n"
    "#endif\n"
    "/* Rows of a tile: as many as there are kernels for. */\n"
    "static inline int hop_tile_rows(int64_t left)\n"
    "{\n"
    "    return left >= HOP_TILE_ROWS ? HOP_TILE_ROWS : left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;\n"
    "}\n"
    "#endif\n";

static const char plain_f32[] = PLAIN("f32", "float"), plain_f64[] = PLAIN("f64", "double");
static const char cblas_f32[] = CBLAS("f32", "float", "s"), cblas_f64[] = CBLAS("f64", "double", "d");
static const char vectors_f32[] = VECTORS("f32", "float", "f32a", "HOP_LANES_A", "128");
static const char vectors_f64[] = VECTORS("f64", "double", "f64b", "HOP_LANES_B", "64");

const char *c99_product(struct c99_unit *unit, enum dtype t)
{
    bool single = t == DT_F32, vectors = unit->dialect->vectors;
    unit->products[!single] = true;
    unit->has_vectors |= vectors;
    if (vectors) c99_use_vector(unit, t, single ? WIDE_A : WIDE_B);
    return single ? "hop_gemm_f32" : "hop_gemm_f64";
}

void c99_product_text(const struct c99_unit *unit, struct text *out)
{
    static const char *const plain[] = { plain_f32, plain_f64 }, *const wide[] = { vectors_f32, vectors_f64 };
    static const char *const cblas[] = { cblas_f32, cblas_f64 };
    const struct c99_dialect *d = unit->dialect;
    bool any = unit->products[0] || unit->products[1];
    if (any && d->cblas) text_str(out, "#ifdef HOP_USE_CBLAS\n#include <cblas.h>\n#endif\n");
    if (any && d->vectors) text_str(out, shared);
    for (int i = 0; i < 2; i++) {
        if (!unit->products[i]) continue;
        if (d->cblas) text_str(out, cblas[i]);
        if (d->vectors) text_str(out, wide[i]);
        if (d->cblas) text_str(out, "#else\n");
        text_str(out, plain[i]);
        if (d->cblas) text_str(out, "#endif\n");
    }
}
