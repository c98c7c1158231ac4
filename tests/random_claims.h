/* What must hold for any program: text reads back, passes change no bit, every back end gives the
 * interpreter's bits, reverse mode agrees with forward mode and both with differences, batching agrees with a
 * loop over lanes, and the same of transformed programs. A program comes in; NULL goes out, or what is wrong.
 */
#ifndef HOP_TEST_RANDOM_CLAIMS_H
#define HOP_TEST_RANDOM_CLAIMS_H

#include "random_program.h"
#include "transform/transform.h"

/* What the histogram counts by. Those before UNDER_OTHER must meet every pair of higher-order rows. */
enum under {
    UNDER_VJP,
    UNDER_JVP,
    UNDER_BATCH,
    UNDER_VJP_VJP,
    UNDER_BATCH_VJP,
    UNDER_VJP_BATCH,
    UNDER_OTHER,
    UNDER_VJP_JVP = UNDER_OTHER,
    UNDER_BATCH_BATCH,
    UNDER_THREE,
    UNDER_NOTHING,
    UNDER
};
enum { LANES = 3 };

/* Shared between the processes of a run. */
struct tally {
    uint64_t rows[OP_COUNT];       /* programs that use the row */
    uint64_t dtypes[DT_COUNT];     /* programs that use the dtype */
    uint64_t bare[OP_COUNT];       /* programs with a node of the higher-order row that gives no results */
    uint64_t nested[UNDER][PAIRS]; /* claims held under the transform over programs in which the one row
                                      stands in a body of the other and is not dead */
    uint64_t made, rejected, programs, native; /* native: programs that were compiled */
    uint64_t compared, kinks; /* tangents to be held against differences; those that were not, because the
                                 program is not smooth there */
    uint64_t default_compared, sensitive; /* compiled with default numbers; results that change by as much
                                             when arguments change in their last bits */
    uint64_t ragged;                      /* batched programs whose lanes have results of different sizes */
    uint64_t claims, infinite;            /* infinite: products that are not finite */
    uint64_t beyond;                      /* claims that ended at a budget that is too small */
    /* of the program at hand */
    uint32_t claim;
    bool failed, held; /* held: the claim compared something, it was not skipped */
    char message[6000];
};

struct check {
    struct bag *bag;
    struct program *p;
    bool compiled;
    struct tally *tally;
};

/* A function made from the program's by transforms, with arguments. */
struct target {
    uint32_t fn;
    struct tensor **args;
    const char *name;
    /* Where rules are scaled: the same program as far as no rule has had to do with it, to be expanded, and
     * then taken over lanes where there are axes. */
    uint32_t plain;
    const int *in_axes, *out_axes;
};

static const struct bound bit_for_bit = { BOUND_BITS, 0 };
static const struct way strict_native = {
    .name = "compiled strict", .backend = &llvm_backend, .threads = 1, .passes = { .strict = true }
};
static const struct way strict_loops = {
    .name = "executor", .backend = &executor_backend, .threads = 1, .passes = { .strict = true }
};

static const int64_t *target_dims(struct check *c, uint32_t fn)
{
    const struct fn *f = module_fn(c->p->m, fn);
    int64_t *dims = ARENA_ZNEW(&c->bag->arena, int64_t, MAX_OUTER);
    for (uint32_t i = 0, n = 0; i < f->n_outer_symbols && n < MAX_OUTER; i++)
        if (f->symbols[i].origin == SYMBOL_DIM) dims[n++] = i < MAX_OUTER ? c->p->symbols[i] : 0;
    return dims;
}

static bool run_target(struct check *c, const struct target *t, const struct way *how, struct tensor **args,
                       struct outcome *out)
{
    return run_on(c->bag, c->p->m, t->fn, how, args ? args : t->args, target_dims(c, t->fn), out);
}

static struct target program_target(struct check *c)
{
    return (struct target){ .fn = c->p->fn, .args = c->p->args, .name = "the program", .plain = c->p->fn };
}

/* Runs on the interpreter and, in turn, on another back end, which must give the same bits. */
static const char *run_checked(struct check *c, const struct target *t, uint32_t turn, struct outcome *out)
{
    struct arena *a = &c->bag->arena;
    if (!run_target(c, t, &interpreter, NULL, out) && out->status != HOP_CHECK)
        return arena_printf(a, "%s: %s", t->name, out->message);
    /* Compiling costs most, unless one scalar after the other does. */
    bool native = c->compiled && ((turn & 3) == 1 || c->p->large);
    struct way how = native ? strict_native : strict_loops;
    if (turn & 4) how.passes.without = EVERY_SWITCH;
    struct outcome other;
    run_target(c, t, &how, NULL, &other);
    const char *d = outcome_difference(a, &other, out, bit_for_bit, bit_for_bit);
    return d ? arena_printf(a, "%s, %s%s: %s", t->name, how.name, turn & 4 ? " without passes" : "", d)
             : NULL;
}

static bool *float_params(struct check *c, uint32_t fn, uint64_t choice, uint32_t *n)
{
    struct module *m = c->p->m;
    const struct fn *f = module_fn(m, fn);
    bool *mask = ARENA_ZNEW(&c->bag->arena, bool, f->n_params + 1);
    *n = 0;
    for (uint32_t p = 0; p < f->n_params; p++)
        *n += mask[p] = dtype_is_float((enum dtype)type_get(m, value_type(f, p)).dtype) &&
                        (p == 0 || choice >> p & 1);
    return mask;
}

/* ---- text, passes, back ends ---- */

