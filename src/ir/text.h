/* The text form: reading, printing, verifying. Grammar in docs/ir.md. */
#ifndef HOP_TEXT_H
#define HOP_TEXT_H

#include "ir/table.h"

/* Reads a program. Throws HOP_INVALID with "file:line:col: …" on the first error. The module is the caller's.
 * Every node is checked as it is built, so that what was read passes verify_fn. */
struct module *text_read(const char *file_name, const char *text, size_t length);
/* Adds the functions of a text to an existing module; they may call the ones that are there. After a throw
 * the module is usable, but may hold some of the text's functions. */
void text_read_into(struct module *m, const char *file_name, const char *text, size_t length);
struct module *text_read_file(const char *path); /* HOP_IO when it cannot be read */

enum { TEXT_LOCATIONS = 1 /* append where each node was made */ };
/* Prints the constants in use, the named functions, the bodies used more than once, and the tests; or only
 * one function and what it reaches (fn HOP_NONE: all). */
void text_print(const struct module *m, uint32_t fn, unsigned flags, struct text *out);
/* A number of an f32, f64 or other dtype as the text form writes it; at `data`. */
void text_print_element(enum dtype dtype, const void *data, struct text *out);
void text_quoted(struct text *out, const char *s); /* as the text form writes a string */
void text_real(struct text *out, uint64_t f64); /* a real, from its bits: it does not look like an integer */
void json_string(struct text *out, const char *s); /* in quotes; what is not UTF-8 becomes U+FFFD */

/* Checks a finished function (and not what it calls): operands defined before use, signatures, types equal to
 * what infer gives, symbols, effects, no cycles of calls. Throws HOP_INVALID. simplify calls it after every
 * pass in tests and where HOP_DEBUG lists `verify`. */
void verify_fn(struct module *m, uint32_t fn);

/* `test "name" TRANSFORM… @fn { … }` blocks. Parameters and results are numbered as in the transformed
 * function; every transform keeps the parameters it is given in front, so that the name of a parameter of @fn
 * means the same number under any transform. */
enum test_input_kind { INPUT_CONST, INPUT_RANDOM };
struct test_input {
    uint32_t param; /* number in the transformed function */
    uint8_t kind;
    uint32_t constant; /* INPUT_CONST */
    type_id type;      /* INPUT_RANDOM: static */
    uint64_t seed;
    double lo, hi; /* uniform in lo..hi; integers in lo..hi inclusive */
};
struct test_expect {
    uint32_t result, constant;
    double within; /* absolute and relative bound: |a - e| <= within * max(1, |e|); 0: bit equality (NaN
                      equals NaN) */
};
enum { MAX_TEST_TRANSFORMS = 4, MAX_TEST_PARAMS = 16 };
enum {
    TRANSFORM_GRAD,
    TRANSFORM_JVP,
    TRANSFORM_VMAP,
    TRANSFORM_VJP,
    TRANSFORM_DEBUG_NANS,
    TRANSFORM_PROBES,
    TRANSFORM_PERTURB,
    TRANSFORMS
};
extern const char *const transform_words[TRANSFORMS];
/* params: the parameters it works on, ascending or not as written; size: of vmap's new dim, -1: a fresh
 * symbol. names, stacked: of probes and perturb; names HOP_NONE: all. */
struct test_transform {
    uint8_t kind;
    uint32_t n;
    uint32_t params[MAX_TEST_PARAMS];
    int64_t size;
    uint32_t names; /* string id */
    bool stacked;
};
struct test_property {
    uint32_t word;
    uint32_t n;
    uint32_t params[MAX_TEST_PARAMS];
}; /* e.g. "differences" over parameters; word: string id */
struct program_test {
    struct place place;
    uint32_t fn;
    uint32_t name; /* string id, 0: none */
    uint32_t n_transforms;
    /* Applied first to last; in text the one nearest to @fn is first. */
    struct test_transform transforms[MAX_TEST_TRANSFORMS];
    uint32_t n_inputs, n_expects, n_properties, n_dims;
    struct test_input *inputs;
    struct test_expect *expects;
    struct test_property *properties;
    int64_t *dims;   /* of the function's explicit dim parameters, in symbol order */
    uint32_t fails;  /* string id: the run must fail with a message that contains it; 0: must succeed */
    uint32_t prints; /* string id of what must be printed; 0: not looked at */
};

#endif
