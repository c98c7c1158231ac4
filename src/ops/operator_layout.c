/* The arrays of a call of an operator from outside; see operator_layout.h. */
#include "ops/operator_layout.h"

/* While a layout is made: what is left of the operands, and of the attribute `given`. */
struct making {
    struct operator_layout *l;
    struct arena *a;
    struct module *m;
    const struct attr *given;
    uint32_t at_given, next, n_operands;
    uint32_t spread; /* parameters that take an unsaid number of operands: how many each takes */
    vec(struct operator_slot) slots;
    struct operator_view *views; /* of `mut` arrays, in order … */
    uint32_t *bases;             /* … and of which base each is */
    uint32_t n_views, n_bases, at_view;
};

/* ---- views ---- */

enum { VIEW_BASE, VIEW_OFFSET, VIEW_RANK, VIEW_HEAD };

static const char *read_views(struct making *w, const struct attr *attr)
{
    uint32_t n = attr->kind == ATTR_ABSENT ? 0 : attr->n, most = n / VIEW_HEAD + 1;
    w->views = ARENA_ZNEW(w->a, struct operator_view, most);
    w->bases = ARENA_ZNEW(w->a, uint32_t, most);
    for (uint32_t at = 0; at < n;) {
        const dim *record = attr->list + at;
        if (n - at < VIEW_HEAD)
            return arena_printf(w->a, "attribute 'views': view %u ends before its rank", w->n_views);
        uint64_t base = record[VIEW_BASE], rank = record[VIEW_RANK];
        if (base >= w->n_operands || rank > MAX_RANK)
            return arena_printf(
                w->a, "attribute 'views': view %u: expected the number of a base and a rank up to %d",
                w->n_views, MAX_RANK);
        if (n - at - VIEW_HEAD < 2 * rank)
            return arena_printf(
                w->a, "attribute 'views': view %u: expected a size and a stride for each of %u dims",
                w->n_views, (uint32_t)rank);
        w->bases[w->n_views] = (uint32_t)base;
        w->views[w->n_views++] = (struct operator_view){ record[VIEW_OFFSET], (uint32_t)rank,
                                                         record + VIEW_HEAD };
        w->n_bases = HOP_MAX(w->n_bases, (uint32_t)base + 1);
        at += VIEW_HEAD + 2 * (uint32_t)rank;
    }
    return NULL;
}

/* The bases come behind the other operands. */
static const char *place_bases(struct making *w)
{
    bool *used = ARENA_ZNEW(w->a, bool, w->n_bases + 1);
    if (w->at_view != w->n_views)
        return arena_printf(w->a, "attribute 'views': expected a view for each of %u `mut` arrays, found %u",
                            w->at_view, w->n_views);
    for (uint32_t i = 0; i < w->slots.len; i++) {
        struct operator_slot *s = &w->slots.data[i];
        if (!s->view) continue;
        used[s->operand] = true;
        s->operand += w->next;
    }
    for (uint32_t k = 0; k < w->n_bases; k++)
        if (!used[k]) return arena_printf(w->a, "attribute 'views': no view is of base %u", k);
    w->next += w->n_bases;
    return NULL;
}

/* ---- operands ---- */

static bool is_set(const struct attr *a) { return a->kind != ATTR_ABSENT && a->i; }

static void add_slot(struct making *w, uint32_t param, bool present)
{
    const struct operator_param *p = &w->l->decl->params[param];
    struct operator_slot s = { .type = &p->type,
                               .name = module_text(w->m, p->name),
                               .param = param,
                               .operand = present ? w->next++ : HOP_NONE,
                               .result = HOP_NONE,
                               .present = present,
                               .mut = p->flags & PARAM_MUT };
    if (present && s.mut && w->n_views) { /* its base is no operand of this place */
        w->next--;
        s.operand = w->at_view < w->n_views ? w->bases[w->at_view] : 0;
        s.view = &w->views[HOP_MIN(w->at_view, w->n_views - 1)];
        w->at_view++;
    }
    vec_push(w->a, &w->slots, s);
}

