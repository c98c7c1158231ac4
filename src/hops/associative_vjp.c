/* Reverse mode of associative_scan. With y the results, y_t = combine(y_{t-1}, x_t), and G_t all that reaches
 * y_t: G_t = ct_t + J_{t+1}ᵀ G_{t+1} with J the derivative of combine by its left side, and K_tᵀ G_t with K
 * the one by its right side reaches x_t; row 0 is passed through. In comes the node, out go the cotangents of
 * its arrays and captured values, by one of two forms: a scan of pullbacks from the last row to the first,
 * for any combine function; or, for one that works element by element, linear recurrences over whole arrays
 * of J. Both read rows of x and y, which are there anyway; nothing else is kept. */
#include "hops/associative.h"
#include "transform/simplify.h"

/* The numbers behind the choice: the whole gradient in µs, sequential / affine, medians of both in one run
 * (two busy cores of 3.7 GHz with 512-bit vectors, f32). Along the leading dim, 65,536 rows of C elements (T:
 * rows are scalars): C                            T          1          2          4          8          16
 * 64 product, one leaf         102 / 92   354 / 133  203 / 214  191 / 279  386 / 520   664 / 994   2410 /
 * 3738 (least) a·h + b, two leaves       116 / 103  452 / 102  164 / 213  221 / 296  496 / 670  1000 / 1237
 * 3588 / 6952 (least) complex product, coupled  380 / 410  537 / 415  347 / 434  374 / 533  575 / 935  1272 /
 * 4147 Along dim 1: a·h + b of 64 × 4,096 2116 / 626, of 8 × 1,024 × 16 214 / 76, of 64 × 1,024 × 8 2125 /
 * 672; complex products of 64 × 1,024 809 / 475. Rows of one element are not vector code and wait for every
 * operation of the row before, while a recurrence of one element a step is compiled in groups and the rest of
 * the affine form is vector code. From two elements on the scan keeps a row in registers and reads each
 * number once. Dims before the scanned one are a loop around a recurrence, for threads too; in a scan they
 * are parts of a row that lie far apart. */
enum {
    AFFINE_ELEMENTS = 1, /* elements of a row along the leading dim up to which whole arrays pay */
    MOST_COUPLED =
        3 /* leaves that may depend on each other in the affine form: its maps are matrices of them */
};

_Thread_local enum associative_form associative_form = FORM_BY_COST;

struct associative_saved {
    struct replaced *hoisted; /* not NULL: the node is differentiated as one that captures what is computed
                                 from captured values alone */
    uint32_t combine;         /* as it is differentiated */
    const struct vjp_halves *halves;
    bool *active;  /* per parameter of combine, left and right alike */
    bool *travels; /* per leaf: a cotangent of the running total goes on */
    val *results;
};

/* Without tags at its top, which would hide that it works element by element. */
static uint32_t untagged(struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    struct builder b;
    struct copier c;
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) any |= node_row(fn_node(f, i))->flags & OPF_TAG;
    if (!any) return fn;
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (node_row(n)->flags & OPF_TAG) c.values[n->results] = c.values[node_operands(f, n)[0]];
        else copier_node(&c, n);
    }
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

/* Both sides of an active leaf are active, and so is a leaf whose results are. */
static void settle_leaves(struct module *m, uint32_t fn, uint32_t n, bool *active, bool *result_active)
{
    for (bool grown = true; grown;) {
        grown = false;
        vjp_active_results(m, fn, active, result_active);
        for (uint32_t k = 0; k < n; k++) {
            bool is = active[k] || active[n + k] || result_active[k];
            grown |= is && !(active[k] && active[n + k]);
            active[k] = is;
            active[n + k] = is;
        }
    }
}

/* What a value of the combine function is made of. */
enum { OF_NUMBERS, OF_OWN, OF_ROWS };

/* Copies the nodes of one kind, and those of numbers alone, which both sides of the cut may need. One without
 * results has no kind, and in a function without effects nothing to do. */
static void copy_kind(struct copier *c, const uint8_t *kind, uint8_t wanted)
{
    for (uint32_t i = 0; i < c->f->n_nodes; i++) {
        const struct node *n = fn_node(c->f, i);
        if (!n->n_results) continue;
        if (kind[n->results] == wanted || kind[n->results] == OF_NUMBERS) copier_node(c, n);
    }
}

/* Computations on captured values alone may be of any kind (a number of each lane spread over a row): in
 * front of the scan they are made once, and what they give is captured instead. Does that leave a function
 * that works element by element? */
