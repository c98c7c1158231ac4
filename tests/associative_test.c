/* The gradient of associative_scan has two forms: a scan from the last row to the first, and recurrences over
 * whole arrays. Every program here is differentiated by both, once and twice, batched before and after, for
 * lengths from 0 on, run by the interpreter and compiled: the same numbers up to rounding. Then which form is
 * taken by itself, what a linear recurrence must give by its formula, and that memory grows with the arrays
 * and no faster. */
#include "check.h"
#include "hops/associative.h"
#include "ir/text.h"
#include "runtime/exe.h"

#include <math.h>

enum { MOST = 24, LANES = 3 };

/* ---- programs ---- */

struct program {
    const char *name, *text;
    uint32_t wrt; /* bit per parameter */
    bool affine;  /* both forms exist */
    bool chosen;  /* the affine one is taken by itself */
};

#define PAIR(dims, attributes) \
    "hop 1\nfn @main(%a: f64[" dims "], %b: f64[" dims "]) -> (f64[" dims "], f64[" dims "]) {\n" \
    "  %p, %q = associative_scan " attributes " over((%a0, %a1) in %a, (%b0, %b1) in %b) {\n" \
    "    %p = mul(%a0, %a1)\n    %s = mul(%a1, %b0)\n    %q = add(%s, %b1)\n    next(%p, %q)\n  }\n  " \
    "return %p, %q\n}\n"
#define COMPLEX(dims, attributes) \
    "hop 1\nfn @main(%a: f64[" dims "], %b: f64[" dims "]) -> (f64[" dims "], f64[" dims "]) {\n" \
    "  %p, %q = associative_scan " attributes " over((%a0, %a1) in %a, (%b0, %b1) in %b) {\n" \
    "    %x = mul(%a0, %a1)\n    %y = mul(%b0, %b1)\n    %p = sub(%x, %y)\n    %z = mul(%a0, %b1)\n    %w " \
    "= mul(%b0, %a1)\n    %q = add(%z, %w)\n" \
    "    next(%p, %q)\n  }\n  return %p, %q\n}\n"
#define CHAIN(dims, attributes) \
    "hop 1\nfn @main(%a: f64[" dims "], %b: f64[" dims "], %c: f64[" dims "]) -> (f64[" dims "]) {\n" \
    "  %p, %h, %g = associative_scan " attributes \
    " over((%a0, %a1) in %a, (%b0, %b1) in %b, (%c0, %c1) in %c) {\n" \
    "    %p = mul(%a0, %a1)\n    %s = mul(%a1, %b0)\n    %h = add(%s, %b1)\n    %t = sin(%c0)\n    %u = " \
    "mul(%a1, %t)\n    %v = mul(%b0, %c1)\n    %g = add(%u, %v)\n" \
    "    next(%p, %h, %g)\n  }\n  return %g\n}\n"
#define OWN(dims, slice, attributes) \
    "hop 1\nfn @main(%x: f64[" dims "], %w: f64[" slice "], %k: f64[]) -> (f64[" dims "]) {\n" \
    "  %y = associative_scan " attributes " over((%l, %r) in %x) with(%v = %w, %k) {\n" \
    "    %q = broadcast {dims = [" slice \
    "], at = []} (%k)\n    %m = mul(%l, %v)\n    %n = mul(%m, %q)\n    %e = exp(%n)\n    %s = mul(%e, " \
    "%r)\n    next(%s)\n  }\n  return %y\n}\n"

