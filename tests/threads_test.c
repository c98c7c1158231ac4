/* Threads: several capture, transform, compile and run at once, each on functions of its own and all on
 * functions that they share; one executable runs on all of them. Then, each alone on several threads: equal
 * programs through the cache, one executable that updates arguments in parallel loops, runs that another
 * thread cancels, prints, eager mode, tensors from one open file. Native code is used where there is a
 * compiler and the argument --portable is not given (a race detector cannot look into it). */
#include "check.h"
#include "runtime/exe.h"

#include <pthread.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 3 };

static int step(void *env, const hop_val *in, hop_val *out)
{
    const hop_val *w = env;
    out[0] = hop_tanh(hop_add(hop_mul(in[0], *w), in[1]));
    out[1] = out[0];
    return 0;
}
static int loss(void *env, const hop_val *in, hop_val *out)
{
    hop_val r[2], state = hop_variable(in[2]);
    (void)env;
    hop_add_to(state, hop_scalar(0));
    hop_scan(r, 2,
             &(hop_scan_spec){
                 .step = step, .env = &state, .carry = in, .n_carry = 1, .xs = &in[1], .n_xs = 1 });
    out[0] = hop_sum(r[1], "all");
    return 0;
}

struct shared {
    hop_fn *f;    /* transformed and compiled by all threads */
    hop_exe *exe; /* run by all threads */
    int portable;
    int failures;
    char message[512];
};
struct worker {
    struct shared *s;
    int id;
    pthread_t thread;
};

static void fail(struct shared *s, const char *what)
{
    if (__atomic_fetch_add(&s->failures, 1, __ATOMIC_RELAXED) == 0)
        snprintf(s->message, sizeof s->message, "%s: %s", what, hop_message());
}

static float value_of(hop_exe *exe, hop_fn *f, int n, float h)
{
    hop_tensor *in[3] = { 0 }, *out[1] = { 0 };
    char type[32];
    float x = -1000;
    snprintf(type, sizeof type, "f32[%d, 2]", n);
    if (!hop_tensor_new(&in[0], "f32[2]") && !hop_tensor_new(&in[1], type) &&
        !hop_tensor_new(&in[2], "f32[2]")) {
        for (int i = 0; i < 2; i++) ((float *)hop_data(in[0]))[i] = h, ((float *)hop_data(in[2]))[i] = 0.5f;
        for (int i = 0; i < 2 * n; i++) ((float *)hop_data(in[1]))[i] = 0.01f * (float)i;
        if (!(exe ? hop_run(exe, in, 3, out, 1) : hop_interpret(f, in, 3, out, 1)))
            x = *(const float *)hop_data(out[0]);
    }
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
    hop_tensor_free(out[0]);
    return x;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct shared *s = w->s;
    hop_compile_options o = { .strict = 1, .portable = s->portable, .threads = 1 };
    for (int round = 0; round < ROUNDS; round++) {
        hop_fn *own = NULL, *g = NULL, *h = NULL;
        hop_exe *exe = NULL;
        if (hop_capture(&own, "h: f32[N], xs: f32[T, N], w: f32[N]", 1, loss, NULL)) fail(s, "capture");
        if (hop_value_and_grad(&g, own, "w") || hop_vmap(&h, s->f, "h", NULL)) fail(s, "transforms");
        hop_fn_free(g), g = NULL;
        if (hop_value_and_grad(&g, s->f, round % 2 ? "w" : "h, w")) fail(s, "transform of a shared function");
        if (hop_compile(&exe, round % 2 ? own : s->f, &o)) fail(s, "compile");
        float a = value_of(s->exe, NULL, 5 + w->id, 0.25f), b = value_of(exe, NULL, 5 + w->id, 0.25f),
              c = value_of(NULL, s->f, 5 + w->id, 0.25f);
        if (a == -1000 || a != b || a != c)
            hop_set_message("%g, %g and %g", (double)a, (double)b, (double)c), fail(s, "results differ");
        if (!hop_fn_text(s->f) || !hop_fn_text(h)) fail(s, "text");
        hop_exe_free(exe);
        hop_fn_free(own);
        hop_fn_free(h);
        hop_fn_free(g);
    }
    return NULL;
}

/* ---- the same on several threads at once ---- */

