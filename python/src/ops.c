/* Operators: one table, one dispatch. A call inside of a capture is recorded there; one on concrete arrays
 * runs at once (eager.c). */
#include "ops.h"

/* ---- the table ---- */

typedef hop_val (*fn_x)(hop_place, hop_val);
typedef hop_val (*fn_xx)(hop_place, hop_val, hop_val);
typedef hop_val (*fn_xxx)(hop_place, hop_val, hop_val, hop_val);
typedef hop_val (*fn_xt)(hop_place, hop_val, const char *);
typedef hop_val (*fn_xi)(hop_place, hop_val, int);
typedef hop_val (*fn_xti)(hop_place, hop_val, const char *, int);
typedef hop_val (*fn_xii)(hop_place, hop_val, int, int);
typedef hop_val (*fn_xxi)(hop_place, hop_val, hop_val, int);
typedef hop_val (*fn_xxii)(hop_place, hop_val, hop_val, int, int);
typedef hop_val (*fn_li)(hop_place, const hop_val *, int, int);
typedef hop_val (*fn_t)(hop_place, const char *);
typedef hop_val (*fn_ti)(hop_place, const char *, int);
typedef hop_val (*fn_tx)(hop_place, const char *, hop_val);
typedef hop_val (*fn_txx)(hop_place, const char *, hop_val, hop_val);
typedef int (*fn_custom)(hop_place, const struct call *, const hop_val *in, hop_val *out);

static int one(hop_val v, hop_val *out)
{
    *out = v;
    if (v.scope) return HOP_OK;
    return hop_failed() ? hop_failed() : HOP_INVALID;
}

static int emit_pad(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_pad_at(at, in[0], c->text, in[1]), out);
}
static int emit_einsum(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_einsum_at(at, c->text, in, (int)c->n), out);
}
/* Sums and products whose result's dtype is chosen: the last text. */
static int emit_sum_as(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_sum_as_at(at, in[0], c->text, c->text2), out);
}
static int emit_prod_as(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_prod_as_at(at, in[0], c->text, c->text2), out);
}
static int emit_mean_as(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_mean_as_at(at, in[0], c->text, c->text2), out);
}
static int emit_var_as(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_var_as_at(at, in[0], c->text, (int)c->i, c->text2), out);
}
static int emit_std_as(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_std_as_at(at, in[0], c->text, (int)c->i, c->text2), out);
}
static int emit_cumsum_as(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_cumsum_as_at(at, in[0], (int)c->i, (int)c->j, c->text), out);
}
static int emit_cumprod_as(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_cumprod_as_at(at, in[0], (int)c->i, (int)c->j, c->text), out);
}
static int emit_matmul_as(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_matmul_as_at(at, in[0], in[1], c->text), out);
}
static int emit_einsum_as(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_einsum_as_at(at, c->text, in, (int)c->n, c->text2), out);
}
static int emit_gather(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_gather_at(at, in[0], in + 1, (int)c->n - 1, c->text), out);
}
/* An operator of the table by its text. */
static int emit_apply(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return hop_apply_at(at, out, 1, c->text, in, (int)c->n);
}
static int emit_scatter(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_scatter_at(at, in[0], in + 2, (int)c->n - 2, c->text, in[1], c->text2), out);
}
/* The library reads a start for each axis. */
static int wrong_starts(hop_val x, Py_ssize_t n)
{
    if (n == hop_rank(x)) return 0;
    PyErr_Format(PyExc_ValueError, "expected %d starts, one for each axis, found %zd", hop_rank(x), n);
    return BODY_RAISED;
}
static int emit_dynamic_slice(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    int wrong = wrong_starts(in[0], c->n - 1);
    return wrong ? wrong : one(hop_dynamic_slice_at(at, in[0], in + 1, c->text), out);
}
static int emit_dynamic_update(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    int wrong = wrong_starts(in[0], c->n - 2);
    return wrong ? wrong : one(hop_dynamic_update_at(at, in[0], in[1], in + 2), out);
}
static int emit_nonzero(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return c->text ? hop_nonzero_sized_at(at, out, in[0], c->text, c->i) : hop_nonzero_at(at, out, in[0]);
}
static int emit_top_k(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return hop_top_k_at(at, out, in[0], c->text, (int)c->i);
}
static int emit_split(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    int parts = (int)c->j, axis = (int)c->i;
    if (c->text) return hop_split_sizes_at(at, out, parts, in[0], axis, c->text);
    return hop_split_at(at, out, parts, in[0], axis);
}
static int emit_check(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    (void)out;
    return hop_check_at(at, in[0], c->text, in + 1, (int)c->n - 1);
}
static int emit_print(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    (void)out;
    return hop_print_at(at, c->text, in, (int)c->n);
}
static int emit_barrier(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return hop_barrier_at(at, out, in, (int)c->n);
}
static int emit_random_uniform(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_random_uniform_at(at, in[0], c->text), out);
}
static int emit_randint(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_randint_at(at, in[0], c->text, in[1], in[2]), out);
}
static int emit_bernoulli(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_bernoulli_at(at, in[0], in[1], c->text), out);
}
static int emit_one_hot(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_one_hot_at(at, in[0], c->text, c->text2), out);
}
static int emit_dot(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    hop_dot_spec spec = { .contract_x = c->text, .contract_y = c->text2 };
    return one(hop_dot_at(at, in[0], in[1], &spec), out);
}
/* The parts of a text between semicolons; an empty one is NULL. */
enum { FIELDS = 4, FIELD_ROOM = 1024 };
struct fields {
    char text[FIELD_ROOM];
    const char *at[FIELDS];
};
static int cut_fields(const char *text, struct fields *f)
{
    size_t length = text ? strlen(text) : 0;
    if (length >= FIELD_ROOM) {
        PyErr_SetString(PyExc_ValueError, "too many numbers for one array's axes");
        return BODY_RAISED;
    }
    memcpy(f->text, text ? text : "", length + 1);
    char *p = f->text;
    for (int k = 0; k < FIELDS; k++) {
        char *end = p ? strchr(p, ';') : NULL;
        f->at[k] = p && *p && *p != ';' ? p : NULL;
        if (end) *end = 0;
        p = end ? end + 1 : NULL;
    }
    return 0;
}
/* The window ("strides;padding;dilation;x_dilation or output_padding"), layouts and the result's dtype
 * ("NCHW;OIHW;f32"), the number of groups. */
