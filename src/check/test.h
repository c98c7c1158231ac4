/* The tests of one program: its test blocks, run on every back end. */
#ifndef HOP_TEST_H
#define HOP_TEST_H

#include "check/check.h"

struct test_run {
    const char *path;
    bool verbose, quick, compiled;     /* compiled: native code can be made */
    const struct backend *backend;     /* NULL: the tests are run on every one */
    bool emitted_c;                    /* the tests go through emitted C and nothing else */
    const struct c99_dialect *dialect; /* of emitted C; NULL: C99 itself */
    uint32_t without;                  /* passes switched off throughout */
    struct text *out;                  /* failures, a line each */
    uint32_t passed, failed;
};
void test_file(struct test_run *run); /* counts, never throws */

#endif
