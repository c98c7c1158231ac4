/* Cutting a joint function (a function and its pullback) into two halves, and dropping what nothing needs.
 *
 * Backward takes what its nodes read of the forward half as residuals, or makes it again from residuals by
 * cheap nodes: a minimum cut decides, which knows what a loop would have to store and what is there anyway. A
 * value whose size only the function's nodes know can be no residual: the nodes that give it are run again in
 * backward, without their effects. */
#include "ir/loop.h"
#include "loop/lower.h"
#include "ops/build.h"
#include "transform/mincut.h"
#include "transform/transform.h"

/* ---- what a node mentions ---- */

struct symbol_walk {
    void (*visit)(void *ctx, uint32_t symbol);
    void *ctx;
};
static bool walk_symbol(void *ctx, uint32_t symbol)
{
    struct symbol_walk *w = ctx;
    w->visit(w->ctx, symbol);
    return false;
}
static void dim_symbols(const struct module *m, dim d, struct symbol_walk *w)
{
    if (d & DIM_TABLE) dim_mentions(m, d, walk_symbol, w);
}
static void type_symbols(const struct module *m, type_id t, struct symbol_walk *w)
{
    struct type type = type_get(m, t);
    for (uint32_t i = 0; i < type.rank; i++) dim_symbols(m, type.dims[i], w);
}
static void node_symbols(const struct module *m, const struct fn *f, const struct node *n,
                         struct symbol_walk *w)
{
    for (uint32_t i = 0; i < node_row(n)->sig.n_attrs; i++) {
        const struct attr *a = node_attr(f, n, i);
        if (a->kind == ATTR_DIM) dim_symbols(m, (dim)a->i, w);
        for (uint32_t k = 0; a->kind == ATTR_DIMS && k < a->n; k++) dim_symbols(m, a->list[k], w);
    }
    for (uint32_t r = 0; r < n->n_regions; r++)
        for (uint32_t k = 0; k < node_region(f, n, r)->n_dims; k++)
            dim_symbols(m, node_region(f, n, r)->dims[k], w);
}

/* ---- liveness, results and operands of bodies included ---- */

/* What becomes of a live higher-order node. */
struct node_plan {
    bool live;
    bool *results;  /* kept, per result */
    bool *operands; /* kept, per operand */
    uint32_t *fns;  /* per region: the body that remains */
    bool count;     /* a loop that counts: the number of trips stays although nothing is stacked */
};
struct liveness {
    struct module *m;
    const struct fn *f;
    struct arena *arena;
    bool *values; /* used */
    struct node_plan *nodes;
    bool strip; /* effects keep nothing alive */
};

/* A function without some results, and which of its parameters stay. */
struct pruned {
    uint32_t fn;
    bool *params;
};
static const struct pruned *prune_body(struct module *m, uint32_t fn, const bool *results, uint32_t n_fed,
                                       bool strip);

/* Keeps the symbol bound: of the results whose types name it, one must stay. */
static void use_symbol(void *ctx, uint32_t symbol)
{
    struct liveness *l = ctx;
    if (symbol < l->f->n_outer_symbols) return;
    const struct node *n = fn_node(l->f, l->f->symbols[symbol].index);
    uint32_t bound;
    val candidate = VAL_NONE;
    for (uint32_t k = 0; k < n->n_results; k++) {
        struct type t = type_get(l->m, value_type(l->f, n->results + k));
        for (uint32_t i = 0; i < t.rank; i++)
            if (dim_is_symbol(l->m, t.dims[i], &bound) && bound == symbol) {
                if (l->values[n->results + k]) return;
                if (candidate == VAL_NONE) candidate = n->results + k;
            }
    }
    l->values[candidate] = true;
}

/* A node's results follow its last region's: carries (`next`), then what the row adds (a trip count), then
 * stacks; or plain yields. Only stacks and yields can go one by one. */