static int emit_window(hop_place at, const struct call *c, const hop_val *in, hop_val *out, bool transposed)
{
    struct fields window, layouts;
    if (cut_fields(c->text, &window) || cut_fields(c->text2, &layouts)) return BODY_RAISED;
    hop_conv_spec spec = { .strides = window.at[0],
                           .padding = window.at[1],
                           .dilation = window.at[2],
                           .x_dilation = transposed ? NULL : window.at[3],
                           .output_padding = transposed ? window.at[3] : NULL,
                           .groups = (int)c->i,
                           .layout = layouts.at[0],
                           .kernel_layout = layouts.at[1],
                           .dtype = layouts.at[2] };
    return one(transposed ? hop_conv_transpose_at(at, in[0], in[1], &spec)
                          : hop_conv_at(at, in[0], in[1], &spec),
               out);
}
static int emit_conv(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return emit_window(at, c, in, out, false);
}
static int emit_conv_transpose(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return emit_window(at, c, in, out, true);
}
static hop_window_spec window_spec(const struct fields *f)
{
    return (hop_window_spec){
        .window = f->at[0], .strides = f->at[1], .padding = f->at[2], .dilation = f->at[3]
    };
}
static int emit_reduce_window(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    struct fields f;
    int wrong = cut_fields(c->text, &f);
    if (wrong) return wrong;
    hop_window_spec spec = window_spec(&f);
    return one(hop_reduce_window_at(at, in[0], c->text2, &spec), out);
}
static int emit_avg_pool(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    struct fields f;
    int wrong = cut_fields(c->text, &f);
    if (wrong) return wrong;
    hop_window_spec spec = window_spec(&f);
    return one(hop_avg_pool_at(at, in[0], &spec, (int)c->i), out);
}
static int emit_adaptive_pool(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    struct fields f;
    int wrong = cut_fields(c->text, &f);
    return wrong ? wrong : one(hop_adaptive_pool_at(at, in[0], c->text2, f.at[0], f.at[1]), out);
}
static int emit_resize(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    struct fields f;
    int wrong = cut_fields(c->text, &f);
    if (wrong) return wrong;
    hop_resize_spec spec = { .axes = f.at[0],
                             .sizes = f.at[1],
                             .method = c->text2,
                             .align_corners = (int)c->i,
                             .antialias = (int)c->j };
    return one(hop_resize_at(at, in[0], &spec), out);
}
static int emit_grid_sample(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    hop_sample_spec spec = { .method = c->text, .padding = c->text2, .align_corners = (int)c->i };
    return one(hop_grid_sample_at(at, in[0], in[1], &spec), out);
}
static int emit_map_coordinates(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    hop_sample_spec spec = { .method = c->text, .padding = c->text2, .align_corners = (int)c->i };
    return one(hop_map_coordinates_at(at, in[0], in + 1, (int)c->n - 1, &spec), out);
}
static int emit_bind_dim(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    return one(hop_bind_dim_at(at, in[0], c->i, c->j), out);
}