static bool hoist_own(struct vjp_forward *v, const struct node_in *in, uint32_t combine,
                      struct region_in *made)
{
    struct builder *around = v->copy->b;
    struct module *m = around->m;
    const struct region_in *r = &in->regions[0];
    const struct fn *g = module_fn(m, combine);
    uint32_t n = in->groups[0], n_all = n + r->n_operands, n_cut = 0;
    if (g->effects || g->n_symbols > g->n_outer_symbols || combines_pointwise(m, g, n)) return false;
    uint8_t *kind = ARENA_ZNEW(&around->arena, uint8_t, g->n_values);
    val *cut = ARENA_NEW(&around->arena, val, g->n_values), *operands = ARENA_NEW(&around->arena, val, n_all);
    bool *is_cut = ARENA_ZNEW(&around->arena, bool, g->n_values);
    for (uint32_t p = 0; p < g->n_params; p++) kind[p] = p < 2 * n ? OF_ROWS : OF_OWN;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *x = fn_node(g, i);
        uint8_t of = OF_NUMBERS;
        for (uint32_t k = 0; k < x->n_operands; k++) of = HOP_MAX(of, kind[node_operands(g, x)[k]]);
        for (uint32_t k = 0; k < x->n_results; k++) kind[x->results + k] = of;
        for (uint32_t k = 0; k < x->n_operands; k++)
            is_cut[node_operands(g, x)[k]] |= of == OF_ROWS && kind[node_operands(g, x)[k]] == OF_OWN;
    }
    for (uint32_t k = 0; k < g->n_results; k++) is_cut[g->results[k]] |= kind[g->results[k]] == OF_OWN;
    for (val x = 0; x < g->n_values; x++)
        if (is_cut[x]) cut[n_cut++] = x;
    struct builder b;
    struct copier c;
    builder_begin(&b, m, g);
    copier_begin(&c, &b, g);
    for (uint32_t p = 0; p < 2 * n; p++) c.values[p] = builder_param(&b, value_type(g, p), 0);
    for (uint32_t k = 0; k < n_cut; k++) c.values[cut[k]] = builder_param(&b, value_type(g, cut[k]), 0);
    copy_kind(&c, kind, OF_ROWS);
    val *results = ARENA_NEW(&b.arena, val, n);
    for (uint32_t k = 0; k < n; k++) results[k] = c.values[g->results[k]];
    uint32_t fn = builder_finish(&b, results, n);
    if (!combines_pointwise(m, module_fn(m, fn), n)) return false;

    struct new_body body;
    new_body_begin(&body, around, NULL, NULL, 0);
    dim *dims = ARENA_NEW(&body.b.arena, dim, g->n_outer_symbols);
    type_id *types = ARENA_NEW(&body.b.arena, type_id, n_all);
    for (uint32_t k = 0; k < n_all; k++) operands[k] = k < n ? in->operands[k] : r->operands[k - n];
    for (uint32_t k = 0; k < n_all; k++) types[k] = new_body_type(&body, builder_type(around, operands[k]));
    for (uint32_t k = 0; k < g->n_outer_symbols; k++) dims[k] = new_body_dim(&body, r->dims[k]);
    copier_begin(&c, &body.b, g);
    memcpy(c.symbols, dims, g->n_outer_symbols * sizeof *dims);
    for (uint32_t k = 0; k < n_all; k++) {
        val p = builder_param(&body.b, types[k], 0);
        if (k >= n) c.values[n + k] = p;
    }
    copy_kind(&c, kind, OF_OWN);
    val *own = ARENA_NEW(&body.b.arena, val, n_cut), *arrays = ARENA_NEW(&body.b.arena, val, n);
    for (uint32_t k = 0; k < n_cut; k++) own[k] = c.values[cut[k]];
    for (uint32_t k = 0; k < n; k++) arrays[k] = k;
    val first = emit_associative(&body.b, arrays, n, associative_dim(in->attrs),
                                 associative_reverse(in->attrs), (struct region_in){ fn, own, n_cut, dims });
    for (uint32_t k = 0; k < n; k++) arrays[k] = first + k;
    *made = new_body_finish(&body, arrays, n, operands, n_all);
    return true;
}

void associative_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct module *m = b->m;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n = in.groups[0];
    struct associative_saved *saved = ARENA_ZNEW(&b->arena, struct associative_saved, 1);
    struct region_in made;
    v->saved = saved;
    saved->combine = untagged(m, r->fn);
    if (associative_form != FORM_SEQUENTIAL && hoist_own(v, &in, saved->combine, &made)) {
        saved->hoisted = replaced_vjp_forward(v, made);
        return;
    }
    saved->active = ARENA_NEW(&b->arena, bool, 2 * (size_t)n + r->n_operands);
    saved->travels = ARENA_NEW(&b->arena, bool, n);
    saved->results = ARENA_NEW(&b->arena, val, n);
    bool *result_active = ARENA_ZNEW(&b->arena, bool, n);
    for (uint32_t k = 0; k < n; k++) {
        saved->active[k] = v->active[k];
        saved->active[n + k] = v->active[k];
    }
    for (uint32_t k = 0; k < r->n_operands; k++) saved->active[2 * n + k] = v->active[n + k];
    settle_leaves(m, saved->combine, n, saved->active, result_active);
    for (uint32_t k = 0; k < n; k++) saved->travels[k] = v->result_wanted[k] && saved->active[k];
    do saved->halves = vjp_split_ends(m, saved->combine, saved->active, saved->travels);
    while (mask_grow(saved->travels, saved->halves->ct_param, n));
    val first = copier_node(v->copy, v->n);
    for (uint32_t k = 0; k < n; k++) {
        saved->results[k] = first + k;
        v->results[k] = saved->results[k];
        v->result_active[k] = saved->active[k];
    }
}

/* ---- what both forms share ---- */

/* The arrays with the scanned dim at `along`, and where rows stand: all but the first that the scan met
 * (`rest`), and the same one step earlier. */
struct back {
    struct builder *b;
    struct vjp *v;
    const struct associative_saved *s;
    const struct vjp_halves *h;
    uint32_t n, n_own, along;
    bool reverse;
    const dim *dims; /* what each outer symbol of the combine function is here */
    val *xs, *ys, *cts;
    dim length, one, rest; /* one: of the first row, 0 if there is none */
    dim from, to, before_from, before_to, first_from, first_to, last_from, last_to;
};

