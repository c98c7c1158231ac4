/* How loops are compiled: scan, map, fori_loop and while_loop as native loops in the same function. Scalar
 * carries are locals, others live in one buffer that the body updates in place where its reads allow; slices
 * of xs are offsets, stacked results are stores at an offset. */
#include "hops/lower_hops.h"
#include "ir/loop.h"
#include "ops/build.h"
#include "transform/cost.h"

struct carry {
    type_id type;
    bool scalar;
    uint32_t local;     /* scalar: the value; in a ring: where the array lies */
    struct array array; /* else */
    /* in a ring */
    bool turns;
    uint32_t next;  /* the carry that it is in the next step, HOP_NONE: made anew … */
    uint32_t spare; /* … where this local says */
};

enum {
    SMALL_CARRY = 512,  /* elements up to which a carry is kept apart from the result's memory, so that it can
                          live in registers */
    TURNED_LEAST = 2048 /* elements of carries that change places in memory */
};

/* The parameter that carry i begins with and may live in. Nothing else in the loop may read it. */
static uint32_t carried_param(struct lower *L, const struct fn *f, const struct node *n, uint32_t i)
{
    uint32_t over = lower_may_overwrite(L, n, i);
    if (over == HOP_NONE || node_operands(f, n)[i] != over) return HOP_NONE;
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (k != i && lower_reads(L, node_operands(f, n)[k], over)) return HOP_NONE;
    return over;
}

/* Does result k of a body write to a computed position of an array, itself or in a loop inside, or is it an
 * array that a node changes in memory? Such an array is not for registers. */
static bool written_at_index(struct module *m, const struct fn *body, uint32_t k)
{
    uint32_t made = body->values[body->results[k]].node;
    if (made == NODE_NONE) return false;
    const struct node *n = fn_node(body, made);
    uint32_t at = body->results[k] - n->results;
    const struct op_lower *row = node_row(n)->lower;
    bool changed = row && row->changes && row->changes(m, body, n, at) != HOP_NONE;
    if (changed || n->op == OP_dynamic_update) return true;
    struct loop l;
    return loop_of_node(m, body, n, &l) && at < l.n_carry && written_at_index(m, l.body, at);
}

/* ---- rings ---- */

/* Arrays whose next values cannot be made over the old ones, as in a stencil, or are those of other carries,
 * as in a history of steps, are not copied. All of one type lie in one ring of memory, beside room for those
 * that a step makes anew: what changes from step to step is where each of them is. */

static bool is_small(struct module *m, const struct fn *body, const struct carry *c, uint32_t i)
{
    dim count = type_elements(m, c->type);
    return dim_is_const(m, count) && dim_const_value(m, count) <= SMALL_CARRY &&
           !written_at_index(m, body, i);
}

/* The carry that carry i is in the next step; itself, or HOP_NONE, it is computed. */
static uint32_t next_carry(const struct loop *l, uint32_t i)
{
    val v = l->body->results[i];
    return v < l->n_carry && value_type(l->body, v) == value_type(l->body, i) ? v : HOP_NONE;
}

/* Is the next value of carry i made as a whole? A part of it that is changed is changed where it is. */
static bool is_made_anew(const struct loop *l, uint32_t i)
{
    uint32_t made = l->body->values[l->body->results[i]].node;
    if (made == NODE_NONE) return false;
    const struct node *n = fn_node(l->body, made);
    const struct op_lower *row = node_row(n)->lower;
    return row && !row->part && !n->n_regions;
}

/* Is it worth having two places, of which the loop knows which is which? Less is moved in no time. */
static bool is_worth_turns(struct module *m, const struct carry *c)
{
    dim count = type_elements(m, c->type);
    return !c->scalar && (!dim_is_const(m, count) || dim_const_value(m, count) >= TURNED_LEAST);
}

static void sink_carries(const struct carry *carries, uint32_t n_carry, struct sink *sinks);

