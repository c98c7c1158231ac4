/* Cutting off what is computed once. First every `once` region that a body holds and that is made of
 * constants alone is raised out of calls, loops and branches, to the function itself; then the function is
 * cut in two: what these regions are made of, and the rest. A value is constant if pure nodes make it of
 * constant parameters, with sizes that constant parameters tell. */
#include "transform/once.h"
#include "transform/pass.h"

static const uint64_t MEMO_RAISED = 0x6f6e6365;

struct once_walk {
    struct module *m;
    struct arena *arena;
    uint8_t *contains; /* per function: 0 not known, 1 no, 2 it or a body of it has a region to be kept */
};

/* A function as it stands: what is constant in it. */
struct staged {
    const struct fn *f;
    bool *values, *symbols;    /* constant? */
    const struct node *inside; /* whose body it is; NULL: the function itself */
    uint32_t n_own;            /* its last parameters, which the node gives it as they are around */
    bool strict;               /* its numbers are, and those around are not */
};

static enum once once_of(const struct module *m, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    return row->once ? row->once(m, f, n) : ONCE_NO;
}

static bool contains_once(struct once_walk *w, uint32_t fn)
{
    if (w->contains[fn]) return w->contains[fn] == 2;
    const struct fn *f = module_fn(w->m, fn);
    bool found = false;
    hop_check_stack();
    for (uint32_t i = 0; i < f->n_nodes && !found; i++) found = once_of(w->m, f, fn_node(f, i)) != ONCE_NO;
    for (uint32_t r = 0; r < f->n_regions && !found; r++) found = contains_once(w, f->regions[r].fn);
    w->contains[fn] = found ? 2 : 1;
    return found;
}

/* ---- what is constant ---- */

struct symbol_test {
    const bool *constant;
    uint32_t odd; /* one that is not, HOP_NONE */
};
static void test_symbol(void *ctx, uint32_t symbol)
{
    struct symbol_test *t = ctx;
    if (!t->constant[symbol]) t->odd = symbol;
}

/* A symbol that a node mentions and that is not constant, HOP_NONE. */
static uint32_t odd_symbol(const struct module *m, const struct fn *f, const struct node *n,
                           const bool *symbols)
{
    struct symbol_test test = { symbols, HOP_NONE };
    struct symbol_walk walk = { test_symbol, &test };
    node_symbols(m, f, n, &walk);
    result_symbols(m, f, n, &walk);
    return test.odd;
}

/* What is raised out of a body is computed whether the body runs or not. */
static bool may_stage(const struct module *m, const struct staged *s, const struct node *n)
{
    effect_set effects = node_effects(m, s->f, n);
    if (node_binds_symbols(s->f, n) || s->strict) return false;
    if (!s->inside) return effects == EFFECT_NONE || (effects == EFFECT_CHECK && once_of(m, s->f, n));
    return effects == EFFECT_NONE && !may_not_end(m, s->f, n);
}

static bool is_constant(const struct module *m, const struct staged *s, const struct node *n)
{
    for (uint32_t k = 0; k < n->n_operands; k++)
        if (!s->values[node_operands(s->f, n)[k]]) return false;
    return may_stage(m, s, n) && odd_symbol(m, s->f, n, s->symbols) == HOP_NONE;
}

/* Parameters and outer symbols are known. */
static void find_constants(const struct module *m, struct staged *s)
{
    const struct fn *f = s->f;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        bool constant = is_constant(m, s, n);
        for (uint32_t k = 0; k < n->n_results; k++) s->values[n->results + k] = constant;
    }
}

static struct staged staged_new(struct arena *a, const struct fn *f)
{
    return (struct staged){ .f = f,
                            .values = ARENA_ZNEW(a, bool, f->n_values),
                            .symbols = ARENA_ZNEW(a, bool, f->n_symbols) };
}

/* The function of region r of n, another one than the node's in `g`: its own operands are what they are
 * around, whatever else it is given changes. */
