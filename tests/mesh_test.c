/* Programs over a mesh. Sizes and offsets of parts, as numbers and as dims, on random shapes, meshes and
 * placements, put together again; random programs over distributed arrays, whose local functions are run for
 * all ranks at once, batched over the axes of the mesh, and compared with the same program on whole arrays:
 * values, gradients, tangents, second derivatives, halves, lanes. Then types, texts and what is refused.
 *
 * mesh_test [FIRST [COUNT]]: seeds; closes with `N passed, M failed`. */
#include "with_bag.h"

#include "hops/probes.h"
#include "ir/axes.h"
#include "ir/text.h"
#include "random_mesh.h"
#include "transform/localize.h"
#include "transform/transform.h"

#include <math.h>
#include <stdlib.h>

/* ---- parts ---- */

static uint64_t state;
static uint32_t below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static uint32_t random_mesh(struct module *m)
{
    uint32_t axes[4], n = 1 + below(4);
    int64_t sizes[4];
    for (uint32_t k = 0; k < n; k++) {
        char name[2] = { (char)('a' + k), 0 };
        axes[k] = module_string(m, name, 1);
        sizes[k] = 1 + below(5);
    }
    return module_mesh(m, 0, n, axes, sizes);
}

/* Every element is in one part, or once for each rank of the axes along which it is replicated; sizes as dims
 * are the same numbers, and the whole is found again. */
static void check_parts(uint64_t seed)
{
    state = seed;
    struct module *m = module_new();
    uint32_t number = random_mesh(m), rank = below(4);
    struct mesh mesh = m->meshes.data[number];
    struct placement at[MESH_AXES] = { { 0 } };
    int64_t sizes[4], ranks = mesh_size(&mesh), copies = 1, total = 1, found = 0;
    dim dims[4];
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = below(4) ? below(14) : below(3);
        total *= sizes[d];
        dims[d] = below(2) ? dim_const(m, sizes[d]) : dim_symbol(m, d);
    }
    for (uint32_t k = 0; k < mesh.n_axes; k++) {
        if (rank && below(3)) at[k] = (struct placement){ .kind = PLACE_SHARD, .dim = (uint8_t)below(rank) };
        else copies *= mesh.sizes[k];
    }
    struct coordinates coordinates;
    for (uint32_t k = 0; k < MESH_AXES; k++) coordinates.at[k] = dim_symbol(m, 4 + k);
    type_id whole = type_intern(m, DT_F32, rank, dims), back;
    type_id part = part_type(m, number, at, whole, &coordinates);
    char *seen = hop_calloc((size_t)total + 1, 1);
    bool same = true, once = true;
    for (int64_t r = 0; r < ranks; r++) {
        struct part_box box;
        int64_t symbols[4 + MESH_AXES], rest = r, n = 1;
        part_of(&mesh, at, rank, sizes, r, &box);
        for (uint32_t d = 0; d < 4; d++) symbols[d] = d < rank ? sizes[d] : 0;
        for (uint32_t k = MESH_AXES; k-- > 0;) {
            symbols[4 + k] = k < mesh.n_axes ? rest % mesh.sizes[k] : 0;
            if (k < mesh.n_axes) rest /= mesh.sizes[k];
        }
        for (uint32_t d = 0; d < rank; d++) {
            same &= dim_eval(m, type_get(m, part).dims[d], symbols) == box.sizes[d];
            n *= box.sizes[d];
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t place = 0, left = i;
            for (uint32_t d = 0, after; d < rank; d++) {
                int64_t stride = 1;
                for (after = d + 1; after < rank; after++) stride *= box.sizes[after];
                place = place * sizes[d] + box.offsets[d] + left / stride;
                left %= stride;
            }
            if (place < 0 || place >= total) once = false;
            else seen[place]++;
        }
        found += n;
    }
    for (int64_t i = 0; i < total; i++) once &= seen[i] == copies || copies > 127;
    uint32_t wrong = 0;
    back = whole_type(m, number, at, part, &coordinates, &wrong);
    CLAIM(same, "parts %llu: sizes as dims are those as numbers", (unsigned long long)seed);
    CLAIM(once && found == total * copies, "parts %llu: each element is in one part",
          (unsigned long long)seed);
    CLAIM(back == type_laid_out(m, whole, layout_intern(m, number, at)), "parts %llu: %s from %s",
          (unsigned long long)seed, back == HOP_NONE ? "nothing" : type_text(m, NULL, back),
          type_text(m, NULL, part));
    struct placement again[MESH_AXES];
    bool placed = part_placements(m, number, part, &coordinates, again);
    if (placed) {
        back = whole_type(m, number, again, part, &coordinates, &wrong);
        back = part_type(m, number, again, type_laid_out(m, back, 0), &coordinates);
        placed = type_varying(m, back, 0) == type_varying(m, part, 0);
    }
    CLAIM(placed, "parts %llu: placements from sizes", (unsigned long long)seed);
    hop_free(seen);
    module_free(m);
}

