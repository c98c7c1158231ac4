/* Operators from outside in compiled programs: every program, written here or random (NAME MOST FIRST: those
 * with the name in theirs, then random ones from number FIRST to MOST), is run by the interpreter, as a loop
 * program, as machine code, as emitted C, and with updates in place switched off, which must all give the
 * same bits; and the copies that compiled code makes for arrays that operators change are counted, with the
 * reason that explain gives. */
#include "check.h"
#include "check/check.h"
#include "check/test_c.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "loop/lower.h"
#include "runtime/exe.h"

/* ---- the operators ---- */

static int calls;

/* scale(mut x: T[N], by: f32[]): x times by; the new content depends on the old one. */
static int run_scale(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    (void)call;
    calls++;
    for (int64_t i = 0; i < sizes[0]; i++) ((float *)arrays[0])[i] *= *(const float *)arrays[1];
    return 0;
}

/* shift(x: f32[N]) -> f32[N]: each element behind the one before it. */
static int run_shift(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const float *x = arrays[0];
    float *y = arrays[1];
    (void)call;
    calls++;
    for (int64_t i = 0; i < sizes[0]; i++) y[i] = x[(i + 1) % sizes[0]];
    return 0;
}

/* both(mut x: f32[N], mut y: f32[N]) -> f32[]: x is doubled, y is made negative; their first elements. */
static int run_both(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    float *x = arrays[0], *y = arrays[1];
    (void)call;
    calls++;
    for (int64_t i = 0; i < sizes[0]; i++) {
        x[i] *= 2;
        y[i] = -y[i];
    }
    *(float *)arrays[2] = sizes[0] ? x[0] + y[0] : 0;
    return 0;
}

/* count(mut n: i64[]): one more. */
static int run_count(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    (void)call, (void)sizes;
    calls++;
    ++*(int64_t *)arrays[0];
    return 0;
}

/* keep(x: f32[N]) -> (f32[?k], i64[?k]): elements that are positive, and where they stand. */
static int run_keep(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const float *x = arrays[0];
    int64_t k = 0;
    calls++;
    for (int64_t i = 0; i < sizes[0]; i++) k += x[i] > 0;
    float *y = call->result(call, 0, &k);
    int64_t *at = y ? call->result(call, 1, &k) : NULL;
    if (!at) return 1;
    k = 0;
    for (int64_t i = 0; i < sizes[0]; i++)
        if (x[i] > 0) {
            y[k] = x[i];
            at[k++] = i;
        }
    return 0;
}

/* into(x: f32[N], out y: f32[N], out s: f64[]): twice x, and its sum. */
static int run_into(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const float *x = arrays[0];
    float *y = arrays[1];
    double s = 0;
    (void)call;
    calls++;
    for (int64_t i = 0; i < sizes[0]; i++) {
        y[i] = 2 * x[i];
        s += x[i];
    }
    *(double *)arrays[2] = s;
    return 0;
}

/* collect(mut acc: f32[N], b: f32[N]?, rest: f32[N]*) -> i64[]: acc plus all that are there; how many. */
static int run_collect(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    float *acc = arrays[0];
    int64_t there = 0;
    calls++;
    for (int32_t k = 1; k + 1 < call->n_arrays; k++) {
        if (!arrays[k]) continue;
        there++;
        for (int64_t i = 0; i < sizes[0]; i++) acc[i] += ((const float *)arrays[k])[i];
    }
    *(int64_t *)arrays[call->n_arrays - 1] = there + 100 * call->counts[2];
    return 0;
}

/* refuse(x: f32[N]) -> f32[N]: fails for a negative first element. */
static int run_refuse(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const float *x = arrays[0];
    calls++;
    if (sizes[0] && x[0] < 0) {
        snprintf(call->message, call->room, "%g is negative", (double)x[0]);
        return HOP_CHECK;
    }
    for (int64_t i = 0; i < sizes[0]; i++) ((float *)arrays[1])[i] = x[i];
    return 0;
}

/* The element at i, j of an array with strides, or row-major. */
static float *element(const hop_operator_array *a, int64_t i, int64_t j)
{
    if (a->rank == 1) return (float *)a->data + i * (a->strides ? a->strides[0] : 1);
    return (float *)a->data + i * (a->strides ? a->strides[0] : a->dims[1]) +
           j * (a->strides ? a->strides[1] : 1);
}

