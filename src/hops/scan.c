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

static void scan_eval(struct eval *e)
{
    const struct region *g = node_region(e->f, e->n, 0);
    uint32_t n_carry = node_group_size(e->f, e->n, GROUP_OF_CARRY),
             n_over = node_group_size(e->f, e->n, GROUP_OF_OVER);
    uint32_t n_args = n_carry + n_over + g->n_operands, n_stack = e->n->n_results - n_carry;
    const struct attr *length = node_attr(e->f, e->n, SCAN_LENGTH);
    int64_t steps = n_over ? e->operands[n_carry]->dims[0] : dim_eval(e->m, (dim)length->i, e->symbols);
    if (steps < 0)
        hop_throw(HOP_CHECK, "%sscan: its length is negative: %lld", place_text(e->m, e->n->place),
                  (long long)steps);
    bool reverse = node_attr(e->f, e->n, SCAN_REVERSE)->kind != ATTR_ABSENT;
    struct tensor_list *args = tensor_list_begin(n_args + 1), *out = tensor_list_begin(n_carry + n_stack);
    const int64_t *symbols = eval_region_symbols(e, 0, args, n_args);
    for (uint32_t i = 0; i < n_carry; i++) args->data[i] = tensor_ref(e->operands[i]);
    for (uint32_t i = 0; i < g->n_operands; i++)
        args->data[n_carry + n_over + i] = tensor_ref(e->operands[g->operands + i]);
    for (uint32_t k = n_carry; k < n_carry + n_stack; k++) e->results[k] = eval_new_stack(e, k, steps);
    for (int64_t i = 0; i < steps; i++) {
        int64_t t = reverse ? steps - 1 - i : i;
        for (uint32_t k = 0; k < n_over; k++)
            tensor_list_set(args, n_carry + k, tensor_slice(e->operands[n_carry + k], t));
        interp_call(e->in, g->fn, symbols, args->data, out->data);
        for (uint32_t k = 0; k < n_carry; k++) tensor_list_set(args, k, out->data[k]), out->data[k] = NULL;
        for (uint32_t k = n_carry; k < n_carry + n_stack; k++)
            tensor_put(e->results[k], t, out->data[k]), tensor_list_set(out, k, NULL);
    }
    for (uint32_t k = 0; k < n_carry; k++) e->results[k] = tensor_ref(args->data[k]);
    tensor_list_end(out);
    tensor_list_end(args);
}

/* ---- transforms ---- */

static dim scan_length(const struct builder *b, const struct node_in *in)
{
    if (in->attrs[SCAN_LENGTH].kind != ATTR_ABSENT) return (dim)in->attrs[SCAN_LENGTH].i;
    return emit_type(b, in->operands[in->groups[GROUP_OF_CARRY]]).dims[0];
}

/* like: attributes of the scan that this one stands for, NULL: none. */
static val emit_scan(struct builder *b, const val *operands, const uint32_t groups[2], bool reverse,
                     dim length, struct region_in region, const struct attr *like)
{
    struct attr attrs[SCAN_ATTRS] = {
        [SCAN_REVERSE] = A_FLAG(reverse), [SCAN_LENGTH] = groups[GROUP_OF_OVER] ? A_NONE : A_DIM(length)
    };
    if (like) schedule_copy(&attrs[SCAN_SCHEDULE], &like[SCAN_SCHEDULE]);
    return builder_node(b, &(struct node_in){ .op = OP_scan,
                                              .operands = operands,
                                              .n_operands = groups[0] + groups[1],
                                              .groups = groups,
                                              .attrs = attrs,
                                              .regions = &region,
                                              .n_regions = 1 });
}

/* ---- schedules: what the gradient keeps ---- */

static const struct attr recompute_attrs[SCAN_ATTRS] = { [SCAN_SCHEDULE] = { .kind = ATTR_WORD,
                                                                             .i = SCHEDULE_RECOMPUTE } };

