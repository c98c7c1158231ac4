/* Rows of the operators that make arrays out of nothing (constant full iota dim_value), bind sizes
 * (bind_dim), stop something (stop_gradient barrier) or are run for their effect (check print). */
#include "ops/misc.h"

#include "interp/interp.h"
#include "ir/number.h"
#include "loop/lower.h"
#include "ops/facts.h"
#include "ops/rowkit.h"

static val operand(const struct fn *f, const struct node *n, uint32_t i) { return node_operands(f, n)[i]; }
static struct type operand_type(const struct module *m, const struct fn *f, const struct node *n, uint32_t i)
{
    return type_get(m, value_type(f, operand(f, n, i)));
}

static void batch_nothing(struct batch *v) { batch_none(v); }

static enum dtype dtype_or(const struct attr *a, enum dtype otherwise)
{
    return a->kind == ATTR_ABSENT ? otherwise : (enum dtype)a->i;
}

/* ---- constant ---- */

static void infer_constant(struct infer *in)
{
    infer_result(in, in->m->constants.data[in->attrs[CONSTANT_VALUE].i].type);
}

static void eval_constant(struct eval *e)
{
    const struct constant *c = &e->m->constants.data[node_attr(e->f, e->n, CONSTANT_VALUE)->i];
    if (c->bytes) memcpy(e->results[0]->data, c->data, c->bytes);
}

static lpv elem_constant(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                         const lpv *idx)
{
    HOP_UNUSED(result);
    struct lp *p = lower_lp(L);
    uint32_t index = (uint32_t)node_attr(f, n, CONSTANT_VALUE)->i;
    const struct constant *c = &lower_module(L)->constants.data[index];
    struct type t = type_get(lower_module(L), c->type);
    size_t width = dtype_info[t.dtype].size;
    bool uniform = c->bytes >= width; /* all elements alike: no memory needed */
    for (size_t i = width; uniform && i < c->bytes; i += width)
        uniform = !memcmp(c->data, (const char *)c->data + i, width);
    if (uniform || !c->bytes) {
        uint64_t bits = 0;
        if (c->bytes) memcpy(&bits, c->data, width);
        return lp_const_bits(p, (enum dtype)t.dtype, bits);
    }
    uint32_t buffer = 0;
    for (; buffer < p->buffers.len; buffer++) {
        const struct lp_buffer *known = &p->buffers.data[buffer];
        if (known->kind == BUF_CONST && known->index == index) break;
    }
    if (buffer == p->buffers.len) {
        int64_t count = (int64_t)(c->bytes / width);
        buffer = lp_buffer(p, (struct lp_buffer){ .kind = BUF_CONST,
                                                  .dtype = t.dtype,
                                                  .index = index,
                                                  .count = dim_const(lower_module(L), count),
                                                  .static_count = count,
                                                  .why = "a constant",
                                                  .name = arena_printf(&p->arena, "const%u", index) });
    }
    return lp_load(p, buffer, lower_flatten(L, c->type, idx));
}

enum { CONSTANT_LIMIT = 64 }; /* elements of a constant that are looked at */
static struct range range_constant(const struct range_in *w)
{
    const struct constant *k = &w->m->constants.data[node_attr(w->f, w->n, CONSTANT_VALUE)->i];
    size_t width = dtype_info[w->t].size, count = k->bytes / width;
    if (!count || count > CONSTANT_LIMIT) return range_of_dtype(w->t);
    struct range r = { INT64_MAX, INT64_MIN };
    for (size_t i = 0; i < count; i++) {
        int64_t v = element_whole(w->t, (const char *)k->data + i * width);
        if (w->t == DT_U64 && v < 0) return range_of_dtype(w->t);
        r = range_join(r, (struct range){ v, v });
    }
    return r;
}

/* Of equal elements: a full. */
static val fold_constant(const struct fold *w)
{
    const struct constant *k = &w->m->constants.data[w->attrs[CONSTANT_VALUE].i];
    enum dtype dtype = (enum dtype)type_get(w->m, w->type).dtype;
    size_t width = dtype_info[dtype].size;
    if (k->bytes > FOLD_LIMIT * width || !k->bytes) return VAL_NONE;
    for (size_t at = width; at < k->bytes; at += width)
        if (memcmp(k->data, (const char *)k->data + at, width)) return VAL_NONE;
    if (!fold_full_holds(dtype, k->data)) return VAL_NONE;
    return fold_number_attr(w, fold_element_attr(dtype, k->data));
}

static const struct attr_spec constant_attrs[] = { [CONSTANT_VALUE] = { "value", ATTR_CONST, true, NULL } };
static const struct op_lower lower_constant = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_FREE, .elem = elem_constant
};
static const struct op_sample constant_samples[] = {
    { "hop 1\nconst @k: f32[3] = [1, -0.5, 2]\nfn @sample(%x: f32[2]) -> (f32[3], f32[2]) {\n  %y = constant "
      "{value = @k}\n  return %y, %x\n}\n",
      NULL },
    { "hop 1\nconst @k: i64[2, 2] = [[1, 2], [3, -4]]\nfn @sample() -> (i64[2, 2]) {\n  %y = constant {value "
      "= @k}\n  return %y\n}\n",
      NULL },
    { "hop 1\nconst @k: bool[] = true\nfn @sample() -> (bool[]) {\n  %y = constant {value = @k}\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nconst @k: f64[0] = []\nfn @sample() -> (f64[0]) {\n  %y = constant {value = @k}\n  return "
      "%y\n}\n",
      NULL },
};
const struct op_row row_constant = {
    .name = "constant",
    .meaning = "a constant of the module",
    .sig = { 0, 0, ROW_ATTRS(constant_attrs) },
    .infer = infer_constant,
    .eval = eval_constant,
    .batch = batch_nothing,
    .lower = &lower_constant,
    .no_gradient = "piecewise constant",
    .range = range_constant,
    .fold = fold_constant,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(constant_samples),
};

