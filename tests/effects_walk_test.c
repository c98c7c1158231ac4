/* Every pair of effects (a print, a callback, a check, an operator from outside), in every context and in
 * every context within another, under every transform, on every back end and with every pass switched off:
 * what is seen outside is what the interpreter shows of the program as it is written. Lanes make their own
 * lines, each in its order; what a gradient computes again is not said again; a run that a check ends has
 * said what stands before the check, and nothing else. `--all` runs native code for all of it. */
#include "check.h"
#include "check/check.h"
#include "check/test_c.h"
#include "emit/backend.h"
#include "transform/transform.h"

/* ---- programs ---- */

/* Every ordered pair stands side by side, also two that are equal. <: the state, %id: the lane, %lim: what
 * checks compare with; gives %r. */
static const char leaf[] = "%a = sin(<)\n"
                           "print {format = \"p({}, {})\"} (%id, %a)\n"
                           "print {format = \"p({}, {})\"} (%id, %a)\n"
                           "callback {name = \"c\"} (%id, %a)\n"
                           "callback {name = \"c\"} (%id, %a)\n"
                           "%b = mul(%a, %id)\n"
                           "%k1 = lt(%a, %lim)\n"
                           "check {message = \"first\"} (%k1, %a)\n"
                           "%k2 = lt(%b, %lim)\n"
                           "check {message = \"second\"} (%k2, %b)\n"
                           "print {format = \"q({}, {})\"} (%id, %b)\n"
                           "%c = cos(%b)\n"
                           "%k3 = lt(%c, %lim)\n"
                           "check {message = \"third\"} (%k3, %c)\n"
                           "callback {name = \"d\"} (%id)\n"
                           "print {format = \"end({})\"} (%id)\n"
                           "%r = mul(%c, <)\n";
/* The same with an operator from outside, whose result the gradient needs. */
static const char leaf_with_operator[] = "%a = sin(<)\n"
                                         "%x = stop_gradient(%a)\n"
                                         "print {format = \"p({}, {})\"} (%id, %a)\n"
                                         "%o = note(%id, %x)\n"
                                         "%k1 = lt(%a, %lim)\n"
                                         "check {message = \"first\"} (%k1, %a)\n"
                                         "%n = note(%id, %x)\n"
                                         "%b = mul(%o, %n)\n"
                                         "callback {name = \"c\"} (%id, %b)\n"
                                         "%unread = note(%id, %b)\n"
                                         "%c = mul(%b, %a)\n"
                                         "%k2 = lt(%c, %lim)\n"
                                         "check {message = \"second\"} (%k2, %c)\n"
                                         "%r = cos(%c)\n";

