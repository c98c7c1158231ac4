/* Chains of adds as sums: x[0] + x[1] + … + x[n - 1], as a loop of the host's language over the rows of an
 * array writes it, becomes one sum over the rows, and f(x[0]) + f(x[1]) + … the sum of f of all of them,
 * where f is elementwise. However the adds are nested and in whatever order the rows come. Numbers are added
 * in another order, so floats in strict mode stay as they are, and so do f16 and bf16, which are rounded at
 * every step; integers wrap around alike in any order. */
#include "transform/pass.h"

enum {
    FEWEST_TERMS = 8,
    MOST_PARTS = 64 /* of one term: its operators, rows and values that all terms share */
};

/* What the terms of one sum have at one place: the same value, the rows of a box, or one operator. */
enum part_kind { PART_SAME, PART_ROWS, PART_NODES };
struct part {
    uint8_t kind;
    const val *list;          /* per term */
    const uint32_t *operands; /* PART_NODES: parts */
    uint32_t from[MAX_RANK],
        count[MAX_RANK]; /* PART_ROWS: per dim of the array, where a row is one index … */
    uint32_t step[MAX_RANK];
    uint32_t single; /* … the set of these dims */
};

/* A sum in place of some of the terms. */
struct found {
    vec(struct part) parts; /* the last: the terms themselves */
    uint32_t n;
    uint32_t at; /* the first of the terms that it takes the place of */
};

struct term {
    val value;
    bool minus; /* it is subtracted */
};

/* A tree of adds. */
struct tree {
    val total;
    vec(struct term) terms;
    bool *taken; /* per term: it is in a sum */
    vec(struct found) sums;
};

struct search {
    struct module *m;
    const struct fn *f;
    struct arena *a;
    const bool *live;        /* per node */
    uint32_t *n_terms;       /* per value: of the tree of adds that made it; 0: none did */
    bool *inner;             /* per value: one more add is all that reads it */
    uint32_t *tree;          /* per value: which of `trees` it is a partial sum of, HOP_NONE: of none */
    val *term;               /* per value: the only term of a tree that needs it, VAL_NONE: others do */
    uint64_t *shape;         /* per value: equal for terms that differ by their rows alone */
    const struct node **row; /* per value: the slice of the first row in it, NULL: none */
    vec(struct tree) trees;
};

static const struct node *made_by(const struct fn *f, val v)
{
    return f->values[v].node == NODE_NONE ? NULL : fn_node(f, f->values[v].node);
}

/* A sum or a difference of two values, or what is the same but for its sign. */
static bool adds(const struct node *n)
{
    const int8_t *factors = node_row(n)->factors;
    return (n->n_operands == 2 && factors[0] && factors[1]) || (n->n_operands == 1 && factors[0] == -1);
}

/* ---- rows ---- */

/* Dims along which a slice takes one index that is a number: there rows may differ. */
static uint32_t single_dims(const struct module *m, const struct fn *f, const struct node *slice)
{
    const struct attr *start = node_attr(f, slice, SLICE_START), *limit = node_attr(f, slice, SLICE_LIMIT);
    uint32_t dims = 0;
    for (uint32_t d = 0; d < start->n; d++) {
        bool numbers = dim_is_const(m, start->list[d]) && dim_is_const(m, limit->list[d]);
        if (!numbers || dim_const_value(m, limit->list[d]) > INT32_MAX) continue;
        if (dim_const_value(m, limit->list[d]) == dim_const_value(m, start->list[d]) + 1) dims |= 1u << d;
    }
    return dims;
}

/* The slice that a value is, perhaps as an array of other dims. */
static const struct node *row_slice_of(const struct search *w, val v)
{
    const struct node *n = made_by(w->f, v);
    while (n && n->op == OP_reshape) n = made_by(w->f, node_operands(w->f, n)[0]);
    return n && n->op == OP_slice && single_dims(w->m, w->f, n) ? n : NULL;
}

/* Do two slices take the same of an array but for the index along these dims? */
static bool rows_go_together(const struct search *w, const struct node *x, const struct node *y,
                             uint32_t single)
{
    const struct attr *a = node_attr(w->f, x, 0), *b = node_attr(w->f, y, 0);
    if (node_operands(w->f, x)[0] != node_operands(w->f, y)[0]) return false;
    if (single_dims(w->m, w->f, y) != single || !attrs_equal(&a[SLICE_STEP], &b[SLICE_STEP])) return false;
    for (uint32_t d = 0; d < a[SLICE_START].n; d++) {
        bool equal = a[SLICE_START].list[d] == b[SLICE_START].list[d] &&
                     a[SLICE_LIMIT].list[d] == b[SLICE_LIMIT].list[d];
        if (!equal && !(single >> d & 1)) return false;
    }
    return true;
}

