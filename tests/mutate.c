/* One small wrong change to a source file: `mutate FILE` says how many places there are, `mutate FILE N OUT`
 * writes the file with change N to OUT and prints `FILE:LINE: FUNCTION: what it is`. Changes stand inside
 * functions: operators, comparisons, logic, numbers, operators of the table, operands of emitted nodes,
 * dropped results. In a list (a .def file) they stand inside its lines, which are named by their first word:
 * there facts about an operator become those of another one, too. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { WORD, NUMBER, MARK };

struct token {
    enum kind kind;
    size_t at, length;
    unsigned depth; /* of braces inside a function; 0: not in one */
    bool message;   /* inside the arguments of a call that makes an error */
};

struct file {
    char *text;
    size_t length;
    struct token *tokens;
    size_t n_tokens;
    bool list; /* a .def file: NAME(…) lines and no functions */
};

static void *grown(void *old, size_t size)
{
    void *p = realloc(old, size);
    if (!p) fprintf(stderr, "out of memory\n"), exit(2);
    return p;
}

static bool is(const struct file *f, size_t i, const char *word)
{
    return i < f->n_tokens && f->tokens[i].length == strlen(word) &&
           !memcmp(f->text + f->tokens[i].at, word, f->tokens[i].length);
}

/* ---- tokens ---- */

static size_t skip_quoted(const char *s, size_t at, char quote)
{
    for (at++; s[at] && s[at] != quote; at++) at += s[at] == '\\' && s[at + 1];
    return at + (s[at] != 0);
}

static size_t skip_line(const char *s, size_t at) /* of the preprocessor, with those that continue it */
{
    while (s[at] && !(s[at] == '\n' && s[at - 1] != '\\')) at++;
    return at;
}

static size_t mark_length(const char *s)
{
    static const char *const marks[] = { "<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==",
                                         "!=",  "&&",  "||",  "+=", "-=", "*=", "/=", "|=", "&=", "^=" };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (!strncmp(s, marks[i], strlen(marks[i]))) return strlen(marks[i]);
    return 1;
}

static void split(struct file *f)
{
    const char *s = f->text;
    bool fresh = true; /* nothing but space on the line so far */
    for (size_t at = 0; s[at];) {
        struct token t = { MARK, at, 0, 0, false };
        if (s[at] == '\n') fresh = true;
        if (isspace((unsigned char)s[at])) {
            at++;
            continue;
        }
        if (s[at] == '#' && fresh) at = skip_line(s, at);
        else if (!strncmp(s + at, "/*", 2))
            at = strstr(s + at, "*/") ? (size_t)(strstr(s + at, "*/") - s) + 2 : f->length;
        else if (!strncmp(s + at, "//", 2)) at = skip_line(s, at);
        else if (s[at] == '"' || s[at] == '\'') at = skip_quoted(s, at, s[at]);
        else {
            if (isalpha((unsigned char)s[at]) || s[at] == '_') t.kind = WORD;
            else if (isdigit((unsigned char)s[at])) t.kind = NUMBER;
            if (t.kind == MARK) t.length = mark_length(s + at);
            while (t.kind != MARK && (isalnum((unsigned char)s[at + t.length]) || s[at + t.length] == '_' ||
                                      (t.kind == NUMBER && s[at + t.length] == '.')))
                t.length++;
            at += t.length;
            f->tokens = grown(f->tokens, (f->n_tokens + 1) * sizeof t);
            f->tokens[f->n_tokens++] = t;
        }
        fresh = false;
    }
}

/* Which tokens belong to functions, and which only to messages. */
static void find_functions(struct file *f)
{
    static const char *const errors[] = { "infer_error", "hop_throw", "arena_printf", "_Static_assert",
                                          "sizeof" };
    unsigned depth = 0, parens = 0, message = 0;
    bool function = false;
    for (size_t i = 0; i < f->n_tokens; i++) {
        if (is(f, i, "{")) {
            if (!depth) function = i && is(f, i - 1, ")");
            depth++;
        }
        if (is(f, i, "}") && depth) depth--;
        if (is(f, i, "(")) {
            parens++;
            for (size_t k = 0; k < sizeof errors / sizeof *errors && !message; k++)
                if (i && is(f, i - 1, errors[k])) message = parens;
        }
        f->tokens[i].depth = f->list ? parens : function ? depth : 0;
        f->tokens[i].message = message != 0;
        if (is(f, i, ")") && parens) {
            if (message == parens) message = 0;
            parens--;
        }
    }
}

