/* Values of the LLVM back end: where a value of the program is found, how it becomes a vector, and what
 * loads, stores, locals and lanes do. A vector loop's body is emitted part by part through here; outside
 * vector loops there is one part, the scalar. */
#include "emit/llvm.h"
#include "loop/rt.h"

#include <math.h>

/* ---- values ---- */

struct held value_new(struct emitter *e, enum form form, uint32_t n)
{
    return (struct held){ .form = (uint8_t)form,
                          .n = (uint8_t)n,
                          .instance = e->w ? e->w->instance : 0,
                          .part = EMIT_NEW(e, LLVMValueRef, n) };
}

struct held scalar_value(struct emitter *e, LLVMValueRef x)
{
    struct held v = value_new(e, FORM_SCALAR, 1);
    v.part[0] = x;
    return v;
}

/* Runs with the builder at the end of the function's entry block. */
#define AT_ENTRY(e, statement) \
    do { \
        LLVMBasicBlockRef at_ = LLVMGetInsertBlock((e)->builder); \
        LLVMPositionBuilderAtEnd((e)->builder, (e)->f->entry); \
        statement; \
        LLVMPositionBuilderAtEnd((e)->builder, at_); \
    } while (0)

static LLVMValueRef pointer_at(struct emitter *e, LLVMTypeRef element, LLVMValueRef base, int64_t index)
{
    LLVMValueRef at = const_index(e, index);
    return index ? LLVMBuildInBoundsGEP2(e->builder, element, base, &at, 1, "") : base;
}

static LLVMValueRef capture(struct emitter *e, enum capture_kind kind, uint32_t id, LLVMTypeRef type)
{
    struct func *f = e->f;
    uint32_t k = f->n_captures++;
    if (k == f->cap_captures) {
        struct capture *more = EMIT_NEW(e, struct capture, f->cap_captures * 2 + 8);
        if (k) memcpy(more, f->captures, k * sizeof *more);
        f->captures = more;
        f->cap_captures = f->cap_captures * 2 + 8;
    }
    f->captures[k] = (struct capture){ (uint8_t)kind, id };
    LLVMValueRef x;
    AT_ENTRY(e, x = LLVMBuildLoad2(e->builder, type, pointer_at(e, e->i64, f->env, k), ""));
    return x;
}

/* What the parent has; a constant is written into the function unless others share it. */
static LLVMValueRef capture_scalar(struct emitter *e, enum capture_kind kind, uint32_t id, LLVMValueRef from)
{
    return LLVMIsConstant(from) && !e->f->shared ? from : capture(e, kind, id, LLVMTypeOf(from));
}

LLVMValueRef symbols_pointer(struct emitter *e)
{
    struct func *f = e->f;
    if (!f->symbols_arg) f->symbols_arg = capture(e, CAPTURE_SYMBOLS, 0, e->ptr);
    return f->symbols_arg;
}

LLVMValueRef buffers_table(struct emitter *e)
{
    struct func *f = e->f;
    if (!f->buffers_arg) f->buffers_arg = capture(e, CAPTURE_BUFFERS, 0, e->ptr);
    return f->buffers_arg;
}

/* Is this the function of a parallel loop, which threads run? */
static bool is_region(const struct emitter *e)
{
    uint32_t loop = e->f->loop;
    return loop < e->p->loops.len && e->plan.loops[loop].mode == LOOP_OUTLINED;
}

LLVMValueRef given_table(struct emitter *e)
{
    struct func *f = e->f;
    LLVMValueRef table = buffers_table(e);
    if (!is_region(e)) return table;
    if (f->given_table) return f->given_table;
    LLVMTypeRef params[2] = { e->ptr, e->ptr };
    LLVMValueRef args[2] = { f->rt, table };
    AT_ENTRY(e, f->given_table = LLVMBuildCall2(e->builder, LLVMFunctionType(e->ptr, params, 2, false),
                                                rt_function(e, offsetof(struct hop_rt, table)), args, 2, ""));
    return f->given_table;
}

/* Where this thread's private buffer lies, when that of the first thread is there. */
static LLVMValueRef own_pointer(struct emitter *e, LLVMValueRef first)
{
    struct func *f = e->f;
    LLVMValueRef at;
    if (!f->offset)
        AT_ENTRY(e,
                 f->offset = LLVMBuildCall2(e->builder, LLVMFunctionType(e->i64, &e->ptr, 1, false),
                                            rt_function(e, offsetof(struct hop_rt, offset)), &f->rt, 1, ""));
    AT_ENTRY(e, at = LLVMBuildGEP2(e->builder, e->i8, first, &f->offset, 1, ""));
    return at;
}

LLVMValueRef stack_slot(struct emitter *e, LLVMTypeRef type, uint32_t count, uint32_t align)
{
    LLVMValueRef slot;
    AT_ENTRY(e, slot = LLVMBuildAlloca(e->builder, LLVMArrayType(type, count ? count : 1), ""));
    LLVMSetAlignment(slot, align);
    return slot;
}

static struct held symbol_value(struct emitter *e, uint32_t k)
{
    LLVMValueRef x, all = symbols_pointer(e);
    if (e->plan.set_symbol[k])
        return scalar_value(e, LLVMBuildLoad2(e->builder, e->i64, pointer_at(e, e->i64, all, k), ""));
    if (!e->f->symbols[k]) {
        AT_ENTRY(e, x = LLVMBuildLoad2(e->builder, e->i64, pointer_at(e, e->i64, all, k), ""));
        e->f->symbols[k] = x;
    }
    struct held v = scalar_value(e, e->f->symbols[k]);
    v.instance = 0;
    return v;
}

/* The scalar that the function around this one has for it, and may have from the one around itself. */
static LLVMValueRef value_of_parent(struct emitter *e, lpv v)
{
    struct func *f = e->f;
    struct wide *w = e->w;
    e->f = f->parent;
    e->w = NULL;
    LLVMValueRef x = value_scalar(e, v);
    e->f = f;
    e->w = w;
    return x;
}

LLVMValueRef frame(struct emitter *e)
{
    struct func *f = e->f;
    if (!f->frame && f->parent) f->frame = capture(e, CAPTURE_FRAME, 0, e->ptr);
    else if (!f->frame) f->frame = stack_slot(e, e->i8, (uint32_t)e->plan.frame_bytes, FRAME_ALIGN);
    return f->frame;
}

static bool sees_frame(const struct emitter *e)
{
    return e->plan.frame_bytes && (!e->f->parent || is_section(e, e->f->loop));
}

static bool is_value_in_frame(const struct emitter *e, lpv v)
{
    return e->plan.in_frame && e->plan.in_frame[v];
}

LLVMValueRef value_place(struct emitter *e, lpv v)
{
    return pointer_at(e, e->i8, frame(e), (int64_t)e->plan.in_frame[v] - 1);
}

/* A value that a section made is loaded where it is wanted first: what is wanted in other sections only costs
 * the caller nothing. One from before this function was called is in the frame when it begins. */
static LLVMValueRef value_from_frame(struct emitter *e, lpv v)
{
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder), given_in = known_value(e, v)->given_in;
    LLVMTypeRef type = type_value(e, dtype_of(e, v), 0);
    if (!sees_frame(e)) return capture(e, CAPTURE_VALUE, v, type);
    frame(e); /* known before the builder leaves the end of a block */
    LLVMValueRef first = given_in ? LLVMGetFirstInstruction(given_in) : NULL;
    if (first) LLVMPositionBuilderBefore(e->builder, first);
    else LLVMPositionBuilderAtEnd(e->builder, given_in ? given_in : e->f->entry);
    LLVMValueRef x = LLVMBuildLoad2(e->builder, type, value_place(e, v), "");
    LLVMPositionBuilderAtEnd(e->builder, at);
    return x;
}

