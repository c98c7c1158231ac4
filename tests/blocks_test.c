/* What is cut into blocks for threads: column sums beside what shares their visit, sums of everything,
 * running values, sorts, scatters, associative scans, steps of loops whose sizes are symbols. Each program
 * runs natively with 1, 2, 3, 7 and 16 threads, which must give the same bits, and once more compiled for
 * one; default numbers must be near the interpreter's on every back end, strict ones equal to them bit for
 * bit. */
#include "captured.h"
#include "loop/lower.h"

enum { ARGS = 4 };
struct blocks_case {
    const char *text;
    const char *types[ARGS]; /* of the arguments */
    int n_out;
    double most[ARGS]; /* integers lie in 0…most; 0: 9 */
};

static uint64_t state = 88172645463325252u;
static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) * 0x1p-53;
}

static int make_arguments(const struct blocks_case *c, hop_tensor **in)
{
    int n = 0;
    for (; n < ARGS && c->types[n]; n++) {
        CLAIM(!hop_tensor_new(&in[n], c->types[n]), "%s: %s", c->types[n], hop_message());
        double most = c->most[n] != 0 ? c->most[n] : 9;
        bool whole = !dtype_is_float(dtype_of(in[n]));
        for (int64_t k = 0; k < hop_tensor_count(in[n]); k++)
            set(in[n], k, whole ? floor(uniform() * (most + 1)) : 2 * uniform() - 1);
    }
    return n;
}

static void near_all(const struct blocks_case *c, const char *how, hop_tensor **want, hop_tensor **got)
{
    for (int k = 0; k < c->n_out; k++) {
        enum dtype t = dtype_of(want[k]);
        double tolerance = t == DT_F64 ? 1e-9 : t == DT_F32 ? 2e-4 : dtype_is_narrow(t) ? 3e-2 : 0;
        int64_t bad = -1;
        for (int64_t i = 0; i < hop_tensor_count(want[k]) && bad < 0; i++) {
            double a = get(want[k], i), b = get(got[k], i);
            bool near = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance * fmax(1, fabs(a));
            if (!near) bad = i;
        }
        CLAIM(bad < 0, "%s\n%s: element %lld of result %d is %.9g, expected %.9g", c->text, how,
              (long long)bad, k, get(got[k], bad < 0 ? 0 : bad), get(want[k], bad < 0 ? 0 : bad));
    }
}

static bool equal_bits(const struct blocks_case *c, hop_tensor **a, hop_tensor **b)
{
    bool equal = true;
    for (int k = 0; k < c->n_out; k++) {
        const struct tensor *x = (struct tensor *)a[k], *y = (struct tensor *)b[k];
        size_t bytes = (size_t)x->count * dtype_info[x->dtype].size;
        equal &= x->count == y->count && (!bytes || !memcmp(x->data, y->data, bytes));
    }
    return equal;
}

static int run_as(const struct blocks_case *c, hop_fn *f, const hop_compile_options *o, hop_tensor **in,
                  int n, hop_tensor **out)
{
    hop_exe *exe = NULL;
    hop_compile_options fresh = *o;
    fresh.no_cache = 1;
    int status = hop_compile(&exe, f, &fresh);
    if (!status) status = hop_run(exe, in, n, out, c->n_out);
    CLAIM(!status, "%s\n%s", c->text, hop_message());
    hop_exe_free(exe);
    return status;
}

static void check_threads(const struct blocks_case *c, hop_fn *f, hop_tensor **in, int n, hop_tensor **want)
{
    static const int counts[] = { 16, 7, 3, 2, 1 };
    hop_tensor *first[ARGS] = { 0 }, *again[ARGS] = { 0 };
    hop_exe *exe = NULL;
    if (run_as(c, f, &(hop_compile_options){ .threads = 1 }, in, n, first)) return;
    near_all(c, "native code", want, first);
    hop_set_threads(counts[0]);
    int status = hop_compile(&exe, f, &(hop_compile_options){ .no_cache = 1 });
    for (int k = 0; k < (int)HOP_COUNT(counts) && !status; k++) {
        hop_set_threads(counts[k]);
        status = hop_run(exe, in, n, again, c->n_out);
        bool equal = !status && equal_bits(c, first, again);
        CLAIM(equal, "%s\n%d threads give other bits than one", c->text, counts[k]);
        free_all(again, ARGS);
    }
    CLAIM(!status, "%s\n%s", c->text, hop_message());
    hop_exe_free(exe);
    hop_set_threads(0);
    free_all(first, ARGS);
}

