/* Calls of operators from outside in a capture. Arguments come in the order of the signature; they become the
 * operands of a node, or of a `custom` around it where the operator has rules; what `mut` parameters become
 * is assigned, or given as further results. */
#include "api/api.h"
#include "ops/operators.h"

/* The arguments of one call, in one block of memory. */
struct arguments {
    const struct registered *of;
    uint32_t n, n_given, n_muts, n_all; /* present arguments; entries of `given`; muts; results of the node */
    hop_val *in;                        /* present ones */
    uint32_t *given;                    /* the attribute */
    hop_val *muts;                      /* arguments of `mut` parameters, in order */
    hop_val *all;                       /* results */
    uint32_t *params;                   /* of which parameter each present argument is */
    bool some;                          /* it has parameters that may be absent, or are lists */
    bool bare;                          /* without rules */
    /* Where `mut` arguments are views: the operands are the others and behind them the arrays that they are
     * views of; new contents are those arrays' (ops/operator_layout.h). NULL: no views. */
    const struct lying *views; /* per `mut` argument */
    uint32_t n_others, n_bases;
    hop_fn *rules[OPERATOR_RULES]; /* captured for this call; NULL: none */
};

/* Where a `mut` argument lies. */
struct lying {
    uint32_t param, base; /* its parameter; the number of the array that it is a view of */
    bool known;           /* `at` says where; otherwise it is all of its base */
    struct strided at;
};

/* The operators whose rules are being captured on this thread: calls of them inside are bare. */
struct within {
    const struct within *outer;
    const char *name;
};
static _Thread_local const struct within *within;

static bool is_within(const char *name)
{
    for (const struct within *w = within; w; w = w->outer)
        if (!strcmp(w->name, name)) return true;
    return false;
}

static bool is_absent(hop_val v) { return !v.scope && !v.id; }

/* How many arguments its one list takes, where counts do not say. */
static const char *list_length(const struct registered *r, int n_in, int *length)
{
    int lists = 0, others = 0;
    for (uint32_t p = 0; p < r->n_params; p++) {
        lists += (r->flags[p] & PARAM_LIST) != 0;
        others += !(r->flags[p] & (PARAM_LIST | PARAM_OUT));
    }
    *length = n_in - others;
    if (r->any || (lists == 1 && n_in >= others)) return NULL;
    if (lists > 1) return "several parameters are lists: hop_operator_lists says how long each is";
    return !lists && n_in == others ? NULL : "the number of arguments is not that of its parameters";
}

static void take(struct arguments *a, uint32_t param, hop_val v)
{
    uint8_t flags = a->of->any ? 0 : a->of->flags[param];
    bool some = flags & (PARAM_MAYBE | PARAM_LIST), absent = some && is_absent(v);
    if (some) a->given[a->n_given++] = !absent;
    if (absent) return;
    a->params[a->n] = param;
    a->in[a->n++] = v;
    if (flags & PARAM_MUT) a->muts[a->n_muts++] = v;
}

/* The arguments of one parameter. */
static const char *take_some(struct arguments *a, uint32_t p, const hop_val *in, int n)
{
    uint8_t flags = a->of->flags[p];
    static const hop_val absent = { 0, 0 };
    if (n < 0 || (!(flags & PARAM_LIST) && n > 1) || (!n && !(flags & (PARAM_LIST | PARAM_MAYBE))))
        return "a count is not that of the parameter's arguments";
    if (flags & (PARAM_MAYBE | PARAM_LIST)) {
        a->some = true;
        a->given[a->n_given++] = flags & PARAM_MAYBE ? 1 : (uint32_t)n;
    }
    if (!n && flags & PARAM_MAYBE) take(a, p, absent);
    for (int i = 0; i < n; i++) take(a, p, in[i]);
    return NULL;
}

