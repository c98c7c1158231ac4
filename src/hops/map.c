/* The row of map: a body applied to every slice along the leading dim of arrays, its results stacked. Operand
 * group: over; the body's own operands are the same for every slice. Slices are independent of each other:
 * compiled, all are done at once by the body batched over them where that pays, otherwise one after the
 * other, as bodies with effects always are. */
#include "hops/hops.h"
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

static void map_eval(struct eval *e)
{
    const struct region *g = node_region(e->f, e->n, 0);
    uint32_t n_over = node_group_size(e->f, e->n, 0), n_args = n_over + g->n_operands,
             n_stack = e->n->n_results;
    const struct attr *length = node_attr(e->f, e->n, MAP_LENGTH);
    int64_t rows = n_over ? e->operands[0]->dims[0] : dim_eval(e->m, (dim)length->i, e->symbols);
    if (rows < 0)
        hop_throw(HOP_CHECK, "%smap: its length is negative: %lld", place_text(e->m, e->n->place),
                  (long long)rows);
    struct tensor_list *args = tensor_list_begin(n_args + 1), *out = tensor_list_begin(n_stack);
    const int64_t *symbols = eval_region_symbols(e, 0, args, n_args);
    for (uint32_t i = 0; i < g->n_operands; i++)
        args->data[n_over + i] = tensor_ref(e->operands[g->operands + i]);
    for (uint32_t k = 0; k < n_stack; k++) e->results[k] = eval_new_stack(e, k, rows);
    for (int64_t t = 0; t < rows; t++) {
        for (uint32_t k = 0; k < n_over; k++) tensor_list_set(args, k, tensor_slice(e->operands[k], t));
        interp_call(e->in, g->fn, symbols, args->data, out->data);
        for (uint32_t k = 0; k < n_stack; k++)
            tensor_put(e->results[k], t, out->data[k]), tensor_list_set(out, k, NULL);
    }
    tensor_list_end(out);
    tensor_list_end(args);
}

/* ---- transforms ---- */

static dim map_length(const struct builder *b, const struct node_in *in)
{
    return in->attrs[MAP_LENGTH].kind != ATTR_ABSENT ? (dim)in->attrs[MAP_LENGTH].i
                                                     : emit_type(b, in->operands[0]).dims[0];
}

static val emit_map(struct builder *b, const val *over, uint32_t n_over, dim length, bool sequential,
                    struct region_in region)
{
    struct attr attrs[MAP_ATTRS] = {
        [MAP_LENGTH] = n_over ? A_NONE : A_DIM(length), [MAP_SEQUENTIAL] = A_FLAG(sequential)
    };
    return builder_node(b, &(struct node_in){ .op = OP_map,
                                              .operands = over,
                                              .n_operands = n_over,
                                              .groups = &n_over,
                                              .attrs = attrs,
                                              .regions = &region,
                                              .n_regions = 1 });
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
        c->choices |= n->op == OP_switch || n->op == OP_while_loop || n->op == OP_fori_loop ||
                      (n->op == OP_map && node_attr(f, n, MAP_SEQUENTIAL)->kind != ATTR_ABSENT);
        c->loops |= n->op == OP_scan || n->op == OP_associative_scan;
        for (uint32_t k = 0; k < n->n_results; k++) {
            int64_t size = elements_of(m, value_type(f, n->results + k));
            c->wide |= size >= WIDE_SLICE;
            if (!node_row(n)->lower || node_row(n)->lower->kind != LOWER_POINTWISE) c->stored += size;
        }
        for (uint32_t r = 0; r < n->n_regions; r++) add_cost(m, module_fn(m, node_region(f, n, r)->fn), c);
    }
}

/* Does it pay to do all slices at once? shared: elements that are made for each slice besides. */
static bool at_once(struct module *m, uint32_t body, bool sequential, dim rows, int64_t shared)
{
    const struct fn *f = module_fn(m, body);
    struct cost c = { .stored = shared };
    if (sequential || f->effects) return false;
    add_cost(m, f, &c);
    if (c.choices || (c.loops && c.wide)) return false;
    int64_t n = dim_is_const(m, rows) ? dim_const_value(m, rows) : 1;
    return c.stored <= MOST_ELEMENTS / HOP_MAX(n, 1);
}

