/* Operations of the LLVM back end: types, constants, and the arithmetic of enum lp_op on scalars and on
 * vectors alike. LLVM values come in, an LLVM value goes out; no fast-math flag is ever set, so that what the
 * loop program says is what runs. */
#include "emit/llvm.h"
#include "loop/rt.h"

/* ---- types and constants ---- */

static LLVMTypeRef widen_type(LLVMTypeRef scalar, uint32_t lanes)
{
    return lanes ? LLVMVectorType(scalar, lanes) : scalar;
}

LLVMTypeRef type_value(struct emitter *e, enum dtype t, uint32_t lanes)
{
    LLVMTypeRef scalars[DT_COUNT] = {
        [DT_BOOL] = e->i1,  [DT_I8] = e->i8,   [DT_I16] = e->i16, [DT_I32] = e->i32, [DT_I64] = e->i64,
        [DT_U8] = e->i8,    [DT_U16] = e->i16, [DT_U32] = e->i32, [DT_U64] = e->i64, [DT_F16] = e->i16,
        [DT_BF16] = e->i16, [DT_F32] = e->f32, [DT_F64] = e->f64
    };
    return widen_type(scalars[t], lanes);
}

LLVMTypeRef type_memory(struct emitter *e, enum dtype t, uint32_t lanes)
{
    return t == DT_BOOL ? widen_type(e->i8, lanes) : type_value(e, t, lanes);
}

static LLVMValueRef splat_const(LLVMValueRef c, uint32_t lanes)
{
    LLVMValueRef elements[MAX_PARTS];
    if (!lanes) return c;
    for (uint32_t i = 0; i < lanes; i++) elements[i] = c;
    return LLVMConstVector(elements, lanes);
}

/* Floats by way of integers, which keeps the bits of a NaN. */
static LLVMValueRef const_element(struct emitter *e, enum dtype t, uint64_t bits)
{
    if (t == DT_BOOL) return LLVMConstInt(e->i1, bits != 0, false);
    if (t == DT_F32) return LLVMConstBitCast(LLVMConstInt(e->i32, (uint32_t)bits, false), e->f32);
    if (t == DT_F64) return LLVMConstBitCast(LLVMConstInt(e->i64, bits, false), e->f64);
    if (size_of(t) < 8) bits &= ((uint64_t)1 << 8 * size_of(t)) - 1;
    return LLVMConstInt(type_value(e, t, 0), bits, false);
}

LLVMValueRef const_bits(struct emitter *e, enum dtype t, uint32_t lanes, uint64_t bits)
{
    return splat_const(const_element(e, t, bits), lanes);
}

LLVMValueRef const_index(struct emitter *e, int64_t v) { return LLVMConstInt(e->i64, (uint64_t)v, true); }

static LLVMValueRef const_whole(struct emitter *e, enum dtype t, uint32_t lanes, int64_t v)
{
    return const_bits(e, t, lanes, (uint64_t)v);
}

static LLVMValueRef const_real(struct emitter *e, enum dtype t, uint32_t lanes, double v)
{
    return splat_const(LLVMConstReal(type_value(e, t, 0), v), lanes);
}

LLVMValueRef build_splat(struct emitter *e, LLVMValueRef x, uint32_t lanes)
{
    if (LLVMIsConstant(x)) return splat_const(x, lanes);
    LLVMValueRef nothing = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(x), lanes));
    LLVMValueRef zero = LLVMConstInt(e->i32, 0, false);
    LLVMValueRef lane_zero = LLVMConstNull(LLVMVectorType(e->i32, lanes));
    LLVMValueRef first = LLVMBuildInsertElement(e->builder, nothing, x, zero, "");
    return LLVMBuildShuffleVector(e->builder, first, nothing, lane_zero, "");
}

LLVMValueRef call_intrinsic(struct emitter *e, const char *name, LLVMTypeRef *overloads, uint32_t n_overloads,
                            LLVMValueRef *args, uint32_t n_args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id) emit_fail(e, "this LLVM has no intrinsic %s", name);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(e->module, id, overloads, n_overloads);
    return LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(fn), fn, args, n_args, "");
}

static LLVMValueRef intrinsic_same(struct emitter *e, const char *name, LLVMValueRef *args, uint32_t n)
{
    LLVMTypeRef type = LLVMTypeOf(args[0]);
    return call_intrinsic(e, name, &type, 1, args, n);
}

/* ---- casts from float ---- */

static LLVMValueRef float_to_int(struct emitter *e, enum dtype to, uint32_t lanes, LLVMValueRef a)
{
    LLVMTypeRef overloads[2] = { type_value(e, to, lanes), LLVMTypeOf(a) };
    return call_intrinsic(e, is_signed(to) ? "llvm.fptosi.sat" : "llvm.fptoui.sat", overloads, 2, &a, 1);
}

/* ---- f16 and bf16 ---- */

