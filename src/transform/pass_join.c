/* Joining loops: a scan over what another of the same length and direction stacks, row by row as it comes,
 * becomes one loop with it, so that the rows are handed over within a step and need no array between the two.
 * Two small ones that have nothing to do with each other become one as well: a step waits for the one before
 * it, and the steps of two loops wait at the same time. */
#include "loop/lower.h"
#include "transform/pass.h"

enum {
    /* Elements that a step of both reads and writes, */
    SMALL_STEP = 32,    /* where nothing but waiting is saved */
    SHARED_STEP = 1024, /* where they go over the same array, which is then read once */
    MOST_NODES = 96,    /* in both bodies */
    LOOK_BACK = 8       /* scans before it that are tried */
};

struct pair {
    uint32_t first, second; /* nodes */
    struct loop a, b;
    bool *depends; /* per node: does it need a result of the first? */
};

static bool reads_any(const struct fn *f, const struct node *n, const struct node *of)
{
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (node_operands(f, n)[k] - of->results < of->n_results) return true;
    return false;
}

static uint32_t readers(const struct fn *f, val v)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < f->n_results; k++) n += f->results[k] == v;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *node = fn_node(f, i);
        for (uint32_t k = 0; k < node->n_operands; k++) n += node_operands(f, node)[k] == v;
    }
    return n;
}

/* Which stack of the first the second's parameter p is a row of; HOP_NONE: none. */
static uint32_t handed_over(const struct pair *p, uint32_t param)
{
    if (!loop_is_over(&p->b, param)) return HOP_NONE;
    uint32_t k = loop_operand(&p->b, param) - (p->a.n->results + loop_stack_result(&p->a, 0));
    return k < p->a.n_stack ? k : HOP_NONE;
}

/* Which parameter of the first is a slice of the same array as the second's parameter `param`; HOP_NONE:
 * none, or its type mentions symbols, which are each body's own. */
static uint32_t same_slice(const struct module *m, const struct pair *p, uint32_t param)
{
    if (!loop_is_over(&p->b, param)) return HOP_NONE;
    struct type t = type_get(m, value_type(p->b.body, param));
    for (uint32_t d = 0; d < t.rank; d++)
        if (!dim_is_const(m, t.dims[d])) return HOP_NONE;
    for (uint32_t i = 0; i < p->a.n_over; i++)
        if (p->a.over[i] == loop_operand(&p->b, param)) return p->a.n_carry + i;
    return HOP_NONE;
}

static bool has_schedule(const struct loop *l)
{
    for (uint32_t k = 0; k < LOOP_SCHEDULE_ATTRS; k++)
        if (l->schedule[k].kind != ATTR_ABSENT) return true;
    return false;
}

/* What the second's symbols are in the joined body: those of the first that mean the same, new ones
 * otherwise. */
static void common_symbols(struct module *m, const struct pair *p, dim *symbols, dim *dims, uint32_t *n_dims)
{
    *n_dims = p->a.body->n_outer_symbols;
    memcpy(dims, p->a.dims, *n_dims * sizeof *dims);
    for (uint32_t k = 0; k < p->b.body->n_outer_symbols; k++) {
        uint32_t j = 0;
        while (j < *n_dims && dims[j] != p->b.dims[k]) j++;
        if (j == *n_dims) dims[(*n_dims)++] = p->b.dims[k];
        symbols[k] = dim_symbol(m, j);
    }
}

static bool rows_fit(struct arena *arena, struct module *m, const struct pair *p)
{
    uint32_t n_a = p->a.body->n_outer_symbols, n_b = p->b.body->n_outer_symbols, n_dims;
    dim *symbols = ARENA_NEW(arena, dim, n_b + 1);
    dim *dims = ARENA_NEW(arena, dim, n_a + n_b + 1);
    common_symbols(m, p, symbols, dims, &n_dims);
    for (uint32_t i = p->b.n_carry; i < loop_first_with(&p->b); i++) {
        uint32_t k = handed_over(p, i);
        if (k == HOP_NONE) continue;
        type_id read = type_substitute(m, value_type(p->b.body, i), symbols);
        type_id row = value_type(p->a.body, p->a.body->results[p->a.n_carry + k]);
        if (read != row) return false;
    }
    return true;
}

