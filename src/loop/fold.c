/* Lowering, the part about folds: how the elements of a reduction are combined, one after the other, over
 * lanes, or in blocks that run on threads. Blocks are cut by sizes alone, and what they give is combined in
 * their order, so results do not depend on the number of threads. */
#include "ir/number.h"
#include "loop/lower_impl.h"
#include "loop/lp_walk.h"

#include <math.h>

enum { LONG_ROW = 16384 }; /* elements of a row that one block takes at a time */

static const struct node *node_of(struct lower *L, const struct item *item)
{
    return fn_node(L->f, item->node);
}
static const struct op_lower *row_of(struct lower *L, const struct item *item)
{
    return node_row(node_of(L, item))->lower;
}

/* ---- elements ---- */

static lpv least_of(struct lp *p, enum dtype t)
{
    if (t == DT_BOOL) return lp_int(p, t, 0);
    if (dtype_is_float(t)) return lp_real(p, t, -1.0 / 0.0);
    return lp_int(p, t, dtype_least(t));
}
static lpv most_of(struct lp *p, enum dtype t)
{
    if (t == DT_BOOL) return lp_int(p, t, 1);
    if (dtype_is_float(t)) return lp_real(p, t, 1.0 / 0.0);
    return lp_int(p, t, t == DT_U64 ? -1 : dtype_most(t));
}

static lpv identity_of(struct lp *p, enum lp_fold fold, enum dtype t)
{
    switch (fold) {
    case FOLD_SUM: return lp_int(p, t, 0);
    case FOLD_AND: return t == DT_BOOL ? lp_int(p, t, 1) : lp_int(p, t, -1);
    case FOLD_OR: return lp_int(p, t, 0);
    case FOLD_PROD: return lp_int(p, t, 1);
    case FOLD_MAX: return least_of(p, t);
    default: return most_of(p, t);
    }
}

static lpv fold_pair(struct lp *p, enum lp_fold fold, lpv a, lpv b)
{
    return lp_bin(p, lp_fold_op(fold), a, b);
}

/* ---- keys ---- */

/* Where the best of small integers stands is found by a plain fold of keys, value * places + place, in which
 * of equals the first is the best: one fold and one register for both. */
enum {
    KEY_BITS = 32,
    FEW_PLACES = 4 /* pairs of value and place take fewer instructions */
};

static dim position_extent(struct lower *L, const struct item *item)
{
    dim extents[MAX_RANK];
    row_of(L, item)->reduced(L->S->m, L->f, node_of(L, item), extents);
    return extents[0];
}
static enum dtype operand_dtype(struct lower *L, const struct item *item)
{
    return (enum dtype)type_of(L, node_operands(L->f, node_of(L, item))[0]).dtype;
}

/* The places that a key tells apart, a power of two; 0: no position, or found as a pair. */
static int64_t key_places(struct lower *L, const struct item *item)
{
    if (!row_of(L, item)->position) return 0;
    enum dtype t = operand_dtype(L, item);
    if (dtype_is_float(t) || t == DT_BOOL || dtype_info[t].size > 2) return 0;
    int64_t value_bits = 8 * (int64_t)dtype_info[t].size + (dtype_least(t) == 0);
    int64_t most = (int64_t)1 << (KEY_BITS - value_bits), places = 1;
    int64_t extent = lp_range(L->S->p, lower_dim(L, position_extent(L, item))).hi;
    if (extent <= FEW_PLACES || extent > most) return 0;
    while (places < extent) places *= 2;
    return places;
}
static bool seeks_most(struct lower *L, const struct item *item) { return row_of(L, item)->fold == FOLD_MAX; }
static lpv key_of(struct lower *L, const struct item *item, lpv value, lpv place)
{
    struct lp *p = L->S->p;
    int64_t places = key_places(L, item);
    lpv high = lp_bin(p, LP_MUL, lp_cast(p, DT_I32, value), lp_int(p, DT_I32, places));
    lpv low = lp_cast(p, DT_I32, place);
    if (seeks_most(L, item)) low = lp_bin(p, LP_SUB, lp_int(p, DT_I32, places - 1), low);
    return lp_bin(p, LP_ADD, high, low);
}
static lpv key_place(struct lower *L, const struct item *item, lpv key)
{
    struct lp *p = L->S->p;
    lpv last = lp_int(p, DT_I32, key_places(L, item) - 1);
    lpv low = lp_bin(p, LP_AND, key, last);
    return seeks_most(L, item) ? lp_bin(p, LP_SUB, last, low) : low;
}

