/* Statements of the LLVM back end: blocks, loops, branches and functions. Locals, lanes and buffers kept in
 * registers are SSA values in `slots`; whatever a loop or a branch may set gets a phi where control joins,
 * found beforehand by looking through its blocks. */
#include "emit/llvm.h"
#include "loop/rt.h"

/* ---- what a block sets ---- */

struct carried {
    uint32_t n;
    uint32_t *slots;
    struct held *phis; /* as many */
};

/* Slots in the order in which they were found. */
struct set_slots {
    uint32_t *slots, n, cap, epoch;
};

static struct set_slots set_slots_new(struct emitter *e)
{
    struct plan *plan = &e->plan;
    uint32_t all = e->p->locals.len + e->p->buffers.len;
    if (!plan->set_in) plan->set_in = EMIT_NEW(e, uint32_t, all + 1);
    return (struct set_slots){ .epoch = ++plan->sets };
}

/* What another function keeps to itself is nothing to this one. */
static void set_slot(struct emitter *e, struct set_slots *set, uint32_t slot, const struct slot_plan *about)
{
    if (e->plan.set_in[slot] == set->epoch || (about->home != HOP_NONE && about->home != e->f->loop)) return;
    e->plan.set_in[slot] = set->epoch;
    if (set->n == set->cap) {
        uint32_t *more = EMIT_NEW(e, uint32_t, set->cap * 2 + 8);
        if (set->n) memcpy(more, set->slots, set->n * sizeof *more);
        set->slots = more;
        set->cap = set->cap * 2 + 8;
    }
    set->slots[set->n++] = slot;
}

/* Scalar locals set inside a vector loop are its own, so they are left out when it is seen from outside. */
static void find_set_by(struct emitter *e, const struct lp_stmt *s, bool inside_vector, bool private_scalars,
                        struct set_slots *set);

static void find_set(struct emitter *e, const struct lp_block *block, bool inside_vector,
                     bool private_scalars, struct set_slots *set)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++)
        find_set_by(e, &block->stmts.data[i], inside_vector, private_scalars, set);
}

static void find_set_by(struct emitter *e, const struct lp_stmt *s, bool inside_vector, bool private_scalars,
                        struct set_slots *set)
{
    if (s->kind == LP_SET || s->kind == LP_ACCUM) {
        const struct slot_plan *about = &e->plan.locals[s->target];
        bool lanes = e->p->locals.data[s->target].kind == LOCAL_LANES;
        if (lanes ? about->in_registers : !private_scalars) set_slot(e, set, s->target, about);
    }
    if (s->kind == LP_STORE && e->plan.buffers[s->target].in_registers)
        set_slot(e, set, slot_of_buffer(e, s->target), &e->plan.buffers[s->target]);
    if (s->kind == LP_FOR && e->plan.loops[s->target].own_function) return;
    bool vector = s->kind == LP_FOR && e->plan.loops[s->target].mode == LOOP_VECTOR && !inside_vector;
    find_set(e, s->body, inside_vector || vector, private_scalars || vector, set);
    find_set(e, s->other, inside_vector, private_scalars, set);
}

uint32_t section_sets(struct emitter *e, const struct section *s, uint32_t **locals)
{
    struct set_slots set = set_slots_new(e);
    uint32_t n = 0;
    for (uint32_t i = s->first; i < s->end; i++) find_set_by(e, &s->block->stmts.data[i], false, false, &set);
    for (uint32_t k = 0; k < set.n; k++) {
        uint32_t slot = set.slots[k];
        bool scalar = slot < e->p->locals.len && e->p->locals.data[slot].kind == LOCAL_SCALAR;
        if (scalar && e->plan.locals[slot].home == HOP_NONE) set.slots[n++] = slot;
    }
    *locals = set.slots;
    return n;
}

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

static struct carried carried_by(struct emitter *e, const struct lp_block *body, const struct lp_block *other,
                                 bool private_scalars)
{
    struct set_slots set = set_slots_new(e);
    find_set(e, body, e->w || private_scalars, private_scalars, &set);
    find_set(e, other, e->w || private_scalars, private_scalars, &set);
    if (set.n) qsort(set.slots, set.n, sizeof *set.slots, by_number);
    return (struct carried){ set.n, set.slots, EMIT_NEW(e, struct held, set.n + 1) };
}

