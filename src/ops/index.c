/* Rows of the operators that read and write windows at positions known only when running: dynamic_slice
 * dynamic_update. Positions are clamped so that the window fits, so no rule can reach outside an array. */
#include "loop/lower.h"
#include "ops/facts.h"
#include "ops/rowkit.h"
#include "transform/pass.h"

static val operand(const struct fn *f, const struct node *n, uint32_t i) { return node_operands(f, n)[i]; }
static struct type operand_type(const struct module *m, const struct fn *f, const struct node *n, uint32_t i)
{
    return type_get(m, value_type(f, operand(f, n, i)));
}

static void infer_starts(struct infer *in, uint32_t first, uint32_t rank)
{
    if (in->n_operands != first + rank)
        infer_error(in, "expected one start per dim of %s (%u), found %u", infer_text(in, in->operands[0]),
                    rank, in->n_operands - first);
    for (uint32_t i = 0; i < rank; i++)
        infer_same_type(in, type_scalar(in->m, DT_I64), in->operands[first + i],
                        arena_printf(&in->m->scratch, "operand %u (start of dim %u)", first + i, i));
}

static int64_t clamp64(int64_t i, int64_t lo, int64_t hi)
{
    if (i > hi) return hi < lo ? lo : hi;
    return i < lo ? lo : i;
}

/* Offset in x of a window whose starts are the operands from `first` on. */
static int64_t window_offset(const struct eval *e, const int64_t *sizes, uint32_t first,
                             const int64_t *strides)
{
    const struct tensor *x = e->operands[0];
    int64_t offset = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t start = *(const int64_t *)e->operands[first + i]->data;
        offset += clamp64(start, 0, x->dims[i] - sizes[i]) * strides[i];
    }
    return offset;
}

/* The clamped start of dim i as the compiler sees it; 0 when the window is as large as x. */
static lpv window_start(struct lower *L, val start, dim whole, dim window)
{
    struct lp *p = lower_lp(L);
    if (whole == window) return lp_index(p, 0);
    lpv last = lp_bin(p, LP_SUB, lower_dim(L, whole), lower_dim(L, window));
    return lp_bin(p, LP_MAX, lp_bin(p, LP_MIN, lower_scalar(L, start), last), lp_index(p, 0));
}

/* ---- batching windows ---- */

/* Starts that differ by lane: the dims they belong to (`own`, K of them) are gathered with computed
 * positions, the others keep one window for all lanes. The helpers below work on arrays whose dims were
 * sorted as [batch?, own dims…, other dims…]. */
struct lanes {
    struct batch *v;
    uint32_t rank;  /* of the unbatched operand */
    uint32_t first; /* operand number of the first start */
    uint32_t n_own, own[MAX_RANK], n_other, other[MAX_RANK];
};

static struct lanes lanes_of(struct batch *v, uint32_t first)
{
    struct lanes s = { .v = v, .rank = v->n->n_operands - first, .first = first };
    for (uint32_t i = 0; i < s.rank; i++)
        if (v->batched[first + i]) s.own[s.n_own++] = i;
        else s.other[s.n_other++] = i;
    return s;
}

/* x with its own dims (and the batch dim, when it has one) flattened into dim 0. */
static val lanes_flatten(const struct lanes *s, val x, bool batched)
{
    struct builder *b = s->v->b;
    struct type t = emit_type(b, x);
    uint32_t order[MAX_RANK + 1], n = 0, shift = batched;
    dim dims[MAX_RANK + 1] = { batched ? t.dims[0] : 1 };
    if (batched) order[n++] = 0;
    for (uint32_t i = 0; i < s->n_own; i++) {
        order[n++] = s->own[i] + shift;
        dims[0] = dim_mul(b->m, dims[0], t.dims[s->own[i] + shift]);
    }
    for (uint32_t i = 0; i < s->n_other; i++) {
        order[n++] = s->other[i] + shift;
        dims[1 + i] = t.dims[s->other[i] + shift];
    }
    return emit_reshape(b, emit_permute(b, x, order), s->n_other + 1, dims);
}

