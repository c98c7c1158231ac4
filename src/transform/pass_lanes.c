/* Loops over lanes that end at different trips. A batched while_loop goes on as long as any lane does, a
 * batched fori_loop up to the largest bound, and every trip computes all lanes. Where no lane needs anything
 * of another it becomes a map over blocks of lanes, each of which has a loop of its own that ends with the
 * last lane of the block: what a lane gives is the same bit for bit, blocks run on threads, and the carries
 * of one stay in registers.
 *
 * The number of lanes is a symbol of the loop's step and predicate, as batching makes them; a block binds it
 * to another number. That lanes are separate is found node by node: each index along the lanes of a result
 * must be made of the same index of its operands (node_sliced), and a lane that has stopped must keep what it
 * has. What such lanes are given to compute with is another's, and thrown away: the choice between both
 * counts as the lane's own. A carry that all lanes share (a counter) is one of each block, whose last value
 * nobody reads. */
#include "ir/text.h"
#include "loop/lower.h"
#include "transform/masks.h"

/* Sizes of blocks. A few vectors, so that operations of one hide the latency of another's; more lanes would
 * only wait for each other longer. Whole vectors, so that none is filled badly. */
struct sizes {
    int64_t lanes, round;
    int64_t few; /* a vector or two */
};
static const struct sizes normal = { 128, 16, 16 };
static const struct sizes small = { 3, 1, 1 }; /* for tests */

enum { WRITTEN_TWICE = 400 }; /* nodes that a step may have so that there are two loops of it */

enum made_from {
    FROM_SHARED, /* what all lanes share */
    FROM_LANE,   /* it has lanes, each made of the same lane of everything */
    FROM_OTHERS  /* anything else */
};

/* A loop over lanes. */
struct lanes {
    struct loop l;            /* in terms of the function */
    uint32_t symbol, in_cond; /* the number of lanes, of the step and of the predicate */
    dim size;                 /* the same, of the function */
    val alive;                /* in the step: which lanes go on */
    uint32_t bounds;          /* a fori_loop: which `with` has the bound of each lane */
    const uint8_t *of;        /* per parameter of the step: FROM_LANE, FROM_SHARED */
    int64_t count, block;     /* lanes: of all, of a block */
    int64_t few;              /* from so many left on they go on alone; 0: never */
    bool ends_early;          /* it goes on while there are more than these */
    const char *why;          /* they stay together; NULL: they need not */
};

