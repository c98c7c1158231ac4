/* Libraries of operators from outside, which --operators names. A library has a function
 *
 *     int hop_register_operators(hop_status (*add)(const hop_operator_spec *spec));
 *
 * which calls `add` for each of its operators, and returns 0; anything else says that `add` did not. Only the
 * command line names libraries: a program never does. */
#include "cli/cli.h"

#include <dlfcn.h>

void operators_load(const char *path)
{
    typedef int register_all(hop_status(*add)(const hop_operator_spec *spec));
    /* A path, and not a name that is looked for; emitted code finds its functions. */
    char here[4096];
    if (snprintf(here, sizeof here, "%s%s", strchr(path, '/') ? "" : "./", path) >= (int)sizeof here)
        hop_throw(HOP_INVALID, "--operators: the path is too long: '%.100s…'", path);
    void *library = dlopen(here, RTLD_NOW | RTLD_GLOBAL);
    if (!library) hop_throw(HOP_IO, "--operators: %s", dlerror());
    register_all *entry;
    *(void **)&entry = dlsym(library, "hop_register_operators");
    if (!entry)
        hop_throw(HOP_INVALID, "--operators: %s: expected a function hop_register_operators, found none",
                  path);
    hop_set_message("%s", "");
    if (entry(hop_operator_register))
        hop_throw(HOP_INVALID, "--operators: %s: %s", path,
                  *hop_message() ? hop_message() : "hop_register_operators failed");
}
