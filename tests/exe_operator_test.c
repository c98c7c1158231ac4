/* Executables as operators of other programs: values each way there is, in loops, branches and over lanes,
 * derivatives, updates, sizes that a run finds, prints, checks, recursion, threads, cancelling; who keeps
 * what, and for how long; what cannot be an operator, with the message. */
#include "check.h"
#include "ways.h"

#include <math.h>
#include <pthread.h>

static hop_fn *read_fn(const char *text, const char *name)
{
    hop_fn *f = NULL;
    CLAIM(!hop_fn_read(&f, text, name), "%s", hop_message());
    return f;
}

/* The function of a text, compiled and registered; with its derivatives or without. */
static hop_fn *make_operator(const char *text, const char *name, const hop_compile_options *o, bool rules)
{
    hop_fn *f = read_fn(text, NULL);
    hop_exe *exe = NULL;
    CLAIM(!hop_compile(&exe, f, o), "%s", hop_message());
    CLAIM(!hop_exe_operator(exe, name, rules ? f : NULL), "%s: %s", name, hop_message());
    hop_exe_free(exe); /* the operator has what it needs */
    return f;
}

static hop_tensor *vector(int64_t n, double first, double step)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new_dims(&t, "f64", &n, 1), "%s", hop_message());
    for (int64_t i = 0; i < n; i++) ((double *)hop_data(t))[i] = first + step * (double)i;
    return t;
}

static double at(hop_tensor *t, int64_t i) { return ((const double *)hop_data(t))[i]; }

static const char WAVE[] = "hop 1\n"
                           "fn @wave(%x: f64[N], %k: f64[]) -> (f64[N], f64[]) {\n"
                           "  %kb = broadcast {dims = [N], at = []} (%k)\n"
                           "  %p = mul(%kb, %x)\n"
                           "  %s = sin(%p)\n"
                           "  %t = sum(%s)\n"
                           "  return %s, %t\n"
                           "}\n";
static const char WAVES[] = "hop 1\n"
                            "operator @wave(x: f64[N], k: f64[]) -> (f64[N], f64[])\n"
                            "fn @loss(%x: f64[M], %k: f64[]) -> (f64[]) {\n"
                            "  %y, %t = wave(%x, %k)\n"
                            "  %z, %u = wave(%y, %t)\n"
                            "  %r = add(%t, %u)\n"
                            "  return %r\n"
                            "}\n";

static double wave_sum(int64_t n, double k, double *out)
{
    double t = 0, u = 0;
    for (int64_t i = 0; i < n; i++) t += sin(k * (0.1 + 0.2 * (double)i));
    for (int64_t i = 0; i < n; i++) u += sin(t * sin(k * (0.1 + 0.2 * (double)i)));
    return *out = t + u;
}

static void test_values(void)
{
    hop_compile_options kinds[] = { { 0 }, { .strict = 1 }, { .portable = 1 } };
    for (int k = 0; k < 3; k++) {
        hop_fn *f = make_operator(WAVE, "wave", &kinds[k], false), *g = read_fn(WAVES, "loss");
        for (enum way way = 0; way < WAYS; way++)
            for (int64_t n = 0; n < 4; n += 3) {
                hop_tensor *in[2] = { vector(n, 0.1, 0.2), NULL }, *out[1] = { NULL };
                double want, number = 0.7;
                hop_tensor_borrow(&in[1], "f64[]", &number, NULL, NULL);
                hop_status status = run_way(way, g, in, 2, out, 1);
                CLAIM(!status && fabs(at(out[0], 0) - wave_sum(n, number, &want)) < 1e-12, "%s: %s",
                      way_names[way], status ? hop_message() : "another number");
                hop_tensor_free(in[0]), hop_tensor_free(in[1]), hop_tensor_free(out[0]);
            }
        CLAIM(!strcmp(hop_operator_signature("wave"), "wave(x: f64[N], k: f64[]) -> (f64[N], f64[])"), "%s",
              hop_operator_signature("wave"));
        CLAIM(!hop_operator_unregister("wave"), "%s", hop_message());
        hop_fn_free(f), hop_fn_free(g);
    }
}

/* ---- derivatives ---- */

static int loss_body(void *env, const hop_val *in, hop_val *out)
{
    hop_val r[2], q[2];
    (void)env;
    if (hop_operator(r, 2, "wave", in, 2) || hop_operator(q, 2, "wave", (hop_val[]){ r[0], r[1] }, 2))
        return 1;
    return out[0] = hop_add(r[1], q[1]), 0;
}

