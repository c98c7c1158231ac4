/* Lifting probes out of a function and its bodies. A function becomes one with further parameters, the
 * perturbations, and further results, the values; a node whose bodies have probes becomes one over lifted
 * bodies. First it is found out what there is, since parameters come before nodes; then the function is
 * built. */
#include "hops/probes.h"

#include "hops/hops.h"
#include "ir/named.h"
#include "transform/pass.h"

#include <ctype.h>
#include <fnmatch.h>

static const uint64_t MEMO_HAS = 0x70726f6265, MEMO_WITHOUT = 0x6e6f70726f;

/* ---- tags ---- */

/* enum tag_use of a node; TAG_SAVES: it is no probe. */
static enum tag_use probe_use(const struct fn *f, const struct node *n)
{
    const struct attr *use = n->op == OP_tag ? node_attr(f, n, TAG_USE) : NULL;
    return use && use->kind != ATTR_ABSENT ? (enum tag_use)use->i : TAG_SAVES;
}

bool has_probes(struct module *m, uint32_t fn)
{
    const uint64_t key[4] = { MEMO_HAS, fn };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.number;
    hop_check_stack();
    const struct fn *f = module_fn(m, fn);
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes && !any; i++) {
        const struct node *n = fn_node(f, i);
        any = probe_use(f, n) != TAG_SAVES;
        for (uint32_t r = 0; r < n->n_regions && !any; r++) any = has_probes(m, node_region(f, n, r)->fn);
    }
    memo_put(m, key, (union memo_value){ .number = any });
    return any;
}

static bool drop_probe(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    HOP_UNUSED(ctx);
    if (probe_use(c->f, n) != TAG_SAVES) {
        results[0] = c->values[node_operands(c->f, n)[0]];
        return true;
    }
    if (!n->n_regions) return false;
    uint32_t *fns = ARENA_NEW(&c->b->arena, uint32_t, n->n_regions);
    for (uint32_t r = 0; r < n->n_regions; r++) fns[r] = without_probes(s->m, node_region(c->f, n, r)->fn);
    return replace_regions(c, n, fns, results);
}

uint32_t without_probes(struct module *m, uint32_t fn)
{
    static const struct pass_options everything;
    const uint64_t key[4] = { MEMO_WITHOUT, fn };
    union memo_value known;
    if (!has_probes(m, fn)) return fn;
    if (memo_get(m, key, &known)) return known.fn;
    hop_check_stack();
    struct simplifier s = { .m = m, .o = &everything, .root = fn };
    uint32_t out = rewrite_nodes(&s, fn, NULL, drop_probe, NULL);
    memo_put(m, key, (union memo_value){ .fn = out });
    return out;
}

/* ---- what is wanted ---- */

/* What was lifted already, under which path. */
struct known_lift {
    uint32_t fn, path;
    bool takes;
    struct lifted *lifted;
};

struct lifting {
    struct module *m;
    struct arena *arena;
    const struct probe_request *want;
    vec(const char *) names; /* of the request; none: all */
    vec(bool) met;           /* per name */
    probe_points shut;       /* what can be seen, but takes nothing */
    struct text seen;        /* the names that there are, for messages */
    vec(struct known_lift) known;
};

static void read_names(struct lifting *w)
{
    for (const char *at = w->want->names; at && *at;) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ","), end = length;
        while (end && at[end - 1] == ' ') end--;
        if (end) {
            const char *name = arena_printf(w->arena, "%.*s", (int)end, at);
            vec_push(w->arena, &w->names, name);
            vec_push(w->arena, &w->met, false);
        }
        at += length + (at[length] == ',');
    }
}

static bool is_wanted(struct lifting *w, const char *path)
{
    bool any = !w->want->names;
    for (uint32_t i = 0; i < w->names.len; i++) {
        if (strcmp(w->names.data[i], path) && fnmatch(w->names.data[i], path, 0)) continue;
        w->met.data[i] = true;
        any = true;
    }
    return any;
}

static uint32_t path_of(struct module *m, uint32_t around, const char *name)
{
    const char *text = name;
    if (around) text = arena_printf(&m->scratch, "%s/%s", module_text(m, around), name);
    return module_string(m, text, strlen(text));
}

/* The path inside of a node's bodies: that of the function, and the name of a region that has one. */
static uint32_t path_inside(struct lifting *w, const struct fn *f, const struct node *n, uint32_t around)
{
    if (node_row(n)->control != CONTROL_REGION) return around;
    const struct attr *kind = node_attr(f, n, REGION_KIND);
    if (strcmp(module_text(w->m, (uint32_t)kind->i), "named") != 0) return around;
    const char *name = named_string(w->m, node_attr(f, n, REGION_NAMED), "name", w->arena);
    return name && *name ? path_of(w->m, around, name) : around;
}

/* ---- a function lifted ---- */

struct lifted {
    const struct fn *from; /* what was lifted: the function, counted loops that can be scans being scans */
    uint32_t fn;
    probe_points gives, takes;
    uint32_t n_fresh; /* outer symbols behind those of `from`: how many rows a perturbation has */
};

/* Where a point of a body is among those of the function around. */
struct site {
    struct lifted **bodies;    /* per region; NULL: it has none */
    uint32_t **gives, **takes; /* per region, per point of the body: its number here */
    uint32_t *fresh;           /* per region: the number of its first symbol among the fresh ones */
    uint32_t give, take;       /* of a probe: its numbers here, HOP_NONE: none */
    uint32_t rows;             /* of a loop with perturbations whose steps a run counts: a fresh symbol, or
                                  HOP_NONE: max_trips is there */
};

