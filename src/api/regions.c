/* Rewritings of regions: functions of the host's, by kind, that put another function in place of a region's
 * body when a program is compiled, interpreted or emitted, after all transforms. The registry belongs to the
 * process. One that is replaced or removed while it is at work is let go when that has ended. */
#include "api/api.h"
#include "ir/named.h"
#include "transform/pass.h"

#include <stdatomic.h>

struct rewriting {
    struct rewriting *next; /* guarded by the lock */
    int32_t refs;           /* the list's and one per call at work; guarded by the lock */
    uint64_t version;       /* hash of the kind and of what its user calls the version */
    hop_region_fn f;
    void *user;
    void (*release)(void *user);
    char kind[];
};

static struct {
    pthread_mutex_t lock;
    struct rewriting *first;
    atomic_uint n;
    atomic_ullong changes;
} registry = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void rewriting_drop(void *rewriting)
{
    struct rewriting *r = rewriting;
    pthread_mutex_lock(&registry.lock);
    bool last = !--r->refs;
    pthread_mutex_unlock(&registry.lock);
    if (!last) return;
    if (r->release) r->release(r->user);
    hop_free(r);
}

/* Where the kind's entry hangs, or would. */
static struct rewriting **find_link(const char *kind)
{
    struct rewriting **at = &registry.first;
    while (*at && strcmp((*at)->kind, kind)) at = &(*at)->next;
    return at;
}

static struct rewriting *find_rewriting(const char *kind)
{
    pthread_mutex_lock(&registry.lock);
    struct rewriting *r = *find_link(kind);
    if (r) r->refs++;
    pthread_mutex_unlock(&registry.lock);
    return r;
}

/* ---- registering ---- */

hop_status hop_region_register(const char *kind, const char *version, hop_region_fn f, void *user,
                               void (*release)(void *user))
{
    if (!kind || !*kind || !f) {
        hop_set_message("region_register: expected %s, found nothing",
                        f ? "the name of a kind" : "a function");
        return HOP_INVALID;
    }
    size_t length = strlen(kind);
    struct rewriting *r = hop_try_malloc(sizeof *r + length + 1);
    if (!r) {
        hop_set_message("out of memory: the rewriting of '%s' could not be registered", kind);
        return HOP_NOMEM;
    }
    uint64_t hash = hash_bytes(kind, length, 1);
    if (version) hash = hash_mix(hash, hash_bytes(version, strlen(version), 2));
    *r = (struct rewriting){ .refs = 1, .version = hash, .f = f, .user = user, .release = release };
    memcpy(r->kind, kind, length + 1);
    pthread_mutex_lock(&registry.lock);
    struct rewriting **at = find_link(kind), *old = *at;
    r->next = old ? old->next : NULL;
    *at = r;
    atomic_fetch_add(&registry.n, !old);
    atomic_fetch_add(&registry.changes, 1);
    pthread_mutex_unlock(&registry.lock);
    if (old) rewriting_drop(old);
    return HOP_OK;
}

hop_status hop_region_unregister(const char *kind)
{
    pthread_mutex_lock(&registry.lock);
    struct rewriting **at = find_link(kind ? kind : ""), *r = *at;
    if (r) {
        *at = r->next;
        atomic_fetch_sub(&registry.n, 1);
        atomic_fetch_add(&registry.changes, 1);
    }
    pthread_mutex_unlock(&registry.lock);
    if (r) {
        rewriting_drop(r);
        return HOP_OK;
    }
    hop_set_message("region_unregister: there is no rewriting of '%s'", kind ? kind : "NULL");
    return HOP_INVALID;
}

uint64_t hop_region_changes(void) { return atomic_load(&registry.changes); }

/* ---- attributes, as rewritings see them ---- */

struct hop_attributes {
    const struct module *m;
    const struct attr *given;
    struct arena *arena;
};

const char *hop_attributes_text(const hop_attributes *a)
{
    if (!a) return "";
    struct text out = { .arena = a->arena };
    if (a->given->kind == ATTR_NAMED) named_print(a->m, a->given, &out);
    return out.data ? out.data : "";
}

const char *hop_attribute(const hop_attributes *a, const char *name)
{
    return a && name ? named_value(a->m, a->given, name) : NULL;
}

int hop_attribute_int(const hop_attributes *a, const char *name, int64_t *out)
{
    return a && name && out && named_int(a->m, a->given, name, out);
}

int hop_attribute_real(const hop_attributes *a, const char *name, double *out)
{
    return a && name && out && named_real(a->m, a->given, name, out);
}

