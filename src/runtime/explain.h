/* What compiling does with a function, told to people or to programs. */
#ifndef HOP_EXPLAIN_H
#define HOP_EXPLAIN_H

#include "runtime/exe.h"
#include "transform/transform.h"

struct explain_options {
    struct compile_options compile; /* keep_ir_text, keep_machine_text: these texts, too; not in JSON */
    const struct saved_list *kept;  /* of a gradient: what it keeps; NULL: of none */
    bool saved;                     /* all stored values, and what is kept; JSON has them anyway */
    bool loops;                     /* the loop program, too; not in JSON */
    bool json;
};
/* Compiles the function, whatever the cache holds. Throws HOP_UNAVAILABLE where the back end is not. */
void explain_function(struct module *m, uint32_t fn, const struct explain_options *o, struct text *out);

#endif