static void test_derivatives(void)
{
    hop_fn *f = make_operator(WAVE, "wave", NULL, true), *loss = NULL, *grad = NULL, *jvp = NULL,
           *twice = NULL;
    CLAIM(!hop_capture(&loss, "x: f64[M], k: f64[]", 1, loss_body, NULL), "%s", hop_message());
    CLAIM(!hop_grad(&grad, loss, "k"), "%s", hop_message());
    CLAIM(!hop_jvp(&jvp, loss, "k"), "%s", hop_message());
    CLAIM(!hop_grad(&twice, grad, "k"), "%s", hop_message());
    double number = 0.7, one = 1, a, b, m, h = 1e-4;
    wave_sum(5, number + h, &a), wave_sum(5, number - h, &b), wave_sum(5, number, &m);
    double slope = (a - b) / (2 * h), bend = (a - 2 * m + b) / (h * h);
    for (enum way way = 0; way < WAYS; way++) {
        hop_tensor *in[3] = { vector(5, 0.1, 0.2), NULL, NULL }, *out[2] = { NULL, NULL };
        hop_tensor_borrow(&in[1], "f64[]", &number, NULL, NULL);
        hop_tensor_borrow(&in[2], "f64[]", &one, NULL, NULL);
        CLAIM(!run_way(way, grad, in, 2, out, 1) && fabs(at(out[0], 0) - slope) < 1e-6, "%s: %s",
              way_names[way], hop_message());
        hop_tensor_free(out[0]), out[0] = NULL;
        CLAIM(!run_way(way, twice, in, 2, out, 1) && fabs(at(out[0], 0) - bend) < 1e-3, "%s: %s",
              way_names[way], hop_message());
        hop_tensor_free(out[0]), out[0] = NULL;
        CLAIM(!run_way(way, jvp, in, 3, out, 2) && fabs(at(out[1], 0) - slope) < 1e-6, "%s: %s",
              way_names[way], hop_message());
        for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
        hop_tensor_free(out[0]), hop_tensor_free(out[1]);
    }
    hop_operator_unregister("wave");
    hop_fn_free(f), hop_fn_free(loss), hop_fn_free(grad), hop_fn_free(jvp), hop_fn_free(twice);

    f = make_operator(WAVE, "wave", NULL, false);
    loss = grad = NULL;
    CLAIM(!hop_capture(&loss, "x: f64[M], k: f64[]", 1, loss_body, NULL), "%s", hop_message());
    CLAIM(hop_grad(&grad, loss, "k") && strstr(hop_message(), "wave") &&
              strstr(hop_message(), "no derivative"),
          "%s", hop_message());
    hop_operator_unregister("wave");
    hop_fn_free(f), hop_fn_free(loss);
}

/* ---- lanes, loops, branches ---- */

static const char STEP[] = "hop 1\n"
                           "fn @step(%c: f64[3], %x: f64[3]) -> (f64[3]) {\n"
                           "  %a = tanh(%c)\n"
                           "  %b = add(%a, %x)\n"
                           "  return %b\n"
                           "}\n";
/* The same with the operator and with its body. */
#define SCANNED(head, call) \
    "hop 1\n" head "fn @main(%c: f64[3], %xs: f64[T, 3]) -> (f64[3], f64[T, 3]) {\n" \
    "  %zero = full {value = 0, dims = [3], dtype = f64}\n" \
    "  %l, %s = scan carry(%c = %c) over(%x in %xs) with(%z = %zero) {\n" \
    "    %p = gt(%x, %z)\n" \
    "    %q = any(%p)\n" \
    "    %n = switch(%q) [(%d = %c, %y = %x) {\n" \
    "      %e = sub(%d, %y)\n" \
    "      yield(%e)\n" \
    "    }, (%d = %c, %y = %x) {\n" call "      yield(%e)\n" \
    "    }]\n" \
    "    next(%n) stack(%n)\n" \
    "  }\n" \
    "  return %l, %s\n" \
    "}\n"

static void same_results(hop_fn *f, hop_fn *g, hop_tensor **in, const char *what)
{
    for (enum way way = 0; way < WAYS; way++) {
        hop_tensor *x[2] = { NULL, NULL }, *y[2] = { NULL, NULL };
        hop_status a = run_way(way, f, in, 2, x, 2), b = run_way(way, g, in, 2, y, 2);
        bool same = !a && !b;
        for (int k = 0; k < 2 && same; k++)
            for (int64_t i = 0; i < hop_tensor_count(x[k]); i++)
                same &= fabs(at(x[k], i) - at(y[k], i)) < 1e-12;
        CLAIM(same, "%s, %s: %s", what, way_names[way], a || b ? hop_message() : "other numbers");
        for (int k = 0; k < 2; k++) hop_tensor_free(x[k]), hop_tensor_free(y[k]);
    }
}

