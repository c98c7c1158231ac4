/* Packing: many small values with the same computation become one array. Groups of carries, of stacked values
 * and of equal expressions are walked backwards, operand by operand, as long as all lanes are made by one
 * operator; what comes out is computed once for all lanes. A function comes in, and goes out with arrays
 * wherever that pays. Results of a switch are lanes like others: its branches are packed in the same way,
 * given the packs around as arrays. */
#include "loop/lower.h"
#include "transform/pack.h"
#include "transform/transform.h"

/* What pays, in operations on one number. An operator on n lanes costs as much as on n / WIDTH; what its
 * lanes are put together from, and what is taken out of arrays again, must cost less than half of what is
 * saved. */
enum {
    WIDTH = 8,         /* half as many of 8 bytes */
    EXPENSIVE = 10,    /* exp, sin, division, … */
    PIECE = 2,         /* per vector and further piece of a list: an access and a choice */
    GATHERED = 2,      /* per element read at a listed place */
    TAKEN = 2,         /* per lane that is needed by itself */
    TAKEN_CARRY = 1,   /* the same of a carry: it would have been in memory anyway */
    MIN_GAIN = 16,     /* of a group */
    MAX_ELEMENTS = 16, /* of a lane: larger ones are vectors by themselves */
    MIN_TRIPS = 4,     /* arrays are made in front of the loop and taken apart behind it */
    MAX_DEPTH = 1000,  /* of expressions: they are walked by recursion */
    MAX_WITHIN = 2,    /* switches in branches: one that stands in many places is looked at in each */
    MAX_TRIES = 16
};

static const uint64_t MEMO_TAG = 0x7061636b;

/* ---- looking at values ---- */

static bool is_small(struct module *m, type_id t)
{
    int64_t n = static_elements(m, t);
    return n >= 1 && n <= MAX_ELEMENTS && type_get(m, t).rank + 2 <= MAX_RANK;
}

static bool is_static(struct module *m, type_id t) { return static_elements(m, t) >= 0; }

static const struct node *made_by(const struct fn *f, val v)
{
    return f->values[v].node == NODE_NONE ? NULL : fn_node(f, f->values[v].node);
}

bool value_is_number(const struct packing *p, val v)
{
    const struct node *n = made_by(p->g, v);
    return n && (n->op == OP_full || n->op == OP_constant) && is_small(p->m, value_type(p->g, v));
}

/* May it become a lane of an array computed by the same operator? */
static bool packs(const struct packing *p, val v)
{
    const struct node *n = made_by(p->g, v);
    return n && node_row(n)->flags & OPF_ELEMENTWISE && n->n_operands && n->n_results == 1 &&
           node_is_pure(p->m, p->g, n) && is_small(p->m, value_type(p->g, v));
}

/* Where does the part of an array that a slice takes begin, in elements? -1: the part does not lie together.
 */
static int64_t slice_offset(struct module *m, struct type t, const struct attr *start,
                            const struct attr *limit, uint32_t lead)
{
    int64_t offset = 0;
    bool whole = false; /* from here on all of every dim must be taken */
    for (uint32_t d = 0; d < t.rank; d++) {
        if (d < lead) {
            if (start->list[d] != 0 || limit->list[d] != t.dims[d]) return -1;
            continue;
        }
        if (!dim_is_const(m, t.dims[d]) || !dim_is_const(m, start->list[d]) ||
            !dim_is_const(m, limit->list[d]))
            return -1;
        int64_t size = dim_const_value(m, t.dims[d]);
        int64_t from = dim_const_value(m, start->list[d]);
        int64_t taken = dim_const_value(m, limit->list[d]) - from;
        if (whole && taken != size) return -1;
        whole |= taken != 1;
        offset = offset * size + from;
    }
    return offset;
}

bool row_of_array(struct module *m, const struct fn *f, val v, uint32_t lead, val *array, int64_t *row,
                  type_id *type)
{
    struct type lane = type_get(m, value_type(f, v));
    const struct node *n = made_by(f, v);
    while (n && n->op == OP_reshape) n = made_by(f, node_operands(f, n)[0]);
    if (!n || n->op != OP_slice || lane.rank < lead || lane.rank + 1 > MAX_RANK) return false;
    const struct attr *step = node_attr(f, n, SLICE_STEP);
    for (uint32_t i = 0; step->kind == ATTR_INTS && i < step->n; i++)
        if (step->list[i] != 1) return false;
    *array = node_operands(f, n)[0];
    struct type t = type_get(m, value_type(f, *array));
    if (t.rank <= lead) return false;
    const struct attr *start = node_attr(f, n, SLICE_START);
    const struct attr *limit = node_attr(f, n, SLICE_LIMIT);
    int64_t offset = slice_offset(m, t, start, limit, lead);
    if (offset < 0) return false;
    dim dims[MAX_RANK];
    int64_t elements = 1, all = 1; /* of the row, and of the array */
    for (uint32_t d = 0; d < lead; d++) {
        if (lane.dims[d] != t.dims[d]) return false;
        dims[d] = lane.dims[d];
    }
    for (uint32_t d = lead; d < lane.rank; d++) {
        if (!dim_is_const(m, lane.dims[d])) return false;
        dims[d + 1] = lane.dims[d];
        elements *= dim_const_value(m, lane.dims[d]);
    }
    for (uint32_t d = lead; d < t.rank; d++) all *= dim_const_value(m, t.dims[d]);
    if (elements < 1 || all % elements || offset % elements || all / elements > INT32_MAX) return false;
    *row = offset / elements;
    dims[lead] = dim_const(m, all / elements);
    *type = type_intern(m, (enum dtype)lane.dtype, lane.rank + 1u, dims);
    return true;
}

