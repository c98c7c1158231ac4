/* Cutting a joint function (a function and its pullback) into two halves.
 *
 * Backward takes what its nodes read of the forward half as residuals, or makes it again from residuals by
 * cheap nodes: a minimum cut decides, which knows what a loop would have to store and what is there anyway. A
 * value whose size only the function's nodes know can be no residual: the nodes that give it are run again in
 * backward, without their effects. */
#include "loop/lower.h"
#include "ops/build.h"
#include "transform/cost.h"
#include "transform/mincut.h"
#include "transform/pass.h"
#include "transform/transform.h"

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
    /* Per value: enum tag + 1, 0: none. The results of tags are aliases: what is said of them is said of
     * their operands. */
    uint8_t *tag;
    uint32_t *tag_name; /* per value tagged `offload`: string id of its name, 0: none */
    bool dear_again;    /* backward runs again what is dear */
    bool *handed;       /* per value: a segment hands it to the next (struct price); NULL: there are none */
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

/* Does it do something that must not be done again, for results that backward would need it for? */
static bool acts_once(const struct cut *c, const struct node *n)
{
    if (!(node_effects(c->m, c->joint, n) & ~EFFECT_CHECK)) return false;
    if (row_effects(c->m, node_row(n), node_attr(c->joint, n, 0)) & ~EFFECT_CHECK) return true;
    for (uint32_t r = 0; r < n->n_regions; r++)
        if (!can_run_again(c->m, node_region(c->joint, n, r)->fn, NULL)) return true;
    return false;
}

/* Node i runs in backward. Called from later nodes to earlier ones. */
static void need_node(struct cut *c, uint32_t i)
{
    const struct node *n = fn_node(c->joint, i);
    if (c->done[i]) return;
    if (i < c->j->n_forward && acts_once(c, n))
        hop_throw(
            HOP_INVALID,
            "%s%s: a gradient needs its result, whose size nothing else knows, so it would have to be run "
            "again, and its effects would happen twice",
            place_text(c->m, n->place), node_row(n)->name);
    c->needed[i] = true;
    c->done[i] = true;
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

/* A walk over symbols that looks for one. */
struct symbol_search {
    const struct cut *c;
    bool found;
};

/* Is it a symbol that a node binds which runs in backward? */
static bool is_bound_in_backward(const struct cut *c, uint32_t symbol)
{
    return c->needed[c->joint->symbols[symbol].index];
}

static void note_unbound(void *ctx, uint32_t symbol)
{
    struct symbol_search *s = ctx;
    if (s->c->j->whole || symbol < s->c->joint->n_outer_symbols) return;
    if (!is_bound_in_backward(s->c, symbol)) s->found = true;
}

enum again {
    AGAIN_NEVER,
    AGAIN_DEAR, /* at a price */
    AGAIN_CHEAP /* for little, or that was asked for */
};

static uint8_t price_level(const struct cut *c, uint32_t i)
{
    return i < c->j->n_early ? c->m->price.early_level : c->m->price.level;
}

/* What a loop keeps is stacked, and objects cannot be: a choice between them is made again. */
static bool gives_object(const struct cut *c, const struct node *n)
{
    for (uint32_t k = 0; k < n->n_results; k++)
        if (type_is_object(c->m, value_type(c->joint, n->results + k))) return true;
    return false;
}

/* Can node i of the forward half be run again? Its operands must not be what only a body knows. */
static enum again run_again(const struct cut *c, uint32_t i)
{
    const struct node *n = fn_node(c->joint, i);
    const struct op_row *row = node_row(n);
    struct symbol_search unbound = { c, false };
    struct symbol_walk walk = { note_unbound, &unbound };
    bool asked = false;
    node_symbols(c->m, c->joint, n, &walk);
    if (unbound.found) return AGAIN_NEVER;
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (c->inner[node_operands(c->joint, n)[k]]) return AGAIN_NEVER;
    for (uint32_t k = 0; k < n->n_results; k++) asked |= c->tag[n->results + k] == TAG_RECOMPUTE + 1;
    if (acts_once(c, n)) return AGAIN_NEVER;
    if (asked) return AGAIN_CHEAP;
    if (row_effects(c->m, row, node_attr(c->joint, n, 0)) || row->flags & OPF_NO_MERGE) return AGAIN_NEVER;
    bool pure = node_is_pure(c->m, c->joint, n) && !node_binds_symbols(c->joint, n);
    if (pure && gives_object(c, n)) return AGAIN_CHEAP;
    if (!n->n_operands && !n->n_regions) return AGAIN_CHEAP;
    const struct op_lower *lower = row->lower;
    if (lower && lower->kind == LOWER_POINTWISE && lower->cost != COST_EXPENSIVE &&
        lower->access != ACCESS_GATHER)
        return AGAIN_CHEAP;
    return pure && price_level(c, i) ? AGAIN_DEAR : AGAIN_NEVER;
}

/* Tags say what they say of what their operands stand for: one value, kept at most once. */
static void mark_tags(struct cut *c)
{
    for (uint32_t i = 0; i < c->j->n_forward; i++) {
        const struct node *n = fn_node(c->joint, i);
        if (!(node_row(n)->flags & OPF_TAG) || node_attr(c->joint, n, 0)->kind == ATTR_ABSENT) continue;
        val v = node_operands(c->joint, n)[0];
        while (is_alias(c, v)) {
            const struct node *tag = fn_node(c->joint, c->joint->values[v].node);
            v = node_operands(c->joint, tag)[0];
        }
        const struct attr *name = node_attr(c->joint, n, TAG_NAME);
        c->tag[v] = (uint8_t)(node_attr(c->joint, n, 0)->i + 1);
        c->tag_name[v] = name->kind == ATTR_ABSENT ? 0 : (uint32_t)name->i;
    }
}

bool partition_recomputes(const struct fn *f)
{
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        bool tag = node_row(n)->flags & OPF_TAG;
        if (tag && attr_is_word(node_attr(f, n, 0), TAG_RECOMPUTE)) return true;
        if (tag && attr_is_word(node_attr(f, n, 0), TAG_OFFLOAD)) return true;
    }
    return false;
}

