/* Every pair of effects (a print, a callback, a check, operators from outside: in order, in any order, on two
 * objects and on one of them that a switch chooses), in every context and in every context within another,
 * under every transform, on every back end and with every pass switched off: what is seen outside is what the
 * interpreter shows of the program as it is written, and what comes out is the same everywhere. What is in
 * order, what is written into each object and what may be in any order are compared apart. Lanes make their
 * own lines, each in its order; what a gradient computes again is not said again; a run that a check ends has
 * said what stands before the check, and nothing else. Two loops beside each other, one with each effect, may
 * become one where nobody sees it.
 * effects_walk_test [--all] [--seed N] [OUTER INNER | loops]: all of it, natively, too; another part of it;
 * two of the contexts, or the loops alone. */
#include "check.h"
#include "check/check.h"
#include "check/test_c.h"
#include "emit/backend.h"
#include "transform/transform.h"

#include <math.h>

/* ---- programs ---- */

/* Every ordered pair stands side by side, also two that are equal. <: the state, %id: the lane, %lim: what
 * checks compare with; gives %r. */
static const char plain_text[] = "%a = sin(<)\n"
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
static const char operator_text[] = "%a = sin(<)\n"
                                    "%x = stop_gradient(%a)\n"
                                    "print {format = \"p({}, {})\"} (%id, %a)\n"
                                    "%o = note(%id, %x)\n"
                                    "%t = tell(%id, %x)\n"
                                    "%t2 = tell(%id, %x)\n"
                                    "%k1 = lt(%a, %lim)\n"
                                    "check {message = \"first\"} (%k1, %a)\n"
                                    "%n = note(%id, %x)\n"
                                    "%d = mul(%o, %n)\n"
                                    "%b = mul(%d, %t2)\n"
                                    "callback {name = \"c\"} (%id, %b)\n"
                                    "%unread = note(%id, %b)\n"
                                    "%unread2 = tell(%id, %b)\n"
                                    "%c = mul(%b, %a)\n"
                                    "%k2 = lt(%c, %lim)\n"
                                    "check {message = \"second\"} (%k2, %c)\n"
                                    "%u = tell(%id, %x)\n"
                                    "%r = cos(%c)\n";
/* Objects %p and %q and %o, which is one of them. What is read is how often the lane has written. */
static const char objects_text[] = "%a = sin(<)\n"
                                   "%x = stop_gradient(%a)\n"
                                   "%before = lines(%o, %id)\n"
                                   "%w1 = write(%p, %id, %x)\n"
                                   "%t = tell(%id, %x)\n"
                                   "%m1 = lines(%o, %id)\n"
                                   "%k1 = lt(%a, %lim)\n"
                                   "check {message = \"first\"} (%k1, %a)\n"
                                   "%m2 = lines(%p, %id)\n"
                                   "%w2 = write(%o, %id, %w1)\n"
                                   "%w3 = write(%o, %id, %w1)\n"
                                   "%m3 = lines(%p, %id)\n"
                                   "print {format = \"n({}, {}, {}, {})\"} (%id, %before, %m1, %m2)\n"
                                   "%w4 = write(%q, %id, %m3)\n"
                                   "%m4 = lines(%q, %id)\n"
                                   "%m5 = lines(%o, %id)\n"
                                   "%t2 = tell(%id, %x)\n"
                                   "%b = mul(%w3, %m3)\n"
                                   "%c = mul(%a, %b)\n"
                                   "%k2 = lt(%c, %lim)\n"
                                   "check {message = \"second\"} (%k2, %c)\n"
                                   "%unread = write(%p, %id, %m4)\n"
                                   "callback {name = \"c\"} (%id, %m5)\n"
                                   "%y = stop_gradient(%c)\n"
                                   "%unread2 = write(%q, %id, %y)\n"
                                   "%m6 = lines(%o, %id)\n"
                                   "%d = cos(%c)\n"
                                   "%r = mul(%d, %m6)\n";
