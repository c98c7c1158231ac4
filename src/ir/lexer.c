/* The lexer of the text form: characters in, tokens out. See lexer.h. */
#include "ir/lexer.h"
#include "ir/number.h"

#include <locale.h>

enum { CLASS_SPACE = 1, CLASS_START = 2, CLASS_DIGIT = 4, CLASS_HEX = 8 };
static const uint8_t classes[256] = {
    [' '] = CLASS_SPACE,
    ['\t'] = CLASS_SPACE,
    ['\r'] = CLASS_SPACE,
    ['_'] = CLASS_START,
    ['0' ... '9'] = CLASS_DIGIT | CLASS_HEX,
    ['a' ... 'f'] = CLASS_START | CLASS_HEX,
    ['g' ... 'z'] = CLASS_START,
    ['A' ... 'F'] = CLASS_START | CLASS_HEX,
    ['G' ... 'Z'] = CLASS_START,
    [128 ... 255] = CLASS_START, /* letters beyond ASCII; the text is known to be valid UTF-8 */
};
static inline int class_of(char c) { return classes[(unsigned char)c]; }

void lexer_error(const struct lexer *lx, struct token at, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hop_throw(HOP_INVALID, "%s:%u:%u: %s", lx->file, at.line, at.col, text);
}

void lexer_expected(const struct lexer *lx, const char *what)
{
    const struct token *t = &lx->tok;
    if (t->kind == TOKEN_END) lexer_error(lx, *t, "expected %s, found the end of the text", what);
    bool closing_quote = t->quoted || t->kind == TOKEN_STRING;
    size_t length = (size_t)(t->text + t->len + closing_quote - t->start);
    int n = (int)HOP_MIN((size_t)60, length);
    lexer_error(lx, *t, "expected %s, found '%.*s'", what, n, t->start);
}

