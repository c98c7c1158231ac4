/* Memory of large arrays, and how much of it there is. */
#ifndef HOP_MEMORY_H
#define HOP_MEMORY_H

#include "ir/table.h"

void memory_prefer_huge_pages(void *block,
                              size_t bytes); /* a hint for large blocks, before they are touched */
void memory_drop_kept(void);                 /* frees the blocks that freed tensors left for reuse */
/* Bytes that the process can still get, UINT64_MAX: nobody says. Without `thoroughly` only by its own limits
 * (ulimit), which takes a microsecond. */
uint64_t memory_left(bool thoroughly);
uint64_t memory_size_of(const char *text,
                        uint64_t otherwise); /* "500M": K, M, G or bytes; otherwise: no such text */

#endif
