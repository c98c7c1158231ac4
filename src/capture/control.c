/* Operators that take functions. Each body is run in a scope of its own; all scopes of an operator stay open
 * until every body has run, because only then it is known which variables from outside were assigned to:
 * these become further results of branches and calls and further carries of loops. */
#include "capture/control.h"
#include "hops/policy.h"
#include "ir/loop.h"
#include "ir/named.h"

enum { MOST_ATTRS = 16 }; /* those that are not set are absent */

static type_id input_type(struct scope *around, const struct inputs *in, uint32_t i)
{
    type_id t = builder_type(&around->b, in->operands[i]);
    if (i < in->n_whole) return t;
    if (!type_get(around->capture->m, t).rank)
        capture_throw("xs %u is a scalar, which has no leading dim", i - in->n_whole);
    return type_drop_dim(around->capture->m, t, in->axis);
}

static struct scope *open_body(struct capture *c, enum scope_kind kind, const char *what,
                               const struct inputs *in)
{
    struct scope *around = c->innermost, *s = scope_open(c, kind, what);
    for (uint32_t i = 0; i < in->n; i++) {
        uint32_t name = around->b.values.data[in->operands[i]].name;
        const char *text = name ? module_text(c->m, name) : NULL;
        if (in->inner)
            builder_param(&s->b, in->inner(s, in, i), text ? module_string(c->m, text, strlen(text)) : 0);
        else scope_param(s, input_type(around, in, i), text);
    }
    return s;
}

/* A result of a body: a number takes the dtype and shape of `like` (VAL_NONE: its own). */
static val body_result(struct scope *s, hop_val v, val like)
{
    struct operand o = resolve(s, v);
    if (!o.weak)
        return like == VAL_NONE ? o.v : modes_like(&s->b, o.v, (enum dtype)emit_type(&s->b, like).dtype);
    if (like == VAL_NONE) return operand_value(&s->b, &o);
    return weak_like(&s->b, &o, emit_type(&s->b, like));
}

/* n_like: so many results are like the inputs of the same number (carries). keep_weak: results that are
 * numbers are kept for later. */
struct body control_run_body(struct capture *c, enum scope_kind kind, struct called called, hop_body body,
                             void *env, const struct inputs *in, int n_results, uint32_t n_like,
                             bool keep_weak)
{
    const char *what = called.what;
    struct scope *around = c->innermost, *s = open_body(c, kind, what, in);
    hop_place at = c->at;
    const char *name = c->name;
    scope_label(s, called.label);
    hop_val *args = ARENA_NEW(&c->arena, hop_val, in->n);
    hop_val *out = ARENA_ZNEW(&c->arena, hop_val, results_room(n_results));
    for (uint32_t i = 0; i < in->n; i++)
        args[i] = in->variable && in->variable[i] ? variable_new(s, i, "") : value_handle(s, i);
    if (!body) capture_throw("%s is NULL", what);
    int status = body(env, args, out);
    c->at = at;
    c->name = name;
    if (c->status) hop_throw((hop_status)c->status, "%s", c->message);
    if (status)
        hop_throw((hop_status)status, "%s:%d: %s: %s returned %d", at.file ? at.file : "", at.line, name,
                  what, status);
    if (c->innermost != s) hop_throw(HOP_INTERNAL, "%s left a scope open", what);
    modes_close(s, what);
    s->b.place = capture_place(c, at);
    uint32_t n_out = results_set(s, n_results, &out);
    struct operand *weak = keep_weak ? ARENA_ZNEW(&c->arena, struct operand, n_out) : NULL;
    struct body done = { s, ARENA_NEW(&c->arena, val, n_out), n_out, weak };
    for (uint32_t i = 0; i < n_out; i++) {
        if (out[i].scope == HANDLE_NONE) capture_throw("%s: result %u was not set", what, i);
        if (weak) weak[i] = is_weak(out[i]) ? resolve(s, out[i]) : (struct operand){ 0 };
        val like = i < n_like ? in->first_like + i : VAL_NONE;
        bool kept_weak = weak && weak[i].weak;
        done.results[i] = kept_weak ? VAL_NONE : body_result(s, out[i], like);
    }
    c->innermost = around; /* still open: what it wrote is looked at when all have run */
    return done;
}

/* ---- what bodies wrote ---- */

struct written {
    uint32_t *variables;
    uint32_t n;
};

static void add_written(struct capture *c, const struct scope *s, struct written *w)
{
    uint32_t room = w->n + s->bindings.len;
    uint32_t *list = ARENA_NEW(&c->arena, uint32_t, room);
    if (w->n) memcpy(list, w->variables, w->n * sizeof *list);
    for (uint32_t i = 0; i < s->bindings.len; i++) {
        uint32_t v = s->bindings.data[i].variable;
        bool known = !s->bindings.data[i].written || c->variables.data[v].scope == s->serial;
        for (uint32_t k = 0; k < w->n; k++) known |= list[k] == v;
        if (!known) list[w->n++] = v;
    }
    w->variables = list;
}

/* ---- regions ---- */

/* Ends a body: `first` are its parameters that the operator feeds; all others are its own operands. */
struct region_in control_finish_body(struct capture *c, const struct body *body, const val *first,
                                     uint32_t n_first, const val *results, uint32_t n_results)
{
    struct scope *s = body->s;
    struct arena *arena = &s->outer->b.arena;
    val *params = ARENA_NEW(arena, val, n_first + s->late.len);
    val *operands = ARENA_NEW(arena, val, s->late.len);
    uint32_t n = n_first, own = 0;
    if (n_first) memcpy(params, first, n_first * sizeof *params);
    for (uint32_t i = 0; i < s->late.len; i++) {
        bool fed = false;
        for (uint32_t k = 0; k < n_first; k++) fed |= first[k] == s->late.data[i].here;
        if (fed) continue;
        params[n++] = s->late.data[i].here;
        operands[own++] = s->late.data[i].outer;
    }
    s->outer->modes.inside |= s->modes.enabled;
    struct region_in r = { .fn = scope_finish(s, params, n, results, n_results),
                           .operands = operands,
                           .n_operands = own };
    uint32_t n_dims = module_fn(c->m, r.fn)->n_outer_symbols;
    r.dims = n_dims ? arena_copy(arena, s->binds.data, n_dims * sizeof(dim)) : NULL;
    return r;
}

/* ---- bodies under a key ---- */

/* The handle of a value in the scope that made it. */
static hop_val origin_of(const struct scope *s, val v)
{
    for (bool lifted = true; lifted && s->outer;) {
        lifted = false;
        for (uint32_t i = 0; i < s->late.len && !lifted; i++)
            if (s->late.data[i].here == v && s->late.data[i].variable == HOP_NONE) {
                v = s->late.data[i].outer;
                s = s->outer;
                lifted = true;
            }
    }
    return value_handle(s, v);
}

