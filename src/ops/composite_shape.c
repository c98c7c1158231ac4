/* Composite rows of shapes and patterns: split squeeze expand_dims broadcast_to tile roll stack tril triu eye
 * one_hot. Each is infer and an expansion into operators that move elements, count and compare; all else is
 * that of the expansion. */
#include "ops/rowkit.h"

/* A slice along one dim. */
static val slice_along(struct builder *b, val x, uint32_t along, dim start, dim limit)
{
    struct type t = emit_type(b, x);
    dim starts[MAX_RANK] = { 0 }, limits[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) limits[i] = t.dims[i];
    starts[along] = start;
    limits[along] = limit;
    return emit_slice(b, x, starts, limits);
}

static void reshaped(struct expand *e) { e->out[0] = emit_as(e->b, e->operands[0], e->types[0]); }

/* ---- split ---- */

enum { MOST_PARTS = 4096 };

static void infer_split(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *parts = &in->attrs[SPLIT_PARTS], *sizes = &in->attrs[SPLIT_SIZES];
    uint32_t along = infer_one_dim(in, &in->attrs[SPLIT_DIM], t.rank, "dim");
    if ((parts->kind == ATTR_ABSENT) == (sizes->kind == ATTR_ABSENT))
        infer_error(in, "expected one of the attributes 'parts' and 'sizes'");
    dim dims[MAX_RANK], whole = t.dims[along], total = 0;
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    int64_t n = sizes->kind == ATTR_ABSENT ? parts->i : sizes->n;
    if (n < 1 || n > MOST_PARTS)
        infer_error(in, "expected 1 to %d parts, found %lld", MOST_PARTS, (long long)n);
    if (sizes->kind == ATTR_ABSENT) {
        dims[along] = dim_floordiv(in->m, whole, dim_const(in->m, n));
        total = dim_mul(in->m, dims[along], dim_const(in->m, n));
        if (dim_is_const(in->m, whole) && total != whole)
            infer_error(in, "dim %u of %s does not divide into %lld equal parts", along,
                        infer_text(in, in->operands[0]), (long long)n);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (sizes->kind != ATTR_ABSENT) {
            infer_not_negative(in, sizes->list[i], "attribute 'sizes'");
            dims[along] = sizes->list[i];
            total = dim_add(in->m, total, sizes->list[i]);
        }
        infer_result(in, type_intern(in->m, (enum dtype)t.dtype, t.rank, dims));
    }
    infer_equal(in, whole, total,
                arena_printf(&in->m->scratch, "dim %u of %s and its parts together", along,
                             infer_text(in, in->operands[0])));
}

/* Equal parts of a size that is no number: rows of the array with the parts as a dim of their own, of which
 * nothing has to be proved. */
static void split_rows(struct expand *e, uint32_t along)
{
    struct builder *b = e->b;
    struct type part = type_get(b->m, e->types[0]);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i <= part.rank; i++)
        dims[i] = i < along ? part.dims[i] : i == along ? dim_const(b->m, e->n_results) : part.dims[i - 1];
    val rows = emit_reshape(b, e->operands[0], part.rank + 1u, dims);
    val *cut = ARENA_NEW(&b->arena, val, e->n_results);
    for (uint32_t i = 0; i < e->n_results; i++) cut[i] = slice_along(b, rows, along, i, i + 1);
    for (uint32_t i = 0; i < e->n_results; i++) e->out[i] = emit_reshape(b, cut[i], part.rank, part.dims);
}

static void expand_split(struct expand *e)
{
    struct module *m = e->b->m;
    uint32_t along = attr_dim_or_zero(&e->attrs[SPLIT_DIM]);
    struct type t = emit_type(e->b, e->operands[0]);
    dim at = 0;
    if (e->attrs[SPLIT_SIZES].kind == ATTR_ABSENT && !dim_is_const(m, t.dims[along]) && t.rank < MAX_RANK) {
        split_rows(e, along);
        return;
    }
    for (uint32_t i = 0; i < e->n_results; i++) {
        dim next = dim_add(m, at, type_get(m, e->types[i]).dims[along]);
        e->out[i] = slice_along(e->b, e->operands[0], along, at, next);
        at = next;
    }
}

