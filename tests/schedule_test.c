/* Schedules: whatever the gradient of a loop keeps and whatever it computes again, it is the same gradient.
 * Each program is written once with a hole for the attributes of its loop; every schedule is held against the
 * loop without one: by bits where the arithmetic is the same, on every back end, differentiated again,
 * batched, for lengths from 0 on. Then what a schedule is for: memory, steps run again, effects that happen
 * once, code that does not grow. */
#include "check.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "runtime/exe.h"
#include "transform/transform.h"

#include <math.h>

enum { MOST_ARGS = 8, MOST_RESULTS = 24, LANES = 3 };

/* ---- programs ---- */

struct program {
    const char *name, *text; /* %s: the attributes of its loop, in braces or empty; comes twice at most */
    const char *wrt;         /* parameters to differentiate by */
};

static const char scan_text[] =
    "hop 1\n"
    "fn @main[T](%%h: f64[2], %%k: f64[], %%xs: f64[T, 2], %%w: f64[2]) -> (f64[]) {\n"
    "  %%c, %%d, %%ys = scan %s carry(%%s = %%h, %%e = %%k) over(%%x in %%xs) with(%%v = %%w) {\n"
    "    %%p = broadcast {dims = [2], at = []} (%%e)\n"
    "    %%a = mul(%%s, %%v)\n"
    "    %%b = add(%%a, %%x)\n"
    "    %%n = sin(%%b)\n"
    "    %%y = mul(%%n, %%p)\n"
    "    next(%%n, %%e) stack(%%y)\n"
    "  }\n"
    "  %%t = sum(%%ys)\n"
    "  %%u = sum(%%c)\n"
    "  %%r = add(%%t, %%u)\n"
    "  %%q = mul(%%r, %%d)\n"
    "  return %%q\n"
    "}\n";
static const char backwards_text[] =
    "hop 1\n"
    "fn @main[T](%%h: f64[2], %%k: f64[], %%xs: f64[T, 2], %%w: f64[2]) -> (f64[]) {\n"
    "  %%c, %%d = scan %s carry(%%s = %%h, %%e = %%k) over(%%x in %%xs) with(%%v = %%w) {\n"
    "    %%p = broadcast {dims = [2], at = []} (%%e)\n"
    "    %%a = mul(%%s, %%v)\n"
    "    %%b = mul(%%a, %%x)\n"
    "    %%n = sin(%%b)\n"
    "    %%o = add(%%n, %%p)\n"
    "    %%m = sum(%%o)\n"
    "    %%f = sin(%%m)\n"
    "    next(%%o, %%f)\n"
    "  }\n"
    "  %%u = sum(%%c)\n"
    "  %%q = mul(%%u, %%d)\n"
    "  return %%q\n"
    "}\n";
static const char while_text[] = "hop 1\n"
                                 "fn @main(%%x: f64[2], %%w: f64[2], %%n: i64[]) -> (f64[]) {\n"
                                 "  %%k, %%y = while_loop %s carry(%%i = %%n, %%c = %%x) cond {\n"
                                 "    %%zero = full {value = 0, dims = [], dtype = i64}\n"
                                 "    %%t = gt(%%i, %%zero)\n"
                                 "    test(%%t)\n"
                                 "  } body with(%%v = %%w) {\n"
                                 "    %%one = full {value = 1, dims = [], dtype = i64}\n"
                                 "    %%j = sub(%%i, %%one)\n"
                                 "    %%m = mul(%%c, %%v)\n"
                                 "    %%d = sin(%%m)\n"
                                 "    next(%%j, %%d)\n"
                                 "  }\n"
                                 "  %%q = mul(%%y, %%y)\n"
                                 "  %%s = sum(%%q)\n"
                                 "  return %%s\n"
                                 "}\n";
