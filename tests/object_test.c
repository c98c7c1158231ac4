/* Objects: what is handed on by each back end is what was given; counts of references; kinds; what refuses
 * them; transforms; emitted C; allocations that fail. */
#include "check.h"

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

enum way { INTERPRETED, LOOPS, NATIVE, STRICT, WAYS };

static hop_status run_way(enum way way, hop_fn *f, hop_tensor *const *in, int n_in, hop_tensor **out,
                          int n_out)
{
    hop_exe *exe = NULL;
    if (way == INTERPRETED) return hop_interpret(f, in, n_in, out, n_out);
    hop_compile_options options = { .portable = way == LOOPS, .strict = way == STRICT };
    hop_status status = hop_compile(&exe, f, &options);
    if (!status) status = hop_run(exe, in, n_in, out, n_out);
    hop_exe_free(exe);
    return status;
}

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
    return tests_end();
}
