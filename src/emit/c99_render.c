/* The last step of the C-like back ends: text in the words of C99 comes in, the text of a dialect goes out.
 * A dialect is a table of words that take the place of others; what C99 has no word for (`$entry`, `$buffer`,
 * `$vector`) is marked in the text, and vanishes where a dialect does not name it. */
#include "emit/c99_impl.h"

static const char preamble[] = "#include <math.h>\n"
                               "#include <string.h>\n"
                               "\n"
                               "#if !defined(__GNUC__) || defined(__clang__)\n"
                               "#pragma STDC FP_CONTRACT OFF\n"
                               "#endif\n";
const struct c99_dialect c99_own_dialect = { .preamble = preamble, .vectors = true, .cblas = true };
const struct c99_dialect c99_plain_dialect = { .preamble = preamble, .cblas = true };

const char *c99_word_of(const struct c99_dialect *d, const char *word, size_t length)
{
    for (const struct c99_word *w = d->words; w && w->word; w++)
        if (strlen(w->word) == length && !memcmp(w->word, word, length)) return w->as;
    return NULL;
}

static bool begins_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Bytes of what stands at `s` and is copied as it is, 0: a word. Strings, comments and directives may contain
 * anything that the program says; the letters of a number are part of it. */
static size_t plain_length(const char *s)
{
    size_t n = 1;
    if (begins_word(*s)) return 0;
    if (*s == '"') {
        while (s[n] && s[n] != '"') n += s[n] == '\\' && s[n + 1] ? 2 : 1;
        return n + (s[n] == '"');
    }
    if (*s == '#') return strcspn(s, "\n");
    if (s[0] == '/' && s[1] == '*') {
        const char *end = strstr(s + 2, "*/");
        return end ? (size_t)(end + 2 - s) : strlen(s);
    }
    if (!is_digit(*s)) return n;
    while (begins_word(s[n]) || is_digit(s[n]) || s[n] == '.') n++;
    return n;
}

void c99_render(const struct c99_dialect *d, const char *text, struct text *out)
{
    while (text && *text) {
        size_t n = plain_length(text);
        const char *as = NULL;
        if (!n) {
            for (n = 1; begins_word(text[n]) || is_digit(text[n]);) n++;
            as = c99_word_of(d, text, n);
            if (!as && *text == '$') as = "";
        }
        if (as) text_str(out, as);
        else text_bytes(out, text, n);
        text += n;
        if (as && !*as && *text == ' ') text++; /* a mark goes with the space behind it */
    }
}