/* [batch, own…, other…] back to [batch, dims in their order]. */
static val lanes_unsort(const struct lanes *s, val x)
{
    uint32_t order[MAX_RANK + 1] = { 0 };
    for (uint32_t i = 0; i < s->n_own; i++) order[1 + s->own[i]] = 1 + i;
    for (uint32_t i = 0; i < s->n_other; i++) order[1 + s->other[i]] = 1 + s->n_own + i;
    return emit_permute(s->v->b, x, order);
}

/* i64[dims…] where dims[0] is the batch: the clamped start of own dim i, per lane. */
static val lanes_start(const struct lanes *s, uint32_t i, dim whole, dim window, uint32_t rank,
                       const dim *dims)
{
    struct builder *b = s->v->b;
    val start = s->v->operands[s->first + s->own[i]];
    start = emit2(b, OP_min, start, emit_dim_full(b, dim_sub(b->m, whole, window), 1, &s->v->size));
    start = emit2(b, OP_max, start, emit_dim_full(b, 0, 1, &s->v->size));
    return rank == 1 ? start : emit_broadcast(b, start, rank, dims, &(uint32_t){ 0 });
}

/* A window of the other dims, whole in the own dims: those of `whole` with the other dims cut to `sizes`. */
static val lanes_cut(const struct lanes *s, val x, bool batched, const dim *sizes)
{
    struct builder *b = s->v->b;
    struct type t = emit_type(b, x);
    bool needed = false;
    dim cut[MAX_RANK + 1];
    val operands[MAX_RANK + 2] = { x };
    memcpy(cut, t.dims, t.rank * sizeof *cut);
    for (uint32_t i = 0; i < s->n_other; i++) {
        uint32_t d = s->other[i];
        needed |= sizes[d] != t.dims[d + batched];
        cut[d + batched] = sizes[d];
    }
    if (!needed) return x;
    val zero = emit_i64(b, 0);
    if (batched) operands[1] = zero;
    for (uint32_t d = 0; d < s->rank; d++)
        operands[1 + batched + d] = s->v->batched[s->first + d] ? zero : s->v->operands[s->first + d];
    struct attr a = A_DIMS(cut, t.rank);
    return emit(b, OP_dynamic_slice, operands, 1u + t.rank, &a);
}

static val take_first(struct builder *b, val x, val indices)
{
    struct attr a = A_INT(0);
    return emit(b, OP_take, (val[]){ x, indices }, 2, &a);
}

/* acc·size + at, all i64 of the same dims; acc may be none. */
static val horner(struct builder *b, val acc, dim size, val at, uint32_t rank, const dim *dims)
{
    if (acc == VAL_NONE) return at;
    return emit2(b, OP_add, emit2(b, OP_mul, acc, emit_dim_full(b, size, rank, dims)), at);
}

/* ---- dynamic_slice ---- */

static void infer_dynamic_slice(struct infer *in)
{
    struct type t = infer_type(in, 0);
    const struct attr *sizes = &in->attrs[DYNAMIC_SLICE_SIZES];
    infer_list_length(in, sizes, t.rank, "sizes");
    infer_starts(in, 1, t.rank);
    for (uint32_t i = 0; i < t.rank; i++) {
        if (sizes->list[i] == t.dims[i]) continue;
        infer_not_negative(in, sizes->list[i], arena_printf(&in->m->scratch, "size of dim %u", i));
        infer_le(in, sizes->list[i], t.dims[i],
                 arena_printf(&in->m->scratch, "size of dim %u of %s", i, infer_text(in, in->operands[0])));
    }
    infer_result(in, type_intern(in->m, t.dtype, t.rank, sizes->list));
}

static void eval_dynamic_slice(struct eval *e)
{
    const struct tensor *x = e->operands[0], *r = e->results[0];
    int64_t from[MAX_RANK], to[MAX_RANK];
    row_major(x->rank, x->dims, from);
    row_major(r->rank, r->dims, to);
    if (!r->count) return;
    const char *start = (const char *)x->data + window_offset(e, r->dims, 1, from) * (int64_t)tensor_width(x);
    copy_strided(tensor_width(x), r->rank, r->dims, r->data, to, start, from);
}

