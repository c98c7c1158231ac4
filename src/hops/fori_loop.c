/* The row of fori_loop: a body is run on carries for every index from `from` up to, not including, `to`, two
 * numbers that may be known only when the program runs. Operand groups: carry, from, to; body parameters:
 * carries, the index, its own operands. The body may stack further results, one row a trip. Results: last
 * carries, then stacks [?n, …]. */
#include "hops/hops.h"

enum { GROUP_OF_CARRY, GROUP_OF_FROM, GROUP_OF_TO };
enum { BOUNDS = 2 }; /* operands between the carries and the body's own */

static void fori_infer(struct infer *in)
{
    uint32_t n_carry = in->groups[GROUP_OF_CARRY];
    const struct fn *body = module_fn(in->m, in->regions[0].fn);
    for (uint32_t g = GROUP_OF_FROM; g <= GROUP_OF_TO; g++) {
        const char *word = g == GROUP_OF_FROM ? "from" : "to";
        if (in->groups[g] != 1) infer_error(in, "'%s' takes one bound, given %u", word, in->groups[g]);
        type_id t = in->operands[n_carry + g - 1];
        if (t != type_scalar(in->m, DT_I64))
            infer_error(in, "'%s': expected i64[], found %s", word, infer_text(in, t));
    }
    infer_schedule(in, &in->attrs[FORI_SCHEDULE]);
    if (body->n_results < n_carry)
        infer_error(in, "the body gives %u results, fewer than the %u carries", body->n_results, n_carry);
    infer_results_like(in, 0, in->operands, n_carry, "carry", "what the body makes of it");
    for (uint32_t i = 0; i < n_carry; i++) infer_result(in, in->operands[i]);
    if (body->n_results == n_carry) return;
    dim trips = infer_fresh(in, 0, INT64_MAX);
    for (uint32_t i = n_carry; i < body->n_results; i++)
        infer_result(in, type_prepend(in->m, infer_region_result(in, 0, i), trips));
}

static void fori_eval(struct eval *e)
{
    const struct region *g = node_region(e->f, e->n, 0);
    uint32_t n_carry = node_group_size(e->f, e->n, GROUP_OF_CARRY), n_args = n_carry + 1 + g->n_operands,
             n_results = e->n->n_results;
    int64_t from = *(const int64_t *)e->operands[n_carry]->data,
            to = *(const int64_t *)e->operands[n_carry + 1]->data, trips = 0;
    if (to > from) trips = (int64_t)((uint64_t)to - (uint64_t)from);
    if (n_results > n_carry &&
        (trips < 0 || trips > (int64_t)1 << FORI_ROWS_BITS)) /* as compiled code says it */
        hop_throw(HOP_CHECK, "%scheck: " FORI_ROWS_MESSAGE " (%lld)", place_text(e->m, e->n->place),
                  (long long)trips);
    struct tensor_list *args = tensor_list_begin(n_args + 1), *out = tensor_list_begin(n_results);
    const int64_t *symbols = eval_region_symbols(e, 0, args, n_args);
    for (uint32_t k = 0; k < n_carry; k++) args->data[k] = tensor_ref(e->operands[k]);
    for (uint32_t k = 0; k < g->n_operands; k++)
        args->data[n_carry + 1 + k] = tensor_ref(e->operands[g->operands + k]);
    for (uint32_t k = n_carry; k < n_results; k++) e->results[k] = eval_new_stack(e, k, trips);
    for (int64_t i = from; i < to; i++) {
        struct tensor *index = tensor_new(DT_I64, 0, NULL);
        *(int64_t *)index->data = i;
        tensor_list_set(args, n_carry, index);
        interp_call(e->in, g->fn, symbols, args->data, out->data);
        for (uint32_t k = 0; k < n_carry; k++) tensor_list_set(args, k, out->data[k]), out->data[k] = NULL;
        for (uint32_t k = n_carry; k < n_results; k++)
            tensor_put(e->results[k], i - from, out->data[k]), tensor_list_set(out, k, NULL);
    }
    for (uint32_t k = 0; k < n_carry; k++) e->results[k] = tensor_ref(args->data[k]);
    tensor_list_end(out);
    tensor_list_end(args);
}

/* ---- transforms ---- */

/* operands: carries, from, to. */
static val emit_fori(struct builder *b, const val *operands, uint32_t n_carry, const struct attr *attrs,
                     struct region_in region)
{
    uint32_t groups[3] = { n_carry, 1, 1 };
    return builder_node(b, &(struct node_in){ .op = OP_fori_loop,
                                              .operands = operands,
                                              .n_operands = n_carry + BOUNDS,
                                              .groups = groups,
                                              .attrs = attrs,
                                              .regions = &region,
                                              .n_regions = 1 });
}

static val emit_i64(struct builder *b, int64_t value)
{
    struct attr a[3] = { A_INT(value), A_DIMS(NULL, 0), A_DTYPE(DT_I64) };
    return emit(b, OP_full, NULL, 0, a);
}