static void collect_functions(struct module *m, uint32_t fn, bool *seen)
{
    if (seen[fn]) return;
    seen[fn] = true;
    const struct fn *f = module_fn(m, fn);
    for (uint32_t i = 0; i < f->n_regions; i++) collect_functions(m, f->regions[i].fn, seen);
}

static const char *verified(struct check *c, uint32_t fn)
{
    struct module *m = c->p->m;
    bool *seen = ARENA_ZNEW(&c->bag->arena, bool, m->fns.len);
    uint32_t n = m->fns.len;
    collect_functions(m, fn, seen);
    for (uint32_t i = 0; i < n; i++)
        if (seen[i]) verify_fn(m, i);
    return NULL;
}

static const char *claim_text(struct check *c)
{
    struct arena *a = &c->bag->arena;
    struct text once = { .arena = a }, twice = { .arena = a };
    verified(c, c->p->fn);
    text_print(c->p->m, c->p->fn, 0, &once);
    struct module *again = text_read("printed", once.data, once.len);
    hop_cleanup_push(module_free, again);
    uint32_t fn = module_find(again, "main");
    text_print(again, fn, 0, &twice);
    c->tally->held = true;
    const char *wrong = strcmp(once.data, twice.data)
                            ? arena_printf(a,
                                           "printed, read and printed again it is another text:\n%s\n---\n%s",
                                           once.data, twice.data)
                            : NULL;
    struct outcome here, there;
    struct target t = program_target(c);
    run_target(c, &t, &interpreter, NULL, &here);
    run_on(c->bag, again, fn, &interpreter, c->p->args, target_dims(c, t.fn), &there);
    if (here.status) here.message = there.message; /* places differ */
    const char *d = outcome_difference(a, &there, &here, bit_for_bit, bit_for_bit);
    if (!wrong && d) wrong = arena_printf(a, "read back: %s", d);
    hop_cleanup_pop(again);
    module_free(again);
    return wrong;
}

static const char *passes_of(struct check *c, const struct target *t, bool each)
{
    struct arena *a = &c->bag->arena;
    struct outcome base, o;
    run_target(c, t, &interpreter, NULL, &base);
    c->tally->held = true;
    for (int pass = -1; pass < (each ? PASS_COUNT : 0); pass++) {
        struct way how = { .simplify = true,
                           .passes = { .strict = true, .without = pass < 0 ? 0 : ~(1u << pass) } };
        uint32_t simple = simplify(c->p->m, t->fn, &how.passes);
        verified(c, simple);
        run_target(c, &(struct target){ .fn = simple }, &interpreter, t->args, &o);
        const char *d = outcome_difference(a, &o, &base, bit_for_bit, bit_for_bit);
        if (d)
            return arena_printf(a, "%s, %s%s: %s", t->name, pass < 0 ? "all passes" : "the pass ",
                                pass < 0 ? "" : switch_names[pass], d);
    }
    return NULL;
}

static const char *claim_passes(struct check *c)
{
    struct target t = program_target(c);
    return passes_of(c, &t, !c->p->large); /* each of a large one takes minutes */
}

static const char *strict_on(struct check *c, const struct way *back_end)
{
    struct arena *a = &c->bag->arena;
    struct target t = program_target(c);
    struct outcome base, o;
    uint32_t off = (uint32_t)(c->p->seed % SWITCH_COUNT);
    run_target(c, &t, &interpreter, NULL, &base);
    c->tally->held = true;
    for (int k = 0; k < 3; k++) {
        if ((k == 1 && c->p->seed % 2) || (k == 2 && c->p->seed % 8)) continue;
        struct way how = *back_end;
        how.threads = c->p->large ? 2 : 1;
        how.passes.without = k == 0 ? 0 : k == 1 ? 1u << off : EVERY_SWITCH;
        run_target(c, &t, &how, NULL, &o);
        const char *d = outcome_difference(a, &o, &base, bit_for_bit, bit_for_bit);
        if (d)
            return arena_printf(a, "%s%s%s: %s", how.name, k ? " without " : "",
                                k == 1 ? switch_names[off]
                                : k    ? "passes"
                                       : "",
                                d);
    }
    return NULL;
}

static const char *claim_loops(struct check *c) { return strict_on(c, &strict_loops); }
static const char *claim_native(struct check *c) { return c->compiled ? strict_on(c, &strict_native) : NULL; }

/* Results computed in the memory of the arguments. */
static const char *claim_in_place(struct check *c)
{
    struct way how = c->compiled && c->p->seed & 1 ? strict_native : strict_loops;
    how.in_place = true;
    return strict_on(c, &how);
}

/* By how much a float result changes, relative to its size, when every float argument moves by a few of its
 * last bits; of large programs by more, since sums of a hundred thousand elements are rounded as often. */