static void check_case(const struct blocks_case *c)
{
    hop_fn *f = NULL;
    hop_tensor *in[ARGS] = { 0 }, *want[ARGS] = { 0 }, *got[ARGS] = { 0 };
    int status = hop_fn_read(&f, c->text, NULL);
    CLAIM(!status, "%s\n%s", c->text, hop_message());
    int n = make_arguments(c, in);
    if (!status) status = hop_interpret(f, in, n, want, c->n_out);
    CLAIM(!status, "%s\n%s", c->text, hop_message());
    for (int portable = 0; portable < 2 && !status; portable++) {
        if (!portable && !exe_available()) continue;
        if (!run_as(c, f, &(hop_compile_options){ .strict = 1, .portable = portable }, in, n, got))
            CLAIM(equal_bits(c, want, got), "%s\nstrict numbers differ, portable %d", c->text, portable);
        free_all(got, ARGS);
        hop_compile_options without = { .portable = portable, .without = portable ? "" : "parallel, fuse" };
        if (!run_as(c, f, &without, in, n, got)) near_all(c, portable ? "portable" : "without", want, got);
        free_all(got, ARGS);
    }
    if (!status && exe_available()) check_threads(c, f, in, n, want);
    free_all(in, ARGS);
    free_all(want, ARGS);
    hop_fn_free(f);
}

#define MAIN(params, results, body) "hop 1\nfn @main(" params ") -> (" results ") {\n" body "}\n"
#define SIZED(symbols, params, results, body) \
    "hop 1\nfn @main[" symbols "](" params ") -> (" results ") {\n" body "}\n"

static const struct blocks_case folds[] = {
    { MAIN("%x: f32[517, 160]", "f32[160], f32[517]",
           "  %s = sum {dims = [0]} (%x)\n  %m = reduce_max {dims = [1]} (%x)\n  return %s, %m\n"),
      { "f32[517, 160]" },
      2,
      { 0 } },
    { MAIN("%x: f32[517, 160]", "f32[160], f32[517, 160]",
           "  %m = reduce_max {dims = [1]} (%x)\n  %b = broadcast {dims = [517, 160], at = [0]} (%m)\n"
           "  %d = sub(%x, %b)\n  %e = exp(%d)\n  %s = sum {dims = [0]} (%e)\n  return %s, %e\n"),
      { "f32[517, 160]" },
      2,
      { 0 } },
    { MAIN("%x: f64[3, 5, 300, 40]", "f64[40], f64[300, 40]",
           "  %s = sum {dims = [0, 1, 2]} (%x)\n  %m = reduce_min {dims = [0, 1]} (%x)\n  return %s, %m\n"),
      { "f64[3, 5, 300, 40]" },
      2,
      { 0 } },
    { MAIN("%x: bf16[3000, 40]", "bf16[40], f32[40]",
           "  %s = sum {dims = [0]} (%x)\n  %m = sum {dims = [0], dtype = f32} (%x)\n  return %s, %m\n"),
      { "bf16[3000, 40]" },
      2,
      { 0 } },
    { SIZED("T", "%x: f32[T, 64], %y: f32[T]", "f32[64], f32[]",
            "  %s = sum {dims = [0]} (%x)\n  %t = sum(%y)\n  return %s, %t\n"),
      { "f32[2111, 64]", "f32[2111]" },
      2,
      { 0 } },
    { SIZED("T", "%x: f32[T, 64], %y: f32[T]", "f32[64], f32[]",
            "  %s = sum {dims = [0]} (%x)\n  %t = sum(%y)\n  return %s, %t\n"),
      { "f32[0, 64]", "f32[0]" },
      2,
      { 0 } },
    { MAIN("%x: i32[700, 300]", "i32[300], i32[], i32[700]",
           "  %s = sum {dims = [0]} (%x)\n  %t = sum(%x)\n  %p = prod {dims = [1]} (%x)\n"
           "  return %s, %t, %p\n"),
      { "i32[700, 300]" },
      3,
      { 0 } },
    { MAIN("%x: bool[900, 80]", "bool[80], bool[], bool[80]",
           "  %s = any {dims = [0]} (%x)\n  %t = all(%x)\n  %p = all {dims = [0]} (%x)\n"
           "  return %s, %t, %p\n"),
      { "bool[900, 80]" },
      3,
      { 1 } },
    { MAIN("%x: f32[3, 70001]", "f32[], f32[], f32[3]",
           "  %s = sum(%x)\n  %m = reduce_max(%x)\n  %r = sum {dims = [1]} (%x)\n  return %s, %m, %r\n"),
      { "f32[3, 70001]" },
      3,
      { 0 } },
    { MAIN("%x: f32[100003]", "f32[100003], f32[]",
           "  %m = reduce_max(%x)\n  %b = broadcast {dims = [100003], at = []} (%m)\n  %d = sub(%x, %b)\n"
           "  %e = exp(%d)\n  %s = sum(%e)\n  %c = broadcast {dims = [100003], at = []} (%s)\n"
           "  %r = div(%e, %c)\n  return %r, %s\n"),
      { "f32[100003]" },
      2,
      { 0 } },
    { MAIN("%x: f32[90000]", "f32[90000]",
           "  %e = exp(%x)\n  %r = reverse {dims = [0]} (%e)\n  %s = add(%e, %r)\n  return %s\n"),
      { "f32[90000]" },
      1,
      { 0 } },
    { MAIN("%x: f32[2, 3, 64, 96]", "f32[2, 3, 64, 96], f32[96]",
           "  %y = softmax {dims = [3]} (%x)\n  %s = sum {dims = [0, 1, 2]} (%y)\n  return %y, %s\n"),
      { "f32[2, 3, 64, 96]" },
      2,
      { 0 } },
    { MAIN("%x: f32[9, 30000]", "f32[30000], f32[30000]",
           "  %s = sum {dims = [0]} (%x)\n  %m = reduce_max {dims = [0]} (%x)\n  return %s, %m\n"),
      { "f32[9, 30000]" },
      2,
      { 0 } },
    { MAIN("%x: f32[70000, 3]", "f32[3]", "  %s = sum {dims = [0]} (%x)\n  return %s\n"),
      { "f32[70000, 3]" },
      1,
      { 0 } },
};

