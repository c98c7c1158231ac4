/* Programs over a mesh of ranks: local_map, whose body is captured for the types of parts, redistribute, and
 * the texts that say where an array lies. */
#include "capture/control.h"
#include "ir/mesh.h"

/* ---- texts ---- */

/* "data = 2, model = 4", up to a closing parenthesis or the end. */
static uint32_t parse_mesh(struct cursor *c)
{
    uint32_t axes[MESH_AXES], n = 0;
    int64_t sizes[MESH_AXES];
    do {
        const char *name;
        size_t length;
        if (n == MESH_AXES)
            capture_throw("%s \"%s\": a mesh has at most %d axes", c->what, c->text, MESH_AXES);
        if (!cursor_word(c, &name, &length)) cursor_error(c, "the name of an axis of the mesh");
        axes[n] = module_string(c->m, name, length);
        cursor_expect(c, "=");
        if (!cursor_integer(c, &sizes[n++])) cursor_error(c, "the size of the axis");
    } while (cursor_accept(c, ","));
    return module_mesh(c->m, 0, n, axes, sizes);
}

static uint32_t mesh_of_text(struct module *m, const char *text)
{
    struct cursor c = cursor_over(text, "the mesh", NULL, m);
    if (!text) capture_throw("expected a mesh, found NULL");
    bool inside = cursor_accept(&c, "(");
    uint32_t mesh = parse_mesh(&c);
    if (inside) cursor_expect(&c, ")");
    cursor_end(&c);
    return mesh;
}

/* "@(data = 2, model = 4)(0, _)", behind a type. */
type_id parse_layout(struct cursor *c, type_id t)
{
    struct placement at[MESH_AXES] = { { 0 } };
    if (!cursor_accept(c, "@")) return t;
    cursor_expect(c, "(");
    uint32_t mesh = parse_mesh(c), n = 0, n_axes = c->m->meshes.data[mesh].n_axes;
    cursor_expect(c, ")");
    cursor_expect(c, "(");
    for (; !cursor_accept(c, ")"); n++) {
        size_t length = strcspn(c->p, " ,)");
        if (n == n_axes || !placement_read(c->p, length, &at[n]))
            cursor_error(c, n == n_axes ? "the end of the placements" : "a placement");
        c->p += length;
        cursor_space(c);
        cursor_accept(c, ",");
    }
    if (n != n_axes)
        capture_throw("%s \"%s\": %u placements for a mesh of %u axes", c->what, c->text, n, n_axes);
    const char *wrong = layout_error(c->m, t, mesh, at);
    if (wrong) capture_throw("%s \"%s\": %s", c->what, c->text, wrong);
    return type_laid_out(c->m, t, layout_intern(c->m, mesh, at));
}

void layout_text(const struct module *m, uint16_t layout, struct text *out)
{
    const struct layout *l = layout_get(m, layout);
    const struct mesh *mesh = &m->meshes.data[l->mesh];
    text_str(out, "@(");
    mesh_print(m, mesh, out);
    text_str(out, ")(");
    placements_print(mesh->n_axes, l->at, out);
    text_str(out, ")");
}

/* ---- local_map ---- */

struct parts_of {
    uint32_t mesh;
    struct placement (*at)[MESH_AXES];
};

/* The coordinate of a rank along axis k of the mesh, as a size of the body. */
static dim coordinate(struct scope *s, uint32_t mesh, uint32_t k)
{
    struct module *m = s->capture->m;
    uint32_t before = s->b.symbols.len;
    uint32_t symbol = builder_coordinate(&s->b, m->meshes.data[mesh].axes[k], m->meshes.data[mesh].sizes[k]);
    for (uint32_t i = before; i < s->b.symbols.len; i++) vec_push(&s->capture->arena, &s->binds, HOP_NONE);
    return dim_symbol(m, symbol);
}

static type_id type_of_part(struct scope *s, const struct inputs *in, uint32_t i)
{
    struct module *m = s->capture->m;
    const struct parts_of *p = in->ctx;
    const struct placement *at = p->at[i];
    type_id whole = lift_type(s, builder_type(&s->outer->b, in->operands[i]));
    struct type t = type_get(m, whole);
    struct coordinates ranks = { { 0 } };
    if (t.kind) return whole;
    whole = type_laid_out(m, whole, 0);
    for (uint32_t k = 0; k < m->meshes.data[p->mesh].n_axes; k++) {
        if (at[k].kind != PLACE_SHARD || at[k].dim >= t.rank) continue;
        int64_t size = m->meshes.data[p->mesh].sizes[k];
        dim *d = (dim[]){ type_get(m, whole).dims[at[k].dim] };
        for (uint32_t before = 0; before < k; before++)
            if (at[before].kind == PLACE_SHARD && at[before].dim == at[k].dim)
                *d = part_dim(m, *d, m->meshes.data[p->mesh].sizes[before], ranks.at[before]);
        if (!part_is_even(m, *d, size)) ranks.at[k] = coordinate(s, p->mesh, k);
    }
    return part_type(m, p->mesh, at, whole, &ranks);
}