static struct held value_copy(struct emitter *e, const struct held *v)
{
    struct held r = *v;
    r.part = EMIT_NEW(e, LLVMValueRef, v->n);
    memcpy(r.part, v->part, v->n * sizeof *r.part);
    return r;
}

/* A scalar that a vector loop had as its own is nothing behind it: where control joins it is one again. */
static struct held *slots_save(struct emitter *e, const struct carried *c)
{
    struct held *r = EMIT_NEW(e, struct held, c->n + 1);
    for (uint32_t k = 0; k < c->n; k++) {
        slot_ready(e, c->slots[k]);
        r[k] = value_copy(e, known_slot(e, c->slots[k]));
    }
    return r;
}

static void slots_restore(struct emitter *e, const struct carried *c, const struct held *saved)
{
    for (uint32_t k = 0; k < c->n; k++) *known_slot(e, c->slots[k]) = value_copy(e, &saved[k]);
}

/* Phis at the start of the current block; the slots have their values afterwards. */
static void phis_begin(struct emitter *e, struct carried *c)
{
    for (uint32_t k = 0; k < c->n; k++) {
        struct held *slot = known_slot(e, c->slots[k]), phi = value_copy(e, slot);
        for (uint32_t p = 0; p < phi.n; p++)
            phi.part[p] = LLVMBuildPhi(e->builder, LLVMTypeOf(phi.part[p]), "");
        c->phis[k] = phi;
        *slot = value_copy(e, &phi);
    }
}

static void phis_add(struct carried *c, const struct held *from, LLVMBasicBlockRef block)
{
    for (uint32_t k = 0; k < c->n; k++)
        for (uint32_t p = 0; p < c->phis[k].n; p++)
            LLVMAddIncoming(c->phis[k].part[p], &from[k].part[p], &block, 1);
}

/* ---- blocks of LLVM ---- */

LLVMBasicBlockRef new_block(struct emitter *e, const char *name)
{
    return LLVMAppendBasicBlockInContext(e->context, e->f->fn, name);
}

static LLVMBasicBlockRef here(struct emitter *e) { return LLVMGetInsertBlock(e->builder); }

static void go_on_in(struct emitter *e, LLVMBasicBlockRef block)
{
    LLVMPositionBuilderAtEnd(e->builder, block);
}

LLVMBasicBlockRef exit_block(struct emitter *e, hop_status status)
{
    LLVMBasicBlockRef *exit = &e->f->exits[status], at = here(e);
    if (*exit) return *exit;
    *exit = new_block(e, "leave");
    go_on_in(e, *exit);
    LLVMBuildRet(e->builder, LLVMConstInt(e->i32, status, false));
    go_on_in(e, at);
    return *exit;
}

/* The branch goes its first way all but always: what its other way needs stays out of the registers of the
 * loop. */
static void unlikely(struct emitter *e, LLVMValueRef branch)
{
    LLVMMetadataRef parts[3] = { LLVMMDStringInContext2(e->context, "branch_weights", 14),
                                 LLVMValueAsMetadata(LLVMConstInt(e->i32, 1u << 20, false)),
                                 LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, false)) };
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->context, "prof", 4),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, parts, 3)));
}

/* Leaves when another thread asked for it. The pointer may be NULL; then a zero on the stack is looked at. */
static void poll_cancel(struct emitter *e)
{
    struct func *f = e->f;
    LLVMBasicBlockRef at = here(e), next;
    if (!f->cancel) {
        LLVMValueRef zero = stack_slot(e, e->i32, 1, 4);
        go_on_in(e, f->entry);
        LLVMBuildStore(e->builder, LLVMConstInt(e->i32, 0, false), zero);
        LLVMValueRef given = rt_function(e, offsetof(struct hop_rt, cancel));
        f->cancel = LLVMBuildSelect(e->builder, LLVMBuildIsNull(e->builder, given, ""), zero, given, "");
        go_on_in(e, at);
    }
    LLVMValueRef flag = LLVMBuildLoad2(e->builder, e->i32, f->cancel, "");
    LLVMSetVolatile(flag, true);
    next = new_block(e, "on");
    LLVMBasicBlockRef asked = new_block(e, "asked"), call = new_block(e, "ask");
    unlikely(e, LLVMBuildCondBr(e->builder, LLVMBuildIsNull(e->builder, flag, ""), next, asked));
    go_on_in(e, asked);
    LLVMValueRef ask = rt_function(e, offsetof(struct hop_rt, asked));
    LLVMBuildCondBr(e->builder, LLVMBuildIsNull(e->builder, ask, ""), exit_block(e, HOP_CANCELLED), call);
    go_on_in(e, call);
    LLVMValueRef ends = LLVMBuildCall2(e->builder, LLVMFunctionType(e->i32, &e->ptr, 1, false), ask, &f->rt,
                                       1, "");
    LLVMBuildCondBr(e->builder, LLVMBuildIsNull(e->builder, ends, ""), next, exit_block(e, HOP_CANCELLED));
    go_on_in(e, next);
}

