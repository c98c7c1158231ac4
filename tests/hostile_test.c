/* Hostile requests: arguments that do not fit symbolic sizes, element counts beyond 2^63, more dims than
 * there can be, bodies and calls nested very deep, names very long, files of every dtype cut short. Each ends
 * in a status and a message that says what was expected and what was found; nothing crashes. */
#include "check.h"
#include "runtime/exe.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOLD(status, part) \
    CLAIM((status) && strstr(hop_message(), part), "expected a message with '%s', found: %s", part, \
          hop_message())

/* ---- arguments against symbolic sizes ---- */

static int product(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_mul(in[0], in[1]), 0;
}

enum way { INTERPRETED, LOOPS, NATIVE, EAGERLY, WAYS };
struct runner {
    hop_fn *f;
    hop_exe *exe[WAYS];
    const char *params;
};

static hop_status run_way(struct runner *r, enum way way, hop_tensor *const *in, int n_in, hop_tensor **out,
                          int n_out)
{
    if (way == INTERPRETED) return hop_interpret(r->f, in, n_in, out, n_out);
    if (way == EAGERLY) return (hop_status)hop_eager(r->params, product, NULL, in, n_in, out, n_out);
    return hop_run(r->exe[way], in, n_in, out, n_out);
}

static void wrong_arguments(void)
{
    static const struct {
        const char *x, *y;
        const char *parts[3];
    } cases[] = {
        { "f32[3]", "f32[4]", { "T", "3", "4" } },      { "f32[9]", "f32[9]", { "T", "9", "8" } },
        { "f32[0]", "f32[0]", { "T", "0", "1" } },      { "f64[3]", "f32[3]", { "f32", "f64", "x" } },
        { "f32[3, 1]", "f32[3]", { "x", "f32", "" } },  { "f32[]", "f32[3]", { "x", "f32", "" } },
        { "bool[3]", "f32[3]", { "bool", "f32", "" } },
    };
    struct runner r = { .params = "g[T in 1..8](x: f32[T], y: f32[T])" };
    CLAIM(!hop_capture(&r.f, r.params, 1, product, NULL), "%s", hop_message());
    for (enum way way = LOOPS; way <= NATIVE; way++)
        if (way == LOOPS || exe_available())
            CLAIM(!hop_compile(&r.exe[way], r.f, &(hop_compile_options){ .portable = way == LOOPS }), "%s",
                  hop_message());
    for (enum way way = INTERPRETED; way < WAYS; way++) {
        if (way == NATIVE && !r.exe[way]) continue;
        for (size_t i = 0; i < HOP_COUNT(cases); i++) {
            hop_tensor *in[2] = { 0 }, *out[1] = { 0 };
            CLAIM(!hop_tensor_new(&in[0], cases[i].x) && !hop_tensor_new(&in[1], cases[i].y), "%s",
                  hop_message());
            hop_status status = run_way(&r, way, in, 2, out, 1);
            CLAIM(status == HOP_INVALID && !out[0], "way %d, %s and %s: status %d", way, cases[i].x,
                  cases[i].y, status);
            for (int k = 0; k < 3; k++) TOLD(status, cases[i].parts[k]);
            for (int k = 0; k < 2; k++) hop_tensor_free(in[k]);
        }
        hop_tensor *in[3] = { 0 }, *out[2] = { 0 };
        for (int k = 0; k < 3; k++) CLAIM(!hop_tensor_new(&in[k], "f32[3]"), "%s", hop_message());
        TOLD(run_way(&r, way, in, 1, out, 1), "1");
        TOLD(run_way(&r, way, in, 3, out, 1), "3");
        if (way != EAGERLY) TOLD(run_way(&r, way, in, 2, out, 2), "2");
        CLAIM(!hop_tensor_new(&out[0], "f32[4]"), "%s", hop_message());
        TOLD(run_way(&r, way, in, 2, out, 1), "4");
        hop_tensor_free(out[0]);
        for (int k = 0; k < 3; k++) hop_tensor_free(in[k]);
    }
    for (enum way way = LOOPS; way <= NATIVE; way++) hop_exe_free(r.exe[way]);
    hop_fn_free(r.f);
}

