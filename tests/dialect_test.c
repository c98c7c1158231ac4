/* Emitted C is written through a table of words (struct c99_dialect). Here a language that has other names
 * for all that C99 calls types, qualifiers and functions, and a word for every mark: its texts contain none
 * of C99's words, compile behind a preamble of definitions, and give the numbers that C99 gives, for programs
 * of the corpus. */
#include "check.h"
#include "check/test.h"
#include "emit/c99.h"
#include "ir/text.h"
#include "loop/lower.h"

#include <unistd.h>

/* X(C99's word, the other language's, what the preamble makes of it) */
#define WORDS(X) \
    X(int8_t, CHAR, "signed char") \
    X(int16_t, SHORT, "short") \
    X(int32_t, INT, "int") \
    X(int64_t, LONG, "int64_t") \
    X(uint8_t, UCHAR, "unsigned char") \
    X(uint16_t, USHORT, "unsigned short") \
    X(uint32_t, UINT, "unsigned") \
    X(uint64_t, ULONG, "uint64_t") \
    X(float, REAL, "float") \
    X(double, WIDE, "double") \
    X(const, FIXED, "const") \
    X(static, OWN, "static") \
    X(inline, SMALL, "inline") \
    X(restrict, ALONE, "restrict") \
    X(sqrtf, root_real, "sqrtf") \
    X(sqrt, root_wide, "sqrt") \
    X(fabsf, size_real, "fabsf") \
    X(fabs, size_wide, "fabs") \
    X(floorf, down_real, "floorf") \
    X(floor, down_wide, "floor") \
    X(fmaf, fused_real, "fmaf") \
    X(fma, fused_wide, "fma") \
    X(memmove, move_bytes, "memmove") \
    X(memset, fill_bytes, "memset") \
    X(hop_max_f32, larger_real, "larger_of_two")

static const struct c99_word words[] = {
#define PAIR(word, as, means) { #word, #as },
    WORDS(PAIR){ "$entry", "ENTRY" }, { "$buffer", "GLOBAL" }, { "$vector", "SIDE_BY_SIDE" }, { 0 }
};
static const struct c99_dialect other = {
    .words = words,
    .preamble = "#include <math.h>\n"
                "#include <string.h>\n"
#define DEFINITION(word, as, means) "#define " #as " " means "\n"
    WORDS(DEFINITION) "#define ENTRY extern\n"
                      "#define GLOBAL\n"
                      "#define SIDE_BY_SIDE _Pragma(\"GCC ivdep\")\n"
                      "#define larger_of_two(a, b) "
                      "((((a) != (a)) | ((a) > (b))) ? (a) : (b))\n",
};

/* ---- texts ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        if (!is_letter(at[n]) && (at == text || !is_letter(at[-1]))) return true;
    return false;
}

static const char program[] = "hop 1\n\n"
                              "fn @f[n in 1..100](%x: f32[n, 8], %y: f32[n, 8]) -> (f32[n, 8], f32[]) {\n"
                              "  %a = max(%x, %y)\n"
                              "  %b = sqrt(%a)\n"
                              "  %s = sum(%b)\n"
                              "  return %b, %s\n"
                              "}\n";

static char *emitted(struct arena *a, const struct c99_dialect *d)
{
    struct text source = { .arena = a };
    struct c99_unit unit;
    struct module *m = text_read("program", program, sizeof program - 1);
    struct lp *p = lower_and_plan(m, 0, &(struct pass_options){ .strict = true });
    c99_begin(&unit, a, d);
    c99_add(&unit, p, &(struct c99_options){ .name = "emitted" });
    c99_finish(&unit, NULL, &source, NULL);
    lp_free(p);
    module_free(m);
    return source.data;
}

/* Behind the preamble, HOP_C_STORAGE and the declarations for the host everything is of the dialect, comments
 * aside. */
static char *body_of(char *source)
{
    static const char last[] = "#define HOP_C_STORAGE static\n#endif\n";
    char *body = strstr(source, last) + strlen(last);
    for (char *at = strstr(body, "/*"); at; at = strstr(at, "/*"))
        for (char *end = strstr(at, "*/") + 2; at < end;) *at++ = ' ';
    return body;
}

static void test_words(void *unused)
{
    static const char *const used[] = { "LONG",  "REAL",   "FIXED", "ALONE",        "root_real",
                                        "ENTRY", "GLOBAL", "OWN",   "SIDE_BY_SIDE", "larger_real" };
    struct arena arena = { 0 };
    char *own = body_of(emitted(&arena, &c99_own_dialect)), *strange = body_of(emitted(&arena, &other));
    (void)unused;
    CLAIM(!strchr(own, '$') && !strchr(strange, '$'), "no mark is left");
    CLAIM(has_word(own, "restrict") && has_word(own, "sqrtf"), "C99 has its own words");
    CLAIM(has_word(own, "hop_max_f32") && !has_word(strange, "hop_max_f32"),
          "a helper that the language has is not defined");
    for (size_t i = 0; words[i].word; i++)
        CLAIM(!has_word(strange, words[i].word), "'%s' is left:\n%s", words[i].word, strange);
    for (size_t i = 0; i < HOP_COUNT(used); i++)
        CLAIM(has_word(strange, used[i]), "there is no '%s':\n%s", used[i], strange);
    arena_free(&arena);
}

/* ---- numbers ---- */

static void test_numbers(void *unused)
{
    static const char *const files[] = { "examples/first.hop",
                                         "tests/corpus/elementwise/bits.hop",
                                         "tests/corpus/elementwise/hyperbolic.hop",
                                         "tests/corpus/reduce/moments.hop",
                                         "tests/corpus/scan/products_over_time.hop",
                                         "tests/corpus/while/batched_stack.hop",
                                         "tests/corpus/product/attention.hop",
                                         "tests/corpus/dtypes/casts.hop",
                                         "tests/corpus/numbers/large_angles.hop",
                                         "tests/corpus/effects/callbacks.hop",
                                         "tests/corpus/sort/order.hop" };
    struct arena arena = { 0 };
    (void)unused;
    for (size_t i = 0; i < HOP_COUNT(files); i++) {
        struct text out = { .arena = &arena };
        struct test_run run = { .path = files[i], .emitted_c = true, .dialect = &other, .out = &out };
        test_file(&run);
        CLAIM(run.passed > 0 && !run.failed, "%s: %u passed, %u failed\n%s", files[i], run.passed, run.failed,
              out.data ? out.data : "");
    }
    arena_free(&arena);
}

int main(void)
{
    CLAIM(attempt(test_words, NULL) == HOP_OK, "%s", hop_message());
    if (system("command -v \"${CC:-cc}\" >/dev/null")) return tests_end();
    CLAIM(attempt(test_numbers, NULL) == HOP_OK, "%s", hop_message());
    return tests_end();
}
