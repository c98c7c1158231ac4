/* How often values are read, and computed. Of a body, one bit per parameter: whether elements of it are read
 * more than once, so that a value that is computed where it is read would be computed as often; what the body
 * itself stores is read once. Of an expensive value, a line for explain: where, and how many times. */
#include "loop/lower_impl.h"

#include "ir/loop.h"

static const uint64_t MEMO_REPEATS = 0x72657065617473;

enum { FEW = 4 }; /* elements of a slice that leave most of a vector empty */

/* The parameter of a loop's body that is a slice of operand i, HOP_NONE: it is none, or n no loop. */
static uint32_t slice_param(struct module *m, const struct fn *f, const struct node *n, uint32_t i,
                            struct loop *l)
{
    if (!loop_of_node(m, f, n, l) || l->kind == LOOP_COUNTED) return HOP_NONE;
    uint32_t first = loop_positions(f, n).over;
    return i >= first && i - first < l->n_over ? l->n_carry + i - first : HOP_NONE;
}

bool repeats_in_small_slices(struct module *m, const struct fn *f, const struct node *n, uint32_t i)
{
    struct loop l;
    uint32_t param = slice_param(m, f, n, i, &l);
    if (param == HOP_NONE) return false;
    dim elements = type_elements(m, value_type(l.body, param));
    return dim_is_const(m, elements) && dim_const_value(m, elements) <= FEW;
}

static bool body_repeats(struct module *m, const struct fn *f, const struct node *n, uint32_t i)
{
    struct loop l;
    uint32_t slice = slice_param(m, f, n, i, &l);
    if (slice != HOP_NONE) return repeats_param(m, l.body->id, slice);
    if (node_is_loop(n)) return node_row(n)->lower->operand_use(f, n, i) == USE_MANY;
    for (uint32_t r = 0; r < n->n_regions; r++) {
        uint32_t first = (uint32_t)(node_region_operands(f, n, r) - node_operands(f, n));
        const struct region *region = node_region(f, n, r);
        if (i >= first && i - first < region->n_operands && repeats_param(m, region->fn, i - first))
            return true;
    }
    return false;
}

bool repeats_operand(struct module *m, const struct fn *f, const struct node *n, uint32_t i)
{
    const struct op_lower *row = node_row(n)->lower;
    if (!row) return false;
    if (n->n_regions) return body_repeats(m, f, n, i);
    if (row->kind == LOWER_REDUCE) return row->product != NULL;
    return row->kind == LOWER_POINTWISE && row->access >= ACCESS_REPEAT;
}

/* Is the node computed where its result is read, however often that is? */
static bool is_expanded(const struct node *n)
{
    const struct op_lower *row = node_row(n)->lower;
    return row && row->kind == LOWER_POINTWISE && row->cost != COST_EXPENSIVE;
}

bool repeats_param(struct module *m, uint32_t fn, uint32_t param)
{
    const struct fn *f = module_fn(m, fn);
    const uint64_t key[4] = { MEMO_REPEATS, fn };
    union memo_value known;
    if (memo_get(m, key, &known)) return ((const bool *)known.record)[param];
    hop_check_stack();
    bool *repeated = ARENA_ZNEW(&m->arena, bool, f->n_values);
    for (uint32_t at = f->n_nodes; at-- > 0;) {
        const struct node *n = fn_node(f, at);
        bool often = false;
        for (uint32_t k = 0; k < n->n_results && is_expanded(n); k++) often |= repeated[n->results + k];
        for (uint32_t i = 0; i < n->n_operands; i++)
            repeated[node_operands(f, n)[i]] |= often || repeats_operand(m, f, n, i);
    }
    memo_put(m, key, (union memo_value){ .record = repeated });
    return repeated[param];
}

/* ---- for explain ---- */

enum { MOST_FACTORS = 8 * MAX_RANK, MOST_NOTES = 256 };
struct factors {
    dim dims[MOST_FACTORS];
    uint32_t n;
    bool unknown;
};

static void add_factor(struct lower *L, struct factors *s, dim d)
{
    d = lower_entry_dim(L, d);
    if (d == HOP_NONE || s->n == MOST_FACTORS) s->unknown = true;
    else s->dims[s->n++] = d;
}