/* ---- squeeze, expand_dims, broadcast_to ---- */

static void infer_squeeze(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *list = &in->attrs[SQUEEZE_DIMS];
    uint32_t mask = 0;
    if (list->kind == ATTR_ABSENT) {
        for (uint32_t i = 0; i < t.rank; i++) mask |= (uint32_t)(t.dims[i] == 1) << i;
    } else {
        infer_dim_list(in, list, t.rank, "dims");
        mask = folded_mask(list, t.rank);
        for (uint32_t i = 0; i < list->n; i++)
            infer_equal(in, 1, t.dims[list->list[i]],
                        arena_printf(&in->m->scratch, "dim %u of %s, which is taken away", list->list[i],
                                     infer_text(in, in->operands[0])));
    }
    infer_result(in, folded_type(in->m, t, mask));
}

static void infer_expand_dims(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *list = &in->attrs[EXPAND_DIMS];
    uint32_t rank = t.rank + list->n, from = 0;
    if (rank > MAX_RANK)
        infer_error(in, "the result would have %u dims, a type has at most %d", rank, MAX_RANK);
    infer_dim_list(in, list, rank, "dims");
    uint32_t mask = folded_mask(list, rank);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) dims[i] = mask >> i & 1 ? 1 : t.dims[from++];
    infer_result(in, type_intern(in->m, (enum dtype)t.dtype, rank, dims));
}

static void infer_broadcast_to(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *dims = &in->attrs[BROADCAST_TO_DIMS];
    type_id to = infer_dims_type(in, (enum dtype)t.dtype, dims);
    if (dims->n < t.rank)
        infer_error(in, "%s has more dims than the %u asked for", infer_text(in, in->operands[0]), dims->n);
    for (uint32_t i = 0; i < t.rank; i++) {
        dim want = dims->list[dims->n - t.rank + i];
        if (t.dims[i] != 1)
            infer_equal(in, want, t.dims[i],
                        arena_printf(&in->m->scratch, "dim %u of %s", i, infer_text(in, in->operands[0])));
    }
    infer_result(in, to);
}

static void expand_broadcast_to(struct expand *e)
{
    struct builder *b = e->b;
    struct type t = emit_type(b, e->operands[0]), to = type_get(b->m, e->types[0]);
    dim kept[MAX_RANK];
    uint32_t at[MAX_RANK], n = 0;
    for (uint32_t i = 0; i < t.rank; i++) {
        uint32_t k = to.rank - t.rank + i;
        if (t.dims[i] == 1 && to.dims[k] != 1) continue;
        kept[n] = to.dims[k];
        at[n++] = k;
    }
    val v = emit_as(b, e->operands[0], type_intern(b->m, (enum dtype)t.dtype, n, kept));
    e->out[0] = n == to.rank ? v : emit_broadcast(b, v, to.rank, to.dims, at);
}

/* ---- tile, roll, stack ---- */

static void infer_tile(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *repeats = &in->attrs[TILE_REPEATS];
    infer_list_length(in, repeats, t.rank, "repeats");
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        infer_not_negative(in, repeats->list[i], "attribute 'repeats'");
        dims[i] = dim_mul(in->m, t.dims[i], repeats->list[i]);
    }
    infer_result(in, type_intern(in->m, (enum dtype)t.dtype, t.rank, dims));
}

/* One dim after the other: what stands before it and what it holds become two dims, with the repeats between.
 */
static void expand_tile(struct expand *e)
{
    struct builder *b = e->b;
    val v = e->operands[0];
    struct type to = type_get(b->m, e->types[0]);
    for (uint32_t i = 0; i < to.rank; i++) {
        struct type t = emit_type(b, v);
        dim outer = 1, inner = 1, repeats = e->attrs[TILE_REPEATS].list[i], dims[MAX_RANK];
        if (repeats == 1) continue;
        for (uint32_t k = 0; k < t.rank; k++) {
            dim *side = k < i ? &outer : &inner;
            *side = dim_mul(b->m, *side, t.dims[k]);
            dims[k] = k <= i ? to.dims[k] : t.dims[k];
        }
        v = emit_reshape(b, v, 2, (dim[]){ outer, inner });
        v = emit_broadcast(b, v, 3, (dim[]){ outer, repeats, inner }, (uint32_t[]){ 0, 2 });
        v = emit_reshape(b, v, t.rank, dims);
    }
    e->out[0] = v;
}

