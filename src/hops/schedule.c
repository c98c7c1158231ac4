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

/* The number at *text, which moves behind it; false: there is none. */
static bool read_number(const char **text, int64_t *out)
{
    char *end;
    while (**text == ' ') (*text)++;
    if (**text < '0' || **text > '9') return false;
    *out = strtoll(*text, &end, 10);
    *text = end;
    while (**text == ' ') (*text)++;
    return *out >= 1 && *out <= INT32_MAX;
}

bool schedule_read(const char *text, struct attr attrs[LOOP_SCHEDULE_ATTRS], struct arena *arena)
{
    int64_t number;
    for (uint32_t i = 0; i < LOOP_SCHEDULE_ATTRS; i++) attrs[i] = A_NONE;
    if (!text) return false;
    for (uint32_t w = SCHEDULE_NONE; w <= SCHEDULE_SQRT; w++)
        if (!strcmp(text, schedule_words[w])) {
            attrs[WORD] = A_WORD(w);
            return true;
        }
    if (!strncmp(text, "binomial ", 9)) {
        text += 9;
        if (!read_number(&text, &number) || *text) return false;
        attrs[WORD] = A_WORD(SCHEDULE_BINOMIAL);
        attrs[SNAPSHOTS] = A_INT(number);
        return true;
    }
    if (strncmp(text, "every ", 6)) return false;
    vec(uint32_t) list = { 0 };
    text += 6;
    do {
        if (!read_number(&text, &number)) return false;
        vec_push(arena, &list, (uint32_t)number);
    } while (*text++ == ',');
    attrs[EVERY] = A_INTS(list.data, list.len);
    return !text[-1];
}

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
/* The parameters themselves. */
struct params {
    const val *fed, *over, *own;
    val index; /* VAL_NONE: not counted */
};

static const val *next_params(struct builder *b, const type_id *types, uint32_t n)
{
    val *params = ARENA_NEW(&b->arena, val, n);
    for (uint32_t i = 0; i < n; i++) params[i] = builder_param(b, types[i], 0);
    return params;
}

/* Starts such a body. dims: further dims of the function around, which become its own. */
static struct params inside_begin(struct new_body *body, struct builder *around, const struct inputs *in,
                                  const dim **dims, uint32_t n_dims)
{
    new_body_begin(body, around, NULL, NULL, 0);
    struct module *m = around->m;
    struct arena *arena = &body->b.arena;
    type_id *fed = ARENA_NEW(arena, type_id, in->n_fed);
    type_id *over = ARENA_NEW(arena, type_id, in->n_over);
    type_id *own = ARENA_NEW(arena, type_id, in->n_own);
    dim *inner = ARENA_NEW(arena, dim, n_dims);
    for (uint32_t i = 0; i < in->n_fed; i++) fed[i] = new_body_type(body, builder_type(around, in->fed[i]));
    for (uint32_t i = 0; i < in->n_over; i++) {
        type_id row = type_drop_leading(m, builder_type(around, in->over[i]));
        over[i] = new_body_type(body, row);
    }
    for (uint32_t i = 0; i < in->n_own; i++) own[i] = new_body_type(body, builder_type(around, in->own[i]));
    for (uint32_t i = 0; i < n_dims; i++) inner[i] = new_body_dim(body, (*dims)[i]);
    if (n_dims) *dims = inner;
    /* Symbols come before parameters, whose order is that of a loop's body. */
    struct params made = { .index = VAL_NONE };
    made.fed = next_params(&body->b, fed, in->n_fed);
    made.over = next_params(&body->b, over, in->n_over);
    if (in->counted) made.index = builder_param(&body->b, type_scalar(m, DT_I64), 0);
    made.own = next_params(&body->b, own, in->n_own);
    return made;
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
    struct inputs too_few = { .fed = start, .n_fed = STATE, .own = &l, .n_own = 1 };
    struct params p = inside_begin(&body, b, &too_few, NULL, 0);
    val test = emit2(i, OP_lt, p.fed[B0], p.own[0]);
    struct region_in cond = new_body_finish(&body, &test, 1, &l, 1);
    struct inputs more = { .fed = start, .n_fed = STATE, .own = &s, .n_own = 1 };
    p = inside_begin(&body, b, &more, NULL, 0);
    val r = emit2(i, OP_add, p.fed[R], number(i, 1));
    val rows_and_r = emit2(i, OP_add, p.own[0], r);
    val larger = emit2(i, OP_div, emit2(i, OP_mul, p.fed[B0], rows_and_r), r);
    val next[STATE] = { [R] = r, [B0] = larger, [B1] = p.fed[B0], [B2] = p.fed[B1] };
    struct region_in grow = new_body_finish(&body, next, STATE, &s, 1);
    val last = emit_while_loop(b, start, STATE, cond, grow);
    val parts = emit2(b, OP_add, s, last + R);
    val rest = emit2(b, OP_div, emit2(b, OP_mul, last + B0, s), parts);
    val before_rest = emit2(b, OP_sub, l, rest);
    val least = emit2(b, OP_max, last + B2, number(b, 1));
    return emit2(b, OP_max, least, before_rest);
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
    val_list needs;
    uint32_t n_dims;
};

