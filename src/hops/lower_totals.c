/* How associative_scan is compiled: a native loop along the scanned dim, in the order of the reference. Along
 * the leading dim small running totals live in registers, others are the row before in the results' own
 * memory. Along another dim slices are gathered into small arrays. Large ones whose combine function works
 * element by element run on threads: wide slices in pieces, each in the same order; narrow ones, with default
 * numbers, in blocks of rows, cut by their number alone. */
#include "hops/associative.h"
#include "hops/lower_hops.h"
#include "ops/build.h"
#include "ops/scalar_lp.h"

struct leaf {
    type_id type, slice;
    bool needed;         /* its running total is read by somebody: outside, or by another total */
    bool scalar;         /* a slice is one element */
    uint32_t local;      /* scalar: the running total */
    struct array result; /* all rows */
    bool held; /* the running total has memory of its own: small ones, and all not along the leading dim */
    struct array total;
    struct array right; /* not along the leading dim: the slice */
};

enum { SMALL_TOTAL = 128 /* elements up to which a running total is kept in registers */ };

struct totals {
    struct lower *L;
    const struct fn *f;
    const struct node *n;
    uint32_t n_leaves, along;
    struct leaf *leaves;
};

/* Totals that combine itself reads for the sake of others are needed too. */
static void find_needed(struct totals *w)
{
    const struct fn *g = module_fn(lower_module(w->L), node_region(w->f, w->n, 0)->fn);
    bool *live = ARENA_NEW(&lower_lp(w->L)->arena, bool, g->n_values);
    for (uint32_t k = 0; k < w->n_leaves; k++) w->leaves[k].needed = lower_result_used(w->L, w->n, k);
    for (bool grown = true; grown;) {
        grown = false;
        memset(live, 0, g->n_values * sizeof *live);
        for (uint32_t k = 0; k < w->n_leaves; k++) live[g->results[k]] |= w->leaves[k].needed;
        for (uint32_t i = g->n_nodes; i-- > 0;) {
            const struct node *n = fn_node(g, i);
            bool any = node_effects(lower_module(w->L), g, n);
            for (uint32_t k = 0; k < n->n_results; k++) any |= live[n->results + k];
            for (uint32_t k = 0; any && k < n->n_operands; k++) live[node_operands(g, n)[k]] = true;
        }
        for (uint32_t k = 0; k < w->n_leaves; k++) {
            if (!live[k] || w->leaves[k].needed) continue;
            w->leaves[k].needed = true;
            grown = true;
        }
    }
}

/* Where row t of the results begins; only along the leading dim. */
static struct array row_of(const struct totals *w, const struct leaf *leaf, lpv t)
{
    return (struct array){ leaf->result.buffer, lower_offset(w->L, leaf->result, t, leaf->slice) };
}

/* Loops over a slice: idx is an element of the whole array in row t, flat its position within a slice. */
static void each_begin(const struct totals *w, const struct leaf *leaf, lpv t, lpv *idx, lpv *flat)
{
    lpv inner[MAX_RANK];
    lower_each_begin(w->L, leaf->slice, true, inner);
    *flat = lower_flatten(w->L, leaf->slice, inner);
    uint32_t rank = type_get(lower_module(w->L), leaf->type).rank;
    for (uint32_t d = 0; d < w->along; d++) idx[d] = inner[d];
    idx[w->along] = t;
    for (uint32_t d = w->along + 1; d < rank; d++) idx[d] = inner[d - 1];
}

static lpv position(const struct totals *w, const struct leaf *leaf, const lpv *idx)
{
    return lp_bin(lower_lp(w->L), LP_ADD, leaf->result.at, lower_flatten(w->L, leaf->type, idx));
}