const struct held *value_get(struct emitter *e, lpv v)
{
    struct func *f = e->f;
    const struct lp_instr *i = instr(e, v);
    struct held *x = i->op == LP_VAR ? known_var(e, (uint32_t)i->imm) : &known_value(e, v)->held;
    if (i->op == LP_SYMBOL) {
        *x = symbol_value(e, (uint32_t)i->imm);
        return x;
    }
    if (x->form) return x;
    if (i->op == LP_CONST) *x = scalar_value(e, const_bits(e, (enum dtype)i->dtype, 0, i->bits));
    else if (is_value_in_frame(e, v)) *x = scalar_value(e, value_from_frame(e, v));
    else if (f->parent) *x = scalar_value(e, capture_scalar(e, CAPTURE_VALUE, v, value_of_parent(e, v)));
    else if (i->op == LP_VAR) emit_fail(e, "the variable of loop %u is used outside of it", (uint32_t)i->imm);
    else emit_fail(e, "value %u is used before its place", v);
    x->instance = 0;
    return x;
}

LLVMValueRef value_scalar(struct emitter *e, lpv v)
{
    const struct held *x = value_get(e, v);
    if (x->form != FORM_SCALAR)
        emit_fail(e, "value %u differs from lane to lane where one value is needed", v);
    return x->part[0];
}

/* A splat is made where it runs least often: before the vector loop, or behind the definition when that is
 * inside. */
static LLVMValueRef splat_of(struct emitter *e, lpv v, const struct held *x, uint32_t lanes)
{
    struct splat *known = &known_value(e, v)->splat;
    LLVMValueRef scalar = x->part[0];
    if (LLVMIsConstant(scalar)) return build_splat(e, scalar, lanes);
    bool full = lanes == e->w->lanes;
    if (full && known->instance == e->w->instance && known->of == scalar) return known->wide;
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
    if (x->instance == e->w->instance && LLVMIsAInstruction(scalar)) {
        LLVMValueRef next = LLVMGetNextInstruction(scalar);
        while (next && LLVMIsAPHINode(next)) next = LLVMGetNextInstruction(next);
        if (next) LLVMPositionBuilderBefore(e->builder, next);
        else LLVMPositionBuilderAtEnd(e->builder, LLVMGetInstructionParent(scalar));
    } else LLVMPositionBuilderBefore(e->builder, LLVMGetBasicBlockTerminator(e->w->before));
    LLVMValueRef r = build_splat(e, scalar, lanes);
    LLVMPositionBuilderAtEnd(e->builder, at);
    if (full) *known = (struct splat){ scalar, r, e->w->instance };
    return r;
}

/* As 64-bit integers, or as the 32-bit integers that they fit in. */
static LLVMValueRef affine_part(struct emitter *e, const struct held *x, uint32_t part, LLVMTypeRef type)
{
    uint32_t lanes = e->w->part_lanes[part];
    LLVMValueRef steps[MAX_PARTS];
    LLVMValueRef first = x->part[0];
    if (type != e->i64) first = LLVMBuildTrunc(e->builder, first, type, "");
    for (uint32_t l = 0; l < lanes; l++)
        steps[l] = LLVMConstInt(type, (uint64_t)x->stride * (part * e->w->lanes + l), true);
    return LLVMBuildAdd(e->builder, build_splat(e, first, lanes), LLVMConstVector(steps, lanes), "");
}

LLVMValueRef value_part(struct emitter *e, lpv v, uint32_t part)
{
    const struct held *x = value_get(e, v);
    if (!e->w) return x->part[0];
    if (x->form == FORM_SCALAR) return splat_of(e, v, x, e->w->part_lanes[part]);
    return x->form == FORM_AFFINE ? affine_part(e, x, part, e->i64) : x->part[part];
}

/* Is this index known to fit in 32 bits? Twice as many of those go into a register. */
static bool is_narrow(struct emitter *e, lpv v)
{
    struct lp_range range = lp_range(e->p, v);
    return e->w && dtype_of(e, v) == DT_I64 && range.lo >= INT32_MIN && range.hi <= INT32_MAX;
}

static LLVMValueRef narrow_part(struct emitter *e, lpv v, uint32_t part)
{
    const struct held *x = value_get(e, v);
    if (x->form == FORM_AFFINE) return affine_part(e, x, part, e->i32);
    return LLVMBuildTrunc(e->builder, value_part(e, v, part), type_value(e, DT_I32, e->w->part_lanes[part]),
                          "");
}

/* Elements from lane 0 of the first part of an affine value to lane 0 of this one. */
static int64_t affine_skip(const struct emitter *e, const struct held *x, uint32_t part)
{
    return (int64_t)((uint64_t)x->stride * part * e->w->lanes);
}

/* Lane 0's value of a part of an affine value. */
static LLVMValueRef affine_start(struct emitter *e, const struct held *x, uint32_t part)
{
    int64_t skip = affine_skip(e, x, part);
    return skip ? LLVMBuildAdd(e->builder, x->part[0], const_index(e, skip), "") : x->part[0];
}

/* ---- memory ---- */

static LLVMValueRef load_pointer(struct emitter *e, uint32_t buffer)
{
    return LLVMBuildLoad2(e->builder, e->ptr, pointer_at(e, e->ptr, buffers_table(e), buffer), "");
}

/* A growing buffer moves when room is reserved, which no vector loop does. */
static LLVMValueRef growing_pointer(struct emitter *e, uint32_t buffer)
{
    struct splat *known = &known_array(e, buffer)->growing;
    if (!e->w) return load_pointer(e, buffer);
    if (known->instance == e->w->instance) return known->wide;
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
    buffers_table(e); /* known before the builder leaves the end of a block */
    LLVMPositionBuilderBefore(e->builder, LLVMGetBasicBlockTerminator(e->w->before));
    *known = (struct splat){ .wide = load_pointer(e, buffer), .instance = e->w->instance };
    LLVMPositionBuilderAtEnd(e->builder, at);
    return known->wide;
}

/* Equal nests are given pointers: theirs are different buffers of the frame. */
static bool is_in_frame(const struct emitter *e, uint32_t buffer)
{
    return sees_frame(e) && memory_home(e, buffer) == HOP_NONE && !e->plan.buffers[buffer].in_registers;
}

static LLVMValueRef frame_pointer(struct emitter *e, uint32_t buffer)
{
    return pointer_at(e, e->i8, frame(e), (int64_t)e->plan.buffers[buffer].in_frame);
}

/* Of many buffers pointers are loaded near where they are used, outside of loops: all of them at the entry
 * would be spilled, and LLVM's time grows with the square of the loads in one block. */
enum { MANY_BUFFERS = 16 };
static LLVMValueRef near_pointer(struct emitter *e, uint32_t buffer)
{
    struct func *f = e->f;
    bool in_frame = e->p->buffers.data[buffer].kind == BUF_LOCAL;
    LLVMValueRef (*make)(struct emitter *, uint32_t) = in_frame ? frame_pointer : load_pointer;
    if (!f->loops) return make(e, buffer);
    struct known_array *known = known_array(e, buffer);
    if (known->pointer_loop == f->outermost) return known->pointer;
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
    LLVMValueRef end = LLVMGetBasicBlockTerminator(f->before);
    (in_frame ? frame : buffers_table)(e); /* known before the builder leaves the end of a block */
    if (end) LLVMPositionBuilderBefore(e->builder, end);
    else LLVMPositionBuilderAtEnd(e->builder, f->before);
    known->pointer = make(e, buffer);
    known->pointer_loop = f->outermost;
    LLVMPositionBuilderAtEnd(e->builder, at);
    return known->pointer;
}

