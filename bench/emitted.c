/* Emitted C beside native code: each program is compiled by hop, for one thread, and emitted as C, which
 * every compiler that is named makes a library of. All of them run in turns on the same arrays, and one JSON
 * object a program says the medians of the processor's time, the ratios C / hop and how far results are
 * apart. `emitted DIR
 * [--cc COMMAND]… [CASE…]`; DIR holds the .hop programs, COMMAND is a compiler with its options. */
#include "emit/c99.h"
#include "program.h"
#include "runtime/exe.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

enum { MAX_COMPILERS = MAX_SIDES - 1, MAX_REPEATS = 64, BUDGET_MS = 1200, LONGEST = 4096 };

struct program {
    const char *name, *file;
    const char *wrt; /* parameters to differentiate by, NULL: forward */
    struct range range;
};
static const struct program programs[] = {
    { "rnn", "rnn.hop", NULL, { -0.2, 0.2, 0, 1000 } },
    { "rnn_grad", "rnn.hop", "w", { -0.2, 0.2, 0, 1000 } },
    { "softmax", "softmax.hop", NULL, { -4, 4 } },
    { "columns", "columns.hop", NULL, { -0.5, 0.5 } },
    { "matmul1024", "matmul1024.hop", NULL, { -0.5, 0.5 } },
    { "attention", "attention.hop", NULL, { -2, 2 } },
    { "nbody", "nbody.hop", NULL, { 0, 1.0 / 32 } },
    { "particles", "particles.hop", NULL, { -0.5, 0.5, 0, 1000 } },
    { "neurons", "neurons.hop", NULL, { -0.5, 0.5 } },
    { "carry60", "carry60.hop", NULL, { -0.25, 0.25 } },
    { "scan1e7", "scan1e7.hop", NULL, { -0.5, 0.5, 0, 10000000 } },
    { "elem16M", "elem16M.hop", NULL, { -0.5, 0.5 } },
    { "cond", "cond.hop", NULL, { -0.5, 0.5, 1 } },
    { "while100k", "while100k.hop", NULL, { -0.5, 0.5, 100000 } },
    { "assoc_scan", "assoc_scan.hop", NULL, { 0.2, 1, 0, 65536 } },
    { "mamba", "mamba.hop", NULL, { -0.1, 0.1 } },
    { "mamba_sample", "mamba_sample.hop", NULL, { -0.1, 0.1 } },
    { "encoder", "encoder.hop", NULL, { -0.1, 0.1 } },
    { "viterbi", "viterbi.hop", NULL, { -3, 3 } },
    { "adaptive", "adaptive.hop", NULL, { 0.5, 4 } },
    { "argmax", "argmax.hop", NULL, { -1, 1 } },
    { "spread", "spread.hop", NULL, { -2, 2 } },
    { "powers", "powers.hop", NULL, { 0.5, 1.5 } },
    { "mean_field", "mean_field.hop", NULL, { -1, 1 } },
    { "branches60", "branches60.hop", NULL, { -0.25, 0.25 } },
    { "skew", "skew.hop", NULL, { 8, 30 } },
};

/* ---- the C side ---- */

struct compiled {
    void *library;
    c99_adapter *call;
    c99_adapter_bytes *bytes;
};

static struct compiled build_c(struct arena *a, const char *compiler, const char *folder, int number)
{
    struct compiled c;
    const char *out = arena_printf(a, "%s/unit%d.so", folder, number);
    const char *command = arena_printf(a, "%s -ffp-contract=off -fPIC -shared %s/unit.c -o %s -lm", compiler,
                                       folder, out);
    if (system(command)) hop_throw(HOP_IO, "this failed: %s", command);
    c.library = dlopen(out, RTLD_NOW | RTLD_LOCAL);
    if (!c.library) hop_throw(HOP_IO, "%s", dlerror());
    *(void **)&c.call = dlsym(c.library, "program_call");
    *(void **)&c.bytes = dlsym(c.library, "program_bytes");
    if (!c.call || !c.bytes) hop_throw(HOP_INTERNAL, "the library has no adapter");
    unlink(out);
    return c;
}

static const struct fn *write_c(struct arena *a, struct module *m, uint32_t fn, const char *folder)
{
    struct c99_unit unit;
    struct text source = { .arena = a };
    char path[LONGEST];
    c99_begin(&unit, a, &c99_own_dialect);
    struct lp *lowered = c99_lower(m, fn, &(struct pass_options){ 0 });
    c99_add(&unit, lowered,
            &(struct c99_options){ .name = "program", .original = module_fn(m, fn), .adapter = true });
    const struct fn *entry = lowered->entry;
    lp_free(lowered);
    c99_finish(&unit, NULL, &source, NULL);
    snprintf(path, sizeof path, "%s/unit.c", folder);
    FILE *f = fopen(path, "wb");
    if (!f) hop_throw(HOP_IO, "%s cannot be written", path);
    fwrite(source.data, 1, source.len, f);
    fclose(f);
    return entry;
}

/* ---- one program ---- */

/* Of floats the largest difference beside the largest element; of others 0 or 1. */
static double apart(const struct tensor *x, const struct tensor *y)
{
    double worst = 0, largest = 1e-30;
    size_t bytes = (size_t)x->count * dtype_info[x->dtype].size;
    if (x->dtype != DT_F32) return memcmp(x->data, y->data, bytes) ? 1 : 0;
    for (int64_t i = 0; i < x->count; i++) {
        double a = ((const float *)x->data)[i], b = ((const float *)y->data)[i];
        worst = fabs(a - b) > worst || isnan(a) != isnan(b) ? fabs(a - b) : worst;
        largest = fmax(largest, fabs(a));
    }
    return worst / largest;
}