static val rows_of(const struct back *w, val x, dim from, dim to)
{
    struct type t = emit_type(w->b, x);
    dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    memcpy(limit, t.dims, t.rank * sizeof *limit);
    start[w->along] = from;
    limit[w->along] = to;
    return emit_slice(w->b, x, start, limit);
}

/* What residual i of the halves is. */
static bool is_own(const struct vjp_halves *h, uint32_t n, uint32_t i)
{
    return h->source_param[i] != HOP_NONE && h->source_param[i] >= 2 * n;
}
static uint32_t rows_number(const struct vjp_halves *h, uint32_t n,
                            uint32_t i) /* below n: of y one row earlier; below 2n: of x; then of y */
{
    return h->source_param[i] != HOP_NONE ? h->source_param[i] : 2 * n + h->source_result[i];
}
static val rows_numbered(const struct back *w, uint32_t number)
{
    if (number < w->n) return rows_of(w, w->ys[number], w->before_from, w->before_to);
    return rows_of(w, number < 2 * w->n ? w->xs[number - w->n] : w->ys[number - 2 * w->n], w->from, w->to);
}

static val zero_rows(const struct back *w, val like, dim rows)
{
    struct type t = emit_type(w->b, like);
    dim dims[MAX_RANK];
    memcpy(dims, t.dims, t.rank * sizeof *dims);
    dims[w->along] = rows;
    return emit_full(w->b, (enum dtype)t.dtype, 0, t.rank, dims);
}

/* The first row that the scan met and the others as one array like x; VAL_NONE: zeros. */
static val join_rows(const struct back *w, val like, val first, val rest)
{
    struct attr along = A_INT(w->along);
    if (first == VAL_NONE) first = zero_rows(w, like, w->one);
    if (rest == VAL_NONE) rest = zero_rows(w, like, w->rest);
    return emit(w->b, OP_concat, (val[]){ w->reverse ? rest : first, w->reverse ? first : rest }, 2, &along);
}

static struct back back_of(struct vjp *v, uint32_t along)
{
    struct builder *b = v->b;
    struct module *m = b->m;
    const struct region *g = node_region(v->f, v->n, 0);
    struct back w = { .b = b,
                      .v = v,
                      .s = v->saved,
                      .n = node_group_size(v->f, v->n, 0),
                      .n_own = g->n_operands,
                      .along = along,
                      .reverse = associative_reverse(v->attrs) };
    dim *dims = ARENA_NEW(&b->arena, dim, g->n_dims);
    for (uint32_t k = 0; k < g->n_dims; k++) dims[k] = dim_substitute(m, g->dims[k], v->symbols);
    w.dims = dims;
    w.h = w.s->halves;
    w.xs = ARENA_NEW(&b->arena, val, w.n);
    w.ys = ARENA_NEW(&b->arena, val, w.n);
    w.cts = ARENA_NEW(&b->arena, val, w.n);
    w.length = emit_type(b, v->operands[0]).dims[associative_dim(v->attrs)];
    w.one = dim_min(m, w.length, 1);
    w.rest = dim_sub(m, w.length, w.one);
    w.from = w.reverse ? 0 : w.one;
    w.to = w.reverse ? w.rest : w.length;
    w.before_from = w.reverse ? w.one : 0;
    w.before_to = w.reverse ? w.length : w.rest;
    w.first_from = w.reverse ? w.rest : 0;
    w.first_to = w.reverse ? w.length : w.one;
    w.last_from = w.reverse ? 0 : w.rest;
    w.last_to = w.reverse ? w.one : w.length;
    return w;
}

/* ---- one row after the other ---- */

/* The operands of the loop that goes back, each once. */
struct back_rows {
    uint32_t *which; /* numbers of rows */
    uint32_t n_rows;
    uint32_t *at;  /* per residual: which rows, or which own operand */
    uint32_t *own; /* own operands that are residuals */
    uint32_t n_own;
};

static uint32_t number_once(uint32_t *list, uint32_t *n, uint32_t what)
{
    for (uint32_t i = 0; i < *n; i++)
        if (list[i] == what) return i;
    list[*n] = what;
    return (*n)++;
}

static struct back_rows gather_rows(const struct back *w)
{
    const struct vjp_halves *h = w->h;
    struct arena *arena = &w->b->arena;
    struct back_rows r = { .which = ARENA_NEW(arena, uint32_t, h->n_residuals),
                           .at = ARENA_NEW(arena, uint32_t, h->n_residuals),
                           .own = ARENA_NEW(arena, uint32_t, h->n_residuals) };
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        if (is_own(h, w->n, i)) r.at[i] = number_once(r.own, &r.n_own, h->source_param[i] - 2 * w->n);
        else r.at[i] = number_once(r.which, &r.n_rows, rows_number(h, w->n, i));
    }
    return r;
}

/* (G of this row…, sums for own operands…; cotangents of results one row earlier…, rows…; own…) -> (G one row
 * earlier…, sums…; cotangents of x…). The carry is the whole of G, so that the product with J and the sum
 * with the cotangent are one operation to wait for. */
