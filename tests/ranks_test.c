/* Programs on ranks. Every collective, of many shapes and dtypes, and random functions with loops, branches
 * and calls around them are run on 1, 2, 3, 4 and 8 ranks that are threads, along the axes of meshes of one
 * and two dims: interpreted, by the executor of loop programs and by LLVM with strict numbers, bit for bit
 * what the same functions give as lanes of a batch; their gradients likewise. Random products with exchanges
 * among them, that these go on meanwhile, and that nobody touches what they use. Then sizes that are not
 * known when compiling, exchanges in the memory of their operands, and what is refused. Under MPI each
 * process is a rank and holds its own results against the lanes.
 *
 * ranks_test [--mpi] [FIRST [COUNT]]: seeds; closes with `N passed, M failed`. */
#include "job.h"
#include "lanes_program.h"
#include "with_bag.h"

#include "dist/exchange.h"
#include "ir/axes.h"
#include "loop/lower.h"
#include "loop/lp_walk.h"
#include "runtime/ranks.h"
#include "transform/transform.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ARRAYS = 8 };
static const bool all[N_GIVEN] = { true, true, true };
static const int32_t rank_counts[] = { 1, 2, 3, 4, 8 };

/* ---- running a function on ranks ---- */

/* The function @body of the text (or its gradient), compiled or to be interpreted, and what each rank has. */
struct job {
    const char *text;
    bool gradient;
    struct exe *exe; /* NULL: interpreted, by each rank in a module of its own */
    uint32_t n_args, n_results;
    struct tensor *args[MOST_LANES][MOST_ARRAYS], *results[MOST_LANES][MOST_ARRAYS];
};

static uint32_t body_of(struct module *m, bool gradient)
{
    uint32_t fn = module_find(m, "body");
    return gradient ? vjp_function(m, fn, all) : fn;
}

static hop_status run_rank(struct rank *r, void *ctx)
{
    struct job *j = ctx;
    if (j->exe) {
        exe_run(j->exe, j->args[r->number], NULL, j->results[r->number], NULL);
        return HOP_OK;
    }
    struct module *m = text_read("program", j->text, strlen(j->text));
    hop_cleanup_push(module_free, m);
    struct interp in = { .m = m, .ranks = &interp_on_ranks };
    interp_run(&in, body_of(m, j->gradient), j->args[r->number], NULL, j->results[r->number]);
    hop_cleanup_pop(m);
    module_free(m);
    return HOP_OK;
}

static void drop_results(struct job *j)
{
    for (uint32_t r = 0; r < MOST_LANES; r++)
        for (uint32_t k = 0; k < MOST_ARRAYS; k++) {
            tensor_free(j->results[r][k]);
            j->results[r][k] = NULL;
        }
}

/* Row `at` of the leading dims that lanes run along. */
static struct tensor *part_of_lanes(struct bag *bag, const struct tensor *whole, uint32_t n_lane_dims,
                                    int64_t at)
{
    struct tensor *t = bag_new(bag, (enum dtype)whole->dtype, whole->rank - n_lane_dims,
                               whole->dims + n_lane_dims);
    size_t bytes = (size_t)t->count * dtype_info[t->dtype].size;
    if (bytes) memcpy(t->data, (const char *)whole->data + (size_t)at * bytes, bytes);
    return t;
}

struct expected {
    struct tensor *whole;
    uint32_t n_lane_dims; /* 0: the same in all lanes */
};

static bool is_here(int32_t r) { return !process || process->number == r; }
static int32_t random_ranks(void)
{
    int32_t n = rank_counts[below(HOP_COUNT(rank_counts))];
    return process ? process->size : n;
}

static hop_status run_ranks(int32_t n, struct job *j)
{
    return process ? run_rank(process, j) : dist_run_threads(n, run_rank, j);
}

/* Runs it in every way, and compares with the lanes of a batch. */
static void check_ranks(struct bag *bag, struct job *j, int32_t n, const struct expected *expected, bool llvm,
                        const char *what)
{
    static const char *const names[] = { "interpreted", "executor", "LLVM" };
    for (uint32_t way = 0; way < HOP_COUNT(names); way++) {
        struct module *m = NULL;
        if (way == 2 && !llvm) continue;
        if (way) {
            struct compile_options o = { .passes = { .strict = true }, .threads = 2, .no_cache = true };
            o.backend = backend_named(way == 1 ? "executor" : "llvm");
            m = text_read("program", j->text, strlen(j->text));
            hop_cleanup_push(module_free, m);
            j->exe = exe_compile(m, body_of(m, j->gradient), &o, NULL);
        }
        hop_status status = run_ranks(n, j);
        CLAIM(!status, "%s, %s on %d ranks: %s", what, names[way], n, hop_message());
        for (int32_t r = 0; r < n && !status; r++)
            for (uint32_t k = 0; k < j->n_results && is_here(r); k++) {
                const struct expected *e = &expected[k];
                const struct tensor *want = part_of_lanes(bag, e->whole, e->n_lane_dims,
                                                          e->n_lane_dims ? r : 0);
                const char *wrong = tensor_difference(&bag->arena, j->results[r][k], want,
                                                      (struct bound){ BOUND_BITS, 0 });
                CLAIM(!wrong, "%s, %s, rank %d of %d, result %u: %s\n%s", what, names[way], r, n, k,
                      wrong ? wrong : "", wrong ? j->text : "");
            }
        drop_results(j);
        exe_free(j->exe);
        j->exe = NULL;
        if (!m) continue;
        hop_cleanup_pop(m);
        module_free(m);
    }
}

