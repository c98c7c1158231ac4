/* Forward mode: a function comes in, one that carries tangents beside values goes out. A node none of whose
 * operands has a tangent is copied; others get their tangents from their rows. */
#include "ir/finite.h"
#include "ops/build.h"
#include "transform/transform.h"

struct jvp_record {
    uint32_t fn;
    bool *result_active;
};

static void jvp_node(struct builder *b, struct copier *copy, const struct node *n, val *tangents)
{
    const struct fn *f = copy->f;
    const struct op_row *row = node_row(n);
    val *in = ARENA_NEW(&b->arena, val, n->n_operands);
    val *out = ARENA_NEW(&b->arena, val, n->n_results);
    val *results = ARENA_NEW(&b->arena, val, n->n_results);
    bool any = false;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        in[k] = tangents[node_operands(f, n)[k]];
        any |= in[k] != VAL_NONE;
    }
    if (!any || !row->jvp) {
        copier_node(copy, n);
        return;
    }
    for (uint32_t k = 0; k < n->n_results; k++) {
        out[k] = VAL_NONE;
        results[k] = VAL_NONE;
    }
    struct node_in node = copier_node_in(copy, n);
    val *operands = ARENA_NEW(&b->arena, val, n->n_operands);
    for (uint32_t k = 0; k < n->n_operands; k++) operands[k] = copy->values[node_operands(f, n)[k]];
    bool higher = row->flags & OPF_HIGHER;
    if (!higher) {
        val first = copier_node(copy, n);
        for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    }
    struct place outer = b->place;
    b->place = n->place;
    b->place.part = FINITE_TANGENT;
    row->jvp(&(struct jvp){ .b = b,
                            .copy = copy,
                            .f = f,
                            .n = n,
                            .attrs = node.attrs,
                            .operands = operands,
                            .tangents = in,
                            .results = results,
                            .out = out });
    b->place = outer;
    if (higher) copier_bind(copy, n, results);
    for (uint32_t k = 0; k < n->n_results; k++) tangents[n->results + k] = out[k];
}

uint32_t jvp_function(struct module *m, uint32_t fn, const bool *active, bool *result_active)
{
    const struct fn *f = module_fn(m, fn);
    struct jvp_record *known = transform_recall(m, MEMO_JVP, fn, 0, active, f->n_params);
    if (!known) {
        struct builder b;
        struct copier copy;
        hop_check_stack();
        builder_begin(&b, m, f);
        b.label = module_label(m, fn_label(f), "jvp");
        copier_begin(&copy, &b, f);
        copier_params(&copy);
        val *tangents = ARENA_NEW(&b.arena, val, f->n_values);
        val *results = ARENA_NEW(&b.arena, val, 2 * (size_t)f->n_results);
        memset(tangents, 0xff, f->n_values * sizeof *tangents);
        for (uint32_t p = 0; p < f->n_params; p++) {
            if (!active[p]) continue;
            if (!dtype_is_float((enum dtype)type_get(m, value_type(f, p)).dtype))
                hop_throw(HOP_INVALID, "parameter %u (%%%s) has no tangent: expected a float type, found %s",
                          p, module_text(m, f->values[p].name), type_text(m, f->symbols, value_type(f, p)));
            const char *text = "";
            if (f->values[p].name) text = arena_printf(&b.arena, "d_%s", module_text(m, f->values[p].name));
            uint32_t name = module_string(m, text, strlen(text));
            tangents[p] = builder_param(&b, builder_type(&b, copy.values[p]), name);
        }
        for (uint32_t i = 0; i < f->n_required; i++)
            builder_require(&b, copier_dim(&copy, f->required[i].a), copier_dim(&copy, f->required[i].b),
                            "requirement");
        for (uint32_t i = 0; i < f->n_nodes; i++) jvp_node(&b, &copy, fn_node(f, i), tangents);
        known = ARENA_NEW(&m->arena, struct jvp_record, 1);
        known->result_active = ARENA_ZNEW(&m->arena, bool, f->n_results);
        uint32_t n = 0;
        for (uint32_t k = 0; k < f->n_results; k++) results[n++] = copy.values[f->results[k]];
        for (uint32_t k = 0; k < f->n_results; k++)
            if (tangents[f->results[k]] != VAL_NONE) {
                known->result_active[k] = true;
                results[n++] = tangents[f->results[k]];
            }
        known->fn = prune_function(m, builder_finish(&b, results, n), NULL);
        transform_remember(m, MEMO_JVP, fn, 0, active, f->n_params, known);
    }
    if (f->n_results) memcpy(result_active, known->result_active, f->n_results);
    return known->fn;
}
