/* The row of while_loop: a body is run on carries as long as a predicate of them holds. The predicate and the
 * body have own operands beside the carries; the body may stack further results, one row a trip. Results:
 * last carries; the number of trips when asked for or when anything is stacked; stacks, [?n, …], or
 * [max_trips, …] with zeros behind the last trip (a gradient's tape has a row a trip in any case). */
#include "hops/hops.h"
#include "hops/lower_hops.h"

enum {
    REGION_COND,
    REGION_BODY,
    FEW_TRIPS = 16 /* a tape of up to this many rows has them all, so that it can leave a loop around; a
                      longer one costs more in rows that nobody ran than it saves */
};

/* Do stacks have as many rows as the loop may make trips, rather than as it makes? */
static bool has_all_rows(const struct attr *attrs)
{
    return attrs[WHILE_MAX_TRIPS].kind != ATTR_ABSENT && attrs[WHILE_TAPE].kind == ATTR_ABSENT;
}

/* ---- a predicate that is always true ---- */

enum { KNOWN_LIMIT = 64 }; /* elements of a value that is computed to find out */

static bool static_type(struct module *m, type_id type)
{
    struct type t = type_get(m, type);
    int64_t count = 1;
    for (uint32_t d = 0; d < t.rank; d++) {
        if (!dim_is_const(m, t.dims[d])) return false;
        count *= dim_const_value(m, t.dims[d]);
        if (count > KNOWN_LIMIT) return false;
    }
    return true;
}

/* Can its result be computed from its operands alone, now? */
static bool computable(struct module *m, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    if (!row->eval || row->effect || n->n_results != 1 ||
        row->flags & (OPF_NO_FOLD | OPF_NO_MERGE | OPF_HIGHER))
        return false;
    for (uint32_t k = 0; k < row->sig.n_attrs; k++) {
        const struct attr *a = node_attr(f, n, k);
        if (a->kind == ATTR_DIM && !dim_is_const(m, (dim)a->i)) return false;
    }
    return static_type(m, value_type(f, n->results));
}

/* Does the predicate give true whatever the carries are? Only one that reads nothing is looked at. */
static bool always_true(struct infer *in, const struct fn *cond)
{
    struct module *m = in->m;
    bool *needed = ARENA_ZNEW(in->arena, bool, cond->n_values);
    needed[cond->results[0]] = true;
    for (uint32_t i = cond->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(cond, i);
        bool live = false;
        for (uint32_t k = 0; k < n->n_results; k++) live |= needed[n->results + k];
        if (live && !computable(m, cond, n)) return false;
        for (uint32_t k = 0; live && k < n->n_operands; k++) needed[node_operands(cond, n)[k]] = true;
    }
    for (uint32_t i = 0; i < cond->n_params; i++)
        if (needed[i]) return false;
    struct tensor_list *values = tensor_list_begin(cond->n_values);
    struct interp interp = { .m = m };
    for (uint32_t i = 0; i < cond->n_nodes; i++) {
        const struct node *n = fn_node(cond, i);
        if (!n->n_results || !needed[n->results]) continue;
        struct type t = type_get(m, value_type(cond, n->results));
        struct tensor **operands = ARENA_NEW(in->arena, struct tensor *, n->n_operands + 1);
        int64_t dims[MAX_RANK];
        for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_const_value(m, t.dims[d]);
        for (uint32_t k = 0; k < n->n_operands; k++) operands[k] = values->data[node_operands(cond, n)[k]];
        tensor_list_set(values, n->results, tensor_new((enum dtype)t.dtype, t.rank, dims));
        node_row(n)->eval(&(struct eval){ .in = &interp,
                                          .m = m,
                                          .f = cond,
                                          .n = n,
                                          .operands = operands,
                                          .results = &values->data[n->results] });
    }
    bool holds = *(const uint8_t *)values->data[cond->results[0]]->data;
    tensor_list_end(values);
    return holds;
}

static void while_infer(struct infer *in)
{
    uint32_t n_carry = in->groups[0];
    const struct fn *cond = module_fn(in->m, in->regions[REGION_COND].fn),
                    *body = module_fn(in->m, in->regions[REGION_BODY].fn);
    if (cond->n_results != 1 || value_type(cond, cond->results[0]) != type_scalar(in->m, DT_BOOL))
        infer_error(in, "the predicate: expected one result bool[], found %u, the first %s", cond->n_results,
                    cond->n_results ? type_text(in->m, cond->symbols, value_type(cond, cond->results[0]))
                                    : "missing");
    infer_schedule(in, &in->attrs[WHILE_SCHEDULE]);
    if (cond->effects & ~EFFECT_CHECK) infer_error(in, "the predicate has effects beyond check");
    if (body->n_results < n_carry)
        infer_error(in, "the body gives %u results, fewer than the %u carries", body->n_results, n_carry);
    if (!n_carry && !body->effects) infer_error(in, "a loop without carries can never end");
    bool quiet = !(cond->effects | body->effects) &&
                 in->attrs[WHILE_MAX_TRIPS].kind ==
                     ATTR_ABSENT; /* nothing else could end it, or be the point of it */
    if (in->written && quiet && always_true(in, cond))
        infer_error(in, "the predicate is always true, so the loop can never end: expected one that depends "
                        "on the carries, or max_trips");
    infer_results_like(in, REGION_BODY, in->operands, n_carry, "carry", "what the body makes of it");
    for (uint32_t i = 0; i < n_carry; i++) infer_result(in, in->operands[i]);
    if (body->n_results == n_carry && in->attrs[WHILE_COUNT].kind == ATTR_ABSENT) return;
    infer_result(in, type_scalar(in->m, DT_I64));
    if (body->n_results == n_carry) return;
    dim trips = has_all_rows(in->attrs) ? (dim)in->attrs[WHILE_MAX_TRIPS].i : infer_fresh(in, 0, INT64_MAX);
    for (uint32_t i = n_carry; i < body->n_results; i++)
        infer_result(in, type_prepend(in->m, infer_region_result(in, REGION_BODY, i), trips));
}

/* A stack that doubles while the loop runs. */
struct growing {
    char *data;
    size_t used, size;
};
struct stacks {
    uint32_t n;
    struct growing stack[];
};
static void stacks_free(void *stacks)
{
    struct stacks *s = stacks;
    for (uint32_t i = 0; i < s->n; i++) hop_free(s->stack[i].data);
    hop_free(s);
}
static void stack_push(struct growing *g, const struct tensor *t)
{
    size_t bytes = tensor_bytes(t);
    if (g->used + bytes > g->size) {
        size_t size = HOP_MAX(g->size * 2, g->used + bytes);
        g->data = hop_realloc(g->data, size);
        g->size = size;
    }
    if (bytes) memcpy(g->data + g->used, t->data, bytes);
    g->used += bytes;
}

