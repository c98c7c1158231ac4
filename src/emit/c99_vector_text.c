/* The vector types and helpers of emitted C, as text: what holds for all of them, then macros that make the
 * functions of one element type, and a line for each type in use. Names end with the element and the class:
 * `f32a` has as many lanes as there are words of 4 bytes in a vector, `f32b` as many as of 8. */
#include "emit/c99_vector.h"

static const char detection[] =
    "/* Loops are written twice: with the vector types of GCC and clang, and as plain C99 for other "
    "compilers "
    "and\n * machines, or where HOP_PLAIN_C is defined. */\n"
    "#if defined(__GNUC__) && (defined(__clang__) || __GNUC__ >= 9) && !defined(HOP_PLAIN_C)\n"
    "#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)\n"
    "#define HOP_VECTOR_BYTES 64\n"
    "#define HOP_VECTOR_WIDEST 1 /* sixteen lanes are one vector or two; parts of one are loaded at once */\n"
    "#elif defined(__AVX2__)\n"
    "#define HOP_VECTOR_BYTES 32\n"
    "#elif defined(__SSE4_2__) || defined(__aarch64__)\n"
    "#define HOP_VECTOR_BYTES 16\n"
    "#endif\n"
    "#endif\n"
    "#if HOP_VECTOR_BYTES\n"
    "#define HOP_ALIGNED __attribute__((aligned(64))) /* temporaries: no vector lies across cache lines */\n"
    "#else\n"
    "#define HOP_ALIGNED\n"
    "#endif\n"
    "#ifdef __clang__\n"
    "#pragma clang diagnostic ignored \"-Wunused-function\" /* one form or the other calls each */\n"
    "#endif\n\n";

static const char types[] =
    "#if HOP_VECTOR_BYTES\n"
    "enum { HOP_LANES_A = HOP_VECTOR_BYTES / 4, HOP_LANES_B = HOP_VECTOR_BYTES / 8 };\n"
    "#define HOP_VECTOR_FN static inline __attribute__((always_inline, unused))\n"
    "HOP_VECTOR_FN int64_t hop_rest(int64_t left, int64_t most) { return left < 0 ? 0 : left < most ? left : "
    "most; }\n"
    "/* The same to numbers below 2^20. */\n"
    "HOP_VECTOR_FN int32_t hop_near(int64_t x) { return (int32_t)(x < -1048576 ? -1048576 : x > 1048576 ? "
    "1048576 : x); }\n"
    "#define HOP_ANYWHERE ((int64_t)1 << 62) /* no index is as large */\n"
    "#define HOP_VECTOR_TYPE(D, T, N) \\\n"
    "    typedef T hop_##D __attribute__((vector_size(sizeof(T) * (N)))); \\\n"
    "    typedef T hop_at_##D __attribute__((vector_size(sizeof(T) * (N)), aligned(sizeof(T)), "
    "may_alias));\n";

static const char class_types[] = "HOP_VECTOR_TYPE(i8%1$s, int8_t, HOP_LANES_%2$s)\n"
                                  "HOP_VECTOR_TYPE(i16%1$s, int16_t, HOP_LANES_%2$s)\n"
                                  "HOP_VECTOR_TYPE(i32%1$s, int32_t, HOP_LANES_%2$s)\n"
                                  "HOP_VECTOR_TYPE(u8%1$s, uint8_t, HOP_LANES_%2$s)\n"
                                  "HOP_VECTOR_TYPE(u16%1$s, uint16_t, HOP_LANES_%2$s)\n"
                                  "HOP_VECTOR_TYPE(u32%1$s, uint32_t, HOP_LANES_%2$s)\n"
                                  "HOP_VECTOR_TYPE(f16%1$s, uint16_t, HOP_LANES_%2$s)\n"
                                  "HOP_VECTOR_TYPE(bf16%1$s, uint16_t, HOP_LANES_%2$s)\n"
                                  "HOP_VECTOR_TYPE(f32%1$s, float, HOP_LANES_%2$s)\n";
static const char wide_types[] = "HOP_VECTOR_TYPE(i64b, int64_t, HOP_LANES_B)\n"
                                 "HOP_VECTOR_TYPE(u64b, uint64_t, HOP_LANES_B)\n"
                                 "HOP_VECTOR_TYPE(f64b, double, HOP_LANES_B)\n";

