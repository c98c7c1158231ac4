/* Dead code: nodes nobody needs, and what higher-order nodes carry along for nobody: results of branches and
 * calls, carries, slices, stacked results, operands that a body does not read. One eliminator serves the pass
 * and the transforms. It goes over a function once, from its end: where it meets a live higher-order node it
 * makes the node's bodies anew without what nobody needs of them, so that what they need is known before the
 * nodes above them are looked at. */
#include "transform/pass.h"
#include "transform/transform.h"

/* ---- what is needed of a function ---- */

/* What becomes of a live node. A node without regions has only `live`. */
struct node_plan {
    bool live;
    bool *results;  /* kept, per result */
    bool *operands; /* kept, per operand */
    uint32_t *fns;  /* per region: the body that remains */
    bool count;     /* a loop that counts: somebody reads the number of trips */
};
/* What holds for a function and for the bodies in it. */
struct mode {
    bool strip;        /* effects keep nothing alive */
    bool calls_remain; /* calls keep all results: what else calls the same body is not known */
};
struct trimming {
    struct module *m;
    const struct fn *f;
    struct arena *arena;
    struct mode mode;
    const bool *const *calls; /* per call of f, a node: results that some call of the same body reads; NULL:
                                 f has no calls, or nothing is known of them */
    bool *values;             /* used */
    struct node_plan *nodes;
};

/* A function without some results, and which of its parameters it still has. */
struct trimmed {
    uint32_t fn;
    bool *params;
};
static const struct trimmed *trim_body(const struct trimming *t, uint32_t fn, const bool *results,
                                       const bool *stay);
static const bool *params_read(const struct trimming *t, uint32_t fn, const bool *results);

/* The result to be kept so that the symbol stays bound: the first of its node that has it as a dim; VAL_NONE
 * where a used one has it, or where f's caller says it. */
static val binding_result(const struct module *m, const struct fn *f, uint32_t symbol, const bool *used)
{
    if (symbol < f->n_outer_symbols) return VAL_NONE;
    const struct node *n = fn_node(f, f->symbols[symbol].index);
    val first = VAL_NONE;
    for (uint32_t k = 0; k < n->n_results; k++) {
        val v = n->results + k;
        struct type t = type_get(m, value_type(f, v));
        uint32_t bound;
        for (uint32_t i = 0; i < t.rank; i++) {
            if (!dim_is_symbol(m, t.dims[i], &bound) || bound != symbol) continue;
            if (used[v]) return VAL_NONE;
            if (first == VAL_NONE) first = v;
        }
    }
    return first;
}

static void use_type(struct trimming *t, val v);

static void use_symbol(void *ctx, uint32_t symbol)
{
    struct trimming *t = ctx;
    val v = binding_result(t->m, t->f, symbol, t->values);
    if (v == VAL_NONE) return;
    t->values[v] = true;
    use_type(t, v);
}

static void use_type(struct trimming *t, val v)
{
    struct symbol_walk walk = { use_symbol, t };
    type_symbols(t->m, value_type(t->f, v), &walk);
}

/* ---- higher-order nodes ---- */

/* Follows what wanted results of the body read until no further carry becomes wanted. */
static void close_carries(const struct trimming *t, const struct loop *l, bool *wanted)
{
    for (bool more = true; more;) {
        more = false;
        const bool *read = params_read(t, l->body->id, wanted);
        for (uint32_t i = 0; i < l->n_carry; i++) {
            if (!read[i] || wanted[i]) continue;
            wanted[i] = true;
            more = true;
        }
    }
}

/* Which results of the body are needed: rows that are read, and the carries that they, the predicate and
 * what is read after the loop are made of. */
