/* Emitted C against the interpreter, bit for bit in strict mode: the samples of every row of the table (as
 * they are, vjp, jvp, batched), and random programs with their transforms. Many programs make one C file,
 * which the system's compiler compiles once. A file that does not compile, or whose code crashes, is halved
 * until the program that does it is found. `emitted_fuzz [--soak] [--samples | FIRST [COUNT]]`. */
#pragma GCC diagnostic ignored "-Wunused-function" /* not every claim about random programs is made here */
#include "check/test_c.h"
#include "random_claims.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what is compared ---- */

struct item {
    struct module *m;
    uint32_t fn, number;
    struct tensor **args;
    const int64_t *dims;
    const char *name;
    struct outcome expected;
    struct bag *bag;
};
struct unit {
    struct bag bag; /* of the list, and of all items */
    vec(struct item) items;
    vec(struct module *) modules;
    struct c_programs *c;
    struct tally tally;
};

static struct counts {
    uint64_t passed, failed, programs, left_out;
    uint32_t running; /* the item that runs, HOP_NONE: none */
    char name[200];
} *counts;

/* Samples of one unit; the compiler optimises every other unit of them, unless there are hours. */
enum { SAMPLES_AT_ONCE = 60 };
static bool soaking;

static void wrong(const char *name, const char *what)
{
    printf("%s: %.3000s\n", name, what);
    counts->failed++;
}

/* What the interpreter refuses is left out; a failed check is a result as well. */
static void add_item(struct unit *b, struct module *m, uint32_t fn, struct tensor **args, const int64_t *dims,
                     const char *name)
{
    struct item item = { .m = m, .fn = fn, .args = args, .dims = dims, .name = name, .bag = &b->bag };
    if (!run_on(&b->bag, m, fn, &interpreter, args, dims, &item.expected) &&
        item.expected.status != HOP_CHECK) {
        counts->left_out++;
        return;
    }
    item.number = c_programs_add(b->c, m, fn, &(struct pass_options){ .strict = true });
    vec_push(&b->bag.arena, &b->items, item);
    counts->programs++;
}

/* ---- random programs ---- */

static void add_random(struct unit *b, uint64_t seed)
{
    struct program *p = ARENA_ZNEW(&b->bag.arena, struct program, 1);
    struct module *m = module_new();
    vec_push(&b->bag.arena, &b->modules, m);
    struct gen g = { .r = { seed }, .m = m };
    struct check c = { .bag = &b->bag, .p = p, .tally = &b->tally };
    p->seed = seed;
    random_program(&b->bag, &g, p);
    struct target t = program_target(&c), made;
    struct arena *a = &b->bag.arena;
    add_item(b, m, t.fn, t.args, target_dims(&c, t.fn),
             arena_printf(a, "seed %llu", (unsigned long long)seed));
    if (p->large) return;
    if (seed % 3 == 0 && pullback_of(&c, &t, ~0ull, &made))
        add_item(b, m, made.fn, made.args, target_dims(&c, made.fn),
                 arena_printf(a, "seed %llu, vjp", (unsigned long long)seed));
    if (seed % 3 == 1 && batched_target(&c, &t, &made, &(struct lanes){ 0 }))
        add_item(b, m, made.fn, made.args, target_dims(&c, made.fn),
                 arena_printf(a, "seed %llu, vmap", (unsigned long long)seed));
}

/* ---- samples of the table ---- */

static struct tensor **sample_runs(struct unit *b, struct module *m, uint32_t fn, const char *inputs,
                                   uint64_t seed, struct sample_sizes *sizes)
{
    struct outcome o;
    for (uint32_t attempt = 0; attempt < 2; attempt++) {
        *sizes = sample_sizes(&b->bag.arena, module_fn(m, fn), attempt);
        struct tensor **args = sample_arguments(&b->bag, m, module_fn(m, fn), inputs, sizes, seed);
        if (run_on(&b->bag, m, fn, &interpreter, args, sizes->dims, &o)) return args;
    }
    return NULL;
}

static struct tensor *drawn_like(struct unit *b, const struct tensor *t, uint64_t seed)
{
    struct tensor *out = bag_new(&b->bag, (enum dtype)t->dtype, t->rank, t->dims);
    tensor_random(out, &(struct random){ seed }, -1, 1);
    return out;
}