static struct tensor *stack_result(struct eval *e, uint32_t k, const struct growing *g, int64_t trips,
                                   int64_t rows)
{
    struct type t = type_get(e->m, value_type(e->f, e->n->results + k));
    int64_t dims[MAX_RANK] = { rows };
    for (uint32_t d = 1; d < t.rank; d++) dims[d] = dim_eval(e->m, t.dims[d], e->symbols);
    struct tensor *out = tensor_new((enum dtype)t.dtype, t.rank, dims);
    if (g->used) memcpy(out->data, g->data, g->used);
    if (rows > trips) memset((char *)out->data + g->used, 0, tensor_bytes(out) - g->used);
    return out;
}

/* The carries are args[0..n_carry); returns the number of trips. */
static int64_t run_loop(struct eval *e, struct tensor_list *cond_args, struct tensor_list *body_args,
                        struct stacks *stacks, int64_t max)
{
    const struct region *cond = node_region(e->f, e->n, REGION_COND),
                        *body = node_region(e->f, e->n, REGION_BODY);
    uint32_t n_carry = node_group_size(e->f, e->n, 0);
    const int64_t *cond_symbols = eval_region_symbols(e, REGION_COND, cond_args, cond_args->n - 1);
    const int64_t *body_symbols = eval_region_symbols(e, REGION_BODY, body_args, body_args->n - 1);
    struct tensor_list *out = tensor_list_begin(n_carry + stacks->n), *test = tensor_list_begin(1);
    int64_t trips = 0;
    for (;; trips++) {
        for (uint32_t k = 0; k < n_carry; k++) tensor_list_set(cond_args, k, tensor_ref(body_args->data[k]));
        interp_call(e->in, cond->fn, cond_symbols, cond_args->data, test->data);
        bool again = *(const uint8_t *)test->data[0]->data;
        tensor_list_set(test, 0, NULL);
        if (!again) break;
        if (trips == max)
            hop_throw(HOP_CHECK, "%scheck: " WHILE_TRIPS_MESSAGE " (%lld)", place_text(e->m, e->n->place),
                      (long long)max); /* as compiled code says it */
        interp_call(e->in, body->fn, body_symbols, body_args->data, out->data);
        for (uint32_t k = 0; k < n_carry; k++)
            tensor_list_set(body_args, k, out->data[k]), out->data[k] = NULL;
        for (uint32_t k = 0; k < stacks->n; k++)
            stack_push(&stacks->stack[k], out->data[n_carry + k]), tensor_list_set(out, n_carry + k, NULL);
    }
    tensor_list_end(test);
    tensor_list_end(out);
    return trips;
}

static void while_eval(struct eval *e)
{
    const struct region *cond = node_region(e->f, e->n, REGION_COND),
                        *body = node_region(e->f, e->n, REGION_BODY);
    uint32_t n_carry = node_group_size(e->f, e->n, 0),
             n_stack = module_fn(e->m, body->fn)->n_results - n_carry;
    const struct attr *max = node_attr(e->f, e->n, WHILE_MAX_TRIPS);
    int64_t limit = max->kind == ATTR_ABSENT ? -1 : dim_eval(e->m, (dim)max->i, e->symbols);
    struct tensor_list *cond_args = tensor_list_begin(n_carry + cond->n_operands + 1),
                       *body_args = tensor_list_begin(n_carry + body->n_operands + 1);
    struct stacks *stacks = hop_calloc(1, sizeof *stacks + n_stack * sizeof *stacks->stack);
    stacks->n = n_stack;
    hop_cleanup_push(stacks_free, stacks);
    for (uint32_t k = 0; k < n_carry; k++) body_args->data[k] = tensor_ref(e->operands[k]);
    for (uint32_t k = 0; k < cond->n_operands; k++)
        cond_args->data[n_carry + k] = tensor_ref(e->operands[cond->operands + k]);
    for (uint32_t k = 0; k < body->n_operands; k++)
        body_args->data[n_carry + k] = tensor_ref(e->operands[body->operands + k]);
    int64_t trips = run_loop(e, cond_args, body_args, stacks, limit);
    for (uint32_t k = 0; k < n_carry; k++) e->results[k] = tensor_ref(body_args->data[k]);
    if (e->n->n_results > n_carry) {
        e->results[n_carry] = tensor_new(DT_I64, 0, NULL);
        *(int64_t *)e->results[n_carry]->data = trips;
    }
    for (uint32_t k = 0; k < n_stack; k++)
        e->results[n_carry + 1 + k] = stack_result(e, n_carry + 1 + k, &stacks->stack[k], trips,
                                                   has_all_rows(node_attr(e->f, e->n, 0)) ? limit : trips);
    hop_cleanup_pop(stacks);
    stacks_free(stacks);
    tensor_list_end(body_args);
    tensor_list_end(cond_args);
}

/* ---- transforms ---- */

static val emit_while(struct builder *b, const val *carry, uint32_t n_carry, const struct attr *attrs,
                      struct region_in cond, struct region_in body)
{
    struct region_in regions[2] = { [REGION_COND] = cond, [REGION_BODY] = body };
    return builder_node(b, &(struct node_in){ .op = OP_while_loop,
                                              .operands = carry,
                                              .n_operands = n_carry,
                                              .groups = &n_carry,
                                              .attrs = attrs,
                                              .regions = regions,
                                              .n_regions = 2 });
}

/* What the node says per operand, for the parameters of a region: carries, then the region's own. */
static bool *region_mask(struct arena *arena, const struct fn *f, const struct node *n, uint32_t r,
                         const bool *per_operand)
{
    const struct region *g = node_region(f, n, r);
    uint32_t n_carry = node_group_size(f, n, 0);
    bool *mask = ARENA_NEW(arena, bool, n_carry + g->n_operands);
    for (uint32_t k = 0; k < n_carry; k++) mask[k] = per_operand[k];
    for (uint32_t k = 0; k < g->n_operands; k++) mask[n_carry + k] = per_operand[g->operands + k];
    return mask;
}

/* Position of body result k among the node's results: a trip count stands between carries and stacks. */
static uint32_t result_at(uint32_t k, uint32_t n_carry) { return k < n_carry ? k : k + 1; }

/* ---- schedules: what the gradient keeps ---- */

