/* How loops are compiled: scan, map, fori_loop and while_loop as native loops in the same function. Scalar
 * carries are locals, others live in one buffer that the body updates in place where its reads allow; slices
 * of xs are offsets, stacked results are stores at an offset. */
#include "hops/lower_hops.h"
#include "ops/build.h"

struct carry {
    type_id type;
    bool scalar;
    uint32_t local;     /* scalar */
    struct array array; /* else */
};

enum {
    SMALL_CARRY = 512 /* elements up to which a carry is kept apart from the result's memory, so that it can
                         live in registers */
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

/* Does result k of a body write to a computed position of an array, itself or in a loop inside? Such an array
 * is not for registers. */
static bool written_at_index(const struct module *m, const struct fn *body, uint32_t k)
{
    uint32_t made = body->values[body->results[k]].node;
    if (made == NODE_NONE) return false;
    const struct node *n = fn_node(body, made);
    uint32_t at = body->results[k] - n->results;
    if (n->op == OP_dynamic_update || n->op == OP_scatter) return true;
    bool loop = n->op == OP_while_loop || n->op == OP_fori_loop || n->op == OP_scan;
    return loop && at < node_group_size(body, n, 0) &&
           written_at_index(m, module_fn(m, node_region(body, n, n->n_regions - 1u)->fn), at);
}

static struct carry *begin_carries(struct lower *L, const struct fn *f, const struct node *n,
                                   uint32_t n_carry)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    struct carry *carries = ARENA_ZNEW(&p->arena, struct carry, n_carry);
    for (uint32_t i = 0; i < n_carry; i++) {
        struct carry *c = &carries[i];
        val init = node_operands(f, n)[i];
        c->type = value_type(f, n->results + i);
        c->scalar = !type_get(m, c->type).rank;
        if (c->scalar) {
            c->local = lp_local(p, (enum dtype)type_get(m, c->type).dtype, LOCAL_SCALAR, "carry");
            lp_set(p, c->local, lower_scalar(L, init));
            continue;
        }
        dim count = type_elements(m, c->type);
        bool small = dim_is_const(m, count) && dim_const_value(m, count) <= SMALL_CARRY &&
                     !written_at_index(m, module_fn(m, node_region(f, n, n->n_regions - 1u)->fn), i);
        uint32_t over = small ? HOP_NONE : carried_param(L, f, n, i);
        if (small) c->array = lower_alloc(L, c->type, "carry of a loop");
        else c->array = over != HOP_NONE ? lower_overwrite(L, n, i) : lower_result(L, n, i);
        if (over != init) lower_fill(L, init, c->array);
    }
    return carries;
}

static void feed_carries(struct lower *L, const struct carry *carries, uint32_t n_carry, struct feed *feeds)
{
    for (uint32_t i = 0; i < n_carry; i++)
        feeds[i] = carries[i].scalar ? (struct feed){ .kind = FEED_SCALAR,
                                                      .scalar = lp_read(lower_lp(L), carries[i].local) }
                                     : (struct feed){ .kind = FEED_ARRAY, .array = carries[i].array };
}

static uint32_t feed_values(const struct fn *f, const struct node *n, uint32_t r, struct feed *feeds)
{
    uint32_t count = node_region(f, n, r)->n_operands;
    for (uint32_t i = 0; i < count; i++)
        feeds[i] = (struct feed){ .kind = FEED_VALUE,
                                  .value = node_region_operands(f, n, r)[i],
                                  .lead = LPV_NONE };
    return count;
}

static void sink_carries(const struct carry *carries, uint32_t n_carry, struct sink *sinks)
{
    for (uint32_t i = 0; i < n_carry; i++)
        sinks[i] = (struct sink){ .scalar = carries[i].scalar,
                                  .array = carries[i].array,
                                  .overwrites = carries[i].scalar ? HOP_NONE : i,
                                  .instead = { HOP_NONE, LPV_NONE } };
}

