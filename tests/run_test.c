/* Executables: compiled results against the interpreter, bit for bit in strict mode (loop programs executed
 * slowly, and native where there is a back end), results given and shared, sizes found while running, failed
 * checks, printing, cancellation, many threads at once, failing allocations. The pool and BLAS underneath are
 * tested by themselves. */
#include "check.h"
#include "base/memory.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "runtime/exe.h"
#include "runtime/blas.h"
#include "runtime/pool.h"
#include "runtime/ready.h"
#include "loop/rt.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the pool ---- */

struct sum_env {
    uint8_t *seen;
    uint32_t threads;
    bool nest;
};

static int32_t mark(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    struct sum_env *e = env;
    if (e->nest) {
        struct sum_env inner = { e->seen + lo, e->threads, false };
        return pool_run(e->threads, rt, mark, &inner, hi - lo, 1);
    }
    for (int64_t i = lo; i < hi; i++) e->seen[i]++;
    return 0;
}

static int32_t fail_at_37(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    (void)rt, (void)env;
    return lo <= 37 && 37 < hi ? HOP_CHECK : 0;
}

static bool marks_once(uint32_t threads, int64_t n, int64_t grain, bool nest)
{
    uint8_t *seen = calloc(1, (size_t)n + 1);
    struct sum_env env = { seen, threads, nest };
    bool right = pool_run(threads, NULL, mark, &env, n, grain) == 0;
    for (int64_t i = 0; i < n; i++) right &= seen[i] == 1;
    free(seen);
    return right;
}

static void *use_pool(void *unused)
{
    (void)unused;
    bool right = true;
    for (int i = 0; i < 200; i++) right &= marks_once(3, 1000 + i, 10, i & 1);
    return right ? (void *)1 : NULL;
}

/* A file in a folder of the test's that stands for / . */
static void put_file(const char *root, const char *path, const char *text)
{
    char whole[256], command[2048];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\" && printf '%%s' '%s' >'%s'", whole, text,
             whole);
    CLAIM(!system(command), "%s is written", whole);
}

