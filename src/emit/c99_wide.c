/* Vector loops in the vector types of GCC and clang. Statements of a loop that c99_vector.c has chosen come
 * in; text goes out that computes all lanes of a vector at once, for several vectors side by side. Values
 * that are the same in all lanes stay scalars, and so do indices, which are those of lane 0. */
#include "emit/c99_vector.h"

static const char *const class_letter[] = { "a", "b" };
static const char *const class_lanes[] = { "HOP_LANES_A", "HOP_LANES_B" };

const char *c99_guard(bool widest) { return widest ? "HOP_VECTOR_WIDEST" : "HOP_VECTOR_BYTES"; }

static const struct lp_instr *instr(const struct c99 *e, lpv v) { return &e->p->instrs.data[v]; }
static enum c99_wide_class class_now(const struct c99 *e)
{
    return (enum c99_wide_class)e->vectors->now.loop->class;
}
static const char *lanes_now(const struct c99 *e) { return class_lanes[class_now(e)]; }
static void put_indent(struct c99 *e, uint32_t indent) { text_add(e->out, "%*s", (int)(4 * indent), ""); }

/* "f32a": an element of vector code and its class. */
static const char *name_of(struct c99 *e, enum dtype t, enum c99_wide_class class)
{
    c99_use_vector(e->unit, t, class);
    return arena_printf(e->arena, "%s%s", dtype_info[t].name, class_letter[class]);
}
static const char *name_now(struct c99 *e, enum dtype t)
{
    return name_of(e, c99_wide_dtype(t, class_now(e)), class_now(e));
}
static const char *mask_name(struct c99 *e) { return name_now(e, DT_BOOL); }
static enum dtype dtype_of(const struct c99 *e, lpv v) { return lp_dtype(e->p, v); }

static enum dtype signed_of(enum dtype t)
{
    static const uint8_t by_size[] = { [1] = DT_I8, [2] = DT_I16, [4] = DT_I32, [8] = DT_I64 };
    return (enum dtype)by_size[dtype_info[t].size];
}
static enum dtype unsigned_of(enum dtype t)
{
    static const uint8_t by_size[] = { [1] = DT_U8, [2] = DT_U16, [4] = DT_U32, [8] = DT_U64 };
    return (enum dtype)by_size[dtype_info[t].size];
}

static void put_wide(struct c99 *e, lpv v);

/* ---- lanes that are told apart ---- */

static bool is_partial(const struct c99 *e)
{
    const struct c99_wide *w = &e->vectors->now;
    return w->partial && w->part >= w->whole;
}

/* How many lanes of this part count. */
static void put_count(struct c99 *e)
{
    const struct c99_wide *w = &e->vectors->now;
    if (is_partial(e)) text_add(e->out, "n_%u_%u", w->loop->stmt->target, w->part);
    else text_str(e->out, lanes_now(e));
}

/* By how much an affine value grows from lane to lane. */
static void put_stride(struct c99 *e, lpv v)
{
    const struct lp_instr *i = instr(e, v);
    int64_t stride;
    if (c99_stride(e, v, &stride)) {
        text_add(e->out, stride < 0 ? "(%lld)" : "%lld", (long long)stride);
        return;
    }
    text_str(e->out, "(");
    if (i->op == LP_NEG) {
        text_str(e->out, "-");
        put_stride(e, i->a);
    } else if (i->op == LP_MUL) {
        bool left = c99_kind_of(e, i->a) == KIND_AFFINE;
        put_stride(e, left ? i->a : i->b);
        text_str(e->out, " * ");
        c99_put(e, left ? i->b : i->a);
    } else {
        put_stride(e, i->a);
        text_str(e->out, i->op == LP_ADD ? " + " : " - ");
        put_stride(e, i->b);
    }
    text_str(e->out, ")");
}

/* An affine value in lane 0 of this part. */
static void put_first(struct c99 *e, lpv v)
{
    uint32_t part = e->vectors->now.part;
    c99_put(e, v);
    if (!part) return;
    int64_t stride;
    if (c99_stride(e, v, &stride) && stride == 1) text_add(e->out, " + %u * %s", part, lanes_now(e));
    else {
        text_add(e->out, " + %u * %s * ", part, lanes_now(e));
        put_stride(e, v);
    }
}

/* A function of the unit that works lane by lane on x, y and z. */
static const char *lane_function(struct c99 *e, const char *what, enum dtype result, uint32_t n,
                                 const enum dtype *operands, const char *lane)
{
    static const char *const names[] = { "x", "y", "z" };
    const char *to = name_now(e, result);
    const char *name = arena_printf(e->arena, "hop_lanes_%s_%s_%s", what, name_now(e, operands[0]), to);
    struct c99_unit *unit = e->unit;
    if (!c99_new_lane_function(unit, name)) return name;
    text_add(&unit->lane_text, "HOP_VECTOR_FN hop_%s %s(", to, name);
    for (uint32_t k = 0; k < n; k++)
        text_add(&unit->lane_text, "%shop_%s %s", k ? ", " : "", name_now(e, operands[k]), names[k]);
    text_add(&unit->lane_text,
             ")\n{\n    hop_%s r = { 0 };\n    for (int l = 0; l < %s; l++) r[l] = %s;\n    return r;\n}\n",
             to, lanes_now(e), lane);
    return name;
}

static void put_wide_call(struct c99 *e, const char *function, const struct lp_instr *i, uint32_t n)
{
    const lpv operands[3] = { i->a, i->b, i->c };
    text_add(e->out, "%s(", function);
    for (uint32_t k = 0; k < n; k++) {
        if (k) text_str(e->out, ", ");
        put_wide(e, operands[k]);
    }
    text_str(e->out, ")");
}

