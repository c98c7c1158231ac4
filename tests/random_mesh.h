/* Random programs over a mesh, for tests: each is written twice, as a global program (@f: distributed arrays,
 * local_map, redistribute, loops, calls, branches) and as the same on whole arrays (@plain). All values are
 * f64[N, N]. */
#ifndef HOP_TEST_RANDOM_MESH_H
#define HOP_TEST_RANDOM_MESH_H

#include "ir/mesh.h"
#include "ops/build.h"

enum { MESH_PARAMS = 3, MOST_MESH_VALUES = 16 };

struct mesh_program {
    uint64_t state;
    uint32_t n_axes, n; /* n: the size of a dim */
    const char *side;   /* the same in texts, or a symbol */
    int64_t sizes[MESH_AXES];
    bool even; /* all sizes divide n, by all axes together */
    struct text text, plain;
    struct arena *arena;
    uint32_t n_values, n_names;
    struct placement at[MOST_MESH_VALUES][MESH_AXES];
    const char *indent;
};

static uint32_t mesh_below(struct mesh_program *p, uint32_t n)
{
    p->state = p->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->state >> 33) % n;
}

static const char *const axis_names[] = { "data", "model" };

static const char *placed_text(struct mesh_program *p, const struct placement *at, const char *between)
{
    struct text out = { .arena = p->arena };
    for (uint32_t k = 0; k < p->n_axes; k++) {
        if (k) text_str(&out, between);
        placement_print(at[k], &out);
    }
    return out.data;
}

static bool is_plain(const struct mesh_program *p, const struct placement *at)
{
    bool plain = true;
    for (uint32_t k = 0; k < p->n_axes; k++) plain &= at[k].kind == PLACE_REPLICATE;
    return plain;
}

static const char *type_of(struct mesh_program *p, const struct placement *at)
{
    const char *layout = is_plain(p, at) ? "" : arena_printf(p->arena, "@m(%s)", placed_text(p, at, ", "));
    return arena_printf(p->arena, "f64[%s, %s]%s", p->side, p->side, layout);
}

static void random_placement(struct mesh_program *p, struct placement *at, bool partial)
{
    memset(at, 0, MESH_AXES * sizeof *at);
    for (uint32_t k = 0; k < p->n_axes; k++) {
        uint32_t which = mesh_below(p, partial ? 4 : 3);
        if (which == 3) at[k] = (struct placement){ .kind = PLACE_PARTIAL, .op = REDUCTION_SUM };
        else if (which) at[k] = (struct placement){ .kind = PLACE_SHARD, .dim = (uint8_t)(which - 1) };
    }
}

/* The name of value v placed so: itself, or what a redistribution gives. Plain arrays are cut by local_map
 * now and then. */
static const char *as_placed(struct mesh_program *p, uint32_t v, const struct placement *at)
{
    bool same = true;
    for (uint32_t k = 0; k < p->n_axes; k++) same &= placement_same(at[k], p->at[v][k]);
    if (same || (is_plain(p, p->at[v]) && mesh_below(p, 2))) return arena_printf(p->arena, "%%v%u", v);
    uint32_t name = p->n_names++;
    text_add(&p->text, "  %%r%u = redistribute {mesh = \"m\", to = \"%s\"} (%%v%u)\n", name,
             placed_text(p, at, " "), v);
    return arena_printf(p->arena, "%%r%u", name);
}

static const struct placement *next_value(struct mesh_program *p, const struct placement *at)
{
    memcpy(p->at[p->n_values], at, MESH_AXES * sizeof *at);
    return p->at[p->n_values++];
}