static const uint64_t MEMO_KEPT_INSIDE = 0x696e7369;

/* Is a value of the function, or of a body in it that is not a checkpointed call's, tagged to be kept? */
static bool keeps_inside(struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    const uint64_t key[4] = { MEMO_KEPT_INSIDE, fn };
    union memo_value known;
    bool any = false;
    if (memo_get(m, key, &known)) return known.number;
    hop_check_stack();
    for (uint32_t i = 0; i < f->n_nodes && !any; i++) {
        const struct node *n = fn_node(f, i);
        any = node_row(n)->flags & OPF_TAG &&
              (attr_is_word(node_attr(f, n, 0), TAG_KEEP) || attr_is_word(node_attr(f, n, 0), TAG_OFFLOAD));
        bool own = n->op == OP_invoke_subgraph && (node_attr(f, n, INVOKE_RECOMPUTE)->kind != ATTR_ABSENT ||
                                                   node_attr(f, n, INVOKE_POLICY)->kind != ATTR_ABSENT);
        for (uint32_t r = 0; r < n->n_regions && !own && !any; r++)
            any = keeps_inside(m, node_region(f, n, r)->fn);
    }
    memo_put(m, key, (union memo_value){ .number = any });
    return any;
}

/* A loop or a branch that keeps something of its bodies is kept with it: to run it again would need the whole
 * of its bodies. */
static bool is_kept_whole(const struct cut *c, val v)
{
    uint32_t node = c->joint->values[v].node;
    if (node == NODE_NONE) return false;
    const struct node *n = fn_node(c->joint, node);
    if (n->op == OP_invoke_subgraph) return false;
    for (uint32_t r = 0; r < n->n_regions; r++)
        if (keeps_inside(c->m, node_region(c->joint, n, r)->fn)) return true;
    return false;
}

/* Is it kept in a file? */
static bool is_moved(const struct cut *c, val v) { return !c->j->ends && c->tag[v] == TAG_OFFLOAD + 1; }

