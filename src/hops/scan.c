/* The row of scan: a step function is run over the leading dim of arrays, passing carries on and stacking the
 * rest of its results. Operand groups: carry, over; the step's own operands are the same in every step.
 * Results: last carries, then stacks, each at the position of the slice it came from (`reverse` starts with
 * the last slice). */
#include "hops/hops.h"

enum { GROUP_OF_CARRY, GROUP_OF_OVER };

static void scan_infer(struct infer *in)
{
    uint32_t n_carry = in->groups[0], n_over = in->groups[1];
    const struct fn *g = module_fn(in->m, in->regions[0].fn);
    const struct attr *length = &in->attrs[SCAN_LENGTH];
    if (!n_over && length->kind == ATTR_ABSENT)
        infer_error(in, "nothing is scanned over: attribute 'length' must say how many steps there are");
    infer_schedule(in, &in->attrs[SCAN_SCHEDULE]);
    dim steps = length->kind != ATTR_ABSENT ? (dim)length->i : infer_type(in, n_carry).dims[0];
    for (uint32_t i = 0; i < n_over; i++)
        infer_equal(in, steps, infer_type(in, n_carry + i).dims[0],
                    arena_printf(&in->m->scratch, "the leading dim of 'over' operand %u", i));
    if (g->n_results < n_carry)
        infer_error(in, "the step gives %u results, fewer than the %u carries", g->n_results, n_carry);
    infer_results_like(in, 0, in->operands, n_carry, "carry", "what the step makes of it");
    for (uint32_t i = 0; i < n_carry; i++) infer_result(in, in->operands[i]);
    for (uint32_t i = n_carry; i < g->n_results; i++)
        infer_result(in, type_prepend(in->m, infer_region_result(in, 0, i), steps));
}

/* ---- transforms ---- */

/* ---- schedules: what the gradient keeps ---- */

static const struct attr recompute[LOOP_SCHEDULE_ATTRS] = { { .kind = ATTR_WORD, .i = SCHEDULE_RECOMPUTE } };

static void emit_blocks(struct builder *b, const struct loop *l, const dim *sizes, uint32_t n_sizes,
                        val *results);

/* The loop seen from a new function whose parameters are its operands, in the order of its body's, with
 * `length` as the leading dim of what it goes over. *sizes become what they are in there. */
static struct loop scan_inside(struct new_body *body, const struct loop *l, dim length, const dim **sizes,
                               uint32_t n_sizes)
{
    struct builder *b = &body->b, *around = body->around;
    uint32_t n = l->body->n_params, n_dims = l->body->n_outer_symbols;
    type_id *types = ARENA_NEW(&b->arena, type_id, n);
    val *params = ARENA_NEW(&b->arena, val, n);
    dim *dims = ARENA_NEW(&b->arena, dim, n_dims), *inner_sizes = ARENA_NEW(&b->arena, dim, n_sizes);
    for (uint32_t p = 0; p < n; p++) {
        type_id t = builder_type(around, loop_operand(l, p));
        if (loop_is_over(l, p)) t = type_prepend(b->m, type_drop_leading(b->m, t), length);
        types[p] = new_body_type(body, t);
    }
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = new_body_dim(body, l->dims[k]);
    for (uint32_t k = 0; k < n_sizes; k++) inner_sizes[k] = new_body_dim(body, (*sizes)[k]);
    dim inner_length = new_body_dim(body, length);
    for (uint32_t p = 0; p < n; p++) params[p] = builder_param(b, types[p], 0);
    struct loop inner = *l;
    inner.carry = params;
    inner.over = params + l->n_carry;
    inner.with = params + loop_first_with(l);
    inner.dims = dims;
    inner.length = inner_length;
    *sizes = inner_sizes;
    return inner;
}

/* One block as a step: (carries…, blocks of the arrays…, own…) -> (carries…, blocks of the stacks…). */
static struct region_in block_step(struct builder *b, const struct loop *l, const dim *sizes,
                                   uint32_t n_sizes)
{
    struct new_body body;
    new_body_begin(&body, b, NULL, NULL, 0);
    struct loop inner = scan_inside(&body, l, sizes[0], &sizes, n_sizes);
    val *results = ARENA_NEW(&body.b.arena, val, l->body->n_results);
    emit_blocks(&body.b, &inner, sizes + 1, n_sizes - 1, results);
    return new_body_finish(&body, results, l->body->n_results, l->with, l->n_with);
}

