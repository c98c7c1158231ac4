/* The first-order calls of the C surface: each has a rule that promotes, broadcasts and emits, and a public
 * function that hands its arguments to the rule. The elementwise families are made from the lists of the
 * public header, so that the two cannot drift. */
#include "capture/capture.h"
#include "ops/scalar_c.h"

/* ---- numbers ---- */

hop_val hop_scalar(double value)
{
    hop_val v = { HANDLE_REAL, 0 };
    memcpy(&v.id, &value, sizeof value);
    return v;
}
hop_val hop_int(int64_t value) { return (hop_val){ HANDLE_INT, (uint64_t)value }; }
hop_val hop_bool(int value) { return (hop_val){ HANDLE_BOOL, value != 0 }; }
hop_dim hop_dim_const(int64_t n) { return (hop_dim){ HANDLE_NUMBER_DIM, (uint64_t)n }; }

/* ---- elementwise ---- */

/* The dtype an elementwise operator computes in: as it is, or the one that integers take where it is defined
 * for others alone. */
static enum dtype computing_dtype(enum op op, enum dtype t)
{
    if (scalar_c_defined(op, t)) return t;
    if (t == DT_BOOL && scalar_c_defined(op, DT_I64)) return DT_I64;
    if (!dtype_is_float(t) && scalar_c_defined(op, DT_F32)) return DT_F32;
    return t; /* infer says what is wrong */
}

static bool is_comparison(enum op op)
{
    return op == OP_eq || op == OP_ne || op == OP_lt || op == OP_le || op == OP_gt || op == OP_ge;
}

/* Integers compared with a number that their dtype does not hold: the answer is the same for all of them.
 * False: this is no such call. */
static bool compare_beside(struct emission *e, enum op op, enum dtype t)
{
    if (!is_comparison(op) || !dtype_is_integer(t)) return false;
    uint32_t number = e->in[0].weak ? 0 : 1;
    int side = e->in[number].weak == HANDLE_INT ? beside_range(t, e->in[number].integer) : 0;
    if (!side) return false;
    bool first_is_less = (side > 0) == (number == 1);
    bool answer = op == OP_ne || (first_is_less ? op == OP_lt || op == OP_le : op == OP_gt || op == OP_ge);
    dim dims[MAX_RANK];
    uint32_t rank = broadcast_dims(e->b, e->in, e->n, dims);
    struct attr a[3] = { A_INT(answer), A_DIMS(dims, rank), A_DTYPE(DT_BOOL) };
    e->out[0] = emit(e->b, OP_full, NULL, 0, a);
    return true;
}

/* What an operator on bools alone is: a sum and a maximum hold where one does, a product and a minimum where
 * both do, as in NumPy. */
static enum op op_of_bools(enum op op)
{
    if (op == OP_sub) capture_throw("bools have no difference: use xor, or cast them to integers first");
    if (op == OP_neg) capture_throw("bools have no negative: use not, or cast them to integers first");
    if (op == OP_add || op == OP_max) return OP_or;
    return op == OP_mul || op == OP_min ? OP_and : op;
}

static void rule_elementwise(struct emission *e)
{
    enum op op = *(const enum op *)e->args;
    enum dtype t = operands_dtype(e->b, e->in, e->n);
    val in[3];
    if (t == DT_BOOL) op = op_of_bools(op);
    if (compare_beside(e, op, t)) return;
    if (op == OP_abs && (t == DT_BOOL || dtype_info[t].kind == KIND_UINT)) { /* already what it will be */
        e->out[0] = operand_value(e->b, &e->in[0]);
        return;
    }
    promote_all(e->b, e->in, e->n, computing_dtype(op, t), in);
    e->out[0] = emit(e->b, op, in, e->n, NULL);
}

