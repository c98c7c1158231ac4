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

/* A function comes after those that it mentions, so one sweep is enough. */
void procedure_survey(struct shared *S, uint32_t fn)
{
    struct unfolding *all = S->unfolding = ARENA_ZNEW(&S->p->arena, struct unfolding, fn + 1);
    for (uint32_t i = 0; i <= fn; i++) {
        const struct fn *f = module_fn(S->m, i);
        all[i] = (struct unfolding){ f->n_nodes, i == fn, 0,
                                     !f->effects && f->n_symbols == f->n_outer_symbols, HOP_NONE };
        for (uint32_t r = 0; r < f->n_regions; r++) {
            const struct unfolding *inner = &all[f->regions[r].fn];
            all[i].nodes = HOP_MIN(all[i].nodes + inner->nodes, COUNTLESS);
            all[i].depth = HOP_MAX(all[i].depth, inner->depth + 1);
            all[i].plain &= inner->plain;
        }
    }
    uint64_t written = 0;
    for (uint32_t i = fn + 1; i-- > 0;) {
        const struct fn *f = module_fn(S->m, i);
        if (all[i].copies) written += f->n_nodes;
        for (uint32_t r = 0; r < f->n_regions; r++)
            all[f->regions[r].fn].copies = HOP_MIN(all[f->regions[r].fn].copies + all[i].copies, COUNTLESS);
    }
    S->large = all[fn].depth > DEEP_PROGRAM ||
               (all[fn].nodes > LARGE_PROGRAM && all[fn].nodes / LARGE_BY_BODIES > written) ||
               procedures_everywhere;
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
    if (!S->large || fn > program_entry(S)->id || !S->unfolding[fn].plain || !may_call(S->p)) return false;
    const struct unfolding *u = &S->unfolding[fn];
    return (u->nodes >= LEAST_PROCEDURE && u->copies >= OFTEN) || S->depth >= DEEP_PROGRAM ||
           procedures_everywhere;
}

/* ---- making ---- */

static uint32_t find_procedure(const struct shared *S, uint64_t hash, uint32_t fn, const dim *dims,
                               uint32_t n_dims)
{
    for (uint32_t it = map_first(&S->procedure_map, hash); it != HOP_NONE;
         it = map_next(&S->procedure_map, hash, it)) {
        const struct procedure *q = &S->procedures.data[map_value(&S->procedure_map, it)];
        if (q->fn == fn && q->n_dims == n_dims && (!n_dims || !memcmp(q->dims, dims, n_dims * sizeof *dims)))
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

/* Into S->p, which is empty. */
static void lower_into(struct shared *S, const struct fn *g, const dim *dims)
{
    struct lp *p = S->p;
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, g->n_results);
    struct lower *B = lower_new(S, NULL, g, sinks);
    struct lower entry = { .S = S,
                           .arena = &p->arena,
                           .f = program_entry(S),
                           .symbols = ARENA_NEW(&p->arena, lpv, program_entry(S)->n_symbols) };
    for (uint32_t i = 0; i < entry.f->n_outer_symbols; i++) entry.symbols[i] = lp_symbol(p, i);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) {
        B->symbols[i] = lower_dim(&entry, dims[i]);
        B->entry_dims[i] = dims[i];
    }
    for (uint32_t i = 0; i < g->n_params; i++) {
        struct array a = { param_buffer(B, value_type(g, i)), lp_index(p, 0) };
        bool scalar = !type_get(S->m, value_type(g, i)).rank;
        B->slots[i] = scalar ? (struct slot){ .kind = SLOT_SCALAR, .scalar = lp_load(p, a.buffer, a.at) }
                             : (struct slot){ .kind = SLOT_ARRAY, .array = a };
    }
    for (uint32_t k = 0; k < g->n_results; k++)
        sinks[k] = (struct sink){ .array = { param_buffer(B, value_type(g, g->results[k])), lp_index(p, 0) },
                                  .overwrites = HOP_NONE,
                                  .instead = { HOP_NONE, LPV_NONE } };
    lower_steps(B);
}