/* Does the function that is being emitted find the buffer in the table by its number? Where it does, nobody
 * has to hand it on. */
static bool is_in_table(const struct emitter *e, uint32_t buffer)
{
    const struct lp_buffer *b = &e->p->buffers.data[buffer];
    bool of_thread = b->private && b->kind == BUF_TEMP; /* the table has that of the first */
    return b->kind != BUF_LOCAL && !e->f->several && (!of_thread || is_region(e));
}

LLVMValueRef buffer_pointer(struct emitter *e, uint32_t buffer)
{
    struct func *f = e->f;
    const struct lp_buffer *b = &e->p->buffers.data[buffer];
    LLVMValueRef x;
    if (b->kind == BUF_DYN) return growing_pointer(e, buffer);
    bool here = b->kind == BUF_LOCAL && f->loop == memory_home(e, buffer);
    bool near = is_section(e, f->loop) || (!f->parent && e->p->buffers.len > MANY_BUFFERS);
    if (b->kind == BUF_LOCAL ? is_in_frame(e, buffer) : near) return near_pointer(e, buffer);
    LLVMValueRef *known = &known_array(e, buffer)->pointer;
    if (*known) return *known;
    if (here) x = stack_slot(e, type_memory(e, (enum dtype)b->dtype, 0), (uint32_t)b->static_count, 64);
    else if (f->parent && !is_in_table(e, buffer)) x = capture(e, CAPTURE_BUFFER, buffer, e->ptr);
    else {
        buffers_table(e); /* known before the builder leaves the end of a block */
        AT_ENTRY(e, x = load_pointer(e, buffer));
    }
    if (b->private && b->kind == BUF_TEMP && is_region(e)) x = own_pointer(e, x);
    *known = x;
    return x;
}

LLVMValueRef buffer_address(struct emitter *e, uint32_t buffer, LLVMValueRef index)
{
    LLVMValueRef base = buffer_pointer(e, buffer);
    if (!index) return base;
    LLVMTypeRef element = type_memory(e, (enum dtype)e->p->buffers.data[buffer].dtype, 0);
    return LLVMBuildInBoundsGEP2(e->builder, element, base, &index, 1, "");
}

LLVMValueRef rt_function(struct emitter *e, size_t offset)
{
    return LLVMBuildLoad2(e->builder, e->ptr, pointer_at(e, e->i8, e->f->rt, (int64_t)offset), "");
}

/* In memory a bool is a byte that is 0 or 1. */
static LLVMValueRef from_memory(struct emitter *e, enum dtype t, LLVMValueRef x)
{
    return t == DT_BOOL ? LLVMBuildICmp(e->builder, LLVMIntNE, x, LLVMConstNull(LLVMTypeOf(x)), "") : x;
}

static LLVMValueRef to_memory(struct emitter *e, enum dtype t, uint32_t lanes, LLVMValueRef x)
{
    return t == DT_BOOL ? LLVMBuildZExt(e->builder, x, type_memory(e, t, lanes), "") : x;
}

/* The alignment operand of the masked intrinsics became an attribute in LLVM 22; the declaration tells which
 * it is. */
static LLVMValueRef masked_call(struct emitter *e, const char *name, LLVMTypeRef value_type,
                                LLVMTypeRef pointer_type, LLVMValueRef *args, uint32_t n, uint32_t align_at,
                                uint32_t align)
{
    LLVMTypeRef overloads[2] = { value_type, pointer_type };
    LLVMValueRef all[4];
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, overloads, 2);
    bool operand = LLVMCountParams(fn) == n + 1;
    for (uint32_t i = 0, k = 0; k < n + operand; k++)
        all[k] = operand && k == align_at ? LLVMConstInt(e->i32, align, false) : args[i++];
    LLVMValueRef call = LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(fn), fn, all, n + operand, "");
    /* The pointer stands just before, and parameters count from 1. */
    if (!operand) LLVMSetInstrParamAlignment(call, align_at, align);
    return call;
}

static LLVMValueRef all_lanes(struct emitter *e, uint32_t lanes) { return const_bits(e, DT_BOOL, lanes, 1); }

static LLVMValueRef reversed(struct emitter *e, LLVMValueRef x)
{
    LLVMValueRef order[MAX_PARTS];
    uint32_t lanes = LLVMGetVectorSize(LLVMTypeOf(x));
    for (uint32_t l = 0; l < lanes; l++) order[l] = LLVMConstInt(e->i32, lanes - 1 - l, false);
    return LLVMBuildShuffleVector(e->builder, x, LLVMGetPoison(LLVMTypeOf(x)), LLVMConstVector(order, lanes),
                                  "");
}

/* The elements of a part are where an index says: one after the other, backwards, at a fixed distance, or
 * anywhere. */
struct located {
    LLVMValueRef start, pointers;
    int64_t stride;
};

/* Where lane 0 of the first part of an affine index lies. The places of all other parts, and of accesses
 * that follow, are a constant away from it: LLVM's time goes into sums of addresses, hardly into constants.
 */
static LLVMValueRef first_place(struct emitter *e, uint32_t buffer, lpv index)
{
    LLVMBasicBlockRef block = LLVMGetInsertBlock(e->builder);
    const struct held *x = value_get(e, index);
    uint32_t slot = (index + buffer) % KNOWN_PLACES;
    struct known_place *known = &e->places[slot];
    if (known->block == block && known->index == x->part[0] && known->buffer == buffer) return known->place;
    LLVMValueRef place = buffer_address(e, buffer, x->part[0]);
    *known = (struct known_place){ block, x->part[0], place, buffer };
    return place;
}

static struct located locate(struct emitter *e, uint32_t buffer, lpv index, uint32_t part)
{
    const struct held *x = value_get(e, index);
    int64_t last_lane = e->w->part_lanes[part] - 1;
    struct located at = { .stride = x->form == FORM_AFFINE ? x->stride : 0 };
    bool packed = at.stride == 1 || at.stride == -1;
    if (at.stride) {
        LLVMTypeRef element = type_memory(e, (enum dtype)e->p->buffers.data[buffer].dtype, 0);
        int64_t skip = affine_skip(e, x, part) - (at.stride == -1 ? last_lane : 0);
        at.start = pointer_at(e, element, first_place(e, buffer, index), skip);
    }
    if (!packed && (!at.stride || e->w->mask[part]))
        at.pointers = buffer_address(e, buffer, value_part(e, index, part));
    return at;
}

/* ---- loads at clamped places ---- */

/* An index that runs along memory but for a clamp at one end or both, as arrays put together from pieces are
 * read: the lanes between lie one after the other, all others read one element. */
struct reach {
    struct held along;    /* the index without the clamps */
    uint32_t n;           /* clamps */
    LLVMValueRef away[2]; /* lanes that a clamp holds back, */
    LLVMValueRef to[2];   /* and the place they read; one clamp at most holds a lane */
};

static LLVMValueRef beyond(struct emitter *e, const struct lp_instr *i, const struct held *x, lpv inner,
                           lpv bound, uint32_t part)
{
    uint32_t lanes = e->w->part_lanes[part];
    bool narrow = is_narrow(e, inner) && is_narrow(e, bound) && value_get(e, inner)->form == FORM_AFFINE;
    LLVMTypeRef type = narrow ? e->i32 : e->i64;
    LLVMIntPredicate outside = i->op == LP_MAX ? LLVMIntSLT : LLVMIntSGT;
    LLVMValueRef limit = value_scalar(e, bound);
    if (narrow) limit = LLVMBuildTrunc(e->builder, limit, type, "");
    LLVMValueRef limits = build_splat(e, limit, lanes);
    return LLVMBuildICmp(e->builder, outside, affine_part(e, x, part, type), limits, "");
}

