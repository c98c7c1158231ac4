/* Rows that write at indices: scatter, which adds, sets, multiplies or keeps extremes, and scatter_affine,
 * the recurrence r = a·r + b at each place, by which products are differentiated. Updates are applied one
 * after the other in row-major order; those whose indices lie outside of x are dropped. */
#include "ops/indexkit.h"
#include "ops/scalar_c.h"
#include "ops/scalar_lp.h"
#include "transform/pass.h"

static val operand(const struct fn *f, const struct node *n, uint32_t i) { return node_operands(f, n)[i]; }
static struct type operand_type(const struct module *m, const struct fn *f, const struct node *n, uint32_t i)
{
    return type_get(m, value_type(f, operand(f, n, i)));
}

static uint32_t mode_of(const struct attr *a)
{
    return a->kind == ATTR_ABSENT ? SCATTER_ADD : (uint32_t)a->i;
}

/* What combines an element with an update, OP_COUNT: the update replaces it. */
static const enum op combine[] = { [SCATTER_ADD] = OP_add,
                                   [SCATTER_SET] = OP_COUNT,
                                   [SCATTER_MUL] = OP_mul,
                                   [SCATTER_MIN] = OP_min,
                                   [SCATTER_MAX] = OP_max };

/* Operands: x, the indices, then `values` arrays of updates. */
static uint32_t index_count(uint32_t n_operands, uint32_t values) { return n_operands - 1 - values; }

static struct indexed infer_updates(struct infer *in, const struct attr *dims, uint32_t values)
{
    struct type x = infer_type(in, 0);
    if (!x.rank)
        infer_error(in, "operand 0: expected at least one dim, found %s", infer_text(in, in->operands[0]));
    uint32_t n = index_count(in->n_operands, values);
    struct indexed s = infer_indexed(in, dims, 1, n);
    type_id updates = infer_indexed_type(in, &s, 1);
    for (uint32_t k = 0; k < values; k++)
        infer_same_type(in, updates, in->operands[1 + n + k],
                        arena_printf(&in->m->scratch, "operand %u (updates)", 1 + n + k));
    return s;
}

/* ---- walking updates ---- */

/* Runs of updates in row-major order, and where in x each belongs. */
struct walk {
    const struct eval *e;
    struct indexed s;
    uint32_t rank, n; /* of the indices; dims of the updates that are walked */
    const struct tensor *x, *u;
    int64_t strides[MAX_RANK], idx[MAX_RANK];
    int64_t run; /* elements behind every indexed dim */
    int64_t from, to;
    bool more;
};

static struct walk walk_begin(const struct eval *e, const struct attr *dims, uint32_t values)
{
    uint32_t n = index_count(e->n->n_operands, values);
    struct walk w = {
        .e = e, .x = e->operands[0], .u = e->operands[1 + n], .rank = e->operands[1]->rank, .run = 1
    };
    w.s = indexed_dims(dims, n, w.x->rank);
    w.n = w.u->rank - w.s.n_inner;
    row_major(w.x->rank, w.x->dims, w.strides);
    for (uint32_t d = w.x->rank - w.s.n_inner; d < w.x->rank; d++) w.run *= w.x->dims[d];
    w.more = w.u->count > 0;
    w.from = -w.run;
    return w;
}

/* The next run; w->to is -1 where it is dropped. */
static bool walk_next(struct walk *w)
{
    const struct indexed *s = &w->s;
    if (!w->more) return false;
    int64_t at = 0;
    w->from += w->run;
    w->to = 0;
    for (uint32_t k = 0; k < w->rank; k++) at = at * w->u->dims[s->first + k] + w->idx[s->first + k];
    for (uint32_t i = 0; i + s->n_inner < s->n_rest; i++)
        w->to += w->idx[i < s->first ? i : i + w->rank] * w->strides[s->rest[i]];
    for (uint32_t i = 0; i < s->n; i++) {
        int64_t index = index_at(w->e->operands[1 + i], at);
        if (index < 0 || index >= w->x->dims[s->dims[i]]) w->to = INT64_MIN;
        if (w->to >= 0) w->to += index * w->strides[s->dims[i]];
    }
    if (w->to < 0) w->to = -1;
    w->more = next_index(w->n, w->u->dims, w->idx);
    return true;
}

/* ---- batching ---- */

/* Batched operands for x, indices and updates, and the dims they index: where indices differ by lane the lane
 * is one more index, and updates are [lane, S…, rest…]. Returns whether they do. */
static bool batch_updates(struct batch *v, const struct indexed *s, uint32_t values, val *operands,
                          uint32_t *dims, uint32_t *n_operands)
{
    struct builder *b = v->b;
    bool lanes = false;
    uint32_t total = 0, rank;
    for (uint32_t i = 1; i <= s->n; i++) lanes |= v->batched[i];
    operands[total++] = batch_operand(v, 0);
    if (lanes) {
        struct type t = emit_type(b, batch_operand(v, 1));
        dims[0] = 0;
        operands[total++] = emit_iota(b, t.rank, t.dims, 0);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        dims[lanes + i] = s->dims[i] + 1;
        operands[total++] = lanes ? batch_operand(v, 1 + i) : v->operands[1 + i];
    }
    rank = emit_type(b, operands[total - 1]).rank - lanes;
    for (uint32_t k = 0; k < values; k++) {
        val u = batch_operand(v, 1 + s->n + k);
        uint32_t order[MAX_RANK] = { 0 }, n = 1, u_rank = emit_type(b, u).rank;
        for (uint32_t i = 0; i < rank; i++) order[n++] = 1 + s->first + i;
        for (uint32_t i = 0; i < s->first; i++) order[n++] = 1 + i;
        for (; n < u_rank; n++) order[n] = n;
        operands[total++] = lanes ? emit_permute(b, u, order) : u;
    }
    *n_operands = total;
    return lanes;
}

/* [lane, S…, pre…, post…] to [lane, pre…, S…, post…]. */
static val unsort_updates(struct builder *b, const struct indexed *s, val u, uint32_t rank)
{
    uint32_t order[MAX_RANK] = { 0 }, n = 1, u_rank = emit_type(b, u).rank;
    for (uint32_t i = 0; i < s->first; i++) order[n++] = 1 + rank + i;
    for (uint32_t i = 0; i < rank; i++) order[n++] = 1 + i;
    for (; n < u_rank; n++) order[n] = n;
    return emit_permute(b, u, order);
}

/* ---- lowering ---- */