static const struct blocks_case positions[] = {
    { MAIN(
          "%x: i32[517, 160]", "i64[517], i64[160], i64[]",
          "  %r = argmax {dim = 1} (%x)\n  %c = argmin {dim = 0} (%x)\n  %f = reshape {dims = [82720]} (%x)\n"
          "  %w = argmax(%f)\n  return %r, %c, %w\n"),
      { "i32[517, 160]" },
      3,
      { 30 } },
    { MAIN("%x: f32[9000, 70]", "i64[70], f32[70], i64[9000]",
           "  %e = sin(%x)\n  %c = argmax {dim = 0} (%e)\n  %m = reduce_max {dims = [0]} (%e)\n"
           "  %r = argmin {dim = 1} (%e)\n  return %c, %m, %r\n"),
      { "f32[9000, 70]" },
      3,
      { 0 } },
    { SIZED("M, N", "%x: u8[M, N], %y: f64[N]", "i64[M], i64[N], i64[]",
            "  %r = argmin {dim = 1} (%x)\n  %c = argmax {dim = 0} (%x)\n  %w = argmax(%y)\n"
            "  return %r, %c, %w\n"),
      { "u8[700, 333]", "f64[333]" },
      3,
      { 0 } },
    { SIZED("N", "%y: bf16[N]", "i64[]", "  %w = argmax(%y)\n  return %w\n"), { "bf16[120000]" }, 1, { 0 } },
};

/* op and attributes, and the type of operand and result. */
#define RUNNING(op, attrs, type) \
    { MAIN("%x: " type, type, "  %y = " op attrs " (%x)\n  return %y\n"), { type }, 1, { 0 } }
#define LINEAR(attrs, type) \
    { MAIN("%a: " type ", %b: " type, type, "  %y = recurrence" attrs " (%a, %b)\n  return %y\n"), \
      { type, type }, \
      1, \
      { 0 } }
