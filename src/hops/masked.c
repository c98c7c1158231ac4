/* Loops over lanes that do not all go as far: they go on as long as a lane does, and lanes that have stopped
 * keep what they have. A fori_loop and a while_loop say which lanes go on; the step, what it is given and
 * what becomes of its results are the same for both. */
#include "hops/hops.h"

void masked_keep_last(struct masked *w)
{
    const struct loop *l = w->l;
    w->keeps_last = ARENA_NEW(&w->v->b->arena, bool, l->n_carry);
    w->n_last = 0;
    for (uint32_t k = 0; k < l->n_carry; k++) {
        bool changes = l->body->results[k] != k;
        type_id type = value_type(l->body, k);
        if (changes && type_is_object(w->v->b->m, type))
            hop_throw(
                HOP_INVALID,
                "%s%s: batched, its number of trips differs from lane to lane, and carry %u, %s, changes: "
                "lanes that stop would hold other objects than those that go on",
                place_text(w->v->b->m, w->v->n->place), node_row(w->v->n)->name, k,
                type_text(w->v->b->m, l->body->symbols, type));
        w->keeps_last[k] = changes && !w->batched[k];
        if (w->keeps_last[k]) w->n_last++;
    }
}

void masked_carries(const struct masked *w, const val *own, val_list *out)
{
    struct builder *b = w->v->b;
    for (uint32_t k = 0; k < w->l->n_carry; k++)
        if (w->keeps_last[k]) vec_push(&b->arena, out, emit_broadcast_front(b, own[k], w->v->size));
    for (uint32_t k = 0; k < w->l->n_carry; k++) vec_push(&b->arena, out, own[k]);
}

void masked_begin(struct masked_body *made, const struct masked *w)
{
    const struct fn *step = module_fn(w->v->b->m, w->body.fn);
    *made = (struct masked_body){ 0 };
    new_body_begin(&made->body, w->v->b, step, w->body.dims, step->n_outer_symbols);
    made->size = new_body_dim(&made->body, w->v->size);
}

void masked_params(struct masked_body *made, const struct masked *w)
{
    struct builder *b = &made->body.b;
    struct module *m = b->m;
    const struct fn *step = module_fn(m, w->body.fn);
    for (uint32_t k = 0; k < w->l->n_carry; k++) {
        if (!w->keeps_last[k]) continue;
        type_id per_lane = type_prepend(m, value_type(step, k), made->size);
        vec_push(&b->arena, &made->last, builder_param(b, per_lane, 0));
    }
    for (uint32_t p = 0; p < step->n_params - w->body_lanes; p++) {
        bool is_index = loop_is_over(w->l, p); /* the loop counts for all lanes */
        type_id type = is_index ? type_scalar(m, DT_I64) : value_type(step, p);
        vec_push(&b->arena, &made->given, builder_param(b, type, step->values[p].name));
    }
}

void masked_step(struct masked_body *made, const struct masked *w, val alive, val_list *out)
{
    struct builder *b = &made->body.b;
    struct arena *arena = &b->arena;
    const struct fn *step = module_fn(b->m, w->body.fn);
    uint32_t n_carry = w->l->n_carry;
    val lane = running_lane(b, alive);
    val_list args = { 0 };
    for (uint32_t p = 0; p < made->given.len; p++) {
        val x = made->given.data[p];
        vec_push(arena, &args, w->batched[p] ? safe_operand(b, alive, lane, x) : x);
    }
    if (w->body_lanes) vec_push(arena, &args, alive);
    val *all = ARENA_NEW(arena, val, step->n_results);
    inline_function(b, w->body.fn, NULL, args.data, all);
    const val *last = made->last.data;
    for (uint32_t k = 0; k < n_carry; k++) {
        if (!w->keeps_last[k]) continue;
        val per_lane = emit_broadcast_front(b, all[k], made->size);
        vec_push(arena, out, emit_where(b, alive, per_lane, *last++));
    }
    for (uint32_t k = 0; k < n_carry; k++) {
        val kept = made->given.data[k];
        vec_push(arena, out, w->batched[k] ? emit_where(b, alive, all[k], kept) : all[k]);
    }
    for (uint32_t k = n_carry; k < step->n_results; k++)
        vec_push(arena, out, emit_where(b, alive, all[k], zeros_like(b, all[k])));
}

void masked_results(const struct masked *w, val last, val stacks)
{
    struct batch *v = w->v;
    const struct loop *l = w->l;
    val next = last + w->n_last;
    for (uint32_t k = 0; k < l->n_carry; k++) {
        v->result_batched[k] = w->batched[k] || w->keeps_last[k];
        v->results[k] = w->keeps_last[k] ? last++ : next + k;
    }
    for (uint32_t k = 0; k < l->n_stack; k++)
        v->results[loop_stack_result(l, k)] = emit_move_dim(v->b, stacks + k, 1, 0);
}
