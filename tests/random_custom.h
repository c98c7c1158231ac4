/* Calls with rules of their own, for random programs. A function is drawn, and body, forward, backward, jvp
 * and batch are made from it, the results of each scaled by a number of its own where the program is
 * `scaled`. What must come out then is told by another program, in which no rule is left: `expanded` writes
 * a call as
 *   its value, of operands that derivatives do not go through, + rule(operands, x - stop_gradient(x))
 * with what the transform at hand has to use as the rule, linear in its last arguments. Transformed, and
 * `unfrozen` (each stop_gradient gone, so that the difference is zero to whatever comes next), it is what
 * the program must be under the same transform. */
#ifndef HOP_TEST_RANDOM_CUSTOM_H
#define HOP_TEST_RANDOM_CUSTOM_H

#include "random_steps.h"
#include "transform/transform.h"

/* ---- rules ---- */

/* Rules of one call, as they are made. */
struct rules {
    struct gen *g;
    struct module *m;
    uint32_t drawn; /* the function that all of them are made from */
    uint32_t body, forward, backward, jvp, batch;
    bool *gives;               /* per operand */
    uint32_t n_saved, *source; /* what backward gets: source[i] is an operand; NULL: halves say it */
    const struct vjp_halves *halves;
    double factor; /* of the rule that is made next */
    double body_factor;
    bool loud; /* as in struct gen, here */
};

static bool float_type(const struct module *m, type_id t)
{
    return dtype_is_float((enum dtype)type_get(m, t).dtype);
}

static bool *all_floats(struct rules *r, bool params)
{
    const struct fn *f = module_fn(r->m, r->drawn);
    uint32_t n = params ? f->n_params : f->n_results;
    bool *out = ARENA_ZNEW(&r->m->arena, bool, n + 1);
    for (uint32_t i = 0; i < n; i++) out[i] = float_type(r->m, value_type(f, params ? i : f->results[i]));
    return out;
}

/* No two of a program are the same; one where the program's derivatives are those of its bodies. */
static double next_factor(struct rules *r)
{
    uint32_t k = r->g->factors++;
    return r->g->scaled ? 0.5 + 0.0625 * (double)(k % 13) + 0.001 * (double)k : 1;
}

/* That of a rule's values. Where a gradient runs the body first and the rule later they must be the body's.
 */
static double next_value_factor(struct rules *r) { return r->loud ? next_factor(r) : r->body_factor; }

static val scaled(struct rules *r, struct builder *b, val v)
{
    if (r->factor == 1 || !float_type(r->m, builder_type(b, v))) return v;
    return emit(b, OP_mul, (val[]){ v, emit_full_like(b, v, r->factor) }, 2, NULL);
}

static void copy_params(struct builder *b, const struct fn *f)
{
    for (uint32_t p = 0; p < f->n_params; p++) builder_param(b, value_type(f, p), 0);
}

/* Its first result. Its first n_dims outer symbols are dims, operands tell what the others are. */
static val call_function(struct builder *b, uint32_t fn, const val *operands, const dim *dims,
                         uint32_t n_dims)
{
    const struct fn *f = module_fn(b->m, fn);
    dim *all = ARENA_NEW(&b->arena, dim, f->n_outer_symbols + 1);
    for (uint32_t k = 0; k < f->n_outer_symbols; k++) all[k] = k < n_dims ? dims[k] : HOP_NONE;
    struct region_in region = { fn, operands, f->n_params, all };
    return builder_node(b, &(struct node_in){ .op = OP_invoke_subgraph,
                                              .groups = (const uint32_t[1]){ 0 },
                                              .regions = &region,
                                              .n_regions = 1 });
}

/* The same in a function that has the outer symbols of the drawn one. */
static val call_here(struct rules *r, struct builder *b, uint32_t fn, const val *operands)
{
    uint32_t n = module_fn(b->m, r->drawn)->n_outer_symbols;
    dim *dims = ARENA_NEW(&b->arena, dim, n + 1);
    for (uint32_t k = 0; k < n; k++) dims[k] = dim_symbol(b->m, k);
    return call_function(b, fn, operands, dims, n);
}