static const char fori_text[] =
    "hop 1\n"
    "fn @main(%%x: f64[2], %%w: f64[2], %%n: i64[]) -> (f64[]) {\n"
    "  %%a = full {value = -1, dims = [], dtype = i64}\n"
    "  %%one = full {value = 1, dims = [], dtype = i64}\n"
    "  %%b = sub(%%n, %%one)\n"
    "  %%y = fori_loop %s carry(%%c = %%x) from(%%i = %%a) to(%%b) with(%%v = %%w) {\n"
    "    %%t = cast {dtype = f64} (%%i)\n"
    "    %%s = broadcast {dims = [2], at = []} (%%t)\n"
    "    %%p = add(%%c, %%s)\n"
    "    %%m = mul(%%p, %%v)\n"
    "    %%d = sin(%%m)\n"
    "    next(%%d)\n"
    "  }\n"
    "  %%q = mul(%%y, %%y)\n"
    "  %%s = sum(%%q)\n"
    "  return %%s\n"
    "}\n";
static const char nested_text[] =
    "hop 1\n"
    "fn @main[T](%%h: f64[2], %%xs: f64[T, 2], %%w: f64[2]) -> (f64[]) {\n"
    "  %%c = scan %s carry(%%s = %%h) over(%%x in %%xs) with(%%v = %%w, %%all = %%xs) {\n"
    "    %%e = scan %s carry(%%f = %%s) over(%%z in %%all) with(%%v, %%x) {\n"
    "      %%a = mul(%%f, %%v)\n"
    "      %%b = add(%%a, %%z)\n"
    "      %%g = add(%%b, %%x)\n"
    "      %%n = sin(%%g)\n"
    "      next(%%n)\n"
    "    }\n"
    "    %%m = mul(%%e, %%s)\n"
    "    next(%%m)\n"
    "  }\n"
    "  %%u = sum(%%c)\n"
    "  return %%u\n"
    "}\n";
static const char noise_text[] = "hop 1\n"
                                 "fn @main[T](%%h: f64[2], %%keys: u32[T, 2], %%w: f64[2]) -> (f64[]) {\n"
                                 "  %%c = scan %s carry(%%s = %%h) over(%%key in %%keys) with(%%v = %%w) {\n"
                                 "    %%r = random_uniform {dims = [2], dtype = f64} (%%key)\n"
                                 "    %%a = mul(%%s, %%v)\n"
                                 "    %%b = add(%%a, %%r)\n"
                                 "    %%n = tanh(%%b)\n"
                                 "    next(%%n)\n"
                                 "  }\n"
                                 "  %%u = sum(%%c)\n"
                                 "  return %%u\n"
                                 "}\n";
static const struct program programs[] = {
    { "scan", scan_text, "h k xs w" },   { "scan without stacks", backwards_text, "h k xs w" },
    { "while", while_text, "x w" },      { "fori", fori_text, "x w" },
    { "nested", nested_text, "h xs w" }, { "noise", noise_text, "h w" },
};
struct way {
    const char *attrs;
    bool bits; /* the arithmetic is that without a schedule: blocks add up sums of their own */
};
static const struct way ways[] = {
    { "{schedule = none}", true },
    { "{schedule = recompute}", true },
    { "{every = [1]}", true },
    { "{every = [2]}", false },
    { "{every = [3]}", false },
    { "{every = [4, 2]}", false },
    { "{every = [100]}", false },
    { "{schedule = sqrt}", false },
    { "{schedule = binomial, snapshots = 1}", true },
    { "{schedule = binomial, snapshots = 2}", true },
    { "{schedule = binomial, snapshots = 3}", true },
    { "{schedule = binomial, snapshots = 50}", true },
};

static struct module *read_program(const char *text, const char *attrs)
{
    char full[4096];
    int n = snprintf(full, sizeof full, text, attrs, attrs);
    return text_read("program", full, (size_t)n);
}

static const bool *wrt_of(struct module *m, const struct fn *f, const char *names)
{
    bool *wrt = ARENA_ZNEW(&m->arena, bool, f->n_params);
    for (uint32_t p = 0; p < f->n_params; p++) {
        char padded[64], list[64];
        snprintf(padded, sizeof padded, " %s ", module_text(m, f->values[p].name));
        snprintf(list, sizeof list, " %s ", names);
        wrt[p] = strstr(list, padded) != NULL;
    }
    return wrt;
}

/* ---- values ---- */

static uint64_t random_state;
static double uniform(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) * 0x1p-53 * 2 - 1;
}

