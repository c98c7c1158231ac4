/* Regions that are computed once: how often they are, what makes them be computed again, on one thread and on
 * several; what stands in loops, branches and calls; derivatives and lanes; emitted C; and what cannot be
 * kept. Results are those of the interpreter, which keeps nothing. */
#include "check.h"
#include "hop/hop.h"
#include "io/dlpack.h"

#include <pthread.h>

static const char TEXT[] = /**/
    "hop 1\n"
    "fn @normal(%w: f64[n, k], %x: f64[n]) -> (f64[k]) {\n"
    "  %u = region {kind = \"once\"} with(%v = %w) {\n"
    "    %t = tanh(%v)\n"
    "    yield(%t)\n"
    "  }\n"
    "  %y = matmul(%x, %u)\n"
    "  return %y\n"
    "}\n"
    "fn @two(%w: f64[3], %b: f64[3], %x: f64[3]) -> (f64[3]) {\n"
    "  %u = region {kind = \"once\"} with(%v = %w) {\n"
    "    %t = tanh(%v)\n"
    "    yield(%t)\n"
    "  }\n"
    "  %half = full {value = 0.5, dims = [3], dtype = f64}\n"
    "  %c = mul(%b, %half)\n"
    "  %s, %unread = region {kind = \"once\"} with(%p = %u, %q = %c) {\n"
    "    %t = mul(%p, %q)\n"
    "    %e = exp(%q)\n"
    "    yield(%t, %e)\n"
    "  }\n"
    "  %y = mul(%x, %s)\n"
    "  return %y\n"
    "}\n"
    "fn @loop(%w: f64[3], %xs: f64[T, 3]) -> (f64[3]) {\n"
    "  %z = full {value = 0, dims = [3], dtype = f64}\n"
    "  %y = scan carry(%c = %z) over(%x in %xs) with(%v = %w) {\n"
    "    %i = full {value = 1, dims = [], dtype = i64}\n"
    "    %u = switch(%i) [(%a = %v) {\n"
    "      yield(%a)\n"
    "    }, (%a = %v) {\n"
    "      %o = region {kind = \"once\"} with(%b = %a) {\n"
    "        %t = tanh(%b)\n"
    "        yield(%t)\n"
    "      }\n"
    "      yield(%o)\n"
    "    }]\n"
    "    %p = mul(%u, %x)\n"
    "    %n = add(%c, %p)\n"
    "    next(%n)\n"
    "  }\n"
    "  return %y\n"
    "}\n"
    "fn @layer(%w: f64[3], %x: f64[3]) -> (f64[3]) {\n"
    "  %u = region {kind = \"once\"} with(%v = %w) {\n"
    "    %t = tanh(%v)\n"
    "    yield(%t)\n"
    "  }\n"
    "  %y = mul(%x, %u)\n"
    "  return %y\n"
    "}\n"
    "fn @pull(%w: f64[3], %x: f64[3], %ct: f64[3]) -> (f64[3], f64[3]) {\n"
    "  return %ct, %ct\n"
    "}\n"
    "fn @calls(%w: f64[3], %v: f64[3], %x: f64[3]) -> (f64[3]) {\n"
    "  %a = invoke_subgraph @layer(%w, %x)\n"
    "  %b = invoke_subgraph @layer(%v, %a)\n"
    "  %c = custom {backward = @pull} @layer(%w, %b)\n"
    "  return %c\n"
    "}\n"
    "fn @loss(%w: f64[3], %x: f64[3]) -> (f64[]) {\n"
    "  %y = invoke_subgraph @layer(%w, %x)\n"
    "  %s = sum(%y)\n"
    "  return %s\n"
    "}\n"
    "fn @lenient(%w: f64[3], %x: f64[3]) -> (f64[3]) {\n"
    "  %u = region {kind = \"once\", otherwise = \"body\"} with(%v = %w) {\n"
    "    %t = tanh(%v)\n"
    "    yield(%t)\n"
    "  }\n"
    "  %y = mul(%x, %u)\n"
    "  return %y\n"
    "}\n"
    "fn @checked(%w: f64[3], %x: f64[3]) -> (f64[3]) {\n"
    "  %u = region {kind = \"once\"} with(%v = %w) {\n"
    "    %z = full {value = 0, dims = [3], dtype = f64}\n"
    "    %p = gt(%v, %z)\n"
    "    check {message = \"weights are positive\"} (%p)\n"
    "    %t = log(%v)\n"
    "    yield(%t)\n"
    "  }\n"
    "  %y = mul(%x, %u)\n"
    "  return %y\n"
    "}\n";

