/* The row of associative_scan: running totals along a dim of arrays under a combine function (left leaves…, right leaves…, own…) -> (leaves…). Row 0 of the
 * results is row 0 of the arrays, row t is combine(row t-1 of the results, row t of the arrays), in this order whatever the hardware: the order of the
 * reference is the order of compiled code. `reverse` starts with the last row. Length 0 and 1 never call the function. */
#include "hops/hops.h"

static uint32_t scan_dim(const struct attr *attrs) { return attrs[ASSOCIATIVE_DIM].kind == ATTR_INT ? (uint32_t)attrs[ASSOCIATIVE_DIM].i : 0; }

static void associative_infer(struct infer *in)
{
    uint32_t n = in->groups[0], along = scan_dim(in->attrs);
    const struct fn *g = module_fn(in->m, in->regions[0].fn);
    if (!n) infer_error(in, "there is nothing to scan: expected one array at least");
    if (g->effects & ~EFFECT_CHECK) infer_error(in, "the combine function has effects beyond check (it prints): it may be called in any order");
    if (g->n_results != n) infer_error(in, "the combine function gives %u results for %u arrays", g->n_results, n);
    for (uint32_t k = 0; k < n; k++) {
        infer_equal(in, infer_type(in, 0).dims[along], infer_type(in, k).dims[along],
                    arena_printf(&in->m->scratch, "the lengths of arrays 0 and %u (%s and %s) along dim %u", k, infer_text(in, in->operands[0]), infer_text(in, in->operands[k]), along));
        type_id slice = type_drop_dim(in->m, in->operands[k], along);
        infer_same_type(in, slice, infer_region_result(in, 0, k), arena_printf(&in->m->scratch, "a slice of array %u and what the combine function makes of two", k));
        infer_result(in, in->operands[k]);
    }
}

/* ---- eval ---- */

/* An array [outer, length, inner] of elements, along its dim `along`. */
struct layout {
    size_t outer, length, inner; /* inner: bytes */
};
static struct layout layout_of(const struct tensor *t, uint32_t along)
{
    struct layout l = { 1, (size_t)t->dims[along], dtype_info[t->dtype].size };
    for (uint32_t d = 0; d < t->rank; d++) *(d < along ? &l.outer : &l.inner) *= d == along ? 1 : (size_t)t->dims[d];
    return l;
}
static struct tensor *row_along(const struct tensor *whole, uint32_t along, size_t at)
{
    struct layout l = layout_of(whole, along);
    int64_t dims[MAX_RANK];
    for (uint32_t d = 0, n = 0; d < whole->rank; d++)
        if (d != along) dims[n++] = whole->dims[d];
    struct tensor *row = tensor_new((enum dtype)whole->dtype, whole->rank - 1u, dims);
    for (size_t o = 0; o < l.outer && l.inner; o++) memcpy((char *)row->data + o * l.inner, (const char *)whole->data + (o * l.length + at) * l.inner, l.inner);
    return row;
}
static void put_row_along(struct tensor *whole, uint32_t along, size_t at, const struct tensor *row)
{
    struct layout l = layout_of(whole, along);
    for (size_t o = 0; o < l.outer && l.inner; o++) memcpy((char *)whole->data + (o * l.length + at) * l.inner, (const char *)row->data + o * l.inner, l.inner);
}