/* Processors that control groups leave: both kinds, the group itself and those around it. */
static void test_groups(void)
{
    static const struct {
        const char *groups, *paths[3], *texts[3];
        uint32_t expected;
    } cases[] = {
        { "0::/a/b\n", { "sys/fs/cgroup/a/b/cpu.max" }, { "150000 100000\n" }, 2 },
        { "0::/a/b\n", { "sys/fs/cgroup/a/b/cpu.max" }, { "max 100000\n" }, UINT32_MAX },
        { "0::/a/b\n",
          { "sys/fs/cgroup/a/b/cpu.max", "sys/fs/cgroup/a/cpu.max" },
          { "800000 100000\n", "300000 100000\n" },
          3 },
        { "4:memory:/x\n1:cpuacct,cpu:/j\n0::/\n",
          { "sys/fs/cgroup/cpu/j/cpu.cfs_quota_us", "sys/fs/cgroup/cpu/j/cpu.cfs_period_us" },
          { "450000\n", "100000\n" },
          5 },
        { "1:cpu:/\n",
          { "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "sys/fs/cgroup/cpu/cpu.cfs_period_us" },
          { "-1\n", "100000\n" },
          UINT32_MAX },
        { "2:cpuacct:/j\n", { "sys/fs/cgroup/cpu/j/cpu.cfs_quota_us" }, { "100000\n" }, UINT32_MAX },
        { "0::/a\n", { "sys/fs/cgroup/a/cpu.max" }, { "nonsense\n" }, UINT32_MAX },
    };
    const char *before = limits_root;
    for (size_t k = 0; k < HOP_COUNT(cases); k++) {
        char root[] = "/tmp/hop_groups_XXXXXX", command[64];
        CLAIM(mkdtemp(root), "a folder");
        put_file(root, "proc/self/cgroup", cases[k].groups);
        for (int i = 0; i < 3 && cases[k].paths[i]; i++) put_file(root, cases[k].paths[i], cases[k].texts[i]);
        limits_root = root;
        uint32_t found = processors_by_groups();
        CLAIM(found == cases[k].expected, "case %zu: expected %u processors, found %u", k, cases[k].expected,
              found);
        snprintf(command, sizeof command, "rm -r %s", root);
        CLAIM(!system(command), "the folder goes");
    }
    limits_root = before;
}

/* A system with more processors than a set usually has room for. */
enum { SYSTEM_PROCESSORS = 5000, OWN_PROCESSORS = 200 };
static int many_processors(pid_t pid, size_t size, cpu_set_t *set)
{
    HOP_UNUSED(pid);
    if (size * CHAR_BIT < SYSTEM_PROCESSORS) return errno = EINVAL, -1;
    CPU_ZERO_S(size, set);
    for (size_t i = 0; i < OWN_PROCESSORS; i++) CPU_SET_S(SYSTEM_PROCESSORS - 1 - 3 * i, size, set);
    return 0;
}
static int no_processors(pid_t pid, size_t size, cpu_set_t *set)
{
    HOP_UNUSED(pid), HOP_UNUSED(size), HOP_UNUSED(set);
    return errno = EPERM, -1;
}
static void test_processors(void)
{
    uint32_t by_groups = processors_by_groups();
    pool_ask_processors = many_processors;
    CLAIM(pool_cores() == HOP_MIN(by_groups, OWN_PROCESSORS), "a large system: %u processors", pool_cores());
    CLAIM(marks_once(3, 1000, 1, false), "a job on a large system");
    pool_ask_processors = no_processors;
    CLAIM(pool_cores() == 1, "a system that does not say");
    pool_ask_processors = sched_getaffinity;
}

static void test_number_of_threads(void)
{
    char before[64] = "", *given = getenv("HOP_NUM_THREADS");
    if (given) snprintf(before, sizeof before, "%s", given);
    setenv("HOP_NUM_THREADS", "3", 1);
    hop_set_threads(0);
    CLAIM(hop_threads() == 3, "the environment says how many");
    CLAIM(hop_set_threads(5) == 0 && hop_threads() == 5, "the program does");
    CLAIM(hop_set_threads(-2) == 5 && hop_threads() == 3, "and takes it back");
    static const int many[] = { 256, 257, 1024, 100000, INT32_MAX };
    for (size_t i = 0; i < HOP_COUNT(many); i++) {
        char text[16];
        hop_set_threads(many[i]);
        CLAIM(hop_threads() == 256, "%d threads count as 256", many[i]);
        snprintf(text, sizeof text, "%d", many[i]);
        setenv("HOP_NUM_THREADS", text, 1);
        hop_set_threads(0);
        CLAIM(hop_threads() == 256, "HOP_NUM_THREADS=%s counts as 256", text);
    }
    static const char *const nonsense[] = { "", "0", "-3", "many", "3x" };
    for (size_t i = 0; i < HOP_COUNT(nonsense); i++) {
        setenv("HOP_NUM_THREADS", nonsense[i], 1);
        hop_set_threads(0);
        CLAIM(hop_threads() == (int)pool_cores(), "HOP_NUM_THREADS='%s' says nothing", nonsense[i]);
    }
    if (given) setenv("HOP_NUM_THREADS", before, 1);
    else unsetenv("HOP_NUM_THREADS");
    hop_set_threads(0);
}

static void test_pool(void)
{
    CLAIM(pool_cores() >= 1, "at least one core");
    bool right = true;
    for (int64_t n = 0; n < 300; n++)
        for (uint32_t threads = 1; threads <= 4; threads++) right &= marks_once(threads, n, 1 + n % 7, false);
    CLAIM(right, "every index exactly once");
    CLAIM(marks_once(4, 1000, 1, true), "a parallel loop inside another");
    CLAIM(pool_run(4, NULL, fail_at_37, NULL, 100, 1) == HOP_CHECK &&
              pool_run(4, NULL, fail_at_37, NULL, 30, 1) == 0,
          "a status comes back");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, use_pool, NULL);
    for (int i = 0; i < 4; i++) {
        void *ok;
        pthread_join(threads[i], &ok);
        CLAIM(ok, "four threads use the pool at once");
    }
#ifndef __SANITIZE_THREAD__ /* the race detector refuses threads in a forked child */
    pid_t child = fork();
    if (!child) _exit(marks_once(4, 10000, 1, false) && marks_once(INT32_MAX, 10000, 1, false) ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    CLAIM(status == 0, "a forked child has a pool of its own, of as many threads as there can be");
#endif
    CLAIM(marks_once(4, 10000, 1, false), "the parent's still works");
}

/* ---- products ---- */

static int32_t pool_parallel(struct hop_rt *rt,
                             int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env,
                             int64_t n, int64_t grain)
{
    return pool_run(rt->state ? *(uint32_t *)rt->state : 1, rt, body, env, n, grain);
}

static double worst_error(int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool accumulate, const double *a,
                          const double *b, const double *before, const double *c)
{
    double worst = 0;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = accumulate ? before[i * n + j] : 0;
            for (int64_t t = 0; t < k; t++)
                sum += a[ta ? t * m + i : i * k + t] * b[tb ? j * k + t : t * n + j];
            worst = fmax(worst, isfinite(c[i * n + j]) ? fabs(sum - c[i * n + j]) : INFINITY);
        }
    return worst;
}