struct context {
    /* Around a body that gives %r. <: the state outside, >: inside, #: a number for names. */
    const char *name, *before, *after;
};
#define WITH "with(%id = %id, %lim = %lim) {\n"
#define ALL "with(> = <, %id = %id, %lim = %lim) {\n"
static const struct context contexts[] = {
    { "straight", "", "" },
    { "call", "%r = invoke_subgraph " ALL, "yield(%r)\n}\n" },
    { "call again", "%r = invoke_subgraph {recompute} " ALL, "yield(%r)\n}\n" },
    { "policy nothing", "%r = invoke_subgraph {policy = \"nothing\"} " ALL, "yield(%r)\n}\n" },
    { "policy everything", "%r = invoke_subgraph {policy = \"everything\"} " ALL, "yield(%r)\n}\n" },
    { "policy products", "%r = invoke_subgraph {policy = \"products\"} " ALL, "yield(%r)\n}\n" },
    { "budget", "%r = invoke_subgraph {policy = \"budget(100%)\"} " ALL, "yield(%r)\n}\n" },
    { "branch",
      "%zero# = full {value = 0, dims = [], dtype = f64}\n%p# = lt(<, %zero#)\n"
      "%r = switch(%p#) [(> = <, %id = %id, %lim = %lim) {\n",
      "yield(%r)\n}, (> = <, %id = %id) {\nprint {format = \"less({})\"} (%id)\n%r = neg(>)\n"
      "callback {name = \"less\"} (%id, %r)\nyield(%r)\n}]\n" },
    { "scan", "%r = scan {length = 2} carry(> = <) over() " WITH, "next(%r)\n}\n" },
    { "scan again", "%r = scan {length = 3, schedule = recompute} carry(> = <) over() " WITH,
      "next(%r)\n}\n" },
    { "scan every", "%r = scan {length = 3, every = [2]} carry(> = <) over() " WITH, "next(%r)\n}\n" },
    { "scan sqrt", "%r = scan {length = 4, schedule = sqrt} carry(> = <) over() " WITH, "next(%r)\n}\n" },
    { "scan binomial", "%r = scan {length = 3, schedule = binomial, snapshots = 1} carry(> = <) over() " WITH,
      "next(%r)\n}\n" },
    { "scan back",
      "%xs# = broadcast {dims = [2], at = []} (<)\n%r, %rs# = scan {reverse} carry(> = <) over(%x# in "
      "%xs#) " WITH,
      "next(%r) stack(%x#)\n}\n" },
    { "while",
      "%n# = cast {dtype = i64} (%id)\n%left#, %r = while_loop carry(%i# = %n#, > = <) cond {\n"
      "%zero# = full {value = 0, dims = [], dtype = i64}\n%t# = gt(%i#, %zero#)\ntest(%t#)\n} body " WITH,
      "%one# = full {value = 1, dims = [], dtype = i64}\n%j# = sub(%i#, %one#)\nnext(%j#, %r)\n}\n" },
    { "while again",
      "%n# = cast {dtype = i64} (%id)\n%left#, %r = while_loop {schedule = recompute} carry(%i# = %n#, > = "
      "<) cond {\n"
      "%zero# = full {value = 0, dims = [], dtype = i64}\n%t# = gt(%i#, %zero#)\ntest(%t#)\n} body " WITH,
      "%one# = full {value = 1, dims = [], dtype = i64}\n%j# = sub(%i#, %one#)\nnext(%j#, %r)\n}\n" },
    { "halving",
      "%h#, %r = while_loop carry(%i# = %id, > = <) cond {\n"
      "%half# = full {value = 0.6, dims = [], dtype = f64}\n%t# = gt(%i#, %half#)\ntest(%t#)\n} body " WITH,
      "%two# = full {value = 2, dims = [], dtype = f64}\n%j# = div(%i#, %two#)\nnext(%j#, %r)\n}\n" },
    { "counted",
      "%n# = cast {dtype = i64} (%id)\n%from# = full {value = 0, dims = [], dtype = i64}\n"
      "%r = fori_loop carry(> = <) from(%i# = %from#) to(%n#) " WITH,
      "next(%r)\n}\n" },
    { "map", "%xs# = broadcast {dims = [2], at = []} (<)\n%rs# = map over(> in %xs#) " WITH,
      "stack(%r)\n}\n%r = mean(%rs#)\n" },
    { "region", "%r = region {kind = \"wrap\"} " ALL, "yield(%r)\n}\n" },
    { "custom", "%r = custom {backward = @back} " ALL, "yield(%r)\n}\n" },
    { "custom jvp", "%r = custom {backward = @back, tangent = body} " ALL, "yield(%r)\n}\n" },
};
enum { N_CONTEXTS = HOP_COUNT(contexts) };

static const char rules[] =
    "hop 1\noperator @note(id: f64[], x: f64[]) -> f64[] {effects = io}\nfn @back(%s: f64[], %id: f64[], "
    "%lim: f64[], %ct: f64[]) -> (f64[], f64[], "
    "f64[]) {\n%zero = full {value = 0, dims = [], dtype = f64}\n%c = cos(%s)\n%r = mul(%c, "
    "%ct)\nreturn %r, %zero, %zero\n}\n";

static void add_level(struct text *t, const char *text, const char *outside, const char *inside,
                      const char *number)
{
    for (; *text; text++) {
        if (*text == '<') text_str(t, outside);
        else if (*text == '>') text_str(t, inside);
        else if (*text == '#') text_str(t, number);
        else text_bytes(t, text, 1);
    }
}