static uint32_t back_step(const struct back *w, const bool *given, const struct back_rows *rows)
{
    struct module *m = w->b->m;
    const struct vjp_halves *h = w->h;
    const struct fn *g = module_fn(m, w->s->combine), *back = module_fn(m, h->backward);
    uint32_t n = w->n, n_own = w->n_own, n_results = 0;
    struct builder b;
    builder_begin(&b, m, back);
    val *total = ARENA_NEW(&b.arena, val, n);
    val *sum = ARENA_NEW(&b.arena, val, n_own);
    val *ct = ARENA_NEW(&b.arena, val, n);
    val *out = ARENA_NEW(&b.arena, val, 2 * (size_t)n + n_own);
    val *row = ARENA_NEW(&b.arena, val, rows->n_rows), *own = ARENA_NEW(&b.arena, val, rows->n_own);
    type_id *row_type = ARENA_NEW(&b.arena, type_id, rows->n_rows);
    type_id *own_type = ARENA_NEW(&b.arena, type_id, rows->n_own);
    for (uint32_t i = 0; i < h->n_residuals; i++)
        (is_own(h, n, i) ? own_type : row_type)[rows->at[i]] = value_type(back, i);
    for (uint32_t k = 0; k < n; k++)
        total[k] = w->s->travels[k] ? builder_param(&b, value_type(g, k), 0) : VAL_NONE;
    for (uint32_t k = 0; k < n_own; k++)
        sum[k] = h->ct_param[2 * n + k] ? builder_param(&b, value_type(g, 2 * n + k), 0) : VAL_NONE;
    for (uint32_t k = 0; k < n; k++) ct[k] = given[k] ? builder_param(&b, value_type(g, k), 0) : VAL_NONE;
    for (uint32_t i = 0; i < rows->n_rows; i++) row[i] = builder_param(&b, row_type[i], 0);
    for (uint32_t i = 0; i < rows->n_own; i++) own[i] = builder_param(&b, own_type[i], 0);
    val *args = ARENA_NEW(&b.arena, val, back->n_params);
    val *found = ARENA_NEW(&b.arena, val, back->n_results);
    val *of_param = ARENA_NEW(&b.arena, val, g->n_params);
    uint32_t n_args = 0, from = 0;
    for (uint32_t i = 0; i < h->n_residuals; i++) args[n_args++] = (is_own(h, n, i) ? own : row)[rows->at[i]];
    for (uint32_t k = 0; k < n; k++)
        if (h->ct_result[k]) args[n_args++] = total[k];
    inline_function(&b, h->backward, NULL, args, found);
    for (uint32_t p = 0; p < g->n_params; p++) of_param[p] = h->ct_param[p] ? found[from++] : VAL_NONE;
    for (uint32_t k = 0; k < n; k++) {
        val next = add_cotangents(&b, of_param[k], ct[k]);
        if (w->s->travels[k]) out[n_results++] = next != VAL_NONE ? next : zeros_like(&b, total[k]);
    }
    for (uint32_t k = 0; k < n_own; k++)
        if (sum[k] != VAL_NONE) out[n_results++] = emit2(&b, OP_add, sum[k], of_param[2 * n + k]);
    for (uint32_t k = 0; k < n; k++)
        if (of_param[n + k] != VAL_NONE) out[n_results++] = of_param[n + k];
    return builder_finish(&b, out, n_results);
}

/* The one row of x; of no row at all zeros. */
static val only_row(const struct back *w, val x)
{
    struct type t = emit_type(w->b, x);
    return w->one == 1 ? emit_reshape(w->b, x, t.rank - 1u, t.dims + 1)
                       : emit_reduce(w->b, OP_sum, x, (const uint32_t[]){ 0 }, 1);
}

static void go_back(struct vjp *v)
{
    struct builder *b = v->b;
    uint32_t along = associative_dim(v->attrs);
    struct back w = back_of(v, 0);
    uint32_t n = w.n;
    bool *given = ARENA_ZNEW(&b->arena, bool, n);
    for (uint32_t k = 0; k < n; k++) {
        w.xs[k] = emit_move_dim(b, v->operands[k], along, 0);
        w.ys[k] = emit_move_dim(b, w.s->results[k], along, 0);
        w.cts[k] = v->ct[k] == VAL_NONE ? VAL_NONE : emit_move_dim(b, v->ct[k], along, 0);
        given[k] = w.cts[k] != VAL_NONE && w.s->travels[k];
    }
    struct back_rows rows = gather_rows(&w);
    uint32_t fn = back_step(&w, given, &rows);
    val *carry = ARENA_NEW(&b->arena, val, n + w.n_own), *over = ARENA_NEW(&b->arena, val, n + rows.n_rows);
    val *own = ARENA_NEW(&b->arena, val, rows.n_own);
    struct loop back = loop_new(LOOP_SCAN);
    for (uint32_t k = 0; k < n; k++) {
        if (!w.s->travels[k]) continue;
        val last;
        if (given[k]) last = only_row(&w, rows_of(&w, w.cts[k], w.last_from, w.last_to));
        else last = zeros_of(b, type_drop_leading(b->m, builder_type(b, w.xs[k])));
        carry[back.n_carry++] = last;
    }
    for (uint32_t k = 0; k < w.n_own; k++)
        if (w.h->ct_param[2 * n + k]) carry[back.n_carry++] = zeros_like(b, v->operands[n + k]);
    for (uint32_t k = 0; k < n; k++)
        if (given[k]) over[back.n_over++] = rows_of(&w, w.cts[k], w.before_from, w.before_to);
    for (uint32_t i = 0; i < rows.n_rows; i++) over[back.n_over++] = rows_numbered(&w, rows.which[i]);
    for (uint32_t i = 0; i < rows.n_own; i++) own[i] = v->operands[n + rows.own[i]];
    back.carry = carry;
    back.over = over;
    back.length = w.rest;
    back.reverse = !w.reverse;
    loop_set_body(&back, b->m, (struct region_in){ fn, own, rows.n_own, w.dims });
    val next = loop_build(b, &back).last;
    val *total = ARENA_NEW(&b->arena, val, n);
    for (uint32_t k = 0; k < n; k++) total[k] = w.s->travels[k] ? next++ : VAL_NONE;
    for (uint32_t k = 0; k < w.n_own; k++)
        if (w.h->ct_param[2 * n + k]) v->out[n + k] = next++;
    for (uint32_t k = 0; k < n; k++) {
        val found = w.h->ct_param[n + k] ? next++ : VAL_NONE, first = VAL_NONE;
        if (total[k] != VAL_NONE) first = emit_broadcast_front(b, total[k], w.one);
        else if (w.cts[k] != VAL_NONE) first = rows_of(&w, w.cts[k], w.first_from, w.first_to);
        if (v->active[k] && (first != VAL_NONE || found != VAL_NONE))
            v->out[k] = emit_move_dim(b, join_rows(&w, w.xs[k], first, found), 0, along);
    }
}

