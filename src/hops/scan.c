/* The row of scan: a step function is run over the leading dim of arrays, passing carries on and stacking the rest of its results. Operand
 * groups: carry, over; the step's own operands are the same in every step. Results: last carries, then stacks, each at the position of
 * the slice it came from (`reverse` starts with the last slice). */
#include "hops/hops.h"

enum { GROUP_OF_CARRY, GROUP_OF_OVER };

static void scan_infer(struct infer *in)
{
    uint32_t n_carry = in->groups[0], n_over = in->groups[1];
    const struct fn *g = module_fn(in->m, in->regions[0].fn);
    const struct attr *length = &in->attrs[SCAN_LENGTH];
    if (!n_over && length->kind == ATTR_ABSENT) infer_error(in, "nothing is scanned over: attribute 'length' must say how many steps there are");
    dim steps = length->kind != ATTR_ABSENT ? (dim)length->i : infer_type(in, n_carry).dims[0];
    for (uint32_t i = 0; i < n_over; i++)
        infer_equal(in, steps, infer_type(in, n_carry + i).dims[0], arena_printf(&in->m->scratch, "the leading dim of 'over' operand %u", i));
    if (g->n_results < n_carry) infer_error(in, "the step gives %u results, fewer than the %u carries", g->n_results, n_carry);
    for (uint32_t i = 0; i < n_carry; i++) {
        infer_same_type(in, in->operands[i], infer_region_result(in, 0, i), arena_printf(&in->m->scratch, "carry %u and what the step makes of it", i));
        infer_result(in, in->operands[i]);
    }
    for (uint32_t i = n_carry; i < g->n_results; i++) infer_result(in, type_prepend(in->m, infer_region_result(in, 0, i), steps));
}

/* A new tensor for slice t of `whole`; copied, because tensors at this level own their data. */
static struct tensor *slice_of(const struct tensor *whole, int64_t t)
{
    struct tensor *s = tensor_new((enum dtype)whole->dtype, whole->rank - 1u, whole->dims + 1);
    if (s->count) memcpy(s->data, (const char *)whole->data + (size_t)t * tensor_bytes(s), tensor_bytes(s));
    return s;
}

