/* What scan and while_loop share: the step function of a loop reversed, with tangents, over lanes. A body
 * (carries…, slices…, own operands…) -> (carries…, stacks…) comes in; bodies for the transformed loops go
 * out, and the loop that runs a reversed body backwards. */
#include "hops/hops.h"
#include "transform/pass.h"

/* ---- reverse ---- */

static bool same_value(const struct fn *f, uint32_t result, uint32_t other)
{
    return f->results[result] == f->results[other];
}

/* A stack of the body that holds result k of it: k itself, or for a carry a stack of the same value;
 * HOP_NONE: none. */
static uint32_t stack_of_result(const struct fn *body, uint32_t n_carry, uint32_t k)
{
    for (uint32_t q = n_carry; q < body->n_results; q++)
        if (same_value(body, q, k)) return q - n_carry;
    return HOP_NONE;
}

static uint32_t stack_of_param(const struct fn *body, uint32_t n_carry, uint32_t p)
{
    for (uint32_t q = n_carry; q < body->n_results; q++)
        if (body->results[q] == p) return q - n_carry;
    return HOP_NONE;
}

/* Which values of the forward half depend on own operands alone, through first-order nodes without effects? A
 * size that the body finds is of one step alone, and so is a node that only mentions it. */
static bool *find_invariant(const struct module *m, struct arena *arena, const struct fn *f,
                            uint32_t n_varying)
{
    bool *invariant = ARENA_ZNEW(arena, bool, f->n_values);
    for (uint32_t p = n_varying; p < f->n_params; p++) invariant[p] = true;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        bool all = !n->n_regions && !node_effects(m, f, n) && !node_mentions_inner(m, f, n);
        for (uint32_t k = 0; k < n->n_operands; k++) all &= invariant[node_operands(f, n)[k]];
        for (uint32_t k = 0; k < n->n_results; k++) invariant[n->results + k] = all;
    }
    return invariant;
}

/* The carries that depend on what is differentiated, and those whose cotangents travel: both grow until they
 * are stable. */
static void find_activity(struct module *m, struct arena *arena, struct reversed_step *s, const bool *wanted)
{
    const struct fn *body = s->loop.body;
    do vjp_active_results(m, body->id, s->active, s->result_active);
    while (mask_grow(s->active, s->result_active, s->loop.n_carry));
    bool *want = ARENA_ZNEW(arena, bool, body->n_results);
    for (uint32_t k = 0; k < body->n_results; k++)
        want[k] = wanted[k] && (k >= s->loop.n_carry || s->active[k]);
    do s->halves = vjp_split(m, body->id, s->active, want, s->loop.n_carry, s->recompute);
    while (mask_grow(want, s->halves->ct_param, s->loop.n_carry));
    s->travels = want; /* its first n_carry entries */
}

struct extra_stacks {
    val *values; /* in the forward half */
    uint32_t n;
    uint32_t *of_carry; /* per carry: extra stack that holds its next value, HOP_NONE */
};

static uint32_t add_extra(struct extra_stacks *x, val v)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->values[i] == v) return i;
    x->values[x->n] = v;
    return x->n++;
}

static void place_param(const struct reversed_step *s, const struct fn *body, uint32_t p,
                        struct extra_stacks *extra, struct step_residual *out)
{
    uint32_t n_carry = s->loop.n_carry, first_with = loop_first_with(&s->loop);
    if (p >= first_with) {
        *out = (struct step_residual){ FROM_OPERAND, p - n_carry - s->loop.n_over, HOP_NONE };
        return;
    }
    if (p >= n_carry) {
        *out = (struct step_residual){ FROM_OVER, p - n_carry, HOP_NONE };
        return;
    }
    uint32_t before = stack_of_param(body, n_carry, p), after = stack_of_result(body, n_carry, p);
    if (body->results[p] == p) *out = (struct step_residual){ FROM_INITIAL, p, p };
    else if (before != HOP_NONE) *out = (struct step_residual){ FROM_STACK, before, p };
    else if (after != HOP_NONE) *out = (struct step_residual){ FROM_SHIFTED, after, p };
    else if (extra->of_carry[p] != HOP_NONE)
        *out = (struct step_residual){ FROM_SHIFTED, s->loop.n_stack + extra->of_carry[p], p };
    else *out = (struct step_residual){ FROM_STACK, s->loop.n_stack + add_extra(extra, p), p };
}