/* ---- full ---- */

/* The bits of the literal in the dtype; an error when it does not fit. */
static uint64_t full_bits(const struct attr *value, enum dtype t)
{
    uint64_t bits = 0;
    if (value->kind == ATTR_REAL) element_set_real(t, &bits, value->r);
    else element_set_whole(t, &bits, value->i);
    return bits;
}

static void infer_full(struct infer *in)
{
    enum dtype t = dtype_or(&in->attrs[FULL_DTYPE], DT_F32);
    const struct attr *value = &in->attrs[FULL_VALUE];
    int64_t lo = dtype_least(t), hi = dtype_most(t);
    if (!dtype_is_float(t)) {
        if (value->kind != ATTR_INT)
            infer_error(in, "attribute 'value': expected an integer for dtype %s, found %g",
                        dtype_info[t].name, value->r);
        if (value->i < lo || value->i > hi)
            infer_error(in, "attribute 'value': expected a value of dtype %s (%lld..%lld), found %lld",
                        dtype_info[t].name, (long long)lo, (long long)hi, (long long)value->i);
    }
    infer_result(in, infer_dims_type(in, t, &in->attrs[FULL_DIMS]));
}

static void eval_full(struct eval *e)
{
    const struct tensor *r = e->results[0];
    /* Little-endian: its first bytes are the element. */
    uint64_t bits = full_bits(node_attr(e->f, e->n, FULL_VALUE), (enum dtype)r->dtype);
    for (int64_t i = 0; i < r->count; i++)
        memcpy((char *)r->data + i * (int64_t)tensor_width(r), &bits, tensor_width(r));
}

static lpv elem_full(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                     const lpv *idx)
{
    HOP_UNUSED(idx);
    enum dtype t = (enum dtype)type_get(lower_module(L), value_type(f, n->results + result)).dtype;
    return lp_const_bits(lower_lp(L), t, full_bits(node_attr(f, n, FULL_VALUE), t));
}

static struct range range_full(const struct range_in *w)
{
    const struct attr *v = node_attr(w->f, w->n, FULL_VALUE);
    if (v->kind != ATTR_INT) return range_of_dtype(w->t);
    return w->t == DT_BOOL ? (struct range){ v->i != 0, v->i != 0 } : range_wrapped(w->t, v->i, v->i);
}

/* One way to write each. */
static val fold_full(const struct fold *w)
{
    enum dtype dtype = (enum dtype)type_get(w->m, w->type).dtype;
    char element[8];
    fold_element(dtype, &w->attrs[FULL_VALUE], element);
    struct attr canonical = fold_element_attr(dtype, element);
    bool is_canonical = attrs_equal(&canonical, &w->attrs[FULL_VALUE]);
    if (is_canonical && w->attrs[FULL_DTYPE].kind == ATTR_DTYPE) return VAL_NONE;
    return fold_number_attr(w, canonical);
}

static const struct attr_spec full_attrs[] = { [FULL_VALUE] = { "value", ATTR_SCALAR, true, NULL },
                                               [FULL_DIMS] = { "dims", ATTR_DIMS, true, NULL },
                                               [FULL_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL } };
static const struct op_lower lower_full = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_FREE, .elem = elem_full
};
static const struct op_sample full_samples[] = {
    { "hop 1\nfn @sample[T](%n: f32[T]) -> (f32[T, 2]) {\n  %y = full {value = 0.1, dims = [T, 2]}\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nfn @sample() -> (f64[]) {\n  %y = full {value = -3, dims = [], dtype = f64}\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample() -> (i32[3]) {\n  %y = full {value = -7, dims = [3], dtype = i32}\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nfn @sample() -> (bool[2, 0]) {\n  %y = full {value = 1, dims = [2, 0], dtype = bool}\n  return "
      "%y\n}\n",
      NULL },
};
const struct op_row row_full = {
    .name = "full",
    .meaning = "an array filled with one number",
    .sig = { 0, 0, ROW_ATTRS(full_attrs) },
    .infer = infer_full,
    .eval = eval_full,
    .batch = batch_nothing,
    .lower = &lower_full,
    .no_gradient = "piecewise constant",
    .range = range_full,
    .fold = fold_full,
    .sliced = sliced_anywhere,
    .sizes_attr = 1 + FULL_DIMS,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(full_samples),
};

/* ---- iota ---- */

static void infer_iota(struct infer *in)
{
    enum dtype t = dtype_or(&in->attrs[IOTA_DTYPE], DT_I64);
    if (t == DT_BOOL) infer_error(in, "attribute 'dtype': expected a dtype of numbers, found bool");
    infer_one_dim(in, &in->attrs[IOTA_DIM], in->attrs[IOTA_DIMS].n, "dim");
    infer_result(in, infer_dims_type(in, t, &in->attrs[IOTA_DIMS]));
}

static void store_integer(const struct tensor *t, int64_t at, int64_t value)
{
    element_set_whole((enum dtype)t->dtype, (char *)t->data + (size_t)at * tensor_width(t), value);
}

