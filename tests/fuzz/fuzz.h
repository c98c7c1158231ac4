/* What the fuzzers share: a claim that ends the process when it does not hold, and a block that may throw. */
#ifndef HOP_FUZZ_H
#define HOP_FUZZ_H

#include "base/base.h"

#define MUST(holds, ...) \
    do { \
        if (holds) break; \
        fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
        fprintf(stderr, __VA_ARGS__); \
        fprintf(stderr, "\n"); \
        abort(); \
    } while (0)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

static inline hop_status attempt(void (*body)(void *), void *ctx)
{
    struct hop_catch c;
    if (HOP_TRY(c)) {
        body(ctx);
        hop_catch_end(&c);
        return HOP_OK;
    }
    hop_status status = hop_caught();
    MUST(status != HOP_INTERNAL, "a bug in hop: %s", hop_message());
    return status;
}

#endif