static void put_by_lanes(struct c99 *e, const char *what, const struct lp_instr *i, uint32_t n,
                         const char *lane)
{
    const lpv operands[3] = { i->a, i->b, i->c };
    enum dtype types[3] = { DT_F32, DT_F32, DT_F32 };
    for (uint32_t k = 0; k < n; k++) types[k] = dtype_of(e, operands[k]);
    put_wide_call(e, lane_function(e, what, (enum dtype)i->dtype, n, types, lane), i, n);
}

/* ---- operations ---- */

static void put_pair(struct c99 *e, lpv a, const char *op, lpv b, const char *as)
{
    text_str(e->out, "(");
    if (as) text_add(e->out, "(hop_%s)", as);
    put_wide(e, a);
    text_add(e->out, " %s ", op);
    if (as) text_add(e->out, "(hop_%s)", as);
    put_wide(e, b);
    text_str(e->out, ")");
}

static void put_wide_arithmetic(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = c99_wide_dtype((enum dtype)i->dtype, class_now(e));
    const char *op = i->op == LP_ADD ? "+" : i->op == LP_SUB ? "-" : "*";
    if (i->dtype == DT_BOOL) put_pair(e, i->a, "&", i->b, NULL);
    else if (dtype_is_float(t) || dtype_info[t].kind == KIND_UINT) put_pair(e, i->a, op, i->b, NULL);
    else {
        text_add(e->out, "(hop_%s)", name_of(e, t, class_now(e)));
        put_pair(e, i->a, op, i->b, name_of(e, unsigned_of(t), class_now(e)));
    }
}

static bool is_power(int64_t x, int *exponent)
{
    for (*exponent = 0; *exponent < 31; ++*exponent)
        if (x == (int64_t)1 << *exponent) return true;
    return false;
}

/* Divisions of integers have no vector form, but for those of natural numbers by powers of 2. */
static void put_wide_division(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    bool quotient = i->op == LP_DIV || i->op == LP_FLOORDIV;
    bool natural = dtype_info[t].kind == KIND_UINT || (t == DT_I64 && lp_range(e->p, i->a).lo >= 0);
    int64_t by;
    int exponent;
    if (dtype_is_float(t) && quotient) {
        put_pair(e, i->a, "/", i->b, NULL);
        return;
    }
    if (!dtype_is_float(t) && natural && lp_is_const(e->p, i->b, &by) && is_power(by, &exponent)) {
        const char *set = name_now(e, t);
        text_str(e->out, "(");
        put_wide(e, i->a);
        if (quotient) text_add(e->out, " >> hop_set_%s(%d))", set, exponent);
        else text_add(e->out, " & hop_set_%s(%lld))", set, (long long)(by - 1));
        return;
    }
    const char *what, *scalar;
    if (dtype_is_float(t)) {
        what = "fmod";
        scalar = t == DT_F32 ? "fmodf" : "fmod";
    } else if (i->op == LP_DIV || i->op == LP_REM) {
        what = i->op == LP_DIV ? "div" : "rem";
        scalar = c99_helper(e->unit, arena_printf(e->arena, "%s_%s", what, dtype_info[t].name));
    } else {
        what = i->op == LP_FLOORDIV ? "floordiv" : "mod";
        scalar = c99_helper(e->unit, what);
    }
    if (t == DT_I64 && class_now(e) == WIDE_A) scalar = arena_printf(e->arena, "(int32_t)%s", scalar);
    bool index = i->op == LP_FLOORDIV || i->op == LP_MOD; /* a lane that does not count may divide by 0 */
    const char *lane = arena_printf(e->arena, index ? "%s(x[l], y[l] ? y[l] : 1)" : "%s(x[l], y[l])", scalar);
    put_by_lanes(e, what, i, 2, lane);
}

static void put_wide_comparison(struct c99 *e, const struct lp_instr *i, const char *op)
{
    enum dtype t = c99_wide_dtype(dtype_of(e, i->a), class_now(e));
    const char *mask = mask_name(e);
    bool swapped = dtype_of(e, i->a) == DT_BOOL; /* true is -1 */
    bool same = dtype_info[t].size == (class_now(e) == WIDE_A ? 4 : 8);
    if (same) text_add(e->out, "(hop_%s)", mask);
    else text_add(e->out, "__builtin_convertvector((hop_%s)", name_of(e, signed_of(t), class_now(e)));
    put_pair(e, swapped ? i->b : i->a, op, swapped ? i->a : i->b, NULL);
    if (!same) text_add(e->out, ", hop_%s)", mask);
}

/* a + s l < b + t l where (s - t) l < b - a, which is small or decided by its sign. */
static bool put_index_comparison(struct c99 *e, const struct lp_instr *i, const char *op)
{
    int64_t a, b;
    bool indices = dtype_of(e, i->a) == DT_I64 && c99_kind_of(e, i->a) != KIND_VARYING &&
                   c99_kind_of(e, i->b) != KIND_VARYING;
    if (!indices || !c99_stride(e, i->a, &a) || !c99_stride(e, i->b, &b)) return false;
    if (a - b <= -1024 || a - b >= 1024) return false;
    const char *mask = mask_name(e);
    text_add(e->out, "(hop_%s)(hop_range_%s(0, %lld) %s hop_set_%s(hop_near((", mask, mask,
             (long long)(a - b), op, mask);
    put_first(e, i->b);
    text_str(e->out, ") - (");
    put_first(e, i->a);
    text_str(e->out, "))))");
    return true;
}

static void put_wide_shift(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = c99_wide_dtype((enum dtype)i->dtype, class_now(e));
    const char *own = name_of(e, t, class_now(e));
    const char *as = i->op == LP_SAR ? own : name_of(e, unsigned_of(t), class_now(e));
    int64_t by, most = 8 * dtype_info[t].size - 1;
    text_add(e->out, "(hop_%s)((hop_%s)", own, as);
    put_wide(e, i->a);
    text_str(e->out, i->op == LP_SHL ? " << " : " >> ");
    if (lp_is_const(e->p, i->b, &by)) text_add(e->out, "hop_set_%s(%lld))", as, (long long)(by & most));
    else {
        text_add(e->out, "((hop_%s)", as);
        put_wide(e, i->b);
        text_add(e->out, " & hop_set_%s(%lld)))", as, (long long)most);
    }
}

