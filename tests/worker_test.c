/* Ending calls: compilations that are cancelled while LLVM is at work leave a worker behind, whose code is
 * found in the cache; the process may end or fork meanwhile. Transforms, reading and interpretation end where
 * they are. Whoever confirms may let all of them, and runs, go on. What is counted is steps, not time. */
#include "check.h"
#include "runtime/cache.h"
#include "runtime/exe.h"
#include "runtime/worker.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

/* A program that LLVM takes seconds for; `seed` makes it another. */
static hop_fn *large(int nodes, int seed)
{
    size_t size = 80 * (size_t)nodes + 1024, at = 0;
    char *text = malloc(size);
    hop_fn *f = NULL;
    at += (size_t)snprintf(text, size, "hop 1\nfn @main(%%v0: f64[7], %%v1: f64[7]) -> (f64[]) {\n");
    for (int i = 2; i < nodes; i++) {
        int a = i - 1 - (i * 7 + seed) % (i < 9 ? i : 9), b = i - 1 - (i * 5) % (i < 20 ? i : 20);
        at += (size_t)snprintf(text + at, size - at,
                               i % 2 ? "  %%v%d = add(%%v%d, %%v%d)\n" : "  %%v%d = sin(%%v%d)\n", i,
                               a < 0 ? 0 : a, b < 0 ? 0 : b);
    }
    snprintf(text + at, size - at, "  %%s = sum(%%v%d)\n  return %%s\n}\n", nodes - 1);
    hop_status status = hop_fn_read(&f, text, "main");
    CLAIM(!status, "a large program: %s", hop_message());
    free(text);
    return f;
}

static volatile int always = 1;
static int asked;
static int no(void *ctx) { return (void)ctx, asked++, 0; }
static int when_at_work(void *ctx)
{
    return (void)ctx, asked++, worker_count() > 0;
} /* LLVM, in a compilation */
static int after(void *left) { return asked++, --*(int *)left < 0; }

static void until_idle(void)
{
    while (worker_count()) usleep(1000);
}

/* ---- workers ---- */

struct task {
    sem_t go;
    bool dropped, worked;
};
static void task_work(void *env)
{
    struct task *t = env;
    while (sem_wait(&t->go)) {}
    t->worked = true;
}
static void task_drop(void *env)
{
    struct task *t = env;
    t->dropped = true;
}

static void test_workers(void)
{
    struct task t = { 0 };
    int left = 2;
    asked = 0;
    sem_init(&t.go, 0, 0);
    CLAIM(!worker_run(task_work, task_drop, &t, &(struct hop_watch){ &always, after, &left }),
          "the caller leaves");
    CLAIM(asked == 3 && worker_count() == 1 && !t.worked, "when it is told to, asked three times: %d", asked);
    sem_post(&t.go);
    until_idle();
    CLAIM(t.worked && t.dropped, "the worker finishes and drops what it made");
    t = (struct task){ 0 };
    sem_init(&t.go, 0, 1);
    CLAIM(worker_run(task_work, task_drop, &t, &(struct hop_watch){ &always, no, NULL }) && t.worked &&
              !t.dropped,
          "nobody confirms: it waits for the end");
    sem_post(&t.go);
    t.worked = false;
    CLAIM(worker_run(task_work, task_drop, &t, NULL) && t.worked, "without a watch the caller works");
    until_idle();
    t = (struct task){ 0 };
    sem_init(&t.go, 0, 0);
    void *beside = worker_begin(task_work, &t);
    CLAIM(beside && !worker_count(), "a job beside the caller is none that is left behind");
    sem_post(&t.go);
    worker_end(beside);
    CLAIM(t.worked && !t.dropped, "whoever began it waits for it");
    worker_end(NULL);
}

/* ---- compilations ---- */

static hop_status compile(hop_fn *f, int (*confirm)(void *ctx), void *ctx)
{
    hop_exe *exe = NULL;
    hop_status status = hop_compile(&exe, f,
                                    &(hop_compile_options){ .cancel = confirm ? &always : NULL,
                                                            .confirm = confirm,
                                                            .confirm_ctx = ctx });
    hop_exe_free(exe);
    return status;
}

static void test_compilation(void)
{
    hop_fn *f = large(2500, 1);
    hop_cache_stats before, now;
    CLAIM(compile(f, when_at_work, NULL) == HOP_CANCELLED && worker_count() == 1,
          "a compilation ends while LLVM is at work: %s", hop_message());
    hop_fn *g = NULL, *small = large(10, 1);
    CLAIM(!hop_grad(&g, f, NULL), "the function can be used at once: %s", hop_message());
    CLAIM(!compile(small, no, NULL), "so can the compiler: %s", hop_message());
    until_idle();
    hop_cache_statistics(&before);
    CLAIM(!compile(f, NULL, NULL), "%s", hop_message());
    hop_cache_statistics(&now);
    CLAIM(now.memory_hits == before.memory_hits + 1 && now.misses == before.misses,
          "what the worker made is found in the cache");
    asked = 0;
    CLAIM(!compile(f, no, NULL) && !worker_count(), "no thread is needed for what the cache holds");
    for (int left = 0; left < 40; left += 7) { /* at some step of reading, passes, lowering, planning */
        int n = left;
        hop_fn *other = large(300, 2 + left);
        asked = 0;
        hop_status status = compile(other, after, &n);
        CLAIM(status == HOP_CANCELLED && asked == left + 1, "cancelled at step %d: %d after %d", left, status,
              asked);
        CLAIM(!compile(other, NULL, NULL), "and compiled afterwards: %s", hop_message());
        hop_fn_free(other);
    }
    until_idle();
    hop_fn_free(f), hop_fn_free(g), hop_fn_free(small);
}