/* ---- reverse ---- */

struct map_saved {
    struct step *step;
    struct node_in in;
    val *stacks, *hoisted;
};

static void map_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct map_saved *saved = ARENA_NEW(&b->arena, struct map_saved, 1);
    struct node_in in = saved->in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    struct step *s = saved->step = step_reverse(b->m, &b->arena, r->fn, 0, in.groups[0], v->active,
                                                v->result_wanted, false, false);
    saved->hoisted = step_emit_hoisted(b, s, r->operands, r->dims);
    val first = emit_map(b, in.operands, in.groups[0], map_length(b, &in),
                         in.attrs[MAP_SEQUENTIAL].kind != ATTR_ABSENT,
                         (struct region_in){ s->forward, r->operands, r->n_operands, r->dims });
    saved->stacks = ARENA_NEW(&b->arena, val, s->n_stack + s->n_extra);
    for (uint32_t k = 0; k < s->n_stack + s->n_extra; k++) saved->stacks[k] = first + k;
    for (uint32_t k = 0; k < v->n->n_results; k++)
        v->results[k] = first + k, v->result_active[k] = s->result_active[k];
    step_tell(b, s, v->n, map_length(b, &in), r->dims, 0);
    v->saved = saved;
}

/* Cotangents of what all slices share: summed over the slices when all are done at once, otherwise added up
 * slice by slice. */
static void map_vjp(struct vjp *v)
{
    const struct map_saved *saved = v->saved;
    const struct node_in *in = &saved->in;
    const struct step *s = saved->step;
    int64_t shared = 0;
    for (uint32_t k = 0; k < s->n_own; k++)
        if (s->halves->ct_param[s->n_over + k])
            shared += elements_of(v->b->m, builder_type(v->b, in->regions[0].operands[k]));
    bool once = at_once(v->b->m, in->regions[0].fn, in->attrs[MAP_SEQUENTIAL].kind != ATTR_ABSENT,
                        map_length(v->b, in), shared);
    step_emit_backward(v->b,
                       &(struct step_backward){ .s = saved->step,
                                                .length = map_length(v->b, in),
                                                .map = once,
                                                .over = in->operands,
                                                .own = in->regions[0].operands,
                                                .stacks = saved->stacks,
                                                .hoisted = saved->hoisted,
                                                .ct = v->ct,
                                                .dims = in->regions[0].dims },
                       v->out);
}

static void map_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n_over = in.groups[0], n = j->n->n_operands;
    bool *active = ARENA_NEW(&b->arena, bool, n),
         *stack_active = ARENA_ZNEW(&b->arena, bool, j->n->n_results);
    for (uint32_t k = 0; k < n; k++) active[k] = j->tangents[k] != VAL_NONE;
    uint32_t fn = step_jvp(b->m, r->fn, 0, n_over, active, stack_active);
    val *over = ARENA_NEW(&b->arena, val, 2 * (size_t)n_over),
        *own = ARENA_NEW(&b->arena, val, 2 * (size_t)r->n_operands);
    uint32_t n_given = with_tangents(b, over, in.operands, j->tangents, active, n_over);
    uint32_t n_own = with_tangents(b, own, r->operands, j->tangents + n_over, active + n_over, r->n_operands);
    val next = emit_map(b, over, n_given, map_length(b, &in), in.attrs[MAP_SEQUENTIAL].kind != ATTR_ABSENT,
                        (struct region_in){ fn, own, n_own, r->dims });
    for (uint32_t k = 0; k < j->n->n_results; k++) j->results[k] = next++;
    for (uint32_t k = 0; k < j->n->n_results; k++) j->out[k] = stack_active[k] ? next++ : VAL_NONE;
}