static void associative_eval(struct eval *e)
{
    const struct region *g = node_region(e->f, e->n, 0);
    uint32_t n = node_group_size(e->f, e->n, 0), n_args = 2 * n + g->n_operands, along = scan_dim(node_attr(e->f, e->n, 0));
    bool reverse = node_attr(e->f, e->n, ASSOCIATIVE_REVERSE)->kind != ATTR_ABSENT;
    struct tensor_list *args = tensor_list_begin(n_args + 1), *out = tensor_list_begin(n);
    const int64_t *symbols = eval_region_symbols(e, 0, args, n_args);
    for (uint32_t k = 0; k < g->n_operands; k++) args->data[2 * n + k] = tensor_ref(e->operands[g->operands + k]);
    size_t length = (size_t)e->operands[0]->dims[along];
    for (uint32_t k = 0; k < n; k++) {
        const struct tensor *x = e->operands[k];
        e->results[k] = tensor_new((enum dtype)x->dtype, x->rank, x->dims);
    }
    for (size_t i = 0; i < length; i++) {
        size_t t = reverse ? length - 1 - i : i;
        for (uint32_t k = 0; k < n; k++) tensor_list_set(args, n + k, row_along(e->operands[k], along, t));
        if (i) interp_call(e->in, g->fn, symbols, args->data, out->data);
        for (uint32_t k = 0; k < n; k++) {
            tensor_list_set(args, k, i ? out->data[k] : tensor_ref(args->data[n + k]));
            out->data[k] = NULL;
            put_row_along(e->results[k], along, t, args->data[k]);
        }
    }
    tensor_list_end(out);
    tensor_list_end(args);
}

/* ---- transforms ---- */

static val emit_associative(struct builder *b, const val *xs, uint32_t n, uint32_t along, bool reverse, struct region_in region)
{
    struct attr attrs[ASSOCIATIVE_ATTRS] = { [ASSOCIATIVE_DIM] = along ? A_INT(along) : A_NONE, [ASSOCIATIVE_REVERSE] = A_FLAG(reverse) };
    return builder_node(b, &(struct node_in){ .op = OP_associative_scan, .operands = xs, .n_operands = n, .groups = &n, .attrs = attrs, .regions = &region, .n_regions = 1 });
}

static val rows_of(struct builder *b, val x, dim from, dim to)
{
    struct type t = emit_type(b, x);
    dim start[MAX_RANK] = { from }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    limit[0] = to;
    return emit_slice(b, x, start, limit);
}

/* ---- reverse ----
 * With y the results, y_t = combine(y_{t-1}, x_t): the pullback of the combine function goes from the last row to the first, over rows of x and y, which
 * are there anyway; nothing else is kept. Row 0 is passed through. */

struct associative_saved {
    const struct vjp_halves *halves;
    bool *active;  /* per parameter of combine, left and right alike */
    bool *travels; /* per leaf: a cotangent of the running total goes on */
    val *results;
};

/* Both sides of an active leaf are active, and so is a leaf whose results are. */
static void settle_leaves(struct module *m, uint32_t fn, uint32_t n, bool *active, bool *result_active)
{
    for (bool grown = true; grown;) {
        grown = false;
        vjp_active_results(m, fn, active, result_active);
        for (uint32_t k = 0; k < n; k++) {
            bool is = active[k] || active[n + k] || result_active[k];
            grown |= is && !(active[k] && active[n + k]);
            active[k] = active[n + k] = is;
        }
    }
}

static void associative_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct module *m = b->m;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n = in.groups[0];
    struct associative_saved *saved = ARENA_NEW(&b->arena, struct associative_saved, 1);
    saved->active = ARENA_NEW(&b->arena, bool, 2 * (size_t)n + r->n_operands);
    saved->travels = ARENA_NEW(&b->arena, bool, n);
    saved->results = ARENA_NEW(&b->arena, val, n);
    bool *result_active = ARENA_ZNEW(&b->arena, bool, n);
    for (uint32_t k = 0; k < n; k++) saved->active[k] = saved->active[n + k] = v->active[k];
    for (uint32_t k = 0; k < r->n_operands; k++) saved->active[2 * n + k] = v->active[n + k];
    settle_leaves(m, r->fn, n, saved->active, result_active);
    for (uint32_t k = 0; k < n; k++) saved->travels[k] = v->result_wanted[k] && saved->active[k];
    for (bool grown = true; grown;) {
        grown = false;
        saved->halves = vjp_split(m, r->fn, saved->active, saved->travels, 0, true);
        for (uint32_t k = 0; k < n; k++)
            if (saved->halves->ct_param[k] && !saved->travels[k]) saved->travels[k] = grown = true;
    }
    val first = copier_node(v->copy, v->n);
    for (uint32_t k = 0; k < n; k++) v->results[k] = saved->results[k] = first + k, v->result_active[k] = saved->active[k];
    v->saved = saved;
}

