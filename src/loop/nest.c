/* Lowering, the part about nests: which values are stored and which of them share loops (nest_emit.c writes
 * them). A dry run of each stored value's expression tells how it reads the others; values that read each
 * other at the same point, or along the same row, share a nest. */
#include "ir/number.h"
#include "loop/lower_impl.h"

/* The numbers behind what is stored (operations an element costs to compute in place; a load counts 1). */
enum {
    COST_OF_EXPENSIVE = 16, /* a transcendental, a division, a gather */
    STORE_SHARED = 16,      /* several readers, or steps that each read little: stored from this cost on */
    STORE_MANY = 5,         /* read many times (operand of a product, broadcast): stored from this cost on */
    STORE_AGAIN = 2,        /* read on every trip of a loop: from this cost on, and when its layout changes */
    STORE_SINGLY = 4,       /* read by scalar code: stored, by vector code, from this cost on */
    STORE_ALWAYS = 400,     /* bounds the size of one expression */
    LONG_AFTER_SUM = 32,    /* from this cost on a value stays out of loops that add up for each element */
    LONG_AFTER_ROW = 16,    /* from this cost on a value for each row is computed for many rows at a time */
    NEST_ITEMS = 24,        /* stored values in one nest */
    NEST_COST = 2000,       /* of its stored values together, from which on another begins: compiling one loop
                               takes more than linear time */
    /* Folds of leading dims, row by row: results of so many elements stay in a cache, rows are long enough,
       and there are so many elements that the order of memory counts. */
    DOWN_MOST = 16384,
    DOWN_ROW = 16,
    DOWN_LEAST = 65536,
    REGISTER_ELEMENTS = 64 /* a small array may live in registers, where a part is a select */
};

static bool binds_symbol(struct lower *L, uint32_t node)
{
    for (uint32_t s = L->f->n_outer_symbols; s < L->f->n_symbols; s++)
        if (L->f->symbols[s].index == node) return true;
    return false;
}

bool nest_is_block(struct lower *L, const struct node *n)
{
    const struct op_lower *row = lower_of(n);
    if (row->kind == LOWER_BLOCK || product_is_gemm(L, n)) return true;
    const struct value_info *info = &L->info[n->results];
    return info->part || info->run || info->assembled || product_adds_up(L, n);
}

bool nest_is_step(struct lower *L, val v)
{
    const struct value_info *info = &L->info[v];
    uint32_t node = L->f->values[v].node;
    bool scalar = info->single || !type_of(L, v).rank;
    if (info->root || !info->uses || !info->cost || !scalar || node == NODE_NONE) return false;
    const struct node *n = fn_node(L->f, node);
    return !nest_is_block(L, n) && lower_of(n)->kind == LOWER_POINTWISE;
}

/* ---- what is stored ---- */

static uint8_t operand_use(struct lower *L, const struct node *n, uint32_t i)
{
    const struct op_lower *row = lower_of(n);
    if (row->boundary && row->boundary(L->S->m, L->f, n)) return USE_ARRAY;
    if (row->kind == LOWER_BLOCK && row->operand_use) return row->operand_use(L->f, n, i);
    bool reads_through_permute = row->kind == LOWER_REDUCE && product_operand_direct(L, n, i);
    return reads_through_permute ? USE_ONCE : USE_ARRAY;
}

/* Does every operand of the node, expanded in place, get read many times? What is stored reads it once. */
static bool reads_many_times(struct lower *L, const struct node *n)
{
    const struct op_lower *row = lower_of(n);
    if (row->kind == LOWER_REDUCE) return row->product != NULL;
    if (row->kind == LOWER_POINTWISE && row->access >= ACCESS_REPEAT) return true;
    for (uint32_t k = 0; k < n->n_results && row->cost != COST_EXPENSIVE; k++) {
        const struct value_info *info = &L->info[n->results + k];
        if (info->many && !info->why) return true;
    }
    return false;
}

static void count_block_use(struct lower *L, const struct node *n, uint32_t k)
{
    const struct op_lower *row = lower_of(n);
    struct value_info *info = &L->info[node_operands(L->f, n)[k]];
    uint8_t use = operand_use(L, n, k);
    if (use == USE_ARRAY && !info->why)
        info->why = arena_printf(L->arena, "operand of %s", node_row(n)->name);
    info->many |= use == USE_MANY || (use == USE_ONCE && repeats_operand(L->S->m, L->f, n, k));
    info->again |= use == USE_MANY;
    info->slowly |= use == USE_ONCE && repeats_in_small_slices(L->S->m, L->f, n, k);
    info->singly |= use == USE_ONCE && row->one_by_one && row->one_by_one(L->S->m, L->f, n);
}