/* The numbers behind what threads share: elements from which on they pay, and how small pieces may be. */
enum {
    PARALLEL_SINGLE = 65536, /* updates of few elements each: a nanosecond an element */
    PARALLEL_WIDE = 262144,  /* updates of WIDE elements or more, by vectors; also copies of x */
    WIDE = 16,
    FAR = 262144, /* elements of x that are more than a core's cache holds */
    /* Elements side by side that a piece of the rest has: at most, and where updates have few. */
    LEAST_COLUMNS = 128,
    FEWEST_COLUMNS = 32,
    /* Elements of an update from which on ranges pay, where x is in the cache and where it is not: each range
     * looks at all indices, and is worth that if an update has RUN_OF_RANGE elements for each of them. */
    NEAR_RUN = 256,
    FAR_RUN = 64,
    RUN_OF_RANGE = 32,
    ENOUGH_PIECES = 8 /* of a dim, for which nothing else is looked for */
};

static int64_t largest(struct module *m, const struct fn *f, dim d)
{
    int64_t least, most;
    dim_range(m, f->symbols, d, &least, &most);
    return most;
}

/* x into memory of the result, on threads if it is large: the largest of its dims is cut. */
static void fill_result(struct lower *L, const struct fn *f, val x, struct array to)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    type_id type = value_type(f, x);
    struct type t = type_get(m, type);
    lpv idx[MAX_RANK], lo, hi, zero = lp_index(p, 0), one = lp_index(p, 1);
    uint32_t cut = 0;
    bool grows = p->buffers.data[to.buffer].kind == BUF_DYN;
    if (grows || largest(m, f, type_elements(m, type)) < lower_large(PARALLEL_WIDE) || !lower_may_thread(L)) {
        lower_fill(L, x, to);
        return;
    }
    for (uint32_t d = 1; d < t.rank; d++)
        if (largest(m, f, t.dims[d]) > largest(m, f, t.dims[cut])) cut = d;
    struct blocks b = lower_blocks(L, lower_dim(L, t.dims[cut]), cut + 1u == t.rank ? LEAST_COLUMNS : 1);
    lower_block_begin(L, &b, &lo, &hi);
    for (uint32_t d = 0; d < t.rank; d++)
        idx[d] = lp_for_begin(p, d == cut ? lo : zero, d == cut ? hi : lower_dim(L, t.dims[d]), one,
                              d + 1u == t.rank ? FOR_VECTOR : FOR_SERIAL);
    lp_store(p, to.buffer, lp_bin(p, LP_ADD, to.at, lower_flatten(L, type, idx)), lower_elem(L, x, idx));
    for (uint32_t d = 0; d <= t.rank; d++) lp_for_end(p);
}

/* The result is made where x lies if nothing else that is read here, and nothing behind, reads that: only
 * what the updates touch is written then. */
static uint32_t changes_first(struct module *m, const struct fn *f, const struct node *n, uint32_t k)
{
    HOP_UNUSED(m);
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    return k ? HOP_NONE : 0;
}
/* Memory for the result, with x in it. */
static struct array begin_result(struct lower *L, const struct fn *f, const struct node *n)
{
    if (lower_taken(L, n, 0) != HOP_NONE) return lower_take(L, n, 0);
    struct array to = lower_result(L, n, 0);
    fill_result(L, f, operand(f, n, 0), to);
    return to;
}

/* Loops over updates: `updates_begin` leaves the loops open inside of the test that the place lies in x;
 * place is its position in x. The loops over what stands behind S are opened by `rest_begin`, for either
 * branch of the test. */
enum { CUT_NOTHING, CUT_DIM, CUT_RANGE };
struct update_loops {
    struct indexed s;
    struct type x, u;
    type_id x_type, u_type;
    uint32_t rank, head; /* of the indices; dims of the updates up to the end of S */
    lpv from[MAX_RANK], index[MAX_RANK];
    const char *name;
    /* What threads share: a dim of the updates, or the dim of x that an operand of indices is for; from lo to
     * hi in a piece, of `least` or more; in one piece if there are not `enough` elements of updates. */
    uint8_t cut;
    uint32_t cut_at;
    int64_t pieces, least, enough;
    lpv lo, hi;
    bool adds_up; /* pieces of a dim each have their own sums */
};

/* ---- on threads ---- */

/* The dim of the updates along which indices of operand i count 0, 1, 2, …; HOP_NONE: none. */
static uint32_t counted_dim(const struct fn *f, const struct node *n, const struct update_loops *w,
                            uint32_t i)
{
    const struct value *v = &f->values[operand(f, n, 1 + i)];
    const struct node *made = v->node == NODE_NONE ? NULL : fn_node(f, v->node);
    if (!made || made->op != OP_iota) return HOP_NONE;
    const struct attr *t = node_attr(f, made, IOTA_DTYPE);
    bool wide = t->kind == ATTR_ABSENT || t->i == DT_I64 || t->i == DT_I32; /* it does not begin again */
    return wide ? w->s.first + attr_dim_or_zero(node_attr(f, made, IOTA_DIM)) : HOP_NONE;
}

/* How many elements an update has. */
static int64_t run_of(struct module *m, const struct fn *f, const struct update_loops *w)
{
    enum { PLENTY = 1 << 20 };
    int64_t run = 1;
    for (uint32_t k = w->head; k < w->u.rank; k++)
        run = HOP_MIN(run, PLENTY) * HOP_MIN(largest(m, f, w->u.dims[k]), PLENTY);
    return run;
}

/* Cuts dim d of the updates if that gives more pieces than what was found before. */
static void try_dim(struct module *m, const struct fn *f, struct update_loops *w, uint32_t d)
{
    int64_t behind = 1, least = 1;
    int64_t columns = HOP_MIN(HOP_MAX(run_of(m, f, w) / ENOUGH_PIECES, FEWEST_COLUMNS), LEAST_COLUMNS);
    for (uint32_t k = d + 1; d >= w->head && k < w->u.rank; k++)
        behind = HOP_MIN(behind, columns) * HOP_MIN(largest(m, f, w->u.dims[k]), columns);
    if (d >= w->head) least = columns / HOP_MAX(HOP_MIN(behind, columns), 1);
    int64_t pieces = HOP_MIN(largest(m, f, w->u.dims[d]) / least, LOWER_BLOCKS);
    if (pieces < 2 || (w->cut && pieces <= w->pieces)) return;
    w->cut = CUT_DIM;
    w->cut_at = d;
    w->pieces = pieces;
    w->least = least;
}

