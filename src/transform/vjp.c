/* Reverse mode. A function comes in; its nodes are copied (or replaced by their rows' forward rules), then
 * walked backwards through the rows' pullbacks, which gives one joint function. That is vjp_function;
 * vjp_split cuts the joint function in two for loops, branches and calls. */
#include "ir/axes.h"
#include "ir/finite.h"
#include "ops/build.h"
#include "transform/localize.h"
#include "transform/pass.h"
#include "transform/transform.h"

/* ---- shared helpers ---- */

val zeros_of(struct builder *b, type_id t)
{
    struct type type = type_get(b->m, t);
    return emit_full(b, (enum dtype)type.dtype, 0, type.rank, type.dims);
}

val zeros_like(struct builder *b, val v) { return zeros_of(b, builder_type(b, v)); }

/* How many sums at places, each of the one before, are made anew of something else. */
enum { MOST_PLACES = 256 };

/* The node that gives the value, if that is another value with something added at some places. */
static const struct node *adds_at_places(struct builder *b, val v)
{
    const struct node *n = built_node(b, v);
    val none;
    bool adds = n && node_row(n)->adds_onto && node_row(n)->adds_onto(b, n, VAL_NONE, &none);
    return adds ? n : NULL;
}

/* x + y where y is zeros, or zeros with something added at some places: that is added to x, so that nothing
 * as large as all of y is made where few places are meant, as in loops that read an array element by element.
 * VAL_NONE: y is something else. */
static val added_at_places(struct builder *b, val x, val y)
{
    val above[MOST_PLACES];
    uint32_t n = 0;
    struct attr value;
    const struct node *node = adds_at_places(b, y);
    for (; node && n < MOST_PLACES; node = adds_at_places(b, y)) {
        above[n++] = y;
        y = built_operand(b, node, 0);
    }
    bool zeros = full_value(b, y, &value) && attr_is_zero(&value);
    if (!zeros || (!n && builder_type(b, x) != builder_type(b, y))) return VAL_NONE;
    while (n-- > 0) {
        node = built_node(b, above[n]);
        node_row(node)->adds_onto(b, node, x, &x);
    }
    return x;
}

val add_cotangents(struct builder *b, val x, val y)
{
    if (x == VAL_NONE) return y;
    if (y == VAL_NONE) return x;
    val sum = added_at_places(b, x, y);
    if (sum == VAL_NONE) sum = added_at_places(b, y, x);
    return sum == VAL_NONE ? emit2(b, OP_add, x, y) : sum;
}

void inline_function(struct builder *b, uint32_t fn, const dim *symbols, const val *args, val *results)
{
    const struct fn *f = module_fn(b->m, fn);
    struct copier c;
    copier_begin(&c, b, f);
    if (symbols)
        for (uint32_t i = 0; i < f->n_outer_symbols; i++) c.symbols[i] = symbols[i];
    for (uint32_t p = 0; p < f->n_params; p++) c.values[p] = args[p];
    copier_body(&c, results);
}

/* The module's memo knows a hash of the mask; the record under it decides. */
struct memo_record {
    uint64_t word;
    uint32_t without; /* switches that were off */
    struct price price;
    uint32_t n;
    const bool *mask;
    void *record;
};

static bool record_is(const struct memo_record *r, const struct module *m, uint64_t word, const bool *mask,
                      uint32_t n)
{
    bool same_price = !memcmp(&r->price, &m->price, sizeof m->price);
    return r->word == word && r->without == m->without && same_price && r->n == n &&
           (!n || !memcmp(r->mask, mask, n));
}

static uint64_t mask_hash(uint64_t word, const bool *mask, uint32_t n)
{
    return hash_mix(n ? hash_bytes(mask, n, 3) : 5, word);
}

void *transform_recall(const struct module *m, enum memo_tag tag, uint32_t fn, uint64_t word,
                       const bool *mask, uint32_t n)
{
    uint64_t key[4] = { tag, fn, mask_hash(word, mask, n), 0 };
    union memo_value known;
    for (; memo_get(m, key, &known); key[3]++) {
        const struct memo_record *r = known.record;
        if (record_is(r, m, word, mask, n)) return r->record;
    }
    return NULL;
}

void transform_remember(struct module *m, enum memo_tag tag, uint32_t fn, uint64_t word, const bool *mask,
                        uint32_t n, void *record)
{
    uint64_t key[4] = { tag, fn, mask_hash(word, mask, n), 0 };
    union memo_value known;
    while (memo_get(m, key, &known)) key[3]++;
    struct memo_record *r = ARENA_NEW(&m->arena, struct memo_record, 1);
    *r = (struct memo_record){ word, m->without, m->price, n, arena_copy(&m->arena, mask, n), record };
    memo_put(m, key, (union memo_value){ .record = r });
}