static uint32_t scaled_function(struct rules *r, uint32_t fn)
{
    const struct fn *f = module_fn(r->m, fn);
    struct builder b;
    val args[64], results[64];
    if (r->factor == 1) return fn;
    builder_begin(&b, r->m, f);
    copy_params(&b, f);
    for (uint32_t p = 0; p < f->n_params; p++) args[p] = p;
    inline_function(&b, fn, NULL, args, results);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = scaled(r, &b, results[k]);
    return builder_finish(&b, results, f->n_results);
}

/* forward saves the operands in another order and a result beside them, or what reverse mode keeps. */
static void make_forward(struct rules *r, bool split)
{
    const struct fn *f = module_fn(r->m, r->drawn);
    struct builder b;
    val args[64], results[64], saved[64], made[64];
    uint32_t n = f->n_params, n_y = f->n_results;
    builder_begin(&b, r->m, f);
    copy_params(&b, f);
    for (uint32_t p = 0; p < n; p++) args[p] = p;
    r->factor = next_value_factor(r);
    if (split) {
        r->halves = vjp_split(r->m, r->drawn, all_floats(r, true), all_floats(r, false), 0, false);
        r->n_saved = r->halves->n_residuals;
        if (module_fn(r->m, r->halves->forward)->n_results > 60) hop_throw(HOP_INVALID, "too much is kept");
        inline_function(&b, r->halves->forward, NULL, args, made);
        for (uint32_t i = 0, extra = n_y; i < r->n_saved; i++) {
            uint32_t param = r->halves->source_param[i], result = r->halves->source_result[i];
            saved[i] = param != HOP_NONE ? args[param] : made[result != HOP_NONE ? result : extra++];
        }
    } else {
        inline_function(&b, r->drawn, NULL, args, made);
        r->n_saved = n;
        r->source = ARENA_NEW(&r->m->arena, uint32_t, n + 1);
        for (uint32_t i = 0; i < n; i++) r->source[i] = i;
        for (uint32_t i = n; i > 1; i--) {
            uint32_t j = below(r->g, i), k = r->source[j];
            r->source[j] = r->source[i - 1], r->source[i - 1] = k;
        }
        for (uint32_t i = 0; i < n; i++) saved[i] = r->source[i];
        if (n_y && chance(r->g, 0.3)) saved[r->n_saved++] = made[0];
    }
    for (uint32_t k = 0; k < n_y; k++) results[k] = scaled(r, &b, made[k]);
    memcpy(results + n_y, saved, r->n_saved * sizeof *saved);
    r->forward = builder_finish(&b, results, n_y + r->n_saved);
}

/* Cotangents of the operands by the drawn function's gradient at what was saved. */
static void make_backward(struct rules *r)
{
    struct module *m = r->m;
    const struct fn *f = module_fn(m, r->drawn);
    bool *floats = all_floats(r, true), *wanted = all_floats(r, false), keep[128] = { 0 };
    uint32_t n = f->n_params, n_y = f->n_results, n_ct = 0, at = 0, n_out = 0, reverse = HOP_NONE;
    struct builder b;
    val operands[128], cotangents[64], out[64];
    if (!r->halves) {
        reverse = vjp_function(m, r->drawn, floats);
        for (uint32_t k = n_y; k < module_fn(m, reverse)->n_results; k++) keep[k] = true;
        reverse = strip_effects(m, reverse, keep);
    }
    const struct fn *saver = r->forward == HOP_NONE ? f : module_fn(m, r->forward);
    builder_begin(&b, m, f);
    for (uint32_t i = 0; i < r->n_saved; i++)
        builder_param(&b, value_type(saver, r->forward == HOP_NONE ? i : saver->results[n_y + i]), 0);
    for (uint32_t k = 0; k < n_y; k++)
        if (wanted[k]) cotangents[n_ct++] = builder_param(&b, value_type(f, f->results[k]), 0);
    if (r->halves) {
        for (; at < r->n_saved; at++) operands[at] = at;
        for (uint32_t k = 0, ct = 0; k < n_y; k++)
            if (wanted[k] && (ct++, r->halves->ct_result[k])) operands[at++] = cotangents[ct - 1];
    } else {
        for (uint32_t i = 0; i < n; i++) operands[r->source ? r->source[i] : i] = i;
        memcpy(operands + n, cotangents, n_ct * sizeof *operands);
    }
    val next = call_here(r, &b, r->halves ? r->halves->backward : reverse, operands);
    for (uint32_t p = 0; p < n; p++) {
        if (!floats[p]) continue;
        bool is_zero = r->halves && !r->halves->ct_param[p];
        val v = is_zero ? zeros_of(&b, value_type(f, p)) : next++;
        r->factor = next_factor(r);
        if (r->gives[p]) out[n_out++] = scaled(r, &b, v);
    }
    r->backward = builder_finish(&b, out, n_out);
}