/* What an item that folds accumulates in, and an element of it; the result is rounded when it is complete. */
static bool is_position(struct lower *L, const struct item *item)
{
    return row_of(L, item)->position && !key_places(L, item);
}
static enum dtype item_dtype(struct lower *L, const struct item *item)
{
    if (key_places(L, item)) return DT_I32;
    if (!is_position(L, item)) return node_accumulator(L->S->m, L->f, node_of(L, item));
    enum dtype t = operand_dtype(L, item);
    return dtype_is_narrow(t) ? DT_F32 : t;
}
static enum lp_fold item_fold(struct lower *L, const struct item *item)
{
    return (enum lp_fold)row_of(L, item)->fold;
}
static lpv item_identity(struct lower *L, const struct item *item)
{
    struct lp *p = L->S->p;
    if (!key_places(L, item)) return identity_of(p, item_fold(L, item), item_dtype(L, item));
    lpv value = identity_of(p, item_fold(L, item), operand_dtype(L, item));
    return key_of(L, item, value, lp_index(p, 0)); /* no key is worse, and of nothing the place is 0 */
}
static lpv item_elem(struct lower *L, const struct item *item, const lpv *idx, const lpv *folded)
{
    lpv x = row_of(L, item)->reduce_elem(L, L->f, node_of(L, item), idx, folded);
    if (key_places(L, item)) return key_of(L, item, x, folded[0]);
    return lp_cast(L->S->p, item_dtype(L, item), x);
}
static lpv item_rounded(struct lower *L, const struct item *item, lpv v)
{
    if (key_places(L, item)) v = key_place(L, item, v);
    return lp_cast(L->S->p, (enum dtype)type_of(L, item->v).dtype, v);
}

/* ---- positions ---- */

/* The best so far, and where it stands. What has not seen anything holds the identity of the fold at 0, which
 * is the answer where nothing is better than the identity. */
struct best {
    lpv value, at;
};

/* Positions fill as many lanes as elements do. */
static enum dtype position_dtype(struct lower *L, const struct item *item)
{
    lpv extent = lower_dim(L, position_extent(L, item));
    if (dtype_info[operand_dtype(L, item)].size == 8) return DT_I64;
    return lp_range(L->S->p, extent).hi <= INT32_MAX ? DT_I32 : DT_I64;
}
static struct best best_of_nothing(struct lower *L, const struct item *item)
{
    return (struct best){ item_identity(L, item), lp_int(L->S->p, position_dtype(L, item), 0) };
}

/* The better of both, the first of equals: `next` stands behind. The first NaN stays. */
static struct best better(struct lower *L, const struct item *item, struct best first, struct best next)
{
    struct lp *p = L->S->p;
    bool most = item_fold(L, item) == FOLD_MAX;
    lpv stays = lp_bin(p, most ? LP_LE : LP_GE, next.value, first.value);
    if (dtype_is_float(lp_dtype(p, first.value)))
        stays = lp_bin(p, LP_OR, stays, lp_bin(p, LP_NE, first.value, first.value));
    return (struct best){ lp_select(p, stays, first.value, next.value),
                          lp_select(p, stays, first.at, next.at) };
}
static struct best with_element(struct lower *L, const struct item *item, struct best best, const lpv *idx,
                                const lpv *folded)
{
    lpv at = lp_cast(L->S->p, position_dtype(L, item), folded[0]);
    return better(L, item, best, (struct best){ item_elem(L, item, idx, folded), at });
}