/* The operands of the loop that goes back, each once: rows of x (right), of y one row earlier (left), of y (results). */
struct back_rows {
    val *rows;        /* arrays of all rows but the first */
    uint32_t n_rows;
    uint32_t *at;     /* per residual: which rows, or which own operand */
    uint32_t *own;    /* own operands that are residuals */
    uint32_t n_own;
};

static uint32_t number_once(uint32_t *list, uint32_t *n, uint32_t what)
{
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] == what) return i;
    list[*n] = what;
    return (*n)++;
}

/* (cotangents of the running totals…, sums for own operands…; cotangents of results…, rows…; own…) -> (the same…; cotangents of x…). */
static uint32_t back_step(struct module *m, uint32_t combine, const struct associative_saved *s, const bool *given, uint32_t n, const struct back_rows *rows)
{
    const struct vjp_halves *h = s->halves;
    const struct fn *g = module_fn(m, combine), *back = module_fn(m, h->backward);
    uint32_t n_own = g->n_params - 2 * n, n_results = 0;
    struct builder b;
    builder_begin(&b, m, back);
    val *total = ARENA_NEW(&b.arena, val, n), *sum = ARENA_NEW(&b.arena, val, n_own), *ct = ARENA_NEW(&b.arena, val, n), *out = ARENA_NEW(&b.arena, val, 2 * (size_t)n + n_own);
    val *row = ARENA_NEW(&b.arena, val, rows->n_rows), *own = ARENA_NEW(&b.arena, val, rows->n_own);
    type_id *row_type = ARENA_NEW(&b.arena, type_id, rows->n_rows), *own_type = ARENA_NEW(&b.arena, type_id, rows->n_own);
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        bool is_own = h->source_param[i] != HOP_NONE && h->source_param[i] >= 2 * n;
        (is_own ? own_type : row_type)[rows->at[i]] = value_type(back, i);
    }
    for (uint32_t k = 0; k < n; k++) total[k] = s->travels[k] ? builder_param(&b, value_type(g, k), 0) : VAL_NONE;
    for (uint32_t k = 0; k < n_own; k++) sum[k] = h->ct_param[2 * n + k] ? builder_param(&b, value_type(g, 2 * n + k), 0) : VAL_NONE;
    for (uint32_t k = 0; k < n; k++) ct[k] = given[k] ? builder_param(&b, value_type(g, k), 0) : VAL_NONE;
    for (uint32_t i = 0; i < rows->n_rows; i++) row[i] = builder_param(&b, row_type[i], 0);
    for (uint32_t i = 0; i < rows->n_own; i++) own[i] = builder_param(&b, own_type[i], 0);
    val *args = ARENA_NEW(&b.arena, val, back->n_params), *found = ARENA_NEW(&b.arena, val, back->n_results), *of_param = ARENA_NEW(&b.arena, val, g->n_params);
    uint32_t n_args = 0, from = 0;
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        bool is_own = h->source_param[i] != HOP_NONE && h->source_param[i] >= 2 * n;
        args[n_args++] = (is_own ? own : row)[rows->at[i]];
    }
    for (uint32_t k = 0; k < n; k++)
        if (h->ct_result[k]) args[n_args++] = given[k] ? emit2(&b, OP_add, total[k], ct[k]) : total[k];
    inline_function(&b, h->backward, NULL, args, found);
    for (uint32_t p = 0; p < g->n_params; p++) of_param[p] = h->ct_param[p] ? found[from++] : VAL_NONE;
    for (uint32_t k = 0; k < n; k++)
        if (s->travels[k]) out[n_results++] = of_param[k] != VAL_NONE ? of_param[k] : zeros_like(&b, total[k]);
    for (uint32_t k = 0; k < n_own; k++)
        if (sum[k] != VAL_NONE) out[n_results++] = emit2(&b, OP_add, sum[k], of_param[2 * n + k]);
    for (uint32_t k = 0; k < n; k++)
        if (of_param[n + k] != VAL_NONE) out[n_results++] = of_param[n + k];
    return builder_finish(&b, out, n_results);
}

