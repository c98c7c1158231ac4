/* Calls of the LLVM back end: everything that leaves native code goes through the runtime's table (rt.h).
 * Products, checks, prints, callbacks, operators, growing buffers, copies, and loops that become functions of
 * their own, with an environment of the values they take from outside: parallel regions and repeated nests.
 */
#include "emit/llvm.h"
#include "loop/rt.h"

enum {
    GRAIN_WORK = 40000, /* operations worth handing to another thread: about twenty microseconds */
    UNKNOWN_TRIPS = 32, /* of a loop whose bounds are computed inside the region */
    COPY_INLINE = 256,  /* bytes copied or cleared without a call */
    ENVIRONMENT_SLOTS = 64
};

static LLVMValueRef call_rt(struct emitter *e, size_t offset, LLVMTypeRef result, LLVMValueRef *args,
                            uint32_t n)
{
    LLVMTypeRef params[16];
    for (uint32_t i = 0; i < n; i++) params[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef signature = LLVMFunctionType(result, params, n, false);
    return LLVMBuildCall2(e->builder, signature, rt_function(e, offset), args, n, "");
}

static LLVMValueRef int32(struct emitter *e, int64_t v) { return LLVMConstInt(e->i32, (uint64_t)v, true); }
static LLVMValueRef index_or_zero(struct emitter *e, lpv v)
{
    return v == LPV_NONE ? const_index(e, 0) : value_scalar(e, v);
}

static LLVMValueRef field(struct emitter *e, LLVMValueRef base, size_t offset)
{
    LLVMValueRef at = const_index(e, (int64_t)offset);
    return offset ? LLVMBuildInBoundsGEP2(e->builder, e->i8, base, &at, 1, "") : base;
}

/* Goes on where `condition` holds and leaves with the status where it does not. */
static void leave_unless(struct emitter *e, LLVMValueRef condition, hop_status status)
{
    LLVMBasicBlockRef next = new_block(e, "on");
    LLVMBuildCondBr(e->builder, condition, next, exit_block(e, status));
    LLVMPositionBuilderAtEnd(e->builder, next);
}

/* Leaves with a status that is not 0, by one way out for all of them. */
static void leave_on(struct emitter *e, LLVMValueRef status)
{
    struct func *f = e->f;
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder), next = new_block(e, "on");
    LLVMValueRef good = LLVMBuildIsNull(e->builder, status, "");
    if (!f->failed) {
        LLVMBasicBlockRef failed = new_block(e, "failed");
        LLVMPositionBuilderAtEnd(e->builder, failed);
        f->failed = LLVMBuildPhi(e->builder, e->i32, "");
        LLVMBuildRet(e->builder, f->failed);
        LLVMPositionBuilderAtEnd(e->builder, at);
    }
    LLVMAddIncoming(f->failed, &status, &at, 1);
    LLVMBuildCondBr(e->builder, good, next, LLVMGetInstructionParent(f->failed));
    LLVMPositionBuilderAtEnd(e->builder, next);
}

/* A few bytes: everything is loaded before anything is stored, so overlapping is harmless. */
static LLVMTypeRef type_of_bytes(struct emitter *e, uint32_t size)
{
    if (size > 8) return LLVMVectorType(e->i32, size / 4);
    return LLVMIntTypeInContext(e->context, size * 8);
}

static void copy_inline(struct emitter *e, LLVMValueRef to, LLVMValueRef from, uint32_t bytes)
{
    LLVMValueRef pieces[COPY_INLINE / 16 + 8], places[COPY_INLINE / 16 + 8];
    uint32_t n = 0;
    for (uint32_t at = 0, size = e->vector_bytes; at < bytes;) {
        while (size > bytes - at) size /= 2;
        LLVMTypeRef type = type_of_bytes(e, size);
        places[n] = field(e, to, at);
        pieces[n] = from ? LLVMBuildLoad2(e->builder, type, field(e, from, at), "") : LLVMConstNull(type);
        if (from) LLVMSetAlignment(pieces[n], 1);
        n++;
        at += size;
    }
    for (uint32_t i = 0; i < n; i++) LLVMSetAlignment(LLVMBuildStore(e->builder, pieces[i], places[i]), 1);
}

/* ---- products ---- */

/* A field of struct hop_rt_gemm. */
struct gemm_field {
    size_t offset;
    LLVMValueRef value;
};
#define FIELD(name, value) { offsetof(struct hop_rt_gemm, name), value }

enum {
    GEMM_WORDS = sizeof(struct hop_rt_gemm) / sizeof(int64_t),
    GEMM_NUMBERS = offsetof(struct hop_rt_gemm, a) / sizeof(int64_t) /* words before the addresses */
};

static LLVMValueRef words_constant(struct emitter *e, const int64_t *words, uint32_t n)
{
    LLVMValueRef *list = EMIT_NEW(e, LLVMValueRef, n);
    for (uint32_t i = 0; i < n; i++) list[i] = const_index(e, words[i]);
    LLVMValueRef constants = LLVMAddGlobal(e->module, LLVMArrayType(e->i64, n), "words");
    LLVMSetInitializer(constants, LLVMConstArray(e->i64, list, n));
    LLVMSetGlobalConstant(constants, true);
    LLVMSetLinkage(constants, LLVMPrivateLinkage);
    LLVMSetAlignment(constants, sizeof(int64_t));
    return constants;
}

/* fn(rt, record, a, b, c, product): product(rt, record with these addresses). */
static LLVMValueRef product_function(struct emitter *e)
{
    if (e->product) return e->product;
    LLVMTypeRef params[6] = { e->ptr, e->ptr, e->ptr, e->ptr, e->ptr, e->ptr };
    LLVMTypeRef signature = LLVMFunctionType(e->nothing, params, 2, false);
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
    LLVMValueRef fn = LLVMAddFunction(e->module, "product", LLVMFunctionType(e->nothing, params, 6, false));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    func_attributes(e, fn);
    LLVMPositionBuilderAtEnd(e->builder, LLVMAppendBasicBlockInContext(e->context, fn, ""));
    LLVMValueRef what = LLVMBuildAlloca(e->builder, LLVMArrayType(e->i64, GEMM_WORDS), "");
    copy_inline(e, what, LLVMGetParam(fn, 1), GEMM_NUMBERS * sizeof(int64_t));
    static const size_t addresses[3] = { offsetof(struct hop_rt_gemm, a), offsetof(struct hop_rt_gemm, b),
                                         offsetof(struct hop_rt_gemm, c) };
    for (uint32_t k = 0; k < 3; k++)
        LLVMBuildStore(e->builder, LLVMGetParam(fn, 2 + k), field(e, what, addresses[k]));
    LLVMValueRef args[2] = { LLVMGetParam(fn, 0), what };
    LLVMBuildCall2(e->builder, signature, LLVMGetParam(fn, 5), args, 2, "");
    LLVMBuildRetVoid(e->builder);
    LLVMPositionBuilderAtEnd(e->builder, at);
    e->product = fn;
    return fn;
}