/* Ranges of the largest dim of x that is indexed: every piece looks at all indices and takes its own. */
static void try_ranges(struct module *m, const struct fn *f, struct update_loops *w)
{
    uint32_t at = 0;
    int64_t run = run_of(m, f, w);
    bool far = largest(m, f, type_elements(m, w->x_type)) >= lower_large(FAR);
    for (uint32_t i = 1; i < w->s.n; i++)
        if (largest(m, f, w->x.dims[w->s.dims[i]]) > largest(m, f, w->x.dims[w->s.dims[at]])) at = i;
    int64_t pieces = HOP_MIN(run / RUN_OF_RANGE, LOWER_BLOCKS);
    pieces = HOP_MIN(pieces, largest(m, f, w->x.dims[w->s.dims[at]]));
    if (run < (far ? FAR_RUN : NEAR_RUN) || pieces < 2 || (w->cut && pieces <= w->pieces)) return;
    w->cut = CUT_RANGE;
    w->cut_at = at;
    w->pieces = pieces;
    w->least = 1;
}

/* Chooses by shape. Every place gets its updates in the same order as on one thread. */
static void choose_cut(struct lower *L, const struct fn *f, const struct node *n, struct update_loops *w,
                       bool ranges)
{
    struct module *m = lower_module(L);
    w->enough = lower_large(run_of(m, f, w) < WIDE ? PARALLEL_SINGLE : PARALLEL_WIDE);
    if (largest(m, f, type_elements(m, w->u_type)) < w->enough || !lower_may_thread(L)) return;
    for (uint32_t d = 0; d < w->s.first; d++) try_dim(m, f, w, d);
    for (uint32_t i = 0; i < w->s.n; i++) {
        uint32_t d = counted_dim(f, n, w, i);
        if (d != HOP_NONE) try_dim(m, f, w, d);
    }
    for (uint32_t d = w->head; d < w->u.rank && (!w->cut || w->pieces < ENOUGH_PIECES); d++)
        try_dim(m, f, w, d);
    if (ranges && (!w->cut || w->pieces < ENOUGH_PIECES)) try_ranges(m, f, w);
}

static lpv divided_up(struct lp *p, lpv a, int64_t b)
{
    return lp_bin(p, LP_FLOORDIV, lp_bin(p, LP_ADD, a, lp_index(p, b - 1)), lp_index(p, b));
}

/* Opens the loop over pieces. Fewer updates than thought are one piece. */
static void pieces_begin(struct lower *L, struct update_loops *w)
{
    struct lp *p = lower_lp(L);
    bool columns = w->cut == CUT_DIM && w->cut_at + 1 == w->u.rank && w->cut_at >= w->head;
    int64_t unit = columns ? 16 : 1;
    lpv total = lower_dim(L, w->cut == CUT_DIM ? w->u.dims[w->cut_at] : w->x.dims[w->s.dims[w->cut_at]]);
    lpv updates = lower_dim(L, type_elements(lower_module(L), w->u_type));
    lpv few = lp_bin(p, LP_LT, updates, lp_index(p, w->enough));
    lpv size = lp_bin(p, LP_MUL, divided_up(p, total, unit * w->pieces), lp_index(p, unit));
    size = lp_bin(p, LP_MAX, size, lp_index(p, w->least));
    size = lp_select(p, few, lp_bin(p, LP_MAX, total, lp_index(p, 1)), size);
    struct blocks b = lower_pieces(L, total, size);
    lower_block_begin(L, &b, &w->lo, &w->hi);
}

static lpv update_loop(struct lower *L, const struct update_loops *w, uint32_t d, uint8_t mode)
{
    struct lp *p = lower_lp(L);
    bool cut = w->cut == CUT_DIM && w->cut_at == d;
    return lp_for_begin(p, cut ? w->lo : lp_index(p, 0), cut ? w->hi : lower_dim(L, w->u.dims[d]),
                        lp_index(p, 1), mode);
}

/* ranges: what is dropped needs nothing done. Nothing is written yet. */
static struct update_loops updates_of(struct lower *L, const struct fn *f, const struct node *n,
                                      const struct attr *dims, uint32_t values, bool ranges)
{
    struct module *m = lower_module(L);
    uint32_t n_index = index_count(n->n_operands, values);
    struct update_loops w = { .x = operand_type(m, f, n, 0),
                              .u = operand_type(m, f, n, 1 + n_index),
                              .rank = operand_type(m, f, n, 1).rank,
                              .name = node_row(n)->name };
    w.x_type = value_type(f, operand(f, n, 0));
    w.u_type = value_type(f, operand(f, n, 1 + n_index));
    w.s = indexed_dims(dims, n_index, w.x.rank);
    w.head = w.s.first + w.rank;
    choose_cut(L, f, n, &w, ranges);
    return w;
}

/* The loops, inside of a piece where they are cut. */
static void updates_open(struct lower *L, const struct fn *f, const struct node *n, struct update_loops *w)
{
    struct lp *p = lower_lp(L);
    lpv zero = lp_index(p, 0), inside = LPV_NONE;
    for (uint32_t i = 0; i < w->head; i++) w->from[i] = update_loop(L, w, i, FOR_SERIAL);
    for (uint32_t i = 0; i < w->s.n; i++) {
        lpv at = lower_index(p, lower_elem(L, operand(f, n, 1 + i), w->from + w->s.first));
        bool cut = w->cut == CUT_RANGE && w->cut_at == i;
        lpv limit = cut ? w->hi : lower_dim(L, w->x.dims[w->s.dims[i]]);
        lpv here = lp_bin(p, LP_AND, lp_bin(p, LP_GE, at, cut ? w->lo : zero), lp_bin(p, LP_LT, at, limit));
        inside = inside == LPV_NONE ? here : lp_bin(p, LP_AND, inside, here);
        w->index[i] = at;
    }
    lp_if_begin(p, inside);
}

static struct update_loops updates_begin(struct lower *L, const struct fn *f, const struct node *n,
                                         const struct attr *dims, uint32_t values, bool ranges)
{
    struct update_loops w = updates_of(L, f, n, dims, values, ranges);
    if (w.cut) pieces_begin(L, &w);
    updates_open(L, f, n, &w);
    return w;
}

/* Opens the loops over the rest and gives the position in x. Side by side where the last of them is x's last
 * dim. */
