/* How calls of operators from outside are compiled: operands and results lie in memory, the new content of a
 * `mut` operand where the old one lies if nothing else needs that, and one call of the loop program, in loops
 * over the lanes, does the work. */
#include "loop/lower.h"
#include "ops/operator_layout.h"
#include "ops/rowkit.h"

extern const struct op_lower lower_operator;

/* A call while it is written. */
struct writing {
    struct lower *L;
    struct lp *p;
    struct module *m;
    const struct fn *f;
    const struct node *n;
    struct operator_layout l;
    struct array *results;  /* per result of the node */
    struct array *operands; /* per operand, when it is an array */
    lpv lanes[MAX_RANK];    /* how many there are … */
    lpv lane[MAX_RANK];     /* … and the one that is called for */
    struct array found;     /* sizes that are found */
    uint32_t n_found;       /* the variables among them come first, then dims made of them */
    uint32_t *found_number; /* per size variable, HOP_NONE: it is known */
    struct {                /* a dim that is made of sizes that are found */
        uint32_t result, dim, number;
    } *made;
    uint32_t n_made;
};

static const char *name_of(const struct writing *w) { return module_text(w->m, w->l.decl->name); }

static struct type type_of(const struct writing *w, val v) { return type_get(w->m, value_type(w->f, v)); }

static val operand_value(const struct writing *w, uint32_t i) { return node_operands(w->f, w->n)[i]; }

/* The slot that result k comes from, with the operand whose new content it is, if any. */
static const struct operator_slot *slot_of_result(const struct operator_layout *l, uint32_t k)
{
    for (uint32_t i = 0; i < l->n_slots; i++)
        if (l->slots[i].result == k) return &l->slots[i];
    hop_throw(HOP_INTERNAL, "operator: nothing gives result %u", k);
}

static uint32_t operator_changes(struct module *m, const struct fn *f, const struct node *n, uint32_t k)
{
    struct arena a = { 0 };
    hop_cleanup_push(arena_free, &a);
    struct operator_layout l = operator_layout_of(&a, m, f, n);
    uint32_t operand = slot_of_result(&l, k)->operand;
    hop_cleanup_pop(&a);
    arena_free(&a);
    bool same = operand != HOP_NONE &&
                value_type(f, node_operands(f, n)[operand]) == value_type(f, n->results + k);
    return same ? operand : HOP_NONE;
}

/* ---- sizes ---- */

static bool is_found(void *ctx, uint32_t symbol)
{
    const struct operator_decl *d = ctx;
    return d->sizes[symbol].kind == SIZE_FOUND;
}

static bool is_to_find(const struct writing *w, const struct operator_type *t, uint32_t d)
{
    return t->dims[d] != SIZE_ANY && dim_mentions(w->m, t->dims[d], is_found, (void *)w->l.decl);
}

/* Does the operator find how large the slot's result is? */
static bool slot_grows(const struct writing *w, const struct operator_slot *s)
{
    bool grows = false;
    for (uint32_t d = 0; s->type && s->operand == HOP_NONE && d < s->type->rank; d++)
        grows |= is_to_find(w, s->type, d);
    return grows;
}

/* Numbers for the sizes that are found. */
static void number_sizes(struct writing *w)
{
    const struct operator_decl *d = w->l.decl;
    uint32_t symbol, most = 1;
    w->found_number = ARENA_NEW(&w->p->arena, uint32_t, d->n_sizes + 1);
    for (uint32_t s = 0; s < d->n_sizes; s++)
        w->found_number[s] = d->sizes[s].kind == SIZE_FOUND ? w->n_found++ : HOP_NONE;
    for (uint32_t i = 0; i < w->l.n_slots; i++)
        if (slot_grows(w, &w->l.slots[i])) most += w->l.slots[i].type->rank;
    w->made = arena_alloc(&w->p->arena, most * sizeof *w->made);
    for (uint32_t i = 0; i < w->l.n_slots; i++) {
        const struct operator_slot *s = &w->l.slots[i];
        for (uint32_t k = 0; slot_grows(w, s) && k < s->type->rank; k++) {
            if (!is_to_find(w, s->type, k) || dim_is_symbol(w->m, s->type->dims[k], &symbol)) continue;
            w->made[w->n_made].result = s->result;
            w->made[w->n_made].dim = k;
            w->made[w->n_made++].number = w->n_found++;
        }
    }
    if (!w->n_found) return;
    if (w->l.lanes && !w->l.together)
        hop_throw(
            HOP_UNAVAILABLE,
            "%s%s: each lane would find sizes of its own, and arrays whose sizes differ do not fit into "
            "one rectangular array",
            place_text(w->m, w->n->place), name_of(w));
    dim count = w->n_found;
    w->found = lower_alloc(w->L, type_intern(w->m, DT_I64, 1, &count), "sizes that an operator finds");
}

