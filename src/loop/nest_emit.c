/* Lowering, the part about how a nest is written: its loops, on one thread or several, one after the other
 * for the values that share it; what each value is computed of stands in its row. */
#include "loop/lower_impl.h"

enum {
    PARALLEL_BLOCK = 8192, /* elements of a flat nest that one piece holds */
    NARROW_BLOCK = 64,     /* columns that one piece has at least */
    PARALLEL_ROWS = 64     /* rows that are enough for threads: more dims are not taken together */
};

void nest_store(struct lower *L, struct item *item, const lpv *idx)
{
    struct lp *p = L->S->p;
    type_id t = value_type(L->f, item->v);
    struct slot *slot = &L->slots[item->v];
    if (slot->kind == SLOT_ARRAY && slot->row)
        lp_store(p, slot->array.buffer, idx[type_get(L->S->m, t).rank - 1], item->held);
    bool stored = slot->kind != SLOT_ARRAY || slot->row;
    lpv flat = stored && !item->targets.len ? LPV_NONE : lower_flatten(L, t, idx);
    if (!stored) lp_store(p, slot->array.buffer, lp_bin(p, LP_ADD, slot->array.at, flat), item->held);
    for (uint32_t k = 0; k < item->targets.len; k++) {
        struct array a = item->targets.data[k].array;
        if (!stored && a.buffer == slot->array.buffer && a.at == slot->array.at) continue;
        lpv at = item->targets.data[k].strided ? within_position(L, item->v, idx) : flat;
        lp_store(p, a.buffer, lp_bin(p, LP_ADD, a.at, at), item->held);
    }
}

const char *nest_note(struct lower *L, const struct nest *nest)
{
    struct text t = { .arena = &L->S->p->arena };
    if (L->S->p->regime.name) text_add(&t, "%s: ", L->S->p->regime.name);
    for (uint32_t i = 0; i < nest->items.len && i < 6; i++)
        text_add(&t, "%s%s", i ? ", " : "", node_row(fn_node(L->f, nest->items.data[i].node))->name);
    if (nest->items.len > 6) text_str(&t, ", …");
    return t.data;
}

static bool all_same_point(struct lower *L, const struct nest *nest)
{
    for (uint32_t i = 0; i < nest->items.len; i++) {
        const struct item *item = &nest->items.data[i];
        if (item->class != ITEM_POINT || L->info[item->v].strided) return false;
        for (uint32_t r = 0; r < item->reads.len; r++) {
            struct read read = item->reads.data[r];
            if (read.relation != REL_SAME && type_of(L, read.v).rank) return false;
        }
    }
    return true;
}

/* Sizes that are not static count as large. */
static uint64_t times_size(struct lower *L, uint64_t n, dim d)
{
    struct module *m = L->S->m;
    uint64_t size = dim_is_const(m, d) ? (uint64_t)dim_const_value(m, d) : 4096;
    return size && n > UINT64_MAX / 4 / size ? UINT64_MAX / 4 : n * size;
}
uint64_t nest_points(struct lower *L, const struct nest *nest)
{
    uint64_t points = nest->inner == HOP_NONE ? 1 : times_size(L, 1, nest->inner);
    for (uint32_t i = 0; i < nest->n_outer; i++) points = times_size(L, points, nest->outer[i]);
    return points;
}
/* What an item that folds on its own folds for one result: how many dims. */
static uint32_t extents_folded(struct lower *L, const struct item *item, dim extents[MAX_RANK])
{
    bool own_loops = item->class == ITEM_COLUMN || item->class == ITEM_ALONE;
    const struct node *n = fn_node(L->f, item->node);
    if (!own_loops || lower_of(n)->kind != LOWER_REDUCE) return 0;
    return lower_of(n)->reduced(L->S->m, L->f, n, extents);
}
static uint64_t folded_by(struct lower *L, const struct item *item)
{
    dim extents[MAX_RANK];
    uint64_t folded = 1;
    for (uint32_t i = extents_folded(L, item, extents); i-- > 0;) folded = times_size(L, folded, extents[i]);
    return folded;
}

/* Operations of an item at a point of its nest. In short rows (`row` elements) the whole row is at hand: what
 * is one value per row is computed once for all of it, and a fold is an addition. */