static void add_derivatives(struct unit *b, struct module *m, uint32_t fn, struct tensor **args,
                            const struct sample_sizes *sizes, const char *name)
{
    struct arena *a = &b->bag.arena;
    const struct fn *f = module_fn(m, fn);
    struct outcome base;
    bool *wrt = param_mask(a, m, f, NULL), *active = ARENA_ZNEW(a, bool, f->n_results + 1);
    uint32_t n = 0, reverse = f->n_params, forward = f->n_params;
    for (uint32_t p = 0; p < f->n_params; p++) n += wrt[p];
    if (!n || !run_on(&b->bag, m, fn, &interpreter, args, sizes->dims, &base)) return;
    struct tensor **cotangents = ARENA_NEW(a, struct tensor *, f->n_params + f->n_results),
                  **tangents = ARENA_NEW(a, struct tensor *, 2 * f->n_params);
    memcpy(cotangents, args, f->n_params * sizeof *args);
    memcpy(tangents, args, f->n_params * sizeof *args);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (wrt[p]) tangents[forward++] = drawn_like(b, args[p], 40 + p);
    for (uint32_t r = 0; r < f->n_results; r++)
        if (dtype_is_float((enum dtype)base.results[r]->dtype))
            cotangents[reverse++] = drawn_like(b, base.results[r], 80 + r);
    add_item(b, m, vjp_function(m, fn, wrt), cotangents, sizes->dims, arena_printf(a, "%s, vjp", name));
    add_item(b, m, jvp_function(m, fn, wrt, active), tangents, sizes->dims, arena_printf(a, "%s, jvp", name));
}

static void add_batched(struct unit *b, struct module *m, uint32_t fn, const char *inputs,
                        const struct sample_sizes *sizes, const char *name)
{
    enum { SAMPLE_LANES = 2 };
    struct arena *a = &b->bag.arena;
    const struct fn *f = module_fn(m, fn);
    int *in = ARENA_ZNEW(a, int, f->n_params), *out = ARENA_ZNEW(a, int, f->n_results);
    struct tensor **args = ARENA_NEW(a, struct tensor *, f->n_params);
    if (!f->n_params) return;
    for (uint32_t lane = 0; lane < SAMPLE_LANES; lane++) {
        struct tensor **one = sample_arguments(&b->bag, m, f, inputs, sizes, 7 + lane);
        for (uint32_t p = 0; p < f->n_params; p++) {
            int64_t dims[MAX_RANK] = { SAMPLE_LANES };
            if (one[p]->rank == MAX_RANK) return;
            memcpy(dims + 1, one[p]->dims, one[p]->rank * sizeof *dims);
            if (!lane) args[p] = bag_new(&b->bag, (enum dtype)one[p]->dtype, one[p]->rank + 1u, dims);
            size_t bytes = (size_t)one[p]->count * dtype_info[one[p]->dtype].size;
            if (bytes) memcpy((char *)args[p]->data + lane * bytes, one[p]->data, bytes);
        }
    }
    add_item(b, m, vmap_function(m, fn, in, out), args, sizes->dims, arena_printf(a, "%s, batched", name));
}

/* A transform that a row refuses (no gradient, lanes of different sizes) leaves that item out. */
static void try_adding(struct unit *b, struct module *m, uint32_t fn, const struct op_sample *sample,
                       const struct sample_sizes *sizes, struct tensor **args, const char *name)
{
    struct hop_catch caught;
    if (HOP_TRY(caught)) {
        add_derivatives(b, m, fn, args, sizes, name);
        hop_catch_end(&caught);
    } else {
        counts->left_out++;
    }
    if (HOP_TRY(caught)) {
        add_batched(b, m, fn, sample->inputs, sizes, name);
        hop_catch_end(&caught);
    } else {
        counts->left_out++;
    }
}