/* ---- whole arrays at once ---- */

/* Which leaves depend on which through one step, and the functions that say how. */
struct affine {
    uint32_t n;
    struct type slice; /* of the combine function */
    const struct vjp_halves *
        *of; /* per leaf that travels: its pullback alone, so that what is zero is not there */
    uint32_t
        *row; /* per leaf i that travels: (residuals of of[i]…) -> (derivatives of leaf i by left leaves…) */
    uint32_t *at;    /* [i·n + j]: which of them is that by leaf j, HOP_NONE: it is zero */
    uint32_t *group; /* per leaf: the least leaf that it depends on in a circle, itself if none */
    uint32_t *order; /* leaves that travel: those of a group side by side, those they feed behind them */
    uint32_t n_order, most_coupled;
    uint32_t right; /* pullback of all leaves -> (cotangents of right leaves…) */
};

/* The pullback without the cotangents of other parameters than first..last. */
static uint32_t keep_results(struct module *m, const struct vjp_halves *h, uint32_t n_params, uint32_t first,
                             uint32_t last)
{
    bool *keep = ARENA_ZNEW(&m->scratch, bool, n_params + 1);
    for (uint32_t p = 0, r = 0; p < n_params; p++)
        if (h->ct_param[p]) keep[r++] = p >= first && p < last;
    return strip_effects(m, h->backward, keep);
}

/* Row i of J: the pullback of leaf i alone on a cotangent of ones, simplified so that what is but a number or
 * an array is seen. */
static void row_of(struct affine *a, struct module *m, uint32_t i, type_id leaf, uint32_t n_params)
{
    const struct vjp_halves *h = a->of[i];
    const struct fn *back = module_fn(m, keep_results(m, h, n_params, 0, a->n));
    struct type t = type_get(m, leaf);
    struct builder b;
    builder_begin(&b, m, back);
    val *args = ARENA_NEW(&b.arena, val, back->n_params), *found = ARENA_NEW(&b.arena, val, back->n_results);
    for (uint32_t p = 0; p < h->n_residuals; p++) args[p] = builder_param(&b, value_type(back, p), 0);
    if (h->ct_result[i]) args[h->n_residuals] = emit_full(&b, (enum dtype)t.dtype, 1, t.rank, t.dims);
    inline_function(&b, back->id, NULL, args, found);
    a->row[i] = simplify(m, builder_finish(&b, found, back->n_results),
                         &(struct pass_options){
                             .without = m->without, .strict = true, .differentiable = true });
    for (uint32_t j = 0, r = 0; j < a->n; j++) a->at[i * a->n + j] = h->ct_param[j] ? r++ : HOP_NONE;
}

/* Is result r of f a number everywhere? */
static bool is_number(const struct fn *f, uint32_t r, double number)
{
    const struct value *v = &f->values[f->results[r]];
    const struct node *n = v->node == NODE_NONE ? NULL : fn_node(f, v->node);
    return n && n->op == OP_full && node_attr(f, n, FULL_VALUE)->kind == ATTR_REAL &&
           node_attr(f, n, FULL_VALUE)->r == number;
}

/* Groups of leaves that depend on each other, in the order in which cotangents go through them. */
static void order_leaves(struct affine *a, const bool *travels, struct arena *arena)
{
    uint32_t n = a->n;
    bool *reach = ARENA_NEW(arena, bool, (size_t)n *n), *done = ARENA_ZNEW(arena, bool, n);
    for (uint32_t k = 0; k < n * n; k++) reach[k] = a->at[k] != HOP_NONE;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; reach[i * n + k] && j < n; j++) reach[i * n + j] |= reach[k * n + j];
    for (uint32_t j = 0; j < n; j++) {
        a->group[j] = j;
        for (uint32_t i = j; i-- > 0;)
            if (reach[i * n + j] && reach[j * n + i]) a->group[j] = i;
    }
    while (true) { /* a group whose feeders are done; there is one, groups make no circle */
        uint32_t next = HOP_NONE, size = 0;
        for (uint32_t j = 0; j < n && next == HOP_NONE; j++) {
            bool ready = travels[j] && !done[j];
            for (uint32_t i = 0; i < n && ready; i++)
                ready = !(reach[i * n + j] && travels[i] && !done[i] && a->group[i] != a->group[j]);
            if (ready) next = a->group[j];
        }
        if (next == HOP_NONE) return;
        for (uint32_t j = 0; j < n; j++)
            if (a->group[j] == next && travels[j]) {
                done[j] = true;
                a->order[a->n_order++] = j;
                size++;
            }
        a->most_coupled = HOP_MAX(a->most_coupled, size);
    }
}