/* ---- one function walked forwards and backwards ---- */

struct reverse {
    struct module *m;
    struct builder b;
    struct copier copy;
    const struct fn *f;
    bool *wanted;                           /* per value of f: may a cotangent reach it? */
    bool *active;                           /* per value of f: does it depend on what is differentiated? */
    val *ct;                                /* per value of f */
    void **saved;                           /* per node of f */
    const struct call_question **questions; /* per node of f, for calls: see call_questions */
    val *ct_params;                   /* per result of f: the parameter that holds its cotangent, VAL_NONE */
    struct saved_list *list, *around; /* what it keeps; the list of the function around */
    bool *told; /* per value of the forward half: it is in the list; NULL: only rows tell */
    uint32_t n_told;
    uint32_t n_early;        /* nodes of the forward half that have the price of early ones */
    uint32_t *forward_nodes; /* per node of f: how many nodes of b come before those of its forward half */
};

/* ---- what is kept, for people ---- */

/* From here on what pullbacks read of the forward half is told. */
static void tell_reads(struct reverse *r)
{
    r->n_told = r->b.values.len;
    r->told = ARENA_ZNEW(&r->b.arena, bool, r->n_told);
}

/* Is v made by what forward has in place of node i of f, and none of its results? Loops, branches and calls
 * have told themselves of such values. */
static bool is_told_by_row(const struct reverse *r, uint32_t i, val v)
{
    const struct node *n = fn_node(r->f, i);
    uint32_t made = r->b.values.data[v].node;
    if (!(node_row(n)->flags & OPF_HIGHER)) return false;
    if (made == NODE_NONE) return true; /* an argument: they tell of all operands or of none */
    if (made < r->forward_nodes[i] || made >= r->forward_nodes[i + 1]) return false;
    for (uint32_t k = 0; k < n->n_results; k++)
        if (r->copy.values[n->results + k] == v) return false;
    return true;
}

/* Node i of f has emitted its pullback, nodes from `first` on. Numbers are made again. */
static void tell_pullback(struct reverse *r, uint32_t i, uint32_t first)
{
    const struct node *n = fn_node(r->f, i);
    if (!r->told) return;
    for (uint32_t at = first; at < r->b.nodes.len; at++)
        for (uint32_t k = 0; k < r->b.nodes.data[at].n_operands; k++) {
            val v = r->b.pool.data[r->b.nodes.data[at].operands + k];
            if (v >= r->n_told || r->told[v] || is_told_by_row(r, i, v)) continue;
            uint32_t made = r->b.values.data[v].node;
            r->told[v] = true;
            if (made != NODE_NONE && !r->b.nodes.data[made].n_operands && !r->b.nodes.data[made].n_regions)
                continue;
            bool argument = made == NODE_NONE;
            const char *why = argument ? "an argument" : "its pullback reads it";
            saved_add(r->m, (struct saved_value){ .by = node_row(n),
                                                  .place = n->place,
                                                  .name = r->b.values.data[v].name,
                                                  .type = builder_type(&r->b, v),
                                                  .rows = HOP_NONE,
                                                  .there = argument,
                                                  .why = why });
        }
}

/* Before the builder ends. */
static void list_end(struct reverse *r)
{
    size_t bytes = r->b.symbols.len * sizeof *r->b.symbols.data;
    r->list->symbols = arena_copy(&r->m->arena, r->b.symbols.data, bytes);
    r->m->saved_now = r->around;
    if (r->told) r->m->saved_last = r->list;
}

static bool is_float(const struct module *m, type_id t)
{
    return dtype_is_float((enum dtype)type_get(m, t).dtype);
}

/* Which values may get a cotangent: wanted results, and float operands of differentiable nodes with a wanted
 * result. */
static void mark_wanted(struct reverse *r, const bool *results)
{
    const struct fn *f = r->f;
    for (uint32_t k = 0; k < f->n_results; k++)
        if ((!results || results[k]) && is_float(r->m, value_type(f, f->results[k])))
            r->wanted[f->results[k]] = true;
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        bool any = false;
        for (uint32_t k = 0; k < n->n_results; k++) any |= r->wanted[n->results + k];
        if (!any || !node_row(n)->vjp) continue;
        for (uint32_t k = 0; k < n->n_operands; k++) {
            val v = node_operands(f, n)[k];
            r->wanted[v] |= is_float(r->m, value_type(f, v));
        }
    }
}

