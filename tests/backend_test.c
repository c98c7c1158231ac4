/* Back ends: the registry; a memory that host pointers and stale addresses do not reach; programs of several
 * kernels with a launch plan; what a back end is not able to; and a back end that the library does not know,
 * made here of the executor, which sees every step of a run. */
#include "check.h"
#include "emit/backend.h"
#include "ir/text.h"
#include "loop/lower.h"
#include "loop/rt.h"
#include "runtime/exe.h"

static const char program[] = "hop 1\n"
                              "const @k: f32[4] = [1, -0.5, 2, 0.25]\n"
                              "fn @two(%x: f32[3, 4], %y: f32[4]) -> (f32[3], f32[4]) {\n"
                              "  %c = constant {value = @k}\n"
                              "  %s = sum {dims = [1]} (%x)\n"
                              "  %t = sum (%s)\n"
                              "  %b = broadcast {dims = [4], at = []} (%t)\n"
                              "  %d = mul(%y, %c)\n"
                              "  %r = add(%d, %b)\n"
                              "  return %s, %r\n"
                              "}\n"
                              "fn @guard(%x: f32[]) -> (f32[]) {\n"
                              "  %zero = full {value = 0, dtype = f32, dims = []}\n"
                              "  %good = gt(%x, %zero)\n"
                              "  check {message = \"x must be positive\"} (%good)\n"
                              "  return %x\n"
                              "}\n";

static struct module *m;

/* ---- the registry ---- */

static void find_abacus(void *ctx)
{
    (void)ctx;
    backend_named("abacus");
}

static void test_registry(void)
{
    uint32_t n = 0;
    for (const struct backend *b; (b = backend_at(n)); n++) {
        CLAIM(backend_named(b->name) == b, "'%s' is found by its name", b->name);
        CLAIM(b->load && b->unload && b->launch && b->meaning, "'%s' has all that every back end has",
              b->name);
        CLAIM(b->compile || b->abilities & RUNS_LOOPS, "'%s' compiles, or runs loops", b->name);
    }
    CLAIM(n == 2 && backend_at(0) == &llvm_backend, "there are two, and LLVM is the default");
    CLAIM(!llvm_backend.memory && executor_backend.memory, "one of them has a memory of its own");
    CLAIM(attempt(find_abacus, NULL) == HOP_INVALID &&
              strstr(hop_message(), "the back ends are llvm, executor"),
          "others are told: %s", hop_message());
}

/* ---- memory ---- */

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};
static void do_copy_in(void *copy)
{
    const struct copy *c = copy;
    executor_backend.memory->copy_in(c->to, c->from, c->bytes);
}
static void do_copy_out(void *copy)
{
    const struct copy *c = copy;
    executor_backend.memory->copy_out(c->to, c->from, c->bytes);
}

static void test_memory(void)
{
    const struct memory_space *heap = executor_backend.memory;
    char text[16] = "fifteen letters", back[16] = "";
    char *at = heap->take(sizeof text), *other = heap->take(sizeof text);
    CLAIM(at && other && at != other && !((uintptr_t)at % 64), "two blocks, aligned");
    CLAIM(!attempt(do_copy_in, &(struct copy){ at, text, sizeof text }) &&
              !attempt(do_copy_out, &(struct copy){ back, at, sizeof back }) &&
              !memcmp(text, back, sizeof text),
          "what is copied in is copied out");
    heap->copy(other, at, sizeof text);
    memset(back, 0, sizeof back);
    CLAIM(!attempt(do_copy_out, &(struct copy){ back + 8, other + 8, 8 }) && !strcmp(back + 8, "letters"),
          "from the middle of a copy");
    CLAIM(attempt(do_copy_in, &(struct copy){ at + 1, text, sizeof text }) == HOP_INTERNAL,
          "not past the end");
    CLAIM(attempt(do_copy_in, &(struct copy){ back, text, sizeof text }) == HOP_INTERNAL &&
              strstr(hop_message(), "no address of their heap"),
          "not to the host: %s", hop_message());
    heap->give_back(at);
    CLAIM(attempt(do_copy_out, &(struct copy){ back, at, 1 }) == HOP_INTERNAL,
          "not from what was given back");
    heap->give_back(other);
    heap->give_back(NULL);
}

/* ---- a program, launched by hand ---- */