static LLVMValueRef word(struct emitter *e, uint32_t lanes, uint32_t v)
{
    return const_bits(e, DT_U32, lanes, v);
}
static LLVMValueRef bits_of_f32(struct emitter *e, uint32_t lanes, LLVMValueRef a)
{
    return LLVMBuildBitCast(e->builder, a, type_value(e, DT_U32, lanes), "");
}
static LLVMValueRef f32_of_bits(struct emitter *e, uint32_t lanes, LLVMValueRef a)
{
    return LLVMBuildBitCast(e->builder, a, type_value(e, DT_F32, lanes), "");
}
static LLVMValueRef add_word(struct emitter *e, uint32_t lanes, LLVMValueRef a, uint32_t v)
{
    return LLVMBuildAdd(e->builder, a, word(e, lanes, v), "");
}
static LLVMValueRef and_word(struct emitter *e, uint32_t lanes, LLVMValueRef a, uint32_t v)
{
    return LLVMBuildAnd(e->builder, a, word(e, lanes, v), "");
}
static LLVMValueRef or_word(struct emitter *e, uint32_t lanes, LLVMValueRef a, uint32_t v)
{
    return LLVMBuildOr(e->builder, a, word(e, lanes, v), "");
}
static LLVMValueRef shift_right(struct emitter *e, uint32_t lanes, LLVMValueRef a, uint32_t by)
{
    return LLVMBuildLShr(e->builder, a, word(e, lanes, by), "");
}
static LLVMValueRef shift_left(struct emitter *e, uint32_t lanes, LLVMValueRef a, uint32_t by)
{
    return LLVMBuildShl(e->builder, a, word(e, lanes, by), "");
}
static LLVMValueRef is_above(struct emitter *e, uint32_t lanes, LLVMValueRef a, uint32_t v)
{
    return LLVMBuildICmp(e->builder, LLVMIntUGT, a, word(e, lanes, v), "");
}

/* The same steps as f16_to_f32 and its kin in ir/number.h: there the reasons are given. */
static LLVMValueRef f16_to_f32(struct emitter *e, uint32_t lanes, LLVMValueRef bits)
{
    LLVMValueRef sign = shift_left(e, lanes, and_word(e, lanes, bits, 0x8000), 16);
    LLVMValueRef rest = shift_left(e, lanes, and_word(e, lanes, bits, 0x7fff), 13);
    LLVMValueRef quiet = or_word(e, lanes, rest, 0x7fc00000);
    LLVMValueRef infinite = or_word(e, lanes, rest, 0x7f800000);
    LLVMValueRef raised = f32_of_bits(e, lanes, add_word(e, lanes, rest, 0x38800000));
    LLVMValueRef tiny = LLVMBuildFSub(e->builder, raised, const_real(e, DT_F32, lanes, 0x1p-14), "");
    LLVMValueRef r = LLVMBuildSelect(e->builder, is_above(e, lanes, rest, 0x007fffff),
                                     add_word(e, lanes, rest, 0x38000000), bits_of_f32(e, lanes, tiny), "");
    r = LLVMBuildSelect(e->builder, is_above(e, lanes, rest, 0x0f7fffff), infinite, r, "");
    r = LLVMBuildSelect(e->builder, is_above(e, lanes, rest, 0x0f800000), quiet, r, "");
    return f32_of_bits(e, lanes, LLVMBuildOr(e->builder, sign, r, ""));
}

static LLVMValueRef f16_of_f32(struct emitter *e, uint32_t lanes, LLVMValueRef u)
{
    LLVMValueRef sign = and_word(e, lanes, shift_right(e, lanes, u, 16), 0x8000);
    LLVMValueRef rest = and_word(e, lanes, u, 0x7fffffff);
    LLVMValueRef even = and_word(e, lanes, shift_right(e, lanes, rest, 13), 1);
    LLVMValueRef lowered = add_word(e, lanes, rest, 0xfffu - 0x38000000u);
    LLVMValueRef normal = shift_right(e, lanes, LLVMBuildAdd(e->builder, lowered, even, ""), 13);
    LLVMValueRef half = const_real(e, DT_F32, lanes, 0.5);
    LLVMValueRef tiny = LLVMBuildFAdd(e->builder, f32_of_bits(e, lanes, rest), half, "");
    LLVMValueRef payload = and_word(e, lanes, shift_right(e, lanes, rest, 13), 0x3ff);
    LLVMValueRef quiet = or_word(e, lanes, payload, 0x7e00);
    LLVMValueRef r = LLVMBuildSelect(e->builder, is_above(e, lanes, rest, 0x387fffff), normal,
                                     add_word(e, lanes, bits_of_f32(e, lanes, tiny), 0u - 0x3f000000u), "");
    r = LLVMBuildSelect(e->builder, is_above(e, lanes, rest, 0x477fffff), word(e, lanes, 0x7c00), r, "");
    r = LLVMBuildSelect(e->builder, is_above(e, lanes, rest, 0x7f800000), quiet, r, "");
    return LLVMBuildOr(e->builder, sign, r, "");
}

static LLVMValueRef bf16_of_f32(struct emitter *e, uint32_t lanes, LLVMValueRef u)
{
    LLVMValueRef high = shift_right(e, lanes, u, 16);
    LLVMValueRef even = and_word(e, lanes, high, 1);
    LLVMValueRef rounded = LLVMBuildAdd(e->builder, add_word(e, lanes, u, 0x7fff), even, "");
    LLVMValueRef is_nan = is_above(e, lanes, and_word(e, lanes, u, 0x7fffffff), 0x7f800000);
    return LLVMBuildSelect(e->builder, is_nan, or_word(e, lanes, high, 0x40),
                           shift_right(e, lanes, rounded, 16), "");
}

/* Between f32 and f16 or bf16. */
static LLVMValueRef cast_narrow(struct emitter *e, enum dtype to, enum dtype from, uint32_t lanes,
                                LLVMValueRef a)
{
    LLVMTypeRef narrow = type_value(e, DT_F16, lanes);
    LLVMTypeRef half = widen_type(e->f16, lanes);
    if (to == DT_F16 && e->has_f16) {
        LLVMValueRef rounded = LLVMBuildFPTrunc(e->builder, a, half, "");
        return LLVMBuildBitCast(e->builder, rounded, narrow, "");
    }
    if (from == DT_F16 && e->has_f16) {
        LLVMValueRef number = LLVMBuildBitCast(e->builder, a, half, "");
        return LLVMBuildFPExt(e->builder, number, type_value(e, DT_F32, lanes), "");
    }
    if (to == DT_F16 || to == DT_BF16) {
        LLVMValueRef full = bits_of_f32(e, lanes, a);
        LLVMValueRef rounded = to == DT_F16 ? f16_of_f32(e, lanes, full) : bf16_of_f32(e, lanes, full);
        return LLVMBuildTrunc(e->builder, rounded, narrow, "");
    }
    LLVMValueRef bits = LLVMBuildZExt(e->builder, a, type_value(e, DT_U32, lanes), "");
    if (from == DT_F16) return f16_to_f32(e, lanes, bits);
    return f32_of_bits(e, lanes, shift_left(e, lanes, bits, 16));
}

