/* How calls and branches are compiled: the body of a call is called or written in place, as
 * transform/sharing.h decides (one with effects or with sizes found while running cannot be called); a switch
 * runs one branch, and all branches write the same memory. */
#include "hops/lower_hops.h"

/* The parameter in whose memory result k may be computed although bodies read it: each body gets it as one
 * operand, and no other operand reads it. */
static uint32_t shared_param(struct lower *L, const struct fn *f, const struct node *n, uint32_t k)
{
    uint32_t over = lower_may_overwrite(L, n, k);
    for (uint32_t r = 0; r < n->n_regions && over != HOP_NONE; r++) {
        uint32_t same = 0;
        for (uint32_t i = 0; i < node_region(f, n, r)->n_operands; i++) {
            val o = node_region_operands(f, n, r)[i];
            same += o == over;
            if (o != over && lower_reads(L, o, over)) return HOP_NONE;
        }
        if (same > 1) return HOP_NONE;
    }
    return over;
}

/* Which parameter of body r the parameter around is. */
static uint32_t param_in_body(const struct fn *f, const struct node *n, uint32_t r, uint32_t over)
{
    for (uint32_t i = 0; i < node_region(f, n, r)->n_operands && over != HOP_NONE; i++)
        if (node_region_operands(f, n, r)[i] == over) return i;
    return HOP_NONE;
}

static void end_overwrite(struct lower *L, const struct fn *f, val result, const struct sink *sink)
{
    if (sink->moved)
        lower_copy(L, value_type(f, result), sink->instead, sink->array,
                   "an array whose old content is still read while the new one is made");
}

static void feed_region(struct lower *L, const struct fn *f, const struct node *n, uint32_t r,
                        struct sink *sinks)
{
    uint32_t count = node_region(f, n, r)->n_operands;
    struct feed *feeds = ARENA_NEW(&lower_lp(L)->arena, struct feed, count);
    const val *operands = node_region_operands(f, n, r);
    for (uint32_t i = 0; i < count; i++)
        feeds[i] = (struct feed){ .kind = FEED_VALUE, .value = operands[i], .lead = LPV_NONE };
    lower_body(L, f, n, r, feeds, sinks);
}

static bool is_scalar(struct lower *L, const struct fn *f, val v)
{
    return !type_get(lower_module(L), value_type(f, v)).rank;
}

/* The symbol that the node binds as dim d of its result k, HOP_NONE: none. */
static uint32_t bound_symbol(struct lower *L, const struct fn *f, const struct node *n, uint32_t k,
                             uint32_t d)
{
    struct module *m = lower_module(L);
    uint32_t symbol;
    if (!dim_is_symbol(m, type_get(m, value_type(f, n->results + k)).dims[d], &symbol)) return HOP_NONE;
    bool bound = symbol >= f->n_outer_symbols && &f->nodes[f->symbols[symbol].index] == n;
    return bound ? symbol : HOP_NONE;
}

static uint32_t result_rank(struct lower *L, const struct fn *f, const struct node *n, uint32_t k)
{
    return type_get(lower_module(L), value_type(f, n->results + k)).rank;
}

/* Where result k is made. sized: only the body knows how large it is; over: what it may overwrite. */
static struct array result_array(struct lower *L, const struct node *n, uint32_t k, bool sized, uint32_t over)
{
    if (sized) return lower_growing(L, n, k);
    return over != HOP_NONE ? lower_overwrite(L, n, k) : lower_result(L, n, k);
}

static bool is_sized_by_body(struct lower *L, const struct fn *f, const struct node *n, uint32_t k)
{
    bool sized = false;
    for (uint32_t d = 0; d < result_rank(L, f, n, k); d++) sized |= bound_symbol(L, f, n, k, d) != HOP_NONE;
    return sized;
}

/* The parameter of the body that its result k is but for changes, HOP_NONE: none. */
static uint32_t changed_param(struct module *m, const struct fn *body, uint32_t k)
{
    val v = body->results[k];
    while (body->values[v].node != NODE_NONE) {
        const struct node *n = fn_node(body, body->values[v].node);
        const struct op_lower *row = node_row(n)->lower;
        uint32_t i = row && row->changes ? row->changes(m, body, n, v - n->results) : HOP_NONE;
        if (i == HOP_NONE) return HOP_NONE;
        v = node_operands(body, n)[i];
    }
    return v;
}