/* What is known of the record is a constant. Where that is all but the addresses, a function makes the call:
 * a store for each field would be most of the code of a program with many products. */
static void call_gemm(struct emitter *e, size_t function, const struct gemm_field *fields, uint32_t n)
{
    int64_t known[GEMM_NUMBERS] = { 0 };
    LLVMValueRef addresses[3] = { LLVMConstNull(e->ptr), LLVMConstNull(e->ptr), LLVMConstNull(e->ptr) };
    bool numbers_known = true;
    for (uint32_t i = 0; i < n; i++) {
        size_t word = fields[i].offset / sizeof(int64_t);
        if (word >= GEMM_NUMBERS) addresses[word - GEMM_NUMBERS] = fields[i].value;
        else if (!LLVMIsAConstantInt(fields[i].value)) numbers_known = false;
        else {
            int64_t x = LLVMConstIntGetSExtValue(fields[i].value);
            bool whole = LLVMTypeOf(fields[i].value) == e->i64;
            memcpy((char *)known + fields[i].offset, &x, whole ? sizeof x : sizeof(int32_t));
        }
    }
    if (numbers_known) {
        LLVMValueRef fn = product_function(e),
                     args[6] = { e->f->rt,     words_constant(e, known, GEMM_NUMBERS),
                                 addresses[0], addresses[1],
                                 addresses[2], rt_function(e, function) };
        LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(fn), fn, args, 6, "");
        return;
    }
    LLVMValueRef what = stack_slot(e, e->i64, GEMM_WORDS, 8);
    for (uint32_t i = 0; i < n; i++)
        LLVMBuildStore(e->builder, fields[i].value, field(e, what, fields[i].offset));
    LLVMValueRef args[2] = { e->f->rt, what };
    call_rt(e, function, e->nothing, args, HOP_COUNT(args));
}

static LLVMValueRef gemm_address(struct emitter *e, uint32_t buffer, lpv at)
{
    return buffer_address(e, buffer, index_or_zero(e, at));
}

static LLVMValueRef gemm_dtypes(struct emitter *e, uint32_t c, uint32_t a, uint32_t b)
{
    const struct lp_buffer *buffers = e->p->buffers.data;
    return int32(e, HOP_RT_DTYPES(buffers[c].dtype, buffers[a].dtype, buffers[b].dtype));
}

static void emit_GEMM(struct emitter *e, const struct lp_call *c)
{
    LLVMValueRef one = const_index(e, 1), zero = const_index(e, 0);
    bool many = c->gemm.batch != LPV_NONE;
    const struct gemm_field fields[] = {
        FIELD(dtypes, gemm_dtypes(e, c->gemm.c, c->gemm.a, c->gemm.b)),
        FIELD(ta, int32(e, c->gemm.ta)),
        FIELD(tb, int32(e, c->gemm.tb)),
        FIELD(accumulate, int32(e, c->gemm.accumulate)),
        FIELD(m, value_scalar(e, c->gemm.m)),
        FIELD(n, value_scalar(e, c->gemm.n)),
        FIELD(k, value_scalar(e, c->gemm.k)),
        FIELD(lda, value_scalar(e, c->gemm.lda)),
        FIELD(ldb, value_scalar(e, c->gemm.ldb)),
        FIELD(ldc, value_scalar(e, c->gemm.ldc)),
        FIELD(batch, many ? value_scalar(e, c->gemm.batch) : one),
        FIELD(a_apart, many ? value_scalar(e, c->gemm.a_apart) : zero),
        FIELD(b_apart, many ? value_scalar(e, c->gemm.b_apart) : zero),
        FIELD(c_apart, many ? value_scalar(e, c->gemm.c_apart) : zero),
        FIELD(a, gemm_address(e, c->gemm.a, c->gemm.a_at)),
        FIELD(b, gemm_address(e, c->gemm.b, c->gemm.b_at)),
        FIELD(c, gemm_address(e, c->gemm.c, c->gemm.c_at)),
    };
    call_gemm(e, offsetof(struct hop_rt, gemm), fields, HOP_COUNT(fields));
}

static void emit_PACK(struct emitter *e, const struct lp_call *c)
{
    const struct gemm_field fields[] = {
        FIELD(dtypes, gemm_dtypes(e, c->gemm.c, c->gemm.b, c->gemm.b)),
        FIELD(tb, int32(e, c->gemm.tb)),
        FIELD(n, value_scalar(e, c->gemm.n)),
        FIELD(k, value_scalar(e, c->gemm.k)),
        FIELD(ldb, value_scalar(e, c->gemm.ldb)),
        FIELD(b, gemm_address(e, c->gemm.b, c->gemm.b_at)),
        FIELD(c, gemm_address(e, c->gemm.c, c->gemm.c_at)),
    };
    call_gemm(e, offsetof(struct hop_rt, pack), fields, HOP_COUNT(fields));
}
#undef FIELD

/* ---- checks and prints ---- */

static enum dtype operand_dtype(struct emitter *e, const struct lp_operand *o)
{
    if (o->buffer == HOP_NONE) return dtype_of(e, o->value);
    return (enum dtype)e->p->buffers.data[o->buffer].dtype;
}

static void fill_operand(struct emitter *e, const struct lp_operand *o, LLVMValueRef to)
{
    LLVMValueRef data;
    LLVMValueRef dims = stack_slot(e, e->i64, o->rank, 8);
    enum dtype t = operand_dtype(e, o);
    for (uint32_t d = 0; d < o->rank; d++)
        LLVMBuildStore(e->builder, value_scalar(e, o->dims[d]), field(e, dims, d * sizeof(int64_t)));
    if (o->buffer == HOP_NONE) {
        LLVMValueRef x = value_scalar(e, o->value);
        if (t == DT_BOOL) x = LLVMBuildZExt(e->builder, x, e->i8, "");
        data = stack_slot(e, e->i64, 1, 8);
        LLVMBuildStore(e->builder, x, data);
    } else data = buffer_address(e, o->buffer, index_or_zero(e, o->index));
    LLVMBuildStore(e->builder, data, field(e, to, offsetof(struct hop_rt_operand, data)));
    LLVMBuildStore(e->builder, int32(e, t), field(e, to, offsetof(struct hop_rt_operand, dtype)));
    LLVMBuildStore(e->builder, int32(e, o->rank), field(e, to, offsetof(struct hop_rt_operand, rank)));
    LLVMBuildStore(e->builder, dims, field(e, to, offsetof(struct hop_rt_operand, dims)));
    LLVMBuildStore(e->builder, LLVMConstNull(e->ptr), field(e, to, offsetof(struct hop_rt_operand, strides)));
}