static val rows(struct builder *b, val x, dim from, dim to)
{
    struct type t = emit_type(b, x);
    dim start[MAX_RANK] = { from }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    limit[0] = to;
    return emit_slice(b, x, start, limit);
}

/* Rows of a stack whose rows are blocks. */
static val unblocked(struct builder *b, val x, dim whole)
{
    struct type t = emit_type(b, x);
    dim dims[MAX_RANK] = { whole };
    memcpy(dims + 1, t.dims + 2, (t.rank - 2u) * sizeof *dims);
    return emit_reshape(b, x, t.rank - 1u, dims);
}

static val blocked(struct builder *b, val x, dim blocks, dim size)
{
    struct type t = emit_type(b, x);
    dim dims[MAX_RANK + 1] = { blocks, size };
    memcpy(dims + 2, t.dims + 1, (t.rank - 1u) * sizeof *dims);
    return emit_reshape(b, x, t.rank + 1u, dims);
}

/* Whole blocks, scanned over as units whose steps are run again in the gradient, and a rest. sizes: of
 * blocks, of blocks in blocks, … results: as the body's. */
static void emit_blocks(struct builder *b, const struct loop *l, const dim *sizes, uint32_t n_sizes,
                        val *results)
{
    uint32_t n_carry = l->n_carry, n_results = l->body->n_results;
    bool no_steps = l->length == 0; /* neither blocks nor a rest would give the stacks */
    if (!n_sizes || sizes[0] == 1 || no_steps) {
        struct loop plain = *l;
        plain.schedule = n_sizes ? recompute : NULL;
        val first = loop_build(b, &plain).last;
        for (uint32_t k = 0; k < n_results; k++) results[k] = first + k;
        return;
    }
    struct module *m = b->m;
    dim blocks = dim_floordiv(m, l->length, sizes[0]), whole = dim_mul(m, blocks, sizes[0]);
    dim rest = dim_sub(m, l->length, whole);
    struct region_in block = block_step(b, l, sizes, n_sizes);
    enum { BLOCKS, TAIL, PARTS };
    val first[PARTS] = { VAL_NONE, VAL_NONE };
    const val *carry = l->carry;
    for (uint32_t part = 0; part < PARTS; part++) {
        bool tail = l->reverse ? part == 0 : part == 1;
        if (tail ? rest == 0 : blocks == 0) continue;
        struct loop made = *l;
        val *over = ARENA_NEW(&b->arena, val, l->n_over), *last = ARENA_NEW(&b->arena, val, n_carry);
        for (uint32_t k = 0; k < l->n_over; k++) {
            val x = rows(b, l->over[k], tail ? whole : 0, tail ? l->length : whole);
            over[k] = tail ? x : blocked(b, x, blocks, sizes[0]);
        }
        made.carry = carry;
        made.over = over;
        made.length = tail ? rest : blocks;
        made.schedule = tail ? NULL : recompute;
        if (!tail) loop_set_body(&made, m, block);
        first[tail] = loop_build(b, &made).last;
        for (uint32_t k = 0; k < n_carry; k++) last[k] = first[tail] + k;
        carry = last;
    }
    for (uint32_t k = 0; k < n_carry; k++) results[k] = carry[k];
    for (uint32_t k = n_carry; k < n_results; k++) {
        val parts[PARTS] = { VAL_NONE, VAL_NONE };
        struct attr along = A_INT(0);
        if (first[BLOCKS] != VAL_NONE) parts[BLOCKS] = unblocked(b, first[BLOCKS] + k, whole);
        if (first[TAIL] != VAL_NONE) parts[TAIL] = first[TAIL] + k;
        if (parts[BLOCKS] == VAL_NONE) results[k] = parts[TAIL];
        else if (parts[TAIL] == VAL_NONE) results[k] = parts[BLOCKS];
        else results[k] = emit(b, OP_concat, parts, PARTS, &along);
    }
}