/* x with the part at the slices `text` set to, or combined with, a value: "set", "add", … */
static int emit_update_slice(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    static const struct {
        const char *mode;
        int (*update)(hop_place, hop_val, hop_val);
    } modes[] = { { "set", hop_assign_at },
                  { "add", hop_add_to_at },
                  { "mul", hop_mul_to_at },
                  { "min", hop_min_to_at },
                  { "max", hop_max_to_at } };
    hop_val variable = hop_variable_at(at, in[0]), part = hop_view_at(at, variable, c->text);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (c->text2 && !strcmp(c->text2, modes[i].mode)) modes[i].update(at, part, in[1]);
    return one(hop_current_at(at, variable), out);
}

/* clang-format off */
#define ROW(name, kind, flags) { #name, kind, flags, 0, ONE, (void *)hop_##name##_at },
#define OWN(name, least, flags, results) { #name, CUSTOM, flags, least, results, (void *)emit_##name },
const struct op_row op_rows[] = {
#define UNARY(name, ...) [OP_##name] = ROW(name, X, FLAT | JOIN)
#define BINARY(name, ...) [OP_##name] = ROW(name, XX, FLAT | JOIN)
#define TERNARY(name, ...) [OP_##name] = ROW(name, XXX, FLAT | JOIN)
#include "ops/elementwise.def"
    [OP_matmul] = ROW(matmul, XX, JOIN)
    [OP_cast] = ROW(cast, XT, FLAT)
    ROW(stop_gradient, X, FLAT | JOIN)
    ROW(keep, X, FLAT | JOIN)
    ROW(recompute, X, FLAT | JOIN)
    ROW(checkpoint_name, XT, FLAT)
    ROW(probe, XT, FLAT)
    ROW(sum, XT, FIRST)
    ROW(prod, XT, FIRST)
    ROW(mean, XT, FIRST)
    ROW(logsumexp, XT, FIRST)
    ROW(reduce_max, XT, FIRST)
    ROW(reduce_min, XT, FIRST)
    ROW(any, XT, FIRST)
    ROW(all, XT, FIRST)
    ROW(softmax, XT, FIRST)
    ROW(log_softmax, XT, FIRST)
    ROW(reshape, XT, FIRST)
    ROW(broadcast, XT, FIRST)
    ROW(permute, XT, FIRST)
    ROW(squeeze, XT, FIRST)
    ROW(reverse, XT, FIRST)
    ROW(tile, XT, FIRST)
    ROW(slice, XT, FIRST)
    ROW(argmax, XI, 0)
    ROW(argmin, XI, 0)
    ROW(expand, XI, FIRST)
    ROW(tril, XI, FIRST)
    ROW(triu, XI, FIRST)
    ROW(size, XI, 0)
    ROW(var, XTI, FIRST)
    ROW(std, XTI, FIRST)
    ROW(cumsum, XII, FIRST)
    ROW(cumprod, XII, FIRST)
    ROW(cummax, XII, FIRST)
    ROW(cummin, XII, FIRST)
    ROW(logcumsumexp, XII, FIRST)
    ROW(sort, XII, FIRST)
    ROW(argsort, XII, 0)
    ROW(move_axis, XII, FIRST)
    ROW(swap_axes, XII, FIRST)
    ROW(transpose, X, FIRST)
    ROW(flatten, X, FIRST)
    ROW(diagonal, X, FIRST)
    ROW(trace, X, FIRST)
    ROW(outer, XX, JOIN)
    ROW(take, XXI, FIRST)
    ROW(take_along, XXI, FIRST)
    ROW(index, XXI, FIRST)
    ROW(roll, XXI, FIRST)
    ROW(searchsorted, XXI, 0)
    ROW(shuffle, XXI, 0)
    ROW(recurrence, XXII, JOIN)
    ROW(concat, LI, JOIN)
    ROW(stack, LI, JOIN)
    ROW(iota, TI, 0)
    ROW(eye, TI, 0)
    ROW(full, TX, 0)
    ROW(arange, TXX, 0)
    ROW(linspace, TXX, 0)
    ROW(random_bits, XT, 0)
    ROW(random_normal, XT, 0)
    ROW(random_split, XT, 0)
    ROW(permutation, XT, 0)
    OWN(pad, 2, FIRST, ONE)
    OWN(einsum, 1, JOIN, ONE)
    OWN(dot, 2, JOIN, ONE)
    OWN(sum_as, 1, 0, ONE)
    OWN(prod_as, 1, 0, ONE)
    OWN(mean_as, 1, 0, ONE)
    OWN(var_as, 1, 0, ONE)
    OWN(std_as, 1, 0, ONE)
    OWN(cumsum_as, 1, 0, ONE)
    OWN(cumprod_as, 1, 0, ONE)
    OWN(matmul_as, 2, 0, ONE)
    OWN(einsum_as, 1, 0, ONE)
    OWN(conv, 2, 0, ONE)
    OWN(conv_transpose, 2, 0, ONE)
    OWN(gather, 1, FIRST, ONE)
    OWN(apply, 0, FIRST, ONE)
    OWN(scatter, 2, FIRST, ONE)
    OWN(dynamic_slice, 1, FIRST, ONE)
    OWN(dynamic_update, 2, FIRST, ONE)
    OWN(nonzero, 1, WIDE, PER_AXIS)
    OWN(top_k, 1, 0, TWO)
    OWN(split, 1, FIRST, AS_ASKED)
    OWN(check, 1, 0, NONE)
    OWN(print, 0, 0, NONE)
    OWN(barrier, 0, 0, PER_OPERAND)
    OWN(update_slice, 2, FIRST, ONE)
    OWN(one_hot, 1, 0, ONE)
    OWN(reduce_window, 1, FIRST, ONE)
    OWN(avg_pool, 1, FIRST, ONE)
    OWN(adaptive_pool, 1, FIRST, ONE)
    OWN(resize, 1, FIRST, ONE)
    OWN(grid_sample, 2, 0, ONE)
    OWN(map_coordinates, 2, 0, ONE)
    OWN(bind_dim, 1, 0, ONE)
    OWN(random_uniform, 1, 0, ONE)
    OWN(randint, 3, 0, ONE)
    OWN(bernoulli, 2, 0, ONE)
};
/* clang-format on */
#define COUNT(a) (sizeof(a) / sizeof *(a))

