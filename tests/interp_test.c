/* The interpreter and what it shares with the runtime: tensors, values as text, binding of symbols and its
 * messages, programs with loops and data-dependent sizes, failures that must leak nothing, allocations that
 * fail. */
#include "check.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "base/memory.h"

#include <math.h>

static const char program[] = "hop 1\n"
                              "fn @line[T in 1..9](%x: f32[T], %y: f32[T]) -> (f32[T]) {\n"
                              "  %a = mul(%x, %y)\n"
                              "  %b = add(%a, %x)\n"
                              "  return %b\n"
                              "}\n"
                              "fn @sums[T](%h0: f32[3], %xs: f32[T, 3]) -> (f32[3], f32[T, 3]) {\n"
                              "  %h, %ys = scan carry(%c = %h0) over(%x in %xs) {\n"
                              "    %n = add(%c, %x)\n"
                              "    next(%n) stack(%n)\n"
                              "  }\n"
                              "  return %h, %ys\n"
                              "}\n"
                              "fn @count(%n: i64[]) -> (i64[?k], i64[?k]) {\n"
                              "  %i: i64[?k] = bind_dim(%n)\n"
                              "  %j = add(%i, %i)\n"
                              "  return %i, %j\n"
                              "}\n"
                              "fn @twice(%x: f32[2]) -> (f32[2], f32[2], f32[2]) {\n"
                              "  %y = add(%x, %x)\n"
                              "  %unused = mul(%y, %y)\n"
                              "  return %y, %x, %y\n"
                              "}\n"
                              "fn @positive(%x: f32[2]) -> (f32[2]) {\n"
                              "  %z = full {value = 0, dims = [2]}\n"
                              "  %p = gt(%x, %z)\n"
                              "  %y = add(%x, %x)\n"
                              "  check {message = \"all positive\"} (%p, %x)\n"
                              "  print {format = \"x = {}\"} (%x)\n"
                              "  return %y\n"
                              "}\n"
                              "fn @pair[A, B](%x: f32[A], %y: f32[B], %z: f32[A + B]) -> (f32[A]) {\n"
                              "  return %x\n"
                              "}\n"
                              "fn @fixed(%x: f32[2, 3]) -> (f32[2, 3]) {\n"
                              "  return %x\n"
                              "}\n";

static struct module *m;

static struct tensor *floats(uint32_t rank, const int64_t *dims, double start, double step)
{
    struct tensor *t = tensor_new(DT_F32, rank, dims);
    for (int64_t i = 0; i < t->count; i++) ((float *)t->data)[i] = (float)(start + step * (double)i);
    return t;
}

static bool prints_as(const struct tensor *t, const char *want)
{
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    tensor_print(&out, t);
    bool same = !strcmp(out.data, want);
    if (!same) printf("  printed %s\n", out.data);
    arena_free(&arena);
    return same;
}

/* ---- tensors and text ---- */

static void make_large(void *dims) { tensor_free(tensor_new(DT_F64, 2, dims)); }
static void count_release(void *n) { ++*(int *)n; }

static void test_tensors(void)
{
    struct tensor *t = tensor_new(DT_F32, 2, (int64_t[]){ 3, 5 });
    CLAIM(t->count == 15 && (uintptr_t)t->data % 64 == 0, "15 elements, 64-byte aligned");
    CLAIM(tensor_ref(t) == t && t->refs == 2, "a reference more");
    tensor_free(t);
    tensor_free(t);
    t = tensor_new(DT_F32, 3, (int64_t[]){ 2, 0, 3 });
    CLAIM(t->count == 0 && prints_as(t, "[[], []]"), "no elements");
    tensor_free(t);
    CLAIM(attempt(make_large, (int64_t[]){ INT64_C(1) << 40, INT64_C(1) << 40 }) == HOP_INVALID,
          "a size that overflows: %s", hop_message());
    CLAIM(attempt(make_large, (int64_t[]){ 0, INT64_MAX }) == HOP_INVALID,
          "a size that overflows beside a zero");
    CLAIM(attempt(make_large, (int64_t[]){ 2, -1 }) == HOP_INVALID, "a negative size");
    float data[2] = { 1, 2 };
    int released = 0;
    t = tensor_borrow(DT_F32, 1, (int64_t[]){ 2 }, data, count_release, &released);
    tensor_ref(t);
    tensor_free(t);
    CLAIM(released == 0 && t->data == data, "borrowed data is used where it lies");
    tensor_free(t);
    CLAIM(released == 1, "its owner is told once");
    tensor_free(NULL);
    t = tensor_new(DT_F32, 1, (int64_t[]){ 1 << 20 });
    tensor_free(t);
    struct tensor *again = tensor_new(DT_F32, 1, (int64_t[]){ (1 << 20) - 100 }),
                  *other = tensor_new(DT_F32, 1, (int64_t[]){ 1 << 20 });
    CLAIM(again == t && other != t, "a large block is used again, by one");
    memset(other->data, 0, (size_t)other->count * 4);
    tensor_free(again);
    tensor_free(other);
    memory_drop_kept();
}