/* Row t of the array into `to` (a slice). */
static void gather(const struct totals *w, const struct leaf *leaf, val x, lpv t, struct array to)
{
    struct lp *p = lower_lp(w->L);
    lpv idx[MAX_RANK], flat;
    if (!w->along) {
        flat = lp_for_begin(p, lp_index(p, 0),
                            lower_dim(w->L, type_elements(lower_module(w->L), leaf->slice)), lp_index(p, 1),
                            FOR_VECTOR);
        idx[0] = t;
        lower_unflatten(w->L, leaf->slice, flat, idx + 1);
        lp_store(p, to.buffer, lp_bin(p, LP_ADD, to.at, flat), lower_elem(w->L, x, idx));
        lp_for_end(p);
        return;
    }
    each_begin(w, leaf, t, idx, &flat);
    lp_store(p, to.buffer, lp_bin(p, LP_ADD, to.at, flat), lower_elem(w->L, x, idx));
    lower_each_end(w->L, leaf->slice);
}

/* The running total into row t of the results. */
static void put_total(const struct totals *w, const struct leaf *leaf, lpv t)
{
    struct lp *p = lower_lp(w->L);
    lpv idx[MAX_RANK], flat;
    if (!w->along) { /* one loop over all elements, so that registers are stored as they are */
        struct array row = row_of(w, leaf, t);
        lpv i = lp_for_begin(p, lp_index(p, 0),
                             lower_dim(w->L, type_elements(lower_module(w->L), leaf->slice)), lp_index(p, 1),
                             FOR_VECTOR);
        lp_store(p, row.buffer, lp_bin(p, LP_ADD, row.at, i),
                 lp_load(p, leaf->total.buffer, lp_bin(p, LP_ADD, leaf->total.at, i)));
        lp_for_end(p);
        return;
    }
    each_begin(w, leaf, t, idx, &flat);
    lp_store(p, leaf->result.buffer, position(w, leaf, idx),
             lp_load(p, leaf->total.buffer, lp_bin(p, LP_ADD, leaf->total.at, flat)));
    lower_each_end(w->L, leaf->slice);
}

static void begin_leaf(struct totals *w, uint32_t k)
{
    struct lp *p = lower_lp(w->L);
    struct leaf *leaf = &w->leaves[k];
    leaf->type = value_type(w->f, w->n->results + k);
    leaf->slice = type_drop_dim(lower_module(w->L), leaf->type, w->along);
    struct type t = type_get(lower_module(w->L), leaf->slice);
    leaf->scalar = !t.rank;
    if (leaf->scalar) leaf->local = lp_local(p, (enum dtype)t.dtype, LOCAL_SCALAR, "total");
    if (leaf->scalar) lp_set(p, leaf->local, lp_const_bits(p, (enum dtype)t.dtype, 0));
    if (leaf->needed) leaf->result = lower_result(w->L, w->n, k);
    if (leaf->scalar) return;
    dim count = type_elements(lower_module(w->L), leaf->slice);
    leaf->held = leaf->needed && (w->along || (dim_is_const(lower_module(w->L), count) &&
                                               dim_const_value(lower_module(w->L), count) <= SMALL_TOTAL));
    if (w->along)
        leaf->right = lower_alloc(w->L, leaf->slice, "a slice along a dim that is not the leading one");
    if (leaf->held) leaf->total = lower_alloc(w->L, leaf->slice, "a running total");
}

/* The first row is passed through. */
static void first_row(struct totals *w, uint32_t k, lpv t)
{
    struct lp *p = lower_lp(w->L);
    struct leaf *leaf = &w->leaves[k];
    val x = node_operands(w->f, w->n)[k];
    if (!leaf->needed) return;
    if (leaf->scalar) {
        lpv v = lower_elem(w->L, x, &t);
        lp_set(p, leaf->local, v);
        lp_store(p, leaf->result.buffer, position(w, leaf, &t), v);
    } else if (leaf->held) {
        gather(w, leaf, x, t, leaf->total);
        put_total(w, leaf, t);
    } else gather(w, leaf, x, t, row_of(w, leaf, t));
}

