/* Claims that rules must keep, checked by running: reverse mode against forward mode and differences,
 * batching against a loop, text against what it reads back to. A function and arguments come in; NULL goes
 * out, or what is wrong. */
#include "check/check.h"

#include "transform/transform.h"

#include <ctype.h>
#include <math.h>

static const struct way compiled_strict = { .name = "compiled strict",
                                            .backend = &llvm_backend,
                                            .passes = { .strict = true } };
static const struct bound bits = { BOUND_BITS, 0 };

/* Runs on the interpreter and, if asked, natively; gives what is wrong with either. */
static const char *run_both(const struct claim *c, const char *what, uint32_t fn, struct tensor *const *args,
                            struct outcome *out)
{
    struct arena *a = &c->bag->arena;
    if (!run_on(c->bag, c->m, fn, &interpreter, args, c->dims, out))
        return arena_printf(a, "%s: %s", what, out->message);
    if (!c->compiled) return NULL;
    struct outcome native;
    run_on(c->bag, c->m, fn, &compiled_strict, args, c->dims, &native);
    const char *d = outcome_difference(a, &native, out, bits, bits);
    return d ? arena_printf(a, "%s compiled: %s", what, d) : NULL;
}

static struct tensor *random_like(const struct claim *c, const struct tensor *t, struct random *r)
{
    struct tensor *out = bag_new(c->bag, (enum dtype)t->dtype, t->rank, t->dims);
    tensor_random(out, r, -1, 1);
    return out;
}

static bool is_float(const struct tensor *t) { return dtype_is_float((enum dtype)t->dtype); }

/* ---- gradients ---- */

struct bounds {
    double step, difference, product; /* step of differences; relative bounds */
};
static const struct bounds bounds_f64 = { 1e-5, 1e-5, 1e-8 };
static const struct bounds bounds_f32 = { 0x1p-8, 3e-2, 2e-3 };
/* No step: f16 and bf16 are too coarse for differences. */
static const struct bounds bounds_narrow = { 0, 0, 0x1p-3 };
static const struct bounds *coarser(const struct bounds *have, enum dtype t)
{
    if (dtype_is_narrow(t)) return &bounds_narrow;
    return t == DT_F32 && have == &bounds_f64 ? &bounds_f32 : have;
}

void product_add(struct product *p, const struct tensor *x, const struct tensor *y)
{
    for (int64_t i = 0; i < x->count; i++) {
        double v = tensor_get(x, i) * tensor_get(y, i);
        p->sum += v;
        p->size += fabs(v);
    }
}

/* (f(x + h t) - f(x - h t)) / 2h against the tangents that jvp gave. */
static const char *against_differences(const struct claim *c, struct tensor *const *tangents,
                                       const struct outcome *base, struct tensor *const *result_tangents,
                                       const struct bounds *bound)
{
    struct arena *a = &c->bag->arena;
    const struct fn *f = module_fn(c->m, c->fn);
    struct outcome side[2];
    for (int s = 0; s < 2; s++) {
        struct tensor **args = ARENA_NEW(a, struct tensor *, f->n_params);
        for (uint32_t p = 0; p < f->n_params; p++) {
            args[p] = c->args[p];
            if (!tangents[p]) continue;
            args[p] = bag_new(c->bag, (enum dtype)c->args[p]->dtype, c->args[p]->rank, c->args[p]->dims);
            for (int64_t i = 0; i < args[p]->count; i++)
                tensor_set(args[p], i,
                           tensor_get(c->args[p], i) +
                               (s ? -bound->step : bound->step) * tensor_get(tangents[p], i));
        }
        if (!run_on(c->bag, c->m, c->fn, &interpreter, args, c->dims, &side[s]))
            return arena_printf(a, "at a neighbouring point: %s", side[s].message);
    }
    for (uint32_t r = 0; r < f->n_results; r++) {
        const struct tensor *y = base->results[r];
        if (!is_float(y)) continue;
        if (side[0].results[r]->count != y->count || side[1].results[r]->count != y->count)
            continue; /* its size depends on the values */
        double scale = 1;
        for (int64_t i = 0; i < y->count; i++)
            if (isfinite(tensor_get(y, i))) scale = fmax(scale, fabs(tensor_get(y, i)));
        for (int64_t i = 0; result_tangents[r] && i < y->count; i++)
            if (isfinite(tensor_get(result_tangents[r], i)))
                scale = fmax(scale, fabs(tensor_get(result_tangents[r], i)));
        for (int64_t i = 0; i < y->count; i++) {
            double d = (tensor_get(side[0].results[r], i) - tensor_get(side[1].results[r], i)) /
                       (2 * bound->step);
            double t = result_tangents[r] ? tensor_get(result_tangents[r], i) : 0;
            if (isfinite(d) && !(fabs(d - t) <= bound->difference * scale))
                return arena_printf(
                    a, "jvp: tangent of result %u, element %lld: differences give %.9g, jvp gives %.9g", r,
                    (long long)i, d, t);
        }
    }
    return NULL;
}