static LLVMValueRef tell_site(struct emitter *e, const struct lp_call *c)
{
    static const size_t offsets[] = { [CALL_CHECK] = offsetof(struct hop_rt, check),
                                      [CALL_FINITE] = offsetof(struct hop_rt, finite),
                                      [CALL_PRINT] = offsetof(struct hop_rt, print) };
    LLVMValueRef operands = stack_slot(e, e->i8, c->n_operands * (uint32_t)sizeof(struct hop_rt_operand), 8);
    for (uint32_t k = 0; k < c->n_operands; k++)
        fill_operand(e, &c->operands[k], field(e, operands, k * sizeof(struct hop_rt_operand)));
    LLVMValueRef args[4] = { e->f->rt, int32(e, c->site), int32(e, c->n_operands), operands };
    return call_rt(e, offsets[c->kind], c->kind == CALL_FINITE ? e->i32 : e->nothing, args, 4);
}

static void emit_told(struct emitter *e, const struct lp_call *c)
{
    bool check = c->kind != CALL_PRINT;
    if (!check && c->mask == LPV_NONE) {
        tell_site(e, c);
        return;
    }
    LLVMValueRef condition = value_scalar(e, check ? c->value : c->mask);
    LLVMBasicBlockRef told = new_block(e, check ? "failed" : "told"), next = new_block(e, "on");
    LLVMBuildCondBr(e->builder, condition, check ? next : told, check ? told : next);
    LLVMPositionBuilderAtEnd(e->builder, told);
    LLVMValueRef said = tell_site(e, c);
    if (c->kind == CALL_FINITE) {
        LLVMValueRef made = LLVMBuildICmp(e->builder, LLVMIntNE, said, int32(e, 0), "");
        LLVMBuildCondBr(e->builder, made, exit_block(e, HOP_CHECK), next);
    } else LLVMBuildBr(e->builder, check ? exit_block(e, HOP_CHECK) : next);
    LLVMPositionBuilderAtEnd(e->builder, next);
}

static void emit_CHECK(struct emitter *e, const struct lp_call *c) { emit_told(e, c); }
static void emit_FINITE(struct emitter *e, const struct lp_call *c) { emit_told(e, c); }
static void emit_PRINT(struct emitter *e, const struct lp_call *c) { emit_told(e, c); }

/* ---- operators from outside ---- */

static void put_entry(struct emitter *e, LLVMValueRef list, uint32_t k, LLVMValueRef x)
{
    LLVMBuildStore(e->builder, x, field(e, list, k * sizeof(int64_t)));
}

/* As rt.h says. */
static LLVMValueRef operator_dims(struct emitter *e, const struct lp_operand *o)
{
    bool finds = o->use == OPERAND_FOUND;
    LLVMValueRef dims = stack_slot(e, e->i64, finds ? 2 * o->rank + 1 : o->rank, 8);
    for (uint32_t d = 0; d < o->rank; d++) {
        bool found = finds && o->found[d] != HOP_NONE;
        put_entry(e, dims, d, found ? const_index(e, -1) : value_scalar(e, o->dims[d]));
        if (finds) put_entry(e, dims, o->rank + 1 + d, const_index(e, found ? (int64_t)o->found[d] : -1));
    }
    if (finds) put_entry(e, dims, o->rank, const_index(e, o->buffer));
    return dims;
}

static LLVMValueRef operator_data(struct emitter *e, const struct lp_operand *o)
{
    if (o->use == OPERAND_ABSENT || o->use == OPERAND_FOUND) return LLVMConstNull(e->ptr);
    if (o->use == OPERAND_OBJECT) return LLVMBuildIntToPtr(e->builder, value_scalar(e, o->value), e->ptr, "");
    if (o->buffer != HOP_NONE) return buffer_address(e, o->buffer, index_or_zero(e, o->index));
    LLVMValueRef x = value_scalar(e, o->value), data = stack_slot(e, e->i64, 1, 8);
    if (dtype_of(e, o->value) == DT_BOOL) x = LLVMBuildZExt(e->builder, x, e->i8, "");
    LLVMBuildStore(e->builder, x, data);
    return data;
}

static LLVMValueRef list_of(struct emitter *e, const lpv *values, uint32_t n)
{
    if (!n || !values) return LLVMConstNull(e->ptr);
    LLVMValueRef list = stack_slot(e, e->i64, n, 8);
    for (uint32_t k = 0; k < n; k++) put_entry(e, list, k, value_scalar(e, values[k]));
    return list;
}

static void give_operand(struct emitter *e, const struct lp_operand *o, LLVMValueRef to)
{
    bool absent = o->use == OPERAND_ABSENT;
    LLVMValueRef dims = absent ? LLVMConstNull(e->ptr) : operator_dims(e, o);
    LLVMBuildStore(e->builder, operator_data(e, o), field(e, to, offsetof(struct hop_rt_operand, data)));
    int64_t dtype = o->use == OPERAND_OBJECT ? DT_OBJECT : -1;
    if (!absent && dtype < 0) dtype = (int64_t)operand_dtype(e, o);
    LLVMBuildStore(e->builder, int32(e, dtype), field(e, to, offsetof(struct hop_rt_operand, dtype)));
    LLVMBuildStore(e->builder, int32(e, o->rank), field(e, to, offsetof(struct hop_rt_operand, rank)));
    LLVMBuildStore(e->builder, dims, field(e, to, offsetof(struct hop_rt_operand, dims)));
    LLVMBuildStore(e->builder, list_of(e, o->strides, o->rank),
                   field(e, to, offsetof(struct hop_rt_operand, strides)));
}

/* Numbers that are all known are a constant. */
static LLVMValueRef call_numbers(struct emitter *e, const struct lp_call *c)
{
    int64_t *known = EMIT_NEW(e, int64_t, c->n_sizes);
    bool all = true;
    for (uint32_t k = 0; k < c->n_sizes; k++) all &= const_int(e, c->sizes[k], &known[k]);
    return all ? words_constant(e, known, c->n_sizes) : list_of(e, c->sizes, c->n_sizes);
}