static void put_wide_extreme(struct c99 *e, const struct lp_instr *i)
{
    bool least = i->op == LP_MIN;
    if (i->dtype == DT_BOOL) {
        put_pair(e, i->a, least ? "&" : "|", i->b, NULL);
        return;
    }
    const char *name = name_now(e, (enum dtype)i->dtype);
    put_wide_call(e, arena_printf(e->arena, "hop_%s_%s", least ? "min" : "max", name), i, 2);
}

static void put_wide_negation(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = c99_wide_dtype((enum dtype)i->dtype, class_now(e));
    bool wraps = i->op == LP_NEG && !dtype_is_float(t);
    text_str(e->out, "(");
    if (wraps) text_add(e->out, "(hop_%s)", name_of(e, t, class_now(e)));
    text_str(e->out, i->op == LP_NOT ? "~" : "-");
    if (wraps) text_add(e->out, "(hop_%s)", name_of(e, unsigned_of(t), class_now(e)));
    put_wide(e, i->a);
    text_str(e->out, ")");
}

static void put_wide_cast(struct c99 *e, const struct lp_instr *i)
{
    enum dtype from = dtype_of(e, i->a), to = (enum dtype)i->dtype;
    const char *name = name_now(e, to);
    if (dtype_is_narrow(to) || dtype_is_narrow(from)) { /* between f32 and f16 or bf16 */
        const char *what = arena_printf(e->arena, "%s_to_%s", dtype_info[from].name, dtype_info[to].name);
        put_by_lanes(e, what, i, 1, arena_printf(e->arena, "%s(x[l])", c99_helper(e->unit, what)));
    } else if (to == DT_BOOL && from != DT_BOOL) {
        enum dtype t = c99_wide_dtype(from, class_now(e));
        text_add(e->out, "__builtin_convertvector((hop_%s)(", name_of(e, signed_of(t), class_now(e)));
        put_wide(e, i->a);
        text_add(e->out, " != hop_set_%s(0)), hop_%s)", name_now(e, from), name);
    } else if (dtype_is_float(from) && !dtype_is_float(to)) {
        const char *what = arena_printf(e->arena, "to_%s", dtype_info[to].name);
        const char *narrowed = to == DT_I64 && class_now(e) == WIDE_A ? "(int32_t)" : "";
        put_by_lanes(e, what, i, 1,
                     arena_printf(e->arena, "%s%s(x[l])", narrowed, c99_helper(e->unit, what)));
    } else {
        text_add(e->out, "__builtin_convertvector(%s", from == DT_BOOL && to != DT_BOOL ? "-" : "");
        put_wide(e, i->a);
        text_add(e->out, ", hop_%s)", name);
    }
}

/* Counted in 64 bits, without what the sign would fill them with. */
static void put_wide_bit_count(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    const char *what = i->op == LP_POPCOUNT ? "popcount" : "clz";
    const char *lane = arena_printf(e->arena, "(%s)(%s((uint64_t)(%s)x[l]) - %d)", c99_type[t],
                                    c99_helper(e->unit, what), c99_type[unsigned_of(t)],
                                    i->op == LP_POPCOUNT ? 0 : 64 - 8 * dtype_info[t].size);
    put_by_lanes(e, what, i, 1, lane);
}

/* Where a choice alone asks for it, a comparison is a flag for each lane instead of a mask: processors have
 * those, and compilers see them in masks only sometimes. */
static bool is_flag(const struct c99 *e, lpv v)
{
    const struct lp_instr *i = instr(e, v);
    enum lp_op op = (enum lp_op)i->op;
    if (c99_kind_of(e, v) != KIND_VARYING || !e->in_place[v]) return false;
    if (op == LP_AND || op == LP_OR) return is_flag(e, i->a) || is_flag(e, i->b);
    if (!lp_is_comparison(op) || dtype_of(e, i->a) == DT_BOOL) return false;
    bool indices = c99_kind_of(e, i->a) != KIND_VARYING && c99_kind_of(e, i->b) != KIND_VARYING;
    return !indices && dtype_info[c99_wide_dtype(dtype_of(e, i->a), class_now(e))].size >= 4;
}

static void put_flag(struct c99 *e, lpv v)
{
    static const char *const words[] = {
        [LP_EQ] = "eq", [LP_NE] = "ne", [LP_LT] = "lt", [LP_LE] = "le", [LP_GT] = "gt", [LP_GE] = "ge"
    };
    const struct lp_instr *i = instr(e, v);
    if (!is_flag(e, v)) {
        text_add(e->out, "hop_flags_%s(", class_letter[class_now(e)]);
        put_wide(e, v);
        text_str(e->out, ")");
    } else if (lp_is_comparison((enum lp_op)i->op)) {
        const char *compared = name_now(e, dtype_of(e, i->a));
        put_wide_call(e, arena_printf(e->arena, "hop_%s_%s", words[i->op], compared), i, 2);
    } else {
        text_str(e->out, "(");
        put_flag(e, i->a);
        text_str(e->out, i->op == LP_AND ? " & " : " | ");
        put_flag(e, i->b);
        text_str(e->out, ")");
    }
}

static void put_wide_select(struct c99 *e, const struct lp_instr *i)
{
    enum dtype t = c99_wide_dtype((enum dtype)i->dtype, class_now(e));
    bool flags = i->dtype != DT_BOOL && dtype_info[t].size >= 4 && is_flag(e, i->a);
    text_add(e->out, "hop_%s_%s(", flags ? "pick" : "select", name_of(e, t, class_now(e)));
    if (flags) put_flag(e, i->a);
    else put_wide(e, i->a);
    text_str(e->out, ", ");
    put_wide(e, i->b);
    text_str(e->out, ", ");
    put_wide(e, i->c);
    text_str(e->out, ")");
}