/* Arguments like f's parameters; symbols and integers are `length`. */
static void make_args(struct module *m, const struct fn *f, int64_t length, struct tensor **args)
{
    int64_t symbols[8];
    for (uint32_t k = 0; k < 8; k++) symbols[k] = length;
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(m, value_type(f, p));
        int64_t dims[MAX_RANK];
        for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_eval(m, t.dims[i], symbols);
        args[p] = tensor_new((enum dtype)t.dtype, t.rank, dims);
        for (int64_t i = 0; i < args[p]->count; i++) {
            if (t.dtype == DT_F64) ((double *)args[p]->data)[i] = 1.5 * uniform();
            if (t.dtype == DT_I64) ((int64_t *)args[p]->data)[i] = length;
            if (t.dtype == DT_U32) ((uint32_t *)args[p]->data)[i] = (uint32_t)(1e6 * (uniform() + 1));
        }
    }
}
static void drop(struct tensor **t, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) tensor_free(t[k]), t[k] = NULL;
}

static void interpret(struct module *m, uint32_t fn, struct tensor **args, struct tensor **out)
{
    struct interp in = { .m = m };
    memset(out, 0, MOST_RESULTS * sizeof *out);
    interp_run(&in, fn, args, NULL, out);
}
static bool compile_and_run(struct module *m, uint32_t fn, bool strict, struct tensor **args,
                            struct tensor **out)
{
    memset(out, 0, MOST_RESULTS * sizeof *out);
    if (!exe_available()) return false;
    struct exe *e = exe_compile(
        m, fn, &(struct compile_options){ .passes.strict = strict, .threads = 1, .no_cache = true }, NULL);
    exe_run(e, args, NULL, out, NULL);
    exe_free(e);
    return true;
}

static double worst(const struct tensor *a, const struct tensor *b)
{
    double found = a->count == b->count ? 0 : INFINITY, most = 1;
    for (int64_t i = 0; i < b->count; i++) most = fmax(most, fabs(((const double *)b->data)[i]));
    for (int64_t i = 0; i < a->count && a->count == b->count; i++) {
        double d = fabs(((const double *)a->data)[i] - ((const double *)b->data)[i]) / most;
        if (!(d <= found)) found = d;
    }
    return found;
}
static bool same_bits(const struct tensor *a, const struct tensor *b)
{
    return a->count == b->count &&
           (!a->count || !memcmp(a->data, b->data, (size_t)a->count * dtype_info[a->dtype].size));
}

/* ---- the same gradient ---- */

static void compare(const char *what, const struct program *p, const char *attrs, int64_t length,
                    struct tensor **found, struct tensor **expected, uint32_t n, double within)
{
    for (uint32_t k = 0; k < n; k++) {
        bool good = within == 0 ? same_bits(found[k], expected[k]) : worst(found[k], expected[k]) <= within;
        CLAIM(good, "%s %s, %lld steps, %s: result %u is off by %g", p->name, attrs, (long long)length, what,
              k, worst(found[k], expected[k]));
    }
}