static void check_numbers(void)
{
    static const int64_t parts[8] = { 1, 1, 1, 0, 0, 0, 0, 0 }, offsets[8] = { 0, 1, 2, 3, 3, 3, 3, 3 };
    for (int64_t r = 0; r < 8; r++)
        CLAIM(part_size(3, 8, r) == parts[r] && part_offset(3, 8, r) == offsets[r],
              "3 rows on 8 ranks: rank %lld has %lld from %lld on", (long long)r,
              (long long)part_size(3, 8, r), (long long)part_offset(3, 8, r));
    CLAIM(part_size(10, 4, 3) == 1 && part_offset(10, 4, 3) == 9, "the last part of 10 by 4");
    CLAIM(part_size(INT64_MAX, 2, 1) == INT64_MAX / 2, "no overflow");
    struct module *m = module_new();
    dim n = dim_symbol(m, 0), r = dim_symbol(m, 1), four = dim_mul(m, n, dim_const(m, 4));
    CLAIM(part_dim(m, four, 4, r) == n, "what divides has no coordinate in it");
    CLAIM(part_dim(m, n, 1, r) == n, "one rank has it all");
    module_free(m);
}

/* ---- all ranks at once ---- */

struct run {
    struct bag *bag;
    struct module *m;
    uint64_t seed;
    uint32_t n;    /* the size of each dim */
    int64_t lanes; /* of a batch: dims in front, 0: none */
};

static const struct bound close_f64 = { BOUND_TENSOR, 1e-9 };

struct cut {
    const struct mesh *mesh;
    const struct placement *at;
    uint32_t rank;        /* of the array */
    const int64_t *whole; /* its dims */
    struct tensor *parts; /* of all ranks; lanes in front */
    struct tensor *array;
};

/* Between the array and the parts, element by element. */
static void walk_parts(const struct cut *c, bool together)
{
    const struct mesh *mesh = c->mesh;
    int64_t at = 0, ranks = mesh_size(mesh);
    for (int64_t r = 0; r < ranks; r++) {
        struct part_box box;
        int64_t n = 1, rest = r, others = 0, contributes = 0;
        for (uint32_t k = mesh->n_axes; k-- > 0; rest /= mesh->sizes[k]) {
            if (c->at[k].kind == PLACE_REPLICATE) others += rest % mesh->sizes[k];
            if (c->at[k].kind == PLACE_PARTIAL) contributes += rest % mesh->sizes[k];
        }
        if (others) continue; /* has what rank 0 of the axis has */
        part_of(mesh, c->at, c->rank, c->whole, r, &box);
        for (uint32_t d = 0; d < c->rank; d++) n *= box.sizes[d];
        for (int64_t i = 0; i < n; i++, at++) {
            int64_t place = 0, left = i;
            for (uint32_t d = 0; d < c->rank; d++) {
                int64_t stride = 1;
                for (uint32_t after = d + 1; after < c->rank; after++) stride *= box.sizes[after];
                place = place * c->whole[d] + box.offsets[d] + left / stride;
                left %= stride;
            }
            if (together) tensor_set(c->array, place, tensor_get(c->array, place) + tensor_get(c->parts, at));
            else tensor_set(c->parts, at, contributes ? 0 : tensor_get(c->array, place));
        }
    }
}

static struct cut cut_of(const struct run *r, type_id t, const struct mesh *mesh, struct placement *at,
                         int64_t *dims)
{
    struct type type = type_get(r->m, t);
    type_placements(r->m, t, (uint32_t)(mesh - r->m->meshes.data), at);
    for (uint32_t d = 0; d < type.rank; d++)
        dims[d] = dim_is_const(r->m, type.dims[d]) ? dim_const_value(r->m, type.dims[d]) : r->lanes;
    return (struct cut){ .mesh = mesh, .at = at, .rank = type.rank, .whole = dims };
}

