/* What the gradient of a loop keeps: the attributes that say it, and the way back from a fixed number of
 * snapshots.
 *
 * A loop that kept only its initial carries is gone through backwards over a buffer of snapshots of its
 * carries: the carries before step t are computed again from the last snapshot before t, and on the way
 * further snapshots are taken where they save most (the binomial rule: no way back with that many rows runs
 * fewer steps again). The forward step and its reverse come in; ordinary loops go out, which batch,
 * differentiate and compile like any other. */
#include "hops/hops.h"

/* ---- attributes ---- */

const char *const schedule_words[] = { [SCHEDULE_NONE] = "none",
                                       [SCHEDULE_RECOMPUTE] = "recompute",
                                       [SCHEDULE_SQRT] = "sqrt",
                                       [SCHEDULE_BINOMIAL] = "binomial",
                                       NULL };

enum { WORD, EVERY, SNAPSHOTS };

void infer_schedule(struct infer *in, const struct attr *attrs)
{
    const struct attr *every = &attrs[EVERY], *snapshots = &attrs[SNAPSHOTS];
    for (uint32_t i = 0; every->kind != ATTR_ABSENT && i < every->n; i++)
        if ((int32_t)every->list[i] < 1)
            infer_error(in, "attribute 'every': expected numbers of steps of at least 1, found %d",
                        (int32_t)every->list[i]);
    if (every->kind != ATTR_ABSENT && attrs[WORD].kind != ATTR_ABSENT)
        infer_error(in, "both 'schedule' and 'every' are given");
    bool binomial = attrs[WORD].kind != ATTR_ABSENT && attrs[WORD].i == SCHEDULE_BINOMIAL;
    if (binomial != (snapshots->kind != ATTR_ABSENT))
        infer_error(in, binomial ? "schedule = binomial: 'snapshots' must say how many carries are kept"
                                 : "'snapshots' is given without schedule = binomial");
    if (binomial && (snapshots->i < 1 || snapshots->i > 1 << 20))
        infer_error(in, "attribute 'snapshots': expected a number from 1 to %d, found %lld", 1 << 20,
                    (long long)snapshots->i);
}

struct schedule schedule_of(const struct attr *attrs)
{
    const struct attr *every = &attrs[EVERY];
    if (attrs[WORD].kind != ATTR_ABSENT) {
        struct schedule s = { .kind = (uint8_t)attrs[WORD].i };
        if (attrs[WORD].i == SCHEDULE_BINOMIAL) s.snapshots = (uint32_t)attrs[SNAPSHOTS].i;
        return s;
    }
    if (every->kind == ATTR_ABSENT || !every->n) return (struct schedule){ .kind = SCHEDULE_NONE };
    uint32_t skip = 0; /* blocks of one step are no blocks */
    while (skip < every->n && every->list[skip] == 1) skip++;
    if (skip) return (struct schedule){ .kind = SCHEDULE_RECOMPUTE };
    return (struct schedule){ .kind = SCHEDULE_EVERY, .n_every = every->n, .every = every->list };
}

/* ---- small things ---- */

static val number(struct builder *b, int64_t value)
{
    struct attr a[3] = { A_INT(value), A_DIMS(NULL, 0), A_DTYPE(DT_I64) };
    return emit(b, OP_full, NULL, 0, a);
}
static val row_of(struct builder *b, val x, val index)
{
    struct attr along = A_INT(0);
    return emit(b, OP_take, (val[]){ x, index }, 2, &along);
}
static val with_row(struct builder *b, val x, val row, val index)
{
    uint32_t rank = emit_type(b, x).rank;
    val operands[MAX_RANK + 2] = { x, emit_broadcast_front(b, row, 1), index };
    val zero = rank > 1 ? number(b, 0) : VAL_NONE;
    for (uint32_t i = 1; i < rank; i++) operands[2 + i] = zero;
    return emit(b, OP_dynamic_update, operands, rank + 2, NULL);
}

static val emit_while_loop(struct builder *b, const val *carry, uint32_t n_carry, struct region_in cond,
                           struct region_in body)
{
    struct loop l = loop_new(LOOP_WHILE);
    l.carry = carry;
    l.n_carry = n_carry;
    loop_set_cond(&l, b->m, cond);
    loop_set_body(&l, b->m, body);
    return loop_build(b, &l).last;
}