static lpv rest_begin(struct lower *L, struct update_loops *w)
{
    lpv at[MAX_RANK];
    for (uint32_t i = w->head; i < w->u.rank; i++) {
        bool side_by_side = i + 1u == w->u.rank && w->s.n_inner;
        w->from[i] = update_loop(L, w, i, side_by_side ? FOR_VECTOR : FOR_SERIAL);
    }
    for (uint32_t i = 0; i < w->s.n; i++) at[w->s.dims[i]] = w->index[i];
    for (uint32_t i = 0; i < w->s.n_rest; i++) at[w->s.rest[i]] = w->from[i < w->s.first ? i : i + w->rank];
    return lower_flatten(L, w->x_type, at);
}
static void rest_end(struct lower *L, const struct update_loops *w)
{
    for (uint32_t i = w->head; i < w->u.rank; i++) lp_for_end(lower_lp(L));
}
static void updates_end(struct lower *L, const struct update_loops *w)
{
    struct lp *p = lower_lp(L);
    lp_if_end(p);
    for (uint32_t i = 0; i < w->head; i++) lp_for_end(p);
    if (!w->cut) return;
    const char *how = w->cut == CUT_DIM ? "pieces of a dim" : "ranges of what is written";
    if (w->adds_up) how = "blocks of updates";
    lp_for_end(p)->note = arena_printf(&p->arena, "%s, in %s", w->name, how);
}

/* ---- scatter ---- */

static void infer_scatter(struct infer *in)
{
    infer_updates(in, &in->attrs[SCATTER_DIMS], 1);
    uint32_t mode = mode_of(&in->attrs[SCATTER_MODE]);
    if (mode != SCATTER_SET && !scalar_c_defined(combine[mode], (enum dtype)infer_type(in, 0).dtype))
        infer_error(in, "operand 0: expected numbers to combine with, found %s",
                    infer_text(in, in->operands[0]));
    infer_result(in, in->operands[0]);
}

static void eval_scatter(struct eval *e)
{
    const struct tensor *x = e->operands[0], *r = e->results[0];
    uint32_t mode = mode_of(node_attr(e->f, e->n, SCATTER_MODE));
    size_t width = tensor_width(x);
    const uint8_t both[2] = { x->dtype, x->dtype };
    if (r->count) memcpy(r->data, x->data, (size_t)r->count * width);
    for (struct walk w = walk_begin(e, node_attr(e->f, e->n, SCATTER_DIMS), 1); walk_next(&w);) {
        if (w.to < 0) continue;
        char *to = (char *)r->data + w.to * (int64_t)width;
        const char *from = (const char *)w.u->data + w.from * (int64_t)width;
        if (mode != SCATTER_SET)
            scalar_c_apply(combine[mode], w.run, (enum dtype)x->dtype, to, 2, both,
                           (const void *const[]){ to, from });
        else memcpy(to, from, (size_t)w.run * width);
    }
}

/* Derivative rules have the same parts: the indexed dims, indices and updates of a node. */
struct parts {
    struct builder *b;
    struct indexed s;
    const val *indices;
    val x, u;
};
static struct parts parts_of(struct builder *b, const struct attr *dims, const val *operands,
                             uint32_t n_operands, uint32_t values)
{
    uint32_t n = index_count(n_operands, values);
    return (struct parts){ .b = b,
                           .s = indexed_dims(dims, n, emit_type(b, operands[0]).rank),
                           .indices = operands + 1,
                           .x = operands[0],
                           .u = operands[1 + n] };
}

/* v at the places of the updates where `kept` (bool over S) holds, else 0. */
static val gather_kept(const struct parts *p, val v, val kept)
{
    val taken = emit_gather(p->b, v, &p->s, p->indices);
    val r = emit_select(p->b, spread_over(p->b, &p->s, kept, taken), taken, emit_full_like(p->b, taken, 0));
    return emit_as(p->b, r, builder_type(p->b, p->u));
}

/* bool over S: which updates are the last at their place. Each writes its number there, and sees whether it
 * is still there. */
static val last_writers(const struct parts *p)
{
    struct builder *b = p->b;
    struct type x = emit_type(b, p->x), s = emit_type(b, p->indices[0]);
    val inside = indices_in_range(b, &p->s, p->x, p->indices), number = VAL_NONE;
    if (!s.rank) return inside;
    for (uint32_t d = 0; d < s.rank; d++) {
        val at = emit_iota(b, s.rank, s.dims, d);
        if (number == VAL_NONE) {
            number = at;
            continue;
        }
        val size = emit_dim_full(b, s.dims[d], s.rank, s.dims);
        number = emit2(b, OP_add, emit2(b, OP_mul, number, size), at);
    }
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < p->s.n; i++) dims[i] = x.dims[p->s.dims[i]];
    struct indexed places = indexed_dims(&A_NONE, p->s.n, p->s.n);
    val nobody = emit_full(b, DT_I64, -1, p->s.n, dims);
    val written = emit_scatter(b, nobody, &places, p->indices, number, SCATTER_SET);
    return emit2(b, OP_and, inside, emit2(b, OP_eq, emit_gather(b, written, &places, p->indices), number));
}

static val same_number(struct builder *b, val x, val y)
{
    return emit2(b, OP_or, emit2(b, OP_eq, x, y),
                 emit2(b, OP_and, emit2(b, OP_ne, x, x), emit2(b, OP_ne, y, y)));
}

/* Which elements of x and which updates equal the result at their place, and how many there are: these share
 * the derivative evenly. */
static void extreme_winners(const struct parts *p, val r, val *wins_x, val *wins_u, val *count)
{
    struct builder *b = p->b;
    enum dtype t = (enum dtype)emit_type(b, p->x).dtype;
    val inside = indices_in_range(b, &p->s, p->x, p->indices);
    *wins_x = same_number(b, p->x, r);
    *wins_u = same_number(b, p->u, emit_as(b, emit_gather(b, r, &p->s, p->indices), builder_type(b, p->u)));
    *wins_u = emit2(b, OP_and, *wins_u, spread_over(b, &p->s, inside, p->u));
    *count = emit_scatter(b, emit_cast(b, *wins_x, t), &p->s, p->indices, emit_cast(b, *wins_u, t),
                          SCATTER_ADD);
}

/* r = a·r + b at each place, one update after the other: the last r (result 0) and r before each update
 * (result 1). */
static val emit_affine(const struct parts *p, val x, const val *indices, val a, val c)
{
    val operands[MAX_RANK + 3] = { x };
    struct attr dims = A_INTS(p->s.dims, p->s.n);
    memcpy(operands + 1, indices, p->s.n * sizeof *indices);
    operands[1 + p->s.n] = a;
    operands[2 + p->s.n] = c;
    return emit(p->b, OP_scatter_affine, operands, p->s.n + 3, &dims);
}