static bool is_there_anyway(const struct cut *c, val v)
{
    if (is_alias(c, v)) return false; /* had from its operand */
    if (!c->j->ends && (c->tag[v] == TAG_KEEP + 1 || is_kept_whole(c, v))) return true;
    if (is_moved(c, v)) return true;
    uint32_t node = c->joint->values[v].node;
    if (node < c->j->n_forward && acts_once(c, fn_node(c->joint, node))) return true;
    if (v >= c->j->n_costly && v < c->j->n_x) return true;
    for (uint32_t k = c->j->n_costly; k < c->j->n_y; k++)
        if (c->joint->results[k] == v) return true;
    return false;
}

enum { UNITS_PER_BYTE = 1024 }; /* of capacities in the cut */

/* With a guess for sizes that are not known. */
static int64_t value_bytes(const struct cut *c, val v)
{
    enum { GUESS = 64 };
    struct type t = type_get(c->m, value_type(c->joint, v));
    int64_t bytes = dtype_info[t.dtype].size;
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t lo, hi;
        dim_range(c->m, c->joint->symbols, t.dims[i], &lo, &hi);
        bytes *= lo == hi ? HOP_MIN(HOP_MAX(lo, 1), 1 << 20) : HOP_MAX(lo, HOP_MIN(hi, GUESS));
        bytes = HOP_MIN(bytes, (int64_t)1 << 40);
    }
    return bytes;
}

/* What is there anyway costs next to nothing. */
static int64_t saving_cost(const struct cut *c, val v)
{
    if (is_there_anyway(c, v) || (c->handed && c->handed[v])) return 1;
    if (type_is_object(c->m, value_type(c->joint, v))) return (int64_t)1 << 50;
    return value_bytes(c, v) * UNITS_PER_BYTE;
}

/* What it costs to run node i again, which is dear: in units of keeping. */
static int64_t running_cost(const struct cut *c, uint32_t i)
{
    static const int64_t most = (int64_t)1 << 44;
    int64_t cost = HOP_MIN(node_cost(c->m, c->joint, fn_node(c->joint, i)), most) * UNITS_PER_BYTE;
    return HOP_MAX(cost >> (2 * price_level(c, i) - 1), 2);
}