static void eval_iota(struct eval *e)
{
    const struct tensor *r = e->results[0];
    uint32_t along = attr_dim_or_zero(node_attr(e->f, e->n, IOTA_DIM));
    int64_t strides[MAX_RANK];
    row_major(r->rank, r->dims, strides);
    for (int64_t i = 0; i < r->count; i++) store_integer(r, i, i / strides[along] % r->dims[along]);
}

static lpv elem_iota(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                     const lpv *idx)
{
    HOP_UNUSED(result);
    enum dtype t = dtype_or(node_attr(f, n, IOTA_DTYPE), DT_I64);
    uint32_t along = attr_dim_or_zero(node_attr(f, n, IOTA_DIM));
    return lp_cast(lower_lp(L), t, idx[along]);
}

static struct range range_iota(const struct range_in *w)
{
    struct type t = type_get(w->m, value_type(w->f, w->n->results));
    dim size = t.dims[attr_dim_or_zero(node_attr(w->f, w->n, IOTA_DIM))];
    return range_wrapped(w->t, 0, HOP_MAX(range_of_dim(w, size).hi, 1) - 1);
}

static const struct attr_spec iota_attrs[] = { [IOTA_DIMS] = { "dims", ATTR_DIMS, true, NULL },
                                               [IOTA_DIM] = { "dim", ATTR_INT, false, NULL },
                                               [IOTA_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL } };
static const struct op_lower lower_iota = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_FREE, .elem = elem_iota
};
static const struct op_sample iota_samples[] = {
    { "hop 1\nfn @sample() -> (i64[4]) {\n  %y = iota {dims = [4]}\n  return %y\n}\n", NULL },
    { "hop 1\nfn @sample[T](%n: f32[T]) -> (f32[2, T, 3]) {\n  %y = iota {dims = [2, T, 3], dim = 1, dtype = "
      "f32}\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample() -> (u32[2, 3]) {\n  %y = iota {dims = [2, 3], dim = 1, dtype = u32}\n  return "
      "%y\n}\n",
      NULL },
    { "hop 1\nfn @sample() -> (f64[0]) {\n  %y = iota {dims = [0], dtype = f64}\n  return %y\n}\n", NULL },
    { "hop 1\nfn @sample() -> (f16[3000]) {\n  %y = iota {dims = [3000], dtype = f16}\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample() -> (u8[2, 300]) {\n  %y = iota {dims = [2, 300], dim = 1, dtype = u8}\n  return "
      "%y\n}\n",
      NULL },
};
const struct op_row row_iota = {
    .name = "iota",
    .meaning = "0, 1, 2, … along a dim",
    .sig = { 0, 0, ROW_ATTRS(iota_attrs) },
    .infer = infer_iota,
    .eval = eval_iota,
    .batch = batch_nothing,
    .lower = &lower_iota,
    .no_gradient = "piecewise constant",
    .range = range_iota,
    .sliced = sliced_iota,
    .sizes_attr = 1 + IOTA_DIMS,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(iota_samples),
};

/* ---- dim_value ---- */

static void infer_dim_value(struct infer *in) { infer_result(in, type_scalar(in->m, DT_I64)); }
static void eval_dim_value(struct eval *e)
{
    dim size = (dim)node_attr(e->f, e->n, DIM_VALUE_DIM)->i;
    *(int64_t *)e->results[0]->data = dim_eval(e->m, size, e->symbols);
}
static lpv elem_dim_value(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                          const lpv *idx)
{
    HOP_UNUSED(result);
    HOP_UNUSED(idx);
    return lower_dim(L, (dim)node_attr(f, n, DIM_VALUE_DIM)->i);
}

static struct range range_dim_value(const struct range_in *w)
{
    return range_of_dim(w, (dim)node_attr(w->f, w->n, DIM_VALUE_DIM)->i);
}
static val fold_dim_value(const struct fold *w)
{
    dim d = (dim)w->attrs[DIM_VALUE_DIM].i;
    return dim_is_const(w->m, d) ? fold_number_attr(w, A_INT(dim_const_value(w->m, d))) : VAL_NONE;
}

static const struct attr_spec dim_value_attrs[] = { [DIM_VALUE_DIM] = { "dim", ATTR_DIM, true, NULL } };
static const struct op_lower lower_dim_value = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_FREE, .elem = elem_dim_value
};
static const struct op_sample dim_value_samples[] = {
    { "hop 1\nfn @sample[T](%n: f32[T]) -> (i64[]) {\n  %y = dim_value {dim = 2*T + 1}\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample() -> (i64[]) {\n  %y = dim_value {dim = 5}\n  return %y\n}\n", NULL },
};
const struct op_row row_dim_value = {
    .name = "dim_value",
    .meaning = "a size as a number",
    .sig = { 0, 0, ROW_ATTRS(dim_value_attrs) },
    .infer = infer_dim_value,
    .eval = eval_dim_value,
    .batch = batch_nothing,
    .lower = &lower_dim_value,
    .no_gradient = "integer-valued",
    .range = range_dim_value,
    .fold = fold_dim_value,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(dim_value_samples),
};

/* ---- bind_dim ---- */

const char bind_dim_message[] = "a size within its range";

