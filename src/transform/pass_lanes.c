/* Loops over lanes that end at different trips. A batched while_loop goes on as long as any lane does, and
 * every trip computes all lanes. Where no lane needs anything of another it becomes a map over blocks of
 * lanes, each of which has a loop of its own that ends with the last lane of the block: what a lane gives is
 * the same bit for bit, blocks run on threads, and the carries of one stay in registers.
 *
 * The number of lanes is a symbol of the loop's step and predicate, as batching makes them; a block binds it
 * to another number. That lanes are separate is found node by node: each index along the lanes of a result
 * must be made of the same index of its operands (node_sliced), and a lane that has stopped must keep what it
 * has. What such lanes are given to compute with is another's, and thrown away: the choice between both
 * counts as the lane's own. */
#include "loop/lower.h"
#include "transform/masks.h"

/* Sizes of blocks. A few vectors, so that operations of one hide the latency of another's; more lanes would
 * only wait for each other longer. Whole vectors, so that none is filled badly. */
struct sizes {
    int64_t lanes, round;
};
static const struct sizes normal = { 128, 16 };
static const struct sizes small = { 3, 1 }; /* for tests */

/* A loop whose lanes are separate. */
struct lanes {
    struct loop l;            /* in terms of the function */
    uint32_t symbol, in_cond; /* the number of lanes, of the step and of the predicate */
    const uint8_t *with;      /* per `with`: FROM_LANE, FROM_SHARED */
    int64_t count, block;     /* lanes: of all, of a block */
};

struct body {
    struct module *m;
    const struct fn *g;
    uint32_t symbol; /* the number of lanes */
    val alive;       /* which lanes go on */
    uint8_t *of;     /* per value: an enum made_from */
    const struct reading *read;
    uint32_t *along;
};
enum made_from {
    FROM_SHARED, /* what all lanes share */
    FROM_LANE,   /* it has lanes, each made of the same lane of everything */
    FROM_OTHERS  /* anything else */
};

static void mention(void *ctx, uint32_t symbol)
{
    bool *found = ctx; /* the symbol it is about stands at its own number */
    found[symbol] = true;
}

/* Does dim d mention symbol s, of so many? */
static bool mentions(struct arena *a, const struct module *m, dim d, uint32_t s, uint32_t n)
{
    bool *found = ARENA_ZNEW(a, bool, n + 1);
    struct symbol_walk walk = { mention, found };
    dim_symbols(m, d, &walk);
    return found[s];
}

/* What a value of this type can be at best: lanes are its first dim, and no other says anything of them. */
static enum made_from from_type(struct arena *a, const struct body *w, type_id type)
{
    struct type t = type_get(w->m, type);
    bool first = t.rank && t.dims[0] == dim_symbol(w->m, w->symbol);
    for (uint32_t i = first; i < t.rank; i++)
        if (mentions(a, w->m, t.dims[i], w->symbol, w->g->n_symbols)) return FROM_OTHERS;
    return first ? FROM_LANE : FROM_SHARED;
}

/* Do attributes speak of the number of lanes but for the sizes of the result? */
static bool counts_lanes(struct arena *a, const struct body *w, const struct node *n)
{
    uint32_t s = w->symbol;
    const struct op_row *row = node_row(n);
    for (uint32_t k = 0; k < row->sig.n_attrs; k++) {
        const struct attr *attr = node_attr(w->g, n, k);
        bool sizes = k + 1 == row->sizes_attr;
        if (attr->kind == ATTR_DIM && mentions(a, w->m, (dim)attr->i, s, w->g->n_symbols)) return true;
        for (uint32_t i = sizes; attr->kind == ATTR_DIMS && i < attr->n; i++)
            if (mentions(a, w->m, attr->list[i], s, w->g->n_symbols)) return true;
    }
    return false;
}

/* Whatever operand k is, does it reach only lanes whose results nobody reads? */
static bool is_thrown_away(const struct body *w, const struct node *n, uint32_t k)
{
    return node_row(n)->chooses && k == 2 && mask_of(w->m, w->g, node_operands(w->g, n)[0]) == w->alive &&
           mask_holds(&w->read[n->results], (struct fact){ w->alive, true });
}

static enum made_from from_node(struct arena *a, const struct body *w, const struct node *n)
{
    const val *x = node_operands(w->g, n);
    if (n->n_results != 1 || n->n_regions || counts_lanes(a, w, n)) return FROM_OTHERS;
    enum made_from made = from_type(a, w, value_type(w->g, n->results));
    bool lanes = made == FROM_LANE;
    if (lanes && !node_sliced(w->m, w->g, n, 0, w->along)) return FROM_OTHERS;
    for (uint32_t k = 0; k < n->n_operands && made != FROM_OTHERS; k++) {
        bool along = lanes && w->along[k] == 0, all = !lanes || w->along[k] == HOP_NONE;
        bool fits = w->of[x[k]] == FROM_LANE ? along : w->of[x[k]] == FROM_SHARED && all;
        if (!fits && !(lanes && is_thrown_away(w, n, k))) made = FROM_OTHERS;
    }
    return made;
}

