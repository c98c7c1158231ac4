/* Lowering, the part about values: elements on demand, dims, memory, bodies of higher-order nodes, and the
 * entry function. What is stored and in which nests is decided in nest.c. */
#include "loop/lower_impl.h"
#include "ir/axes.h"
#include "ir/loop.h"
#include "ops/build.h"

/* Static temporaries up to this size live on the stack, where small ones become registers. */
enum { STACK_BYTES = 2048 };

/* Operations below which threads do not pay. In a loop they are woken at every step, and what is called there
 * keeps nothing in registers from step to step: it must be known to be large, or a run decides. */
enum {
    PARALLEL_WORK = 200000,
    LOOPED_WORK = 600000,
    MOVED_WORK = 8,     /* operations that moving an element is worth: it comes from where it was made */
    PLACED_PIECE = 8192 /* elements of a vector that a thread copies at once */
};

struct lp *lower_lp(struct lower *L) { return lower_p(L); }
struct module *lower_module(struct lower *L) { return L->S->m; }
const struct fn *lower_fn(const struct lower *L) { return L->f; }
bool lower_outer(const struct lower *L, struct lower **outer, const struct node **n)
{
    *outer = L->outer;
    *n = L->around;
    return L->outer != NULL;
}
bool lower_in_place(const struct lower *L) { return choice_on(L->S->passes, CHOICE_inplace); }
bool lower_in_loop(const struct lower *L) { return L->S->loop_depth > 0; }

/* ---- dims ---- */

lpv lower_dim(struct lower *L, dim d)
{
    struct lp *p = lower_p(L);
    struct dim_node n = dim_get(L->S->m, d);
    lpv r, a, b;
    switch (n.kind) {
    case DIM_CONST: return lp_index(p, n.value);
    case DIM_SYMBOL:
        if (L->probe) return lp_symbol(p, (uint32_t)n.value);
        if (L->symbols[n.value] == LPV_NONE) hop_throw(HOP_INTERNAL, "a dim is used before it is bound");
        return L->symbols[n.value];
    case DIM_SUM:
        r = lp_index(p, 0);
        for (uint32_t i = 0; i < n.n; i++)
            r = lp_bin(p, LP_ADD, r, lp_bin(p, LP_MUL, lower_dim(L, n.args[i]), lp_index(p, n.coefs[i])));
        return lp_bin(p, LP_ADD, r, lp_index(p, n.value));
    case DIM_PRODUCT:
        r = lower_dim(L, n.args[0]);
        for (uint32_t i = 1; i < n.n; i++) r = lp_bin(p, LP_MUL, r, lower_dim(L, n.args[i]));
        return r;
    default: break;
    }
    a = lower_dim(L, n.args[0]);
    b = lower_dim(L, n.args[1]);
    switch (n.kind) {
    case DIM_MIN: return lp_bin(p, LP_MIN, a, b);
    case DIM_MAX: return lp_bin(p, LP_MAX, a, b);
    default: break;
    }
    /* A symbolic divisor of 0 is caught where the program is entered. */
    lpv safe = lp_bin(p, LP_MAX, b, lp_index(p, 1));
    return lp_bin(p, n.kind == DIM_MOD ? LP_MOD : LP_FLOORDIV, a, safe);
}

static bool unknown_symbol(void *ctx, uint32_t s) { return ((const dim *)ctx)[s] == HOP_NONE; }

/* The dim over the entry function's symbols, HOP_NONE when it is only known while running. */
dim lower_entry_dim(struct lower *L, dim d)
{
    if (!(d & DIM_TABLE)) return d;
    if (dim_mentions(L->S->m, d, unknown_symbol, L->entry_dims)) return HOP_NONE;
    return dim_substitute(L->S->m, d, L->entry_dims);
}

lpv lower_flatten(struct lower *L, type_id t, const lpv *idx)
{
    struct lp *p = lower_p(L);
    struct type type = type_get(L->S->m, t);
    lpv flat = lp_index(p, 0);
    for (uint32_t i = 0; i < type.rank; i++) {
        if (i) flat = lp_bin(p, LP_MUL, flat, lower_dim(L, type.dims[i]));
        flat = lp_bin(p, LP_ADD, flat, idx[i]);
    }
    return flat;
}

void lower_unflatten(struct lower *L, type_id t, lpv flat, lpv *idx)
{
    struct lp *p = lower_p(L);
    struct type type = type_get(L->S->m, t);
    for (uint32_t i = type.rank; i-- > 0;) {
        if (i == 0) {
            idx[0] = flat;
            break;
        }
        lpv d = lp_bin(p, LP_MAX, lower_dim(L, type.dims[i]), lp_index(p, 1));
        idx[i] = lp_bin(p, LP_MOD, flat, d);
        flat = lp_bin(p, LP_FLOORDIV, flat, d);
    }
}

/* ---- memory ---- */

/* Elements over the entry function's symbols, HOP_NONE when only known while running. */
static dim entry_count(struct lower *L, type_id t)
{
    struct type type = type_get(L->S->m, t);
    dim count = 1;
    for (uint32_t i = 0; i < type.rank; i++) {
        dim d = lower_entry_dim(L, type.dims[i]);
        bool known = d != HOP_NONE && count != HOP_NONE;
        count = known ? dim_mul(L->S->m, count, d) : HOP_NONE;
    }
    return count;
}

bool lower_is_small(struct lower *L, type_id t)
{
    dim count = entry_count(L, t);
    if (count == HOP_NONE || !dim_is_const(L->S->m, count)) return false;
    enum dtype dtype = (enum dtype)type_get(L->S->m, t).dtype;
    return dim_const_value(L->S->m, count) * dtype_info[dtype].size <= STACK_BYTES;
}

uint32_t lower_new_buffer(struct lower *L, type_id t, const char *why)
{
    struct module *m = L->S->m;
    struct type type = type_get(m, t);
    dim count = entry_count(L, t);
    struct lp_buffer b = { .kind = BUF_TEMP,
                           .dtype = dtype_stored((enum dtype)type.dtype),
                           .index = HOP_NONE,
                           .count = count,
                           .static_count = -1,
                           .private = L->S->regions > 0,
                           .why = why };
    b.name = arena_printf(&L->S->p->arena, "t%u", L->S->p->buffers.len);
    if (count == HOP_NONE) {
        b.kind = BUF_DYN;
        b.count = 0;
    } else if (dim_is_const(m, count)) {
        b.static_count = dim_const_value(m, count);
        /* Procedures may stand above each other on one stack. */
        bool on_stack = !L->S->p->level || (L->S->shallow && !L->S->large);
        if (lower_is_small(L, t) && on_stack) b.kind = BUF_LOCAL;
    }
    return lp_buffer(L->S->p, b);
}