/* Decides where each residual comes from and what the forward loop has to stack for it. */
static void place_residuals(struct module *m, struct arena *arena, struct reversed_step *s,
                            struct extra_stacks *extra, bool *hoist)
{
    const struct fn *body = s->loop.body, *forward = module_fn(m, s->halves->forward);
    const struct vjp_halves *h = s->halves;
    bool *invariant = find_invariant(m, arena, forward, loop_first_with(&s->loop));
    extra->values = ARENA_NEW(arena, val, h->n_residuals + 1);
    extra->of_carry = ARENA_NEW(arena, uint32_t, s->loop.n_carry);
    memset(extra->of_carry, 0xff, s->loop.n_carry * sizeof *extra->of_carry);
    s->residuals = ARENA_ZNEW(arena, struct step_residual, h->n_residuals);
    uint32_t next = body->n_results;
    for (uint32_t i = 0; i < h->n_residuals;
         i++) { /* parameters come second: they may use a stack of the next carry */
        uint32_t q = h->source_result[i];
        if (h->source_param[i] != HOP_NONE) continue;
        uint32_t at = q != HOP_NONE ? q : next++;
        uint32_t stack = q != HOP_NONE ? stack_of_result(body, s->loop.n_carry, q) : HOP_NONE;
        val v = forward->results[at];
        if (invariant[v]) {
            hoist[at] = true;
            s->residuals[i] = (struct step_residual){ FROM_HOISTED, at, HOP_NONE }; /* numbered below */
        } else if (stack != HOP_NONE) {
            s->residuals[i] = (struct step_residual){ FROM_STACK, stack, HOP_NONE };
        } else {
            uint32_t e = add_extra(extra, v);
            if (q != HOP_NONE) extra->of_carry[q] = e;
            s->residuals[i] = (struct step_residual){ FROM_STACK, s->loop.n_stack + e, HOP_NONE };
        }
    }
    for (uint32_t i = 0; i < h->n_residuals; i++)
        if (h->source_param[i] != HOP_NONE) place_param(s, body, h->source_param[i], extra, &s->residuals[i]);
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        if (s->residuals[i].kind != FROM_HOISTED) continue;
        uint32_t before = 0;
        for (uint32_t k = 0; k < s->residuals[i].index; k++) before += hoist[k];
        s->residuals[i].index = before;
    }
}

static uint32_t build_forward(struct module *m, const struct reversed_step *s,
                              const struct extra_stacks *extra)
{
    const struct fn *forward = module_fn(m, s->halves->forward), *body = s->loop.body;
    struct builder b;
    struct copier c;
    builder_begin(&b, m, forward);
    copier_begin(&c, &b, forward);
    copier_params(&c);
    val *all = ARENA_NEW(&b.arena, val, forward->n_results);
    val *out = ARENA_NEW(&b.arena, val, body->n_results + extra->n + 1);
    copier_body(&c, all);
    uint32_t n = body->n_results;
    if (n) memcpy(out, all, n * sizeof *out);
    for (uint32_t i = 0; i < extra->n; i++) out[n++] = c.values[extra->values[i]];
    if (s->masked) out[n++] = emit_bool(&b, true);
    return prune_function(m, builder_finish(&b, out, n), NULL);
}

