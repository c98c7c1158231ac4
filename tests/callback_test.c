/* Host functions called by programs: what they get and how often, by the interpreter, the loop program,
 * compiled code and in eager mode; names that are replaced, removed and missing; errors that end a run; runs
 * inside of callbacks; threads; code from the cache; allocations that fail. */
#include "check.h"
#include "ways.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define BODY(name) static int name(void *env, const hop_val *in, hop_val *out)

/* ---- a callback that notes what it gets ---- */

struct heard {
    char text[1024];
    int calls, fail_at; /* fail_at > 0: the call that returns `status` */
    int status;
    int released;
};
static int hear(void *user, hop_tensor *const *args, int n)
{
    struct heard *h = user;
    size_t at = strlen(h->text);
    for (int i = 0; i < n; i++) {
        char *text = hop_tensor_text(args[i]);
        at += (size_t)snprintf(h->text + at, sizeof h->text - at, "%s%s%s", i ? " " : "", text ? text : "?",
                               i == n - 1 ? ";" : "");
        hop_text_free(text);
    }
    if (!n) snprintf(h->text + at, sizeof h->text - at, "nothing;");
    return ++h->calls == h->fail_at ? h->status : 0;
}
static void let_go(void *user) { ((struct heard *)user)->released++; }
static void forget(struct heard *h) { *h = (struct heard){ .released = h->released }; }

/* ---- runs, each way ---- */

static hop_tensor *numbers(const char *type, double first)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
    for (int64_t i = 0; i < hop_tensor_count(t); i++)
        if (type[1] == '6') ((double *)hop_data(t))[i] = first + (double)i;
        else ((float *)hop_data(t))[i] = (float)first + (float)i;
    return t;
}

static void heard_each_way(const char *what, hop_fn *f, hop_tensor **in, int n_in, int n_out, struct heard *h,
                           const char *expected)
{
    for (enum way way = 0; way < WAYS; way++) {
        hop_tensor *out[4] = { 0 };
        forget(h);
        hop_status status = run_way(way, f, in, n_in, out, n_out);
        CLAIM(!status && !strcmp(h->text, expected), "%s, %s: expected '%s', found '%s' (%d: %s)", what,
              way_names[way], expected, h->text, status, status ? hop_message() : "");
        for (int i = 0; i < n_out; i++) hop_tensor_free(out[i]);
    }
}

BODY(step)
{
    (void)env, hop_callback("hear", (hop_val[]){ in[0], in[1] }, 2);
    return out[0] = hop_add(in[0], hop_sum(in[1], "all")), 0;
}
BODY(rows)
{
    (void)env;
    hop_callback("hear", NULL, 0);
    int status = hop_scan(out, 1,
                          &(hop_scan_spec){
                              .step = step, .carry = in, .n_carry = 1, .xs = in + 1, .n_xs = 1 });
    hop_callback("hear", (hop_val[]){ out[0], hop_scalar(0.5), hop_bool(1) }, 3);
    return status;
}

static void test_calls(void)
{
    struct heard h = { .calls = 0 };
    hop_fn *f = NULL, *g = NULL, *v = NULL;
    hop_tensor *in[2] = { numbers("f32[]", 1), numbers("f32[3, 2]", 0) },
               *batch[2] = { numbers("f32[2]", 1), in[1] };
    CLAIM(!hop_callback_register("hear", hear, &h, let_go), "%s", hop_message());
    CLAIM(!hop_capture(&f, "c: f32[], xs: f32[T, 2]", 1, rows, NULL), "%s", hop_message());
    CLAIM(strstr(hop_fn_text(f), "operator @hear(...) {effects = io}\n") &&
              strstr(hop_fn_text(f), "\n  hear()\n"),
          "in the text: %s", hop_fn_text(f));
    const char *plain = "nothing;1 [0, 1];2 [2, 3];7 [4, 5];16 0.5 true;";
    heard_each_way("a loop", f, in, 2, 1, &h, plain);
    CLAIM(!hop_value_and_grad(&g, f, NULL), "%s", hop_message());
    heard_each_way("a gradient", g, in, 2, 3, &h, plain);
    CLAIM(!hop_vmap(&v, f, "c", NULL), "%s", hop_message());
    heard_each_way(
        "lanes", v, batch, 2, 1, &h,
        "nothing;nothing;1 [0, 1];2 [0, 1];2 [2, 3];3 [2, 3];7 [4, 5];8 [4, 5];16 0.5 true;17 0.5 true;");
    hop_tensor *out[1] = { 0 };
    forget(&h);
    CLAIM(!hop_eager("c: f32[], xs: f32[T, 2]", rows, NULL, in, 2, out, 1) && !strcmp(h.text, plain),
          "eager: %s", h.text);
    hop_tensor_free(out[0]);
    CLAIM(!h.released && !hop_callback_unregister("hear") && h.released == 1, "released once it is removed");
    hop_fn_free(v);
    hop_fn_free(g);
    hop_fn_free(f);
    for (int i = 0; i < 2; i++) hop_tensor_free(in[i]);
    hop_tensor_free(batch[0]);
}