static void scan_eval(struct eval *e)
{
    const struct region *g = node_region(e->f, e->n, 0);
    uint32_t n_carry = node_group_size(e->f, e->n, GROUP_OF_CARRY), n_over = node_group_size(e->f, e->n, GROUP_OF_OVER);
    uint32_t n_args = n_carry + n_over + g->n_operands, n_stack = e->n->n_results - n_carry;
    const struct attr *length = node_attr(e->f, e->n, SCAN_LENGTH);
    int64_t steps = n_over ? e->operands[n_carry]->dims[0] : dim_eval(e->m, (dim)length->i, e->symbols);
    if (steps < 0) hop_throw(HOP_CHECK, "%sscan: its length is negative: %lld", place_text(e->m, e->n->place), (long long)steps);
    bool reverse = node_attr(e->f, e->n, SCAN_REVERSE)->kind != ATTR_ABSENT;
    struct tensor_list *args = tensor_list_begin(n_args + 1), *out = tensor_list_begin(n_carry + n_stack);
    const int64_t *symbols = eval_region_symbols(e, 0, args, n_args);
    for (uint32_t i = 0; i < n_carry; i++) args->data[i] = tensor_ref(e->operands[i]);
    for (uint32_t i = 0; i < g->n_operands; i++) args->data[n_carry + n_over + i] = tensor_ref(e->operands[g->operands + i]);
    for (uint32_t k = 0; k < n_stack; k++) {
        struct type t = type_get(e->m, value_type(e->f, e->n->results + n_carry + k));
        int64_t dims[MAX_RANK] = { steps };
        for (uint32_t d = 1; d < t.rank; d++) dims[d] = dim_eval(e->m, t.dims[d], e->symbols);
        e->results[n_carry + k] = tensor_new((enum dtype)t.dtype, t.rank, dims);
    }
    for (int64_t i = 0; i < steps; i++) {
        int64_t t = reverse ? steps - 1 - i : i;
        for (uint32_t k = 0; k < n_over; k++) tensor_list_set(args, n_carry + k, slice_of(e->operands[n_carry + k], t));
        interp_call(e->in, g->fn, symbols, args->data, out->data);
        for (uint32_t k = 0; k < n_carry; k++) tensor_list_set(args, k, out->data[k]), out->data[k] = NULL;
        for (uint32_t k = n_carry; k < n_carry + n_stack; k++) {
            size_t bytes = tensor_bytes(out->data[k]);
            if (bytes) memcpy((char *)e->results[k]->data + (size_t)t * bytes, out->data[k]->data, bytes);
            tensor_list_set(out, k, NULL);
        }
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

static val emit_scan(struct builder *b, const val *operands, const uint32_t groups[2], bool reverse, dim length, struct region_in region)
{
    struct attr attrs[2] = { [SCAN_REVERSE] = A_FLAG(reverse), [SCAN_LENGTH] = groups[GROUP_OF_OVER] ? A_NONE : A_DIM(length) };
    return builder_node(b, &(struct node_in){ .op = OP_scan, .operands = operands, .n_operands = groups[0] + groups[1], .groups = groups, .attrs = attrs,
                                              .regions = &region, .n_regions = 1 });
}

struct scan_saved {
    struct step *step;
    struct node_in in;
    val *stacks, *hoisted;
};

static void scan_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct scan_saved *saved = ARENA_NEW(&b->arena, struct scan_saved, 1);
    struct node_in in = saved->in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    struct step *s = saved->step = step_reverse(b->m, &b->arena, r->fn, in.groups[0], in.groups[1], v->active, v->result_wanted, false);
    saved->hoisted = ARENA_NEW(&b->arena, val, s->n_hoisted);
    if (s->n_hoisted) {
        val *args = ARENA_NEW(&b->arena, val, s->n_carry + s->n_over + s->n_own);
        memset(args, 0xff, (s->n_carry + s->n_over) * sizeof *args);
        memcpy(args + s->n_carry + s->n_over, r->operands, s->n_own * sizeof *args);
        inline_function(b, s->hoisted, r->dims, args, saved->hoisted);
    }
    val first = emit_scan(b, in.operands, in.groups, in.attrs[SCAN_REVERSE].kind != ATTR_ABSENT, scan_length(b, &in),
                          (struct region_in){ s->forward, r->operands, r->n_operands, r->dims });
    for (uint32_t k = 0; k < v->n->n_results; k++) v->results[k] = first + k;
    saved->stacks = ARENA_NEW(&b->arena, val, s->n_stack + s->n_extra);
    for (uint32_t k = 0; k < s->n_stack + s->n_extra; k++) saved->stacks[k] = first + s->n_carry + k;
    for (uint32_t k = 0; k < v->n->n_results; k++) v->result_active[k] = k < s->n_carry ? s->active[k] : s->result_active[k];
    v->saved = saved;
}

static void scan_vjp(struct vjp *v)
{
    const struct scan_saved *saved = v->saved;
    const struct node_in *in = &saved->in;
    step_emit_backward(v->b, &(struct step_backward){ .s = saved->step, .length = scan_length(v->b, in), .reverse = in->attrs[SCAN_REVERSE].kind != ATTR_ABSENT,
                                                      .carry = in->operands, .over = in->operands + in->groups[0], .own = in->regions[0].operands,
                                                      .stacks = saved->stacks, .hoisted = saved->hoisted, .ct = v->ct, .dims = in->regions[0].dims }, v->out);
}

/* Values of a group, then the tangents that are there (zeros for those that become active on the way). */
static uint32_t with_tangents(struct builder *b, val *out, const val *values, const val *tangents, const bool *active, uint32_t n)
{
    uint32_t total = n;
    if (n) memcpy(out, values, n * sizeof *out);
    for (uint32_t k = 0; k < n; k++)
        if (active[k]) out[total++] = tangents[k] != VAL_NONE ? tangents[k] : zeros_like(b, values[k]);
    return total;
}

static void scan_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n_carry = in.groups[0], n_over = in.groups[1], n = j->n->n_operands;
    bool *active = ARENA_NEW(&b->arena, bool, n), *stack_active = ARENA_ZNEW(&b->arena, bool, j->n->n_results);
    for (uint32_t k = 0; k < n; k++) active[k] = j->tangents[k] != VAL_NONE;
    uint32_t fn = step_jvp(b->m, r->fn, n_carry, n_over, active, stack_active);
    val *operands = ARENA_NEW(&b->arena, val, 2 * (size_t)n), *own = ARENA_NEW(&b->arena, val, 2 * (size_t)r->n_operands);
    uint32_t groups[2], n_own;
    groups[0] = with_tangents(b, operands, in.operands, j->tangents, active, n_carry);
    groups[1] = with_tangents(b, operands + groups[0], in.operands + n_carry, j->tangents + n_carry, active + n_carry, n_over);
    n_own = with_tangents(b, own, r->operands, j->tangents + n_carry + n_over, active + n_carry + n_over, r->n_operands);
    val next = emit_scan(b, operands, groups, in.attrs[SCAN_REVERSE].kind != ATTR_ABSENT, scan_length(b, &in), (struct region_in){ fn, own, n_own, r->dims });
    for (uint32_t k = 0; k < n_carry; k++) j->results[k] = next++;
    for (uint32_t k = 0; k < n_carry; k++) j->out[k] = active[k] ? next++ : VAL_NONE;
    for (uint32_t k = n_carry; k < j->n->n_results; k++) j->results[k] = next++;
    for (uint32_t k = n_carry; k < j->n->n_results; k++) j->out[k] = stack_active[k - n_carry] ? next++ : VAL_NONE;
}