/* ---- random functions ---- */

static struct tensor *random_tensor(struct bag *bag, enum dtype t, uint32_t rank, const int64_t *dims,
                                    uint64_t seed)
{
    struct tensor *x = bag_new(bag, t, rank, dims);
    struct random r = { seed };
    tensor_random(x, &r, dtype_is_float(t) ? -2 : -3, dtype_is_float(t) ? 2 : 3);
    return x;
}

static void check_program(struct bag *bag, uint64_t seed)
{
    struct program p = { .text = { .arena = &bag->arena } }, batch;
    static const bool params[N_GIVEN] = { true, true, false };
    bool varies[N_GIVEN + MOST_STEPS];
    state = seed * 131 + 7;
    for (int i = 0; i < 8; i++) below(2);
    p.lanes = (uint32_t)random_ranks();
    random_body(&p, N_GIVEN, 3 + below(MOST_STEPS - 3), false, 0);
    body_varies(&p, 0, params, varies);
    uint32_t n = N_GIVEN + p.bodies[0].n, two[2] = { n - 1, n - 2 };
    batch = p;
    write_lane(&p, varies, two, true);
    write_lane(&batch, varies, two, false);
    struct module *m = text_read("program", batch.text.data, batch.text.len);
    hop_cleanup_push(module_free, m);
    axis_set axis = module_axis(m, module_string(m, "i", 1));
    for (int gradient = 0; gradient < 2; gradient++) {
        int lanes[N_GIVEN + 4] = { 0, 0, -1, varies[two[0]] ? 0 : -1, varies[two[1]] ? 0 : -1 };
        int out[2 + N_GIVEN] = { lanes[3], lanes[4], 0, 0, -1 };
        struct job j = { .text = p.text.data, .gradient = gradient };
        j.n_args = gradient ? N_GIVEN + 2 : N_GIVEN;
        j.n_results = gradient ? 2 + N_GIVEN : 2;
        struct tensor *args[N_GIVEN + 2];
        for (uint32_t k = 0; k < j.n_args; k++) {
            int64_t dims[2] = { lanes[k] < 0 ? WIDTH : p.lanes, WIDTH };
            uint64_t own = seed * 10 + k;
            args[k] = random_tensor(bag, DT_F64, lanes[k] < 0 ? 1 : 2, dims, own);
            for (uint32_t r = 0; r < p.lanes; r++)
                j.args[r][k] = part_of_lanes(bag, args[k], lanes[k] == 0, lanes[k] < 0 ? 0 : r);
        }
        struct outcome found;
        run_on(bag, m, vmap_axis(m, body_of(m, gradient), lanes, out, axis), &interpreter, args, NULL,
               &found);
        CLAIM(!found.status, "program %llu: %s", (unsigned long long)seed,
              found.message ? found.message : "");
        if (found.status) break;
        struct expected expected[2 + N_GIVEN];
        for (uint32_t k = 0; k < j.n_results; k++)
            expected[k] = (struct expected){ found.results[k], out[k] == 0 };
        const char *what = arena_printf(&bag->arena, "%s %llu",
                                        gradient ? "the gradient of program" : "program",
                                        (unsigned long long)seed);
        check_ranks(bag, &j, (int32_t)p.lanes, expected, seed % 8 == 0, what);
    }
    hop_cleanup_pop(m);
    module_free(m);
}

/* ---- every collective ---- */

