/* The row of while_loop: a body is run on carries as long as a predicate of them holds. The predicate and the body have own operands beside the
 * carries; the body may stack further results, one row a trip. Results: last carries; the number of trips when asked for or when
 * anything is stacked; stacks, [?n, …], or [max_trips, …] with zeros behind the last trip. */
#include "hops/hops.h"

enum { REGION_COND, REGION_BODY };

static void while_infer(struct infer *in)
{
    uint32_t n_carry = in->groups[0];
    const struct fn *cond = module_fn(in->m, in->regions[REGION_COND].fn), *body = module_fn(in->m, in->regions[REGION_BODY].fn);
    if (cond->n_results != 1 || value_type(cond, cond->results[0]) != type_scalar(in->m, DT_BOOL))
        infer_error(in, "the predicate: expected one result bool[], found %u, the first %s", cond->n_results,
                    cond->n_results ? type_text(in->m, cond->symbols, value_type(cond, cond->results[0])) : "missing");
    if (cond->effects & ~EFFECT_CHECK) infer_error(in, "the predicate has effects beyond check");
    if (body->n_results < n_carry) infer_error(in, "the body gives %u results, fewer than the %u carries", body->n_results, n_carry);
    if (!n_carry && !body->effects) infer_error(in, "a loop without carries can never end");
    for (uint32_t i = 0; i < n_carry; i++) {
        infer_same_type(in, in->operands[i], infer_region_result(in, REGION_BODY, i), arena_printf(&in->m->scratch, "carry %u and what the body makes of it", i));
        infer_result(in, in->operands[i]);
    }
    if (body->n_results == n_carry && in->attrs[WHILE_COUNT].kind == ATTR_ABSENT) return;
    infer_result(in, type_scalar(in->m, DT_I64));
    if (body->n_results == n_carry) return;
    const struct attr *max = &in->attrs[WHILE_MAX_TRIPS];
    dim trips = max->kind != ATTR_ABSENT ? (dim)max->i : infer_fresh(in, 0, INT64_MAX);
    for (uint32_t i = n_carry; i < body->n_results; i++) infer_result(in, type_prepend(in->m, infer_region_result(in, REGION_BODY, i), trips));
}

/* A stack that doubles while the loop runs. */
struct growing {
    char *data;
    size_t used, size;
};
struct stacks {
    uint32_t n;
    struct growing stack[];
};
static void stacks_free(void *stacks)
{
    struct stacks *s = stacks;
    for (uint32_t i = 0; i < s->n; i++) hop_free(s->stack[i].data);
    hop_free(s);
}
static void stack_push(struct growing *g, const struct tensor *t)
{
    size_t bytes = tensor_bytes(t);
    if (g->used + bytes > g->size) {
        size_t size = HOP_MAX(g->size * 2, g->used + bytes);
        g->data = hop_realloc(g->data, size);
        g->size = size;
    }
    if (bytes) memcpy(g->data + g->used, t->data, bytes);
    g->used += bytes;
}

static struct tensor *stack_result(struct eval *e, uint32_t k, const struct growing *g, int64_t trips, int64_t rows)
{
    struct type t = type_get(e->m, value_type(e->f, e->n->results + k));
    int64_t dims[MAX_RANK] = { rows };
    for (uint32_t d = 1; d < t.rank; d++) dims[d] = dim_eval(e->m, t.dims[d], e->symbols);
    struct tensor *out = tensor_new((enum dtype)t.dtype, t.rank, dims);
    if (g->used) memcpy(out->data, g->data, g->used);
    if (rows > trips) memset((char *)out->data + g->used, 0, tensor_bytes(out) - g->used);
    return out;
}

