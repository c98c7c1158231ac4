/* Large functions: thousands of nodes that read each other's results again and again, as scalars, as arrays,
 * and as the step of a loop. What is compiled gives the reference's bits in strict mode, so does its
 * gradient, and nothing on the way walks every path through the graph: there are more paths than atoms. */
#include "check.h"
#include "hop/hop.h"

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
enum { NODES = 300, NEAR = 20 };
#else
enum { NODES = 700, NEAR = 20 }; /* operands are among the last NEAR values */
#endif

static uint64_t state = 1;
static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static char *tangle(const char *type, bool loop)
{
    static const char *const ops[] = { "add", "mul", "sub", "max" };
    size_t size = 64 * NODES + 1024, at = 0;
    char *text = malloc(size);
    at += (size_t)snprintf(text, size, "hop 1\nfn @main(%%v0: %s, %%v1: %s) -> (f64[]) {\n", type, type);
    if (loop)
        at += (size_t)snprintf(text + at, size - at,
                               "  %%a = scan {length = 3} carry(%%v0 = %%v0) with(%%v1 = %%v1) {\n");
    for (int i = 2; i < NODES; i++) { /* halved now and then, so that numbers stay finite */
        int lo = i > NEAR ? i - NEAR : 0;
        if (i % 3 == 2)
            at += (size_t)snprintf(text + at, size - at, "  %%v%d = sin(%%v%d)\n", i,
                                   lo + (int)below((uint32_t)(i - lo)));
        else
            at += (size_t)snprintf(text + at, size - at, "  %%v%d = %s(%%v%d, %%v%d)\n", i, ops[below(4)],
                                   lo + (int)below((uint32_t)(i - lo)), lo + (int)below((uint32_t)(i - lo)));
    }
    if (loop)
        at += (size_t)snprintf(text + at, size - at, "  %%end = sin(%%v%d)\n  next(%%end)\n}\n", NODES - 1);
    else at += (size_t)snprintf(text + at, size - at, "  %%a = sin(%%v%d)\n", NODES - 1);
    snprintf(text + at, size - at, "  %%s = sum(%%a)\n  return %%s\n}\n");
    return text;
}

static void same(hop_fn *f, hop_tensor **in, int n_in, const char *what)
{
    hop_tensor *expected[3] = { 0 }, *found[3] = { 0 };
    hop_exe *exe = NULL;
    int n = hop_fn_results(f);
    hop_status status = hop_interpret(f, in, n_in, expected, n);
    for (int portable = 0; portable < 2; portable++) {
        if (!status)
            status = hop_compile(&exe, f, &(hop_compile_options){ .strict = 1, .portable = portable });
        if (status == HOP_UNAVAILABLE) { /* no LLVM: the loop program alone */
            status = HOP_OK;
            continue;
        }
        if (!status) status = hop_run(exe, in, n_in, found, n);
        CLAIM(!status, "%s: %s", what, hop_message());
        for (int i = 0; i < n && !status; i++)
            CLAIM(!memcmp(hop_data(found[i]), hop_data(expected[i]),
                          (size_t)hop_tensor_count(expected[i]) * sizeof(double)),
                  "%s: result %d has other bits", what, i);
        for (int i = 0; i < n; i++) hop_tensor_free(found[i]), found[i] = NULL;
        hop_exe_free(exe), exe = NULL;
    }
    for (int i = 0; i < n; i++) hop_tensor_free(expected[i]);
}

int main(void)
{
    static const char *const types[] = { "f64[]", "f64[5]", "f64[2, 40]" };
    for (int loop = 0; loop < 2; loop++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
            hop_fn *f = NULL, *gradient = NULL;
            hop_tensor *in[2] = { 0 };
            char *text = tangle(types[k], loop), what[64];
            snprintf(what, sizeof what, "%d nodes of %s%s", NODES, types[k], loop ? " in a loop" : "");
            hop_status status = hop_fn_read(&f, text, "main");
            if (!status) status = hop_grad(&gradient, f, "v0, v1");
            CLAIM(!status, "%s: %s", what, hop_message());
            for (int i = 0; i < 2; i++) {
                hop_tensor_new(&in[i], types[k]);
                for (int64_t j = 0; j < hop_tensor_count(in[i]); j++)
                    ((double *)hop_data(in[i]))[j] = 0.5 + 0.01 * (double)(j + i);
            }
            if (!status) {
                same(f, in, 2, what);
                strcat(what, ", gradient");
                same(gradient, in, 2, what);
            }
            hop_tensor_free(in[0]), hop_tensor_free(in[1]);
            hop_fn_free(f), hop_fn_free(gradient);
            free(text);
        }
    return tests_end();
}