/* `line` makes %y of %x; $ stands for the number of ranks, # for the attributes of the axis. */
struct one {
    const char *from, *to; /* types */
    const char *line;
    enum dtype dtypes[4]; /* further ones to be tried instead of f32; DT_BOOL ends */
};
static const struct one ones[] = {
    { "[]", "[]", "%y = all_reduce {#, op = sum} (%x)", { DT_F64, DT_BF16, DT_I32, DT_BOOL } },
    { "[]", "[]", "%y = all_reduce {#, op = mean} (%x)", { DT_F16, DT_BOOL } },
    { "[]", "[]", "%y = all_reduce {#, op = max} (%x)", { DT_U8, DT_I64, DT_BOOL } },
    { "[1]", "[1]", "%y = all_reduce {#, op = sum} (%x)", { DT_F16, DT_BOOL } },
    { "[5]", "[5]", "%y = all_reduce {#, op = sum} (%x)", { DT_F64, DT_F16, DT_I8, DT_BOOL } },
    { "[2, 3]", "[2, 3]", "%y = all_reduce {#, op = prod} (%x)", { DT_U16, DT_BF16, DT_BOOL } },
    { "[2, 3]", "[2, 3]", "%y = all_reduce {#, op = min} (%x)", { DT_F16, DT_I16, DT_BOOL } },
    { "[7]", "[7]", "%y = all_reduce {#, op = mean} (%x)", { DT_F64, DT_BF16, DT_BOOL } },
    { "[0]", "[0]", "%y = all_reduce {#, op = sum} (%x)", { DT_BOOL } },
    { "[3000]", "[3000]", "%y = all_reduce {#, op = sum} (%x)", { DT_F64, DT_BOOL } },
    /* in the memory of what is added up, or not */
    { "[6]", "[6]", "%q = mul(%x, %x)\n%y = all_reduce {#, op = sum} (%q)", { DT_BOOL } },
    { "[6]",
      "[6]",
      "%q = mul(%x, %x)\n%r = all_reduce {#, op = sum} (%q)\n%v = vary {axis = \"i\"} (%r)\n"
      "%y = sub(%v, %q)",
      { DT_BOOL } },
    { "[600]",
      "[600]",
      "%y = scan {length = 3} carry(%c = %x) {\n%q = mul(%c, %c)\n%r = all_reduce {#, op = mean} (%q)\n"
      "%v = vary {axis = \"i\"} (%r)\nnext(%v)\n}",
      { DT_BOOL } },
    /* two that become one */
    { "[2, 3]",
      "[2, 3]",
      "%a = all_reduce {#, op = sum} (%x)\n%q = sum {dims = [0]} (%x)\n%b = all_reduce {#, op = sum} (%q)\n"
      "%c = broadcast {dims = [2, 3], at = [1]} (%b)\n%d = sub(%a, %c)\n%y = vary {axis = \"i\"} (%d)",
      { DT_F64, DT_BF16, DT_I32, DT_BOOL } },
    { "[7]",
      "[7]",
      "%q = mul(%x, %x)\n%a = all_reduce {#, op = max} (%x)\n%b = all_reduce {#, op = max} (%q)\n"
      "%d = sub(%a, %b)\n%y = vary {axis = \"i\"} (%d)",
      { DT_F16, DT_I8, DT_BOOL } },
    { "[]", "[$]", "%y = all_gather {#} (%x)", { DT_I64, DT_BOOL } },
    { "[3]", "[$, 3]", "%y = all_gather {#} (%x)", { DT_BF16, DT_BOOL } },
    { "[3]", "[3, $]", "%y = all_gather {#, dim = 1} (%x)", { DT_I16, DT_BOOL } },
    { "[2, 3]", "[2, $, 3]", "%y = all_gather {#, dim = 1} (%x)", { DT_F64, DT_BOOL } },
    { "[2, 3]", "[2, $*3]", "%y = all_gather {#, dim = 1, tiled} (%x)", { DT_U8, DT_BOOL } },
    { "[2, 3]", "[$*2, 3]", "%y = all_gather {#, tiled} (%x)", { DT_F64, DT_BOOL } },
    { "[0, 3]", "[0, 3]", "%y = all_gather {#, tiled} (%x)", { DT_BOOL } },
    { "[$]", "[]", "%y = reduce_scatter {#} (%x)", { DT_F64, DT_I32, DT_BOOL } },
    { "[$, 2]", "[2]", "%y = reduce_scatter {#} (%x)", { DT_F16, DT_BOOL } },
    { "[3, $]", "[3]", "%y = reduce_scatter {#, dim = 1} (%x)", { DT_I8, DT_BOOL } },
    { "[2, $*3]", "[2, 3]", "%y = reduce_scatter {#, dim = 1, tiled} (%x)", { DT_F64, DT_BOOL } },
    { "[$*4]", "[4]", "%y = reduce_scatter {#, tiled} (%x)", { DT_BF16, DT_BOOL } },
    { "[$]", "[$]", "%y = all_to_all {#, split = 0, concat = 0} (%x)", { DT_I64, DT_BOOL } },
    { "[$, 3]", "[3, $]", "%y = all_to_all {#, split = 0, concat = 1} (%x)", { DT_F64, DT_BOOL } },
    { "[3, $]", "[$, 3]", "%y = all_to_all {#, split = 1, concat = 0} (%x)", { DT_U8, DT_BOOL } },
    { "[3, $, 2]", "[3, 2, $]", "%y = all_to_all {#, split = 1, concat = 2} (%x)", { DT_BOOL } },
    { "[3, 2, $]", "[3, $, 2]", "%y = all_to_all {#, split = 2, concat = 1} (%x)", { DT_BOOL } },
    { "[2, $*3]", "[$*2, 3]", "%y = all_to_all {#, split = 1, concat = 0, tiled} (%x)", { DT_I16, DT_BOOL } },
    { "[$*2, 3]", "[2, $*3]", "%y = all_to_all {#, split = 0, concat = 1, tiled} (%x)", { DT_F64, DT_BOOL } },
    { "[2, $*3]", "[2, $*3]", "%y = all_to_all {#, split = 1, concat = 1, tiled} (%x)", { DT_BOOL } },
    { "[$*2, 2]", "[$*2, 2]", "%y = all_to_all {#, split = 0, concat = 0, tiled} (%x)", { DT_BOOL } },
    { "[3]", "[3]", "%y = rank_broadcast {#, root = 0} (%x)", { DT_F64, DT_BOOL } },
    { "[]", "[]", "%y = rank_broadcast {#, root = 0} (%x)", { DT_I32, DT_BOOL } },
    { "[4]", "[4]", "%y = rank_permute {#, pairs = [0, 0]} (%x)", { DT_I8, DT_BOOL } },
    { "[]", "[]", "%y = rank_permute {#, pairs = []} (%x)", { DT_BOOL } },
    { "[900]", "[900]", "%q = mul(%x, %x)\n%y = rank_permute {#, pairs = [0, 0]} (%q)", { DT_BOOL } },
    { "[]",
      "[]",
      "%k = rank_index {axis = \"i\"}\n%n = rank_count {axis = \"i\"}\n%z = add(%k, %n)\n"
      "%f = cast {dtype = f32} (%z)\n%y = mul(%x, %f)",
      { DT_BOOL } },
};

