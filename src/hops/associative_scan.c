/* The row of associative_scan: running totals along a dim of arrays under a combine function (left leaves…,
 * right leaves…, own…) -> (leaves…). Row 0 of the results is row 0 of the arrays, row t is combine(row t-1 of
 * the results, row t of the arrays), in this order whatever the hardware: the order of the reference is the
 * order of compiled code, very large scans with default numbers aside (lower_totals.c). `reverse` starts with
 * the last row. Length 0 and 1 never call the function. */
#include "hops/associative.h"
#include "transform/simplify.h"

static uint32_t scan_dim(const struct attr *attrs) { return associative_dim(attrs); }

static void associative_infer(struct infer *in)
{
    uint32_t n = in->groups[0], along = scan_dim(in->attrs);
    const struct fn *g = module_fn(in->m, in->regions[0].fn);
    if (!n) infer_error(in, "there is nothing to scan: expected one array at least");
    if (g->effects & ~EFFECT_CHECK)
        infer_error(in, "the combine function has effects beyond check (it prints or calls the host): it may "
                        "be called in any order");
    if (g->n_results != n)
        infer_error(in, "the combine function gives %u results for %u arrays", g->n_results, n);
    type_id *slices = ARENA_NEW(in->arena, type_id, n);
    for (uint32_t k = 0; k < n; k++) {
        infer_equal(in, infer_type(in, 0).dims[along], infer_type(in, k).dims[along],
                    arena_printf(&in->m->scratch, "the lengths of arrays 0 and %u (%s and %s) along dim %u",
                                 k, infer_text(in, in->operands[0]), infer_text(in, in->operands[k]), along));
        slices[k] = type_drop_dim(in->m, in->operands[k], along);
        infer_result(in, in->operands[k]);
    }
    infer_results_like(in, 0, slices, n, "a slice of array", "what the combine function makes of two");
}

/* ---- eval ---- */

/* An array [outer, length, inner] of elements, along its dim `along`. */
struct rows_of {
    size_t outer, length, inner; /* inner: bytes */
};
static struct rows_of layout_of(const struct tensor *t, uint32_t along)
{
    struct rows_of l = { 1, (size_t)t->dims[along], dtype_info[t->dtype].size };
    for (uint32_t d = 0; d < along; d++) l.outer *= (size_t)t->dims[d];
    for (uint32_t d = along + 1; d < t->rank; d++) l.inner *= (size_t)t->dims[d];
    return l;
}
static struct tensor *row_along(const struct tensor *whole, uint32_t along, size_t at)
{
    struct rows_of l = layout_of(whole, along);
    int64_t dims[MAX_RANK];
    for (uint32_t d = 0, n = 0; d < whole->rank; d++)
        if (d != along) dims[n++] = whole->dims[d];
    struct tensor *row = tensor_new((enum dtype)whole->dtype, whole->rank - 1u, dims);
    char *to = row->data;
    const char *from = whole->data;
    for (size_t o = 0; o < l.outer && l.inner; o++)
        memcpy(to + o * l.inner, from + (o * l.length + at) * l.inner, l.inner);
    return row;
}
static void put_row_along(struct tensor *whole, uint32_t along, size_t at, const struct tensor *row)
{
    struct rows_of l = layout_of(whole, along);
    char *to = whole->data;
    const char *from = row->data;
    for (size_t o = 0; o < l.outer && l.inner; o++)
        memcpy(to + (o * l.length + at) * l.inner, from + o * l.inner, l.inner);
}

