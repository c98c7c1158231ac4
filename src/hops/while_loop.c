/* The row of while_loop: a body is run on carries as long as a predicate of them holds. The predicate and the
 * body have own operands beside the carries; the body may stack further results, one row a trip. Results:
 * last carries; the number of trips when asked for or when anything is stacked; stacks, [?n, …], or
 * [max_trips, …] with zeros behind the last trip (a gradient's tape has a row a trip in any case). */
#include "hops/hops.h"
#include "hops/lower_hops.h"

enum {
    REGION_COND,
    REGION_BODY,
    FEW_TRIPS = 16 /* a tape of up to this many rows has them all, so that it can leave a loop around; a
                      longer one costs more in rows that nobody ran than it saves */
};

/* Do stacks have as many rows as the loop may make trips, rather than as it makes? */
static bool has_all_rows(const struct loop *l) { return l->max_trips != HOP_NONE && !l->tape; }

/* ---- a predicate that is always true ---- */

enum { KNOWN_LIMIT = 64 }; /* elements of a value that is computed to find out */

static bool static_type(struct module *m, type_id type)
{
    struct type t = type_get(m, type);
    int64_t count = 1;
    for (uint32_t d = 0; d < t.rank; d++) {
        if (!dim_is_const(m, t.dims[d])) return false;
        count *= dim_const_value(m, t.dims[d]);
        if (count > KNOWN_LIMIT) return false;
    }
    return true;
}

/* Can its result be computed from its operands alone, now? */
static bool computable(struct module *m, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    if (!row->eval || row_may_have_effects(row) || n->n_results != 1) return false;
    if (row->flags & (OPF_NO_FOLD | OPF_NO_MERGE | OPF_HIGHER)) return false;
    for (uint32_t k = 0; k < row->sig.n_attrs; k++) {
        const struct attr *a = node_attr(f, n, k);
        if (a->kind == ATTR_DIM && !dim_is_const(m, (dim)a->i)) return false;
    }
    return static_type(m, value_type(f, n->results));
}

/* Does the predicate give true whatever the carries are? Only one that reads nothing is looked at. */
static bool always_true(struct infer *in, const struct fn *cond)
{
    struct module *m = in->m;
    bool *needed = ARENA_ZNEW(in->arena, bool, cond->n_values);
    needed[cond->results[0]] = true;
    for (uint32_t i = cond->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(cond, i);
        bool live = false;
        for (uint32_t k = 0; k < n->n_results; k++) live |= needed[n->results + k];
        if (live && !computable(m, cond, n)) return false;
        for (uint32_t k = 0; live && k < n->n_operands; k++) needed[node_operands(cond, n)[k]] = true;
    }
    for (uint32_t i = 0; i < cond->n_params; i++)
        if (needed[i]) return false;
    struct tensor_list *values = tensor_list_begin(cond->n_values);
    struct interp interp = { .m = m };
    for (uint32_t i = 0; i < cond->n_nodes; i++) {
        const struct node *n = fn_node(cond, i);
        if (!n->n_results || !needed[n->results]) continue;
        struct type t = type_get(m, value_type(cond, n->results));
        struct tensor **operands = ARENA_NEW(in->arena, struct tensor *, n->n_operands + 1);
        int64_t dims[MAX_RANK];
        for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_const_value(m, t.dims[d]);
        for (uint32_t k = 0; k < n->n_operands; k++) operands[k] = values->data[node_operands(cond, n)[k]];
        tensor_list_set(values, n->results, tensor_new((enum dtype)t.dtype, t.rank, dims));
        node_row(n)->eval(&(struct eval){ .in = &interp,
                                          .m = m,
                                          .f = cond,
                                          .n = n,
                                          .operands = operands,
                                          .results = &values->data[n->results] });
    }
    bool holds = *(const uint8_t *)values->data[cond->results[0]]->data;
    tensor_list_end(values);
    return holds;
}

