/* Objects: what is handed on by each back end is what was given; counts of references; kinds; what refuses
 * them; transforms; emitted C; allocations that fail. */
#include "check.h"
#include "ways.h"

#include "base/base.h"

static const char text[] = "hop 1\n"
                           "fn @main(%a: object \"tok\", %b: object \"tok\", %i: i64[]) -> (object \"tok\", "
                           "object \"tok\", i64[]) {\n"
                           "  %c = switch(%i) [(%p = %a) { yield(%p) }, (%q = %b) { yield(%q) }]\n"
                           "  %zero = full {value = 0, dims = [], dtype = i64}\n"
                           "  %o, %l, %n = fori_loop carry(%o = %a, %l = %c, %n = %zero) from(%k = %zero) "
                           "to(%i) {\n"
                           "    %m = add(%n, %k)\n"
                           "    next(%l, %o, %m)\n"
                           "  }\n"
                           "  return %o, %l, %n\n"
                           "}\n";

/* ---- something of the host's ---- */

struct thing {
    int refs;
};
static void retain(void *thing) { ((struct thing *)thing)->refs++; }
static void release(void *thing) { ((struct thing *)thing)->refs--; }

static hop_tensor *object_of(struct thing *thing, const char *kind)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_object_new(&t, kind, thing, retain, release), "%s", hop_message());
    return t;
}

static hop_tensor *number(int64_t n)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, "i64[]"), "%s", hop_message());
    *(int64_t *)hop_data(t) = n;
    return t;
}

static hop_fn *read_text(const char *program)
{
    hop_fn *f = NULL;
    CLAIM(!hop_fn_read(&f, program, "main"), "%s", hop_message());
    return f;
}

static void refused(hop_status status, const char *expected)
{
    CLAIM(status && strstr(hop_message(), expected), "expected a failure with '%s', found %d: %s", expected,
          status, status ? hop_message() : "");
}

/* ---- runs, each way ---- */

static void are_handed_on(void)
{
    struct thing a = { 0 }, b = { 0 };
    hop_fn *f = read_text(text);
    for (enum way way = 0; way < WAYS; way++)
        for (int64_t i = 0; i < 4; i++) {
            hop_tensor *in[3] = { object_of(&a, "tok"), object_of(&b, "tok"), number(i) }, *out[3] = { 0 };
            hop_status status = run_way(way, f, in, 3, out, 3);
            CLAIM(!status, "way %d: %s", way, hop_message());
            /* c is a where i is 0, else b; o and l are exchanged i times */
            const void *c = i ? &b : &a, *expected[2] = { i % 2 ? c : &a, i % 2 ? (void *)&a : c };
            for (int k = 0; k < 2; k++)
                CLAIM(hop_object_pointer(out[k], "tok") == expected[k], "way %d, i = %d: result %d", way,
                      (int)i, k);
            for (int k = 0; k < 3; k++) hop_tensor_free(in[k]);
            CLAIM(a.refs + b.refs == (i ? 2 : 1), "results hold what they are: %d, %d", a.refs, b.refs);
            for (int k = 0; k < 3; k++) hop_tensor_free(out[k]);
            CLAIM(!a.refs && !b.refs, "way %d: %d and %d references are left", way, a.refs, b.refs);
        }
    hop_fn_free(f);
}

