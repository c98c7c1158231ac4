/* The transforms held against what they mean: jvp against differences, vjp against jvp, batch against a loop
 * over lanes, and all of them on each other's results, for programs with every higher-order operator in every
 * other; then claims about structure: what loops stack, that effects happen once, that nothing is poisoned by
 * lanes that do not run. */
#include "check.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "ops/build.h"
#include "transform/simplify.h"
#include "transform/transform.h"

#include <math.h>

enum { LANES = 3, MAX_TENSORS = 1 << 16 };

struct run {
    struct module *m;
    struct interp in;
    const char *name;
    uint64_t seed;
    struct tensor *kept[MAX_TENSORS]; /* everything made, freed at the end of a program */
    uint32_t n_kept;
    uint32_t lines; /* printed */
    char last[256];
    const char *doing;
};

static struct tensor *keep(struct run *r, struct tensor *t)
{
    if (r->n_kept == MAX_TENSORS) hop_throw(HOP_INTERNAL, "the test keeps too many tensors");
    return r->kept[r->n_kept++] = t;
}

static uint64_t next_random(struct run *r)
{
    r->seed += 0x9e3779b97f4a7c15u;
    uint64_t z = r->seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static double uniform(struct run *r, double lo, double hi)
{
    return lo + (hi - lo) * (double)(next_random(r) >> 11) * 0x1p-53;
}

static bool is_float(const struct tensor *t) { return t->dtype == DT_F64; }
static double *reals(const struct tensor *t) { return t->data; }

static struct tensor *random_like(struct run *r, const struct tensor *t)
{
    struct tensor *x = keep(r, tensor_new((enum dtype)t->dtype, t->rank, t->dims));
    for (int64_t i = 0; i < x->count; i++) reals(x)[i] = uniform(r, -1, 1);
    return x;
}

static struct tensor **call(struct run *r, uint32_t fn, struct tensor *const *args)
{
    const struct fn *f = module_fn(r->m, fn);
    struct tensor **results = ARENA_ZNEW(&r->m->arena, struct tensor *, f->n_results + 1);
    verify_fn(r->m, fn);
    interp_run(&r->in, fn, args, NULL, results);
    for (uint32_t k = 0; k < f->n_results; k++) keep(r, results[k]);
    return results;
}

/* ---- claims about derivatives ---- */

static bool *float_params(struct run *r, const struct fn *f, struct tensor *const *args)
{
    bool *mask = ARENA_ZNEW(&r->m->arena, bool, f->n_params);
    for (uint32_t p = 0; p < f->n_params; p++) mask[p] = is_float(args[p]);
    return mask;
}

static struct tensor **moved(struct run *r, const struct fn *f, struct tensor *const *args,
                             struct tensor *const *tangents, double step)
{
    struct tensor **out = ARENA_NEW(&r->m->arena, struct tensor *, f->n_params);
    for (uint32_t p = 0; p < f->n_params; p++) {
        out[p] = args[p];
        if (!tangents[p]) continue;
        out[p] = keep(r, tensor_new(DT_F64, args[p]->rank, args[p]->dims));
        for (int64_t i = 0; i < args[p]->count; i++)
            reals(out[p])[i] = reals(args[p])[i] + step * reals(tangents[p])[i];
    }
    return out;
}

static double inner(const struct tensor *a, const struct tensor *b)
{
    double s = 0;
    for (int64_t i = 0; i < a->count; i++) s += reals(a)[i] * reals(b)[i];
    return s;
}

/* jvp against differences, then vjp against jvp. */
static void claim_derivatives(struct run *r, uint32_t fn, struct tensor *const *args, const char *what)
{
    const struct fn *f = module_fn(r->m, fn);
    bool *active = float_params(r, f, args), *found = ARENA_ZNEW(&r->m->arena, bool, f->n_results);
    r->doing = what;
    struct tensor **y = call(r, fn, args),
                  **tangents = ARENA_ZNEW(&r->m->arena, struct tensor *, f->n_params);
    struct tensor **jvp_args = ARENA_NEW(&r->m->arena, struct tensor *, 2 * (size_t)f->n_params);
    uint32_t n = f->n_params;
    for (uint32_t p = 0; p < f->n_params; p++) {
        jvp_args[p] = args[p];
        if (active[p]) jvp_args[n++] = tangents[p] = random_like(r, args[p]);
    }
    uint32_t jvp = jvp_function(r->m, fn, active, found);
    struct tensor **dot = call(r, jvp, jvp_args),
                  **tangent_of = ARENA_ZNEW(&r->m->arena, struct tensor *, f->n_results);
    n = f->n_results;
    for (uint32_t k = 0; k < f->n_results; k++)
        if (found[k]) tangent_of[k] = dot[n++];
    const double h = 1e-6;
    struct tensor **above = call(r, fn, moved(r, f, args, tangents, h)),
                  **below = call(r, fn, moved(r, f, args, tangents, -h));
    double worst = 0, at_most = 1;
    for (uint32_t k = 0; k < f->n_results; k++) {
        if (!is_float(y[k])) continue;
        for (int64_t i = 0; i < y[k]->count; i++) {
            double difference = (reals(above[k])[i] - reals(below[k])[i]) / (2 * h),
                   given = tangent_of[k] ? reals(tangent_of[k])[i] : 0;
            double error = fabs(difference - given);
            if (!(error <= worst)) worst = error;
            if (fabs(difference) > at_most) at_most = fabs(difference);
        }
    }
    /* Where the function is that steep, differences say nothing: vjp and jvp still have to agree. */
    CLAIM(worst <= 2e-5 * at_most || at_most > 1e3, "%s: %s: jvp differs from differences by %g (of %g)",
          r->name, what, worst, at_most);

    uint32_t vjp = vjp_function(r->m, fn, active);
    struct tensor **vjp_args = ARENA_NEW(&r->m->arena, struct tensor *, f->n_params + f->n_results);
    double left = 0, right = 0, size = 1;
    n = f->n_params;
    for (uint32_t p = 0; p < f->n_params; p++) vjp_args[p] = args[p];
    for (uint32_t k = 0; k < f->n_results; k++) {
        if (!is_float(y[k])) continue;
        vjp_args[n] = random_like(r, y[k]);
        if (tangent_of[k]) {
            double part = inner(vjp_args[n], tangent_of[k]);
            left += part, size += fabs(part);
        }
        n++;
    }
    struct tensor **ct = call(r, vjp, vjp_args);
    n = f->n_results;
    for (uint32_t p = 0; p < f->n_params; p++)
        if (active[p]) right += inner(ct[n++], tangents[p]);
    CLAIM(fabs(left - right) <= 1e-9 * size, "%s: %s: vjp gives %.15g where jvp gives %.15g", r->name, what,
          right, left);
    bool same = true;
    for (uint32_t k = 0; k < f->n_results; k++)
        for (int64_t i = 0; is_float(y[k]) && i < y[k]->count; i++)
            same &= reals(y[k])[i] == reals(ct[k])[i] || (reals(y[k])[i] != reals(y[k])[i]);
    CLAIM(same, "%s: %s: vjp changes the results themselves", r->name, what);
}

/* ---- claims about lanes ---- */

static struct tensor *stacked(struct run *r, struct tensor *const lanes[LANES])
{
    int64_t dims[MAX_RANK] = { LANES };
    memcpy(dims + 1, lanes[0]->dims, lanes[0]->rank * sizeof *dims);
    struct tensor *t = keep(r, tensor_new((enum dtype)lanes[0]->dtype, lanes[0]->rank + 1u, dims));
    size_t bytes = (size_t)lanes[0]->count * dtype_info[t->dtype].size;
    for (int i = 0; i < LANES; i++)
        if (bytes) memcpy((char *)t->data + (size_t)i * bytes, lanes[i]->data, bytes);
    return t;
}

static double number_at(const struct tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DT_BOOL: return ((const uint8_t *)t->data)[i];
    case DT_I32: return ((const int32_t *)t->data)[i];
    case DT_U32: return ((const uint32_t *)t->data)[i];
    case DT_I64: return (double)((const int64_t *)t->data)[i];
    case DT_F32: return (double)((const float *)t->data)[i];
    default: return reals(t)[i];
    }
}