static void make_jvp(struct rules *r)
{
    struct module *m = r->m;
    const struct fn *f = module_fn(m, r->drawn);
    bool *floats = all_floats(r, true), *wanted = all_floats(r, false);
    bool *active = ARENA_ZNEW(&m->arena, bool, f->n_results + 1);
    uint32_t push = jvp_function(m, r->drawn, floats, active), n_y = f->n_results, n = f->n_params;
    struct builder b;
    val args[128], out[128];
    builder_begin(&b, m, f);
    copy_params(&b, f);
    for (uint32_t p = 0; p < f->n_params; p++)
        if (floats[p]) n++, builder_param(&b, value_type(f, p), 0);
    for (uint32_t p = 0; p < n; p++) args[p] = p;
    val first = call_here(r, &b, push, args), next = first + n_y;
    r->factor = next_value_factor(r);
    for (uint32_t k = 0; k < n_y; k++) out[k] = scaled(r, &b, first + k);
    n = n_y;
    r->factor = next_factor(r);
    for (uint32_t k = 0; k < n_y; k++)
        if (wanted[k])
            out[n++] = active[k] ? scaled(r, &b, next++) : zeros_of(&b, value_type(f, f->results[k]));
    r->jvp = builder_finish(&b, out, n);
}

static void make_batch(struct rules *r)
{
    const struct fn *f = module_fn(r->m, r->drawn);
    bool *batched = ARENA_NEW(&r->m->arena, bool, f->n_params + f->n_results + 1);
    bool *found = ARENA_NEW(&r->m->arena, bool, f->n_results + 1);
    for (uint32_t i = 0; i < f->n_params + f->n_results; i++) batched[i] = true;
    r->batch = batch_function(r->m, r->drawn, batched, HOP_NONE, batched, false, found);
}

/* The sizes that rules take and that no parameter of theirs tells. dims: what the drawn function's are. */
static uint32_t rule_sizes(const struct rules *r, const dim *dims, dim *out)
{
    const uint32_t all[] = { r->forward, r->backward, r->jvp, r->batch };
    uint32_t n = 0;
    for (size_t k = 0; k < HOP_COUNT(all); k++) {
        const struct fn *f = all[k] == HOP_NONE ? NULL : module_fn(r->m, all[k]);
        for (uint32_t s = 0; f && s < f->n_outer_symbols; s++)
            if (f->symbols[s].origin == SYMBOL_DIM && n < 128) out[n++] = dims[s];
    }
    return n;
}