/* A scan to be split into blocks. Everything is as builder b sees it. */
struct blocked {
    const val *operands, *own; /* carries and arrays; the step's own */
    uint32_t groups[2], n_own;
    uint32_t fn, n_dims, n_results;
    const dim *dims;
    bool reverse;
    dim length;
};

static void emit_blocks(struct builder *b, const struct blocked *s, const dim *sizes, uint32_t n_sizes,
                        val *results);

/* One block as a step: (carries…, blocks of the arrays…, own…) -> (carries…, blocks of the stacks…). */
static struct region_in block_step(struct builder *b, const struct blocked *s, const dim *sizes,
                                   uint32_t n_sizes)
{
    struct new_body body;
    new_body_begin(&body, b, NULL, NULL, 0);
    uint32_t n = s->groups[0] + s->groups[1];
    type_id *types = ARENA_NEW(&b->arena, type_id, n + s->n_own);
    dim *dims = ARENA_NEW(&body.b.arena, dim, s->n_dims),
        *inner_sizes = ARENA_NEW(&body.b.arena, dim, n_sizes);
    val *params = ARENA_NEW(&body.b.arena, val, n + s->n_own),
        *results = ARENA_NEW(&body.b.arena, val, s->n_results);
    for (uint32_t k = 0; k < n + s->n_own; k++) {
        type_id t = builder_type(b, k < n ? s->operands[k] : s->own[k - n]);
        if (k >= s->groups[0] && k < n) t = type_prepend(b->m, type_drop_leading(b->m, t), sizes[0]);
        types[k] = new_body_type(&body, t);
    }
    for (uint32_t k = 0; k < s->n_dims; k++) dims[k] = new_body_dim(&body, s->dims[k]);
    for (uint32_t k = 0; k < n_sizes; k++) inner_sizes[k] = new_body_dim(&body, sizes[k]);
    for (uint32_t k = 0; k < n + s->n_own; k++) params[k] = builder_param(&body.b, types[k], 0);
    struct blocked inner = *s;
    inner.operands = params, inner.own = params + n, inner.dims = dims, inner.length = inner_sizes[0];
    emit_blocks(&body.b, &inner, inner_sizes + 1, n_sizes - 1, results);
    return new_body_finish(&body, results, s->n_results, s->own, s->n_own);
}

static val rows(struct builder *b, val x, dim from, dim to)
{
    struct type t = emit_type(b, x);
    dim start[MAX_RANK] = { from }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    limit[0] = to;
    return emit_slice(b, x, start, limit);
}

/* Whole blocks, scanned over as units whose steps are run again in the gradient, and a rest. sizes: of
 * blocks, of blocks in blocks, … */