/* Between two segments stands the narrowest place in reach of where the cost would be divided evenly. */
static void mark_segments(struct cut *c)
{
    uint32_t n = c->j->n_forward, segments = c->m->price.segments;
    if (segments < 2 || !n) return;
    uint32_t *last = ARENA_ZNEW(c->arena, uint32_t, c->joint->n_values); /* forward node that reads a value */
    int64_t *handed = ARENA_ZNEW(c->arena, int64_t, n + 1);              /* bytes, in front of each node */
    double *done = ARENA_NEW(c->arena, double, n + 1);                   /* cost, in front of each node */
    c->handed = ARENA_ZNEW(c->arena, bool, c->joint->n_values);
    done[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct node *node = fn_node(c->joint, i);
        done[i + 1] = done[i] + (double)node_cost(c->m, c->joint, node);
        for (uint32_t k = 0; k < node->n_operands; k++) last[node_operands(c->joint, node)[k]] = i;
    }
    for (val v = c->joint->n_params; v < c->joint->n_values; v++) {
        uint32_t made = c->joint->values[v].node;
        if (made >= n || last[v] <= made) continue;
        handed[made + 1] += value_bytes(c, v);
        handed[last[v] + 1] -= value_bytes(c, v);
    }
    for (uint32_t i = 1; i <= n; i++) handed[i] += handed[i - 1];
    for (uint32_t s = 1; s < segments; s++) {
        uint32_t best = HOP_NONE;
        for (uint32_t i = 1; i < n; i++) {
            double place = done[i] * segments / HOP_MAX(done[n], 1);
            if (place < s - 0.5 || place >= s + 0.5) continue;
            if (best == HOP_NONE || handed[i] < handed[best]) best = i;
        }
        for (val v = c->joint->n_params; best != HOP_NONE && v < c->joint->n_values; v++) {
            uint32_t made = c->joint->values[v].node;
            if (made < best && last[v] >= best) c->handed[v] = true;
        }
    }
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

/* Vertices of the graph of the cut: the two ends of a value's edge, and a node that may be run again. */
static uint32_t before_keeping(val v) { return 2 * v; }
static uint32_t after_keeping(val v) { return 2 * v + 1; }
static uint32_t running_again(uint32_t n_values, uint32_t node) { return 2 * n_values + node; }

/* Node i may be run again, if its operands are had. */
static void add_running(struct cut *c, struct mincut *g, uint32_t n_values, uint32_t source, uint32_t i,
                        enum again again)
{
    const struct node *n = fn_node(c->joint, i);
    uint32_t running = running_again(n_values, i);
    if (again == AGAIN_DEAR) mincut_edge(g, source, running, running_cost(c, i));
    for (uint32_t k = 0; k < n->n_operands; k++)
        mincut_edge(g, after_keeping(node_operands(c->joint, n)[k]), running, MINCUT_INFINITE);
}

/* Marks the nodes that are run again where that saves more than it costs: every value of the forward half is
 * split into an edge whose capacity is what keeping it costs; it can be had from its operands if its node is
 * cheap, for the price of running it if that is dear, otherwise only by keeping it. */
static void choose_saved(struct cut *c)
{
    const struct fn *joint = c->joint;
    uint32_t n_values = joint->n_params;
    for (uint32_t i = 0; i < c->j->n_forward; i++)
        n_values = HOP_MAX(n_values, joint->nodes[i].results + joint->nodes[i].n_results);
    uint32_t source = running_again(n_values, c->j->n_forward), sink = source + 1;
    struct mincut g = mincut_new(c->arena, sink + 1);
    /* Decided before anything more is marked. */
    enum again *can = ARENA_NEW(c->arena, enum again, c->j->n_forward);
    for (uint32_t i = 0; i < c->j->n_forward; i++) {
        can[i] = run_again(c, i);
        if (can[i] != AGAIN_NEVER) add_running(c, &g, n_values, source, i, can[i]);
    }
    for (val v = 0; v < n_values; v++) {
        uint32_t node = joint->values[v].node;
        bool there = node != NODE_NONE && c->needed[node]; /* runs in backward anyway */
        if ((node == NODE_NONE && v >= c->j->n_x) || there || c->inner[v]) continue;
        bool handed = c->handed && c->handed[v];
        bool may = node != NODE_NONE && can[node] != AGAIN_NEVER && !handed;
        bool never = may && (c->tag[v] == TAG_RECOMPUTE + 1 || is_alias(c, v));
        int64_t cost = never ? MINCUT_INFINITE : saving_cost(c, v);
        mincut_edge(&g, before_keeping(v), after_keeping(v), cost);
        if (c->used[v]) mincut_edge(&g, after_keeping(v), sink, MINCUT_INFINITE);
        uint32_t from = may ? running_again(n_values, node) : source;
        mincut_edge(&g, from, before_keeping(v), MINCUT_INFINITE);
    }
    bool *behind = ARENA_NEW(c->arena, bool, sink + 1);
    mincut_solve(&g, source, sink, behind);
    for (uint32_t i = c->j->n_forward; i-- > 0;) {
        const struct node *n = fn_node(joint, i);
        bool again = false;
        for (uint32_t k = 0; k < n->n_results; k++) {
            val v = n->results + k;
            bool kept = behind[after_keeping(v)] && !behind[before_keeping(v)];
            again |= c->used[v] && !c->inner[v] && !kept;
        }
        again &= can[i] != AGAIN_NEVER;
        if (c->needed[i] || again) need_node(c, i);
        c->dear_again |= again && can[i] == AGAIN_DEAR;
    }
}

static void note_bound_again(void *ctx, uint32_t symbol)
{
    struct symbol_search *s = ctx;
    if (symbol < s->c->joint->n_outer_symbols) return;
    if (is_bound_in_backward(s->c, symbol)) s->found = true;
}

/* Does a result that backward reads have a size that is bound in backward once more? */
static bool has_size_bound_again(const struct cut *c, const struct node *n)
{
    struct symbol_search again = { c, false };
    struct symbol_walk walk = { note_bound_again, &again };
    for (uint32_t k = 0; k < n->n_results; k++)
        if (c->used[n->results + k]) type_symbols(c->m, value_type(c->joint, n->results + k), &walk);
    return again.found;
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
    for (uint32_t i = 0; i < t.rank; i++) {
        if (!dim_is_symbol(m, t.dims[i], &s) || copy->symbols[s] != HOP_NONE) continue;
        uint32_t size = builder_symbol(copy->b, f->symbols[s].name, f->symbols[s].lo, f->symbols[s].hi);
        copy->symbols[s] = dim_symbol(m, size);
    }
    return builder_param(copy->b, copier_type(copy, value_type(f, p)), f->values[p].name);
}

/* Node n once more; `again`: it runs in forward too, and has its effects there. */
static void backward_node(struct copier *copy, const struct node *n, bool again)
{
    struct builder *b = copy->b;
    struct node_in in = copier_node_in(copy, n);
    struct region_in *regions = NULL;
    if (n->n_regions) regions = arena_copy(&b->arena, in.regions, n->n_regions * sizeof *regions);
    for (uint32_t r = 0; r < n->n_regions && again; r++)
        regions[r].fn = strip_effects(b->m, regions[r].fn, NULL);
    in.regions = regions;
    val first = builder_node(b, &in);
    val *results = ARENA_NEW(&b->arena, val, n->n_results);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    copier_bind(copy, n, results);
}

/* The needed nodes, NODE_NONE behind the last. What is run again stands where it is first needed, so that it
 * does not lie in memory for longer than it must; unless it says sizes, which whatever comes behind it may
 * mention. */
static const uint32_t *backward_order(struct cut *c)
{
    uint32_t n_nodes = c->joint->n_nodes, n_forward = c->j->n_forward, n = 0;
    uint32_t *order = ARENA_NEW(c->arena, uint32_t, n_nodes + 1);
    uint32_t *reader = ARENA_NEW(c->arena, uint32_t, n_nodes); /* the first behind the forward half */
    uint32_t *next = ARENA_NEW(c->arena, uint32_t, n_nodes);   /* that has the same one */
    uint32_t *first = ARENA_NEW(c->arena, uint32_t, n_nodes + 1);
    bool late = c->dear_again || c->j->recompute;
    for (uint32_t i = 0; i < n_nodes; i++) {
        reader[i] = i < n_forward ? n_nodes : i;
        if (i < n_forward && c->needed[i] && node_binds_symbols(c->joint, fn_node(c->joint, i))) late = false;
    }
    for (uint32_t i = n_nodes; i-- > 0 && late;) {
        const struct node *node = fn_node(c->joint, i);
        for (uint32_t k = 0; k < node->n_operands && c->needed[i]; k++) {
            uint32_t made = c->joint->values[node_operands(c->joint, node)[k]].node;
            if (made < n_forward) reader[made] = HOP_MIN(reader[made], reader[i]);
        }
    }
    memset(first, 0xff, (n_nodes + 1) * sizeof *first);
    for (uint32_t i = n_nodes; i-- > 0;) {
        if (!late) reader[i] = i;
        if (!c->needed[i]) continue;
        next[i] = first[reader[i]];
        first[reader[i]] = i;
    }
    for (uint32_t i = 0; i <= n_nodes; i++)
        for (uint32_t k = first[i]; k != NODE_NONE; k = next[k]) order[n++] = k;
    order[n] = NODE_NONE;
    return order;
}

/* What lies in a file comes back right before it is read, and no sooner. */
static void fetch_value(struct copier *copy, val v, bool *moved)
{
    if (!moved[v]) return;
    moved[v] = false;
    copy->values[v] = emit_fetch(copy->b, copy->values[v]);
}

/* (residuals…, cotangents…) -> (cotangents of parameters…), before it is known which parameters are read
 * after pruning. */
static uint32_t build_backward(struct cut *c, const val *residuals, uint32_t n_residuals)
{
    struct builder b;
    struct copier copy;
    const struct fn *joint = c->joint;
    builder_begin(&b, c->m, c->f);
    b.label = module_label(c->m, fn_label(c->f), "backward");
    copier_begin(&copy, &b, joint);
    for (uint32_t i = 0; i < n_residuals; i++)
        copy.values[residuals[i]] = param_like(c->m, &copy, residuals[i]);
    for (uint32_t p = c->j->n_x; p < joint->n_params; p++) copy.values[p] = param_like(c->m, &copy, p);
    const uint32_t *order = backward_order(c);
    bool *moved = ARENA_ZNEW(c->arena, bool, joint->n_values);
    for (uint32_t i = 0; i < n_residuals; i++) moved[residuals[i]] = is_moved(c, residuals[i]);
    for (uint32_t i = 0; order[i] != NODE_NONE; i++) {
        const struct node *n = fn_node(joint, order[i]);
        for (uint32_t k = 0; k < n->n_operands; k++) fetch_value(&copy, node_operands(joint, n)[k], moved);
        backward_node(&copy, n, order[i] < c->j->n_forward);
    }
    for (uint32_t k = c->j->n_y; k < joint->n_results; k++) fetch_value(&copy, joint->results[k], moved);
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
    b.label = fn_label(f);
    copier_begin(&copy, &b, f);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (used[p]) copy.values[p] = param_like(c->m, &copy, p);
    for (uint32_t i = 0; i < f->n_nodes; i++) copier_node(&copy, fn_node(f, i));
    val *out = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) out[k] = copy.values[f->results[k]];
    return builder_finish(&b, out, f->n_results);
}