struct probe { /* the inputs' types as a body sees them */
    type_id *types;
    uint32_t n, n_symbols;
    struct symbol *symbols;
    dim *dims;
};

static struct probe probe_inputs(struct capture *c, const struct inputs *in)
{
    struct scope *s = open_body(c, SCOPE_BODY, "a body", in);
    struct probe p = { ARENA_NEW(&c->arena, type_id, in->n), in->n, s->b.symbols.len, NULL, NULL };
    for (uint32_t i = 0; i < in->n; i++) p.types[i] = builder_type(&s->b, i);
    p.symbols = arena_copy(&c->arena, s->b.symbols.data, p.n_symbols * sizeof *p.symbols);
    p.dims = arena_copy(&c->arena, s->binds.data, p.n_symbols * sizeof *p.dims);
    builder_abandon(&s->b);
    scope_close(c);
    return p;
}

static bool same_inputs(const struct keyed_bodies *k, const struct probe *p)
{
    if (k->n_in != p->n || k->n_symbols != p->n_symbols) return false;
    for (uint32_t i = 0; i < p->n; i++)
        if (k->types[i] != p->types[i]) return false;
    for (uint32_t i = 0; i < p->n_symbols; i++)
        if (k->symbols[i].lo != p->symbols[i].lo || k->symbols[i].hi != p->symbols[i].hi) return false;
    return true;
}

static bool still_there(struct scope *s, const struct keyed_bodies *k)
{
    bool there = true;
    for (uint32_t r = 0; r < k->n_regions; r++) {
        for (uint32_t i = 0; i < k->regions[r].n_outside; i++)
            there &= in_scope(s, k->regions[r].outside[i].scope);
        for (uint32_t i = 0; i < k->regions[r].n_dims; i++)
            there &= k->regions[r].dims[i].scope < FIRST_SERIAL || in_scope(s, k->regions[r].dims[i].scope);
    }
    return there;
}

/* The regions captured under the key for inputs like these; false: the bodies must be run. */
static bool find_keyed(struct capture *c, const void *key, enum op op, uint32_t n_out,
                       const struct inputs *in, struct region_in *regions, uint32_t n_regions)
{
    struct scope *s = c->innermost;
    if (!key) return false;
    struct probe p = probe_inputs(c, in);
    for (uint32_t i = 0; i < c->keyed.len; i++) {
        const struct keyed_bodies *k = &c->keyed.data[i];
        if (k->key != key || k->op != op || k->modes != s->modes.now) continue;
        if (k->n_out != n_out || k->n_regions != n_regions) continue;
        if (!same_inputs(k, &p) || !still_there(s, k)) continue;
        for (uint32_t r = 0; r < n_regions; r++) {
            const struct keyed_region *g = &k->regions[r];
            val *operands = ARENA_NEW(&s->b.arena, val, g->n_outside);
            dim *dims = ARENA_NEW(&s->b.arena, dim, p.n_symbols + g->n_dims);
            for (uint32_t j = 0; j < g->n_outside; j++) operands[j] = resolve(s, g->outside[j]).v;
            for (uint32_t j = 0; j < p.n_symbols + g->n_dims; j++)
                dims[j] = j < p.n_symbols ? p.dims[j] : resolve_dim(s, g->dims[j - p.n_symbols]);
            regions[r] = (struct region_in){ g->fn, operands, g->n_outside, dims };
        }
        s->modes.inside |= k->enabled;
        return true;
    }
    return false;
}

static void remember_keyed(struct capture *c, const void *key, enum op op, uint32_t n_out,
                           const struct inputs *in, const struct region_in *regions, uint32_t n_regions)
{
    struct scope *s = c->innermost;
    if (!key) return;
    struct probe p = probe_inputs(c, in);
    struct keyed_region *list = ARENA_NEW(&c->arena, struct keyed_region, n_regions);
    for (uint32_t r = 0; r < n_regions; r++) {
        uint32_t n_dims = module_fn(c->m, regions[r].fn)->n_outer_symbols - p.n_symbols;
        hop_val *outside = ARENA_NEW(&c->arena, hop_val, regions[r].n_operands);
        hop_dim *dims = ARENA_NEW(&c->arena, hop_dim, n_dims);
        for (uint32_t i = 0; i < regions[r].n_operands; i++)
            outside[i] = origin_of(s, regions[r].operands[i]);
        for (uint32_t i = 0; i < n_dims; i++) dims[i] = dim_handle(s, regions[r].dims[p.n_symbols + i]);
        list[r] = (struct keyed_region){ regions[r].fn, regions[r].n_operands, n_dims, outside, dims };
    }
    struct keyed_bodies kept = { .key = key,
                                 .op = op,
                                 .n_in = p.n,
                                 .n_out = n_out,
                                 .n_symbols = p.n_symbols,
                                 .n_regions = n_regions,
                                 .types = p.types,
                                 .symbols = p.symbols,
                                 .regions = list,
                                 .modes = s->modes.now,
                                 .enabled = s->modes.inside };
    vec_push(&c->arena, &c->keyed, kept);
}

/* ---- operands ---- */

val *control_operands(struct capture *c, const hop_val *in, uint32_t n)
{
    struct scope *s = c->innermost;
    val *out = ARENA_NEW(&c->arena, val, n);
    for (uint32_t i = 0; i < n; i++) {
        struct operand o = resolve(s, in[i]);
        out[i] = operand_value(&s->b, &o);
    }
    return out;
}

void control_hand_out(struct capture *c, hop_val *results, uint32_t n, val first)
{
    for (uint32_t i = 0; i < n; i++) results[i] = value_handle(c->innermost, first + i);
}

static void check_counts(int a, int b)
{
    if (a < 0 || b < 0) capture_throw("a count is negative");
}
void control_check_list(const hop_val *list, int n, const char *what)
{
    if (n < 0 || (n && !list)) capture_throw("%s: expected %d values, found NULL", what, n);
}

/* ---- switch, cond, call ---- */

/* Where an operator's results go. */
hop_val *control_results_at(struct capture *c, hop_val *results, int n_results, uint32_t n)
{
    if (n_results != HOP_ANY) return results;
    c->given = ARENA_NEW(&c->arena, hop_val, n + 1); /* also of no results there is a place */
    c->n_given = n;
    return c->given;
}

