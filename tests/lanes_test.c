/* Lanes and branches: vmap with any axes, once and twice, alone and around and inside gradients, against
 * loops over lanes; and claims about what the transforms make: how much the gradient of a switch keeps, which
 * carries of a batched loop stay single, which branches are guarded, what is left after the passes. */
#include "check.h"
#include "interp/interp.h"
#include "ir/text.h"
#include "ops/build.h"
#include "transform/simplify.h"
#include "transform/transform.h"

#include <math.h>

enum { MAX_TENSORS = 1 << 14, MAX_PARAMS = 8 };

struct run {
    struct module *m;
    struct interp in;
    const char *name;
    uint64_t seed;
    struct tensor *kept[MAX_TENSORS];
    uint32_t n_kept;
};

static struct tensor *keep(struct run *r, struct tensor *t)
{
    if (r->n_kept == MAX_TENSORS) hop_throw(HOP_INTERNAL, "the test keeps too many tensors");
    return r->kept[r->n_kept++] = t;
}

static uint64_t next_random(struct run *r)
{
    uint64_t z = r->seed += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static int below(struct run *r, int n) { return (int)(next_random(r) % (uint64_t)n); }

static struct tensor **call(struct run *r, uint32_t fn, struct tensor *const *args)
{
    const struct fn *f = module_fn(r->m, fn);
    struct tensor **results = ARENA_ZNEW(&r->m->arena, struct tensor *, f->n_results + 1);
    verify_fn(r->m, fn);
    interp_run(&r->in, fn, args, NULL, results);
    for (uint32_t k = 0; k < f->n_results; k++) keep(r, results[k]);
    return results;
}

/* ---- axes ---- */

/* Lane `lane` of t along `axis`; -1: t itself. */
static struct tensor *lane_of(struct run *r, struct tensor *t, int axis, int64_t lane)
{
    if (axis < 0) return t;
    int64_t dims[MAX_RANK], inner = 1, outer = 1;
    uint32_t rank = 0;
    for (int d = 0; d < t->rank; d++) {
        if (d != axis) dims[rank++] = t->dims[d];
        if (d < axis) outer *= t->dims[d];
        if (d > axis) inner *= t->dims[d];
    }
    struct tensor *out = keep(r, tensor_new((enum dtype)t->dtype, rank, dims));
    size_t bytes = (size_t)inner * dtype_info[t->dtype].size;
    for (int64_t i = 0; i < outer && bytes; i++)
        memcpy((char *)out->data + (size_t)i * bytes,
               (char *)t->data + (size_t)(i * t->dims[axis] + lane) * bytes, bytes);
    return out;
}

static double number_at(const struct tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DT_BOOL: return ((const uint8_t *)t->data)[i];
    case DT_I64: return (double)((const int64_t *)t->data)[i];
    default: return ((const double *)t->data)[i];
    }
}

static double difference(const struct tensor *a, const struct tensor *b)
{
    double worst = 0;
    if (a->dtype != b->dtype || a->rank != b->rank || a->count != b->count) return INFINITY;
    for (int64_t i = 0; i < a->count; i++) {
        double x = number_at(a, i), y = number_at(b, i),
               error = x == y || (isnan(x) && isnan(y)) ? 0 : fabs(x - y) / fmax(1, fabs(y));
        worst = error <= worst ? worst
                : isnan(error) ? INFINITY
                               : error; /* a NaN on one side only is as wrong as can be */
    }
    return worst;
}

/* One vmap: which axis of each parameter and result, in terms of the batched function. */
struct level {
    int in[MAX_PARAMS], out[MAX_PARAMS];
    int64_t lanes;
};

static struct level random_level(struct run *r, uint32_t fn, bool floats_only)
{
    const struct fn *f = module_fn(r->m, fn);
    struct level l = { .lanes = 2 + below(r, 2) };
    bool any = false;
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct type t = type_get(r->m, value_type(f, p));
        l.in[p] = below(r, 3) && (!floats_only || t.dtype == DT_F64) ? below(r, t.rank + 1) : -1;
        any |= l.in[p] >= 0;
    }
    if (!any) l.in[0] = 0;
    for (uint32_t k = 0; k < f->n_results; k++)
        l.out[k] = below(r, type_get(r->m, value_type(f, f->results[k])).rank + 1);
    return l;
}