struct building {
    struct lifting *w;
    struct lifted *out;
    const struct fn *f;
    uint32_t path;
    struct site **sites;     /* per node; NULL: nothing to do */
    vec(type_id) give_types; /* of points in branches: what the others give zeros of; else 0 */
    bool takes;
};

static struct lifted *lift(struct lifting *w, uint32_t fn, uint32_t path, bool takes);

/* What cannot be had: an error, unless it can be left as it is. */
static bool refuse(struct lifting *w, const struct probe_point *p, const struct node *n, const char *why)
{
    if (w->want->lenient) return false;
    hop_throw(HOP_INVALID, "%sprobe '%s': it stands in %s, %s; choose others by name%s",
              place_text(w->m, p->place), module_text(w->m, p->path), node_row(n)->name, why,
              place_stack(w->m, p->place));
}

static bool cannot_take(struct lifting *w, const struct probe_point *p, const char *why)
{
    if (w->want->lenient) return false;
    hop_throw(HOP_INVALID, "%sprobe '%s' cannot be perturbed: %s; choose others by name%s",
              place_text(w->m, p->place), module_text(w->m, p->path), why, place_stack(w->m, p->place));
}

static bool symbol_at_least(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

static bool mentions_from(const struct module *m, type_id t, uint32_t first)
{
    struct type type = type_get(m, t);
    for (uint32_t i = 0; i < type.rank; i++)
        if (type.dims[i] & DIM_TABLE && dim_mentions(m, type.dims[i], symbol_at_least, &first)) return true;
    return false;
}

static bool dim_is_outer(const struct module *m, const struct fn *f, dim d)
{
    uint32_t first = f->n_outer_symbols;
    return !(d & DIM_TABLE) || !dim_mentions(m, d, symbol_at_least, &first);
}

/* ---- finding out: probes of the function itself ---- */

static void find_probe(struct building *s, uint32_t i)
{
    struct lifting *w = s->w;
    const struct node *n = fn_node(s->f, i);
    enum tag_use use = probe_use(s->f, n);
    if (use == TAG_SAVES) return;
    const char *name = module_text(w->m, (uint32_t)node_attr(s->f, n, TAG_NAME)->i);
    struct probe_point p = { path_of(w->m, s->path, name), n->place, value_type(s->f, n->results) };
    const char *path = module_text(w->m, p.path);
    bool gives = w->want->gives && use != TAG_TAKES, takes = w->want->takes && use != TAG_GIVES;
    if (use == TAG_GIVES && w->want->takes) vec_push(w->arena, &w->shut, p);
    if (!gives && !takes) return;
    text_add(&w->seen, "%s'%s'", w->seen.data ? ", " : "", path);
    if (!is_wanted(w, path)) return;
    struct type t = type_get(w->m, p.type);
    takes &= s->takes;
    if (takes && !dtype_is_float((enum dtype)t.dtype)) takes = cannot_take(w, &p, "its values are no floats");
    if (takes && mentions_from(w->m, p.type, s->f->n_outer_symbols))
        takes = cannot_take(w, &p, "only a run knows its size");
    if (!gives && !takes) return;
    struct site *site = ARENA_ZNEW(w->arena, struct site, 1);
    site->give = gives ? s->out->gives.len : HOP_NONE;
    site->take = takes ? s->out->takes.len : HOP_NONE;
    if (gives) vec_push(&w->m->arena, &s->out->gives, p);
    if (gives) vec_push(w->arena, &s->give_types, 0);
    if (takes) vec_push(&w->m->arena, &s->out->takes, p);
    s->sites[i] = site;
}

/* ---- finding out: probes of bodies ---- */

/* The type of a body's perturbation here: its symbols are what the region says, fresh ones fresh ones here.
 * HOP_NONE: only a run knows it. */
static type_id type_outside(struct building *s, const struct region *g, const struct lifted *body, type_id t,
                            uint32_t fresh)
{
    struct module *m = s->w->m;
    uint32_t n = body->from->n_outer_symbols, total = n + body->n_fresh;
    dim *dims = ARENA_NEW(s->w->arena, dim, total + 1);
    for (uint32_t k = 0; k < total; k++) dims[k] = k < n ? g->dims[k] : 0;
    if (mentions_from(m, type_substitute(m, t, dims), s->f->n_outer_symbols)) return HOP_NONE;
    for (uint32_t k = n; k < total; k++) dims[k] = dim_symbol(m, s->f->n_outer_symbols + fresh + (k - n));
    return type_substitute(m, t, dims);
}

/* Does a value that the body gives have a size that only the body knows? */
static bool size_stays_inside(const struct module *m, const struct lifted *body, uint32_t k)
{
    const struct fn *g = module_fn(m, body->fn);
    return mentions_from(m, value_type(g, g->results[body->from->n_results + k]), g->n_outer_symbols);
}

static const char only_inside[] =
    "a body that alone knows how large it is: a loop in it with max_trips has a "
    "size that is known outside";

/* Why region r of the node cannot be lifted, NULL: it can. *point: the first that is concerned. */
static const char *obstacle(struct building *s, const struct node *n, uint32_t r, const struct lifted *body,
                            const struct probe_point **point)
{
    struct module *m = s->w->m;
    struct loop l;
    bool stacks = loop_of_node(m, s->f, n, &l);
    *point = body->gives.len ? &body->gives.data[0] : &body->takes.data[0];
    if (node_row(n)->control == CONTROL_TOTALS)
        return "whose body combines totals in an order that is not the program's";
    if (node_row(n)->control == CONTROL_PARTS)
        return "whose body is what each rank does with its parts: make the value a result of it";
    if (node_row(n)->stands_for) return "whose bodies are run as part of other operators";
    if (stacks && r == l.cond_region)
        return "in the predicate, which is asked once more than there are steps";
    if (!stacks && node_row(n)->control != CONTROL_CHOICE) return NULL;
    for (uint32_t k = 0; k < body->gives.len; k++) {
        *point = &body->gives.data[k];
        if (size_stays_inside(m, body, k)) return only_inside;
    }
    if (stacks && body->takes.len && loop_has_length(&l) && !dim_is_outer(m, s->f, l.length)) {
        *point = &body->takes.data[0];
        return "a loop whose number of steps only a run knows";
    }
    return NULL;
}

/* A point with this path among those from `first` on that no point of the same branch is yet: the n-th of a
 * branch is the n-th of another. */
static uint32_t find_slot(const probe_points *list, uint32_t first, uint32_t path, uint32_t before)
{
    for (uint32_t i = first; i < list->len; i++)
        if (list->data[i].path == path && !before--) return i;
    return HOP_NONE;
}

static uint32_t earlier(const probe_points *list, uint32_t k)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < k; i++) n += list->data[i].path == list->data[k].path;
    return n;
}

