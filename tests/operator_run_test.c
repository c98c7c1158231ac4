/* Runs of operators from outside that go wrong, or nearly: results that the signature does not have, memory
 * that there is not, operators that are missing, another, replaced or removed while they run; code from the
 * cache; lists longer than usual; allocations that fail. Every case by the interpreter, as a loop program and
 * as machine code; what fails leaves the outputs as they were, and nothing behind. */
#include "check.h"
#include "ways.h"
#include "loop/lower.h"

#include <unistd.h>

static hop_tensor *numbers(const char *type)
{
    hop_tensor *t = NULL;
    CLAIM(!hop_tensor_new(&t, type), "%s", hop_message());
    for (int64_t i = 0; i < hop_tensor_count(t); i++) ((float *)hop_data(t))[i] = (float)i;
    return t;
}

static hop_fn *program(const char *text)
{
    hop_fn *f = NULL;
    CLAIM(!hop_fn_read(&f, text, "f"), "%s", hop_message());
    return f;
}

/* ---- results that are not what the signature says ---- */

enum mistake {
    NONE,
    NEVER,     /* asks for no memory */
    ONLY_ONE,  /* asks for that of one result */
    NEGATIVE,  /* a size below 0 */
    DIFFERENT, /* two results of one size have two */
    NO_RESULT, /* a result that there is not */
    NO_DIMS,   /* NULL */
    KNOWN,     /* a known dim that is another */
    HUGE,      /* more than there is */
    UNSAID,    /* it fails and says nothing */
    SAID,      /* it fails and says why */
    LONG,      /* it says too much, without an end */
    ODD,       /* a status that there is not */
    GOES_ON,   /* it was refused and says that all is well */
    MISTAKES
};
static const struct {
    hop_status status;
    const char *message;
} mistakes[MISTAKES] = {
    [NEVER] = { HOP_INVALID, "result 0 has a size that the operator finds, but it asked for no memory" },
    [ONLY_ONE] = { HOP_INVALID, "result 1 has a size that the operator finds, but it asked for no memory" },
    [NEGATIVE] = { HOP_INVALID, "result 0: expected " },
    [DIFFERENT] = { HOP_INVALID, "result 1: expected " },
    [NO_RESULT] = { HOP_INVALID, "find: " },
    [NO_DIMS] = { HOP_INVALID, "find: " },
    [KNOWN] = { HOP_INVALID, "result 1: expected " },
    [HUGE] = { HOP_NOMEM, "" },
    [UNSAID] = { HOP_CANCELLED, "the operator returned" },
    [SAID] = { HOP_CHECK, "find: because" },
    [LONG] = { HOP_INVALID, "find: xxxx" },
    [ODD] = { HOP_INVALID, "the operator returned 12345" },
    [GOES_ON] = { HOP_INVALID, "result 0: expected " },
};
static enum mistake mistake;

/* find(x: f32[N]) -> (f32[?k], i64[?k, 2]) */
static int find(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    int64_t first[1] = { sizes[0] }, second[2] = { sizes[0], 2 };
    (void)arrays;
    switch (mistake) {
    case NEVER: return 0;
    case NEGATIVE:
    case GOES_ON: first[0] = -1; break;
    case DIFFERENT: second[0]++; break;
    case KNOWN: second[1] = 3; break;
    case HUGE: first[0] = second[0] = (int64_t)1 << 61; break;
    case UNSAID: return HOP_CANCELLED;
    case ODD: return 12345;
    case LONG: memset(call->message, 'x', call->room); return HOP_INVALID;
    case SAID: snprintf(call->message, call->room, "because"); return HOP_CHECK;
    case NO_RESULT: return call->result(call, 7, first) ? 0 : 1;
    case NO_DIMS: return call->result(call, 0, NULL) ? 0 : 1;
    default: break;
    }
    float *y = call->result(call, 0, first);
    if (!y) return mistake == GOES_ON ? 0 : HOP_INVALID;
    if (mistake == ONLY_ONE) return 0;
    int64_t *at = call->result(call, 1, second);
    if (!at) return HOP_INVALID;
    for (int64_t i = 0; i < sizes[0]; i++) {
        y[i] = (float)i;
        at[2 * i] = at[2 * i + 1] = i;
    }
    return 0;
}

