/* Expressions in emitted C. Values of a loop program come in, C99 expressions with exactly their meaning go
 * out: integers wrap, divisions and casts are guarded, NaN is handled as the loop program says. A pure value
 * that is used once in its own block is written where it is used. */
#include "emit/c99_impl.h"
#include "ir/number.h"

#include <math.h>

/* Deeper expressions are given names: compilers limit nesting, and so do readers. */
enum { DEEPEST_EXPRESSION = 6 };

#define NUMBER_TYPES \
    [DT_I8] = "int8_t", [DT_I16] = "int16_t", [DT_I32] = "int32_t", [DT_I64] = "int64_t", \
    [DT_U8] = "uint8_t", [DT_U16] = "uint16_t", [DT_U32] = "uint32_t", [DT_U64] = "uint64_t", \
    [DT_F16] = "uint16_t", [DT_BF16] = "uint16_t", [DT_F32] = "float", [DT_F64] = "double"
const char *const c99_type[DT_COUNT] = { [DT_BOOL] = "uint8_t", NUMBER_TYPES };
const char *const c99_value[DT_COUNT] = { [DT_BOOL] = "int", NUMBER_TYPES };

static const char *helper_of(struct c99 *e, const char *what, enum dtype t)
{
    return c99_helper(e->unit, arena_printf(e->arena, "%s_%s", what, dtype_info[t].name));
}
static bool is_address_op(enum lp_op op)
{
    return op == LP_ADD || op == LP_SUB || op == LP_MUL || op == LP_FLOORDIV || op == LP_MOD;
}

/* ---- counting ---- */

static void count_use(void *ctx, lpv v)
{
    struct c99 *e = ctx;
    e->uses[v]++;
    e->used_in[v] = e->block;
}

bool c99_is_dead(const struct c99 *e, const struct lp_stmt *s)
{
    if (s->kind == LP_CALL) return s->call->kind == CALL_RESERVE && e->o->capacity > 0;
    return (s->kind == LP_SET || s->kind == LP_ACCUM) && !e->local_read[s->target];
}

static void count_statements(struct c99 *e, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        e->block = block;
        if (s->kind == LP_LET) e->home[s->value] = block;
        else if (!c99_is_dead(e, s)) lp_stmt_uses(e->p, s, count_use, e);
        if (s->kind == LP_WHILE) e->used_in[s->value] = s->body;
        count_statements(e, s->body);
        count_statements(e, s->other);
    }
}

/* Operands are older than their readers, so one walk from the newest value counts all. Returns whether
 * another local turned out to be read. */
static bool count_operands(struct c99 *e)
{
    bool more = false;
    for (lpv v = e->p->instrs.len; v-- > 0;) {
        const struct lp_instr *i = &e->p->instrs.data[v];
        if (e->uses[v] && i->op == LP_VAR) e->var_used[i->imm] = true;
        if (!e->uses[v] || !e->home[v]) continue;
        uint32_t locals[2], n = lp_locals_read(i, locals);
        for (uint32_t k = 0; k < n; k++) {
            more |= !e->local_read[locals[k]];
            e->local_read[locals[k]] = true;
        }
        e->block = e->home[v];
        lp_stmt_uses(e->p, &(struct lp_stmt){ .kind = LP_LET, .value = v }, count_use, e);
    }
    return more;
}

static bool small_leaves(const struct c99 *e, lpv v)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    const int64_t far = (int64_t)1 << 48;
    if (lp_class((enum lp_op)i->op) == LEAF) return true;
    if (i->dtype == DT_I64 && is_address_op((enum lp_op)i->op))
        return small_leaves(e, i->a) && small_leaves(e, i->b);
    if (i->dtype != DT_I64) return false;
    struct lp_range range = lp_range(e->p, v);
    return range.lo > -far && range.hi < far;
}

