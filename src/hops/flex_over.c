/* A scalar body of flex_attention over a tile of queries and keys. It is batched over the keys, then over the
 * queries. A body with sizes of its own, which may differ from one pair of positions to the next, cannot be
 * batched: there maps go over the positions. What reads an array by the distance of a query and a key is
 * computed once for each distance of the tile, and the tile is made of slices of that row; so its cotangents
 * are summed along the diagonals before they are scattered. */
#include "hops/flex.h"

/* ---- one more axis ---- */

/* Does a function, or a body in it, bind sizes? */
static bool binds_sizes(const struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    if (f->n_symbols > f->n_outer_symbols) return true;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t r = 0; r < n->n_regions; r++)
            if (binds_sizes(m, node_region(f, n, r)->fn)) return true;
    }
    return false;
}

/* The body of a map over some parameters of f: these first. */
static uint32_t parameters_sorted(struct module *m, const struct fn *f, const bool *batched)
{
    struct builder b;
    struct copier copy;
    builder_begin(&b, m, f);
    copier_begin(&copy, &b, f);
    for (uint32_t shared = 0; shared < 2; shared++)
        for (uint32_t p = 0; p < f->n_params; p++)
            if (batched[p] != shared) copy.values[p] = builder_param(&b, value_type(f, p), f->values[p].name);
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    copier_body(&copy, results);
    return builder_finish(&b, results, f->n_results);
}

static uint32_t mapped(struct module *m, uint32_t fn, const bool *batched, dim size)
{
    const struct fn *f = module_fn(m, fn);
    struct builder b;
    builder_begin(&b, m, f);
    uint32_t n_over = 0, n_with = 0, n_dims = f->n_outer_symbols;
    val *over = ARENA_NEW(&b.arena, val, f->n_params), *with = ARENA_NEW(&b.arena, val, f->n_params);
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    dim *dims = ARENA_NEW(&b.arena, dim, n_dims + 1);
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = dim_symbol(m, k);
    if (size == HOP_NONE) size = dim_symbol(m, builder_symbol(&b, module_string(m, "B", 1), 0, INT64_MAX));
    for (uint32_t p = 0; p < f->n_params; p++) {
        type_id t = value_type(f, p);
        val v = builder_param(&b, batched[p] ? type_prepend(m, t, size) : t, f->values[p].name);
        if (batched[p]) over[n_over++] = v;
        else with[n_with++] = v;
    }
    struct loop l = loop_new(LOOP_MAP);
    l.over = over;
    l.n_over = n_over;
    l.length = size;
    l.sequential = true;
    loop_set_body(&l, m, (struct region_in){ parameters_sorted(m, f, batched), with, n_with, dims });
    val first = loop_build(&b, &l).stacks;
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = first + k;
    return builder_finish(&b, results, f->n_results);
}

uint32_t flex_over(struct module *m, uint32_t fn, const bool *batched, dim size, struct flex_dims *dims)
{
    uint32_t n_results = module_fn(m, fn)->n_results, before = module_fn(m, fn)->n_outer_symbols;
    bool *force = ARENA_NEW(dims->arena, bool, n_results), *found = ARENA_NEW(dims->arena, bool, n_results);
    dim known = dim_is_const(m, size) ? size : HOP_NONE;
    for (uint32_t k = 0; k < n_results; k++) force[k] = true;
    fn = binds_sizes(m, fn) ? mapped(m, fn, batched, known)
                            : batch_function(m, fn, batched, known, force, false, found);
    if (module_fn(m, fn)->n_outer_symbols != before) vec_push(dims->arena, &dims->list, size);
    return fn;
}

/* ---- what depends on the distance alone ---- */

enum { SCORE, BATCH, HEAD, QUERY, KEY };
/* Of which positions a value of a body is made. */
enum depends { ON_NEITHER, ON_DISTANCE, ON_PAIR };

struct distances {
    const struct flex *x;
    const struct fn *f;
    bool gated;            /* the last parameter is one of the whole tile, as the score is */
    enum depends *depends; /* of each value of f */
    bool *dear;            /* more than sums and comparisons went into it, of those on the distance */
    bool *away;            /* it is the query less the key, not the other way round */
    bool *taken;           /* it is computed once for each distance, and its tile made of slices */
};

/* QUERY or KEY: the position that a value is, perhaps cast; else HOP_NONE. */
static uint32_t position_of(const struct fn *f, val v)
{
    const struct node *n = v < f->n_params ? NULL : fn_node(f, f->values[v].node);
    if (n && n->op == OP_cast) v = node_operands(f, n)[0];
    return v == QUERY || v == KEY ? v : HOP_NONE;
}

/* Integers of any size: what wraps around has the difference's last bits. */
static bool is_distance(const struct distances *w, const struct node *n)
{
    if (n->op != OP_sub) return false;
    enum dtype t = (enum dtype)type_get(w->x->m, value_type(w->f, n->results)).dtype;
    const val *operands = node_operands(w->f, n);
    uint32_t from = position_of(w->f, operands[0]), less = position_of(w->f, operands[1]);
    return dtype_is_integer(t) && from != HOP_NONE && less != HOP_NONE && from != less;
}