/* How many trips the bounds give, as a value. */
static val emit_trips(struct builder *b, val from, val to)
{
    return emit2(b, OP_sub, emit2(b, OP_max, to, from), from);
}

/* What the node says per operand, for the parameters of the body: the index stands where two bounds do. */
static bool *body_mask(struct arena *arena, const struct node *n, uint32_t n_carry, const bool *per_operand)
{
    bool *mask = ARENA_ZNEW(arena, bool, n->n_operands - 1);
    for (uint32_t k = 0; k < n_carry; k++) mask[k] = per_operand[k];
    for (uint32_t k = n_carry + BOUNDS; k < n->n_operands; k++) mask[k - 1] = per_operand[k];
    return mask;
}

/* ---- bounds that are known ---- */

enum { MOST_TERMS = 8 }; /* of a sum of sizes */

static bool known_sum(const struct builder *b, val v, uint32_t depth, dim *out)
{
    uint32_t made = b->values.data[v].node;
    if (made == NODE_NONE) return false;
    const struct node *n = &b->nodes.data[made];
    const struct attr *a = &b->attrs.data[n->attrs];
    dim x, y;
    if (n->op == OP_full && a[FULL_VALUE].kind == ATTR_INT && a[FULL_VALUE].i > INT32_MIN &&
        a[FULL_VALUE].i < INT32_MAX)
        return *out = dim_const(b->m, a[FULL_VALUE].i), true;
    if (n->op == OP_dim_value) return *out = (dim)a[DIM_VALUE_DIM].i, true;
    if ((n->op != OP_add && n->op != OP_sub) || depth == MOST_TERMS) return false;
    const val *operands = &b->pool.data[n->operands];
    if (!known_sum(b, operands[0], depth + 1, &x) || !known_sum(b, operands[1], depth + 1, &y)) return false;
    return *out = n->op == OP_add ? dim_add(b->m, x, y) : dim_sub(b->m, x, y), true;
}
static bool known_bound(const struct builder *b, val v, dim *out) { return known_sum(b, v, 0, out); }

/* The number of trips as a dim, where both bounds are numbers or sizes. */
static bool known_trips(const struct builder *b, const struct node_in *in, dim *out)
{
    dim from, to;
    uint32_t n_carry = in->groups[GROUP_OF_CARRY];
    if (!known_bound(b, in->operands[n_carry], &from) || !known_bound(b, in->operands[n_carry + 1], &to))
        return false;
    *out = dim_max(b->m, dim_sub(b->m, to, from), 0);
    return true;
}

/* A scan over the indices; its step is the body. operands: carries, from, to, own. */
static val emit_as_scan(struct builder *b, const val *operands, uint32_t n_carry, uint32_t n_own, dim trips,
                        const struct attr *attrs, struct region_in region)
{
    val *given = ARENA_NEW(&b->arena, val, n_carry + 1);
    struct attr count[3] = { A_DIMS(&trips, 1), A_NONE, A_NONE };
    if (n_carry) memcpy(given, operands, n_carry * sizeof *given);
    given[n_carry] = emit2(b, OP_add, emit(b, OP_iota, NULL, 0, count),
                           emit_broadcast_front(b, operands[n_carry], trips));
    uint32_t groups[2] = { n_carry, 1 };
    struct attr scan[SCAN_ATTRS] = { 0 };
    schedule_copy(&scan[SCAN_SCHEDULE], &attrs[FORI_SCHEDULE]);
    region.operands = operands + n_carry + BOUNDS;
    region.n_operands = n_own;
    return builder_node(b, &(struct node_in){ .op = OP_scan,
                                              .operands = given,
                                              .n_operands = n_carry + 1,
                                              .groups = groups,
                                              .attrs = scan,
                                              .regions = &region,
                                              .n_regions = 1 });
}

bool fori_as_scan(struct builder *b, const struct node_in *in, val *first)
{
    dim trips;
    const struct region_in *r = &in->regions[0];
    uint32_t n_carry = in->groups[GROUP_OF_CARRY];
    if (!known_trips(b, in, &trips)) return false;
    val *operands = ARENA_NEW(&b->arena, val, n_carry + BOUNDS + r->n_operands);
    memcpy(operands, in->operands, (n_carry + BOUNDS) * sizeof *operands);
    if (r->n_operands) memcpy(operands + n_carry + BOUNDS, r->operands, r->n_operands * sizeof *operands);
    *first = emit_as_scan(b, operands, n_carry, r->n_operands, trips, in->attrs, *r);
    return true;
}