static struct tensor on_stack(enum dtype t, uint32_t rank, int64_t d0, int64_t d1, const void *data)
{
    return (struct tensor){ .refs = 1,
                            .dtype = (uint8_t)t,
                            .rank = (uint8_t)rank,
                            .dims = { d0, d1 },
                            .count = (rank > 0 ? d0 : 1) * (rank > 1 ? d1 : 1),
                            .data = (void *)data };
}

static void test_text(void)
{
    struct tensor t = on_stack(DT_F32, 1, 8, 0,
                               (float[]){ 1, -0.0f, 0.1f, 16777216, 3.4028235e38f, 1e-45f, NAN, -INFINITY });
    CLAIM(prints_as(&t, "[1, -0, 0.1, 16777216, 3.4028235e+38, 1e-45, nan, -inf]"), "floats");
    t = on_stack(DT_F64, 0, 0, 0, (double[]){ 0.1 });
    CLAIM(prints_as(&t, "0.1"), "a double");
    t = on_stack(DT_I64, 2, 2, 2, (int64_t[]){ 1, INT64_MIN, -3, INT64_MAX });
    CLAIM(prints_as(&t, "[[1, -9223372036854775808], [-3, 9223372036854775807]]"), "integers");
    t = on_stack(DT_BOOL, 1, 2, 0, (uint8_t[]){ 1, 0 });
    CLAIM(prints_as(&t, "[true, false]"), "bools");
    t = on_stack(DT_U32, 1, 1, 0, (uint32_t[]){ 4294967295u });
    CLAIM(prints_as(&t, "[4294967295]"), "unsigned");
    uint32_t bits = 12345, wrong = 0;
    for (int i = 0; i < 20000; i++) {
        bits = bits * 1664525u + 1013904223u;
        float x;
        memcpy(&x, &bits, sizeof x);
        if (isnan(x)) continue;
        struct arena arena = { 0 };
        struct text out = { .arena = &arena };
        struct tensor one = on_stack(DT_F32, 0, 0, 0, &x);
        tensor_print(&out, &one);
        float y = strtof(out.data, NULL);
        wrong += memcmp(&x, &y, sizeof x) != 0;
        arena_free(&arena);
    }
    CLAIM(!wrong, "%u floats do not read back", wrong);
}

static void test_formats(void)
{
    float one = 1, two = 2;
    struct tensor a = on_stack(DT_F32, 0, 0, 0, &one), b = on_stack(DT_F32, 0, 0, 0, &two),
                  *values[2] = { &a, &b };
    static const struct {
        const char *format;
        uint32_t n;
        const char *want;
    } cases[] = {
        { "x = {}, y = {}", 2, "x = 1, y = 2" },
        { "x = {}", 2, "x = 1 2" },
        { "{} and {}", 1, "1 and {}" },
        { "", 0, "" },
        { "", 2, "1 2" },
        { "{}{}", 2, "12" },
        { "plain", 0, "plain" },
    };
    for (size_t i = 0; i < HOP_COUNT(cases); i++) {
        struct arena arena = { 0 };
        struct text out = { .arena = &arena };
        format_values(&out, cases[i].format, values, cases[i].n);
        CLAIM(!strcmp(out.data, cases[i].want), "\"%s\" gives \"%s\", expected \"%s\"", cases[i].format,
              out.data, cases[i].want);
        arena_free(&arena);
    }
}

