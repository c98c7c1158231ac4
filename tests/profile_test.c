/* Profiles: which part of a program a sample is counted for, with samples that callbacks of the program take
 * themselves, so that the numbers are known; how often parts are entered; results that do not change; runs
 * that fail, threads, executables that end first, texts that are what they should be. */
#include "check.h"
#include "hop/hop.h"
#include "ir/text.h"
#include "runtime/exe_impl.h"
#include "runtime/profile.h"

#include <pthread.h>

static const char TEXT[] = /**/
    "hop 1\n"
    "fn @main(%x: f32[64, 64], %n: i64[], %ok: bool[]) -> (f32[64, 64], f32[64, 64]) effects(check, io) {\n"
    "  callback {name = \"1\"} ()\n"
    "  %y = region {kind = \"named\", name = \"part\"} with(%a = %x) {\n"
    "    callback {name = \"2\"} ()\n"
    "    %l = scan {length = 5} carry(%c = %a) over() {\n"
    "      callback {name = \"4\"} ()\n"
    "      %p = matmul(%c, %c)\n"
    "      %t = tanh(%p)\n"
    "      next(%t)\n"
    "    }\n"
    "    yield(%l)\n"
    "  }\n"
    "  %w, %last = while_loop carry(%k = %n, %v = %x) cond {\n"
    "    %zero = full {value = 0, dims = [], dtype = i64}\n"
    "    %more = gt(%k, %zero)\n"
    "    test(%more)\n"
    "  } body {\n"
    "    %one = full {value = 1, dims = [], dtype = i64}\n"
    "    %e = cos(%v)\n"
    "    %d = sub(%k, %one)\n"
    "    next(%d, %e)\n"
    "  }\n"
    "  check {message = \"as wanted\"} (%ok)\n"
    "  return %y, %last\n"
    "}\n";

struct world {
    struct module *m;
    struct exe *e;
    struct tensor *args[3];
    struct profile *p; /* that callbacks take samples for */
};

/* The callback's name is how many milliseconds its sample stands for. */
static void take_sample(void *world, const char *name, struct tensor *const *args, uint32_t n)
{
    const struct world *w = world;
    HOP_UNUSED(args);
    HOP_UNUSED(n);
    if (w->p) profile_sample(w->p, strtod(name, NULL) * 1e-3);
}

static void run(struct world *w, struct tensor **results)
{
    exe_run(w->e, w->args, NULL, results, &(struct exe_call){ .callback = take_sample, .callback_ctx = w });
}

static struct tensor *filled(enum dtype t, uint32_t rank, int64_t size)
{
    int64_t dims[2] = { size, size };
    struct tensor *x = tensor_new(t, rank, dims);
    for (int64_t i = 0; i < x->count && t == DT_F32; i++) ((float *)x->data)[i] = (float)(i % 17) * 0.01F;
    return x;
}

static struct world world_new(const struct compile_options *o)
{
    struct world w = { .m = text_read("program", TEXT, strlen(TEXT)) };
    uint32_t fn = module_find(w.m, "main");
    w.e = exe_compile(w.m, fn, o, NULL);
    w.args[0] = filled(DT_F32, 2, 64);
    w.args[1] = filled(DT_I64, 0, 0);
    w.args[2] = filled(DT_BOOL, 0, 0);
    *(int64_t *)w.args[1]->data = 7;
    *(bool *)w.args[2]->data = true;
    return w;
}

static void world_free(struct world *w)
{
    exe_free(w->e);
    for (uint32_t i = 0; i < HOP_COUNT(w->args); i++) tensor_free(w->args[i]);
    module_free(w->m);
}

static void drop(struct tensor **results, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        tensor_free(results[i]);
        results[i] = NULL;
    }
}

static char *text_of(struct profile *p, const char *form)
{
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    profile_text(p, form, &out);
    char *copy = strdup(out.data ? out.data : "");
    arena_free(&arena);
    return copy;
}

static const struct backend *const backends[] = { &llvm_backend, &executor_backend };

