/* What the passes share: rewriting a function node by node, putting a body in place of its node, effects and
 * symbols of nodes, liveness, and numbers under which surely equal values are found. */
#include "loop/lower.h"
#include "ops/dot.h"
#include "transform/pass.h"

static const uint64_t MEMO_PLAIN = 0x706c61696e, MEMO_KEPT = 0x6b657074, MEMO_STAND_INS = 0x7374616e64;

/* ---- rewriting ---- */

bool wants_higher(const struct node *n) { return node_row(n)->flags & OPF_HIGHER; }

bool replace_regions(struct copier *c, const struct node *n, const uint32_t *fns, val *results)
{
    bool changed = false;
    for (uint32_t r = 0; r < n->n_regions; r++) changed |= fns[r] != node_region(c->f, n, r)->fn;
    if (!changed) return false;
    struct node_in in = copier_node_in(c, n);
    struct region_in *regions = arena_copy(&c->b->arena, in.regions, n->n_regions * sizeof *regions);
    for (uint32_t r = 0; r < n->n_regions; r++) regions[r].fn = fns[r];
    in.regions = regions;
    val first = builder_node(c->b, &in);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    return true;
}

static bool may_have_alias(const struct node *n) { return n->n_regions || node_row(n)->flags & OPF_ALIAS; }

/* Values that the program asks to be kept, of the function that is built. */
struct kept_list {
    vec(val) values;
};

static bool drop_alias(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct kept_list *kept = ctx;
    bool asked = node_row(n)->flags & OPF_TAG && attr_is_word(node_attr(c->f, n, 0), TAG_KEEP);
    if (asked) vec_push(&s->m->arena, &kept->values, c->values[node_operands(c->f, n)[0]]);
    for (uint32_t k = 0; k < n->n_results && node_row(n)->flags & OPF_ALIAS; k++)
        results[k] = c->values[node_operands(c->f, n)[k]];
    if (!n->n_regions) return true;
    uint32_t *fns = ARENA_NEW(&c->b->arena, uint32_t, n->n_regions);
    for (uint32_t r = 0; r < n->n_regions; r++) fns[r] = without_aliases(s->m, node_region(c->f, n, r)->fn);
    return replace_regions(c, n, fns, results);
}

uint32_t without_aliases(struct module *m, uint32_t fn)
{
    static const struct pass_options everything;
    const uint64_t key[4] = { MEMO_PLAIN, fn };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.fn;
    hop_check_stack();
    struct simplifier s = { .m = m, .o = &everything, .root = fn };
    struct kept_list kept = { 0 };
    uint32_t out = rewrite_nodes(&s, fn, may_have_alias, drop_alias, &kept);
    memo_put(m, key, (union memo_value){ .fn = out });
    if (!kept.values.len) return out;
    bool *asked = ARENA_ZNEW(&m->arena, bool, module_fn(m, out)->n_values);
    for (uint32_t i = 0; i < kept.values.len; i++) asked[kept.values.data[i]] = true;
    const uint64_t kept_key[4] = { MEMO_KEPT, out };
    memo_put(m, kept_key, (union memo_value){ .record = asked });
    return out;
}

const bool *kept_values(const struct module *m, uint32_t fn)
{
    const uint64_t key[4] = { MEMO_KEPT, fn };
    union memo_value known;
    return memo_get(m, key, &known) ? known.record : NULL;
}

static bool put_in_place(struct simplifier *s, struct copier *c, const struct node *n, val *results,
                         void *ctx)
{
    const struct op_row *row = node_row(n);
    HOP_UNUSED(ctx);
    if (row->stands_for) {
        row->stands_for(c, n, results);
        return true;
    }
    uint32_t *fns = ARENA_NEW(&c->b->arena, uint32_t, n->n_regions);
    for (uint32_t r = 0; r < n->n_regions; r++) fns[r] = with_stand_ins(s->m, node_region(c->f, n, r)->fn);
    return replace_regions(c, n, fns, results);
}

uint32_t with_stand_ins(struct module *m, uint32_t fn)
{
    static const struct pass_options everything;
    const uint64_t key[4] = { MEMO_STAND_INS, fn };
    union memo_value known;
    if (!m->has_stand_ins) return fn;
    if (memo_get(m, key, &known)) return known.fn;
    hop_check_stack();
    struct simplifier s = { .m = m, .o = &everything, .root = fn };
    uint32_t out = rewrite_nodes(&s, fn, wants_higher, put_in_place, NULL);
    memo_put(m, key, (union memo_value){ .fn = out });
    return out;
}