/* All next values are known before any carry changes. */
static void advance_carries(struct lower *L, const struct carry *carries, uint32_t n_carry,
                            const struct sink *sinks)
{
    for (uint32_t i = 0; i < n_carry; i++) {
        if (carries[i].scalar) lp_set(lower_lp(L), carries[i].local, sinks[i].value);
        else if (sinks[i].moved)
            lower_copy(L, carries[i].type, sinks[i].instead, carries[i].array,
                       "a carry whose old value is still read while the new one is made");
    }
}

static void end_carries(struct lower *L, const struct node *n, const struct carry *carries, uint32_t n_carry)
{
    for (uint32_t i = 0; i < n_carry; i++) {
        if (carries[i].scalar) lower_set_scalar(L, n, i, lp_read(lower_lp(L), carries[i].local));
        else lower_set_result(L, n, i, carries[i].array);
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

/* ---- scan, map ---- */

/* Steps over the slices of the operands behind the carries. */
static void over_block(struct lower *L, const struct fn *f, const struct node *n, uint32_t n_carry,
                       uint32_t n_over, const struct attr *given_length, bool reverse, const char *note)
{
    struct lp *p = lower_lp(L);
    uint32_t n_stack = n->n_results - n_carry;
    const struct fn *step = module_fn(lower_module(L), node_region(f, n, 0)->fn);
    const val *over = node_operands(f, n) + n_carry;
    lpv length = lower_dim(L, given_length->kind == ATTR_DIM
                                  ? (dim)given_length->i
                                  : type_get(lower_module(L), value_type(f, over[0])).dims[0]);
    lpv zero = lp_index(p, 0), one = lp_index(p, 1);
    struct carry *carries = begin_carries(L, f, n, n_carry);
    struct array *stacks = ARENA_NEW(&p->arena, struct array, n_stack);
    for (uint32_t i = 0; i < n_stack; i++)
        if (lower_result_used(L, n, n_carry + i)) stacks[i] = lower_result(L, n, n_carry + i);
    struct feed *feeds = ARENA_NEW(&p->arena, struct feed, step->n_params);
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, step->n_results);

    lower_loop_enter(L);
    lpv t = lp_for_begin(p, zero, length, one, FOR_SERIAL);
    lpv at = !reverse ? t : lp_bin(p, LP_SUB, lp_bin(p, LP_SUB, length, one), t);
    feed_carries(L, carries, n_carry, feeds);
    for (uint32_t i = 0; i < n_over; i++)
        feeds[n_carry + i] = (struct feed){ .kind = FEED_VALUE, .value = over[i], .lead = at };
    feed_values(f, n, 0, feeds + n_carry + n_over);
    sink_carries(carries, n_carry, sinks);
    for (uint32_t i = 0; i < n_stack; i++) {
        if (lower_result_used(L, n, n_carry + i))
            sinks[n_carry + i] = stack_sink(L, stacks[i], at, value_type(f, n->results + n_carry + i));
        else sinks[n_carry + i].unused = true, sinks[n_carry + i].overwrites = HOP_NONE;
    }
    lower_body(L, f, n, 0, feeds, sinks);
    advance_carries(L, carries, n_carry, sinks);
    struct lp_stmt *loop = lp_for_end(p);
    loop->poll = true;
    loop->note = note;
    lower_loop_leave(L);
    end_carries(L, n, carries, n_carry);
}

static void scan_block(struct lower *L, const struct fn *f, const struct node *n)
{
    over_block(L, f, n, node_group_size(f, n, 0), node_group_size(f, n, 1), node_attr(f, n, SCAN_LENGTH),
               node_attr(f, n, SCAN_REVERSE)->kind != ATTR_ABSENT, "scan");
}

static uint8_t scan_use(const struct fn *f, const struct node *n, uint32_t i)
{
    return i < node_group_size(f, n, 0) + node_group_size(f, n, 1) ? USE_ONCE : USE_MANY;
}

const struct op_lower scan_lower = { .kind = LOWER_BLOCK, .block = scan_block, .operand_use = scan_use };

static void map_block(struct lower *L, const struct fn *f, const struct node *n)
{
    over_block(L, f, n, 0, node_group_size(f, n, 0), node_attr(f, n, MAP_LENGTH), false, "map");
}
static uint8_t map_use(const struct fn *f, const struct node *n, uint32_t i)
{
    return i < node_group_size(f, n, 0) ? USE_ONCE : USE_MANY;
}

const struct op_lower map_lower = { .kind = LOWER_BLOCK, .block = map_block, .operand_use = map_use };

/* ---- fori_loop ---- */

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

static void fori_block(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    uint32_t n_carry = node_group_size(f, n, 0), n_stack = n->n_results - n_carry, symbol;
    const struct fn *body = module_fn(m, node_region(f, n, 0)->fn);
    lpv from = lower_scalar(L, node_operands(f, n)[n_carry]),
        to = lower_scalar(L, node_operands(f, n)[n_carry + 1]);
    if (n_stack && dim_is_symbol(m, type_get(m, value_type(f, n->results + n_carry)).dims[0], &symbol))
        lower_bind_symbol(L, symbol, row_count(L, n, from, to));
    struct carry *carries = begin_carries(L, f, n, n_carry);
    struct array *stacks = ARENA_NEW(&p->arena, struct array, n_stack);
    for (uint32_t i = 0; i < n_stack; i++)
        if (lower_result_used(L, n, n_carry + i)) stacks[i] = lower_result(L, n, n_carry + i);
    struct feed *feeds = ARENA_NEW(&p->arena, struct feed, body->n_params);
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, body->n_results);

    lower_loop_enter(L);
    lpv index = lp_for_begin(p, from, to, lp_index(p, 1), FOR_SERIAL), row = lp_bin(p, LP_SUB, index, from);
    feed_carries(L, carries, n_carry, feeds);
    feeds[n_carry] = (struct feed){ .kind = FEED_SCALAR, .scalar = index };
    feed_values(f, n, 0, feeds + n_carry + 1);
    sink_carries(carries, n_carry, sinks);
    for (uint32_t i = 0; i < n_stack; i++) {
        if (lower_result_used(L, n, n_carry + i))
            sinks[n_carry + i] = stack_sink(L, stacks[i], row, value_type(f, n->results + n_carry + i));
        else sinks[n_carry + i].unused = true, sinks[n_carry + i].overwrites = HOP_NONE;
    }
    lower_body(L, f, n, 0, feeds, sinks);
    advance_carries(L, carries, n_carry, sinks);
    struct lp_stmt *loop = lp_for_end(p);
    loop->poll = true;
    loop->note = "fori_loop";
    lower_loop_leave(L);
    end_carries(L, n, carries, n_carry);
}