static lpv elements(struct lower *L, type_id t) { return lower_dim(L, type_elements(L->S->m, t)); }

struct array lower_alloc(struct lower *L, type_id t, const char *why)
{
    struct lp *p = L->S->p;
    uint32_t buffer = lower_new_buffer(L, t, why);
    if (p->buffers.data[buffer].kind == BUF_DYN)
        lp_add_call(p, (struct lp_call){ .kind = CALL_RESERVE, .target = buffer, .index = elements(L, t) });
    return (struct array){ buffer, lp_index(p, 0) };
}

void lower_room(struct lower *L, struct array a, type_id t)
{
    struct lp *p = L->S->p;
    if (p->buffers.data[a.buffer].kind == BUF_DYN)
        lp_add_call(p, (struct lp_call){ .kind = CALL_RESERVE,
                                         .target = a.buffer,
                                         .index = lp_bin(p, LP_ADD, a.at, elements(L, t)) });
}

void lower_copy(struct lower *L, type_id t, struct array from, struct array to, const char *why)
{
    struct lp *p = L->S->p;
    lower_room(L, to, t);
    bool local = p->buffers.data[from.buffer].kind == BUF_LOCAL ||
                 p->buffers.data[to.buffer].kind == BUF_LOCAL;
    p->n_copies++;
    vec_push(&p->arena, &p->copy_notes, why);
    lpv count = elements(L, t), zero = lp_index(p, 0), one = lp_index(p, 1);
    dim n = type_elements(L->S->m, t);
    bool known = dim_is_const(L->S->m, n);
    uint64_t work = known ? (uint64_t)dim_const_value(L->S->m, n) * MOVED_WORK : PARALLEL_WORK;
    bool parallel = !local && lower_worth_threads(L, work, known);
    if (!local && !parallel) {
        lp_add_call(p, (struct lp_call){ .kind = CALL_COPY,
                                         .target = to.buffer,
                                         .source = from.buffer,
                                         .index = from.at,
                                         .lo = to.at,
                                         .count = count });
        return;
    }
    /* a vector loop: registers to registers, or pieces for threads */
    lpv lo = zero, hi = count;
    struct blocks b = lower_pieces(L, count, lp_index(p, PLACED_PIECE));
    if (parallel) lower_block_begin(L, &b, &lo, &hi);
    lpv i = lp_for_begin(p, lo, hi, one, FOR_VECTOR);
    lp_store(p, to.buffer, lp_bin(p, LP_ADD, to.at, i),
             lp_load(p, from.buffer, lp_bin(p, LP_ADD, from.at, i)));
    lp_for_end(p)->note = why;
    if (parallel) lp_for_end(p);
}

lpv lower_offset(struct lower *L, struct array a, lpv row, type_id row_type)
{
    struct lp *p = lower_p(L);
    return lp_bin(p, LP_ADD, a.at, lp_bin(p, LP_MUL, row, elements(L, row_type)));
}

void lower_each_begin(struct lower *L, type_id t, bool vector, lpv *idx)
{
    struct lp *p = lower_p(L);
    struct type type = type_get(L->S->m, t);
    for (uint32_t i = 0; i < type.rank; i++)
        idx[i] = lp_for_begin(p, lp_index(p, 0), lower_dim(L, type.dims[i]), lp_index(p, 1),
                              vector && i + 1u == type.rank ? FOR_VECTOR : FOR_SERIAL);
}

void lower_each_end(struct lower *L, type_id t)
{
    struct type type = type_get(L->S->m, t);
    for (uint32_t i = 0; i < type.rank; i++) lp_for_end(lower_p(L));
}

/* ---- elements ---- */

static lpv held_value(struct lower *L, val v, const lpv *idx)
{
    const struct value_info *info = &L->info[v];
    if (!L->emitting || !info->root || info->nest == HOP_NONE) return LPV_NONE;
    if (L->nest_list.data[info->nest] != L->emitting) return LPV_NONE;
    struct item *item = &L->emitting->items.data[info->item];
    if (item->held == LPV_NONE && !item->row_held) return LPV_NONE;
    struct type t = type_get(L->S->m, value_type(L->f, v));
    uint32_t n_same = item->row_held ? t.rank - 1 : t.rank;
    if (item->class == ITEM_SCALAR) n_same = L->emitting->n_outer; /* further dims have one element */
    for (uint32_t i = 0; i < n_same; i++)
        if (idx[i] != L->vars[i]) return LPV_NONE;
    if (!item->row_held) return item->held;
    int64_t at;
    return lp_is_const(L->S->p, idx[t.rank - 1], &at) ? item->row_held[at] : LPV_NONE;
}

static void record_read(struct lower *L, val v, const lpv *idx)
{
    struct probe *probe = L->probe;
    uint32_t rank = type_get(L->S->m, value_type(L->f, v)).rank;
    uint32_t same = 0;
    while (same < rank && same < probe->n_vars && idx[same] == probe->vars[same]) same++;
    uint8_t relation = REL_OTHER;
    if (same == rank && rank == probe->n_vars) relation = REL_SAME;
    else if (same == rank && rank + 1 == probe->n_vars) relation = REL_ROW;
    else if (same + 1 == rank && rank == probe->n_vars) relation = REL_ROWVEC;
    vec_push(L->arena, &probe->item->reads, (struct read){ v, relation, (uint8_t)same });
}

static lpv array_load(struct lower *L, struct array a, type_id t, const lpv *idx)
{
    struct lp *p = L->S->p;
    return lp_load(p, a.buffer, lp_bin(p, LP_ADD, a.at, lower_flatten(L, t, idx)));
}

/* Would a read of v, instead of its expression, stand here? */
static bool is_read(struct lower *L, val v)
{
    uint32_t node = L->f->values[v].node;
    if (L->slots[v].kind != SLOT_INLINE || L->info[v].root || node == NODE_NONE) return true;
    return nest_is_block(L, fn_node(L->f, node)) || nest_is_step(L, v);
}