static bool reach_of(struct emitter *e, lpv v, uint32_t part, struct reach *out)
{
    const struct lp_instr *i = instr(e, v);
    const struct held *x = value_get(e, v);
    struct reach other;
    if (x->form != FORM_WIDE) {
        *out = (struct reach){ .along = *x };
        return true;
    }
    bool sum = i->op == LP_ADD || i->op == LP_SUB;
    bool clamp = i->op == LP_MAX || i->op == LP_MIN;
    if (i->dtype != DT_I64 || (!sum && !clamp)) return false;
    bool swapped = i->op != LP_SUB && value_get(e, i->a)->form == FORM_SCALAR;
    lpv inner = swapped ? i->b : i->a;
    lpv bound = swapped ? i->a : i->b;
    if (value_get(e, bound)->form != FORM_SCALAR) return false;
    if (!reach_of(e, inner, part, out) || out->along.form != FORM_AFFINE) return false;
    if (!reach_of(e, bound, part, &other)) return false;
    LLVMValueRef fixed = other.along.part[0];
    if (clamp && out->n == HOP_COUNT(out->to)) return false;
    for (uint32_t k = 0; k < out->n; k++)
        out->to[k] = op_binary(e, (enum lp_op)i->op, DT_I64, 0, out->to[k], fixed);
    if (sum) {
        struct held moved = value_new(e, FORM_AFFINE, 1);
        moved.stride = out->along.stride;
        moved.part[0] = op_binary(e, (enum lp_op)i->op, DT_I64, 0, out->along.part[0], fixed);
        out->along = moved;
        return true;
    }
    LLVMValueRef away = beyond(e, i, &out->along, inner, bound, part);
    if (out->n) away = LLVMBuildAnd(e->builder, away, LLVMBuildNot(e->builder, out->away[0], ""), "");
    out->away[out->n] = away;
    out->to[out->n++] = fixed;
    return true;
}

/* It need not lie within the buffer: lanes that would read outside are masked. */
static LLVMValueRef any_address(struct emitter *e, uint32_t buffer, LLVMValueRef index)
{
    LLVMTypeRef element = type_memory(e, (enum dtype)e->p->buffers.data[buffer].dtype, 0);
    return LLVMBuildGEP2(e->builder, element, buffer_pointer(e, buffer), &index, 1, "");
}

static LLVMValueRef both(struct emitter *e, LLVMValueRef x, LLVMValueRef mask)
{
    return mask ? LLVMBuildAnd(e->builder, x, mask, "") : x;
}

/* NULL: the index is not of this kind, or the machine has no masked loads of this size. What no lane reads is
 * not read. */
static LLVMValueRef load_clamped(struct emitter *e, uint32_t buffer, lpv index, uint32_t part)
{
    enum dtype t = (enum dtype)e->p->buffers.data[buffer].dtype;
    uint32_t lanes = e->w->part_lanes[part];
    LLVMTypeRef type = type_memory(e, t, lanes);
    LLVMTypeRef flags = type_value(e, DT_BOOL, lanes);
    LLVMValueRef mask = e->w->mask[part];
    LLVMValueRef within = all_lanes(e, lanes);
    LLVMValueRef zero = LLVMConstInt(e->i32, 0, false);
    struct reach at;
    if (e->vector_bytes < 32 || (size_of(t) < 4 && e->vector_bytes < 64)) return NULL;
    if (lanes < 2 || value_get(e, index)->form != FORM_WIDE) return NULL;
    if (!reach_of(e, index, part, &at) || !at.n || at.along.stride != 1) return NULL;
    for (uint32_t k = 0; k < at.n; k++)
        within = LLVMBuildAnd(e->builder, within, LLVMBuildNot(e->builder, at.away[k], ""), "");
    LLVMValueRef args[3] = { any_address(e, buffer, affine_start(e, &at.along, part)), both(e, within, mask),
                             LLVMConstNull(type) };
    LLVMValueRef r = masked_call(e, "llvm.masked.load", type, e->ptr, args, 3, 1, size_of(t));
    for (uint32_t k = 0; k < at.n; k++) {
        LLVMValueRef away = both(e, at.away[k], mask);
        LLVMValueRef any = call_intrinsic(e, "llvm.vector.reduce.or", &flags, 1, &away, 1);
        LLVMValueRef one[3] = { any_address(e, buffer, at.to[k]),
                                LLVMBuildInsertElement(e->builder, LLVMConstNull(flags), any, zero, ""),
                                LLVMConstNull(type) };
        LLVMValueRef element = masked_call(e, "llvm.masked.load", type, e->ptr, one, 3, 1, size_of(t));
        LLVMValueRef everywhere = LLVMConstNull(LLVMVectorType(e->i32, lanes));
        element = LLVMBuildShuffleVector(e->builder, element, LLVMGetPoison(type), everywhere, "");
        r = LLVMBuildSelect(e->builder, at.away[k], element, r, "");
    }
    return from_memory(e, t, r);
}

/* Elements a few places apart: what lies between the first and the last is loaded as whole vectors, and the
 * lanes are picked from them, which is less code, for LLVM and to run, than one load for each. */
enum { LEAST_PICKED_LANES = 4 };

static bool is_picked(int64_t stride, uint32_t lanes)
{
    return stride >= 2 && stride <= MOST_PICKED && lanes >= LEAST_PICKED_LANES;
}

static LLVMValueRef load_picked(struct emitter *e, LLVMTypeRef scalar, LLVMValueRef start, uint32_t stride,
                                uint32_t lanes, uint32_t align)
{
    LLVMTypeRef type = LLVMVectorType(scalar, lanes);
    LLVMValueRef r = NULL;
    uint32_t last = (lanes - 1) * stride; /* the element of the last lane */
    for (uint32_t k = 0; k < stride; k++) {
        uint32_t from = HOP_MIN(k * lanes, last + 1 - lanes); /* nothing behind it is read */
        LLVMValueRef x = LLVMBuildLoad2(e->builder, type, pointer_at(e, scalar, start, from), "");
        LLVMValueRef order[MAX_PARTS];
        LLVMSetAlignment(x, align);
        for (uint32_t l = 0; l < lanes; l++) {
            uint32_t in = l * stride / lanes; /* the vector that has this lane's element */
            uint32_t lane = k ? l : l * stride;
            if (k && in == k) lane = lanes + l * stride - from;
            order[l] = in > k ? LLVMGetPoison(e->i32) : LLVMConstInt(e->i32, lane, false);
        }
        r = LLVMBuildShuffleVector(e->builder, k ? r : x, k ? x : LLVMGetPoison(type),
                                   LLVMConstVector(order, lanes), "");
    }
    return r;
}