/* In a step whose carries of one element are scalars (begin_carries of src/hops/lower_loops.c), all arrays of
 * one element are. */
static void find_singles(struct lower *L)
{
    bool any = false;
    for (uint32_t r = 0; r < L->f->n_results; r++)
        any |= L->sinks[r].scalar && type_of(L, L->f->results[r]).rank;
    for (uint32_t v = L->f->n_params; any && v < L->f->n_values; v++)
        L->info[v].single = type_of(L, v).rank && lower_is_single(L, value_type(L->f, v));
}

static void count_uses(struct lower *L)
{
    const struct fn *f = L->f;
    for (uint32_t i = 0; i < f->n_values; i++)
        L->info[i] = (struct value_info){
            .nest = HOP_NONE, .item = HOP_NONE, .sum = VAL_NONE, .takes = HOP_NONE, .given = HOP_NONE
        };
    find_singles(L);
    for (uint32_t r = 0; r < f->n_results; r++) {
        if (L->sinks[r].unused) continue;
        struct value_info *info = &L->info[f->results[r]];
        info->uses++;
        if (type_of(L, f->results[r]).rank && !info->why && !info->single) info->why = "result";
    }
    const bool *kept = kept_values(L->S->m, f->id);
    for (uint32_t i = 0; kept && i < f->n_values; i++)
        if (kept[i] && type_of(L, i).rank && !L->info[i].why) L->info[i].why = "asked for by keep";
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        bool block = nest_is_block(L, n);
        bool many = reads_many_times(L, n);
        for (uint32_t k = 0; k < n->n_operands; k++) {
            struct value_info *info = &L->info[node_operands(f, n)[k]];
            info->uses++;
            if (block) count_block_use(L, n, k);
            else info->many |= many;
        }
    }
}

static const char *store_reason(const struct value_info *info, const struct op_lower *row)
{
    if (info->why) return info->why;
    if (row->kind == LOWER_REDUCE) return "reduction";
    if (info->cost >= STORE_ALWAYS) return "a long expression";
    if (info->many && info->cost >= STORE_MANY) return "read many times";
    bool again = row->access == ACCESS_VIEW || info->cost >= STORE_AGAIN;
    if (info->again && again) return "read again on every trip";
    if (info->singly && info->cost >= STORE_SINGLY) return "read one element after the other";
    if (info->slowly && info->cost >= STORE_SHARED) return "expensive, read by small slices";
    if (info->uses > 1 && info->cost >= STORE_SHARED) return "expensive, several readers";
    return NULL;
}

/* Is the operand there when it is read, and not expanded in place? */
static bool is_at_hand(struct lower *L, val o)
{
    uint32_t node = L->f->values[o].node;
    if (L->info[o].root || node == NODE_NONE) return true;
    return nest_is_block(L, fn_node(L->f, node)) || nest_is_step(L, o);
}

static void choose_roots(struct lower *L)
{
    const struct fn *f = L->f;
    static const uint32_t own[] = { [COST_FREE] = 0, [COST_CHEAP] = 1, [COST_EXPENSIVE] = COST_OF_EXPENSIVE };
    for (uint32_t p = 0; p < f->n_params; p++) L->info[p].cost = 1;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        const struct op_lower *row = lower_of(n);
        uint32_t cost = own[row->cost];
        for (uint32_t k = 0; k < n->n_operands; k++) {
            val o = node_operands(f, n)[k];
            cost += is_at_hand(L, o) ? 1 : L->info[o].cost;
        }
        for (uint32_t k = 0; k < n->n_results; k++) {
            struct value_info *info = &L->info[n->results + k];
            info->cost = HOP_MIN(cost, 1u << 20);
            if (nest_is_block(L, n)) continue;
            bool single = info->single && !info->why;
            bool scalar = row->kind == LOWER_POINTWISE && (single || !type_of(L, n->results + k).rank);
            info->single = single;
            const char *why = scalar ? NULL : store_reason(info, row);
            if (!why || !info->uses) continue;
            info->root = true;
            info->why = why;
        }
    }
}

/* ---- dry runs ---- */

bool nest_folds_rows(struct lower *L, const struct node *n)
{
    const struct op_lower *row = lower_of(n);
    if (row->product) return product_rows(L, n);
    return row->row_fold && row->row_fold(L->S->m, L->f, n);
}

/* Expands the item's expression in a scratch program and records what it reads. Loops are left open: the
 * program is thrown away. */