static struct staged staged_body(struct arena *a, const struct module *m, const struct staged *around,
                                 const struct node *n, uint32_t r, uint32_t g)
{
    const struct region *region = node_region(around->f, n, r);
    struct staged s = staged_new(a, module_fn(m, g));
    uint32_t first = s.f->n_params - region->n_operands;
    s.inside = n;
    s.n_own = region->n_operands;
    s.strict = around->strict || (node_row(n)->strict && node_row(n)->strict(m, around->f, n));
    for (uint32_t i = 0; i < region->n_operands; i++)
        s.values[first + i] = around->values[node_region_operands(around->f, n, r)[i]];
    for (uint32_t k = 0; k < region->n_dims; k++) {
        struct symbol_test test = { around->symbols, HOP_NONE };
        dim_symbols(m, region->dims[k], &(struct symbol_walk){ test_symbol, &test });
        s.symbols[k] = test.odd == HOP_NONE;
    }
    find_constants(m, &s);
    return s;
}

/* ---- why it is not ---- */

static void add_param(struct text *out, const struct module *m, const struct staged *s, uint32_t p)
{
    const struct fn *f = s->f;
    if (!s->inside) {
        text_add(out, "parameter %%%.100s is not marked constant", fn_param_name(m, f, p));
        return;
    }
    const char *name = node_row(s->inside)->name;
    bool own = p >= f->n_params - s->n_own;
    text_add(out, "%%%.100s, ", fn_param_name(m, f, p));
    if (own) text_add(out, "which the body of %s is given, is not constant", name);
    else text_add(out, "is another one in each step of %s", name);
}

/* Says why a value is not constant: the first thing found that it is made of. */
static void say_why(struct text *out, const struct module *m, const struct staged *s, val v)
{
    const struct fn *f = s->f;
    for (;;) {
        if (f->values[v].node == NODE_NONE) {
            add_param(out, m, s, v);
            return;
        }
        const struct node *n = fn_node(f, f->values[v].node);
        uint32_t symbol = odd_symbol(m, f, n, s->symbols);
        val from = VAL_NONE;
        for (uint32_t k = 0; k < n->n_operands && from == VAL_NONE; k++)
            if (!s->values[node_operands(f, n)[k]]) from = node_operands(f, n)[k];
        if (from == VAL_NONE) {
            if (symbol != HOP_NONE && symbol < f->n_outer_symbols)
                text_add(out, "no constant parameter tells the size %s",
                         module_text(m, f->symbols[symbol].name));
            else text_add(out, "%s is done at every run", node_row(n)->name);
            return;
        }
        v = from;
    }
}

static _Noreturn void refuse(struct module *m, const struct staged *s, const struct node *n)
{
    struct text why = { .arena = &m->scratch };
    const struct fn *f = s->f;
    val odd = VAL_NONE;
    for (uint32_t k = 0; k < n->n_operands && odd == VAL_NONE; k++)
        if (!s->values[node_operands(f, n)[k]]) odd = node_operands(f, n)[k];
    uint32_t symbol = odd_symbol(m, f, n, s->symbols);
    if (odd != VAL_NONE) say_why(&why, m, s, odd);
    else if (node_effects(m, f, n) & ~EFFECT_CHECK)
        text_str(&why, "its body prints, calls back or uses objects, which is done at every run");
    else if (node_binds_symbols(f, n)) text_str(&why, "only a run of it knows the sizes of its results");
    else if (symbol != HOP_NONE && symbol < f->n_outer_symbols)
        text_add(&why, "no constant parameter tells the size %s", module_text(m, f->symbols[symbol].name));
    else if (s->strict)
        text_str(&why,
                 "it stands in a region of strict numbers, which it would leave (put that inside of it)");
    else if (s->inside)
        text_add(&why, "it stands in a body of %s, which may not run, and it may fail or not end",
                 node_row(s->inside)->name);
    hop_throw(
        HOP_INVALID,
        "%sregion: once: what it gives is kept from run to run, so it can be made of constant parameters "
        "alone, but %s; parameters are marked constant where the program is compiled (constant = \"w\" in "
        "C, constant_argnames in Python, --constant); otherwise = \"body\" has it done at every run "
        "where it is not constant%s",
        place_text(m, n->place), why.data, place_stack(m, n->place));
}

static void check_constant(struct module *m, const struct staged *s, const struct node *n)
{
    if (n->n_results && once_of(m, s->f, n) == ONCE_OR_ERROR && !s->values[n->results]) refuse(m, s, n);
}

/* ---- out of bodies ---- */

static bool is_kept(const struct module *m, const struct staged *s, const struct node *n)
{
    return n->n_results && once_of(m, s->f, n) != ONCE_NO && s->values[n->results];
}