static const struct program programs[] = {
    { "a recurrence", PAIR("T", ""), 3, true, true },
    { "a recurrence of one column", PAIR("T, 1", ""), 3, true, true },
    { "a recurrence of columns", PAIR("T, 3", ""), 3, true, false },
    { "a recurrence of rows", PAIR("2, T", "{dim = 1}"), 3, true, true },
    { "a recurrence of one row", PAIR("1, T, 2", "{dim = 1}"), 3, true, false },
    { "a recurrence in the middle, from the end", PAIR("2, T, 3", "{dim = 1, reverse}"), 3, true, true },
    { "a recurrence by its terms alone", PAIR("T", "{reverse}"), 2, true, true },
    { "a recurrence by its factors alone", PAIR("T", ""), 1, true, true },
    { "complex products", COMPLEX("T", ""), 3, true, false },
    { "complex products of one column", COMPLEX("T, 1", ""), 3, true, true },
    { "complex products of rows", COMPLEX("2, T", "{dim = 1}"), 3, true, true },
    { "complex products in the middle, from the end", COMPLEX("2, T, 2", "{dim = 1, reverse}"), 3, true,
      true },
    { "complex products by one part", COMPLEX("T", "{reverse}"), 2, true, false },
    { "a chain", CHAIN("T", ""), 7, true, true },
    { "a chain from the end", CHAIN("T, 2", "{reverse}"), 7, true, false },
    { "a chain of rows by its first link", CHAIN("2, T", "{dim = 1}"), 2, true, true },
    { "captured numbers", OWN("T", "", ""), 7, true, true },
    { "captured rows", OWN("2, T, 3", "2, 3", "{dim = 1, reverse}"), 7, true, true },
    { "captured values alone", OWN("T, 2", "2", ""), 6, true, false },
    { "an integer beside",
      "hop 1\nfn @main(%x: f64[2, T], %i: i64[2, T]) -> (f64[2, T], i64[2, T]) {\n"
      "  %y, %j = associative_scan {dim = 1} over((%a, %b) in %x, (%k, %l) in %i) {\n"
      "    %later = gt(%b, %a)\n    %m = select(%later, %b, %a)\n    %at = select(%later, %l, %k)\n    "
      "next(%m, %at)\n  }\n  return %y, %j\n}\n",
      1, true, true },
    { "a check inside",
      "hop 1\nfn @main(%x: f64[T]) -> (f64[T]) {\n"
      "  %y = associative_scan over((%l, %r) in %x) {\n"
      "    %big = full {value = 1000, dims = [], dtype = f64}\n    %small = lt(%l, %big)\n    check {message "
      "= \"small\"} (%small, %l)\n"
      "    %s = sin(%l)\n    %m = mul(%s, %r)\n    next(%m)\n  }\n  return %y\n}\n",
      1, true, true },
    { "matrices",
      "hop 1\nfn @main(%x: f64[T, 2, 2]) -> (f64[T, 2, 2]) {\n"
      "  %y = associative_scan over((%l, %r) in %x) {\n    %m = matmul(%l, %r)\n    next(%m)\n  }\n  return "
      "%y\n}\n",
      1, false, false },
    { "slices of several shapes",
      "hop 1\nfn @main(%x: f64[T, 2], %y: f64[T]) -> (f64[T, 2], f64[T]) {\n"
      "  %p, %q = associative_scan over((%a, %b) in %x, (%c, %d) in %y) {\n"
      "    %e = broadcast {dims = [2], at = []} (%c)\n    %f = mul(%a, %b)\n    %g = mul(%f, %e)\n    %h = "
      "mul(%c, %d)\n    next(%g, %h)\n  }\n  return %p, %q\n}\n",
      3, false, false },
};

/* ---- making and running ---- */

static uint32_t count_nodes(const struct module *m, const struct fn *f, enum op op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *x = fn_node(f, i);
        n += x->op == op;
        for (uint32_t r = 0; r < x->n_regions; r++)
            n += count_nodes(m, module_fn(m, node_region(f, x, r)->fn), op);
    }
    return n;
}

enum variant { ONCE, TWICE, LANES_OF_GRADIENT, GRADIENT_OF_LANES, VARIANTS };
static const char *const variant_names[] = { "the gradient", "its gradient", "its lanes",
                                             "the gradient of lanes" };

static uint32_t make(struct module *m, const struct program *p, enum variant v)
{
    uint32_t fn = module_find(m, "main");
    bool wrt[MOST], batched[MOST], result_batched[MOST];
    const struct fn *f = module_fn(m, fn);
    for (uint32_t k = 0; k < MOST; k++) wrt[k] = k < f->n_params && p->wrt >> k & 1, batched[k] = true;
    if (v == GRADIENT_OF_LANES) fn = batch_function(m, fn, batched, LANES, batched, false, result_batched);
    fn = vjp_function(m, fn, wrt);
    f = module_fn(m, fn);
    if (v == TWICE) {
        for (uint32_t k = 0; k < f->n_params; k++)
            wrt[k] = dtype_is_float((enum dtype)type_get(m, value_type(f, k)).dtype);
        fn = vjp_function(m, fn, wrt);
    }
    return v == LANES_OF_GRADIENT ? batch_function(m, fn, batched, LANES, batched, false, result_batched)
                                  : fn;
}

