/* Emitted C beside native code: each program is compiled by hop, for one thread, and emitted as C, which
 * every compiler that is named makes a library of. All of them run in turns on the same arrays, and one JSON
 * object a program says the medians of the processor's time, the ratios C / hop and how far results are
 * apart. `emitted DIR
 * [--cc COMMAND]… [CASE…]`; DIR holds the .hop programs, COMMAND is a compiler with its options. */
#include "clock.h"
#include "emit/c99.h"
#include "ir/tensor.h"
#include "ir/text.h"
#include "runtime/exe.h"
#include "transform/transform.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

enum { MAX_COMPILERS = 6, MAX_REPEATS = 64, MAX_ARGS = 24, MAX_RESULTS = 8, LONGEST = 4096 };

struct program {
    const char *name, *file;
    const char *wrt;    /* parameter to differentiate by, NULL: forward */
    int64_t size;       /* of every dim that is a symbol */
    double least, most; /* elements of its arrays */
    int64_t whole;      /* its integers and bools */
};
static const struct program programs[] = {
    { "rnn", "rnn.hop", NULL, 1000, -0.2, 0.2, 0 },
    { "rnn_grad", "rnn.hop", "w", 1000, -0.2, 0.2, 0 },
    { "softmax", "softmax.hop", NULL, 0, -4, 4, 0 },
    { "columns", "columns.hop", NULL, 0, -0.5, 0.5, 0 },
    { "matmul1024", "matmul1024.hop", NULL, 0, -0.5, 0.5, 0 },
    { "attention", "attention.hop", NULL, 0, -2, 2, 0 },
    { "nbody", "nbody.hop", NULL, 0, 0, 1.0 / 32, 0 },
    { "particles", "particles.hop", NULL, 1000, -0.5, 0.5, 0 },
    { "neurons", "neurons.hop", NULL, 0, -0.5, 0.5, 0 },
    { "carry60", "carry60.hop", NULL, 0, -0.25, 0.25, 0 },
    { "scan1e7", "scan1e7.hop", NULL, 10000000, -0.5, 0.5, 0 },
    { "elem16M", "elem16M.hop", NULL, 0, -0.5, 0.5, 0 },
    { "cond", "cond.hop", NULL, 0, -0.5, 0.5, 1 },
    { "while100k", "while100k.hop", NULL, 0, -0.5, 0.5, 100000 },
    { "assoc_scan", "assoc_scan.hop", NULL, 65536, 0.2, 1, 0 },
    { "mamba", "mamba.hop", NULL, 0, -0.1, 0.1, 0 },
    { "mamba_sample", "mamba_sample.hop", NULL, 0, -0.1, 0.1, 0 },
    { "encoder", "encoder.hop", NULL, 0, -0.1, 0.1, 0 },
    { "viterbi", "viterbi.hop", NULL, 0, -3, 3, 0 },
    { "adaptive", "adaptive.hop", NULL, 0, 0.5, 4, 0 },
    { "argmax", "argmax.hop", NULL, 0, -1, 1, 0 },
    { "spread", "spread.hop", NULL, 0, -2, 2, 0 },
    { "powers", "powers.hop", NULL, 0, 0.5, 1.5, 0 },
    { "mean_field", "mean_field.hop", NULL, 0, -1, 1, 0 },
    { "branches60", "branches60.hop", NULL, 0, -0.25, 0.25, 0 },
    { "skew", "skew.hop", NULL, 0, 8, 30, 0 },
};

/* ---- arguments ---- */

static uint64_t noise_state;
static double noise(void)
{
    noise_state ^= noise_state << 13, noise_state ^= noise_state >> 7, noise_state ^= noise_state << 17;
    return (double)(noise_state >> 11) / 9007199254740992.0;
}