static bool symbol_at_least(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

/* Distinct dims of f's results that only f's nodes know, and the symbols that stand for them in cotangents.
 */
struct ct_sizes {
    vec(dim) inner;
    vec(dim) symbol;
};

/* The symbol that stands for this dim: a new one where the dim comes up for the first time. */
static dim cotangent_size(struct reverse *r, struct ct_sizes *sizes, dim inner)
{
    for (uint32_t k = 0; k < sizes->inner.len; k++)
        if (sizes->inner.data[k] == inner) return sizes->symbol.data[k];
    char text[16];
    int length = snprintf(text, sizeof text, "ct%u", r->b.symbols.len);
    int64_t lo, hi;
    dim_range(r->m, r->f->symbols, inner, &lo, &hi);
    uint32_t name = module_string(r->m, text, (size_t)length);
    dim symbol = dim_symbol(r->m, builder_symbol(&r->b, name, HOP_MAX(lo, 0), hi));
    vec_push(&r->b.arena, &sizes->inner, inner);
    vec_push(&r->b.arena, &sizes->symbol, symbol);
    return symbol;
}

static type_id cotangent_type(struct reverse *r, struct ct_sizes *sizes, type_id t)
{
    struct type type = type_get(r->m, t);
    uint32_t outer = r->f->n_outer_symbols;
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) {
        dims[i] = type.dims[i];
        if (!(dims[i] & DIM_TABLE) || !dim_mentions(r->m, dims[i], symbol_at_least, &outer)) continue;
        dims[i] = cotangent_size(r, sizes, dims[i]);
    }
    return type_with_dims(r->m, type, dims);
}

static void reverse_begin(struct reverse *r, struct module *m, const struct fn *f, const bool *active,
                          const bool *wanted)
{
    hop_check_stack();
    memset(r, 0, sizeof *r);
    r->m = m;
    r->f = f;
    r->list = ARENA_ZNEW(&m->arena, struct saved_list, 1);
    r->around = m->saved_now;
    m->saved_now = r->list;
    builder_begin(&r->b, m, f);
    r->b.label = module_label(m, fn_label(f), "vjp");
    r->b.transposed = true;
    copier_begin(&r->copy, &r->b, f);
    r->wanted = ARENA_ZNEW(&r->b.arena, bool, f->n_values);
    r->active = ARENA_ZNEW(&r->b.arena, bool, f->n_values);
    r->ct = ARENA_NEW(&r->b.arena, val, f->n_values);
    memset(r->ct, 0xff, f->n_values * sizeof *r->ct);
    r->saved = ARENA_ZNEW(&r->b.arena, void *, f->n_nodes);
    r->ct_params = ARENA_NEW(&r->b.arena, val, f->n_results);
    memset(r->ct_params, 0xff, f->n_results * sizeof *r->ct_params);
    copier_params(&r->copy);
    for (uint32_t p = 0; p < f->n_params; p++) r->active[p] = active[p] && is_float(m, value_type(f, p));
    mark_wanted(r, wanted);
    r->questions = call_questions(&r->b.arena, m, f, r->active, r->wanted);
}

/* A parameter for the cotangent of each float result (that is wanted; NULL: all). */
static void add_ct_params(struct reverse *r, const bool *wanted)
{
    struct ct_sizes sizes = { 0 };
    for (uint32_t k = 0; k < r->f->n_results; k++) {
        type_id t = value_type(r->f, r->f->results[k]);
        if ((wanted && !wanted[k]) || !is_float(r->m, t)) continue;
        uint32_t name = r->f->values[r->f->results[k]].name;
        if (name) {
            const char *text = arena_printf(&r->b.arena, "ct_%s", module_text(r->m, name));
            name = module_string(r->m, text, strlen(text));
        }
        r->ct_params[k] = builder_param(&r->b, cotangent_type(r, &sizes, t), name);
    }
}

/* Which operands of the node are active; false: none. */
static bool active_operands(const struct reverse *r, const struct node *n, bool *active)
{
    bool any = false;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        active[k] = r->active[node_operands(r->f, n)[k]];
        any |= active[k];
    }
    return any;
}