/* Points at which the item is computed, each time that its nest runs. */
static void add_points(struct lower *L, struct factors *s)
{
    const struct nest *nest = L->emitting;
    const struct item *item = L->S->writing;
    for (uint32_t i = 0; i < nest->n_outer; i++) add_factor(L, s, nest->outer[i]);
    if (nest->inner != HOP_NONE && item->class != ITEM_SCALAR) add_factor(L, s, nest->inner);
    bool own_loops = item->class == ITEM_COLUMN || item->class == ITEM_ALONE;
    const struct node *n = fn_node(L->f, item->node);
    const struct op_lower *row = node_row(n)->lower;
    if (!own_loops || row->kind != LOWER_REDUCE) return;
    dim extents[MAX_RANK];
    uint32_t folded = row->reduced(L->S->m, L->f, n, extents);
    for (uint32_t i = 0; i < folded; i++) add_factor(L, s, extents[i]);
}

/* Steps of the loops around the writer's function, up to that of L. */
static void add_steps(const struct lower *L, struct lower *writer, struct factors *s)
{
    for (struct lower *at = writer; at != L && at->outer; at = at->outer) {
        struct loop l;
        if (!loop_of_node(L->S->m, at->outer->f, at->around, &l)) continue;
        if (loop_has_length(&l)) add_factor(at->outer, s, l.length);
        else s->unknown = true;
    }
}

static dim product_of(struct module *m, const struct factors *s)
{
    dim all = 1;
    for (uint32_t i = 0; i < s->n; i++) all = dim_mul(m, all, s->dims[i]);
    return all;
}

/* How often each element is computed; HOP_NONE: not known so simply. */
static dim times_each(struct lower *L, struct factors *points, struct factors *elements)
{
    struct module *m = L->S->m;
    if (points->unknown || elements->unknown) return HOP_NONE;
    for (uint32_t i = elements->n; i-- > 0;) {
        uint32_t same = 0;
        while (same < points->n && points->dims[same] != elements->dims[i]) same++;
        if (same == points->n) continue;
        points->dims[same] = points->dims[--points->n];
        elements->dims[i] = elements->dims[--elements->n];
    }
    dim computed = product_of(m, points), each = product_of(m, elements);
    if (dim_is_const(m, computed) && dim_is_const(m, each)) {
        int64_t least = HOP_MAX(dim_const_value(m, each), 1);
        return dim_const(m, HOP_MAX(dim_const_value(m, computed) / least, 1));
    }
    return each == 1 ? computed : HOP_NONE;
}

static bool same_place(struct place a, struct place b) { return a.file == b.file && a.line == b.line; }

void repeats_note(struct lower *L, val v)
{
    struct lp *p = L->S->p;
    struct lower *writer = L->S->writer;
    struct type t = type_get(L->S->m, value_type(L->f, v));
    const struct node *n = fn_node(L->f, L->f->values[v].node);
    if (!t.rank || p->computed.len == MOST_NOTES) return;
    struct factors points = { .n = 0 }, elements = { .n = 0 };
    for (uint32_t i = 0; i < t.rank; i++) add_factor(L, &elements, t.dims[i]);
    struct lp_computed c = { .op = node_row(n)->name,
                             .name = L->f->values[v].name,
                             .place = n->place,
                             .elements = elements.unknown ? HOP_NONE : product_of(L->S->m, &elements),
                             .times = 1,
                             .why = L->info[v].root ? L->info[v].why : NULL,
                             .stepwise = L->S->loop_depth > 0 };
    if (writer && !c.why) {
        add_points(writer, &points);
        add_steps(L, writer, &points);
        c.times = times_each(L, &points, &elements);
        c.reader = fn_node(writer->f, L->S->writing->node)->place;
    }
    for (uint32_t i = 0; i < p->computed.len; i++) {
        const struct lp_computed *o = &p->computed.data[i];
        bool same = same_place(o->place, c.place) && o->op == c.op && o->name == c.name;
        if (same && same_place(o->reader, c.reader) && o->times == c.times) return;
    }
    vec_push(&p->arena, &p->computed, c);
}
