/* Meshes, placements and layouts of a module, and the arithmetic of parts: types of whole arrays come in,
 * types of what one rank has go out, and the other way round. */
#include "ir/mesh.h"

#include "ir/axes.h"
#include "ir/lexer.h"
#include "ir/text.h"
#include "ops/build.h"

/* ---- meshes ---- */

uint32_t mesh_find(const struct module *m, uint32_t name)
{
    for (uint32_t i = 0; i < m->meshes.len; i++)
        if (m->meshes.data[i].name == name) return i;
    return HOP_NONE;
}

uint32_t mesh_named(const struct module *m, const struct op_row *row, const struct attr *attrs)
{
    const struct attr *name = row->mesh_attr ? &attrs[row->mesh_attr - 1] : NULL;
    return name && name->kind == ATTR_STRING ? mesh_find(m, (uint32_t)name->i) : HOP_NONE;
}

uint32_t mesh_of_axis(const struct module *m, uint32_t axis, uint32_t *number)
{
    for (uint32_t i = 0; i < m->meshes.len; i++)
        for (uint32_t k = 0; k < m->meshes.data[i].n_axes; k++)
            if (m->meshes.data[i].axes[k] == axis) {
                if (number) *number = k;
                return i;
            }
    return HOP_NONE;
}

int64_t mesh_size(const struct mesh *mesh)
{
    int64_t n = 1;
    for (uint32_t k = 0; k < mesh->n_axes; k++) n *= mesh->sizes[k];
    return n;
}

static void put_word(struct text *out, const char *name)
{
    if (lexer_is_word(name)) text_str(out, name);
    else text_quoted(out, name);
}

void mesh_print(const struct module *m, const struct mesh *mesh, struct text *out)
{
    for (uint32_t k = 0; k < mesh->n_axes; k++) {
        if (k) text_str(out, ", ");
        put_word(out, module_text(m, mesh->axes[k]));
        text_add(out, " = %lld", (long long)mesh->sizes[k]);
    }
}

static const char *mesh_text(struct module *m, const struct mesh *mesh)
{
    struct text out = { .arena = &m->scratch };
    mesh_print(m, mesh, &out);
    return out.data ? out.data : "";
}

static bool same_axes(const struct mesh *a, const struct mesh *b)
{
    bool same = a->n_axes == b->n_axes;
    for (uint32_t k = 0; same && k < a->n_axes; k++)
        same = a->axes[k] == b->axes[k] && a->sizes[k] == b->sizes[k];
    return same;
}

static void check_mesh(struct module *m, const struct mesh *mesh)
{
    enum { MOST_RANKS = 1 << 24 };
    int64_t ranks = 1;
    if (!mesh->n_axes) hop_throw(HOP_INVALID, "a mesh has at least one axis");
    for (uint32_t k = 0; k < mesh->n_axes; k++) {
        const char *axis = module_text(m, mesh->axes[k]);
        if (!*axis) hop_throw(HOP_INVALID, "axis %u of a mesh has no name", k);
        if (mesh->sizes[k] < 1)
            hop_throw(HOP_INVALID, "the axis '%s' of a mesh: expected a size of at least 1, found %lld", axis,
                      (long long)mesh->sizes[k]);
        for (uint32_t i = 0; i < k; i++)
            if (mesh->axes[i] == mesh->axes[k])
                hop_throw(HOP_INVALID, "a mesh has the axis '%s' twice", axis);
        ranks = mesh->sizes[k] > MOST_RANKS ? MOST_RANKS + 1 : ranks * mesh->sizes[k];
        if (ranks > MOST_RANKS) hop_throw(HOP_INVALID, "a mesh of more than %d ranks", MOST_RANKS);
        uint32_t other = mesh_of_axis(m, mesh->axes[k], NULL);
        if (other != HOP_NONE)
            hop_throw(HOP_INVALID,
                      "the axis '%s' of the mesh (%s) belongs to another mesh of the program: @%s = (%s)",
                      axis, mesh_text(m, mesh), module_text(m, m->meshes.data[other].name),
                      mesh_text(m, &m->meshes.data[other]));
    }
}