static void test_results(void)
{
    CLAIM(!hop_operator_register(
              &(hop_operator_spec){ .signature = "find(x: f32[N]) -> (f32[?k], i64[?k, 2])", .run = find }),
          "%s", hop_message());
    hop_fn *f = program("hop 1\noperator @find(x: f32[N]) -> (f32[?k], i64[?k, 2])\n"
                        "fn @f(%x: f32[N]) -> (f32[?k], i64[?k, 2]) {\n"
                        "  %y: f32[?k], %i: i64[?k, 2] = find(%x)\n  return %y, %i\n}\n");
    hop_tensor *x = numbers("f32[5]");
    for (enum way way = 0; way < WAYS; way++)
        for (mistake = NONE; mistake < MISTAKES; mistake++) {
            hop_tensor *out[2] = { 0 };
            hop_status status = run_way(way, f, &x, 1, out, 2);
            const char *want = mistakes[mistake].message;
            bool as_expected = status == mistakes[mistake].status;
            if (mistake == HUGE) as_expected = status == HOP_NOMEM || status == HOP_INVALID;
            CLAIM(as_expected && !out[0] == !!status, "%s, mistake %d: status %d: %s", way_names[way],
                  mistake, status, status ? hop_message() : "");
            CLAIM(!status || !want || strstr(hop_message(), want),
                  "%s, mistake %d: expected '%s', found '%s'", way_names[way], mistake, want, hop_message());
            CLAIM(!status || mistake == HUGE || strstr(hop_message(), ":4:"), "%s, mistake %d: the place: %s",
                  way_names[way], mistake, hop_message());
            for (int i = 0; i < 2; i++) hop_tensor_free(out[i]);
        }
    mistake = NONE;
    CLAIM(!hop_operator_unregister("find"), "%s", hop_message());
    hop_tensor_free(x);
    hop_fn_free(f);
}

/* ---- who is called ---- */

static int twice(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    if (call->user) ++*(int *)call->user;
    for (int64_t i = 0; i < sizes[0]; i++) ((float *)arrays[1])[i] = 2 * ((const float *)arrays[0])[i];
    return 0;
}
static int thrice(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    if (call->user) ++*(int *)call->user;
    for (int64_t i = 0; i < sizes[0]; i++) ((float *)arrays[1])[i] = 3 * ((const float *)arrays[0])[i];
    return 0;
}
static int released;
static void let_go(void *user) { (void)user, released++; }

/* Removes itself when it is called the second time. */
static int leave(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    int *calls = call->user;
    if (*calls == 1) hop_operator_unregister("double");
    return twice(call, arrays, sizes);
}

#define DOUBLE "hop 1\noperator @double(x: f32[N]) -> f32[N] {effects = check}\n"
static const char once_text[] = DOUBLE "fn @f(%x: f32[N]) -> (f32[N]) effects(check) {\n"
                                       "  %y = double(%x)\n  return %y\n}\n";
static const char loop_text[] = DOUBLE
    "fn @f(%x: f32[N]) -> (f32[N]) effects(check) {\n  %a = full {value = 0, dims = [], dtype = i64}\n"
    "  %b = full {value = 4, dims = [], dtype = i64}\n"
    "  %y = fori_loop carry(%c = %x) from(%i = %a) to(%b) {\n    %d = double(%c)\n    next(%d)\n  }\n"
    "  return %y\n}\n";

static hop_status register_double(hop_operator_run run, int *calls)
{
    return hop_operator_register(&(hop_operator_spec){ .signature = "double(x: f32[N]) -> f32[N]",
                                                       .run = run,
                                                       .user = calls,
                                                       .release = let_go,
                                                       .effect = "check" });
}

static float second_of(hop_tensor *t) { return t ? ((float *)hop_data(t))[1] : -1; }