/* D: the vector, T: its element, S: integers of its size, M: masks of its class, N: lanes */
static const char base_macro[] =
    "#define HOP_VECTOR_BASE(D, T, S, M, N) \\\n"
    "    HOP_VECTOR_FN hop_##D hop_set_##D(T x) { return x - (hop_##D){ 0 }; } \\\n"
    "    HOP_VECTOR_FN hop_##D hop_load_##D(const T *p) { return *(const hop_at_##D *)p; } \\\n"
    "    HOP_VECTOR_FN void hop_store_##D(T *p, hop_##D x) { *(hop_at_##D *)p = x; } \\\n"
    "    HOP_VECTOR_FN hop_##D hop_step_##D(const T *p, int64_t step, int64_t n) \\\n"
    "    { \\\n"
    "        hop_##D r = { 0 }; \\\n"
    "        for (int l = 0; l < N; l++) \\\n"
    "            if (l < n) r[l] = p[l * step]; \\\n"
    "        return r; \\\n"
    "    } \\\n"
    "    HOP_VECTOR_FN void hop_store_step_##D(T *p, int64_t step, hop_##D x, int64_t n) \\\n"
    "    { \\\n"
    "        for (int l = 0; l < N; l++) \\\n"
    "            if (l < n) p[l * step] = x[l]; \\\n"
    "    } \\\n"
    "    HOP_VECTOR_FN hop_##D hop_select_##D(hop_##M m, hop_##D a, hop_##D b) \\\n"
    "    { \\\n"
    "        const hop_##S k = __builtin_convertvector(m, hop_##S); \\\n"
    "        return (hop_##D)(((hop_##S)a & k) | ((hop_##S)b & ~k)); \\\n"
    "    } \\\n"
    "    HOP_VECTOR_EACH(sum, D, T, N, x + y) HOP_VECTOR_EACH(prod, D, T, N, x * y)\n"
    "/* Lanes onto lanes in halves. */\n"
    "#define HOP_VECTOR_EACH(F, D, T, N, combined) \\\n"
    "    HOP_VECTOR_FN hop_##D hop_both_##F##_##D(hop_##D x, hop_##D y) { return combined; } \\\n"
    "    HOP_VECTOR_FN T hop_fold_##F##_##D(hop_##D x) \\\n"
    "    { \\\n"
    "        HOP_FOLD_##N(hop_both_##F##_##D, x) \\\n"
    "        return x[0]; \\\n"
    "    }\n"
    "#if defined(__clang__) || __GNUC__ >= 12\n"
    "#define HOP_SHUFFLES 1\n"
    "#define HOP_FOLD_2(both, x) x = both(x, __builtin_shufflevector(x, x, 1, 1));\n"
    "#define HOP_FOLD_4(both, x) x = both(x, __builtin_shufflevector(x, x, 2, 3, 2, 3)); x = both(x, "
    "__builtin_shufflevector(x, x, 1, 1, 1, 1));\n"
    "#define HOP_FOLD_8(both, x) x = both(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 4, 5, 6, 7)); x = "
    "both(x, "
    "__builtin_shufflevector(x, x, 2, 3, 2, 3, 2, 3, 2, 3)); x = both(x, __builtin_shufflevector(x, x, 1, 1, "
    "1, 1, "
    "1, 1, 1, 1));\n"
    "#define HOP_FOLD_16(both, x) x = both(x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 8, "
    "9, 10, "
    "11, 12, 13, 14, 15)); x = both(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, "
    "5, 6, "
    "7)); x = both(x, __builtin_shufflevector(x, x, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3)); x = "
    "both(x, "
    "__builtin_shufflevector(x, x, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));\n"
    "#else\n"
    "#define HOP_FOLD(both, x, N) for (int w = N / 2; w; w /= 2) { __typeof__(x) y = x; for (int l = 0; l < "
    "w; l++) "
    "y[l] = x[l + w]; x = both(x, y); }\n"
    "#define HOP_FOLD_2(both, x) HOP_FOLD(both, x, 2)\n"
    "#define HOP_FOLD_4(both, x) HOP_FOLD(both, x, 4)\n"
    "#define HOP_FOLD_8(both, x) HOP_FOLD(both, x, 8)\n"
    "#define HOP_FOLD_16(both, x) HOP_FOLD(both, x, 16)\n"
    "#endif\n"
    "#if HOP_VECTOR_BYTES == 64\n"
    "#define HOP_FOLD_HOP_LANES_A HOP_FOLD_16\n"
    "#define HOP_FOLD_HOP_LANES_B HOP_FOLD_8\n"
    "#elif HOP_VECTOR_BYTES == 32\n"
    "#define HOP_FOLD_HOP_LANES_A HOP_FOLD_8\n"
    "#define HOP_FOLD_HOP_LANES_B HOP_FOLD_4\n"
    "#else\n"
    "#define HOP_FOLD_HOP_LANES_A HOP_FOLD_4\n"
    "#define HOP_FOLD_HOP_LANES_B HOP_FOLD_2\n"
    "#endif\n";

/* Of integers: D's unsigned form U wraps. */
static const char whole_macro[] =
    "#define HOP_VECTOR_WHOLE(D, T, N, S, M) \\\n"
    "    HOP_VECTOR_FN hop_##D hop_range_##D(T first, T step) \\\n"
    "    { \\\n"
    "        hop_##D r = { 0 }; \\\n"
    "        for (int l = 0; l < N; l++) r[l] = (T)l; \\\n"
    "        return hop_set_##D(first) + r * hop_set_##D(step); \\\n"
    "    } \\\n"
    "    HOP_VECTOR_FN hop_##D hop_abs_##D(hop_##D a) { const hop_##D k = (hop_##D)(a < (hop_##D){ 0 }); "
    "return "
    "(a ^ k) - k; } \\\n"
    "    HOP_VECTOR_EACH(min, D, T, N, hop_min_##D(x, y)) HOP_VECTOR_EACH(max, D, T, N, hop_max_##D(x, y)) "
    "\\\n"
    "    HOP_VECTOR_EACH(and, D, T, N, x & y) HOP_VECTOR_EACH(or, D, T, N, x | y)\n"
    "#define HOP_VECTOR_MASK(D, N) \\\n"
    "    HOP_VECTOR_FN hop_##D hop_first_##D(int64_t n) { return (hop_##D)(hop_range_##D(0, 1) < "
    "hop_set_##D(n)); "
    "}\n";

/* Of floats. HOP_FMA_D, HOP_SQRT_D and HOP_ROUND_D are instructions where the machine has them. */
static const char real_macro[] =
    "#define HOP_VECTOR_REAL(D, T, N, S, M, bits) \\\n"
    "    HOP_VECTOR_FN hop_##D hop_abs_##D(hop_##D a) { return (hop_##D)((hop_##S)a & hop_set_##S(bits)); } "
    "\\\n"
    "    HOP_VECTOR_EACH(min, D, T, N, hop_lanes_min_##D(x, y)) "
    "HOP_VECTOR_EACH(max, D, T, N, hop_lanes_max_##D(x, y))\n"
    "#define HOP_VECTOR_LANES(name, D, N, lane) \\\n"
    "    HOP_VECTOR_FN hop_##D name##_##D(hop_##D x) \\\n"
    "    { \\\n"
    "        for (int l = 0; l < N; l++) x[l] = lane(x[l]); \\\n"
    "        return x; \\\n"
    "    }\n"
    "#define HOP_VECTOR_FAR(D, T, N, C) \\\n"
    "    static __attribute__((noinline, cold, unused)) void hop_far_lanes_##D(const hop_flag_##C *k, int "
    "which, "
    "const "
    "hop_##D *x, hop_##D *r) \\\n"
    "    { \\\n"
    "        for (int l = 0; l < N; l++) \\\n"
    "            if (HOP_HAS_LANE(*k, l)) (*r)[l] = (T)hop_far(which, (*x)[l]); \\\n"
    "    } \\\n"
    "    HOP_VECTOR_FN hop_##D hop_far_##D(hop_flag_##C k, int which, hop_##D x, hop_##D near) \\\n"
    "    { \\\n"
    "        if (hop_any_##C(k)) { \\\n"
    "            const hop_flag_##C held = k; \\\n"
    "            const hop_##D of = x; \\\n"
    "            hop_##D r = near; \\\n"
    "            hop_far_lanes_##D(&held, which, &of, &r); \\\n"
    "            return r; \\\n"
    "        } \\\n"
    "        return near; \\\n"
    "    }\n";