/* With $ and # replaced, and the axis `i` of the text by this one. */
static void put_line(struct text *out, const char *line, int32_t lanes)
{
    for (const char *c = line; *c; c++) {
        if (*c == '$') text_add(out, "%d", lanes);
        else if (*c == '#') text_add(out, "axis = \"i\", size = %d", lanes);
        else text_add(out, "%c", *c);
    }
}

/* "f32[$, 3]" with lanes in front: "f32[4, $, 3]". */
static void put_type(struct text *out, enum dtype t, const char *dims, int32_t lanes, const char *in_front)
{
    text_add(out, "%s[%s%s", dtype_info[t].name, in_front, *in_front && dims[1] != ']' ? ", " : "");
    put_line(out, dims + 1, lanes);
}

/* Which mesh it is run on: the axis `i` alone, or beside another one, in front of it or behind. */
enum mesh_kind { MESH_OF_ONE, MESH_IN_FRONT, MESH_BEHIND, MESHES };

/* Is the result the same on all ranks? Then the last line is one of these. */
static bool is_joined(const struct one *o)
{
    const char *last = strrchr(o->line, '\n');
    last = last ? last + 1 : o->line;
    return strstr(last, "all_reduce") || strstr(last, "all_gather") || strstr(last, "rank_broadcast");
}

static void write_one(struct text *out, const struct one *o, enum dtype t, int32_t lanes, int32_t others,
                      enum mesh_kind mesh, bool batch)
{
    const char *const meshes[] = { "(i = %d)", "(i = %d, j = %d)", "(j = %d, i = %d)" };
    bool first = mesh != MESH_BEHIND;
    text_str(out, "hop 1\n");
    if (!batch) {
        text_str(out, "mesh @ranks = ");
        text_add(out, meshes[mesh], first ? lanes : others, first ? others : lanes);
        text_str(out, "\nfn @body(%x: ");
        put_type(out, t, o->from, lanes, "");
        text_str(out, mesh ? "{i, j}) -> (" : "{i}) -> (");
        put_type(out, t, o->to, lanes, "");
        text_str(out, mesh ? "{i, j}) {\n" : "{i}) {\n");
        put_line(out, o->line, lanes);
        text_str(out, is_joined(o) ? "\n%w = vary {axis = \"i\"} (%y)\nreturn %w\n}\n" : "\nreturn %y\n}\n");
        return;
    }
    const char *in_front = arena_printf(out->arena, "%d", lanes);
    if (mesh) in_front = arena_printf(out->arena, "%d, %d", first ? lanes : others, first ? others : lanes);
    text_str(out, "fn @main(%xs: ");
    put_type(out, t, o->from, lanes, in_front);
    text_str(out, ") -> (");
    put_type(out, t, o->to, lanes, in_front);
    text_add(out, ") {\n%%ys = map {axis = \"%s\"} over(%%%s in %%xs) {\n", first ? "i" : "j",
             mesh ? "row" : "x");
    if (mesh) text_add(out, "%%zs = map {axis = \"%s\"} over(%%x in %%row) {\n", first ? "j" : "i");
    put_line(out, o->line, lanes);
    text_str(out,
             mesh ? "\nstack(%y)\n}\nstack(%zs)\n}\nreturn %ys\n}\n" : "\nstack(%y)\n}\nreturn %ys\n}\n");
}

static void check_one(struct bag *bag, const struct one *o, enum dtype t, int32_t lanes, int32_t others,
                      enum mesh_kind mesh, bool llvm)
{
    struct text own = { .arena = &bag->arena }, all_lanes = { .arena = &bag->arena };
    int32_t n = mesh ? lanes * others : lanes;
    if (process && process->size != n) return;
    write_one(&own, o, t, lanes, others, mesh, false);
    write_one(&all_lanes, o, t, lanes, others, mesh, true);
    struct module *m = text_read("batch", all_lanes.data, all_lanes.len);
    hop_cleanup_push(module_free, m);
    uint32_t main_fn = module_find(m, "main");
    struct type from = type_get(m, value_type(module_fn(m, main_fn), 0));
    int64_t dims[MAX_RANK];
    for (uint32_t d = 0; d < from.rank; d++) dims[d] = dim_const_value(m, from.dims[d]);
    struct tensor *x = random_tensor(bag, t, from.rank, dims, (uint64_t)(o - ones) * 100 + (uint64_t)n);
    /* along one of two axes a batch adds scalars up in another order: these sums have one value in any */
    for (int64_t i = 0; mesh && i < x->count; i++) tensor_set(x, i, round(4 * tensor_get(x, i)) / 4);
    struct job j = { .text = own.data, .n_args = 1, .n_results = 1 };
    for (int32_t r = 0; r < n; r++) j.args[r][0] = part_of_lanes(bag, x, mesh ? 2 : 1, r);
    struct outcome found;
    run_on(bag, m, main_fn, &interpreter, &x, NULL, &found);
    CLAIM(!found.status, "%s: %s", o->line, found.message ? found.message : "");
    if (!found.status)
        check_ranks(bag, &j, n, &(struct expected){ found.results[0], mesh ? 2 : 1 }, llvm, o->line);
    hop_cleanup_pop(m);
    module_free(m);
}