static char *program_text(struct arena *a, const struct context *outer, const struct context *inner,
                          const char *innermost)
{
    struct text t = { .arena = a };
    text_add(&t, "%sfn @main(%%s: f64[], %%id: f64[], %%lim: f64[]) -> (f64[]) {\n", rules);
    const char *names[] = { "%s", *outer->before ? "%s1" : "%s", NULL };
    names[2] = *inner->before ? "%s2" : names[1];
    add_level(&t, outer->before, names[0], names[1], "1");
    add_level(&t, inner->before, names[1], names[2], "2");
    add_level(&t, innermost, names[2], NULL, "3");
    add_level(&t, inner->after, names[1], names[2], "2");
    add_level(&t, outer->after, names[0], names[1], "1");
    text_str(&t, "return %r\n}\n");
    return t.data;
}

/* ---- transforms ---- */

enum { MOST_LANES = 6, MOST_ARGS = 8 };

struct transform {
    const char *name;
    /* Applied from the left: g gradient, j tangents, v pullback, b lanes of all, s lanes of the state alone
     */
    const char *steps;
};
static const struct transform transforms[] = {
    { "itself", "" },
    { "gradient", "g" },
    { "pullback", "v" },
    { "tangents", "j" },
    { "gradient of the gradient", "gg" },
    { "tangents of the gradient", "gj" },
    { "gradient of the tangents", "jv" },
    { "lanes", "b" },
    { "lanes of the state", "s" },
    { "lanes of lanes", "bb" },
    { "lanes of the gradient", "gb" },
    { "pullback of lanes", "bv" },
    { "lanes of the state of lanes", "bs" },
    { "tangents of lanes", "bj" },
    { "lanes of the gradient of the gradient", "ggb" },
};
enum { N_TRANSFORMS = HOP_COUNT(transforms) };

static uint32_t first_only(struct module *m, uint32_t fn, char step)
{
    const struct fn *f = module_fn(m, fn);
    bool *wrt = ARENA_ZNEW(&m->arena, bool, f->n_params),
         *found = ARENA_ZNEW(&m->arena, bool, f->n_results + 1);
    wrt[0] = true;
    if (step == 'g') return grad_function(m, fn, wrt, false);
    if (step == 'v') return vjp_function(m, fn, wrt);
    return jvp_function(m, fn, wrt, found);
}

static uint32_t over_lanes(struct module *m, uint32_t fn, bool all)
{
    const struct fn *f = module_fn(m, fn);
    int *in = ARENA_NEW(&m->arena, int, f->n_params), *out = ARENA_ZNEW(&m->arena, int, f->n_results);
    for (uint32_t p = 0; p < f->n_params; p++) in[p] = p == 0 || (all && p == 1) ? 0 : -1;
    return vmap_function(m, fn, in, out);
}

static uint32_t transformed(struct module *m, uint32_t fn, const char *steps)
{
    for (; *steps; steps++)
        fn = *steps == 'b' || *steps == 's' ? over_lanes(m, fn, *steps == 'b') : first_only(m, fn, *steps);
    return fn;
}

/* ---- arguments ---- */

/* Lane by lane: the state and the lane's number. Lanes of the state alone have the number of the first. */
struct lanes {
    uint32_t n;
    double state[MOST_LANES], id[MOST_LANES];
    int64_t dims[2][2]; /* of both, by level */
    uint32_t rank[2];
};

static struct lanes lanes_of(const char *steps)
{
    struct lanes l = { .n = 1, .state = { 0.7 }, .id = { 1 } };
    for (; *steps; steps++) {
        if (*steps != 'b' && *steps != 's') continue;
        int64_t size = l.n == 1 ? 3 : 2; /* the new dim comes first */
        uint32_t n = l.n;
        for (uint32_t which = 0; which < (*steps == 'b' ? 2u : 1u); which++) {
            l.dims[which][1] = l.dims[which][0];
            l.dims[which][0] = size;
            l.rank[which]++;
        }
        for (uint32_t k = 1; k < size; k++)
            for (uint32_t i = 0; i < n; i++) {
                l.state[k * n + i] = l.state[i] + (k % 2 ? -1.1 : 0.3) * k;
                l.id[k * n + i] = *steps == 'b' ? l.id[i] + k * (n > 1 ? 3 : 1) : l.id[i];
            }
        l.n = n * (uint32_t)size;
    }
    return l;
}