static const char *take_all(struct arguments *a, const hop_val *in, int n_in, const int *counts)
{
    const struct registered *r = a->of;
    int length = 0, at = 0;
    const char *wrong = counts ? NULL : list_length(r, n_in, &length);
    for (; r->any && at < n_in; at++) take(a, HOP_NONE, in[at]);
    a->n_all = r->n_results;
    for (uint32_t p = 0; p < r->n_params && !wrong; p++) {
        a->n_all += (r->flags[p] & PARAM_OUT) != 0;
        if (r->flags[p] & PARAM_OUT) continue;
        int n = r->flags[p] & PARAM_LIST ? length : 1;
        if (counts) n = *counts++;
        if (n > n_in - at) return "the number of arguments is not that of its parameters";
        wrong = take_some(a, p, in + at, n);
        at += n;
    }
    a->n_all += a->n_muts;
    if (wrong || at == n_in) return wrong;
    return "the number of arguments is not that of its parameters";
}

/* ---- views ---- */

static bool has_rules(const struct arguments *a)
{
    bool any = false;
    for (uint32_t i = 0; i < OPERATOR_RULES; i++) any |= a->of->rules[i] || a->of->bodies[i].body;
    return any && !a->bare;
}

/* How many elements an array may have for its views to be compared element by element. */
enum { COMPARED = 1 << 20 };

static void mark(const struct module *m, const struct strided *at, uint32_t d, int64_t where, uint8_t *seen,
                 bool *twice)
{
    if (d == at->rank) {
        *twice |= where < 0 || where >= COMPARED || seen[where]++;
        return;
    }
    int64_t n = dim_const_value(m, at->sizes[d]), step = dim_const_value(m, at->strides[d]);
    for (int64_t i = 0; i < n && !*twice; i++) mark(m, at, d + 1, where + i * step, seen, twice);
}

static bool is_number(const struct module *m, const struct strided *at)
{
    bool numbers = dim_is_const(m, at->offset);
    for (uint32_t d = 0; d < at->rank; d++)
        numbers &= dim_is_const(m, at->sizes[d]) && dim_is_const(m, at->strides[d]);
    return numbers;
}

/* Do two views of one array never meet, as far as numbers tell? */
static bool are_apart(struct capture *c, const struct strided *x, const struct strided *y)
{
    if (!is_number(c->m, x) || !is_number(c->m, y)) return false;
    bool twice = false;
    uint8_t *seen = hop_calloc(COMPARED, 1);
    mark(c->m, x, 0, dim_const_value(c->m, x->offset), seen, &twice);
    mark(c->m, y, 0, dim_const_value(c->m, y->offset), seen, &twice);
    hop_free(seen);
    return !twice;
}

/* With rules each view is an operand of its own, which is cut and put back: that must mean the same. */
static void expect_apart(struct capture *c, const struct lying *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (all[i].known && all[k].known && all[i].at.root == all[k].at.root &&
                !are_apart(c, &all[k].at, &all[i].at))
                capture_throw(
                    "two of its `mut` arguments may overlap, views %u and %u of one array, which its "
                    "rules cannot tell: give it copies, or an operator without rules",
                    k, i);
}

/* The bases behind the other arguments. */
static void put_bases(struct capture *c, struct arguments *a, struct lying *all)
{
    uint32_t n = 0, *first = ARENA_NEW(&c->arena, uint32_t, a->n_muts + 1);
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->of->flags[a->params[i]] & PARAM_MUT) continue;
        a->in[n] = a->in[i];
        a->params[n++] = a->params[i];
    }
    a->n_others = n;
    for (uint32_t i = 0; i < a->n_muts; i++) {
        uint32_t base = 0;
        while (base < a->n_bases &&
               !(all[i].known && all[first[base]].known && all[first[base]].at.root == all[i].at.root))
            base++;
        all[i].base = base;
        if (base < a->n_bases) continue;
        uint32_t root = all[i].at.root;
        hop_val array = a->muts[i];
        if (all[i].known) array = (hop_val){ c->variables.data[root].scope, VARIABLE_BIT | root };
        first[a->n_bases++] = i;
        a->in[n] = array;
        a->params[n++] = all[i].param;
    }
    a->n_all = a->n_all - a->n_muts + a->n_bases;
    a->n = n;
    a->views = all;
}