/* ---- casts ---- */

static LLVMValueRef is_not_zero(struct emitter *e, enum dtype t, uint32_t lanes, LLVMValueRef a)
{
    if (is_float(t)) return LLVMBuildFCmp(e->builder, LLVMRealUNE, a, const_real(e, t, lanes, 0), "");
    return LLVMBuildICmp(e->builder, LLVMIntNE, a, const_whole(e, t, lanes, 0), "");
}

static LLVMValueRef int_to_float(struct emitter *e, enum dtype from, LLVMValueRef a, LLVMTypeRef type)
{
    if (is_signed(from)) return LLVMBuildSIToFP(e->builder, a, type, "");
    return LLVMBuildUIToFP(e->builder, a, type, "");
}

LLVMValueRef no_longer_a_counter(struct emitter *e, LLVMValueRef a)
{
    if (LLVMIsConstant(a) || LLVMGetTypeKind(LLVMTypeOf(a)) == LLVMVectorTypeKind) return a;
    LLVMValueRef none = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(a), 2)),
                 zero = LLVMConstInt(e->i32, 0, false);
    return LLVMBuildExtractElement(e->builder, LLVMBuildInsertElement(e->builder, none, a, zero, ""), zero,
                                   "");
}

LLVMValueRef op_cast(struct emitter *e, enum dtype to, enum dtype from, uint32_t lanes, LLVMValueRef a)
{
    LLVMTypeRef type = type_value(e, to, lanes);
    if (to == from) return a;
    if (dtype_is_narrow(to) || dtype_is_narrow(from)) return cast_narrow(e, to, from, lanes, a);
    if (to == DT_BOOL) return is_not_zero(e, from, lanes, a);
    if (is_float(from) && !is_float(to)) return float_to_int(e, to, lanes, a);
    if (is_float(from) && to == DT_F64) return LLVMBuildFPExt(e->builder, a, type, "");
    if (is_float(from)) return LLVMBuildFPTrunc(e->builder, a, type, "");
    if (is_float(to)) return int_to_float(e, from, a, type);
    if (from != DT_BOOL && size_of(to) == size_of(from)) return a;
    if (from != DT_BOOL && size_of(to) < size_of(from))
        return no_longer_a_counter(e, LLVMBuildTrunc(e->builder, a, type, ""));
    return is_signed(from) ? LLVMBuildSExt(e->builder, a, type, "") : LLVMBuildZExt(e->builder, a, type, "");
}

/* ---- integer division ---- */

/* The constant that every lane is, or NULL. */
static LLVMValueRef constant_element(LLVMValueRef v)
{
    if (!LLVMIsConstant(v)) return NULL;
    if (LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMVectorTypeKind) return v;
    LLVMValueRef first = LLVMGetAggregateElement(v, 0);
    for (unsigned i = 1, n = LLVMGetVectorSize(LLVMTypeOf(v)); i < n; i++)
        if (LLVMGetAggregateElement(v, i) != first) return NULL;
    return first;
}

static bool constant_scalar(LLVMValueRef v, int64_t *out)
{
    v = constant_element(v);
    if (!v || !LLVMIsAConstantInt(v)) return false;
    *out = LLVMConstIntGetSExtValue(v);
    return true;
}

/* Quotients of 32-bit integers by way of f64: the rounded quotient never reaches the next integer, because 53
 * bits hold more than the gap. */
static LLVMValueRef divide_by_reals(struct emitter *e, enum dtype t, uint32_t lanes, LLVMValueRef a,
                                    LLVMValueRef b)
{
    LLVMTypeRef real = type_value(e, DT_F64, lanes);
    LLVMTypeRef whole = type_value(e, t, lanes);
    LLVMValueRef x = int_to_float(e, t, a, real);
    LLVMValueRef y = int_to_float(e, t, b, real);
    LLVMValueRef q = LLVMBuildFDiv(e->builder, x, y, "");
    if (is_signed(t)) return LLVMBuildFPToSI(e->builder, q, whole, "");
    return LLVMBuildFPToUI(e->builder, q, whole, "");
}

static LLVMValueRef divide_plain(struct emitter *e, enum lp_op op, enum dtype t, uint32_t lanes,
                                 LLVMValueRef a, LLVMValueRef b)
{
    if (lanes && size_of(t) == 4 && !LLVMIsConstant(b)) {
        LLVMValueRef q = divide_by_reals(e, t, lanes, a, b);
        return op == LP_DIV ? q : LLVMBuildSub(e->builder, a, LLVMBuildMul(e->builder, q, b, ""), "");
    }
    if (lanes && size_of(t) < 4) {
        enum dtype wide = is_signed(t) ? DT_I32 : DT_U32;
        LLVMValueRef r = divide_plain(e, op, wide, lanes, op_cast(e, wide, t, lanes, a),
                                      op_cast(e, wide, t, lanes, b));
        return LLVMBuildTrunc(e->builder, r, type_value(e, t, lanes), "");
    }
    if (op == LP_DIV)
        return is_signed(t) ? LLVMBuildSDiv(e->builder, a, b, "") : LLVMBuildUDiv(e->builder, a, b, "");
    return is_signed(t) ? LLVMBuildSRem(e->builder, a, b, "") : LLVMBuildURem(e->builder, a, b, "");
}

