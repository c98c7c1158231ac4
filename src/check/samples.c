/* Arguments for the samples that rows carry: sizes for their symbols, and tensors drawn from a seed within
 * the ranges that a sample states. Tests and the reference of operators use the same. */
#include "check/check.h"

/* The range that "x = 0.5..2, i = 0..4" gives for a parameter. */
static bool sample_range(const char *inputs, const char *name, double *lo, double *hi)
{
    for (const char *at = inputs; at && *at;) {
        at += strspn(at, " ,");
        size_t n = strcspn(at, " =");
        bool here = strlen(name) == n && !memcmp(name, at, n);
        const char *range = strchr(at, '=');
        if (!range) return false;
        const char *dots = strstr(range, "..");
        if (here && dots) {
            *lo = strtod(range + 1, NULL); /* strtod takes "0." of "0..4", which is 0 as well */
            *hi = strtod(dots + 2, NULL);
            return true;
        }
        at = strchr(range, ',');
    }
    return false;
}

struct sample_sizes sample_sizes(struct arena *a, const struct fn *f, uint32_t attempt)
{
    static const int64_t various[] = { 3, 4, 2, 5 };
    struct sample_sizes s = { ARENA_ZNEW(a, int64_t, f->n_outer_symbols),
                              ARENA_ZNEW(a, int64_t, f->n_outer_symbols) };
    uint32_t n = 0;
    sample_operators();
    for (uint32_t i = 0; i < f->n_outer_symbols; i++) {
        int64_t v = attempt ? 4 : various[i % HOP_COUNT(various)];
        s.symbols[i] = HOP_MIN(HOP_MAX(v, f->symbols[i].lo), f->symbols[i].hi);
        if (f->symbols[i].origin == SYMBOL_DIM) s.dims[n++] = s.symbols[i];
    }
    return s;
}

struct tensor **sample_arguments(struct bag *bag, struct module *m, const struct fn *f, const char *inputs,
                                 const struct sample_sizes *s, uint64_t seed)
{
    struct tensor **args = ARENA_NEW(&bag->arena, struct tensor *, f->n_params);
    struct random random = { seed };
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(m, value_type(f, p));
        int64_t dims[MAX_RANK];
        for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_eval(m, t.dims[i], s->symbols);
        if (t.kind) {
            args[p] = bag_object(bag, module_text(m, t.kind), p % 64);
            continue;
        }
        args[p] = bag_new(bag, (enum dtype)t.dtype, t.rank, dims);
        bool is_float = dtype_is_float((enum dtype)t.dtype);
        double lo = is_float ? -2 : 0;
        double hi = is_float ? 2 : 3;
        sample_range(inputs, fn_param_name(m, f, p), &lo, &hi);
        tensor_random(args[p], &random, lo, hi);
    }
    return args;
}