struct reversed_step *step_reverse(struct module *m, struct arena *arena, const struct loop *l,
                                   const bool *active, const bool *wanted, bool masked, bool recompute)
{
    const struct fn *body = l->body;
    struct reversed_step *s = ARENA_ZNEW(arena, struct reversed_step, 1);
    *s = (struct reversed_step){ .loop = *l,
                                 .masked = masked,
                                 .recompute = recompute,
                                 .hoisted = HOP_NONE,
                                 .active = ARENA_ZNEW(arena, bool, body->n_params),
                                 .result_active = ARENA_ZNEW(arena, bool, body->n_results) };
    s->loop.n_stack = body->n_results - l->n_carry;
    for (uint32_t p = 0; p < body->n_params; p++) s->active[p] = active[p];
    find_activity(m, arena, s, wanted);
    struct extra_stacks extra = { 0 };
    bool *hoist = ARENA_ZNEW(arena, bool, module_fn(m, s->halves->forward)->n_results);
    place_residuals(m, arena, s, &extra, hoist);
    for (uint32_t k = 0; k < module_fn(m, s->halves->forward)->n_results; k++) s->n_hoisted += hoist[k];
    if (s->n_hoisted) s->hoisted = strip_effects(m, s->halves->forward, hoist);
    s->forward = build_forward(m, s, &extra);
    s->n_extra = extra.n + masked;
    return s;
}

static const char *residual_reason(const struct reversed_step *s, const struct step_residual *r)
{
    bool extra = r->index >= s->loop.n_stack;
    switch (r->kind) {
    case FROM_OPERAND: return "an operand of the loop";
    case FROM_INITIAL: return "an operand of the loop: no step changes the carry";
    case FROM_HOISTED: return "the same in every step: computed once";
    case FROM_OVER: return "a slice of an operand of the loop";
    case FROM_SHIFTED:
        return extra ? "the carry before the step: what the step before it keeps"
                     : "the carry before the step: the stacked result of the step before it";
    default:
        if (!extra) return "a stacked result of the loop";
        return r->carry != HOP_NONE ? "the carry before the step" : "dearer to compute again";
    }
}

/* How many rows what is kept of every step has; HOP_NONE: as many as carries are kept of. */
static dim step_rows(const struct builder *b, const struct reversed_step *s)
{
    if (loop_has_length(&s->loop)) return s->loop.length;
    if (s->snapshots) return HOP_NONE;
    return emit_type(b, s->made.stacks + s->loop.n_stack + s->n_extra - 1).dims[0];
}

/* Says what the loop n keeps. */
static void step_tell(struct builder *b, const struct reversed_step *s, const struct node *n)
{
    dim rows = step_rows(b, s);
    const dim *dims = s->loop.dims;
    uint32_t snapshots = s->snapshots;
    struct module *m = b->m;
    const struct fn *body = s->loop.body, *forward = module_fn(m, s->halves->forward);
    uint32_t next = body->n_results;
    for (uint32_t i = 0; i < s->halves->n_residuals; i++) {
        const struct step_residual *r = &s->residuals[i];
        uint32_t p = s->halves->source_param[i], q = s->halves->source_result[i];
        val v = p != HOP_NONE ? p : forward->results[q != HOP_NONE ? q : next++];
        bool once = r->kind == FROM_OPERAND || r->kind == FROM_INITIAL || r->kind == FROM_HOISTED;
        bool kept = r->kind == FROM_HOISTED || (r->kind == FROM_STACK && r->index >= s->loop.n_stack);
        if (snapshots && !once && r->carry != HOP_NONE) continue;
        struct saved_value told = { .by = node_row(n),
                                    .place = n->place,
                                    .name = forward->values[v].name,
                                    .type = type_substitute(m, value_type(forward, v), dims),
                                    .rows = once ? HOP_NONE : rows,
                                    .there = !kept,
                                    .why = residual_reason(s, r),
                                    .forward = kept && r->carry == HOP_NONE ? forward : NULL,
                                    .made = v };
        saved_add(m, told);
    }
    for (uint32_t k = 0; k < s->loop.n_carry && snapshots; k++)
        if (body->results[k] != k)
            saved_add(m, (struct saved_value){ .by = node_row(n),
                                               .place = n->place,
                                               .name = body->values[k].name,
                                               .type = type_substitute(m, value_type(body, k), dims),
                                               .rows = dim_const(m, (int64_t)snapshots + 1),
                                               .why = "snapshots of the carry, and the one at hand" });
    if (s->masked)
        saved_add(m, (struct saved_value){ .by = node_row(n),
                                           .place = n->place,
                                           .type = type_scalar(m, DT_BOOL),
                                           .rows = rows,
                                           .why = "which steps ran, where lanes differ" });
    saved_add_inside(m, node_row(n), n->place, s->halves->saved);
}