/* Updates (or, with skip 0, indices) from the last to the first. */
static val reversed(struct builder *b, val v, uint32_t rank, uint32_t skip)
{
    uint32_t dims[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) dims[i] = skip + i;
    struct attr a = A_INTS(dims, rank);
    return rank ? emit(b, OP_reverse, &v, 1, &a) : v;
}

/* The adjoint of r = a·r + b: s = a·s + c from the last update to the first, begun with the cotangent of r;
 * c: cotangents of what was before. Gives s at the end, and s before each update, which is the cotangent of b
 * there. */
static val affine_adjoint(const struct parts *p, val a, val ct, val c, val *each)
{
    struct builder *b = p->b;
    uint32_t rank = emit_type(b, p->indices[0]).rank;
    val indices[MAX_RANK];
    for (uint32_t i = 0; i < p->s.n; i++) indices[i] = reversed(b, p->indices[i], rank, 0);
    val s = emit_affine(p, ct, indices, reversed(b, a, rank, p->s.first),
                        c == VAL_NONE ? emit_full_like(b, a, 0) : reversed(b, c, rank, p->s.first));
    *each = reversed(b, s + 1, rank, p->s.first);
    return s;
}

static void vjp_scatter(struct vjp *v)
{
    struct builder *b = v->b;
    uint32_t mode = mode_of(&v->attrs[SCATTER_MODE]), last = v->n->n_operands - 1;
    struct parts p = parts_of(b, &v->attrs[SCATTER_DIMS], v->operands, v->n->n_operands, 1);
    val ct = v->ct[0];
    if (mode == SCATTER_MUL) {
        /* The factors before an update and those after it, each multiplied up: no division, so zeros are no
         * exception. */
        val zeros = emit_full_like(b, p.u, 0), each;
        val s = affine_adjoint(&p, p.u, ct, VAL_NONE, &each);
        if (v->active[0]) v->out[0] = s;
        if (v->active[last])
            v->out[last] = emit2(b, OP_mul, each, emit_affine(&p, p.x, p.indices, p.u, zeros) + 1);
    } else if (mode == SCATTER_MIN || mode == SCATTER_MAX) {
        val wins_x, wins_u, count;
        extreme_winners(&p, v->results[0], &wins_x, &wins_u, &count);
        val share = emit2(b, OP_div, ct, emit2(b, OP_max, count, emit_full_like(b, count, 1)));
        if (v->active[0]) v->out[0] = emit_select(b, wins_x, share, emit_full_like(b, share, 0));
        if (v->active[last]) {
            val zeros = emit_full_like(b, p.u, 0);
            val taken = emit_as(b, emit_gather(b, share, &p.s, p.indices), builder_type(b, p.u));
            v->out[last] = emit_select(b, wins_u, taken, zeros);
        }
    } else {
        bool set = mode == SCATTER_SET;
        if (v->active[last]) { /* read first: then the cotangent can be changed where it lies */
            val kept = set ? last_writers(&p) : indices_in_range(b, &p.s, p.x, p.indices);
            v->out[last] = gather_kept(&p, ct, kept);
        }
        if (v->active[0] && set)
            v->out[0] = emit_scatter(b, ct, &p.s, p.indices, emit_full_like(b, p.u, 0), SCATTER_SET);
        else if (v->active[0]) v->out[0] = ct;
    }
}

static void jvp_scatter(struct jvp *j)
{
    struct builder *b = j->b;
    uint32_t mode = mode_of(&j->attrs[SCATTER_MODE]), last = j->n->n_operands - 1;
    struct parts p = parts_of(b, &j->attrs[SCATTER_DIMS], j->operands, j->n->n_operands, 1);
    val tx = j->tangents[0], tu = j->tangents[last];
    if (tx == VAL_NONE && tu == VAL_NONE) return;
    if (tu == VAL_NONE && mode == SCATTER_ADD) {
        j->out[0] = tx;
        return;
    }
    if (tx == VAL_NONE) tx = emit_full_like(b, p.x, 0);
    if (tu == VAL_NONE) tu = emit_full_like(b, p.u, 0);
    if (mode == SCATTER_ADD || mode == SCATTER_SET) {
        j->out[0] = emit_scatter(b, tx, &p.s, p.indices, tu, mode);
    } else if (mode == SCATTER_MUL) {
        val before = emit_affine(&p, p.x, p.indices, p.u, emit_full_like(b, p.u, 0)) + 1;
        j->out[0] = emit_affine(&p, tx, p.indices, p.u, emit2(b, OP_mul, tu, before));
    } else {
        val wins_x, wins_u, count;
        extreme_winners(&p, j->results[0], &wins_x, &wins_u, &count);
        tx = emit_select(b, wins_x, tx, emit_full_like(b, tx, 0));
        tu = emit_select(b, wins_u, tu, emit_full_like(b, tu, 0));
        j->out[0] = emit2(b, OP_div, emit_scatter(b, tx, &p.s, p.indices, tu, SCATTER_ADD),
                          emit2(b, OP_max, count, emit_full_like(b, count, 1)));
    }
}

static void batch_scatter(struct batch *v)
{
    if (batch_none(v)) return;
    uint32_t rank = emit_type(v->b, v->operands[0]).rank - v->batched[0];
    struct indexed s = indexed_dims(&v->attrs[SCATTER_DIMS], index_count(v->n->n_operands, 1), rank);
    val operands[MAX_RANK + 3];
    uint32_t dims[MAX_RANK + 1], n;
    bool lanes = batch_updates(v, &s, 1, operands, dims, &n);
    struct attr a[2] = { A_INTS(dims, s.n + lanes), v->attrs[SCATTER_MODE] };
    v->results[0] = emit(v->b, OP_scatter, operands, n, a);
}

/* ---- histograms ---- */

/* Many updates that are added up in few places: blocks of them add up in memory of their own, which is then
 * added in the order of the blocks. Blocks are cut by sizes alone. Integers are exact in any order; of floats
 * strict numbers say the order, and narrow ones are rounded at every step. */
enum {
    BINS_MOST = 16384,  /* that stay in a cache … */
    BINS_ALWAYS = 1024, /* … and that cost nothing to speak of where updates may be few */
    HISTOGRAM_LEAST = 131072,
    UPDATES_OF_BIN = 8 /* at least, in each block */
};