static void probe_item(struct lower *L, struct item *item)
{
    struct probe probe = { .item = item };
    const struct node *n = item->node == NODE_NONE ? NULL : fn_node(L->f, item->node);
    probe.scratch = lp_new(L->S->m, L->f, true);
    hop_cleanup_push(lp_free, probe.scratch);
    L->probe = &probe;
    struct type t = type_of(L, item->v);
    struct lp *p = probe.scratch;
    lpv folded[MAX_RANK], kept[MAX_RANK + 1] = { 0 };
    dim extents[MAX_RANK];
    bool reduce = n && !nest_is_block(L, n) && lower_of(n)->kind == LOWER_REDUCE;
    uint32_t n_folded = reduce ? lower_of(n)->reduced(L->S->m, L->f, n, extents) : 0;
    uint32_t rank = item->class == ITEM_SCALAR ? L->open->n_outer : t.rank;
    for (uint32_t i = 0; i < rank; i++)
        kept[i] = lp_for_begin(p, lp_index(p, 0), lower_dim(L, t.dims[i]), lp_index(p, 1), FOR_SERIAL);
    for (uint32_t i = rank; i < t.rank; i++) kept[i] = lp_index(p, 0);
    for (uint32_t i = 0; i < n_folded; i++)
        folded[i] = lp_for_begin(p, lp_index(p, 0), lower_dim(L, extents[i]), lp_index(p, 1), FOR_SERIAL);
    for (uint32_t i = 0; item->class == ITEM_DOWN && i < n_folded; i++)
        probe.vars[probe.n_vars++] = folded[i];
    for (uint32_t i = 0; i < rank; i++) {
        if (item->class == ITEM_ACROSS && i + 1u == t.rank) probe.vars[probe.n_vars++] = folded[0];
        probe.vars[probe.n_vars++] = kept[i];
    }
    if (item->class == ITEM_ROW) probe.vars[probe.n_vars++] = folded[0];
    if (reduce) lower_of(n)->reduce_elem(L, L->f, n, kept, folded);
    else if (n && lower_of(n)->kind == LOWER_POINTWISE && !nest_is_block(L, n))
        lower_of(n)->elem(L, L->f, n, item->v - n->results, kept);
    L->probe = NULL;
    hop_cleanup_pop(probe.scratch);
    lp_free(probe.scratch);
}

/* Roots that expanding v in place reads must be in memory. */
static void mark_inline_reads(struct lower *L, val v)
{
    if (L->f->values[v].node == NODE_NONE || nest_is_step(L, v)) return;
    const struct value_info *info = &L->info[v];
    if (info->root) {
        if (info->nest != HOP_NONE) L->nest_list.data[info->nest]->items.data[info->item].memory = true;
        return;
    }
    const struct node *n = fn_node(L->f, L->f->values[v].node);
    if (nest_is_block(L, n) || lower_of(n)->kind != LOWER_POINTWISE) return;
    for (uint32_t k = 0; k < n->n_operands; k++) mark_inline_reads(L, node_operands(L->f, n)[k]);
}

/* ---- nests ---- */

static void close_nest(struct lower *L)
{
    if (!L->open) return;
    vec_push(L->arena, &L->steps, (struct lower_step){ STEP_NEST, L->nest_list.len - 1 });
    L->open = NULL;
}

static struct item new_item(struct lower *L, val v, struct nest *key)
{
    uint32_t node = L->f->values[v].node;
    const struct node *n = fn_node(L->f, node);
    const struct op_lower *row = lower_of(n);
    struct type t = type_of(L, v);
    dim extents[MAX_RANK];
    struct item item = { .v = v,
                         .node = node,
                         .why = L->info[v].why,
                         .held = LPV_NONE,
                         .local = HOP_NONE,
                         .blocks = { HOP_NONE, LPV_NONE },
                         .at = { LPV_NONE, HOP_NONE, { HOP_NONE, LPV_NONE } } };
    memset(key, 0, sizeof *key);
    key->inner = HOP_NONE;
    key->n_outer = t.rank;
    if (t.rank) memcpy(key->outer, t.dims, t.rank * sizeof *t.dims);
    if (row->kind == LOWER_REDUCE && nest_folds_rows(L, n)) {
        uint32_t n_folded = row->reduced(L->S->m, L->f, n, extents);
        item.class = n_folded == 1 ? ITEM_ROW : ITEM_ALONE;
        if (n_folded == 1) key->inner = extents[0];
    } else if (!t.rank) item.class = ITEM_ALONE;
    else {
        item.class = row->kind == LOWER_REDUCE ? ITEM_COLUMN : ITEM_POINT;
        key->inner = t.dims[--key->n_outer];
    }
    return item;
}