struct by_hand {
    struct lp *p;
    struct loaded_program program;
    struct launch launch;
    bool poison; /* arguments stay where the host has them */
    int32_t status;
};

static void launch_by_hand(void *ctx)
{
    struct by_hand *h = ctx;
    char error[512] = "";
    const struct memory_space *heap = executor_backend.memory;
    float x[12], y[4] = { 1, 1, 1, 1 };
    for (int i = 0; i < 12; i++) x[i] = (float)i;
    void *host[64] = { [0] = x, [1] = y };
    void *buffers[64] = { 0 };
    int64_t counts[64];
    executor_backend.load(NULL, 0, h->p, &h->program, error);
    for (uint32_t b = 0; b < h->p->buffers.len; b++) {
        const struct lp_buffer *buffer = &h->p->buffers.data[b];
        size_t bytes = (size_t)buffer->static_count * dtype_info[buffer->dtype].size;
        counts[b] = buffer->static_count;
        buffers[b] = h->poison && host[b] ? host[b] : heap->take(bytes);
        if (host[b] && !h->poison) heap->copy_in(buffers[b], host[b], bytes);
    }
    h->launch = (struct launch){ .program = &h->program,
                                 .rt = &(struct hop_rt){ 0 },
                                 .buffers = buffers,
                                 .counts = counts,
                                 .frame = heap->take((size_t)h->program.frame_bytes) };
    struct hop_catch caught;
    executor_backend.open(&h->launch);
    h->status = HOP_OK;
    if (HOP_TRY(caught)) {
        for (uint32_t i = 0; i < h->program.n_steps && !h->status; i++)
            if (h->program.steps[i].kind == LAUNCH_KERNEL)
                h->status = executor_backend.launch(&h->launch, h->program.steps[i].index);
        hop_catch_end(&caught);
    } else {
        h->status = hop_caught();
    }
    executor_backend.close(&h->launch);
    for (uint32_t b = 0; b < h->p->buffers.len; b++)
        if (!h->poison || !host[b]) heap->give_back(buffers[b]);
    heap->give_back(h->launch.frame);
    executor_backend.unload(&h->program);
}

static uint32_t count_steps(const struct loaded_program *p, enum launch_step_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_steps; i++) n += p->steps[i].kind == kind;
    return n;
}

static struct lp *lowered(const char *name)
{
    struct pass_options o = { .strict = true };
    struct lp *p = lower_function(m, simplify(m, module_find(m, name), &o), &o, NULL);
    lp_check(p);
    lp_plan(p);
    return p;
}

static void test_poison(void)
{
    struct by_hand h = { .p = lowered("two") };
    CLAIM(!attempt(launch_by_hand, &h) && !h.status, "it runs on memory of the heap: %s", hop_message());
    h.poison = true;
    CLAIM(!attempt(launch_by_hand, &h) && h.status == HOP_INTERNAL &&
              strstr(hop_message(), "cannot reach arg0"),
          "a kernel that is given a host pointer is stopped: %s", hop_message());
    lp_free(h.p);
}

static void test_plan(void)
{
    struct lp *p = lowered("two");
    struct loaded_program made;
    char error[512] = "";
    CLAIM(!executor_backend.load(NULL, 0, p, &made, error), "loads");
    uint32_t launches = count_steps(&made, LAUNCH_KERNEL);
    CLAIM(made.n_kernels > 1 && launches == made.n_kernels, "several kernels, each launched once: %u",
          launches);
    CLAIM(count_steps(&made, LAUNCH_BRING) == 2 && count_steps(&made, LAUNCH_MAKE) == 2 &&
              count_steps(&made, LAUNCH_FETCH) == 2 && count_steps(&made, LAUNCH_WAIT) == 1,
          "arguments are brought, results made and fetched, once each");
    CLAIM(made.steps[made.n_steps - 3].kind == LAUNCH_WAIT, "it is waited for before anything is fetched");
    executor_backend.unload(&made);
    lp_free(p);
}

/* ---- a back end of our own, run by the library ---- */

static struct {
    uint32_t opened, launched, waited, closed;
    size_t in, out; /* bytes */
} seen;

