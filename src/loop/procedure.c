/* Bodies that are not put in place. Lowering writes the body of every loop and branch where it stands, and of
 * every call that is not worth it (transform/sharing.h). Other bodies become procedures: each is lowered
 * once, and called with the addresses of its arrays, in memory of its own. Only bodies without effects and
 * without sizes found while running can.
 *
 * Functions that call each other several times over would become more code than any machine has memory for.
 * A program that would be large with its bodies in place is a *large* one: there loops and branches call
 * their bodies, too, and nothing is given to threads or lies on the stack. */
#include "loop/lower_impl.h"
#include "ops/build.h"
#include "transform/cost.h"
#include "transform/sharing.h"

enum {
    LARGE_PROGRAM = 10000, /* nodes with all bodies in place, those of shared calls once: it is large … */
    LARGE_BY_BODIES = 4,   /* … if these are so many times the nodes that were written */
    LEAST_PROCEDURE = 128, /* then: nodes of a body, all in place, that are worth a call … */
    OFTEN = 4,             /* … if there would be so many copies of it */
    DEEP_PROGRAM = 200,    /* bodies in bodies: the same by depth */
    SHALLOW_PROGRAM = 16,  /* bodies in bodies: up to here small arrays of procedures lie on the stack */
    DEEPEST_BODY = 600,    /* below the entry or a procedure: those that look at loop programs go as deep */
    DEEPEST_CALLS = 1000,  /* procedures that call each other: the stack of the thread that runs them */
    MOST_SHARED = 2000,    /* nodes of a body that threads run: it is one function, not cut into several */
    MOST_NODES = 2000000   /* of everything that is put in place */
};
static _Thread_local bool procedures_everywhere;
void lower_procedures_everywhere(bool on) { procedures_everywhere = on; }

static const uint64_t COUNTLESS = UINT64_MAX / 4;

struct unfolding {
    uint64_t nodes;        /* with all bodies in place */
    uint32_t depth;        /* of bodies in bodies */
    bool reached;          /* the program mentions it, or something that does */
    bool plain;            /* neither effects nor sizes found while running, in it and in its bodies */
    bool outward;          /* it or a body of it asks the host for something, or moves values out of memory */
    bool called;           /* calls alone mention it … */
    enum inlining written; /* … and this is what all of them say of it */
    struct shared_body share; /* copies: procedures count once */
    uint32_t wrapper;         /* a function that does nothing but call it, HOP_NONE: not made yet */
};
struct procedure {
    uint32_t fn, n_dims;
    const dim *dims;            /* its symbols, over the entry's */
    const uint32_t *overwrites; /* per result: the parameter in whose memory it is made, HOP_NONE */
    bool in_loop;               /* it is called in loops: nothing in it is given to threads */
    bool in_region;             /* it is called by threads */
    struct lp_regime regime;    /* of the calls */
    uint32_t number;            /* in lp.procedures */
};

static bool is_outward(const struct fn *f)
{
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct op_row *row = node_row(fn_node(f, i));
        if (row->effect || row->effects || row->moves) return true;
    }
    return false;
}

static void survey_reached(const struct module *m, struct unfolding *all, uint32_t fn)
{
    all[fn].reached = true;
    for (uint32_t i = fn + 1; i-- > 0;) {
        const struct fn *f = module_fn(m, i);
        for (uint32_t r = 0; r < f->n_regions && all[i].reached; r++) all[f->regions[r].fn].reached = true;
    }
}

/* What each function is with its bodies. A function comes after those that it mentions, so one sweep is
 * enough. */
static void survey_bodies(struct module *m, struct unfolding *all, uint32_t fn)
{
    for (uint32_t i = 0; i <= fn; i++) {
        const struct fn *f = module_fn(m, i);
        struct unfolding *u = &all[i];
        if (!u->reached) continue;
        u->nodes = f->n_nodes;
        u->plain = !f->effects && f->n_symbols == f->n_outer_symbols;
        u->outward = is_outward(f);
        u->called = true;
        u->share = (struct shared_body){ .code = own_code(f), .work = run_cost(m, i) };
        u->wrapper = HOP_NONE;
        for (uint32_t r = 0; r < f->n_regions; r++) {
            const struct unfolding *inner = &all[f->regions[r].fn];
            u->nodes = HOP_MIN(u->nodes + inner->nodes, COUNTLESS);
            u->share.code = HOP_MIN(u->share.code + inner->share.code, COUNTLESS);
            u->depth = HOP_MAX(u->depth, inner->depth + 1);
            u->plain &= inner->plain;
            u->outward |= inner->outward;
        }
    }
}

