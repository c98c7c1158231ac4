/* Random programs: each seed gives a program with nested control flow, which is held to the claims of random_claims.h. What fails is made small and written as
 * a .hop file. `random_fuzz [--soak] [--claim NAME] [--folder DIR] [FIRST [COUNT]]`; without arguments a fixed range of seeds that takes about a minute. */
#include "random_shrink.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const enum op higher_ops[HIGHER] = { OP_scan, OP_while_loop, OP_switch, OP_invoke_subgraph, OP_map, OP_fori_loop, OP_associative_scan };
static const char *const under_names[UNDER] = { "as it is", "vjp, jvp", "vmap", "passes of vjp", "vjp of vjp", "vmap of vjp", "vjp of vmap", "vjp of jvp", "vmap of vmap" };

struct run {
    struct tally *tally;
    const char *folder, *claim;
    bool compiled;
};

static void note_nesting(struct run *run, const struct program *p, int under)
{
    bool pairs[HIGHER][HIGHER] = { 0 };
    const struct module *m = p->m;
    for (uint32_t i = 0; i < m->fns.len; i++) {
        if (!reaches(m, p->fn, i)) continue;
        const struct fn *f = module_fn(m, i);
        for (uint32_t n = 0; n < f->n_nodes; n++)
            for (uint32_t r = 0; r < f->nodes[n].n_regions; r++) {
                const struct fn *body = module_fn(m, node_region(f, &f->nodes[n], r)->fn);
                for (uint32_t k = 0; k < body->n_nodes; k++)
                    for (int x = 0; x < HIGHER; x++)
                        for (int y = 0; y < HIGHER; y++) pairs[x][y] |= f->nodes[n].op == higher_ops[x] && body->nodes[k].op == higher_ops[y];
            }
    }
    for (int x = 0; x < HIGHER; x++)
        for (int y = 0; y < HIGHER; y++) run->tally->nested[under][x][y] += pairs[x][y];
}

static void note_rows(struct run *run, const struct program *p)
{
    bool used[OP_COUNT] = { 0 };
    for (uint32_t i = 0; i < p->m->fns.len; i++)
        for (uint32_t n = 0; reaches(p->m, p->fn, i) && n < module_fn(p->m, i)->n_nodes; n++) used[module_fn(p->m, i)->nodes[n].op] = true;
    for (int op = 0; op < OP_COUNT; op++) run->tally->rows[op] += used[op];
}

static bool wanted(const struct run *run, uint32_t claim, uint64_t seed)
{
    if (run->claim) return !strcmp(run->claim, random_claims[claim].name);
    return (seed + claim) % random_claims[claim].every == 0;
}