static void forward_node(struct reverse *r, uint32_t i)
{
    const struct fn *f = r->f;
    const struct node *n = fn_node(f, i);
    const struct op_row *row = node_row(n);
    bool *active = ARENA_NEW(&r->b.arena, bool, n->n_operands);
    bool any = active_operands(r, n, active), wanted = false;
    for (uint32_t k = 0; k < n->n_results; k++) wanted |= r->wanted[n->results + k];
    const struct call_question *q = r->questions ? r->questions[i] : NULL;
    if (((!any || !wanted) && !q) || !row->vjp) {
        copier_node(&r->copy, n);
        return;
    }
    if (!row->vjp_forward) {
        copier_node(&r->copy, n);
        for (uint32_t k = 0; k < n->n_results; k++)
            r->active[n->results + k] = is_float(r->m, value_type(f, n->results + k));
        return;
    }
    struct vjp_forward v = { .copy = &r->copy,
                             .f = f,
                             .n = n,
                             .active = active,
                             .result_wanted = r->wanted + n->results,
                             .split_active = q ? q->q.active : active,
                             .split_wanted = q ? q->q.wanted : r->wanted + n->results,
                             .question = q,
                             .results = ARENA_NEW(&r->b.arena, val, n->n_results),
                             .result_active = r->active + n->results };
    struct place outer = r->b.place;
    r->b.place = n->place;
    row->vjp_forward(&v);
    r->b.place = outer;
    copier_bind(&r->copy, n, v.results);
    r->saved[i] = v.saved;
}

static void price_back(void *scope)
{
    struct price_scope *s = scope;
    s->m->price = s->around;
}

void price_begin(struct price_scope *s, struct module *m, struct price price)
{
    *s = (struct price_scope){ m, m->price };
    m->price = price;
    hop_cleanup_push(price_back, s);
}

void price_end(struct price_scope *s)
{
    hop_cleanup_pop(s);
    price_back(s);
}

/* Bodies inside have the price of the node that they belong to; what runs in the middle of a loop, or in a
 * function around another, is not early or late as a whole. */
static void forward_pass(struct reverse *r)
{
    struct price price = r->m->price;
    uint32_t n_early = (uint32_t)((uint64_t)r->f->n_nodes * price.early_part / 256);
    for (uint32_t i = 0; i < r->f->n_required; i++)
        builder_require(&r->b, copier_dim(&r->copy, r->f->required[i].a),
                        copier_dim(&r->copy, r->f->required[i].b), "requirement");
    r->forward_nodes = ARENA_NEW(&r->b.arena, uint32_t, r->f->n_nodes + 1);
    for (uint32_t i = 0; i < r->f->n_nodes; i++) {
        r->forward_nodes[i] = r->b.nodes.len;
        if (i == n_early) r->n_early = r->b.nodes.len;
        bool whole = r->f->n_nodes == 1 || node_row(fn_node(r->f, i))->loop;
        uint8_t level = i < n_early ? price.early_level : price.level;
        r->m->price = whole ? price : (struct price){ .level = level };
        forward_node(r, i);
    }
    r->forward_nodes[r->f->n_nodes] = r->b.nodes.len;
    r->m->price = price;
}

static void seed_result(struct reverse *r, uint32_t k, val ct)
{
    val v = r->f->results[k];
    if (!r->active[v]) return;
    type_id type = builder_type(&r->b, r->copy.values[v]);
    if (builder_type(&r->b, ct) != type) { /* sizes that f itself computes: the reshape compares them */
        struct type t = type_get(r->m, type);
        ct = emit_reshape(&r->b, ct, t.rank, t.dims);
    }
    r->ct[v] = add_cotangents(&r->b, r->ct[v], ct);
}

/* The cotangent of a value that is the same in all lanes is the sum over them: a rule that gives each lane
 * its own has left one out. */
static void check_cotangent(struct reverse *r, const struct node *n, val x, val ct)
{
    axis_set of = value_axes(r->m, value_type(r->f, x)), found = value_axes(r->m, builder_type(&r->b, ct));
    if (found & ~of)
        hop_throw(HOP_INTERNAL, "%s%s: a cotangent varies along %s, its value does not",
                  place_text(r->m, n->place), node_row(n)->name, axes_text(r->m, (axis_set)(found & ~of)));
}