static void while_infer(struct infer *in)
{
    uint32_t n_carry = in->groups[0];
    const struct fn *cond = module_fn(in->m, in->regions[REGION_COND].fn);
    const struct fn *body = module_fn(in->m, in->regions[REGION_BODY].fn);
    /* it may vary along named axes */
    type_id holds = cond->n_results == 1 ? value_type(cond, cond->results[0]) : HOP_NONE;
    if (holds == HOP_NONE || type_varying(in->m, holds, 0) != type_scalar(in->m, DT_BOOL))
        infer_error(in, "the predicate: expected one result bool[], found %u, the first %s", cond->n_results,
                    cond->n_results ? type_text(in->m, cond->symbols, value_type(cond, cond->results[0]))
                                    : "missing");
    infer_schedule(in, &in->attrs[WHILE_SCHEDULE]);
    if (cond->effects & ~EFFECT_CHECK) infer_error(in, "the predicate has effects beyond check");
    if (body->n_results < n_carry)
        infer_error(in, "the body gives %u results, fewer than the %u carries", body->n_results, n_carry);
    bool quiet = !(cond->effects | body->effects) &&
                 in->attrs[WHILE_MAX_TRIPS].kind ==
                     ATTR_ABSENT; /* nothing else could end it, or be the point of it */
    if (in->written && quiet && always_true(in, cond))
        infer_error(in, "the predicate is always true, so the loop can never end: expected one that depends "
                        "on the carries, or max_trips");
    infer_results_like(in, REGION_BODY, in->operands, n_carry, "carry", "what the body makes of it");
    for (uint32_t i = 0; i < n_carry; i++) infer_result(in, in->operands[i]);
    if (body->n_results == n_carry && in->attrs[WHILE_COUNT].kind == ATTR_ABSENT) return;
    infer_result(in, type_scalar(in->m, DT_I64));
    if (body->n_results == n_carry) return;
    bool limited = in->attrs[WHILE_MAX_TRIPS].kind != ATTR_ABSENT;
    bool all_rows = limited && in->attrs[WHILE_TAPE].kind == ATTR_ABSENT;
    dim trips = all_rows ? (dim)in->attrs[WHILE_MAX_TRIPS].i : infer_fresh(in, 0, INT64_MAX);
    for (uint32_t i = n_carry; i < body->n_results; i++)
        infer_result(in, type_prepend(in->m, infer_region_result(in, REGION_BODY, i), trips));
}

/* A stack that doubles while the loop runs. */
struct growing {
    char *data;
    size_t used, size;
};
struct stacks {
    uint32_t n;
    struct growing stack[];
};
static void stacks_free(void *stacks)
{
    struct stacks *s = stacks;
    for (uint32_t i = 0; i < s->n; i++) hop_free(s->stack[i].data);
    hop_free(s);
}
static void stack_push(struct growing *g, const struct tensor *t)
{
    size_t bytes = tensor_bytes(t);
    if (g->used + bytes > g->size) {
        size_t size = HOP_MAX(g->size * 2, g->used + bytes);
        g->data = hop_realloc(g->data, size);
        g->size = size;
    }
    if (bytes) memcpy(g->data + g->used, t->data, bytes);
    g->used += bytes;
}

static struct tensor *stack_result(struct eval *e, uint32_t k, const struct growing *g, int64_t trips,
                                   int64_t rows)
{
    struct type t = type_get(e->m, value_type(e->f, e->n->results + k));
    int64_t dims[MAX_RANK] = { rows };
    for (uint32_t d = 1; d < t.rank; d++) dims[d] = dim_eval(e->m, t.dims[d], e->symbols);
    struct tensor *out = tensor_new((enum dtype)t.dtype, t.rank, dims);
    if (g->used) memcpy(out->data, g->data, g->used);
    if (rows > trips) memset((char *)out->data + g->used, 0, tensor_bytes(out) - g->used);
    return out;
}

/* The arguments of a region: carries, its own operands. */
static struct tensor_list *region_args(const struct eval *e, const struct fn *g, uint32_t n_carry,
                                       uint32_t own_at)
{
    struct tensor_list *args = tensor_list_begin(g->n_params + 1);
    for (uint32_t p = n_carry; p < g->n_params; p++)
        args->data[p] = tensor_ref(e->operands[own_at + p - n_carry]);
    return args;
}

/* The carries are the first of body_args; returns the number of trips. */
static int64_t run_loop(struct eval *e, const struct loop *l, struct tensor_list *cond_args,
                        struct tensor_list *body_args, struct stacks *stacks, int64_t max)
{
    const int64_t *cond_symbols = eval_region_symbols(e, l->cond_region, cond_args, cond_args->n - 1);
    const int64_t *body_symbols = eval_region_symbols(e, l->body_region, body_args, body_args->n - 1);
    struct tensor_list *out = tensor_list_begin(l->body->n_results), *test = tensor_list_begin(1);
    int64_t trips = 0;
    for (;; trips++) {
        for (uint32_t k = 0; k < l->n_carry; k++)
            tensor_list_set(cond_args, k, tensor_ref(body_args->data[k]));
        interp_call(e->in, l->cond->id, cond_symbols, cond_args->data, test->data);
        bool again = *(const uint8_t *)test->data[0]->data;
        tensor_list_set(test, 0, NULL);
        if (!again) break;
        if (trips == max) /* as compiled code says it */
            hop_throw(HOP_CHECK, "%scheck: " WHILE_TRIPS_MESSAGE " (%lld)%s", place_text(e->m, e->n->place),
                      (long long)max, place_stack(e->m, e->n->place));
        interp_call(e->in, l->body->id, body_symbols, body_args->data, out->data);
        for (uint32_t k = 0; k < l->n_carry; k++) {
            tensor_list_set(body_args, k, out->data[k]);
            out->data[k] = NULL;
        }
        for (uint32_t k = 0; k < l->n_stack; k++) {
            stack_push(&stacks->stack[k], out->data[l->n_carry + k]);
            tensor_list_set(out, l->n_carry + k, NULL);
        }
    }
    tensor_list_end(test);
    tensor_list_end(out);
    return trips;
}

