/* Bodies that are not put in place. Lowering writes the body of every call, loop and branch where it stands;
 * functions that call each other several times over would become more code than any machine has memory for.
 * When a program would be large with all its bodies in place, bodies of some size that have neither effects
 * nor sizes found while running become procedures: each is lowered once, and called. Programs of usual size
 * have none. */
#include "loop/lower_impl.h"
#include "ops/build.h"

enum {
    LARGE_PROGRAM = 10000, /* nodes with all bodies in place: from here on there are procedures … */
    LARGE_BY_BODIES = 4,   /* … if these are so many times the nodes that were written */
    LEAST_PROCEDURE = 128, /* nodes of a body, all in place, that are worth a call … */
    OFTEN = 4,             /* … if there would be so many copies of it */
    DEEP_PROGRAM = 200,    /* bodies in bodies: the same by depth */
    DEEPEST_BODY = 600,    /* below the entry or a procedure: those that look at loop programs go as deep */
    DEEPEST_CALLS = 1000,  /* procedures that call each other: the stack of the thread that runs them */
    MOST_NODES = 2000000   /* of everything that is put in place */
};
static _Thread_local bool procedures_everywhere;
void lower_procedures_everywhere(bool on) { procedures_everywhere = on; }

static const uint64_t COUNTLESS = UINT64_MAX / 4;

struct unfolding {
    uint64_t nodes;   /* with all bodies in place */
    uint64_t copies;  /* of it in the program, then */
    uint32_t depth;   /* of bodies in bodies */
    bool plain;       /* neither effects nor sizes found while running, in it and in its bodies */
    uint32_t wrapper; /* a function that does nothing but call it, HOP_NONE: not made yet */
};
struct procedure {
    uint32_t fn, n_dims;
    const dim *dims; /* its symbols, over the entry's */
    uint32_t number; /* in lp.procedures */
};

/* Nodes, depth and plainness of every function up to `fn`. A function comes after those that it mentions, so
 * one sweep is enough. */
static void survey_bodies(const struct module *m, struct unfolding *all, uint32_t fn)
{
    for (uint32_t i = 0; i <= fn; i++) {
        const struct fn *f = module_fn(m, i);
        bool sizes_known = f->n_symbols == f->n_outer_symbols;
        struct unfolding *u = &all[i];
        *u = (struct unfolding){ .nodes = f->n_nodes,
                                 .plain = !f->effects && sizes_known,
                                 .wrapper = HOP_NONE };
        for (uint32_t r = 0; r < f->n_regions; r++) {
            const struct unfolding *inner = &all[f->regions[r].fn];
            u->nodes = HOP_MIN(u->nodes + inner->nodes, COUNTLESS);
            u->depth = HOP_MAX(u->depth, inner->depth + 1);
            u->plain &= inner->plain;
        }
    }
}

/* Copies of every function in `fn`, of which there is one. Returns how many nodes were written, each function
 * counted once. */
static uint64_t survey_copies(const struct module *m, struct unfolding *all, uint32_t fn)
{
    uint64_t written = 0;
    all[fn].copies = 1;
    for (uint32_t i = fn + 1; i-- > 0;) {
        const struct fn *f = module_fn(m, i);
        if (all[i].copies) written += f->n_nodes;
        for (uint32_t r = 0; r < f->n_regions; r++) {
            struct unfolding *inner = &all[f->regions[r].fn];
            inner->copies = HOP_MIN(inner->copies + all[i].copies, COUNTLESS);
        }
    }
    return written;
}

void procedure_survey(struct shared *S, uint32_t fn)
{
    struct unfolding *all = ARENA_ZNEW(&S->p->arena, struct unfolding, fn + 1);
    survey_bodies(S->m, all, fn);
    uint64_t written = survey_copies(S->m, all, fn);
    const struct unfolding *whole = &all[fn];
    bool deep = whole->depth > DEEP_PROGRAM;
    bool repeats = whole->nodes > LARGE_PROGRAM && whole->nodes / LARGE_BY_BODIES > written;
    S->unfolding = all;
    S->large = deep || repeats || procedures_everywhere;
    S->procedure_map.arena = &S->p->arena;
}

static const struct fn *program_entry(const struct shared *S) { return S->program->entry; }

/* Calls cannot stand in vector loops, and two of one procedure not beside each other. */
static bool may_call(const struct lp *p)
{
    for (uint32_t i = 0; i < p->open.len; i++)
        if (p->open.data[i].kind == LP_FOR && p->open.data[i].mode != FOR_SERIAL) return false;
    return true;
}

static bool wants_procedure(const struct lower *L, uint32_t fn)
{
    const struct shared *S = L->S;
    if (!S->large || fn > program_entry(S)->id) return false;
    const struct unfolding *u = &S->unfolding[fn];
    if (!u->plain || !may_call(S->p)) return false;
    bool worth_a_call = u->nodes >= LEAST_PROCEDURE && u->copies >= OFTEN;
    return worth_a_call || S->depth >= DEEP_PROGRAM || procedures_everywhere;
}

/* ---- making ---- */

/* What a procedure is made for: a function, and what its symbols are over the entry's. */
struct wanted {
    uint32_t fn, n_dims;
    const dim *dims;
    uint64_t hash;
};