static const char *gradient(const struct claim *c, const bool *wrt)
{
    struct arena *a = &c->bag->arena;
    const struct fn *f = module_fn(c->m, c->fn);
    struct random random = { c->seed };
    struct outcome base, reverse, forward;
    const char *wrong = run_both(c, "the function", c->fn, c->args, &base);
    if (wrong) return wrong;
    const struct bounds *bound = &bounds_f64;
    uint32_t n_wrt = 0, at = 0;
    struct tensor **args = ARENA_ZNEW(a, struct tensor *, f->n_params + HOP_MAX(f->n_params, f->n_results));
    struct tensor **tangents = ARENA_ZNEW(a, struct tensor *, f->n_params);
    struct tensor **cotangents = ARENA_ZNEW(a, struct tensor *, f->n_results);
    for (; at < f->n_params; at++) {
        args[at] = c->args[at];
        if (!wrt[at]) continue;
        n_wrt++;
        tangents[at] = random_like(c, c->args[at], &random);
        bound = coarser(bound, (enum dtype)c->args[at]->dtype);
    }
    if (!n_wrt) return "no parameter to differentiate by";
    for (uint32_t r = 0; r < f->n_results; r++)
        if (is_float(base.results[r])) {
            cotangents[r] = random_like(c, base.results[r], &random);
            args[at++] = cotangents[r];
            bound = coarser(bound, (enum dtype)base.results[r]->dtype);
        }
    wrong = run_both(c, "vjp", vjp_function(c->m, c->fn, wrt), args, &reverse);
    if (wrong) return wrong;
    for (uint32_t r = 0; r < f->n_results; r++) {
        wrong = tensor_difference(a, reverse.results[r], base.results[r], bits);
        if (wrong) return arena_printf(a, "vjp changes result %u: %s", r, wrong);
    }

    bool *result_active = ARENA_ZNEW(a, bool, f->n_results);
    uint32_t jvp = f->global ? jvp_of(c->m, c->fn, wrt) : jvp_function(c->m, c->fn, wrt, result_active);
    for (uint32_t r = 0; f->global && r < f->n_results; r++) /* it has tangents of all of them */
        result_active[r] = dtype_is_float((enum dtype)type_get(c->m, value_type(f, f->results[r])).dtype);
    at = f->n_params;
    for (uint32_t p = 0; p < f->n_params; p++)
        if (wrt[p]) args[at++] = tangents[p];
    wrong = run_both(c, "jvp", jvp, args, &forward);
    if (wrong) return wrong;
    struct tensor **result_tangents = ARENA_ZNEW(a, struct tensor *, f->n_results);
    at = f->n_results;
    for (uint32_t r = 0; r < f->n_results; r++) {
        wrong = tensor_difference(a, forward.results[r], base.results[r], bits);
        if (wrong) return arena_printf(a, "jvp changes result %u: %s", r, wrong);
        if (result_active[r]) result_tangents[r] = forward.results[at++];
    }

    struct product left = { 0 }, right = { 0 };
    for (uint32_t r = 0; r < f->n_results; r++)
        if (cotangents[r] && result_tangents[r]) product_add(&left, cotangents[r], result_tangents[r]);
    at = f->n_results;
    for (uint32_t p = 0; p < f->n_params; p++) {
        if (!wrt[p]) continue;
        const struct tensor *g = reverse.results[at++];
        if (g->count != c->args[p]->count)
            return arena_printf(a, "vjp: the cotangent of parameter %s has another size",
                                fn_param_name(c->m, f, p));
        product_add(&right, g, tangents[p]);
    }
    if (!(fabs(left.sum - right.sum) <= bound->product * fmax(1, fmax(left.size, right.size))))
        return arena_printf(a, "<ct, J t> = %.12g by jvp, <J' ct, t> = %.12g by vjp", left.sum, right.sum);
    return bound->step > 0 ? against_differences(c, tangents, &base, result_tangents, bound) : NULL;
}