static struct best read_best(struct lp *p, uint32_t value, uint32_t at)
{
    return (struct best){ lp_read(p, value), lp_read(p, at) };
}
static void set_best(struct lp *p, uint32_t value, uint32_t at, struct best best)
{
    lp_set(p, value, best.value);
    lp_set(p, at, best.at);
}
static struct best load_best(struct lp *p, const struct item *item, lpv index)
{
    return (struct best){ lp_load(p, item->blocks.buffer, index), lp_load(p, item->at.blocks.buffer, index) };
}
static void store_best(struct lp *p, const struct item *item, lpv index, struct best best)
{
    lp_store(p, item->blocks.buffer, index, best.value);
    lp_store(p, item->at.blocks.buffer, index, best.at);
}

static uint32_t position_local(struct lower *L, const struct item *item, enum lp_local_kind kind)
{
    uint32_t local = lp_local(L->S->p, position_dtype(L, item), kind, "at");
    L->S->p->locals.data[local].strict = false; /* the same in any order */
    return local;
}

static struct best best_of_column(struct lower *L, const struct item *item, const lpv *idx)
{
    struct lp *p = L->S->p;
    uint32_t value = lp_local(p, item_dtype(L, item), LOCAL_SCALAR, "best");
    uint32_t at = position_local(L, item, LOCAL_SCALAR);
    lpv extent = lower_dim(L, position_extent(L, item));
    set_best(p, value, at, best_of_nothing(L, item));
    lpv i = lp_for_begin(p, lp_index(p, 0), extent, lp_index(p, 1), FOR_SERIAL);
    set_best(p, value, at, with_element(L, item, read_best(p, value, at), idx, &i));
    lp_for_end(p);
    return read_best(p, value, at);
}
static lpv position_column(struct lower *L, struct item *item, const lpv *idx)
{
    lpv at = item->at.held; /* found with the best of the column */
    item->at.held = LPV_NONE;
    if (at == LPV_NONE) at = best_of_column(L, item, idx).at;
    return lp_cast(L->S->p, DT_I64, at);
}

static bool folds_the_same(struct lower *L, const struct item *a, const struct item *b)
{
    const struct fn *f = L->f;
    const struct node *n = node_of(L, a), *o = node_of(L, b);
    val x = node_operands(f, n)[0];
    uint32_t from[2][MAX_RANK], rank = type_of(L, a->v).rank, operand_rank = type_of(L, x).rank;
    bool both = node_row(n)->source_dims && node_row(o)->source_dims && type_of(L, b->v).rank == rank;
    if (!both || x != node_operands(f, o)[0] || item_fold(L, a) != item_fold(L, b)) return false;
    node_row(n)->source_dims(node_attr(f, n, 0), operand_rank, rank, from[0]);
    node_row(o)->source_dims(node_attr(f, o, 0), operand_rank, rank, from[1]);
    return !memcmp(from[0], from[1], rank * sizeof **from);
}

/* The item behind this one that looks for where the best stands whose value this one is, NULL: none does. */
static struct item *seeker_of(struct lower *L, const struct item *item)
{
    struct nest *nest = L->emitting;
    bool best = item_fold(L, item) == FOLD_MAX || item_fold(L, item) == FOLD_MIN;
    if (!nest || L->probe || L->S->p->regime.strict || !best) return NULL;
    for (uint32_t i = nest->items.len; i > 0; i--) {
        struct item *other = &nest->items.data[i - 1];
        if (other == item) break;
        bool seeks = other->class == ITEM_COLUMN && other->phase == item->phase && is_position(L, other);
        if (seeks && folds_the_same(L, item, other)) return other;
    }
    return NULL;
}

/* ---- without threads ---- */