/* Lane `lane` of `all` is `one`, with zeros where `all` is longer (trips that the lane did not make). */
static double lane_error(const struct tensor *all, int lane, const struct tensor *one)
{
    double worst = 0;
    int64_t index[MAX_RANK] = { 0 }, per_lane = all->count / LANES;
    if (all->rank != one->rank + 1) return INFINITY;
    for (int64_t i = 0; i < per_lane; i++) {
        int64_t rest = i, at = 0;
        bool inside = true;
        for (uint32_t d = one->rank; d-- > 0;) index[d] = rest % all->dims[d + 1], rest /= all->dims[d + 1];
        for (uint32_t d = 0; d < one->rank; d++)
            inside &= index[d] < one->dims[d], at = at * one->dims[d] + index[d];
        double want = inside ? number_at(one, at) : 0, have = number_at(all, lane * per_lane + i);
        double error = want == have || (isnan(want) && isnan(have)) ? 0
                                                                    : fabs(want - have) / fmax(1, fabs(want));
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

static uint32_t vmapped(struct run *r, uint32_t fn, const bool *batched)
{
    const struct fn *f = module_fn(r->m, fn);
    int *in_axes = ARENA_NEW(&r->m->arena, int, f->n_params),
        *out_axes = ARENA_ZNEW(&r->m->arena, int, f->n_results);
    for (uint32_t p = 0; p < f->n_params; p++) in_axes[p] = batched[p] ? 0 : -1;
    return vmap_function(r->m, fn, in_axes, out_axes);
}

static struct tensor **over_lanes(struct run *r, const struct fn *f, struct tensor **lanes[LANES],
                                  const bool *batched)
{
    struct tensor **out = ARENA_NEW(&r->m->arena, struct tensor *, f->n_params);
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct tensor *each[LANES];
        for (int i = 0; i < LANES; i++) each[i] = lanes[i][p];
        out[p] = batched[p] ? stacked(r, each) : lanes[0][p];
    }
    return out;
}

static void claim_lanes(struct run *r, uint32_t fn, struct tensor **lanes[LANES], const bool *batched,
                        const char *what)
{
    const struct fn *f = module_fn(r->m, fn);
    r->doing = what;
    struct tensor **all = call(r, vmapped(r, fn, batched), over_lanes(r, f, lanes, batched));
    double worst = 0;
    for (int i = 0; i < LANES; i++) {
        struct tensor **args = ARENA_NEW(&r->m->arena, struct tensor *, f->n_params);
        for (uint32_t p = 0; p < f->n_params; p++) args[p] = batched[p] ? lanes[i][p] : lanes[0][p];
        struct tensor **one = call(r, fn, args);
        for (uint32_t k = 0; k < f->n_results; k++) {
            double error = lane_error(all[k], i, one[k]);
            if (!(error <= worst)) worst = error;
        }
    }
    CLAIM(worst <= 1e-12, "%s: %s: batched differs from a loop over lanes by %g", r->name, what, worst);
}

/* ---- programs ---- */

struct program {
    const char *name, *text;
    int64_t size;     /* of every symbol */
    const char *ints; /* values of integer and bool scalars, in order; a lane adds `spread` */
    int64_t spread;
    unsigned flags;
    uint64_t seed; /* of a random program */
};
enum {
    LANE_SIZES = 1, /* results have another size in each lane: it cannot be batched */
    NO_SECOND = 2,  /* the program is there for its first derivatives */
    SAME_INTS = 4   /* integers choose sizes: all lanes share them */
};

static struct tensor **arguments(struct run *r, const struct fn *f, const struct program *p, int lane)
{
    struct tensor **args = ARENA_NEW(&r->m->arena, struct tensor *, f->n_params);
    int64_t *symbols = ARENA_NEW(&r->m->arena, int64_t, f->n_symbols);
    const char *ints = p->ints ? p->ints : "";
    for (uint32_t s = 0; s < f->n_symbols; s++) symbols[s] = p->size;
    for (uint32_t k = 0; k < f->n_params; k++) {
        struct type t = type_get(r->m, value_type(f, k));
        int64_t dims[MAX_RANK];
        for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_eval(r->m, t.dims[d], symbols);
        args[k] = keep(r, tensor_new((enum dtype)t.dtype, t.rank, dims));
        int64_t whole = 0;
        if (t.dtype != DT_F64) {
            char *end;
            whole = strtoll(ints, &end, 10) + lane * p->spread;
            ints = end;
        }
        for (int64_t i = 0; i < args[k]->count; i++) {
            if (t.dtype == DT_F64) reals(args[k])[i] = uniform(r, 0.2, 1);
            else if (t.dtype == DT_I64) ((int64_t *)args[k]->data)[i] = whole;
            else if (t.dtype == DT_BOOL) ((uint8_t *)args[k]->data)[i] = whole & 1;
            else ((int32_t *)args[k]->data)[i] = (int32_t)whole;
        }
    }
    return args;
}

/* Arguments of vjp_function(fn): the arguments and cotangents like the results. */
static struct tensor **vjp_arguments(struct run *r, uint32_t fn, struct tensor *const *args)
{
    const struct fn *f = module_fn(r->m, fn);
    struct tensor **y = call(r, fn, args),
                  **out = ARENA_NEW(&r->m->arena, struct tensor *, f->n_params + f->n_results);
    uint32_t n = 0;
    for (; n < f->n_params; n++) out[n] = args[n];
    for (uint32_t k = 0; k < f->n_results; k++)
        if (is_float(y[k])) out[n++] = random_like(r, y[k]);
    return out;
}

static void claim_program(struct run *r, const struct program *p)
{
    uint32_t fn = module_find(r->m, "main");
    const struct fn *f = module_fn(r->m, fn);
    struct tensor **lanes[LANES], **vjp_lanes[LANES];
    for (int i = 0; i < LANES; i++) lanes[i] = arguments(r, f, p, i);
    bool *active = float_params(r, f, lanes[0]),
         *all = ARENA_NEW(&r->m->arena, bool, 2 * (size_t)f->n_params + 2 * (size_t)f->n_results);
    memset(all, true, 2 * (size_t)f->n_params + 2 * (size_t)f->n_results);
    for (uint32_t k = 0; k < f->n_params; k++) all[k] = !(p->flags & SAME_INTS) || is_float(lanes[0][k]);

    claim_derivatives(r, fn, lanes[0], "the function");
    claim_derivatives(r, fn, lanes[2], "the function, other lane");
    uint32_t vjp = vjp_function(r->m, fn, active);
    for (int i = 0; i < LANES; i++) vjp_lanes[i] = vjp_arguments(r, fn, lanes[i]);
    claim_derivatives(r, vjp, vjp_lanes[0], "its gradient");
    claim_derivatives(r, vjp, vjp_lanes[2], "its gradient, other lane");

    if (p->flags & LANE_SIZES) return;
    claim_lanes(r, fn, lanes, all, "vmap over all");
    for (uint32_t k = 0; k < f->n_params; k++) {
        bool *one = ARENA_ZNEW(&r->m->arena, bool, f->n_params);
        one[k] = true;
        if (!all[k]) continue;
        claim_lanes(r, fn, lanes, one, "vmap over one");
    }
    claim_lanes(r, vjp, vjp_lanes, all, "vmap of gradient");
    uint32_t batched = vmapped(r, fn, all);
    claim_derivatives(r, batched, over_lanes(r, f, lanes, all), "gradient of vmap");
    for (uint32_t k = 0; k < f->n_params; k++) {
        bool *one = ARENA_ZNEW(&r->m->arena, bool, f->n_params);
        one[k] = true;
        if (!all[k]) continue;
        claim_derivatives(r, vmapped(r, fn, one), over_lanes(r, f, lanes, one), "gradient of vmap over one");
    }
    if (p->flags & NO_SECOND) return;
    const struct fn *g = module_fn(r->m, vjp);
    claim_derivatives(r, vmapped(r, vjp, all), over_lanes(r, g, vjp_lanes, all),
                      "gradient of vmap of gradient");
    bool *wrt = float_params(r, g, vjp_lanes[0]);
    uint32_t second = vjp_function(r->m, vjp, wrt);
    struct tensor **second_lanes[LANES];
    for (int i = 0; i < LANES; i++) second_lanes[i] = vjp_arguments(r, vjp, vjp_lanes[i]);
    bool *everything = ARENA_NEW(&r->m->arena, bool, module_fn(r->m, second)->n_params);
    memset(everything, true, module_fn(r->m, second)->n_params);
    for (uint32_t k = 0; k < f->n_params; k++) everything[k] = all[k];
    claim_lanes(r, second, second_lanes, everything, "vmap of second gradient");
}

static void count_line(void *ctx, const char *line, size_t length)
{
    struct run *r = ctx;
    r->lines++;
    snprintf(r->last, sizeof r->last, "%.*s", (int)length, line);
}

struct job {
    struct run *r;
    const struct program *p;
    void (*claim)(struct run *r, const struct program *p);
};

static void do_job(void *ctx)
{
    struct job *j = ctx;
    text_read_into(j->r->m, j->p->name, j->p->text, strlen(j->p->text));
    j->claim(j->r, j->p);
}

static void with_program(const struct program *p, void (*claim)(struct run *r, const struct program *p))
{
    static struct run r;
    memset(&r, 0, sizeof r);
    r.m = module_new();
    r.in = (struct interp){ .m = r.m, .print = count_line, .print_ctx = &r };
    r.name = p->name;
    r.seed = 1;
    r.doing = "reading";
    struct job job = { &r, p, claim };
    hop_status status = attempt(do_job, &job);
    CLAIM(status == HOP_OK, "%s: %s: %s", p->name, r.doing, hop_message());
    for (uint32_t i = 0; i < r.n_kept; i++) tensor_free(r.kept[i]);
    module_free(r.m);
}

#include "transform_programs.h"
#include "transform_random.h"

/* ---- allocations that fail ---- */

struct failing {
    const char *text;
    struct module *m;
};

static void transform_everything(void *ctx)
{
    struct failing *c = ctx;
    c->m = module_new();
    text_read_into(c->m, "failing", c->text, strlen(c->text));
    uint32_t fn = module_find(c->m, "main");
    const struct fn *f = module_fn(c->m, fn);
    bool wrt[16] = { false }, found[16];
    int in_axes[16] = { 0 }, out_axes[16] = { 0 };
    for (uint32_t p = 0; p < f->n_params; p++) wrt[p] = type_get(c->m, value_type(f, p)).dtype == DT_F64;
    vjp_function(c->m, fn, wrt);
    jvp_function(c->m, fn, wrt, found);
    vmap_function(c->m, fn, in_axes, out_axes);
}

/* Whichever allocation fails, the transforms end with that status and lose nothing. */
static void claim_allocations(const char *name, const char *text)
{
    uint64_t n = 1, step = 1;
    for (hop_status status = HOP_NOMEM; status != HOP_OK; n += step++ / 8 + 1) {
        int64_t before = hop_live_allocations();
        struct failing c = { text, NULL };
        hop_fail_allocation(n);
        status = attempt(transform_everything, &c);
        hop_fail_allocation(0);
        module_free(c.m);
        CLAIM((status == HOP_OK || status == HOP_NOMEM) && hop_live_allocations() == before,
              "%s: allocation %llu fails: status %d, %lld allocations stay (%s)", name, (unsigned long long)n,
              status, (long long)(hop_live_allocations() - before), hop_message());
    }
}

/* transform_test [NAME] | random SEED COUNT */
int main(int argc, char **argv)
{
    bool random = argc > 3 && !strcmp(argv[1], "random");
    int64_t seed = random ? atoll(argv[2]) : 1, count = random ? atoll(argv[3]) : 40;
    for (uint32_t i = 0; !random && i < HOP_COUNT(programs); i++)
        if (argc < 2 || strstr(programs[i].name, argv[1])) with_program(&programs[i], claim_program);
    for (uint32_t i = 0; !random && i < HOP_COUNT(structure); i++)
        if (argc < 2 || strstr(structure[i].program.name, argv[1]))
            with_program(&structure[i].program, structure[i].claim);
    if (argc < 2) {
        claim_allocations("rnn", RNN);
        claim_allocations("cond in while in scan", COND_IN_WHILE_IN_SCAN);
        claim_allocations("while in blocks", COUNTED_WHILE_WITH("{every = [2]}"));
    }
    for (int64_t i = 0; (random || argc < 2) && i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "random program %lld", (long long)(seed + i));
        with_program(&(struct program){ .name = name,
                                        .text = "hop 1\n",
                                        .size = 3,
                                        .seed = (uint64_t)(seed + i),
                                        .ints = "1",
                                        .spread = 1 },
                     random_program);
    }
    return tests_end();
}