static int emit_call(hop_place at, const struct call *c, const hop_val *in, hop_val *out)
{
    void *f = c->row->function;
    int i = (int)c->i, j = (int)c->j;
    switch ((enum kind)c->row->kind) {
    case X: return one(((fn_x)f)(at, in[0]), out);
    case XX: return one(((fn_xx)f)(at, in[0], in[1]), out);
    case XXX: return one(((fn_xxx)f)(at, in[0], in[1], in[2]), out);
    case XT: return one(((fn_xt)f)(at, in[0], c->text), out);
    case XI: return one(((fn_xi)f)(at, in[0], i), out);
    case XTI: return one(((fn_xti)f)(at, in[0], c->text, i), out);
    case XII: return one(((fn_xii)f)(at, in[0], i, j), out);
    case XXI: return one(((fn_xxi)f)(at, in[0], in[1], i), out);
    case XXII: return one(((fn_xxii)f)(at, in[0], in[1], i, j), out);
    case LI: return one(((fn_li)f)(at, in, (int)c->n, i), out);
    case T: return one(((fn_t)f)(at, c->text), out);
    case TI: return one(((fn_ti)f)(at, c->text, i), out);
    case TX: return one(((fn_tx)f)(at, c->text, in[0]), out);
    case TXX: return one(((fn_txx)f)(at, c->text, in[0], in[1]), out);
    default: return ((fn_custom)f)(at, c, in, out);
    }
}

static const uint8_t operands_of_kind[] = {
    [X] = 1,   [XX] = 2,   [XXX] = 3, [XT] = 1, [XI] = 1, [XTI] = 1, [XII] = 1,
    [XXI] = 2, [XXII] = 2, [T] = 0,   [TI] = 0, [TX] = 1, [TXX] = 2
};

int call_results(const struct call *c, const struct operand *in)
{
    switch ((enum results)c->row->results) {
    case NONE: return 0;
    case TWO: return 2;
    case PER_AXIS: return in[0].array ? as_array(in[0].array)->rank : 0;
    case PER_OPERAND: return (int)c->n;
    case AS_ASKED: return (int)c->j;
    default: return 1;
    }
}

/* ---- operands ---- */