/* A loop as builder b sees it. */
struct blocked {
    const val *carry, *cond_own, *body_own;
    uint32_t n_carry, n_cond_own, n_body_own;
    uint32_t cond, body;
    const dim *cond_dims, *body_dims;
};

/* The loop seen from a new function: its operands are parameters, `first` number of them before it. */
static struct blocked blocked_inside(struct new_body *body, const struct blocked *w, uint32_t first)
{
    struct builder *b = &body->b, *around = body->around;
    struct blocked out = *w;
    uint32_t n = w->n_carry + w->n_body_own + w->n_cond_own,
             n_cond = module_fn(b->m, w->cond)->n_outer_symbols,
             n_body = module_fn(b->m, w->body)->n_outer_symbols;
    type_id *types = ARENA_NEW(&b->arena, type_id, n);
    val *params = ARENA_NEW(&b->arena, val, n);
    dim *cond_dims = ARENA_NEW(&b->arena, dim, n_cond), *body_dims = ARENA_NEW(&b->arena, dim, n_body);
    for (uint32_t k = 0; k < n; k++) {
        val v = k < w->n_carry                   ? w->carry[k]
                : k < w->n_carry + w->n_body_own ? w->body_own[k - w->n_carry]
                                                 : w->cond_own[k - w->n_carry - w->n_body_own];
        types[k] = new_body_type(body, builder_type(around, v));
    }
    for (uint32_t k = 0; k < n_cond; k++) cond_dims[k] = new_body_dim(body, w->cond_dims[k]);
    for (uint32_t k = 0; k < n_body; k++) body_dims[k] = new_body_dim(body, w->body_dims[k]);
    for (uint32_t k = 0; k < first; k++) builder_param(b, type_scalar(b->m, DT_I64), 0);
    for (uint32_t k = 0; k < n; k++) params[k] = builder_param(b, types[k], 0);
    out.carry = params, out.body_own = params + w->n_carry,
    out.cond_own = params + w->n_carry + w->n_body_own;
    out.cond_dims = cond_dims, out.body_dims = body_dims;
    return out;
}

/* Rounds from number `first` to 0, less if the predicate stops holding; a round is a trip, or a block of
 * sizes[0] rounds, … results: the carries; returns the trips. */
static val emit_rounds(struct builder *b, const struct blocked *w, val first_round, const uint32_t *sizes,
                       uint32_t n_sizes, val *results)
{
    struct new_body cond, body;
    uint32_t n = w->n_carry, n_own = w->n_body_own + w->n_cond_own;
    val *own = ARENA_NEW(&b->arena, val, n_own), *carry = ARENA_NEW(&b->arena, val, n + 2);
    for (uint32_t k = 0; k < n_own; k++)
        own[k] = k < w->n_body_own ? w->body_own[k] : w->cond_own[k - w->n_body_own];
    enum { ROUNDS, TRIPS, COUNTERS };

    new_body_begin(&cond, b, NULL, NULL, 0);
    struct blocked inner = blocked_inside(&cond, w, COUNTERS);
    val *args = ARENA_NEW(&cond.b.arena, val, n + w->n_cond_own), again;
    for (uint32_t k = 0; k < n + w->n_cond_own; k++) args[k] = k < n ? inner.carry[k] : inner.cond_own[k - n];
    inline_function(&cond.b, w->cond, inner.cond_dims, args, &again);
    val more = emit2(&cond.b, OP_lt, ROUNDS, emit_full(&cond.b, DT_I64, 0, 0, NULL));
    again = emit2(&cond.b, OP_and, more, again);
    struct region_in test = new_body_finish(&cond, &again, 1, own, n_own);

    new_body_begin(&body, b, NULL, NULL, 0);
    inner = blocked_inside(&body, w, COUNTERS);
    val *out = ARENA_NEW(&body.b.arena, val, n + COUNTERS), one = emit_full(&body.b, DT_I64, 1, 0, NULL),
        made = one;
    if (n_sizes) {
        made = emit_rounds(&body.b, &inner, emit_full(&body.b, DT_I64, -(double)sizes[0], 0, NULL), sizes + 1,
                           n_sizes - 1, out + COUNTERS);
    } else {
        args = ARENA_NEW(&body.b.arena, val, n + w->n_body_own);
        for (uint32_t k = 0; k < n + w->n_body_own; k++)
            args[k] = k < n ? inner.carry[k] : inner.body_own[k - n];
        inline_function(&body.b, w->body, inner.body_dims, args, out + COUNTERS);
    }
    out[ROUNDS] = emit2(&body.b, OP_add, ROUNDS, one);
    out[TRIPS] = emit2(&body.b, OP_add, TRIPS, made);
    struct region_in round = new_body_finish(&body, out, n + COUNTERS, own, n_own);

    struct attr attrs[WHILE_ATTRS] = { [WHILE_SCHEDULE] = n_sizes ? A_WORD(SCHEDULE_RECOMPUTE) : A_NONE };
    carry[ROUNDS] = first_round, carry[TRIPS] = emit_full(b, DT_I64, 0, 0, NULL);
    for (uint32_t k = 0; k < n; k++) carry[COUNTERS + k] = w->carry[k];
    val first = emit_while(b, carry, n + COUNTERS, attrs, test, round);
    for (uint32_t k = 0; k < n; k++) results[k] = first + COUNTERS + k;
    return first + TRIPS;
}

/* The loop whose trips are blocks: carries are the loop's own, then the trips so far and how many blocks
 * there were. Without sizes each block has one trip more than the one before: about sqrt(2 n) blocks of at
 * most as many trips, whatever n will be. Node and masks are replaced by those of the new one. */