static void vjp_dynamic_slice(struct vjp *v)
{
    uint32_t rank = v->n->n_operands - 1;
    val operands[MAX_RANK + 2] = { emit_full_like(v->b, v->operands[0], 0), v->ct[0] };
    memcpy(operands + 2, v->operands + 1, rank * sizeof *operands);
    v->out[0] = emit(v->b, OP_dynamic_update, operands, rank + 2, NULL);
}

static void jvp_dynamic_slice(struct jvp *j)
{
    if (j->tangents[0] == VAL_NONE) return;
    val operands[MAX_RANK + 1] = { j->tangents[0] };
    memcpy(operands + 1, j->operands + 1, (j->n->n_operands - 1) * sizeof *operands);
    j->out[0] = emit(j->b, OP_dynamic_slice, operands, j->n->n_operands, j->attrs);
}

static void batch_dynamic_slice(struct batch *v)
{
    if (batch_none(v)) return;
    struct builder *b = v->b;
    struct lanes s = lanes_of(v, 1);
    const dim *sizes = v->attrs[DYNAMIC_SLICE_SIZES].list;
    if (!s.n_own) {
        val operands[MAX_RANK + 2] = { v->operands[0], emit_i64(b, 0) };
        memcpy(operands + 2, v->operands + 1, s.rank * sizeof *operands);
        struct attr a = batch_sizes(v, &v->attrs[DYNAMIC_SLICE_SIZES], v->size);
        v->results[0] = emit(b, OP_dynamic_slice, operands, s.rank + 2, &a);
        return;
    }
    bool own_lane = v->batched[0];
    val x = lanes_cut(&s, v->operands[0], own_lane, sizes);
    struct type t = emit_type(b, x);
    dim dims[MAX_RANK + 1] = { v->size };
    uint32_t rank = s.n_own + 1;
    for (uint32_t i = 0; i < s.n_own; i++) dims[i + 1] = sizes[s.own[i]];
    val at = own_lane ? emit_iota(b, rank, dims, 0) : VAL_NONE;
    for (uint32_t i = 0; i < s.n_own; i++) {
        dim whole = t.dims[s.own[i] + own_lane];
        val start = lanes_start(&s, i, whole, sizes[s.own[i]], rank, dims);
        at = horner(b, at, whole, emit2(b, OP_add, start, emit_iota(b, rank, dims, i + 1)), rank, dims);
    }
    v->results[0] = lanes_unsort(&s, take_first(b, lanes_flatten(&s, x, own_lane), at));
}

static lpv elem_dynamic_slice(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                              const lpv *idx)
{
    HOP_UNUSED(result);
    struct type t = operand_type(lower_module(L), f, n, 0);
    const struct attr *sizes = node_attr(f, n, DYNAMIC_SLICE_SIZES);
    lpv at[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++)
        at[i] = lp_bin(lower_lp(L), LP_ADD, idx[i],
                       window_start(L, operand(f, n, 1 + i), t.dims[i], sizes->list[i]));
    return lower_elem(L, operand(f, n, 0), at);
}

static const struct attr_spec dynamic_slice_attrs[] = { [DYNAMIC_SLICE_SIZES] = { "sizes", ATTR_DIMS, true,
                                                                                  NULL } };