/* An integer that int64 does not hold: an array where uint64 does. */
static int read_large(PyObject *o, int sign, struct operand *out)
{
    out->large = (int8_t)sign;
    out->real = PyLong_AsDouble(o);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        out->real = sign * HUGE_VAL;
    }
    uint64_t n = sign > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
    if (sign < 0 || PyErr_Occurred()) {
        PyErr_Clear();
        return 0;
    }
    hop_tensor *t = NULL;
    int status = hop_tensor_new_dims(&t, "u64", NULL, 0);
    if (status) {
        raise_status(status);
        return -1;
    }
    memcpy(hop_data(t), &n, sizeof n);
    return (out->array = array_of_tensor(t)) ? 0 : -1;
}

/* Beside floats such an integer is one of them; beside integers it must be one of uint64. */
static int settle_large(struct operand *in, Py_ssize_t n)
{
    bool real = false, any = false;
    for (Py_ssize_t i = 0; i < n; i++) {
        any |= in[i].large != 0;
        real |= (in[i].weak == WEAK_REAL && !in[i].large) ||
                (in[i].array && !in[i].large && dtype_rows[as_array(in[i].array)->dtype].kind == 'f');
    }
    for (Py_ssize_t i = 0; any && i < n; i++) {
        if (!in[i].large) continue;
        in[i].weak = real ? WEAK_REAL : NOT_WEAK;
        if (real) Py_CLEAR(in[i].array);
        else if (!in[i].array) {
            char call[CALLED_SIZE];
            PyErr_Format(PyExc_OverflowError, "%sa Python int does not fit into any integer dtype",
                         user_call(call));
            return -1;
        }
    }
    return 0;
}

bool is_number(PyObject *o)
{
    if (PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o)) return true;
    return (PyFloat_Check(o) || PyLong_Check(o)) && !PyObject_CheckBuffer(o);
}

int operand_read(PyObject *o, struct operand *out)
{
    *out = (struct operand){ 0 };
    if (is_array(o)) {
        out->array = Py_XNewRef((PyObject *)array_part(as_array(o)));
        return out->array ? 0 : -1;
    } else if (is_size(o)) {
        return (out->array = size_value(o, user_place())) ? 0 : -1;
    } else if (!is_number(o)) {
        out->array = array_from_buffer(o, -1);
        if (!out->array && !PyErr_Occurred())
            raise_invalid("expected an array or a number, found %R", (PyObject *)Py_TYPE(o));
        return out->array ? 0 : -1;
    } else if (PyFloat_Check(o)) {
        out->weak = WEAK_REAL;
        out->real = PyFloat_AsDouble(o);
    } else if (PyBool_Check(o)) {
        out->weak = WEAK_BOOL;
        out->integer = o == Py_True;
    } else {
        int overflow;
        out->weak = WEAK_INT;
        out->integer = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) return read_large(o, overflow, out);
    }
    return 0;
}

void operands_drop(struct operand *in, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) Py_CLEAR(in[i].array);
}

/* An array from outside as a value of this capture: a further parameter of it, made once. */
static int lifted(array_object *a, hop_place at, hop_val *out)
{
    struct frame *f = frame_top();
    char type[TYPE_TEXT];
    Py_ssize_t n = PyList_Size(f->hidden);
    array_object raw = *a; /* for its type alone */
    raw.dtype = (int16_t)array_raw_dtype(a);
    PyObject *source = array_source(a);
    bool of_others = source && !is_array(source); /* who may be asked for it several times */
    hop_val now = { 0, 0 };
    if (a->capture && array_now(a, at, &now)) return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        array_object *seen = as_array(PyList_GetItem(f->hidden, i));
        if (f->values[i].known) continue;
        bool same_value = seen->value.scope == now.scope && seen->value.id == now.id;
        bool same_tensor = seen->tensor == a->tensor && (!source || seen->origin == source);
        bool same = seen->capture == a->capture && (a->capture ? same_value : same_tensor);
        bool again = of_others && seen->origin == source && seen->dtype == raw.dtype;
        if (same || again) {
            *out = f->values[i].value;
            return 0;
        }
    }
    if (frame_room(f)) return -1;
    array_type_text(&raw, type);
    hop_val v = a->capture ? hop_parameter_like_at(at, now) : hop_parameter_at(at, type);
    if (!v.scope) {
        raise_status(hop_failed());
        return -1;
    }
    /* x[i] = y on the original must not change what the program was given */
    PyObject *kept;
    if (a->capture) kept = array_raw(a);
    else kept = array_of_shared(hop_tensor_ref(a->tensor), a->memory == READ_ONLY ? READ_ONLY : SHARED);
    array_set_origin(kept, source);
    if (!kept || PyList_Append(f->hidden, kept)) {
        Py_XDECREF(kept);
        return -1;
    }
    Py_DECREF(kept);
    *out = v;
    f->values[n] = (struct hidden_value){ .value = v };
    return 0;
}