/* How `f`, of which there are `there` copies, mentions its bodies. */
static void survey_mentions(struct unfolding *all, const struct fn *f, uint64_t there)
{
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        const struct op_row *row = node_row(n);
        for (uint32_t r = 0; r < n->n_regions; r++) {
            struct unfolding *inner = &all[node_region(f, n, r)->fn];
            enum inlining written = node_inlining(f, n);
            inner->called &= row->control == CONTROL_CALL;
            inner->written = !inner->share.copies || inner->written == written ? written : INLINE_UNSAID;
            inner->share.in_loop |= row->loop || all[f->id].share.in_loop;
            inner->share.copies = HOP_MIN(inner->share.copies + there, COUNTLESS);
        }
    }
}

struct amount {
    uint64_t written; /* nodes, each function counted once */
    uint64_t placed;  /* with all bodies in place but those of procedures, which are there once */
};

/* Copies of every function in `fn`, of which there is one. From the last one on, all that mention a function
 * are known before it. */
static struct amount survey_copies(const struct module *m, struct unfolding *all, uint32_t fn, bool sharing)
{
    struct amount amount = { 0 };
    for (uint32_t i = 0; i <= fn; i++) all[i].share.copies = i == fn;
    for (uint32_t i = fn + 1; i-- > 0;) {
        const struct fn *f = module_fn(m, i);
        const struct unfolding *u = &all[i];
        if (!u->reached) continue;
        bool shared = sharing && u->plain && u->called &&
                      !is_placed(place_call(false, u->written, &u->share));
        uint64_t there = shared ? 1 : u->share.copies, nodes;
        if (__builtin_mul_overflow(there, (uint64_t)f->n_nodes, &nodes)) nodes = COUNTLESS;
        amount.written += f->n_nodes;
        amount.placed = HOP_MIN(amount.placed + HOP_MIN(nodes, COUNTLESS), COUNTLESS);
        survey_mentions(all, f, there);
    }
    return amount;
}

void procedure_survey(struct shared *S, uint32_t fn)
{
    struct unfolding *all = ARENA_ZNEW(&S->p->arena, struct unfolding, fn + 1);
    survey_reached(S->m, all, fn);
    survey_bodies(S->m, all, fn);
    struct amount amount = survey_copies(S->m, all, fn, true);
    bool repeats = amount.placed > LARGE_PROGRAM && amount.placed / LARGE_BY_BODIES > amount.written;
    S->unfolding = all;
    S->large = all[fn].depth > DEEP_PROGRAM || repeats;
    S->shallow = all[fn].depth <= SHALLOW_PROGRAM;
    S->procedure_map.arena = &S->p->arena;
    if (S->large) survey_copies(S->m, all, fn, false);
}

static const struct fn *program_entry(const struct shared *S) { return S->program->entry; }

/* Calls cannot stand in vector loops, and two of one procedure not beside each other. */
static bool may_call(const struct lp *p)
{
    for (uint32_t i = 0; i < p->open.len; i++)
        if (p->open.data[i].kind == LP_FOR && p->open.data[i].mode != FOR_SERIAL) return false;
    return true;
}

static bool over_budget(const struct shared *S, const struct unfolding *u)
{
    if (procedures_everywhere || (S->large && S->depth >= DEEP_PROGRAM)) return true;
    return S->large && u->nodes >= LEAST_PROCEDURE && u->share.copies >= OFTEN;
}

/* How the body of a call, or of a loop or a branch that says nothing of it, is compiled here. */
static enum placing placing_here(const struct lower *L, uint32_t fn, enum inlining written)
{
    const struct shared *S = L->S;
    if (fn > program_entry(S)->id) return PLACED_FOR_SIZE;
    const struct unfolding *u = &S->unfolding[fn];
    if (!u->plain || !may_call(S->p)) return PLACED_FOR_SIZE;
    struct shared_body here = u->share;
    here.in_loop = lower_in_loop(L);
    if (S->large) here.copies = 1; /* the budget alone has bodies called */
    return place_call(over_budget(S, u), written, &here);
}

bool lower_may_share(const struct lower *L, uint32_t fn)
{
    const struct shared *S = L->S;
    if (fn > program_entry(S)->id || S->large) return false;
    const struct unfolding *u = &S->unfolding[fn];
    bool meets = module_fn(S->m, fn)->exchanged; /* ranks meet in one order, on one thread each */
    return u->plain && !meets && !u->outward && u->nodes <= MOST_SHARED;
}

/* ---- making ---- */

static bool same_list(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    return !n || !memcmp(a, b, n * sizeof *a);
}