/* The carries are args[0..n_carry); returns the number of trips. */
static int64_t run_loop(struct eval *e, struct tensor_list *cond_args, struct tensor_list *body_args, struct stacks *stacks, int64_t max)
{
    const struct region *cond = node_region(e->f, e->n, REGION_COND), *body = node_region(e->f, e->n, REGION_BODY);
    uint32_t n_carry = node_group_size(e->f, e->n, 0);
    const int64_t *cond_symbols = eval_region_symbols(e, REGION_COND, cond_args, cond_args->n - 1);
    const int64_t *body_symbols = eval_region_symbols(e, REGION_BODY, body_args, body_args->n - 1);
    struct tensor_list *out = tensor_list_begin(n_carry + stacks->n), *test = tensor_list_begin(1);
    int64_t trips = 0;
    for (;; trips++) {
        for (uint32_t k = 0; k < n_carry; k++) tensor_list_set(cond_args, k, tensor_ref(body_args->data[k]));
        interp_call(e->in, cond->fn, cond_symbols, cond_args->data, test->data);
        bool again = *(const uint8_t *)test->data[0]->data;
        tensor_list_set(test, 0, NULL);
        if (!again) break;
        if (trips == max) hop_throw(HOP_CHECK, "%swhile_loop: more than %lld trips", place_text(e->m, e->n->place), (long long)max);
        interp_call(e->in, body->fn, body_symbols, body_args->data, out->data);
        for (uint32_t k = 0; k < n_carry; k++) tensor_list_set(body_args, k, out->data[k]), out->data[k] = NULL;
        for (uint32_t k = 0; k < stacks->n; k++) stack_push(&stacks->stack[k], out->data[n_carry + k]), tensor_list_set(out, n_carry + k, NULL);
    }
    tensor_list_end(test);
    tensor_list_end(out);
    return trips;
}

static void while_eval(struct eval *e)
{
    const struct region *cond = node_region(e->f, e->n, REGION_COND), *body = node_region(e->f, e->n, REGION_BODY);
    uint32_t n_carry = node_group_size(e->f, e->n, 0), n_stack = module_fn(e->m, body->fn)->n_results - n_carry;
    const struct attr *max = node_attr(e->f, e->n, WHILE_MAX_TRIPS);
    int64_t limit = max->kind == ATTR_ABSENT ? -1 : dim_eval(e->m, (dim)max->i, e->symbols);
    struct tensor_list *cond_args = tensor_list_begin(n_carry + cond->n_operands + 1), *body_args = tensor_list_begin(n_carry + body->n_operands + 1);
    struct stacks *stacks = hop_calloc(1, sizeof *stacks + n_stack * sizeof *stacks->stack);
    stacks->n = n_stack;
    hop_cleanup_push(stacks_free, stacks);
    for (uint32_t k = 0; k < n_carry; k++) body_args->data[k] = tensor_ref(e->operands[k]);
    for (uint32_t k = 0; k < cond->n_operands; k++) cond_args->data[n_carry + k] = tensor_ref(e->operands[cond->operands + k]);
    for (uint32_t k = 0; k < body->n_operands; k++) body_args->data[n_carry + k] = tensor_ref(e->operands[body->operands + k]);
    int64_t trips = run_loop(e, cond_args, body_args, stacks, limit);
    for (uint32_t k = 0; k < n_carry; k++) e->results[k] = tensor_ref(body_args->data[k]);
    if (e->n->n_results > n_carry) {
        e->results[n_carry] = tensor_new(DT_I64, 0, NULL);
        *(int64_t *)e->results[n_carry]->data = trips;
    }
    for (uint32_t k = 0; k < n_stack; k++)
        e->results[n_carry + 1 + k] = stack_result(e, n_carry + 1 + k, &stacks->stack[k], trips, limit < 0 ? trips : limit);
    hop_cleanup_pop(stacks);
    stacks_free(stacks);
    tensor_list_end(body_args);
    tensor_list_end(cond_args);
}

static const struct attr_spec while_attrs[] = {
    [WHILE_MAX_TRIPS] = { "max_trips", ATTR_DIM, false, NULL },
    [WHILE_COUNT] = { "count", ATTR_FLAG, false, NULL },
};

const struct op_row row_while_loop = {
    .name = "while_loop",
    .meaning = "a body repeated on carries while a predicate of them holds; further results are stacked, one row a trip",
    .sig = { .n_attrs = HOP_COUNT(while_attrs), .attrs = while_attrs, .n_groups = 1, .groups = { { "carry", GROUP_CARRY } }, .min_regions = 2, .max_regions = 2,
             .regions = { { .word = "cond", .feeds = 1, .results = { "test" } }, { .word = "body", .feeds = 1, .results = { "next", "stack" } } } },
    .flags = OPF_HIGHER,
    .infer = while_infer,
    .eval = while_eval,
    .lower = &while_lower,
};