static hop_fn *program(const char *name)
{
    hop_fn *f = NULL;
    CLAIM(!hop_fn_read(&f, TEXT, name), "%s: %s", name, hop_message());
    if (!f) exit(tests_end());
    return f;
}

static hop_tensor *tensor(const char *type, double scale)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
    double *x = hop_data(t);
    for (int64_t i = 0; i < hop_tensor_count(t); i++) x[i] = scale * (double)(i + 1);
    return t;
}

static hop_exe *compiled(hop_fn *f, const char *constant, int portable)
{
    hop_exe *exe = NULL;
    hop_compile_options o = { .strict = 1, .portable = portable, .constant = constant };
    CLAIM(!hop_compile(&exe, f, &o), "%s", hop_message());
    if (!exe) exit(tests_end());
    return exe;
}

static void free_tensors(hop_tensor **tensors, int n)
{
    for (int i = 0; i < n; i++) hop_tensor_free(tensors[i]);
}

static void free_program(hop_fn *f, hop_exe *exe)
{
    hop_exe_free(exe);
    hop_fn_free(f);
}

static int made(hop_exe *exe)
{
    hop_kept kept = { 0 };
    CLAIM(!hop_exe_kept(&kept, exe), "%s", hop_message());
    return (int)kept.made;
}

/* Runs, and holds the result against the interpreter's, bit for bit. */
static void run_and_compare(hop_fn *f, hop_exe *exe, hop_tensor **in, int n, const char *what)
{
    hop_tensor *found[1] = { NULL }, *want[1] = { NULL };
    CLAIM(!hop_run(exe, in, n, found, 1), "%s: %s", what, hop_message());
    CLAIM(!hop_interpret(f, in, n, want, 1), "%s: %s", what, hop_message());
    if (found[0] && want[0]) {
        size_t bytes = (size_t)hop_tensor_count(want[0]) * sizeof(double);
        CLAIM(!memcmp(hop_data(found[0]), hop_data(want[0]), bytes), "%s: another result", what);
    }
    hop_tensor_free(found[0]);
    hop_tensor_free(want[0]);
}

/* ---- how often ---- */

static void test_counts(int portable)
{
    hop_fn *f = program("normal");
    hop_exe *exe = compiled(f, "w", portable);
    hop_tensor *in[2] = { tensor("f64[2, 3]", 0.1), tensor("f64[2]", 1) };
    hop_kept kept = { 0 };
    hop_exe_kept(&kept, exe);
    CLAIM(kept.values == 1 && !kept.bytes && !kept.made, "nothing is there before the first run");
    for (int i = 0; i < 3; i++) run_and_compare(f, exe, in, 2, "the same weights");
    CLAIM(made(exe) == 1, "computed %d times, expected once", made(exe));
    hop_exe_kept(&kept, exe);
    CLAIM(kept.bytes == 2 * 3 * sizeof(double), "it keeps %d bytes", (int)kept.bytes);

    ((double *)hop_data(in[1]))[0] = 5;
    run_and_compare(f, exe, in, 2, "another x");
    CLAIM(made(exe) == 1, "x is no constant: computed %d times", made(exe));
    ((double *)hop_data(in[0]))[4] = -3;
    run_and_compare(f, exe, in, 2, "written by the caller");
    CLAIM(made(exe) == 2, "after a write: %d times, expected 2", made(exe));

    hop_tensor *other = tensor("f64[2, 3]", 0.2), *saved = in[0];
    hop_tensor_fill(in[0], other);
    run_and_compare(f, exe, in, 2, "filled");
    CLAIM(made(exe) == 3, "after a fill: %d times, expected 3", made(exe));
    in[0] = other;
    run_and_compare(f, exe, in, 2, "another tensor");
    run_and_compare(f, exe, in, 2, "another tensor");
    CLAIM(made(exe) == 4, "another tensor: %d times, expected 4", made(exe));
    in[0] = saved;
    run_and_compare(f, exe, in, 2, "the first tensor again");
    CLAIM(made(exe) == 5, "the first one again: %d times, expected 5", made(exe));

    /* A run that writes to a constant. */
    hop_tensor *wide[2] = { tensor("f64[1, 2]", 1), tensor("f64[1]", 1) };
    hop_tensor *out[1] = { NULL }, *view = NULL;
    hop_tensor_view(&view, wide[0], "0");
    for (int i = 0; i < 2; i++) run_and_compare(f, exe, wide, 2, "other sizes");
    CLAIM(made(exe) == 6, "other sizes: %d times, expected 6", made(exe));
    out[0] = view;
    CLAIM(!hop_run(exe, wide, 2, out, 1), "%s", hop_message());
    CLAIM(made(exe) == 6, "the write comes after: %d times, expected 6", made(exe));
    run_and_compare(f, exe, wide, 2, "a result was written over it");
    CLAIM(made(exe) == 7, "a run wrote to it: %d times, expected 7", made(exe));
    hop_tensor_free(view);
    hop_tensor_free(wide[0]);
    hop_tensor_free(wide[1]);

    free_tensors(in, 2);
    hop_tensor_free(other);
    free_program(f, exe);
}

