/* The system's C compiler, for emitted C. */
#ifndef HOP_CC_H
#define HOP_CC_H

#include "base/base.h"

const char *cc_name(void); /* $CC, else cc */
/* A path as its argument: a name that begins with a dash or an @ would be an option. */
const char *cc_path(struct arena *a, const char *path);
/* Runs it with these arguments (after its own name, NULL at the end); throws HOP_UNAVAILABLE when there is
 * none, HOP_IO when it fails. */
void cc_run(const char *const *args);
void file_write(const char *path, const struct text *t); /* throws HOP_IO */

#endif
