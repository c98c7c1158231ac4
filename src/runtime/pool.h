/* The process's worker threads, started when first needed. */
#ifndef HOP_POOL_H
#define HOP_POOL_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct hop_rt;
/* Threads of a run, the caller among them: whoever says more, in whatever way, gets so many. */
enum { POOL_MOST_THREADS = 256 };
uint32_t pool_cores(void); /* processors this process may use: by affinity, and by its control groups */
/* A set of processors, with room for so many. */
struct processors {
    cpu_set_t *set; /* for CPU_FREE */
    int room;
};
/* Those that the thread at hand may use, in a set that p has already, or a larger one; false: that is not
 * known. */
bool pool_processors(struct processors *p);
/* For tests: sched_getaffinity. */
extern int (*pool_ask_processors)(pid_t, size_t, cpu_set_t *);
/* Threads of runs that have no number of their own: what pool_set_threads said, else HOP_NUM_THREADS, else
 * pool_cores. */
uint32_t pool_threads(void);
/* Callers that run programs at once, ranks say, and have a part of the threads each: of how many the thread
 * at hand is one, 1 unless it was said. pool_threads gives it its part, one thread at least. */
uint32_t pool_sharers(void);
void pool_set_sharers(uint32_t n);
/* The part of the processors that this process has, of those that it may use; 0: all. What HOP_NUM_THREADS
 * and pool_set_threads say goes before it. */
void pool_set_part(uint32_t cores);
/* The number of the thread at hand among those of a job: workers have 1, 2, …, below the job's `threads`; of
 * all others it is 0, and one of them at most is in a job. */
uint32_t pool_number(void);
/* 0: the usual number, found out anew. Gives what was said before. */
uint32_t pool_set_threads(uint32_t threads);
/* Runs body over contiguous pieces of 0..n, each at least `grain` long but the last (below zero: one, which
 * is worth -grain of the least pieces that are worth a thread), on up to `threads` threads, the caller among
 * them; returns the first status that is not zero. Pieces are a matter of scheduling: a body's result must
 * not depend on them. Called from inside a body, or while another thread uses the pool, it runs everything
 * itself. */
int32_t pool_run(uint32_t threads, struct hop_rt *rt,
                 int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env, int64_t n,
                 int64_t grain);

#endif