void copy_requires(struct copier *c)
{
    const struct require *required = c->f->required;
    for (uint32_t i = 0; i < c->f->n_required; i++) {
        c->b->place = required[i].place;
        builder_require(c->b, copier_dim(c, required[i].a), copier_dim(c, required[i].b), "requirement");
    }
    c->b->place = (struct place){ 0 };
}

uint32_t rewrite_nodes(struct simplifier *s, uint32_t fn, bool (*wants)(const struct node *n), node_rule rule,
                       void *ctx)
{
    const struct fn *f = module_fn(s->m, fn);
    bool any = !wants, fired = false;
    for (uint32_t i = 0; i < f->n_nodes && !any; i++) any = wants(fn_node(f, i));
    if (!any) return fn;
    struct builder b;
    struct copier c;
    builder_begin(&b, s->m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    copy_requires(&c);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        val *results = ARENA_NEW(&b.arena, val, n->n_results);
        b.place = n->place;
        if ((!wants || wants(n)) && rule(s, &c, n, results, ctx)) {
            copier_bind(&c, n, results);
            fired = true;
        } else {
            copier_node(&c, n);
        }
    }
    if (!fired) {
        builder_abandon(&b);
        return fn;
    }
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

struct copier region_copier(struct copier *c, const struct node *n, uint32_t r)
{
    return region_copier_of(c, n, r, module_fn(c->b->m, node_region(c->f, n, r)->fn));
}

struct copier region_copier_of(struct copier *c, const struct node *n, uint32_t r, const struct fn *g)
{
    const struct region *region = node_region(c->f, n, r);
    const val *own = node_region_operands(c->f, n, r);
    struct copier inner;
    copier_begin(&inner, c->b, g);
    for (uint32_t k = 0; k < region->n_dims; k++) inner.symbols[k] = copier_dim(c, region->dims[k]);
    for (uint32_t i = 0; i < region->n_operands; i++)
        inner.values[g->n_params - region->n_operands + i] = c->values[own[i]];
    return inner;
}

void inline_region(struct copier *c, const struct node *n, uint32_t r, const val *arguments, val *results)
{
    struct copier inner = region_copier(c, n, r);
    for (uint32_t p = 0; p < inner.f->n_params; p++) inner.values[p] = arguments[p];
    copier_body(&inner, results);
}

/* ---- facts ---- */

bool node_is_pure(const struct module *m, const struct fn *f, const struct node *n)
{
    return !(node_row(n)->flags & OPF_NO_MERGE) && effects_are_none(node_effects(m, f, n));
}

bool node_binds_symbols(const struct fn *f, const struct node *n)
{
    uint32_t index = (uint32_t)(n - f->nodes);
    for (uint32_t s = f->n_outer_symbols; s < f->n_symbols; s++)
        if (f->symbols[s].index == index) return true;
    return false;
}

static bool symbol_not_below(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

bool dim_is_inner(const struct module *m, const struct fn *f, dim d)
{
    return d & DIM_TABLE && f->n_symbols > f->n_outer_symbols &&
           dim_mentions(m, d, symbol_not_below, (void *)&f->n_outer_symbols);
}

bool type_is_inner(const struct module *m, const struct fn *f, type_id t)
{
    struct type type = type_get(m, t);
    for (uint32_t i = 0; i < type.rank; i++)
        if (dim_is_inner(m, f, type.dims[i])) return true;
    return false;
}

static bool walk_symbol(void *ctx, uint32_t symbol)
{
    struct symbol_walk *w = ctx;
    w->visit(w->ctx, symbol);
    return false;
}

void dim_symbols(const struct module *m, dim d, struct symbol_walk *w)
{
    if (d & DIM_TABLE) dim_mentions(m, d, walk_symbol, w);
}

void type_symbols(const struct module *m, type_id t, struct symbol_walk *w)
{
    struct type type = type_get(m, t);
    for (uint32_t i = 0; i < type.rank; i++) dim_symbols(m, type.dims[i], w);
}

void node_symbols(const struct module *m, const struct fn *f, const struct node *n, struct symbol_walk *w)
{
    for (uint32_t i = 0; i < node_row(n)->sig.n_attrs; i++) {
        const struct attr *a = node_attr(f, n, i);
        if (a->kind == ATTR_DIM) dim_symbols(m, (dim)a->i, w);
        for (uint32_t k = 0; a->kind == ATTR_DIMS && k < a->n; k++) dim_symbols(m, a->list[k], w);
    }
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct region *region = node_region(f, n, r);
        for (uint32_t k = 0; k < region->n_dims; k++) dim_symbols(m, region->dims[k], w);
    }
}

void result_symbols(const struct module *m, const struct fn *f, const struct node *n, struct symbol_walk *w)
{
    for (uint32_t k = 0; k < n->n_results; k++) type_symbols(m, value_type(f, n->results + k), w);
}

struct inner_symbols {
    const struct fn *f;
    bool found;
};
static void note_inner(void *ctx, uint32_t symbol)
{
    struct inner_symbols *inner = ctx;
    inner->found |= symbol >= inner->f->n_outer_symbols;
}

bool node_mentions_inner(const struct module *m, const struct fn *f, const struct node *n)
{
    if (f->n_symbols == f->n_outer_symbols) return false;
    struct inner_symbols inner = { f, false };
    struct symbol_walk walk = { note_inner, &inner };
    node_symbols(m, f, n, &walk);
    result_symbols(m, f, n, &walk);
    return inner.found;
}

int64_t static_elements(struct module *m, type_id t)
{
    struct type type = type_get(m, t);
    int64_t n = 1;
    for (uint32_t i = 0; i < type.rank; i++) {
        if (!dim_is_const(m, type.dims[i])) return -1;
        n *= dim_const_value(m, type.dims[i]); /* no overflow: types bound their bytes */
    }
    return n;
}

const struct node *built_node(const struct builder *b, val v)
{
    uint32_t node = b->values.data[v].node;
    return node == NODE_NONE ? NULL : &b->nodes.data[node];
}

bool full_value(const struct builder *b, val v, struct attr *value)
{
    const struct node *n = built_node(b, v);
    if (!n || n->op != OP_full) return false;
    *value = *built_attr(b, n, FULL_VALUE);
    return true;
}

bool node_sliced(const struct module *m, const struct fn *f, const struct node *n, uint32_t axis,
                 uint32_t *along)
{
    const struct op_row *row = node_row(n);
    if (n->n_results != 1 || n->n_regions || !node_is_pure(m, f, n)) return false;
    for (uint32_t k = 0; k < n->n_operands; k++) along[k] = HOP_NONE;
    if (row->sliced) return row->sliced(m, f, n, axis, along);
    if (row->flags & OPF_ELEMENTWISE) {
        for (uint32_t k = 0; k < n->n_operands; k++) along[k] = axis;
        return true;
    }
    uint32_t rank = type_get(m, value_type(f, n->results)).rank;
    if (node_is_product(n)) {
        struct dot_dims d;
        dot_dims(m, f, n, &d);
        bool batch = axis < d.n_batch, rhs = axis >= d.n_batch + d.n_lhs_free;
        if (batch) along[0] = d.batch_lhs[axis];
        if (batch) along[1] = d.batch_rhs[axis];
        else along[rhs] = rhs ? d.rhs_free[axis - d.n_batch - d.n_lhs_free] : d.lhs_free[axis - d.n_batch];
        return true;
    }
    if (!row->source_dims) return false;
    uint32_t from[MAX_RANK];
    row->source_dims(node_attr(f, n, 0), type_get(m, value_type(f, node_operands(f, n)[0])).rank, rank, from);
    along[0] = from[axis];
    return true;
}

/* ---- liveness ---- */

static void mark_symbol(void *ctx, uint32_t symbol) { ((bool *)ctx)[symbol] = true; }

struct liveness live_values(struct arena *a, const struct module *m, const struct fn *f, struct needs needs)
{
    struct liveness l = { ARENA_ZNEW(a, bool, f->n_values), ARENA_ZNEW(a, bool, f->n_nodes),
                          ARENA_ZNEW(a, bool, f->n_symbols) };
    struct symbol_walk walk = { mark_symbol, l.symbol };
    for (uint32_t k = 0; k < f->n_results; k++)
        if (!needs.wanted || needs.wanted[k]) l.value[f->results[k]] = true;
    uint32_t last = f->n_symbols;
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        bool live = !needs.strip && !effects_may_drop(node_effects(m, f, n));
        for (uint32_t k = 0; k < n->n_results; k++) {
            val v = n->results + k;
            if (!l.value[v] || (needs.given && needs.given[v])) continue;
            if (needs.alias && needs.alias[v] != VAL_NONE) l.value[needs.alias[v]] = true;
            else live = true;
        }
        while (last > f->n_outer_symbols && f->symbols[last - 1].index >= i)
            live |= l.symbol[--last]; /* symbols stand in the order of their nodes */
        if (!live) continue;
        l.node[i] = true;
        for (uint32_t k = 0; k < n->n_operands; k++) l.value[node_operands(f, n)[k]] = true;
        if (f->n_symbols == f->n_outer_symbols) continue;
        node_symbols(m, f, n, &walk);
        result_symbols(m, f, n, &walk);
    }
    return l;
}