/* A tensor at the address of one that is gone is another one. */
static void test_identity(void)
{
    hop_fn *f = program("normal");
    hop_exe *exe = compiled(f, "w", 0);
    hop_tensor *x = tensor("f64[2]", 1);
    for (int i = 0; i < 4; i++) {
        hop_tensor *in[2] = { tensor("f64[2, 3]", i), x };
        run_and_compare(f, exe, in, 2, "a new tensor each time");
        hop_tensor_free(in[0]);
    }
    CLAIM(made(exe) == 4, "computed %d times, expected 4", made(exe));
    hop_tensor_free(x);
    free_program(f, exe);
}

/* ---- memory that cannot be watched ---- */

static void test_borrowed(void)
{
    hop_fn *f = program("normal");
    hop_exe *exe = compiled(f, "w", 0);
    double memory[6] = { 1, 2, 3, 4, 5, 6 };
    hop_tensor *in[2] = { NULL, tensor("f64[2]", 1) };
    hop_tensor_borrow(&in[0], "f64[2, 3]", memory, NULL, NULL);
    run_and_compare(f, exe, in, 2, "borrowed");
    memory[0] = 7;
    run_and_compare(f, exe, in, 2, "borrowed and written");
    CLAIM(made(exe) == 2, "borrowed memory counts as changed: %d times", made(exe));

    CLAIM(!hop_exe_refresh(exe), "%s", hop_message());
    for (int i = 0; i < 3; i++) run_and_compare(f, exe, in, 2, "the caller says when");
    CLAIM(made(exe) == 3, "unchanged until it is said: %d times, expected 3", made(exe));
    memory[1] = 8;
    CLAIM(!hop_exe_refresh(exe), "%s", hop_message());
    run_and_compare(f, exe, in, 2, "refreshed");
    CLAIM(made(exe) == 4, "refreshed: %d times, expected 4", made(exe));
    hop_tensor_free(in[0]);

    /* What is lent counts as changed while somebody has it. */
    hop_exe_free(exe);
    exe = compiled(f, "w", 0);
    struct DLManagedTensor *lent = NULL;
    in[0] = tensor("f64[2, 3]", 1);
    CLAIM(!hop_tensor_to_dlpack(&lent, in[0]), "%s", hop_message());
    run_and_compare(f, exe, in, 2, "lent");
    *(double *)lent->tensor.data = 0.5;
    run_and_compare(f, exe, in, 2, "lent and written");
    CLAIM(made(exe) == 2, "lent memory counts as changed: %d times", made(exe));
    *(double *)lent->tensor.data = 0.25;
    lent->deleter(lent);
    for (int i = 0; i < 3; i++) run_and_compare(f, exe, in, 2, "given back");
    CLAIM(made(exe) == 3, "given back: %d times, expected 3", made(exe));

    /* A view of it is the same memory, and a strided one is still known by it. */
    hop_tensor *whole = tensor("f64[3, 2]", 0.3), *view = NULL;
    CLAIM(!hop_tensor_view(&view, whole, "::-1, 0"), "%s", hop_message());
    hop_exe_free(exe);
    hop_fn *g = program("layer");
    exe = compiled(g, "w", 0);
    hop_tensor *args[2] = { view, tensor("f64[3]", 1) };
    for (int i = 0; i < 3; i++) run_and_compare(g, exe, args, 2, "a view");
    CLAIM(made(exe) == 1, "a view: %d times, expected 1", made(exe));
    ((double *)hop_data(whole))[2] = 9;
    run_and_compare(g, exe, args, 2, "what is viewed is written");
    CLAIM(made(exe) == 2, "what is viewed is written: %d times, expected 2", made(exe));
    hop_tensor_free(args[1]);
    hop_tensor_free(view);
    hop_tensor_free(whole);
    free_tensors(in, 2);
    free_program(f, exe);
    hop_fn_free(g);
}