/* The same where the lanes of the array stand along its last dim. */
static bool lane_of_array(struct module *m, const struct fn *f, val v, val *array, int64_t *at)
{
    struct type lane = type_get(m, value_type(f, v));
    const struct node *n = made_by(f, v);
    while (n && n->op == OP_reshape) n = made_by(f, node_operands(f, n)[0]);
    if (!n || n->op != OP_slice || node_attr(f, n, SLICE_STEP)->kind != ATTR_ABSENT) return false;
    *array = node_operands(f, n)[0];
    struct type t = type_get(m, value_type(f, *array));
    const dim *start = node_attr(f, n, SLICE_START)->list;
    const dim *limit = node_attr(f, n, SLICE_LIMIT)->list;
    if (t.rank != lane.rank + 1) return false;
    for (uint32_t d = 0; d < lane.rank; d++)
        if (start[d] != 0 || limit[d] != t.dims[d] || lane.dims[d] != t.dims[d]) return false;
    dim last = t.dims[lane.rank], from = start[lane.rank];
    if (!dim_is_const(m, last) || !dim_is_const(m, from) || limit[lane.rank] != dim_add(m, from, 1))
        return false;
    *at = dim_const_value(m, from);
    return true;
}

bool array_with(struct module *m, const struct fn *f, val v, struct pack *out, int64_t *at)
{
    type_id lane = value_type(f, v), type;
    val array;
    if (!is_small(m, lane)) return false;
    *out = (struct pack){ .kind = PACK_ARRAY, .seed = HOP_NONE, .lane = lane, .made = VAL_NONE };
    if (row_of_array(m, f, v, 0, &array, at, &type)) {
        out->n = (uint32_t)dim_const_value(m, type_get(m, type).dims[0]);
    } else if (lane_of_array(m, f, v, &array, at)) {
        uint32_t last = type_get(m, lane).rank;
        out->across = true;
        out->n = (uint32_t)dim_const_value(m, type_get(m, value_type(f, array)).dims[last]);
    } else {
        return false;
    }
    out->array = array;
    return true;
}

const val *stacked_values(const struct packing *p, const struct node *n, uint32_t *count)
{
    const struct fn *g = p->g;
    if (n->op != OP_concat || node_attr(g, n, CONCAT_DIM)->i != 0) return NULL;
    if (!is_static(p->m, value_type(g, n->results))) return NULL;
    struct type t = type_get(p->m, value_type(g, n->results));
    val *list = ARENA_NEW(p->a, val, (size_t)dim_const_value(p->m, t.dims[0]));
    *count = 0;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        const struct node *part = made_by(g, node_operands(g, n)[k]);
        if (!part || (part->op != OP_reshape && (part->op != OP_broadcast || t.rank > 1))) return NULL;
        val v = node_operands(g, part)[0];
        type_id whole = value_type(g, part->results);
        int64_t times = dim_const_value(p->m, type_get(p->m, whole).dims[0]);
        if (!is_small(p->m, value_type(g, v))) return NULL;
        if (type_prepend(p->m, value_type(g, v), dim_const(p->m, times)) != whole) return NULL;
        if (part->op == OP_reshape && times != 1) return NULL;
        for (; times > 0; times--) list[(*count)++] = v;
    }
    return *count >= MIN_LANES ? list : NULL;
}

/* ---- lists ---- */

struct segment list_segment(const struct packing *p, const val *list, uint32_t n, uint32_t first)
{
    struct home at = p->home[list[first]];
    uint32_t same = 1, up = 1, down = 1, numbers = 0;
    while (first + numbers < n && value_is_number(p, list[first + numbers])) numbers++;
    if (numbers) return (struct segment){ SEGMENT_NUMBERS, false, first, numbers };
    while (first + same < n && list[first + same] == list[first]) same++;
    if (at.pack == HOP_NONE) return (struct segment){ SEGMENT_SAME, false, first, same };
    for (; first + up < n; up++) {
        struct home next = p->home[list[first + up]];
        if (next.pack != at.pack || next.lane != at.lane + up) break;
    }
    for (; first + down < n; down++) {
        struct home next = p->home[list[first + down]];
        if (next.pack != at.pack || next.lane + down != at.lane) break;
    }
    if (same > up && same > down) return (struct segment){ SEGMENT_SAME, false, first, same };
    return (struct segment){ SEGMENT_ROWS, down > up, first, HOP_MAX(up, down) };
}

static uint32_t count_segments(const struct packing *p, const val *list, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < n; count++) at += list_segment(p, list, n, at).n;
    return count;
}

bool list_is_gather(const struct packing *p, const val *list, uint32_t n)
{
    uint32_t first = p->home[list[0]].pack;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t pack = p->home[list[k]].pack;
        if (pack == HOP_NONE || pack != first) return false;
    }
    return count_segments(p, list, n) > MAX_SEGMENTS;
}

/* ---- facts about the function ---- */

static uint64_t attr_word(const struct attr *a)
{
    if (attr_is_list(a)) return a->n ? hash_bytes(a->list, a->n * sizeof *a->list, a->kind) : a->kind;
    return a->kind == ATTR_ABSENT ? 0 : hash_mix(a->kind, (uint64_t)a->i);
}

/* Equal for values that one operator makes, equally deep, of operands with equal shapes. */
static uint64_t shape_of(const struct packing *p, const struct node *n, uint32_t depth)
{
    const struct fn *g = p->g;
    const struct op_row *row = node_row(n);
    uint64_t h = hash_mix(hash_mix(n->op, depth), value_type(g, n->results));
    for (uint32_t k = 0; k < row->sig.n_attrs; k++) h = hash_mix(h, attr_word(node_attr(g, n, k)));
    uint64_t operands = 0;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        uint64_t shape = p->shape[node_operands(g, n)[k]];
        operands = row->flags & OPF_COMMUTES ? operands + shape : hash_mix(operands, shape);
    }
    return hash_mix(h, operands);
}

static bool measure(struct packing *p, uint32_t *candidates);

/* A switch without effects gets ready to be packed; the shape of a result is that of what the branches give.
 */