static void fill_args(struct bag *bag, struct module *m, const struct fn *f, const struct lanes *l,
                      double limit, struct tensor **args)
{
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(m, value_type(f, p));
        int64_t dims[MAX_RANK] = { 0 };
        for (uint32_t d = 0; d < t.rank; d++)
            dims[d] = l->dims[0][d]; /* all others have the lanes of the state */
        if (p == 1) memcpy(dims, l->dims[1], sizeof l->dims[1]);
        args[p] = bag_new(bag, DT_F64, t.rank, dims);
        for (int64_t i = 0; i < args[p]->count; i++)
            tensor_set(args[p], i,
                       p == 0   ? l->state[i]
                       : p == 1 ? l->id[i]
                       : p == 2 ? limit
                                : 0.5 + (double)i);
    }
}

/* ---- what was said ---- */

/* The lines of one lane, or all. */
static char *lines_of(struct arena *a, const struct outcome *o, double id, bool all)
{
    struct text out = { .arena = a };
    text_str(&out, "");
    const char *at = o->printed.len ? arena_string(a, o->printed.data, o->printed.len) : "";
    while (*at) {
        const char *end = strchr(at, '\n') + 1, *open = strchr(at, '(');
        if (all || (open && strtod(open + 1, NULL) == id)) text_bytes(&out, at, (size_t)(end - at));
        at = end;
    }
    return out.data ? out.data : "";
}

static uint64_t lines_hash(const char *at)
{
    uint64_t sum = 0;
    while (*at) {
        const char *end = strchr(at, '\n') + 1;
        sum += hash_bytes(at, (size_t)(end - at), 1);
        at = end;
    }
    return sum;
}

/* The run at work: what the operator is given stands among its lines. */
static struct outcome *at_work;

static int take_note(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    double id = *(const double *)arrays[0], x = *(const double *)arrays[1];
    (void)call, (void)sizes;
    text_add(&at_work->printed, "note(%g, %.9g)\n", id, x);
    *(double *)arrays[2] = 1 + x * x;
    return 0;
}

static void run_it(struct bag *bag, struct module *m, uint32_t fn, const struct way *how,
                   struct tensor *const *args, struct outcome *out)
{
    at_work = out;
    run_on(bag, m, fn, how, args, NULL, out);
    at_work = NULL;
}

struct case_of {
    struct bag *bag;
    struct module *m;
    uint32_t fn; /* as it is written */
    const struct context *outer, *inner;
    const struct transform *how;
    double limit;
    struct lanes lanes;
    struct outcome alone[MOST_LANES]; /* of the program as written, lane by lane */
};

static void claim_said(const struct case_of *c, const char *where, const struct outcome *found)
{
    struct arena *a = &c->bag->arena;
    bool one = c->lanes.n == 1, ends = false, by_lane = !strchr(c->how->steps, 's');
    const char *expected = "", *said = lines_of(a, found, 0, true);
    const char *title = arena_printf(a, "%s in %s, %s, below %g, %s", c->inner->name, c->outer->name,
                                     c->how->name, c->limit, where);
    for (uint32_t l = 0; l < c->lanes.n; l++) ends |= c->alone[l].status != HOP_OK;
    CLAIM((found->status != HOP_OK) == ends, "%s: expected that it %s, found %s", title,
          ends ? "fails" : "runs", found->status ? found->message : "a result");
    if ((found->status != HOP_OK) != ends || (ends && !one)) return;
    if (one) {
        expected = lines_of(a, &c->alone[0], 0, true);
        CLAIM(!strcmp(said, expected), "%s: expected the lines\n%sfound\n%s", title, expected, said);
        CLAIM(!ends || !strcmp(found->message, c->alone[0].message), "%s: expected '%s', found '%s'", title,
              c->alone[0].message, found->message);
        return;
    }
    uint64_t sum = 0;
    for (uint32_t l = 0; l < c->lanes.n; l++) {
        expected = lines_of(a, &c->alone[l], 0, true);
        sum += lines_hash(expected);
        if (by_lane)
            CLAIM(!strcmp(lines_of(a, found, c->lanes.id[l], false), expected),
                  "%s, lane %u: expected the lines\n%sfound\n%s", title, l, expected,
                  lines_of(a, found, c->lanes.id[l], false));
    }
    CLAIM(sum == lines_hash(said), "%s: the lines of all lanes are others:\n%s", title, said);
}