static bool sensitive(struct check *c, const struct target *t, const struct outcome *base,
                      const struct outcome *found)
{
    const struct fn *f = module_fn(c->p->m, t->fn);
    double worst[64] = { 0 };
    for (uint32_t k = 0; k < 6; k++) {
        struct random r = { c->p->seed + k };
        struct tensor **args = ARENA_NEW(&c->bag->arena, struct tensor *, f->n_params);
        for (uint32_t p = 0; p < f->n_params; p++) {
            args[p] = t->args[p];
            if (!dtype_is_float((enum dtype)args[p]->dtype)) continue;
            args[p] = bag_new(c->bag, (enum dtype)t->args[p]->dtype, t->args[p]->rank, t->args[p]->dims);
            double step = dtype_is_narrow((enum dtype)args[p]->dtype)
                              ? args[p]->dtype == DT_F16 ? 0x1p-6 : 0x1p-3
                          : args[p]->dtype == DT_F32 ? 0x1p-19
                                                     : 0x1p-47;
            if (c->p->large) step *= 16;
            for (int64_t i = 0; i < args[p]->count; i++)
                tensor_set(args[p], i, tensor_get(t->args[p], i) * (1 + (random_unit(&r) - 0.5) * step));
        }
        struct outcome o;
        if (!run_target(c, t, &interpreter, args, &o)) return true;
        for (uint32_t i = 0; i < o.n && i < HOP_COUNT(worst); i++) {
            if (o.results[i]->count != base->results[i]->count) return true;
            for (int64_t e = 0; e < o.results[i]->count; e++)
                worst[i] = fmax(worst[i],
                                fabs(tensor_get(o.results[i], e) - tensor_get(base->results[i], e)));
        }
    }
    for (uint32_t i = 0; i < found->n && i < HOP_COUNT(worst); i++) {
        if (found->results[i]->count != base->results[i]->count) return false;
        if (!tensor_difference(&c->bag->arena, found->results[i], base->results[i],
                               bound_of((enum dtype)base->results[i]->dtype,
                                        (struct bound){ BOUND_TENSOR, 1e-4 },
                                        (struct bound){ BOUND_TENSOR, 1e-9 })))
            continue;
        double d = 0;
        for (int64_t e = 0; e < found->results[i]->count; e++)
            d = fmax(d, fabs(tensor_get(found->results[i], e) - tensor_get(base->results[i], e)));
        if (!(d <= 16 * worst[i])) return false;
    }
    return true;
}

static const char *claim_default(struct check *c)
{
    static const struct bound f32 = { BOUND_TENSOR, 1e-4 }, f64 = { BOUND_TENSOR, 1e-9 };
    const struct way plain = { .name = "compiled", .backend = &llvm_backend, .threads = c->p->large ? 2 : 1 };
    struct target t = program_target(c);
    struct outcome base, o;
    if (!c->compiled || c->p->wild) return NULL;
    run_target(c, &t, &interpreter, NULL, &base);
    run_target(c, &t, &plain, NULL, &o);
    const char *d = outcome_difference(&c->bag->arena, &o, &base, f32, f64);
    c->tally->default_compared++;
    c->tally->held = true;
    if (!d || o.status || base.status || !sensitive(c, &t, &base, &o)) return d;
    c->tally->sensitive++;
    return NULL;
}

/* ---- derivatives ---- */

static struct tensor *random_like(struct check *c, const struct tensor *t, struct random *r)
{
    struct tensor *out = bag_new(c->bag, (enum dtype)t->dtype, t->rank, t->dims);
    tensor_random(out, r, dtype_info[t->dtype].kind == KIND_UINT ? 0 : -1,
                  dtype_is_float((enum dtype)t->dtype) ? 1 : 4);
    return out;
}

static bool is_float(const struct tensor *t) { return dtype_is_float((enum dtype)t->dtype); }

/* f(x + h t) and f(x - h t); false where one of them is not defined. */
static bool both_sides(struct check *c, const struct target *t, struct tensor *const *tangents, double h,
                       struct outcome side[2])
{
    const struct fn *f = module_fn(c->p->m, t->fn);
    for (int s = 0; s < 2; s++) {
        struct tensor **args = ARENA_NEW(&c->bag->arena, struct tensor *, f->n_params);
        for (uint32_t p = 0; p < f->n_params; p++) {
            args[p] = t->args[p];
            if (!tangents[p]) continue;
            args[p] = bag_new(c->bag, (enum dtype)t->args[p]->dtype, t->args[p]->rank, t->args[p]->dims);
            for (int64_t i = 0; i < args[p]->count; i++)
                tensor_set(args[p], i, tensor_get(t->args[p], i) + (s ? -h : h) * tensor_get(tangents[p], i));
        }
        if (!run_target(c, t, &interpreter, args, &side[s])) return false;
    }
    return true;
}

/* The one-sided differences of element i of result r; false where the sizes differ or one of them is not
 * finite. */
struct slopes {
    double above, below;
};
static bool slopes_at(const struct outcome *base, const struct outcome side[2], uint32_t r, int64_t i,
                      double h, struct slopes *out)
{
    const struct tensor *y = base->results[r], *up = side[0].results[r], *down = side[1].results[r];
    if (up->count != y->count || down->count != y->count) return false;
    *out = (struct slopes){ (tensor_get(up, i) - tensor_get(y, i)) / h,
                            (tensor_get(y, i) - tensor_get(down, i)) / h };
    return isfinite(out->above) && isfinite(out->below);
}

static double largest_of(const struct tensor *x, double least)
{
    for (int64_t i = 0; x && i < x->count; i++)
        if (isfinite(tensor_get(x, i))) least = fmax(least, fabs(tensor_get(x, i)));
    return least;
}

/* Steps of differences: short enough that the results move by little of their size, and not so short that
 * rounding shows. */
static void choose_steps(const struct fn *f, const struct outcome *base,
                         struct tensor *const *result_tangents, double steps[2])
{
    double steepest = 1;
    for (uint32_t r = 0; r < f->n_results; r++) {
        if (is_float(base->results[r]))
            steepest = fmax(steepest, largest_of(result_tangents[r], 0) / largest_of(base->results[r], 1));
    }
    steps[0] = fmin(1e-6, fmax(1e-9, 1e-5 / steepest));
    steps[1] = steps[0] / 10;
}