static bool is_histogram(struct lower *L, const struct fn *f, const struct update_loops *w, uint32_t mode)
{
    struct module *m = lower_module(L);
    enum dtype t = (enum dtype)w->x.dtype;
    bool exact = dtype_is_integer(t), plain = t == DT_F32 || t == DT_F64;
    dim bins = type_elements(m, w->x_type), updates = type_elements(m, w->u_type);
    if (mode != SCATTER_ADD || w->cut || w->s.first || !w->rank || !lower_may_thread(L)) return false;
    if (!exact && (!plain || lower_lp(L)->regime.strict)) return false;
    if (!dim_is_const(m, bins) || dim_const_value(m, bins) > BINS_MOST) return false;
    if (!dim_is_const(m, updates) && dim_const_value(m, bins) > BINS_ALWAYS) return false;
    int64_t least = HOP_MAX(lower_large(HISTOGRAM_LEAST), UPDATES_OF_BIN * dim_const_value(m, bins));
    return largest(m, f, updates) >= least;
}

/* The blocks, along the longest dim of the indices. */
static struct blocks histogram_blocks(struct lower *L, const struct fn *f, struct update_loops *w)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    int64_t bins = dim_const_value(m, type_elements(m, w->x_type));
    w->cut = CUT_DIM;
    w->adds_up = true;
    for (uint32_t d = 1; d < w->head; d++)
        if (largest(m, f, w->u.dims[d]) > largest(m, f, w->u.dims[w->cut_at])) w->cut_at = d;
    lpv others = lp_index(p, 1), one = lp_index(p, 1);
    for (uint32_t d = 0; d < w->u.rank; d++)
        if (d != w->cut_at) others = lp_bin(p, LP_MUL, others, lower_dim(L, w->u.dims[d]));
    lpv total = lower_dim(L, w->u.dims[w->cut_at]);
    lpv least = lp_index(p, HOP_MAX(UPDATES_OF_BIN * bins, lower_large(HISTOGRAM_LEAST) / 8));
    least = lp_bin(p, LP_FLOORDIV, least, lp_bin(p, LP_MAX, others, one));
    lpv share = divided_up(p, total, LOWER_BLOCKS);
    return lower_pieces(L, total, lp_bin(p, LP_MAX, lp_bin(p, LP_MAX, least, share), one));
}

/* Adds up what the blocks have, place by place. */
static void add_blocks(struct lower *L, struct array to, struct array parts, lpv count, lpv bins,
                       enum dtype t)
{
    struct lp *p = lower_lp(L);
    lpv zero = lp_index(p, 0), one = lp_index(p, 1);
    uint32_t sum = lp_local(p, t, LOCAL_SCALAR, "sum");
    lpv bin = lp_for_begin(p, zero, bins, one, FOR_VECTOR);
    lpv place = lp_bin(p, LP_ADD, to.at, bin);
    lp_set(p, sum, lp_load(p, to.buffer, place));
    lpv block = lp_for_begin(p, zero, count, one, FOR_SERIAL);
    lpv part = lp_load(p, parts.buffer, lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, block, bins), bin));
    lp_set(p, sum, scalar_lp(p, OP_add, (lpv[]){ lp_read(p, sum), part }));
    lp_for_end(p);
    lp_store(p, to.buffer, place, lp_read(p, sum));
    lp_for_end(p);
}

static void histogram(struct lower *L, const struct fn *f, const struct node *n, struct update_loops *w,
                      struct array to)
{
    struct lp *p = lower_lp(L);
    dim elements = type_elements(lower_module(L), w->x_type);
    enum dtype t = (enum dtype)w->x.dtype;
    lpv bins = lower_dim(L, elements), zero = lp_index(p, 0);
    lpv nothing = dtype_is_float(t) ? lp_real(p, t, -0.0) : lp_const_bits(p, t, 0);
    struct array parts = lower_block_memory(L, t, elements, "what each block of updates adds up to");
    struct blocks b = histogram_blocks(L, f, w);
    lpv base = lp_bin(p, LP_MUL, lower_block_begin(L, &b, &w->lo, &w->hi), bins);
    lpv bin = lp_for_begin(p, zero, bins, lp_index(p, 1), FOR_VECTOR);
    lp_store(p, parts.buffer, lp_bin(p, LP_ADD, base, bin), nothing);
    lp_for_end(p);
    updates_open(L, f, n, w);
    lpv place = lp_bin(p, LP_ADD, base, rest_begin(L, w));
    lpv u = lower_elem(L, operand(f, n, n->n_operands - 1), w->from);
    lp_store(p, parts.buffer, place, scalar_lp(p, OP_add, (lpv[]){ lp_load(p, parts.buffer, place), u }));
    rest_end(L, w);
    updates_end(L, w);
    add_blocks(L, to, parts, b.count, bins, t);
}

static bool scatter_adds_onto(struct builder *b, const struct node *n, val base, val *out)
{
    uint32_t count = n->n_operands;
    struct attr attrs[2] = { *built_attr(b, n, SCATTER_DIMS), *built_attr(b, n, SCATTER_MODE) };
    if (mode_of(&attrs[SCATTER_MODE]) != SCATTER_ADD) return false;
    if (base == VAL_NONE) return true;
    val operands[MAX_RANK + 2] = { base };
    for (uint32_t k = 1; k < count; k++) operands[k] = built_operand(b, n, k);
    *out = emit(b, OP_scatter, operands, count, attrs);
    return true;
}

static void block_scatter(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    uint32_t mode = mode_of(node_attr(f, n, SCATTER_MODE));
    val updates = operand(f, n, n->n_operands - 1);
    struct array to = begin_result(L, f, n);
    struct update_loops w = updates_of(L, f, n, node_attr(f, n, SCATTER_DIMS), 1, true);
    if (is_histogram(L, f, &w, mode)) {
        histogram(L, f, n, &w, to);
        return;
    }
    w = updates_begin(L, f, n, node_attr(f, n, SCATTER_DIMS), 1, true);
    lpv place = lp_bin(p, LP_ADD, to.at, rest_begin(L, &w));
    lpv u = lower_elem(L, updates, w.from);
    if (mode != SCATTER_SET) u = scalar_lp(p, combine[mode], (lpv[]){ lp_load(p, to.buffer, place), u });
    lp_store(p, to.buffer, place, u);
    rest_end(L, &w);
    updates_end(L, &w);
}

/* Indices are looked at again for every dim before them; updates once. */
static uint8_t use_scatter(const struct fn *f, const struct node *n, uint32_t i)
{
    HOP_UNUSED(f);
    return i && i + 1 < n->n_operands ? USE_MANY : USE_ONCE;
}

