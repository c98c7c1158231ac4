/* The row of custom: a call whose derivatives, or whose way over lanes, the user gives. Running it is running
 * its one region, the body; the rules are functions that attributes name:
 *   forward   (operands…) -> (results…, saved…), in place of the body where a gradient is taken; without one
 *             the operands are saved, and the results too where backward takes them; the call stays
 *             itself then, so that its rules count for derivatives of any order
 *   backward  (saved…, cotangent of each float result…) -> (cotangent of each operand in `gives`…); where it
 *             `asks`, an i32[] stands before the cotangents: bit k says whether float result k has one
 *   jvp       (operands…, tangent of each float operand…) -> (results…, tangent of each float result…)
 *   batch     (operands, each with one more leading dim…) -> (results, each with that dim…); beside rules for
 *             derivatives it is the body over lanes, and these rules, over lanes, stay
 * `closed` of the last operands are what the body uses from outside, of which rules say nothing: they have no
 * tangents, no cotangents and no more dims above, and where they would have, that is an error. `sizes` are
 * the sizes that rules take which no parameter of theirs tells, in the order of the rules. Whichever are
 * given, every transform works: a backward is linear in the cotangents, so its transpose is the jvp; a jvp is
 * linear in the tangents, so its transpose is the backward; rules are batched like bodies; what the rules do
 * is differentiated again like anything else. */
#include "hops/hops.h"

static uint32_t rule_of(const struct attr *attrs, uint32_t which)
{
    return attrs[which].kind == ATTR_ABSENT ? HOP_NONE : (uint32_t)attrs[which].i;
}

static bool is_float(const struct module *m, type_id t)
{
    return dtype_is_float((enum dtype)type_get(m, t).dtype);
}

static bool param_is_float(const struct module *m, const struct fn *f, uint32_t p)
{
    return is_float(m, value_type(f, p));
}
static bool result_is_float(const struct module *m, const struct fn *f, uint32_t k)
{
    return is_float(m, value_type(f, f->results[k]));
}
static uint32_t count_float_params(const struct module *m, const struct fn *f, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < n; p++) count += param_is_float(m, f, p);
    return count;
}
static uint32_t count_float_results(const struct module *m, const struct fn *f, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < n; k++) count += result_is_float(m, f, k);
    return count;
}

/* How many of the operands are the user's arguments: the others are what the body uses from outside. */
static uint32_t n_open(const struct attr *attrs, uint32_t n_operands)
{
    return n_operands - (attrs[CUSTOM_CLOSED].kind == ATTR_ABSENT ? 0 : (uint32_t)attrs[CUSTOM_CLOSED].i);
}

static uint32_t n_asks(const struct attr *attrs) { return attrs[CUSTOM_ASKS].kind != ATTR_ABSENT; }

/* Does backward give a cotangent for this operand? Without the attribute it does for every float. */
static bool gives(const struct module *m, const struct attr *attrs, const struct fn *body, uint32_t p)
{
    const struct attr *list = &attrs[CUSTOM_GIVES];
    if (list->kind == ATTR_ABSENT) return p < n_open(attrs, body->n_params) && param_is_float(m, body, p);
    for (uint32_t i = 0; i < list->n; i++)
        if (list->list[i] == p) return true;
    return false;
}

/* How much backward takes before the cotangents where there is no forward: the operands, or these and the
 * results. */
static uint32_t n_saved_of_call(const struct module *m, const struct attr *attrs, const struct fn *body,
                                const struct fn *backward)
{
    uint32_t n_ct = count_float_results(m, body, body->n_results) + n_asks(attrs);
    uint32_t all = body->n_params + body->n_results;
    return body->n_results && backward->n_params == all + n_ct ? all : body->n_params;
}

/* ---- types ---- */

struct rule_check {
    struct infer *in;
    const struct fn *rule, *body;
    const char *name;
};

static void check_count(const struct rule_check *c, const char *what, uint32_t found, uint32_t expected,
                        const char *because)
{
    if (found != expected)
        infer_error(c->in, "its %s has %u %s%s, expected %u: %s", c->name, found, what, found == 1 ? "" : "s",
                    expected, because);
}

static void check_type(const struct rule_check *c, const char *what, uint32_t i, type_id found,
                       const struct fn *of, type_id expected, const char *because)
{
    const struct module *m = c->in->m;
    if (!type_can_be(m, found, expected))
        infer_error(c->in, "its %s: %s %u has type %s, expected %s: %s", c->name, what, i,
                    type_text(m, c->rule->symbols, found), type_text(m, of->symbols, expected), because);
}

static void check_forward(const struct rule_check *c)
{
    const struct fn *f = c->rule, *body = c->body;
    check_count(c, "parameter", f->n_params, body->n_params, "those of the body");
    for (uint32_t p = 0; p < body->n_params; p++)
        check_type(c, "parameter", p, value_type(f, p), body, value_type(body, p), "as that of the body");
    if (f->n_results < body->n_results)
        check_count(c, "result", f->n_results, body->n_results, "those of the body, then what is saved");
    for (uint32_t k = 0; k < body->n_results; k++)
        check_type(c, "result", k, value_type(f, f->results[k]), body, value_type(body, body->results[k]),
                   "as that of the body");
}