/* The same as a fold of leading dims row by row: a nest over all dims of what is folded. False: it is none,
 * or not of such a size. Strict numbers have an order that threads would not keep. */
static bool new_down_item(struct lower *L, struct item *item, struct nest *key)
{
    struct module *m = L->S->m;
    const struct node *n = fn_node(L->f, item->node);
    struct type t = type_of(L, item->v);
    const struct op_lower *row = lower_of(n);
    uint32_t leading = row->kind == LOWER_REDUCE && row->leading ? row->leading(m, L->f, n) : 0;
    dim elements = type_elements(m, value_type(L->f, item->v));
    if (!leading || !t.rank || L->S->p->regime.strict || !dim_is_const(m, elements)) return false;
    bool wide = dim_is_const(m, t.dims[t.rank - 1]) && dim_const_value(m, t.dims[t.rank - 1]) >= DOWN_ROW;
    if (!wide || dim_const_value(m, elements) > DOWN_MOST) return false;
    memset(key, 0, sizeof *key);
    key->n_down = row->reduced(m, L->f, n, key->outer);
    for (uint32_t i = 0; i + 1u < t.rank; i++) key->outer[key->n_down + i] = t.dims[i];
    key->n_outer = key->n_down + t.rank - 1;
    key->inner = t.dims[t.rank - 1];
    item->class = ITEM_DOWN;
    return true;
}

static bool same_key(const struct nest *a, const struct nest *b)
{
    return a->n_outer == b->n_outer && a->inner == b->inner &&
           (!a->n_outer || !memcmp(a->outer, b->outer, a->n_outer * sizeof *a->outer));
}

/* May the item join the open nest, and in which phase? */
static bool joins(struct lower *L, struct item *item)
{
    uint32_t open = L->nest_list.len - 1;
    item->phase = 0;
    if ((L->open->stays_short || item->class == ITEM_ACROSS) && !short_stays(L, L->open, item)) return false;
    for (uint32_t i = 0; i < item->reads.len; i++) {
        struct read r = item->reads.data[i];
        const struct value_info *info = &L->info[r.v];
        if (!info->root || info->nest != open) continue;
        const struct item *w = &L->open->items.data[info->item];
        bool per_row = item->class == ITEM_SCALAR;
        bool along_row = r.same >= L->open->n_outer;
        bool pointwise = is_pointwise(w) && !per_row;
        uint32_t phase;
        if (w->class == ITEM_ROW && along_row) phase = w->phase + 1;
        else if (w->class == ITEM_SCALAR && along_row) phase = w->phase;
        else if (pointwise && r.relation == REL_SAME) phase = w->phase;
        else if (pointwise && r.relation == REL_ROWVEC) phase = w->phase + 1;
        else return false;
        item->phase = HOP_MAX(item->phase, phase);
    }
    return true;
}

static bool reads_open_row(struct lower *L, const struct item *item)
{
    for (uint32_t i = 0; i < item->reads.len; i++) {
        const struct value_info *info = &L->info[item->reads.data[i].v];
        if (!info->root || info->nest != L->nest_list.len - 1) continue;
        uint8_t class = L->open->items.data[info->item].class;
        if (class == ITEM_ROW || class == ITEM_SCALAR) return true;
    }
    return false;
}

static bool reads_open(struct lower *L, const struct item *item)
{
    for (uint32_t i = 0; i < item->reads.len; i++) {
        const struct value_info *info = &L->info[item->reads.data[i].v];
        if (info->root && info->nest == L->nest_list.len - 1) return true;
    }
    return false;
}

/* Is a value of the type one value per row of the nest? Further dims may have one element. */
static bool same_outer(struct lower *L, const struct nest *open, struct type t)
{
    uint32_t n = open->n_outer;
    if (!n || t.rank < n || memcmp(open->outer, t.dims, n * sizeof *t.dims)) return false;
    for (uint32_t i = n; i < t.rank; i++)
        if (!dim_is_const(L->S->m, t.dims[i]) || dim_const_value(L->S->m, t.dims[i]) != 1) return false;
    return true;
}

static void add_item(struct lower *L, struct item item)
{
    L->info[item.v].nest = L->nest_list.len - 1;
    L->info[item.v].item = L->open->items.len;
    vec_push(L->arena, &L->open->items, item);
}

static bool has_room(const struct lower *L, const struct nest *open)
{
    uint64_t cost = 0;
    for (uint32_t i = 0; i < open->items.len; i++) cost += L->info[open->items.data[i].v].cost;
    return open->items.len < NEST_ITEMS && cost < NEST_COST && open->inner != HOP_NONE;
}