enum { BLOCKED_TRIPS, BLOCKED_BLOCKS, BLOCKED_COUNTS };
static struct node_in emit_blocked(struct builder *b, const struct node_in *in, const uint32_t *sizes,
                                   uint32_t n_sizes)
{
    const struct region_in *cond = &in->regions[REGION_COND], *body = &in->regions[REGION_BODY];
    uint32_t n = in->groups[0], n_own = body->n_operands + cond->n_operands;
    struct blocked w = { in->operands,     cond->operands, body->operands, n,          cond->n_operands,
                         body->n_operands, cond->fn,       body->fn,       cond->dims, body->dims };
    val *own = ARENA_NEW(&b->arena, val, n_own), *carry = ARENA_NEW(&b->arena, val, n + BLOCKED_COUNTS);
    for (uint32_t k = 0; k < n; k++) carry[k] = in->operands[k];
    for (uint32_t k = 0; k < BLOCKED_COUNTS; k++) carry[n + k] = emit_full(b, DT_I64, 0, 0, NULL);
    for (uint32_t k = 0; k < n_own; k++)
        own[k] = k < body->n_operands ? body->operands[k] : cond->operands[k - body->n_operands];
    w.carry = carry;
    w.n_carry = n + BLOCKED_COUNTS; /* the counts pass through blocked_inside like carries */
    struct region_in *regions = ARENA_NEW(&b->arena, struct region_in, 2);

    struct new_body made;
    new_body_begin(&made, b, NULL, NULL, 0);
    struct blocked inner = blocked_inside(&made, &w, 0);
    val *args = ARENA_NEW(&made.b.arena, val, n + cond->n_operands), again;
    for (uint32_t k = 0; k < n + cond->n_operands; k++)
        args[k] = k < n ? inner.carry[k] : inner.cond_own[k - n];
    inline_function(&made.b, cond->fn, inner.cond_dims, args, &again);
    regions[REGION_COND] = new_body_finish(&made, &again, 1, own, n_own);

    new_body_begin(&made, b, NULL, NULL, 0);
    inner = blocked_inside(&made, &w, 0);
    val *out = ARENA_NEW(&made.b.arena, val, n + BLOCKED_COUNTS);
    inner.n_carry = n;
    out[n + BLOCKED_BLOCKS] = emit2(&made.b, OP_add, inner.carry[n + BLOCKED_BLOCKS],
                                    emit_full(&made.b, DT_I64, 1, 0, NULL));
    val first_round = n_sizes ? emit_full(&made.b, DT_I64, -(double)sizes[0], 0, NULL)
                              : emit1(&made.b, OP_neg, out[n + BLOCKED_BLOCKS]);
    val trips = emit_rounds(&made.b, &inner, first_round, sizes + !!n_sizes, n_sizes - !!n_sizes, out);
    out[n + BLOCKED_TRIPS] = emit2(&made.b, OP_add, inner.carry[n + BLOCKED_TRIPS], trips);
    regions[REGION_BODY] = new_body_finish(&made, out, n + BLOCKED_COUNTS, own, n_own);

    uint32_t *groups = ARENA_NEW(&b->arena, uint32_t, 1);
    groups[0] = n + BLOCKED_COUNTS;
    return (struct node_in){ .op = OP_while_loop,
                             .operands = carry,
                             .n_operands = n + BLOCKED_COUNTS,
                             .groups = groups,
                             .attrs = ARENA_ZNEW(&b->arena, struct attr, WHILE_ATTRS),
                             .regions = regions,
                             .n_regions = 2 };
}

/* ---- reverse ---- */

struct while_saved {
    struct step *step;
    struct node_in in;  /* the loop, or the loop of its blocks */
    uint32_t snapshots; /* 0: what the body needs is stacked */
    val trips;          /* with snapshots */
    val *stacks, *hoisted;
};

static bool few_trips(const struct builder *b, const struct attr *attrs)
{
    const struct attr *max = &attrs[WHILE_MAX_TRIPS];
    return max->kind != ATTR_ABSENT && dim_is_const(b->m, (dim)max->i) &&
           dim_const_value(b->m, (dim)max->i) <= FEW_TRIPS;
}

static void while_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct while_saved *saved = ARENA_ZNEW(&b->arena, struct while_saved, 1);
    struct node_in in = copier_node_in(v->copy, v->n);
    uint32_t user_carry = in.groups[0], user_results = module_fn(b->m, in.regions[REGION_BODY].fn)->n_results;
    struct schedule schedule = schedule_of(&in.attrs[WHILE_SCHEDULE]);
    bool recompute = schedule.kind != SCHEDULE_NONE;
    /* Stacks keep a row of every trip anyway, and blocks cannot tell that a trip is one too many. */
    bool blocks = (schedule.kind == SCHEDULE_EVERY || schedule.kind == SCHEDULE_SQRT) &&
                  user_results == user_carry && in.attrs[WHILE_MAX_TRIPS].kind == ATTR_ABSENT;
    bool *active = region_mask(&b->arena, v->f, v->n, REGION_BODY, v->active);
    if (blocks) {
        in = emit_blocked(b, &in, schedule.every, schedule.n_every);
        bool *more = ARENA_ZNEW(
            &b->arena, bool,
            in.groups[0] + in.regions[REGION_BODY].n_operands); /* the predicate's operands stay inactive */
        uint32_t n_own = node_region(v->f, v->n, REGION_BODY)->n_operands;
        for (uint32_t k = 0; k < user_carry; k++) more[k] = active[k];
        for (uint32_t k = 0; k < n_own; k++) more[user_carry + BLOCKED_COUNTS + k] = active[user_carry + k];
        active = more;
    }
    saved->in = in;
    const struct region_in *body = &in.regions[REGION_BODY];
    uint32_t n_carry = in.groups[0], n_results = module_fn(b->m, body->fn)->n_results;
    bool *wanted = ARENA_ZNEW(&b->arena, bool, n_results);
    for (uint32_t k = 0; k < user_results; k++)
        wanted[k] = v->result_wanted[result_at(k, user_carry)]; /* a count of trips among carries is wanted by
                                                                   nobody */
    struct step *s = NULL;
    if (schedule.snapshots)
        s = step_reverse(b->m, &b->arena, body->fn, n_carry, 0, active, wanted, false, true);
    if (s && step_needs_snapshots(s)) saved->snapshots = schedule.snapshots;
    else s = step_reverse(b->m, &b->arena, body->fn, n_carry, 0, active, wanted, true, recompute);
    saved->step = s;
    saved->hoisted = step_emit_hoisted(b, s, body->operands, body->dims);
    struct attr attrs[WHILE_ATTRS];
    memcpy(attrs, in.attrs, sizeof attrs);
    if (saved->snapshots) attrs[WHILE_COUNT] = A_FLAG(1);
    else if (user_results == user_carry && !few_trips(b, attrs))
        attrs[WHILE_TAPE] = A_FLAG(1); /* the pullback skips the rows of lanes that did not run */
    val first = emit_while(b, in.operands, n_carry, attrs, in.regions[REGION_COND],
                           (struct region_in){ saved->snapshots ? body->fn : s->forward, body->operands,
                                               body->n_operands, body->dims });
    for (uint32_t k = 0; k < v->n->n_results; k++)
        v->results[k] = first + k,
        v->result_active[k] = false; /* blocks: their count of trips stands where the count is */
    for (uint32_t k = 0; k < user_results; k++)
        v->result_active[result_at(k, user_carry)] = k < user_carry ? s->active[k] : s->result_active[k];
    saved->stacks = ARENA_NEW(&b->arena, val, s->n_stack + s->n_extra);
    for (uint32_t k = 0; k < s->n_stack + (saved->snapshots ? 0 : s->n_extra); k++)
        saved->stacks[k] = first + n_carry + 1 + k;
    saved->trips = first + n_carry;
    step_tell(b, s, v->n,
              saved->snapshots ? HOP_NONE : emit_type(b, saved->stacks[s->n_stack + s->n_extra - 1]).dims[0],
              body->dims, saved->snapshots);
    v->saved = saved;
}