/* What the parameters of a body are like: `fed`; rows of `over`, or an index; `own`. */
struct inputs {
    const val *fed, *over, *own;
    uint32_t n_fed, n_over, n_own;
    bool counted;
};
/* Starts such a body. dims: further dims of the function around, which become its own. */
static void inside_begin(struct new_body *body, struct builder *around, const struct inputs *in,
                         const dim **dims, uint32_t n_dims)
{
    new_body_begin(body, around, NULL, NULL, 0);
    struct arena *arena = &body->b.arena;
    uint32_t n = 0;
    type_id *types = ARENA_NEW(arena, type_id, in->n_fed + in->n_over + 1 + in->n_own);
    dim *inner = ARENA_NEW(arena, dim, n_dims);
    for (uint32_t i = 0; i < in->n_fed; i++)
        types[n++] = new_body_type(body, builder_type(around, in->fed[i]));
    for (uint32_t i = 0; i < in->n_over; i++)
        types[n++] = new_body_type(body, type_drop_leading(around->m, builder_type(around, in->over[i])));
    if (in->counted) types[n++] = type_scalar(around->m, DT_I64);
    for (uint32_t i = 0; i < in->n_own; i++)
        types[n++] = new_body_type(body, builder_type(around, in->own[i]));
    for (uint32_t i = 0; i < n_dims; i++) inner[i] = new_body_dim(body, (*dims)[i]);
    for (uint32_t i = 0; i < n; i++) builder_param(&body->b, types[i], 0);
    if (n_dims) *dims = inner;
}

/* ---- how far to the next snapshot ---- */

/* With s rows free, the one that holds the present snapshot among them, and every step run again at most r
 * times, B(r) = (s + r)! / (s! r!) steps can be gone back. Of l steps, with r the least for which B(r) >= l,
 * the first max(B(r - 2), l - B(r) s / (s + r)) are gone before the next snapshot (at least one): then each
 * part is within what its rows can do, the first with r - 1 and the second with r. */
static val steps_to_next(struct builder *b, val l, val s)
{
    enum { R, B0, B1, B2, STATE };
    val start[STATE] = { number(b, 0), number(b, 1), number(b, 0), number(b, 0) };
    struct new_body body;
    struct builder *i = &body.b;
    inside_begin(&body, b, &(struct inputs){ .fed = start, .n_fed = STATE, .own = &l, .n_own = 1 }, NULL, 0);
    val test = emit2(i, OP_lt, B0, STATE);
    struct region_in cond = new_body_finish(&body, &test, 1, &l, 1);
    inside_begin(&body, b, &(struct inputs){ .fed = start, .n_fed = STATE, .own = &s, .n_own = 1 }, NULL, 0);
    val r = emit2(i, OP_add, R, number(i, 1));
    val larger = emit2(i, OP_div, emit2(i, OP_mul, B0, emit2(i, OP_add, STATE, r)), r);
    val next[STATE] = { [R] = r, [B0] = larger, [B1] = B0, [B2] = B1 };
    struct region_in grow = new_body_finish(&body, next, STATE, &s, 1);
    val last = emit_while_loop(b, start, STATE, cond, grow);
    val rest = emit2(b, OP_div, emit2(b, OP_mul, last + B0, s), emit2(b, OP_add, s, last + R));
    return emit2(b, OP_max, emit2(b, OP_max, last + B2, number(b, 1)), emit2(b, OP_sub, l, rest));
}

/* ---- carries again ---- */

struct way_back {
    const struct step_backward *in;
    const struct snapshots *how;
    bool rows;     /* slices are rows of arrays: a scan */
    uint32_t step; /* gives carries alone, without effects */
    bool *varies;  /* per carry: it changes from step to step, and has a buffer of snapshots */
    uint32_t n_varies;
    /* What a step takes beside these carries, in this order: own operands; arrays that it takes slices of;
     * carries that never change; the last index of those arrays, or the first one of the counted loop. */
    val *needs;
    uint32_t n_needs, n_dims;
};