/* Tangents against (f(x + h t) - f(x - h t)) / 2h. Where they differ, a step a tenth as long decides: the
 * slopes of the two sides still differ as much (a kink, counted, as is a slope that would leave the
 * function's own size within the step, or that changes by more than is in doubt), or the shorter step gives
 * the tangent (the function is curved), or the tangent is wrong. */
static const char *differences(struct check *c, const struct target *t, struct tensor *const *tangents,
                               const struct outcome *base, struct tensor *const *result_tangents)
{
    double steps[2];
    struct arena *a = &c->bag->arena;
    const struct fn *f = module_fn(c->p->m, t->fn);
    struct outcome sides[2][2];
    choose_steps(f, base, result_tangents, steps);
    bool defined[2] = { both_sides(c, t, tangents, steps[0], sides[0]) }, near = false;
    for (uint32_t r = 0; r < f->n_results; r++) {
        const struct tensor *y = base->results[r];
        if (!is_float(y)) continue;
        double scale = largest_of(result_tangents[r], largest_of(y, 1));
        for (int64_t i = 0; i < y->count; i++) {
            struct slopes far, close;
            double x = result_tangents[r] ? tensor_get(result_tangents[r], i) : 0, off = 0;
            if (!isfinite(tensor_get(y, i))) continue;
            c->tally->compared++;
            bool known = defined[0] && slopes_at(base, sides[0], r, i, steps[0], &far);
            if (known) off = fabs((far.above + far.below) / 2 - x);
            if (known && off <= 2e-5 * scale) continue;
            if (!near) near = true, defined[1] = both_sides(c, t, tangents, steps[1], sides[1]);
            bool still = defined[1] && slopes_at(base, sides[1], r, i, steps[1], &close);
            double still_off = still ? fabs((close.above + close.below) / 2 - x) : 0;
            if (still && still_off <= 1e-4 * scale) continue;
            /* No straight line over even the shorter step: differences say nothing. */
            bool steep = fabs(x) * steps[1] > largest_of(y, 1);
            bool bent = still && fabs(close.above - close.below) > still_off;
            if (!still || steep || bent ||
                (known && fabs(far.above - far.below) > 0.2 * off &&
                 fabs(close.above - close.below) > 0.3 * fabs(far.above - far.below))) {
                c->tally->kinks++;
                continue;
            }
            return arena_printf(a,
                                "%s: tangent of result %u, element %lld: one-sided differences give %.9g and "
                                "%.9g, jvp gives %.9g",
                                t->name, r, (long long)i, close.above, close.below, x);
        }
    }
    return NULL;
}

/* The program without rules, to be differentiated with respect to some parameters. */
static uint32_t plain_of(struct check *c, const struct target *t, enum mode mode, const bool *wrt)
{
    uint32_t fn = expanded(c->p->m, t->plain, mode, wrt);
    return t->in_axes ? vmap_function(c->p->m, fn, t->in_axes, t->out_axes) : fn;
}

/* What comes out where rules are scaled is what comes out of the program without rules: n results, then a
 * tangent of each that is active. */
static const char *follows_rules(struct check *c, const struct target *t, uint32_t plain,
                                 const struct outcome *found, uint32_t n, const bool *active,
                                 const bool *plain_active)
{
    static const struct bound close = { BOUND_TENSOR, 1e-7 };
    struct arena *a = &c->bag->arena;
    struct outcome expected;
    uint32_t at = n, plain_at = n;
    verified(c, plain);
    if (!run_target(c, &(struct target){ .fn = plain }, &interpreter, t->args, &expected))
        return arena_printf(a, "%s without rules: %s", t->name, expected.message);
    for (uint32_t r = 0; r < n; r++) {
        const char *d = tensor_difference(a, found->results[r], expected.results[r], close);
        if (d) return arena_printf(a, "%s, result %u, by rules and without: %s", t->name, r, d);
    }
    for (uint32_t r = 0; active && r < n; r++) {
        if (!active[r] && !plain_active[r]) continue;
        const struct tensor *x = active[r] ? found->results[at++] : NULL;
        const struct tensor *y = plain_active[r] ? expected.results[plain_at++] : NULL;
        const char *d = x && y ? tensor_difference(a, x, y, close) : NULL;
        if (!x || !y) d = largest_of(x ? x : y, 0) > 0 ? "one is zero, the other is not" : NULL;
        if (d) return arena_printf(a, "%s, tangent of result %u, by rules and without: %s", t->name, r, d);
    }
    c->tally->held = true;
    return NULL;
}

static const char *gradient_of(struct check *c, const struct target *t, uint64_t choice, uint32_t turn,
                               struct target *reverse_out)
{
    struct arena *a = &c->bag->arena;
    struct module *m = c->p->m;
    struct random random = { c->p->seed ^ 0x77 };
    const struct fn *f = module_fn(m, t->fn);
    struct outcome base, reverse, forward;
    uint32_t n_wrt, at = 0;
    bool *wrt = float_params(c, t->fn, choice, &n_wrt), narrow = !c->p->wide;
    if (!run_target(c, t, &interpreter, NULL, &base))
        return base.status == HOP_CHECK ? NULL : arena_printf(a, "%s: %s", t->name, base.message);
    if (!n_wrt) return NULL;
    struct tensor **args = ARENA_ZNEW(a, struct tensor *, f->n_params + HOP_MAX(f->n_params, f->n_results)),
                  **tangents = ARENA_ZNEW(a, struct tensor *, f->n_params),
                  **cotangents = ARENA_ZNEW(a, struct tensor *, f->n_results),
                  **forward_args = ARENA_ZNEW(a, struct tensor *, 2 * f->n_params);
    memcpy(args, t->args, f->n_params * sizeof *args);
    memcpy(forward_args, t->args, f->n_params * sizeof *args);
    for (uint32_t p = 0, k = f->n_params; p < f->n_params; p++)
        if (wrt[p]) forward_args[k++] = tangents[p] = random_like(c, t->args[p], &random);
    at = f->n_params;
    for (uint32_t r = 0; r < f->n_results; r++)
        if (is_float(base.results[r])) args[at++] = cotangents[r] = random_like(c, base.results[r], &random);