static void infer_roll(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *list = &in->attrs[ROLL_DIMS], *shifts = &in->attrs[ROLL_SHIFTS];
    infer_dim_list(in, list, t.rank, "dims");
    if (shifts->kind != ATTR_ABSENT && shifts->n != list->n)
        infer_error(in, "attribute 'shifts': expected one per dim rolled (%u), found %u", list->n, shifts->n);
    uint32_t operands = shifts->kind == ATTR_ABSENT ? list->n : 0;
    if (in->n_operands - 1 != operands)
        infer_error(in,
                    "expected %u operands after the array, found %u: shifts are an attribute, or an i64[] "
                    "per dim rolled",
                    operands, in->n_operands - 1);
    for (uint32_t i = 1; i < in->n_operands; i++)
        if (in->operands[i] != type_scalar(in->m, DT_I64))
            infer_error(in, "a shift: expected i64[], found %s", infer_text(in, in->operands[i]));
    infer_result(in, in->operands[0]);
}

/* By a number: the two parts change places. max() says what holds anyway: no size has to be required. */
static val roll_parts(struct builder *b, val x, uint32_t along, int32_t shift)
{
    dim size = emit_type(b, x).dims[along];
    dim divisor = dim_max(b->m, size, 1);
    dim moved = dim_mod(b->m, dim_const(b->m, shift), divisor);
    dim cut = dim_max(b->m, 0, dim_sub(b->m, size, moved));
    if (cut == size) return x;
    struct attr dim_attr = A_INT(along);
    val end = slice_along(b, x, along, cut, size);
    val beginning = slice_along(b, x, along, 0, cut);
    val rolled = emit(b, OP_concat, (val[]){ end, beginning }, 2, &dim_attr);
    return emit_as(b, rolled, builder_type(b, x));
}

/* By a value: a window of the array written twice. */
static val roll_window(struct builder *b, val x, uint32_t along, val shift)
{
    struct type t = emit_type(b, x);
    struct attr dim_attr = A_INT(along), sizes = A_DIMS(t.dims, t.rank);
    val size = emit_dim_full(b, t.dims[along], 0, NULL);
    val back = emit1(b, OP_neg, emit2(b, OP_rem, shift, size));
    val zero = emit_i64(b, 0);
    val operands[1 + MAX_RANK];
    operands[0] = emit(b, OP_concat, (val[]){ x, x }, 2, &dim_attr);
    for (uint32_t i = 0; i < t.rank; i++) operands[1 + i] = zero;
    operands[1 + along] = emit_select(b, emit2(b, OP_lt, back, zero), emit2(b, OP_add, back, size), back);
    return emit(b, OP_dynamic_slice, operands, 1u + t.rank, &sizes);
}

static void expand_roll(struct expand *e)
{
    val v = e->operands[0];
    const struct attr *list = &e->attrs[ROLL_DIMS], *shifts = &e->attrs[ROLL_SHIFTS];
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t along = list->list[i];
        if (shifts->kind == ATTR_ABSENT) v = roll_window(e->b, v, along, e->operands[1 + i]);
        else v = roll_parts(e->b, v, along, (int32_t)shifts->list[i]);
    }
    e->out[0] = v;
}

static void infer_stack(struct infer *in)
{
    struct type t = infer_type(in, 0);
    if (t.rank == MAX_RANK)
        infer_error(in, "the result would have %d dims, a type has at most %d", MAX_RANK + 1, MAX_RANK);
    uint32_t along = infer_one_dim(in, &in->attrs[STACK_DIM], t.rank + 1u, "dim"), from = 0;
    for (uint32_t i = 1; i < in->n_operands; i++)
        infer_same_type(in, in->operands[0], in->operands[i], arena_printf(&in->m->scratch, "operand %u", i));
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i <= t.rank; i++)
        dims[i] = i == along ? dim_const(in->m, in->n_operands) : t.dims[from++];
    infer_result(in, type_intern(in->m, (enum dtype)t.dtype, t.rank + 1u, dims));
}