/* The hoisted residuals, computed where the forward loop stands. */
static const val *emit_hoisted(struct builder *b, const struct reversed_step *s)
{
    const struct loop *l = &s->loop;
    val *out = ARENA_NEW(&b->arena, val, s->n_hoisted);
    if (!s->n_hoisted) return out;
    val *args = ARENA_NEW(&b->arena, val, l->body->n_params);
    memset(args, 0xff, loop_first_with(l) * sizeof *args);
    if (l->n_with) memcpy(args + loop_first_with(l), l->with, l->n_with * sizeof *args);
    inline_function(b, s->hoisted, l->dims, args, out);
    return out;
}

void step_emit_forward(struct builder *b, struct reversed_step *s, const struct loop *like,
                       uint32_t snapshots, const struct node *n)
{
    struct loop made = *like;
    s->snapshots = snapshots;
    s->kept = emit_hoisted(b, s);
    if (!snapshots) made.body = module_fn(b->m, s->forward);
    s->made = loop_build(b, &made);
    step_tell(b, s, n);
}

/* Row t of the result is what carry `carry` was before step t: its stacked next values one step earlier. */
static val shifted_stack(struct builder *b, val initial, val stack, bool reverse)
{
    struct type t = emit_type(b, stack);
    val first = emit_broadcast_front(b, initial, 1);
    struct attr along = A_INT(0);
    val parts[2] = { reverse ? stack : first, reverse ? first : stack };
    val all = emit(b, OP_concat, parts, 2, &along);
    dim start[MAX_RANK] = { reverse ? 1 : 0 }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    if (reverse) limit[0] = dim_add(b->m, t.dims[0], 1);
    return emit_slice(b, all, start, limit); /* not "all but one row": there may be no step */
}

uint32_t list_once(val *list, uint32_t *n, val v)
{
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] == v) return i;
    list[*n] = v;
    return (*n)++;
}

static void gather_operands(struct builder *b, const struct step_backward *in, struct backward_operands *out)
{
    uint32_t n = in->s->halves->n_residuals;
    *out = (struct backward_operands){ ARENA_NEW(&b->arena, val, n),      ARENA_NEW(&b->arena, val, n),  0, 0,
                                       ARENA_NEW(&b->arena, uint32_t, n), ARENA_ZNEW(&b->arena, bool, n) };
    val *shifted = ARENA_NEW(&b->arena, val, in->s->loop.n_carry);
    memset(shifted, 0xff, in->s->loop.n_carry * sizeof *shifted);
    for (uint32_t i = 0; i < n; i++) {
        const struct step_residual *r = &in->s->residuals[i];
        if (r->kind == FROM_OPERAND || r->kind == FROM_INITIAL || r->kind == FROM_HOISTED) {
            const val *from = in->s->kept;
            if (r->kind == FROM_OPERAND) from = in->s->loop.with;
            if (r->kind == FROM_INITIAL) from = in->s->loop.carry;
            val v = from[r->index];
            out->is_own[i] = true;
            out->at[i] = list_once(out->own, &out->n_own, v);
            continue;
        }
        val v = r->kind == FROM_OVER ? in->over[r->index] : in->s->made.stacks + r->index;
        if (r->kind == FROM_SHIFTED) {
            if (shifted[r->carry] == VAL_NONE)
                shifted[r->carry] = shifted_stack(b, in->s->loop.carry[r->carry], v, in->s->loop.reverse);
            v = shifted[r->carry];
        }
        out->at[i] = list_once(out->over, &out->n_over, v);
    }
}

