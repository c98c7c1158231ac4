/* Calls of composite operators and of what NumPy has besides: statistics, parts and patterns of arrays,
 * random draws. A rule reads the texts, promotes, and emits the row; what a call has no row for is put
 * together here from those it has. */
#include "capture/capture.h"

static uint32_t sizes_of(const struct emission *e, const char *text, const char *what, dim *dims)
{
    struct cursor c = cursor_for(e, text, what);
    uint32_t n = parse_dims(&c, dims);
    cursor_end(&c);
    return n;
}

static enum dtype type_of(const struct emission *e, const char *text, uint32_t *rank, dim *dims)
{
    struct cursor c = cursor_for(e, text, "the type");
    enum dtype t = parse_type(&c, rank, dims);
    cursor_end(&c);
    return t;
}

static const char *value_text(struct builder *b, val v)
{
    return type_text(b->m, b->symbols.data, builder_type(b, v));
}

/* The operand as floats: whole numbers become f32. */
static val float_operand(struct emission *e, uint32_t i)
{
    val v = operand_value(e->b, &e->in[i]);
    return dtype_is_float((enum dtype)emit_type(e->b, v).dtype) ? v : emit_cast(e->b, v, DT_F32);
}

/* ---- statistics ---- */

struct statistic_args {
    enum op op;
    const char *axes;
    int correction;
    const char *dtype; /* of the result; NULL: as it comes out */
};

static struct attr axes_attr(const char *axes, uint32_t rank, uint32_t *list)
{
    uint32_t n = 0, mask = parse_axes(axes, rank, true);
    for (uint32_t i = 0; i < rank; i++)
        if (mask >> i & 1) list[n++] = i;
    return A_INTS(list, n);
}

