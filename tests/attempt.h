/* A block that may throw, for test programs and fuzzers. */
#ifndef HOP_TEST_ATTEMPT_H
#define HOP_TEST_ATTEMPT_H

#include "base/base.h"

/* Runs body(); a throw is its status. */
static inline hop_status attempt(void (*body)(void *), void *ctx)
{
    struct hop_catch c;
    if (HOP_TRY(c)) {
        body(ctx);
        hop_catch_end(&c);
        return HOP_OK;
    }
    return hop_caught();
}

#endif