/* A call leaves what its body changes where it lies. */
static uint32_t call_changes(struct module *m, const struct fn *f, const struct node *n, uint32_t k)
{
    const struct fn *body = module_fn(m, node_region(f, n, 0)->fn);
    uint32_t param = k < body->n_results ? changed_param(m, body, k) : HOP_NONE;
    if (param == HOP_NONE || body->results[k] == param) return HOP_NONE;
    uint32_t first = (uint32_t)(node_region_operands(f, n, 0) - node_operands(f, n));
    bool same = value_type(f, node_operands(f, n)[first + param]) == value_type(f, n->results + k);
    return same ? first + param : HOP_NONE;
}

void lower_call(struct lower *L, const struct fn *f, const struct node *n)
{
    struct arena *arena = &lower_lp(L)->arena;
    struct sink *sinks = ARENA_ZNEW(arena, struct sink, n->n_results);
    uint32_t *over = ARENA_NEW(arena, uint32_t, n->n_results);       /* parameters of f … */
    uint32_t *overwrites = ARENA_NEW(arena, uint32_t, n->n_results); /* … and of the body */
    uint32_t first = (uint32_t)(node_region_operands(f, n, 0) - node_operands(f, n));
    for (uint32_t k = 0; k < n->n_results; k++) {
        bool stored = !is_scalar(L, f, n->results + k) && lower_result_used(L, n, k);
        uint32_t taken = stored ? lower_taken(L, n, k) : HOP_NONE;
        over[k] = HOP_NONE;
        overwrites[k] = taken - first;
        if (taken != HOP_NONE) continue;
        if (stored && !is_sized_by_body(L, f, n, k)) over[k] = shared_param(L, f, n, k);
        overwrites[k] = param_in_body(f, n, 0, over[k]);
    }
    if (lower_as_procedure(L, f, n, overwrites)) return;
    for (uint32_t k = 0; k < n->n_results; k++) {
        sinks[k] = (struct sink){ .scalar = is_scalar(L, f, n->results + k),
                                  .overwrites = overwrites[k],
                                  .instead = { HOP_NONE, LPV_NONE },
                                  .unused = !lower_result_used(L, n, k) };
        if (sinks[k].scalar || sinks[k].unused) continue;
        if (lower_taken(L, n, k) != HOP_NONE) sinks[k].array = lower_take(L, n, k);
        else sinks[k].array = result_array(L, n, k, is_sized_by_body(L, f, n, k), over[k]);
    }
    feed_region(L, f, n, 0, sinks);
    for (uint32_t k = 0; k < n->n_results; k++) {
        for (uint32_t d = 0; d < result_rank(L, f, n, k); d++) {
            uint32_t symbol = bound_symbol(L, f, n, k, d);
            if (symbol != HOP_NONE) lower_bind_symbol(L, symbol, sinks[k].dims[d]);
        }
    }
    for (uint32_t k = 0; k < n->n_results; k++) {
        if (sinks[k].scalar && !sinks[k].unused) lower_set_scalar(L, n, k, sinks[k].value);
        end_overwrite(L, f, n->results + k, &sinks[k]);
    }
}

uint8_t lower_call_use(const struct fn *f, const struct node *n, uint32_t i)
{
    HOP_UNUSED(f);
    HOP_UNUSED(n);
    HOP_UNUSED(i);
    return USE_MANY;
}

const struct op_lower invoke_lower = {
    .kind = LOWER_BLOCK, .block = lower_call, .changes = call_changes, .operand_use = lower_call_use
};

/* ---- switch ---- */

/* A result whose size depends on the branch: the symbols that the node binds, each a local that the branch
 * sets. */
struct outcome {
    bool used, scalar, sized;
    uint32_t local;
    struct array array;
    uint32_t over; /* the parameter in whose memory it is computed, HOP_NONE */
    uint32_t symbol[MAX_RANK], size_local[MAX_RANK]; /* per dim; HOP_NONE: not bound here */
};