/* Records the read; gives a value that nobody can fold away, different from index arithmetic. */
static lpv probe_read(struct lower *L, val v, const lpv *idx)
{
    record_read(L, v, idx);
    struct lp *scratch = L->probe->scratch;
    enum dtype dtype = dtype_stored((enum dtype)type_get(L->S->m, value_type(L->f, v)).dtype);
    return lp_read(scratch, lp_local(scratch, dtype, LOCAL_SCALAR, "probe"));
}

lpv lower_elem(struct lower *L, val v, const lpv *idx)
{
    struct slot *s = &L->slots[v];
    type_id t = value_type(L->f, v);
    if (L->probe) {
        if (is_read(L, v)) return probe_read(L, v, idx);
    } else {
        lpv held = held_value(L, v, idx);
        if (held != LPV_NONE) return held;
    }
    switch (s->kind) {
    case SLOT_SCALAR: return s->scalar;
    case SLOT_ARRAY:
        if (s->row) return lp_load(L->S->p, s->array.buffer, idx[type_get(L->S->m, t).rank - 1]);
        return array_load(L, s->array, t, idx);
    case SLOT_OUTER: {
        uint32_t rank = type_get(L->S->m, t).rank;
        if (s->lead == LPV_NONE) return lower_elem(s->outer, s->outer_value, idx);
        lpv full[MAX_RANK + 1] = { s->lead };
        memcpy(full + 1, idx, rank * sizeof *idx);
        return lower_elem(s->outer, s->outer_value, full);
    }
    default: break;
    }
    const struct node *n = fn_node(L->f, L->f->values[v].node);
    const struct op_lower *row = node_row(n)->lower;
    if (!row || row->kind != LOWER_POINTWISE)
        hop_throw(HOP_INTERNAL, "%s: read before it was computed", node_row(n)->name);
    if (!L->probe && row->cost == COST_EXPENSIVE) repeats_note(L, v);
    return row->elem(L, L->f, n, v - n->results, idx);
}

static const lpv no_index[1] = { LPV_NONE }; /* of a scalar: rows may add to it */

lpv lower_scalar(struct lower *L, val v)
{
    uint32_t rank = type_get(L->S->m, value_type(L->f, v)).rank;
    lpv first[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) first[i] = lp_index(lower_p(L), 0);
    return lower_elem(L, v, rank ? first : no_index);
}

bool lower_is_single(struct lower *L, type_id t)
{
    dim count = type_elements(L->S->m, t);
    return dim_is_const(L->S->m, count) && dim_const_value(L->S->m, count) == 1;
}

struct array lower_array(struct lower *L, val v)
{
    struct slot *s = &L->slots[v];
    if (s->kind == SLOT_ARRAY) return s->array;
    if (s->kind == SLOT_OUTER && s->lead == LPV_NONE) return lower_array(s->outer, s->outer_value);
    if (s->kind == SLOT_OUTER) {
        struct slot *o = &s->outer->slots[s->outer_value];
        if (o->kind == SLOT_ARRAY || o->kind == SLOT_OUTER) {
            struct array whole = lower_array(s->outer, s->outer_value);
            return (struct array){ whole.buffer, lower_offset(L, whole, s->lead, value_type(L->f, v)) };
        }
    }
    struct array fresh = lower_alloc(L, value_type(L->f, v), "an operand that must lie in memory");
    lower_fill(L, v, fresh);
    return fresh;
}

/* ---- writing elements ---- */

static void put_element(struct lower *L, const struct written_part *x, const lpv *idx)
{
    struct lp *p = L->S->p;
    uint32_t rank = type_get(L->S->m, x->whole).rank;
    lpv at[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        at[i] = x->step ? lp_bin(p, LP_MUL, idx[i], lp_index(p, x->step[i])) : idx[i];
        if (x->start) at[i] = lp_bin(p, LP_ADD, x->start[i], at[i]);
    }
    lp_store(p, x->to.buffer, lp_bin(p, LP_ADD, x->to.at, lower_flatten(L, x->whole, at)),
             lower_elem(L, x->v, idx));
}

static void place_all(struct lower *L, const struct written_part *x, bool parallel)
{
    struct lp *p = L->S->p;
    type_id t = value_type(L->f, x->v);
    struct type type = type_get(L->S->m, t);
    lpv idx[MAX_RANK] = { 0 }, zero = lp_index(p, 0), one = lp_index(p, 1);
    uint32_t last = type.rank - 1u;
    uint32_t cut = parallel && type.rank == 1;
    for (uint32_t i = 0; i < type.rank; i++) {
        lpv lo = zero, hi = lower_dim(L, type.dims[i]);
        struct blocks b = lower_pieces(L, hi, lp_index(p, PLACED_PIECE));
        if (cut) lower_block_begin(L, &b, &lo, &hi);
        enum lp_for_kind mode = parallel && !i && last ? FOR_PARALLEL : FOR_SERIAL;
        bool vector = i == last && (!x->step || x->step[last] == 1);
        idx[i] = lp_for_begin(p, lo, hi, one, vector ? FOR_VECTOR : mode);
    }
    put_element(L, x, idx);
    for (uint32_t i = 0; i < type.rank + cut; i++) lp_for_end(p);
}

void lower_place(struct lower *L, const struct written_part *x)
{
    struct lp *p = L->S->p;
    struct module *m = L->S->m;
    dim count = type_elements(m, value_type(L->f, x->v));
    uint32_t each = L->info[x->v].cost + MOVED_WORK;
    bool known = dim_is_const(m, count), array = type_get(m, value_type(L->f, x->v)).rank > 0;
    uint64_t guess = known ? (uint64_t)dim_const_value(m, count) : PARALLEL_WORK;
    bool parallel = array && lower_worth_threads(L, guess > UINT32_MAX ? guess : guess * each, known);
    if (parallel || known || !array || !lower_may_ask(L)) {
        place_all(L, x, parallel);
        return;
    }
    lp_if_begin(p, lower_worth_later(L, lp_bin(p, LP_MUL, lower_dim(L, count), lp_index(p, each))));
    place_all(L, x, true);
    lp_if_else(p);
    place_all(L, x, false);
    lp_if_end(p);
}

void lower_fill(struct lower *L, val v, struct array to)
{
    struct lp *p = L->S->p;
    type_id t = value_type(L->f, v);
    lpv idx[MAX_RANK];
    lower_room(L, to, t);
    if (p->buffers.data[to.buffer].kind == BUF_LOCAL) { /* one chunk, so that it can be registers */
        lpv i = lp_for_begin(p, lp_index(p, 0), elements(L, t), lp_index(p, 1), FOR_VECTOR);
        lower_unflatten(L, t, i, idx);
        lp_store(p, to.buffer, lp_bin(p, LP_ADD, to.at, i), lower_elem(L, v, idx));
        lp_for_end(p);
        return;
    }
    lower_place(L, &(struct written_part){ .v = v, .to = to, .whole = t });
}