static void check_backward(const struct rule_check *c, const struct attr *attrs)
{
    struct module *m = c->in->m;
    const struct fn *f = c->rule, *body = c->body;
    uint32_t forward = rule_of(attrs, CUSTOM_FORWARD);
    const struct fn *saver = forward == HOP_NONE ? NULL : module_fn(m, forward);
    uint32_t n_saved = saver ? saver->n_results - body->n_results : n_saved_of_call(m, attrs, body, f);
    uint32_t n_ct = count_float_results(m, body, body->n_results), n = 0;
    uint32_t first = n_saved + n_asks(attrs);
    const char *because = saver ? "what is saved, then the cotangent of each float result"
                                : "the operands, the results or none of them, then the cotangent of each "
                                  "float result";
    if (first > n_saved)
        because = "what is saved, which cotangents there are, then the cotangent of each float result";
    check_count(c, "parameter", f->n_params, first + n_ct, because);
    if (first > n_saved && value_type(f, n_saved) != type_intern(m, DT_I32, 0, NULL))
        infer_error(c->in,
                    "its backward: parameter %u has type %s, expected i32[]: which cotangents there are",
                    n_saved, type_text(m, f->symbols, value_type(f, n_saved)));
    for (uint32_t i = 0; i < n_saved; i++) {
        type_id saved;
        if (saver) saved = value_type(saver, saver->results[body->n_results + i]);
        else saved = value_type(body, i < body->n_params ? i : body->results[i - body->n_params]);
        check_type(c, "parameter", i, value_type(f, i), saver ? saver : body, saved, "as it is saved");
    }
    for (uint32_t k = 0, at = first; k < body->n_results; k++)
        if (result_is_float(m, body, k)) {
            check_type(c, "parameter", at, value_type(f, at), body, value_type(body, body->results[k]),
                       "a cotangent has its result's type");
            at++;
        }
    for (uint32_t p = 0; p < body->n_params; p++) {
        if (!gives(m, attrs, body, p)) continue;
        if (n < f->n_results)
            check_type(c, "result", n, value_type(f, f->results[n]), body, value_type(body, p),
                       "a cotangent has its operand's type");
        n++;
    }
    check_count(c, "result", f->n_results, n, "a cotangent for each operand that it gives one for");
}

static void check_jvp(const struct rule_check *c)
{
    struct module *m = c->in->m;
    const struct fn *f = c->rule, *body = c->body;
    uint32_t open = n_open(c->in->attrs, body->n_params), n_in = count_float_params(m, body, open);
    uint32_t n_out = count_float_results(m, body, body->n_results);
    check_count(c, "parameter", f->n_params, body->n_params + n_in,
                "those of the body, then the tangent of each float one");
    check_count(c, "result", f->n_results, body->n_results + n_out,
                "those of the body, then the tangent of each float one");
    for (uint32_t p = 0, at = body->n_params; p < body->n_params; p++) {
        check_type(c, "parameter", p, value_type(f, p), body, value_type(body, p), "as that of the body");
        if (p >= open || !param_is_float(m, body, p)) continue;
        check_type(c, "parameter", at, value_type(f, at), body, value_type(body, p),
                   "a tangent has its operand's type");
        at++;
    }
    for (uint32_t k = 0, at = body->n_results; k < body->n_results; k++) {
        type_id t = value_type(body, body->results[k]);
        check_type(c, "result", k, value_type(f, f->results[k]), body, t, "as that of the body");
        if (!result_is_float(m, body, k)) continue;
        check_type(c, "result", at, value_type(f, f->results[at]), body, t,
                   "a tangent has its result's type");
        at++;
    }
}

static void check_batch(const struct rule_check *c)
{
    struct module *m = c->in->m;
    const struct fn *f = c->rule, *body = c->body;
    check_count(c, "parameter", f->n_params, body->n_params, "those of the body");
    check_count(c, "result", f->n_results, body->n_results, "those of the body");
    for (uint32_t p = 0; p < body->n_params; p++) {
        struct type t = type_get(m, value_type(f, p));
        if (p >= n_open(c->in->attrs, body->n_params)) {
            check_type(c, "parameter", p, value_type(f, p), body, value_type(body, p), "as that of the body");
            continue;
        }
        if (!t.rank || !type_can_be(m, type_prepend(m, value_type(body, p), t.dims[0]), value_type(f, p)))
            infer_error(c->in,
                        "its batch: parameter %u has type %s, expected that of the body, %s, with one "
                        "more leading dim",
                        p, type_text(m, f->symbols, value_type(f, p)),
                        type_text(m, body->symbols, value_type(body, p)));
    }
    for (uint32_t k = 0; k < body->n_results; k++) {
        type_id found = value_type(f, f->results[k]), inner = value_type(body, body->results[k]);
        struct type t = type_get(m, found);
        if (!t.rank || !type_can_be(m, type_prepend(m, inner, t.dims[0]), found))
            infer_error(c->in,
                        "its batch: result %u has type %s, expected that of the body, %s, with one "
                        "more leading dim",
                        k, type_text(m, f->symbols, found), type_text(m, body->symbols, inner));
    }
}

static void check_gives(struct infer *in, const struct fn *body)
{
    const struct attr *list = &in->attrs[CUSTOM_GIVES];
    for (uint32_t i = 0; list->kind != ATTR_ABSENT && i < list->n; i++) {
        if (list->list[i] >= body->n_params || !param_is_float(in->m, body, list->list[i]))
            infer_error(in, "gives: operand %d is no float operand", (int32_t)list->list[i]);
        if (i && list->list[i] <= list->list[i - 1])
            infer_error(in, "gives: the numbers of operands must ascend");
    }
}

/* How many outer symbols of a rule no parameter binds. */
static uint32_t count_sizes(const struct module *m, uint32_t rule)
{
    uint32_t n = 0;
    const struct fn *f = rule == HOP_NONE ? NULL : module_fn(m, rule);
    for (uint32_t k = 0; f && k < f->n_outer_symbols; k++) n += f->symbols[k].origin == SYMBOL_DIM;
    return n;
}