/* A call of the function with rules drawn for it: any of them, also none. */
static void custom_of(struct block *s, uint32_t drawn, const val *operands, uint32_t n, const dim *dims)
{
    struct gen *g = s->g;
    struct rules r = { .g = g,
                       .m = g->m,
                       .drawn = drawn,
                       .forward = HOP_NONE,
                       .backward = HOP_NONE,
                       .jvp = HOP_NONE,
                       .batch = HOP_NONE };
    struct attr attrs[CUSTOM_ATTRS] = { 0 };
    uint32_t gives[64], n_gives = 0;
    dim sizes[128];
    r.gives = all_floats(&r, true);
    for (uint32_t p = 0; p < n; p++) { /* what is not given is zero, which no difference is */
        r.gives[p] &= !g->scaled || chance(g, 0.85);
        if (r.gives[p]) gives[n_gives++] = p;
    }
    r.factor = r.body_factor = next_factor(&r);
    r.loud = g->loud && !s->predicate;
    r.body = scaled_function(&r, drawn);
    /* A loop that is run again calls with rules where others have put forward, or the jvp, in place of them.
     */
    bool again = g->scaled && !r.loud, reverse = chance(g, 0.65);
    if (reverse) {
        uint32_t how = again ? 0 : below(g, 3);
        r.n_saved = n;
        if (how) make_forward(&r, how == 2);
        make_backward(&r);
        attrs[CUSTOM_GIVES] = A_INTS(gives, n_gives);
        if (chance(g, 0.25)) attrs[CUSTOM_TANGENT] = A_WORD(TANGENT_BODY);
    }
    if ((reverse || !again) && chance(g, 0.45)) make_jvp(&r);
    if (n && !g->scaled && chance(g, 0.25)) make_batch(&r);
    if (r.forward != HOP_NONE) attrs[CUSTOM_FORWARD] = A_FN(r.forward);
    if (r.backward != HOP_NONE) attrs[CUSTOM_BACKWARD] = A_FN(r.backward);
    if (r.jvp != HOP_NONE) attrs[CUSTOM_JVP] = A_FN(r.jvp);
    if (r.batch != HOP_NONE) attrs[CUSTOM_BATCH] = A_FN(r.batch);
    uint32_t n_sizes = rule_sizes(&r, dims, sizes);
    if (n_sizes) attrs[CUSTOM_SIZES] = A_DIMS(sizes, n_sizes);
    struct region_in region = { .fn = r.body, .operands = operands, .n_operands = n, .dims = dims };
    builder_node(&s->b,
                 &(struct node_in){ .op = OP_custom, .attrs = attrs, .regions = &region, .n_regions = 1 });
}

/* ---- the program without rules ---- */

enum mode { BY_VJP, BY_JVP, MODES };

static bool holds_op(const struct module *m, uint32_t fn, enum op op)
{
    const struct fn *f = module_fn(m, fn);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].op == op) return true;
    for (uint32_t i = 0; i < f->n_regions; i++)
        if (holds_op(m, f->regions[i].fn, op)) return true;
    return false;
}

/* ---- what is differentiated ---- */

/* Which values of a function a derivative reaches, given which parameters: a call that none of its operands
 * makes one of runs its body. */
static void find_active(const struct module *m, const struct fn *f, enum mode mode, const bool *params,
                        bool *active);

/* Those of a body: what groups of the node's operands feed it, then its own operands. */
static void active_params(const struct fn *f, const struct node *n, uint32_t r, const bool *active, bool *out)
{
    const struct op_row *row = op_table[n->op];
    uint32_t at = 0;
    for (uint32_t g = 0; g < row->sig.n_groups; g++) {
        const val *of = node_group(f, n, g, NULL);
        uint32_t size = node_group_size(f, n, g);
        uint32_t times = sig_region(row, r)->feeds >> g & 1 ? sig_group_feeds(row, g) : 0;
        for (; times; times--)
            for (uint32_t i = 0; i < size; i++) out[at++] = active[of[i]];
    }
    for (uint32_t i = 0; i < node_region(f, n, r)->n_operands; i++)
        out[at++] = active[node_region_operands(f, n, r)[i]];
}

/* The results of the node's region r; params: its parameters, grown where its results are carried. */
static const bool *active_region(const struct module *m, const struct fn *f, enum mode mode,
                                 const struct node *n, uint32_t r, bool *params)
{
    static bool results[256];
    const struct fn *body = module_fn(m, node_region(f, n, r)->fn);
    bool carries = n->op == OP_scan || n->op == OP_fori_loop || n->op == OP_while_loop;
    bool pairs = n->op == OP_associative_scan;
    uint32_t n_carry = carries || pairs ? node_group_size(f, n, 0) : 0;
    bool *values = calloc(body->n_values + 1, sizeof *values);
    for (bool grown = true; grown;) {
        grown = false;
        memset(values, 0, body->n_values * sizeof *values);
        find_active(m, body, mode, params, values);
        for (uint32_t k = 0; k < n_carry; k++) {
            bool is = values[body->results[k]] || params[k] || (pairs && params[n_carry + k]);
            grown |= is && (!params[k] || (pairs && !params[n_carry + k]));
            params[k] |= is;
            if (pairs) params[n_carry + k] |= is;
        }
    }
    for (uint32_t k = 0; k < body->n_results; k++)
        results[k] = values[body->results[k]] || (k < n_carry && params[k]);
    free(values);
    return results;
}