static bool may_join(struct module *m, const struct fn *f, struct pair *p)
{
    const struct node *a = fn_node(f, p->first), *b = fn_node(f, p->second);
    if (!loop_of_node(m, f, a, &p->a) || !loop_of_node(m, f, b, &p->b)) return false;
    if (p->a.kind != LOOP_SCAN || p->b.kind != LOOP_SCAN) return false;
    if (has_schedule(&p->a) || has_schedule(&p->b)) return false;
    /* The second's first steps come before the first's last ones. */
    if (!effects_commute(node_effects(m, f, a), node_effects(m, f, b))) return false;
    return p->a.length == p->b.length && p->a.reverse == p->b.reverse;
}

/* Finds what needs the first; false: something between the two that does cannot wait until after the second,
 * nor can the first until then. */
static bool find_dependent(struct arena *arena, struct module *m, const struct fn *f, struct pair *p)
{
    p->depends = ARENA_ZNEW(arena, bool, f->n_nodes);
    p->depends[p->first] = true;
    effect_set first = node_effects(m, f, fn_node(f, p->first)), wait = EFFECT_NONE;
    effect_set second = node_effects(m, f, fn_node(f, p->second));
    for (uint32_t i = p->first + 1; i < p->second; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; k < n->n_operands; k++) {
            uint32_t made = f->values[node_operands(f, n)[k]].node;
            p->depends[i] |= made != NODE_NONE && p->depends[made];
        }
        effect_set effects = node_effects(m, f, n);
        if (p->depends[i] && node_binds_symbols(f, n)) return false;
        if (!effects_commute(effects, p->depends[i] ? second : first | wait)) return false;
        if (p->depends[i]) wait |= effects;
    }
    return true;
}

static int64_t elements_of(struct module *m, const struct fn *f, val v)
{
    struct type t = type_get(m, value_type(f, v));
    int64_t n = 1;
    for (uint32_t i = 0; i < t.rank && n <= SHARED_STEP; i++) {
        int64_t size = SHARED_STEP + 1;
        if (dim_is_const(m, t.dims[i])) size = HOP_MIN(dim_const_value(m, t.dims[i]), size);
        n *= size;
    }
    return n;
}

/* Elements that a step touches; more than SHARED_STEP: the body is not small, or holds what is better off in
 * a loop of its own. */
static int64_t small_step(struct module *m, const struct loop *l)
{
    const struct fn *g = l->body;
    int64_t n = 0, room = 0;
    if (!l->n_carry || g->n_nodes > MOST_NODES) return SHARED_STEP + 1; /* without a carry no step waits */
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *node = fn_node(g, i);
        const struct op_lower *lower = node_row(node)->lower;
        if (node->n_regions || !lower || lower->kind != LOWER_POINTWISE) return SHARED_STEP + 1;
    }
    for (uint32_t v = 0; v < g->n_values; v++)
        if (v < loop_first_with(l) || v >= g->n_params) room = HOP_MAX(room, elements_of(m, g, v));
    for (uint32_t i = 0; i < loop_first_with(l); i++) n += elements_of(m, g, i);
    for (uint32_t k = l->n_carry; k < g->n_results; k++) n += elements_of(m, g, g->results[k]);
    return HOP_MAX(n, room);
}

/* Is a stack of the first done with before the second begins? Joined, it would have to last longer. */
static bool keeps_longer(const struct fn *f, const struct pair *p)
{
    for (uint32_t k = 0; k < p->a.n_stack; k++) {
        val v = p->a.n->results + loop_stack_result(&p->a, k);
        bool later = false;
        for (uint32_t i = 0; i < f->n_results; i++) later |= f->results[i] == v;
        for (uint32_t i = p->second + 1; i < f->n_nodes && !later; i++) {
            const struct node *n = fn_node(f, i);
            for (uint32_t j = 0; j < n->n_operands; j++) later |= node_operands(f, n)[j] == v;
        }
        if (!later) return true;
    }
    return false;
}

/* Do the two gain by taking their steps together? */
static bool small_together(struct module *m, const struct pair *p)
{
    if (p->a.body->n_nodes + p->b.body->n_nodes > MOST_NODES) return false;
    int64_t shared = 0, n = small_step(m, &p->a);
    if (n > SHARED_STEP) return false;
    n += small_step(m, &p->b);
    if (n > 2 * SHARED_STEP) return false;
    for (uint32_t i = p->b.n_carry; i < loop_first_with(&p->b); i++)
        if (same_slice(m, p, i) != HOP_NONE || handed_over(p, i) != HOP_NONE)
            shared += elements_of(m, p->b.body, i);
    return n - shared <= (shared ? SHARED_STEP : SMALL_STEP);
}