static bool same_regime(const struct lp_regime *a, const struct lp_regime *b)
{
    return a->strict == b->strict && a->scalar == b->scalar && a->unroll == b->unroll &&
           a->threads == b->threads;
}

static uint64_t hash_procedure(const struct procedure *q, uint32_t n_results)
{
    uint64_t hash = hash_mix(q->fn,
                             q->in_loop | (uint64_t)q->regime.strict << 1 | (uint64_t)q->in_region << 2);
    for (uint32_t i = 0; i < q->n_dims; i++) hash = hash_mix(hash, q->dims[i]);
    for (uint32_t k = 0; k < n_results; k++) hash = hash_mix(hash, q->overwrites[k]);
    return hash;
}

/* The number of the procedure like `wanted`, HOP_NONE: there is none. */
static uint32_t find_procedure(const struct shared *S, const struct procedure *wanted)
{
    const struct map *map = &S->procedure_map;
    uint32_t n_results = module_fn(S->m, wanted->fn)->n_results;
    uint64_t hash = hash_procedure(wanted, n_results);
    for (uint32_t it = map_first(map, hash); it != HOP_NONE; it = map_next(map, hash, it)) {
        const struct procedure *q = &S->procedures.data[map_value(map, it)];
        bool same = q->fn == wanted->fn && q->in_loop == wanted->in_loop &&
                    q->in_region == wanted->in_region && q->n_dims == wanted->n_dims;
        if (same && same_regime(&q->regime, &wanted->regime) && same_list(q->dims, wanted->dims, q->n_dims) &&
            same_list(q->overwrites, wanted->overwrites, n_results))
            return q->number;
    }
    return HOP_NONE;
}

static uint32_t param_buffer(struct lower *L, type_id t)
{
    struct lp *p = L->S->p;
    uint32_t b = lower_new_buffer(L, t, "parameter of a procedure");
    if (p->buffers.data[b].kind == BUF_DYN)
        hop_throw(HOP_INTERNAL, "a procedure has a parameter of a size found while running");
    p->buffers.data[b].kind = BUF_PARAM;
    p->buffers.data[b].index = b;
    return b;
}

/* The symbols of `B`'s function: dims over those of the entry. */
static void bind_symbols(struct lower *B, const dim *dims)
{
    struct shared *S = B->S;
    struct lp *p = S->p;
    struct lower entry = { .S = S,
                           .arena = &p->arena,
                           .f = program_entry(S),
                           .symbols = ARENA_NEW(&p->arena, lpv, program_entry(S)->n_symbols) };
    for (uint32_t i = 0; i < entry.f->n_outer_symbols; i++) entry.symbols[i] = lp_symbol(p, i);
    for (uint32_t i = 0; i < B->f->n_outer_symbols; i++) {
        B->symbols[i] = lower_dim(&entry, dims[i]);
        B->entry_dims[i] = dims[i];
    }
}

static struct slot param_slot(struct lower *B, type_id t)
{
    struct lp *p = B->S->p;
    lpv first = lp_index(p, 0);
    struct array a = { param_buffer(B, t), first };
    bool scalar = !type_get(B->S->m, t).rank;
    if (scalar) return (struct slot){ .kind = SLOT_SCALAR, .scalar = lp_load(p, a.buffer, a.at) };
    return (struct slot){ .kind = SLOT_ARRAY, .array = a };
}

/* Into S->p, which is empty. */
static void lower_into(struct shared *S, const struct procedure *q)
{
    struct lp *p = S->p;
    const struct fn *g = module_fn(S->m, q->fn);
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, g->n_results);
    struct lower *B = lower_new(S, NULL, g, sinks);
    bind_symbols(B, q->dims);
    for (uint32_t i = 0; i < g->n_params; i++) B->slots[i] = param_slot(B, value_type(g, i));
    for (uint32_t k = 0; k < g->n_results; k++) {
        struct array own = { param_buffer(B, value_type(g, g->results[k])), lp_index(p, 0) };
        uint32_t over = q->overwrites[k];
        if (over != HOP_NONE) p->buffers.data[over].updated = true;
        sinks[k] = (struct sink){ .array = over != HOP_NONE ? B->slots[over].array : own,
                                  .overwrites = over,
                                  .instead = { HOP_NONE, LPV_NONE } };
    }
    lower_steps(B);
    for (uint32_t k = 0; k < g->n_results; k++)
        if (sinks[k].moved)
            lower_copy(B, value_type(g, g->results[k]), sinks[k].instead, sinks[k].array,
                       "an array whose old content is still read while the new one is made");
}