static void while_eval(struct eval *e)
{
    struct loop l;
    loop_of_node(e->m, e->f, e->n, &l);
    struct loop_positions at = loop_positions(e->f, e->n);
    int64_t limit = l.max_trips == HOP_NONE ? -1 : dim_eval(e->m, l.max_trips, e->symbols);
    struct tensor_list *cond_args = region_args(e, l.cond, l.n_carry, at.cond_with);
    struct tensor_list *body_args = region_args(e, l.body, l.n_carry, at.with);
    struct stacks *stacks = hop_calloc(1, sizeof *stacks + l.n_stack * sizeof *stacks->stack);
    stacks->n = l.n_stack;
    hop_cleanup_push(stacks_free, stacks);
    for (uint32_t k = 0; k < l.n_carry; k++) body_args->data[k] = tensor_ref(e->operands[at.carry + k]);
    int64_t trips = run_loop(e, &l, cond_args, body_args, stacks, limit);
    for (uint32_t k = 0; k < l.n_carry; k++) e->results[k] = tensor_ref(body_args->data[k]);
    if (l.counts) {
        struct tensor *count = tensor_new(DT_I64, 0, NULL);
        *(int64_t *)count->data = trips;
        e->results[loop_trips_result(&l)] = count;
    }
    int64_t rows = has_all_rows(&l) ? limit : trips;
    for (uint32_t k = 0; k < l.n_stack; k++) {
        uint32_t result = loop_stack_result(&l, k);
        e->results[result] = stack_result(e, result, &stacks->stack[k], trips, rows);
    }
    hop_cleanup_pop(stacks);
    stacks_free(stacks);
    tensor_list_end(body_args);
    tensor_list_end(cond_args);
}

/* ---- schedules: what the gradient keeps ---- */

/* What body and predicate of a loop take beside the carries, as own operands of new functions that contain
 * both. */
struct shared {
    const val *all; /* the body's, then the predicate's */
    uint32_t n;
};
static struct shared shared_operands(struct builder *b, const struct loop *l)
{
    val *all = ARENA_NEW(&b->arena, val, l->n_with + l->n_cond_with);
    if (l->n_with) memcpy(all, l->with, l->n_with * sizeof *all);
    if (l->n_cond_with) memcpy(all + l->n_with, l->cond_with, l->n_cond_with * sizeof *all);
    return (struct shared){ all, l->n_with + l->n_cond_with };
}

/* The loop seen from a new function. Its parameters: n_counters numbers, the carries, n_more numbers, what
 * both regions take. */
struct inside {
    struct loop l;
    val counters, more; /* the first of each */
};
static struct inside loop_inside(struct new_body *body, const struct loop *l, uint32_t n_counters,
                                 uint32_t n_more)
{
    struct builder *b = &body->b, *around = body->around;
    uint32_t n_cond = l->cond->n_outer_symbols, n_body = l->body->n_outer_symbols;
    struct shared own = shared_operands(b, l);
    type_id number = type_scalar(b->m, DT_I64);
    type_id *carry_types = ARENA_NEW(&b->arena, type_id, l->n_carry);
    type_id *own_types = ARENA_NEW(&b->arena, type_id, own.n);
    val *carry = ARENA_NEW(&b->arena, val, l->n_carry), *with = ARENA_NEW(&b->arena, val, own.n);
    dim *cond_dims = ARENA_NEW(&b->arena, dim, n_cond), *dims = ARENA_NEW(&b->arena, dim, n_body);
    for (uint32_t k = 0; k < l->n_carry; k++)
        carry_types[k] = new_body_type(body, builder_type(around, l->carry[k]));
    for (uint32_t k = 0; k < own.n; k++) own_types[k] = new_body_type(body, builder_type(around, own.all[k]));
    for (uint32_t k = 0; k < n_cond; k++) cond_dims[k] = new_body_dim(body, l->cond_dims[k]);
    for (uint32_t k = 0; k < n_body; k++) dims[k] = new_body_dim(body, l->dims[k]);
    struct inside out = { .l = *l };
    out.counters = b->values.len;
    for (uint32_t k = 0; k < n_counters; k++) builder_param(b, number, 0);
    for (uint32_t k = 0; k < l->n_carry; k++) carry[k] = builder_param(b, carry_types[k], 0);
    out.more = b->values.len;
    for (uint32_t k = 0; k < n_more; k++) builder_param(b, number, 0);
    for (uint32_t k = 0; k < own.n; k++) with[k] = builder_param(b, own_types[k], 0);
    out.l.carry = carry;
    out.l.with = with;
    out.l.cond_with = with + l->n_with;
    out.l.dims = dims;
    out.l.cond_dims = cond_dims;
    return out;
}

