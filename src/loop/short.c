/* Nests whose rows are a few elements: the state of a system in every lane, points in space. A vector along
 * such a row would be mostly empty, so vectors go over rows, and the row is written out element by element;
 * what later phases read of it stays at hand. What is folded over the rows beside each other (the forces of
 * all bodies on one) is added up on the way, an accumulator for each element of the row. */
#include "loop/lower_impl.h"

enum {
    SHORT_ROW = 4,    /* elements */
    MANY_ROWS = 16,   /* beside each other: vectors are full */
    SHORT_COST = 3000 /* of all that is written out */
};

/* Strict numbers have an order in which rows are folded. */
static bool goes_over_rows(struct lower *L)
{
    return !L->S->p->regime.strict && !L->S->p->regime.scalar && choice_on(L->S->passes, CHOICE_vector);
}

int64_t short_row(struct lower *L, const struct nest *nest)
{
    struct module *m = L->S->m;
    if (!goes_over_rows(L) || !nest->n_outer || nest->inner == HOP_NONE || !dim_is_const(m, nest->inner))
        return 0;
    int64_t n = dim_const_value(m, nest->inner);
    dim beside = nest->outer[nest->n_outer - 1];
    bool many = !dim_is_const(m, beside) || dim_const_value(m, beside) >= MANY_ROWS;
    return many && n <= SHORT_ROW ? n : 0;
}

static uint64_t written_out(struct lower *L, const struct item *item, int64_t n)
{
    return (L->info[item->v].cost + 1u) * (uint64_t)n;
}
static uint64_t all_written_out(struct lower *L, const struct nest *nest, int64_t n)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; i < nest->items.len; i++) cost += written_out(L, &nest->items.data[i], n);
    return cost;
}
static bool goes_down(const struct item *item)
{
    return item->class == ITEM_DOWN || item->class == ITEM_COLUMN;
}

bool short_rows(struct lower *L, struct nest *nest)
{
    int64_t n = short_row(L, nest);
    if (!n || all_written_out(L, nest, n) > SHORT_COST) return false;
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (goes_down(&nest->items.data[i])) return false;
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (item->class != ITEM_POINT) continue;
        item->row_held = ARENA_NEW(L->arena, lpv, n);
        for (int64_t j = 0; j < n; j++) item->row_held[j] = LPV_NONE;
    }
    return true;
}

bool short_across(struct lower *L, struct item *item, struct nest *key)
{
    struct module *m = L->S->m;
    const struct node *n = fn_node(L->f, item->node);
    const struct op_lower *row = lower_of(n);
    struct type t = type_of(L, item->v);
    bool folds = row->kind == LOWER_REDUCE && !row->position && row->across && row->across(m, L->f, n);
    if (!folds) return false;
    memset(key, 0, sizeof *key);
    key->inner = t.dims[t.rank - 1];
    key->n_outer = t.rank;
    memcpy(key->outer, t.dims, (t.rank - 1u) * sizeof *t.dims);
    row->reduced(m, L->f, n, &key->outer[t.rank - 1]);
    int64_t elements = short_row(L, key);
    if (!elements || written_out(L, item, elements) > SHORT_COST) return false;
    item->class = ITEM_ACROSS;
    return true;
}

bool short_stays(struct lower *L, const struct nest *nest, const struct item *item)
{
    int64_t n = short_row(L, nest);
    if (!n || goes_down(item)) return false;
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (goes_down(&nest->items.data[i])) return false;
    return all_written_out(L, nest, n) + written_out(L, item, n) <= SHORT_COST;
}

static void emit_phase(struct lower *L, struct nest *nest, uint32_t phase, int64_t n)
{
    for (int64_t j = -1; j < n; j++) { /* first what is one value per row */
        if (j >= 0) L->vars[nest->n_outer] = lp_index(L->S->p, j);
        for (uint32_t i = 0; i < nest->items.len; i++) {
            struct item *item = &nest->items.data[i];
            bool once = item->class == ITEM_SCALAR;
            if (item->phase != phase || once != (j < 0)) continue;
            if (item->class == ITEM_ROW) fold_short_point(L, item);
            else if (item->class == ITEM_ACROSS) fold_across_point(L, item, j);
            else nest_point(L, item);
            if (item->row_held) item->row_held[j] = item->held;
        }
    }
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (item->phase != phase || item->class != ITEM_ROW) continue;
        fold_short_end(L, item);
        if (type_get(L->S->m, value_type(L->f, item->v)).rank) nest_store(L, item, L->vars);
    }
}