static bool *wanted_of_body(const struct trimming *t, const struct loop *l)
{
    const bool *used = t->values + l->n->results;
    bool *wanted = ARENA_ZNEW(t->arena, bool, l->body->n_results);
    for (uint32_t i = 0; i < l->n_carry; i++) wanted[i] = used[i];
    for (uint32_t k = 0; k < l->n_stack; k++) wanted[l->n_carry + k] = used[loop_stack_result(l, k)];
    if (l->cond) {
        const bool *read = params_read(t, l->cond->id, NULL);
        for (uint32_t i = 0; i < l->n_carry; i++) wanted[i] |= read[i];
    }
    close_carries(t, l, wanted);
    return wanted;
}

static void plan_loop(struct trimming *t, const struct loop *l, struct node_plan *plan)
{
    const struct loop_positions at = loop_positions(t->f, l->n);
    const bool *wanted = wanted_of_body(t, l), *used = t->values + l->n->results;
    bool *stay = ARENA_ZNEW(t->arena, bool, l->body->n_params);
    for (uint32_t i = 0; i < l->n_carry; i++) {
        stay[i] = wanted[i];
        plan->operands[at.carry + i] = wanted[i];
    }
    if (l->kind == LOOP_COUNTED) stay[l->n_carry] = true; /* the index is there anyway */
    const struct trimmed *body = trim_body(t, l->body->id, wanted, stay);
    bool any_slice = false;
    plan->fns[l->body_region] = body->fn;
    for (uint32_t i = 0; loop_has_length(l) && i < l->n_over; i++) {
        plan->operands[at.over + i] = body->params[l->n_carry + i];
        any_slice |= body->params[l->n_carry + i];
    }
    for (uint32_t i = 0; i < l->n_with; i++)
        plan->operands[at.with + i] = body->params[loop_first_with(l) + i];
    if (l->cond) {
        bool *cond_stay = ARENA_ZNEW(t->arena, bool, l->cond->n_params);
        for (uint32_t i = 0; i < l->n_carry; i++) cond_stay[i] = wanted[i];
        const struct trimmed *cond = trim_body(t, l->cond->id, NULL, cond_stay);
        plan->fns[l->cond_region] = cond->fn;
        for (uint32_t i = 0; i < l->n_cond_with; i++)
            plan->operands[at.cond_with + i] = cond->params[l->n_carry + i];
    }
    bool any_stack = false;
    for (uint32_t i = 0; i < l->n_carry; i++) plan->results[i] = wanted[i];
    for (uint32_t k = 0; k < l->n_stack; k++) {
        plan->results[loop_stack_result(l, k)] = wanted[l->n_carry + k];
        any_stack |= wanted[l->n_carry + k];
    }
    plan->count = l->counts && used[loop_trips_result(l)];
    if (l->counts) plan->results[loop_trips_result(l)] = any_stack || plan->count;
    struct symbol_walk walk = { use_symbol, t };
    if (loop_has_length(l) && !any_slice) dim_symbols(t->m, l->length, &walk); /* it will be said */
}

/* Choices and calls: node results are the results of every region. */
static void plan_branches(struct trimming *t, const struct node *n, struct node_plan *plan)
{
    memcpy(plan->results, t->values + n->results, n->n_results * sizeof *plan->results);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct region *g = node_region(t->f, n, r);
        const struct trimmed *branch = trim_body(t, g->fn, plan->results, NULL);
        plan->fns[r] = branch->fn;
        for (uint32_t k = 0; k < g->n_operands; k++) plan->operands[g->operands + k] = branch->params[k];
    }
}

/* Running totals: an array goes when nobody reads its totals and no total that stays is made of it.
 * Parameters: left…, right…, own. */