/* The body with the results of its constant regions as further parameters, which come last. */
static uint32_t without_kept(struct module *m, const struct staged *s)
{
    struct builder b;
    struct copier c;
    const struct fn *f = s->f;
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; is_kept(m, s, n) && k < n->n_results; k++) {
            val v = n->results + k;
            c.values[v] = builder_param(&b, copier_type(&c, value_type(f, v)), f->values[v].name);
        }
    }
    copy_requires(&c);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        b.place = fn_node(f, i)->place;
        if (!is_kept(m, s, fn_node(f, i))) copier_node(&c, fn_node(f, i));
    }
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

static uint32_t raise_function(struct once_walk *w, const struct staged *s);

/* Region r of n with what it keeps computed around; false: it keeps nothing that can be. */
static bool raise_region(struct once_walk *w, struct copier *c, const struct staged *around,
                         const struct node *n, uint32_t r, struct region_in *region)
{
    struct module *m = w->m;
    struct arena *a = &c->b->arena;
    if (!contains_once(w, region->fn)) return false;
    struct staged s = staged_body(w->arena, m, around, n, r, region->fn);
    uint32_t raised = raise_function(w, &s);
    if (raised != region->fn) s = staged_body(w->arena, m, around, n, r, raised);
    vec(val) own = { 0 };
    for (uint32_t i = 0; i < region->n_operands; i++) vec_push(a, &own, region->operands[i]);
    struct copier inner = region_copier_of(c, n, r, s.f);
    for (uint32_t i = 0; i < s.f->n_nodes; i++) {
        const struct node *once = fn_node(s.f, i);
        check_constant(m, &s, once);
        for (uint32_t k = 0; is_kept(m, &s, once) && k < once->n_results; k++)
            vec_push(a, &own, copy_cone(&inner, once->results + k));
    }
    bool changed = raised != region->fn || own.len > region->n_operands;
    region->fn = own.len > region->n_operands ? without_kept(m, &s) : raised;
    region->operands = own.data;
    region->n_operands = own.len;
    return changed;
}

static bool has_rules(const struct fn *f, const struct node *n)
{
    for (uint32_t i = 0; i < node_row(n)->sig.n_attrs; i++)
        if (node_attr(f, n, i)->kind == ATTR_FN) return true;
    return false;
}

/* A node whose bodies keep something, in c's builder; false: it has none. */
static bool raise_node(struct once_walk *w, struct copier *c, const struct staged *s, const struct node *n)
{
    bool any = false;
    if (!n->n_regions || once_of(w->m, s->f, n) != ONCE_NO) return false;
    struct node_in in = copier_node_in(c, n);
    struct region_in *regions = arena_copy(&c->b->arena, in.regions, n->n_regions * sizeof *regions);
    for (uint32_t r = 0; r < n->n_regions; r++) any |= raise_region(w, c, s, n, r, &regions[r]);
    if (!any) return false;
    in.regions = regions;
    val *results = ARENA_NEW(&c->b->arena, val, n->n_results);
    if (has_rules(s->f, n)) { /* an executable is not differentiated: the rules go with the transforms */
        copier_call(c, n, in, NULL, results);
    } else {
        val first = builder_node(c->b, &in);
        for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
    }
    copier_bind(c, n, results);
    return true;
}

/* The same function, with the constant regions of all bodies in front of the nodes that have them. Of a body
 * that is shared the work is done once for each set of what is constant. */
static uint32_t raise_function(struct once_walk *w, const struct staged *s)
{
    const struct fn *f = s->f;
    uint64_t key[4] = { MEMO_RAISED, f->id }, hash[2];
    union memo_value known;
    hash_bytes128(s->values, f->n_values * sizeof *s->values, key + 2);
    hash_bytes128(s->symbols, f->n_symbols * sizeof *s->symbols, hash);
    key[2] ^= hash[0];
    key[3] ^= hash[1];
    if (memo_get(w->m, key, &known)) return known.fn;
    hop_check_stack();
    struct builder b;
    struct copier c;
    bool any = false;
    builder_begin(&b, w->m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    copy_requires(&c);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        b.place = n->place;
        if (raise_node(w, &c, s, n)) any = true;
        else copier_node(&c, n);
    }
    uint32_t out = f->id;
    if (any) {
        val *results = ARENA_NEW(&b.arena, val, f->n_results);
        for (uint32_t k = 0; k < f->n_results; k++) results[k] = c.values[f->results[k]];
        out = builder_finish(&b, results, f->n_results);
    } else {
        builder_abandon(&b);
    }
    memo_put(w->m, key, (union memo_value){ .fn = out });
    return out;
}