/* Sizes of blocks that the schedule asks for; 0: no blocks. */
static uint32_t block_sizes(struct builder *b, dim length, const struct schedule *schedule, dim **out)
{
    uint32_t n = schedule->kind == SCHEDULE_EVERY ? schedule->n_every : schedule->kind == SCHEDULE_SQRT;
    *out = ARENA_NEW(&b->arena, dim, n);
    for (uint32_t i = 0; i < schedule->n_every; i++) (*out)[i] = schedule->every[i];
    if (schedule->kind != SCHEDULE_SQRT) return n;
    if (dim_is_const(b->m, length)) {
        int64_t steps = dim_const_value(b->m, length), root = 1;
        while (root * root < steps) root++;
        (*out)[0] = dim_const(b->m, root);
        return 1;
    }
    /* a + T/a is least at the square root, where it is twice that: half the least over some powers of two is
     * near enough, and a size like any other. */
    dim least = dim_add(b->m, 4, dim_floordiv(b->m, length, 4));
    for (dim power = 32; power < 1 << 21; power *= 8)
        least = dim_min(b->m, least, dim_add(b->m, power, dim_floordiv(b->m, length, power)));
    (*out)[0] = dim_floordiv(b->m, least, 2);
    return 1;
}

/* Differentiated as a function of its own: the blocked loops. */
static struct replaced *blocks_vjp_forward(struct vjp_forward *v, const struct loop *l, const dim *sizes,
                                           uint32_t n_sizes)
{
    struct builder *b = v->copy->b;
    struct new_body body;
    new_body_begin(&body, b, NULL, NULL, 0);
    uint32_t n = v->n->n_operands;
    val *outer = ARENA_NEW(&b->arena, val, n);
    val *results = ARENA_NEW(&body.b.arena, val, l->body->n_results);
    for (uint32_t p = 0; p < n; p++) outer[p] = loop_operand(l, p);
    struct loop inner = scan_inside(&body, l, l->length, &sizes, n_sizes);
    emit_blocks(&body.b, &inner, sizes, n_sizes, results);
    return replaced_vjp_forward(v, new_body_finish(&body, results, l->body->n_results, outer, n));
}

/* ---- reverse ---- */

struct scan_saved {
    struct replaced *blocks; /* NULL: no blocks */
    struct reversed_step *step;
};

static void scan_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct scan_saved *saved = ARENA_ZNEW(&b->arena, struct scan_saved, 1);
    struct loop l;
    loop_of_copy(v->copy, v->n, &l);
    l.length_given = false; /* what is gone over says it */
    struct schedule schedule = schedule_of(l.schedule);
    dim *sizes;
    uint32_t n_sizes = block_sizes(b, l.length, &schedule, &sizes);
    v->saved = saved;
    if (n_sizes && sizes[0] != 1) {
        saved->blocks = blocks_vjp_forward(v, &l, sizes, n_sizes);
        return;
    }
    struct reversed_step *s = step_reverse(b->m, &b->arena, &l, v->active, v->result_wanted, false,
                                           schedule.kind != SCHEDULE_NONE);
    uint32_t snapshots = step_needs_snapshots(b->m, s) ? schedule.snapshots : 0;
    if (!snapshots) l.schedule = NULL;
    step_emit_forward(b, s, &l, snapshots, v->n);
    for (uint32_t k = 0; k < v->n->n_results; k++) {
        v->results[k] = s->made.last + k;
        v->result_active[k] = k < l.n_carry ? s->active[k] : s->result_active[k];
    }
    saved->step = s;
}

static void scan_vjp(struct vjp *v)
{
    const struct scan_saved *saved = v->saved;
    if (saved->blocks) replaced_vjp(v, saved->blocks);
    else step_vjp(v, saved->step, false);
}