/* Those whose next values are computed and would have to be moved. */
static void find_moved(struct lower *L, const struct fn *f, const struct loop *l, struct carry *carries)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, l->body->n_results);
    bool any = false;
    for (uint32_t i = 0; i < l->n_carry; i++) any |= is_worth_turns(m, &carries[i]) && is_made_anew(l, i);
    if (!any) return;
    sink_carries(carries, l->n_carry, sinks);
    for (uint32_t k = 0; k < l->n_stack; k++)
        sinks[l->n_carry + k] = (struct sink){ .unused = !lower_result_used(L, l->n, loop_stack_result(l, k)),
                                               .scalar = false,
                                               .overwrites = HOP_NONE };
    lower_find_moved(L, f, l->n, l->body_region, sinks);
    for (uint32_t i = 0; i < l->n_carry; i++)
        carries[i].turns = sinks[i].moved && is_made_anew(l, i) && is_worth_turns(m, &carries[i]);
}

/* Those that are others in the next step, and those others. */
static void find_turned(struct module *m, const struct loop *l, struct carry *carries)
{
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t i = 0; i < l->n_carry; i++) {
            uint32_t next = next_carry(l, i);
            bool may = !carries[i].turns && is_worth_turns(m, &carries[i]);
            if (!may || next == HOP_NONE || next == i || !is_worth_turns(m, &carries[next])) continue;
            uint32_t after = next_carry(l, next);
            bool leaves = is_made_anew(l, next) || (after != HOP_NONE && after != next);
            if (!leaves) continue;
            carries[i].turns = carries[next].turns = more = true;
        }
    }
}

/* Every array is the next value of one carry; for others it is copied. */
static void take_turns(const struct loop *l, struct carry *carries)
{
    for (uint32_t i = 0; i < l->n_carry; i++) {
        carries[i].next = carries[i].turns ? next_carry(l, i) : HOP_NONE;
        if (carries[i].next != HOP_NONE && !carries[carries[i].next].turns) carries[i].next = HOP_NONE;
        for (uint32_t k = 0; k < i && carries[i].next != HOP_NONE; k++)
            if (carries[k].next == carries[i].next) carries[i].next = HOP_NONE;
    }
}

static uint32_t place_local(struct lower *L, uint32_t slot, type_id type)
{
    struct lp *p = lower_lp(L);
    uint32_t local = lp_local(p, DT_I64, LOCAL_SCALAR, "place");
    lpv count = lower_dim(L, type_elements(lower_module(L), type));
    lp_set(p, local, lp_bin(p, LP_MUL, lp_index(p, slot), count));
    return local;
}

/* Memory for carry `first` and all behind it that share its ring. */
static void make_ring(struct lower *L, const struct loop *l, struct carry *carries, uint32_t first)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    type_id type = carries[first].type;
    uint32_t slots = 0;
    for (uint32_t i = first; i < l->n_carry; i++)
        if (carries[i].turns && carries[i].type == type) slots += carries[i].next == HOP_NONE ? 2 : 1;
    dim count = dim_mul(m, dim_const(m, slots), type_elements(m, type));
    enum dtype dtype = (enum dtype)type_get(m, type).dtype;
    struct array ring = lower_alloc(L, type_intern(m, dtype, 1, &count), "carries of a loop, in turns");
    for (uint32_t i = first, slot = 0; i < l->n_carry; i++) {
        struct carry *c = &carries[i];
        if (!c->turns || c->type != type) continue;
        c->local = place_local(L, slot++, type);
        c->array = (struct array){ ring.buffer, lp_read(p, c->local) };
        if (c->next == HOP_NONE) c->spare = place_local(L, slot++, type);
    }
}

static void make_rings(struct lower *L, const struct fn *f, const struct loop *l, struct carry *carries)
{
    struct module *m = lower_module(L);
    if (!lower_in_place(L)) return;
    find_moved(L, f, l, carries);
    find_turned(m, l, carries);
    take_turns(l, carries);
    for (uint32_t i = 0; i < l->n_carry; i++) {
        bool made = !carries[i].turns;
        for (uint32_t k = 0; k < i; k++) made |= carries[k].turns && carries[k].type == carries[i].type;
        if (!made) make_ring(L, l, carries, i);
    }
}