static void backward_node(struct reverse *r, uint32_t i)
{
    const struct fn *f = r->f;
    const struct node *n = fn_node(f, i);
    bool any_ct = false;
    for (uint32_t k = 0; k < n->n_results; k++) any_ct |= r->ct[n->results + k] != VAL_NONE;
    if (!any_ct) return;
    bool *active = ARENA_NEW(&r->b.arena, bool, n->n_operands);
    if (!active_operands(r, n, active)) return;
    struct node_in in = copier_node_in(&r->copy, n);
    val *results = ARENA_NEW(&r->b.arena, val, n->n_results);
    val *operands = ARENA_NEW(&r->b.arena, val, n->n_operands);
    val *out = ARENA_NEW(&r->b.arena, val, n->n_operands);
    for (uint32_t k = 0; k < n->n_results; k++) results[k] = r->copy.values[n->results + k];
    for (uint32_t k = 0; k < n->n_operands; k++) {
        operands[k] = r->copy.values[node_operands(f, n)[k]];
        out[k] = VAL_NONE;
    }
    struct vjp v = { .b = &r->b,
                     .f = f,
                     .n = n,
                     .symbols = r->copy.symbols,
                     .attrs = in.attrs,
                     .operands = operands,
                     .active = active,
                     .results = results,
                     .ct = r->ct + n->results,
                     .out = out,
                     .saved = r->saved[i] };
    r->b.place = n->place;
    r->b.place.part = FINITE_GRADIENT;
    uint32_t first = r->b.nodes.len;
    node_row(n)->vjp(&v);
    tell_pullback(r, i, first);
    for (uint32_t k = 0; k < n->n_operands; k++) {
        val x = node_operands(f, n)[k];
        if (!active[k] || out[k] == VAL_NONE) continue;
        if (r->m->axes.len) check_cotangent(r, n, x, out[k]);
        r->ct[x] = add_cotangents(&r->b, r->ct[x], out[k]);
    }
}

static void backward_pass(struct reverse *r)
{
    struct place outer = r->b.place;
    for (uint32_t i = r->f->n_nodes; i-- > 0;) backward_node(r, i);
    r->b.place = outer;
}

/* ---- the transforms ---- */

static void check_wrt(struct module *m, const struct fn *f, const bool *wrt)
{
    for (uint32_t p = 0; p < f->n_params; p++)
        if (wrt[p] && !is_float(m, value_type(f, p)))
            hop_throw(
                HOP_INVALID,
                "cannot differentiate with respect to parameter %u (%%%s): expected a float type, found %s",
                p, module_text(m, f->values[p].name), type_text(m, f->symbols, value_type(f, p)));
}

/* Appends the cotangents of the parameters in wrt, zeros where none came. */
static uint32_t wrt_results(struct reverse *r, const bool *wrt, val *out, uint32_t n)
{
    for (uint32_t p = 0; p < r->f->n_params; p++) {
        if (!wrt[p]) continue;
        out[n] = r->ct[p] == VAL_NONE ? zeros_like(&r->b, r->copy.values[p]) : r->ct[p];
        if (r->m->axes.len) out[n] = builder_vary(&r->b, out[n], value_axes(r->m, value_type(r->f, p)));
        n++;
    }
    return n;
}

/* What makes gradients smaller is done to the function first, unless it is switched off. */
static uint32_t before_vjp(struct module *m, uint32_t fn) { return pack_loops(m, count_loops(m, fn, true)); }

static uint32_t *remembered_fn(struct module *m, uint32_t fn)
{
    return arena_copy(&m->arena, &fn, sizeof fn);
}

/* What stays between the two halves. */
static struct saved_list *halves_list(struct module *m, const struct fn *f, const struct vjp_halves *h)
{
    const struct fn *forward = module_fn(m, h->forward);
    struct saved_list *list = ARENA_ZNEW(&m->arena, struct saved_list, 1);
    struct saved_list *around = m->saved_now;
    uint32_t extra = f->n_results;
    list->symbols = forward->symbols;
    list->inside.data = h->saved->inside.data;
    list->inside.len = h->saved->inside.len;
    list->inside.cap = h->saved->inside.len;
    m->saved_now = list;
    for (uint32_t i = 0; i < h->n_residuals; i++) {
        val v;
        const char *why;
        bool there_anyway = true;
        if (h->source_param[i] != HOP_NONE) {
            v = h->source_param[i];
            why = "an argument";
        } else if (h->source_result[i] != HOP_NONE) {
            v = forward->results[h->source_result[i]];
            why = "a result";
        } else {
            v = forward->results[extra++];
            why = "dearer to compute again";
            there_anyway = false;
        }
        struct saved_value told = { .place = f->place,
                                    .name = forward->values[v].name,
                                    .type = value_type(forward, v),
                                    .rows = HOP_NONE,
                                    .there = there_anyway,
                                    .why = why,
                                    .forward = there_anyway ? NULL : forward,
                                    .made = v };
        saved_add(m, told);
    }
    m->saved_now = around;
    return list;
}