/* ramp(mut x: f32[N], mut y: f32[N]): with strides; y takes up what x has become, element by element. */
static int run_ramp(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    (void)arrays;
    calls++;
    for (int64_t i = 0; i < sizes[0]; i++) {
        *element(&call->arrays[0], i, 0) += (float)i;
        *element(&call->arrays[1], i, 0) += *element(&call->arrays[0], i, 0);
    }
    return 0;
}

/* corner(mut x: f32[N, M]) -> f32[]: with strides; element (i, j) plus 10 i + j; the last one before that. */
static int run_corner(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const hop_operator_array *x = &call->arrays[0];
    calls++;
    *(float *)arrays[1] = sizes[0] && sizes[1] ? *element(x, sizes[0] - 1, sizes[1] - 1) : 0;
    for (int64_t i = 0; i < sizes[0]; i++)
        for (int64_t j = 0; j < sizes[1]; j++) *element(x, i, j) += (float)(10 * i + j);
    return 0;
}

/* spread(mut x: f32[N, M]): row-major, whatever it is a view of. */
static int run_spread(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    float *x = arrays[0];
    calls++;
    if (call->arrays[0].strides && sizes[1] && call->arrays[0].strides[0] != sizes[1] && sizes[0] > 1)
        return 1;
    for (int64_t i = 0; i < sizes[0] * sizes[1]; i++) x[i] = x[i] * 2 + (float)i;
    return 0;
}

/* rows(mut x: f32[N]): all lanes in one call; lane l and element i get 100 l + i. */
static int run_rows(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const hop_operator_array *x = &call->arrays[0];
    (void)arrays;
    calls++;
    if (call->lanes != 1) return 1;
    for (int64_t l = 0; l < x->dims[0]; l++)
        for (int64_t i = 0; i < sizes[0]; i++) *element(x, l, i) += (float)(100 * l + i);
    return 0;
}

static const hop_operator_spec operators[] = {
    { .signature = "scale(mut x: f32[N], by: f32[])", .run = run_scale },
    { .signature = "shift(x: f32[N]) -> f32[N]", .run = run_shift },
    { .signature = "both(mut x: f32[N], mut y: f32[N]) -> f32[]", .run = run_both },
    { .signature = "count(mut n: i64[])", .run = run_count },
    { .signature = "keep(x: f32[N]) -> (f32[?k], i64[?k])", .run = run_keep },
    { .signature = "into(x: f32[N], out y: f32[N], out s: f64[])", .run = run_into },
    { .signature = "collect(mut acc: f32[N], b: f32[N]?, rest: f32[N]*) -> i64[]", .run = run_collect },
    { .signature = "ramp(mut x: f32[N], mut y: f32[N])", .run = run_ramp, .strided = 1 },
    { .signature = "corner(mut x: f32[N, M]) -> f32[]", .run = run_corner, .strided = 1 },
    { .signature = "spread(mut x: f32[N, M])", .run = run_spread },
    { .signature = "rows(mut x: f32[N])", .run = run_rows, .strided = 1, .together = 1 },
    { .signature = "refuse(x: f32[N]) -> f32[N]", .run = run_refuse, .effect = "check" },
};

#define DECLARED \
    "hop 1\n" \
    "operator @scale(mut x: f32[N], by: f32[])\n" \
    "operator @shift(x: f32[N]) -> f32[N]\n" \
    "operator @both(mut x: f32[N], mut y: f32[N]) -> f32[]\n" \
    "operator @count(mut n: i64[])\n" \
    "operator @keep(x: f32[N]) -> (f32[?k], i64[?k])\n" \
    "operator @into(x: f32[N], out y: f32[N], out s: f64[])\n" \
    "operator @collect(mut acc: f32[N], b: f32[N]?, rest: f32[N]*) -> i64[]\n" \
    "operator @ramp(mut x: f32[N], mut y: f32[N])\n" \
    "operator @corner(mut x: f32[N, M]) -> f32[]\n" \
    "operator @spread(mut x: f32[N, M])\n" \
    "operator @rows(mut x: f32[N])\n" \
    "operator @refuse(x: f32[N]) -> f32[N] {effects = check}\n"

/* ---- programs ---- */

struct program {
    const char *name;
    uint32_t copies;
    const char *why; /* a part of the note, NULL: there are no copies */
    const char *text;
};