/* Where one view of an array is cut out and put back, the others are, too: what it becomes is assigned to the
 * array as it was before the call. */
static void cut_beside_others(struct capture *c, const struct arguments *a, struct lying *all)
{
    for (uint32_t i = 0; i < a->n_muts; i++) {
        if (all[i].known || !is_variable(a->muts[i])) continue;
        uint32_t root = variable_index(c, a->muts[i]);
        while (c->variables.data[root].base != HOP_NONE) root = c->variables.data[root].base;
        for (uint32_t k = 0; k < a->n_muts; k++) all[k].known &= all[k].at.root != root;
    }
}

/* `mut` arguments that are parts of arrays, or of one array, are handed on as views of them. */
static void plan_views(struct capture *c, void *args)
{
    struct arguments *a = args;
    struct lying *all = ARENA_ZNEW(&c->arena, struct lying, a->n_muts + 1);
    bool parts = false;
    for (uint32_t i = 0, k = 0; i < a->n; i++) {
        if (!(a->of->flags[a->params[i]] & PARAM_MUT)) continue;
        all[k].param = a->params[i];
        hop_val v = a->muts[k];
        if (is_variable(v)) all[k].known = variable_strided(c, variable_index(c, v), &all[k].at);
        k++;
    }
    cut_beside_others(c, a, all);
    for (uint32_t k = 0; k < a->n_muts; k++) {
        parts |= all[k].known && !all[k].at.whole;
        for (uint32_t j = 0; j < k; j++)
            parts |= all[k].known && all[j].known && all[j].at.root == all[k].at.root;
    }
    if (!parts) return;
    if (has_rules(a)) expect_apart(c, all, a->n_muts);
    else put_bases(c, a, all);
}

/* The attribute: per view its base, offset, rank, then size and stride of each dim. */
static struct attr views_attr(struct emission *e, const struct arguments *a, const val *operands)
{
    vec(dim) list = { 0 };
    struct module *m = e->b->m;
    for (uint32_t i = 0; i < a->n_muts; i++) {
        const struct lying *v = &a->views[i];
        struct type t = emit_type(e->b, operands[a->n_others + v->base]);
        uint32_t rank = v->known ? v->at.rank : t.rank;
        vec_push(&e->b->arena, &list, v->base);
        vec_push(&e->b->arena, &list, v->known ? v->at.offset : 0);
        vec_push(&e->b->arena, &list, rank);
        for (uint32_t d = 0; d < rank; d++) {
            dim step = 1;
            for (uint32_t k = d + 1; k < rank; k++) step = dim_mul(m, step, t.dims[HOP_MIN(k, t.rank - 1u)]);
            vec_push(&e->b->arena, &list, v->known ? v->at.sizes[d] : t.dims[d]);
            vec_push(&e->b->arena, &list, v->known ? v->at.strides[d] : step);
        }
    }
    return A_DIMS(list.data, list.len);
}

/* ---- emitting ---- */

/* Numbers take the dtype of their parameter; of a variable, that of the first array that has it. */
static void find_operands(struct emission *e, const struct arguments *a, const struct operator_decl *d,
                          val *out)
{
    uint8_t dtypes[256];
    memset(dtypes, DT_COUNT, sizeof dtypes);
    for (uint32_t i = 0; i < e->n && !d->any; i++) {
        uint8_t t = d->params[a->params[i]].type.dtype;
        if (t >= DT_COUNT && !e->in[i].weak && dtypes[t - DT_COUNT] == DT_COUNT)
            dtypes[t - DT_COUNT] = emit_type(e->b, e->in[i].v).dtype;
    }
    for (uint32_t i = 0; i < e->n; i++) {
        uint8_t t = d->any ? DT_COUNT : d->params[a->params[i]].type.dtype;
        if (t >= DT_COUNT && !d->any) t = dtypes[t - DT_COUNT];
        out[i] = e->in[i].weak && t < DT_COUNT ? operand_as(e->b, &e->in[i], (enum dtype)t)
                                               : operand_value(e->b, &e->in[i]);
    }
}