static void rule_statistic(struct emission *e)
{
    const struct statistic_args *a = e->args;
    val v = a->dtype ? operand_value(e->b, &e->in[0]) : float_operand(e, 0);
    uint32_t list[MAX_RANK];
    struct attr attrs[STATISTIC_ATTRS] = { axes_attr(a->axes, emit_type(e->b, v).rank, list) };
    if (a->correction) attrs[VAR_CORRECTION] = A_INT(a->correction);
    if (a->dtype) attrs[MEAN_DTYPE] = A_DTYPE(text_dtype(a->dtype));
    e->out[0] = emit(e->b, a->op, &v, 1, attrs);
}
#define DEFINE(name) \
    hop_val hop_##name##_at(hop_place at, hop_val x, const char *axes) \
    { \
        struct statistic_args args = { .op = OP_##name, .axes = axes }; \
        return capture_emit1(at, #name, rule_statistic, &args, &x, 1); \
    }
DEFINE(mean)
DEFINE(logsumexp)
DEFINE(softmax)
DEFINE(log_softmax)
#undef DEFINE
#define DEFINE(name) \
    hop_val hop_##name##_at(hop_place at, hop_val x, const char *axes, int correction) \
    { \
        struct statistic_args args = { .op = OP_##name, .axes = axes, .correction = correction }; \
        return capture_emit1(at, #name, rule_statistic, &args, &x, 1); \
    }
DEFINE(var)
DEFINE(std)
#undef DEFINE
hop_val hop_mean_as_at(hop_place at, hop_val x, const char *axes, const char *dtype)
{
    struct statistic_args args = { .op = OP_mean, .axes = axes, .dtype = dtype };
    return capture_emit1(at, "mean", rule_statistic, &args, &x, 1);
}
#define DEFINE(name) \
    hop_val hop_##name##_as_at(hop_place at, hop_val x, const char *axes, int correction, const char *dtype) \
    { \
        struct statistic_args args = { OP_##name, axes, correction, dtype }; \
        return capture_emit1(at, #name, rule_statistic, &args, &x, 1); \
    }
DEFINE(var)
DEFINE(std)
#undef DEFINE

/* ---- shapes ---- */

struct split_args {
    int axis;
    const char *sizes;
};
static void rule_split(struct emission *e)
{
    const struct split_args *a = e->args;
    val v = operand_value(e->b, &e->in[0]);
    struct attr attrs[3] = { [SPLIT_DIM] = A_INT(check_axis(a->axis, emit_type(e->b, v).rank)),
                             [SPLIT_PARTS] = A_INT(e->n_out),
                             [SPLIT_SIZES] = A_NONE };
    if (a->sizes) {
        struct cursor c = cursor_for(e, a->sizes, "the sizes");
        vec(dim) sizes = { 0 };
        for (bool first = true; *c.p; first = false) {
            if (!first) cursor_expect(&c, ",");
            dim one = parse_dim(&c);
            vec_push(&e->b->arena, &sizes, one);
        }
        if (sizes.len != e->n_out)
            capture_throw("\"%s\" names %u sizes, room given for %u parts", a->sizes, sizes.len, e->n_out);
        attrs[SPLIT_SIZES] = A_DIMS(sizes.data, sizes.len);
        attrs[SPLIT_PARTS] = A_NONE;
    }
    val first = emit(e->b, OP_split, &v, 1, attrs);
    for (uint32_t i = 0; i < e->n_out; i++) e->out[i] = first + i;
}
int hop_split_at(hop_place at, hop_val *parts, int n, hop_val x, int axis)
{
    struct split_args args = { .axis = axis };
    return capture_emit(at, "split", rule_split, &args, &x, 1, parts, n > 0 ? (uint32_t)n : 0);
}
int hop_split_sizes_at(hop_place at, hop_val *parts, int n, hop_val x, int axis, const char *sizes)
{
    struct split_args args = { axis, sizes ? sizes : "" };
    return capture_emit(at, "split", rule_split, &args, &x, 1, parts, n > 0 ? (uint32_t)n : 0);
}

/* As in NumPy the shorter of sizes and repeats is filled up with ones in front. */
static void rule_tile(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    struct type t = emit_type(e->b, v);
    dim repeats[MAX_RANK], dims[MAX_RANK];
    uint32_t n = sizes_of(e, e->args, "the repeats", repeats), rank = HOP_MAX(n, (uint32_t)t.rank);
    memmove(repeats + (rank - n), repeats, n * sizeof *repeats);
    for (uint32_t i = 0; i < rank; i++) {
        if (i < rank - n) repeats[i] = 1;
        dims[i] = i < rank - t.rank ? 1 : t.dims[i - (rank - t.rank)];
    }
    if (rank > t.rank) v = emit_reshape(e->b, v, rank, dims);
    struct attr a = A_DIMS(repeats, rank);
    e->out[0] = emit(e->b, OP_tile, &v, 1, &a);
}
hop_val hop_tile_at(hop_place at, hop_val x, const char *repeats)
{
    return capture_emit1(at, "tile", rule_tile, repeats, &x, 1);
}

/* By a number the parts change places; by a value a window is cut out. */
static void rule_roll(struct emission *e)
{
    val v[2] = { operand_value(e->b, &e->in[0]) };
    const struct operand *shift = &e->in[1];
    uint32_t axis = check_axis(*(const int *)e->args, emit_type(e->b, v[0]).rank);
    uint32_t by = (uint32_t)(int32_t)shift->integer;
    bool number = shift->weak == HANDLE_INT && shift->integer == (int32_t)shift->integer;
    struct attr attrs[2] = {
        [ROLL_DIMS] = A_INTS(&axis, 1), [ROLL_SHIFTS] = number ? A_INTS(&by, 1) : A_NONE
    };
    if (shift->weak == HANDLE_REAL) capture_throw("the shift: expected an integer");
    if (!number) v[1] = operand_value(e->b, shift);
    if (!number && dtype_is_integer((enum dtype)emit_type(e->b, v[1]).dtype))
        v[1] = emit_cast(e->b, v[1], DT_I64);
    e->out[0] = emit(e->b, OP_roll, v, number ? 1 : 2, attrs);
}
hop_val hop_roll_at(hop_place at, hop_val x, hop_val shift, int axis)
{
    return capture_emit1(at, "roll", rule_roll, &axis, (hop_val[]){ x, shift }, 2);
}

static void rule_flatten(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    dim all = type_elements(e->b->m, builder_type(e->b, v));
    e->out[0] = emit_reshape(e->b, v, 1, &all);
}
hop_val hop_flatten_at(hop_place at, hop_val x)
{
    return capture_emit1(at, "flatten", rule_flatten, NULL, &x, 1);
}

struct axes_args {
    int from, to;
    bool swap;
};
static void rule_move_axis(struct emission *e)
{
    const struct axes_args *a = e->args;
    val v = operand_value(e->b, &e->in[0]);
    uint32_t rank = emit_type(e->b, v).rank, order[MAX_RANK];
    uint32_t from = check_axis(a->from, rank);
    uint32_t to = check_axis(a->to, rank);
    for (uint32_t i = 0; i < rank; i++) order[i] = i;
    order[from] = to;
    order[to] = from;
    e->out[0] = a->swap ? emit_permute(e->b, v, order) : emit_move_dim(e->b, v, from, to);
}
hop_val hop_move_axis_at(hop_place at, hop_val x, int from, int to)
{
    return capture_emit1(at, "move_axis", rule_move_axis, &(struct axes_args){ from, to, false }, &x, 1);
}
hop_val hop_swap_axes_at(hop_place at, hop_val x, int a, int b)
{
    return capture_emit1(at, "swap_axes", rule_move_axis, &(struct axes_args){ a, b, true }, &x, 1);
}

/* ---- patterns ---- */

struct pattern_args {
    const char *text, *dtype;
    int diagonal;
    enum op op;
};

static void rule_triangle(struct emission *e)
{
    const struct pattern_args *a = e->args;
    struct attr diagonal = A_INT(a->diagonal);
    e->out[0] = emit(e->b, a->op, (val[]){ operand_value(e->b, &e->in[0]) }, 1, &diagonal);
}
hop_val hop_tril_at(hop_place at, hop_val x, int diagonal)
{
    struct pattern_args args = { .op = OP_tril, .diagonal = diagonal };
    return capture_emit1(at, "tril", rule_triangle, &args, &x, 1);
}
hop_val hop_triu_at(hop_place at, hop_val x, int diagonal)
{
    struct pattern_args args = { .op = OP_triu, .diagonal = diagonal };
    return capture_emit1(at, "triu", rule_triangle, &args, &x, 1);
}

static void rule_eye(struct emission *e)
{
    const struct pattern_args *a = e->args;
    dim dims[MAX_RANK];
    uint32_t rank;
    enum dtype t = type_of(e, a->text, &rank, dims);
    if (rank != 2) capture_throw("the type \"%s\": expected two dims, found %u", a->text, rank);
    struct attr attrs[4] = { A_DIM(dims[0]), A_DIM(dims[1]), A_INT(a->diagonal), A_DTYPE(t) };
    e->out[0] = emit(e->b, OP_eye, NULL, 0, attrs);
}
hop_val hop_eye_at(hop_place at, const char *type, int diagonal)
{
    struct pattern_args args = { .text = type, .diagonal = diagonal };
    return capture_emit1(at, "eye", rule_eye, &args, NULL, 0);
}

static void rule_one_hot(struct emission *e)
{
    const struct pattern_args *a = e->args;
    struct cursor c = cursor_for(e, a->text, "the depth");
    struct attr attrs[2] = { A_DIM(parse_dim(&c)), A_DTYPE(text_dtype(a->dtype)) };
    cursor_end(&c);
    val v = operand_value(e->b, &e->in[0]);
    e->out[0] = emit(e->b, OP_one_hot, &v, 1, attrs);
}
hop_val hop_one_hot_at(hop_place at, hop_val indices, const char *depth, const char *dtype)
{
    struct pattern_args args = { .text = depth, .dtype = dtype };
    return capture_emit1(at, "one_hot", rule_one_hot, &args, &indices, 1);
}

/* A number or scalar, over a vector. */
static val along_vector(struct emission *e, const struct operand *o, enum dtype t, const dim *size,
                        const char *what)
{
    if (o->weak) return weak_full(e->b, o, t, 1, size);
    if (emit_type(e->b, o->v).rank)
        capture_throw("%s: expected a scalar, found %s", what, value_text(e->b, o->v));
    return emit_broadcast(e->b, emit_cast(e->b, o->v, t), 1, size, NULL);
}

static val count_up(struct builder *b, const dim *size, enum dtype t)
{
    struct attr attrs[3] = { A_DIMS(size, 1), A_INT(0), A_DTYPE(t) };
    return emit(b, OP_iota, NULL, 0, attrs);
}

static enum dtype vector_type(struct emission *e, const char *text, dim *size)
{
    dim dims[MAX_RANK];
    uint32_t rank;
    enum dtype t = type_of(e, text, &rank, dims);
    if (rank != 1) capture_throw("the type \"%s\": expected one dim, found %u", text, rank);
    *size = dims[0];
    return t;
}

static void rule_arange(struct emission *e)
{
    dim size;
    enum dtype t = vector_type(e, e->args, &size);
    val start = along_vector(e, &e->in[0], t, &size, "the start");
    val step = along_vector(e, &e->in[1], t, &size, "the step");
    e->out[0] = emit2(e->b, OP_add, start, emit2(e->b, OP_mul, count_up(e->b, &size, t), step));
}
hop_val hop_arange_at(hop_place at, const char *type, hop_val start, hop_val step)
{
    return capture_emit1(at, "arange", rule_arange, type, (hop_val[]){ start, step }, 2);
}

/* lo + (hi - lo)·i / (n - 1); the last one is hi exactly. */
static void rule_linspace(struct emission *e)
{
    struct builder *b = e->b;
    dim size;
    enum dtype t = vector_type(e, e->args, &size);
    if (!dtype_is_float(t)) capture_throw("expected a float type, found %s", dtype_info[t].name);
    val lo = along_vector(e, &e->in[0], t, &size, "the first number");
    val hi = along_vector(e, &e->in[1], t, &size, "the last number");
    dim gaps = dim_max(b->m, dim_sub(b->m, size, 1), 1);
    val n = emit_broadcast(b, emit_dim_value(b, gaps), 1, &size, NULL), i = count_up(b, &size, DT_I64);
    val part = emit2(b, OP_div, emit2(b, OP_mul, emit2(b, OP_sub, hi, lo), emit_cast(b, i, t)),
                     emit_cast(b, n, t));
    e->out[0] = emit_select(b, emit2(b, OP_eq, i, n), hi, emit2(b, OP_add, lo, part));
}
hop_val hop_linspace_at(hop_place at, const char *type, hop_val lo, hop_val hi)
{
    return capture_emit1(at, "linspace", rule_linspace, type, (hop_val[]){ lo, hi }, 2);
}

static void rule_ones_like(struct emission *e)
{
    e->out[0] = emit_full_like(e->b, operand_value(e->b, &e->in[0]), 1);
}
hop_val hop_ones_like_at(hop_place at, hop_val v)
{
    return capture_emit1(at, "ones_like", rule_ones_like, NULL, &v, 1);
}

/* ---- random draws ---- */

static void rule_randint(struct emission *e)
{
    dim dims[MAX_RANK];
    uint32_t rank;
    enum dtype t = type_of(e, e->args, &rank, dims);
    if (!dtype_is_integer(t)) capture_throw("the type \"%s\": expected integers", (const char *)e->args);
    struct attr a = A_DIMS(dims, rank);
    val key = operand_value(e->b, &e->in[0]);
    val lo = operand_as(e->b, &e->in[1], t);
    val hi = operand_as(e->b, &e->in[2], t);
    e->out[0] = emit(e->b, OP_randint, (val[]){ key, lo, hi }, 3, &a);
}
hop_val hop_randint_at(hop_place at, hop_val key, const char *type, hop_val lo, hop_val hi)
{
    return capture_emit1(at, "randint", rule_randint, type, (hop_val[]){ key, lo, hi }, 3);
}

static void rule_bernoulli(struct emission *e)
{
    dim dims[MAX_RANK];
    uint32_t rank = sizes_of(e, e->args, "the sizes", dims);
    struct attr a = A_DIMS(dims, rank);
    val key = operand_value(e->b, &e->in[0]);
    val p = e->in[1].weak ? operand_as(e->b, &e->in[1], DT_F32) : e->in[1].v;
    struct type t = emit_type(e->b, p), keys = emit_type(e->b, key);
    bool fits = t.rank && t.rank <= rank && keys.rank == 1; /* else the row says what is wrong */
    for (uint32_t i = 0; fits && i < t.rank; i++)
        fits = t.dims[i] == 1 || t.dims[i] == dims[rank - t.rank + i];
    if (fits) p = bring_to(e->b, p, rank, dims);
    e->out[0] = emit(e->b, OP_bernoulli, (val[]){ key, p }, 2, &a);
}
hop_val hop_bernoulli_at(hop_place at, hop_val key, hop_val p, const char *dims)
{
    return capture_emit1(at, "bernoulli", rule_bernoulli, dims, (hop_val[]){ key, p }, 2);
}

static struct attr one_size(const struct emission *e, const char *text, const char *what)
{
    struct cursor c = cursor_for(e, text, what);
    dim d = parse_dim(&c);
    cursor_end(&c);
    return A_DIM(d);
}

static void rule_random_split(struct emission *e)
{
    struct attr a = one_size(e, e->args, "the number of keys");
    e->out[0] = emit(e->b, OP_random_split, (val[]){ operand_value(e->b, &e->in[0]) }, 1, &a);
}
hop_val hop_random_split_at(hop_place at, hop_val key, const char *count)
{
    return capture_emit1(at, "random_split", rule_random_split, count, &key, 1);
}

static void rule_permutation(struct emission *e)
{
    struct attr a = one_size(e, e->args, "the size");
    e->out[0] = emit(e->b, OP_permutation, (val[]){ operand_value(e->b, &e->in[0]) }, 1, &a);
}
hop_val hop_permutation_at(hop_place at, hop_val key, const char *size)
{
    return capture_emit1(at, "permutation", rule_permutation, size, &key, 1);
}

static void rule_shuffle(struct emission *e)
{
    val key = operand_value(e->b, &e->in[0]), x = operand_value(e->b, &e->in[1]);
    struct type t = emit_type(e->b, x);
    uint32_t axis = check_axis(*(const int *)e->args, t.rank);
    struct attr size = A_DIM(t.dims[axis]), dim = A_INT(axis);
    val order = emit(e->b, OP_permutation, &key, 1, &size);
    e->out[0] = emit(e->b, OP_take, (val[]){ x, order }, 2, &dim);
}
hop_val hop_shuffle_at(hop_place at, hop_val key, hop_val x, int axis)
{
    return capture_emit1(at, "shuffle", rule_shuffle, &axis, (hop_val[]){ key, x }, 2);
}