static void mark_address(void *ctx, lpv v)
{
    struct c99 *e = ctx;
    const struct lp_instr *i = &e->p->instrs.data[v];
    if (i->dtype != DT_I64 || e->address[v]) return;
    if (!is_address_op((enum lp_op)i->op) || !small_leaves(e, v)) return;
    e->address[v] = true;
    mark_address(e, i->a);
    mark_address(e, i->b);
}

static void touch_buffer(void *ctx, uint32_t buffer, lpv index, bool writes)
{
    struct c99 *e = ctx;
    e->buffer_used[buffer] = true;
    e->buffer_read[buffer] |= !writes;
    if (index != LPV_NONE) mark_address(e, index);
}

static uint32_t expression_depth(const struct c99 *e, lpv v)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    if (lp_class((enum lp_op)i->op) != PURE || !e->in_place[v]) return 0;
    const lpv operands[3] = { i->a, i->b, i->c };
    uint32_t depth = 0;
    for (uint32_t k = 0; k < lp_arity((enum lp_op)i->op); k++) {
        uint32_t below = expression_depth(e, operands[k]);
        depth = HOP_MAX(depth, below);
    }
    return depth + 1;
}

/* A choice between computed values is a branch to a compiler that respects floating-point traps: both are
 * computed before it. */
static void keep_choices_apart(struct c99 *e, lpv v)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    bool chooses = i->op == LP_SELECT || i->op == LP_FAR;
    if (!chooses || !dtype_is_float((enum dtype)i->dtype)) return;
    e->in_place[i->b] = false;
    e->in_place[i->c] = false;
}

/* A pure value that is used once, in its own block, unless its expression would be too deep. */
static void choose_value(struct c99 *e, const struct lp_block *block, lpv v)
{
    keep_choices_apart(e, v);
    bool pure = lp_class((enum lp_op)e->p->instrs.data[v].op) == PURE;
    e->in_place[v] = pure && e->uses[v] == 1 && e->used_in[v] == block;
    if (e->in_place[v] && expression_depth(e, v) > DEEPEST_EXPRESSION) e->in_place[v] = false;
}

static void choose_in_place(struct c99 *e, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_FOR) {
            const lpv bounds[] = { s->lo, s->hi, s->step };
            for (uint32_t k = 0; k < HOP_COUNT(bounds); k++)
                if (bounds[k] != LPV_NONE) mark_address(e, bounds[k]);
        }
        if (s->kind == LP_LET && e->uses[s->value]) choose_value(e, block, s->value);
        if (!c99_is_dead(e, s) && (s->kind != LP_LET || e->uses[s->value]))
            lp_stmt_buffers(e->p, s, touch_buffer, e);
        choose_in_place(e, s->body);
        choose_in_place(e, s->other);
    }
}

void c99_count(struct c99 *e)
{
    do {
        memset(e->uses, 0, e->p->instrs.len * sizeof *e->uses);
        count_statements(e, e->p->root);
    } while (count_operands(e));
    choose_in_place(e, e->p->root);
}

/* ---- literals and names ---- */

static void put_real(struct text *out, double x, int digits, const char *suffix)
{
    char buffer[48];
    snprintf(buffer, sizeof buffer, "%.*g", digits, x);
    for (char *c = buffer; *c; c++)
        if (*c == ',') *c = '.'; /* another locale's decimal point */
    const char *point = strpbrk(buffer, ".e") ? "" : ".0";
    text_add(out, signbit(x) ? "(%s%s%s)" : "%s%s%s", buffer, point, suffix);
}

/* An f32 or an f64. */
static void put_float_bits(struct c99 *e, enum dtype t, uint64_t bits, bool constant)
{
    struct text *out = e->out;
    double x = element_real(t, &bits);
    bool single = t == DT_F32;
    if (isinf(x)) text_add(out, "%s%sINFINITY", x < 0 ? "-" : "", single ? "" : "(double)");
    else if (!isnan(x)) put_real(out, x, single ? 9 : 17, single ? "f" : "");
    else if (constant) text_str(out, "NAN");
    else if (single) text_add(out, "%s(0x%xu)", c99_helper(e->unit, "f32_of_bits"), (uint32_t)bits);
    else text_add(out, "%s(0x%llxull)", c99_helper(e->unit, "f64_of_bits"), (unsigned long long)bits);
}