/* The loop program of a procedure. What is being lowered around it waits meanwhile. */
static struct lp *lower_procedure(struct shared *S, const struct procedure *q)
{
    const struct lp *program = S->program;
    const struct fn *g = module_fn(S->m, q->fn);
    struct shared around = *S;
    struct lp *p = lp_new(S->m, program->entry, q->regime.strict);
    p->regime = q->regime;
    p->program = S->program;
    hop_cleanup_push(lp_free, p);
    p->no_contract = program->no_contract;
    p->n_inputs = g->n_params;
    p->name = arena_printf(&p->arena, "%s", fn_label(g) ? module_text(S->m, fn_label(g)) : "a body");
    p->level = 1; /* it is a procedure; how high it stands is known when it is made */
    S->p = p;
    p->in_region = q->in_region;
    S->loop_depth = q->in_loop;
    S->regions = q->in_region;
    S->depth = 0;
    S->level = 0;
    S->mark = HOP_NONE;
    lower_into(S, q);
    p->level = S->level + 1;
    if (p->level > DEEPEST_CALLS)
        hop_throw(HOP_INVALID, "functions call each other more than %d deep: too deep to be compiled",
                  DEEPEST_CALLS);
    S->p = around.p;
    S->loop_depth = around.loop_depth;
    S->regions = around.regions;
    S->depth = around.depth;
    S->level = around.level;
    S->mark = around.mark;
    hop_cleanup_pop(p);
    return p;
}

static uint32_t make_procedure(struct shared *S, const struct procedure *wanted)
{
    struct lp *program = S->program;
    struct lp *p = lower_procedure(S, wanted);
    uint32_t n_results = module_fn(S->m, wanted->fn)->n_results;
    hop_cleanup_push(lp_free, p);
    vec_push(&program->arena, &program->procedures, p);
    hop_cleanup_pop(p);
    struct procedure q = *wanted; /* its lists may lie in the arena of a procedure that is no more */
    q.number = program->procedures.len - 1;
    q.dims = arena_copy(&program->arena, wanted->dims, q.n_dims * sizeof *q.dims);
    q.overwrites = arena_copy(&program->arena, wanted->overwrites, n_results * sizeof *q.overwrites);
    vec_push(&program->arena, &S->procedures, q);
    map_put(&S->procedure_map, hash_procedure(&q, n_results), S->procedures.len - 1);
    return q.number;
}

/* ---- calling ---- */

static struct lp_operand whole_array(struct array a)
{
    return (struct lp_operand){ .buffer = a.buffer, .index = a.at, .value = LPV_NONE };
}

static bool is_scalar(const struct lower *L, val v) { return !type_get(L->S->m, value_type(L->f, v)).rank; }

static struct lp_operand argument_of(struct lower *L, val v)
{
    if (!is_scalar(L, v)) return whole_array(lower_array(L, v));
    struct array a = lower_alloc(L, value_type(L->f, v), "an argument of a call");
    lp_store(L->S->p, a.buffer, a.at, lower_scalar(L, v));
    return whole_array(a);
}

static struct lp_operand result_of(struct lower *L, const struct node *n, uint32_t k, bool overwrites)
{
    val v = n->results + k;
    if (overwrites && lower_taken(L, n, k) != HOP_NONE) return whole_array(lower_take(L, n, k));
    if (overwrites) return whole_array(lower_overwrite(L, n, k));
    bool own = !is_scalar(L, v) && lower_result_used(L, n, k);
    if (own) return whole_array(lower_result(L, n, k));
    return whole_array(lower_alloc(L, value_type(L->f, v), "a result of a call"));
}

/* false: a symbol is found while running, and no dim over the entry's. */
static bool entry_dims(struct lower *L, const struct region *region, dim *out)
{
    for (uint32_t i = 0; i < region->n_dims; i++) {
        out[i] = lower_entry_dim(L, region->dims[i]);
        if (out[i] == HOP_NONE) return false;
    }
    return true;
}

bool lower_is_called(struct lower *L, const struct node *n)
{
    if (node_row(n)->control != CONTROL_CALL) return false;
    return !is_placed(placing_here(L, node_region(L->f, n, 0)->fn, node_inlining(L->f, n)));
}

/* What a procedure is given lies where any caller can say it: not in one function's registers or stack. */
static void give(struct lp *p, const struct lp_operand *operands, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct lp_buffer *b = &p->buffers.data[operands[i].buffer];
        if (b->kind == BUF_LOCAL) b->kind = BUF_TEMP;
    }
}