static void emit_blocks(struct builder *b, const struct blocked *s, const dim *sizes, uint32_t n_sizes,
                        val *results)
{
    uint32_t n_carry = s->groups[0], n = n_carry + s->groups[1];
    struct region_in step = { s->fn, s->own, s->n_own, s->dims };
    if (!n_sizes || sizes[0] == 1 ||
        s->length == 0) { /* no steps: neither blocks nor a rest would give the stacks */
        val first = emit_scan(b, s->operands, s->groups, s->reverse, s->length, step,
                              n_sizes ? recompute_attrs : NULL);
        for (uint32_t k = 0; k < s->n_results; k++) results[k] = first + k;
        return;
    }
    struct module *m = b->m;
    dim blocks = dim_floordiv(m, s->length, sizes[0]), whole = dim_mul(m, blocks, sizes[0]),
        rest = dim_sub(m, s->length, whole);
    struct region_in block = block_step(b, s, sizes, n_sizes);
    val *operands = ARENA_NEW(&b->arena, val, n), first[2] = { VAL_NONE, VAL_NONE };
    for (uint32_t k = 0; k < n_carry; k++) operands[k] = s->operands[k];
    for (uint32_t part = 0; part < 2; part++) {
        bool tail = s->reverse ? part == 0 : part == 1;
        if (tail ? rest == 0 : blocks == 0) continue;
        for (uint32_t k = n_carry; k < n; k++) {
            val x = rows(b, s->operands[k], tail ? whole : 0, tail ? s->length : whole);
            struct type t = emit_type(b, x);
            dim dims[MAX_RANK + 1] = { blocks, sizes[0] };
            memcpy(dims + 2, t.dims + 1, (t.rank - 1u) * sizeof *dims);
            operands[k] = tail ? x : emit_reshape(b, x, t.rank + 1u, dims);
        }
        first[tail] = emit_scan(b, operands, s->groups, s->reverse, tail ? rest : blocks, tail ? step : block,
                                tail ? NULL : recompute_attrs);
        for (uint32_t k = 0; k < n_carry; k++) operands[k] = first[tail] + k;
    }
    for (uint32_t k = 0; k < n_carry; k++) results[k] = operands[k];
    for (uint32_t k = n_carry; k < s->n_results; k++) {
        val parts[2] = { VAL_NONE, VAL_NONE };
        if (first[0] != VAL_NONE) {
            struct type t = emit_type(b, first[0] + k);
            dim dims[MAX_RANK] = { whole };
            memcpy(dims + 1, t.dims + 2, (t.rank - 2u) * sizeof *dims);
            parts[0] = emit_reshape(b, first[0] + k, t.rank - 1u, dims);
        }
        if (first[1] != VAL_NONE) parts[1] = first[1] + k;
        struct attr along = A_INT(0);
        results[k] = parts[0] == VAL_NONE   ? parts[1]
                     : parts[1] == VAL_NONE ? parts[0]
                                            : emit(b, OP_concat, parts, 2, &along);
    }
}

