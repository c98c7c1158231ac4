/* Random programs: each seed gives a program with nested control flow, which is held to the claims of
 * random_claims.h. What fails is made small and written as a .hop file. `random_fuzz [--soak] [--native N]
 * [--claim NAME] [--folder DIR] [--no-shrink] [--show] [FIRST [COUNT]]`; without arguments a fixed range of
 * seeds, and then as many more as it takes until every pair of nested higher-order rows was met often enough
 * under every transform. LLVM takes nine tenths of a seed's time: --native N compiles one seed in N (0:
 * none), the others run on the interpreter and the executor; one in six, but all that are asked for or
 * --soak. */
#include "random_shrink.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum {
    ENOUGH = 5, /* claims of each pair under each transform */
    MORE = 40   /* seeds for a pair that has fewer */
};
static const char *const under_names[UNDER] = { "vjp",       "jvp",     "batch",       "vjp∘vjp", "batch∘vjp",
                                                "vjp∘batch", "vjp∘jvp", "batch∘batch", "three",   "itself" };

struct run {
    struct tally *tally;
    const char *folder, *claim;
    bool compiled, show; /* show: print each program first */
    uint64_t native;     /* one seed in so many is compiled; 0: none */
};

/* Which rows stand in bodies of which, counting what results depend on alone. */
static void nesting(const struct program *p, bool pairs[PAIRS])
{
    struct module *m = p->m;
    uint32_t live = prune_function(m, p->fn, NULL);
    for (uint32_t i = 0; i < m->fns.len; i++) {
        if (!reaches(m, live, i)) continue;
        const struct fn *f = module_fn(m, i);
        for (uint32_t n = 0; n < f->n_nodes; n++)
            for (uint32_t r = 0; r < f->nodes[n].n_regions; r++) {
                const struct fn *body = module_fn(m, node_region(f, &f->nodes[n], r)->fn);
                for (uint32_t k = 0; k < body->n_nodes; k++)
                    for (int x = 0; x < HIGHER; x++)
                        for (int y = 0; y < HIGHER; y++)
                            pairs[x * HIGHER + y] |= f->nodes[n].op == higher_ops[x] &&
                                                     body->nodes[k].op == higher_ops[y];
            }
    }
}

static void note_held(struct run *run, const bool pairs[PAIRS], enum under under)
{
    for (int k = 0; k < PAIRS; k++) {
        run->tally->nested[under][k] += pairs[k];
        if (under == UNDER_VJP) run->tally->nested[UNDER_JVP][k] += pairs[k]; /* held against each other */
    }
}

static void note_rows(struct run *run, const struct gen *g, const struct program *p)
{
    bool used[OP_COUNT], bare[OP_COUNT] = { 0 }, dtypes[DT_COUNT] = { 0 };
    memcpy(used, g->asked, sizeof used);
    for (uint32_t i = 0; i < p->m->fns.len; i++) {
        if (!reaches(p->m, p->fn, i)) continue;
        const struct fn *f = module_fn(p->m, i);
        for (uint32_t n = 0; n < f->n_nodes; n++) {
            used[f->nodes[n].op] = true;
            bare[f->nodes[n].op] |= f->nodes[n].n_regions && !f->nodes[n].n_results;
        }
        for (uint32_t v = 0; v < f->n_values; v++) dtypes[type_get(p->m, value_type(f, v)).dtype] = true;
    }
    for (int op = 0; op < OP_COUNT; op++) {
        run->tally->rows[op] += used[op];
        run->tally->bare[op] += bare[op];
    }
    for (int t = 0; t < DT_COUNT; t++) run->tally->dtypes[t] += dtypes[t];
}

/* Which seeds are compiled has nothing to do with which claims their turn has come for. */
static uint64_t seed_hash(uint64_t seed) { return hash_bytes(&seed, sizeof seed, 0); }

/* Some claims are held in turn; one that the pair which the seed wishes for still lacks is held in any case.
 */
