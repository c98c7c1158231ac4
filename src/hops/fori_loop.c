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
        type_id t = in->operands[n_carry + g - 1]; /* which may vary along named axes */
        if (type_varying(in->m, t, 0) != type_scalar(in->m, DT_I64))
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

/* ---- transforms ---- */

static val emit_i64(struct builder *b, int64_t value)
{
    struct attr a[3] = { A_INT(value), A_DIMS(NULL, 0), A_DTYPE(DT_I64) };
    return emit(b, OP_full, NULL, 0, a);
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
    if (n->op == OP_full && a[FULL_VALUE].kind == ATTR_INT) {
        int64_t number = a[FULL_VALUE].i;
        if (number <= INT32_MIN || number >= INT32_MAX) return false;
        *out = dim_const(b->m, number);
        return true;
    }
    if (n->op == OP_dim_value) {
        *out = (dim)a[DIM_VALUE_DIM].i;
        return true;
    }
    if ((n->op != OP_add && n->op != OP_sub) || depth == MOST_TERMS) return false;
    const val *operands = &b->pool.data[n->operands];
    if (!known_sum(b, operands[0], depth + 1, &x) || !known_sum(b, operands[1], depth + 1, &y)) return false;
    *out = n->op == OP_add ? dim_add(b->m, x, y) : dim_sub(b->m, x, y);
    return true;
}
static bool known_bound(const struct builder *b, val v, dim *out) { return known_sum(b, v, 0, out); }

bool fori_trips(const struct builder *b, val from, val to, dim *trips)
{
    dim first, end;
    if (!known_bound(b, from, &first) || !known_bound(b, to, &end)) return false;
    *trips = dim_max(b->m, dim_sub(b->m, end, first), 0);
    return true;
}

void fori_over(struct builder *b, struct loop *l, dim trips)
{
    val *indices = ARENA_NEW(&b->arena, val, 1);
    *indices = emit_indices(b, l->from, trips);
    l->kind = LOOP_SCAN;
    l->over = indices;
    l->length = trips;
    l->tape = false;
}

/* The operands of the node in order: carries, bounds, own. */
static val fori_operand(const struct loop *l, uint32_t k)
{
    if (k < l->n_carry) return l->carry[k];
    if (k >= l->n_carry + BOUNDS) return l->with[k - l->n_carry - BOUNDS];
    return k == l->n_carry ? l->from : l->to;
}

/* The loop as a function of its operands that scans. */
static struct region_in scan_function(struct vjp_forward *v, const struct loop *l, dim trips)
{
    struct builder *b = v->copy->b;
    struct new_body body;
    new_body_begin(&body, b, NULL, NULL, 0);
    uint32_t n = v->n->n_operands, n_dims = l->body->n_outer_symbols, n_results = v->n->n_results;
    val *outer = ARENA_NEW(&b->arena, val, n), *params = ARENA_NEW(&body.b.arena, val, n);
    val *results = ARENA_NEW(&body.b.arena, val, n_results);
    type_id *types = ARENA_NEW(&body.b.arena, type_id, n);
    dim *dims = ARENA_NEW(&body.b.arena, dim, n_dims);
    for (uint32_t k = 0; k < n; k++) outer[k] = fori_operand(l, k);
    for (uint32_t k = 0; k < n; k++) types[k] = new_body_type(&body, builder_type(b, outer[k]));
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = new_body_dim(&body, l->dims[k]);
    dim length = new_body_dim(&body, trips);
    for (uint32_t k = 0; k < n; k++) params[k] = builder_param(&body.b, types[k], 0);
    struct loop inner = *l;
    inner.carry = params;
    inner.from = params[l->n_carry];
    inner.with = params + l->n_carry + BOUNDS;
    inner.dims = dims;
    fori_over(&body.b, &inner, length);
    val first = loop_build(&body.b, &inner).last;
    for (uint32_t k = 0; k < n_results; k++) results[k] = first + k;
    return new_body_finish(&body, results, n_results, outer, n);
}