static double drawn(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) / 16777216.0 * 2.5 - 1.25;
}

static void draw_arguments(const struct module *m, const struct fn *f, int64_t length, struct tensor **args)
{
    uint32_t state = 12345;
    int64_t symbols[8], dims[MAX_RANK];
    for (uint32_t k = 0; k < 8; k++) symbols[k] = length;
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(m, value_type(f, p));
        for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_eval(m, t.dims[d], symbols);
        args[p] = tensor_new((enum dtype)t.dtype, t.rank, dims);
        for (int64_t i = 0; i < args[p]->count; i++) {
            if (t.dtype == DT_F64) ((double *)args[p]->data)[i] = drawn(&state);
            else ((int64_t *)args[p]->data)[i] = i % 7;
        }
    }
}

static void free_tensors(struct tensor **t, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) tensor_free(t[k]), t[k] = NULL;
}

static double distance(const struct tensor *a, const struct tensor *b)
{
    double worst = 0, size = 1;
    if (a->dtype != DT_F64)
        return a->count ? memcmp(a->data, b->data, (size_t)a->count * dtype_info[a->dtype].size) != 0 : 0;
    for (int64_t i = 0; i < a->count; i++) size = fmax(size, fabs(((double *)a->data)[i]));
    for (int64_t i = 0; i < a->count; i++) {
        double d = fabs(((double *)a->data)[i] - ((double *)b->data)[i]);
        worst = isnan(d) ? INFINITY : fmax(worst, d);
    }
    return worst / size;
}

struct ways {
    const struct program *p;
    enum variant v;
};
/* Interpreted and compiled (strict, default), by both forms, against the sequential form interpreted. */
static void compare_forms(void *ctx)
{
#ifdef __SANITIZE_ADDRESS__
    static const int64_t lengths[] = { 1, 6 }; /* the plain build compares them all */
#else
    static const int64_t lengths[] = { 0, 1, 2, 3, 6 };
#endif
    const struct ways *w = ctx;
    struct module *m[2];
    const struct fn *f[2];
    struct exe *exe[2][2];
    for (int form = 0; form < 2; form++) {
        associative_form = form ? FORM_AFFINE : FORM_SEQUENTIAL;
        m[form] = text_read("program", w->p->text, strlen(w->p->text));
        f[form] = module_fn(m[form], make(m[form], w->p, w->v));
        for (int strict = 0; strict < 2; strict++)
            exe[form][strict] = exe_compile(m[form], f[form]->id,
                                            &(struct compile_options){ .threads = 2,
                                                                       .passes = { .strict = strict } },
                                            NULL);
    }
    associative_form = FORM_BY_COST;
    uint32_t loops = count_nodes(m[1], f[1], OP_scan);
    CLAIM(count_nodes(m[0], f[0], OP_scan) > 0, "%s: the sequential form of %s has no scan", w->p->name,
          variant_names[w->v]);
    CLAIM(!loops == w->p->affine, "%s: the affine form of %s has %u scans", w->p->name, variant_names[w->v],
          loops);
    for (size_t l = 0; l < HOP_COUNT(lengths); l++) {
        struct tensor *args[MOST] = { 0 }, *want[MOST] = { 0 };
        struct interp in = { .m = m[0] };
        draw_arguments(m[0], f[0], lengths[l], args);
        interp_run(&in, f[0]->id, args, NULL, want);
        for (int way = 1; way < 6; way++) { /* way % 3: interpreted, default, strict */
            struct tensor *found[MOST] = { 0 };
            struct interp other = { .m = m[way / 3] };
            if (way % 3) exe_run(exe[way / 3][way % 3 - 1], args, NULL, found, NULL);
            else interp_run(&other, f[way / 3]->id, args, NULL, found);
            for (uint32_t r = 0; r < f[0]->n_results; r++) {
                double d = distance(want[r], found[r]);
                CLAIM(d < 1e-11, "%s, %s, length %d, %s form, %s: result %u is off by %g", w->p->name,
                      variant_names[w->v], (int)lengths[l], way / 3 ? "affine" : "sequential",
                      way % 3 ? "compiled" : "interpreted", r, d);
            }
            free_tensors(found, MOST);
        }
        free_tensors(want, MOST);
        free_tensors(args, MOST);
    }
    for (int k = 0; k < 4; k++) exe_free(exe[k / 2][k % 2]);
    for (int form = 0; form < 2; form++) module_free(m[form]);
}