static void put_wide_far(struct c99 *e, const struct lp_instr *i)
{
    c99_helper(e->unit, "far");
    e->unit->has_far = true;
    text_add(e->out, "hop_far_%s(", name_now(e, (enum dtype)i->dtype));
    put_flag(e, i->a);
    text_add(e->out, ", %d, ", (int)i->imm);
    put_wide(e, i->b);
    text_str(e->out, ", ");
    put_wide(e, i->c);
    text_str(e->out, ")");
}

/* ---- memory ---- */

static void put_pointer_to(struct c99 *e, uint32_t buffer, lpv index, bool first)
{
    text_str(e->out, e->buffer_name[buffer]);
    if (!first) return;
    text_str(e->out, " + ");
    put_first(e, index);
}

/* An index that runs along memory but for a clamp at one end or both, as arrays put together from pieces are
 * read. */
static bool is_clamped(const struct c99 *e, lpv v, bool within)
{
    const struct lp_instr *i = instr(e, v);
    int64_t stride;
    if (c99_kind_of(e, v) == KIND_AFFINE) return within && c99_stride(e, v, &stride) && stride == 1;
    bool sum = i->op == LP_ADD || i->op == LP_SUB, clamp = i->op == LP_MIN || i->op == LP_MAX;
    if (c99_kind_of(e, v) == KIND_UNIFORM || i->dtype != DT_I64 || (!sum && !clamp)) return false;
    bool swapped = i->op != LP_SUB && c99_kind_of(e, i->a) == KIND_UNIFORM;
    if (c99_kind_of(e, swapped ? i->a : i->b) != KIND_UNIFORM) return false;
    return is_clamped(e, swapped ? i->b : i->a, true);
}

/* Where lane 0 would be without the clamps. */
static void put_unclamped(struct c99 *e, lpv v)
{
    const struct lp_instr *i = instr(e, v);
    if (c99_kind_of(e, v) == KIND_AFFINE) {
        put_first(e, v);
        return;
    }
    bool swapped = i->op != LP_SUB && c99_kind_of(e, i->a) == KIND_UNIFORM;
    put_unclamped(e, swapped ? i->b : i->a);
    if (i->op == LP_MIN || i->op == LP_MAX) return;
    text_str(e->out, i->op == LP_ADD ? " + " : " - ");
    c99_put(e, swapped ? i->a : i->b);
}

/* Does a clamp hold lanes of such an index at a least place, or at a largest one? */
static bool is_bounded(const struct c99 *e, lpv v, bool above)
{
    const struct lp_instr *i = instr(e, v);
    if (c99_kind_of(e, v) == KIND_AFFINE) return false;
    bool swapped = i->op != LP_SUB && c99_kind_of(e, i->a) == KIND_UNIFORM;
    return i->op == (above ? LP_MIN : LP_MAX) || is_bounded(e, swapped ? i->b : i->a, above);
}

/* That place. A clamp moves both of what is inside of it. */
static void put_bound(struct c99 *e, lpv v, bool above)
{
    const struct lp_instr *i = instr(e, v);
    if (!is_bounded(e, v, above)) {
        text_str(e->out, above ? "HOP_ANYWHERE" : "-HOP_ANYWHERE");
        return;
    }
    bool swapped = i->op != LP_SUB && c99_kind_of(e, i->a) == KIND_UNIFORM;
    bool clamp = i->op == LP_MIN || i->op == LP_MAX, both = is_bounded(e, swapped ? i->b : i->a, above);
    if (clamp && both) text_add(e->out, "%s(", c99_helper(e->unit, i->op == LP_MIN ? "min_i64" : "max_i64"));
    if (both) put_bound(e, swapped ? i->b : i->a, above);
    if (both) text_str(e->out, clamp ? ", " : i->op == LP_ADD ? " + " : " - ");
    c99_put(e, swapped ? i->a : i->b);
    if (clamp && both) text_str(e->out, ")");
}

/* Elements at a distance that vectors of indices can say; processors that load and store at such know the
 * size of a class's elements alone. */
static bool is_spread(const struct c99 *e, lpv index, enum dtype t)
{
    int64_t stride;
    if (dtype_info[t].size != (class_now(e) == WIDE_A ? 4 : 8) || !c99_stride(e, index, &stride))
        return false;
    return stride != 1 && stride > -1048576 && stride < 1048576;
}

/* Elements a few places apart, or beside each other backwards: whole vectors are loaded, lanes picked. */
static bool is_apart(const struct c99 *e, lpv index)
{
    int64_t stride;
    if (is_partial(e) || c99_kind_of(e, index) == KIND_VARYING) return false;
    return c99_stride(e, index, &stride) &&
           (stride == -1 || (stride >= 2 && stride <= C99_MOST_APART(class_now(e))));
}

static void put_apart(struct c99 *e, uint32_t buffer, lpv index, enum dtype t)
{
    int64_t stride;
    c99_stride(e, index, &stride);
    text_add(e->out, "%s(", c99_apart(e->unit, t, class_now(e), (int)stride));
    put_pointer_to(e, buffer, index, true);
    text_str(e->out, ")");
}

/* Behind the place of lane 0: where the others are, as indices or as a stride. */
static void put_distance(struct c99 *e, lpv index, bool spread)
{
    if (spread) text_add(e->out, "hop_range_%s(0, ", mask_name(e));
    put_stride(e, index);
    if (spread) text_str(e->out, ")");
}