hop_val operand_number(const struct operand *o)
{
    if (o->weak == WEAK_REAL) return hop_scalar(o->real);
    return o->weak == WEAK_INT ? hop_int(o->integer) : hop_bool((int)o->integer);
}

int check_alive(const array_object *a, hop_place at)
{
    if (!a->capture || frame_alive(a->capture)) return 0;
    raise_tracer("%s:%d: a traced value that was made at %s:%d is used after the function it belongs to has "
                 "ended (or in another thread): return it from the function instead of keeping it in a "
                 "variable from outside",
                 at.file, at.line, a->made.file, a->made.line);
    return -1;
}

int operand_value(const struct operand *o, hop_place at, hop_val *out)
{
    array_object *a = o->array ? as_array(o->array) : NULL;
    if (!a) {
        *out = operand_number(o);
        return 0;
    }
    if (a->capture && a->capture == frame_top()->serial) return array_here(a, at, out);
    if (check_alive(a, at)) return -1;
    if (!a->capture && !any_tensor(a)) return -1;
    if (!a->base) return lifted(a, at, out);
    struct operand base = { .array = (PyObject *)array_part(as_array(a->base)) };
    const char *slices = base.array ? text_or_null(a->slices) : NULL;
    if (!slices || operand_value(&base, at, out)) return -1;
    *out = hop_slice_at(at, *out, slices);
    if (out->scope) return 0;
    raise_status(hop_failed());
    return -1;
}

int value_of(PyObject *o, hop_place at, hop_val *out)
{
    struct operand in;
    if (operand_read(o, &in)) return -1;
    int failed = settle_large(&in, 1) || operand_value(&in, at, out) ? -1 : 0;
    const array_object *a = in.array ? as_array(in.array) : NULL;
    if (!failed && a && array_raw_dtype(a) != a->dtype)
        *out = hop_cast_at(at, *out, dtype_rows[a->dtype].name);
    operands_drop(&in, 1);
    return failed;
}

/* ---- recorded ---- */

PyObject *call_answer(PyObject **results, int n)
{
    if (n == 1) return results[0];
    PyObject *list = n ? PyList_New(n) : Py_NewRef(Py_None);
    for (int i = 0; i < n; i++) {
        if (list) PyList_SetItem(list, i, results[i]);
        else Py_DECREF(results[i]);
    }
    return list;
}

/* x < n of uint64 and an int64 that may be negative, which is then below all of them. */
static int compare_unsigned(hop_place at, const struct call *c, int unsigned_at, const hop_val *in,
                            hop_val *out)
{
    Py_ssize_t code = c->row - op_rows;
    bool first_is_less = unsigned_at == 1;
    bool less = code == OP_lt || code == OP_le, greater = code == OP_gt || code == OP_ge;
    bool answer = code == OP_ne || (first_is_less ? less : greater);
    hop_val both[2] = { in[0], in[1] };
    hop_val *whole = &both[!unsigned_at];
    hop_val negative = hop_lt_at(at, *whole, hop_int(0));
    *whole = hop_cast_at(at, *whole, "u64");
    hop_val compared = ((fn_xx)c->row->function)(at, both[0], both[1]);
    return one(hop_select_at(at, negative, hop_bool(answer), compared), out);
}

int call_emit(hop_place at, const struct call *c, const struct operand *in, const struct joined *j,
              hop_val *values, hop_val *out)
{
    cast_operands(at, c, in, j, values);
    if (j->unsigned_at < 0) return emit_call(at, c, values, out);
    return compare_unsigned(at, c, j->unsigned_at, values, out);
}

static PyObject *record(const struct call *c, struct operand *in, const struct joined *j)
{
    int n_out = call_results(c, in);
    hop_place at = user_place();
    hop_val few[2 * FEW], *values = few;
    PyObject *results[FEW], **made = results, *answer = NULL;
    if (c->n + n_out > 2 * FEW) values = PyMem_Calloc((size_t)(c->n + n_out), sizeof *values);
    if (n_out > FEW) made = PyMem_Calloc((size_t)n_out, sizeof *made);
    if (!values || !made) {
        answer = PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < c->n; i++)
        if (operand_value(&in[i], at, &values[i])) goto done;
    int status = call_emit(at, c, in, j, values, values + c->n);
    if (status) {
        raise_status(status);
        goto done;
    }
    for (int i = 0; i < n_out; i++) {
        if (!(made[i] = array_of_value(values[c->n + i], at))) {
            while (i-- > 0) Py_DECREF(made[i]);
            goto done;
        }
        mark_result(as_array(made[i]), j);
    }
    answer = call_answer(made, n_out);
done:
    if (values != few) PyMem_Free(values);
    if (made != results) PyMem_Free(made);
    return answer;
}