/* ---- the cut ---- */

struct cut {
    struct module *m;
    struct arena *arena;
    struct staged s;
    bool *kept;                  /* per value: init gives it to main */
    const bool *live;            /* per node: main needs it */
    bool *node, *value, *symbol; /* what init needs */
};

static void need_symbol(void *ctx, uint32_t symbol) { ((struct cut *)ctx)->symbol[symbol] = true; }

/* Does a dim of parameter p say what the symbol is? */
static bool tells(const struct module *m, const struct fn *f, uint32_t p, uint32_t symbol)
{
    struct type t = type_get(m, value_type(f, p));
    uint32_t s;
    for (uint32_t i = 0; i < t.rank; i++)
        if (dim_is_symbol(m, t.dims[i], &s) && s == symbol) return true;
    return false;
}

/* A constant parameter that says what the symbol is; one that is read anyway if there is one. */
static void need_teller(struct cut *c, uint32_t symbol)
{
    const struct fn *f = c->s.f;
    uint32_t found = HOP_NONE;
    for (uint32_t p = 0; p < f->n_params; p++) {
        if (!c->s.values[p] || !tells(c->m, f, p, symbol)) continue;
        if (c->value[p]) return;
        if (found == HOP_NONE) found = p;
    }
    c->value[found] = true;
}

static void find_needs(struct cut *c)
{
    const struct fn *f = c->s.f;
    struct symbol_walk walk = { need_symbol, c };
    for (uint32_t v = 0; v < f->n_values; v++) c->value[v] = c->kept[v];
    for (uint32_t i = f->n_nodes; i-- > 0;) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; k < n->n_results; k++) c->node[i] |= c->value[n->results + k];
        if (!c->node[i]) continue;
        for (uint32_t k = 0; k < n->n_operands; k++) c->value[node_operands(f, n)[k]] = true;
        node_symbols(c->m, f, n, &walk);
        result_symbols(c->m, f, n, &walk);
    }
    /* The sizes of what tells a size are needed as well. */
    for (uint32_t before = HOP_NONE, now = 0; now != before;) {
        before = now;
        for (uint32_t p = 0; p < f->n_params; p++)
            if (c->value[p]) type_symbols(c->m, value_type(f, p), &walk);
        for (uint32_t k = 0; k < f->n_outer_symbols; k++)
            if (c->symbol[k]) need_teller(c, k);
        now = 0;
        for (uint32_t p = 0; p < f->n_params; p++) now += c->value[p];
    }
}

static void put_body(struct copier *c, const struct node *n)
{
    const val *own = node_region_operands(c->f, n, 0);
    uint32_t n_args = node_region(c->f, n, 0)->n_operands;
    val *arguments = ARENA_NEW(&c->b->arena, val, n_args);
    val *results = ARENA_NEW(&c->b->arena, val, n->n_results);
    for (uint32_t i = 0; i < n_args; i++) arguments[i] = c->values[own[i]];
    inline_region(c, n, 0, arguments, results);
    copier_bind(c, n, results);
}

static void put_node(const struct module *m, struct copier *c, const struct node *n)
{
    c->b->place = n->place;
    if (once_of(m, c->f, n) != ONCE_NO) put_body(c, n);
    else copier_node(c, n);
}

static uint32_t build_init(struct cut *c, struct once_split *out)
{
    struct builder b;
    struct copier copy;
    const struct fn *f = c->s.f;
    uint32_t *inputs = ARENA_NEW(c->arena, uint32_t, f->n_params), n = 0;
    builder_begin(&b, c->m, NULL);
    b.fn_place = f->place;
    b.label = module_label(c->m, fn_label(f), "_init");
    copier_begin(&copy, &b, f);
    for (uint32_t k = 0; k < f->n_outer_symbols; k++) {
        const struct symbol *y = &f->symbols[k];
        copy.symbols[k] = c->symbol[k] ? dim_symbol(c->m, builder_symbol(&b, y->name, y->lo, y->hi)) : 0;
    }
    for (uint32_t p = 0; p < f->n_params; p++) {
        if (!c->value[p]) continue;
        copy.values[p] = builder_param(&b, copier_type(&copy, value_type(f, p)), f->values[p].name);
        inputs[n++] = p;
    }
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (c->node[i]) put_node(c->m, &copy, fn_node(f, i));
    val *results = ARENA_NEW(&b.arena, val, f->n_values);
    out->n_kept = 0;
    for (val v = 0; v < f->n_values; v++)
        if (c->kept[v]) results[out->n_kept++] = copy.values[v];
    out->inputs = inputs;
    out->n_inputs = n;
    return builder_finish(&b, results, out->n_kept);
}