/* Does a result have a size that only the function's nodes know? */
static bool has_inner_result(struct module *m, const struct fn *f)
{
    uint32_t outer = f->n_outer_symbols;
    for (uint32_t k = 0; k < f->n_results; k++) {
        struct type t = type_get(m, value_type(f, f->results[k]));
        for (uint32_t i = 0; i < t.rank; i++)
            if (dim_mentions(m, t.dims[i], symbol_at_least, &outer)) return true;
    }
    return false;
}

uint32_t vjp_join(struct module *m, const struct fn *f, const struct vjp_halves *h, const bool *wrt, bool cts,
                  bool value)
{
    const struct fn *forward = module_fn(m, h->forward), *back = module_fn(m, h->backward);
    if (cts && has_inner_result(m, f)) return HOP_NONE;
    struct builder b;
    builder_begin(&b, m, f);
    b.transposed = true;
    b.label = module_label(m, fn_label(f), "vjp");
    val *params = ARENA_NEW(&b.arena, val, f->n_params);
    val *ct = ARENA_NEW(&b.arena, val, f->n_results);
    val *all = ARENA_NEW(&b.arena, val, forward->n_results);
    val *args = ARENA_NEW(&b.arena, val, back->n_params);
    val *out = ARENA_NEW(&b.arena, val, f->n_results + f->n_params);
    for (uint32_t p = 0; p < f->n_params; p++)
        params[p] = builder_param(&b, value_type(f, p), f->values[p].name);
    for (uint32_t k = 0; k < f->n_results; k++) {
        type_id t = value_type(f, f->results[k]);
        ct[k] = cts && is_float(m, t) ? builder_param(&b, t, 0) : VAL_NONE;
    }
    inline_function(&b, h->forward, NULL, params, all);
    uint32_t extra = f->n_results, n = h->n_residuals, from = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (h->source_param[i] != HOP_NONE) args[i] = params[h->source_param[i]];
        else if (h->source_result[i] != HOP_NONE) args[i] = all[h->source_result[i]];
        else args[i] = all[extra++];
    }
    if (n && h->guarded) {
        val first = emit(&b, OP_barrier, args, n, NULL);
        for (uint32_t i = 0; i < n; i++) args[i] = first + i;
    }
    for (uint32_t k = 0; k < f->n_results; k++)
        if (h->ct_result[k]) args[n++] = ct[k] != VAL_NONE ? ct[k] : emit_full_like(&b, all[k], k == 0);
    /* Sizes of residuals are found from them. */
    dim *dims = ARENA_NEW(&b.arena, dim, back->n_outer_symbols);
    for (uint32_t k = 0; k < back->n_outer_symbols; k++)
        dims[k] = k < f->n_outer_symbols ? dim_symbol(m, k) : HOP_NONE;
    struct region_in region = { h->backward, args, n, dims };
    struct attr attrs[INVOKE_ATTRS] = { A_NONE };
    val found = builder_node(&b, &(struct node_in){ .op = OP_invoke_subgraph,
                                                    .groups = (const uint32_t[1]){ 0 },
                                                    .attrs = attrs,
                                                    .regions = &region,
                                                    .n_regions = 1 });
    for (n = 0; n < f->n_results && (cts || value); n++) out[n] = all[n];
    for (uint32_t p = 0; p < f->n_params; p++) {
        val given = h->ct_param[p] ? found + from++ : VAL_NONE;
        if (wrt[p]) out[n++] = given != VAL_NONE ? given : zeros_like(&b, params[p]);
    }
    return prune_function(m, builder_finish(&b, out, n), NULL);
}

/* The function and its gradient in two halves that vjp_join has put together. HOP_NONE: no tag asks for it.
 */
static uint32_t joined_halves(struct module *m, const struct fn *f, const bool *wrt, const bool *wanted,
                              bool cts, bool value)
{
    if (!partition_recomputes(f)) return HOP_NONE;
    const struct vjp_halves *h = vjp_split_whole(m, f->id, wrt, wanted);
    uint32_t joined = h->guarded ? vjp_join(m, f, h, wrt, cts, value) : HOP_NONE;
    if (joined != HOP_NONE) m->saved_last = halves_list(m, f, h);
    return joined;
}

uint32_t vjp_function(struct module *m, uint32_t fn, const bool *wrt)
{
    return vjp_of_some(m, fn, wrt, NULL);
}