/* sin(x) times y, elementwise, wherever they lie. in_scan: the carry of two steps. */
static void write_elementwise(struct mesh_program *p, uint32_t x, uint32_t y, uint32_t how)
{
    struct placement at[MESH_AXES];
    random_placement(p, at, false);
    const char *placed = placed_text(p, at, " "), *a, *b;
    if (how == 1) memcpy(at, p->at[x], sizeof at); /* the carry is what it is */
    for (uint32_t k = 0; how && k < p->n_axes; k++)
        if (at[k].kind == PLACE_PARTIAL) at[k] = (struct placement){ 0 };
    placed = placed_text(p, at, " ");
    a = as_placed(p, x, at);
    b = as_placed(p, y, at);
    uint32_t v = p->n_values;
    if (how && a[1] == 'v' && !is_plain(p, at) &&
        is_plain(p, p->at[x])) { /* a carry has its type throughout */
        text_add(&p->text, "  %%r%u = redistribute {mesh = \"m\", to = \"%s\"} (%s)\n", p->n_names, placed,
                 a);
        a = arena_printf(p->arena, "%%r%u", p->n_names++);
    }
    const char *body = arena_printf(
        p->arena,
        "local_map {mesh = \"m\", in = \"%s, %s\", out = \"%s\"} part(%%a = %%ca, %%b = %%cb) {\n"
        "      %%s = sin(%%a)\n      %%o = mul(%%s, %%b)\n      yield(%%o)\n    }\n",
        placed, placed, placed);
    if (how == 1) {
        text_add(&p->text,
                 "  %%v%u = scan {length = 2} carry(%%ca = %s) with(%%cb = %s) {\n    %%n = %s    "
                 "next(%%n)\n  }\n",
                 v, a, b, body);
        text_add(&p->plain,
                 "  %%v%u = scan {length = 2} carry(%%a = %%v%u) with(%%b = %%v%u) {\n    %%s = sin(%%a)\n   "
                 " %%o = "
                 "mul(%%s, %%b)\n    next(%%o)\n  }\n",
                 v, x, y);
    } else if (how == 2) {
        text_add(&p->text,
                 "  %%v%u = invoke_subgraph {recompute} with(%%ca = %s, %%cb = %s) {\n    %%n = %s    "
                 "yield(%%n)\n  }\n",
                 v, a, b, body);
    } else {
        text_add(
            &p->text,
            "  %%v%u = local_map {mesh = \"m\", in = \"%s, %s\", out = \"%s\"} part(%%a = %s, %%b = %s) {\n"
            "    %%s = sin(%%a)\n    %%o = mul(%%s, %%b)\n    yield(%%o)\n  }\n",
            v, placed, placed, placed, a, b);
    }
    if (how != 1) text_add(&p->plain, "  %%s%u = sin(%%v%u)\n  %%v%u = mul(%%s%u, %%v%u)\n", v, x, v, v, y);
    next_value(p, at);
}

/* x times y, each axis cutting rows of x, columns of y, what is added up, or nothing. */
static void write_product(struct mesh_program *p, uint32_t x, uint32_t y)
{
    struct placement left[MESH_AXES] = { { 0 } }, right[MESH_AXES] = { { 0 } }, out[MESH_AXES] = { { 0 } };
    const struct placement rows = { .kind = PLACE_SHARD }, columns = { .kind = PLACE_SHARD, .dim = 1 };
    struct text sums = { .arena = p->arena };
    const char *last = "%o";
    for (uint32_t k = 0; k < p->n_axes; k++) {
        uint32_t role = mesh_below(p, 5);
        if (role == 1) left[k] = out[k] = rows;
        if (role == 2) right[k] = out[k] = columns;
        if (role < 3) continue;
        left[k] = columns;
        right[k] = rows;
        if (role == 3) {
            out[k] = (struct placement){ .kind = PLACE_PARTIAL, .op = REDUCTION_SUM };
            continue;
        }
        text_add(&sums, "    %%t%u = all_reduce {axis = \"%s\", op = sum} (%s)\n", k, axis_names[k], last);
        last = arena_printf(p->arena, "%%t%u", k);
    }
    uint32_t v = p->n_values;
    const char *a = as_placed(p, x, left), *b = as_placed(p, y, right);
    text_add(&p->text,
             "  %%v%u = local_map {mesh = \"m\", in = \"%s, %s\", out = \"%s\"} part(%%a = %s, %%b = %s) {\n"
             "    %%o = matmul(%%a, %%b)\n%s    yield(%s)\n  }\n",
             v, placed_text(p, left, " "), placed_text(p, right, " "), placed_text(p, out, " "), a, b,
             sums.data ? sums.data : "", last);
    text_add(&p->plain, "  %%v%u = matmul(%%v%u, %%v%u)\n", v, x, y);
    next_value(p, out);
}

/* x times the mean of its squares: a sum over all ranks inside, used where values vary. gathered: the sum is
 * made of all rows, which are gathered first. */
