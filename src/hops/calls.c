/* What the rows share whose one region runs once on its own operands: calls, and bodies under a regime. What
 * a transform makes of such a node is a node of the same row with the same attributes over the derived body.
 */
#include "hops/hops.h"

void call_infer(struct infer *in)
{
    const struct fn *g = module_fn(in->m, in->regions[0].fn);
    dim inner[HOP_COUNT(in->fresh_range)], fresh[HOP_COUNT(in->fresh_range)];
    for (uint32_t k = 0; k < g->n_results; k++) {
        struct type t = type_get(in->m, value_type(g, g->results[k]));
        dim dims[MAX_RANK];
        for (uint32_t i = 0; i < t.rank; i++) {
            if (!infer_region_dim_escapes(in, 0, t.dims[i], &dims[i])) continue;
            uint32_t s = 0;
            while (s < in->fresh && inner[s] != t.dims[i]) s++;
            if (s == in->fresh) {
                int64_t lo, hi;
                dim_range(in->m, g->symbols, t.dims[i], &lo, &hi);
                dim d = infer_fresh(in, HOP_MAX(lo, 0), hi);
                inner[s] = t.dims[i];
                fresh[s] = d;
            }
            dims[i] = fresh[s];
        }
        infer_result(in, type_with_dims(in->m, t, dims));
    }
}

void call_eval(struct eval *e)
{
    struct tensor_list *scratch = tensor_list_begin(1);
    const int64_t *symbols = eval_region_symbols(e, 0, scratch, 0);
    interp_call(e->in, node_region(e->f, e->n, 0)->fn, symbols, e->operands, e->results);
    tensor_list_end(scratch);
}

static val call(struct builder *b, uint16_t op, const struct attr *attrs, struct region_in region,
                uint32_t n_dims, dim fill)
{
    region.dims = extend_dims(b, region.dims, n_dims, module_fn(b->m, region.fn)->n_outer_symbols, fill);
    return builder_node(b, &(struct node_in){ .op = op,
                                              .groups = (const uint32_t[1]){ 0 },
                                              .attrs = attrs,
                                              .regions = &region,
                                              .n_regions = 1 });
}

struct call_saved {
    const struct vjp_halves *halves;
    val *residuals;
    const dim *dims;
    uint32_t n_dims;
    bool recompute;
};

/* String id of the policy that says what a gradient of the call keeps, 0: none. */
static uint32_t call_policy(const struct fn *f, const struct node *n)
{
    if (n->op != OP_invoke_subgraph) return 0;
    const struct attr *policy = node_attr(f, n, INVOKE_POLICY);
    return policy->kind == ATTR_ABSENT ? 0 : (uint32_t)policy->i;
}

void call_vjp_forward(struct vjp_forward *v, uint32_t body, bool recompute, const struct attr *attrs)
{
    struct builder *b = v->copy->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    struct call_saved *saved = ARENA_NEW(&b->arena, struct call_saved, 1);
    const struct vjp_halves *h = vjp_split(b->m, body, v->split_active, v->split_wanted, 0, recompute);
    const struct call_question *q = v->question;
    const struct common_forward *common = q && q->n_all
                                              ? vjp_common_forward(b->m, body, q->all, q->n_all, recompute)
                                              : NULL;
    *saved = (struct call_saved){ h, ARENA_NEW(&b->arena, val, h->n_residuals), r->dims,
                                  node_region(v->f, v->n, 0)->n_dims, recompute || h->guarded };
    uint32_t forward_fn = common ? common->forward : h->forward;
    struct region_in forward = { forward_fn, r->operands, r->n_operands, saved->dims };
    val first = call(b, v->n->op, attrs ? attrs : in.attrs, forward, saved->n_dims, HOP_NONE);
    uint32_t n_extra = module_fn(b->m, h->forward)->n_results - v->n->n_results, next = 0;
    val *extra = ARENA_NEW(&b->arena, val, n_extra);
    for (uint32_t k = 0; k < n_extra; k++)
        extra[k] = first + (common ? common->at[q->which][k] : v->n->n_results + k);
    for (uint32_t k = 0; k < v->n->n_results; k++) v->results[k] = first + k;
    bool asked = false; /* or nothing that forward gives is read */
    for (uint32_t k = 0; k < r->n_operands; k++) asked |= v->active[k];
    const struct fn *f = module_fn(b->m, h->forward);
    for (uint32_t k = 0; asked && k < n_extra; k++) {
        struct saved_value told = { .by = node_row(v->n),
                                    .place = v->n->place,
                                    .type = builder_type(b, extra[k]),
                                    .rows = HOP_NONE,
                                    .why = "dearer to compute again",
                                    .policy = call_policy(v->f, v->n),
                                    .forward = f,
                                    .made = f->results[v->n->n_results + k] };
        saved_add(b->m, told);
    }
    if (asked) saved_add_inside(b->m, node_row(v->n), v->n->place, h->saved);
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        uint32_t param = h->source_param[i], result = h->source_result[i];
        if (param != HOP_NONE) saved->residuals[i] = r->operands[param];
        else if (result != HOP_NONE) saved->residuals[i] = first + result;
        else saved->residuals[i] = extra[next++];
    }
    vjp_active_results(b->m, body, v->active, v->result_active);
    v->saved = saved;
}

void call_vjp(struct vjp *v, const struct attr *attrs)
{
    const struct call_saved *saved = v->saved;
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
    struct region_in backward = { h->backward, operands, n, saved->dims };
    val next = call(v->b, v->n->op, attrs, backward, saved->n_dims, HOP_NONE);
    for (uint32_t p = 0; p < v->n->n_operands; p++)
        if (h->ct_param[p]) v->out[p] = next++;
}

void call_jvp(struct jvp *j, const struct attr *attrs)
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
    struct region_in region = { fn, operands, total, in.regions[0].dims };
    val first = call(b, j->n->op, attrs, region, node_region(j->f, j->n, 0)->n_dims, HOP_NONE);
    val next = first + j->n->n_results;
    for (uint32_t k = 0; k < j->n->n_results; k++) {
        j->results[k] = first + k;
        j->out[k] = found[k] ? next++ : VAL_NONE;
    }
}

void call_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    bool lanes = v->lanes != VAL_NONE && module_fn(b->m, r->fn)->effects;
    uint32_t fn = batch_body(v, r->fn, v->batched, NULL, lanes, v->result_batched);
    val *operands = ARENA_NEW(&b->arena, val, r->n_operands + 1);
    if (lanes) operands[0] = v->lanes;
    if (r->n_operands) memcpy(operands + lanes, r->operands, r->n_operands * sizeof *operands);
    struct region_in region = { fn, operands, r->n_operands + lanes, r->dims };
    val first = call(b, v->n->op, in.attrs, region, node_region(v->f, v->n, 0)->n_dims, v->size);
    for (uint32_t k = 0; k < v->n->n_results; k++) v->results[k] = first + k;
}