static void associative_eval(struct eval *e)
{
    const struct region *g = node_region(e->f, e->n, 0);
    uint32_t n = node_group_size(e->f, e->n, 0);
    uint32_t n_args = 2 * n + g->n_operands;
    uint32_t along = scan_dim(node_attr(e->f, e->n, 0));
    bool reverse = node_attr(e->f, e->n, ASSOCIATIVE_REVERSE)->kind != ATTR_ABSENT;
    struct tensor_list *args = tensor_list_begin(n_args + 1), *out = tensor_list_begin(n);
    const int64_t *symbols = eval_region_symbols(e, 0, args, n_args);
    for (uint32_t k = 0; k < g->n_operands; k++)
        args->data[2 * n + k] = tensor_ref(e->operands[g->operands + k]);
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

val emit_associative(struct builder *b, const val *xs, uint32_t n, uint32_t along, bool reverse,
                     struct region_in region)
{
    struct attr attrs[ASSOCIATIVE_ATTRS] = {
        [ASSOCIATIVE_DIM] = along ? A_INT(along) : A_NONE, [ASSOCIATIVE_REVERSE] = A_FLAG(reverse)
    };
    return builder_node(b, &(struct node_in){ .op = OP_associative_scan,
                                              .operands = xs,
                                              .n_operands = n,
                                              .groups = &n,
                                              .attrs = attrs,
                                              .regions = &region,
                                              .n_regions = 1 });
}

/* ---- tangents ---- */

static void associative_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n = in.groups[0], n_own = r->n_operands, fn = HOP_NONE;
    bool *active = ARENA_ZNEW(&b->arena, bool, 2 * (size_t)n + n_own);
    bool *totals = active;
    bool *rows = active + n;
    bool *own_active = active + 2 * (size_t)n;
    for (uint32_t k = 0; k < n; k++) {
        totals[k] = j->tangents[k] != VAL_NONE;
        rows[k] = totals[k];
    }
    for (uint32_t k = 0; k < n_own; k++) own_active[k] = j->tangents[n + k] != VAL_NONE;
    do fn = step_jvp(b->m, r->fn, n, n, active, NULL);
    while (mask_grow(rows, totals, n)); /* a running total with a tangent needs rows with one */
    val *xs = ARENA_NEW(&b->arena, val, 2 * (size_t)n), *own = ARENA_NEW(&b->arena, val, 2 * (size_t)n_own);
    uint32_t n_given = with_tangents(b, xs, in.operands, j->tangents, active, n);
    uint32_t n_own_given = with_tangents(b, own, r->operands, j->tangents + n, active + 2 * n, n_own);
    val next = emit_associative(b, xs, n_given, scan_dim(in.attrs),
                                in.attrs[ASSOCIATIVE_REVERSE].kind != ATTR_ABSENT,
                                (struct region_in){ fn, own, n_own_given, r->dims });
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
    bool lanes = v->lanes != VAL_NONE && module_fn(b->m, r->fn)->effects;
    bool *batched = ARENA_ZNEW(&b->arena, bool, 2 * (size_t)n + r->n_operands);
    bool *totals = batched;
    bool *rows = batched + n;
    bool *own_batched = batched + 2 * (size_t)n;
    for (uint32_t k = 0; k < n; k++) {
        totals[k] = v->batched[k];
        rows[k] = totals[k];
    }
    for (uint32_t k = 0; k < r->n_operands; k++) own_batched[k] = v->batched[n + k];
    do fn = step_batch(v, r->fn, n, batched, lanes, NULL);
    while (mask_grow(rows, totals, n));
    for (uint32_t k = 0; k < n; k++) n_batched += totals[k];
    /* Arrays with and without lanes: then the scanned dim comes to the front of all. */
    bool front = n_batched < n;
    val *xs = ARENA_NEW(&b->arena, val, n), *own = ARENA_NEW(&b->arena, val, r->n_operands + 1);
    for (uint32_t k = 0; k < n; k++) {
        xs[k] = batched[k] && !v->batched[k] ? emit_broadcast_front(b, in.operands[k], v->size)
                                             : in.operands[k];
        if (front) xs[k] = emit_move_dim(b, xs[k], along + batched[k], 0);
    }
    if (r->n_operands) memcpy(own, r->operands, r->n_operands * sizeof *own);
    if (lanes) own[r->n_operands] = v->lanes;
    struct region_in region = { fn, own, r->n_operands + lanes,
                                batch_body_dims(v, r, module_fn(b->m, fn),
                                                node_region(v->f, v->n, 0)->n_dims) };
    val first = emit_associative(b, xs, n, front ? 0 : along + 1,
                                 in.attrs[ASSOCIATIVE_REVERSE].kind != ATTR_ABSENT, region);
    for (uint32_t k = 0; k < n; k++) {
        v->result_batched[k] = batched[k];
        v->results[k] = front ? emit_move_dim(b, first + k, 0, along + batched[k]) : first + k;
    }
}