/* Along dim d: the first index of all rows, how far they are apart, and how many there are. */
static void measure_dim(const struct search *w, struct part *p, uint32_t n, uint32_t d)
{
    uint32_t least = UINT32_MAX, most = 0, apart = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t at = node_attr(w->f, row_slice_of(w, p->list[k]), SLICE_START)->list[d];
        least = HOP_MIN(least, at);
        most = HOP_MAX(most, at);
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t rest = node_attr(w->f, row_slice_of(w, p->list[k]), SLICE_START)->list[d] - least;
        while (rest) { /* the greatest common divisor */
            uint32_t next = apart % rest;
            apart = rest;
            rest = next;
        }
    }
    p->from[d] = least;
    p->step[d] = HOP_MAX(apart, 1);
    p->count[d] = (most - least) / p->step[d] + 1;
}

/* Are these all rows of a box, one after the other? */
static bool is_box(const struct search *w, struct part *p, uint32_t n)
{
    const struct node *first = row_slice_of(w, p->list[0]);
    type_id type = value_type(w->f, p->list[0]);
    if (!first) return false;
    p->single = single_dims(w->m, w->f, first);
    for (uint32_t k = 0; k < n; k++) {
        const struct node *slice = row_slice_of(w, p->list[k]);
        if (!slice || value_type(w->f, p->list[k]) != type || !rows_go_together(w, first, slice, p->single))
            return false;
    }
    uint32_t rank = node_attr(w->f, first, SLICE_START)->n;
    uint64_t rows = 1;
    for (uint32_t d = 0; d < rank && rows <= n; d++) {
        if (!(p->single >> d & 1)) continue;
        measure_dim(w, p, n, d);
        rows *= p->count[d];
    }
    if (rows != n) return false;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t *start = node_attr(w->f, row_slice_of(w, p->list[k]), SLICE_START)->list;
        uint64_t index = 0;
        for (uint32_t d = 0; d < rank; d++)
            if (p->single >> d & 1) index = index * p->count[d] + (start[d] - p->from[d]) / p->step[d];
        if (index != k) return false;
    }
    return true;
}

/* ---- terms ---- */

/* May it be computed for all terms at once, along a new first dim? */
static bool is_lifted(const struct search *w, const struct node *n)
{
    bool known = node_row(n)->flags & OPF_ELEMENTWISE || n->op == OP_broadcast;
    return known && n->n_operands && n->n_results == 1 && !n->n_regions && node_is_pure(w->m, w->f, n) &&
           type_get(w->m, value_type(w->f, n->results)).rank < MAX_RANK;
}

/* One reader of a value: `term` needs it, VAL_NONE: something that is no part of a term. */
static void note_reader(struct search *w, bool *read, val v, val term)
{
    w->term[v] = read[v] && w->term[v] != term ? VAL_NONE : term;
    read[v] = true;
}

/* Trees of adds, from the first node to the last. */
static void find_trees(struct search *w)
{
    const struct fn *f = w->f;
    uint32_t *uses = ARENA_ZNEW(w->a, uint32_t, f->n_values);
    for (uint32_t k = 0; k < f->n_results; k++) uses[f->results[k]]++;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; k < n->n_operands && w->live[i]; k++) uses[node_operands(f, n)[k]]++;
    }
    for (val v = 0; v < f->n_values; v++) {
        w->tree[v] = HOP_NONE;
        w->term[v] = VAL_NONE;
    }
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (!w->live[i] || !adds(n)) continue;
        for (uint32_t k = 0; k < n->n_operands; k++) {
            val x = node_operands(f, n)[k];
            w->inner[x] = uses[x] == 1 && w->n_terms[x];
            w->n_terms[n->results] += w->inner[x] ? w->n_terms[x] : 1;
        }
    }
}

static bool may_reorder(const struct search *w, val v, bool strict)
{
    enum dtype t = (enum dtype)type_get(w->m, value_type(w->f, v)).dtype;
    return dtype_is_integer(t) || (dtype_is_float(t) && !dtype_is_narrow(t) && !strict);
}

/* Which large trees there are, and which values are there for one of their terms alone: from the last node to
 * the first. */