static void combine_rows(struct totals *w, lpv before, lpv t)
{
    struct lp *p = lower_lp(w->L);
    const struct region *region = node_region(w->f, w->n, 0);
    uint32_t n = w->n_leaves;
    struct feed *feeds = ARENA_ZNEW(&p->arena, struct feed, 2 * n + region->n_operands);
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, n);
    for (uint32_t k = 0; k < n; k++) {
        struct leaf *leaf = &w->leaves[k];
        val x = node_operands(w->f, w->n)[k];
        bool gathered = w->along && !leaf->scalar;
        if (gathered) gather(w, leaf, x, t, leaf->right);
        feeds[n + k] = gathered ? (struct feed){ .kind = FEED_ARRAY, .array = leaf->right }
                                : (struct feed){ .kind = FEED_VALUE, .value = x, .lead = t };
        if (!leaf->needed) {
            feeds[k] = feeds[n + k]; /* never read */
        } else if (leaf->scalar) {
            feeds[k] = (struct feed){ .kind = FEED_SCALAR, .scalar = lp_read(p, leaf->local) };
        } else {
            struct array left = leaf->held ? leaf->total : row_of(w, leaf, before);
            feeds[k] = (struct feed){ .kind = FEED_ARRAY, .array = left };
        }
        sinks[k] = (struct sink){ .scalar = leaf->scalar,
                                  .unused = !leaf->needed,
                                  .overwrites = leaf->held ? k : HOP_NONE,
                                  .instead = { HOP_NONE, LPV_NONE } };
        if (!leaf->scalar && leaf->needed) sinks[k].array = leaf->held ? leaf->total : row_of(w, leaf, t);
    }
    const val *own = node_region_operands(w->f, w->n, 0);
    for (uint32_t i = 0; i < region->n_operands; i++)
        feeds[2 * n + i] = (struct feed){ .kind = FEED_VALUE, .value = own[i], .lead = LPV_NONE };
    lower_body(w->L, w->f, w->n, 0, feeds, sinks);
    for (uint32_t k = 0; k < n; k++) {
        struct leaf *leaf = &w->leaves[k];
        if (!leaf->needed) continue;
        if (leaf->scalar) {
            lp_set(p, leaf->local, sinks[k].value);
            lp_store(p, leaf->result.buffer, position(w, leaf, &t), sinks[k].value);
        } else if (leaf->held) {
            if (sinks[k].moved)
                lower_copy(w->L, leaf->slice, sinks[k].instead, leaf->total,
                           "a running total whose old value is still read while the new one is made");
            put_total(w, leaf, t);
        }
    }
}

/* ---- on threads ---- */

enum {
    PARALLEL_ELEMENTS = 65536, /* of one array, below which threads do not pay */
    BLOCK_ELEMENTS = 1 << 22,  /* and blocks of rows do not: they read and combine everything twice */
    WIDE_SLICE = 129,          /* elements of a slice that is cut */
    LEAST_LANES = 128,         /* elements of a slice that one piece has */
    LEAST_ROWS = 512           /* of one block of rows */
};

/* Elements lo to hi of the slices, and where their running totals are: buffer HOP_NONE: in the results. */
struct lanes {
    struct totals *w;
    lpv lo, hi, last; /* last row, for scans from the end */
    bool reverse;
    struct array *running;
};

static lpv row_at(const struct lanes *s, lpv step)
{
    return s->reverse ? lp_bin(lower_lp(s->w->L), LP_SUB, s->last, step) : step;
}

static lpv lane_load(const struct lanes *s, struct array a, lpv i)
{
    struct lp *p = lower_lp(s->w->L);
    return lp_load(p, a.buffer, lp_bin(p, LP_ADD, a.at, i));
}
static void lane_store(const struct lanes *s, struct array a, lpv i, lpv v)
{
    struct lp *p = lower_lp(s->w->L);
    lp_store(p, a.buffer, lp_bin(p, LP_ADD, a.at, i), v);
}

/* The combine function of one element: values of its parameters in, of all others out. */
static void combine_lane(const struct totals *w, const lpv *inner, lpv *values)
{
    struct lp *p = lower_lp(w->L);
    const struct region *r = node_region(w->f, w->n, 0);
    const struct fn *g = module_fn(lower_module(w->L), r->fn);
    const val *own = node_region_operands(w->f, w->n, 0);
    for (uint32_t k = 0; k < r->n_operands; k++)
        values[2 * w->n_leaves + k] = lower_elem(w->L, own[k], inner);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        enum dtype t = (enum dtype)type_get(lower_module(w->L), value_type(g, n->results)).dtype;
        lpv operands[3] = { LPV_NONE, LPV_NONE, LPV_NONE }, *v = &values[n->results];
        for (uint32_t k = 0; k < n->n_operands && k < 3; k++) operands[k] = values[node_operands(g, n)[k]];
        if (n->op == OP_full) *v = node_row(n)->lower->elem(w->L, g, n, 0, inner);
        else if (n->op == OP_broadcast) *v = operands[0];
        else if (n->op == OP_cast) *v = lp_cast(p, t, operands[0]);
        else *v = scalar_lp(p, (enum op)n->op, operands);
    }
}