/* The handle may be freed, and with it the module, while the worker is at work. */
static void test_freed(void)
{
    for (int i = 0; i < 3; i++) {
        hop_fn *f = large(1200, 50 + i);
        CLAIM(compile(f, when_at_work, NULL) == HOP_CANCELLED, "%s", hop_message());
        hop_fn_free(f);
    }
    until_idle();
}

static int ends_well(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

/* AddressSanitizer's allocator is not made for it: a lock that the worker held stays locked in the child. */
#ifdef __SANITIZE_ADDRESS__
enum { CHILD_ALLOCATES = 0 };
#else
enum { CHILD_ALLOCATES = 1 };
#endif

static bool compiles_small(void)
{
    hop_fn *small = large(12, 200);
    bool good = !compile(small, NULL, NULL);
    hop_fn_free(small);
    return good;
}

static void test_processes(void)
{
    for (int i = 0; i < 6; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (!pid) {
            hop_fn *f = large(6000, 100 + i);
            bool good = compile(f, when_at_work, NULL) == HOP_CANCELLED && worker_count() == 1;
            usleep((useconds_t)(i * 7000)); /* wherever it is by then */
            hop_fn_free(f);
            exit(good ? 0 : 1);
        }
        int status = ends_well(pid);
        CLAIM(!status, "a process ends while its worker is at work: status %d", status);
    }
    hop_fn *f = large(2500, 7);
    CLAIM(compile(f, when_at_work, NULL) == HOP_CANCELLED && worker_count() == 1, "%s", hop_message());
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        bool good = !worker_count() && (!CHILD_ALLOCATES || compiles_small());
        _exit(good ? 0 : 1);
    }
    CLAIM(!ends_well(pid), "a child that was forked meanwhile has no worker, and compiles");
    until_idle();
    hop_fn_free(f);
}

/* ---- everything else ---- */

static void test_transforms(void)
{
    hop_fn *f = large(400, 3), *g = NULL;
    int reached = 0;
    for (int left = 0; left < 60; left += 11) {
        int n = left;
        asked = 0;
        hop_cancel_by(&always, after, &n);
        hop_status status = hop_vjp(&g, f, NULL);
        hop_cancel_by(NULL, NULL, NULL);
        CLAIM(status == HOP_CANCELLED ? !g && asked == left + 1 : !status, "a transform, at step %d: %d",
              left, status);
        reached += status == HOP_CANCELLED;
        hop_fn_free(g), g = NULL;
    }
    CLAIM(reached > 2, "some of them were cancelled");
    CLAIM(!hop_vjp(&g, f, NULL), "and work afterwards: %s", hop_message());
    asked = 0;
    hop_cancel_by(&always, no, NULL);
    hop_fn *h = NULL;
    CLAIM(!hop_vjp(&h, g, NULL) && asked > 100, "one that nobody confirms goes on: %d", asked);
    hop_cancel_by(NULL, NULL, NULL);
    hop_fn_free(f), hop_fn_free(g), hop_fn_free(h);
}

static hop_fn *busy;
static hop_status seen;
static int use_it(void *ctx)
{
    hop_fn *g = NULL;
    (void)ctx;
    if (!asked++) seen = hop_grad(&g, busy, NULL);
    hop_fn_free(g);
    return 0;
}

static void test_from_confirm(void)
{
    hop_fn *f = busy = large(100, 4), *g = NULL;
    asked = 0;
    hop_cancel_by(&always, use_it, NULL);
    hop_status status = hop_grad(&g, f, NULL);
    hop_cancel_by(NULL, NULL, NULL);
    CLAIM(!status && seen == HOP_INVALID, "what is being transformed cannot be used meanwhile: %d, %d",
          status, seen);
    hop_fn_free(f), hop_fn_free(g);
}

static int one_more(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_add(in[1], hop_int(1));
    return 0;
}
static int counts(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    return hop_fori(out, 1,
                    &(hop_fori_spec){
                        .body = one_more, .from = hop_int(0), .to = in[0], .carry = &in[1], .n_carry = 1 });
}

/* A loop looks at the flag in every trip; 5000 of them, from 7. */
static hop_status count_to(hop_fn *f, hop_exe *exe, int (*confirm)(void *ctx), void *ctx, int64_t *found)
{
    hop_tensor *in[2] = { 0 }, *out[1] = { 0 };
    hop_tensor_new(&in[0], "i64[]"), hop_tensor_new(&in[1], "i64[]");
    *(int64_t *)hop_data(in[0]) = 5000, *(int64_t *)hop_data(in[1]) = 7;
    hop_run_options o = { .cancel = &always, .confirm = confirm, .confirm_ctx = ctx };
    hop_status status = exe ? hop_run_with(exe, in, 2, out, 1, &o) : hop_interpret_with(f, in, 2, out, 1, &o);
    *found = out[0] ? *(const int64_t *)hop_data(out[0]) : -1;
    hop_tensor_free(in[0]), hop_tensor_free(in[1]), hop_tensor_free(out[0]);
    return status;
}