static void test_places(void)
{
    hop_fn *step = make_operator(STEP, "step", &(hop_compile_options){ .strict = 1 }, false);
    hop_fn *f = read_fn(SCANNED("operator @step(c: f64[3], x: f64[3]) -> f64[3]\n",
                                "      %e = step(%d, %y)\n"),
                        NULL);
    hop_fn *g = read_fn(SCANNED("", "      %a = tanh(%d)\n      %e = add(%a, %y)\n"), NULL);
    hop_tensor *in[2] = { vector(3, 0.1, 0.3), NULL }, *over[2] = { NULL, NULL };
    double xs[24];
    for (int i = 0; i < 24; i++) xs[i] = i / 3 % 3 ? 0.1 * i : -0.1 * i;
    hop_tensor_borrow(&in[1], "f64[8, 3]", xs, NULL, NULL);
    same_results(f, g, in, "in a branch of a loop");
    hop_fn *fv = NULL, *gv = NULL;
    CLAIM(!hop_vmap(&fv, f, NULL, NULL) && !hop_vmap(&gv, g, NULL, NULL), "%s", hop_message());
    double cs[6] = { 0.1, 0.2, 0.3, -1, 2, 0.5 };
    hop_tensor_borrow(&over[0], "f64[2, 3]", cs, NULL, NULL);
    hop_tensor_borrow(&over[1], "f64[2, 4, 3]", xs, NULL, NULL);
    same_results(fv, gv, over, "over lanes");
    hop_fn_free(step), hop_fn_free(f), hop_fn_free(g), hop_fn_free(fv), hop_fn_free(gv);
    for (int i = 0; i < 2; i++) hop_tensor_free(in[i]), hop_tensor_free(over[i]);
    hop_operator_unregister("step");
}

/* ---- updates, sizes that are found, effects ---- */

static void test_updates(void)
{
    hop_fn *f = make_operator("hop 1\n"
                              "fn @grow(%s: mut f64[N], %x: f64[N]) -> (f64[], new %s) {\n"
                              "  %n = add(%s, %x)\n"
                              "  %t = sum(%n)\n"
                              "  return %t, %n\n"
                              "}\n",
                              "grow", NULL, false);
    hop_fn *g = read_fn("hop 1\n"
                        "operator @grow(mut s: f64[N], x: f64[N]) -> f64[]\n"
                        "fn @main(%s: mut f64[4], %x: f64[4]) -> (f64[], f64[], new %s) {\n"
                        "  %a, %n = grow(%s, %x)\n"
                        "  %b, %m = grow(%n, %x)\n"
                        "  return %a, %b, %m\n"
                        "}\n",
                        NULL);
    for (enum way way = 0; way < WAYS && g; way++) {
        hop_tensor *in[2] = { vector(4, 1, 1), vector(4, 10, 0) }, *out[2] = { NULL, NULL };
        hop_status status = run_way(way, g, in, 2, out, 2);
        CLAIM(!status && at(out[0], 0) == 50 && at(out[1], 0) == 90 && at(in[0], 3) == 24, "%s: %s",
              way_names[way], status ? hop_message() : "other numbers");
        for (int i = 0; i < 2; i++) hop_tensor_free(in[i]), hop_tensor_free(out[i]);
    }
    hop_operator_unregister("grow");
    hop_fn_free(f), hop_fn_free(g);
}

static const char ABOVE[] = "hop 1\n"
                            "fn @above(%x: f64[N]) -> (f64[?k], f64[]) {\n"
                            "  %z = full {value = 0, dims = [N], dtype = f64}\n"
                            "  %m = gt(%x, %z)\n"
                            "  %i: i64[?k] = nonzero(%m)\n"
                            "  %y = gather(%x, %i)\n"
                            "  %t = sum(%y)\n"
                            "  return %y, %t\n"
                            "}\n";