/* The type that a value of a branch has here. */
static type_id branch_type(struct building *s, const struct region *g, const struct lifted *body, uint32_t k)
{
    const struct fn *lifted = module_fn(s->w->m, body->fn);
    return type_substitute(s->w->m, value_type(lifted, lifted->results[body->from->n_results + k]), g->dims);
}

static void place_gives(struct building *s, struct site *site, const struct node *n, uint32_t r,
                        uint32_t first)
{
    struct lifting *w = s->w;
    const struct lifted *body = site->bodies[r];
    bool branch = node_row(n)->control == CONTROL_CHOICE;
    site->gives[r] = ARENA_NEW(w->arena, uint32_t, body->gives.len + 1);
    for (uint32_t k = 0; k < body->gives.len; k++) {
        struct probe_point p = body->gives.data[k];
        type_id t = branch ? branch_type(s, node_region(s->f, n, r), body, k) : 0;
        uint32_t at = branch ? find_slot(&s->out->gives, first, p.path, earlier(&body->gives, k)) : HOP_NONE;
        if (at != HOP_NONE && s->give_types.data[at] != t) at = HOP_NONE;
        if (at == HOP_NONE) {
            at = s->out->gives.len;
            vec_push(&w->m->arena, &s->out->gives, p);
            vec_push(w->arena, &s->give_types, t);
        }
        site->gives[r][k] = at;
    }
}

static void place_takes(struct building *s, struct site *site, const struct node *n, uint32_t r,
                        uint32_t first)
{
    struct lifting *w = s->w;
    struct module *m = w->m;
    const struct lifted *body = site->bodies[r];
    struct loop l;
    bool stacks = loop_of_node(m, s->f, n, &l), branch = node_row(n)->control == CONTROL_CHOICE;
    dim rows = stacks ? l.length : HOP_NONE;
    site->takes[r] = ARENA_NEW(w->arena, uint32_t, body->takes.len + 1);
    site->fresh[r] = s->out->n_fresh;
    s->out->n_fresh += body->n_fresh;
    if (stacks && !loop_has_length(&l) && body->takes.len) {
        rows = l.max_trips;
        if (rows == HOP_NONE || !dim_is_outer(m, s->f, rows)) {
            site->rows = s->out->n_fresh++;
            rows = dim_symbol(m, s->f->n_outer_symbols + site->rows);
        }
    }
    for (uint32_t k = 0; k < body->takes.len; k++) {
        struct probe_point p = body->takes.data[k];
        p.type = type_outside(s, node_region(s->f, n, r), body, p.type, site->fresh[r]);
        if (p.type == HOP_NONE) cannot_take(w, &p, "only a run knows its size");
        if (stacks) p.type = type_prepend(m, p.type, rows);
        uint32_t at = branch ? find_slot(&s->out->takes, first, p.path, earlier(&body->takes, k)) : HOP_NONE;
        if (at != HOP_NONE && s->out->takes.data[at].type != p.type) at = HOP_NONE;
        if (at == HOP_NONE) {
            at = s->out->takes.len;
            vec_push(&m->arena, &s->out->takes, p);
        }
        site->takes[r][k] = at;
    }
}

/* A node whose rules are functions: they know nothing of perturbations. */
static bool has_rules(const struct node *n)
{
    return !node_is_loop(n) && node_row(n)->control == CONTROL_NONE;
}

static bool can_take(struct building *s, const struct node *n, uint32_t r, const struct lifted *body)
{
    for (uint32_t k = 0; k < body->takes.len; k++) {
        type_id t = type_outside(s, node_region(s->f, n, r), body, body->takes.data[k].type, 0);
        if (t == HOP_NONE) return false;
    }
    return true;
}