static void while_vjp(struct vjp *v)
{
    const struct while_saved *saved = v->saved;
    const struct node_in *in = &saved->in;
    const struct step *s = saved->step;
    const struct region *body = node_region(v->f, v->n, REGION_BODY);
    uint32_t n_carry = node_group_size(v->f, v->n, 0);
    val *ct = ARENA_NEW(&v->b->arena, val, s->n_carry + s->n_stack),
        *out = ARENA_NEW(&v->b->arena, val, s->n_carry + s->n_own);
    for (uint32_t k = 0; k < s->n_carry + s->n_stack; k++) ct[k] = VAL_NONE;
    for (uint32_t k = 0; k < n_carry; k++) ct[k] = v->ct[k];
    for (uint32_t k = n_carry; k < n_carry + s->n_stack; k++)
        ct[k] = v->ct[result_at(k, n_carry)]; /* only without blocks */
    struct step_backward back = { .s = s,
                                  .carry = in->operands,
                                  .own = in->regions[REGION_BODY].operands,
                                  .stacks = saved->stacks,
                                  .hoisted = saved->hoisted,
                                  .ct = ct,
                                  .dims = in->regions[REGION_BODY].dims };
    if (saved->snapshots) {
        step_emit_from_snapshots(v->b, &back, &(struct snapshots){ saved->snapshots, saved->trips, VAL_NONE },
                                 out);
    } else {
        back.length = emit_type(v->b, saved->stacks[s->n_stack + s->n_extra - 1]).dims[0];
        step_emit_backward(v->b, &back, out);
    }
    for (uint32_t k = 0; k < n_carry; k++) v->out[k] = out[k];
    for (uint32_t k = 0; k < body->n_operands; k++) v->out[body->operands + k] = out[s->n_carry + k];
}

/* The predicate with parameters for tangents that it does not look at. */
static struct region_in predicate_beside_tangents(struct builder *b, const struct region_in *cond,
                                                  uint32_t n_carry, const bool *active)
{
    const struct fn *f = module_fn(b->m, cond->fn);
    struct new_body body;
    new_body_begin(&body, b, f, cond->dims, f->n_outer_symbols);
    val *args = ARENA_NEW(&body.b.arena, val, f->n_params), out;
    for (uint32_t k = 0; k < n_carry; k++)
        args[k] = builder_param(&body.b, value_type(f, k), f->values[k].name);
    for (uint32_t k = 0; k < n_carry; k++)
        if (active[k]) builder_param(&body.b, value_type(f, k), 0);
    for (uint32_t k = n_carry; k < f->n_params; k++)
        args[k] = builder_param(&body.b, value_type(f, k), f->values[k].name);
    inline_function(&body.b, cond->fn, NULL, args, &out);
    return new_body_finish(&body, &out, 1, cond->operands, cond->n_operands);
}

static void while_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    const struct region_in *body = &in.regions[REGION_BODY];
    const val *own_tangents = j->tangents + node_region(j->f, j->n, REGION_BODY)->operands;
    uint32_t n_carry = in.groups[0], n_body = module_fn(b->m, body->fn)->n_results;
    bool *has = ARENA_NEW(&b->arena, bool, j->n->n_operands),
         *stack_active = ARENA_ZNEW(&b->arena, bool, n_body);
    for (uint32_t k = 0; k < j->n->n_operands; k++) has[k] = j->tangents[k] != VAL_NONE;
    bool *active = region_mask(&b->arena, j->f, j->n, REGION_BODY, has);
    uint32_t fn = step_jvp(b->m, body->fn, n_carry, 0, active, stack_active);
    val *carry = ARENA_NEW(&b->arena, val, 2 * (size_t)n_carry),
        *own = ARENA_NEW(&b->arena, val, 2 * (size_t)body->n_operands);
    uint32_t n = n_carry, n_own = body->n_operands;
    memcpy(carry, in.operands, n * sizeof *carry);
    if (n_own) memcpy(own, body->operands, n_own * sizeof *own);
    for (uint32_t k = 0; k < n_carry; k++)
        if (active[k])
            carry[n++] = j->tangents[k] != VAL_NONE ? j->tangents[k] : zeros_like(b, in.operands[k]);
    for (uint32_t k = 0; k < body->n_operands; k++)
        if (active[n_carry + k]) own[n_own++] = own_tangents[k];
    val next = emit_while(b, carry, n, in.attrs,
                          predicate_beside_tangents(b, &in.regions[REGION_COND], n_carry, active),
                          (struct region_in){ fn, own, n_own, body->dims });
    for (uint32_t k = 0; k < n_carry; k++) j->results[k] = next++;
    for (uint32_t k = 0; k < n_carry; k++) j->out[k] = active[k] ? next++ : VAL_NONE;
    for (uint32_t k = n_carry; k < j->n->n_results; k++) j->results[k] = next++; /* trip count and stacks */
    for (uint32_t k = n_carry; k < n_body; k++) j->out[k + 1] = stack_active[k - n_carry] ? next++ : VAL_NONE;
}

/* ---- lanes ---- */

/* All lanes go on and stop together. */
static void batch_plain(struct batch *v, const struct node_in *in, const bool *batched, struct region_in cond,
                        struct region_in body, const bool *stack_batched)
{
    uint32_t n_carry = in->groups[0];
    val *carry = ARENA_NEW(&v->b->arena, val, n_carry);
    for (uint32_t k = 0; k < n_carry; k++)
        carry[k] = batched[k] && !v->batched[k] ? emit_broadcast_front(v->b, in->operands[k], v->size)
                                                : in->operands[k];
    val next = emit_while(v->b, carry, n_carry, in->attrs, cond, body);
    for (uint32_t k = 0; k < v->n->n_results; k++, next++) {
        v->result_batched[k] = k < n_carry ? batched[k] : k > n_carry && stack_batched[k - n_carry - 1];
        v->results[k] = k > n_carry && v->result_batched[k] ? emit_move_dim(v->b, next, 1, 0) : next;
    }
}