static void put_wide_load(struct c99 *e, const struct lp_instr *i)
{
    uint32_t buffer = (uint32_t)i->imm;
    bool truth = i->dtype == DT_BOOL;
    enum dtype t = truth ? DT_U8 : (enum dtype)i->dtype;
    const char *name = name_of(e, t, class_now(e));
    bool varying = c99_kind_of(e, i->a) == KIND_VARYING;
    int64_t stride;
    bool beside = !varying && c99_stride(e, i->a, &stride) && stride == 1;
    bool clamped = varying && is_clamped(e, i->a, false);
    if (truth) text_add(e->out, "hop_truth_%s(", class_letter[class_now(e)]);
    if (is_apart(e, i->a)) {
        put_apart(e, buffer, i->a, t);
        if (truth) text_str(e->out, ")");
        return;
    }
    bool spread = !varying && is_partial(e) && is_spread(e, i->a, t);
    if (beside) text_add(e->out, "hop_%s_%s(", is_partial(e) ? "part" : "load", name);
    else text_add(e->out, "hop_%s_%s(", clamped ? "run" : varying || spread ? "gather" : "step", name);
    put_pointer_to(e, buffer, i->a, !varying);
    if (clamped) {
        text_str(e->out, ", ");
        put_unclamped(e, i->a);
        text_str(e->out, ", ");
        put_bound(e, i->a, false);
        text_str(e->out, ", ");
        put_bound(e, i->a, true);
    }
    if (!beside && !clamped) text_str(e->out, ", ");
    if (varying && !clamped) put_wide(e, i->a);
    else if (!varying && !beside) put_distance(e, i->a, spread);
    if (!beside || is_partial(e)) {
        text_str(e->out, ", ");
        put_count(e);
    }
    text_str(e->out, truth ? "))" : ")");
}

/* Does the loop write all of a temporary, from its first element on? Then its last vector may reach into the
 * room behind the elements: a load of what was stored whole need not wait for the store to be done. */
static bool has_room(const struct c99 *e, const struct lp_stmt *s)
{
    const struct lp_buffer *buffer = &e->p->buffers.data[s->target];
    const struct c99_loop *l = e->vectors->now.loop;
    const struct lp_instr *index = instr(e, s->index);
    int64_t first;
    bool temporary = buffer->kind == BUF_LOCAL || (buffer->kind == BUF_TEMP && !e->workspace);
    bool all = l->extent >= 0 && l->extent == buffer->static_count &&
               lp_is_const(e->p, l->stmt->lo, &first) && !first;
    return temporary && all && index->op == LP_VAR && (uint32_t)index->imm == l->stmt->target;
}

static void put_wide_store(struct c99 *e, const struct lp_stmt *s)
{
    enum dtype t = (enum dtype)e->p->buffers.data[s->target].dtype;
    bool truth = t == DT_BOOL;
    const char *name = name_of(e, truth ? DT_U8 : t, class_now(e));
    bool varying = c99_kind_of(e, s->index) == KIND_VARYING;
    int64_t stride;
    bool beside = !varying && c99_stride(e, s->index, &stride) && stride == 1;
    bool spread = !varying && is_spread(e, s->index, t);
    bool part = beside && is_partial(e) && !has_room(e, s);
    const char *how = varying || spread ? "scatter" : !beside ? "store_step" : part ? "store_part" : "store";
    text_add(e->out, "hop_%s_%s(", how, name);
    put_pointer_to(e, s->target, s->index, !varying);
    text_str(e->out, ", ");
    if (varying) put_wide(e, s->index);
    else if (!beside) put_distance(e, s->index, spread);
    if (!beside) text_str(e->out, ", ");
    if (truth) text_add(e->out, "hop_bytes_%s(", class_letter[class_now(e)]);
    put_wide(e, s->value);
    if (truth) text_str(e->out, ")");
    if (!beside || part) {
        text_str(e->out, ", ");
        put_count(e);
    }
    text_str(e->out, ");\n");
}

/* ---- values ---- */

static uint32_t accumulator_of(const struct c99 *e, uint32_t local)
{
    return e->vectors->now.part % e->vectors->locals[local].parts;
}

static void put_wide_local(struct c99 *e, uint32_t local)
{
    if (e->p->locals.data[local].kind == LOCAL_LANES)
        text_add(e->out, "s_%u_%u", local, accumulator_of(e, local));
    else text_add(e->out, "w_%u_%u", local, e->vectors->now.part);
}

static void put_wide_definition(struct c99 *e, lpv v)
{
    static const char *const compare[] = {
        [LP_EQ] = "==", [LP_NE] = "!=", [LP_LT] = "<", [LP_LE] = "<=", [LP_GT] = ">", [LP_GE] = ">="
    };
    static const char *const by_name[LP_OP_COUNT] = {
        [LP_ABS] = "abs",     [LP_SQRT] = "sqrt",  [LP_FLOOR] = "floor", [LP_CEIL] = "ceil",
        [LP_TRUNC] = "trunc", [LP_ROUND] = "rint", [LP_FMA] = "fma",     [LP_FUSED] = "fused"
    };
    const struct lp_instr *i = instr(e, v);
    enum lp_op op = (enum lp_op)i->op;
    enum dtype t = (enum dtype)i->dtype;
    switch (op) {
    case LP_CONST:
    case LP_SYMBOL:
    case LP_VAR:
    case LP_FOLD:
    case LP_FIRST: break; /* not varying */
    case LP_READ: put_wide_local(e, (uint32_t)i->imm); return;
    case LP_LOAD: put_wide_load(e, i); return;
    case LP_ABS:
        if (dtype_info[t].kind == KIND_UINT) {
            put_wide(e, i->a);
            return;
        } /* fall through */
    case LP_SQRT:
    case LP_FLOOR:
    case LP_CEIL:
    case LP_TRUNC:
    case LP_ROUND:
    case LP_FMA:
    case LP_FUSED:
        put_wide_call(e, arena_printf(e->arena, "hop_%s_%s", by_name[op], name_now(e, t)), i, lp_arity(op));
        return;
    case LP_POPCOUNT:
    case LP_CLZ: put_wide_bit_count(e, i); return;
    case LP_NEG:
    case LP_NOT: put_wide_negation(e, i); return;
    case LP_CAST: put_wide_cast(e, i); return;
    case LP_BITCAST:
        text_add(e->out, "(hop_%s)", name_now(e, t));
        put_wide(e, i->a);
        return;
    case LP_ADD:
    case LP_SUB:
    case LP_MUL: put_wide_arithmetic(e, i); return;
    case LP_DIV:
    case LP_REM:
    case LP_FLOORDIV:
    case LP_MOD: put_wide_division(e, i); return;
    case LP_MIN:
    case LP_MAX: put_wide_extreme(e, i); return;
    case LP_AND: put_pair(e, i->a, "&", i->b, NULL); return;
    case LP_OR: put_pair(e, i->a, "|", i->b, NULL); return;
    case LP_XOR: put_pair(e, i->a, "^", i->b, NULL); return;
    case LP_SHL:
    case LP_SHR:
    case LP_SAR: put_wide_shift(e, i); return;
    case LP_EQ:
    case LP_NE:
    case LP_LT:
    case LP_LE:
    case LP_GT:
    case LP_GE:
        if (!put_index_comparison(e, i, compare[op])) put_wide_comparison(e, i, compare[op]);
        return;
    case LP_SELECT: put_wide_select(e, i); return;
    case LP_FAR: put_wide_far(e, i); return;
    }
    hop_throw(HOP_INTERNAL, "C99: operation %d in a vector", i->op);
}

