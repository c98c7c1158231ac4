/* Canonical bytes of a function: everything that its compiled code depends on, and nothing else. Two
 * functions with equal bytes, in whatever modules, compile to the same code and differ at most in the places
 * and the names of inner values.
 *
 * Functions, types, dims and constants are numbered as a walk from the function meets them and written where
 * they are met first, so that the numbers do not depend on what else the module holds. Places are numbered
 * too, but only the numbers are written: a compiled program refers to a place or a constant by number, and
 * each program that shares the code looks it up in its own table. Which results are new contents of
 * parameters is no part of it: code depends on what the caller asks of memory (compile_options.over), which
 * stands in the key beside these bytes. */
#ifndef HOP_CANON_H
#define HOP_CANON_H

#include "ir/table.h"

struct canon {
    struct arena arena; /* of everything here */
    vec(uint32_t) words;
    vec(struct place) places; /* by number */
    struct map place_numbers;
    vec(uint32_t) constants;    /* by number: index in the module */
    uint32_t *constant_numbers; /* by index in the module: number, HOP_NONE when it is not used */
    uint32_t n_constants;       /* of the module, when the walk was made */
};
/* Adds the function's bytes to c->words; c->arena belongs to the caller, who frees it. */
void canon_function(struct canon *c, const struct module *m, uint32_t fn);
void canon_bytes(struct canon *c, const void *bytes, size_t n); /* adds the length and the bytes */
/* Its number, HOP_NONE: no place of the program. */
uint32_t canon_place(const struct canon *c, struct place p);
uint32_t canon_constant(const struct canon *c, uint32_t constant); /* likewise */

#endif