/* ---- carries ---- */

static struct carry *begin_carries(struct lower *L, const struct fn *f, const struct loop *l)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    struct carry *carries = ARENA_ZNEW(&p->arena, struct carry, l->n_carry);
    for (uint32_t i = 0; i < l->n_carry; i++) {
        carries[i].type = value_type(f, l->n->results + i);
        bool single = lower_is_single(L, carries[i].type) && !written_at_index(m, l->body, i);
        carries[i].scalar = single || !type_get(m, carries[i].type).rank;
    }
    make_rings(L, f, l, carries);
    for (uint32_t i = 0; i < l->n_carry; i++) {
        struct carry *c = &carries[i];
        val init = l->carry[i];
        if (c->scalar) {
            c->local = lp_local(p, dtype_stored((enum dtype)type_get(m, c->type).dtype), LOCAL_SCALAR,
                                "carry");
            lp_set(p, c->local, lower_scalar(L, init));
            continue;
        }
        bool small = is_small(m, l->body, c, i);
        uint32_t over = small || c->turns ? HOP_NONE : carried_param(L, f, l->n, i);
        if (small) c->array = lower_alloc(L, c->type, "carry of a loop");
        else if (!c->turns)
            c->array = over != HOP_NONE ? lower_overwrite(L, l->n, i) : lower_result(L, l->n, i);
        if (over != init) lower_fill(L, init, c->array);
    }
    return carries;
}

/* As they are when a step, or its predicate, begins. */
static void feed_carries(struct lower *L, struct carry *carries, uint32_t n_carry, struct feed *feeds)
{
    struct lp *p = lower_lp(L);
    for (uint32_t i = 0; i < n_carry; i++) {
        struct carry *c = &carries[i];
        if (c->turns) c->array.at = lp_read(p, c->local);
        if (c->scalar) feeds[i] = (struct feed){ .kind = FEED_SCALAR, .scalar = lp_read(p, c->local) };
        else feeds[i] = (struct feed){ .kind = FEED_ARRAY, .array = c->array };
    }
}

/* lead: the row of each that is meant; LPV_NONE: all of it. */
static void feed_values(const val *values, uint32_t n, lpv lead, struct feed *feeds)
{
    for (uint32_t i = 0; i < n; i++)
        feeds[i] = (struct feed){ .kind = FEED_VALUE, .value = values[i], .lead = lead };
}

static void sink_carries(const struct carry *carries, uint32_t n_carry, struct sink *sinks)
{
    for (uint32_t i = 0; i < n_carry; i++)
        sinks[i] = (struct sink){ .scalar = carries[i].scalar,
                                  .array = carries[i].array,
                                  .overwrites = carries[i].scalar ? HOP_NONE : i,
                                  .instead = { HOP_NONE, LPV_NONE } };
}

/* The next values of those in rings have memory of their own, or nothing is to be done for them. */
static void sink_turning(struct lower *L, const struct carry *carries, uint32_t n_carry, struct sink *sinks)
{
    for (uint32_t i = 0; i < n_carry; i++) {
        const struct carry *c = &carries[i];
        if (!c->turns) continue;
        sinks[i].overwrites = HOP_NONE;
        sinks[i].unused = c->next != HOP_NONE;
        if (!sinks[i].unused) sinks[i].array.at = lp_read(lower_lp(L), c->spare);
    }
}

/* The carry whose array is nobody's next value, found from one that is made anew: its own, or that of whoever
 * takes it, and so on. */
static uint32_t left_behind(const struct carry *carries, uint32_t n_carry, uint32_t i)
{
    uint32_t k = 0;
    while (k < n_carry && !(carries[k].turns && carries[k].next == i)) k++;
    return k < n_carry ? left_behind(carries, n_carry, k) : i;
}