/* Samples of 1, 2 and 4 milliseconds in callbacks: at the top, in a region, in each of five trips. */
static void test_where(const struct backend *backend)
{
    struct world w = world_new(
        &(struct compile_options){ .passes = { .profile = true }, .backend = backend });
    struct tensor *results[2] = { NULL, NULL };
    w.p = profile_start(w.e, -1);
    run(&w, results);
    drop(results, 2);
    run(&w, results);
    profile_stop(w.p);
    char *folded = text_of(w.p, "folded");
    static const char expected[] = /**/
        "@main (program:2:1);1 (program:3:3) 2000\n"
        "@main (program:2:1);part (program:4:3);2 (program:5:5) 4000\n"
        "@main (program:2:1);part (program:4:3);scan (program:6:5);4 (program:7:7) 40000\n";
    CLAIM(!strcmp(folded, expected), "%s: found\n%s", backend->name, folded);
    free(folded);
    char *json = text_of(w.p, "json");
    static const char *const parts[] = {
        "\"runs\": 2, \"failed\": 0, \"samples\": 14, \"lost\": 0",
        "\"label\": \"@main\"",
        "\"entered\": 2, \"trips\": 10,", /* the scan */
        "\"entered\": 10, \"trips\": 0,", /* the product in it */
        "\"entered\": 2, \"trips\": 14,", /* the while loop */
        "\"operations\": 5242880",        /* 2 · 64³, ten times */
        "\"seconds\": 0.046, \"self\": 0, \"share\": 1,",
        "\"kind\": \"region\", \"label\": \"part\"",
        "\"kind\": \"product\"",
        "\"kind\": \"operator\", \"label\": \"4\"",
    };
    for (uint32_t i = 0; i < HOP_COUNT(parts); i++)
        CLAIM(strstr(json, parts[i]), "%s: no %s in\n%s", backend->name, parts[i], json);
    free(json);
    char *svg = text_of(w.p, "svg");
    CLAIM(!strncmp(svg, "<svg ", 5) && strstr(svg, ">part  program:4:3<") && strstr(svg, "</svg>\n"),
          "%s: found\n%s", backend->name, svg);
    free(svg);
    char *table = text_of(w.p, "table");
    CLAIM(strstr(table, "  95.7 %     22 ms"), "%s: found\n%s", backend->name, table);
    free(table);
    drop(results, 2);
    profile_free(w.p);
    world_free(&w);
}

/* Marks change no bit, and without the option there are none. */
static void test_results(const struct backend *backend, bool strict)
{
    struct tensor *with[2] = { NULL, NULL }, *without[2] = { NULL, NULL };
    struct world a = world_new(
        &(struct compile_options){ .passes = { .strict = strict, .profile = true }, .backend = backend });
    struct world b = world_new(
        &(struct compile_options){ .passes = { .strict = strict }, .backend = backend });
    CLAIM(a.e->marks && !b.e->marks, "%s: marks are there when they are asked for", backend->name);
    run(&a, with);
    run(&b, without);
    for (uint32_t k = 0; k < 2; k++)
        CLAIM(!memcmp(with[k]->data, without[k]->data, (size_t)with[k]->count * sizeof(float)),
              "%s: result %u differs", backend->name, k);
    drop(with, 2);
    drop(without, 2);
    world_free(&a);
    world_free(&b);
}

struct attempted {
    struct world *w;
    struct tensor **results;
    struct profile *p;
};
static void do_run(void *a) { run(((struct attempted *)a)->w, ((struct attempted *)a)->results); }
static void do_start(void *a) { profile_start(((struct attempted *)a)->w->e, 0); }
static void do_misspell(void *a) { free(text_of(((struct attempted *)a)->p, "tabel")); }

/* A run that fails is counted and leaves the profile as it should be; so does an executable that ends. */
static void test_failures(const struct backend *backend)
{
    struct world w = world_new(
        &(struct compile_options){ .passes = { .profile = true }, .backend = backend });
    struct tensor *results[2] = { NULL, NULL };
    struct profile *p = profile_start(w.e, 0);
    struct attempted a = { &w, results, p };
    *(bool *)w.args[2]->data = false;
    CLAIM(attempt(do_run, &a) == HOP_CHECK, "the check fails");
    *(bool *)w.args[2]->data = true;
    CLAIM(attempt(do_run, &a) == HOP_OK, "%s", hop_message());
    drop(results, 2);
    CLAIM(attempt(do_start, &a) == HOP_INVALID && strstr(hop_message(), "already"), "%s", hop_message());
    CLAIM(attempt(do_misspell, &a) == HOP_INVALID && strstr(hop_message(), "'tabel'"), "%s", hop_message());
    world_free(&w);
    CLAIM(p->n_runs == 2 && p->n_failed == 1 && !p->runs, "%llu runs, %llu failed",
          (unsigned long long)p->n_runs, (unsigned long long)p->n_failed);
    char *table = text_of(p, "table");
    CLAIM(strstr(table, "2 runs, 1 of them failed"), "found\n%s", table);
    free(table);
    profile_free(p);
    struct world plain = world_new(&(struct compile_options){ .backend = backend });
    CLAIM(attempt(do_start, &(struct attempted){ .w = &plain }) == HOP_INVALID &&
              strstr(hop_message(), "not compiled"),
          "%s", hop_message());
    world_free(&plain);
}

enum { THREADS = 4, RUNS = 50 };