struct body {
    struct arena *arena;
    struct module *m;
    const struct fn *g;
    uint32_t symbol; /* the number of lanes */
    val alive;       /* which lanes go on */
    uint8_t *of;     /* per value: an enum made_from */
    const struct reading *read;
    uint32_t *along;
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
static enum made_from from_type(const struct body *w, type_id type)
{
    struct type t = type_get(w->m, type);
    bool first = t.rank && t.dims[0] == dim_symbol(w->m, w->symbol);
    for (uint32_t i = first; i < t.rank; i++)
        if (mentions(w->arena, w->m, t.dims[i], w->symbol, w->g->n_symbols)) return FROM_OTHERS;
    return first ? FROM_LANE : FROM_SHARED;
}

/* Do attributes speak of the number of lanes but for the sizes of the result? */
static bool counts_lanes(const struct body *w, const struct node *n)
{
    struct arena *a = w->arena;
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

static enum made_from from_node(const struct body *w, const struct node *n)
{
    const val *x = node_operands(w->g, n);
    if (n->n_results != 1 || n->n_regions || counts_lanes(w, n)) return FROM_OTHERS;
    enum made_from made = from_type(w, value_type(w->g, n->results));
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

/* ---- which loops go over lanes ---- */

static const struct node *node_of(const struct fn *f, val v)
{
    return f->values[v].node == NODE_NONE ? NULL : fn_node(f, f->values[v].node);
}

/* The array of one dim that v is the whole fold of; VAL_NONE: it is none. */
static val folded(const struct module *m, const struct fn *f, val v, enum lp_fold fold)
{
    const struct node *n = node_of(f, v);
    const struct op_lower *lower = n ? node_row(n)->lower : NULL;
    if (!lower || lower->kind != LOWER_REDUCE || lower->fold != fold || lower->position) return VAL_NONE;
    val lanes = node_operands(f, n)[0];
    return type_get(m, value_type(f, lanes)).rank == 1 ? lanes : VAL_NONE;
}

/* The lanes of which a predicate made by `while_many` asks for more than a few; VAL_NONE: it is none. */
static val counted(const struct module *m, const struct fn *g)
{
    const struct node *n = node_of(g, g->results[0]);
    if (!n || node_row(n)->compares != COMPARE_GT) return VAL_NONE;
    val number = folded(m, g, node_operands(g, n)[0], FOLD_SUM);
    n = number == VAL_NONE ? NULL : node_of(g, number);
    return n && n->op == OP_cast ? node_operands(g, n)[0] : VAL_NONE;
}

/* A while_loop: its predicate is whether any lane goes on, or more than a few, and a carry says which. */
static bool watches_lanes(const struct module *m, struct lanes *w)
{
    const struct fn *g = w->l.cond;
    if (w->l.n_cond_with) return false;
    w->alive = g->n_nodes == 1 ? folded(m, g, g->results[0], FOLD_OR) : counted(m, g);
    w->ends_early = g->n_nodes != 1;
    return w->alive != VAL_NONE && w->alive < w->l.n_carry;
}

/* A fori_loop: it ends with the largest of the lanes' bounds, which the step has as well. */
static bool counts_to_lanes(const struct module *m, const struct fn *f, struct lanes *w)
{
    val bounds = folded(m, f, w->l.to, FOLD_MAX);
    w->alive = VAL_NONE;
    for (uint32_t k = 0; k < w->l.n_with; k++) {
        if (bounds == VAL_NONE || w->l.with[k] != bounds) continue;
        w->bounds = k;
        w->alive = loop_first_with(&w->l) + k; /* as large as what says which go on; see finds_running */
        return true;
    }
    return false;
}

/* In the step of a fori_loop: the lanes whose bounds are not reached. */
static bool finds_running(const struct module *m, struct lanes *w)
{
    const struct fn *g = w->l.body;
    val bounds = w->alive, index = w->l.n_carry;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        const val *x = node_operands(g, n);
        if (node_row(n)->compares != COMPARE_LT || x[1] != bounds || mask_of(m, g, x[0]) != index) continue;
        w->alive = n->results;
        return true;
    }
    return false;
}

/* ---- whether lanes are separate ---- */

static const char *line_of(struct arena *a, const struct node *n)
{
    return n->place.line ? arena_printf(a, " of line %u", n->place.line) : "";
}

/* Does a lane that has stopped keep what it has in carry k, that it has stopped among it? Without that it
 * would go on changing as long as any lane runs. */
static bool keeps(const struct body *w, uint32_t k)
{
    val next = w->g->results[k];
    const struct node *n = node_of(w->g, next);
    if (next == k) return true;
    if (!n) return false;
    const val *x = node_operands(w->g, n);
    if (k == w->alive && node_row(n)->logic == LOGIC_AND) return x[0] == k || x[1] == k;
    return node_row(n)->chooses && x[2] == k && mask_of(w->m, w->g, x[0]) == w->alive;
}

/* Where v stops being made lane by lane. */
static const char *first_other(const struct body *w, val v)
{
    const struct node *n = node_of(w->g, v);
    for (bool further = n; further;) {
        const val *x = node_operands(w->g, n);
        further = false;
        for (uint32_t k = 0; k < n->n_operands && !further; k++) {
            further = w->of[x[k]] == FROM_OTHERS && !is_thrown_away(w, n, k);
            if (further) n = node_of(w->g, x[k]);
        }
    }
    if (!n) return "a carry is made of other lanes";
    const char *name = node_row(n)->name, *line = line_of(w->arena, n);
    if (n->n_regions) return arena_printf(w->arena, "the %s%s is one for all lanes", name, line);
    return arena_printf(w->arena, "the %s%s needs other lanes", name, line);
}

static bool is_read(const struct fn *f, val v)
{
    bool read = false;
    for (uint32_t k = 0; k < f->n_results; k++) read |= f->results[k] == v;
    for (uint32_t i = 0; i < f->n_nodes && !read; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; k < n->n_operands; k++) read |= node_operands(f, n)[k] == v;
    }
    return read;
}

/* Why what carry k becomes is not each lane's own; NULL: it is. */
static const char *why_carry_joins(const struct body *b, const struct fn *f, const struct loop *l, uint32_t k)
{
    val next = b->g->results[k];
    if (b->of[next] == FROM_OTHERS) return first_other(b, next);
    if (b->of[k] == FROM_LANE)
        return keeps(b, k) ? NULL : arena_printf(b->arena, "carry %u changes in lanes that have stopped", k);
    if (!is_read(f, l->n->results + k)) return NULL;
    return arena_printf(b->arena, "carry %u is one for all lanes and read behind the loop", k);
}

/* Why the lanes of a step are not separate; NULL: they are. */
static const char *why_step_joins(struct arena *a, struct module *m, const struct fn *f, struct lanes *w)
{
    const struct fn *g = w->l.body;
    struct body b = { a, m, g, w->symbol, w->alive, ARENA_ZNEW(a, uint8_t, g->n_values + 1) };
    uint32_t operands = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) operands = HOP_MAX(operands, fn_node(g, i)->n_operands);
    b.along = ARENA_NEW(a, uint32_t, operands + 1);
    b.read = masks_of_readings(a, m, g);
    for (uint32_t p = 0; p < g->n_params; p++) {
        b.of[p] = (uint8_t)from_type(&b, value_type(g, p));
        if (b.of[p] == FROM_OTHERS) return "the step is given what belongs to several lanes";
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        enum made_from made = from_node(&b, n);
        if (!node_is_pure(m, g, n))
            return arena_printf(a, "the %s%s has an effect", node_row(n)->name, line_of(a, n));
        for (uint32_t k = 0; k < n->n_results; k++) b.of[n->results + k] = (uint8_t)made;
    }
    const char *why = NULL;
    for (uint32_t k = 0; k < g->n_results && !why; k++) why = why_carry_joins(&b, f, &w->l, k);
    w->of = b.of;
    return why;
}