static struct lifted *lift_body(struct building *s, const struct node *n, uint32_t r)
{
    struct lifting *w = s->w;
    uint32_t fn = node_region(s->f, n, r)->fn;
    const struct probe_point *point;
    if (!has_probes(w->m, fn)) return NULL;
    bool rules = has_rules(n), takes = s->takes && !(rules && w->want->gives);
    struct loop l;
    if (w->want->lenient && loop_of_node(w->m, s->f, n, &l))
        takes &= loop_has_length(&l) || l.max_trips != HOP_NONE;
    struct lifted *body = lift(w, fn, path_inside(w, s->f, n, s->path), takes);
    if (!body->gives.len && !body->takes.len) return NULL;
    const char *why = obstacle(s, n, r, body, &point);
    if (rules && body->takes.len) {
        point = &body->takes.data[0];
        why = "whose derivatives are rules that know nothing of a perturbation inside";
    }
    if (!why && w->want->lenient && !can_take(s, n, r, body)) return NULL;
    if (!why) return body;
    refuse(w, point, n, why);
    return NULL;
}

static void find_bodies(struct building *s, uint32_t i)
{
    const struct node *n = fn_node(s->f, i);
    struct arena *a = s->w->arena;
    uint32_t first_give = s->out->gives.len, first_take = s->out->takes.len;
    struct site *site = ARENA_ZNEW(a, struct site, 1);
    bool any = false;
    site->bodies = ARENA_ZNEW(a, struct lifted *, n->n_regions);
    site->gives = ARENA_ZNEW(a, uint32_t *, n->n_regions);
    site->takes = ARENA_ZNEW(a, uint32_t *, n->n_regions);
    site->fresh = ARENA_ZNEW(a, uint32_t, n->n_regions);
    site->rows = HOP_NONE;
    for (uint32_t r = 0; r < n->n_regions; r++) {
        site->bodies[r] = lift_body(s, n, r);
        any |= site->bodies[r] != NULL;
    }
    if (!any) return;
    for (uint32_t r = 0; r < n->n_regions; r++) {
        if (!site->bodies[r]) continue;
        place_gives(s, site, n, r, first_give);
        place_takes(s, site, n, r, first_take);
    }
    s->sites[i] = site;
}

/* ---- building ---- */

/* What a builder of a lifted function has of it. */
struct parts {
    struct building *s;
    struct builder *b;
    struct copier *c;
    val *gives; /* per point: its value */
    val *takes; /* per point: the parameter */
};

static dim fresh_symbol(const struct parts *p, uint32_t k)
{
    return dim_symbol(p->b->m, p->s->f->n_outer_symbols + k);
}

/* What the outer symbols of a lifted body are here, given those of the body as it was. */
static const dim *dims_of(const struct parts *p, const struct site *site, uint32_t r, const dim *dims)
{
    const struct lifted *body = site->bodies[r];
    uint32_t n = body->from->n_outer_symbols, total = n + body->n_fresh;
    dim *out = ARENA_NEW(&p->b->arena, dim, total + 1);
    for (uint32_t k = 0; k < total; k++) out[k] = k < n ? dims[k] : fresh_symbol(p, site->fresh[r] + k - n);
    return out;
}

/* Operands, then the perturbations of region r. */
static val *with_takes(const struct parts *p, const struct site *site, uint32_t r, const val *own,
                       uint32_t *n)
{
    const struct lifted *body = site->bodies[r];
    val *out = ARENA_NEW(&p->b->arena, val, *n + body->takes.len + 1);
    if (*n) memcpy(out, own, *n * sizeof *out);
    for (uint32_t k = 0; k < body->takes.len; k++) out[*n + k] = p->takes[site->takes[r][k]];
    *n += body->takes.len;
    return out;
}

static val perturbed(struct builder *b, val x, val by) { return emit2(b, OP_add, x, by); }

/* What is left of the tag: who still may ask. */
static val tag_left(struct parts *p, const struct node *n, val x)
{
    const struct probe_request *want = p->s->w->want;
    enum tag_use use = probe_use(p->s->f, n);
    const struct attr *name = node_attr(p->s->f, n, TAG_NAME);
    if (want->gives && want->takes) return x;
    if (want->gives && use == TAG_GIVES) return x;
    struct attr attrs[TAG_ATTRS] = {
        [TAG_NAME] = *name, [TAG_USE] = A_WORD(want->gives ? TAG_TAKES : (int64_t)use)
    };
    return emit(p->b, OP_tag, &x, 1, attrs);
}

static void build_probe(struct parts *p, const struct site *site, const struct node *n)
{
    val x = p->c->values[node_operands(p->s->f, n)[0]];
    if (site->take != HOP_NONE) x = perturbed(p->b, x, p->takes[site->take]);
    x = tag_left(p, n, x);
    if (site->give != HOP_NONE) p->gives[site->give] = x;
    p->c->values[n->results] = x;
}

/* Calls and regions: more operands, more results. */
static void build_call(struct parts *p, const struct site *site, const struct node *n)
{
    struct node_in in = copier_node_in(p->c, n);
    struct region_in region = in.regions[0];
    region.operands = with_takes(p, site, 0, region.operands, &region.n_operands);
    region.dims = dims_of(p, site, 0, region.dims);
    region.fn = site->bodies[0]->fn;
    in.regions = &region;
    val first = builder_node(p->b, &in), *results = ARENA_NEW(&p->b->arena, val, n->n_results + 1);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    for (uint32_t k = 0; k < site->bodies[0]->gives.len; k++)
        p->gives[site->gives[0][k]] = first + n->n_results + k;
    copier_bind(p->c, n, results);
}

/* A node with rules stays as it is; the values come from a call of its body beside it, which does nothing
 * else. */