/* (cotangents of carries that travel…, accumulators…; cotangents of stacks…, residual rows…; own residuals…)
 * -> (cotangents of carries…, accumulators…; cotangents of slices…). Of a map there are no accumulators: what
 * would be added is stacked. */
uint32_t step_backward_body(struct module *m, const struct step_backward *in,
                            const struct backward_operands *ops)
{
    const struct reversed_step *s = in->s;
    const struct vjp_halves *h = s->halves;
    const struct fn *body = s->loop.body, *back = module_fn(m, h->backward);
    uint32_t first_own = loop_first_with(&s->loop);
    struct builder b;
    builder_begin(&b, m, back);
    val *carry = ARENA_NEW(&b.arena, val, s->loop.n_carry);
    val *sums = ARENA_NEW(&b.arena, val, s->loop.n_with);
    val *stack_ct = ARENA_NEW(&b.arena, val, s->loop.n_stack);
    val *over = ARENA_NEW(&b.arena, val, ops->n_over), *own = ARENA_NEW(&b.arena, val, ops->n_own);
    type_id *over_type = ARENA_NEW(&b.arena, type_id, ops->n_over);
    type_id *own_type = ARENA_NEW(&b.arena, type_id, ops->n_own);
    for (uint32_t i = 0; i < h->n_residuals; i++)
        (ops->is_own[i] ? own_type : over_type)[ops->at[i]] = value_type(back, i);
    for (uint32_t k = 0; k < s->loop.n_carry; k++)
        carry[k] = s->travels[k] ? builder_param(&b, value_type(body, k), 0) : VAL_NONE;
    for (uint32_t k = 0; k < s->loop.n_with; k++) {
        bool summed = h->ct_param[first_own + k] && !in->map;
        sums[k] = summed ? builder_param(&b, value_type(body, first_own + k), 0) : VAL_NONE;
    }
    for (uint32_t k = 0; k < s->loop.n_stack; k++) {
        uint32_t row = s->loop.n_carry + k; /* among the body's results */
        bool given = h->ct_result[row] && in->ct[row] != VAL_NONE;
        stack_ct[k] = given ? builder_param(&b, value_type(body, body->results[row]), 0) : VAL_NONE;
    }
    for (uint32_t i = 0; i < ops->n_over; i++) over[i] = builder_param(&b, over_type[i], 0);
    for (uint32_t i = 0; i < ops->n_own; i++) own[i] = builder_param(&b, own_type[i], 0);

    val *args = ARENA_NEW(&b.arena, val, back->n_params);
    val *ct = ARENA_NEW(&b.arena, val, back->n_results);
    val *out = ARENA_NEW(&b.arena, val, body->n_params);
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n_residuals; i++) args[n++] = (ops->is_own[i] ? own : over)[ops->at[i]];
    for (uint32_t k = 0; k < body->n_results; k++) {
        if (!h->ct_result[k]) continue;
        val v = k < s->loop.n_carry ? carry[k] : stack_ct[k - s->loop.n_carry];
        args[n++] = v != VAL_NONE ? v : zeros_of(&b, value_type(body, body->results[k]));
    }
    inline_function(&b, h->backward, NULL, args, ct);
    n = 0;
    uint32_t from = 0;
    val *found = ARENA_NEW(&b.arena, val, body->n_params);
    for (uint32_t p = 0; p < body->n_params; p++) found[p] = h->ct_param[p] ? ct[from++] : VAL_NONE;
    for (uint32_t k = 0; k < s->loop.n_carry; k++) {
        if (!s->travels[k]) continue;
        out[n++] = found[k] != VAL_NONE ? found[k] : zeros_like(&b, carry[k]);
    }
    for (uint32_t k = 0; k < s->loop.n_with; k++) {
        if (found[first_own + k] != VAL_NONE)
            out[n++] = in->map ? found[first_own + k] : add_cotangents(&b, sums[k], found[first_own + k]);
    }
    for (uint32_t k = 0; k < s->loop.n_over; k++)
        if (found[s->loop.n_carry + k] != VAL_NONE) out[n++] = found[s->loop.n_carry + k];
    return builder_finish(&b, out, n);
}