static LLVMValueRef load_part(struct emitter *e, uint32_t buffer, lpv index, uint32_t part)
{
    enum dtype t = (enum dtype)e->p->buffers.data[buffer].dtype;
    uint32_t lanes = e->w->part_lanes[part];
    LLVMTypeRef scalar = type_memory(e, t, 0);
    LLVMTypeRef type = type_memory(e, t, lanes);
    LLVMValueRef mask = e->w->mask[part];
    LLVMValueRef r = load_clamped(e, buffer, index, part);
    if (r) return r;
    struct located at = locate(e, buffer, index, part);
    if (at.pointers) {
        LLVMValueRef args[3] = { at.pointers, mask ? mask : all_lanes(e, lanes), LLVMConstNull(type) };
        r = masked_call(e, "llvm.masked.gather", type, LLVMTypeOf(at.pointers), args, 3, 1, size_of(t));
    } else if (at.stride == 1 || at.stride == -1) {
        if (mask) {
            LLVMValueRef args[3] = { at.start, at.stride < 0 ? reversed(e, mask) : mask,
                                     LLVMConstNull(type) };
            r = masked_call(e, "llvm.masked.load", type, e->ptr, args, 3, 1, size_of(t));
        } else {
            r = LLVMBuildLoad2(e->builder, type, at.start, "");
            LLVMSetAlignment(r, size_of(t));
        }
        if (at.stride < 0) r = reversed(e, r);
    } else if (is_picked(at.stride, lanes))
        r = load_picked(e, scalar, at.start, (uint32_t)at.stride, lanes, size_of(t));
    else {
        r = LLVMGetPoison(type);
        for (uint32_t l = 0; l < lanes; l++) {
            LLVMValueRef place = pointer_at(e, scalar, at.start, at.stride * l);
            LLVMValueRef x = LLVMBuildLoad2(e->builder, scalar, place, "");
            r = LLVMBuildInsertElement(e->builder, r, x, LLVMConstInt(e->i32, l, false), "");
        }
    }
    return from_memory(e, t, r);
}

static void store_part(struct emitter *e, uint32_t buffer, lpv index, LLVMValueRef x, uint32_t part)
{
    enum dtype t = (enum dtype)e->p->buffers.data[buffer].dtype;
    uint32_t lanes = e->w->part_lanes[part];
    LLVMTypeRef scalar = type_memory(e, t, 0), type = type_memory(e, t, lanes);
    LLVMValueRef mask = e->w->mask[part];
    struct located at = locate(e, buffer, index, part);
    x = to_memory(e, t, lanes, x);
    if (at.pointers) {
        LLVMValueRef args[3] = { x, at.pointers, mask ? mask : all_lanes(e, lanes) };
        masked_call(e, "llvm.masked.scatter", type, LLVMTypeOf(at.pointers), args, 3, 2, size_of(t));
    } else if (at.stride == 1 || at.stride == -1) {
        if (at.stride < 0) x = reversed(e, x);
        if (at.stride < 0 && mask) mask = reversed(e, mask);
        if (mask) {
            LLVMValueRef args[3] = { x, at.start, mask };
            masked_call(e, "llvm.masked.store", type, e->ptr, args, 3, 2, size_of(t));
        } else LLVMSetAlignment(LLVMBuildStore(e->builder, x, at.start), size_of(t));
    } else {
        for (uint32_t l = 0; l < lanes; l++) {
            LLVMValueRef one = LLVMBuildExtractElement(e->builder, x, LLVMConstInt(e->i32, l, false), "");
            LLVMValueRef place = pointer_at(e, scalar, at.start, at.stride * l);
            LLVMSetAlignment(LLVMBuildStore(e->builder, one, place), size_of(t));
        }
    }
}

/* ---- slots: locals, lanes, buffers in registers ---- */

static bool is_lanes(const struct emitter *e, uint32_t slot)
{
    return slot < e->p->locals.len && e->p->locals.data[slot].kind == LOCAL_LANES;
}

static enum dtype slot_dtype(const struct emitter *e, uint32_t slot)
{
    if (slot < e->p->locals.len) return (enum dtype)e->p->locals.data[slot].dtype;
    return (enum dtype)e->p->buffers.data[slot - e->p->locals.len].dtype;
}

static const struct slot_plan *plan_of_slot(const struct emitter *e, uint32_t slot)
{
    if (slot < e->p->locals.len) return &e->plan.locals[slot];
    return &e->plan.buffers[slot - e->p->locals.len];
}

/* Of lanes or of a buffer in registers. */
static int64_t slot_elements(const struct emitter *e, uint32_t slot)
{
    const struct slot_plan *s = plan_of_slot(e, slot);
    if (is_lanes(e, slot)) return (int64_t)s->parts * s->lanes;
    return e->p->buffers.data[slot - e->p->locals.len].static_count;
}

static struct held slot_zero(struct emitter *e, uint32_t slot)
{
    enum dtype t = slot_dtype(e, slot);
    struct held v;
    if (slot < e->p->locals.len && !is_lanes(e, slot)) {
        v = value_new(e, e->w ? FORM_WIDE : FORM_SCALAR, e->w ? e->w->n : 1);
        for (uint32_t p = 0; p < v.n; p++)
            v.part[p] = LLVMConstNull(type_value(e, t, e->w ? e->w->part_lanes[p] : 0));
        return v;
    }
    const struct slot_plan *s = plan_of_slot(e, slot);
    int64_t count = slot_elements(e, slot);
    if (count == 1) return scalar_value(e, LLVMConstNull(type_value(e, t, 0)));
    v = value_new(e, FORM_WIDE, s->parts);
    for (uint32_t p = 0; p < v.n; p++) {
        uint32_t rest = (uint32_t)(count - (int64_t)p * s->lanes);
        v.part[p] = LLVMConstNull(type_value(e, t, rest >= s->lanes ? s->lanes : power_above(rest)));
    }
    return v;
}

static struct held *slot_value(struct emitter *e, uint32_t slot);

/* What the function around this one has in the slot. Only a scalar may come from further out. */
static const struct held *slot_of_parent(struct emitter *e, uint32_t slot)
{
    struct func *f = e->f;
    struct wide *w = e->w;
    bool scalar = slot < e->p->locals.len && !is_lanes(e, slot);
    e->f = f->parent;
    e->w = NULL;
    const struct held *x = scalar && e->f->parent ? slot_value(e, slot) : known_slot(e, slot);
    e->f = f;
    e->w = w;
    return x;
}

/* The current value of a slot, for reading and for changing in place. */
static struct held *slot_value(struct emitter *e, uint32_t slot)
{
    struct func *f = e->f;
    struct held *s = known_slot(e, slot);
    if (s->form) return s;
    const struct held *outside = f->parent ? slot_of_parent(e, slot) : NULL;
    if (outside && outside->form == FORM_SCALAR) {
        LLVMValueRef x = capture_scalar(e, CAPTURE_SLOT, slot, outside->part[0]);
        *s = scalar_value(e, x);
        s->instance = 0;
    } else *s = slot_zero(e, slot);
    return s;
}

/* In a vector loop a scalar local that is set there is a vector from the beginning; what an earlier step (the
 * main loop, before its tail) left is nothing here. */
void slot_ready(struct emitter *e, uint32_t slot)
{
    struct held *s = known_slot(e, slot);
    bool stale = s->form == FORM_NONE || (s->form == FORM_WIDE && e->w && s->instance != e->w->instance);
    if (stale && e->w && slot < e->p->locals.len && !is_lanes(e, slot)) *s = slot_zero(e, slot);
    else slot_value(e, slot);
}

LLVMValueRef lane_address(struct emitter *e, uint32_t local, LLVMValueRef lane)
{
    struct func *f = e->f;
    LLVMTypeRef type = type_memory(e, (enum dtype)e->p->locals.data[local].dtype, 0);
    LLVMValueRef *memory = table_at(e, &f->lane_memory, local, sizeof *memory);
    if (!*memory && f->loop == e->plan.locals[local].home) *memory = stack_slot(e, type, STRICT_LANES, 64);
    else if (!*memory) *memory = capture(e, CAPTURE_LANES, local, e->ptr);
    return lane ? LLVMBuildInBoundsGEP2(e->builder, type, *memory, &lane, 1, "") : *memory;
}

/* A buffer's pointer is loaded where it is handed on: kept from the entry on, hundreds of them would only be
 * spilled. */
