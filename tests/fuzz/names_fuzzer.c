/* Any names: the input's lines become the name of a function, of its parameters and results, a message, a
 * format and the name of a callback. The program reads back from its print, and the C that is emitted has the
 * same tokens as that of a program with plain names, but for what identifiers are called and strings say. */
#include "fuzz.h"
#include "loop/lower.h"
#include "check/check.h"
#include "emit/c99.h"
#include "ir/text.h"

enum { NAMES = 6 };

static void put_escaped(struct text *t, const uint8_t *name, size_t n)
{
    text_str(t, "\"");
    for (size_t i = 0; i < n; i++)
        if (name[i]) text_add(t, "\\x%02x", name[i]);
    text_str(t, n ? "\"" : "n\"");
}

struct program {
    struct arena arena;
    struct text text, source, header;
    struct module *m;
};

static void put_program(struct program *p, const uint8_t *names[NAMES], const size_t lengths[NAMES])
{
    static const char body[] = ": f64[], %last: i32[]) -> (f32[T], f64[]) effects(check, io) {\n  %z = full "
                               "{value = 0, dims = [], dtype = i32}\n"
                               "  %c = ge(%last, %z)\n  check {message = ";
    static const char *const parts[] = { "hop 1\nfn @",
                                         "(%",
                                         ": f32[T], %",
                                         body,
                                         "} (%c, %last)\n  print {format = ",
                                         "} (%last)\n  callback {name = ",
                                         "} (%last)\n" };
    p->text.arena = p->source.arena = p->header.arena = &p->arena;
    for (int i = 0; i < NAMES; i++) text_str(&p->text, parts[i]), put_escaped(&p->text, names[i], lengths[i]);
    text_str(&p->text, parts[NAMES]);
    text_str(&p->text, "  %r = neg(%"), put_escaped(&p->text, names[1], lengths[1]),
        text_str(&p->text, ")\n  %q = neg(%"), put_escaped(&p->text, names[2], lengths[2]);
    text_str(&p->text, ")\n  return %r, %q\n}\n");
}

static void emit_program(void *ctx)
{
    struct program *p = ctx;
    struct pass_options passes = { .strict = true };
    p->m = text_read("names", p->text.data, p->text.len);
    struct text again = { .arena = &p->arena };
    text_print(p->m, HOP_NONE, 0, &again);
    struct module *second = text_read("print", again.data, again.len);
    hop_cleanup_push(module_free, second);
    uint32_t fn = 0;
    while (!module_fn(p->m, fn)->name) fn++;
    MUST(!strcmp(module_text(p->m, module_fn(p->m, fn)->name),
                 module_text(second, module_fn(second, 0)->name)),
         "the name is another after printing");
    hop_cleanup_pop(second);
    module_free(second);
    struct lp *lp = lower_and_plan(p->m, fn, &passes);
    hop_cleanup_push(lp_free, lp);
    struct c99_unit unit;
    c99_begin(&unit, &p->arena, &c99_own_dialect);
    c99_add(&unit, lp, &(struct c99_options){ .original = module_fn(p->m, fn) });
    c99_finish(&unit, NULL, &p->source, &p->header);
    struct text json = { .arena = &p->arena };
    json_string(&json, module_text(p->m, module_fn(p->m, fn)->name));
    for (size_t i = 1; i + 1 < json.len; i++) {
        MUST((unsigned char)json.data[i] >= 32 && json.data[i] != '"', "JSON with byte %d inside a string",
             json.data[i]);
        i += json.data[i] == '\\';
    }
    hop_cleanup_pop(lp);
    lp_free(lp);
}

/* ---- C's tokens: enough of them to tell where a comment or a string ends ---- */

enum token { END, WORD, NUMBER, STRING, OTHER };

static bool is_word(char c)
{
    return c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
}

static enum token next(const char **at, const char **begin)
{
    const char *p = *at;
    for (;;) {
        /* lines of a macro go on behind a backslash */
        while (*p == ' ' || *p == '\n' || *p == '\t' || !strncmp(p, "\\\n", 2)) p++;
        MUST(strncmp(p, "??", 2) && *p != '\\', "a trigraph or a backslash outside of strings");
        if (p[0] == '/' && p[1] == '*') {
            const char *end = strstr(p + 2, "*/");
            MUST(end, "a comment that does not end");
            for (const char *c = p; c < end; c++)
                MUST(*c != '\\' && strncmp(c, "??", 2), "a comment with a backslash or a trigraph");
            p = end + 2;
        } else if (p[0] == '/' && p[1] == '/') MUST(false, "a comment to the end of the line");
        else break;
    }
    *begin = p;
    enum token kind = !*p           ? END
                      : is_word(*p) ? (*p >= '0' && *p <= '9' ? NUMBER : WORD)
                      : *p == '"'   ? STRING
                                    : OTHER;
    if (kind == STRING) {
        for (p++; *p != '"'; p++) {
            MUST(*p && *p != '\n' && strncmp(p, "??", 2), "a string that does not end, or with a trigraph");
            p += *p == '\\';
        }
        p++;
    } else if (kind == WORD || kind == NUMBER)
        while (is_word(*p)) p++;
    else if (kind == OTHER) p++;
    *at = p;
    return kind;
}

static void same_tokens(const char *x, const char *y)
{
    for (;;) {
        const char *bx, *by;
        enum token kx = next(&x, &bx), ky = next(&y, &by);
        MUST(kx == ky, "the text has other tokens than with plain names: %.40s", bx);
        if (kx == END) return;
        bool same = x - bx == y - by && !memcmp(bx, by, (size_t)(x - bx));
        MUST(same || kx == WORD || kx == STRING, "the text has other tokens than with plain names: %.40s",
             bx);
    }
}

static struct program plain;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const uint8_t *names[NAMES] = { (const uint8_t *)"f", (const uint8_t *)"a", (const uint8_t *)"b",
                                    (const uint8_t *)"m", (const uint8_t *)"p", (const uint8_t *)"c" };
    put_program(&plain, names, (const size_t[NAMES]){ 1, 1, 1, 1, 1, 1 });
    MUST(!fuzz_attempt(emit_program, &plain), "%s", hop_message());
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *names[NAMES];
    size_t lengths[NAMES], at = 0;
    struct program p = { 0 };
    for (int i = 0; i < NAMES;
         i++) { /* a byte 0x1e ends a name; the last one is used again when there are no more */
        names[i] = data + at;
        lengths[i] = 0;
        while (at < size && data[at] != 0x1e) lengths[i]++, at++;
        at += at < size;
    }
    put_program(&p, names, lengths);
    if (!fuzz_attempt(emit_program, &p)) {
        same_tokens(p.source.data, plain.source.data);
        same_tokens(p.header.data, plain.header.data);
    }
    module_free(p.m);
    arena_free(&p.arena);
    return 0;
}