/* The body for rows that may not have been run (by a lane, or behind the last trip): then cotangents stay as
 * they are. A switch rather than a select, because the residuals of such a row mean nothing and must not be
 * computed with, also when this is differentiated again. */
static uint32_t only_if_ran(struct module *m, uint32_t fn, uint32_t n_carry, uint32_t n_over)
{
    const struct fn *step = module_fn(m, fn);
    struct builder b;
    builder_begin(&b, m, step);
    for (uint32_t k = 0; k < n_carry; k++) builder_param(&b, value_type(step, k), 0);
    val *same = ARENA_NEW(&b.arena, val, n_carry);
    for (uint32_t k = 0; k < n_carry; k++) same[k] = k;
    uint32_t pass = builder_finish(&b, same, n_carry);

    builder_begin(&b, m, step);
    val *args = ARENA_NEW(&b.arena, val, step->n_params), *out = ARENA_NEW(&b.arena, val, n_carry);
    dim *dims = ARENA_NEW(&b.arena, dim, step->n_outer_symbols);
    for (uint32_t k = 0; k < step->n_outer_symbols; k++) dims[k] = dim_symbol(m, k);
    for (uint32_t p = 0; p < n_carry + n_over; p++) args[p] = builder_param(&b, value_type(step, p), 0);
    val ran = builder_param(&b, type_scalar(m, DT_BOOL), 0);
    for (uint32_t p = n_carry + n_over; p < step->n_params; p++)
        args[p] = builder_param(&b, value_type(step, p), 0);
    struct region_in regions[2] = { { pass, args, n_carry, dims }, { fn, args, step->n_params, dims } };
    val first = builder_node(&b, &(struct node_in){ .op = OP_switch,
                                                    .operands = &ran,
                                                    .n_operands = 1,
                                                    .groups = (const uint32_t[1]){ 1 },
                                                    .regions = regions,
                                                    .n_regions = 2 });
    for (uint32_t k = 0; k < n_carry; k++) out[k] = first + k;
    return builder_finish(&b, out, n_carry);
}

void step_initial_cotangents(struct builder *b, const struct step_backward *in, val_list *out)
{
    const struct reversed_step *s = in->s;
    const struct loop *l = &s->loop;
    const bool *sums = s->halves->ct_param + loop_first_with(l);
    for (uint32_t k = 0; k < l->n_carry; k++) {
        if (!s->travels[k]) continue;
        bool known = in->ct[k] != VAL_NONE;
        vec_push(&b->arena, out, known ? in->ct[k] : zeros_like(b, l->carry[k]));
    }
    if (in->map) return;
    for (uint32_t k = 0; k < l->n_with; k++)
        if (sums[k]) vec_push(&b->arena, out, zeros_like(b, l->with[k]));
}