static bool folds_across(const struct nest *nest)
{
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (nest->items.data[i].class == ITEM_ACROSS) return true;
    return false;
}

static void begin_across(struct lower *L, struct nest *nest, int64_t n)
{
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (nest->items.data[i].class == ITEM_ACROSS) fold_across_begin(L, &nest->items.data[i], n);
}

/* What the rows gave is stored: behind them, or (count: of the blocks) behind all blocks of them. */
static void store_across(struct lower *L, struct nest *nest, lpv count, int64_t n)
{
    lpv idx[MAX_RANK];
    uint32_t folded = nest->n_outer - 1;
    memcpy(idx, L->vars, folded * sizeof *idx);
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        for (int64_t j = 0; item->class == ITEM_ACROSS && j < n; j++) {
            idx[folded] = lp_index(L->S->p, j);
            item->held = count == LPV_NONE ? fold_across_end(L, item, n, j)
                                           : fold_across_join(L, item, count, n, j);
            if (item->held != LPV_NONE) nest_store(L, item, idx);
            item->held = LPV_NONE;
        }
    }
}

/* Without dims around, pieces of the rows beside each other are shared by threads. */
static struct blocks begin_pieces(struct lower *L, struct nest *nest, int64_t n, lpv *lo, lpv *hi)
{
    lpv rows = *hi, piece = lp_index(L->S->p, nest_piece(L, nest));
    bool across = folds_across(nest);
    for (uint32_t i = 0; across && i < nest->items.len; i++)
        if (nest->items.data[i].class == ITEM_ACROSS) fold_across_cut(L, &nest->items.data[i], n);
    struct blocks b = across ? lower_blocks(L, rows, nest_piece(L, nest)) : lower_pieces(L, rows, piece);
    nest->block = lower_block_begin(L, &b, lo, hi);
    return b;
}

/* The rows beside each other are the vector; those around them are shared by threads or, where there are
 * none, pieces of the vector are. */
void short_emit(struct lower *L, struct nest *nest, bool parallel)
{
    struct lp *p = L->S->p;
    lpv zero = lp_index(p, 0), one = lp_index(p, 1);
    uint32_t beside = nest->n_outer - 1, phases = 0;
    int64_t n = dim_const_value(L->S->m, nest->inner);
    lpv lo = zero, hi = lower_dim(L, nest->outer[beside]);
    for (uint32_t i = 0; i < nest->items.len; i++) phases = HOP_MAX(phases, nest->items.data[i].phase + 1);
    for (uint32_t i = 0; i < beside; i++)
        L->vars[i] = lp_for_begin(p, zero, lower_dim(L, nest->outer[i]), one,
                                  parallel && !i ? FOR_PARALLEL : FOR_SERIAL);
    bool cut = parallel && !beside;
    struct blocks b = { .count = LPV_NONE };
    if (cut) b = begin_pieces(L, nest, n, &lo, &hi);
    begin_across(L, nest, n);
    L->vars[beside] = lp_for_begin(p, lo, hi, one, FOR_VECTOR);
    for (uint32_t k = 0; k < phases; k++) emit_phase(L, nest, k, n);
    lp_for_end(p)->note = nest_note(L, nest);
    store_across(L, nest, LPV_NONE, n);
    for (uint32_t i = 0; i < beside + cut; i++) lp_for_end(p);
    if (cut) store_across(L, nest, b.count, n);
    for (uint32_t i = 0; i < nest->items.len; i++) {
        nest->items.data[i].row_held = NULL;
        nest->items.data[i].blocks.buffer = HOP_NONE;
    }
}