/* What processors have and the vector types of compilers have no word for. */
static const char machine[] =
    "typedef long long hop_words __attribute__((vector_size(HOP_VECTOR_BYTES)));\n"
    "#if defined(__AVX512F__) && HOP_VECTOR_BYTES == 64\n"
    "#define HOP_FMA_f32a(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4)\n"
    "#define HOP_FMA_f64b(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4)\n"
    "#define HOP_FMA_f32b(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)\n"
    "#define HOP_ROUND_f32a(x, how) __builtin_ia32_rndscaleps_mask(x, how, x, (unsigned short)-1, 4)\n"
    "#define HOP_ROUND_f64b(x, how) __builtin_ia32_rndscalepd_mask(x, how, x, (unsigned char)-1, 4)\n"
    "#define HOP_ROUND_f32b(x, how) __builtin_ia32_roundps256(x, how)\n"
    "#ifndef __clang__\n"
    "#define HOP_SQRT_f32a(x) __builtin_ia32_sqrtps512_mask(x, x, (unsigned short)-1, 4)\n"
    "#define HOP_SQRT_f64b(x) __builtin_ia32_sqrtpd512_mask(x, x, (unsigned char)-1, 4)\n"
    "#define HOP_SQRT_f32b(x) __builtin_ia32_sqrtps256(x)\n"
    "#endif\n"
    "#define HOP_SOME_4(p, k) __builtin_ia32_loaddqusi512_mask((const int *)(const void *)(p), (hop_i32a){ 0 "
    "}, (unsigned short)(k))\n"
    "#define HOP_SOME_8(p, k) __builtin_ia32_loaddqudi512_mask((const long long *)(const void *)(p), "
    "(hop_words){ 0 }, (unsigned char)(k))\n"
    "#define HOP_STORE_PART_4(p, x, n) __builtin_ia32_storedqusi512_mask((int *)(void *)(p), (hop_i32a)(x), "
    "(unsigned short)((1u << (n)) - 1))\n"
    "#define HOP_STORE_PART_8(p, x, n) __builtin_ia32_storedqudi512_mask((long long *)(void *)(p), "
    "(hop_words)(x), (unsigned char)((1u << (n)) - 1))\n"
    "#define HOP_SOME_f32a(p, k) HOP_SOME_4(p, k)\n"
    "#define HOP_PART_f32a(p, n) HOP_SOME_4(p, (1u << (n)) - 1)\n"
    "#define HOP_STORE_PART_f32a(p, x, n) HOP_STORE_PART_4(p, x, n)\n"
    "#define HOP_SOME_i32a(p, k) HOP_SOME_4(p, k)\n"
    "#define HOP_PART_i32a(p, n) HOP_SOME_4(p, (1u << (n)) - 1)\n"
    "#define HOP_STORE_PART_i32a(p, x, n) HOP_STORE_PART_4(p, x, n)\n"
    "#define HOP_SOME_u32a(p, k) HOP_SOME_4(p, k)\n"
    "#define HOP_PART_u32a(p, n) HOP_SOME_4(p, (1u << (n)) - 1)\n"
    "#define HOP_STORE_PART_u32a(p, x, n) HOP_STORE_PART_4(p, x, n)\n"
    "#define HOP_SOME_f64b(p, k) HOP_SOME_8(p, k)\n"
    "#define HOP_PART_f64b(p, n) HOP_SOME_8(p, (1u << (n)) - 1)\n"
    "#define HOP_STORE_PART_f64b(p, x, n) HOP_STORE_PART_8(p, x, n)\n"
    "#define HOP_SOME_i64b(p, k) HOP_SOME_8(p, k)\n"
    "#define HOP_PART_i64b(p, n) HOP_SOME_8(p, (1u << (n)) - 1)\n"
    "#define HOP_STORE_PART_i64b(p, x, n) HOP_STORE_PART_8(p, x, n)\n"
    "#define HOP_SOME_u64b(p, k) HOP_SOME_8(p, k)\n"
    "#define HOP_PART_u64b(p, n) HOP_SOME_8(p, (1u << (n)) - 1)\n"
    "#define HOP_STORE_PART_u64b(p, x, n) HOP_STORE_PART_8(p, x, n)\n"
    "#define HOP_GATHER_4(p, at, n) __builtin_ia32_gathersiv16si((hop_i32a){ 0 }, p, at, (unsigned "
    "short)((1u << (n)) - 1), 4)\n"
    "#define HOP_GATHER_8(p, at, n) __builtin_ia32_gatherdiv8di((hop_words){ 0 }, p, (hop_words)(at), "
    "(unsigned char)((1u << (n)) - 1), 8)\n"
    "#define HOP_SCATTER_4(p, at, x, n) __builtin_ia32_scattersiv16si(p, (unsigned short)((1u << (n)) - 1), "
    "at, (hop_i32a)(x), 4)\n"
    "#define HOP_SCATTER_8(p, at, x, n) __builtin_ia32_scatterdiv8di(p, (unsigned char)((1u << (n)) - 1), "
    "(hop_words)(at), (hop_words)(x), 8)\n"
    "#define HOP_GATHER_f32a(p, at, n) HOP_GATHER_4(p, at, n)\n"
    "#define HOP_SCATTER_f32a(p, at, x, n) HOP_SCATTER_4(p, at, x, n)\n"
    "#define HOP_GATHER_i32a(p, at, n) HOP_GATHER_4(p, at, n)\n"
    "#define HOP_SCATTER_i32a(p, at, x, n) HOP_SCATTER_4(p, at, x, n)\n"
    "#define HOP_GATHER_u32a(p, at, n) HOP_GATHER_4(p, at, n)\n"
    "#define HOP_SCATTER_u32a(p, at, x, n) HOP_SCATTER_4(p, at, x, n)\n"
    "#define HOP_GATHER_f64b(p, at, n) HOP_GATHER_8(p, at, n)\n"
    "#define HOP_SCATTER_f64b(p, at, x, n) HOP_SCATTER_8(p, at, x, n)\n"
    "#define HOP_GATHER_i64b(p, at, n) HOP_GATHER_8(p, at, n)\n"
    "#define HOP_SCATTER_i64b(p, at, x, n) HOP_SCATTER_8(p, at, x, n)\n"
    "#define HOP_GATHER_u64b(p, at, n) HOP_GATHER_8(p, at, n)\n"
    "#define HOP_SCATTER_u64b(p, at, x, n) HOP_SCATTER_8(p, at, x, n)\n"
    "#define HOP_ANY_i32a(m) __builtin_ia32_cvtd2mask512(m)\n"
    "#define HOP_ANY_i64b(m) __builtin_ia32_cvtq2mask512((hop_words)(m))\n"
    "#elif defined(__AVX2__) && HOP_VECTOR_BYTES == 32\n"
    "#ifdef __FMA__\n"
    "#define HOP_FMA_f32a(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)\n"
    "#define HOP_FMA_f64b(a, b, c) __builtin_ia32_vfmaddpd256(a, b, c)\n"
    "#define HOP_FMA_f32b(a, b, c) __builtin_ia32_vfmaddps(a, b, c)\n"
    "#endif\n"
    "#define HOP_ROUND_f32a(x, how) __builtin_ia32_roundps256(x, how)\n"
    "#define HOP_ROUND_f64b(x, how) __builtin_ia32_roundpd256(x, how)\n"
    "#define HOP_ROUND_f32b(x, how) __builtin_ia32_roundps(x, how)\n"
    "#ifndef __clang__\n"
    "#define HOP_SQRT_f32a(x) __builtin_ia32_sqrtps256(x)\n"
    "#define HOP_SQRT_f64b(x) __builtin_ia32_sqrtpd256(x)\n"
    "#define HOP_SQRT_f32b(x) __builtin_ia32_sqrtps(x)\n"
    "#endif\n"
    "#define HOP_ANY_i32a(m) __builtin_ia32_movmskps256((hop_f32a)(m))\n"
    "#define HOP_ANY_i64b(m) __builtin_ia32_movmskpd256((hop_f64b)(m))\n"
    "#elif defined(__SSE2__)\n"
    "#ifdef __FMA__\n"
    "#define HOP_FMA_f32a(a, b, c) __builtin_ia32_vfmaddps(a, b, c)\n"
    "#define HOP_FMA_f64b(a, b, c) __builtin_ia32_vfmaddpd(a, b, c)\n"
    "#endif\n"
    "#ifdef __SSE4_1__\n"
    "#define HOP_ROUND_f32a(x, how) __builtin_ia32_roundps(x, how)\n"
    "#define HOP_ROUND_f64b(x, how) __builtin_ia32_roundpd(x, how)\n"
    "#endif\n"
    "#ifndef __clang__\n"
    "#define HOP_SQRT_f32a(x) __builtin_ia32_sqrtps(x)\n"
    "#define HOP_SQRT_f64b(x) __builtin_ia32_sqrtpd(x)\n"
    "#endif\n"
    "#define HOP_ANY_i32a(m) __builtin_ia32_movmskps((hop_f32a)(m))\n"
    "#define HOP_ANY_i64b(m) __builtin_ia32_movmskpd((hop_f64b)(m))\n"
    "#endif\n"
    "#if HOP_VECTOR_WIDEST && !defined(__clang__)\n"
    "#define HOP_FLAGS 1\n"
    "typedef unsigned short hop_flag_a;\n"
    "typedef unsigned char hop_flag_b;\n"
    "#define HOP_HAS_LANE(k, l) ((k) >> (l) & 1)\n"
    "#else\n"
    "typedef hop_i32a hop_flag_a;\n"
    "typedef hop_i64b hop_flag_b;\n"
    "#define HOP_HAS_LANE(k, l) (k)[l]\n"
    "#endif\n"
    "#ifdef HOP_FLAGS\n"
    "#define HOP_COMPARE_f32a(x, y, real, whole) (hop_flag_a)__builtin_ia32_cmpps512_mask((x), (y), real, "
    "(hop_flag_a)-1, 4)\n"
    "#define HOP_COMPARE_f64b(x, y, real, whole) (hop_flag_b)__builtin_ia32_cmppd512_mask((x), (y), real, "
    "(hop_flag_b)-1, 4)\n"
    "#define HOP_COMPARE_i32a(x, y, real, whole) (hop_flag_a)__builtin_ia32_cmpd512_mask((hop_i32a)(x), "
    "(hop_i32a)(y), whole, (hop_flag_a)-1)\n"
    "#define HOP_COMPARE_u32a(x, y, real, whole) (hop_flag_a)__builtin_ia32_ucmpd512_mask((hop_i32a)(x), "
    "(hop_i32a)(y), whole, (hop_flag_a)-1)\n"
    "#define HOP_COMPARE_i64b(x, y, real, whole) (hop_flag_b)__builtin_ia32_cmpq512_mask((hop_words)(x), "
    "(hop_words)(y), whole, (hop_flag_b)-1)\n"
    "#define HOP_COMPARE_u64b(x, y, real, whole) (hop_flag_b)__builtin_ia32_ucmpq512_mask((hop_words)(x), "
    "(hop_words)(y), whole, (hop_flag_b)-1)\n"
    "#define HOP_COMPARE_f32b(x, y, real, whole) (hop_flag_b)__builtin_ia32_cmpps256_mask((x), (y), real, "
    "(hop_flag_b)-1)\n"
    "#define HOP_COMPARE_i32b(x, y, real, whole) (hop_flag_b)__builtin_ia32_cmpd256_mask((hop_i32b)(x), "
    "(hop_i32b)(y), whole, (hop_flag_b)-1)\n"
    "#define HOP_COMPARE_u32b(x, y, real, whole) (hop_flag_b)__builtin_ia32_ucmpd256_mask((hop_i32b)(x), "
    "(hop_i32b)(y), whole, (hop_flag_b)-1)\n"
    "#define HOP_PICK_f32a(k, a, b) __builtin_ia32_blendmd_512_mask((hop_i32a)(b), (hop_i32a)(a), k)\n"
    "#define HOP_PICK_f64b(k, a, b) __builtin_ia32_blendmq_512_mask((hop_words)(b), (hop_words)(a), k)\n"
    "#define HOP_PICK_i32a(k, a, b) __builtin_ia32_blendmd_512_mask((hop_i32a)(b), (hop_i32a)(a), k)\n"
    "#define HOP_PICK_u32a(k, a, b) __builtin_ia32_blendmd_512_mask((hop_i32a)(b), (hop_i32a)(a), k)\n"
    "#define HOP_PICK_i64b(k, a, b) __builtin_ia32_blendmq_512_mask((hop_words)(b), (hop_words)(a), k)\n"
    "#define HOP_PICK_u64b(k, a, b) __builtin_ia32_blendmq_512_mask((hop_words)(b), (hop_words)(a), k)\n"
    "#define HOP_PICK_f32b(k, a, b) __builtin_ia32_blendmd_256_mask((hop_i32b)(b), (hop_i32b)(a), k)\n"
    "#define HOP_PICK_i32b(k, a, b) __builtin_ia32_blendmd_256_mask((hop_i32b)(b), (hop_i32b)(a), k)\n"
    "#define HOP_PICK_u32b(k, a, b) __builtin_ia32_blendmd_256_mask((hop_i32b)(b), (hop_i32b)(a), k)\n"
    "/* The first argument where it is no number, else the lesser or the larger; the second one if neither. "
    "*/\n"
    "#define HOP_ORDERED(D, a) HOP_COMPARE_##D(a, a, 7, 0)\n"
    "#define HOP_LEAST_f32a(a, b) __builtin_ia32_minps512_mask(a, b, a, HOP_ORDERED(f32a, a), 4)\n"
    "#define HOP_MOST_f32a(a, b) __builtin_ia32_maxps512_mask(a, b, a, HOP_ORDERED(f32a, a), 4)\n"
    "#define HOP_LEAST_f64b(a, b) __builtin_ia32_minpd512_mask(a, b, a, HOP_ORDERED(f64b, a), 4)\n"
    "#define HOP_MOST_f64b(a, b) __builtin_ia32_maxpd512_mask(a, b, a, HOP_ORDERED(f64b, a), 4)\n"
    "#define HOP_LEAST_f32b(a, b) __builtin_ia32_minps256_mask(a, b, a, HOP_ORDERED(f32b, a))\n"
    "#define HOP_MOST_f32b(a, b) __builtin_ia32_maxps256_mask(a, b, a, HOP_ORDERED(f32b, a))\n"
    "#define HOP_LEAST_i32a(a, b) __builtin_ia32_pminsd512_mask(a, b, a, (hop_flag_a)-1)\n"
    "#define HOP_MOST_i32a(a, b) __builtin_ia32_pmaxsd512_mask(a, b, a, (hop_flag_a)-1)\n"
    "#define HOP_LEAST_i64b(a, b) __builtin_ia32_pminsq512_mask((hop_words)(a), (hop_words)(b), "
    "(hop_words)(a), (hop_flag_b)-1)\n"
    "#define HOP_MOST_i64b(a, b) __builtin_ia32_pmaxsq512_mask((hop_words)(a), (hop_words)(b), "
    "(hop_words)(a), (hop_flag_b)-1)\n"
    "/* Bytes as the integers of a class, and back: compilers convert by lanes what is not half or double. "
    "*/\n"
    "typedef char hop_chars __attribute__((vector_size(16)));\n"
    "typedef long long hop_pair __attribute__((vector_size(16)));\n"
    "#define HOP_WIDENED_a(x) __builtin_ia32_pmovzxbd512_mask((hop_chars)(x), (hop_i32a){ 0 }, "
    "(hop_flag_a)-1)\n"
    "#define HOP_WIDENED_b(x) __builtin_convertvector((hop_i32b)__builtin_ia32_pmovzxbd256("
    "(hop_chars)(hop_pair){ (long long)(x), 0 }), hop_i64b)\n"
    "#define HOP_NARROWED_a(x) (hop_u8a)__builtin_ia32_pmovdb512_mask(x, (hop_chars){ 0 }, (hop_flag_a)-1)\n"
    "#define HOP_NARROWED_b(x) (hop_u8b)((hop_pair)__builtin_ia32_pmovqb512_mask((hop_words)(x), "
    "(hop_chars){ "
    "0 }, (hop_flag_b)-1))[0]\n"
    "#endif\n"
    "#ifdef __clang__\n"
    "#if __has_builtin(__builtin_elementwise_sqrt)\n"
    "#define HOP_SQRT_f32a(x) __builtin_elementwise_sqrt(x)\n"
    "#define HOP_SQRT_f64b(x) __builtin_elementwise_sqrt(x)\n"
    "#define HOP_SQRT_f32b(x) __builtin_elementwise_sqrt(x)\n"
    "#endif\n"
    "#if __has_builtin(__builtin_elementwise_fma) && defined(__ARM_FEATURE_FMA)\n"
    "#define HOP_FMA_f32a(a, b, c) __builtin_elementwise_fma(a, b, c)\n"
    "#define HOP_FMA_f64b(a, b, c) __builtin_elementwise_fma(a, b, c)\n"
    "#define HOP_FMA_f32b(a, b, c) __builtin_elementwise_fma(a, b, c)\n"
    "#endif\n"
    "#endif\n";