/* Are its tangents those of its body? */
static bool by_body(const struct attr *attrs, enum mode mode)
{
    bool rule = attrs[CUSTOM_JVP].kind != ATTR_ABSENT || attrs[CUSTOM_BACKWARD].kind != ATTR_ABSENT;
    bool body = attrs[CUSTOM_TANGENT].kind != ATTR_ABSENT && attrs[CUSTOM_TANGENT].i == TANGENT_BODY;
    return !rule || (mode == BY_JVP && body && attrs[CUSTOM_JVP].kind == ATTR_ABSENT);
}

static void find_active(const struct module *m, const struct fn *f, enum mode mode, const bool *params,
                        bool *active)
{
    for (uint32_t p = 0; p < f->n_params; p++) active[p] = params[p] && float_type(m, value_type(f, p));
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        const struct attr *attrs = f->attrs + n->attrs;
        bool any = false, *out = active + n->results;
        bool has_rules = n->op == OP_custom && !by_body(attrs, mode);
        for (uint32_t k = 0; k < n->n_operands; k++) any |= active[node_operands(f, n)[k]];
        if (!any || !op_table[n->op]->vjp) continue;
        for (uint32_t k = 0; k < n->n_results && (!n->n_regions || has_rules); k++) out[k] = true;
        for (uint32_t r = n->op == OP_while_loop; r < n->n_regions && !has_rules; r++) {
            bool given[256];
            uint32_t n_results = module_fn(m, node_region(f, n, r)->fn)->n_results;
            uint32_t n_carry = n->op == OP_while_loop ? node_group_size(f, n, 0) : n_results;
            active_params(f, n, r, active, given);
            const bool *found = active_region(m, f, mode, n, r, given);
            for (uint32_t k = 0; k < n_results;
                 k++) /* the trips of a while_loop stand before what it stacks */
                out[k < n_carry ? k : n->n_results - n_results + k] |= found[k];
        }
        for (uint32_t k = 0; k < n->n_results; k++) out[k] &= float_type(m, value_type(f, n->results + k));
    }
}

static uint32_t rule_of(const struct attr *attrs, uint32_t which)
{
    return attrs[which].kind == ATTR_ABSENT ? HOP_NONE : (uint32_t)attrs[which].i;
}

static val call_rule(struct builder *b, const struct attr *attrs, uint32_t which, uint32_t fn,
                     const val *operands)
{
    const struct fn *f = module_fn(b->m, rule_of(attrs, which));
    dim dims[64];
    uint32_t at = 0;
    for (uint32_t k = CUSTOM_FORWARD; k <= which; k++) {
        const struct fn *g = rule_of(attrs, k) == HOP_NONE ? NULL : module_fn(b->m, rule_of(attrs, k));
        for (uint32_t s = 0; g && s < g->n_outer_symbols; s++) {
            bool is_given = g->symbols[s].origin == SYMBOL_DIM;
            if (k == which) dims[s] = is_given ? attrs[CUSTOM_SIZES].list[at] : HOP_NONE;
            at += is_given;
        }
    }
    return call_function(b, fn, operands, dims, f->n_outer_symbols);
}

static uint32_t rewritten(struct module *m, uint32_t fn, enum op op, enum mode mode, const bool *params);

/* No effects, and no bodies but those of calls: such a body is there twice where its tangents are taken. */
static bool is_straight(const struct module *m, uint32_t fn)
{
    const struct fn *f = module_fn(m, fn);
    bool straight = !f->effects;
    for (uint32_t i = 0; i < f->n_nodes; i++)
        straight &= !f->nodes[i].n_regions || f->nodes[i].op == OP_invoke_subgraph;
    for (uint32_t i = 0; straight && i < f->n_regions; i++) straight = is_straight(m, f->regions[i].fn);
    return straight;
}

/* The results of a call whose tangents are those of its body. Where it has a backward they are still a
 * call's, to the next transform, and the tangents alone are the body's. */
