/* Checks a finished function against its rows and itself, independently of the builder that made it: every
 * stored fact is derived again and compared. Throws on the first difference. */
#include "ir/axes.h"
#include "ir/mesh.h"
#include "ir/text.h"

struct verifier {
    struct module *m;
    const struct fn *f;
    struct arena arena;
    const struct node *n; /* the node being looked at, NULL: the function */
    val defined;          /* values below are defined */
    uint32_t symbols;     /* symbols below are bound */
    vec(struct require) checked;
    effect_set effects;
    axis_set axes, exchanged;
};

static _Noreturn void wrong(struct verifier *v, const char *format, ...) HOP_PRINTF(2, 3);
static _Noreturn void wrong(struct verifier *v, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *name = fn_label(v->f) ? module_text(v->m, fn_label(v->f)) : "a body";
    if (v->n)
        hop_throw(HOP_INVALID, "%sverify: %s%s, node %u (%s): %s", place_text(v->m, v->n->place),
                  fn_label(v->f) ? "@" : "", name, (uint32_t)(v->n - v->f->nodes),
                  v->n->op < OP_COUNT && op_table[v->n->op] ? op_table[v->n->op]->name : "?", text);
    hop_throw(HOP_INVALID, "%sverify: %s%s: %s", place_text(v->m, v->f->place), fn_label(v->f) ? "@" : "",
              name, text);
}

