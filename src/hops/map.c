/* The row of map: a body applied to every slice along the leading dim of arrays, its results stacked. Operand
 * group: over; the body's own operands are the same for every slice. Slices are independent of each other:
 * compiled, all are done at once by the body batched over them where that pays, otherwise one after the
 * other, as bodies with effects always are. */
#include "hops/hops.h"
#include "ir/axes.h"
#include "transform/simplify.h"

static void map_infer(struct infer *in)
{
    uint32_t n_over = in->groups[0];
    const struct fn *g = module_fn(in->m, in->regions[0].fn);
    const struct attr *length = &in->attrs[MAP_LENGTH];
    if (!n_over && length->kind == ATTR_ABSENT)
        infer_error(in,
                    "nothing is mapped over: attribute 'length' must say how many times the body is applied");
    dim rows = length->kind != ATTR_ABSENT ? (dim)length->i : infer_type(in, 0).dims[0];
    for (uint32_t i = 0; i < n_over; i++)
        infer_equal(in, rows, infer_type(in, i).dims[0],
                    arena_printf(&in->m->scratch, "the leading dim of 'over' operand %u", i));
    for (uint32_t k = 0; k < g->n_results; k++)
        infer_result(in, type_prepend(in->m, infer_region_result(in, 0, k), rows));
}

/* ---- all slices at once or one after the other ---- */

enum {
    MOST_ELEMENTS = 1 << 26, /* that may be stored for all slices of values that must be */
    WIDE_SLICE = 512 /* elements of a slice from which on a loop inside the body fills vectors by itself */
};

static int64_t elements_of(struct module *m, type_id t)
{
    dim n = type_elements(m, t);
    return dim_is_const(m, n) ? dim_const_value(m, n) : 0;
}

struct cost {
    int64_t stored; /* elements of one slice, where known */
    bool choices;   /* branches, loops and sizes that may be others for each slice */
    bool loops, wide;
};

static void add_cost(struct module *m, const struct fn *f, struct cost *c)
{
    c->choices |= f->n_symbols > f->n_outer_symbols; /* sizes found on the way differ from slice to slice */
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        enum loop_kind kind = node_loop_kind(n);
        bool one_by_one = kind == LOOP_MAP && (node_attr(f, n, MAP_SEQUENTIAL)->kind != ATTR_ABSENT ||
                                               node_attr(f, n, MAP_APART)->kind != ATTR_ABSENT);
        c->choices |= n->op == OP_switch || kind == LOOP_WHILE || kind == LOOP_COUNTED || one_by_one;
        c->loops |= kind == LOOP_SCAN || n->op == OP_associative_scan;
        for (uint32_t k = 0; k < n->n_results; k++) {
            int64_t size = elements_of(m, value_type(f, n->results + k));
            c->wide |= size >= WIDE_SLICE;
            if (!node_row(n)->lower || node_row(n)->lower->kind != LOWER_POINTWISE) c->stored += size;
        }
        for (uint32_t r = 0; r < n->n_regions; r++) add_cost(m, module_fn(m, node_region(f, n, r)->fn), c);
    }
}

/* Does it pay to do all slices at once? shared: elements that are made for each slice besides. */
static bool at_once(struct module *m, const struct loop *l, int64_t shared)
{
    struct cost c = { .stored = shared };
    if (l->sequential || l->apart || l->body->effects) return false;
    add_cost(m, l->body, &c);
    if (c.choices || (c.loops && c.wide)) return false;
    int64_t n = dim_is_const(m, l->length) ? dim_const_value(m, l->length) : 1;
    return c.stored <= MOST_ELEMENTS / HOP_MAX(n, 1);
}

/* ---- reverse ---- */

static void map_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct loop l;
    loop_of_copy(v->copy, v->n, &l);
    struct reversed_step *s = step_reverse(b->m, &b->arena, &l, v->active, v->result_wanted, false, false);
    step_emit_forward(b, s, &l, 0, v->n);
    for (uint32_t k = 0; k < v->n->n_results; k++) {
        v->results[k] = s->made.stacks + k;
        v->result_active[k] = s->result_active[k];
    }
    v->saved = s;
}

/* Cotangents of what all slices share: summed over the slices when all are done at once, otherwise added up
 * slice by slice. */
static void map_vjp(struct vjp *v)
{
    const struct reversed_step *s = v->saved;
    const struct loop *l = &s->loop;
    int64_t shared = 0;
    for (uint32_t k = 0; k < l->n_with; k++)
        if (s->halves->ct_param[loop_first_with(l) + k])
            shared += elements_of(v->b->m, builder_type(v->b, l->with[k]));
    step_vjp(v, s, at_once(v->b->m, l, shared));
}

/* ---- simplification ---- */

/* The body batched over the slices, the first n_over of its arguments, which are the lanes of `axis` if that
 * is one. dims: what its outer symbols are. */
static void emit_lanes(struct builder *b, const struct fn *body, const dim *dims, const val *args,
                       uint32_t n_over, dim length, axis_set axis, val *results)
{
    struct module *m = b->m;
    bool *batched = ARENA_ZNEW(&b->arena, bool, body->n_params);
    bool *force = ARENA_NEW(&b->arena, bool, body->n_results);
    bool *found = ARENA_NEW(&b->arena, bool, body->n_results);
    for (uint32_t k = 0; k < n_over; k++) batched[k] = true;
    for (uint32_t k = 0; k < body->n_results; k++) force[k] = true;
    dim fixed = dim_is_const(m, length) ? length : HOP_NONE;
    uint32_t fn = batch_axis(m, body->id, batched, fixed, force, false, axis, found);
    dims = extend_dims(b, dims, body->n_outer_symbols, module_fn(m, fn)->n_outer_symbols, length);
    inline_function(b, fn, dims, args, results);
}