struct crew {
    struct shared s; /* its failures */
    hop_fn *f;
    hop_exe *exe;
    hop_file *file;
    const char *path;
    void (*task)(struct crew *c, int id);
    int cancel;
    int started;
};
struct member {
    struct crew *crew;
    int id;
    pthread_t thread;
};

static void *crew_work(void *arg)
{
    struct member *m = arg;
    __atomic_fetch_add(&m->crew->started, 1, __ATOMIC_RELEASE);
    m->crew->task(m->crew, m->id);
    return NULL;
}

static void crew_start(struct crew *c, struct member *members)
{
    c->s.failures = 0;
    c->started = 0;
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){ .crew = c, .id = i };
        CLAIM(!pthread_create(&members[i].thread, NULL, crew_work, &members[i]), "thread %d", i);
    }
}

static void crew_end(struct crew *c, struct member *members, const char *what)
{
    for (int i = 0; i < THREADS; i++) pthread_join(members[i].thread, NULL);
    CLAIM(!c->s.failures, "%s: %d failures, the first: %s", what, c->s.failures, c->s.message);
}

static void together(struct crew *c, const char *what, void (*task)(struct crew *c, int id))
{
    struct member members[THREADS];
    c->task = task;
    crew_start(c, members);
    crew_end(c, members, what);
}

/* The cache: all compile equal programs, some of them transformed, and drop what memory holds now and then.
 */
static void use_cache(struct crew *c, int id)
{
    hop_compile_options o = { .strict = 1, .threads = 1, .portable = c->s.portable };
    hop_cache_stats stats;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        hop_fn *own = NULL;
        hop_exe *exe = NULL;
        if (hop_capture(&own, "h: f32[N], xs: f32[T, N], w: f32[N]", 1, loss, NULL) ||
            hop_compile(&exe, own, &o))
            fail(&c->s, "compile");
        if (value_of(exe, NULL, 4, 0.5f) != value_of(c->exe, NULL, 4, 0.5f))
            fail(&c->s, "code from the cache gives other results");
        if (id == 0 && round == ROUNDS) hop_cache_clear();
        if (id == 1) hop_cache_limits(round % 2 ? 1 << 20 : 1 << 26, UINT64_MAX);
        hop_cache_statistics(&stats);
        hop_exe_free(exe);
        hop_fn_free(own);
    }
}

/* Arguments that are updated, by loops that run on the pool's threads. */
enum { ELEMENTS = 60000 };
static int update(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    hop_add_to(in[1], hop_mul(hop_sin(in[0]), hop_scalar(0.5)));
    hop_mul_to(hop_view(in[1], "1:3"), hop_scalar(2));
    out[0] = hop_sum(in[1], "all");
    return 0;
}
static void run_updates(struct crew *c, int id)
{
    hop_tensor *in[2] = { 0 }, *plain[2] = { 0 }, *out[1] = { 0 }, *expected[1] = { 0 };
    for (int i = 0; i < 2; i++)
        if (hop_tensor_new_dims(&in[i], "f32", (const int64_t[]){ ELEMENTS }, 1) ||
            hop_tensor_new_dims(&plain[i], "f32", (const int64_t[]){ ELEMENTS }, 1))
            fail(&c->s, "a tensor");
    for (int k = 0; k < ELEMENTS; k++)
        ((float *)hop_data(in[0]))[k] = ((float *)hop_data(plain[0]))[k] = 0.001f * (float)(k + id);
    for (int round = 0; round < ROUNDS; round++) {
        if (hop_run(c->exe, in, 2, out, 1) || hop_interpret(c->f, plain, 2, expected, 1))
            fail(&c->s, "a run");
        else if (memcmp(hop_data(in[1]), hop_data(plain[1]), ELEMENTS * sizeof(float)) ||
                 memcmp(hop_data(out[0]), hop_data(expected[0]), sizeof(float)))
            fail(&c->s, "updated arguments differ");
    }
    for (int i = 0; i < 2; i++) hop_tensor_free(in[i]), hop_tensor_free(plain[i]);
    hop_tensor_free(out[0]), hop_tensor_free(expected[0]);
}