static struct outcome begin_outcome(struct lower *L, const struct fn *f, const struct node *n, uint32_t k,
                                    uint32_t *symbol_locals)
{
    struct lp *p = lower_lp(L);
    struct module *m = lower_module(L);
    struct type t = type_get(m, value_type(f, n->results + k));
    struct outcome o = { .used = lower_result_used(L, n, k), .scalar = !t.rank, .over = HOP_NONE };
    for (uint32_t d = 0; d < t.rank; d++) {
        uint32_t s = bound_symbol(L, f, n, k, d);
        o.symbol[d] = s;
        if (s == HOP_NONE) continue;
        if (symbol_locals[s] == HOP_NONE) {
            symbol_locals[s] = lp_local(p, DT_I64, LOCAL_SCALAR, "size");
            lp_set(p, symbol_locals[s], lp_index(p, 0));
        }
        o.size_local[d] = symbol_locals[s];
        o.sized = true;
    }
    if (o.scalar && o.used) {
        enum dtype stored = dtype_stored((enum dtype)t.dtype);
        o.local = lp_local(p, stored, LOCAL_SCALAR, "choice");
        lp_set(p, o.local, lp_const_bits(p, stored, 0));
    } else if (!o.scalar && o.used) {
        o.over = o.sized ? HOP_NONE : shared_param(L, f, n, k);
        o.array = result_array(L, n, k, o.sized, o.over);
    }
    return o;
}

static void branch(struct lower *L, const struct fn *f, const struct node *n, uint32_t r,
                   const struct outcome *outcomes)
{
    struct lp *p = lower_lp(L);
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, n->n_results);
    for (uint32_t k = 0; k < n->n_results; k++) {
        const struct outcome *o = &outcomes[k];
        sinks[k] = (struct sink){ .scalar = o->scalar,
                                  .array = o->array,
                                  .overwrites = param_in_body(f, n, r, o->over),
                                  .instead = { HOP_NONE, LPV_NONE },
                                  .unused = !o->used };
        /* what may live in registers is always written */
        bool in_memory = o->used && !o->scalar && p->buffers.data[o->array.buffer].kind == BUF_TEMP;
        if (in_memory && switch_result_unread(L, f, n, r, k)) sinks[k].unused = true;
    }
    feed_region(L, f, n, r, sinks);
    for (uint32_t k = 0; k < n->n_results; k++) {
        const struct outcome *o = &outcomes[k];
        if (o->scalar && o->used) lp_set(p, o->local, sinks[k].value);
        end_overwrite(L, f, n->results + k, &sinks[k]);
        for (uint32_t d = 0; d < result_rank(L, f, n, k); d++)
            if (o->symbol[d] != HOP_NONE) lp_set(p, o->size_local[d], sinks[k].dims[d]);
    }
}

static void switch_block(struct lower *L, const struct fn *f, const struct node *n)
{
    struct lp *p = lower_lp(L);
    struct outcome *outcomes = ARENA_NEW(&p->arena, struct outcome, n->n_results);
    uint32_t *symbol_locals = ARENA_NEW(&p->arena, uint32_t, f->n_symbols);
    memset(symbol_locals, 0xff, f->n_symbols * sizeof *symbol_locals);
    for (uint32_t k = 0; k < n->n_results; k++) outcomes[k] = begin_outcome(L, f, n, k, symbol_locals);
    lpv index = lower_scalar(L, node_operands(f, n)[0]);
    uint32_t last = n->n_regions - 1u;
    if (dtype_info[lp_dtype(p, index)].size < 4 && last > 1)
        index = lp_cast(p, DT_I32, index); /* there may be more branches than the dtype has numbers */
    for (uint32_t r = 0; r < last; r++) {  /* below the first is the first, beyond the last the last */
        enum dtype t = lp_dtype(p, index);
        lpv here = t == DT_BOOL ? lp_un(p, LP_NOT, index) : lp_bin(p, LP_LE, index, lp_int(p, t, r));
        lp_if_begin(p, here);
        branch(L, f, n, r, outcomes);
        lp_if_else(p);
    }
    branch(L, f, n, last, outcomes);
    for (uint32_t r = 0; r < last; r++) lp_if_end(p);
    for (uint32_t k = 0; k < n->n_results; k++) {
        const struct outcome *o = &outcomes[k];
        if (o->scalar && o->used) lower_set_scalar(L, n, k, lp_read(p, o->local));
        for (uint32_t d = 0; d < result_rank(L, f, n, k); d++)
            if (o->symbol[d] != HOP_NONE) lower_bind_symbol(L, o->symbol[d], lp_read(p, o->size_local[d]));
    }
}

const struct op_lower switch_lower = { .kind = LOWER_BLOCK,
                                       .block = switch_block,
                                       .operand_use = lower_call_use };