static void set_var(struct emitter *e, uint32_t loop, enum form form, LLVMValueRef x)
{
    struct held v = value_new(e, form, 1);
    v.part[0] = x;
    v.stride = form == FORM_AFFINE;
    *known_var(e, loop) = v;
}

/* ---- serial loops ---- */

static LLVMValueRef step_value(struct emitter *e, const struct lp_stmt *s)
{
    return s->step == LPV_NONE ? const_index(e, 1) : value_scalar(e, s->step);
}

static bool goes_down(struct emitter *e, const struct lp_stmt *s)
{
    int64_t step;
    return const_int(e, s->step, &step) && step < 0;
}

static void serial_bodies(struct emitter *e, const struct lp_stmt *s, LLVMValueRef first, LLVMValueRef start,
                          uint32_t times)
{
    LLVMValueRef step = step_value(e, s), x = first, outer_lane = e->f->lane_index;
    for (uint32_t k = 0; k < times; k++) {
        if (k) x = LLVMBuildAdd(e->builder, x, step, "");
        set_var(e, s->target, FORM_SCALAR, x);
        if (s->mode == FOR_VECTOR && !e->w) {
            LLVMValueRef trip = LLVMBuildSub(e->builder, x, start, "");
            int64_t one;
            if (!(s->step == LPV_NONE || (const_int(e, s->step, &one) && one == 1)))
                trip = LLVMBuildSDiv(e->builder, trip, step, "");
            e->f->lane_index = LLVMBuildAnd(e->builder, trip, const_index(e, STRICT_LANES - 1), "");
        }
        emit_block(e, s->body);
    }
    e->f->lane_index = outer_lane;
}

/* Where a loop begins and ends: it goes from `pre` by way of `enter` into its body, from `latch` on or to
 * `exit`, and with a guard from `pre` straight there. */
struct loop_ends {
    LLVMValueRef i, start, next; /* the index: its phi, first value, and value at the latch */
    LLVMBasicBlockRef pre, enter, latch, exit;
    struct held *before; /* what is carried, before the loop */
    bool guard;
};

/* Closes the phis of a loop whose last branch stands, and goes on behind it. Returns the index there. */
static LLVMValueRef end_loop(struct emitter *e, struct carried *c, const struct loop_ends *l)
{
    LLVMValueRef start = l->start, next = l->next;
    LLVMBasicBlockRef pre = l->pre, enter = l->enter, latch = l->latch;
    struct held *after = slots_save(e, c);
    LLVMAddIncoming(l->i, &start, &enter, 1);
    LLVMAddIncoming(l->i, &next, &latch, 1);
    phis_add(c, l->before, enter);
    phis_add(c, after, latch);
    go_on_in(e, l->exit);
    if (!l->guard) return next;
    LLVMValueRef end = LLVMBuildPhi(e->builder, e->i64, "");
    LLVMAddIncoming(end, &start, &pre, 1);
    LLVMAddIncoming(end, &next, &latch, 1);
    slots_restore(e, c, l->before);
    phis_begin(e, c);
    phis_add(c, l->before, pre);
    phis_add(c, after, latch);
    return end;
}

enum { FEW_STATEMENTS = 32 }; /* of a loop that is written out */

/* Does a loop of the program become one of the code? Short rows are steps that are written out. */
static bool stays_a_loop(const struct emitter *e, const struct lp_stmt *s)
{
    const struct loop_plan *l = &e->plan.loops[s->target];
    int64_t step = (int64_t)l->parts * l->lanes;
    if (l->mode != LOOP_VECTOR || l->extent < 0) return true;
    return !l->chunk && (l->heavy || l->extent >= 2 * step);
}