static void plan_totals(struct trimming *t, const struct node *n, struct node_plan *plan)
{
    const struct region *g = node_region(t->f, n, 0);
    const struct fn *combine = module_fn(t->m, g->fn);
    uint32_t n_leaves = node_group_size(t->f, n, 0);
    bool *wanted = plan->results;
    memcpy(wanted, t->values + n->results, n_leaves * sizeof *wanted);
    for (bool more = true; more;) {
        more = false;
        bool any = false;
        const bool *read = params_read(t, g->fn, wanted);
        for (uint32_t k = 0; k < n_leaves; k++) {
            bool joins = (read[k] || read[n_leaves + k]) && !wanted[k];
            wanted[k] |= joins;
            more |= joins;
            any |= wanted[k];
        }
        if (any) continue;
        wanted[0] = true; /* checks keep it: it must have an array */
        more = true;
    }
    bool *stay = ARENA_ZNEW(t->arena, bool, combine->n_params);
    for (uint32_t k = 0; k < n_leaves; k++) {
        stay[k] = wanted[k];
        stay[n_leaves + k] = wanted[k];
        plan->operands[k] = wanted[k];
    }
    const struct trimmed *body = trim_body(t, g->fn, wanted, stay);
    plan->fns[0] = body->fn;
    for (uint32_t k = 0; k < g->n_operands; k++)
        plan->operands[g->operands + k] = body->params[2 * n_leaves + k];
}

/* A row of which nothing is known but that it has bodies: these lose their dead nodes alone. */
static void plan_unknown(struct trimming *t, const struct node *n, struct node_plan *plan)
{
    memset(plan->results, true, n->n_results);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct fn *g = module_fn(t->m, node_region(t->f, n, r)->fn);
        bool *stay = ARENA_NEW(t->arena, bool, g->n_params);
        memset(stay, true, g->n_params);
        plan->fns[r] = trim_body(t, g->id, NULL, stay)->fn;
    }
}

/* What a local_map says of its operands and results is said of all of them; what each rank does drops what
 * nobody reads. */
static bool can_drop_results(const struct node *n)
{
    uint8_t control = node_row(n)->control;
    return node_is_loop(n) || (control && control != CONTROL_PARTS);
}

static void plan_higher(struct trimming *t, const struct node *n, struct node_plan *plan)
{
    struct loop l;
    plan->results = ARENA_NEW(t->arena, bool, n->n_results);
    plan->operands = ARENA_NEW(t->arena, bool, n->n_operands);
    plan->fns = ARENA_NEW(t->arena, uint32_t, n->n_regions);
    memset(plan->operands, true, n->n_operands);
    if (loop_of_node(t->m, t->f, n, &l)) plan_loop(t, &l, plan);
    else if (node_row(n)->control == CONTROL_TOTALS) plan_totals(t, n, plan);
    else if (can_drop_results(n)) plan_branches(t, n, plan);
    else plan_unknown(t, n, plan);
}

/* ---- calls ---- */

/* Calls of one body must go on sharing it, so a result is dropped only where no call of it in this function
 * reads it. */
struct called {
    bool *results;
    uint32_t calls;
};
/* s: what the simplifier knows of calls elsewhere; where there are any, every result stays. NULL: nothing. */
static void find_calls(struct trimming *t, const bool *wanted, const struct simplifier *s)
{
    const struct fn *f = t->f;
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes && !any; i++) any = node_row(fn_node(f, i))->control == CONTROL_CALL;
    if (!any) return;
    struct needs needs = { .wanted = wanted, .strip = t->mode.strip };
    struct liveness live = live_values(t->arena, t->m, f, needs);
    for (uint32_t symbol = f->n_outer_symbols; symbol < f->n_symbols; symbol++) {
        if (!live.symbol[symbol]) continue;
        val v = binding_result(t->m, f, symbol, live.value);
        if (v != VAL_NONE) live.value[v] = true;
    }
    const bool **calls = ARENA_ZNEW(t->arena, const bool *, f->n_nodes);
    vec(struct called) called = { 0 };
    struct map numbers = { .arena = t->arena }; /* of bodies, in `called` */
    uint32_t *number = ARENA_NEW(t->arena, uint32_t, f->n_nodes);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (node_row(n)->control != CONTROL_CALL || !live.node[i]) continue;
        uint32_t body = node_region(f, n, 0)->fn, known = map_first(&numbers, body);
        if (known == HOP_NONE) {
            map_put(&numbers, body, called.len);
            known = map_first(&numbers, body);
            vec_push(t->arena, &called, ((struct called){ ARENA_ZNEW(t->arena, bool, n->n_results), 0 }));
        }
        number[i] = map_value(&numbers, known);
        struct called *c = &called.data[number[i]];
        calls[i] = c->results;
        c->calls++;
        for (uint32_t k = 0; k < n->n_results; k++) c->results[k] |= live.value[n->results + k];
    }
    for (uint32_t i = 0; i < f->n_nodes && s; i++) {
        const struct node *n = fn_node(f, i);
        if (calls[i] && simplifier_uses(s, node_region(f, n, 0)->fn) > called.data[number[i]].calls)
            memset(called.data[number[i]].results, true, n->n_results);
    }
    t->calls = calls;
}