static bool allows(const struct fn *g, uint32_t symbol, int64_t number)
{
    return !g || (g->symbols[symbol].lo <= number && g->symbols[symbol].hi >= number);
}

static int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* How many lanes there are and what else is the same for every step. */
static const char *why_size_joins(struct module *m, const struct sizes *sizes, struct lanes *w)
{
    if (!dim_is_const(m, w->size)) return "how many is not known";
    w->count = dim_const_value(m, w->size);
    if (w->count < 2 * sizes->lanes) return "too few for two blocks";
    w->block = divided_up(divided_up(w->count, w->count / sizes->lanes), sizes->round) * sizes->round;
    if (!allows(w->l.body, w->symbol, w->block) || !allows(w->l.cond, w->in_cond, w->block))
        return "the step is for other numbers of lanes";
    bool once_more = w->l.kind == LOOP_WHILE && w->l.max_trips == HOP_NONE && w->block > 2 * sizes->few &&
                     w->l.body->n_nodes <= WRITTEN_TWICE;
    if (once_more && allows(w->l.body, w->symbol, sizes->few) && allows(w->l.cond, w->in_cond, sizes->few))
        w->few = sizes->few;
    return NULL;
}

static const char *why_together(struct arena *a, struct module *m, const struct fn *f,
                                const struct sizes *sizes, struct lanes *w)
{
    bool one_number = w->symbol == HOP_NONE || (w->l.cond && w->in_cond == HOP_NONE);
    if (w->l.n_stack) return "what each trip makes is kept";
    if (w->l.counts) return "trips are counted";
    if (w->l.body->effects || (w->l.cond && w->l.cond->effects)) return "a step has effects";
    if (w->l.body->n_symbols != w->l.body->n_outer_symbols) return "a step finds sizes";
    if (f->n_symbols != f->n_outer_symbols) return "the function around the loop finds sizes";
    if (one_number) return "the step is written for this number of lanes";
    const char *why = why_size_joins(m, sizes, w);
    if (!why && w->l.kind == LOOP_COUNTED && !finds_running(m, w)) why = "lanes begin at different indices";
    return why ? why : why_step_joins(a, m, f, w);
}