    struct target pullback = { .fn = vjp_function(m, t->fn, wrt),
                               .args = args,
                               .name = arena_printf(a, "vjp of %s", t->name) };
    verified(c, pullback.fn);
    const char *wrong = run_checked(c, &pullback, turn, &reverse);
    if (wrong || reverse.status)
        return wrong ? wrong : arena_printf(a, "%s: %s", pullback.name, reverse.message);
    if (reverse_out) *reverse_out = pullback;
    if (c->p->scaled) {
        uint32_t plain = vjp_function(m, plain_of(c, t, BY_VJP, wrt), wrt);
        if ((wrong = follows_rules(c, &pullback, plain, &reverse, reverse.n, NULL, NULL))) return wrong;
    }
    for (uint32_t r = 0; !c->p->scaled && r < f->n_results; r++)
        if ((wrong = tensor_difference(a, reverse.results[r], base.results[r], bit_for_bit)))
            return arena_printf(a, "%s changes result %u: %s", pullback.name, r, wrong);

    bool *active = ARENA_ZNEW(a, bool, f->n_results);
    struct target push = { .fn = jvp_function(m, t->fn, wrt, active),
                           .args = forward_args,
                           .name = arena_printf(a, "jvp of %s", t->name) };
    verified(c, push.fn);
    wrong = run_checked(c, &push, turn ^ 3, &forward);
    if (wrong || forward.status) return wrong ? wrong : arena_printf(a, "%s: %s", push.name, forward.message);
    if (c->p->scaled) {
        bool *plain_active = ARENA_ZNEW(a, bool, f->n_results);
        uint32_t plain = jvp_function(m, plain_of(c, t, BY_JVP, wrt), wrt, plain_active);
        return follows_rules(c, &push, plain, &forward, f->n_results, active, plain_active);
    }
    struct tensor **result_tangents = ARENA_ZNEW(a, struct tensor *, f->n_results);
    at = f->n_results;
    for (uint32_t r = 0; r < f->n_results; r++) {
        if ((wrong = tensor_difference(a, forward.results[r], base.results[r], bit_for_bit)))
            return arena_printf(a, "%s changes result %u: %s", push.name, r, wrong);
        if (active[r]) result_tangents[r] = forward.results[at++];
    }
    struct product left = { 0 }, right = { 0 };
    for (uint32_t r = 0; r < f->n_results; r++)
        if (cotangents[r] && result_tangents[r]) product_add(&left, cotangents[r], result_tangents[r]);
    at = f->n_results;
    for (uint32_t p = 0; p < f->n_params; p++)
        if (wrt[p]) {
            if ((wrong = tensor_difference(a, reverse.results[at], t->args[p],
                                           (struct bound){ BOUND_TENSOR, INFINITY })) &&
                strstr(wrong, "type"))
                return arena_printf(a, "%s: cotangent of parameter %u: %s", pullback.name, p, wrong);
            product_add(&right, reverse.results[at++], tangents[p]);
        }
    if (!isfinite(left.sum) || !isfinite(right.sum)) c->tally->infinite++;
    else if (!(fabs(left.sum - right.sum) <= (c->p->coarse ? 0.25
                                              : narrow     ? 2e-3
                                                           : 1e-8) *
                                                 fmax(1, fmax(left.size, right.size))) &&
             !c->p->wild)
        return arena_printf(a, "%s: <ct, J t> = %.12g by jvp, <J' ct, t> = %.12g by vjp", t->name, left.sum,
                            right.sum);
    else c->tally->held = !c->p->wild && left.size > 0;
    if (narrow || c->p->wild) return NULL;
    return differences(c, t, tangents, &base, result_tangents);
}

static const char *claim_gradients(struct check *c)
{
    struct target t = program_target(c);
    return gradient_of(c, &t, ~0ull, (uint32_t)c->p->seed, NULL);
}

static const char *claim_gradient_of_some(struct check *c)
{
    struct target t = program_target(c);
    return gradient_of(c, &t, c->p->seed * 0x9e37, (uint32_t)(c->p->seed >> 1) | 1, NULL);
}

/* The program's pullback with random cotangents. */
static bool pullback_of(struct check *c, const struct target *t, uint64_t choice, struct target *out)
{
    struct outcome base;
    struct random random = { c->p->seed ^ 0x99 };
    const struct fn *f = module_fn(c->p->m, t->fn);
    uint32_t n, at = f->n_params;
    bool *wrt = float_params(c, t->fn, choice, &n);
    if (!n || !run_target(c, t, &interpreter, NULL, &base)) return false;
    struct tensor **args = ARENA_ZNEW(&c->bag->arena, struct tensor *, f->n_params + f->n_results);
    memcpy(args, t->args, f->n_params * sizeof *args);
    for (uint32_t r = 0; r < f->n_results; r++)
        if (is_float(base.results[r])) args[at++] = random_like(c, base.results[r], &random);
    *out = (struct target){ .fn = vjp_function(c->p->m, t->fn, wrt),
                            .args = args,
                            .name = arena_printf(&c->bag->arena, "vjp of %s", t->name) };
    if (c->p->scaled) out->plain = unfrozen(c->p->m, vjp_function(c->p->m, plain_of(c, t, BY_VJP, wrt), wrt));
    return true;
}