/* What a call's results must be whatever is read of them here. */
static void use_call(struct trimming *t, const struct node *n)
{
    const bool *shared = t->calls ? t->calls[n - t->f->nodes] : NULL;
    for (uint32_t k = 0; k < n->n_results; k++)
        t->values[n->results + k] |= shared ? shared[k] : t->mode.calls_remain;
}

/* ---- from the end to the beginning ---- */

static void find_live(struct trimming *t, const bool *wanted)
{
    const struct fn *f = t->f;
    struct symbol_walk walk = { use_symbol, t };
    t->values = ARENA_ZNEW(t->arena, bool, f->n_values);
    t->nodes = ARENA_ZNEW(t->arena, struct node_plan, f->n_nodes);
    for (uint32_t k = 0; k < f->n_results; k++) {
        if (wanted && !wanted[k]) continue;
        t->values[f->results[k]] = true;
        use_type(t, f->results[k]);
    }
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        struct node_plan *plan = &t->nodes[i];
        plan->live = !t->mode.strip && !effects_may_drop(node_effects(t->m, f, n));
        for (uint32_t k = 0; k < n->n_results; k++) plan->live |= t->values[n->results + k];
        if (!plan->live) continue;
        if (node_row(n)->control == CONTROL_CALL) use_call(t, n);
        for (uint32_t k = 0; k < n->n_results; k++)
            if (t->values[n->results + k] || !can_drop_results(n)) use_type(t, n->results + k);
        if (n->n_regions) plan_higher(t, n, plan);
        node_symbols(t->m, f, n, &walk);
        for (uint32_t k = 0; k < n->n_operands; k++)
            if (!plan->operands || plan->operands[k]) t->values[node_operands(f, n)[k]] = true;
    }
}

/* ---- the function that remains ---- */

static bool node_changes(const struct trimming *t, const struct node *n)
{
    const struct node_plan *plan = &t->nodes[n - t->f->nodes];
    if (!plan->live) return true;
    for (uint32_t k = 0; n->n_regions && k < n->n_results; k++)
        if (!plan->results[k]) return true;
    for (uint32_t r = 0; r < n->n_regions; r++)
        if (plan->fns[r] != node_region(t->f, n, r)->fn) return true;
    return false;
}

static uint32_t keep_values(val *out, const val *values, const bool *kept, uint32_t n)
{
    uint32_t n_out = 0;
    for (uint32_t i = 0; i < n; i++)
        if (kept[i]) out[n_out++] = values[i];
    return n_out;
}

/* What follows from other operands than themselves must now be said: the length of a loop that goes over
 * nothing any more, a number of trips that no stack gives away. */
static const struct attr *loop_attrs(struct copier *c, const struct node *n, const struct node_plan *plan,
                                     const struct node_in *in)
{
    const struct loop_row *row = node_row(n)->loop;
    struct attr *attrs = arena_copy(&c->b->arena, in->attrs, node_row(n)->sig.n_attrs * sizeof *attrs);
    struct loop l;
    loop_of_node(c->b->m, c->f, n, &l);
    if (row->attr.count) attrs[row->attr.count - 1] = A_FLAG(plan->count);
    if (row->attr.length && !in->groups[row->group.over - 1])
        attrs[row->attr.length - 1] = A_DIM(copier_dim(c, l.length));
    return attrs;
}