static uint32_t work_at(struct lower *L, const struct item *item, int64_t row)
{
    uint32_t cost = L->info[item->v].cost + 1u;
    if (row && item->class == ITEM_SCALAR) return (cost + (uint32_t)row - 1) / (uint32_t)row;
    if (!row || (item->class != ITEM_ROW && item->class != ITEM_ACROSS)) return cost;
    val folded = node_operands(L->f, fn_node(L->f, item->node))[0];
    return (L->info[folded].root ? 1 : L->info[folded].cost) + 1u;
}

/* Operations. */
static uint64_t nest_work(struct lower *L, const struct nest *nest)
{
    uint64_t work = 0, points = nest_points(L, nest);
    int64_t row = short_row(L, nest);
    for (uint32_t i = 0; i < nest->items.len; i++) {
        const struct item *item = &nest->items.data[i];
        uint64_t each = folded_by(L, item), cost = work_at(L, item, row);
        work += each > UINT32_MAX ? UINT32_MAX : each * cost;
    }
    return points > UINT64_MAX / 4 / (work + 1) ? UINT64_MAX / 4 : points * work;
}

/* The same while running. */
static lpv later_work(struct lower *L, const struct nest *nest)
{
    struct lp *p = L->S->p;
    dim extents[MAX_RANK];
    lpv points = nest->inner == HOP_NONE ? lp_index(p, 1) : lower_dim(L, nest->inner), work = lp_index(p, 0);
    for (uint32_t i = 0; i < nest->n_outer; i++)
        points = lp_bin(p, LP_MUL, points, lower_dim(L, nest->outer[i]));
    for (uint32_t i = 0; i < nest->items.len; i++) {
        const struct item *item = &nest->items.data[i];
        lpv each = lp_index(p, work_at(L, item, short_row(L, nest)));
        for (uint32_t k = extents_folded(L, item, extents); k-- > 0;)
            each = lp_bin(p, LP_MUL, each, lower_dim(L, extents[k]));
        work = lp_bin(p, LP_ADD, work, each);
    }
    return lp_bin(p, LP_MUL, points, work);
}

static bool is_sized(struct lower *L, const struct nest *nest)
{
    dim extents[MAX_RANK];
    bool sized = nest->inner == HOP_NONE || dim_is_const(L->S->m, nest->inner);
    for (uint32_t i = 0; i < nest->n_outer; i++) sized &= dim_is_const(L->S->m, nest->outer[i]);
    for (uint32_t i = 0; i < nest->items.len; i++)
        for (uint32_t k = extents_folded(L, &nest->items.data[i], extents); k-- > 0;)
            sized &= dim_is_const(L->S->m, extents[k]);
    return sized;
}

/* Elements of a nest without rows that one piece holds: fewer where each is a fold. */
int64_t nest_piece(struct lower *L, const struct nest *nest)
{
    uint64_t each = 1;
    for (uint32_t i = 0; i < nest->items.len; i++) each = HOP_MAX(each, folded_by(L, &nest->items.data[i]));
    uint64_t size = PARALLEL_BLOCK / HOP_MIN(each, PARALLEL_BLOCK);
    return (int64_t)HOP_MAX((size + NARROW_BLOCK - 1) / NARROW_BLOCK, 1) * NARROW_BLOCK;
}

static void prepare_target(struct lower *L, struct target *target, type_id t)
{
    struct sink *sink = target->sink;
    if (!sink) {
        lower_room(L, target->array, t);
        return;
    }
    if (sink->instead.buffer == HOP_NONE) sink->instead = lower_alloc(L, t, "the next value of a carry");
    target->array = sink->instead;
}

/* Is one row of the item all that is needed at a time, where rows come one after the other? */
static bool needs_one_row(struct lower *L, const struct item *item)
{
    struct type type = type_of(L, item->v);
    bool later = item->row_temp && !item->row_held; /* phases read it in memory */
    return type.rank && later && !item->memory && !item->targets.len && item->class != ITEM_DOWN &&
           dim_is_const(L->S->m, type.dims[type.rank - 1]);
}

static struct slot one_row(struct lower *L, const struct item *item)
{
    struct type type = type_of(L, item->v);
    type_id row = type_intern(L->S->m, (enum dtype)type.dtype, 1, &type.dims[type.rank - 1]);
    return (struct slot){ .kind = SLOT_ARRAY,
                          .array = lower_alloc(L, row, "a row for later phases"),
                          .row = true };
}