/* Where the arrays are when the step is done. What was left behind is the room of those made anew. */
static void turn(struct lower *L, const struct carry *carries, uint32_t n_carry, const struct sink *sinks)
{
    struct lp *p = lower_lp(L);
    for (uint32_t i = 0; i < n_carry; i++) {
        const struct carry *c = &carries[i];
        if (!c->turns) continue;
        if (c->next != HOP_NONE) {
            lp_set(p, c->local, carries[c->next].array.at);
            continue;
        }
        lp_set(p, c->local, sinks[i].array.at);
        lp_set(p, c->spare, carries[left_behind(carries, n_carry, i)].array.at);
    }
}

/* All next values are known before any carry changes. */
static void advance_carries(struct lower *L, const struct carry *carries, uint32_t n_carry,
                            const struct sink *sinks)
{
    turn(L, carries, n_carry, sinks);
    for (uint32_t i = 0; i < n_carry; i++) {
        if (carries[i].scalar) lp_set(lower_lp(L), carries[i].local, sinks[i].value);
        else if (sinks[i].moved)
            lower_copy(L, carries[i].type, sinks[i].instead, carries[i].array,
                       "a carry whose old value is still read while the new one is made");
    }
}

static void end_scalar(struct lower *L, const struct node *n, uint32_t i, const struct carry *c)
{
    struct lp *p = lower_lp(L);
    lpv last = lp_read(p, c->local);
    if (!type_get(lower_module(L), c->type).rank) {
        lower_set_scalar(L, n, i, last);
        return;
    }
    struct array a = lower_result(L, n, i);
    lp_store(p, a.buffer, a.at, last);
    lower_set_result(L, n, i, a);
}

static void end_carries(struct lower *L, const struct node *n, const struct carry *carries, uint32_t n_carry)
{
    struct lp *p = lower_lp(L);
    for (uint32_t i = 0; i < n_carry; i++) {
        const struct carry *c = &carries[i];
        if (c->scalar) end_scalar(L, n, i, c);
        else if (!c->turns) lower_set_result(L, n, i, c->array);
        else if (lower_result_used(L, n, i)) {
            struct array last = { c->array.buffer, lp_read(p, c->local) };
            lower_copy(L, c->type, last, lower_result(L, n, i), "the last value of carries in turns");
        }
    }
}

/* Row `row` of a stack as a place for a body's result. */
static struct sink stack_sink(struct lower *L, struct array stack, lpv row, type_id stack_type)
{
    return (
        struct sink){ .array = { stack.buffer, lower_offset(L, stack, row,
                                                            type_drop_leading(lower_module(L), stack_type)) },
                      .overwrites = HOP_NONE,
                      .instead = { HOP_NONE, LPV_NONE } };
}

static const struct array no_array = { HOP_NONE, LPV_NONE };

/* Rows of the body's stacks; those that nobody reads are not written. */
static void sink_stacks(struct lower *L, const struct fn *f, const struct loop *l, const struct array *stacks,
                        lpv row, struct sink *sinks)
{
    for (uint32_t k = 0; k < l->n_stack; k++) {
        type_id type = value_type(f, l->n->results + loop_stack_result(l, k));
        struct sink *sink = &sinks[l->n_carry + k];
        if (stacks[k].buffer != HOP_NONE) *sink = stack_sink(L, stacks[k], row, type);
        else *sink = (struct sink){ .unused = true, .overwrites = HOP_NONE };
    }
}

/* Carries and what is gone over are read once, by the first step or one step each. */
static uint8_t loop_use(const struct fn *f, const struct node *n, uint32_t i)
{
    struct loop_positions at = loop_positions(f, n);
    bool bound = node_loop_kind(n) == LOOP_COUNTED && (i == at.from || i == at.to);
    return i < HOP_MIN(at.with, at.cond_with) && !bound ? USE_ONCE : USE_MANY;
}

/* ---- scan, map, fori_loop ---- */