/* Puts a region of the loop in place, on its carries. results: the region's. */
static void inline_on_carries(struct builder *b, const struct loop *l, struct region_in region, val *results)
{
    val *args = ARENA_NEW(&b->arena, val, l->n_carry + region.n_operands);
    if (l->n_carry) memcpy(args, l->carry, l->n_carry * sizeof *args);
    if (region.n_operands) memcpy(args + l->n_carry, region.operands, region.n_operands * sizeof *args);
    inline_function(b, region.fn, region.dims, args, results);
}

static val emit_number(struct builder *b, int64_t value)
{
    return emit_full(b, DT_I64, (double)value, 0, NULL);
}

static const struct attr recompute_schedule[LOOP_SCHEDULE_ATTRS] = { { .kind = ATTR_WORD,
                                                                       .i = SCHEDULE_RECOMPUTE } };

/* Rounds from number `first_round` to 0, less if the predicate stops holding; a round is a trip, or a block
 * of sizes[0] rounds, … results: the carries; returns the trips. */
static val emit_rounds(struct builder *b, const struct loop *l, val first_round, const uint32_t *sizes,
                       uint32_t n_sizes, val *results)
{
    enum { ROUNDS, TRIPS, COUNTERS };
    uint32_t n = l->n_carry;
    struct shared own = shared_operands(b, l);
    struct loop rounds = loop_new(LOOP_WHILE);
    struct new_body made;

    new_body_begin(&made, b, NULL, NULL, 0);
    struct inside in = loop_inside(&made, l, COUNTERS, 0);
    val again;
    inline_on_carries(&made.b, &in.l, loop_cond(&in.l), &again);
    val left = emit2(&made.b, OP_lt, in.counters + ROUNDS, emit_number(&made.b, 0));
    again = emit2(&made.b, OP_and, left, again);
    loop_set_cond(&rounds, b->m, new_body_finish(&made, &again, 1, own.all, own.n));

    new_body_begin(&made, b, NULL, NULL, 0);
    in = loop_inside(&made, l, COUNTERS, 0);
    val *out = ARENA_NEW(&made.b.arena, val, COUNTERS + n), one = emit_number(&made.b, 1), trips = one;
    if (n_sizes)
        trips = emit_rounds(&made.b, &in.l, emit_number(&made.b, -(int64_t)sizes[0]), sizes + 1, n_sizes - 1,
                            out + COUNTERS);
    else inline_on_carries(&made.b, &in.l, loop_body(&in.l), out + COUNTERS);
    out[ROUNDS] = emit2(&made.b, OP_add, in.counters + ROUNDS, one);
    out[TRIPS] = emit2(&made.b, OP_add, in.counters + TRIPS, trips);
    loop_set_body(&rounds, b->m, new_body_finish(&made, out, COUNTERS + n, own.all, own.n));

    val *carry = ARENA_NEW(&b->arena, val, COUNTERS + n);
    carry[ROUNDS] = first_round;
    carry[TRIPS] = emit_number(b, 0);
    if (n) memcpy(carry + COUNTERS, l->carry, n * sizeof *carry);
    rounds.carry = carry;
    rounds.n_carry = COUNTERS + n;
    rounds.schedule = n_sizes ? recompute_schedule : NULL;
    val last = loop_build(b, &rounds).last;
    for (uint32_t k = 0; k < n; k++) results[k] = last + COUNTERS + k;
    return last + TRIPS;
}

/* The loop whose trips are blocks: carries are the loop's own, then the trips so far and how many blocks
 * there were. Without sizes each block has one trip more than the one before: about sqrt(2 n) blocks of at
 * most as many trips, whatever n will be. */