/* ---- changes ---- */

struct change {
    size_t from, to; /* bytes that are replaced */
    char text[512];
    const char *what;
};

static const char *const pairs[][3] = {
    { "<", "<=", "bound" },
    { "<=", "<", "bound" },
    { ">", ">=", "bound" },
    { ">=", ">", "bound" },
    { "==", "!=", "comparison" },
    { "!=", "==", "comparison" },
    { "&&", "||", "logic" },
    { "||", "&&", "logic" },
    { "true", "false", "truth" },
    { "false", "true", "truth" },
    { "OP_add", "OP_sub", "operator" },
    { "OP_sub", "OP_add", "operator" },
    { "OP_mul", "OP_add", "operator" },
    { "OP_div", "OP_mul", "operator" },
    { "OP_max", "OP_min", "operator" },
    { "OP_min", "OP_max", "operator" },
    { "OP_and", "OP_or", "operator" },
    { "OP_or", "OP_and", "operator" },
    { "OP_lt", "OP_le", "operator" },
    { "OP_le", "OP_lt", "operator" },
    { "OP_gt", "OP_ge", "operator" },
    { "OP_ge", "OP_gt", "operator" },
    { "OP_eq", "OP_ne", "operator" },
    { "OP_ne", "OP_eq", "operator" },
    { "OP_sum", "OP_reduce_max", "operator" },
    { "OP_sin", "OP_cos", "operator" },
    { "OP_cos", "OP_sin", "operator" },
    { "OP_neg", "OP_abs", "operator" },
    { "OP_not", "OP_isnan", "operator" },
    { "OP_reduce_max", "OP_reduce_min", "operator" },
    { "FOLD_SUM", "FOLD_MAX", "fold" },
    { "FOLD_MAX", "FOLD_MIN", "fold" },
    { "LP_ADD", "LP_SUB", "operator" },
    { "LP_SUB", "LP_ADD", "operator" },
    { "LP_MUL", "LP_ADD", "operator" },
    { "LP_MAX", "LP_MIN", "operator" },
    { "LP_LT", "LP_LE", "operator" },
    { "LP_EQ", "LP_NE", "operator" },
    { "LOGIC_AND", "LOGIC_OR", "fact" },
    { "LOGIC_OR", "LOGIC_AND", "fact" },
    { "COMPARE_EQ", "COMPARE_NE", "fact" },
    { "COMPARE_NE", "COMPARE_EQ", "fact" },
    { "COMPARE_LT", "COMPARE_LE", "fact" },
    { "COMPARE_LE", "COMPARE_LT", "fact" },
    { "COMPARE_GT", "COMPARE_GE", "fact" },
    { "COMPARE_GE", "COMPARE_GT", "fact" },
    { "ORDERED", "COMMUTES", "fact" },
};
static const char *const calls[][2] = {
    /* in lists, whose lines are expressions of these */
    { "add", "sub" },
    { "sub", "add" },
    { "mul", "add" },
    { "divide", "mul" },
};

static bool spaced(const struct file *f,
                   size_t i) /* binary operators have a space on both sides, pointers have not */
{
    const struct token *t = &f->tokens[i];
    return t->at && f->text[t->at - 1] == ' ' && f->text[t->at + t->length] == ' ';
}

static size_t argument_end(const struct file *f,
                           size_t i) /* the comma or parenthesis behind the argument that begins at token i */
{
    for (int depth = 0; i < f->n_tokens; i++) {
        if (!depth && (is(f, i, ",") || is(f, i, ")"))) return i;
        depth += is(f, i, "(") || is(f, i, "[") || is(f, i, "{");
        depth -= is(f, i, ")") || is(f, i, "]") || is(f, i, "}");
    }
    return i;
}

static bool set(struct change *c, const struct file *f, size_t first, size_t end_at, const char *text,
                size_t length, const char *what)
{
    c->from = f->tokens[first].at, c->to = end_at, c->what = what;
    return snprintf(c->text, sizeof c->text, "%.*s", (int)length, text) < (int)sizeof c->text;
}

static size_t end_of(const struct file *f, size_t i) { return f->tokens[i].at + f->tokens[i].length; }