/* A loop that goes on while any lane does: carries are which lanes are alive, their trips (if asked for),
 * last values, and the loop's own. A carry that depends on nothing batched is the same in all lanes that are
 * still alive: it goes on as one value, and each lane's last value of it is a carry beside it. */
struct masked {
    struct batch *v;
    const struct node_in *in;
    const bool *batched; /* per parameter of the body */
    bool *keeps_last;    /* per carry: it changes and is not batched */
    uint32_t n_last;
    struct region_in cond, body; /* over lanes, each with the lanes' mask last if it has effects */
    bool cond_lanes, body_lanes, count;
    uint32_t n_carry, n_stack;
};

static struct region_in any_alive(const struct masked *w, const val *carry, uint32_t n)
{
    struct new_body body;
    new_body_begin(&body, w->v->b, NULL, NULL, 0);
    type_id *types = ARENA_NEW(&body.b.arena, type_id, n);
    for (uint32_t k = 0; k < n; k++) types[k] = new_body_type(&body, builder_type(w->v->b, carry[k]));
    for (uint32_t k = 0; k < n; k++) builder_param(&body.b, types[k], 0);
    uint32_t all = 0;
    val out = emit_reduce(&body.b, OP_any, 0, &all, 1);
    return new_body_finish(&body, &out, 1, NULL, 0);
}

/* Which lanes go on with these carries? Inlines the predicate; symbols: what its symbols are in b. */
static val lanes_that_go_on(struct builder *b, const struct masked *w, const dim *symbols, const val *carry,
                            const val *own, val alive)
{
    const struct fn *cond = module_fn(b->m, w->cond.fn);
    val *args = ARENA_NEW(&b->arena, val, cond->n_params), again;
    for (uint32_t k = 0; k < w->n_carry; k++) args[k] = carry[k];
    for (uint32_t k = w->n_carry; k < cond->n_params; k++) args[k] = own[k - w->n_carry];
    if (w->cond_lanes) args[cond->n_params - 1] = alive;
    inline_function(b, w->cond.fn, symbols, args, &again);
    return alive == VAL_NONE ? again : emit2(b, OP_and, alive, again);
}

static struct region_in masked_body(const struct masked *w)
{
    struct module *m = w->v->b->m;
    const struct fn *inner = module_fn(m, w->body.fn), *cond = module_fn(m, w->cond.fn);
    uint32_t n_own = inner->n_params - w->n_carry - w->body_lanes,
             n_cond_own = cond->n_params - w->n_carry - w->cond_lanes;
    struct new_body body;
    struct builder *b = &body.b;
    new_body_begin(&body, w->v->b, inner, w->body.dims, inner->n_outer_symbols);
    dim size = new_body_dim(&body, w->v->size), *symbols = ARENA_NEW(&b->arena, dim, cond->n_outer_symbols);
    for (uint32_t k = 0; k < cond->n_outer_symbols; k++) symbols[k] = new_body_dim(&body, w->cond.dims[k]);
    val alive = builder_param(b, type_intern(m, DT_BOOL, 1, &size), 0),
        count = w->count ? builder_param(b, type_intern(m, DT_I64, 1, &size), 0) : VAL_NONE;
    val *carry = ARENA_NEW(&b->arena, val, w->n_carry), *own = ARENA_NEW(&b->arena, val, n_own),
        *cond_own = ARENA_NEW(&b->arena, val, n_cond_own);
    val last = b->values.len;
    for (uint32_t k = 0; k < w->n_carry; k++)
        if (w->keeps_last[k]) builder_param(b, type_prepend(m, value_type(inner, k), size), 0);
    for (uint32_t k = 0; k < w->n_carry; k++)
        carry[k] = builder_param(b, value_type(inner, k), inner->values[k].name);
    for (uint32_t k = 0; k < n_own; k++)
        own[k] = builder_param(b, value_type(inner, w->n_carry + k), inner->values[w->n_carry + k].name);
    for (uint32_t k = 0; k < n_cond_own; k++)
        cond_own[k] = builder_param(b, type_substitute(m, value_type(cond, w->n_carry + k), symbols), 0);

    val lane = running_lane(b, alive), *args = ARENA_NEW(&b->arena, val, inner->n_params),
        *all = ARENA_NEW(&b->arena, val, inner->n_results);
    for (uint32_t p = 0; p < w->n_carry + n_own; p++) {
        val x = p < w->n_carry ? carry[p] : own[p - w->n_carry];
        args[p] = w->batched[p] ? safe_operand(b, alive, lane, x) : x;
    }
    if (w->body_lanes) args[inner->n_params - 1] = alive;
    inline_function(b, w->body.fn, NULL, args, all);
    val *out = ARENA_NEW(&b->arena, val, inner->n_results + 2 + w->n_last);
    uint32_t n = 1 + w->count;
    for (uint32_t k = 0; k < w->n_carry; k++)
        if (w->keeps_last[k]) out[n++] = emit_where(b, alive, emit_broadcast_front(b, all[k], size), last++);
    for (uint32_t k = 0; k < w->n_carry; k++)
        out[n + k] = w->batched[k] ? emit_where(b, alive, all[k], carry[k]) : all[k];
    for (uint32_t k = w->n_carry; k < inner->n_results; k++)
        out[n + k] = emit_where(b, alive, all[k], zeros_like(b, all[k]));
    out[0] = lanes_that_go_on(b, w, symbols, out + n, cond_own, alive);
    if (w->count) out[1] = emit2(b, OP_add, count, emit_cast(b, alive, DT_I64));
    val *operands = ARENA_NEW(&w->v->b->arena, val, n_own + n_cond_own);
    for (uint32_t k = 0; k < n_own; k++) operands[k] = w->body.operands[k];
    for (uint32_t k = 0; k < n_cond_own; k++) operands[n_own + k] = w->cond.operands[k];
    return new_body_finish(&body, out, n + inner->n_results, operands, n_own + n_cond_own);
}