static void run_alone(struct case_of *c)
{
    struct lanes one = { .n = 1 };
    for (uint32_t l = 0; l < c->lanes.n; l++) {
        struct tensor *args[MOST_ARGS];
        one.state[0] = c->lanes.state[l];
        one.id[0] = c->lanes.id[l];
        fill_args(c->bag, c->m, module_fn(c->m, c->fn), &one, c->limit, args);
        run_it(c->bag, c->m, c->fn, &interpreter, args, &c->alone[l]);
    }
}

/* ---- the walk ---- */

struct walk {
    uint32_t outer, inner;
    const char *leaf;
};

static const double limits[] = { 1e9, 0.9, 0.5 }; /* at the second and third, checks fail sooner or later */
static bool everything;

static void run_ways(const struct case_of *c, uint32_t fn, struct tensor *const *args, uint32_t number)
{
    struct outcome found;
    run_it(c->bag, c->m, fn, &interpreter, args, &found);
    claim_said(c, "interpreted", &found);
    struct way way = { .name = "after the passes", .simplify = true };
    for (uint32_t pass = 0; pass <= PASS_COUNT; pass++) {
        const char *name = pass < PASS_COUNT ? switch_names[pass] : "none";
        way.passes = (struct pass_options){ .without = pass < PASS_COUNT ? 1u << pass : 0, .strict = true };
        if (!everything && pass < PASS_COUNT && (number + pass) % 7) continue;
        run_it(c->bag, c->m, fn, &way, args, &found);
        claim_said(c, arena_printf(&c->bag->arena, "after the passes without %s", name), &found);
    }
    way = (struct way){ .backend = &executor_backend, .passes = { .strict = true } };
    run_it(c->bag, c->m, fn, &way, args, &found);
    claim_said(c, "executor", &found);
    if (!exe_available() || (!everything && number % 5)) return;
    way.backend = &llvm_backend;
    run_it(c->bag, c->m, fn, &way, args, &found);
    claim_said(c, "native code", &found);
}

static void walk_program(struct bag *bag, const struct walk *w)
{
    uint32_t outer = w->outer, inner = w->inner;
    struct case_of c = { .bag = bag, .outer = &contexts[outer], .inner = &contexts[inner] };
    char *text = program_text(&bag->arena, c.outer, c.inner, w->leaf);
    c.m = text_read("program", text, strlen(text));
    hop_cleanup_push(module_free, c.m);
    c.fn = module_find(c.m, "main");
    bool nested = *c.outer->before && *c.inner->before;
    for (uint32_t t = 0; t < N_TRANSFORMS; t++) {
        uint32_t number = outer + 3 * inner + 5 * t;
        if (!everything && nested && number % 4) continue;
        c.how = &transforms[t];
        uint32_t fn = transformed(c.m, c.fn, c.how->steps);
        c.lanes = lanes_of(c.how->steps);
        for (uint32_t k = 0; k < HOP_COUNT(limits); k++) {
            struct tensor *args[MOST_ARGS];
            if (!everything && nested && (number + k) % 3) continue;
            c.limit = limits[k];
            run_alone(&c);
            fill_args(bag, c.m, module_fn(c.m, fn), &c.lanes, c.limit, args);
            run_ways(&c, fn, args, number + 2 * k);
        }
    }
    hop_cleanup_pop(c.m);
    module_free(c.m);
}

/* ---- emitted C ---- */

struct emitted {
    struct case_of c;
    uint32_t fn, number;
};

static void modules_free(void *ctx)
{
    struct emitted *all = ctx;
    for (uint32_t i = 0; i < N_CONTEXTS; i++) module_free(all[i].c.m);
}