/* ---- names ---- */

BODY(once) { return (void)env, hop_callback("once", in, 1), out[0] = hop_mul(in[0], in[0]), 0; }

static void test_names(void)
{
    struct heard first = { .calls = 0 }, second = { .calls = 0 };
    hop_fn *f = NULL;
    hop_tensor *x = numbers("f64[]", 3), *out = NULL;
    CLAIM(!hop_capture(&f, "x: f64[]", 1, once, NULL), "%s", hop_message());
    for (enum way way = 0; way < WAYS; way++) {
        CLAIM(run_way(way, f, &x, 1, &out, 1) == HOP_INVALID && !out, "%s: a run without the function fails",
              way_names[way]);
        CLAIM(strstr(hop_message(), "callback_test.c:") &&
                  strstr(hop_message(), "callback: there is no callback 'once'"),
              "%s: where, what and which: %s", way_names[way], hop_message());
    }
    CLAIM(!hop_callback_register("once", hear, &first, let_go) &&
              !hop_callback_register("once", hear, &second, let_go),
          "%s", hop_message());
    CLAIM(first.released == 1 && !second.released, "what is replaced is released");
    CLAIM(!run_way(NATIVE, f, &x, 1, &out, 1) && !first.calls && second.calls == 1,
          "the new one is called: %s", hop_message());
    hop_tensor_free(out), out = NULL;
    CLAIM(!hop_callback_unregister("once") && second.released == 1, "removed");
    CLAIM(hop_callback_unregister("once") == HOP_INVALID && strstr(hop_message(), "'once'"),
          "removed twice: %s", hop_message());
    CLAIM(run_way(NATIVE, f, &x, 1, &out, 1) == HOP_INVALID, "removed for programs too");
    CLAIM(hop_callback_register("", hear, NULL, NULL) == HOP_INVALID &&
              hop_callback_register(NULL, hear, NULL, NULL) == HOP_INVALID &&
              hop_callback_register("x", NULL, NULL, NULL) == HOP_INVALID,
          "a name and a function are needed");
    hop_fn *empty = NULL;
    CLAIM(hop_fn_read(&empty, "fn @f() -> () effects(io) {\n  callback {name = \"\"} ()\n  return\n}\n",
                      NULL) == HOP_INVALID &&
              strstr(hop_message(), "callback: attribute 'name'"),
          "%s", hop_message());
    enum { MANY_NAMES = 1000 };
    int wrong = 0;
    char name[32];
    second.released = 0;
    for (int i = 0; i < MANY_NAMES; i++)
        wrong += snprintf(name, sizeof name, "name %d", i) > 31 ||
                 hop_callback_register(name, hear, &second, let_go);
    for (int i = 0; i < MANY_NAMES; i++)
        wrong += snprintf(name, sizeof name, "name %d", i) > 31 || hop_callback_unregister(name);
    CLAIM(!wrong && second.released == MANY_NAMES, "%d names", MANY_NAMES);
    hop_fn_free(f);
    hop_tensor_free(x);
}

/* ---- errors ---- */

BODY(counting) { return (void)env, hop_callback("hear", in, 1), out[0] = hop_add(in[1], in[1]), 0; }
BODY(counted)
{
    return (void)env,
           hop_fori(out, 1,
                    &(hop_fori_spec){
                        .from = hop_int(0), .to = hop_int(5), .body = counting, .carry = in, .n_carry = 1 });
}
static int complain(void *user, hop_tensor *const *args, int n)
{
    return (void)user, (void)args, (void)n, hop_fail("the loss is not a number");
}