static void write_scaled(struct mesh_program *p, uint32_t x, bool gathered)
{
    struct placement at[MESH_AXES];
    struct text sums = { .arena = p->arena };
    const char *last = "%t";
    random_placement(p, at, false);
    if (gathered && p->even)
        for (uint32_t k = 0; k < p->n_axes; k++) {
            at[k] = (struct placement){ .kind = k ? PLACE_REPLICATE : PLACE_SHARD };
            if (k) continue;
            text_add(&sums,
                     "    %%g = all_gather {axis = \"data\", size = %lld, dim = 0, tiled} (%%a)\n"
                     "    %%q = mul(%%g, %%g)\n    %%t = sum(%%q)\n",
                     (long long)p->sizes[0]);
        }
    else {
        text_str(&sums, "    %q = mul(%a, %a)\n    %t = sum(%q)\n");
        for (uint32_t k = 0; k < p->n_axes; k++) {
            if (at[k].kind != PLACE_SHARD) continue;
            text_add(&sums, "    %%t%u = all_reduce {axis = \"%s\", op = sum} (%s)\n", k, axis_names[k],
                     last);
            last = arena_printf(p->arena, "%%t%u", k);
        }
    }
    uint32_t v = p->n_values;
    const char *placed = placed_text(p, at, " "), *a = as_placed(p, x, at);
    double count = (double)p->n * p->n;
    /* the scalar goes out and in again, so that it is used outside as well; large ones do no harm */
    text_add(
        &p->text,
        "  %%u%u, %%w%u = local_map {mesh = \"m\", in = \"%s\", out = \"%s, _\"} part(%%a = %s) {\n%s"
        "    %%h = full {value = %.17g, dims = [], dtype = f64}\n    %%e = mul(%s, %%h)\n    yield(%%a, "
        "%%e)\n  }\n"
        "  %%x%u = sigmoid(%%w%u)\n"
        "  %%v%u = local_map {mesh = \"m\", in = \"%s\", out = \"%s\"} part(%%a = %%u%u) with(%%e = "
        "%%x%u, %%d = %%w%u) {\n"
        "    %%td = tanh(%%d)\n    %%ed = add(%%e, %%td)\n    %%b = dot {batch_lhs = [], batch_rhs = [], "
        "contract_lhs = [], contract_rhs = []} (%%a, %%ed)\n    yield(%%b)\n  }\n",
        v, v, placed, placed, a, sums.data, 1 / count, last, v, v, v, placed, placed, v, v, v);
    text_add(&p->plain,
             "  %%q%u = mul(%%v%u, %%v%u)\n  %%t%u = sum(%%q%u)\n  %%h%u = full {value = %.17g, dims = [], "
             "dtype = "
             "f64}\n  %%w%u = mul(%%t%u, %%h%u)\n  %%x%u = sigmoid(%%w%u)\n  %%y%u = tanh(%%w%u)\n"
             "  %%e%u = add(%%x%u, %%y%u)\n  %%v%u = dot {batch_lhs = [], batch_rhs = [], contract_lhs = [], "
             "contract_rhs = []} (%%v%u, %%e%u)\n",
             v, x, x, v, v, v, 1 / count, v, v, v, v, v, v, v, v, v, v, v, x, v);
    next_value(p, at);
}

/* The same array elsewhere, contributions among the places. */
static void write_moved(struct mesh_program *p, uint32_t x)
{
    struct placement at[MESH_AXES];
    random_placement(p, at, true);
    uint32_t v = p->n_values;
    text_add(&p->text, "  %%v%u = redistribute {mesh = \"m\", to = \"%s\"} (%%v%u)\n", v,
             placed_text(p, at, " "), x);
    text_add(&p->plain, "  %%v%u = add(%%v%u, %%zero)\n", v, x);
    next_value(p, at);
}

/* Twice x, contributions as they are. */
static void write_linear(struct mesh_program *p, uint32_t x)
{
    const char *placed = placed_text(p, p->at[x], " ");
    uint32_t v = p->n_values;
    text_add(&p->text,
             "  %%v%u = local_map {mesh = \"m\", in = \"%s\", out = \"%s\"} part(%%a = %%v%u) {\n"
             "    %%o = add(%%a, %%a)\n    yield(%%o)\n  }\n",
             v, placed, placed, x);
    text_add(&p->plain, "  %%v%u = add(%%v%u, %%v%u)\n", v, x, x);
    next_value(p, p->at[x]);
}

/* Of two branches one, by a number that is the same everywhere. */
static void write_choice(struct mesh_program *p, uint32_t x)
{
    const char *placed = placed_text(p, p->at[x], " ");
    uint32_t v = p->n_values;
    text_add(&p->text,
             "  %%v%u = switch(%%choice) [(%%a = %%v%u) {\n    yield(%%a)\n  }, (%%c = %%v%u) {\n"
             "    %%n = local_map {mesh = \"m\", in = \"%s\", out = \"%s\"} part(%%a = %%c) {\n"
             "      %%o = add(%%a, %%a)\n      yield(%%o)\n    }\n    yield(%%n)\n  }]\n",
             v, x, x, placed, placed);
    text_add(&p->plain, "  %%v%u = add(%%v%u, %%v%u)\n", v, x, x);
    next_value(p, p->at[x]);
}

static void write_step(struct mesh_program *p)
{
    uint32_t x = mesh_below(p, p->n_values), y = mesh_below(p, p->n_values);
    if (mesh_below(p, 2)) x = p->n_values - 1;
    switch (mesh_below(p, 10)) {
    case 0:
    case 1: write_elementwise(p, x, y, 0); return;
    case 2: write_elementwise(p, x, y, 1); return;
    case 3: write_elementwise(p, x, y, 2); return;
    case 4:
    case 5: write_product(p, x, y); return;
    case 6: write_scaled(p, x, false); return;
    case 7: write_scaled(p, x, true); return;
    case 8: mesh_below(p, 2) ? write_linear(p, x) : write_choice(p, x); return;
    default: write_moved(p, x); return;
    }
}