/* One transform for each context, in one source. */
static void walk_emitted(void *ctx)
{
    static const struct pass_options passes = { .strict = true };
    uint32_t round = *(const uint32_t *)ctx;
    struct bag bag = { 0 };
    struct emitted all[N_CONTEXTS] = { 0 };
    struct c_programs *c = c_programs_new(NULL);
    hop_cleanup_push(bag_free, &bag);
    hop_cleanup_push(modules_free, all);
    hop_cleanup_push(c_programs_free, c);
    for (uint32_t i = 0; i < N_CONTEXTS; i++) {
        struct emitted *e = &all[i];
        e->c = (struct case_of){ .bag = &bag,
                                 .outer = &contexts[(i * 5 + round) % N_CONTEXTS],
                                 .inner = &contexts[i],
                                 .how = &transforms[(i + round * 4) % N_TRANSFORMS] };
        char *text = program_text(&bag.arena, e->c.outer, e->c.inner, leaf);
        e->c.m = text_read("program", text, strlen(text));
        e->c.fn = module_find(e->c.m, "main");
        e->fn = transformed(e->c.m, e->c.fn, e->c.how->steps);
        e->c.lanes = lanes_of(e->c.how->steps);
        e->number = c_programs_add(c, e->c.m, e->fn, &passes);
    }
    c_programs_build(c, false);
    for (uint32_t i = 0; i < N_CONTEXTS * HOP_COUNT(limits); i++) {
        struct emitted *e = &all[i % N_CONTEXTS];
        struct tensor *args[MOST_ARGS];
        struct outcome found;
        e->c.limit = limits[i / N_CONTEXTS];
        run_alone(&e->c);
        fill_args(&bag, e->c.m, module_fn(e->c.m, e->fn), &e->c.lanes, e->c.limit, args);
        c_programs_run(c, e->number, &bag, e->c.m, e->fn, args, NULL, &found);
        claim_said(&e->c, "emitted C", &found);
    }
    hop_cleanup_pop(c);
    c_programs_free(c);
    hop_cleanup_pop(all);
    modules_free(all);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
}

static void guarded_program(void *ctx)
{
    const struct walk *w = ctx;
    struct bag bag = { 0 };
    hop_cleanup_push(bag_free, &bag);
    walk_program(&bag, w);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
}

/* What a loop stacks whose trips only it knows leaves neither a call nor a branch: a gradient would run it
 * again. */
static bool is_refused(const struct walk *w)
{
    if (w->leaf != leaf_with_operator || !strstr(hop_message(), "its effects would happen twice"))
        return false;
    return strstr(contexts[w->inner].before, "while_loop") || strstr(contexts[w->inner].before, "fori_loop");
}

static void walk_pair(struct walk *w)
{
    hop_status status = attempt(guarded_program, w);
    CLAIM(status == HOP_OK || is_refused(w), "%s in %s: %s", contexts[w->inner].name, contexts[w->outer].name,
          hop_message());
}

int main(int argc, char **argv)
{
    hop_operator_spec note = { .signature = "note(id: f64[], x: f64[]) -> f64[]",
                               .run = take_note,
                               .effect = "io" };
    CLAIM(!hop_operator_register(&note), "registering: %s", hop_message());
    everything = argc > 1 && !strcmp(argv[1], "--all");
    for (uint32_t outer = 0; outer < N_CONTEXTS; outer++)
        for (uint32_t inner = 0; inner < N_CONTEXTS; inner++) {
            struct walk w = { outer, inner, (outer + inner) % 2 ? leaf : leaf_with_operator };
            if (argc > 2 &&
                (argc < 4 || strcmp(argv[2], contexts[outer].name) || strcmp(argv[3], contexts[inner].name)))
                continue;
            walk_pair(&w);
            if (!everything && argc < 4 && outer) continue;
            w.leaf = w.leaf == leaf ? leaf_with_operator : leaf;
            walk_pair(&w);
        }
    for (uint32_t round = 0; argc < 4 && round < (everything ? N_TRANSFORMS : 2); round++) {
        hop_status status = attempt(walk_emitted, &round);
        CLAIM(status == HOP_OK, "emitted C: %s", hop_message());
    }
    return tests_end();
}