/* The loop as a function of its operands that scans. */
static struct region_in scan_function(struct vjp_forward *v, const struct node_in *in, dim trips)
{
    struct builder *b = v->copy->b;
    const struct region_in *r = &in->regions[0];
    struct new_body body;
    new_body_begin(&body, b, NULL, NULL, 0);
    uint32_t n = v->n->n_operands, n_dims = node_region(v->f, v->n, 0)->n_dims,
             n_carry = in->groups[GROUP_OF_CARRY], n_results = v->n->n_results;
    val *outer = ARENA_NEW(&b->arena, val, n), *params = ARENA_NEW(&body.b.arena, val, n),
        *results = ARENA_NEW(&body.b.arena, val, n_results);
    type_id *types = ARENA_NEW(&body.b.arena, type_id, n);
    dim *dims = ARENA_NEW(&body.b.arena, dim, n_dims);
    for (uint32_t k = 0; k < n; k++)
        outer[k] = k < n - r->n_operands ? in->operands[k] : r->operands[k - (n - r->n_operands)];
    for (uint32_t k = 0; k < n; k++) types[k] = new_body_type(&body, builder_type(b, outer[k]));
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = new_body_dim(&body, r->dims[k]);
    dim length = new_body_dim(&body, trips);
    for (uint32_t k = 0; k < n; k++) params[k] = builder_param(&body.b, types[k], 0);
    val first = emit_as_scan(&body.b, params, n_carry, r->n_operands, length, in->attrs,
                             (struct region_in){ .fn = r->fn, .dims = dims });
    for (uint32_t k = 0; k < n_results; k++) results[k] = first + k;
    return new_body_finish(&body, results, n_results, outer, n);
}

/* ---- schedules: what the gradient keeps ---- */

/* Are there blocks of more than one trip? Stacks keep a row of every trip anyway: there, blocks would save
 * little. */
static bool has_blocks(const struct node_in *in, const struct schedule *schedule, uint32_t n_results)
{
    return n_results == in->groups[GROUP_OF_CARRY] &&
           (schedule->kind == SCHEDULE_SQRT || schedule->kind == SCHEDULE_EVERY);
}

/* How many trips a block has: a number, or about the square root of all. */
static val block_size(struct builder *b, const struct schedule *schedule, val trips)
{
    if (schedule->kind == SCHEDULE_EVERY) return emit_i64(b, schedule->every[0]);
    val root = emit_cast(b, emit1(b, OP_sqrt, emit_cast(b, trips, DT_F64)), DT_I64);
    return emit2(b, OP_max, root, emit_i64(b, 1));
}

/* A loop over blocks, each a loop over its trips whose bounds are worked out in place. Own operands: the
 * body's, then from, to, the block size. */
static struct node_in emit_blocked(struct builder *b, const struct node_in *in,
                                   const struct schedule *schedule)
{
    const struct region_in *r = &in->regions[0];
    uint32_t n_carry = in->groups[GROUP_OF_CARRY], n_own = r->n_operands,
             n_dims = module_fn(b->m, r->fn)->n_outer_symbols;
    val from = in->operands[n_carry], to = in->operands[n_carry + 1], trips = emit_trips(b, from, to),
        size = block_size(b, schedule, trips);
    val *own = ARENA_NEW(&b->arena, val, n_own + 3), *operands = ARENA_NEW(&b->arena, val, n_carry + BOUNDS);
    if (n_own) memcpy(own, r->operands, n_own * sizeof *own);
    own[n_own] = from, own[n_own + 1] = to, own[n_own + 2] = size;
    if (n_carry) memcpy(operands, in->operands, n_carry * sizeof *operands);
    operands[n_carry] = emit_i64(b, 0);
    operands[n_carry + 1] = emit2(b, OP_div, emit2(b, OP_add, trips, emit2(b, OP_sub, size, emit_i64(b, 1))),
                                  size);

    struct new_body made;
    new_body_begin(&made, b, NULL, NULL, 0);
    struct builder *i = &made.b;
    uint32_t n = n_carry + 1 + n_own + 3;
    type_id *types = ARENA_NEW(&i->arena, type_id, n);
    dim *dims = ARENA_NEW(&i->arena, dim, n_dims);
    for (uint32_t k = 0; k < n; k++)
        types[k] = k == n_carry ? type_scalar(b->m, DT_I64)
                                : new_body_type(&made, builder_type(b, k < n_carry ? in->operands[k]
                                                                                   : own[k - n_carry - 1]));
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = new_body_dim(&made, r->dims[k]);
    for (uint32_t k = 0; k < n; k++) builder_param(i, types[k], 0);
    val index = n_carry, inner_own = n_carry + 1, inner_from = inner_own + n_own, inner_to = inner_from + 1,
        inner_size = inner_from + 2;
    val *given = ARENA_NEW(&i->arena, val, n_carry + BOUNDS + n_own),
        *results = ARENA_NEW(&i->arena, val, n_carry);
    for (uint32_t k = 0; k < n_carry; k++) given[k] = k;
    given[n_carry] = emit2(i, OP_add, inner_from, emit2(i, OP_mul, index, inner_size));
    given[n_carry + 1] = emit2(i, OP_min, emit2(i, OP_add, given[n_carry], inner_size), inner_to);
    for (uint32_t k = 0; k < n_own; k++) given[n_carry + BOUNDS + k] = inner_own + k;
    struct attr attrs[FORI_ATTRS] = { [FORI_EVERY] = schedule->n_every > 1
                                                         ? A_INTS(schedule->every + 1, schedule->n_every - 1)
                                                         : A_NONE };
    val first = emit_fori(i, given, n_carry, attrs,
                          (struct region_in){ r->fn, given + n_carry + BOUNDS, n_own, dims });
    for (uint32_t k = 0; k < n_carry; k++) results[k] = first + k;
    struct region_in *region = ARENA_NEW(&b->arena, struct region_in, 1);
    *region = new_body_finish(&made, results, n_carry, own, n_own + 3);
    return (struct node_in){ .op = OP_fori_loop,
                             .operands = operands,
                             .n_operands = n_carry + BOUNDS,
                             .groups = in->groups,
                             .attrs = ARENA_ZNEW(&b->arena, struct attr, FORI_ATTRS),
                             .regions = region,
                             .n_regions = 1 };
}