static struct tensor *random_tensor(struct run *r, type_id type, const struct level *levels,
                                    uint32_t n_levels, uint32_t p)
{
    struct type t = type_get(r->m, type);
    int64_t dims[MAX_RANK];
    uint32_t rank = t.rank;
    for (uint32_t d = 0; d < rank; d++) dims[d] = dim_const_value(r->m, t.dims[d]);
    for (uint32_t l = 0; l < n_levels; l++) {
        int axis = levels[l].in[p];
        if (axis < 0) continue;
        memmove(dims + axis + 1, dims + axis, (rank++ - (uint32_t)axis) * sizeof *dims);
        dims[axis] = levels[l].lanes;
    }
    struct tensor *x = keep(r, tensor_new((enum dtype)t.dtype, rank, dims));
    for (int64_t i = 0; i < x->count; i++) {
        if (t.dtype == DT_F64) ((double *)x->data)[i] = (double)(int64_t)(next_random(r) >> 11) * 0x1p-51 - 2;
        else if (t.dtype == DT_I64) ((int64_t *)x->data)[i] = below(r, 6) - 1;
        else ((uint8_t *)x->data)[i] = (uint8_t)below(r, 2);
    }
    return x;
}

/* The batched function, and the function on each lane: fn is batched by levels[0], then levels[1], …;
 * wholes[n] belongs to n levels. */
static double lanes_error(struct run *r, const uint32_t *wholes, const struct level *levels, uint32_t n,
                          struct tensor *const *args, struct tensor *const *results)
{
    const struct fn *f = module_fn(r->m, wholes[0]);
    double worst = 0;
    if (!n) {
        struct tensor **one = call(r, wholes[0], args);
        for (uint32_t k = 0; k < f->n_results; k++) worst = fmax(worst, difference(results[k], one[k]));
        return worst;
    }
    for (int64_t i = 0; i < levels[n - 1].lanes; i++) {
        struct tensor *inner[MAX_PARAMS], *out[MAX_PARAMS];
        for (uint32_t p = 0; p < f->n_params; p++) inner[p] = lane_of(r, args[p], levels[n - 1].in[p], i);
        for (uint32_t k = 0; k < f->n_results; k++) out[k] = lane_of(r, results[k], levels[n - 1].out[k], i);
        worst = fmax(worst, lanes_error(r, wholes, levels, n - 1, inner, out));
    }
    return worst;
}

static void claim_axes(struct run *r, uint32_t fn, const char *what, bool floats_only)
{
    for (uint32_t n_levels = 1; n_levels <= 2; n_levels++)
        for (int round = 0; round < 6; round++) {
            uint32_t wholes[3] = { fn };
            struct level levels[2];
            const struct fn *f = module_fn(r->m, fn);
            for (uint32_t l = 0; l < n_levels; l++) {
                levels[l] = random_level(r, wholes[l], floats_only);
                wholes[l + 1] = vmap_function(r->m, wholes[l], levels[l].in, levels[l].out);
            }
            struct tensor *args[MAX_PARAMS];
            for (uint32_t p = 0; p < f->n_params; p++)
                args[p] = random_tensor(r, value_type(f, p), levels, n_levels, p);
            struct tensor **results = call(r, wholes[n_levels], args);
            double error = lanes_error(r, wholes, levels, n_levels, args, results);
            CLAIM(error <= 1e-12, "%s: %s, %u levels: differs from a loop over lanes by %g", r->name, what,
                  n_levels, error);
            results = call(r, simplify(r->m, wholes[n_levels], NULL), args);
            error = lanes_error(r, wholes, levels, n_levels, args, results);
            CLAIM(error <= 1e-12, "%s: %s, %u levels, after the passes: differs from a loop over lanes by %g",
                  r->name, what, n_levels, error);
        }
}