/* Does a block have loops, in the code or written out with more than `few` statements? */
static bool has_loops(const struct emitter *e, const struct lp_block *block, uint32_t few)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        bool large = s->kind == LP_FOR && s->body && s->body->stmts.len > few;
        if (s->kind == LP_WHILE || large || (s->kind == LP_FOR && stays_a_loop(e, s))) return true;
        if (has_loops(e, s->body, few) || has_loops(e, s->other, few)) return true;
    }
    return false;
}

LLVMValueRef counted_loop(struct emitter *e, const struct lp_stmt *s, LLVMValueRef start, LLVMValueRef limit,
                          uint32_t times, bool guard)
{
    LLVMValueRef step = step_value(e, s), lane_start = value_scalar(e, s->lo);
    LLVMIntPredicate goes_on = goes_down(e, s) ? LLVMIntSGT : LLVMIntSLT;
    struct carried c = carried_by(e, s->body, NULL, false);
    struct held *before = slots_save(e, &c);
    LLVMBasicBlockRef pre = here(e), body = new_block(e, "loop"), exit = new_block(e, "done");
    if (guard) LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, goes_on, start, limit, ""), body, exit);
    else LLVMBuildBr(e->builder, body);
    go_on_in(e, body);
    LLVMValueRef i = LLVMBuildPhi(e->builder, e->i64, "i");
    phis_begin(e, &c);
    serial_bodies(e, s, i, lane_start, times);
    LLVMValueRef next = LLVMBuildAdd(e->builder, i, LLVMBuildMul(e->builder, step, const_index(e, times), ""),
                                     "");
    /* LLVM looks for the cheapest way to the addresses of the innermost loops alone, where they are few. */
    if (has_loops(e, s->body, FEW_STATEMENTS)) next = no_longer_a_counter(e, next);
    if (s->poll) poll_cancel(e);
    LLVMValueRef more = LLVMBuildICmp(e->builder, goes_on, next, limit, "");
    LLVMBasicBlockRef latch = here(e);
    LLVMBuildCondBr(e->builder, more, body, exit);
    return end_loop(e, &c, &(struct loop_ends){ i, start, next, pre, pre, latch, exit, before, guard });
}

/* Of a loop from lo up or down to, not including, hi. */
static int64_t trips_between(int64_t lo, int64_t hi, int64_t step)
{
    int64_t span = step > 0 ? hi - lo : lo - hi;
    int64_t size = step > 0 ? step : -step;
    return span > 0 ? (span + size - 1) / size : 0;
}

static void emit_serial(struct emitter *e, const struct lp_stmt *s)
{
    int64_t lo, hi, step = 1, trips = -1;
    uint32_t times = s->unroll > 1 ? s->unroll : 1;
    LLVMValueRef start = value_scalar(e, s->lo), limit = value_scalar(e, s->hi);
    bool fixed_step = s->step == LPV_NONE || const_int(e, s->step, &step);
    if (fixed_step && step && const_int(e, s->lo, &lo) && const_int(e, s->hi, &hi)) {
        trips = trips_between(lo, hi, step);
        if (trips == 0) return;
        if (trips == 1 || trips == times) {
            serial_bodies(e, s, start, start, (uint32_t)trips);
            return;
        }
        if (trips < times) times = 1;
    }
    if (times > 1) {
        LLVMValueRef margin = LLVMBuildMul(e->builder, step_value(e, s), const_index(e, times - 1), "");
        start = counted_loop(e, s, start, LLVMBuildSub(e->builder, limit, margin, ""), times, trips < 0);
        if (trips > 0 && trips % times == 0) return;
    }
    counted_loop(e, s, start, limit, 1, trips < 0);
}

static void emit_while(struct emitter *e, const struct lp_stmt *s)
{
    struct carried c = carried_by(e, s->body, s->other, false);
    struct held *before = slots_save(e, &c);
    LLVMBasicBlockRef pre = here(e), head = new_block(e, "while"), body = new_block(e, "do"),
                      exit = new_block(e, "done");
    LLVMBuildBr(e->builder, head);
    go_on_in(e, head);
    phis_begin(e, &c);
    phis_add(&c, before, pre);
    emit_block(e, s->body);
    LLVMBuildCondBr(e->builder, value_scalar(e, s->value), body, exit);
    struct held *at_exit = slots_save(e, &c);
    go_on_in(e, body);
    emit_block(e, s->other);
    if (s->poll) poll_cancel(e);
    phis_add(&c, slots_save(e, &c), here(e));
    LLVMBuildBr(e->builder, head);
    go_on_in(e, exit);
    slots_restore(e, &c, at_exit);
}