/* An index as the lanes have it. Vectors that go side by side are the first one and a number. */
static void put_wide_range(struct c99 *e, lpv v, const char *name)
{
    uint32_t part = e->vectors->now.part;
    int64_t stride;
    bool sum = part && c99_stride(e, v, &stride) && stride > -1024 && stride < 1024;
    text_add(e->out, "%shop_range_%s(", sum ? "(" : "", name);
    if (sum) c99_put(e, v);
    else put_first(e, v);
    text_str(e->out, ", ");
    put_stride(e, v);
    text_str(e->out, ")");
    if (!sum) return;
    int64_t times = stride * part;
    text_add(e->out, " + hop_set_%s(%lld * %s))", name, (long long)times, lanes_now(e));
}

/* A scalar in all lanes, an index as the lanes have it, or a vector. */
static void put_wide(struct c99 *e, lpv v)
{
    enum dtype t = dtype_of(e, v);
    const char *name = name_now(e, t);
    switch (c99_kind_of(e, v)) {
    case KIND_UNIFORM:
        text_add(e->out, "hop_set_%s(", name);
        if (t == DT_BOOL) text_str(e->out, "-");
        if (t == DT_I64 && class_now(e) == WIDE_A) text_str(e->out, "(int32_t)");
        c99_put(e, v);
        text_str(e->out, ")");
        return;
    case KIND_AFFINE: put_wide_range(e, v, name); return;
    case KIND_VARYING:
        if (e->in_place[v]) put_wide_definition(e, v);
        else text_add(e->out, "v_%u_%u", v, e->vectors->now.part);
        return;
    }
}

/* ---- statements ---- */

static void put_fold_of(struct c99 *e, enum lp_fold fold, enum dtype t, const char *left, lpv right)
{
    if (fold == FOLD_LAST) {
        put_wide(e, right);
        return;
    }
    enum dtype wide = c99_wide_dtype(t, class_now(e));
    const char *name = name_of(e, wide, class_now(e));
    bool bits = fold == FOLD_AND || fold == FOLD_OR || t == DT_BOOL;
    bool arithmetic = !bits && (fold == FOLD_SUM || fold == FOLD_PROD);
    bool wraps = arithmetic && dtype_info[wide].kind == KIND_INT;
    const char *as = wraps ? arena_printf(e->arena, "(hop_%s)", name_of(e, unsigned_of(wide), class_now(e)))
                           : "";
    if (wraps) text_add(e->out, "(hop_%s)", name);
    if (bits || arithmetic) text_add(e->out, "(%s%s ", as, left);
    else text_add(e->out, "hop_%s_%s(%s", lp_fold_word(fold), name, left);
    if (bits) text_str(e->out, fold == FOLD_AND || fold == FOLD_MIN ? "& " : "| ");
    else if (arithmetic) text_str(e->out, fold == FOLD_PROD ? "* " : "+ ");
    else text_str(e->out, ", ");
    text_str(e->out, as);
    put_wide(e, right);
    text_str(e->out, ")");
}

static void put_accumulation(struct c99 *e, const struct lp_stmt *s)
{
    const struct lp_local *l = &e->p->locals.data[s->target];
    bool lanes = l->kind == LOCAL_LANES, some = lanes && is_partial(e);
    const char *left = lanes ? arena_printf(e->arena, "s_%u_%u", s->target, accumulator_of(e, s->target))
                             : arena_printf(e->arena, "w_%u_%u", s->target, e->vectors->now.part);
    text_add(e->out, "%s = ", left);
    if (some) {
        text_add(e->out, "hop_select_%s(hop_first_%s(", name_now(e, (enum dtype)l->dtype), mask_name(e));
        put_count(e);
        text_str(e->out, "), ");
    }
    put_fold_of(e, (enum lp_fold)s->mode, (enum dtype)l->dtype, left, s->value);
    if (some) text_add(e->out, ", %s)", left);
    text_str(e->out, ";\n");
}

static void put_wide_block(struct c99 *e, const struct lp_block *block, uint32_t indent);