static void custom_infer(struct infer *in)
{
    struct rule_check c = { .in = in, .body = module_fn(in->m, in->regions[0].fn) };
    static const char *const names[] = { [CUSTOM_FORWARD] = "forward",
                                         [CUSTOM_BACKWARD] = "backward",
                                         [CUSTOM_JVP] = "jvp",
                                         [CUSTOM_BATCH] = "batch" };
    bool backward = rule_of(in->attrs, CUSTOM_BACKWARD) != HOP_NONE;
    if (!backward && rule_of(in->attrs, CUSTOM_FORWARD) != HOP_NONE)
        infer_error(in, "it has a forward but no backward");
    if (!backward && in->attrs[CUSTOM_GIVES].kind != ATTR_ABSENT)
        infer_error(in, "gives says what its backward gives, but there is none");
    if (!backward && n_asks(in->attrs)) infer_error(in, "asks is about its backward, but there is none");
    check_gives(in, c.body);
    if (in->attrs[CUSTOM_CLOSED].kind != ATTR_ABSENT &&
        (in->attrs[CUSTOM_CLOSED].i < 0 || in->attrs[CUSTOM_CLOSED].i > c.body->n_params))
        infer_error(in, "closed: there are %u operands, found %lld", c.body->n_params,
                    (long long)in->attrs[CUSTOM_CLOSED].i);
    uint32_t n_sizes = 0, given = in->attrs[CUSTOM_SIZES].kind == ATTR_ABSENT ? 0 : in->attrs[CUSTOM_SIZES].n;
    for (uint32_t k = CUSTOM_FORWARD; k <= CUSTOM_BATCH; k++)
        n_sizes += count_sizes(in->m, rule_of(in->attrs, k));
    if (n_sizes != given)
        infer_error(in, "its rules take %u sizes that no parameter tells, `sizes` has %u", n_sizes, given);
    for (uint32_t which = CUSTOM_FORWARD; which <= CUSTOM_BATCH; which++) {
        uint32_t rule = rule_of(in->attrs, which);
        if (rule == HOP_NONE) continue;
        c.rule = module_fn(in->m, rule);
        c.name = names[which];
        if (which == CUSTOM_FORWARD) check_forward(&c);
        if (which == CUSTOM_BACKWARD) check_backward(&c, in->attrs);
        if (which == CUSTOM_JVP) check_jvp(&c);
        if (which == CUSTOM_BATCH) check_batch(&c);
    }
    call_infer(in);
}

/* ---- calls of rules ---- */

/* The first result of a call of a function. dims: what its first n_dims outer symbols are here, HOP_NONE
 * where operands tell, as they do for all others. */
static val call(struct builder *b, uint32_t fn, const val *operands, uint32_t n, const dim *dims,
                uint32_t n_dims)
{
    uint32_t n_symbols = module_fn(b->m, fn)->n_outer_symbols;
    struct region_in region = { fn, operands, n,
                                extend_dims(b, dims, HOP_MIN(n_dims, n_symbols), n_symbols, HOP_NONE) };
    return builder_node(b, &(struct node_in){ .op = OP_invoke_subgraph,
                                              .groups = (const uint32_t[1]){ 0 },
                                              .regions = &region,
                                              .n_regions = 1 });
}

/* What a rule's outer symbols are where the node stands, as far as the attribute `sizes` says it. */
static const dim *rule_dims(struct builder *b, const struct attr *attrs, uint32_t which)
{
    const struct attr *sizes = &attrs[CUSTOM_SIZES];
    const struct fn *f = module_fn(b->m, rule_of(attrs, which));
    dim *dims = ARENA_NEW(&b->arena, dim, f->n_outer_symbols);
    uint32_t at = 0;
    for (uint32_t k = CUSTOM_FORWARD; k < which; k++) at += count_sizes(b->m, rule_of(attrs, k));
    for (uint32_t k = 0; k < f->n_outer_symbols; k++)
        dims[k] = f->symbols[k].origin == SYMBOL_DIM ? sizes->list[at++] : HOP_NONE;
    return dims;
}

static val call_rule(struct builder *b, const struct attr *attrs, uint32_t which, const val *operands,
                     uint32_t n)
{
    uint32_t rule = rule_of(attrs, which);
    const dim *dims = rule_dims(b, attrs, which);
    return call(b, rule, operands, n, dims, module_fn(b->m, rule)->n_outer_symbols);
}

/* What the outer symbols of the function that a node calls are, once it is built. */
static const dim *called_dims(struct builder *b, val first)
{
    const struct node *n = &b->nodes.data[b->values.data[first].node];
    return b->regions.data[n->regions].dims;
}

/* Value k of the list, or zeros like `like` where it is missing. */
static val or_zeros(struct builder *b, val v, val like) { return v != VAL_NONE ? v : zeros_like(b, like); }

/* ---- what is linear ---- */

/* The pullback of a rule for its parameters from `first` on, in which it is linear: (its parameters…, ct of
 * each float result…) -> (ct of each such parameter…). */
static uint32_t pullback_of(struct module *m, uint32_t rule, uint32_t first, const char *name,
                            const char *other)
{
    const struct fn *f = module_fn(m, rule);
    bool *linear = ARENA_ZNEW(&m->arena, bool, f->n_params);
    for (uint32_t p = first; p < f->n_params; p++) linear[p] = true;
    return transpose_function(m, rule, linear, name, other);
}

/* Does anything in the body read this parameter? What the rules alone use is not among its derivatives. */
static bool reads_param(const struct fn *body, val p)
{
    for (uint32_t i = 0; i < body->n_nodes; i++)
        for (uint32_t k = 0; k < body->nodes[i].n_operands; k++)
            if (node_operands(body, &body->nodes[i])[k] == p) return true;
    for (uint32_t k = 0; k < body->n_results; k++)
        if (body->results[k] == p) return true;
    return false;
}

/* What a body uses from outside of it has no part in the rules. differentiated: per operand. */
static void check_closed(struct builder *b, const struct attr *attrs, const struct fn *f,
                         const struct node *n, const bool *differentiated)
{
    const struct fn *body = module_fn(b->m, node_region(f, n, 0)->fn);
    bool refused = attrs[CUSTOM_TANGENT].kind != ATTR_ABSENT && attrs[CUSTOM_TANGENT].i == TANGENT_NONE;
    for (uint32_t p = 0; p < n->n_operands; p++)
        if (refused && differentiated[p])
            hop_throw(
                HOP_INVALID,
                "%scustom: derivatives of so high an order are taken of a function that is called in "
                "its own rule that there is no rule for them: let the rule compute what it needs itself",
                place_text(b->m, n->place));
    if (rule_of(attrs, CUSTOM_BACKWARD) == HOP_NONE && rule_of(attrs, CUSTOM_JVP) == HOP_NONE) return;
    for (uint32_t p = n_open(attrs, n->n_operands); p < n->n_operands; p++)
        if (differentiated[p] && reads_param(body, p))
            hop_throw(
                HOP_INVALID,
                "%scustom: a value that its function uses from outside is differentiated, and its rules "
                "say nothing about that: make it an argument",
                place_text(b->m, n->place));
}

/* ---- reverse mode ---- */

struct custom_saved {
    uint32_t n_saved;
    const val *saved;
    const struct vjp_halves *halves; /* of the jvp, where that is the rule */
    const dim *dims;                 /* its outer symbols */
    uint32_t n_dims;
    struct replaced *body; /* without rules of its own */
};