static void emit_if(struct emitter *e, const struct lp_stmt *s)
{
    LLVMValueRef condition = value_scalar(e, s->value);
    if (LLVMIsAConstantInt(condition)) {
        emit_block(e, LLVMConstIntGetZExtValue(condition) ? s->body : s->other);
        return;
    }
    struct carried c = carried_by(e, s->body, s->other, false);
    struct held *before = slots_save(e, &c);
    LLVMBasicBlockRef yes = new_block(e, "then");
    LLVMBasicBlockRef no = new_block(e, "else");
    LLVMBasicBlockRef join = new_block(e, "join");
    LLVMBuildCondBr(e->builder, condition, yes, no);
    go_on_in(e, yes);
    emit_block(e, s->body);
    struct held *left = slots_save(e, &c);
    LLVMBasicBlockRef left_end = here(e);
    LLVMBuildBr(e->builder, join);
    go_on_in(e, no);
    slots_restore(e, &c, before);
    emit_block(e, s->other);
    struct held *right = slots_save(e, &c);
    LLVMBasicBlockRef right_end = here(e);
    LLVMBuildBr(e->builder, join);
    go_on_in(e, join);
    phis_begin(e, &c);
    phis_add(&c, left, left_end);
    phis_add(&c, right, right_end);
}

/* ---- vector loops ---- */

/* A step of `count` elements, one of those that begin at multiples of `whole` from the loop's first on. */
static struct wide wide_shape(struct emitter *e, uint32_t loop, uint32_t count, uint32_t whole)
{
    uint32_t lanes = e->plan.loops[loop].lanes;
    struct wide w = {
        .loop = loop, .lanes = (uint8_t)lanes, .n = (uint8_t)((count + lanes - 1) / lanes), .whole = whole
    };
    for (uint32_t p = 0; p < w.n; p++) {
        uint32_t rest = count - p * lanes;
        w.part_lanes[p] = (uint8_t)(rest >= lanes ? lanes : power_above(rest));
        if (rest >= w.part_lanes[p]) continue;
        LLVMValueRef on[MAX_PARTS];
        for (uint32_t l = 0; l < w.part_lanes[p]; l++) on[l] = LLVMConstInt(e->i1, l < rest, false);
        w.mask[p] = LLVMConstVector(on, w.part_lanes[p]);
    }
    return w;
}

/* One step: the current block follows `before` directly, so splats made there are known here. */
static void vector_step(struct emitter *e, const struct lp_stmt *s, struct wide *w, LLVMBasicBlockRef before,
                        LLVMValueRef base, LLVMValueRef left)
{
    w->before = before;
    w->instance = ++e->instances;
    if (left) {
        uint32_t all = (uint32_t)w->n * w->lanes;
        LLVMValueRef lane[MAX_PARTS];
        LLVMValueRef most = const_index(e, all);
        LLVMValueRef fewer = LLVMBuildICmp(e->builder, LLVMIntSLT, left, most, "");
        left = LLVMBuildSelect(e->builder, fewer, left, most, "");
        left = build_splat(e, LLVMBuildTrunc(e->builder, left, e->i32, ""), w->lanes);
        for (uint32_t p = 0; p < w->n; p++) {
            for (uint32_t l = 0; l < w->lanes; l++) lane[l] = LLVMConstInt(e->i32, p * w->lanes + l, false);
            w->mask[p] = LLVMBuildICmp(e->builder, LLVMIntULT, LLVMConstVector(lane, w->lanes), left, "");
        }
    }
    e->w = w;
    set_var(e, s->target, FORM_AFFINE, base);
    emit_block(e, s->body);
    e->w = NULL;
}

/* Steps of `count` elements (whole parts) from start on while below limit; masked: the last one may be
 * partial. */
