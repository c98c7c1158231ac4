/* Attributes whose names no row knows: reading, printing and asking for them (named.h). */
#include "ir/named.h"
#include "ir/text.h"

static void read_one(struct lexer *lx, struct arena *arena, struct text *out)
{
    size_t length;
    struct token sign = lx->tok;
    bool yes = token_is(&sign, "true"), no = token_is(&sign, "false");
    if (sign.kind == TOKEN_STRING) {
        text_quoted(out, lexer_string(lx, arena, &length));
        return;
    }
    if (yes || no) {
        lexer_next(lx);
        text_str(out, yes ? "true" : "false");
        return;
    }
    lexer_accept(lx, '-');
    bool whole = token_is_integer(&lx->tok);
    bool real = lx->tok.kind == TOKEN_NUMBER || token_is(&lx->tok, "inf") || token_is(&lx->tok, "nan");
    lexer_seek(lx, sign);
    if (!real) lexer_expected(lx, "a string in quotes, a number, true, false, or a list of these");
    if (whole) {
        text_add(out, "%lld", (long long)lexer_integer(lx, INT64_MIN, INT64_MAX));
        return;
    }
    text_real(out, lexer_f64(lx));
}

/* The value in canonical text: equal values are equal strings. */
static uint32_t read_value(struct module *m, struct lexer *lx, struct arena *arena)
{
    struct text out = { .arena = arena };
    if (lx->tok.kind != '[') read_one(lx, arena, &out);
    else {
        lexer_next(lx);
        text_str(&out, "[");
        for (bool first = true; lx->tok.kind != ']'; first = false) {
            if (!first) {
                lexer_expect(lx, ',', "',' or ']'");
                text_str(&out, ", ");
            }
            read_one(lx, arena, &out);
        }
        lexer_next(lx);
        text_str(&out, "]");
    }
    return module_string(m, out.data, out.len);
}

void named_read(struct module *m, struct lexer *lx, struct arena *arena, struct attr *to)
{
    struct token at = lx->tok;
    if (at.kind != TOKEN_WORD) lexer_expected(lx, "the name of an attribute");
    uint32_t name = module_string(m, at.text, at.len);
    lexer_next(lx);
    lexer_expect(lx, '=', "'='");
    uint32_t value = read_value(m, lx, arena);
    if (named_value(m, to, module_text(m, name)))
        lexer_error(lx, at, "attribute '%s' is given twice", module_text(m, name));
    *to = named_with(m, to, name, value, arena);
}

struct attr named_with(const struct module *m, const struct attr *a, uint32_t name, uint32_t value,
                       struct arena *arena)
{
    uint32_t n = a->kind == ATTR_ABSENT ? 0 : a->n, k = 0;
    uint32_t *list = ARENA_NEW(arena, uint32_t, n + 2);
    while (k < n && strcmp(module_text(m, a->list[k]), module_text(m, name)) < 0) k += 2;
    for (uint32_t i = 0; i < n; i++) list[i < k ? i : i + 2] = a->list[i];
    list[k] = name;
    list[k + 1] = value;
    return (struct attr){ .kind = ATTR_NAMED, .n = n + 2, .list = list };
}

struct attr named_parse(struct module *m, const char *what, const char *text, struct arena *arena)
{
    struct attr out = { .kind = ATTR_ABSENT };
    struct lexer lx;
    if (!text) return out;
    lexer_begin(&lx, what, 0, text, strlen(text));
    for (bool first = true; lx.tok.kind != TOKEN_END; first = false) {
        if (!first) lexer_expect(&lx, ',', "',' or the end");
        named_read(m, &lx, arena, &out);
    }
    return out;
}

void named_print(const struct module *m, const struct attr *a, struct text *out)
{
    for (uint32_t i = 0; i < a->n; i += 2)
        text_add(out, "%s%s = %s", i ? ", " : "", module_text(m, a->list[i]), module_text(m, a->list[i + 1]));
}

/* ---- what a name is given ---- */

const char *named_value(const struct module *m, const struct attr *a, const char *name)
{
    for (uint32_t i = 0; a->kind == ATTR_NAMED && i < a->n; i += 2)
        if (!strcmp(module_text(m, a->list[i]), name)) return module_text(m, a->list[i + 1]);
    return NULL;
}

static bool is_number(const char *value)
{
    return value && (*value == '-' || (*value >= '0' && *value <= '9') || !strcmp(value, "inf") ||
                     !strncmp(value, "nan", 3));
}

bool named_int(const struct module *m, const struct attr *a, const char *name, int64_t *out)
{
    const char *value = named_value(m, a, name);
    struct lexer lx;
    if (!is_number(value)) return false;
    lexer_begin(&lx, name, 0, value, strlen(value));
    struct token sign = lx.tok;
    lexer_accept(&lx, '-');
    if (!token_is_integer(&lx.tok)) return false;
    lexer_seek(&lx, sign);
    *out = lexer_integer(&lx, INT64_MIN, INT64_MAX);
    return true;
}

bool named_real(const struct module *m, const struct attr *a, const char *name, double *out)
{
    const char *value = named_value(m, a, name);
    struct lexer lx;
    if (!is_number(value)) return false;
    lexer_begin(&lx, name, 0, value, strlen(value));
    uint64_t bits = lexer_f64(&lx);
    memcpy(out, &bits, sizeof bits);
    return true;
}

const char *named_string(const struct module *m, const struct attr *a, const char *name, struct arena *arena)
{
    const char *value = named_value(m, a, name);
    struct lexer lx;
    size_t length;
    if (!value || *value != '"') return NULL;
    lexer_begin(&lx, name, 0, value, strlen(value));
    return lexer_string(&lx, arena, &length);
}

enum named_switch named_switch(const struct module *m, const struct attr *a, const char *name)
{
    static const char *const on[] = { "true", "\"yes\"", "\"on\"" }, *const off[] = { "false", "\"no\"",
                                                                                      "\"off\"" };
    const char *value = named_value(m, a, name);
    if (!value) return SWITCH_ABSENT;
    for (uint32_t i = 0; i < HOP_COUNT(on); i++) {
        if (!strcmp(value, on[i])) return SWITCH_ON;
        if (!strcmp(value, off[i])) return SWITCH_OFF;
    }
    return SWITCH_UNKNOWN;
}