lpv fold_column(struct lower *L, struct item *item, const lpv *idx)
{
    struct lp *p = L->S->p;
    enum dtype t = item_dtype(L, item);
    enum lp_fold fold = item_fold(L, item);
    dim extents[MAX_RANK];
    lpv folded[MAX_RANK];
    if (is_position(L, item)) return position_column(L, item, idx);
    struct item *seeker = item->class == ITEM_COLUMN ? seeker_of(L, item) : NULL;
    if (seeker) {
        struct best found = best_of_column(L, seeker, idx);
        seeker->at.held = found.at;
        return item_rounded(L, item, found.value);
    }
    uint32_t n_folded = row_of(L, item)->reduced(L->S->m, L->f, node_of(L, item), extents);
    if (!n_folded) {
        lpv only = fold_pair(p, fold, item_identity(L, item), item_elem(L, item, idx, folded));
        return item_rounded(L, item, only);
    }
    dim innermost = extents[n_folded - 1];
    int64_t last = dim_is_const(L->S->m, innermost) ? dim_const_value(L->S->m, innermost) : 0;
    bool two = !p->regime.strict && last >= 8 && last % 2 == 0;
    uint32_t acc = lp_local(p, t, LOCAL_SCALAR, "acc");
    uint32_t odd = two ? lp_local(p, t, LOCAL_SCALAR, "odd") : HOP_NONE;
    lp_set(p, acc, item_identity(L, item));
    if (two) lp_set(p, odd, item_identity(L, item));
    for (uint32_t i = 0; i < n_folded; i++)
        folded[i] = lp_for_begin(p, lp_index(p, 0), lower_dim(L, extents[i]),
                                 lp_index(p, two && i + 1 == n_folded ? 2 : 1), FOR_SERIAL);
    lpv x = item_elem(L, item, idx, folded);
    lp_set(p, acc, fold_pair(p, fold, lp_read(p, acc), x));
    if (two) {
        folded[n_folded - 1] = lp_bin(p, LP_ADD, folded[n_folded - 1], lp_index(p, 1));
        x = item_elem(L, item, idx, folded);
        lp_set(p, odd, fold_pair(p, fold, lp_read(p, odd), x));
    }
    for (uint32_t i = n_folded; i-- > 0;) {
        struct lp_stmt *s = lp_for_end(p);
        if (i + 1 == n_folded && two && last % 4 == 0) s->unroll = 2;
    }
    lpv r = lp_read(p, acc);
    return item_rounded(L, item, two ? fold_pair(p, fold, r, lp_read(p, odd)) : r);
}

lpv fold_lanes(struct lower *L, const struct item *item, const lpv *idx)
{
    struct lp *p = L->S->p;
    enum dtype t = item_dtype(L, item);
    enum lp_fold fold = item_fold(L, item);
    dim extents[MAX_RANK];
    lpv folded[MAX_RANK];
    uint32_t n_folded = row_of(L, item)->reduced(L->S->m, L->f, node_of(L, item), extents);
    uint32_t lanes = lp_local(p, t, LOCAL_LANES, "lanes");
    lp_set(p, lanes, item_identity(L, item));
    for (uint32_t i = 0; i < n_folded; i++)
        folded[i] = lp_for_begin(p, lp_index(p, 0), lower_dim(L, extents[i]), lp_index(p, 1),
                                 i + 1 == n_folded ? FOR_VECTOR : FOR_SERIAL);
    lp_accum(p, lanes, fold, item_elem(L, item, idx, folded));
    for (uint32_t i = 0; i < n_folded; i++) lp_for_end(p);
    return item_rounded(L, item, lp_fold_lanes(p, lanes, fold));
}

/* ---- along the rows of a nest ---- */

/* Whether an element is NaN is seen in their sum, which costs less than asking each of them; only a row whose
 * sum is NaN is gone through again, for the first one. (It may be that of infinities alone.) */
static bool adds_up_for_nan(struct lower *L, const struct item *item)
{
    enum { CHEAP = 8 }; /* operations an element: its expression is there twice */
    val folded = node_operands(L->f, node_of(L, item))[0];
    if (!dtype_is_float(operand_dtype(L, item))) return false;
    if (!L->info[folded].root && L->info[folded].cost > CHEAP) return false;
    for (uint32_t r = 0; r < item->reads.len; r++) { /* what the same loop makes is at hand in it alone */
        const struct value_info *read = &L->info[item->reads.data[r].v];
        bool here = read->root && read->nest != HOP_NONE;
        const struct nest *nest = here ? L->nest_list.data[read->nest] : NULL;
        if (nest == L->emitting && nest->items.data[read->item].phase == item->phase) return false;
    }
    return true;
}