/* May the two be one, and does that save an array or time? Either the second reads rows of the first, and
 * nothing else that needs it, or nothing of it at all. */
static bool joins(struct arena *arena, struct module *m, const struct fn *f, struct pair *p)
{
    const struct node *b = fn_node(f, p->second);
    if (!may_join(m, f, p)) return false;
    bool reads = reads_any(f, b, p->a.n), small = small_together(m, p);
    bool saves = false; /* an array that only the second reads */
    if ((!reads && !small) || !find_dependent(arena, m, f, p)) return false;
    for (uint32_t k = 0; k < b->n_operands; k++) {
        val v = node_operands(f, b)[k];
        uint32_t made = f->values[v].node, stack = handed_over(p, k);
        if (stack != HOP_NONE) saves |= readers(f, v) == 1;
        else if (made != NODE_NONE && p->depends[made]) return false;
    }
    if (!reads) return !keeps_longer(f, p);
    return (saves || small) && rows_fit(arena, m, p);
}

/* Parameters of both bodies, group by group; what the second reads of the first is none. `own` gets what the
 * last group stands for, its number comes back. */
static uint32_t joined_params(struct copier *c, const struct pair *p, struct builder *b,
                              struct copier inner[2], val *own)
{
    const struct loop *loops[2] = { &p->a, &p->b };
    enum { CARRIES, SLICES, OWN, GROUPS };
    uint32_t n_own = 0;
    for (uint32_t group = CARRIES; group < GROUPS; group++)
        for (uint32_t w = 0; w < 2; w++) {
            const struct loop *l = loops[w];
            uint32_t at[GROUPS + 1] = { 0, l->n_carry, loop_first_with(l), l->body->n_params };
            for (uint32_t i = at[group]; i < at[group + 1]; i++) {
                if (w == 1 && handed_over(p, i) != HOP_NONE) continue;
                uint32_t same = w == 1 ? same_slice(b->m, p, i) : HOP_NONE;
                if (same != HOP_NONE) {
                    inner[1].values[i] = inner[0].values[same];
                    continue;
                }
                type_id type = copier_type(&inner[w], value_type(l->body, i));
                inner[w].values[i] = builder_param(b, type, l->body->values[i].name);
                if (group == OWN) own[n_own++] = c->values[loop_operand(l, i)];
            }
        }
    return n_own;
}

/* (carries of both; slices of both; own operands of both) */
static struct region_in joined_body(struct copier *c, const struct pair *p)
{
    struct builder *around = c->b, b;
    struct module *m = around->m;
    const struct fn *fa = p->a.body, *fb = p->b.body;
    uint32_t n_a = fa->n_outer_symbols, n_b = fb->n_outer_symbols;
    dim *symbols = ARENA_NEW(&around->arena, dim, n_b + 1);
    dim *dims = ARENA_NEW(&around->arena, dim, n_a + n_b + 1);
    val *own = ARENA_NEW(&around->arena, val, p->a.n_with + p->b.n_with);
    uint32_t n_dims, n = 0;
    common_symbols(m, p, symbols, dims, &n_dims);
    struct copier inner[2];
    builder_begin(&b, m, fa);
    for (uint32_t k = fa->n_outer_symbols; k < n_dims; k++) {
        uint32_t from = 0, index;
        while (!dim_is_symbol(m, symbols[from], &index) || index != k) from++;
        builder_symbol(&b, fb->symbols[from].name, fb->symbols[from].lo, fb->symbols[from].hi);
    }
    copier_begin(&inner[0], &b, fa);
    copier_begin(&inner[1], &b, fb);
    for (uint32_t k = 0; k < n_b; k++) inner[1].symbols[k] = symbols[k];
    uint32_t n_own = joined_params(c, p, &b, inner, own);
    copy_requires(&inner[0]);
    copy_requires(&inner[1]);
    val *ya = ARENA_NEW(&b.arena, val, fa->n_results);
    val *yb = ARENA_NEW(&b.arena, val, fb->n_results);
    val *results = ARENA_NEW(&b.arena, val, fa->n_results + fb->n_results);
    copier_body(&inner[0], ya);
    for (uint32_t i = p->b.n_carry; i < loop_first_with(&p->b); i++) {
        uint32_t k = handed_over(p, i);
        if (k != HOP_NONE) inner[1].values[i] = ya[p->a.n_carry + k];
    }
    copier_body(&inner[1], yb);
    for (uint32_t i = 0; i < p->a.n_carry; i++) results[n++] = ya[i];
    for (uint32_t i = 0; i < p->b.n_carry; i++) results[n++] = yb[i];
    for (uint32_t i = p->a.n_carry; i < fa->n_results; i++) results[n++] = ya[i];
    for (uint32_t i = p->b.n_carry; i < fb->n_results; i++) results[n++] = yb[i];
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = copier_dim(c, dims[k]);
    return (struct region_in){ builder_finish(&b, results, n), own, n_own, dims };
}