void c99_put_bits(struct c99 *e, enum dtype t, uint64_t bits, bool constant)
{
    struct text *out = e->out;
    int64_t whole = element_whole(t, &bits);
    if (t == DT_BOOL) text_str(out, bits & 0xff ? "1" : "0");
    else if (dtype_is_narrow(t)) text_add(out, "0x%04xu", (unsigned)(uint16_t)bits);
    else if (t == DT_U64) text_add(out, "%lluu", (unsigned long long)bits);
    else if (dtype_info[t].kind == KIND_UINT) text_add(out, "%lluu", (unsigned long long)whole);
    else if (whole == INT32_MIN && t == DT_I32) text_str(out, "INT32_MIN");
    else if (whole == INT64_MIN && t == DT_I64) text_str(out, "INT64_MIN");
    else if (dtype_is_integer(t)) text_add(out, whole < 0 ? "(%lld)" : "%lld", (long long)whole);
    if (dtype_is_float(t) && !dtype_is_narrow(t)) put_float_bits(e, t, bits, constant);
}

/* Three digits to an escape, so that what follows is not taken for one; no trigraphs. */
void c99_put_string(struct text *out, const char *s)
{
    text_str(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') text_add(out, "\\%c", c);
        else if (c == '\n') text_str(out, "\\n");
        else if (c < 32 || c > 126 || c == '?') text_add(out, "\\%03o", c);
        else text_bytes(out, s, 1);
    }
    text_str(out, "\"");
}

/* No end of the comment, no line that goes on, none of the trigraphs that stand for either. */
void c99_put_comment(struct text *out, const char *s)
{
    for (; *s; s++) {
        bool plain = *s >= 32 && *s < 127 && !strchr("*/\\?", *s);
        text_bytes(out, plain ? s : "_", 1);
    }
}

void c99_put_lane(struct c99 *e, uint32_t local)
{
    text_add(e->out, "s_%u", local);
    if (e->p->locals.data[local].kind != LOCAL_LANES) return;
    if (e->lane_loop == HOP_NONE) text_str(e->out, "[0]");
    else text_add(e->out, "[l_%u]", e->lane_loop);
}

void c99_put_element(struct c99 *e, uint32_t buffer, lpv index)
{
    int64_t at;
    if (e->by_value[buffer]) {
        bool first = lp_is_const(e->p, index, &at) && !at;
        text_add(e->out, first ? "%s" : "(&%s)", e->buffer_name[buffer]);
        if (first) return;
    } else text_str(e->out, e->buffer_name[buffer]);
    text_str(e->out, "[");
    c99_put(e, index);
    text_str(e->out, "]");
}

void c99_put_pointer(struct c99 *e, uint32_t buffer, lpv index)
{
    int64_t at = 0;
    text_add(e->out, e->by_value[buffer] ? "&%s" : "%s", e->buffer_name[buffer]);
    if (index == LPV_NONE || (lp_is_const(e->p, index, &at) && !at)) return;
    text_str(e->out, " + ");
    c99_put(e, index);
}

/* ---- dims ---- */

static void put_dim_pair(struct c99 *e, const char *helper, const struct dim_node *n)
{
    text_add(e->out, "%s(", c99_helper(e->unit, helper));
    c99_put_dim(e, n->args[0]);
    text_str(e->out, ", ");
    c99_put_dim(e, n->args[1]);
    text_str(e->out, ")");
}