/* NULL: not a function of this kind. */
static struct affine *affine_of(const struct back *w)
{
    struct module *m = w->b->m;
    struct arena *arena = &w->b->arena;
    uint32_t n = w->n, fn = strip_effects(m, w->s->combine, NULL);
    const struct fn *g = module_fn(m, fn);
    if (!combines_pointwise(m, g, n)) return NULL;
    struct affine *a = ARENA_ZNEW(arena, struct affine, 1);
    *a = (struct affine){ .n = n,
                          .slice = type_get(m, value_type(g, 0)),
                          .of = ARENA_ZNEW(arena, const struct vjp_halves *, n),
                          .row = ARENA_NEW(arena, uint32_t, n),
                          .at = ARENA_NEW(arena, uint32_t, (size_t)n *n),
                          .group = ARENA_NEW(arena, uint32_t, n),
                          .order = ARENA_NEW(arena, uint32_t, n) };
    bool *wanted = ARENA_ZNEW(arena, bool, n);
    for (uint32_t k = 0; k < n * n; k++) a->at[k] = HOP_NONE;
    for (uint32_t i = 0; i < n; i++) {
        if (!w->s->travels[i]) continue;
        wanted[i] = true;
        a->of[i] = vjp_split_ends(m, fn, w->s->active, wanted);
        wanted[i] = false;
        row_of(a, m, i, value_type(g, i), g->n_params);
        const struct fn *row = module_fn(m, a->row[i]);
        if (!is_pointwise(m, row, a->slice)) return NULL;
        for (uint32_t j = 0; j < n; j++) {
            uint32_t *at = &a->at[i * n + j];
            if (*at != HOP_NONE && is_number(row, *at, 0)) *at = HOP_NONE;
            enum dtype from = (enum dtype)type_get(m, value_type(g, i)).dtype;
            enum dtype to = (enum dtype)type_get(m, value_type(g, j)).dtype;
            if (*at != HOP_NONE && (from != to || dtype_is_narrow(from)))
                return NULL; /* rounded at every step: that is an order of its own */
        }
    }
    a->right = keep_results(m, w->h, g->n_params, n, 2 * n);
    if (!is_pointwise(m, module_fn(m, a->right), a->slice)) return NULL;
    order_leaves(a, w->s->travels, arena);
    return a->most_coupled > MOST_COUPLED ? NULL : a;
}

static bool affine_pays(const struct back *w, const struct affine *a)
{
    struct module *m = w->b->m;
    struct type t = emit_type(w->b, w->v->operands[0]);
    uint32_t along = associative_dim(w->v->attrs);
    dim outer = 1, inner = 1;
    for (uint32_t d = 0; d < along; d++) outer = dim_mul(m, outer, t.dims[d]);
    for (uint32_t d = along + 1; d < t.rank; d++) inner = dim_mul(m, inner, t.dims[d]);
    if (outer != 1) return true;
    /* Rows of scalars are in registers whatever they are for, so there the scan of coupled ones is no slower.
     */
    bool coupled_scalars = t.rank == 1 && a->most_coupled > 1;
    return dim_is_const(m, inner) && dim_const_value(m, inner) <= AFFINE_ELEMENTS && !coupled_scalars;
}

/* A value of a slice's shape, or a scalar where slices are, spread over rows: dims of `like`. */
static val spread_rows(const struct back *w, val x, val like)
{
    struct type t = emit_type(w->b, like), own = emit_type(w->b, x);
    uint32_t at[MAX_RANK], n = 0;
    for (uint32_t d = 0; d < t.rank && n < own.rank; d++)
        if (d != w->along) at[n++] = d;
    return emit_broadcast(w->b, x, t.rank, t.dims, at);
}

static void over_rows(const struct back *w, const struct affine *a, uint32_t fn, val like, const val *args,
                      val *results)
{
    struct type t = emit_type(w->b, like);
    emit_pointwise(w->b, fn, w->dims, a->slice.rank, t.rank, t.dims, args, results);
}

/* Residuals as arguments over rows; returns how many. */
static uint32_t residual_args(const struct back *w, const struct affine *a, const struct vjp_halves *h,
                              val like, val *args)
{
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        if (!is_own(h, w->n, i)) {
            args[i] = rows_numbered(w, rows_number(h, w->n, i));
            continue;
        }
        val own = w->v->operands[w->n + h->source_param[i] - 2 * w->n];
        args[i] = emit_type(w->b, own).rank == a->slice.rank ? spread_rows(w, own, like) : own;
    }
    return h->n_residuals;
}

/* Arrays of J, all rows but the first: entry [i·n + j] is the derivative of leaf i by the left leaf j. */
static void derivatives(const struct back *w, const struct affine *a, val like, val *j_rows)
{
    struct builder *b = w->b;
    for (uint32_t o = 0; o < a->n_order; o++) {
        uint32_t i = a->order[o];
        const struct fn *f = module_fn(b->m, a->row[i]);
        val *args = ARENA_NEW(&b->arena, val, f->n_params), *found = ARENA_NEW(&b->arena, val, f->n_results);
        residual_args(w, a, a->of[i], like, args);
        over_rows(w, a, a->row[i], like, args, found);
        for (uint32_t j = 0; j < w->n; j++)
            j_rows[i * w->n + j] = a->at[i * w->n + j] != HOP_NONE ? found[a->at[i * w->n + j]] : VAL_NONE;
    }
}