/* The body batched over the slices in place of the map. */
static bool map_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    struct builder *b = c->b;
    struct loop l;
    HOP_UNUSED(options);
    loop_of_copy(c, n, &l);
    if (!at_once(b->m, &l, 0)) return false;
    val *args = ARENA_NEW(&b->arena, val, l.body->n_params);
    for (uint32_t p = 0; p < l.body->n_params; p++) args[p] = loop_operand(&l, p);
    emit_lanes(b, l.body, l.dims, args, l.n_over, l.length, 0, results);
    return true;
}

/* With an axis the slices are its lanes: the body over all of them. */
static void map_bind(struct builder *b, const struct infer *in, const val *operands, val *results)
{
    const struct region *body = &in->regions[0];
    const struct attr *length = &in->attrs[MAP_LENGTH];
    uint32_t n_over = in->groups[0];
    val *args = ARENA_NEW(&b->arena, val, n_over + body->n_operands + 1);
    for (uint32_t k = 0; k < n_over; k++) args[k] = operands[k];
    for (uint32_t k = 0; k < body->n_operands; k++) args[n_over + k] = operands[body->operands + k];
    dim rows = length->kind != ATTR_ABSENT ? (dim)length->i : emit_type(b, operands[0]).dims[0];
    emit_lanes(b, module_fn(b->m, body->fn), body->dims, args, n_over, rows,
               axes_bound(b->m, op_table[in->op], in->attrs), results);
}

static const struct op_sample map_samples[] = {
    { "hop 1\nfn @sample(%xs: f64[4, 3], %w: f64[3, 2]) -> (f64[4, 2]) {\n"
      "  %ys = map over(%x in %xs) with(%v = %w) {\n"
      "    %a = matmul(%x, %v)\n"
      "    %s = tanh(%a)\n"
      "    stack(%s)\n"
      "  }\n"
      "  return %ys\n"
      "}\n",
      NULL },
    { "hop 1\nfn @sample(%xs: f64[T], %us: f64[T, 2], %w: f64[]) -> (f64[T], f64[T, 2]) {\n"
      "  %ys, %zs = map {sequential} over(%x in %xs, %u in %us) with(%v = %w) {\n"
      "    %a = mul(%x, %v)\n"
      "    %s = sin(%a)\n"
      "    %b = broadcast {dims = [2], at = []} (%s)\n"
      "    %c = mul(%b, %u)\n"
      "    stack(%s, %c)\n"
      "  }\n"
      "  return %ys, %zs\n"
      "}\n",
      NULL },
    { "hop 1\nfn @sample(%xs: f64[5], %w: f64[2]) -> (f64[5, 2]) {\n"
      "  %ys = map over(%x in %xs) with(%v = %w) {\n"
      "    %zero = full {value = 0, dims = [], dtype = f64}\n"
      "    %p = gt(%x, %zero)\n"
      "    %r = switch(%p) [(%v = %v) {\n"
      "      %s = sin(%v)\n"
      "      yield(%s)\n"
      "    }, (%v = %v, %x = %x) {\n"
      "      %b = broadcast {dims = [2], at = []} (%x)\n"
      "      %m = mul(%b, %v)\n"
      "      yield(%m)\n"
      "    }]\n"
      "    stack(%r)\n"
      "  }\n"
      "  return %ys\n"
      "}\n",
      "xs = 0.1..2" },
};

static const struct attr_spec map_attrs[] = {
    [MAP_LENGTH] = { "length", ATTR_DIM, false, NULL },
    [MAP_SEQUENTIAL] = { "sequential", ATTR_FLAG, false, NULL },
    [MAP_APART] = { "apart", ATTR_FLAG, false, NULL },
    [MAP_AXIS] = { "axis", ATTR_STRING, false, NULL },
};

static const struct loop_row map_parts = {
    .kind = LOOP_MAP,
    .group = { .over = 1 },
    .region = { .body = 1 },
    .attr = { .length = 1 + MAP_LENGTH, .sequential = 1 + MAP_SEQUENTIAL, .apart = 1 + MAP_APART },
};

const struct op_row row_map = {
    .name = "map",
    .meaning = "a body applied to each slice along the leading dim of arrays, its results stacked",
    .sig = { .n_attrs = HOP_COUNT(map_attrs),
             .attrs = map_attrs,
             .n_groups = 1,
             .groups = { { "over", GROUP_OVER } },
             .min_regions = 1,
             .max_regions = 1,
             .regions = { { .word = "", .feeds = 1, .results = { "stack" } } } },
    .flags = OPF_HIGHER,
    .autocast = AUTOCAST_KEEP,
    .infer = map_infer,
    .eval = loop_eval,
    .vjp = map_vjp,
    .vjp_forward = map_vjp_forward,
    .jvp = loop_jvp,
    .batch = loop_batch,
    .rewrite = map_rewrite,
    .bind_attr = 1 + MAP_AXIS,
    .bind = map_bind,
    HOP_SAMPLES(map_samples),
    .lower = &steps_lower,
    .loop = &map_parts,
};