static void emit_joined(struct copier *c, const struct pair *p)
{
    struct builder *b = c->b;
    const struct node *na = p->a.n, *nb = p->b.n;
    val *carry = ARENA_NEW(&b->arena, val, p->a.n_carry + p->b.n_carry);
    val *over = ARENA_NEW(&b->arena, val, p->a.n_over + p->b.n_over);
    val *ra = ARENA_NEW(&b->arena, val, na->n_results);
    val *rb = ARENA_NEW(&b->arena, val, nb->n_results);
    struct loop made = loop_new(LOOP_SCAN);
    made.carry = carry;
    made.over = over;
    made.reverse = p->a.reverse;
    made.length = copier_dim(c, p->a.length);
    made.place = nb->place;
    for (uint32_t i = 0; i < p->a.n_carry; i++) carry[made.n_carry++] = c->values[p->a.carry[i]];
    for (uint32_t i = 0; i < p->b.n_carry; i++) carry[made.n_carry++] = c->values[p->b.carry[i]];
    for (uint32_t i = 0; i < p->a.n_over; i++) over[made.n_over++] = c->values[p->a.over[i]];
    for (uint32_t i = p->b.n_carry; i < loop_first_with(&p->b); i++)
        if (handed_over(p, i) == HOP_NONE && same_slice(b->m, p, i) == HOP_NONE)
            over[made.n_over++] = c->values[loop_operand(&p->b, i)];
    loop_set_body(&made, b->m, joined_body(c, p));
    struct loop_results joined = loop_build(b, &made);
    for (uint32_t i = 0; i < p->a.n_carry; i++) ra[i] = joined.last++;
    for (uint32_t i = 0; i < p->b.n_carry; i++) rb[i] = joined.last++;
    for (uint32_t k = 0; k < p->a.n_stack; k++) ra[loop_stack_result(&p->a, k)] = joined.stacks++;
    for (uint32_t k = 0; k < p->b.n_stack; k++) rb[loop_stack_result(&p->b, k)] = joined.stacks++;
    copier_bind(c, na, ra);
    copier_bind(c, nb, rb);
}

/* What stands between the two and needs the first comes after both. */
static uint32_t join_pair(struct module *m, const struct fn *f, const struct pair *p)
{
    struct builder b;
    struct copier c;
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    copy_requires(&c);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        b.place = fn_node(f, i)->place;
        if (i == p->second) {
            emit_joined(&c, p);
            for (uint32_t k = p->first + 1; k < p->second; k++)
                if (p->depends[k]) copier_node(&c, fn_node(f, k));
        } else if (i < p->first || i > p->second || !p->depends[i]) {
            copier_node(&c, fn_node(f, i));
        }
    }
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

static uint32_t join_once(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    struct arena a = { 0 };
    uint32_t out = fn, before[LOOK_BACK], n_before = 0;
    hop_cleanup_push(arena_free, &a);
    for (uint32_t j = 0; j < f->n_nodes && out == fn; j++) {
        const struct node *n = fn_node(f, j);
        if (node_loop_kind(n) != LOOP_SCAN) continue;
        for (uint32_t k = 0; k < n->n_operands && n_before && out == fn; k++) {
            struct pair p = { .first = f->values[node_operands(f, n)[k]].node, .second = j };
            if (p.first != NODE_NONE && joins(&a, s->m, f, &p)) out = join_pair(s->m, f, &p);
        }
        for (uint32_t k = 0; k < HOP_MIN(n_before, (uint32_t)LOOK_BACK) && out == fn; k++) {
            struct pair p = { .first = before[(n_before - 1 - k) % LOOK_BACK], .second = j };
            if (joins(&a, s->m, f, &p)) out = join_pair(s->m, f, &p);
        }
        before[n_before++ % LOOK_BACK] = j;
    }
    hop_cleanup_pop(&a);
    arena_free(&a);
    return out;
}

uint32_t pass_join(struct simplifier *s, uint32_t fn)
{
    for (;;) {
        uint32_t now = join_once(s, fn);
        if (now == fn) return fn;
        fn = now;
    }
}