struct lp_operand lower_operand(struct lower *L, val v)
{
    struct type t = type_get(L->S->m, value_type(L->f, v));
    struct lp_operand o = { .buffer = HOP_NONE, .value = LPV_NONE, .index = LPV_NONE, .rank = t.rank };
    if (!t.rank) {
        o.value = lower_scalar(L, v);
        return o;
    }
    struct array a = lower_array(L, v);
    o.buffer = a.buffer;
    o.index = a.at;
    for (uint32_t i = 0; i < t.rank; i++) o.dims[i] = lower_dim(L, t.dims[i]);
    return o;
}

/* ---- results ---- */

bool lower_result_used(struct lower *L, const struct node *n, uint32_t k)
{
    return L->info[n->results + k].uses > 0;
}

/* What v becomes: the value that ends in v's memory. */
static val becomes(struct lower *L, val v)
{
    while (L->info[v].given != HOP_NONE) v = L->info[v].given;
    return v;
}

/* A result of the function that is this value and wants memory of its own kind gives that memory. */
static struct sink *direct_sink(struct lower *L, val v)
{
    v = becomes(L, v);
    for (uint32_t r = 0; r < L->f->n_results; r++) {
        struct sink *s = &L->sinks[r];
        if (L->f->results[r] == v && !s->unused && !s->scalar && s->overwrites == HOP_NONE) return s;
    }
    return NULL;
}

bool lower_reads(struct lower *L, val operand, uint32_t param)
{
    return nest_operand_reads(L, operand, param);
}

/* A result of the function that is this value and may be written over a parameter that nothing reads in step
 * `from` or behind. */
static struct sink *sink_over_param(struct lower *L, val v, uint32_t from)
{
    if (!choice_on(L->S->passes, CHOICE_inplace)) return NULL;
    v = becomes(L, v);
    for (uint32_t r = 0; r < L->f->n_results; r++) {
        struct sink *s = &L->sinks[r];
        if (L->f->results[r] != v || s->unused || s->scalar || s->overwrites == HOP_NONE) continue;
        bool in_memory = L->slots[s->overwrites].kind == SLOT_ARRAY;
        if (in_memory && !nest_reads_from(L, s->overwrites, from)) return s;
    }
    return NULL;
}

static struct sink *overwriting_sink(struct lower *L, val v) { return sink_over_param(L, v, L->step + 1); }

struct array lower_sink_of(struct lower *L, val v, uint32_t from)
{
    const struct sink *s = direct_sink(L, v);
    if (!s) s = sink_over_param(L, v, from);
    return s ? s->array : (struct array){ HOP_NONE, LPV_NONE };
}

uint32_t lower_may_overwrite(struct lower *L, const struct node *n, uint32_t k)
{
    val v = n->results + k;
    if (L->slots[v].kind == SLOT_ARRAY) return HOP_NONE;
    const struct sink *over = overwriting_sink(L, v);
    return over ? over->overwrites : HOP_NONE;
}

struct array lower_overwrite(struct lower *L, const struct node *n, uint32_t k)
{
    struct array a = overwriting_sink(L, n->results + k)->array;
    L->slots[n->results + k] = (struct slot){ .kind = SLOT_ARRAY, .array = a };
    return a;
}

static bool reads_none(struct lower *L, const struct node *n, uint32_t param)
{
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (lower_reads(L, node_operands(L->f, n)[k], param)) return false;
    return true;
}

/* Is result v of a block made where the parameter lies? */
static bool is_made_over(struct lower *L, const struct node *n, val v, uint32_t param)
{
    val first = v;
    while (L->info[first].takes != HOP_NONE) first = L->info[first].takes;
    return first == param || reads_none(L, n, param);
}

static const char *result_of(struct lower *L, const struct node *n)
{
    return arena_printf(&L->S->p->arena, "result of %s", node_row(n)->name);
}

/* The node that moves a value out of memory, or the rows of one; NULL: none does. */
static const struct node *moved_by(const struct module *m, const struct fn **f, val v)
{
    const struct fn *here = *f;
    uint32_t made = here->values[v].node;
    if (made == NODE_NONE) return NULL;
    const struct node *n = fn_node(here, made);
    if (node_row(n)->moves == MOVES_OUT) return n;
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct fn *body = module_fn(m, node_region(here, n, r)->fn);
        val there = body_value(m, here, n, r, v - n->results);
        const struct node *found = there == VAL_NONE ? NULL : moved_by(m, &body, there);
        if (!found) continue;
        *f = body;
        return found;
    }
    return NULL;
}

/* Memory in a file for a value of a node, if that is asked for. */
static void note_offloaded(struct lower *L, val v, uint32_t buffer)
{
    struct lp *p = L->S->p;
    struct module *m = L->S->m;
    struct lp_buffer *b = &p->buffers.data[buffer];
    const struct fn *f = L->f;
    const struct node *n = moved_by(m, &f, v);
    if (!n || (b->kind != BUF_TEMP && b->kind != BUF_DYN)) return;
    const struct attr *name = node_attr(f, n, OFFLOAD_NAME);
    const char *text = name->kind == ATTR_ABSENT ? "" : module_text(m, (uint32_t)name->i);
    b->place = n->place;
    b->offloaded_name = arena_printf(&p->arena, "offload%s%s%s", *text ? ": '" : "", text, *text ? "'" : "");
    b->offloaded = arena_printf(&p->arena, "%s%s", place_text(m, n->place), b->offloaded_name);
}

struct array lower_result(struct lower *L, const struct node *n, uint32_t k)
{
    return lower_result_of(L, n->results + k, n);
}

struct array lower_result_of(struct lower *L, val v, const struct node *maker)
{
    type_id t = value_type(L->f, v);
    struct slot *s = &L->slots[v];
    if (s->kind == SLOT_ARRAY) return s->array;
    struct sink *sink = direct_sink(L, v);
    if (!sink) {
        struct sink *over = overwriting_sink(L, v);
        if (over && reads_none(L, maker, over->overwrites)) sink = over;
    }
    if (sink && sink->array.buffer != HOP_NONE) s->array = sink->array;
    else if (L->info[v].within != HOP_NONE) s->array = within_array(L, v);
    else {
        s->array = lower_alloc(L, t, result_of(L, maker));
        note_offloaded(L, v, s->array.buffer);
    }
    s->kind = SLOT_ARRAY;
    lower_room(L, s->array, t);
    return s->array;
}

