/* Work that a call may leave behind: it runs on a thread of its own while the caller waits for it, or for the
 * wish to leave. */
#ifndef HOP_WORKER_H
#define HOP_WORKER_H

#include "base/base.h"

/* Does work(env) and waits until it is done: true. When the watch says that the call shall end, returns false
 * at once, and env belongs to the worker, which goes on and calls drop(env) at last. Neither throws. It is
 * the same where the process is ending. Without a watch, or where no thread can be had, the caller does the
 * work itself. */
bool worker_run(void (*work)(void *env), void (*drop)(void *env), void *env, const struct hop_watch *watch);
/* Does work(env) beside the caller, who may be a worker; NULL: no thread could be had. What that gives goes
 * to worker_end, which waits until it is done. */
void *worker_begin(void (*work)(void *env), void *env);
void worker_end(void *job);
uint32_t worker_count(void); /* of worker_run: threads at work, left behind or not */

#endif
