/* What the loop rows do alike, whatever says how many steps there are: evaluate, tangents, lanes that go on
 * and stop together. Each reads the loop from its node (ir/loop.h) and builds the one that it becomes. */
#include "hops/hops.h"

bool *loop_body_mask(struct arena *arena, const struct fn *f, const struct node *n, const struct loop *l,
                     const bool *per_operand)
{
    struct loop_positions at = loop_positions(f, n);
    bool *mask = ARENA_ZNEW(arena, bool, l->body->n_params);
    for (uint32_t k = 0; k < l->n_carry; k++) mask[k] = per_operand[at.carry + k];
    for (uint32_t k = 0; loop_has_length(l) && k < l->n_over; k++)
        mask[l->n_carry + k] = per_operand[at.over + k];
    for (uint32_t k = 0; k < l->n_with; k++) mask[loop_first_with(l) + k] = per_operand[at.with + k];
    return mask;
}

/* ---- eval ---- */

static uint64_t steps_over(const struct eval *e, const struct loop *l, struct loop_positions at)
{
    int64_t steps = l->n_over ? e->operands[at.over]->dims[0] : dim_eval(e->m, l->length, e->symbols);
    if (steps < 0)
        hop_throw(HOP_CHECK, "%s%s: its length is negative: %lld%s", place_text(e->m, e->n->place),
                  node_row(e->n)->name, (long long)steps, place_stack(e->m, e->n->place));
    return (uint64_t)steps;
}

static uint64_t steps_counted(const struct eval *e, const struct loop *l, int64_t from, int64_t to)
{
    uint64_t steps = to > from ? (uint64_t)to - (uint64_t)from : 0;
    if (l->n_stack && steps > (uint64_t)1 << FORI_ROWS_BITS) /* as compiled code says it */
        hop_throw(HOP_CHECK, "%scheck: " FORI_ROWS_MESSAGE " (%lld)%s", place_text(e->m, e->n->place),
                  (long long)steps, place_stack(e->m, e->n->place));
    return steps;
}

static int64_t number_in(const struct tensor *t) { return *(const int64_t *)t->data; }

static struct tensor *number_tensor(int64_t value)
{
    struct tensor *t = tensor_new(DT_I64, 0, NULL);
    *(int64_t *)t->data = value;
    return t;
}

void loop_eval(struct eval *e)
{
    struct loop l;
    loop_of_node(e->m, e->f, e->n, &l);
    struct loop_positions at = loop_positions(e->f, e->n);
    bool counted = l.kind == LOOP_COUNTED;
    int64_t from = counted ? number_in(e->operands[at.from]) : 0;
    uint64_t steps = counted ? steps_counted(e, &l, from, number_in(e->operands[at.to]))
                             : steps_over(e, &l, at);
    struct tensor_list *args = tensor_list_begin(l.body->n_params + 1);
    struct tensor_list *out = tensor_list_begin(l.body->n_results);
    const int64_t *symbols = eval_region_symbols(e, l.body_region, args, l.body->n_params);
    for (uint32_t k = 0; k < l.n_carry; k++) args->data[k] = tensor_ref(e->operands[at.carry + k]);
    for (uint32_t k = 0; k < l.n_with; k++)
        args->data[loop_first_with(&l) + k] = tensor_ref(e->operands[at.with + k]);
    for (uint32_t k = 0; k < l.n_stack; k++) {
        uint32_t result = loop_stack_result(&l, k);
        e->results[result] = eval_new_stack(e, result, (int64_t)steps);
    }
    for (uint64_t i = 0; i < steps; i++) {
        int64_t row = (int64_t)(l.reverse ? steps - 1 - i : i);
        if (counted) tensor_list_set(args, l.n_carry, number_tensor((int64_t)((uint64_t)from + i)));
        for (uint32_t k = 0; !counted && k < l.n_over; k++)
            tensor_list_set(args, l.n_carry + k, tensor_slice(e->operands[at.over + k], row));
        interp_call(e->in, l.body->id, symbols, args->data, out->data);
        for (uint32_t k = 0; k < l.n_carry; k++) {
            tensor_list_set(args, k, out->data[k]);
            out->data[k] = NULL;
        }
        for (uint32_t k = 0; k < l.n_stack; k++) {
            tensor_put(e->results[loop_stack_result(&l, k)], row, out->data[l.n_carry + k]);
            tensor_list_set(out, l.n_carry + k, NULL);
        }
    }
    for (uint32_t k = 0; k < l.n_carry; k++) e->results[k] = tensor_ref(args->data[k]);
    tensor_list_end(out);
    tensor_list_end(args);
}