/* ---- sizes ---- */

static int grows(void *env, const hop_val *in, hop_val *out)
{
    return out[0] = hop_broadcast(in[0], env), hop_failed();
}
static int grows_and_sums(void *env, const hop_val *in, hop_val *out)
{
    return out[0] = hop_sum(hop_exp(hop_add(hop_broadcast(in[0], env), hop_iota("i64[3]", 0))), "0"),
           hop_failed();
}

/* Captured or not, nothing with so many elements runs. */
static void too_many_elements(void)
{
    static const char *const sizes[] = { "9223372036854775807, 3",      "4611686018427387904, 4, 3",
                                         "T * 4611686018427387904, 3",  "T * T * 4611686018427387904, 3",
                                         "4294967296, 4294967296, 3",   "9223372036854775807, T, 3",
                                         "99999999999, 99999999999, 3", "1099511627776, 3" };
    static const hop_body bodies[] = { grows, grows_and_sums };
    for (size_t i = 0; i < HOP_COUNT(sizes); i++)
        for (size_t b = 0; b < HOP_COUNT(bodies); b++) {
            hop_fn *f = NULL;
            hop_exe *exe = NULL;
            hop_tensor *in[2] = { 0 }, *out[1] = { 0 };
            int status = hop_capture(&f, "x: f32[3], t: f32[T]", 1, bodies[b], (void *)sizes[i]);
            CLAIM(!status || hop_message()[0], "%s", sizes[i]);
            CLAIM(!hop_tensor_new(&in[0], "f32[3]") && !hop_tensor_new(&in[1], "f32[4]"), "%s",
                  hop_message());
            for (int way = 0; f && way < 3; way++) {
                if (b && (strchr(sizes[i], 'T') || strstr("1099511627776, 3", sizes[i])))
                    continue; /* what is summed without ever being there is a long run, no failure */
                if (way &&
                    hop_compile(&exe, f, &(hop_compile_options){ .portable = way == 1, .threads = 1 })) {
                    CLAIM(hop_message()[0], "%s", sizes[i]);
                    continue;
                }
                status = way ? hop_run(exe, in, 2, out, 1) : hop_interpret(f, in, 2, out, 1);
                CLAIM(status && !out[0] && hop_message()[0], "%s: it ran", sizes[i]);
                hop_exe_free(exe), exe = NULL;
                hop_tensor_free(out[0]), out[0] = NULL;
            }
            hop_tensor_free(in[0]);
            hop_tensor_free(in[1]);
            hop_fn_free(f);
        }
    hop_tensor *t = NULL;
    TOLD(hop_tensor_new_dims(&t, "f32", (const int64_t[]){ INT64_MAX, 2 }, 2), "overflows");
    TOLD(hop_tensor_new_dims(&t, "f64", (const int64_t[]){ (int64_t)1 << 61, 1 }, 2), "overflows");
    TOLD(hop_tensor_new_dims(&t, "f32", (const int64_t[]){ 0, INT64_MAX, INT64_MAX }, 3), "overflows");
    CLAIM(hop_tensor_new_dims(&t, "f32", (const int64_t[]){ (int64_t)1 << 58 }, 1) == HOP_NOMEM,
          "so much memory is not there: %s", hop_message());
}

#define SEVEN "1,1,1,1,1,1,1"
#define MOST SEVEN "," SEVEN "," SEVEN "," SEVEN ",1,1,1,1" /* as many sizes as a type can have */
/* Quotients and remainders of the smallest number are what floor division says, or an overflow. */
static void smallest_number(void *ctx)
{
    static const struct {
        int64_t a, b, quotient, rest;
        bool overflows;
    } cases[] = {
        { INT64_MIN, -1, 0, 0, true },
        { INT64_MIN, 3, -3074457345618258603, 1, false },
        { INT64_MIN, -3, 3074457345618258602, -2, false },
        { INT64_MIN, INT64_MAX, -2, INT64_MAX - 1, false },
        { INT64_MAX, INT64_MIN, -1, -1, false },
        { INT64_MIN, INT64_MIN, 1, 0, false },
        { -7, 2, -4, 1, false },
        { 7, -2, -4, -1, false },
    };
    struct module *m = ctx;
    for (size_t i = 0; i < HOP_COUNT(cases); i++) {
        dim a = dim_const(m, cases[i].a), b = dim_const(m, cases[i].b);
        CLAIM(dim_const_value(m, dim_mod(m, a, b)) == cases[i].rest, "the rest of case %zu", i);
        if (!cases[i].overflows)
            CLAIM(dim_const_value(m, dim_floordiv(m, a, b)) == cases[i].quotient, "the quotient of case %zu",
                  i);
    }
    dim_floordiv(m, dim_const(m, INT64_MIN), dim_const(m, -1));
    CLAIM(false, "an overflow is an error");
}