/* ---- reverse ---- */

struct fori_saved {
    struct replaced *scan; /* NULL: a loop of its own */
    struct step *step;
    struct node_in in;  /* the loop, or the loop over its blocks */
    uint32_t snapshots; /* 0: what the body needs is stacked */
    val *stacks, *hoisted;
};

static void fori_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct fori_saved *saved = ARENA_ZNEW(&b->arena, struct fori_saved, 1);
    struct node_in in = copier_node_in(v->copy, v->n);
    uint32_t n_carry = in.groups[GROUP_OF_CARRY], n_results = v->n->n_results;
    dim trips;
    v->saved = saved;
    if (known_trips(b, &in, &trips)) {
        saved->scan = replaced_vjp_forward(v, scan_function(v, &in, trips));
        return;
    }
    bool *active = body_mask(&b->arena, v->n, n_carry, v->active);
    struct schedule schedule = schedule_of(&in.attrs[FORI_SCHEDULE]);
    if (has_blocks(&in, &schedule, n_results)) {
        in = emit_blocked(b, &in, &schedule);
        bool *more = ARENA_ZNEW(&b->arena, bool,
                                n_carry + 1 + in.regions[0].n_operands); /* bounds and size stay inactive */
        memcpy(more, active, v->n->n_operands - 1);
        active = more;
    }
    saved->in = in;
    const struct region_in *r = &in.regions[0];
    bool recompute = schedule.kind != SCHEDULE_NONE;
    struct step *s = NULL;
    if (schedule.snapshots)
        s = step_reverse(b->m, &b->arena, r->fn, n_carry, 1, active, v->result_wanted, false, recompute);
    if (s && step_needs_snapshots(s)) saved->snapshots = schedule.snapshots;
    else s = step_reverse(b->m, &b->arena, r->fn, n_carry, 1, active, v->result_wanted, true, recompute);
    saved->step = s;
    saved->hoisted = step_emit_hoisted(b, s, r->operands, r->dims);
    struct attr attrs[FORI_ATTRS] = {
        [FORI_TAPE] = A_FLAG((n_results == n_carry || in.attrs[FORI_TAPE].kind != ATTR_ABSENT) &&
                             !saved->snapshots)
    }; /* the pullback skips the rows of lanes that did not run */
    if (saved->snapshots) schedule_copy(&attrs[FORI_SCHEDULE], &in.attrs[FORI_SCHEDULE]);
    val first = emit_fori(b, in.operands, n_carry, attrs,
                          (struct region_in){ saved->snapshots ? r->fn : s->forward, r->operands,
                                              r->n_operands, r->dims });
    for (uint32_t k = 0; k < n_results; k++)
        v->results[k] = first + k, v->result_active[k] = k < n_carry ? s->active[k] : s->result_active[k];
    saved->stacks = ARENA_NEW(&b->arena, val, s->n_stack + s->n_extra);
    for (uint32_t k = 0; k < s->n_stack + (saved->snapshots ? 0 : s->n_extra); k++)
        saved->stacks[k] = first + n_carry + k;
    step_tell(b, s, v->n,
              saved->snapshots ? HOP_NONE : emit_type(b, saved->stacks[s->n_stack + s->n_extra - 1]).dims[0],
              r->dims, saved->snapshots);
}

/* Over a tape of all trips. */
static void fori_tape_back(struct builder *b, struct step_backward *back, val from, val *out)
{
    dim trips = back->length = emit_type(b, back->stacks[back->s->n_stack + back->s->n_extra - 1]).dims[0];
    struct attr count[3] = { A_DIMS(&trips, 1), A_NONE, A_NONE };
    val index = emit2(b, OP_add, emit(b, OP_iota, NULL, 0, count), emit_broadcast_front(b, from, trips));
    back->over = &index;
    step_emit_backward(b, back, out);
    back->over = NULL;
}