static void expand_stack(struct expand *e)
{
    struct builder *b = e->b;
    struct type to = type_get(b->m, e->types[0]);
    uint32_t along = attr_dim_or_zero(&e->attrs[STACK_DIM]);
    val *parts = ARENA_NEW(&b->arena, val, e->n_operands);
    dim dims[MAX_RANK];
    memcpy(dims, to.dims, to.rank * sizeof *dims);
    dims[along] = 1;
    for (uint32_t i = 0; i < e->n_operands; i++) parts[i] = emit_reshape(b, e->operands[i], to.rank, dims);
    struct attr a = A_INT(along);
    e->out[0] = emit(b, OP_concat, parts, e->n_operands, &a);
}

/* ---- patterns ---- */

static void infer_triangle(struct infer *in)
{
    if (infer_type(in, 0).rank < 2)
        infer_error(in, "expected at least two dims, found %s", infer_text(in, in->operands[0]));
    infer_result(in, in->operands[0]);
}

/* Element (i, j) of matrices: `op` of j and i + diagonal. */
static val compare_diagonal(struct builder *b, enum op op, uint32_t rank, const dim *dims,
                            const struct attr *diagonal)
{
    val row = emit_iota(b, rank, dims, rank - 2), column = emit_iota(b, rank, dims, rank - 1);
    if (diagonal->kind != ATTR_ABSENT && diagonal->i) {
        struct attr a[3] = { A_INT(diagonal->i), A_DIMS(dims, rank), A_DTYPE(DT_I64) };
        row = emit2(b, OP_add, row, emit(b, OP_full, NULL, 0, a));
    }
    return emit2(b, op, column, row);
}

static void expand_triangle(struct expand *e)
{
    val x = e->operands[0];
    struct type t = emit_type(e->b, x);
    enum op side = e->op == OP_tril ? OP_le : OP_ge;
    val stays = compare_diagonal(e->b, side, t.rank, t.dims, &e->attrs[TRIANGLE_DIAGONAL]);
    e->out[0] = emit_select(e->b, stays, x, emit_full_like(e->b, x, 0));
}

static enum dtype pattern_dtype(const struct attr *a)
{
    return a->kind == ATTR_ABSENT ? DT_F32 : (enum dtype)a->i;
}

static void infer_eye(struct infer *in)
{
    dim rows = (dim)in->attrs[EYE_ROWS].i;
    dim columns = in->attrs[EYE_COLUMNS].kind == ATTR_ABSENT ? rows : (dim)in->attrs[EYE_COLUMNS].i;
    infer_not_negative(in, rows, "attribute 'rows'");
    infer_not_negative(in, columns, "attribute 'columns'");
    infer_result(in, type_intern(in->m, pattern_dtype(&in->attrs[EYE_DTYPE]), 2, (dim[]){ rows, columns }));
}

static void expand_eye(struct expand *e)
{
    struct type t = type_get(e->b->m, e->types[0]);
    val on_it = compare_diagonal(e->b, OP_eq, 2, t.dims, &e->attrs[EYE_DIAGONAL]);
    e->out[0] = emit_cast(e->b, on_it, (enum dtype)t.dtype);
}

static void infer_one_hot(struct infer *in)
{
    struct type t = infer_type(in, 0);
    dim depth = (dim)in->attrs[ONE_HOT_DEPTH].i, dims[MAX_RANK];
    if (!dtype_is_integer((enum dtype)t.dtype))
        infer_error(in, "the indices: expected integers, found %s", infer_text(in, in->operands[0]));
    if (t.rank == MAX_RANK)
        infer_error(in, "the result would have %d dims, a type has at most %d", MAX_RANK + 1, MAX_RANK);
    infer_not_negative(in, depth, "attribute 'depth'");
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = t.dims[i];
    dims[t.rank] = depth;
    infer_result(in, type_intern(in->m, pattern_dtype(&in->attrs[ONE_HOT_DTYPE]), t.rank + 1u, dims));
}