const char *hop_attribute_string(const hop_attributes *a, const char *name)
{
    return a && name ? named_string(a->m, a->given, name, a->arena) : NULL;
}

/* ---- rewriting ---- */

static const uint64_t MEMO_REWRITTEN = 0x7265776e;

static void free_fn(void *f) { hop_fn_free(f); }
static void unlock_module(void *shared) { pthread_mutex_unlock(&((struct shared_module *)shared)->lock); }

/* The body in a module of its own, so that the user may do anything with it. */
static hop_fn *body_handle(struct module *m, uint32_t body)
{
    struct module *own = module_new();
    struct shared_module *shared = shared_new(own);
    hop_cleanup_push(shared_free, shared);
    uint32_t fn = import_function(own, m, body);
    hop_fn *f = fn_new(shared, fn);
    fn_name(f);
    hop_cleanup_pop(shared);
    shared_free(shared);
    return f;
}

static _Noreturn void wrong_out(struct module *m, const struct node *n, const struct rewriting *r,
                                const char *format, ...) HOP_PRINTF(4, 5);
static void wrong_out(struct module *m, const struct node *n, const struct rewriting *r, const char *format,
                      ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hop_throw(HOP_INVALID, "%sregion: the rewriting of kind '%s' gives a function %s",
              place_text(m, n->place), r->kind, text);
}

static void check_out(struct module *m, const struct node *n, const struct rewriting *r, uint32_t body,
                      uint32_t made)
{
    const struct fn *f = module_fn(m, body), *g = module_fn(m, made);
    if (g->n_params != f->n_params)
        wrong_out(m, n, r, "of %u parameters, expected %u, those of the body", g->n_params, f->n_params);
    if (g->n_results != f->n_results)
        wrong_out(m, n, r, "of %u results, expected %u, those of the body", g->n_results, f->n_results);
    for (uint32_t i = 0; i < f->n_params; i++)
        if (!type_can_be(m, value_type(g, i), value_type(f, i)))
            wrong_out(m, n, r, "whose parameter %u has type %s, expected %s, as that of the body", i,
                      type_text(m, g->symbols, value_type(g, i)), type_text(m, f->symbols, value_type(f, i)));
    for (uint32_t k = 0; k < f->n_results; k++)
        if (!type_can_be(m, value_type(g, g->results[k]), value_type(f, f->results[k])))
            wrong_out(m, n, r, "whose result %u has type %s, expected %s, as that of the body", k,
                      type_text(m, g->symbols, value_type(g, g->results[k])),
                      type_text(m, f->symbols, value_type(f, f->results[k])));
}

/* What the user's function makes of the body, in m. */
static uint32_t run_rewriting(struct module *m, const struct node *n, const struct rewriting *r,
                              const struct attr *given, uint32_t body)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    hop_fn *f = body_handle(m, body), *out = NULL;
    hop_cleanup_push(free_fn, f);
    const hop_attributes attributes = { m, given, &arena };
    hop_set_message("%s", "");
    int status = r->f(r->user, &attributes, f, &out);
    bool gave = out && out->magic == FN_MAGIC;
    if (gave) hop_cleanup_push(free_fn, out);
    if (status || !gave) {
        char found[1024];
        snprintf(found, sizeof found, "%s", hop_message());
        hop_throw(status ? (hop_status)status : HOP_INVALID, "%sregion: the rewriting of kind '%s' %s%s%s",
                  place_text(m, n->place), r->kind, status ? "failed" : "gave no function",
                  *found ? ": " : "", found);
    }
    uint32_t made;
    if (out->shared->m == m) made = out->fn;
    else {
        pthread_mutex_lock(&out->shared->lock);
        hop_cleanup_push(unlock_module, out->shared);
        made = import_function(m, out->shared->m, out->fn);
        hop_cleanup_pop(out->shared);
        unlock_module(out->shared);
    }
    hop_cleanup_pop(out);
    hop_fn_free(out);
    hop_cleanup_pop(f);
    hop_fn_free(f);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    check_out(m, n, r, body, made);
    return made;
}

struct rewritten {
    uint64_t changes;
    uint64_t *versions; /* of all that were used, mixed */
};

static uint32_t rewrite_fn(struct module *m, uint32_t fn, struct rewritten *w);