/* ---- value numbers ---- */

bool attrs_equal(const struct attr *a, const struct attr *b)
{
    if (a->kind != b->kind || a->n != b->n) return false;
    if (attr_is_list(a)) return !a->n || !memcmp(a->list, b->list, a->n * sizeof *a->list);
    return a->kind == ATTR_ABSENT || a->i == b->i; /* reals by their bits */
}

static uint64_t attr_hash(const struct attr *a)
{
    if (attr_is_list(a)) return a->n ? hash_bytes(a->list, a->n * sizeof *a->list, a->kind) : a->kind;
    return a->kind == ATTR_ABSENT ? 0 : hash_mix(a->kind, (uint64_t)a->i);
}

bool same_constant(const struct module *m, const struct node *x, const struct attr *x_attrs,
                   const struct node *y, const struct attr *y_attrs)
{
    if (x->op != y->op || x->n_operands || y->n_operands || x->n_results != 1 || x->n_regions) return false;
    for (uint32_t k = 0; k < node_row(x)->sig.n_attrs; k++) {
        if (!attrs_equal(&x_attrs[k], &y_attrs[k])) return false;
        if (x_attrs[k].kind == ATTR_DIM && !dim_is_const(m, (dim)x_attrs[k].i)) return false;
        for (uint32_t i = 0; x_attrs[k].kind == ATTR_DIMS && i < x_attrs[k].n; i++)
            if (!dim_is_const(m, x_attrs[k].list[i])) return false;
    }
    return true;
}