static uint32_t number_of_dim(const struct writing *w, const struct operator_slot *s, uint32_t d)
{
    uint32_t symbol;
    if (!is_to_find(w, s->type, d)) return HOP_NONE;
    if (dim_is_symbol(w->m, s->type->dims[d], &symbol)) return w->found_number[symbol];
    for (uint32_t k = 0; k < w->n_made; k++)
        if (w->made[k].result == s->result && w->made[k].dim == d) return w->made[k].number;
    return HOP_NONE;
}

/* A size that an operand tells; one that none does (its operands are absent) is 0. */
static lpv bound_size(const struct writing *w, uint32_t variable)
{
    uint32_t symbol;
    for (uint32_t i = 0; i < w->l.n_given; i++) {
        const struct operator_slot *s = &w->l.slots[i];
        for (uint32_t d = 0; s->present && s->type && d < s->type->rank; d++) {
            bool bare = s->type->dims[d] != SIZE_ANY && dim_is_symbol(w->m, s->type->dims[d], &symbol);
            if (!bare || symbol != variable) continue;
            if (s->view) return lower_dim(w->L, s->view->records[2 * d]);
            return lower_dim(w->L, type_of(w, operand_value(w, s->operand)).dims[w->l.lanes + d]);
        }
    }
    return lp_index(w->p, 0);
}

static const lpv *size_list(const struct writing *w)
{
    const struct operator_decl *d = w->l.decl;
    const struct attr *given = node_attr(w->f, w->n, OPERATOR_SIZES);
    lpv *sizes = ARENA_NEW(&w->p->arena, lpv, d->n_sizes + 1);
    uint32_t at = 0;
    for (uint32_t s = 0; s < d->n_sizes; s++) {
        if (d->sizes[s].kind == SIZE_FOUND) sizes[s] = lp_index(w->p, -1);
        else if (d->sizes[s].kind == SIZE_GIVEN) sizes[s] = lower_dim(w->L, given->list[at++]);
        else sizes[s] = bound_size(w, s);
    }
    return sizes;
}

/* ---- memory ---- */

/* The index of an operand where the lane's index is idx: its lane dims may be 1. */
static void own_index(const struct writing *w, val v, const lpv *idx, lpv *own)
{
    struct type t = type_of(w, v);
    for (uint32_t d = 0; d < t.rank; d++)
        own[d] = d < w->l.lanes && t.dims[d] == 1 ? lp_index(w->p, 0) : idx[d];
}

/* The old content once per lane. */
static void spread_content(struct writing *w, val old, type_id t, struct array to)
{
    lpv idx[MAX_RANK], own[MAX_RANK];
    lower_each_begin(w->L, t, true, idx);
    own_index(w, old, idx, own);
    lp_store(w->p, to.buffer, lp_bin(w->p, LP_ADD, to.at, lower_flatten(w->L, t, idx)),
             lower_elem(w->L, old, own));
    lower_each_end(w->L, t);
}

static void clear(struct writing *w, type_id t, struct array a)
{
    lp_add_call(w->p, (struct lp_call){ .kind = CALL_ZERO,
                                        .target = a.buffer,
                                        .lo = a.at,
                                        .count = lower_dim(w->L, type_elements(w->m, t)),
                                        .mask = LPV_NONE });
}

