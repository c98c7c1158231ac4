/* Loops as the passes see them: a decoded view of scan, map, while_loop and fori_loop, and a plan (which
 * carries, slices, operands and stacks stay, what comes in from outside, what is stacked besides) from which
 * the changed loop is built. */
#include "transform/pass.h"

bool loop_decode(struct module *m, const struct fn *f, const struct node *n, struct loop *l)
{
    if (!wants_loop(n)) return false;
    const struct op_row *row = node_row(n);
    memset(l, 0, sizeof *l);
    l->n = n;
    l->scan = n->op == OP_scan || n->op == OP_map;
    l->counted = n->op == OP_fori_loop;
    l->length_attr = n->op == OP_map ? MAP_LENGTH : SCAN_LENGTH;
    l->cond_region = HOP_NONE;
    l->length = HOP_NONE;
    for (uint32_t g = 0; g < row->sig.n_groups; g++) {
        if (row->sig.groups[g].kind == GROUP_CARRY) l->n_carry = node_group_size(f, n, g);
        if (row->sig.groups[g].kind == GROUP_OVER || row->sig.groups[g].kind == GROUP_START)
            l->n_over = node_group_size(f, n, g);
    }
    for (uint32_t r = 0; r < n->n_regions; r++) {
        if (!strcmp(sig_region(row, r)->results[0], "test")) l->cond_region = r;
        else l->body_region = r;
    }
    l->body = module_fn(m, node_region(f, n, l->body_region)->fn);
    l->cond = l->cond_region == HOP_NONE ? NULL : module_fn(m, node_region(f, n, l->cond_region)->fn);
    l->n_stack = l->body->n_results - l->n_carry;
    l->n_extra = n->n_results - l->n_carry - l->n_stack;
    if (l->scan) {
        const struct attr *length = node_attr(f, n, l->length_attr);
        l->reverse = n->op == OP_scan && node_attr(f, n, SCAN_REVERSE)->kind != ATTR_ABSENT;
        l->length = length->kind != ATTR_ABSENT
                        ? (dim)length->i
                        : type_get(m, value_type(f, node_operands(f, n)[l->n_carry])).dims[0];
    }
    return true;
}

struct loop_plan plan_new(struct arena *a, const struct loop *l)
{
    struct loop_plan p = { .body = ARENA_ZNEW(a, struct param_plan, l->body->n_params),
                           .keep_stack = ARENA_NEW(a, bool, l->n_stack) };
    if (l->cond) p.cond = ARENA_ZNEW(a, struct param_plan, l->cond->n_params);
    for (uint32_t k = 0; k < l->n_stack; k++) p.keep_stack[k] = true;
    p.count_used = true;
    return p;
}

/* ---- building ---- */

static void add_params(struct copier *c, const struct region_plan *p, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (p->params[i].fate == PARAM_KEEP)
            c->values[i] = builder_param(c->b, copier_type(c, value_type(c->f, i)), c->f->values[i].name);
}

static void add_given(struct copier *c, const struct given *given, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        c->values[given[i].inner] = builder_param(c->b, copier_type(c, value_type(c->f, given[i].inner)),
                                                  c->f->values[given[i].inner].name);
}

static void copy_live_nodes(struct copier *c, const struct region_plan *p)
{
    const struct fn *g = p->g;
    struct arena *a = &c->b->arena;
    bool *given = ARENA_ZNEW(a, bool, g->n_values);
    val *alias = ARENA_NEW(a, val, g->n_values), *fixed = ARENA_NEW(a, val, g->n_values);
    memset(alias, 0xff, g->n_values * sizeof *alias);
    for (uint32_t i = 0; i < p->n_aliases; i++) alias[p->aliases[i].inner] = p->aliases[i].same;
    for (uint32_t v = 0; v < g->n_values; v++) given[v] = v >= g->n_params && c->values[v] != VAL_NONE;
    if (g->n_values) memcpy(fixed, c->values, g->n_values * sizeof *fixed);
    /* The wanted values take the place of the results for the liveness of the nodes. */
    struct fn view = *g;
    view.results = (val *)p->wanted;
    view.n_results = p->n_wanted;
    struct liveness live = live_values(a, c->b->m, &view, NULL, given, alias);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        if (live.node[i]) copier_node(c, n);
        for (uint32_t k = 0; k < n->n_results; k++) {
            val v = n->results + k;
            if (given[v]) c->values[v] = fixed[v];
            else if (alias[v] != VAL_NONE) c->values[v] = c->values[alias[v]];
        }
    }
}