bool lower_as_procedure(struct lower *L, const struct fn *f, const struct node *n, const uint32_t *overwrites)
{
    struct shared *S = L->S;
    struct lp *p = S->p;
    const struct region *region = node_region(f, n, 0);
    const struct fn *g = module_fn(S->m, region->fn);
    enum placing placing = placing_here(L, region->fn, node_inlining(f, n));
    if (L->probe || is_placed(placing)) return false;
    dim *dims = ARENA_NEW(&p->arena, dim, g->n_outer_symbols);
    if (!entry_dims(L, region, dims)) return false;
    struct procedure wanted = { .fn = region->fn,
                                .n_dims = region->n_dims,
                                .dims = dims,
                                .overwrites = overwrites,
                                .regime = p->regime,
                                .in_loop = S->large || lower_in_loop(L),
                                .in_region = S->regions > 0 };
    uint32_t number = find_procedure(S, &wanted);
    if (number == HOP_NONE) number = make_procedure(S, &wanted);
    struct lp *q = S->program->procedures.data[number];
    S->level = HOP_MAX(S->level, q->level);
    q->n_calls++;
    if (q->n_calls == 1) q->why_called = placing_reason(placing);
    struct lp_operand *operands = ARENA_ZNEW(&p->arena, struct lp_operand, g->n_params + g->n_results);
    struct lp_operand *results = operands + g->n_params;
    for (uint32_t i = 0; i < g->n_params; i++) operands[i] = argument_of(L, node_region_operands(f, n, 0)[i]);
    for (uint32_t k = 0; k < g->n_results; k++) results[k] = result_of(L, n, k, overwrites[k] != HOP_NONE);
    give(p, operands, g->n_params + g->n_results);
    lp_add_call(p, (struct lp_call){ .kind = CALL_PROCEDURE,
                                     .target = number,
                                     .source = g->n_params,
                                     .n_operands = g->n_params + g->n_results,
                                     .operands = operands,
                                     .value = LPV_NONE,
                                     .lo = LPV_NONE,
                                     .index = LPV_NONE,
                                     .count = LPV_NONE,
                                     .mask = LPV_NONE,
                                     .place = n->place });
    for (uint32_t k = 0; k < g->n_results; k++) {
        if (!is_scalar(L, n->results + k)) continue;
        lower_set_scalar(L, n, k, lp_load(p, results[k].buffer, results[k].index));
    }
    return true;
}

/* ---- bodies of loops and branches ---- */

static const struct fn *wrapper(struct shared *S, const struct fn *g)
{
    uint32_t *known = &S->unfolding[g->id].wrapper;
    if (*known != HOP_NONE) return module_fn(S->m, *known);
    struct builder b;
    builder_begin(&b, S->m, g);
    val *params = ARENA_NEW(&b.arena, val, g->n_params);
    val *results = ARENA_NEW(&b.arena, val, g->n_results);
    for (uint32_t p = 0; p < g->n_params; p++)
        params[p] = builder_param(&b, value_type(g, p), g->values[p].name);
    dim *dims = ARENA_NEW(&b.arena, dim, g->n_outer_symbols);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) dims[i] = dim_symbol(S->m, i);
    struct region_in region = { g->id, params, g->n_params, dims };
    struct attr attrs[INVOKE_ATTRS] = { A_NONE };
    b.place = g->place;
    val first = builder_node(&b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                    .groups = (const uint32_t[1]){ 0 },
                                                    .attrs = attrs,
                                                    .regions = &region,
                                                    .n_regions = 1 });
    for (uint32_t k = 0; k < g->n_results; k++) results[k] = first + k;
    *known = builder_finish(&b, results, g->n_results);
    return module_fn(S->m, *known);
}

const struct fn *procedure_body(struct lower *L, const struct node *n, const struct fn *g)
{
    struct shared *S = L->S;
    hop_check_stack();
    bool called = node_row(n)->control == CONTROL_CALL;
    bool by_call = S->large || procedures_everywhere;
    bool placed = called || !by_call || is_placed(placing_here(L, g->id, INLINE_UNSAID));
    if (!placed && g->n_nodes) g = wrapper(S, g);
    S->lowered += g->n_nodes;
    if (S->lowered > MOST_NODES)
        hop_throw(HOP_INVALID,
                  "%s%s: the program is too large to be compiled: with all bodies in place it has more than "
                  "%d nodes",
                  place_text(S->m, n->place), node_row(n)->name, MOST_NODES);
    if (S->depth >= DEEPEST_BODY)
        hop_throw(HOP_INVALID, "%s%s: bodies and calls are nested more than %d deep: too deep to be compiled",
                  place_text(S->m, n->place), node_row(n)->name, DEEPEST_BODY);
    return g;
}