static void test_runs(void)
{
    hop_fn *f = NULL;
    CLAIM(!hop_capture(&f, "n: i64[], c: i64[]", 1, counts, NULL), "%s", hop_message());
    for (int way = 0; way < 3; way++) { /* native code, the loop program, the interpreter */
        static const char *const names[] = { "native code", "the loop program", "the interpreter" };
        hop_exe *exe = NULL;
        int64_t found;
        int left = 1000;
        if (way < 2)
            CLAIM(!hop_compile(&exe, f,
                               &(hop_compile_options){ .portable = way, .without = "trips, fold, unroll" }),
                  "%s", hop_message());
        asked = 0;
        CLAIM(!count_to(f, exe, no, NULL, &found) && found == 5007 && asked >= 5000,
              "%s goes on where it was, asked %d times, to %lld", names[way], asked, (long long)found);
        asked = 0;
        CLAIM(count_to(f, exe, after, &left, &found) == HOP_CANCELLED && asked == 1001,
              "%s ends at the step it is told to: %d", names[way], asked);
        CLAIM(count_to(f, exe, NULL, NULL, &found) == HOP_CANCELLED,
              "%s ends when there is nobody to confirm", names[way]);
        hop_exe_free(exe);
    }
    hop_fn_free(f);
}

/* Lanes of a parallel loop run on several threads; the thread of the call is the one that is asked, also when
 * it is done with its own. */
static pthread_t caller;
static int strangers;
static int on_the_caller(void *left)
{
    strangers += !pthread_equal(pthread_self(), caller);
    return after(left);
}

static void test_lanes(void)
{
    enum { LANES = 64 };
    hop_fn *f = NULL, *lanes = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { 0 }, *out[1] = { 0 };
    CLAIM(!hop_capture(&f, "n: i64[], c: i64[]", 1, counts, NULL) && !hop_vmap(&lanes, f, NULL, NULL), "%s",
          hop_message());
    CLAIM(!hop_compile(&exe, lanes, &(hop_compile_options){ .threads = 4 }), "%s", hop_message());
    hop_tensor_new(&in[0], "i64[64]"), hop_tensor_new(&in[1], "i64[64]");
    caller = pthread_self();
    for (int last = 0; last < 2; last++) {
        for (int i = 0; i < LANES; i++)
            ((int64_t *)hop_data(in[0]))[i] = !last || i == LANES - 1 ? INT64_MAX / 2 : 3,
                      ((int64_t *)hop_data(in[1]))[i] = 0;
        int left = 20;
        asked = 0;
        hop_status status = hop_run_with(exe, in, 2, out, 1,
                                         &(hop_run_options){ .cancel = &always,
                                                             .confirm = on_the_caller,
                                                             .confirm_ctx = &left });
        CLAIM(status == HOP_CANCELLED && !strangers && !out[0],
              "lanes without end: %d, %d of %d asked elsewhere", status, strangers, asked);
    }
    hop_tensor_free(in[0]), hop_tensor_free(in[1]);
    hop_exe_free(exe), hop_fn_free(f), hop_fn_free(lanes);
}

/* A product of a hundred milliseconds and more is cut into parts. */
static int squared(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_matmul(in[0], in[0]);
    return 0;
}

static void test_products(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[1] = { 0 }, *out[1] = { 0 };
    int left = 0; /* how often the caller is asked depends on how many parts the others take */
    CLAIM(!hop_capture(&f, "x: f64[1400, 1400]", 1, squared, NULL) && !hop_compile(&exe, f, NULL) &&
              !hop_tensor_new(&in[0], "f64[1400, 1400]"),
          "%s", hop_message());
    memset(hop_data(in[0]), 0, 1400 * 1400 * 8);
    asked = 0;
    hop_run_options o = { .cancel = &always, .confirm = after, .confirm_ctx = &left };
    CLAIM(hop_run_with(exe, in, 1, out, 1, &o) == HOP_CANCELLED && asked == 1 && !out[0],
          "a product ends between its parts: %d", asked);
    o.confirm = no;
    CLAIM(!hop_run_with(exe, in, 1, out, 1, &o) && *(double *)hop_data(out[0]) == 0, "or goes on: %s",
          hop_message());
    hop_tensor_free(in[0]), hop_tensor_free(out[0]);
    hop_exe_free(exe), hop_fn_free(f);
}

int main(void)
{
    if (!exe_available()) return puts("there is no compiler"), tests_end();
    hop_cache_directory("memory");
    test_workers();
    test_compilation();
    test_freed();
    test_processes();
    test_transforms();
    test_from_confirm();
    test_runs();
    test_lanes();
    test_products();
    return tests_end();
}