static uint32_t make_procedure(struct shared *S, uint32_t fn, const dim *dims, uint32_t n_dims, uint64_t hash)
{
    struct lp *around = S->p, *program = S->program;
    uint32_t loop_depth = S->loop_depth, depth = S->depth, level = S->level;
    struct lp *p = lp_new(S->m, program->entry, program->strict);
    hop_cleanup_push(lp_free, p);
    p->no_contract = program->no_contract;
    p->n_inputs = module_fn(S->m, fn)->n_params;
    p->level = 1; /* it is a procedure; how high it stands is known when it is made */
    S->p = p;
    S->loop_depth = 1; /* it may be called in a loop */
    S->depth = S->level = 0;
    lower_into(S, module_fn(S->m, fn), dims);
    p->level = S->level + 1;
    if (p->level > DEEPEST_CALLS)
        hop_throw(HOP_INVALID, "functions call each other more than %d deep: too deep to be compiled",
                  DEEPEST_CALLS);
    S->p = around;
    S->loop_depth = loop_depth;
    S->depth = depth;
    S->level = level;
    vec_push(&program->arena, &program->procedures, p);
    hop_cleanup_pop(p);
    struct procedure q = { fn, n_dims,
                           n_dims ? arena_copy(&program->arena, dims, n_dims * sizeof *dims) : NULL,
                           program->procedures.len - 1 };
    vec_push(&program->arena, &S->procedures, q);
    map_put(&S->procedure_map, hash, S->procedures.len - 1);
    return q.number;
}

/* ---- calling ---- */

static struct lp_operand operand_of(struct lower *L, val v)
{
    type_id t = value_type(L->f, v);
    if (type_get(L->S->m, t).rank) {
        struct array a = lower_array(L, v);
        return (struct lp_operand){ .buffer = a.buffer, .index = a.at, .value = LPV_NONE };
    }
    struct array a = lower_alloc(L, t, "an argument of a call");
    lp_store(L->S->p, a.buffer, a.at, lower_scalar(L, v));
    return (struct lp_operand){ .buffer = a.buffer, .index = a.at, .value = LPV_NONE };
}

bool lower_as_procedure(struct lower *L, const struct fn *f, const struct node *n)
{
    struct shared *S = L->S;
    struct lp *p = S->p;
    const struct region *region = node_region(f, n, 0);
    const struct fn *g = module_fn(S->m, region->fn);
    if (L->probe || !wants_procedure(L, region->fn)) return false;
    dim *dims = ARENA_NEW(&p->arena, dim, g->n_outer_symbols);
    uint64_t hash = hash_mix(region->fn, region->n_dims);
    for (uint32_t i = 0; i < region->n_dims; i++) {
        dims[i] = lower_entry_dim(L, region->dims[i]);
        if (dims[i] == HOP_NONE) return false;
        hash = hash_mix(hash, dims[i]);
    }
    uint32_t number = find_procedure(S, hash, region->fn, dims, region->n_dims);
    if (number == HOP_NONE) number = make_procedure(S, region->fn, dims, region->n_dims, hash);
    S->level = HOP_MAX(S->level, S->program->procedures.data[number]->level);
    struct lp_operand *operands = ARENA_ZNEW(&p->arena, struct lp_operand, g->n_params + g->n_results);
    for (uint32_t i = 0; i < g->n_params; i++) operands[i] = operand_of(L, node_region_operands(f, n, 0)[i]);
    for (uint32_t k = 0; k < g->n_results; k++) {
        type_id t = value_type(f, n->results + k);
        bool own = type_get(S->m, t).rank && lower_result_used(L, n, k);
        struct array a = own ? lower_result(L, n, k) : lower_alloc(L, t, "a result of a call");
        operands[g->n_params + k] = (struct lp_operand){ .buffer = a.buffer,
                                                         .index = a.at,
                                                         .value = LPV_NONE };
    }
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
        const struct lp_operand *o = &operands[g->n_params + k];
        if (!type_get(S->m, value_type(f, n->results + k)).rank)
            lower_set_scalar(L, n, k, lp_load(p, o->buffer, o->index));
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
    val *params = ARENA_NEW(&b.arena, val, g->n_params), *results = ARENA_NEW(&b.arena, val, g->n_results);
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
    return module_fn(S->m, *known = builder_finish(&b, results, g->n_results));
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