void c99_put_dim(struct c99 *e, dim d)
{
    struct dim_node n = dim_get(e->p->m, d);
    static const char *const pair[] = {
        [DIM_FLOORDIV] = "size_div", [DIM_MOD] = "size_mod", [DIM_MIN] = "min_i64", [DIM_MAX] = "max_i64"
    };
    switch ((enum dim_kind)n.kind) {
    case DIM_CONST: c99_put_bits(e, DT_I64, (uint64_t)n.value, true); return;
    case DIM_SYMBOL: text_str(e->out, e->symbol_name[n.value]); return;
    case DIM_SUM:
        text_str(e->out, "(");
        if (n.value) c99_put_bits(e, DT_I64, (uint64_t)n.value, true);
        for (uint32_t i = 0; i < n.n; i++) {
            if (i || n.value) text_str(e->out, " + ");
            if (n.coefs[i] != 1) {
                c99_put_bits(e, DT_I64, (uint64_t)n.coefs[i], true);
                text_str(e->out, " * ");
            }
            c99_put_dim(e, n.args[i]);
        }
        text_str(e->out, ")");
        return;
    case DIM_PRODUCT:
        text_str(e->out, "(");
        for (uint32_t i = 0; i < n.n; i++) {
            if (i) text_str(e->out, " * ");
            c99_put_dim(e, n.args[i]);
        }
        text_str(e->out, ")");
        return;
    default: put_dim_pair(e, pair[n.kind], &n); return;
    }
}

/* ---- operations ---- */

static void put_call(struct c99 *e, const char *function, const struct lp_instr *i, uint32_t n)
{
    const lpv operands[3] = { i->a, i->b, i->c };
    text_add(e->out, "%s(", function);
    for (uint32_t k = 0; k < n; k++) {
        if (k) text_str(e->out, ", ");
        c99_put(e, operands[k]);
    }
    text_str(e->out, ")");
}

static void put_infix(struct c99 *e, lpv a, const char *op, lpv b)
{
    text_str(e->out, "(");
    c99_put(e, a);
    text_add(e->out, " %s ", op);
    c99_put(e, b);
    text_str(e->out, ")");
}

static const char *unsigned_of(enum dtype t) { return dtype_info[t].size == 8 ? "uint64_t" : "uint32_t"; }
static enum dtype unsigned_dtype(enum dtype t)
{
    return dtype_info[t].kind == KIND_INT ? (enum dtype)(t - DT_I8 + DT_U8) : t;
}
_Static_assert(DT_I64 - DT_I8 == DT_U64 - DT_U8, "integers with and without sign stand in one order");
/* Does C compute in the type as it is? Shorter ones become int. */
static bool wraps_itself(enum dtype t) { return t == DT_U32 || t == DT_U64; }

/* Signed and short numbers wrap through unsigned ones. */
static void put_wrapped(struct c99 *e, enum dtype t, lpv a, const char *op, lpv b)
{
    if (wraps_itself(t)) {
        put_infix(e, a, op, b);
        return;
    }
    text_add(e->out, "(%s)((%s)", c99_type[t], unsigned_of(t));
    c99_put(e, a);
    text_add(e->out, " %s (%s)", op, unsigned_of(t));
    c99_put(e, b);
    text_str(e->out, ")");
}

static bool cannot_overflow(const struct c99 *e, lpv v)
{
    const int64_t far = (int64_t)1 << 62;
    if (e->p->instrs.data[v].dtype != DT_I64) return false;
    if (e->address[v]) return true;
    struct lp_range range = lp_range(e->p, v);
    return range.lo > -far && range.hi < far;
}

static void put_arithmetic(struct c99 *e, lpv v)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    enum dtype t = (enum dtype)i->dtype;
    const char *op = i->op == LP_ADD ? "+" : i->op == LP_SUB ? "-" : "*";
    if (t == DT_BOOL) put_infix(e, i->a, "&", i->b);
    else if (dtype_is_float(t) || cannot_overflow(e, v)) put_infix(e, i->a, op, i->b);
    else put_wrapped(e, t, i->a, op, i->b);
}