static void find_terms(struct search *w, bool strict)
{
    const struct fn *f = w->f;
    bool *read = ARENA_ZNEW(w->a, bool, f->n_values);
    for (uint32_t k = 0; k < f->n_results; k++) note_reader(w, read, f->results[k], VAL_NONE);
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        const val *x = node_operands(f, n);
        val v = n->results;
        if (!w->live[i]) continue;
        if (adds(n) && w->tree[v] == HOP_NONE && !w->inner[v] && w->n_terms[v] >= FEWEST_TERMS &&
            may_reorder(w, v, strict)) {
            w->tree[v] = w->trees.len;
            vec_push(w->a, &w->trees, (struct tree){ .total = v });
        }
        bool in_tree = adds(n) && w->tree[v] != HOP_NONE;
        for (uint32_t k = 0; k < n->n_operands; k++) {
            if (in_tree && w->inner[x[k]]) w->tree[x[k]] = w->tree[v];
            else note_reader(w, read, x[k], in_tree ? x[k] : is_lifted(w, n) ? w->term[v] : VAL_NONE);
        }
    }
}

static uint64_t attr_word(const struct attr *a)
{
    if (attr_is_list(a)) return a->n ? hash_bytes(a->list, a->n * sizeof *a->list, a->kind) : a->kind;
    return a->kind == ATTR_ABSENT ? 0 : hash_mix(a->kind, (uint64_t)a->i);
}

/* Is the value an operator of a term, which nothing else needs? */
static bool is_own(const struct search *w, val v)
{
    const struct node *n = made_by(w->f, v);
    return n && w->term[v] != VAL_NONE && is_lifted(w, n);
}

static void find_shapes(struct search *w)
{
    const struct fn *f = w->f;
    for (val v = 0; v < f->n_values; v++) {
        const struct node *n = made_by(f, v);
        w->shape[v] = hash_mix(1, v);
        w->row[v] = n ? row_slice_of(w, v) : NULL;
        if (w->row[v]) {
            w->shape[v] = hash_mix(hash_mix(2, node_operands(f, w->row[v])[0]), value_type(f, v));
            w->shape[v] = hash_mix(w->shape[v], value_type(f, w->row[v]->results));
        } else if (is_own(w, v)) {
            uint64_t h = hash_mix(hash_mix(3, n->op), value_type(f, v));
            for (uint32_t k = 0; k < node_row(n)->sig.n_attrs; k++)
                h = hash_mix(h, attr_word(node_attr(f, n, k)));
            for (uint32_t k = 0; k < n->n_operands; k++) {
                val x = node_operands(f, n)[k];
                h = hash_mix(h, w->shape[x]);
                if (!w->row[v]) w->row[v] = w->row[x];
            }
            w->shape[v] = h;
        }
    }
}

/* ---- terms that are one computation ---- */

static uint32_t plan_part(struct search *w, struct found *s, const val *list);

/* Are they made by one operator in the same way, each for its own term? */
static bool one_operator(const struct search *w, const val *list, uint32_t n)
{
    const struct fn *f = w->f;
    if (!is_own(w, list[0])) return false;
    const struct node *x = made_by(f, list[0]);
    for (uint32_t k = 1; k < n; k++) {
        const struct node *y = made_by(f, list[k]);
        if (!is_own(w, list[k]) || x->op != y->op || x->n_operands != y->n_operands) return false;
        if (value_type(f, list[0]) != value_type(f, list[k])) return false;
        for (uint32_t i = 0; i < x->n_operands; i++)
            if (value_type(f, node_operands(f, x)[i]) != value_type(f, node_operands(f, y)[i])) return false;
        for (uint32_t i = 0; i < node_row(x)->sig.n_attrs; i++)
            if (!attrs_equal(node_attr(f, x, i), node_attr(f, y, i))) return false;
    }
    return true;
}

static bool plan_operands(struct search *w, struct found *s, struct part *p)
{
    const struct fn *f = w->f;
    uint32_t n_operands = made_by(f, p->list[0])->n_operands;
    uint32_t *operands = ARENA_NEW(w->a, uint32_t, n_operands);
    bool differ = false;
    for (uint32_t i = 0; i < n_operands; i++) {
        val *list = ARENA_NEW(w->a, val, s->n);
        for (uint32_t k = 0; k < s->n; k++) list[k] = node_operands(f, made_by(f, p->list[k]))[i];
        operands[i] = plan_part(w, s, list);
        if (operands[i] == HOP_NONE) return false;
        differ |= s->parts.data[operands[i]].kind != PART_SAME;
    }
    p->operands = operands;
    return differ;
}