static void infer_bind_dim(struct infer *in)
{
    int64_t lo = in->attrs[BIND_DIM_LO].kind == ATTR_ABSENT ? 0 : in->attrs[BIND_DIM_LO].i;
    int64_t hi = in->attrs[BIND_DIM_HI].kind == ATTR_ABSENT ? INT64_MAX : in->attrs[BIND_DIM_HI].i;
    if (lo < 0 || hi < lo)
        infer_error(in, "attributes 'lo' and 'hi': expected 0 <= lo <= hi, found %lld and %lld",
                    (long long)lo, (long long)hi);
    infer_same_type(in, type_scalar(in->m, DT_I64), in->operands[0], "operand 0");
    dim size = infer_fresh(in, lo, hi);
    infer_result(in, type_intern(in->m, DT_I64, 1, &size));
}

static void eval_bind_dim(struct eval *e)
{
    const struct attr *lo = node_attr(e->f, e->n, BIND_DIM_LO), *hi = node_attr(e->f, e->n, BIND_DIM_HI);
    int64_t n = *(const int64_t *)e->operands[0]->data;
    if (n < (lo->kind == ATTR_ABSENT ? 0 : lo->i) || (hi->kind != ATTR_ABSENT && n > hi->i)) {
        struct text out = { .arena = &e->m->scratch };
        check_failed_text(&out, place_text(e->m, e->n->place), place_stack(e->m, e->n->place),
                          bind_dim_message, e->operands, 1);
        hop_throw(HOP_CHECK, "%s", out.data);
    }
    e->results[0] = tensor_new(DT_I64, 1, &n);
    for (int64_t i = 0; i < n; i++) ((int64_t *)e->results[0]->data)[i] = i;
}

static void batch_bind_dim(struct batch *v)
{
    if (!batch_none(v))
        hop_throw(HOP_INVALID,
                  "%sbind_dim: its operand differs from lane to lane, and arrays whose sizes differ do not "
                  "fit into one rectangular array; bind a size that is the same for all lanes",
                  place_text(v->b->m, v->n->place));
}

static lpv elem_bind_dim(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                         const lpv *idx)
{
    HOP_UNUSED(L);
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    HOP_UNUSED(result);
    return idx[0];
}

static struct range range_bind_dim(const struct range_in *w)
{
    return (struct range){ 0, HOP_MAX(w->x.hi, 1) - 1 };
}

static const struct attr_spec bind_dim_attrs[] = {
    [BIND_DIM_LO] = { "lo", ATTR_INT, false, NULL }, [BIND_DIM_HI] = { "hi", ATTR_INT, false, NULL }
};
static const struct op_lower lower_bind_dim = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_FREE, .elem = elem_bind_dim
};
static const struct op_sample bind_dim_samples[] = {
    { "hop 1\nfn @sample[T](%x: f32[T]) -> (i64[?k], f32[T]) {\n  %n = dim_value {dim = 2*T + 1}\n  %y: "
      "i64[?k] = bind_dim(%n)\n  return %y, %x\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[T]) -> (f32[?k, T]) {\n  %n = dim_value {dim = 4}\n  %y: i64[?k] = "
      "bind_dim {lo = 1, hi = 8} (%n)\n"
      "  %z = broadcast {dims = [?k, T], at = [1]} (%x)\n  return %z\n}\n",
      NULL },
};
const struct op_row row_bind_dim = {
    .name = "bind_dim",
    .meaning = "0, 1, … n-1 for a number n, which becomes a size",
    .sig = { 1, 1, ROW_ATTRS(bind_dim_attrs) },
    .infer = infer_bind_dim,
    .eval = eval_bind_dim,
    .batch = batch_bind_dim,
    .lower = &lower_bind_dim,
    .no_gradient = "integer-valued",
    .range = range_bind_dim,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(bind_dim_samples),
};

/* ---- stop_gradient, barrier, tag ---- */

static void infer_pass(struct infer *in)
{
    for (uint32_t i = 0; i < in->n_operands; i++) infer_result(in, in->operands[i]);
}

static void eval_pass(struct eval *e)
{
    for (uint32_t i = 0; i < e->n->n_results; i++) {
        const struct tensor *r = e->results[i];
        if (r->count) memcpy(r->data, e->operands[i]->data, (size_t)r->count * tensor_width(r));
    }
}

static void batch_pass(struct batch *v)
{
    val first = emit(v->b, (enum op)v->n->op, v->operands, v->n->n_operands, v->attrs);
    for (uint32_t i = 0; i < v->n->n_operands; i++) {
        v->results[i] = first + i;
        v->result_batched[i] = v->batched[i];
    }
}

static lpv elem_pass(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                     const lpv *idx)
{
    return lower_elem(L, operand(f, n, result), idx);
}

static const struct op_lower lower_pass = {
    .kind = LOWER_POINTWISE, .access = ACCESS_SAME, .cost = COST_FREE, .elem = elem_pass
};

static val fold_stop_gradient(const struct fold *w) { return w->last ? w->x[0] : VAL_NONE; }

static bool stop_is_linear(const struct module *m, const struct fn *f, const struct node *n)
{
    (void)m;
    return node_attr(f, n, STOP_RESULT)->kind != ATTR_ABSENT;
}

/* No rules on purpose: nothing flows back and no tangent comes out, the result does not count as depending on
 * its operand. */