/* What a call says of itself. */
static void call_attributes(struct module *m, const hop_call_options *o, struct attr *attrs)
{
    if (o->recompute) attrs[INVOKE_RECOMPUTE] = A_FLAG(true);
    if (o->policy) attrs[INVOKE_POLICY] = A_STRING(module_string(m, o->policy, strlen(o->policy)));
    if (!o->inlining) return;
    const struct attr_spec *spec = &op_table[OP_invoke_subgraph]->sig.attrs[INVOKE_INLINE];
    uint32_t w = 0;
    while (spec->words[w] && strcmp(spec->words[w], o->inlining)) w++;
    if (!spec->words[w]) capture_throw("inlining: expected \"yes\" or \"no\", found \"%s\"", o->inlining);
    attrs[INVOKE_INLINE] = A_WORD(w);
}

struct branches {
    enum op op;
    const char *what;
    const char *const *names; /* per branch, NULL: none */
    hop_val index;            /* of a switch */
    const hop_body *bodies;
    uint32_t n;
    void *env;
    void *const *envs;
    const hop_val *in;
    uint32_t n_in;
    const void *key;
    bool recompute;
    const char *policy;    /* OP_invoke_subgraph; NULL: none */
    policy_question keeps; /* the same */
    void *keeps_user;
    const char *inlining;          /* the same */
    const char *kind, *attributes; /* OP_region */
};

/* Under autocast: floats of different dtypes that branches give become one. */
static void settle_floats(struct body *bodies, uint32_t n, uint32_t n_out)
{
    for (uint32_t k = 0; k < n_out; k++) {
        enum dtype t = DT_BOOL;
        for (uint32_t r = 0; r < n; r++) {
            if (bodies[r].weak[k].weak) continue;
            enum dtype found = (enum dtype)emit_type(&bodies[r].s->b, bodies[r].results[k]).dtype;
            if (dtype_is_float(found)) t = promote_dtypes(t, found);
        }
        for (uint32_t r = 0; r < n; r++)
            if (!bodies[r].weak[k].weak && dtype_is_float(t))
                bodies[r].results[k] = modes_like(&bodies[r].s->b, bodies[r].results[k], t);
    }
}

/* Numbers as results of branches take the dtype that the other branches give, as scalars. */
static void settle_weak(struct capture *c, struct body *bodies, uint32_t n, uint32_t n_out)
{
    struct operand *all = ARENA_NEW(&c->arena, struct operand, n);
    for (uint32_t k = 0; k < n_out; k++) {
        int strong = -1;
        for (uint32_t r = 0; r < n; r++) {
            all[r] = bodies[r].weak[k];
            if (!all[r].weak) strong = (int)emit_type(&bodies[r].s->b, bodies[r].results[k]).dtype;
        }
        enum dtype t = strong >= 0 ? (enum dtype)strong : operands_dtype(NULL, all, n);
        for (uint32_t r = 0; r < n; r++)
            if (all[r].weak)
                bodies[r].results[k] = weak_like(&bodies[r].s->b, &all[r], (struct type){ .dtype = t });
    }
}

static struct written capture_branches(struct capture *c, const struct branches *b, int n_results,
                                       const struct inputs *in, struct region_in *regions)
{
    uint32_t n_out = 0;
    struct body *bodies = ARENA_NEW(&c->arena, struct body, b->n);
    struct written w = { 0 };
    for (uint32_t r = 0; r < b->n; r++) {
        struct called called = { b->what, b->names ? b->names[r] : NULL };
        bodies[r] = control_run_body(c, SCOPE_BODY, called, b->bodies[r], b->envs ? b->envs[r] : b->env, in,
                                     n_results, 0, true);
        if (r && bodies[r].n_results != n_out)
            capture_throw("%s: one gives %u results, another one %u", b->what, n_out, bodies[r].n_results);
        n_out = bodies[r].n_results;
        add_written(c, bodies[r].s, &w);
    }
    if (autocasts(c->innermost)) settle_floats(bodies, b->n, n_out);
    settle_weak(c, bodies, b->n, n_out);
    for (uint32_t r = b->n; r-- > 0;) { /* the newest builder ends first */
        val *results = ARENA_NEW(&c->arena, val, n_out + w.n), *params = ARENA_NEW(&c->arena, val, in->n);
        if (n_out) memcpy(results, bodies[r].results, n_out * sizeof *results);
        for (uint32_t k = 0; k < w.n; k++) results[n_out + k] = variable_read(bodies[r].s, w.variables[k]);
        for (uint32_t i = 0; i < in->n; i++) params[i] = i;
        regions[r] = control_finish_body(c, &bodies[r], params, in->n, results, n_out + w.n);
        val *operands = ARENA_NEW(&c->innermost->b.arena, val,
                                  in->n +
                                      regions[r].n_operands); /* a branch has all its operands to itself */
        if (in->n) memcpy(operands, in->operands, in->n * sizeof *operands);
        if (regions[r].n_operands)
            memcpy(operands + in->n, regions[r].operands, regions[r].n_operands * sizeof *operands);
        regions[r].operands = operands;
        regions[r].n_operands += in->n;
    }
    return w;
}

static uint32_t emit_branches(struct capture *c, hop_val *results, int n_results, const struct branches *b)
{
    struct scope *s = c->innermost;
    val index = VAL_NONE;
    if (b->op == OP_switch) {
        struct operand o = resolve(s, b->index);
        index = operand_value(&s->b, &o);
        if (!b->n) capture_throw("expected at least one branch");
    }
    struct inputs in = { control_operands(c, b->in, b->n_in), b->n_in, b->n_in, NULL, 0, 0 };
    struct region_in *regions = ARENA_NEW(&s->b.arena, struct region_in, b->n);
    struct written w = { 0 };
    uint32_t n_out = results_room(n_results);
    if (!results_open(n_results) && find_keyed(c, b->key, b->op, n_out, &in, regions, b->n)) {
        for (uint32_t r = 0; r < b->n; r++) {
            val *operands = ARENA_NEW(&s->b.arena, val, in.n + regions[r].n_operands);
            if (in.n) memcpy(operands, in.operands, in.n * sizeof *operands);
            if (regions[r].n_operands)
                memcpy(operands + in.n, regions[r].operands, regions[r].n_operands * sizeof *operands);
            regions[r].operands = operands;
            regions[r].n_operands += in.n;
        }
    } else {
        w = capture_branches(c, b, n_results, &in, regions);
        n_out = module_fn(c->m, regions[0].fn)->n_results - w.n;
        if (!w.n && b->key && !results_open(n_results)) {
            struct region_in *own = arena_copy(&c->arena, regions, b->n * sizeof *regions);
            for (uint32_t r = 0; r < b->n; r++) {
                own[r].operands += in.n;
                own[r].n_operands -= in.n;
            }
            remember_keyed(c, b->key, b->op, n_out, &in, own, b->n);
        }
    }
    uint32_t groups[1] = { b->op == OP_switch };
    struct attr attrs[MOST_ATTRS] = { 0 };
    bool recompute = b->recompute;
    if (b->keeps)
        regions[0].fn = policy_asked(c->m, regions[0].fn, b->policy, b->keeps, b->keeps_user, &recompute);
    hop_call_options options = { recompute, b->keeps ? NULL : b->policy, b->inlining, { NULL } };
    if (b->op == OP_invoke_subgraph) call_attributes(c->m, &options, attrs);
    else if (recompute) attrs[SWITCH_RECOMPUTE] = A_FLAG(true);
    if (b->op == OP_region) {
        attrs[REGION_KIND] = A_STRING(module_string(c->m, b->kind, strlen(b->kind)));
        attrs[REGION_NAMED] = named_parse(c->m, "its attributes", b->attributes, &s->b.arena);
    }
    struct node_in node = {
        .op = (uint16_t)b->op,
        .operands = &index,
        .n_operands = groups[0],
        .groups = groups,
        .attrs = attrs,
        .regions = regions,
        .n_regions = b->n,
    };
    val first = builder_node(&s->b, &node);
    control_hand_out(c, control_results_at(c, results, n_results, n_out), n_out, first);
    for (uint32_t k = 0; k < w.n; k++) variable_set(s, w.variables[k], first + n_out + k);
    return n_out;
}