static const struct program programs[] = {
    { "a result of its own", 0, NULL,
      "fn @f(%x: f32[700]) -> (f32[700]) {\n  %y = shift(%x)\n  return %y\n}\n" },
    { "small arrays", 0, NULL, "fn @f(%x: f32[3]) -> (f32[3]) {\n  %y = shift(%x)\n  return %y\n}\n" },
    { "of any size", 0, NULL, "fn @f[N](%x: f32[N]) -> (f32[N]) {\n  %y = shift(%x)\n  return %y\n}\n" },
    { "an argument that the caller keeps", 1, "is an argument",
      "fn @f(%x: f32[700], %b: f32[]) -> (f32[700]) {\n  %y = scale(%x, %b)\n  return %y\n}\n" },
    { "an argument that is updated", 0, NULL,
      "fn @f(%x: mut f32[700], %b: f32[]) -> (new %x) {\n  %y = scale(%x, %b)\n  return %y\n}\n" },
    { "twice", 0, NULL,
      "fn @f(%x: mut f32[700], %b: f32[]) -> (new %x) {\n  %y = scale(%x, %b)\n  %z = scale(%y, %b)\n"
      "  return %z\n}\n" },
    { "a value that is computed, and nobody reads afterwards", 0, NULL,
      "fn @f(%x: f32[700], %b: f32[]) -> (f32[700]) {\n  %e = exp(%x)\n  %y = scale(%e, %b)\n  return "
      "%y\n}\n" },
    { "a value that is read afterwards", 1, "add reads afterwards",
      "fn @f(%x: f32[700], %b: f32[]) -> (f32[700]) {\n  %e = exp(%x)\n  %y = scale(%e, %b)\n"
      "  %s = add(%y, %e)\n  return %s\n}\n" },
    { "read before", 0, NULL,
      "fn @f(%x: f32[700], %b: f32[]) -> (f32[700], f32[]) {\n  %e = exp(%x)\n  %t = sum(%e)\n"
      "  %y = scale(%e, %b)\n  return %y, %t\n}\n" },
    { "an expression of it that is read behind", 1, NULL,
      "fn @f(%x: f32[700], %b: f32[]) -> (f32[700], f32[700]) {\n  %e = exp(%x)\n  %n = neg(%e)\n"
      "  %y = scale(%e, %b)\n  %s = sub(%y, %n)\n  return %y, %s\n}\n" },
    { "a result", 1, "is a result",
      "fn @f(%x: f32[700], %b: f32[]) -> (f32[700], f32[700]) {\n  %e = exp(%x)\n  %y = scale(%e, %b)\n"
      "  return %y, %e\n}\n" },
    { "one value for two that are changed: one copy", 1, NULL,
      "fn @f(%x: f32[700]) -> (f32[700], f32[700], f32[]) {\n  %e = exp(%x)\n  %r, %a, %b = both(%e, %e)\n"
      "  return %a, %b, %r\n}\n" },
    { "two that are changed", 0, NULL,
      "fn @f(%x: f32[700]) -> (f32[700], f32[]) {\n  %e = exp(%x)\n  %g = sin(%x)\n  %r, %a, %b = both(%e, "
      "%g)\n"
      "  %s = sub(%a, %b)\n  return %s, %r\n}\n" },
    { "a carry: no copy in any step", 0, NULL,
      "fn @f(%x: mut f32[700], %bs: f32[5]) -> (new %x) {\n"
      "  %y = scan carry(%c = %x) over(%b in %bs) {\n    %n = scale(%c, %b)\n    next(%n)\n  }\n"
      "  return %y\n}\n" },
    { "a small carry", 0, NULL,
      "fn @f(%x: f32[4], %bs: f32[5]) -> (f32[4]) {\n"
      "  %y = scan carry(%c = %x) over(%b in %bs) {\n    %n = scale(%c, %b)\n    next(%n)\n  }\n"
      "  return %y\n}\n" },
    { "a carry that is computed and then changed", 0, NULL,
      "fn @f(%x: f32[700], %bs: f32[5]) -> (f32[700]) {\n"
      "  %y = scan carry(%c = %x) over(%b in %bs) {\n    %t = tanh(%c)\n    %n = scale(%t, %b)\n    "
      "next(%n)\n"
      "  }\n  return %y\n}\n" },
    { "a carry whose old value is stacked", 1, NULL,
      "fn @f(%x: f32[700], %bs: f32[5]) -> (f32[700], f32[5, 700]) {\n"
      "  %y, %ys = scan carry(%c = %x) over(%b in %bs) {\n    %n = scale(%c, %b)\n    next(%n) stack(%c)\n"
      "  }\n  return %y, %ys\n}\n" },
    { "in a call", 0, NULL,
      "fn @g(%x: f32[700], %b: f32[]) -> (f32[700]) {\n  %y = scale(%x, %b)\n  return %y\n}\n"
      "fn @f(%x: mut f32[700], %b: f32[]) -> (new %x) {\n"
      "  %y = invoke_subgraph @g(%x, %b)\n  return %y\n}\n" },
    { "a value that is computed, in a call", 0, NULL,
      "fn @g(%x: f32[700], %b: f32[]) -> (f32[700]) {\n  %y = scale(%x, %b)\n  return %y\n}\n"
      "fn @f(%x: f32[700], %b: f32[]) -> (f32[700], f32[]) {\n  %e = exp(%x)\n"
      "  %y = invoke_subgraph @g(%e, %b)\n  %z = invoke_subgraph @g(%y, %b)\n  %s = sum(%z)\n"
      "  return %z, %s\n}\n" },
    { "a call that reads it in another way, too", 1, NULL,
      "fn @g(%x: f32[700], %v: f32[700], %b: f32[]) -> (f32[700], f32[700]) {\n  %y = scale(%x, %b)\n"
      "  %r = reverse {dims = [0]} (%v)\n  return %y, %r\n}\n"
      "fn @f(%x: f32[700], %b: f32[]) -> (f32[700], f32[700]) {\n  %e = exp(%x)\n  %n = neg(%e)\n"
      "  %y, %r = invoke_subgraph @g(%e, %n, %b)\n  return %y, %r\n}\n" },
    { "in branches", 0, NULL,
      "fn @f(%p: bool[], %x: mut f32[700], %b: f32[]) -> (new %x) {\n"
      "  %y = switch(%p) [(%x, %b) {\n    %n = scale(%x, %b)\n    yield(%n)\n  }, (%x, %b) {\n"
      "    %n = scale(%x, %b)\n    %o = scale(%n, %b)\n    yield(%o)\n  }]\n  return %y\n}\n" },
    { "only its size is read afterwards", 0, NULL,
      "fn @f[N](%x: mut f32[N], %b: f32[]) -> (new %x, f32[N]) {\n  %y = scale(%x, %b)\n"
      "  %o = full {value = 1, dims = [N], dtype = f32}\n  return %y, %o\n}\n" },
    { "a part that is written, then changed, then written again", 0, NULL,
      "fn @f(%x: mut f32[700], %b: f32[], %u: f32[3]) -> (new %x) {\n"
      "  %i = full {value = 7, dims = [], dtype = i64}\n"
      "  %a = dynamic_update(%x, %u, %i)\n  %y = scale(%a, %b)\n  %z = dynamic_update(%y, %u, %i)\n"
      "  return %z\n}\n" },
    { "numbers", 0, NULL,
      "fn @f(%n: i64[]) -> (i64[]) {\n  %a = count(%n)\n  %b = count(%a)\n  return %b\n}\n" },
    { "numbers that loops carry", 0, NULL,
      "fn @f(%n: i64[], %xs: f32[6]) -> (i64[]) {\n  %a = scan carry(%c = %n) over(%x in %xs) {\n"
      "    %d = count(%c)\n    next(%d)\n  }\n  return %a\n}\n" },
    { "sizes that it finds", 0, NULL,
      "fn @f(%x: f32[50]) -> (f32[?k], i64[?k], f32[]) {\n"
      "  %a: f32[?k], %i: i64[?k] = keep(%x)\n  %s = sum(%a)\n  return %a, %i, %s\n}\n" },
    { "sizes that are found in a loop", 0, NULL,
      "fn @f(%x: f32[50], %ys: f32[4]) -> (f32[]) {\n  %z = full {value = 0, dims = [], dtype = f32}\n"
      "  %s = scan carry(%c = %z) over(%y in %ys) with(%x) {\n    %b = broadcast {dims = [50], at = []} "
      "(%y)\n"
      "    %d = add(%x, %b)\n    %a: f32[?k], %i: i64[?k] = keep(%d)\n    %t = sum(%a)\n    %n = add(%c, "
      "%t)\n"
      "    next(%n)\n  }\n  return %s\n}\n" },
    { "sizes that are found, and changed", 0, NULL,
      "fn @f(%x: f32[50], %b: f32[]) -> (f32[?k]) {\n  %a: f32[?k], %i: i64[?k] = keep(%x)\n"
      "  %y = scale(%a, %b)\n  return %y\n}\n" },
    { "what it fills", 0, NULL,
      "fn @f(%x: f32[700]) -> (f32[700], f64[]) {\n  %y, %s = into(%x)\n  return %y, %s\n}\n" },
    { "absent ones and lists", 0, NULL,
      "fn @f(%x: f32[80], %y: f32[80]) -> (f32[80], i64[]) {\n  %e = exp(%x)\n"
      "  %n, %a = collect {given = [1, 0, 3, 1, 0, 1]} (%e, %x, %y)\n  return %a, %n\n}\n" },
    { "an empty list", 0, NULL,
      "fn @f(%x: f32[80], %y: f32[80]) -> (f32[80], i64[]) {\n  %e = exp(%x)\n"
      "  %n, %a = collect {given = [1, 1, 0]} (%e, %y)\n  return %a, %n\n}\n" },
    { "lanes", 0, NULL,
      "fn @f(%x: f32[4, 60], %b: f32[4]) -> (f32[4, 60]) {\n  %e = exp(%x)\n"
      "  %y = scale {lanes = 1} (%e, %b)\n  return %y\n}\n" },
    { "lanes that share an operand, and one whose content is spread", 0, NULL,
      "fn @f(%x: f32[1, 60], %b: f32[4]) -> (f32[4, 60]) {\n  %y = scale {lanes = 1} (%x, %b)\n"
      "  return %y\n}\n" },
    { "lanes that do not run", 0, NULL,
      "fn @f(%x: f32[4, 60]) -> (f32[4, 60]) {\n  %s = sum {dims = [1]} (%x)\n"
      "  %z = full {value = 0, dims = [4], dtype = f32}\n  %p = gt(%s, %z)\n"
      "  %y = shift {lanes = 1, masked} (%p, %x)\n  return %y\n}\n" },
    { "empty arrays", 0, NULL,
      "fn @f(%x: f32[0], %b: f32[]) -> (f32[0]) {\n  %e = exp(%x)\n  %y = scale(%e, %b)\n  %s = shift(%y)\n"
      "  return %s\n}\n" },
    { "one that fails", 0, NULL,
      "fn @f(%x: f32[700]) -> (f32[700]) effects(check) {\n  %n = neg(%x)\n  %y = refuse(%n)\n  return "
      "%y\n}\n" },
    { "parameters called like what the text needs", 0, NULL,
      "fn @f(%data: f32[60], %x1: f32[], %given: f32[60], %call: f32[60]) -> (f32[60], f32[60]) {\n"
      "  %e = exp(%data)\n  %sizes = scale(%e, %x1)\n  %failed = shift(%given)\n  %d0 = add(%failed, %call)\n"
      "  return %sizes, %d0\n}\n" },
    { "two views of one base that do not meet, in place", 0, NULL,
      "fn @f(%x: mut f32[700]) -> (new %x) {\n"
      "  %y = ramp {views = [0, 3, 1, 100, 2, 0, 300, 1, 100, 1]} (%x)\n  return %y\n}\n" },
    { "two views of one base that overlap: one copy", 1, "is an argument",
      "fn @f(%x: f32[700]) -> (f32[700]) {\n"
      "  %y = ramp {views = [0, 0, 1, 100, 1, 0, 1, 1, 100, 1]} (%x)\n  return %y\n}\n" },
    { "views of a value that is computed, one of them all of it", 0, NULL,
      "fn @f(%x: f32[700]) -> (f32[700]) {\n  %e = exp(%x)\n"
      "  %y = ramp {views = [0, 0, 1, 700, 1, 0, 0, 1, 700, 1]} (%e)\n  return %y\n}\n" },
    { "views of two bases", 1, "add reads afterwards",
      "fn @f(%x: f32[700]) -> (f32[700], f32[20, 20]) {\n  %e = exp(%x)\n"
      "  %z = full {value = 2, dims = [20, 20], dtype = f32}\n  %o = sin(%x)\n"
      "  %y, %w = ramp {views = [0, 5, 1, 20, 3, 1, 2, 1, 20, 20]} (%e, %z)\n  %s = add(%e, %y)\n"
      "  %t = add(%s, %o)\n  return %t, %w\n}\n" },
    { "a view with its dims in another order", 0, NULL,
      "fn @f(%x: mut f32[12, 30]) -> (new %x, f32[]) {\n"
      "  %r, %y = corner {views = [0, 31, 2, 20, 1, 8, 30]} (%x)\n  return %y, %r\n}\n" },
    { "a view of any size", 0, NULL,
      "fn @f[N](%x: mut f32[N, 4]) -> (new %x, f32[]) {\n"
      "  %r, %y = corner {views = [0, 1, 2, N, 4, 2, 2]} (%x)\n  return %y, %r\n}\n" },
    { "a view for one that takes none", 0, NULL,
      "fn @f(%x: mut f32[12, 30]) -> (new %x) {\n"
      "  %y = spread {views = [0, 31, 2, 20, 1, 8, 30]} (%x)\n  return %y\n}\n" },
    { "views in lanes", 0, NULL,
      "fn @f(%x: mut f32[3, 12, 30]) -> (new %x, f32[3]) {\n"
      "  %r, %y = corner {lanes = 1, views = [0, 31, 2, 20, 1, 8, 30]} (%x)\n  return %y, %r\n}\n" },
    { "views in lanes, for one that takes none", 0, NULL,
      "fn @f(%x: mut f32[3, 12, 30]) -> (new %x) {\n"
      "  %y = spread {lanes = 1, views = [0, 31, 2, 20, 1, 8, 30]} (%x)\n  return %y\n}\n" },
    { "views of all lanes together", 0, NULL,
      "fn @f(%x: mut f32[3, 40]) -> (new %x) {\n"
      "  %y = rows {lanes = 1, together, views = [0, 5, 1, 10, 2]} (%x)\n  return %y\n}\n" },
    { "a carry of which views are changed", 0, NULL,
      "fn @f(%x: mut f32[700], %bs: f32[5]) -> (new %x) {\n  %y = scan carry(%c = %x) over(%b in %bs) {\n"
      "    %n = ramp {views = [0, 3, 1, 100, 2, 0, 4, 1, 100, 2]} (%c)\n    next(%n)\n  }\n"
      "  return %y\n}\n" },
    { "in a concat", 0, NULL,
      "fn @f(%x: f32[700], %b: f32[]) -> (f32[1400]) {\n  %e = exp(%x)\n  %y = scale(%e, %b)\n"
      "  %c = concat {dim = 0} (%y, %x)\n  return %c\n}\n" },
};