struct result_layout {
    uint32_t n_kept; /* carries */
    uint32_t first;  /* the first stack or yield among the node's results */
};
static struct result_layout layout_of(const struct module *m, const struct fn *f, const struct node *n)
{
    uint32_t last = n->n_regions - 1u, sizes[3] = { 0 };
    uint32_t n_body = module_fn(m, node_region(f, n, last)->fn)->n_results;
    uint32_t groups = sig_result_sizes(node_row(n), last, f->pool + n->groups, n_body, sizes);
    uint32_t kept = groups > 1                                                   ? sizes[0]
                    : !strcmp(sig_region(node_row(n), last)->results[0], "next") ? n_body
                                                                                 : 0;
    return (struct result_layout){ kept, n->n_results - (n_body - kept) };
}

static void plan_higher(struct liveness *l, const struct node *n, struct node_plan *plan)
{
    const struct op_row *row = node_row(n);
    struct result_layout at = layout_of(l->m, l->f, n);
    plan->results = ARENA_NEW(l->arena, bool, n->n_results);
    plan->operands = ARENA_NEW(l->arena, bool, n->n_operands);
    plan->fns = ARENA_NEW(l->arena, uint32_t, n->n_regions);
    bool any = false;
    for (uint32_t k = at.first; k < n->n_results; k++) any |= plan->results[k] = l->values[n->results + k];
    for (uint32_t k = 0; k < at.n_kept; k++) plan->results[k] = true;
    for (uint32_t k = at.n_kept; k < at.first; k++)
        plan->results[k] = plan->count = any || l->values[n->results + k];
    memset(plan->operands, true, n->n_operands);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct region *g = node_region(l->f, n, r);
        const struct fn *body = module_fn(l->m, g->fn);
        bool shrinks = !sig_region(row, r)->word[0] ||
                       r == n->n_regions - 1u; /* a predicate keeps its result */
        bool *keep = ARENA_NEW(l->arena, bool, body->n_results);
        for (uint32_t k = 0; k < body->n_results; k++)
            keep[k] = !shrinks || k < at.n_kept || plan->results[at.first + k - at.n_kept];
        uint32_t fed = body->n_params - g->n_operands;
        const struct pruned *inner = prune_body(l->m, g->fn, keep, fed, l->strip);
        for (uint32_t k = 0; k < g->n_operands; k++) plan->operands[g->operands + k] = inner->params[fed + k];
        plan->fns[r] = inner->fn;
    }
}

static void body_liveness(struct liveness *l, const bool *results)
{
    const struct fn *f = l->f;
    struct symbol_walk walk = { use_symbol, l };
    l->values = ARENA_ZNEW(l->arena, bool, f->n_values);
    l->nodes = ARENA_ZNEW(l->arena, struct node_plan, f->n_nodes);
    for (uint32_t k = 0; k < f->n_results; k++)
        if (results[k])
            l->values[f->results[k]] = true, type_symbols(l->m, value_type(f, f->results[k]), &walk);
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        struct node_plan *plan = &l->nodes[i];
        plan->live = !l->strip && node_effects(l->m, f, n);
        for (uint32_t k = 0; k < n->n_results; k++) plan->live |= l->values[n->results + k];
        if (!plan->live) continue;
        if (n->n_regions) plan_higher(l, n, plan);
        for (uint32_t k = 0; k < n->n_operands; k++)
            if (!plan->operands || plan->operands[k]) l->values[node_operands(f, n)[k]] = true;
        node_symbols(l->m, f, n, &walk);
        for (uint32_t k = 0; k < n->n_results; k++)
            if (!plan->results || plan->results[k]) type_symbols(l->m, value_type(f, n->results + k), &walk);
    }
}

/* ---- rebuilding with what lives ---- */

static bool plan_changes(const struct liveness *l, const struct node *n, const struct node_plan *plan)
{
    if (!plan->live) return true;
    if (!n->n_regions) return false;
    for (uint32_t k = 0; k < n->n_results; k++)
        if (!plan->results[k]) return true;
    for (uint32_t r = 0; r < n->n_regions; r++)
        if (plan->fns[r] != node_region(l->f, n, r)->fn) return true;
    return false;
}