static void fill(double *x, int64_t n, int seed)
{
    for (int64_t i = 0; i < n; i++) x[i] = (double)((i * 7 + seed) % 23) / 8 - 1;
}

static void test_products(void)
{
    static const int64_t sizes[][3] = { { 1, 1, 1 },       { 3, 4, 5 },     { 1, 9, 7 },
                                        { 9, 1, 7 },       { 4, 5, 0 },     { 65, 33, 17 },
                                        { 200, 130, 160 }, { 5, 700, 900 }, { 0, 3, 3 } };
    enum { ROOM = 700 * 900 };
    double *a = malloc(ROOM * 8), *b = malloc(ROOM * 8), *c = malloc(ROOM * 8), *d = malloc(ROOM * 8),
           *before = malloc(ROOM * 8);
    fill(a, ROOM, 1);
    fill(b, ROOM, 2);
    for (size_t s = 0; s < HOP_COUNT(sizes); s++)
        for (int how = 0; how < 8; how++) {
            int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            bool ta = how & 1, tb = how & 2, accumulate = how & 4;
            uint32_t threads = 3;
            struct hop_rt serial = { .parallel = pool_parallel },
                          parallel = { .parallel = pool_parallel, .state = &threads };
            for (int64_t i = 0; i < m * n; i++) before[i] = accumulate ? 1 : NAN;
            memcpy(c, before, (size_t)(m * n) * 8);
            memcpy(d, before, (size_t)(m * n) * 8);
            struct hop_rt_gemm g = { .dtypes = HOP_RT_DTYPES(DT_F64, DT_F64, DT_F64),
                                     .ta = ta,
                                     .tb = tb,
                                     .accumulate = accumulate,
                                     .m = m,
                                     .n = n,
                                     .k = k,
                                     .lda = ta ? m : k,
                                     .ldb = tb ? k : n,
                                     .ldc = n,
                                     .batch = 1,
                                     .a = a,
                                     .b = b,
                                     .c = c };
            blas_gemm(&serial, &g);
            g.c = d;
            blas_gemm(&parallel, &g);
            CLAIM(worst_error(m, n, k, ta, tb, accumulate, a, b, before, c) < 1e-11 * (double)(k + 1),
                  "%lld x %lld x %lld, case %d", (long long)m, (long long)n, (long long)k, how);
            CLAIM(!memcmp(c, d, (size_t)(m * n) * 8), "%lld x %lld x %lld does not depend on threads",
                  (long long)m, (long long)n, (long long)k);
        }
    free(a), free(b), free(c), free(d), free(before);
}

/* ---- programs ---- */