/* x div 0 = 0, x rem 0 = x, min div -1 = min, min rem -1 = 0: the divisor becomes 1 where the machine would
 * trap. */
static LLVMValueRef divide(struct emitter *e, enum lp_op op, enum dtype t, uint32_t lanes, LLVMValueRef a,
                           LLVMValueRef b)
{
    int64_t c;
    bool never_traps = constant_scalar(b, &c) && c != 0 && !(is_signed(t) && c == -1);
    if (never_traps) return divide_plain(e, op, t, lanes, a, b);
    LLVMValueRef one = const_whole(e, t, lanes, 1);
    LLVMValueRef zero = const_whole(e, t, lanes, 0);
    LLVMValueRef by_zero = LLVMBuildICmp(e->builder, LLVMIntEQ, b, zero, "");
    LLVMValueRef traps = by_zero;
    if (is_signed(t)) {
        LLVMValueRef smallest = const_whole(e, t, lanes, (int64_t)(UINT64_MAX << (8 * size_of(t) - 1)));
        LLVMValueRef minus_one = const_whole(e, t, lanes, -1);
        LLVMValueRef by_minus_one = LLVMBuildICmp(e->builder, LLVMIntEQ, b, minus_one, "");
        LLVMValueRef of_smallest = LLVMBuildICmp(e->builder, LLVMIntEQ, a, smallest, "");
        LLVMValueRef overflow = LLVMBuildAnd(e->builder, of_smallest, by_minus_one, "");
        traps = LLVMBuildOr(e->builder, by_zero, overflow, "");
    }
    LLVMValueRef r = divide_plain(e, op, t, lanes, a, LLVMBuildSelect(e->builder, traps, one, b, ""));
    return LLVMBuildSelect(e->builder, by_zero, op == LP_DIV ? zero : a, r, "");
}

/* Floor division and modulus of indices. A divisor that is no constant is taken as 1 when it is not positive:
 * the instruction may have been moved out of a loop that never runs. */
static LLVMValueRef index_division(struct emitter *e, enum lp_op op, const struct operands *o)
{
    struct lp_range x = lp_range(e->p, o->i->a);
    struct lp_range y = lp_range(e->p, o->i->b);
    LLVMValueRef a = o->a, b = o->b;
    uint32_t lanes = o->lanes;
    int64_t c = 0;
    bool constant = constant_scalar(b, &c) && c > 0;
    bool quotient = op == LP_FLOORDIV;
    if (constant && !(c & (c - 1))) {
        if (!quotient) return LLVMBuildAnd(e->builder, a, const_whole(e, DT_I64, lanes, c - 1), "");
        return LLVMBuildAShr(e->builder, a, const_whole(e, DT_I64, lanes, __builtin_ctzll((uint64_t)c)), "");
    }
    if (!constant) {
        LLVMValueRef one = const_whole(e, DT_I64, lanes, 1);
        b = LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, LLVMIntSGT, b, one, ""), b, one, "");
    }
    if (x.lo >= 0 && x.hi <= INT32_MAX && y.hi <= INT32_MAX) {
        LLVMTypeRef narrow = type_value(e, DT_U32, lanes);
        LLVMValueRef divisor = LLVMBuildTrunc(e->builder, b, narrow, "");
        LLVMValueRef dividend = LLVMBuildTrunc(e->builder, a, narrow, "");
        LLVMValueRef r = divide_plain(e, quotient ? LP_DIV : LP_REM, DT_U32, lanes, dividend, divisor);
        return LLVMBuildZExt(e->builder, r, type_value(e, DT_I64, lanes), "");
    }
    if (x.lo >= 0)
        return quotient ? LLVMBuildUDiv(e->builder, a, b, "") : LLVMBuildURem(e->builder, a, b, "");
    LLVMValueRef zero = const_whole(e, DT_I64, lanes, 0);
    LLVMValueRef rest = LLVMBuildSRem(e->builder, a, b, "");
    LLVMValueRef below = LLVMBuildICmp(e->builder, LLVMIntSLT, rest, zero, "");
    if (!quotient) return LLVMBuildAdd(e->builder, rest, LLVMBuildSelect(e->builder, below, b, zero, ""), "");
    LLVMValueRef minus_one_below = LLVMBuildSExt(e->builder, below, type_value(e, DT_I64, lanes), "");
    return LLVMBuildAdd(e->builder, LLVMBuildSDiv(e->builder, a, b, ""), minus_one_below, "");
}

/* ---- two operands ---- */

static bool constant_not_nan(LLVMValueRef v)
{
    LLVMBool loses;
    v = constant_element(v);
    if (!v || !LLVMIsAConstantFP(v)) return false;
    double x = LLVMConstRealGetDouble(v, &loses);
    return x == x;
}

/* a if a is NaN or a beats b, else b. One compare where a constant operand cannot be NaN. */
static LLVMValueRef float_extreme(struct emitter *e, enum lp_op op, LLVMValueRef a, LLVMValueRef b)
{
    bool max = op == LP_MAX;
    if (constant_not_nan(b)) {
        LLVMRealPredicate beats_or_nan = max ? LLVMRealUGT : LLVMRealULT;
        return LLVMBuildSelect(e->builder, LLVMBuildFCmp(e->builder, beats_or_nan, a, b, ""), a, b, "");
    }
    LLVMRealPredicate beats = max ? LLVMRealOGT : LLVMRealOLT;
    LLVMValueRef best = LLVMBuildSelect(e->builder, LLVMBuildFCmp(e->builder, beats, a, b, ""), a, b, "");
    if (constant_not_nan(a)) return best;
    LLVMValueRef is_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, a, a, "");
    return LLVMBuildSelect(e->builder, is_nan, a, best, "");
}

