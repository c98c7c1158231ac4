/* Named axes. Random functions of one lane, with collectives, loops, branches and calls in them, are computed
 * by hand with the lanes written out, and compared with the same function batched over its axis: values on
 * every back end; gradients taken of one lane's function and then batched against gradients of the batched
 * function, tangents and second derivatives likewise; batches over a second axis from either side. Then
 * types, texts and what is refused.
 *
 * axes_test [FIRST [COUNT]]: seeds; closes with `N passed, M failed`. */
#include "lanes_program.h"
#include "with_bag.h"

#include "ir/axes.h"
#include "loop/lower.h"
#include "ops/build.h"
#include "transform/transform.h"

#include <math.h>
#include <stdlib.h>

/* @body, and @main, which binds the axis. */
static void write_program(struct program *p, const bool *varies, const uint32_t *two)
{
    write_lane(p, varies, two, false);
    text_add(&p->text,
             "fn @main(%%a: f64[%u, 3], %%b: f64[%u, 3], %%c: f64[3]) -> (f64[%u, 3], f64[%u, 3]) {\n"
             "%%x, %%y = map {axis = \"i\"} over(%%a, %%b) @body(%%c)\nreturn %%x, %%y\n}\n",
             p->lanes, p->lanes, p->lanes, p->lanes);
}

/* ---- by hand ---- */

typedef double array[MOST_LANES][WIDTH];

static double reduced(const struct program *p, const array x, uint32_t j, uint32_t op)
{
    double r = x[0][j];
    for (uint32_t l = 1; l < p->lanes; l++)
        r = op == 1 ? fmax(r, x[l][j]) : op == 2 ? fmin(r, x[l][j]) : op == 3 ? r * x[l][j] : r + x[l][j];
    return op == 4 ? r / p->lanes : r;
}

static void run_body(const struct program *p, uint32_t number, array *values);

static void nested(const struct program *p, uint32_t number, const array a, const array b, array out)
{
    array values[2 + MOST_STEPS];
    memcpy(values[0], a, sizeof(array));
    memcpy(values[1], b, sizeof(array));
    run_body(p, number, values);
    memcpy(out, values[2 + p->bodies[number].n - 1], sizeof(array));
}

static void run_choice(const struct program *p, const struct step *s, const array a, const array b, array out)
{
    array made[2];
    double largest = -INFINITY, sum = 0;
    for (int r = 0; r < 2; r++) nested(p, s->body[r], a, b, made[r]);
    for (uint32_t j = 0; j < WIDTH; j++, sum += largest) largest = reduced(p, a, j, 1);
    for (uint32_t l = 0; l < p->lanes; l++) {
        double own = a[l][0] + a[l][1] + a[l][2];
        memcpy(out[l], made[(s->kind == CHOICE ? sum : own) > 0][l], sizeof out[l]);
    }
}

static double element(const struct program *p, const struct step *s, const array a, const array b, uint32_t l,
                      uint32_t j)
{
    uint32_t n = p->lanes, from = (l + n - s->op % n) % n;
    double sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        if (s->kind == GATHER || s->kind == TILES) sum += a[k][j] * (k + 1);
        if (s->kind == SCATTER) sum += a[k][j] * (l + 1);
        if (s->kind == EXCHANGE) sum += a[k][j] * (l + 1) * (k + 1);
    }
    switch (s->kind) {
    case ADD: return a[l][j] + b[l][j];
    case MUL: return a[l][j] * b[l][j];
    case SIN: return sin(a[l][j]);
    case REDUCE: return reduced(p, a, j, s->op);
    case PERMUTE: return s->odd && !l ? 0 : a[from][j];
    case BROADCAST: return a[s->op][j];
    case INDEX: return a[l][j] * l;
    default: return sum;
    }
}