static void one_length(const struct program *p, const struct way *way, int64_t length, bool more)
{
    struct module *plain = read_program(p->text, ""), *m = read_program(p->text, way->attrs);
    struct tensor *args[MOST_ARGS] = { 0 }, *expected[MOST_RESULTS], *found[MOST_RESULTS];
    uint32_t f0 = module_find(plain, "main"), f = module_find(m, "main");
    const bool *wrt0 = wrt_of(plain, module_fn(plain, f0), p->wrt), *wrt = wrt_of(m, module_fn(m, f), p->wrt);
    uint32_t g0 = grad_function(plain, f0, wrt0, true), g = grad_function(m, f, wrt, true),
             n_args = module_fn(m, f)->n_params, n = module_fn(m, g)->n_results;
    random_state = 7 + (uint64_t)length;
    make_args(m, module_fn(m, f), length, args);
    interpret(plain, g0, args, expected);
    interpret(m, g, args, found);
    compare("gradient", p, way->attrs, length, found, expected, n, way->bits ? 0 : 1e-13);
    struct tensor *native[MOST_RESULTS];
    if (more && compile_and_run(m, g, true, args, native)) {
        compare("strict code", p, way->attrs, length, native, found, n, 0);
        drop(native, n);
        compile_and_run(m, g, false, args, native);
        compare("default code", p, way->attrs, length, native, found, n, 1e-11);
        drop(native, n);
    }
    drop(expected, n), drop(found, n);
    if (more) { /* by reverse mode again */
        uint32_t v0 = vjp_function(plain, g0, wrt0), v = vjp_function(m, g, wrt),
                 n_ct = module_fn(m, v)->n_params - n_args, n2 = module_fn(m, v)->n_results;
        struct tensor *twice[MOST_ARGS + MOST_RESULTS];
        memcpy(twice, args, sizeof args);
        interpret(m, g, args, found);
        for (uint32_t k = 0; k < n_ct; k++) { /* cotangents are like the results */
            twice[n_args + k] = found[k];
            for (int64_t i = 0; i < found[k]->count; i++) ((double *)found[k]->data)[i] = uniform();
        }
        struct tensor *second[MOST_RESULTS], *second0[MOST_RESULTS];
        interpret(plain, v0, twice, second0);
        interpret(m, v, twice, second);
        compare("second derivative", p, way->attrs, length, second, second0, n2, 1e-10);
        drop(second, n2), drop(second0, n2), drop(found, n);
    }
    drop(args, n_args);
    module_free(plain);
    module_free(m);
}

/* Lanes that differ in everything, the number of trips too. */
static void lanes(const struct program *p, const struct way *way)
{
    struct module *m = read_program(p->text, way->attrs);
    uint32_t f = module_find(m, "main"), g = grad_function(m, f, wrt_of(m, module_fn(m, f), p->wrt), true);
    const struct fn *fn = module_fn(m, g);
    bool batched[MOST_ARGS], force[MOST_RESULTS], found_batched[MOST_RESULTS];
    memset(batched, true, sizeof batched), memset(force, true, sizeof force);
    uint32_t b = batch_function(m, g, batched, LANES, force, false, found_batched), n_args = fn->n_params,
             n = fn->n_results;
    struct tensor *args[LANES][MOST_ARGS], *all[MOST_ARGS], *out[LANES][MOST_RESULTS],
        *together[MOST_RESULTS];
    random_state = 99;
    for (int l = 0; l < LANES; l++) {
        make_args(m, module_fn(m, f), 4, args[l]);
        for (uint32_t k = 0; k < n_args; k++)
            if (args[l][k]->dtype == DT_I64) *(int64_t *)args[l][k]->data = 5 * l - 2;
        interpret(m, g, args[l], out[l]);
    }
    for (uint32_t k = 0; k < n_args; k++) {
        int64_t dims[MAX_RANK] = { LANES };
        size_t bytes = (size_t)args[0][k]->count * dtype_info[args[0][k]->dtype].size;
        memcpy(dims + 1, args[0][k]->dims, args[0][k]->rank * sizeof *dims);
        all[k] = tensor_new((enum dtype)args[0][k]->dtype, args[0][k]->rank + 1u, dims);
        for (int l = 0; l < LANES; l++)
            memcpy((char *)all[k]->data + (size_t)l * bytes, args[l][k]->data, bytes);
    }
    interpret(m, b, all, together);
    for (uint32_t k = 0; k < n; k++)
        for (int l = 0; l < LANES; l++) {
            struct tensor row = *together[k];
            row.count /= LANES;
            row.data = (double *)row.data + l * row.count;
            CLAIM(worst(&row, out[l][k]) <= 1e-12, "%s %s, batched: lane %d of result %u is off by %g",
                  p->name, way->attrs, l, k, worst(&row, out[l][k]));
        }
    for (int l = 0; l < LANES; l++) drop(args[l], n_args), drop(out[l], n);
    drop(all, n_args), drop(together, n);
    module_free(m);
}