/* The function by itself, its gradient, its gradient's gradient, and the gradient of it batched. */
static void claim_transforms(struct run *r)
{
    uint32_t fn = module_find(r->m, "main");
    const struct fn *f = module_fn(r->m, fn);
    bool wrt[MAX_PARAMS] = { false };
    for (uint32_t p = 0; p < f->n_params; p++) wrt[p] = type_get(r->m, value_type(f, p)).dtype == DT_F64;
    claim_axes(r, fn, "vmap", false);
    uint32_t grad = grad_function(r->m, fn, wrt, true);
    claim_axes(r, grad, "vmap of grad", false);
    const struct fn *g = module_fn(r->m, grad);
    bool active[MAX_PARAMS], found[MAX_PARAMS];
    for (uint32_t p = 0; p < g->n_params; p++) active[p] = wrt[p];
    uint32_t twice = jvp_function(r->m, grad, active, found);
    if (module_fn(r->m, twice)->n_params <= MAX_PARAMS && module_fn(r->m, twice)->n_results <= MAX_PARAMS)
        claim_axes(r, twice, "vmap of jvp of grad", false);
}

/* The pullback of the batched function on cotangents of one is, lane by lane, the gradient; shared parameters
 * get the sum. */
static void claim_gradient_of_lanes(struct run *r)
{
    uint32_t fn = module_find(r->m, "main");
    const struct fn *f = module_fn(r->m, fn);
    for (int round = 0; round < 8; round++) {
        struct level l = random_level(r, fn, false);
        bool wrt[MAX_PARAMS] = { false };
        uint32_t n_wrt = 0;
        for (uint32_t p = 0; p < f->n_params; p++)
            n_wrt += wrt[p] = type_get(r->m, value_type(f, p)).dtype == DT_F64;
        uint32_t pullback = vjp_function(r->m, vmap_function(r->m, fn, l.in, l.out), wrt),
                 grad = grad_function(r->m, fn, wrt, false);
        struct tensor *args[2 * MAX_PARAMS];
        uint32_t n = f->n_params;
        for (uint32_t p = 0; p < n; p++) args[p] = random_tensor(r, value_type(f, p), &l, 1, p);
        for (uint32_t k = 0; k < f->n_results; k++) {
            if (type_get(r->m, value_type(f, f->results[k])).dtype != DT_F64) continue;
            struct type t = type_get(r->m, value_type(module_fn(r->m, pullback), n));
            int64_t dims[MAX_RANK];
            for (uint32_t d = 0; d < t.rank; d++)
                dims[d] = dim_is_const(r->m, t.dims[d]) ? dim_const_value(r->m, t.dims[d]) : l.lanes;
            struct tensor *ct = args[n++] = keep(r, tensor_new(DT_F64, t.rank, dims));
            for (int64_t i = 0; i < ct->count; i++) ((double *)ct->data)[i] = k == 0;
        }
        struct tensor **all = call(r, pullback, args), *sums[MAX_PARAMS] = { NULL };
        double worst = 0;
        for (int64_t i = 0; i < l.lanes; i++) {
            struct tensor *inner[MAX_PARAMS];
            for (uint32_t p = 0; p < f->n_params; p++) inner[p] = lane_of(r, args[p], l.in[p], i);
            struct tensor **one = call(r, grad, inner);
            for (uint32_t p = 0, w = 0; p < f->n_params; p++) {
                if (!wrt[p]) continue;
                if (l.in[p] >= 0)
                    worst = fmax(worst, difference(lane_of(r, all[f->n_results + w], l.in[p], i), one[w]));
                else if (!sums[w]) sums[w] = one[w];
                else
                    for (int64_t e = 0; e < one[w]->count; e++)
                        ((double *)sums[w]->data)[e] += number_at(one[w], e);
                w++;
            }
        }
        for (uint32_t w = 0; w < n_wrt; w++)
            if (sums[w]) worst = fmax(worst, difference(all[f->n_results + w], sums[w]));
        CLAIM(worst <= 1e-11, "%s: gradient of vmap: differs from gradients of the lanes by %g", r->name,
              worst);
    }
}

static void claim_lanes(struct run *r)
{
    claim_transforms(r);
    claim_gradient_of_lanes(r);
}