static void test_names(void)
{
    hop_fn *f = program(once_text), *g = program(loop_text);
    hop_tensor *x = numbers("f32[5]"), *out = NULL;
    for (enum way way = 0; way < WAYS; way++) {
        int calls = 0;
        CLAIM(run_way(way, f, &x, 1, &out, 1) == HOP_INVALID && !out &&
                  strstr(hop_message(), "double: there is no operator 'double'"),
              "%s: one that nobody has registered: %s", way_names[way], hop_message());
        CLAIM(!hop_operator_register(&(hop_operator_spec){
                  .signature = "double(x: f64[N]) -> f64[N]", .run = twice, .effect = "check" }),
              "%s", hop_message());
        CLAIM(run_way(way, f, &x, 1, &out, 1) == HOP_INVALID && !out && strstr(hop_message(), "f64[N]") &&
                  strstr(hop_message(), "f32[N]"),
              "%s: another signature: %s", way_names[way], hop_message());
        CLAIM(!hop_operator_unregister("double") && !register_double(twice, &calls), "%s", hop_message());
        released = 0;
        CLAIM(!run_way(way, f, &x, 1, &out, 1) && second_of(out) == 2, "%s: %s", way_names[way],
              hop_message());
        hop_tensor_free(out), out = NULL;
        CLAIM(!register_double(thrice, &calls) && released == 1, "%s", hop_message());
        CLAIM(!run_way(way, f, &x, 1, &out, 1) && second_of(out) == 3, "%s: replaced", way_names[way]);
        hop_tensor_free(out), out = NULL;
        calls = 0;
        CLAIM(!register_double(leave, &calls), "%s", hop_message());
        released = 0;
        hop_status status = run_way(way, g, &x, 1, &out, 1);
        if (way == INTERPRETED) /* which looks for it at every call */
            CLAIM(status == HOP_INVALID && calls == 2 && released == 1, "removed while it runs: %d", status);
        else
            CLAIM(!status && second_of(out) == 16 && calls == 4 && released == 1,
                  "%s: removed while it runs, held until the run ends: %d, %d calls, %d released",
                  way_names[way], status, calls, released);
        hop_tensor_free(out), out = NULL;
        hop_operator_unregister("double");
    }
    hop_tensor_free(x);
    hop_fn_free(f);
    hop_fn_free(g);
}

/* ---- procedures, the cache, long lists ---- */

static void test_procedures(void)
{
    int calls = 0;
    hop_fn *f = program(DOUBLE "operator @triple(x: f32[N]) -> f32[N]\n"
                               "fn @g(%x: f32[5]) -> (f32[5]) {\n  %y = triple(%x)\n  return %y\n}\n"
                               "fn @f(%x: f32[5]) -> (f32[5]) effects(check) {\n"
                               "  %a = invoke_subgraph @g(%x)\n  %b = double(%a)\n"
                               "  %c = invoke_subgraph @g(%b)\n  return %c\n}\n");
    hop_tensor *x = numbers("f32[5]"), *out = NULL;
    CLAIM(!register_double(twice, &calls) &&
              !hop_operator_register(&(hop_operator_spec){
                  .signature = "triple(x: f32[N]) -> f32[N]", .run = thrice, .user = &calls }),
          "%s", hop_message());
    lower_procedures_everywhere(true);
    for (enum way way = LOOPS; way < WAYS; way++) {
        CLAIM(!run_way(way, f, &x, 1, &out, 1) && second_of(out) == 18, "%s: %s", way_names[way],
              hop_message());
        hop_tensor_free(out), out = NULL;
    }
    lower_procedures_everywhere(false);
    hop_operator_unregister("double");
    hop_operator_unregister("triple");
    hop_tensor_free(x);
    hop_fn_free(f);
}

static void test_cache(void)
{
    char folder[] = "/tmp/hop_operator_test_XXXXXX", command[64];
    int calls = 0;
    hop_fn *f = program(once_text);
    hop_tensor *x = numbers("f32[5]"), *out = NULL;
    hop_cache_stats before, after;
    CLAIM(mkdtemp(folder) && !hop_cache_directory(folder), "%s", hop_message());
    for (int round = 0; round < 3; round++) {
        hop_exe *exe = NULL;
        hop_cache_statistics(&before);
        CLAIM(!hop_compile(&exe, f, NULL), "%s", hop_message());
        hop_cache_statistics(&after);
        CLAIM(!round || after.disk_hits > before.disk_hits, "round %d: from the cache", round);
        CLAIM(hop_run(exe, &x, 1, &out, 1) == HOP_INVALID && !out, "round %d: nobody has registered it",
              round);
        CLAIM(strstr(hop_message(), ":4:"), "round %d: the place is known: %s", round, hop_message());
        CLAIM(!register_double(twice, &calls) && !hop_run(exe, &x, 1, &out, 1) && second_of(out) == 2,
              "round %d: %s", round, hop_message());
        hop_operator_unregister("double");
        hop_tensor_free(out), out = NULL;
        hop_exe_free(exe);
        hop_cache_clear();
    }
    hop_cache_directory("off");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CLAIM(!system(command), "%s", folder);
    hop_tensor_free(x);
    hop_fn_free(f);
}

