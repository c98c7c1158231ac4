/* Walks the operator table and checks every cell of every row on the row's samples: text, infer and eval, vjp
 * and jvp against each other and against differences, batch against a loop over lanes, lower against eval. A
 * cell that is claimed but that no sample exercises is a failure. A composite row claims the cells of its
 * expansion; one over distributed arrays those of what each rank does.
 *
 * table_test [--seed N] [ROW…]; prints failures with the seed and closes with `N passed, M failed`. */
#include "check/check.h"

#include "ir/text.h"
#include "transform/localize.h"
#include "transform/transform.h"

#include <errno.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CELL_TEXT, CELL_INFER, CELL_EVAL, CELL_VJP, CELL_JVP, CELL_BATCH, CELL_LOWER, CELLS };
static const char *const cell_names[CELLS] = { "text", "infer", "eval", "vjp", "jvp", "batch", "lower" };

/* One row being checked. */
struct walk {
    const struct op_row *row;
    enum op op;
    uint32_t sample;
    uint64_t seed;
    bool compiled;
    uint32_t passed, failed;
    uint32_t checked[CELLS]; /* how often each cell was exercised */
};

static void claim(struct walk *w, const char *what, const char *wrong)
{
    if (!wrong) {
        w->passed++;
        return;
    }
    w->failed++;
    printf("%s, sample %u, seed %llu: %s: %s\n", w->row->name, w->sample, (unsigned long long)w->seed, what,
           wrong);
}

/* ---- cells ---- */

static bool uses(const struct module *m, enum op op)
{
    for (uint32_t i = 0; i < m->fns.len; i++)
        for (uint32_t n = 0; m->fns.data[i] && n < m->fns.data[i]->n_nodes; n++)
            if (m->fns.data[i]->nodes[n].op == op) return true;
    return false;
}

/* Nothing is left of a composite once it has been read. */
static bool text_uses(const char *text, const char *name)
{
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name))
        if (at > text && at[-1] == ' ' && strchr(" ({", at[strlen(name)])) return true;
    return false;
}