/* ---- running ---- */

static struct tensor *numbers(struct module *m, type_id type, const int64_t *symbols)
{
    struct type t = type_get(m, type);
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_eval(m, t.dims[i], symbols);
    struct tensor *x = tensor_new((enum dtype)t.dtype, t.rank, dims);
    for (int64_t i = 0; i < x->count; i++) {
        if (t.dtype == DT_BOOL) ((uint8_t *)x->data)[i] = 1;
        else if (t.dtype == DT_I64) ((int64_t *)x->data)[i] = 3 + i;
        else ((float *)x->data)[i] = (float)((i * 37 + 61) % 101 - 50) / 64;
    }
    return x;
}

static void compare(const struct program *p, struct bag *bag, const char *how, const struct outcome *have,
                    const struct outcome *want)
{
    const char *d = outcome_difference(&bag->arena, have, want, (struct bound){ 0 }, (struct bound){ 0 });
    CLAIM(!d, "%s, %s: %s", p->name, how, d);
}

static void every_way(const struct program *p, struct module *m, uint32_t fn, bool emitted)
{
    static const struct {
        const char *name;
        const struct backend *backend;
        bool strict, in_place;
        uint64_t without;
    } ways[] = {
        { "loop program", &executor_backend, true, false, 0 },
        { "loop program, in place", &executor_backend, true, true, 0 },
        { "loop program, own memory", &executor_backend, true, false, 1ull << CHOICE_inplace },
        { "native", &llvm_backend, true, false, 0 },
        { "native, in place", &llvm_backend, true, true, 0 },
        { "native, own memory", &llvm_backend, true, false, 1ull << CHOICE_inplace },
    };
    const struct fn *f = module_fn(m, fn);
    const int64_t symbols[] = { 90, 90, 90 };
    struct tensor *args[8];
    struct bag own = { 0 }, *bag = &own;
    hop_cleanup_push(bag_free, bag);
    struct outcome want, have;
    for (uint32_t i = 0; i < f->n_params; i++) args[i] = bag_keep(bag, numbers(m, value_type(f, i), symbols));
    calls = 0;
    run_on(bag, m, fn, &interpreter, args, NULL, &want);
    int expected = calls;
    CLAIM(!want.status || strstr(p->name, "fails"), "%s: %s", p->name, want.status ? want.message : "");
    for (uint32_t i = 0; i < HOP_COUNT(ways); i++) {
        struct way way = { .name = ways[i].name,
                           .backend = ways[i].backend,
                           .in_place = ways[i].in_place,
                           .threads = 1,
                           .passes = { .strict = true, .without = ways[i].without } };
        if (ways[i].backend == &llvm_backend && !exe_available()) continue;
        calls = 0;
        run_on(bag, m, fn, &way, args, NULL, &have);
        compare(p, bag, ways[i].name, &have, &want);
        CLAIM(!p->text || calls == expected, "%s, %s: expected %d calls, found %d", p->name, ways[i].name,
              expected, calls);
    }
    struct c_programs *c = emitted ? c_programs_new(NULL) : NULL;
    hop_cleanup_push(c_programs_free, c);
    if (emitted) {
        uint32_t number = c_programs_add(c, m, fn, &(struct pass_options){ .strict = true });
        c_programs_build(c, false);
        c_programs_run(c, number, bag, m, fn, args, NULL, &have);
        compare(p, bag, "emitted C", &have, &want);
    }
    hop_cleanup_pop(c);
    c_programs_free(c);
    hop_cleanup_pop(bag);
    bag_free(bag);
}