/* The first n elements, beside each other or anywhere: D, T, N, M. */
static const char part_functions[] =
    "HOP_VECTOR_FN hop_%1$s hop_gather_%1$s(const %2$s *p, hop_%4$s at, int64_t n)\n"
    "{\n"
    "#ifdef HOP_GATHER_%1$s\n"
    "    return (hop_%1$s)HOP_GATHER_%1$s(p, at, n);\n"
    "#else\n"
    "    hop_%1$s r = { 0 };\n"
    "    for (int l = 0; l < %3$s; l++)\n"
    "        if (l < n) r[l] = p[at[l]];\n"
    "    return r;\n"
    "#endif\n"
    "}\n"
    "HOP_VECTOR_FN void hop_scatter_%1$s(%2$s *p, hop_%4$s at, hop_%1$s x, int64_t n)\n"
    "{\n"
    "#ifdef HOP_SCATTER_%1$s\n"
    "    HOP_SCATTER_%1$s(p, at, x, n);\n"
    "#else\n"
    "    for (int l = 0; l < %3$s; l++)\n"
    "        if (l < n) p[at[l]] = x[l];\n"
    "#endif\n"
    "}\n"
    "HOP_VECTOR_FN hop_%1$s hop_part_%1$s(const %2$s *p, int64_t n)\n"
    "{\n"
    "#ifdef HOP_PART_%1$s\n"
    "    return (hop_%1$s)HOP_PART_%1$s(p, n);\n"
    "#else\n"
    "    return n >= %3$s ? hop_load_%1$s(p) : hop_step_%1$s(p, 1, n);\n"
    "#endif\n"
    "}\n"
    "HOP_VECTOR_FN void hop_store_part_%1$s(%2$s *p, hop_%1$s x, int64_t n)\n"
    "{\n"
    "#ifdef HOP_PART_%1$s\n"
    "    HOP_STORE_PART_%1$s(p, x, n);\n"
    "#else\n"
    "    if (n >= %3$s) hop_store_%1$s(p, x);\n"
    "    else hop_store_step_%1$s(p, 1, x, n);\n"
    "#endif\n"
    "}\n";

