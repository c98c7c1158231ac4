/* The view of a loop (ir/loop.h): every loop of every sample of a loop row, and of what their gradients,
 * tangents and batches become, is read with its parts where their types say, and built again equal. */
#include "check.h"
#include "ir/loop.h"
#include "ir/text.h"
#include "transform/transform.h"

static const char *row_name;
static uint32_t kinds_seen;

/* ---- parts ---- */

static type_id of_row(struct module *m, const struct fn *f, val v)
{
    return type_drop_leading(m, value_type(f, v));
}

/* Types of the body's parameters and results in terms of the symbols around. */
static type_id around(struct module *m, const struct loop *l, type_id t)
{
    return type_substitute(m, t, l->dims);
}

static void claim_parts(struct module *m, const struct fn *f, const struct node *n)
{
    struct loop l;
    CLAIM(loop_of_node(m, f, n, &l), "%s: a loop is read", row_name);
    struct loop_positions at = loop_positions(f, n);
    const val *operands = node_operands(f, n);
    kinds_seen |= 1u << l.kind;
    CLAIM(l.body->n_params == l.n_carry + l.n_over + l.n_with, "%s: parameters of the body", row_name);
    CLAIM(l.body->n_results == l.n_carry + l.n_stack, "%s: results of the body", row_name);
    CLAIM(n->n_results == l.n_carry + l.counts + l.n_stack, "%s: results of the node", row_name);
    CLAIM((l.kind == LOOP_WHILE) == (l.cond != NULL), "%s: a predicate", row_name);
    CLAIM(loop_has_length(&l) == (l.length != HOP_NONE), "%s: a length", row_name);
    for (uint32_t k = 0; k < l.n_carry; k++) {
        CLAIM(l.carry[k] == operands[at.carry + k], "%s: carry %u", row_name, k);
        CLAIM(value_type(f, n->results + k) == value_type(f, l.carry[k]), "%s: last carry %u", row_name, k);
        CLAIM(around(m, &l, value_type(l.body, k)) == value_type(f, l.carry[k]), "%s: parameter %u", row_name,
              k);
    }
    for (uint32_t k = 0; loop_has_length(&l) && k < l.n_over; k++) {
        uint32_t p = l.n_carry + k;
        CLAIM(loop_is_over(&l, p) && l.over[k] == operands[at.over + k], "%s: slice %u", row_name, k);
        CLAIM(around(m, &l, value_type(l.body, p)) == of_row(m, f, l.over[k]), "%s: slice %u", row_name, k);
    }
    for (uint32_t k = 0; k < l.n_with; k++)
        CLAIM(loop_operand(&l, loop_first_with(&l) + k) == operands[at.with + k], "%s: own %u", row_name, k);
    for (uint32_t k = 0; k < l.n_cond_with; k++)
        CLAIM(l.cond_with[k] == operands[at.cond_with + k], "%s: own of the predicate %u", row_name, k);
    if (l.kind == LOOP_COUNTED)
        CLAIM(l.from == operands[at.from] && l.to == operands[at.to], "%s: bounds", row_name);
    if (l.counts)
        CLAIM(value_type(f, n->results + loop_trips_result(&l)) == type_scalar(m, DT_I64), "%s: trips",
              row_name);
    for (uint32_t k = 0; k < l.n_stack; k++) {
        type_id row = around(m, &l, value_type(l.body, l.body->results[l.n_carry + k]));
        val stack = n->results + loop_stack_result(&l, k);
        CLAIM(of_row(m, f, stack) == row, "%s: stack %u", row_name, k);
        CLAIM(loop_result_of(&l, l.n_carry + k) == stack - n->results, "%s: stack %u", row_name, k);
    }
}

/* ---- building ---- */

/* The function with its nodes copied, loops by way of the view or as any other node. */
static uint32_t copied(struct module *m, const struct fn *f, bool by_view)
{
    struct builder b;
    struct copier c;
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    for (uint32_t i = 0; i < f->n_required; i++)
        builder_require(&b, copier_dim(&c, f->required[i].a), copier_dim(&c, f->required[i].b),
                        "requirement");
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        struct loop l;
        b.place = n->place;
        if (!by_view || !loop_of_copy(&c, n, &l)) {
            copier_node(&c, n);
            continue;
        }
        struct loop_results made = loop_build(&b, &l);
        val *results = ARENA_NEW(&b.arena, val, n->n_results);
        CLAIM(made.n == n->n_results && (made.trips != VAL_NONE) == l.counts, "%s: results", row_name);
        for (uint32_t k = 0; k < l.n_carry; k++) results[k] = made.last + k;
        if (l.counts) results[loop_trips_result(&l)] = made.trips;
        for (uint32_t k = 0; k < l.n_stack; k++) results[loop_stack_result(&l, k)] = made.stacks + k;
        copier_bind(&c, n, results);
    }
    val *results = ARENA_NEW(&b.arena, val, f->n_results + 1);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

/* Equal anonymous functions are one. */
static void claim_function(struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    uint32_t plain = copied(m, f, false), by_view = copied(m, f, true);
    CLAIM(plain == by_view, "%s: built again, the loops of a function are others", row_name);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (node_is_loop(fn_node(f, i))) claim_parts(m, f, fn_node(f, i));
}

/* ---- samples ---- */

struct sample {
    const struct op_sample *sample;
};

static void walk_sample(void *ctx)
{
    const struct op_sample *sample = ((struct sample *)ctx)->sample;
    struct module *m = text_read(row_name, sample->text, strlen(sample->text));
    hop_cleanup_push(module_free, m);
    uint32_t fn = module_find(m, "sample");
    const struct fn *f = module_fn(m, fn);
    bool active[16] = { 0 }, batched[16] = { 0 }, found[16] = { 0 }, force[16] = { 0 }, wanted[16] = { 0 };
    for (uint32_t p = 0; p < f->n_params; p++) {
        active[p] = dtype_is_float((enum dtype)type_get(m, value_type(f, p)).dtype);
        batched[p] = true;
    }
    for (uint32_t k = 0; k < f->n_results; k++)
        wanted[k] = dtype_is_float((enum dtype)type_get(m, value_type(f, f->results[k])).dtype);
    const struct vjp_halves *halves = vjp_split(m, fn, active, wanted, 0, false);
    (void)halves;
    (void)jvp_function(m, fn, active, found);
    bool whole_rows = true; /* a stack of a row a trip has no batch where trips differ */
    for (uint32_t k = 0; k < f->n_symbols; k++) whole_rows &= f->symbols[k].origin != SYMBOL_NODE;
    if (whole_rows) (void)batch_function(m, fn, batched, dim_const(m, 2), force, false, found);
    uint32_t n = m->fns.len;
    for (uint32_t i = 0; i < n; i++) claim_function(m, i);
    hop_cleanup_pop(m);
    module_free(m);
}

int main(void)
{
    for (uint32_t op = 0; op < OP_COUNT; op++) {
        const struct op_row *row = op_table[op];
        if (!row->loop) continue;
        row_name = row->name;
        CLAIM(loop_ops[row->loop->kind] == op, "%s: the operator of its kind", row_name);
        for (uint32_t k = 0; k < row->n_samples; k++) {
            hop_status status = attempt(walk_sample, &(struct sample){ &row->samples[k] });
            CLAIM(!status, "%s, sample %u: %s", row_name, k, hop_message());
        }
    }
    CLAIM(kinds_seen == (1u << LOOP_KINDS) - 1, "every kind of loop is among the samples");
    return tests_end();
}