/* The elements of a parameter that is a list or may be absent. */
static const char *add_some(struct making *w, uint32_t param)
{
    const struct operator_param *p = &w->l->decl->params[param];
    const char *name = module_text(w->m, p->name);
    if (w->given->kind == ATTR_ABSENT) {
        for (uint32_t i = 0; i < (p->flags & PARAM_MAYBE ? 1 : w->spread); i++) add_slot(w, param, true);
        return NULL;
    }
    if (w->at_given >= w->given->n)
        return arena_printf(w->a, "attribute 'given': expected a count for the parameter '%s', found the end",
                            name);
    int32_t count = (int32_t)w->given->list[w->at_given++];
    if (count < 0 || (p->flags & PARAM_MAYBE && count != 1))
        return arena_printf(w->a, "attribute 'given': expected %s for the parameter '%s', found %d",
                            p->flags & PARAM_MAYBE ? "1" : "a count", name, count);
    for (int32_t i = 0; i < count; i++) {
        if (w->at_given >= w->given->n)
            return arena_printf(w->a,
                                "attribute 'given': expected %d entries of 1 or 0 behind the count of "
                                "the parameter '%s', found %d",
                                count, name, i);
        int32_t one = (int32_t)w->given->list[w->at_given++];
        if (one != 0 && one != 1)
            return arena_printf(w->a,
                                "attribute 'given': expected 1 or 0 for element %d of the parameter "
                                "'%s', found %d",
                                i, name, one);
        add_slot(w, param, one);
    }
    return NULL;
}

/* Without `given` every parameter is there, and the one list takes what is left. */
static const char *spread_operands(struct making *w)
{
    const struct operator_decl *d = w->l->decl;
    uint32_t lists = 0, others = w->next;
    for (uint32_t i = 0; i < d->n_params; i++) {
        if (d->params[i].flags & PARAM_LIST) lists++;
        else if (!(d->params[i].flags & PARAM_OUT)) others++;
    }
    if (lists > 1) return "several of its parameters are lists: the attribute 'given' must say their lengths";
    uint32_t n = w->n_operands + w->n_views - w->n_bases; /* as if each view were an operand */
    w->spread = n > others ? n - others : 0;
    return NULL;
}

static const char *add_operands(struct making *w)
{
    const struct operator_decl *d = w->l->decl;
    const char *wrong = w->given->kind == ATTR_ABSENT ? spread_operands(w) : NULL;
    for (uint32_t i = 0; i < d->n_params && !wrong; i++) {
        uint32_t before = w->slots.len;
        if (d->params[i].flags & PARAM_OUT) continue;
        if (d->params[i].flags & (PARAM_MAYBE | PARAM_LIST)) wrong = add_some(w, i);
        else add_slot(w, i, true);
        w->l->counts[w->l->n_counts++] = (int32_t)(w->slots.len - before);
    }
    if (wrong) return wrong;
    if (w->given->kind != ATTR_ABSENT && w->at_given != w->given->n)
        return arena_printf(w->a, "attribute 'given': expected %u entries, found %u", w->at_given,
                            w->given->n);
    return place_bases(w);
}

static const char *add_any(struct making *w)
{
    for (; w->next < w->n_operands; w->next++) {
        struct operator_slot s = {
            .name = "", .param = HOP_NONE, .operand = w->next, .result = HOP_NONE, .present = true
        };
        vec_push(w->a, &w->slots, s);
    }
    w->l->counts[w->l->n_counts++] = (int32_t)w->slots.len;
    return w->given->kind == ATTR_ABSENT ? NULL : "attribute 'given': it has no parameters";
}

static bool is_found(void *ctx, uint32_t symbol)
{
    return ((const struct operator_decl *)ctx)->sizes[symbol].kind == SIZE_FOUND;
}

