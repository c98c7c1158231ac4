/* Programs on ranks. Every collective, of many shapes and dtypes, and random functions with loops, branches
 * and calls around them are run on 1, 2, 3, 4 and 8 ranks that are threads, along the axes of meshes of one
 * and two dims: interpreted, by the executor of loop programs and by LLVM with strict numbers, bit for bit
 * what the same functions give as lanes of a batch; their gradients likewise. Then sizes that are not known
 * when compiling, exchanges in the memory of their operands, and what is refused.
 *
 * ranks_test [FIRST [COUNT]]: seeds; closes with `N passed, M failed`. */
#include "check.h"
#include "lanes_program.h"

#include "check/check.h"
#include "dist/exchange.h"
#include "ir/axes.h"
#include "loop/lower.h"
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
        hop_status status = dist_run_threads(n, run_rank, j);
        CLAIM(!status, "%s, %s on %d ranks: %s", what, names[way], n, hop_message());
        for (int32_t r = 0; r < n && !status; r++)
            for (uint32_t k = 0; k < j->n_results; k++) {
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
    p.lanes = (uint32_t)rank_counts[below(HOP_COUNT(rank_counts))];
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

/* ---- where errors go ---- */

static void with_bag(void (*body)(struct bag *bag, void *ctx), void *ctx, const char *what)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    if (!HOP_TRY(caught)) {
        CLAIM(false, "%s: %s", what, hop_message());
        return;
    }
    hop_cleanup_push(bag_free, &bag);
    body(&bag, ctx);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
    hop_catch_end(&caught);
}

static void walk_program(struct bag *bag, void *ctx) { check_program(bag, *(const uint64_t *)ctx); }

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 60;
    setenv("HOP_DEBUG", "verify", 1);
    setenv("HOP_DIST_TIMEOUT", "20", 1);
    with_bag(check_ones, NULL, "collectives");
    with_bag(check_global, NULL, "a program over a mesh");
    with_bag(check_cancelled, NULL, "a cancelled program");
    for (uint64_t seed = first; seed < first + count; seed++) with_bag(walk_program, &seed, "a program");
    return tests_end();
}