/* What the sizes are that operands have by themselves, HOP_NONE: no operand is there that has it. */
static dim *bound_sizes(struct emission *e, const struct arguments *a, const struct operator_decl *d,
                        const val *operands)
{
    dim *sizes = ARENA_NEW(&e->b->arena, dim, d->n_sizes + 1);
    uint32_t s;
    memset(sizes, 0xff, (d->n_sizes + 1) * sizeof *sizes);
    for (uint32_t i = 0; i < e->n + a->n_muts && !d->any; i++) {
        const struct lying *view = a->views && i >= e->n ? &a->views[i - e->n] : NULL;
        if (i >= e->n ? !view || !view->known : a->views && i >= a->n_others) continue;
        const struct operator_type *want = &d->params[view ? view->param : a->params[i]].type;
        struct type t = view ? (struct type){ .rank = (uint8_t)view->at.rank, .dims = view->at.sizes }
                             : emit_type(e->b, operands[i]);
        for (uint32_t k = 0; t.rank == want->rank && k < t.rank; k++)
            if (want->dims[k] != SIZE_ANY && dim_is_symbol(e->b->m, want->dims[k], &s) &&
                sizes[s] == HOP_NONE)
                sizes[s] = t.dims[k];
    }
    return sizes;
}

/* The sizes that only results have: the operator's `infer` says them. */
static struct attr asked_sizes(struct emission *e, const struct arguments *a, const struct operator_decl *d,
                               const val *operands)
{
    const dim *bound = bound_sizes(e, a, d, operands);
    hop_dim *known = ARENA_ZNEW(&e->b->arena, hop_dim, d->n_sizes + 1),
            *found = ARENA_ZNEW(&e->b->arena, hop_dim, d->n_sizes + 1);
    uint32_t n_known = 0, n_found = 0, name = 0;
    for (uint32_t s = 0; s < d->n_sizes; s++) {
        if (d->sizes[s].kind == SIZE_GIVEN) {
            found[n_found++] = hop_dim_const(-1);
            name = d->sizes[s].name;
        }
        if (d->sizes[s].kind != SIZE_BOUND) continue;
        known[n_known++] = bound[s] == HOP_NONE ? hop_dim_const(-1) : dim_handle(e->s, bound[s]);
    }
    if (!n_found) return A_NONE;
    if (!a->of->infer)
        capture_throw("no operand tells the size '%s', and the operator has no `infer` that does",
                      module_text(e->b->m, name));
    int status = a->of->infer(a->of->user, known, found);
    if (hop_failed()) hop_rethrow((hop_status)hop_failed());
    if (status) capture_throw("its `infer` returned %d", status);
    dim *sizes = ARENA_NEW(&e->b->arena, dim, n_found);
    for (uint32_t i = 0; i < n_found; i++) sizes[i] = resolve_dim(e->s, found[i]);
    return A_DIMS(sizes, n_found);
}

static void rule_operator(struct emission *e)
{
    const struct arguments *a = e->args;
    const struct registered *r = a->of;
    const struct operator_decl *d = operator_declared(e->b->m, r);
    val *operands = ARENA_NEW(&e->b->arena, val, e->n + 1);
    find_operands(e, a, d, operands);
    struct attr attrs[OPERATOR_ATTRS] = { [OPERATOR_NAME] = A_STRING(d->name),
                                          [OPERATOR_TOGETHER] = A_FLAG(r->together),
                                          [OPERATOR_ALONE] = A_FLAG(r->alone) };
    if (a->some) attrs[OPERATOR_GIVEN] = A_INTS(a->given, a->n_given);
    attrs[OPERATOR_SIZES] = asked_sizes(e, a, d, operands);
    if (a->views) attrs[OPERATOR_VIEWS] = views_attr(e, a, operands);
    static const char *const names[OPERATOR_RULES] = { "its forward", "its backward", "its jvp",
                                                       "its batch" };
    struct called_fn given[OPERATOR_RULES];
    uint32_t rules[OPERATOR_RULES];
    for (uint32_t i = 0; i < OPERATOR_RULES; i++) {
        hop_fn *fn = a->rules[i] ? a->rules[i] : r->rules[i];
        given[i] = (struct called_fn){ HOP_NONE, NULL, 0 };
        if (fn && !a->bare) given[i] = imported(e, fn, names[i]);
        rules[i] = given[i].fn;
    }
    struct attr custom[CUSTOM_ATTRS] = { 0 };
    custom_rules(e, given, custom);
    val first = emit_operator(e->b, operands, e->n, attrs, rules, custom[CUSTOM_SIZES]);
    for (uint32_t i = 0; i < e->n_out; i++) e->out[i] = first + i;
}