static struct back_rows gather_rows(struct builder *b, const struct vjp_halves *h, uint32_t n, const val *xs, const val *ys, dim from, dim to, dim shifted_from, dim shifted_to)
{
    uint32_t *which = ARENA_NEW(&b->arena, uint32_t, h->n_residuals);
    struct back_rows r = { .at = ARENA_NEW(&b->arena, uint32_t, h->n_residuals), .own = ARENA_NEW(&b->arena, uint32_t, h->n_residuals) };
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        uint32_t p = h->source_param[i];
        if (p != HOP_NONE && p >= 2 * n) r.at[i] = number_once(r.own, &r.n_own, p - 2 * n);
        else r.at[i] = number_once(which, &r.n_rows, p != HOP_NONE ? p : 2 * n + h->source_result[i]); /* left, right, results */
    }
    r.rows = ARENA_NEW(&b->arena, val, r.n_rows);
    for (uint32_t i = 0; i < r.n_rows; i++)
        r.rows[i] = which[i] < n ? rows_of(b, ys[which[i]], shifted_from, shifted_to) : rows_of(b, which[i] < 2 * n ? xs[which[i] - n] : ys[which[i] - 2 * n], from, to);
    return r;
}

/* The cotangent of array k: of its first row what the running total and the result's own leave, of the others what the loop found. */
static val join_rows(struct builder *b, val total, val ct, val rest, type_id type, dim one, dim from, dim to, bool reverse)
{
    struct attr along = A_INT(0);
    val first = total != VAL_NONE ? emit_broadcast_front(b, total, one) : VAL_NONE;
    if (ct != VAL_NONE) first = add_cotangents(b, first, rows_of(b, ct, from, to));
    struct type t = type_get(b->m, type);
    dim dims[MAX_RANK];
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    if (first == VAL_NONE) dims[0] = one, first = emit_full(b, (enum dtype)t.dtype, 0, t.rank, dims);
    if (rest == VAL_NONE) dims[0] = dim_sub(b->m, t.dims[0], one), rest = emit_full(b, (enum dtype)t.dtype, 0, t.rank, dims);
    return emit(b, OP_concat, (val[]){ reverse ? rest : first, reverse ? first : rest }, 2, &along);
}