/* The total of leaf k before a step, idx being the element. */
static lpv total_before(const struct lanes *s, uint32_t k, const struct array *left, lpv step, lpv *idx,
                        lpv i)
{
    struct lp *p = lower_lp(s->w->L);
    if (left[k].buffer != HOP_NONE) return lane_load(s, left[k], i);
    lpv row = idx[0];
    idx[0] = row_at(s, lp_bin(p, LP_SUB, step, lp_index(p, 1)));
    lpv at = position(s->w, &s->w->leaves[k], idx);
    idx[0] = row;
    return lp_load(p, s->w->leaves[k].result.buffer, at);
}

/* Step number `step`: what was before is `left` (NULL: nothing), the new totals are the running ones; stored,
 * too, if they are wanted. */
static void lanes_step(const struct lanes *s, lpv step, const struct array *left, bool stored)
{
    const struct totals *w = s->w;
    struct lp *p = lower_lp(w->L);
    const struct fn *g = module_fn(lower_module(w->L), node_region(w->f, w->n, 0)->fn);
    lpv *values = ARENA_NEW(&p->arena, lpv, g->n_values), idx[MAX_RANK];
    idx[0] = row_at(s, step);
    lpv i = lp_for_begin(p, s->lo, s->hi, lp_index(p, 1), FOR_VECTOR);
    lower_unflatten(w->L, w->leaves[0].slice, i, idx + 1);
    for (uint32_t k = 0; k < w->n_leaves; k++) {
        values[w->n_leaves + k] = lower_elem(w->L, node_operands(w->f, w->n)[k], idx);
        bool read = left && w->leaves[k].needed;
        values[k] = read ? total_before(s, k, left, step, idx, i) : values[w->n_leaves + k];
    }
    if (left) combine_lane(w, idx + 1, values);
    for (uint32_t k = 0; k < w->n_leaves; k++) {
        if (!w->leaves[k].needed) continue;
        lpv total = left ? values[g->results[k]] : values[w->n_leaves + k];
        if (s->running[k].buffer != HOP_NONE) lane_store(s, s->running[k], i, total);
        if (stored && lower_result_used(w->L, w->n, k))
            lp_store(p, w->leaves[k].result.buffer, position(w, &w->leaves[k], idx), total);
    }
    lp_for_end(p);
}

static void lanes_steps(const struct lanes *s, lpv lo, lpv hi, bool stored)
{
    struct lp *p = lower_lp(s->w->L);
    lpv t = lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_SERIAL);
    lanes_step(s, t, s->running, stored);
    struct lp_stmt *loop = lp_for_end(p);
    loop->note = lower_loop_note(s->w->L, s->w->f, s->w->n, 0);
}

/* Wide slices: every piece of them goes through all rows. */
static void totals_in_pieces(struct lanes *s, lpv length)
{
    struct totals *w = s->w;
    struct lp *p = lower_lp(w->L);
    lpv zero = lp_index(p, 0), first = lp_bin(p, LP_MIN, lp_index(p, 1), length);
    for (uint32_t k = 0; k < w->n_leaves; k++)
        s->running[k] = w->leaves[k].needed && !lower_result_used(w->L, w->n, k)
                            ? lower_alloc(w->L, w->leaves[k].slice, "a running total")
                            : (struct array){ HOP_NONE, LPV_NONE };
    lpv row = lower_dim(w->L, type_elements(lower_module(w->L), w->leaves[0].slice));
    struct blocks b = lower_blocks(w->L, row, LEAST_LANES);
    lower_block_begin(w->L, &b, &s->lo, &s->hi);
    lanes_step(s, lp_for_begin(p, zero, first, lp_index(p, 1), FOR_SERIAL), NULL, true);
    lp_for_end(p);
    lanes_steps(s, first, length, true);
    lp_for_end(p);
}