static const struct blocks_case running[] = {
    RUNNING("cumsum", "", "f64[100003]"),
    RUNNING("cumsum", "", "f32[33000]"),
    RUNNING("cumsum", " {reverse}", "f64[70001]"),
    RUNNING("cumsum", "", "i32[70000]"),
    RUNNING("cumprod", " {reverse}", "f32[70001]"),
    RUNNING("cumprod", "", "i64[70001]"),
    RUNNING("cummax", "", "f32[50021]"),
    RUNNING("cummin", " {reverse}", "i32[50021]"),
    RUNNING("cummax", "", "u64[50021]"),
    RUNNING("cumsum", "", "bf16[40003]"),
    RUNNING("cumsum", "", "f32[200, 701]"),
    RUNNING("cumsum", " {reverse}", "f32[300, 130]"),
    RUNNING("cumsum", "", "bf16[50, 2000]"),
    RUNNING("cumsum", "", "f32[9000, 16]"),
    RUNNING("cumsum", " {dim = 1}", "f32[2, 200, 300]"),
    RUNNING("cumsum", " {dim = 2}", "f32[2, 70, 300]"),
    RUNNING("cummax", " {dim = 2, reverse}", "f64[3, 5, 4000]"),
    RUNNING("cumsum", " {dim = 1}", "f32[1, 40000]"),
    RUNNING("cummax", " {dim = 2, reverse}", "i32[1, 1, 40000, 1]"),
    LINEAR(" {dim = 1}", "f64[1, 40000, 1]"),
    LINEAR("", "f32[100003]"),
    LINEAR(" {reverse}", "f64[70001]"),
    LINEAR(" {late}", "f64[70001]"),
    LINEAR(" {reverse, late}", "f32[70001]"),
    LINEAR("", "i32[70001]"),
    LINEAR("", "f32[300, 701]"),
    LINEAR(" {dim = 1, late}", "f32[3, 300, 200]"),
    { SIZED("T", "%x: f32[T], %y: f32[T, 300]", "f32[T], f32[T, 300]",
            "  %c = cumsum(%x)\n  %d = cumsum(%y)\n  return %c, %d\n"),
      { "f32[3301]", "f32[3301, 300]" },
      2,
      { 0 } },
    { SIZED("T", "%x: f32[T], %y: f32[T, 300]", "f32[T], f32[T, 300]",
            "  %c = cumsum(%x)\n  %d = cumsum(%y)\n  return %c, %d\n"),
      { "f32[0]", "f32[0, 300]" },
      2,
      { 0 } },
    { SIZED("T", "%x: f32[T], %y: f32[T, 300]", "f32[T], f32[T, 300]",
            "  %c = cumsum(%x)\n  %d = cumsum(%y)\n  return %c, %d\n"),
      { "f32[1]", "f32[1, 300]" },
      2,
      { 0 } },
};

#define LINEAR_SCAN(attrs, type) \
    MAIN("%a: " type ", %b: " type, type ", " type, \
         "  %p, %q = associative_scan" attrs " over((%a0, %a1) in %a, (%b0, %b1) in %b) {\n" \
         "    %p = mul(%a0, %a1)\n    %s = mul(%a1, %b0)\n    %q = add(%s, %b1)\n    next(%p, %q)\n  }\n" \
         "  return %p, %q\n")