static void build_beside(struct parts *p, const struct site *site, const struct node *n)
{
    struct module *m = p->b->m;
    const struct lifted *body = site->bodies[0];
    struct node_in in = copier_node_in(p->c, n);
    struct region_in region = in.regions[0], beside = region;
    bool *keep = ARENA_ZNEW(&p->b->arena, bool, body->from->n_results + body->gives.len);
    for (uint32_t k = 0; k < body->gives.len; k++) keep[body->from->n_results + k] = true;
    region.fn = without_probes(m, region.fn);
    in.regions = &region;
    val first = builder_node(p->b, &in), *results = ARENA_NEW(&p->b->arena, val, n->n_results + 1);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    copier_bind(p->c, n, results);
    beside.fn = strip_effects(m, body->fn, keep);
    struct attr attrs[INVOKE_ATTRS] = { A_NONE };
    first = builder_node(p->b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                  .groups = (const uint32_t[1]){ 0 },
                                                  .attrs = attrs,
                                                  .regions = &beside,
                                                  .n_regions = 1,
                                                  .place = n->place });
    for (uint32_t k = 0; k < body->gives.len; k++) p->gives[site->gives[0][k]] = first + k;
}

/* ---- branches ---- */

/* The branch with all values that any of them gives from `first` on; zeros where it does not. */
static struct region_in build_branch(struct parts *p, const struct site *site, uint32_t r,
                                     struct region_in region, uint32_t first, uint32_t n_slots)
{
    struct building *s = p->s;
    struct module *m = p->b->m;
    const struct lifted *body = site->bodies[r];
    const struct fn *g = module_fn(m, body ? body->fn : region.fn);
    struct new_body made;
    uint32_t n_own = region.n_operands, n_y = g->n_results - (body ? body->gives.len : 0);
    const val *operands = body ? with_takes(p, site, r, region.operands, &n_own) : region.operands;
    new_body_begin(&made, p->b, g, body ? dims_of(p, site, r, region.dims) : region.dims, g->n_outer_symbols);
    struct arena *a = &made.b.arena;
    val *args = ARENA_NEW(a, val, g->n_params + 1), *results = ARENA_NEW(a, val, g->n_results + 1);
    val *out = ARENA_NEW(a, val, n_y + n_slots + 1);
    type_id *types = ARENA_NEW(a, type_id, n_slots + 1);
    for (uint32_t k = 0; k < n_slots; k++)
        types[k] = new_body_type(&made, copier_type(p->c, s->give_types.data[first + k]));
    for (uint32_t k = 0; k < g->n_params; k++)
        args[k] = builder_param(&made.b, value_type(g, k), g->values[k].name);
    inline_function(&made.b, g->id, NULL, args, results);
    for (uint32_t k = 0; k < n_y; k++) out[k] = results[k];
    for (uint32_t k = 0; k < n_slots; k++) out[n_y + k] = VAL_NONE;
    for (uint32_t k = 0; body && k < body->gives.len; k++)
        out[n_y + site->gives[r][k] - first] = results[n_y + k];
    for (uint32_t k = 0; k < n_slots; k++)
        if (out[n_y + k] == VAL_NONE) out[n_y + k] = zeros_of(&made.b, types[k]);
    return new_body_finish(&made, out, n_y + n_slots, operands, n_own);
}

static void build_choice(struct parts *p, const struct site *site, const struct node *n)
{
    uint32_t first = HOP_NONE, end = 0;
    for (uint32_t r = 0; r < n->n_regions; r++)
        for (uint32_t k = 0; site->bodies[r] && k < site->bodies[r]->gives.len; k++) {
            first = HOP_MIN(first, site->gives[r][k]);
            end = HOP_MAX(end, site->gives[r][k] + 1);
        }
    uint32_t n_slots = first == HOP_NONE ? 0 : end - first;
    struct node_in in = copier_node_in(p->c, n);
    struct region_in *regions = ARENA_NEW(&p->b->arena, struct region_in, n->n_regions);
    for (uint32_t r = 0; r < n->n_regions; r++)
        regions[r] = build_branch(p, site, r, in.regions[r], first, n_slots);
    in.regions = regions;
    val made = builder_node(p->b, &in), *results = ARENA_NEW(&p->b->arena, val, n->n_results + 1);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = made + k;
    for (uint32_t k = 0; k < n_slots; k++) p->gives[first + k] = made + n->n_results + k;
    copier_bind(p->c, n, results);
}

/* ---- loops ---- */

/* The step of a loop, made of a lifted body; its parameters in the order in which the loop feeds them. */
struct step {
    struct new_body body;
    const struct fn *g; /* the lifted body */
    val *args;          /* per parameter of g */
    val *results;
};

static void step_begin(struct parts *p, struct step *s, const struct site *site, const struct loop *l)
{
    uint32_t r = l->body_region;
    s->g = module_fn(p->b->m, site->bodies[r]->fn);
    new_body_begin(&s->body, p->b, s->g, dims_of(p, site, r, l->dims), s->g->n_outer_symbols);
    s->args = ARENA_NEW(&s->body.b.arena, val, s->g->n_params + 1);
    s->results = ARENA_NEW(&s->body.b.arena, val, s->g->n_results + 2);
}

static void step_params(struct step *s, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to; k++)
        s->args[k] = builder_param(&s->body.b, value_type(s->g, k), s->g->values[k].name);
}

/* A loop over slices goes over the perturbations as well. */
static void step_over(struct parts *p, const struct site *site, struct loop *l)
{
    struct step s;
    uint32_t n_own = site->bodies[l->body_region]->from->n_params, n = loop_first_with(l);
    step_begin(p, &s, site, l);
    step_params(&s, 0, n);
    step_params(&s, n_own, s.g->n_params);
    step_params(&s, n, n_own);
    inline_function(&s.body.b, s.g->id, NULL, s.args, s.results);
    if (loop_has_length(l)) l->over = with_takes(p, site, l->body_region, l->over, &l->n_over);
    loop_set_body(l, p->b->m, new_body_finish(&s.body, s.results, s.g->n_results, l->with, l->n_with));
}