static void expand_one_hot(struct expand *e)
{
    struct builder *b = e->b;
    struct type t = type_get(b->m, e->types[0]);
    val index = emit_as_index(b, e->operands[0]), class = emit_iota(b, t.rank, t.dims, t.rank - 1u);
    uint32_t at[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) at[i] = i;
    val hot = emit2(b, OP_eq, emit_broadcast(b, index, t.rank, t.dims, at), class);
    e->out[0] = emit_cast(b, hot, (enum dtype)t.dtype);
}

/* ---- rows ---- */

#define SAMPLE(symbols, from, call, to) \
    { "hop 1\nfn @sample" symbols "(" from ") -> (" to ") {\n  %y = " call "\n  return %y\n}\n", NULL }
#define X1(symbols, from, call, to) SAMPLE(symbols, "%x: " from, call " (%x)", to)

static const struct attr_spec split_attrs[] = {
    [SPLIT_DIM] = { "dim", ATTR_INT, false, NULL },
    [SPLIT_PARTS] = { "parts", ATTR_INT, false, NULL },
    [SPLIT_SIZES] = { "sizes", ATTR_DIMS, false, NULL },
};
static const struct op_sample split_samples[] = {
    { "hop 1\nfn @sample(%x: f32[6, 2]) -> (f32[2, 2], f32[2, 2], f32[2, 2]) {\n  %a, %b, %c = split {parts "
      "= 3} (%x)\n  return %a, %b, %c\n}\n",
      NULL },
    { "hop 1\nfn @sample[dim N](%x: f64[3, 2*N]) -> (f64[3, N], f64[3, N]) {\n  %a, %b = split {dim = 1, "
      "parts = 2} (%x)\n  return %a, %b\n}\n",
      NULL },
    { "hop 1\nfn @sample[dim N, dim M](%x: f32[N + M, 2]) -> (f32[N, 2], f32[M, 2]) {\n  %a, %b = split "
      "{sizes = [N, M]} (%x)\n  return %a, %b\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[4]) -> (i32[1], i32[0], i32[3]) {\n  %a, %b, %c = split {sizes = [1, 0, 3]} "
      "(%x)\n  return %a, %b, %c\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bool[2, 4]) -> (bool[2, 4]) {\n  %a = split {dim = 1, parts = 1} (%x)\n  return "
      "%a\n}\n",
      NULL },
    { "hop 1\nfn @sample[N in 4..4](%x: f64[N, 2]) -> (f64[], f64[]) {\n  %a, %b = split {parts = 2} (%x)\n  "
      "%s = sum(%a)\n  %t = sum(%b)\n  return %s, %t\n}\n",
      NULL },
};
static const struct attr_spec squeeze_attrs[] = { [SQUEEZE_DIMS] = { "dims", ATTR_INTS, false, NULL } };
static const struct op_sample squeeze_samples[] = {
    X1("", "f32[1, 3, 1]", "squeeze", "f32[3]"),
    X1("", "f64[1, 3, 1]", "squeeze {dims = [2]}", "f64[1, 3]"),
    X1("[N]", "f32[N, 1, 2]", "squeeze {dims = [1]}", "f32[N, 2]"),
    X1("", "f64[3]", "squeeze", "f64[3]"),
    X1("", "bool[1]", "squeeze {dims = [0]}", "bool[]"),
};
static const struct attr_spec expand_dims_attrs[] = { [EXPAND_DIMS] = { "dims", ATTR_INTS, true, NULL } };
static const struct op_sample expand_dims_samples[] = {
    X1("", "f32[3]", "expand_dims {dims = [0, 2]}", "f32[1, 3, 1]"),
    X1("[N]", "f64[N, 2]", "expand_dims {dims = [1]}", "f64[N, 1, 2]"),
    X1("", "i32[]", "expand_dims {dims = [0]}", "i32[1]"),
    X1("", "f32[2]", "expand_dims {dims = []}", "f32[2]"),
};
static const struct attr_spec broadcast_to_attrs[] = { [BROADCAST_TO_DIMS] = { "dims", ATTR_DIMS, true,
                                                                               NULL } };