static const struct blocks_case scans[] = {
    { LINEAR_SCAN("", "f32[5001, 16]"), { "f32[5001, 16]", "f32[5001, 16]" }, 2, { 0 } },
    { LINEAR_SCAN(" {reverse}", "f64[5000, 4, 5]"), { "f64[5000, 4, 5]", "f64[5000, 4, 5]" }, 2, { 0 } },
    { LINEAR_SCAN("", "f32[300, 700]"), { "f32[300, 700]", "f32[300, 700]" }, 2, { 0 } },
    { LINEAR_SCAN(" {reverse}", "f32[300, 5, 100]"), { "f32[300, 5, 100]", "f32[300, 5, 100]" }, 2, { 0 } },
    { LINEAR_SCAN(" {dim = 1}", "f32[3, 3000, 16]"), { "f32[3, 3000, 16]", "f32[3, 3000, 16]" }, 2, { 0 } },
    { MAIN("%a: f32[7000, 12], %b: f32[7000, 12], %w: f32[12], %c: f32[]", "f32[7000, 12]",
           "  %p, %q = associative_scan over((%a0, %a1) in %a, (%b0, %b1) in %b) with(%v = %w, %u = %c) {\n"
           "    %p = mul(%a0, %a1)\n    %s = mul(%a1, %b0)\n    %q = add(%s, %b1)\n    %t = mul(%q, %v)\n"
           "    %z = div(%t, %v)\n    %y = broadcast {dims = [12], at = []} (%u)\n    %x = sub(%z, %y)\n"
           "    %r = add(%x, %y)\n    next(%p, %r)\n  }\n"
           "  return %q\n"),
      { "f32[7000, 12]", "f32[7000, 12]", "f32[12]", "f32[]" },
      1,
      { 0 } },
    { SIZED("T", "%x: i32[T, 33]", "i32[T, 33]",
            "  %y = associative_scan over((%l, %r) in %x) {\n    %m = max(%l, %r)\n    next(%m)\n  }\n"
            "  return %y\n"),
      { "i32[4001, 33]" },
      1,
      { 1e6 } },
    { SIZED("T", "%x: i32[T, 33]", "i32[T, 33]",
            "  %y = associative_scan over((%l, %r) in %x) {\n    %m = max(%l, %r)\n    next(%m)\n  }\n"
            "  return %y\n"),
      { "i32[0, 33]" },
      1,
      { 1e6 } },
    { SIZED("T", "%x: f32[T, 500]", "f32[T, 500]",
            "  %y = associative_scan over((%l, %r) in %x) {\n    %m = min(%l, %r)\n    next(%m)\n  }\n"
            "  return %y\n"),
      { "f32[0, 500]" },
      1,
      { 0 } },
};

#define SORTED(attrs, type, places) \
    { MAIN("%x: " type, type ", " places, "  %v, %i = sort" attrs " (%x)\n  return %v, %i\n"), \
      { type }, \
      2, \
      { 99 } }
static const struct blocks_case sorts[] = {
    SORTED("", "f32[20011]", "i64[20011]"),
    SORTED(" {descending}", "i32[20000]", "i64[20000]"),
    SORTED("", "u8[16384]", "i64[16384]"),
    SORTED("", "f64[16385]", "i64[16385]"),
    SORTED(" {dim = 1}", "f32[130, 200]", "i64[130, 200]"),
    SORTED(" {dim = 1, descending}", "i32[3, 500, 21]", "i64[3, 500, 21]"),
    SORTED("", "bf16[300, 70]", "i64[300, 70]"),
    { MAIN("%x: f32[30000]", "f32[30000]", "  %v, %i = sort(%x)\n  return %v\n"),
      { "f32[30000]" },
      1,
      { 0 } },
    { SIZED("N, T", "%x: f32[N, T]", "f32[N, T], i64[N, T]",
            "  %v, %i = sort {dim = 1} (%x)\n  return %v, %i\n"),
      { "f32[70, 300]" },
      2,
      { 0 } },
    { SIZED("N, T", "%x: f32[N, T]", "f32[N, T], i64[N, T]",
            "  %v, %i = sort {dim = 1} (%x)\n  return %v, %i\n"),
      { "f32[0, 300]" },
      2,
      { 0 } },
    { SIZED("N, T", "%x: f32[N, T]", "f32[N, T], i64[N, T]",
            "  %v, %i = sort {dim = 1} (%x)\n  return %v, %i\n"),
      { "f32[7, 0]" },
      2,
      { 0 } },
};

/* Updates that meet at the same places, some of them outside. */
#define SCATTERED(attrs, x, i, u) \
    { MAIN("%x: " x ", %i: " i ", %u: " u, x, "  %y = scatter" attrs " (%x, %i, %u)\n  return %y\n"), \
      { x, i, u }, \
      1, \
      { 9, 110, 9 } }
#define AFFINE(attrs, x, i, u) \
    { MAIN("%x: " x ", %i: " i ", %a: " u ", %b: " u, x ", " u, \
           "  %y, %z = scatter_affine" attrs " (%x, %i, %a, %b)\n  return %y, %z\n"), \
      { x, i, u, u }, \
      2, \
      { 9, 110, 9, 9 } }