static struct tensor *stacked(const struct run *r, type_id t, const struct mesh *mesh, struct tensor *array)
{
    struct placement at[MESH_AXES];
    int64_t dims[MAX_RANK], sizes[MAX_RANK];
    struct part_box box;
    uint32_t n = 0;
    struct cut c = cut_of(r, t, mesh, at, dims);
    part_of(mesh, at, c.rank, dims, 0, &box);
    for (uint32_t k = 0; k < mesh->n_axes; k++)
        if (at[k].kind != PLACE_REPLICATE) sizes[n++] = mesh->sizes[k];
    for (uint32_t d = 0; d < c.rank; d++) sizes[n++] = box.sizes[d];
    c.parts = bag_new(r->bag, (enum dtype)type_get(r->m, t).dtype, n, sizes);
    c.array = array;
    walk_parts(&c, false);
    return c.parts;
}

static struct tensor *together(const struct run *r, type_id t, const struct mesh *mesh, struct tensor *parts)
{
    struct placement at[MESH_AXES];
    int64_t dims[MAX_RANK];
    struct cut c = cut_of(r, t, mesh, at, dims);
    c.array = bag_new(r->bag, (enum dtype)type_get(r->m, t).dtype, c.rank, dims);
    for (int64_t i = 0; i < c.array->count; i++) tensor_set(c.array, i, 0);
    c.parts = parts;
    walk_parts(&c, true);
    return c.array;
}

/* The local function of a global one over the lanes of all axes of its mesh. */
static uint32_t all_ranks(struct module *m, uint32_t fn, const struct edges *e)
{
    int *in = ARENA_NEW(&m->arena, int, e->n_params + 1), *out = ARENA_NEW(&m->arena, int, e->n_results + 1);
    struct mesh mesh = m->meshes.data[e->mesh];
    uint32_t local = e->local;
    HOP_UNUSED(fn);
    for (uint32_t k = mesh.n_axes; k-- > 0;) {
        bool any = false;
        struct placement at[MESH_AXES];
        for (uint32_t p = 0; p < e->n_params; p++) {
            type_placements(m, e->params[p], e->mesh, at);
            in[p] = at[k].kind == PLACE_REPLICATE ? -1 : 0;
            any |= !in[p];
        }
        for (uint32_t i = 0; i < e->n_results; i++) {
            type_placements(m, e->results[i], e->mesh, at);
            out[i] = at[k].kind == PLACE_REPLICATE ? -1 : 0;
        }
        if (!any) return HOP_NONE;
        local = vmap_axis(m, local, in, out, module_axis(m, mesh.axes[k]));
    }
    return local;
}

/* Runs a global function on whole arrays; false: nobody says how many ranks there are. Each parameter that
 * has its own parts (PLACE_EACH) is given with them. */
static bool run_global(const struct run *r, uint32_t fn, struct tensor *const *args, struct outcome *out)
{
    const struct edges *e = localize(r->m, fn);
    verify_fn(r->m, fn);
    verify_fn(r->m, e->local);
    if (e->mesh == HOP_NONE) {
        run_on(r->bag, r->m, fn, &interpreter, args, NULL, out);
        return true;
    }
    uint32_t whole = all_ranks(r->m, fn, e);
    if (whole == HOP_NONE) return false;
    struct mesh mesh = r->m->meshes.data[e->mesh];
    struct mesh *kept = &r->m->meshes.data[e->mesh];
    struct tensor **given = ARENA_NEW(&r->bag->arena, struct tensor *, e->n_params + 1);
    HOP_UNUSED(mesh);
    for (uint32_t p = 0; p < e->n_params; p++)
        given[p] = args[p]->rank > type_get(r->m, e->params[p]).rank
                       ? args[p]
                       : stacked(r, e->params[p], kept, args[p]);
    run_on(r->bag, r->m, whole, &interpreter, given, NULL, out);
    if (out->status) return true;
    struct tensor **results = ARENA_NEW(&r->bag->arena, struct tensor *, e->n_results + 1);
    for (uint32_t k = 0; k < e->n_results; k++) {
        struct placement at[MESH_AXES];
        bool own = false;
        type_placements(r->m, e->results[k], e->mesh, at);
        for (uint32_t a = 0; a < kept->n_axes; a++) own |= at[a].kind == PLACE_EACH;
        results[k] = own ? out->results[k] : together(r, e->results[k], kept, out->results[k]);
    }
    out->results = results;
    return true;
}

static struct tensor *random_tensor(const struct run *r, uint32_t rank, const int64_t *dims, uint64_t seed)
{
    struct tensor *t = bag_new(r->bag, DT_F64, rank, dims);
    struct random random = { seed };
    tensor_random(t, &random, -1, 1);
    return t;
}

