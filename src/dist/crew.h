/* Threads that run ranks. They are kept when a job ends, so that the next one begins in a few microseconds.
 */
#ifndef HOP_DIST_CREW_H
#define HOP_DIST_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How many have yet to end. */
struct crew_latch {
    _Atomic uint32_t left;
};
/* Runs work(arg) on a thread of its own, of which there is one for each call under way; false: there is none
 * to be had. The latch counts it until then. */
bool crew_start(struct crew_latch *latch, void (*work)(void *arg), void *arg);
/* Until all have ended; their memory is the caller's again. */
void crew_wait(struct crew_latch *latch);

#endif