/* The totals of block b become those of all blocks up to it. */
static void totals_of_blocks(const struct lanes *s, const struct array *totals, lpv count)
{
    const struct totals *w = s->w;
    struct lp *p = lower_lp(w->L);
    const struct fn *g = module_fn(lower_module(w->L), node_region(w->f, w->n, 0)->fn);
    lpv *values = ARENA_NEW(&p->arena, lpv, g->n_values), inner[MAX_RANK];
    lpv b = lp_for_begin(p, lp_index(p, 1), count, lp_index(p, 1), FOR_SERIAL);
    lpv here = lp_bin(p, LP_MUL, b, s->hi), before = lp_bin(p, LP_SUB, here, s->hi);
    lpv i = lp_for_begin(p, s->lo, s->hi, lp_index(p, 1), FOR_VECTOR);
    lower_unflatten(w->L, w->leaves[0].slice, i, inner);
    for (uint32_t k = 0; k < w->n_leaves; k++) {
        values[w->n_leaves + k] = lane_load(s, totals[k], lp_bin(p, LP_ADD, here, i));
        values[k] = lane_load(s, totals[k], lp_bin(p, LP_ADD, before, i));
    }
    combine_lane(w, inner, values);
    for (uint32_t k = 0; k < w->n_leaves; k++)
        lane_store(s, totals[k], lp_bin(p, LP_ADD, here, i), values[g->results[k]]);
    lp_for_end(p);
    lp_for_end(p);
}

static void fresh_totals(struct lanes *s)
{
    struct totals *w = s->w;
    for (uint32_t k = 0; k < w->n_leaves; k++)
        s->running[k] = lower_alloc(w->L, w->leaves[k].slice, "a running total");
}

/* Narrow slices: blocks of rows give their totals, these are put together, and every block begins with what
 * is before it. */
static void totals_in_blocks(struct lanes *s, lpv length)
{
    struct totals *w = s->w;
    struct lp *p = lower_lp(w->L);
    dim elements = type_elements(lower_module(w->L), w->leaves[0].slice);
    lpv one = lp_index(p, 1), lo, hi;
    struct array *totals = ARENA_NEW(&p->arena, struct array, w->n_leaves);
    struct array *before = ARENA_NEW(&p->arena, struct array, w->n_leaves);
    struct blocks b = lower_blocks(w->L, length, LEAST_ROWS);
    for (uint32_t k = 0; k < w->n_leaves; k++) {
        w->leaves[k].needed = true;
        enum dtype t = (enum dtype)type_get(lower_module(w->L), w->leaves[k].slice).dtype;
        totals[k] = lower_block_memory(w->L, t, elements, "totals of blocks of rows");
    }
    s->hi = lower_dim(w->L, elements);
    lpv block = lower_block_begin(w->L, &b, &lo, &hi);
    fresh_totals(s);
    lanes_step(s, lo, NULL, false);
    lanes_steps(s, lp_bin(p, LP_ADD, lo, one), hi, false);
    lpv i = lp_for_begin(p, s->lo, s->hi, one, FOR_VECTOR);
    lpv at = lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, block, s->hi), i);
    for (uint32_t k = 0; k < w->n_leaves; k++) lane_store(s, totals[k], at, lane_load(s, s->running[k], i));
    lp_for_end(p);
    lp_for_end(p);
    totals_of_blocks(s, totals, b.count);
    block = lower_block_begin(w->L, &b, &lo, &hi);
    fresh_totals(s);
    lpv first = lp_bin(p, LP_EQ, block, lp_index(p, 0));
    lpv earlier = lp_bin(p, LP_MUL, lp_bin(p, LP_MAX, lp_bin(p, LP_SUB, block, one), lp_index(p, 0)), s->hi);
    for (uint32_t k = 0; k < w->n_leaves; k++)
        before[k] = (struct array){ totals[k].buffer, lp_bin(p, LP_ADD, totals[k].at, earlier) };
    lp_if_begin(p, first);
    lanes_step(s, lo, NULL, true);
    lp_if_else(p);
    lanes_step(s, lo, before, true);
    lp_if_end(p);
    lanes_steps(s, lp_bin(p, LP_ADD, lo, one), hi, true);
    lp_for_end(p);
}