static void class_node(struct distances *w, const struct node *n)
{
    enum depends found = ON_NEITHER;
    bool distance = is_distance(w, n), dear = node_cost(w->x->m, w->f, n) > 1;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        val v = node_operands(w->f, n)[k];
        found = HOP_MAX(found, w->depends[v]);
        dear |= w->dear[v];
    }
    if (distance) found = ON_DISTANCE;
    for (uint32_t k = 0; k < n->n_results; k++) {
        val v = n->results + k;
        w->depends[v] = found;
        w->dear[v] = found == ON_DISTANCE && dear && !distance;
        w->away[v] = distance && position_of(w->f, node_operands(w->f, n)[0]) == QUERY;
    }
}

/* Values that something else than distances is made of; are there some? */
static bool find_taken(struct distances *w)
{
    const struct fn *f = w->f;
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; k < n->n_operands && w->depends[n->results] == ON_PAIR; k++) {
            val v = node_operands(f, n)[k];
            bool scalar = !type_get(w->x->m, value_type(f, v)).rank;
            w->taken[v] |= w->dear[v] && scalar;
            any |= w->taken[v];
        }
    }
    val given = f->results[0];
    w->taken[given] |= w->dear[given];
    return any || w->taken[given];
}

static bool has_distances(struct distances *w, struct arena *arena)
{
    const struct fn *f = w->f;
    bool binds_sizes = f->n_symbols > f->n_outer_symbols; /* of which nodes without operands may be */
    if (binds_sizes || f->n_results != 1) return false;
    w->depends = ARENA_ZNEW(arena, enum depends, f->n_values);
    w->dear = ARENA_ZNEW(arena, bool, f->n_values);
    w->away = ARENA_ZNEW(arena, bool, f->n_values);
    w->taken = ARENA_ZNEW(arena, bool, f->n_values);
    w->depends[SCORE] = w->depends[QUERY] = w->depends[KEY] = ON_PAIR;
    if (w->gated) w->depends[f->n_params - 1] = ON_PAIR;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (fn_node(f, i)->n_results) class_node(w, fn_node(f, i));
    return find_taken(w);
}

/* (distance, batch, head, own…) -> (values that are taken…): the key less the query. */
static uint32_t of_distance(const struct distances *w, uint32_t *n_taken)
{
    const struct fn *f = w->f;
    struct module *m = w->x->m;
    struct builder b;
    struct copier copy;
    builder_begin(&b, m, f);
    copier_begin(&copy, &b, f);
    val *results = ARENA_NEW(&b.arena, val, f->n_values), distance = builder_param(&b, flex_index(w->x), 0);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (w->depends[p] == ON_NEITHER) copy.values[p] = builder_param(&b, value_type(f, p), 0);
    val back = emit1(&b, OP_neg, distance);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (is_distance(w, n)) {
            enum dtype t = (enum dtype)type_get(m, value_type(f, n->results)).dtype;
            copy.values[n->results] = emit_cast(&b, w->away[n->results] ? back : distance, t);
        } else if (n->n_results && w->depends[n->results] != ON_PAIR) {
            copier_node(&copy, n);
        }
    }
    *n_taken = 0;
    for (val v = 0; v < f->n_values; v++)
        if (w->taken[v]) results[(*n_taken)++] = copy.values[v];
    return prune_function(m, builder_finish(&b, results, *n_taken), NULL);
}

/* (the body's parameters…, values that are taken…) -> what the body gives. */
static uint32_t of_pair(const struct distances *w)
{
    const struct fn *f = w->f;
    struct module *m = w->x->m;
    struct builder b;
    struct copier copy;
    builder_begin(&b, m, f);
    copier_begin(&copy, &b, f);
    copier_params(&copy);
    val *taken = ARENA_NEW(&b.arena, val, f->n_values);
    for (val v = 0; v < f->n_values; v++)
        if (w->taken[v]) taken[v] = builder_param(&b, value_type(f, v), 0);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        copier_node(&copy, n);
        for (uint32_t k = 0; k < n->n_results; k++)
            if (w->taken[n->results + k]) copy.values[n->results + k] = taken[n->results + k];
    }
    return prune_function(m, builder_finish(&b, &copy.values[f->results[0]], 1), NULL);
}

/* ---- a tile ---- */

/* The function over the columns, then over the rows of a tile; its parameters behind the first n_first are of
 * the whole tile. */
static uint32_t over_both(struct module *m, uint32_t fn, uint32_t n_first, const dim *tile,
                          struct flex_dims *dims)
{
    static const bool of_columns[FLEX_N_FROM] = { [SCORE] = true, [KEY] = true };
    static const bool of_rows[FLEX_N_FROM] = { [SCORE] = true, [QUERY] = true };
    uint32_t n = module_fn(m, fn)->n_params;
    for (uint32_t axis = 2; axis-- > 0;) {
        bool *batched = ARENA_ZNEW(dims->arena, bool, n);
        memcpy(batched, axis ? of_columns : of_rows, FLEX_N_FROM * sizeof *batched);
        for (uint32_t k = n_first; k < n; k++) batched[k] = true;
        fn = flex_over(m, fn, batched, tile[axis], dims);
    }
    return fn;
}