static void fori_vjp(struct vjp *v)
{
    struct builder *b = v->b;
    const struct fori_saved *saved = v->saved;
    const struct node_in *in = &saved->in;
    const struct step *s = saved->step;
    if (saved->scan) {
        replaced_vjp(v, saved->scan);
        return;
    }
    uint32_t n_carry = in->groups[GROUP_OF_CARRY], n_own = v->n->n_operands - n_carry - BOUNDS;
    val *out = ARENA_NEW(&b->arena, val, n_carry + 1 + s->n_own);
    struct step_backward back = { .s = s,
                                  .carry = in->operands,
                                  .own = in->regions[0].operands,
                                  .stacks = saved->stacks,
                                  .hoisted = saved->hoisted,
                                  .ct = v->ct,
                                  .dims = in->regions[0].dims };
    if (saved->snapshots) {
        val from = in->operands[n_carry];
        step_emit_from_snapshots(b, &back,
                                 &(struct snapshots){ saved->snapshots,
                                                      emit_trips(b, from, in->operands[n_carry + 1]), from },
                                 out);
    } else {
        fori_tape_back(b, &back, in->operands[n_carry], out);
    }
    for (uint32_t k = 0; k < n_carry; k++) v->out[k] = out[k];
    for (uint32_t k = 0; k < n_own; k++) v->out[n_carry + BOUNDS + k] = out[n_carry + 1 + k];
}

static void fori_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n_carry = in.groups[GROUP_OF_CARRY], n = j->n->n_operands;
    bool *has = ARENA_NEW(&b->arena, bool, n), *stack_active = ARENA_ZNEW(&b->arena, bool, j->n->n_results);
    for (uint32_t k = 0; k < n; k++) has[k] = j->tangents[k] != VAL_NONE;
    bool *active = body_mask(&b->arena, j->n, n_carry, has);
    uint32_t fn = step_jvp(b->m, r->fn, n_carry, 1, active, stack_active);
    val *operands = ARENA_NEW(&b->arena, val, 2 * (size_t)n_carry + BOUNDS),
        *own = ARENA_NEW(&b->arena, val, 2 * (size_t)r->n_operands);
    uint32_t n_given = with_tangents(b, operands, in.operands, j->tangents, active, n_carry);
    operands[n_given] = in.operands[n_carry], operands[n_given + 1] = in.operands[n_carry + 1];
    uint32_t n_own = with_tangents(b, own, r->operands, j->tangents + n_carry + BOUNDS, active + n_carry + 1,
                                   r->n_operands);
    val next = emit_fori(b, operands, n_given, in.attrs, (struct region_in){ fn, own, n_own, r->dims });
    for (uint32_t k = 0; k < n_carry; k++) j->results[k] = next++;
    for (uint32_t k = 0; k < n_carry; k++) j->out[k] = active[k] ? next++ : VAL_NONE;
    for (uint32_t k = n_carry; k < j->n->n_results; k++) j->results[k] = next++;
    for (uint32_t k = n_carry; k < j->n->n_results; k++)
        j->out[k] = stack_active[k - n_carry] ? next++ : VAL_NONE;
}

/* ---- lanes ---- */

static val over_lanes(struct builder *b, val v, bool batched, dim size)
{
    return batched ? v : emit_broadcast_front(b, v, size);
}

/* All lanes have the same bounds. */
static void batch_plain(struct batch *v, const struct node_in *in, bool *batched)
{
    struct builder *b = v->b;
    const struct region_in *r = &in->regions[0];
    uint32_t n_carry = in->groups[GROUP_OF_CARRY];
    bool lanes = v->lanes != VAL_NONE && module_fn(b->m, r->fn)->effects,
         *stack_batched = ARENA_ZNEW(&b->arena, bool, v->n->n_results);
    uint32_t fn = step_batch(b->m, r->fn, n_carry, batched, batch_body_size(v), lanes, stack_batched);
    val *operands = ARENA_NEW(&b->arena, val, n_carry + BOUNDS),
        *own = ARENA_NEW(&b->arena, val, r->n_operands + 1);
    for (uint32_t k = 0; k < n_carry; k++)
        operands[k] = batched[k] && !v->batched[k] ? emit_broadcast_front(b, in->operands[k], v->size)
                                                   : in->operands[k];
    operands[n_carry] = in->operands[n_carry], operands[n_carry + 1] = in->operands[n_carry + 1];
    if (r->n_operands) memcpy(own, r->operands, r->n_operands * sizeof *own);
    if (lanes) own[r->n_operands] = v->lanes;
    struct region_in region = { fn, own, r->n_operands + lanes,
                                batch_body_dims(v, r, module_fn(b->m, fn),
                                                node_region(v->f, v->n, 0)->n_dims) };
    val first = emit_fori(b, operands, n_carry, in->attrs, region);
    for (uint32_t k = 0; k < v->n->n_results; k++) {
        v->result_batched[k] = k < n_carry ? batched[k] : stack_batched[k - n_carry];
        v->results[k] = k >= n_carry && v->result_batched[k] ? emit_move_dim(b, first + k, 1, 0) : first + k;
    }
}