static void scan_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n_carry = in.groups[0], n_over = in.groups[1];
    dim length = in.attrs[SCAN_LENGTH].kind != ATTR_ABSENT ? (dim)in.attrs[SCAN_LENGTH].i : emit_type(b, in.operands[n_carry]).dims[v->batched[n_carry] ? 1 : 0];
    bool lanes = v->lanes != VAL_NONE && module_fn(b->m, r->fn)->effects;
    bool *batched = arena_copy(&b->arena, v->batched, v->n->n_operands), *stack_batched = ARENA_ZNEW(&b->arena, bool, v->n->n_results);
    uint32_t fn = step_batch(b->m, r->fn, n_carry, batched, batch_body_size(v), lanes, stack_batched);
    val *operands = ARENA_NEW(&b->arena, val, n_carry + n_over), *own = ARENA_NEW(&b->arena, val, r->n_operands + 1);
    for (uint32_t k = 0; k < n_carry; k++)
        operands[k] = batched[k] && !v->batched[k] ? emit_broadcast_front(b, in.operands[k], v->size) : in.operands[k];
    for (uint32_t k = n_carry; k < n_carry + n_over; k++) operands[k] = v->batched[k] ? emit_move_dim(b, in.operands[k], 1, 0) : in.operands[k];
    if (r->n_operands) memcpy(own, r->operands, r->n_operands * sizeof *own);
    if (lanes) own[r->n_operands] = v->lanes;
    struct region_in region = { fn, own, r->n_operands + lanes, batch_body_dims(v, r, module_fn(b->m, fn), node_region(v->f, v->n, 0)->n_dims) };
    val next = emit_scan(b, operands, in.groups, in.attrs[SCAN_REVERSE].kind != ATTR_ABSENT, length, region);
    for (uint32_t k = 0; k < v->n->n_results; k++, next++) {
        v->result_batched[k] = k < n_carry ? batched[k] : stack_batched[k - n_carry];
        v->results[k] = k >= n_carry && v->result_batched[k] ? emit_move_dim(b, next, 1, 0) : next;
    }
}

static const struct op_sample scan_samples[] = {
    { "hop 1\nfn @sample(%h: f64[3], %xs: f64[4, 3], %w: f64[3]) -> (f64[3], f64[4, 3]) {\n"
      "  %c, %ys = scan carry(%s = %h) over(%x in %xs) with(%v = %w) {\n"
      "    %a = mul(%s, %v)\n"
      "    %b = add(%a, %x)\n"
      "    %n = tanh(%b)\n"
      "    next(%n) stack(%n)\n"
      "  }\n"
      "  return %c, %ys\n"
      "}\n", NULL },
    { "hop 1\nfn @sample(%h: f64[], %w: f64[2], %xs: f64[T]) -> (f64[], f64[T, 2], f64[T]) {\n"
      "  %c, %ys, %zs = scan {reverse} carry(%s = %h) over(%x in %xs) with(%v = %w) {\n"
      "    %a = mul(%s, %x)\n"
      "    %b = broadcast {dims = [2], at = []} (%a)\n"
      "    %d = mul(%b, %v)\n"
      "    %e = sin(%a)\n"
      "    next(%e) stack(%d, %s)\n"
      "  }\n"
      "  return %c, %ys, %zs\n"
      "}\n", NULL },
};

static const struct attr_spec scan_attrs[] = {
    [SCAN_REVERSE] = { "reverse", ATTR_FLAG, false, NULL },
    [SCAN_LENGTH] = { "length", ATTR_DIM, false, NULL },
};

const struct op_row row_scan = {
    .name = "scan",
    .meaning = "a step repeated over the leading dim of arrays: carries are passed on, further results are stacked",
    .sig = { .n_attrs = HOP_COUNT(scan_attrs), .attrs = scan_attrs, .n_groups = 2, .groups = { { "carry", GROUP_CARRY }, { "over", GROUP_OVER } },
             .min_regions = 1, .max_regions = 1, .regions = { { .word = "", .feeds = 3, .results = { "next", "stack" } } } },
    .flags = OPF_HIGHER,
    .infer = scan_infer,
    .eval = scan_eval,
    .vjp = scan_vjp,
    .vjp_forward = scan_vjp_forward,
    .jvp = scan_jvp,
    .batch = scan_batch,
    HOP_SAMPLES(scan_samples),
    .lower = &scan_lower,
};