LLVMValueRef captured(struct emitter *e, struct capture c)
{
    switch ((enum capture_kind)c.kind) {
    case CAPTURE_VALUE: return value_scalar(e, c.id);
    case CAPTURE_SLOT: return slot_value(e, c.id)->part[0];
    case CAPTURE_BUFFER:
        if (known_array(e, c.id)->pointer || e->p->buffers.data[c.id].kind == BUF_LOCAL)
            return buffer_pointer(e, c.id);
        return load_pointer(e, c.id);
    case CAPTURE_LANES: return lane_address(e, c.id, NULL);
    case CAPTURE_FRAME: return frame(e);
    case CAPTURE_BUFFERS: return buffers_table(e);
    case CAPTURE_SYMBOLS: return symbols_pointer(e);
    }
    emit_fail(e, "an unknown capture");
}

static LLVMValueRef current_lane(struct emitter *e)
{
    return e->f->lane_index ? e->f->lane_index : const_index(e, 0);
}

static LLVMValueRef lanes_from(struct emitter *e, LLVMValueRef x, uint32_t first, uint32_t lanes)
{
    LLVMValueRef order[MAX_PARTS];
    uint32_t have = LLVMGetVectorSize(LLVMTypeOf(x));
    for (uint32_t l = 0; l < lanes; l++)
        order[l] = first + l < have ? LLVMConstInt(e->i32, first + l, false) : LLVMGetPoison(e->i32);
    return LLVMBuildShuffleVector(e->builder, x, LLVMGetPoison(LLVMTypeOf(x)), LLVMConstVector(order, lanes),
                                  "");
}

/* All lanes of a local: vectors of `lanes` each. */
struct lane_parts {
    uint32_t n, lanes;
    LLVMValueRef part[MAX_PARTS];
};

static struct lane_parts lanes_of(struct emitter *e, uint32_t local)
{
    const struct slot_plan *plan = &e->plan.locals[local];
    enum dtype t = (enum dtype)e->p->locals.data[local].dtype;
    struct lane_parts r = { .n = 1, .lanes = plan->in_registers ? plan->lanes : STRICT_LANES };
    if (plan->in_registers) {
        const struct held *s = slot_value(e, local);
        r.n = s->n;
        memcpy(r.part, s->part, s->n * sizeof *r.part);
        return r;
    }
    LLVMValueRef x = LLVMBuildLoad2(e->builder, type_memory(e, t, r.lanes), lane_address(e, local, NULL), "");
    LLVMSetAlignment(x, size_of(t));
    r.part[0] = from_memory(e, t, x);
    return r;
}

/* `numbers`: no lane is NaN. */
static LLVMValueRef lanes_pair(struct emitter *e, enum lp_fold fold, enum dtype t, uint32_t lanes,
                               bool numbers, LLVMValueRef a, LLVMValueRef b)
{
    if (!numbers || (fold != FOLD_MAX && fold != FOLD_MIN)) return op_fold(e, fold, t, lanes, a, b);
    LLVMValueRef wins = op_binary(e, fold == FOLD_MAX ? LP_GT : LP_LT, t, lanes, a, b);
    return LLVMBuildSelect(e->builder, wins, a, b, "");
}

static LLVMValueRef folded(struct emitter *e, enum lp_fold fold, enum dtype t, bool numbers,
                           struct lane_parts x)
{
    uint32_t lanes = x.lanes;
    for (uint32_t n = x.n / 2; n; n /= 2)
        for (uint32_t j = 0; j < n; j++)
            x.part[j] = lanes_pair(e, fold, t, lanes, numbers, x.part[j], x.part[j + n]);
    LLVMValueRef r = x.part[0];
    for (lanes /= 2; lanes; lanes /= 2)
        r = lanes_pair(e, fold, t, lanes, numbers, lanes_from(e, r, 0, lanes),
                       lanes_from(e, r, lanes, lanes));
    return LLVMBuildExtractElement(e->builder, r, LLVMConstInt(e->i32, 0, false), "");
}

/* The lanes of a mask as the bits of an integer, the first lane the lowest. */
static LLVMValueRef mask_bits(struct emitter *e, LLVMValueRef mask)
{
    LLVMTypeRef bits = LLVMIntTypeInContext(e->context, LLVMGetVectorSize(LLVMTypeOf(mask)));
    return LLVMBuildBitCast(e->builder, mask, bits, "");
}

/* NaN where a lane is, else 0. */
static LLVMValueRef nan_if_any(struct emitter *e, enum dtype t, const struct lane_parts *x)
{
    LLVMValueRef any = NULL;
    for (uint32_t j = 0; j < x->n; j++) {
        LLVMValueRef is_nan = op_binary(e, LP_NE, t, x->lanes, x->part[j], x->part[j]);
        any = any ? LLVMBuildOr(e->builder, any, is_nan, "") : is_nan;
    }
    LLVMValueRef bits = mask_bits(e, any), none = LLVMConstNull(LLVMTypeOf(bits));
    LLVMValueRef one_is = LLVMBuildICmp(e->builder, LLVMIntNE, bits, none, "");
    LLVMTypeRef type = type_value(e, t, 0);
    return LLVMBuildSelect(e->builder, one_is, LLVMConstReal(type, NAN), LLVMConstReal(type, 0), "");
}

static LLVMValueRef fold_lanes(struct emitter *e, const struct lp_instr *i)
{
    uint32_t local = (uint32_t)i->imm;
    struct lane_parts x = lanes_of(e, local);
    if (e->p->locals.data[local].only_nan && x.lanes > 1) return nan_if_any(e, (enum dtype)i->dtype, &x);
    return folded(e, (enum lp_fold)i->b, (enum dtype)i->dtype, e->p->locals.data[local].numbers, x);
}

/* The first place of the lanes that hold the best, in a row that goes through no lane more than twice: the
 * number of the lane, and of lanes more where it is not below them. Where nothing is better than the identity
 * all lanes hold that, at 0. */
static LLVMValueRef first_of_few(struct emitter *e, enum dtype t, const struct lane_parts *holds,
                                 const struct lane_parts *positions, bool twice)
{
    uint32_t lanes = holds->lanes;
    LLVMTypeRef bits = LLVMIntTypeInContext(e->context, twice ? 2 * lanes : lanes);
    LLVMValueRef all = LLVMConstNull(bits), beyond = LLVMConstInt(bits, lanes, false);
    for (uint32_t p = 0; p < holds->n; p++) {
        LLVMValueRef here = holds->part[p];
        if (twice) {
            LLVMValueRef limit = const_bits(e, t, lanes, lanes);
            LLVMValueRef later = op_binary(e, LP_GE, t, lanes, positions->part[p], limit);
            LLVMValueRef again = LLVMBuildAnd(e->builder, here, later, "");
            here = LLVMBuildAnd(e->builder, here, LLVMBuildNot(e->builder, later, ""), "");
            LLVMValueRef high = LLVMBuildZExt(e->builder, mask_bits(e, again), bits, "");
            all = LLVMBuildOr(e->builder, all, LLVMBuildShl(e->builder, high, beyond, ""), "");
        }
        LLVMValueRef low = LLVMBuildZExt(e->builder, mask_bits(e, here), bits, "");
        all = LLVMBuildOr(e->builder, all, low, "");
    }
    return LLVMBuildIntCast2(e->builder, op_trailing_zeros(e, all), type_value(e, t, 0), false, "");
}

