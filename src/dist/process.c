/* The rank of this process. It is set once, by whoever begins a job of processes, and read by every run. */
#include "dist/process.h"

#include <stdatomic.h>

static struct rank *_Atomic process;

struct rank *dist_process(void) { return atomic_load_explicit(&process, memory_order_acquire); }
void dist_process_set(struct rank *r) { atomic_store_explicit(&process, r, memory_order_release); }