/* D, T, N, the class and the functions of libm. */
static const char real_functions[] =
    "#ifdef HOP_FMA_%1$s\n"
    "HOP_VECTOR_FN hop_%1$s hop_fused_%1$s(hop_%1$s a, hop_%1$s b, hop_%1$s c) { return "
    "(hop_%1$s)HOP_FMA_%1$s(a, b, "
    "c); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_fma_%1$s(hop_%1$s a, hop_%1$s b, hop_%1$s c) { return "
    "(hop_%1$s)HOP_FMA_%1$s(a, b, c); "
    "}\n"
    "#else\n"
    "HOP_VECTOR_FN hop_%1$s hop_fused_%1$s(hop_%1$s a, hop_%1$s b, hop_%1$s c)\n"
    "{\n"
    "    for (int l = 0; l < %2$s; l++) a[l] = fma%3$s(a[l], b[l], c[l]);\n"
    "    return a;\n"
    "}\n"
    "#if defined(FP_FAST_FMA%4$s) || defined(__FMA__)\n"
    "HOP_VECTOR_FN hop_%1$s hop_fma_%1$s(hop_%1$s a, hop_%1$s b, hop_%1$s c) { return hop_fused_%1$s(a, b, "
    "c); }\n"
    "#else\n"
    "HOP_VECTOR_FN hop_%1$s hop_fma_%1$s(hop_%1$s a, hop_%1$s b, hop_%1$s c) { return a * b + c; }\n"
    "#endif\n"
    "#endif\n"
    "#ifdef HOP_SQRT_%1$s\n"
    "HOP_VECTOR_FN hop_%1$s hop_sqrt_%1$s(hop_%1$s x) { return (hop_%1$s)HOP_SQRT_%1$s(x); }\n"
    "#else\n"
    "HOP_VECTOR_LANES(hop_sqrt, %1$s, %2$s, sqrt%3$s)\n"
    "#endif\n"
    "#ifdef HOP_ROUND_%1$s\n"
    "HOP_VECTOR_FN hop_%1$s hop_rint_%1$s(hop_%1$s x) { return (hop_%1$s)HOP_ROUND_%1$s(x, 8); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_floor_%1$s(hop_%1$s x) { return (hop_%1$s)HOP_ROUND_%1$s(x, 9); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_ceil_%1$s(hop_%1$s x) { return (hop_%1$s)HOP_ROUND_%1$s(x, 10); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_trunc_%1$s(hop_%1$s x) { return (hop_%1$s)HOP_ROUND_%1$s(x, 11); }\n"
    "#else\n"
    "HOP_VECTOR_LANES(hop_rint, %1$s, %2$s, rint%3$s)\n"
    "HOP_VECTOR_LANES(hop_floor, %1$s, %2$s, floor%3$s)\n"
    "HOP_VECTOR_LANES(hop_ceil, %1$s, %2$s, ceil%3$s)\n"
    "HOP_VECTOR_LANES(hop_trunc, %1$s, %2$s, trunc%3$s)\n"
    "#endif\n";

