/* Memory whose content lies in a file: what a run keeps for later and moves out of the way. */
#ifndef HOP_OFFLOAD_H
#define HOP_OFFLOAD_H

#include "base/base.h"

struct offload_file {
    char *data; /* NULL: there is none yet */
    size_t bytes;
    int fd;
};
/* Where files are made: $HOP_OFFLOAD, else $TMPDIR, else /tmp. */
const char *offload_directory(void);
/* Room for `bytes` in the file, which is made at the first call and has no name: it goes when it is closed or
 * the process ends. The blocks are taken at once, so that no write into the memory can fail later. 0, or the
 * errno of what failed, with the file as it was. */
int offload_reserve(struct offload_file *f, size_t bytes);
/* Maps all of the file anew; what it holds stays, as does the memory it was mapped to before. 0, or an errno.
 */
int offload_map(struct offload_file *f);
void offload_unmap(const struct offload_file *f);
/* The bytes from `at` on are not read for a while: their pages leave the process's memory, and if they are
 * read again they begin to be written. Ranges within one piece of OFFLOAD_PIECE bytes stay. */
enum { OFFLOAD_PIECE = 1 << 16 };
void offload_drop(const struct offload_file *f, const char *at, size_t bytes, bool again);
void offload_close(struct offload_file *f);

#endif
