/* The first NaN: interpreted, as a loop program, native and strict, a function that debug_nans made says the
 * same of it, whole messages with elements, lanes and trips; also of random chains of operators in loops. */
#include "check.h"
#include "ways.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The message of each way is `want`, or, NULL, that of the interpreter. NULL comes back where none fails. */
static const char *same_message(const char *name, hop_fn *f, hop_tensor *x, const char *want)
{
    static char first[4096];
    hop_status expected = HOP_OK;
    for (enum way way = 0; way < WAYS; way++) {
        hop_tensor *out[1] = { NULL };
        hop_status status = run_way(way, f, &x, 1, out, 1);
        const char *said = status ? hop_message() : "";
        if (!way) snprintf(first, sizeof first, "%s", said);
        if (!way) expected = status;
        CLAIM(status == expected && !strcmp(said, first), "%s, %s: %s, but interpreted: %s", name,
              way_names[way], said, first);
        hop_tensor_free(out[0]);
    }
    if (want) CLAIM(!strcmp(first, want), "%s: expected\n%s\nfound\n%s", name, want, first);
    return expected ? first : NULL;
}

static hop_fn *watched(const char *text, const char *transform)
{
    hop_fn *f = NULL, *g = NULL, *h = NULL;
    CLAIM(!hop_fn_read(&f, text, "main"), "%s", hop_message());
    hop_status status = HOP_OK;
    if (!strcmp(transform, "grad")) status = hop_grad(&g, f, NULL);
    if (!strcmp(transform, "vmap")) status = hop_vmap(&g, f, NULL, NULL);
    CLAIM(!status, "%s: %s", transform, hop_message());
    CLAIM(!hop_debug_nans(&h, g ? g : f, 1), "%s", hop_message());
    hop_fn_free(g);
    hop_fn_free(f);
    return h;
}

static const char loops[] = "hop 1\n"
                            "fn @main(%xs: f64[3]) -> (f64[]) {\n"
                            "  %zero = full {value = 0, dims = [], dtype = f64}\n"
                            "  %from = full {value = 0, dims = [], dtype = i64}\n"
                            "  %to = full {value = 2, dims = [], dtype = i64}\n"
                            "  %y = scan carry(%c = %zero) over(%x in %xs) with(%a = %from, %b = %to) {\n"
                            "    %s = fori_loop carry(%d = %c) from(%i = %a) to(%b) with(%v = %x) {\n"
                            "      %r = sqrt(%v)\n"
                            "      %e = add(%d, %r)\n"
                            "      next(%e)\n"
                            "    }\n"
                            "    next(%s)\n"
                            "  }\n"
                            "  return %y\n"
                            "}\n";

static void whole_messages(void)
{
    static const struct {
        const char *transform, *type, *want;
        double data[6];
    } cases[] = {
        { "",
          "f64[3]",
          "text:8:7: debug_nans: sqrt made a NaN: nan of -4\n  in trip 0 of the fori_loop at text:7:5\n"
          "  in trip 1 of the scan at text:6:3",
          { 1, -4, 9 } },
        { "vmap",
          "f64[2, 3]",
          "text:8:7: debug_nans: sqrt made a NaN: nan of -4\n  in lane 1\n"
          "  in trip 0 of the fori_loop at text:7:5\n  in trip 2 of the scan at text:6:3",
          { 1, 4, 9, 1, 4, -4 } },
        { "", "f64[3]", "", { 1, 4, 9 } },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        hop_tensor *x = NULL;
        hop_fn *f = watched(loops, cases[k].transform);
        CLAIM(!hop_tensor_borrow(&x, cases[k].type, (void *)cases[k].data, NULL, NULL), "%s", hop_message());
        same_message("loops", f, x, cases[k].want);
        hop_tensor_free(x);
        hop_fn_free(f);
    }
}

static void gradients_are_said_to_be(void)
{
    static double data[] = { 1, 0, 9 };
    hop_tensor *x = NULL;
    hop_fn *f = watched(loops, "grad");
    CLAIM(!hop_tensor_borrow(&x, "f64[3]", data, NULL, NULL), "%s", hop_message());
    const char *said = same_message("gradient", f, x, NULL);
    CLAIM(said && strstr(said, "made an infinity") && strstr(said, "\n  in a gradient\n"), "%s",
          said ? said : "nothing is said");
    hop_tensor_free(x);
    hop_fn_free(f);
}

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) % below;
}

/* A chain of operators, some of them in a scan. */
static void random_chains(unsigned n)
{
    static const char *const one[] = { "log", "sqrt", "exp", "tanh", "neg", "log1p", "rsqrt" };
    static const char *const two[] = { "mul", "add", "sub", "div" };
    unsigned failed = 0;
    for (unsigned seed = 1; seed <= n; seed++) {
        uint64_t state = seed * 977u;
        char text[2048];
        int at = snprintf(text, sizeof text,
                          "hop 1\nfn @main(%%xs: f32[4, 3]) -> (f32[3]) {\n  %%z = full {value = 0.5, dims = "
                          "[3]}\n  %%y = scan carry(%%v0 = %%z) over(%%x in %%xs) {\n");
        uint32_t steps = 2 + draw(&state, 5);
        for (uint32_t k = 1; k <= steps; k++) {
            uint32_t last = k - 1;
            if (draw(&state, 2))
                at += snprintf(text + at, sizeof text - (size_t)at, "    %%v%u = %s(%%v%u)\n", k,
                               one[draw(&state, 7)], last);
            else
                at += snprintf(text + at, sizeof text - (size_t)at, "    %%v%u = %s(%%v%u, %%x)\n", k,
                               two[draw(&state, 4)], last);
        }
        snprintf(text + at, sizeof text - (size_t)at, "    next(%%v%u)\n  }\n  return %%y\n}\n", steps);
        float data[12];
        for (int k = 0; k < 12; k++) data[k] = (float)draw(&state, 9) - 2;
        hop_tensor *x = NULL;
        hop_fn *f = watched(text, "");
        CLAIM(!hop_tensor_borrow(&x, "f32[4, 3]", data, NULL, NULL), "%s", hop_message());
        failed += same_message(text, f, x, NULL) != NULL;
        hop_tensor_free(x);
        hop_fn_free(f);
    }
    CLAIM(failed > n / 4, "%u of %u chains make something", failed, n);
}

int main(void)
{
    whole_messages();
    gradients_are_said_to_be();
    random_chains(getenv("HOP_TEST_SOAK") ? 1000 : 40);
    return tests_end();
}