static const struct op_sample stop_gradient_samples[] = {
    { "hop 1\nfn @sample[T](%x: f32[T, 2]) -> (f32[T, 2]) {\n  %y = stop_gradient(%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[]) -> (i32[]) {\n  %y = stop_gradient(%x)\n  return %y\n}\n", NULL },
    { "hop 1\nfn @sample(%x: f64[0]) -> (f64[0]) {\n  %y = stop_gradient(%x)\n  return %y\n}\n", NULL },
    { "hop 1\nfn @sample(%x: f64[2]) -> (f64[2]) {\n  %y = stop_gradient {result = unread} (%x)\n"
      "  return %y\n}\n",
      NULL },
};
static const char *const stop_words[] = { "unread", NULL };
static const struct attr_spec stop_attrs[] = { [STOP_RESULT] = { "result", ATTR_WORD, false, stop_words } };
const struct op_row row_stop_gradient = {
    .name = "stop_gradient",
    .meaning = "its operand, as a constant for differentiation; unread: nothing that counts comes of it",
    .sig = { 1, 1, ROW_ATTRS(stop_attrs) },
    .flags = OPF_ALIAS,
    .infer = infer_pass,
    .eval = eval_pass,
    .batch = batch_pass,
    .lower = &lower_pass,
    .no_gradient = "opaque without a rule",
    .range = range_of_operand,
    .fold = fold_stop_gradient,
    .linear = stop_is_linear,
    .sliced = sliced_same,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(stop_gradient_samples),
};

static void vjp_pass(struct vjp *v)
{
    for (uint32_t i = 0; i < v->n->n_operands; i++)
        if (v->active[i]) v->out[i] = v->ct[i];
}

static void jvp_pass(struct jvp *j)
{
    for (uint32_t i = 0; i < j->n->n_operands; i++) j->out[i] = j->tangents[i];
}

static const struct op_sample barrier_samples[] = {
    { "hop 1\nfn @sample[T](%x: f32[T, 2], %y: f64[3]) -> (f32[T, 2], f64[3]) {\n  %a, %b = barrier(%x, "
      "%y)\n  return %a, %b\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[], %i: i32[2]) -> (f32[], i32[2]) {\n  %a, %b = barrier(%x, %i)\n  return "
      "%a, %b\n}\n",
      NULL },
};
const struct op_row row_barrier = {
    .name = "barrier",
    .meaning = "its operands; no pass merges or moves anything across it",
    .sig = { 1, MANY },
    .flags = OPF_NO_MERGE | OPF_ALIAS,
    .axis_role = AXIS_EACH,
    .infer = infer_pass,
    .eval = eval_pass,
    .vjp = vjp_pass,
    .jvp = jvp_pass,
    .batch = batch_pass,
    .lower = &lower_pass,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(barrier_samples),
};

static void batch_tag(struct batch *v)
{
    v->results[0] = emit(v->b, OP_tag, v->operands, 1, v->attrs);
    v->result_batched[0] = v->batched[0];
}

/* It has nothing to say to anybody but a gradient; a program that asks for the value itself, not through a
 * policy, has it stored when it is compiled, too. */
static val fold_tag(const struct fold *w)
{
    bool asked = attr_is_word(&w->attrs[TAG_GRADIENT], TAG_KEEP) && w->attrs[TAG_USE].kind == ATTR_ABSENT;
    return asked ? VAL_NONE : w->x[0];
}

/* The name of a probe is a path: of parts with / between them. */
static void check_probe(const struct infer *in, const char *text)
{
    if (in->attrs[TAG_GRADIENT].kind != ATTR_ABSENT)
        infer_error(in, "a probe says nothing to a gradient: expected no attribute gradient");
    if (!text) infer_error(in, "a probe has a name: expected name = \"…\"");
    if (*text == '/' || !*text || text[strlen(text) - 1] == '/' || strstr(text, "//"))
        infer_error(in, "name \"%s\": expected parts with one / between them", text);
}

/* Names stand in lists of policies, so they are made of what cannot end one. */
static void infer_tag(struct infer *in)
{
    const struct attr *name = &in->attrs[TAG_NAME];
    const char *text = name->kind == ATTR_ABSENT ? NULL : module_text(in->m, (uint32_t)name->i);
    const struct attr *use = &in->attrs[TAG_USE];
    if (use->kind != ATTR_ABSENT && use->i != TAG_SAVES) check_probe(in, text);
    if (!text && in->attrs[TAG_GRADIENT].kind == ATTR_ABSENT)
        infer_error(in, "expected gradient = keep, recompute or offload, or name = \"…\"");
    if (text && (!*text || *text == ' ' || text[strlen(text) - 1] == ' ' || strpbrk(text, ",[]()=\t\n")))
        infer_error(in, "name \"%s\": expected a name without , = [ ] ( ) and without spaces around it",
                    text);
    infer_pass(in);
}

static const struct op_sample tag_samples[] = {
    { "hop 1\nfn @sample[T](%x: f32[T, 2]) -> (f32[T, 2]) {\n  %y = sin(%x)\n  %z = tag {gradient = keep} "
      "(%y)\n  %e = exp(%z)\n  return %e\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[3]) -> (f64[3]) {\n  %y = tanh(%x)\n  %z = tag {gradient = recompute} "
      "(%y)\n  %e = mul(%z, %z)\n  return %e\n}\n",
      NULL },
    { "hop 1\nfn @f(%x: f64[3]) -> (f64[3]) {\n  %y = tanh(%x)\n  %z = tag {name = \"t\"} (%y)\n  %e = "
      "mul(%z, "
      "%z)\n  return %e\n}\nfn @sample(%x: f64[3]) -> (f64[3]) {\n  %y = invoke_subgraph {policy = "
      "\"names(save = [t])\"} @f(%x)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[3]) -> (f64[3]) {\n  %y = tanh(%x)\n  %z = tag {name = \"layer/t\", use = "
      "probe} (%y)\n  %e = mul(%z, %y)\n  return %e\n}\n",
      NULL },
};
static const char *const tag_uses[] = {
    [TAG_SAVES] = "save", [TAG_PROBES] = "probe", [TAG_GIVES] = "give", [TAG_TAKES] = "take", NULL
};
static const char *const tag_words[] = {
    [TAG_KEEP] = "keep", [TAG_RECOMPUTE] = "recompute", [TAG_OFFLOAD] = "offload", NULL
};
static const struct attr_spec tag_attrs[] = { [TAG_GRADIENT] = { "gradient", ATTR_WORD, false, tag_words },
                                              [TAG_NAME] = { "name", ATTR_STRING, false, NULL },
                                              [TAG_USE] = { "use", ATTR_WORD, false, tag_uses } };