/* Is n a loop over lanes that may end at different trips? Then w says whether they need each other. */
static bool find_lanes(struct arena *a, struct module *m, const struct fn *f, const struct node *n,
                       const struct sizes *sizes, struct lanes *w)
{
    *w = (struct lanes){ .symbol = HOP_NONE };
    if (!loop_of_node(m, f, n, &w->l)) return false;
    bool watches = w->l.kind == LOOP_WHILE && watches_lanes(m, w);
    bool counts = w->l.kind == LOOP_COUNTED && counts_to_lanes(m, f, w);
    if (!watches && !counts) return false;
    w->symbol = symbol_of(m, w->l.body, type_get(m, value_type(w->l.body, w->alive)).dims[0]);
    if (watches) w->in_cond = symbol_of(m, w->l.cond, type_get(m, value_type(w->l.cond, w->alive)).dims[0]);
    val has_lanes = watches ? w->l.carry[w->alive] : w->l.with[w->bounds];
    w->size = type_get(m, value_type(f, has_lanes)).dims[0];
    w->why = why_together(a, m, f, sizes, w);
    return true;
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

static enum made_from parameter_of(const struct lanes *w, uint32_t p) { return (enum made_from)w->of[p]; }

/* The predicate of a loop that ends when no more than a few lanes go on. */
static uint32_t while_many(struct module *m, const struct lanes *w)
{
    struct builder b;
    const struct fn *cond = w->l.cond;
    uint32_t along = 0;
    builder_begin(&b, m, cond);
    for (uint32_t p = 0; p < cond->n_params; p++)
        builder_param(&b, value_type(cond, p), cond->values[p].name);
    val number = emit_reduce(&b, OP_sum, emit_cast(&b, w->alive, DT_I32), &along, 1);
    val many = emit2(&b, OP_gt, number, emit_full(&b, DT_I32, (double)w->few, 0, NULL));
    return builder_finish(&b, &many, 1);
}

/* x at these lanes, and x with these lanes changed; beyond the last one there is none. */
static val lanes_at(struct builder *b, val x, val at)
{
    uint32_t along = 0;
    struct attr a = A_INTS(&along, 1);
    return emit(b, OP_gather, (val[]){ x, at }, 2, &a);
}
static val with_lanes(struct builder *b, val x, val at, val lanes)
{
    enum { SET = 1 }; /* the mode of scatter */
    uint32_t along = 0;
    struct attr a[2] = { A_INTS(&along, 1), A_WORD(SET) };
    return emit(b, OP_scatter, (val[]){ x, at, lanes }, 3, a);
}

static const dim *with_number(struct builder *b, const dim *dims, uint32_t n, uint32_t symbol, dim number)
{
    dim *made = ARENA_NEW(&b->arena, dim, n + 1);
    memcpy(made, dims, n * sizeof *dims);
    made[symbol] = number;
    return made;
}

/* The loop of the few lanes of a block that are left behind another, which gave `last`: what all have then.
 */
static void finish_few(struct builder *b, const struct loop *l, const struct lanes *w, val *last)
{
    struct module *m = b->m;
    struct loop rest = *l;
    dim few = dim_const(m, w->few);
    struct attr which[2] = { A_DIM(few), A_INT(w->block) };
    val at = emit(b, OP_nonzero, &last[w->alive], 1, which);
    val *carry = ARENA_NEW(&b->arena, val, l->n_carry + 1), *with = ARENA_NEW(&b->arena, val, l->n_with + 1);
    for (uint32_t k = 0; k < l->n_carry; k++)
        carry[k] = parameter_of(w, k) == FROM_LANE ? lanes_at(b, last[k], at) : last[k];
    carry[w->alive] = emit2(b, OP_lt, at, emit_full_like(b, at, (double)w->block));
    for (uint32_t k = 0; k < l->n_with; k++) {
        bool has_lanes = parameter_of(w, loop_first_with(l) + k) == FROM_LANE;
        with[k] = has_lanes ? lanes_at(b, l->with[k], at) : l->with[k];
    }
    rest.carry = carry;
    rest.with = with;
    rest.dims = with_number(b, l->dims, l->body->n_outer_symbols, w->symbol, few);
    rest.cond_dims = with_number(b, l->cond_dims, l->cond->n_outer_symbols, w->in_cond, few);
    val ended = loop_build(b, &rest).last;
    for (uint32_t k = 0; k < l->n_carry; k++)
        last[k] = parameter_of(w, k) == FROM_LANE ? with_lanes(b, last[k], at, ended + k) : ended + k;
}

/* What the lanes of a block have in the end. */
static val *run_block(struct builder *b, const struct loop *l, const struct lanes *w)
{
    struct loop first = *l;
    val *last = ARENA_NEW(&b->arena, val, l->n_carry + 1);
    if (w->few) loop_set_cond(&first, b->m, (struct region_in){ while_many(b->m, w), NULL, 0, l->cond_dims });
    val ended = loop_build(b, &first).last;
    for (uint32_t k = 0; k < l->n_carry; k++) last[k] = ended + k;
    if (w->few) finish_few(b, l, w, last);
    return last;
}

/* The loop of one block: (carries and what else has lanes, what all blocks share, where it begins to count)
 * -> last carries that have lanes. */
static uint32_t block_function(struct module *m, const struct fn *f, const struct lanes *w)
{
    struct builder b;
    struct loop l = w->l;
    dim block = dim_const(m, w->block);
    builder_begin(&b, m, f);
    b.label = 0;
    uint32_t n_params = l.body->n_params, n_cond = l.cond ? l.cond->n_outer_symbols : 0, n_results = 0;
    val *given = ARENA_NEW(&b.arena, val, n_params + 1);
    dim *dims = ARENA_NEW(&b.arena, dim, l.body->n_outer_symbols + 1);
    dim *cond_dims = ARENA_NEW(&b.arena, dim, n_cond + 1);
    for (uint32_t s = 0; s < l.body->n_outer_symbols; s++) dims[s] = s == w->symbol ? block : l.dims[s];
    for (uint32_t s = 0; s < n_cond; s++) cond_dims[s] = s == w->in_cond ? block : l.cond_dims[s];
    for (enum made_from from = FROM_LANE + 1; from-- > FROM_SHARED;) /* what has lanes is gone over */
        for (uint32_t p = 0; p < n_params; p++)
            if (parameter_of(w, p) == from)
                given[p] = builder_param(&b, type_substitute(m, value_type(l.body, p), dims), 0);
    l.n = NULL;
    l.carry = given;
    l.with = given + loop_first_with(&l);
    l.dims = dims;
    l.cond_dims = cond_dims;
    if (l.kind == LOOP_COUNTED) {
        uint32_t all = 0;
        l.from = given[l.n_carry];
        l.to = emit_reduce(&b, node_of(f, l.to)->op, l.with[w->bounds], &all, 1);
    }
    const val *last = run_block(&b, &l, w);
    val *results = ARENA_NEW(&b.arena, val, l.n_carry + 1);
    for (uint32_t k = 0; k < l.n_carry; k++)
        if (parameter_of(w, k) == FROM_LANE) results[n_results++] = last[k];
    return builder_finish(&b, results, n_results);
}

static bool block_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct module *m = s->m;
    struct builder *b = c->b;
    struct lanes w;
    if (!find_lanes(ctx, m, c->f, n, s->few_lanes ? &small : &normal, &w) || w.why) return false;
    dim blocks = dim_const(m, divided_up(w.count, w.block));
    uint32_t n_with = 0, n_params = w.l.body->n_params;
    struct loop map = loop_new(LOOP_MAP);
    val *over = ARENA_NEW(&b->arena, val, n_params + 1), *with = ARENA_NEW(&b->arena, val, n_params + 1);
    dim *dims = ARENA_NEW(&b->arena, dim, c->f->n_outer_symbols + 1u);
    for (uint32_t p = 0; p < n_params; p++) {
        val v = c->values[loop_operand(&w.l, p)];
        if (parameter_of(&w, p) == FROM_LANE) over[map.n_over++] = in_blocks(b, v, blocks, &w);
        else with[n_with++] = v;
    }
    for (uint32_t k = 0; k < c->f->n_outer_symbols; k++) dims[k] = c->symbols[k];
    map.place = w.l.place;
    map.over = over;
    map.apart = true;
    map.length = blocks;
    loop_set_body(&map, m, (struct region_in){ block_function(m, c->f, &w), with, n_with, dims });
    val made = loop_build(b, &map).stacks;
    for (uint32_t k = 0; k < w.l.n_carry; k++)
        results[k] = parameter_of(&w, k) == FROM_LANE ? out_of_blocks(b, made++, blocks, &w) : VAL_NONE;
    return true;
}

