/* The small functions that emitted C calls, as text. A unit contains those that it uses and no others, so
 * that no compiler warns of the rest. */
#include "emit/c99_impl.h"
#include "ir/angle.h"

struct helper {
    const char *name, *needs; /* needs: other helpers, with spaces between, which stand before it */
    const char *text;         /* NULL: angle_far_text */
};

#define LESS_MORE(T, C) \
    { "min_" #T, NULL, "static inline " C " hop_min_" #T "(" C " a, " C " b) { return a < b ? a : b; }\n" }, \
        { "max_" #T, NULL, \
          "static inline " C " hop_max_" #T "(" C " a, " C " b) { return a > b ? a : b; }\n" }
/* NaN wins from either side. No short cut, so that loops with it are vectorised. */
#define LESS_MORE_FLOAT(T, C) \
    { "min_" #T, NULL, \
      "static inline " C " hop_min_" #T "(" C " a, " C " b) { return ((a != a) | (a < b)) ? a : b; }\n" }, \
        { "max_" #T, NULL, \
          "static inline " C " hop_max_" #T "(" C " a, " C \
          " b) { return ((a != a) | (a > b)) ? a : b; }\n" }
#define SIGNED(T, C, U) \
    { "abs_" #T, NULL, \
      "static inline " C " hop_abs_" #T "(" C " a) { return (" C ")(a < 0 ? (" C ")((" U ")0 - (" U \
      ")a) : a); }\n" }, \
        { "div_" #T, NULL, \
          "static inline " C " hop_div_" #T "(" C " a, " C " b) { return b == 0 ? 0 : b == -1 ? (" C ")((" U \
          ")0 - (" U ")a) : (" C ")(a / b); }\n" }, \
        { "rem_" #T, NULL, \
          "static inline " C " hop_rem_" #T "(" C " a, " C " b) { return b == 0 ? a : b == -1 ? 0 : (" C \
          ")(a % b); }\n" }
#define BITS(T, C, U) \
    { "bits_of_" #T, NULL, \
      "static inline " U " hop_bits_of_" #T "(" C " x) { " U \
      " r; memcpy(&r, &x, sizeof r); return r; }\n" }, \
        { #T "_of_bits", NULL, \
          "static inline " C " hop_" #T "_of_bits(" U " x) { " C \
          " r; memcpy(&r, &x, sizeof r); return r; }\n" }
/* A fused operation that the machine does not have would be a slow call; rounding twice is as good for
 * numbers that are not strict. */
#define FUSED(T, C, fused, fast) \
    { "fma_" #T, NULL, \
      "static inline " C " hop_fma_" #T "(" C " a, " C " b, " C " c)\n{\n#if defined(" fast \
      ") || defined(__FMA__)\n    return " fused "(a, b, c);\n#else\n    return a * b + c;\n#endif\n}\n" }
#define FOLD(F, T, C, needs, combined) \
    { "fold_" #F "_" #T, needs, \
      "static inline " C " hop_fold_" #F "_" #T "(const " C " *lanes)\n{\n    " C \
      " x[16];\n    for (int j = 0; j < 16; j++) x[j] = lanes[j];\n" \
      "    for (int w = 8; w; w /= 2)\n        for (int j = 0; j < w; j++) x[j] = " combined \
      ";\n    return x[0];\n}\n" }
#define SATURATED(T, C, above, below, most, least) \
    { "to_" #T, NULL, \
      "static inline " C " hop_to_" #T "(double x) { return x != x ? 0 : x >= " above " ? " most \
      " : x <= " below " ? " least " : (" C ")x; }\n" }
#define BITS_FOLDS(T, C) \
    FOLD(and, T, C, NULL, "(" C ")(x[j] & x[j + w])"), FOLD(or, T, C, NULL, "(" C ")(x[j] | x[j + w])")
#define EXTREME_FOLDS(T, C) \
    FOLD(max, T, C, "max_" #T, "hop_max_" #T "(x[j], x[j + w])"), \
        FOLD(min, T, C, "min_" #T, "hop_min_" #T "(x[j], x[j + w])")
#define WHOLE(T, C, U) \
    LESS_MORE(T, C), EXTREME_FOLDS(T, C), BITS_FOLDS(T, C), \
        FOLD(sum, T, C, NULL, "(" C ")((" U ")x[j] + (" U ")x[j + w])"), \
        FOLD(prod, T, C, NULL, "(" C ")((" U ")x[j] * (" U ")x[j + w])")
#define UNSIGNED(T, C) \
    { "div_" #T, NULL, \
      "static inline " C " hop_div_" #T "(" C " a, " C " b) { return (" C ")(b ? a / b : 0u); }\n" }, \
        { "rem_" #T, NULL, \
          "static inline " C " hop_rem_" #T "(" C " a, " C " b) { return (" C ")(b ? a % b : a); }\n" }
#define REAL(T, C) \
    LESS_MORE_FLOAT(T, C), EXTREME_FOLDS(T, C), FOLD(sum, T, C, NULL, "x[j] + x[j + w]"), \
        FOLD(prod, T, C, NULL, "x[j] * x[j + w]")

static const struct helper helpers[] = {
    WHOLE(i8, "int8_t", "uint32_t"),
    WHOLE(i16, "int16_t", "uint32_t"),
    WHOLE(i32, "int32_t", "uint32_t"),
    WHOLE(i64, "int64_t", "uint64_t"),
    WHOLE(u8, "uint8_t", "uint32_t"),
    WHOLE(u16, "uint16_t", "uint32_t"),
    WHOLE(u32, "uint32_t", "uint32_t"),
    WHOLE(u64, "uint64_t", "uint64_t"),
    SIGNED(i8, "int8_t", "uint32_t"),
    SIGNED(i16, "int16_t", "uint32_t"),
    SIGNED(i32, "int32_t", "uint32_t"),
    SIGNED(i64, "int64_t", "uint64_t"),
    UNSIGNED(u8, "uint8_t"),
    UNSIGNED(u16, "uint16_t"),
    UNSIGNED(u32, "uint32_t"),
    UNSIGNED(u64, "uint64_t"),
    REAL(f32, "float"),
    REAL(f64, "double"),
    { "popcount", NULL,
      "static inline int hop_popcount(uint64_t x)\n{\n"
      "    x -= (x >> 1) & 0x5555555555555555u;\n"
      "    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);\n"
      "    return (int)((((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu) * 0x0101010101010101u) >> 56);\n}\n" },
    { "clz", "popcount",
      "static inline int hop_clz(uint64_t x)\n{\n    for (int n = 1; n < 64; n *= 2) x |= x >> n;\n    "
      "return 64 - hop_popcount(x);\n}\n" },
    { "floordiv", NULL,
      "static inline int64_t hop_floordiv(int64_t a, int64_t b) { return a / b - (a % b < 0); }\n" },
    { "mod", NULL,
      "static inline int64_t hop_mod(int64_t a, int64_t b) { const int64_t r = a % b; return r < 0 ? r + b : "
      "r; }\n" },
    { "size_div", NULL,
      "static inline int64_t hop_size_div(int64_t a, int64_t b) { return b == 0 ? 0 : a / b - (a % b != 0 && "
      "(a < 0) != (b < 0)); }\n" },
    { "size_mod", "size_div",
      "static inline int64_t hop_size_mod(int64_t a, int64_t b) { return a - hop_size_div(a, b) * b; }\n" },
    SATURATED(i8, "int8_t", "128.0", "-129.0", "INT8_MAX", "INT8_MIN"),
    SATURATED(i16, "int16_t", "32768.0", "-32769.0", "INT16_MAX", "INT16_MIN"),
    SATURATED(i32, "int32_t", "2147483648.0", "-2147483649.0", "INT32_MAX", "INT32_MIN"),
    SATURATED(i64, "int64_t", "9223372036854775808.0", "-9223372036854775808.0", "INT64_MAX", "INT64_MIN"),
    SATURATED(u8, "uint8_t", "256.0", "0", "UINT8_MAX", "0"),
    SATURATED(u16, "uint16_t", "65536.0", "0", "UINT16_MAX", "0"),
    SATURATED(u32, "uint32_t", "4294967296.0", "0", "UINT32_MAX", "0"),
    SATURATED(u64, "uint64_t", "18446744073709551616.0", "0", "UINT64_MAX", "0"),
    BITS(f32, "float", "uint32_t"),
    BITS(f64, "double", "uint64_t"),
    { "far", "bits_of_f64 f64_of_bits", NULL }, /* angle_far_text */
    /* f16: below 2^-14 an f32 whose last bit stands for 2^-24 does the rounding. */
    { "f16_to_f32", "bits_of_f32 f32_of_bits",
      "static inline float hop_f16_to_f32(uint16_t h)\n"
      "{\n"
      "    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;\n"
      "    const uint32_t tiny = hop_bits_of_f32(hop_f32_of_bits(rest + 0x38800000u) - 6.103515625e-05f), "
      "whole = rest > 0x007fffffu ? rest + 0x38000000u : tiny;\n"
      "    const uint32_t large = rest > 0x0f800000u ? rest | 0x7fc00000u : 0x7f800000u;\n"
      "    return hop_f32_of_bits(sign | (rest > 0x0f7fffffu ? large : whole));\n"
      "}\n" },
    { "f32_to_f16", "bits_of_f32 f32_of_bits",
      "static inline uint16_t hop_f32_to_f16(float x)\n"
      "{\n"
      "    const uint32_t u = hop_bits_of_f32(x), sign = u >> 16 & 0x8000u, rest = u & 0x7fffffffu;\n"
      "    const uint32_t normal = (rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u) >> 13, tiny = "
      "hop_bits_of_f32(hop_f32_of_bits(rest) + 0.5f) - 0x3f000000u;\n"
      "    const uint32_t large = rest > 0x7f800000u ? 0x7e00u | (rest >> 13 & 0x3ffu) : 0x7c00u, whole = "
      "rest > 0x387fffffu ? normal : tiny;\n"
      "    return (uint16_t)(sign | (rest > 0x477fffffu ? large : whole));\n"
      "}\n" },
    { "bf16_to_f32", "f32_of_bits",
      "static inline float hop_bf16_to_f32(uint16_t h) { return hop_f32_of_bits((uint32_t)h << 16); }\n" },
    { "f32_to_bf16", "bits_of_f32",
      "static inline uint16_t hop_f32_to_bf16(float x)\n"
      "{\n"
      "    const uint32_t u = hop_bits_of_f32(x), rounded = u + 0x7fffu + (u >> 16 & 1u);\n"
      "    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : rounded >> 16);\n"
      "}\n" },
    FOLD(and, bool, "int", NULL, "x[j] & x[j + w]"),
    FOLD(or, bool, "int", NULL, "x[j] | x[j + w]"),
    FOLD(min, bool, "int", NULL, "x[j] & x[j + w]"),
    FOLD(max, bool, "int", NULL, "x[j] | x[j + w]"),
    FUSED(f32, "float", "fmaf", "FP_FAST_FMAF"),
    FUSED(f64, "double", "fma", "FP_FAST_FMA"),
    { "grow", NULL,
      "/* Room for at least `want` elements, contents kept; NULL when there is none. */\n"
      "static void *hop_grow(struct hop_c_context *context, void *block, int64_t *room, int64_t want, size_t "
      "size)\n"
      "{\n"
      "    int64_t more = *room > INT64_MAX / 4 ? want : 2 * *room;\n"
      "    if (more < want) more = want;\n"
      "    if (more < 16) more = 16;\n"
      "    if (!context || !context->resize || (uint64_t)more > SIZE_MAX / 2 / size) return NULL;\n"
      "    block = context->resize(context->user, block, (size_t)more * size);\n"
      "    if (block) *room = more;\n"
      "    return block;\n"
      "}\n" },
    { "find", "grow",
      "/* Memory for a result whose size its operator finds. */\n"
      "struct hop_c_growing {\n"
      "    void *at;\n"
      "    int64_t room;\n"
      "    int fixed;\n"
      "    size_t size; /* of an element; 0: its size is known */\n"
      "    int64_t *dims;\n"
      "    const int *found; /* per dim: the number of the size, -1: it is known */\n"
      "};\n"
      "struct hop_c_finding {\n"
      "    struct hop_c_context *context;\n"
      "    struct hop_operator_array *arrays;\n"
      "    void **data;\n"
      "    struct hop_c_growing *results;\n"
      "    int64_t *found;\n"
      "    int first, n, wrong, status;\n"
      "};\n"
      "static void *hop_find(struct hop_operator_call *call, int result, const int64_t *dims)\n"
      "{\n"
      "    struct hop_c_finding *f = call->host;\n"
      "    int64_t count = 1;\n"
      "    f->wrong = 1;\n"
      "    if (result < 0 || result >= f->n || !f->results[result].size || !dims) return NULL;\n"
      "    struct hop_c_growing *g = &f->results[result];\n"
      "    struct hop_operator_array *a = &f->arrays[f->first + result];\n"
      "    if (a->data) return NULL;\n"
      "    for (int32_t d = 0; d < a->rank; d++) {\n"
      "        int64_t *known = g->found[d] < 0 ? &g->dims[d] : &f->found[g->found[d]];\n"
      "        if (dims[d] < 0 || (*known >= 0 && *known != dims[d])) return NULL;\n"
      "        if (dims[d] && count > INT64_MAX / 16 / dims[d]) return NULL;\n"
      "        *known = dims[d];\n"
      "        count *= dims[d];\n"
      "    }\n"
      "    f->wrong = 0;\n"
      "    for (int32_t d = 0; d < a->rank; d++) g->dims[d] = dims[d];\n"
      "    if (count > g->room && g->fixed) {\n"
      "        f->status = HOP_C_CAPACITY;\n"
      "        return NULL;\n"
      "    }\n"
      "    if (!g->fixed && (!g->at || count > g->room)) {\n"
      "        void *const grown = hop_grow(f->context, g->at, &g->room, count, g->size);\n"
      "        f->status = grown ? HOP_C_OK : HOP_C_NOMEM;\n"
      "        if (!grown) return NULL;\n"
      "        g->at = grown;\n"
      "    }\n"
      "    a->data = g->at;\n"
      "    f->data[f->first + result] = g->at;\n"
      "    return g->at;\n"
      "}\n" },
    { "all_found", "find",
      "static int hop_all_found(const struct hop_c_finding *f)\n"
      "{\n"
      "    if (f->wrong || f->status != HOP_C_OK) return 1;\n"
      "    for (int k = 0; k < f->n; k++)\n"
      "        if (f->results[k].size && !f->arrays[f->first + k].data) return 1;\n"
      "    return 0;\n"
      "}\n" },
    { "not_finite", NULL,
      "/* 1: element i is a NaN, 2: it is infinite. */\n"
      "static int hop_not_finite(const struct hop_c_value *v, int64_t i)\n"
      "{\n"
      "    if (v->dtype == HOP_C_F32 || v->dtype == HOP_C_F64) {\n"
      "        const double x = v->dtype == HOP_C_F32 ? (double)((const float *)v->data)[i] : "
      "((const double *)v->data)[i];\n"
      "        return x != x ? 1 : x - x != 0 ? 2 : 0;\n"
      "    }\n"
      "    const int top = v->dtype == HOP_C_F16 ? 0x7c00 : 0x7f80;\n"
      "    const int bits = ((const uint16_t *)v->data)[i] & 0x7fff;\n"
      "    return bits > top ? 1 : bits == top ? 2 : 0;\n"
      "}\n" },
    { "made", "not_finite",
      "/* 1: an operator made a NaN, 2: an infinity. v: the mask of lanes if there is one, the value, what "
      "it was "
      "made of. */\n"
      "static int hop_made(const struct hop_c_value *v, int n, int masked, int lane_dims, int each, int "
      "infinities)\n"
      "{\n"
      "    const uint8_t *const mask = masked ? v[0].data : NULL;\n"
      "    const struct hop_c_value *const value = v + masked;\n"
      "    int64_t count = 1, lanes = 1;\n"
      "    for (int d = 0; d < value->rank; d++) {\n"
      "        count *= value->dims[d];\n"
      "        if (d < lane_dims) lanes *= value->dims[d];\n"
      "    }\n"
      "    for (int64_t i = 0; i < count; i++) {\n"
      "        const int64_t lane = i / (count / lanes);\n"
      "        const int kind = mask && !mask[lane] ? 0 : hop_not_finite(value, i);\n"
      "        int before = 0;\n"
      "        if (!kind || (kind == 2 && !infinities)) continue;\n"
      "        for (const struct hop_c_value *x = value + 1; x < v + n; x++) {\n"
      "            int64_t size = 1, from = 0, to;\n"
      "            int alike = x->rank >= lane_dims;\n"
      "            for (int d = 0; d < x->rank; d++) size *= x->dims[d];\n"
      "            for (int d = 0; alike && d < lane_dims; d++) alike = x->dims[d] == value->dims[d];\n"
      "            if (!size) continue;\n"
      "            if (each) from = i % size;\n"
      "            else if (alike) from = lane * (size / lanes);\n"
      "            to = each ? from + 1 : alike ? from + size / lanes : size;\n"
      "            for (int64_t k = from; k < to; k++) before |= hop_not_finite(x, k);\n"
      "        }\n"
      "        if (kind == 1 ? !(before & 1) : !before) return kind;\n"
      "    }\n"
      "    return 0;\n"
      "}\n" },
};
_Static_assert(HOP_COUNT(helpers) <= C99_MOST_HELPERS, "a unit has a flag for every helper");

const char *c99_helper(struct c99_unit *unit, const char *name)
{
    for (size_t i = 0; i < HOP_COUNT(helpers); i++) {
        if (strcmp(helpers[i].name, name)) continue;
        unit->helpers[i] = true;
        for (const char *at = helpers[i].needs; at && *at;) {
            size_t n = strcspn(at, " ");
            c99_helper(unit, arena_printf(unit->arena, "%.*s", (int)n, at));
            at += n + (at[n] == ' ');
        }
        return arena_printf(unit->arena, "hop_%s", name);
    }
    hop_throw(HOP_INTERNAL, "C99: there is no helper '%s'", name);
}

/* A definition that was written on one line, with lines: blocks are those behind a parenthesis or `else`,
 * other braces are values. */
static void put_lines(struct text *out, const char *s)
{
    enum { DEEPEST = 16 };
    bool block[DEEPEST] = { false };
    int depth = 0, inside = 0, blocks = 0;
    char last = ')';
    for (; *s; s++) {
        bool ends = false;
        if (*s == '(') inside++;
        if (*s == ')') inside--;
        if (*s == '{' && depth < DEEPEST) {
            ends = last == ')' || last == 'e';
            block[depth++] = ends;
            blocks += ends;
        }
        if (*s == '}' && depth) {
            ends = block[--depth];
            blocks -= ends;
            if (ends && s[1] == ' ' && s[2] == 'e') ends = false; /* else */
        }
        text_bytes(out, s, 1);
        if (*s != ' ') last = *s;
        if (!ends && !(*s == ';' && !inside)) continue;
        while (s[1] == ' ') s++;
        text_add(out, "\n%*s", 4 * (s[1] == '}' ? blocks - 1 : blocks), "");
    }
}

void c99_helpers_text(const struct c99_unit *unit, struct text *out)
{
    for (size_t i = 0; i < HOP_COUNT(helpers); i++) {
        const char *name = arena_printf(unit->arena, "hop_%s", helpers[i].name);
        if (!unit->helpers[i] || c99_word_of(unit->dialect, name, strlen(name))) continue;
        if (helpers[i].text) text_str(out, helpers[i].text);
        else put_lines(out, angle_far_text);
    }
}
