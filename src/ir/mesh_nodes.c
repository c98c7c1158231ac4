/* Nodes over distributed arrays: which rows take them, and how the body of one that works on parts is bound.
 * The operands of a node come in, what each rank has of them goes out. */
#include "ir/axes.h"
#include "ir/mesh.h"

/* ---- who takes what ---- */

/* Rows whose bodies may be over distributed arrays: each rank runs them on what it has. */
static bool hands_on(const struct op_row *row)
{
    bool rules = false;
    for (uint32_t k = 0; k < row->sig.n_attrs; k++) rules |= row->sig.attrs[k].kind == ATTR_FN;
    return row->loop || row->control == CONTROL_CALL || row->control == CONTROL_REGION ||
           row->control == CONTROL_CHOICE || rules;
}

static const char *replicated_text(struct module *m, uint16_t layout)
{
    struct text out = { .arena = &m->scratch };
    const struct mesh *mesh = &m->meshes.data[layout_get(m, layout)->mesh];
    struct placement none[MESH_AXES] = { { 0 } };
    placements_print(mesh->n_axes, none, &out);
    return arena_printf(&m->scratch, "redistribute {mesh = \"%s\", to = \"%s\"}", module_text(m, mesh->name),
                        out.data);
}

static _Noreturn void refuse(const struct infer *in, uint32_t i, const char *where)
{
    struct module *m = in->m;
    infer_error(in,
                "operand %u%s has type %s, and what works on distributed arrays is local_map, redistribute, "
                "calls, branches and loops: make it an operand of a local_map and compute with its parts, or "
                "make it whole on each rank: %s",
                i, where, infer_text(in, in->operands[i]),
                replicated_text(m, type_get(m, in->operands[i]).layout));
}

void parts_refuse(struct infer *in, const struct op_row *row)
{
    struct module *m = in->m;
    bool higher = row->flags & OPF_HIGHER, local = row->control == CONTROL_PARTS;
    uint32_t at = 0;
    if (row->localize && !local) return;
    for (uint32_t r = 0; r < in->n_regions; r++) {
        if (!module_fn(m, in->regions[r].fn)->global) continue;
        if (local)
            infer_error(in, "its body is over parts: there are no distributed arrays, no local_map and no "
                            "redistribute in it");
        if (!hands_on(row))
            infer_error(in, "a body of it is over distributed arrays, which it cannot hand on");
    }
    if (local) return;
    for (uint32_t i = 0; i < in->n_operands && (!higher || !hands_on(row)); i++)
        if (type_get(m, in->operands[i]).layout) refuse(in, i, "");
    for (uint32_t g = 0; higher && g < row->sig.n_groups; at += in->groups[g++]) {
        uint8_t kind = row->sig.groups[g].kind;
        for (uint32_t i = at; i < at + in->groups[g]; i++) {
            uint16_t layout = type_get(m, in->operands[i]).layout, rest;
            if (!layout || kind == GROUP_CARRY) continue;
            if (kind != GROUP_OVER) refuse(in, i, "");
            if (!layout_drop_dim(m, layout, 0, &rest))
                refuse(in, i, ", along whose leading, sharded dim it goes,");
        }
    }
}

void parts_outside(struct module *m, const struct fn *f)
{
    axis_set outside = f->axes & meshes_axes(m);
    for (uint32_t i = 0; i < f->n_nodes && outside; i++) {
        const struct node *n = fn_node(f, i);
        axis_set here = node_axes(m, f, n) & outside;
        if (here)
            hop_throw(
                HOP_INVALID,
                "%s%s: it works across the ranks of the axis %s outside of a local_map, where arrays are "
                "whole%s",
                place_text(m, n->place), node_row(n)->name, axes_text(m, here), place_stack(m, n->place));
    }
}

/* ---- bodies over parts ---- */

/* The function's symbols and, behind them, the coordinates of a rank. */
static const struct symbol *with_coordinates(struct infer *in, const struct mesh *mesh,
                                             struct coordinates *ranks)
{
    struct symbol *symbols = ARENA_NEW(in->arena, struct symbol, in->n_symbols + MESH_AXES);
    if (in->n_symbols) memcpy(symbols, in->symbols, in->n_symbols * sizeof *symbols);
    for (uint32_t k = 0; k < MESH_AXES; k++) {
        bool is = k < mesh->n_axes;
        ranks->at[k] = dim_symbol(in->m, in->n_symbols + k);
        symbols[in->n_symbols + k] = (struct symbol){ .name = is ? mesh->axes[k] : 0,
                                                      .origin = SYMBOL_DIM,
                                                      .hi = is ? mesh->sizes[k] - 1 : 0,
                                                      .axis = is ? mesh->axes[k] : 0 };
    }
    return symbols;
}