static void map_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    const struct region_in *r = &in.regions[0];
    uint32_t n_over = in.groups[0];
    dim length = in.attrs[MAP_LENGTH].kind != ATTR_ABSENT
                     ? (dim)in.attrs[MAP_LENGTH].i
                     : emit_type(b, in.operands[0]).dims[v->batched[0] ? 1 : 0];
    bool lanes = v->lanes != VAL_NONE && module_fn(b->m, r->fn)->effects;
    bool *batched = arena_copy(&b->arena, v->batched, v->n->n_operands),
         *stack_batched = ARENA_ZNEW(&b->arena, bool, v->n->n_results);
    uint32_t fn = step_batch(b->m, r->fn, 0, batched, batch_body_size(v), lanes, stack_batched);
    val *over = ARENA_NEW(&b->arena, val, n_over), *own = ARENA_NEW(&b->arena, val, r->n_operands + 1);
    for (uint32_t k = 0; k < n_over; k++)
        over[k] = v->batched[k] ? emit_move_dim(b, in.operands[k], 1, 0) : in.operands[k];
    if (r->n_operands) memcpy(own, r->operands, r->n_operands * sizeof *own);
    if (lanes) own[r->n_operands] = v->lanes;
    struct region_in region = { fn, own, r->n_operands + lanes,
                                batch_body_dims(v, r, module_fn(b->m, fn),
                                                node_region(v->f, v->n, 0)->n_dims) };
    val first = emit_map(b, over, n_over, length, in.attrs[MAP_SEQUENTIAL].kind != ATTR_ABSENT, region);
    for (uint32_t k = 0; k < v->n->n_results; k++) {
        v->result_batched[k] = stack_batched[k];
        v->results[k] = stack_batched[k] ? emit_move_dim(b, first + k, 1, 0) : first + k;
    }
}

/* ---- simplification ---- */

/* The body batched over the slices in place of the map. */
static bool map_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    struct builder *b = c->b;
    struct module *m = b->m;
    struct node_in in = copier_node_in(c, n);
    const struct region_in *r = &in.regions[0];
    const struct fn *body = module_fn(m, r->fn);
    dim length = map_length(b, &in);
    (void)options;
    if (!at_once(m, r->fn, in.attrs[MAP_SEQUENTIAL].kind != ATTR_ABSENT, length, 0)) return false;
    uint32_t n_over = in.groups[0];
    bool *batched = ARENA_ZNEW(&b->arena, bool, body->n_params),
         *force = ARENA_NEW(&b->arena, bool, body->n_results),
         *found = ARENA_NEW(&b->arena, bool, body->n_results);
    for (uint32_t k = 0; k < n_over; k++) batched[k] = true;
    for (uint32_t k = 0; k < body->n_results; k++) force[k] = true;
    bool fixed = dim_is_const(m, length);
    uint32_t fn = batch_function(m, r->fn, batched, fixed ? length : HOP_NONE, force, false, found);
    const dim *dims = extend_dims(b, r->dims, body->n_outer_symbols, module_fn(m, fn)->n_outer_symbols,
                                  length);
    val *args = ARENA_NEW(&b->arena, val, body->n_params);
    for (uint32_t p = 0; p < body->n_params; p++)
        args[p] = p < n_over ? in.operands[p] : r->operands[p - n_over];
    inline_function(b, fn, dims, args, results);
    return true;
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
};

static const struct loop_row map_parts = {
    .kind = LOOP_MAP,
    .group = { .over = 1 },
    .region = { .body = 1 },
    .attr = { .length = 1 + MAP_LENGTH, .sequential = 1 + MAP_SEQUENTIAL },
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
    .infer = map_infer,
    .eval = map_eval,
    .vjp = map_vjp,
    .vjp_forward = map_vjp_forward,
    .jvp = map_jvp,
    .batch = map_batch,
    .rewrite = map_rewrite,
    HOP_SAMPLES(map_samples),
    .lower = &map_lower,
    .loop = &map_parts,
};