static struct array result_memory(struct writing *w, uint32_t k)
{
    const struct operator_slot *s = slot_of_result(&w->l, k);
    val v = w->n->results + k;
    type_id t = value_type(w->f, v);
    bool array = type_get(w->m, t).rank;
    if (s->operand == HOP_NONE) {
        if (slot_grows(w, s)) return lower_growing(w->L, w->n, k);
        struct array a = array ? lower_result(w->L, w->n, k)
                               : lower_alloc(w->L, t, "a result of an operator");
        if (w->l.masked) clear(w, t, a); /* what lanes give that do not run */
        return a;
    }
    val old = operand_value(w, s->operand);
    if (!array) {
        struct array a = lower_alloc(w->L, t, "a number that an operator changes");
        lp_store(w->p, a.buffer, a.at, lower_scalar(w->L, old));
        return a;
    }
    if (value_type(w->f, old) == t) return lower_change(w->L, w->n, k, name_of(w));
    struct array a = lower_result(w->L, w->n, k);
    spread_content(w, old, t, a);
    return a;
}

/* Everything lies in memory before the first lane is called. What is changed is copied while all operands are
 * still as they were. */
static void find_memory(struct writing *w)
{
    w->operands = ARENA_ZNEW(&w->p->arena, struct array, w->n->n_operands);
    w->results = ARENA_ZNEW(&w->p->arena, struct array, w->n->n_results);
    for (uint32_t i = 0; i < w->l.n_slots; i++) {
        const struct operator_slot *s = &w->l.slots[i];
        if (s->operand == HOP_NONE || s->result != HOP_NONE) continue;
        if (type_of(w, operand_value(w, s->operand)).rank)
            w->operands[s->operand] = lower_array(w->L, operand_value(w, s->operand));
    }
    for (uint32_t k = 0; k < w->n->n_results; k++) w->results[k] = result_memory(w, k);
}

/* ---- lanes ---- */

static lpv lane_count(const struct writing *w, uint32_t d)
{
    for (uint32_t i = 0; i < w->n->n_operands; i++) {
        struct type t = type_of(w, operand_value(w, i));
        if (!t.kind && t.dims[d] != 1) return lower_dim(w->L, t.dims[d]);
    }
    return lp_index(w->p, 1);
}

static void begin_lanes(struct writing *w)
{
    for (uint32_t d = 0; d < w->l.lanes; d++)
        w->lane[d] = lp_for_begin(w->p, lp_index(w->p, 0), w->lanes[d], lp_index(w->p, 1), FOR_SERIAL);
}

static void end_lanes(struct writing *w)
{
    for (uint32_t d = 0; d < w->l.lanes; d++) lp_for_end(w->p);
}

static lpv lane_mask(struct writing *w)
{
    lpv own[MAX_RANK];
    val mask = operand_value(w, 0);
    own_index(w, mask, w->lane, own);
    return lower_elem(w->L, mask, own);
}

/* Does any lane run? */
static lpv any_lane(struct writing *w)
{
    uint32_t any = lp_local(w->p, DT_BOOL, LOCAL_SCALAR, "any");
    lp_set(w->p, any, lp_int(w->p, DT_BOOL, 0));
    begin_lanes(w);
    lp_set(w->p, any, lp_bin(w->p, LP_OR, lp_read(w->p, any), lane_mask(w)));
    end_lanes(w);
    return lp_read(w->p, any);
}

/* ---- what is given ---- */

/* Row-major position of the lane's part of an array of this type. */
static lpv lane_offset(const struct writing *w, struct type t)
{
    lpv at = lp_index(w->p, 0);
    for (uint32_t d = 0; d < t.rank; d++) {
        at = lp_bin(w->p, LP_MUL, at, lower_dim(w->L, t.dims[d]));
        if (d < w->l.lanes && t.dims[d] != 1) at = lp_bin(w->p, LP_ADD, at, w->lane[d]);
    }
    return at;
}