const char *claim_gradient(const struct claim *c, const bool *wrt)
{
    struct hop_catch caught;
    const char *volatile wrong = NULL;
    if (HOP_TRY(caught)) {
        wrong = gradient(c, wrt);
        hop_catch_end(&caught);
    } else {
        wrong = arena_string(&c->bag->arena, hop_message(), strlen(hop_message()));
    }
    return wrong;
}

/* ---- batching ---- */

static uint64_t lines_hash(const struct text *t) /* does not depend on the order of the lines */
{
    uint64_t sum = 0;
    for (size_t at = 0; at < t->len;) {
        size_t n = strcspn(t->data + at, "\n");
        sum += hash_bytes(t->data + at, n, 1);
        at += n + 1;
    }
    return sum;
}

static const char *batch(const struct claim *c, const bool *batched, int64_t lanes,
                         struct tensor *const *const *lane_args)
{
    static const struct bound f32 = { BOUND_TENSOR, 1e-5 }, f64 = { BOUND_TENSOR, 1e-12 };
    struct arena *a = &c->bag->arena;
    const struct fn *f = module_fn(c->m, c->fn);
    struct tensor **args = ARENA_NEW(a, struct tensor *, f->n_params);
    int *in_axes = ARENA_NEW(a, int, f->n_params), *out_axes = ARENA_ZNEW(a, int, f->n_results);
    for (uint32_t p = 0; p < f->n_params; p++) {
        const struct tensor *one = lane_args[0][p];
        int64_t dims[MAX_RANK] = { lanes };
        in_axes[p] = batched[p] ? 0 : -1;
        args[p] = lane_args[0][p];
        if (!batched[p]) continue;
        if (one->rank == MAX_RANK) return "no room for one more dim";
        memcpy(dims + 1, one->dims, one->rank * sizeof *dims);
        args[p] = bag_new(c->bag, (enum dtype)one->dtype, one->rank + 1u, dims);
        size_t bytes = (size_t)one->count * dtype_info[one->dtype].size;
        for (int64_t l = 0; l < lanes && bytes; l++)
            memcpy((char *)args[p]->data + (size_t)l * bytes, lane_args[l][p]->data, bytes);
    }
    struct outcome all;
    uint64_t printed = 0;
    const char *wrong = NULL, *failure = NULL;
    struct outcome *alone = ARENA_NEW(a, struct outcome, lanes);
    for (int64_t l = 0; l < lanes; l++) {
        if (!run_on(c->bag, c->m, c->fn, &interpreter, lane_args[l], c->dims, &alone[l]))
            failure = alone[l].message;
        printed += lines_hash(&alone[l].printed);
    }
    uint32_t fn = vmap_function(c->m, c->fn, in_axes, out_axes);
    if (failure) {
        bool batched = run_on(c->bag, c->m, fn, &interpreter, args, c->dims, &all);
        return batched ? arena_printf(a, "a lane fails (%s), batched it does not", failure) : NULL;
    }
    wrong = run_both(c, "batched", fn, args, &all);
    if (wrong) return wrong;
    if (printed != lines_hash(&all.printed))
        return arena_printf(a, "batched it prints other lines:\n%s", all.printed.len ? all.printed.data : "");
    for (uint32_t r = 0; r < f->n_results; r++)
        for (int64_t l = 0; l < lanes; l++) {
            const struct tensor *expected = alone[l].results[r], *whole = all.results[r];
            if (tensor_is_object(expected)) { /* one for all lanes */
                wrong = tensor_difference(a, whole, expected, f64);
                if (wrong) return arena_printf(a, "batched result %u: %s", r, wrong);
                continue;
            }
            if (whole->rank != expected->rank + 1u || whole->dims[0] != lanes)
                return arena_printf(a, "batched result %u does not have the lanes in front", r);
            struct tensor lane = *whole;
            lane.rank--;
            memmove(lane.dims, whole->dims + 1, lane.rank * sizeof *lane.dims);
            lane.count = whole->count / lanes;
            lane.data = (char *)whole->data + (size_t)(l * lane.count) * dtype_info[whole->dtype].size;
            wrong = tensor_difference(a, &lane, expected, bound_of((enum dtype)whole->dtype, f32, f64));
            if (wrong) return arena_printf(a, "batched result %u, lane %lld: %s", r, (long long)l, wrong);
        }
    return NULL;
}