/* Who reads v behind node n: what stands in the note about the copy. */
static const char *reader_behind(struct lower *L, const struct node *n, val v)
{
    const struct fn *f = L->f;
    struct arena *a = &L->S->p->arena;
    uint32_t at = (uint32_t)(n - f->nodes);
    if (nest_is_result(L, v)) return "is a result";
    for (uint32_t i = at + 1; i < f->n_nodes; i++) {
        const struct node *reader = fn_node(f, i);
        for (uint32_t k = 0; k < reader->n_operands; k++)
            if (node_operands(f, reader)[k] == v)
                return arena_printf(a, "%s reads afterwards", node_row(reader)->name);
    }
    if (!nest_read_only_before(L, v, at)) return "an expression behind it reads";
    if (f->values[v].node == NODE_NONE) return L->outer ? "comes from outside of the body" : "is an argument";
    return "it is given twice, or somebody else's";
}

static void put_result(struct lower *L, val v, struct array to);

/* A parameter that is a result as well goes there while its content is still the old one. */
static void put_before_change(struct lower *L, val old)
{
    for (uint32_t r = 0; r < L->f->n_results; r++) {
        struct sink *sink = &L->sinks[r];
        if (L->f->results[r] != old || sink->unused || sink->done) continue;
        put_result(L, old, sink->array);
        sink->done = true;
    }
}

uint32_t lower_taken(struct lower *L, const struct node *n, uint32_t k)
{
    val old = L->info[n->results + k].takes;
    if (old == HOP_NONE || L->slots[old].kind != SLOT_ARRAY) return HOP_NONE;
    return node_row(n)->lower->changes(L->S->m, L->f, n, k);
}

struct array lower_take(struct lower *L, const struct node *n, uint32_t k)
{
    val u = n->results + k, old = L->info[u].takes;
    put_before_change(L, old);
    L->slots[u] = L->slots[old];
    return L->slots[u].array;
}

struct array lower_change(struct lower *L, const struct node *n, uint32_t k, const char *who)
{
    struct lp *p = L->S->p;
    val old = node_operands(L->f, n)[node_row(n)->lower->changes(L->S->m, L->f, n, k)];
    if (lower_taken(L, n, k) != HOP_NONE) return lower_take(L, n, k);
    const char *why = "updates in place are switched off";
    if (choice_on(L->S->passes, CHOICE_inplace))
        why = arena_printf(&p->arena, "%s changes an array that %s", who, reader_behind(L, n, old));
    struct array to = lower_result(L, n, k);
    lower_put(L, old, to, why);
    return to;
}

struct array lower_growing(struct lower *L, const struct node *n, uint32_t k)
{
    struct lp *p = L->S->p;
    val v = n->results + k;
    struct sink *sink = direct_sink(L, v);
    struct slot s = { .kind = SLOT_ARRAY, .array = { HOP_NONE, lp_index(p, 0) } };
    if (sink && p->buffers.data[sink->array.buffer].kind == BUF_DYN) s.array = sink->array;
    else {
        s.array.buffer = lower_new_buffer(L, value_type(L->f, v), result_of(L, n));
        note_offloaded(L, v, s.array.buffer);
    }
    L->slots[v] = s;
    return s.array;
}

void lower_loop_enter(struct lower *L) { L->S->loop_depth++; }
void lower_loop_leave(struct lower *L) { L->S->loop_depth--; }
void lower_region_enter(struct lower *L)
{
    L->S->loop_depth++;
    L->S->regions++;
}
void lower_region_leave(struct lower *L)
{
    L->S->loop_depth--;
    L->S->regions--;
}

const char *lower_loop_note(struct lower *L, const struct fn *f, const struct node *n, uint32_t region)
{
    uint32_t label = fn_label(module_fn(L->S->m, node_region(f, n, region)->fn));
    const char *row = node_row(n)->name;
    const struct lp *p = L->S->p;
    const char *region_name = p->regime.name ? p->regime.name : "", *colon = p->regime.name ? ": " : "";
    if (!label && !p->regime.name) return row;
    return arena_printf(&L->S->p->arena, "%s%s%s%s%s", region_name, colon, row, label ? " @" : "",
                        label ? module_text(L->S->m, label) : "");
}
bool lower_may_thread(const struct lower *L)
{
    /* a large program calls procedures everywhere, and each runs once at a time */
    bool threads = choice_on(L->S->passes, CHOICE_parallel) && L->S->p->regime.threads != 1;
    return threads && !L->S->loop_depth && !L->S->large;
}

/* Is this a place in a sequential loop from which threads may be woken? */
bool lower_may_ask(const struct lower *L)
{
    const struct shared *S = L->S;
    bool threads = choice_on(S->passes, CHOICE_parallel) && S->p->regime.threads != 1 && !S->regions;
    return threads && S->loop_depth && !S->large;
}

bool lower_worth_threads(const struct lower *L, uint64_t work, bool known)
{
    const struct shared *S = L->S;
    bool threads = choice_on(S->passes, CHOICE_parallel) && S->p->regime.threads != 1 && !S->regions;
    if (!threads || !S->loop_depth) return threads && work >= PARALLEL_WORK;
    return known && work >= LOOPED_WORK && !S->large;
}

lpv lower_worth_later(struct lower *L, lpv work)
{
    return lp_bin(L->S->p, LP_GE, work, lp_index(L->S->p, LOOPED_WORK));
}

void lower_set_scalar(struct lower *L, const struct node *n, uint32_t k, lpv value)
{
    L->slots[n->results + k] = (struct slot){ .kind = SLOT_SCALAR, .scalar = value };
}

void lower_set_result(struct lower *L, const struct node *n, uint32_t k, struct array where)
{
    L->slots[n->results + k] = (struct slot){ .kind = SLOT_ARRAY, .array = where };
}

void lower_bind_symbol(struct lower *L, uint32_t symbol, lpv value) { L->symbols[symbol] = value; }

/* ---- functions ---- */

static bool is_bound_here(struct lower *L, const struct node *n, uint32_t *symbol)
{
    for (uint32_t s = L->f->n_outer_symbols; s < L->f->n_symbols; s++) {
        if (&L->f->nodes[L->f->symbols[s].index] != n || L->symbols[s] != LPV_NONE) continue;
        *symbol = s;
        return true;
    }
    return false;
}