static uint32_t symbol_of(struct module *m, const struct fn *g, dim d)
{
    for (uint32_t s = 0; s < g->n_outer_symbols; s++)
        if (dim_symbol(m, s) == d) return s;
    return HOP_NONE;
}

/* The carry that says which lanes go on, if the predicate is whether any does; HOP_NONE: it is not. */
static uint32_t watched_carry(const struct module *m, const struct loop *l)
{
    const struct fn *g = l->cond;
    if (g->n_nodes != 1 || l->n_cond_with || g->results[0] != fn_node(g, 0)->results) return HOP_NONE;
    const struct op_lower *lower = node_row(fn_node(g, 0))->lower;
    if (!lower || lower->kind != LOWER_REDUCE || lower->fold != FOLD_OR) return HOP_NONE;
    val alive = node_operands(g, fn_node(g, 0))[0];
    return type_get(m, value_type(g, alive)).rank == 1 ? alive : HOP_NONE;
}

/* Does a lane that has stopped keep what it has in carry k, that it has stopped among it? Without that it
 * would go on changing as long as any lane runs. */
static bool keeps(const struct body *w, uint32_t k)
{
    val next = w->g->results[k];
    if (next == k) return true;
    if (w->g->values[next].node == NODE_NONE) return false;
    const struct node *n = fn_node(w->g, w->g->values[next].node);
    const val *x = node_operands(w->g, n);
    if (k == w->alive && node_row(n)->logic == LOGIC_AND) return x[0] == k || x[1] == k;
    return node_row(n)->chooses && x[2] == k && mask_of(w->m, w->g, x[0]) == w->alive;
}

static bool step_separates(struct arena *a, struct module *m, struct lanes *w, val alive)
{
    const struct fn *g = w->l.body;
    struct body b = { m, g, w->symbol, alive, ARENA_ZNEW(a, uint8_t, g->n_values + 1) };
    uint32_t operands = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) operands = HOP_MAX(operands, fn_node(g, i)->n_operands);
    b.along = ARENA_NEW(a, uint32_t, operands + 1);
    b.read = masks_of_readings(a, m, g);
    for (uint32_t p = 0; p < g->n_params; p++) {
        enum made_from made = from_type(a, &b, value_type(g, p));
        if (made == FROM_OTHERS || (p < w->l.n_carry && made == FROM_SHARED)) return false;
        b.of[p] = (uint8_t)made;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        enum made_from made = from_node(a, &b, n);
        if (!node_is_pure(m, g, n)) return false;
        for (uint32_t k = 0; k < n->n_results; k++) b.of[n->results + k] = (uint8_t)made;
    }
    for (uint32_t k = 0; k < g->n_results; k++)
        if (b.of[g->results[k]] != FROM_LANE || !keeps(&b, k)) return false;
    w->with = b.of + loop_first_with(&w->l);
    return true;
}

static bool allows(const struct fn *g, uint32_t symbol, int64_t number)
{
    return g->symbols[symbol].lo <= number && g->symbols[symbol].hi >= number;
}

static int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static bool find_lanes(struct arena *a, struct module *m, const struct fn *f, const struct node *n,
                       const struct sizes *sizes, struct lanes *w)
{
    if (!loop_of_node(m, f, n, &w->l) || w->l.kind != LOOP_WHILE) return false;
    if (w->l.n_stack || w->l.counts || w->l.body->effects || w->l.cond->effects) return false;
    uint32_t alive = watched_carry(m, &w->l);
    if (alive == HOP_NONE || w->l.body->n_symbols != w->l.body->n_outer_symbols) return false;
    w->in_cond = symbol_of(m, w->l.cond, type_get(m, value_type(w->l.cond, alive)).dims[0]);
    w->symbol = symbol_of(m, w->l.body, type_get(m, value_type(w->l.body, alive)).dims[0]);
    if (w->symbol == HOP_NONE || w->in_cond == HOP_NONE) return false;
    dim count = w->l.dims[w->symbol];
    if (!dim_is_const(m, count) || dim_const_value(m, count) < 2 * sizes->lanes) return false;
    w->count = dim_const_value(m, count);
    w->block = divided_up(divided_up(w->count, w->count / sizes->lanes), sizes->round) * sizes->round;
    if (!allows(w->l.body, w->symbol, w->block) || !allows(w->l.cond, w->in_cond, w->block)) return false;
    return step_separates(a, m, w, alive);
}

/* ---- building ---- */

static val resized(struct builder *b, val v, uint32_t n_first, const dim *first, uint32_t from)
{
    struct type t = emit_type(b, v);
    dim dims[MAX_RANK + 1];
    uint32_t rank = n_first;
    memcpy(dims, first, n_first * sizeof *dims);
    for (uint32_t i = from; i < t.rank; i++) dims[rank++] = t.dims[i];
    return emit_reshape(b, v, rank, dims);
}