void step_emit_backward(struct builder *b, const struct step_backward *in, val *out)
{
    const struct reversed_step *s = in->s;
    const struct loop *l = &s->loop;
    const struct vjp_halves *h = s->halves;
    struct backward_operands ops;
    gather_operands(b, in, &ops);
    uint32_t fn = step_backward_body(b->m, in, &ops);
    val_list carry = { 0 };
    val_list over = { 0 };
    step_initial_cotangents(b, in, &carry);
    for (uint32_t k = l->n_carry; k < l->body->n_results; k++)
        if (h->ct_result[k] && in->ct[k] != VAL_NONE) vec_push(&b->arena, &over, in->ct[k]);
    for (uint32_t i = 0; i < ops.n_over; i++) vec_push(&b->arena, &over, ops.over[i]);
    if (s->masked) {
        uint32_t last_stack = l->n_stack + s->n_extra - 1;
        fn = only_if_ran(b->m, fn, carry.len, over.len);
        vec_push(&b->arena, &over, s->made.stacks + last_stack);
    }
    struct loop back = loop_new(in->map ? LOOP_MAP : LOOP_SCAN);
    back.carry = carry.data;
    back.n_carry = carry.len;
    back.over = over.data;
    back.n_over = over.len;
    back.length = in->length;
    back.reverse = !l->reverse;
    loop_set_body(&back, b->m, (struct region_in){ fn, ops.own, ops.n_own, l->dims });
    struct loop_results made = loop_build(b, &back);
    val next = made.last; /* of a map no cotangent travels: then these are the first stacks */
    for (uint32_t p = 0; p < l->body->n_params; p++) out[p] = VAL_NONE;
    for (uint32_t k = 0; k < l->n_carry; k++)
        if (s->travels[k]) out[k] = next++;
    for (uint32_t p = loop_first_with(l); p < l->body->n_params; p++) {
        if (!h->ct_param[p]) continue;
        out[p] = next++;
        if (in->map) out[p] = emit_reduce(b, OP_sum, out[p], (const uint32_t[1]){ 0 }, 1);
    }
    for (uint32_t p = l->n_carry; p < loop_first_with(l); p++)
        if (h->ct_param[p]) out[p] = next++;
}

val emit_indices(struct builder *b, val from, dim trips)
{
    struct attr count[3] = { [IOTA_DIMS] = A_DIMS(&trips, 1), [IOTA_DIM] = A_NONE, [IOTA_DTYPE] = A_NONE };
    return emit2(b, OP_add, emit(b, OP_iota, NULL, 0, count), emit_broadcast_front(b, from, trips));
}

/* Cotangents of what the body gives, out of those of the node; of carries that the node has not: zero. */
static const val *body_cotangents(const struct vjp *v, const struct loop *l, const struct reversed_step *s)
{
    val *ct = ARENA_NEW(&v->b->arena, val, s->loop.body->n_results);
    for (uint32_t k = 0; k < s->loop.body->n_results; k++) ct[k] = VAL_NONE;
    for (uint32_t k = 0; k < l->n_carry; k++) ct[k] = v->ct[k];
    for (uint32_t k = 0; k < l->n_stack; k++) ct[s->loop.n_carry + k] = v->ct[loop_stack_result(l, k)];
    return ct;
}

void step_vjp(struct vjp *v, const struct reversed_step *s, bool map)
{
    struct builder *b = v->b;
    struct loop l; /* what stands in f: s->loop may have carries and own operands more */
    loop_of_node(b->m, v->f, v->n, &l);
    struct loop_positions at = loop_positions(v->f, v->n);
    bool counted = s->loop.kind == LOOP_COUNTED;
    struct step_backward back = {
        .s = s, .length = step_rows(b, s), .map = map, .over = s->loop.over, .ct = body_cotangents(v, &l, s)
    };
    val *out = ARENA_NEW(&b->arena, val, s->loop.body->n_params), indices;
    if (s->snapshots) {
        struct snapshots how = { .count = s->snapshots, .trips = s->made.trips, .from = s->loop.from };
        if (counted) how.trips = emit_trips(b, s->loop.from, s->loop.to);
        step_emit_from_snapshots(b, &back, &how, out);
    } else {
        if (counted) {
            indices = emit_indices(b, s->loop.from, back.length);
            back.over = &indices;
        }
        step_emit_backward(b, &back, out);
    }
    for (uint32_t k = 0; k < l.n_carry; k++) v->out[at.carry + k] = out[k];
    for (uint32_t k = 0; loop_has_length(&l) && k < l.n_over; k++) v->out[at.over + k] = out[l.n_carry + k];
    for (uint32_t k = 0; k < l.n_with; k++) v->out[at.with + k] = out[loop_first_with(&s->loop) + k];
}

/* ---- tangents ---- */