static void *run_often(void *world)
{
    struct world w = *(const struct world *)world;
    struct tensor *results[2] = { NULL, NULL };
    for (uint32_t i = 0; i < RUNS; i++) {
        run(&w, results);
        drop(results, 2);
    }
    return NULL;
}

/* Runs on several threads, profiles that begin and end meanwhile: what is counted is what was run. */
static void test_threads(void)
{
    struct world w = world_new(&(struct compile_options){ .passes = { .profile = true } });
    pthread_t threads[THREADS];
    struct profile *p = profile_start(w.e, 20e-6);
    uint32_t rounds = 0; /* on a busy machine it may be a while until somebody looks */
    for (; rounds < 1000 && !__atomic_load_n(&p->n_samples, __ATOMIC_RELAXED); rounds++) {
        for (uint32_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run_often, &w);
        for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    }
    profile_stop(p);
    profile_stop(p);
    CLAIM(p->n_runs == (uint64_t)rounds * THREADS * RUNS && !p->n_failed && !p->runs, "%llu runs",
          (unsigned long long)p->n_runs);
    for (uint32_t i = 0; i < p->table->n; i++) {
        const struct mark *m = &p->table->marks[i];
        bool scan = m->kept && !strcmp(m->label, "scan");
        if (scan) CLAIM(p->counters[2 * i + 1] == (uint64_t)rounds * 5 * THREADS * RUNS, "trips of the scan");
    }
    double seconds = 0;
    for (uint32_t c = 0; c < p->n_contexts; c++) seconds += p->contexts[c].seconds;
    CLAIM(p->n_samples > 0 && seconds > 0 && seconds < 1.5 * p->run_seconds + 0.1, "%g of %g seconds seen",
          seconds, p->run_seconds);
    profile_free(p);
    for (uint32_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run_often, &w);
    for (uint32_t i = 0; i < RUNS; i++) {
        p = profile_start(w.e, 20e-6);
        free(text_of(p, "json"));
        profile_free(p);
    }
    for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    world_free(&w);
}

/* A body that is compiled once: what is inside of it is counted for the call that ran it. */
static void test_calls(const struct backend *backend)
{
    static const char text[] = /**/
        "hop 1\n"
        "fn @block(%x: f32[64, 64]) -> (f32[64, 64]) {\n"
        "  %a = matmul(%x, %x)\n"
        "  %b = tanh(%a)\n"
        "  return %b\n"
        "}\n"
        "fn @main(%x: f32[64, 64]) -> (f32[64, 64]) {\n"
        "  %y = invoke_subgraph {inline = no} @block(%x)\n"
        "  %z = invoke_subgraph {inline = no} @block(%y)\n"
        "  return %z\n"
        "}\n";
    struct module *m = text_read("program", text, strlen(text));
    struct compile_options o = { .passes = { .profile = true }, .backend = backend };
    struct exe *e = exe_compile(m, module_find(m, "main"), &o, NULL);
    CLAIM(e->marks->levels == 2, "%s: %u levels", backend->name, e->marks->levels);
    struct tensor *x = filled(DT_F32, 2, 64), *y = NULL;
    struct profile *p = profile_start(e, backend == &llvm_backend ? 20e-6 : 0);
    for (uint32_t i = 0; i < 400 && (i < 3 || p->n_samples < 50); i++) {
        exe_run(e, &x, NULL, &y, NULL);
        tensor_free(y);
        y = NULL;
    }
    profile_stop(p);
    char *json = text_of(p, "json");
    CLAIM(strstr(json, "\"kind\": \"call\", \"label\": \"invoke_subgraph @block\""), "found\n%s", json);
    uint64_t calls = 0;
    for (uint32_t i = 0; i < e->marks->n; i++)
        if (e->marks->marks[i].kind == MARK_PRODUCT) calls += p->counters[2 * i];
    CLAIM(calls == 2 * p->n_runs, "%llu products in %llu runs", (unsigned long long)calls,
          (unsigned long long)p->n_runs);
    for (uint32_t c = 1; c < p->n_contexts; c++) {
        const struct mark *inner = &e->marks->marks[p->contexts[c].mark];
        const struct mark *outer = &e->marks->marks[p->contexts[p->contexts[c].parent].mark];
        if (inner->level) CLAIM(outer->kind == MARK_CALL, "%s stands in %s", inner->label, outer->label);
    }
    free(json);
    profile_free(p);
    tensor_free(x);
    exe_free(e);
    module_free(m);
}

int main(void)
{
    bool native = exe_available();
    for (uint32_t i = native ? 0 : 1; i < HOP_COUNT(backends); i++) {
        test_where(backends[i]);
        test_results(backends[i], true);
        test_results(backends[i], false);
        test_failures(backends[i]);
        test_calls(backends[i]);
    }
    if (native) test_threads();
    return tests_end();
}