/* The first n elements from p + start on; lanes before p + low and behind p + high read those: D, T, M, N. */
static const char run_function[] =
    "HOP_VECTOR_FN hop_%1$s hop_run_%1$s(const %2$s *p, int64_t start, int64_t low, int64_t high, int64_t "
    "n)\n"
    "{\n"
    "    if (start >= low && start + (%4$s - 1) <= high && n >= %4$s) return hop_load_%1$s(p + start);\n"
    "#ifdef HOP_PART_%1$s\n"
    "    const int64_t first = hop_rest(low - start, n), end = hop_rest(high + 1 - start, n);\n"
    "    hop_%1$s r = (hop_%1$s)HOP_SOME_%1$s((uintptr_t)p + (uintptr_t)start * sizeof *p, ((1u << end) - 1) "
    "& ~((1u << first) - 1));\n"
    "    if (first > 0) r = hop_select_%1$s(hop_first_%3$s(first), hop_set_%1$s(p[low]), r);\n"
    "    if (end < n) r = hop_select_%1$s(hop_first_%3$s(end), r, hop_set_%1$s(p[high]));\n"
    "#else\n"
    "    hop_%1$s r = { 0 };\n"
    "    for (int l = 0; l < %4$s; l++)\n"
    "        if (l < n) r[l] = p[start + l < low ? low : start + l > high ? high : start + l];\n"
    "#endif\n"
    "    return r;\n"
    "}\n";

/* Comparisons as flags, and choices by them: D, the class, S. */
static const char flag_functions[] =
    "#ifdef HOP_FLAGS\n"
    "#define HOP_VECTOR_FLAG_%1$s(word, op, real, whole) HOP_VECTOR_FN hop_flag_%2$s "
    "hop_##word##_%1$s(hop_%1$s x, "
    "hop_%1$s y) { return HOP_COMPARE_%1$s(x, y, real, whole); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_pick_%1$s(hop_flag_%2$s k, hop_%1$s a, hop_%1$s b) { return "
    "(hop_%1$s)HOP_PICK_%1$s(k, "
    "a, b); }\n"
    "#else\n"
    "#define HOP_VECTOR_FLAG_%1$s(word, op, real, whole) HOP_VECTOR_FN hop_flag_%2$s "
    "hop_##word##_%1$s(hop_%1$s x, "
    "hop_%1$s y) { return __builtin_convertvector((hop_%3$s)(x op y), hop_flag_%2$s); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_pick_%1$s(hop_flag_%2$s k, hop_%1$s a, hop_%1$s b) { return "
    "hop_select_%1$s(k, a, b); "
    "}\n"
    "#endif\n"
    "HOP_VECTOR_FLAG_%1$s(eq, ==, 0, 0)\n"
    "HOP_VECTOR_FLAG_%1$s(ne, !=, 4, 4)\n"
    "HOP_VECTOR_FLAG_%1$s(lt, <, 17, 1)\n"
    "HOP_VECTOR_FLAG_%1$s(le, <=, 18, 2)\n"
    "HOP_VECTOR_FLAG_%1$s(gt, >, 30, 6)\n"
    "HOP_VECTOR_FLAG_%1$s(ge, >=, 29, 5)\n";