/* ---- schedules: what the gradient keeps ---- */

/* Are there blocks of more than one trip? Stacks keep a row of every trip anyway: there, blocks would save
 * little. */
static bool has_blocks(const struct loop *l, const struct schedule *schedule)
{
    return !l->n_stack && (schedule->kind == SCHEDULE_SQRT || schedule->kind == SCHEDULE_EVERY);
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
static struct loop block_loop(struct builder *b, const struct loop *l, const struct schedule *schedule)
{
    enum { FROM, TO, SIZE, MORE };
    uint32_t n_carry = l->n_carry, n_own = l->n_with + MORE, n_dims = l->body->n_outer_symbols;
    val trips = emit_trips(b, l->from, l->to), size = block_size(b, schedule, trips);
    val *own = ARENA_NEW(&b->arena, val, n_own), *more = own + l->n_with;
    if (l->n_with) memcpy(own, l->with, l->n_with * sizeof *own);
    more[FROM] = l->from;
    more[TO] = l->to;
    more[SIZE] = size;
    struct loop blocks = loop_new(LOOP_COUNTED);
    blocks.place = l->place;
    blocks.carry = l->carry;
    blocks.n_carry = n_carry;
    blocks.from = emit_i64(b, 0);
    blocks.to = emit2(b, OP_div, emit2(b, OP_add, trips, emit2(b, OP_sub, size, emit_i64(b, 1))), size);

    struct new_body made;
    new_body_begin(&made, b, NULL, NULL, 0);
    struct builder *i = &made.b;
    type_id *carry_types = ARENA_NEW(&i->arena, type_id, n_carry);
    type_id *own_types = ARENA_NEW(&i->arena, type_id, n_own);
    dim *dims = ARENA_NEW(&i->arena, dim, n_dims);
    val *carry = ARENA_NEW(&i->arena, val, n_carry), *inner_own = ARENA_NEW(&i->arena, val, n_own);
    val *results = ARENA_NEW(&i->arena, val, n_carry);
    for (uint32_t k = 0; k < n_carry; k++)
        carry_types[k] = new_body_type(&made, builder_type(b, l->carry[k]));
    for (uint32_t k = 0; k < n_own; k++) own_types[k] = new_body_type(&made, builder_type(b, own[k]));
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = new_body_dim(&made, l->dims[k]);
    for (uint32_t k = 0; k < n_carry; k++) carry[k] = builder_param(i, carry_types[k], 0);
    val block = builder_param(i, type_scalar(b->m, DT_I64), 0);
    for (uint32_t k = 0; k < n_own; k++) inner_own[k] = builder_param(i, own_types[k], 0);
    const val *given = inner_own + l->n_with;
    struct attr every[LOOP_SCHEDULE_ATTRS] = { 0 };
    if (schedule->n_every > 1)
        every[FORI_EVERY - FORI_SCHEDULE] = A_INTS(schedule->every + 1, schedule->n_every - 1);
    struct loop inner = loop_new(LOOP_COUNTED);
    inner.carry = carry;
    inner.n_carry = n_carry;
    inner.from = emit2(i, OP_add, given[FROM], emit2(i, OP_mul, block, given[SIZE]));
    inner.to = emit2(i, OP_min, emit2(i, OP_add, inner.from, given[SIZE]), given[TO]);
    inner.schedule = every;
    loop_set_body(&inner, b->m, (struct region_in){ l->body->id, inner_own, l->n_with, dims });
    val first = loop_build(i, &inner).last;
    for (uint32_t k = 0; k < n_carry; k++) results[k] = first + k;
    loop_set_body(&blocks, b->m, new_body_finish(&made, results, n_carry, own, n_own));
    return blocks;
}

/* ---- reverse ---- */

struct fori_saved {
    struct replaced *scan; /* NULL: a loop of its own */
    struct reversed_step *step;
};

static void fori_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct fori_saved *saved = ARENA_ZNEW(&b->arena, struct fori_saved, 1);
    struct loop l;
    loop_of_copy(v->copy, v->n, &l);
    dim trips;
    v->saved = saved;
    if (fori_trips(b, l.from, l.to, &trips)) {
        saved->scan = replaced_vjp_forward(v, scan_function(v, &l, trips));
        return;
    }
    bool *active = loop_body_mask(&b->arena, v->f, v->n, &l, v->active);
    struct schedule schedule = schedule_of(l.schedule);
    bool recompute = schedule.kind != SCHEDULE_NONE, stacks = l.n_stack;
    if (has_blocks(&l, &schedule)) {
        uint32_t n_params = l.body->n_params;
        l = block_loop(b, &l, &schedule);
        bool *more = ARENA_ZNEW(&b->arena, bool, l.body->n_params); /* bounds and size stay inactive */
        memcpy(more, active, n_params);
        active = more;
    }
    struct reversed_step *s = NULL;
    uint32_t snapshots = 0;
    if (schedule.snapshots) s = step_reverse(b->m, &b->arena, &l, active, v->result_wanted, false, recompute);
    if (s && step_needs_snapshots(b->m, s)) snapshots = schedule.snapshots;
    else s = step_reverse(b->m, &b->arena, &l, active, v->result_wanted, true, recompute);
    if (!snapshots) l.schedule = NULL;
    l.tape = (!stacks || l.tape) && !snapshots; /* the pullback skips the rows of lanes that did not run */
    step_emit_forward(b, s, &l, snapshots, v->n);
    for (uint32_t k = 0; k < v->n->n_results; k++) {
        v->results[k] = s->made.last + k;
        v->result_active[k] = k < l.n_carry ? s->active[k] : s->result_active[k];
    }
    saved->step = s;
}