uint32_t region_build(struct module *m, const struct region_plan *p, val *own, uint32_t *n_own)
{
    const struct fn *g = p->g;
    struct builder b;
    struct copier c;
    uint32_t first_with = p->n_carry + p->n_over, n = 0;
    builder_begin(&b, m, g);
    copier_begin(&c, &b, g);
    add_params(&c, p, 0, first_with);
    add_given(&c, p->over, p->n_new_over);
    for (uint32_t i = first_with; i < g->n_params; i++)
        if (p->params[i].fate == PARAM_KEEP) own[n++] = p->own[i - first_with];
    add_params(&c, p, first_with, g->n_params);
    for (uint32_t i = 0; i < g->n_params; i++)
        if (p->params[i].fate == PARAM_WITH) {
            c.values[i] = builder_param(&b, copier_type(&c, value_type(g, i)), g->values[i].name);
            own[n++] = p->params[i].outer;
        }
    for (uint32_t i = 0; i < p->n_with; i++) own[n++] = p->with[i].outer;
    add_given(&c, p->with, p->n_with);
    for (uint32_t i = 0; i < g->n_params; i++) {
        if (p->params[i].fate != PARAM_FULL) continue;
        struct type t = type_get(m, copier_type(&c, value_type(g, i)));
        struct attr attrs[3] = { p->params[i].value, A_DIMS(t.dims, t.rank), A_DTYPE(t.dtype) };
        c.values[i] = emit(&b, OP_full, NULL, 0, attrs);
    }
    for (uint32_t i = 0; i < g->n_params; i++) {
        uint32_t of = i;
        while (p->params[of].fate == PARAM_ALIAS) of = p->params[of].of;
        if (of != i) c.values[i] = c.values[of];
    }
    copy_requires(&c);
    copy_live_nodes(&c, p);
    val *results = ARENA_NEW(&b.arena, val, p->n_wanted);
    for (uint32_t k = 0; k < p->n_wanted; k++) results[k] = c.values[p->wanted[k]];
    *n_own = n;
    return builder_finish(&b, results, p->n_wanted);
}

/* The attributes of the loop after its groups changed. */
static const struct attr *plan_attrs(struct copier *c, const struct loop *l, const struct loop_plan *p,
                                     const struct attr *attrs, uint32_t n_over, uint32_t n_stack)
{
    struct attr *out = arena_copy(&c->b->arena, attrs, node_row(l->n)->sig.n_attrs * sizeof *attrs);
    if (l->scan && !n_over) out[l->length_attr] = A_DIM(copier_dim(c, l->length));
    if (!l->scan && !n_stack && l->n_extra) out[WHILE_COUNT] = A_FLAG(p->count_used);
    return out;
}

static val plan_final(const struct loop_plan *p, uint32_t carry, const val *kept)
{
    while (p->body[carry].fate == PARAM_ALIAS) carry = p->body[carry].of;
    return p->body[carry].fate == PARAM_WITH   ? p->body[carry].outer
           : p->body[carry].fate == PARAM_KEEP ? kept[carry]
                                               : VAL_NONE;
}