static const struct {
    const char *name, *text;
} programs[] = {
    { "branches at the edge of their domain",
      "hop 1\nfn @main(%x: f64[3], %w: f64[3, 2], %i: i64[]) -> (f64[], f64[2]) {\n"
      "  %r = switch(%i) [(%x) {\n    %l = log(%x)\n    %s = sum(%l)\n    yield(%s)\n  }, (%x, %w) {\n    %m "
      "= matmul(%x, %w)\n    %q = sqrt(%m)\n    %s = sum(%q)\n    yield(%s)\n  }, (%x) {\n"
      "    %d = div(%x, %x)\n    %s = sum(%d)\n    yield(%s)\n  }]\n"
      "  %m = matmul(%x, %w)\n  return %r, %m\n}\n" },
    { "a loop with a stop for each lane",
      "hop 1\nfn @main(%x: f64[2], %w: f64[2, 2], %n: i64[]) -> (f64[], i64[]) {\n"
      "  %z = full {value = 0, dims = [], dtype = i64}\n"
      "  %i, %c = while_loop carry(%i = %z, %c = %x) cond with(%n) {\n    %a = lt(%i, %n)\n    %s = "
      "sum(%c)\n    %five = full {value = 5, dims = [], dtype = f64}\n    %b = lt(%s, %five)\n"
      "    %p = and(%a, %b)\n    test(%p)\n  } body with(%w) {\n    %one = full {value = 1, dims = [], dtype "
      "= i64}\n    %j = add(%i, %one)\n    %m = matmul(%c, %w)\n    %t = sin(%m)\n"
      "    %q = add(%t, %c)\n    next(%j, %q)\n  }\n"
      "  %s = sum(%c)\n  return %s, %i\n}\n" },
    { "a product that divides by what it counts down",
      "hop 1\nfn @main(%x: f64[], %n: i64[]) -> (f64[]) {\n"
      "  %i, %c = while_loop carry(%i = %n, %c = %x) cond {\n    %z = full {value = 0, dims = [], dtype = "
      "i64}\n    %p = gt(%i, %z)\n    test(%p)\n  } body {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n    %j = sub(%i, %one)\n    %f = cast {dtype = "
      "f64} (%i)\n    %q = div(%c, %f)\n    %l = abs(%q)\n    %s = sqrt(%l)\n    %g = log(%f)\n"
      "    %d = div(%s, %f)\n    %e = add(%d, %g)\n    next(%j, %e)\n  }\n  return %c\n}\n" },
    { "counted loops with bounds for each lane",
      "hop 1\nfn @main(%x: f64[2], %a: i64[], %b: i64[]) -> (f64[]) {\n"
      "  %h = full {value = 0.5, dims = [], dtype = f64}\n"
      "  %c, %d = fori_loop carry(%c = %x, %d = %h) from(%i = %a) to(%b) with(%x) {\n    %f = cast {dtype = "
      "f64} (%i)\n    %s = sin(%f)\n    %t = broadcast {dims = [2], at = []} (%s)\n"
      "    %m = mul(%c, %t)\n    %n = add(%m, %x)\n    %e = cos(%d)\n    next(%n, %e)\n  }\n"
      "  %s = sum(%c)\n  %r = mul(%s, %d)\n  return %r\n}\n" },
    { "running totals of pairs, a branch in them",
      "hop 1\nfn @main(%x: f64[4], %y: f64[4], %i: i64[]) -> (f64[]) {\n"
      "  %a, %b = associative_scan over((%l, %r) in %x, (%m, %s) in %y) with(%i) {\n    %p = mul(%l, %r)\n   "
      " %q = switch(%i) [(%m, %s) {\n      %t = add(%m, %s)\n      yield(%t)\n    }, (%m, %s) {\n"
      "      %t = max(%m, %s)\n      yield(%t)\n    }]\n    next(%p, %q)\n  }\n  %t = mul(%a, %b)\n  %s = "
      "sum(%t)\n  return %s\n}\n" },
    { "a switch in a scan in a map",
      "hop 1\nfn @main(%x: f64[2, 3], %w: f64[], %p: bool[]) -> (f64[]) {\n"
      "  %ys = map over(%row in %x) with(%w, %p) {\n    %c = scan carry(%c = %w) over(%e in %row) with(%p) "
      "{\n      %z = full {value = 0, dims = [], dtype = f64}\n      %g = gt(%e, %z)\n"
      "      %q = and(%g, %p)\n      %n = switch(%q) [(%c, %e) {\n        %m = mul(%c, %e)\n        "
      "yield(%m)\n      }, (%c, %e) {\n        %l = log(%e)\n        %a = add(%c, %l)\n        yield(%a)\n   "
      "   }]\n"
      "      next(%n)\n    }\n    stack(%c)\n  }\n  %s = sum(%ys)\n  return %s\n}\n" },
};