static bool swapped_operands(const struct file *f, size_t i, struct change *c)
{
    static const char *const symmetric[] = { "OP_add", "OP_mul", "OP_and", "OP_or",
                                             "OP_xor", "OP_eq",  "OP_ne",  "OP_hypot" };
    if (!is(f, i, "emit2") || !is(f, i + 1, "(")) return false;
    size_t x = i + 2;
    for (int k = 0; k < 2; k++) {
        for (size_t s = 0; k == 1 && s < sizeof symmetric / sizeof *symmetric; s++)
            if (is(f, x, symmetric[s])) return false;
        x = argument_end(f, x) + 1;
    }
    size_t middle = argument_end(f, x), y = middle + 1, end = argument_end(f, y);
    if (end >= f->n_tokens || !is(f, middle, ",")) return false;
    size_t x_length = end_of(f, middle - 1) - f->tokens[x].at,
           y_length = end_of(f, end - 1) - f->tokens[y].at;
    char text[400];
    if (snprintf(text, sizeof text, "%.*s, %.*s", (int)y_length, f->text + f->tokens[y].at, (int)x_length,
                 f->text + f->tokens[x].at) >= (int)sizeof text)
        return false;
    return set(c, f, x, end_of(f, end - 1), text, strlen(text), "operands swapped");
}

static bool dropped(const struct file *f, size_t i, struct change *c) /* v->out[…] = …; */
{
    static const char *const results[] = { "out", "result_batched", "result_active" };
    bool one = false;
    if (i + 3 >= f->n_tokens || !is(f, i + 1, "->") || !is(f, i + 3, "[") ||
        (!is(f, i - 1, ";") && !is(f, i - 1, "{") && !is(f, i - 1, "}") && !is(f, i - 1, ")")))
        return false;
    for (size_t k = 0; k < sizeof results / sizeof *results; k++) one |= is(f, i + 2, results[k]);
    size_t end = i;
    while (one && end < f->n_tokens && !is(f, end, ";")) end++;
    return one && end < f->n_tokens && set(c, f, i, f->tokens[end].at, "(void)0", 7, "result dropped");
}

/* Is token i part of the size of an array that is declared there? */
static bool sizes_an_array(const struct file *f, size_t i)
{
    while (i && !is(f, i, "[") && !is(f, i, ";") && !is(f, i, "]") && !is(f, i, "{") && !is(f, i, "(")) i--;
    if (i < 2 || !is(f, i, "[") || f->tokens[i - 1].kind != WORD || is(f, i - 2, "return")) return false;
    if (f->tokens[i - 2].kind == WORD || is(f, i - 2, "*")) return true;
    size_t start = i; /* `type a[2], b[3] = …` */
    while (start && !is(f, start, ";") && !is(f, start, "{") && !is(f, start, "}") && !is(f, start, "(") &&
           !is(f, start, "="))
        start--;
    return is(f, i - 2, ",") && !is(f, start, "(") && !is(f, start, "=") &&
           f->tokens[start + 1].kind == WORD && (f->tokens[start + 2].kind == WORD || is(f, start + 2, "*"));
}

/* In a list: `.range = range_abs` becomes the range of the next line that has one. */
static bool next_fact(const struct file *f, size_t i, struct change *c)
{
    if (!f->list || i < 3 || !is(f, i - 1, "=") || !is(f, i - 3, ".") || f->tokens[i].kind != WORD)
        return false;
    const struct token *column = &f->tokens[i - 2], *own = &f->tokens[i];
    for (size_t step = 1; step < f->n_tokens; step++) {
        size_t k = (i + step) % f->n_tokens;
        const struct token *t = &f->tokens[k];
        bool same_column = k >= 3 && is(f, k - 1, "=") && is(f, k - 3, ".") &&
                           f->tokens[k - 2].length == column->length &&
                           !memcmp(f->text + f->tokens[k - 2].at, f->text + column->at, column->length);
        bool same_fact = t->length == own->length && !memcmp(f->text + t->at, f->text + own->at, t->length);
        if (same_column && !same_fact && t->kind == WORD)
            return set(c, f, i, end_of(f, i), f->text + t->at, t->length, "fact");
    }
    return false;
}

static bool other_call(const struct file *f, size_t i, struct change *c)
{
    for (size_t k = 0; f->list && is(f, i + 1, "(") && k < sizeof calls / sizeof *calls; k++)
        if (is(f, i, calls[k][0]))
            return set(c, f, i, end_of(f, i), calls[k][1], strlen(calls[k][1]), "operator");
    return false;
}

