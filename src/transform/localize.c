/* What each rank does: a global function comes in, its local function goes out, in which every array is the
 * rank's part, and how a run feeds it. Rows over distributed arrays say what becomes of their nodes; whatever
 * hands arrays on is copied, with bodies that are local. */
#include "transform/localize.h"

#include "ir/axes.h"
#include "ir/loop.h"
#include "transform/transform.h"

static const uint64_t MEMO_LOCAL = 0x6c6f636c;

struct walk {
    struct module *m;
    uint32_t mesh;   /* HOP_NONE: none met yet */
    uint32_t needed; /* coordinates: bit k is axis k of the mesh */
};

/* ---- the mesh, and the coordinates that sizes depend on ---- */

static void meet_mesh(struct walk *w, uint32_t mesh, const char *place, const char *what)
{
    struct module *m = w->m;
    if (w->mesh == HOP_NONE) w->mesh = mesh;
    if (w->mesh != mesh)
        hop_throw(HOP_INVALID, "%s%s: a program is over one mesh, this one is over @%s and @%s", place, what,
                  module_text(m, m->meshes.data[w->mesh].name), module_text(m, m->meshes.data[mesh].name));
}

static void look_at_type(struct walk *w, type_id t, const char *what)
{
    uint16_t layout = type_get(w->m, t).layout;
    if (!layout) return;
    struct layout l = *layout_get(w->m, layout);
    meet_mesh(w, l.mesh, "", what);
    w->needed |= part_coordinates(w->m, l.mesh, l.at, t);
}

static void look_at_function(struct walk *w, const struct fn *f);

static void look_at_node(struct walk *w, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    const struct attr *attrs = f->attrs + n->attrs;
    uint32_t number;
    if (row->mesh_attr) meet_mesh(w, mesh_named(w->m, row, attrs), place_text(w->m, n->place), row->name);
    for (uint32_t k = 0; k < row->sig.n_attrs; k++)
        if (attrs[k].kind == ATTR_FN) look_at_function(w, module_fn(w->m, (uint32_t)attrs[k].i));
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct fn *g = module_fn(w->m, node_region(f, n, r)->fn);
        look_at_function(w, g);
        if (row->control != CONTROL_PARTS) continue;
        for (uint32_t s = 0; s < g->n_outer_symbols; s++) /* sizes of its parts depend on them */
            if (g->symbols[s].axis && mesh_of_axis(w->m, g->symbols[s].axis, &number) == w->mesh)
                w->needed |= 1u << number;
    }
}

static void look_at_function(struct walk *w, const struct fn *f)
{
    if (!f->global) return;
    hop_check_stack();
    for (uint32_t v = 0; v < f->n_values; v++)
        look_at_type(w, value_type(f, v), module_text(w->m, fn_label(f)));
    for (uint32_t i = 0; i < f->n_nodes; i++) look_at_node(w, f, fn_node(f, i));
}

/* ---- the function ---- */

static struct coordinates coordinates_of(const struct walk *w, const struct builder *b)
{
    struct coordinates out;
    uint32_t number;
    for (uint32_t k = 0; k < MESH_AXES; k++) out.at[k] = 0; /* nothing depends on it */
    for (uint32_t s = 0; s < b->n_outer_symbols; s++)
        if (b->symbols.data[s].axis && mesh_of_axis(w->m, b->symbols.data[s].axis, &number) == w->mesh)
            out.at[number] = dim_symbol(w->m, s);
    return out;
}

static type_id local_type(const struct walk *w, type_id t, const struct coordinates *ranks)
{
    struct placement at[MESH_AXES];
    if (!type_get(w->m, t).layout) return t;
    type_placements(w->m, t, w->mesh, at);
    return part_type(w->m, w->mesh, at, t, ranks);
}

/* The body, or rule, of a node that hands arrays on; what the coordinates behind its own symbols are. */
static uint32_t local_body(const struct walk *w, uint32_t fn, const struct coordinates *ranks,
                           struct arena *arena, const dim **dims, uint32_t n_dims)
{
    const struct edges *e = localize(w->m, fn);
    if (e->local == fn || !dims || !e->n_ranks) return e->local;
    dim *all = ARENA_NEW(arena, dim, n_dims + e->n_ranks);
    if (n_dims) memcpy(all, *dims, n_dims * sizeof *all);
    for (uint32_t k = 0; k < e->n_ranks; k++) all[n_dims + k] = ranks->at[e->rank_axes[k]];
    *dims = all;
    return e->local;
}