static void same_gradients(void *ctx)
{
#ifdef __SANITIZE_ADDRESS__
    static const int64_t lengths[] = { 0, 7 }; /* the plain build compares them all */
#else
    static const int64_t lengths[] = { 0, 1, 2, 3, 7 };
#endif
    (void)ctx;
    for (size_t p = 0; p < HOP_COUNT(programs); p++)
        for (size_t w = 0; w < HOP_COUNT(ways); w++) {
            for (size_t l = 0; l < HOP_COUNT(lengths); l++)
                one_length(&programs[p], &ways[w], lengths[l], lengths[l] == 0 || lengths[l] == 7);
            lanes(&programs[p], &ways[w]);
        }
    for (size_t w = 0; w < HOP_COUNT(ways); w++)
        for (size_t p = 0; p < 4; p++)
            if (p || w != 8) one_length(&programs[p], &ways[w], 200, false);
    one_length(&programs[0], &ways[10], 1000, false);
}

/* ---- what a schedule is for ---- */

static const char wide_text[] = "hop 1\n"
                                "fn @main[T](%%h: f64[64], %%xs: f64[T]) -> (f64[]) {\n"
                                "  %%c = scan %s carry(%%s = %%h) over(%%x in %%xs) {\n"
                                "    %%p = broadcast {dims = [64], at = []} (%%x)\n"
                                "    %%a = mul(%%s, %%p)\n"
                                "    %%n = sin(%%a)\n"
                                "    next(%%n)\n"
                                "  }\n"
                                "  %%u = sum(%%c)\n"
                                "  return %%u\n"
                                "}\n";

static size_t workspace(const char *attrs, int64_t length)
{
    struct module *m = read_program(wide_text, attrs);
    uint32_t f = module_find(m, "main"), g = grad_function(m, f, wrt_of(m, module_fn(m, f), "h"), false);
    struct exe *e = exe_compile(m, g, &(struct compile_options){ .threads = 1, .no_cache = true }, NULL);
    struct tensor *args[MOST_ARGS];
    make_args(m, module_fn(m, f), length, args);
    size_t bytes = exe_workspace(e, args, NULL);
    drop(args, 2);
    exe_free(e);
    module_free(m);
    return bytes;
}

static void memory(void *ctx)
{
    enum { CARRY = 64 * 8, STEPS = 10000 };
    (void)ctx;
    if (!exe_available()) return;
    static const struct {
        const char *attrs;
        size_t rows;
    } most[] = {
        { "", STEPS + 8 },
        { "{schedule = sqrt}", 100 + 100 + 64 },
        { "{every = [50]}", STEPS / 50 + 50 + 64 },
        { "{every = [500, 20]}", STEPS / 500 + 500 / 20 + 20 + 64 },
        { "{schedule = binomial, snapshots = 10}", 10 + 8 },
        { "{schedule = binomial, snapshots = 30}", 30 + 8 },
    };
    for (size_t i = 0; i < HOP_COUNT(most); i++) {
        size_t bytes = workspace(most[i].attrs, STEPS);
        CLAIM(bytes <= most[i].rows * CARRY,
              "the gradient of %d steps %s needs %zu bytes, expected at most %zu", STEPS, most[i].attrs,
              bytes, most[i].rows * CARRY);
    }
    CLAIM(workspace("{schedule = binomial, snapshots = 10}", STEPS) ==
              workspace("{schedule = binomial, snapshots = 10}", 100 * STEPS),
          "snapshots grow with the number of steps");
}

/* Nodes evaluated by the gradient, whose step has `extra` more nodes: run for two numbers of them the
 * difference counts steps. */
static uint64_t evaluated(uint32_t snapshots, int64_t length, int extra)
{
    char text[2048];
    int n = snprintf(text, sizeof text,
                     "hop 1\nfn @main[T](%%h: f64[], %%xs: f64[T]) -> (f64[]) {\n  %%c = scan {schedule = "
                     "binomial, snapshots = %u} carry(%%s = %%h) over(%%x in %%xs) {\n"
                     "    %%e0 = sin(%%s)\n",
                     snapshots);
    for (int i = 0; i < extra; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "    %%e%d = neg(%%e%d)\n", i + 1, i);
    n += snprintf(text + n, sizeof text - (size_t)n,
                  "    %%a = mul(%%e%d, %%x)\n    next(%%a)\n  }\n  return %%c\n}\n", extra);
    struct module *m = text_read("program", text, (size_t)n);
    uint32_t f = module_find(m, "main"), g = grad_function(m, f, wrt_of(m, module_fn(m, f), "h"), false);
    struct tensor *args[MOST_ARGS], *out[MOST_RESULTS] = { 0 };
    make_args(m, module_fn(m, f), length, args);
    struct interp in = { .m = m };
    interp_run(&in, g, args, NULL, out);
    drop(args, 2), drop(out, 1);
    module_free(m);
    return in.steps;
}