static void list_needs(struct builder *b, struct way_back *w)
{
    const struct step_backward *in = w->in;
    const struct loop *l = &in->s->loop;
    struct arena *arena = &b->arena;
    for (uint32_t k = 0; k < l->n_with; k++) vec_push(arena, &w->needs, l->with[k]);
    if (w->rows)
        for (uint32_t k = 0; k < l->n_over; k++) vec_push(arena, &w->needs, in->over[k]);
    for (uint32_t k = 0; k < l->n_carry; k++)
        if (!w->varies[k]) vec_push(arena, &w->needs, l->carry[k]);
    if (w->rows && l->reverse) {
        val one = number(b, 1);
        vec_push(arena, &w->needs, emit2(b, OP_sub, emit_dim_value(b, in->length), one));
    }
    if (!w->rows && l->n_over) vec_push(arena, &w->needs, w->how->from);
}

/* One step: (carries that vary…, index, needs…) -> (carries that vary…). */
static struct region_in one_step(struct builder *around, const struct way_back *w, const val *carry,
                                 const val *needs, const dim *dims)
{
    const struct loop *l = &w->in->s->loop;
    struct new_body body;
    struct builder *b = &body.b;
    struct inputs in = {
        .fed = carry, .n_fed = w->n_varies, .counted = true, .own = needs, .n_own = w->needs.len
    };
    struct params p = inside_begin(&body, around, &in, &dims, w->n_dims);
    val *args = ARENA_NEW(&b->arena, val, l->body->n_params);
    val *slices = args + l->n_carry;
    val *with = args + loop_first_with(l);
    const val *need = p.own; /* in the order of list_needs */
    for (uint32_t k = 0; k < l->n_with; k++) with[k] = *need++;
    const val *arrays = need;
    if (w->rows) need += l->n_over;
    const val *varying = p.fed;
    for (uint32_t k = 0; k < l->n_carry; k++) args[k] = w->varies[k] ? *varying++ : *need++;
    val at = p.index;
    if (w->rows && l->reverse) at = emit2(b, OP_sub, *need, p.index);
    if (!w->rows && l->n_over) at = emit2(b, OP_add, *need, p.index);
    for (uint32_t k = 0; k < l->n_over; k++) slices[k] = w->rows ? row_of(b, arrays[k], at) : at;
    val *all = ARENA_NEW(&b->arena, val, l->n_carry);
    inline_function(b, w->step, dims, args, all);
    val_list out = { 0 };
    for (uint32_t k = 0; k < l->n_carry; k++)
        if (w->varies[k]) vec_push(&b->arena, &out, all[k]);
    return new_body_finish(&body, out.data, out.len, needs, w->needs.len);
}