static void measure_switch(struct packing *p, const struct node *n, uint32_t number)
{
    if (n->op != OP_switch || n->n_results < MIN_LANES || p->within == MAX_WITHIN) return;
    if (!node_is_pure(p->m, p->g, n)) return;
    struct pack_switch s = { .n = n, .branches = ARENA_NEW(p->a, struct packing, n->n_regions) };
    uint32_t candidates;
    for (uint32_t r = 0; r < n->n_regions; r++) {
        s.branches[r] = (struct packing){ .m = p->m,
                                          .a = p->a,
                                          .g = module_fn(p->m, node_region(p->g, n, r)->fn),
                                          .differentiated = p->differentiated,
                                          .within = p->within + 1 };
        if (!measure(&s.branches[r], &candidates)) return;
    }
    for (uint32_t k = 0; k < n->n_results; k++) {
        uint64_t h = hash_mix(hash_mix(13, number), value_type(p->g, n->results + k));
        for (uint32_t r = 0; r < n->n_regions; r++) {
            const struct packing *branch = &s.branches[r];
            val v = branch->g->results[k];
            h = hash_mix(hash_mix(h, branch->shape[v]), branch->depth[v]);
        }
        p->shape[n->results + k] = h;
    }
    p->switch_of[number] = p->switches.len;
    vec_push(p->a, &p->switches, s);
}

/* Depths and shapes; false when there is nothing to be done with the function. candidates: how many values
 * may become lanes. */
static bool measure(struct packing *p, uint32_t *candidates)
{
    const struct fn *g = p->g;
    uint32_t effects = 0; /* the depth of the last node with one */
    *candidates = 0;
    p->depth = ARENA_ZNEW(p->a, uint32_t, g->n_values);
    p->shape = ARENA_NEW(p->a, uint64_t, g->n_values);
    p->switch_of = ARENA_NEW(p->a, uint32_t, g->n_nodes);
    for (val v = 0; v < g->n_values; v++) p->shape[v] = hash_mix(7, value_type(g, v));
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        uint32_t depth = 0;
        struct pack array;
        int64_t at;
        p->switch_of[i] = HOP_NONE;
        for (uint32_t k = 0; k < n->n_operands; k++)
            depth = HOP_MAX(depth, 1 + p->depth[node_operands(g, n)[k]]);
        if (node_effects(p->m, g, n)) {
            depth = HOP_MAX(depth, effects + 1);
            effects = depth;
        }
        if (depth > MAX_DEPTH) return false;
        bool takes_part = n->n_results == 1 && (n->op == OP_reshape || n->op == OP_slice);
        if (takes_part && array_with(p->m, g, n->results, &array, &at)) depth = p->depth[array.array];
        for (uint32_t k = 0; k < n->n_results; k++) p->depth[n->results + k] = depth;
        measure_switch(p, n, i);
        if (n->n_results != 1 || !packs(p, n->results)) continue;
        p->shape[n->results] = shape_of(p, n, depth);
        ++*candidates;
    }
    return g->n_symbols == g->n_outer_symbols;
}

/* ---- packs ---- */

static uint32_t new_pack(struct packing *p, struct pack pack)
{
    pack.made = VAL_NONE;
    vec_push(p->a, &p->packs, pack);
    return p->packs.len - 1;
}

static void move_in(struct packing *p, uint32_t pack, const val *lanes, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) p->home[lanes[k]] = (struct home){ pack, k };
}

static bool is_banned(const struct packing *p, uint64_t key)
{
    for (uint32_t k = 0; k < p->banned.len; k++)
        if (p->banned.data[k] == key) return true;
    return false;
}

static uint32_t new_seed(struct packing *p, uint64_t key)
{
    vec_push(p->a, &p->seeds, (struct seed){ .key = key });
    return p->seeds.len - 1;
}

static struct pack_switch *switch_of_value(const struct packing *p, val v)
{
    uint32_t made_by = p->g->values[v].node;
    if (made_by == NODE_NONE || !p->switch_of || p->switch_of[made_by] == HOP_NONE) return NULL;
    return &p->switches.data[p->switch_of[made_by]];
}

struct pack_switch *switch_with_packs(const struct packing *p, val v)
{
    struct pack_switch *s = switch_of_value(p, v);
    return s && s->packs.len ? s : NULL;
}

/* Is it a small result of a switch, of the same type in every branch? */
static bool is_chosen(const struct packing *p, val v)
{
    const struct pack_switch *s = switch_of_value(p, v);
    type_id type = value_type(p->g, v);
    if (!s || !is_small(p->m, type)) return false;
    for (uint32_t r = 0; r < s->n->n_regions; r++) {
        const struct fn *branch = s->branches[r].g;
        if (value_type(branch, branch->results[v - s->n->results]) != type) return false;
    }
    return true;
}

/* Made by one operator in the same way. Equal depths keep lanes from depending on each other, through
 * whatever other packs. */
static bool same_kind(const struct packing *p, val v, val w)
{
    const struct fn *g = p->g;
    const struct node *x = made_by(g, v), *y = made_by(g, w);
    if (x->n_results > 1) return x == y && value_type(g, v) == value_type(g, w) && p->shape[v] == p->shape[w];
    if (x->op != y->op || x->n_operands != y->n_operands) return false;
    if (p->depth[v] != p->depth[w] || value_type(g, v) != value_type(g, w)) return false;
    for (uint32_t k = 0; k < x->n_operands; k++)
        if (value_type(g, node_operands(g, x)[k]) != value_type(g, node_operands(g, y)[k])) return false;
    for (uint32_t k = 0; k < node_row(x)->sig.n_attrs; k++)
        if (!attrs_equal(node_attr(g, x, k), node_attr(g, y, k))) return false;
    return true;
}

/* How well does y go on where x stands in a list? */
static uint32_t follows(const struct packing *p, val x, val y)
{
    struct home a = p->home[x], b = p->home[y];
    if (x == y) return 2;
    if (a.pack != HOP_NONE) {
        bool together = a.pack == b.pack;
        bool neighbours = b.lane == a.lane + 1 || a.lane == b.lane + 1;
        return together && neighbours ? 2 : together;
    }
    if (b.pack != HOP_NONE) return 0;
    if (y == x + 1) return 2; /* parameters, in order */
    return p->shape[x] == p->shape[y];
}