/* The fewest steps run again to go back over l steps with s rows: by trying every place for the next
 * snapshot. */
static uint64_t fewest(uint32_t l, uint32_t s)
{
    static uint64_t known[64][64];
    if (l <= 1) return 0;
    if (s == 1) return (uint64_t)l * (l - 1) / 2;
    if (known[l][s]) return known[l][s];
    uint64_t best = UINT64_MAX;
    for (uint32_t first = 1; first < l; first++) {
        uint64_t steps = first + fewest(l - first, s - 1) + fewest(first, s);
        if (steps < best) best = steps;
    }
    return known[l][s] = best;
}

static void steps_again(void *ctx)
{
    (void)ctx;
    for (uint32_t s = 1; s <= 6; s++)
        for (uint32_t l = 1; l < 60; l += l < 8 ? 1 : 13) {
            /* a node more in the step: once a step forward, once a step that is run again, and as often per
             * step of the way back whatever s is */
            uint64_t with = evaluated(s, l, 2) - evaluated(s, l, 1),
                     all = evaluated(l, l, 2) - evaluated(l, l, 1);
            uint64_t again = fewest(l, s), least = fewest(l, l);
            CLAIM(with - all == again - least,
                  "%u steps with %u snapshots: %llu steps more than with %u, expected %llu", l, s,
                  (unsigned long long)(with - all), l, (unsigned long long)(again - least));
        }
}

struct lines {
    uint32_t n;
};
static void count_line(void *ctx, const char *line, size_t length)
{
    (void)line, (void)length;
    ((struct lines *)ctx)->n++;
}

/* What a step prints is printed once, whatever is run again. */
static void effects(void *ctx)
{
    static const char text[] =
        "hop 1\n"
        "fn @main[T](%%h: f64[], %%xs: f64[T], %%n: i64[]) -> (f64[]) effects(check, io) {\n"
        "  %%c = scan %s carry(%%s = %%h) over(%%x in %%xs) {\n"
        "    %%a = mul(%%s, %%x)\n"
        "    %%b = sin(%%a)\n"
        "    %%finite = isfinite(%%b)\n"
        "    check {message = \"not finite\"} (%%finite)\n"
        "    print {format = \"{}\"} (%%b)\n"
        "    next(%%b)\n"
        "  }\n"
        "  %%k, %%d = while_loop %s carry(%%i = %%n, %%s = %%c) cond {\n"
        "    %%zero = full {value = 0, dims = [], dtype = i64}\n"
        "    %%t = gt(%%i, %%zero)\n"
        "    test(%%t)\n"
        "  } body {\n"
        "    %%one = full {value = 1, dims = [], dtype = i64}\n"
        "    %%j = sub(%%i, %%one)\n"
        "    %%b = sin(%%s)\n"
        "    print {format = \"{}\"} (%%b)\n"
        "    next(%%j, %%b)\n"
        "  }\n"
        "  return %%d\n"
        "}\n";
    (void)ctx;
    for (size_t w = 0; w < HOP_COUNT(ways); w++) {
        struct module *m = read_program(text, ways[w].attrs);
        uint32_t f = module_find(m, "main"),
                 g = grad_function(m, f, wrt_of(m, module_fn(m, f), "h xs"), true);
        struct tensor *args[MOST_ARGS], *out[MOST_RESULTS] = { 0 };
        make_args(m, module_fn(m, f), 7, args);
        struct lines lines = { 0 };
        struct interp in = { .m = m, .print = count_line, .print_ctx = &lines };
        interp_run(&in, g, args, NULL, out);
        CLAIM(lines.n == 14, "%s: the gradient prints %u lines, expected 14", ways[w].attrs, lines.n);
        drop(out, 3);
        if (exe_available()) {
            lines.n = 0;
            struct exe *e = exe_compile(m, g, &(struct compile_options){ .no_cache = true }, NULL);
            exe_run(e, args, NULL, out, &(struct exe_call){ .print = count_line, .print_ctx = &lines });
            CLAIM(lines.n == 14, "%s: the compiled gradient prints %u lines, expected 14", ways[w].attrs,
                  lines.n);
            exe_free(e);
            drop(out, 3);
        }
        drop(args, 3);
        module_free(m);
    }
}