/* ---- where regions stand ---- */

static void test_places(int portable)
{
    hop_fn *f = program("two");
    hop_exe *exe = compiled(f, "w, b", portable);
    hop_tensor *in[3] = { tensor("f64[3]", 0.5), tensor("f64[3]", 0.25), tensor("f64[3]", 2) };
    hop_kept kept = { 0 };
    for (int i = 0; i < 2; i++) run_and_compare(f, exe, in, 3, "regions of regions");
    hop_exe_kept(&kept, exe);
    CLAIM(kept.values == 1 && kept.made == 1, "what nobody reads is not kept: %d values", (int)kept.values);
    ((double *)hop_data(in[1]))[0] = 1;
    run_and_compare(f, exe, in, 3, "the other weight");
    CLAIM(made(exe) == 2, "the other weight: %d times, expected 2", made(exe));
    free_program(f, exe);

    f = program("loop");
    exe = compiled(f, "w", portable);
    hop_tensor *rows[2] = { in[0], tensor("f64[4, 3]", 1) };
    for (int i = 0; i < 2; i++) run_and_compare(f, exe, rows, 2, "in a branch of a loop");
    CLAIM(made(exe) == 1, "in a branch of a loop: %d times, expected 1", made(exe));
    hop_tensor_free(rows[1]);
    free_program(f, exe);

    f = program("calls");
    exe = compiled(f, "w, v", portable);
    for (int i = 0; i < 2; i++) run_and_compare(f, exe, in, 3, "calls");
    hop_exe_kept(&kept, exe);
    CLAIM(kept.values == 3 && kept.made == 1, "one for each call: %d values, made %d times", (int)kept.values,
          (int)kept.made);
    free_program(f, exe);

    f = program("lenient");
    exe = compiled(f, NULL, portable);
    run_and_compare(f, exe, in, 2, "otherwise its body");
    CLAIM(!made(exe), "nothing is constant and nothing is kept");
    hop_exe_free(exe);
    exe = compiled(f, "w", portable);
    for (int i = 0; i < 2; i++) run_and_compare(f, exe, in, 2, "kept where it can be");
    CLAIM(made(exe) == 1, "kept where it can be: %d times, expected 1", made(exe));
    free_program(f, exe);
    free_tensors(in, 3);
}

/* A failing check inside: the run fails, nothing is kept, the next one tries again. */
static void test_check(void)
{
    hop_fn *f = program("checked");
    hop_exe *exe = compiled(f, "w", 0);
    hop_tensor *in[2] = { tensor("f64[3]", -1), tensor("f64[3]", 1) }, *out[1] = { NULL };
    int status = hop_run(exe, in, 2, out, 1);
    CLAIM(status == HOP_CHECK && strstr(hop_message(), "weights are positive"), "found %d: %s", status,
          hop_message());
    CLAIM(!out[0] && !made(exe), "nothing came of it");
    for (int i = 0; i < 3; i++) ((double *)hop_data(in[0]))[i] = 2;
    run_and_compare(f, exe, in, 2, "after the failure");
    CLAIM(made(exe) == 1, "after the failure: %d times, expected 1", made(exe));
    free_tensors(in, 2);
    free_program(f, exe);
}

/* Every allocation of a first run fails once: the run says so, and the next one does what it should. */
static void test_allocations(void)
{
    hop_fn *f = program("two");
    hop_tensor *in[3] = { tensor("f64[3]", 0.5), tensor("f64[3]", 0.25), tensor("f64[3]", 2) };
    int status = HOP_NOMEM, failures = 0;
    for (uint64_t n = 1; status && n < 1000; n++) {
        hop_exe *exe = compiled(f, "w, b", 1);
        hop_tensor *out[1] = { NULL };
        hop_fail_allocation(n);
        status = hop_run(exe, in, 3, out, 1);
        hop_fail_allocation(0);
        if (status) {
            failures++;
            CLAIM(status == HOP_NOMEM, "allocation %d: found %d", (int)n, status);
        }
        run_and_compare(f, exe, in, 3, "after a failed allocation");
        CLAIM(made(exe) == 1, "allocation %d: computed %d times", (int)n, made(exe));
        hop_tensor_free(out[0]);
        hop_exe_free(exe);
    }
    CLAIM(!status && failures > 3, "%d allocations failed", failures);
    free_tensors(in, 3);
    hop_fn_free(f);
}