static void associative_vjp(struct vjp *v)
{
    struct builder *b = v->b;
    struct module *m = b->m;
    const struct associative_saved *s = v->saved;
    const struct vjp_halves *h = s->halves;
    const struct region *g = node_region(v->f, v->n, 0);
    uint32_t n = node_group_size(v->f, v->n, 0), along = scan_dim(v->attrs), n_own = g->n_operands;
    bool reverse = v->attrs[ASSOCIATIVE_REVERSE].kind != ATTR_ABSENT, *given = ARENA_ZNEW(&b->arena, bool, n);
    val *xs = ARENA_NEW(&b->arena, val, n), *ys = ARENA_NEW(&b->arena, val, n), *cts = ARENA_NEW(&b->arena, val, n);
    for (uint32_t k = 0; k < n; k++) {
        xs[k] = emit_move_dim(b, v->operands[k], along, 0);
        ys[k] = emit_move_dim(b, s->results[k], along, 0);
        cts[k] = v->ct[k] == VAL_NONE ? VAL_NONE : emit_move_dim(b, v->ct[k], along, 0);
        given[k] = cts[k] != VAL_NONE && s->travels[k];
    }
    dim length = emit_type(b, xs[0]).dims[0], one = dim_min(m, length, 1), rest = dim_sub(m, length, one);
    dim from = reverse ? 0 : one, to = reverse ? rest : length, shifted_from = reverse ? one : 0, shifted_to = reverse ? length : rest;
    struct back_rows rows = gather_rows(b, h, n, xs, ys, from, to, shifted_from, shifted_to);
    uint32_t fn = back_step(m, g->fn, s, given, n, &rows), groups[2] = { 0, 0 }, at = 0;
    val *operands = ARENA_NEW(&b->arena, val, 2 * (size_t)n + n_own + rows.n_rows), *own = ARENA_NEW(&b->arena, val, rows.n_own);
    for (uint32_t k = 0; k < n; k++)
        if (s->travels[k]) operands[at++] = zeros_of(b, type_drop_leading(m, builder_type(b, xs[k])));
    for (uint32_t k = 0; k < n_own; k++)
        if (h->ct_param[2 * n + k]) operands[at++] = zeros_like(b, v->operands[n + k]);
    groups[0] = at;
    for (uint32_t k = 0; k < n; k++)
        if (given[k]) operands[at++] = rows_of(b, cts[k], from, to);
    for (uint32_t i = 0; i < rows.n_rows; i++) operands[at++] = rows.rows[i];
    groups[1] = at - groups[0];
    for (uint32_t i = 0; i < rows.n_own; i++) own[i] = v->operands[n + rows.own[i]];
    dim *dims = ARENA_NEW(&b->arena, dim, g->n_dims);
    for (uint32_t k = 0; k < g->n_dims; k++) dims[k] = dim_substitute(m, g->dims[k], v->symbols);
    struct attr attrs[SCAN_ATTRS] = { [SCAN_REVERSE] = A_FLAG(!reverse), [SCAN_LENGTH] = groups[1] ? A_NONE : A_DIM(rest) };
    struct region_in region = { fn, own, rows.n_own, dims };
    val next = builder_node(b, &(struct node_in){ .op = OP_scan, .operands = operands, .n_operands = at, .groups = groups, .attrs = attrs, .regions = &region, .n_regions = 1 });
    val *total = ARENA_NEW(&b->arena, val, n);
    for (uint32_t k = 0; k < n; k++) total[k] = s->travels[k] ? next++ : VAL_NONE;
    for (uint32_t k = 0; k < n_own; k++)
        if (h->ct_param[2 * n + k]) v->out[n + k] = next++;
    for (uint32_t k = 0; k < n; k++) {
        val found = h->ct_param[n + k] ? next++ : VAL_NONE;
        if (!v->active[k] || (total[k] == VAL_NONE && found == VAL_NONE && cts[k] == VAL_NONE)) continue;
        v->out[k] = emit_move_dim(b, join_rows(b, total[k], cts[k], found, builder_type(b, xs[k]), one, reverse ? rest : 0, reverse ? length : one, reverse), 0, along);
    }
}

/* ---- tangents ---- */

static void associative_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n = in.groups[0], n_own = r->n_operands, fn = HOP_NONE;
    bool *active = ARENA_ZNEW(&b->arena, bool, 2 * (size_t)n + n_own);
    for (uint32_t k = 0; k < n; k++) active[k] = active[n + k] = j->tangents[k] != VAL_NONE;
    for (uint32_t k = 0; k < n_own; k++) active[2 * n + k] = j->tangents[n + k] != VAL_NONE;
    for (bool grown = true; grown;) { /* a running total with a tangent needs rows with one */
        grown = false;
        fn = step_jvp(b->m, r->fn, n, n, active, NULL);
        for (uint32_t k = 0; k < n; k++)
            if (active[k] != active[n + k]) active[n + k] = grown = true;
    }
    val *xs = ARENA_NEW(&b->arena, val, 2 * (size_t)n), *own = ARENA_NEW(&b->arena, val, 2 * (size_t)n_own);
    uint32_t n_given = with_tangents(b, xs, in.operands, j->tangents, active, n);
    uint32_t n_own_given = with_tangents(b, own, r->operands, j->tangents + n, active + 2 * n, n_own);
    val next = emit_associative(b, xs, n_given, scan_dim(in.attrs), in.attrs[ASSOCIATIVE_REVERSE].kind != ATTR_ABSENT, (struct region_in){ fn, own, n_own_given, r->dims });
    for (uint32_t k = 0; k < n; k++) j->results[k] = next++;
    for (uint32_t k = 0; k < n; k++) j->out[k] = active[k] ? next++ : VAL_NONE;
}

/* ---- lanes ---- */