uint32_t vjp_of_some(struct module *m, uint32_t fn, const bool *wrt, const bool *wanted)
{
    const struct fn *f = module_fn(m, fn);
    if (f->global) return global_vjp(m, fn, wrt, wanted);
    uint32_t *known = wanted ? NULL : transform_recall(m, MEMO_VJP, fn, 0, wrt, f->n_params);
    if (known) return *known;
    check_wrt(m, f, wrt);
    bool *all = ARENA_NEW(&m->arena, bool, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) all[k] = !wanted || wanted[k];
    uint32_t joined = wanted ? HOP_NONE : joined_halves(m, f, wrt, all, true, true);
    if (joined != HOP_NONE) {
        transform_remember(m, MEMO_VJP, fn, 0, wrt, f->n_params, remembered_fn(m, joined));
        return joined;
    }
    struct reverse r;
    f = module_fn(m, before_vjp(m, fn));
    reverse_begin(&r, m, f, wrt, wanted);
    add_ct_params(&r, wanted);
    forward_pass(&r);
    tell_reads(&r);
    for (uint32_t k = 0; k < f->n_results; k++)
        if (r.ct_params[k] != VAL_NONE) seed_result(&r, k, r.ct_params[k]);
    backward_pass(&r);
    val *results = ARENA_NEW(&r.b.arena, val, f->n_results + f->n_params);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = r.copy.values[f->results[k]];
    uint32_t n = wrt_results(&r, wrt, results, f->n_results);
    list_end(&r);
    uint32_t out = prune_function(m, builder_finish(&r.b, results, n), NULL);
    if (!wanted) transform_remember(m, MEMO_VJP, fn, 0, wrt, f->n_params, remembered_fn(m, out));
    return out;
}

uint32_t grad_function(struct module *m, uint32_t fn, const bool *wrt, bool value)
{
    const struct fn *f = module_fn(m, fn);
    if (f->global) return global_grad(m, fn, wrt, value);
    uint32_t *known = transform_recall(m, MEMO_GRAD, fn, value, wrt, f->n_params);
    if (known) return *known;
    check_wrt(m, f, wrt);
    struct type first = f->n_results ? type_get(m, value_type(f, f->results[0])) : (struct type){ 0 };
    if (!f->n_results || first.rank || !dtype_is_float((enum dtype)first.dtype))
        hop_throw(HOP_INVALID, "gradient of @%s: its first result must be a float scalar, found %s",
                  module_text(m, f->name),
                  f->n_results ? type_text(m, f->symbols, value_type(f, f->results[0])) : "no result");
    struct reverse r;
    bool *wanted = ARENA_ZNEW(&m->arena, bool, f->n_results);
    wanted[0] = true;
    uint32_t joined = joined_halves(m, f, wrt, wanted, false, value);
    if (joined != HOP_NONE) {
        transform_remember(m, MEMO_GRAD, fn, value, wrt, f->n_params, remembered_fn(m, joined));
        return joined;
    }
    f = module_fn(m, before_vjp(m, fn));
    reverse_begin(&r, m, f, wrt, wanted);
    forward_pass(&r);
    tell_reads(&r);
    if (r.active[f->results[0]]) seed_result(&r, 0, emit_full(&r.b, (enum dtype)first.dtype, 1, 0, NULL));
    backward_pass(&r);
    val *results = ARENA_NEW(&r.b.arena, val, f->n_results + f->n_params);
    uint32_t n = 0;
    if (value)
        for (; n < f->n_results; n++) results[n] = r.copy.values[f->results[n]];
    n = wrt_results(&r, wrt, results, n);
    list_end(&r);
    uint32_t out = prune_function(m, builder_finish(&r.b, results, n), NULL);
    transform_remember(m, MEMO_GRAD, fn, value, wrt, f->n_params, remembered_fn(m, out));
    return out;
}

void vjp_active_results(struct module *m, uint32_t fn, const bool *active, bool *results)
{
    const struct fn *f = module_fn(m, fn);
    const bool *known = transform_recall(m, MEMO_ACTIVE, fn, 0, active, f->n_params);
    if (!known) {
        struct reverse r; /* built and thrown away: rows decide what is active by building */
        f = module_fn(m, before_vjp(m, fn));
        reverse_begin(&r, m, f, active, NULL);
        forward_pass(&r);
        bool *found = ARENA_ZNEW(&m->arena, bool, f->n_results);
        for (uint32_t k = 0; k < f->n_results; k++) found[k] = r.active[f->results[k]];
        list_end(&r);
        builder_abandon(&r.b);
        transform_remember(m, MEMO_ACTIVE, fn, 0, active, f->n_params, found);
        known = found;
    }
    if (f->n_results) memcpy(results, known, f->n_results);
}