static LLVMValueRef vector_loop(struct emitter *e, const struct lp_stmt *s, LLVMValueRef start,
                                LLVMValueRef limit, uint32_t count, bool masked, bool guard)
{
    struct carried c = carried_by(e, s->body, NULL, true);
    struct held *before = slots_save(e, &c);
    struct wide w = wide_shape(e, s->target, count, count);
    LLVMBasicBlockRef pre = here(e);
    LLVMBasicBlockRef enter = guard ? new_block(e, "enter") : pre;
    LLVMBasicBlockRef body = new_block(e, "vector");
    LLVMBasicBlockRef exit = new_block(e, "done");
    if (guard) {
        LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, start, limit, ""), enter, exit);
        go_on_in(e, enter);
    }
    LLVMBuildBr(e->builder, body);
    go_on_in(e, body);
    LLVMValueRef i = LLVMBuildPhi(e->builder, e->i64, "i");
    phis_begin(e, &c);
    vector_step(e, s, &w, enter, i, masked ? LLVMBuildSub(e->builder, limit, i, "") : NULL);
    LLVMValueRef next = LLVMBuildAdd(e->builder, i, const_index(e, count), "");
    next = no_longer_a_counter(e, next); /* its addresses are what the processor adds up anyway */
    LLVMBasicBlockRef latch = here(e);
    LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntSLT, next, limit, ""), body, exit);
    return end_loop(e, &c, &(struct loop_ends){ i, start, next, pre, enter, latch, exit, before, guard });
}

static void vector_once(struct emitter *e, const struct lp_stmt *s, LLVMValueRef base, uint32_t count,
                        uint32_t whole)
{
    struct wide w = wide_shape(e, s->target, count, whole);
    LLVMBasicBlockRef before = here(e), body = new_block(e, "chunk");
    LLVMBuildBr(e->builder, body);
    go_on_in(e, body);
    vector_step(e, s, &w, before, base, NULL);
}

static void vector_dynamic(struct emitter *e, const struct lp_stmt *s, const struct loop_plan *l)
{
    uint32_t step = (uint32_t)l->parts * l->lanes, least = (uint32_t)l->least * l->lanes;
    LLVMValueRef lo = value_scalar(e, s->lo), hi = value_scalar(e, s->hi), zero = const_index(e, 0);
    if (l->heavy) {
        vector_loop(e, s, lo, hi, least, true, true);
        return;
    }
    LLVMValueRef n = LLVMBuildSub(e->builder, hi, lo, "");
    n = LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSGT, n, zero, ""), n, zero, "");
    LLVMValueRef whole = LLVMBuildAdd(e->builder, lo,
                                      LLVMBuildAnd(e->builder, n, const_index(e, -(int64_t)step), ""), "");
    vector_loop(e, s, lo, whole, step, false, true);
    vector_loop(e, s, whole, LLVMBuildAdd(e->builder, lo, n, ""), least, true, true);
}

static void forget_scalars(struct emitter *e, const struct set_slots *set)
{
    for (uint32_t k = 0; k < set->n; k++) {
        uint32_t slot = set->slots[k];
        bool scalar = slot < e->p->locals.len && e->p->locals.data[slot].kind == LOCAL_SCALAR;
        if (scalar) known_slot(e, slot)->form = FORM_NONE;
    }
}

static void emit_vector(struct emitter *e, const struct lp_stmt *s)
{
    const struct loop_plan *l = &e->plan.loops[s->target];
    struct set_slots own = set_slots_new(e);
    find_set(e, s->body, true, false, &own);
    forget_scalars(e, &own);
    LLVMValueRef lo = value_scalar(e, s->lo);
    if (l->extent < 0) vector_dynamic(e, s, l);
    else if (l->chunk) vector_once(e, s, lo, (uint32_t)l->extent, (uint32_t)l->extent);
    else if (l->extent > 0) {
        int64_t step = (int64_t)l->parts * l->lanes, whole = l->extent / step * step,
                rest = l->extent - whole;
        LLVMValueRef end = LLVMBuildAdd(e->builder, lo, const_index(e, l->heavy ? l->extent : whole), "");
        if (l->heavy) vector_loop(e, s, lo, end, (uint32_t)step, true, false);
        else if (whole == step) vector_once(e, s, lo, (uint32_t)step, (uint32_t)step);
        else if (whole) vector_loop(e, s, lo, end, (uint32_t)step, false, false);
        if (rest && !l->heavy) vector_once(e, s, end, (uint32_t)rest, (uint32_t)step);
    }
    forget_scalars(e, &own);
}