static void run_body(const struct program *p, uint32_t number, array *values)
{
    const struct body *body = &p->bodies[number];
    for (uint32_t i = 0; i < body->n; i++) {
        const struct step *s = &body->steps[i];
        double(*a)[WIDTH] = values[s->a], (*b)[WIDTH] = values[s->b],
        (*out)[WIDTH] = values[body->n_params + i];
        memset(out, 0, sizeof(array));
        if (s->kind == SCAN || s->kind == WHILE) {
            nested(p, s->body[0], (const double(*)[WIDTH])a, (const double(*)[WIDTH])b, out);
            array once;
            memcpy(once, out, sizeof once);
            nested(p, s->body[0], (const double(*)[WIDTH])once, (const double(*)[WIDTH])b, out);
        } else if (s->kind == CALL)
            nested(p, s->body[0], (const double(*)[WIDTH])a, (const double(*)[WIDTH])b, out);
        else if (s->kind == CHOICE || s->kind == OWN_CHOICE)
            run_choice(p, s, (const double(*)[WIDTH])a, (const double(*)[WIDTH])b, out);
        else
            for (uint32_t l = 0; l < p->lanes; l++)
                for (uint32_t j = 0; j < WIDTH; j++)
                    out[l][j] = element(p, s, (const double(*)[WIDTH])a, (const double(*)[WIDTH])b, l, j);
    }
}

/* ---- claims ---- */

static const struct bound close_f64 = { BOUND_TENSOR, 1e-9 }, bits = { BOUND_BITS, 0 };

struct lanes {
    struct bag *bag;
    struct module *m;
    uint32_t body, whole; /* of one lane; batched over the axis */
    axis_set axis;
    int in[N_GIVEN], out[2]; /* axes, as vmap takes them */
    struct tensor *args[N_GIVEN], *cts[2], *dots[N_GIVEN];
    uint64_t seed;
};

static struct tensor *random_tensor(struct bag *bag, uint32_t rank, const int64_t *dims, uint64_t seed)
{
    struct tensor *t = bag_new(bag, DT_F64, rank, dims);
    struct random r = { seed };
    tensor_random(t, &r, -1, 1);
    return t;
}

static void compare(const struct lanes *c, uint32_t fn, uint32_t expected, struct tensor *const *args,
                    const char *what)
{
    struct outcome a, b;
    verify_fn(c->m, fn);
    run_on(c->bag, c->m, fn, &interpreter, args, NULL, &a);
    run_on(c->bag, c->m, expected, &interpreter, args, NULL, &b);
    const char *wrong = outcome_difference(&c->bag->arena, &a, &b, close_f64, close_f64);
    CLAIM(!wrong && !b.status, "%s of program %llu: %s", what, (unsigned long long)c->seed,
          wrong       ? wrong
          : b.message ? b.message
                      : "");
}

static void check_values(const struct lanes *c, struct program *p, const uint32_t *two)
{
    array values[N_GIVEN + MOST_STEPS];
    memset(values, 0, sizeof values);
    for (uint32_t k = 0; k < N_GIVEN; k++)
        for (uint32_t l = 0; l < p->lanes; l++)
            for (uint32_t j = 0; j < WIDTH; j++)
                values[k][l][j] = tensor_get(c->args[k], k < 2 ? l * WIDTH + j : j);
    run_body(p, 0, values);
    struct outcome by_hand = { .n = 2, .results = ARENA_NEW(&c->bag->arena, struct tensor *, 2) }, found,
                   first;
    for (int r = 0; r < 2; r++) {
        by_hand.results[r] = bag_new(c->bag, DT_F64, 2, (const int64_t[]){ p->lanes, WIDTH });
        for (uint32_t l = 0; l < p->lanes; l++)
            for (uint32_t j = 0; j < WIDTH; j++)
                tensor_set(by_hand.results[r], l * WIDTH + j, values[two[r]][l][j]);
    }
    const struct way ways[] = {
        { .name = "interpreted" },
        { .name = "simplified", .simplify = true, .passes = { .strict = true } },
        { .name = "executor", .backend = backend_named("executor"), .passes = { .strict = true } },
        { .name = "LLVM", .backend = backend_named("llvm"), .passes = { .strict = true }, .threads = 2 },
    };
    uint32_t main_fn = module_find(c->m, "main");
    for (uint32_t i = 0; i < HOP_COUNT(ways); i++) {
        if (i == 3 && (c->seed % 8 || !ways[i].backend)) continue; /* LLVM takes its time */
        run_on(c->bag, c->m, main_fn, &ways[i], c->args, NULL, &found);
        const char *wrong = i ? outcome_difference(&c->bag->arena, &found, &first, bits, bits)
                              : outcome_difference(&c->bag->arena, &found, &by_hand, close_f64, close_f64);
        CLAIM(!wrong, "the value of program %llu, %s: %s", (unsigned long long)c->seed, ways[i].name,
              wrong ? wrong : "");
        if (!i) first = found;
    }
}