/* ---- transforms ---- */

static void test_transforms(void)
{
    hop_fn *loss = program("loss"), *layer = program("layer"), *g = NULL;
    hop_tensor *in[4] = { tensor("f64[3]", 0.5), tensor("f64[3]", 2), tensor("f64[3]", 0.1),
                          tensor("f64[3]", 0.2) };
    static const struct {
        const char *wrt, *constant;
        int made;
    } grads[] = { { "w", "w", 1 }, { "x", "w", 1 }, { "w", NULL, 0 }, { "w, x", "w", 1 } };
    for (size_t k = 0; k < sizeof grads / sizeof *grads; k++) {
        CLAIM(!hop_grad(&g, loss, grads[k].wrt), "%s", hop_message());
        hop_exe *exe = compiled(g, grads[k].constant, 0);
        for (int i = 0; i < 2; i++) {
            hop_tensor *found[2] = { NULL }, *want[2] = { NULL };
            int n = hop_fn_results(g);
            CLAIM(!hop_run(exe, in, 2, found, n) && !hop_interpret(g, in, 2, want, n), "%s", hop_message());
            for (int r = 0; r < n; r++) {
                CLAIM(!memcmp(hop_data(found[r]), hop_data(want[r]), 3 * sizeof(double)),
                      "gradient by %s, result %d", grads[k].wrt, r);
                hop_tensor_free(found[r]);
                hop_tensor_free(want[r]);
            }
        }
        CLAIM(made(exe) == grads[k].made, "gradient by %s: %d times, expected %d", grads[k].wrt, made(exe),
              grads[k].made);
        free_program(g, exe);
    }
    /* By x alone the region is not differentiated: who forgets the mark is told. */
    hop_exe *exe = NULL;
    CLAIM(!hop_grad(&g, loss, "x"), "%s", hop_message());
    CLAIM(hop_compile(&exe, g, NULL) == HOP_INVALID, "a region that was written reads what is not constant");
    hop_fn_free(g);

    CLAIM(!hop_vmap(&g, layer, "x", NULL), "%s", hop_message());
    exe = compiled(g, "w", 0);
    hop_tensor *lanes[2] = { in[0], tensor("f64[5, 3]", 1) };
    for (int i = 0; i < 2; i++) run_and_compare(g, exe, lanes, 2, "lanes of x");
    CLAIM(made(exe) == 1, "lanes of x: %d times, expected 1", made(exe));
    hop_kept kept = { 0 };
    hop_exe_kept(&kept, exe);
    CLAIM(kept.bytes == 3 * sizeof(double), "one for all lanes: %d bytes", (int)kept.bytes);
    free_program(g, exe);
    CLAIM(!hop_vmap(&g, layer, NULL, NULL), "%s", hop_message());
    exe = compiled(g, "w", 0);
    hop_tensor *both[2] = { tensor("f64[5, 3]", 0.1), lanes[1] };
    for (int i = 0; i < 2; i++) run_and_compare(g, exe, both, 2, "lanes of weights");
    CLAIM(made(exe) == 1, "lanes of weights: %d times, expected 1", made(exe));
    free_program(g, exe);
    hop_tensor_free(both[0]);
    hop_tensor_free(lanes[1]);

    CLAIM(!hop_jvp(&g, layer, "w, x"), "%s", hop_message());
    exe = compiled(g, "w", 0);
    hop_tensor *found[2] = { NULL }, *want[2] = { NULL };
    CLAIM(!hop_run(exe, in, 4, found, 2) && !hop_interpret(g, in, 4, want, 2), "%s", hop_message());
    for (int r = 0; r < 2; r++) {
        CLAIM(!memcmp(hop_data(found[r]), hop_data(want[r]), 3 * sizeof(double)), "tangents, result %d", r);
        hop_tensor_free(found[r]);
        hop_tensor_free(want[r]);
    }
    CLAIM(made(exe) == 1, "the value is kept although the tangent is not: %d times", made(exe));
    free_program(g, exe);
    free_tensors(in, 4);
    hop_fn_free(loss);
    hop_fn_free(layer);
}