/* ---- statements ---- */

static bool is_simple(const struct lp_stmt *s)
{
    return s->kind == LP_LET || s->kind == LP_STORE || s->kind == LP_SET || s->kind == LP_ACCUM;
}

static void emit_simple(struct emitter *e, const struct lp_stmt *s, uint32_t part)
{
    if (s->kind == LP_LET) emit_let(e, s->value, part);
    else if (s->kind == LP_STORE) emit_store(e, s, part);
    else if (s->kind == LP_SET) emit_set(e, s, part);
    else emit_accumulate(e, s, part);
}

static void loop_enter(struct emitter *e)
{
    if (e->f->loops++) return;
    e->f->outermost++;
    e->f->before = here(e);
}

void emit_loop(struct emitter *e, const struct lp_stmt *s)
{
    bool divided = e->plan.loops[s->target].divided;
    if (!divided) loop_enter(e);
    if (e->plan.loops[s->target].mode == LOOP_VECTOR) emit_vector(e, s);
    else emit_serial(e, s);
    if (!divided) e->f->loops--;
}

/* Selecting and ordering the instructions of one block takes LLVM time that grows with the square of those
 * that touch memory. Long runs of statements are cut into several blocks; what cuts them, a look at the
 * caller's wish to stop, is of use there as well. */
enum { LONG_RUN = 384, CUT_RUN = 96 };

/* In a vector loop a run of simple statements is emitted part after part: fewer values are alive at a time
 * than statement after statement. */
static void emit_run(struct emitter *e, const struct lp_stmt *run, uint32_t n)
{
    uint32_t parts = e->w ? e->w->n : 1;
    bool cut = !e->w && n > LONG_RUN;
    for (uint32_t p = 0; p < parts; p++)
        for (uint32_t k = 0; k < n; k++) {
            if (cut && k % CUT_RUN == CUT_RUN - 1) poll_cancel(e);
            emit_simple(e, &run[k], p);
        }
}

static void emit_stmt(struct emitter *e, const struct lp_stmt *s)
{
    if (s->kind == LP_WHILE) {
        loop_enter(e);
        emit_while(e, s);
        e->f->loops--;
    } else if (s->kind == LP_IF) emit_if(e, s);
    else if (s->kind == LP_CALL) emit_call(e, s->call);
    else if (e->plan.loops[s->target].mode == LOOP_OUTLINED) emit_parallel(e, s);
    else if (e->plan.loops[s->target].own_function) emit_shared(e, s);
    else emit_loop(e, s);
}

/* Statements i to end, none of which begins a section. */
static void emit_range(struct emitter *e, const struct lp_block *block, uint32_t i, uint32_t end)
{
    const struct lp_stmt *stmts = block->stmts.data;
    while (i < end) {
        uint32_t simple = i;
        while (simple < end && is_simple(&stmts[simple])) simple++;
        emit_run(e, &stmts[i], simple - i);
        i = simple;
        uint32_t calls = i < end ? emit_calls(e, &stmts[i], end - i) : 0;
        if (!calls && i < end) emit_stmt(e, &stmts[i++]);
        i += calls;
    }
}

void emit_block(struct emitter *e, const struct lp_block *block)
{
    uint32_t n = block ? block->stmts.len : 0;
    for (uint32_t i = 0; i < n;) {
        struct section *section = section_at(e, &block->stmts.data[i]);
        if (section) {
            emit_section(e, section);
            i = section->end;
            continue;
        }
        uint32_t end = i + 1;
        while (end < n && !section_at(e, &block->stmts.data[end])) end++;
        emit_range(e, block, i, end);
        i = end;
    }
}

void emit_section_body(struct emitter *e, const struct section *s)
{
    emit_range(e, s->block, s->first, s->end);
}

/* ---- functions ---- */

void func_begin(struct emitter *e, struct func *f, uint32_t loop, LLVMValueRef fn)
{
    const struct lp *p = e->p;
    *f = (struct func){ .parent = e->f, .loop = loop, .fn = fn, .rt = LLVMGetParam(fn, 0) };
    f->values = table_new(e, p->instrs.len);
    f->vars = table_new(e, p->loops.len);
    f->slots = table_new(e, p->locals.len + p->buffers.len);
    f->arrays = table_new(e, p->buffers.len);
    f->lane_memory = table_new(e, p->locals.len);
    f->symbols = EMIT_NEW(e, LLVMValueRef, e->plan.n_symbols + 1);
    e->f = f;
    f->entry = new_block(e, "entry");
    LLVMBasicBlockRef start = new_block(e, "start");
    go_on_in(e, start);
    if (f->parent) f->env = LLVMGetParam(fn, 1);
    else {
        f->buffers_arg = LLVMGetParam(fn, 1);
        f->symbols_arg = LLVMGetParam(fn, 2);
    }
}

