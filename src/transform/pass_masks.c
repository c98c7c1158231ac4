/* Choices that no longer matter. Batching feeds lanes that do not run the operand of one that does, so that
 * nothing they compute reaches a gradient. In a function that will not be differentiated any more, what such
 * lanes compute is thrown away by a choice behind it, and the one before it goes: in select(p, f(select(p, x,
 * y)), z), with every element of f's result made of the elements of x at its place, the inner choice is x.
 * Likewise a branch that runs only if any lane takes it may as well always run, where that costs little. */
#include "loop/lower.h"
#include "transform/masks.h"

struct masks {
    const struct module *m;
    const struct fn *f;
    struct reading *read; /* per value */
    uint32_t *along;      /* scratch: per operand of a node; NULL: one mask for each value is enough, and
                             nothing is followed through views */
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

val mask_of(const struct module *m, const struct fn *f, val condition)
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
    if (!w->along) return k == 0 && keeps_leading(w->m, w->f, n, rank);
    if (type_get(w->m, value_type(w->f, n->results)).rank < rank) return false;
    for (uint32_t i = 0; i < rank; i++)
        if (!node_sliced(w->m, w->f, n, i, w->along) || w->along[k] != i) return false;
    return true;
}

bool mask_holds(const struct reading *r, struct fact fact)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (r->facts[i].mask == fact.mask && r->facts[i].side == fact.side) return true;
    return false;
}

static void add_fact(struct reading *r, struct fact fact)
{
    if (r->n < MOST_FACTS && !mask_holds(r, fact)) r->facts[r->n++] = fact;
}

/* One more reader: what holds for all of them is left. */
static void note_reading(struct reading *r, const struct reading *reader)
{
    struct reading both = { .any = true };
    for (uint32_t i = 0; i < reader->n; i++)
        if (!r->any || mask_holds(r, reader->facts[i])) add_fact(&both, reader->facts[i]);
    *r = both;
}

static void note_operands(struct masks *w, const struct node *n)
{
    const val *x = node_operands(w->f, n);
    const struct reading *result = &w->read[n->results];
    for (uint32_t k = 0; k < n->n_operands; k++) {
        struct reading reader = { .any = true };
        if (node_row(n)->chooses && k) add_fact(&reader, (struct fact){ mask_of(w->m, w->f, x[0]), k == 1 });
        bool enough = !w->along && reader.n;
        for (uint32_t i = 0; n->n_results == 1 && i < result->n && !enough; i++) {
            uint32_t rank = type_get(w->m, value_type(w->f, result->facts[i].mask)).rank;
            if (stays_in_place(w, n, k, rank)) add_fact(&reader, result->facts[i]);
        }
        note_reading(&w->read[x[k]], &reader);
    }
}

static void note_all(struct masks *w)
{
    for (uint32_t k = 0; k < w->f->n_results; k++) w->read[w->f->results[k]].any = true;
    for (uint32_t i = w->f->n_nodes; i-- > 0;) note_operands(w, fn_node(w->f, i));
}

const struct reading *masks_of_readings(struct arena *a, const struct module *m, const struct fn *f)
{
    uint32_t operands = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) operands = HOP_MAX(operands, fn_node(f, i)->n_operands);
    struct masks w = { m, f, ARENA_ZNEW(a, struct reading, f->n_values),
                       ARENA_NEW(a, uint32_t, operands + 1) };
    note_all(&w);
    return w.read;
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
        if (r->any && !mask_holds(r, (struct fact){ mask, true })) return false;
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
    val mask = mask_of(w->m, c->f, x[0]);
    HOP_UNUSED(s);
    bool always = mask_holds(r, (struct fact){ mask, true });
    if (!always && !mask_holds(r, (struct fact){ mask, false })) return false;
    results[0] = c->values[x[always ? 1 : 2]];
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
    struct masks w = { s->m, f, ARENA_ZNEW(&scratch, struct reading, f->n_values), NULL };
    note_all(&w);
    uint32_t out = rewrite_nodes(s, fn, wants_choice, drop_choice, &w);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    return out;
}