static void emit_CONV(struct emitter *e, const struct lp_call *c)
{
    static const size_t addresses[3] = { offsetof(struct hop_rt_conv, x), offsetof(struct hop_rt_conv, w),
                                         offsetof(struct hop_rt_conv, y) };
    LLVMValueRef call = stack_slot(e, e->i8, (uint32_t)sizeof(struct hop_rt_conv), 8);
    int32_t dtypes[3];
    for (uint32_t k = 0; k < 3; k++) {
        dtypes[k] = e->p->buffers.data[c->operands[k].buffer].dtype;
        LLVMBuildStore(e->builder, operator_data(e, &c->operands[k]), field(e, call, addresses[k]));
    }
    size_t words = c->n_sizes * sizeof(int64_t) - sizeof(struct hop_rt_conv_numbers);
    LLVMBuildStore(e->builder, int32(e, HOP_RT_DTYPES(dtypes[2], dtypes[0], dtypes[1])),
                   field(e, call, offsetof(struct hop_rt_conv, dtypes)));
    LLVMBuildStore(e->builder, int32(e, (int64_t)(words / sizeof(struct hop_rt_space))),
                   field(e, call, offsetof(struct hop_rt_conv, n_spatial)));
    LLVMBuildStore(e->builder, call_numbers(e, c), field(e, call, offsetof(struct hop_rt_conv, numbers)));
    LLVMValueRef args[2] = { e->f->rt, call };
    call_rt(e, offsetof(struct hop_rt, conv), e->nothing, args, 2);
}

static void emit_EXCHANGE(struct emitter *e, const struct lp_call *c)
{
    LLVMValueRef call = stack_slot(e, e->i8, (uint32_t)sizeof(struct hop_rt_exchange), 8);
    const struct lp_operand *in = &c->operands[0], *out = &c->operands[1];
    int32_t dtype = e->p->buffers.data[out->buffer].dtype;
    LLVMBuildStore(e->builder, int32(e, dtype), field(e, call, offsetof(struct hop_rt_exchange, dtype)));
    LLVMBuildStore(e->builder, int32(e, c->target), field(e, call, offsetof(struct hop_rt_exchange, number)));
    LLVMBuildStore(e->builder, operator_data(e, in), field(e, call, offsetof(struct hop_rt_exchange, in)));
    LLVMBuildStore(e->builder, operator_data(e, out), field(e, call, offsetof(struct hop_rt_exchange, out)));
    LLVMBuildStore(e->builder, call_numbers(e, c), field(e, call, offsetof(struct hop_rt_exchange, numbers)));
    LLVMValueRef args[2] = { e->f->rt, call };
    LLVMValueRef failed = call_rt(e, offsetof(struct hop_rt, begin), e->i32, args, 2);
    leave_unless(e, LLVMBuildIsNull(e->builder, failed, ""), HOP_INVALID);
}

static void emit_WAIT(struct emitter *e, const struct lp_call *c)
{
    LLVMValueRef args[2] = { e->f->rt, int32(e, c->target) };
    LLVMValueRef failed = call_rt(e, offsetof(struct hop_rt, wait), e->i32, args, 2);
    leave_unless(e, LLVMBuildIsNull(e->builder, failed, ""), HOP_INVALID);
}

static void emit_OPERATOR(struct emitter *e, const struct lp_call *c)
{
    LLVMValueRef operands = stack_slot(e, e->i8, c->n_operands * (uint32_t)sizeof(struct hop_rt_operand), 8);
    LLVMValueRef call = stack_slot(e, e->i8, (uint32_t)sizeof(struct hop_rt_call), 8);
    for (uint32_t k = 0; k < c->n_operands; k++)
        give_operand(e, &c->operands[k], field(e, operands, k * sizeof(struct hop_rt_operand)));
    LLVMBuildStore(e->builder, int32(e, c->site), field(e, call, offsetof(struct hop_rt_call, site)));
    LLVMBuildStore(e->builder, int32(e, c->lanes), field(e, call, offsetof(struct hop_rt_call, lanes)));
    LLVMBuildStore(e->builder, int32(e, c->n_operands), field(e, call, offsetof(struct hop_rt_call, n)));
    LLVMBuildStore(e->builder, int32(e, c->n_found), field(e, call, offsetof(struct hop_rt_call, n_found)));
    LLVMBuildStore(e->builder, operands, field(e, call, offsetof(struct hop_rt_call, operands)));
    LLVMBuildStore(e->builder, list_of(e, c->sizes, c->n_sizes),
                   field(e, call, offsetof(struct hop_rt_call, sizes)));
    LLVMValueRef found = c->n_found ? buffer_address(e, c->target, NULL) : LLVMConstNull(e->ptr);
    LLVMBuildStore(e->builder, found, field(e, call, offsetof(struct hop_rt_call, found)));
    LLVMValueRef args[2] = { e->f->rt, call };
    LLVMValueRef failed = call_rt(e, offsetof(struct hop_rt, call), e->i32, args, 2);
    leave_unless(e, LLVMBuildIsNull(e->builder, failed, ""), HOP_INVALID);
}

/* ---- memory ---- */

/* The bytes known to be there are kept on the stack, so that the runtime is called only when the buffer must
 * grow, and it doubles. */
static void emit_RESERVE(struct emitter *e, const struct lp_call *c)
{
    struct func *f = e->f;
    LLVMValueRef *known = &known_array(e, c->target)->reserved;
    if (!*known) {
        LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
        *known = stack_slot(e, e->i64, 1, 8);
        LLVMPositionBuilderAtEnd(e->builder, f->entry);
        LLVMBuildStore(e->builder, const_index(e, -1), *known);
        LLVMPositionBuilderAtEnd(e->builder, at);
    }
    enum dtype t = (enum dtype)e->p->buffers.data[c->target].dtype;
    LLVMValueRef element = const_index(e, size_of(t));
    LLVMValueRef bytes = LLVMBuildMul(e->builder, value_scalar(e, c->index), element, "");
    LLVMValueRef have = LLVMBuildLoad2(e->builder, e->i64, *known, "");
    LLVMBasicBlockRef grow = new_block(e, "grow"), next = new_block(e, "on");
    LLVMBuildCondBr(e->builder, LLVMBuildICmp(e->builder, LLVMIntSGT, bytes, have, ""), grow, next);
    LLVMPositionBuilderAtEnd(e->builder, grow);
    LLVMValueRef twice = LLVMBuildShl(e->builder, have, const_index(e, 1), "");
    LLVMValueRef enough = LLVMBuildICmp(e->builder, LLVMIntSGT, twice, bytes, "");
    LLVMValueRef want = LLVMBuildSelect(e->builder, enough, twice, bytes, "");
    LLVMValueRef args[3] = { f->rt, int32(e, c->target), want };
    LLVMValueRef moved = call_rt(e, offsetof(struct hop_rt, reserve), e->ptr, args, 3);
    leave_unless(e, LLVMBuildIsNotNull(e->builder, moved, ""), HOP_NOMEM);
    LLVMBuildStore(e->builder, want, *known);
    LLVMBuildBr(e->builder, next);
    LLVMPositionBuilderAtEnd(e->builder, next);
}