static bool symbol_is_inner(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

/* The types that infer gave the results against the tensors that eval gave. */
static const char *types_differ(struct arena *a, const struct module *m, const struct fn *f,
                                const struct sample_sizes *s, const struct outcome *o)
{
    uint32_t outer = f->n_outer_symbols;
    for (uint32_t r = 0; r < f->n_results; r++) {
        struct type t = type_get(m, value_type(f, f->results[r]));
        const struct tensor *got = o->results[r];
        if (got->dtype != t.dtype || got->rank != t.rank)
            return arena_printf(a, "result %u has another dtype or rank than infer says", r);
        for (uint32_t d = 0; d < t.rank; d++) {
            if (dim_mentions(m, t.dims[d], symbol_is_inner, &outer))
                continue; /* a size that only running gives */
            if (got->dims[d] != dim_eval(m, t.dims[d], s->symbols))
                return arena_printf(a, "result %u, dim %u is %lld, which infer does not say", r, d,
                                    (long long)got->dims[d]);
        }
    }
    return NULL;
}

static void check_lower(struct walk *w, struct bag *bag, struct module *m, uint32_t fn,
                        struct tensor *const *args, const int64_t *dims, const struct outcome *reference)
{
    static const struct bound bits = { BOUND_BITS, 0 }, f32 = { BOUND_TENSOR, 1e-4 },
                              f64 = { BOUND_TENSOR, 1e-9 };
    struct way loops = { .backend = &executor_backend, .passes = { .strict = true } },
               strict = { .backend = &llvm_backend, .passes = { .strict = true } },
               plain = { .backend = &llvm_backend };
    struct way bare = { .backend = &llvm_backend, .passes = { .strict = true, .without = EVERY_SWITCH } };
    struct outcome o;
    run_on(bag, m, fn, &loops, args, dims, &o);
    claim(w, "loop program", outcome_difference(&bag->arena, &o, reference, bits, bits));
    w->checked[CELL_LOWER]++;
    if (!w->compiled) return;
    run_on(bag, m, fn, &strict, args, dims, &o);
    claim(w, "compiled strict", outcome_difference(&bag->arena, &o, reference, bits, bits));
    run_on(bag, m, fn, &bare, args, dims, &o);
    claim(w, "compiled strict without any pass", outcome_difference(&bag->arena, &o, reference, bits, bits));
    run_on(bag, m, fn, &plain, args, dims, &o);
    claim(w, "compiled", outcome_difference(&bag->arena, &o, reference, f32, f64));
}

static bool any_active(struct bag *bag, struct module *m, uint32_t fn, const bool *wrt)
{
    struct hop_catch caught;
    const struct fn *f = module_fn(m, fn);
    bool *active = ARENA_ZNEW(&bag->arena, bool, f->n_results);
    bool any = false;
    if (!HOP_TRY(caught)) return false;
    jvp_function(m, fn, wrt, active);
    hop_catch_end(&caught);
    for (uint32_t r = 0; r < f->n_results; r++) any |= active[r];
    return any;
}

/* By all float parameters together and by each alone. */
static void check_gradient(struct walk *w, struct bag *bag, struct module *m, uint32_t fn,
                           struct tensor *const *args, const int64_t *dims)
{
    const struct fn *f = module_fn(m, fn);
    bool *all = param_mask(&bag->arena, m, f, NULL), *one = ARENA_ZNEW(&bag->arena, bool, f->n_params);
    uint32_t n = 0;
    for (uint32_t p = 0; p < f->n_params; p++) n += all[p];
    if (!n) return;
    struct claim c = {
        .bag = bag, .m = m, .fn = fn, .args = args, .dims = dims, .seed = w->seed, .compiled = w->compiled
    };
    if (w->row->no_gradient && !strcmp(w->row->no_gradient, "opaque without a rule")) return;
    claim(w, "vjp and jvp", claim_gradient(&c, all));
    for (uint32_t p = 0; n > 1 && p < f->n_params; p++) {
        if (!all[p]) continue;
        one[p] = true;
        claim(w, arena_printf(&bag->arena, "vjp and jvp by %s", fn_param_name(m, f, p)),
              claim_gradient(&c, one));
        one[p] = false;
    }
    bool active = any_active(bag, m, fn, all);
    w->checked[CELL_VJP] += active;
    w->checked[CELL_JVP] += active;
}

/* Every subset of up to three parameters batched. */
static void check_batch(struct walk *w, struct bag *bag, struct module *m, uint32_t fn, const char *inputs,
                        const struct sample_sizes *s)
{
    enum { LANES = 3, MOST = 8 };
    const struct fn *f = module_fn(m, fn);
    uint32_t n = HOP_MIN(f->n_params, (uint32_t)MOST);
    struct claim c = {
        .bag = bag, .m = m, .fn = fn, .dims = s->dims, .seed = w->seed, .compiled = w->compiled
    };
    for (uint32_t subset = 1; subset < 1u << n; subset++) {
        if (__builtin_popcount(subset) > 3) continue;
        bool object = false; /* which is one for all lanes */
        for (uint32_t p = 0; p < n; p++) object |= subset >> p & 1 && type_is_object(m, value_type(f, p));
        if (object) continue;
        bool *batched = ARENA_ZNEW(&bag->arena, bool, f->n_params);
        struct tensor **lanes[LANES];
        for (uint32_t p = 0; p < n; p++) batched[p] = subset >> p & 1;
        for (uint32_t l = 0; l < LANES; l++) {
            lanes[l] = sample_arguments(bag, m, f, inputs, s, w->seed + 100 * l);
            for (uint32_t p = 0; l && p < f->n_params; p++)
                if (!batched[p]) lanes[l][p] = lanes[0][p];
        }
        c.args = lanes[0];
        claim(w, arena_printf(&bag->arena, "batch over parameters %#x", subset),
              claim_batch(&c, batched, LANES, (struct tensor *const *const *)lanes));
        w->checked[CELL_BATCH]++;
    }
}

/* ---- samples ---- */

/* Draws arguments on which the sample runs; NULL when there are none. */
static struct tensor **runnable(struct walk *w, struct bag *bag, struct module *m, uint32_t fn,
                                const char *inputs, struct sample_sizes *sizes, struct outcome *o)
{
    for (uint32_t attempt = 0; attempt < 2; attempt++) {
        *sizes = sample_sizes(&bag->arena, module_fn(m, fn), attempt);
        struct tensor **args = sample_arguments(bag, m, module_fn(m, fn), inputs, sizes, w->seed);
        if (run_on(bag, m, fn, &interpreter, args, sizes->dims, o)) return args;
    }
    return NULL;
}

static struct module *read_quietly(const char *text)
{
    struct hop_catch caught;
    if (!HOP_TRY(caught)) return NULL;
    struct module *m = text_read("sample", text, strlen(text));
    hop_catch_end(&caught);
    return m;
}

static void check_sample(struct walk *w, struct bag *bag, struct module *m, const struct op_sample *sample)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    struct sample_sizes sizes;
    struct outcome first, second;
    claim(w, "text", claim_round_trip(m));
    w->checked[CELL_TEXT]++;
    claim(w, "sample",
          (w->row->expand ? text_uses(sample->text, w->row->name) : uses(m, w->op))
              ? NULL
              : "it does not use the operator");
    claim(w, "expansion",
          w->row->expand && uses(m, w->op) ? "the composite itself is in the function" : NULL);
    uint32_t fn = module_find(m, "sample");
    if (fn == HOP_NONE) {
        claim(w, "sample", "there is no function @sample");
        return;
    }
    struct tensor **args = runnable(w, bag, m, fn, sample->inputs, &sizes, &first);
    if (!args) {
        claim(w, "eval", first.message);
        return;
    }
    claim(w, "infer", types_differ(&bag->arena, m, module_fn(m, fn), &sizes, &first));
    w->checked[CELL_INFER]++;
    run_on(bag, m, fn, &interpreter, args, sizes.dims, &second);
    claim(w, "eval twice", outcome_difference(&bag->arena, &second, &first, bits, bits));
    run_on(bag, m, fn, &(struct way){ .simplify = true, .passes = { .strict = true } }, args, sizes.dims,
           &second);
    claim(w, "eval after the passes", outcome_difference(&bag->arena, &second, &first, bits, bits));
    w->checked[CELL_EVAL]++;
    check_lower(w, bag, m, fn, args, sizes.dims, &first);
    check_batch(w, bag, m, fn, sample->inputs, &sizes);

    char *wide_text = text_in_f64(&bag->arena, sample->text, strlen(sample->text));
    struct module *wide = wide_text ? read_quietly(wide_text) : NULL;
    hop_cleanup_push(module_free, wide);
    struct module *in = wide ? wide : m;
    fn = module_find(in, "sample");
    args = runnable(w, bag, in, fn, sample->inputs, &sizes, &first);
    if (args) check_gradient(w, bag, in, fn, args, sizes.dims);
    else claim(w, "in f64", first.message);
    hop_cleanup_pop(wide);
    module_free(wide);
}