static LLVMValueRef float_remainder(struct emitter *e, enum dtype t, uint32_t lanes, LLVMValueRef a,
                                    LLVMValueRef b)
{
    if (lanes) emit_fail(e, "a float remainder in a vector loop");
    LLVMTypeRef type = type_value(e, t, 0);
    LLVMTypeRef params[2] = { type, type };
    LLVMValueRef args[2] = { a, b };
    size_t offset = t == DT_F64 ? offsetof(struct hop_rt, fmod) : offsetof(struct hop_rt, fmodf);
    LLVMValueRef fn = rt_function(e, offset);
    return LLVMBuildCall2(e->builder, LLVMFunctionType(type, params, 2, false), fn, args, 2, "");
}

/* Shifts are by less than the width; a run-time amount is masked so that LLVM may not assume more. */
static LLVMValueRef shift_amount(struct emitter *e, enum dtype t, uint32_t lanes, LLVMValueRef b)
{
    if (LLVMIsConstant(b)) return b;
    return LLVMBuildAnd(e->builder, b, const_whole(e, t, lanes, 8 * size_of(t) - 1), "");
}

/* ---- what is seldom computed ---- */

static void call_attribute(struct emitter *e, LLVMValueRef call, const char *name, uint64_t value)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddCallSiteAttribute(call, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                             LLVMCreateEnumAttribute(e->context, kind, value));
}

/* A branch to `seldom` that is hardly ever taken. */
static void build_seldom(struct emitter *e, LLVMValueRef condition, LLVMBasicBlockRef seldom,
                         LLVMBasicBlockRef mostly)
{
    LLVMMetadataRef weights[3] = { LLVMMDStringInContext2(e->context, "branch_weights", 14),
                                   LLVMValueAsMetadata(LLVMConstInt(e->i32, 1, false)),
                                   LLVMValueAsMetadata(LLVMConstInt(e->i32, 1 << 20, false)) };
    LLVMValueRef branch = LLVMBuildCondBr(e->builder, condition, seldom, mostly);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->context, "prof", 4),
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, weights, 3)));
}

/* Arguments and results go through the stack, so that the call is the same for every width. It touches
 * nothing else: what a loop keeps in registers stays there. Lanes that do not run may hold anything, hence
 * the freeze. */
static LLVMValueRef far_or_near(struct emitter *e, const struct lp_instr *i, uint32_t lanes, LLVMValueRef far,
                                LLVMValueRef x, LLVMValueRef near)
{
    enum { SLOT = 8 * STRICT_LANES, TOUCHES_ARGUMENTS_ONLY = 3 };
    enum dtype t = (enum dtype)i->dtype;
    LLVMTypeRef type = type_value(e, t, lanes);
    LLVMTypeRef params[5] = { e->i32, e->i32, e->i32, e->ptr, e->ptr };
    LLVMValueRef bits = LLVMBuildFreeze(e->builder, far, "");
    if (lanes) bits = LLVMBuildBitCast(e->builder, bits, LLVMIntTypeInContext(e->context, lanes), "");
    if (!e->f->far_slots) e->f->far_slots = stack_slot(e, e->i8, 2 * SLOT, 64);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    LLVMBasicBlockRef call = new_block(e, "far");
    LLVMBasicBlockRef join = new_block(e, "near");
    LLVMValueRef none = LLVMConstNull(LLVMTypeOf(bits));
    build_seldom(e, LLVMBuildICmp(e->builder, LLVMIntNE, bits, none, ""), call, join);
    LLVMPositionBuilderAtEnd(e->builder, call);
    LLVMValueRef at = const_index(e, SLOT);
    LLVMValueRef given = e->f->far_slots;
    LLVMValueRef results = LLVMBuildInBoundsGEP2(e->builder, e->i8, given, &at, 1, "");
    LLVMBuildStore(e->builder, x, given);
    LLVMBuildStore(e->builder, near, results);
    LLVMValueRef args[5] = { LLVMConstInt(e->i32, (uint64_t)i->imm, false),
                             LLVMConstInt(e->i32, t == DT_F64, false),
                             LLVMBuildZExt(e->builder, bits, e->i32, ""), given, results };
    LLVMTypeRef signature = LLVMFunctionType(e->nothing, params, 5, false);
    LLVMValueRef fn = rt_function(e, offsetof(struct hop_rt, far));
    LLVMValueRef made = LLVMBuildCall2(e->builder, signature, fn, args, 5, "");
    call_attribute(e, made, "memory", TOUCHES_ARGUMENTS_ONLY);
    call_attribute(e, made, "nounwind", 0);
    call_attribute(e, made, "willreturn", 0);
    call_attribute(e, made, "cold", 0);
    LLVMValueRef result = LLVMBuildLoad2(e->builder, type, results, "");
    LLVMBuildBr(e->builder, join);
    LLVMPositionBuilderAtEnd(e->builder, join);
    LLVMValueRef phi = LLVMBuildPhi(e->builder, type, "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){ near, result }, (LLVMBasicBlockRef[]){ before, call }, 2);
    return phi;
}

/* ---- products of bytes ---- */

/* An integer that was made longer from i8 or u8; NULL: not so. */
static LLVMValueRef from_byte(struct emitter *e, LLVMValueRef v, bool *is_zero_extended)
{
    if (!LLVMIsAInstruction(v)) return NULL;
    LLVMOpcode op = LLVMGetInstructionOpcode(v);
    if (op != LLVMSExt && op != LLVMZExt) return NULL;
    LLVMTypeRef from = LLVMTypeOf(LLVMGetOperand(v, 0));
    if (LLVMGetTypeKind(from) == LLVMVectorTypeKind) from = LLVMGetElementType(from);
    *is_zero_extended = op == LLVMZExt;
    return from == LLVMInt8TypeInContext(e->context) ? LLVMGetOperand(v, 0) : NULL;
}

/* A vector of such integers, or one of them in every lane, in 16 bits. */
static LLVMValueRef byte_factor(struct emitter *e, LLVMValueRef v, LLVMTypeRef to, bool *is_zero_extended)
{
    LLVMValueRef x = from_byte(e, v, is_zero_extended);
    if (x && *is_zero_extended) return LLVMBuildZExt(e->builder, x, to, "");
    if (x) return LLVMBuildSExt(e->builder, x, to, "");
    if (!LLVMIsAShuffleVectorInst(v) || !LLVMIsAInsertElementInst(LLVMGetOperand(v, 0))) return NULL;
    LLVMValueRef scalar = LLVMGetOperand(LLVMGetOperand(v, 0), 1);
    return from_byte(e, scalar, is_zero_extended) ? LLVMBuildTrunc(e->builder, v, to, "") : NULL;
}

/* Vectors of 32-bit integers are slow to multiply. A product of two bytes fits into 16 bits: without a sign
 * if neither factor has one, else with it (-128·255 and -128·-128 do). */
static LLVMValueRef whole_product(struct emitter *e, const struct operands *o)
{
    bool unsigned_a, unsigned_b;
    if (o->lanes && size_of(o->t) >= 4) {
        LLVMTypeRef half = LLVMVectorType(LLVMInt16TypeInContext(e->context), o->lanes);
        LLVMValueRef a = byte_factor(e, o->a, half, &unsigned_a);
        LLVMValueRef b = a ? byte_factor(e, o->b, half, &unsigned_b) : NULL;
        if (b) {
            LLVMValueRef r = LLVMBuildMul(e->builder, a, b, "");
            LLVMTypeRef whole = LLVMTypeOf(o->a);
            return unsigned_a && unsigned_b ? LLVMBuildZExt(e->builder, r, whole, "")
                                            : LLVMBuildSExt(e->builder, r, whole, "");
        }
    }
    return LLVMBuildMul(e->builder, o->a, o->b, "");
}

/* The factors of what whole_product made of two vectors of bytes. */
static bool byte_factors(struct emitter *e, LLVMValueRef x, LLVMValueRef factors[2])
{
    bool without_sign[2];
    if (!LLVMIsAInstruction(x)) return false;
    LLVMOpcode op = LLVMGetInstructionOpcode(x);
    LLVMValueRef product = op == LLVMSExt || op == LLVMZExt ? LLVMGetOperand(x, 0) : NULL;
    if (!product || !LLVMIsAInstruction(product) || LLVMGetInstructionOpcode(product) != LLVMMul)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        factors[i] = LLVMGetOperand(product, i);
        if (!from_byte(e, factors[i], &without_sign[i])) return false;
    }
    return (op == LLVMZExt) == (without_sign[0] && without_sign[1]); /* else it may have wrapped around */
}