static void copy_trimmed(struct copier *c, const struct node *n, const struct node_plan *plan)
{
    struct arena *a = &c->b->arena;
    const struct op_row *row = node_row(n);
    for (uint32_t k = 0; k < n->n_operands; k++) {
        val *x = &c->values[node_operands(c->f, n)[k]];
        if (!plan->operands[k] && *x == VAL_NONE) *x = 0; /* it went, and nothing here will read it */
    }
    struct node_in in = copier_node_in(c, n);
    struct region_in *regions = arena_copy(a, in.regions, n->n_regions * sizeof *regions);
    uint32_t *groups = ARENA_NEW(a, uint32_t, row->sig.n_groups), at = 0;
    val *operands = ARENA_NEW(a, val, in.n_operands);
    in.n_operands = 0;
    for (uint32_t g = 0; g < row->sig.n_groups; g++) {
        groups[g] = keep_values(operands + in.n_operands, in.operands + at, plan->operands + at,
                                in.groups[g]);
        at += in.groups[g];
        in.n_operands += groups[g];
    }
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const bool *kept = plan->operands + node_region(c->f, n, r)->operands;
        val *own = ARENA_NEW(a, val, regions[r].n_operands);
        regions[r].n_operands = keep_values(own, regions[r].operands, kept, regions[r].n_operands);
        regions[r].operands = own;
        regions[r].fn = plan->fns[r];
    }
    in.operands = operands;
    in.groups = groups;
    in.regions = regions;
    if (row->loop) in.attrs = loop_attrs(c, n, plan, &in);
    val next = builder_node(c->b, &in);
    val *results = ARENA_NEW(a, val, n->n_results);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = plan->results[k] ? next++ : VAL_NONE;
    copier_bind(c, n, results);
}

static uint32_t build_trimmed(const struct trimming *t, const bool *results, const bool *params)
{
    struct builder b;
    struct copier c;
    const struct fn *f = t->f;
    builder_begin(&b, t->m, f);
    copier_begin(&c, &b, f);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (params[p]) c.values[p] = builder_param(&b, copier_type(&c, value_type(f, p)), f->values[p].name);
    copy_requires(&c);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (!t->nodes[i].live) continue;
        if (node_changes(t, n)) copy_trimmed(&c, n, &t->nodes[i]);
        else copier_node(&c, n);
    }
    val *out = ARENA_NEW(&b.arena, val, f->n_results);
    uint32_t n_out = 0;
    for (uint32_t k = 0; k < f->n_results; k++)
        if (!results || results[k]) out[n_out++] = c.values[f->results[k]];
    return builder_finish(&b, out, n_out);
}

/* The function itself where nothing goes. */
static uint32_t trim(const struct trimming *t, const bool *results, const bool *params)
{
    const struct fn *f = t->f;
    bool changes = false;
    for (uint32_t k = 0; k < f->n_results && results; k++) changes |= !results[k];
    for (uint32_t p = 0; p < f->n_params; p++) changes |= !params[p];
    for (uint32_t i = 0; i < f->n_nodes && !changes; i++) changes = node_changes(t, fn_node(f, i));
    return changes ? build_trimmed(t, results, params) : f->id;
}

/* ---- bodies, each made once for what is wanted of it ---- */

static uint64_t mode_word(struct mode mode) { return mode.strip | (uint64_t)mode.calls_remain << 1; }

/* What is wanted of a function and of its parameters as one mask, by which the answer is remembered. NULL:
 * every result, no parameter. */
