/* Moves the nodes of one function into the builder of another under renaming: values, symbols and types are
 * mapped, and what a caller has bound to a node stands in the place of its copy. */
#include "ir/table.h"

void copier_begin(struct copier *c, struct builder *b, const struct fn *f)
{
    c->b = b;
    c->f = f;
    b->transposed |= f->transposed;
    c->values = ARENA_NEW(&b->arena, val, f->n_values);
    memset(c->values, 0xff, f->n_values * sizeof *c->values);
    c->symbols = ARENA_NEW(&b->arena, dim, f->n_symbols);
    for (uint32_t i = 0; i < f->n_symbols; i++)
        c->symbols[i] = i < f->n_outer_symbols && i < b->n_outer_symbols ? dim_symbol(b->m, i) : HOP_NONE;
}

void copier_params(struct copier *c)
{
    for (uint32_t p = 0; p < c->f->n_params; p++)
        c->values[p] = builder_param(c->b, copier_type(c, value_type(c->f, p)), c->f->values[p].name);
}

dim copier_dim(struct copier *c, dim d) { return d & DIM_TABLE ? dim_substitute(c->b->m, d, c->symbols) : d; }
type_id copier_type(struct copier *c, type_id t) { return type_substitute(c->b->m, t, c->symbols); }

struct node_in copier_node_in(struct copier *c, const struct node *n)
{
    struct arena *scratch = &c->b->arena;
    const struct op_row *row = node_row(n);
    uint32_t own = n->n_operands;
    for (uint32_t r = 0; r < n->n_regions; r++) own -= node_region(c->f, n, r)->n_operands;
    val *operands = ARENA_NEW(scratch, val, n->n_operands);
    for (uint32_t i = 0; i < n->n_operands; i++) {
        operands[i] = c->values[node_operands(c->f, n)[i]];
        if (operands[i] == VAL_NONE)
            hop_throw(HOP_INTERNAL, "%s: an operand was not copied before it", row->name);
    }
    struct attr *attrs = ARENA_NEW(scratch, struct attr, row->sig.n_attrs);
    for (uint32_t i = 0; i < row->sig.n_attrs; i++) {
        attrs[i] = *node_attr(c->f, n, i);
        if (attrs[i].kind == ATTR_DIM) attrs[i].i = copier_dim(c, (dim)attrs[i].i);
        if (attrs[i].kind != ATTR_DIMS) continue;
        dim *list = ARENA_NEW(scratch, dim, attrs[i].n);
        for (uint32_t k = 0; k < attrs[i].n; k++) list[k] = copier_dim(c, attrs[i].list[k]);
        attrs[i].list = list;
    }
    struct region_in *regions = n->n_regions ? ARENA_NEW(scratch, struct region_in, n->n_regions) : NULL;
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct region *g = node_region(c->f, n, r);
        dim *dims = ARENA_NEW(scratch, dim, g->n_dims);
        for (uint32_t k = 0; k < g->n_dims; k++) dims[k] = copier_dim(c, g->dims[k]);
        regions[r] = (struct region_in){ g->fn, operands + g->operands, g->n_operands, dims };
    }
    return (struct node_in){ .op = n->op,
                             .operands = operands,
                             .n_operands = own,
                             .groups = c->f->pool + n->groups,
                             .attrs = attrs,
                             .regions = regions,
                             .n_regions = n->n_regions,
                             .place = n->place };
}

void copier_call(struct copier *c, const struct node *n, struct node_in in, const struct attr *attrs,
                 val *results)
{
    in.op = OP_invoke_subgraph;
    in.attrs = attrs;
    val first = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
}

void copier_bind(struct copier *c, const struct node *n, const val *results)
{
    struct module *m = c->b->m;
    for (uint32_t i = 0; i < n->n_results; i++) {
        c->values[n->results + i] = results[i];
        if (results[i] == VAL_NONE) continue;
        uint32_t name = c->f->values[n->results + i].name;
        if (name && !c->b->values.data[results[i]].name) c->b->values.data[results[i]].name = name;
        struct type was = type_get(m, value_type(c->f, n->results + i));
        struct type is = type_get(m, builder_type(c->b, results[i]));
        /* A batched result has its batch dim in front. */
        uint32_t s, skip = is.rank > was.rank ? (uint32_t)(is.rank - was.rank) : 0;
        for (uint32_t d = 0; d < was.rank && d + skip < is.rank; d++)
            if (was.dims[d] & DIM_TABLE && dim_is_symbol(m, was.dims[d], &s) && c->symbols[s] == HOP_NONE)
                c->symbols[s] = is.dims[d + skip];
    }
}

val copier_node(struct copier *c, const struct node *n)
{
    struct node_in in = copier_node_in(c, n);
    val first = builder_node(c->b, &in);
    val *results = ARENA_NEW(&c->b->arena, val, n->n_results);
    for (uint32_t i = 0; i < n->n_results; i++) results[i] = first + i;
    copier_bind(c, n, results);
    return first;
}

void copier_body(struct copier *c, val *results)
{
    for (uint32_t i = 0; i < c->f->n_required; i++)
        builder_require(c->b, copier_dim(c, c->f->required[i].a), copier_dim(c, c->f->required[i].b),
                        "requirement");
    for (uint32_t i = 0; i < c->f->n_nodes; i++) copier_node(c, fn_node(c->f, i));
    for (uint32_t i = 0; i < c->f->n_results; i++) results[i] = c->values[c->f->results[i]];
}