static void batch_masked(const struct masked *w)
{
    struct batch *v = w->v;
    struct builder *b = v->b;
    val *carry = ARENA_NEW(&b->arena, val, w->n_carry + 2 + w->n_last),
        *own = carry + 1 + w->count + w->n_last;
    for (uint32_t k = 0; k < w->n_carry; k++)
        own[k] = w->batched[k] && !v->batched[k] ? emit_broadcast_front(b, w->in->operands[k], v->size)
                                                 : w->in->operands[k];
    val lanes = v->lanes;
    if (w->cond_lanes && lanes == VAL_NONE) lanes = emit_full(b, DT_BOOL, 1, 1, &v->size);
    carry[0] = lanes_that_go_on(b, w, w->cond.dims, own, w->cond.operands, lanes);
    uint32_t n = 1;
    if (w->count) carry[n++] = emit_full(b, DT_I64, 0, 1, &v->size);
    for (uint32_t k = 0; k < w->n_carry; k++)
        if (w->keeps_last[k]) carry[n++] = emit_broadcast_front(b, own[k], v->size);
    n += w->n_carry;
    struct attr attrs[WHILE_ATTRS];
    memcpy(attrs, w->in->attrs, sizeof attrs);
    attrs[WHILE_COUNT] = A_NONE;
    if (w->n_stack && attrs[WHILE_MAX_TRIPS].kind == ATTR_ABSENT && attrs[WHILE_TAPE].kind == ATTR_ABSENT)
        hop_throw(
            HOP_INVALID,
            "%swhile_loop: batched, its number of trips differs from lane to lane, so its stacked results "
            "have no common length; {max_trips = N} gives them one, with zeros behind each lane's last trip",
            place_text(b->m, v->n->place));
    val first = emit_while(b, carry, n, attrs, any_alive(w, carry, n), masked_body(w)),
        last = first + 1 + w->count, next = last + w->n_last;
    for (uint32_t k = 0; k < w->n_carry; k++, next++)
        v->results[k] = w->keeps_last[k] ? last++ : next,
        v->result_batched[k] = w->batched[k] || w->keeps_last[k];
    if (w->count) v->results[w->n_carry] = first + 1;
    for (uint32_t k = 0; k < w->n_stack; k++)
        v->results[w->n_carry + 1 + k] = emit_move_dim(b, ++next, 1, 0); /* past the number of all trips */
}

static struct region_in region_over_lanes(struct batch *v, const struct region_in *r, uint32_t fn, bool lanes,
                                          uint32_t n_dims)
{
    val *operands = ARENA_NEW(&v->b->arena, val, r->n_operands + 1);
    if (r->n_operands) memcpy(operands, r->operands, r->n_operands * sizeof *operands);
    if (lanes) operands[r->n_operands] = v->lanes;
    return (struct region_in){ fn, operands, r->n_operands + lanes,
                               batch_body_dims(v, r, module_fn(v->b->m, fn), n_dims) };
}

static void while_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct module *m = b->m;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct fn *cond = module_fn(m, in.regions[REGION_COND].fn),
                    *body = module_fn(m, in.regions[REGION_BODY].fn);
    uint32_t n_carry = in.groups[0], n_stack = body->n_results - n_carry;
    bool *batched = region_mask(&b->arena, v->f, v->n, REGION_BODY, v->batched),
         *cond_batched = region_mask(&b->arena, v->f, v->n, REGION_COND, v->batched);
    bool *stack_batched = ARENA_ZNEW(&b->arena, bool, n_stack), lanes = v->lanes != VAL_NONE, differs;
    dim size = batch_body_size(v);
    uint32_t body_fn = step_batch(m, body->id, n_carry, batched, size, lanes && body->effects, stack_batched);
    for (uint32_t k = 0; k < n_carry; k++) cond_batched[k] = batched[k];
    uint32_t cond_fn = step_batch(m, cond->id, 0, cond_batched, size, lanes && cond->effects, &differs);
    if (!differs) {
        batch_plain(v, &in, batched,
                    region_over_lanes(v, &in.regions[REGION_COND], cond_fn, lanes && cond->effects,
                                      cond->n_outer_symbols),
                    region_over_lanes(v, &in.regions[REGION_BODY], body_fn, lanes && body->effects,
                                      body->n_outer_symbols),
                    stack_batched);
        return;
    }
    struct masked w = { .v = v,
                        .in = &in,
                        .batched = batched,
                        .keeps_last = ARENA_NEW(&b->arena, bool, n_carry),
                        .cond_lanes = cond->effects,
                        .body_lanes = body->effects,
                        .count = v->n->n_results > n_carry,
                        .n_carry = n_carry,
                        .n_stack = n_stack };
    bool *force = ARENA_NEW(&b->arena, bool, body->n_results),
         *found = ARENA_NEW(&b->arena, bool, body->n_results);
    for (uint32_t k = 0; k < body->n_results; k++) force[k] = k >= n_carry || batched[k];
    for (uint32_t k = 0; k < n_carry; k++) w.n_last += w.keeps_last[k] = !batched[k] && body->results[k] != k;
    body_fn = body_over_lanes(m, body->id, batched, size, force, w.body_lanes, found);
    cond_fn = step_batch(m, cond->id, 0, cond_batched, size, w.cond_lanes, &differs);
    w.body = region_over_lanes(v, &in.regions[REGION_BODY], body_fn, false, body->n_outer_symbols);
    w.cond = region_over_lanes(v, &in.regions[REGION_COND], cond_fn, false, cond->n_outer_symbols);
    batch_masked(&w);
}

/* ---- simplification ---- */

/* A stack of one known number (the rows that ran, in a gradient) is no stack. Only where the number of rows
 * is that of trips: zeros fill the others. Simplification comes after batching, which gives each lane its own
 * rows. */
static bool while_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    struct builder *b = c->b;
    const struct region *g = node_region(c->f, n, REGION_BODY);
    const struct fn *body = module_fn(b->m, g->fn);
    uint32_t n_carry = node_group_size(c->f, n, 0), n_stack = body->n_results - n_carry, n_left = 0;
    (void)options;
    if (!n_stack || has_all_rows(node_attr(c->f, n, 0))) return false;
    bool *keep = ARENA_NEW(&b->arena, bool, body->n_results);
    for (uint32_t k = 0; k < body->n_results; k++) {
        uint32_t made = body->values[body->results[k]].node;
        keep[k] = k < n_carry || made == NODE_NONE || fn_node(body, made)->op != OP_full;
        n_left += k >= n_carry && keep[k];
    }
    if (n_left == n_stack) return false;
    struct node_in in = copier_node_in(c, n);
    struct region_in region = in.regions[REGION_BODY];
    struct attr attrs[WHILE_ATTRS] = { [WHILE_COUNT] = A_FLAG(1),
                                       [WHILE_TAPE] = in.attrs[WHILE_TAPE],
                                       [WHILE_MAX_TRIPS] = in.attrs[WHILE_MAX_TRIPS] };
    schedule_copy(&attrs[WHILE_SCHEDULE], &in.attrs[WHILE_SCHEDULE]);
    region.fn = prune_function(b->m, region.fn, keep);
    val next = emit_while(b, in.operands, n_carry, attrs, in.regions[REGION_COND], region);
    for (uint32_t k = 0; k <= n_carry; k++) results[k] = next + k;
    val rows = n_left ? next + n_carry + 1 : emit1(b, OP_bind_dim, next + n_carry);
    dim trips = emit_type(b, rows).dims[0];
    for (uint32_t k = n_carry, from = next + n_carry + 1; k < body->n_results; k++) {
        if (keep[k]) {
            results[k + 1] = from++;
            continue;
        }
        const struct node *full = fn_node(body, body->values[body->results[k]].node);
        struct type t = type_get(
            b->m, type_prepend(b->m, type_substitute(b->m, value_type(body, body->results[k]), region.dims),
                               trips));
        struct attr made[3] = { [FULL_VALUE] = *node_attr(body, full, FULL_VALUE),
                                [FULL_DIMS] = A_DIMS(t.dims, t.rank),
                                [FULL_DTYPE] = A_DTYPE(t.dtype) };
        results[k + 1] = emit(b, OP_full, NULL, 0, made);
    }
    return true;
}

