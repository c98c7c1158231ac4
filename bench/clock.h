/* Times of the benchmarks: the clock, and the median of what it said. */
#ifndef HOP_BENCH_CLOCK_H
#define HOP_BENCH_CLOCK_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline double clock_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}
static inline double now_ms(void) { return clock_ms(CLOCK_MONOTONIC); }
/* What this thread worked: other programs on the machine do not count. */
static inline double worked_ms(void) { return clock_ms(CLOCK_THREAD_CPUTIME_ID); }

static inline int clock_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts them. */
static inline double median(double *times, uint32_t n)
{
    qsort(times, n, sizeof *times, clock_by_value);
    return times[n / 2];
}

#endif