static void associative_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n = in.groups[0], along = scan_dim(in.attrs), n_batched = 0, fn = HOP_NONE;
    bool lanes = v->lanes != VAL_NONE && module_fn(b->m, r->fn)->effects, *batched = ARENA_ZNEW(&b->arena, bool, 2 * (size_t)n + r->n_operands);
    for (uint32_t k = 0; k < n; k++) batched[k] = batched[n + k] = v->batched[k];
    for (uint32_t k = 0; k < r->n_operands; k++) batched[2 * n + k] = v->batched[n + k];
    for (bool grown = true; grown;) {
        grown = false;
        fn = step_batch(b->m, r->fn, n, batched, batch_body_size(v), lanes, NULL);
        for (uint32_t k = 0; k < n; k++)
            if (batched[k] != batched[n + k]) batched[n + k] = grown = true;
    }
    for (uint32_t k = 0; k < n; k++) n_batched += batched[k];
    bool front = n_batched < n; /* arrays with and without lanes: then the scanned dim comes to the front of all */
    val *xs = ARENA_NEW(&b->arena, val, n), *own = ARENA_NEW(&b->arena, val, r->n_operands + 1);
    for (uint32_t k = 0; k < n; k++) {
        xs[k] = batched[k] && !v->batched[k] ? emit_broadcast_front(b, in.operands[k], v->size) : in.operands[k];
        if (front) xs[k] = emit_move_dim(b, xs[k], along + batched[k], 0);
    }
    if (r->n_operands) memcpy(own, r->operands, r->n_operands * sizeof *own);
    if (lanes) own[r->n_operands] = v->lanes;
    struct region_in region = { fn, own, r->n_operands + lanes, batch_body_dims(v, r, module_fn(b->m, fn), node_region(v->f, v->n, 0)->n_dims) };
    val first = emit_associative(b, xs, n, front ? 0 : along + 1, in.attrs[ASSOCIATIVE_REVERSE].kind != ATTR_ABSENT, region);
    for (uint32_t k = 0; k < n; k++) {
        v->result_batched[k] = batched[k];
        v->results[k] = front ? emit_move_dim(b, first + k, 0, along + batched[k]) : first + k;
    }
}

/* ---- simplification ---- */

/* A combine function each element of whose results depends on that element alone: elementwise nodes over values of a slice's shape or over scalars, numbers
 * and scalars spread over a slice. Then a scan along a later dim is, for each index of the dims before it, one along the leading dim. */
static bool is_slice(struct module *m, type_id t, struct type slice)
{
    struct type x = type_get(m, t);
    return x.rank == slice.rank && !memcmp(x.dims, slice.dims, x.rank * sizeof *x.dims);
}

static bool is_pointwise(struct module *m, const struct fn *g, uint32_t n)
{
    struct type slice = type_get(m, value_type(g, 0));
    if (g->effects || g->n_symbols > g->n_outer_symbols) return false;
    for (val v = 0; v < g->n_values; v++) {
        if (!is_slice(m, value_type(g, v), slice) && (v < 2 * n || type_get(m, value_type(g, v)).rank)) return false;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *x = fn_node(g, i);
        bool spread = x->op == OP_broadcast && !type_get(m, value_type(g, node_operands(g, x)[0])).rank;
        if (!(node_row(x)->flags & OPF_ELEMENTWISE) && x->op != OP_full && !spread) return false;
    }
    return true;
}