static const struct op_sample broadcast_to_samples[] = {
    X1("", "f32[3]", "broadcast_to {dims = [2, 3]}", "f32[2, 3]"),
    X1("", "f64[3, 1]", "broadcast_to {dims = [2, 3, 4]}", "f64[2, 3, 4]"),
    X1("[N]", "f32[1, N]", "broadcast_to {dims = [N, N]}", "f32[N, N]"),
    X1("", "f64[]", "broadcast_to {dims = [2, 2]}", "f64[2, 2]"),
    X1("", "f32[2, 3]", "broadcast_to {dims = [2, 3]}", "f32[2, 3]"),
    X1("", "f32[1]", "broadcast_to {dims = [0]}", "f32[0]"),
};
static const struct attr_spec tile_attrs[] = { [TILE_REPEATS] = { "repeats", ATTR_DIMS, true, NULL } };
static const struct op_sample tile_samples[] = {
    X1("", "f32[2, 3]", "tile {repeats = [2, 3]}", "f32[4, 9]"),
    X1("[N]", "f64[N, 2]", "tile {repeats = [1, N]}", "f64[N, 2*N]"),
    X1("", "f64[3]", "tile {repeats = [1]}", "f64[3]"),
    X1("", "i32[2, 2]", "tile {repeats = [3, 1]}", "i32[6, 2]"),
    X1("", "f32[2]", "tile {repeats = [0]}", "f32[0]"),
};
static const struct attr_spec roll_attrs[] = {
    [ROLL_DIMS] = { "dims", ATTR_INTS, true, NULL }, [ROLL_SHIFTS] = { "shifts", ATTR_INTS, false, NULL }
};
static const struct op_sample roll_samples[] = {
    X1("", "f32[5]", "roll {dims = [0], shifts = [2]}", "f32[5]"),
    X1("", "f64[3, 4]", "roll {dims = [1, 0], shifts = [-1, 7]}", "f64[3, 4]"),
    X1("[N]", "f64[N, 2]", "roll {dims = [0], shifts = [-2]}", "f64[N, 2]"),
    X1("", "f32[0]", "roll {dims = [0], shifts = [1]}", "f32[0]"),
    X1("", "i32[4]", "roll {dims = [0], shifts = [8]}", "i32[4]"),
    SAMPLE("", "%x: f64[5, 3], %i: i64[]", "roll {dims = [0]} (%x, %i)", "f64[5, 3]"),
    SAMPLE("[N]", "%x: f32[2, N], %i: i64[], %j: i64[]", "roll {dims = [1, 0]} (%x, %i, %j)", "f32[2, N]"),
};
static const struct attr_spec stack_attrs[] = { [STACK_DIM] = { "dim", ATTR_INT, false, NULL } };
static const struct op_sample stack_samples[] = {
    SAMPLE("", "%x: f32[3], %z: f32[3]", "stack(%x, %z)", "f32[2, 3]"),
    SAMPLE("[N]", "%x: f64[N, 2], %z: f64[N, 2]", "stack {dim = 1} (%x, %z, %x)", "f64[N, 3, 2]"),
    SAMPLE("", "%x: i32[]", "stack(%x)", "i32[1]"),
    SAMPLE("", "%x: f64[2], %z: f64[2]", "stack {dim = 1} (%x, %z)", "f64[2, 2]"),
};
static const struct attr_spec triangle_attrs[] = { [TRIANGLE_DIAGONAL] = { "diagonal", ATTR_INT, false,
                                                                           NULL } };
#define TRIANGLE_SAMPLES(op) \
    X1("", "f32[4, 4]", op, "f32[4, 4]"), X1("", "f64[2, 3, 5]", op " {diagonal = 1}", "f64[2, 3, 5]"), \
        X1("[N]", "f32[N, 3]", op " {diagonal = -1}", "f32[N, 3]"), X1("", "i64[3, 2]", op, "i64[3, 2]"), \
        X1("", "bool[3, 3]", op " {diagonal = -4}", "bool[3, 3]")
static const struct op_sample tril_samples[] = { TRIANGLE_SAMPLES("tril") },
                              triu_samples[] = { TRIANGLE_SAMPLES("triu") };