enum { BLOCKED_TRIPS, BLOCKED_BLOCKS, BLOCKED_COUNTS };
static struct loop block_loop(struct builder *b, const struct loop *l, const uint32_t *sizes,
                              uint32_t n_sizes)
{
    uint32_t n = l->n_carry;
    struct shared own = shared_operands(b, l);
    struct loop blocks = loop_new(LOOP_WHILE);
    val *carry = ARENA_NEW(&b->arena, val, n + BLOCKED_COUNTS);
    if (n) memcpy(carry, l->carry, n * sizeof *carry);
    for (uint32_t k = 0; k < BLOCKED_COUNTS; k++) carry[n + k] = emit_number(b, 0);
    blocks.place = l->place;
    blocks.carry = carry;
    blocks.n_carry = n + BLOCKED_COUNTS;

    struct new_body made;
    new_body_begin(&made, b, NULL, NULL, 0);
    struct inside in = loop_inside(&made, l, 0, BLOCKED_COUNTS);
    val again;
    inline_on_carries(&made.b, &in.l, loop_cond(&in.l), &again);
    loop_set_cond(&blocks, b->m, new_body_finish(&made, &again, 1, own.all, own.n));

    new_body_begin(&made, b, NULL, NULL, 0);
    in = loop_inside(&made, l, 0, BLOCKED_COUNTS);
    val *out = ARENA_NEW(&made.b.arena, val, n + BLOCKED_COUNTS), *counts = out + n;
    counts[BLOCKED_BLOCKS] = emit2(&made.b, OP_add, in.more + BLOCKED_BLOCKS, emit_number(&made.b, 1));
    val first_round = n_sizes ? emit_number(&made.b, -(int64_t)sizes[0])
                              : emit1(&made.b, OP_neg, counts[BLOCKED_BLOCKS]);
    bool sized = n_sizes;
    val trips = emit_rounds(&made.b, &in.l, first_round, sizes + sized, n_sizes - sized, out);
    counts[BLOCKED_TRIPS] = emit2(&made.b, OP_add, in.more + BLOCKED_TRIPS, trips);
    loop_set_body(&blocks, b->m, new_body_finish(&made, out, n + BLOCKED_COUNTS, own.all, own.n));
    return blocks;
}

/* ---- reverse ---- */

static bool few_trips(const struct builder *b, const struct loop *l)
{
    return l->max_trips != HOP_NONE && dim_is_const(b->m, l->max_trips) &&
           dim_const_value(b->m, l->max_trips) <= FEW_TRIPS;
}

/* What is said of the loop's carries and own operands, for those of the loop over blocks: counts and what the
 * predicate takes are inactive. */
static bool *mask_of_blocks(struct arena *arena, const struct loop *l, const struct loop *blocks,
                            const bool *mask)
{
    bool *out = ARENA_ZNEW(arena, bool, blocks->body->n_params);
    for (uint32_t k = 0; k < l->n_carry; k++) out[k] = mask[k];
    for (uint32_t k = 0; k < l->n_with; k++) out[loop_first_with(blocks) + k] = mask[loop_first_with(l) + k];
    return out;
}

static void while_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct loop l, run;
    loop_of_copy(v->copy, v->n, &l);
    run = l;
    struct schedule schedule = schedule_of(l.schedule);
    bool recompute = schedule.kind != SCHEDULE_NONE;
    /* Stacks keep a row of every trip anyway, and blocks cannot tell that a trip is one too many. */
    bool blocks = (schedule.kind == SCHEDULE_EVERY || schedule.kind == SCHEDULE_SQRT) && !l.n_stack &&
                  l.max_trips == HOP_NONE;
    bool *active = loop_body_mask(&b->arena, v->f, v->n, &l, v->active);
    if (blocks) {
        run = block_loop(b, &l, schedule.every, schedule.n_every);
        active = mask_of_blocks(&b->arena, &l, &run, active);
    }
    bool *wanted = ARENA_ZNEW(&b->arena, bool, run.body->n_results);
    for (uint32_t k = 0; k < l.body->n_results; k++)
        wanted[k] = v->result_wanted[loop_result_of(&l, k)]; /* no count of trips is wanted */
    struct reversed_step *s = NULL;
    uint32_t snapshots = 0;
    if (schedule.snapshots) s = step_reverse(b->m, &b->arena, &run, active, wanted, false, true);
    if (s && step_needs_snapshots(b->m, s)) snapshots = schedule.snapshots;
    else s = step_reverse(b->m, &b->arena, &run, active, wanted, true, recompute);
    if (snapshots) run.count = true;
    else if (!l.n_stack && !few_trips(b, &run))
        run.tape = true; /* the pullback skips the rows of lanes that did not run */
    step_emit_forward(b, s, &run, snapshots, v->n);
    for (uint32_t k = 0; k < l.n_carry; k++) {
        v->results[k] = s->made.last + k;
        v->result_active[k] = s->active[k];
    }
    if (l.counts) {
        val counted = s->made.last + l.n_carry + BLOCKED_TRIPS;
        v->results[loop_trips_result(&l)] = blocks ? counted : s->made.trips;
        v->result_active[loop_trips_result(&l)] = false;
    }
    for (uint32_t k = 0; k < l.n_stack; k++) {
        v->results[loop_stack_result(&l, k)] = s->made.stacks + k;
        v->result_active[loop_stack_result(&l, k)] = s->result_active[l.n_carry + k];
    }
    v->saved = s;
}