/* The same for all lanes, as an index that chooses an object must be. */
static const char choice[] = "%many = full {value = 100, dims = [], dtype = f64}\n"
                             "%low = lt(%lim, %many)\n"
                             "%o = switch(%low) [(%p = %p) {\nyield(%p)\n}, (%q = %q) {\nyield(%q)\n}]\n";

struct leaf {
    const char *name, *text;
    bool objects, chosen_outside; /* else beside its use */
    bool smooth;                  /* differences say what the gradient is */
};
enum { PLAIN, WITH_OPERATOR, WITH_OBJECTS, WITH_CHOSEN, N_LEAVES };
static const struct leaf leaves[N_LEAVES] = {
    { .name = "plain", .text = plain_text },
    { .name = "operators", .text = operator_text },
    { .name = "objects", .text = objects_text, .objects = true, .smooth = true },
    { .name = "an object from outside",
      .text = objects_text,
      .objects = true,
      .chosen_outside = true,
      .smooth = true },
};

struct context {
    /* Around a body that gives %r. <: the state outside, >: inside, #: a number for names, &: the objects. */
    const char *name, *before, *after;
};
#define WITH "with(%id = %id, %lim = %lim&) {\n"
#define ALL "with(> = <, %id = %id, %lim = %lim&) {\n"
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
      "%r = switch(%p#) [(> = <, %id = %id, %lim = %lim&) {\n",
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
    "hop 1\n"
    "operator @note(id: f64[], x: f64[]) -> f64[] {effects = io}\n"
    "operator @tell(id: f64[], x: f64[]) -> f64[] {effects = unordered}\n"
    "operator @write(t: object \"journal\", id: f64[], x: f64[]) -> f64[]\n"
    "operator @lines(reads t: object \"journal\", id: f64[]) -> f64[]\n"
    "fn @back(%s: f64[], %id: f64[], %lim: f64[]&, %ct: f64[]) -> (f64[], f64[], f64[]) {\n"
    "%zero = full {value = 0, dims = [], dtype = f64}\n%c = cos(%s)\n%r = mul(%c, %ct)\n"
    "return %r, %zero, %zero\n}\n";

struct level {
    const char *outside, *inside, *number, *objects;
};

static void add_level(struct text *t, const char *text, struct level l)
{
    for (; *text; text++) {
        if (*text == '<') text_str(t, l.outside);
        else if (*text == '>') text_str(t, l.inside);
        else if (*text == '#') text_str(t, l.number);
        else if (*text == '&') text_str(t, l.objects);
        else text_bytes(t, text, 1);
    }
}

static char *program_text(struct arena *a, const struct context *outer, const struct context *inner,
                          const struct leaf *leaf)
{
    struct text t = { .arena = a };
    const char *journals = leaf->objects ? ", %p: object \"journal\", %q: object \"journal\"" : "";
    const char *handed = leaf->chosen_outside ? ", %p = %p, %q = %q, %o = %o"
                         : leaf->objects      ? ", %p = %p, %q = %q"
                                              : "";
    const char *chosen = leaf->chosen_outside ? ", %o: object \"journal\"" : "";
    struct level top = { .inside = ">", .objects = arena_printf(a, "%s%s", journals, chosen) };
    add_level(&t, rules, top);
    text_add(&t, "fn @main(%%s: f64[], %%id: f64[], %%lim: f64[]%s) -> (f64[]) {\n", journals);
    struct level first = { "%s", *outer->before ? "%s1" : "%s", "1", handed };
    struct level second = { first.inside, *inner->before ? "%s2" : first.inside, "2", handed };
    if (leaf->chosen_outside) text_str(&t, choice);
    add_level(&t, outer->before, first);
    add_level(&t, inner->before, second);
    if (leaf->objects && !leaf->chosen_outside) text_str(&t, choice);
    add_level(&t, leaf->text, (struct level){ .outside = second.inside });
    add_level(&t, inner->after, second);
    add_level(&t, outer->after, first);
    text_str(&t, "return %r\n}\n");
    return t.data;
}

/* ---- transforms ---- */