/* ---- simplification ---- */

static bool is_slice(struct module *m, type_id t, struct type slice)
{
    struct type x = type_get(m, t);
    return x.rank == slice.rank && (!x.rank || !memcmp(x.dims, slice.dims, x.rank * sizeof *x.dims));
}

bool is_pointwise(struct module *m, const struct fn *g, struct type slice)
{
    if (g->effects || g->n_symbols > g->n_outer_symbols) return false;
    for (val v = 0; v < g->n_values; v++)
        if (!is_slice(m, value_type(g, v), slice) && type_get(m, value_type(g, v)).rank) return false;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *x = fn_node(g, i);
        bool spread = x->op == OP_broadcast && !type_get(m, value_type(g, node_operands(g, x)[0])).rank;
        if (!(node_row(x)->flags & OPF_ELEMENTWISE) && x->op != OP_full && !spread) return false;
    }
    return true;
}

bool combines_pointwise(struct module *m, const struct fn *g, uint32_t n)
{
    struct type slice = type_get(m, value_type(g, 0));
    for (val v = 0; v < 2 * n; v++)
        if (!is_slice(m, value_type(g, v), slice)) return false;
    return is_pointwise(m, g, slice);
}

void emit_pointwise(struct builder *b, uint32_t fn, const dim *symbols, uint32_t slice_rank, uint32_t rank,
                    const dim *dims, const val *args, val *results)
{
    const struct fn *f = module_fn(b->m, fn);
    struct copier c;
    copier_begin(&c, b, f);
    for (uint32_t i = 0; symbols && i < f->n_outer_symbols; i++) c.symbols[i] = symbols[i];
    for (uint32_t p = 0; p < f->n_params; p++) c.values[p] = args[p];
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        bool whole = type_get(b->m, value_type(f, n->results)).rank == slice_rank;
        bool same = n->op == OP_broadcast && !slice_rank;
        struct node_in in = copier_node_in(&c, n);
        struct attr *attrs = arena_copy(&b->arena, in.attrs, node_row(n)->sig.n_attrs * sizeof *attrs);
        if (n->op == OP_full && whole) attrs[FULL_DIMS] = A_DIMS(dims, rank);
        if (n->op == OP_broadcast && whole) attrs[BROADCAST_DIMS] = A_DIMS(dims, rank);
        in.attrs = attrs;
        /* Where slices are scalars nothing is spread. */
        c.values[n->results] = same ? in.operands[0] : builder_node(b, &in);
    }
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
}

/* The function over dims first..first+count of its slices. */
static uint32_t narrowed(struct module *m, const struct fn *g, uint32_t first, uint32_t count)
{
    struct builder b;
    struct type slice = type_get(m, value_type(g, 0));
    builder_begin(&b, m, g);
    val *params = ARENA_NEW(&b.arena, val, g->n_params), *results = ARENA_NEW(&b.arena, val, g->n_results);
    for (uint32_t p = 0; p < g->n_params; p++) {
        struct type t = type_get(m, value_type(g, p));
        type_id type = t.rank ? type_intern(m, t.dtype, count, t.dims + first) : value_type(g, p);
        params[p] = builder_param(&b, type, g->values[p].name);
    }
    emit_pointwise(&b, g->id, NULL, slice.rank, count, slice.dims + first, params, results);
    return builder_finish(&b, results, g->n_results);
}

/* Without the dims behind the scanned one, which are all of size 1. */
static bool without_ones(struct copier *c, const struct node *n, const struct node_in *in, uint32_t along,
                         val *results)
{
    struct builder *b = c->b;
    const struct region_in *r = &in->regions[0];
    uint32_t n_leaves = in->groups[0], n_own = r->n_operands;
    val *xs = ARENA_NEW(&b->arena, val, n_leaves), *own = ARENA_NEW(&b->arena, val, n_own);
    for (uint32_t k = 0; k < n_leaves; k++)
        xs[k] = emit_reshape(b, in->operands[k], along + 1, emit_type(b, in->operands[k]).dims);
    for (uint32_t k = 0; k < n_own; k++) {
        struct type t = emit_type(b, r->operands[k]);
        own[k] = t.rank ? emit_reshape(b, r->operands[k], along, t.dims) : r->operands[k];
    }
    struct region_in region = { narrowed(b->m, module_fn(b->m, r->fn), 0, along), own, n_own, r->dims };
    val first = emit_associative(b, xs, n_leaves, along, associative_reverse(in->attrs), region);
    for (uint32_t k = 0; k < n_leaves; k++) {
        struct type t = type_get(b->m, copier_type(c, value_type(c->f, n->results + k)));
        results[k] = emit_reshape(b, first + k, t.rank, t.dims);
    }
    return true;
}

