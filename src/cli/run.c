/* hop run, check, show, grad, jvp, vmap: reading programs, transforming them, running them, printing them. */
#include "cli/cli.h"
#include "transform/transform.h"
#include "ops/operators.h"
#include "dist/process.h"
#include "runtime/profile.h"
#include "runtime/ranks.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* ---- running ---- */

static void print_line(void *ctx, const char *line, size_t length)
{
    HOP_UNUSED(ctx);
    fwrite(line, 1, length, stdout);
    if (!length || line[length - 1] != '\n') putchar('\n');
}

static void skip_line(void *ctx, const char *line, size_t length)
{
    HOP_UNUSED(ctx);
    HOP_UNUSED(line);
    HOP_UNUSED(length);
}

/* There is no function behind the names of callbacks here: what each would get is shown. */
static void print_call(void *ctx, const char *name, struct tensor *const *args, uint32_t n)
{
    struct arena arena = { 0 };
    struct text line = { .arena = &arena };
    hop_cleanup_push(arena_free, &arena);
    callback_text(&line, name, args, n);
    print_line(ctx, line.data, line.len);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}
static void skip_call(void *ctx, const char *name, struct tensor *const *args, uint32_t n)
{
    HOP_UNUSED(ctx);
    HOP_UNUSED(name);
    HOP_UNUSED(args);
    HOP_UNUSED(n);
}

struct job {
    struct module *m;
    uint32_t fn;
    struct tensor *const *args;
    const int64_t *dims;
    struct tensor **results;
    struct exe *exe; /* NULL: interpreted */
};