/* Operand classes, ordered where the operator commutes. */
static void operand_classes(const struct fn *f, const struct node *n, const uint32_t *class, uint32_t *out)
{
    for (uint32_t k = 0; k < n->n_operands; k++) out[k] = class[node_operands(f, n)[k]];
    if (node_row(n)->flags & OPF_COMMUTES && n->n_operands == 2 && out[0] > out[1]) {
        uint32_t first = out[0];
        out[0] = out[1];
        out[1] = first;
    }
}

static bool nodes_equal(const struct fn *f, const struct node *x, const struct node *y, const uint32_t *class,
                        uint32_t *scratch)
{
    const struct op_row *row = node_row(x);
    if (x->op != y->op || x->n_operands != y->n_operands) return false;
    if (x->n_results != y->n_results || x->n_regions != y->n_regions) return false;
    operand_classes(f, x, class, scratch);
    operand_classes(f, y, class, scratch + x->n_operands);
    if (x->n_operands && memcmp(scratch, scratch + x->n_operands, x->n_operands * sizeof *scratch))
        return false;
    for (uint32_t g = 0; g < row->sig.n_groups; g++)
        if (node_group_size(f, x, g) != node_group_size(f, y, g)) return false;
    for (uint32_t k = 0; k < row->sig.n_attrs; k++)
        if (!attrs_equal(node_attr(f, x, k), node_attr(f, y, k))) return false;
    for (uint32_t r = 0; r < x->n_regions; r++) {
        const struct region *g = node_region(f, x, r), *h = node_region(f, y, r);
        if (g->fn != h->fn || g->n_operands != h->n_operands || g->n_dims != h->n_dims) return false;
        if (g->n_dims && memcmp(g->dims, h->dims, g->n_dims * sizeof *g->dims)) return false;
    }
    return true;
}

void number_values(struct arena *a, const struct module *m, const struct fn *f, const uint32_t *param_class,
                   uint32_t *class)
{
    struct map *seen = ARENA_ZNEW(a, struct map, 1);
    seen->arena = a;
    uint32_t most = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) most = HOP_MAX(most, fn_node(f, i)->n_operands);
    uint32_t *scratch = ARENA_NEW(a, uint32_t, 2 * (size_t)most);
    for (uint32_t v = 0; v < f->n_values; v++) class[v] = param_class && v < f->n_params ? param_class[v] : v;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (!node_is_pure(m, f, n) || !n->n_results) continue;
        uint64_t h = hash_mix(n->op, n->n_operands);
        operand_classes(f, n, class, scratch);
        for (uint32_t k = 0; k < n->n_operands; k++) h = hash_mix(h, scratch[k]);
        for (uint32_t k = 0; k < node_row(n)->sig.n_attrs; k++)
            h = hash_mix(h, attr_hash(node_attr(f, n, k)));
        for (uint32_t r = 0; r < n->n_regions; r++) h = hash_mix(h, node_region(f, n, r)->fn);
        bool found = false;
        for (uint32_t it = map_first(seen, h); it != HOP_NONE && !found; it = map_next(seen, h, it)) {
            const struct node *other = fn_node(f, map_value(seen, it));
            if (!nodes_equal(f, n, other, class, scratch)) continue;
            for (uint32_t k = 0; k < n->n_results; k++) class[n->results + k] = other->results + k;
            found = true;
        }
        if (!found) map_put(seen, h, i);
    }
}