/* ---- which form is taken ---- */

static void choice(void *ctx)
{
    const struct program *p = ctx;
    struct module *m = text_read("program", p->text, strlen(p->text));
    uint32_t loops = count_nodes(m, module_fn(m, make(m, p, ONCE)), OP_scan);
    CLAIM(!loops == p->chosen, "%s: expected the %s form", p->name, p->chosen ? "affine" : "sequential");
    module_free(m);
}

/* ---- a formula ----
 * h_t = a h_{t-1} + 1 = (1 - aᵗ⁺¹)/(1 - a) from h_0 = 1; of the sum of all h the slope by b_t is (1 -
 * aᵀ⁻ᵗ)/(1 - a), by a_t that times h_{t-1}. */
static void formula(void *ctx)
{
    enum { LONGEST = 1001 };
    static const int lengths[] = { 1, 2, 4, 5, 8, 9, 64, LONGEST };
    static const char text[] = "hop 1\nfn @main(%a: f64[T], %b: f64[T]) -> (f64[]) {\n"
                               "  %p, %q = associative_scan over((%a0, %a1) in %a, (%b0, %b1) in %b) {\n"
                               "    %p = mul(%a0, %a1)\n    %s = mul(%a1, %b0)\n    %q = add(%s, %b1)\n    "
                               "next(%p, %q)\n  }\n  %t = sum(%q)\n  return %t\n}\n";
    (void)ctx;
    for (int form = FORM_SEQUENTIAL; form <= FORM_AFFINE; form++) {
        associative_form = (enum associative_form)form;
        struct module *m = text_read("formula", text, sizeof text - 1);
        struct exe *e = exe_compile(m,
                                    grad_function(m, module_find(m, "main"), (const bool[]){ true, true },
                                                  true),
                                    &(struct compile_options){ .threads = 2 }, NULL);
        associative_form = FORM_BY_COST;
        for (size_t l = 0; l < HOP_COUNT(lengths); l++) {
            int64_t n = lengths[l];
            double a = 0.875, sum = 0, worst = 0;
            struct tensor *args[2] = { tensor_new(DT_F64, 1, &n), tensor_new(DT_F64, 1, &n) },
                          *found[3] = { 0 };
            for (int64_t t = 0; t < n; t++)
                ((double *)args[0]->data)[t] = a, ((double *)args[1]->data)[t] = 1;
            exe_run(e, args, NULL, found, NULL);
            for (int64_t t = 0; t < n; t++) {
                double before = t ? (1 - pow(a, (double)t)) / (1 - a) : 0,
                       by_b = (1 - pow(a, (double)(n - t))) / (1 - a);
                sum += (1 - pow(a, (double)t + 1)) / (1 - a);
                worst = fmax(worst, fabs(((double *)found[1]->data)[t] - before * by_b));
                worst = fmax(worst, fabs(((double *)found[2]->data)[t] - by_b));
            }
            CLAIM(worst < 1e-12, "a linear recurrence of length %d: slopes are off by %g", (int)n, worst);
            CLAIM(fabs(*(double *)found[0]->data - sum) < 1e-10 * sum,
                  "a linear recurrence of length %d: the sum is %.17g, not %.17g", (int)n,
                  *(double *)found[0]->data, sum);
            free_tensors(found, 3);
            free_tensors(args, 2);
        }
        exe_free(e);
        module_free(m);
    }
}

/* ---- memory ----
 * What the gradient needs besides its arguments and results is a few arrays like them, whatever the length.
 */