static void walk_sample(struct walk *w, const struct op_sample *sample)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    if (HOP_TRY(caught)) {
        hop_cleanup_push(bag_free, &bag);
        struct module *m = text_read("sample", sample->text, strlen(sample->text));
        hop_cleanup_push(module_free, m);
        check_sample(w, &bag, m, sample);
        hop_cleanup_pop(m);
        module_free(m);
        hop_cleanup_pop(&bag);
        bag_free(&bag);
        hop_catch_end(&caught);
    } else {
        claim(w, "sample", hop_message());
    }
}

/* ---- rows over distributed arrays ---- */

/* They have no rules but infer and what each rank does, which has the rules of what it is made of: the local
 * function is verified, and those of its derivatives. */
static void check_localized(struct walk *w, struct module *m, const struct op_sample *sample)
{
    uint32_t fn = module_find(m, "sample");
    const struct fn *f = module_fn(m, fn);
    bool *wrt = ARENA_ZNEW(&m->arena, bool, f->n_params + 1);
    claim(w, "sample", text_uses(sample->text, w->row->name) ? NULL : "it does not use the operator");
    claim(w, "text", claim_round_trip(m));
    verify_fn(m, fn);
    claim(w, "localize", f->global && !module_fn(m, localized(m, fn))->global ? NULL : "it stays global");
    verify_fn(m, localized(m, fn));
    for (uint32_t p = 0; p < f->n_params; p++) wrt[p] = true;
    uint32_t vjp = vjp_function(m, fn, wrt);
    verify_fn(m, vjp);
    verify_fn(m, localized(m, vjp));
    verify_fn(m, jvp_of(m, fn, wrt));
    w->checked[CELL_TEXT] = w->checked[CELL_INFER] = true;
}