/* The row of a perturbation for a step; zeros behind its last one. */
static val row_at(struct builder *b, val rows, val step)
{
    struct type t = emit_type(b, rows);
    dim dims[MAX_RANK];
    struct attr along = A_INT(0);
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    dims[0] = 1;
    val zero = emit_full(b, (enum dtype)t.dtype, 0, t.rank, dims);
    val all = emit(b, OP_concat, (val[]){ rows, zero }, 2, &along);
    return emit(b, OP_take, (val[]){ all, step }, 2, &along);
}

/* The predicate with one more carry, which it does not read. */
static struct region_in cond_with_counter(struct parts *p, const struct loop *l)
{
    struct new_body body;
    const struct fn *g = l->cond;
    new_body_begin(&body, p->b, g, l->cond_dims, g->n_outer_symbols);
    val *args = ARENA_NEW(&body.b.arena, val, g->n_params + 1), result;
    for (uint32_t k = 0; k < l->n_carry; k++)
        args[k] = builder_param(&body.b, value_type(g, k), g->values[k].name);
    builder_param(&body.b, type_scalar(p->b->m, DT_I64), 0);
    for (uint32_t k = l->n_carry; k < g->n_params; k++)
        args[k] = builder_param(&body.b, value_type(g, k), g->values[k].name);
    inline_function(&body.b, g->id, NULL, args, &result);
    return new_body_finish(&body, &result, 1, l->cond_with, l->n_cond_with);
}

/* A loop that finds its number of steps while running counts them, to find the rows of the perturbations. */
static void step_counted(struct parts *p, const struct site *site, struct loop *l)
{
    struct step s;
    struct module *m = p->b->m;
    const struct lifted *lifted = site->bodies[l->body_region];
    uint32_t n_own = lifted->from->n_params, n_takes = lifted->takes.len, n_with = l->n_with;
    const val *with = with_takes(p, site, l->body_region, l->with, &n_with);
    step_begin(p, &s, site, l);
    struct builder *b = &s.body.b;
    type_id *types = ARENA_NEW(&b->arena, type_id, n_takes);
    val *rows = ARENA_NEW(&b->arena, val, n_takes);
    dim size = new_body_dim(&s.body, emit_type(p->b, with[l->n_with]).dims[0]);
    for (uint32_t k = 0; k < n_takes; k++) types[k] = type_prepend(m, value_type(s.g, n_own + k), size);
    step_params(&s, 0, l->n_carry);
    val counter = builder_param(b, type_scalar(m, DT_I64), 0);
    step_params(&s, l->n_carry, n_own);
    for (uint32_t k = 0; k < n_takes; k++) rows[k] = builder_param(b, types[k], 0);
    for (uint32_t k = 0; k < n_takes; k++) s.args[n_own + k] = row_at(b, rows[k], counter);
    inline_function(b, s.g->id, NULL, s.args, s.results);
    memmove(s.results + l->n_carry + 1, s.results + l->n_carry,
            (s.g->n_results - l->n_carry) * sizeof *s.results);
    struct attr one[3] = { A_INT(1), A_DIMS(NULL, 0), A_DTYPE(DT_I64) };
    s.results[l->n_carry] = emit2(b, OP_add, counter, emit(b, OP_full, NULL, 0, one));
    val *carry = ARENA_NEW(&p->b->arena, val, l->n_carry + 1);
    if (l->n_carry) memcpy(carry, l->carry, l->n_carry * sizeof *carry);
    carry[l->n_carry] = emit_full(p->b, DT_I64, 0, 0, NULL);
    if (l->cond) loop_set_cond(l, m, cond_with_counter(p, l));
    l->carry = carry;
    l->n_carry++;
    loop_set_body(l, m, new_body_finish(&s.body, s.results, s.g->n_results + 1, with, n_with));
}

static void build_loop(struct parts *p, const struct site *site, const struct node *n)
{
    struct loop l;
    loop_of_copy(p->c, n, &l);
    uint32_t n_carry = l.n_carry;
    const struct lifted *body = site->bodies[l.body_region];
    if (body->takes.len && !loop_has_length(&l)) step_counted(p, site, &l);
    else step_over(p, site, &l);
    struct loop_results made = loop_build(p->b, &l);
    val *results = ARENA_NEW(&p->b->arena, val, n->n_results + 1);
    for (uint32_t k = 0; k < n_carry; k++) results[k] = made.last + k;
    if (l.counts) results[n_carry] = made.trips;
    for (uint32_t k = 0; k < l.n_stack; k++) results[n_carry + l.counts + k] = made.stacks + k;
    for (uint32_t k = 0; k < body->gives.len; k++)
        p->gives[site->gives[l.body_region][k]] = made.stacks + l.n_stack + k;
    copier_bind(p->c, n, results);
}

/* ---- a function ---- */

static void build_node(struct parts *p, const struct site *site, const struct node *n)
{
    p->b->place = n->place;
    if (!site) copier_node(p->c, n);
    else if (!site->bodies) build_probe(p, site, n);
    else if (node_is_loop(n)) build_loop(p, site, n);
    else if (node_row(n)->control == CONTROL_CHOICE) build_choice(p, site, n);
    else if (has_rules(n)) build_beside(p, site, n);
    else build_call(p, site, n);
}