static const struct attr_spec eye_attrs[] = {
    [EYE_ROWS] = { "rows", ATTR_DIM, true, NULL },
    [EYE_COLUMNS] = { "columns", ATTR_DIM, false, NULL },
    [EYE_DIAGONAL] = { "diagonal", ATTR_INT, false, NULL },
    [EYE_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL },
};
static const struct op_sample eye_samples[] = {
    { "hop 1\nfn @sample(%x: f32[3, 3]) -> (f32[3, 3]) {\n  %e = eye {rows = 3}\n  %y = sub(%x, %e)\n  "
      "return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[N](%x: f64[N]) -> (f64[2, N]) {\n  %e = eye {rows = 2, columns = N, diagonal = -1, "
      "dtype = f64}\n  %b = broadcast {dims = [2, N], at = [1]} (%x)\n  %y = mul(%b, %e)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[2, 4]) -> (i32[2, 4]) {\n  %e = eye {rows = 2, columns = 4, diagonal = 2, "
      "dtype = i32}\n  %y = add(%x, %e)\n  return %y\n}\n",
      NULL },
};
static const struct attr_spec one_hot_attrs[] = { [ONE_HOT_DEPTH] = { "depth", ATTR_DIM, true, NULL },
                                                  [ONE_HOT_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL } };
static const struct op_sample one_hot_samples[] = {
    X1("", "i32[5]", "one_hot {depth = 3}", "f32[5, 3]"),
    X1("[N]", "i64[2, N]", "one_hot {depth = N, dtype = f64}", "f64[2, N, N]"),
    X1("", "i32[]", "one_hot {depth = 4, dtype = bool}", "bool[4]"),
    X1("", "i64[2]", "one_hot {depth = 0, dtype = i32}", "i32[2, 0]"),
};

#define COMPOSITE(op, text, least, most, list, infers, expands, ...) \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { least, most, ROW_ATTRS(list) }, \
                                     .infer = infers, \
                                     .expand = expands, \
                                     .autocast = AUTOCAST_KEEP, \
                                     ROW_SAMPLES(op##_samples), \
                                     __VA_ARGS__ };
COMPOSITE(split, "the array cut along a dim (absent: 0) into equal parts, or into parts of the sizes listed",
          1, 1, split_attrs, infer_split, expand_split)
COMPOSITE(squeeze, "the array without the dims listed, which have size 1 (absent: all that have)", 1, 1,
          squeeze_attrs, infer_squeeze, reshaped)
COMPOSITE(expand_dims, "the array with dims of size 1 at the places listed", 1, 1, expand_dims_attrs,
          infer_expand_dims, reshaped)
COMPOSITE(
    broadcast_to,
    "the array repeated to the dims listed: last dims stand against last dims, a dim of size 1 is repeated",
    1, 1, broadcast_to_attrs, infer_broadcast_to, expand_broadcast_to)
COMPOSITE(tile, "the whole array repeated along each dim so many times", 1, 1, tile_attrs, infer_tile,
          expand_tile)
COMPOSITE(roll,
          "elements moved along the dims listed, those pushed out at the end come in at the beginning; "
          "shifts are numbers, or i64[] operands",
          1, 1 + MAX_RANK, roll_attrs, infer_roll, expand_roll)
COMPOSITE(stack, "arrays of one type side by side along a new dim (absent: 0)", 1, MANY, stack_attrs,
          infer_stack, expand_stack)
COMPOSITE(tril, "matrices with zeros where column - row > diagonal (absent: 0)", 1, 1, triangle_attrs,
          infer_triangle, expand_triangle)
COMPOSITE(triu, "matrices with zeros where column - row < diagonal (absent: 0)", 1, 1, triangle_attrs,
          infer_triangle, expand_triangle)
COMPOSITE(eye, "ones where column - row = diagonal (absent: 0), zeros elsewhere", 0, 0, eye_attrs, infer_eye,
          expand_eye, .no_gradient = "integer-valued")
COMPOSITE(one_hot, "a dim more: 1 at the index, 0 elsewhere; all 0 for an index out of range", 1, 1,
          one_hot_attrs, infer_one_hot, expand_one_hot, .no_gradient = "integer-valued")