static bool *wanted_mask(struct arena *a, const struct fn *f, const bool *results, const bool *stay)
{
    bool *mask = ARENA_ZNEW(a, bool, f->n_results + f->n_params);
    if (results) memcpy(mask, results, f->n_results);
    else memset(mask, true, f->n_results);
    if (stay) memcpy(mask + f->n_results, stay, f->n_params);
    return mask;
}

static const bool *params_read(const struct trimming *t, uint32_t fn, const bool *results)
{
    const struct fn *f = module_fn(t->m, fn);
    const bool *mask = wanted_mask(t->arena, f, results, NULL);
    bool *read = transform_recall(t->m, MEMO_READ, fn, mode_word(t->mode), mask, f->n_results);
    if (read) return read;
    hop_check_stack();
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct trimming inner = { .m = t->m, .f = f, .arena = &arena, .mode = t->mode };
    if (!t->mode.calls_remain) find_calls(&inner, mask, NULL);
    find_live(&inner, mask);
    read = ARENA_NEW(&t->m->arena, bool, f->n_params + 1); /* one more: never NULL */
    memcpy(read, inner.values, f->n_params);
    transform_remember(t->m, MEMO_READ, fn, mode_word(t->mode), mask, f->n_results, read);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return read;
}

/* stay: parameters that are not dropped though nothing reads them; NULL: none. */
static const struct trimmed *trim_body(const struct trimming *t, uint32_t fn, const bool *results,
                                       const bool *stay)
{
    struct module *m = t->m;
    const struct fn *f = module_fn(m, fn);
    const bool *mask = wanted_mask(t->arena, f, results, stay);
    uint32_t n_mask = f->n_results + f->n_params;
    struct trimmed *out = transform_recall(m, MEMO_TRIM, fn, mode_word(t->mode), mask, n_mask);
    if (out) return out;
    hop_check_stack();
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct trimming inner = { .m = m, .f = f, .arena = &arena, .mode = t->mode };
    if (!t->mode.calls_remain) find_calls(&inner, mask, NULL);
    find_live(&inner, mask);
    out = ARENA_NEW(&m->arena, struct trimmed, 1);
    out->params = ARENA_NEW(&m->arena, bool, f->n_params);
    for (uint32_t p = 0; p < f->n_params; p++) out->params[p] = inner.values[p] || (stay && stay[p]);
    out->fn = trim(&inner, mask, out->params);
    transform_remember(m, MEMO_TRIM, fn, mode_word(t->mode), mask, n_mask, out);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

/* ---- for the simplifier and for transforms ---- */

uint32_t pass_dce(struct simplifier *s, uint32_t fn)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    const struct fn *f = module_fn(s->m, fn);
    struct trimming t = { .m = s->m, .f = f, .arena = &arena, .mode = { .calls_remain = true } };
    find_calls(&t, NULL, s);
    find_live(&t, NULL);
    bool *all = ARENA_NEW(&arena, bool, f->n_params);
    memset(all, true, f->n_params);
    uint32_t out = trim(&t, NULL, all);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}

static uint32_t trim_function(struct module *m, uint32_t fn, const bool *keep, bool strip)
{
    const struct fn *f = module_fn(m, fn);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct trimming t = { .m = m, .arena = &arena, .mode = { .strip = strip } };
    bool *all = ARENA_NEW(&arena, bool, f->n_params);
    memset(all, true, f->n_params);
    uint32_t out = trim_body(&t, fn, keep, all)->fn;
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return out;
}
uint32_t prune_function(struct module *m, uint32_t fn, const bool *keep)
{
    return trim_function(m, fn, keep, false);
}
bool can_run_again(struct module *m, uint32_t fn, const bool *keep)
{
    if (!(module_fn(m, fn)->effects & ~EFFECT_CHECK)) return true;
    return !(module_fn(m, strip_effects(m, fn, keep))->effects & ~EFFECT_CHECK);
}

uint32_t strip_effects(struct module *m, uint32_t fn, const bool *keep)
{
    return keep || module_fn(m, fn)->effects ? trim_function(m, fn, keep, true) : fn;
}