/* Reverse mode by the jvp: the halves of that, for its tangents. */
static void forward_by_jvp(struct vjp_forward *v, const struct node_in *in, uint32_t jvp,
                           struct custom_saved *saved)
{
    struct builder *b = v->copy->b;
    const struct fn *f = module_fn(b->m, jvp);
    const struct region_in *r = &in->regions[0];
    uint32_t n = v->n->n_operands, n_y = v->n->n_results;
    pullback_of(b->m, jvp, n, "custom: its jvp", "gradient"); /* which says whether it is linear */
    bool *active = ARENA_ZNEW(&b->arena, bool, f->n_params);
    bool *wanted = ARENA_ZNEW(&b->arena, bool, f->n_results);
    val *operands = ARENA_NEW(&b->arena, val, f->n_params);
    uint32_t at = n;
    for (uint32_t p = 0; p < n; p++) operands[p] = r->operands[p];
    for (uint32_t p = 0; p < n_open(in->attrs, n); p++) {
        if (!param_is_float(b->m, f, p)) continue;
        active[at] = v->active[p];
        operands[at++] = zeros_like(b, r->operands[p]);
    }
    at = n_y;
    for (uint32_t k = 0; k < n_y; k++)
        if (result_is_float(b->m, f, k)) wanted[at++] = v->result_wanted[k];
    const struct vjp_halves *h = vjp_split(b->m, jvp, active, wanted, 0, false);
    uint32_t n_dims = module_fn(b->m, jvp)->n_outer_symbols;
    const dim *given = rule_dims(b, in->attrs, CUSTOM_JVP);
    val first = call(b, h->forward, operands, module_fn(b->m, jvp)->n_params, given, n_dims);
    val extra = first + module_fn(b->m, jvp)->n_results;
    val *residuals = ARENA_NEW(&b->arena, val, h->n_residuals);
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        uint32_t param = h->source_param[i], result = h->source_result[i];
        if (param != HOP_NONE) residuals[i] = operands[param];
        else residuals[i] = result != HOP_NONE ? first + result : extra++;
    }
    for (uint32_t k = 0; k < n_y; k++) v->results[k] = first + k;
    *saved = (struct custom_saved){ .n_saved = h->n_residuals,
                                    .saved = residuals,
                                    .halves = h,
                                    .dims = called_dims(b, first),
                                    .n_dims = n_dims };
}

static void forward_by_rule(struct vjp_forward *v, const struct node_in *in, struct custom_saved *saved)
{
    struct builder *b = v->copy->b;
    const struct region_in *r = &in->regions[0];
    uint32_t forward = rule_of(in->attrs, CUSTOM_FORWARD), n_y = v->n->n_results;
    if (forward == HOP_NONE) {
        val first = builder_node(b, in);
        for (uint32_t k = 0; k < n_y; k++) v->results[k] = first + k;
        const struct fn *backward = module_fn(b->m, rule_of(in->attrs, CUSTOM_BACKWARD));
        saved->n_saved = n_saved_of_call(b->m, in->attrs, module_fn(b->m, r->fn), backward);
        val *kept = ARENA_NEW(&b->arena, val, saved->n_saved);
        for (uint32_t i = 0; i < saved->n_saved; i++)
            kept[i] = i < r->n_operands ? r->operands[i] : first + (i - r->n_operands);
        saved->saved = kept;
        return;
    }
    val first = call_rule(b, in->attrs, CUSTOM_FORWARD, r->operands, r->n_operands);
    val *kept = ARENA_NEW(&b->arena, val, module_fn(b->m, forward)->n_results);
    saved->n_saved = module_fn(b->m, forward)->n_results - n_y;
    for (uint32_t k = 0; k < n_y; k++) v->results[k] = first + k;
    for (uint32_t i = 0; i < saved->n_saved; i++) {
        kept[i] = first + n_y + i;
        saved_add(b->m, (struct saved_value){ .by = node_row(v->n),
                                              .place = v->n->place,
                                              .type = builder_type(b, kept[i]),
                                              .rows = HOP_NONE,
                                              .why = "its forward saves it" });
    }
    saved->saved = kept;
}

static void custom_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    struct custom_saved *saved = ARENA_ZNEW(&b->arena, struct custom_saved, 1);
    uint32_t jvp = rule_of(in.attrs, CUSTOM_JVP);
    v->saved = saved;
    check_closed(b, in.attrs, v->f, v->n, v->active);
    if (rule_of(in.attrs, CUSTOM_BACKWARD) != HOP_NONE) forward_by_rule(v, &in, saved);
    else if (jvp != HOP_NONE) forward_by_jvp(v, &in, jvp, saved);
    else {
        saved->body = replaced_vjp_forward(v, in.regions[0]);
        return;
    }
    for (uint32_t k = 0; k < v->n->n_results; k++)
        v->result_active[k] = is_float(b->m, builder_type(b, v->results[k]));
}

static void vjp_by_jvp(struct vjp *v, const struct custom_saved *saved)
{
    struct builder *b = v->b;
    const struct vjp_halves *h = saved->halves;
    uint32_t n_y = v->n->n_results, n = saved->n_saved, at = n_y;
    val *operands = ARENA_NEW(&b->arena, val, n + n_y);
    if (n) memcpy(operands, saved->saved, n * sizeof *operands);
    for (uint32_t k = 0; k < n_y; k++) {
        if (!is_float(b->m, builder_type(b, v->results[k]))) continue;
        if (h->ct_result[at++]) operands[n++] = or_zeros(b, v->ct[k], v->results[k]);
    }
    val next = call(b, h->backward, operands, n, saved->dims, saved->n_dims);
    at = v->n->n_operands;
    for (uint32_t p = 0; p < n_open(v->attrs, v->n->n_operands); p++) {
        if (!is_float(b->m, builder_type(b, v->operands[p]))) continue;
        if (h->ct_param[at++]) v->out[p] = next++;
    }
}

/* Which of the float results have cotangents, for a backward that asks. */
enum { MOST_ASKED = 31 };
static val which_there(struct builder *b, uint32_t bits) { return emit_full(b, DT_I32, bits, 0, NULL); }