static void list_needs(struct builder *b, struct way_back *w)
{
    const struct step_backward *in = w->in;
    const struct reversed_step *s = in->s;
    w->needs = ARENA_NEW(&b->arena, val, s->loop.n_with + s->loop.n_over + s->loop.n_carry + 1);
    for (uint32_t k = 0; k < s->loop.n_with; k++) w->needs[w->n_needs++] = in->s->loop.with[k];
    for (uint32_t k = 0; k < s->loop.n_over && w->rows; k++) w->needs[w->n_needs++] = in->over[k];
    for (uint32_t k = 0; k < s->loop.n_carry; k++)
        if (!w->varies[k]) w->needs[w->n_needs++] = in->s->loop.carry[k];
    if (w->rows && in->s->loop.reverse)
        w->needs[w->n_needs++] = emit2(b, OP_sub, emit_dim_value(b, in->length), number(b, 1));
    if (!w->rows && s->loop.n_over) w->needs[w->n_needs++] = w->how->from;
}

/* One step: (carries that vary…, index, needs…) -> (carries that vary…). */
static struct region_in one_step(struct builder *around, const struct way_back *w, const val *carry,
                                 const val *needs, const dim *dims)
{
    const struct reversed_step *s = w->in->s;
    struct new_body body;
    struct builder *b = &body.b;
    inside_begin(&body, around,
                 &(struct inputs){
                     .fed = carry, .n_fed = w->n_varies, .counted = true, .own = needs, .n_own = w->n_needs },
                 &dims, w->n_dims);
    val index = w->n_varies;
    val need = index + 1;
    val fixed = need + s->loop.n_with + (w->rows ? s->loop.n_over : 0);
    val at = index, from = 0;
    val *args = ARENA_NEW(&b->arena, val, s->loop.body->n_params);
    val *all = ARENA_NEW(&b->arena, val, s->loop.n_carry);
    val *out = ARENA_NEW(&b->arena, val, w->n_varies);
    for (uint32_t k = 0; k < s->loop.n_carry; k++) args[k] = w->varies[k] ? from++ : fixed++;
    if (w->rows && w->in->s->loop.reverse) at = emit2(b, OP_sub, fixed, index);
    if (!w->rows && s->loop.n_over) at = emit2(b, OP_add, fixed, index);
    for (uint32_t k = 0; k < s->loop.n_over; k++)
        args[s->loop.n_carry + k] = w->rows ? row_of(b, need + s->loop.n_with + k, at) : at;
    for (uint32_t k = 0; k < s->loop.n_with; k++) args[loop_first_with(&s->loop) + k] = need + k;
    inline_function(b, w->step, dims, args, all);
    from = 0;
    for (uint32_t k = 0; k < s->loop.n_carry; k++)
        if (w->varies[k]) out[from++] = all[k];
    return new_body_finish(&body, out, w->n_varies, needs, w->n_needs);
}

/* The snapshots: how many rows are in use less one, the step before which each was taken, and the carries. */
enum { TOP, POSITIONS, BUFFERS };

/* Goes on from the last snapshot, takes the next: (snapshots…; time, needs…) -> (snapshots…). */
static struct region_in advance(struct builder *around, const struct way_back *w, const val *snapshots,
                                const val *own, const dim *dims)
{
    uint32_t n = BUFFERS + w->n_varies;
    struct new_body body;
    struct builder *b = &body.b;
    inside_begin(&body, around,
                 &(struct inputs){ .fed = snapshots, .n_fed = n, .own = own, .n_own = 1 + w->n_needs }, &dims,
                 w->n_dims);
    val time = n;
    val *needs = ARENA_NEW(&b->arena, val, w->n_needs);
    val *out = ARENA_NEW(&b->arena, val, n);
    val *carry = ARENA_NEW(&b->arena, val, w->n_varies);
    for (uint32_t k = 0; k < w->n_needs; k++) needs[k] = time + 1 + k;
    val one = number(b, 1), from = row_of(b, POSITIONS, TOP);
    val steps = steps_to_next(b, emit2(b, OP_sub, emit2(b, OP_add, time, one), from),
                              emit2(b, OP_sub, number(b, w->how->count), TOP));
    for (uint32_t k = 0; k < w->n_varies; k++) carry[k] = row_of(b, BUFFERS + k, TOP);
    val to = emit2(b, OP_add, from, steps);
    struct loop again = loop_new(LOOP_COUNTED);
    again.carry = carry;
    again.n_carry = w->n_varies;
    again.from = from;
    again.to = to;
    loop_set_body(&again, b->m, one_step(b, w, carry, needs, dims));
    val there = loop_build(b, &again).last;
    out[TOP] = emit2(b, OP_add, TOP, one);
    out[POSITIONS] = with_row(b, POSITIONS, to, out[TOP]);
    for (uint32_t k = 0; k < w->n_varies; k++)
        out[BUFFERS + k] = with_row(b, BUFFERS + k, there + k, out[TOP]);
    return new_body_finish(&body, out, n, own, 1 + w->n_needs);
}

