/* Operators from outside: what a module knows of one is its declaration, which is read from the text of a
 * signature, in programs and by those who register operators alike. Grammar in docs/operators.md. */
#ifndef HOP_IR_OPERATOR_H
#define HOP_IR_OPERATOR_H

#include "ir/lexer.h"

/* In place of a dim: any size will do. */
#define SIZE_ANY HOP_NONE

struct operator_type {
    uint8_t dtype; /* enum dtype, or DT_COUNT + k where there is no kind: dtype variable k */
    uint8_t rank;
    uint32_t kind;   /* string id: an object of that kind (dtype DT_OBJECT); 0: an array */
    const dim *dims; /* symbol k is size variable k */
};

enum operator_param_flags {
    PARAM_MUT = 1,   /* an operand whose new content is a result */
    PARAM_OUT = 2,   /* no operand: a result that the operator fills */
    PARAM_MAYBE = 4, /* may be absent */
    PARAM_LIST = 8,  /* any number of them, each of which may be absent */
    PARAM_READS = 16 /* an object that is read; others are written */
};
struct operator_param {
    uint32_t name; /* string id */
    uint8_t flags;
    struct operator_type type;
};

enum operator_size_kind {
    SIZE_BOUND, /* a parameter has it as a dim by itself */
    SIZE_GIVEN, /* only results have it: the node says what it is */
    SIZE_FOUND  /* ?k: the operator finds it when it runs */
};
struct operator_size {
    uint32_t name; /* string id */
    uint8_t kind;
};

enum operator_rule {
    OPERATOR_FORWARD,
    OPERATOR_BACKWARD,
    OPERATOR_JVP,
    OPERATOR_BATCH,
    OPERATOR_RULES /* in the order of the attributes of `custom` */
};
extern const char *const operator_rule_names[OPERATOR_RULES];

struct operator_decl {
    uint32_t name; /* string id */
    struct place place;
    bool any; /* (...): operands of any number and type; it has no parameters */
    effect_set effects;
    effect_set accesses; /* of objects, which are numbered as the operands are, without a mask in front */
    uint32_t version;
    uint32_t n_params, n_results, n_sizes, n_dtypes;
    const struct operator_param *params;
    const struct operator_type *results;
    const struct operator_size *sizes; /* in the order of their first appearance */
    const uint32_t *dtypes;            /* names of the dtype variables */
    uint32_t rules[OPERATOR_RULES];    /* functions of the module, HOP_NONE: none */
    /* NAME(…) -> …, as the printer writes it: two declarations with the same one are the same. */
    const char *signature;
};

/* Reads NAME(…) -> … {…} at the current token, and makes it known to the module. One that the module has is
 * checked against the one that is there. `rules` receives the tokens of the functions that options name
 * (@name; TOKEN_END: none); NULL: options name none. Throws HOP_INVALID with the place of what is wrong. */
struct operator_decl *operator_read(struct module *m, struct lexer *lx, struct token rules[OPERATOR_RULES]);
/* The same of a whole text; `what` stands in messages where the name of a file would. */
const struct operator_decl *operator_declare(struct module *m, const char *what, const char *text);
/* As it is in another module, without its rules. */
const struct operator_decl *operator_import(struct module *m, const struct module *from,
                                            const struct operator_decl *d);

const struct operator_decl *module_operator(const struct module *m, uint32_t name); /* NULL: there is none */
/* Can its name stand in the text in place of a row's? */
bool operator_is_word(const char *name);
bool operator_has_rules(const struct operator_decl *d);
/* f32[N, 3], with the names of the declaration. */
void operator_type_print(const struct module *m, const struct operator_decl *d, const struct operator_type *t,
                         struct text *out);
/* name(...), the signature of an operator of any operands. */
void operator_any_signature(const char *name, struct text *out);
/* " {effects = io, version = 2}", or nothing. */
void operator_options_print(const struct operator_decl *d, struct text *out);
const char *effect_name(effect_set effects); /* "none", "check", "io" */
bool effect_from_name(const char *name, effect_set *out);

#endif
