/* Nests whose rows are a few elements: the state of a system in every lane, points in space. A vector along
 * such a row would be mostly empty, so vectors go over rows, and the row is written out element by element;
 * what later phases read of it stays at hand. */
#include "loop/lower_impl.h"

enum {
    SHORT_ROW = 4,    /* elements */
    MANY_ROWS = 16,   /* beside each other: vectors are full */
    SHORT_COST = 3000 /* of all that is written out */
};

bool short_rows(struct lower *L, struct nest *nest)
{
    struct module *m = L->S->m;
    if (L->S->p->regime.strict || L->S->p->regime.scalar || !choice_on(L->S->passes, CHOICE_vector))
        return false;
    if (nest->inner == HOP_NONE || !dim_is_const(m, nest->inner)) return false;
    int64_t n = dim_const_value(m, nest->inner);
    dim beside = nest->outer[nest->n_outer - 1];
    bool many = !dim_is_const(m, beside) || dim_const_value(m, beside) >= MANY_ROWS;
    if (n < 1 || n > SHORT_ROW || !many) return false;
    uint64_t cost = 0;
    for (uint32_t i = 0; i < nest->items.len; i++) {
        const struct item *item = &nest->items.data[i];
        if (item->class == ITEM_DOWN || item->class == ITEM_COLUMN) return false;
        cost += (L->info[item->v].cost + 1u) * (uint64_t)n;
    }
    if (cost > SHORT_COST) return false;
    for (uint32_t i = 0; i < nest->items.len; i++) {
        struct item *item = &nest->items.data[i];
        if (item->class != ITEM_POINT) continue;
        item->row_held = ARENA_NEW(L->arena, lpv, n);
        for (int64_t j = 0; j < n; j++) item->row_held[j] = LPV_NONE;
    }
    return true;
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

/* The rows beside each other are the vector; those around them are shared by threads or, where there are
 * none, pieces of the vector are. */
void short_emit(struct lower *L, struct nest *nest, bool parallel)
{
    struct lp *p = L->S->p;
    lpv zero = lp_index(p, 0), one = lp_index(p, 1);
    uint32_t beside = nest->n_outer - 1, phases = 0;
    lpv lo = zero, hi = lower_dim(L, nest->outer[beside]);
    for (uint32_t i = 0; i < nest->items.len; i++) phases = HOP_MAX(phases, nest->items.data[i].phase + 1);
    for (uint32_t i = 0; i < beside; i++)
        L->vars[i] = lp_for_begin(p, zero, lower_dim(L, nest->outer[i]), one,
                                  parallel && !i ? FOR_PARALLEL : FOR_SERIAL);
    bool cut = parallel && !beside;
    if (cut) {
        struct blocks b = lower_pieces(L, hi, lp_index(p, nest_piece(L, nest)));
        lower_block_begin(L, &b, &lo, &hi);
    }
    L->vars[beside] = lp_for_begin(p, lo, hi, one, FOR_VECTOR);
    for (uint32_t k = 0; k < phases; k++) emit_phase(L, nest, k, dim_const_value(L->S->m, nest->inner));
    lp_for_end(p)->note = nest_note(L, nest);
    for (uint32_t i = 0; i < beside + cut; i++) lp_for_end(p);
    for (uint32_t i = 0; i < nest->items.len; i++) nest->items.data[i].row_held = NULL;
}
