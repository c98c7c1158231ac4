/* Bodies made for higher-order nodes by the transforms, operands for bodies that run on more lanes than need
 * them, and nodes that are differentiated as a function made for them. */
#include "hops/hops.h"

void new_body_begin(struct new_body *body, struct builder *around, const struct fn *like, const dim *dims,
                    uint32_t n_dims)
{
    uint32_t n = like ? like->n_outer_symbols : 0;
    builder_begin(&body->b, around->m, like);
    body->around = around;
    body->cap = n + 8;
    body->dims = ARENA_NEW(&around->arena, dim, body->cap);
    for (uint32_t i = 0; i < n; i++) body->dims[i] = i < n_dims ? dims[i] : HOP_NONE;
}

static bool is_symbol(void *ctx, uint32_t symbol) { return symbol == *(const uint32_t *)ctx; }

dim new_body_dim(struct new_body *body, dim d)
{
    struct module *m = body->b.m;
    uint32_t alone;
    if (dim_is_const(m, d)) return d;
    for (uint32_t i = 0; i < body->b.n_outer_symbols; i++)
        if (body->dims[i] == d) return dim_symbol(m, i);
    if (!dim_is_symbol(m, d, &alone)) { /* T + 1 and T stay related: a symbol of its own for each would leave
                                           two sizes that nothing knows to be equal */
        uint32_t n = body->around->symbols.len;
        dim *inside = ARENA_ZNEW(&body->around->arena, dim, n);
        for (uint32_t k = 0; k < n; k++)
            if (dim_mentions(m, d, is_symbol, &k)) inside[k] = new_body_dim(body, dim_symbol(m, k));
        return dim_substitute(m, d, inside);
    }
    char name[16];
    int length = snprintf(name, sizeof name, "d%u", body->b.n_outer_symbols);
    int64_t lo, hi;
    dim_range(m, body->around->symbols.data, d, &lo, &hi);
    uint32_t s = builder_symbol(&body->b, module_string(m, name, (size_t)length), HOP_MAX(lo, 0), hi);
    if (s == body->cap) {
        dim *grown = ARENA_NEW(&body->around->arena, dim, body->cap * 2);
        memcpy(grown, body->dims, body->cap * sizeof *grown);
        body->dims = grown;
        body->cap *= 2;
    }
    body->dims[s] = d;
    return dim_symbol(m, s);
}

type_id new_body_type(struct new_body *body, type_id t)
{
    struct type type = type_get(body->b.m, t);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) dims[i] = new_body_dim(body, type.dims[i]);
    return type_with_dims(body->b.m, type, dims);
}

struct region_in new_body_finish(struct new_body *body, const val *results, uint32_t n_results,
                                 const val *operands, uint32_t n_operands)
{
    uint32_t fn = builder_finish(&body->b, results, n_results);
    return (struct region_in){ fn, operands, n_operands, body->dims };
}

val running_lane(struct builder *b, val mask)
{
    uint32_t along = 0;
    dim size = emit_type(b, mask).dims[0];
    struct attr count[3] = { A_DIMS(&size, 1), A_NONE, A_NONE };
    val number = emit_select(b, mask, emit(b, OP_iota, NULL, 0, count), emit_full(b, DT_I64, 0, 1, &size));
    return emit_reduce(b, OP_reduce_max, number, &along, 1);
}

val safe_operand(struct builder *b, val mask, val lane, val x)
{
    struct attr along = A_INT(0);
    val one = emit(b, OP_take, (val[]){ x, lane }, 2, &along);
    struct attr unread = A_WORD(0);
    if (dtype_is_float((enum dtype)emit_type(b, x).dtype))
        one = emit(b, OP_stop_gradient, (val[]){ one }, 1, &unread);
    return emit_where(b, mask, x, emit_broadcast_front(b, one, emit_type(b, x).dims[0]));
}

struct replaced *replaced_vjp_forward(struct vjp_forward *v, struct region_in made)
{
    struct builder *b = v->copy->b;
    struct module *m = b->m;
    const struct vjp_halves *h = vjp_split(m, made.fn, v->active, v->result_wanted, 0, false);
    struct replaced *out = ARENA_NEW(&b->arena, struct replaced, 1);
    *out = (struct replaced){ h, made.dims, ARENA_NEW(&b->arena, val, h->n_residuals) };
    val *all = ARENA_NEW(&b->arena, val, module_fn(m, h->forward)->n_results);
    inline_function(b, h->forward, made.dims, made.operands, all);
    uint32_t extra = v->n->n_results;
    for (uint32_t k = 0; k < v->n->n_results; k++) v->results[k] = all[k];
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        uint32_t param = h->source_param[i], result = h->source_result[i];
        if (param != HOP_NONE) out->residuals[i] = made.operands[param];
        else if (result != HOP_NONE) out->residuals[i] = all[result];
        else out->residuals[i] = all[extra++];
    }
    vjp_active_results(m, made.fn, v->active, v->result_active);
    saved_add_inside(m, node_row(v->n), v->n->place, h->saved);
    return out;
}

void replaced_vjp(struct vjp *v, const struct replaced *r)
{
    const struct vjp_halves *h = r->halves;
    const struct fn *back = module_fn(v->b->m, h->backward);
    val *args = ARENA_NEW(&v->b->arena, val, back->n_params);
    val *ct = ARENA_NEW(&v->b->arena, val, back->n_results);
    uint32_t n = h->n_residuals, next = 0;
    if (n) memcpy(args, r->residuals, n * sizeof *args);
    for (uint32_t k = 0; k < v->n->n_results; k++)
        if (h->ct_result[k]) args[n++] = v->ct[k] != VAL_NONE ? v->ct[k] : zeros_like(v->b, v->results[k]);
    inline_function(v->b, h->backward, r->dims, args, ct);
    for (uint32_t p = 0; p < v->n->n_operands; p++)
        if (h->ct_param[p]) v->out[p] = ct[next++];
}

uint32_t with_tangents(struct builder *b, val *out, const val *values, const val *tangents,
                       const bool *active, uint32_t n)
{
    uint32_t total = n;
    if (n) memcpy(out, values, n * sizeof *out);
    for (uint32_t k = 0; k < n; k++)
        if (active[k]) out[total++] = tangents[k] != VAL_NONE ? tangents[k] : zeros_like(b, values[k]);
    return total;
}