/* ---- binding ---- */

struct bind_case {
    const char *fn;
    struct {
        int rank;
        int64_t dims[2];
    } args[3];
    const char *want; /* in the message; NULL: no error */
};
static const struct bind_case bind_cases[] = {
    { "line", { { 1, { 4 } }, { 1, { 4 } } }, NULL },
    { "line", { { 1, { 5 } }, { 1, { 4 } } }, "argument %y: dim 0 (T) is 4, but argument %x says 5" },
    { "line", { { 1, { 10 } }, { 1, { 10 } } }, "argument %x: dim T is 10, but must be in 1..9" },
    { "line", { { 1, { 0 } }, { 1, { 0 } } }, "must be in 1..9" },
    { "line", { { 2, { 4, 4 } }, { 1, { 4 } } }, "argument %x: expected f32[T], found f32[4, 4]" },
    { "pair", { { 1, { 2 } }, { 1, { 3 } }, { 1, { 5 } } }, NULL },
    { "pair",
      { { 1, { 2 } }, { 1, { 3 } }, { 1, { 6 } } },
      "argument %z: dim 0 (A + B) is 6, but must be 5" },
    { "fixed", { { 2, { 2, 4 } } }, "argument %x: dim 1 is 4, but must be 3" },
};

static void bind_case(void *which)
{
    const struct bind_case *c = which;
    const struct fn *f = module_fn(m, module_find(m, c->fn));
    struct shape_view views[3];
    int64_t symbols[4];
    for (uint32_t p = 0; p < f->n_params; p++)
        views[p] = (struct shape_view){ DT_F32, (uint8_t)c->args[p].rank, c->args[p].dims };
    bind_symbols(m, f, views, NULL, symbols);
}

static void test_binding(void)
{
    for (size_t i = 0; i < HOP_COUNT(bind_cases); i++) {
        const struct bind_case *c = &bind_cases[i];
        hop_status status = attempt(bind_case, (void *)c);
        CLAIM(c->want ? status == HOP_INVALID && strstr(hop_message(), c->want) : !status,
              "%s: \"%s\", expected \"%s\"", c->fn, status ? hop_message() : "no error",
              c->want ? c->want : "no error");
    }
}

/* ---- runs ---- */

struct job {
    const char *fn;
    uint32_t n_args, n_results;
    struct tensor *args[4], *results[4];
    uint64_t max_steps, steps;
    char printed[64];
};

static void catch_line(void *ctx, const char *line, size_t length)
{
    snprintf(((struct job *)ctx)->printed, 64, "%.*s", (int)length, line);
}

static void run_job(void *job)
{
    struct job *j = job;
    struct interp in = { .m = m, .print = catch_line, .print_ctx = j, .max_steps = j->max_steps };
    interp_run(&in, module_find(m, j->fn), j->args, NULL, j->results);
    j->steps = in.steps;
}

static void drop_results(struct job *j)
{
    for (uint32_t i = 0; i < 4; i++) {
        tensor_free(j->results[i]);
        j->results[i] = NULL;
    }
}

static void drop_job(struct job *j)
{
    drop_results(j);
    for (uint32_t i = 0; i < j->n_args; i++) tensor_free(j->args[i]);
}