/* Where the operator commutes, each lane's operands are put in the order of the first lane's expressions, or
 * of the lane before. */
static bool operands_swap(const struct packing *p, const val *x, const val *model, const val *before)
{
    uint64_t left = p->shape[model[0]], right = p->shape[model[1]];
    if (left != right) return p->shape[x[0]] == right && p->shape[x[1]] == left;
    uint32_t straight = follows(p, before[0], x[0]) + follows(p, before[1], x[1]);
    uint32_t crossed = follows(p, before[0], x[1]) + follows(p, before[1], x[0]);
    return crossed > straight;
}

/* Operands of the lanes, position by position. */
static void pack_nodes(struct packing *p, const val *lanes, uint32_t n, uint32_t seed)
{
    const struct fn *g = p->g;
    const struct node *first = made_by(g, lanes[0]);
    const val *model = node_operands(g, first);
    bool commutes = node_row(first)->flags & OPF_COMMUTES && first->n_operands == 2;
    val **operands = ARENA_NEW(p->a, val *, first->n_operands);
    for (uint32_t i = 0; i < first->n_operands; i++) operands[i] = ARENA_NEW(p->a, val, n);
    for (uint32_t k = 0; k < n; k++) {
        const val *x = node_operands(g, made_by(g, lanes[k]));
        bool swap = false;
        if (k && commutes) {
            val before[2] = { operands[0][k - 1], operands[1][k - 1] };
            swap = operands_swap(p, x, model, before);
        }
        for (uint32_t i = 0; i < first->n_operands; i++) operands[i][k] = x[swap ? 1 - i : i];
    }
    uint32_t made = new_pack(p, (struct pack){ .kind = PACK_NODES,
                                               .n = n,
                                               .seed = seed,
                                               .lane = value_type(g, lanes[0]),
                                               .lanes = lanes,
                                               .operands = operands });
    move_in(p, made, lanes, n);
    vec_push(p->a, &p->work, made);
}

static void pack_results(struct packing *p, const val *lanes, uint32_t n, uint32_t seed)
{
    uint32_t made = new_pack(p, (struct pack){ .kind = PACK_SWITCH,
                                               .n = n,
                                               .seed = seed,
                                               .lane = value_type(p->g, lanes[0]),
                                               .lanes = lanes });
    move_in(p, made, lanes, n);
    vec_push(p->a, &switch_of_value(p, lanes[0])->packs, made);
    vec_push(p->a, &p->work, made);
}

/* May it become a lane, and is it none yet? */
static bool is_free(const struct packing *p, val v)
{
    return p->home[v].pack == HOP_NONE && (packs(p, v) || is_chosen(p, v));
}

/* Values of a list that are nowhere yet and made by one operator become a pack, if there are enough of them.
 */
static void pack_list(struct packing *p, const val *list, uint32_t n, uint32_t seed)
{
    bool *seen = ARENA_ZNEW(p->a, bool, n);
    for (uint32_t first = 0; first + MIN_LANES <= n; first++) {
        if (seen[first] || !is_free(p, list[first])) continue;
        val *lanes = ARENA_NEW(p->a, val, n);
        uint32_t count = 0;
        for (uint32_t k = first; k < n; k++) {
            if (seen[k] || !is_free(p, list[k]) || !same_kind(p, list[first], list[k])) continue;
            bool again = count && lanes[count - 1] == list[k];
            for (uint32_t i = 0; i < count && !again && n <= 64; i++) again = lanes[i] == list[k];
            seen[k] = true;
            if (!again) lanes[count++] = list[k];
        }
        if (count < MIN_LANES) continue;
        if (is_chosen(p, lanes[0])) pack_results(p, lanes, count, seed);
        else pack_nodes(p, lanes, count, seed);
    }
}

static void pack_operands(struct packing *p)
{
    while (p->work.len) {
        struct pack pack = p->packs.data[p->work.data[--p->work.len]];
        const struct node *n = made_by(p->g, pack.lanes[0]);
        for (uint32_t i = 0; pack.kind == PACK_NODES && i < n->n_operands; i++)
            pack_list(p, pack.operands[i], pack.n, pack.seed);
        for (uint32_t r = 0; pack.kind == PACK_SWITCH && r < n->n_regions; r++) {
            const struct region *branch = node_region(p->g, n, r);
            pack_list(p, node_operands(p->g, n) + branch->operands, branch->n_operands, pack.seed);
        }
    }
}

/* ---- what is there already ---- */

static void find_rows(struct packing *p)
{
    uint32_t *pack_of = ARENA_NEW(p->a, uint32_t, p->g->n_values);
    memset(pack_of, 0xff, p->g->n_values * sizeof *pack_of);
    for (uint32_t i = 0; i < p->g->n_nodes; i++) {
        const struct node *n = fn_node(p->g, i);
        struct pack pack;
        int64_t lane;
        if (n->op != OP_reshape && n->op != OP_slice) continue;
        if (!array_with(p->m, p->g, n->results, &pack, &lane)) continue;
        uint32_t at = pack_of[pack.array];
        while (at != HOP_NONE) {
            const struct pack *known = &p->packs.data[at];
            if (known->lane == pack.lane && known->across == pack.across) break;
            at = known->other;
        }
        if (at == HOP_NONE) {
            pack.other = pack_of[pack.array];
            at = new_pack(p, pack);
            pack_of[pack.array] = at;
        }
        p->home[n->results] = (struct home){ at, (uint32_t)lane };
    }
}

/* Is slice k of the loop a column of the array, like others of this type? */
static bool is_column_of(const struct packing *p, uint32_t k, val array, type_id lane, int64_t *column)
{
    val from;
    type_id type;
    if (value_type(p->g, k) != lane) return false;
    val xs = node_operands(p->outer, p->around)[k];
    return row_of_array(p->m, p->outer, xs, 1, &from, column, &type) && from == array;
}