/* G of a leaf that depends on itself, from its terms. */
static val solve_alone(const struct back *w, const struct affine *a, uint32_t j, val j_rows, val terms)
{
    const struct vjp_halves *h = a->of[j];
    const struct fn *f = module_fn(w->b->m, a->row[j]);
    struct attr attrs[] = { [CUMULATIVE_DIM] = A_INT(w->along),
                            [CUMULATIVE_REVERSE] = A_FLAG(!w->reverse),
                            [RECURRENCE_LATE] = A_FLAG(true) };
    struct attr sums[CUMULATIVE_ATTRS] = { attrs[CUMULATIVE_DIM], attrs[CUMULATIVE_REVERSE], A_NONE };
    uint32_t r = a->at[j * w->n + j], number = HOP_NONE;
    val result = f->results[r], factors;
    if (is_number(f, r, 1)) return emit(w->b, OP_cumsum, &terms, 1, sums);
    if (result < h->n_residuals && !is_own(h, w->n, result)) number = rows_number(h, w->n, result);
    if (number == HOP_NONE || number < w->n) factors = join_rows(w, w->xs[j], VAL_NONE, j_rows);
    /* Else J is an array that is there, whose first row is not used. */
    else if (number < 2 * w->n) factors = w->xs[number - w->n];
    else factors = w->ys[number - 2 * w->n];
    return emit(w->b, OP_recurrence, (val[]){ factors, terms }, 2, attrs);
}

/* Rows one step earlier, nothing behind the last. */
static val earlier(const struct back *w, val rows, val like)
{
    struct attr along = A_INT(w->along);
    val none = zero_rows(w, like, w->one);
    return emit(w->b, OP_concat, (val[]){ w->reverse ? none : rows, w->reverse ? rows : none }, 2, &along);
}

/* (M…, b…) of those behind and (M…, b…) of a row to those of both: v ↦ M v + b. */
static struct region_in compose_maps(const struct back *w, uint32_t size, type_id type)
{
    struct new_body body;
    uint32_t n = size * size + size;
    new_body_begin(&body, w->b, NULL, NULL, 0);
    type_id t = new_body_type(&body, type);
    val *out = ARENA_NEW(&body.b.arena, val, n);
    for (uint32_t k = 0; k < 2 * n; k++) builder_param(&body.b, t, 0);
    for (uint32_t i = 0; i < size; i++)
        for (uint32_t j = 0; j <= size; j++) { /* column `size` is b */
            val sum = VAL_NONE;
            for (uint32_t k = 0; k < size; k++) {
                val left = j < size ? k * size + j : size * size + k;
                sum = add_cotangents(&body.b, sum, emit2(&body.b, OP_mul, n + i * size + k, left));
            }
            if (j < size) out[i * size + j] = sum;
            else out[size * size + i] = emit2(&body.b, OP_add, sum, n + size * size + i);
        }
    return new_body_finish(&body, out, n, NULL, 0);
}

/* G of the leaves members[0..size) that depend on each other, from their terms. */
static void solve_coupled(const struct back *w, const val *j_rows, const uint32_t *members, uint32_t size,
                          val *g)
{
    struct builder *b = w->b;
    uint32_t n_maps = size * size;
    val *maps = ARENA_NEW(&b->arena, val, n_maps + size), like = w->xs[members[0]];
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t k = 0; k < size; k++) {
            val entry = j_rows[members[k] * w->n + members[i]];
            maps[i * size + k] = entry != VAL_NONE ? earlier(w, entry, like) : zeros_like(b, like);
        }
        maps[n_maps + i] = g[members[i]] != VAL_NONE ? g[members[i]] : zeros_like(b, like);
    }
    type_id slice = type_drop_dim(b->m, builder_type(b, like), w->along);
    val first = emit_associative(b, maps, n_maps + size, w->along, !w->reverse, compose_maps(w, size, slice));
    for (uint32_t i = 0; i < size; i++) g[members[i]] = first + n_maps + i;
}

/* All of G, leaf by leaf: those that feed others first. */
static void solve(const struct back *w, const struct affine *a, val *g)
{
    struct builder *b = w->b;
    uint32_t n = w->n;
    val *j_rows = ARENA_NEW(&b->arena, val, (size_t)n * n), like = zero_rows(w, w->xs[0], w->rest);
    for (uint32_t k = 0; k < n * n; k++) j_rows[k] = VAL_NONE;
    derivatives(w, a, like, j_rows);
    for (uint32_t o = 0, size; o < a->n_order; o += size) {
        uint32_t group = a->group[a->order[o]];
        bool any = false;
        for (size = 0; o + size < a->n_order && a->group[a->order[o + size]] == group; size++) {
            uint32_t j = a->order[o + size];
            g[j] = w->cts[j];
            for (uint32_t before = 0; before < o; before++) {
                uint32_t i = a->order[before];
                if (g[i] == VAL_NONE || j_rows[i * n + j] == VAL_NONE) continue;
                val reached = emit2(b, OP_mul, j_rows[i * n + j], rows_of(w, g[i], w->from, w->to));
                g[j] = add_cotangents(b, earlier(w, reached, w->xs[j]), g[j]);
            }
            any |= g[j] != VAL_NONE;
        }
        uint32_t j = a->order[o];
        if (!any) continue;
        if (size > 1) solve_coupled(w, j_rows, a->order + o, size, g);
        else if (j_rows[j * n + j] != VAL_NONE) g[j] = solve_alone(w, a, j, j_rows[j * n + j], g[j]);
    }
}