/* One pointer under two kinds; results are the argument of their kind. */
static void have_kinds(void)
{
    struct thing thing = { 0 };
    hop_fn *f = read_text(
        "fn @main(%a: object \"one\", %b: object \"two\") -> (object \"two\", object \"one\") {\n"
        "  return %b, %a\n"
        "}\n");
    for (enum way way = 0; way < WAYS; way++) {
        hop_tensor *in[2] = { object_of(&thing, "one"), object_of(&thing, "two") }, *out[2] = { 0 };
        CLAIM(!run_way(way, f, in, 2, out, 2), "%s", hop_message());
        CLAIM(!strcmp(hop_object_kind(out[0]), "two") && !strcmp(hop_object_kind(out[1]), "one"),
              "kinds of results: %s, %s", hop_object_kind(out[0]), hop_object_kind(out[1]));
        hop_tensor *wrong[2] = { in[1], in[0] }, *none[2] = { 0 }, *numbers[2] = { number(3), in[1] };
        refused(run_way(way, f, wrong, 2, none, 2),
                "argument %a: expected object \"one\", found object \"two\"");
        refused(run_way(way, f, numbers, 2, none, 2), "argument %a: expected object \"one\", found i64[]");
        hop_tensor *given[2] = { in[1], NULL };
        refused(run_way(way, f, in, 2, given, 2), "result 0: an object is given back as itself");
        hop_tensor *array[2] = { numbers[0], NULL };
        refused(run_way(way, f, in, 2, array, 2), "result 0");
        hop_tensor_free(numbers[0]);
        for (int k = 0; k < 2; k++) {
            hop_tensor_free(in[k]);
            hop_tensor_free(out[k]);
        }
    }
    CLAIM(!thing.refs, "%d references are left", thing.refs);
    hop_fn_free(f);
}

/* A compiled program sees each run's kinds, not those of the run before. */
static void are_checked_each_time(void)
{
    struct thing thing = { 0 };
    hop_fn *f = read_text("fn @main(%a: object \"one\") -> (object \"one\") { return %a }\n");
    hop_exe *exe = NULL;
    CLAIM(!hop_compile(&exe, f, NULL), "%s", hop_message());
    hop_tensor *one = object_of(&thing, "one"), *two = object_of(&thing, "two"), *out = NULL;
    CLAIM(!hop_run(exe, &one, 1, &out, 1) && out == one, "%s", hop_message());
    hop_tensor_free(out);
    out = NULL;
    refused(hop_run(exe, &two, 1, &out, 1), "expected object \"one\", found object \"two\"");
    refused(hop_compile(&exe, f, &(hop_compile_options){ .donate = "a" }),
            "donate: the parameter 'a' is an object");
    hop_exe_free(exe);
    CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .constant = "a" }), "%s", hop_message());
    CLAIM(!hop_run(exe, &one, 1, &out, 1) && out == one, "%s", hop_message());
    hop_exe_free(exe);
    hop_tensor_free(out);
    hop_tensor_free(one);
    hop_tensor_free(two);
    hop_fn_free(f);
    CLAIM(!thing.refs, "%d references are left", thing.refs);
}

/* ---- what is no array ---- */

static void are_no_arrays(void)
{
    struct thing thing = { 0 };
    hop_tensor *t = object_of(&thing, "tok"), *other = NULL, *array = number(3);
    CLAIM(!strcmp(hop_tensor_dtype(t), "object") && hop_tensor_rank(t) == 0, "%s", hop_tensor_dtype(t));
    CLAIM(!hop_data(t) && !hop_data_const(t), "an object has no elements");
    refused(hop_tensor_copy(&other, t), "expected an array, found object \"tok\"");
    refused(hop_tensor_view(&other, t, "0"), "expected an array, found object \"tok\"");
    refused(hop_tensor_reshape(&other, t, NULL, NULL, 0), "expected an array, found object \"tok\"");
    refused(hop_tensor_fill(array, t), "expected an array, found object \"tok\"");
    refused(hop_tensor_fill(t, array), "expected an array, found object \"tok\"");
    refused(hop_save(t, "object.npy"), "dtype object");
    CLAIM(!hop_tensor_text(t), "an object has no text");
    CLAIM(!hop_object_pointer(t, "other") &&
              strstr(hop_message(), "expected object \"other\", found object \"tok\""),
          "%s", hop_message());
    CLAIM(!hop_object_pointer(array, "tok") && strstr(hop_message(), "found an array"), "%s", hop_message());
    CLAIM(!hop_object_kind(array), "an array has no kind");
    refused(hop_object_new(&other, "", &thing, retain, release), "a kind of 1 to 100 characters");
    refused(hop_object_new(&other, "a\"b", &thing, retain, release), "a kind of 1 to 100 characters");
    refused(hop_object_new(&other, NULL, &thing, retain, release), "a kind of 1 to 100 characters");
    refused(hop_object_new(&other, "tok", NULL, retain, release), "expected a pointer, found NULL");
    CLAIM(thing.refs == 1, "a failed call keeps nothing: %d", thing.refs);
    hop_tensor_free(t);
    hop_tensor_free(array);
    CLAIM(!thing.refs, "%d references are left", thing.refs);
}