static void test_found(void)
{
    hop_fn *f = make_operator(ABOVE, "above", NULL, false);
    char text[400];
    snprintf(text, sizeof text,
             "hop 1\n"
             "operator @%s\n"
             "fn @main(%%x: f64[N]) -> (f64[?n], f64[]) {\n"
             "  %%y: f64[?n], %%t = above(%%x)\n"
             "  return %%y, %%t\n"
             "}\n",
             hop_operator_signature("above"));
    hop_fn *g = read_fn(text, NULL);
    for (enum way way = 0; way < WAYS && f && g; way++)
        for (int64_t n = 0; n < 7; n += 6) {
            hop_tensor *in[1] = { vector(n, -2, 1) }, *out[2] = { NULL, NULL };
            hop_status status = run_way(way, g, in, 1, out, 2);
            CLAIM(!status && hop_tensor_count(out[0]) == (n ? 3 : 0) && at(out[1], 0) == (n ? 6 : 0),
                  "%s: %s", way_names[way], status ? hop_message() : "other numbers");
            hop_tensor_free(in[0]), hop_tensor_free(out[0]), hop_tensor_free(out[1]);
        }
    hop_operator_unregister("above");
    hop_fn_free(f), hop_fn_free(g);
}

static void note_line(void *ctx, const char *line, size_t length)
{
    char *text = ctx;
    size_t n = strlen(text);
    snprintf(text + n, 200 - n, "%.*s;", (int)length, line);
}

static void test_effects(void)
{
    hop_fn *f = make_operator("hop 1\n"
                              "fn @tell(%x: f64[]) -> (f64[]) {\n"
                              "  print {format = \"x is {}\"} (%x)\n"
                              "  %z = full {value = 5, dims = [], dtype = f64}\n"
                              "  %p = lt(%x, %z)\n"
                              "  check {message = \"small\"} (%p)\n"
                              "  %y = add(%x, %x)\n"
                              "  return %y\n"
                              "}\n",
                              "tell", NULL, false);
    CLAIM(!strcmp(hop_fn_effect(f), "io"), "%s", hop_fn_effect(f));
    hop_fn *g = read_fn("hop 1\n"
                        "operator @tell(x: f64[]) -> f64[] {effects = io}\n"
                        "fn @main(%x: f64[]) -> (f64[]) {\n"
                        "  %a = tell(%x)\n"
                        "  %b = tell(%a)\n"
                        "  %c = tell(%x)\n"
                        "  return %x\n"
                        "}\n",
                        NULL);
    for (enum way way = 0; way < WAYS && g; way++)
        for (int failing = 0; failing < 2; failing++) {
            char text[200] = "";
            double number = failing ? 4 : 1;
            hop_tensor *in[1] = { NULL }, *out[1] = { NULL };
            hop_run_options o = { .print = note_line, .print_ctx = text };
            hop_exe *exe = NULL;
            hop_tensor_borrow(&in[0], "f64[]", &number, NULL, NULL);
            hop_status status = 0;
            if (way == INTERPRETED) status = hop_interpret_with(g, in, 1, out, 1, &o);
            else {
                hop_compile(&exe, g,
                            &(hop_compile_options){ .portable = way == LOOPS, .strict = way == STRICT });
                status = hop_run_with(exe, in, 1, out, 1, &o);
            }
            if (failing)
                CLAIM(status == HOP_CHECK && strstr(hop_message(), "small") &&
                          strstr(hop_message(), "tell") && !out[0],
                      "%s: %d %s", way_names[way], status, hop_message());
            CLAIM(!strcmp(text, failing ? "x is 4;x is 8;" : "x is 1;x is 2;x is 1;"), "%s: %s",
                  way_names[way], text);
            hop_exe_free(exe);
            hop_tensor_free(in[0]), hop_tensor_free(out[0]);
        }
    hop_operator_unregister("tell");
    hop_fn_free(f), hop_fn_free(g);
}

/* ---- recursion, threads, cancelling ---- */

static const char FACTORIAL[] = "hop 1\n"
                                "operator @again(n: f64[]) -> f64[]\n"
                                "fn @factorial(%n: f64[]) -> (f64[]) {\n"
                                "  %one = full {value = 1, dims = [], dtype = f64}\n"
                                "  %p = gt(%n, %one)\n"
                                "  %r = switch(%p) [(%m = %n, %o = %one) {\n"
                                "    yield(%o)\n"
                                "  }, (%m = %n, %o = %one) {\n"
                                "    %l = sub(%m, %o)\n"
                                "    %f = again(%l)\n"
                                "    %q = mul(%m, %f)\n"
                                "    yield(%q)\n"
                                "  }]\n"
                                "  return %r\n"
                                "}\n";