static void fori_vjp(struct vjp *v)
{
    const struct fori_saved *saved = v->saved;
    if (saved->scan) replaced_vjp(v, saved->scan);
    else step_vjp(v, saved->step, false);
}

/* ---- lanes ---- */

static val over_lanes(struct builder *b, val v, bool batched, dim size)
{
    return batched ? v : emit_broadcast_front(b, v, size);
}

/* A loop up to the largest bound. Own operands of its body: the body's, then per lane the last bound and,
 * when lanes start at different indices, the first; then the loop counts from 0. */
struct counted_lanes {
    struct masked step;
    bool starts_differ;
    val from, to; /* per lane */
};

static struct region_in masked_body(const struct counted_lanes *w)
{
    struct masked_body made;
    masked_begin(&made, &w->step);
    struct builder *b = &made.body.b;
    type_id per_lane = type_intern(b->m, DT_I64, 1, &made.size);
    masked_params(&made, &w->step);
    val end = builder_param(b, per_lane, 0);
    val start = w->starts_differ ? builder_param(b, per_lane, 0) : VAL_NONE;
    val *count = &made.given.data[w->step.l->n_carry];
    val index = emit_broadcast_front(b, *count, made.size);
    if (w->starts_differ) {
        index = emit2(b, OP_add, start, index);
        *count = index;
    }
    val alive = emit2(b, OP_lt, index, end);
    val_list out = { 0 };
    masked_step(&made, &w->step, alive, &out);
    struct arena *around = &w->step.v->b->arena;
    val_list operands = { 0 };
    for (uint32_t k = 0; k < w->step.body.n_operands; k++)
        vec_push(around, &operands, w->step.body.operands[k]);
    vec_push(around, &operands, w->to);
    if (w->starts_differ) vec_push(around, &operands, w->from);
    return new_body_finish(&made.body, out.data, out.len, operands.data, operands.len);
}

/* The body over lanes, carries completed by fixpoint. Every stack is batched: lanes that have stopped have
 * zeros there. */