static void hand_on(const struct walk *w, struct copier *c, const struct node *n,
                    const struct coordinates *ranks)
{
    const struct op_row *row = node_row(n);
    struct arena *arena = &c->b->arena;
    struct node_in in = copier_node_in(c, n);
    struct attr *attrs = arena_copy(arena, in.attrs, row->sig.n_attrs * sizeof *attrs);
    struct region_in *regions = arena_copy(arena, in.regions, n->n_regions * sizeof *regions);
    for (uint32_t k = 0; k < row->sig.n_attrs; k++)
        if (attrs[k].kind == ATTR_FN) attrs[k].i = local_body(w, (uint32_t)attrs[k].i, ranks, arena, NULL, 0);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        uint32_t n_dims = module_fn(w->m, regions[r].fn)->n_outer_symbols;
        regions[r].fn = local_body(w, regions[r].fn, ranks, arena, &regions[r].dims, n_dims);
    }
    in.attrs = attrs;
    in.regions = regions;
    val first = builder_node(c->b, &in), *results = ARENA_NEW(arena, val, n->n_results + 1);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    copier_bind(c, n, results);
}

static void localize_node(const struct walk *w, struct copier *c, const struct node *n,
                          const struct coordinates *ranks)
{
    const struct op_row *row = node_row(n);
    if (!row->localize) {
        hand_on(w, c, n, ranks);
        return;
    }
    struct node_in in = copier_node_in(c, n);
    struct localizing l = { .b = c->b,
                            .copy = c,
                            .f = c->f,
                            .n = n,
                            .attrs = in.attrs,
                            .operands = in.operands,
                            .mesh = w->mesh,
                            .ranks = *ranks,
                            .results = ARENA_NEW(&c->b->arena, val, n->n_results + 1) };
    struct place place = c->b->place;
    c->b->place = n->place;
    row->localize(&l);
    c->b->place = place;
    copier_bind(c, n, l.results);
}

static uint32_t build_local(const struct walk *w, const struct fn *f)
{
    struct module *m = w->m;
    struct mesh mesh = m->meshes.data[w->mesh];
    struct builder b;
    struct copier c;
    hop_check_stack();
    builder_begin(&b, m, f);
    for (uint32_t k = 0; k < mesh.n_axes; k++)
        if (w->needed >> k & 1) builder_coordinate(&b, mesh.axes[k], mesh.sizes[k]);
    struct coordinates ranks = coordinates_of(w, &b);
    copier_begin(&c, &b, f);
    for (uint32_t p = 0; p < f->n_params; p++)
        c.values[p] = builder_param(&b, local_type(w, copier_type(&c, value_type(f, p)), &ranks),
                                    f->values[p].name);
    for (uint32_t p = 0; f->news && p < f->n_params; p++)
        if (f->news[p] != HOP_NONE) builder_mut(&b, p, f->news[p]);
    for (uint32_t i = 0; i < f->n_required; i++) {
        b.place = f->required[i].place;
        builder_require(&b, copier_dim(&c, f->required[i].a), copier_dim(&c, f->required[i].b),
                        "requirement");
    }
    b.place = (struct place){ 0 };
    for (uint32_t i = 0; i < f->n_nodes; i++) localize_node(w, &c, fn_node(f, i), &ranks);
    val *results = ARENA_NEW(&b.arena, val, f->n_results + 1);
    for (uint32_t k = 0; k < f->n_results; k++) {
        type_id t = local_type(w, copier_type(&c, value_type(f, f->results[k])), &ranks);
        results[k] = builder_vary(&b, c.values[f->results[k]], value_axes(m, t));
        if (builder_type(&b, results[k]) != t)
            hop_throw(HOP_INTERNAL, "result %u of a local function has type %s, expected %s", k,
                      type_text(m, b.symbols.data, builder_type(&b, results[k])),
                      type_text(m, b.symbols.data, t));
    }
    return builder_finish(&b, results, f->n_results);
}

/* ---- sizes that differ between ranks ---- */

struct sizes {
    struct module *m;
    const axis_set *of; /* per symbol: along which axes ranks have different numbers */
    axis_set found;
};

static bool add_symbol(void *ctx, uint32_t symbol)
{
    struct sizes *s = ctx;
    s->found |= s->of[symbol];
    return false;
}

static axis_set size_axes(struct module *m, const axis_set *of, dim d)
{
    struct sizes s = { m, of, 0 };
    if (d & DIM_TABLE) dim_mentions(m, d, add_symbol, &s);
    return s.found;
}

static axis_set type_axes(struct module *m, const axis_set *of, type_id t)
{
    struct type type = type_get(m, t);
    axis_set axes = 0;
    for (uint32_t d = 0; d < type.rank; d++) axes |= size_axes(m, of, type.dims[d]);
    return axes;
}

