/* Checkpointing within a budget: the memory that a compiled gradient asks for is within it, values do not
 * depend on it, and a budget that cannot be met says the least that can. */
#include "check.h"
#include "runtime/exe.h"

enum { SIZE = 48, BLOCKS = 8, ALIGNMENT = 64 /* of a workspace, counted with it */ };

/* A chain of equal blocks under a policy: one function of nodes, or calls of one. */
static hop_fn *chain(const char *policy, bool calls)
{
    static const char *const block = "  %%a%d = matmul(%%x%d, %%w)\n  %%s%d = sin(%%a%d)\n"
                                     "  %%b%d = matmul(%%s%d, %%w)\n  %%t%d = tanh(%%b%d)\n"
                                     "  %%x%d = add(%%x%d, %%t%d)\n";
    char text[16384];
    size_t at = 0;
    hop_fn *f = NULL;
    at += (size_t)snprintf(text, sizeof text,
                           "hop 1\nfn @block(%%x0: f64[%d, %d], %%w: f64[%d, %d]) -> (f64[%d, %d]) {\n", SIZE,
                           SIZE, SIZE, SIZE, SIZE, SIZE);
    at += (size_t)snprintf(text + at, sizeof text - at, block, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0);
    at += (size_t)snprintf(text + at, sizeof text - at,
                           "  return %%x1\n}\n"
                           "fn @body(%%x0: f64[%d, %d], %%w: f64[%d, %d]) -> (f64[]) {\n",
                           SIZE, SIZE, SIZE, SIZE);
    for (int i = 0; i < BLOCKS && calls; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "  %%x%d = invoke_subgraph @block(%%x%d, %%w)\n",
                               i + 1, i);
    for (int i = 0; i < BLOCKS && !calls; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, block, i, i, i, i, i, i, i, i, i + 1, i, i);
    snprintf(text + at, sizeof text - at,
             "  %%m = mean(%%x%d)\n  return %%m\n}\n"
             "fn @main(%%x: f64[%d, %d], %%w: f64[%d, %d]) -> (f64[]) {\n"
             "  %%y = invoke_subgraph %s @body(%%x, %%w)\n  return %%y\n}\n",
             BLOCKS, SIZE, SIZE, SIZE, SIZE, policy);
    CLAIM(!hop_fn_read(&f, text, "main"), "%s", hop_message());
    return f;
}

/* The gradient by w in `out`; gives the bytes that its temporaries take, 0: there is none. */
static size_t gradient(const char *policy, bool calls, bool strict, hop_tensor **in, hop_tensor **out)
{
    hop_fn *f = chain(policy, calls), *g = NULL;
    hop_exe *exe = NULL;
    size_t bytes = 0;
    hop_status status = hop_grad(&g, f, "w");
    if (!status) status = hop_compile(&exe, g, &(hop_compile_options){ .strict = strict });
    if (!status) status = hop_workspace(&bytes, exe, in, 2, NULL);
    if (!status && out) status = hop_run(exe, in, 2, out, 1);
    hop_exe_free(exe), hop_fn_free(g), hop_fn_free(f);
    return status ? 0 : bytes - ALIGNMENT;
}

static void test_chain(bool calls)
{
    char policy[64];
    hop_tensor *in[2] = { 0 }, *expected = NULL, *found = NULL;
    for (int k = 0; k < 2; k++) {
        CLAIM(!hop_tensor_new(&in[k], "f64[48, 48]"), "%s", hop_message());
        for (int i = 0; i < SIZE * SIZE; i++)
            ((double *)hop_data(in[k]))[i] = (double)(i * (k + 3) % 17 - 8) / 64;
    }
    size_t whole = gradient("{policy = \"budget(100%)\"}", calls, false, in, NULL);
    gradient("", calls, true, in, &expected);
    CLAIM(!gradient("{policy = \"budget(1)\"}", calls, false, in, NULL), "a budget of one byte");
    const char *said = strstr(hop_message(), "needs at least ");
    size_t least = said ? strtoull(said + strlen("needs at least "), NULL, 10) : 0;
    CLAIM(said && least * 10 < whole * 8 && strstr(hop_message(), "policy \"budget(1)\"") &&
              strstr(hop_message(), "without a policy"),
          "%zu: %s", whole, hop_message());
    for (int k = 0; k <= 4; k++) {
        size_t budget = least + (whole - least) * (size_t)k / 4;
        snprintf(policy, sizeof policy, "{policy = \"budget(%zu)\"}", budget);
        size_t taken = gradient(policy, calls, false, in, NULL);
        CLAIM(taken && taken <= budget, "%zu bytes of %zu: %s", taken, budget, hop_message());
        CLAIM(gradient(policy, calls, true, in, &found) && expected &&
                  !memcmp(hop_data(found), hop_data(expected), SIZE * SIZE * sizeof(double)),
              "the same bits within %zu bytes", budget);
        hop_tensor_free(found);
        found = NULL;
    }
    hop_tensor_free(in[0]), hop_tensor_free(in[1]), hop_tensor_free(expected);
}

int main(void)
{
    if (!exe_available()) return puts("there is no compiler"), tests_end();
    test_chain(false);
    test_chain(true);
    return tests_end();
}