/* Slices of a scan that are columns of an array of which at least half is read. */
static void find_columns(struct packing *p)
{
    const struct loop *l = p->l;
    if (!loop_has_length(l)) return;
    for (uint32_t i = l->n_carry; i < loop_first_with(l); i++) {
        val array;
        int64_t column;
        type_id type, lane = value_type(p->g, i);
        val xs = node_operands(p->outer, p->around)[i];
        if (p->home[i].pack != HOP_NONE || !is_small(p->m, lane)) continue;
        if (!row_of_array(p->m, p->outer, xs, 1, &array, &column, &type)) continue;
        uint32_t n = (uint32_t)dim_const_value(p->m, type_get(p->m, type).dims[1]);
        uint32_t read = 0;
        for (uint32_t k = i; k < loop_first_with(l); k++) read += is_column_of(p, k, array, lane, &column);
        if (read < MIN_LANES || read < n / 2) continue;
        uint32_t made = new_pack(
            p, (struct pack){ .kind = PACK_OVER, .n = n, .seed = HOP_NONE, .lane = lane, .array = array });
        for (uint32_t k = i; k < loop_first_with(l); k++)
            if (is_column_of(p, k, array, lane, &column))
                p->home[k] = (struct home){ made, (uint32_t)column };
    }
}

/* Nothing is packed but what is there. */
static void start_packs(struct packing *p)
{
    p->home = ARENA_NEW(p->a, struct home, p->g->n_values);
    for (val v = 0; v < p->g->n_values; v++) p->home[v] = (struct home){ HOP_NONE, 0 };
    p->wanted = ARENA_ZNEW(p->a, bool, p->g->n_values);
    p->packs.len = 0;
    p->seeds.len = 0;
    p->work.len = 0;
    for (uint32_t k = 0; k < p->switches.len; k++) {
        p->switches.data[k].packs.len = 0;
        p->switches.data[k].needed = false;
    }
    find_rows(p);
}

/* ---- seeds ---- */

/* Members of a list of values with one key, in order: next[k] is the following one, HOP_NONE the end. */
struct groups {
    uint64_t *keys;
    uint32_t *first, *last, *next, *size;
    uint32_t n;
};

static struct groups group_by(struct arena *a, const uint64_t *key, const bool *in, uint32_t n)
{
    struct groups s = { .keys = ARENA_NEW(a, uint64_t, n),
                        .first = ARENA_NEW(a, uint32_t, n),
                        .last = ARENA_NEW(a, uint32_t, n),
                        .next = ARENA_NEW(a, uint32_t, n),
                        .size = ARENA_ZNEW(a, uint32_t, n) };
    struct map map = { .arena = a };
    for (uint32_t k = 0; k < n; k++) {
        if (!in[k]) continue;
        s.next[k] = HOP_NONE;
        uint32_t it = map_first(&map, key[k]);
        uint32_t g = it == HOP_NONE ? s.n : map_value(&map, it);
        if (g == s.n) {
            map_put(&map, key[k], g);
            s.keys[g] = key[k];
            s.first[g] = k;
            s.n++;
        } else {
            s.next[s.last[g]] = k;
        }
        s.last[g] = k;
        s.size[g]++;
    }
    return s;
}

static const val *members(struct arena *a, const struct groups *s, uint32_t g)
{
    val *list = ARENA_NEW(a, val, s->size[g]);
    uint32_t n = 0;
    for (uint32_t k = s->first[g]; k != HOP_NONE; k = s->next[k]) list[n++] = k;
    return list;
}

/* Carries of one type whose next values are equal expressions. All of them move in before the first
 * expression is looked at. */
static void seed_carries(struct packing *p)
{
    const struct loop *l = p->l;
    uint64_t *key = ARENA_NEW(p->a, uint64_t, l->n_carry);
    bool *in = ARENA_NEW(p->a, bool, l->n_carry);
    for (uint32_t i = 0; i < l->n_carry; i++) {
        val next = p->g->results[i];
        key[i] = hash_mix(hash_mix(value_type(p->g, i), p->shape[next]), p->depth[next]);
        in[i] = is_small(p->m, value_type(p->g, i));
    }
    struct groups s = group_by(p->a, key, in, l->n_carry);
    uint32_t first = p->packs.len;
    for (uint32_t g = 0; g < s.n; g++) {
        if (s.size[g] < MIN_LANES || is_banned(p, s.keys[g])) continue;
        const val *lanes = members(p->a, &s, g);
        bool same = true; /* unless hashes meet by chance */
        for (uint32_t k = 0; k < s.size[g]; k++)
            same &= value_type(p->g, lanes[k]) == value_type(p->g, lanes[0]);
        if (!same) continue;
        uint32_t seed = new_seed(p, s.keys[g]);
        uint32_t made = new_pack(p, (struct pack){ .kind = PACK_CARRY,
                                                   .n = s.size[g],
                                                   .seed = seed,
                                                   .lane = value_type(p->g, lanes[0]),
                                                   .lanes = lanes });
        move_in(p, made, lanes, s.size[g]);
    }
    for (uint32_t k = first, end = p->packs.len; k < end; k++) {
        struct pack pack = p->packs.data[k];
        val *next = ARENA_NEW(p->a, val, pack.n);
        for (uint32_t i = 0; i < pack.n; i++) next[i] = p->g->results[pack.lanes[i]];
        pack_list(p, next, pack.n, pack.seed);
        pack_operands(p);
    }
}

/* Values that are put together into an array anyway. */
static void seed_stacks(struct packing *p)
{
    for (uint32_t i = p->g->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(p->g, i);
        uint32_t count;
        const val *list = stacked_values(p, n, &count);
        uint64_t key = hash_mix(11, i);
        if (!list || is_banned(p, key)) continue;
        uint32_t seed = new_seed(p, key);
        pack_list(p, list, count, seed);
        pack_operands(p);
    }
}

