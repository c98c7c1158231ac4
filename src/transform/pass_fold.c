/* Folding: nodes whose operands are constants are evaluated by their own rows, identities that hold for every
 * value (signed zeros and NaN included) are applied as the rows' `fold` says, and control flow whose choice
 * is known is replaced by what it chooses. */
#include "transform/fold.h"

#include "interp/interp.h"
#include "ir/number.h"

#include <math.h>

/* ---- what rules ask for ---- */

bool fold_splat(const struct fold *w, val v, int64_t *i, double *r)
{
    const struct node *n = fold_made_by(w, v, OP_full);
    if (!n) return false;
    const struct attr *a = built_attr(w->b, n, FULL_VALUE);
    *i = a->kind == ATTR_INT ? a->i : (int64_t)HOP_MAX(HOP_MIN(a->r, 9e18), -9e18);
    *r = a->kind == ATTR_INT ? (double)a->i : a->r;
    return true;
}

bool fold_is_number(const struct fold *w, val v, double value)
{
    int64_t i;
    double r;
    if (!fold_splat(w, v, &i, &r)) return false;
    if (!fold_is_float(w, v)) return (double)i == value;
    return r == value && !signbit(r) == !signbit(value);
}

static val full_of_type(struct builder *b, type_id type, int64_t i, double r)
{
    struct type t = type_get(b->m, type);
    struct attr a[3] = { dtype_is_float((enum dtype)t.dtype) ? A_REAL(r) : A_INT(i), A_DIMS(t.dims, t.rank),
                         A_DTYPE(t.dtype) };
    return emit(b, OP_full, NULL, 0, a);
}

val fold_number(const struct fold *w, double value)
{
    return full_of_type(w->b, w->type, (int64_t)value, value);
}

val fold_number_attr(const struct fold *w, struct attr value)
{
    bool whole = value.kind == ATTR_INT;
    return full_of_type(w->b, w->type, whole ? value.i : 0, whole ? 0 : value.r);
}

val fold_arranged(const struct fold *w)
{
    int64_t i;
    double r;
    return fold_splat(w, w->x[0], &i, &r) ? full_of_type(w->b, w->type, i, r) : VAL_NONE;
}

void fold_element(enum dtype t, const struct attr *value, void *out)
{
    if (value->kind == ATTR_INT) element_set_whole(t, out, value->i);
    else element_set_real(t, out, value->r);
}

struct attr fold_element_attr(enum dtype t, const void *element)
{
    return dtype_is_float(t) ? A_REAL(element_real(t, element)) : A_INT(element_whole(t, element));
}

bool fold_full_holds(enum dtype t, const void *element)
{
    return t != DT_U64 || element_whole(t, element) >= 0;
}

/* ---- evaluating ---- */

/* The tensor of a full or constant; of its first element only when `one`. */
static struct tensor *constant_tensor(const struct fold *w, val v, bool one)
{
    const struct node *n = built_node(w->b, v);
    struct type t = emit_type(w->b, v);
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = one ? 1 : dim_const_value(w->m, t.dims[i]);
    struct tensor *out = tensor_new((enum dtype)t.dtype, one ? 0 : t.rank, dims);
    size_t width = dtype_info[t.dtype].size;
    char *data = out->data;
    if (n->op == OP_constant) {
        int64_t constant = built_attr(w->b, n, CONSTANT_VALUE)->i;
        memcpy(data, w->m->constants.data[constant].data, (size_t)out->count * width);
    } else {
        const struct attr *value = built_attr(w->b, n, FULL_VALUE);
        for (int64_t i = 0; i < out->count; i++)
            fold_element((enum dtype)t.dtype, value, data + (size_t)i * width);
    }
    return out;
}

struct tensors {
    struct tensor *data[8];
    uint32_t n;
};
static void tensors_free(void *list)
{
    struct tensors *l = list;
    for (uint32_t i = 0; i < l->n; i++) tensor_free(l->data[i]);
}

/* The number that a full has all elements of: the first, or zero where there is none. */
static struct attr common_element(const struct tensor *t)
{
    if (t->count) return fold_element_attr((enum dtype)t->dtype, t->data);
    return dtype_is_float((enum dtype)t->dtype) ? A_REAL(0) : A_INT(0);
}

/* A constant of these elements: a full when all are the same number. */
static val constant_of(const struct fold *w, const struct tensor *t)
{
    size_t width = dtype_info[t->dtype].size;
    const char *data = t->data;
    bool same = t->count > 0;
    for (int64_t i = 1; i < t->count && same; i++) same = !memcmp(data, data + (size_t)i * width, width);
    struct type type = type_get(w->m, w->type);
    if ((same && fold_full_holds((enum dtype)t->dtype, data)) || !t->count) {
        struct attr a[3] = { common_element(t), A_DIMS(type.dims, type.rank), A_DTYPE(type.dtype) };
        return emit(w->b, OP_full, NULL, 0, a);
    }
    if (t->count != static_elements(w->m, w->type))
        return VAL_NONE; /* one element stands for all, and no full holds it */
    struct attr a = A_CONST(module_constant(w->m, w->type, data, (size_t)t->count * width, 0));
    return emit(w->b, OP_constant, NULL, 0, &a);
}