static const char program[] =
    "hop 1\n"
    "const @k: f32[4] = [1, -0.5, 2, 0.25]\n"
    "fn @line[T in 1..5000](%x: f32[T], %y: f32[T]) -> (f32[T], f32[T]) {\n"
    "  %a = mul(%x, %y)\n"
    "  %b = add(%a, %x)\n"
    "  %c = tanh(%b)\n"
    "  return %b, %c\n"
    "}\n"
    "fn @sums[T](%h0: f32[3], %xs: f32[T, 3]) -> (f32[3], f32[T, 3]) {\n"
    "  %h, %ys = scan carry(%c = %h0) over(%x in %xs) {\n"
    "    %n = add(%c, %x)\n"
    "    next(%n) stack(%n)\n"
    "  }\n"
    "  return %h, %ys\n"
    "}\n"
    "fn @rows[T](%x: f32[T, 40]) -> (f32[T], f32[], f32[40]) {\n"
    "  %s = sum {dims = [1]} (%x)\n"
    "  %e = exp(%s)\n"
    "  %t = sum (%e)\n"
    "  %c = sum {dims = [0]} (%x)\n"
    "  return %e, %t, %c\n"
    "}\n"
    "fn @product(%x: f32[6, 5], %y: f32[5, 7], %b: f32[7]) -> (f32[6, 7]) {\n"
    "  %p = matmul(%x, %y)\n"
    "  %q = broadcast {dims = [6, 7], at = [1]} (%b)\n"
    "  %r = add(%p, %q)\n"
    "  return %r\n"
    "}\n"
    "fn @constants(%x: f32[4]) -> (f32[4]) {\n"
    "  %k = constant {value = @k}\n"
    "  %y = mul(%x, %k)\n"
    "  return %y\n"
    "}\n"
    "fn @count(%n: i64[]) -> (i64[?k], i64[?k]) {\n"
    "  %i: i64[?k] = bind_dim(%n)\n"
    "  %j = add(%i, %i)\n"
    "  return %i, %j\n"
    "}\n"
    "fn @halve(%x: f32[5], %n: i64[]) -> (f32[5], i64[]) {\n"
    "  %h = full {value = 0.5, dims = [5]}\n"
    "  %o = full {value = 1, dims = [], dtype = i64}\n"
    "  %z = full {value = 0, dims = [], dtype = i64}\n"
    "  %r, %k = while_loop carry(%v = %x, %i = %n)\n"
    "    cond with(%zero = %z) {\n"
    "      %more = gt(%i, %zero)\n"
    "      test(%more)\n"
    "    }\n"
    "    body with(%half = %h, %one = %o) {\n"
    "      %w = mul(%v, %half)\n"
    "      %d = sub(%i, %one)\n"
    "      next(%w, %d)\n"
    "    }\n"
    "  return %r, %k\n"
    "}\n"
    "fn @positive(%x: f32[2]) -> (f32[2]) {\n"
    "  %z = full {value = 0, dims = [2]}\n"
    "  %p = gt(%x, %z)\n"
    "  %y = add(%x, %x)\n"
    "  check {message = \"all positive\"} (%p, %x)\n"
    "  print {format = \"x = {}\"} (%x)\n"
    "  return %y\n"
    "}\n"
    "fn @mixed[T](%x: f32[T, 256], %w: f32[256, 256]) -> (f32[T, 256], f32[T], f32[256], f32[]) {\n"
    "  %p = matmul(%x, %w)\n"
    "  %e = tanh(%p)\n"
    "  %r = sum {dims = [1]} (%e)\n"
    "  %c = sum {dims = [0]} (%e)\n"
    "  %t = sum (%r)\n"
    "  return %e, %r, %c, %t\n"
    "}\n"
    "fn @large(%x: f32[1200, 1200]) -> (f32[1200]) {\n"
    "  %s = cumsum {dim = 0} (%x)\n"
    "  %t = permute {order = [1, 0]} (%s)\n"
    "  %u = cumsum {dim = 0} (%t)\n"
    "  %r = sum {dims = [1]} (%u)\n"
    "  return %r\n"
    "}\n"
    "fn @ones[dim N]() -> (f32[N]) {\n"
    "  %o = full {value = 1, dims = [N]}\n"
    "  return %o\n"
    "}\n"
    "fn @same[T](%x: f32[T]) -> (f32[T], f32[T]) {\n"
    "  return %x, %x\n"
    "}\n";

static struct module *m;