static uint8_t fori_use(const struct fn *f, const struct node *n, uint32_t i)
{
    return i < node_group_size(f, n, 0) ? USE_ONCE : USE_MANY;
}

const struct op_lower fori_lower = { .kind = LOWER_BLOCK, .block = fori_block, .operand_use = fori_use };

/* ---- while_loop ---- */

enum { REGION_COND, REGION_BODY, FIRST_CAPACITY = 16 };

/* Stacks of a loop whose trip count is not known: room for one more row, doubling. */
static void grow_stacks(struct lower *L, const struct fn *f, const struct node *n, uint32_t first,
                        uint32_t n_stack, const struct array *stacks, lpv trips, uint32_t capacity)
{
    struct lp *p = lower_lp(L);
    lp_if_begin(p, lp_bin(p, LP_GE, trips, lp_read(p, capacity)));
    lpv grown = lp_bin(p, LP_MAX, lp_bin(p, LP_MUL, trips, lp_index(p, 2)), lp_index(p, FIRST_CAPACITY));
    lp_set(p, capacity, grown);
    for (uint32_t i = 0; i < n_stack; i++) {
        if (stacks[i].buffer == HOP_NONE) continue;
        type_id row = type_drop_leading(lower_module(L), value_type(f, n->results + first + i));
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
    uint32_t n_carry = node_group_size(f, n, 0), counted = n->n_results > n_carry, first = n_carry + counted,
             n_stack = n->n_results - first;
    const struct fn *cond = module_fn(m, node_region(f, n, REGION_COND)->fn),
                    *body = module_fn(m, node_region(f, n, REGION_BODY)->fn);
    const struct attr *max = node_attr(f, n, WHILE_MAX_TRIPS);
    bool limited = max->kind == ATTR_DIM,
         all_rows = limited && node_attr(f, n, WHILE_TAPE)->kind == ATTR_ABSENT;
    struct carry *carries = begin_carries(L, f, n, n_carry);
    uint32_t count = lp_local(p, DT_I64, LOCAL_SCALAR, "trips"),
             capacity = lp_local(p, DT_I64, LOCAL_SCALAR, "capacity");
    struct array *stacks = ARENA_NEW(&p->arena, struct array, n_stack);
    for (uint32_t i = 0; i < n_stack; i++)
        stacks[i] = !lower_result_used(L, n, first + i) ? (struct array){ HOP_NONE, LPV_NONE }
                    : all_rows                          ? lower_result(L, n, first + i)
                                                        : lower_growing(L, n, first + i);
    lp_set(p, count, lp_index(p, 0));
    lp_set(p, capacity, lp_index(p, 0));
    struct feed *feeds = ARENA_NEW(&p->arena, struct feed, HOP_MAX(cond->n_params, body->n_params));
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, body->n_results);

    lower_loop_enter(L);
    lp_while_begin(p);
    feed_carries(L, carries, n_carry, feeds);
    feed_values(f, n, REGION_COND, feeds + n_carry);
    struct sink test = { .scalar = true, .overwrites = HOP_NONE, .instead = { HOP_NONE, LPV_NONE } };
    lower_body(L, f, n, REGION_COND, feeds, &test);
    lp_while_body(p, test.value);
    lpv trip = counted || limited ? lp_read(p, count) : LPV_NONE;
    if (limited) check_trips(L, n, trip, lower_dim(L, (dim)max->i));
    if (n_stack && !all_rows) grow_stacks(L, f, n, first, n_stack, stacks, trip, capacity);
    feed_carries(L, carries, n_carry, feeds);
    feed_values(f, n, REGION_BODY, feeds + n_carry);
    sink_carries(carries, n_carry, sinks);
    for (uint32_t i = 0; i < n_stack; i++) {
        if (stacks[i].buffer != HOP_NONE)
            sinks[n_carry + i] = stack_sink(L, stacks[i], trip, value_type(f, n->results + first + i));
        else sinks[n_carry + i].unused = true, sinks[n_carry + i].overwrites = HOP_NONE;
    }
    lower_body(L, f, n, REGION_BODY, feeds, sinks);
    advance_carries(L, carries, n_carry, sinks);
    if (trip != LPV_NONE) lp_set(p, count, lp_bin(p, LP_ADD, trip, lp_index(p, 1)));
    lp_while_end(p);
    lower_loop_leave(L);
    end_carries(L, n, carries, n_carry);
    if (!counted) return;
    lpv trips = lp_read(p, count);
    lower_set_scalar(L, n, n_carry, trips);
    for (uint32_t i = 0; i < n_stack; i++) {
        type_id t = value_type(f, n->results + first + i);
        uint32_t symbol;
        if (!all_rows && dim_is_symbol(m, type_get(m, t).dims[0], &symbol))
            lower_bind_symbol(L, symbol, trips);
        if (all_rows && stacks[i].buffer != HOP_NONE) pad_stack(L, stacks[i], t, trips);
    }
}

static uint8_t while_use(const struct fn *f, const struct node *n, uint32_t i)
{
    return i < node_group_size(f, n, 0) ? USE_ONCE : USE_MANY;
}

const struct op_lower while_lower = { .kind = LOWER_BLOCK, .block = while_block, .operand_use = while_use };