int control_edge(hop_place at, const char *name, void (*body)(struct capture *c, void *args),
                 hop_val *results, int n_results, const void *spec)
{
    struct control_args a = { results, n_results, spec, 0 };
    uint32_t room = results_open(n_results) || n_results > 0 ? results_room(n_results) : 0;
    bool bad_count = n_results < 0 && !results_open(n_results);
    int status;
    if (!spec || bad_count || (room && !results))
        status = hop_fail_at(at, "expected a specification and a place for each result, found NULL");
    else status = capture_edge(at, name, body, &a);
    if (results && (status || results_open(n_results)))
        for (uint32_t i = status ? 0 : a.n_given; i < room; i++) results[i] = (hop_val){ 0, 0 };
    return status;
}

static void closed_count(const struct control_args *a)
{
    if (results_open(a->n_results)) capture_throw("the number of results must be given here");
}

static void do_switch(struct capture *c, void *args)
{
    struct control_args *a = args;
    const hop_switch_spec *s = a->spec;
    check_counts(s->n_branches, s->n_in);
    control_check_list(s->in, s->n_in, "in");
    if (s->n_branches < 1 || !s->branches) capture_throw("expected at least one branch");
    if (c->eager) {
        closed_count(a);
        eager_switch(c, a->results, a->n_results, s, "a branch of switch");
        return;
    }
    struct branches branches = {
        .op = OP_switch,
        .what = "a branch of switch",
        .names = s->names,
        .index = s->index,
        .bodies = s->branches,
        .n = (uint32_t)s->n_branches,
        .env = s->env,
        .envs = s->envs,
        .in = s->in,
        .n_in = (uint32_t)s->n_in,
        .key = s->key,
        .recompute = s->recompute != 0,
    };
    a->n_given = emit_branches(c, a->results, a->n_results, &branches);
}
int hop_switch_at(hop_place at, hop_val *results, int n_results, const hop_switch_spec *spec)
{
    return control_edge(at, "switch", do_switch, results, n_results, spec);
}

static void do_cond(struct capture *c, void *args)
{
    struct control_args *a = args;
    const hop_cond_spec *s = a->spec;
    hop_body bodies[2] = { s->otherwise, s->then };
    const char *names[2] = { s->otherwise_name, s->then_name };
    control_check_list(s->in, s->n_in, "in");
    if (c->eager) {
        closed_count(a);
        hop_switch_spec choice = {
            .index = s->pred, .branches = bodies, .n_branches = 2, .env = s->env, .in = s->in, .n_in = s->n_in
        };
        eager_switch(c, a->results, a->n_results, &choice, "a branch of cond");
        return;
    }
    struct operand p = resolve(c->innermost, s->pred);
    if (!p.weak) {
        struct type t = emit_type(&c->innermost->b, p.v);
        if (t.rank || t.dtype != DT_BOOL)
            capture_throw("the predicate: expected bool[], found %s",
                          type_text(c->m, c->innermost->b.symbols.data, builder_type(&c->innermost->b, p.v)));
    }
    struct branches branches = {
        .op = OP_switch,
        .what = "a branch of cond",
        .names = names,
        .index = s->pred,
        .bodies = bodies,
        .n = 2,
        .env = s->env,
        .in = s->in,
        .n_in = (uint32_t)s->n_in,
        .key = s->key,
        .recompute = s->recompute != 0,
    };
    a->n_given = emit_branches(c, a->results, a->n_results, &branches);
}
int hop_cond_at(hop_place at, hop_val *results, int n_results, const hop_cond_spec *spec)
{
    return control_edge(at, "cond", do_cond, results, n_results, spec);
}

/* One body that is called: in a program a node of `own.op`, whose further fields are given; outside of one it
 * runs. */
static void emit_body(struct capture *c, struct control_args *a, const hop_call_spec *s, struct branches own)
{
    if (c->eager) {
        closed_count(a);
        eager_call(c, a->results, a->n_results, s);
        return;
    }
    own.names = &s->name;
    own.bodies = &s->body;
    own.n = 1;
    own.env = s->env;
    own.in = s->in;
    own.n_in = (uint32_t)s->n_in;
    own.key = s->key;
    a->n_given = emit_branches(c, a->results, a->n_results, &own);
}

static void do_call(struct capture *c, void *args)
{
    struct control_args *a = args;
    const hop_call_spec *s = a->spec;
    control_check_list(s->in, s->n_in, "in");
    emit_body(c, a, s,
              (struct branches){
                  .op = OP_invoke_subgraph,
                  .what = "the body of call",
                  .recompute = s->recompute != 0,
                  .policy = s->policy,
                  .keeps = s->keeps,
                  .keeps_user = s->keeps_user,
                  .inlining = s->inlining,
              });
}
int hop_call_at(hop_place at, hop_val *results, int n_results, const hop_call_spec *spec)
{
    return control_edge(at, "call", do_call, results, n_results, spec);
}

