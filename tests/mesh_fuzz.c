/* Random programs over a mesh (random_mesh.h) on ranks: sizes that the mesh does not divide, parts of none,
 * sizes that are symbols, one to eight ranks along one axis or two. Each is held against the same program on
 * whole arrays, interpreted: its value, gradients, tangents and lanes, interpreted and, with strict numbers,
 * by the executor and by LLVM, which give the interpreter's bits. Under MPI meshes have the ranks of the job,
 * and all of it is held to the bits of ranks that are threads, too.
 *
 * mesh_fuzz [--mpi] [FIRST [COUNT]]: seeds; a failure is printed with its seed; closes with `N passed, M
 * failed`, under MPI rank 0 does. */
#include "job.h"
#include "with_bag.h"

#include "dist/process.h"
#include "ir/text.h"
#include "random_mesh.h"
#include "transform/localize.h"
#include "transform/transform.h"

#include <stdlib.h>

static const struct bound close_f64 = { BOUND_TENSOR, 1e-9 }, bits = { BOUND_BITS, 0 };
static const bool all[16] = { true, true, true, true, true, true, true, true,
                              true, true, true, true, true, true, true, true };

struct run {
    struct bag *bag;
    struct module *m;
    uint64_t seed;
};

static struct tensor *random_tensor(const struct run *r, uint32_t rank, const int64_t *dims, uint64_t seed)
{
    struct tensor *t = bag_new(r->bag, DT_F64, rank, dims);
    struct random random = { seed };
    tensor_random(t, &random, -1, 1);
    return t;
}

/* The same on ranks that are threads of this process. */
static void compare_threads(const struct run *r, uint32_t global, const struct way *how,
                            struct tensor *const *args, const struct outcome *found, const char *what)
{
    struct outcome other;
    if (!process) return;
    dist_process_set(NULL);
    run_on(r->bag, r->m, global, how, args, NULL, &other);
    dist_process_set(process);
    const char *wrong = outcome_difference(&r->bag->arena, found, &other, bits, bits);
    CLAIM(!wrong, "%s of program %llu on threads: %s", what, (unsigned long long)r->seed, wrong ? wrong : "");
}

static void compare(const struct run *r, uint32_t global, uint32_t plain, struct tensor *const *args,
                    bool compiled, const char *what)
{
    const struct way ways[] = {
        { .name = "executor", .backend = backend_named("executor"), .passes = { .strict = true } },
        { .name = "LLVM", .backend = backend_named("llvm"), .passes = { .strict = true } },
    };
    struct outcome found, expected, other;
    struct arena *arena = &r->bag->arena;
    unsigned long long seed = r->seed;
    verify_fn(r->m, global);
    verify_fn(r->m, localized(r->m, global));
    run_on(r->bag, r->m, global, &interpreter, args, NULL, &found);
    run_on(r->bag, r->m, plain, &interpreter, args, NULL, &expected);
    const char *wrong = outcome_difference(arena, &found, &expected, close_f64, close_f64);
    CLAIM(!wrong && !expected.status, "%s of program %llu: %s", what, seed,
          wrong              ? wrong
          : expected.message ? expected.message
                             : "");
    compare_threads(r, global, &interpreter, args, &found, what);
    for (uint32_t i = 0; compiled && i < HOP_COUNT(ways) && !found.status; i++) {
        if (!ways[i].backend || (i && r->seed % 8)) continue; /* LLVM takes its time */
        run_on(r->bag, r->m, global, &ways[i], args, NULL, &other);
        wrong = outcome_difference(arena, &other, &found, bits, bits);
        CLAIM(!wrong, "%s of program %llu by %s: %s", what, seed, ways[i].name, wrong ? wrong : "");
    }
}

static void check_program(struct bag *bag, uint64_t seed)
{
    struct mesh_program p = { .arena = &bag->arena };
    random_mesh_program(&p, seed, seed % 5 == 0, process ? process->size : 0);
    if (getenv("HOP_TEST_SHOW")) puts(p.text.data);
    struct module *m = text_read("program", p.text.data, p.text.len);
    hop_cleanup_push(module_free, m);
    struct run r = { .bag = bag, .m = m, .seed = seed };
    uint32_t f = module_find(m, "f"), plain = module_find(m, "plain");
    const char *wrong = claim_round_trip(m);
    CLAIM(!wrong, "the text of program %llu: %s", (unsigned long long)seed, wrong ? wrong : "");
    int64_t dims[] = { p.n, p.n }, lanes[] = { 2, p.n, p.n };
    struct tensor *args[8];
    for (uint32_t k = 0; k < 8; k++) args[k] = random_tensor(&r, 2, dims, seed * 10 + k);
    uint32_t vjp = vjp_function(m, f, all), plain_vjp = vjp_function(m, plain, all);
    compare(&r, f, plain, args, true, "the value");
    compare(&r, vjp, plain_vjp, args, true, "the gradient");
    compare(&r, jvp_of(m, f, all), jvp_of(m, plain, all), args, false, "the tangents");
    static const int in[] = { 0, -1, 0, 0, 0 }, out[] = { 0, 0, 0, 0, 0 };
    for (uint32_t k = 0; k < 5; k++)
        if (!in[k]) args[k] = random_tensor(&r, 3, lanes, seed * 30 + k);
    compare(&r, vmap_function(m, vjp, in, out), vmap_function(m, plain_vjp, in, out), args, false,
            "lanes of the gradient");
    hop_cleanup_pop(m);
    module_free(m);
}

int main(int argc, char **argv)
{
    bool mpi = argc > 1 && !strcmp(argv[1], "--mpi");
    if (mpi) argc--, argv++;
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 80;
    setenv("HOP_DEBUG", "verify", 1);
    if (mpi && !job_join()) return 2;
    dist_process_set(process);
    for (uint64_t seed = first; seed < first + count; seed++) with_seed(check_program, seed);
    return process ? job_end() : tests_end();
}