/* Makes the last snapshot that of the carries before step `time`. Returns the snapshots. */
static val emit_snapshot_at(struct builder *b, const struct way_back *w, const val *snapshots, val time,
                            const val *needs, const dim *dims)
{
    uint32_t n = BUFFERS + w->n_varies;
    val *own = ARENA_NEW(&b->arena, val, 1 + w->n_needs);
    own[0] = time;
    if (w->n_needs) memcpy(own + 1, needs, w->n_needs * sizeof *own);
    struct new_body body;
    inside_begin(&body, b, &(struct inputs){ .fed = snapshots, .n_fed = n, .own = own, .n_own = 1 }, NULL, 0);
    val before = emit2(&body.b, OP_lt, row_of(&body.b, POSITIONS, TOP), n);
    struct region_in cond = new_body_finish(&body, &before, 1, own, 1);
    return emit_while_loop(b, snapshots, n, cond, advance(b, w, snapshots, own, dims));
}

/* ---- the loop back ---- */

/* Residuals that no array holds: a carry, or the index. They stand among the slices of the reversed step
 * under numbers that no value has. */
#define CARRY_MARK 0x80000000u
#define INDEX_MARK 0xC0000000u

static void sort_residuals(struct builder *b, const struct way_back *w, struct backward_operands *out)
{
    const struct step_backward *in = w->in;
    uint32_t n = in->s->halves->n_residuals;
    *out = (struct backward_operands){ ARENA_NEW(&b->arena, val, n),      ARENA_NEW(&b->arena, val, n),  0, 0,
                                       ARENA_NEW(&b->arena, uint32_t, n), ARENA_ZNEW(&b->arena, bool, n) };
    for (uint32_t i = 0; i < n; i++) {
        const struct step_residual *r = &in->s->residuals[i];
        val v = VAL_NONE;
        switch (r->kind) {
        case FROM_OPERAND: v = in->s->loop.with[r->index]; break;
        case FROM_INITIAL: v = in->s->loop.carry[r->index]; break;
        case FROM_HOISTED: v = in->s->kept[r->index]; break;
        case FROM_OVER: v = w->rows ? in->over[r->index] : INDEX_MARK; break;
        default: v = r->carry != HOP_NONE ? CARRY_MARK + r->carry : in->s->made.stacks + r->index; break;
        }
        out->is_own[i] = r->kind == FROM_OPERAND || r->kind == FROM_INITIAL || r->kind == FROM_HOISTED;
        out->at[i] = out->is_own[i] ? list_once(out->own, &out->n_own, v)
                                    : list_once(out->over, &out->n_over, v);
    }
}

/* Operands of the loop back and what its body does with them. */
struct loop_back {
    struct backward_operands ops;
    uint32_t n_ct; /* cotangents that travel, sums */
    val *carry;    /* those; (rows) the time; the snapshots */
    uint32_t n_carry;
    val *arrays; /* read one row a step: cotangents of stacks, then residuals; a scan's slices, otherwise own
                    operands */
    uint32_t n_arrays, n_stack_ct;
    val *own; /* residuals; needs; without rows: the number of trips, the arrays */
    uint32_t n_own;
};