static struct tensor *argument(const struct program *p, struct type t, const int64_t *symbols,
                               const struct module *m)
{
    int64_t dims[MAX_RANK];
    for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_eval(m, t.dims[d], symbols);
    struct tensor *x = tensor_new((enum dtype)t.dtype, t.rank, dims);
    for (int64_t i = 0; i < x->count; i++) {
        double real = p->least + (p->most - p->least) * noise();
        switch ((enum dtype)t.dtype) {
        case DT_F32: ((float *)x->data)[i] = (float)real; break;
        case DT_F64: ((double *)x->data)[i] = real; break;
        case DT_I64: ((int64_t *)x->data)[i] = p->whole; break;
        case DT_I32: ((int32_t *)x->data)[i] = (int32_t)p->whole; break;
        case DT_BOOL: ((uint8_t *)x->data)[i] = p->whole != 0; break;
        default: hop_throw(HOP_INVALID, "%s: no arguments of type %s", p->name, dtype_info[t.dtype].name);
        }
    }
    return x;
}

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

static void call_hop(struct sides *s) { exe_run(s->exe, s->args, NULL, s->results, NULL); }
static void call_c(struct sides *s, const struct compiled *c)
{
    int status = c->call(s->symbols, s->data, s->memory, s->workspace, NULL);
    if (status) hop_throw(HOP_INTERNAL, "emitted C ended with status %d", status);
}

static double timed(struct sides *s, const struct compiled *c, uint32_t calls)
{
    double start = worked_ms();
    for (uint32_t k = 0; k < calls; k++) {
        if (c) call_c(s, c);
        else call_hop(s);
    }
    return (worked_ms() - start) / calls;
}

static void measure(const struct program *p, struct sides *s, const struct compiled *c, int n_compilers,
                    const char *const *compilers)
{
    double times[MAX_COMPILERS + 1][MAX_REPEATS], error[MAX_COMPILERS], budget = 0;
    call_hop(s);
    for (int k = 0; k < n_compilers; k++) {
        call_c(s, &c[k]);
        error[k] = 0;
        for (uint32_t r = 0; r < s->n_results; r++)
            error[k] = fmax(error[k], apart(s->results[r], s->c_results[r]));
    }
    double one = timed(s, NULL, 1);
    uint32_t calls = one < 0.2 ? (uint32_t)(0.4 / fmax(one, 1e-4)) + 1 : 1, n = 0;
    for (; n < MAX_REPEATS && (n < 5 || budget < 1200); n++) {
        double start = now_ms();
        for (int k = -1; k < n_compilers; k++) times[k + 1][n] = timed(s, k < 0 ? NULL : &c[k], calls);
        budget += now_ms() - start;
    }
    double hop = median(times[0], n);
    printf("{\"case\": \"%s\", \"hop_ms\": %.5f", p->name, hop);
    for (int k = 0; k < n_compilers; k++) {
        double ms = median(times[k + 1], n);
        printf(", \"%s\": {\"ms\": %.5f, \"ratio\": %.2f, \"apart\": %.1e}", compilers[k], ms, ms / hop,
               error[k]);
    }
    printf("}\n");
    fflush(stdout);
}

static void run_program(const struct program *p, const char *dir, const char *folder, int n_compilers,
                        const char *const *compilers)
{
    char path[LONGEST];
    struct arena arena = { 0 };
    struct sides s = { .n_results = 0 };
    struct compiled c[MAX_COMPILERS];
    snprintf(path, sizeof path, "%s/%s", dir, p->file);
    struct module *m = text_read_file(path);
    uint32_t fn = module_find(m, "main");
    if (p->wrt) {
        bool wrt[MAX_ARGS] = { false };
        const struct fn *f = module_fn(m, fn);
        for (uint32_t k = 0; k < f->n_params; k++)
            wrt[k] = !strcmp(module_text(m, f->values[k].name), p->wrt);
        fn = grad_function(m, fn, wrt, false);
    }
    s.exe = exe_compile(m, fn, &(struct compile_options){ .threads = 1 }, NULL);
    const struct fn *f = write_c(&arena, m, fn, folder);
    for (int k = 0; k < n_compilers; k++) c[k] = build_c(&arena, compilers[k], folder, k);
    for (uint32_t d = 0; d < MAX_RANK; d++) s.symbols[d] = p->size;
    for (uint32_t k = 0; k < f->n_params; k++) {
        s.args[k] = argument(p, type_get(m, value_type(f, k)), s.symbols, m);
        s.data[k] = s.args[k]->data;
    }
    s.n_results = f->n_results;
    for (uint32_t r = 0; r < f->n_results; r++) {
        s.c_results[r] = argument(p, type_get(m, value_type(f, f->results[r])), s.symbols, m);
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