/* The function over the dims from `first` on of its slices. */
static uint32_t narrowed(struct module *m, const struct fn *g, uint32_t first)
{
    struct builder b;
    struct copier c;
    struct type slice = type_get(m, value_type(g, 0));
    builder_begin(&b, m, g);
    copier_begin(&c, &b, g);
    for (uint32_t p = 0; p < g->n_params; p++) {
        struct type t = type_get(m, value_type(g, p));
        c.values[p] = builder_param(&b, type_intern(m, t.dtype, t.rank ? t.rank - first : 0u, t.dims + (t.rank ? first : 0)), g->values[p].name);
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = fn_node(g, i);
        struct node_in in = copier_node_in(&c, n);
        struct attr *attrs = arena_copy(&b.arena, in.attrs, node_row(n)->sig.n_attrs * sizeof *attrs);
        bool whole = type_get(m, value_type(g, n->results)).rank;
        if (n->op == OP_full && whole) attrs[FULL_DIMS] = A_DIMS(slice.dims + first, slice.rank - first);
        if (n->op == OP_broadcast && whole) attrs[BROADCAST_DIMS] = A_DIMS(slice.dims + first, slice.rank - first);
        in.attrs = attrs;
        c.values[n->results] = builder_node(&b, &in);
    }
    val *results = ARENA_NEW(&b.arena, val, g->n_results);
    for (uint32_t k = 0; k < g->n_results; k++) results[k] = c.values[g->results[k]];
    return builder_finish(&b, results, g->n_results);
}

/* Dims before `along` become one. */
static val flatten_front(struct builder *b, val x, uint32_t along)
{
    struct type t = emit_type(b, x);
    dim dims[MAX_RANK] = { 1 };
    for (uint32_t d = 0; d < along; d++) dims[0] = dim_mul(b->m, dims[0], t.dims[d]);
    for (uint32_t d = along; d < t.rank; d++) dims[d - along + 1] = t.dims[d];
    return along == 1 ? x : emit_reshape(b, x, t.rank - along + 1u, dims);
}

/* map over the dims before the scanned one { a scan along the leading dim }. */
static bool scan_rows(struct copier *c, const struct node *n, const struct node_in *in, uint32_t along, val *results)
{
    struct builder *b = c->b;
    struct module *m = b->m;
    const struct region_in *r = &in->regions[0];
    const struct fn *g = module_fn(m, r->fn);
    uint32_t n_leaves = in->groups[0], n_own = r->n_operands, n_over = n_leaves, n_with = 0, fn = narrowed(m, g, along);
    val *over = ARENA_NEW(&b->arena, val, n_leaves + n_own), *with = ARENA_NEW(&b->arena, val, n_own), *params = ARENA_NEW(&b->arena, val, n_leaves + n_own);
    for (uint32_t k = 0; k < n_leaves; k++) over[k] = flatten_front(b, in->operands[k], along);
    for (uint32_t k = 0; k < n_own; k++) {
        bool scalar = !emit_type(b, r->operands[k]).rank;
        if (scalar) with[n_with++] = r->operands[k];
        else over[n_over++] = flatten_front(b, r->operands[k], along);
    }
    struct new_body body;
    new_body_begin(&body, b, NULL, NULL, 0);
    uint32_t n_dims = g->n_outer_symbols;
    dim *dims = ARENA_NEW(&body.b.arena, dim, n_dims);
    type_id *types = ARENA_NEW(&body.b.arena, type_id, n_over + n_with);
    for (uint32_t k = 0; k < n_over + n_with; k++)
        types[k] = new_body_type(&body, k < n_over ? type_drop_leading(m, builder_type(b, over[k])) : builder_type(b, with[k - n_over]));
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = new_body_dim(&body, r->dims[k]);
    for (uint32_t k = 0; k < n_over + n_with; k++) builder_param(&body.b, types[k], 0);
    uint32_t next_over = n_leaves, next_with = n_over;
    for (uint32_t k = 0; k < n_leaves; k++) params[k] = k;
    for (uint32_t k = 0; k < n_own; k++) params[n_leaves + k] = emit_type(b, r->operands[k]).rank ? next_over++ : next_with++;
    val first = emit_associative(&body.b, params, n_leaves, 0, in->attrs[ASSOCIATIVE_REVERSE].kind != ATTR_ABSENT, (struct region_in){ fn, params + n_leaves, n_own, dims });
    val *stacked = ARENA_NEW(&body.b.arena, val, n_leaves);
    for (uint32_t k = 0; k < n_leaves; k++) stacked[k] = first + k;
    struct region_in region = new_body_finish(&body, stacked, n_leaves, with, n_with);
    struct attr map[MAP_ATTRS] = { [MAP_SEQUENTIAL] = A_FLAG(true) };
    val made = builder_node(b, &(struct node_in){ .op = OP_map, .operands = over, .n_operands = n_over, .groups = &n_over, .attrs = map, .regions = &region, .n_regions = 1 });
    for (uint32_t k = 0; k < n_leaves; k++) {
        struct type t = type_get(m, copier_type(c, value_type(c->f, n->results + k)));
        results[k] = along == 1 ? made + k : emit_reshape(b, made + k, t.rank, t.dims);
    }
    return true;
}