/* ---- captured ---- */

static int choose(void *env, const hop_val *in, hop_val *out)
{
    HOP_UNUSED(env);
    out[0] = in[0];
    return 0;
}
static int other(void *env, const hop_val *in, hop_val *out)
{
    HOP_UNUSED(env);
    out[0] = in[1];
    return 0;
}
static int choice(void *env, const hop_val *in, hop_val *out)
{
    HOP_UNUSED(env);
    return hop_cond(out, 1,
                    &(hop_cond_spec){
                        .pred = in[0], .then = choose, .otherwise = other, .in = in + 1, .n_in = 2 });
}
static int added(void *env, const hop_val *in, hop_val *out)
{
    HOP_UNUSED(env);
    out[0] = hop_add(in[0], hop_scalar(1));
    return 0;
}
static int kept(void *env, const hop_val *in, hop_val *out)
{
    HOP_UNUSED(in);
    out[0] = hop_from_tensor(env);
    return 0;
}

static void are_captured(void)
{
    struct thing a = { 0 }, b = { 0 };
    hop_fn *f = NULL, *none = NULL;
    hop_tensor *in[3] = { NULL, object_of(&a, "t k"), object_of(&b, "t k") }, *out = NULL;
    CLAIM(!hop_tensor_new(&in[0], "bool[]"), "%s", hop_message());
    CLAIM(!hop_capture(&f, "main(p: bool[], a: object \"t k\", b: object \"t k\")", 1, choice, NULL), "%s",
          hop_message());
    for (int p = 0; p < 2; p++) {
        *(uint8_t *)hop_data(in[0]) = (uint8_t)p;
        CLAIM(!hop_interpret(f, in, 3, &out, 1) && out == in[p ? 1 : 2], "%s", hop_message());
        hop_tensor_free(out);
        out = NULL;
    }
    refused(hop_capture(&none, "main(a: object \"t\")", 1, added, NULL), "object \"t\"");
    refused(hop_capture(&none, "main(x: f32[])", 1, kept, in[1]), "object \"t k\" cannot be a constant");
    refused(hop_capture(&none, "main(a: object t)", 1, added, NULL), "the kind of the object, in quotes");
    refused(hop_capture(&none, "main(a: object \"t)", 1, added, NULL), "a kind");
    refused(hop_capture(&none, "main(a: mut object \"t\")", 1, added, NULL), "an object is not `mut`");
    for (int k = 0; k < 3; k++) hop_tensor_free(in[k]);
    hop_fn_free(f);
    CLAIM(!a.refs && !b.refs, "%d and %d references are left", a.refs, b.refs);
}

/* ---- transforms ---- */

static void are_one_for_all_lanes(void)
{
    hop_fn *f = read_text(text), *batched = NULL;
    refused(hop_vmap(&batched, f, "a", NULL),
            "vmap: parameter 0 (%a) is object \"tok\": an object is one for all lanes");
    refused(hop_vmap(&batched, f, NULL, NULL),
            "switch: batched, its index differs from lane to lane, and result 0 is object \"tok\"");
    hop_fn_free(f);
    f = read_text("fn @main(%a: object \"tok\", %x: f64[]) -> (object \"tok\", f64[]) {\n"
                  "  %s = sin(%x)\n"
                  "  return %a, %s\n"
                  "}\n");
    CLAIM(!hop_vmap(&batched, f, NULL, NULL), "%s", hop_message());
    struct thing thing = { 0 };
    for (enum way way = 0; way < WAYS; way++) {
        hop_tensor *in[2] = { object_of(&thing, "tok"), NULL }, *out[2] = { 0 };
        CLAIM(!hop_tensor_new(&in[1], "f64[3]"), "%s", hop_message());
        CLAIM(!run_way(way, batched, in, 2, out, 2) && out[0] == in[0] && hop_tensor_dim(out[1], 0) == 3,
              "%s", hop_message());
        for (int k = 0; k < 2; k++) {
            hop_tensor_free(in[k]);
            hop_tensor_free(out[k]);
        }
    }
    CLAIM(!thing.refs, "%d references are left", thing.refs);
    hop_fn_free(batched);
    hop_fn_free(f);
}