static void custom_vjp(struct vjp *v)
{
    struct builder *b = v->b;
    const struct custom_saved *saved = v->saved;
    if (saved->body) {
        replaced_vjp(v, saved->body);
        return;
    }
    if (saved->halves) {
        vjp_by_jvp(v, saved);
        return;
    }
    uint32_t n = saved->n_saved, there = 0, bit = 0;
    val *operands = ARENA_NEW(&b->arena, val, n + v->n->n_results + 1);
    if (n) memcpy(operands, saved->saved, n * sizeof *operands);
    for (uint32_t k = 0; k < v->n->n_results; k++)
        if (is_float(b->m, builder_type(b, v->results[k])) && bit++ < MOST_ASKED)
            there |= (uint32_t)(v->ct[k] != VAL_NONE) << (bit - 1);
    if (n_asks(v->attrs)) operands[n++] = which_there(b, there);
    for (uint32_t k = 0; k < v->n->n_results; k++)
        if (is_float(b->m, builder_type(b, v->results[k])))
            operands[n++] = or_zeros(b, v->ct[k], v->results[k]);
    const struct fn *body = module_fn(b->m, node_region(v->f, v->n, 0)->fn);
    val next = call_rule(b, v->attrs, CUSTOM_BACKWARD, operands, n);
    for (uint32_t p = 0; p < v->n->n_operands; p++) {
        if (!gives(b->m, v->attrs, body, p)) continue;
        if (v->active[p]) v->out[p] = next;
        next++;
    }
}

/* ---- forward mode ---- */

static void jvp_by_rule(struct jvp *j, const struct region_in *r)
{
    struct builder *b = j->b;
    uint32_t n = r->n_operands, total = n;
    val *operands = ARENA_NEW(&b->arena, val, 2 * (size_t)n);
    if (n) memcpy(operands, r->operands, n * sizeof *operands);
    for (uint32_t p = 0; p < n_open(j->attrs, n); p++)
        if (is_float(b->m, builder_type(b, r->operands[p])))
            operands[total++] = or_zeros(b, j->tangents[p], r->operands[p]);
    val first = call_rule(b, j->attrs, CUSTOM_JVP, operands, total), next = first + j->n->n_results;
    for (uint32_t k = 0; k < j->n->n_results; k++) {
        j->results[k] = first + k;
        if (is_float(b->m, builder_type(b, first + k))) j->out[k] = next++;
    }
}

/* The tangents are what the transpose of backward gives for those of the operands. */
static void jvp_by_transpose(struct jvp *j, const struct node_in *in)
{
    struct builder *b = j->b;
    const struct region_in *r = &in->regions[0];
    uint32_t forward = rule_of(in->attrs, CUSTOM_FORWARD), backward = rule_of(in->attrs, CUSTOM_BACKWARD);
    uint32_t n_y = j->n->n_results, body = r->fn, n = 0;
    uint32_t n_ct = count_float_results(b->m, module_fn(b->m, body), n_y), asks = n_asks(in->attrs);
    uint32_t n_saved = module_fn(b->m, backward)->n_params - n_ct - asks;
    uint32_t pullback = pullback_of(b->m, backward, n_saved + asks, "custom: its backward", "tangent");
    val *operands = ARENA_NEW(&b->arena, val, module_fn(b->m, pullback)->n_params);
    val first = forward == HOP_NONE ? builder_node(b, in)
                                    : call_rule(b, in->attrs, CUSTOM_FORWARD, r->operands, r->n_operands);
    for (uint32_t k = 0; k < n_y; k++) j->results[k] = first + k;
    for (; n < n_saved; n++) {
        if (forward != HOP_NONE) operands[n] = first + n_y + n;
        else operands[n] = n < r->n_operands ? r->operands[n] : first + (n - r->n_operands);
    }
    if (asks) operands[n++] = which_there(b, (1u << HOP_MIN(n_ct, MOST_ASKED)) - 1);
    for (uint32_t k = 0; k < n_y; k++)
        if (is_float(b->m, builder_type(b, first + k))) operands[n++] = zeros_like(b, first + k);
    for (uint32_t p = 0; p < r->n_operands; p++)
        if (gives(b->m, in->attrs, module_fn(b->m, body), p))
            operands[n++] = or_zeros(b, j->tangents[p], r->operands[p]);
    const dim *dims = rule_dims(b, in->attrs, CUSTOM_BACKWARD);
    uint32_t n_dims = module_fn(b->m, backward)->n_outer_symbols;
    val next = call(b, pullback, operands, n, dims, n_dims);
    for (uint32_t k = 0; k < n_y; k++)
        if (is_float(b->m, builder_type(b, j->results[k]))) j->out[k] = next++;
}

/* Does computing the function twice cost nothing once equal nodes are one? */
static bool can_be_twice(const struct module *m, const struct fn *f)
{
    if (f->effects) return false;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        bool is_call = n->op == OP_invoke_subgraph && n->n_regions == 1;
        if (n->n_regions && (!is_call || !can_be_twice(m, module_fn(m, node_region(f, n, 0)->fn))))
            return false;
    }
    return true;
}

/* The tangents are those of the body. Its results stay those of the call, so that a gradient of them goes by
 * the rules, as those of hooks, which only a gradient knows of. */
static void jvp_by_body(struct jvp *j, const struct node_in *in)
{
    struct builder *b = j->b;
    const struct region_in *r = &in->regions[0];
    uint32_t n = r->n_operands;
    bool keeps = rule_of(in->attrs, CUSTOM_BACKWARD) != HOP_NONE &&
                 can_be_twice(b->m, module_fn(b->m, r->fn));
    val kept = keeps ? builder_node(b, in) : VAL_NONE;
    bool *active = ARENA_NEW(&b->arena, bool, n), *found = ARENA_NEW(&b->arena, bool, j->n->n_results);
    val *operands = ARENA_NEW(&b->arena, val, 2 * (size_t)n);
    for (uint32_t p = 0; p < n; p++) active[p] = j->tangents[p] != VAL_NONE;
    uint32_t total = with_tangents(b, operands, r->operands, j->tangents, active, n);
    uint32_t fn = jvp_function(b->m, r->fn, active, found);
    val first = call(b, fn, operands, total, r->dims, node_region(j->f, j->n, 0)->n_dims);
    val next = first + j->n->n_results;
    for (uint32_t k = 0; k < j->n->n_results; k++) {
        j->results[k] = keeps ? kept + k : first + k;
        if (found[k]) j->out[k] = next++;
    }
}

