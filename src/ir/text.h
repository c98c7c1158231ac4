/* The text form: reading, printing, verifying. Grammar in docs/ir.md. */
#ifndef HOP_TEXT_H
#define HOP_TEXT_H

#include "ir/table.h"

/* Reads a program. Throws HOP_INVALID with "file:line:col: …" on the first error. The module is the caller's. Every function is verified. */
struct module *text_read(const char *file_name, const char *text, size_t length);
/* Adds the functions of a text to an existing module. */
void text_read_into(struct module *m, const char *file_name, const char *text, size_t length);
struct module *text_read_file(const char *path); /* HOP_IO when it cannot be read */

enum { TEXT_LOCATIONS = 1 /* append where each node was made */ };
/* Prints named functions (and bodies used more than once), or only one function and what it reaches (fn HOP_NONE: all). */
void text_print(const struct module *m, uint32_t fn, unsigned flags, struct text *out);

/* Checks a finished function (and not what it calls): operands defined before use, signatures, types equal to what infer gives,
 * symbols, no cycles of calls. Throws HOP_INVALID; passes run it after themselves in debug builds. */
void verify_fn(struct module *m, uint32_t fn);

/* `test [TRANSFORM] @fn { … }` blocks. */
enum test_input_kind { INPUT_CONST, INPUT_RANDOM };
struct test_input {
    uint32_t param; /* of the function under test */
    uint8_t kind;
    uint32_t constant;   /* INPUT_CONST */
    type_id type;        /* INPUT_RANDOM: static */
    uint64_t seed;
    double lo, hi;       /* uniform in lo..hi; integers in lo..hi inclusive */
};
struct test_expect {
    uint32_t result, constant;
    double within; /* absolute and relative bound: |a - e| <= within * max(1, |e|); 0: bit equality (NaN equals NaN) */
};
enum { MAX_TEST_TRANSFORMS = 4 };
struct test_transform { uint8_t kind; uint32_t n; uint32_t params[16]; int64_t size; }; /* TRANSFORM_*: names of parameters it works on */
enum { TRANSFORM_GRAD, TRANSFORM_JVP, TRANSFORM_VMAP, TRANSFORM_VJP };
struct test_property { uint32_t word; uint32_t n; uint32_t params[16]; }; /* e.g. "differences" over parameters; word: string id */
struct program_test {
    struct place place;
    uint32_t fn;
    uint32_t name; /* string id, 0: none */
    uint32_t n_transforms;
    struct test_transform transforms[MAX_TEST_TRANSFORMS]; /* applied first to last */
    uint32_t n_inputs, n_expects, n_properties;
    struct test_input *inputs;
    struct test_expect *expects;
    struct test_property *properties;
    uint32_t fails; /* string id: the run must fail with a message that contains it; 0: must succeed */
    uint32_t prints; /* string id of what must be printed; 0: not looked at */
};

#endif