static void walk_localized(struct walk *w)
{
    const struct op_row *row = w->row;
    bool others = row->eval || row->vjp || row->vjp_forward || row->jvp || row->batch || row->lower ||
                  row->rewrite || row->expand;
    claim(w, "rules", others || !row->infer ? "it has rules but infer and localize" : NULL);
    claim(w, "meaning", row->meaning && *row->meaning ? NULL : "the row does not say what it means");
    for (w->sample = 0; w->sample < row->n_samples; w->sample++) {
        const struct op_sample *sample = &row->samples[w->sample];
        struct hop_catch caught;
        if (HOP_TRY(caught)) {
            struct module *m = text_read("sample", sample->text, strlen(sample->text));
            hop_cleanup_push(module_free, m);
            check_localized(w, m, sample);
            hop_cleanup_pop(m);
            module_free(m);
            hop_catch_end(&caught);
        } else {
            claim(w, "sample", hop_message());
        }
    }
    claim(w, "sample", w->checked[CELL_TEXT] ? NULL : "no sample is read");
}

/* ---- rows ---- */

static const char *reason_wrong(const struct op_row *row)
{
    static const char *const reasons[] = { "integer-valued", "piecewise constant", "opaque without a rule" };
    if (row->vjp && row->jvp)
        return row->no_gradient ? "it has vjp and jvp, and a reason for having none" : NULL;
    if (row->flags & OPF_HIGHER) return "a higher-order row has every rule";
    if (row->expand && !row->no_gradient) return NULL;
    for (size_t i = 0; i < HOP_COUNT(reasons); i++)
        if (row->no_gradient && !strcmp(row->no_gradient, reasons[i]))
            return row->vjp || row->jvp ? "it has one of vjp and jvp" : NULL;
    return "vjp or jvp is missing without a reason from the list";
}

static void walk_row(struct walk *w)
{
    const struct op_row *row = w->row;
    if (row->localize) {
        walk_localized(w);
        return;
    }
    bool composite = row->expand, gradient = composite && !row->no_gradient;
    const bool claimed[CELLS] = { true,
                                  row->infer,
                                  row->eval || composite || row->axis_attr, /* run without its axis: never */
                                  row->vjp || gradient,
                                  row->jvp || gradient,
                                  row->batch || composite,
                                  row->lower || row->stands_for || composite || row->axis_attr };
    claim(w, "rules",
          composite && (row->eval || row->vjp || row->vjp_forward || row->jvp || row->batch || row->lower ||
                        row->rewrite || row->effect)
              ? "a composite row has no rules but infer and expand"
              : NULL);
    for (int c = 0; c < CELLS; c++)
        if (c != CELL_VJP && c != CELL_JVP)
            claim(w, cell_names[c], claimed[c] ? NULL : "the cell is missing");
    claim(w, "gradient", reason_wrong(row));
    claim(w, "vjp_forward", row->flags & OPF_HIGHER && !row->vjp_forward ? "the cell is missing" : NULL);
    claim(w, "meaning", row->meaning && *row->meaning ? NULL : "the row does not say what it means");
    for (w->sample = 0; w->sample < row->n_samples; w->sample++) walk_sample(w, &row->samples[w->sample]);
    for (int c = 0; c < CELLS; c++)
        if (claimed[c] && !w->checked[c]) claim(w, cell_names[c], "claimed, but no sample exercises it");
}