static void custom_jvp(struct jvp *j)
{
    struct node_in in = copier_node_in(j->copy, j->n);
    uint32_t rule = rule_of(in.attrs, CUSTOM_JVP);
    bool *moved = ARENA_NEW(&j->b->arena, bool, j->n->n_operands);
    for (uint32_t p = 0; p < j->n->n_operands; p++) moved[p] = j->tangents[p] != VAL_NONE;
    check_closed(j->b, in.attrs, j->f, j->n, moved);
    bool by_body = in.attrs[CUSTOM_TANGENT].kind != ATTR_ABSENT && in.attrs[CUSTOM_TANGENT].i == TANGENT_BODY;
    if (rule != HOP_NONE) jvp_by_rule(j, &in.regions[0]);
    else if (rule_of(in.attrs, CUSTOM_BACKWARD) != HOP_NONE && !by_body) jvp_by_transpose(j, &in);
    else jvp_by_body(j, &in);
}

/* ---- batch ---- */

/* A rule over lanes. found: which of its results differ from lane to lane; those in force do in any case.
 * With a mask (not HOP_NONE) lanes do not all run, which is for effects to know, and the rule has the mask of
 * those that do as its parameter of that number; with give_mask it is the last result, too. */
static uint32_t over_lanes(const struct batch *v, uint32_t rule, const bool *batched, const bool *force,
                           bool *found, uint32_t mask, bool give_mask)
{
    struct module *m = v->b->m;
    bool takes = mask != HOP_NONE && module_fn(m, rule)->effects;
    dim size = batch_body_size(v);
    const struct fn *inner = module_fn(m, batch_body(v, rule, batched, force, takes, found));
    if (mask == HOP_NONE) return inner->id;
    struct builder b;
    builder_begin(&b, m, inner);
    b.label = fn_label(inner);
    if (size == HOP_NONE) size = dim_symbol(m, inner->n_outer_symbols - 1);
    uint32_t n = inner->n_params - takes, n_results = inner->n_results;
    val *args = ARENA_NEW(&b.arena, val, n + 1), *results = ARENA_NEW(&b.arena, val, n_results + 1),
        which = 0;
    for (uint32_t p = 0; p <= n; p++) {
        if (p == mask)
            which = builder_param(&b, type_intern(m, DT_BOOL, 1, &size), module_string(m, "lanes", 5));
        if (p == n) break;
        args[takes + p] = builder_param(&b, value_type(inner, takes + p), inner->values[takes + p].name);
    }
    if (takes) args[0] = which;
    inline_function(&b, inner->id, NULL, args, results);
    if (give_mask) results[n_results++] = which;
    return builder_finish(&b, results, n_results);
}

/* backward over lanes: what belongs to an operand that is the same in all of them is summed. saved: which of
 * what is saved differs from lane to lane; mask: before which parameter the mask of lanes comes, or
 * HOP_NONE. */
static uint32_t batched_backward(const struct batch *v, uint32_t backward, const bool *saved,
                                 uint32_t n_saved, uint32_t mask)
{
    struct module *m = v->b->m;
    const struct fn *f = module_fn(m, backward), *body = module_fn(m, node_region(v->f, v->n, 0)->fn);
    bool *batched = ARENA_ZNEW(&v->b->arena, bool, f->n_params);
    bool *force = ARENA_ZNEW(&v->b->arena, bool, f->n_results);
    bool *found = ARENA_ZNEW(&v->b->arena, bool, f->n_results);
    bool *sums = ARENA_ZNEW(&v->b->arena, bool, f->n_results);
    uint32_t n = 0;
    for (uint32_t p = 0; p < f->n_params; p++)
        batched[p] = p < n_saved ? saved[p] : p >= n_saved + n_asks(v->attrs);
    for (uint32_t p = 0; p < body->n_params; p++) {
        if (!gives(m, v->attrs, body, p)) continue;
        force[n] = true; /* of a value that is the same in all lanes the sum counts each */
        sums[n++] = !v->batched[p];
    }
    const struct fn *over = module_fn(m, over_lanes(v, backward, batched, force, found, mask, false));
    struct builder b;
    builder_begin(&b, m, over);
    b.label = fn_label(over);
    val *args = ARENA_NEW(&b.arena, val, over->n_params), *results = ARENA_NEW(&b.arena, val, n);
    for (uint32_t p = 0; p < over->n_params; p++)
        args[p] = builder_param(&b, value_type(over, p), over->values[p].name);
    inline_function(&b, over->id, NULL, args, results);
    uint32_t along = 0;
    for (uint32_t k = 0; k < n; k++)
        if (sums[k]) results[k] = emit_reduce(&b, OP_sum, results[k], &along, 1);
    return builder_finish(&b, results, n);
}

static void batch_by_rule(struct batch *v, const struct region_in *r)
{
    struct builder *b = v->b;
    uint32_t open = n_open(v->attrs, r->n_operands);
    val *operands = ARENA_NEW(&b->arena, val, r->n_operands);
    for (uint32_t p = 0; p < r->n_operands; p++) {
        bool as_it_is = v->batched[p] || p >= open;
        if (p >= open && v->batched[p])
            hop_throw(HOP_INVALID,
                      "%scustom: a value that its function uses from outside differs from lane to lane, and "
                      "its batch says nothing about that: make it an argument",
                      place_text(b->m, v->n->place));
        operands[p] = as_it_is ? r->operands[p] : emit_broadcast_front(b, r->operands[p], v->size);
    }
    val first = call_rule(b, v->attrs, CUSTOM_BATCH, operands, r->n_operands);
    for (uint32_t k = 0; k < v->n->n_results; k++) v->results[k] = first + k;
}

/* A rule that takes the operands, over lanes, with all its first n_forced results over lanes; found: which of
 * its results are. */