static const bool all[2 * N_GIVEN + 4] = { true, true, true, true, true, true, true, true, true, true };

/* Gradients of one lane's function over the lanes, and gradients of the batched function. */
static void check_gradients(const struct lanes *c)
{
    struct module *m = c->m;
    uint32_t inside = vjp_function(m, c->body, all), outside = vjp_function(m, c->whole, all);
    int in[N_GIVEN + 2] = { 0, 0, -1, c->out[0], c->out[1] },
                     out[2 + N_GIVEN] = { c->out[0], c->out[1], 0, 0, -1 };
    struct tensor *args[N_GIVEN + 2] = { c->args[0], c->args[1], c->args[2], c->cts[0], c->cts[1] };
    verify_fn(m, inside);
    compare(c, vmap_axis(m, inside, in, out, c->axis), outside, args, "the gradient");
    bool active[2], both[2];
    uint32_t forward = jvp_function(m, c->body, all, active), whole = jvp_function(m, c->whole, all, both);
    int tangents[2 * N_GIVEN] = { 0, 0, -1, 0, 0, -1 }, results[4] = { c->out[0], c->out[1] };
    uint32_t n = 2;
    for (int k = 0; k < 2; k++)
        if (active[k]) results[n++] = c->out[k];
    struct tensor *moved[2 * N_GIVEN];
    memcpy(moved, c->args, sizeof c->args);
    memcpy(moved + N_GIVEN, c->dots, sizeof c->dots);
    CLAIM(active[0] == both[0] && active[1] == both[1], "program %llu: the same results have tangents",
          (unsigned long long)c->seed);
    compare(c, vmap_axis(m, forward, tangents, results, c->axis), whole, moved, "the tangents");
    if (c->seed % 4) return;
    uint32_t twice = vjp_function(m, inside, all), whole_twice = vjp_function(m, outside, all);
    const struct fn *f = module_fn(m, twice);
    uint32_t n_in = f->n_params, n_first = N_GIVEN + 2;
    int second_in[16], second_out[16];
    struct tensor *second[16];
    for (uint32_t k = 0; k < n_in; k++) { /* what the gradient takes, then the cotangents of what it gives */
        second_in[k] = k < n_first ? in[k] : out[k - n_first];
        const struct tensor *like = k < n_first ? args[k] : NULL;
        int64_t dims[2] = { second_in[k] < 0 ? WIDTH : c->args[0]->dims[0], WIDTH };
        second[k] = like ? args[k] : random_tensor(c->bag, second_in[k] < 0 ? 1 : 2, dims, c->seed * 50 + k);
    }
    for (uint32_t k = 0; k < f->n_results; k++) second_out[k] = k < n_first ? out[k] : in[k - n_first];
    compare(c, vmap_axis(m, twice, second_in, second_out, c->axis), whole_twice, second,
            "the second derivative");
}

/* Lanes of a second axis, without a name, from inside and from outside. */
static void check_batches(const struct lanes *c)
{
    struct module *m = c->m;
    int64_t dims[3] = { 2, c->args[0]->dims[0], WIDTH }, inner[3] = { c->args[0]->dims[0], 2, WIDTH };
    struct tensor *x = random_tensor(c->bag, 3, dims, c->seed + 900),
                  *turned = bag_new(c->bag, DT_F64, 3, inner);
    for (int64_t k = 0; k < 2; k++)
        for (int64_t l = 0; l < dims[1]; l++)
            for (int64_t j = 0; j < WIDTH; j++)
                tensor_set(turned, (l * 2 + k) * WIDTH + j, tensor_get(x, (k * dims[1] + l) * WIDTH + j));
    int in[N_GIVEN] = { 0, -1, -1 }, out[2] = { 0, 0 }, named_out[2] = { 0, 0 };
    uint32_t outside = vmap_function(m, c->whole, in, out);
    uint32_t inside = vmap_axis(m, vmap_function(m, c->body, in, out), c->in, named_out, c->axis);
    struct tensor *args[N_GIVEN] = { turned, c->args[1], c->args[2] };
    struct outcome found, expected;
    run_on(c->bag, m, inside, &interpreter, args, NULL, &found);
    args[0] = x;
    run_on(c->bag, m, outside, &interpreter, args, NULL, &expected);
    CLAIM(!found.status && !expected.status, "batches of program %llu run: %s %s",
          (unsigned long long)c->seed, found.message ? found.message : "",
          expected.message ? expected.message : "");
    for (int r = 0; r < 2 && !found.status && !expected.status; r++)
        for (int64_t k = 0; k < 2; k++)
            for (int64_t at = 0; at < dims[1] * WIDTH; at++) {
                int64_t l = at / WIDTH, j = at % WIDTH;
                bool named = c->out[r] >= 0;
                double a = tensor_get(found.results[r], (l * 2 + k) * WIDTH + j);
                double b = tensor_get(expected.results[r],
                                      k * (named ? dims[1] : 1) * WIDTH + (named ? at : j));
                if (fabs(a - b) > 1e-9 * fmax(1, fabs(b)))
                    CLAIM(false, "the batch of program %llu: %g, expected %g", (unsigned long long)c->seed, a,
                          b);
            }
}