/* total(xs: f32[N]*) -> f32[N] */
static int total(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    float *sum = arrays[call->counts[0]];
    for (int64_t i = 0; i < sizes[0]; i++) sum[i] = 0;
    for (int32_t k = 0; k < call->counts[0]; k++)
        for (int64_t i = 0; i < sizes[0]; i++) sum[i] += ((const float *)arrays[k])[i];
    return 0;
}

static void test_lists(void)
{
    enum { MANY = 70 };
    char text[2048];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "hop 1\noperator @total(xs: f32[N]*) -> f32[N]\n"
                                "fn @f(%%x: f32[5]) -> (f32[5]) {\n  %%y = total(");
    for (int k = 0; k < MANY; k++) n += (size_t)snprintf(text + n, sizeof text - n, "%s%%x", k ? ", " : "");
    snprintf(text + n, sizeof text - n, ")\n  return %%y\n}\n");
    CLAIM(!hop_operator_register(
              &(hop_operator_spec){ .signature = "total(xs: f32[N]*) -> f32[N]", .run = total }),
          "%s", hop_message());
    hop_fn *f = program(text);
    hop_tensor *x = numbers("f32[5]"), *out = NULL;
    for (enum way way = 0; way < WAYS; way++) {
        CLAIM(!run_way(way, f, &x, 1, &out, 1) && second_of(out) == MANY, "%s: %s", way_names[way],
              hop_message());
        hop_tensor_free(out), out = NULL;
    }
    hop_operator_unregister("total");
    hop_tensor_free(x);
    hop_fn_free(f);
}

/* ---- allocations that fail ---- */

static void test_allocations(void)
{
    hop_fn *f = program("hop 1\noperator @find(x: f32[N]) -> (f32[?k], i64[?k, 2])\n"
                        "fn @f(%x: f32[N]) -> (f32[?k], i64[?k, 2]) {\n"
                        "  %y: f32[?k], %i: i64[?k, 2] = find(%x)\n  return %y, %i\n}\n");
    hop_tensor *x = numbers("f32[5]");
    CLAIM(!hop_operator_register(
              &(hop_operator_spec){ .signature = "find(x: f32[N]) -> (f32[?k], i64[?k, 2])", .run = find }),
          "%s", hop_message());
    for (enum way way = INTERPRETED; way < NATIVE; way++) { /* native: alloc_fuzz knows LLVM */
        hop_status status = HOP_NOMEM;
        for (uint64_t k = 1; status && k < 400; k++) {
            hop_tensor *out[2] = { 0 };
            int64_t live = hop_live_allocations();
            hop_fail_one_allocation(k);
            status = run_way(way, f, &x, 1, out, 2);
            hop_fail_one_allocation(0);
            CLAIM(!status || (status == HOP_NOMEM && !out[0] && !out[1]), "allocation %llu, %s: %d, %s",
                  (unsigned long long)k, way_names[way], status, hop_message());
            for (int i = 0; i < 2; i++) hop_tensor_free(out[i]);
            CLAIM(hop_live_allocations() <= live, "allocation %llu, %s: %lld more", (unsigned long long)k,
                  way_names[way], (long long)(hop_live_allocations() - live));
        }
        CLAIM(!status, "%s: it succeeds in the end", way_names[way]);
    }
    hop_operator_unregister("find");
    hop_tensor_free(x);
    hop_fn_free(f);
}

int main(void)
{
    hop_cache_directory("off");
    test_results();
    test_names();
    test_procedures();
    test_lists();
    test_cache();
    test_allocations();
    return tests_end();
}