enum { MAX_ARGS = 4 };
struct job {
    const char *fn;
    struct tensor *args[MAX_ARGS], *results[MAX_ARGS];
    char printed[256];
    const volatile int *cancel;
};
struct shape {
    int rank;
    int64_t dims[3];
    int64_t scalar;
};
struct run_case {
    const char *fn;
    struct shape args[MAX_ARGS];
};
static const struct run_case cases[] = {
    { "line", { { 1, { 1 }, 0 }, { 1, { 1 }, 0 } } },
    { "line", { { 1, { 16 }, 0 }, { 1, { 16 }, 0 } } },
    { "line", { { 1, { 4097 }, 0 }, { 1, { 4097 }, 0 } } },
    { "sums", { { 1, { 3 }, 0 }, { 2, { 0, 3 }, 0 } } },
    { "sums", { { 1, { 3 }, 0 }, { 2, { 50, 3 }, 0 } } },
    { "rows", { { 2, { 9, 40 }, 0 } } },
    { "rows", { { 2, { 1, 40 }, 0 } } },
    { "rows", { { 2, { 0, 40 }, 0 } } },
    { "product", { { 2, { 6, 5 }, 0 }, { 2, { 5, 7 }, 0 }, { 1, { 7 }, 0 } } },
    { "constants", { { 1, { 4 }, 0 } } },
    { "count", { { -1, { 0 }, 0 } } },
    { "count", { { -1, { 0 }, 1 } } },
    { "count", { { -1, { 0 }, 77 } } },
    { "halve", { { 1, { 5 }, 0 }, { -1, { 0 }, 0 } } },
    { "halve", { { 1, { 5 }, 0 }, { -1, { 0 }, 9 } } },
    { "positive", { { 1, { 2 }, 0 } } },
    { "same", { { 1, { 33 }, 0 } } },
    { "mixed", { { 2, { 3, 256 }, 0 }, { 2, { 256, 256 }, 0 } } },
};

static struct tensor *make(const struct shape *s, int seed)
{
    if (s->rank < 0) {
        struct tensor *t = tensor_new(DT_I64, 0, NULL);
        *(int64_t *)t->data = s->scalar;
        return t;
    }
    struct tensor *t = tensor_new(DT_F32, (uint32_t)s->rank, s->dims);
    for (int64_t i = 0; i < t->count; i++)
        ((float *)t->data)[i] = (float)((i * 37 + seed * 11) % 101 + 1) / 97.0f;
    return t;
}

static struct job make_job(const struct run_case *c)
{
    struct job j = { .fn = c->fn };
    const struct fn *f = module_fn(m, module_find(m, c->fn));
    for (uint32_t p = 0; p < f->n_params; p++) j.args[p] = make(&c->args[p], (int)p);
    return j;
}

static void drop_results(struct job *j)
{
    for (int i = 0; i < MAX_ARGS; i++) {
        tensor_free(j->results[i]);
        j->results[i] = NULL;
    }
}

static void drop_job(struct job *j)
{
    drop_results(j);
    for (int i = 0; i < MAX_ARGS; i++) tensor_free(j->args[i]);
}

static void catch_line(void *ctx, const char *line, size_t length)
{
    struct job *j = ctx;
    size_t used = strlen(j->printed);
    snprintf(j->printed + used, sizeof j->printed - used, "%.*s\n", (int)length, line);
}

static void interpret(void *job)
{
    struct job *j = job;
    struct interp in = { .m = m, .print = catch_line, .print_ctx = j };
    interp_run(&in, module_find(m, j->fn), j->args, NULL, j->results);
}

static bool same_tensor(const struct tensor *a, const struct tensor *b)
{
    return a && b && a->dtype == b->dtype && a->rank == b->rank &&
           (!a->rank || !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims)) &&
           (!a->count || !memcmp(a->data, b->data, (size_t)a->count * dtype_info[a->dtype].size));
}

/* ---- compiling and running ---- */

struct compile_job {
    const char *fn;
    struct compile_options options;
    struct exe *exe;
};

static void compile(void *job)
{
    struct compile_job *j = job;
    j->exe = exe_compile(m, module_find(m, j->fn), &j->options, NULL);
}

static struct exe *compiled(const char *fn, struct compile_options options)
{
    struct compile_job j = { .fn = fn, .options = options };
    hop_status status = attempt(compile, &j);
    CLAIM(status == HOP_OK, "@%s does not compile: %s", fn, hop_message());
    return j.exe;
}

struct exe_job {
    struct exe *exe;
    struct job *job;
};

static void execute(void *job)
{
    struct exe_job *j = job;
    struct exe_call call = { catch_line, j->job, j->job->cancel };
    exe_run(j->exe, j->job->args, NULL, j->job->results, &call);
}

static hop_status run(struct exe *e, struct job *j) { return attempt(execute, &(struct exe_job){ e, j }); }