static void list_loop_back(struct builder *b, const struct way_back *w, struct loop_back *l)
{
    const struct step_backward *in = w->in;
    const struct reversed_step *s = in->s;
    struct arena *arena = &b->arena;
    l->carry = ARENA_NEW(arena, val, 2 * s->loop.n_carry + s->loop.n_with + 1 + BUFFERS);
    l->n_ct = l->n_carry = step_initial_cotangents(b, in, l->carry);
    dim rows = dim_const(b->m, (int64_t)w->how->count + 1);
    if (w->rows) l->carry[l->n_carry++] = emit2(b, OP_sub, emit_dim_value(b, in->length), number(b, 1));
    l->carry[l->n_carry++] = number(b, 0);
    l->carry[l->n_carry++] = emit_full(b, DT_I64, 0, 1, &rows);
    for (uint32_t k = 0; k < s->loop.n_carry; k++)
        if (w->varies[k]) l->carry[l->n_carry++] = emit_broadcast_front(b, in->s->loop.carry[k], rows);
    l->arrays = ARENA_NEW(arena, val, s->loop.n_stack + l->ops.n_over);
    for (uint32_t k = s->loop.n_carry; k < s->loop.n_carry + s->loop.n_stack; k++)
        if (s->halves->ct_result[k] && in->ct[k] != VAL_NONE) l->arrays[l->n_arrays++] = in->ct[k];
    l->n_stack_ct = l->n_arrays;
    for (uint32_t i = 0; i < l->ops.n_over; i++)
        if (l->ops.over[i] < CARRY_MARK) l->arrays[l->n_arrays++] = l->ops.over[i];
    l->own = ARENA_NEW(arena, val, l->ops.n_own + w->n_needs + 1 + l->n_arrays);
    for (uint32_t i = 0; i < l->ops.n_own; i++) l->own[l->n_own++] = l->ops.own[i];
    for (uint32_t i = 0; i < w->n_needs; i++) l->own[l->n_own++] = w->needs[i];
    if (w->rows) return;
    l->own[l->n_own++] = w->how->trips;
    for (uint32_t i = 0; i < l->n_arrays; i++) l->own[l->n_own++] = l->arrays[i];
}

static struct region_in loop_back_body(struct builder *around, const struct way_back *w,
                                       const struct loop_back *l, uint32_t pullback)
{
    const struct reversed_step *s = w->in->s;
    const struct fn *back = module_fn(around->m, pullback);
    const dim *dims = w->in->s->loop.dims;
    struct new_body body;
    struct builder *b = &body.b;
    inside_begin(&body, around,
                 &(struct inputs){ .fed = l->carry,
                                   .n_fed = l->n_carry,
                                   .over = l->arrays,
                                   .n_over = w->rows ? l->n_arrays : 0,
                                   .counted = !w->rows,
                                   .own = l->own,
                                   .n_own = l->n_own },
                 &dims, w->n_dims);
    val fed = l->n_carry;
    val own = fed + (w->rows ? l->n_arrays : 1);
    val *needs = ARENA_NEW(&b->arena, val, w->n_needs);
    for (uint32_t k = 0; k < w->n_needs; k++) needs[k] = own + l->ops.n_own + k;
    val one = number(b, 1), given = own + l->ops.n_own + w->n_needs; /* trips, arrays */
    val time = w->rows ? l->n_ct : emit2(b, OP_sub, emit2(b, OP_sub, given, one), fed);
    val first_snapshot = l->n_ct + w->rows;
    val *snapshots = ARENA_NEW(&b->arena, val, BUFFERS + w->n_varies);
    for (uint32_t k = 0; k < BUFFERS + w->n_varies; k++) snapshots[k] = first_snapshot + k;
    val now = emit_snapshot_at(b, w, snapshots, time, needs, dims);

    val *args = ARENA_NEW(&b->arena, val, back->n_params);
    val *all = ARENA_NEW(&b->arena, val, back->n_results);
    val *out = ARENA_NEW(&b->arena, val, back->n_results + l->n_carry);
    uint32_t n = 0, array = 0, buffer = 0;
    val *carry = ARENA_NEW(&b->arena, val, s->loop.n_carry);
    for (uint32_t k = 0; k < s->loop.n_carry; k++)
        carry[k] = w->varies[k] ? now + BUFFERS + buffer++ : VAL_NONE;
    for (; n < l->n_ct; n++) args[n] = n;
    for (; array < l->n_stack_ct; array++)
        args[n++] = w->rows ? fed + array : row_of(b, given + 1 + array, time);
    for (uint32_t i = 0; i < l->ops.n_over; i++) {
        val v = l->ops.over[i];
        if (v == INDEX_MARK) args[n++] = emit2(b, OP_add, needs[w->n_needs - 1], time);
        else if (v >= CARRY_MARK) args[n++] = row_of(b, carry[v - CARRY_MARK], now + TOP);
        else {
            args[n++] = w->rows ? fed + array : row_of(b, given + 1 + array, time);
            array++;
        }
    }
    for (uint32_t i = 0; i < l->ops.n_own; i++) args[n++] = own + i;
    inline_function(b, pullback, dims, args, all);
    for (n = 0; n < l->n_ct; n++) out[n] = all[n];
    if (w->rows) out[n++] = emit2(b, OP_sub, time, one);
    out[n++] = emit2(b, OP_max, emit2(b, OP_sub, now + TOP, one),
                     number(b, 0)); /* this snapshot is done with */
    for (uint32_t k = POSITIONS; k < BUFFERS + w->n_varies; k++) out[n++] = now + k;
    for (uint32_t k = l->n_ct; k < back->n_results; k++) out[n++] = all[k];
    return new_body_finish(&body, out, n, l->own, l->n_own);
}