static uint32_t n_run;

/* A global function gives what the plain one does. */
static void compare(const struct run *r, uint32_t global, uint32_t plain, struct tensor *const *args,
                    const char *what)
{
    struct outcome found, expected;
    if (!run_global(r, global, args, &found)) return;
    n_run++;
    run_on(r->bag, r->m, plain, &interpreter, args, NULL, &expected);
    const char *wrong = outcome_difference(&r->bag->arena, &found, &expected, close_f64, close_f64);
    CLAIM(!wrong && !expected.status, "%s of program %llu: %s", what, (unsigned long long)r->seed,
          wrong              ? wrong
          : expected.message ? expected.message
                             : "");
}

static const bool all[16] = { true, true, true, true, true, true, true, true,
                              true, true, true, true, true, true, true, true };

static void check_halves(const struct run *r, uint32_t f, uint32_t plain_vjp, struct tensor **args)
{
    struct module *m = r->m;
    uint32_t forward, backward;
    struct outcome first, second, expected;
    vjp_two_functions(m, f, all, NULL, &forward, &backward);
    if (!module_fn(m, forward)->global || !run_global(r, forward, args, &first) || first.status) return;
    struct tensor **more = ARENA_NEW(&r->bag->arena, struct tensor *, MESH_PARAMS + first.n + 2);
    for (uint32_t k = 0; k < MESH_PARAMS; k++) more[k] = args[k];
    for (uint32_t k = 0; k < first.n; k++) more[MESH_PARAMS + k] = first.results[k];
    for (uint32_t k = 0; k < 2; k++) more[MESH_PARAMS + first.n + k] = args[MESH_PARAMS + k];
    if (!run_global(r, backward, more, &second)) return;
    run_on(r->bag, m, plain_vjp, &interpreter, args, NULL, &expected);
    CLAIM(!second.status && !expected.status, "halves of program %llu: %s", (unsigned long long)r->seed,
          second.message ? second.message : "");
    if (second.status || expected.status) return;
    for (uint32_t k = 0; k < MESH_PARAMS; k++) {
        const char *wrong = tensor_difference(&r->bag->arena, second.results[k], expected.results[2 + k],
                                              close_f64);
        CLAIM(!wrong, "halves of program %llu, gradient %u: %s", (unsigned long long)r->seed, k,
              wrong ? wrong : "");
    }
}

static void check_program(struct bag *bag, uint64_t seed)
{
    struct mesh_program p = { .arena = &bag->arena };
    random_mesh_program(&p, seed, true, 0);
    if (getenv("HOP_TEST_SHOW")) puts(p.text.data);
    struct module *m = text_read("program", p.text.data, p.text.len);
    hop_cleanup_push(module_free, m);
    struct run r = { .bag = bag, .m = m, .seed = seed, .n = p.n };
    uint32_t f = module_find(m, "f"), plain = module_find(m, "plain");
    const char *wrong = claim_round_trip(m);
    CLAIM(!wrong, "the text of program %llu: %s", (unsigned long long)seed, wrong ? wrong : "");
    int64_t dims[3] = { p.n, p.n, p.n };
    struct tensor *args[16];
    for (uint32_t k = 0; k < 16; k++) args[k] = random_tensor(&r, 2, dims, seed * 10 + k);
    compare(&r, f, plain, args, "the value");
    uint32_t vjp = vjp_function(m, f, all), plain_vjp = vjp_function(m, plain, all);
    compare(&r, vjp, plain_vjp, args, "the gradient");
    compare(&r, jvp_of(m, f, all), jvp_of(m, plain, all), args, "the tangents");
    compare(&r, debug_nans_function(m, f, true, true), plain, args, "the watched value");
    if (seed % 3 == 0)
        compare(&r, vjp_function(m, vjp, all), vjp_function(m, plain_vjp, all), args,
                "the second derivative");
    check_halves(&r, f, plain_vjp, args);
    int64_t lanes[3] = { 2, p.n, p.n };
    static const int in[] = { 0, -1, 0, 0, 0 }, out[] = { 0, 0, 0, 0, 0 };
    r.lanes = 2;
    for (uint32_t k = 0; k < 5; k++)
        if (!in[k]) args[k] = random_tensor(&r, 3, lanes, seed * 30 + k);
    compare(&r, vmap_function(m, f, in, out), vmap_function(m, plain, in, out), args, "lanes");
    compare(&r, vmap_function(m, vjp, in, out), vmap_function(m, plain_vjp, in, out), args,
            "lanes of the gradient");
    hop_cleanup_pop(m);
    module_free(m);
}