LLVMValueRef op_pairs(struct emitter *e, uint32_t lanes, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef of_x[2], of_y[2], joined[2], order[MAX_PARTS * 2];
    if (!e->has_pairs || (lanes != 8 && lanes != 16) || (lanes == 16 && e->vector_bytes < 64)) return NULL;
    if (2 * lanes > HOP_COUNT(order) || !byte_factors(e, x, of_x) || !byte_factors(e, y, of_y)) return NULL;
    for (uint32_t i = 0; i < 2 * lanes; i++) order[i] = LLVMConstInt(e->i32, i, false);
    for (uint32_t i = 0; i < 2; i++)
        joined[i] = LLVMBuildShuffleVector(e->builder, of_x[i], of_y[i], LLVMConstVector(order, 2 * lanes),
                                           "");
    const char *name = lanes == 8 ? "llvm.x86.avx2.pmadd.wd" : "llvm.x86.avx512.pmaddw.d.512";
    return call_intrinsic(e, name, NULL, 0, joined, 2);
}

/* ---- the operations of lp.def ---- */

#define BUILD1(name) LLVMBuild##name(e->builder, o->a, "")
#define BUILD2(name) LLVMBuild##name(e->builder, o->a, o->b, "")
#define ON_BITS(value) (is_float(o->t) ? undefined(e, o->t) : (value))
#define OPERATION(NAME, value) \
    static LLVMValueRef emit_##NAME(struct emitter *e, const struct operands *o) { return value; }
