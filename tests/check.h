/* The few lines every test program needs: a claim that holds or is reported, a block that may throw, the
 * closing count. */
#ifndef HOP_TEST_CHECK_H
#define HOP_TEST_CHECK_H

#include "attempt.h"

static int tests_passed, tests_failed;

#define CLAIM(holds, ...) \
    do { \
        if (holds) tests_passed++; \
        else { \
            tests_failed++; \
            printf("%s:%d: ", __FILE__, __LINE__); \
            printf(__VA_ARGS__); \
            printf("\n"); \
        } \
    } while (0)

static inline int tests_end(void)
{
    printf("%d passed, %d failed\n", tests_passed, tests_failed);
    return tests_failed != 0;
}

#endif