static LLVMValueRef first_lane(struct emitter *e, const struct lp_instr *i)
{
    enum dtype of = dtype_of(e, i->a), t = (enum dtype)i->dtype;
    const struct lp_local *value = &e->p->locals.data[i->imm], *position = &e->p->locals.data[i->b];
    struct lane_parts values = lanes_of(e, (uint32_t)i->imm), positions = lanes_of(e, i->b), holds = values;
    uint32_t lanes = values.lanes, places = position->places;
    if (values.n != positions.n || lanes != positions.lanes)
        emit_fail(e, "lanes that do not belong together");
    LLVMValueRef best = build_splat(e, value_scalar(e, i->a), lanes);
    for (uint32_t p = 0; p < values.n; p++) {
        LLVMValueRef x = values.part[p];
        holds.part[p] = op_binary(e, LP_EQ, of, lanes, x, best);
        if (!is_float(of) || value->numbers) continue;
        holds.part[p] = LLVMBuildOr(e->builder, holds.part[p], op_binary(e, LP_NE, of, lanes, x, x), "");
    }
    bool in_registers = e->plan.locals[i->imm].in_registers && lanes > 1;
    if (in_registers && places && places <= 2 * lanes)
        return first_of_few(e, t, &holds, &positions, places > lanes);
    LLVMValueRef none = const_bits(e, t, lanes, t == DT_I32 ? INT32_MAX : INT64_MAX);
    for (uint32_t p = 0; p < values.n; p++)
        positions.part[p] = LLVMBuildSelect(e->builder, holds.part[p], positions.part[p], none, "");
    return folded(e, FOLD_MIN, t, false, positions);
}

/* ---- values that are computed ---- */

static void give_scalar(struct emitter *e, lpv v, uint32_t part, LLVMValueRef x)
{
    if (part == 0) known_value(e, v)->held = scalar_value(e, x);
}

static void give_part(struct emitter *e, lpv v, uint32_t part, LLVMValueRef x)
{
    struct held *held = &known_value(e, v)->held;
    if (part == 0) *held = value_new(e, FORM_WIDE, e->w->n);
    held->part[part] = x;
}

static void emit_READ(struct emitter *e, lpv v, uint32_t part)
{
    const struct lp_instr *i = instr(e, v);
    uint32_t local = (uint32_t)i->imm;
    if (is_lanes(e, local) && !e->plan.locals[local].in_registers) {
        LLVMValueRef at = lane_address(e, local, current_lane(e));
        LLVMValueRef x = LLVMBuildLoad2(e->builder, type_memory(e, (enum dtype)i->dtype, 0), at, "");
        give_scalar(e, v, 0, from_memory(e, (enum dtype)i->dtype, x));
        return;
    }
    const struct held *s = slot_value(e, local);
    if (s->form == FORM_SCALAR) give_scalar(e, v, part, s->part[0]);
    else if (!is_lanes(e, local)) give_part(e, v, part, s->part[part]);
    else {
        LLVMValueRef x = s->part[part % s->n];
        uint32_t lanes = e->w->part_lanes[part];
        if (lanes != e->w->lanes) x = lanes_from(e, x, 0, lanes);
        give_part(e, v, part, x);
    }
}

static void emit_LOAD(struct emitter *e, lpv v, uint32_t part)
{
    const struct lp_instr *i = instr(e, v);
    uint32_t buffer = (uint32_t)i->imm;
    if (e->plan.buffers[buffer].in_registers) {
        const struct held *s = slot_value(e, slot_of_buffer(e, buffer));
        if (s->form == FORM_SCALAR) give_scalar(e, v, part, s->part[0]);
        else give_part(e, v, part, s->part[part]);
        return;
    }
    if (!e->w || value_get(e, i->a)->form == FORM_SCALAR) {
        if (part) return;
        LLVMValueRef at = buffer_address(e, buffer, value_scalar(e, i->a));
        LLVMValueRef x = LLVMBuildLoad2(e->builder, type_memory(e, (enum dtype)i->dtype, 0), at, "");
        LLVMSetAlignment(x, size_of((enum dtype)i->dtype));
        give_scalar(e, v, 0, from_memory(e, (enum dtype)i->dtype, x));
        return;
    }
    give_part(e, v, part, load_part(e, buffer, i->a, part));
}

static LLVMValueRef compute(struct emitter *e, const struct lp_instr *i, uint32_t lanes, LLVMValueRef a,
                            LLVMValueRef b, LLVMValueRef c)
{
    return op_emit(e, (enum lp_op)i->op, &(struct operands){ i, dtype_of(e, i->a), lanes, a, b, c });
}

/* Sums, differences and constant multiples of affine indices stay affine: two's complement wraps the same
 * lane by lane. */
static bool emit_affine(struct emitter *e, lpv v, const struct held *a, const struct held *b)
{
    const struct lp_instr *i = instr(e, v);
    int64_t c, stride;
    if (i->dtype != DT_I64 || a->form == FORM_WIDE || (b && b->form == FORM_WIDE)) return false;
    int64_t x = a->form == FORM_AFFINE ? a->stride : 0;
    int64_t y = b && b->form == FORM_AFFINE ? b->stride : 0;
    if (i->op == LP_ADD) stride = (int64_t)((uint64_t)x + (uint64_t)y);
    else if (i->op == LP_SUB) stride = (int64_t)((uint64_t)x - (uint64_t)y);
    else if (i->op == LP_NEG) stride = (int64_t)-(uint64_t)x;
    else if (i->op == LP_MUL && x && const_int(e, i->b, &c)) stride = (int64_t)((uint64_t)x * (uint64_t)c);
    else if (i->op == LP_MUL && y && const_int(e, i->a, &c)) stride = (int64_t)((uint64_t)y * (uint64_t)c);
    else return false;
    LLVMValueRef first = compute(e, i, 0, a->part[0], b ? b->part[0] : NULL, NULL);
    struct held *held = &known_value(e, v)->held;
    *held = scalar_value(e, first);
    if (!stride) return true;
    held->form = FORM_AFFINE;
    held->stride = stride;
    return true;
}

/* The loop's variable divided by a number of whole steps is the same for all elements of a step, and its
 * remainder counts on: what a reshape or a permutation reads by these lies side by side. */
static bool emit_divided(struct emitter *e, lpv v, const struct held *a)
{
    const struct lp_instr *i = instr(e, v), *of = instr(e, i->a);
    int64_t by, first, whole = e->w->whole;
    if ((i->op != LP_FLOORDIV && i->op != LP_MOD) || i->dtype != DT_I64) return false;
    if (of->op != LP_VAR || (uint32_t)of->imm != e->w->loop || a->form != FORM_AFFINE) return false;
    if (!const_int(e, i->b, &by) || by <= 0 || by % whole) return false;
    if (!const_int(e, e->plan.loops[e->w->loop].stmt->lo, &first) || first % whole) return false;
    struct held *held = &known_value(e, v)->held;
    *held = scalar_value(e, compute(e, i, 0, a->part[0], value_scalar(e, i->b), NULL));
    if (i->op == LP_FLOORDIV) return true;
    held->form = FORM_AFFINE;
    held->stride = 1;
    return true;
}

/* Comparisons and casts of indices that fit in 32 bits. */
static bool emit_narrow(struct emitter *e, lpv v, uint32_t part)
{
    const struct lp_instr *i = instr(e, v);
    uint32_t lanes = e->w->part_lanes[part];
    bool compare = lp_is_comparison((enum lp_op)i->op);
    if (!compare && i->op != LP_CAST) return false;
    if (!is_narrow(e, i->a) || (compare && !is_narrow(e, i->b))) return false;
    LLVMValueRef x = narrow_part(e, i->a, part);
    if (compare) x = op_binary(e, (enum lp_op)i->op, DT_I32, lanes, x, narrow_part(e, i->b, part));
    else x = op_cast(e, (enum dtype)i->dtype, DT_I32, lanes, x);
    give_part(e, v, part, x);
    return true;
}

