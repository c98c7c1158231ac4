/* Calls along one axis: running values, sorting and searching. */
#include "capture/capture.h"

struct axis_args {
    enum op op;
    int axis;
    int flag;          /* reverse, descending, right */
    const char *k;     /* top_k */
    const char *dtype; /* cumsum, cumprod: of the result; NULL: as it comes out */
};

/* x and its axis and flag as attributes; bool becomes i64 for sums and products, integers f64 for what is
 * defined on floats only. */
static void rule_cumulative(struct emission *e)
{
    const struct axis_args *a = e->args;
    val v = operand_value(e->b, &e->in[0]);
    struct type t = emit_type(e->b, v);
    struct attr attrs[CUMULATIVE_ATTRS] = { A_INT(check_axis(a->axis, t.rank)), A_FLAG(a->flag) };
    if (a->dtype) {
        enum dtype to = text_dtype(a->dtype);
        if (to != modes_dtype(e->b, a->op, (enum dtype)t.dtype)) attrs[CUMULATIVE_DTYPE] = A_DTYPE(to);
    } else if (t.dtype == DT_BOOL && (a->op == OP_cumsum || a->op == OP_cumprod))
        v = emit_cast(e->b, v, DT_I64);
    if (a->op == OP_logcumsumexp && !dtype_is_float((enum dtype)t.dtype)) v = emit_cast(e->b, v, DT_F32);
    e->out[0] = emit(e->b, a->op, &v, 1, attrs);
}
#define DEFINE(name) \
    hop_val hop_##name##_at(hop_place at, hop_val x, int axis, int reverse) \
    { \
        struct axis_args args = { .op = OP_##name, .axis = axis, .flag = reverse }; \
        return capture_emit1(at, #name, rule_cumulative, &args, &x, 1); \
    }
HOP_CUMULATIVE_OPERATORS(DEFINE)
#undef DEFINE
#define DEFINE(name) \
    hop_val hop_##name##_as_at(hop_place at, hop_val x, int axis, int reverse, const char *dtype) \
    { \
        struct axis_args args = { .op = OP_##name, .axis = axis, .flag = reverse, .dtype = dtype }; \
        return capture_emit1(at, #name, rule_cumulative, &args, &x, 1); \
    }
DEFINE(cumsum)
DEFINE(cumprod)
#undef DEFINE

static void rule_recurrence(struct emission *e)
{
    const struct axis_args *a = e->args;
    val in[2];
    promote_all(e->b, e->in, 2, operands_dtype(e->b, e->in, 2), in);
    struct attr attrs[3] = { A_INT(check_axis(a->axis, emit_type(e->b, in[0]).rank)), A_FLAG(a->flag),
                             A_NONE };
    e->out[0] = emit(e->b, OP_recurrence, in, 2, attrs);
}
hop_val hop_recurrence_at(hop_place at, hop_val a, hop_val b, int axis, int reverse)
{
    struct axis_args args = { .axis = axis, .flag = reverse };
    return capture_emit1(at, "recurrence", rule_recurrence, &args, (hop_val[]){ a, b }, 2);
}

static void rule_order(struct emission *e)
{
    const struct axis_args *a = e->args;
    val v = operand_value(e->b, &e->in[0]);
    struct attr attrs[2] = { A_INT(check_axis(a->axis, emit_type(e->b, v).rank)), A_FLAG(a->flag) };
    e->out[0] = emit(e->b, a->op, &v, 1, attrs);
}
hop_val hop_sort_at(hop_place at, hop_val x, int axis, int descending)
{
    struct axis_args args = { .op = OP_sort, .axis = axis, .flag = descending };
    return capture_emit1(at, "sort", rule_order, &args, &x, 1);
}
hop_val hop_argsort_at(hop_place at, hop_val x, int axis, int descending)
{
    struct axis_args args = { .op = OP_argsort, .axis = axis, .flag = descending };
    return capture_emit1(at, "argsort", rule_order, &args, &x, 1);
}

static void rule_top_k(struct emission *e)
{
    const struct axis_args *a = e->args;
    val v = operand_value(e->b, &e->in[0]);
    const char *text = a->k ? a->k : "";
    struct cursor c = { .text = text, .p = text, .what = "k", .s = e->s, .m = e->b->m };
    struct attr attrs[2] = { A_DIM(parse_dim(&c)), A_INT(check_axis(a->axis, emit_type(e->b, v).rank)) };
    cursor_end(&c);
    e->out[0] = emit(e->b, OP_top_k, &v, 1, attrs);
    e->out[1] = e->out[0] + 1;
}
int hop_top_k_at(hop_place at, hop_val *out, hop_val x, const char *k, int axis)
{
    return capture_emit(at, "top_k", rule_top_k, &(struct axis_args){ .axis = axis, .k = k }, &x, 1, out, 2);
}

static void rule_search(struct emission *e)
{
    enum dtype t = operands_dtype(e->b, e->in, 2);
    val in[2];
    for (uint32_t i = 0; i < 2; i++) in[i] = operand_as(e->b, &e->in[i], t);
    struct attr right = A_FLAG(*(const int *)e->args);
    e->out[0] = emit(e->b, OP_searchsorted, in, 2, &right);
}
hop_val hop_searchsorted_at(hop_place at, hop_val sorted, hop_val values, int right)
{
    return capture_emit1(at, "searchsorted", rule_search, &right, (hop_val[]){ sorted, values }, 2);
}