static void put_division(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    int64_t by;
    if (dtype_is_float(t) && i->op == LP_DIV) put_infix(e, i->a, "/", i->b);
    else if (dtype_is_float(t)) put_call(e, t == DT_F32 ? "fmodf" : "fmod", i, 2);
    else if (dtype_info[t].size >= 4 && lp_is_const(e->p, i->b, &by) && by > 0)
        put_infix(e, i->a, i->op == LP_DIV ? "/" : "%", i->b);
    else put_call(e, helper_of(e, i->op == LP_DIV ? "div" : "rem", t), i, 2);
}

static void put_index_division(struct c99 *e, const struct lp_instr *i)
{
    if (lp_range(e->p, i->a).lo >= 0) put_infix(e, i->a, i->op == LP_FLOORDIV ? "/" : "%", i->b);
    else put_call(e, c99_helper(e->unit, i->op == LP_FLOORDIV ? "floordiv" : "mod"), i, 2);
}

static void put_extreme(struct c99 *e, const struct lp_instr *i)
{
    if (i->dtype == DT_BOOL) put_infix(e, i->a, i->op == LP_MIN ? "&" : "|", i->b);
    else put_call(e, helper_of(e, i->op == LP_MIN ? "min" : "max", (enum dtype)i->dtype), i, 2);
}

static void put_shift(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    int64_t by, most = 8 * dtype_info[t].size - 1;
    bool is_short = dtype_info[t].size < 4;
    bool plain = wraps_itself(t) || i->op == LP_SAR;
    bool own = i->op == LP_SHR && is_short; /* a short sign bit is not copied */
    if (is_short || !plain) text_add(e->out, "(%s)", c99_type[t]);
    text_str(e->out, "(");
    if (!plain) text_add(e->out, "(%s)", own ? c99_type[unsigned_dtype(t)] : unsigned_of(t));
    c99_put(e, i->a);
    text_str(e->out, i->op == LP_SHL ? " << " : " >> ");
    if (lp_is_const(e->p, i->b, &by)) text_add(e->out, "%lld)", (long long)(by & most));
    else {
        text_str(e->out, "(");
        c99_put(e, i->b);
        text_add(e->out, " & %lld))", (long long)most);
    }
}

static void put_negation(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    if (i->op == LP_NOT) {
        if (dtype_info[t].size < 4 && t != DT_BOOL) text_add(e->out, "(%s)", c99_type[t]);
        text_str(e->out, t == DT_BOOL ? "(!" : "(~");
        c99_put(e, i->a);
        text_str(e->out, ")");
    } else if (dtype_is_float(t)) {
        text_str(e->out, "(-");
        c99_put(e, i->a);
        text_str(e->out, ")");
    } else {
        text_add(e->out, "(%s)(0u - (%s)", c99_type[t], unsigned_of(t));
        c99_put(e, i->a);
        text_str(e->out, ")");
    }
}

static void put_cast(struct c99 *e, const struct lp_instr *i)
{
    enum dtype from = lp_dtype(e->p, i->a), to = (enum dtype)i->dtype;
    if (dtype_is_narrow(to) || dtype_is_narrow(from)) { /* between f32 and f16 or bf16 */
        const char *helper = arena_printf(e->arena, "%s_to_%s", dtype_info[from].name, dtype_info[to].name);
        put_call(e, c99_helper(e->unit, helper), i, 1);
    } else if (to == DT_BOOL && from != DT_BOOL) {
        text_str(e->out, "(");
        c99_put(e, i->a);
        text_str(e->out, " != 0)");
    } else if (dtype_is_float(from) && !dtype_is_float(to))
        put_call(e, c99_helper(e->unit, arena_printf(e->arena, "to_%s", dtype_info[to].name)), i, 1);
    else {
        text_add(e->out, "(%s)", c99_value[to]);
        if (dtype_info[to].kind == KIND_INT && to != DT_I64 && from != DT_BOOL)
            text_add(e->out, "(%s)", c99_type[unsigned_dtype(to)]);
        c99_put(e, i->a);
    }
}