static bool any_each(const struct parts_node *p, const struct placement *at)
{
    bool each = false;
    for (uint32_t k = 0; k < p->of->n_axes; k++) each |= at[k].kind == PLACE_EACH;
    return each;
}

static void check_operand(struct infer *in, struct parts_node *p, uint32_t i, const struct attr *text)
{
    struct module *m = in->m;
    struct type t = infer_type(in, i);
    struct placement found[MESH_AXES];
    struct text want = { .arena = &m->scratch };
    const char *wrong = layout_error(m, in->operands[i], p->mesh, p->at[i]);
    if (wrong)
        infer_error(in, "operand %u, %s, is to be placed as '%s': %s", i, infer_text(in, in->operands[i]),
                    module_text(m, (uint32_t)text->i), wrong);
    placements_print(p->of->n_axes, p->at[i], &want);
    if (t.layout && layout_get(m, t.layout)->mesh != p->mesh)
        infer_error(in, "operand %u is distributed over another mesh: its type is %s", i,
                    infer_text(in, in->operands[i]));
    type_placements(m, in->operands[i], p->mesh, found);
    bool same = true, each = any_each(p, p->at[i]);
    for (uint32_t k = 0; k < p->of->n_axes; k++) same &= placement_same(found[k], p->at[i][k]);
    if (t.layout && !same && (!p->moves || each || any_each(p, found)))
        infer_error(in,
                    "operand %u has type %s, its placements are to be '%s': redistribute {mesh = \"%s\", "
                    "to = \"%s\"} it first",
                    i, infer_text(in, in->operands[i]), want.data, module_text(m, p->of->name), want.data);
    if (!t.layout && each)
        infer_error(in, "operand %u has type %s, and what each rank has of its own cannot be made of that", i,
                    infer_text(in, in->operands[i]));
}

void parts_read(struct infer *in, const struct op_row *row, struct parts_node *out)
{
    struct module *m = in->m;
    const struct attr *text = &in->attrs[row->part_attr - 1];
    *out = (struct parts_node){ .mesh = mesh_named(m, row, in->attrs), .n = in->groups[0] };
    if (out->mesh == HOP_NONE)
        infer_error(in, "there is no mesh @%s", module_text(m, (uint32_t)in->attrs[row->mesh_attr - 1].i));
    out->of = arena_copy(in->arena, &m->meshes.data[out->mesh], sizeof *out->of);
    out->moves = row->part_move_attr && in->attrs[row->part_move_attr - 1].kind != ATTR_ABSENT &&
                 in->attrs[row->part_move_attr - 1].i;
    out->at = arena_alloc(in->arena, (out->n + 1) * sizeof *out->at);
    out->feeds = ARENA_NEW(in->arena, type_id, in->n_operands + 1);
    out->symbols = with_coordinates(in, out->of, &out->ranks);
    const char *wrong = placements_read(m, out->mesh, module_text(m, (uint32_t)text->i), out->n, out->at);
    if (wrong) infer_error(in, "attribute '%s': %s", row->sig.attrs[row->part_attr - 1].name, wrong);
    for (uint32_t i = 0; i < out->n; i++) {
        check_operand(in, out, i, text);
        type_id whole = type_laid_out(m, in->operands[i], 0);
        out->feeds[i] = part_type(m, out->mesh, out->at[i], whole, &out->ranks);
    }
    for (uint32_t i = out->n; i < in->n_operands; i++) {
        out->feeds[i] = in->operands[i];
        if (infer_type(in, i).layout)
            infer_error(in,
                        "operand %u, %s, is distributed and stands behind 'with', where arrays are "
                        "replicated: give it as a part",
                        i, infer_text(in, in->operands[i]));
    }
}

static void check_params(const struct infer *in, const struct parts_node *p, const struct fn *g)
{
    if (g->n_params != in->n_operands)
        infer_error(in, "its body takes %u parameters, given %u", g->n_params, in->n_operands);
    for (uint32_t i = 0; i < g->n_params; i++) {
        struct type want = type_get(in->m, value_type(g, i)), found = type_get(in->m, p->feeds[i]);
        if (want.dtype != found.dtype || want.rank != found.rank || want.kind != found.kind)
            infer_error(in, "parameter %u (%%%s) of its body: expected %s, a rank has %s", i,
                        module_text(in->m, g->values[i].name), type_text(in->m, g->symbols, value_type(g, i)),
                        type_text(in->m, p->symbols, p->feeds[i]));
    }
}