/* Loops that add up for each element run for several vectors at a time. What follows in the same loop would
 * be written for each of them; a long expression is better read from memory by a loop of its own. */
static bool is_long_after_sum(const struct lower *L, const struct nest *open, const struct item *item)
{
    if (item->class == ITEM_COLUMN || L->info[item->v].cost < LONG_AFTER_SUM) return false;
    for (uint32_t i = 0; i < open->items.len; i++)
        if (open->items.data[i].class == ITEM_COLUMN) return true;
    return false;
}

/* Do values behind v read it for all elements of a row? Those far behind it are not asked. */
static bool goes_back_to_rows(struct lower *L, val v)
{
    enum { NODES = 128, VALUES = 512 };
    const struct fn *f = L->f;
    bool made_of_v[VALUES] = { [0] = true }; /* by their distance from v */
    uint32_t first = f->values[v].node + 1, rank = type_of(L, v).rank;
    for (uint32_t i = first; i < f->n_nodes && i < first + NODES; i++) {
        const struct node *n = fn_node(f, i);
        bool reads = false;
        for (uint32_t k = 0; k < n->n_operands; k++) {
            val o = node_operands(f, n)[k];
            reads |= o >= v && o - v < VALUES && made_of_v[o - v];
        }
        for (uint32_t k = 0; reads && k < n->n_results; k++) {
            if (type_of(L, n->results + k).rank > rank) return true;
            if (n->results + k - v < VALUES) made_of_v[n->results + k - v] = true;
        }
    }
    return false;
}

/* One value after the other would be computed behind each row, without vectors: a long expression that the
 * rows do not need is better computed for many of them at a time. */
static bool is_long_after_row(struct lower *L, const struct nest *key, val v)
{
    enum { FEW_ROWS = 16 };
    if (L->info[v].cost < LONG_AFTER_ROW || L->S->p->regime.scalar) return false;
    return nest_points(L, key) >= FEW_ROWS && !goes_back_to_rows(L, v);
}

static void open_nest(struct lower *L, const struct nest *key, struct item item)
{
    close_nest(L);
    item.phase = 0;
    L->open = ARENA_NEW(L->arena, struct nest, 1);
    *L->open = *key;
    vec_push(L->arena, &L->nest_list, L->open);
    add_item(L, item);
    if (key->inner == HOP_NONE) close_nest(L);
}

/* A fold of leading dims shares the visit of what it reads, or goes through it in the order of memory. */
static bool place_down(struct lower *L, struct item item, bool fuse)
{
    struct nest key;
    if (!new_down_item(L, &item, &key)) return false;
    bool large = nest_points(L, &key) >= DOWN_LEAST;
    probe_item(L, &item);
    bool shares = fuse && same_key(L->open, &key) && (!L->open->n_down || L->open->n_down == key.n_down);
    if (shares && (large || reads_open(L, &item)) && joins(L, &item)) {
        L->open->n_down = key.n_down;
        add_item(L, item);
    } else if (large) open_nest(L, &key, item);
    else return false;
    return true;
}

/* Such a nest may run as one loop over all its elements, which is better than rows, however short. */
static bool is_pointwise_only(const struct nest *nest)
{
    for (uint32_t i = 0; i < nest->items.len; i++)
        if (nest->items.data[i].class != ITEM_POINT) return false;
    return true;
}

/* A fold across rows of a few elements goes over them as vectors do. */
static bool place_across(struct lower *L, struct item item, bool fuse)
{
    struct nest key;
    if (!short_across(L, &item, &key)) return false;
    probe_item(L, &item);
    bool shares = fuse && same_key(L->open, &key) && (!is_pointwise_only(L->open) || reads_open(L, &item));
    if (shares && joins(L, &item)) add_item(L, item);
    else open_nest(L, &key, item);
    L->open->stays_short = true;
    return true;
}

static void place_root(struct lower *L, val v)
{
    struct nest key;
    struct item item = new_item(L, v, &key);
    bool fuse = L->open && choice_on(L->S->passes, CHOICE_fuse) && has_room(L, L->open) &&
                !is_long_after_sum(L, L->open, &item);
    if (fuse && item.class == ITEM_POINT && same_outer(L, L->open, type_of(L, v))) { /* one value per row? */
        struct item per_row = item;
        per_row.class = ITEM_SCALAR;
        probe_item(L, &per_row);
        bool beside = !is_pointwise_only(L->open) && short_stays(L, L->open, &per_row); /* no scalar code */
        bool per_row_there = reads_open_row(L, &per_row) && !is_long_after_row(L, &key, v);
        if ((beside || per_row_there) && joins(L, &per_row)) {
            L->open->stays_short |= beside;
            add_item(L, per_row);
            return;
        }
    }
    if (place_down(L, item, fuse) || place_across(L, item, fuse)) return;
    probe_item(L, &item);
    if (fuse && same_key(L->open, &key) && joins(L, &item)) add_item(L, item);
    else open_nest(L, &key, item);
}