/* Sizes of blocks that the schedule asks for; 0: no blocks. */
static uint32_t block_sizes(struct builder *b, const struct node_in *in, const struct schedule *schedule,
                            dim **out)
{
    uint32_t n = schedule->kind == SCHEDULE_EVERY ? schedule->n_every : schedule->kind == SCHEDULE_SQRT;
    *out = ARENA_NEW(&b->arena, dim, n);
    for (uint32_t i = 0; i < schedule->n_every; i++) (*out)[i] = schedule->every[i];
    if (schedule->kind != SCHEDULE_SQRT) return n;
    dim length = scan_length(b, in);
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
static struct replaced *blocks_vjp_forward(struct vjp_forward *v, const struct node_in *in, const dim *sizes,
                                           uint32_t n_sizes)
{
    struct builder *b = v->copy->b;
    const struct region_in *r = &in->regions[0];
    struct new_body body;
    new_body_begin(&body, b, NULL, NULL, 0);
    uint32_t n = v->n->n_operands, n_own = r->n_operands, n_dims = node_region(v->f, v->n, 0)->n_dims,
             n_results = v->n->n_results;
    val *outer = ARENA_NEW(&b->arena, val, n), *params = ARENA_NEW(&body.b.arena, val, n),
        *results = ARENA_NEW(&body.b.arena, val, n_results);
    type_id *types = ARENA_NEW(&body.b.arena, type_id, n);
    dim *dims = ARENA_NEW(&body.b.arena, dim, n_dims), *inner_sizes = ARENA_NEW(&body.b.arena, dim, n_sizes);
    for (uint32_t k = 0; k < n; k++)
        outer[k] = k < n - n_own ? in->operands[k] : r->operands[k - (n - n_own)];
    for (uint32_t k = 0; k < n; k++) types[k] = new_body_type(&body, builder_type(b, outer[k]));
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = new_body_dim(&body, r->dims[k]);
    for (uint32_t k = 0; k < n_sizes; k++) inner_sizes[k] = new_body_dim(&body, sizes[k]);
    dim length = new_body_dim(&body, scan_length(b, in));
    for (uint32_t k = 0; k < n; k++) params[k] = builder_param(&body.b, types[k], 0);
    struct blocked s = { .operands = params,
                         .own = params + n - n_own,
                         .groups = { in->groups[0], in->groups[1] },
                         .n_own = n_own,
                         .fn = r->fn,
                         .n_dims = n_dims,
                         .n_results = n_results,
                         .dims = dims,
                         .reverse = in->attrs[SCAN_REVERSE].kind != ATTR_ABSENT,
                         .length = length };
    emit_blocks(&body.b, &s, inner_sizes, n_sizes, results);
    struct region_in made = new_body_finish(&body, results, n_results, outer, n);
    return replaced_vjp_forward(v, made);
}

/* ---- reverse ---- */

struct scan_saved {
    struct replaced *blocks; /* NULL: no blocks */
    struct step *step;
    struct node_in in;
    uint32_t snapshots; /* 0: what the step needs is stacked */
    val *stacks, *hoisted;
};

static void scan_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct scan_saved *saved = ARENA_ZNEW(&b->arena, struct scan_saved, 1);
    struct node_in in = saved->in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    struct schedule schedule = schedule_of(&in.attrs[SCAN_SCHEDULE]);
    dim *sizes;
    uint32_t n_sizes = block_sizes(b, &in, &schedule, &sizes);
    v->saved = saved;
    saved->blocks = n_sizes && sizes[0] != 1 ? blocks_vjp_forward(v, &in, sizes, n_sizes) : NULL;
    if (saved->blocks) return;
    struct step *s = saved->step = step_reverse(b->m, &b->arena, r->fn, in.groups[0], in.groups[1], v->active,
                                                v->result_wanted, false, schedule.kind != SCHEDULE_NONE);
    saved->snapshots = step_needs_snapshots(s) ? schedule.snapshots : 0;
    saved->hoisted = step_emit_hoisted(b, s, r->operands, r->dims);
    val first = emit_scan(b, in.operands, in.groups, in.attrs[SCAN_REVERSE].kind != ATTR_ABSENT,
                          scan_length(b, &in),
                          (struct region_in){ saved->snapshots ? r->fn : s->forward, r->operands,
                                              r->n_operands, r->dims },
                          saved->snapshots ? in.attrs : NULL);
    for (uint32_t k = 0; k < v->n->n_results; k++) v->results[k] = first + k;
    saved->stacks = ARENA_NEW(&b->arena, val, s->n_stack + s->n_extra);
    for (uint32_t k = 0; k < s->n_stack + (saved->snapshots ? 0 : s->n_extra); k++)
        saved->stacks[k] = first + s->n_carry + k;
    for (uint32_t k = 0; k < v->n->n_results; k++)
        v->result_active[k] = k < s->n_carry ? s->active[k] : s->result_active[k];
    step_tell(b, s, v->n, scan_length(b, &in), r->dims, saved->snapshots);
}

static void scan_vjp(struct vjp *v)
{
    const struct scan_saved *saved = v->saved;
    const struct node_in *in = &saved->in;
    if (saved->blocks) {
        replaced_vjp(v, saved->blocks);
        return;
    }
    struct step_backward back = { .s = saved->step,
                                  .length = scan_length(v->b, in),
                                  .reverse = in->attrs[SCAN_REVERSE].kind != ATTR_ABSENT,
                                  .carry = in->operands,
                                  .over = in->operands + in->groups[0],
                                  .own = in->regions[0].operands,
                                  .stacks = saved->stacks,
                                  .hoisted = saved->hoisted,
                                  .ct = v->ct,
                                  .dims = in->regions[0].dims };
    if (saved->snapshots)
        step_emit_from_snapshots(v->b, &back, &(struct snapshots){ saved->snapshots, VAL_NONE, VAL_NONE },
                                 v->out);
    else step_emit_backward(v->b, &back, v->out);
}