/* ---- what is refused, and why ---- */

#define MESH "hop 1\nmesh @m = (data = 2, model = 3)\n"
#define MAP(in, out, params, body) \
    "local_map {mesh = \"m\", in = \"" in "\", out = \"" out "\"} part(" params ") {\n" body "  }\n"

struct refusal {
    const char *text, *message;
    char then; /* 'g': refused by the gradient; 'l': by what each rank does; 'p': by probes; 0: when it is
                  read */
};

static const struct refusal refusals[] = {
    { MESH "fn @f(%x: f64[4, 6]@m(0, _)) -> (f64[4, 6]@m(0, _)) {\n  %y = sin(%x)\n  return %y\n}\n",
      "4:3: sin: operand 0 has type f64[4, 6]@m(0, _), and what works on distributed arrays is local_map, "
      "redistribute, calls, branches and loops: make it an operand of a local_map and compute with its "
      "parts, "
      "or make it whole on each rank: redistribute {mesh = \"m\", to = \"_ _\"}",
      0 },
    { MESH "fn @f(%x: f64[4, 6]@m(0, _)) -> (f64[4, 6]@m(_, 0)) {\n  %y = " MAP(
          "_ 0", "_ 0", "%a = %x", "    yield(%a)\n") "  return %y\n}\n",
      "4:3: local_map: operand 0 has type f64[4, 6]@m(0, _), its placements are to be '_ 0': redistribute "
      "{mesh = \"m\", to = \"_ 0\"} it first",
      0 },
    { MESH "fn @f(%x: f64[4]@m(0, _)) -> (f64[]) {\n  %y = " MAP(
          "0 _", "_ _", "%a = %x", "    %s = sum(%a)\n    yield(%s)\n") "  return %y\n}\n",
      "local_map: result 0 varies along the axis 'data' and is said to be replicated along it ('_'): reduce "
      "or "
      "gather it first",
      0 },
    { MESH
      "fn @f(%x: f64[4]@m(0, _)) -> (f64[]@m(sum, _)) {\n  %y = " MAP("0 _", "sum _", "%a = %x",
                                                                      "    %s = sum(%a)\n    %t = all_reduce "
                                                                      "{axis = \"data\", op = sum} (%s)\n    "
                                                                      "yield(%t)\n") "  return "
                                                                                     "%y\n}\n",
      "local_map: result 0 is the same on all ranks along the axis 'data' and is said to be a contribution "
      "to "
      "a whole there: it was reduced already",
      0 },
    { MESH
      "fn @f(%x: f64[4]@m(0, _)) -> (f64[4]@m(0, _)) {\n  %y = " MAP("0", "0 _", "%a = %x",
                                                                     "    yield(%a)\n") "  return %y\n}\n",
      "local_map: attribute 'in': list 0 has 1 placement, the mesh @m (data = 2, model = 3) has 2 axes", 0 },
    { MESH
      "fn @f(%x: f64[4]@m(0, _)) -> (f64[4]@m(0, _)) {\n  %y = " MAP("0 _, _ _", "0 _", "%a = %x",
                                                                     "    yield(%a)\n") "  return %y\n}\n",
      "local_map: attribute 'in': expected 1 list of placements, found 2", 0 },
    { MESH
      "fn @f(%x: f64[4]@m(0, _)) -> (f64[4]@m(0, _)) {\n  %y = " MAP("0 _", "0 _, 0 _", "%a = %x",
                                                                     "    yield(%a)\n") "  return %y\n}\n",
      "local_map: attribute 'out': expected 1 list of placements, found 2", 0 },
    { MESH "fn @f(%x: f64[4]@m(1, _)) -> (f64[4]) {\n  return %x\n}\n",
      "3:17: along the axis 'data' dim 1 is sharded, and there is 1 dim", 0 },
    { MESH "fn @f(%x: f64[4]@n(0, _)) -> (f64[4]) {\n  return %x\n}\n",
      "there is no mesh @n; one is declared like this: mesh @m = (data = 2, model = 4)", 0 },
    { MESH "mesh @n = (data = 4)\nfn @f(%x: f64[4]) -> (f64[4]) {\n  return %x\n}\n",
      "the axis 'data' of the mesh (data = 4) belongs to another mesh of the program: @m = (data = 2, model "
      "= 3)",
      0 },
    { MESH "fn @f(%x: f64[5]@m(0, _)) -> (f64[]@m(0, _)) {\n  %y = " MAP(
          "0 _", "0 _", "%a = %x", "    %o = concat {dim = 0} (%a, %a)\n    yield(%o)\n") "  return %y\n}\n",
      "depends on the rank without being that of a part of an array placed so", 0 },
    { MESH "fn @f(%x: f64[4]@m(0, _)) -> (f64[4]@m(0, _)) {\n  %y = " MAP(
          "0 _", "0 _", "%a = %x",
          "    %b = redistribute {mesh = \"m\", to = \"0 _\"} (%a)\n    yield(%b)\n") "  return %y\n}\n",
      "local_map: its body is over parts: there are no distributed arrays, no local_map and no redistribute "
      "in "
      "it",
      0 },
    { MESH "fn @f(%x: f64[4, 2]@m(0, _)) -> (f64[2]) {\n  %c = full {value = 0.0, dims = [2], dtype = f64}\n"
           "  %y = scan carry(%a = %c) over(%r in %x) {\n    next(%a)\n  }\n  return %y\n}\n",
      "operand 1, along whose leading, sharded dim it goes, has type f64[4, 2]@m(0, _)", 0 },
    { MESH "fn @f(%x: f64[4]@m(sum, _)) -> (f64[]) {\n  %r = redistribute {mesh = \"m\", to = \"_ _\"} (%x)\n"
           "  %s = sum(%r)\n  return %s\n}\n",
      "@f: parameter 0 (%x) of type f64[4]@m(sum, _) is a contribution to a whole, which has no derivative "
      "of "
      "its own: redistribute it first",
      'g' },
    { MESH "fn @f(%x: f64[5]@m(0, _)) -> (f64[5]@m(0, _)) {\n  %y = " MAP(
          "0 _", "0 _", "%a = %x",
          "    %b = all_reduce {axis = \"data\", op = sum} (%a)\n    %o = vary {axis = \"data\"} (%b)\n"
          "    yield(%o)\n") "  return %y\n}\n",
      "is not the same on all ranks along the axis 'data': pad it first", 'l' },
    { MESH "fn @f(%x: f64[5]@m(0, _)) -> (f64[]) {\n  %y = " MAP(
          "0 _", "_ _", "%a = %x",
          "    %z = full {value = 0.0, dims = [], dtype = f64}\n"
          "    %l = scan carry(%c = %z) over(%v in %a) {\n"
          "      %n = add(%c, %v)\n      %t = all_reduce {axis = \"data\", op = sum} (%n)\n      next(%t)\n  "
          "  }\n    yield(%l)\n") "  return %y\n}\n",
      "scan: ranks make different numbers of steps along the axis 'data', as their parts have different "
      "sizes",
      'l' },
    { MESH "fn @f(%x: f64[4]@m(0, _)) -> (f64[4]@m(0, _)) {\n  %y = " MAP(
          "0 _", "0 _", "%a = %x",
          "    %s = sin(%a)\n    %t = tag {name = \"inner\", use = probe} (%s)\n    yield(%t)\n") "  return "
                                                                                                  "%y\n}\n",
      "probe 'inner': it stands in local_map, whose body is what each rank does with its parts: make the "
      "value "
      "a result of it",
      'p' },
    { MESH "fn @f(%x: f64[4]@m(0, _)) -> (f64[4]@m(0, _), i64[]{data}) {\n"
           "  %k = rank_index {axis = \"data\"}\n  return %x, %k\n}\n",
      "4:3: rank_index: it works across the ranks of the axis 'data' outside of a local_map, where arrays "
      "are whole",
      0 },
    { MESH "fn @f(%x: f64[4, 2]) -> (f64[4]) {\n  %y = map {axis = \"data\"} over(%r in %x) {\n"
           "    %s = sum(%r)\n    stack(%s)\n  }\n  return %y\n}\n",
      "the axis 'data' is that of a mesh, whose ranks are its lanes", 0 },
    { MESH "fn @f(%x: f64[4]@m(0, _)) -> (f64[]) {\n  %y = " MAP(
          "0 _", "_ _", "%a = %x",
          "    %s = sum(%a)\n    %t = all_reduce {axis = \"data\", op = sum} (%s)\n"
          "    %u = all_reduce {axis = \"data\", op = sum} (%t)\n    yield(%u)\n") "  return %y\n}\n",
      "all_reduce: its operand is the same in all lanes of the axis 'data': it was reduced already", 0 },
    { MESH "fn @f(%w: f64[6]) -> (f64[2]@m(_, 0)) {\n  %y = " MAP(
          "_ _", "_ 0", "%a = %w",
          "    %s = reduce_scatter {axis = \"model\", size = 3, tiled} (%a)\n    yield(%s)\n") "  return "
                                                                                               "%y\n}\n",
      "reduce_scatter: its operand is the same in all lanes of the axis 'model'", 0 },
    { MESH
      "fn @f(%x: f64[4]@m(0, _)) -> (f64[4]@m(0, _)) {\n  %y = local_map {mesh = \"m\", in = \"0 _\", out = "
      "\"0 _\", in_grad = \"_ _\"} part(%a = %x) {\n    yield(%a)\n  }\n  return %y\n}\n",
      "local_map: operand 0 lies as '0' along the axis 'data', its gradient cannot lie as '_'", 0 },
    { MESH
      "fn @f(%x: f64[4]@m(0, _)) -> (f64[4]@m(0, _)) {\n  %y = local_map {mesh = \"m\", in = \"0 _\", out = "
      "\"0 _\", in_grad = \"0 max\"} part(%a = %x) {\n    yield(%a)\n  }\n  return %y\n}\n",
      "local_map: operand 0 lies as '_' along the axis 'model', its gradient cannot lie as 'max'", 0 },
    { MESH
      "fn @f(%x: f64[4]@m(0, _)) -> (f64[4]@m(0, _)) {\n  %y = local_map {mesh = \"m\", in = \"0 _\", out = "
      "\"0 _\", in_grad = \"0 _, _ _\"} part(%a = %x) {\n    yield(%a)\n  }\n  return %y\n}\n",
      "local_map: attribute 'in_grad': expected 1 list of placements, found 2", 0 },
    { MESH "fn @f(%x: i64[4]@m(0, _)) -> (i64[]) {\n  %y = " MAP(
          "0 _", "_ _", "%a = %x",
          "    %k = rank_index {axis = \"data\"}\n"
          "    %o = switch(%k) [(%v = %k) {\n      yield(%v)\n    }, (%v = %k) {\n"
          "      %t = all_reduce {axis = \"data\", op = sum} (%v)\n      %u = vary {axis = \"data\"} (%t)\n"
          "      yield(%u)\n    }]\n"
          "    %s = all_reduce {axis = \"data\", op = sum} (%o)\n    yield(%s)\n") "  return %y\n}\n",
      "its index varies along the axis 'data', and a body of it has all_reduce over that axis", 0 },
};