/* A function that calls others several times keeps what each of these calls keeps, and so on inwards: far
 * more than it has nodes. Then it is run again. */
static bool keeps_too_much(const struct fn *f, const struct vjp_halves *h)
{
    enum { MANY = 256, PER_NODE = 16 };
    return h->n_residuals > MANY && h->n_residuals / PER_NODE > f->n_nodes;
}

/* How a function is cut: the fields are those of struct joint. */
struct split_how {
    uint32_t n_costly;
    bool recompute, ends, whole;
};

static const struct vjp_halves *split(struct module *m, uint32_t fn, const bool *active, const bool *wanted,
                                      struct split_how how)
{
    uint64_t word = (uint64_t)how.n_costly << 3 | (uint64_t)how.ends << 2 | (uint64_t)how.whole << 1 |
                    how.recompute;
    const struct fn *f = module_fn(m, fn);
    uint32_t n_mask = f->n_params + f->n_results;
    bool *mask = ARENA_NEW(&m->arena, bool, n_mask); /* not in scratch: kept across building */
    if (f->n_params) memcpy(mask, active, f->n_params);
    if (f->n_results) memcpy(mask + f->n_params, wanted, f->n_results);
    struct vjp_halves *known = transform_recall(m, MEMO_SPLIT, fn, word, mask, n_mask);
    if (known) return known;
    struct reverse r;
    f = module_fn(m, before_vjp(m, fn));
    reverse_begin(&r, m, f, active, wanted);
    add_ct_params(&r, wanted);
    forward_pass(&r);
    uint32_t n_forward = r.b.nodes.len, n_results = 0, n_ct = 0;
    for (uint32_t k = 0; k < f->n_results; k++)
        if (r.ct_params[k] != VAL_NONE) seed_result(&r, k, r.ct_params[k]);
    backward_pass(&r);
    struct vjp_halves *out = ARENA_ZNEW(&m->arena, struct vjp_halves, 1);
    out->ct_param = ARENA_ZNEW(&m->arena, bool, f->n_params);
    out->ct_result = ARENA_ZNEW(&m->arena, bool, f->n_results);
    val *results = ARENA_NEW(&r.b.arena, val, f->n_results + f->n_params);
    uint32_t *ct_of = ARENA_NEW(&m->arena, uint32_t, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) {
        results[n_results++] = r.copy.values[f->results[k]];
        if (r.ct_params[k] != VAL_NONE) ct_of[n_ct++] = k;
    }
    for (uint32_t p = 0; p < f->n_params; p++)
        if (r.active[p] && r.ct[p] != VAL_NONE) {
            out->ct_param[p] = true;
            results[n_results++] = r.ct[p];
        }
    list_end(&r);
    out->saved = r.list;
    struct joint joint = { .fn = builder_finish(&r.b, results, n_results),
                           .n_forward = n_forward,
                           .n_early = r.n_early,
                           .n_x = f->n_params,
                           .n_y = f->n_results,
                           .ct_of = ct_of,
                           .n_outer_symbols = f->n_outer_symbols,
                           .n_costly = how.n_costly,
                           .recompute = how.recompute,
                           .ends = how.ends,
                           .whole = how.whole };
    partition_joint(m, f, &joint, out);
    if (!how.recompute && !how.whole && keeps_too_much(f, out)) {
        how.recompute = true;
        *out = *split(m, fn, active, wanted, how);
        out->guarded = true;
    }
    transform_remember(m, MEMO_SPLIT, fn, word, mask, n_mask, out);
    return out;
}

const struct vjp_halves *vjp_split(struct module *m, uint32_t fn, const bool *active, const bool *wanted,
                                   uint32_t n_costly, bool recompute)
{
    return split(m, fn, active, wanted, (struct split_how){ .n_costly = n_costly, .recompute = recompute });
}
const struct vjp_halves *vjp_split_ends(struct module *m, uint32_t fn, const bool *active, const bool *wanted)
{
    return split(m, fn, active, wanted, (struct split_how){ .recompute = true, .ends = true });
}
const struct vjp_halves *vjp_split_whole(struct module *m, uint32_t fn, const bool *active,
                                         const bool *wanted)
{
    return split(m, fn, active, wanted, (struct split_how){ .whole = true });
}