static bool wants_trips(const struct node *n)
{
    return node_loop_kind(n) == LOOP_WHILE || node_loop_kind(n) == LOOP_COUNTED;
}

uint32_t pass_lanes(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) any |= wants_trips(fn_node(f, i));
    if (s->o->differentiable || !any) return fn;
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    uint32_t out = rewrite_nodes(s, fn, wants_trips, block_rule, &scratch);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    return out;
}

/* ---- telling people ---- */

struct telling {
    struct simplifier *s;
    bool *told; /* per function */
};

/* blocks: how many of a map over them there are around the function; HOP_NONE: there is none. */
static void tell_loop(const struct telling *t, const struct fn *f, const struct node *n, dim blocks)
{
    struct arena *a = &t->s->arena;
    struct module *m = t->s->m;
    struct text out = { .arena = a };
    struct lanes w;
    if (!find_lanes(a, m, f, n, t->s->few_lanes ? &small : &normal, &w)) return;
    text_add(&out, "%s%s: ", place_text(m, n->place), node_row(n)->name);
    if (blocks != HOP_NONE) {
        dim_print(m, f->symbols, blocks, &out);
        text_str(&out, " blocks of ");
    }
    dim_print(m, f->symbols, w.size, &out);
    text_str(&out, " lanes");
    if (blocks != HOP_NONE && w.ends_early)
        text_str(&out, ", each until its last lane ends, the last few alone");
    else if (blocks != HOP_NONE) text_str(&out, ", each until its last lane ends");
    else if (w.why) text_add(&out, " together: %s", w.why);
    else if (!pass_on(t->s->o, PASS_lanes)) text_str(&out, " together: the pass is switched off");
    else text_str(&out, " together");
    t->s->o->note(t->s->o->report_ctx, out.data);
}