/* Runs the row on tensors: a function of one node is made for it and thrown away. */
static val evaluate(const struct fold *w, bool one)
{
    const struct op_row *row = node_row(w->n);
    struct builder b;
    struct tensors all = { .n = 0 };
    val operands[7];
    builder_begin(&b, w->m, NULL);
    hop_cleanup_push(tensors_free, &all);
    for (uint32_t k = 0; k < w->n->n_operands; k++) {
        all.data[k] = constant_tensor(w, w->x[k], one);
        all.n = k + 1;
        type_id t = builder_type(w->b, w->x[k]);
        operands[k] = builder_param(&b, one ? type_scalar(w->m, (enum dtype)type_get(w->m, t).dtype) : t, 0);
    }
    val result = builder_node(&b, &(struct node_in){ .op = w->n->op,
                                                     .operands = operands,
                                                     .n_operands = w->n->n_operands,
                                                     .attrs = w->attrs,
                                                     .place = w->n->place });
    struct type t = type_get(w->m, builder_type(&b, result));
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_const_value(w->m, t.dims[i]);
    struct tensor **out = &all.data[all.n];
    *out = tensor_new((enum dtype)t.dtype, t.rank, dims);
    all.n++;
    struct fn view = { .n_params = b.n_params,
                       .n_values = b.values.len,
                       .n_nodes = b.nodes.len,
                       .values = b.values.data,
                       .nodes = b.nodes.data,
                       .pool = b.pool.data,
                       .attrs = b.attrs.data,
                       .regions = b.regions.data };
    struct interp in = { .m = w->m };
    row->eval(&(struct eval){ .in = &in,
                              .m = w->m,
                              .f = &view,
                              .n = &view.nodes[view.n_nodes - 1],
                              .operands = all.data,
                              .results = out });
    val folded = constant_of(w, *out);
    hop_cleanup_pop(&all);
    tensors_free(&all);
    builder_abandon(&b);
    return folded;
}

static bool attrs_are_static(const struct fold *w)
{
    for (uint32_t k = 0; k < node_row(w->n)->sig.n_attrs; k++) {
        const struct attr *a = &w->attrs[k];
        if (a->kind == ATTR_DIM && !dim_is_const(w->m, (dim)a->i)) return false;
        for (uint32_t i = 0; a->kind == ATTR_DIMS && i < a->n; i++)
            if (!dim_is_const(w->m, a->list[i])) return false;
    }
    return true;
}

/* A node over constants. Elementwise nodes over fulls of any size are evaluated on one element. */
static val fold_constants(const struct fold *w)
{
    const struct op_row *row = node_row(w->n);
    if (!w->n->n_operands || w->n->n_operands > 7 || w->n->n_results != 1) return VAL_NONE;
    if (!row->eval || row_may_have_effects(row) || row->flags & (OPF_NO_FOLD | OPF_NO_MERGE | OPF_HIGHER))
        return VAL_NONE;
    bool fulls = true, small = true;
    for (uint32_t k = 0; k < w->n->n_operands; k++) {
        const struct node *n = built_node(w->b, w->x[k]);
        if (!n || (n->op != OP_full && n->op != OP_constant)) return VAL_NONE;
        int64_t elements = static_elements(w->m, builder_type(w->b, w->x[k]));
        fulls &= n->op == OP_full;
        small &= elements >= 0 && elements <= FOLD_LIMIT;
    }
    if (fulls && row->flags & OPF_ELEMENTWISE) return evaluate(w, true);
    int64_t elements = static_elements(w->m, w->type);
    if (!small || elements < 0 || elements > FOLD_LIMIT || !attrs_are_static(w)) return VAL_NONE;
    return evaluate(w, false);
}

/* ---- control flow ---- */

/* Is the predicate false whatever comes, or false on the first carries, which are known as far as it reads
 * them? */