static bool needs_open(struct lower *L, val v)
{
    if (!L->open || L->f->values[v].node == NODE_NONE) return false;
    if (L->info[v].root) return L->info[v].nest == L->nest_list.len - 1;
    if (nest_is_step(L, v)) return false; /* it closed the nest if it had to */
    const struct node *n = fn_node(L->f, L->f->values[v].node);
    if (nest_is_block(L, n) || lower_of(n)->kind != LOWER_POINTWISE) return false;
    if (L->slots[v].kind != SLOT_INLINE) return false;
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (needs_open(L, node_operands(L->f, n)[k])) return true;
    return false;
}

static void place_scalar(struct lower *L, const struct node *n, val v)
{
    for (uint32_t k = 0; k < n->n_operands; k++) {
        val o = node_operands(L->f, n)[k];
        if (needs_open(L, o)) close_nest(L);
        mark_inline_reads(L, o);
    }
    vec_push(L->arena, &L->steps, (struct lower_step){ STEP_SCALAR, v });
}

static void schedule(struct lower *L)
{
    const struct fn *f = L->f;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (nest_is_block(L, n) || binds_symbol(L, i)) {
            bool runs = n->n_results == 1 && L->info[n->results].run;
            bool open_has_part = !runs || needs_open(L, node_operands(f, n)[0]);
            if (open_has_part) close_nest(L);
            vec_push(L->arena, &L->steps, (struct lower_step){ STEP_BLOCK, i });
            for (uint32_t k = 0; k < n->n_operands; k++) mark_inline_reads(L, node_operands(f, n)[k]);
            if (nest_is_block(L, n)) continue;
        }
        for (uint32_t k = 0; k < n->n_results; k++) {
            val v = n->results + k;
            if (L->info[v].root) place_root(L, v);
            else if (nest_is_step(L, v)) place_scalar(L, n, v);
        }
    }
    close_nest(L);
}

/* ---- memory of stored values ---- */

/* What the reader, an item of nest `nest`, finds in memory. */
static void put_reads_in_memory(struct lower *L, uint32_t nest, const struct item *reader)
{
    for (uint32_t r = 0; r < reader->reads.len; r++) {
        const struct value_info *info = &L->info[reader->reads.data[r].v];
        if (!info->root || info->nest == HOP_NONE) continue;
        struct item *w = &L->nest_list.data[info->nest]->items.data[info->item];
        if (info->nest != nest) w->memory = true;
        else if (w->phase != reader->phase && is_pointwise(w)) w->row_temp = true;
    }
}

static void choose_memory(struct lower *L)
{
    for (uint32_t k = 0; k < L->nest_list.len; k++) {
        const struct nest *nest = L->nest_list.data[k];
        for (uint32_t i = 0; i < nest->items.len; i++) put_reads_in_memory(L, k, &nest->items.data[i]);
    }
    for (uint32_t r = 0; r < L->f->n_results; r++) /* a fold that is the next value of such a carry */
        if (L->sinks[r].scalar && type_of(L, L->f->results[r]).rank) mark_inline_reads(L, L->f->results[r]);
}

/* ---- memory that is written over ---- */

static bool item_reads(const struct item *item, val v)
{
    for (uint32_t r = 0; r < item->reads.len; r++)
        if (item->reads.data[r].v == v) return true;
    return false;
}

bool nest_operand_reads(struct lower *L, val operand, val v)
{
    if (operand == v) return true;
    uint32_t node = L->f->values[operand].node;
    if (node == NODE_NONE || L->info[operand].root || nest_is_block(L, fn_node(L->f, node))) return false;
    struct item reader = { .v = operand, .node = node, .class = ITEM_POINT, .held = LPV_NONE };
    probe_item(L, &reader);
    return item_reads(&reader, v);
}

bool nest_is_result(struct lower *L, val v)
{
    for (uint32_t r = 0; r < L->f->n_results; r++)
        if (L->f->results[r] == v && !L->sinks[r].unused) return true;
    return false;
}

static bool step_reads(struct lower *L, struct lower_step step, val v)
{
    if (step.kind == STEP_NEST) {
        const struct nest *nest = L->nest_list.data[step.index];
        for (uint32_t i = 0; i < nest->items.len; i++)
            if (item_reads(&nest->items.data[i], v)) return true;
        return false;
    }
    /* Blocks and scalars: does it reach them? */
    uint32_t node = step.kind == STEP_BLOCK ? step.index : L->f->values[step.index].node;
    const struct node *n = fn_node(L->f, node);
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (nest_operand_reads(L, node_operands(L->f, n)[k], v)) return true;
    return false;
}