static void job_once(const struct job *j, bool print)
{
    if (j->exe) {
        exe_run(j->exe, j->args, j->dims, j->results,
                &(struct exe_call){ .print = print ? print_line : skip_line,
                                    .callback = print ? print_call : skip_call });
    } else {
        struct interp in = { .m = j->m,
                             .ranks = &interp_on_ranks,
                             .print = print ? print_line : skip_line,
                             .callback = print ? print_call : skip_call };
        interp_run(&in, j->fn, j->args, j->dims, j->results);
    }
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Repeats the run for up to a fifth of a second; results go to tensors of their own. */
static void report_time(struct options *o, const struct job *j, double compile_ms, double first_ms)
{
    enum { MOST = 1000 };
    uint32_t n_results = module_fn(j->m, j->fn)->n_results, n = 0;
    double times[MOST], total = 0;
    while (n < MOST && total < 200) {
        struct job again = *j;
        again.results = ARENA_ZNEW(&o->bag.arena, struct tensor *, n_results);
        double start = now_ms();
        job_once(&again, false);
        times[n] = now_ms() - start;
        total += times[n++];
        for (uint32_t i = 0; i < n_results; i++) tensor_free(again.results[i]);
    }
    qsort(times, n, sizeof *times, compare_double);
    if (j->exe) fprintf(stderr, "compile %.3f ms, ", compile_ms);
    fprintf(stderr, "first run %.4f ms, median of %u more %.4f ms, fastest %.4f ms\n", first_ms, n,
            times[n / 2], times[0]);
}

static void print_results(struct options *o, const struct module *m, const struct fn *f,
                          const struct outputs *files, struct tensor *const *results)
{
    struct text out = { .arena = &o->bag.arena };
    bool json = option_on(o, O_JSON);
    if (json) text_str(&out, "{\"results\": [");
    for (uint32_t r = 0; r < f->n_results; r++) {
        const char *name = result_name(&o->bag.arena, m, f, r);
        if (json) {
            text_str(&out, r ? ",\n  {\"name\": " : "\n  {\"name\": ");
            json_string(&out, name);
            if (fn_updated(f, r) != HOP_NONE) text_str(&out, ", \"new\": true");
            text_str(&out, ", \"type\": \"");
            tensor_type_text(&out, results[r]);
            text_str(&out, files->files[r] ? "\", \"file\": " : "\", \"value\": ");
            if (files->files[r]) json_string(&out, files->files[r]);
            else tensor_json(&out, results[r]);
            text_str(&out, "}");
        } else if (!files->files[r]) {
            text_add(&out, "%s%%%s: ", fn_updated(f, r) != HOP_NONE ? "new " : "", name);
            tensor_type_text(&out, results[r]);
            text_str(&out, " = ");
            tensor_print(&out, results[r]);
            text_str(&out, "\n");
        }
    }
    if (json) text_str(&out, "]}\n");
    if (out.len) fwrite(out.data, 1, out.len, stdout);
}

static bool wants_compiled(const struct options *o)
{
    if (option_on(o, O_INTERPRET)) return false;
    if (o->backend) return true;
    if (exe_promising() || exe_available()) return true; /* a program in the cache needs no compiler loaded */
    if (option_on(o, O_JIT)) hop_throw(HOP_UNAVAILABLE, "cannot compile: %s", hop_message());
    fprintf(stderr, "hop: interpreting: %s\n", hop_message());
    return false;
}

/* NULL, said on standard error: the back end is there but does not load. */
static struct exe *compile_or_not(const struct options *o, struct module *m, uint32_t fn,
                                  const struct compile_options *how)
{
    struct hop_catch caught;
    struct exe *volatile e = NULL;
    if (HOP_TRY(caught)) {
        e = exe_compile(m, fn, how, NULL);
        hop_catch_end(&caught);
        return e;
    }
    hop_status status = hop_caught();
    if (status != HOP_UNAVAILABLE || option_on(o, O_JIT) || o->backend) hop_rethrow(status);
    fprintf(stderr, "hop: interpreting: %s\n", hop_message());
    return NULL;
}

/* ---- profiles ---- */

/* As --profile says, else as the file's name ends, else a table. */
static const char *profile_form(const struct options *o)
{
    static const char *const forms[] = { "table", "json", "svg", "folded" };
    const char *dot = o->profile_out ? strrchr(o->profile_out, '.') : NULL;
    const char *asked = o->profile && *o->profile ? o->profile : NULL;
    for (uint32_t i = 0; i < HOP_COUNT(forms); i++)
        if (asked ? !strcmp(asked, forms[i]) : dot && !strcmp(dot + 1, forms[i])) return forms[i];
    if (asked)
        hop_throw(HOP_INVALID, "--profile: expected table, json, svg or folded, found '%.100s'", asked);
    return "table";
}

static bool is_profiled(const struct options *o) { return o->profile || o->profile_out; }

/* Goes on with the run for half a second, results in tensors of their own, and says what was seen. */
static void report_profile(struct options *o, const struct job *j, struct profile *p, double first_ms)
{
    static const double LEAST_MS = 500;
    uint32_t n_results = module_fn(j->m, j->fn)->n_results;
    struct tensor **results = ARENA_ZNEW(&o->bag.arena, struct tensor *, n_results);
    double end = now_ms() + LEAST_MS - first_ms;
    while (now_ms() < end) {
        struct job again = *j;
        again.results = results;
        job_once(&again, false);
        for (uint32_t i = 0; i < n_results; i++) {
            tensor_free(results[i]);
            results[i] = NULL;
        }
    }
    profile_stop(p);
    struct text out = { .arena = &o->bag.arena };
    profile_text(p, profile_form(o), &out);
    FILE *file = o->profile_out ? fopen(o->profile_out, "w") : stderr;
    bool written = file && fwrite(out.data, 1, out.len, file) == out.len;
    if (file && o->profile_out) written &= !fclose(file);
    if (!written)
        hop_throw(HOP_IO, "%s: cannot be written: %s", o->profile_out ? o->profile_out : "standard error",
                  strerror(errno));
}

/* How many ranks is what the mesh says, and what is said here must be that. */
static void check_ranks(const struct options *o, struct module *m, uint32_t fn)
{
    if (!option_on(o, O_RANKS)) return;
    if (!module_fn(m, fn)->global)
        hop_throw(HOP_INVALID, "--ranks: @%s is no program over a mesh",
                  module_text(m, fn_label(module_fn(m, fn))));
    const struct mesh *mesh = &m->meshes.data[localize(m, fn)->mesh];
    struct text axes = { .arena = &m->scratch };
    mesh_print(m, mesh, &axes);
    if ((int64_t)o->ranks != mesh_size(mesh))
        hop_throw(HOP_INVALID, "--ranks: expected %lld, as many as the mesh (%s) has, found %u",
                  (long long)mesh_size(mesh), axes.data, o->ranks);
}

/* One of several processes that an mpirun has started is a rank of a job. */
static void join_job(struct module *m, uint32_t fn)
{
    struct rank *mine;
    if (!module_fn(m, fn)->global || !dist_under_mpi()) return;
    hop_status status = dist_mpi(&mine);
    if (status) hop_rethrow(status);
    dist_process_set(mine);
}
/* Of processes that run one program, one says what came of it. */
static bool is_speaker(void) { return !dist_process() || !dist_process()->number; }

static int run_function(struct options *o, struct module *m, uint32_t fn)
{
    check_ranks(o, m, fn);
    join_job(m, fn);
    if (option_on(o, O_DEBUG_NANS)) fn = debug_nans_function(m, fn, true, true);
    const struct fn *f = module_fn(m, fn);
    struct job j = { .m = m,
                     .fn = fn,
                     .args = program_inputs(o, m, f),
                     .dims = program_dims(o, m, f),
                     .results = ARENA_ZNEW(&o->bag.arena, struct tensor *, f->n_results) };
    struct outputs files = program_outputs(o, m, f);
    double compile_ms = 0;
    if (wants_compiled(o)) {
        struct compile_options options = { .passes = { .without = o->without,
                                                       .strict = option_on(o, O_STRICT) },
                                           .threads = o->threads,
                                           .backend = o->backend,
                                           .no_cache = option_on(o, O_NO_CACHE),
                                           .soon = true,
                                           .constant = program_constants(o, m, f) };
        options.passes.profile = is_profiled(o);
        if (is_profiled(o)) profile_form(o);
        double start = now_ms();
        j.exe = compile_or_not(o, m, fn, &options);
        compile_ms = now_ms() - start;
        if (j.exe) hop_cleanup_push(exe_free, j.exe);
    }
    struct profile *profile = NULL;
    if (is_profiled(o) && !j.exe) hop_throw(HOP_UNAVAILABLE, "only compiled programs have profiles");
    if (is_profiled(o)) {
        profile = profile_start(j.exe, 0);
        hop_cleanup_push(profile_free, profile);
    }
    double start = now_ms();
    job_once(&j, true);
    double first_ms = now_ms() - start;
    for (uint32_t r = 0; r < f->n_results; r++) {
        bag_keep(&o->bag, j.results[r]);
        if (j.results[r]->parts) j.results[r] = bag_keep(&o->bag, mesh_collect(j.results[r]));
    }
    if (is_speaker()) {
        outputs_write(&files, j.results, f->n_results);
        print_results(o, m, f, &files, j.results);
    }
    if (option_on(o, O_TIME)) report_time(o, &j, compile_ms, first_ms);
    if (profile) {
        report_profile(o, &j, profile, first_ms);
        hop_cleanup_pop(profile);
        profile_free(profile);
    }
    if (j.exe) {
        hop_cleanup_pop(j.exe);
        exe_free(j.exe);
    }
    return EXIT_OK;
}

int command_run(struct options *o)
{
    struct module *m = program_load(o->files.data[0]);
    hop_cleanup_push(module_free, m);
    int code = run_function(o, m, program_select(m, o->fn));
    hop_cleanup_pop(m);
    module_free(m);
    return code;
}

/* ---- reading and printing ---- */

/* NULL, or the first error of a file. */
static const char *read_error(const char *path)
{
    struct hop_catch caught;
    if (!HOP_TRY(caught)) return hop_message();
    module_free(program_load(path));
    hop_catch_end(&caught);
    return NULL;
}

int command_check(struct options *o)
{
    int code = EXIT_OK;
    struct text json = { .arena = &o->bag.arena };
    for (uint32_t i = 0; i < o->files.len; i++) {
        const char *path = o->files.data[i], *error = read_error(path);
        if (error) code = EXIT_BAD;
        if (option_on(o, O_JSON)) {
            text_str(&json, i ? ",\n  {\"file\": " : "[\n  {\"file\": ");
            json_string(&json, path);
            text_add(&json, ", \"ok\": %s", error ? "false, \"error\": " : "true");
            if (error) json_string(&json, error);
            text_str(&json, "}");
        } else if (error) {
            fprintf(stderr, "hop: %s\n", error);
        } else {
            printf("%s: ok\n", path);
        }
    }
    if (json.len) printf("%s]\n", json.data);
    return code;
}

static bool passes_wanted(const struct options *o)
{
    return option_on(o, O_SIMPLIFY) || option_on(o, O_AFTER);
}

static void print_function(struct options *o, struct module *m, uint32_t fn)
{
    struct text out = { .arena = &o->bag.arena };
    if (passes_wanted(o) && fn != HOP_NONE) {
        struct pass_options passes = { .without = o->without,
                                       .strict = option_on(o, O_STRICT),
                                       .after = option_on(o, O_AFTER) ? &o->after : NULL };
        fn = simplify(m, fn, &passes);
    }
    text_print(m, fn, option_on(o, O_LOCATIONS) ? TEXT_LOCATIONS : 0, &out);
    if (out.len) fwrite(out.data, 1, out.len, stdout);
}

int command_show(struct options *o)
{
    struct module *m = program_load(o->files.data[0]);
    hop_cleanup_push(module_free, m);
    bool one = o->fn || passes_wanted(o);
    print_function(o, m, one ? program_select(m, o->fn) : HOP_NONE);
    hop_cleanup_pop(m);
    module_free(m);
    return EXIT_OK;
}

/* Prints or runs what a transform makes of the chosen function. */
static int transformed(struct options *o,
                       uint32_t (*transform)(struct options *o, struct module *m, uint32_t fn))
{
    struct module *m = program_load(o->files.data[0]);
    hop_cleanup_push(module_free, m);
    uint32_t fn = transform(o, m, program_select(m, o->fn));
    int code = EXIT_OK;
    if (option_on(o, O_RUN)) code = run_function(o, m, fn);
    else print_function(o, m, fn);
    hop_cleanup_pop(m);
    module_free(m);
    return code;
}

int command_grad(struct options *o) { return transformed(o, program_grad); }
int command_probes(struct options *o) { return transformed(o, program_probes); }
int command_jvp(struct options *o) { return transformed(o, program_jvp); }
int command_vmap(struct options *o) { return transformed(o, program_vmap); }