static void copy_or_clear(struct emitter *e, const struct lp_call *c, bool copy)
{
    uint32_t size = size_of((enum dtype)e->p->buffers.data[c->target].dtype);
    LLVMValueRef to = buffer_address(e, c->target, index_or_zero(e, c->lo));
    LLVMValueRef from = copy ? buffer_address(e, c->source, index_or_zero(e, c->index)) : NULL;
    int64_t count;
    if (const_int(e, c->count, &count) && count * size <= COPY_INLINE) {
        copy_inline(e, to, from, (uint32_t)(count * size));
        return;
    }
    LLVMValueRef bytes = LLVMBuildMul(e->builder, value_scalar(e, c->count), const_index(e, size), "");
    LLVMValueRef args[3] = { to, copy ? from : int32(e, 0), bytes };
    call_rt(e, copy ? offsetof(struct hop_rt, copy) : offsetof(struct hop_rt, zero), e->ptr, args, 3);
}

static void emit_COPY(struct emitter *e, const struct lp_call *c) { copy_or_clear(e, c, true); }
static void emit_ZERO(struct emitter *e, const struct lp_call *c) { copy_or_clear(e, c, false); }

static void emit_DROP(struct emitter *e, const struct lp_call *c)
{
    uint32_t size = size_of((enum dtype)e->p->buffers.data[c->target].dtype);
    LLVMValueRef bytes = LLVMBuildMul(e->builder, value_scalar(e, c->count), const_index(e, size), "");
    LLVMValueRef args[4] = { e->f->rt, buffer_address(e, c->target, index_or_zero(e, c->lo)), bytes,
                             int32(e, c->source) };
    call_rt(e, offsetof(struct hop_rt, drop), LLVMVoidTypeInContext(e->context), args, 4);
}

/* Where the numbers of a profiled run lie, found once where the function begins. */
static LLVMValueRef profile_field(struct emitter *e, LLVMValueRef *known, size_t offset)
{
    if (*known) return *known;
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
    LLVMPositionBuilderAtEnd(e->builder, e->f->entry);
    *known = rt_function(e, offset);
    LLVMPositionBuilderAtEnd(e->builder, at);
    return *known;
}

static void emit_MARK(struct emitter *e, const struct lp_call *c)
{
    LLVMValueRef at = profile_field(e, &e->f->profile_at, offsetof(struct hop_rt, at));
    LLVMValueRef here = field(e, at, e->p->level * sizeof(int32_t));
    /* another thread looks at it */
    LLVMSetVolatile(LLVMBuildStore(e->builder, int32(e, c->target), here), true);
}

static void emit_COUNT(struct emitter *e, const struct lp_call *c)
{
    LLVMValueRef counters = profile_field(e, &e->f->profile_counters, offsetof(struct hop_rt, counters));
    LLVMValueRef place = field(e, counters, c->target * sizeof(uint64_t));
    LLVMValueRef before = LLVMBuildLoad2(e->builder, e->i64, place, "");
    LLVMBuildStore(e->builder, LLVMBuildAdd(e->builder, before, value_scalar(e, c->value), ""), place);
}

static void emit_SETDIM(struct emitter *e, const struct lp_call *c)
{
    LLVMBuildStore(e->builder, value_scalar(e, c->value),
                   field(e, symbols_pointer(e), c->target * sizeof(int64_t)));
}

/* Each argument of a call written by instructions of its own would be most of the code of a program that
 * calls one body often. From so many on, they are a list of constants that one function goes through. */
enum { LIST_ARGUMENTS = 8 };

/* give(from, to, list, n): to[list[3 * k]] = from[list[3 * k + 1]] + list[3 * k + 2] bytes for all n > 0. */
static LLVMValueRef give_function(struct emitter *e)
{
    if (e->give) return e->give;
    LLVMTypeRef params[4] = { e->ptr, e->ptr, e->ptr, e->i64 };
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
    LLVMValueRef fn = LLVMAddFunction(e->module, "give", LLVMFunctionType(e->i32, params, 4, false));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    func_attributes(e, fn);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(e->context, fn, "");
    LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(e->context, fn, "");
    LLVMBasicBlockRef end = LLVMAppendBasicBlockInContext(e->context, fn, "");
    LLVMPositionBuilderAtEnd(e->builder, entry);
    LLVMBuildBr(e->builder, loop);
    LLVMPositionBuilderAtEnd(e->builder, loop);
    LLVMValueRef k = LLVMBuildPhi(e->builder, e->i64, ""), entries[3];
    for (uint32_t i = 0; i < 3; i++) {
        LLVMValueRef place = LLVMBuildMul(e->builder, k, const_index(e, 3), "");
        place = LLVMBuildAdd(e->builder, place, const_index(e, i), "");
        place = LLVMBuildGEP2(e->builder, e->i64, LLVMGetParam(fn, 2), &place, 1, "");
        entries[i] = LLVMBuildLoad2(e->builder, e->i64, place, "");
    }
    LLVMValueRef to = LLVMBuildGEP2(e->builder, e->ptr, LLVMGetParam(fn, 1), &entries[0], 1, "");
    LLVMValueRef from = LLVMBuildGEP2(e->builder, e->ptr, LLVMGetParam(fn, 0), &entries[1], 1, "");
    LLVMValueRef array = LLVMBuildLoad2(e->builder, e->ptr, from, "");
    LLVMBuildStore(e->builder, LLVMBuildGEP2(e->builder, e->i8, array, &entries[2], 1, ""), to);
    LLVMValueRef next = LLVMBuildAdd(e->builder, k, const_index(e, 1), "");
    LLVMValueRef more = LLVMBuildICmp(e->builder, LLVMIntSLT, next, LLVMGetParam(fn, 3), "");
    LLVMBuildCondBr(e->builder, more, loop, end);
    LLVMAddIncoming(k, (LLVMValueRef[]){ const_index(e, 0), next }, (LLVMBasicBlockRef[]){ entry, loop }, 2);
    LLVMPositionBuilderAtEnd(e->builder, end);
    LLVMBuildRet(e->builder, int32(e, 0));
    LLVMPositionBuilderAtEnd(e->builder, at);
    e->give = fn;
    return fn;
}

/* An array of the table at a place that is known. */
static bool is_listed(const struct emitter *e, const struct lp_operand *o, int64_t *at)
{
    *at = 0;
    if (e->p->buffers.data[o->buffer].kind == BUF_LOCAL) return false;
    return o->index == LPV_NONE || const_int(e, o->index, at);
}

/* Adds those arguments that can be listed to the list; how many words there are now. */
static uint32_t list_arguments(struct emitter *e, const struct lp_call *c, LLVMValueRef *list, uint32_t n,
                               bool *given)
{
    int64_t at;
    for (uint32_t k = 0; k < c->n_operands; k++) {
        given[k] = is_listed(e, &c->operands[k], &at);
        if (!given[k]) continue;
        uint32_t size = size_of((enum dtype)e->p->buffers.data[c->operands[k].buffer].dtype);
        list[n++] = const_index(e, k);
        list[n++] = const_index(e, c->operands[k].buffer);
        list[n++] = const_index(e, at * size);
    }
    return n;
}