static void while_vjp(struct vjp *v) { step_vjp(v, v->saved, false); }

/* ---- lanes ---- */

/* A loop that goes on while any lane does: carries are which lanes are alive, their trips (if asked for),
 * last values, and the loop's own. */
struct lanes_alive {
    struct masked step;
    struct region_in cond; /* over lanes, with the lanes' mask last if it has effects */
    bool cond_lanes;
    bool count;
};

static struct region_in any_alive(struct builder *around, const val_list *carry)
{
    struct new_body body;
    new_body_begin(&body, around, NULL, NULL, 0);
    type_id *types = ARENA_NEW(&body.b.arena, type_id, carry->len);
    for (uint32_t k = 0; k < carry->len; k++)
        types[k] = new_body_type(&body, builder_type(around, carry->data[k]));
    val alive = builder_param(&body.b, types[0], 0);
    for (uint32_t k = 1; k < carry->len; k++) builder_param(&body.b, types[k], 0);
    uint32_t all = 0;
    val out = emit_reduce(&body.b, OP_any, alive, &all, 1);
    return new_body_finish(&body, &out, 1, NULL, 0);
}

/* Which lanes go on with these carries? Inlines the predicate; symbols: what its symbols are in b. */
static val lanes_that_go_on(struct builder *b, const struct lanes_alive *w, const dim *symbols,
                            const val *carry, const val *own, val alive)
{
    val_list args = { 0 };
    val again;
    for (uint32_t k = 0; k < w->step.l->n_carry; k++) vec_push(&b->arena, &args, carry[k]);
    for (uint32_t k = 0; k < w->cond.n_operands; k++) vec_push(&b->arena, &args, own[k]);
    if (w->cond_lanes) vec_push(&b->arena, &args, alive);
    inline_function(b, w->cond.fn, symbols, args.data, &again);
    return alive == VAL_NONE ? again : emit2(b, OP_and, alive, again);
}

static struct region_in masked_body(const struct lanes_alive *w)
{
    struct masked_body made;
    masked_begin(&made, &w->step);
    struct builder *b = &made.body.b;
    struct arena *arena = &b->arena;
    struct module *m = b->m;
    const struct fn *cond = module_fn(m, w->cond.fn);
    dim *symbols = ARENA_NEW(arena, dim, cond->n_outer_symbols);
    for (uint32_t k = 0; k < cond->n_outer_symbols; k++)
        symbols[k] = new_body_dim(&made.body, w->cond.dims[k]);
    val alive = builder_param(b, type_intern(m, DT_BOOL, 1, &made.size), 0);
    val count = w->count ? builder_param(b, type_intern(m, DT_I64, 1, &made.size), 0) : VAL_NONE;
    masked_params(&made, &w->step);
    uint32_t n_carry = w->step.l->n_carry;
    val_list cond_own = { 0 };
    for (uint32_t k = 0; k < w->cond.n_operands; k++) {
        type_id type = type_substitute(m, value_type(cond, n_carry + k), symbols);
        vec_push(arena, &cond_own, builder_param(b, type, 0));
    }
    val_list step = { 0 };
    masked_step(&made, &w->step, alive, &step);
    const val *next = step.data + w->step.n_last;
    val_list out = { 0 };
    vec_push(arena, &out, lanes_that_go_on(b, w, symbols, next, cond_own.data, alive));
    if (w->count) vec_push(arena, &out, emit2(b, OP_add, count, emit_cast(b, alive, DT_I64)));
    for (uint32_t k = 0; k < step.len; k++) vec_push(arena, &out, step.data[k]);
    struct arena *around = &w->step.v->b->arena;
    val_list operands = { 0 };
    for (uint32_t k = 0; k < w->step.body.n_operands; k++)
        vec_push(around, &operands, w->step.body.operands[k]);
    for (uint32_t k = 0; k < w->cond.n_operands; k++) vec_push(around, &operands, w->cond.operands[k]);
    return new_body_finish(&made.body, out.data, out.len, operands.data, operands.len);
}