static const char *const scatter_modes[] = {
    [SCATTER_ADD] = "add", [SCATTER_SET] = "set", [SCATTER_MUL] = "mul",
    [SCATTER_MIN] = "min", [SCATTER_MAX] = "max", NULL
};
static const struct attr_spec scatter_attrs[] = { [SCATTER_DIMS] = { "dims", ATTR_INTS, false, NULL },
                                                  [SCATTER_MODE] = { "mode", ATTR_WORD, false,
                                                                     scatter_modes } };
static const struct op_lower lower_scatter = { .kind = LOWER_BLOCK,
                                               .access = ACCESS_GATHER,
                                               .cost = COST_EXPENSIVE,
                                               .block = block_scatter,
                                               .changes = changes_first,
                                               .operand_use = use_scatter };
#define SCATTER_SAMPLES(mode) \
    { "hop 1\nfn @sample(%x: f32[4], %i: i64[6], %u: f32[6]) -> (f32[4]) {\n  %y = scatter {mode = " mode \
      "} (%x, %i, %u)\n  return %y\n}\n", \
      "i = -1..5" }, \
        { "hop 1\nfn @sample[T](%x: f64[2, 3, 2], %i: i32[T, 2], %u: f64[2, T, 2, 2]) -> (f64[2, 3, 2]) {\n" \
          "  %y = scatter {dims = [1], mode = " mode "} (%x, %i, %u)\n  return %y\n}\n", \
          NULL }, \
        { "hop 1\nfn @sample[T](%x: f64[3, T, 2], %i: i64[T, 2], %j: i64[T, 2], %u: f64[T, 2, T]) -> " \
          "(f64[3, T, 2]) {\n" \
          "  %y = scatter {dims = [2, 0], mode = " mode "} (%x, %i, %j, %u)\n  return %y\n}\n", \
          "i = -1..3, j = 0..4" }, \
        { "hop 1\nfn @sample[T](%x: f32[T, 2], %i: i64[], %u: f32[2]) -> (f32[T, 2]) {\n  %y = scatter " \
          "{mode = " mode "} (%x, %i, %u)\n  return %y\n}\n", \
          NULL }, \
    { \
        "hop 1\nfn @sample(%x: i64[3], %i: i64[4], %u: i64[4]) -> (i64[3]) {\n  %y = scatter {mode = " mode \
        "} (%x, %i, %u)\n  return %y\n}\n", \
            NULL \
    }