static void test_recursion(void)
{
    hop_fn *f = read_fn(FACTORIAL, NULL);
    hop_exe *exe = NULL;
    CLAIM(!hop_compile(&exe, f, NULL) && !hop_exe_operator(exe, "again", NULL), "%s", hop_message());
    for (int endless = 0; endless < 2; endless++) {
        double number = endless ? INFINITY : 20;
        hop_tensor *in[1] = { NULL }, *out[1] = { NULL };
        hop_tensor_borrow(&in[0], "f64[]", &number, NULL, NULL);
        hop_status status = hop_run(exe, in, 1, out, 1);
        if (endless)
            CLAIM(status == HOP_INVALID && strstr(hop_message(), "nested too deeply") && !out[0], "%d %s",
                  status, hop_message());
        else CLAIM(!status && at(out[0], 0) == 2432902008176640000.0, "%d %s", status, hop_message());
        hop_tensor_free(in[0]), hop_tensor_free(out[0]);
    }
    hop_operator_unregister("again");
    hop_exe_free(exe);
    hop_fn_free(f);
}

static const char BUSY[] = "hop 1\n"
                           "fn @busy(%x: f64[N]) -> (f64[]) {\n"
                           "  %y = sin(%x)\n"
                           "  %z = exp(%y)\n"
                           "  %s = sum(%z)\n"
                           "  return %s\n"
                           "}\n";
static const char BUSIER[] = "hop 1\n"
                             "operator @busy(x: f64[N]) -> f64[]\n"
                             "fn @main(%x: f64[R, N]) -> (f64[R], f64[R, N]) {\n"
                             "  %r = map over(%a in %x) {\n"
                             "    %s = busy(%a)\n"
                             "    stack(%s)\n"
                             "  }\n"
                             "  %c = cos(%x)\n"
                             "  return %r, %c\n"
                             "}\n";
enum { ROWS = 4, LONG = 100000 };

static void *run_busy(void *exe)
{
    hop_tensor *in[1] = { NULL }, *out[2] = { NULL, NULL };
    hop_tensor_new(&in[0], "f64[4, 100000]");
    for (int64_t i = 0; i < ROWS * LONG; i++) ((double *)hop_data(in[0]))[i] = (double)i;
    hop_status status = HOP_OK;
    for (int k = 0; k < 3 && !status; k++) {
        hop_tensor_free(out[0]), hop_tensor_free(out[1]);
        out[0] = out[1] = NULL;
        status = hop_run(exe, in, 1, out, 2);
    }
    bool right = !status;
    for (int r = 0; r < ROWS && right; r++) {
        double want = 0;
        for (int64_t i = 0; i < LONG; i++) want += exp(sin((double)(r * LONG + i)));
        right = fabs(at(out[0], r) - want) < 1e-6 * want;
    }
    hop_tensor_free(in[0]), hop_tensor_free(out[0]), hop_tensor_free(out[1]);
    return right ? exe : NULL;
}

static void test_threads(void)
{
    hop_fn *f = make_operator(BUSY, "busy", NULL, false), *g = read_fn(BUSIER, NULL);
    hop_exe *exe = NULL;
    pthread_t threads[3];
    CLAIM(!hop_compile(&exe, g, NULL), "%s", hop_message());
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, run_busy, exe);
    for (int i = 0; i < 3; i++) {
        void *right = NULL;
        pthread_join(threads[i], &right);
        CLAIM(right, "a thread has other numbers");
    }
    hop_exe_free(exe);
    hop_operator_unregister("busy");
    hop_fn_free(f), hop_fn_free(g);
}

static void test_cancelled(void)
{
    hop_fn *f = make_operator("hop 1\n"
                              "fn @endless(%x: f64[]) -> (f64[]) {\n"
                              "  %n = full {value = 1000000000000, dims = [], dtype = i64}\n"
                              "  %z = full {value = 0, dims = [], dtype = i64}\n"
                              "  %r = fori_loop carry(%c = %x) from(%i = %z) to(%n) {\n"
                              "    %d = cos(%c)\n"
                              "    next(%d)\n"
                              "  }\n"
                              "  return %r\n"
                              "}\n",
                              "endless", NULL, false);
    hop_fn *g = read_fn("hop 1\n"
                        "operator @endless(x: f64[]) -> f64[]\n"
                        "fn @main(%x: f64[]) -> (f64[]) {\n"
                        "  %y = endless(%x)\n"
                        "  return %y\n"
                        "}\n",
                        NULL);
    hop_exe *exe = NULL;
    volatile int cancel = 1;
    double number = 1;
    hop_tensor *in[1] = { NULL }, *out[1] = { NULL };
    hop_tensor_borrow(&in[0], "f64[]", &number, NULL, NULL);
    CLAIM(!hop_compile(&exe, g, NULL), "%s", hop_message());
    hop_run_options o = { .cancel = &cancel };
    hop_status status = hop_run_with(exe, in, 1, out, 1, &o);
    CLAIM(status == HOP_CANCELLED && !out[0], "%d %s", status, hop_message());
    hop_exe_free(exe);
    hop_tensor_free(in[0]);
    hop_operator_unregister("endless");
    hop_fn_free(f), hop_fn_free(g);
}

