/* Copies of functions in another module: a captured function that is called in another capture. Types, sizes,
 * texts and constants are made anew in the module that gets the copy; each function is copied once, however
 * often it is called there; names are left behind, so that equal functions become one. */
#include "capture/capture.h"
#include "ir/mesh.h"
#include "ir/operator.h"

struct import {
    struct module *to;
    const struct module *from;
    struct arena *arena;
    uint16_t last_file, last_file_here; /* the number of a file there and here, 0: none yet */
};
static const uint64_t MEMO_TAG = 0x696d7074;

static dim import_dim(struct import *i, dim d, const dim *symbols)
{
    struct module *to = i->to;
    struct dim_node n = dim_get(i->from, d);
    dim r;
    switch ((enum dim_kind)n.kind) {
    case DIM_CONST: return dim_const(to, n.value);
    case DIM_SYMBOL: return symbols[n.value];
    case DIM_SUM:
        r = dim_const(to, n.value);
        for (uint32_t k = 0; k < n.n; k++)
            r = dim_add(to, r, dim_mul(to, dim_const(to, n.coefs[k]), import_dim(i, n.args[k], symbols)));
        return r;
    case DIM_PRODUCT:
        r = dim_const(to, 1);
        for (uint32_t k = 0; k < n.n; k++) r = dim_mul(to, r, import_dim(i, n.args[k], symbols));
        return r;
    default: break;
    }
    static dim (*const make[])(struct module *, dim, dim) = {
        [DIM_FLOORDIV] = dim_floordiv, [DIM_MOD] = dim_mod, [DIM_MIN] = dim_min, [DIM_MAX] = dim_max
    };
    dim a = import_dim(i, n.args[0], symbols), b = import_dim(i, n.args[1], symbols);
    return make[n.kind](to, a, b);
}

dim import_size(struct module *to, const struct module *from, dim d, const dim *symbols)
{
    return import_dim(&(struct import){ .to = to, .from = from }, d, symbols);
}

static type_id import_type(struct import *i, type_id t, const dim *symbols)
{
    struct type type = type_get(i->from, t);
    dim dims[MAX_RANK];
    for (uint32_t k = 0; k < type.rank; k++) dims[k] = import_dim(i, type.dims[k], symbols);
    return type_import(i->to, i->from, type, dims);
}

static uint32_t import_string(struct import *i, uint32_t s)
{
    return module_string(i->to, module_text(i->from, s), strlen(module_text(i->from, s)));
}

static struct place import_place(struct import *i, struct place p)
{
    if (!p.line) return p;
    if (!i->last_file || p.file != i->last_file) {
        i->last_file = p.file;
        i->last_file_here = module_file(i->to, i->from->files.data[p.file]);
    }
    p.file = i->last_file_here;
    return p;
}

static uint32_t import_one(struct import *i, uint32_t fn);

static struct attr import_attr(struct import *i, struct attr a, const dim *symbols)
{
    if (a.kind == ATTR_FN) a.i = import_one(i, (uint32_t)a.i);
    if (a.kind == ATTR_DIM) a.i = import_dim(i, (dim)a.i, symbols);
    if (a.kind == ATTR_STRING) a.i = import_string(i, (uint32_t)a.i);
    if (a.kind == ATTR_CONST) {
        const struct constant *c = &i->from->constants.data[a.i];
        a.i = module_constant(i->to, import_type(i, c->type, NULL), c->data, c->bytes, 0);
    }
    if (a.kind == ATTR_NAMED) {
        uint32_t *list = ARENA_NEW(i->arena, uint32_t, a.n);
        for (uint32_t k = 0; k < a.n; k++) list[k] = import_string(i, a.list[k]);
        a.list = list;
    }
    if (a.kind == ATTR_DIMS) {
        dim *list = ARENA_NEW(i->arena, dim, a.n);
        for (uint32_t k = 0; k < a.n; k++) list[k] = import_dim(i, a.list[k], symbols);
        a.list = list;
    }
    return a;
}