void fold_row_begin(struct lower *L, struct item *item)
{
    enum { FEW_PLACES_OF_LANES = 64 }; /* twice the lanes of a vector, or more */
    struct lp *p = L->S->p;
    item->local = lp_local(p, item_dtype(L, item), LOCAL_LANES, "lanes");
    if (row_of(L, item)->position) p->locals.data[item->local].strict = false; /* the same in any order */
    if (!is_position(L, item)) {
        lp_set(p, item->local, item_identity(L, item));
        return;
    }
    item->at.local = position_local(L, item, LOCAL_LANES);
    set_best(p, item->local, item->at.local, best_of_nothing(L, item));
    item->at.total = HOP_NONE;
    int64_t most_places = lp_range(p, lower_dim(L, position_extent(L, item))).hi;
    if (most_places <= FEW_PLACES_OF_LANES && item->blocks.buffer == HOP_NONE)
        p->locals.data[item->at.local].places = (uint32_t)most_places;
    if (!adds_up_for_nan(L, item)) return;
    item->at.total = lp_local(p, item_dtype(L, item), LOCAL_LANES, "total");
    p->locals.data[item->at.total].strict = false;
    p->locals.data[item->at.total].only_nan = true;
    p->locals.data[item->local].numbers = true; /* no comparison lets a NaN in */
    lp_set(p, item->at.total, lp_real(p, item_dtype(L, item), 0));
}
void fold_row_point(struct lower *L, const struct item *item)
{
    struct lp *p = L->S->p;
    const lpv *along_row = &L->vars[L->emitting->n_outer];
    if (!is_position(L, item)) {
        lp_accum(p, item->local, item_fold(L, item), item_elem(L, item, L->vars, along_row));
        return;
    }
    struct best best = read_best(p, item->local, item->at.local);
    if (item->at.total == HOP_NONE) best = with_element(L, item, best, L->vars, along_row);
    else {
        lpv x = item_elem(L, item, L->vars, along_row);
        lpv wins = lp_bin(p, seeks_most(L, item) ? LP_GT : LP_LT, x, best.value);
        best.value = lp_select(p, wins, x, best.value);
        best.at = lp_select(p, wins, lp_cast(p, position_dtype(L, item), *along_row), best.at);
        lp_accum(p, item->at.total, FOLD_SUM, x);
    }
    lp_accum(p, item->local, FOLD_LAST, best.value);
    lp_accum(p, item->at.local, FOLD_LAST, best.at);
}

/* The place of the first NaN of the row instead of the best, if there is one. */
static struct best unless_nan(struct lower *L, const struct item *item, struct best best, lpv lo, lpv hi)
{
    struct lp *p = L->S->p;
    enum dtype t = position_dtype(L, item);
    lpv none = most_of(p, t), total = lp_fold_lanes(p, item->at.total, FOLD_SUM);
    uint32_t value = lp_local(p, lp_dtype(p, best.value), LOCAL_SCALAR, "best");
    uint32_t at = position_local(L, item, LOCAL_SCALAR), first = position_local(L, item, LOCAL_LANES);
    set_best(p, value, at, best);
    lp_if_begin(p, lp_bin(p, LP_NE, total, total));
    lp_set(p, first, none);
    lpv *along_row = &L->vars[L->emitting->n_outer];
    *along_row = lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_VECTOR);
    lpv x = item_elem(L, item, L->vars, along_row);
    lpv place = lp_select(p, lp_bin(p, LP_NE, x, x), lp_cast(p, t, *along_row), none);
    lp_accum(p, first, FOLD_MIN, place);
    lp_for_end(p);
    place = lp_fold_lanes(p, first, FOLD_MIN);
    lpv none_is = lp_bin(p, LP_EQ, place, none), no_number = lp_real(p, lp_dtype(p, best.value), NAN);
    struct best nan = { lp_select(p, none_is, best.value, no_number), lp_select(p, none_is, best.at, place) };
    set_best(p, value, at, nan);
    lp_if_end(p);
    return read_best(p, value, at);
}
void fold_row_end(struct lower *L, struct item *item, lpv lo, lpv hi)
{
    struct lp *p = L->S->p;
    lpv folded = lp_fold_lanes(p, item->local, item_fold(L, item));
    bool cut = item->blocks.buffer != HOP_NONE;
    item->held = LPV_NONE;
    if (is_position(L, item)) {
        struct best best = { folded, lp_first_lane(p, item->local, folded, item->at.local) };
        if (item->at.total != HOP_NONE) best = unless_nan(L, item, best, lo, hi);
        if (cut) store_best(p, item, L->emitting->block, best);
        else item->held = lp_cast(p, DT_I64, best.at);
    } else if (cut) lp_store(p, item->blocks.buffer, L->emitting->block, folded);
    else item->held = item_rounded(L, item, folded);
}