const struct op_row row_tag = {
    .name = "tag",
    .meaning =
        "its operand; a gradient that reads the value keeps it, computes it again, keeps it in a file, or "
        "does what a policy says of its name; a probe's value can be asked for by its name, and perturbed",
    .sig = { 1, 1, ROW_ATTRS(tag_attrs) },
    .flags = OPF_TAG | OPF_ALIAS,
    .infer = infer_tag,
    .eval = eval_pass,
    .vjp = vjp_pass,
    .jvp = jvp_pass,
    .batch = batch_tag,
    .lower = &lower_pass,
    .fold = fold_tag,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(tag_samples),
};

/* ---- check ---- */

static void vjp_effect(struct vjp *v) { HOP_UNUSED(v); /* no results, so nothing flows back */ }
static void jvp_effect(struct jvp *j) { HOP_UNUSED(j); }

static void infer_check(struct infer *in)
{
    if (infer_type(in, 0).dtype != DT_BOOL)
        infer_error(in, "operand 0: expected bool, found %s", infer_text(in, in->operands[0]));
}

void check_failed_text(struct text *out, const char *place, const char *stack, const char *message,
                       struct tensor *const *values, uint32_t n)
{
    text_add(out, "%scheck: %s", place, message);
    for (uint32_t i = 0; i < n; i++) {
        text_str(out, i ? ", " : " (");
        tensor_print(out, values[i]);
    }
    if (n) text_str(out, ")");
    text_str(out, stack);
}

static void eval_check(struct eval *e)
{
    const struct tensor *holds = e->operands[0];
    for (int64_t i = 0; i < holds->count; i++)
        if (!((const uint8_t *)holds->data)[i]) {
            struct text out = { .arena = &e->m->scratch };
            const char *message = module_text(e->m, (uint32_t)node_attr(e->f, e->n, CHECK_MESSAGE)->i);
            const char *place = place_text(e->m, e->n->place);
            const char *stack = place_stack(e->m, e->n->place);
            check_failed_text(&out, place, stack, message, e->operands + 1, e->n->n_operands - 1);
            hop_throw(HOP_CHECK, "%s", out.data);
        }
}

/* bool[size] spread over the other dims of a batched value. */
static val spread_lanes(struct builder *b, val lanes, struct type t)
{
    return t.rank == 1 ? lanes : emit_broadcast(b, lanes, t.rank, t.dims, &(uint32_t){ 0 });
}

static void batch_check(struct batch *v)
{
    struct builder *b = v->b;
    val *operands = arena_copy(&b->arena, v->operands, v->n->n_operands * sizeof *operands);
    if (v->lanes != VAL_NONE) { /* a lane that does not run cannot fail */
        val holds = batch_operand(v, 0);
        val rests = emit1(b, OP_not, v->lanes);
        operands[0] = emit2(b, OP_or, holds, spread_lanes(b, rests, emit_type(b, holds)));
    }
    emit(b, OP_check, operands, v->n->n_operands, v->attrs);
}

/* The values are only looked at when the check fails: arrays are put into memory in that branch. */
static void block_check(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    val holds = operand(f, n, 0);
    struct type t = operand_type(lower_module(L), f, n, 0);
    lpv ok;
    if (t.rank) {
        uint32_t all = lp_local(p, DT_BOOL, LOCAL_SCALAR, "holds");
        lpv idx[MAX_RANK];
        lp_set(p, all, lp_int(p, DT_BOOL, 1));
        lower_each_begin(L, value_type(f, holds), false, idx);
        lp_accum(p, all, FOLD_AND, lower_elem(L, holds, idx));
        lower_each_end(L, value_type(f, holds));
        ok = lp_read(p, all);
    } else ok = lower_scalar(L, holds);
    struct lp_call call = { .kind = CALL_CHECK,
                            .value = ok,
                            .text = (uint32_t)node_attr(f, n, CHECK_MESSAGE)->i,
                            .place = n->place,
                            .mask = LPV_NONE };
    lower_call_unless(L, call, f, n, 1);
}

static const struct attr_spec check_attrs[] = { [CHECK_MESSAGE] = { "message", ATTR_STRING, true, NULL } };
static const struct op_lower lower_check = { .kind = LOWER_BLOCK,
                                             .access = ACCESS_SAME,
                                             .cost = COST_CHEAP,
                                             .block = block_check,
                                             .operand_use = use_once };