static void prepare_item(struct lower *L, struct item *item, bool one_row_at_a_time)
{
    const struct value_info *info = &L->info[item->v];
    type_id t = value_type(L->f, item->v);
    if (info->within != HOP_NONE) {
        struct target target = { .array = within_array(L, item->v), .strided = info->strided };
        vec_push(L->arena, &item->targets, target);
    }
    if (info->strided && info->uses == 1) return; /* nobody reads it */
    for (uint32_t k = 0; k < item->targets.len; k++) prepare_target(L, &item->targets.data[k], t);
    struct type type = type_get(L->S->m, t);
    bool later = item->row_temp && !item->row_held; /* phases read it in memory */
    if (!type.rank || (!item->memory && !later && !item->targets.len)) return;
    if (L->slots[item->v].kind == SLOT_ARRAY) return; /* its memory is there (panels.c) */
    struct slot slot = { .kind = SLOT_ARRAY };
    if (item->targets.len && !item->targets.data[0].strided) slot.array = item->targets.data[0].array;
    else if (one_row_at_a_time && needs_one_row(L, item)) slot = one_row(L, item);
    else slot.array = lower_alloc(L, t, item->why);
    L->slots[item->v] = slot;
}

/* Gives every item the memory it needs before the loops begin. */
static void prepare_memory(struct lower *L, struct nest *nest, bool parallel)
{
    bool one_row_at_a_time = !parallel && !nest->flat;
    for (uint32_t i = 0; i < nest->items.len; i++) prepare_item(L, &nest->items.data[i], one_row_at_a_time);
}

/* Dims behind those of the rows have one element. */
static void row_value(struct lower *L, struct item *item)
{
    const struct node *n = fn_node(L->f, item->node);
    lpv idx[MAX_RANK];
    for (uint32_t i = 0; i < MAX_RANK; i++)
        idx[i] = i < L->emitting->n_outer ? L->vars[i] : lp_index(L->S->p, 0);
    item->held = lower_of(n)->elem(L, L->f, n, item->v - n->results, idx);
    nest_store(L, item, idx);
}

void nest_point(struct lower *L, struct item *item)
{
    const struct node *n = fn_node(L->f, item->node);
    L->S->writing = item;
    if (is_pointwise(item) && lower_of(n)->cost == COST_EXPENSIVE) repeats_note(L, item->v);
    switch (item->class) {
    case ITEM_SCALAR: row_value(L, item); return;
    case ITEM_POINT: item->held = lower_of(n)->elem(L, L->f, n, item->v - n->results, L->vars); break;
    case ITEM_COLUMN: item->held = fold_column(L, item, L->vars); break;
    case ITEM_DOWN: fold_down_point(L, item); return;
    default: fold_row_point(L, item); return; /* ITEM_ROW */
    }
    nest_store(L, item, L->vars);
}

static void emit_phase(struct lower *L, struct nest *nest, uint32_t phase, lpv lo, lpv hi)
{
    struct lp *p = L->S->p;
    bool any = false;
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (item->phase != phase) continue;
        if (item->class == ITEM_SCALAR) nest_point(L, item);
        else any = true;
        if (item->class == ITEM_ROW) fold_row_begin(L, item);
    }
    if (!any) return;
    lpv j = lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_VECTOR);
    if (nest->flat) {
        type_id t = value_type(L->f, nest->items.data[0].v);
        lower_unflatten(L, t, j, L->vars);
    } else L->vars[nest->n_outer] = j;
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (item->phase == phase && item->class != ITEM_SCALAR) nest_point(L, item);
    }
    lp_for_end(p)->note = nest_note(L, nest);
    edges_split(p, j);
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (item->phase != phase) continue;
        if (is_pointwise(item)) item->held = LPV_NONE; /* a later phase reads memory */
        if (item->class != ITEM_ROW) continue;
        fold_row_end(L, item, lo, hi);
        if (type_of(L, item->v).rank) nest_store(L, item, L->vars);
    }
}

/* A phase of a nest without rows in pieces, on threads; what its pieces fold is combined behind them. */
static void emit_pieces(struct lower *L, struct nest *nest, uint32_t phase, lpv size)
{
    struct lp *p = L->S->p;
    bool folds = false;
    lpv lo, hi;
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (item->phase != phase || item->class != ITEM_ROW) continue;
        folds = true;
        fold_row_cut(L, item);
    }
    lpv least = lp_index(p, nest_piece(L, nest));
    struct blocks b = folds ? lower_blocks(L, size, PARALLEL_BLOCK) : lower_pieces(L, size, least);
    nest->block = lower_block_begin(L, &b, &lo, &hi);
    emit_phase(L, nest, phase, lo, hi);
    lp_for_end(p);
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (item->phase == phase && item->class == ITEM_ROW) fold_row_join(L, item, b.count);
    }
}