/* ---- rules that are captured for a call ---- */

/* What a rule takes: the values that its parameters are like, and whether they have one more dim. */
struct taken {
    uint32_t n;
    hop_param *params;
};

static bool is_float_value(struct scope *s, hop_val v)
{
    struct operand o = resolve(s, v);
    return dtype_is_float((enum dtype)emit_type(&s->b, o.v).dtype);
}

static void add_like(struct taken *t, struct scope *s, const hop_val *values, uint32_t n, bool floats)
{
    for (uint32_t i = 0; i < n; i++)
        if (!floats || is_float_value(s, values[i])) t->params[t->n++] = (hop_param){ .like = values[i] };
}

static hop_fn *capture_rule(struct capture *c, const char *name, const struct taken *t,
                            const hop_operator_rule *rule, uint32_t n_results)
{
    hop_fn *fn = NULL;
    int n = rule->n_results ? rule->n_results : (int)n_results;
    int status = hop_capture_params_at(c->at, &fn, name, t->params, (int)t->n, n, rule->body, rule->env);
    if (status) hop_rethrow((hop_status)status);
    return fn;
}

/* The call without rules: its results in a->all, and its arguments as values of their types. */
static void emit_bare(struct capture *c, struct arguments *a, hop_val *in)
{
    struct scope *s = c->innermost;
    struct arena *arena = &s->b.arena;
    struct emission e = { .c = c,
                          .s = s,
                          .b = &s->b,
                          .n = a->n,
                          .in = ARENA_ZNEW(arena, struct operand, a->n + 1),
                          .args = a,
                          .out = ARENA_NEW(arena, val, a->n_all + 1),
                          .n_out = a->n_all };
    val *operands = ARENA_NEW(arena, val, a->n + 1);
    for (uint32_t i = 0; i < a->n; i++) e.in[i] = resolve(s, a->in[i]);
    find_operands(&e, a, operator_declared(c->m, a->of), operands);
    for (uint32_t i = 0; i < a->n; i++) {
        in[i] = value_handle(s, operands[i]);
        e.in[i] = (struct operand){ .v = operands[i] };
    }
    a->bare = true;
    rule_operator(&e);
    a->bare = false;
    for (uint32_t i = 0; i < a->n_all; i++) a->all[i] = value_handle(s, e.out[i]);
}

/* A call whose rules are captured. */
struct ruled {
    struct capture *c;
    struct arguments *a;
    hop_val *in; /* the arguments, as values */
    struct taken t;
    hop_fn *forward;
};

static bool is_body(const struct ruled *w, enum operator_rule rule)
{
    return w->a->of->bodies[rule].body && !w->a->of->rules[rule];
}

static uint32_t count_floats(const struct ruled *w, const hop_val *values, uint32_t n)
{
    uint32_t floats = 0;
    for (uint32_t i = 0; i < n; i++) floats += is_float_value(w->c->innermost, values[i]);
    return floats;
}

/* Room for so many parameters, and none yet. */
static void begin_rule(struct ruled *w, uint32_t room)
{
    w->t = (struct taken){ .params = ARENA_ZNEW(&w->c->arena, hop_param, room + 1) };
}

static void capture_as(struct ruled *w, enum operator_rule rule, uint32_t n_results)
{
    w->a->rules[rule] = capture_rule(w->c, operator_rule_names[rule], &w->t, &w->a->of->bodies[rule],
                                     n_results);
}