static uint32_t nodes_below(const struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t n = f->n_nodes;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        for (uint32_t r = 0; r < fn_node(f, i)->n_regions; r++)
            n += nodes_below(m, node_region(f, fn_node(f, i), r)->fn);
    return n;
}

/* Neither nodes nor code depend on the number of trips. */
static void constant_size(void *ctx)
{
    (void)ctx;
    for (size_t w = 0; w < HOP_COUNT(ways); w++) {
        uint32_t nodes[2];
        size_t code[2] = { 0, 0 };
        for (int large = 0; large < 2; large++) {
            char text[2048];
            int n = snprintf(text, sizeof text,
                             "hop 1\nfn @main(%%h: f64[8], %%w: f64[8]) -> (f64[]) {\n  %%c = scan {length = "
                             "%d%s%.*s} carry(%%s = %%h) over() with(%%v = %%w) {\n"
                             "    %%a = mul(%%s, %%v)\n    %%n = sin(%%a)\n    next(%%n)\n  }\n  %%u = "
                             "sum(%%c)\n  return %%u\n}\n",
                             large ? 1000000 : 100, ", ", (int)strlen(ways[w].attrs) - 2, ways[w].attrs + 1);
            struct module *m = text_read("program", text, (size_t)n);
            uint32_t f = module_find(m, "main"),
                     g = grad_function(m, f, wrt_of(m, module_fn(m, f), "h w"), false);
            nodes[large] = nodes_below(m, g);
            if (exe_available()) {
                struct compile_report report = { 0 };
                exe_free(
                    exe_compile(m, g, &(struct compile_options){ .threads = 1, .no_cache = true }, &report));
                code[large] = report.code_bytes;
            }
            module_free(m);
        }
        bool blocks = strstr(ways[w].attrs, "every") ||
                      strstr(ways[w].attrs, "sqrt"); /* a rest is code of its own, and is there or not */
        CLAIM(nodes[0] == nodes[1] || (blocks && nodes[1] < 3 * nodes[0]),
              "%s: %u nodes for 100 steps, %u for a million", ways[w].attrs, nodes[0], nodes[1]);
        CLAIM(code[1] <= code[0] + code[0] / 4 || blocks,
              "%s: %zu bytes of code for 100 steps, %zu for a million", ways[w].attrs, code[0], code[1]);
    }
}

/* Bytes a step that the gradient keeps beside what is there anyway; *once: of what is kept once. */
static int64_t kept_bytes(const char *text, const char *attrs, const char *wrt, int64_t *once)
{
    struct module *m = read_program(text, attrs);
    uint32_t f = module_find(m, "main");
    int64_t bytes = 0;
    *once = 0;
    grad_function(m, f, wrt_of(m, module_fn(m, f), wrt), false);
    const struct saved_list *l = saved_last(m);
    for (uint32_t i = 0; i < l->values.len; i++) {
        const struct saved_value *v = &l->values.data[i];
        if (!v->there && v->by->flags & OPF_HIGHER)
            *(v->rows != HOP_NONE ? &bytes : once) += dim_const_value(m, type_elements(m, v->type)) *
                                                      dtype_info[type_get(m, v->type).dtype].size;
    }
    module_free(m);
    return bytes;
}