void fold_short_point(struct lower *L, struct item *item)
{
    const lpv *along_row = &L->vars[L->emitting->n_outer];
    if (is_position(L, item)) {
        struct best so_far = { item->held, item->at.held };
        if (item->held == LPV_NONE) so_far = best_of_nothing(L, item);
        struct best best = with_element(L, item, so_far, L->vars, along_row);
        item->held = best.value;
        item->at.held = best.at;
        return;
    }
    if (item->held == LPV_NONE) item->held = item_identity(L, item);
    lpv x = item_elem(L, item, L->vars, along_row);
    item->held = fold_pair(L->S->p, item_fold(L, item), item->held, x);
}
void fold_short_end(struct lower *L, struct item *item)
{
    item->held = is_position(L, item) ? lp_cast(L->S->p, DT_I64, item->at.held)
                                      : item_rounded(L, item, item->held);
}

/* ---- blocks ---- */

static lpv divided_up(struct lp *p, lpv a, lpv b)
{
    return lp_bin(p, LP_FLOORDIV, lp_bin(p, LP_ADD, a, lp_bin(p, LP_SUB, b, lp_index(p, 1))), b);
}

static _Thread_local bool blocks_early;
void lower_blocks_early(bool on) { blocks_early = on; }
int64_t lower_large(int64_t elements) { return blocks_early ? elements / 64 : elements; }

struct blocks lower_blocks(struct lower *L, lpv total, int64_t least)
{
    struct lp *p = L->S->p;
    lpv size = lp_bin(p, LP_MAX, lp_index(p, HOP_MAX(least, 1)),
                      divided_up(p, total, lp_index(p, LOWER_BLOCKS)));
    return lower_pieces(L, total, size);
}

struct blocks lower_pieces(struct lower *L, lpv total, lpv size)
{
    return (struct blocks){ .total = total, .size = size, .count = divided_up(L->S->p, total, size) };
}

lpv lower_block_begin(struct lower *L, const struct blocks *b, lpv *lo, lpv *hi)
{
    struct lp *p = L->S->p;
    lpv block = lp_for_begin(p, lp_index(p, 0), b->count, lp_index(p, 1), FOR_PARALLEL);
    *lo = lp_bin(p, LP_MUL, block, b->size);
    *hi = lp_bin(p, LP_MIN, b->total, lp_bin(p, LP_ADD, *lo, b->size));
    return block;
}

struct array lower_block_memory(struct lower *L, enum dtype t, dim each, const char *why)
{
    struct module *m = L->S->m;
    dim count = dim_mul(m, LOWER_BLOCKS, each);
    struct array a = lower_alloc(L, type_intern(m, t, 1, &count), why);
    struct lp_buffer *b = &L->S->p->buffers.data[a.buffer];
    if (b->kind == BUF_LOCAL) b->kind = BUF_TEMP;
    return a;
}

/* ---- folds in blocks ---- */

static void give_memory(struct lower *L, struct item *item, dim each)
{
    item->blocks = lower_block_memory(L, item_dtype(L, item), each, "what each block of a fold gives");
    if (is_position(L, item))
        item->at.blocks = lower_block_memory(L, position_dtype(L, item), each, "where each block found it");
}

void fold_row_cut(struct lower *L, struct item *item) { give_memory(L, item, 1); }

static lpv combined_position(struct lower *L, const struct item *item, lpv count, lpv each, lpv at)
{
    struct lp *p = L->S->p;
    uint32_t value = lp_local(p, item_dtype(L, item), LOCAL_SCALAR, "best");
    uint32_t place = position_local(L, item, LOCAL_SCALAR);
    set_best(p, value, place, best_of_nothing(L, item));
    lpv block = lp_for_begin(p, lp_index(p, 0), count, lp_index(p, 1), FOR_SERIAL);
    struct best next = load_best(p, item, lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, block, each), at));
    set_best(p, value, place, better(L, item, read_best(p, value, place), next));
    lp_for_end(p);
    return lp_cast(p, DT_I64, lp_read(p, place));
}