static void test_errors(void)
{
    struct heard h = { .calls = 0 };
    hop_fn *f = NULL;
    hop_tensor *x = numbers("f64[]", 1), *out = NULL;
    CLAIM(!hop_capture(&f, "x: f64[]", 1, counted, NULL) && !hop_callback_register("hear", hear, &h, NULL),
          "%s", hop_message());
    static const int statuses[] = { HOP_CHECK, HOP_INVALID, HOP_NOMEM, HOP_CANCELLED, HOP_IO, 1234 };
    for (size_t i = 0; i < HOP_COUNT(statuses); i++)
        for (enum way way = 0; way < WAYS; way++) {
            int64_t live = hop_live_allocations();
            forget(&h);
            h.fail_at = 3, h.status = statuses[i];
            int status = (int)run_way(way, f, &x, 1, &out, 1);
            CLAIM(status == statuses[i] && !out && h.calls == 3,
                  "%s: ends with %d at the third call: %d, %d calls", way_names[way], statuses[i], status,
                  h.calls);
            CLAIM(strstr(hop_message(), "callback_test.c:") &&
                      strstr(hop_message(), "callback: 'hear' returned"),
                  "%s: %s", way_names[way], hop_message());
            CLAIM(hop_live_allocations() == live || !i || way == NATIVE || way == STRICT,
                  "%s: nothing is lost", way_names[way]);
            forget(&h);
            CLAIM(!run_way(way, f, &x, 1, &out, 1) && h.calls == 5 && *(double *)hop_data(out) == 32,
                  "%s: the next run works: %s", way_names[way], hop_message());
            hop_tensor_free(out), out = NULL;
        }
    CLAIM(!hop_callback_register("hear", complain, NULL, NULL), "%s", hop_message());
    CLAIM(run_way(NATIVE, f, &x, 1, &out, 1) == HOP_INVALID &&
              strstr(hop_message(), "the loss is not a number"),
          "a message of its own: %s", hop_message());
    CLAIM(!hop_callback_unregister("hear"), "%s", hop_message());
    hop_fn_free(f);
    hop_tensor_free(x);
}

/* ---- arguments that are kept or freed ---- */

static hop_tensor *kept;
static int keep(void *user, hop_tensor *const *args, int n)
{
    return (void)user, (void)n, kept = hop_tensor_ref(args[0]), 0;
}
static int keep_copy(void *user, hop_tensor *const *args, int n)
{
    return (void)user, (void)n, hop_tensor_free(kept), (int)hop_tensor_copy(&kept, args[0]);
}
static int free_it(void *user, hop_tensor *const *args, int n)
{
    return (void)user, (void)n, hop_tensor_free(args[0]), 0;
}
BODY(shown) { return (void)env, out[0] = hop_exp(in[0]), hop_callback("kept", &out[0], 1), 0; }

static void test_kept(void)
{
    hop_fn *f = NULL;
    hop_tensor *x = numbers("f32[3]", 0), *out = NULL;
    CLAIM(!hop_capture(&f, "x: f32[N]", 1, shown, NULL), "%s", hop_message());
    for (enum way way = 0; way < WAYS; way++) {
        hop_callback_register("kept", keep, NULL, NULL);
        CLAIM(run_way(way, f, &x, 1, &out, 1) == HOP_INVALID && strstr(hop_message(), "hop_tensor_copy"),
              "%s: a kept argument is an error: %s", way_names[way], hop_message());
        CLAIM(kept && !hop_tensor_count(kept), "%s: and shows nothing", way_names[way]);
        hop_tensor_free(kept), kept = NULL;
        hop_callback_register("kept", free_it, NULL, NULL);
        CLAIM(!run_way(way, f, &x, 1, &out, 1), "%s: one that frees its argument does no harm: %s",
              way_names[way], hop_message());
        hop_tensor_free(out), out = NULL;
        hop_callback_register("kept", keep_copy, NULL, NULL);
        CLAIM(!run_way(way, f, &x, 1, &out, 1) && ((float *)hop_data(kept))[1] == ((float *)hop_data(out))[1],
              "%s: a copy stays: %s", way_names[way], hop_message());
        hop_tensor_free(out), out = NULL;
        hop_tensor_free(kept), kept = NULL;
    }
    hop_callback_unregister("kept");
    hop_fn_free(f);
    hop_tensor_free(x);
}