#define COMPARISON(NAME, real, with_sign, without) \
    OPERATION(NAME, is_float(o->t) \
                        ? LLVMBuildFCmp(e->builder, LLVMReal##real, o->a, o->b, "") \
                        : LLVMBuildICmp(e->builder, is_signed(o->t) ? LLVMInt##with_sign : LLVMInt##without, \
                                        o->a, o->b, ""))

static _Noreturn LLVMValueRef undefined(struct emitter *e, enum dtype t)
{
    emit_fail(e, "an operation on bits meets dtype %d", (int)t);
}

static LLVMValueRef magnitude(struct emitter *e, const struct operands *o)
{
    LLVMValueRef a = o->a;
    if (is_float(o->t)) return intrinsic_same(e, "llvm.fabs", &a, 1);
    if (!is_signed(o->t)) return a;
    LLVMValueRef zero = const_whole(e, o->t, o->lanes, 0);
    LLVMValueRef negative = LLVMBuildICmp(e->builder, LLVMIntSLT, a, zero, "");
    return LLVMBuildSelect(e->builder, negative, LLVMBuildNeg(e->builder, a, ""), a, "");
}

static LLVMValueRef math(struct emitter *e, const char *name, const struct operands *o)
{
    LLVMValueRef args[3] = { o->a, o->b, o->c };
    return intrinsic_same(e, name, args, o->c ? 3 : 1);
}

static LLVMValueRef leading_zeros(struct emitter *e, LLVMValueRef a)
{
    LLVMValueRef args[2] = { a, LLVMConstInt(e->i1, 0, false) };
    return intrinsic_same(e, "llvm.ctlz", args, 2);
}

LLVMValueRef op_trailing_zeros(struct emitter *e, LLVMValueRef a)
{
    LLVMValueRef args[2] = { a, LLVMConstInt(e->i1, 1, false) };
    return intrinsic_same(e, "llvm.cttz", args, 2);
}

static LLVMValueRef quotient(struct emitter *e, enum lp_op op, const struct operands *o)
{
    if (!is_float(o->t)) return divide(e, op, o->t, o->lanes, o->a, o->b);
    return op == LP_DIV ? BUILD2(FDiv) : float_remainder(e, o->t, o->lanes, o->a, o->b);
}

static LLVMValueRef extreme(struct emitter *e, enum lp_op op, const struct operands *o)
{
    if (is_float(o->t)) return float_extreme(e, op, o->a, o->b);
    LLVMIntPredicate with_sign = op == LP_MAX ? LLVMIntSGT : LLVMIntSLT;
    LLVMIntPredicate without = op == LP_MAX ? LLVMIntUGT : LLVMIntULT;
    LLVMIntPredicate p = is_signed(o->t) ? with_sign : without;
    return LLVMBuildSelect(e->builder, LLVMBuildICmp(e->builder, p, o->a, o->b, ""), o->a, o->b, "");
}

static LLVMValueRef shift(struct emitter *e, enum lp_op op, const struct operands *o)
{
    if (is_float(o->t)) return undefined(e, o->t);
    LLVMValueRef by = shift_amount(e, o->t, o->lanes, o->b);
    if (op == LP_SHL) return LLVMBuildShl(e->builder, o->a, by, "");
    bool sign = op == LP_SAR && is_signed(o->t);
    return sign ? LLVMBuildAShr(e->builder, o->a, by, "") : LLVMBuildLShr(e->builder, o->a, by, "");
}

/* The halves of a word exchanged: LLVM finds it in two shifts and their union as well, but only after it has
 * asked for each what bits of it are known, by way of all before it; random bits are chains of these. NULL:
 * it is no such union. */
static LLVMValueRef rotated(struct emitter *e, const struct operands *o)
{
    if (!o->i || is_float(o->t) || o->t == DT_BOOL) return NULL;
    const struct lp_instr *left = instr(e, o->i->a), *right = instr(e, o->i->b);
    int64_t up, down;
    bool shifts = left->op == LP_SHL && right->op == LP_SHR && left->a == right->a;
    if (!shifts || !const_int(e, left->b, &up) || !const_int(e, right->b, &down)) return NULL;
    bool whole = up > 0 && down > 0 && up + down == 8 * (int64_t)size_of(o->t);
    if (!whole || !LLVMIsAInstruction(o->a) || LLVMGetInstructionOpcode(o->a) != LLVMShl) return NULL;
    LLVMValueRef x = LLVMGetOperand(o->a, 0);
    LLVMValueRef args[3] = { x, x, const_whole(e, o->t, o->lanes, up) };
    return intrinsic_same(e, "llvm.fshl", args, 3);
}

static LLVMValueRef united(struct emitter *e, const struct operands *o)
{
    LLVMValueRef r = rotated(e, o);
    return r ? r : ON_BITS(BUILD2(Or));
}

static bool is_real(struct emitter *e, lpv v, enum dtype t, double number)
{
    const struct lp_instr *i = instr(e, v);
    float single = (float)number;
    uint64_t bits = 0;
    if (t == DT_F32) memcpy(&bits, &single, sizeof single);
    else memcpy(&bits, &number, sizeof number);
    return i->op == LP_CONST && i->bits == bits;
}
static bool is_shift_by(struct emitter *e, const struct lp_instr *i, enum lp_op op, int64_t by)
{
    int64_t found;
    return i->op == op && const_int(e, i->b, &found) && found == by;
}

/* An operand of an instruction of a kind; NULL: v is none. */
static LLVMValueRef operand_of(LLVMValueRef v, LLVMOpcode kind, uint32_t number)
{
    bool fits = LLVMIsAInstruction(v) && LLVMGetInstructionOpcode(v) == kind;
    return fits ? LLVMGetOperand(v, number) : NULL;
}

/* p · 2^n as scalar_math.h makes it of two factors, with n and twice the bias in the last bits of a float:
 * AVX-512 adds to the exponent, rounds once as well, and has one instruction for all of it. NULL: it is no
 * such product. */
static LLVMValueRef scaled(struct emitter *e, const struct operands *o)
{
    bool single = o->t == DT_F32;
    uint32_t mantissa = single ? 23 : 52, lanes = single ? 16 : 8;
    if (!o->i || !e->has_pairs || e->vector_bytes != 64 || o->lanes != lanes) return NULL;
    if (instr(e, o->i->a)->op != LP_MUL || instr(e, o->i->b)->op != LP_BITCAST) return NULL;
    const struct lp_instr *first = instr(e, instr(e, o->i->a)->b), *rest = instr(e, instr(e, o->i->b)->a);
    if (first->op != LP_BITCAST || rest->op != LP_SUB || rest->b != first->a) return NULL;
    const struct lp_instr *both = instr(e, rest->a), *half = instr(e, first->a);
    if (half->op != LP_AND || !is_shift_by(e, instr(e, half->a), LP_SHR, 1)) return NULL;
    if (instr(e, half->a)->a != rest->a || !is_shift_by(e, both, LP_SHL, mantissa)) return NULL;
    const struct lp_instr *word = instr(e, both->a);
    if (word->op != LP_BITCAST) return NULL;
    const struct lp_instr *shifted = instr(e, word->a);
    lpv addend = shifted->op == LP_ADD ? shifted->b : shifted->op == LP_FMA ? shifted->c : LPV_NONE;
    double bias = single ? 0x1.8p23 + 254 : 0x1.8p52 + 2046;
    if (addend == LPV_NONE || !is_real(e, addend, o->t, bias)) return NULL;
    LLVMValueRef p = operand_of(o->a, LLVMFMul, 0), t = p ? LLVMGetOperand(o->a, 1) : NULL;
    static const LLVMOpcode made[] = { LLVMBitCast, LLVMAnd, LLVMLShr, LLVMShl, LLVMBitCast };
    for (uint32_t k = 0; k < HOP_COUNT(made) && t; k++) t = operand_of(t, made[k], 0);
    if (!t || LLVMTypeOf(t) != LLVMTypeOf(p)) return NULL;
    LLVMValueRef n = LLVMBuildFSub(e->builder, t, const_real(e, o->t, lanes, bias), "");
    LLVMValueRef args[5] = { p, n, p, LLVMConstInt(LLVMIntTypeInContext(e->context, lanes), ~0ull, true),
                             LLVMConstInt(e->i32, 4, false) }; /* 4: rounded as everything is */
    const char *name = single ? "llvm.x86.avx512.mask.scalef.ps.512" : "llvm.x86.avx512.mask.scalef.pd.512";
    return call_intrinsic(e, name, NULL, 0, args, 5);
}

static LLVMValueRef real_product(struct emitter *e, const struct operands *o)
{
    LLVMValueRef r = scaled(e, o);
    return r ? r : BUILD2(FMul);
}

static LLVMValueRef contracted(struct emitter *e, const struct operands *o)
{
    if (e->has_fma) return math(e, "llvm.fma", o);
    return LLVMBuildFAdd(e->builder, BUILD2(FMul), o->c, "");
}

OPERATION(NEG, is_float(o->t) ? BUILD1(FNeg) : BUILD1(Neg))
OPERATION(ABS, magnitude(e, o))
OPERATION(SQRT, math(e, "llvm.sqrt", o))
OPERATION(FLOOR, math(e, "llvm.floor", o))
OPERATION(CEIL, math(e, "llvm.ceil", o))
OPERATION(TRUNC, math(e, "llvm.trunc", o))
OPERATION(ROUND, math(e, "llvm.rint", o))
OPERATION(POPCOUNT, math(e, "llvm.ctpop", o))
OPERATION(CLZ, leading_zeros(e, o->a))
OPERATION(NOT, BUILD1(Not))
OPERATION(CAST, op_cast(e, (enum dtype)o->i->dtype, o->t, o->lanes, o->a))
OPERATION(BITCAST, LLVMBuildBitCast(e->builder, o->a, type_value(e, (enum dtype)o->i->dtype, o->lanes), ""))
OPERATION(ADD, is_float(o->t) ? BUILD2(FAdd) : o->t == DT_BOOL ? BUILD2(Or) : BUILD2(Add))
OPERATION(SUB, is_float(o->t) ? BUILD2(FSub) : BUILD2(Sub))
OPERATION(MUL, is_float(o->t) ? real_product(e, o) : whole_product(e, o))
OPERATION(DIV, quotient(e, LP_DIV, o))
OPERATION(REM, quotient(e, LP_REM, o))
OPERATION(MIN, extreme(e, LP_MIN, o))
OPERATION(MAX, extreme(e, LP_MAX, o))
OPERATION(AND, ON_BITS(BUILD2(And)))
OPERATION(OR, united(e, o))
OPERATION(XOR, ON_BITS(BUILD2(Xor)))
OPERATION(SHL, shift(e, LP_SHL, o))
OPERATION(SHR, shift(e, LP_SHR, o))
OPERATION(SAR, shift(e, LP_SAR, o))
OPERATION(FLOORDIV, index_division(e, LP_FLOORDIV, o))
OPERATION(MOD, index_division(e, LP_MOD, o))
COMPARISON(EQ, OEQ, EQ, EQ)
COMPARISON(NE, UNE, NE, NE)
COMPARISON(LT, OLT, SLT, ULT)
COMPARISON(LE, OLE, SLE, ULE)
COMPARISON(GT, OGT, SGT, UGT)
COMPARISON(GE, OGE, SGE, UGE)
OPERATION(FMA, contracted(e, o))
OPERATION(FUSED, math(e, "llvm.fma", o))
OPERATION(SELECT, LLVMBuildSelect(e->builder, o->a, o->b, o->c, ""))
OPERATION(FAR, far_or_near(e, o->i, o->lanes, o->a, o->b, o->c))

LLVMValueRef op_emit(struct emitter *e, enum lp_op op, const struct operands *o)
{
    static LLVMValueRef (*const emit[LP_OP_COUNT])(struct emitter *, const struct operands *) = {
#define EMIT_LEAF(NAME)
#define EMIT_PLACED(NAME)
#define EMIT_PURE(NAME) [LP_##NAME] = emit_##NAME,
#define LP_OP(NAME, class, ...) EMIT_##class(NAME)
#include "loop/lp.def"
    };
    if (!emit[op]) emit_fail(e, "operation %d is not computed from operands", op);
    return emit[op](e, o);
}

LLVMValueRef op_binary(struct emitter *e, enum lp_op op, enum dtype t, uint32_t lanes, LLVMValueRef a,
                       LLVMValueRef b)
{
    return op_emit(e, op, &(struct operands){ .t = t, .lanes = lanes, .a = a, .b = b });
}

LLVMValueRef op_fold(struct emitter *e, enum lp_fold fold, enum dtype t, uint32_t lanes, LLVMValueRef a,
                     LLVMValueRef b)
{
    if (fold == FOLD_LAST) return b;
    return op_binary(e, lp_fold_op(fold), t, lanes, a, b);
}