static const struct op_sample scan_samples[] = {
    { "hop 1\nfn @sample(%h: f64[2], %k: f64[], %xs: f64[T, 2], %w: f64[2]) -> (f64[2], f64[], f64[T, 2]) {\n"
      "  %c, %d, %ys = scan {reverse, schedule = binomial, snapshots = 2} carry(%s = %h, %e = %k) over(%x in "
      "%xs) with(%v = %w) {\n"
      "    %p = broadcast {dims = [2], at = []} (%e)\n"
      "    %a = mul(%s, %v)\n"
      "    %b = add(%a, %x)\n"
      "    %n = sin(%b)\n"
      "    %y = mul(%n, %p)\n"
      "    next(%n, %e) stack(%y)\n"
      "  }\n"
      "  return %c, %d, %ys\n"
      "}\n",
      NULL },
    { "hop 1\nfn @sample(%h: f64[2], %xs: f64[5, 2]) -> (f64[2], f64[5, 2]) {\n"
      "  %c, %ys = scan {every = [2]} carry(%s = %h) over(%x in %xs) {\n"
      "    %a = mul(%s, %x)\n"
      "    %n = tanh(%a)\n"
      "    next(%n) stack(%a)\n"
      "  }\n"
      "  return %c, %ys\n"
      "}\n",
      NULL },
    { "hop 1\nfn @sample(%h: f64[], %w: f64[]) -> (f64[]) {\n"
      "  %c = scan {reverse, length = 7, schedule = sqrt} carry(%s = %h) over() with(%v = %w) {\n"
      "    %a = mul(%s, %v)\n"
      "    %n = sin(%a)\n"
      "    next(%n)\n"
      "  }\n"
      "  return %c\n"
      "}\n",
      NULL },
    { "hop 1\nfn @sample(%h: f64[3], %xs: f64[4, 3], %w: f64[3]) -> (f64[3], f64[4, 3]) {\n"
      "  %c, %ys = scan carry(%s = %h) over(%x in %xs) with(%v = %w) {\n"
      "    %a = mul(%s, %v)\n"
      "    %b = add(%a, %x)\n"
      "    %n = tanh(%b)\n"
      "    next(%n) stack(%n)\n"
      "  }\n"
      "  return %c, %ys\n"
      "}\n",
      NULL },
    { "hop 1\nfn @sample(%h: f64[], %w: f64[2], %xs: f64[T]) -> (f64[], f64[T, 2], f64[T]) {\n"
      "  %c, %ys, %zs = scan {reverse} carry(%s = %h) over(%x in %xs) with(%v = %w) {\n"
      "    %a = mul(%s, %x)\n"
      "    %b = broadcast {dims = [2], at = []} (%a)\n"
      "    %d = mul(%b, %v)\n"
      "    %e = sin(%a)\n"
      "    next(%e) stack(%d, %s)\n"
      "  }\n"
      "  return %c, %ys, %zs\n"
      "}\n",
      NULL },
};

static const struct attr_spec scan_attrs[] = {
    [SCAN_REVERSE] = { "reverse", ATTR_FLAG, false, NULL },
    [SCAN_LENGTH] = { "length", ATTR_DIM, false, NULL },
    SCHEDULE_ATTRS(SCAN_SCHEDULE),
};

static const struct loop_row scan_parts = {
    .kind = LOOP_SCAN,
    .group = { .carry = 1 + GROUP_OF_CARRY, .over = 1 + GROUP_OF_OVER },
    .region = { .body = 1 },
    .attr = { .length = 1 + SCAN_LENGTH, .reverse = 1 + SCAN_REVERSE, .schedule = 1 + SCAN_SCHEDULE },
};

const struct op_row row_scan = {
    .name = "scan",
    .meaning =
        "a step repeated over the leading dim of arrays: carries are passed on, further results are stacked",
    .sig = { .n_attrs = HOP_COUNT(scan_attrs),
             .attrs = scan_attrs,
             .n_groups = 2,
             .groups = { { "carry", GROUP_CARRY }, { "over", GROUP_OVER } },
             .min_regions = 1,
             .max_regions = 1,
             .regions = { { .word = "", .feeds = 3, .results = { "next", "stack" } } } },
    .flags = OPF_HIGHER,
    .autocast = AUTOCAST_KEEP,
    .infer = scan_infer,
    .eval = loop_eval,
    .vjp = scan_vjp,
    .vjp_forward = scan_vjp_forward,
    .jvp = loop_jvp,
    .batch = loop_batch,
    HOP_SAMPLES(scan_samples),
    .lower = &steps_lower,
    .loop = &scan_parts,
};