static uint32_t last_phase(const struct nest *nest)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < nest->items.len; i++) last = HOP_MAX(last, nest->items.data[i].phase);
    return last;
}

static void emit_phases(struct lower *L, struct nest *nest, lpv lo, lpv hi)
{
    for (uint32_t phase = 0, last = last_phase(nest); phase <= last; phase++)
        emit_phase(L, nest, phase, lo, hi);
}

static void emit_alone(struct lower *L, struct nest *nest, bool cut)
{
    struct item *item = &nest->items.data[0];
    L->S->writing = item;
    bool along_rows = nest_folds_rows(L, fn_node(L->f, item->node));
    if (cut) item->held = fold_all(L, item);
    else item->held = along_rows ? fold_lanes(L, item, L->vars) : fold_column(L, item, L->vars);
    if (nest->n_outer) nest_store(L, item, L->vars);
}

/* Scalars that the nest leaves behind. */
static void finish_scalars(struct lower *L, struct nest *nest)
{
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (!type_of(L, item->v).rank) {
            L->slots[item->v] = (struct slot){ .kind = SLOT_SCALAR, .scalar = item->held };
            for (uint32_t k = 0; k < item->targets.len; k++) {
                struct array a = item->targets.data[k].array;
                lp_store(L->S->p, a.buffer, a.at, item->held);
            }
        }
        item->held = LPV_NONE;
    }
}

static bool has_class(const struct nest *nest, uint8_t class)
{
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (nest->items.data[i].class == class) return true;
    return false;
}

/* ---- loops over rows ---- */

/* The loops that stand open around a row. */
struct row_loops {
    uint32_t n;
    struct blocks blocks; /* count LPV_NONE: not cut */
};

/* How many leading dims one parallel loop takes together, so that there are enough rows for threads. */
static uint32_t rows_together(struct lower *L, const struct nest *nest)
{
    uint32_t most = nest->n_down ? nest->n_down : nest->n_outer, n = 1;
    uint64_t rows = times_size(L, 1, nest->outer[0]);
    while (n < most && rows < PARALLEL_ROWS) rows = times_size(L, rows, nest->outer[n++]);
    return n;
}

static void each_down(struct lower *L, struct nest *nest, void (*begin)(struct lower *, const struct item *))
{
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (nest->items.data[i].class == ITEM_DOWN) begin(L, &nest->items.data[i]);
}

/* One loop over the first `together` dims, cut into blocks where each block folds what is its own. */
static void begin_together(struct lower *L, struct nest *nest, uint32_t together, struct row_loops *r)
{
    struct lp *p = L->S->p;
    type_id front = type_intern(L->S->m, DT_BOOL, together, nest->outer);
    lpv rows = lower_dim(L, type_elements(L->S->m, front)), row, lo, hi;
    if (nest->n_down) {
        r->blocks = lower_blocks(L, rows, 1);
        nest->block = lower_block_begin(L, &r->blocks, &lo, &hi);
        each_down(L, nest, fold_down_begin);
        row = lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_SERIAL);
        r->n++;
    } else row = lp_for_begin(p, lp_index(p, 0), rows, lp_index(p, 1), FOR_PARALLEL);
    r->n++;
    lower_unflatten(L, front, row, L->vars);
}

static struct row_loops rows_begin(struct lower *L, struct nest *nest, bool parallel)
{
    struct lp *p = L->S->p;
    struct row_loops r = { .blocks = { .count = LPV_NONE } };
    uint32_t together = parallel ? rows_together(L, nest) : 0;
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (nest->items.data[i].class == ITEM_DOWN)
            fold_down_room(L, &nest->items.data[i], parallel ? LOWER_BLOCKS : 1);
    if (together) begin_together(L, nest, together, &r);
    else each_down(L, nest, fold_down_begin);
    for (uint32_t i = together; i < nest->n_outer; i++, r.n++)
        L->vars[i] = lp_for_begin(p, lp_index(p, 0), lower_dim(L, nest->outer[i]), lp_index(p, 1),
                                  FOR_SERIAL);
    return r;
}

