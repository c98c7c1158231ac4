/* The row of local_map: a body that each rank runs on its parts of the operands. Around it arrays are whole,
 * with placements in their types; inside, types are those of the parts, and the axes of the mesh are axes
 * along which values vary, across which collectives work. Where a function is what each rank does
 * (transform/localize.h), the body stands in place. */
#include "hops/hops.h"
#include "ir/axes.h"
#include "ir/mesh.h"
#include "ops/placed.h"
#include "transform/localize.h"

/* ---- infer ---- */

/* What a body gives and what is said of it must be one: a value that differs between ranks is not replicated,
 * one that does not is no contribution. */
static void check_varying(struct infer *in, const struct parts_node *p, uint32_t k, type_id t,
                          const struct placement *at)
{
    struct module *m = in->m;
    for (uint32_t a = 0; a < p->of->n_axes; a++) {
        bool varies = value_axes(m, t) & module_axis(m, p->of->axes[a]);
        const char *axis = module_text(m, p->of->axes[a]);
        if (varies && at[a].kind == PLACE_REPLICATE)
            infer_error(in,
                        "result %u varies along the axis '%s' and is said to be replicated along it ('_'): "
                        "reduce or gather it first (all_reduce, all_gather), or say how it is placed",
                        k, axis);
        if (!varies && at[a].kind == PLACE_PARTIAL)
            infer_error(in,
                        "result %u is the same on all ranks along the axis '%s' and is said to be a "
                        "contribution to a whole there: it was reduced already, so that its placement is '_'",
                        k, axis);
    }
}

static type_id result_type(struct infer *in, const struct parts_node *p, const dim *dims, uint32_t k,
                           const struct placement *at)
{
    struct module *m = in->m;
    const struct fn *g = module_fn(m, in->regions[0].fn);
    type_id own = value_type(g, g->results[k]);
    struct type t = type_get(m, own);
    dim sizes[MAX_RANK];
    uint32_t wrong = 0;
    for (uint32_t d = 0; d < t.rank; d++)
        if (infer_region_dim_escapes(in, 0, t.dims[d], &sizes[d]))
            infer_error(in, "result %u of its body has type %s, whose size is only known inside the body", k,
                        type_text(m, g->symbols, own));
    type_id here = type_substitute(m, own, dims);
    check_varying(in, p, k, own, at);
    const char *error = layout_error(m, here, p->mesh, at);
    if (error) infer_error(in, "result %u, %s: %s", k, type_text(m, p->symbols, here), error);
    type_id whole = whole_type(m, p->mesh, at, here, &p->ranks, &wrong);
    if (whole == HOP_NONE)
        infer_error(in,
                    "result %u has type %s, and the size of dim %u depends on the rank without being that of "
                    "a part of an array placed so: the size of the whole is not known",
                    k, type_text(m, p->symbols, here), wrong);
    return whole;
}

/* Gradients arrive reduced: that of a part is the part of the gradient, that of what all ranks have is the
 * same on each, of which contributions to a sum are another way to think. What is said of them has to be
 * that. */
static void check_gradients(struct infer *in, const struct parts_node *p)
{
    struct module *m = in->m;
    const struct attr *text = &in->attrs[LOCAL_MAP_IN_GRAD];
    if (text->kind == ATTR_ABSENT) return;
    struct placement(*said)[MESH_AXES] = arena_alloc(in->arena, (p->n + 1) * sizeof *said);
    const char *wrong = placements_read(m, p->mesh, module_text(m, (uint32_t)text->i), p->n, said);
    if (wrong) infer_error(in, "attribute 'in_grad': %s", wrong);
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t k = 0; k < p->of->n_axes; k++) {
            struct placement own = p->at[i][k], gradient = said[i][k];
            bool contributes = gradient.kind == PLACE_PARTIAL && gradient.op == REDUCTION_SUM;
            if (placement_same(own, gradient) || (own.kind == PLACE_REPLICATE && contributes)) continue;
            struct text lies = { .arena = in->arena }, cannot = { .arena = in->arena };
            placement_print(own, &lies);
            placement_print(gradient, &cannot);
            infer_error(in,
                        "operand %u lies as '%s' along the axis '%s', its gradient cannot lie as '%s': "
                        "gradients arrive reduced, and lie as what they belong to",
                        i, lies.data, module_text(m, p->of->axes[k]), cannot.data);
        }
}

static void infer_local_map(struct infer *in)
{
    struct module *m = in->m;
    const struct op_row *row = op_table[in->op];
    const struct fn *g = module_fn(m, in->regions[0].fn);
    struct parts_node p;
    parts_read(in, row, &p);
    dim *dims = parts_bound(in, &p, &in->regions[0]);
    struct placement(*out)[MESH_AXES] = arena_alloc(in->arena, (g->n_results + 1) * sizeof *out);
    const char *text = module_text(m, (uint32_t)in->attrs[LOCAL_MAP_OUT].i);
    const char *wrong = placements_read(m, p.mesh, text, g->n_results, out);
    if (wrong) infer_error(in, "attribute 'out': %s", wrong);
    check_gradients(in, &p);
    for (uint32_t k = 0; k < g->n_results; k++) infer_result(in, result_type(in, &p, dims, k, out[k]));
}

