/* The system's C compiler, for emitted C. */
#ifndef HOP_CLI_CC_H
#define HOP_CLI_CC_H

#include "loop/lp.h"
#include "runtime/exe.h"

const char *cc_name(void); /* $CC, else cc */
/* A path as its argument: a name that begins with a dash or an @ would be an option. */
const char *cc_path(struct arena *a, const char *path);
/* Runs it with these arguments (after its own name, NULL at the end); throws HOP_UNAVAILABLE when there is
 * none, HOP_IO when it fails. */
void cc_run(const char *const *args);
void file_write(const char *path, const struct text *t); /* throws HOP_IO */
/* The planned loop program of a function, as exe_compile makes it; new contents of parameters are left in the
 * arguments. The caller frees it with lp_free. */
struct lp *emit_lower(struct module *m, uint32_t fn, const struct pass_options *passes);

#endif