size_t utf8_length(const unsigned char *p)
{
    if (p[0] < 0x80) return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;
    if ((p[1] & 0xc0) != 0x80) return 0;
    if (p[0] < 0xe0) return 2;
    if ((p[2] & 0xc0) != 0x80) return 0;
    if (p[0] < 0xf0) return (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ? 0 : 3;
    if ((p[3] & 0xc0) != 0x80) return 0;
    return (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f) ? 0 : 4;
}

static struct token token_at(const char *begin, const char *p)
{
    struct token t = { .start = p, .text = p, .line = 1 };
    const char *line = begin;
    for (const char *q = begin; q < p; q++)
        if (*q == '\n') {
            t.line++;
            line = q + 1;
        }
    t.col = (uint32_t)(p - line) + 1;
    return t;
}

/* ASCII, and no zero among them. */
static bool are_plain(const char eight_bytes[8])
{
    uint64_t eight;
    memcpy(&eight, eight_bytes, sizeof eight);
    if (eight & 0x8080808080808080u) return false;
    return !((eight - 0x0101010101010101u) & ~eight & 0x8080808080808080u);
}

static void check_bytes(const struct lexer *lx)
{
    const char *p = lx->begin;
    while (p < lx->end) {
        if (lx->end - p >= 8 && are_plain(p)) {
            p += 8;
            continue;
        }
        size_t n = utf8_length((const unsigned char *)p);
        if (!n) lexer_error(lx, token_at(lx->begin, p), "broken UTF-8: byte 0x%02x", (unsigned char)*p);
        if (!*p) lexer_error(lx, token_at(lx->begin, p), "a zero byte");
        p += n;
    }
}

void lexer_begin(struct lexer *lx, const char *file, uint16_t file_id, const char *text, size_t length)
{
    *lx = (struct lexer){ .p = text,
                          .line_start = text,
                          .begin = text,
                          .end = text + length,
                          .line = 1,
                          .file = file,
                          .file_id = file_id };
    if (length > UINT32_MAX / 2) hop_throw(HOP_INVALID, "%s: the text is too long", file);
    check_bytes(lx);
    if (length >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) lx->p += 3;
    lexer_next(lx);
}

void lexer_seek(struct lexer *lx, struct token to)
{
    lx->p = to.start;
    lx->line = to.line;
    lx->line_start = to.start - (to.col - 1);
    lexer_next(lx);
}

/* From behind the opening quote to the closing one. */
static const char *scan_quoted(struct lexer *lx, const char *p)
{
    for (;; p++) {
        if (*p == '"') return p;
        if (*p == '\n' || (!*p && p >= lx->end)) lexer_error(lx, lx->tok, "an unterminated string");
        if (*p == '\\' && p[1] && p[1] != '\n') p++;
    }
}

static const char *scan_word(const char *p)
{
    for (;; p++) {
        if (class_of(*p) & (CLASS_START | CLASS_DIGIT)) continue;
        if (*p == '.' && class_of(p[1]) & (CLASS_START | CLASS_DIGIT)) continue;
        return p;
    }
}

static const char *scan_number(const char *p)
{
    bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
    for (;; p++) {
        if (class_of(*p) & (CLASS_START | CLASS_DIGIT)) continue;
        if (*p == '.' && p[1] != '.') continue;
        if (*p == '+' || *p == '-') {
            char before = p[-1];
            bool exponent = hex ? before == 'p' || before == 'P' : before == 'e' || before == 'E';
            if (exponent) continue;
        }
        return p;
    }
}

/* Two characters that are one token, if the second follows at once. */
static const char *scan_pair(struct token *t, char second, enum token_kind both)
{
    if (t->text[1] != second) return t->text + 1;
    t->kind = (uint8_t)both;
    t->len = 2;
    return t->text + 2;
}

void lexer_next(struct lexer *lx)
{
    const char *p = lx->p;
    struct token *t = &lx->tok;
    for (;;) {
        while (class_of(*p) & CLASS_SPACE) p++;
        if (*p == '\n') {
            p++;
            lx->line++;
            lx->line_start = p;
        } else if (*p == '#' && !(lx->in_test && class_of(p[1]) & CLASS_DIGIT)) {
            while (*p && *p != '\n') p++;
        } else break;
    }
    t->start = p;
    t->text = p;
    t->line = lx->line;
    t->col = (uint32_t)(p - lx->line_start) + 1;
    t->quoted = false;
    t->len = 1;
    char c = *p;
    if (class_of(c) & CLASS_START) {
        lx->p = scan_word(p + 1);
        t->kind = TOKEN_WORD;
        t->len = (uint32_t)(lx->p - p);
        return;
    }
    if (class_of(c) & CLASS_DIGIT) {
        lx->p = scan_number(p);
        t->kind = TOKEN_NUMBER;
        t->len = (uint32_t)(lx->p - p);
        return;
    }
    const char *after = p + 1;
    enum token_kind named = c == '%' ? TOKEN_VALUE : TOKEN_GLOBAL;
    t->kind = (uint8_t)c;
    switch (c) {
    case '%':
    case '@':
        if (p[1] == '"') {
            after = scan_quoted(lx, p + 2);
            *t = (struct token){ p, p + 2, (uint32_t)(after - p) - 2, t->line, t->col, named, true };
            after++;
        } else if (class_of(p[1]) & (CLASS_START | CLASS_DIGIT)) {
            after = scan_word(p + 1);
            *t = (struct token){ p, p + 1, (uint32_t)(after - p) - 1, t->line, t->col, named, false };
        }
        break;
    case '"':
        after = scan_quoted(lx, p + 1);
        *t = (struct token){ p, p + 1, (uint32_t)(after - p) - 1, t->line, t->col, TOKEN_STRING, true };
        after++;
        break;
    case '#':
        after = scan_word(p + 1);
        *t = (struct token){ p, p + 1, (uint32_t)(after - p) - 1, t->line, t->col, TOKEN_POSITION, false };
        break;
    case '-': after = scan_pair(t, '>', TOKEN_ARROW); break;
    case '.': after = scan_pair(t, '.', TOKEN_RANGE); break;
    case '/': after = scan_pair(t, '/', TOKEN_FLOORDIV); break;
    case '=': after = scan_pair(t, '=', TOKEN_EQUALS); break;
    case 0: /* the terminator */
        after = p;
        t->kind = TOKEN_END;
        t->len = 0;
        break;
    default: break;
    }
    lx->p = after;
}

bool lexer_accept_word(struct lexer *lx, const char *word)
{
    if (!token_is(&lx->tok, word)) return false;
    lexer_next(lx);
    return true;
}

void lexer_expect(struct lexer *lx, int kind, const char *what)
{
    if (lx->tok.kind != kind) lexer_expected(lx, what);
    lexer_next(lx);
}

/* ---- numbers ---- */

bool token_is_integer(const struct token *t)
{
    if (t->kind != TOKEN_NUMBER) return false;
    bool hex = t->len > 2 && (t->text[1] == 'x' || t->text[1] == 'X');
    for (uint32_t i = hex ? 2 : 0; i < t->len; i++)
        if (!(class_of(t->text[i]) & (hex ? CLASS_HEX : CLASS_DIGIT))) return false;
    return true;
}

static bool magnitude(const struct token *t, uint64_t *out) /* false: passes 64 bits */
{
    bool hex = t->len > 2 && (t->text[1] == 'x' || t->text[1] == 'X');
    uint64_t v = 0;
    for (uint32_t i = hex ? 2 : 0; i < t->len; i++) {
        char c = t->text[i];
        uint64_t digit = class_of(c) & CLASS_DIGIT ? (uint64_t)(c - '0') : (uint64_t)((c | 32) - 'a' + 10);
        if (__builtin_mul_overflow(v, hex ? 16u : 10u, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *out = v;
    return true;
}

int64_t lexer_integer(struct lexer *lx, int64_t lo, int64_t hi)
{
    struct token first = lx->tok;
    bool negative = lexer_accept(lx, '-');
    if (!token_is_integer(&lx->tok)) lexer_expected(lx, "an integer");
    uint64_t v;
    bool fits = magnitude(&lx->tok, &v) && v <= (uint64_t)INT64_MAX + negative;
    int64_t value = fits ? (negative ? (int64_t)(0 - v) : (int64_t)v) : 0;
    if (!fits || value < lo || value > hi)
        lexer_error(lx, first, "the number %s%.*s is not in %lld..%lld", negative ? "-" : "",
                    (int)HOP_MIN(lx->tok.len, 60u), lx->tok.text, (long long)lo, (long long)hi);
    lexer_next(lx);
    return value;
}

uint64_t lexer_unsigned(struct lexer *lx)
{
    uint64_t v = 0;
    struct token first = lx->tok;
    bool negative = lexer_accept(lx, '-');
    if (!token_is_integer(&lx->tok)) lexer_expected(lx, "an integer");
    if (!magnitude(&lx->tok, &v) || (negative && v))
        lexer_error(lx, first, "the number %s%.*s is not in 0..%llu", negative ? "-" : "",
                    (int)HOP_MIN(lx->tok.len, 60u), lx->tok.text, (unsigned long long)UINT64_MAX);
    lexer_next(lx);
    return v;
}

static double parse_decimal(struct lexer *lx, const struct token *t, bool single)
{
    static locale_t c_locale; /* made once; decimal points do not depend on the program's locale */
    char small[128];
    if (t->len >= sizeof small) lexer_error(lx, *t, "a number of %u characters", t->len);
    memcpy(small, t->text, t->len);
    small[t->len] = 0;
    locale_t locale = __atomic_load_n(&c_locale, __ATOMIC_ACQUIRE);
    if (!locale) {
        locale_t none = (locale_t)0;
        locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        bool first = __atomic_compare_exchange_n(&c_locale, &none, locale, false, __ATOMIC_ACQ_REL,
                                                 __ATOMIC_ACQUIRE);
        if (!first) {
            freelocale(locale);
            locale = none;
        }
    }
    char *rest;
    double v = single ? (double)strtof_l(small, &rest, locale) : strtod_l(small, &rest, locale);
    if (rest != small + t->len || rest == small) lexer_error(lx, *t, "'%s' is not a number", small);
    return v;
}

/* The bits of what follows the sign. */
static uint64_t read_float(struct lexer *lx, enum dtype dtype)
{
    struct token t = lx->tok;
    struct float_layout layout = dtype_float_layout(dtype);
    if (t.kind == TOKEN_WORD) {
        if (lexer_accept_word(lx, "inf")) return layout.infinity;
        if (!lexer_accept_word(lx, "nan")) lexer_expected(lx, "a number");
        if (!lexer_accept(lx, '(')) return layout.quiet;
        uint64_t bits;
        bool is_number = token_is_integer(&lx->tok) && magnitude(&lx->tok, &bits);
        if (!is_number || bits <= layout.infinity || bits >= layout.sign)
            lexer_expected(lx, "the bits of a NaN");
        lexer_next(lx);
        lexer_expect(lx, ')', "')'");
        return bits;
    }
    if (t.kind != TOKEN_NUMBER) lexer_expected(lx, "a number");
    uint64_t small, bits;
    bool exact = t.len <= 6 && token_is_integer(&t) && magnitude(&t, &small); /* in f32 and f64 */
    bits = real_bits(dtype, exact ? (double)small : parse_decimal(lx, &t, dtype == DT_F32));
    if (bits == layout.infinity)
        lexer_error(lx, t, "the number %.*s is too large for %s", (int)HOP_MIN(t.len, 60u), t.text,
                    dtype_info[dtype].name);
    lexer_next(lx);
    return bits;
}

uint64_t lexer_float(struct lexer *lx, enum dtype t)
{
    uint64_t sign = lexer_accept(lx, '-') ? dtype_float_layout(t).sign : 0;
    return read_float(lx, t) | sign;
}

/* ---- strings and names ---- */

static int hex_digit(char c)
{
    if (class_of(c) & CLASS_DIGIT) return c - '0';
    return class_of(c) & CLASS_HEX ? (c | 32) - 'a' + 10 : -1;
}

char *lexer_string(struct lexer *lx, struct arena *a, size_t *length)
{
    struct token t = lx->tok;
    if (t.kind != TOKEN_STRING && !t.quoted) lexer_expected(lx, "a string");
    char *out = arena_alloc(a, t.len + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < t.len; i++) {
        char c = t.text[i];
        if (c == '\\') {
            char e = t.text[++i];
            static const char escapes[] = "n\nt\tr\r\"\"\\\\";
            const char *found = NULL;
            for (const char *s = escapes; *s; s += 2)
                if (*s == e) found = s + 1;
            int high = e == 'x' && i + 2 < t.len ? hex_digit(t.text[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(t.text[i + 2]) : -1;
            if (found) {
                c = *found;
            } else if (low >= 0 && high * 16 + low) {
                c = (char)(high * 16 + low);
                i += 2;
            } else {
                lexer_error(lx, t, "an escape that is none of \\n \\t \\r \\\" \\\\ \\x01..\\xff: \\%c", e);
            }
        }
        out[n++] = c;
    }
    out[n] = 0;
    *length = n;
    lexer_next(lx);
    return out;
}

bool lexer_is_word(const char *text)
{
    if (!(class_of(*text) & CLASS_START)) return false;
    if (*scan_word(text)) return false;
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t n = utf8_length(p);
        if (!n) return false;
        p += n;
    }
    return true;
}