/* The part that a list of values, one per term, is; HOP_NONE: they have nothing in common. Its operands come
 * before it. */
static uint32_t plan_part(struct search *w, struct found *s, const val *list)
{
    struct part p = { .list = list };
    bool same = true;
    for (uint32_t i = 0; i < s->parts.len; i++)
        if (!memcmp(s->parts.data[i].list, list, s->n * sizeof *list)) return i;
    if (s->parts.len >= MOST_PARTS) return HOP_NONE;
    for (uint32_t k = 1; k < s->n; k++) same &= list[k] == list[0];
    if (same) p.kind = PART_SAME;
    else if (is_box(w, &p, s->n)) p.kind = PART_ROWS;
    else if (one_operator(w, list, s->n) && plan_operands(w, s, &p)) p.kind = PART_NODES;
    else return HOP_NONE;
    vec_push(w->a, &s->parts, p);
    return s->parts.len - 1;
}

/* A term, where its first row begins, and its place among the terms. */
struct place_of_term {
    uint64_t shape;
    const uint32_t *start;
    uint32_t rank, at;
};

static int compare_terms(const void *a, const void *b)
{
    const struct place_of_term *x = a, *y = b;
    if (x->shape != y->shape) return x->shape < y->shape ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    for (uint32_t d = 0; d < x->rank; d++)
        if (x->start[d] != y->start[d]) return x->start[d] < y->start[d] ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool one_shape(const struct place_of_term *x, const struct place_of_term *y)
{
    return x->shape == y->shape && x->rank == y->rank;
}

static bool find_sum(struct search *w, struct tree *t, const struct place_of_term *places, uint32_t n)
{
    struct found s = { .n = n, .at = places[0].at };
    val *list = ARENA_NEW(w->a, val, n);
    for (uint32_t k = 0; k < n; k++) {
        list[k] = t->terms.data[places[k].at].value;
        s.at = HOP_MIN(s.at, places[k].at);
    }
    uint32_t all = plan_part(w, &s, list);
    if (all == HOP_NONE || s.parts.data[all].kind == PART_SAME) return false;
    for (uint32_t k = 0; k < n; k++) t->taken[places[k].at] = true;
    vec_push(w->a, &t->sums, s);
    return true;
}

/* How many of these rows, from the first on, are equally far apart along one dim. */
static uint32_t count_run(const struct place_of_term *places, uint32_t n)
{
    uint32_t dim_of_run = 0, step = 0, k = 1;
    for (; k < n; k++) {
        uint32_t differ = 0, d_at = 0;
        for (uint32_t d = 0; d < places[0].rank; d++)
            if (places[k].start[d] != places[k - 1].start[d]) differ++, d_at = d;
        if (differ != 1) break;
        uint32_t apart = places[k].start[d_at] - places[k - 1].start[d_at];
        if (k > 1 && (d_at != dim_of_run || apart != step)) break;
        dim_of_run = d_at;
        step = apart;
    }
    return k;
}

/* Of terms of one shape: all of them as one sum, or all but repeated ones, or stretches of them. */
static void find_sums_of_shape(struct search *w, struct tree *t, struct place_of_term *places, uint32_t n)
{
    uint32_t distinct = 1;
    if (n < FEWEST_TERMS || !places[0].rank || find_sum(w, t, places, n)) return;
    for (uint32_t k = 1; k < n; k++) {
        const uint32_t *before = places[distinct - 1].start;
        if (memcmp(before, places[k].start, places[0].rank * sizeof *before)) places[distinct++] = places[k];
    }
    if (distinct < FEWEST_TERMS || (distinct < n && find_sum(w, t, places, distinct))) return;
    for (uint32_t k = 0; k + FEWEST_TERMS <= distinct;) {
        uint32_t run = count_run(places + k, distinct - k);
        if (run >= FEWEST_TERMS && run < distinct && find_sum(w, t, places + k, run)) k += run;
        else k += HOP_MAX(run - 1, 1); /* the last one may begin another */
    }
}

static void collect_terms(struct search *w, struct tree *t)
{
    vec(struct term) stack = { 0 };
    vec_push(w->a, &stack, (struct term){ .value = t->total });
    while (stack.len) {
        struct term at = stack.data[--stack.len];
        bool whole = at.value == t->total;
        if (!whole && !(w->inner[at.value] && w->tree[at.value] == w->tree[t->total])) {
            vec_push(w->a, &t->terms, at);
            continue;
        }
        const struct node *n = made_by(w->f, at.value);
        for (uint32_t k = n->n_operands; k-- > 0;) {
            bool minus = at.minus != (node_row(n)->factors[k] < 0);
            vec_push(w->a, &stack, (struct term){ node_operands(w->f, n)[k], minus });
        }
    }
}

static void find_sums(struct search *w, struct tree *t)
{
    collect_terms(w, t);
    uint32_t n = t->terms.len;
    struct place_of_term *places = ARENA_ZNEW(w->a, struct place_of_term, n);
    t->taken = ARENA_ZNEW(w->a, bool, n);
    for (uint32_t k = 0; k < n; k++) {
        val v = t->terms.data[k].value;
        places[k].shape = hash_mix(w->shape[v], t->terms.data[k].minus);
        places[k].at = k;
        if (!w->row[v]) continue;
        const struct attr *start = node_attr(w->f, w->row[v], SLICE_START);
        places[k].start = start->list;
        places[k].rank = start->n;
    }
    qsort(places, n, sizeof *places, compare_terms);
    for (uint32_t first = 0, last; first < n; first = last) {
        for (last = first + 1; last < n && one_shape(&places[first], &places[last]);) last++;
        find_sums_of_shape(w, t, places + first, last - first);
    }
}

/* ---- building ---- */

/* All rows of a box, as they stand in the array; *over lists the dims along which there are several. */
static val build_rows(struct search *w, struct copier *c, const struct part *p, uint32_t *over,
                      uint32_t *n_over)
{
    const struct node *slice = row_slice_of(w, p->list[0]);
    const struct attr *a = node_attr(w->f, slice, 0);
    dim start[MAX_RANK], limit[MAX_RANK];
    uint32_t step[MAX_RANK], rank = a[SLICE_START].n;
    bool steps = false;
    *n_over = 0;
    for (uint32_t d = 0; d < rank; d++) {
        bool single = p->single >> d & 1;
        start[d] = copier_dim(c, a[SLICE_START].list[d]);
        limit[d] = copier_dim(c, a[SLICE_LIMIT].list[d]);
        step[d] = a[SLICE_STEP].kind == ATTR_ABSENT || single ? 1 : a[SLICE_STEP].list[d];
        if (single && p->count[d] > 1) {
            start[d] = dim_const(w->m, p->from[d]);
            limit[d] = dim_const(w->m, p->from[d] + (int64_t)(p->count[d] - 1) * p->step[d] + 1);
            step[d] = p->step[d];
            over[(*n_over)++] = d;
        }
        steps |= step[d] != 1;
    }
    struct attr attrs[3] = { A_DIMS(start, rank), A_DIMS(limit, rank), steps ? A_INTS(step, rank) : A_NONE };
    val array = c->values[node_operands(w->f, slice)[0]];
    return emit(c->b, OP_slice, &array, 1, attrs);
}

/* In front of the dims of one term: n, or with n = 0 none. */
static val as_terms(struct copier *c, val v, type_id term, uint32_t n)
{
    struct type t = type_get(c->b->m, copier_type(c, term));
    dim dims[MAX_RANK + 1] = { dim_const(c->b->m, n) };
    uint32_t first = n ? 1 : 0;
    memcpy(dims + first, t.dims, t.rank * sizeof *dims);
    if (builder_type(c->b, v) == type_intern(c->b->m, (enum dtype)t.dtype, t.rank + first, dims)) return v;
    return emit_reshape(c->b, v, t.rank + first, dims);
}

static val lift_rows(struct search *w, struct copier *c, const struct part *p, uint32_t n)
{
    uint32_t order[MAX_RANK], n_order;
    val v = build_rows(w, c, p, order, &n_order);
    uint32_t rank = emit_type(c->b, v).rank, over = 0;
    for (uint32_t i = 0; i < n_order; i++) over |= 1u << order[i];
    for (uint32_t d = 0; d < rank; d++)
        if (!(over >> d & 1)) order[n_order++] = d;
    return as_terms(c, emit_permute(c->b, v, order), value_type(w->f, p->list[0]), n);
}

static val lift_node(struct search *w, struct copier *c, const struct part *p, const val *made, uint32_t n)
{
    const struct node *node = made_by(w->f, p->list[0]);
    struct node_in in = copier_node_in(c, node);
    val *operands = ARENA_NEW(&c->b->arena, val, node->n_operands);
    for (uint32_t i = 0; i < node->n_operands; i++) operands[i] = made[p->operands[i]];
    if (node->op == OP_broadcast) {
        dim dims[MAX_RANK] = { dim_const(w->m, n) };
        uint32_t at[MAX_RANK] = { 0 };
        const struct attr *to = &in.attrs[BROADCAST_DIMS], *along = &in.attrs[BROADCAST_AT];
        for (uint32_t i = 0; i < to->n; i++) dims[i + 1] = to->list[i];
        for (uint32_t i = 0; i < along->n; i++) at[i + 1] = along->list[i] + 1;
        return emit_broadcast(c->b, operands[0], to->n + 1, dims, at);
    }
    in.operands = operands;
    return builder_node(c->b, &in);
}

static val build_sum(struct search *w, struct copier *c, const struct found *s)
{
    const struct part *all = &s->parts.data[s->parts.len - 1];
    uint32_t over[MAX_RANK] = { 0 }, n_over = 1;
    if (all->kind == PART_ROWS) {
        val rows = build_rows(w, c, all, over, &n_over);
        val sum = emit_reduce(c->b, OP_sum, rows, over, n_over);
        return as_terms(c, sum, value_type(w->f, all->list[0]), 0);
    }
    val *made = ARENA_NEW(&c->b->arena, val, s->parts.len);
    for (uint32_t i = 0; i < s->parts.len; i++) {
        const struct part *p = &s->parts.data[i];
        if (p->kind == PART_ROWS) made[i] = lift_rows(w, c, p, s->n);
        else if (p->kind == PART_NODES) made[i] = lift_node(w, c, p, made, s->n);
        else made[i] = emit_broadcast_front(c->b, c->values[p->list[0]], dim_const(w->m, s->n));
    }
    return emit_reduce(c->b, OP_sum, made[s->parts.len - 1], over, n_over);
}

/* The sums and what is left, in the order of the terms, what is subtracted last. */
static val build_total(struct search *w, struct copier *c, const struct tree *t)
{
    val *addends = ARENA_NEW(&c->b->arena, val, t->terms.len), total = VAL_NONE;
    for (uint32_t k = 0; k < t->terms.len; k++)
        addends[k] = t->taken[k] ? VAL_NONE : c->values[t->terms.data[k].value];
    for (uint32_t i = 0; i < t->sums.len; i++)
        addends[t->sums.data[i].at] = build_sum(w, c, &t->sums.data[i]);
    for (uint32_t minus = 0; minus < 2; minus++)
        for (uint32_t k = 0; k < t->terms.len; k++) {
            if (addends[k] == VAL_NONE || t->terms.data[k].minus != minus) continue;
            if (total != VAL_NONE) total = emit2(c->b, minus ? OP_sub : OP_add, total, addends[k]);
            else total = minus ? emit1(c->b, OP_neg, addends[k]) : addends[k];
        }
    return total;
}

static bool sum_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    struct search *w = ctx;
    HOP_UNUSED(s);
    if (w->tree[n->results] == HOP_NONE) return false;
    const struct tree *t = &w->trees.data[w->tree[n->results]];
    if (t->total != n->results || !t->sums.len) return false;
    results[0] = build_total(w, c, t);
    return true;
}