void plan_build(struct copier *c, const struct loop *l, struct loop_plan *p)
{
    struct arena *a = &c->b->arena;
    struct node_in in = copier_node_in(c, l->n);
    const struct fn *body = l->body;
    uint32_t n_carry = 0, n_over = 0, n_wanted = 0;
    val *operands = ARENA_NEW(a, val, l->n_carry + l->n_over + p->over.len + 1);
    val *wanted = ARENA_NEW(a, val, body->n_results + p->stacks.len);
    for (uint32_t i = 0; i < l->n_carry; i++)
        if (p->body[i].fate == PARAM_KEEP) {
            operands[n_carry++] = in.operands[i];
            wanted[n_wanted++] = body->results[i];
        }
    for (uint32_t i = l->n_carry; i < l->n_carry + l->n_over; i++)
        if (p->body[i].fate == PARAM_KEEP) operands[n_carry + n_over++] = in.operands[i];
    for (uint32_t i = 0; i < p->over.len; i++) operands[n_carry + n_over++] = p->over.data[i].outer;
    if (l->counted) operands[n_carry + n_over] = in.operands[l->n_carry + 1];
    for (uint32_t k = 0; k < l->n_stack; k++)
        if (p->keep_stack[k]) wanted[n_wanted++] = body->results[l->n_carry + k];
    for (uint32_t k = 0; k < p->stacks.len; k++) wanted[n_wanted++] = p->stacks.data[k];

    struct region_in *regions = ARENA_NEW(a, struct region_in, l->n->n_regions);
    for (uint32_t r = 0; r < l->n->n_regions; r++) {
        bool is_body = r == l->body_region;
        struct region_plan rp = { .g = is_body ? body : l->cond,
                                  .n_carry = l->n_carry,
                                  .n_over = is_body ? l->n_over : 0,
                                  .own = in.regions[r].operands };
        if (is_body) {
            rp.params = p->body;
            rp.with = p->body_with.data, rp.n_with = p->body_with.len;
            rp.over = p->over.data, rp.n_new_over = p->over.len;
            rp.aliases = p->aliases.data, rp.n_aliases = p->aliases.len;
            rp.wanted = wanted, rp.n_wanted = n_wanted;
        } else {
            memcpy(p->cond, p->body, l->n_carry * sizeof *p->cond);
            rp.params = p->cond;
            rp.with = p->cond_with.data, rp.n_with = p->cond_with.len;
            rp.wanted = l->cond->results, rp.n_wanted = l->cond->n_results;
        }
        val *own = ARENA_NEW(a, val, rp.g->n_params + rp.n_with);
        uint32_t n_own = 0, made = region_build(c->b->m, &rp, own, &n_own);
        regions[r] = (struct region_in){ made, own, n_own, in.regions[r].dims };
    }
    uint32_t groups[3] = { n_carry, n_over, 1 }; /* a map has no carries, a fori_loop has two bounds */
    in.operands = operands;
    in.n_operands = n_carry + n_over + l->counted;
    in.groups = l->n->op == OP_map ? groups + 1 : groups;
    in.regions = regions;
    in.attrs = plan_attrs(c, l, p, in.attrs, n_over, n_wanted - n_carry);
    val next = builder_node(c->b, &in), end = c->b->values.len;

    val *kept = ARENA_NEW(a, val, l->n_carry);
    p->results = ARENA_NEW(a, val, l->n->n_results);
    p->stacked = ARENA_NEW(a, val, p->stacks.len);
    for (uint32_t i = 0; i < l->n_carry; i++) kept[i] = p->body[i].fate == PARAM_KEEP ? next++ : VAL_NONE;
    for (uint32_t i = 0; i < l->n_carry; i++) p->results[i] = plan_final(p, i, kept);
    uint32_t n_stacks = n_wanted - n_carry, n_extra = n_carry + n_stacks ? end - (next + n_stacks) : 0;
    for (uint32_t i = 0; i < l->n_extra; i++) p->results[l->n_carry + i] = i < n_extra ? next + i : VAL_NONE;
    next += n_extra;
    for (uint32_t k = 0; k < l->n_stack; k++)
        p->results[loop_stack_result(l, k)] = p->keep_stack[k] ? next++ : VAL_NONE;
    for (uint32_t k = 0; k < p->stacks.len; k++) p->stacked[k] = next++;
}

/* ---- values over time ---- */

static uint32_t stack_of(const struct loop *l, const struct loop_plan *p, val v)
{
    for (uint32_t k = 0; k < l->n_stack; k++)
        if (p->keep_stack[k] && l->body->results[l->n_carry + k] == v) return k;
    return HOP_NONE;
}

static uint32_t new_stack_of(const struct loop_plan *p, val v)
{
    for (uint32_t k = 0; k < p->stacks.len; k++)
        if (p->stacks.data[k] == v) return k;
    return HOP_NONE;
}

/* A carry whose next value is stacked: its values over time are the first one and all stacked ones but the
 * last. */
static bool is_shifted(const struct copier *c, const struct loop *l, const struct loop_plan *p, val v)
{
    int64_t lo, hi;
    if (v >= l->n_carry || stack_of(l, p, l->body->results[v]) == HOP_NONE) return false;
    dim_range(c->b->m, c->f->symbols, l->length, &lo, &hi);
    return lo >= 1;
}