static uint32_t free_name(struct module *m, const char *like)
{
    char name[32];
    uint32_t id = module_string(m, like, strlen(like));
    for (uint32_t k = 2; mesh_find(m, id) != HOP_NONE; k++) {
        int n = snprintf(name, sizeof name, "%.16s_%u", like, k);
        id = module_string(m, name, (size_t)n);
    }
    return id;
}

uint32_t module_mesh(struct module *m, uint32_t name, uint32_t n_axes, const uint32_t *axes,
                     const int64_t *sizes)
{
    struct mesh mesh = { .name = name, .n_axes = n_axes };
    if (n_axes > MESH_AXES)
        hop_throw(HOP_INVALID, "a mesh of %u axes: at most %d are possible", n_axes, MESH_AXES);
    for (uint32_t k = 0; k < n_axes; k++) {
        mesh.axes[k] = axes[k];
        mesh.sizes[k] = sizes[k];
    }
    for (uint32_t i = 0; i < m->meshes.len; i++)
        if (same_axes(&m->meshes.data[i], &mesh)) return i;
    check_mesh(m, &mesh);
    if (!name) mesh.name = free_name(m, "mesh");
    else if (mesh_find(m, name) != HOP_NONE)
        hop_throw(HOP_INVALID, "there is another mesh @%s: (%s)", module_text(m, name),
                  mesh_text(m, &m->meshes.data[mesh_find(m, name)]));
    for (uint32_t k = 0; k < n_axes; k++) module_axis(m, axes[k]);
    vec_push(&m->arena, &m->meshes, mesh);
    return m->meshes.len - 1;
}

static uint32_t import_string(struct module *to, const struct module *from, uint32_t id)
{
    const char *text = module_text(from, id);
    return module_string(to, text, strlen(text));
}

uint32_t mesh_import(struct module *to, const struct module *from, uint32_t mesh)
{
    struct mesh here = from->meshes.data[mesh];
    for (uint32_t k = 0; k < here.n_axes; k++) here.axes[k] = import_string(to, from, here.axes[k]);
    here.name = import_string(to, from, here.name);
    for (uint32_t i = 0; i < to->meshes.len; i++)
        if (same_axes(&to->meshes.data[i], &here)) return i;
    if (mesh_find(to, here.name) != HOP_NONE) here.name = free_name(to, module_text(to, here.name));
    return module_mesh(to, here.name, here.n_axes, here.axes, here.sizes);
}

axis_set mesh_axes(struct module *m, uint32_t mesh)
{
    axis_set axes = 0;
    struct mesh of = m->meshes.data[mesh];
    for (uint32_t k = 0; k < of.n_axes; k++) axes |= module_axis(m, of.axes[k]);
    return axes;
}

axis_set meshes_axes(struct module *m)
{
    axis_set axes = 0;
    for (uint32_t i = 0; i < m->meshes.len; i++) axes |= mesh_axes(m, i);
    return axes;
}

/* ---- placements ---- */

static const char *const reductions[] = { [REDUCTION_SUM] = "sum",
                                          [REDUCTION_MAX] = "max",
                                          [REDUCTION_MIN] = "min",
                                          [REDUCTION_PROD] = "prod",
                                          [REDUCTION_MEAN] = "mean" };

void placement_print(struct placement p, struct text *out)
{
    switch ((enum placement_kind)p.kind) {
    case PLACE_REPLICATE: text_str(out, "_"); return;
    case PLACE_SHARD: text_add(out, "%u", p.dim); return;
    case PLACE_PARTIAL: text_str(out, reductions[p.op]); return;
    case PLACE_EACH: text_str(out, "each"); return;
    }
}