/* The snapshots: how many rows are in use less one, the step before which each was taken, and the carries. */
enum { TOP, POSITIONS, BUFFERS };

/* Goes on from the last snapshot, takes the next: (snapshots…; time, needs…) -> (snapshots…). */
static struct region_in advance(struct builder *around, const struct way_back *w, const val *snapshots,
                                const val_list *own, const dim *dims)
{
    uint32_t n = BUFFERS + w->n_varies;
    struct new_body body;
    struct builder *b = &body.b;
    struct inputs in = { .fed = snapshots, .n_fed = n, .own = own->data, .n_own = own->len };
    struct params p = inside_begin(&body, around, &in, &dims, w->n_dims);
    val top = p.fed[TOP];
    val positions = p.fed[POSITIONS];
    const val *buffers = p.fed + BUFFERS;
    val time = p.own[0];
    const val *needs = p.own + 1;
    val one = number(b, 1);
    val from = row_of(b, positions, top);
    val rows_left = emit2(b, OP_sub, number(b, w->how->count), top);
    val steps_left = emit2(b, OP_sub, emit2(b, OP_add, time, one), from);
    val steps = steps_to_next(b, steps_left, rows_left);
    val *carry = ARENA_NEW(&b->arena, val, w->n_varies);
    for (uint32_t k = 0; k < w->n_varies; k++) carry[k] = row_of(b, buffers[k], top);
    struct loop again = loop_new(LOOP_COUNTED);
    again.carry = carry;
    again.n_carry = w->n_varies;
    again.from = from;
    again.to = emit2(b, OP_add, from, steps);
    loop_set_body(&again, b->m, one_step(b, w, carry, needs, dims));
    val there = loop_build(b, &again).last;
    val *out = ARENA_NEW(&b->arena, val, n);
    out[TOP] = emit2(b, OP_add, top, one);
    out[POSITIONS] = with_row(b, positions, again.to, out[TOP]);
    for (uint32_t k = 0; k < w->n_varies; k++)
        out[BUFFERS + k] = with_row(b, buffers[k], there + k, out[TOP]);
    return new_body_finish(&body, out, n, own->data, own->len);
}

/* Makes the last snapshot that of the carries before step `time`. Returns the snapshots. */
static val emit_snapshot_at(struct builder *b, const struct way_back *w, const val *snapshots, val time,
                            const val *needs, const dim *dims)
{
    uint32_t n = BUFFERS + w->n_varies;
    val_list own = { 0 };
    vec_push(&b->arena, &own, time);
    for (uint32_t k = 0; k < w->needs.len; k++) vec_push(&b->arena, &own, needs[k]);
    struct new_body body;
    struct inputs in = { .fed = snapshots, .n_fed = n, .own = &time, .n_own = 1 };
    struct params p = inside_begin(&body, b, &in, NULL, 0);
    val last = row_of(&body.b, p.fed[POSITIONS], p.fed[TOP]);
    val before = emit2(&body.b, OP_lt, last, p.own[0]);
    struct region_in cond = new_body_finish(&body, &before, 1, own.data, 1);
    return emit_while_loop(b, snapshots, n, cond, advance(b, w, snapshots, &own, dims));
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
    *out = (struct backward_operands){ .over = ARENA_NEW(&b->arena, val, n),
                                       .own = ARENA_NEW(&b->arena, val, n),
                                       .at = ARENA_NEW(&b->arena, uint32_t, n),
                                       .is_own = ARENA_ZNEW(&b->arena, bool, n) };
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
    uint32_t n_ct;   /* cotangents that travel, sums */
    val_list carry;  /* those; (rows) the time; the snapshots */
    val_list arrays; /* read one row a step: cotangents of stacks, then residuals; a scan's slices, otherwise
                        own operands */
    uint32_t n_stack_ct; /* of them the first */
    val_list own;        /* residuals; needs; without rows: the number of trips, the arrays */
};