static void rows_end(struct lower *L, struct nest *nest, const struct row_loops *r)
{
    lpv idx[MAX_RANK];
    for (uint32_t i = 0; i < r->n; i++) lp_for_end(L->S->p);
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (item->class != ITEM_DOWN) continue;
        type_id t = value_type(L->f, item->v);
        lower_each_begin(L, t, true, idx);
        item->held = fold_down_end(L, item, r->blocks.count, idx);
        nest_store(L, item, idx);
        lower_each_end(L, t);
    }
}

static void emit_loops(struct lower *L, struct nest *nest, bool parallel, bool rows)
{
    struct lp *p = L->S->p;
    struct row_loops r = { 0 };
    if (rows) r = rows_begin(L, nest, parallel);
    if (nest->inner == HOP_NONE) emit_alone(L, nest, parallel && !rows);
    else {
        lpv size = lower_dim(L, nest->inner);
        for (uint32_t i = 0; nest->flat && i < nest->n_outer; i++)
            size = lp_bin(p, LP_MUL, size, lower_dim(L, nest->outer[i]));
        for (uint32_t phase = 0, last = last_phase(nest); phase <= last; phase++)
            if (parallel && !rows) emit_pieces(L, nest, phase, size);
            else emit_phase(L, nest, phase, lp_index(p, 0), size);
    }
    if (rows) rows_end(L, nest, &r);
}

/* For whoever asks what is being written: one of its items, until it is known which. */
static void begin_writing(struct lower *L, const struct nest *nest)
{
    L->S->writer = L;
    L->S->writing = &nest->items.data[0];
}

static void emit_nest(struct lower *L, struct nest *nest, bool parallel, bool is_short)
{
    L->emitting = nest;
    begin_writing(L, nest);
    nest->block = lp_index(L->S->p, 0);
    if (is_short) short_emit(L, nest, parallel);
    else emit_loops(L, nest, parallel, !nest->flat && nest->n_outer);
    L->emitting = NULL;
    L->S->writer = NULL;
}

/* The scalars that one way of a nest leaves behind go where the other leaves them, too. */
static void put_scalars(struct lower *L, struct nest *nest, const uint32_t *locals)
{
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (!type_of(L, item->v).rank) lp_set(L->S->p, locals[i], item->held);
        item->held = LPV_NONE;
    }
}

/* Both ways, where only a run tells which: on threads if it is `worth` that. */
static void emit_either(struct lower *L, struct nest *nest, lpv worth, bool is_short)
{
    struct lp *p = L->S->p;
    uint32_t *locals = ARENA_ZNEW(L->arena, uint32_t, nest->items.len);
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct type t = type_of(L, nest->items.data[i].v);
        if (!t.rank) locals[i] = lp_local(p, dtype_stored((enum dtype)t.dtype), LOCAL_SCALAR, "either");
    }
    lp_if_begin(p, worth);
    emit_nest(L, nest, true, is_short);
    put_scalars(L, nest, locals);
    lp_if_else(p);
    if (is_short) short_rows(L, nest);
    for (uint32_t i = 0; i < nest->items.len && !nest->flat; i++)
        if (needs_one_row(L, &nest->items.data[i]))
            L->slots[nest->items.data[i].v] = one_row(L, &nest->items.data[i]);
    emit_nest(L, nest, false, is_short);
    put_scalars(L, nest, locals);
    lp_if_end(p);
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (!type_of(L, nest->items.data[i].v).rank) nest->items.data[i].held = lp_read(p, locals[i]);
}

/* Does a nest without rows fold everything into one value, in an order that threads would not keep? */
static bool folds_in_order(struct lower *L, const struct nest *nest)
{
    bool alone = nest->inner == HOP_NONE;
    bool one_fold = (nest->flat || !nest->n_outer) && (alone || has_class(nest, ITEM_ROW));
    bool in_order = alone && !nest_folds_rows(L, fn_node(L->f, nest->items.data[0].node));
    return one_fold && (in_order || L->S->p->regime.strict);
}