/* A contribution has no derivative of its own. */
static uint32_t whole_value(struct mesh_program *p, uint32_t v)
{
    bool partial = false;
    for (uint32_t k = 0; k < p->n_axes; k++) partial |= p->at[v][k].kind == PLACE_PARTIAL;
    if (!partial) return v;
    struct placement at[MESH_AXES];
    random_placement(p, at, false);
    uint32_t w = p->n_values;
    text_add(&p->text, "  %%v%u = redistribute {mesh = \"m\", to = \"%s\"} (%%v%u)\n", w,
             placed_text(p, at, " "), v);
    text_add(&p->plain, "  %%v%u = add(%%v%u, %%zero)\n", w, v);
    next_value(p, at);
    return w;
}

/* The axes of a mesh: of so many ranks, 0: as it comes. */
static int64_t random_axes(struct mesh_program *p, bool even, int64_t ranks)
{
    static const int64_t counts[] = { 1, 2, 3, 4, 8 };
    p->n_axes = 1 + mesh_below(p, 2);
    if (ranks) {
        int64_t first = ranks;
        while (p->n_axes > 1 && (first = 1 + mesh_below(p, (uint32_t)ranks), ranks % first)) {}
        p->sizes[0] = first;
        p->sizes[1] = ranks / first;
        return ranks;
    }
    ranks = 1;
    for (uint32_t k = 0; k < p->n_axes; k++) {
        p->sizes[k] = 1 + mesh_below(p, p->n_axes == 2 ? 3 : 4);
        if (!even && p->n_axes == 1) p->sizes[k] = counts[mesh_below(p, HOP_COUNT(counts))];
        ranks *= p->sizes[k];
    }
    return ranks;
}

/* even: all sizes divide; otherwise sizes of up to nine on up to eight ranks, symbols now and then. ranks:
 * how many there are, 0: as it comes. */
static void random_mesh_program(struct mesh_program *p, uint64_t seed, bool even, int64_t ranks)
{
    struct arena *arena = p->arena;
    *p = (struct mesh_program){ .state = seed * 97 + 5,
                                .arena = arena,
                                .even = even,
                                .text = { .arena = arena },
                                .plain = { .arena = arena } };
    for (int i = 0; i < 8; i++) mesh_below(p, 2);
    ranks = random_axes(p, even, ranks);
    p->n = even ? (uint32_t)ranks * (1 + mesh_below(p, 2)) : 1 + mesh_below(p, 9);
    if (even && p->n > 8) p->n = (uint32_t)ranks;
    p->side = !even && mesh_below(p, 3) == 0 ? "N" : arena_printf(arena, "%u", p->n);
    text_add(&p->text, "hop 1\nmesh @m = (data = %lld", (long long)p->sizes[0]);
    if (p->n_axes > 1) text_add(&p->text, ", model = %lld", (long long)p->sizes[1]);
    text_str(&p->text, ")\nfn @f(");
    text_str(&p->plain, "fn @plain(");
    for (uint32_t k = 0; k < MESH_PARAMS; k++) {
        struct placement at[MESH_AXES] = { { 0 } };
        if (k + 1 < MESH_PARAMS) random_placement(p, at, false);
        text_add(&p->text, "%s%%v%u: %s", k ? ", " : "", k, type_of(p, at));
        text_add(&p->plain, "%s%%v%u: f64[%s, %s]", k ? ", " : "", k, p->side, p->side);
        next_value(p, at);
    }
    struct text head = p->text, plain_head = p->plain;
    p->text = (struct text){ .arena = arena };
    p->plain = (struct text){ .arena = arena };
    text_str(&p->text, "  %choice = full {value = 1, dims = [], dtype = i64}\n");
    text_add(&p->plain, "  %%zero = full {value = 0.0, dims = [%s, %s], dtype = f64}\n", p->side, p->side);
    for (uint32_t steps = 2 + mesh_below(p, 7); steps; steps--) write_step(p);
    uint32_t last = p->n_values - 1, two[2] = { whole_value(p, last), whole_value(p, last - 1) };
    text_add(&head, ") -> (%s, %s) {\n%s  return %%v%u, %%v%u\n}\n", type_of(p, p->at[two[0]]),
             type_of(p, p->at[two[1]]), p->text.data, two[0], two[1]);
    text_add(&plain_head, ") -> (f64[%s, %s], f64[%s, %s]) {\n%s  return %%v%u, %%v%u\n}\n", p->side, p->side,
             p->side, p->side, p->plain.data, two[0], two[1]);
    text_add(&head, "%s", plain_head.data);
    p->text = head;
}

#endif