/* ---- several threads ---- */

enum { THREADS = 4, RUNS = 200 };
struct worker {
    pthread_t thread;
    hop_exe *exe;
    hop_tensor *in[2];
    double want[3];
    int failures;
};

static void *run_often(void *arg)
{
    struct worker *w = arg;
    for (int i = 0; i < RUNS; i++) {
        hop_tensor *out[1] = { NULL };
        if (hop_run(w->exe, w->in, 2, out, 1)) {
            w->failures++;
            continue;
        }
        w->failures += memcmp(hop_data(out[0]), w->want, sizeof w->want) != 0;
        hop_tensor_free(out[0]);
        if (i % 50 == 49) hop_exe_refresh(w->exe);
    }
    return NULL;
}

static void test_threads(int same, int portable)
{
    hop_fn *f = program("normal");
    hop_exe *exe = compiled(f, "w", portable);
    struct worker all[THREADS] = { { 0 } };
    hop_tensor *w = tensor("f64[2, 3]", 0.1), *x = tensor("f64[2]", 1);
    for (int i = 0; i < THREADS; i++) {
        hop_tensor *out[1] = { NULL };
        all[i].exe = exe;
        all[i].in[0] = same ? hop_tensor_ref(w) : tensor("f64[2, 3]", 0.1 * (i + 1));
        all[i].in[1] = x;
        CLAIM(!hop_interpret(f, all[i].in, 2, out, 1), "%s", hop_message());
        memcpy(all[i].want, hop_data(out[0]), sizeof all[i].want);
        hop_tensor_free(out[0]);
    }
    for (int i = 0; i < THREADS; i++) pthread_create(&all[i].thread, NULL, run_often, &all[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(all[i].thread, NULL);
        CLAIM(!all[i].failures, "thread %d: %d wrong results", i, all[i].failures);
        hop_tensor_free(all[i].in[0]);
    }
    if (same) CLAIM(made(exe) <= THREADS * (RUNS / 50) + 1, "computed %d times", made(exe));
    hop_tensor_free(w);
    hop_tensor_free(x);
    free_program(f, exe);
}

/* ---- what cannot be ---- */

struct mistake {
    const char *what, *text, *constant, *said;
};
static const struct mistake mistakes[] = {
    { "a parameter that is not marked",
      "fn @f(%w: f64[3], %x: f64[3]) -> (f64[3]) {\n"
      "  %u = region {kind = \"once\"} with(%v = %w, %y = %x) {\n"
      "    %t = mul(%v, %y)\n    yield(%t)\n  }\n  return %u\n}\n",
      "w", "2:3: region: once: " },
    { "the same, by name",
      "fn @f(%w: f64[3], %x: f64[3]) -> (f64[3]) {\n  %s = sin(%x)\n"
      "  %u = region {kind = \"once\"} with(%v = %w, %y = %s) {\n"
      "    %t = mul(%v, %y)\n    yield(%t)\n  }\n  return %u\n}\n",
      "w", "parameter %x is not marked constant" },
    { "what a loop changes",
      "fn @f(%w: f64[3], %xs: f64[4, 3]) -> (f64[3]) {\n"
      "  %y = scan carry(%c = %w) over(%x in %xs) {\n"
      "    %u = region {kind = \"once\"} with(%v = %c) {\n      %t = sin(%v)\n      yield(%t)\n    }\n"
      "    %n = add(%u, %x)\n    next(%n)\n  }\n  return %y\n}\n",
      "w", "%c, is another one in each step of scan" },
    { "a size that no constant tells",
      "fn @f(%w: f64[], %x: f64[n]) -> (f64[n]) {\n"
      "  %u = region {kind = \"once\"} with(%v = %w) {\n"
      "    %t = broadcast {dims = [n], at = []} (%v)\n    yield(%t)\n  }\n"
      "  %y = mul(%u, %x)\n  return %y\n}\n",
      "w", "no constant parameter tells the size n" },
    { "a print",
      "fn @f(%w: f64[3]) -> (f64[3]) {\n"
      "  %u = region {kind = \"once\"} with(%v = %w) {\n"
      "    print {format = \"{}\"} (%v)\n    yield(%v)\n  }\n  return %u\n}\n",
      "w", "its body prints, calls back or uses objects" },
    { "a size that the run finds",
      "fn @f(%w: bool[3]) -> (i64[]) {\n"
      "  %u = region {kind = \"once\"} with(%v = %w) {\n"
      "    %t = nonzero(%v)\n    yield(%t)\n  }\n  %s = sum(%u)\n  return %s\n}\n",
      "w", "only a run of it knows the sizes of its results" },
    { "a check under a branch",
      "fn @f(%w: f64[3], %i: i64[]) -> (f64[3]) {\n"
      "  %y = switch(%i) [(%a = %w) {\n      yield(%a)\n    }, (%a = %w) {\n"
      "      %u = region {kind = \"once\"} with(%v = %a) {\n"
      "        %z = full {value = 0, dims = [3], dtype = f64}\n        %p = gt(%v, %z)\n"
      "        check {message = \"positive\"} (%p)\n        yield(%v)\n      }\n"
      "      yield(%u)\n    }]\n  return %y\n}\n",
      "w", "it stands in a body of switch" },
    { "no such parameter", "fn @f(%w: f64[3]) -> (f64[3]) {\n  return %w\n}\n", "v",
      "constant: there is no parameter 'v'" },
    { "one that is updated", "fn @f(%w: mut f64[3]) -> (new %w) {\n  %s = sin(%w)\n  return %s\n}\n", "w",
      "constant: the parameter 'w' is updated" },
};

static void test_mistakes(void)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const struct mistake *k = &mistakes[i];
        hop_fn *f = NULL;
        hop_exe *exe = NULL;
        char *text = NULL;
        CLAIM(!hop_fn_read(&f, k->text, "f"), "%s: %s", k->what, hop_message());
        if (!f) continue;
        hop_compile_options o = { .constant = k->constant };
        int status = hop_compile(&exe, f, &o);
        CLAIM(status == HOP_INVALID && strstr(hop_message(), k->said), "%s: found %d, %s", k->what, status,
              hop_message());
        status = hop_emit(&text, f, "c", &(hop_emit_options){ .compile = &o });
        CLAIM(status == HOP_INVALID && strstr(hop_message(), k->said), "%s: emitted: found %d", k->what,
              status);
        hop_fn_free(f);
    }
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    CLAIM(hop_fn_read(&f,
                      "fn @f(%w: f64[]) -> (f64[]) {\n  %u = region {kind = \"once\", otherwise = \"never\"} "
                      "with(%v = %w) {\n    yield(%v)\n  }\n  return %u\n}\n",
                      "f") == HOP_INVALID &&
              strstr(hop_message(), "otherwise: expected \"body\""),
          "found %s", hop_message());
    f = program("layer");
    CLAIM(hop_compile(&exe, f, &(hop_compile_options){ .constant = "w", .donate = "w" }) == HOP_INVALID,
          "constant and donated");
    hop_fn_free(f);
}