static void test_against_interpreter(struct compile_options options, const char *how)
{
    for (size_t i = 0; i < HOP_COUNT(cases); i++) {
        struct job want = make_job(&cases[i]), got = make_job(&cases[i]);
        hop_status status = attempt(interpret, &want);
        CLAIM(status == HOP_OK, "@%s does not run in the interpreter: %s", cases[i].fn, hop_message());
        struct exe *e = compiled(cases[i].fn, options);
        if (!status && e) {
            uint32_t n = module_fn(m, module_find(m, cases[i].fn))->n_results;
            for (int again = 0; again < 2;
                 again++) { /* the second run uses what the first one left, and writes into its results */
                status = run(e, &got);
                CLAIM(status == HOP_OK, "@%s, %s: %s", cases[i].fn, how, hop_message());
                for (uint32_t k = 0; k < n && !status; k++)
                    CLAIM(same_tensor(want.results[k], got.results[k]),
                          "@%s (case %zu), %s: result %u differs from the interpreter's", cases[i].fn, i, how,
                          k);
                for (uint32_t k = 0; k < n && !status && got.results[k]; k++)
                    if (got.results[k]->dtype == DT_F32)
                        memset(got.results[k]->data, 0xff, (size_t)got.results[k]->count * 4);
            }
        }
        exe_free(e);
        drop_job(&want);
        drop_job(&got);
    }
}

static void test_effects(struct compile_options options)
{
    struct exe *e = compiled("positive", options);
    if (!e) return;
    struct job a = make_job(&cases[15]), b = make_job(&cases[15]);
    CLAIM(!run(e, &a) && !attempt(interpret, &b) && !strcmp(a.printed, b.printed) && a.printed[0],
          "prints as the interpreter: \"%s\" and \"%s\"", a.printed, b.printed);
    drop_results(&a);
    drop_results(&b);
    ((float *)a.args[0]->data)[1] = ((float *)b.args[0]->data)[1] = -1;
    char text[512];
    CLAIM(attempt(interpret, &b) == HOP_CHECK, "the interpreter's check fails");
    snprintf(text, sizeof text, "%s", hop_message());
    CLAIM(run(e, &a) == HOP_CHECK && !strcmp(text, hop_message()),
          "a failed check says the same: \"%s\" and \"%s\"", hop_message(), text);
    ((float *)a.args[0]->data)[1] = 1;
    CLAIM(!run(e, &a), "and the executable runs again");
    exe_free(e);
    drop_job(&a);
    drop_job(&b);
}

static void test_given_results(struct compile_options options)
{
    struct exe *e = compiled("line", options);
    if (!e) return;
    struct run_case c = { "line", { { 1, { 8 }, 0 }, { 1, { 8 }, 0 } } };
    struct job j = make_job(&c), want = make_job(&c);
    attempt(interpret, &want);
    j.results[0] = tensor_new(DT_F32, 1, (int64_t[]){ 9 });
    CLAIM(run(e, &j) == HOP_INVALID && strstr(hop_message(), "result 0"),
          "a result of another size is refused: %s", hop_message());
    drop_results(&j);
    j.results[0] = tensor_ref(j.args[0]); /* x = x y + x, in place */
    CLAIM(!run(e, &j) && same_tensor(j.args[0], want.results[0]) &&
              same_tensor(j.results[1], want.results[1]),
          "a result may overwrite an argument: %s", hop_message());
    drop_results(&j);
    j.results[0] = tensor_new(DT_F32, 1, (int64_t[]){ 8 });
    j.results[1] = tensor_ref(j.results[0]);
    CLAIM(run(e, &j) == HOP_INVALID, "two results in one place are refused");
    drop_results(&j);
    uint64_t before = 0;
    j.results[0] = tensor_new(DT_F32, 1, (int64_t[]){ 8 });
    j.results[1] = tensor_new(DT_F32, 1, (int64_t[]){ 8 });
    for (int i = 0; i < 4; i++) {
        before = hop_allocation_count();
        run(e, &j);
    }
    CLAIM(options.backend || hop_allocation_count() == before, "repeated runs allocate nothing: %llu blocks",
          (unsigned long long)(hop_allocation_count() - before));
    exe_free(e);
    drop_job(&j);
    drop_job(&want);
}

