/* The transpose of a function that is linear in some of its parameters: the pullback for them, which does not
 * read where it is taken. A function that is not linear in them is an error that says where it is not: at a
 * node through which they go but no derivative does, or because its derivative still reads them. */
#include "ir/loop.h"
#include "transform/transform.h"

#include <string.h>

struct linearity {
    struct module *m;
    struct arena arena;
    const char *what, *other; /* whose it is, and what there is not when it is not linear, for messages */
};

static _Noreturn void not_linear(const struct linearity *l, const struct fn *f, const struct node *n,
                                 const char *why)
{
    hop_throw(HOP_INVALID, "%s%s is not linear in what it is given (%s: %s), so there is no %s",
              place_text(l->m, n ? n->place : f->place), l->what, n ? node_row(n)->name : "the result", why,
              l->other);
}

/* ---- what depends on what is given ---- */

static const bool *dependent_results(struct module *m, uint32_t fn, const bool *params);

/* A call or a choice, whose regions get their own operands alone. */
static bool is_call(const struct node *n)
{
    bool all = n->n_regions > 0;
    for (uint32_t r = 0; r < n->n_regions; r++) all &= !sig_region(node_row(n), r)->feeds;
    return all;
}

/* Those of a loop: carries that a step makes depend, do. */
static void dependent_of_loop(struct module *m, struct arena *arena, const struct loop *l, bool *depends)
{
    uint32_t n = l->body->n_params;
    bool *given = ARENA_NEW(arena, bool, n), *test = ARENA_NEW(arena, bool, l->n_carry + l->n_cond_with);
    bool *out = depends + l->n->results;
    bool trips = l->kind == LOOP_COUNTED && (depends[l->from] || depends[l->to]);
    const bool *found = NULL;
    for (uint32_t p = 0; p < n; p++) given[p] = depends[loop_operand(l, p)];
    for (bool grown = true; grown;) {
        grown = false;
        found = dependent_results(m, l->body->id, given);
        for (uint32_t k = 0; k < l->n_carry; k++) {
            grown |= found[k] && !given[k];
            given[k] |= found[k];
        }
    }
    if (l->cond) {
        for (uint32_t k = 0; k < l->n_carry; k++) test[k] = given[k];
        for (uint32_t k = 0; k < l->n_cond_with; k++) test[l->n_carry + k] = depends[l->cond_with[k]];
        trips |= dependent_results(m, l->cond->id, test)[0];
    }
    for (uint32_t k = 0; k < l->n->n_results; k++) out[k] = trips;
    for (uint32_t k = 0; k < l->body->n_results; k++)
        out[loop_result_of(l, k)] |= found[k] || (k < l->n_carry && given[k]);
}

/* Those of running totals, whose parameters are left…, right…, own…. */
static void dependent_of_totals(struct module *m, struct arena *arena, const struct fn *f,
                                const struct node *n, bool *depends)
{
    const struct region *r = node_region(f, n, 0);
    uint32_t n_leaves = node_group_size(f, n, 0);
    bool *given = ARENA_NEW(arena, bool, 2 * n_leaves + r->n_operands);
    for (uint32_t k = 0; k < n_leaves; k++) given[k] = given[n_leaves + k] = depends[node_operands(f, n)[k]];
    for (uint32_t k = 0; k < r->n_operands; k++)
        given[2 * n_leaves + k] = depends[node_region_operands(f, n, 0)[k]];
    for (bool grown = true; grown;) {
        const bool *found = dependent_results(m, r->fn, given);
        grown = false;
        for (uint32_t k = 0; k < n_leaves; k++) {
            grown |= found[k] && !given[k];
            given[k] |= found[k];
            given[n_leaves + k] |= found[k];
        }
    }
    for (uint32_t k = 0; k < n->n_results; k++) depends[n->results + k] = given[k];
}

/* Which results of a node depend on values that do: those of a call that do in the function it calls. Others
 * may be there because another call of that function needs them. */
static void dependent_of_node(struct module *m, struct arena *arena, const struct fn *f, const struct node *n,
                              bool *depends)
{
    struct loop l;
    bool any = false, groups = false;
    uint32_t n_groups = n->n_operands;
    for (uint32_t r = 0; r < n->n_regions; r++) n_groups -= node_region(f, n, r)->n_operands;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        any |= depends[node_operands(f, n)[k]];
        if (k < n_groups) groups |= depends[node_operands(f, n)[k]];
    }
    if (any && loop_of_node(m, f, n, &l)) {
        dependent_of_loop(m, arena, &l, depends);
        return;
    }
    if (any && node_row(n)->control == CONTROL_TOTALS) {
        dependent_of_totals(m, arena, f, n, depends);
        return;
    }
    bool whole = any && (groups || !is_call(n));
    for (uint32_t k = 0; k < n->n_results; k++) depends[n->results + k] = whole;
    for (uint32_t r = 0; r < n->n_regions && any && !whole; r++) {
        bool *given = ARENA_NEW(arena, bool, node_region(f, n, r)->n_operands);
        for (uint32_t k = 0; k < node_region(f, n, r)->n_operands; k++)
            given[k] = depends[node_region_operands(f, n, r)[k]];
        const bool *found = dependent_results(m, node_region(f, n, r)->fn, given);
        for (uint32_t k = 0; k < n->n_results; k++) depends[n->results + k] |= found[k];
    }
}