/* A result is called by its path, as far as a name in the text form can be; others keep their names. */
static void name_result(struct builder *b, val v, const struct fn *f, uint32_t path)
{
    char *name = arena_copy(&b->arena, module_text(b->m, path), strlen(module_text(b->m, path)) + 1);
    for (char *p = name; *p; p++)
        if (!isalnum((unsigned char)*p)) *p = '_';
    bool word = !isdigit((unsigned char)*name);
    for (uint32_t k = 0; k < f->n_params; k++) word &= strcmp(fn_param_name(b->m, f, k), name) != 0;
    if (word && !b->values.data[v].name) builder_name(b, v, module_string(b->m, name, strlen(name)));
}

static uint32_t build_lifted(struct building *s)
{
    struct builder b;
    struct copier c;
    struct module *m = s->w->m;
    const struct fn *f = s->f;
    struct lifted *out = s->out;
    builder_begin(&b, m, f);
    b.label = fn_label(f);
    struct parts p = { s, &b, &c, ARENA_NEW(&b.arena, val, out->gives.len + 1),
                       ARENA_NEW(&b.arena, val, out->takes.len + 1) };
    for (uint32_t k = 0; k < out->n_fresh; k++) {
        const char *name = arena_printf(&b.arena, "rows%u", k);
        builder_symbol(&b, module_string(m, name, strlen(name)), 0, INT64_MAX);
    }
    copier_begin(&c, &b, f);
    copier_params(&c);
    for (uint32_t k = 0; k < out->takes.len; k++) p.takes[k] = builder_param(&b, out->takes.data[k].type, 0);
    copy_requires(&c);
    for (uint32_t i = 0; i < f->n_nodes; i++) build_node(&p, s->sites[i], fn_node(f, i));
    val *results = ARENA_NEW(&b.arena, val, f->n_results + out->gives.len + 1);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
    for (uint32_t k = 0; k < out->gives.len; k++) {
        results[f->n_results + k] = p.gives[k];
        name_result(&b, p.gives[k], f, out->gives.data[k].path);
    }
    return builder_finish(&b, results, f->n_results + out->gives.len);
}

/* The function with counted loops as scans where their steps are known: what they stack has a size then. */
static bool count_node(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct loop l;
    dim trips;
    HOP_UNUSED(ctx);
    if (node_loop_kind(n) != LOOP_COUNTED || !loop_of_copy(c, n, &l)) return false;
    if (!has_probes(s->m, l.body->id) || !fori_trips(c->b, l.from, l.to, &trips)) return false;
    fori_over(c->b, &l, trips);
    struct loop_results made = loop_build(c->b, &l);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = made.last + k;
    return true;
}

static uint32_t counted_as_scans(struct module *m, uint32_t fn)
{
    static const struct pass_options everything;
    struct simplifier s = { .m = m, .o = &everything, .root = fn };
    return rewrite_nodes(&s, fn, wants_higher, count_node, NULL);
}

static struct lifted *lift(struct lifting *w, uint32_t fn, uint32_t path, bool takes)
{
    for (uint32_t i = 0; i < w->known.len; i++) {
        const struct known_lift *k = &w->known.data[i];
        if (k->fn == fn && k->path == path && k->takes == takes) return k->lifted;
    }
    hop_check_stack();
    struct lifted *out = ARENA_ZNEW(w->arena, struct lifted, 1);
    uint32_t from = has_probes(w->m, fn) ? counted_as_scans(w->m, fn) : fn;
    out->from = module_fn(w->m, from);
    out->fn = from;
    struct building s = { .w = w, .out = out, .f = out->from, .path = path, .takes = takes };
    s.sites = ARENA_ZNEW(w->arena, struct site *, s.f->n_nodes + 1);
    for (uint32_t i = 0; i < s.f->n_nodes && has_probes(w->m, fn); i++) {
        find_probe(&s, i);
        if (fn_node(s.f, i)->n_regions) find_bodies(&s, i);
    }
    if (out->gives.len || out->takes.len) out->fn = build_lifted(&s);
    struct known_lift known = { fn, path, takes, out };
    vec_push(w->arena, &w->known, known);
    return out;
}

/* A name that nothing has is a mistake. */
static void check_met(struct lifting *w)
{
    static const char why[] =
        "a transform was made of a loop without max_trips, or of rules, in which it stands";
    for (uint32_t i = 0; i < w->names.len && !w->want->lenient; i++)
        for (uint32_t k = 0; k < w->shut.len && !w->met.data[i]; k++)
            if (!strcmp(w->names.data[i], module_text(w->m, w->shut.data[k].path)))
                cannot_take(w, &w->shut.data[k], why);
    for (uint32_t i = 0; i < w->names.len && !w->want->lenient; i++)
        if (!w->met.data[i])
            hop_throw(HOP_INVALID, "there is no probe '%s'; there %s%s", w->names.data[i],
                      w->seen.data ? "are: " : "are none", w->seen.data ? w->seen.data : "");
}

struct probed probes_lifted(struct module *m, uint32_t fn, const struct probe_request *want)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct lifting w = { .m = m, .arena = &arena, .want = want, .seen = { .arena = &arena } };
    read_names(&w);
    const struct lifted *l = lift(&w, fn, 0, want->takes);
    check_met(&w);
    struct probed out = { l->fn, l->gives, l->takes };
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

/* ---- by names ---- */

/* Points of one name. */
struct named {
    struct probe_point first;
    uint32_t n;
    uint32_t *points;
};
typedef vec(struct named) named_list;