bool nest_reads_from(struct lower *L, val v, uint32_t first_step)
{
    if (nest_is_result(L, v)) return true;
    for (uint32_t s = first_step; s < L->steps.len; s++)
        if (step_reads(L, L->steps.data[s], v)) return true;
    return false;
}

/* Can the result be written over parameter `param` where its nest stands? All reads of the parameter must
 * come before the store. */
static bool may_overwrite(struct lower *L, uint32_t param, const struct value_info *info)
{
    const struct nest *nest = L->nest_list.data[info->nest];
    const struct item *writer = &nest->items.data[info->item];
    uint32_t at = 0;
    if (writer->class != ITEM_POINT && writer->class != ITEM_COLUMN) return false;
    while (L->steps.data[at].kind != STEP_NEST || L->steps.data[at].index != info->nest) at++;
    for (uint32_t i = 0; i < nest->items.len; i++) {
        const struct item *reader = &nest->items.data[i];
        bool before = i <= info->item && reader->phase <= writer->phase;
        for (uint32_t r = 0; r < reader->reads.len; r++) {
            struct read read = reader->reads.data[r];
            if (read.v == param && (read.relation != REL_SAME || !before)) return false;
        }
    }
    return !nest_reads_from(L, param, at + 1);
}

/* A parameter that is a result, with memory of its own, can be put there before anything changes it. */
static bool is_put_before(struct lower *L, val u)
{
    if (L->f->values[u].node != NODE_NONE || L->slots[u].kind != SLOT_ARRAY) return false;
    for (uint32_t r = 0; r < L->f->n_results; r++) {
        const struct sink *s = &L->sinks[r];
        if (L->f->results[r] == u && !s->unused && (s->scalar || s->overwrites != HOP_NONE)) return false;
    }
    return true;
}

/* Is u read only by nodes in front of `node`, or by what `node` itself computes its part from? Nests that
 * stand in front of a block are written in front of it; values expanded in place are read where their readers
 * stand. */
bool nest_read_only_before(struct lower *L, val u, uint32_t node)
{
    const struct fn *f = L->f;
    if (nest_is_result(L, u) && !is_put_before(L, u)) return false;
    uint32_t first = f->values[u].node == NODE_NONE ? 0 : f->values[u].node + 1;
    for (uint32_t i = first; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        bool expanded = !nest_is_block(L, n) && lower_of(n)->kind == LOWER_POINTWISE;
        bool reads = false;
        for (uint32_t k = 0; k < n->n_operands; k++) reads |= node_operands(f, n)[k] == u;
        if (!reads || i == node) continue;
        if (i > node) return false;
        for (uint32_t k = 0; k < n->n_results && expanded; k++) {
            val result = n->results + k;
            bool in_place = !L->info[result].root && type_of(L, result).rank;
            if (in_place && !nest_read_only_before(L, result, node)) return false;
        }
    }
    return true;
}

static bool stays_in_registers(struct lower *L, struct array a)
{
    const struct lp_buffer *b = &L->S->p->buffers.data[a.buffer];
    return b->kind == BUF_LOCAL && b->static_count <= REGISTER_ELEMENTS;
}

static uint32_t times_result(struct lower *L, val v)
{
    uint32_t times = 0;
    for (uint32_t r = 0; r < L->f->n_results; r++) times += L->f->results[r] == v && !L->sinks[r].unused;
    return times;
}

static bool has_part(struct lower *L, const struct node *n)
{
    return lower_of(n)->part && !nest_is_block(L, n);
}

/* The array that u is but for what its node changes, HOP_NONE: none. */
static val old_of(struct lower *L, val u)
{
    const struct fn *f = L->f;
    if (f->values[u].node == NODE_NONE) return HOP_NONE;
    const struct node *n = fn_node(f, f->values[u].node);
    if (has_part(L, n)) return node_operands(f, n)[0];
    uint32_t i = lower_of(n)->changes ? lower_of(n)->changes(L->S->m, f, n, u - n->results) : HOP_NONE;
    return i == HOP_NONE || !type_of(L, u).rank ? HOP_NONE : node_operands(f, n)[i];
}