/* Which results depend on these parameters? */
static const bool *dependent_results(struct module *m, uint32_t fn, const bool *params)
{
    const struct fn *f = module_fn(m, fn);
    bool *out = transform_recall(m, MEMO_DEPENDS, fn, 0, params, f->n_params);
    if (out) return out;
    hop_check_stack();
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    out = ARENA_ZNEW(&m->arena, bool, f->n_results);
    bool *depends = ARENA_ZNEW(&arena, bool, f->n_values);
    for (uint32_t p = 0; p < f->n_params; p++) depends[p] = params[p];
    for (uint32_t i = 0; i < f->n_nodes; i++) dependent_of_node(m, &arena, f, fn_node(f, i), depends);
    for (uint32_t k = 0; k < f->n_results; k++) out[k] = depends[f->results[k]];
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    transform_remember(m, MEMO_DEPENDS, fn, 0, params, f->n_params, out);
    return out;
}

/* ---- nodes that are not linear ---- */

/* Which parameters of a region depend, as operands feed them. */
static void region_params(const struct fn *f, const struct node *n, uint32_t r, const bool *depends,
                          bool *params)
{
    const struct op_row *row = node_row(n);
    uint32_t count = 0;
    for (uint32_t g = 0; g < row->sig.n_groups; g++) {
        const val *group = node_group(f, n, g, NULL);
        uint32_t times = sig_region(row, r)->feeds >> g & 1 ? sig_group_feeds(row, g) : 0;
        for (uint32_t t = 0; t < times; t++)
            for (uint32_t k = 0; k < node_group_size(f, n, g); k++) params[count++] = depends[group[k]];
    }
    const val *own = node_region_operands(f, n, r);
    for (uint32_t k = 0; k < node_region(f, n, r)->n_operands; k++) params[count++] = depends[own[k]];
}

/* Nodes through which a linear parameter goes but no derivative does, in the function and in its regions.
 * Each function is looked at once for the same parameters. */
static void check_nodes(struct linearity *l, const struct fn *f, const bool *params)
{
    static char seen;
    if (transform_recall(l->m, MEMO_LINEAR, f->id, 0, params, f->n_params)) return;
    hop_check_stack();
    bool *depends = ARENA_ZNEW(&l->arena, bool, f->n_values);
    if (f->n_params) memcpy(depends, params, f->n_params * sizeof *depends);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        bool any = false;
        for (uint32_t k = 0; k < n->n_operands; k++) any |= depends[node_operands(f, n)[k]];
        bool linear = node_row(n)->linear && node_row(n)->linear(l->m, f, n);
        if (any && !linear && !node_row(n)->vjp && n->n_results)
            not_linear(l, f, n, "no derivative goes through it");
        for (uint32_t r = 0; any && !linear && r < n->n_regions; r++) {
            const struct fn *g = module_fn(l->m, node_region(f, n, r)->fn);
            const char *first = sig_region(node_row(n), r)->results[0];
            uint32_t n_next = first && !strcmp(first, "next") ? node_group_size(f, n, 0) : 0;
            bool *given = ARENA_ZNEW(&l->arena, bool, g->n_params), grown = n_next > 0;
            region_params(f, n, r, depends, given);
            while (grown) { /* until what is carried on depends no more than the parameters do */
                const bool *results = dependent_results(l->m, g->id, given);
                grown = false;
                for (uint32_t k = 0; k < n_next && k < g->n_results; k++) {
                    grown |= results[k] && !given[k];
                    given[k] |= results[k];
                }
            }
            check_nodes(l, g, given);
        }
        dependent_of_node(l->m, &l->arena, f, n, depends);
    }
    transform_remember(l->m, MEMO_LINEAR, f->id, 0, params, f->n_params, &seen);
}

/* ---- the transpose ---- */

static void linearity_free(void *l) { arena_free(&((struct linearity *)l)->arena); }

uint32_t transpose_function(struct module *m, uint32_t fn, const bool *linear, const char *what,
                            const char *other)
{
    struct linearity l = { .m = m, .what = what, .other = other };
    hop_cleanup_push(linearity_free, &l);
    const struct fn *f = module_fn(m, fn);
    uint32_t n_params = f->n_params, n_results = f->n_results;
    check_nodes(&l, module_fn(m, prune_function(m, fn, NULL)), linear);
    const struct fn *whole = module_fn(m, vjp_function(m, fn, linear));
    bool *keep = ARENA_ZNEW(&l.arena, bool, whole->n_results);
    for (uint32_t k = n_results; k < whole->n_results; k++) keep[k] = true;
    const struct fn *made = module_fn(m, prune_function(m, whole->id, keep));
    bool *read = ARENA_ZNEW(&l.arena, bool, made->n_params);
    if (n_params) memcpy(read, linear, n_params * sizeof *read);
    const bool *depends = dependent_results(m, made->id, read);
    for (uint32_t k = 0; k < made->n_results; k++)
        if (depends[k]) not_linear(&l, module_fn(m, fn), NULL, "its derivative reads what it is given");
    hop_cleanup_pop(&l);
    linearity_free(&l);
    return made->id;
}