static const struct op_sample while_samples[] = {
    { "hop 1\n"
      "fn @sample(%x: f64[2], %w: f64[2], %n: i64[]) -> (f64[2]) {\n"
      "  %k, %y = while_loop {schedule = binomial, snapshots = 2} carry(%i = %n, %c = %x) cond {\n"
      "    %zero = full {value = 0, dims = [], dtype = i64}\n"
      "    %t = gt(%i, %zero)\n"
      "    test(%t)\n"
      "  } body with(%v = %w) {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n"
      "    %j = sub(%i, %one)\n"
      "    %m = mul(%c, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%j, %d)\n"
      "  }\n"
      "  return %y\n"
      "}\n",
      "n = 0..5" },
    { "hop 1\n"
      "fn @sample(%x: f64[], %w: f64[], %n: i64[]) -> (f64[], i64[]) {\n"
      "  %k, %y, %t = while_loop {count, schedule = sqrt} carry(%i = %n, %c = %x) cond {\n"
      "    %zero = full {value = 0, dims = [], dtype = i64}\n"
      "    %g = gt(%i, %zero)\n"
      "    test(%g)\n"
      "  } body with(%v = %w) {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n"
      "    %j = sub(%i, %one)\n"
      "    %m = mul(%c, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%j, %d)\n"
      "  }\n"
      "  return %y, %t\n"
      "}\n",
      "n = 0..7" },
    { "hop 1\n"
      "fn @sample(%x: f64[3], %w: f64[3], %n: i64[]) -> (i64[], f64[3]) {\n"
      "  %k, %y = while_loop carry(%i = %n, %c = %x) cond {\n"
      "    %zero = full {value = 0, dims = [], dtype = i64}\n"
      "    %t = gt(%i, %zero)\n"
      "    test(%t)\n"
      "  } body with(%v = %w) {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n"
      "    %j = sub(%i, %one)\n"
      "    %m = mul(%c, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%j, %d)\n"
      "  }\n"
      "  return %k, %y\n"
      "}\n",
      "n = 0..4" },
    { "hop 1\n"
      "fn @sample(%x: f64[], %w: f64[], %n: i64[]) -> (f64[], i64[]) {\n"
      "  %k, %y, %t = while_loop {count, every = [2]} carry(%i = %n, %c = %x) cond {\n"
      "    %zero = full {value = 0, dims = [], dtype = i64}\n"
      "    %g = gt(%i, %zero)\n"
      "    test(%g)\n"
      "  } body with(%v = %w) {\n"
      "    %one = full {value = 1, dims = [], dtype = i64}\n"
      "    %j = sub(%i, %one)\n"
      "    %m = mul(%c, %v)\n"
      "    %d = sin(%m)\n"
      "    next(%j, %d)\n"
      "  }\n"
      "  return %y, %t\n"
      "}\n",
      "n = 0..5" },
    { "hop 1\n"
      "fn @sample(%x: f64[]) -> (f64[], i64[], f64[6]) {\n"
      "  %y, %t, %ys = while_loop {max_trips = 6} carry(%c = %x) cond {\n"
      "    %one = full {value = 1, dims = [], dtype = f64}\n"
      "    %g = lt(%c, %one)\n"
      "    test(%g)\n"
      "  } body {\n"
      "    %step = full {value = 0.5, dims = [], dtype = f64}\n"
      "    %d = add(%c, %step)\n"
      "    %s = sin(%d)\n"
      "    next(%d) stack(%s)\n"
      "  }\n"
      "  return %y, %t, %ys\n"
      "}\n",
      "x = -1.9..0.9" },
};

static const struct attr_spec while_attrs[] = {
    [WHILE_MAX_TRIPS] = { "max_trips", ATTR_DIM, false, NULL },
    [WHILE_COUNT] = { "count", ATTR_FLAG, false, NULL },
    SCHEDULE_ATTRS(WHILE_SCHEDULE),
    [WHILE_TAPE] = { "tape", ATTR_FLAG, false, NULL }, /* made by gradients: a row a trip, whatever max_trips
                                                          says, and rows are read only where they ran */
};

static const struct loop_row while_parts = {
    .kind = LOOP_WHILE,
    .group = { .carry = 1 },
    .region = { .body = 1 + REGION_BODY, .cond = 1 + REGION_COND },
    .attr = { .max_trips = 1 + WHILE_MAX_TRIPS,
              .count = 1 + WHILE_COUNT,
              .tape = 1 + WHILE_TAPE,
              .schedule = 1 + WHILE_SCHEDULE },
};

const struct op_row row_while_loop = {
    .name = "while_loop",
    .meaning = "a body repeated on carries while a predicate of them holds; further results are stacked, one "
               "row a trip",
    .sig = { .n_attrs = HOP_COUNT(while_attrs),
             .attrs = while_attrs,
             .n_groups = 1,
             .groups = { { "carry", GROUP_CARRY } },
             .min_regions = 2,
             .max_regions = 2,
             .regions = { { .word = "cond", .feeds = 1, .results = { "test" } },
                          { .word = "body", .feeds = 1, .results = { "next", "stack" } } } },
    .check_attr = WHILE_MAX_TRIPS + 1,
    .flags = OPF_HIGHER,
    .infer = while_infer,
    .eval = while_eval,
    .vjp = while_vjp,
    .vjp_forward = while_vjp_forward,
    .jvp = while_jvp,
    .batch = while_batch,
    .rewrite = while_rewrite,
    HOP_SAMPLES(while_samples),
    .lower = &while_lower,
    .loop = &while_parts,
    .count = while_count,
};