/* A phi of the function, and whether something that is no phi reads it, directly or by way of others. */
struct joined {
    LLVMValueRef phi;
    bool read;
};

static int by_address(const void *x, const void *y)
{
    uintptr_t a = (uintptr_t)((const struct joined *)x)->phi, b = (uintptr_t)((const struct joined *)y)->phi;
    return (a > b) - (a < b);
}

static struct joined *joined_of(struct joined *all, uint32_t n, LLVMValueRef phi)
{
    return bsearch(&(struct joined){ .phi = phi }, all, n, sizeof *all, by_address);
}

/* All that are read because this one is; `waiting` has room for all. */
static void mark_read(struct joined *all, uint32_t n, struct joined *first, struct joined **waiting)
{
    uint32_t left = 1;
    first->read = true;
    waiting[0] = first;
    while (left) {
        LLVMValueRef phi = waiting[--left]->phi;
        for (uint32_t k = 0; k < LLVMCountIncoming(phi); k++) {
            LLVMValueRef from = LLVMGetIncomingValue(phi, k);
            struct joined *other = LLVMIsAPHINode(from) ? joined_of(all, n, from) : NULL;
            if (!other || other->read) continue;
            other->read = true;
            waiting[left++] = other;
        }
    }
}

static bool is_read_by_others(LLVMValueRef phi)
{
    for (LLVMUseRef use = LLVMGetFirstUse(phi); use; use = LLVMGetNextUse(use))
        if (!LLVMIsAPHINode(LLVMGetUser(use))) return true;
    return false;
}

/* How many phis the function has, and which. */
static uint32_t phis_of(LLVMValueRef fn, struct joined *all)
{
    uint32_t n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b)) {
        LLVMValueRef i = LLVMGetFirstInstruction(b);
        for (; i && LLVMIsAPHINode(i); i = LLVMGetNextInstruction(i), n++)
            if (all) all[n].phi = i;
    }
    return n;
}

/* Phis that only phis read: branches in branches and loops in loops join what is of use inside only once for
 * each level, and loops carry it around. */
static void drop_unread_phis(struct emitter *e, LLVMValueRef fn)
{
    uint32_t n = phis_of(fn, NULL);
    struct joined *all = EMIT_NEW(e, struct joined, n + 1);
    phis_of(fn, all);
    qsort(all, n, sizeof *all, by_address);
    struct joined **waiting = EMIT_NEW(e, struct joined *, n + 1);
    for (uint32_t k = 0; k < n; k++)
        if (!all[k].read && is_read_by_others(all[k].phi)) mark_read(all, n, &all[k], waiting);
    for (uint32_t k = 0; k < n; k++)
        if (!all[k].read) LLVMReplaceAllUsesWith(all[k].phi, LLVMGetPoison(LLVMTypeOf(all[k].phi)));
    for (uint32_t k = 0; k < n; k++)
        if (!all[k].read) LLVMInstructionEraseFromParent(all[k].phi);
}

void func_end(struct emitter *e)
{
    struct func *f = e->f;
    LLVMBuildRet(e->builder, LLVMConstInt(e->i32, HOP_OK, false));
    drop_unread_phis(e, f->fn);
    go_on_in(e, f->entry);
    LLVMBuildBr(e->builder, LLVMGetNextBasicBlock(f->entry));
    e->f = f->parent;
}

LLVMValueRef emit_entry(struct emitter *e)
{
    LLVMTypeRef params[3] = { e->ptr, e->ptr, e->ptr };
    LLVMValueRef fn = LLVMAddFunction(e->module, e->name, LLVMFunctionType(e->i32, params, 3, false));
    struct func f;
    func_attributes(e, fn);
    func_begin(e, &f, HOP_NONE, fn);
    emit_block(e, e->p->root);
    func_end(e);
    return fn;
}
