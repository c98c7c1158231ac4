/* Memory that is made ready while something else is done: a fresh block is touched, page by page, on threads
 * of its own, because the first visit of a page costs more than what most programs do with it. */
#ifndef HOP_READY_H
#define HOP_READY_H

#include "base/base.h"

struct ready;
/* A block of this many bytes; NULL where that is not worth a thread, or memory is short. */
struct ready *ready_begin(size_t bytes);
/* Ends the touching, wherever it is, and hands out the block, of at least `bytes`, which hop_free frees; NULL
 * when it is smaller. The rest is gone in any case. Accepts NULL. */
void *ready_end(struct ready *r, size_t bytes);

#endif