/* ---- runs and captures inside of callbacks ---- */

struct nested {
    hop_fn *f;
    hop_exe *exe;
    double sum;
    int depth;
};
BODY(square) { return (void)env, out[0] = hop_mul(in[0], in[0]), 0; }
BODY(deeper) { return (void)env, hop_callback("nested", in, 1), out[0] = hop_add(in[0], hop_int(1)), 0; }
/* Runs the same executable again with its own argument, until it is deep enough; then captures,
 * differentiates and interprets. */
static int nest(void *user, hop_tensor *const *args, int n)
{
    struct nested *s = user;
    hop_tensor *out = NULL;
    hop_fn *f = NULL, *g = NULL;
    int status = n != 1;
    if (!status && ++s->depth < 4)
        status = (int)(s->exe ? hop_run(s->exe, args, 1, &out, 1) : hop_interpret(s->f, args, 1, &out, 1));
    else if (!status)
        status = hop_capture(&f, "x: f64[]", 1, square, NULL) || hop_grad(&g, f, NULL) ||
                 hop_interpret(g, args, 1, &out, 1);
    if (!status) s->sum += *(double *)hop_data(out);
    s->depth--;
    hop_tensor_free(out);
    hop_fn_free(g);
    hop_fn_free(f);
    return status;
}

static void test_nested(void)
{
    struct nested s = { 0 };
    hop_tensor *x = numbers("f64[]", 5), *out = NULL;
    CLAIM(!hop_callback_register("nested", nest, &s, NULL) && !hop_capture(&s.f, "x: f64[]", 1, deeper, NULL),
          "%s", hop_message());
    for (enum way way = 0; way < WAYS; way++) {
        s.sum = 0;
        if (way != INTERPRETED)
            CLAIM(!hop_compile(&s.exe, s.f,
                               &(hop_compile_options){ .portable = way == LOOPS, .strict = way == STRICT }),
                  "%s", hop_message());
        hop_status status = s.exe ? hop_run(s.exe, &x, 1, &out, 1) : hop_interpret(s.f, &x, 1, &out, 1);
        CLAIM(!status && *(double *)hop_data(out) == 6 && s.sum == 3 * 6 + 10,
              "%s: runs within runs: %g (%s)", way_names[way], s.sum, status ? hop_message() : "");
        hop_tensor_free(out), out = NULL;
        hop_exe_free(s.exe), s.exe = NULL;
    }
    hop_callback_unregister("nested");
    hop_fn_free(s.f);
    hop_tensor_free(x);
}

/* Operators of eager mode inside of a callback that eager mode called, more than one of its modules holds. */
static int eager_inside(void *user, hop_tensor *const *args, int n)
{
    (void)n;
    hop_tensor *own = NULL;
    if (hop_tensor_copy(&own, args[0])) return HOP_NOMEM;
    hop_val v = hop_from_tensor(own); /* which refers to it until eager mode ends */
    hop_tensor_free(own);
    for (int i = 0; i < 3000; i++) v = hop_add(v, hop_int(1));
    hop_tensor *t = hop_value_tensor(v);
    if (t) *(double *)user = *(double *)hop_data(t);
    hop_tensor_free(t);
    return hop_failed();
}
BODY(asks) { return (void)env, hop_callback("eager", in, 1), out[0] = hop_add(in[0], hop_int(1)), 0; }
static void test_eager_inside(void)
{
    double seen = 0;
    hop_tensor *x = numbers("f64[]", 5), *out = NULL;
    hop_callback_register("eager", eager_inside, &seen, NULL);
    CLAIM(!hop_eager("x: f64[]", asks, NULL, &x, 1, &out, 1) && seen == 3005 && *(double *)hop_data(out) == 6,
          "eager mode inside: %g, %s", seen, hop_message());
    hop_callback_unregister("eager");
    hop_tensor_free(out);
    hop_tensor_free(x);
}