static void list_loop_back(struct builder *b, const struct way_back *w, struct loop_back *l)
{
    const struct step_backward *in = w->in;
    const struct reversed_step *s = in->s;
    const struct loop *loop = &s->loop;
    struct arena *arena = &b->arena;
    step_initial_cotangents(b, in, &l->carry);
    l->n_ct = l->carry.len;
    dim rows = dim_const(b->m, (int64_t)w->how->count + 1);
    if (w->rows) {
        val one = number(b, 1);
        vec_push(arena, &l->carry, emit2(b, OP_sub, emit_dim_value(b, in->length), one));
    }
    vec_push(arena, &l->carry, number(b, 0));
    vec_push(arena, &l->carry, emit_full(b, DT_I64, 0, 1, &rows));
    for (uint32_t k = 0; k < loop->n_carry; k++)
        if (w->varies[k]) vec_push(arena, &l->carry, emit_broadcast_front(b, loop->carry[k], rows));
    for (uint32_t k = 0; k < loop->n_stack; k++) {
        uint32_t result = loop->n_carry + k;
        bool known = s->halves->ct_result[result] && in->ct[result] != VAL_NONE;
        if (known) vec_push(arena, &l->arrays, in->ct[result]);
    }
    l->n_stack_ct = l->arrays.len;
    for (uint32_t i = 0; i < l->ops.n_over; i++)
        if (l->ops.over[i] < CARRY_MARK) vec_push(arena, &l->arrays, l->ops.over[i]);
    for (uint32_t i = 0; i < l->ops.n_own; i++) vec_push(arena, &l->own, l->ops.own[i]);
    for (uint32_t i = 0; i < w->needs.len; i++) vec_push(arena, &l->own, w->needs.data[i]);
    if (w->rows) return;
    vec_push(arena, &l->own, w->how->trips);
    for (uint32_t i = 0; i < l->arrays.len; i++) vec_push(arena, &l->own, l->arrays.data[i]);
}

/* The parameters of the body of the loop back, by what they are. */
struct back_params {
    const val *cotangents;
    const val *snapshots;
    const val *residuals, *needs;
    const val *slices; /* of a scan: rows of the arrays */
    const val *arrays; /* otherwise: the arrays */
    val time;          /* which step is gone back */
};

static struct back_params back_params(struct builder *b, const struct way_back *w, const struct loop_back *l,
                                      const struct params *p, val one)
{
    struct back_params out = { .cotangents = p->fed, .residuals = p->own, .slices = p->over };
    out.needs = out.residuals + l->ops.n_own;
    const val *behind = out.cotangents + l->n_ct;
    if (w->rows) {
        out.time = *behind++;
    } else {
        const val *trips = out.needs + w->needs.len;
        out.arrays = trips + 1;
        out.time = emit2(b, OP_sub, emit2(b, OP_sub, *trips, one), p->index);
    }
    out.snapshots = behind;
    return out;
}

/* What the reversed step takes: cotangents, slices, residuals. now: the snapshots, the last one that of this
 * step. */
static val_list pullback_args(struct builder *b, const struct way_back *w, const struct loop_back *l,
                              const struct back_params *in, val now)
{
    const struct loop *loop = &w->in->s->loop;
    val *buffers = ARENA_NEW(&b->arena, val, loop->n_carry); /* of snapshots, per carry */
    val buffer = now + BUFFERS;
    for (uint32_t k = 0; k < loop->n_carry; k++) buffers[k] = w->varies[k] ? buffer++ : VAL_NONE;
    val_list args = { 0 };
    for (uint32_t k = 0; k < l->n_ct; k++) vec_push(&b->arena, &args, in->cotangents[k]);
    uint32_t array = 0;
    for (; array < l->n_stack_ct; array++)
        vec_push(&b->arena, &args, w->rows ? in->slices[array] : row_of(b, in->arrays[array], in->time));
    for (uint32_t i = 0; i < l->ops.n_over; i++) {
        val v = l->ops.over[i];
        val slice;
        if (v == INDEX_MARK) {
            val first_index = in->needs[w->needs.len - 1];
            slice = emit2(b, OP_add, first_index, in->time);
        } else if (v >= CARRY_MARK) {
            slice = row_of(b, buffers[v - CARRY_MARK], now + TOP);
        } else {
            slice = w->rows ? in->slices[array] : row_of(b, in->arrays[array], in->time);
            array++;
        }
        vec_push(&b->arena, &args, slice);
    }
    for (uint32_t i = 0; i < l->ops.n_own; i++) vec_push(&b->arena, &args, in->residuals[i]);
    return args;
}