const char *claim_batch(const struct claim *c, const bool *batched, int64_t lanes,
                        struct tensor *const *const *lane_args)
{
    struct hop_catch caught;
    const char *volatile wrong = NULL;
    if (HOP_TRY(caught)) {
        wrong = batch(c, batched, lanes, lane_args);
        hop_catch_end(&caught);
    } else {
        wrong = arena_string(&c->bag->arena, hop_message(), strlen(hop_message()));
    }
    return wrong;
}

/* ---- text ---- */

static const char *round_trip(struct module *m, struct arena *a, struct module **again)
{
    struct text once = { .arena = a }, twice = { .arena = a };
    text_print(m, HOP_NONE, 0, &once);
    *again = text_read("printed", once.len ? once.data : "", once.len);
    text_print(*again, HOP_NONE, 0, &twice);
    if (once.len != twice.len || (once.len && memcmp(once.data, twice.data, once.len)))
        return arena_printf(&m->scratch, "printed, read and printed again it is another text:\n%s\n---\n%s",
                            once.data, twice.data);
    return NULL;
}

const char *claim_round_trip(struct module *m)
{
    struct hop_catch caught;
    struct arena arena = { 0 };
    struct module *again = NULL; /* set through its address, so it is in memory and survives the jump */
    const char *volatile wrong = NULL;
    if (HOP_TRY(caught)) {
        hop_cleanup_push(arena_free, &arena);
        wrong = round_trip(m, &arena, &again);
        hop_cleanup_pop(&arena);
        module_free(again);
        arena_free(&arena);
        hop_catch_end(&caught);
    } else {
        wrong = arena_printf(&m->scratch, "printed, it does not read back: %s", hop_message());
        module_free(again);
    }
    return wrong;
}

char *text_in_f64(struct arena *a, const char *text, size_t length)
{
    char *out = arena_string(a, text, length);
    bool any = false;
    for (size_t i = 0; i + 3 <= length; i++) {
        bool starts = !i || !(isalnum((unsigned char)text[i - 1]) || strchr("_@%", text[i - 1]));
        bool ends = i + 3 == length || !(isalnum((unsigned char)text[i + 3]) || text[i + 3] == '_');
        if (memcmp(text + i, "f32", 3) || !starts || !ends) continue;
        memcpy(out + i, "f64", 3);
        any = true;
    }
    return any ? out : NULL;
}