static const struct op_lower lower_dynamic_slice = {
    .kind = LOWER_POINTWISE, .access = ACCESS_GATHER, .cost = COST_CHEAP, .elem = elem_dynamic_slice
};
static const struct op_sample dynamic_slice_samples[] = {
    { "hop 1\nfn @sample(%x: f32[5], %i: i64[]) -> (f32[2]) {\n  %y = dynamic_slice {sizes = [2]} (%x, %i)\n "
      " return %y\n}\n",
      "i = -1..6" },
    { "hop 1\nfn @sample[T in 2..64](%x: f64[T, 4], %i: i64[], %j: i64[]) -> (f64[2, 3]) {\n  %y = "
      "dynamic_slice {sizes = [2, 3]} (%x, %i, %j)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T](%x: f32[T, 3], %i: i64[], %j: i64[]) -> (f32[T, 1]) {\n  %y = dynamic_slice "
      "{sizes = [T, 1]} (%x, %i, %j)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[3, 2], %i: i64[], %j: i64[]) -> (i32[0, 2]) {\n  %y = dynamic_slice {sizes "
      "= [0, 2]} (%x, %i, %j)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bool[]) -> (bool[]) {\n  %y = dynamic_slice {sizes = []} (%x)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_dynamic_slice = {
    .name = "dynamic_slice",
    .meaning = "a window of fixed sizes at starts given as values, clamped so that it fits",
    .sig = { 1, MANY, ROW_ATTRS(dynamic_slice_attrs) },
    .infer = infer_dynamic_slice,
    .eval = eval_dynamic_slice,
    .vjp = vjp_dynamic_slice,
    .jvp = jvp_dynamic_slice,
    .batch = batch_dynamic_slice,
    .lower = &lower_dynamic_slice,
    .range = range_of_operand,
    .fold = fold_dynamic_slice,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(dynamic_slice_samples),
};

/* ---- dynamic_update ---- */

static void infer_dynamic_update(struct infer *in)
{
    struct type t = infer_type(in, 0), u = infer_type(in, 1);
    if (u.dtype != t.dtype || u.rank != t.rank)
        infer_error(in, "operand 1 (update): expected dtype and rank of %s, found %s",
                    infer_text(in, in->operands[0]), infer_text(in, in->operands[1]));
    infer_starts(in, 2, t.rank);
    for (uint32_t i = 0; i < t.rank; i++)
        if (u.dims[i] != t.dims[i])
            infer_le(in, u.dims[i], t.dims[i],
                     arena_printf(&in->m->scratch, "operand 1 (update): dim %u of %s", i,
                                  infer_text(in, in->operands[1])));
    infer_result(in, in->operands[0]);
}

static void eval_dynamic_update(struct eval *e)
{
    const struct tensor *x = e->operands[0], *u = e->operands[1], *r = e->results[0];
    int64_t from[MAX_RANK], to[MAX_RANK];
    row_major(u->rank, u->dims, from);
    row_major(r->rank, r->dims, to);
    if (r->count) memcpy(r->data, x->data, (size_t)r->count * tensor_width(r));
    if (!u->count) return;
    char *start = (char *)r->data + window_offset(e, u->dims, 2, to) * (int64_t)tensor_width(r);
    copy_strided(tensor_width(r), u->rank, u->dims, start, to, u->data, from);
}

static void vjp_dynamic_update(struct vjp *v)
{
    uint32_t rank = v->n->n_operands - 2;
    val operands[MAX_RANK + 2];
    if (v->active[1]) { /* read first: then the cotangent can be changed where it lies */
        struct type u = emit_type(v->b, v->operands[1]);
        struct attr a = A_DIMS(u.dims, u.rank);
        operands[0] = v->ct[0];
        memcpy(operands + 1, v->operands + 2, rank * sizeof *operands);
        v->out[1] = emit(v->b, OP_dynamic_slice, operands, rank + 1, &a);
    }
    if (v->active[0]) {
        operands[0] = v->ct[0];
        operands[1] = emit_full_like(v->b, v->operands[1], 0);
        memcpy(operands + 2, v->operands + 2, rank * sizeof *operands);
        v->out[0] = emit(v->b, OP_dynamic_update, operands, rank + 2, NULL);
    }
}

/* What the window gets on top of what stands in operand 0 there: the update, where operand 0 is zeros, or the
 * second term of a window of operand 0 with something added, as below. */
static val window_addend(const struct builder *b, const struct node *n)
{
    val x = built_operand(b, n, 0), u = built_operand(b, n, 1);
    struct attr value;
    if (full_value(b, x, &value)) return attr_is_zero(&value) ? u : VAL_NONE;
    const struct node *sum = built_node(b, u);
    const struct node *window = sum && sum->op == OP_add ? built_node(b, built_operand(b, sum, 0)) : NULL;
    if (!window || window->op != OP_dynamic_slice || built_operand(b, window, 0) != x) return VAL_NONE;
    for (uint32_t k = 2; k < n->n_operands; k++)
        if (built_operand(b, window, k - 1) != built_operand(b, n, k)) return VAL_NONE;
    return built_operand(b, sum, 1);
}
static bool update_adds_onto(struct builder *b, const struct node *n, val base, val *out)
{
    uint32_t rank = n->n_operands - 2;
    val u = window_addend(b, n), starts[MAX_RANK + 2];
    if (u == VAL_NONE) return false;
    if (base == VAL_NONE) return true;
    for (uint32_t k = 0; k < rank; k++) starts[2 + k] = built_operand(b, n, 2 + k);
    struct type t = emit_type(b, u);
    struct attr sizes = A_DIMS(t.dims, t.rank);
    starts[1] = base;
    starts[1] = emit2(b, OP_add, emit(b, OP_dynamic_slice, starts + 1, rank + 1, &sizes), u);
    starts[0] = base;
    *out = emit(b, OP_dynamic_update, starts, rank + 2, NULL);
    return true;
}

static void jvp_dynamic_update(struct jvp *j)
{
    if (j->tangents[0] == VAL_NONE && j->tangents[1] == VAL_NONE) return;
    val operands[MAX_RANK + 2];
    memcpy(operands, j->operands, j->n->n_operands * sizeof *operands);
    for (int i = 0; i < 2; i++)
        operands[i] = j->tangents[i] != VAL_NONE ? j->tangents[i] : emit_full_like(j->b, j->operands[i], 0);
    j->out[0] = emit(j->b, OP_dynamic_update, operands, j->n->n_operands, NULL);
}

/* The update of each lane, spread over x's own dims (their window whole in the other dims), where it lies
 * inside the lane's window: else `x`. */
static val lanes_spread(const struct lanes *s, val x, val update, bool update_batched)
{
    struct builder *b = s->v->b;
    struct type t = emit_type(b, x), u = emit_type(b, update); /* x: [batch, …] */
    dim dims[MAX_RANK + 1] = { s->v->size };
    uint32_t rank = s->n_own + 1, place[MAX_RANK + 1] = { 0 };
    for (uint32_t i = 0; i < s->n_own; i++) {
        dims[i + 1] = t.dims[s->own[i] + 1];
        place[i + 1] = s->own[i] + 1;
    }
    val at = update_batched ? emit_iota(b, rank, dims, 0) : VAL_NONE;
    val inside = VAL_NONE;
    val zero = emit_dim_full(b, 0, rank, dims);
    for (uint32_t i = 0; i < s->n_own; i++) {
        dim window = u.dims[s->own[i] + update_batched];
        val start = lanes_start(s, i, dims[i + 1], window, rank, dims);
        val size = emit_dim_full(b, window, rank, dims);
        val from = emit2(b, OP_sub, emit_iota(b, rank, dims, i + 1), start);
        val here = emit2(b, OP_and, emit2(b, OP_ge, from, zero), emit2(b, OP_lt, from, size));
        inside = inside == VAL_NONE ? here : emit2(b, OP_and, inside, here);
        val last = emit_dim_full(b, dim_sub(b->m, window, 1), rank, dims);
        at = horner(b, at, window, emit2(b, OP_max, emit2(b, OP_min, from, last), zero), rank, dims);
    }
    val moved = lanes_unsort(s, take_first(b, lanes_flatten(s, update, update_batched), at));
    moved = emit_as(b, moved, builder_type(b, x));
    return emit_select(b, emit_broadcast(b, inside, t.rank, t.dims, place), moved, x);
}

static void batch_dynamic_update(struct batch *v)
{
    if (batch_none(v)) return;
    struct builder *b = v->b;
    struct lanes s = lanes_of(v, 2);
    val x = batch_operand(v, 0), update = v->operands[1];
    if (!s.n_own) update = batch_operand(v, 1);
    else {
        struct type u = emit_type(b, update);
        val window = lanes_cut(&s, x, true, u.dims + v->batched[1]);
        val filled = lanes_spread(&s, window, update, v->batched[1]);
        v->results[0] = filled;
        if (window == x) return;
        update = filled;
    }
    val operands[MAX_RANK + 3] = { x, update, emit_i64(b, 0) };
    for (uint32_t d = 0; d < s.rank; d++)
        operands[3 + d] = v->batched[2 + d] ? operands[2] : v->operands[2 + d];
    v->results[0] = emit(b, OP_dynamic_update, operands, s.rank + 3, NULL);
}

static lpv elem_dynamic_update(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                               const lpv *idx)
{
    HOP_UNUSED(result);
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    struct type t = operand_type(m, f, n, 0), u = operand_type(m, f, n, 1);
    lpv inside = LPV_NONE, some = LPV_NONE, at[MAX_RANK], zero = lp_index(p, 0);
    for (uint32_t i = 0; i < t.rank; i++) {
        at[i] = idx[i];
        if (u.dims[i] == t.dims[i]) continue;
        if (u.dims[i] == 0) return lower_elem(L, operand(f, n, 0), idx);
        lpv size = lower_dim(L, u.dims[i]);
        lpv from = lp_bin(p, LP_SUB, idx[i], window_start(L, operand(f, n, 2 + i), t.dims[i], u.dims[i]));
        lpv here = lp_bin(p, LP_AND, lp_bin(p, LP_GE, from, zero), lp_bin(p, LP_LT, from, size));
        inside = inside == LPV_NONE ? here : lp_bin(p, LP_AND, inside, here);
        at[i] = lower_clamp(p, from, size);
        some = lower_not_empty(L, f, u.dims[i], some);
    }
    if (inside == LPV_NONE) return lower_elem(L, operand(f, n, 1), at);
    lpv x = lower_elem(L, operand(f, n, 0), idx);
    return lp_select(p, inside, lower_elem_if(L, some, operand(f, n, 1), at, x), x);
}

/* The window alone. */
static void part_dynamic_update(struct lower *L, const struct fn *f, const struct node *n, struct array whole)
{
    struct module *m = lower_module(L);
    type_id t = value_type(f, operand(f, n, 0)), u = value_type(f, operand(f, n, 1));
    struct type outer = type_get(m, t), window = type_get(m, u);
    lpv start[MAX_RANK];
    for (uint32_t i = 0; i < outer.rank; i++)
        start[i] = window_start(L, operand(f, n, 2 + i), outer.dims[i], window.dims[i]);
    lower_place(L, &(struct written_part){ .v = operand(f, n, 1), .to = whole, .whole = t, .start = start });
}

static const struct op_lower lower_dynamic_update = { .kind = LOWER_POINTWISE,
                                                      .access = ACCESS_GATHER,
                                                      .cost = COST_CHEAP,
                                                      .elem = elem_dynamic_update,
                                                      .part = part_dynamic_update };
static const struct op_sample dynamic_update_samples[] = {
    { "hop 1\nfn @sample(%x: f32[5], %u: f32[2], %i: i64[]) -> (f32[5]) {\n  %y = dynamic_update(%x, %u, "
      "%i)\n  return %y\n}\n",
      "i = -1..6" },
    { "hop 1\nfn @sample[T in 2..64](%x: f64[T, 4], %u: f64[1, 3], %i: i64[], %j: i64[]) -> (f64[T, 4]) {\n  "
      "%y = dynamic_update(%x, %u, %i, %j)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample[T in 1..64](%x: f32[T, 3], %u: f32[1, 3], %i: i64[], %j: i64[]) -> (f32[T, 3]) {\n  "
      "%y = dynamic_update(%x, %u, %i, %j)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bool[3, 2], %u: bool[0, 2], %i: i64[], %j: i64[]) -> (bool[3, 2]) {\n  %y = "
      "dynamic_update(%x, %u, %i, %j)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_dynamic_update = {
    .name = "dynamic_update",
    .meaning = "x with a window replaced by update, at starts given as values, clamped so that it fits",
    .sig = { 2, MANY },
    .infer = infer_dynamic_update,
    .eval = eval_dynamic_update,
    .vjp = vjp_dynamic_update,
    .jvp = jvp_dynamic_update,
    .batch = batch_dynamic_update,
    .lower = &lower_dynamic_update,
    .adds_onto = update_adds_onto,
    .range = range_of_two,
    .fold = fold_dynamic_update,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(dynamic_update_samples),
};