static int always(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_ge(in[0], hop_int(0)), 0;
}
static int onwards(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_and(hop_add(in[0], hop_int(1)), hop_int(1023)), 0;
}
static int endless(void *env, const hop_val *in, hop_val *out)
{
    return (void)env,
           hop_while(out, 1, &(hop_while_spec){ .cond = always, .body = onwards, .carry = in, .n_carry = 1 });
}
static void run_endless(struct crew *c, int id)
{
    hop_tensor *in = NULL, *out[1] = { 0 };
    (void)id;
    if (hop_tensor_new(&in, "i64[]")) fail(&c->s, "a tensor");
    if (hop_run_with(c->exe, &in, 1, out, 1, &(hop_run_options){ .cancel = &c->cancel }) != HOP_CANCELLED ||
        out[0])
        fail(&c->s, "an endless run was not cancelled");
    hop_tensor_free(in);
}

static int tell_row(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, hop_print("row {}", in, 1), out[0] = in[0], 0;
}
static int tell_rows(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, hop_map(out, 1, &(hop_map_spec){ .body = tell_row, .xs = in, .n_xs = 1 });
}
struct told {
    char text[512];
    size_t length;
};
static void listen(void *ctx, const char *line, size_t length)
{
    struct told *t = ctx;
    if (t->length + length < sizeof t->text) memcpy(t->text + t->length, line, length), t->length += length;
}
static void run_prints(struct crew *c, int id)
{
    hop_tensor *in = NULL, *out[1] = { 0 };
    if (hop_tensor_new(&in, "i64[5]")) fail(&c->s, "a tensor");
    for (int i = 0; i < 5; i++) ((int64_t *)hop_data(in))[i] = 100 * id + i;
    for (int round = 0; round < 4 * ROUNDS; round++) {
        struct told told = { .length = 0 };
        char expected[512];
        int n = 0;
        for (int i = 0; i < 5; i++)
            n += snprintf(expected + n, sizeof expected - (size_t)n, "row %d", 100 * id + i);
        if (hop_run_with(c->exe, &in, 1, out, 1, &(hop_run_options){ .print = listen, .print_ctx = &told }))
            fail(&c->s, "a run that prints");
        told.text[told.length] = 0;
        if (strcmp(told.text, expected))
            hop_set_message("%s", told.text), fail(&c->s, "lines of another run");
    }
    hop_tensor_free(in);
    hop_tensor_free(out[0]);
}

static void run_eagerly(struct crew *c, int id)
{
    for (int round = 0; round < ROUNDS; round++) {
        hop_tensor *in[3] = { 0 }, *out[1] = { 0 };
        if (hop_tensor_new(&in[0], "f32[2]") || hop_tensor_new(&in[1], "f32[6, 2]") ||
            hop_tensor_new(&in[2], "f32[2]"))
            fail(&c->s, "a tensor");
        for (int i = 0; i < 2; i++)
            ((float *)hop_data(in[0]))[i] = 0.25f, ((float *)hop_data(in[2]))[i] = 0.5f;
        for (int i = 0; i < 12; i++) ((float *)hop_data(in[1]))[i] = 0.01f * (float)i;
        if (hop_eager("h: f32[N], xs: f32[T, N], w: f32[N]", loss, NULL, in, 3, out, 1))
            fail(&c->s, "eager mode");
        else if (*(const float *)hop_data(out[0]) != value_of(NULL, c->f, 6, 0.25f))
            fail(&c->s, "eager mode gives other results");
        if (hop_eager_begin()) fail(&c->s, "eager mode");
        hop_val v = hop_add(hop_number("f64", id), hop_scalar(1));
        hop_tensor *t = hop_value_tensor(v);
        if (!t || *(const double *)hop_data(t) != id + 1) fail(&c->s, "a value of another thread's");
        hop_tensor_free(t);
        if (hop_eager_end()) fail(&c->s, "the end of eager mode");
        for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
        hop_tensor_free(out[0]);
    }
}

static void load_files(struct crew *c, int id)
{
    static const char *const names[] = { "a", "b" };
    for (int round = 0; round < 4 * ROUNDS; round++) {
        hop_tensor *t = NULL;
        char path[160];
        int which = (id + round) % 2;
        snprintf(path, sizeof path, "%s:%s", c->path, names[which]);
        if (round % 2 ? hop_file_load(&t, c->file, names[which]) : hop_load(&t, path)) fail(&c->s, "loading");
        else if (hop_tensor_count(t) != 1000 || ((const float *)hop_data(t))[999] != (float)which)
            fail(&c->s, "another tensor was loaded");
        else if (round % 2 == 0)
            ((float *)hop_data(t))[999] = -1; /* hop_load opened the file anew: it is this thread's own */
        hop_tensor_free(t);
    }
}