static void watched_open(struct launch *l)
{
    seen.opened++;
    executor_backend.open(l);
}
static void watched_close(struct launch *l)
{
    seen.closed++;
    executor_backend.close(l);
}
static int32_t watched_launch(struct launch *l, uint32_t kernel)
{
    seen.launched++;
    return executor_backend.launch(l, kernel);
}
static int32_t watched_wait(struct launch *l)
{
    (void)l;
    seen.waited++;
    return HOP_OK;
}
static void watched_in(void *to, const void *from, size_t bytes)
{
    seen.in += bytes;
    executor_backend.memory->copy_in(to, from, bytes);
}
static void watched_out(void *to, const void *from, size_t bytes)
{
    seen.out += bytes;
    executor_backend.memory->copy_out(to, from, bytes);
}

struct job {
    const struct backend *backend;
    const char *fn;
    struct tensor *args[2], *results[2];
};

static void run_job(void *job)
{
    struct job *j = job;
    struct compile_options o = { .passes.strict = true, .threads = 1, .backend = j->backend };
    struct exe *e = exe_compile(m, module_find(m, j->fn), &o, NULL);
    hop_cleanup_push(exe_free, e);
    exe_run(e, j->args, NULL, j->results, NULL);
    hop_cleanup_pop(e);
    exe_free(e);
}

static void test_own_back_end(void)
{
    struct memory_space memory = *executor_backend.memory;
    struct backend watched = executor_backend;
    memory.copy_in = watched_in;
    memory.copy_out = watched_out;
    watched.name = "watched";
    watched.memory = &memory;
    watched.open = watched_open;
    watched.close = watched_close;
    watched.launch = watched_launch;
    watched.wait = watched_wait;
    struct tensor *x = tensor_new(DT_F32, 2, (int64_t[]){ 3, 4 }),
                  *y = tensor_new(DT_F32, 1, (int64_t[]){ 4 });
    for (int i = 0; i < 12; i++) ((float *)x->data)[i] = (float)i;
    for (int i = 0; i < 4; i++) ((float *)y->data)[i] = (float)(i + 1);
    struct job j = { .backend = &watched, .fn = "two", .args = { x, y } };
    CLAIM(!attempt(run_job, &j), "runs: %s", hop_message());
    if (j.results[0] && j.results[1]) {
        const float *s = j.results[0]->data, *r = j.results[1]->data;
        CLAIM(s[0] == 6 && s[1] == 22 && s[2] == 38, "rows are summed");
        CLAIM(r[0] == 67 && r[1] == 65 && r[2] == 72 && r[3] == 67, "and all of them, in a later kernel");
    }
    CLAIM(seen.opened == 1 && seen.launched > 1 && seen.waited == 1 && seen.closed == 1,
          "one run: %u launches, %u waits", seen.launched, seen.waited);
    CLAIM(seen.in == (12 + 4 + 4) * sizeof(float) && seen.out == (3 + 4) * sizeof(float),
          "arguments and the constant go in, results come out: %zu and %zu bytes", seen.in, seen.out);

    struct backend mute = executor_backend;
    mute.name = "mute";
    mute.abilities &= ~(uint32_t)ABLE_TO_TELL;
    struct job guard = { .backend = &mute, .fn = "guard", .args = { tensor_new(DT_F32, 0, NULL) } };
    CLAIM(attempt(run_job, &guard) == HOP_UNAVAILABLE &&
              strstr(hop_message(), "checks, prints, callbacks, operators or exchanges with ranks, which the "
                                    "back end 'mute' cannot run"),
          "what a back end is not able to is said: %s", hop_message());
    guard.backend = &executor_backend;
    *(float *)guard.args[0]->data = -1;
    CLAIM(attempt(run_job, &guard) == HOP_CHECK, "the executor is: %s", hop_message());
    tensor_free(guard.args[0]);
    for (int i = 0; i < 2; i++) {
        tensor_free(j.args[i]);
        tensor_free(j.results[i]);
    }
}

static void read_program(void *ctx)
{
    (void)ctx;
    m = text_read("program", program, sizeof program - 1);
}

int main(void)
{
    test_registry();
    test_memory();
    CLAIM(!attempt(read_program, NULL), "%s", hop_message());
    if (!m) return tests_end();
    test_poison();
    test_plan();
    test_own_back_end();
    module_free(m);
    CLAIM(!hop_live_allocations(), "nothing is left: %lld", (long long)hop_live_allocations());
    return tests_end();
}
