/* Back ends: a loop program in, native code out. LLVM is behind this interface in a shared object of its own that is loaded only when something must be
 * compiled (loading libLLVM takes longer than compiling). */
#ifndef HOP_EMIT_H
#define HOP_EMIT_H

#include "loop/lp.h"

struct native {
    int32_t (*entry)(void *rt, void **buffers, int64_t *symbols);
    void *handle; /* the back end's */
    size_t code_bytes;
    char *llvm, *assembly; /* malloc'ed texts when asked for */
    double ir_ms, codegen_ms, link_ms;
};
struct emit_options {
    bool keep_llvm, keep_asm;
    bool scalar;   /* no vector code */
    bool serial;   /* no parallel loops */
};
/* The plug-in's interface: `hop_llvm_backend` is looked up in it. Functions return 0, or non-zero with a message in `error`. */
struct emit_backend {
    const char *version;
    int (*compile)(const struct lp *p, const struct emit_options *o, struct native *out, char error[512]);
    void (*release)(struct native *n);
};
/* Check and print sites are numbered in the order in which a walk of the statement tree (body before other) meets their calls. */

/* The back end, loaded on first use; NULL when there is none, hop_message() says why. */
const struct emit_backend *backend_get(void);

#endif