/* ---- structure ---- */

static int64_t bytes_of(const struct run *r, type_id t)
{
    struct type type = type_get(r->m, t);
    int64_t n = dtype_info[type.dtype].size;
    for (uint32_t i = 0; i < type.rank; i++) n *= dim_const_value(r->m, type.dims[i]);
    return n;
}

static const struct node *find_node(const struct fn *f, enum op op, uint32_t skip)
{
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (fn_node(f, i)->op == op && !skip--) return fn_node(f, i);
    return NULL;
}

/* Bytes that the first switch of the gradient gives beside its results, and how many results the last one
 * gives. */
static void gradient_of_switch(struct run *r, const char *name, int64_t *kept, uint32_t *given)
{
    uint32_t fn = module_find(r->m, name);
    const struct fn *f = module_fn(r->m, fn);
    bool wrt[MAX_PARAMS] = { false };
    for (uint32_t p = 0; p < f->n_params; p++) wrt[p] = type_get(r->m, value_type(f, p)).dtype == DT_F64;
    const struct fn *g = module_fn(r->m, simplify(r->m, grad_function(r->m, fn, wrt, true), NULL));
    const struct node *first = find_node(g, OP_switch, 0), *second = find_node(g, OP_switch, 1);
    *kept = -1, *given = 0;
    if (!first || !second) return;
    *kept = 0;
    for (uint32_t k = 1; k < first->n_results; k++) *kept += bytes_of(r, value_type(g, first->results + k));
    *given = second->n_results;
}

#define BRANCHES(attribute) \
    "(%i: i64[], %x: f64[1000], %y: f64[400], %z: f64[1000]) -> (f64[]) {\n" \
    "  %r = switch " attribute \
    " (%i) [(%x) {\n    %a = exp(%x)\n    %b = sin(%a)\n    %s = sum(%b)\n    yield(%s)\n  }, (%y) {\n    " \
    "%a = exp(%y)\n    %b = sin(%a)\n    %c = tanh(%b)\n    %s = sum(%c)\n" \
    "    yield(%s)\n  }, (%x) {\n    %a = tanh(%x)\n    %s = sum(%a)\n    yield(%s)\n  }, (%z) {\n    %f = " \
    "floor(%z)\n    %s = sum(%f)\n    yield(%s)\n  }]\n  return %r\n}\n"
static const char slots_text[] = "hop 1\nfn @slots" BRANCHES("") "fn @tagged" BRANCHES(
    "{recompute}") "fn @looked_up(%p: bool[], %x: f64[1000], %at: i64[1000]) -> (f64[]) {\n"
                   "  %r = switch(%p) [(%x) {\n    %s = sum(%x)\n    yield(%s)\n  }, (%x, %at) {\n    %a = "
                   "take(%x, %at)\n    %b = mul(%a, %a)\n    %s = sum(%b)\n    yield(%s)\n  }]\n  return "
                   "%r\n}\n";

static void claim_slots(struct run *r)
{
    int64_t kept;
    uint32_t given;
    gradient_of_switch(r, "slots", &kept, &given);
    CLAIM(kept == 8000, "branches that save 8000, 6400 and 8000 bytes share 8000, found %lld",
          (long long)kept);
    CLAIM(given == 2, "a cotangent that is zero in all branches is no result, found %u results", given);
    gradient_of_switch(r, "tagged", &kept, &given);
    CLAIM(kept == 0, "a switch with recompute keeps nothing but operands, found %lld bytes", (long long)kept);
    gradient_of_switch(r, "looked_up", &kept, &given);
    CLAIM(kept == 0, "what is cheaper to look up again than to keep is not kept, found %lld bytes",
          (long long)kept);
}