static void check_ones(struct bag *bag, void *ctx)
{
    HOP_UNUSED(ctx);
    for (uint32_t i = 0; i < HOP_COUNT(ones); i++)
        for (uint32_t k = 0; k < HOP_COUNT(rank_counts); k++) {
            const struct one *o = &ones[i];
            int32_t n = rank_counts[k];
            check_one(bag, o, DT_F32, n, 1, MESH_OF_ONE, (i + k) % HOP_COUNT(rank_counts) == 0);
            if (k == i % HOP_COUNT(rank_counts))
                for (uint32_t d = 0; o->dtypes[d] != DT_BOOL; d++)
                    check_one(bag, o, o->dtypes[d], n, 1, MESH_OF_ONE, d == 0);
            if (n > 4) continue;
            enum mesh_kind mesh = (i + k) % 2 ? MESH_IN_FRONT : MESH_BEHIND;
            check_one(bag, o, DT_F32, n, n == 4 ? 2 : 3 - (int32_t)(i % 2) - (n == 3), mesh, false);
        }
}

/* ---- programs over a mesh ---- */

static const char global_text[] =
    "hop 1\nmesh @m = (data = 4)\n"
    "fn @main[N](%s: mut f32[N]@m(0), %x: f32[N]@m(0), %least: f32[]) -> (f32[], new %s) effects(check) {\n"
    "  %n, %t = local_map {mesh = \"m\", in = \"0, 0, _\", out = \"0, _\"}"
    " part(%a = %s, %b = %x, %c = %least) [N, r along data] {\n"
    "    %d = add(%a, %b)\n    %q = reduce_min(%b)\n    %good = ge(%q, %c)\n"
    "    check {message = \"too small\"} (%good, %q)\n"
    "    %e = sum(%d)\n    %u = all_reduce {axis = \"data\", op = sum} (%e)\n    yield(%d, %u)\n  }\n"
    "  return %t, %n\n}\n";

/* Runs it on s and x; what came of s and the sum. */
struct global_run {
    struct exe *exe;
    struct tensor *args[3], *results[2];
    const volatile int *cancel;
};

static void run_global(void *ctx)
{
    struct global_run *g = ctx;
    exe_run(g->exe, g->args, NULL, g->results, &(struct exe_call){ .cancel = g->cancel });
}

static void drop_global(struct global_run *g)
{
    for (int k = 0; k < 2; k++) {
        tensor_free(g->results[k]);
        g->results[k] = NULL;
    }
}

static void check_global(struct bag *bag, void *ctx)
{
    HOP_UNUSED(ctx);
    struct module *m = text_read("program", global_text, sizeof global_text - 1);
    hop_cleanup_push(module_free, m);
    const char *const names[] = { "executor", "llvm" };
    for (uint32_t way = 0; way < HOP_COUNT(names); way++) {
        struct compile_options o = { .backend = backend_named(names[way]), .no_cache = true };
        struct global_run g = { .exe = exe_compile(m, module_find(m, "main"), &o, NULL) };
        struct spread two;
        spread_parse(&bag->arena, "data = 4", "0", 1, &two);
        int64_t n = 5;
        struct tensor *s = bag_new(bag, DT_F32, 1, &n), *x = bag_new(bag, DT_F32, 1, &n);
        for (int64_t i = 0; i < n; i++) tensor_set(s, i, 10), tensor_set(x, i, (double)i);
        struct tensor *parts = bag_keep(bag, parts_of(s, &two, 0, 4));
        g.args[0] = parts;
        g.args[1] = x; /* cut by the run */
        g.args[2] = bag_new(bag, DT_F32, 0, NULL);
        CLAIM(exe_on_ranks(g.exe), "it is a program over a mesh");
        for (int again = 0; again < 3; again++) {
            hop_status status = attempt(run_global, &g);
            CLAIM(!status && tensor_get(g.results[0], 0) == 60, "%s: the sum: %s", names[way], hop_message());
            struct tensor *whole = status ? NULL : parts_whole(g.results[1]);
            for (int64_t i = 0; whole && i < n; i++)
                CLAIM(tensor_get(whole, i) == 10 + (double)i, "%s: element %lld", names[way], (long long)i);
            tensor_free(whole);
            drop_global(&g);
        }
        tensor_set(g.args[2], 0, 1); /* the first part has a 0 */
        CLAIM(attempt(run_global, &g) == HOP_CHECK && strstr(hop_message(), "rank 0: ") &&
                  strstr(hop_message(), "too small"),
              "%s: a rank that fails is named: %s", names[way], hop_message());
        CLAIM(!g.results[0] && !g.results[1] && tensor_get(parts->parts->part[0], 0) == 10,
              "%s: nothing was given or written", names[way]);
        tensor_set(g.args[2], 0, 0);
        CLAIM(!attempt(run_global, &g), "%s: the next run is none the worse: %s", names[way], hop_message());
        drop_global(&g);
        spread_parse(&bag->arena, "data = 4", "_", 1, &two);
        two.at[0].kind = PLACE_EACH;
        two.placements = "each";
        struct tensor *four[4] = { tensor_ref(x), tensor_ref(x), tensor_ref(x), tensor_ref(x) };
        g.args[1] = bag_keep(bag, parts_new(DT_F32, 1, &n, &two, 0, 4, four));
        CLAIM(attempt(run_global, &g) == HOP_INVALID && strstr(hop_message(), "redistribute it first"),
              "%s: other placements: %s", names[way], hop_message());
        exe_free(g.exe);
    }
    hop_cleanup_pop(m);
    module_free(m);
}