static bool is_wanted(const struct procedure *q, const struct wanted *w)
{
    if (q->fn != w->fn || q->n_dims != w->n_dims) return false;
    return !w->n_dims || !memcmp(q->dims, w->dims, w->n_dims * sizeof *w->dims);
}

static uint32_t find_procedure(const struct shared *S, const struct wanted *w)
{
    const struct map *map = &S->procedure_map;
    for (uint32_t it = map_first(map, w->hash); it != HOP_NONE; it = map_next(map, w->hash, it)) {
        const struct procedure *q = &S->procedures.data[map_value(map, it)];
        if (is_wanted(q, w)) return q->number;
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
static void lower_into(struct shared *S, const struct fn *g, const dim *dims)
{
    struct lp *p = S->p;
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, g->n_results);
    struct lower *B = lower_new(S, NULL, g, sinks);
    bind_symbols(B, dims);
    for (uint32_t i = 0; i < g->n_params; i++) B->slots[i] = param_slot(B, value_type(g, i));
    for (uint32_t k = 0; k < g->n_results; k++) {
        lpv first = lp_index(p, 0);
        struct array to = { param_buffer(B, value_type(g, g->results[k])), first };
        sinks[k] = (struct sink){ .array = to, .overwrites = HOP_NONE, .instead = { HOP_NONE, LPV_NONE } };
    }
    lower_steps(B);
}

/* The loop program of a procedure. What is being lowered around it waits meanwhile. */
static struct lp *lower_procedure(struct shared *S, const struct wanted *w)
{
    const struct lp *program = S->program;
    const struct fn *g = module_fn(S->m, w->fn);
    struct shared around = *S;
    struct lp *p = lp_new(S->m, program->entry, program->strict);
    hop_cleanup_push(lp_free, p);
    p->no_contract = program->no_contract;
    p->n_inputs = g->n_params;
    p->level = 1; /* it is a procedure; how high it stands is known when it is made */
    S->p = p;
    S->loop_depth = 1; /* it may be called in a loop */
    S->depth = 0;
    S->level = 0;
    lower_into(S, g, w->dims);
    p->level = S->level + 1;
    if (p->level > DEEPEST_CALLS)
        hop_throw(HOP_INVALID, "functions call each other more than %d deep: too deep to be compiled",
                  DEEPEST_CALLS);
    S->p = around.p;
    S->loop_depth = around.loop_depth;
    S->depth = around.depth;
    S->level = around.level;
    hop_cleanup_pop(p);
    return p;
}

static uint32_t make_procedure(struct shared *S, const struct wanted *w)
{
    struct lp *program = S->program;
    struct lp *p = lower_procedure(S, w);
    hop_cleanup_push(lp_free, p);
    vec_push(&program->arena, &program->procedures, p);
    hop_cleanup_pop(p);
    const dim *dims = w->n_dims ? arena_copy(&program->arena, w->dims, w->n_dims * sizeof *dims) : NULL;
    struct procedure q = { w->fn, w->n_dims, dims, program->procedures.len - 1 };
    vec_push(&program->arena, &S->procedures, q);
    map_put(&S->procedure_map, w->hash, S->procedures.len - 1);
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

static struct lp_operand result_of(struct lower *L, const struct node *n, uint32_t k)
{
    val v = n->results + k;
    bool own = !is_scalar(L, v) && lower_result_used(L, n, k);
    if (own) return whole_array(lower_result(L, n, k));
    return whole_array(lower_alloc(L, value_type(L->f, v), "a result of a call"));
}

/* false: a symbol is found while running, and no dim over the entry's. */
static bool wanted_of(struct lower *L, const struct region *region, struct wanted *out)
{
    const struct fn *g = module_fn(L->S->m, region->fn);
    dim *dims = ARENA_NEW(&L->S->p->arena, dim, g->n_outer_symbols);
    uint64_t hash = hash_mix(region->fn, region->n_dims);
    for (uint32_t i = 0; i < region->n_dims; i++) {
        dims[i] = lower_entry_dim(L, region->dims[i]);
        if (dims[i] == HOP_NONE) return false;
        hash = hash_mix(hash, dims[i]);
    }
    *out = (struct wanted){ .fn = region->fn, .n_dims = region->n_dims, .dims = dims, .hash = hash };
    return true;
}

bool lower_as_procedure(struct lower *L, const struct fn *f, const struct node *n)
{
    struct shared *S = L->S;
    struct lp *p = S->p;
    const struct region *region = node_region(f, n, 0);
    const struct fn *g = module_fn(S->m, region->fn);
    struct wanted w;
    if (L->probe || !wants_procedure(L, region->fn) || !wanted_of(L, region, &w)) return false;
    uint32_t number = find_procedure(S, &w);
    if (number == HOP_NONE) number = make_procedure(S, &w);
    S->level = HOP_MAX(S->level, S->program->procedures.data[number]->level);
    struct lp_operand *operands = ARENA_ZNEW(&p->arena, struct lp_operand, g->n_params + g->n_results);
    struct lp_operand *results = operands + g->n_params;
    for (uint32_t i = 0; i < g->n_params; i++) operands[i] = argument_of(L, node_region_operands(f, n, 0)[i]);
    for (uint32_t k = 0; k < g->n_results; k++) results[k] = result_of(L, n, k);
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
    struct attr attrs[1] = { A_NONE };
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
    if (!called && wants_procedure(L, g->id) && g->n_nodes) g = wrapper(S, g);
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
