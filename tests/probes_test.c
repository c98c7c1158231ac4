/* Probes from C: values by name, perturbations, transforms that carry probes or drop them, and code that is
 * the same, byte for byte, where nobody asks. */
#include "check.h"
#include "runtime/exe.h"

#include <math.h>

static bool marks; /* whether the functions below mark values */

static hop_val mark(hop_val x, const char *name) { return marks ? hop_probe(x, name) : x; }

static int step(void *env, const hop_val *in, hop_val *out)
{
    const hop_val *w = env;
    out[0] = mark(hop_tanh(hop_add(hop_mul(in[0], *w), in[1])), "h");
    out[1] = mark(hop_mul(out[0], out[0]), "square");
    return 0;
}

/* The sum of h_t², h_t = tanh(w h_{t-1} + x_t), and h_0 is x_0's sine. */
static int recurrent(void *env, const hop_val *in, hop_val *out)
{
    hop_val w = in[1], first = mark(hop_sin(hop_sum(in[0], "all")), "first"), made[2];
    (void)env;
    if (hop_scan(made, 2,
                 &(hop_scan_spec){
                     .step = step, .env = &w, .carry = &first, .n_carry = 1, .xs = in, .n_xs = 1 }))
        return 1;
    out[0] = mark(hop_sum(made[1], "all"), "loss");
    return 0;
}

static hop_fn *captured(bool marked)
{
    hop_fn *f = NULL;
    marks = marked;
    CLAIM(!hop_capture(&f, "x: f64[3], w: f64[]", 1, recurrent, NULL), "%s", hop_message());
    return f;
}

static hop_fn *transformed(hop_fn *f, const char *how)
{
    hop_fn *out = NULL;
    if (!strcmp(how, "itself")) return hop_fn_ref(f);
    if (!strcmp(how, "grad")) CLAIM(!hop_grad(&out, f, "w"), "%s", hop_message());
    if (!strcmp(how, "jvp")) CLAIM(!hop_jvp(&out, f, "w"), "%s", hop_message());
    if (!strcmp(how, "vmap")) CLAIM(!hop_vmap(&out, f, "x", NULL), "%s", hop_message());
    if (!strcmp(how, "jacrev")) CLAIM(!hop_jacrev(&out, f, "x"), "%s", hop_message());
    return out;
}

static const char *const ways[] = { "itself", "grad", "jvp", "vmap", "jacrev" };

static char *emitted(hop_fn *f, const char *how, const char *kind)
{
    char *text = NULL;
    hop_fn *g = transformed(f, how);
    CLAIM(!hop_emit(&text, g, kind, &(hop_emit_options){ .name = "f" }), "%s", hop_message());
    hop_fn_free(g);
    return text;
}

/* Places of the calls of mark are those of the one line in it, with and without. */
static void test_unasked(const char *kind)
{
    hop_fn *with = captured(true), *without = captured(false);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char *a = emitted(with, ways[i], kind), *b = emitted(without, ways[i], kind);
        CLAIM(a && b && !strcmp(a, b), "%s of %s is the same with probes and without", kind, ways[i]);
        hop_text_free(a), hop_text_free(b);
    }
    hop_fn_free(with), hop_fn_free(without);
}

static void run(hop_fn *f, hop_tensor **in, int n_in, hop_tensor **out, int n_out)
{
    hop_exe *exe = NULL;
    CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .portable = 1 }), "%s", hop_message());
    CLAIM(!hop_run(exe, in, n_in, out, n_out), "%s", hop_message());
    hop_exe_free(exe);
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(1, fabs(b)); }

/* The values of the function are those of its gradient, too, where the mode says so. */
static void test_carried(hop_tensor **in)
{
    hop_fn *f = captured(true), *g = NULL, *asked = NULL;
    hop_tensor *out[4] = { 0 };
    const double *x = hop_data(in[0]);
    double h = sin(x[0] + x[1] + x[2]), w = *(const double *)hop_data(in[1]), first = h;
    unsigned before = hop_modes_set(HOP_PROBED);
    CLAIM(!hop_grad(&g, f, "w"), "%s", hop_message());
    hop_modes_set(before);
    CLAIM(!hop_probes(&asked, g, "h, first, sq*", 0), "%s", hop_message());
    CLAIM(hop_fn_probes(asked) == 3 && !strcmp(hop_fn_probe_name(asked, 0), "first") &&
              !strcmp(hop_fn_probe_name(asked, 1), "h") && !strcmp(hop_fn_probe_name(asked, 2), "square") &&
              !*hop_fn_probe_name(asked, 3) && !*hop_fn_probe_name(asked, -1),
          "names in order of the program");
    run(asked, in, 2, out, 4);
    CLAIM(near(*(const double *)hop_data(out[1]), first), "the value before the loop");
    for (int t = 0; t < 3; t++) {
        h = tanh(w * h + x[t]);
        CLAIM(near(((const double *)hop_data(out[2]))[t], h), "step %d", t);
        CLAIM(near(((const double *)hop_data(out[3]))[t], h * h), "its square, step %d", t);
    }
    for (int i = 0; i < 4; i++) hop_tensor_free(out[i]);
    hop_fn_free(f), hop_fn_free(g), hop_fn_free(asked);
}

static void test_messages(void)
{
    hop_fn *f = captured(true), *g = NULL;
    CLAIM(hop_probes(&g, f, "none", 0) == HOP_INVALID && strstr(hop_message(), "there is no probe 'none'"),
          "%s", hop_message());
    CLAIM(hop_probes(&g, f, NULL, 8) == HOP_INVALID && strstr(hop_message(), "flags"), "%s", hop_message());
    CLAIM(hop_perturb(&g, f, "sq", 0) == HOP_INVALID && !g, "%s", hop_message());
    hop_fn_free(f);
}

int main(void)
{
    double x[] = { 0.3, -0.4, 0.9 }, w = 0.7;
    hop_tensor *in[2] = { 0 };
    CLAIM(!hop_tensor_borrow(&in[0], "f64[3]", x, NULL, NULL), "%s", hop_message());
    CLAIM(!hop_tensor_borrow(&in[1], "f64[]", &w, NULL, NULL), "%s", hop_message());
    test_unasked("c");
    test_unasked("loops");
    if (exe_available()) test_unasked("asm");
    test_carried(in);
    test_messages();
    hop_tensor_free(in[0]), hop_tensor_free(in[1]);
    return tests_end();
}
