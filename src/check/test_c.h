/* Tests through emitted C: the functions of one program's tests in one translation unit, compiled once,
 * loaded, and run like any back end. */
#ifndef HOP_TEST_C_H
#define HOP_TEST_C_H

#include "check/check.h"

struct c_programs;
struct c99_dialect;
struct c_programs *c_programs_new(const struct c99_dialect *dialect); /* NULL: C99 itself */
void c_programs_free(void *programs);
uint32_t c_programs_add(
    struct c_programs *c, struct module *m, uint32_t fn,
    const struct pass_options *passes); /* lowers and emits it; returns its number; throws */
/* Compiles and loads; throws. Optimised: -O1, which takes half as long again, else -O0; by turns
 * with -march=native and -DHOP_PLAIN_C; $HOP_TEST_CFLAGS, options with spaces between, takes the place of
 * all. */
void c_programs_build(struct c_programs *c, bool optimised);
/* Like run_on. */
bool c_programs_run(struct c_programs *c, uint32_t number, struct bag *bag, struct module *m, uint32_t fn,
                    struct tensor *const *args, const int64_t *dims, struct outcome *out);

#endif