#define SIZED_SCATTER \
    SIZED("T, D", "%x: f32[100, D], %i: i64[T], %u: f32[T, D]", "f32[100, D]", \
          "  %y = scatter(%x, %i, %u)\n  return %y\n")
#define SIZED_HISTOGRAM \
    SIZED("T", "%x: f32[100], %i: i64[T], %u: f32[T]", "f32[100]", \
          "  %y = scatter(%x, %i, %u)\n  return %y\n")
static const struct blocks_case scatters[] = {
    SCATTERED("", "f32[101, 80]", "i64[1000]", "f32[1000, 80]"),
    SCATTERED(" {mode = set}", "f32[101, 80]", "i32[1000]", "f32[1000, 80]"),
    SCATTERED(" {mode = mul}", "f64[101, 80]", "i64[1000]", "f64[1000, 80]"),
    SCATTERED(" {mode = min}", "i32[101, 80]", "i64[1000]", "i32[1000, 80]"),
    SCATTERED(" {mode = max}", "bf16[101, 80]", "i64[1000]", "bf16[1000, 80]"),
    SCATTERED("", "f32[2003, 80]", "i64[1000]", "f32[1000, 80]"),
    SCATTERED("", "f32[100, 8, 32]", "i64[20, 17]", "f32[20, 17, 8, 32]"),
    SCATTERED("", "f32[103, 1100]", "i64[70]", "f32[70, 1100]"),
    SCATTERED(" {mode = set}", "i8[103, 7000]", "i64[33]", "i8[33, 7000]"),
    SCATTERED("", "f32[103, 40, 128]", "i64[20]", "f32[20, 40, 128]"),
    SCATTERED(" {dims = [1]}", "f32[64, 101]", "i64[1200]", "f32[64, 1200]"),
    SCATTERED(" {dims = [1], mode = set}", "f32[3, 101, 70]", "i64[400]", "f32[3, 400, 70]"),
    SCATTERED(" {dims = [2]}", "f32[5, 50, 101]", "i64[300]", "f32[5, 50, 300]"),
    AFFINE("", "f32[101, 80]", "i64[1000]", "f32[1000, 80]"),
    AFFINE("", "f64[103, 1100]", "i64[70]", "f64[70, 1100]"),
    AFFINE(" {dims = [1]}", "i32[64, 101]", "i64[1200]", "i32[64, 1200]"),
    { MAIN("%x: f32[200, 50], %j: i64[200, 400], %u: f32[200, 400]", "f32[200, 50]",
           "  %i = iota {dims = [200, 400]}\n  %y = scatter(%x, %i, %j, %u)\n  return %y\n"),
      { "f32[200, 50]", "i64[200, 400]", "f32[200, 400]" },
      1,
      { 0, 60 } },
    { MAIN("%x: f32[50, 300], %j: i64[200, 300], %u: f32[200, 300]", "f32[50, 300]",
           "  %i = iota {dims = [200, 300], dim = 1}\n  %y = scatter {dims = [1, 0]} (%x, %i, %j, %u)\n"
           "  return %y\n"),
      { "f32[50, 300]", "i64[200, 300]", "f32[200, 300]" },
      1,
      { 0, 60 } },
    { MAIN("%x: f32[300, 50], %j: i64[300, 300], %u: f32[300, 300]", "f32[300, 50]",
           "  %i = iota {dims = [300, 300], dtype = u8}\n  %y = scatter {mode = set} (%x, %i, %j, %u)\n"
           "  return %y\n"),
      { "f32[300, 50]", "i64[300, 300]", "f32[300, 300]" },
      1,
      { 0, 60 } },
    { MAIN("%x: f32[30, 40, 64], %i: i64[1100], %j: i32[1100], %u: f32[1100, 64]", "f32[30, 40, 64]",
           "  %y = scatter(%x, %i, %j, %u)\n  return %y\n"),
      { "f32[30, 40, 64]", "i64[1100]", "i32[1100]", "f32[1100, 64]" },
      1,
      { 0, 32, 41 } },
    SCATTERED("", "f32[100]", "i64[40003]", "f32[40003]"), /* histograms */
    SCATTERED("", "i32[100]", "i64[40003]", "i32[40003]"),
    SCATTERED("", "f64[100, 3]", "i64[3, 5000]", "f64[3, 5000, 3]"),
    SCATTERED("", "u8[100]", "i32[40003]", "u8[40003]"),
    SCATTERED("", "bf16[100]", "i32[40003]", "bf16[40003]"),
    { SIZED_HISTOGRAM, { "f32[100]", "i64[40003]", "f32[40003]" }, 1, { 0, 110 } },
    { SIZED_HISTOGRAM, { "f32[100]", "i64[5]", "f32[5]" }, 1, { 0, 110 } },
    { SIZED_HISTOGRAM, { "f32[100]", "i64[0]", "f32[0]" }, 1, { 0, 110 } },
    { SIZED_SCATTER, { "f32[100, 200]", "i64[700]", "f32[700, 200]" }, 1, { 0, 110 } },
    { SIZED_SCATTER, { "f32[100, 5]", "i64[40]", "f32[40, 5]" }, 1, { 0, 110 } },
    { SIZED_SCATTER, { "f32[100, 5]", "i64[0]", "f32[0, 5]" }, 1, { 0, 110 } },
    { SIZED_SCATTER, { "f32[100, 0]", "i64[9]", "f32[9, 0]" }, 1, { 0, 110 } },
    SCATTERED("", "f32[2003, 3, 100]", "i64[400]", "f32[400, 3, 100]"),
};