/* ---- operators that take objects ---- */

/* Two logs that operators write into, and what they wrote. */
struct journal {
    char text[4096];
    size_t length;
    int lines;
    char name;
};

static void clear_journal(struct journal *j) { *j = (struct journal){ .name = j->name }; }

/* note(t, x): a line, and how many there are now times x */
static int note(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    struct journal *j = arrays[0];
    double x = *(const double *)arrays[1];
    HOP_UNUSED(sizes);
    if (call->arrays[0].dtype != HOP_OBJECT || call->arrays[0].rank || call->arrays[0].data != arrays[0])
        return 1;
    j->length += (size_t)snprintf(j->text + j->length, sizeof j->text - j->length, "%.3g;", x);
    *(double *)arrays[2] = ++j->lines * x;
    return 0;
}

/* lines(t): how many there are */
static int lines(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    HOP_UNUSED(call);
    HOP_UNUSED(sizes);
    *(double *)arrays[1] = ((const struct journal *)arrays[0])->lines;
    return 0;
}

/* note_slope(t, ct): a line about a gradient; the cotangent as it is */
static int note_slope(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    struct journal *j = arrays[0];
    HOP_UNUSED(call);
    HOP_UNUSED(sizes);
    double ct = *(const double *)arrays[1];
    j->length += (size_t)snprintf(j->text + j->length, sizeof j->text - j->length, "d%.3g;", ct);
    *(double *)arrays[2] = ct;
    return 0;
}

static void register_operators(void)
{
    static const hop_operator_spec specs[] = {
        { .signature = "note(t: object \"journal\", x: f64[]) -> f64[]", .run = note },
        { .signature = "lines(reads t: object \"journal\") -> f64[]", .run = lines },
        { .signature = "note_slope(t: object \"journal\", ct: f64[]) -> f64[]", .run = note_slope },
    };
    for (size_t i = 0; i < HOP_COUNT(specs); i++)
        CLAIM(!hop_operator_register(&specs[i]), "%s", hop_message());
}

static void unregister_operators(void)
{
    CLAIM(!hop_operator_unregister("note"), "%s", hop_message());
    CLAIM(!hop_operator_unregister("lines"), "%s", hop_message());
    CLAIM(!hop_operator_unregister("note_slope"), "%s", hop_message());
}

#define DECLARED \
    "hop 1\n" \
    "operator @note(t: object \"journal\", x: f64[]) -> f64[]\n" \
    "operator @lines(reads t: object \"journal\") -> f64[]\n" \
    "operator @note_slope(t: object \"journal\", ct: f64[]) -> f64[]\n"
#define MAIN "fn @main(%a: object \"journal\", %b: object \"journal\", %p: bool[], %x: f64[])"