static void put_wide_for(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    uint32_t t = s->target;
    text_add(e->out, "for (int64_t i_%u = ", t);
    c99_put(e, s->lo);
    text_add(e->out, "; i_%u < ", t);
    c99_put(e, s->hi);
    text_add(e->out, "; i_%u += ", t);
    if (s->step == LPV_NONE) text_str(e->out, "1");
    else c99_put(e, s->step);
    text_str(e->out, ") {\n");
    put_wide_block(e, s->body, indent + 1);
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

static void put_wide_if(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    text_str(e->out, "if (");
    c99_put(e, s->value);
    text_str(e->out, ") {\n");
    put_wide_block(e, s->body, indent + 1);
    put_indent(e, indent);
    if (s->other && s->other->stmts.len) {
        text_str(e->out, "} else {\n");
        put_wide_block(e, s->other, indent + 1);
        put_indent(e, indent);
    }
    text_str(e->out, "}\n");
}

static void put_wide_stmt(struct c99 *e, const struct lp_stmt *s)
{
    switch ((enum lp_stmt_kind)s->kind) {
    case LP_LET:
        text_add(e->out, "const hop_%s v_%u_%u = ", name_now(e, dtype_of(e, s->value)), s->value,
                 e->vectors->now.part);
        put_wide_definition(e, s->value);
        text_str(e->out, ";");
        if (is_clamped(e, s->value, false)) /* loads need its ends alone */
            text_add(e->out, " (void)v_%u_%u;", s->value, e->vectors->now.part);
        text_str(e->out, "\n");
        return;
    case LP_STORE: put_wide_store(e, s); return;
    case LP_SET:
        text_add(e->out, "w_%u_%u = ", s->target, e->vectors->now.part);
        put_wide(e, s->value);
        text_str(e->out, ";\n");
        return;
    case LP_ACCUM: put_accumulation(e, s); return;
    default: hop_throw(HOP_INTERNAL, "C99: a statement %d in a vector loop", s->kind);
    }
}

/* Once for all lanes? */
static bool is_scalar(const struct c99 *e, const struct lp_stmt *s)
{
    if (s->kind == LP_LET) return c99_kind_of(e, s->value) != KIND_VARYING;
    return s->kind == LP_STORE && c99_kind_of(e, s->index) == KIND_UNIFORM;
}

static void put_wide_block(struct c99 *e, const struct lp_block *block, uint32_t indent)
{
    struct c99_wide *w = &e->vectors->now;
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_LET && (e->in_place[s->value] || !e->uses[s->value])) continue;
        if (c99_is_dead(e, s)) continue;
        if (s->kind == LP_FOR || s->kind == LP_IF) {
            put_indent(e, indent);
            if (s->kind == LP_FOR) put_wide_for(e, s, indent);
            else put_wide_if(e, s, indent);
        } else if (is_scalar(e, s)) c99_put_stmt(e, s, indent);
        else
            for (w->part = 0; w->part < w->parts; w->part++) {
                put_indent(e, indent);
                put_wide_stmt(e, s);
            }
        w->part = 0;
    }
}

/* ---- loops ---- */

static void find_own(struct c99 *e, const struct lp_block *block, bool *own)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (c99_is_dead(e, s)) continue;
        if ((s->kind == LP_SET || s->kind == LP_ACCUM) && e->p->locals.data[s->target].kind == LOCAL_SCALAR)
            own[s->target] = true;
        find_own(e, s->body, own);
        find_own(e, s->other, own);
    }
}

static void put_body(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    struct c99_wide *w = &e->vectors->now;
    bool *own = ARENA_ZNEW(e->arena, bool, e->p->locals.len + 1);
    find_own(e, s->body, own);
    for (uint32_t p = w->whole; w->partial && p < w->parts; p++) {
        put_indent(e, indent);
        text_add(e->out, "const int64_t n_%u_%u = hop_rest(", s->target, p);
        c99_put(e, s->hi);
        text_add(e->out, " - i_%u - %u * %s, %s);", s->target, p, lanes_now(e), lanes_now(e));
        text_add(e->out, " (void)n_%u_%u;\n", s->target, p);
    }
    for (uint32_t l = 0; l < e->p->locals.len; l++)
        for (uint32_t p = 0; own[l] && p < w->parts; p++) {
            put_indent(e, indent);
            text_add(e->out, "hop_%s w_%u_%u = { 0 };\n", name_now(e, (enum dtype)e->p->locals.data[l].dtype),
                     l, p);
        }
    put_wide_block(e, s->body, indent);
    put_indent(e, indent - 1);
    text_str(e->out, "}\n");
}

static bool is_whole(const struct c99_loop *l)
{
    uint32_t lanes = l->class == WIDE_A ? 16 : 8; /* of the widest vectors; others divide them */
    return l->extent >= 0 && l->extent % (lanes * l->parts) == 0;
}

/* Parts of a step of the last loop: both halves of the strict lanes, unless one takes what is left. */
static uint32_t rest_parts(const struct c99_loop *l)
{
    enum { HALF = LP_STRICT_LANES / 2 };
    if (!l->strict || l->class == WIDE_A) return 1;
    return l->extent >= 0 && l->extent % (l->parts * HALF) <= HALF ? 1 : 2;
}

/* All of a short loop: `i` is a constant. */
static void put_row(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    struct c99_wide *w = &e->vectors->now;
    const struct c99_loop *l = w->loop;
    *w = (struct c99_wide){ .loop = l, .parts = l->row, .partial = true, .whole = l->row - 1 };
    text_str(e->out, "{\n");
    put_indent(e, indent + 1);
    text_add(e->out, "const int64_t i_%u = ", s->target);
    c99_put(e, s->lo);
    text_str(e->out, ";\n");
    put_body(e, s, indent + 1);
}

