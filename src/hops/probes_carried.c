/* Transforms of functions with probes. The probes are lifted out first, so that what is transformed has their
 * values as results, which have no derivatives, and perturbations as parameters; around what comes out of the
 * transform, perturbations are zeros that can be perturbed, and the values are marked by their names again.
 */
#include "hops/hops.h"
#include "hops/probes.h"

struct carried {
    struct module *m;
    struct arena arena;
    const struct fn *f; /* what is transformed */
    struct probed l;    /* lifted, with f's updates of parameters */
    uint32_t n_p, n_v;  /* perturbations, values */
};

static void carried_begin(struct carried *c, struct module *m, uint32_t fn)
{
    static const struct probe_request all = { .gives = true, .takes = true, .lenient = true };
    *c = (struct carried){ .m = m, .f = module_fn(m, fn) };
    hop_cleanup_push(arena_free, &c->arena);
    c->l = probes_lifted(m, fn, &all);
    c->n_p = c->l.takes.len;
    c->n_v = c->l.gives.len;
    if (!fn_has_updates(c->f)) return;
    uint32_t n = c->f->n_results + c->n_v, *updates = ARENA_NEW(&c->arena, uint32_t, n);
    for (uint32_t k = 0; k < n; k++) updates[k] = k < c->f->n_results ? fn_updated(c->f, k) : HOP_NONE;
    c->l.fn = module_with_updates(m, c->l.fn, updates);
}

static uint32_t carried_end(struct carried *c, uint32_t fn)
{
    hop_cleanup_pop(&c->arena);
    arena_free(&c->arena);
    return fn;
}

/* wrt with nothing for the perturbations, which stand behind the parameters. */
static const bool *mask_of(struct carried *c, const bool *wrt)
{
    bool *mask = ARENA_ZNEW(&c->arena, bool, c->f->n_params + c->n_p + 1);
    if (c->f->n_params) memcpy(mask, wrt, c->f->n_params);
    return mask;
}

static uint32_t visible_results(const struct fn *f)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->n_results; k++) n += fn_updated(f, k) == HOP_NONE;
    return n;
}

static val tagged(struct builder *b, val x, uint32_t path, enum tag_use use)
{
    struct attr attrs[TAG_ATTRS] = { [TAG_NAME] = A_STRING(path), [TAG_USE] = A_WORD(use) };
    return emit(b, OP_tag, &x, 1, attrs);
}

/* A function around h, which is a transform of the lifted one. */
struct around {
    struct builder b;
    const struct fn *h;
    val *args, *results;
    val *out;
    uint32_t n_out;
};

/* h's parameters are parameters, but for the perturbations behind the function's own. */
static void around_begin(struct around *w, struct carried *c, uint32_t h, const char *suffix)
{
    w->h = module_fn(c->m, h);
    builder_begin(&w->b, c->m, w->h);
    w->b.label = module_label(c->m, fn_label(c->f), suffix);
    w->args = ARENA_NEW(&w->b.arena, val, w->h->n_params + 1);
    w->results = ARENA_NEW(&w->b.arena, val, w->h->n_results + 1);
    w->out = ARENA_NEW(&w->b.arena, val, w->h->n_results + c->n_p + 1);
    w->n_out = 0;
    uint32_t first = c->f->n_params;
    for (uint32_t p = 0; p < w->h->n_params; p++)
        if (p < first || p >= first + c->n_p)
            w->args[p] = builder_param(&w->b, value_type(w->h, p), w->h->values[p].name);
    for (uint32_t k = 0; k < c->n_p; k++) {
        val zero = zeros_of(&w->b, value_type(w->h, first + k));
        w->args[first + k] = tagged(&w->b, zero, c->l.takes.data[k].path, TAG_TAKES);
    }
    /* what rules made of the lifted function is no probe of it */
    inline_function(&w->b, without_probes(c->m, h), NULL, w->args, w->results);
}