/* Along which axes ranks make different numbers of steps, as far as sizes say how many. */
static axis_set step_axes(struct module *m, const struct fn *f, const struct node *n, const axis_set *of)
{
    const struct op_row *row = node_row(n);
    axis_set axes = 0;
    uint32_t first = 0;
    for (uint32_t k = 0; k < row->sig.n_attrs; k++) {
        const struct attr *a = node_attr(f, n, k);
        if (a->kind == ATTR_DIM) axes |= size_axes(m, of, (dim)a->i);
    }
    for (uint32_t g = 0; g < row->sig.n_groups; first += node_group_size(f, n, g++))
        for (uint32_t i = 0; i < node_group_size(f, n, g) && row->sig.groups[g].kind == GROUP_OVER; i++)
            axes |= size_axes(m, of, type_get(m, value_type(f, node_operands(f, n)[first + i])).dims[0]);
    return axes;
}

static void check_sizes(struct module *m, const struct fn *f, const axis_set *outer)
{
    struct arena arena = { 0 };
    hop_check_stack();
    hop_cleanup_push(arena_free, &arena);
    axis_set *of = ARENA_ZNEW(&arena, axis_set, f->n_symbols + 1);
    if (f->n_outer_symbols) memcpy(of, outer, f->n_outer_symbols * sizeof *of);
    for (uint32_t i = 0; i < f->n_nodes && f->exchanged; i++) {
        const struct node *n = fn_node(f, i);
        const struct op_row *row = node_row(n);
        axis_set across =
            axes_used(m, row, f->attrs + n->attrs, f->regions + n->regions, n->n_regions).exchanged;
        for (uint32_t k = 0; k < n->n_operands && across && !n->n_regions; k++) {
            type_id t = value_type(f, node_operands(f, n)[k]);
            axis_set differ = type_axes(m, of, t) & across;
            if (differ)
                hop_throw(HOP_INVALID,
                          "%s%s: operand %u has type %s, whose size is another one on each rank along the "
                          "axis %s: arrays that ranks give each other have one size%s",
                          place_text(m, n->place), row->name, k, type_text(m, f->symbols, t),
                          axes_text(m, differ), place_stack(m, n->place));
        }
        axis_set waits = n->n_regions ? step_axes(m, f, n, of) & across : 0;
        if (waits)
            hop_throw(HOP_INVALID,
                      "%s%s: ranks make different numbers of steps along the axis %s, as their parts have "
                      "different sizes, and a body of it exchanges over that axis: ranks that do not get "
                      "there would be waited for%s",
                      place_text(m, n->place), row->name, axes_text(m, waits), place_stack(m, n->place));
        for (uint32_t r = 0; r < n->n_regions; r++) {
            const struct region *g = node_region(f, n, r);
            axis_set *inner = ARENA_ZNEW(&arena, axis_set, g->n_dims + 1);
            for (uint32_t k = 0; k < g->n_dims; k++) inner[k] = size_axes(m, of, g->dims[k]);
            check_sizes(m, module_fn(m, g->fn), inner);
        }
    }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

static void check_parts(struct module *m, uint32_t local)
{
    const struct fn *f = module_fn(m, local);
    axis_set *of = ARENA_ZNEW(&m->scratch, axis_set, f->n_outer_symbols + 1);
    for (uint32_t s = 0; s < f->n_outer_symbols; s++)
        if (f->symbols[s].axis) of[s] = module_axis(m, f->symbols[s].axis);
    check_sizes(m, f, of);
}

static struct edges edges_of(const struct walk *w, const struct fn *f, uint32_t local)
{
    struct module *m = w->m;
    struct edges e = { .local = local, .mesh = w->mesh, .n_params = f->n_params, .n_results = f->n_results };
    type_id *params = ARENA_NEW(&m->arena, type_id, f->n_params + 1),
            *results = ARENA_NEW(&m->arena, type_id, f->n_results + 1);
    for (uint32_t p = 0; p < f->n_params; p++) params[p] = value_type(f, p);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = value_type(f, f->results[k]);
    e.params = params;
    e.results = results;
    for (uint32_t k = 0; k < MESH_AXES; k++)
        if (w->needed >> k & 1) e.rank_axes[e.n_ranks++] = (uint8_t)k;
    return e;
}

const struct edges *localize(struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    uint64_t key[4] = { MEMO_LOCAL, fn, 0, 0 };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.record;
    struct walk w = { .m = m, .mesh = HOP_NONE };
    look_at_function(&w, f);
    struct edges *e = ARENA_NEW(&m->arena, struct edges, 1);
    *e = edges_of(&w, f, w.mesh == HOP_NONE ? fn : build_local(&w, f));
    if (w.needed) check_parts(m, e->local);
    memo_put(m, key, (union memo_value){ .record = e });
    return e;
}