/* What the blocks gave at element `at` of each, combined in their order. */
static lpv combined(struct lower *L, const struct item *item, lpv count, lpv each, lpv at)
{
    struct lp *p = L->S->p;
    if (is_position(L, item)) return combined_position(L, item, count, each, at);
    uint32_t acc = lp_local(p, item_dtype(L, item), LOCAL_SCALAR, "acc");
    lp_set(p, acc, item_identity(L, item));
    lpv block = lp_for_begin(p, lp_index(p, 0), count, lp_index(p, 1), FOR_SERIAL);
    lpv x = lp_load(p, item->blocks.buffer, lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, block, each), at));
    lp_set(p, acc, fold_pair(p, item_fold(L, item), lp_read(p, acc), x));
    lp_for_end(p);
    return item_rounded(L, item, lp_read(p, acc));
}

void fold_row_join(struct lower *L, struct item *item, lpv count)
{
    item->held = combined(L, item, count, lp_index(L->S->p, 1), lp_index(L->S->p, 0));
    item->blocks.buffer = HOP_NONE;
}

/* ---- across short rows ---- */

void fold_across_cut(struct lower *L, struct item *item, int64_t n)
{
    give_memory(L, item, dim_const(L->S->m, n));
}
void fold_across_begin(struct lower *L, struct item *item, int64_t n)
{
    struct lp *p = L->S->p;
    item->row_locals = ARENA_NEW(L->arena, uint32_t, n);
    for (int64_t j = 0; j < n; j++) {
        item->row_locals[j] = lp_local(p, item_dtype(L, item), LOCAL_LANES, "lanes");
        lp_set(p, item->row_locals[j], item_identity(L, item));
    }
}
void fold_across_point(struct lower *L, const struct item *item, int64_t j)
{
    uint32_t folded = L->emitting->n_outer - 1;
    lpv kept[MAX_RANK];
    memcpy(kept, L->vars, folded * sizeof *kept);
    kept[folded] = L->vars[folded + 1];
    lpv x = item_elem(L, item, kept, &L->vars[folded]);
    lp_accum(L->S->p, item->row_locals[j], item_fold(L, item), x);
}
static lpv place_in_block(struct lower *L, int64_t n, int64_t j)
{
    struct lp *p = L->S->p;
    return lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, L->emitting->block, lp_index(p, n)), lp_index(p, j));
}
lpv fold_across_end(struct lower *L, const struct item *item, int64_t n, int64_t j)
{
    struct lp *p = L->S->p;
    lpv folded = lp_fold_lanes(p, item->row_locals[j], item_fold(L, item));
    if (item->blocks.buffer == HOP_NONE) return item_rounded(L, item, folded);
    lp_store(p, item->blocks.buffer, place_in_block(L, n, j), folded);
    return LPV_NONE;
}
lpv fold_across_join(struct lower *L, const struct item *item, lpv count, int64_t n, int64_t j)
{
    return combined(L, item, count, lp_index(L->S->p, n), lp_index(L->S->p, j));
}

/* ---- to one value ---- */

