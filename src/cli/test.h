/* Between hop test's two halves: test.c checks one file, test_all.c finds the files and shares them out to
 * processes. */
#ifndef HOP_CLI_TEST_H
#define HOP_CLI_TEST_H

#include "cli/cli.h"

struct test_run {
    const char *path;
    bool verbose, quick, compiled; /* compiled: native code can be made */
    bool emitted_c;                /* the tests go through emitted C and nothing else */
    uint32_t without;              /* passes switched off throughout */
    struct text *out;              /* failures, a line each */
    uint32_t passed, failed;
};
void test_file(struct test_run *run); /* counts, never throws */

#endif