/* Change k of token i. */
static bool change_of(const struct file *f, size_t i, unsigned k, struct change *c)
{
    const struct token *t = &f->tokens[i];
    const char *s = f->text + t->at;
    if (sizes_an_array(f, i)) return false;
    if (k == 1)
        return swapped_operands(f, i, c) || dropped(f, i, c) || other_call(f, i, c) || next_fact(f, i, c);
    if (t->kind == NUMBER) {
        char *end;
        unsigned long v = strtoul(s, &end, 0);
        if (end != s + t->length && !(end + 1 == s + t->length && *end == 'u')) return false;
        char text[32];
        snprintf(text, sizeof text, "%lu", v == 1 ? 0 : v + 1);
        return set(c, f, i, end_of(f, i), text, strlen(text), "number");
    }
    if (is(f, i, "!") && i && !spaced(f, i)) return set(c, f, i, end_of(f, i), "", 0, "not dropped");
    if ((is(f, i, "+") || is(f, i, "-")) && spaced(f, i))
        return set(c, f, i, end_of(f, i), is(f, i, "+") ? "-" : "+", 1, "sign");
    if (is(f, i, "*") && spaced(f, i)) return set(c, f, i, end_of(f, i), "+", 1, "product");
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++)
        if (is(f, i, pairs[p][0]) && (t->kind == WORD || spaced(f, i)))
            return set(c, f, i, end_of(f, i), pairs[p][1], strlen(pairs[p][1]), pairs[p][2]);
    return false;
}

static size_t changes(const struct file *f, size_t wanted, struct change *out)
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_tokens; i++)
        for (unsigned k = 0; k < 2 && f->tokens[i].depth && !f->tokens[i].message; k++) {
            struct change c;
            if (!change_of(f, i, k, &c)) continue;
            if (n++ == wanted) *out = c;
        }
    return n;
}

/* The name of the function, or of the line of a list, that byte `at` stands in. */
static const struct token *function_around(const struct file *f, size_t at)
{
    const struct token *name = NULL;
    for (size_t i = 0; i + 1 < f->n_tokens && f->tokens[i].at <= at; i++)
        if (!f->tokens[i].depth && f->tokens[i].kind == WORD && is(f, i + 1, "("))
            name = &f->tokens[f->list ? i + 2 : i];
    return name;
}

int main(int argc, char **argv)
{
    struct file f = { 0 };
    struct change c = { 0 };
    FILE *in = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!in || (argc != 2 && argc != 4)) return fprintf(stderr, "mutate FILE [N OUT]\n"), 2;
    for (size_t got = 1; got; f.length += got) {
        f.text = grown(f.text, f.length + 65537);
        got = fread(f.text + f.length, 1, 65536, in);
    }
    f.text[f.length] = 0;
    fclose(in);
    size_t path = strlen(argv[1]);
    f.list = path > 4 && !strcmp(argv[1] + path - 4, ".def");
    split(&f);
    find_functions(&f);
    size_t wanted = argc == 4 ? strtoul(argv[2], NULL, 10) : (size_t)-1, n = changes(&f, wanted, &c);
    if (argc == 2) return printf("%zu\n", n), 0;
    if (wanted >= n) return fprintf(stderr, "%s: %zu places\n", argv[1], n), 2;
    size_t line = 1, start = 0;
    for (size_t i = 0; i < c.from; i++)
        if (f.text[i] == '\n') line++, start = i + 1;
    while (f.text[start] == ' ') start++;
    const struct token *name = function_around(&f, c.from);
    FILE *out = fopen(argv[3], "wb");
    if (!out) return fprintf(stderr, "%s cannot be written\n", argv[3]), 2;
    fprintf(out, "#line 1 \"%s\"\n", argv[1]);
    fwrite(f.text, 1, c.from, out);
    fputs(c.text, out);
    fwrite(f.text + c.to, 1, f.length - c.to, out);
    if (fclose(out)) return 2;
    printf("%s:%zu: %.*s: %s: `%.*s` becomes `%s` in: %.*s\n", argv[1], line, name ? (int)name->length : 0,
           name ? f.text + name->at : "", c.what, (int)(c.to - c.from), f.text + c.from, c.text,
           (int)strcspn(f.text + start, "\n"), f.text + start);
    return 0;
}