/* A loop without an end on all ranks but the calling one, which waits for them. */
static void check_cancelled(struct bag *bag, void *ctx)
{
    static const char text[] =
        "hop 1\nmesh @m = (data = 2)\nfn @main(%x: f32[2]@m(0)) -> (f32[]) {\n"
        "  %s = local_map {mesh = \"m\", in = \"0\", out = \"_\"} part(%a = %x) {\n"
        "    %b = sum(%a)\n    %zero = full {value = 0, dims = [], dtype = f32}\n"
        "    %l = while_loop carry(%c = %b) cond with(%z = %zero) {\n"
        "      %t = gt(%c, %z)\n      test(%t)\n    } body {\n      %n = add(%c, %c)\n      next(%n)\n    }\n"
        "    %u = all_reduce {axis = \"data\", op = sum} (%l)\n    yield(%u)\n  }\n  return %s\n}\n";
    HOP_UNUSED(ctx);
    static const volatile int cancel = 1;
    struct module *m = text_read("program", text, sizeof text - 1);
    hop_cleanup_push(module_free, m);
    struct compile_options o = { .backend = backend_named("executor"), .no_cache = true };
    struct global_run g = { .exe = exe_compile(m, module_find(m, "main"), &o, NULL), .cancel = &cancel };
    int64_t n = 2;
    struct tensor *x = g.args[0] = bag_new(bag, DT_F32, 1, &n);
    tensor_set(x, 1, 1); /* rank 1 counts for ever, rank 0 waits */
    CLAIM(attempt(run_global, &g) == HOP_CANCELLED, "a run is ended on all ranks: %s", hop_message());
    exe_free(g.exe);
    hop_cleanup_pop(m);
    module_free(m);
}

/* ---- exchanges that are under way while the program goes on ---- */

enum { SIDE = 24, UNDER_WAY_RESULTS = 3 };

/* What a step makes of %x and %y, values of f64[24, 24]; it is called %z. */
static const char *const steps[] = {
    "%z = matmul(%x, %y)",
    "%z = add(%x, %y)",
    "%p = mul(%x, %y)\n%z = sin(%p)",
    "%p = permute {order = [1, 0]} (%x)\n%z = sub(%p, %y)",
    "%p = all_reduce {#, op = mean} (%x)\n%z = vary {axis = \"i\"} (%p)",
    "%o = mul(%x, %y)\n%p = all_reduce {#, op = max} (%o)\n%z = vary {axis = \"i\"} (%p)",
    "%z = rank_permute {#, pairs = [@]} (%x)",
    "%o = all_reduce {#, op = mean} (%x)\n%p = all_reduce {#, op = mean} (%y)\n%q = sub(%o, %p)\n"
    "%z = vary {axis = \"i\"} (%q)",
    "%z = all_to_all {#, split = 0, concat = 0, tiled} (%y)",
    "%o = sum(%x)\n%p = all_reduce {#, op = mean} (%o)\n%q = vary {axis = \"i\"} (%p)\n"
    "%r = broadcast {dims = [24, 24], at = []} (%q)\n%z = add(%r, %y)",
    "%z, %o = scan {length = 2} carry(%a = %x, %b = %y) {\n%c = all_reduce {#, op = mean} (%a)\n"
    "%d = matmul(%b, %b)\n%e = sin(%d)\n%f = vary {axis = \"i\"} (%c)\nnext(%f, %e)\n}",
};

/* A step of the text with names of its own: values are %NUMBER, all others end in the step's number. */
static void put_step(struct text *out, const char *step, int32_t lanes, uint32_t number, const uint32_t *xy)
{
    for (const char *c = step; *c; c++) {
        char one[2] = { *c, 0 };
        if (*c == '@') {
            for (int32_t r = 0; r < lanes; r++) text_add(out, "%s%d, %d", r ? ", " : "", r, (r + 1) % lanes);
        } else if (*c != '%') put_line(out, one, lanes);
        else if (*++c == 'z') text_add(out, "%%v%u", number);
        else if (*c == 'x' || *c == 'y') text_add(out, "%%v%u", xy[*c - 'x']);
        else text_add(out, "%%%c%u", *c, number);
    }
}

static void write_under_way(struct text *out, int32_t lanes, uint32_t n)
{
    static const char type[] = "f64[24, 24]{i}";
    text_add(out, "hop 1\nmesh @ranks = (i = %d)\nfn @body(%%v0: %s, %%v1: %s) -> (%s, %s, %s) {\n", lanes,
             type, type, type, type, type);
    for (uint32_t k = 2; k < n; k++) {
        uint32_t xy[2] = { below(k), below(k) };
        put_step(out, steps[below(HOP_COUNT(steps))], lanes, k, xy);
        text_str(out, "\n");
    }
    text_add(out, "return %%v%u, %%v%u, %%v%u\n}\n", n - 1, n - 2, 2 + below(n - 2));
}

/* What is said of the exchanges of a loop program. */
struct under_way {
    const struct lp *p;
    uint32_t exchanges,
        with_work;        /* how many there are; between whose begin and wait something is computed */
    uint32_t last, wrong; /* number of the last that was begun; what must not be */
    const struct lp_call *now;
};

static bool share_memory(const struct lp *p, uint32_t a, uint32_t b)
{
    const struct lp_buffer *x = &p->buffers.data[a], *y = &p->buffers.data[b];
    if (a == b || x->kind != BUF_TEMP || y->kind != BUF_TEMP) return a == b;
    int64_t end_x = x->offset + x->static_count * (int64_t)dtype_info[x->dtype].size;
    int64_t end_y = y->offset + y->static_count * (int64_t)dtype_info[y->dtype].size;
    return x->offset < end_y && y->offset < end_x;
}