static void copy_planned(struct copier *c, const struct node *n, const struct node_plan *plan)
{
    struct arena *arena = &c->b->arena;
    struct node_in in = copier_node_in(c, n);
    struct region_in *regions = arena_copy(arena, in.regions, n->n_regions * sizeof *regions);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        val *operands = ARENA_NEW(arena, val, regions[r].n_operands);
        uint32_t kept = 0;
        for (uint32_t k = 0; k < regions[r].n_operands; k++)
            if (plan->operands[node_region(c->f, n, r)->operands + k])
                operands[kept++] = regions[r].operands[k];
        regions[r].fn = plan->fns[r];
        regions[r].operands = operands;
        regions[r].n_operands = kept;
    }
    in.regions = regions;
    const struct loop_row *loop = node_row(n)->loop;
    if (loop && loop->attr.count) { /* the trips are a result when asked for or when anything is stacked: now
                                       it must be said */
        struct attr *attrs = arena_copy(arena, in.attrs, node_row(n)->sig.n_attrs * sizeof *attrs);
        attrs[loop->attr.count - 1] = A_FLAG(plan->count);
        in.attrs = attrs;
    }
    val next = builder_node(c->b, &in), *results = ARENA_NEW(arena, val, n->n_results);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = plan->results[k] ? next++ : VAL_NONE;
    copier_bind(c, n, results);
}

static void copy_live(struct copier *c, const struct liveness *l)
{
    for (uint32_t i = 0; i < l->f->n_requires; i++)
        builder_require(c->b, copier_dim(c, l->f->requires[i].a), copier_dim(c, l->f->requires[i].b),
                        "requirement");
    for (uint32_t i = 0; i < l->f->n_nodes; i++) {
        const struct node *n = fn_node(l->f, i);
        if (!l->nodes[i].live) continue;
        if (plan_changes(l, n, &l->nodes[i])) {
            /* operands that went are not there to be mapped */
            for (uint32_t k = 0; k < n->n_operands; k++)
                if (!l->nodes[i].operands[k] && c->values[node_operands(l->f, n)[k]] == VAL_NONE)
                    c->values[node_operands(l->f, n)[k]] = 0;
            copy_planned(c, n, &l->nodes[i]);
        } else {
            copier_node(c, n);
        }
    }
}

static uint32_t rebuild(struct liveness *l, const bool *results, const bool *params)
{
    struct builder b;
    struct copier c;
    const struct fn *f = l->f;
    builder_begin(&b, l->m, f);
    copier_begin(&c, &b, f);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (params[p]) c.values[p] = builder_param(&b, copier_type(&c, value_type(f, p)), f->values[p].name);
    copy_live(&c, l);
    val *out = ARENA_NEW(&b.arena, val, f->n_results);
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->n_results; k++)
        if (results[k]) out[n++] = c.values[f->results[k]];
    return builder_finish(&b, out, n);
}

/* Own operands (parameters from n_fed on) that nothing reads go too. Made once for each (function, results).
 */