#define DEFINE(name) \
    hop_val hop_##name##_at(hop_place at, hop_val x) \
    { \
        static const enum op op = OP_##name; \
        return capture_emit1(at, #name, rule_elementwise, &op, (hop_val[]){ x }, 1); \
    }
HOP_UNARY_OPERATORS(DEFINE)
#undef DEFINE
#define DEFINE(name) \
    hop_val hop_##name##_at(hop_place at, hop_val x, hop_val y) \
    { \
        static const enum op op = OP_##name; \
        return capture_emit1(at, #name, rule_elementwise, &op, (hop_val[]){ x, y }, 2); \
    }
HOP_BINARY_OPERATORS(DEFINE)
#undef DEFINE

hop_val hop_clamp_at(hop_place at, hop_val x, hop_val lo, hop_val hi)
{
    static const enum op op = OP_clamp;
    return capture_emit1(at, "clamp", rule_elementwise, &op, (hop_val[]){ x, lo, hi }, 3);
}

hop_val hop_fma_at(hop_place at, hop_val x, hop_val y, hop_val z)
{
    static const enum op op = OP_fma;
    return capture_emit1(at, "fma", rule_elementwise, &op, (hop_val[]){ x, y, z }, 3);
}

static void rule_stop_gradient(struct emission *e)
{
    e->out[0] = emit1(e->b, OP_stop_gradient, operand_value(e->b, &e->in[0]));
}
hop_val hop_stop_gradient_at(hop_place at, hop_val x)
{
    return capture_emit1(at, "stop_gradient", rule_stop_gradient, NULL, &x, 1);
}

static void rule_select(struct emission *e)
{
    enum dtype t = operands_dtype(e->b, e->in + 1, 2);
    dim dims[MAX_RANK];
    uint32_t rank = broadcast_dims(e->b, e->in, 3, dims);
    val in[3];
    for (uint32_t i = 0; i < 3; i++) {
        const struct operand *o = &e->in[i];
        if (!i && !o->weak && emit_type(e->b, o->v).dtype != DT_BOOL)
            capture_throw("the condition: expected bool, found %s",
                          type_text(e->b->m, e->b->symbols.data, builder_type(e->b, o->v)));
        if (o->weak) in[i] = weak_full(e->b, o, i ? t : DT_BOOL, rank, dims);
        else in[i] = bring_to(e->b, i ? emit_cast(e->b, o->v, t) : o->v, rank, dims);
    }
    e->out[0] = emit(e->b, OP_select, in, 3, NULL);
}
hop_val hop_select_at(hop_place at, hop_val condition, hop_val x, hop_val y)
{
    return capture_emit1(at, "select", rule_select, NULL, (hop_val[]){ condition, x, y }, 3);
}

static void rule_cast(struct emission *e) { e->out[0] = operand_as(e->b, &e->in[0], text_dtype(e->args)); }
hop_val hop_cast_at(hop_place at, hop_val x, const char *dtype)
{
    return capture_emit1(at, "cast", rule_cast, dtype, &x, 1);
}

/* ---- arrays out of nothing ---- */

struct type_args {
    const char *type;
    int axis;
    double number;
    const void *data;
};

static enum dtype read_type(struct emission *e, const char *text, uint32_t *rank, dim *dims)
{
    struct cursor c = cursor_for(e, text, "the type");
    enum dtype t = parse_type(&c, rank, dims);
    cursor_end(&c);
    return t;
}

static val fill(struct builder *b, const struct operand *o, enum dtype t, uint32_t rank, const dim *dims)
{
    if (o->weak) return weak_full(b, o, t, rank, dims);
    if (emit_type(b, o->v).rank)
        capture_throw("the value: expected a scalar, found %s",
                      type_text(b->m, b->symbols.data, builder_type(b, o->v)));
    return bring_to(b, emit_cast(b, o->v, t), rank, dims);
}

static void rule_full(struct emission *e)
{
    dim dims[MAX_RANK];
    uint32_t rank;
    enum dtype t = read_type(e, e->args, &rank, dims);
    e->out[0] = fill(e->b, &e->in[0], t, rank, dims);
}
hop_val hop_full_at(hop_place at, const char *type, hop_val value)
{
    return capture_emit1(at, "full", rule_full, type, &value, 1);
}
hop_val hop_zeros_at(hop_place at, const char *type)
{
    return capture_emit1(at, "zeros", rule_full, type, (hop_val[]){ hop_int(0) }, 1);
}
hop_val hop_ones_at(hop_place at, const char *type)
{
    return capture_emit1(at, "ones", rule_full, type, (hop_val[]){ hop_int(1) }, 1);
}

static void rule_number(struct emission *e) { e->out[0] = operand_as(e->b, &e->in[0], text_dtype(e->args)); }
hop_val hop_number_at(hop_place at, const char *dtype, double value)
{
    bool whole = value >= -9007199254740992.0 && value <= 9007199254740992.0 &&
                 value == (double)(int64_t)value && (value != 0 || 1 / value > 0);
    return capture_emit1(at, "number", rule_number, dtype,
                         (hop_val[]){ whole ? hop_int((int64_t)value) : hop_scalar(value) }, 1);
}

static void rule_zeros_like(struct emission *e)
{
    e->out[0] = emit_full_like(e->b, operand_value(e->b, &e->in[0]), 0);
}
hop_val hop_zeros_like_at(hop_place at, hop_val v)
{
    return capture_emit1(at, "zeros_like", rule_zeros_like, NULL, &v, 1);
}

static void rule_iota(struct emission *e)
{
    const struct type_args *a = e->args;
    dim dims[MAX_RANK];
    uint32_t rank;
    enum dtype t = read_type(e, a->type, &rank, dims);
    struct attr attrs[3] = { A_DIMS(dims, rank), A_INT(check_axis(a->axis, rank)), A_DTYPE(t) };
    e->out[0] = emit(e->b, OP_iota, NULL, 0, attrs);
}
hop_val hop_iota_at(hop_place at, const char *type, int axis)
{
    return capture_emit1(at, "iota", rule_iota, &(struct type_args){ .type = type, .axis = axis }, NULL, 0);
}

static val constant_value(struct builder *b, enum dtype t, uint32_t rank, const int64_t *sizes,
                          const void *data)
{
    dim dims[MAX_RANK];
    size_t bytes = dtype_info[t].size;
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = dim_const(b->m, sizes[i]);
        if (__builtin_mul_overflow(bytes, (size_t)sizes[i], &bytes))
            capture_throw("the constant is too large");
    }
    if (bytes && !data) capture_throw("expected data, found NULL");
    struct attr a = A_CONST(module_constant(b->m, type_intern(b->m, t, rank, dims), data, bytes, 0));
    return emit(b, OP_constant, NULL, 0, &a);
}

static void rule_constant(struct emission *e)
{
    const struct type_args *a = e->args;
    int64_t sizes[MAX_RANK];
    uint32_t rank;
    enum dtype t = parse_static_type(a->type, &rank, sizes);
    e->out[0] = constant_value(e->b, t, rank, sizes, a->data);
}
hop_val hop_constant_at(hop_place at, const char *type, const void *data)
{
    struct type_args args = { .type = type, .data = data };
    return capture_emit1(at, "constant", rule_constant, &args, NULL, 0);
}

static void check_whole(const struct tensor *t)
{
    if (t->parts)
        capture_throw("a distributed array cannot be a constant: programs take it as an argument, or collect "
                      "it first");
}

static void rule_from_tensor(struct emission *e)
{
    const char *kind = ((const struct tensor *)e->args)->kind;
    if (kind) capture_throw("object \"%s\" cannot be a constant: programs take it as an argument", kind);
    check_whole(e->args);
    struct tensor *t = tensor_contiguous((struct tensor *)e->args);
    hop_cleanup_push(tensor_free, t);
    e->out[0] = constant_value(e->b, (enum dtype)t->dtype, t->rank, t->dims, t->data);
    hop_cleanup_pop(t);
    tensor_free(t);
}
static void eager_from_tensor(struct capture *c, void *args)
{
    hop_val *out = ((void **)args)[1];
    check_whole(((void **)args)[0]);
    *out = eager_value(c->innermost, tensor_contiguous(((void **)args)[0]));
}
hop_val hop_from_tensor_at(hop_place at, hop_tensor *t)
{
    struct capture *c = capture_current();
    hop_val out = { 0, 0 };
    if (!t) hop_fail_at(at, "from_tensor: expected a tensor, found NULL");
    else if (c && c->eager) capture_edge(at, "from_tensor", eager_from_tensor, (void *[]){ t, &out });
    else out = capture_emit1(at, "from_tensor", rule_from_tensor, t, NULL, 0);
    return out;
}

hop_val hop_key_at(hop_place at, uint64_t seed)
{
    uint32_t words[2] = { (uint32_t)(seed >> 32), (uint32_t)seed };
    struct type_args args = { .type = "u32[2]", .data = words };
    return capture_emit1(at, "key", rule_constant, &args, NULL, 0);
}

static void rule_random(struct emission *e)
{
    const struct type_args *a = e->args;
    enum op op = (enum op)a->axis;
    dim dims[MAX_RANK];
    uint32_t rank;
    struct attr attrs[2] = { A_NONE, A_NONE };
    if (op == OP_random_bits) {
        struct cursor c = cursor_for(e, a->type, "the sizes");
        rank = parse_dims(&c, dims);
        cursor_end(&c);
    } else {
        attrs[RANDOM_DTYPE] = A_DTYPE(read_type(e, a->type, &rank, dims));
    }
    attrs[RANDOM_DIMS] = A_DIMS(dims, rank);
    e->out[0] = emit(e->b, op, (val[]){ operand_value(e->b, &e->in[0]) }, 1, attrs);
}
hop_val hop_random_bits_at(hop_place at, hop_val key, const char *dims)
{
    struct type_args args = { .type = dims, .axis = OP_random_bits };
    return capture_emit1(at, "random_bits", rule_random, &args, &key, 1);
}
hop_val hop_random_uniform_at(hop_place at, hop_val key, const char *type)
{
    struct type_args args = { .type = type, .axis = OP_random_uniform };
    return capture_emit1(at, "random_uniform", rule_random, &args, &key, 1);
}
hop_val hop_random_normal_at(hop_place at, hop_val key, const char *type)
{
    struct type_args args = { .type = type, .axis = OP_random_normal };
    return capture_emit1(at, "random_normal", rule_random, &args, &key, 1);
}

/* ---- reductions ---- */

struct reduce_args {
    enum op op;
    const char *axes;
    const char *dtype; /* of the result; NULL: as it comes out */
};

static void rule_reduce(struct emission *e)
{
    const struct reduce_args *a = e->args;
    val v = operand_value(e->b, &e->in[0]);
    struct type t = emit_type(e->b, v);
    uint32_t mask = parse_axes(a->axes, t.rank, true), list[MAX_RANK], n = 0;
    bool sums = a->op == OP_sum || a->op == OP_prod;
    if (sums && t.dtype == DT_BOOL && !a->dtype) v = emit_cast(e->b, v, DT_I64);
    for (uint32_t i = 0; i < t.rank; i++)
        if (mask >> i & 1) list[n++] = i;
    struct attr attrs[REDUCE_ATTRS] = { n == t.rank ? A_NONE : A_INTS(list, n), A_NONE };
    if (a->dtype) {
        enum dtype to = text_dtype(a->dtype);
        if (to != modes_dtype(e->b, a->op, (enum dtype)t.dtype)) attrs[REDUCE_DTYPE] = A_DTYPE(to);
    }
    bool nothing = !n && t.rank && attrs[REDUCE_DTYPE].kind == ATTR_ABSENT;
    e->out[0] = nothing ? v : emit(e->b, a->op, &v, 1, attrs);
}
#define DEFINE(name) \
    hop_val hop_##name##_at(hop_place at, hop_val x, const char *axes) \
    { \
        struct reduce_args args = { .op = OP_##name, .axes = axes }; \
        return capture_emit1(at, #name, rule_reduce, &args, &x, 1); \
    }
DEFINE(sum)
DEFINE(prod)
DEFINE(reduce_max)
DEFINE(reduce_min)
DEFINE(any)
DEFINE(all)
#undef DEFINE
#define DEFINE(name) \
    hop_val hop_##name##_as_at(hop_place at, hop_val x, const char *axes, const char *dtype) \
    { \
        struct reduce_args args = { .op = OP_##name, .axes = axes, .dtype = dtype }; \
        return capture_emit1(at, #name, rule_reduce, &args, &x, 1); \
    }
DEFINE(sum)
DEFINE(prod)
#undef DEFINE

struct arg_args {
    enum op op;
    int axis;
};
static void rule_arg(struct emission *e)
{
    const struct arg_args *a = e->args;
    val v = operand_value(e->b, &e->in[0]);
    struct attr dim = A_INT(check_axis(a->axis, emit_type(e->b, v).rank));
    e->out[0] = emit(e->b, a->op, &v, 1, &dim);
}
hop_val hop_argmax_at(hop_place at, hop_val x, int axis)
{
    return capture_emit1(at, "argmax", rule_arg, &(struct arg_args){ OP_argmax, axis }, &x, 1);
}
hop_val hop_argmin_at(hop_place at, hop_val x, int axis)
{
    return capture_emit1(at, "argmin", rule_arg, &(struct arg_args){ OP_argmin, axis }, &x, 1);
}

/* ---- products ---- */

enum dtype product_operands(struct emission *e, const char *dtype, val *out)
{
    struct builder *b = e->b;
    enum dtype t = DT_COUNT;
    for (uint32_t i = 0; i < 2; i++) {
        if (dtype || !i) t = modes_dtype(b, OP_matmul, operands_dtype(b, &e->in[i], dtype ? 1 : 2));
        out[i] = operand_as(b, &e->in[i], t);
    }
    return dtype ? text_dtype(dtype) : t;
}

/* Leading dims of two stacks of matrices made equal. */
static void broadcast_stacks(struct builder *b, val *in)
{
    struct type t[2] = { emit_type(b, in[0]), emit_type(b, in[1]) };
    uint32_t rank = HOP_MAX(t[0].rank, t[1].rank);
    dim lead[MAX_RANK];
    for (uint32_t d = 0; d + 2 < rank; d++) {
        lead[d] = 1;
        for (int i = 0; i < 2; i++) {
            if (d + t[i].rank < rank) continue;
            dim found = t[i].dims[d + t[i].rank - rank];
            if (found != 1 && (lead[d] == 1 || dim_is_const(b->m, found))) lead[d] = found;
        }
    }
    for (int i = 0; i < 2; i++) {
        lead[rank - 2] = t[i].dims[t[i].rank - 2];
        lead[rank - 1] = t[i].dims[t[i].rank - 1];
        in[i] = bring_to(b, in[i], rank, lead);
    }
}

static void rule_matmul(struct emission *e)
{
    val in[2];
    enum dtype t = product_operands(e, e->args, in);
    uint32_t x = emit_type(e->b, in[0]).rank, y = emit_type(e->b, in[1]).rank;
    if ((x > 2 && y == 1) || (x == 1 && y > 2)) {
        uint32_t cx = x - 1, cy = y == 1 ? 0 : y - 2;
        e->out[0] = emit_dot_to(e->b, t, in[0], in[1], NULL, NULL, 0, &cx, &cy, 1);
        return;
    }
    if (x >= 2 && y > 2) broadcast_stacks(e->b, in);
    struct attr dtype = emit_result_dtype(e->b, in, 2, t);
    e->out[0] = emit(e->b, OP_matmul, in, 2, &dtype);
}
hop_val hop_matmul_at(hop_place at, hop_val x, hop_val y)
{
    return capture_emit1(at, "matmul", rule_matmul, NULL, (hop_val[]){ x, y }, 2);
}
hop_val hop_matmul_as_at(hop_place at, hop_val x, hop_val y, const char *dtype)
{
    return capture_emit1(at, "matmul", rule_matmul, dtype, (hop_val[]){ x, y }, 2);
}

static void rule_dot(struct emission *e)
{
    const hop_dot_spec *spec = e->args;
    val in[2];
    enum dtype t = product_operands(e, spec->dtype, in);
    const char *texts[4] = { spec->batch_x, spec->batch_y, spec->contract_x, spec->contract_y };
    static const char *const names[4] = { "batch_x", "batch_y", "contract_x", "contract_y" };
    uint32_t lists[4][MAX_RANK], n[4];
    for (int k = 0; k < 4; k++) n[k] = parse_axis_list(texts[k], emit_type(e->b, in[k & 1]).rank, lists[k]);
    for (int k = 0; k < 4; k += 2)
        if (n[k] != n[k + 1])
            capture_throw("%s names %u axes, %s names %u", names[k], n[k], names[k + 1], n[k + 1]);
    e->out[0] = emit_dot_to(e->b, t, in[0], in[1], lists[0], lists[1], n[0], lists[2], lists[3], n[2]);
}
hop_val hop_dot_at(hop_place at, hop_val x, hop_val y, const hop_dot_spec *spec)
{
    static const hop_dot_spec none;
    return capture_emit1(at, "dot", rule_dot, spec ? spec : &none, (hop_val[]){ x, y }, 2);
}

/* ---- effects ---- */

static void rule_check(struct emission *e)
{
    struct attr a = A_STRING(module_string(e->b->m, e->args, strlen(e->args)));
    val *in = ARENA_NEW(&e->b->arena, val, e->n);
    for (uint32_t i = 0; i < e->n; i++) in[i] = operand_value(e->b, &e->in[i]);
    emit(e->b, OP_check, in, e->n, &a);
}
static void rule_print(struct emission *e)
{
    struct attr a[3] = { A_STRING(module_string(e->b->m, e->args, strlen(e->args))), A_NONE, A_NONE };
    val *in = ARENA_NEW(&e->b->arena, val, e->n);
    for (uint32_t i = 0; i < e->n; i++) in[i] = operand_value(e->b, &e->in[i]);
    emit(e->b, OP_print, in, e->n, a);
}

static void rule_print_backward(struct emission *e)
{
    struct attr a = A_STRING(module_string(e->b->m, e->args, strlen(e->args)));
    val *in = ARENA_NEW(&e->b->arena, val, e->n);
    for (uint32_t i = 0; i < e->n; i++) in[i] = operand_value(e->b, &e->in[i]);
    val first = emit(e->b, OP_print_backward, in, e->n, &a);
    for (uint32_t i = 0; i < e->n; i++) e->out[i] = first + i;
}

struct callback_args {
    const char *name;
    bool together;
};

static void rule_callback(struct emission *e)
{
    const struct callback_args *args = e->args;
    uint32_t name = module_string(e->b->m, args->name, strlen(args->name));
    struct attr a[CALLBACK_ATTRS] = { [CALLBACK_NAME] = A_STRING(name) };
    if (args->together) a[CALLBACK_TOGETHER] = A_FLAG(true);
    val *in = ARENA_NEW(&e->b->arena, val, e->n);
    for (uint32_t i = 0; i < e->n; i++) in[i] = operand_value(e->b, &e->in[i]);
    emit(e->b, OP_callback, in, e->n, a);
}

int hop_check_at(hop_place at, hop_val condition, const char *message, const hop_val *values, int n)
{
    enum { FEW = 8 };
    hop_val few[FEW + 1], *in = few;
    if (n < 0 || (n && !values))
        return hop_fail_at(at, "check: expected values to show, found NULL or a negative count");
    if (n > FEW) in = capture_room(at, "check", (uint32_t)n + 1);
    if (!in) return hop_failed();
    in[0] = condition;
    if (n) memcpy(in + 1, values, (size_t)n * sizeof *in);
    return capture_emit(at, "check", rule_check, message ? message : "", in, (uint32_t)n + 1, NULL, 0);
}
int hop_print_at(hop_place at, const char *format, const hop_val *values, int n)
{
    if (n < 0) return hop_fail_at(at, "print: a count is negative");
    return capture_emit(at, "print", rule_print, format ? format : "", values, (uint32_t)n, NULL, 0);
}

int hop_print_backward_at(hop_place at, hop_val *out, const char *format, const hop_val *values, int n)
{
    if (n < 0 || (n && (!out || !values)))
        return hop_fail_at(
            at, "print_backward: expected values and room for them, found NULL or a negative count");
    return capture_emit(at, "print_backward", rule_print_backward, format ? format : "", values, (uint32_t)n,
                        out, (uint32_t)n);
}

static int emit_callback(hop_place at, const char *name, const hop_val *values, int n, bool together)
{
    struct callback_args args = { name ? name : "", together };
    if (n < 0) return hop_fail_at(at, "callback: a count is negative");
    return capture_emit(at, "callback", rule_callback, &args, values, (uint32_t)n, NULL, 0);
}
int hop_callback_at(hop_place at, const char *name, const hop_val *values, int n)
{
    return emit_callback(at, name, values, n, false);
}
int hop_callback_together_at(hop_place at, const char *name, const hop_val *values, int n)
{
    return emit_callback(at, name, values, n, true);
}

static void rule_barrier(struct emission *e)
{
    val *in = ARENA_NEW(&e->b->arena, val, e->n);
    for (uint32_t i = 0; i < e->n; i++) in[i] = operand_value(e->b, &e->in[i]);
    val first = e->n ? emit(e->b, OP_barrier, in, e->n, NULL) : VAL_NONE;
    for (uint32_t i = 0; i < e->n; i++) e->out[i] = first + i;
}
int hop_barrier_at(hop_place at, hop_val *out, const hop_val *in, int n)
{
    if (n < 0) return hop_fail_at(at, "barrier: a count is negative");
    return capture_emit(at, "barrier", rule_barrier, NULL, in, (uint32_t)n, out, (uint32_t)n);
}

static void rule_tag(struct emission *e)
{
    struct attr attrs[TAG_ATTRS] = { [TAG_GRADIENT] = A_WORD(*(const enum tag *)e->args) };
    val in = operand_value(e->b, &e->in[0]);
    e->out[0] = emit(e->b, OP_tag, &in, 1, attrs);
}
hop_val hop_keep_at(hop_place at, hop_val x)
{
    return capture_emit1(at, "keep", rule_tag, &(enum tag){ TAG_KEEP }, &x, 1);
}
hop_val hop_recompute_at(hop_place at, hop_val x)
{
    return capture_emit1(at, "recompute", rule_tag, &(enum tag){ TAG_RECOMPUTE }, &x, 1);
}

static void rule_name(struct emission *e)
{
    const char *name = e->args;
    if (!name) capture_throw("expected a name, found NULL");
    struct attr attrs[TAG_ATTRS] = { [TAG_NAME] = A_STRING(module_string(e->b->m, name, strlen(name))) };
    val in = operand_value(e->b, &e->in[0]);
    e->out[0] = emit(e->b, OP_tag, &in, 1, attrs);
}
hop_val hop_checkpoint_name_at(hop_place at, hop_val x, const char *name)
{
    return capture_emit1(at, "checkpoint_name", rule_name, name, &x, 1);
}

static void rule_probe(struct emission *e)
{
    const char *name = e->args;
    if (!name) capture_throw("expected a name, found NULL");
    struct attr attrs[TAG_ATTRS] = {
        [TAG_NAME] = A_STRING(module_string(e->b->m, name, strlen(name))), [TAG_USE] = A_WORD(TAG_PROBES)
    };
    val in = operand_value(e->b, &e->in[0]);
    e->out[0] = emit(e->b, OP_tag, &in, 1, attrs);
}
hop_val hop_probe_at(hop_place at, hop_val x, const char *name)
{
    return capture_emit1(at, "probe", rule_probe, name, &x, 1);
}

/* ---- about values ---- */

struct name_args {
    hop_val v;
    const char *name;
};
static void name_value(struct capture *c, void *args)
{
    const struct name_args *a = args;
    if (c->eager || !a->name) return;
    struct operand o = resolve(c->innermost, a->v);
    if (o.v != VAL_NONE) builder_name(&c->innermost->b, o.v, module_string(c->m, a->name, strlen(a->name)));
}
hop_val hop_name_at(hop_place at, hop_val v, const char *name)
{
    struct name_args a = { v, name };
    return capture_edge(at, "name", name_value, &a) ? (hop_val){ 0, 0 } : v;
}