static void put_steps(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    struct c99_wide *w = &e->vectors->now;
    const struct c99_loop *l = w->loop;
    uint32_t t = s->target;
    *w = (struct c99_wide){ .loop = l, .parts = l->parts };
    text_str(e->out, "{\n");
    put_indent(e, indent + 1);
    text_add(e->out, "int64_t i_%u = ", t);
    c99_put(e, s->lo);
    text_str(e->out, ";\n");
    put_indent(e, indent + 1);
    text_add(e->out, "for (; i_%u + (%u * %s - 1) < ", t, l->parts, lanes_now(e));
    c99_put(e, s->hi);
    text_add(e->out, "; i_%u += %u * %s) {\n", t, l->parts, lanes_now(e));
    put_body(e, s, indent + 2);
    if (!is_whole(l)) {
        w->partial = true;
        w->parts = rest_parts(l);
        put_indent(e, indent + 1);
        text_add(e->out, "for (; i_%u < ", t);
        c99_put(e, s->hi);
        text_add(e->out, "; i_%u += %u * %s) {\n", t, w->parts, lanes_now(e));
        put_body(e, s, indent + 2);
    }
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

void c99_put_wide_loop(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    struct c99_wide *w = &e->vectors->now;
    c99_survey(e, s->target);
    e->unit->has_vectors = true;
    *w = (struct c99_wide){ .loop = &e->vectors->loops[s->target] };
    if (w->loop->row) {
        text_add(e->out, "\n#if %s\n", c99_guard(true));
        put_indent(e, indent);
        put_row(e, s, indent);
        text_str(e->out, "#else\n");
        put_indent(e, indent);
    }
    put_steps(e, s, indent);
    if (w->loop->row) text_str(e->out, "#endif\n");
    *w = (struct c99_wide){ .loop = NULL };
}

/* ---- accumulators ---- */

static const char *accumulator_name(struct c99 *e, uint32_t local)
{
    const struct c99_accumulators *a = &e->vectors->locals[local];
    enum c99_wide_class class = (enum c99_wide_class)a->class;
    return name_of(e, c99_wide_dtype((enum dtype)e->p->locals.data[local].dtype, class), class);
}

void c99_put_accumulators(struct c99 *e, uint32_t local, uint32_t indent)
{
    const struct c99_accumulators *a = &e->vectors->locals[local];
    for (uint32_t p = 0; p < a->parts; p++) {
        put_indent(e, indent);
        text_add(e->out, "hop_%s s_%u_%u = { 0 };\n", accumulator_name(e, local), local, p);
    }
}

void c99_put_accumulators_set(struct c99 *e, uint32_t local, lpv value)
{
    const struct c99_accumulators *a = &e->vectors->locals[local];
    bool truth = e->p->locals.data[local].dtype == DT_BOOL;
    for (uint32_t p = 0; p < a->parts; p++) text_add(e->out, "s_%u_%u = ", local, p);
    text_add(e->out, "hop_set_%s(%s", accumulator_name(e, local), truth ? "-" : "");
    c99_put(e, value);
    text_str(e->out, ");\n");
}

/* Vectors 0 to n as one, in pairs: what stands for each of them is put by `put`. */
static void put_pairs(struct c99 *e, const char *both, uint32_t from, uint32_t n,
                      void (*put)(struct c99 *e, lpv v, uint32_t part), lpv v)
{
    if (n == 1) {
        put(e, v, from);
        return;
    }
    uint32_t half = n / 2;
    text_add(e->out, "%s(", both);
    put_pairs(e, both, from, half, put, v);
    text_str(e->out, ", ");
    put_pairs(e, both, from + half, n - half, put, v);
    text_str(e->out, ")");
}

/* Of LP_FIRST: where the best stands in the lanes of a vector that have it, else the largest number. */
static void put_places_of_best(struct c99 *e, lpv v, uint32_t part)
{
    const struct lp_instr *i = instr(e, v);
    uint32_t values = (uint32_t)i->imm;
    enum c99_wide_class class = (enum c99_wide_class)e->vectors->locals[values].class;
    enum dtype value = c99_wide_dtype((enum dtype)e->p->locals.data[values].dtype, class);
    const char *at = accumulator_name(e, i->b), *mask = name_of(e, c99_wide_dtype(DT_BOOL, class), class);
    enum dtype place = c99_wide_dtype((enum dtype)i->dtype, class);
    text_add(e->out, "hop_select_%s(__builtin_convertvector((hop_%s)((s_%u_%u == hop_set_%s(", at,
             name_of(e, signed_of(value), class), values, part, accumulator_name(e, values));
    c99_put(e, i->a);
    text_str(e->out, "))");
    if (dtype_is_float(value)) text_add(e->out, " | (s_%u_%u != s_%u_%u)", values, part, values, part);
    text_add(e->out, "), hop_%s), s_%u_%u, hop_set_%s(%s))", mask, i->b, part, at,
             dtype_info[place].size == 4 ? "INT32_MAX" : "INT64_MAX");
}

void c99_put_accumulators_first(struct c99 *e, lpv v, uint32_t indent)
{
    const struct lp_instr *i = instr(e, v);
    const struct c99_accumulators *a = &e->vectors->locals[i->imm];
    const char *at = accumulator_name(e, i->b), *both = arena_printf(e->arena, "hop_both_min_%s", at);
    enum dtype place = c99_wide_dtype((enum dtype)i->dtype, (enum c99_wide_class)a->class);
    put_indent(e, indent);
    text_add(e->out, "{ const %s f = hop_fold_min_%s(", c99_value[place], at);
    put_pairs(e, both, 0, a->parts, put_places_of_best, v);
    text_add(e->out, "); if (f < v_%u) v_%u = f; }\n", v, v);
}

static void put_accumulator(struct c99 *e, lpv local, uint32_t part)
{
    text_add(e->out, "s_%u_%u", local, part);
}

/* Two halves of the strict lanes are one row of them; other vectors are combined before their lanes are. */
void c99_put_accumulators_fold(struct c99 *e, uint32_t local, enum lp_fold fold)
{
    const struct c99_accumulators *a = &e->vectors->locals[local];
    const char *name = accumulator_name(e, local);
    bool truth = e->p->locals.data[local].dtype == DT_BOOL;
    if (truth) fold = fold == FOLD_AND || fold == FOLD_MIN ? FOLD_AND : FOLD_OR; /* true is -1 */
    text_add(e->out, "%shop_fold_%s_%s(", truth ? "-" : "", lp_fold_word(fold), name);
    const char *both = arena_printf(e->arena, "hop_both_%s_%s", lp_fold_word(fold), name);
    put_pairs(e, both, 0, a->parts, put_accumulator, local);
    text_str(e->out, ")");
}