static const char *claim_second(struct check *c)
{
    struct target t = program_target(c), first;
    return pullback_of(c, &t, c->p->seed, &first)
               ? gradient_of(c, &first, c->p->seed | 1, (uint32_t)(c->p->seed >> 2), NULL)
               : NULL;
}

static const char *claim_passes_of_vjp(struct check *c)
{
    struct target t = program_target(c), first;
    return pullback_of(c, &t, ~0ull, &first) ? passes_of(c, &first, c->p->seed % 3 == 0) : NULL;
}

/* ---- batching ---- */

static bool node_symbol(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

static bool has_ragged_result(struct check *c, uint32_t fn)
{
    const struct fn *f = module_fn(c->p->m, fn);
    uint32_t outer = f->n_outer_symbols;
    for (uint32_t r = 0; r < f->n_results; r++) {
        struct type t = type_get(c->p->m, value_type(f, f->results[r]));
        for (uint32_t d = 0; d < t.rank; d++)
            if (dim_mentions(c->p->m, t.dims[d], node_symbol, &outer)) return true;
    }
    return false;
}

/* Does the program stack rows in a loop whose trips are counted only when running? Batched, lanes with fewer
 * trips have rows of zeros behind theirs. */
static bool has_padded_rows(struct check *c)
{
    struct module *m = c->p->m;
    bool *seen = ARENA_ZNEW(&c->bag->arena, bool, m->fns.len);
    collect_functions(m, c->p->fn, seen);
    for (uint32_t i = 0; i < m->fns.len; i++) {
        const struct fn *f = module_fn(m, i);
        for (uint32_t k = f->n_outer_symbols; seen[i] && k < f->n_symbols; k++)
            if (f->nodes[f->symbols[k].index].op == OP_while_loop ||
                f->nodes[f->symbols[k].index].op == OP_fori_loop)
                return true;
    }
    return false;
}

/* Lanes of arguments: the program's own are drawn, what transforms have added is random. */
static bool *make_lanes(struct check *c, const struct target *t, struct tensor **lanes[LANES])
{
    const struct fn *f = module_fn(c->p->m, t->fn);
    uint32_t own = module_fn(c->p->m, c->p->fn)->n_params;
    bool *batched = ARENA_ZNEW(&c->bag->arena, bool, f->n_params), any = false;
    struct random choice = { c->p->seed ^ 0x1234 };
    for (uint32_t p = 0; p < f->n_params; p++) any |= batched[p] = random_unit(&choice) < 0.5;
    if (!any) batched[0] = true;
    for (uint32_t l = 0; l < LANES; l++) {
        struct random r = { c->p->seed + 17 * l + 5 };
        struct tensor *drawn[MAX_PARAMS];
        lanes[l] = ARENA_NEW(&c->bag->arena, struct tensor *, f->n_params);
        draw_args(c->bag, c->p, c->p->seed + 1000 * l, drawn);
        for (uint32_t p = 0; p < f->n_params; p++)
            lanes[l][p] = l && !batched[p]                                ? lanes[0][p]
                          : p < own && drawn[p]->rank == t->args[p]->rank ? drawn[p]
                                                                          : random_like(c, t->args[p], &r);
    }
    return batched;
}

static const char *batch_agrees(struct check *c, const struct target *t, bool compiled)
{
    struct tensor **lanes[LANES];
    bool *batched = make_lanes(c, t, lanes);
    struct claim claim = { .bag = c->bag,
                           .m = c->p->m,
                           .fn = t->fn,
                           .args = t->args,
                           .dims = target_dims(c, t->fn),
                           .seed = c->p->seed,
                           .compiled = compiled && c->compiled };
    const char *wrong = claim_batch(&claim, batched, LANES, (struct tensor *const *const *)lanes);
    if (wrong && (strstr(wrong, "lane to lane") || strstr(wrong, "the lanes would differ") ||
                  has_ragged_result(c, t->fn) || has_padded_rows(c))) {
        c->tally->ragged++;
        return NULL;
    }
    c->tally->held = true;
    return wrong ? arena_printf(&c->bag->arena, "%s: %s", t->name, wrong) : NULL;
}

static const char *claim_batched(struct check *c)
{
    struct target t = program_target(c);
    return batch_agrees(c, &t, c->p->seed % 2);
}

static const char *claim_batched_vjp(struct check *c)
{
    struct target t = program_target(c), first;
    if (has_ragged_result(c, t.fn)) return NULL; /* the cotangents' sizes differ from lane to lane */
    return pullback_of(c, &t, ~0ull, &first) ? batch_agrees(c, &first, c->p->seed % 4 == 0) : NULL;
}

/* Lane l of `whole`, whose lanes stand at `axis`, copied from or to `one`. */
static void copy_lane(struct tensor *whole, int axis, uint32_t l, struct tensor *one, bool out)
{
    size_t inner = dtype_info[one->dtype].size, outer = 1;
    for (int d = 0; d < one->rank; d++) *(d < axis ? &outer : &inner) *= (size_t)one->dims[d];
    for (size_t k = 0; k < outer && inner; k++) {
        char *there = (char *)whole->data + (k * LANES + l) * inner, *here = (char *)one->data + k * inner;
        memcpy(out ? here : there, out ? there : here, inner);
    }
}

/* The program over lanes, each batched parameter and result with its lanes at an axis of its own. */
struct lanes {
    struct tensor **args[LANES];
    int *out_axes;
};

/* The batched program with its arguments; false where lanes would have different sizes. */
static bool batched_target(struct check *c, const struct target *t, struct target *out, struct lanes *lanes)
{
    struct hop_catch caught;
    const struct fn *f = module_fn(c->p->m, t->fn);
    struct arena *a = &c->bag->arena;
    struct random axis = { c->p->seed ^ 0x4321 };
    bool *batched = make_lanes(c, t, lanes->args), leading = random_unit(&axis) < 0.3;
    int *in_axes = ARENA_NEW(a, int, f->n_params),
        *out_axes = lanes->out_axes = ARENA_ZNEW(a, int, f->n_results);
    struct tensor **args = ARENA_NEW(a, struct tensor *, f->n_params);
    for (uint32_t p = 0; p < f->n_params; p++) {
        const struct tensor *one = lanes->args[0][p];
        int64_t dims[MAX_RANK];
        uint32_t at = leading ? 0 : (uint32_t)(random_next(&axis) % (one->rank + 1u)), n = 0;
        in_axes[p] = batched[p] ? (int)at : -1;
        args[p] = lanes->args[0][p];
        if (!batched[p]) continue;
        for (uint32_t d = 0; d < one->rank + 1u; d++) dims[d] = d == at ? LANES : one->dims[n++];
        args[p] = bag_new(c->bag, (enum dtype)one->dtype, one->rank + 1u, dims);
        for (uint32_t l = 0; l < LANES; l++) copy_lane(args[p], (int)at, l, lanes->args[l][p], false);
    }
    for (uint32_t r = 0; r < f->n_results; r++)
        out_axes[r] = leading ? 0
                              : (int)(random_next(&axis) %
                                      (type_get(c->p->m, value_type(f, f->results[r])).rank + 1u));
    *out = (struct target){ .args = args,
                            .name = arena_printf(a, "vmap of %s", t->name),
                            .plain = t->plain,
                            .in_axes = in_axes,
                            .out_axes = out_axes };
    if (HOP_TRY(caught)) {
        out->fn = vmap_function(c->p->m, t->fn, in_axes, out_axes);
        hop_catch_end(&caught);
        return true;
    }
    hop_status status = hop_caught();
    if (!strstr(hop_message(), "lane to lane") && !strstr(hop_message(), "the lanes would differ"))
        hop_rethrow(status);
    c->tally->ragged++;
    return false;
}

/* What each lane gives alone is what stands at its axis. */
static const char *lanes_agree(struct check *c, const struct target *t, const struct target *wide,
                               struct lanes *lanes, const struct outcome *all)
{
    static const struct bound f32 = { BOUND_TENSOR, 1e-5 }, f64 = { BOUND_TENSOR, 1e-12 };
    struct arena *a = &c->bag->arena;
    if (has_ragged_result(c, t->fn) || has_padded_rows(c)) return NULL;
    for (uint32_t l = 0; l < LANES; l++) {
        struct outcome one;
        if (!run_target(c, t, &interpreter, lanes->args[l], &one))
            return arena_printf(a, "%s runs, lane %u alone does not: %s", wide->name, l, one.message);
        for (uint32_t r = 0; r < one.n; r++) {
            struct tensor *found = bag_new(c->bag, (enum dtype)one.results[r]->dtype, one.results[r]->rank,
                                           one.results[r]->dims);
            copy_lane(all->results[r], lanes->out_axes[r], l, found, true);
            const char *d = tensor_difference(a, found, one.results[r],
                                              bound_of((enum dtype)found->dtype, f32, f64));
            if (d)
                return arena_printf(a, "%s: lane %u, result %u at axis %d: %s", wide->name, l, r,
                                    lanes->out_axes[r], d);
        }
    }
    return NULL;
}

static const char *claim_vjp_of_batched(struct check *c)
{
    struct target t = program_target(c), wide;
    struct lanes lanes;
    return batched_target(c, &t, &wide, &lanes)
               ? gradient_of(c, &wide, ~0ull, (uint32_t)(c->p->seed >> 3), NULL)
               : NULL;
}

static const char *claim_batched_elsewhere(struct check *c)
{
    struct target t = program_target(c), wide;
    struct lanes lanes;
    if (!batched_target(c, &t, &wide, &lanes)) return NULL;
    struct outcome o;
    const char *wrong = run_checked(c, &wide, (uint32_t)c->p->seed, &o);
    if (!wrong && !o.status) wrong = lanes_agree(c, &t, &wide, &lanes, &o);
    return wrong ? wrong : passes_of(c, &wide, false);
}

static const char *claim_batched_twice(struct check *c)
{
    struct target t = program_target(c), wide;
    struct lanes lanes;
    if (has_ragged_result(c, t.fn) || !batched_target(c, &t, &wide, &lanes)) return NULL;
    c->p->seed ^= 0x5555; /* other lanes */
    const char *wrong = batch_agrees(c, &wide, false);
    c->p->seed ^= 0x5555;
    return wrong;
}

/* Three transforms of one program, of those that two leave small: sizes multiply. */
static bool is_small(struct check *c, uint32_t fn)
{
    struct module *m = c->p->m;
    bool *seen = ARENA_ZNEW(&c->bag->arena, bool, m->fns.len);
    uint32_t nodes = 0;
    collect_functions(m, fn, seen);
    for (uint32_t i = 0; i < m->fns.len; i++)
        if (seen[i]) nodes += module_fn(m, i)->n_nodes;
    return nodes <= 1000;
}

static const char *claim_third(struct check *c)
{
    struct target t = program_target(c), first, second;
    if (!pullback_of(c, &t, c->p->seed, &first) || !is_small(c, first.fn) ||
        !pullback_of(c, &first, c->p->seed | 1, &second) || !is_small(c, second.fn))
        return NULL;
    return gradient_of(c, &second, c->p->seed >> 1 | 1, (uint32_t)(c->p->seed >> 2), NULL);
}

static const char *claim_batched_second(struct check *c)
{
    struct target t = program_target(c), first, second;
    if (has_ragged_result(c, t.fn)) return NULL;
    if (!pullback_of(c, &t, ~0ull, &first) || !pullback_of(c, &first, c->p->seed, &second)) return NULL;
    return batch_agrees(c, &second, false);
}

static const char *claim_vjp_of_batched_vjp(struct check *c)
{
    struct target t = program_target(c), first, wide;
    struct lanes lanes;
    if (has_ragged_result(c, t.fn)) return NULL;
    if (!pullback_of(c, &t, c->p->seed, &first) || !batched_target(c, &first, &wide, &lanes) ||
        !is_small(c, wide.fn))
        return NULL;
    return gradient_of(c, &wide, c->p->seed | 1, (uint32_t)(c->p->seed >> 3), NULL);
}

static const char *claim_batched_vjp_of_batched(struct check *c)
{
    struct target t = program_target(c), wide, first;
    struct lanes lanes;
    if (has_ragged_result(c, t.fn)) return NULL;
    if (!batched_target(c, &t, &wide, &lanes) || !pullback_of(c, &wide, ~0ull, &first)) return NULL;
    c->p->seed ^= 0x5555; /* other lanes */
    const char *wrong = batch_agrees(c, &first, false);
    c->p->seed ^= 0x5555;
    return wrong;
}

/* Reverse over forward: the tangents too are differentiated. */
static const char *claim_gradient_of_jvp(struct check *c)
{
    struct target t = program_target(c);
    const struct fn *f = module_fn(c->p->m, t.fn);
    struct random r = { c->p->seed ^ 0xabc };
    uint32_t n, at = f->n_params;
    bool *wrt = float_params(c, t.fn, c->p->seed | 1, &n),
         *active = ARENA_ZNEW(&c->bag->arena, bool, f->n_results);
    struct tensor **args = ARENA_ZNEW(&c->bag->arena, struct tensor *, 2 * f->n_params);
    memcpy(args, t.args, f->n_params * sizeof *args);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (wrt[p]) args[at++] = random_like(c, t.args[p], &r);
    struct target push = { .fn = jvp_function(c->p->m, t.fn, wrt, active),
                           .args = args,
                           .name = "jvp of the program" };
    if (c->p->scaled) {
        bool *plain_active = ARENA_ZNEW(&c->bag->arena, bool, f->n_results);
        push.plain = unfrozen(c->p->m,
                              jvp_function(c->p->m, plain_of(c, &t, BY_JVP, wrt), wrt, plain_active));
        if (memcmp(active, plain_active, f->n_results * sizeof *active)) return NULL;
    }
    return gradient_of(c, &push, c->p->seed | 1, (uint32_t)(c->p->seed >> 4), NULL);
}

static const struct random_claim {
    const char *name;
    const char *(*holds)(struct check *c);
    enum under under;
    uint32_t every; /* of so many programs one is held to it */
    bool native;    /* of native code alone */
} random_claims[] = {
    { "text", claim_text, UNDER_NOTHING, 1 },
    { "passes", claim_passes, UNDER_NOTHING, 1 },
    { "loop program", claim_loops, UNDER_NOTHING, 1 },
    { "compiled strict", claim_native, UNDER_NOTHING, 1, true },
    { "in place", claim_in_place, UNDER_NOTHING, 3 },
    { "compiled", claim_default, UNDER_NOTHING, 3, true },
    { "gradients", claim_gradients, UNDER_VJP, 1 },
    { "gradients of some", claim_gradient_of_some, UNDER_VJP, 3 },
    { "batch", claim_batched, UNDER_BATCH, 1 },
    { "passes of vjp", claim_passes_of_vjp, UNDER_NOTHING, 3 },
    { "gradients of vjp", claim_second, UNDER_VJP_VJP, 3 },
    { "batch of vjp", claim_batched_vjp, UNDER_BATCH_VJP, 3 },
    { "gradients of batch", claim_vjp_of_batched, UNDER_VJP_BATCH, 3 },
    { "batch on other back ends", claim_batched_elsewhere, UNDER_NOTHING, 3 },
    { "gradients of jvp", claim_gradient_of_jvp, UNDER_VJP_JVP, 4 },
    { "batch of batch", claim_batched_twice, UNDER_BATCH_BATCH, 4 },
    { "gradients of vjp of vjp", claim_third, UNDER_THREE, 9 },
    { "batch of vjp of vjp", claim_batched_second, UNDER_THREE, 9 },
    { "gradients of batch of vjp", claim_vjp_of_batched_vjp, UNDER_THREE, 9 },
    { "batch of vjp of batch", claim_batched_vjp_of_batched, UNDER_THREE, 9 },
};

#endif