/* Does the node that makes u of `old` see the old content in no other way, and nobody afterwards? */
static bool ends_with(struct lower *L, val u, val old)
{
    const struct fn *f = L->f;
    const struct node *n = fn_node(f, f->values[u].node);
    if (!has_part(L, n)) {
        uint32_t times = 0;
        for (uint32_t k = 0; k < n->n_operands; k++) times += node_operands(f, n)[k] == old;
        for (uint32_t k = 0; k < n->n_results; k++) times -= old_of(L, n->results + k) == old;
        bool taken = L->info[old].given != HOP_NONE && L->info[old].given != u;
        if (times || taken) return false;
        for (uint32_t k = 0; k < n->n_operands; k++) {
            val o = node_operands(f, n)[k];
            if (o != old && nest_operand_reads(L, o, old)) return false;
        }
    }
    return nest_read_only_before(L, old, f->values[u].node);
}

/* Is v the parameter but for changes, each made when nothing reads the array before it any more? */
static bool is_parts_of(struct lower *L, val v, val param)
{
    for (val u = v, old; u != param; u = old) {
        old = old_of(L, u);
        if (old == HOP_NONE || !ends_with(L, u, old)) return false;
    }
    return true;
}

static bool is_changed_by_block(struct lower *L, val v, val param)
{
    for (val u = v; u != param; u = old_of(L, u))
        if (!has_part(L, fn_node(L->f, L->f->values[u].node))) return true;
    return false;
}

static void take_memory(struct lower *L, val u, val old)
{
    L->info[u].takes = old;
    L->info[old].given = u;
}

/* Results that are their parameter but for changes made one after the other: each is made in the parameter's
 * memory. */
static void choose_parts(struct lower *L)
{
    const struct fn *f = L->f;
    if (!choice_on(L->S->passes, CHOICE_inplace)) return;
    for (uint32_t r = 0; r < f->n_results; r++) {
        const struct sink *sink = &L->sinks[r];
        if (sink->unused || sink->scalar || sink->overwrites == HOP_NONE) continue;
        if (L->slots[sink->overwrites].kind != SLOT_ARRAY) continue;
        val v = f->results[r], param = sink->overwrites;
        if (times_result(L, v) != 1 || !is_parts_of(L, v, param)) continue;
        if (stays_in_registers(L, sink->array) && !is_changed_by_block(L, v, param)) continue;
        for (val u = v, old; u != param; u = old) {
            old = old_of(L, u);
            if (!has_part(L, fn_node(f, f->values[u].node))) {
                take_memory(L, u, old);
                continue;
            }
            L->info[u].part = true;
            L->info[u].root = false;
        }
    }
}

/* Does v, made here, get memory of its own? */
static bool is_stored(struct lower *L, val v)
{
    uint32_t node = L->f->values[v].node;
    return node != NODE_NONE && (L->info[v].root || nest_is_block(L, fn_node(L->f, node)));
}

/* Values that a node changes and nothing reads afterwards: the new content is made in their memory. */
static void choose_taken(struct lower *L)
{
    const struct fn *f = L->f;
    if (!choice_on(L->S->passes, CHOICE_inplace)) return;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; lower_of(n)->changes && k < n->n_results; k++) {
            val u = n->results + k, old = old_of(L, u);
            bool open = old != HOP_NONE && L->info[u].takes == HOP_NONE && is_stored(L, old);
            if (open && ends_with(L, u, old)) take_memory(L, u, old);
        }
    }
}

/* The value in whose memory v is made in the end: itself, or one that others only change. */
static val made_as(struct lower *L, val v)
{
    while (L->info[v].takes != HOP_NONE) v = L->info[v].takes;
    return v;
}

static void choose_targets(struct lower *L)
{
    for (uint32_t r = 0; r < L->f->n_results; r++) {
        struct sink *sink = &L->sinks[r];
        val v = L->f->results[r], first = made_as(L, v);
        const struct value_info *info = &L->info[first];
        if (sink->unused || sink->scalar || !info->root) continue;
        if (first != v && times_result(L, v) != 1) continue; /* copied when it is complete */
        struct item *item = &L->nest_list.data[info->nest]->items.data[info->item];
        struct target target = { .array = sink->array };
        bool in_place = sink->overwrites == HOP_NONE ||
                        (choice_on(L->S->passes, CHOICE_inplace) && may_overwrite(L, sink->overwrites, info));
        if (!in_place) {
            sink->moved = true;
            target.sink = sink;
        }
        vec_push(L->arena, &item->targets, target);
    }
}

void nest_analyse(struct lower *L)
{
    count_uses(L);
    product_sums(L);
    choose_roots(L);
    choose_parts(L);
    choose_taken(L);
    within_analyse(L);
    schedule(L);
    panels_find(L);
    choose_memory(L);
    choose_targets(L);
}