/* Rows are walked in processes of their own, a few at a time: a crash is a failure of that row. What a
 * process prints comes back through a pipe, the counts at its end, and is shown in the order of the table. */
struct child {
    const struct op_row *row;
    pid_t pid;
    int in;
};

static struct child start_row(struct walk *w)
{
    struct child c = { .row = w->row };
    int ends[2];
    fflush(stdout);
    c.pid = pipe(ends) ? -1 : fork();
    if (c.pid < 0) {
        printf("a process could not be started: %s\n", strerror(errno));
        exit(2);
    }
    if (!c.pid) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        walk_row(w);
        printf("\001%u %u\n", w->passed, w->failed);
        exit(0);
    }
    close(ends[1]);
    c.in = ends[0];
    return c;
}

static void end_row(struct child *c, uint64_t *passed, uint64_t *failed)
{
    unsigned p = 0, f = 0;
    int status;
    bool told = false;
    char *line = NULL;
    size_t size = 0;
    FILE *in = fdopen(c->in, "r");
    while (in && getline(&line, &size, in) > 0) {
        if (line[0] == 1) told = sscanf(line + 1, "%u %u", &p, &f) == 2;
        else fputs(line, stdout);
    }
    free(line);
    if (in) fclose(in);
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {}
    if (!told || !WIFEXITED(status) || WEXITSTATUS(status)) {
        printf("%s: %s\n", c->row->name,
               WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "its process ended badly");
        f++;
    }
    *passed += p;
    *failed += f;
}

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

int main(int argc, char **argv)
{
    static const char *const op_names[OP_COUNT] = {
#define OP(name) #name,
#include "ops/ops.def"
#undef OP
    };
    enum { AT_ONCE = 2 };
    struct child running[AT_ONCE];
    uint32_t oldest = 0, n_running = 0;
    uint64_t seed = 1, passed = 0, failed = 0;
    bool compiled = exe_available();
    int first = 1;
    if (argc > 2 && !strcmp(argv[1], "--seed")) seed = strtoull(argv[2], NULL, 0), first = 3;
    if (!compiled) printf("nothing is compiled: %s\n", hop_message());
    for (int op = 0; op < OP_COUNT; op++) {
        bool wanted = first == argc;
        for (int i = first; i < argc; i++) wanted |= !strcmp(argv[i], op_names[op]);
        if (!wanted) continue;
        if (!op_table[op]) {
            printf("%s: it has no row\n", op_names[op]);
            failed++;
            continue;
        }
        bool with_code = compiled && (!SANITIZED || op % 6 == 0); /* the plain build has code of all rows */
        struct walk w = { .row = op_table[op], .op = (enum op)op, .seed = seed, .compiled = with_code };
        if (first + 1 == argc) { /* one row: in this process, for a debugger */
            walk_row(&w);
            passed += w.passed;
            failed += w.failed;
            continue;
        }
        if (n_running == AT_ONCE) end_row(&running[oldest++ % AT_ONCE], &passed, &failed), n_running--;
        running[(oldest + n_running++) % AT_ONCE] = start_row(&w);
    }
    while (n_running--) end_row(&running[oldest++ % AT_ONCE], &passed, &failed);
    printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed ? 1 : 0;
}