/* Sizes that no parameter tells are those of the body of the same names. */
static const dim *dims_for(struct copier *c, const struct node *n, const struct region_in *given,
                           uint32_t made)
{
    struct module *m = c->b->m;
    const struct fn *g = module_fn(m, made), *f = module_fn(m, node_region(c->f, n, 0)->fn);
    dim *dims = ARENA_NEW(&c->b->arena, dim, g->n_outer_symbols);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) {
        dims[i] = HOP_NONE;
        if (g->symbols[i].origin != SYMBOL_DIM) continue;
        for (uint32_t k = 0; k < f->n_outer_symbols; k++)
            if (f->symbols[k].name == g->symbols[i].name) dims[i] = given->dims[k];
    }
    return dims;
}

static void call_made(struct copier *c, const struct node *n, const struct rewriting *r,
                      struct region_in region, uint32_t made, val *results)
{
    region.dims = dims_for(c, n, &region, made);
    region.fn = made;
    val first = builder_node(c->b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                      .groups = (const uint32_t[1]){ 0 },
                                                      .regions = &region,
                                                      .n_regions = 1 });
    struct module *m = c->b->m;
    for (uint32_t k = 0; k < n->n_results; k++) {
        type_id expected = copier_type(c, value_type(c->f, n->results + k));
        if (builder_type(c->b, first + k) != expected &&
            !type_is_inner(m, c->f, value_type(c->f, n->results + k)))
            wrong_out(m, n, r, "whose result %u has type %s here, expected %s", k,
                      type_text(m, c->b->symbols.data, builder_type(c->b, first + k)),
                      type_text(m, c->b->symbols.data, expected));
        results[k] = first + k;
    }
}

static bool rewrite_node(struct simplifier *s, struct copier *c, const struct node *n, val *results,
                         void *ctx)
{
    struct rewritten *w = ctx;
    struct node_in in = copier_node_in(c, n);
    struct region_in *regions = arena_copy(&c->b->arena, in.regions, n->n_regions * sizeof *regions);
    bool changed = false;
    for (uint32_t k = 0; k < n->n_regions; k++) {
        regions[k].fn = rewrite_fn(s->m, regions[k].fn, w);
        changed |= regions[k].fn != in.regions[k].fn;
    }
    in.regions = regions;
    struct rewriting *r = NULL;
    if (n->op == OP_region) r = find_rewriting(module_text(s->m, (uint32_t)in.attrs[REGION_KIND].i));
    if (r) {
        hop_cleanup_push(rewriting_drop, r);
        *w->versions = hash_mix(*w->versions, r->version);
        uint32_t made = run_rewriting(s->m, n, r, &in.attrs[REGION_NAMED], regions[0].fn);
        call_made(c, n, r, regions[0], made, results);
        hop_cleanup_pop(r);
        rewriting_drop(r);
        return true;
    }
    if (!changed) return false;
    val first = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    return true;
}

static uint32_t rewrite_fn(struct module *m, uint32_t fn, struct rewritten *w)
{
    static const struct pass_options everything;
    uint64_t key[4] = { MEMO_REWRITTEN, fn, w->changes, 0 }, before = *w->versions;
    union memo_value known, versions;
    if (memo_get(m, key, &known)) {
        key[3] = 1;
        if (memo_get(m, key, &versions)) *w->versions = hash_mix(before, versions.number);
        return known.fn;
    }
    hop_check_stack();
    *w->versions = 0;
    struct simplifier s = { .m = m, .o = &everything, .root = fn };
    uint32_t out = rewrite_nodes(&s, fn, wants_higher, rewrite_node, w);
    memo_put(m, key, (union memo_value){ .fn = out });
    key[3] = 1;
    memo_put(m, key, (union memo_value){ .number = *w->versions });
    *w->versions = out == fn ? before : hash_mix(before, *w->versions);
    return out;
}

uint32_t regions_rewritten(struct module *m, uint32_t fn, uint64_t *versions)
{
    const struct fn *f = module_fn(m, fn);
    *versions = 0;
    if (!atomic_load(&registry.n)) return fn;
    struct rewritten w = { hop_region_changes(), versions };
    uint32_t out = rewrite_fn(m, fn, &w);
    if (out == fn) return fn;
    if (fn_has_updates(f)) {
        uint32_t *updates = ARENA_NEW(&m->arena, uint32_t, f->n_results);
        for (uint32_t k = 0; k < f->n_results; k++) updates[k] = fn_updated(f, k);
        out = module_with_updates(m, out, updates);
    }
    if (fn_label(f) && !module_fn(m, out)->name) module_rename(m, out, module_text(m, fn_label(f)));
    return out;
}