/* The number of trips of a loop that stacks; a difference that does not fit is negative here. */
static lpv row_count(struct lower *L, const struct node *n, lpv from, lpv to)
{
    struct lp *p = lower_lp(L);
    lpv rows = lp_bin(p, LP_SUB, lp_bin(p, LP_MAX, to, from), from);
    lpv fits = lp_bin(p, LP_AND, lp_bin(p, LP_GE, rows, lp_index(p, 0)),
                      lp_bin(p, LP_LE, rows, lp_index(p, (int64_t)1 << FORI_ROWS_BITS)));
    struct lp_operand *shown = ARENA_ZNEW(&p->arena, struct lp_operand, 1);
    *shown = (struct lp_operand){ .buffer = HOP_NONE, .value = rows, .index = LPV_NONE };
    lp_add_call(p, (struct lp_call){
                       .kind = CALL_CHECK,
                       .value = fits,
                       .place = n->place,
                       .n_operands = 1,
                       .operands = shown,
                       .text = module_string(lower_module(L), FORI_ROWS_MESSAGE, strlen(FORI_ROWS_MESSAGE)),
                       .mask = LPV_NONE });
    return rows;
}

/* Does the loop run its trips on threads? Those of a map, or of a scan without carries, do not know each
 * other; they must be worth it together. A few large ones go one after the other: their products and nests
 * use the threads better. */
enum {
    FEW_TRIPS = 8,
    LARGE_NODE = 1 << 25, /* operations of one node that threads share well */
    UNKNOWN_TRIPS = 4096
};

static bool has_large_node(struct module *m, const struct fn *body)
{
    for (uint32_t i = 0; i < body->n_nodes; i++) {
        const struct node *n = fn_node(body, i);
        if (!n->n_regions && node_cost(m, body, n) >= LARGE_NODE) return true;
    }
    return false;
}

static bool trips_on_threads(struct lower *L, const struct loop *l, lpv from, lpv to)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    if (l->n_carry || !lower_may_share(L, l->body->id)) return false;
    int64_t trips = UNKNOWN_TRIPS, first, end, work;
    bool known = lp_is_const(p, from, &first) && lp_is_const(p, to, &end);
    if (known && __builtin_sub_overflow(end, first, &trips)) return false;
    if (trips < 2 || (trips < FEW_TRIPS && has_large_node(m, l->body))) return false;
    if (__builtin_mul_overflow(trips, run_cost(m, l->body->id), &work)) work = INT64_MAX;
    return lower_worth_threads(L, (uint64_t)work, known || lower_may_ask(L)); /* the run decides */
}

/* Every trip has memory of its own to put its rows in. */
static bool have_places(struct lower *L, const struct array *stacks, uint32_t n)
{
    const struct lp *p = lower_lp(L);
    for (uint32_t k = 0; k < n; k++) {
        if (stacks[k].buffer == HOP_NONE) continue;
        const struct lp_buffer *b = &p->buffers.data[stacks[k].buffer];
        if (b->kind == BUF_DYN || b->offloaded) return false;
    }
    return true;
}