/* A pointwise node that binds a dim: its operand is the size. */
static void bind_size(struct lower *L, const struct node *n)
{
    struct lp *p = L->S->p;
    uint32_t s;
    if (node_row(n)->lower->kind != LOWER_POINTWISE || !is_bound_here(L, n, &s)) return;
    lpv size = lower_scalar(L, node_operands(L->f, n)[0]);
    const struct symbol *symbol = &L->f->symbols[s];
    lpv fits = lp_bin(p, LP_AND, lp_bin(p, LP_GE, size, lp_index(p, symbol->lo)),
                      lp_bin(p, LP_LE, size, lp_index(p, symbol->hi)));
    struct lp_operand *shown = ARENA_ZNEW(&p->arena, struct lp_operand, 1);
    *shown = (struct lp_operand){ .buffer = HOP_NONE, .value = size, .index = LPV_NONE };
    lp_add_call(p, (struct lp_call){ .kind = CALL_CHECK,
                                     .value = fits,
                                     .place = n->place,
                                     .n_operands = 1,
                                     .operands = shown,
                                     .text = module_string(L->S->m, "a size within its range", 23),
                                     .mask = LPV_NONE });
    L->symbols[s] = size;
}

static void emit_scalar(struct lower *L, val v)
{
    lpv value = lower_scalar(L, v);
    L->slots[v] = (struct slot){ .kind = SLOT_SCALAR, .scalar = value };
}

void lower_put(struct lower *L, val v, struct array to, const char *why)
{
    struct slot *slot = &L->slots[v];
    type_id t = value_type(L->f, v);
    if (slot->kind == SLOT_ARRAY && same_array(slot->array, to)) return;
    if (slot->kind == SLOT_ARRAY) lower_copy(L, t, slot->array, to, why);
    else lower_fill(L, v, to);
}

static void put_result(struct lower *L, val v, struct array to)
{
    type_id t = value_type(L->f, v);
    bool one = L->info[v].single && L->slots[v].kind != SLOT_ARRAY;
    if (type_get(L->S->m, t).rank && !one) {
        lower_put(L, v, to, "a result that lies elsewhere");
        return;
    }
    if (L->slots[v].kind == SLOT_ARRAY && same_array(L->slots[v].array, to)) return;
    lower_room(L, to, t);
    lp_store(L->S->p, to.buffer, to.at, lower_scalar(L, v));
}

static bool is_in_place(const struct slot *slot, const struct sink *sink)
{
    return slot->kind == SLOT_ARRAY && same_array(slot->array, sink->array);
}

/* Results that no nest and no block has put in place yet. Carries that a block has made are copied last,
 * straight over the old ones; carries that are parameters (a swap) or expressions go through memory of their
 * own, so that all are read before any is written. */
static void finish_results(struct lower *L)
{
    for (uint32_t r = 0; r < L->f->n_results; r++) {
        struct sink *sink = &L->sinks[r];
        val v = L->f->results[r];
        if (sink->unused || sink->done) continue;
        if (sink->scalar) sink->value = lower_scalar(L, v);
        if (sink->scalar || L->info[v].root) continue; /* at hand, or stored by its nest */
        if (sink->overwrites == HOP_NONE) {
            put_result(L, v, sink->array);
            continue;
        }
        const struct slot *slot = &L->slots[v];
        bool made_by_block = slot->kind == SLOT_ARRAY && L->f->values[v].node != NODE_NONE;
        if (made_by_block || is_in_place(slot, sink)) continue;
        if (sink->instead.buffer == HOP_NONE)
            sink->instead = lower_alloc(L, value_type(L->f, v), "the next value of a carry");
        sink->moved = true;
        put_result(L, v, sink->instead);
    }
    for (uint32_t r = 0; r < L->f->n_results; r++) {
        struct sink *sink = &L->sinks[r];
        val v = L->f->results[r];
        bool open = !sink->unused && !sink->done && !sink->scalar && !L->info[v].root;
        if (open && sink->overwrites != HOP_NONE && !sink->moved) put_result(L, v, sink->array);
        struct type t = type_get(L->S->m, value_type(L->f, v));
        for (uint32_t d = 0; d < t.rank; d++) sink->dims[d] = lower_dim(L, t.dims[d]);
    }
}

/* Writes a part of an array into the array's own memory. Operands computed from what the array holds there
 * are computed first. */
static void write_part(struct lower *L, const struct node *n)
{
    const val *o = node_operands(L->f, n);
    struct array whole = lower_array(L, o[0]);
    put_before_change(L, o[0]);
    for (uint32_t k = 1; k < n->n_operands; k++) {
        type_id t = value_type(L->f, o[k]);
        if (!type_get(L->S->m, t).rank || L->slots[o[k]].kind != SLOT_INLINE) continue;
        if (!nest_operand_reads(L, o[k], o[0])) continue;
        struct array fresh = lower_alloc(L, t, "a part that is computed from what it replaces");
        lower_fill(L, o[k], fresh);
        L->slots[o[k]] = (struct slot){ .kind = SLOT_ARRAY, .array = fresh };
    }
    node_row(n)->lower->part(L, L->f, n, whole);
    L->slots[n->results] = (struct slot){ .kind = SLOT_ARRAY, .array = whole };
}

static void emit_block(struct lower *L, const struct node *n)
{
    const struct op_lower *row = node_row(n)->lower;
    const struct value_info *info = &L->info[n->results];
    if (product_is_gemm(L, n)) product_gemm(L, n);
    else if (row->kind == LOWER_BLOCK) row->block(L, L->f, n);
    else if (info->part) write_part(L, n);
    else if (info->assembled) within_assemble(L, n);
    else if (info->run) within_run(L, n);
    else if (!product_adds_up(L, n)) bind_size(L, n);
}

void lower_steps(struct lower *L)
{
    nest_analyse(L);
    for (uint32_t i = 0; i < L->steps.len; i++) {
        struct lower_step s = L->steps.data[i];
        L->step = i;
        const struct row_group *group = panels_at(L, i);
        if (group) {
            panels_emit(L, group);
            i += group->n - 1;
            continue;
        }
        struct mark_around around = mark_step(L, &s);
        if (s.kind == STEP_NEST) nest_emit(L, L->nest_list.data[s.index]);
        else if (s.kind == STEP_SCALAR) emit_scalar(L, s.index);
        else emit_block(L, fn_node(L->f, s.index));
        mark_end(L, around);
    }
    struct mark_around around = mark_results(L);
    finish_results(L);
    mark_end(L, around);
}