static const struct pruned *prune_body(struct module *m, uint32_t fn, const bool *results, uint32_t n_fed,
                                       bool strip)
{
    hop_check_stack();
    const struct fn *f = module_fn(m, fn);
    bool *mask = ARENA_NEW(&m->arena, bool, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) mask[k] = !results || results[k];
    uint64_t word = (uint64_t)n_fed << 1 | strip;
    struct pruned *out = transform_recall(m, MEMO_PRUNE, fn, word, mask, f->n_results);
    if (out) return out;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct liveness l = { .m = m, .f = f, .arena = &arena, .strip = strip };
    body_liveness(&l, mask);
    out = ARENA_NEW(&m->arena, struct pruned, 1);
    *out = (struct pruned){ fn, ARENA_NEW(&m->arena, bool, f->n_params) };
    bool changes = false;
    for (uint32_t p = 0; p < f->n_params; p++) changes |= !(out->params[p] = p < n_fed || l.values[p]);
    for (uint32_t k = 0; k < f->n_results; k++) changes |= !mask[k];
    for (uint32_t i = 0; i < f->n_nodes && !changes; i++)
        changes = plan_changes(&l, fn_node(f, i), &l.nodes[i]);
    if (changes) out->fn = rebuild(&l, mask, out->params);
    transform_remember(m, MEMO_PRUNE, fn, word, mask, f->n_results, out);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

uint32_t prune_function(struct module *m, uint32_t fn, const bool *keep)
{
    return prune_body(m, fn, keep, HOP_NONE, false)->fn;
}
uint32_t strip_effects(struct module *m, uint32_t fn, const bool *keep)
{
    return keep || module_fn(m, fn)->effects ? prune_body(m, fn, keep, HOP_NONE, true)->fn : fn;
}

/* ---- the cut ---- */

struct cut {
    struct module *m;
    const struct fn *f; /* the function itself */
    const struct joint *j;
    const struct fn *joint;
    struct arena *arena;
    bool *inner;  /* per value: its type names a symbol that nodes bind */
    bool *used;   /* per value: read in backward */
    bool *needed; /* per node: runs in backward */
    bool *done;   /* per node: what it needs is marked */
    uint8_t *tag; /* per value: enum tag + 1, 0: none. The results of tags are aliases: what is said of them
                     is said of their operands */
};

static void note_inner(void *ctx, uint32_t symbol)
{
    uint32_t *largest = ctx;
    if (*largest == HOP_NONE || symbol > *largest) *largest = symbol;
}

static void mark_inner(struct cut *c)
{
    for (val v = 0; v < c->joint->n_values; v++) {
        uint32_t largest = HOP_NONE;
        struct symbol_walk walk = { note_inner, &largest };
        type_symbols(c->m, value_type(c->joint, v), &walk);
        c->inner[v] = !c->j->whole && largest != HOP_NONE && largest >= c->joint->n_outer_symbols;
    }
}

/* A value with exactly this dim, of the node that binds it: kept, it says what the size is. */
static val binding_value(const struct cut *c, uint32_t symbol)
{
    const struct node *n = fn_node(c->joint, c->joint->symbols[symbol].index);
    uint32_t bound;
    for (val v = n->results; v < n->results + n->n_results; v++) {
        struct type t = type_get(c->m, value_type(c->joint, v));
        for (uint32_t i = 0; i < t.rank; i++)
            if (dim_is_symbol(c->m, t.dims[i], &bound) && bound == symbol) return v;
    }
    hop_throw(HOP_INTERNAL, "no result has the size that its node binds");
}

static void need_symbol(void *ctx, uint32_t symbol)
{
    struct cut *c = ctx;
    if (symbol < c->joint->n_outer_symbols) return;
    uint32_t node = c->joint->symbols[symbol].index;
    if (!c->j->whole || node >= c->j->n_forward) c->needed[node] = true;
    else c->used[binding_value(c, symbol)] = true;
}

static void need_value(struct cut *c, val v)
{
    uint32_t node = c->joint->values[v].node;
    c->used[v] = true;
    if (node != NODE_NONE && (node >= c->j->n_forward || c->inner[v])) c->needed[node] = true;
}

/* Node i runs in backward. Called from later nodes to earlier ones. */
static void need_node(struct cut *c, uint32_t i)
{
    const struct node *n = fn_node(c->joint, i);
    if (c->done[i]) return;
    c->needed[i] = c->done[i] = true;
    struct symbol_walk walk = { need_symbol, c };
    for (uint32_t k = 0; k < n->n_operands; k++) need_value(c, node_operands(c->joint, n)[k]);
    node_symbols(c->m, c->joint, n, &walk);
    for (uint32_t k = 0; k < n->n_results; k++)
        type_symbols(c->m, value_type(c->joint, n->results + k), &walk);
}

/* What must run in backward: the pullback, and whatever binds sizes that it mentions. Needs flow from later
 * nodes to earlier ones, so one walk backwards finds them all. */
static void mark_backward(struct cut *c)
{
    for (uint32_t k = c->j->n_y; k < c->joint->n_results; k++) need_value(c, c->joint->results[k]);
    for (uint32_t i = c->joint->n_nodes; i-- > 0;)
        if (c->needed[i]) need_node(c, i);
}

static bool is_alias(const struct cut *c, val v)
{
    uint32_t node = c->joint->values[v].node;
    return node != NODE_NONE && node_row(fn_node(c->joint, node))->flags & OPF_TAG;
}

/* Can a node of the forward half be run again for little, or was that asked for? Its operands must not be
 * what only a body knows. */
static void note_unbound(void *ctx, uint32_t symbol)
{
    const struct cut **c = ctx;
    if (*c && !(*c)->j->whole && symbol >= (*c)->joint->n_outer_symbols &&
        !(*c)->needed[(*c)->joint->symbols[symbol].index])
        *c = NULL;
}

static bool is_cheap(const struct cut *c, const struct node *n)
{
    const struct op_row *row = node_row(n);
    const struct cut *known = c; /* NULL: it mentions a size that is not bound in backward */
    struct symbol_walk walk = { note_unbound, &known };
    bool asked = false;
    node_symbols(c->m, c->joint, n, &walk);
    if (!known) return false;
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (c->inner[node_operands(c->joint, n)[k]]) return false;
    for (uint32_t k = 0; k < n->n_results; k++) asked |= c->tag[n->results + k] == TAG_RECOMPUTE + 1;
    if (asked) return true;
    if (n->n_regions || row->effect || row->flags & OPF_NO_MERGE) return false;
    if (!n->n_operands) return true;
    return row->lower && row->lower->kind == LOWER_POINTWISE && row->lower->cost != COST_EXPENSIVE &&
           row->lower->access != ACCESS_GATHER;
}

/* Tags say what they say of what their operands stand for: one value, kept at most once. */
static void mark_tags(struct cut *c)
{
    for (uint32_t i = 0; i < c->j->n_forward; i++) {
        const struct node *n = fn_node(c->joint, i);
        if (!(node_row(n)->flags & OPF_TAG)) continue;
        val v = node_operands(c->joint, n)[0];
        while (is_alias(c, v)) v = node_operands(c->joint, fn_node(c->joint, c->joint->values[v].node))[0];
        c->tag[v] = (uint8_t)(node_attr(c->joint, n, 0)->i + 1);
    }
}

bool partition_recomputes(const struct fn *f)
{
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (node_row(fn_node(f, i))->flags & OPF_TAG && node_attr(f, fn_node(f, i), 0)->i == TAG_RECOMPUTE)
            return true;
    return false;
}

static bool is_there_anyway(const struct cut *c, val v)
{
    if (is_alias(c, v)) return false; /* had from its operand */
    if (c->tag[v] == TAG_KEEP + 1) return true;
    if (v >= c->j->n_costly && v < c->j->n_x) return true;
    for (uint32_t k = c->j->n_costly; k < c->j->n_y; k++)
        if (c->joint->results[k] == v) return true;
    return false;
}

/* Bytes, with a guess for sizes that are not known; what is there anyway costs next to nothing. */
static int64_t saving_cost(const struct cut *c, val v)
{
    enum { GUESS = 64 };
    if (is_there_anyway(c, v)) return 1;
    struct type t = type_get(c->m, value_type(c->joint, v));
    int64_t bytes = dtype_info[t.dtype].size;
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t lo, hi;
        dim_range(c->m, c->joint->symbols, t.dims[i], &lo, &hi);
        bytes *= lo == hi ? HOP_MIN(HOP_MAX(lo, 1), 1 << 20) : HOP_MAX(lo, HOP_MIN(hi, GUESS));
        bytes = HOP_MIN(bytes, (int64_t)1 << 40);
    }
    return bytes * 1024;
}