static void do_region(struct capture *c, void *args)
{
    struct control_args *a = args;
    const hop_region_spec *s = a->spec;
    control_check_list(s->in, s->n_in, "in");
    if (!s->kind || !*s->kind) capture_throw("expected the name of a kind, found nothing");
    hop_call_spec call = {
        .body = s->body, .env = s->env, .in = s->in, .n_in = s->n_in, .name = s->name, .key = s->key
    };
    emit_body(c, a, &call,
              (struct branches){
                  .op = OP_region,
                  .what = "the body of region",
                  .kind = s->kind,
                  .attributes = s->attributes,
              });
}
int hop_region_at(hop_place at, hop_val *results, int n_results, const hop_region_spec *spec)
{
    return control_edge(at, "region", do_region, results, n_results, spec);
}

/* What the outer symbols of a function are here, HOP_NONE where arguments tell. */
static dim *called_dims(struct emission *e, struct called_fn c)
{
    const struct fn *f = module_fn(e->b->m, c.fn);
    dim *dims = ARENA_NEW(&e->b->arena, dim, f->n_outer_symbols);
    for (uint32_t k = 0; k < f->n_outer_symbols; k++) {
        bool is_around = f->symbols[k].origin == SYMBOL_DIM && k < c.n_around;
        dims[k] = is_around && c.around[k].scope != HANDLE_NONE ? resolve_dim(e->s, c.around[k]) : HOP_NONE;
    }
    return dims;
}

static void emit_called(struct emission *e, struct called_fn c, enum op op, const struct attr *attrs)
{
    const struct fn *f = module_fn(e->b->m, c.fn);
    val *in = ARENA_NEW(&e->b->arena, val, e->n);
    dim *dims = called_dims(e, c);
    if (f->n_params != e->n) capture_throw("the function takes %u arguments, given %u", f->n_params, e->n);
    for (uint32_t i = 0; i < e->n; i++)
        in[i] = operand_as(e->b, &e->in[i], (enum dtype)type_get(e->b->m, value_type(f, i)).dtype);
    struct region_in r = { .fn = c.fn, .operands = in, .n_operands = e->n, .dims = dims };
    struct node_in node = {
        .op = (uint16_t)op,
        .groups = (const uint32_t[1]){ 0 },
        .attrs = attrs,
        .regions = &r,
        .n_regions = 1,
    };
    val first = builder_node(e->b, &node);
    if (e->n_out > f->n_results)
        capture_throw("the function has %u results, asked for %u", f->n_results, e->n_out);
    for (uint32_t i = 0; i < e->n_out; i++) e->out[i] = first + i;
}

void emit_call(struct emission *e, struct called_fn f, const hop_call_options *options)
{
    struct attr attrs[INVOKE_ATTRS] = { 0 };
    if (options) call_attributes(e->b->m, options, attrs);
    emit_called(e, f, OP_invoke_subgraph, attrs);
}

void custom_rules(struct emission *e, const struct called_fn rules[CUSTOM_RULES], struct attr *attrs)
{
    struct module *m = e->b->m;
    vec(dim) sizes = { 0 };
    for (uint32_t r = 0; r < CUSTOM_RULES; r++) {
        if (rules[r].fn == HOP_NONE) continue;
        const struct fn *f = module_fn(m, rules[r].fn);
        const dim *dims = called_dims(e, rules[r]);
        attrs[CUSTOM_FORWARD + r] = A_FN(rules[r].fn);
        for (uint32_t k = 0; k < f->n_outer_symbols; k++) {
            if (f->symbols[k].origin != SYMBOL_DIM) continue;
            if (dims[k] == HOP_NONE)
                capture_throw("a rule takes the size '%s', which no parameter of it tells",
                              module_text(m, f->symbols[k].name));
            vec_push(&e->b->arena, &sizes, dims[k]);
        }
    }
    if (sizes.len) attrs[CUSTOM_SIZES] = A_DIMS(sizes.data, sizes.len);
}

void emit_custom(struct emission *e, struct called_fn body, const struct called_fn rules[CUSTOM_RULES],
                 struct attr *attrs)
{
    custom_rules(e, rules, attrs);
    emit_called(e, body, OP_custom, attrs);
}

/* ---- scan, map ---- */

static dim read_size(struct capture *c, const char *text, const char *what)
{
    struct cursor k = { .text = text, .p = text, .what = what, .s = c->innermost, .m = c->m };
    dim d = parse_dim(&k);
    cursor_end(&k);
    return d;
}

/* "none", "recompute", "sqrt", "every 8, 2", "binomial 20": the row's attributes schedule, every, snapshots.
 */
static void read_schedule(const char *text, struct attr *attrs, uint32_t *list, uint32_t room)
{
    enum { WORD, EVERY, SNAPSHOTS };
    static const struct {
        const char *word;
        uint8_t value;
    } words[] = { { "none", SCHEDULE_NONE }, { "recompute", SCHEDULE_RECOMPUTE }, { "sqrt", SCHEDULE_SQRT } };
    struct cursor c = cursor_over(text, "the schedule", NULL, NULL);
    if (!text) return;
    if (cursor_accept(&c, "every")) {
        uint32_t n = 0;
        do {
            int64_t k;
            if (n == room || !cursor_integer(&c, &k) || k < 1 || k > INT32_MAX)
                cursor_error(&c, "a number of steps");
            list[n++] = (uint32_t)k;
        } while (cursor_accept(&c, ","));
        attrs[EVERY] = A_INTS(list, n);
    } else if (cursor_accept(&c, "binomial")) {
        int64_t k;
        if (!cursor_integer(&c, &k)) cursor_error(&c, "a number of snapshots");
        attrs[WORD] = A_WORD(SCHEDULE_BINOMIAL);
        attrs[SNAPSHOTS] = A_INT(k);
    } else {
        uint32_t w = 0;
        while (w < HOP_COUNT(words) && !cursor_accept(&c, words[w].word)) w++;
        if (w == HOP_COUNT(words)) cursor_error(&c, "none, recompute, sqrt, every N or binomial N");
        attrs[WORD] = A_WORD(words[w].value);
    }
    cursor_end(&c);
}

/* A scan or a map, which are captured alike: a map has no carries, and when its body assigns to something
 * outside, that becomes a carry and the map a scan. */
struct stepping {
    const hop_scan_spec *spec;
    bool map, sequential;
    const char *what;
};

/* What every loop here ends with: the step, its carries, its schedule in words. */
static struct loop_results emit_loop(struct capture *c, struct loop l, const val *carry, uint32_t n_carry,
                                     const char *schedule, struct region_in body)
{
    uint32_t every[8];
    struct attr attrs[LOOP_SCHEDULE_ATTRS] = { 0 };
    read_schedule(schedule, attrs, every, HOP_COUNT(every));
    l.carry = carry;
    l.n_carry = n_carry;
    l.schedule = attrs;
    loop_set_body(&l, c->m, body);
    return loop_build(&c->innermost->b, &l);
}

