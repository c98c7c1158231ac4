/* What the fuzzers share: a claim that ends the process when it does not hold, and a block that may throw. */
#ifndef HOP_FUZZ_H
#define HOP_FUZZ_H

#include "../attempt.h"

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

/* An attempt in which hop finds no bug of its own. */
static inline hop_status fuzz_attempt(void (*body)(void *), void *ctx)
{
    hop_status status = attempt(body, ctx);
    MUST(status != HOP_INTERNAL, "a bug in hop: %s", hop_message());
    return status;
}

#endif