static void sizes_at_the_edge(void)
{
    struct module *m = module_new();
    TOLD(attempt(smallest_number, m), "overflows");
    module_free(m);
}

static int one_more_axis(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_expand(in[0], 0), hop_failed();
}
static int stacked(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_stack(in, 1, 0), hop_failed();
}
static int outer_product(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_dot(in[0], in[0], NULL), hop_failed();
}
static int mapped_body(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_broadcast(in[0], SEVEN "," SEVEN "," SEVEN "," SEVEN ",1,1,1,2"),
                      hop_failed();
}
static int mapped(void *env, const hop_val *in, hop_val *out)
{
    hop_val flat = hop_reshape(in[0], "1, 1");
    (void)env;
    return hop_map(out, 1, &(hop_map_spec){ .body = mapped_body, .xs = &flat, .n_xs = 1 });
}
static int same(void *env, const hop_val *in, hop_val *out) { return (void)env, out[0] = in[0], 0; }

static void too_many_dims(void)
{
    static const char most[] = "x: f32[" MOST "]";
    int64_t sizes[MAX_RANK + 1];
    static const hop_body bodies[] = { one_more_axis, stacked, outer_product, mapped };
    hop_fn *f = NULL, *g = NULL;
    hop_tensor *t = NULL;
    for (size_t i = 0; i < HOP_COUNT(bodies); i++) TOLD(hop_capture(&f, most, 1, bodies[i], NULL), "32");
    TOLD(hop_capture(&f, "x: f32[" MOST ",1]", 1, same, NULL), "32");
    TOLD(hop_tensor_new(&t, "f32[" MOST ",1]"), "32");
    for (size_t i = 0; i < HOP_COUNT(sizes); i++) sizes[i] = 1;
    TOLD(hop_tensor_new_dims(&t, "f32", sizes, MAX_RANK + 1), "32");
    TOLD(hop_fn_read(&f, "fn @f(%x: f32[" MOST ",1]) -> () {\n  return\n}\n", NULL), "32");
    CLAIM(!hop_capture(&f, most, 1, same, NULL), "%s", hop_message());
    TOLD(hop_vmap(&g, f, NULL, NULL), "32");
    TOLD(hop_jacfwd(&g, f, NULL), "32");
    TOLD(hop_jacrev(&g, f, NULL), "32");
    hop_fn_free(f);
}

/* ---- depth ---- */

static int nested(void *env, const hop_val *in, hop_val *out)
{
    int *left = env;
    if (!(*left)--) return out[0] = hop_neg(in[0]), 0;
    return hop_call(out, 1, &(hop_call_spec){ .body = nested, .env = env, .in = in, .n_in = 1 });
}

/* A stack of the usual size is enough for whatever text says, or there is an error. In a process of its own:
 * a crash is a failure. */
static void survives(const char *what, void (*body)(void))
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        alarm(120);
        body();
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0) {}
    CLAIM(pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status), "%s: ended with %d", what, status);
}

static char *repeated(const char *first, const char *part, int n, const char *last)
{
    size_t a = strlen(first), b = strlen(part), c = strlen(last);
    char *text = malloc(a + b * (size_t)n + c + 1), *at = text;
    if (!text) exit(2);
    memcpy(at, first, a), at += a;
    for (int i = 0; i < n; i++) memcpy(at, part, b), at += b;
    memcpy(at, last, c + 1);
    return text;
}