/* Moves v out of memory, if it is to be. */
static void move_value(struct cut *c, struct copier *copy, val v, val *out)
{
    uint32_t node = c->joint->values[v].node;
    out[v] = copy->values[v];
    if (!is_moved(c, v)) return;
    copy->b->place = node == NODE_NONE ? c->f->place : fn_node(c->joint, node)->place;
    out[v] = emit_offload(copy->b, copy->values[v], c->tag_name[v]);
}

/* (x…) -> (y…, residuals that are neither parameters nor results…). */
static uint32_t build_forward(struct cut *c, const val *extra, uint32_t n_extra)
{
    struct builder b;
    struct copier copy;
    const struct fn *joint = c->joint;
    builder_begin(&b, c->m, c->f);
    b.label = module_label(c->m, fn_label(c->f), "forward");
    copier_begin(&copy, &b, joint);
    for (uint32_t p = 0; p < c->j->n_x; p++)
        copy.values[p] = builder_param(&b, copier_type(&copy, value_type(joint, p)), joint->values[p].name);
    for (uint32_t i = 0; i < c->f->n_required; i++)
        builder_require(&b, copier_dim(&copy, c->f->required[i].a), copier_dim(&copy, c->f->required[i].b),
                        "requirement");
    bool *is_extra = ARENA_ZNEW(c->arena, bool, joint->n_values);
    val *kept = ARENA_NEW(c->arena, val, joint->n_values);
    for (uint32_t k = 0; k < n_extra; k++) is_extra[extra[k]] = true;
    for (uint32_t p = 0; p < c->j->n_x; p++)
        if (is_extra[p]) move_value(c, &copy, p, kept);
    for (uint32_t i = 0; i < c->j->n_forward; i++) {
        const struct node *n = fn_node(joint, i);
        copier_node(&copy, n);
        for (uint32_t k = 0; k < n->n_results; k++)
            if (is_extra[n->results + k]) move_value(c, &copy, n->results + k, kept);
    }
    val *out = ARENA_NEW(&b.arena, val, c->j->n_y + n_extra);
    for (uint32_t k = 0; k < c->j->n_y; k++) out[k] = copy.values[joint->results[k]];
    for (uint32_t k = 0; k < n_extra; k++) out[c->j->n_y + k] = kept[extra[k]];
    return prune_function(c->m, builder_finish(&b, out, c->j->n_y + n_extra), NULL);
}