struct lower *lower_new(struct shared *S, struct lower *outer, const struct fn *f, struct sink *sinks)
{
    struct arena *arena = &S->p->arena;
    struct lower *L = ARENA_ZNEW(arena, struct lower, 1);
    *L = (struct lower){ .S = S, .arena = arena, .outer = outer, .f = f, .sinks = sinks };
    L->symbols = ARENA_NEW(arena, lpv, f->n_symbols);
    L->entry_dims = ARENA_NEW(arena, dim, f->n_symbols);
    for (uint32_t i = 0; i < f->n_symbols; i++) {
        L->symbols[i] = LPV_NONE;
        L->entry_dims[i] = HOP_NONE;
    }
    L->slots = ARENA_ZNEW(arena, struct slot, f->n_values);
    L->info = ARENA_ZNEW(arena, struct value_info, f->n_values);
    return L;
}

/* Scalars are read once where the function begins. */
static void param_slot(struct lower *L, uint32_t i, struct slot s)
{
    if (s.kind == SLOT_ARRAY && !type_get(L->S->m, value_type(L->f, i)).rank)
        s = (struct slot){ .kind = SLOT_SCALAR, .scalar = lp_load(L->S->p, s.array.buffer, s.array.at) };
    L->slots[i] = s;
}

/* Parameter i of the body that B lowers is a value of L, or a slice of one. */
static void feed_value(struct lower *L, struct lower *B, uint32_t i, const struct feed *in)
{
    type_id t = value_type(B->f, i);
    B->fed[i] = in->lead == LPV_NONE ? in->value : VAL_NONE;
    if (!type_get(L->S->m, t).rank) {
        lpv idx[1] = { in->lead };
        param_slot(B, i, (struct slot){ .kind = SLOT_SCALAR, .scalar = lower_elem(L, in->value, idx) });
        return;
    }
    const struct slot *s = &L->slots[in->value];
    if (s->kind == SLOT_ARRAY) {
        struct array a = s->array;
        if (in->lead != LPV_NONE) a.at = lower_offset(B, a, in->lead, t);
        B->slots[i] = (struct slot){ .kind = SLOT_ARRAY, .array = a };
        return;
    }
    struct slot outer = { .kind = SLOT_OUTER, .outer = L, .outer_value = in->value, .lead = in->lead };
    B->slots[i] = outer;
}

/* Per parameter: does a node read it, or is it a result? */
static const bool *params_read(struct arena *arena, const struct fn *f)
{
    bool *read = ARENA_ZNEW(arena, bool, f->n_params);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; k < n->n_operands; k++)
            if (node_operands(f, n)[k] < f->n_params) read[node_operands(f, n)[k]] = true;
    }
    for (uint32_t k = 0; k < f->n_results; k++)
        if (f->results[k] < f->n_params) read[f->results[k]] = true;
    return read;
}

/* Lowering of body g of a region, whose parameters are not fed yet. */
static struct lower *body_new(struct lower *L, const struct region *region, const struct fn *g,
                              const struct node *n, struct sink *results)
{
    struct lower *B = lower_new(L->S, L, g, results);
    B->around = n;
    for (uint32_t i = 0; i < region->n_dims; i++) {
        B->symbols[i] = lower_dim(L, region->dims[i]);
        B->entry_dims[i] = lower_entry_dim(L, region->dims[i]);
    }
    B->fed = ARENA_NEW(B->arena, val, g->n_params);
    for (uint32_t i = 0; i < g->n_params; i++) B->fed[i] = VAL_NONE;
    return B;
}

void lower_body(struct lower *L, const struct fn *f, const struct node *n, uint32_t r,
                const struct feed *params, struct sink *results)
{
    const struct region *region = node_region(f, n, r);
    const struct fn *g = procedure_body(L, n, module_fn(L->S->m, region->fn));
    struct lower *B = body_new(L, region, g, n, results);
    const bool *read = params_read(B->arena, g);
    for (uint32_t i = 0; i < g->n_params; i++) {
        const struct feed *in = &params[i];
        if (in->kind == FEED_SCALAR)
            param_slot(B, i, (struct slot){ .kind = SLOT_SCALAR, .scalar = in->scalar });
        else if (in->kind == FEED_ARRAY)
            param_slot(B, i, (struct slot){ .kind = SLOT_ARRAY, .array = in->array });
        else if (read[i] || type_get(L->S->m, value_type(g, i)).rank) feed_value(L, B, i, in);
        /* else: an element that nobody reads is not loaded; its array may be one that nothing writes */
    }
    L->S->depth++;
    lower_steps(B);
    L->S->depth--;
}

void lower_find_moved(struct lower *L, const struct fn *f, const struct node *n, uint32_t r,
                      struct sink *results)
{
    const struct region *region = node_region(f, n, r);
    const struct fn *g = module_fn(L->S->m, region->fn);
    struct lower *B = body_new(L, region, g, n, results);
    for (uint32_t i = 0; i < g->n_params; i++) { /* nothing is written: where they are does not matter */
        bool scalar = !type_get(L->S->m, value_type(g, i)).rank;
        struct array anywhere = { 0, lp_index(L->S->p, 0) };
        B->slots[i] = (struct slot){ .kind = scalar ? SLOT_SCALAR : SLOT_ARRAY, .array = anywhere };
    }
    nest_analyse(B);
    for (uint32_t k = 0; k < g->n_results; k++) {
        val v = g->results[k];
        uint32_t made = g->values[v].node;
        bool open = !results[k].unused && !results[k].scalar && results[k].overwrites != HOP_NONE;
        if (!open || made == NODE_NONE || node_row(fn_node(g, made))->lower->kind != LOWER_BLOCK) continue;
        results[k].moved |= !is_made_over(B, fn_node(g, made), v, results[k].overwrites);
    }
}

/* ---- results that take an argument's memory ---- */

/* Why the result cannot take the argument's memory; NULL: it can. */
static const char *why_elsewhere(struct lower *L, type_id t, uint32_t param)
{
    struct lp *p = L->S->p;
    if (!choice_on(L->S->passes, CHOICE_inplace)) return "updates in place are switched off";
    if (t != value_type(L->f, param)) return "its type is not the argument's";
    for (uint32_t i = 0; i < p->updates.len; i++) {
        const struct lp_update *other = &p->updates.data[i];
        if (other->param == param && !other->elsewhere) return "another result takes the argument's memory";
    }
    return NULL;
}