static bool false_at_entry(struct copier *c, const struct loop *l)
{
    const struct fn *cond = l->cond;
    struct arena *a = &c->b->arena;
    struct module *m = c->b->m;
    if (cond->effects || cond->n_symbols || cond->n_nodes > FOLD_LIMIT) return false;
    for (uint32_t i = 0; i < cond->n_nodes; i++)
        if (fn_node(cond, i)->n_regions || !node_is_pure(m, cond, fn_node(cond, i))) return false;
    for (uint32_t v = 0; v < cond->n_values; v++)
        if (static_elements(m, value_type(cond, v)) > FOLD_LIMIT) return false;
    struct liveness live = live_values(a, m, cond, (struct needs){ 0 });
    struct param_plan *plan = ARENA_ZNEW(a, struct param_plan, cond->n_params);
    for (uint32_t p = 0; p < cond->n_params; p++) {
        val given = c->values[p < l->n_carry ? l->carry[p] : l->cond_with[p - l->n_carry]];
        plan[p].fate = live.value[p] ? PARAM_FULL : PARAM_DROP;
        if (live.value[p] && !full_value(c->b, given, &plan[p].value)) return false;
    }
    val *own = ARENA_NEW(a, val, l->n_cond_with);
    uint32_t n_own, fn = region_build(m,
                                      &(struct region_plan){ .g = cond,
                                                             .n_carry = l->n_carry,
                                                             .params = plan,
                                                             .wanted = cond->results,
                                                             .n_wanted = 1,
                                                             .own = own },
                                      own, &n_own);
    struct interp in = { .m = m };
    struct tensor *test;
    interp_call(&in, fn, NULL, NULL, &test);
    bool again = *(const uint8_t *)test->data;
    tensor_free(test);
    return !again;
}

/* A loop without a trip. */
static bool fold_while(struct copier *c, const struct loop *l, val *results)
{
    if (l->n_stack || !false_at_entry(c, l)) return false;
    for (uint32_t i = 0; i < l->n_carry; i++) results[i] = c->values[l->carry[i]];
    if (l->counts) results[loop_trips_result(l)] = full_of_type(c->b, type_scalar(c->b->m, DT_I64), 0, 0);
    return true;
}

/* A scan of no step or of one. */
static bool fold_scan(struct copier *c, const struct loop *l, val *results)
{
    struct module *m = c->b->m;
    dim length = copier_dim(c, l->length);
    if (length == 0) {
        for (uint32_t k = 0; k < l->n_stack; k++) {
            type_id t = value_type(c->f, l->n->results + loop_stack_result(l, k));
            results[loop_stack_result(l, k)] = full_of_type(c->b, copier_type(c, t), 0, 0);
        }
        for (uint32_t i = 0; i < l->n_carry; i++) results[i] = c->values[l->carry[i]];
        return true;
    }
    if (length != 1) return false;
    val *arguments = ARENA_NEW(&c->b->arena, val, l->body->n_params);
    val *out = ARENA_NEW(&c->b->arena, val, l->body->n_results);
    for (uint32_t i = 0; i < l->body->n_params; i++) {
        arguments[i] = c->values[loop_operand(l, i)];
        if (!loop_is_over(l, i)) continue;
        val xs = arguments[i];
        struct type t = emit_type(c->b, xs);
        arguments[i] = emit_reshape(c->b, xs, t.rank - 1u, t.dims + 1);
    }
    inline_region(c, l->n, l->body_region, arguments, out);
    for (uint32_t i = 0; i < l->n_carry; i++) results[i] = out[i];
    for (uint32_t k = 0; k < l->n_stack; k++) {
        struct type t = type_get(m, type_prepend(m, builder_type(c->b, out[l->n_carry + k]), 1));
        results[loop_stack_result(l, k)] = emit_reshape(c->b, out[l->n_carry + k], t.rank, t.dims);
    }
    return true;
}

/* ---- the pass ---- */

static bool fold_node(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    HOP_UNUSED(ctx);
    const struct op_row *row = node_row(n);
    struct loop l;
    if (row->rewrite && row->rewrite(c, n, results, s->o)) return true;
    if (loop_of_node(s->m, c->f, n, &l))
        return loop_has_length(&l) ? fold_scan(c, &l, results) : l.cond && fold_while(c, &l, results);
    if (n->n_results != 1 || (!row->fold && !n->n_operands) || node_binds_symbols(c->f, n)) return false;
    bool constants = n->n_operands > 0;
    for (uint32_t k = 0; k < n->n_operands && constants; k++) {
        const struct node *from = built_node(c->b, c->values[node_operands(c->f, n)[k]]);
        constants = from && (from->op == OP_full || from->op == OP_constant);
    }
    if (!constants && !row->fold) return false;
    struct node_in in = copier_node_in(c, n);
    struct fold w = { .b = c->b,
                      .m = s->m,
                      .f = c->f,
                      .n = n,
                      .x = in.operands,
                      .attrs = in.attrs,
                      .type = copier_type(c, value_type(c->f, n->results)),
                      .last = !s->o->differentiable };
    val v = row->fold ? row->fold(&w) : VAL_NONE;
    if (v == VAL_NONE && constants) v = fold_constants(&w);
    if (v == VAL_NONE || builder_type(c->b, v) != w.type) return false;
    results[0] = v;
    return true;
}

uint32_t pass_fold(struct simplifier *s, uint32_t fn) { return rewrite_nodes(s, fn, NULL, fold_node, NULL); }