/* Masks, which lanes of the class are flagged, and bools in memory: M, N, the class. */
static const char mask_functions[] =
    "HOP_VECTOR_MASK(%1$s, %2$s)\n"
    "HOP_VECTOR_FN int hop_any_%3$s(hop_flag_%3$s k)\n"
    "{\n"
    "#ifdef HOP_FLAGS\n"
    "    return k != 0;\n"
    "#elif defined(HOP_ANY_%1$s)\n"
    "    return HOP_ANY_%1$s(k) != 0;\n"
    "#else\n"
    "    return hop_fold_or_%1$s(k) != 0;\n"
    "#endif\n"
    "}\n"
    "#ifdef HOP_FLAGS\n"
    "#define hop_flags_%3$s(m) HOP_ANY_%1$s(m)\n"
    "HOP_VECTOR_FN hop_%1$s hop_truth_%3$s(hop_u8%3$s x) { return -(hop_%1$s)HOP_WIDENED_%3$s(x); }\n"
    "HOP_VECTOR_FN hop_u8%3$s hop_bytes_%3$s(hop_%1$s m) { return HOP_NARROWED_%3$s(-m); }\n"
    "#else\n"
    "#define hop_flags_%3$s(m) (m)\n"
    "HOP_VECTOR_FN hop_%1$s hop_truth_%3$s(hop_u8%3$s x) { return -__builtin_convertvector(x, hop_%1$s); }\n"
    "HOP_VECTOR_FN hop_u8%3$s hop_bytes_%3$s(hop_%1$s m) { return __builtin_convertvector(-m, hop_u8%3$s); "
    "}\n"
    "#endif\n";

/* The lesser and the larger of two: D, S. */
static const char extremes_of_whole[] =
    "#ifdef HOP_LEAST_%1$s\n"
    "HOP_VECTOR_FN hop_%1$s hop_min_%1$s(hop_%1$s a, hop_%1$s b) { return (hop_%1$s)HOP_LEAST_%1$s(a, b); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_max_%1$s(hop_%1$s a, hop_%1$s b) { return (hop_%1$s)HOP_MOST_%1$s(a, b); }\n"
    "#else\n"
    "HOP_VECTOR_FN hop_%1$s hop_min_%1$s(hop_%1$s a, hop_%1$s b)\n"
    "{\n"
    "    const hop_%2$s k = (hop_%2$s)(a < b);\n"
    "    return (hop_%1$s)(((hop_%2$s)a & k) | ((hop_%2$s)b & ~k));\n"
    "}\n"
    "HOP_VECTOR_FN hop_%1$s hop_max_%1$s(hop_%1$s a, hop_%1$s b)\n"
    "{\n"
    "    const hop_%2$s k = (hop_%2$s)(a > b);\n"
    "    return (hop_%1$s)(((hop_%2$s)a & k) | ((hop_%2$s)b & ~k));\n"
    "}\n"
    "#endif\n";
/* In loops the first form waits less for the value that is carried; the second, of which compilers make one
 * instruction more but which waits for fewer in a row, is for lanes that are put together. */
static const char extremes_of_real[] =
    "#ifdef HOP_LEAST_%1$s\n"
    "HOP_VECTOR_FN hop_%1$s hop_min_%1$s(hop_%1$s a, hop_%1$s b) { return (hop_%1$s)HOP_LEAST_%1$s(a, b); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_max_%1$s(hop_%1$s a, hop_%1$s b) { return (hop_%1$s)HOP_MOST_%1$s(a, b); }\n"
    "#define hop_lanes_min_%1$s hop_min_%1$s\n"
    "#define hop_lanes_max_%1$s hop_max_%1$s\n"
    "#else\n"
    "HOP_VECTOR_FN hop_%1$s hop_min_%1$s(hop_%1$s a, hop_%1$s b) { return hop_pick_%1$s(hop_lt_%1$s(a, b) | "
    "hop_ne_%1$s(a, a), a, b); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_max_%1$s(hop_%1$s a, hop_%1$s b) { return hop_pick_%1$s(hop_gt_%1$s(a, b) | "
    "hop_ne_%1$s(a, a), a, b); }\n"
    "HOP_VECTOR_FN hop_%1$s hop_lanes_min_%1$s(hop_%1$s a, hop_%1$s b)\n"
    "{\n"
    "    return hop_pick_%1$s(hop_ne_%1$s(a, a), a, hop_pick_%1$s(hop_lt_%1$s(a, b), a, b));\n"
    "}\n"
    "HOP_VECTOR_FN hop_%1$s hop_lanes_max_%1$s(hop_%1$s a, hop_%1$s b)\n"
    "{\n"
    "    return hop_pick_%1$s(hop_ne_%1$s(a, a), a, hop_pick_%1$s(hop_gt_%1$s(a, b), a, b));\n"
    "}\n"
    "#endif\n";

/* What an i64 is stored as by a loop whose vectors have lanes of 4 bytes. */
static const char stored_i64[] =
    "HOP_VECTOR_FN void hop_store_step_i64a(int64_t *p, int64_t step, hop_i32a x, int64_t n)\n"
    "{\n"
    "    for (int l = 0; l < HOP_LANES_A; l++)\n"
    "        if (l < n) p[l * step] = x[l];\n"
    "}\n"
    "typedef int32_t hop_half __attribute__((vector_size(HOP_VECTOR_BYTES / 2)));\n"
    "typedef int64_t hop_whole __attribute__((vector_size(HOP_VECTOR_BYTES), aligned(8), may_alias));\n"
    "HOP_VECTOR_FN void hop_store_i64a(int64_t *p, hop_i32a x)\n"
    "{\n"
    "    const union { hop_i32a all; hop_half half[2]; } of = { x };\n"
    "    *(hop_whole *)p = __builtin_convertvector(of.half[0], hop_whole);\n"
    "    *(hop_whole *)(p + HOP_LANES_B) = __builtin_convertvector(of.half[1], hop_whole);\n"
    "}\n"
    "HOP_VECTOR_FN void hop_store_part_i64a(int64_t *p, hop_i32a x, int64_t n) { hop_store_step_i64a(p, 1, "
    "x, n); "
    "}\n"
    "HOP_VECTOR_FN void hop_scatter_i64a(int64_t *p, hop_i32a at, hop_i32a x, int64_t n)\n"
    "{\n"
    "    for (int l = 0; l < HOP_LANES_A; l++)\n"
    "        if (l < n) p[at[l]] = x[l];\n"
    "}\n";