/* ---- linear functions ---- */

/* What a leaf's result is of its own left side. */
struct linear {
    enum op op; /* a running sum, product or extreme of the array; or OP_recurrence: left · factor + right */
    val factor; /* of the combine function; reads nothing on the left */
};

/* Is value v of g the left (right) side of leaf k? */
static bool is_leaf(val v, uint32_t k, uint32_t n, bool right) { return v == (right ? n + k : k); }

static bool linear_leaf(const struct fn *g, uint32_t n, uint32_t k, const bool *left, struct linear *out)
{
    static const struct {
        enum op combine, running;
        bool commutes;
    } running[] = {
        { OP_add, OP_cumsum, true },
        { OP_mul, OP_cumprod, true },
        { OP_max, OP_cummax, false },
        { OP_min, OP_cummin, false },
    };
    const struct value *v = &g->values[g->results[k]];
    if (v->node == NODE_NONE) return false;
    const struct node *x = fn_node(g, v->node);
    const val *o = node_operands(g, x);
    for (uint32_t i = 0; i < HOP_COUNT(running); i++) {
        uint32_t orders = running[i].commutes ? 2 : 1;
        for (uint32_t swap = 0; swap < orders && x->op == running[i].combine; swap++) {
            if (!is_leaf(o[swap], k, n, false) || !is_leaf(o[!swap], k, n, true)) continue;
            *out = (struct linear){ running[i].running, VAL_NONE };
            return true;
        }
    }
    for (uint32_t i = 0; x->op == OP_add && i < 2; i++) {
        if (!is_leaf(o[i], k, n, true) || g->values[o[!i]].node == NODE_NONE) continue;
        const struct node *y = fn_node(g, g->values[o[!i]].node);
        const val *f = node_operands(g, y);
        for (uint32_t j = 0; y->op == OP_mul && j < 2; j++) {
            if (!is_leaf(f[j], k, n, false) || left[f[!j]]) continue;
            *out = (struct linear){ OP_recurrence, f[!j] };
            return true;
        }
    }
    return false;
}

/* (right leaves…, own…) -> (the factors), over all of g's parameters. */
static uint32_t factor_function(struct module *m, const struct fn *g, const struct linear *leaves, uint32_t n)
{
    struct builder b;
    struct copier c;
    builder_begin(&b, m, g);
    copier_begin(&c, &b, g);
    copier_params(&c);
    val *all = ARENA_NEW(&b.arena, val, g->n_results), *out = ARENA_NEW(&b.arena, val, n);
    uint32_t n_out = 0;
    copier_body(&c, all);
    for (uint32_t k = 0; k < n; k++)
        if (leaves[k].op == OP_recurrence) out[n_out++] = c.values[leaves[k].factor];
    return prune_function(m, builder_finish(&b, out, n_out), NULL);
}

/* Default numbers, one element a row: leaves that are linear in their own left side and read no other left
 * side are recurrences, which need not be gone through one element after the other. What stood in the first
 * row of the factors is not used. */
