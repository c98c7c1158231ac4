/* Choices that no longer matter. Batching feeds lanes that do not run the operand of one that does, so that
 * nothing they compute reaches a gradient. In a function that will not be differentiated any more, what such
 * lanes compute is thrown away by a choice behind it, and the one before it goes: in select(p, f(select(p, x,
 * y)), z), with every element of f's result made of the elements of x at its place, the inner choice is x.
 * Likewise a branch that runs only if any lane takes it may as well always run, where that costs little. */
#include "loop/lower.h"
#include "transform/pass.h"

/* Under which mask a value is read: only elements where the mask is `side` matter to anybody. */
struct reading {
    uint32_t mask; /* a value; HOP_NONE: nobody has read it yet */
    bool side, everywhere;
};

struct masks {
    const struct module *m;
    const struct fn *f;
    struct reading *read; /* per value */
};

static const struct node *node_of(const struct fn *f, val v)
{
    return f->values[v].node == NODE_NONE ? NULL : fn_node(f, f->values[v].node);
}

/* Do the leading `rank` dims of the result run along those of operand 0? */
static bool keeps_leading(const struct module *m, const struct fn *f, const struct node *n, uint32_t rank)
{
    uint32_t operand_rank = type_get(m, value_type(f, node_operands(f, n)[0])).rank;
    uint32_t result_rank = type_get(m, value_type(f, n->results)).rank, from[MAX_RANK];
    if (!node_row(n)->source_dims || operand_rank < rank || result_rank < rank) return false;
    node_row(n)->source_dims(node_attr(f, n, 0), operand_rank, result_rank, from);
    for (uint32_t i = 0; i < rank; i++)
        if (from[i] != i) return false;
    return true;
}

/* The mask over leading dims that a condition repeats, or the condition itself. */
static val mask_of(const struct module *m, const struct fn *f, val condition)
{
    const struct node *n = node_of(f, condition);
    if (!n || !node_repeats(n)) return condition;
    val mask = node_operands(f, n)[0];
    return keeps_leading(m, f, n, type_get(m, value_type(f, mask)).rank) ? mask : condition;
}

/* Is an element of the result made only of elements of operand k with the same leading `rank` indices? */
static bool stays_in_place(const struct masks *w, const struct node *n, uint32_t k, uint32_t rank)
{
    const struct op_row *row = node_row(n);
    if (n->n_results != 1 || n->n_regions || row_may_have_effects(row) || row->flags & OPF_NO_MERGE)
        return false;
    if (row->flags & OPF_ELEMENTWISE) return true;
    return k == 0 && keeps_leading(w->m, w->f, n, rank);
}

static void note_reading(struct reading *r, uint32_t mask, bool side)
{
    if (r->mask == HOP_NONE && !r->everywhere) *r = (struct reading){ .mask = mask, .side = side };
    else r->everywhere |= r->mask != mask || r->side != side;
}

static void note_operands(struct masks *w, const struct node *n)
{
    const val *x = node_operands(w->f, n);
    const struct reading *result = &w->read[n->results];
    bool masked = n->n_results == 1 && !result->everywhere && result->mask != HOP_NONE;
    uint32_t rank = masked ? type_get(w->m, value_type(w->f, result->mask)).rank : 0;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        struct reading *operand = &w->read[x[k]];
        if (node_row(n)->chooses && k) note_reading(operand, mask_of(w->m, w->f, x[0]), k == 1);
        else if (masked && stays_in_place(w, n, k, rank)) note_reading(operand, result->mask, result->side);
        else operand->everywhere = true;
    }
}

static bool wants_choice(const struct node *n)
{
    const struct op_row *row = node_row(n);
    return row->chooses || (row->control == CONTROL_CHOICE && n->n_regions == 2);
}

/* Nothing but a few operations on each element? */
static bool is_light(const struct fn *g)
{
    uint32_t expensive = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct op_lower *lower = node_row(fn_node(g, i))->lower;
        if (!lower || lower->kind != LOWER_POINTWISE || node_row(fn_node(g, i))->flags & OPF_NO_MERGE)
            return false;
        expensive += lower->cost == COST_EXPENSIVE;
    }
    return expensive <= 2 * g->n_results && !g->effects;
}

static bool is_any(const struct node *n)
{
    const struct op_lower *lower = node_row(n)->lower;
    return lower && lower->kind == LOWER_REDUCE && lower->fold == FOLD_OR;
}

/* switch(any(mask)) [zeros, body] whose results are read under the mask alone: the body. */
static bool drop_guard(const struct masks *w, struct copier *c, const struct node *n, val *results)
{
    const struct fn *f = w->f, *g = module_fn(w->m, node_region(f, n, 1)->fn);
    const struct node *any = node_of(f, node_operands(f, n)[0]);
    if (!any || !is_any(any) || node_binds_symbols(f, n) || !is_light(g)) return false;
    val mask = node_operands(f, any)[0];
    for (uint32_t k = 0; k < n->n_results; k++) {
        const struct reading *r = &w->read[n->results + k];
        if (r->everywhere || (r->mask != HOP_NONE && (r->mask != mask || !r->side))) return false;
    }
    const struct region *region = node_region(f, n, 1);
    val *arguments = ARENA_NEW(&c->b->arena, val, region->n_operands);
    for (uint32_t i = 0; i < region->n_operands; i++)
        arguments[i] = c->values[node_region_operands(f, n, 1)[i]];
    inline_region(c, n, 1, arguments, results);
    return true;
}

static bool drop_choice(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    const struct masks *w = ctx;
    if (node_row(n)->control == CONTROL_CHOICE) return drop_guard(w, c, n, results);
    const struct reading *r = &w->read[n->results];
    const val *x = node_operands(c->f, n);
    HOP_UNUSED(s);
    if (r->everywhere || r->mask == HOP_NONE || r->mask != mask_of(w->m, c->f, x[0])) return false;
    results[0] = c->values[x[r->side ? 1 : 2]];
    return true;
}

uint32_t pass_masks(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    uint32_t choices = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) choices += wants_choice(fn_node(f, i));
    if (s->o->differentiable || choices < 2) return fn;
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    struct masks w = { s->m, f, ARENA_NEW(&scratch, struct reading, f->n_values) };
    for (uint32_t v = 0; v < f->n_values; v++) w.read[v] = (struct reading){ .mask = HOP_NONE };
    for (uint32_t k = 0; k < f->n_results; k++) w.read[f->results[k]].everywhere = true;
    for (uint32_t i = f->n_nodes; i-- > 0;) note_operands(&w, fn_node(f, i));
    uint32_t out = rewrite_nodes(s, fn, wants_choice, drop_choice, &w);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    return out;
}