static void batch_masked(const struct lanes_alive *w)
{
    struct batch *v = w->step.v;
    struct builder *b = v->b;
    const struct loop *l = w->step.l;
    if (l->n_stack && l->max_trips == HOP_NONE && !l->tape)
        hop_throw(
            HOP_INVALID,
            "%swhile_loop: batched, its number of trips differs from lane to lane, so its stacked results "
            "have no common length; {max_trips = N} gives them one, with zeros behind each lane's last trip",
            place_text(b->m, v->n->place));
    const val *own = carries_over_lanes(v, l, w->step.batched);
    val lanes = v->lanes;
    if (w->cond_lanes && lanes == VAL_NONE) lanes = emit_full(b, DT_BOOL, 1, 1, &v->size);
    val_list carry = { 0 };
    vec_push(&b->arena, &carry, lanes_that_go_on(b, w, w->cond.dims, own, w->cond.operands, lanes));
    if (w->count) vec_push(&b->arena, &carry, emit_full(b, DT_I64, 0, 1, &v->size));
    masked_carries(&w->step, own, &carry);
    struct loop made = *l;
    made.carry = carry.data;
    made.n_carry = carry.len;
    made.count = false; /* each lane has its own */
    loop_set_cond(&made, b->m, any_alive(b, &carry));
    loop_set_body(&made, b->m, masked_body(w));
    struct loop_results out = loop_build(b, &made);
    val next = out.last + 1; /* behind which lanes are alive */
    if (w->count) v->results[loop_trips_result(l)] = next++;
    masked_results(&w->step, next, out.stacks);
}

static void while_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct loop l;
    loop_of_copy(v->copy, v->n, &l);
    struct loop_positions at = loop_positions(v->f, v->n);
    const struct fn *cond = l.cond, *body = l.body;
    bool *batched = loop_body_mask(&b->arena, v->f, v->n, &l, v->batched);
    bool *cond_batched = ARENA_NEW(&b->arena, bool, cond->n_params);
    bool *stack_batched = ARENA_ZNEW(&b->arena, bool, l.n_stack), differs;
    bool cond_lanes = v->lanes != VAL_NONE && cond->effects;
    bool body_lanes = v->lanes != VAL_NONE && body->effects;
    uint32_t body_fn = step_batch(v, body->id, l.n_carry, batched, body_lanes, stack_batched);
    for (uint32_t k = 0; k < l.n_carry; k++) cond_batched[k] = batched[k];
    for (uint32_t k = 0; k < l.n_cond_with; k++) cond_batched[l.n_carry + k] = v->batched[at.cond_with + k];
    uint32_t cond_fn = step_batch(v, cond->id, 0, cond_batched, cond_lanes, &differs);
    if (!differs) {
        struct region_in test = region_over_lanes(v, loop_cond(&l), cond_fn, cond_lanes);
        struct region_in step = region_over_lanes(v, loop_body(&l), body_fn, body_lanes);
        loop_batch_plain(v, &l, batched, stack_batched, step, &test);
        return;
    }
    struct masked step_masked = { .v = v, .l = &l, .batched = batched, .body_lanes = body->effects };
    masked_keep_last(&step_masked);
    bool *force = ARENA_NEW(&b->arena, bool, body->n_results);
    bool *found = ARENA_NEW(&b->arena, bool, body->n_results);
    for (uint32_t k = 0; k < body->n_results; k++) force[k] = k >= l.n_carry || batched[k];
    body_fn = body_over_lanes(v, body->id, batched, force, body->effects, found);
    cond_fn = step_batch(v, cond->id, 0, cond_batched, cond->effects, &differs);
    step_masked.body = region_over_lanes(v, loop_body(&l), body_fn, false);
    struct lanes_alive w = { .step = step_masked,
                             .cond = region_over_lanes(v, loop_cond(&l), cond_fn, false),
                             .cond_lanes = cond->effects,
                             .count = l.counts };
    batch_masked(&w);
}

/* ---- simplification ---- */

/* Only where the number of rows is that of trips: zeros fill the others. Simplification comes after batching,
 * which gives each lane its own rows. */
static bool while_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    struct loop l;
    HOP_UNUSED(options);
    loop_of_node(c->b->m, c->f, n, &l);
    if (!l.n_stack || has_all_rows(&l)) return false;
    loop_of_copy(c, n, &l);
    return loop_drop_full_stacks(c, &l, results);
}