static LLVMValueRef list_constant(struct emitter *e, LLVMValueRef *list, uint32_t n)
{
    LLVMValueRef constants = LLVMAddGlobal(e->module, LLVMArrayType(e->i64, n), "arguments");
    LLVMSetInitializer(constants, LLVMConstArray(e->i64, list, n));
    LLVMSetGlobalConstant(constants, true);
    LLVMSetLinkage(constants, LLVMPrivateLinkage);
    return constants;
}

static void give_listed(struct emitter *e, LLVMValueRef table, LLVMValueRef list, uint32_t n)
{
    LLVMValueRef fn = give_function(e);
    LLVMValueRef args[4] = { given_table(e), table, list, const_index(e, n) };
    LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}

/* Which arguments were given as a list. */
static const bool *give_list(struct emitter *e, const struct lp_call *c, LLVMValueRef table)
{
    bool *given = EMIT_NEW(e, bool, c->n_operands);
    LLVMValueRef *list = EMIT_NEW(e, LLVMValueRef, 3 * c->n_operands);
    uint32_t n = list_arguments(e, c, list, 0, given);
    if (n < 3 * LIST_ARGUMENTS) memset(given, 0, c->n_operands * sizeof *given);
    else give_listed(e, table, list_constant(e, list, n), n / 3);
    return given;
}

static LLVMValueRef table_of(struct emitter *e, const struct lp *q)
{
    int64_t first = (int64_t)q->first_buffer - (int64_t)e->p->first_buffer;
    LLVMValueRef at = const_index(e, first * (int64_t)sizeof(void *));
    return LLVMBuildGEP2(e->builder, e->i8, given_table(e), &at, 1, "");
}

static void call_procedure(struct emitter *e, uint32_t number, LLVMValueRef table, LLVMValueRef symbols)
{
    LLVMValueRef fn = e->procedures[number], args[3] = { e->f->rt, table, symbols };
    leave_on(e, LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(fn), fn, args, 3, ""));
}

/* A procedure finds its arrays in its part of the table of buffers; what is given to it is written there. */
static void emit_PROCEDURE(struct emitter *e, const struct lp_call *c)
{
    LLVMValueRef table = table_of(e, e->program->procedures.data[c->target]);
    const bool *given = give_list(e, c, table);
    for (uint32_t k = 0; k < c->n_operands; k++) {
        if (given[k]) continue;
        LLVMBuildStore(e->builder,
                       buffer_address(e, c->operands[k].buffer, index_or_zero(e, c->operands[k].index)),
                       field(e, table, k * sizeof(void *)));
    }
    call_procedure(e, c->target, table, symbols_pointer(e));
}

static bool is_listed_call(const struct emitter *e, const struct lp_stmt *s)
{
    bool all = s->kind == LP_CALL && s->call->kind == CALL_PROCEDURE && s->call->n_operands;
    int64_t at;
    for (uint32_t k = 0; all && k < s->call->n_operands; k++) all = is_listed(e, &s->call->operands[k], &at);
    return all;
}

/* The layers of a network are calls of one procedure one after the other. They are one loop over a list, so
 * that their number is no matter of code. How many of `n` statements that is, 0: fewer than two. */
uint32_t emit_calls(struct emitter *e, const struct lp_stmt *s, uint32_t n)
{
    uint32_t count = 0;
    while (count < n && is_listed_call(e, &s[count]) && s[count].call->target == s->call->target) count++;
    if (count < 2) return 0;
    uint32_t each = s->call->n_operands, words = 0;
    LLVMValueRef *list = EMIT_NEW(e, LLVMValueRef, 3 * each * count);
    bool *given = EMIT_NEW(e, bool, each);
    for (uint32_t i = 0; i < count; i++) words = list_arguments(e, s[i].call, list, words, given);
    LLVMValueRef constants = list_constant(e, list, words), symbols = symbols_pointer(e);
    LLVMValueRef table = table_of(e, e->program->procedures.data[s->call->target]);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    LLVMBasicBlockRef loop = new_block(e, "calls"), end = new_block(e, "called");
    LLVMBuildBr(e->builder, loop);
    LLVMPositionBuilderAtEnd(e->builder, loop);
    LLVMValueRef i = LLVMBuildPhi(e->builder, e->i64, "");
    LLVMValueRef at = LLVMBuildMul(e->builder, i, const_index(e, 3 * each), "");
    give_listed(e, table, LLVMBuildGEP2(e->builder, e->i64, constants, &at, 1, ""), each);
    call_procedure(e, s->call->target, table, symbols);
    LLVMValueRef next = LLVMBuildAdd(e->builder, i, const_index(e, 1), "");
    LLVMValueRef more = LLVMBuildICmp(e->builder, LLVMIntSLT, next, const_index(e, count), "");
    LLVMBasicBlockRef last = LLVMGetInsertBlock(e->builder);
    LLVMBuildCondBr(e->builder, more, loop, end);
    LLVMAddIncoming(i, (LLVMValueRef[]){ const_index(e, 0), next }, (LLVMBasicBlockRef[]){ before, last }, 2);
    LLVMPositionBuilderAtEnd(e->builder, end);
    return count;
}

void emit_call(struct emitter *e, const struct lp_call *c)
{
    static void (*const emit[])(struct emitter *, const struct lp_call *) = {
#define LP_CALL_KIND(NAME, ...) [CALL_##NAME] = emit_##NAME,
#include "loop/lp.def"
    };
    emit[c->kind](e, c);
}

/* ---- loops with a function of their own ---- */

/* A scalar that the function around the region knows, or NULL. */
static LLVMValueRef known_outside(struct emitter *e, lpv v)
{
    const struct lp_instr *i = instr(e, v);
    if (i->op == LP_CONST || i->op == LP_SYMBOL) return value_scalar(e, v);
    if (i->op == LP_VAR) return NULL;
    const struct held *x = &known_value(e, v)->held;
    return x->form == FORM_SCALAR ? x->part[0] : NULL;
}

static int64_t call_work(const struct lp_call *c)
{
    bool large = c->kind == CALL_GEMM || c->kind == CALL_PACK || c->kind == CALL_CONV ||
                 c->kind == CALL_PROCEDURE;
    return large ? GRAIN_WORK : 32;
}

/* How long a loop inside of the region is at most, as a value of the function around it, or NULL: its bounds
 * are known there, or its end is the lesser of something and its start with a known number added. */