static bool as_recurrences(struct copier *c, const struct node_in *in, uint32_t along, val *results)
{
    struct builder *b = c->b;
    const struct region_in *r = &in->regions[0];
    const struct fn *g = module_fn(b->m, r->fn);
    uint32_t n = in->groups[0], next = 0;
    struct linear *leaves = ARENA_NEW(&b->arena, struct linear, n);
    bool *left = ARENA_ZNEW(&b->arena, bool, g->n_values);
    for (uint32_t k = 0; k < n; k++) left[k] = true;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *x = fn_node(g, i);
        for (uint32_t k = 0; k < x->n_operands; k++) left[x->results] |= left[node_operands(g, x)[k]];
    }
    for (uint32_t k = 0; k < n; k++) {
        enum dtype t = (enum dtype)type_get(b->m, value_type(g, k)).dtype;
        if (!dtype_is_float(t) || dtype_is_narrow(t) || !linear_leaf(g, n, k, left, &leaves[k])) return false;
    }
    const struct fn *f = module_fn(b->m, factor_function(b->m, g, leaves, n));
    struct type whole = emit_type(b, in->operands[0]), slice = type_get(b->m, value_type(g, 0));
    val *args = ARENA_NEW(&b->arena, val, f->n_params), *factors = ARENA_NEW(&b->arena, val, f->n_results);
    for (uint32_t k = 0; k < n; k++) {
        args[k] = in->operands[k]; /* the left ones are not read */
        args[n + k] = in->operands[k];
    }
    for (uint32_t k = 0; k < r->n_operands; k++) {
        uint32_t at[MAX_RANK], rank = emit_type(b, r->operands[k]).rank;
        for (uint32_t d = 0; d < rank; d++) at[d] = d + (d >= along);
        args[2 * n + k] = rank == slice.rank ? emit_broadcast(b, r->operands[k], whole.rank, whole.dims, at)
                                             : r->operands[k];
    }
    emit_pointwise(b, f->id, r->dims, slice.rank, whole.rank, whole.dims, args, factors);
    for (uint32_t k = 0; k < n; k++) {
        struct attr attrs[] = { [CUMULATIVE_DIM] = A_INT(along),
                                [CUMULATIVE_REVERSE] = A_FLAG(associative_reverse(in->attrs)),
                                [RECURRENCE_LATE] = A_NONE };
        bool linear = leaves[k].op == OP_recurrence;
        val operands[2] = { linear ? factors[next] : in->operands[k], in->operands[k] };
        next += linear;
        results[k] = emit(b, leaves[k].op, operands, linear ? 2 : 1, attrs);
    }
    return true;
}

/* ---- rows ---- */

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
static bool scan_rows(struct copier *c, const struct node *n, const struct node_in *in, uint32_t along,
                      val *results)
{
    struct builder *b = c->b;
    struct module *m = b->m;
    const struct region_in *r = &in->regions[0];
    const struct fn *g = module_fn(m, r->fn);
    uint32_t n_leaves = in->groups[0], n_own = r->n_operands;
    uint32_t n_over = n_leaves, n_with = 0;
    uint32_t fn = narrowed(m, g, along, type_get(m, value_type(g, 0)).rank - along);
    val *over = ARENA_NEW(&b->arena, val, n_leaves + n_own);
    val *with = ARENA_NEW(&b->arena, val, n_own);
    val *params = ARENA_NEW(&b->arena, val, n_leaves + n_own);
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
    for (uint32_t k = 0; k < n_over; k++)
        types[k] = new_body_type(&body, type_drop_leading(m, builder_type(b, over[k])));
    for (uint32_t k = 0; k < n_with; k++) types[n_over + k] = new_body_type(&body, builder_type(b, with[k]));
    for (uint32_t k = 0; k < n_dims; k++) dims[k] = new_body_dim(&body, r->dims[k]);
    for (uint32_t k = 0; k < n_over + n_with; k++) builder_param(&body.b, types[k], 0);
    uint32_t next_over = n_leaves, next_with = n_over;
    for (uint32_t k = 0; k < n_leaves; k++) params[k] = k;
    for (uint32_t k = 0; k < n_own; k++)
        params[n_leaves + k] = emit_type(b, r->operands[k]).rank ? next_over++ : next_with++;
    val first = emit_associative(&body.b, params, n_leaves, 0,
                                 in->attrs[ASSOCIATIVE_REVERSE].kind != ATTR_ABSENT,
                                 (struct region_in){ fn, params + n_leaves, n_own, dims });
    val *stacked = ARENA_NEW(&body.b.arena, val, n_leaves);
    for (uint32_t k = 0; k < n_leaves; k++) stacked[k] = first + k;
    struct region_in region = new_body_finish(&body, stacked, n_leaves, with, n_with);
    struct attr map[MAP_ATTRS] = { [MAP_SEQUENTIAL] = A_FLAG(true) };
    val made = builder_node(b, &(struct node_in){ .op = OP_map,
                                                  .operands = over,
                                                  .n_operands = n_over,
                                                  .groups = &n_over,
                                                  .attrs = map,
                                                  .regions = &region,
                                                  .n_regions = 1 });
    for (uint32_t k = 0; k < n_leaves; k++) {
        struct type t = type_get(m, copier_type(c, value_type(c->f, n->results + k)));
        results[k] = along == 1 ? made + k : emit_reshape(b, made + k, t.rank, t.dims);
    }
    return true;
}