static bool has_found(struct making *w, const struct operator_type *t)
{
    bool any = false;
    for (uint32_t d = 0; d < t->rank; d++)
        any |= t->dims[d] & DIM_TABLE && dim_mentions(w->m, t->dims[d], is_found, (void *)w->l->decl);
    return any;
}

static void add_results(struct making *w)
{
    const struct operator_decl *d = w->l->decl;
    for (uint32_t i = 0; i < d->n_results; i++) {
        struct operator_slot s = { .type = &d->results[i],
                                   .name = "",
                                   .param = HOP_NONE,
                                   .operand = HOP_NONE,
                                   .result = w->l->n_results++,
                                   .present = true };
        vec_push(w->a, &w->slots, s);
    }
    for (uint32_t i = 0; i < d->n_params; i++) {
        if (!(d->params[i].flags & PARAM_OUT)) continue;
        struct operator_slot s = { .type = &d->params[i].type,
                                   .name = module_text(w->m, d->params[i].name),
                                   .param = i,
                                   .operand = HOP_NONE,
                                   .result = w->l->n_results++,
                                   .present = true };
        vec_push(w->a, &w->slots, s);
    }
    for (uint32_t i = w->l->n_given; i < w->slots.len; i++)
        w->slots.data[i].found = has_found(w, w->slots.data[i].type);
    uint32_t first_base = w->next - w->n_bases;
    for (uint32_t i = 0; i < w->l->n_given; i++) {
        struct operator_slot *s = &w->slots.data[i];
        if (s->view) s->result = w->l->n_results + s->operand - first_base;
        else if (s->mut && s->present) s->result = w->l->n_results++;
    }
    w->l->n_results += w->n_bases;
}

const char *operator_layout(struct operator_layout *l, struct arena *a, struct module *m,
                            const struct attr *attrs, uint32_t n_operands)
{
    const struct attr *lanes = &attrs[OPERATOR_LANES];
    *l = (struct operator_layout){ .masked = is_set(&attrs[OPERATOR_MASKED]),
                                   .together = is_set(&attrs[OPERATOR_TOGETHER]) };
    l->decl = module_operator(m, (uint32_t)attrs[OPERATOR_NAME].i);
    if (!l->decl)
        return arena_printf(a, "attribute 'name': there is no declaration of an operator '%s'",
                            module_text(m, (uint32_t)attrs[OPERATOR_NAME].i));
    if (lanes->kind != ATTR_ABSENT && (lanes->i < 0 || lanes->i > MAX_RANK))
        return arena_printf(a, "attribute 'lanes': expected 0..%d, found %lld", MAX_RANK,
                            (long long)lanes->i);
    l->lanes = lanes->kind == ATTR_ABSENT ? 0 : (uint32_t)lanes->i;
    l->counts = ARENA_ZNEW(a, int32_t, l->decl->n_params + 1);
    struct making w = {
        .l = l, .a = a, .m = m, .given = &attrs[OPERATOR_GIVEN], .n_operands = n_operands, .next = l->masked
    };
    if (l->masked && !n_operands)
        return "attribute 'masked': expected the mask as its first operand, found none";
    const char *wrong = read_views(&w, &attrs[OPERATOR_VIEWS]);
    if (!wrong) wrong = l->decl->any ? add_any(&w) : add_operands(&w);
    if (wrong) return wrong;
    if (w.next != n_operands)
        return arena_printf(a, "%s takes %u operand%s, given %u", l->decl->signature, w.next - l->masked,
                            w.next - l->masked == 1 ? "" : "s", n_operands - l->masked);
    l->n_given = w.slots.len;
    add_results(&w);
    l->slots = w.slots.data;
    l->n_slots = w.slots.len;
    return NULL;
}

struct operator_layout operator_layout_of(struct arena *a, struct module *m, const struct fn *f,
                                          const struct node *n)
{
    struct operator_layout l;
    const char *wrong = operator_layout(&l, a, m, node_attr(f, n, 0), n->n_operands);
    if (wrong) hop_throw(HOP_INTERNAL, "operator: %s", wrong);
    return l;
}
