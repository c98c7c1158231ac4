/* The small functions that emitted C calls, as text. A unit contains those that it uses and no others, so that no compiler warns of the rest. */
#include "emit/c99_impl.h"

struct helper {
    const char *name, *needs; /* needs: another helper, which stands before it */
    const char *text;
};

#define LESS_MORE(T, C) \
    { "min_" #T, NULL, "static inline " C " hop_min_" #T "(" C " a, " C " b) { return a < b ? a : b; }\n" }, \
    { "max_" #T, NULL, "static inline " C " hop_max_" #T "(" C " a, " C " b) { return a > b ? a : b; }\n" }
/* NaN wins from either side. No short cut, so that loops with it are vectorised. */
#define LESS_MORE_FLOAT(T, C) \
    { "min_" #T, NULL, "static inline " C " hop_min_" #T "(" C " a, " C " b) { return ((a != a) | (a < b)) ? a : b; }\n" }, \
    { "max_" #T, NULL, "static inline " C " hop_max_" #T "(" C " a, " C " b) { return ((a != a) | (a > b)) ? a : b; }\n" }
#define SIGNED(T, C, U) \
    { "abs_" #T, NULL, "static inline " C " hop_abs_" #T "(" C " a) { return a < 0 ? (" C ")((" U ")0 - (" U ")a) : a; }\n" }, \
    { "div_" #T, NULL, "static inline " C " hop_div_" #T "(" C " a, " C " b) { return b == 0 ? 0 : b == -1 ? (" C ")((" U ")0 - (" U ")a) : a / b; }\n" }, \
    { "rem_" #T, NULL, "static inline " C " hop_rem_" #T "(" C " a, " C " b) { return b == 0 ? a : b == -1 ? 0 : a % b; }\n" }
#define BITS(T, C, U) \
    { "bits_of_" #T, NULL, "static inline " U " hop_bits_of_" #T "(" C " x) { " U " r; memcpy(&r, &x, sizeof r); return r; }\n" }, \
    { #T "_of_bits", NULL, "static inline " C " hop_" #T "_of_bits(" U " x) { " C " r; memcpy(&r, &x, sizeof r); return r; }\n" }
/* A fused operation that the machine does not have would be a slow call; rounding twice is as good for numbers that are not strict. */
#define FUSED(T, C, fused, fast) \
    { "fma_" #T, NULL, \
      "static inline " C " hop_fma_" #T "(" C " a, " C " b, " C " c)\n{\n#ifdef " fast "\n    return " fused "(a, b, c);\n#else\n    return a * b + c;\n#endif\n}\n" }
#define FOLD(F, T, C, needs, combined) \
    { "fold_" #F "_" #T, needs, \
      "static inline " C " hop_fold_" #F "_" #T "(const " C " *lanes)\n{\n    " C " x[16];\n    for (int j = 0; j < 16; j++) x[j] = lanes[j];\n" \
      "    for (int w = 8; w; w /= 2)\n        for (int j = 0; j < w; j++) x[j] = " combined ";\n    return x[0];\n}\n" }
/* Four rows of C at a time over a tile of B; the tile is packed, so that a transposed B is read along its rows only once. Each element of C takes its
 * products in ascending order. */
#define GEMM(T, C) \
    { "gemm_" #T, NULL, \
      "static void hop_gemm_" #T "(int ta, int tb, int64_t m, int64_t n, int64_t k, const " C " *a, int64_t lda, const " C " *b, int64_t ldb, " C " *c, int64_t ldc, int accumulate)\n" \
      "{\n" \
      "    enum { TILE = 64 };\n" \
      "    " C " tile[TILE * TILE];\n" \
      "    const int64_t down = ta ? 1 : lda, along = ta ? lda : 1;\n" \
      "    for (int64_t i = 0; !accumulate && i < m; i++)\n" \
      "        for (int64_t j = 0; j < n; j++) c[i * ldc + j] = 0;\n" \
      "    for (int64_t p0 = 0; p0 < k; p0 += TILE)\n" \
      "        for (int64_t j0 = 0; j0 < n; j0 += TILE) {\n" \
      "            const int64_t np = k - p0 < TILE ? k - p0 : TILE, nj = n - j0 < TILE ? n - j0 : TILE;\n" \
      "            for (int64_t p = 0; p < np; p++)\n" \
      "                for (int64_t j = 0; j < nj; j++) tile[p * TILE + j] = tb ? b[(j0 + j) * ldb + p0 + p] : b[(p0 + p) * ldb + j0 + j];\n" \
      "            for (int64_t i = 0; i < m; i += 4) {\n" \
      "                const int64_t last = m - 1 - i, r1 = last < 1 ? last : 1, r2 = last < 2 ? last : 2, r3 = last < 3 ? last : 3;\n" \
      "                " C " row[4][TILE];\n" \
      "                const " C " *at = a + i * down + p0 * along;\n" \
      "                for (int64_t r = 0; r < 4; r++)\n" \
      "                    for (int64_t j = 0; j < nj; j++) row[r][j] = r <= last ? c[(i + r) * ldc + j0 + j] : 0;\n" \
      "                for (int64_t p = 0; p < np; p++) {\n" \
      "                    const " C " *from = tile + p * TILE;\n" \
      "                    const " C " x0 = at[p * along], x1 = at[r1 * down + p * along], x2 = at[r2 * down + p * along], x3 = at[r3 * down + p * along];\n" \
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
      "}\n" }

static const struct helper helpers[] = {
    LESS_MORE(i32, "int32_t"), LESS_MORE(i64, "int64_t"), LESS_MORE(u32, "uint32_t"), LESS_MORE_FLOAT(f32, "float"), LESS_MORE_FLOAT(f64, "double"),
    SIGNED(i32, "int32_t", "uint32_t"), SIGNED(i64, "int64_t", "uint64_t"),
    { "div_u32", NULL, "static inline uint32_t hop_div_u32(uint32_t a, uint32_t b) { return b ? a / b : 0u; }\n" },
    { "rem_u32", NULL, "static inline uint32_t hop_rem_u32(uint32_t a, uint32_t b) { return b ? a % b : a; }\n" },
    { "floordiv", NULL, "static inline int64_t hop_floordiv(int64_t a, int64_t b) { return a / b - (a % b < 0); }\n" },
    { "mod", NULL, "static inline int64_t hop_mod(int64_t a, int64_t b) { const int64_t r = a % b; return r < 0 ? r + b : r; }\n" },
    { "size_div", NULL, "static inline int64_t hop_size_div(int64_t a, int64_t b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0)); }\n" },
    { "size_mod", "size_div", "static inline int64_t hop_size_mod(int64_t a, int64_t b) { return a - hop_size_div(a, b) * b; }\n" },
    { "to_i32", NULL, "static inline int32_t hop_to_i32(double x) { return x != x ? 0 : x >= 2147483648.0 ? INT32_MAX : x < -2147483648.0 ? INT32_MIN : (int32_t)x; }\n" },
    { "to_i64", NULL, "static inline int64_t hop_to_i64(double x) { return x != x ? 0 : x >= 9223372036854775808.0 ? INT64_MAX : x < -9223372036854775808.0 ? INT64_MIN : (int64_t)x; }\n" },
    { "to_u32", NULL, "static inline uint32_t hop_to_u32(double x) { return x != x || x <= 0 ? 0u : x >= 4294967296.0 ? UINT32_MAX : (uint32_t)x; }\n" },
    BITS(f32, "float", "uint32_t"), BITS(f64, "double", "uint64_t"),
    FOLD(sum, f32, "float", NULL, "x[j] + x[j + w]"), FOLD(sum, f64, "double", NULL, "x[j] + x[j + w]"), FOLD(sum, u32, "uint32_t", NULL, "x[j] + x[j + w]"),
    FOLD(sum, i32, "int32_t", NULL, "(int32_t)((uint32_t)x[j] + (uint32_t)x[j + w])"), FOLD(sum, i64, "int64_t", NULL, "(int64_t)((uint64_t)x[j] + (uint64_t)x[j + w])"),
    FOLD(max, f32, "float", "max_f32", "hop_max_f32(x[j], x[j + w])"), FOLD(min, f32, "float", "min_f32", "hop_min_f32(x[j], x[j + w])"),
    FOLD(max, f64, "double", "max_f64", "hop_max_f64(x[j], x[j + w])"), FOLD(min, f64, "double", "min_f64", "hop_min_f64(x[j], x[j + w])"),
    FOLD(max, i32, "int32_t", "max_i32", "hop_max_i32(x[j], x[j + w])"), FOLD(min, i32, "int32_t", "min_i32", "hop_min_i32(x[j], x[j + w])"),
    FOLD(max, i64, "int64_t", "max_i64", "hop_max_i64(x[j], x[j + w])"), FOLD(min, i64, "int64_t", "min_i64", "hop_min_i64(x[j], x[j + w])"),
    FOLD(max, u32, "uint32_t", "max_u32", "hop_max_u32(x[j], x[j + w])"), FOLD(min, u32, "uint32_t", "min_u32", "hop_min_u32(x[j], x[j + w])"),
    FOLD(and, bool, "int", NULL, "x[j] & x[j + w]"), FOLD(or, bool, "int", NULL, "x[j] | x[j + w]"),
    FOLD(min, bool, "int", NULL, "x[j] & x[j + w]"), FOLD(max, bool, "int", NULL, "x[j] | x[j + w]"),
    FOLD(and, i32, "int32_t", NULL, "x[j] & x[j + w]"), FOLD(or, i32, "int32_t", NULL, "x[j] | x[j + w]"),
    FOLD(and, i64, "int64_t", NULL, "x[j] & x[j + w]"), FOLD(or, i64, "int64_t", NULL, "x[j] | x[j + w]"),
    FOLD(and, u32, "uint32_t", NULL, "x[j] & x[j + w]"), FOLD(or, u32, "uint32_t", NULL, "x[j] | x[j + w]"),
    FUSED(f32, "float", "fmaf", "FP_FAST_FMAF"), FUSED(f64, "double", "fma", "FP_FAST_FMA"),
    { "grow", NULL,
      "/* Room for at least `want` elements, contents kept; NULL when there is none. */\n"
      "static void *hop_grow(struct hop_c_context *context, void *block, int64_t *room, int64_t want, size_t size)\n"
      "{\n"
      "    int64_t more = *room > INT64_MAX / 4 ? want : 2 * *room;\n"
      "    if (more < want) more = want;\n"
      "    if (more < 16) more = 16;\n"
      "    if (!context || !context->resize || (uint64_t)more > SIZE_MAX / 2 / size) return NULL;\n"
      "    block = context->resize(context->user, block, (size_t)more * size);\n"
      "    if (block) *room = more;\n"
      "    return block;\n"
      "}\n" },
    GEMM(f32, "float"), GEMM(f64, "double"),
};
_Static_assert(HOP_COUNT(helpers) <= C99_MOST_HELPERS, "a unit has a flag for every helper");

const char *c99_helper(struct c99_unit *unit, const char *name)
{
    for (size_t i = 0; i < HOP_COUNT(helpers); i++) {
        if (strcmp(helpers[i].name, name)) continue;
        unit->helpers[i] = true;
        if (helpers[i].needs) c99_helper(unit, helpers[i].needs);
        return arena_printf(unit->arena, "hop_%s", name);
    }
    hop_throw(HOP_INTERNAL, "C99: there is no helper '%s'", name);
}

void c99_helpers_text(const struct c99_unit *unit, struct text *out)
{
    for (size_t i = 0; i < HOP_COUNT(helpers); i++)
        if (unit->helpers[i]) text_str(out, helpers[i].text);
}