/* ---- random programs ---- */

static uint64_t dice_state;
static uint32_t dice(uint32_t n)
{
    dice_state = dice_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice_state >> 33) % n;
}

struct writing {
    char text[8192];
    size_t n;
    int size, arrays, numbers; /* %a0 … are arrays of `size` elements, %n0 … numbers */
};
static void put(struct writing *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    w->n += (size_t)vsnprintf(w->text + w->n, sizeof w->text - w->n, format, args);
    va_end(args);
}
/* Rather a late one. */
static int some_array(const struct writing *w)
{
    int a = (int)dice((uint32_t)w->arrays), b = (int)dice((uint32_t)w->arrays);
    return a > b ? a : b;
}
static int some_number(const struct writing *w) { return (int)dice((uint32_t)w->numbers); }

static void put_node(struct writing *w)
{
    int a = some_array(w), b = some_array(w), s = some_number(w), out = w->arrays, half = w->size / 2;
    int at = (int)dice((uint32_t)half), other = (int)dice((uint32_t)half);
    switch (dice(13)) {
    case 0: put(w, "  %%a%d = tanh(%%a%d)\n", out, a); break;
    case 1: put(w, "  %%a%d = sub(%%a%d, %%a%d)\n", out, a, b); break;
    case 2: put(w, "  %%a%d = reverse {dims = [0]} (%%a%d)\n", out, a); break;
    case 3:
    case 4: put(w, "  %%a%d = scale(%%a%d, %%n%d)\n", out, a, s); break;
    case 5: put(w, "  %%a%d = shift(%%a%d)\n", out, a); break;
    case 6:
        put(w, "  %%n%d, %%a%d, %%a%d = both(%%a%d, %%a%d)\n", w->numbers++, out, out + 1, a, b);
        w->arrays++;
        break;
    case 7:
        put(w, "  %%a%d = ramp {views = [0, %d, 1, %d, 1, 0, %d, 1, %d, 1]} (%%a%d)\n", out, at, half, other,
            half, a);
        break;
    case 8:
        put(w, "  %%p%d = slice {start = [%d], limit = [%d]} (%%a%d)\n", out, half, w->size, a);
        put(w, "  %%q%d = slice {start = [0], limit = [%d]} (%%a%d)\n", out, half, b);
        put(w, "  %%a%d = concat {dim = 0} (%%p%d, %%q%d)\n", out, out, out);
        break;
    case 9:
        put(w, "  %%a%d = scan carry(%%c = %%a%d) over(%%b in %%bs) with(%%o = %%a%d) {\n", out, a, b);
        if (dice(2)) put(w, "    %%t = sub(%%c, %%o)\n    %%n = scale(%%t, %%b)\n");
        else put(w, "    %%t = scale(%%c, %%b)\n    %%n = scale(%%t, %%b)\n");
        put(w, "    next(%%n)\n  }\n");
        break;
    case 10:
        put(w, "  %%a%d = switch(%%p) [(%%x = %%a%d, %%s = %%n%d) {\n    %%y = neg(%%x)\n    yield(%%y)\n",
            out, a, s);
        put(w, "  }, (%%x = %%a%d, %%s = %%n%d) {\n    %%y = scale(%%x, %%s)\n    yield(%%y)\n  }]\n", a, s);
        break;
    case 11:
        put(w, "  %%u%d = slice {start = [%d], limit = [%d]} (%%a%d)\n", out, at, at + 3, b);
        put(w, "  %%a%d = dynamic_update(%%a%d, %%u%d, %%i)\n", out, a, out);
        break;
    default: put(w, "  %%a%d = invoke_subgraph @g(%%a%d, %%n%d)\n", out, a, s); break;
    }
    w->arrays++;
}