static void read_and_use(const char *text)
{
    hop_fn *f = NULL, *g = NULL;
    hop_exe *exe = NULL;
    hop_tensor *x = NULL, *out[2] = { 0 };
    if (hop_fn_read(&f, text, NULL)) {
        if (!hop_message()[0]) _exit(1);
        return;
    }
    if (!hop_fn_text(f)) _exit(2);
    hop_tensor_new(&x, "f32[2]");
    hop_interpret(f, &x, 1, out, 1);
    if (!hop_compile(&exe, f, &(hop_compile_options){ .portable = 1 })) hop_run(exe, &x, 1, out + 1, 1);
    hop_grad(&g, f, NULL);
    hop_vmap(&g, f, NULL, NULL);
}

static void deep_regions(void)
{
    for (int depth = 20; depth <= 20000; depth *= 10) {
        char *open = repeated("fn @f(%x: f32[2]) -> (f32[2]) {\n", "  %y = invoke_subgraph (%x = %x) {\n",
                              depth, "  %z = neg(%x)\n  yield(%z)\n");
        char *text = repeated(open, "}\n  yield(%y)\n", depth, "");
        read_and_use(text);
        char *branches = repeated("fn @f(%x: f32[2]) -> (f32[2]) {\n", "  %y = switch(%x) [(%x = %x) {\n",
                                  depth, "");
        read_and_use(branches);
        free(open), free(text), free(branches);
    }
}

static void deep_dims(void)
{
    for (int depth = 10; depth <= 1000000; depth *= 10) {
        char *open = repeated("fn @f(%x: f32[", "(", depth, "3");
        char *text = repeated(open, ")", depth, "]) -> () {\n  return\n}\n");
        read_and_use(text);
        hop_tensor *t = NULL;
        char *type = repeated("f32[", "(", depth, "]");
        if (!hop_tensor_new(&t, type)) _exit(1);
        char *sum = repeated("fn @f[T](%x: f32[T], %y: f32[T", " + T * 2 - 1", depth,
                             "]) -> () {\n  return\n}\n");
        read_and_use(sum);
        free(open), free(text), free(type), free(sum);
    }
}

/* f0 calls nothing, f1 calls f0, … */
static void long_chains(void)
{
    for (int n = 100; n <= 10000; n *= 10) {
        size_t room = (size_t)n * 140 + 200, at = 0;
        char *text = malloc(room);
        if (!text) exit(2);
        at += (size_t)snprintf(text, room,
                               "fn @f0(%%x: f32[2]) -> (f32[2]) {\n  %%y = neg(%%x)\n  return %%y\n}\n");
        for (int i = 1; i <= n; i++)
            at += (size_t)snprintf(
                text + at, room - at,
                "fn @f%d(%%x: f32[2]) -> (f32[2]) {\n  %%y = invoke_subgraph @f%d(%%x)\n  return %%y\n}\n", i,
                i - 1);
        read_and_use(text);
        free(text);
    }
}

static void long_line(void)
{
    char *text = repeated("fn @f(%x: f32[2]) -> (f32[2]) {\n", "  %x1 = neg(%x)\n", 1, "");
    free(text);
    for (int n = 1000; n <= 100000; n *= 10) { /* values that each use the one before */
        size_t room = (size_t)n * 40 + 200, at = 0;
        text = malloc(room);
        if (!text) exit(2);
        at += (size_t)snprintf(text, room, "fn @f(%%v0: f32[2]) -> (f32[2]) {\n");
        for (int i = 1; i <= n; i++)
            at += (size_t)snprintf(text + at, room - at, "  %%v%d = sin(%%v%d)\n", i, i - 1);
        snprintf(text + at, room - at, "  return %%v%d\n}\n", n);
        read_and_use(text);
        free(text);
    }
}

static void depth(void)
{
    hop_fn *f = NULL;
    int left = 30;
    CLAIM(!hop_capture(&f, "x: f32[2]", 1, nested, &left), "%s", hop_message());
    hop_fn_free(f), f = NULL;
    left = 1000;
    TOLD(hop_capture(&f, "x: f32[2]", 1, nested, &left), "deep");
    survives("regions in regions", deep_regions);
    survives("sizes in parentheses", deep_dims);
    survives("functions that call each other", long_chains);
    survives("many values", long_line);
}