static uint32_t batched_rule(const struct batch *v, uint32_t rule, const bool *batched, uint32_t n_forced,
                             bool **found, bool masked, bool give_mask)
{
    const struct fn *f = module_fn(v->b->m, rule);
    bool *force = ARENA_ZNEW(&v->b->arena, bool, f->n_results);
    *found = ARENA_ZNEW(&v->b->arena, bool, f->n_results);
    for (uint32_t k = 0; k < n_forced; k++) force[k] = true;
    return over_lanes(v, rule, batched, force, *found, masked ? v->n->n_operands : HOP_NONE, give_mask);
}

/* The sizes that rules take over lanes: those from before, and the number of lanes where no parameter tells
 * it. */
static struct attr batched_sizes(const struct batch *v, const struct attr *old, const struct attr *attrs)
{
    struct builder *b = v->b;
    uint32_t n = 0, at = 0, room = old[CUSTOM_SIZES].kind == ATTR_ABSENT ? 0 : old[CUSTOM_SIZES].n;
    dim *sizes = ARENA_NEW(&b->arena, dim, room + CUSTOM_BATCH + 1);
    for (uint32_t which = CUSTOM_FORWARD; which <= CUSTOM_BATCH; which++) {
        if (rule_of(attrs, which) == HOP_NONE) continue;
        const struct fn *f = module_fn(b->m, rule_of(attrs, which));
        uint32_t end = at + count_sizes(b->m, rule_of(old, which));
        for (uint32_t k = 0; k < f->n_outer_symbols; k++)
            if (f->symbols[k].origin == SYMBOL_DIM)
                sizes[n++] = at < end ? old[CUSTOM_SIZES].list[at++] : v->size;
    }
    return n ? A_DIMS(sizes, n) : A_NONE;
}

/* Where only some lanes run, and the body or a rule has effects, the mask of those that do is one more
 * operand, which has no derivatives. */
static bool needs_mask(const struct batch *v, const struct attr *attrs, uint32_t body)
{
    bool effects = module_fn(v->b->m, body)->effects;
    for (uint32_t which = CUSTOM_FORWARD; which <= CUSTOM_JVP; which++)
        if (rule_of(attrs, which) != HOP_NONE)
            effects |= module_fn(v->b->m, rule_of(attrs, which))->effects != 0;
    return effects && v->lanes != VAL_NONE;
}

/* Can the batch rule be the body over lanes of a call that keeps its other rules? Without any there is
 * nothing to keep; what only the place of the call tells, sizes and which lanes run, a body cannot ask. */
static bool keeps_rules(const struct batch *v, const struct attr *attrs, uint32_t body)
{
    bool derivatives = rule_of(attrs, CUSTOM_BACKWARD) != HOP_NONE || rule_of(attrs, CUSTOM_JVP) != HOP_NONE;
    for (uint32_t p = n_open(attrs, v->n->n_operands); p < v->n->n_operands; p++)
        if (v->batched[p]) return false; /* which is an error */
    return derivatives && !count_sizes(v->b->m, rule_of(attrs, CUSTOM_BATCH)) && !needs_mask(v, attrs, body);
}

/* The batch rule as the body over lanes: over has its parameters. */
static uint32_t body_by_rule(const struct batch *v, uint32_t rule, uint32_t over)
{
    struct module *m = v->b->m;
    const struct fn *like = module_fn(m, over);
    struct builder b;
    dim size = batch_body_size(v);
    builder_begin(&b, m, like);
    b.label = fn_label(like);
    if (size == HOP_NONE) size = dim_symbol(m, like->n_outer_symbols - 1);
    val *operands = ARENA_NEW(&b.arena, val, like->n_params + 1),
        *results = ARENA_NEW(&b.arena, val, like->n_results + 1);
    for (uint32_t p = 0; p < like->n_params; p++)
        operands[p] = builder_param(&b, value_type(like, p), like->values[p].name);
    for (uint32_t p = 0; p < n_open(v->attrs, like->n_params); p++)
        if (!v->batched[p]) operands[p] = emit_broadcast_front(&b, operands[p], size);
    val first = call(&b, rule, operands, like->n_params, NULL, 0);
    for (uint32_t k = 0; k < like->n_results; k++) results[k] = first + k;
    return builder_finish(&b, results, like->n_results);
}

static void custom_batch(struct batch *v)
{
    struct builder *b = v->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    struct region_in *r = ARENA_NEW(&b->arena, struct region_in, 1);
    struct attr *attrs = arena_copy(&b->arena, in.attrs, CUSTOM_ATTRS * sizeof *attrs);
    uint32_t rule = rule_of(attrs, CUSTOM_BATCH), n_y = v->n->n_results, n = v->n->n_operands;
    *r = in.regions[0];
    if (rule != HOP_NONE && !keeps_rules(v, attrs, r->fn)) {
        batch_by_rule(v, r);
        return;
    }
    bool *found, *saved = ARENA_NEW(&b->arena, bool, n + n_y), masked = needs_mask(v, attrs, r->fn);
    uint32_t n_saved = n, forward = rule_of(attrs, CUSTOM_FORWARD), jvp = rule_of(attrs, CUSTOM_JVP);
    uint32_t backward = rule_of(attrs, CUSTOM_BACKWARD), body = r->fn, open = n_open(attrs, n);
    for (uint32_t p = 0; p < n + n_y; p++) saved[p] = p >= n || v->batched[p];
    if (forward == HOP_NONE && backward != HOP_NONE)
        n_saved = n_saved_of_call(b->m, attrs, module_fn(b->m, body), module_fn(b->m, backward));
    if (forward != HOP_NONE) {
        n_saved = module_fn(b->m, forward)->n_results - n_y;
        attrs[CUSTOM_FORWARD] = A_FN(batched_rule(v, forward, v->batched, n_y, &found, masked, masked));
        saved = found + n_y;
    }
    if (backward != HOP_NONE) {
        uint32_t mask = forward == HOP_NONE ? n : n_saved; /* behind the operands, or behind what is saved */
        attrs[CUSTOM_BACKWARD] = A_FN(
            batched_backward(v, backward, saved, n_saved, masked ? mask : HOP_NONE));
    }
    if (jvp != HOP_NONE) {
        bool *given = ARENA_ZNEW(&b->arena, bool, module_fn(b->m, jvp)->n_params);
        uint32_t at = n;
        for (uint32_t p = 0; p < n; p++) given[p] = v->batched[p];
        for (uint32_t p = 0; p < open; p++)
            if (param_is_float(b->m, module_fn(b->m, body), p)) given[at++] = v->batched[p];
        uint32_t n_results = module_fn(b->m, jvp)->n_results;
        attrs[CUSTOM_JVP] = A_FN(batched_rule(v, jvp, given, n_results, &found, masked, false));
    }
    r->fn = batched_rule(v, body, v->batched, n_y, &found, masked, false);
    if (rule != HOP_NONE) r->fn = body_by_rule(v, rule, r->fn);
    attrs[CUSTOM_BATCH] = A_NONE;
    r->dims = extend_dims(b, r->dims, node_region(v->f, v->n, 0)->n_dims,
                          module_fn(b->m, r->fn)->n_outer_symbols, v->size);
    if (masked) {
        val *operands = ARENA_NEW(&b->arena, val, n + 1);
        if (n) memcpy(operands, r->operands, n * sizeof *operands);
        operands[n] = v->lanes;
        r->operands = operands;
        r->n_operands = n + 1;
        attrs[CUSTOM_CLOSED] = A_INT(n + 1 - open);
    }
    attrs[CUSTOM_SIZES] = batched_sizes(v, in.attrs, attrs);
    in.attrs = attrs;
    in.regions = r;
    val first = builder_node(b, &in);
    for (uint32_t k = 0; k < n_y; k++) v->results[k] = first + k;
}

