/* Threads: several capture, transform, compile and run at once, each on functions of its own and all on functions that they share; one executable runs
 * on all of them. Native code is used where there is a compiler and the argument --portable is not given (a race detector cannot look into it). */
#include "check.h"
#include "runtime/exe.h"

#include <pthread.h>

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
    hop_scan(r, 2, &(hop_scan_spec){ .step = step, .env = &state, .carry = in, .n_carry = 1, .xs = &in[1], .n_xs = 1 });
    out[0] = hop_sum(r[1], "all");
    return 0;
}

struct shared {
    hop_fn *f;     /* transformed and compiled by all threads */
    hop_exe *exe;  /* run by all threads */
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
    if (__atomic_fetch_add(&s->failures, 1, __ATOMIC_RELAXED) == 0) snprintf(s->message, sizeof s->message, "%s: %s", what, hop_message());
}

static float value_of(hop_exe *exe, hop_fn *f, int n, float h)
{
    hop_tensor *in[3] = { 0 }, *out[1] = { 0 };
    char type[32];
    float x = -1000;
    snprintf(type, sizeof type, "f32[%d, 2]", n);
    if (!hop_tensor_new(&in[0], "f32[2]") && !hop_tensor_new(&in[1], type) && !hop_tensor_new(&in[2], "f32[2]")) {
        for (int i = 0; i < 2; i++) ((float *)hop_data(in[0]))[i] = h, ((float *)hop_data(in[2]))[i] = 0.5f;
        for (int i = 0; i < 2 * n; i++) ((float *)hop_data(in[1]))[i] = 0.01f * (float)i;
        if (!(exe ? hop_run(exe, in, 3, out, 1) : hop_interpret(f, in, 3, out, 1))) x = *(const float *)hop_data(out[0]);
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
        float a = value_of(s->exe, NULL, 5 + w->id, 0.25f), b = value_of(exe, NULL, 5 + w->id, 0.25f), c = value_of(NULL, s->f, 5 + w->id, 0.25f);
        if (a == -1000 || a != b || a != c) hop_set_message("%g, %g and %g", (double)a, (double)b, (double)c), fail(s, "results differ");
        if (!hop_fn_text(s->f) || !hop_fn_text(h)) fail(s, "text");
        hop_exe_free(exe);
        hop_fn_free(own);
        hop_fn_free(h);
        hop_fn_free(g);
    }
    return NULL;
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
    CLAIM(!hop_compile(&s.exe, s.f, &(hop_compile_options){ .strict = 1, .portable = s.portable }), "%s", hop_message());
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .s = &s, .id = i };
        CLAIM(!pthread_create(&workers[i].thread, NULL, work, &workers[i]), "thread %d", i);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
    CLAIM(!s.failures, "%d failures, the first: %s", s.failures, s.message);
    CLAIM(!hop_capture(&f, "x: f32[2]", 1, hand_over, NULL), "%s", hop_message());
    hop_fn_free(f);
    hop_exe_free(s.exe);
    hop_fn_free(s.f);
    return tests_end();
}