uint32_t step_jvp(struct module *m, uint32_t body_fn, uint32_t n_carry, uint32_t n_over, bool *active,
                  bool *stack_active)
{
    const struct fn *body = module_fn(m, body_fn);
    struct builder b;
    builder_begin(&b, m, body);
    bool *found = ARENA_ZNEW(&b.arena, bool, body->n_results);
    struct arena *arena = &b.arena;
    uint32_t fn;
    do fn = jvp_function(m, body_fn, active, found);
    while (mask_grow(active, found, n_carry));
    b.label = fn_label(module_fn(m, fn));
    /* Parameters are values of each group, then tangents of the group; jvp_function has all tangents last. */
    const uint32_t ends[3] = { n_carry, n_carry + n_over, body->n_params };
    uint32_t first = 0;
    val_list args = { 0 };
    val_list tangents = { 0 };
    for (uint32_t g = 0; g < 3; g++) {
        for (uint32_t p = first; p < ends[g]; p++)
            vec_push(arena, &args, builder_param(&b, value_type(body, p), body->values[p].name));
        for (uint32_t p = first; p < ends[g]; p++)
            if (active[p]) vec_push(arena, &tangents, builder_param(&b, value_type(body, p), 0));
        first = ends[g];
    }
    for (uint32_t k = 0; k < tangents.len; k++) vec_push(arena, &args, tangents.data[k]);
    val *all = ARENA_NEW(arena, val, 2 * (size_t)body->n_results);
    inline_function(&b, fn, NULL, args.data, all);
    const val *dot = all + body->n_results; /* of the results that have one */
    val_list out = { 0 };
    for (uint32_t k = 0; k < n_carry; k++) vec_push(arena, &out, all[k]);
    for (uint32_t k = 0; k < n_carry; k++)
        if (active[k]) vec_push(arena, &out, found[k] ? *dot++ : zeros_like(&b, all[k]));
    for (uint32_t k = n_carry; k < body->n_results; k++) vec_push(arena, &out, all[k]);
    for (uint32_t k = n_carry; k < body->n_results; k++) {
        stack_active[k - n_carry] = found[k];
        if (found[k]) vec_push(arena, &out, *dot++);
    }
    return builder_finish(&b, out.data, out.len);
}

/* ---- lanes ---- */

uint32_t body_over_lanes(const struct batch *v, uint32_t body, const bool *batched, const bool *force,
                         bool lanes, bool *found)
{
    struct module *m = v->b->m;
    uint32_t fn = batch_body(v, body, batched, force, lanes, found);
    if (!lanes) return fn;
    const struct fn *inner = module_fn(m, fn); /* its mask stands first: a loop's own operands stand last */
    struct builder b;
    builder_begin(&b, m, inner);
    val *args = ARENA_NEW(&b.arena, val, inner->n_params), *out = ARENA_NEW(&b.arena, val, inner->n_results);
    for (uint32_t p = 1; p < inner->n_params; p++)
        args[p] = builder_param(&b, value_type(inner, p), inner->values[p].name);
    args[0] = builder_param(&b, value_type(inner, 0), inner->values[0].name);
    inline_function(&b, fn, NULL, args, out);
    return builder_finish(&b, out, inner->n_results);
}

uint32_t step_batch(const struct batch *v, uint32_t body_fn, uint32_t n_carry, bool *batched, bool lanes,
                    bool *stack_batched)
{
    const struct fn *body = module_fn(v->b->m, body_fn);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    bool *force = ARENA_ZNEW(&arena, bool, body->n_results);
    bool *found = ARENA_ZNEW(&arena, bool, body->n_results);
    uint32_t fn;
    do {
        mask_grow(force, batched, n_carry);
        fn = body_over_lanes(v, body_fn, batched, force, lanes, found);
    } while (mask_grow(batched, found, n_carry));
    for (uint32_t k = n_carry; k < body->n_results; k++) stack_batched[k - n_carry] = found[k];
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return fn;
}