static void check_program(struct bag *bag, uint64_t seed)
{
    struct program p = { .text = { .arena = &bag->arena } };
    static const bool params[N_GIVEN] = { true, true, false };
    bool varies[N_GIVEN + MOST_STEPS];
    state = seed * 97 + 3;
    for (int i = 0; i < 8; i++) below(2);
    p.lanes = 1 + below(4);
    random_body(&p, N_GIVEN, 3 + below(MOST_STEPS - 3), false, 0);
    body_varies(&p, 0, params, varies);
    uint32_t n = N_GIVEN + p.bodies[0].n, two[2] = { n - 1, n - 2 };
    write_program(&p, varies, two);
    if (getenv("HOP_TEST_SHOW")) puts(p.text.data);
    struct module *m = text_read("program", p.text.data, p.text.len);
    hop_cleanup_push(module_free, m);
    struct lanes c = { .bag = bag, .m = m, .body = module_find(m, "body"), .seed = seed, .in = { 0, 0, -1 } };
    c.axis = module_axis(m, module_string(m, "i", 1));
    const char *wrong = claim_round_trip(m);
    CLAIM(!wrong, "the text of program %llu: %s", (unsigned long long)seed, wrong ? wrong : "");
    verify_fn(m, c.body);
    for (int r = 0; r < 2; r++) c.out[r] = varies[two[r]] ? 0 : -1;
    c.whole = vmap_axis(m, c.body, c.in, c.out, c.axis);
    for (uint32_t k = 0; k < N_GIVEN + 2; k++) {
        int where = k < N_GIVEN ? c.in[k] : c.out[k - N_GIVEN];
        int64_t dims[2] = { where < 0 ? WIDTH : p.lanes, WIDTH };
        struct tensor *t = random_tensor(bag, where < 0 ? 1 : 2, dims, seed * 10 + k);
        if (k >= N_GIVEN) c.cts[k - N_GIVEN] = t;
        else {
            c.args[k] = t;
            c.dots[k] = random_tensor(bag, where < 0 ? 1 : 2, dims, seed * 20 + k);
        }
    }
    check_values(&c, &p, two);
    check_gradients(&c);
    check_batches(&c);
    hop_cleanup_pop(m);
    module_free(m);
}

/* ---- what is refused, and why ---- */

struct asking {
    const char *text;
    struct module *m;
    bool compile, lanes;
};

static void ask(void *ctx)
{
    struct asking *a = ctx;
    a->m = text_read("program", a->text, strlen(a->text));
    uint32_t fn = module_find(a->m, "f");
    struct interp in = { .m = a->m };
    axis_set axis = module_axis(a->m, module_string(a->m, "i", 1));
    static const int zero[] = { 0, 0 };
    if (a->lanes) vmap_axis(a->m, fn, zero, zero, axis);
    else if (a->compile) lower_function(a->m, fn, &(struct pass_options){ 0 }, NULL);
    else interp_run(&in, fn, NULL, NULL, NULL);
}

static void refuses(struct asking a, const char *message)
{
    hop_status status = attempt(ask, &a);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), message), "expected %s, found %s", message,
          hop_message());
    module_free(a.m);
}