/* ---- texts ---- */

static void test_texts(void)
{
    hop_fn *f = program("normal");
    hop_compile_options o = { .constant = "w", .portable = 1 };
    char *text = NULL;
    CLAIM(!hop_explain(&text, f, &o, NULL) && strstr(text, "kept from run to run: 1\n") &&
              strstr(text, "8*n*k bytes") && strstr(text, "when one of these changes: %w\n"),
          "explain: %s", text ? text : hop_message());
    hop_text_free(text);
    CLAIM(!hop_explain(&text, f, &o, "json") && strstr(text, "\"once\": [{\"type\": \"f64[n, k]\""),
          "json: %s", text ? text : hop_message());
    hop_text_free(text);
    CLAIM(!hop_emit(&text, f, "header", &(hop_emit_options){ .compile = &o }) &&
              strstr(text, "int normal_init(int64_t n, int64_t k, const double *w, double *u") &&
              strstr(text,
                     "int normal(int64_t n, int64_t k, const double *w, const double *x, const double *u, "
                     "double *y"),
          "the header: %s", text ? text : hop_message());
    hop_text_free(text);
    hop_fn_free(f);
}

int main(int argc, char **argv)
{
    int portable = argc > 1 && !strcmp(argv[1], "--portable");
    test_counts(portable);
    test_counts(1);
    test_places(portable);
    test_places(1);
    test_threads(1, portable);
    test_threads(0, portable);
    if (portable) return tests_end();
    test_identity();
    test_borrowed();
    test_check();
    test_allocations();
    test_transforms();
    test_mistakes();
    test_texts();
    return tests_end();
}