static void check_placements(struct capture *c, const struct parts_of *p, const struct inputs *in)
{
    for (uint32_t i = 0; i < in->n; i++) {
        type_id t = builder_type(&c->innermost->b, in->operands[i]);
        const char *wrong = layout_error(c->m, type_laid_out(c->m, t, 0), p->mesh, p->at[i]);
        if (wrong) capture_throw("operand %u: %s", i, wrong);
    }
}

static void refuse_writes(struct capture *c, const struct scope *s)
{
    for (uint32_t i = 0; i < s->bindings.len; i++) {
        uint32_t v = s->bindings.data[i].variable;
        if (s->bindings.data[i].written && c->variables.data[v].scope != s->serial)
            capture_throw(
                "its body writes to an array from outside, of which it has a part at most: give what "
                "becomes of it as a result");
    }
}

static struct attr string_attr(struct module *m, const char *text)
{
    return A_STRING(module_string(m, text, strlen(text)));
}

static void do_local_map(struct capture *c, void *args)
{
    struct control_args *a = args;
    const hop_local_map_spec *spec = a->spec;
    struct scope *s = c->innermost;
    control_check_list(spec->in, spec->n_in, "in");
    if (c->eager) capture_throw("it stands in functions, and is not run at once: capture one");
    uint32_t n = (uint32_t)spec->n_in;
    struct parts_of parts = { mesh_of_text(c->m, spec->mesh),
                              arena_alloc(&c->arena, (n + 1) * sizeof *parts.at) };
    const char *text = spec->in_placements ? spec->in_placements : "";
    const char *wrong = placements_read(c->m, parts.mesh, text, n, parts.at);
    if (wrong) capture_throw("in_placements \"%s\": %s", text, wrong);
    struct inputs in = { .operands = control_operands(c, spec->in, n),
                         .n = n,
                         .n_whole = n,
                         .inner = type_of_part,
                         .ctx = &parts };
    check_placements(c, &parts, &in);
    struct called called = { "the body of local_map", spec->name };
    struct body body = control_run_body(c, SCOPE_BODY, called, spec->body, spec->env, &in, a->n_results, 0,
                                        false);
    refuse_writes(c, body.s);
    val *params = ARENA_NEW(&c->arena, val, n);
    for (uint32_t i = 0; i < n; i++) params[i] = i;
    struct region_in region = control_finish_body(c, &body, params, n, body.results, body.n_results);
    val *operands = ARENA_NEW(&s->b.arena, val, n + region.n_operands);
    if (n) memcpy(operands, in.operands, n * sizeof *operands);
    struct attr attrs[LOCAL_MAP_ATTRS] = {
        [LOCAL_MAP_MESH] = A_STRING(c->m->meshes.data[parts.mesh].name),
        [LOCAL_MAP_IN] = string_attr(c->m, text),
        [LOCAL_MAP_OUT] = string_attr(c->m, spec->out_placements ? spec->out_placements : ""),
        [LOCAL_MAP_REDISTRIBUTE] = A_FLAG(spec->redistribute_inputs != 0),
    };
    if (spec->in_grad_placements) attrs[LOCAL_MAP_IN_GRAD] = string_attr(c->m, spec->in_grad_placements);
    struct node_in node = { .op = OP_local_map,
                            .operands = operands,
                            .n_operands = n,
                            .groups = &n,
                            .attrs = attrs,
                            .regions = &region,
                            .n_regions = 1 };
    val first = builder_node(&s->b, &node);
    a->n_given = body.n_results;
    control_hand_out(c, control_results_at(c, a->results, a->n_results, a->n_given), a->n_given, first);
}

int hop_local_map_at(hop_place at, hop_val *results, int n_results, const hop_local_map_spec *spec)
{
    return control_edge(at, "local_map", do_local_map, results, n_results, spec);
}

/* ---- redistribute ---- */

struct redistribute_args {
    const char *mesh, *placements;
};

static void rule_redistribute(struct emission *e)
{
    const struct redistribute_args *a = e->args;
    struct module *m = e->b->m;
    val x = operand_value(e->b, &e->in[0]);
    if (!a->placements) capture_throw("expected placements, found NULL");
    uint16_t layout = type_get(m, builder_type(e->b, x)).layout;
    if (!a->mesh && !layout) capture_throw("the array lies on no mesh, and none is given");
    uint32_t mesh = a->mesh ? mesh_of_text(m, a->mesh) : layout_get(m, layout)->mesh;
    struct attr attrs[REDISTRIBUTE_ATTRS] = {
        [REDISTRIBUTE_MESH] = A_STRING(m->meshes.data[mesh].name),
        [REDISTRIBUTE_TO] = string_attr(m, a->placements),
    };
    e->out[0] = emit(e->b, OP_redistribute, &x, 1, attrs);
}

hop_val hop_redistribute_at(hop_place at, hop_val x, const char *mesh, const char *placements)
{
    struct redistribute_args args = { mesh, placements };
    return capture_emit1(at, "redistribute", rule_redistribute, &args, &x, 1);
}