/* f16 and bf16 are bits already. */
static bool are_bits(enum dtype t) { return !dtype_is_float(t) || dtype_is_narrow(t); }

static void put_bitcast(struct c99 *e, const struct lp_instr *i)
{
    enum dtype from = lp_dtype(e->p, i->a), to = (enum dtype)i->dtype;
    bool bits = are_bits(to);
    bool from_bits = are_bits(from);
    if (bits && to != DT_U32) text_add(e->out, "(%s)", c99_value[to]);
    if (bits == from_bits) {
        if (to == DT_U32) text_str(e->out, "(uint32_t)");
        c99_put(e, i->a);
    } else if (dtype_is_float(from)) put_call(e, helper_of(e, "bits_of", from), i, 1);
    else {
        bool single = to == DT_F32;
        text_add(e->out, "%s(", c99_helper(e->unit, single ? "f32_of_bits" : "f64_of_bits"));
        if (from != DT_U32) text_str(e->out, single ? "(uint32_t)" : "(uint64_t)");
        c99_put(e, i->a);
        text_str(e->out, ")");
    }
}

/* Counted in 64 bits, without what the sign would fill them with. */
static void put_bit_count(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    text_add(e->out, "(%s)(%s((uint64_t)(%s)", c99_type[t],
             c99_helper(e->unit, i->op == LP_POPCOUNT ? "popcount" : "clz"), c99_type[unsigned_dtype(t)]);
    c99_put(e, i->a);
    text_add(e->out, ") - %d)", i->op == LP_POPCOUNT ? 0 : 64 - 8 * dtype_info[t].size);
}

static void put_select(struct c99 *e, const struct lp_instr *i)
{
    text_str(e->out, "(");
    c99_put(e, i->a);
    text_str(e->out, " ? ");
    c99_put(e, i->b);
    text_str(e->out, " : ");
    c99_put(e, i->c);
    text_str(e->out, ")");
}

static void put_far(struct c99 *e, const struct lp_instr *i)
{
    text_str(e->out, "(");
    c99_put(e, i->a);
    text_add(e->out, " ? %s%s(%d, ", i->dtype == DT_F32 ? "(float)" : "", c99_helper(e->unit, "far"),
             (int)i->imm);
    c99_put(e, i->b);
    text_str(e->out, ") : ");
    c99_put(e, i->c);
    text_str(e->out, ")");
}