static struct region_in loop_back_body(struct builder *around, const struct way_back *w,
                                       const struct loop_back *l, uint32_t pullback)
{
    const struct fn *back = module_fn(around->m, pullback);
    const dim *dims = w->in->s->loop.dims;
    struct new_body body;
    struct builder *b = &body.b;
    struct inputs like = { .fed = l->carry.data,
                           .n_fed = l->carry.len,
                           .over = l->arrays.data,
                           .n_over = w->rows ? l->arrays.len : 0,
                           .counted = !w->rows,
                           .own = l->own.data,
                           .n_own = l->own.len };
    struct params params = inside_begin(&body, around, &like, &dims, w->n_dims);
    val one = number(b, 1);
    struct back_params in = back_params(b, w, l, &params, one);
    val now = emit_snapshot_at(b, w, in.snapshots, in.time, in.needs, dims);
    val_list args = pullback_args(b, w, l, &in, now);
    val *all = ARENA_NEW(&b->arena, val, back->n_results);
    inline_function(b, pullback, dims, args.data, all);

    val_list out = { 0 };
    for (uint32_t k = 0; k < l->n_ct; k++) vec_push(&b->arena, &out, all[k]);
    if (w->rows) vec_push(&b->arena, &out, emit2(b, OP_sub, in.time, one));
    val zero = number(b, 0);
    val below = emit2(b, OP_sub, now + TOP, one); /* this snapshot is done with */
    vec_push(&b->arena, &out, emit2(b, OP_max, below, zero));
    for (uint32_t k = POSITIONS; k < BUFFERS + w->n_varies; k++) vec_push(&b->arena, &out, now + k);
    for (uint32_t k = l->n_ct; k < back->n_results; k++) vec_push(&b->arena, &out, all[k]);
    return new_body_finish(&body, out.data, out.len, l->own.data, l->own.len);
}

bool step_needs_snapshots(struct module *m, const struct reversed_step *s)
{
    bool any = false;
    bool *carries = ARENA_ZNEW(&m->arena, bool, s->loop.body->n_results);
    for (uint32_t k = 0; k < s->loop.n_carry; k++) carries[k] = true;
    if (!can_run_again(m, s->loop.body->id, carries)) return false;
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
    for (uint32_t k = 0; k < s->loop.n_carry; k++) {
        w.varies[k] = body->results[k] != k;
        if (w.varies[k]) w.n_varies++;
    }
    bool *keep = ARENA_ZNEW(&b->arena, bool, body->n_results);
    for (uint32_t k = 0; k < s->loop.n_carry; k++) keep[k] = true;
    w.step = strip_effects(m, s->loop.body->id, keep);
    list_needs(b, &w);
    struct loop_back l = { 0 };
    sort_residuals(b, &w, &l.ops);
    list_loop_back(b, &w, &l);
    struct region_in region = loop_back_body(b, &w, &l, step_backward_body(m, in, &l.ops));
    struct loop back = loop_new(w.rows ? LOOP_SCAN : LOOP_COUNTED);
    back.carry = l.carry.data;
    back.n_carry = l.carry.len;
    loop_set_body(&back, m, region);
    if (w.rows) {
        back.over = l.arrays.data;
        back.n_over = l.arrays.len;
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