/* ---- names ---- */

static int named(void *env, const hop_val *in, hop_val *out)
{
    out[0] = hop_name(hop_neg(in[0]), env);
    hop_let(env, hop_dim_const(3));
    return 0;
}

static void long_names(void)
{
    enum { LENGTH = 1 << 20 };
    hop_fn *f = NULL, *g = NULL;
    hop_tensor *x = NULL, *out[1] = { 0 };
    char *name = repeated("n", "n", LENGTH, ""), *params = repeated(name, "", 0, ": f32[T]"),
         *text = repeated("fn @", name, 1, "(");
    CLAIM(!hop_capture(&f, params, 1, named, name), "%s", hop_message());
    CLAIM(f && hop_fn_text(f) && !hop_fn_read(&g, hop_fn_text(f), NULL), "a long name reads back: %s",
          hop_message());
    CLAIM(f && strlen(hop_fn_param_name(f, 0)) == LENGTH + 1, "the name is there");
    hop_fn_free(g), g = NULL;
    CLAIM(!hop_grad(&g, f, NULL) || hop_message()[0], "an array has no gradient");
    TOLD(hop_grad(&g, f, "w"), "there is no parameter");
    TOLD(hop_grad(&g, f, text), "there is no parameter");
    TOLD(hop_fn_read(&g, text, NULL), "expected");
    CLAIM(hop_load(&x, name) && hop_message()[0], "there is no such file");
    CLAIM(!hop_tensor_new(&x, "f64[2]"), "%s", hop_message());
    TOLD(hop_interpret(f, &x, 1, out, 1), "f64");
    hop_tensor_free(x);
    hop_fn_free(f);
    free(name), free(params), free(text);
}

/* ---- files ---- */

/* Every dtype through every format; then the file a byte shorter each time. */
static void files(void)
{
    static const char *const dtypes[] = { "bool", "i8",  "i16", "i32",  "i64", "u8", "u16",
                                          "u32",  "u64", "f16", "bf16", "f32", "f64" };
    static const char *const endings[] = { "npy", "npz", "safetensors" };
    char path[128], type[32], folder[] = "/tmp/hop_hostile_XXXXXX";
    CLAIM(mkdtemp(folder), "a folder");
    for (size_t i = 0; i < HOP_COUNT(dtypes) * HOP_COUNT(endings); i++) {
        hop_tensor *t = NULL, *again = NULL;
        snprintf(type, sizeof type, "%s[3]", dtypes[i / 3]);
        snprintf(path, sizeof path, "%s/x.%s", folder, endings[i % 3]);
        CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
        hop_status status = hop_save(t, path);
        CLAIM(!status || hop_message()[0], "%s: %s", path, hop_message());
        if (!status) {
            CLAIM(!hop_load(&again, path) && !strcmp(hop_tensor_dtype(again), dtypes[i / 3]), "%s, %s: %s",
                  path, type, hop_message());
            hop_tensor_free(again), again = NULL;
            FILE *f = fopen(path, "rb");
            fseek(f, 0, SEEK_END);
            long size = ftell(f);
            fclose(f);
            for (long cut = size - 1; cut >= 0; cut -= 1 + cut / 40) {
                CLAIM(!truncate(path, cut), "truncate");
                CLAIM(hop_load(&again, path) && !again && hop_message()[0],
                      "%s of %s cut to %ld of %ld bytes loads", endings[i % 3], type, cut, size);
                hop_tensor_free(again), again = NULL;
            }
        }
        unlink(path);
        hop_tensor_free(t);
    }
    rmdir(folder);
}

int main(void)
{
    struct rlimit core = { 0, 0 };
    setrlimit(RLIMIT_CORE, &core);
    wrong_arguments();
    too_many_elements();
    sizes_at_the_edge();
    too_many_dims();
    depth();
    long_names();
    files();
    return tests_end();
}