struct asking {
    const struct refusal *r;
    struct module *m;
};

static void ask(void *ctx)
{
    struct asking *a = ctx;
    static const bool first[] = { true };
    a->m = text_read("program", a->r->text, strlen(a->r->text));
    uint32_t f = module_find(a->m, "f");
    if (a->r->then == 'g') grad_of(a->m, f, first, false);
    if (a->r->then == 'l') localize(a->m, f);
    if (a->r->then == 'p') probes_function(a->m, f, &(struct probe_request){ .gives = true });
}

static void check_refusals(void)
{
    for (size_t i = 0; i < HOP_COUNT(refusals); i++) {
        struct asking a = { &refusals[i], NULL };
        hop_status status = attempt(ask, &a);
        CLAIM(status == HOP_INVALID && strstr(hop_message(), refusals[i].message),
              "refusal %zu: expected %s, found %s", i, refusals[i].message,
              status ? hop_message() : "no error");
        module_free(a.m);
    }
}

/* ---- types, and what goes with them ---- */

static void check_types(void)
{
    static const char text[] = MESH
        "fn @f[N](%x: f64[N, 6]@m(0, 1), %y: f64[N]@m(_, sum)) -> (f64[N, 6]@m(0, 1), f64[N]@m(_, sum)) {\n"
        "  return %x, %y\n}\n";
    struct module *m = text_read("program", text, sizeof text - 1), *other = module_new();
    const struct fn *f = module_fn(m, module_find(m, "f"));
    type_id t = value_type(f, 0);
    CLAIM(f->global && !strcmp(type_text(m, f->symbols, t), "f64[N, 6]@m(0, 1)"), "a type: %s",
          type_text(m, f->symbols, t));
    CLAIM(!strcmp(type_text(m, f->symbols, type_insert_dim(m, t, 1, 2)), "f64[N, 2, 6]@m(0, 2)") &&
              !strcmp(type_text(m, f->symbols, type_drop_dim(m, t, 0)), "f64[6]@m(_, 0)"),
          "shards stay with their dims: %s", type_text(m, f->symbols, type_insert_dim(m, t, 1, 2)));
    const int64_t sizes[] = { 7 };
    uint32_t axis = module_string(other, "z", 1);
    module_mesh(other, module_string(other, "m", 1), 1, &axis, sizes);
    dim dims[] = { 3, 4 };
    t = type_import(other, m, type_get(m, t), dims);
    CLAIM(!strcmp(type_text(other, NULL, t), "f64[3, 4]@m_2(0, 1)"),
          "a mesh goes into another module by its axes: %s", type_text(other, NULL, t));
    module_free(other);
    const struct edges *e = localize(m, f->id);
    const struct fn *local = module_fn(m, e->local);
    CLAIM(e->n_ranks == 1 && e->rank_axes[0] == 0 && local->n_outer_symbols == 2 && !local->global,
          "N is cut along data: one coordinate");
    CLAIM(local->symbols[0].origin == SYMBOL_PARAM && local->symbols[1].origin == SYMBOL_DIM,
          "N is bound by %%y, whose parts are whole");
    module_free(m);
}

