/* What loops cost beside their time: `kept` says how many bytes a step the gradient of rnn keeps; `schedules`
 * the time and the memory for temporaries of the gradient of a scan of 10,000 steps under each schedule;
 * `stacked` the time a step takes when 10^5 and 10^7 results are stacked. One JSON object a line. `loopbench
 * DIR CASE…`; DIR holds the .hop programs. */
#include "baseline.h"
#include "interp/interp.h"
#include "program.h"
#include "runtime/exe.h"

enum { STEPS = 10000, WIDTH = 64, REPEATS = 15 };

/* Bytes a step of what rows are kept of. */
static int64_t bytes_a_step(struct module *m, const struct saved_list *l)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < l->values.len; i++) {
        const struct saved_value *v = &l->values.data[i];
        if (!v->there && v->rows != HOP_NONE)
            bytes += dim_const_value(m, type_elements(m, v->type)) *
                     dtype_info[type_get(m, v->type).dtype].size;
    }
    return bytes;
}

static void kept(const char *dir)
{
    uint32_t fn;
    struct module *m = read_program(dir, "rnn.hop", "w", &fn);
    printf("{\"case\": \"kept\", \"program\": \"rnn_grad\", \"bytes_a_step_beside_results\": %lld}\n",
           (long long)bytes_a_step(m, saved_last(m)));
    module_free(m);
}

static struct tensor *ones(uint32_t rank, const int64_t *dims, float value)
{
    struct tensor *t = tensor_new(DT_F32, rank, dims);
    for (int64_t i = 0; i < t->count; i++) ((float *)t->data)[i] = value;
    return t;
}

static double run_ms(struct exe *e, struct tensor **args, uint32_t n_results)
{
    struct tensor *results[4] = { 0 };
    double times[REPEATS];
    exe_run(e, args, NULL, results, NULL);
    for (int i = 0; i < REPEATS; i++) {
        double start = now_ms();
        exe_run(e, args, NULL, results, NULL);
        times[i] = now_ms() - start;
    }
    for (uint32_t k = 0; k < n_results; k++) tensor_free(results[k]);
    return median(times, REPEATS);
}

static void one_schedule(const char *schedule)
{
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "hop 1\nfn @main(%%h: f32[%d], %%xs: f32[T]) -> (f32[]) {\n  %%c = scan %s carry(%%s = "
                     "%%h) over(%%x in %%xs) {\n    %%p = broadcast {dims = [%d], at = []} (%%x)\n"
                     "    %%a = mul(%%s, %%p)\n    %%n = sin(%%a)\n    next(%%n)\n  }\n  %%u = sum(%%c)\n  "
                     "return %%u\n}\n",
                     WIDTH, schedule, WIDTH);
    struct module *m = text_read("schedule", text, (size_t)n);
    struct exe *e = exe_compile(m, main_or_gradient(m, "h"), &(struct compile_options){ .threads = 0 }, NULL);
    struct tensor *args[2] = { ones(1, (int64_t[]){ WIDTH }, 0.5f), ones(1, (int64_t[]){ STEPS }, 1.01f) };
    size_t bytes = exe_workspace(e, args, NULL);
    printf("{\"case\": \"schedules\", \"schedule\": \"%s\", \"steps\": %d, \"carry_bytes\": %d, \"hop_ms\": "
           "%.3f, \"workspace_bytes\": %zu}\n",
           schedule, STEPS, WIDTH * 4, run_ms(e, args, 1), bytes);
    fflush(stdout);
    tensor_free(args[0]), tensor_free(args[1]);
    exe_free(e);
    module_free(m);
}

static void schedules(const char *dir)
{
    static const char *const all[] = { "{schedule = none}",
                                       "{schedule = recompute}",
                                       "{every = [50]}",
                                       "{every = [500, 20]}",
                                       "{schedule = sqrt}",
                                       "{schedule = binomial, snapshots = 5}",
                                       "{schedule = binomial, snapshots = 20}",
                                       "{schedule = binomial, snapshots = 100}" };
    (void)dir;
    for (size_t i = 0; i < HOP_COUNT(all); i++) one_schedule(all[i]);
}

static void stacked(const char *dir)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/scan1e7.hop", dir);
    struct module *m = text_read_file(path);
    struct exe *e = exe_compile(m, module_find(m, "main"), &(struct compile_options){ .threads = 0 }, NULL);
    double ns[2], c_ns[2];
    for (int large = 0; large < 2; large++) {
        int64_t steps = large ? 10000000 : 100000;
        struct tensor *args[2] = { ones(0, NULL, 0), ones(1, &steps, 1) };
        ns[large] = run_ms(e, args, 2) * 1e6 / (double)steps;
        double times[REPEATS];
        float *out = hop_malloc((size_t)steps * sizeof *out);
        for (int i = 0; i < REPEATS; i++) {
            double start = now_ms();
            baseline_scan(out, args[1]->data, (size_t)steps);
            times[i] = now_ms() - start;
        }
        hop_free(out);
        c_ns[large] = median(times, REPEATS) * 1e6 / (double)steps;
        tensor_free(args[0]), tensor_free(args[1]);
    }
    printf("{\"case\": \"stacked\", \"ns_a_step_1e5\": %.3f, \"ns_a_step_1e7\": %.3f, \"ratio\": %.3f, "
           "\"c_ns_a_step_1e5\": %.3f, \"c_ns_a_step_1e7\": %.3f}\n",
           ns[0], ns[1], ns[1] / ns[0], c_ns[0], c_ns[1]);
    exe_free(e);
    module_free(m);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *dir);
    } cases[] = { { "kept", kept }, { "schedules", schedules }, { "stacked", stacked } };
    if (argc < 2) return fprintf(stderr, "usage: loopbench DIR [CASE…]\n"), 2;
    struct hop_catch c;
    if (HOP_TRY(c)) {
        for (size_t k = 0; k < HOP_COUNT(cases); k++) {
            bool wanted = argc == 2;
            for (int i = 2; i < argc; i++) wanted |= !strcmp(argv[i], cases[k].name);
            if (wanted) cases[k].run(argv[1]);
        }
        hop_catch_end(&c);
        return 0;
    }
    fprintf(stderr, "loopbench: %s\n", hop_message());
    return 1;
}