/* ---- threads ---- */

enum { THREADS = 4, RUNS = 40 };
struct gang {
    hop_exe *exe;
    atomic_int calls, wrong, released, registered;
    atomic_bool stop;
};
static int gang_hear(void *user, hop_tensor *const *args, int n)
{
    struct gang *g = user;
    int released = atomic_load(&g->released); /* before the others: both grow meanwhile */
    if (atomic_load(&g->registered) <= released)
        atomic_fetch_add(&g->wrong, 1); /* called after it was let go */
    atomic_fetch_add(&g->calls, 1);
    return n != 1 || hop_tensor_rank(args[0]) != 1;
}
static void gang_release(void *user) { atomic_fetch_add(&((struct gang *)user)->released, 1); }
static void gang_register(struct gang *g)
{
    atomic_fetch_add(&g->registered, 1);
    if (hop_callback_register("gang", gang_hear, g, gang_release)) atomic_fetch_add(&g->wrong, 1);
}
static void *gang_run(void *user)
{
    struct gang *g = user;
    hop_tensor *x = NULL, *out = NULL;
    if (hop_tensor_new(&x, "f32[4]")) atomic_fetch_add(&g->wrong, 1);
    for (int i = 0; i < RUNS; i++) {
        if (hop_run(g->exe, &x, 1, &out, 1)) atomic_fetch_add(&g->wrong, 1);
        hop_tensor_free(out), out = NULL;
    }
    hop_tensor_free(x);
    return NULL;
}
static void *gang_replace(void *user)
{
    struct gang *g = user;
    while (!atomic_load(&g->stop)) gang_register(g), usleep(50);
    return NULL;
}
BODY(gang_step)
{
    return (void)env, hop_callback("gang", in + 1, 1), out[0] = hop_mul(in[1], hop_scalar(0.5)), 0;
}
BODY(gang_loop)
{
    return (void)env, hop_fori(out, 1,
                               &(hop_fori_spec){ .from = hop_int(0),
                                                 .to = hop_int(10),
                                                 .body = gang_step,
                                                 .carry = in,
                                                 .n_carry = 1 });
}

static void test_threads(void)
{
    struct gang g = { 0 };
    hop_fn *f = NULL;
    pthread_t threads[THREADS], replacing;
    gang_register(&g);
    CLAIM(!hop_capture(&f, "x: f32[N]", 1, gang_loop, NULL) && !hop_compile(&g.exe, f, NULL), "%s",
          hop_message());
    pthread_create(&replacing, NULL, gang_replace, &g);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, gang_run, &g);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    atomic_store(&g.stop, true);
    pthread_join(replacing, NULL);
    CLAIM(!g.wrong && g.calls == THREADS * RUNS * 10, "%d calls, %d wrong", g.calls, g.wrong);
    hop_callback_unregister("gang");
    CLAIM(g.registered == g.released, "each of %d functions is let go once: %d", g.registered, g.released);
    hop_exe_free(g.exe);
    hop_fn_free(f);
}

/* A callback that removes itself is let go when it returns. */
static int remove_itself(void *user, hop_tensor *const *args, int n)
{
    struct heard *h = user;
    (void)args, (void)n;
    hop_callback_unregister("itself");
    h->calls += !h->released;
    return 0;
}
BODY(itself) { return (void)env, hop_callback("itself", in, 1), out[0] = in[0], 0; }
static void test_itself(void)
{
    struct heard h = { .calls = 0 };
    hop_fn *f = NULL;
    hop_tensor *x = numbers("f64[]", 5), *out = NULL;
    CLAIM(!hop_callback_register("itself", remove_itself, &h, let_go) &&
              !hop_capture(&f, "x: f64[]", 1, itself, NULL),
          "%s", hop_message());
    CLAIM(!run_way(NATIVE, f, &x, 1, &out, 1) && h.calls == 1 && h.released == 1,
          "%d calls, let go %d times: %s", h.calls, h.released, hop_message());
    hop_tensor_free(out);
    hop_fn_free(f);
    hop_tensor_free(x);
}

/* ---- the cache ---- */