static LLVMValueRef extent_outside(struct emitter *e, lpv lo, lpv hi)
{
    LLVMValueRef from = known_outside(e, lo), to = known_outside(e, hi);
    if (from && to) return LLVMBuildSub(e->builder, to, from, "");
    const struct lp_instr *end = instr(e, hi);
    if (end->op == LP_ADD && end->a == lo) return known_outside(e, end->b);
    if (end->op == LP_ADD && end->b == lo) return known_outside(e, end->a);
    if (end->op != LP_MIN) return NULL;
    LLVMValueRef extent = extent_outside(e, lo, end->a);
    return extent ? extent : extent_outside(e, lo, end->b);
}

/* Operations in one run of a block, as a value of the function around the region. */
static LLVMValueRef work_of(struct emitter *e, const struct lp_block *block)
{
    int64_t plain = 0;
    LLVMValueRef sum = const_index(e, 0);
    for (uint32_t k = 0; block && k < block->stmts.len; k++) {
        const struct lp_stmt *s = &block->stmts.data[k];
        if (s->kind == LP_CALL) plain += call_work(s->call);
        else if (s->kind == LP_FOR) {
            const struct loop_plan *l = &e->plan.loops[s->target];
            LLVMValueRef trips = extent_outside(e, s->lo, s->hi);
            if (!trips) trips = const_index(e, UNKNOWN_TRIPS);
            LLVMValueRef work = LLVMBuildMul(e->builder, trips, work_of(e, s->body), "");
            if (l->mode == LOOP_VECTOR) work = LLVMBuildSDiv(e->builder, work, const_index(e, l->lanes), "");
            sum = LLVMBuildAdd(e->builder, sum, work, "");
        } else if (s->kind == LP_IF || s->kind == LP_WHILE) {
            sum = LLVMBuildAdd(e->builder, sum, work_of(e, s->body), "");
            sum = LLVMBuildAdd(e->builder, sum, work_of(e, s->other), "");
        } else plain += s->kind == LP_LET ? e->plan.needed[s->value] : 1;
    }
    return LLVMBuildAdd(e->builder, sum, const_index(e, plain + 1), "");
}

static LLVMValueRef at_least(struct emitter *e, LLVMValueRef x, int64_t least)
{
    LLVMValueRef c = const_index(e, least);
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSGT, x, c, ""), x, c, "");
}

static LLVMValueRef step_or_one(struct emitter *e, const struct lp_stmt *s)
{
    return s->step == LPV_NONE ? const_index(e, 1) : value_scalar(e, s->step);
}

/* The function of a loop, emitted when the first of its equals is met: a parallel region takes the piece to
 * run, another nest nothing. */
static LLVMValueRef loop_function(struct emitter *e, const struct lp_stmt *s)
{
    struct loop_plan *l = &e->plan.loops[s->target];
    struct top_loop *leader = &e->plan.nests[e->plan.nests[l->nest].leader];
    if (leader->fn) return leader->fn;
    bool region = l->mode == LOOP_OUTLINED;
    struct func f;
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
    LLVMTypeRef params[4] = { e->ptr, e->ptr, e->i64, e->i64 };
    char name[96];
    snprintf(name, sizeof name, "%s.%s%u", e->name, region ? "region" : "nest", e->bodies++);
    LLVMTypeRef signature = LLVMFunctionType(e->i32, params, region ? 4 : 2, false);
    LLVMValueRef fn = LLVMAddFunction(e->module, name, signature);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    func_attributes(e, fn);
    func_begin(e, &f, s->target, fn);
    f.several = leader->copies > 1;
    f.shared = f.several || leader->looped; /* or by the copies of an unrolled step */
    if (region) {
        LLVMValueRef lo = value_scalar(e, s->lo);
        LLVMValueRef step = step_or_one(e, s);
        LLVMValueRef ends[2];
        for (uint32_t k = 0; k < 2; k++) {
            LLVMValueRef skip = LLVMBuildMul(e->builder, LLVMGetParam(fn, 2 + k), step, "");
            ends[k] = LLVMBuildAdd(e->builder, lo, skip, "");
        }
        counted_loop(e, s, ends[0], ends[1], 1, true);
    } else emit_loop(e, s);
    func_end(e);
    LLVMPositionBuilderAtEnd(e->builder, at);
    leader->emitted = l->nest;
    leader->captures = f.captures;
    leader->n_captures = f.n_captures;
    leader->fn = fn;
    return fn;
}

/* Room for what is handed to the next call. */
static LLVMValueRef environment(struct emitter *e, uint32_t slots)
{
    if (slots > ENVIRONMENT_SLOTS) return stack_slot(e, e->i64, slots, 16);
    if (!e->f->environment) e->f->environment = stack_slot(e, e->i64, ENVIRONMENT_SLOTS, 16);
    return e->f->environment;
}

static LLVMValueRef environment_at(struct emitter *e, LLVMValueRef env, uint32_t slot)
{
    return field(e, env, slot * sizeof(int64_t));
}

/* Captures of the loop's function, with this loop's values, where the function will find them. */
static LLVMValueRef fill_environment(struct emitter *e, const struct lp_stmt *s)
{
    const struct top_loop *nest = &e->plan.nests[e->plan.loops[s->target].nest];
    const struct top_loop *leader = &e->plan.nests[nest->leader];
    LLVMValueRef env = environment(e, leader->n_captures);
    for (uint32_t k = 0; k < leader->n_captures; k++) {
        LLVMValueRef x = captured(e, share_translate(e, nest, leader->captures[k]));
        LLVMBuildStore(e->builder, x, environment_at(e, env, k));
    }
    return env;
}

void emit_shared(struct emitter *e, const struct lp_stmt *s)
{
    LLVMValueRef fn = loop_function(e, s);
    LLVMValueRef args[2] = { e->f->rt, fill_environment(e, s) };
    leave_on(e, LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(fn), fn, args, 2, ""));
}

/* The grain, or below zero how many grains one iteration is. */
static LLVMValueRef worth(struct emitter *e, LLVMValueRef grain, LLVMValueRef work)
{
    LLVMValueRef one = LLVMBuildICmp(e->builder, LLVMIntSLE, grain, const_index(e, 1), "");
    LLVMValueRef grains = at_least(e, LLVMBuildSDiv(e->builder, work, const_index(e, GRAIN_WORK), ""), 1);
    return LLVMBuildSelect(e->builder, one, LLVMBuildNeg(e->builder, grains, ""), grain, "");
}

/* The loop's function, the second of the shared arguments, called at once or handed to threads. */
static LLVMValueRef run_loop(struct emitter *e, bool alone, LLVMValueRef direct[4], LLVMValueRef shared[5])
{
    LLVMValueRef fn = shared[1];
    if (!alone) return call_rt(e, offsetof(struct hop_rt, parallel), e->i32, shared, 5);
    return LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(fn), fn, direct, 4, "");
}