static bool wanted(const struct run *run, uint32_t claim, uint64_t seed)
{
    const struct random_claim *c = &random_claims[claim];
    if (run->claim) return !strcmp(run->claim, c->name);
    if (c->under < UNDER_OTHER && seed_wish(seed) < PAIRS &&
        run->tally->nested[c->under][seed_wish(seed)] < ENOUGH)
        return true;
    return (seed + claim) % c->every == 0;
}

/* In a process of its own: the program and its claims, or making it small. */
static void seed_process(struct run *run, uint64_t seed, bool shrinking, bool crashed)
{
    struct bag bag = { 0 };
    struct program p = { .seed = seed };
    struct hop_catch caught;
    struct tally *tally = run->tally;
    struct module *m = module_new();
    struct check c = { .bag = &bag, .p = &p, .tally = tally };
    c.compiled = run->compiled && run->native && seed_hash(seed) % run->native == 0;
    bool pairs[PAIRS] = { 0 };
    if (HOP_TRY(caught)) {
        struct gen g = { .r = { seed }, .m = m, .operators = seed_hash(seed) >> 32 & 1 };
        if (!shrinking) tally->claim = HOP_COUNT(random_claims);
        random_program(&bag, &g, &p);
        if (seed % 2) m->without = 1u << seed / 2 % PASS_COUNT; /* in transforms */
        if (shrinking) {
            shrink_and_write(&c, tally->claim, crashed, run->folder, 60);
        } else {
            tally->native += c.compiled;
            tally->made += g.made;
            tally->rejected += g.rejected;
            note_rows(run, &g, &p);
            nesting(&p, pairs);
            if (run->show) {
                struct text out = { .arena = &bag.arena };
                text_print(m, p.fn, 0, &out);
                printf("# seed %llu\n%s\n", (unsigned long long)seed, out.data);
                fflush(stdout);
            }
        }
        hop_catch_end(&caught);
    } else {
        snprintf(tally->message, sizeof tally->message, "generating: %s", hop_message());
        tally->failed = true;
        return;
    }
    for (uint32_t k = 0; !shrinking && k < HOP_COUNT(random_claims); k++) {
        if (!wanted(run, k, seed) || (random_claims[k].native && !c.compiled) ||
            (p.large && random_claims[k].under > UNDER_JVP && random_claims[k].under != UNDER_NOTHING))
            continue;
        tally->claim = k;
        tally->held = false;
        const char *wrong = hold(&c, k);
        tally->claims++;
        if (wrong) {
            snprintf(tally->message, sizeof tally->message, "%s", wrong);
            tally->failed = true;
            break;
        }
        if (tally->held) note_held(run, pairs, random_claims[k].under);
    }
    module_free(m);
    bag_free(&bag);
}