static void add_sample(struct unit *b, uint64_t number)
{
    for (int op = 0; op < OP_COUNT; op++) {
        const struct op_row *row = op_table[op];
        if (number >= row->n_samples) {
            number -= row->n_samples;
            continue;
        }
        const struct op_sample *sample = &row->samples[number];
        const char *name = arena_printf(&b->bag.arena, "%s, sample %u", row->name, (uint32_t)number);
        struct sample_sizes sizes;
        struct module *m = text_read("sample", sample->text, strlen(sample->text));
        vec_push(&b->bag.arena, &b->modules, m);
        uint32_t fn = module_find(m, "sample");
        if (module_fn(m, fn)->global) { /* a program over a mesh, which emitted C refuses: emit_test */
            counts->left_out++;
            return;
        }
        struct tensor **args = sample_runs(b, m, fn, sample->inputs, 1, &sizes);
        if (!args) {
            counts->left_out++;
            return;
        }
        add_item(b, m, fn, args, sizes.dims, name);
        try_adding(b, m, fn, sample, &sizes, args, name);
        return;
    }
}

static uint64_t sample_count(void)
{
    uint64_t n = 0;
    for (int op = 0; op < OP_COUNT; op++) n += op_table[op]->n_samples;
    return n;
}

/* ---- batches ---- */

typedef void adder(struct unit *b, uint64_t number);

static void compare(struct unit *b, uint32_t i)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    struct item *item = &b->items.data[i];
    struct outcome o;
    counts->running = i;
    snprintf(counts->name, sizeof counts->name, "%s", item->name);
    c_programs_run(b->c, item->number, &b->bag, item->m, item->fn, item->args, item->dims, &o);
    const char *d = outcome_difference(&b->bag.arena, &o, &item->expected, bits, bits);
    if (d) wrong(item->name, d);
    else counts->passed++;
    counts->running = HOP_NONE;
}

/* In a process of its own. Ends with 3 when the C does not compile. */
static void batch_process(adder *add, uint64_t first, uint64_t n)
{
    struct unit *b = hop_calloc(1, sizeof *b);
    struct hop_catch caught;
    volatile bool built = false;
    counts->running = HOP_NONE;
    b->c = c_programs_new(NULL);
    for (volatile uint64_t i = first; i < first + n; i++) {
        snprintf(counts->name, sizeof counts->name, "%s %llu", add == add_sample ? "sample number" : "seed",
                 (unsigned long long)i);
        if (HOP_TRY(caught)) {
            add(b, i);
            hop_catch_end(&caught);
        } else {
            wrong(counts->name, hop_message());
        }
    }
    if (HOP_TRY(caught)) {
        c_programs_build(b->c, add == add_random || soaking || first / SAMPLES_AT_ONCE % 2);
        built = true;
        for (uint32_t i = 0; i < b->items.len; i++) compare(b, i);
        hop_catch_end(&caught);
    } else {
        if (n == 1) wrong(counts->name, hop_message());
    }
    c_programs_free(b->c);
    fflush(stdout);
    _exit(built || n == 1 ? 0 : 3);
}

static void run_batch(adder *add, uint64_t first, uint64_t n)
{
    struct counts before = *counts;
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) exit(2);
    if (!pid) {
        alarm(600);
        batch_process(add, first, n);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return;
    if (n == 1) {
        wrong(counts->name, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "its process ended badly");
        return;
    }
    *counts = before;
    run_batch(add, first, n / 2);
    run_batch(add, first + n / 2, n - n / 2);
}

static void run_all(adder *add, uint64_t first, uint64_t count, uint64_t at_once)
{
    for (uint64_t i = 0; i < count; i += at_once) run_batch(add, first + i, HOP_MIN(at_once, count - i));
}

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 36, n_numbers = 0;
    bool samples = true, programs = true;
#ifdef __SANITIZE_ADDRESS__
    count = 9; /* the plain build looks at them all */
    samples = false;
#endif
    counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (counts == MAP_FAILED) return 2;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--soak")) count *= 40, first = 1000000, soaking = true;
        else if (!strcmp(argv[i], "--samples")) samples = true, programs = false;
        else if (!n_numbers++) first = strtoull(argv[i], NULL, 0), count = 1, samples = false;
        else count = strtoull(argv[i], NULL, 0);
    }
    if (samples) run_all(add_sample, 0, sample_count(), SAMPLES_AT_ONCE);
    if (programs) run_all(add_random, first, count, 30);
    printf("%llu programs, %llu left out\n", (unsigned long long)counts->programs,
           (unsigned long long)counts->left_out);
    printf("%llu passed, %llu failed\n", (unsigned long long)counts->passed,
           (unsigned long long)counts->failed);
    return counts->failed != 0;
}