static void test_cache(void)
{
    char folder[] = "/tmp/hop_callback_test_XXXXXX", command[64];
    struct heard h = { .calls = 0 };
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { numbers("f32[]", 1), numbers("f32[3, 2]", 0) }, *out = NULL;
    CLAIM(mkdtemp(folder) && !hop_cache_directory(folder), "%s", hop_message());
    CLAIM(!hop_capture(&f, "c: f32[], xs: f32[T, 2]", 1, rows, NULL) &&
              !hop_callback_register("hear", hear, &h, NULL),
          "%s", hop_message());
    for (int round = 0; round < 3; round++) {
        hop_cache_stats before, after;
        hop_cache_statistics(&before);
        CLAIM(!hop_compile(&exe, f, NULL), "%s", hop_message());
        hop_cache_statistics(&after);
        CLAIM(round < 2 || after.disk_hits > before.disk_hits || after.misses > before.misses,
              "round %d: from where it should come", round);
        forget(&h);
        CLAIM(!hop_run(exe, in, 2, &out, 1) &&
                  !strcmp(h.text, "nothing;1 [0, 1];2 [2, 3];7 [4, 5];16 0.5 true;"),
              "round %d: %s", round, h.text);
        forget(&h);
        h.fail_at = 2, h.status = HOP_CHECK;
        CLAIM(hop_run(exe, in, 2, &out, 1) == HOP_CHECK && strstr(hop_message(), "callback_test.c:"),
              "round %d: the place is known: %s", round, hop_message());
        hop_tensor_free(out), out = NULL;
        hop_exe_free(exe), exe = NULL;
        if (round == 1) hop_cache_clear();
    }
    hop_callback_unregister("hear");
    hop_cache_clear();
    hop_cache_directory("off");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CLAIM(!system(command), "%s", folder);
    hop_fn_free(f);
    for (int i = 0; i < 2; i++) hop_tensor_free(in[i]);
}

/* ---- allocations that fail ---- */

static int look(void *user, hop_tensor *const *args, int n)
{
    return *(double *)user += n ? (double)((float *)hop_data(args[0]))[0] : 0, 0;
}
static void test_allocations(void)
{
    double sum = 0;
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { numbers("f32[]", 1), numbers("f32[3, 2]", 0) }, *out = NULL;
    CLAIM(!hop_capture(&f, "c: f32[], xs: f32[T, 2]", 1, rows, NULL) && !hop_compile(&exe, f, NULL), "%s",
          hop_message());
    enum { REGISTERING, INTERPRETING, RUNNING, DONE };
    for (int way = REGISTERING; way < DONE; way++) {
        bool done = false;
        for (uint64_t k = 1; k < 1000 && !done; k++) {
            int64_t live = hop_live_allocations();
            hop_fail_one_allocation(k);
            hop_status status = way == REGISTERING ? hop_callback_register("hear", look, &sum, NULL)
                                : way == RUNNING   ? hop_run(exe, in, 2, &out, 1)
                                                   : hop_interpret(f, in, 2, &out, 1);
            hop_fail_one_allocation(0);
            CLAIM(!status || (status == HOP_NOMEM && !out), "allocation %llu, way %d: %d, %s",
                  (unsigned long long)k, way, status, hop_message());
            done = !status && (way != REGISTERING || k > 4);
            if (way == REGISTERING && !status) hop_callback_unregister("hear");
            hop_tensor_free(out), out = NULL;
            CLAIM(hop_live_allocations() == live || way == RUNNING, "allocation %llu, way %d: %lld more",
                  (unsigned long long)k, way, (long long)(hop_live_allocations() - live));
        }
        CLAIM(done, "way %d succeeds in the end", way);
        if (way == REGISTERING) hop_callback_register("hear", look, &sum, NULL);
    }
    hop_callback_unregister("hear");
    hop_exe_free(exe);
    hop_fn_free(f);
    for (int i = 0; i < 2; i++) hop_tensor_free(in[i]);
}

int main(void)
{
    int64_t live = hop_live_allocations();
    test_calls();
    test_names();
    test_errors();
    test_kept();
    test_nested();
    test_eager_inside();
    test_threads();
    test_itself();
    test_cache();
    test_allocations();
    CLAIM(hop_live_allocations() - live <= 8, "%lld allocations are left",
          (long long)(hop_live_allocations() - live));
    return tests_end();
}