static uint32_t batched(struct run *r, const char *name, const bool *which)
{
    uint32_t fn = module_find(r->m, name);
    const struct fn *f = module_fn(r->m, fn);
    int in[MAX_PARAMS], out[MAX_PARAMS] = { 0 };
    for (uint32_t p = 0; p < f->n_params; p++) in[p] = which[p] ? 0 : -1;
    return vmap_function(r->m, fn, in, out);
}

static uint32_t count_ops(const struct fn *f, enum op op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) n += fn_node(f, i)->op == op;
    return n;
}

static const char loops_text[] =
    "hop 1\n"
    "fn @shared(%x: f64[], %n: i64[], %d: f64[8]) -> (f64[]) {\n"
    "  %z = full {value = 0, dims = [], dtype = i64}\n"
    "  %i, %c = while_loop carry(%i = %z, %c = %x) cond with(%n) {\n    %q = mul(%i, %i)\n    %p = lt(%q, "
    "%n)\n    test(%p)\n  } body with(%d) {\n    %one = full {value = 1, dims = [], dtype = i64}\n    %j = "
    "add(%i, %one)\n"
    "    %e = take(%d, %i)\n    %m = mul(%c, %e)\n    next(%j, %m)\n  }\n  return %c\n}\n"
    "fn @counted(%x: f64[], %n: i64[], %d: f64[8]) -> (f64[]) {\n"
    "  %z = full {value = 0, dims = [], dtype = i64}\n"
    "  %c = fori_loop carry(%c = %x) from(%i = %z) to(%n) with(%d) {\n    %e = take(%d, %i)\n    %m = "
    "mul(%c, %e)\n    next(%m)\n  }\n  return %c\n}\n";

/* n shared: the loop as it is, no mask. n batched: one choice for each batched carry, the counter a single
 * number, the table read at one place. */
static void claim_loops(struct run *r)
{
    const struct fn *plain = module_fn(r->m, batched(r, "shared", (bool[]){ true, false, false }));
    const struct node *loop = find_node(plain, OP_while_loop, 0);
    CLAIM(loop && loop->n_results == 2 && !type_get(r->m, value_type(plain, loop->results)).rank,
          "a counter that is the same for all lanes stays one number");
    CLAIM(loop && !count_ops(module_fn(r->m, node_region(plain, loop, 1)->fn), OP_select),
          "a loop that all lanes leave together has no mask");
    static const struct {
        const char *name;
        enum op op;
        uint32_t region;
    } masked[] = { { "shared", OP_while_loop, 1 }, { "counted", OP_fori_loop, 0 } };
    for (uint32_t i = 0; i < HOP_COUNT(masked); i++) {
        const struct fn *f =
            module_fn(r->m, simplify(r->m, batched(r, masked[i].name, (bool[]){ true, true, false }), NULL));
        const struct node *n = find_node(f, masked[i].op, 0);
        const struct fn *body = n ? module_fn(r->m, node_region(f, n, masked[i].region)->fn) : NULL;
        CLAIM(body && count_ops(body, OP_select) == 1,
              "%s: a masked loop with one batched carry makes one choice a step", masked[i].name);
        CLAIM(body && count_ops(body, OP_gather) == 1 && !count_ops(body, OP_reduce_max),
              "%s: nothing is left of what keeps gradients safe", masked[i].name);
        for (uint32_t k = 0; body && k < body->n_nodes; k++)
            if (fn_node(body, k)->op == OP_gather)
                CLAIM(!type_get(r->m, value_type(body, fn_node(body, k)->results)).rank,
                      "%s: the table is read at one place for all lanes", masked[i].name);
    }
}