/* A loop up to the largest bound in which lanes past theirs keep what they have. A carry that depends on
 * nothing batched is the same in all lanes that are still running: it goes on as one value, and each lane's
 * last value of it is a carry before the loop's own. Own operands of the new body: the body's, then per lane
 * the last bound and, when lanes start at different indices, the first; then the loop counts from 0. */
struct masked {
    struct batch *v;
    struct region_in body;  /* over lanes, with the lanes' mask last if it has effects */
    const bool *batched;    /* per parameter of the body */
    const bool *keeps_last; /* per carry: it changes and is not batched */
    uint32_t n_carry, n_last;
    bool effects, starts_differ;
    val from, to; /* per lane */
};

static struct region_in masked_body(const struct masked *w)
{
    struct module *m = w->v->b->m;
    const struct fn *inner = module_fn(m, w->body.fn);
    uint32_t n_carry = w->n_carry, n_own = inner->n_params - n_carry - 1 - w->effects, n = 0;
    struct new_body made;
    struct builder *b = &made.b;
    new_body_begin(&made, w->v->b, inner, w->body.dims, inner->n_outer_symbols);
    dim size = new_body_dim(&made, w->v->size);
    type_id per_lane = type_intern(m, DT_I64, 1, &size);
    for (uint32_t k = 0; k < n_carry; k++)
        if (w->keeps_last[k]) builder_param(b, type_prepend(m, value_type(inner, k), size), 0);
    val carry = w->n_last;
    for (uint32_t k = 0; k < n_carry; k++) builder_param(b, value_type(inner, k), inner->values[k].name);
    val count = builder_param(b, type_scalar(m, DT_I64), inner->values[n_carry].name), own = count + 1;
    for (uint32_t k = 0; k < n_own; k++)
        builder_param(b, value_type(inner, n_carry + 1 + k), inner->values[n_carry + 1 + k].name);
    val end = builder_param(b, per_lane, 0),
        start = w->starts_differ ? builder_param(b, per_lane, 0) : VAL_NONE,
        index = emit_broadcast_front(b, count, size);
    if (w->starts_differ) index = emit2(b, OP_add, start, index);
    val alive = emit2(b, OP_lt, index, end), lane = running_lane(b, alive),
        *args = ARENA_NEW(&b->arena, val, inner->n_params),
        *all = ARENA_NEW(&b->arena, val, inner->n_results);
    for (uint32_t k = 0; k < n_carry; k++)
        args[k] = w->batched[k] ? safe_operand(b, alive, lane, carry + k) : carry + k;
    args[n_carry] = w->starts_differ ? safe_operand(b, alive, lane, index) : count;
    for (uint32_t k = 0; k < n_own; k++)
        args[n_carry + 1 + k] = w->batched[n_carry + 1 + k] ? safe_operand(b, alive, lane, own + k) : own + k;
    if (w->effects) args[inner->n_params - 1] = alive;
    inline_function(b, w->body.fn, NULL, args, all);
    val *out = ARENA_NEW(&b->arena, val, w->n_last + inner->n_results),
        *operands = ARENA_NEW(&w->v->b->arena, val, n_own + 2);
    for (uint32_t k = 0; k < n_carry; k++)
        if (w->keeps_last[k]) out[n] = emit_where(b, alive, emit_broadcast_front(b, all[k], size), n), n++;
    for (uint32_t k = 0; k < n_carry; k++)
        out[n++] = w->batched[k] ? emit_where(b, alive, all[k], carry + k) : all[k];
    for (uint32_t k = n_carry; k < inner->n_results; k++)
        out[n++] = emit_where(b, alive, all[k], zeros_like(b, all[k]));
    if (n_own) memcpy(operands, w->body.operands, n_own * sizeof *operands);
    operands[n_own] = w->to, operands[n_own + 1] = w->from;
    return new_body_finish(&made, out, n, operands, n_own + 1 + w->starts_differ);
}