static void capture_forward(struct ruled *w)
{
    const struct arguments *a = w->a;
    int n = a->of->bodies[OPERATOR_FORWARD].n_results;
    if (n < (int)a->n_all) capture_throw("its forward has %d results, expected at least %u", n, a->n_all);
    begin_rule(w, a->n);
    add_like(&w->t, w->c->innermost, w->in, a->n, false);
    capture_as(w, OPERATOR_FORWARD, 0);
}

/* What backward takes before the cotangents: what forward saves, or operands and results. */
static void take_saved(struct ruled *w)
{
    const struct arguments *a = w->a;
    struct scope *s = w->c->innermost;
    if (!w->forward) {
        begin_rule(w, a->n + 2 * a->n_all);
        add_like(&w->t, s, w->in, a->n, false);
        add_like(&w->t, s, a->all, a->n_all, false);
        return;
    }
    int n = hop_fn_results(w->forward);
    hop_val *saved = ARENA_ZNEW(&w->c->arena, hop_val, (uint32_t)n + 1);
    int status = hop_call_fn_at(w->c->at, saved, n, w->forward, w->in, (int)a->n);
    if (status) hop_rethrow((hop_status)status);
    begin_rule(w, (uint32_t)n + a->n_all);
    if (n > (int)a->n_all) add_like(&w->t, s, saved + a->n_all, (uint32_t)n - a->n_all, false);
}

/* Inside of capture_try: the call is recorded without rules, so that its results have types, and the rules
 * are captured beside it. */
static void capture_bodies(struct capture *c, void *args)
{
    struct arguments *a = args;
    struct ruled w = { .c = c, .a = a, .in = ARENA_NEW(&c->arena, hop_val, a->n + 1) };
    emit_bare(c, a, w.in);
    uint32_t n_floats = count_floats(&w, w.in, a->n), n_float_results = count_floats(&w, a->all, a->n_all);
    if (is_body(&w, OPERATOR_FORWARD)) capture_forward(&w);
    w.forward = a->rules[OPERATOR_FORWARD] ? a->rules[OPERATOR_FORWARD] : a->of->rules[OPERATOR_FORWARD];
    if (is_body(&w, OPERATOR_BACKWARD)) {
        take_saved(&w);
        add_like(&w.t, c->innermost, a->all, a->n_all, true);
        capture_as(&w, OPERATOR_BACKWARD, n_floats);
    }
    if (is_body(&w, OPERATOR_JVP)) {
        begin_rule(&w, 2 * a->n);
        add_like(&w.t, c->innermost, w.in, a->n, false);
        add_like(&w.t, c->innermost, w.in, a->n, true);
        capture_as(&w, OPERATOR_JVP, a->n_all + n_float_results);
    }
    if (is_body(&w, OPERATOR_BATCH)) {
        begin_rule(&w, a->n);
        add_like(&w.t, c->innermost, w.in, a->n, false);
        for (uint32_t i = 0; i < w.t.n; i++) w.t.params[i].over = "lanes_of_batch";
        capture_as(&w, OPERATOR_BATCH, a->n_all);
    }
}

static void capture_all_rules(struct capture *c, void *args)
{
    if (!c->eager) capture_try(c, capture_bodies, args);
}

/* 0, or the status of the capture. */
static int rules_of_call(hop_place at, struct arguments *a)
{
    bool any = false;
    for (uint32_t i = 0; i < OPERATOR_RULES; i++) any |= a->of->bodies[i].body && !a->of->rules[i];
    if (!any || a->bare) return 0;
    struct within here = { within, a->of->name };
    within = &here;
    int status = capture_edge(at, a->of->name, capture_all_rules, a);
    within = here.outer;
    return status;
}

/* ---- calls ---- */

/* What the node gave, as the caller sees it: assigned, or among the results. */
static int give(hop_place at, const struct arguments *a, hop_val *results)
{
    const hop_val *changed = a->views ? a->in + a->n_others : a->muts;
    uint32_t n_changed = a->views ? a->n_bases : a->n_muts;
    int n = 0, status = 0;
    for (uint32_t i = 0; i < a->n_all - n_changed; i++) results[n++] = a->all[i];
    for (uint32_t i = 0; i < n_changed && !status; i++) {
        hop_val now = a->all[a->n_all - n_changed + i];
        if (is_variable(changed[i])) status = hop_assign_at(at, changed[i], now);
        else results[n++] = now;
    }
    return status;
}