static void test_runs(void)
{
    struct job j = { .fn = "line",
                     .n_args = 2,
                     .args = { floats(1, (int64_t[]){ 3 }, 1, 1), floats(1, (int64_t[]){ 3 }, 2, 0) } };
    CLAIM(!attempt(run_job, &j) && prints_as(j.results[0], "[3, 6, 9]") && j.steps == 2, "x y + x: %s",
          hop_message());
    drop_job(&j);

    j = (struct job){ .fn = "sums",
                      .n_args = 2,
                      .args = { floats(1, (int64_t[]){ 3 }, 0, 0), floats(2, (int64_t[]){ 3, 3 }, 1, 1) } };
    CLAIM(!attempt(run_job, &j) && prints_as(j.results[0], "[12, 15, 18]") &&
              prints_as(j.results[1], "[[1, 2, 3], [5, 7, 9], [12, 15, 18]]"),
          "a scan of sums: %s", hop_message());
    drop_results(&j);
    j.max_steps = 2;
    CLAIM(attempt(run_job, &j) == HOP_CANCELLED, "a limit of steps ends the run");
    drop_job(&j);

    j = (struct job){ .fn = "sums",
                      .n_args = 2,
                      .args = { floats(1, (int64_t[]){ 3 }, 4, 1), floats(2, (int64_t[]){ 0, 3 }, 0, 0) } };
    CLAIM(!attempt(run_job, &j) && prints_as(j.results[0], "[4, 5, 6]") && prints_as(j.results[1], "[]"),
          "a scan over nothing: %s", hop_message());
    drop_job(&j);

    int64_t *n;
    j = (struct job){ .fn = "count", .n_args = 1, .args = { tensor_new(DT_I64, 0, NULL) } };
    n = j.args[0]->data;
    for (*n = 0; *n < 5; *n += 4) {
        CLAIM(!attempt(run_job, &j) && prints_as(j.results[0], *n ? "[0, 1, 2, 3]" : "[]") &&
                  prints_as(j.results[1], *n ? "[0, 2, 4, 6]" : "[]"),
              "a size bound by a node: %s", hop_message());
        drop_results(&j);
    }
    *n = -1;
    CLAIM(attempt(run_job, &j) == HOP_CHECK, "a negative size fails as a check: %s", hop_message());
    drop_job(&j);

    j = (struct job){ .fn = "twice", .n_args = 1, .args = { floats(1, (int64_t[]){ 2 }, 1, 1) } };
    CLAIM(!attempt(run_job, &j) && prints_as(j.results[0], "[2, 4]") && j.results[0] == j.results[2] &&
              j.results[1] == j.args[0],
          "results may be one tensor: %s", hop_message());
    drop_job(&j);

    j = (struct job){ .fn = "positive", .n_args = 1, .args = { floats(1, (int64_t[]){ 2 }, 1, 1) } };
    CLAIM(!attempt(run_job, &j) && !strcmp(j.printed, "x = [1, 2]"), "print: \"%s\"", j.printed);
    drop_results(&j);
    ((float *)j.args[0]->data)[1] = -1;
    CLAIM(attempt(run_job, &j) == HOP_CHECK && strstr(hop_message(), "all positive"), "a failed check: %s",
          hop_message());
    drop_job(&j);
}

/* Every allocation of a run fails once: the run ends with HOP_NOMEM and leaves nothing behind. */
static void test_failing_allocations(void)
{
    struct job j = { .fn = "sums",
                     .n_args = 2,
                     .args = { floats(1, (int64_t[]){ 3 }, 0, 0), floats(2, (int64_t[]){ 3, 3 }, 1, 1) } };
    arena_free(&m->scratch);
    int64_t live = hop_live_allocations();
    hop_status status = HOP_NOMEM;
    uint64_t n = 0;
    bool clean = true;
    while (status == HOP_NOMEM && n < 1000) {
        hop_fail_allocation(++n);
        status = attempt(run_job, &j);
        hop_fail_allocation(0);
        drop_results(&j);
        arena_free(&m->scratch);
        clean &= hop_live_allocations() == live;
    }
    CLAIM(status == HOP_OK && n > 10 && clean, "after %llu failing allocations: status %d, %s",
          (unsigned long long)n, status, clean ? "nothing leaked" : "leaks");
    drop_job(&j);
}

static void read_program(void *unused)
{
    (void)unused;
    m = text_read("interp_test", program, sizeof program - 1);
}

int main(void)
{
    int64_t live = hop_live_allocations();
    test_tensors();
    test_text();
    test_formats();
    hop_status status = attempt(read_program, NULL);
    CLAIM(status == HOP_OK, "the program does not read: %s", hop_message());
    if (!status) {
        test_binding();
        test_runs();
        test_failing_allocations();
        module_free(m);
    }
    CLAIM(hop_live_allocations() == live, "nothing leaks: %lld blocks",
          (long long)(hop_live_allocations() - live));
    return tests_end();
}