static void touch_under_way(void *ctx, uint32_t buffer, lpv index, bool writes)
{
    struct under_way *u = ctx;
    HOP_UNUSED(index);
    u->wrong += share_memory(u->p, u->now->operands[1].buffer, buffer);
    u->wrong += writes && share_memory(u->p, u->now->operands[0].buffer, buffer);
}

static void walk_under_way(struct under_way *u, const struct lp_stmt *s)
{
    lp_stmt_buffers(u->p, s, touch_under_way, u);
    const struct lp_block *inside[2] = { s->body, s->other };
    for (int k = 0; k < 2; k++)
        for (uint32_t i = 0; inside[k] && i < inside[k]->stmts.len; i++)
            walk_under_way(u, &inside[k]->stmts.data[i]);
}

static void look_under_way(struct under_way *u, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        look_under_way(u, s->body);
        look_under_way(u, s->other);
        if (s->kind != LP_CALL || s->call->kind != CALL_EXCHANGE) continue;
        bool work = false, waited = false;
        u->now = s->call;
        u->wrong += u->exchanges++ && s->call->target <= u->last;
        u->last = s->call->target;
        for (uint32_t k = i + 1; k < block->stmts.len && !waited; k++) {
            const struct lp_stmt *t = &block->stmts.data[k];
            waited = t->kind == LP_CALL && t->call->kind == CALL_WAIT && t->call->target == s->call->target;
            if (waited) continue;
            work |= t->body || (t->kind == LP_CALL && t->call->kind == CALL_GEMM);
            walk_under_way(u, t);
        }
        u->wrong += !waited;
        u->with_work += work;
    }
}

/* Between begin and wait nobody touches what the exchange uses, nor any memory that it is in; begins keep
 * their order. How many go on while something is computed. */
static struct under_way check_order(const char *text, struct pass_options options)
{
    struct module *m = text_read("program", text, strlen(text));
    hop_cleanup_push(module_free, m);
    struct lp *p = lower_and_plan(m, module_find(m, "body"), &options);
    struct under_way u = { .p = p };
    look_under_way(&u, p->root);
    CLAIM(!u.wrong && p->arena_static, "%u places that an exchange forbids:\n%s", u.wrong, text);
    lp_free(p);
    hop_cleanup_pop(m);
    module_free(m);
    return u;
}

/* Loop programs in which these words stand one behind the other. */
static const struct {
    const char *body, *words[10];
    bool profile;
} orders[] = {
    /* begun before what it does not need, waited for behind it; a scalar is read where it is waited for */
    { "(f64[96, 96]{i}, f64[]) {\n%o = sum(%v0)\n%m = matmul(%v1, %v1)\n"
      "%p = all_reduce {axis = \"i\", op = sum} (%o)\nreturn %m, %p\n}\n",
      { "begin 0", "= gemm(", "wait for 0", "t4[0];", "res1[0] =" } },
    { "(f64[96, 96], f64[96, 96]) {\n%a = matmul(%v0, %v1)\n%p = all_reduce {axis = \"i\", op = sum} (%a)\n"
      "%b = matmul(%v1, %v1)\n%q = all_reduce {axis = \"i\", op = sum} (%b)\nreturn %p, %q\n}\n",
      { "= gemm(", "begin 0", "= gemm(", "begin 1", "wait for 0", "wait for 1" } },
    /* what needs it waits */
    { "(f64[96, 96]{i}) {\n%a = all_reduce {axis = \"i\", op = sum} (%v0)\n%v = vary {axis = \"i\"} (%a)\n"
      "%b = matmul(%v, %v1)\nreturn %b\n}\n",
      { "begin 0", "wait for 0", "= gemm(" } },
    /* nothing is under way when a check may fail */
    { "(f64[96, 96], f64[96, 96]{i}) effects(check) {\n%a = all_reduce {axis = \"i\", op = sum} (%v0)\n"
      "%o = sum(%v1)\n%p = mul(%o, %o)\n%g = ge(%p, %o)\ncheck {message = \"small\"} (%g, %o)\n"
      "%b = matmul(%v1, %v1)\nreturn %a, %b\n}\n",
      { "begin 0", "wait for 0", "check(", "= gemm(" } },
    /* in the body of a loop, to its end and no further */
    { "(f64[96, 96]{i}, f64[96, 96]{i}) {\n%p, %q = scan {length = 3} carry(%a = %v0, %b = %v1) {\n"
      "%c = all_reduce {axis = \"i\", op = mean} (%a)\n%d = matmul(%b, %b)\n%f = vary {axis = \"i\"} (%c)\n"
      "next(%f, %d)\n}\n%e = matmul(%q, %q)\nreturn %p, %e\n}\n",
      { "for (", "begin 0", "= gemm(", "wait for 0", "}", "= gemm(" } },
    /* the time of what moves counts where it was written */
    { "(f64[96, 96], f64[96, 96]{i}) {\n%a = all_reduce {axis = \"i\", op = sum} (%v0)\n"
      "%b = matmul(%v1, %v1)\nreturn %a, %b\n}\n",
      { "mark(", "begin 0", "mark(", "= gemm(", "mark(", "wait for 0", "mark(" },
      true },
};

