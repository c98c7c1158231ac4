/* Tokens of the text form. The lexer walks a terminated copy of the text, allocates nothing per token, and
 * can be put back to any token it has given out; it also turns number and string tokens into values. Errors
 * are thrown with file, line and column. */
#ifndef HOP_LEXER_H
#define HOP_LEXER_H

#include "ir/ir.h"

/* A token that is one character has that character as its kind. */
enum token_kind {
    TOKEN_END = 0,
    TOKEN_WORD = 128,
    TOKEN_VALUE,  /* %name */
    TOKEN_GLOBAL, /* @name */
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_POSITION, /* #0, in test blocks only */
    TOKEN_ARROW,    /* -> */
    TOKEN_RANGE,    /* .. */
    TOKEN_FLOORDIV, /* // */
    TOKEN_EQUALS    /* == */
};
struct token {
    const char *start; /* first character, sigil or quote included */
    const char *text;  /* without sigil and quotes */
    uint32_t len, line, col;
    uint8_t kind;
    bool quoted;
};
struct lexer {
    const char *p, *line_start, *begin, *end;
    uint32_t line;
    bool in_test;     /* # before a digit is a position, not a comment */
    struct token tok; /* the current token */
    const char *file;
    uint16_t file_id;
};

/* text[length] is 0. */
void lexer_begin(struct lexer *lx, const char *file, uint16_t file_id, const char *text, size_t length);
void lexer_next(struct lexer *lx);
void lexer_seek(struct lexer *lx, struct token to); /* makes an earlier token the current one again */
_Noreturn void lexer_error(const struct lexer *lx, struct token at, const char *format, ...) HOP_PRINTF(3, 4);
/* "expected WHAT, found THE CURRENT TOKEN" */
_Noreturn void lexer_expected(const struct lexer *lx, const char *what);
static inline struct place token_place(const struct lexer *lx, struct token t)
{
    return (struct place){ t.line, (uint16_t)HOP_MIN(t.col, UINT16_MAX), lx->file_id };
}
static inline bool token_is(const struct token *t, const char *word)
{
    return t->kind == TOKEN_WORD && !strncmp(t->text, word, t->len) && !word[t->len];
}
static inline bool lexer_accept(struct lexer *lx, int kind)
{
    if (lx->tok.kind != kind) return false;
    lexer_next(lx);
    return true;
}
bool lexer_accept_word(struct lexer *lx, const char *word);
void lexer_expect(struct lexer *lx, int kind, const char *what);

/* Numbers: an optional sign stands before the current token. */
bool token_is_integer(const struct token *t);
int64_t lexer_integer(struct lexer *lx, int64_t lo, int64_t hi); /* reads [-] NUMBER */
uint64_t lexer_unsigned(struct lexer *lx);                       /* reads NUMBER, up to 64 bits */
/* Reads [-] NUMBER | inf | nan | nan(0x bits), as the bits of a float dtype. f16 and bf16 are rounded from
 * the nearest f64. */
uint64_t lexer_float(struct lexer *lx, enum dtype t);
static inline uint64_t lexer_f64(struct lexer *lx) { return lexer_float(lx, DT_F64); }
/* Decodes the current string (or quoted name) into the arena and moves on; *length without the terminator. */
char *lexer_string(struct lexer *lx, struct arena *a, size_t *length);

/* What the printer must know to write what the lexer reads. */
bool lexer_is_word(const char *text); /* can it stand as a name without quotes? */
/* Bytes of the valid sequence at p, 0 if broken; p is terminated. */
size_t utf8_length(const unsigned char *p);

#endif
