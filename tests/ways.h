/* A function run each way there is. */
#ifndef HOP_TESTS_WAYS_H
#define HOP_TESTS_WAYS_H

#include <hop/hop.h>

enum way { INTERPRETED, LOOPS, NATIVE, STRICT, WAYS };
static const char *const way_names[WAYS] = { "interpreted", "loop program", "native", "strict" };

static inline hop_status run_way(enum way way, hop_fn *f, hop_tensor *const *in, int n_in, hop_tensor **out,
                                 int n_out)
{
    hop_exe *exe = NULL;
    if (way == INTERPRETED) return hop_interpret(f, in, n_in, out, n_out);
    hop_compile_options options = { .portable = way == LOOPS, .strict = way == STRICT };
    hop_status status = hop_compile(&exe, f, &options);
    if (!status) status = hop_run(exe, in, n_in, out, n_out);
    hop_exe_free(exe);
    return status;
}

#endif
