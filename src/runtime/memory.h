/* Memory of large arrays. */
#ifndef HOP_MEMORY_H
#define HOP_MEMORY_H

#include "ir/table.h"

void memory_prefer_huge_pages(void *block, size_t bytes); /* a hint for large blocks, before they are touched */
void memory_drop_kept(void);                              /* frees the blocks that freed tensors left for reuse */

#endif