static void give_view(const struct writing *w, const struct operator_view *view, struct type base,
                      struct lp_operand *o)
{
    uint32_t lanes = w->l.together ? w->l.lanes : 0;
    lpv *strides = ARENA_NEW(&w->p->arena, lpv, lanes + view->rank + 1), step = lp_index(w->p, 1);
    for (uint32_t d = base.rank; d-- > 0;) { /* lanes run along the base's own dims */
        lpv size = lower_dim(w->L, base.dims[d]);
        if (d < lanes) {
            o->dims[d] = size;
            strides[d] = step;
        }
        step = lp_bin(w->p, LP_MUL, step, size);
    }
    o->index = lp_bin(w->p, LP_ADD, o->index, lower_dim(w->L, view->offset));
    o->rank = lanes + view->rank;
    for (uint32_t d = 0; d < view->rank; d++) {
        o->dims[lanes + d] = lower_dim(w->L, view->records[2 * d]);
        strides[lanes + d] = lower_dim(w->L, view->records[2 * d + 1]);
    }
    o->strides = strides;
}

static void give_growing(struct writing *w, const struct operator_slot *s, struct lp_operand *o)
{
    struct type t = type_of(w, w->n->results + s->result);
    uint32_t lanes = w->l.lanes, *found = ARENA_NEW(&w->p->arena, uint32_t, t.rank);
    o->use = OPERAND_FOUND;
    o->rank = t.rank;
    o->found = found;
    for (uint32_t d = 0; d < t.rank; d++) {
        found[d] = d < lanes ? HOP_NONE : number_of_dim(w, s, d - lanes);
        o->dims[d] = found[d] == HOP_NONE ? lower_dim(w->L, t.dims[d]) : LPV_NONE;
    }
}

static struct lp_operand give(struct writing *w, const struct operator_slot *s)
{
    struct lp_operand o = { .buffer = HOP_NONE, .value = LPV_NONE, .index = LPV_NONE, .use = OPERAND_ABSENT };
    bool written = s->result != HOP_NONE;
    if (!s->present) return o;
    val v = written ? w->n->results + s->result : operand_value(w, s->operand);
    struct type t = type_of(w, v);
    o.use = !written ? OPERAND_READ : s->operand == HOP_NONE ? OPERAND_WRITTEN : OPERAND_CHANGED;
    if (!t.rank && !written) {
        if (t.kind) o.use = OPERAND_OBJECT;
        o.value = lower_scalar(w->L, v);
        return o;
    }
    struct array a = written ? w->results[s->result] : w->operands[s->operand];
    uint32_t skip = w->l.together ? 0 : w->l.lanes;
    o.buffer = a.buffer;
    o.index = a.at;
    if (written && slot_grows(w, s)) {
        give_growing(w, s, &o);
        return o;
    }
    if (skip) o.index = lp_bin(w->p, LP_ADD, a.at, lane_offset(w, t));
    if (s->view) {
        give_view(w, s->view, t, &o);
        return o;
    }
    o.rank = t.rank - skip;
    for (uint32_t d = 0; d < o.rank; d++) o.dims[d] = lower_dim(w->L, t.dims[skip + d]);
    return o;
}

static void add_call(struct writing *w)
{
    const struct operator_decl *d = w->l.decl;
    struct lp_operand *operands = ARENA_ZNEW(&w->p->arena, struct lp_operand, w->l.n_slots);
    for (uint32_t i = 0; i < w->l.n_slots; i++) operands[i] = give(w, &w->l.slots[i]);
    lp_add_call(w->p, (struct lp_call){ .kind = CALL_OPERATOR,
                                        .target = w->n_found ? w->found.buffer : HOP_NONE,
                                        .value = LPV_NONE,
                                        .lo = LPV_NONE,
                                        .index = LPV_NONE,
                                        .count = LPV_NONE,
                                        .mask = LPV_NONE,
                                        .text = d->name,
                                        .place = w->n->place,
                                        .n_operands = w->l.n_slots,
                                        .operands = operands,
                                        .lanes = w->l.together ? w->l.lanes : 0,
                                        .n_sizes = d->n_sizes,
                                        .sizes = size_list(w),
                                        .n_found = w->n_found,
                                        .n_counts = w->l.n_counts,
                                        .counts = w->l.counts,
                                        .effects = d->effects,
                                        .version = d->version,
                                        .declared = d->any && !d->n_results ? NULL : d->signature });
}