static void check_orders(struct bag *bag, void *ctx)
{
    HOP_UNUSED(ctx);
    for (uint32_t i = 0; i < HOP_COUNT(orders); i++) {
        struct text text = { .arena = &bag->arena }, printed = { .arena = &bag->arena };
        text_add(&text,
                 "hop 1\nmesh @ranks = (i = 2)\nfn @body(%%v0: f64[96, 96]{i}, %%v1: f64[96, 96]{i}) -> %s",
                 orders[i].body);
        struct module *m = text_read("program", text.data, text.len);
        hop_cleanup_push(module_free, m);
        struct lp *p = lower_and_plan(m, module_find(m, "body"),
                                      &(struct pass_options){ .profile = orders[i].profile });
        lp_print(p, &printed);
        const char *at = strstr(printed.data, "\n{");
        for (uint32_t k = 0; orders[i].words[k]; k++) {
            const char *found = at ? strstr(at, orders[i].words[k]) : NULL;
            CLAIM(found || !at, "order %u: expected '%s' behind what stands in front of it:\n%s", i,
                  orders[i].words[k], printed.data);
            at = found ? found + 1 : NULL;
        }
        lp_free(p);
        hop_cleanup_pop(m);
        module_free(m);
    }
}

/* Small reductions of one kind that do not need each other are one exchange; a scalar, another kind, and one
 * that needs the first are exchanges of their own. */
static void check_together(struct bag *bag, void *ctx)
{
    static const char text[] =
        "hop 1\nmesh @ranks = (i = 2)\n"
        "fn @body(%v0: f64[24, 24]{i}, %v1: f64[24, 24]{i})"
        " -> (f64[24, 24], f64[24], f64[], f64[24], f64[24]) {\n"
        "%a = all_reduce {axis = \"i\", op = sum} (%v0)\n%o = sum(%v1)\n"
        "%b = all_reduce {axis = \"i\", op = sum} (%o)\n%p = sum {dims = [0]} (%v1)\n"
        "%c = all_reduce {axis = \"i\", op = max} (%p)\n%d = all_reduce {axis = \"i\", op = sum} (%p)\n"
        "%q = vary {axis = \"i\"} (%d)\n%r = mul(%q, %p)\n%e = all_reduce {axis = \"i\", op = sum} (%r)\n"
        "return %a, %c, %b, %d, %e\n}\n";
    HOP_UNUSED(bag);
    HOP_UNUSED(ctx);
    for (int strict = 0; strict < 2; strict++) {
        struct pass_options o = { .strict = strict };
        uint32_t joined = check_order(text, o).exchanges;
        o.without = 1u << PASS_together;
        uint32_t apart = check_order(text, o).exchanges;
        CLAIM(joined == 4 && apart == 5, "%u exchanges, %u when none are joined", joined, apart);
    }
}

static uint32_t found_work; /* exchanges that go on while something is computed, of all programs */

static void check_under_way(struct bag *bag, uint64_t seed)
{
    struct text text = { .arena = &bag->arena };
    state = seed * 977 + 5;
    for (int i = 0; i < 8; i++) below(2);
    int32_t n = random_ranks();
    write_under_way(&text, n, 6 + below(14));
    found_work += check_order(text.data, (struct pass_options){ .strict = true }).with_work;
    check_order(text.data, (struct pass_options){ .profile = true });
    struct pass_options still = { .strict = true, .without = 1u << CHOICE_overlap };
    uint32_t off = check_order(text.data, still).with_work;
    CLAIM(!off, "switched off, %u exchanges are under way while something is computed", off);
    struct job j = { .text = text.data, .n_args = 2, .n_results = UNDER_WAY_RESULTS };
    int64_t dims[3] = { n, SIDE, SIDE };
    for (int32_t r = 0; r < n; r++)
        for (uint32_t k = 0; k < 2; k++)
            j.args[r][k] = random_tensor(bag, DT_F64, 2, dims + 1, seed * 64 + (uint64_t)r * 2 + k);
    hop_status status = dist_run_threads(n, run_rank, &j);
    CLAIM(!status, "program %llu: %s\n%s", (unsigned long long)seed, hop_message(), text.data);
    struct expected expected[UNDER_WAY_RESULTS];
    for (uint32_t k = 0; k < UNDER_WAY_RESULTS && !status; k++) {
        expected[k] = (struct expected){ bag_new(bag, DT_F64, 3, dims), 1 };
        size_t bytes = SIDE * SIDE * sizeof(double);
        for (int32_t r = 0; r < n; r++)
            memcpy((char *)expected[k].whole->data + (size_t)r * bytes, j.results[r][k]->data, bytes);
    }
    drop_results(&j);
    if (!status)
        check_ranks(bag, &j, n, expected, seed % 4 == 0,
                    arena_printf(&bag->arena, "exchanges under way %llu", (unsigned long long)seed));
}

int main(int argc, char **argv)
{
    bool mpi = argc > 1 && !strcmp(argv[1], "--mpi");
    if (mpi) argc--, argv++;
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 60;
    setenv("HOP_DEBUG", "verify", 1);
    setenv("HOP_DIST_TIMEOUT", "20", 1);
    if (mpi && !job_join()) return 2;
    if (process) rank_enter(process);
    with_bag(check_ones, NULL, "collectives");
    if (!process) {
        with_bag(check_orders, NULL, "orders");
        with_bag(check_together, NULL, "reductions that become one");
        with_bag(check_global, NULL, "a program over a mesh");
        with_bag(check_cancelled, NULL, "a cancelled program");
    }
    for (uint64_t seed = first; seed < first + count; seed++) with_seed(check_program, seed);
    for (uint64_t seed = first; seed < first + count; seed++) with_seed(check_under_way, seed);
    CLAIM(2 * found_work >= count, "%u exchanges of %llu programs are under way while something is computed",
          found_work, (unsigned long long)count);
    return process ? job_end() : tests_end();
}