/* What a body over parts sees: 80 rows by eight ranks are ten; the function around sees 80, forward and
 * backward, placed alike. */
static void check_shapes(void)
{
    static const char text[] =
        "hop 1\nmesh @m = (d = 8)\nfn @f(%x: f32[80, 80]@m(0)) -> (i64[80, 80]@m(0), f32[80, 80]@m(0)) {\n"
        "  %k, %y = local_map {mesh = \"m\", in = \"0\", out = \"0, 0\"} part(%a: f32[10, 80]{d} = %x) {\n"
        "    %s = sin(%a)\n    %i = cast {dtype = i64} (%s)\n    yield(%i, %s)\n  }\n  return %k, %y\n}\n";
    static const bool first[] = { true };
    struct module *m = text_read("program", text, sizeof text - 1);
    const struct fn *b = module_fn(m, vjp_function(m, module_find(m, "f"), first));
    struct text shown = { .arena = &m->arena };
    text_print(m, b->id, 0, &shown);
    CLAIM(b->n_params == 2 && b->n_results == 3 && b->n_nodes == 1 &&
              value_type(b, b->results[2]) == value_type(b, 0) && value_type(b, 1) == value_type(b, 0),
          "a result without derivative first, one with behind it: %s", shown.data);
    CLAIM(strstr(shown.data, "in = \"0, 0\", out = \"0, 0, 0\"") != NULL, "placements of the gradient: %s",
          shown.data);
    module_free(m);
}