/* Everything is run again that is not there anyway. */
static void save_nothing(struct cut *c)
{
    for (uint32_t i = c->j->n_forward; i-- > 0;) {
        const struct node *n = fn_node(c->joint, i);
        bool again = false;
        for (uint32_t k = 0; k < n->n_results; k++)
            again |= c->used[n->results + k] && !is_there_anyway(c, n->results + k);
        if (again || c->needed[i]) need_node(c, i);
    }
}

/* Marks the nodes that are cheap to run again where that saves more than it costs: every value of the forward
 * half is split into an edge whose capacity is what keeping it costs; it can be had from its operands if its
 * node is cheap, otherwise only by keeping it. */
static void choose_saved(struct cut *c)
{
    const struct fn *joint = c->joint;
    uint32_t n_values = joint->n_params;
    for (uint32_t i = 0; i < c->j->n_forward; i++)
        n_values = HOP_MAX(n_values, joint->nodes[i].results + joint->nodes[i].n_results);
    uint32_t source = 2 * n_values, sink = source + 1;
    struct mincut g = mincut_new(c->arena, sink + 1);
    bool *cheap = ARENA_NEW(c->arena, bool, c->j->n_forward); /* decided before anything more is marked */
    for (uint32_t i = 0; i < c->j->n_forward; i++) cheap[i] = is_cheap(c, fn_node(joint, i));
    for (val v = 0; v < n_values; v++) {
        uint32_t node = joint->values[v].node;
        bool there = node != NODE_NONE && c->needed[node]; /* runs in backward anyway */
        if ((node == NODE_NONE && v >= c->j->n_x) || there || c->inner[v]) continue;
        bool never = node != NODE_NONE && cheap[node] && (c->tag[v] == TAG_RECOMPUTE + 1 || is_alias(c, v));
        mincut_edge(&g, 2 * v, 2 * v + 1, never ? MINCUT_INFINITE : saving_cost(c, v));
        if (c->used[v]) mincut_edge(&g, 2 * v + 1, sink, MINCUT_INFINITE);
        if (node == NODE_NONE || !cheap[node]) {
            mincut_edge(&g, source, 2 * v, MINCUT_INFINITE);
            continue;
        }
        const struct node *n = fn_node(joint, node);
        for (uint32_t k = 0; k < n->n_operands; k++)
            mincut_edge(&g, 2 * node_operands(joint, n)[k] + 1, 2 * v, MINCUT_INFINITE);
    }
    bool *behind = ARENA_NEW(c->arena, bool, sink + 1);
    mincut_solve(&g, source, sink, behind);
    for (uint32_t i = c->j->n_forward; i-- > 0;) {
        const struct node *n = fn_node(joint, i);
        bool again = false;
        for (uint32_t k = 0; k < n->n_results; k++) {
            val v = n->results + k;
            again |= c->used[v] && !c->inner[v] && !(behind[2 * v + 1] && !behind[2 * v]);
        }
        if (c->needed[i] || (again && cheap[i])) need_node(c, i);
    }
}