/* ---- what each rank does ---- */

static void localize_local_map(struct localizing *l)
{
    struct builder *b = l->b;
    struct module *m = b->m;
    const struct region *region = node_region(l->f, l->n, 0);
    const struct fn *g = module_fn(m, region->fn);
    uint32_t n = node_group_size(l->f, l->n, 0), number;
    struct placement(*in)[MESH_AXES] = arena_alloc(&b->arena, (n + 1) * sizeof *in);
    struct placement(*out)[MESH_AXES] = arena_alloc(&b->arena, (g->n_results + 1) * sizeof *out);
    placements_read(m, l->mesh, module_text(m, (uint32_t)l->attrs[LOCAL_MAP_IN].i), n, in);
    placements_read(m, l->mesh, module_text(m, (uint32_t)l->attrs[LOCAL_MAP_OUT].i), g->n_results, out);
    val *args = ARENA_NEW(&b->arena, val, l->n->n_operands + 1);
    for (uint32_t i = 0; i < l->n->n_operands; i++) {
        type_id whole = value_type(l->f, node_operands(l->f, l->n)[i]);
        struct placed x = { .v = l->operands[i],
                            .mesh = l->mesh,
                            .whole = type_get(m, copier_type(l->copy, whole)),
                            .ranks = &l->ranks };
        type_placements(m, whole, l->mesh, x.at);
        if (i < n && !x.whole.kind) placed_become(b, &x, in[i]);
        args[i] = placed_value(b, &x);
    }
    dim *symbols = ARENA_NEW(&b->arena, dim, g->n_outer_symbols + 1);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) {
        uint32_t axis = g->symbols[i].axis;
        bool coordinate = axis && mesh_of_axis(m, axis, &number) == l->mesh;
        symbols[i] = coordinate ? l->ranks.at[number] : copier_dim(l->copy, region->dims[i]);
    }
    inline_function(b, region->fn, symbols, args, l->results);
    for (uint32_t k = 0; k < g->n_results; k++) {
        struct placed y = { .v = l->results[k], .mesh = l->mesh };
        memcpy(y.at, out[k], sizeof y.at);
        l->results[k] = placed_value(b, &y);
    }
}

static const struct op_sample local_map_samples[] = {
    { "hop 1\nmesh @m = (data = 2)\n"
      "fn @sample(%x: f64[4, 3]@m(0), %w: f64[3, 2]) -> (f64[4, 2]@m(0), f64[]) {\n"
      "  %y, %s = local_map {mesh = \"m\", in = \"0, _\", out = \"0, _\"} part(%a = %x, %b = %w) {\n"
      "    %p = matmul(%a, %b)\n"
      "    %q = sum(%p)\n"
      "    %t = all_reduce {axis = \"data\", op = sum} (%q)\n"
      "    yield(%p, %t)\n"
      "  }\n"
      "  return %y, %s\n"
      "}\n",
      NULL },
};

static const struct attr_spec local_map_attrs[LOCAL_MAP_ATTRS] = {
    [LOCAL_MAP_MESH] = { "mesh", ATTR_STRING, true, NULL },
    [LOCAL_MAP_IN] = { "in", ATTR_STRING, true, NULL },
    [LOCAL_MAP_OUT] = { "out", ATTR_STRING, true, NULL },
    [LOCAL_MAP_IN_GRAD] = { "in_grad", ATTR_STRING, false, NULL },
    [LOCAL_MAP_REDISTRIBUTE] = { "redistribute", ATTR_FLAG, false, NULL },
};

const struct op_row row_local_map = {
    .name = "local_map",
    .meaning = "what each rank of a mesh makes of its parts of distributed arrays",
    .sig = { .n_attrs = HOP_COUNT(local_map_attrs),
             .attrs = local_map_attrs,
             .n_groups = 1,
             .groups = { { "part", GROUP_PART } },
             .min_regions = 1,
             .max_regions = 1,
             .regions = { { .word = "", .feeds = 1, .results = { "yield" } } } },
    .flags = OPF_HIGHER,
    .autocast = AUTOCAST_KEEP,
    .control = CONTROL_PARTS,
    .mesh_attr = LOCAL_MAP_MESH + 1,
    .part_attr = LOCAL_MAP_IN + 1,
    .part_move_attr = LOCAL_MAP_REDISTRIBUTE + 1,
    .infer = infer_local_map,
    .localize = localize_local_map,
    HOP_SAMPLES(local_map_samples),
};