bool time_is_available(const struct copier *c, const struct loop *l, const struct loop_plan *p, val v)
{
    if (v >= l->n_carry && v < loop_first_with(l)) return true;
    return stack_of(l, p, v) != HOP_NONE || new_stack_of(p, v) != HOP_NONE || is_shifted(c, l, p, v);
}

void time_need(struct copier *c, const struct loop *l, struct loop_plan *p, val v)
{
    if (!time_is_available(c, l, p, v)) vec_push(&c->b->arena, &p->stacks, v);
}

static val shifted_array(struct copier *c, const struct loop *l, val init, val stack)
{
    struct module *m = c->b->m;
    struct type t = emit_type(c->b, stack);
    dim from[MAX_RANK] = { 0 }, to[MAX_RANK], one[MAX_RANK];
    memcpy(to, t.dims, t.rank * sizeof *to);
    memcpy(one, t.dims, t.rank * sizeof *one);
    one[0] = 1;
    if (l->reverse) from[0] = 1;
    else to[0] = dim_sub(m, t.dims[0], 1);
    val first = emit_reshape(c->b, init, t.rank, one), rest = emit_slice(c->b, stack, from, to);
    struct attr dim0 = A_INT(0);
    return emit(c->b, OP_concat, l->reverse ? (val[]){ rest, first } : (val[]){ first, rest }, 2, &dim0);
}

val time_array(struct copier *c, const struct loop *l, const struct loop_plan *p, val v)
{
    if (v >= l->n_carry && v < loop_first_with(l)) return c->values[node_operands(c->f, l->n)[v]];
    uint32_t k = stack_of(l, p, v), fresh = new_stack_of(p, v);
    if (k != HOP_NONE) return p->results[loop_stack_result(l, k)];
    if (fresh != HOP_NONE) return p->stacked[fresh];
    k = stack_of(l, p, l->body->results[v]);
    return shifted_array(c, l, c->values[node_operands(c->f, l->n)[v]], p->results[loop_stack_result(l, k)]);
}

bool time_fits(struct copier *c, const struct loop *l, int64_t elements)
{
    struct module *m = c->b->m;
    if (elements < 0 || !dim_is_const(m, l->length)) return true;
    return elements == 0 || dim_const_value(m, l->length) <= TIME_LIMIT / elements;
}

/* ---- invariants ---- */

bool may_not_end(const struct module *m, const struct fn *f, const struct node *n)
{
    if (n->op == OP_while_loop || n->op == OP_fori_loop) return true; /* or runs for years */
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct fn *g = module_fn(m, node_region(f, n, r)->fn);
        for (uint32_t i = 0; i < g->n_nodes; i++)
            if (may_not_end(m, g, fn_node(g, i))) return true;
    }
    return false;
}

bool *invariant_values(struct arena *a, const struct module *m, const struct fn *body, uint32_t first_with)
{
    bool *invariant = ARENA_ZNEW(a, bool, body->n_values);
    for (uint32_t p = first_with; p < body->n_params; p++) invariant[p] = true;
    for (uint32_t i = 0; i < body->n_nodes; i++) {
        const struct node *n = fn_node(body, i);
        bool all = true;
        for (uint32_t k = 0; k < n->n_operands; k++) all &= invariant[node_operands(body, n)[k]];
        if (!all || !node_is_pure(m, body, n) || node_mentions_inner(m, body, n) || may_not_end(m, body, n))
            continue;
        for (uint32_t k = 0; k < n->n_results; k++) invariant[n->results + k] = true;
    }
    return invariant;
}

val copy_cone(struct copier *inner, val v)
{
    const struct fn *g = inner->f;
    if (inner->values[v] != VAL_NONE) return inner->values[v];
    bool *need = ARENA_ZNEW(&inner->b->arena, bool, g->n_nodes);
    uint32_t last = g->values[v].node;
    need[last] = true;
    for (uint32_t i = last + 1; i-- > 0;) {
        if (!need[i]) continue;
        const struct node *n = fn_node(g, i);
        for (uint32_t k = 0; k < n->n_operands; k++) {
            val x = node_operands(g, n)[k];
            if (inner->values[x] == VAL_NONE && g->values[x].node != NODE_NONE)
                need[g->values[x].node] = true;
        }
    }
    for (uint32_t i = 0; i <= last; i++)
        if (need[i]) copier_node(inner, fn_node(g, i));
    return inner->values[v];
}