static uint32_t body_over_stopped_lanes(struct batch *v, const struct loop *l, bool *batched)
{
    const struct fn *body = l->body;
    bool *force = ARENA_NEW(&v->b->arena, bool, body->n_results);
    bool *found = ARENA_NEW(&v->b->arena, bool, body->n_results);
    for (uint32_t k = 0; k < body->n_results; k++) force[k] = k >= l->n_carry;
    uint32_t fn;
    do {
        mask_grow(force, batched, l->n_carry);
        fn = body_over_lanes(v, body->id, batched, force, body->effects, found);
    } while (mask_grow(batched, found, l->n_carry));
    return fn;
}

static void batch_masked(struct batch *v, const struct loop *l, bool *batched)
{
    struct builder *b = v->b;
    struct loop_positions at = loop_positions(v->f, v->n);
    bool starts_differ = v->batched[at.from];
    uint32_t all = 0;
    if (l->n_stack && !l->tape)
        hop_throw(HOP_INVALID,
                  "%sfori_loop: batched, its number of trips differs from lane to lane, so its stacked "
                  "results have no common length; a while_loop with {max_trips = N} "
                  "gives them one, or a fori_loop to the largest bound that stacks what it selects",
                  place_text(b->m, v->n->place));
    batched[l->n_carry] = starts_differ;
    uint32_t fn = body_over_stopped_lanes(v, l, batched);
    struct masked step = { .v = v, .l = l, .batched = batched, .body_lanes = l->body->effects };
    masked_keep_last(&step);
    val from = over_lanes(b, l->from, v->batched[at.from], v->size);
    val to = over_lanes(b, l->to, v->batched[at.to], v->size);
    if (v->lanes != VAL_NONE) to = emit_select(b, v->lanes, to, from);
    val_list carry = { 0 };
    masked_carries(&step, carries_over_lanes(v, l, batched), &carry);
    struct loop made = *l;
    made.carry = carry.data;
    made.n_carry = carry.len;
    made.from = starts_differ ? emit_i64(b, 0) : l->from;
    made.to = emit_reduce(b, OP_reduce_max, starts_differ ? emit_trips(b, from, to) : to, &all, 1);
    step.body = region_over_lanes(v, loop_body(l), fn, false);
    struct counted_lanes w = { .step = step, .starts_differ = starts_differ, .from = from, .to = to };
    loop_set_body(&made, b->m, masked_body(&w));
    struct loop_results out = loop_build(b, &made);
    masked_results(&step, out.last, out.stacks);
}

static void fori_batch(struct batch *v)
{
    struct loop_positions at = loop_positions(v->f, v->n);
    if (!v->batched[at.from] && !v->batched[at.to]) {
        loop_batch(v);
        return;
    }
    struct loop l;
    loop_of_copy(v->copy, v->n, &l);
    batch_masked(v, &l, loop_body_mask(&v->b->arena, v->f, v->n, &l, v->batched));
}

/* ---- simplification ---- */

/* Known bounds make a scan of it. A stack of one known number (the rows that ran, in a gradient) is no stack.
 */
static bool fori_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    struct builder *b = c->b;
    struct loop l;
    dim trips;
    HOP_UNUSED(options);
    loop_of_copy(c, n, &l);
    if (!fori_trips(b, l.from, l.to, &trips)) return loop_drop_full_stacks(c, &l, results);
    fori_over(b, &l, trips);
    val first = loop_build(b, &l).last;
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
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
    .autocast = AUTOCAST_KEEP,
    .infer = fori_infer,
    .eval = loop_eval,
    .vjp = fori_vjp,
    .vjp_forward = fori_vjp_forward,
    .jvp = loop_jvp,
    .batch = fori_batch,
    .rewrite = fori_rewrite,
    HOP_SAMPLES(fori_samples),
    .lower = &steps_lower,
    .loop = &fori_parts,
};