/* ---- dispatch ---- */

/* Integers compared with a Python int that their dtype does not hold: the answer is the same for all of them,
 * as that of x == x or of x != x. */
static void compare_beside(struct call *c, struct operand *in)
{
    if (!is_comparison(c->row, op_rows)) return;
    for (int i = 0; i < 2; i++) {
        struct operand *number = &in[i], *other = &in[!i];
        if (number->weak != WEAK_INT || (number->array && !number->large) || !other->array || other->large)
            continue;
        int dtype = as_array(other->array)->dtype;
        if (dtype_rows[dtype].kind != 'i' && dtype_rows[dtype].kind != 'u') continue;
        int side = number_beside(dtype, number);
        if (!side) continue;
        Py_ssize_t code = c->row - op_rows;
        bool first_is_less = (side > 0) == (i == 1);
        bool answer = code == OP_ne ||
                      (first_is_less ? code == OP_lt || code == OP_le : code == OP_gt || code == OP_ge);
        Py_XDECREF(number->array);
        *number = (struct operand){ .array = Py_NewRef(other->array) };
        c->row = &op_rows[answer ? OP_eq : OP_ne];
    }
}

static PyObject *dispatch(struct call *c, struct operand *in)
{
    bool traced = frame_top() != NULL;
    struct joined j;
    compare_beside(c, in);
    if (settle_large(in, c->n)) return NULL;
    for (Py_ssize_t i = 0; i < c->n && !traced; i++)
        if (in[i].array && as_array(in[i].array)->capture) {
            const array_object *a = as_array(in[i].array);
            hop_place at = user_place();
            return raise_tracer(
                "%s:%d: a traced value that was made at %s:%d is used after the function it belongs to has "
                "ended (or in another thread): return it from the function instead of keeping it in a "
                "variable from outside",
                at.file, at.line, a->made.file, a->made.line);
        }
    for (Py_ssize_t i = 0; i < c->n; i++)
        if (in[i].array && refuse_object(as_array(in[i].array), c->row->name)) return NULL;
    if (join_operands(c, in, &j)) return NULL;
    return traced ? record(c, in, &j) : run_at_once(c, in, &j);
}

static bool convertible(PyObject *o)
{
    return is_array(o) || is_size(o) || is_number(o) || PyObject_CheckBuffer(o);
}

PyObject *binary_slot(int code, PyObject *x, PyObject *y)
{
    struct call c = { .row = &op_rows[code], .n = 2, .sign = true };
    struct operand in[2] = { { 0 }, { 0 } };
    PyObject *r = NULL;
    if (!convertible(x) || !convertible(y)) Py_RETURN_NOTIMPLEMENTED;
    if (!operand_read(x, &in[0]) && !operand_read(y, &in[1])) r = dispatch(&c, in);
    operands_drop(in, 2);
    if (!r) hide_frames();
    return r;
}

PyObject *unary_slot(int code, PyObject *x)
{
    struct call c = { .row = &op_rows[code], .n = 1, .sign = true };
    struct operand in[1] = { { 0 } };
    PyObject *r = operand_read(x, in) ? NULL : dispatch(&c, in);
    operands_drop(in, 1);
    if (!r) hide_frames();
    return r;
}

static const struct op_row *row_of(PyObject *code)
{
    long k = PyLong_AsLong(code);
    if (k < 0 || k >= (long)COUNT(op_rows)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "there is no such operator");
        return NULL;
    }
    return &op_rows[k];
}

/* op(code, operand, …): for rows that take operands alone */
static PyObject *op(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct operand in[3] = { { 0 }, { 0 }, { 0 } };
    struct call c = { .row = n ? row_of(args[0]) : NULL, .n = n - 1 };
    PyObject *r = NULL;
    (void)self;
    if (!c.row || n < 2 || n > 4 || c.row->kind > XXX || operands_of_kind[c.row->kind] != n - 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError,
                            "an operator was called with another number of operands than it has");
        return NULL;
    }
    Py_ssize_t i = 0;
    while (i < n - 1 && !operand_read(args[i + 1], &in[i])) i++;
    if (i == n - 1) r = dispatch(&c, in);
    operands_drop(in, 3);
    return r;
}