enum { FIRST_HISTOGRAM = 20 };

static void scatters_explained(void)
{
    static const char *const how[] = { [0] = "scatter, in pieces of a dim",
                                       [10] = "scatter, in pieces of a dim",
                                       [FIRST_HISTOGRAM] = "scatter, in blocks of updates",
                                       [FIRST_HISTOGRAM + 5] = "scatter, in blocks of updates",
                                       [HOP_COUNT(scatters) - 1] = "scatter, in ranges of what is written" };
    for (uint32_t k = 0; k < HOP_COUNT(how); k++) {
        hop_fn *f = NULL;
        char *text = NULL;
        if (!how[k]) continue;
        int status = hop_fn_read(&f, scatters[k].text, NULL);
        if (!status) status = hop_explain(&text, f, &(hop_compile_options){ .portable = 1 }, NULL);
        CLAIM(!status && strstr(text, how[k]), "expected '%s' in:\n%s", how[k], text ? text : hop_message());
        hop_text_free(text);
        hop_fn_free(f);
    }
}

/* Loops whose steps are worth threads or not, which only a run tells: stencils and histories whose carries
 * take turns, folds and softmax of rows, parts that are written, rows of a map. */
#define STENCIL \
    "    %r = roll {dims = [0], shifts = [1]} (%c)\n    %q = roll {dims = [1], shifts = [-1]} (%c)\n" \
    "    %a = add(%r, %q)\n    %h = full {value = 0.3, dims = [N, N], dtype = f32}\n" \
    "    %b = mul(%a, %h)\n    %e = sub(%b, %c)\n    %n = sin(%e)\n"
#define LOOPED(text) \
    { text, { "f32[300, 300]" }, 1, { 0 } }, { text, { "f32[5, 5]" }, 1, { 0 } }, \
    { \
        text, { "f32[1, 1]" }, 1, { 0 } \
    }