/* What each outer symbol of the body is here; HOP_NONE: neither given nor a size of a part. */
static dim *symbols_of_body(struct infer *in, const struct parts_node *p, const struct fn *g,
                            const dim *given)
{
    uint32_t s, number;
    dim *dims = ARENA_NEW(in->arena, dim, g->n_outer_symbols + 1);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) {
        uint32_t axis = g->symbols[i].axis;
        bool coordinate = axis && mesh_of_axis(in->m, axis, &number) == p->mesh;
        dims[i] = coordinate ? p->ranks.at[number] : given ? given[i] : HOP_NONE;
    }
    for (uint32_t i = 0; i < g->n_params; i++) {
        struct type want = type_get(in->m, value_type(g, i)), found = type_get(in->m, p->feeds[i]);
        for (uint32_t d = 0; d < want.rank; d++)
            if (want.dims[d] & DIM_TABLE && dim_is_symbol(in->m, want.dims[d], &s) && dims[s] == HOP_NONE)
                dims[s] = found.dims[d];
    }
    for (uint32_t i = 0; i < g->n_outer_symbols; i++)
        if (dims[i] == HOP_NONE)
            infer_error(in, "the dim '%s' of its body is bound by no parameter and not given",
                        module_text(in->m, g->symbols[i].name));
    return dims;
}

static bool is_coordinate(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

static bool depends_on_rank(struct infer *in, dim d)
{
    return d & DIM_TABLE && dim_mentions(in->m, d, is_coordinate, &in->n_symbols);
}

/* Has the body, with these symbols, the parameters that it is given? */
static bool fits(struct infer *in, const struct parts_node *p, const struct fn *g, const dim *dims)
{
    bool same = true;
    for (uint32_t i = 0; i < g->n_params; i++)
        same &= type_substitute(in->m, value_type(g, i), dims) == p->feeds[i];
    for (uint32_t i = 0; i < g->n_outer_symbols; i++)
        same &= g->symbols[i].axis || !depends_on_rank(in, dims[i]);
    return same;
}

/* Symbols of the function around, and coordinates, as symbols of a body that is being built. */
struct lifting {
    struct builder *b;
    const struct parts_node *p;
    uint32_t n_symbols; /* of the function around */
    dim *inner, *outer; /* per symbol around, HOP_NONE: not met; per symbol of the body */
};

static bool lift_one(void *ctx, uint32_t symbol)
{
    struct lifting *l = ctx;
    if (l->inner[symbol] != HOP_NONE) return false;
    const struct symbol *s = &l->p->symbols[symbol];
    bool coordinate = symbol >= l->n_symbols;
    uint32_t made = coordinate ? builder_coordinate(l->b, s->axis, s->hi + 1)
                               : builder_symbol(l->b, s->name, s->lo, s->hi);
    if (!coordinate) l->b->symbols.data[made].axis = s->axis;
    l->inner[symbol] = dim_symbol(l->b->m, made);
    l->outer[made] = coordinate ? 0 : dim_symbol(l->b->m, symbol);
    return false;
}

static dim lift_dim(struct lifting *l, dim d)
{
    if (!(d & DIM_TABLE)) return d;
    dim_mentions(l->b->m, d, lift_one, l);
    return dim_substitute(l->b->m, d, l->inner);
}

/* The same body for the parameters that it is given; what its new symbols are here goes to *outer. */
static uint32_t fitted(struct infer *in, const struct parts_node *p, const struct fn *g, const dim *dims,
                       dim **outer)
{
    struct module *m = in->m;
    struct builder b;
    struct copier c;
    hop_check_stack();
    builder_begin(&b, m, NULL);
    uint32_t n = in->n_symbols + MESH_AXES;
    struct lifting l = { &b, p, in->n_symbols, ARENA_NEW(in->arena, dim, n), ARENA_NEW(in->arena, dim, n) };
    for (uint32_t i = 0; i < n; i++) l.inner[i] = HOP_NONE;
    for (uint32_t i = 0; i < g->n_params; i++) {
        struct type t = type_get(m, p->feeds[i]);
        dim sizes[MAX_RANK];
        for (uint32_t d = 0; d < t.rank; d++) sizes[d] = lift_dim(&l, t.dims[d]);
        p->feeds[i] = type_with_dims(m, t, sizes);
    }
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) lift_dim(&l, dims[i]);
    b.fn_place = g->place;
    b.label = fn_label(g);
    copier_begin(&c, &b, g);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) c.symbols[i] = lift_dim(&l, dims[i]);
    for (uint32_t i = 0; i < g->n_params; i++)
        c.values[i] = builder_param(&b, p->feeds[i], g->values[i].name);
    val *results = ARENA_NEW(&b.arena, val, g->n_results + 1);
    copier_body(&c, results);
    *outer = l.outer;
    return builder_finish(&b, results, g->n_results);
}