static void put_program(struct writing *w, uint32_t number)
{
    *w = (struct writing){ .size = number % 2 ? 40 : 700, .arrays = 2, .numbers = 1 };
    dice_state = number * 7919u + 1;
    bool updated = dice(2);
    int n = 2 + (int)dice(9), k = 1 + (int)dice(3);
    put(w, DECLARED "fn @g(%%x: f32[%d], %%b: f32[]) -> (f32[%d]) {\n", w->size, w->size);
    put(w, "  %%y = scale(%%x, %%b)\n  %%z = tanh(%%y)\n  %%w = scale(%%z, %%b)\n  return %%w\n}\n");
    put(w, "fn @f(%%a0: %sf32[%d], %%a1: f32[%d], %%n0: f32[], %%bs: f32[3], %%p: bool[], %%i: i64[]) -> (",
        updated ? "mut " : "", w->size, w->size);
    for (int r = 0; r < k; r++) put(w, "%sf32[%d]", r ? ", " : "", w->size);
    put(w, "%s) {\n", updated ? ", new %a0" : "");
    for (int i = 0; i < n; i++) put_node(w);
    put(w, "  return ");
    for (int r = 0; r < k; r++) put(w, "%s%%a%d", r ? ", " : "", some_array(w));
    put(w, updated ? ", %%a%d\n}\n" : "\n}\n", w->arrays - 1 - (int)dice(2));
}