/* Equal expressions that nothing else led to, the deepest first. */
static void seed_expressions(struct packing *p)
{
    uint32_t n = p->g->n_values, deepest = 0;
    bool *in = ARENA_NEW(p->a, bool, n);
    for (val v = 0; v < n; v++) {
        in[v] = p->home[v].pack == HOP_NONE && packs(p, v);
        if (in[v]) deepest = HOP_MAX(deepest, p->depth[v]);
    }
    struct groups s = group_by(p->a, p->shape, in, n);
    for (uint32_t depth = deepest + 1; depth-- > 0;)
        for (uint32_t g = 0; g < s.n; g++) {
            val first = s.first[g];
            if (p->depth[first] != depth || p->home[first].pack != HOP_NONE) continue;
            if (s.size[g] < MIN_LANES || is_banned(p, s.keys[g])) continue;
            pack_list(p, members(p->a, &s, g), s.size[g], new_seed(p, s.keys[g]));
            pack_operands(p);
        }
}

/* ---- what it is worth ---- */

/* Vectors of n lanes, and of one array that stands by itself. */
static int64_t width_of(struct packing *p, type_id lane)
{
    return dtype_info[type_get(p->m, lane).dtype].size > 4 ? WIDTH / 2 : WIDTH;
}
static int64_t vectors(struct packing *p, type_id lane, uint32_t n)
{
    return static_elements(p->m, lane) * ((n + width_of(p, lane) - 1) / width_of(p, lane));
}
static int64_t vectors_alone(struct packing *p, type_id lane)
{
    return (static_elements(p->m, lane) + width_of(p, lane) - 1) / width_of(p, lane);
}

static void want_value(struct packing *p, val v);
static void want_pack(struct packing *p, uint32_t k);
static void want_switch(struct packing *p, struct pack_switch *s);

static void pay(struct packing *p, uint32_t seed, int64_t cost)
{
    if (seed != HOP_NONE) p->seeds.data[seed].cost += cost;
}

static void want_list(struct packing *p, const val *list, uint32_t n, uint32_t seed)
{
    type_id lane = value_type(p->g, list[0]);
    uint32_t count = 0;
    for (uint32_t at = 0; at < n; count++) {
        struct segment s = list_segment(p, list, n, at);
        if (s.kind == SEGMENT_SAME) want_value(p, list[at]);
        if (s.kind == SEGMENT_ROWS) {
            uint32_t k = p->home[list[at]].pack;
            const struct pack *pack = &p->packs.data[k];
            bool rows_become_columns = pack->kind == PACK_ARRAY && !pack->across && type_get(p->m, lane).rank;
            want_pack(p, k);
            if (rows_become_columns) pay(p, seed, GATHERED * static_elements(p->m, lane) * s.n);
        }
        at += s.n;
    }
    if (list_is_gather(p, list, n)) pay(p, seed, GATHERED * static_elements(p->m, lane) * n);
    else pay(p, seed, PIECE * vectors(p, lane, n) * (count - 1));
}

static void want_pack(struct packing *p, uint32_t k)
{
    struct pack *pack = &p->packs.data[k];
    if (pack->needed) return;
    pack->needed = true;
    if (pack->kind == PACK_ARRAY) want_value(p, pack->array);
    if (pack->kind == PACK_SWITCH) {
        int64_t handed_over = pack->n * vectors_alone(p, pack->lane) - vectors(p, pack->lane, pack->n);
        p->seeds.data[pack->seed].gain += handed_over;
        want_switch(p, switch_of_value(p, pack->lanes[0]));
    }
    if (pack->kind != PACK_NODES) return;
    const struct node *n = made_by(p->g, pack->lanes[0]);
    int64_t weight = node_row(n)->lower && node_row(n)->lower->cost == COST_EXPENSIVE ? EXPENSIVE : 1;
    int64_t apart = vectors_alone(p, pack->lane) * pack->n;
    int64_t together = vectors(p, pack->lane, pack->n);
    p->seeds.data[pack->seed].gain += weight * (apart - together);
    for (uint32_t i = 0; i < n->n_operands; i++) want_list(p, pack->operands[i], pack->n, pack->seed);
}

/* An array that was put together piece by piece: whoever holds its lanes now spares that. */
static void want_stacked(struct packing *p, const val *list, uint32_t n, uint32_t pieces)
{
    uint32_t now = count_segments(p, list, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t pack = p->home[list[k]].pack;
        uint32_t seed = pack == HOP_NONE ? HOP_NONE : p->packs.data[pack].seed;
        if (seed == HOP_NONE || now >= pieces) continue;
        p->seeds.data[seed].gain += PIECE * vectors(p, value_type(p->g, list[0]), n) * (pieces - now);
        break;
    }
    want_list(p, list, n, HOP_NONE);
}

/* What it costs to take a lane out of the pack. */
static int64_t taking_cost(struct packing *p, const struct pack *pack)
{
    int64_t each = 0;
    if (pack->kind == PACK_NODES || pack->kind == PACK_SWITCH) each = TAKEN;
    if (pack->kind == PACK_CARRY) each = TAKEN_CARRY;
    /* The gradient of a row is an array with zeros around it. */
    if (p->differentiated) each += PIECE * vectors(p, pack->lane, pack->n);
    return each * static_elements(p->m, pack->lane);
}

static void want_value(struct packing *p, val v)
{
    struct home at = p->home[v];
    if (p->wanted[v]) return;
    p->wanted[v] = true;
    if (at.pack != HOP_NONE && p->packs.data[at.pack].kind != PACK_ARRAY) {
        const struct pack *pack = &p->packs.data[at.pack];
        pay(p, pack->seed, taking_cost(p, pack));
        want_pack(p, at.pack);
        return;
    }
    struct pack_switch *s = switch_with_packs(p, v);
    if (s) {
        want_switch(p, s);
        return;
    }
    const struct node *n = made_by(p->g, v);
    uint32_t count;
    const val *list = n ? stacked_values(p, n, &count) : NULL;
    if (list) {
        want_stacked(p, list, count, n->n_operands);
        return;
    }
    for (uint32_t k = 0; n && k < n->n_operands; k++) want_value(p, node_operands(p->g, n)[k]);
}