static void batch_masked(struct batch *v, const struct node_in *in, bool *batched)
{
    struct builder *b = v->b;
    struct module *m = b->m;
    const struct region_in *r = &in->regions[0];
    const struct fn *body = module_fn(m, r->fn);
    uint32_t n_carry = in->groups[GROUP_OF_CARRY], n_results = body->n_results, all = 0;
    bool starts_differ = v->batched[n_carry], effects = body->effects;
    if (n_results > n_carry && in->attrs[FORI_TAPE].kind == ATTR_ABSENT)
        hop_throw(HOP_INVALID,
                  "%sfori_loop: batched, its number of trips differs from lane to lane, so its stacked "
                  "results have no common length; a while_loop with {max_trips = N} "
                  "gives them one, or a fori_loop to the largest bound that stacks what it selects",
                  place_text(m, v->n->place));
    bool *force = ARENA_NEW(&b->arena, bool, n_results), *found = ARENA_NEW(&b->arena, bool, n_results),
         *keeps_last = ARENA_NEW(&b->arena, bool, n_carry);
    for (bool grown = true; grown;) {
        grown = false;
        for (uint32_t k = 0; k < n_results; k++) force[k] = k >= n_carry || batched[k];
        batched[n_carry] = starts_differ;
        (void)body_over_lanes(m, body->id, batched, batch_body_size(v), force, effects, found);
        for (uint32_t k = 0; k < n_carry; k++)
            if (found[k] && !batched[k]) batched[k] = grown = true;
    }
    uint32_t fn = body_over_lanes(m, body->id, batched, batch_body_size(v), force, effects, found),
             n_last = 0;
    for (uint32_t k = 0; k < n_carry; k++) n_last += keeps_last[k] = !batched[k] && body->results[k] != k;
    val from = over_lanes(b, in->operands[n_carry], v->batched[n_carry], v->size),
        to = over_lanes(b, in->operands[n_carry + 1], v->batched[n_carry + 1], v->size);
    if (v->lanes != VAL_NONE) to = emit_select(b, v->lanes, to, from);
    val *operands = ARENA_NEW(&b->arena, val, n_last + n_carry + BOUNDS);
    uint32_t n = 0;
    for (uint32_t k = 0; k < n_carry; k++)
        if (keeps_last[k]) operands[n++] = emit_broadcast_front(b, in->operands[k], v->size);
    for (uint32_t k = 0; k < n_carry; k++)
        operands[n++] = batched[k] && !v->batched[k] ? emit_broadcast_front(b, in->operands[k], v->size)
                                                     : in->operands[k];
    operands[n] = starts_differ ? emit_i64(b, 0) : in->operands[n_carry];
    operands[n + 1] = emit_reduce(b, OP_reduce_max, starts_differ ? emit_trips(b, from, to) : to, &all, 1);
    struct masked w = { .v = v,
                        .batched = batched,
                        .keeps_last = keeps_last,
                        .n_carry = n_carry,
                        .n_last = n_last,
                        .effects = effects,
                        .starts_differ = starts_differ,
                        .from = from,
                        .to = to,
                        .body = {
                            fn, r->operands, r->n_operands,
                            batch_body_dims(v, r, module_fn(m, fn), node_region(v->f, v->n, 0)->n_dims) } };
    val last = emit_fori(b, operands, n, in->attrs, masked_body(&w)), first = last + n_last;
    for (uint32_t k = 0; k < n_results; k++) {
        bool stands_before = k < n_carry && keeps_last[k];
        v->result_batched[k] = k >= n_carry || batched[k] || stands_before;
        v->results[k] = stands_before ? last++ : k >= n_carry ? emit_move_dim(b, first + k, 1, 0) : first + k;
    }
}

static void fori_batch(struct batch *v)
{
    struct node_in in = copier_node_in(v->copy, v->n);
    uint32_t n_carry = in.groups[GROUP_OF_CARRY];
    bool *batched = body_mask(&v->b->arena, v->n, n_carry, v->batched);
    if (v->batched[n_carry] || v->batched[n_carry + 1]) batch_masked(v, &in, batched);
    else batch_plain(v, &in, batched);
}

/* ---- simplification ---- */

/* Known bounds make a scan of it. A stack of one known number (the rows that ran, in a gradient) is no stack.
 */
static bool fori_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    struct builder *b = c->b;
    const struct fn *body = module_fn(b->m, node_region(c->f, n, 0)->fn);
    uint32_t n_carry = node_group_size(c->f, n, GROUP_OF_CARRY), n_stack = body->n_results - n_carry,
             n_left = 0;
    struct node_in in = copier_node_in(c, n);
    struct region_in region = in.regions[0];
    val first;
    (void)options;
    if (fori_as_scan(b, &in, &first)) {
        for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
        return true;
    }
    bool *keep = ARENA_NEW(&b->arena, bool, body->n_results);
    for (uint32_t k = 0; k < body->n_results; k++) {
        uint32_t made = body->values[body->results[k]].node;
        keep[k] = k < n_carry || made == NODE_NONE || fn_node(body, made)->op != OP_full;
        n_left += k >= n_carry && keep[k];
    }
    if (n_left == n_stack) return false;
    region.fn = prune_function(b->m, region.fn, keep);
    val next = emit_fori(b, in.operands, n_carry, in.attrs, region);
    for (uint32_t k = 0; k < n_carry; k++) results[k] = next + k;
    val rows = n_left ? next + n_carry
                      : emit1(b, OP_bind_dim, emit_trips(b, in.operands[n_carry], in.operands[n_carry + 1]));
    dim trips = emit_type(b, rows).dims[0];
    for (uint32_t k = n_carry, from = next + n_carry; k < body->n_results; k++) {
        if (keep[k]) {
            results[k] = from++;
            continue;
        }
        const struct node *full = fn_node(body, body->values[body->results[k]].node);
        struct type t = type_get(
            b->m, type_prepend(b->m, type_substitute(b->m, value_type(body, body->results[k]), region.dims),
                               trips));
        struct attr made[3] = { [FULL_VALUE] = *node_attr(body, full, FULL_VALUE),
                                [FULL_DIMS] = A_DIMS(t.dims, t.rank),
                                [FULL_DTYPE] = A_DTYPE(t.dtype) };
        results[k] = emit(b, OP_full, NULL, 0, made);
    }
    return true;
}