/* Is node n a loop of one block: its lanes are gone over by the map whose body f is? */
static bool is_of_block(const struct module *m, const struct fn *f, const struct node *n, uint32_t n_over)
{
    struct lanes w = { 0 };
    if (!loop_of_node(m, f, n, &w.l)) return false;
    if (w.l.kind == LOOP_WHILE) return watches_lanes(m, &w) && w.l.carry[w.alive] < n_over;
    return w.l.kind == LOOP_COUNTED && counts_to_lanes(m, f, &w) && w.l.with[w.bounds] < n_over;
}

/* Is it the loop of the few lanes that another one has left? */
static bool is_of_few(const struct module *m, const struct fn *f, const struct node *n)
{
    struct lanes w = { 0 };
    if (!loop_of_node(m, f, n, &w.l) || w.l.kind != LOOP_WHILE || !watches_lanes(m, &w)) return false;
    const struct node *first = node_of(f, w.l.carry[w.alive]);
    if (!first || node_row(first)->compares != COMPARE_LT) return false;
    const struct node *at = node_of(f, node_operands(f, first)[0]);
    return at && at->op == OP_nonzero;
}

static void tell_function(struct telling *t, uint32_t fn, dim blocks, uint32_t n_over)
{
    const struct fn *f = module_fn(t->s->m, fn);
    if (t->told[fn]) return;
    t->told[fn] = true;
    hop_check_stack();
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        struct loop l;
        bool map = loop_of_node(t->s->m, f, n, &l) && l.apart;
        bool told = wants_trips(n) && is_of_few(t->s->m, f, n);
        if (wants_trips(n) && !told)
            tell_loop(t, f, n, is_of_block(t->s->m, f, n, n_over) ? blocks : (dim)HOP_NONE);
        for (uint32_t r = 0; r < n->n_regions; r++)
            tell_function(t, node_region(f, n, r)->fn, map ? l.length : (dim)HOP_NONE, map ? l.n_over : 0);
    }
}

void tell_lanes(struct simplifier *s, uint32_t fn)
{
    struct telling t = { s, ARENA_ZNEW(&s->arena, bool, s->m->fns.len) };
    tell_function(&t, fn, HOP_NONE, 0);
}