/* What a policy keeps is kept inside of what each rank does, as in any function. */
static void check_policy(void)
{
    static const char text[] =
        "hop 1\nmesh @m = (d = 2)\nfn @f(%x: f64[4]@m(0)) -> (f64[4]@m(0)) {\n"
        "  %y = invoke_subgraph {policy = \"POLICY\"} with(%b = %x) {\n"
        "    %z = local_map {mesh = \"m\", in = \"0\", out = \"0\"} part(%a = %b) {\n"
        "      %s = exp(%a)\n      %t = sin(%s)\n      %u = exp(%t)\n      yield(%u)\n    }\n"
        "    yield(%z)\n  }\n  return %y\n}\n";
    uint32_t kept[2];
    static const bool first[] = { true };
    for (int k = 0; k < 2; k++) {
        struct text t = { 0 };
        struct module *m = module_new();
        t.arena = &m->arena;
        const char *at = strstr(text, "POLICY");
        text_add(&t, "%.*s%s%s", (int)(at - text), text, k ? "everything" : "nothing", at + 6);
        text_read_into(m, "program", t.data, t.len);
        uint32_t forward, backward;
        vjp_two_functions(m, module_find(m, "f"), first, NULL, &forward, &backward);
        kept[k] = module_fn(m, forward)->n_results;
        CLAIM(module_fn(m, forward)->global && module_fn(m, backward)->global, "halves are global");
        module_free(m);
    }
    CLAIM(kept[0] == 1 && kept[1] > 1,
          "kept besides the result: %u under \"nothing\", %u under \"everything\"", kept[0] - 1, kept[1] - 1);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 60;
    setenv("HOP_DEBUG", "verify", 1);
    check_numbers();
    check_refusals();
    check_types();
    check_shapes();
    check_policy();
    for (uint64_t seed = 1; seed <= 400; seed++) check_parts(seed);
    for (uint64_t seed = first; seed < first + count; seed++) with_seed(check_program, seed);
    CLAIM(n_run || !count, "some programs are run");
    return tests_end();
}