static void note_bound_again(void *ctx, uint32_t symbol)
{
    const struct cut **c = ctx; /* NULL: found */
    if (*c && symbol >= (*c)->joint->n_outer_symbols && (*c)->needed[(*c)->joint->symbols[symbol].index])
        *c = NULL;
}

/* Does a result that backward reads have a size that is bound in backward once more? */
static bool has_size_bound_again(const struct cut *c, const struct node *n)
{
    const struct cut *left = c;
    struct symbol_walk walk = { note_bound_again, &left };
    for (uint32_t k = 0; k < n->n_results; k++)
        if (c->used[n->results + k]) type_symbols(c->m, value_type(c->joint, n->results + k), &walk);
    return !left;
}

/* A node that binds a size and is run again binds it anew: backward knows it from there on, and not before.
 * So what has such a size is not kept but run again as well. Running a node again may do the same to another
 * size. */
static void run_again_with_sizes(struct cut *c)
{
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t i = c->j->n_forward; i-- > 0;) {
            if (c->needed[i] || !has_size_bound_again(c, fn_node(c->joint, i))) continue;
            need_node(c, i);
            more = true;
        }
    }
}

/* A parameter like p of f; sizes of cotangents that the builder does not know yet become symbols. */
static val param_like(struct module *m, struct copier *copy, val p)
{
    const struct fn *f = copy->f;
    struct type t = type_get(m, value_type(f, p));
    uint32_t s;
    for (uint32_t i = 0; i < t.rank; i++)
        if (dim_is_symbol(m, t.dims[i], &s) && copy->symbols[s] == HOP_NONE)
            copy->symbols[s] = dim_symbol(m, builder_symbol(copy->b, f->symbols[s].name, f->symbols[s].lo,
                                                            f->symbols[s].hi));
    return builder_param(copy->b, copier_type(copy, value_type(f, p)), f->values[p].name);
}