static int in_process(struct run *run, uint64_t seed, bool shrinking, bool crashed)
{
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        printf("a process could not be started: %s\n", strerror(errno));
        exit(2);
    }
    if (!pid) {
        rlim_t seconds =
            shrinking ? 120
                      : 60; /* of work, so that a busy machine fails nothing; and a limit for what waits */
        setrlimit(RLIMIT_CPU, &(struct rlimit){ seconds, seconds + 1 });
        alarm(10 * (unsigned)seconds);
        seed_process(run, seed, shrinking, crashed);
        fflush(NULL);
        _exit(0); /* leaks are counted by the tests of one process each: a leak checker in a forked child of a
                     threaded process is not reliable */
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

/* One seed; false when a claim fails. */
static bool run_seed(struct run *run, uint64_t seed)
{
    struct tally *tally = run->tally;
    tally->failed = false;
    tally->message[0] = 0;
    int status = in_process(run, seed, false, false);
    bool crashed = !WIFEXITED(status) || WEXITSTATUS(status);
    tally->programs++;
    if (!tally->failed && !crashed) return true;
    if (crashed)
        snprintf(tally->message, sizeof tally->message, "%s",
                 WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGXCPU
                                           ? "took too long"
                                           : strsignal(WTERMSIG(status))
                                     : "ended with a code");
    bool made = tally->claim < HOP_COUNT(random_claims);
    printf("seed %llu: %s: %.1000s\n", (unsigned long long)seed,
           made ? random_claims[tally->claim].name : "generating", tally->message);
    if (made && run->folder && (status = in_process(run, seed, true, crashed)))
        printf("  making it small ended with status %d\n", status);
    return false;
}

static uint64_t least(const struct tally *t, enum under under)
{
    uint64_t n = UINT64_MAX;
    for (int k = 0; k < PAIRS; k++) n = HOP_MIN(n, t->nested[under][k]);
    return n;
}

/* Others have a carry that counts, or an array to go over. */
static bool can_be_bare(enum op op) { return op != OP_while_loop && op != OP_associative_scan; }

static void print_histogram(const struct tally *t)
{
    int unused = 0;
    printf("%llu programs, %llu compiled, %llu claims, %llu steps made, %llu rejected\n",
           (unsigned long long)t->programs, (unsigned long long)t->native, (unsigned long long)t->claims,
           (unsigned long long)t->made, (unsigned long long)t->rejected);
    printf("differences: %llu compared, %llu at kinks; default numbers: %llu compared, %llu sensitive; lanes "
           "of different sizes: %llu; not finite: %llu; budgets too small: %llu\n",
           (unsigned long long)t->compared, (unsigned long long)t->kinks,
           (unsigned long long)t->default_compared, (unsigned long long)t->sensitive,
           (unsigned long long)t->ragged, (unsigned long long)t->infinite, (unsigned long long)t->beyond);
    printf("dtypes:");
    for (int d = 0; d < DT_COUNT; d++)
        printf(" %s %llu", dtype_info[d].name, (unsigned long long)t->dtypes[d]);
    printf("\nrows:");
    for (int op = 0; op < OP_COUNT; op++) {
        if (t->rows[op]) printf(" %s %llu", op_table[op]->name, (unsigned long long)t->rows[op]);
        unused += !t->rows[op];
    }
    printf("\n%d of %d rows used (%.1f %%); not:", OP_COUNT - unused, OP_COUNT,
           100.0 * (OP_COUNT - unused) / OP_COUNT);
    for (int op = 0; op < OP_COUNT; op++)
        if (!t->rows[op]) printf(" %s", op_table[op]->name);
    printf("\nwithout results:");
    for (int k = 0; k < HIGHER; k++)
        if (can_be_bare(higher_ops[k]))
            printf(" %s %llu", op_table[higher_ops[k]]->name, (unsigned long long)t->bare[higher_ops[k]]);
    printf("\n%-16s %-16s", "a body of", "holds");
    for (int u = 0; u < UNDER; u++)
        printf(" %*s", 10 + (strstr(under_names[u], "∘") ? 2 : 0), under_names[u]);
    for (int k = 0; k < PAIRS; k++) {
        printf("\n%-16s %-16s", op_table[higher_ops[k / HIGHER]]->name,
               op_table[higher_ops[k % HIGHER]]->name);
        for (int u = 0; u < UNDER; u++) printf(" %10llu", (unsigned long long)t->nested[u][k]);
    }
    printf("\n%-33s", "the least");
    for (int u = 0; u < UNDER; u++) printf(" %10llu", (unsigned long long)least(t, (enum under)u));
    printf("\n");
}

/* Seeds from `first` on for the pairs that were not met often enough; how many claims failed. */
static uint64_t run_more(struct run *run, uint64_t first)
{
    uint64_t failed = 0;
    for (uint32_t pair = 0; pair < PAIRS; pair++) {
        uint64_t seed = first + (pair + WISHES - first % WISHES) % WISHES;
        for (int k = 0; k < MORE; k++, seed += WISHES) {
            bool lacks = false;
            for (int u = 0; u < UNDER_OTHER; u++) lacks |= run->tally->nested[u][pair] < ENOUGH;
            if (!lacks) break;
            failed += !run_seed(run, seed);
        }
    }
    return failed;
}

/* What a whole run must have met. */
static uint64_t coverage_lacks(const struct tally *t)
{
    uint64_t lacks = 0, rows = 0, all = 0;
    for (int op = 0; op < OP_COUNT; op++) { /* axes_test and mesh_fuzz have programs of their own */
        if (op_table[op]->axis_attr || op == OP_redistribute || op == OP_local_map) continue;
        rows += t->rows[op] > 0;
        all++;
    }
    if (rows * 100 <= all * 95) lacks++, printf("not more than 95 %% of the rows are used\n");
    for (int d = 0; d < DT_COUNT; d++)
        if (!t->dtypes[d]) lacks++, printf("no program uses %s\n", dtype_info[d].name);
    for (int k = 0; k < HIGHER; k++)
        if (can_be_bare(higher_ops[k]) && t->bare[higher_ops[k]] < ENOUGH)
            lacks++,
                printf("%s without results was met %llu times, fewer than %d\n",
                       op_table[higher_ops[k]]->name, (unsigned long long)t->bare[higher_ops[k]], ENOUGH);
    for (int u = 0; u < UNDER_OTHER; u++)
        for (int k = 0; k < PAIRS; k++)
            if (t->nested[u][k] < ENOUGH)
                lacks++,
                    printf("%s in a body of %s was met %llu times under %s, fewer than %d\n",
                           op_table[higher_ops[k % HIGHER]]->name, op_table[higher_ops[k / HIGHER]]->name,
                           (unsigned long long)t->nested[u][k], under_names[u], ENOUGH);
    return lacks;
}

int main(int argc, char **argv)
{
    struct run run = { .compiled = exe_available(), .folder = NULL };
    uint64_t first = 1, failed = 0, count = 120, native = HOP_NONE;
    bool whole = true, soak = false;
#ifdef __SANITIZE_ADDRESS__
    count = 60;
    whole = false;
#endif
    char folder[4096];
    const char *slash = strrchr(argv[0], '/');
    int n_numbers = 0;
    snprintf(folder, sizeof folder, "%.*s/../random-failures", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".");
    run.folder = folder;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--soak")) count *= 25, first = 1000000, soak = true;
        else if (!strcmp(argv[i], "--native") && i + 1 < argc) native = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--folder") && i + 1 < argc) run.folder = argv[++i];
        else if (!strcmp(argv[i], "--claim") && i + 1 < argc) run.claim = argv[++i], whole = false;
        else if (!strcmp(argv[i], "--no-shrink")) run.folder = NULL;
        else if (!strcmp(argv[i], "--show")) run.show = true;
        else if (!n_numbers++) first = strtoull(argv[i], NULL, 0), count = 1, whole = false;
        else count = strtoull(argv[i], NULL, 0);
    }
    run.native = native != HOP_NONE ? native : soak || n_numbers ? 1 : 6;
    if (!run.compiled) printf("nothing is compiled: %s\n", hop_message());
    if (run.folder) mkdir(run.folder, 0777);
    run.tally = mmap(NULL, sizeof *run.tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.tally == MAP_FAILED) return 2;
    if (!random_operators_register()) {
        printf("operators cannot be registered: %s\n", hop_message());
        return 2;
    }
    for (uint64_t seed = first; seed < first + count; seed++) failed += !run_seed(&run, seed);
    struct tally *t = run.tally;
    if (whole) failed += run_more(&run, first + count);
    print_histogram(t);
    if (whole) failed += coverage_lacks(t);
    if (t->kinks * 20 > t->compared)
        failed++, printf("more than a twentieth of the differences are at kinks\n");
    if (t->sensitive * 10 > t->default_compared)
        failed++,
            printf("more than a tenth of the programs are too sensitive to compare with default numbers\n");
    random_operators_unregister();
    printf("%llu passed, %llu failed\n", (unsigned long long)t->claims, (unsigned long long)failed);
    return failed ? 1 : 0;
}