static const struct op_sample check_samples[] = {
    { "hop 1\nfn @sample(%x: f32[3]) -> (f32[3]) {\n  %p = full {value = 1, dims = [], dtype = bool}\n  "
      "check {message = \"fine\"} (%p, %x)\n  return %x\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[T]) -> (f64[T]) {\n  %p = eq(%x, %x)\n  check {message = \"numbers\"} "
      "(%p)\n  return %x\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[0], %n: i64[]) -> (i64[]) {\n  %p = ne(%x, %x)\n  check {message = \"of "
      "nothing\"} (%p, %n)\n  return %n\n}\n",
      NULL },
};
const struct op_row row_check = {
    .name = "check",
    .meaning =
        "ends the run with the message and the values unless every element of its first operand is true",
    .sig = { 1, MANY, ROW_ATTRS(check_attrs) },
    .effect = EFFECT_CHECK,
    .flags = OPF_NO_FOLD,
    .infer = infer_check,
    .eval = eval_check,
    .vjp = vjp_effect,
    .jvp = jvp_effect,
    .batch = batch_check,
    .lower = &lower_check,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(check_samples),
};

/* ---- print ---- */

/* It is told what the values are, once per index of the lanes' dims where the mask allows. */

static uint32_t told_lanes(const struct attr *a)
{
    return a[PRINT_LANES].kind == ATTR_ABSENT ? 0 : (uint32_t)a[PRINT_LANES].i;
}
static bool told_masked(const struct attr *a)
{
    return a[PRINT_MASKED].kind != ATTR_ABSENT && a[PRINT_MASKED].i;
}

static void infer_told(struct infer *in)
{
    const struct attr *lanes = &in->attrs[PRINT_LANES];
    if (lanes->kind != ATTR_ABSENT && (lanes->i < 0 || lanes->i > MAX_RANK))
        infer_error(in, "attribute 'lanes': expected 0..%d, found %lld", MAX_RANK, (long long)lanes->i);
    uint32_t k = told_lanes(in->attrs);
    bool masked = told_masked(in->attrs);
    if (!in->n_operands && (k || masked))
        infer_error(in, "attributes 'lanes' and 'masked' need an operand with the lanes' dims");
    for (uint32_t i = 0; i < in->n_operands; i++) {
        struct type t = infer_type(in, i), first = infer_type(in, 0);
        bool is_mask = t.dtype == DT_BOOL && t.rank == k;
        if (!i && masked && !is_mask)
            infer_error(in, "operand 0 (mask): expected bool with %u dims, found %s", k,
                        infer_text(in, in->operands[0]));
        if (t.rank < k)
            infer_error(in, "operand %u: expected at least %u dims (lanes), found %s", i, k,
                        infer_text(in, in->operands[i]));
        for (uint32_t d = 0; d < k; d++)
            if (t.dims[d] != first.dims[d])
                infer_equal(in, first.dims[d], t.dims[d],
                            arena_printf(&in->m->scratch, "operand %u: lane dim %u of %s", i, d,
                                         infer_text(in, in->operands[i])));
    }
}

/* May ranks, or lanes of a named axis, have other values? */
static bool told_varies(const struct module *m, const struct fn *f, const struct node *n)
{
    bool varies = false;
    for (uint32_t i = 0; i < n->n_operands; i++) varies |= operand_type(m, f, n, i).varying != 0;
    return varies;
}

static void print_lane(const struct eval *e, struct arena *arena, struct tensor *const *values, uint32_t n)
{
    struct text line = { .arena = arena };
    if (e->in->rank && told_varies(e->m, e->f, e->n)) text_add(&line, "rank %d: ", e->in->rank - 1);
    format_values(&line, module_text(e->m, (uint32_t)node_attr(e->f, e->n, PRINT_FORMAT)->i), values, n);
    e->in->print(e->in->print_ctx, line.data, line.len);
}