/* (residuals…, cotangents…) -> (cotangents of parameters…), before it is known which parameters are read
 * after pruning. */
static uint32_t build_backward(struct cut *c, const val *residuals, uint32_t n_residuals)
{
    struct builder b;
    struct copier copy;
    const struct fn *joint = c->joint;
    builder_begin(&b, c->m, c->f);
    copier_begin(&copy, &b, joint);
    for (uint32_t i = 0; i < n_residuals; i++)
        copy.values[residuals[i]] = param_like(c->m, &copy, residuals[i]);
    for (uint32_t p = c->j->n_x; p < joint->n_params; p++) copy.values[p] = param_like(c->m, &copy, p);
    for (uint32_t i = 0; i < joint->n_nodes; i++) {
        const struct node *n = fn_node(joint, i);
        if (!c->needed[i]) continue;
        struct node_in in = copier_node_in(&copy, n);
        struct region_in *regions = n->n_regions
                                        ? arena_copy(&b.arena, in.regions, n->n_regions * sizeof *regions)
                                        : NULL;
        for (uint32_t r = 0; r < n->n_regions && i < c->j->n_forward; r++)
            regions[r].fn = strip_effects(c->m, regions[r].fn, NULL);
        in.regions = regions;
        val first = builder_node(&b, &in), *results = ARENA_NEW(&b.arena, val, n->n_results);
        for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
        copier_bind(&copy, n, results);
    }
    uint32_t n_out = joint->n_results - c->j->n_y;
    val *out = ARENA_NEW(&b.arena, val, n_out);
    for (uint32_t k = 0; k < n_out; k++) out[k] = copy.values[joint->results[c->j->n_y + k]];
    return prune_function(c->m, builder_finish(&b, out, n_out), NULL);
}

/* The pruned function without the parameters that nothing reads, and without symbols that only they bound. */
static uint32_t drop_params(struct cut *c, uint32_t fn, const bool *used)
{
    struct builder b;
    struct copier copy;
    const struct fn *f = module_fn(c->m, fn);
    builder_begin(&b, c->m, c->f);
    copier_begin(&copy, &b, f);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (used[p]) copy.values[p] = param_like(c->m, &copy, p);
    for (uint32_t i = 0; i < f->n_nodes; i++) copier_node(&copy, fn_node(f, i));
    val *out = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) out[k] = copy.values[f->results[k]];
    return builder_finish(&b, out, f->n_results);
}

/* (x…) -> (y…, residuals that are neither parameters nor results…). */
static uint32_t build_forward(struct cut *c, const val *extra, uint32_t n_extra)
{
    struct builder b;
    struct copier copy;
    const struct fn *joint = c->joint;
    builder_begin(&b, c->m, c->f);
    copier_begin(&copy, &b, joint);
    for (uint32_t p = 0; p < c->j->n_x; p++)
        copy.values[p] = builder_param(&b, copier_type(&copy, value_type(joint, p)), joint->values[p].name);
    for (uint32_t i = 0; i < c->f->n_requires; i++)
        builder_require(&b, copier_dim(&copy, c->f->requires[i].a), copier_dim(&copy, c->f->requires[i].b),
                        "requirement");
    for (uint32_t i = 0; i < c->j->n_forward; i++) copier_node(&copy, fn_node(joint, i));
    val *out = ARENA_NEW(&b.arena, val, c->j->n_y + n_extra);
    for (uint32_t k = 0; k < c->j->n_y; k++) out[k] = copy.values[joint->results[k]];
    for (uint32_t k = 0; k < n_extra; k++) out[c->j->n_y + k] = copy.values[extra[k]];
    return prune_function(c->m, builder_finish(&b, out, c->j->n_y + n_extra), NULL);
}