static named_list by_name(struct module *m, struct arena *a, const probe_points *points, bool stacked)
{
    named_list out = { 0 };
    for (uint32_t i = 0; i < points->len; i++) {
        const struct probe_point *p = &points->data[i];
        uint32_t at = 0;
        while (at < out.len && out.data[at].first.path != p->path) at++;
        if (at == out.len) {
            struct named fresh = { *p, 0, ARENA_NEW(a, uint32_t, points->len) };
            vec_push(a, &out, fresh);
        } else if (!stacked) {
            const char *first = arena_printf(a, "%s", place_text(m, out.data[at].first.place));
            size_t length = strlen(first);
            hop_throw(
                HOP_INVALID,
                "%sprobe '%s': there is another one of this name%s%.*s; stacked, both are one value with "
                "one dim more%s",
                place_text_in(a, m, p->place), module_text(m, p->path), length ? ", at " : "",
                (int)(length > 2 ? length - 2 : 0), first, place_stack(m, p->place));
        }
        out.data[at].points[out.data[at].n++] = i;
    }
    return out;
}

static void check_same(struct module *m, const struct symbol *symbols, const struct probe_point *p, type_id a,
                       type_id b)
{
    if (a == b) return;
    const char *first = arena_printf(&m->scratch, "%s", type_text(m, symbols, a));
    hop_throw(
        HOP_INVALID,
        "%sprobe '%s': values of one name are stacked only where they have one type: one is %s, another "
        "%s%s",
        place_text(m, p->place), module_text(m, p->path), first, type_text(m, symbols, b),
        place_stack(m, p->place));
}

/* Values of one name in one. */
static val stack_of(struct builder *b, const struct named *named, const val *values)
{
    struct attr along = A_INT(0);
    val *rows = ARENA_NEW(&b->arena, val, named->n);
    if (named->n == 1) return values[named->points[0]];
    for (uint32_t i = 0; i < named->n; i++) {
        rows[i] = values[named->points[i]];
        check_same(b->m, b->symbols.data, &named->first, builder_type(b, rows[0]), builder_type(b, rows[i]));
    }
    for (uint32_t i = 0; i < named->n; i++) rows[i] = emit_broadcast_front(b, rows[i], 1);
    return emit(b, OP_concat, rows, named->n, &along);
}

/* Row i of a perturbation for all of one name. */
static val row_of(struct builder *b, val all, uint32_t i)
{
    struct type t = emit_type(b, all);
    dim start[MAX_RANK] = { i }, limit[MAX_RANK] = { i + 1 };
    for (uint32_t d = 1; d < t.rank; d++) limit[d] = t.dims[d];
    return emit_reshape(b, emit_slice(b, all, start, limit), t.rank - 1u, t.dims + 1);
}

static uint32_t grouped(struct module *m, const struct fn *f, const struct probed *lifted,
                        const named_list *gives, const named_list *takes)
{
    const struct fn *g = module_fn(m, lifted->fn);
    struct builder b;
    builder_begin(&b, m, g);
    b.label = fn_label(f);
    val *args = ARENA_NEW(&b.arena, val, g->n_params + 1), *all = ARENA_NEW(&b.arena, val, g->n_results + 1);
    val *out = ARENA_NEW(&b.arena, val, f->n_results + gives->len + 1);
    val *given = ARENA_NEW(&b.arena, val, takes->len + 1);
    for (uint32_t p = 0; p < f->n_params; p++)
        args[p] = builder_param(&b, value_type(f, p), f->values[p].name);
    for (uint32_t k = 0; k < takes->len; k++) {
        const struct named *one = &takes->data[k];
        type_id t = one->first.type;
        for (uint32_t i = 1; i < one->n; i++)
            check_same(m, g->symbols, &one->first, t, lifted->takes.data[one->points[i]].type);
        given[k] = builder_param(&b, one->n > 1 ? type_prepend(m, t, one->n) : t, 0);
    }
    for (uint32_t k = 0; k < takes->len; k++)
        for (uint32_t i = 0; i < takes->data[k].n; i++)
            args[f->n_params + takes->data[k].points[i]] = takes->data[k].n > 1 ? row_of(&b, given[k], i)
                                                                                : given[k];
    inline_function(&b, g->id, NULL, args, all);
    for (uint32_t k = 0; k < f->n_results; k++) {
        out[k] = all[k];
        if (fn_updated(f, k) != HOP_NONE) builder_mut(&b, fn_updated(f, k), k);
    }
    for (uint32_t k = 0; k < gives->len; k++) {
        out[f->n_results + k] = stack_of(&b, &gives->data[k], all + f->n_results);
    }
    return builder_finish(&b, out, f->n_results + gives->len);
}

struct probed probes_function(struct module *m, uint32_t fn, const struct probe_request *want)
{
    const struct fn *f = module_fn(m, fn);
    struct probed lifted = probes_lifted(m, fn, want), out = { .fn = fn };
    if (!lifted.gives.len && !lifted.takes.len) return out;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    named_list gives = by_name(m, &arena, &lifted.gives, want->stacked);
    named_list takes = by_name(m, &arena, &lifted.takes, want->stacked);
    out.fn = grouped(m, f, &lifted, &gives, &takes);
    for (uint32_t k = 0; k < gives.len; k++) vec_push(&m->arena, &out.gives, gives.data[k].first);
    for (uint32_t k = 0; k < takes.len; k++) vec_push(&m->arena, &out.takes, takes.data[k].first);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}