/* ---- who keeps what ---- */

static void count_release(void *user) { ++*(int *)user; }

static int gives_other(void *user, const hop_attributes *attributes, const hop_fn *body, hop_fn **out)
{
    (void)attributes, (void)body;
    hop_fn *f = read_fn("hop 1\nfn @other(%x: f64[]) -> (f64[]) {\n  %y = neg(%x)\n  return %y\n}\n", NULL);
    int status = hop_fn_keep(f, user, count_release);
    *out = f;
    return status;
}

static void test_kept(void)
{
    int released = 0;
    double number = 2;
    hop_exe *exe = NULL;
    hop_tensor *in[1] = { NULL }, *out[1] = { NULL };
    hop_fn *f = read_fn("hop 1\n"
                        "fn @f(%x: f64[]) -> (f64[]) {\n"
                        "  %y = region {kind = \"kept test\"} with(%a = %x) {\n"
                        "    %b = sin(%a)\n"
                        "    yield(%b)\n"
                        "  }\n"
                        "  return %y\n"
                        "}\n",
                        NULL);
    CLAIM(!hop_region_register("kept test", NULL, gives_other, &released, NULL), "%s", hop_message());
    hop_tensor_borrow(&in[0], "f64[]", &number, NULL, NULL);
    CLAIM(!hop_compile(&exe, f, NULL), "%s", hop_message());
    hop_region_unregister("kept test");
    hop_fn_free(f);
    CLAIM(!released, "the executable needs it");
    CLAIM(!hop_run(exe, in, 1, out, 1) && at(out[0], 0) == -2, "%s", hop_message());
    CLAIM(!hop_exe_operator(exe, "kept_one", NULL), "%s", hop_message());
    hop_exe_free(exe);
    CLAIM(!released, "the operator needs it");
    hop_operator_unregister("kept_one");
    CLAIM(released == 1, "released %d times", released);
    hop_tensor_free(in[0]), hop_tensor_free(out[0]);
    f = read_fn(WAVE, NULL);
    CLAIM(hop_fn_keep(f, NULL, NULL) == HOP_INVALID && strstr(hop_message(), "releases"), "%s",
          hop_message());
    hop_fn_free(f);
}

/* ---- mistakes ---- */

static void refused(const char *text, const hop_compile_options *o, const char *name, hop_fn *other,
                    const char *why)
{
    hop_fn *f = read_fn(text, NULL);
    hop_exe *exe = NULL;
    CLAIM(!hop_compile(&exe, f, o), "%s", hop_message());
    hop_status status = hop_exe_operator(exe, name, other);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), why), "expected '%s', found %d '%s'", why, status,
          hop_message());
    hop_exe_free(exe);
    hop_fn_free(f);
}

static void test_mistakes(void)
{
    hop_fn *other = read_fn(STEP, NULL);
    refused(STEP, &(hop_compile_options){ .donate = "c" }, "step", NULL, "takes arguments over");
    refused(STEP, NULL, NULL, NULL, "expected a name");
    refused(STEP, NULL, "add", NULL, "expected a name");
    refused(STEP, NULL, "two words", NULL, "expected a name");
    refused(WAVE, NULL, "wave", other, "the function is another");
    refused("hop 1\nfn @f[dim K](%x: f64[]) -> (f64[K]) {\n  %y = broadcast {dims = [K], at = []} (%x)\n"
            "  return %y\n}\n",
            NULL, "sized", NULL, "no argument tells the size 'K'");
    hop_fn *f = make_operator(STEP, "taken", NULL, false);
    refused(WAVE, NULL, "taken", NULL, "another signature");
    hop_operator_unregister("taken");
    hop_fn_free(f), hop_fn_free(other);
}

int main(void)
{
    test_values();
    test_derivatives();
    test_places();
    test_updates();
    test_found();
    test_effects();
    test_recursion();
    test_threads();
    test_cancelled();
    test_kept();
    test_mistakes();
    return tests_end();
}