void c99_put_definition(struct c99 *e, lpv v)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    static const char *const compare[] = {
        [LP_EQ] = "==", [LP_NE] = "!=", [LP_LT] = "<", [LP_LE] = "<=", [LP_GT] = ">", [LP_GE] = ">="
    };
    enum dtype t = (enum dtype)i->dtype;
    bool narrow = t == DT_F32;
    switch ((enum lp_op)i->op) {
    case LP_CONST: c99_put_bits(e, t, i->bits, false); return;
    case LP_SYMBOL: text_str(e->out, e->symbol_name[i->imm]); return;
    case LP_VAR: text_add(e->out, "i_%u", (uint32_t)i->imm); return;
    case LP_READ: c99_put_lane(e, (uint32_t)i->imm); return;
    case LP_LOAD: c99_put_element(e, (uint32_t)i->imm, i->a); return;
    case LP_FOLD: {
        const char *fold = arena_printf(e->arena, "fold_%s", lp_fold_word((enum lp_fold)i->b));
        text_add(e->out, "%s(s_%u)", helper_of(e, fold, t), (uint32_t)i->imm);
        return;
    }
    case LP_FIRST: break; /* a statement */
    case LP_ABS:
        if (dtype_info[t].kind == KIND_UINT) c99_put(e, i->a);
        else if (dtype_is_float(t)) put_call(e, narrow ? "fabsf" : "fabs", i, 1);
        else put_call(e, helper_of(e, "abs", t), i, 1);
        return;
    case LP_SQRT: put_call(e, narrow ? "sqrtf" : "sqrt", i, 1); return;
    case LP_FLOOR: put_call(e, narrow ? "floorf" : "floor", i, 1); return;
    case LP_CEIL: put_call(e, narrow ? "ceilf" : "ceil", i, 1); return;
    case LP_TRUNC: put_call(e, narrow ? "truncf" : "trunc", i, 1); return;
    case LP_ROUND: put_call(e, narrow ? "rintf" : "rint", i, 1); return;
    case LP_POPCOUNT:
    case LP_CLZ: put_bit_count(e, i); return;
    case LP_NEG:
    case LP_NOT: put_negation(e, i); return;
    case LP_CAST: put_cast(e, i); return;
    case LP_BITCAST: put_bitcast(e, i); return;
    case LP_ADD:
    case LP_SUB:
    case LP_MUL: put_arithmetic(e, v); return;
    case LP_DIV:
    case LP_REM: put_division(e, i); return;
    case LP_FLOORDIV:
    case LP_MOD: put_index_division(e, i); return;
    case LP_MIN:
    case LP_MAX: put_extreme(e, i); return;
    case LP_AND: put_infix(e, i->a, "&", i->b); return;
    case LP_OR: put_infix(e, i->a, "|", i->b); return;
    case LP_XOR: put_infix(e, i->a, "^", i->b); return;
    case LP_SHL:
    case LP_SHR:
    case LP_SAR: put_shift(e, i); return;
    case LP_EQ:
    case LP_NE:
    case LP_LT:
    case LP_LE:
    case LP_GT:
    case LP_GE: put_infix(e, i->a, compare[i->op], i->b); return;
    case LP_FMA: put_call(e, helper_of(e, "fma", t), i, 3); return;
    case LP_FUSED: put_call(e, narrow ? "fmaf" : "fma", i, 3); return;
    case LP_SELECT: put_select(e, i); return;
    case LP_FAR: put_far(e, i); return;
    }
    hop_throw(HOP_INTERNAL, "C99: an operation %d", i->op);
}

void c99_put(struct c99 *e, lpv v)
{
    if (lp_class((enum lp_op)e->p->instrs.data[v].op) == LEAF || e->in_place[v]) c99_put_definition(e, v);
    else text_add(e->out, "v_%u", v);
}

/* The local combined with a value, by a fold. */
void c99_put_fold(struct c99 *e, enum lp_fold fold, enum dtype t, void (*left)(struct c99 *, uint32_t),
                  uint32_t local, lpv right)
{
    if (fold == FOLD_LAST) {
        c99_put(e, right);
        return;
    }
    bool bits = fold == FOLD_AND || fold == FOLD_OR || t == DT_BOOL;
    bool arithmetic = fold == FOLD_SUM || fold == FOLD_PROD;
    bool wraps = arithmetic && dtype_is_integer(t) && !wraps_itself(t);
    bool call = !bits && !arithmetic;
    if (call) text_add(e->out, "%s(", helper_of(e, lp_fold_word(fold), t));
    if (wraps) text_add(e->out, "(%s)((%s)", c99_type[t], unsigned_of(t));
    left(e, local);
    if (call) text_str(e->out, ", ");
    else if (bits) text_str(e->out, fold == FOLD_AND || fold == FOLD_MIN ? " & " : " | ");
    else text_str(e->out, fold == FOLD_PROD ? " * " : " + ");
    if (wraps) text_add(e->out, "(%s)", unsigned_of(t));
    c99_put(e, right);
    if (wraps || call) text_str(e->out, ")");
}
