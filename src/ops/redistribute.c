/* The row of redistribute: the same array with other placements. What each rank does for it is
 * placed_become's matter. */
#include "ops/placed.h"
#include "ops/rowkit.h"
#include "transform/localize.h"

static const char *target(struct infer *in, uint32_t *mesh, struct placement to[MESH_AXES])
{
    struct module *m = in->m;
    struct placement(*list)[MESH_AXES] = arena_alloc(in->arena, sizeof *list);
    *mesh = mesh_named(m, op_table[in->op], in->attrs);
    if (*mesh == HOP_NONE)
        infer_error(in, "there is no mesh @%s", module_text(m, (uint32_t)in->attrs[REDISTRIBUTE_MESH].i));
    const char *text = module_text(m, (uint32_t)in->attrs[REDISTRIBUTE_TO].i);
    const char *wrong = placements_read(m, *mesh, text, 1, list);
    if (wrong) infer_error(in, "attribute 'to': %s", wrong);
    memcpy(to, list[0], sizeof *list);
    return text;
}

static void infer_redistribute(struct infer *in)
{
    struct module *m = in->m;
    struct type t = infer_type(in, 0);
    uint32_t mesh;
    struct placement to[MESH_AXES], from[MESH_AXES];
    const char *text = target(in, &mesh, to);
    const char *wrong = layout_error(m, in->operands[0], mesh, to);
    if (wrong) infer_error(in, "%s cannot become '%s': %s", infer_text(in, in->operands[0]), text, wrong);
    if (t.layout && layout_get(m, t.layout)->mesh != mesh)
        infer_error(in, "%s is distributed over another mesh than @%s", infer_text(in, in->operands[0]),
                    module_text(m, m->meshes.data[mesh].name));
    type_placements(m, in->operands[0], mesh, from);
    for (uint32_t k = 0; k < MESH_AXES; k++)
        if ((from[k].kind == PLACE_EACH) != (to[k].kind == PLACE_EACH))
            infer_error(in,
                        "%s cannot become '%s': what each rank has of its own is no array that others have, "
                        "too",
                        infer_text(in, in->operands[0]), text);
    infer_result(in, type_laid_out(m, in->operands[0], layout_intern(m, mesh, to)));
}

static void localize_redistribute(struct localizing *l)
{
    struct module *m = l->b->m;
    type_id whole = value_type(l->f, node_operands(l->f, l->n)[0]);
    struct placed x = { .v = l->operands[0],
                        .mesh = l->mesh,
                        .whole = type_get(m, copier_type(l->copy, whole)),
                        .ranks = &l->ranks };
    struct placement to[MESH_AXES];
    type_placements(m, whole, l->mesh, x.at);
    type_placements(m, value_type(l->f, l->n->results), l->mesh, to);
    placed_become(l->b, &x, to);
    l->results[0] = placed_value(l->b, &x);
}

static const struct op_sample redistribute_samples[] = {
    { "hop 1\nmesh @m = (data = 2)\n"
      "fn @sample(%x: f32[4, 6]@m(0)) -> (f32[4, 6]@m(1)) {\n"
      "  %y = redistribute {mesh = \"m\", to = \"1\"} (%x)\n"
      "  return %y\n"
      "}\n",
      NULL },
};

static const struct attr_spec redistribute_attrs[REDISTRIBUTE_ATTRS] = {
    [REDISTRIBUTE_MESH] = { "mesh", ATTR_STRING, true, NULL },
    [REDISTRIBUTE_TO] = { "to", ATTR_STRING, true, NULL },
};

const struct op_row row_redistribute = {
    .name = "redistribute",
    .meaning = "a distributed array with other placements, one for each axis of the mesh: \"0 _\"",
    .sig = { 1, 1, ROW_ATTRS(redistribute_attrs) },
    .autocast = AUTOCAST_KEEP,
    .mesh_attr = REDISTRIBUTE_MESH + 1,
    .infer = infer_redistribute,
    .localize = localize_redistribute,
    ROW_SAMPLES(redistribute_samples),
};