bool step_needs_snapshots(const struct reversed_step *s)
{
    bool any = false;
    for (uint32_t i = 0; i < s->halves->n_residuals; i++) {
        const struct step_residual *r = &s->residuals[i];
        if (r->kind != FROM_STACK || r->index < s->loop.n_stack) continue;
        if (r->carry == HOP_NONE)
            return false; /* more than carries is kept: as with recomputation of every step */
        any = true;
    }
    return any;
}

void step_emit_from_snapshots(struct builder *b, const struct step_backward *in, const struct snapshots *how,
                              val *out)
{
    struct module *m = b->m;
    const struct reversed_step *s = in->s;
    const struct fn *body = s->loop.body;
    struct snapshots rows = *how;
    struct way_back w = { .in = in,
                          .how = &rows,
                          .rows = how->trips == VAL_NONE,
                          .varies = ARENA_ZNEW(&b->arena, bool, s->loop.n_carry),
                          .n_dims = body->n_outer_symbols };
    if (w.rows && dim_is_const(m, in->length))
        rows.count = (uint32_t)HOP_MAX(1, HOP_MIN((int64_t)how->count, dim_const_value(m, in->length)));
    for (uint32_t k = 0; k < s->loop.n_carry; k++) w.n_varies += w.varies[k] = body->results[k] != k;
    bool *keep = ARENA_ZNEW(&b->arena, bool, body->n_results);
    for (uint32_t k = 0; k < s->loop.n_carry; k++) keep[k] = true;
    w.step = strip_effects(m, s->loop.body->id, keep);
    list_needs(b, &w);
    struct loop_back l = { 0 };
    sort_residuals(b, &w, &l.ops);
    list_loop_back(b, &w, &l);
    struct region_in region = loop_back_body(b, &w, &l, step_backward_body(m, in, &l.ops));
    struct loop back = loop_new(w.rows ? LOOP_SCAN : LOOP_COUNTED);
    back.carry = l.carry;
    back.n_carry = l.n_carry;
    loop_set_body(&back, m, region);
    if (w.rows) {
        back.over = l.arrays;
        back.n_over = l.n_arrays;
        back.length = in->length;
        back.reverse = !s->loop.reverse;
    } else {
        back.from = number(b, 0);
        back.to = how->trips;
    }
    struct loop_results made = loop_build(b, &back);
    val next = made.last, slices = made.stacks;
    uint32_t first_own = loop_first_with(&s->loop);
    for (uint32_t p = 0; p < body->n_params; p++) out[p] = VAL_NONE;
    for (uint32_t k = 0; k < s->loop.n_carry; k++)
        if (s->travels[k]) out[k] = next++;
    for (uint32_t k = 0; k < s->loop.n_with; k++)
        if (s->halves->ct_param[first_own + k]) out[first_own + k] = next++;
    for (uint32_t k = 0; k < s->loop.n_over; k++)
        if (s->halves->ct_param[s->loop.n_carry + k]) out[s->loop.n_carry + k] = slices++;
}