/* No more is kept than the mathematics asks for. */
static void kept(void *ctx)
{
    static const char rnn[] =
        "hop 1\nfn @main[T](%%h: f32[64], %%xs: f32[T, 64], %%w: f32[64, 64]) -> (f32[]) {\n  %%l, %%hs = "
        "scan carry(%%c = %%h) over(%%x in %%xs) with(%%w) {\n    %%a = matmul(%%c, %%w)\n"
        "    %%b = add(%%a, %%x)\n    %%n = tanh(%%b)\n    next(%%n) stack(%%n)\n  }\n  %%s = sum(%%hs)\n  "
        "return %%s\n}\n";
    static const char last_only[] =
        "hop 1\nfn @main[T](%%h: f32[64], %%xs: f32[T, 64], %%w: f32[64, 64]) -> (f32[]) {\n  %%l = scan "
        "carry(%%c = %%h) over(%%x in %%xs) with(%%w) {\n    %%a = matmul(%%c, %%w)\n"
        "    %%b = add(%%a, %%x)\n    %%n = tanh(%%b)\n    next(%%n)\n  }\n  %%s = sum(%%l)\n  return "
        "%%s\n}\n";
    static const char invariant[] =
        "hop 1\nfn @main[T](%%h: f32[8], %%xs: f32[T, 8], %%w: f32[8]) -> (f32[]) {\n  %%l = scan carry(%%c "
        "= %%h) over(%%x in %%xs) with(%%w) {\n    %%e = exp(%%w)\n    %%a = mul(%%c, %%e)\n"
        "    %%b = add(%%a, %%x)\n    next(%%b)\n  }\n  %%s = sum(%%l)\n  return %%s\n}\n";
    static const char tagged[] =
        "hop 1\nfn @main[T](%%h: f64[4], %%xs: f64[T, 4]) -> (f64[]) {\n  %%l = scan carry(%%c = %%h) "
        "over(%%x in %%xs) {\n    %%a = mul(%%c, %%x)\n    %%e = exp(%%a)\n    %%t = %s (%%e)\n"
        "    %%s = sin(%%t)\n    next(%%s)\n  }\n  %%s = sum(%%l)\n  return %%s\n}\n";
    static const char branches[] =
        "hop 1\nfn @main(%%p: bool[], %%x: f32[8], %%w: f32[8]) -> (f32[]) {\n  %%r = switch%s(%%p) [(%%x, "
        "%%w) {\n    %%e = exp(%%x)\n    %%a = sin(%%e)\n    %%b = mul(%%a, %%w)\n    %%c = tanh(%%b)\n"
        "    yield(%%c)\n  }, (%%x, %%w) {\n    %%e = erf(%%x)\n    %%a = log(%%e)\n    %%b = mul(%%a, "
        "%%w)\n    %%c = exp(%%b)\n    yield(%%c)\n  }]\n  %%s = sum(%%r)\n  return %%s\n}\n";
    int64_t once, bytes;
    (void)ctx;
    bytes = kept_bytes(branches, "", "x w", &once);
    CLAIM(!bytes && once == 96,
          "a choice keeps %lld bytes, not its result and two arrays in memory that its branches share",
          (long long)once);
    bytes = kept_bytes(branches, " {recompute} ", "x w", &once);
    CLAIM(!bytes && once == 32, "a choice that computes its branch again keeps %lld bytes, not its result",
          (long long)once);
    CLAIM(kept_bytes(rnn, "", "w", &once) == 0 && !once,
          "the gradient of an rnn that stacks its h keeps something else too");
    CLAIM((bytes = kept_bytes(last_only, "", "w", &once)) == 64 * 4 && !once,
          "the gradient of an rnn keeps %lld bytes a step, not its h", (long long)bytes);
    CLAIM((bytes = kept_bytes(invariant, "", "h", &once)) == 0 && once == 32,
          "what no step changes is kept %lld bytes a step, %lld once", (long long)bytes, (long long)once);
    CLAIM((bytes = kept_bytes(tagged, "tag {gradient = keep}", "h", &once)) == 32,
          "a value to keep: %lld bytes a step", (long long)bytes);
    CLAIM((bytes = kept_bytes(tagged, "tag {gradient = recompute}", "h", &once)) == 32,
          "a value to compute again, its carry kept: %lld bytes a step", (long long)bytes);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*body)(void *);
    } parts[] = {
        { "same gradients", same_gradients }, { "memory", memory },
        { "steps again", steps_again },       { "effects", effects },
        { "constant size", constant_size },   { "kept", kept },
    };
    for (size_t i = 0; i < HOP_COUNT(parts); i++)
        CLAIM(!attempt(parts[i].body, NULL), "%s: %s", parts[i].name, hop_message());
    return tests_end();
}