static void expand_by_body(struct copier *c, const struct fn *f, const struct node *n, enum mode mode,
                           const bool *active, val *results)
{
    struct builder *b = c->b;
    struct module *m = b->m;
    struct node_in in = copier_node_in(c, n);
    struct region_in region = in.regions[0];
    uint32_t n_dims = node_region(f, n, 0)->n_dims, n_x = region.n_operands, n_y = n->n_results, at = n_x;
    bool given[64], moves[64];
    active_params(f, n, 0, active, given);
    uint32_t body = rewritten(m, region.fn, OP_custom, mode, given);
    if (in.attrs[CUSTOM_BACKWARD].kind == ATTR_ABSENT || !is_straight(m, region.fn)) {
        val first = call_function(b, body, region.operands, region.dims, n_dims);
        for (uint32_t k = 0; k < n_y; k++) results[k] = first + k;
        return;
    }
    val operands[128];
    for (uint32_t p = 0; p < n_x; p++) {
        val x = region.operands[p];
        operands[p] = given[p] ? emit(b, OP_stop_gradient, &x, 1, NULL) : x;
        if (given[p]) operands[at++] = emit(b, OP_sub, (val[]){ x, operands[p] }, 2, NULL);
    }
    val next = call_function(b, jvp_function(m, body, given, moves), operands, region.dims, n_dims) + n_y;
    region.operands = operands;
    in.regions = &region;
    val first = builder_node(b, &in);
    for (uint32_t k = 0; k < n_y; k++)
        results[k] = moves[k] ? emit(b, OP_add, (val[]){ first + k, next++ }, 2, NULL) : first + k;
}

/* The results of a custom call, in a program where x - frozen x are its tangents. */
static void expand_custom(struct copier *c, const struct fn *f, const struct node *n, enum mode mode,
                          const bool *active, val *results)
{
    struct builder *b = c->b;
    struct module *m = b->m;
    struct node_in in = copier_node_in(c, n);
    struct region_in region = in.regions[0];
    const struct attr *attrs = in.attrs;
    uint32_t backward = rule_of(attrs, CUSTOM_BACKWARD), jvp = rule_of(attrs, CUSTOM_JVP);
    uint32_t n_x = region.n_operands, n_y = n->n_results, at = n_x;
    bool by_jvp = jvp != HOP_NONE && (mode == BY_JVP || backward == HOP_NONE);
    val frozen[64], moved[64], operands[256], first, next;
    if (by_body(attrs, mode)) {
        expand_by_body(c, f, n, mode, active, results);
        return;
    }
    for (uint32_t p = 0; p < n_x; p++) {
        val x = region.operands[p];
        bool is_float = float_type(m, builder_type(b, x));
        frozen[p] = is_float ? emit(b, OP_stop_gradient, &x, 1, NULL) : x;
        moved[p] = is_float ? emit(b, OP_sub, (val[]){ x, frozen[p] }, 2, NULL) : VAL_NONE;
    }
    memcpy(operands, frozen, n_x * sizeof *operands);
    if (by_jvp) {
        for (uint32_t p = 0; p < n_x; p++)
            if (moved[p] != VAL_NONE) operands[at++] = moved[p];
        first = call_rule(b, attrs, CUSTOM_JVP, jvp, operands), next = first + n_y;
    } else {
        uint32_t forward = rule_of(attrs, CUSTOM_FORWARD), n_gives = 0;
        const struct fn *back = module_fn(m, backward);
        if (forward != HOP_NONE) {
            first = call_rule(b, attrs, CUSTOM_FORWARD, forward, operands);
            n_x = module_fn(m, forward)->n_results - n_y;
            for (at = 0; at < n_x; at++) operands[at] = first + n_y + at;
        } else {
            region.operands = operands;
            in.regions = &region;
            first = builder_node(b, &in); /* still a custom call, to the next transform */
            uint32_t n_ct = 0;
            for (uint32_t k = 0; k < n_y; k++) n_ct += float_type(m, builder_type(b, first + k));
            if (back->n_params > n_x + n_ct) /* it takes the results as well */
                for (uint32_t k = 0; k < n_y; k++) operands[at++] = first + k;
            n_x = at;
        }
        bool *wrt = ARENA_ZNEW(&b->arena, bool, back->n_params + 1);
        for (; at < back->n_params; at++) wrt[at] = true;
        at = n_x;
        for (uint32_t k = 0; k < n_y; k++)
            if (float_type(m, builder_type(b, first + k))) operands[at++] = zeros_like(b, first + k);
        const struct attr *gives = &attrs[CUSTOM_GIVES];
        for (uint32_t i = 0; gives->kind != ATTR_ABSENT && i < gives->n; i++, n_gives++)
            operands[at++] = moved[gives->list[i]];
        for (uint32_t p = 0; gives->kind == ATTR_ABSENT && p < region.n_operands; p++)
            if (moved[p] != VAL_NONE) n_gives++, operands[at++] = moved[p];
        next = call_rule(b, attrs, CUSTOM_BACKWARD, vjp_function(m, backward, wrt), operands) + n_gives;
    }
    for (uint32_t k = 0; k < n_y; k++) {
        results[k] = first + k;
        if (float_type(m, builder_type(b, first + k)))
            results[k] = emit(b, OP_add, (val[]){ first + k, next++ }, 2, NULL);
    }
}