/* ---- tangents ---- */

/* The predicate with parameters for tangents that it does not look at. */
static struct region_in predicate_beside_tangents(struct builder *b, const struct loop *l, const bool *active)
{
    const struct fn *f = l->cond;
    struct new_body body;
    new_body_begin(&body, b, f, l->cond_dims, f->n_outer_symbols);
    val *args = ARENA_NEW(&body.b.arena, val, f->n_params), out;
    for (uint32_t k = 0; k < l->n_carry; k++)
        args[k] = builder_param(&body.b, value_type(f, k), f->values[k].name);
    for (uint32_t k = 0; k < l->n_carry; k++)
        if (active[k]) builder_param(&body.b, value_type(f, k), 0);
    for (uint32_t k = l->n_carry; k < f->n_params; k++)
        args[k] = builder_param(&body.b, value_type(f, k), f->values[k].name);
    inline_function(&body.b, f->id, NULL, args, &out);
    return new_body_finish(&body, &out, 1, l->cond_with, l->n_cond_with);
}

/* A part of the operands and the tangents of those that have one. */
static const val *beside_tangents(struct builder *b, const val *values, const val *tangents,
                                  const bool *active, uint32_t n, uint32_t *n_out)
{
    val *out = ARENA_NEW(&b->arena, val, 2 * (size_t)n);
    *n_out = with_tangents(b, out, values, tangents, active, n);
    return out;
}

void loop_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct loop l, made;
    loop_of_copy(j->copy, j->n, &l);
    struct loop_positions at = loop_positions(j->f, j->n);
    bool *has = ARENA_NEW(&b->arena, bool, j->n->n_operands);
    bool *stack_active = ARENA_ZNEW(&b->arena, bool, l.n_stack);
    for (uint32_t k = 0; k < j->n->n_operands; k++) has[k] = j->tangents[k] != VAL_NONE;
    bool *active = loop_body_mask(&b->arena, j->f, j->n, &l, has);
    made = l;
    made.body = module_fn(b->m, step_jvp(b->m, l.body->id, l.n_carry, l.n_over, active, stack_active));
    made.carry = beside_tangents(b, l.carry, j->tangents + at.carry, active, l.n_carry, &made.n_carry);
    if (loop_has_length(&l))
        made.over = beside_tangents(b, l.over, j->tangents + at.over, active + l.n_carry, l.n_over,
                                    &made.n_over);
    made.with = beside_tangents(b, l.with, j->tangents + at.with, active + loop_first_with(&l), l.n_with,
                                &made.n_with);
    if (l.cond) loop_set_cond(&made, b->m, predicate_beside_tangents(b, &l, active));
    struct loop_results out = loop_build(b, &made);
    for (uint32_t k = 0; k < l.n_carry; k++) j->results[k] = out.last++;
    for (uint32_t k = 0; k < l.n_carry; k++) j->out[k] = active[k] ? out.last++ : VAL_NONE;
    if (l.counts) j->results[loop_trips_result(&l)] = out.trips;
    for (uint32_t k = 0; k < l.n_stack; k++) j->results[loop_stack_result(&l, k)] = out.stacks++;
    for (uint32_t k = 0; k < l.n_stack; k++)
        j->out[loop_stack_result(&l, k)] = stack_active[k] ? out.stacks++ : VAL_NONE;
}

/* ---- lanes ---- */

struct region_in region_over_lanes(struct batch *v, struct region_in r, uint32_t fn, bool lanes)
{
    val *operands = ARENA_NEW(&v->b->arena, val, r.n_operands + 1);
    uint32_t n_dims = module_fn(v->b->m, r.fn)->n_outer_symbols;
    if (r.n_operands) memcpy(operands, r.operands, r.n_operands * sizeof *operands);
    if (lanes) operands[r.n_operands] = v->lanes;
    return (struct region_in){ fn, operands, r.n_operands + lanes,
                               batch_body_dims(v, &r, module_fn(v->b->m, fn), n_dims) };
}

const val *carries_over_lanes(struct batch *v, const struct loop *l, const bool *batched)
{
    struct loop_positions at = loop_positions(v->f, v->n);
    val *carry = ARENA_NEW(&v->b->arena, val, l->n_carry);
    for (uint32_t k = 0; k < l->n_carry; k++) {
        bool becomes = batched[k] && !v->batched[at.carry + k];
        carry[k] = becomes ? emit_broadcast_front(v->b, l->carry[k], v->size) : l->carry[k];
    }
    return carry;
}