struct sides { /* what the two sides run */
    struct exe *exe;
    struct tensor *args[MAX_ARGS], *results[MAX_RESULTS], *c_results[MAX_RESULTS];
    const void *data[MAX_ARGS];
    void *memory[MAX_RESULTS], *workspace;
    int64_t symbols[MAX_RANK];
    uint32_t n_results;
};
struct c_side {
    struct sides *sides;
    const struct compiled *compiled;
};

static void call_hop(void *given)
{
    struct sides *s = given;
    exe_run(s->exe, s->args, NULL, s->results, NULL);
}
static void call_c(void *given)
{
    const struct c_side *c = given;
    struct sides *s = c->sides;
    int status = c->compiled->call(s->symbols, s->data, s->memory, s->workspace, NULL);
    if (status) hop_throw(HOP_INTERNAL, "emitted C ended with status %d", status);
}

static void measure(const struct program *p, struct sides *s, const struct compiled *c, int n_compilers,
                    const char *const *compilers)
{
    double error[MAX_COMPILERS], medians[MAX_SIDES] = { 0 };
    struct side sides[MAX_SIDES] = { { call_hop, s } };
    struct c_side c_sides[MAX_COMPILERS];
    call_hop(s);
    for (int k = 0; k < n_compilers; k++) {
        c_sides[k] = (struct c_side){ s, &c[k] };
        sides[k + 1] = (struct side){ call_c, &c_sides[k] };
        call_c(&c_sides[k]);
        error[k] = 0;
        for (uint32_t r = 0; r < s->n_results; r++)
            error[k] = fmax(error[k], apart(s->results[r], s->c_results[r]));
    }
    double one = timed(worked_ms, &sides[0], 1);
    uint32_t calls = one < 0.2 ? (uint32_t)(0.4 / fmax(one, 1e-4)) + 1 : 1;
    time_in_turns(worked_ms, sides, (uint32_t)n_compilers + 1, MAX_REPEATS, calls, BUDGET_MS, medians);
    printf("{\"case\": \"%s\", \"hop_ms\": %.5f", p->name, medians[0]);
    for (int k = 0; k < n_compilers; k++)
        printf(", \"%s\": {\"ms\": %.5f, \"ratio\": %.2f, \"apart\": %.1e}", compilers[k], medians[k + 1],
               medians[k + 1] / medians[0], error[k]);
    printf("}\n");
    fflush(stdout);
}

static void run_program(const struct program *p, const char *dir, const char *folder, int n_compilers,
                        const char *const *compilers)
{
    struct arena arena = { 0 };
    struct sides s = { .n_results = 0 };
    struct compiled c[MAX_COMPILERS];
    uint32_t fn;
    struct module *m = read_program(dir, p->file, p->wrt, &fn);
    s.exe = exe_compile(m, fn, &(struct compile_options){ .threads = 1 }, NULL);
    const struct fn *f = write_c(&arena, m, fn, folder);
    for (int k = 0; k < n_compilers; k++) c[k] = build_c(&arena, compilers[k], folder, k);
    for (uint32_t d = 0; d < MAX_RANK; d++) s.symbols[d] = p->range.size;
    for (uint32_t k = 0; k < f->n_params; k++) {
        s.args[k] = draw(&p->range, m, type_get(m, value_type(f, k)));
        s.data[k] = s.args[k]->data;
    }
    s.n_results = f->n_results;
    for (uint32_t r = 0; r < f->n_results; r++) {
        s.c_results[r] = draw(&p->range, m, type_get(m, value_type(f, f->results[r])));
        s.memory[r] = s.c_results[r]->data;
    }
    if (n_compilers) s.workspace = hop_calloc(1, c[0].bytes(s.symbols) + 64);
    measure(p, &s, c, n_compilers, compilers);
    for (uint32_t k = 0; k < f->n_params; k++) tensor_free(s.args[k]);
    for (uint32_t r = 0; r < f->n_results; r++) {
        tensor_free(s.results[r]);
        tensor_free(s.c_results[r]);
    }
    for (int k = 0; k < n_compilers; k++) dlclose(c[k].library);
    hop_free(s.workspace);
    exe_free(s.exe);
    module_free(m);
    arena_free(&arena);
}

int main(int argc, char **argv)
{
    const char *compilers[MAX_COMPILERS];
    int n_compilers = 0, first = 2;
    char folder[] = "/tmp/hop-emitted-XXXXXX", path[64];
    if (argc < 2) return fprintf(stderr, "usage: emitted DIR [--cc COMMAND]… [CASE…]\n"), 2;
    for (; first + 1 < argc && !strcmp(argv[first], "--cc"); first += 2)
        if (n_compilers < MAX_COMPILERS) compilers[n_compilers++] = argv[first + 1];
    struct hop_catch c;
    if (HOP_TRY(c)) {
        if (!mkdtemp(folder)) hop_throw(HOP_IO, "%s cannot be made", folder);
        for (size_t k = 0; k < HOP_COUNT(programs); k++) {
            bool wanted = argc == first;
            for (int i = first; i < argc; i++) wanted |= !strcmp(argv[i], programs[k].name);
            noise_state = 88172645463325252u;
            if (wanted) run_program(&programs[k], argv[1], folder, n_compilers, compilers);
        }
        snprintf(path, sizeof path, "%s/unit.c", folder);
        unlink(path);
        rmdir(folder);
        hop_catch_end(&c);
        return 0;
    }
    fprintf(stderr, "emitted: %s\n", hop_message());
    return 1;
}