/* The lanes of v in blocks, [blocks, lanes of a block, …]; lanes that are missing do not go on. */
static val in_blocks(struct builder *b, val v, dim blocks, const struct lanes *w)
{
    struct type t = emit_type(b, v);
    dim block = dim_const(b->m, w->block), all = dim_mul(b->m, blocks, block);
    dim missing = dim_sub(b->m, all, dim_const(b->m, w->count));
    dim none[MAX_RANK] = { 0 }, high[MAX_RANK] = { missing };
    struct attr pads[3] = { A_DIMS(none, t.rank), A_DIMS(high, t.rank), A_NONE };
    val zero = emit_full(b, (enum dtype)t.dtype, 0, 0, NULL);
    if (missing != 0) v = emit(b, OP_pad, (val[]){ v, zero }, 2, pads);
    return resized(b, v, 2, (dim[]){ blocks, block }, 1);
}

static val out_of_blocks(struct builder *b, val v, dim blocks, const struct lanes *w)
{
    dim all = dim_mul(b->m, blocks, dim_const(b->m, w->block)), count = dim_const(b->m, w->count);
    v = resized(b, v, 1, &all, 2);
    struct type t = emit_type(b, v);
    dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    if (all == count) return v;
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    limit[0] = count;
    return emit_slice(b, v, start, limit);
}

/* The loop of one block: (carries, what has lanes, what all blocks share) -> last carries. */
static uint32_t block_function(struct module *m, const struct fn *f, const struct lanes *w)
{
    struct builder b;
    struct loop l = w->l;
    dim block = dim_const(m, w->block);
    builder_begin(&b, m, f);
    b.label = 0;
    val *carry = ARENA_NEW(&b.arena, val, l.n_carry + 1), *with = ARENA_NEW(&b.arena, val, l.n_with + 1);
    dim *dims = ARENA_NEW(&b.arena, dim, l.body->n_outer_symbols + 1);
    dim *cond_dims = ARENA_NEW(&b.arena, dim, l.cond->n_outer_symbols + 1);
    for (uint32_t s = 0; s < l.body->n_outer_symbols; s++) dims[s] = s == w->symbol ? block : l.dims[s];
    for (uint32_t s = 0; s < l.cond->n_outer_symbols; s++)
        cond_dims[s] = s == w->in_cond ? block : l.cond_dims[s];
    for (uint32_t k = 0; k < l.n_carry; k++)
        carry[k] = builder_param(&b, type_substitute(m, value_type(l.body, k), dims), 0);
    for (uint32_t shared = 0; shared < 2; shared++)
        for (uint32_t k = 0; k < l.n_with; k++) {
            type_id t = value_type(l.body, loop_first_with(&l) + k);
            if (w->with[k] == (shared ? FROM_SHARED : FROM_LANE))
                with[k] = builder_param(&b, type_substitute(m, t, dims), 0);
        }
    l.n = NULL;
    l.carry = carry;
    l.with = with;
    l.dims = dims;
    l.cond_dims = cond_dims;
    val last = loop_build(&b, &l).last;
    val *results = ARENA_NEW(&b.arena, val, l.n_carry + 1);
    for (uint32_t k = 0; k < l.n_carry; k++) results[k] = last + k;
    return builder_finish(&b, results, l.n_carry);
}

static bool block_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct module *m = s->m;
    struct builder *b = c->b;
    struct lanes w;
    if (!find_lanes(ctx, m, c->f, n, s->few_lanes ? &small : &normal, &w)) return false;
    dim blocks = dim_const(m, divided_up(w.count, w.block));
    uint32_t n_with = 0;
    struct loop map = loop_new(LOOP_MAP);
    val *over = ARENA_NEW(&b->arena, val, w.l.n_carry + w.l.n_with + 1);
    val *with = ARENA_NEW(&b->arena, val, w.l.n_with + 1);
    dim *dims = ARENA_NEW(&b->arena, dim, c->f->n_outer_symbols + 1u);
    for (uint32_t k = 0; k < w.l.n_carry; k++)
        over[map.n_over++] = in_blocks(b, c->values[w.l.carry[k]], blocks, &w);
    for (uint32_t k = 0; k < w.l.n_with; k++) {
        val v = c->values[w.l.with[k]];
        if (w.with[k] == FROM_LANE) over[map.n_over++] = in_blocks(b, v, blocks, &w);
        else with[n_with++] = v;
    }
    for (uint32_t k = 0; k < c->f->n_outer_symbols; k++) dims[k] = c->symbols[k];
    map.place = w.l.place;
    map.over = over;
    map.apart = true;
    map.length = blocks;
    loop_set_body(&map, m, (struct region_in){ block_function(m, c->f, &w), with, n_with, dims });
    val made = loop_build(b, &map).stacks;
    for (uint32_t k = 0; k < w.l.n_carry; k++) results[k] = out_of_blocks(b, made + k, blocks, &w);
    return true;
}

static bool wants_while(const struct node *n) { return node_loop_kind(n) == LOOP_WHILE; }

uint32_t pass_lanes(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) any |= wants_while(fn_node(f, i));
    if (s->o->differentiable || !any || f->n_symbols > f->n_outer_symbols) return fn;
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    uint32_t out = rewrite_nodes(s, fn, wants_while, block_rule, &scratch);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    return out;
}