static void check_random(void *ctx)
{
    struct writing w;
    uint32_t number = *(const uint32_t *)ctx;
    put_program(&w, number);
    struct module *m = text_read("random", w.text, w.n);
    hop_cleanup_push(module_free, m);
    char name[64];
    snprintf(name, sizeof name, "random program %u", number);
    int before = tests_failed;
    every_way(&(struct program){ .name = name }, m, module_find(m, "f"), number % 16 == 0);
    lower_procedures_everywhere(number % 4 == 1);
    if (number % 4 == 1) every_way(&(struct program){ .name = name }, m, module_find(m, "f"), false);
    lower_procedures_everywhere(false);
    if (tests_failed > before) printf("%s\n", w.text);
    hop_cleanup_pop(m);
    module_free(m);
}

static void check(void *ctx)
{
    const struct program *p = ctx;
    char text[4096];
    int n = snprintf(text, sizeof text, DECLARED "%s", p->text);
    struct module *m = text_read(p->name, text, (size_t)n);
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "f");
    every_way(p, m, fn, true);
    lower_procedures_everywhere(true);
    every_way(p, m, fn, false);
    lower_procedures_everywhere(false);
    struct lp *l = lower_and_plan(m, fn, &(struct pass_options){ .strict = true });
    hop_cleanup_push(lp_free, l);
    const char *note = l->copy_notes.len ? l->copy_notes.data[0] : "";
    CLAIM(l->n_copies == p->copies, "%s: expected %u copies, found %u: %s", p->name, p->copies, l->n_copies,
          note);
    CLAIM(!p->why || strstr(note, p->why), "%s: expected a note about '%s', found '%s'", p->name, p->why,
          note);
    hop_cleanup_pop(l);
    lp_free(l);
    hop_cleanup_pop(m);
    module_free(m);
}

int main(int argc, char **argv)
{
    for (uint32_t i = 0; i < HOP_COUNT(operators); i++)
        CLAIM(!hop_operator_register(&operators[i]), "%s", hop_message());
    for (uint32_t i = 0; i < HOP_COUNT(programs); i++) {
        if (argc > 1 && !strstr(programs[i].name, argv[1])) continue;
        hop_status s = attempt(check, (void *)&programs[i]);
        CLAIM(s == HOP_OK, "%s: %s", programs[i].name, hop_message());
    }
    uint32_t most = argc > 2 ? (uint32_t)atoi(argv[2]) : 120;
    for (uint32_t i = argc > 3 ? (uint32_t)atoi(argv[3]) : 0; i < most; i++) {
        if (argc == 2 && atoi(argv[1]) != (int)i) continue;
        hop_status status = attempt(check_random, &i);
        CLAIM(status == HOP_OK, "random program %u: %s", i, hop_message());
    }
    for (uint32_t i = 0; i < HOP_COUNT(operators); i++) {
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(operators[i].signature, "("),
                 operators[i].signature);
        CLAIM(!hop_operator_unregister(name), "%s", hop_message());
    }
    return tests_end();
}