/* ---- afterwards ---- */

static lpv found_size(const struct writing *w, uint32_t number)
{
    return lp_load(w->p, w->found.buffer, lp_bin(w->p, LP_ADD, w->found.at, lp_index(w->p, number)));
}

static void bind_sizes(struct writing *w)
{
    uint32_t symbol, variable;
    for (uint32_t i = 0; i < w->l.n_slots; i++) {
        const struct operator_slot *s = &w->l.slots[i];
        if (!slot_grows(w, s)) continue;
        struct type t = type_of(w, w->n->results + s->result);
        for (uint32_t d = 0; d < s->type->rank; d++) {
            bool bare = is_to_find(w, s->type, d) && dim_is_symbol(w->m, s->type->dims[d], &variable);
            if (bare && dim_is_symbol(w->m, t.dims[w->l.lanes + d], &symbol))
                lower_bind_symbol(w->L, symbol, found_size(w, w->found_number[variable]));
        }
    }
}

/* Dims that are made of sizes that were found must be what those say. */
static void check_made(struct writing *w)
{
    static const char text[] = "a result of an operator has the sizes that its signature says";
    for (uint32_t k = 0; k < w->n_made; k++) {
        struct type t = type_of(w, w->n->results + w->made[k].result);
        lpv is = found_size(w, w->made[k].number);
        lpv want = lower_dim(w->L, t.dims[w->l.lanes + w->made[k].dim]);
        struct lp_operand *shown = ARENA_ZNEW(&w->p->arena, struct lp_operand, 1);
        *shown = (struct lp_operand){ .buffer = HOP_NONE, .value = is, .index = LPV_NONE };
        lp_add_call(w->p, (struct lp_call){ .kind = CALL_CHECK,
                                            .value = lp_bin(w->p, LP_EQ, is, want),
                                            .place = w->n->place,
                                            .n_operands = 1,
                                            .operands = shown,
                                            .text = module_string(w->m, text, sizeof text - 1),
                                            .mask = LPV_NONE });
    }
}

static void block_operator(struct lower *L, const struct fn *f, const struct node *n)
{
    struct writing w = { .L = L, .p = lower_lp(L), .m = lower_module(L), .f = f, .n = n };
    w.l = operator_layout_of(&w.p->arena, w.m, f, n);
    lower_mark_label(L, name_of(&w));
    number_sizes(&w);
    find_memory(&w);
    for (uint32_t d = 0; d < w.l.lanes; d++) w.lanes[d] = lane_count(&w, d);
    bool once = w.l.together && w.l.masked;
    lpv runs = once ? any_lane(&w) : LPV_NONE;
    if (!w.l.together) begin_lanes(&w);
    if (!once && w.l.masked) runs = lane_mask(&w);
    if (runs != LPV_NONE) lp_if_begin(w.p, runs);
    add_call(&w);
    if (runs != LPV_NONE) {
        lp_if_else(w.p);
        lp_if_end(w.p);
    }
    if (!w.l.together) end_lanes(&w);
    bind_sizes(&w);
    check_made(&w);
    for (uint32_t k = 0; k < n->n_results; k++)
        if (!type_of(&w, n->results + k).rank)
            lower_set_scalar(L, n, k, lp_load(w.p, w.results[k].buffer, w.results[k].at));
}

const struct op_lower lower_operator = { .kind = LOWER_BLOCK,
                                         .access = ACCESS_SAME,
                                         .cost = COST_EXPENSIVE,
                                         .block = block_operator,
                                         .changes = operator_changes };