static void test_cancel(struct compile_options options)
{
    struct exe *e = compiled("halve", options);
    struct run_case c = { "halve", { { 1, { 5 }, 0 }, { -1, { 0 }, 1000 } } };
    volatile int cancel = 1;
    struct job j = make_job(&c);
    j.cancel = &cancel;
    CLAIM(e && run(e, &j) == HOP_CANCELLED, "a cancelled run ends: %s", hop_message());
    exe_free(e);
    drop_job(&j);
}

struct worker {
    struct exe *exe;
    const struct run_case *c;
    struct job want;
    bool right;
};

static void *run_often(void *worker)
{
    struct worker *w = worker;
    w->right = true;
    struct job j = { .fn = w->c->fn };
    for (int i = 0; i < MAX_ARGS; i++) j.args[i] = w->want.args[i];
    for (int i = 0; i < 50; i++) {
        w->right &= run(w->exe, &j) == HOP_OK;
        for (int k = 0; k < 2; k++) w->right &= same_tensor(j.results[k], w->want.results[k]);
        drop_results(&j);
    }
    return NULL;
}

static void test_threads(struct compile_options options)
{
    struct exe *e = compiled("sums", options);
    if (!e) return;
    struct run_case c[4];
    struct worker w[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        c[i] = (struct run_case){ "sums", { { 1, { 3 }, 0 }, { 2, { 10 + 7 * i, 3 }, 0 } } };
        w[i] = (struct worker){ .exe = e, .c = &c[i], .want = make_job(&c[i]) };
        attempt(interpret, &w[i].want);
    }
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, run_often, &w[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CLAIM(w[i].right, "one executable on four threads");
        drop_job(&w[i].want);
    }
    exe_free(e);
}

static void test_failing_allocations(struct compile_options options)
{
    struct exe *e = compiled("count", options);
    if (!e) return;
    struct run_case c = { "count", { { -1, { 0 }, 77 } } };
    struct job j = make_job(&c);
    bool clean = true;
    hop_status status = HOP_NOMEM;
    uint64_t n = 0;
    run(e, &j); /* keeps a run for the next */
    drop_results(&j);
    int64_t live = hop_live_allocations();
    while (status == HOP_NOMEM && n < 200) {
        hop_fail_allocation(++n);
        status = run(e, &j);
        hop_fail_allocation(0);
        drop_results(&j);
        clean &= hop_live_allocations() <=
                 live + 2; /* the memory of the two growing results waits for the next run */
    }
    CLAIM(status == HOP_OK && clean, "after %llu failing allocations: status %d (%s), %s",
          (unsigned long long)n, status, hop_message(), clean ? "nothing leaked" : "leaks");
    exe_free(e);
    drop_job(&j);
}

struct dims_job {
    struct exe *exe;
    int64_t dims[1];
    bool given;
    struct tensor *result;
};

static void execute_ones(void *job)
{
    struct dims_job *j = job;
    exe_run(j->exe, NULL, j->given ? j->dims : NULL, &j->result, NULL);
}

static void test_dim_parameter(struct compile_options options)
{
    struct dims_job j = { .exe = compiled("ones", options), .dims = { 19 }, .given = true };
    if (!j.exe) return;
    CLAIM(!attempt(execute_ones, &j) && j.result->count == 19 && ((float *)j.result->data)[18] == 1,
          "an explicit size: %s", hop_message());
    tensor_free(j.result);
    j.result = NULL;
    j.given = false;
    CLAIM(attempt(execute_ones, &j) == HOP_INVALID && strstr(hop_message(), "'N'"),
          "a missing size is named: %s", hop_message());
    exe_free(j.exe);
}

/* Compiling with every allocation failing in turn (ever fewer as numbers grow). What leaks shows at the end
 * of the program. */
static void test_failing_compilation(struct compile_options options)
{
    struct compile_job j = { .fn = "line", .options = options };
    hop_status status = HOP_NOMEM;
    for (uint64_t n = 1; status == HOP_NOMEM && n < 100000; n += 1 + n / 32) {
        hop_fail_allocation(n);
        status = attempt(compile, &j);
        hop_fail_allocation(0);
    }
    CLAIM(status == HOP_OK, "compiles in the end: %s", hop_message());
    exe_free(j.exe);
}