/* The values among the results of h, from `at` on, are marked. */
static void around_mark(struct around *w, const struct carried *c, uint32_t at)
{
    for (uint32_t k = 0; k < c->n_v; k++) {
        const struct probe_point *p = &c->l.gives.data[k];
        w->b.place = p->place;
        tagged(&w->b, w->results[at + k], p->path, TAG_GIVES);
    }
    w->b.place = (struct place){ 0 };
}

/* Results of h are results. */
static void around_give(struct around *w, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to; k++) {
        uint32_t updated = fn_updated(w->h, k);
        if (updated != HOP_NONE) builder_mut(&w->b, updated, w->n_out);
        w->out[w->n_out++] = w->results[k];
    }
}

static uint32_t around_finish(struct around *w) { return builder_finish(&w->b, w->out, w->n_out); }

uint32_t carried_grad(struct module *m, uint32_t fn, const bool *wrt, bool with_value)
{
    if (!has_probes(m, fn)) return grad_of(m, fn, wrt, with_value);
    struct carried c;
    struct around w;
    carried_begin(&c, m, fn);
    uint32_t n = visible_results(c.f), n_news = with_value ? c.f->n_results - n : 0;
    uint32_t lifted = with_value ? c.l.fn : visible_function(m, c.l.fn);
    around_begin(&w, &c, grad_of(m, lifted, mask_of(&c, wrt), true), "grad");
    around_mark(&w, &c, n);
    if (with_value) around_give(&w, 0, n);
    around_give(&w, n + c.n_v, n + c.n_v + n_news);
    around_give(&w, n + c.n_v + n_news, w.h->n_results);
    return carried_end(&c, around_finish(&w));
}

/* Which results have derivatives: all but the values of probes. */
static const bool *wanted_of(struct carried *c, uint32_t n)
{
    bool *wanted = ARENA_ZNEW(&c->arena, bool, n + c->n_v + 1);
    memset(wanted, true, n);
    return wanted;
}

uint32_t carried_vjp(struct module *m, uint32_t fn, const bool *wrt)
{
    if (!has_probes(m, fn)) return vjp_function(m, visible_function(m, fn), wrt);
    struct carried c;
    struct around w;
    carried_begin(&c, m, fn);
    uint32_t n = visible_results(c.f), lifted = visible_function(m, c.l.fn);
    around_begin(&w, &c, vjp_of_some(m, lifted, mask_of(&c, wrt), wanted_of(&c, n)), "vjp");
    around_mark(&w, &c, n);
    around_give(&w, 0, n);
    around_give(&w, n + c.n_v, w.h->n_results);
    return carried_end(&c, around_finish(&w));
}

uint32_t carried_jvp(struct module *m, uint32_t fn, const bool *wrt)
{
    if (!has_probes(m, fn)) return jvp_of(m, fn, wrt);
    struct carried c;
    struct around w;
    carried_begin(&c, m, fn);
    uint32_t n = visible_results(c.f), lifted = visible_function(m, c.l.fn), n_floats = 0;
    const struct fn *l = module_fn(m, lifted);
    for (uint32_t k = 0; k < n; k++)
        n_floats += dtype_is_float((enum dtype)type_get(m, value_type(l, l->results[k])).dtype);
    around_begin(&w, &c, jvp_of(m, lifted, mask_of(&c, wrt)), "jvp");
    around_mark(&w, &c, n);
    around_give(&w, 0, n);
    around_give(&w, n + c.n_v, n + c.n_v + n_floats);
    return carried_end(&c, around_finish(&w));
}

uint32_t carried_vmap(struct module *m, uint32_t fn, const int *in_axes, const int *out_axes, axis_set axis)
{
    if (!has_probes(m, fn)) return vmap_of(m, fn, in_axes, out_axes, axis);
    struct carried c;
    struct around w;
    carried_begin(&c, m, fn);
    uint32_t n_x = c.f->n_params, n_y = c.f->n_results;
    int *in = ARENA_ZNEW(&c.arena, int, n_x + c.n_p + 1), *out = ARENA_ZNEW(&c.arena, int, n_y + c.n_v + 1);
    if (n_x) memcpy(in, in_axes, n_x * sizeof *in);
    if (n_y) memcpy(out, out_axes, n_y * sizeof *out);
    around_begin(&w, &c, vmap_of(m, c.l.fn, in, out, axis), "vmap");
    around_mark(&w, &c, n_y);
    around_give(&w, 0, n_y);
    return carried_end(&c, around_finish(&w));
}