static struct loop_results emit_steps(struct capture *c, const struct stepping *k, const val *carry,
                                      uint32_t n_carry, const val *xs, struct region_in region)
{
    const hop_scan_spec *spec = k->spec;
    struct loop l = loop_new(k->map && !n_carry ? LOOP_MAP : LOOP_SCAN);
    l.over = xs;
    l.n_over = (uint32_t)spec->n_xs;
    l.reverse = spec->reverse;
    l.sequential = k->sequential;
    l.length_given = spec->length;
    if (spec->length) l.length = read_size(c, spec->length, "the length");
    return emit_loop(c, l, carry, n_carry, spec->schedule, region);
}

/* Variables that a body writes are carries behind its own. For each: the parameter that stands for it in the
 * body, what it begins with, and what the body makes of it. */
static void written_carries(const struct body *body, const struct written *w, val *params, val *begin,
                            val *next)
{
    for (uint32_t k = 0; k < w->n; k++) {
        struct late_param entry = variable_entry(body->s, w->variables[k]);
        params[k] = entry.here;
        begin[k] = entry.outer;
        next[k] = find_binding(body->s, w->variables[k])->value;
    }
}

/* The results of a loop with n_carry carries of its own, and after it what the variables are that it wrote.
 */
static void hand_out_loop(struct scope *s, hop_val *handles, uint32_t n_out, uint32_t n_carry,
                          const struct written *w, struct loop_results made)
{
    for (uint32_t i = 0; i < n_out; i++) {
        uint32_t behind = i < n_carry ? 0 : w->n;
        handles[i] = value_handle(s, made.last + behind + i);
    }
    for (uint32_t k = 0; k < w->n; k++) variable_set(s, w->variables[k], made.last + n_carry + k);
}

/* Slices of xs that the step assigned to: one more stacked result each. */
static uint32_t written_slices(struct capture *c, const hop_scan_spec *spec, const struct body *body,
                               const struct written *w, uint32_t *xs, val *values)
{
    uint32_t n = 0;
    /* The newest binding of each local variable that is a slice. */
    for (uint32_t i = 0; i < body->s->bindings.len; i++) {
        const struct variable_binding *b = &body->s->bindings.data[i];
        if (b->value >= body->s->b.n_params || b->written) continue;
        if (c->variables.data[b->variable].scope != body->s->serial) continue;
        uint32_t x = b->value - (uint32_t)spec->n_carry;
        const struct variable_binding *now = find_binding(body->s, b->variable);
        if (!now->written || b->value < (uint32_t)spec->n_carry || !is_variable(spec->xs[x])) continue;
        for (uint32_t k = 0; k < w->n; k++)
            if (w->variables[k] == variable_index(c, spec->xs[x]))
                capture_throw("the step assigns to xs %u both through its slice and as a whole", x);
        xs[n] = x;
        values[n++] = now->value;
    }
    return n;
}

static void capture_steps(struct capture *c, struct control_args *a, const struct stepping *how)
{
    const hop_scan_spec *spec = how->spec;
    enum op op = (enum op)loop_ops[how->map ? LOOP_MAP : LOOP_SCAN];
    struct scope *s = c->innermost;
    uint32_t n_carry = (uint32_t)spec->n_carry, n_xs = (uint32_t)spec->n_xs;
    uint32_t n_out = results_room(a->n_results), n = n_carry + n_xs;
    val *operands = ARENA_NEW(&c->arena, val, n);
    bool *variable = ARENA_ZNEW(&c->arena, bool, n);
    if (n_carry) memcpy(operands, control_operands(c, spec->carry, n_carry), n_carry * sizeof *operands);
    if (n_xs) memcpy(operands + n_carry, control_operands(c, spec->xs, n_xs), n_xs * sizeof *operands);
    for (uint32_t i = 0; i < n_xs; i++) variable[n_carry + i] = is_variable(spec->xs[i]);
    struct inputs in = { operands, n, n_carry, variable, 0, 0 };
    struct region_in region;
    bool open = results_open(a->n_results);
    if (!open && find_keyed(c, spec->key, op, n_out, &in, &region, 1)) {
        struct loop_results made = emit_steps(c, how, operands, n_carry, operands + n_carry, region);
        control_hand_out(c, a->results, n_out, made.last);
        return;
    }
    struct body body = control_run_body(c, SCOPE_BODY, (struct called){ how->what, spec->name }, spec->step,
                                        spec->env, &in, a->n_results, n_carry, false);
    if (open) n_out = body.n_results;
    if (open && n_out < n_carry)
        capture_throw("expected the %u carries at least, found %u results", n_carry, n_out);
    a->n_given = n_out;
    struct written w = { 0 };
    add_written(c, body.s, &w);
    uint32_t total = n_carry + w.n + n_xs;
    uint32_t *slices = ARENA_NEW(&c->arena, uint32_t, n_xs);
    val *slice_values = ARENA_NEW(&c->arena, val, n_xs);
    uint32_t n_slices = written_slices(c, spec, &body, &w, slices, slice_values);
    val *params = ARENA_NEW(&c->arena, val, total);
    val *carry = ARENA_NEW(&s->b.arena, val, n_carry + w.n);
    val *results = ARENA_NEW(&c->arena, val, n_out + w.n + n_slices);
    for (uint32_t i = 0; i < n_carry; i++) {
        params[i] = i;
        carry[i] = operands[i];
        results[i] = body.results[i];
    }
    written_carries(&body, &w, params + n_carry, carry + n_carry, results + n_carry);
    for (uint32_t i = 0; i < n_xs; i++) params[n_carry + w.n + i] = n_carry + i;
    for (uint32_t i = n_carry; i < n_out; i++) results[w.n + i] = body.results[i];
    for (uint32_t i = 0; i < n_slices; i++) results[n_out + w.n + i] = slice_values[i];
    region = control_finish_body(c, &body, params, total, results, n_out + w.n + n_slices);
    if (!w.n && !n_slices && !open) remember_keyed(c, spec->key, op, n_out, &in, &region, 1);
    if (how->map && w.n)
        capture_remark(
            c, "its body assigns to %u array%s from outside: it became a scan, one slice after the other",
            w.n, w.n == 1 ? "" : "s");
    struct loop_results made = emit_steps(c, how, carry, n_carry + w.n, operands + n_carry, region);
    hand_out_loop(s, control_results_at(c, a->results, a->n_results, n_out), n_out, n_carry, &w, made);
    val written = made.stacks + (n_out - n_carry); /* behind what the step stacks itself */
    for (uint32_t i = 0; i < n_slices; i++)
        variable_write(s, variable_index(c, spec->xs[slices[i]]), written + i);
}

