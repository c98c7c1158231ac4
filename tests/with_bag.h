/* For checks of one seed or one kind that may throw: each has a bag of its own, and what it throws is a
 * failure that names it. */
#ifndef HOP_TEST_WITH_BAG_H
#define HOP_TEST_WITH_BAG_H

#include "check.h"

#include "check/check.h"

static inline void with_bag(void (*body)(struct bag *bag, void *ctx), void *ctx, const char *what)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    if (!HOP_TRY(caught)) {
        CLAIM(false, "%s: %s", what, hop_message());
        return;
    }
    hop_cleanup_push(bag_free, &bag);
    body(&bag, ctx);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
    hop_catch_end(&caught);
}

struct of_seed {
    void (*body)(struct bag *bag, uint64_t seed);
    uint64_t seed;
};

static inline void walk_seed(struct bag *bag, void *ctx)
{
    const struct of_seed *s = ctx;
    s->body(bag, s->seed);
}

static inline void with_seed(void (*body)(struct bag *bag, uint64_t seed), uint64_t seed)
{
    struct of_seed s = { body, seed };
    char what[40];
    snprintf(what, sizeof what, "program %llu", (unsigned long long)seed);
    with_bag(walk_seed, &s, what);
}

#endif