/* Lets result r of the entry function be computed in the memory of the argument that it replaces; false: it
 * has memory of its own. Buffers of arguments come first and in order. */
static bool over_argument(struct lower *L, uint32_t r, struct sink *sink)
{
    struct lp *p = L->S->p;
    uint32_t param = L->S->over ? L->S->over[r] : HOP_NONE;
    if (param == HOP_NONE) return false;
    type_id t = value_type(L->f, L->f->results[r]);
    const char *why = why_elsewhere(L, t, param);
    struct lp_update u = { .result = r, .param = param, .elsewhere = why != NULL, .why = why };
    vec_push(&p->arena, &p->updates, u);
    if (u.elsewhere) return false;
    p->buffers.data[param].updated = true;
    /* a scalar argument is read before anything is written */
    *sink = (struct sink){ .array = { param, lp_index(p, 0) },
                           .overwrites = type_get(L->S->m, t).rank ? param : HOP_NONE,
                           .instead = { HOP_NONE, LPV_NONE } };
    return true;
}

static const char *update_copy_reason(struct lower *L, uint32_t r)
{
    val v = L->f->results[r];
    if (L->f->values[v].node == NODE_NONE) return "the new content is another argument's";
    if (nest_is_block(L, fn_node(L->f, L->f->values[v].node)))
        return "an operator needs the old content while it makes the new one";
    return "the old content is read after the new one is made, or at other places";
}

/* New contents that could not be computed in place are copied there when nothing reads the old ones any more.
 */
static void end_updates(struct lower *L)
{
    struct lp *p = L->S->p;
    for (uint32_t i = 0; i < p->updates.len; i++) {
        struct lp_update *u = &p->updates.data[i];
        const struct sink *sink = &L->sinks[u->result];
        if (u->elsewhere) continue;
        val v = L->f->results[u->result];
        bool made_there = L->info[v].root || is_in_place(&L->slots[v], sink);
        u->in_place = sink->overwrites == HOP_NONE || (!sink->moved && made_there);
        if (!u->in_place) u->why = update_copy_reason(L, u->result);
        if (sink->moved) lower_copy(L, value_type(L->f, v), sink->instead, sink->array, u->why);
    }
}

static struct lp_buffer argument_buffer(struct lp *p, struct module *m, const struct fn *f, uint32_t i)
{
    dim count = type_elements(m, value_type(f, i));
    return (struct lp_buffer){ .kind = BUF_ARG,
                               .dtype = dtype_stored((enum dtype)type_get(m, value_type(f, i)).dtype),
                               .index = i,
                               .count = count,
                               .static_count = dim_is_const(m, count) ? dim_const_value(m, count) : -1,
                               .name = arena_printf(&p->arena, "arg%u", i),
                               .why = "argument" };
}

static struct lp_buffer result_buffer(struct lower *L, uint32_t r)
{
    struct module *m = L->S->m;
    type_id t = value_type(L->f, L->f->results[r]);
    struct type type = type_get(m, t);
    bool known = true;
    for (uint32_t i = 0; i < type.rank; i++) known &= lower_entry_dim(L, type.dims[i]) != HOP_NONE;
    struct lp_buffer b = { .kind = known ? BUF_RESULT : BUF_DYN,
                           .dtype = dtype_stored((enum dtype)type.dtype),
                           .index = r,
                           .static_count = -1,
                           .name = arena_printf(&L->S->p->arena, "res%u", r),
                           .why = "result" };
    if (known) {
        b.count = type_elements(m, t);
        if (dim_is_const(m, b.count)) b.static_count = dim_const_value(m, b.count);
    }
    return b;
}

struct lp *lower_function(struct module *m, uint32_t fn, const struct pass_options *passes,
                          const uint32_t *over)
{
    axes_all_bound(m, fn, "compiled");
    fn = without_aliases(m, with_stand_ins(m, fn));
    const struct fn *f = module_fn(m, fn);
    struct lp *p = lp_new(m, f, passes->strict);
    hop_cleanup_push(lp_free, p);
    struct shared S = { .p = p, .program = p, .m = m, .passes = passes, .over = over, .mark = HOP_NONE };
    mark_program(&S, f);
    struct sink *sinks = ARENA_ZNEW(&p->arena, struct sink, f->n_results);
    struct lower *L = lower_new(&S, NULL, f, sinks);
    procedure_survey(&S, fn);
    for (uint32_t i = 0; i < f->n_outer_symbols; i++) {
        L->symbols[i] = lp_symbol(p, i);
        L->entry_dims[i] = dim_symbol(m, i);
    }
    for (uint32_t i = 0; i < f->n_params; i++) {
        struct lp_buffer b = argument_buffer(p, m, f, i);
        param_slot(L, i, (struct slot){ .kind = SLOT_ARRAY, .array = { lp_buffer(p, b), lp_index(p, 0) } });
    }
    for (uint32_t r = 0; r < f->n_results; r++) {
        struct lp_buffer b = result_buffer(L, r);
        sinks[r] = (struct sink){ .overwrites = HOP_NONE, .instead = { HOP_NONE, LPV_NONE } };
        if (!over_argument(L, r, &sinks[r]))
            sinks[r].array = (struct array){ lp_buffer(p, b), lp_index(p, 0) };
    }
    lower_steps(L);
    end_updates(L);
    for (uint32_t s = f->n_outer_symbols; s < f->n_symbols; s++)
        if (L->symbols[s] != LPV_NONE)
            lp_add_call(p, (struct lp_call){ .kind = CALL_SETDIM, .target = s, .value = L->symbols[s] });
    if (passes->profile) lp_thin_marks(p);
    lp_overlap(p, choice_on(passes, CHOICE_overlap));
    hop_cleanup_pop(p);
    return p;
}

struct lp *lower_and_plan(struct module *m, uint32_t fn, const struct pass_options *passes)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    const uint32_t *over = fn_updates(&arena, module_fn(m, fn));
    struct lp *p = lower_function(m, simplify(m, fn, passes), passes, over);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    hop_cleanup_push(lp_free, p);
    lp_check(p);
    p->own_memory = !choice_on(passes, CHOICE_inplace);
    lp_keep_in_memory(p);
    lp_plan(p);
    hop_cleanup_pop(p);
    return p;
}