/* ---- otherwise it is a call ---- */

/* A program that nobody differentiates any more has no use for the rules. */
static bool custom_rewrite(struct copier *c, const struct node *n, val *results, const void *options)
{
    const struct pass_options *o = options;
    if (o && o->differentiable) return false;
    copier_call(c, n, copier_node_in(c, n), NULL, results);
    return true;
}

static bool custom_is_linear(const struct module *m, const struct fn *f, const struct node *n)
{
    (void)m;
    return node_attr(f, n, CUSTOM_BACKWARD)->kind != ATTR_ABSENT ||
           node_attr(f, n, CUSTOM_JVP)->kind != ATTR_ABSENT;
}

static const struct op_sample custom_samples[] = {
    { "hop 1\nfn @cube(%x: f64[n]) -> (f64[n]) {\n"
      "  %s = mul(%x, %x)\n"
      "  %r = mul(%s, %x)\n"
      "  return %r\n"
      "}\n"
      "fn @cube_and_square(%x: f64[n]) -> (f64[n], f64[n]) {\n"
      "  %s = mul(%x, %x)\n"
      "  %r = mul(%s, %x)\n"
      "  return %r, %s\n"
      "}\n"
      "fn @pull(%square: f64[n], %ct: f64[n]) -> (f64[n]) {\n"
      "  %three = full {value = 3, dims = [n], dtype = f64}\n"
      "  %slope = mul(%three, %square)\n"
      "  %r = mul(%slope, %ct)\n"
      "  return %r\n"
      "}\n"
      "fn @sample(%x: f64[3]) -> (f64[3]) {\n"
      "  %a = custom {forward = @cube_and_square, backward = @pull} @cube(%x)\n"
      "  return %a\n"
      "}\n",
      NULL },
    { "hop 1\nfn @scaled(%x: f64[n], %w: f64[]) -> (f64[n]) {\n"
      "  %v = broadcast {dims = [n], at = []} (%w)\n"
      "  %y = sin(%x)\n"
      "  %r = mul(%v, %y)\n"
      "  return %r\n"
      "}\n"
      "fn @push(%x: f64[n], %w: f64[], %dx: f64[n], %dw: f64[]) -> (f64[n], f64[n]) {\n"
      "  %v = broadcast {dims = [n], at = []} (%w)\n"
      "  %dv = broadcast {dims = [n], at = []} (%dw)\n"
      "  %y = sin(%x)\n"
      "  %r = mul(%v, %y)\n"
      "  %c = cos(%x)\n"
      "  %s = mul(%v, %c)\n"
      "  %a = mul(%s, %dx)\n"
      "  %b = mul(%dv, %y)\n"
      "  %t = add(%a, %b)\n"
      "  return %r, %t\n"
      "}\n"
      "fn @sample(%x: f64[3], %w: f64[]) -> (f64[3]) {\n"
      "  %a = custom {jvp = @push} @scaled(%x, %w)\n"
      "  return %a\n"
      "}\n",
      NULL },
};

static const char *const tangents[] = {
    [TANGENT_TRANSPOSE] = "transpose", [TANGENT_BODY] = "body", [TANGENT_NONE] = "none", NULL
};
static const struct attr_spec custom_attrs[CUSTOM_ATTRS] = {
    [CUSTOM_FORWARD] = { "forward", ATTR_FN, false, NULL },
    [CUSTOM_BACKWARD] = { "backward", ATTR_FN, false, NULL },
    [CUSTOM_JVP] = { "jvp", ATTR_FN, false, NULL },
    [CUSTOM_BATCH] = { "batch", ATTR_FN, false, NULL },
    [CUSTOM_GIVES] = { "gives", ATTR_INTS, false, NULL },
    [CUSTOM_CLOSED] = { "closed", ATTR_INT, false, NULL },
    [CUSTOM_SIZES] = { "sizes", ATTR_DIMS, false, NULL },
    [CUSTOM_TANGENT] = { "tangent", ATTR_WORD, false, tangents },
    [CUSTOM_ASKS] = { "asks", ATTR_FLAG, false, NULL },
};

const struct op_row row_custom = {
    .name = "custom",
    .meaning = "a call whose derivatives, or whose way over lanes, are functions that the user gives",
    .sig = { .n_attrs = HOP_COUNT(custom_attrs),
             .attrs = custom_attrs,
             .min_regions = 1,
             .max_regions = 1,
             .regions = { { .word = "", .feeds = 0, .results = { "yield" } } } },
    .flags = OPF_HIGHER,
    .autocast = AUTOCAST_KEEP,
    .infer = custom_infer,
    .eval = call_eval,
    .vjp = custom_vjp,
    .vjp_forward = custom_vjp_forward,
    .jvp = custom_jvp,
    .batch = custom_batch,
    .rewrite = custom_rewrite,
    .linear = custom_is_linear,
    HOP_SAMPLES(custom_samples),
    .lower = &invoke_lower,
};