/* A branch takes a pack as a whole if it takes enough of its lanes. */
static void pack_params_of_branch(struct packing *p, struct packing *branch, const val *given)
{
    uint32_t n = branch->g->n_params;
    uint32_t *count = ARENA_ZNEW(p->a, uint32_t, p->packs.len);
    uint32_t *made = ARENA_NEW(p->a, uint32_t, p->packs.len);
    memset(made, 0xff, p->packs.len * sizeof *made);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = p->home[given[i]].pack;
        if (k != HOP_NONE && value_type(branch->g, i) == p->packs.data[k].lane) count[k]++;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct home at = p->home[given[i]];
        if (at.pack == HOP_NONE) continue;
        struct pack pack = p->packs.data[at.pack];
        bool rows = pack.kind == PACK_ARRAY && !pack.across && type_get(p->m, pack.lane).rank;
        if (count[at.pack] < MIN_LANES || count[at.pack] < pack.n / 2 || rows) continue;
        if (value_type(branch->g, i) != pack.lane) continue;
        if (made[at.pack] == HOP_NONE) {
            struct pack param = { .kind = PACK_CARRY, .n = pack.n, .lane = pack.lane };
            param.seed = new_seed(branch, pack.seed);
            made[at.pack] = new_pack(branch, param);
        }
        branch->home[i] = (struct home){ made[at.pack], at.lane };
    }
}

/* Packs a branch, and charges the seeds around with its share: one of the branches runs. */
static void want_branch(struct packing *p, struct pack_switch *s, uint32_t r)
{
    struct packing *branch = &s->branches[r];
    const struct region *region = node_region(p->g, s->n, r);
    const val *given = node_operands(p->g, s->n) + region->operands;
    val **lists = ARENA_NEW(p->a, val *, s->packs.len);
    start_packs(branch);
    pack_params_of_branch(p, branch, given);
    uint32_t first = branch->seeds.len;
    for (uint32_t k = 0; k < s->packs.len; k++) {
        const struct pack *pack = &p->packs.data[s->packs.data[k]];
        lists[k] = ARENA_NEW(p->a, val, pack->n);
        for (uint32_t i = 0; i < pack->n; i++)
            lists[k][i] = branch->g->results[pack->lanes[i] - s->n->results];
        pack_list(branch, lists[k], pack->n, new_seed(branch, pack->seed));
        pack_operands(branch);
    }
    for (uint32_t k = 0; k < s->packs.len; k++)
        want_list(branch, lists[k], p->packs.data[s->packs.data[k]].n, first + k);
    for (uint32_t k = 0; k < s->n->n_results; k++)
        if (p->home[s->n->results + k].pack == HOP_NONE) want_value(branch, branch->g->results[k]);
    for (uint32_t i = 0; i < region->n_operands; i++) {
        if (branch->home[i].pack == HOP_NONE) want_value(p, given[i]);
        else want_pack(p, p->home[given[i]].pack);
    }
    for (uint32_t k = 0; k < branch->seeds.len; k++) {
        const struct seed *seed = &branch->seeds.data[k];
        if (seed->key >= p->seeds.len) continue; /* of an array that is there */
        p->seeds.data[seed->key].gain += seed->gain / s->n->n_regions;
        p->seeds.data[seed->key].cost += seed->cost / s->n->n_regions;
    }
}

static void want_switch(struct packing *p, struct pack_switch *s)
{
    if (s->needed) return;
    s->needed = true;
    want_value(p, node_operands(p->g, s->n)[0]);
    for (uint32_t r = 0; r < s->n->n_regions; r++) want_branch(p, s, r);
}

/* Stacked values of which enough are lanes of one pack. */
static void find_stacks(struct packing *p)
{
    const struct loop *l = p->l;
    uint32_t *count = ARENA_ZNEW(p->a, uint32_t, p->packs.len);
    for (uint32_t k = 0; k < l->n_stack; k++) {
        uint32_t pack = p->home[p->g->results[l->n_carry + k]].pack;
        if (pack != HOP_NONE) count[pack]++;
    }
    for (uint32_t k = 0; k < p->packs.len; k++) {
        struct pack *pack = &p->packs.data[k];
        pack->stacked = count[k] >= MIN_LANES && count[k] >= pack->n / 2 &&
                        type_get(p->m, pack->lane).rank + 3 <= MAX_RANK;
    }
}

static void want_carries(struct packing *p, struct pack pack)
{
    struct seed *seed = &p->seeds.data[pack.seed];
    val *next = ARENA_NEW(p->a, val, pack.n);
    for (uint32_t k = 0; k < pack.n; k++) next[k] = p->g->results[pack.lanes[k]];
    seed->gain += pack.n * vectors_alone(p, pack.lane);
    /* Next values that are in an array need not be taken out of it. */
    for (uint32_t k = 0; k < pack.n; k++) {
        uint32_t from = p->home[next[k]].pack;
        if (from != HOP_NONE && p->packs.data[from].kind == PACK_ARRAY) seed->gain += TAKEN;
    }
    want_list(p, next, pack.n, pack.seed);
}

static void want_loop(struct packing *p)
{
    const struct loop *l = p->l;
    for (uint32_t i = 0; i < l->n_carry; i++) {
        struct home at = p->home[i];
        if (at.pack == HOP_NONE) want_value(p, p->g->results[i]);
        else if (at.lane == 0) want_carries(p, p->packs.data[at.pack]);
    }
    for (uint32_t k = 0; k < l->n_stack; k++) {
        val v = p->g->results[l->n_carry + k];
        uint32_t pack = p->home[v].pack;
        if (pack != HOP_NONE && p->packs.data[pack].stacked) want_pack(p, pack);
        else want_value(p, v);
    }
    if (!l->cond) return;
    struct liveness live = live_values(p->a, p->m, l->cond, (struct needs){ 0 });
    for (uint32_t i = 0; i < l->n_carry; i++)
        if (live.value[i] && p->home[i].pack != HOP_NONE)
            pay(p, p->packs.data[p->home[i].pack].seed, TAKEN_CARRY);
}

