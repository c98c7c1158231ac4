/* The row of invoke_subgraph: a call. Its operands go to its one region, whose results are its results; sizes
 * that only the body knows become symbols that the call binds. */
#include "hops/hops.h"

static val call(struct builder *b, uint32_t fn, const val *operands, uint32_t n, const dim *dims,
                uint32_t n_dims, dim fill, const struct attr *attrs)
{
    struct region_in region = { fn, operands, n,
                                extend_dims(b, dims, n_dims, module_fn(b->m, fn)->n_outer_symbols, fill) };
    return builder_node(b, &(struct node_in){ .op = OP_invoke_subgraph,
                                              .groups = (const uint32_t[1]){ 0 },
                                              .attrs = attrs,
                                              .regions = &region,
                                              .n_regions = 1 });
}

struct invoke_saved {
    const struct vjp_halves *halves;
    val *residuals;
    const dim *dims;
    uint32_t n_dims;
    bool recompute;
};

static void invoke_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    struct invoke_saved *saved = ARENA_NEW(&b->arena, struct invoke_saved, 1);
    bool recompute = in.attrs[INVOKE_RECOMPUTE].kind != ATTR_ABSENT;
    const struct vjp_halves *h = vjp_split(b->m, r->fn, v->active, v->result_wanted, 0, recompute);
    *saved = (struct invoke_saved){ h, ARENA_NEW(&b->arena, val, h->n_residuals), r->dims,
                                    node_region(v->f, v->n, 0)->n_dims, recompute || h->guarded };
    val first = call(b, h->forward, r->operands, r->n_operands, saved->dims, saved->n_dims, HOP_NONE,
                     in.attrs);
    val extra = first + v->n->n_results;
    for (uint32_t k = 0; k < v->n->n_results; k++) v->results[k] = first + k;
    for (uint32_t k = v->n->n_results; k < module_fn(b->m, h->forward)->n_results; k++)
        saved_add(b->m, (struct saved_value){ node_row(v->n), v->n->place, 0, builder_type(b, first + k),
                                              HOP_NONE, false, "dearer to compute again, or tagged" });
    saved_add_inside(b->m, node_row(v->n), v->n->place, h->saved);
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        uint32_t param = h->source_param[i], result = h->source_result[i];
        if (param != HOP_NONE) saved->residuals[i] = r->operands[param];
        else if (result != HOP_NONE) saved->residuals[i] = first + result;
        else saved->residuals[i] = extra++;
    }
    vjp_active_results(b->m, r->fn, v->active, v->result_active);
    v->saved = saved;
}

static void invoke_vjp(struct vjp *v)
{
    const struct invoke_saved *saved = v->saved;
    const struct vjp_halves *h = saved->halves;
    val *operands = ARENA_NEW(&v->b->arena, val, h->n_residuals + v->n->n_results);
    uint32_t n = h->n_residuals;
    if (n) memcpy(operands, saved->residuals, n * sizeof *operands);
    /* Or what is run again would be found equal to what was run before, and kept. */
    if (n && saved->recompute) {
        val first = emit(v->b, OP_barrier, saved->residuals, n, NULL);
        for (uint32_t i = 0; i < n; i++) operands[i] = first + i;
    }
    for (uint32_t k = 0; k < v->n->n_results; k++)
        if (h->ct_result[k])
            operands[n++] = v->ct[k] != VAL_NONE ? v->ct[k] : zeros_like(v->b, v->results[k]);
    val next = call(v->b, h->backward, operands, n, saved->dims, saved->n_dims, HOP_NONE, NULL);
    for (uint32_t p = 0; p < v->n->n_operands; p++)
        if (h->ct_param[p]) v->out[p] = next++;
}

static void invoke_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    uint32_t n = j->n->n_operands;
    bool *active = ARENA_NEW(&b->arena, bool, n), *found = ARENA_NEW(&b->arena, bool, j->n->n_results);
    val *operands = ARENA_NEW(&b->arena, val, 2 * (size_t)n);
    if (n) memcpy(operands, in.regions[0].operands, n * sizeof *operands);
    uint32_t total = n;
    for (uint32_t k = 0; k < n; k++) {
        active[k] = j->tangents[k] != VAL_NONE;
        if (active[k]) operands[total++] = j->tangents[k];
    }
    uint32_t fn = jvp_function(b->m, in.regions[0].fn, active, found);
    val first = call(b, fn, operands, total, in.regions[0].dims, node_region(j->f, j->n, 0)->n_dims, HOP_NONE,
                     in.attrs);
    val next = first + j->n->n_results;
    for (uint32_t k = 0; k < j->n->n_results; k++) {
        j->results[k] = first + k;
        j->out[k] = found[k] ? next++ : VAL_NONE;
    }
}

static void invoke_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    bool lanes = v->lanes != VAL_NONE && module_fn(b->m, r->fn)->effects;
    uint32_t fn = batch_function(b->m, r->fn, v->batched, batch_body_size(v), NULL, lanes, v->result_batched);
    val *operands = ARENA_NEW(&b->arena, val, r->n_operands + 1);
    if (lanes) operands[0] = v->lanes;
    if (r->n_operands) memcpy(operands + lanes, r->operands, r->n_operands * sizeof *operands);
    val first = call(b, fn, operands, r->n_operands + lanes, r->dims, node_region(v->f, v->n, 0)->n_dims,
                     v->size, in.attrs);
    for (uint32_t k = 0; k < v->n->n_results; k++) v->results[k] = first + k;
}

static const struct op_sample invoke_samples[] = {
    { "hop 1\nfn @half(%x: f64[n]) -> (f64[n]) {\n"
      "  %h = full {value = 0.5, dims = [n], dtype = f64}\n"
      "  %s = sin(%x)\n"
      "  %r = mul(%h, %s)\n"
      "  return %r\n"
      "}\n"
      "fn @sample(%x: f64[3], %y: f64[2]) -> (f64[3], f64[2]) {\n"
      "  %a = invoke_subgraph @half(%x)\n"
      "  %b = invoke_subgraph @half(%y)\n"
      "  return %a, %b\n"
      "}\n",
      NULL },
};

static const struct attr_spec invoke_attrs[] = { [INVOKE_RECOMPUTE] = { "recompute", ATTR_FLAG, false,
                                                                        NULL } };

const struct op_row row_invoke_subgraph = {
    .name = "invoke_subgraph",
    .meaning = "the results of a function applied to the operands: a call",
    .sig = { .n_attrs = HOP_COUNT(invoke_attrs),
             .attrs = invoke_attrs,
             .min_regions = 1,
             .max_regions = 1,
             .regions = { { .word = "", .feeds = 0, .results = { "yield" } } } },
    .flags = OPF_HIGHER,
    .infer = call_infer,
    .eval = call_eval,
    .vjp = invoke_vjp,
    .vjp_forward = invoke_vjp_forward,
    .jvp = invoke_jvp,
    .batch = invoke_batch,
    HOP_SAMPLES(invoke_samples),
    .lower = &invoke_lower,
    .control = CONTROL_CALL,
};