/* Parameters of a pruned function that something reads, or that must be there to say a size. */
static void used_params(struct cut *c, uint32_t fn, bool *out)
{
    const struct fn *f = module_fn(c->m, fn);
    const bool *live = live_values(c->arena, c->m, f, (struct needs){ 0 }).value;
    if (f->n_params) memcpy(out, live, f->n_params);
    for (uint32_t s = c->f->n_outer_symbols; s < f->n_outer_symbols; s++) {
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

/* Values of the forward half that backward reads and does not make again. */
static uint32_t find_residuals(struct cut *c, val *residuals)
{
    const struct fn *joint = c->joint;
    struct symbol_walk sizes = { need_symbol, c };
    /* Sizes that types of residuals mention are said by residuals, which come before. */
    for (val v = joint->n_values; c->j->whole && v-- > 0;)
        if (c->used[v] && joint->values[v].node < c->j->n_forward)
            type_symbols(c->m, value_type(joint, v), &sizes);
    uint32_t n = 0;
    for (val v = 0; v < joint->n_values; v++) {
        uint32_t node = joint->values[v].node;
        bool kept = node == NODE_NONE ? v < c->j->n_x : node < c->j->n_forward && !c->needed[node];
        if (c->used[v] && kept) residuals[n++] = v;
    }
    return n;
}

/* Does backward make something again because a tag asks for it? */
static bool runs_tagged_again(const struct cut *c)
{
    for (val v = 0; v < c->joint->n_values; v++) {
        uint32_t node = c->joint->values[v].node;
        if (c->tag[v] != TAG_RECOMPUTE + 1 || node == NODE_NONE) continue;
        if (node < c->j->n_forward && c->needed[node]) return true;
    }
    return false;
}

/* Which result of the function v is; HOP_NONE: none. */
static uint32_t result_number(const struct cut *c, val v)
{
    for (uint32_t k = 0; k < c->j->n_y; k++)
        if (c->joint->results[k] == v) return k;
    return HOP_NONE;
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
                     .tag = ARENA_ZNEW(&arena, uint8_t, joint->n_values),
                     .tag_name = ARENA_ZNEW(&arena, uint32_t, joint->n_values) };
    mark_inner(&c);
    mark_tags(&c);
    mark_backward(&c);
    mark_segments(&c);
    if (j->recompute) save_nothing(&c);
    else choose_saved(&c);
    if (j->whole) run_again_with_sizes(&c);
    uint32_t n_ct = joint->n_params - j->n_x;
    val *residuals = ARENA_NEW(&arena, val, joint->n_values);
    bool *used = ARENA_NEW(&arena, bool, n_ct + joint->n_values);
    uint32_t n = find_residuals(&c, residuals);
    out->guarded |= c.dear_again || runs_tagged_again(&c);
    uint32_t backward = build_backward(&c, residuals, n);
    used_params(&c, backward, used);
    uint32_t n_read = 0;
    for (uint32_t i = 0; i < n; i++)
        if (used[i]) residuals[n_read++] = residuals[i];
    out->n_residuals = n_read;
    out->source_param = ARENA_NEW(&m->arena, uint32_t, n_read);
    out->source_result = ARENA_NEW(&m->arena, uint32_t, n_read);
    /* those that are neither parameters nor results, or lie elsewhere */
    val *extra = ARENA_NEW(&arena, val, n_read);
    uint32_t n_extra = 0;
    for (uint32_t i = 0; i < n_read; i++) {
        val v = residuals[i];
        bool is_param = v < j->n_x, here = !is_moved(&c, v);
        out->source_param[i] = is_param && here ? v : HOP_NONE;
        out->source_result[i] = is_param || !here ? HOP_NONE : result_number(&c, v);
        if (out->source_param[i] == HOP_NONE && out->source_result[i] == HOP_NONE) extra[n_extra++] = v;
        out->guarded |= !here;
    }
    for (uint32_t i = 0; i < n_ct; i++) out->ct_result[j->ct_of[i]] = used[n + i];
    out->backward = drop_params(&c, backward, used);
    out->forward = build_forward(&c, extra, n_extra);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}
