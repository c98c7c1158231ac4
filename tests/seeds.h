/* Which seeds a test of random programs takes: those that its arguments name, FIRST [COUNT], or as many from
 * 1 on as HOP_TEST_SEEDS says, or as usual. */
#ifndef HOP_TEST_SEEDS_H
#define HOP_TEST_SEEDS_H

#include <stdint.h>
#include <stdlib.h>

struct seeds {
    uint64_t first, end;
};

static inline struct seeds seeds_asked(int argc, char **argv, uint64_t usual)
{
    const char *more = getenv("HOP_TEST_SEEDS");
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = usual;
    if (argc > 2) count = strtoull(argv[2], NULL, 10);
    else if (argc > 1) count = 1;
    else if (more) count = strtoull(more, NULL, 10);
    return (struct seeds){ first, first + count };
}

#endif