/* In a process of its own: the program and its claims, or making it small. */
static void seed_process(struct run *run, uint64_t seed, bool shrinking, bool crashed)
{
    struct bag bag = { 0 };
    struct program p = { .seed = seed };
    struct hop_catch caught;
    struct tally *tally = run->tally;
    struct module *m = module_new();
    struct check c = { .bag = &bag, .p = &p, .compiled = run->compiled, .tally = tally };
    if (HOP_TRY(caught)) {
        struct gen g = { .r = { seed }, .m = m };
        if (!shrinking) tally->claim = HOP_COUNT(random_claims);
        random_program(&bag, &g, &p);
        hop_catch_end(&caught);
        if (shrinking) {
            shrink_and_write(&c, tally->claim, crashed, run->folder, 60);
        } else {
            tally->made += g.made;
            tally->rejected += g.rejected;
            note_rows(run, &p);
        }
    } else {
        snprintf(tally->message, sizeof tally->message, "generating: %s", hop_message());
        tally->failed = true;
        return;
    }
    for (uint32_t k = 0; !shrinking && k < HOP_COUNT(random_claims); k++) {
        if (!wanted(run, k, seed) || (p.large && random_claims[k].under > 1)) continue;
        tally->claim = k;
        const char *wrong = hold(&c, k);
        tally->claims++;
        if (wrong) {
            snprintf(tally->message, sizeof tally->message, "%s", wrong);
            tally->failed = true;
            break;
        }
        note_nesting(run, &p, random_claims[k].under);
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
        alarm(shrinking ? 120 : 60);
        seed_process(run, seed, shrinking, crashed);
        fflush(NULL);
        _exit(0); /* leaks are counted by the tests of one process each: a leak checker in a forked child of a threaded process is not reliable */
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
        snprintf(tally->message, sizeof tally->message, "%s", WIFSIGNALED(status) ? WTERMSIG(status) == SIGALRM ? "took too long" : strsignal(WTERMSIG(status)) : "ended with a code");
    bool made = tally->claim < HOP_COUNT(random_claims);
    printf("seed %llu: %s: %.1000s\n", (unsigned long long)seed, made ? random_claims[tally->claim].name : "generating", tally->message);
    if (made && run->folder && (status = in_process(run, seed, true, crashed))) printf("  making it small ended with status %d\n", status);
    return false;
}

static void print_histogram(const struct tally *t)
{
    printf("%llu programs, %llu claims, %llu steps made, %llu rejected\n", (unsigned long long)t->programs, (unsigned long long)t->claims, (unsigned long long)t->made, (unsigned long long)t->rejected);
    printf("differences: %llu compared, %llu at kinks; default numbers: %llu compared, %llu sensitive; lanes of different sizes: %llu; not finite: %llu\n", (unsigned long long)t->compared,
           (unsigned long long)t->kinks, (unsigned long long)t->default_compared, (unsigned long long)t->sensitive, (unsigned long long)t->ragged, (unsigned long long)t->infinite);
    printf("rows:");
    for (int op = 0; op < OP_COUNT; op++) printf(" %s %llu", op_table[op]->name, (unsigned long long)t->rows[op]);
    printf("\n%-16s", "nested");
    for (int x = 0; x < HIGHER; x++)
        for (int y = 0; y < HIGHER; y++) printf(" %.2s>%.2s", op_table[higher_ops[x]]->name, op_table[higher_ops[y]]->name);
    for (int u = 0; u < UNDER && under_names[u]; u++) {
        printf("\n%-16s", under_names[u]);
        for (int x = 0; x < HIGHER; x++)
            for (int y = 0; y < HIGHER; y++) printf(" %5llu", (unsigned long long)t->nested[u][x][y]);
    }
    printf("\n");
}

int main(int argc, char **argv)
{
    struct run run = { .compiled = exe_available(), .folder = NULL };
    uint64_t first = 1, failed = 0, count = 600;
#ifdef __SANITIZE_ADDRESS__
    count = 60;
#endif
    char folder[4096];
    const char *slash = strrchr(argv[0], '/');
    int n_numbers = 0;
    snprintf(folder, sizeof folder, "%.*s/../random-failures", slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
    run.folder = folder;
    if (getenv("SOAK") && strcmp(getenv("SOAK"), "0")) count *= 25;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--soak")) count *= 25, first = 1000000;
        else if (!strcmp(argv[i], "--folder") && i + 1 < argc) run.folder = argv[++i];
        else if (!strcmp(argv[i], "--claim") && i + 1 < argc) run.claim = argv[++i];
        else if (!strcmp(argv[i], "--no-shrink")) run.folder = NULL;
        else if (!n_numbers++) first = strtoull(argv[i], NULL, 0), count = 1;
        else count = strtoull(argv[i], NULL, 0);
    }
    if (!run.compiled) printf("nothing is compiled: %s\n", hop_message());
    if (run.folder) mkdir(run.folder, 0777);
    run.tally = mmap(NULL, sizeof *run.tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run.tally == MAP_FAILED) return 2;
    for (uint64_t seed = first; seed < first + count; seed++) failed += !run_seed(&run, seed);
    struct tally *t = run.tally;
    print_histogram(t);
    if (t->kinks * 20 > t->compared) failed++, printf("more than a twentieth of the differences are at kinks\n");
    if (t->sensitive * 10 > t->default_compared) failed++, printf("more than a tenth of the programs are too sensitive to compare with default numbers\n");
    printf("%llu passed, %llu failed\n", (unsigned long long)t->claims, (unsigned long long)failed);
    return failed ? 1 : 0;
}