static void scan_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n_carry = in.groups[0], n_over = in.groups[1], n = j->n->n_operands;
    bool *active = ARENA_NEW(&b->arena, bool, n),
         *stack_active = ARENA_ZNEW(&b->arena, bool, j->n->n_results);
    for (uint32_t k = 0; k < n; k++) active[k] = j->tangents[k] != VAL_NONE;
    uint32_t fn = step_jvp(b->m, r->fn, n_carry, n_over, active, stack_active);
    val *operands = ARENA_NEW(&b->arena, val, 2 * (size_t)n),
        *own = ARENA_NEW(&b->arena, val, 2 * (size_t)r->n_operands);
    uint32_t groups[2], n_own;
    groups[0] = with_tangents(b, operands, in.operands, j->tangents, active, n_carry);
    groups[1] = with_tangents(b, operands + groups[0], in.operands + n_carry, j->tangents + n_carry,
                              active + n_carry, n_over);
    n_own = with_tangents(b, own, r->operands, j->tangents + n_carry + n_over, active + n_carry + n_over,
                          r->n_operands);
    val next = emit_scan(b, operands, groups, in.attrs[SCAN_REVERSE].kind != ATTR_ABSENT, scan_length(b, &in),
                         (struct region_in){ fn, own, n_own, r->dims }, in.attrs);
    for (uint32_t k = 0; k < n_carry; k++) j->results[k] = next++;
    for (uint32_t k = 0; k < n_carry; k++) j->out[k] = active[k] ? next++ : VAL_NONE;
    for (uint32_t k = n_carry; k < j->n->n_results; k++) j->results[k] = next++;
    for (uint32_t k = n_carry; k < j->n->n_results; k++)
        j->out[k] = stack_active[k - n_carry] ? next++ : VAL_NONE;
}

static void scan_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n_carry = in.groups[0], n_over = in.groups[1];
    dim length = in.attrs[SCAN_LENGTH].kind != ATTR_ABSENT
                     ? (dim)in.attrs[SCAN_LENGTH].i
                     : emit_type(b, in.operands[n_carry]).dims[v->batched[n_carry] ? 1 : 0];
    bool lanes = v->lanes != VAL_NONE && module_fn(b->m, r->fn)->effects;
    bool *batched = arena_copy(&b->arena, v->batched, v->n->n_operands),
         *stack_batched = ARENA_ZNEW(&b->arena, bool, v->n->n_results);
    uint32_t fn = step_batch(b->m, r->fn, n_carry, batched, batch_body_size(v), lanes, stack_batched);
    val *operands = ARENA_NEW(&b->arena, val, n_carry + n_over),
        *own = ARENA_NEW(&b->arena, val, r->n_operands + 1);
    for (uint32_t k = 0; k < n_carry; k++)
        operands[k] = batched[k] && !v->batched[k] ? emit_broadcast_front(b, in.operands[k], v->size)
                                                   : in.operands[k];
    for (uint32_t k = n_carry; k < n_carry + n_over; k++)
        operands[k] = v->batched[k] ? emit_move_dim(b, in.operands[k], 1, 0) : in.operands[k];
    if (r->n_operands) memcpy(own, r->operands, r->n_operands * sizeof *own);
    if (lanes) own[r->n_operands] = v->lanes;
    struct region_in region = { fn, own, r->n_operands + lanes,
                                batch_body_dims(v, r, module_fn(b->m, fn),
                                                node_region(v->f, v->n, 0)->n_dims) };
    val next = emit_scan(b, operands, in.groups, in.attrs[SCAN_REVERSE].kind != ATTR_ABSENT, length, region,
                         in.attrs);
    for (uint32_t k = 0; k < v->n->n_results; k++, next++) {
        v->result_batched[k] = k < n_carry ? batched[k] : stack_batched[k - n_carry];
        v->results[k] = k >= n_carry && v->result_batched[k] ? emit_move_dim(b, next, 1, 0) : next;
    }
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
    .infer = scan_infer,
    .eval = scan_eval,
    .vjp = scan_vjp,
    .vjp_forward = scan_vjp_forward,
    .jvp = scan_jvp,
    .batch = scan_batch,
    HOP_SAMPLES(scan_samples),
    .lower = &scan_lower,
    .loop = &scan_parts,
};