static bool associative_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    struct node_in in = copier_node_in(c, n);
    struct module *m = c->b->m;
    uint32_t along = scan_dim(in.attrs), n_leaves = in.groups[0];
    dim length = emit_type(c->b, in.operands[0]).dims[along];
    (void)options;
    if (length == 0 || length == 1) { /* the function is never called */
        for (uint32_t k = 0; k < n_leaves; k++) results[k] = in.operands[k];
        return true;
    }
    return along && is_pointwise(m, module_fn(m, in.regions[0].fn), n_leaves) && scan_rows(c, n, &in, along, results);
}

static const struct op_sample associative_samples[] = {
    { "hop 1\nfn @sample(%a: f64[5, 2], %b: f64[5, 2]) -> (f64[5, 2], f64[5, 2]) {\n"
      "  %p, %q = associative_scan over((%a0, %a1) in %a, (%b0, %b1) in %b) {\n"
      "    %p = mul(%a0, %a1)\n"
      "    %s = mul(%a1, %b0)\n"
      "    %q = add(%s, %b1)\n"
      "    next(%p, %q)\n"
      "  }\n"
      "  return %p, %q\n"
      "}\n", NULL },
    { "hop 1\nfn @sample(%x: f64[2, T], %w: f64[2]) -> (f64[2, T]) {\n"
      "  %y = associative_scan {dim = 1, reverse} over((%l, %r) in %x) with(%v = %w) {\n"
      "    %m = mul(%l, %v)\n"
      "    %s = sin(%r)\n"
      "    %z = add(%m, %s)\n"
      "    next(%z)\n"
      "  }\n"
      "  return %y\n"
      "}\n", NULL },
    { "hop 1\nfn @sample(%x: f64[4, 2, 2]) -> (f64[4, 2, 2]) {\n"
      "  %y = associative_scan over((%l, %r) in %x) {\n"
      "    %m = matmul(%l, %r)\n"
      "    next(%m)\n"
      "  }\n"
      "  return %y\n"
      "}\n", NULL },
    { "hop 1\nfn @sample(%x: f64[T], %k: i64[T]) -> (f64[T], i64[T]) {\n"
      "  %y, %i = associative_scan over((%l, %r) in %x, (%a, %b) in %k) {\n"
      "    %m = add(%l, %r)\n"
      "    %j = add(%a, %b)\n"
      "    next(%m, %j)\n"
      "  }\n"
      "  return %y, %i\n"
      "}\n", NULL },
};

static const struct attr_spec associative_attrs[] = {
    [ASSOCIATIVE_DIM] = { "dim", ATTR_INT, false, NULL },
    [ASSOCIATIVE_REVERSE] = { "reverse", ATTR_FLAG, false, NULL },
};

const struct op_row row_associative_scan = {
    .name = "associative_scan",
    .meaning = "running totals along a dim of arrays under a combine function that is associative",
    .sig = { .n_attrs = HOP_COUNT(associative_attrs), .attrs = associative_attrs, .n_groups = 1, .groups = { { "over", GROUP_PAIR } }, .dim_attr = ASSOCIATIVE_DIM + 1,
             .min_regions = 1, .max_regions = 1, .regions = { { .word = "", .feeds = 1, .results = { "next" } } } },
    .flags = OPF_HIGHER,
    .infer = associative_infer,
    .eval = associative_eval,
    .vjp = associative_vjp,
    .vjp_forward = associative_vjp_forward,
    .jvp = associative_jvp,
    .batch = associative_batch,
    .rewrite = associative_rewrite,
    HOP_SAMPLES(associative_samples),
    .lower = &associative_lower,
};