void nest_emit(struct lower *L, struct nest *nest)
{
    struct lp *p = L->S->p;
    bool sized = is_sized(L, nest);
    nest->flat = nest->n_outer && nest->inner != HOP_NONE && all_same_point(L, nest);
    bool in_order = folds_in_order(L, nest);
    bool parallel = !in_order && lower_worth_threads(L, nest_work(L, nest), sized);
    bool asks = !in_order && !parallel && !sized && lower_may_ask(L);
    lpv worth = asks ? lower_worth_later(L, later_work(L, nest)) : LPV_NONE;
    int64_t always;
    if (asks && lp_is_const(p, worth, &always)) {
        asks = false;
        parallel = always;
    }
    p->n_nests++;
    bool is_short = !nest->flat && nest->n_outer && short_rows(L, nest);
    prepare_memory(L, nest, parallel || asks);
    if (asks) emit_either(L, nest, worth, is_short);
    else emit_nest(L, nest, parallel, is_short);
    finish_scalars(L, nest);
}

/* ---- rows of a group ---- */

/* Either its outer dims begin with those of the rows, or they are all there is of it. */
static bool is_rows_alone(const struct nest *nest, const struct row_group *g)
{
    return nest->inner != HOP_NONE && nest->n_outer + 1 == g->n_dims;
}

bool nest_has_rows(struct lower *L, const struct nest *nest, const struct row_group *g)
{
    bool alone = is_rows_alone(nest, g);
    if (!alone && nest->n_outer < g->n_dims) return false;
    if (has_class(nest, ITEM_ACROSS)) return false;
    if (nest->n_down && nest->n_down != g->n_dims) return false;
    for (uint32_t i = 0; i < g->n_dims; i++) {
        dim d = i < nest->n_outer ? nest->outer[i] : nest->inner;
        if (d != g->dims[i]) return false;
    }
    if (!alone) return true;
    return !has_class(nest, ITEM_ROW) && !has_class(nest, ITEM_SCALAR) &&
           (!nest->n_outer || all_same_point(L, nest));
}

void nest_prepare_rows(struct lower *L, struct nest *nest, uint32_t panels)
{
    nest->flat = nest->n_outer && nest->inner != HOP_NONE && all_same_point(L, nest);
    prepare_memory(L, nest, true);
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (nest->items.data[i].class == ITEM_DOWN) fold_down_room(L, &nest->items.data[i], panels);
    L->S->p->n_nests++;
}

/* A row of the group as indices of its dims. */
static void split_row(struct lower *L, const struct row_group *g, lpv row)
{
    struct lp *p = L->S->p;
    for (uint32_t i = g->n_dims; i-- > 1;) {
        lpv d = lp_bin(p, LP_MAX, lower_dim(L, g->dims[i]), lp_index(p, 1));
        L->vars[i] = lp_bin(p, LP_MOD, row, d);
        row = lp_bin(p, LP_FLOORDIV, row, d);
    }
    L->vars[0] = row;
}

void nest_emit_rows(struct lower *L, struct nest *nest, const struct row_group *g, lpv panel, lpv lo, lpv hi)
{
    struct lp *p = L->S->p;
    lpv zero = lp_index(p, 0), one = lp_index(p, 1);
    L->emitting = nest;
    begin_writing(L, nest);
    nest->block = panel;
    each_down(L, nest, fold_down_begin);
    if (nest->flat || is_rows_alone(nest, g)) {
        lpv per_row = lp_index(p, 1);
        for (uint32_t i = g->n_dims; i <= nest->n_outer; i++)
            per_row = lp_bin(p, LP_MUL, per_row,
                             lower_dim(L, i < nest->n_outer ? nest->outer[i] : nest->inner));
        emit_phases(L, nest, lp_bin(p, LP_MUL, lo, per_row), lp_bin(p, LP_MUL, hi, per_row));
    } else {
        split_row(L, g, lp_for_begin(p, lo, hi, one, FOR_SERIAL));
        for (uint32_t i = g->n_dims; i < nest->n_outer; i++)
            L->vars[i] = lp_for_begin(p, zero, lower_dim(L, nest->outer[i]), one, FOR_SERIAL);
        if (nest->inner == HOP_NONE) emit_alone(L, nest, false);
        else emit_phases(L, nest, zero, lower_dim(L, nest->inner));
        for (uint32_t i = g->n_dims; i <= nest->n_outer; i++) lp_for_end(p);
    }
    L->emitting = NULL;
    L->S->writer = NULL;
    finish_scalars(L, nest);
}

void nest_join_rows(struct lower *L, struct nest *nest, lpv panels)
{
    struct row_loops r = { .blocks = { .count = panels } };
    rows_end(L, nest, &r);
    finish_scalars(L, nest);
}