/* Which values a cotangent reaches: what results are made of by way of values that are active. A call that
 * none reaches is no part of a gradient. */
static void find_reached(const struct fn *f, const bool *active, bool *reached)
{
    for (uint32_t r = 0; r < f->n_results; r++) reached[f->results[r]] = active[f->results[r]];
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        bool any = false;
        for (uint32_t k = 0; k < n->n_results; k++) any |= reached[n->results + k];
        for (uint32_t k = 0; any && k < n->n_operands; k++) {
            val x = node_operands(f, n)[k];
            reached[x] |= active[x];
        }
    }
}

static bool any_of(const bool *all, val first, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (all[first + k]) return true;
    return false;
}

/* A copy of the function, and of the bodies in it, in which nodes of a row are written otherwise: a custom
 * call that is differentiated, or stop_gradient. params: those that are differentiated. */
static uint32_t rewritten(struct module *m, uint32_t fn, enum op op, enum mode mode, const bool *params)
{
    const struct fn *f = module_fn(m, fn);
    struct builder b;
    struct copier c;
    if (!holds_op(m, fn, op)) return fn;
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    bool *active = ARENA_ZNEW(&b.arena, bool, f->n_values + 1);
    find_active(m, f, mode, params, active);
    bool *reached = ARENA_ZNEW(&b.arena, bool, f->n_values + 1);
    find_reached(f, active, reached);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        val *results = ARENA_NEW(&b.arena, val, n->n_results + 1);
        bool any = false;
        for (uint32_t k = 0; k < n->n_operands; k++) any |= active[node_operands(f, n)[k]];
        if (n->op == op && op == OP_stop_gradient) results[0] = c.values[node_operands(f, n)[0]];
        else if (n->op == op && any && (mode == BY_JVP || any_of(reached, n->results, n->n_results)))
            expand_custom(&c, f, n, mode, active, results);
        else {
            struct node_in in = copier_node_in(&c, n);
            struct region_in *regions = ARENA_NEW(&b.arena, struct region_in, in.n_regions + 1);
            if (in.n_regions) memcpy(regions, in.regions, in.n_regions * sizeof *regions);
            for (uint32_t r = 0; r < in.n_regions; r++) {
                bool given[256] = { 0 }, is_test = n->op == OP_while_loop && r == 0;
                if (!is_test) active_params(f, n, r, active, given), active_region(m, f, mode, n, r, given);
                if (n->op != OP_custom) regions[r].fn = rewritten(m, regions[r].fn, op, mode, given);
            }
            in.regions = regions;
            val first = builder_node(&b, &in);
            for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
        }
        copier_bind(&c, n, results);
    }
    val *results = ARENA_NEW(&b.arena, val, f->n_results + 1);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

/* With respect to params. */
static uint32_t expanded(struct module *m, uint32_t fn, enum mode mode, const bool *params)
{
    return rewritten(m, fn, OP_custom, mode, params);
}
static uint32_t unfrozen(struct module *m, uint32_t fn)
{
    bool *none = ARENA_ZNEW(&m->arena, bool, module_fn(m, fn)->n_params + 1);
    return rewritten(m, fn, OP_stop_gradient, BY_VJP, none);
}

#endif
