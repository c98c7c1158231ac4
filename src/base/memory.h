/* Memory of large arrays, and how much of it there is. */
#ifndef HOP_MEMORY_H
#define HOP_MEMORY_H

#include "base/base.h"

/* A block of at least `bytes`, a kept one where one fits; throws HOP_NOMEM. *size is what memory_keep is told
 * when the block is no longer needed; 0: it is too small to be kept. */
void *memory_take(size_t bytes, size_t *size);
/* Keeps a block for reuse; false: there is no room, it is the caller's to free. */
bool memory_keep(void *block, size_t size);
void memory_drop_kept(void); /* frees the blocks that are kept */
/* A hint for large blocks, before they are touched. */
void memory_prefer_huge_pages(void *block, size_t bytes);

/* Bytes that the process can still get, UINT64_MAX: nobody says. Without `thoroughly` only by its own limits
 * (ulimit), which takes a microsecond. */
uint64_t memory_left(bool thoroughly);

/* As many processors as the quotas of the process's control groups are worth, rounded up; UINT32_MAX: they
 * have none. */
uint32_t processors_by_groups(void);
extern const char *limits_root; /* for tests: where /proc and /sys are */
/* "500M": K, M, G or bytes; otherwise: no such text */
uint64_t memory_size_of(const char *text, uint64_t otherwise);

#endif