enum { MOST_LANES = 6, MOST_ARGS = 8, MOST_IDS = 16 };

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

/* What an object is here: how many lines each lane has written into it. */
struct journal {
    char name;
    uint32_t lines[MOST_IDS];
};
static struct journal journals[] = { { .name = 'P' }, { .name = 'Q' } };

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
    uint32_t n_objects = 0;
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(m, value_type(f, p));
        if (type_is_object(m, value_type(f, p))) {
            args[p] = bag_keep(bag, tensor_object("journal", &journals[n_objects++], NULL, NULL));
            continue;
        }
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

/* A line's first letter says to which stream it belongs: what an object was written, what may be in any
 * order, and all that is in order. */
static const char streams[] = "PQU.";
static bool is_of_stream(char letter, char stream)
{
    return stream == '.' ? !strchr("PQU", letter) : letter == stream;
}

/* The lines of a stream, of one lane or (id 0) all. */
static char *lines_of(struct arena *a, const struct outcome *o, char stream, double id)
{
    struct text out = { .arena = a };
    text_str(&out, "");
    const char *at = o->printed.len ? arena_string(a, o->printed.data, o->printed.len) : "";
    while (*at) {
        const char *end = strchr(at, '\n') + 1, *open = strchr(at, '(');
        if (is_of_stream(*at, stream) && (!id || (open && strtod(open + 1, NULL) == id)))
            text_bytes(&out, at, (size_t)(end - at));
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

static bool same_lines(char stream, const char *a, const char *b)
{
    return stream == 'U' ? lines_hash(a) == lines_hash(b) : !strcmp(a, b);
}

/* The run at work: what operators are given stands among its lines. */
static struct outcome *at_work;
/* Lanes of one number count their lines together: nobody is to see how many there are. */
static bool uncounted;

static int take_note(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    double id = *(const double *)arrays[0], x = *(const double *)arrays[1];
    (void)sizes;
    text_add(&at_work->printed, "%s(%g, %.9g)\n", (const char *)call->user, id, x);
    *(double *)arrays[2] = 1 + x * x;
    return 0;
}

static int write_line(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    struct journal *j = arrays[0];
    double id = *(const double *)arrays[1], x = *(const double *)arrays[2];
    (void)call, (void)sizes;
    text_add(&at_work->printed, "%c(%g, %.9g)\n", j->name, id, x);
    uint32_t n = ++j->lines[(uint32_t)id % MOST_IDS];
    *(double *)arrays[3] = uncounted ? 1.1 : 1 + n / 64.0;
    return 0;
}

/* Reads may be left out, so that they are seen by what they give. */
static int count_lines(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const struct journal *j = arrays[0];
    (void)call, (void)sizes;
    *(double *)arrays[2] = uncounted ? 0.7
                                     : 0.5 + j->lines[(uint32_t)*(const double *)arrays[1] % MOST_IDS] / 16.0;
    return 0;
}

static void register_operators(void)
{
    static char note[] = "note", tell[] = "U";
    const hop_operator_spec specs[] = {
        { .signature = "note(id: f64[], x: f64[]) -> f64[]", .run = take_note, .user = note, .effect = "io" },
        { .signature = "tell(id: f64[], x: f64[]) -> f64[]",
          .run = take_note,
          .user = tell,
          .effect = "unordered" },
        { .signature = "write(t: object \"journal\", id: f64[], x: f64[]) -> f64[]", .run = write_line },
        { .signature = "lines(reads t: object \"journal\", id: f64[]) -> f64[]", .run = count_lines },
    };
    for (uint32_t i = 0; i < HOP_COUNT(specs); i++)
        CLAIM(!hop_operator_register(&specs[i]), "registering: %s", hop_message());
}

static void run_begins(struct outcome *out)
{
    at_work = out;
    for (uint32_t i = 0; i < HOP_COUNT(journals); i++) memset(journals[i].lines, 0, sizeof journals[i].lines);
}

static void run_it(struct bag *bag, struct module *m, uint32_t fn, const struct way *how,
                   struct tensor *const *args, struct outcome *out)
{
    run_begins(out);
    run_on(bag, m, fn, how, args, NULL, out);
    at_work = NULL;
}

struct case_of {
    struct bag *bag;
    struct module *m;
    uint32_t fn; /* as it is written */
    const struct context *outer, *inner;
    const struct leaf *leaf;
    const struct transform *how;
    double limit;
    struct lanes lanes;
    struct outcome alone[MOST_LANES]; /* of the program as written, lane by lane */
};

/* Lane by lane, or, of lanes of one number, all together. */
static void claim_stream(const struct case_of *c, const char *title, const struct outcome *found, char stream)
{
    struct arena *a = &c->bag->arena;
    bool by_lane = c->lanes.n > 1 && !strchr(c->how->steps, 's');
    const char *expected = "", *said = lines_of(a, found, stream, 0);
    uint64_t sum = 0;
    for (uint32_t l = 0; l < c->lanes.n; l++) {
        expected = lines_of(a, &c->alone[l], stream, 0);
        sum += lines_hash(expected);
        const char *of_lane = by_lane ? lines_of(a, found, stream, c->lanes.id[l]) : NULL;
        if (by_lane)
            CLAIM(same_lines(stream, of_lane, expected), "%s, lane %u: expected the lines\n%sfound\n%s",
                  title, l, expected, of_lane);
    }
    if (c->lanes.n == 1)
        CLAIM(same_lines(stream, said, expected), "%s: expected the lines\n%sfound\n%s", title, expected,
              said);
    else CLAIM(sum == lines_hash(said), "%s: the lines of all lanes are others:\n%s", title, said);
}

static const char *case_title(const struct case_of *c, const char *where)
{
    return arena_printf(&c->bag->arena, "%s, %s in %s, %s, below %g, %s", c->leaf->name, c->inner->name,
                        c->outer->name, c->how->name, c->limit, where);
}

static void claim_said(const struct case_of *c, const char *where, const struct outcome *found)
{
    bool ends = false;
    const char *title = case_title(c, where);
    for (uint32_t l = 0; l < c->lanes.n; l++) ends |= c->alone[l].status != HOP_OK;
    CLAIM((found->status != HOP_OK) == ends, "%s: expected that it %s, found %s", title,
          ends ? "fails" : "runs", found->status ? found->message : "a result");
    if ((found->status != HOP_OK) != ends || (ends && c->lanes.n > 1)) return;
    for (const char *stream = streams; *stream; stream++) claim_stream(c, title, found, *stream);
    if (ends)
        CLAIM(!strcmp(found->message, c->alone[0].message), "%s: expected '%s', found '%s'", title,
              c->alone[0].message, found->message);
}

/* What a read gives, and what is kept for a gradient, is seen in results alone. */
static void claim_results(const struct case_of *c, const char *where, const struct outcome *found,
                          const struct outcome *interpreted)
{
    struct bound near = { BOUND_TENSOR, 1e-9 };
    if (found->status || interpreted->status) return;
    for (uint32_t i = 0; i < found->n; i++) {
        const char *wrong = tensor_difference(&c->bag->arena, found->results[i], interpreted->results[i],
                                              near);
        CLAIM(!wrong, "%s, result %u: %s", case_title(c, where), i, wrong);
    }
}

static void run_as_written(const struct case_of *c, double state, double id, struct outcome *out)
{
    struct lanes one = { .n = 1, .state = { state }, .id = { id } };
    struct tensor *args[MOST_ARGS];
    fill_args(c->bag, c->m, module_fn(c->m, c->fn), &one, c->limit, args);
    run_it(c->bag, c->m, c->fn, &interpreter, args, out);
}

static void run_alone(struct case_of *c)
{
    uncounted = strchr(c->how->steps, 's');
    for (uint32_t l = 0; l < c->lanes.n; l++)
        run_as_written(c, c->lanes.state[l], c->lanes.id[l], &c->alone[l]);
}

/* The gradient is what differences say, so it has been given what the program read forward. */
static void claim_slope(const struct case_of *c, const struct outcome *found)
{
    const double step = 1e-5;
    struct outcome above, below;
    bool custom = strstr(c->outer->name, "custom") || strstr(c->inner->name, "custom");
    if (strcmp(c->how->steps, "g") != 0 || !c->leaf->smooth || custom || found->status) return;
    run_as_written(c, c->lanes.state[0] + step, c->lanes.id[0], &above);
    run_as_written(c, c->lanes.state[0] - step, c->lanes.id[0], &below);
    if (above.status || below.status) return;
    double slope = (tensor_get(above.results[0], 0) - tensor_get(below.results[0], 0)) / (2 * step);
    double given = tensor_get(found->results[0], 0);
    CLAIM(fabs(slope - given) <= 1e-5 * (1 + fabs(slope)), "%s: expected the slope %g, found %g",
          case_title(c, "interpreted"), slope, given);
}

/* ---- the walk ---- */

struct walk {
    uint32_t outer, inner;
    const struct leaf *leaf;
    uint32_t pair; /* from 1: of two loops; 0: of contexts */
};

static const double limits[] = { 1e9, 0.9, 0.5 }; /* at the second and third, checks fail sooner or later */
static bool everything;
static uint32_t seed;

static void run_ways(const struct case_of *c, uint32_t fn, struct tensor *const *args, uint32_t number)
{
    struct outcome interpreted, found;
    run_it(c->bag, c->m, fn, &interpreter, args, &interpreted);
    claim_said(c, "interpreted", &interpreted);
    claim_slope(c, &interpreted);
    struct way way = { .name = "after the passes", .simplify = true };
    for (uint32_t pass = 0; pass <= PASS_COUNT; pass++) {
        const char *name = pass < PASS_COUNT ? switch_names[pass] : "none";
        way.passes = (struct pass_options){ .without = pass < PASS_COUNT ? 1u << pass : 0, .strict = true };
        if (!everything && pass < PASS_COUNT && (number + pass) % 7) continue;
        run_it(c->bag, c->m, fn, &way, args, &found);
        name = arena_printf(&c->bag->arena, "after the passes without %s", name);
        claim_said(c, name, &found);
        claim_results(c, name, &found, &interpreted);
    }
    way = (struct way){ .backend = &executor_backend, .passes = { .strict = true } };
    run_it(c->bag, c->m, fn, &way, args, &found);
    claim_said(c, "executor", &found);
    claim_results(c, "executor", &found, &interpreted);
    if (!exe_available() || (!everything && number % 5)) return;
    way.backend = &llvm_backend;
    run_it(c->bag, c->m, fn, &way, args, &found);
    claim_said(c, "native code", &found);
    claim_results(c, "native code", &found, &interpreted);
}

/* What a loop stacks whose trips only it knows leaves neither a call nor a branch: a gradient would run it
 * again. */
static bool is_refused(const struct walk *w)
{
    if (w->leaf == &leaves[PLAIN] || !strstr(hop_message(), "its effects would happen twice")) return false;
    return strstr(contexts[w->inner].before, "while_loop") || strstr(contexts[w->inner].before, "fori_loop");
}

struct to_transform {
    struct module *m;
    uint32_t fn;
    const char *steps;
};

static void try_transform(void *ctx)
{
    struct to_transform *t = ctx;
    t->fn = transformed(t->m, t->fn, t->steps);
}

static void walk_program(struct bag *bag, const struct walk *w)
{
    uint32_t outer = w->outer, inner = w->inner;
    struct case_of c = { .bag = bag, .outer = &contexts[outer], .inner = &contexts[inner], .leaf = w->leaf };
    char *text = program_text(&bag->arena, c.outer, c.inner, w->leaf);
    c.m = text_read("program", text, strlen(text));
    hop_cleanup_push(module_free, c.m);
    c.fn = module_find(c.m, "main");
    bool nested = w->pair || (*c.outer->before && *c.inner->before);
    for (uint32_t t = 0; t < N_TRANSFORMS; t++) {
        uint32_t number = outer + 3 * inner + 5 * t + seed + w->pair;
        if (!everything && nested && number % 4) continue;
        c.how = &transforms[t];
        struct to_transform made = { c.m, c.fn, c.how->steps };
        hop_status status = attempt(try_transform, &made);
        CLAIM(!status || is_refused(w), "%s: %s", case_title(&c, "transforming"), hop_message());
        if (status) continue;
        c.lanes = lanes_of(c.how->steps);
        for (uint32_t k = 0; k < HOP_COUNT(limits); k++) {
            struct tensor *args[MOST_ARGS];
            if (!everything && nested && (number + k) % 3) continue;
            c.limit = limits[k];
            run_alone(&c);
            fill_args(bag, c.m, module_fn(c.m, made.fn), &c.lanes, c.limit, args);
            run_ways(&c, made.fn, args, number + 2 * k);
        }
    }
    hop_cleanup_pop(c.m);
    module_free(c.m);
}

/* ---- two loops beside each other, which may become one ---- */

struct piece {
    const char *name, *text; /* from %e, and %y that has no gradient, to %f */
};
static const struct piece pieces[] = {
    { "nothing", "%f = sin(%e)\n" },
    { "print", "print {format = \"p({}, {})\"} (%id, %e)\n%f = sin(%e)\n" },
    { "callback", "callback {name = \"c\"} (%id, %e)\n%f = sin(%e)\n" },
    { "check", "%k = lt(%e, %lim)\ncheck {message = \"high\"} (%k, %e)\n%f = mul(%e, %grows)\n" },
    { "note", "%v = note(%id, %y)\n%f = mul(%e, %v)\n" },
    { "tell", "%v = tell(%id, %y)\n%f = mul(%e, %v)\n" },
    { "write one", "%v = write(%p, %id, %y)\n%f = mul(%e, %v)\n" },
    { "write the other", "%v = write(%q, %id, %y)\n%f = mul(%e, %v)\n" },
    { "write the chosen", "%v = write(%o, %id, %y)\n%f = mul(%e, %v)\n" },
    { "read one", "%v = lines(%p, %id)\n%f = mul(%e, %v)\n" },
    { "read the other", "%v = lines(%q, %id)\n%f = mul(%e, %v)\n" },
    { "read the chosen", "%v = lines(%o, %id)\n%f = mul(%e, %v)\n" },
};
enum { N_PIECES = HOP_COUNT(pieces) };

static void add_part(struct text *t, const char *how, const struct piece *piece, const char *end)
{
    text_str(t, how);
    text_str(t, "%id = %id, %lim = %lim, %p = %p, %q = %q, %o = %o) {\n%y = stop_gradient(%e)\n"
                "%grows = full {value = 1.2, dims = [], dtype = f64}\n");
    text_str(t, piece->text);
    text_str(t, end);
}

/* The second goes over what the first stacks. Between them is a call, of what the first gives or of what was
 * there before. */
static void walk_loops(void *ctx)
{
    struct walk w = { .pair = *(const uint32_t *)ctx + 1 };
    struct random r = { w.pair + (uint64_t)seed * N_PIECES * N_PIECES };
    uint64_t drawn = random_next(&r);
    const struct piece *first = &pieces[(w.pair - 1) / N_PIECES], *second = &pieces[(w.pair - 1) % N_PIECES];
    const struct piece *between = &pieces[drawn % (2 * N_PIECES) < N_PIECES ? drawn % N_PIECES : 0];
    struct bag bag = { 0 };
    hop_cleanup_push(bag_free, &bag);
    struct text t = { .arena = &bag.arena };
    const char *call = drawn >> 32 & 1 ? "%mid = invoke_subgraph with(%e = %one, "
                                       : "%mid = invoke_subgraph with(%e = <, ";
    add_part(&t, "%one, %rows = scan {length = 3} carry(%e = <) over() with(", first,
             "next(%f) stack(%f)\n}\n");
    add_part(&t, call, between, "yield(%f)\n}\n");
    add_part(&t, "%two = scan carry(%e = <) over(%row in %rows) with(", second,
             "%h = cos(%row)\n%g = mul(%f, %h)\nnext(%g)\n}\n");
    text_str(&t, "%sum = add(%one, %two)\n%r = add(%sum, %mid)\n");
    struct leaf loops = { .name = arena_printf(&bag.arena, "loops: %s, between %s, then %s", first->name,
                                               between->name, second->name),
                          .text = t.data,
                          .objects = true,
                          .chosen_outside = true,
                          .smooth = !strstr(t.data, "note(") && !strstr(t.data, "tell(") };
    w.leaf = &loops;
    walk_program(&bag, &w);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
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
                                 .leaf = &leaves[(i + i / N_LEAVES + round) % N_LEAVES],
                                 .how = &transforms[(i + round * 4) % N_TRANSFORMS] };
        char *text = program_text(&bag.arena, e->c.outer, e->c.inner, e->c.leaf);
        e->c.m = text_read("program", text, strlen(text));
        e->c.fn = module_find(e->c.m, "main");
        struct to_transform made = { e->c.m, e->c.fn, e->c.how->steps };
        if (attempt(try_transform, &made) != HOP_OK) e->c.how = &transforms[0]; /* the walk says why */
        e->fn = made.fn;
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
        run_begins(&found);
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

static void walk_pair(const struct walk *w)
{
    struct walk walk = *w;
    hop_status status = attempt(guarded_program, &walk);
    CLAIM(status == HOP_OK, "%s, %s in %s: %s", w->leaf->name, contexts[w->inner].name,
          contexts[w->outer].name, hop_message());
}

#ifdef __SANITIZE_ADDRESS__
enum { ONE_PAIR_IN = 20 }; /* what is slow there is made less often */
#else
enum { ONE_PAIR_IN = 2 };
#endif

/* One leaf is drawn for each pair; where nothing stands around all are taken, but one of those with objects.
 */
static bool is_left_out(const struct walk *w, uint32_t leaf)
{
    struct random r = { ((uint64_t)seed * N_CONTEXTS + w->outer) * N_CONTEXTS + w->inner };
    uint64_t drawn = random_next(&r);
    if (everything) return false;
    if (w->outer && (drawn >> 32) % ONE_PAIR_IN) return true;
    return w->outer ? drawn % N_LEAVES != leaf : leaf == (drawn % 2 ? WITH_OBJECTS : WITH_CHOSEN);
}

int main(int argc, char **argv)
{
    const char *outer = NULL, *inner = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--all")) everything = true;
        else if (!strcmp(argv[i], "--seed") && i + 1 < argc) seed = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!outer) outer = argv[i];
        else inner = argv[i];
    }
    printf("seed %u\n", seed);
    register_operators();
    for (uint32_t i = 0; i < N_CONTEXTS * N_CONTEXTS * N_LEAVES; i++) {
        struct walk w = { i / N_LEAVES / N_CONTEXTS, i / N_LEAVES % N_CONTEXTS, &leaves[i % N_LEAVES] };
        bool named = outer && !strcmp(outer, contexts[w.outer].name) && inner &&
                     !strcmp(inner, contexts[w.inner].name);
        if (outer ? named : !is_left_out(&w, i % N_LEAVES)) walk_pair(&w);
    }
    for (uint32_t pair = 0; (!outer || !strcmp(outer, "loops")) && pair < N_PIECES * N_PIECES;
         pair += ONE_PAIR_IN) {
        hop_status status = attempt(walk_loops, &pair);
        CLAIM(status == HOP_OK, "two loops: %s", hop_message());
    }
    for (uint32_t round = 0; !outer && round < (everything ? N_TRANSFORMS : 2); round++) {
        hop_status status = attempt(walk_emitted, &round);
        CLAIM(status == HOP_OK, "emitted C: %s", hop_message());
    }
    return tests_end();
}