static const char choices_text[] =
    "hop 1\n"
    "fn @cheap(%p: bool[], %x: f64[]) -> (f64[]) {\n  %r = switch(%p) [(%x) {\n    %a = neg(%x)\n    "
    "yield(%a)\n  }, (%x) {\n    %a = mul(%x, %x)\n    yield(%a)\n  }]\n  return %r\n}\n"
    "fn @dear(%p: bool[], %x: f64[40, 40]) -> (f64[40, 40]) {\n  %r = switch(%p) [(%x) {\n    yield(%x)\n  "
    "}, (%x) {\n    %a = matmul(%x, %x)\n    yield(%a)\n  }]\n  return %r\n}\n";

static void claim_choices(struct run *r)
{
    const struct fn *f = module_fn(r->m, simplify(r->m, batched(r, "cheap", (bool[]){ true, true }), NULL));
    CLAIM(!count_ops(f, OP_switch) && count_ops(f, OP_select) == 1 && !count_ops(f, OP_gather),
          "cheap branches become one choice");
    const struct node *n;
    f = module_fn(r->m, simplify(r->m, batched(r, "dear", (bool[]){ true, true }), NULL));
    n = find_node(f, OP_switch, 0);
    CLAIM(n && count_ops(f, OP_any) == 1, "a branch that costs much runs only if a lane takes it");
}

/* ---- what a function that is simplified and then differentiated gives ---- */

static const char safe_text[] = "hop 1\nfn @main(%x: f64[]) -> (f64[]) {\n"
                                "  %z = full {value = 0, dims = [], dtype = f64}\n  %p = gt(%x, %z)\n"
                                "  %r = switch(%p) [(%x) {\n    %m = mul(%x, %x)\n    yield(%m)\n  }, (%x) "
                                "{\n    %s = sqrt(%x)\n    yield(%s)\n  }]\n  return %r\n}\n";

static void claim_safe_after_passes(struct run *r)
{
    uint32_t fn = simplify(r->m, batched(r, "main", (bool[]){ true }),
                           &(struct pass_options){ .strict = true, .differentiable = true });
    uint32_t pullback = vjp_function(r->m, fn, (bool[]){ true });
    int64_t lanes = 3;
    struct tensor *x = keep(r, tensor_new(DT_F64, 1, &lanes)), *ct = keep(r, tensor_new(DT_F64, 1, &lanes));
    for (int i = 0; i < 3; i++)
        ((double *)x->data)[i] = (double[]){ 0, -3, 4 }[i], ((double *)ct->data)[i] = 1;
    struct tensor **out = call(r, pullback, (struct tensor *[]){ x, ct });
    const double *g = out[1]->data;
    CLAIM(g[0] == 0 && g[1] == -6 && g[2] == 0.25,
          "the gradient of a simplified batched function: expected 0, -6, 0.25, found %g, %g, %g", g[0], g[1],
          g[2]);
}

/* ---- */

struct job {
    struct run *r;
    const char *text;
    void (*claim)(struct run *r);
};

static void do_job(void *ctx)
{
    struct job *j = ctx;
    text_read_into(j->r->m, j->r->name, j->text, strlen(j->text));
    j->claim(j->r);
}

static void with_program(const char *name, const char *text, uint64_t seed, void (*claim)(struct run *r))
{
    static struct run r;
    memset(&r, 0, sizeof r);
    r.m = module_new();
    r.in = (struct interp){ .m = r.m };
    r.name = name;
    r.seed = seed;
    struct job job = { &r, text, claim };
    hop_status status = attempt(do_job, &job);
    CLAIM(status == HOP_OK, "%s: %s", name, hop_message());
    for (uint32_t i = 0; i < r.n_kept; i++) tensor_free(r.kept[i]);
    module_free(r.m);
}

/* lanes_test [SEEDS] */
int main(int argc, char **argv)
{
    int seeds = argc > 1 ? atoi(argv[1]) : 4;
    for (int s = 1; s <= seeds; s++)
        for (uint32_t i = 0; i < HOP_COUNT(programs); i++)
            with_program(programs[i].name, programs[i].text, (uint64_t)s, claim_lanes);
    with_program("slots", slots_text, 1, claim_slots);
    with_program("loops", loops_text, 1, claim_loops);
    with_program("choices", choices_text, 1, claim_choices);
    with_program("safe after passes", safe_text, 1, claim_safe_after_passes);
    return tests_end();
}