static void do_scan(struct capture *c, void *args)
{
    struct control_args *a = args;
    const hop_scan_spec *spec = a->spec;
    control_check_list(spec->carry, spec->n_carry, "carry");
    control_check_list(spec->xs, spec->n_xs, "xs");
    if (a->n_results != HOP_ANY && results_room(a->n_results) < (uint32_t)spec->n_carry)
        capture_throw("expected room for the %d carries at least, found %d results", spec->n_carry,
                      a->n_results);
    if (!spec->n_xs && !spec->length)
        capture_throw("nothing is scanned over: 'length' must say how many steps there are");
    if (c->eager) {
        closed_count(a);
        eager_scan(c, a->results, a->n_results, spec);
    } else capture_steps(c, a, &(struct stepping){ .spec = spec, .what = "the step of scan" });
}
int hop_scan_at(hop_place at, hop_val *results, int n_results, const hop_scan_spec *spec)
{
    return control_edge(at, "scan", do_scan, results, n_results, spec);
}

static void do_map(struct capture *c, void *args)
{
    struct control_args *a = args;
    const hop_map_spec *spec = a->spec;
    hop_scan_spec steps = { .step = spec->body,
                            .env = spec->env,
                            .xs = spec->xs,
                            .n_xs = spec->n_xs,
                            .length = spec->length,
                            .name = spec->name,
                            .key = spec->key };
    control_check_list(spec->xs, spec->n_xs, "xs");
    if (!spec->n_xs && !spec->length)
        capture_throw("nothing is mapped over: 'length' must say how many times the body is applied");
    if (c->eager) {
        closed_count(a);
        eager_scan(c, a->results, a->n_results, &steps);
        return;
    }
    bool sequential = spec->sequential != 0;
    struct stepping stepping = {
        .spec = &steps, .map = true, .sequential = sequential, .what = "the body of map"
    };
    capture_steps(c, a, &stepping);
}
int hop_map_at(hop_place at, hop_val *results, int n_results, const hop_map_spec *spec)
{
    return control_edge(at, "map", do_map, results, n_results, spec);
}

/* ---- fori ---- */

static val bring_bound(struct capture *c, hop_val v, const char *what)
{
    struct scope *s = c->innermost;
    struct operand o = resolve(s, v);
    if (o.weak) {
        if (o.weak != HANDLE_INT) capture_throw("'%s': expected an integer, found another number", what);
        return operand_as(&s->b, &o, DT_I64);
    }
    struct type t = emit_type(&s->b, o.v);
    if (!dtype_is_integer((enum dtype)t.dtype) || t.rank)
        capture_throw("'%s': expected an integer, found %s", what,
                      type_text(c->m, s->b.symbols.data, builder_type(&s->b, o.v)));
    return emit_as_index(&s->b, o.v);
}

static struct loop_results emit_fori(struct capture *c, const hop_fori_spec *spec, const val *carry,
                                     uint32_t n_carry, val from, val to, struct region_in region)
{
    struct builder *b = &c->innermost->b;
    struct loop l = loop_new(LOOP_COUNTED);
    l.from = from;
    l.to = to;
    dim trips;
    if (spec->n_stack && fori_trips(b, from, to, &trips))
        fori_over(b, &l, trips); /* rows of a known number */
    return emit_loop(c, l, carry, n_carry, spec->schedule, region);
}

static void do_fori(struct capture *c, void *args)
{
    const struct control_args *a = args;
    const hop_fori_spec *spec = a->spec;
    check_counts(spec->n_stack, 0);
    control_check_list(spec->carry, spec->n_carry, "carry");
    if (a->n_results != spec->n_carry + spec->n_stack)
        capture_throw("expected room for %d results (carries, stacks), found %d",
                      spec->n_carry + spec->n_stack, a->n_results);
    if (c->eager) {
        eager_fori(c, a->results, spec);
        return;
    }
    struct scope *s = c->innermost;
    uint32_t n_carry = (uint32_t)spec->n_carry, n_out = (uint32_t)a->n_results;
    val *inputs = ARENA_NEW(&c->arena, val, n_carry + 1);
    val from = bring_bound(c, spec->from, "from");
    val to = bring_bound(c, spec->to, "to");
    inputs[0] = from; /* stands for the index, which has its type */
    if (n_carry) memcpy(inputs + 1, control_operands(c, spec->carry, n_carry), n_carry * sizeof *inputs);
    struct inputs in = { inputs, n_carry + 1, n_carry + 1, NULL, 1, 0 };
    struct region_in region;
    struct written w = { 0 };
    bool known = find_keyed(c, spec->key, OP_fori_loop, n_out, &in, &region, 1);
    struct body body = { 0 };
    if (!known) {
        body = control_run_body(c, SCOPE_BODY, (struct called){ "the body of fori", spec->name }, spec->body,
                                spec->env, &in, (int)n_out, n_carry, false);
        add_written(c, body.s, &w);
    }
    uint32_t total = n_carry + w.n;
    val *params = ARENA_NEW(&c->arena, val, total + 1);
    val *carry = ARENA_NEW(&s->b.arena, val, total);
    val *results = ARENA_NEW(&c->arena, val, n_out + w.n);
    for (uint32_t i = 0; i < n_carry; i++) {
        params[i] = i + 1;
        carry[i] = inputs[i + 1];
    }
    written_carries(&body, &w, params + n_carry, carry + n_carry, results + n_carry);
    params[total] = 0;
    if (!known) {
        for (uint32_t i = 0; i < n_out; i++) results[i < n_carry ? i : i + w.n] = body.results[i];
        region = control_finish_body(c, &body, params, total + 1, results, n_out + w.n);
        if (!w.n) remember_keyed(c, spec->key, OP_fori_loop, n_out, &in, &region, 1);
    }
    hand_out_loop(s, a->results, n_out, n_carry, &w, emit_fori(c, spec, carry, total, from, to, region));
}
int hop_fori_at(hop_place at, hop_val *results, int n_results, const hop_fori_spec *spec)
{
    return control_edge(at, "fori", do_fori, results, n_results, spec);
}

/* ---- associative scan ---- */