/* Cotangents of captured values: the pullback of every row, summed. */
static void sum_own(const struct back *w, const val *g)
{
    struct builder *b = w->b;
    struct module *m = b->m;
    const struct vjp_halves *h = w->h;
    uint32_t n = w->n;
    uint32_t n_params = 2 * n + w->n_own;
    uint32_t fn = keep_results(m, h, n_params, 2 * n, n_params);
    uint32_t n_args = 0, r = 0;
    const struct fn *f = module_fn(m, fn);
    if (!f->n_results) return;
    struct back moved = *w; /* rows in front */
    moved.along = 0;
    moved.xs = ARENA_NEW(&b->arena, val, n);
    moved.ys = ARENA_NEW(&b->arena, val, n);
    uint32_t along = w->along;
    for (uint32_t k = 0; k < n; k++) {
        moved.xs[k] = emit_move_dim(b, w->xs[k], along, 0);
        moved.ys[k] = emit_move_dim(b, w->ys[k], along, 0);
    }
    val *args = ARENA_NEW(&b->arena, val, f->n_params), *found = ARENA_NEW(&b->arena, val, f->n_results);
    bool *batched = ARENA_NEW(&b->arena, bool, f->n_params);
    bool *force = ARENA_NEW(&b->arena, bool, f->n_results);
    bool *result_batched = ARENA_NEW(&b->arena, bool, f->n_results);
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        batched[n_args] = !is_own(h, n, i);
        args[n_args++] = is_own(h, n, i) ? w->v->operands[n + h->source_param[i] - 2 * n]
                                         : rows_numbered(&moved, rows_number(h, n, i));
    }
    for (uint32_t k = 0; k < n; k++) {
        if (!h->ct_result[k]) continue;
        batched[n_args] = true;
        val ct = g[k] == VAL_NONE ? zeros_like(b, w->xs[k]) : g[k];
        args[n_args++] = rows_of(&moved, emit_move_dim(b, ct, along, 0), w->from, w->to);
    }
    memset(force, true, f->n_results);
    bool fixed = dim_is_const(m, w->rest);
    fn = batch_function(m, fn, batched, fixed ? w->rest : HOP_NONE, force, false, result_batched);
    inline_function(b, fn,
                    extend_dims(b, w->dims, node_region(w->v->f, w->v->n, 0)->n_dims,
                                module_fn(m, fn)->n_outer_symbols, w->rest),
                    args, found);
    for (uint32_t k = 0; k < w->n_own; k++)
        if (h->ct_param[2 * n + k])
            w->v->out[n + k] = emit_reduce(b, OP_sum, found[r++], (const uint32_t[]){ 0 }, 1);
}

static bool go_back_at_once(struct vjp *v)
{
    struct builder *b = v->b;
    struct back w = back_of(v, associative_dim(v->attrs));
    uint32_t n = w.n, n_args, r = 0;
    const struct affine *a = associative_form == FORM_SEQUENTIAL ? NULL : affine_of(&w);
    if (!a || (associative_form == FORM_BY_COST && !affine_pays(&w, a))) return false;
    for (uint32_t k = 0; k < n; k++) {
        w.xs[k] = v->operands[k];
        w.ys[k] = w.s->results[k];
        w.cts[k] = w.s->travels[k] ? v->ct[k] : VAL_NONE;
    }
    val *g = ARENA_NEW(&b->arena, val, n);
    val *rows = ARENA_NEW(&b->arena, val, n);
    val like = zero_rows(&w, w.xs[0], w.rest);
    for (uint32_t k = 0; k < n; k++) g[k] = VAL_NONE;
    solve(&w, a, g);
    const struct fn *f = module_fn(b->m, a->right);
    val *args = ARENA_NEW(&b->arena, val, f->n_params), *found = ARENA_NEW(&b->arena, val, f->n_results);
    n_args = residual_args(&w, a, w.h, like, args);
    for (uint32_t k = 0; k < n; k++) {
        rows[k] = g[k] != VAL_NONE ? rows_of(&w, g[k], w.from, w.to) : zero_rows(&w, w.xs[k], w.rest);
        if (w.h->ct_result[k]) args[n_args++] = rows[k];
    }
    over_rows(&w, a, a->right, like, args, found);
    for (uint32_t k = 0; k < n; k++) {
        val rest = w.h->ct_param[n + k] ? found[r++] : VAL_NONE;
        val first = g[k] != VAL_NONE ? rows_of(&w, g[k], w.first_from, w.first_to) : VAL_NONE;
        if (!v->active[k] || (first == VAL_NONE && rest == VAL_NONE)) continue;
        v->out[k] = first != VAL_NONE && rest == rows[k] ? g[k] : join_rows(&w, w.xs[k], first, rest);
    }
    sum_own(&w, g);
    return true;
}

void associative_vjp(struct vjp *v)
{
    const struct associative_saved *s = v->saved;
    if (s->hoisted) replaced_vjp(v, s->hoisted);
    else if (!go_back_at_once(v)) go_back(v);
}