/* The second half of a derivative takes perturbations and values among what the first one keeps. */
static uint32_t second_around(struct carried *c, uint32_t second, uint32_t n_y)
{
    struct builder b;
    const struct fn *g = module_fn(c->m, second);
    uint32_t n_x = c->f->n_params, first_y = n_x + c->n_p, first_v = first_y + n_y;
    builder_begin(&b, c->m, g);
    b.label = fn_label(g);
    val *args = ARENA_NEW(&b.arena, val, g->n_params + 1),
        *results = ARENA_NEW(&b.arena, val, g->n_results + 1);
    uint32_t *order = ARENA_NEW(&b.arena, uint32_t, g->n_params + 1), n = 0;
    for (uint32_t p = 0; p < n_x; p++) order[n++] = p;
    for (uint32_t p = first_y; p < first_v; p++) order[n++] = p;
    for (uint32_t p = n_x; p < first_y; p++) order[n++] = p;
    for (uint32_t p = first_v; p < g->n_params; p++) order[n++] = p;
    for (uint32_t k = 0; k < n; k++)
        args[order[k]] = builder_param(&b, value_type(g, order[k]), g->values[order[k]].name);
    inline_function(&b, second, NULL, args, results);
    return builder_finish(&b, results, g->n_results);
}

void carried_halves(struct module *m, uint32_t fn, const bool *wrt, bool reverse, uint32_t *forward,
                    uint32_t *second)
{
    void (*halves)(struct module *, uint32_t, const bool *, const bool *, uint32_t *,
                   uint32_t *) = reverse ? vjp_two_functions : jvp_two_functions;
    if (!has_probes(m, fn)) {
        halves(m, visible_function(m, fn), wrt, NULL, forward, second);
        return;
    }
    struct carried c;
    struct around w;
    uint32_t first, last;
    carried_begin(&c, m, fn);
    uint32_t n = visible_results(c.f), lifted = visible_function(m, c.l.fn);
    halves(m, lifted, mask_of(&c, wrt), wanted_of(&c, n), &first, &last);
    around_begin(&w, &c, first, "forward");
    around_mark(&w, &c, n);
    around_give(&w, 0, n);
    for (uint32_t k = 0; k < c.n_p; k++) w.out[w.n_out++] = w.args[c.f->n_params + k];
    around_give(&w, n, w.h->n_results);
    *forward = around_finish(&w);
    *second = carried_end(&c, second_around(&c, last, n));
}

uint32_t carried_beside(struct module *m, uint32_t fn, const bool *wrt, derivation derive, void *ctx)
{
    if (!has_probes(m, fn)) return derive(ctx, visible_function(m, fn), wrt);
    struct carried c;
    struct around w;
    carried_begin(&c, m, fn);
    uint32_t n = visible_results(c.f), lifted = visible_function(m, c.l.fn);
    bool *keep = ARENA_ZNEW(&c.arena, bool, n + c.n_v + 1);
    memset(keep, true, n);
    uint32_t values = prune_function(m, lifted, keep);
    for (uint32_t k = 0; k < n + c.n_v; k++) keep[k] = k >= n;
    around_begin(&w, &c, derive(ctx, values, mask_of(&c, wrt)), "derivative");
    val *seen = ARENA_NEW(&w.b.arena, val, c.n_v + 1), *results = w.results;
    inline_function(&w.b, strip_effects(m, lifted, keep), NULL, w.args, seen);
    w.results = seen;
    around_mark(&w, &c, 0);
    w.results = results;
    around_give(&w, 0, w.h->n_results);
    return carried_end(&c, around_finish(&w));
}