static void want_everything(struct packing *p)
{
    if (p->l) {
        find_stacks(p);
        want_loop(p);
    } else {
        for (uint32_t k = 0; k < p->g->n_results; k++) want_value(p, p->g->results[k]);
    }
    for (uint32_t i = 0; i < p->g->n_nodes; i++) {
        const struct node *n = fn_node(p->g, i);
        for (uint32_t k = 0; node_effects(p->m, p->g, n) && k < n->n_operands; k++)
            want_value(p, node_operands(p->g, n)[k]);
    }
}

static int64_t worth(const struct seed *s) { return s->gain - 2 * s->cost; }

/* One way to pack everything but what is banned. Bans what is far from paying, or else what pays least, until
 * all that is left pays. */
static bool try_packs(struct packing *p)
{
    start_packs(p);
    if (p->l) {
        find_columns(p);
        seed_carries(p);
    }
    seed_stacks(p);
    if (!p->differentiated) seed_expressions(p);
    want_everything(p);
    uint32_t worst = HOP_NONE, before = p->banned.len;
    for (uint32_t k = 0; k < p->seeds.len; k++) {
        const struct seed *seed = &p->seeds.data[k];
        if (!seed->gain || worth(seed) >= MIN_GAIN) continue;
        if (seed->cost > 2 * seed->gain) vec_push(p->a, &p->banned, seed->key);
        if (worst == HOP_NONE || worth(seed) < worth(&p->seeds.data[worst])) worst = k;
    }
    if (worst != HOP_NONE && p->banned.len == before) vec_push(p->a, &p->banned, p->seeds.data[worst].key);
    return worst == HOP_NONE;
}

/* Is it to be built? In a loop that must change the loop itself, what concerns its body alone is the body's.
 */
static bool is_to_build(const struct packing *p, const struct pack *pack)
{
    if (!pack->needed) return false;
    if (!p->l) return pack->kind == PACK_NODES || pack->kind == PACK_SWITCH;
    return pack->kind == PACK_CARRY || pack->kind == PACK_OVER || pack->stacked;
}

/* Is there anything to be built? */
static bool find_packs(struct packing *p)
{
    uint32_t candidates, tries = 0;
    bool many_carries = p->l && p->l->n_carry >= MIN_LANES;
    if (!measure(p, &candidates) || (candidates < MIN_LANES && !many_carries)) return false;
    while (!try_packs(p))
        if (++tries == MAX_TRIES) return false;
    for (uint32_t k = 0; k < p->packs.len; k++)
        if (is_to_build(p, &p->packs.data[k])) return true;
    return false;
}

/* ---- the pass ---- */

struct context {
    bool differentiated;
    const bool *used; /* per value of the function */
};

static bool pack_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    const struct context *x = ctx;
    struct builder *b = c->b;
    struct loop l;
    if (!loop_of_node(s->m, c->f, n, &l) || l.kind == LOOP_MAP) return false;
    if (l.n_carry < MIN_LANES && l.n_over < MIN_LANES && l.n_stack < MIN_LANES) return false;
    if (l.kind == LOOP_SCAN && dim_is_const(s->m, l.length) && dim_const_value(s->m, l.length) < MIN_TRIPS)
        return false;
    /* Columns are looked for among what is built already: the loop's operands in the builder's terms. */
    struct fn view = { .n_params = b->n_params,
                       .n_values = b->values.len,
                       .n_nodes = b->nodes.len,
                       .values = b->values.data,
                       .nodes = b->nodes.data,
                       .attrs = b->attrs.data,
                       .regions = b->regions.data };
    uint32_t *pool = ARENA_NEW(&b->arena, uint32_t, b->pool.len + n->n_operands);
    if (b->pool.len) memcpy(pool, b->pool.data, b->pool.len * sizeof *pool);
    for (uint32_t k = 0; k < n->n_operands; k++) pool[b->pool.len + k] = c->values[node_operands(c->f, n)[k]];
    view.pool = pool;
    struct node around = *n;
    around.operands = b->pool.len;
    struct packing p = { .m = s->m,
                         .a = &b->arena,
                         .g = l.body,
                         .l = &l,
                         .around = &around,
                         .outer = &view,
                         .differentiated = x->differentiated };
    return find_packs(&p) && build_loop(&p, c, x->used + n->results, results);
}

static uint32_t pack_loops_of(struct simplifier *s, uint32_t fn, bool differentiated)
{
    const struct fn *f = module_fn(s->m, fn);
    struct arena a = { 0 };
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes && !any; i++) any = node_is_loop(fn_node(f, i));
    if (!any) return fn;
    hop_cleanup_push(arena_free, &a);
    bool *used = ARENA_ZNEW(&a, bool, f->n_values);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; k < n->n_operands; k++) used[node_operands(f, n)[k]] = true;
    }
    for (uint32_t k = 0; k < f->n_results; k++) used[f->results[k]] = true;
    uint32_t out = rewrite_nodes(s, fn, node_is_loop, pack_rule, &(struct context){ differentiated, used });
    hop_cleanup_pop(&a);
    arena_free(&a);
    return out;
}

static uint32_t pack_values_of(struct simplifier *s, uint32_t fn)
{
    struct arena a = { 0 };
    uint32_t out = fn;
    hop_cleanup_push(arena_free, &a);
    struct packing p = { .m = s->m, .a = &a, .g = module_fn(s->m, fn) };
    if (find_packs(&p)) out = build_function(&p);
    hop_cleanup_pop(&a);
    arena_free(&a);
    return out;
}

/* Remembered, also that there was nothing to be done: the rounds of a simplification come by again and again.
 */
uint32_t pass_pack(struct simplifier *s, uint32_t fn)
{
    uint64_t key[4] = { MEMO_TAG, fn, 0, 0 };
    union memo_value known;
    if (memo_get(s->m, key, &known)) return known.fn;
    uint32_t out = pack_loops_of(s, pack_values_of(s, fn), false);
    memo_put(s->m, key, (union memo_value){ .fn = out });
    return out;
}

static uint32_t pack_differentiated(struct simplifier *s, uint32_t fn) { return pack_loops_of(s, fn, true); }

uint32_t pack_loops(struct module *m, uint32_t fn)
{
    return pass_for_transform(m, fn, PASS_pack, pack_differentiated);
}