static const struct {
    const char *name, *text;
} programs[] = {
    { "chosen, then both written",
      DECLARED MAIN " -> (f64[], f64[], f64[]) {\n"
                    "  %c = switch(%p) [(%a) { yield(%a) }, (%b) { yield(%b) }]\n"
                    "  %0 = lines(%a)\n"
                    "  %1 = note(%c, %x)\n"
                    "  %2 = note(%a, %1)\n"
                    "  %3 = note(%b, %2)\n"
                    "  %4 = note(%c, %3)\n"
                    "  %5 = lines(%a)\n"
                    "  %6 = lines(%b)\n"
                    "  %7 = sub(%5, %0)\n"
                    "  return %4, %6, %7\n}\n" },
    { "chosen and handed to a body with the others", DECLARED MAIN
      " -> (f64[], f64[]) {\n"
      "  %c = switch(%p) [(%a) { yield(%a) }, (%b) { yield(%b) }]\n"
      "  %zero = full {value = 0, dims = [], dtype = i64}\n"
      "  %n = full {value = 3, dims = [], dtype = i64}\n"
      "  %y, %s = fori_loop carry(%y = %x, %s = %x) from(%i = %zero) to(%n) with(%c, %a, %b) {\n"
      "    %before = lines(%a)\n"
      "    %1 = note(%c, %y)\n"
      "    %after = lines(%a)\n"
      "    %2 = note(%b, %after)\n"
      "    %d = sub(%after, %before)\n"
      "    %t = add(%s, %d)\n"
      "    next(%2, %t)\n  }\n"
      "  return %y, %s\n}\n" },
    { "one object as two parameters of a call", DECLARED
      "fn @twice(%t: object \"journal\", %u: object \"journal\", %x: f64[]) -> (f64[]) {\n"
      "  %0 = lines(%t)\n  %1 = note(%u, %x)\n  %2 = lines(%t)\n  %3 = sub(%2, %0)\n  return %3\n}\n" MAIN
      " -> (f64[], f64[]) {\n"
      "  %1 = invoke_subgraph @twice(%a, %a, %x)\n"
      "  %2 = invoke_subgraph @twice(%a, %b, %x)\n"
      "  return %1, %2\n}\n" },
    { "carries that change places",
      DECLARED MAIN " -> (object \"journal\", f64[]) {\n"
                    "  %zero = full {value = 0, dims = [], dtype = i64}\n"
                    "  %n = full {value = 5, dims = [], dtype = i64}\n"
                    "  %o, %l, %y = fori_loop carry(%o = %a, %l = %b, %y = %x) from(%i = %zero) to(%n) {\n"
                    "    %1 = note(%o, %y)\n    %2 = lines(%l)\n    %3 = note(%l, %2)\n    %4 = add(%1, %3)\n"
                    "    next(%l, %o, %4)\n  }\n"
                    "  return %o, %y\n}\n" },
    { "results that nobody reads, reads that are equal", DECLARED MAIN
      " -> (f64[], f64[]) {\n"
      "  %1 = note(%a, %x)\n  %2 = lines(%b)\n  %3 = note(%a, %x)\n  %4 = lines(%b)\n  %5 = lines(%a)\n"
      "  %6 = add(%2, %4)\n  return %6, %5\n}\n" },
    { "a branch that writes",
      DECLARED MAIN " -> (f64[], f64[]) {\n"
                    "  %y = switch(%p) [(%a, %x) {\n    %1 = note(%a, %x)\n    yield(%1)\n  }, (%b, %x) {\n"
                    "    %1 = note(%b, %x)\n    %2 = note(%b, %1)\n    yield(%2)\n  }]\n"
                    "  %n = lines(%b)\n  return %y, %n\n}\n" },
    { "a loop until a log is long",
      DECLARED MAIN " -> (f64[], f64[]) {\n"
                    "  %five = full {value = 5, dims = [], dtype = f64}\n"
                    "  %first = lines(%a)\n"
                    "  %y, %n = while_loop {max_trips = 20} carry(%y = %x, %n = %first) cond with(%five) {\n"
                    "    %t = lt(%n, %five)\n    test(%t)\n  } body with(%a, %b) {\n"
                    "    %1 = note(%a, %y)\n    %2 = note(%b, %1)\n    %3 = sin(%2)\n    %4 = lines(%a)\n    "
                    "next(%3, %4)\n  }\n"
                    "  %l = lines(%b)\n  return %y, %l\n}\n" },
    { "with a gradient that writes", DECLARED
      "fn @back(%t: object \"journal\", %x: f64[], %ct: f64[]) -> (f64[]) {\n"
      "  %0 = note_slope(%t, %ct)\n  %1 = mul(%0, %x)\n  %2 = add(%1, %1)\n  return %2\n}\n"
      "fn @square(%t: object \"journal\", %x: f64[]) -> (f64[]) {\n"
      "  %y = custom {backward = @back} with(%t, %x) {\n    %0 = note(%t, %x)\n    %z = mul(%x, %x)\n"
      "    yield(%z)\n  }\n  return %y\n}\n" MAIN " -> (f64[]) {\n"
      "  %xs = full {value = 0.5, dims = [3], dtype = f64}\n"
      "  %y = scan carry(%s = %x) over(%e in %xs) with(%a, %b, %p) {\n"
      "    %c = switch(%p) [(%a) { yield(%a) }, (%b) { yield(%b) }]\n"
      "    %q = invoke_subgraph @square(%c, %s)\n    %r = invoke_subgraph @square(%a, %q)\n"
      "    %w = add(%r, %e)\n    next(%w)\n  }\n"
      "  return %y\n}\n" },
};