static const struct op_sample scatter_samples[] = {
    SCATTER_SAMPLES("add"),
    SCATTER_SAMPLES("set"),
    SCATTER_SAMPLES("mul"),
    SCATTER_SAMPLES("min"),
    SCATTER_SAMPLES("max"),
    { "hop 1\nfn @sample(%x: u32[3, 2], %i: i32[0], %u: u32[3, 0]) -> (u32[3, 2]) {\n  %y = scatter {dims = "
      "[1]} (%x, %i, %u)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f16[3, 2], %i: i32[4], %u: f16[4, 2]) -> (f16[3, 2]) {\n  %y = scatter(%x, %i, "
      "%u)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i8[3], %i: i32[4], %u: i8[4]) -> (i8[3]) {\n  %y = scatter {mode = mul} (%x, "
      "%i, %u)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: bool[3, 2], %i: i32[3], %j: i32[3], %u: bool[3]) -> (bool[3, 2]) {\n  %y = "
      "scatter {mode = set} (%x, %i, %j, %u)\n  return %y\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f32[0, 2], %i: i64[3], %u: f32[3, 2]) -> (f32[0, 2]) {\n  %y = scatter {mode = "
      "max} (%x, %i, %u)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_scatter = {
    .name = "scatter",
    .meaning = "x with updates added to (or set, multiplied to, kept if smaller or larger) at given indices "
               "along the dims listed (absent: the first ones), one after "
               "the other in row-major order; indices out of range are dropped",
    .sig = { 3, MANY, ROW_ATTRS(scatter_attrs) },
    .infer = infer_scatter,
    .eval = eval_scatter,
    .vjp = vjp_scatter,
    .jvp = jvp_scatter,
    .batch = batch_scatter,
    .lower = &lower_scatter,
    .adds_onto = scatter_adds_onto,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(scatter_samples),
};

/* ---- scatter_affine ---- */

static void infer_affine(struct infer *in)
{
    if (in->n_operands < 4)
        infer_error(in, "expected x, indices, factors and terms, found %u operands", in->n_operands);
    infer_updates(in, &in->attrs[SCATTER_DIMS], 2);
    if (!scalar_c_defined(OP_mul, (enum dtype)infer_type(in, 0).dtype))
        infer_error(in, "operand 0: expected numbers, found %s", infer_text(in, in->operands[0]));
    infer_result(in, in->operands[0]);
    infer_result(in, in->operands[in->n_operands - 1]);
}

static void eval_affine(struct eval *e)
{
    const struct tensor *x = e->operands[0];
    const struct tensor *r = e->results[0];
    const struct tensor *before = e->results[1];
    const struct tensor *term = e->operands[e->n->n_operands - 1];
    size_t width = tensor_width(x);
    const uint8_t both[2] = { x->dtype, x->dtype };
    if (r->count) memcpy(r->data, x->data, (size_t)r->count * width);
    if (before->count) memset(before->data, 0, (size_t)before->count * width);
    for (struct walk w = walk_begin(e, node_attr(e->f, e->n, SCATTER_DIMS), 2); walk_next(&w);) {
        int64_t from = w.from * (int64_t)width;
        if (w.to < 0) continue;
        char *to = (char *)r->data + w.to * (int64_t)width;
        memcpy((char *)before->data + from, to, (size_t)w.run * width);
        scalar_c_apply(OP_mul, w.run, (enum dtype)x->dtype, to, 2, both,
                       (const void *const[]){ to, (const char *)w.u->data + from });
        scalar_c_apply(OP_add, w.run, (enum dtype)x->dtype, to, 2, both,
                       (const void *const[]){ to, (const char *)term->data + from });
    }
}

static void vjp_affine(struct vjp *v)
{
    struct builder *b = v->b;
    uint32_t n = v->n->n_operands;
    struct parts p = parts_of(b, &v->attrs[SCATTER_DIMS], v->operands, n, 2);
    val each;
    val s = affine_adjoint(&p, p.u, v->ct[0] != VAL_NONE ? v->ct[0] : emit_full_like(b, p.x, 0), v->ct[1],
                           &each);
    if (v->active[0]) v->out[0] = s;
    if (v->active[n - 2])
        v->out[n - 2] = emit_as(b, emit2(b, OP_mul, each, v->results[1]), builder_type(b, p.u));
    if (v->active[n - 1]) v->out[n - 1] = emit_as(b, each, builder_type(b, v->operands[n - 1]));
}

static void jvp_affine(struct jvp *j)
{
    struct builder *b = j->b;
    uint32_t n = j->n->n_operands;
    struct parts p = parts_of(b, &j->attrs[SCATTER_DIMS], j->operands, n, 2);
    val tx = j->tangents[0], ta = j->tangents[n - 2], term = j->tangents[n - 1];
    if (tx == VAL_NONE && ta == VAL_NONE && term == VAL_NONE) return;
    if (tx == VAL_NONE) tx = emit_full_like(b, p.x, 0);
    if (ta != VAL_NONE) {
        val moved = emit2(b, OP_mul, ta, j->results[1]);
        term = term == VAL_NONE ? moved : emit2(b, OP_add, moved, term);
    }
    if (term == VAL_NONE) term = emit_full_like(b, p.u, 0);
    j->out[0] = emit_affine(&p, tx, p.indices, p.u, term);
    j->out[1] = j->out[0] + 1;
}

static void batch_affine(struct batch *v)
{
    if (batch_none(v)) return;
    struct builder *b = v->b;
    uint32_t rank = emit_type(b, v->operands[0]).rank - v->batched[0];
    struct indexed s = indexed_dims(&v->attrs[SCATTER_DIMS], index_count(v->n->n_operands, 2), rank);
    val operands[MAX_RANK + 4];
    uint32_t dims[MAX_RANK + 1], n;
    bool lanes = batch_updates(v, &s, 2, operands, dims, &n);
    struct attr a = A_INTS(dims, s.n + lanes);
    val r = emit(b, OP_scatter_affine, operands, n, &a);
    v->results[0] = r;
    v->results[1] = lanes ? unsort_updates(b, &s, r + 1, emit_type(b, operands[1]).rank - 1u) : r + 1;
}

static void block_affine(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    val factors = operand(f, n, n->n_operands - 2), terms = operand(f, n, n->n_operands - 1);
    struct array to = begin_result(L, f, n), before = { HOP_NONE, LPV_NONE };
    bool kept = lower_result_used(L, n, 1);
    /* One update of one element: it is kept at hand. */
    bool scalar = !type_get(lower_module(L), value_type(f, n->results + 1)).rank;
    enum dtype t = (enum dtype)operand_type(lower_module(L), f, n, 0).dtype;
    uint32_t local = scalar ? lp_local(p, t, LOCAL_SCALAR, "before") : HOP_NONE;
    lpv zero = lp_const_bits(p, t, 0);
    if (kept && !scalar) before = lower_result(L, n, 1);
    if (scalar) lp_set(p, local, zero);
    struct update_loops w = updates_begin(L, f, n, node_attr(f, n, SCATTER_DIMS), 2, false);
    lpv place = lp_bin(p, LP_ADD, to.at, rest_begin(L, &w)), old = lp_load(p, to.buffer, place);
    if (kept && !scalar)
        lp_store(p, before.buffer, lp_bin(p, LP_ADD, before.at, lower_flatten(L, w.u_type, w.from)), old);
    if (scalar) lp_set(p, local, old);
    lpv product = scalar_lp(p, OP_mul, (lpv[]){ old, lower_elem(L, factors, w.from) });
    lp_store(p, to.buffer, place, scalar_lp(p, OP_add, (lpv[]){ product, lower_elem(L, terms, w.from) }));
    rest_end(L, &w);
    if (kept && !scalar) {
        lp_if_else(p);
        rest_begin(L, &w);
        lp_store(p, before.buffer, lp_bin(p, LP_ADD, before.at, lower_flatten(L, w.u_type, w.from)), zero);
        rest_end(L, &w);
    }
    updates_end(L, &w);
    if (scalar) lower_set_scalar(L, n, 1, lp_read(p, local));
}

static uint8_t use_affine(const struct fn *f, const struct node *n, uint32_t i)
{
    HOP_UNUSED(f);
    return i && i + 2 < n->n_operands ? USE_MANY : USE_ONCE;
}

static const struct attr_spec affine_attrs[] = { [SCATTER_DIMS] = { "dims", ATTR_INTS, false, NULL } };
static const struct op_lower lower_affine = { .kind = LOWER_BLOCK,
                                              .access = ACCESS_GATHER,
                                              .cost = COST_EXPENSIVE,
                                              .block = block_affine,
                                              .changes = changes_first,
                                              .operand_use = use_affine };
static const struct op_sample affine_samples[] = {
    { "hop 1\nfn @sample(%x: f32[4], %i: i64[6], %a: f32[6], %b: f32[6]) -> (f32[4], f32[6]) {\n  %y, %z = "
      "scatter_affine(%x, %i, %a, %b)\n  return %y, %z\n}\n",
      "i = -1..5" },
    { "hop 1\nfn @sample[T](%x: f64[2, 3, 2], %i: i32[T], %a: f64[2, T, 2], %b: f64[2, T, 2]) -> (f64[2, 3, "
      "2], f64[2, T, 2]) {\n"
      "  %y, %z = scatter_affine {dims = [1]} (%x, %i, %a, %b)\n  return %y, %z\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[3, 2, 2], %i: i64[2, 2], %j: i64[2, 2], %a: f64[2, 2, 2], %b: f64[2, 2, 2]) "
      "-> (f64[3, 2, 2], f64[2, 2, 2]) {\n"
      "  %y, %z = scatter_affine {dims = [2, 0]} (%x, %i, %j, %a, %b)\n  return %y, %z\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[2], %i: i64[], %a: f64[], %b: f64[]) -> (f64[2], f64[]) {\n  %y, %z = "
      "scatter_affine(%x, %i, %a, %b)\n  return %y, %z\n}\n",
      NULL },
    { "hop 1\nfn @sample(%x: i32[3], %i: i64[5], %a: i32[5], %b: i32[5]) -> (i32[3]) {\n  %y, %z = "
      "scatter_affine(%x, %i, %a, %b)\n  return %y\n}\n",
      NULL },
};
const struct op_row row_scatter_affine = {
    .name = "scatter_affine",
    .meaning = "r = a·r + b at given indices, begun with x, one update after the other in row-major order: "
               "the last r, and r before each update (0 for those dropped)",
    .sig = { 4, MANY, ROW_ATTRS(affine_attrs) },
    .infer = infer_affine,
    .eval = eval_affine,
    .vjp = vjp_affine,
    .jvp = jvp_affine,
    .batch = batch_affine,
    .lower = &lower_affine,
    .autocast = AUTOCAST_KEEP,
    ROW_SAMPLES(affine_samples),
};