static int fail(hop_place at, const struct registered *r, const char *text)
{
    char all[1024];
    snprintf(all, sizeof all, "%s: %s: %s", r->name, text, r->signature);
    return hop_fail_at(at, all);
}

static int call_with(hop_place at, struct arguments *a, hop_val *results, int n_results, const hop_val *in,
                     int n_in, const int *counts)
{
    const struct registered *r = a->of;
    const char *wrong = take_all(a, in, n_in, counts);
    if (wrong) return fail(at, r, wrong);
    uint32_t visible = a->n_all;
    for (uint32_t i = 0; i < a->n_muts; i++) visible -= is_variable(a->muts[i]);
    if (visible != (uint32_t)n_results) {
        char text[96];
        snprintf(text, sizeof text, "expected room for %u results, found %d", visible, n_results);
        return fail(at, r, text);
    }
    a->bare = is_within(r->name);
    bool assigns = visible < a->n_all;
    int status = assigns ? capture_edge(at, r->name, plan_views, a) : 0;
    if (!status) status = rules_of_call(at, a);
    if (!status) status = capture_emit(at, r->name, rule_operator, a, a->in, a->n, a->all, a->n_all);
    for (uint32_t i = 0; i < OPERATOR_RULES; i++)
        if (a->rules[i]) hop_fn_free(a->rules[i]);
    return status ? status : give(at, a, results);
}

/* Memory for a call of so many arguments, and as many results at most. */
static struct arguments *new_arguments(const struct registered *r, uint32_t n_in)
{
    uint32_t n_all = r->n_results + r->n_params + n_in, n_given = 2 * (r->n_params + n_in);
    size_t values = (2 * (size_t)n_in + n_all + 1) * sizeof(hop_val);
    struct arguments *a = hop_try_malloc(sizeof *a + values + (n_given + n_in + 1) * sizeof *a->given);
    if (!a) return NULL;
    *a = (struct arguments){ .of = r, .in = (hop_val *)(a + 1) };
    a->muts = a->in + n_in;
    a->all = a->muts + n_in;
    a->given = (uint32_t *)(a->all + n_all + 1);
    a->params = a->given + n_given;
    return a;
}

static void no_memory(struct capture *c, void *name)
{
    HOP_UNUSED(c);
    hop_throw(HOP_NOMEM, "%s: out of memory", (const char *)name);
}

int hop_operator_lists_at(hop_place at, hop_val *results, int n_results, const char *name, const hop_val *in,
                          int n_in, const int *counts)
{
    if (!name) return hop_fail_at(at, "operator: expected a name, found NULL");
    if (n_results < 0 || n_in < 0 || (n_results && !results) || (n_in && !in))
        return hop_fail_at(at, "operator: expected arguments and a place for each result, found NULL");
    struct registered *r = operator_hold(name);
    if (!r) {
        char text[256];
        snprintf(text, sizeof text,
                 "operator: there is no operator '%.100s': expected one that hop_operator_register has made "
                 "known",
                 name);
        for (int i = 0; i < n_results; i++) results[i] = (hop_val){ 0, 0 };
        return hop_fail_at(at, text);
    }
    struct arguments *a = new_arguments(r, (uint32_t)n_in);
    int status = a ? call_with(at, a, results, n_results, in, n_in, counts)
                   : capture_edge(at, r->name, no_memory, r->name);
    for (int i = 0; status && i < n_results; i++) results[i] = (hop_val){ 0, 0 };
    hop_free(a);
    operator_drop(r);
    return status;
}

int hop_operator_at(hop_place at, hop_val *results, int n_results, const char *name, const hop_val *in,
                    int n_in)
{
    return hop_operator_lists_at(at, results, n_results, name, in, n_in, NULL);
}