static uint32_t build_main(struct cut *c)
{
    struct builder b;
    struct copier copy;
    const struct fn *f = c->s.f;
    builder_begin(&b, c->m, f);
    copier_begin(&copy, &b, f);
    copier_params(&copy);
    for (val v = 0, n = 0; v < f->n_values; v++) {
        if (!c->kept[v]) continue;
        const char *numbered = arena_printf(c->arena, "kept%u", n++);
        uint32_t name = f->values[v].name;
        if (!name) name = module_string(c->m, numbered, strlen(numbered));
        copy.values[v] = builder_param(&b, copier_type(&copy, value_type(f, v)), name);
    }
    copy_requires(&copy);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (c->live[i] && !is_kept(c->m, &c->s, fn_node(f, i))) put_node(c->m, &copy, fn_node(f, i));
    val *results = ARENA_NEW(&b.arena, val, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = copy.values[f->results[k]];
    return builder_finish(&b, results, f->n_results);
}

/* What main reads of the regions' results; of one that checks, all, so that it is not forgotten. */
static bool find_kept(struct cut *c)
{
    const struct fn *f = c->s.f;
    bool *given = ARENA_ZNEW(c->arena, bool, f->n_values), any = false;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; is_kept(c->m, &c->s, n) && k < n->n_results; k++) given[n->results + k] = true;
    }
    struct liveness live = live_values(c->arena, c->m, f, (struct needs){ .given = given });
    c->live = live.node;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (!is_kept(c->m, &c->s, n)) continue;
        bool checks = node_effects(c->m, f, n) != EFFECT_NONE;
        for (uint32_t k = 0; k < n->n_results; k++) {
            c->kept[n->results + k] = checks || live.value[n->results + k];
            any |= c->kept[n->results + k];
        }
    }
    return any;
}

static struct staged staged_entry(struct arena *a, const struct module *m, const struct fn *f,
                                  const struct once_marks *marks)
{
    struct staged s = staged_new(a, f);
    for (uint32_t p = 0; p < f->n_params; p++)
        s.values[p] = marks->all || (marks->params && marks->params[p]);
    for (uint32_t k = 0; k < f->n_outer_symbols; k++)
        for (uint32_t p = 0; p < f->n_params; p++) s.symbols[k] |= s.values[p] && tells(m, f, p, k);
    find_constants(m, &s);
    return s;
}

bool once_split(struct arena *a, struct module *m, uint32_t fn, const struct once_marks *marks,
                struct once_split *out)
{
    if (!m->has_once) return false;
    struct once_walk w = { m, a, ARENA_ZNEW(a, uint8_t, m->fns.len) };
    if (!contains_once(&w, fn)) return false;
    struct staged s = staged_entry(a, m, module_fn(m, fn), marks);
    const uint32_t *updates = fn_updates(a, s.f);
    s = staged_entry(a, m, module_fn(m, raise_function(&w, &s)), marks);
    const struct fn *f = s.f;
    for (uint32_t i = 0; i < f->n_nodes; i++) check_constant(m, &s, fn_node(f, i));
    struct cut c = { .m = m,
                     .arena = a,
                     .s = s,
                     .kept = ARENA_ZNEW(a, bool, f->n_values),
                     .node = ARENA_ZNEW(a, bool, f->n_nodes),
                     .value = ARENA_ZNEW(a, bool, f->n_values),
                     .symbol = ARENA_ZNEW(a, bool, f->n_symbols) };
    if (!find_kept(&c)) return false;
    find_needs(&c);
    out->init = build_init(&c, out);
    out->main = module_with_updates(m, build_main(&c), updates);
    return true;
}