bool placement_read(const char *word, size_t length, struct placement *out)
{
    *out = (struct placement){ .kind = PLACE_REPLICATE };
    if (length == 1 && *word == '_') return true;
    out->kind = PLACE_EACH;
    if (length == 4 && !memcmp(word, "each", 4)) return true;
    out->kind = PLACE_PARTIAL;
    for (uint32_t i = 0; i < HOP_COUNT(reductions); i++) {
        out->op = (uint8_t)i;
        if (strlen(reductions[i]) == length && !memcmp(reductions[i], word, length)) return true;
    }
    uint32_t dim_number = 0;
    bool digits = length && length <= 2;
    for (size_t i = 0; i < length && digits; i++) {
        digits = word[i] >= '0' && word[i] <= '9';
        dim_number = dim_number * 10 + (uint32_t)(word[i] - '0');
    }
    *out = (struct placement){ .kind = PLACE_SHARD, .dim = (uint8_t)dim_number };
    return digits;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/* One list of words up to a comma or the end; what is wrong, or NULL. */
static const char *read_list(struct module *m, uint32_t mesh, const char **at, uint32_t number,
                             struct placement out[MESH_AXES])
{
    uint32_t n_axes = m->meshes.data[mesh].n_axes, n = 0;
    const char *p = *at;
    memset(out, 0, MESH_AXES * sizeof *out);
    for (;;) {
        while (is_blank(*p)) p++;
        if (!*p || *p == ',') break;
        const char *word = p;
        while (*p && *p != ',' && !is_blank(*p)) p++;
        struct placement one;
        if (!placement_read(word, (size_t)(p - word), &one))
            return arena_printf(&m->scratch,
                                "placement %u of list %u: expected the number of a dim, '_', 'sum', 'max', "
                                "'min', 'prod', 'mean' or 'each', found '%.*s'",
                                n, number, (int)HOP_MIN(p - word, 40), word);
        if (n < MESH_AXES) out[n] = one;
        n++;
    }
    *at = p;
    bool all = !n || (n == 1 && out[0].kind == PLACE_REPLICATE);
    if (n == n_axes || all) return NULL;
    return arena_printf(&m->scratch, "list %u has %u placement%s, the mesh @%s (%s) has %u ax%ss", number, n,
                        n == 1 ? "" : "s", module_text(m, m->meshes.data[mesh].name),
                        mesh_text(m, &m->meshes.data[mesh]), n_axes, n_axes == 1 ? "i" : "e");
}

const char *placements_read(struct module *m, uint32_t mesh, const char *text, uint32_t n,
                            struct placement (*out)[MESH_AXES])
{
    uint32_t found = 0;
    const char *p = text;
    for (;; p++) {
        struct placement spare[MESH_AXES];
        const char *wrong = read_list(m, mesh, &p, found, found < n ? out[found] : spare);
        if (wrong) return wrong;
        bool empty = !found && !*p && !n;
        found += !empty;
        if (!*p) break;
    }
    if (found == n) return NULL;
    return arena_printf(&m->scratch, "expected %u list%s of placements, found %u", n, n == 1 ? "" : "s",
                        found);
}

void placements_print(uint32_t n_axes, const struct placement *at, struct text *out)
{
    for (uint32_t k = 0; k < n_axes; k++) {
        if (k) text_str(out, " ");
        placement_print(at[k], out);
    }
}

uint32_t placements_text(struct module *m, uint32_t mesh, uint32_t n, const struct placement (*at)[MESH_AXES])
{
    struct text out = { .arena = &m->scratch };
    for (uint32_t i = 0; i < n; i++) {
        if (i) text_str(&out, ", ");
        placements_print(m->meshes.data[mesh].n_axes, at[i], &out);
    }
    return module_string(m, out.data ? out.data : "", out.len);
}

/* ---- layouts ---- */

uint16_t layout_intern(struct module *m, uint32_t mesh, const struct placement *at)
{
    struct layout l = { .mesh = mesh };
    bool plain = true;
    for (uint32_t k = 0; k < m->meshes.data[mesh].n_axes; k++) {
        l.at[k] = at[k];
        plain &= at[k].kind == PLACE_REPLICATE;
    }
    if (plain) return 0;
    for (uint32_t i = 0; i < m->layouts.len; i++) {
        const struct layout *other = &m->layouts.data[i];
        bool same = other->mesh == mesh;
        for (uint32_t k = 0; k < MESH_AXES && same; k++) same = placement_same(other->at[k], l.at[k]);
        if (same) return (uint16_t)(i + 1);
    }
    if (m->layouts.len == UINT16_MAX) hop_throw(HOP_INVALID, "more than %d layouts", UINT16_MAX);
    vec_push(&m->arena, &m->layouts, l);
    return (uint16_t)m->layouts.len;
}

void type_placements(const struct module *m, type_id t, uint32_t mesh, struct placement at[MESH_AXES])
{
    struct type type = type_get(m, t);
    memset(at, 0, MESH_AXES * sizeof *at);
    if (type.layout && layout_get(m, type.layout)->mesh == mesh)
        memcpy(at, layout_get(m, type.layout)->at, MESH_AXES * sizeof *at);
}

const char *layout_error(struct module *m, type_id t, uint32_t mesh, const struct placement *at)
{
    struct type type = type_get(m, t);
    struct mesh of = m->meshes.data[mesh];
    bool placed = false;
    for (uint32_t k = 0; k < of.n_axes; k++) {
        const char *axis = module_text(m, of.axes[k]);
        placed |= at[k].kind != PLACE_REPLICATE;
        if (at[k].kind == PLACE_SHARD && at[k].dim >= type.rank && !type.kind)
            return arena_printf(&m->scratch, "along the axis '%s' dim %u is sharded, and there %s %u dim%s",
                                axis, at[k].dim, type.rank == 1 ? "is" : "are", type.rank,
                                type.rank == 1 ? "" : "s");
        if (at[k].kind == PLACE_PARTIAL && type.dtype == DT_BOOL)
            return arena_printf(&m->scratch, "along the axis '%s' it is partial, and bools are no numbers",
                                axis);
        if (at[k].kind == PLACE_PARTIAL && at[k].op == REDUCTION_MEAN &&
            !dtype_is_float((enum dtype)type.dtype) && !type.kind)
            return arena_printf(&m->scratch, "along the axis '%s' it is a partial mean, and no float", axis);
    }
    return type.kind && placed ? "objects are not distributed" : NULL;
}

void layout_print(const struct module *m, uint16_t layout, struct text *out)
{
    if (!layout) return;
    const struct layout *l = layout_get(m, layout);
    const struct mesh *mesh = &m->meshes.data[l->mesh];
    text_str(out, "@");
    put_word(out, module_text(m, mesh->name));
    text_str(out, "(");
    for (uint32_t k = 0; k < mesh->n_axes; k++) {
        if (k) text_str(out, ", ");
        placement_print(l->at[k], out);
    }
    text_str(out, ")");
}

uint16_t layout_insert_dim(struct module *m, uint16_t layout, uint32_t at)
{
    if (!layout) return 0;
    struct layout l = *layout_get(m, layout);
    for (uint32_t k = 0; k < MESH_AXES; k++)
        if (l.at[k].kind == PLACE_SHARD && l.at[k].dim >= at) l.at[k].dim++;
    return layout_intern(m, l.mesh, l.at);
}

bool layout_drop_dim(struct module *m, uint16_t layout, uint32_t at, uint16_t *out)
{
    *out = 0;
    if (!layout) return true;
    struct layout l = *layout_get(m, layout);
    bool fits = true;
    for (uint32_t k = 0; k < MESH_AXES; k++) {
        if (l.at[k].kind != PLACE_SHARD) continue;
        if (l.at[k].dim == at) {
            fits = false;
            l.at[k] = (struct placement){ .kind = PLACE_REPLICATE };
        } else if (l.at[k].dim > at) l.at[k].dim--;
    }
    *out = layout_intern(m, l.mesh, l.at);
    return fits;
}

/* ---- parts ---- */

void part_of(const struct mesh *mesh, const struct placement *at, uint32_t rank_of_array,
             const int64_t *sizes, int64_t rank, struct part_box *out)
{
    int64_t stride = mesh_size(mesh);
    for (uint32_t d = 0; d < rank_of_array; d++) {
        out->sizes[d] = sizes[d];
        out->offsets[d] = 0;
    }
    for (uint32_t k = 0; k < mesh->n_axes; k++) {
        stride /= mesh->sizes[k];
        int64_t coordinate = rank / stride % mesh->sizes[k];
        if (at[k].kind != PLACE_SHARD) continue;
        uint32_t d = at[k].dim;
        out->offsets[d] += part_offset(out->sizes[d], mesh->sizes[k], coordinate);
        out->sizes[d] = part_size(out->sizes[d], mesh->sizes[k], coordinate);
    }
}

bool part_is_even(struct module *m, dim whole, int64_t n)
{
    return n == 1 || dim_mod(m, whole, dim_const(m, n)) == 0;
}

dim part_largest(struct module *m, dim whole, int64_t n)
{
    if (part_is_even(m, whole, n)) return dim_floordiv(m, whole, dim_const(m, n));
    return dim_floordiv(m, dim_add(m, whole, dim_const(m, n - 1)), dim_const(m, n));
}

dim part_dim(struct module *m, dim whole, int64_t n, dim coordinate)
{
    dim most = part_largest(m, whole, n);
    if (part_is_even(m, whole, n)) return most;
    return dim_max(m, 0, dim_min(m, most, dim_sub(m, whole, dim_mul(m, coordinate, most))));
}

dim part_offset_dim(struct module *m, dim whole, int64_t n, dim coordinate)
{
    dim at = dim_mul(m, coordinate, part_largest(m, whole, n));
    return part_is_even(m, whole, n) ? at : dim_min(m, whole, at);
}

static dim placed_dim(struct module *m, const struct mesh *mesh, const struct placement *at, dim whole,
                      uint32_t d, const struct coordinates *ranks)
{
    for (uint32_t k = 0; k < mesh->n_axes; k++)
        if (at[k].kind == PLACE_SHARD && at[k].dim == d)
            whole = part_dim(m, whole, mesh->sizes[k], ranks->at[k]);
    return whole;
}

type_id part_type(struct module *m, uint32_t mesh, const struct placement *at, type_id t,
                  const struct coordinates *ranks)
{
    struct type type = type_get(m, t);
    struct mesh of = m->meshes.data[mesh];
    dim dims[MAX_RANK];
    axis_set varying = type.varying;
    if (type.kind) return t;
    for (uint32_t d = 0; d < type.rank; d++) dims[d] = placed_dim(m, &of, at, type.dims[d], d, ranks);
    for (uint32_t k = 0; k < of.n_axes; k++)
        if (at[k].kind != PLACE_REPLICATE) varying |= module_axis(m, of.axes[k]);
    t = type_with_dims(m, type, dims);
    return type_varying(m, type_laid_out(m, t, 0), varying);
}

uint32_t part_coordinates(struct module *m, uint32_t mesh, const struct placement *at, type_id t)
{
    struct type type = type_get(m, t);
    struct mesh of = m->meshes.data[mesh];
    uint32_t needed = 0;
    for (uint32_t d = 0; d < type.rank && !type.kind; d++) {
        dim part = type.dims[d];
        for (uint32_t k = 0; k < of.n_axes; k++) {
            if (at[k].kind != PLACE_SHARD || at[k].dim != d) continue;
            if (!part_is_even(m, part, of.sizes[k])) needed |= 1u << k;
            part = part_dim(m, part, of.sizes[k], dim_symbol(m, k)); /* any one */
        }
    }
    return needed;
}

struct coordinate_test {
    const struct module *m;
    const struct coordinates *ranks;
    uint32_t n;
};

static bool is_coordinate(void *ctx, uint32_t symbol)
{
    const struct coordinate_test *c = ctx;
    uint32_t s;
    for (uint32_t k = 0; k < c->n; k++)
        if (dim_is_symbol(c->m, c->ranks->at[k], &s) && s == symbol) return true;
    return false;
}

static bool depends_on(struct module *m, const struct mesh *mesh, const struct coordinates *ranks, dim d)
{
    struct coordinate_test test = { m, ranks, mesh->n_axes };
    return d & DIM_TABLE && dim_mentions(m, d, is_coordinate, &test);
}

static bool mentions(struct module *m, dim d, dim coordinate)
{
    struct coordinates one = { { coordinate } };
    struct coordinate_test test = { m, &one, 1 };
    return d & DIM_TABLE && dim_mentions(m, d, is_coordinate, &test);
}

/* What a part of a size that n ranks do not divide is a part of: of max(0, min(C, N - r*C)) it is N.
 * HOP_NONE: it is no such size. */
static dim dim_of_part(struct module *m, dim part, int64_t n, dim coordinate)
{
    struct dim_node outer = dim_get(m, part);
    for (uint32_t i = 0; outer.kind == DIM_MAX && i < 2; i++) {
        struct dim_node inner = dim_get(m, outer.args[i]);
        for (uint32_t k = 0; inner.kind == DIM_MIN && k < 2; k++) {
            dim whole = dim_add(m, inner.args[1 - k], dim_mul(m, coordinate, inner.args[k]));
            if (!mentions(m, whole, coordinate) && part_dim(m, whole, n, coordinate) == part) return whole;
        }
    }
    return HOP_NONE;
}

static dim whole_dim(struct module *m, const struct mesh *mesh, const struct placement *at, dim part,
                     uint32_t d, const struct coordinates *ranks)
{
    for (uint32_t k = mesh->n_axes; k-- > 0 && part != HOP_NONE;) {
        if (at[k].kind != PLACE_SHARD || at[k].dim != d) continue;
        if (mentions(m, part, ranks->at[k])) part = dim_of_part(m, part, mesh->sizes[k], ranks->at[k]);
        else part = dim_mul(m, part, dim_const(m, mesh->sizes[k]));
    }
    return part != HOP_NONE && depends_on(m, mesh, ranks, part) ? HOP_NONE : part;
}

bool part_placements(struct module *m, uint32_t mesh, type_id t, const struct coordinates *ranks,
                     struct placement at[MESH_AXES])
{
    struct type type = type_get(m, t);
    struct mesh of = m->meshes.data[mesh];
    bool all = true;
    memset(at, 0, MESH_AXES * sizeof *at);
    for (uint32_t d = 0; d < type.rank; d++) {
        for (uint32_t k = 0; k < of.n_axes; k++) {
            if (!mentions(m, type.dims[d], ranks->at[k])) continue;
            all &= at[k].kind == PLACE_REPLICATE;
            at[k] = (struct placement){ .kind = PLACE_SHARD, .dim = (uint8_t)d };
        }
        all = all && whole_dim(m, &of, at, type.dims[d], d, ranks) != HOP_NONE;
    }
    return all;
}

type_id whole_type(struct module *m, uint32_t mesh, const struct placement *at, type_id t,
                   const struct coordinates *ranks, uint32_t *wrong)
{
    struct type type = type_get(m, t);
    struct mesh of = m->meshes.data[mesh];
    dim dims[MAX_RANK];
    if (type.kind) return t;
    for (uint32_t d = 0; d < type.rank; d++) {
        dims[d] = whole_dim(m, &of, at, type.dims[d], d, ranks);
        if (dims[d] != HOP_NONE) continue;
        *wrong = d;
        return HOP_NONE;
    }
    t = type_varying(m, type_with_dims(m, type, dims), type.varying & (axis_set)~mesh_axes(m, mesh));
    return type_laid_out(m, t, layout_intern(m, mesh, at));
}