/* Rows of a tile, each the slice of `all` that begins one element earlier than the one before it. */
static val slices(struct builder *b, val all, const dim *tile)
{
    struct module *m = b->m;
    struct new_body body;
    new_body_begin(&body, b, NULL, NULL, 0);
    struct type t = emit_type(b, all);
    dim sizes[1] = { new_body_dim(&body, tile[1]) };
    val row = builder_param(&body.b, type_scalar(m, DT_I64), 0);
    val given = builder_param(&body.b, new_body_type(&body, builder_type(b, all)), 0);
    val last = emit_dim_value(&body.b, dim_sub(m, new_body_dim(&body, t.dims[0]), sizes[0]));
    val start = emit2(&body.b, OP_sub, emit2(&body.b, OP_sub, last, row), flex_i64(&body.b, 1));
    struct attr a = A_DIMS(sizes, 1);
    val slice = emit(&body.b, OP_dynamic_slice, (val[]){ given, start }, 2, &a);
    val numbers = flex_counted(b, tile[0]);
    struct loop l = loop_new(LOOP_MAP);
    l.over = &numbers;
    l.n_over = 1;
    l.length = tile[0];
    l.sequential = true;
    loop_set_body(&l, m, new_body_finish(&body, &slice, 1, &all, 1));
    return loop_build(b, &l).stacks;
}

/* The distances of a tile, and one more: from the last row and the first column on. */
static val distances_of(struct builder *b, val rows, val columns, dim n)
{
    uint32_t along = 0;
    val first = emit_reduce(b, OP_reduce_min, columns, &along, 1);
    val least = emit2(b, OP_sub, first, emit_reduce(b, OP_reduce_max, rows, &along, 1));
    return emit2(b, OP_add, flex_counted(b, n), emit_broadcast(b, least, 1, &n, NULL));
}

static uint32_t by_distances(const struct distances *w, struct flex_dims *dims)
{
    const struct fn *f = w->f;
    struct module *m = w->x->m;
    uint32_t n_taken, n = f->n_params, of_taken = of_distance(w, &n_taken), rest = of_pair(w);
    struct builder b;
    builder_begin(&b, m, f);
    struct flex_dims inner[2] = { { .arena = &b.arena }, { .arena = &b.arena } };
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < f->n_outer_symbols; k++)
            vec_push(&b.arena, &inner[i].list, dim_symbol(m, k));
    dim tile[2];
    for (uint32_t axis = 0; axis < 2; axis++) {
        tile[axis] = w->x->tile[axis];
        if (dim_is_const(m, tile[axis])) continue;
        vec_push(dims->arena, &dims->list, tile[axis]);
        tile[axis] = dim_symbol(m, builder_symbol(&b, module_string(m, "B", 1), 0, INT64_MAX));
    }
    val *params = ARENA_NEW(&b.arena, val, n + n_taken), *args = ARENA_NEW(&b.arena, val, n), out;
    for (uint32_t p = 0; p < n; p++) {
        struct type t = type_get(m, value_type(f, p));
        bool whole = p == SCORE || (w->gated && p == n - 1);
        if (whole) params[p] = builder_param(&b, type_intern(m, (enum dtype)t.dtype, 2, tile), 0);
        else if (p == QUERY || p == KEY)
            params[p] = builder_param(&b, type_intern(m, DT_I64, 1, &tile[p == KEY]), 0);
        else params[p] = builder_param(&b, value_type(f, p), 0);
    }
    dim length = dim_add(m, tile[0], tile[1]);
    uint32_t n_args = 0;
    args[n_args++] = distances_of(&b, params[QUERY], params[KEY], length);
    for (uint32_t p = 0; p < n; p++)
        if (w->depends[p] == ON_NEITHER) args[n_args++] = params[p];
    bool *batched = ARENA_ZNEW(&b.arena, bool, n);
    batched[0] = true;
    val *taken = params + n;
    inline_function(&b, flex_over(m, of_taken, batched, length, &inner[0]), inner[0].list.data, args, taken);
    for (uint32_t k = 0; k < n_taken; k++) taken[k] = slices(&b, taken[k], tile);
    inline_function(&b, over_both(m, rest, w->gated ? n - 1 : n, tile, &inner[1]), inner[1].list.data, params,
                    &out);
    return builder_finish(&b, &out, 1);
}

uint32_t flex_over_tile(const struct flex *x, uint32_t fn, bool gated, struct flex_dims *dims)
{
    struct distances w = { .x = x, .f = module_fn(x->m, fn), .gated = gated };
    bool rows = x->tile[0] != 1 && x->tile[1] != 1;
    if (rows && has_distances(&w, dims->arena)) return by_distances(&w, dims);
    return over_both(x->m, fn, w.f->n_params - gated, x->tile, dims);
}