/* A line for every lane that runs, in ascending order. */
static void eval_print(struct eval *e)
{
    if (!e->in->print || (e->in->rank > 1 && !told_varies(e->m, e->f, e->n))) return;
    const struct attr *a = node_attr(e->f, e->n, 0);
    uint32_t k = told_lanes(a), skip = told_masked(a), n = e->n->n_operands - skip;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct tensor *parts = ARENA_ZNEW(&arena, struct tensor, n);
    struct tensor **shown = ARENA_NEW(&arena, struct tensor *, n);
    int64_t lanes = 1;
    for (uint32_t d = 0; d < k; d++) lanes *= e->operands[0]->dims[d];
    for (int64_t lane = 0; lane < lanes; lane++) {
        if (skip && !((const uint8_t *)e->operands[0]->data)[lane]) continue;
        for (uint32_t i = 0; i < n; i++) {
            const struct tensor *x = e->operands[i + skip];
            parts[i] = (struct tensor){
                .refs = 1, .dtype = x->dtype, .rank = (uint8_t)(x->rank - k), .count = x->count / lanes
            };
            memcpy(parts[i].dims, x->dims + k, parts[i].rank * sizeof *x->dims);
            parts[i].data = (char *)x->data + lane * parts[i].count * (int64_t)tensor_width(x);
            shown[i] = &parts[i];
        }
        print_lane(e, &arena, shown, n);
    }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* Every lane has its own line, in the order of lanes; one without operands gets a mask so that the
 * lanes can be counted. */
static void batch_told(struct batch *v)
{
    struct builder *b = v->b;
    uint32_t k = told_lanes(v->attrs), n = v->n->n_operands, skip = told_masked(v->attrs);
    val *operands = ARENA_NEW(&b->arena, val, n + 1), mask = skip ? batch_operand(v, 0) : VAL_NONE;
    if (v->lanes != VAL_NONE) {
        if (skip) mask = emit2(b, OP_and, mask, spread_lanes(b, v->lanes, emit_type(b, mask)));
        else if (!k) mask = v->lanes;
        else { /* the lanes there were, all of them under the new mask */
            dim dims[MAX_RANK + 1] = { v->size };
            struct type t = emit_type(b, v->operands[0]);
            memcpy(dims + 1, t.dims + v->batched[0], k * sizeof *dims);
            mask = emit_broadcast(b, v->lanes, k + 1, dims, &(uint32_t){ 0 });
        }
    } else if (!n) mask = emit_full(b, DT_BOOL, 1, 1, &v->size);
    uint32_t at = 0;
    if (mask != VAL_NONE) operands[at++] = mask;
    for (uint32_t i = skip; i < n; i++) operands[at++] = batch_operand(v, i);
    struct attr a[3] = { v->attrs[PRINT_FORMAT], A_INT(k + 1), A_FLAG(mask != VAL_NONE) };
    emit(b, (enum op)v->n->op, operands, at, a);
}

static void block_told(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    const struct attr *a = node_attr(f, n, 0);
    uint32_t k = told_lanes(a), skip = told_masked(a), count = n->n_operands - skip;
    struct lp_operand *shown = ARENA_ZNEW(&p->arena, struct lp_operand, count);
    lpv idx[MAX_RANK];
    for (uint32_t i = 0; i < count; i++) /* memory comes first: it must not be filled once per lane */
        if (operand_type(m, f, n, i + skip).rank > k) shown[i] = lower_operand(L, operand(f, n, i + skip));
    for (uint32_t d = 0; d < k; d++)
        idx[d] = lp_for_begin(p, lp_index(p, 0), lower_dim(L, operand_type(m, f, n, 0).dims[d]),
                              lp_index(p, 1), FOR_SERIAL);
    for (uint32_t i = 0; i < count; i++) {
        struct type t = operand_type(m, f, n, i + skip);
        if (t.rank == k) {
            shown[i] = (struct lp_operand){ .buffer = HOP_NONE,
                                            .value = lower_elem(L, operand(f, n, i + skip), idx),
                                            .index = LPV_NONE };
            continue;
        }
        lpv at = lp_index(p, 0); /* row-major position of the lane's part */
        for (uint32_t d = 0; d < t.rank; d++) {
            at = lp_bin(p, LP_MUL, at, lower_dim(L, t.dims[d]));
            if (d < k) at = lp_bin(p, LP_ADD, at, idx[d]);
        }
        shown[i].index = lp_bin(p, LP_ADD, shown[i].index, at);
        shown[i].rank = t.rank - k;
        memmove(shown[i].dims, shown[i].dims + k, shown[i].rank * sizeof *shown[i].dims);
    }
    lpv mask = skip ? lower_elem(L, operand(f, n, 0), idx) : LPV_NONE;
    lp_add_call(p, (struct lp_call){ .kind = CALL_PRINT,
                                     .text = (uint32_t)a[PRINT_FORMAT].i,
                                     .place = n->place,
                                     .n_operands = count,
                                     .operands = shown,
                                     .mask = mask,
                                     .varies = told_varies(m, f, n) });
    for (uint32_t d = 0; d < k; d++) lp_for_end(p);
}

static uint8_t use_told(const struct fn *f, const struct node *n, uint32_t i)
{
    return i == 0 && told_masked(node_attr(f, n, 0)) ? USE_ONCE : USE_ARRAY;
}

static const struct attr_spec print_attrs[] = { [PRINT_FORMAT] = { "format", ATTR_STRING, true, NULL },
                                                [PRINT_LANES] = { "lanes", ATTR_INT, false, NULL },
                                                [PRINT_MASKED] = { "masked", ATTR_FLAG, false, NULL } };
static const struct op_lower lower_told = { .kind = LOWER_BLOCK,
                                            .access = ACCESS_SAME,
                                            .cost = COST_EXPENSIVE,
                                            .block = block_told,
                                            .operand_use = use_told };
static const struct op_sample print_samples[] = {
    { "hop 1\nfn @sample(%x: f32[2], %n: i64[]) -> (f32[2]) effects(io) {\n  print {format = \"x = {}, n = "
      "{}\"} (%x, %n)\n  return %x\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f64[T, 2]) -> (f64[T, 2]) effects(io) {\n  print {format = \"row {}\", lanes "
      "= 1} (%x)\n  return %x\n}\n",
      NULL },
    { "hop 1\nfn @sample(%p: bool[3], %x: f32[3]) -> (f32[3]) effects(io) {\n  print {format = \"{}\", lanes "
      "= 1, masked} (%p, %x)\n  return %x\n}\n",
      NULL },
    { "hop 1\nfn @sample() -> () effects(io) {\n  print {format = \"here\"} ()\n  return\n}\n", NULL },
};
const struct op_row row_print = {
    .name = "print",
    .meaning = "a line of text with the values in place of {}; with lanes one line per index of the leading "
               "dims, where the mask allows",
    .sig = { 0, MANY, ROW_ATTRS(print_attrs) },
    .effect = EFFECT_IO,
    .flags = OPF_NO_FOLD,
    .infer = infer_told,
    .eval = eval_print,
    .vjp = vjp_effect,
    .jvp = jvp_effect,
    .batch = batch_told,
    .lower = &lower_told,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(print_samples),
};