/* Lanes are the second dim of what is gone over, so that a slice has them in front. */
static const val *slices_over_lanes(struct batch *v, const struct loop *l)
{
    struct loop_positions at = loop_positions(v->f, v->n);
    val *over = ARENA_NEW(&v->b->arena, val, l->n_over);
    for (uint32_t k = 0; k < l->n_over; k++)
        over[k] = v->batched[at.over + k] ? emit_move_dim(v->b, l->over[k], 1, 0) : l->over[k];
    return over;
}

void loop_batch_plain(struct batch *v, const struct loop *l, const bool *batched, const bool *stack_batched,
                      struct region_in body, const struct region_in *cond)
{
    struct loop made = *l;
    made.carry = carries_over_lanes(v, l, batched);
    if (loop_has_length(l)) made.over = slices_over_lanes(v, l);
    loop_set_body(&made, v->b->m, body);
    if (cond) loop_set_cond(&made, v->b->m, *cond);
    struct loop_results out = loop_build(v->b, &made);
    for (uint32_t k = 0; k < l->n_carry; k++) {
        v->results[k] = out.last + k;
        v->result_batched[k] = batched[k];
    }
    if (l->counts) {
        v->results[loop_trips_result(l)] = out.trips;
        v->result_batched[loop_trips_result(l)] = false;
    }
    for (uint32_t k = 0; k < l->n_stack; k++) {
        uint32_t result = loop_stack_result(l, k);
        v->result_batched[result] = stack_batched[k];
        v->results[result] = stack_batched[k] ? emit_move_dim(v->b, out.stacks + k, 1, 0) : out.stacks + k;
    }
}

void loop_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct loop l;
    loop_of_copy(v->copy, v->n, &l);
    bool lanes = v->lanes != VAL_NONE && l.body->effects;
    bool *batched = loop_body_mask(&b->arena, v->f, v->n, &l, v->batched);
    bool *stack_batched = ARENA_ZNEW(&b->arena, bool, l.n_stack);
    uint32_t fn = step_batch(v, l.body->id, l.n_carry, batched, lanes, stack_batched);
    loop_batch_plain(v, &l, batched, stack_batched, region_over_lanes(v, loop_body(&l), fn, lanes), NULL);
}

/* ---- stacks of one number ---- */

/* The full that makes result k of the body; NULL: it is something else. */
static const struct node *full_result(const struct fn *body, uint32_t k)
{
    uint32_t made = body->values[body->results[k]].node;
    if (made == NODE_NONE || fn_node(body, made)->op != OP_full) return NULL;
    return fn_node(body, made);
}

/* As many rows of it as there are trips. */
static val full_rows(struct builder *b, const struct loop *l, const struct node *full, dim trips)
{
    type_id row = type_substitute(b->m, value_type(l->body, full->results), l->dims);
    struct type t = type_get(b->m, type_prepend(b->m, row, trips));
    struct attr attrs[3] = { [FULL_VALUE] = *node_attr(l->body, full, FULL_VALUE),
                             [FULL_DIMS] = A_DIMS(t.dims, t.rank),
                             [FULL_DTYPE] = A_DTYPE(t.dtype) };
    return emit(b, OP_full, NULL, 0, attrs);
}

bool loop_drop_full_stacks(struct copier *c, const struct loop *l, val *results)
{
    struct builder *b = c->b;
    bool *keep = ARENA_NEW(&b->arena, bool, l->body->n_results);
    uint32_t n_left = 0;
    for (uint32_t k = 0; k < l->body->n_results; k++) {
        keep[k] = k < l->n_carry || !full_result(l->body, k);
        n_left += k >= l->n_carry && keep[k];
    }
    if (n_left == l->n_stack) return false;
    struct loop made = *l;
    made.body = module_fn(b->m, prune_function(b->m, l->body->id, keep));
    made.count = l->kind == LOOP_WHILE;
    struct loop_results out = loop_build(b, &made);
    for (uint32_t k = 0; k < l->n_carry; k++) results[k] = out.last + k;
    if (l->counts) results[loop_trips_result(l)] = out.trips;
    val rows = out.stacks;
    if (!n_left) rows = emit1(b, OP_bind_dim, l->cond ? out.trips : emit_trips(b, l->from, l->to));
    dim trips = emit_type(b, rows).dims[0];
    for (uint32_t k = 0; k < l->n_stack; k++) {
        const struct node *full = full_result(l->body, l->n_carry + k);
        results[loop_stack_result(l, k)] = full ? full_rows(b, l, full, trips) : out.stacks++;
    }
    return true;
}