static bool totals_on_threads(struct totals *w, lpv length, bool reverse)
{
    struct lower *L = w->L;
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    const struct fn *g = module_fn(m, node_region(w->f, w->n, 0)->fn);
    type_id slice = type_drop_dim(m, value_type(w->f, w->n->results), w->along);
    dim elements = type_elements(m, slice);
    int64_t least, most;
    dim_range(m, w->f->symbols, type_elements(m, value_type(w->f, w->n->results)), &least, &most);
    bool large = most >= PARALLEL_ELEMENTS && type_get(m, slice).rank && lower_may_thread(L);
    if (w->along || !large || !combines_pointwise(m, g, w->n_leaves)) return false;
    bool narrow = dim_is_const(m, elements) && dim_const_value(m, elements) < WIDE_SLICE;
    bool held = dim_is_const(m, elements) && dim_const_value(m, elements) <= SMALL_TOTAL;
    if (narrow && (p->regime.strict || !held || p->level || least < lower_large(BLOCK_ELEMENTS)))
        return false;
    struct lanes s = { .w = w,
                       .lo = lp_index(p, 0),
                       .last = lp_bin(p, LP_SUB, length, lp_index(p, 1)),
                       .reverse = reverse,
                       .running = ARENA_ZNEW(&p->arena, struct array, w->n_leaves) };
    for (uint32_t k = 0; k < w->n_leaves; k++) {
        struct leaf *leaf = &w->leaves[k];
        leaf->type = value_type(w->f, w->n->results + k);
        leaf->slice = type_drop_dim(m, leaf->type, w->along);
        if (lower_result_used(L, w->n, k)) leaf->result = lower_result(L, w->n, k);
    }
    if (narrow) totals_in_blocks(&s, length);
    else totals_in_pieces(&s, length);
    return true;
}

static void associative_block(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    const struct attr *along = node_attr(f, n, ASSOCIATIVE_DIM);
    struct totals w = { L,
                        f,
                        n,
                        node_group_size(f, n, 0),
                        along->kind == ATTR_INT ? (uint32_t)along->i : 0,
                        ARENA_ZNEW(&p->arena, struct leaf, node_group_size(f, n, 0)) };
    lpv length = lower_dim(L, type_get(lower_module(L), value_type(f, node_operands(f, n)[0])).dims[w.along]);
    lpv zero = lp_index(p, 0);
    lpv one = lp_index(p, 1);
    bool reverse = node_attr(f, n, ASSOCIATIVE_REVERSE)->kind != ATTR_ABSENT;
    lpv last = lp_bin(p, LP_SUB, length, one);
    find_needed(&w);
    if (totals_on_threads(&w, length, reverse)) return;
    for (uint32_t k = 0; k < w.n_leaves; k++) begin_leaf(&w, k);
    lower_loop_enter(L);
    lp_if_begin(p, lp_bin(p, LP_GT, length, zero));
    for (uint32_t k = 0; k < w.n_leaves; k++) first_row(&w, k, reverse ? last : zero);
    lp_if_else(p);
    lp_if_end(p);
    lpv i = lp_for_begin(p, one, length, one, FOR_SERIAL);
    lpv t = reverse ? lp_bin(p, LP_SUB, last, i) : i;
    combine_rows(&w, lp_bin(p, reverse ? LP_ADD : LP_SUB, t, one), t);
    struct lp_stmt *loop = lp_for_end(p);
    loop->poll = true;
    loop->note = lower_loop_note(L, f, n, 0);
    lower_loop_leave(L);
}

static uint8_t associative_use(const struct fn *f, const struct node *n, uint32_t i)
{
    return i < node_group_size(f, n, 0) ? USE_ONCE : USE_MANY;
}

const struct op_lower associative_lower = { .kind = LOWER_BLOCK,
                                            .block = associative_block,
                                            .operand_use = associative_use };