static void used_params(struct cut *c, uint32_t fn, bool *out)
{
    const struct fn *f = module_fn(c->m, fn);
    struct liveness l = { .m = c->m, .f = f, .arena = c->arena };
    bool *all = ARENA_NEW(c->arena, bool, f->n_results);
    memset(all, true, f->n_results);
    body_liveness(&l, all);
    if (f->n_params) memcpy(out, l.values, f->n_params);
    for (uint32_t s = c->f->n_outer_symbols; s < f->n_outer_symbols;
         s++) { /* one parameter must say each size */
        uint32_t first = HOP_NONE, bound;
        bool said = false;
        for (uint32_t p = 0; p < f->n_params; p++) {
            struct type t = type_get(c->m, value_type(f, p));
            for (uint32_t i = 0; i < t.rank; i++) {
                if (!dim_is_symbol(c->m, t.dims[i], &bound) || bound != s) continue;
                said |= out[p];
                if (first == HOP_NONE) first = p;
            }
        }
        if (!said && first != HOP_NONE) out[first] = true;
    }
}

void partition_joint(struct module *m, const struct fn *f, const struct joint *j, struct vjp_halves *out)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    const struct fn *joint = module_fn(m, j->fn);
    struct cut c = { .m = m,
                     .f = f,
                     .j = j,
                     .joint = joint,
                     .arena = &arena,
                     .inner = ARENA_ZNEW(&arena, bool, joint->n_values),
                     .used = ARENA_ZNEW(&arena, bool, joint->n_values),
                     .needed = ARENA_ZNEW(&arena, bool, joint->n_nodes),
                     .done = ARENA_ZNEW(&arena, bool, joint->n_nodes),
                     .tag = ARENA_ZNEW(&arena, uint8_t, joint->n_values) };
    mark_inner(&c);
    mark_tags(&c);
    mark_backward(&c);
    if (j->recompute) save_nothing(&c);
    else choose_saved(&c);
    if (j->whole) run_again_with_sizes(&c);
    uint32_t n_ct = joint->n_params - j->n_x, n = 0, n_extra = 0;
    val *residuals = ARENA_NEW(&arena, val, joint->n_values),
        *extra = ARENA_NEW(&arena, val, joint->n_values);
    bool *used = ARENA_NEW(&arena, bool, n_ct + joint->n_values);
    struct symbol_walk sizes = { need_symbol, &c };
    for (val v = joint->n_values;
         v-- > 0 &&
         j->whole;) /* sizes that types of residuals mention are said by residuals, which come before */
        if (c.used[v] && joint->values[v].node < j->n_forward) type_symbols(m, value_type(joint, v), &sizes);
    for (val v = 0; v < joint->n_values; v++) {
        uint32_t node = joint->values[v].node;
        bool kept = node == NODE_NONE ? v < j->n_x : node < j->n_forward && !c.needed[node];
        if (c.used[v] && kept) residuals[n++] = v;
    }
    for (val v = 0; v < joint->n_values; v++) {
        uint32_t node = joint->values[v].node;
        out->guarded |= c.tag[v] == TAG_RECOMPUTE + 1 && node != NODE_NONE && node < j->n_forward &&
                        c.needed[node];
    }
    uint32_t backward = build_backward(&c, residuals, n);
    used_params(&c, backward, used);
    uint32_t n_read = 0;
    for (uint32_t i = 0; i < n; i++)
        if (used[i]) residuals[n_read++] = residuals[i];
    out->n_residuals = n_read;
    out->source_param = ARENA_NEW(&m->arena, uint32_t, n_read);
    out->source_result = ARENA_NEW(&m->arena, uint32_t, n_read);
    for (uint32_t i = 0; i < n_read; i++) {
        out->source_param[i] = residuals[i] < j->n_x ? residuals[i] : HOP_NONE;
        out->source_result[i] = HOP_NONE;
        for (uint32_t k = 0;
             k < j->n_y && out->source_param[i] == HOP_NONE && out->source_result[i] == HOP_NONE; k++)
            if (joint->results[k] == residuals[i]) out->source_result[i] = k;
        if (out->source_param[i] == HOP_NONE && out->source_result[i] == HOP_NONE)
            extra[n_extra++] = residuals[i];
    }
    for (uint32_t i = 0; i < n_ct; i++) out->ct_result[j->ct_of[i]] = used[n + i];
    out->backward = drop_params(&c, backward, used);
    out->forward = build_forward(&c, extra, n_extra);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}