void c99_use_vector(struct c99_unit *unit, enum dtype t, enum c99_wide_class class)
{
    static const uint8_t by_size[] = { [1] = DT_I8, [2] = DT_I16, [4] = DT_I32, [8] = DT_I64 };
    unit->vectors[t][class] = true;
    unit->vectors[class == WIDE_A ? DT_I32 : DT_I64][class] = true;
    if (dtype_info[t].size < 8 || class == WIDE_B) unit->vectors[by_size[dtype_info[t].size]][class] = true;
}

bool c99_new_lane_function(struct c99_unit *unit, const char *name)
{
    for (uint32_t i = 0; i < unit->lane_functions.len; i++)
        if (!strcmp(unit->lane_functions.data[i], name)) return false;
    vec_push(unit->arena, &unit->lane_functions, name);
    return true;
}

/* ---- elements apart ---- */

static const char *const letters[] = { "a", "b" };
static const char *const lane_counts[] = { "HOP_LANES_A", "HOP_LANES_B" };

/* `lanes` elements `stride` apart: vectors from the first element to the last, and nothing behind it, whose
 * lanes one shuffle after the other puts into their places. */
static void put_picked(struct text *out, const char *name, int lanes, int stride)
{
    const int last = (lanes - 1) * stride;
    text_str(out, "    return ");
    for (int k = 1; k < stride; k++) text_str(out, "__builtin_shufflevector(");
    text_add(out, "hop_load_%s(p)", name);
    for (int k = 1; k < stride; k++) {
        const int from = HOP_MIN(k * lanes, last + 1 - lanes);
        text_add(out, ", hop_load_%s(p + %d)", name, from);
        for (int l = 0; l < lanes; l++) {
            const int in = l * stride / lanes; /* the vector that has this lane's element */
            int lane = k == 1 ? l * stride : l;
            if (in == k) lane = lanes + l * stride - from;
            text_add(out, ", %d", in > k ? -1 : lane);
        }
        text_str(out, ")");
    }
    text_str(out, ";\n");
}

static void put_backwards(struct text *out, const char *name, int lanes)
{
    text_add(out, "    const hop_%s x = hop_load_%s(p - %d);\n    return __builtin_shufflevector(x, x", name,
             name, lanes - 1);
    for (int l = lanes; l-- > 0;) text_add(out, ", %d", l);
    text_str(out, ");\n");
}

const char *c99_apart(struct c99_unit *unit, enum dtype t, enum c99_wide_class class, int stride)
{
    const char *name = arena_printf(unit->arena, "%s%s", dtype_info[t].name, letters[class]);
    const char *function = stride < 0 ? arena_printf(unit->arena, "hop_back_%s", name)
                                      : arena_printf(unit->arena, "hop_apart%d_%s", stride, name);
    struct text *out = &unit->lane_text;
    if (!c99_new_lane_function(unit, function)) return function;
    text_add(out, "HOP_VECTOR_FN hop_%s %s(const %s *p)\n{\n", name, function, c99_type[t]);
    for (int bytes = 64; bytes >= 16; bytes /= 2) {
        const int lanes = bytes / (class == WIDE_A ? 4 : 8);
        if (stride > 0 && 2 * stride > lanes) continue; /* loads of single elements are as quick */
        text_add(out, "%s HOP_SHUFFLES && HOP_VECTOR_BYTES == %d\n", bytes == 64 ? "#if" : "#elif", bytes);
        if (stride < 0) put_backwards(out, name, lanes);
        else put_picked(out, name, lanes, stride);
    }
    text_add(out, "#else\n    return hop_step_%s(p, %d, %s);\n#endif\n}\n", name, stride, lane_counts[class]);
    return function;
}

static void put_functions(const struct c99_unit *unit, struct text *out, enum dtype t, bool wide)
{
    static const char *const mask[] = { "i32a", "i64b" };
    const char *letter = letters[wide], *count = lane_counts[wide], *type = c99_type[t];
    const char *name = arena_printf(unit->arena, "%s%s", dtype_info[t].name, letter);
    const char *size = arena_printf(unit->arena, "i%d%s", 8 * dtype_info[t].size, letter);
    if (t == DT_I64 && !wide) {
        text_str(out, stored_i64);
        return;
    }
    text_add(out, "HOP_VECTOR_BASE(%s, %s, %s, %s, %s)\n", name, type, size, mask[wide], count);
    text_add(out, part_functions, name, type, count, mask[wide]);
    if (dtype_info[t].size >= 4) text_add(out, flag_functions, name, letter, size);
    if (!dtype_is_float(t)) {
        text_add(out, extremes_of_whole, name, size);
        text_add(out, "HOP_VECTOR_WHOLE(%s, %s, %s, %s, %s)\n", name, type, count, size, mask[wide]);
        if (!strcmp(name, mask[wide])) text_add(out, mask_functions, name, count, letter);
    }
    text_add(out, run_function, name, type, mask[wide], count);
    if (dtype_is_float(t) && !dtype_is_narrow(t)) {
        bool single = t == DT_F32;
        text_add(out, extremes_of_real, name);
        text_add(out, "HOP_VECTOR_REAL(%s, %s, %s, %s, %s, %s)\n", name, type, count, size, mask[wide],
                 single ? "0x7fffffff" : "0x7fffffffffffffff");
        text_add(out, real_functions, name, count, single ? "f" : "", single ? "F" : "");
        if (unit->has_far) text_add(out, "HOP_VECTOR_FAR(%s, %s, %s, %s)\n", name, type, count, letter);
    }
}

const char *c99_vector_head(void) { return detection; }

void c99_vector_text(const struct c99_unit *unit, struct text *out)
{
    static const uint8_t order[] = { DT_I8,  DT_I16, DT_I32, DT_I64,  DT_U8,  DT_U16,
                                     DT_U32, DT_U64, DT_F16, DT_BF16, DT_F32, DT_F64 };
    text_str(out, types);
    text_add(out, class_types, "a", "A");
    text_add(out, class_types, "b", "B");
    text_add(out, "%s%s%s%s%s", wide_types, base_macro, whole_macro, real_macro, machine);
    for (int wide = 0; wide < WIDE_CLASSES; wide++)
        for (size_t i = 0; i < HOP_COUNT(order); i++)
            if (unit->vectors[order[i]][wide]) put_functions(unit, out, (enum dtype)order[i], wide);
    text_bytes(out, unit->lane_text.data ? unit->lane_text.data : "", unit->lane_text.len);
    text_str(out, "#endif\n\n");
}