static const struct op_sample fori_samples[] = {
    { "hop 1\nfn @sample(%x: f64[2], %w: f64[2], %a: i64[], %n: i64[]) -> (f64[2]) {\n"
      "  %y = fori_loop {schedule = binomial, snapshots = 2} carry(%c = %x) from(%i = %a) to(%n) with(%v = "
      "%w) {\n"
      "    %t = cast {dtype = f64} (%i)\n"
      "    %s = broadcast {dims = [2], at = []} (%t)\n"
      "    %p = add(%c, %s)\n"
      "    %m = mul(%p, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%d)\n"
      "  }\n"
      "  return %y\n"
      "}\n",
      "a = -1..2, n = -1..5" },
    { "hop 1\nfn @sample(%x: f64[3], %w: f64[3], %n: i64[]) -> (f64[3]) {\n"
      "  %zero = full {value = 0, dims = [], dtype = i64}\n"
      "  %y = fori_loop carry(%c = %x) from(%i = %zero) to(%n) with(%v = %w) {\n"
      "    %m = mul(%c, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%d)\n"
      "  }\n"
      "  return %y\n"
      "}\n",
      "n = 0..4" },
    { "hop 1\nfn @sample(%x: f64[], %w: f64[], %a: i64[], %n: i64[]) -> (f64[], f64[]) {\n"
      "  %y, %z = fori_loop {every = [2]} carry(%c = %x, %d = %w) from(%i = %a) to(%n) with(%v = %w) {\n"
      "    %t = cast {dtype = f64} (%i)\n"
      "    %s = add(%c, %t)\n"
      "    %m = mul(%s, %v)\n"
      "    %e = sin(%m)\n"
      "    next(%d, %e)\n"
      "  }\n"
      "  return %y, %z\n"
      "}\n",
      "a = -1..2, n = -1..5" },
    { "hop 1\nfn @sample(%x: f64[2], %n: i64[]) -> (f64[2]) {\n"
      "  %one = full {value = 1, dims = [], dtype = i64}\n"
      "  %y = fori_loop {schedule = sqrt} carry(%c = %x) from(%i = %one) to(%n) {\n"
      "    %d = tanh(%c)\n"
      "    %m = mul(%d, %c)\n"
      "    next(%m)\n"
      "  }\n"
      "  return %y\n"
      "}\n",
      "n = 0..9" },
    { "hop 1\nfn @sample(%x: f64[2], %w: f64[]) -> (f64[2]) {\n"
      "  %zero = full {value = 0, dims = [], dtype = i64}\n"
      "  %five = full {value = 5, dims = [], dtype = i64}\n"
      "  %y = fori_loop {schedule = recompute} carry(%c = %x) from(%i = %zero) to(%five) with(%v = %w) {\n"
      "    %b = broadcast {dims = [2], at = []} (%v)\n"
      "    %m = mul(%c, %b)\n"
      "    %d = cos(%m)\n"
      "    next(%d)\n"
      "  }\n"
      "  return %y\n"
      "}\n",
      NULL },
};

static const struct attr_spec fori_attrs[] = {
    SCHEDULE_ATTRS(FORI_SCHEDULE),
    [FORI_TAPE] = { "tape", ATTR_FLAG, false,
                    NULL }, /* made by gradients: what is stacked is read only in rows that ran */
};

static const struct loop_row fori_parts = {
    .kind = LOOP_COUNTED,
    .group = { .carry = 1 + GROUP_OF_CARRY, .from = 1 + GROUP_OF_FROM, .to = 1 + GROUP_OF_TO },
    .region = { .body = 1 },
    .attr = { .schedule = 1 + FORI_SCHEDULE, .tape = 1 + FORI_TAPE },
};

const struct op_row row_fori_loop = {
    .name = "fori_loop",
    .meaning = "a body repeated on carries for each index from one number up to another; further results are "
               "stacked, one row a trip",
    .sig = { .n_attrs = HOP_COUNT(fori_attrs),
             .attrs = fori_attrs,
             .n_groups = 3,
             .groups = { { "carry", GROUP_CARRY }, { "from", GROUP_START }, { "to", GROUP_PLAIN } },
             .min_regions = 1,
             .max_regions = 1,
             .regions = { { .word = "", .feeds = 3, .results = { "next", "stack" } } } },
    .flags = OPF_HIGHER,
    .infer = fori_infer,
    .eval = fori_eval,
    .vjp = fori_vjp,
    .vjp_forward = fori_vjp_forward,
    .jvp = fori_jvp,
    .batch = fori_batch,
    .rewrite = fori_rewrite,
    HOP_SAMPLES(fori_samples),
    .lower = &fori_lower,
    .loop = &fori_parts,
};