static void memory(void *ctx)
{
    const struct program *p = ctx;
    for (int form = FORM_SEQUENTIAL; form <= FORM_AFFINE; form++) {
        associative_form = (enum associative_form)form;
        struct module *m = text_read("program", p->text, strlen(p->text));
        const struct fn *f = module_fn(m, make(m, p, ONCE));
        struct exe *e = exe_compile(m, f->id, &(struct compile_options){ .threads = 1 }, NULL);
        associative_form = FORM_BY_COST;
        size_t room[2], bytes = 0;
        for (int twice = 0; twice < 2; twice++) {
            struct tensor *args[MOST] = { 0 };
            draw_arguments(m, f, 4096 << twice, args);
            for (uint32_t k = 0; k < f->n_params; k++) bytes += twice ? tensor_bytes(args[k]) : 0;
            room[twice] = exe_workspace(e, args, NULL);
            free_tensors(args, MOST);
        }
        CLAIM(room[1] <= 3 * bytes, "%s, form %d: %zu bytes of arguments need %zu bytes", p->name, form,
              bytes, room[1]);
        CLAIM(room[1] <= 2 * room[0] + 4096, "%s, form %d: twice the length needs %zu bytes, not %zu",
              p->name, form, room[1], 2 * room[0]);
        exe_free(e);
        module_free(m);
    }
}

/* ---- threads ----
 * Rows of a recurrence are independent of each other: the same bits on one thread and on several, whatever
 * holds a row while it is made. */
static void threads(void *ctx)
{
    const char *dims = ctx;
    char text[256];
    struct tensor *args[2], *found[2] = { 0 };
    snprintf(text, sizeof text,
             "hop 1\nfn @main(%%a: %s, %%b: %s) -> (%s) {\n  %%s = recurrence {dim = 1, reverse, late} (%%a, "
             "%%b)\n  return %%s\n}\n",
             dims, dims, dims);
    struct module *m = text_read("rows", text, strlen(text));
    const struct fn *f = module_fn(m, module_find(m, "main"));
    struct type t = type_get(m, value_type(f, 0));
    int64_t sizes[MAX_RANK];
    for (uint32_t d = 0; d < t.rank; d++) sizes[d] = dim_const_value(m, t.dims[d]);
    for (int k = 0; k < 2; k++) {
        args[k] = tensor_new((enum dtype)t.dtype, t.rank, sizes);
        for (size_t i = 0; i < tensor_bytes(args[k]); i++)
            ((uint8_t *)args[k]->data)[i] = i % 2 ? 0x38 + i % 3
                                                  : (uint8_t)(i * 37 +
                                                              (size_t)k); /* about 1, for f16 as for f32 */
    }
    for (int k = 0; k < 2; k++) {
        struct exe *e = exe_compile(m, f->id, &(struct compile_options){ .threads = k ? 4 : 1 }, NULL);
        exe_run(e, args, NULL, &found[k], NULL);
        exe_free(e);
    }
    CLAIM(!memcmp(found[0]->data, found[1]->data, tensor_bytes(found[0])), "%s: threads change the result",
          dims);
    free_tensors(found, 2);
    free_tensors(args, 2);
    module_free(m);
}

int main(void)
{
    for (size_t k = 0; k < HOP_COUNT(programs); k++) {
        struct program p = programs[k];
        for (enum variant v = 0; v < VARIANTS; v++)
            CLAIM(!attempt(compare_forms, &(struct ways){ &programs[k], v }), "%s, %s: %s", p.name,
                  variant_names[v], hop_message());
        associative_form = FORM_BY_COST;
        CLAIM(!attempt(choice, &p), "%s: %s", p.name, hop_message());
        CLAIM(!attempt(memory, &p), "%s: %s", p.name, hop_message());
        associative_form = FORM_BY_COST;
    }
    CLAIM(!attempt(formula, NULL), "the formula: %s", hop_message());
    static const char *const rows[] = { "f32[16, 4096]",   "f32[8, 512, 16]", "f32[8, 64, 300]",
                                        "f16[8, 64, 300]", "f16[8, 512, 16]", "f16[16, 4096]" };
    for (size_t k = 0; k < HOP_COUNT(rows); k++)
        CLAIM(!attempt(threads, (void *)rows[k]), "%s: %s", rows[k], hop_message());
    return tests_end();
}