/* Threads change neither strict nor default results by a bit. */
static void test_thread_counts(bool strict)
{
    struct run_case c = { "mixed", { { 2, { 200, 256 }, 0 }, { 2, { 256, 256 }, 0 } } };
    struct job first = make_job(&c);
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct exe *e = compiled("mixed",
                                 (struct compile_options){ .passes.strict = strict, .threads = threads });
        struct job j = make_job(&c);
        CLAIM(e && !run(e, threads == 1 ? &first : &j), "runs on %u threads: %s", threads, hop_message());
        for (int k = 0; k < 4 && threads > 1; k++)
            CLAIM(same_tensor(first.results[k], j.results[k]), "result %d is the same on %u threads%s", k,
                  threads, strict ? ", strict" : "");
        exe_free(e);
        drop_job(&j);
    }
    drop_job(&first);
}

/* ---- memory that is made ready for the first run ---- */

static void test_ready_blocks(void)
{
    enum { BYTES = 16 << 20 };
    CLAIM(!ready_begin(1000) && !ready_begin(SIZE_MAX / 2), "neither a little memory nor all that there is");
    CLAIM(!ready_end(NULL, 5), "nothing is nothing");
    for (int i = 0; i < 20; i++) {
        struct ready *r = ready_begin(BYTES);
        char *block = ready_end(r, i % 2 ? BYTES : BYTES / 2);
        CLAIM(!r == !block, "the block is had at once, touched or not");
        if (block) memset(block, 7, BYTES);
        hop_free(block);
    }
    CLAIM(!ready_end(ready_begin(BYTES), BYTES + 1), "a block that is too small is nobody's");
#ifndef __SANITIZE_THREAD__
    struct ready *r = ready_begin(BYTES);
    pid_t child = fork();
    if (!child) _exit(!r || ready_end(r, BYTES) ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    CLAIM(status == 0, "a forked child does not wait for threads that it has not");
    hop_free(ready_end(r, BYTES));
#endif
}

static void test_soon(void)
{
    struct run_case c = { "large", { { 2, { 1200, 1200 }, 0 } } };
    struct job first = make_job(&c), second = make_job(&c);
    struct exe *plain = compiled("large", (struct compile_options){ .no_cache = true });
    CLAIM(plain && !run(plain, &first), "runs: %s", hop_message());
    struct exe *soon = compiled("large", (struct compile_options){ .no_cache = true, .soon = true });
    CLAIM(soon && !run(soon, &second), "runs in memory that was made ready: %s", hop_message());
    CLAIM(same_tensor(first.results[0], second.results[0]), "that changes no bit");
    exe_free(plain);
    exe_free(soon);
    exe_free(compiled("large", (struct compile_options){ .no_cache = true, .soon = true }));
    drop_job(&first);
    drop_job(&second);
}

static void test_all_ways(struct compile_options options, const char *how)
{
    test_against_interpreter(options, how);
    test_effects(options);
    test_given_results(options);
    test_cancel(options);
    test_threads(options);
    test_failing_allocations(options);
    test_dim_parameter(options);
    test_failing_compilation(options);
}

static void read_program(void *unused)
{
    (void)unused;
    m = text_read("run_test", program, sizeof program - 1);
}

int main(void)
{
    int64_t live = hop_live_allocations();
    test_groups();
    test_number_of_threads();
    test_processors();
    test_pool();
    test_products();
    hop_status status = attempt(read_program, NULL);
    CLAIM(status == HOP_OK, "the program does not read: %s", hop_message());
    if (!status) {
        struct compile_options slow = { .passes.strict = true, .backend = &executor_backend };
        test_all_ways(slow, "slow");
        slow.passes.without = ~0u;
        test_against_interpreter(slow, "slow without passes");
        if (exe_available()) {
            struct compile_options native = { .passes.strict = true };
            test_all_ways(native, "native");
            test_ready_blocks();
            test_soon();
            test_thread_counts(true);
            test_thread_counts(false);
            native.passes.without = ~0u;
            test_against_interpreter(native, "native without passes");
        } else {
            printf("native code left out: %s\n", hop_message());
        }
        module_free(m);
    }
    CLAIM(hop_live_allocations() == live, "nothing leaks: %lld blocks",
          (long long)(hop_live_allocations() - live));
    return tests_end();
}