static void emit_pure(struct emitter *e, lpv v, uint32_t part)
{
    const struct lp_instr *i = instr(e, v);
    const lpv operands[3] = { i->a, i->b, i->c };
    uint32_t n = lp_arity((enum lp_op)i->op);
    struct held x[3] = { 0 };
    LLVMValueRef parts[3] = { 0 };
    bool uniform = true;
    struct held *held = &known_value(e, v)->held;
    if (part && held->form != FORM_WIDE) return; /* made with part 0 */
    for (uint32_t k = 0; k < n; k++) {
        x[k] = *value_get(e, operands[k]);
        uniform &= x[k].form == FORM_SCALAR;
    }
    if (uniform) {
        LLVMValueRef b = x[1].form ? x[1].part[0] : NULL, c = x[2].form ? x[2].part[0] : NULL;
        *held = scalar_value(e, compute(e, i, 0, x[0].part[0], b, c));
        return;
    }
    if (!part && emit_affine(e, v, &x[0], x[1].form ? &x[1] : NULL)) return;
    if (!part && emit_divided(e, v, &x[0])) return;
    if (emit_narrow(e, v, part)) return;
    for (uint32_t k = 0; k < n; k++) parts[k] = value_part(e, operands[k], part);
    give_part(e, v, part, compute(e, i, e->w->part_lanes[part], parts[0], parts[1], parts[2]));
}

static void emit_FOLD(struct emitter *e, lpv v, uint32_t part)
{
    if (part == 0) give_scalar(e, v, 0, fold_lanes(e, instr(e, v)));
}

static void emit_FIRST(struct emitter *e, lpv v, uint32_t part)
{
    if (part == 0) give_scalar(e, v, 0, first_lane(e, instr(e, v)));
}

void emit_let(struct emitter *e, lpv v, uint32_t part)
{
    if (!e->plan.needed[v]) return;
    static void (*const emit[])(struct emitter *, lpv, uint32_t) = {
#define LET_LEAF(NAME) [LP_##NAME] = NULL,
#define LET_PLACED(NAME) [LP_##NAME] = emit_##NAME,
#define LET_PURE(NAME) [LP_##NAME] = emit_pure,
#define LP_OP(NAME, class, ...) LET_##class(NAME)
#include "loop/lp.def"
    };
    uint8_t op = instr(e, v)->op;
    if (emit[op]) emit[op](e, v, part);
}

/* ---- statements that change something ---- */

void emit_store(struct emitter *e, const struct lp_stmt *s, uint32_t part)
{
    enum dtype t = (enum dtype)e->p->buffers.data[s->target].dtype;
    if (e->plan.buffers[s->target].in_registers) {
        struct held *state = slot_value(e, slot_of_buffer(e, s->target));
        state->part[part] = value_part(e, s->value, part);
        return;
    }
    if (e->w && value_get(e, s->index)->form != FORM_SCALAR) {
        store_part(e, s->target, s->index, value_part(e, s->value, part), part);
        return;
    }
    if (part) return;
    LLVMValueRef at = buffer_address(e, s->target, value_scalar(e, s->index));
    LLVMValueRef x = to_memory(e, t, 0, value_scalar(e, s->value));
    LLVMSetAlignment(LLVMBuildStore(e->builder, x, at), size_of(t));
}

static void set_lanes(struct emitter *e, const struct lp_stmt *s)
{
    const struct slot_plan *plan = &e->plan.locals[s->target];
    enum dtype t = (enum dtype)e->p->locals.data[s->target].dtype;
    LLVMValueRef x = value_scalar(e, s->value);
    if (!plan->in_registers) {
        LLVMValueRef all = to_memory(e, t, STRICT_LANES, build_splat(e, x, STRICT_LANES));
        LLVMSetAlignment(LLVMBuildStore(e->builder, all, lane_address(e, s->target, NULL)), size_of(t));
        return;
    }
    struct held state = value_new(e, FORM_WIDE, plan->parts);
    for (uint32_t p = 0; p < state.n; p++) state.part[p] = build_splat(e, x, plan->lanes);
    *known_slot(e, s->target) = state;
}

void emit_set(struct emitter *e, const struct lp_stmt *s, uint32_t part)
{
    struct held *state = known_slot(e, s->target);
    if (is_lanes(e, s->target)) {
        set_lanes(e, s);
        return;
    }
    if (!e->w) {
        *state = scalar_value(e, value_scalar(e, s->value));
        return;
    }
    if (state->form != FORM_WIDE || state->instance != e->w->instance)
        *state = value_new(e, FORM_WIDE, e->w->n);
    state->part[part] = value_part(e, s->value, part);
}

/* The mask of a part that has fewer lanes than the accumulator. */
static LLVMValueRef widened_mask(struct emitter *e, LLVMValueRef mask, uint32_t have, uint32_t lanes)
{
    LLVMValueRef on[MAX_PARTS];
    for (uint32_t l = 0; l < lanes; l++) {
        on[l] = LLVMConstInt(e->i1, l < have, false);
        if (l < have && mask)
            on[l] = LLVMBuildExtractElement(e->builder, mask, LLVMConstInt(e->i32, l, false), "");
    }
    return LLVMConstVector(on, lanes);
}

/* Lanes that do not run keep what they have; a part narrower than the accumulator leaves its upper lanes
 * alone. */
static void accumulate_lanes(struct emitter *e, const struct lp_stmt *s, uint32_t part)
{
    enum dtype t = (enum dtype)e->p->locals.data[s->target].dtype;
    uint32_t lanes = e->w->lanes, have = e->w->part_lanes[part];
    struct held *state = slot_value(e, s->target);
    LLVMValueRef x = value_part(e, s->value, part);
    LLVMValueRef mask = e->w->mask[part];
    LLVMValueRef *acc = &state->part[part % state->n];
    if (have < lanes) {
        x = lanes_from(e, x, 0, lanes);
        mask = widened_mask(e, mask, have, lanes);
    }
    if (s->mode == FOLD_SUM && size_of(t) == 4 && !is_float(t) && !mask && part % 2 && have == lanes) {
        /* Together with the part before, whose addition is left to be removed. */
        LLVMValueRef *before = &state->part[(part - 1) % state->n], old = *before;
        LLVMValueRef other = value_part(e, s->value, part - 1);
        bool added = LLVMIsAInstruction(old) && LLVMGetInstructionOpcode(old) == LLVMAdd &&
                     LLVMGetOperand(old, 1) == other;
        LLVMValueRef pairs = added ? op_pairs(e, lanes, other, x) : NULL;
        if (pairs) {
            *before = LLVMBuildAdd(e->builder, LLVMGetOperand(old, 0), pairs, "");
            return;
        }
    }
    LLVMValueRef next = op_fold(e, (enum lp_fold)s->mode, t, lanes, *acc, x);
    *acc = mask ? LLVMBuildSelect(e->builder, mask, next, *acc, "") : next;
}

void emit_accumulate(struct emitter *e, const struct lp_stmt *s, uint32_t part)
{
    enum dtype t = (enum dtype)e->p->locals.data[s->target].dtype;
    enum lp_fold fold = (enum lp_fold)s->mode;
    if (is_lanes(e, s->target) && !e->plan.locals[s->target].in_registers) {
        LLVMValueRef at = lane_address(e, s->target, current_lane(e));
        LLVMValueRef old = from_memory(e, t, LLVMBuildLoad2(e->builder, type_memory(e, t, 0), at, ""));
        LLVMValueRef next = op_fold(e, fold, t, 0, old, value_scalar(e, s->value));
        LLVMBuildStore(e->builder, to_memory(e, t, 0, next), at);
        return;
    }
    if (is_lanes(e, s->target)) {
        accumulate_lanes(e, s, part);
        return;
    }
    struct held *state = slot_value(e, s->target);
    uint32_t lanes = e->w ? e->w->part_lanes[part] : 0;
    state->part[part] = op_fold(e, fold, t, lanes, state->part[part], value_part(e, s->value, part));
}