static bool associative_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    const struct pass_options *o = options;
    struct node_in in = copier_node_in(c, n);
    struct module *m = c->b->m;
    uint32_t along = scan_dim(in.attrs), n_leaves = in.groups[0];
    struct type t = emit_type(c->b, in.operands[0]);
    dim length = t.dims[along], inner = 1;
    if (length == 0 || length == 1) { /* the function is never called */
        for (uint32_t k = 0; k < n_leaves; k++) results[k] = in.operands[k];
        return true;
    }
    if (!combines_pointwise(m, module_fn(m, in.regions[0].fn), n_leaves)) return false;
    for (uint32_t d = along + 1; d < t.rank; d++) inner = dim_mul(m, inner, t.dims[d]);
    if (inner == 1 && !o->strict && !o->differentiable && as_recurrences(c, &in, along, results)) return true;
    if (inner == 1 && t.rank > along + 1) return without_ones(c, n, &in, along, results);
    return along && scan_rows(c, n, &in, along, results);
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
      "}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[2, T], %w: f64[2]) -> (f64[2, T]) {\n"
      "  %y = associative_scan {dim = 1, reverse} over((%l, %r) in %x) with(%v = %w) {\n"
      "    %m = mul(%l, %v)\n"
      "    %s = sin(%r)\n"
      "    %z = add(%m, %s)\n"
      "    next(%z)\n"
      "  }\n"
      "  return %y\n"
      "}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[4, 2, 2]) -> (f64[4, 2, 2]) {\n"
      "  %y = associative_scan over((%l, %r) in %x) {\n"
      "    %m = matmul(%l, %r)\n"
      "    next(%m)\n"
      "  }\n"
      "  return %y\n"
      "}\n",
      NULL },
    { "hop 1\nfn @sample(%x: f64[T], %k: i64[T]) -> (f64[T], i64[T]) {\n"
      "  %y, %i = associative_scan over((%l, %r) in %x, (%a, %b) in %k) {\n"
      "    %m = add(%l, %r)\n"
      "    %j = add(%a, %b)\n"
      "    next(%m, %j)\n"
      "  }\n"
      "  return %y, %i\n"
      "}\n",
      NULL },
};

static const struct attr_spec associative_attrs[] = {
    [ASSOCIATIVE_DIM] = { "dim", ATTR_INT, false, NULL },
    [ASSOCIATIVE_REVERSE] = { "reverse", ATTR_FLAG, false, NULL },
};

const struct op_row row_associative_scan = {
    .name = "associative_scan",
    .meaning = "running totals along a dim of arrays under a combine function that is associative",
    .sig = { .n_attrs = HOP_COUNT(associative_attrs),
             .attrs = associative_attrs,
             .n_groups = 1,
             .groups = { { "over", GROUP_PAIR } },
             .dim_attr = ASSOCIATIVE_DIM + 1,
             .min_regions = 1,
             .max_regions = 1,
             .regions = { { .word = "", .feeds = 1, .results = { "next" } } } },
    .flags = OPF_HIGHER,
    .autocast = AUTOCAST_KEEP,
    .infer = associative_infer,
    .eval = associative_eval,
    .vjp = associative_vjp,
    .vjp_forward = associative_vjp_forward,
    .jvp = associative_jvp,
    .batch = associative_batch,
    .rewrite = associative_rewrite,
    HOP_SAMPLES(associative_samples),
    .lower = &associative_lower,
    .control = CONTROL_TOTALS,
};