enum { MOST_RESULTS = 4 };
struct told { /* what a run came to */
    hop_status status;
    char message[512], logs[2][4096];
    double numbers[MOST_RESULTS][4];
    char objects[MOST_RESULTS];
};

static void run_told(enum way way, const char *without, hop_fn *f, int lanes, int n_out, struct told *out)
{
    static struct journal journals[2] = { { .name = 'a' }, { .name = 'b' } };
    *out = (struct told){ .status = HOP_OK };
    for (int p = 0; p < 2 && !out->status; p++) {
        hop_tensor *in[5] = { NULL }, *results[MOST_RESULTS] = { NULL };
        for (int k = 0; k < 2; k++) {
            clear_journal(&journals[k]);
            hop_object_new(&in[k], "journal", &journals[k], NULL, NULL);
        }
        hop_tensor_new(&in[2], "bool[]");
        hop_tensor_new(&in[3], lanes ? "f64[3]" : "f64[]");
        *(uint8_t *)hop_data(in[2]) = (uint8_t)p;
        for (int64_t k = 0; k < hop_tensor_count(in[3]); k++)
            ((double *)hop_data(in[3]))[k] = 0.5 + 0.25 * (double)k;
        hop_exe *exe = NULL;
        if (way == INTERPRETED) out->status = hop_interpret(f, in, 4, results, n_out);
        else {
            hop_compile_options options = { .portable = way == LOOPS, .strict = 1, .without = without };
            out->status = hop_compile(&exe, f, &options);
            if (!out->status) out->status = hop_run(exe, in, 4, results, n_out);
        }
        hop_exe_free(exe);
        if (out->status) snprintf(out->message, sizeof out->message, "%s", hop_message());
        for (int k = 0; k < n_out && !out->status; k++) {
            const struct journal *given = hop_object_kind(results[k])
                                              ? hop_object_pointer(results[k], "journal")
                                              : NULL;
            if (given) out->objects[k] = given->name;
            else
                memcpy(out->numbers[k], hop_data(results[k]),
                       sizeof(double) * (size_t)hop_tensor_count(results[k]));
        }
        for (int k = 0; k < 2; k++) {
            size_t n = strlen(out->logs[k]);
            snprintf(out->logs[k] + n, sizeof out->logs[k] - n, "%s|", journals[k].text);
        }
        for (int k = 0; k < 4; k++) hop_tensor_free(in[k]);
        for (int k = 0; k < n_out; k++) hop_tensor_free(results[k]);
    }
}

static const char *const passes[] = { NULL,    "inline", "fold",       "forward", "ranges",
                                      "trips", "cse",    "masks",      "dce",     "unroll",
                                      "pack",  "split",  "accumulate", "hoist",   "join" };

static void same_each_way(const char *name, const char *as, hop_fn *f, int lanes)
{
    struct told want, found;
    int n_out = hop_fn_results(f);
    run_told(INTERPRETED, NULL, f, lanes, n_out, &want);
    CLAIM(!want.status, "%s, %s: %s", name, as, want.message);
    CLAIM(strlen(want.logs[0]) + strlen(want.logs[1]) > 6, "%s, %s: nothing was written", name, as);
    for (enum way way = LOOPS; way <= NATIVE; way++)
        for (size_t p = 0; p < HOP_COUNT(passes); p++) {
            run_told(way, passes[p], f, lanes, n_out, &found);
            CLAIM(!found.status, "%s, %s, way %d without %s: %s", name, as, way,
                  passes[p] ? passes[p] : "nothing", found.message);
            CLAIM(!strcmp(found.logs[0], want.logs[0]) && !strcmp(found.logs[1], want.logs[1]),
                  "%s, %s, way %d without %s: expected the logs\n  %s\n  %s\nfound\n  %s\n  %s", name, as,
                  way, passes[p] ? passes[p] : "nothing", want.logs[0], want.logs[1], found.logs[0],
                  found.logs[1]);
            CLAIM(!memcmp(found.numbers, want.numbers, sizeof want.numbers) &&
                      !memcmp(found.objects, want.objects, sizeof want.objects),
                  "%s, %s, way %d without %s: other results", name, as, way,
                  passes[p] ? passes[p] : "nothing");
        }
}