static bool beyond(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

static void check_dim(struct verifier *v, dim d, const char *what)
{
    if (!(d & DIM_TABLE)) return;
    if ((d & ~DIM_TABLE) >= v->m->dims.len) wrong(v, "%s: no such dim", what);
    if (dim_mentions(v->m, d, beyond, &v->symbols))
        wrong(v, "%s mentions a symbol that is not bound there", what);
}

static void check_type(struct verifier *v, type_id t, const char *what)
{
    if (t >= v->m->types.len) wrong(v, "%s: no such type", what);
    struct type type = type_get(v->m, t);
    for (uint32_t i = 0; i < type.rank; i++) check_dim(v, type.dims[i], what);
}

static void check_attr(struct verifier *v, const struct attr_spec *spec, const struct attr *a)
{
    static const char *const kinds[] = { "nothing", "a flag",     "an integer", "a real",   "integers",
                                         "a dim",   "dims",       "a dtype",    "a string", "a constant",
                                         "a word",  "a function", "names",      "a number" };
    if (a->kind == ATTR_ABSENT) {
        if (spec->required) wrong(v, "attribute '%s' is missing", spec->name);
        return;
    }
    bool scalar = spec->kind == ATTR_SCALAR && (a->kind == ATTR_INT || a->kind == ATTR_REAL);
    if (a->kind != spec->kind && !scalar)
        wrong(v, "attribute '%s': expected %s, found %s", spec->name, kinds[spec->kind],
              a->kind < HOP_COUNT(kinds) ? kinds[a->kind] : "?");
    if (a->kind == ATTR_DIM) check_dim(v, (dim)a->i, spec->name);
    for (uint32_t i = 0; a->kind == ATTR_DIMS && i < a->n; i++) check_dim(v, a->list[i], spec->name);
    if (a->kind == ATTR_DTYPE && (uint64_t)a->i >= DT_COUNT)
        wrong(v, "attribute '%s': no such dtype", spec->name);
    if (a->kind == ATTR_STRING && (uint64_t)a->i >= v->m->strings.len)
        wrong(v, "attribute '%s': no such string", spec->name);
    if (a->kind == ATTR_CONST && (uint64_t)a->i >= v->m->constants.len)
        wrong(v, "attribute '%s': no such constant", spec->name);
    for (uint32_t i = 0; a->kind == ATTR_NAMED && i < a->n; i++)
        if (a->list[i] >= v->m->strings.len) wrong(v, "attribute '%s': no such string", spec->name);
    if (a->kind == ATTR_FN && (uint64_t)a->i >= v->f->id)
        wrong(v, "attribute '%s': no such function, or one that is made later", spec->name);
    if (a->kind == ATTR_WORD) {
        int64_t n = 0;
        while (spec->words && spec->words[n]) n++;
        if (a->i < 0 || a->i >= n) wrong(v, "attribute '%s': no such word", spec->name);
    }
}

static void check_regions(struct verifier *v, struct infer *in, const struct op_row *row)
{
    uint32_t at = 0;
    for (uint32_t g = 0; g < row->sig.n_groups; g++) at += in->groups[g];
    for (uint32_t r = 0; r < v->n->n_regions; r++) {
        const struct region *region = &in->regions[r];
        if (region->fn >= v->f->id)
            wrong(v,
                  "region %u: a body must be finished before the function that uses it, so that calls form "
                  "no cycle",
                  r);
        if (region->operands != at || region->n_operands > v->n->n_operands - at)
            wrong(v, "region %u: its operands are not the node's next ones", r);
        at += region->n_operands;
        const struct fn *g = module_fn(v->m, region->fn);
        if (region->n_dims != g->n_outer_symbols)
            wrong(v, "region %u gives %u dims, its function has %u symbols", r, region->n_dims,
                  g->n_outer_symbols);
        for (uint32_t k = 0; k < region->n_dims; k++) check_dim(v, region->dims[k], "a dim of a region");
        if (row->control == CONTROL_PARTS) continue; /* the row's infer looks at it */
        struct region again = *region;
        infer_bind_region(in, row, r, &again, region->dims, ARENA_NEW(&v->arena, dim, g->n_outer_symbols));
    }
    if (at != v->n->n_operands)
        wrong(v, "groups and regions take %u operands, the node has %u", at, v->n->n_operands);
}

/* Equalities that infer could not prove are in the header, or a check before this node ensures them. */
static void check_unproved(struct verifier *v, const struct infer *in)
{
    for (uint32_t i = 0; i < in->required.len; i++) {
        const struct require *q = &in->required.data[i];
        bool known = false;
        for (uint32_t k = 0; k < v->f->n_required; k++)
            known |= v->f->required[k].a == q->a && v->f->required[k].b == q->b;
        for (uint32_t k = 0; k < v->checked.len && !known; k++)
            known = v->checked.data[k].a == q->a && v->checked.data[k].b == q->b;
        if (!known) {
            struct text t = { .arena = &v->arena };
            dim_print(v->m, v->f->symbols, q->a, &t);
            text_str(&t, " == ");
            dim_print(v->m, v->f->symbols, q->b, &t);
            wrong(v, "%s is neither proved, nor required by the function, nor checked before", t.data);
        }
    }
}

static void check_results(struct verifier *v, const struct infer *in)
{
    const struct fn *f = v->f;
    const struct node *n = v->n;
    uint32_t index = (uint32_t)(n - f->nodes);
    check_unproved(v, in);
    if (in->n_results != n->n_results) wrong(v, "gives %u results, %u stored", in->n_results, n->n_results);
    if (n->results != v->defined && n->n_results) wrong(v, "its results are not the next values");
    if (in->fresh > f->n_symbols - v->symbols)
        wrong(v, "binds %u symbols, the function has only %u more", in->fresh, f->n_symbols - v->symbols);
    for (uint32_t i = 0; i < in->fresh; i++) {
        const struct symbol *s = &f->symbols[v->symbols + i];
        if (s->origin != SYMBOL_NODE || s->index != index)
            wrong(v, "symbol '%s' should be bound by this node", module_text(v->m, s->name));
        if (s->lo != in->fresh_range[i].lo || s->hi != in->fresh_range[i].hi)
            wrong(v, "symbol '%s' has another range than this node gives it", module_text(v->m, s->name));
    }
    v->symbols += in->fresh;
    if (v->symbols < f->n_symbols && f->symbols[v->symbols].index <= index)
        wrong(v, "symbol '%s' is bound by no result of this node",
              module_text(v->m, f->symbols[v->symbols].name));
    for (uint32_t i = 0; i < n->n_results; i++) {
        if (n->results + i >= f->n_values || f->values[n->results + i].node != index)
            wrong(v, "result %u is not its value", i);
        type_id stored = value_type(f, n->results + i);
        check_type(v, stored, "the type of a result");
        if (stored != in->results[i])
            wrong(v, "result %u: stored type %s, infer gives %s", i, type_text(v->m, f->symbols, stored),
                  type_text(v->m, f->symbols, in->results[i]));
    }
    v->defined += n->n_results;
}

static void check_axes(struct verifier *v, struct infer *in, const struct op_row *row)
{
    struct axes_used used = axes_used(v->m, row, in->attrs, in->regions, in->n_regions);
    if (row->bind_attr && in->attrs[row->bind_attr - 1].kind != ATTR_ABSENT)
        wrong(v, "a node that binds an axis stands in a function in place of what it means");
    if (!row->localize) axes_of_results(in, row);
    v->axes |= used.axes;
    v->exchanged |= used.exchanged;
}

static void check_node(struct verifier *v)
{
    const struct fn *f = v->f;
    const struct node *n = v->n;
    if (n->op >= OP_COUNT) wrong(v, "no such operator");
    const struct op_row *row = node_row(n);
    bool higher = row->flags & OPF_HIGHER;
    if (row->expand) wrong(v, "a composite operator stands in a function in place of its expansion");
    bool few_operands = n->n_operands < row->sig.min_operands;
    bool many_operands = row->sig.max_operands != MANY && n->n_operands > row->sig.max_operands;
    if (!higher && (few_operands || many_operands))
        wrong(v, "takes %u operand%s, has %u", row->sig.min_operands, row->sig.min_operands == 1 ? "" : "s",
              n->n_operands);
    bool few_regions = n->n_regions < row->sig.min_regions;
    bool many_regions = row->sig.max_regions != MANY && n->n_regions > row->sig.max_regions;
    if (few_regions || many_regions)
        wrong(v, "takes %u region%s, has %u", row->sig.min_regions, row->sig.min_regions == 1 ? "" : "s",
              n->n_regions);
    if (n->n_regions && (n->regions > f->n_regions || n->n_regions > f->n_regions - n->regions))
        wrong(v, "its regions are not regions of the function");
    type_id few[16];
    type_id *types = n->n_operands <= HOP_COUNT(few) ? few : ARENA_NEW(&v->arena, type_id, n->n_operands);
    for (uint32_t i = 0; i < n->n_operands; i++) {
        val operand = node_operands(f, n)[i];
        if (operand >= f->n_values) wrong(v, "operand %u is no value of the function", i);
        if (operand >= v->defined) wrong(v, "operand %u is used before its definition", i);
        types[i] = value_type(f, operand);
    }
    for (uint32_t i = 0; i < row->sig.n_attrs; i++) check_attr(v, &row->sig.attrs[i], node_attr(f, n, i));
    type_id results[16];
    struct infer in = { .m = v->m,
                        .symbols = f->symbols,
                        .n_symbols = v->symbols,
                        .op = n->op,
                        .place = n->place,
                        .n_operands = n->n_operands,
                        .operands = types,
                        .groups = higher ? f->pool + n->groups : NULL,
                        .attrs = f->attrs + n->attrs,
                        .regions = f->regions + n->regions,
                        .n_regions = n->n_regions,
                        .results = results,
                        .capacity = HOP_COUNT(results),
                        .arena = &v->arena };
    infer_no_objects(&in, row);
    if (v->m->meshes.len) parts_refuse(&in, row);
    if (higher) check_regions(v, &in, row);
    v->effects |= node_effects(v->m, f, n);
    if (v->m->axes.len) axes_verify(&in, row);
    row->infer(&in);
    if (v->m->axes.len) check_axes(v, &in, row);
    check_results(v, &in);
    struct require checked = { .place = n->place };
    if (check_of_dims(f->values, f->nodes, f->pool, f->attrs, n, &checked.a, &checked.b))
        vec_push(&v->arena, &v->checked, checked);
}

static void check_header(struct verifier *v)
{
    const struct fn *f = v->f;
    if (f->n_params > f->n_values || f->n_outer_symbols > f->n_symbols)
        wrong(v, "more parameters than values, or more outer symbols than symbols");
    for (uint32_t i = 0; i < f->n_symbols; i++) {
        const struct symbol *s = &f->symbols[i];
        if ((s->origin == SYMBOL_NODE) != (i >= f->n_outer_symbols))
            wrong(v, "symbol '%s': those bound by nodes come last", module_text(v->m, s->name));
        if (s->lo > s->hi) wrong(v, "symbol '%s' has an empty range", module_text(v->m, s->name));
    }
    for (uint32_t p = 0; p < f->n_params; p++) {
        if (f->values[p].node != NODE_NONE) wrong(v, "parameter %u is defined by a node", p);
        check_type(v, value_type(f, p), "the type of a parameter");
    }
    for (uint32_t i = 0; i < f->n_outer_symbols; i++) {
        if (f->symbols[i].origin != SYMBOL_PARAM) continue;
        bool bound = false;
        if (f->symbols[i].index < f->n_params) {
            struct type t = type_get(v->m, value_type(f, f->symbols[i].index));
            uint32_t s;
            for (uint32_t k = 0; k < t.rank; k++) bound |= dim_is_symbol(v->m, t.dims[k], &s) && s == i;
        }
        if (!bound)
            wrong(v, "symbol '%s' is not a dim of the parameter that should bind it",
                  module_text(v->m, f->symbols[i].name));
    }
    for (uint32_t i = 0; i < f->n_required; i++) {
        check_dim(v, f->required[i].a, "a requirement");
        check_dim(v, f->required[i].b, "a requirement");
    }
}

/* Each result is the new content of one parameter at most, and has its type. */
static void check_news(struct verifier *v)
{
    const struct fn *f = v->f;
    for (uint32_t p = 0; f->news && p < f->n_params; p++) {
        uint32_t k = f->news[p];
        if (k == HOP_NONE || k == NEW_UNCHANGED) continue;
        if (k >= f->n_results)
            wrong(v, "parameter %u: its new content is result %u of %u", p, k, f->n_results);
        if (fn_updated(f, k) != p)
            wrong(v, "result %u is the new content of two parameters, %u and %u", k, fn_updated(f, k), p);
        type_id type = value_type(f, f->results[k]);
        if (type != value_type(f, p))
            wrong(v, "parameter %u: its type is %s, its new content has type %s", p,
                  type_text(v->m, f->symbols, value_type(f, p)), type_text(v->m, f->symbols, type));
    }
}

static void verifier_free(void *verifier) { arena_free(&((struct verifier *)verifier)->arena); }

void verify_fn(struct module *m, uint32_t fn)
{
    if (fn >= m->fns.len) hop_throw(HOP_INVALID, "verify: there is no function %u", fn);
    struct verifier v = { .m = m, .f = module_fn(m, fn) };
    const struct fn *f = v.f;
    hop_cleanup_push(verifier_free, &v);
    v.defined = f->n_params;
    v.symbols = f->n_outer_symbols;
    check_header(&v);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        v.n = fn_node(f, i);
        check_node(&v);
    }
    v.n = NULL;
    if (v.defined != f->n_values) wrong(&v, "%u values, its nodes define %u", f->n_values, v.defined);
    if (v.symbols != f->n_symbols) wrong(&v, "%u symbols, its nodes bind up to %u", f->n_symbols, v.symbols);
    for (uint32_t i = 0; i < f->n_results; i++)
        if (f->results[i] >= v.defined) wrong(&v, "result %u is no value of the function", i);
    check_news(&v);
    if (v.effects != f->effects) wrong(&v, "its effects are not the union of its nodes' effects");
    if (v.axes != f->axes || v.exchanged != f->exchanged)
        wrong(&v, "the axes that it names are not those that its nodes name");
    hop_cleanup_pop(&v);
    verifier_free(&v);
}