static void steps_block(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    struct loop l;
    loop_of_node(m, f, n, &l);
    bool counted = l.kind == LOOP_COUNTED;
    lpv from = counted ? lower_scalar(L, l.from) : lp_index(p, 0);
    lpv to = counted ? lower_scalar(L, l.to) : lower_dim(L, l.length);
    lpv one = lp_index(p, 1);
    uint32_t symbol;
    if (counted && l.n_stack) {
        type_id first = value_type(f, n->results + loop_stack_result(&l, 0));
        if (dim_is_symbol(m, type_get(m, first).dims[0], &symbol))
            lower_bind_symbol(L, symbol, row_count(L, n, from, to));
    }
    struct carry *carries = begin_carries(L, f, &l);
    struct array *stacks = ARENA_NEW(&p->arena, struct array, l.n_stack);
    for (uint32_t k = 0; k < l.n_stack; k++) {
        uint32_t result = loop_stack_result(&l, k);
        stacks[k] = lower_result_used(L, n, result) ? lower_result(L, n, result) : no_array;
    }
    struct feed *feeds = ARENA_NEW(&p->arena, struct feed, l.body->n_params);
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, l.body->n_results);

    bool threads = trips_on_threads(L, &l, from, to) && have_places(L, stacks, l.n_stack);

    lower_pack_shared(L, &l, from, to);
    lower_mark_trips(L, from, to);
    (threads ? lower_region_enter : lower_loop_enter)(L);
    lpv index = lp_for_begin(p, from, to, one, threads ? FOR_PARALLEL : FOR_SERIAL), row = index;
    if (counted) row = lp_bin(p, LP_SUB, index, from);
    if (l.reverse) row = lp_bin(p, LP_SUB, lp_bin(p, LP_SUB, to, one), index);
    feed_carries(L, carries, l.n_carry, feeds);
    if (counted) feeds[l.n_carry] = (struct feed){ .kind = FEED_SCALAR, .scalar = index };
    else feed_values(l.over, l.n_over, row, feeds + l.n_carry);
    feed_values(l.with, l.n_with, LPV_NONE, feeds + loop_first_with(&l));
    sink_carries(carries, l.n_carry, sinks);
    sink_turning(L, carries, l.n_carry, sinks);
    sink_stacks(L, f, &l, stacks, row, sinks);
    lower_body(L, f, n, l.body_region, feeds, sinks);
    advance_carries(L, carries, l.n_carry, sinks);
    struct lp_stmt *loop = lp_for_end(p);
    loop->poll = true;
    loop->note = lower_loop_note(L, f, n, l.body_region);
    (threads ? lower_region_leave : lower_loop_leave)(L);
    end_carries(L, n, carries, l.n_carry);
}

const struct op_lower steps_lower = { .kind = LOWER_BLOCK, .block = steps_block, .operand_use = loop_use };

/* ---- while_loop ---- */

enum { FIRST_CAPACITY = 16 };

/* Stacks of a loop whose trip count is not known: room for one more row, doubling. */
static void grow_stacks(struct lower *L, const struct fn *f, const struct loop *l, const struct array *stacks,
                        lpv trips, uint32_t capacity)
{
    struct lp *p = lower_lp(L);
    lp_if_begin(p, lp_bin(p, LP_GE, trips, lp_read(p, capacity)));
    lpv grown = lp_bin(p, LP_MAX, lp_bin(p, LP_MUL, trips, lp_index(p, 2)), lp_index(p, FIRST_CAPACITY));
    lp_set(p, capacity, grown);
    for (uint32_t i = 0; i < l->n_stack; i++) {
        if (stacks[i].buffer == HOP_NONE) continue;
        type_id stack = value_type(f, l->n->results + loop_stack_result(l, i));
        type_id row = type_drop_leading(lower_module(L), stack);
        lp_add_call(p, (struct lp_call){ .kind = CALL_RESERVE,
                                         .target = stacks[i].buffer,
                                         .index = lower_offset(L, stacks[i], grown, row) });
    }
    lp_if_else(p);
    lp_if_end(p);
}

static void check_trips(struct lower *L, const struct node *n, lpv trips, lpv limit)
{
    struct lp *p = lower_lp(L);
    struct lp_operand *shown = ARENA_ZNEW(&p->arena, struct lp_operand, 1);
    *shown = (struct lp_operand){ .buffer = HOP_NONE, .value = limit, .index = LPV_NONE };
    lp_add_call(p, (struct lp_call){ .kind = CALL_CHECK,
                                     .value = lp_bin(p, LP_LT, trips, limit),
                                     .place = n->place,
                                     .n_operands = 1,
                                     .operands = shown,
                                     .text = module_string(lower_module(L), WHILE_TRIPS_MESSAGE,
                                                           strlen(WHILE_TRIPS_MESSAGE)),
                                     .mask = LPV_NONE });
}