static void refuse_late(const struct infer *in, const struct parts_node *p, const struct fn *g)
{
    for (uint32_t i = 0; i < g->n_params && in->written && g->transposed; i++) {
        axis_set more = value_axes(in->m, p->feeds[i]) & (axis_set)~value_axes(in->m, value_type(g, i));
        if (more)
            infer_error(in,
                        "parameter %u (%%%s) of its body is the same on all ranks when it is captured and "
                        "varies along %s later, and the body takes gradients: its type there must be %s",
                        i, module_text(in->m, g->values[i].name), axes_text(in->m, more),
                        type_text(in->m, p->symbols, p->feeds[i]));
    }
}

void parts_settle(struct infer *in, const struct op_row *row, struct region *region, const dim *given)
{
    struct parts_node p;
    parts_read(in, row, &p);
    const struct fn *g = module_fn(in->m, region->fn);
    check_params(in, &p, g);
    dim *dims = symbols_of_body(in, &p, g, given);
    if (!fits(in, &p, g, dims)) {
        refuse_late(in, &p, g);
        region->fn = fitted(in, &p, g, dims, &dims);
        g = module_fn(in->m, region->fn);
    }
    dim *kept = ARENA_NEW(&in->m->arena, dim, g->n_outer_symbols + 1);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) {
        uint32_t axis = g->symbols[i].axis;
        kept[i] = axis && mesh_of_axis(in->m, axis, NULL) == p.mesh ? 0 : dims[i];
    }
    region->dims = kept;
    region->n_dims = g->n_outer_symbols;
}

dim *parts_bound(struct infer *in, const struct parts_node *p, const struct region *region)
{
    const struct fn *g = module_fn(in->m, region->fn);
    struct infer with = *in;
    check_params(in, p, g);
    dim *dims = symbols_of_body(in, p, g, region->dims);
    for (uint32_t i = 0; i < g->n_params; i++) {
        type_id t = type_substitute(in->m, value_type(g, i), dims);
        if (t == p->feeds[i]) continue;
        infer_error(in, "parameter %u (%%%s) of its body: expected %s, a rank has %s", i,
                    module_text(in->m, g->values[i].name), type_text(in->m, p->symbols, t),
                    type_text(in->m, p->symbols, p->feeds[i]));
    }
    with.symbols = p->symbols;
    for (uint32_t i = 0; i < g->n_required; i++) {
        dim a = dim_substitute(in->m, g->required[i].a, dims),
            b = dim_substitute(in->m, g->required[i].b, dims);
        bool later = depends_on_rank(in, a) || depends_on_rank(in, b); /* each rank sees to it */
        infer_equal(later ? &with : in, a, b, "a requirement of the body");
    }
    return dims;
}

static bool is_lost(void *inner, uint32_t symbol) { return ((const dim *)inner)[symbol] == HOP_NONE; }

bool parts_feed(struct module *m, struct arena *arena, const struct fn *f, const struct node *n, uint32_t i,
                const dim *inner)
{
    const struct fn *g = module_fn(m, node_region(f, n, 0)->fn);
    const struct attr *attrs = f->attrs + n->attrs;
    uint32_t mesh = mesh_named(m, node_row(n), attrs), size = node_group_size(f, n, 0), number;
    const char *text = module_text(m, (uint32_t)attrs[node_row(n)->part_attr - 1].i);
    struct placement(*at)[MESH_AXES] = arena_alloc(arena, (size + 1) * sizeof *at);
    struct type fed = type_get(m, value_type(f, node_operands(f, n)[i]));
    struct coordinates ranks;
    dim dims[MAX_RANK];
    if (fed.kind) return true;
    placements_read(m, mesh, text, size, at);
    for (uint32_t k = 0; k < MESH_AXES; k++) ranks.at[k] = dim_symbol(m, g->n_symbols + k);
    for (uint32_t s = 0; s < g->n_outer_symbols; s++)
        if (g->symbols[s].axis && mesh_of_axis(m, g->symbols[s].axis, &number) == mesh)
            ranks.at[number] = dim_symbol(m, s);
    for (uint32_t d = 0; d < fed.rank; d++) {
        dims[d] = fed.dims[d];
        if (!(dims[d] & DIM_TABLE)) continue;
        if (dim_mentions(m, dims[d], is_lost, (void *)inner)) return false;
        dims[d] = dim_substitute(m, dims[d], inner);
    }
    fed.layout = 0;
    return part_type(m, mesh, at[i], type_with_dims(m, fed, dims), &ranks) == value_type(g, i);
}