static void import_node(struct import *i, struct builder *b, const struct fn *f, const struct node *n,
                        val *values, dim *symbols)
{
    const struct op_row *row = node_row(n);
    struct node_in in = { .op = n->op,
                          .n_operands = n->n_operands,
                          .groups = f->pool + n->groups,
                          .n_regions = n->n_regions,
                          .place = import_place(i, n->place) };
    val *operands = ARENA_NEW(i->arena, val, n->n_operands);
    struct attr *attrs = ARENA_NEW(i->arena, struct attr, row->sig.n_attrs);
    struct region_in *regions = ARENA_NEW(i->arena, struct region_in, n->n_regions);
    for (uint32_t k = 0; k < n->n_operands; k++) operands[k] = values[node_operands(f, n)[k]];
    for (uint32_t k = 0; k < row->sig.n_attrs; k++) attrs[k] = import_attr(i, *node_attr(f, n, k), symbols);
    if (row->mesh_attr) { /* it may be called otherwise here */
        uint32_t mesh = mesh_find(i->from, (uint32_t)node_attr(f, n, row->mesh_attr - 1u)->i);
        mesh = mesh_import(i->to, i->from, mesh);
        attrs[row->mesh_attr - 1] = A_STRING(i->to->meshes.data[mesh].name);
    }
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct region *g = node_region(f, n, r);
        dim *dims = ARENA_NEW(i->arena, dim, g->n_dims);
        for (uint32_t k = 0; k < g->n_dims; k++) dims[k] = import_dim(i, g->dims[k], symbols);
        regions[r] = (struct region_in){ import_one(i, g->fn), operands + g->operands, g->n_operands, dims };
        in.n_operands -= g->n_operands;
    }
    if (row->operator_attr)
        operator_import(i->to, i->from,
                        module_operator(i->from, (uint32_t)node_attr(f, n, row->operator_attr - 1u)->i));
    in.operands = operands;
    in.attrs = attrs;
    in.regions = regions;
    val first = builder_node(b, &in);
    uint32_t s;
    for (uint32_t k = 0; k < n->n_results; k++) {
        values[n->results + k] = first + k;
        if (f->values[n->results + k].name)
            builder_name(b, first + k, import_string(i, f->values[n->results + k].name));
        struct type was = type_get(i->from, value_type(f, n->results + k));
        struct type is = type_get(i->to, builder_type(b, first + k));
        for (uint32_t d = 0; d < was.rank; d++)
            if (dim_is_symbol(i->from, was.dims[d], &s) && symbols[s] == HOP_NONE) symbols[s] = is.dims[d];
    }
}

/* The functions that a function's nodes run or name. */
static void import_used(struct import *i, const struct fn *f)
{
    for (uint32_t k = 0; k < f->n_regions; k++) import_one(i, f->regions[k].fn);
    for (uint32_t k = 0; k < f->n_nodes; k++) {
        const struct node *n = fn_node(f, k);
        for (uint32_t a = 0; a < node_row(n)->sig.n_attrs; a++)
            if (node_attr(f, n, a)->kind == ATTR_FN) import_one(i, (uint32_t)node_attr(f, n, a)->i);
    }
}

static uint32_t import_one(struct import *i, uint32_t fn)
{
    uint64_t key[4] = { MEMO_TAG, i->from->serial, fn, 0 };
    union memo_value known;
    if (memo_get(i->to, key, &known)) return known.fn;
    const struct fn *f = module_fn(i->from, fn);
    import_used(i, f); /* before this builder begins: builders end newest first */
    struct builder b;
    builder_begin(&b, i->to, NULL);
    b.fn_place = import_place(i, f->place);
    b.label = import_string(i, fn_label(f));
    b.transposed = f->transposed;
    val *values = ARENA_NEW(i->arena, val, f->n_values), *results = ARENA_NEW(i->arena, val, f->n_results);
    dim *symbols = ARENA_NEW(i->arena, dim, f->n_symbols);
    for (uint32_t k = 0; k < f->n_symbols; k++) {
        const struct symbol *from = &f->symbols[k];
        symbols[k] = HOP_NONE;
        if (k >= f->n_outer_symbols) continue;
        uint32_t s = builder_symbol(&b, import_string(i, from->name), from->lo, from->hi);
        b.symbols.data[s].axis = import_string(i, from->axis);
        symbols[k] = dim_symbol(i->to, s);
    }
    for (uint32_t p = 0; p < f->n_params; p++)
        values[p] = builder_param(&b, import_type(i, value_type(f, p), symbols),
                                  import_string(i, f->values[p].name));
    for (uint32_t k = 0; k < f->n_required; k++) {
        b.place = import_place(i, f->required[k].place);
        builder_require(&b, import_dim(i, f->required[k].a, symbols),
                        import_dim(i, f->required[k].b, symbols), "requirement");
    }
    for (uint32_t k = 0; k < f->n_nodes; k++) import_node(i, &b, f, fn_node(f, k), values, symbols);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = values[f->results[k]];
    known.fn = builder_finish(&b, results, f->n_results);
    memo_put(i->to, key, known);
    return known.fn;
}

uint32_t import_function(struct module *to, struct module *from, uint32_t fn)
{
    if (to == from) return fn;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct import i = { to, from, &arena };
    uint32_t made = import_one(&i, fn);
    for (uint32_t k = 0; k < from->kept.len; k++) module_keep(to, from->kept.data[k]);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return made;
}