static LLVMValueRef run_either(struct emitter *e, LLVMValueRef little, LLVMValueRef direct[4],
                               LLVMValueRef shared[5])
{
    LLVMBasicBlockRef ways[2] = { new_block(e, "threads"), new_block(e, "alone") };
    LLVMBasicBlockRef join = new_block(e, "join");
    LLVMValueRef statuses[2];
    LLVMBuildCondBr(e->builder, little, ways[1], ways[0]);
    for (uint32_t k = 0; k < 2; k++) {
        LLVMPositionBuilderAtEnd(e->builder, ways[k]);
        statuses[k] = run_loop(e, k, direct, shared);
        LLVMBuildBr(e->builder, join);
    }
    LLVMPositionBuilderAtEnd(e->builder, join);
    LLVMValueRef status = LLVMBuildPhi(e->builder, e->i32, "");
    LLVMAddIncoming(status, statuses, ways, 2);
    return status;
}

void emit_parallel(struct emitter *e, const struct lp_stmt *s)
{
    LLVMValueRef lo = value_scalar(e, s->lo);
    LLVMValueRef step = step_or_one(e, s);
    LLVMValueRef distance = LLVMBuildSub(e->builder, value_scalar(e, s->hi), lo, "");
    LLVMValueRef rounding = LLVMBuildSub(e->builder, step, const_index(e, 1), "");
    LLVMValueRef rounded_up = LLVMBuildAdd(e->builder, distance, rounding, "");
    LLVMValueRef n = at_least(e, LLVMBuildSDiv(e->builder, rounded_up, step, ""), 0);
    LLVMValueRef work = at_least(e, work_of(e, s->body), 1);
    LLVMValueRef grain = at_least(e, LLVMBuildSDiv(e->builder, const_index(e, GRAIN_WORK), work, ""), 1);
    if (s->threads) { /* so many pieces */
        LLVMValueRef least = LLVMBuildAdd(e->builder, n, const_index(e, s->threads - 1), "");
        LLVMValueRef piece = LLVMBuildSDiv(e->builder, least, const_index(e, s->threads), "");
        LLVMValueRef more = LLVMBuildICmp(e->builder, LLVMIntSGT, piece, grain, "");
        grain = LLVMBuildSelect(e->builder, more, piece, grain, "");
    }
    LLVMValueRef fn = loop_function(e, s);
    LLVMValueRef env = fill_environment(e, s);
    LLVMValueRef little = LLVMBuildICmp(e->builder, LLVMIntSLE, n, grain, "");
    LLVMValueRef direct[4] = { e->f->rt, env, const_index(e, 0), n };
    LLVMValueRef shared[5] = { e->f->rt, fn, env, n, worth(e, grain, work) };
    leave_on(e, LLVMIsAConstantInt(little) ? run_loop(e, LLVMConstIntGetZExtValue(little), direct, shared)
                                           : run_either(e, little, direct, shared));
}

/* ---- sections ---- */

/* Into the frame goes a value where it is made: at the end of the section hundreds would have to be kept in
 * registers until then. */
static void put_in_frame(struct emitter *e, lpv v)
{
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
    LLVMValueRef x = value_scalar(e, v);
    bool made_here = LLVMIsAInstruction(x) && LLVMGetInstructionParent(x) != e->f->entry;
    LLVMValueRef next = made_here ? LLVMGetNextInstruction(x) : NULL;
    while (next && LLVMIsAPHINode(next)) next = LLVMGetNextInstruction(next);
    frame(e); /* known before the builder leaves the end of a block */
    if (next) LLVMPositionBuilderBefore(e->builder, next);
    LLVMBuildStore(e->builder, x, value_place(e, v));
    LLVMPositionBuilderAtEnd(e->builder, at);
}

/* The last thing that a section's function does: values that others want go into the frame, locals behind the
 * captures. */
static void give_back(struct emitter *e, struct section *s)
{
    uint32_t *locals;
    uint32_t n_locals = section_sets(e, s, &locals);
    for (uint32_t k = 0; k < s->n_given; k++)
        if (known_value(e, s->given[k])->held.form == FORM_SCALAR) put_in_frame(e, s->given[k]);
    s->n_captures = e->f->n_captures;
    s->captures = e->f->captures;
    s->back = EMIT_NEW(e, struct capture, n_locals + 1);
    for (uint32_t k = 0; k < n_locals; k++)
        if (known_slot(e, locals[k])->form == FORM_SCALAR)
            s->back[s->n_back++] = (struct capture){ CAPTURE_SLOT, locals[k] };
    for (uint32_t k = 0; k < s->n_back; k++)
        LLVMBuildStore(e->builder, captured(e, s->back[k]), environment_at(e, e->f->env, s->n_captures + k));
}

static void section_function(struct emitter *e, struct section *s)
{
    LLVMBasicBlockRef at = LLVMGetInsertBlock(e->builder);
    LLVMTypeRef params[2] = { e->ptr, e->ptr };
    struct func f;
    char name[96];
    snprintf(name, sizeof name, "%s.section%u", e->name, e->bodies++);
    s->fn = LLVMAddFunction(e->module, name, LLVMFunctionType(e->i32, params, 2, false));
    LLVMSetLinkage(s->fn, LLVMInternalLinkage);
    func_attributes(e, s->fn);
    func_begin(e, &f, s->home, s->fn);
    f.shared = true; /* by the copies of an unrolled step */
    emit_section_body(e, s);
    give_back(e, s);
    func_end(e);
    LLVMPositionBuilderAtEnd(e->builder, at);
}

void emit_section(struct emitter *e, struct section *s)
{
    if (!s->fn) section_function(e, s);
    LLVMValueRef env = environment(e, s->n_captures + s->n_back);
    LLVMValueRef args[2] = { e->f->rt, env };
    for (uint32_t k = 0; k < s->n_captures; k++)
        LLVMBuildStore(e->builder, captured(e, s->captures[k]), environment_at(e, env, k));
    leave_on(e, LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(s->fn), s->fn, args, 2, ""));
    LLVMBasicBlockRef behind = LLVMGetInsertBlock(e->builder);
    for (uint32_t k = 0; k < s->n_given; k++)
        *known_value(e, s->given[k]) = (struct known_value){ .given_in = behind };
    for (uint32_t k = 0; k < s->n_back; k++) {
        uint32_t id = s->back[k].id;
        LLVMTypeRef type = type_value(e, (enum dtype)e->p->locals.data[id].dtype, 0);
        LLVMValueRef at = environment_at(e, env, s->n_captures + k);
        *known_slot(e, id) = scalar_value(e, LLVMBuildLoad2(e->builder, type, at, ""));
    }
}