#define SQUARE(body) SIZED("N", "%u: f32[N, N]", "f32[N, N]", body)
static const struct blocks_case loops[] = {
    LOOPED(SQUARE("  %l = scan {length = 3} carry(%c = %u) {\n" STENCIL "    next(%n)\n  }\n  return %l\n")),
    LOOPED(SQUARE("  %l, %m = scan {length = 4} carry(%d = %u, %c = %u) {\n" STENCIL
                  "    %s = sub(%n, %d)\n    next(%c, %s)\n  }\n  %t = add(%l, %m)\n  return %t\n")),
    LOOPED(
        SQUARE("  %o = neg(%u)\n  %l, %m, %k = scan {length = 5} carry(%d = %u, %c = %o, %f = %u) {\n" STENCIL
               "    next(%c, %f, %n)\n  }\n  %t = add(%l, %m)\n  %s = sub(%t, %k)\n  return %s\n")),
    LOOPED(SQUARE("  %z = full {value = 0, dims = [], dtype = i64}\n"
                  "  %l, %k = while_loop carry(%c = %u, %i = %z) cond {\n"
                  "    %most = full {value = 3, dims = [], dtype = i64}\n"
                  "    %large = full {value = 1000.0, dims = [], dtype = f32}\n    %s = sum(%c)\n"
                  "    %p = lt(%i, %most)\n    %q = lt(%s, %large)\n    %t = and(%p, %q)\n    test(%t)\n"
                  "  } body {\n" STENCIL "    %one = full {value = 1, dims = [], dtype = i64}\n"
                  "    %j = add(%i, %one)\n    next(%n, %j)\n  }\n  return %l\n")),
    LOOPED(SQUARE("  %l = scan {length = 3} carry(%c = %u) {\n    %s = softmax {dims = [1]} (%c)\n"
                  "    %t = sum {dims = [0]} (%s)\n    %b = broadcast {dims = [N, N], at = [1]} (%t)\n"
                  "    %m = sum(%s)\n    %k = broadcast {dims = [N, N], at = []} (%m)\n"
                  "    %d = sub(%c, %b)\n    %o = div(%d, %k)\n    next(%o)\n  }\n  return %l\n")),
    LOOPED(SQUARE("  %l = scan {length = 3} carry(%c = %u) {\n    %g = map over(%r in %c) {\n"
                  "      %s = sum(%r)\n      %b = broadcast {dims = [N], at = []} (%s)\n"
                  "      %t = tanh(%b)\n      %y = sub(%r, %t)\n      stack(%y)\n    }\n    next(%g)\n  }\n"
                  "  return %l\n")),
};

static void loops_explained(void)
{
    static const char *const expected[] = { "on threads", "carries of a loop, in turns" };
    hop_fn *f = NULL;
    char *text = NULL;
    int status = hop_fn_read(&f, loops[0].text, NULL);
    if (!status) status = hop_explain(&text, f, &(hop_compile_options){ .portable = 1 }, NULL);
    for (uint32_t k = 0; k < HOP_COUNT(expected); k++)
        CLAIM(!status && strstr(text, expected[k]), "expected '%s' in:\n%s", expected[k],
              text ? text : hop_message());
    hop_text_free(text);
    hop_fn_free(f);
}

/* Sums that overflow, and factors that would on the way from one end of a block to the other. */
static const struct blocks_case overflowing[] = {
    { MAIN("%x: f32[40000]", "f32[40000]",
           "  %c = full {value = 3e38, dims = [40000], dtype = f32}\n  %z = mul(%x, %c)\n"
           "  %y = cumsum(%z)\n  return %y\n"),
      { "f32[40000]" },
      1,
      { 0 } },
    { MAIN("%x: f32[40000]", "f32[40000]",
           "  %c = full {value = 1.5, dims = [40000], dtype = f32}\n  %a = add(%x, %c)\n"
           "  %y = recurrence(%a, %x)\n  return %y\n"),
      { "f32[40000]" },
      1,
      { 0 } },
    { MAIN("%x: f32[40000]", "f32[40000]",
           "  %c = full {value = 0.5, dims = [40000], dtype = f32}\n  %a = mul(%x, %c)\n  %l = log(%x)\n"
           "  %y = recurrence(%a, %l)\n  return %y\n"),
      { "f32[40000]" },
      1,
      { 0 } },
};

int main(void)
{
    for (uint32_t k = 0; k < HOP_COUNT(folds); k++) check_case(&folds[k]);
    for (uint32_t k = 0; k < HOP_COUNT(sorts); k++) check_case(&sorts[k]);
    for (uint32_t k = 0; k < HOP_COUNT(loops); k++) check_case(&loops[k]);
    loops_explained();
    lower_blocks_early(true);
    for (uint32_t k = 0; k < HOP_COUNT(overflowing); k++) check_case(&overflowing[k]);
    for (uint32_t k = 0; k < HOP_COUNT(running); k++) check_case(&running[k]);
    for (uint32_t k = 0; k < HOP_COUNT(scans); k++) check_case(&scans[k]);
    for (uint32_t k = 0; k < HOP_COUNT(scatters); k++) check_case(&scatters[k]);
    scatters_explained();
    lower_blocks_early(false);
    for (uint32_t k = 0; k < HOP_COUNT(positions); k++) check_case(&positions[k]);
    return tests_end();
}