/* A step of the loop over blocks takes a row, or a part of a long one. */
lpv fold_all(struct lower *L, struct item *item)
{
    struct lp *p = L->S->p;
    struct module *m = L->S->m;
    dim extents[MAX_RANK], rows = 1;
    lpv folded[MAX_RANK], lo, hi;
    uint32_t last = row_of(L, item)->reduced(m, L->f, node_of(L, item), extents) - 1;
    for (uint32_t i = 0; i < last; i++) rows = dim_mul(m, rows, extents[i]);
    lpv size = lower_dim(L, extents[last]), part = lp_index(p, LONG_ROW);
    lpv parts = divided_up(p, size, part);
    struct blocks b = lower_blocks(L, lp_bin(p, LP_MUL, lower_dim(L, rows), parts), 1);
    give_memory(L, item, 1);
    lpv block = lower_block_begin(L, &b, &lo, &hi);
    uint32_t lanes = lp_local(p, item_dtype(L, item), LOCAL_LANES, "lanes");
    lp_set(p, lanes, item_identity(L, item));
    lpv step = lp_for_begin(p, lo, hi, lp_index(p, 1), FOR_SERIAL);
    lpv divisor = lp_bin(p, LP_MAX, parts, lp_index(p, 1));
    lower_unflatten(L, type_intern(m, DT_BOOL, last, extents), lp_bin(p, LP_FLOORDIV, step, divisor), folded);
    lpv from = lp_bin(p, LP_MUL, lp_bin(p, LP_MOD, step, divisor), part);
    folded[last] = lp_for_begin(p, from, lp_bin(p, LP_MIN, size, lp_bin(p, LP_ADD, from, part)),
                                lp_index(p, 1), FOR_VECTOR);
    lp_accum(p, lanes, item_fold(L, item), item_elem(L, item, NULL, folded));
    lp_for_end(p);
    lp_for_end(p);
    lp_store(p, item->blocks.buffer, block, lp_fold_lanes(p, lanes, item_fold(L, item)));
    lp_for_end(p);
    return combined(L, item, b.count, lp_index(p, 1), lp_index(p, 0));
}

/* ---- down the rows of a nest ---- */

static lpv down_each(struct lower *L, const struct item *item)
{
    return lower_dim(L, type_elements(L->S->m, value_type(L->f, item->v)));
}

void fold_down_room(struct lower *L, struct item *item, uint32_t blocks)
{
    struct module *m = L->S->m;
    dim each = type_elements(m, value_type(L->f, item->v));
    dim shares = dim_const(m, (blocks + LOWER_BLOCKS - 1) / LOWER_BLOCKS);
    if (blocks > 1) {
        give_memory(L, item, dim_mul(m, each, shares));
        return;
    }
    item->blocks = lower_alloc(L, type_intern(m, item_dtype(L, item), 1, &each), "a fold row by row");
    if (is_position(L, item))
        item->at.blocks = lower_alloc(L, type_intern(m, position_dtype(L, item), 1, &each),
                                      "where a fold row by row found it");
}
void fold_down_begin(struct lower *L, const struct item *item)
{
    struct lp *p = L->S->p;
    lpv each = down_each(L, item), first = lp_bin(p, LP_MUL, L->emitting->block, each);
    lpv i = lp_for_begin(p, lp_index(p, 0), each, lp_index(p, 1), FOR_VECTOR);
    if (is_position(L, item)) store_best(p, item, lp_bin(p, LP_ADD, first, i), best_of_nothing(L, item));
    else lp_store(p, item->blocks.buffer, lp_bin(p, LP_ADD, first, i), item_identity(L, item));
    lp_for_end(p);
}
void fold_down_point(struct lower *L, const struct item *item)
{
    struct lp *p = L->S->p;
    const lpv *kept = L->vars + L->emitting->n_down;
    lpv x = item_elem(L, item, kept, L->vars);
    lpv at = lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, L->emitting->block, down_each(L, item)),
                    lower_flatten(L, value_type(L->f, item->v), kept));
    if (is_position(L, item)) {
        struct best next = { x, lp_cast(p, position_dtype(L, item), L->vars[0]) };
        store_best(p, item, at, better(L, item, load_best(p, item, at), next));
        return;
    }
    lpv so_far = lp_load(p, item->blocks.buffer, at);
    lp_store(p, item->blocks.buffer, at, fold_pair(p, item_fold(L, item), so_far, x));
}
lpv fold_down_end(struct lower *L, const struct item *item, lpv count, const lpv *idx)
{
    struct lp *p = L->S->p;
    lpv at = lower_flatten(L, value_type(L->f, item->v), idx);
    if (count != LPV_NONE) return combined(L, item, count, down_each(L, item), at);
    if (is_position(L, item)) return lp_cast(p, DT_I64, lp_load(p, item->at.blocks.buffer, at));
    return item_rounded(L, item, lp_load(p, item->blocks.buffer, at));
}
