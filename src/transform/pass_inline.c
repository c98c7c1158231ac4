/* Inlining: a call becomes the nodes of its body where sharing.h says so. A switch with one branch is a call,
 * too. The budget is what all of it together may add. */
#include "transform/pass.h"
#include "transform/sharing.h"

/* Code that may still be inlined when a body was too large for what was left. */
enum { AFTER_REFUSAL = 1000 };

static bool wants_call(const struct node *n)
{
    uint8_t control = node_row(n)->control;
    return control == CONTROL_CALL || (control == CONTROL_CHOICE && n->n_regions == 1);
}

/* ---- bodies with one caller, all at once ---- */

/* A body that moves to its only caller adds nothing, whatever the budget. */
bool inline_absorbs(const struct simplifier *s, const struct fn *f, const struct node *n)
{
    if (!wants_call(n) || simplifier_uses(s, node_region(f, n, 0)->fn) != 1) return false;
    return is_placed(place_call(false, node_inlining(f, n), &(struct shared_body){ .copies = 1 }));
}

struct open_call {
    struct copier c;
    const struct node *call; /* of the function around */
    uint32_t next;           /* node to be copied */
};

static void open_body(struct open_call *around, const struct node *n, struct open_call *out)
{
    struct copier *c = &around->c;
    *out = (struct open_call){ .c = region_copier(c, n, 0), .call = n };
    for (uint32_t p = 0; p < out->c.f->n_params; p++)
        out->c.values[p] = c->values[node_region_operands(c->f, n, 0)[p]];
    copy_requires(&out->c);
}

/* Results of the innermost body become those of its call. */
static void close_body(struct builder *b, struct open_call *around, const struct open_call *body)
{
    const struct fn *g = body->c.f;
    val *results = ARENA_NEW(&b->arena, val, g->n_results);
    for (uint32_t k = 0; k < g->n_results; k++) results[k] = body->c.values[g->results[k]];
    copier_bind(&around->c, body->call, results);
}

/* One copy of each body, however long the chain of callers: not one copy for each caller on the way. */
uint32_t inline_absorb(struct simplifier *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->m, fn);
    bool any = false;
    for (uint32_t i = 0; i < f->n_nodes && !any; i++) {
        const struct node *n = fn_node(f, i);
        any = inline_absorbs(s, f, n);
    }
    if (!any) return fn;
    struct builder b;
    vec(struct open_call) open = { 0 };
    builder_begin(&b, s->m, f);
    vec_push(&b.arena, &open, (struct open_call){ 0 });
    copier_begin(&open.data[0].c, &b, f);
    copier_params(&open.data[0].c);
    copy_requires(&open.data[0].c);
    for (;;) {
        struct open_call *top = &open.data[open.len - 1];
        const struct fn *g = top->c.f;
        if (top->next == g->n_nodes) {
            if (open.len == 1) break;
            close_body(&b, top - 1, top);
            open.len--;
            continue;
        }
        const struct node *n = fn_node(g, top->next++);
        b.place = n->place;
        if (!inline_absorbs(s, g, n)) {
            copier_node(&top->c, n);
            continue;
        }
        struct open_call body;
        open_body(top, n, &body);
        vec_push(&b.arena, &open, body);
    }
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = open.data[0].c.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

/* ---- call by call ---- */

static bool inline_rule(struct simplifier *s, struct copier *c, const struct node *n, val *results, void *ctx)
{
    HOP_UNUSED(ctx);
    const struct region *region = node_region(c->f, n, 0);
    const struct fn *g = module_fn(s->m, region->fn);
    uint32_t here = 0;
    for (uint32_t r = 0; r < c->f->n_regions && here < 2; r++) here += c->f->regions[r].fn == region->fn;
    struct shared_body body = { .copies = HOP_MAX(here, simplifier_uses(s, region->fn)),
                                .work = WORK_UNKNOWN };
    enum inlining written = node_inlining(c->f, n);
    /* Measured no further than it matters. */
    bool whole = body.copies < 2 || written == INLINE_YES;
    body.code = body_code(s->m, g, whole ? s->inline_left : HOP_MIN(small_body_code(), s->inline_left));
    enum placing placing = place_call(body.code > s->inline_left, written, &body);
    if (!is_placed(placing)) {
        /* Or every call would be measured so far. */
        if (whole && placing == CALLED_FOR_BUDGET)
            s->inline_left = HOP_MIN(s->inline_left, (uint64_t)AFTER_REFUSAL);
        return false;
    }
    s->inline_left -= body.code;
    val *arguments = ARENA_NEW(&c->b->arena, val, g->n_params);
    for (uint32_t p = 0; p < g->n_params; p++) arguments[p] = c->values[node_region_operands(c->f, n, 0)[p]];
    inline_region(c, n, 0, arguments, results);
    return true;
}

uint32_t pass_inline(struct simplifier *s, uint32_t fn)
{
    return rewrite_nodes(s, fn, wants_call, inline_rule, NULL);
}