static void crews(struct shared *s)
{
    struct crew c = { .s = { .portable = s->portable }, .f = s->f, .exe = s->exe };
    hop_compile_options o = { .strict = 1, .portable = s->portable };
    hop_cache_stats stats = { 0 };
    CLAIM(!hop_cache_directory("memory"), "%s", hop_message());
    together(&c, "the cache", use_cache);
    hop_cache_statistics(&stats);
    CLAIM(s->portable || stats.memory_hits, "no thread found what another had compiled");
    hop_cache_clear();
    hop_cache_directory(NULL);
    together(&c, "eager mode", run_eagerly);

    struct {
        const char *what, *params;
        hop_body body;
        void (*task)(struct crew *c, int id);
    } own[] = {
        { "updated arguments", "x: f32[N], log: mut f32[N]", update, run_updates },
        { "prints", "x: i64[N]", tell_rows, run_prints },
        { "cancelling", "x: i64[]", endless, run_endless },
    };
    for (size_t i = 0; i < HOP_COUNT(own); i++) {
        struct member members[THREADS];
        c = (struct crew){ .s = { .portable = s->portable }, .task = own[i].task };
        CLAIM(!hop_capture(&c.f, own[i].params, 1, own[i].body, NULL) && !hop_compile(&c.exe, c.f, &o),
              "%s: %s", own[i].what, hop_message());
        crew_start(&c, members);
        if (own[i].task == run_endless) {
            while (__atomic_load_n(&c.started, __ATOMIC_ACQUIRE) < THREADS) usleep(1000);
            usleep(20000);
            __atomic_store_n(&c.cancel, 1, __ATOMIC_RELAXED);
        }
        crew_end(&c, members, own[i].what);
        hop_exe_free(c.exe);
        hop_fn_free(c.f);
    }

    char folder[] = "/tmp/hop_threads_XXXXXX", path[64];
    hop_tensor *tensors[2] = { 0 };
    CLAIM(mkdtemp(folder) && !hop_tensor_new(&tensors[0], "f32[1000]") &&
              !hop_tensor_new(&tensors[1], "f32[1000]"),
          "%s", hop_message());
    ((float *)hop_data(tensors[1]))[999] = 1;
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/x.%s", folder, i ? "safetensors" : "npz");
        c = (struct crew){ .path = path };
        CLAIM(!hop_save_many(path, (const char *const[]){ "a", "b" }, tensors, 2) &&
                  !hop_file_open(&c.file, path),
              "%s", hop_message());
        together(&c, "files", load_files);
        hop_file_free(c.file);
        unlink(path);
    }
    rmdir(folder);
    for (int i = 0; i < 2; i++) hop_tensor_free(tensors[i]);
}

static void *use_elsewhere(void *arg)
{
    hop_val *v = arg;
    hop_val r = hop_add(*v, *v);
    return r.scope ? "made" : NULL;
}
static int hand_over(void *env, const hop_val *in, hop_val *out)
{
    pthread_t thread;
    void *made = "made";
    (void)env;
    CLAIM(!pthread_create(&thread, NULL, use_elsewhere, (void *)&in[0]), "a thread");
    pthread_join(thread, &made);
    CLAIM(!made, "a value means nothing on another thread");
    out[0] = in[0];
    return 0;
}

int main(int argc, char **argv)
{
    struct shared s = { .portable = !exe_available() || (argc > 1 && !strcmp(argv[1], "--portable")) };
    struct worker workers[THREADS];
    hop_fn *f = NULL;
    CLAIM(!hop_capture(&s.f, "h: f32[N], xs: f32[T, N], w: f32[N]", 1, loss, NULL), "%s", hop_message());
    CLAIM(!hop_compile(&s.exe, s.f, &(hop_compile_options){ .strict = 1, .portable = s.portable }), "%s",
          hop_message());
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .s = &s, .id = i };
        CLAIM(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "thread %d", i);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
    CLAIM(!s.failures, "%d failures, the first: %s", s.failures, s.message);
    CLAIM(!hop_capture(&f, "x: f32[2]", 1, hand_over, NULL), "%s", hop_message());
    hop_fn_free(f);
    crews(&s);
    hop_exe_free(s.exe);
    hop_fn_free(s.f);
    return tests_end();
}