static void check_refusals(void)
{
    static const char index[] =
        "hop 1\nfn @f() -> (i64[]{i}) {\n  %k = rank_index {axis = \"i\"}\n  return %k\n}\n";
    static const char sum[] = "hop 1\nfn @f(%x: f32[], %y: f32[]{i}) -> (f32[]) {\n  %z = mul(%x, %y)\n"
                              "  %s = all_reduce {axis = \"i\", op = sum} (%z)\n  return %s\n}\n";
    refuses((struct asking){ .text = index }, "program:3:3: rank_index: the axis 'i' is not bound");
    refuses((struct asking){ .text = index, .compile = true },
            "program:3:3: rank_index: the axis 'i' is not bound");
    refuses((struct asking){ .text = sum, .compile = true },
            "program:4:3: all_reduce: the axis 'i' is not bound");
    refuses((struct asking){ .text = sum, .lanes = true },
            "parameter 0 (%x) has lanes along the axis 'i', and its type, f32[], does not vary along it");
}

/* What is gathered and then varied goes back as one reduce_scatter. */
static void check_join(void)
{
    static const char text[] = "hop 1\nfn @f(%x: f64[2]{i}) -> (f64[3, 2]{i}) {\n"
                               "  %g = all_gather {axis = \"i\", size = 3} (%x)\n"
                               "  %v = vary {axis = \"i\"} (%g)\n  return %v\n}\n";
    struct module *m = text_read("program", text, sizeof text - 1);
    struct text out = { .arena = &m->arena };
    uint32_t fn = vjp_function(m, module_find(m, "f"), all);
    text_print(m, simplify(m, fn, &(struct pass_options){ .differentiable = true }), 0, &out);
    CLAIM(strstr(out.data, "reduce_scatter") && !strstr(out.data, "all_reduce"), "the transpose is one: %s",
          out.data);
    module_free(m);
}

/* ---- types ---- */

static void check_types(void)
{
    struct module *m = module_new();
    dim three = dim_const(m, 3);
    axis_set j = module_axis(m, module_string(m, "j", 1)), i = module_axis(m, module_string(m, "i", 1)),
             spaced = module_axis(m, module_string(m, "a b", 3));
    type_id plain = type_intern(m, DT_F32, 1, &three), both = type_varying(m, plain, i | j);
    CLAIM(both != plain && both == type_varying(m, plain, j | i),
          "a set of axes is part of an interned type");
    CLAIM(type_varying(m, both, 0) == plain, "without axes it is the type that it was");
    CLAIM(!strcmp(type_text(m, NULL, both), "f32[3]{i, j}"), "axes stand in the order of their names: %s",
          type_text(m, NULL, both));
    CLAIM(!strcmp(type_text(m, NULL, type_varying(m, plain, spaced)), "f32[3]{\"a b\"}"),
          "a name that is no word is in quotes");
    CLAIM(value_axes(m, type_prepend(m, both, three)) == (i | j) &&
              value_axes(m, type_drop_dim(m, both, 0)) == (i | j),
          "other dims, the same axes");
    type_id object = type_object(m, "thing", 5);
    CLAIM(type_varying(m, object, i) == object, "an object is one for all lanes");
    struct module *other = module_new();
    module_axis(other, module_string(other, "k", 1));
    type_id brought = type_import(other, m, type_get(m, both), &three);
    CLAIM(!strcmp(type_text(other, NULL, brought), "f32[3]{i, j}"),
          "axes go into another module by their names");
    module_free(other);
    module_free(m);
}

static void more_axes(void *ctx)
{
    struct module *m = ctx;
    for (int k = 0; k <= MAX_AXES; k++) {
        const char *name = arena_printf(&m->arena, "axis%d", k);
        module_axis(m, module_string(m, name, strlen(name)));
    }
}

static void check_many(void)
{
    struct module *m = module_new();
    CLAIM(attempt(more_axes, m) == HOP_INVALID && strstr(hop_message(), "at most 16 axes"), "%s",
          hop_message());
    module_free(m);
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 80;
    setenv("HOP_DEBUG", "verify", 1);
    check_types();
    check_many();
    check_refusals();
    check_join();
    for (uint64_t seed = first; seed < first + count; seed++) with_seed(check_program, seed);
    return tests_end();
}