/* An integer of a call. Those beyond int are no axis, no number of parts and no correction of anything. */
static int call_integer(PyObject *o, const struct op_row *row, int64_t *out)
{
    int overflow = 0;
    if (!PyLong_Check(o) && !PyIndex_Check(o)) {
        raise_invalid("expected an integer, found %R", (PyObject *)Py_TYPE(o));
        return -1;
    }
    PyObject *whole = PyNumber_Index(o);
    if (!whole) return -1;
    *out = PyLong_AsLongLongAndOverflow(whole, &overflow);
    Py_DECREF(whole);
    if (overflow || (!(row->flags & WIDE) && (*out < INT32_MIN || *out > INT32_MAX))) {
        raise_invalid("expected an integer of moderate size, found %R", o);
        return -1;
    }
    return 0;
}

/* call(code, operands, text, i, j, text2): any row */
static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    struct operand few[FEW], *in = few;
    PyObject *r = NULL;
    (void)self;
    struct call c = { .row = n ? row_of(args[0]) : NULL };
    if (!c.row) return NULL;
    if (n < 2 || n > 6 || !PyTuple_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "call(code, operands, text=None, i=0, j=0, text2=None)");
        return NULL;
    }
    c.n = PyTuple_Size(args[1]);
    if (n > 2) c.text = text_or_null(args[2]);
    if (PyErr_Occurred()) return NULL;
    if (n > 3 && call_integer(args[3], c.row, &c.i)) return NULL;
    if (n > 4 && call_integer(args[4], c.row, &c.j)) return NULL;
    if (n > 5) c.text2 = text_or_null(args[5]);
    if (PyErr_Occurred()) return NULL;
    bool any = c.row->kind == LI || c.row->kind == CUSTOM;
    int expected = any ? 0 : operands_of_kind[c.row->kind];
    if (c.row->kind == CUSTOM) expected = c.row->least;
    if (any ? c.n < expected : c.n != expected) {
        PyErr_Format(PyExc_TypeError, "%s takes %d operands%s, given %zd", c.row->name, expected,
                     any ? " or more" : "", c.n);
        return NULL;
    }
    if (c.n > FEW && !(in = PyMem_Calloc((size_t)c.n, sizeof *in))) return PyErr_NoMemory();
    memset(in, 0, (size_t)c.n * sizeof *in);
    Py_ssize_t i = 0;
    while (i < c.n && !operand_read(PyTuple_GetItem(args[1], i), &in[i])) i++;
    if (i == c.n) r = dispatch(&c, in);
    operands_drop(in, c.n);
    if (in != few) PyMem_Free(in);
    return r;
}

/* {name: (operands, family, meaning)} of the elementwise operators, as the table has them. */
static PyObject *elementwise_operators(void)
{
    static const struct {
        const char *name;
        int operands;
        const char *family, *meaning;
    } all[] = {
#define UNARY(name, family, meaning, ...) { #name, 1, #family, meaning },
#define BINARY(name, family, meaning, ...) { #name, 2, #family, meaning },
#define TERNARY(name, family, meaning, ...) { #name, 3, #family, meaning },
#include "ops/elementwise.def"
    };
    PyObject *out = PyDict_New();
    for (size_t i = 0; out && i < COUNT(all); i++) {
        PyObject *about = Py_BuildValue("(iss)", all[i].operands, all[i].family, all[i].meaning);
        if (!about || PyDict_SetItemString(out, all[i].name, about)) Py_CLEAR(out);
        Py_XDECREF(about);
    }
    return out;
}

static PyMethodDef functions[] = {
    { "op", (PyCFunction)(void (*)(void))op, METH_FASTCALL, "op(code, operand, …)" },
    { "call", (PyCFunction)(void (*)(void))call, METH_FASTCALL,
      "call(code, operands, text=None, i=0, j=0, text2=None)" },
    { NULL, NULL, 0, NULL },
};

int ops_init(PyObject *module)
{
    PyObject *codes = PyDict_New();
    for (size_t i = 0; codes && i < COUNT(op_rows); i++) {
        PyObject *n = PyLong_FromSize_t(i);
        if (!n || PyDict_SetItemString(codes, op_rows[i].name, n)) Py_CLEAR(codes);
        Py_XDECREF(n);
    }
    PyObject *elementwise = elementwise_operators();
    int failed = !codes || !elementwise || PyModule_AddObjectRef(module, "codes", codes) ||
                 PyModule_AddObjectRef(module, "elementwise", elementwise) ||
                 PyModule_AddFunctions(module, functions);
    Py_XDECREF(codes);
    Py_XDECREF(elementwise);
    return failed;
}