static void do_associative_scan(struct capture *c, void *args)
{
    const struct control_args *a = args;
    const hop_associative_scan_spec *spec = a->spec;
    control_check_list(spec->xs, spec->n_xs, "xs");
    if (!spec->n_xs) capture_throw("there is nothing to scan: expected one array at least");
    if (a->n_results != spec->n_xs)
        capture_throw("expected room for %d results, as many as xs, found %d", spec->n_xs, a->n_results);
    if (c->eager) {
        eager_associative_scan(c, a->results, spec);
        return;
    }
    struct scope *s = c->innermost;
    uint32_t n = (uint32_t)spec->n_xs;
    val *operands = ARENA_NEW(&c->arena, val, 2 * (size_t)n);
    val *params = ARENA_NEW(&c->arena, val, 2 * (size_t)n);
    memcpy(operands, control_operands(c, spec->xs, n), n * sizeof *operands);
    memcpy(operands + n, operands, n * sizeof *operands);
    uint32_t axis = check_axis(spec->axis, emit_type(&s->b, operands[0]).rank);
    for (uint32_t i = 0; i < n; i++)
        if (emit_type(&s->b, operands[i]).rank <= axis)
            capture_throw("xs %u has type %s: there is no axis %u", i,
                          type_text(c->m, s->b.symbols.data, builder_type(&s->b, operands[i])), axis);
    struct inputs in = { operands, 2 * n, 0, NULL, 0, axis };
    struct region_in region;
    if (!find_keyed(c, spec->key, OP_associative_scan, n, &in, &region, 1)) {
        struct called called = { "the combine function of associative_scan", spec->name };
        struct body body = control_run_body(c, SCOPE_PREDICATE, called, spec->combine, spec->env, &in, (int)n,
                                            n, false);
        for (uint32_t i = 0; i < 2 * n; i++) params[i] = i;
        region = control_finish_body(c, &body, params, 2 * n, body.results, n);
        remember_keyed(c, spec->key, OP_associative_scan, n, &in, &region, 1);
    }
    struct attr attrs[MOST_ATTRS] = {
        [ASSOCIATIVE_DIM] = axis ? A_INT(axis) : A_NONE, [ASSOCIATIVE_REVERSE] = A_FLAG(spec->reverse)
    };
    struct node_in node = {
        .op = OP_associative_scan,
        .operands = operands,
        .n_operands = n,
        .groups = &n,
        .attrs = attrs,
        .regions = &region,
        .n_regions = 1,
    };
    control_hand_out(c, a->results, n, builder_node(&s->b, &node));
}
int hop_associative_scan_at(hop_place at, hop_val *results, int n_results,
                            const hop_associative_scan_spec *spec)
{
    return control_edge(at, "associative_scan", do_associative_scan, results, n_results, spec);
}

/* ---- operators that only read ---- */

struct region_in capture_reading_body(struct capture *c, const struct reading_body *r)
{
    struct inputs in = { r->operands, r->n, r->n, NULL, 0, 0 };
    struct called called = { r->what, r->label };
    struct body body = control_run_body(c, SCOPE_PREDICATE, called, r->body, r->env, &in, 1, r->like_first,
                                        false);
    val *params = ARENA_NEW(&c->arena, val, r->n);
    for (uint32_t i = 0; i < r->n; i++) params[i] = i;
    return control_finish_body(c, &body, params, r->n, body.results, 1);
}

/* ---- while ---- */

enum { WHILE_COND, WHILE_BODY, WHILE_REGIONS };

static struct loop_results emit_while(struct capture *c, const hop_while_spec *spec, const val *carry,
                                      uint32_t n_carry, const struct region_in *regions)
{
    struct loop l = loop_new(LOOP_WHILE);
    l.count = spec->count && !spec->n_stack;
    if (spec->max_trips) l.max_trips = read_size(c, spec->max_trips, "max_trips");
    loop_set_cond(&l, c->m, regions[WHILE_COND]);
    return emit_loop(c, l, carry, n_carry, spec->schedule, regions[WHILE_BODY]);
}

static void do_while(struct capture *c, void *args)
{
    const struct control_args *a = args;
    const hop_while_spec *spec = a->spec;
    check_counts(spec->n_stack, 0);
    control_check_list(spec->carry, spec->n_carry, "carry");
    int counted = spec->n_carry + (spec->count || spec->n_stack) + spec->n_stack;
    if (a->n_results != counted)
        capture_throw(
            "expected room for %d results (carries, number of trips if asked for, stacks), found %d", counted,
            a->n_results);
    if (c->eager) {
        eager_while(c, a->results, a->n_results, spec);
        return;
    }
    struct scope *s = c->innermost;
    uint32_t n_carry = (uint32_t)spec->n_carry, n_stack = (uint32_t)spec->n_stack;
    uint32_t n_out = (uint32_t)a->n_results;
    struct inputs in = { control_operands(c, spec->carry, n_carry), n_carry, n_carry, NULL, 0, 0 };
    struct region_in regions[WHILE_REGIONS];
    if (find_keyed(c, spec->key, OP_while_loop, n_out, &in, regions, WHILE_REGIONS)) {
        control_hand_out(c, a->results, n_out, emit_while(c, spec, in.operands, n_carry, regions).last);
        return;
    }
    struct called test = { "the predicate of while", spec->cond_name };
    struct called step = { "the body of while", spec->body_name };
    struct body cond = control_run_body(c, SCOPE_PREDICATE, test, spec->cond, spec->env, &in, 1, 0, false);
    struct body body = control_run_body(c, SCOPE_BODY, step, spec->body, spec->env, &in,
                                        (int)(n_carry + n_stack), n_carry, false);
    struct written w = { 0 };
    add_written(c, body.s, &w);
    uint32_t total = n_carry + w.n;
    val *params = ARENA_NEW(&c->arena, val, total);
    val *cond_params = ARENA_NEW(&c->arena, val, total);
    val *carry = ARENA_NEW(&s->b.arena, val, total);
    val *results = ARENA_NEW(&c->arena, val, total + n_stack);
    for (uint32_t i = 0; i < n_carry; i++) {
        params[i] = i;
        cond_params[i] = i;
        carry[i] = in.operands[i];
        results[i] = body.results[i];
    }
    written_carries(&body, &w, params + n_carry, carry + n_carry, results + n_carry);
    for (uint32_t k = 0; k < w.n; k++) cond_params[n_carry + k] = variable_entry(cond.s, w.variables[k]).here;
    for (uint32_t i = 0; i < n_stack; i++) results[total + i] = body.results[n_carry + i];
    regions[WHILE_BODY] = control_finish_body(c, &body, params, total, results, total + n_stack);
    regions[WHILE_COND] = control_finish_body(c, &cond, cond_params, total, cond.results, 1);
    if (!w.n) remember_keyed(c, spec->key, OP_while_loop, n_out, &in, regions, WHILE_REGIONS);
    hand_out_loop(s, a->results, n_out, n_carry, &w, emit_while(c, spec, carry, total, regions));
}
int hop_while_at(hop_place at, hop_val *results, int n_results, const hop_while_spec *spec)
{
    return control_edge(at, "while", do_while, results, n_results, spec);
}