/* Behind the last trip a stack of static size holds zeros. */
static void pad_stack(struct lower *L, struct array stack, type_id stack_type, lpv trips)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    lpv from = lower_offset(L, stack, trips, type_drop_leading(m, stack_type));
    lpv end = lp_bin(p, LP_ADD, stack.at, lower_dim(L, type_elements(m, stack_type)));
    lp_add_call(p, (struct lp_call){ .kind = CALL_ZERO,
                                     .target = stack.buffer,
                                     .lo = from,
                                     .count = lp_bin(p, LP_SUB, end, from) });
}

static void while_block(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    struct loop l;
    loop_of_node(m, f, n, &l);
    bool limited = l.max_trips != HOP_NONE, all_rows = limited && !l.tape;
    struct carry *carries = begin_carries(L, f, &l);
    uint32_t count = lp_local(p, DT_I64, LOCAL_SCALAR, "trips");
    uint32_t capacity = lp_local(p, DT_I64, LOCAL_SCALAR, "capacity");
    struct array *stacks = ARENA_NEW(&p->arena, struct array, l.n_stack);
    for (uint32_t i = 0; i < l.n_stack; i++) {
        uint32_t result = loop_stack_result(&l, i);
        if (!lower_result_used(L, n, result)) stacks[i] = no_array;
        else stacks[i] = all_rows ? lower_result(L, n, result) : lower_growing(L, n, result);
    }
    lp_set(p, count, lp_index(p, 0));
    lp_set(p, capacity, lp_index(p, 0));
    struct feed *feeds = ARENA_NEW(&p->arena, struct feed, HOP_MAX(l.cond->n_params, l.body->n_params));
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, l.body->n_results);

    lower_pack_shared(L, &l, LPV_NONE, LPV_NONE);
    lower_loop_enter(L);
    lp_while_begin(p);
    feed_carries(L, carries, l.n_carry, feeds);
    feed_values(l.cond_with, l.n_cond_with, LPV_NONE, feeds + l.n_carry);
    struct sink test = { .scalar = true, .overwrites = HOP_NONE, .instead = { HOP_NONE, LPV_NONE } };
    lower_body(L, f, n, l.cond_region, feeds, &test);
    lp_while_body(p, test.value);
    lower_mark_trip(L);
    lpv trip = l.counts || limited ? lp_read(p, count) : LPV_NONE;
    if (limited) check_trips(L, n, trip, lower_dim(L, l.max_trips));
    if (l.n_stack && !all_rows) grow_stacks(L, f, &l, stacks, trip, capacity);
    feed_carries(L, carries, l.n_carry, feeds);
    feed_values(l.with, l.n_with, LPV_NONE, feeds + loop_first_with(&l));
    sink_carries(carries, l.n_carry, sinks);
    sink_turning(L, carries, l.n_carry, sinks);
    sink_stacks(L, f, &l, stacks, trip, sinks);
    lower_body(L, f, n, l.body_region, feeds, sinks);
    advance_carries(L, carries, l.n_carry, sinks);
    if (trip != LPV_NONE) lp_set(p, count, lp_bin(p, LP_ADD, trip, lp_index(p, 1)));
    lp_while_end(p)->note = lower_loop_note(L, f, n, l.body_region);
    lower_loop_leave(L);
    end_carries(L, n, carries, l.n_carry);
    if (!l.counts) return;
    lpv trips = lp_read(p, count);
    lower_set_scalar(L, n, loop_trips_result(&l), trips);
    for (uint32_t i = 0; i < l.n_stack; i++) {
        type_id t = value_type(f, n->results + loop_stack_result(&l, i));
        uint32_t symbol;
        if (!all_rows && dim_is_symbol(m, type_get(m, t).dims[0], &symbol))
            lower_bind_symbol(L, symbol, trips);
        if (all_rows && stacks[i].buffer != HOP_NONE) pad_stack(L, stacks[i], t, trips);
    }
}

const struct op_lower while_lower = { .kind = LOWER_BLOCK, .block = while_block, .operand_use = loop_use };