/* Programs take their parameters for different objects. */
static void are_given_once(void)
{
    struct journal journal = { .name = 'a' };
    hop_fn *f = read_text(programs[0].text);
    for (enum way way = 0; way < WAYS; way++) {
        hop_tensor *in[4] = { NULL }, *out[3] = { NULL };
        hop_object_new(&in[0], "journal", &journal, NULL, NULL);
        hop_object_new(&in[1], "journal", &journal, NULL, NULL);
        hop_tensor_new(&in[2], "bool[]");
        hop_tensor_new(&in[3], "f64[]");
        refused(run_way(way, f, in, 4, out, 3),
                "argument %a and argument %b are one object, which the program writes: it can be given once");
        CLAIM(!journal.lines, "nothing was written: %d", journal.lines);
        for (int k = 0; k < 4; k++) hop_tensor_free(in[k]);
    }
    hop_fn_free(f);
}

static void accesses_keep_their_order(void)
{
    register_operators();
    are_given_once();
    for (size_t i = 0; i < HOP_COUNT(programs); i++) {
        hop_fn *f = read_text(programs[i].text), *made = NULL;
        if (!f) continue;
        same_each_way(programs[i].name, "itself", f, 0);
        hop_status status = hop_vmap(&made, f, "x", NULL);
        bool refused_lanes = status && strstr(hop_message(), "objects");
        CLAIM(!status || refused_lanes, "%s, over lanes: %s", programs[i].name, hop_message());
        if (!status) same_each_way(programs[i].name, "over lanes", made, 1);
        hop_fn_free(made);
        made = NULL;
        if (i == HOP_COUNT(programs) - 1) {
            CLAIM(!hop_grad(&made, f, "x"), "%s", hop_message());
            same_each_way(programs[i].name, "its gradient", made, 0);
            hop_fn *lanes = NULL;
            CLAIM(!hop_vmap(&lanes, made, "x", NULL), "%s", hop_message());
            same_each_way(programs[i].name, "its gradient over lanes", lanes, 1);
            hop_fn_free(lanes);
            hop_fn_free(made);
        }
        hop_fn_free(f);
    }
    unregister_operators();
}

/* ---- allocations that fail ---- */

static void nothing_leaks(void)
{
    struct thing a = { 0 }, b = { 0 };
    bool done = false;
    for (uint64_t at = 1; at < 100000 && !done; at += 1 + at / 40) {
        hop_tensor *in[3] = { object_of(&a, "tok"), object_of(&b, "tok"), number(3) }, *out[3] = { 0 };
        hop_fn *f = read_text(text);
        hop_fail_allocation(at);
        hop_tensor *more = NULL;
        hop_status made = hop_object_new(&more, "tok", &a, retain, release);
        hop_status status = run_way(at % 2 ? LOOPS : INTERPRETED, f, in, 3, out, 3);
        hop_fail_allocation(0);
        done = !made && !status;
        CLAIM(!made || made == HOP_NOMEM, "%s", hop_message());
        CLAIM(!status || status == HOP_NOMEM, "%s", hop_message());
        for (int k = 0; k < 3; k++) {
            hop_tensor_free(in[k]);
            hop_tensor_free(out[k]);
        }
        hop_tensor_free(more);
        hop_fn_free(f);
        CLAIM(!a.refs && !b.refs, "allocation %d: %d and %d references are left", (int)at, a.refs, b.refs);
    }
    CLAIM(done, "no run without a failing allocation");
}

int main(void)
{
    are_handed_on();
    have_kinds();
    are_checked_each_time();
    are_no_arrays();
    are_captured();
    are_one_for_all_lanes();
    nothing_leaks();
    accesses_keep_their_order();
    return tests_end();
}