uint32_t pass_sums(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    uint32_t sums = 0, slices = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        sums += adds(fn_node(f, i));
        slices += fn_node(f, i)->op == OP_slice;
    }
    if (sums + 1 < FEWEST_TERMS || slices < FEWEST_TERMS) return fn;
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    struct search w = { .m = s->m, .f = f, .a = &scratch };
    w.live = live_values(&scratch, s->m, f, (struct needs){ 0 }).node;
    w.n_terms = ARENA_ZNEW(&scratch, uint32_t, f->n_values);
    w.inner = ARENA_ZNEW(&scratch, bool, f->n_values);
    w.tree = ARENA_NEW(&scratch, uint32_t, f->n_values);
    w.term = ARENA_NEW(&scratch, val, f->n_values);
    w.shape = ARENA_NEW(&scratch, uint64_t, f->n_values);
    w.row = ARENA_NEW(&scratch, const struct node *, f->n_values);
    find_trees(&w);
    find_terms(&w, s->o->strict);
    bool any = false;
    if (w.trees.len) find_shapes(&w);
    for (uint32_t i = 0; i < w.trees.len; i++) {
        find_sums(&w, &w.trees.data[i]);
        any |= w.trees.data[i].sums.len > 0;
    }
    uint32_t out = any ? rewrite_nodes(s, fn, adds, sum_rule, &w) : fn;
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    return out;
}