static const struct op_sample while_samples[] = {
    { "hop 1\n"
      "fn @sample(%x: f64[2], %w: f64[2], %n: i64[]) -> (f64[2]) {\n"
      "  %k, %y = while_loop {schedule = binomial, snapshots = 2} carry(%i = %n, %c = %x) cond {\n"
      "    %zero = full {value = 0, dims = [], dtype = i64}\n"
      "    %t = gt(%i, %zero)\n"
      "    test(%t)\n"
      "  } body with(%v = %w) {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n"
      "    %j = sub(%i, %one)\n"
      "    %m = mul(%c, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%j, %d)\n"
      "  }\n"
      "  return %y\n"
      "}\n",
      "n = 0..5" },
    { "hop 1\n"
      "fn @sample(%x: f64[], %w: f64[], %n: i64[]) -> (f64[], i64[]) {\n"
      "  %k, %y, %t = while_loop {count, schedule = sqrt} carry(%i = %n, %c = %x) cond {\n"
      "    %zero = full {value = 0, dims = [], dtype = i64}\n"
      "    %g = gt(%i, %zero)\n"
      "    test(%g)\n"
      "  } body with(%v = %w) {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n"
      "    %j = sub(%i, %one)\n"
      "    %m = mul(%c, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%j, %d)\n"
      "  }\n"
      "  return %y, %t\n"
      "}\n",
      "n = 0..7" },
    { "hop 1\n"
      "fn @sample(%x: f64[3], %w: f64[3], %n: i64[]) -> (i64[], f64[3]) {\n"
      "  %k, %y = while_loop carry(%i = %n, %c = %x) cond {\n"
      "    %zero = full {value = 0, dims = [], dtype = i64}\n"
      "    %t = gt(%i, %zero)\n"
      "    test(%t)\n"
      "  } body with(%v = %w) {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n"
      "    %j = sub(%i, %one)\n"
      "    %m = mul(%c, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%j, %d)\n"
      "  }\n"
      "  return %k, %y\n"
      "}\n",
      "n = 0..4" },
    { "hop 1\n"
      "fn @sample(%x: f64[], %w: f64[], %n: i64[]) -> (f64[], i64[]) {\n"
      "  %k, %y, %t = while_loop {count, every = [2]} carry(%i = %n, %c = %x) cond {\n"
      "    %zero = full {value = 0, dims = [], dtype = i64}\n"
      "    %g = gt(%i, %zero)\n"
      "    test(%g)\n"
      "  } body with(%v = %w) {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n"
      "    %j = sub(%i, %one)\n"
      "    %m = mul(%c, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%j, %d)\n"
      "  }\n"
      "  return %y, %t\n"
      "}\n",
      "n = 0..5" },
    { "hop 1\n"
      "fn @sample(%x: f64[]) -> (f64[], i64[], f64[6]) {\n"
      "  %y, %t, %ys = while_loop {max_trips = 6} carry(%c = %x) cond {\n"
      "    %one = full {value = 1, dims = [], dtype = f64}\n"
      "    %g = lt(%c, %one)\n"
      "    test(%g)\n"
      "  } body {\n"
      "    %step = full {value = 0.5, dims = [], dtype = f64}\n"
      "    %d = add(%c, %step)\n"
      "    %s = sin(%d)\n"
      "    next(%d) stack(%s)\n"
      "  }\n"
      "  return %y, %t, %ys\n"
      "}\n",
      "x = -1.9..0.9" },
};

static const struct attr_spec while_attrs[] = {
    [WHILE_MAX_TRIPS] = { "max_trips", ATTR_DIM, false, NULL },
    [WHILE_COUNT] = { "count", ATTR_FLAG, false, NULL },
    SCHEDULE_ATTRS(WHILE_SCHEDULE),
    [WHILE_TAPE] = { "tape", ATTR_FLAG, false, NULL }, /* made by gradients: a row a trip, whatever max_trips
                                                          says, and rows are read only where they ran */
};

static const struct loop_row while_parts = {
    .kind = LOOP_WHILE,
    .group = { .carry = 1 },
    .region = { .body = 1 + REGION_BODY, .cond = 1 + REGION_COND },
    .attr = { .max_trips = 1 + WHILE_MAX_TRIPS,
              .count = 1 + WHILE_COUNT,
              .tape = 1 + WHILE_TAPE,
              .schedule = 1 + WHILE_SCHEDULE },
};

const struct op_row row_while_loop = {
    .name = "while_loop",
    .meaning = "a body repeated on carries while a predicate of them holds; further results are stacked, one "
               "row a trip",
    .sig = { .n_attrs = HOP_COUNT(while_attrs),
             .attrs = while_attrs,
             .n_groups = 1,
             .groups = { { "carry", GROUP_CARRY } },
             .min_regions = 2,
             .max_regions = 2,
             .regions = { { .word = "cond", .feeds = 1, .results = { "test" } },
                          { .word = "body", .feeds = 1, .results = { "next", "stack" } } } },
    .check_attr = WHILE_MAX_TRIPS + 1,
    .flags = OPF_HIGHER,
    .autocast = AUTOCAST_KEEP,
    .infer = while_infer,
    .eval = while_eval,
    .vjp = while_vjp,
    .vjp_forward = while_vjp_forward,
    .jvp = loop_jvp,
    .batch = while_batch,
    .rewrite = while_rewrite,
    HOP_SAMPLES(while_samples),
    .lower = &while_lower,
    .loop = &while_parts,
    .count = while_count,
};
