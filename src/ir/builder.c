/* Making functions: the builder checks every node against its row, infers result types, binds symbols and
 * records what could not be proved. Nodes of other functions come in by copier.c. */
#include "ir/axes.h"
#include "ir/mesh.h"

static void builder_drop(void *builder) { arena_free(&((struct builder *)builder)->arena); }

void builder_begin(struct builder *b, struct module *m, const struct fn *like)
{
    memset(b, 0, sizeof *b);
    b->m = m;
    hop_cleanup_push(builder_drop, b);
    /* parts of these are pointed to also where they are empty, and nothing may be added to NULL */
    vec_reserve(&b->arena, &b->values, 4);
    vec_reserve(&b->arena, &b->nodes, 4);
    vec_reserve(&b->arena, &b->pool, 4);
    vec_reserve(&b->arena, &b->attrs, 4);
    vec_reserve(&b->arena, &b->regions, 1);
    vec_reserve(&b->arena, &b->symbols, 1);
    vec_reserve(&b->arena, &b->required, 1);
    if (!like) return;
    for (uint32_t i = 0; i < like->n_outer_symbols; i++) vec_push(&b->arena, &b->symbols, like->symbols[i]);
    b->n_outer_symbols = like->n_outer_symbols;
    b->fn_place = like->place;
    b->label = fn_label(like);
}

void builder_abandon(struct builder *b)
{
    hop_cleanup_pop(b);
    builder_drop(b);
}

uint32_t builder_symbol(struct builder *b, uint32_t name, int64_t lo, int64_t hi)
{
    if (b->symbols.len != b->n_outer_symbols)
        hop_throw(HOP_INTERNAL, "an outer symbol after one bound by a node");
    vec_push(&b->arena, &b->symbols, (struct symbol){ name, SYMBOL_DIM, 0, lo, hi, 0 });
    return b->n_outer_symbols++;
}

uint32_t builder_coordinate(struct builder *b, uint32_t axis, int64_t size)
{
    for (uint32_t i = 0; i < b->n_outer_symbols; i++)
        if (b->symbols.data[i].axis == axis) return i;
    char name[64];
    int n = snprintf(name, sizeof name, "%.50s_rank", module_text(b->m, axis));
    uint32_t s = builder_symbol(b, module_string(b->m, name, (size_t)n), 0, size - 1);
    b->symbols.data[s].axis = axis;
    return s;
}

val builder_param(struct builder *b, type_id type, uint32_t name)
{
    if (b->values.len != b->n_params) hop_throw(HOP_INTERNAL, "a parameter after a node");
    vec_push(&b->arena, &b->values, (struct value){ type, NODE_NONE, name });
    b->global |= type_get(b->m, type).layout != 0;
    return b->n_params++;
}

void builder_name(struct builder *b, val v, uint32_t name) { b->values.data[v].name = name; }

static uint32_t *no_news(struct arena *a, uint32_t n_params)
{
    uint32_t *news = ARENA_NEW(a, uint32_t, n_params);
    memset(news, 0xff, n_params * sizeof *news);
    return news;
}

void builder_mut(struct builder *b, uint32_t param, uint32_t result)
{
    if (!b->news) b->news = no_news(&b->arena, b->n_params);
    b->news[param] = result;
}

/* ---- infer's services ---- */

/* What messages call a node: by the operator from outside that it calls, else by its row. */
static const char *infer_name(const struct infer *in)
{
    const struct op_row *row = op_table[in->within ? in->within - 1 : in->op];
    uint8_t attr = op_table[in->op]->operator_attr;
    bool named = attr && in->attrs && in->attrs[attr - 1].kind == ATTR_STRING && in->attrs[attr - 1].i;
    return named ? module_text(in->m, (uint32_t)in->attrs[attr - 1].i) : row->name;
}

void infer_error(const struct infer *in, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hop_throw(HOP_INVALID, "%s%s: %s%s", place_text(in->m, in->place), infer_name(in), text,
              place_stack(in->m, in->place));
}

void infer_result(struct infer *in, type_id type)
{
    if (in->n_results == in->capacity) {
        uint32_t grown = in->capacity ? in->capacity * 2 : 8;
        type_id *fresh = ARENA_NEW(in->arena, type_id, grown);
        if (in->n_results) memcpy(fresh, in->results, in->n_results * sizeof *fresh);
        in->results = fresh;
        in->capacity = grown;
    }
    in->results[in->n_results++] = type;
}

static const char *dim_text(const struct infer *in, dim d)
{
    struct text out = { .arena = &in->m->scratch };
    dim_print(in->m, in->symbols, d, &out);
    return out.data;
}

const char *infer_text(const struct infer *in, type_id t) { return type_text(in->m, in->symbols, t); }

void(infer_equal)(struct infer *in, dim a, dim b, const char *what)
{
    if (a == b) return;
    dim difference = dim_sub(in->m, a, b);
    int64_t lo, hi;
    dim_range(in->m, in->symbols, difference, &lo, &hi);
    if (lo > 0 || hi < 0)
        infer_error(in, "%s: expected %s, found %s", what, dim_text(in, a), dim_text(in, b));
    if (lo == 0 && hi == 0) return;
    vec_push(in->arena, &in->required, (struct require){ a, b, in->place });
}

void(infer_same_type)(struct infer *in, type_id a, type_id b, const char *what)
{
    if (a == b) return;
    struct type x = type_get(in->m, a), y = type_get(in->m, b);
    if (x.dtype != y.dtype || x.rank != y.rank || x.kind != y.kind || x.layout != y.layout)
        infer_error(in, "%s: expected %s, found %s", what, infer_text(in, a), infer_text(in, b));
    for (uint32_t i = 0; i < x.rank; i++)
        infer_equal(in, x.dims[i], y.dims[i],
                    arena_printf(&in->m->scratch, "%s: dim %u of %s and %s", what, i, infer_text(in, a),
                                 infer_text(in, b)));
}

void mismatches_add(struct mismatches *l, const char *format, ...)
{
    if (l->n++ >= MISMATCHES_SHOWN) return;
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    text_add(&l->text, "%s%s", l->n > 1 ? "; " : "", line);
}

void infer_no_mismatches(const struct infer *in, const struct mismatches *l)
{
    if (l->n > MISMATCHES_SHOWN) infer_error(in, "%s; and %u more", l->text.data, l->n - MISMATCHES_SHOWN);
    if (l->n) infer_error(in, "%s", l->text.data);
}

/* Can no sizes make them equal? */
static bool types_differ(const struct infer *in, type_id a, type_id b)
{
    struct type x = type_get(in->m, a), y = type_get(in->m, b);
    bool differ = x.dtype != y.dtype || x.rank != y.rank || x.kind != y.kind || x.layout != y.layout;
    for (uint32_t i = 0; i < x.rank && !differ; i++) {
        int64_t lo, hi;
        dim_range(in->m, in->symbols, dim_sub(in->m, x.dims[i], y.dims[i]), &lo, &hi);
        differ = lo > 0 || hi < 0;
    }
    return differ;
}

void infer_results_like(struct infer *in, uint32_t r, const type_id *expected, uint32_t n, const char *each,
                        const char *and)
{
    struct mismatches wrong = { .text = { .arena = &in->m->scratch } };
    for (uint32_t i = 0; i < n; i++) {
        type_id found = infer_region_result(in, r, i);
        if (found != expected[i] && types_differ(in, expected[i], found))
            mismatches_add(&wrong, "%s %u and %s: expected %s, found %s", each, i, and,
                           infer_text(in, expected[i]), infer_text(in, found));
    }
    infer_no_mismatches(in, &wrong);
    for (uint32_t i = 0; i < n; i++)
        infer_same_type(in, expected[i], infer_region_result(in, r, i),
                        arena_printf(&in->m->scratch, "%s %u and %s", each, i, and));
}

dim infer_fresh(struct infer *in, int64_t lo, int64_t hi)
{
    if (in->fresh == HOP_COUNT(in->fresh_range))
        infer_error(in, "more than %zu data-dependent dims", HOP_COUNT(in->fresh_range));
    in->fresh_range[in->fresh].lo = lo;
    in->fresh_range[in->fresh].hi = hi;
    return dim_symbol(in->m, in->n_symbols + in->fresh++);
}

static bool symbol_is_inner(void *ctx, uint32_t symbol) { return symbol >= *(const uint32_t *)ctx; }

bool infer_region_dim_escapes(struct infer *in, uint32_t r, dim d, dim *out)
{
    uint32_t outer = module_fn(in->m, in->regions[r].fn)->n_outer_symbols;
    if (d & DIM_TABLE && dim_mentions(in->m, d, symbol_is_inner, &outer)) return true;
    *out = d & DIM_TABLE ? dim_substitute(in->m, d, in->regions[r].dims) : d;
    return false;
}

type_id infer_region_result(struct infer *in, uint32_t r, uint32_t k)
{
    const struct fn *g = module_fn(in->m, in->regions[r].fn);
    struct type t = type_get(in->m, value_type(g, g->results[k]));
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++)
        if (infer_region_dim_escapes(in, r, t.dims[i], &dims[i]))
            infer_error(in, "result %u of its body has type %s, whose size is only known inside the body", k,
                        type_text(in->m, g->symbols, value_type(g, g->results[k])));
    return type_with_dims(in->m, t, dims);
}

/* ---- nodes ---- */

static struct infer infer_for(struct builder *b, const struct node_in *in, struct place place)
{
    return (struct infer){ .m = b->m,
                           .symbols = b->symbols.data,
                           .n_symbols = b->symbols.len,
                           .op = in->op,
                           .within = b->composite,
                           .place = place,
                           .written = b->written,
                           .groups = in->groups,
                           .arena = &b->arena };
}

static void check_attrs(struct infer *in, const struct op_row *row)
{
    for (uint32_t i = 0; i < row->sig.n_attrs; i++) {
        const struct attr_spec *spec = &row->sig.attrs[i];
        uint8_t kind = in->attrs[i].kind;
        if (kind == ATTR_ABSENT) {
            if (spec->required) infer_error(in, "attribute '%s' is missing", spec->name);
            continue;
        }
        if (kind != spec->kind && !(spec->kind == ATTR_SCALAR && (kind == ATTR_INT || kind == ATTR_REAL)))
            infer_error(in, "attribute '%s' has the wrong kind", spec->name);
    }
}

static void feed_error(struct infer *in, const struct fn *g, uint32_t have, uint32_t r)
{
    infer_error(in, "region %u (%s%s) takes %u parameters, given %u", r, fn_label(g) ? "@" : "body",
                module_text(in->m, fn_label(g)), g->n_params, have);
}

static void feed_rank_error(struct infer *in, const struct op_row *row, uint32_t g, uint32_t i, type_id t)
{
    if (!type_get(in->m, t).rank)
        infer_error(in, "'%s' operand %u is a scalar, which has no leading dim", row->sig.groups[g].word, i);
    infer_error(in, "'%s' operand %u has type %s: there is no dim %lld", row->sig.groups[g].word, i,
                infer_text(in, t), (long long)in->attrs[row->sig.dim_attr - 1].i);
}

/* Types that the region's parameters must have here, in the region's order. */
static uint32_t region_feeds(struct infer *in, const struct op_row *row, uint32_t r,
                             const struct region *region, type_id *out, uint32_t room)
{
    const struct sig_region *sig = sig_region(row, r);
    uint32_t n = 0, at = 0;
    for (uint32_t g = 0; g < row->sig.n_groups; g++) {
        uint32_t size = in->groups[g];
        for (uint32_t times = sig->feeds >> g & 1 ? sig_group_feeds(row, g) : 0; times; times--)
            for (uint32_t i = 0; i < size; i++, n++) {
                type_id t = sig_feed_type(in->m, row, g, in->attrs, in->operands[at + i]);
                if (t == HOP_NONE) feed_rank_error(in, row, g, i, in->operands[at + i]);
                if (n < room) out[n] = t;
            }
        at += size;
    }
    for (uint32_t i = 0; i < region->n_operands; i++, n++)
        if (n < room) out[n] = in->operands[region->operands + i];
    return n;
}

void infer_bind_region(struct infer *in, const struct op_row *row, uint32_t r, struct region *region,
                       const dim *given, dim *dims)
{
    struct module *m = in->m;
    const struct fn *g = module_fn(m, region->fn);
    type_id *feeds = ARENA_NEW(in->arena, type_id, g->n_params);
    uint32_t have = region_feeds(in, row, r, region, feeds, g->n_params);
    if (have != g->n_params) feed_error(in, g, have, r);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) dims[i] = given ? given[i] : HOP_NONE;
    for (uint32_t p = 0; p < g->n_params; p++) {
        struct type want = type_get(m, value_type(g, p)), found = type_get(m, feeds[p]);
        bool alike = want.dtype == found.dtype && want.rank == found.rank && want.varying == found.varying;
        if (!alike || want.kind != found.kind || want.layout != found.layout)
            infer_error(in, "region %u: parameter %u (%%%s): expected %s, found %s", r, p,
                        module_text(m, g->values[p].name), type_text(m, g->symbols, value_type(g, p)),
                        infer_text(in, feeds[p]));
        uint32_t s;
        for (uint32_t i = 0; i < want.rank; i++)
            if (want.dims[i] & DIM_TABLE && dim_is_symbol(m, want.dims[i], &s) && dims[s] == HOP_NONE)
                dims[s] = found.dims[i];
    }
    for (uint32_t i = 0; i < g->n_outer_symbols; i++)
        if (dims[i] == HOP_NONE)
            infer_error(in, "region %u: the dim '%s' of its function is bound by no parameter and not given",
                        r, module_text(m, g->symbols[i].name));
    region->dims = dims;
    region->n_dims = g->n_outer_symbols;
    for (uint32_t p = 0; p < g->n_params; p++)
        infer_same_type(in, type_substitute(m, value_type(g, p), dims), feeds[p],
                        arena_printf(&m->scratch, "region %u: parameter %u", r, p));
    for (uint32_t i = 0; i < g->n_required; i++)
        infer_equal(in, dim_substitute(m, g->required[i].a, dims), dim_substitute(m, g->required[i].b, dims),
                    "a requirement of the body");
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) {
        int64_t lo, hi;
        dim_range(m, in->symbols, dims[i], &lo, &hi);
        if (hi < g->symbols[i].lo || lo > g->symbols[i].hi)
            infer_error(in, "region %u: dim '%s' must lie in %lld..%lld, found %s", r,
                        module_text(m, g->symbols[i].name), (long long)g->symbols[i].lo,
                        (long long)g->symbols[i].hi, dim_text(in, dims[i]));
    }
}

static bool mentions_inner(struct builder *b, dim d)
{
    return d & DIM_TABLE && dim_mentions(b->m, d, symbol_is_inner, &b->n_outer_symbols);
}

/* The nodes that builder_require makes have this form. */
bool check_of_dims(const struct value *values, const struct node *nodes, const uint32_t *pool,
                   const struct attr *attrs, const struct node *n, dim *a, dim *b)
{
    if (n->op != OP_check || !n->n_operands) return false;
    uint32_t eq = values[pool[n->operands]].node;
    if (eq == NODE_NONE || nodes[eq].op != OP_eq) return false;
    uint32_t x = values[pool[nodes[eq].operands]].node, y = values[pool[nodes[eq].operands + 1]].node;
    if (x == NODE_NONE || y == NODE_NONE || nodes[x].op != OP_dim_value || nodes[y].op != OP_dim_value)
        return false;
    *a = (dim)attrs[nodes[x].attrs].i;
    *b = (dim)attrs[nodes[y].attrs].i;
    return true;
}

/* So that a copied or printed and read check is not made a second time. */
static bool is_checked(const struct builder *b, dim a, dim c)
{
    for (uint32_t i = 0; i < b->checked.len; i++)
        if (b->checked.data[i].a == a && b->checked.data[i].b == c) return true;
    return false;
}

void builder_require(struct builder *b, dim a, dim c, const char *what)
{
    struct infer in = { .m = b->m,
                        .symbols = b->symbols.data,
                        .n_symbols = b->symbols.len,
                        .op = OP_check,
                        .within = b->composite,
                        .place = b->place,
                        .arena = &b->arena };
    infer_equal(&in, a, c, what);
    for (uint32_t i = 0; i < in.required.len; i++) {
        struct require q = in.required.data[i];
        if (!mentions_inner(b, q.a) && !mentions_inner(b, q.b)) {
            bool known = false;
            for (uint32_t k = 0; k < b->required.len; k++)
                known |= b->required.data[k].a == q.a && b->required.data[k].b == q.b;
            if (!known) vec_push(&b->arena, &b->required, q);
            continue;
        }
        if (is_checked(b, q.a, q.b)) continue;
        struct node_in left = { .op = OP_dim_value, .attrs = &A_DIM(q.a), .place = q.place };
        struct node_in right = { .op = OP_dim_value, .attrs = &A_DIM(q.b), .place = q.place };
        val x = builder_node(b, &left);
        val y = builder_node(b, &right);
        val eq = builder_node(b, &(struct node_in){ .op = OP_eq,
                                                    .operands = (val[]){ x, y },
                                                    .n_operands = 2,
                                                    .place = q.place });
        struct attr format = A_STRING(module_string(b->m, "sizes agree", 11));
        builder_node(b, &(struct node_in){ .op = OP_check,
                                           .operands = (val[]){ eq, x, y },
                                           .n_operands = 3,
                                           .attrs = &format,
                                           .place = q.place });
    }
}

static void copy_attr_list(struct module *m, struct attr *a)
{
    if (attr_is_list(a)) a->list = arena_copy(&m->arena, a->list, a->n * sizeof *a->list);
}

/* What nodes in place of one give: new values, one behind the other, like those of any node. Where others are
 * given (`before`: the first that is new), they are passed on by a reshape to the shape they have. */
static val new_results(struct builder *b, const struct infer *in, val *out, val before)
{
    bool follow = true;
    for (uint32_t i = 0; i < in->n_results; i++) {
        bool made = out[i] < b->values.len;
        if (made && b->m->axes.len) out[i] = builder_vary(b, out[i], value_axes(b->m, in->results[i]));
        if (!made || builder_type(b, out[i]) != in->results[i])
            hop_throw(HOP_INTERNAL, "%s: result %u of its expansion has another type than infer says",
                      op_table[in->op]->name, i);
        follow &= out[i] >= before && out[i] == out[0] + i;
    }
    for (uint32_t i = 0; !follow && i < in->n_results; i++) {
        struct type t = type_get(b->m, in->results[i]);
        struct attr dims = A_DIMS(t.dims, t.rank);
        struct node_in pass = { .op = OP_reshape, .operands = &out[i], .n_operands = 1, .attrs = &dims };
        out[i] = builder_node(b, &pass);
    }
    b->n_last_results = in->n_results;
    return in->n_results ? out[0] : VAL_NONE;
}

/* The nodes of a composite in its place. */
static val expand_node(struct builder *b, const struct op_row *row, const struct infer *in,
                       const val *operands)
{
    struct expand e = { .b = b,
                        .op = in->op,
                        .n_operands = in->n_operands,
                        .n_results = in->n_results,
                        .operands = operands,
                        .attrs = in->attrs,
                        .types = in->results };
    struct place place = b->place;
    uint16_t composite = b->composite;
    val before = b->values.len;
    e.out = ARENA_NEW(&b->arena, val, e.n_results);
    memset(e.out, 0xff, e.n_results * sizeof *e.out);
    b->place = in->place;
    if (!composite) b->composite = (uint16_t)(in->op + 1);
    row->expand(&e);
    val first = new_results(b, in, e.out, before);
    b->place = place;
    b->composite = composite;
    return first;
}

/* What a node that binds an axis means, in its place. */
static val bind_node(struct builder *b, const struct op_row *row, const struct infer *in, const val *operands)
{
    struct place place = b->place;
    val before = b->values.len, *out = ARENA_NEW(&b->arena, val, in->n_results + 1);
    const struct node_hooks *hooks = b->hooks; /* what the body was written with, it has */
    b->place = in->place;
    b->hooks = NULL;
    row->bind(b, in, operands, out);
    val first = new_results(b, in, out, before);
    b->hooks = hooks;
    b->place = place;
    return first;
}

/* ---- one node ---- */

/* A node being made: what its parts are before any of them is in the builder. */
struct draft {
    const struct node_in *in;
    const struct op_row *row;
    struct place place;
    val *operands; /* all, the regions' own behind the node's */
    uint32_t n_operands;
    type_id *types;         /* of the operands */
    struct region *regions; /* bound, with the dims of their symbols */
    struct infer infer;     /* with the types of the results once it has run */
};

static bool is_between(uint32_t n, uint32_t least, uint32_t most)
{
    return n >= least && (most == MANY || n <= most);
}

static void check_counts(const struct draft *d)
{
    const struct signature *sig = &d->row->sig;
    uint32_t n_operands = d->in->n_operands, n_regions = d->in->n_regions;
    bool first_order = !(d->row->flags & OPF_HIGHER);
    if (first_order && !is_between(n_operands, sig->min_operands, sig->max_operands))
        infer_error(&d->infer, "takes %u operand%s, given %u", sig->min_operands,
                    sig->min_operands == 1 ? "" : "s", n_operands);
    if (!is_between(n_regions, sig->min_regions, sig->max_regions) || n_regions > UINT16_MAX)
        infer_error(&d->infer, "takes %u region%s, given %u", sig->min_regions,
                    sig->min_regions == 1 ? "" : "s", n_regions);
}

/* Lists the operands of the node and of its regions one behind the other, and looks up their types. */
static void gather_operands(struct builder *b, struct draft *d)
{
    const struct node_in *in = d->in;
    uint32_t total = in->n_operands;
    for (uint32_t r = 0; r < in->n_regions; r++) total += in->regions[r].n_operands;
    d->operands = ARENA_NEW(&b->arena, val, total);
    if (in->n_operands) memcpy(d->operands, in->operands, in->n_operands * sizeof *d->operands);
    d->regions = in->n_regions ? ARENA_NEW(&b->arena, struct region, in->n_regions) : NULL;
    d->n_operands = in->n_operands;
    for (uint32_t r = 0; r < in->n_regions; r++) {
        const struct region_in *given = &in->regions[r];
        d->regions[r] = (struct region){ .fn = given->fn,
                                         .operands = d->n_operands,
                                         .n_operands = given->n_operands };
        if (given->n_operands)
            memcpy(d->operands + d->n_operands, given->operands, given->n_operands * sizeof *d->operands);
        d->n_operands += given->n_operands;
    }
    type_id *types = ARENA_NEW(&b->arena, type_id, total);
    for (uint32_t i = 0; i < total; i++) {
        if (d->operands[i] >= b->values.len)
            hop_throw(HOP_INTERNAL, "%s: operand %u is not a value of this function", d->row->name, i);
        types[i] = b->values.data[d->operands[i]].type;
    }
    d->types = types;
    d->infer.operands = types;
    d->infer.n_operands = total;
}

/* Of a row that takes functions: the group that operand i belongs to; n_groups: it is a region's own. */
static uint32_t group_of(const struct infer *in, const struct op_row *row, uint32_t i)
{
    uint32_t g = 0;
    for (uint32_t end = 0; g < row->sig.n_groups; g++) {
        end += in->groups[g];
        if (i < end) break;
    }
    return g;
}

static _Noreturn void stacked_object(const struct infer *in, uint32_t k, const char *type)
{
    if (in->written)
        infer_error(in, "result %u of its body is %s: objects are carried, not stacked", k, type);
    infer_error(in,
                "its gradient needs the %s of every step, and objects cannot be stacked: carry a number and "
                "choose the object by a switch",
                type);
}

/* Results of a loop's step that are behind the next carries are stacked. */
static void no_stacked_objects(struct infer *in, const struct op_row *row)
{
    for (uint32_t r = 0; r < in->n_regions; r++) {
        const struct fn *g = module_fn(in->m, in->regions[r].fn);
        const struct sig_region *sig = sig_region(row, r);
        uint32_t sizes[3], n = sig_result_sizes(row, r, in->groups, g->n_results, sizes);
        if (!n || strcmp(sig->results[n - 1], "stack")) continue;
        for (uint32_t k = g->n_results - sizes[n - 1]; k < g->n_results; k++)
            if (type_is_object(in->m, value_type(g, g->results[k])))
                stacked_object(in, k, type_text(in->m, g->symbols, value_type(g, g->results[k])));
    }
}

void infer_no_objects(struct infer *in, const struct op_row *row)
{
    if (!in->m->has_objects) return;
    bool higher = row->flags & OPF_HIGHER;
    for (uint32_t i = 0; i < in->n_operands && !(row->flags & OPF_OBJECTS); i++) {
        if (!type_is_object(in->m, in->operands[i])) continue;
        if (!higher)
            infer_error(in, "operand %u is %s, which it does not take: only operators declared for it do", i,
                        infer_text(in, in->operands[i]));
        uint32_t g = group_of(in, row, i);
        if (g == row->sig.n_groups || row->sig.groups[g].kind == GROUP_CARRY) continue;
        infer_error(in, "operand %u%s%s is %s: objects are carried or handed to bodies as they are", i,
                    *row->sig.groups[g].word ? ", of " : "", row->sig.groups[g].word,
                    infer_text(in, in->operands[i]));
    }
    if (higher) no_stacked_objects(in, row);
}

static void bind_regions(struct builder *b, struct draft *d)
{
    for (uint32_t r = 0; r < d->in->n_regions; r++) {
        const struct fn *body = module_fn(b->m, d->regions[r].fn);
        dim *dims = ARENA_NEW(&b->m->arena, dim, body->n_outer_symbols);
        infer_bind_region(&d->infer, d->row, r, &d->regions[r], d->in->regions[r].dims, dims);
    }
}

static struct effects_in effects_in_of(const struct builder *b, const struct draft *d)
{
    return (struct effects_in){ .attrs = d->infer.attrs,
                                .operands = d->operands,
                                .n_operands = d->n_operands,
                                .groups = d->in->groups,
                                .regions = d->regions,
                                .n_regions = d->in->n_regions,
                                .n_params = b->n_params };
}

/* The same function, to which every object that it accesses may be any. What it gives back as it came is the
 * parameter nevertheless: a carry that stays. */
static uint32_t with_any_objects(struct module *m, uint32_t fn)
{
    static const uint64_t MEMO_ANY_OBJECTS = 0x616e796f;
    const uint64_t key[4] = { MEMO_ANY_OBJECTS, fn };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.fn;
    const struct fn *f = module_fn(m, fn);
    struct builder b;
    struct copier c;
    builder_begin(&b, m, f);
    copier_begin(&c, &b, f);
    copier_params(&c);
    for (uint32_t p = 0; p < HOP_MIN(f->n_params, EFFECT_PARAMS); p++)
        if (f->effects & (effect_reads(p) | effect_writes(p)))
            c.values[p] = builder_node(&b, &(struct node_in){
                                               .op = OP_any_object, .operands = &p, .n_operands = 1 });
    val *results = ARENA_NEW(&b.arena, val, f->n_results + 1);
    copier_body(&c, results);
    for (uint32_t k = 0; k < f->n_results; k++)
        if (f->results[k] < f->n_params) results[k] = f->results[k];
    known.fn = builder_finish(&b, results, f->n_results);
    memo_put(m, key, known);
    return known.fn;
}

/* Bodies take their parameters for different objects. Where they may be one, accesses keep their order. */
static void part_objects(struct builder *b, struct draft *d)
{
    if (!b->m->has_objects) return;
    struct effects_in in = effects_in_of(b, d);
    for (uint32_t r = 0; r < d->in->n_regions; r++)
        if (effects_may_meet(b->m, d->row, &in, r))
            d->regions[r].fn = with_any_objects(b->m, d->regions[r].fn);
}

/* What infer could not prove. May emit check nodes, which come before this one. */
static void require_all(struct builder *b, const struct draft *d)
{
    struct place saved = b->place;
    b->place = d->place;
    for (uint32_t i = 0; i < d->infer.required.len; i++) {
        struct require q = d->infer.required.data[i];
        builder_require(b, q.a, q.b, d->row->name);
    }
    b->place = saved;
}

/* Sizes that the node finds out become symbols. */
static void bind_fresh_symbols(struct builder *b, const struct infer *infer)
{
    for (uint32_t i = 0; i < infer->fresh; i++) {
        char name[16];
        int n = snprintf(name, sizeof name, "k%u", b->symbols.len);
        struct symbol symbol = { .name = module_string(b->m, name, (size_t)n),
                                 .origin = SYMBOL_NODE,
                                 .index = b->nodes.len,
                                 .lo = infer->fresh_range[i].lo,
                                 .hi = infer->fresh_range[i].hi };
        vec_push(&b->arena, &b->symbols, symbol);
    }
}

/* Room in the pool for so many more, which grows twofold. */
static void reserve_pool(struct builder *b, uint32_t more)
{
    uint64_t wanted = (uint64_t)b->pool.len + more;
    vec_reserve(&b->arena, &b->pool, wanted > b->pool.cap ? HOP_MAX(wanted, b->pool.cap * 2) : 0);
}

static const struct node *append_node(struct builder *b, const struct draft *d)
{
    const struct signature *sig = &d->row->sig;
    uint32_t index = b->nodes.len;
    struct node node = { .op = d->in->op,
                         .n_regions = (uint16_t)d->in->n_regions,
                         .operands = b->pool.len,
                         .n_operands = d->n_operands,
                         .groups = b->pool.len + d->n_operands,
                         .results = b->values.len,
                         .n_results = d->infer.n_results,
                         .attrs = b->attrs.len,
                         .regions = b->regions.len,
                         .place = d->place };
    reserve_pool(b, d->n_operands + HOP_COUNT(sig->groups) + 1);
    for (uint32_t i = 0; i < d->n_operands; i++) vec_push(&b->arena, &b->pool, d->operands[i]);
    for (uint32_t g = 0; d->row->flags & OPF_HIGHER && g < sig->n_groups; g++)
        vec_push(&b->arena, &b->pool, d->in->groups[g]);
    for (uint32_t i = 0; i < sig->n_attrs; i++) {
        struct attr a = d->infer.attrs[i];
        copy_attr_list(b->m, &a);
        vec_push(&b->arena, &b->attrs, a);
    }
    for (uint32_t r = 0; r < d->in->n_regions; r++) {
        vec_push(&b->arena, &b->regions, d->regions[r]);
        b->transposed |= module_fn(b->m, d->regions[r].fn)->transposed;
        b->global |= module_fn(b->m, d->regions[r].fn)->global;
    }
    for (uint32_t i = 0; i < d->infer.n_results; i++)
        vec_push(&b->arena, &b->values, (struct value){ d->infer.results[i], index, 0 });
    vec_push(&b->arena, &b->nodes, node);
    b->global |= d->row->localize != NULL;
    return &b->nodes.data[index];
}

/* A check of sizes that stands in the function is not made a second time. */
static void note_check(struct builder *b, const struct node *n)
{
    struct require checked = { .place = n->place };
    if (check_of_dims(b->values.data, b->nodes.data, b->pool.data, b->attrs.data, n, &checked.a, &checked.b))
        vec_push(&b->arena, &b->checked, checked);
}

/* Has anything in the module to do with named axes? The first node that does says so. */
static inline bool names_axes(struct module *m, const struct draft *d)
{
    if (m->axes.len) return true;
    if (!d->row->axis_attr && !d->row->bind_attr) return false;
    return axes_named(m, d->row, d->infer.attrs) || axes_bound(m, d->row, d->infer.attrs);
}

/* Is it asked to vary what varies? A copy of a function whose parameters vary along more may do so. */
static bool varies_already(struct builder *b, const struct draft *d)
{
    if (d->row->axis_role != AXIS_VARIES || !d->n_operands) return false;
    b->n_last_results = 1;
    return builder_type(b, d->operands[0]) == d->infer.results[0];
}

static val make_node(struct builder *b, const struct node_in *in)
{
    static const struct attr absent[16];
    struct place place = in->place.line ? in->place : b->place;
    struct draft d = { .in = in, .row = op_table[in->op], .place = place, .infer = infer_for(b, in, place) };
    d.infer.attrs = in->attrs ? in->attrs : absent;
    check_counts(&d);
    check_attrs(&d.infer, d.row);
    gather_operands(b, &d);
    d.infer.regions = d.regions;
    d.infer.n_regions = in->n_regions;
    infer_no_objects(&d.infer, d.row);
    bool axes = names_axes(b->m, &d);
    if (b->m->meshes.len) parts_refuse(&d.infer, d.row);
    if (d.row->control == CONTROL_PARTS) parts_settle(&d.infer, d.row, d.regions, in->regions->dims);
    else if (axes) axes_settle(b, d.row, &d.infer, d.operands, d.types, d.regions);
    if (d.row->control != CONTROL_PARTS) bind_regions(b, &d);
    part_objects(b, &d);
    d.row->infer(&d.infer);
    if (axes && !d.row->localize) axes_of_results(&d.infer, d.row);
    require_all(b, &d);
    if (axes && varies_already(b, &d)) return d.operands[0];
    if (d.row->expand) return expand_node(b, d.row, &d.infer, d.operands);
    if (axes && axes_bound(b->m, d.row, d.infer.attrs)) return bind_node(b, d.row, &d.infer, d.operands);
    bind_fresh_symbols(b, &d.infer);
    const struct node *n = append_node(b, &d);
    note_check(b, n);
    b->m->has_once |= d.row->once != NULL;
    b->m->has_stand_ins |= d.row->stands_for != NULL;
    struct effects_in effects = effects_in_of(b, &d);
    b->effects |= effects_of_parts(b->m, d.row, &effects);
    if (axes) {
        struct axes_used used = axes_used(b->m, d.row, d.infer.attrs, d.regions, in->n_regions);
        b->axes |= used.axes;
        b->exchanged |= used.exchanged;
    }
    b->n_last_results = n->n_results;
    return n->n_results ? n->results : VAL_NONE;
}

val builder_node(struct builder *b, const struct node_in *in)
{
    if (!b->hooks || b->composite) return make_node(b, in);
    struct node_in own = *in;
    b->hooks->before(b, &own);
    val first = make_node(b, &own);
    uint32_t n = b->n_last_results;
    b->hooks->after(b, &own, first, n);
    b->n_last_results = n;
    return first;
}

/* ---- finishing ---- */

static void settle_symbols(struct fn *f, const struct module *m)
{
    for (uint32_t i = 0; i < f->n_outer_symbols; i++) {
        f->symbols[i].origin = SYMBOL_DIM;
        f->symbols[i].index = 0; /* of a parameter that the function it is like has, and this one may not */
    }
    for (uint32_t p = f->n_params; p-- > 0;) {
        struct type t = type_get(m, f->values[p].type);
        uint32_t s;
        for (uint32_t i = 0; i < t.rank; i++)
            if (dim_is_symbol(m, t.dims[i], &s)) {
                f->symbols[s].origin = SYMBOL_PARAM;
                f->symbols[s].index = p;
            }
    }
}

static uint64_t hash_attr(const struct attr *a)
{
    uint64_t h = hash_mix(a->kind, a->n);
    if (attr_is_list(a)) return a->n ? hash_mix(h, hash_bytes(a->list, a->n * sizeof *a->list, 1)) : h;
    return a->kind == ATTR_ABSENT ? h : hash_mix(h, (uint64_t)a->i);
}

static uint64_t structural_hash(const struct fn *f)
{
    uint64_t h = hash_mix(f->n_params, f->n_nodes);
    h = hash_mix(h, ((uint64_t)f->n_results << 32) | f->n_outer_symbols);
    for (uint32_t i = 0; i < f->n_values; i++) h = hash_mix(h, f->values[i].type);
    for (uint32_t i = 0; i < f->n_results; i++) h = hash_mix(h, f->results[i]);
    for (uint32_t i = 0; f->news && i < f->n_params; i++) h = hash_mix(h, f->news[i]);
    for (uint32_t i = 0; i < f->n_symbols; i++) {
        h = hash_mix(hash_mix(h, (uint64_t)f->symbols[i].lo), (uint64_t)f->symbols[i].hi);
        if (f->symbols[i].axis) h = hash_mix(h, f->symbols[i].axis);
    }
    for (uint32_t i = 0; i < f->n_required; i++)
        h = hash_mix(h, ((uint64_t)f->required[i].a << 32) | f->required[i].b);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = &f->nodes[i];
        const struct op_row *row = node_row(n);
        h = hash_mix(h, ((uint64_t)n->op << 32) | n->n_operands);
        for (uint32_t k = 0; k < n->n_operands; k++) h = hash_mix(h, f->pool[n->operands + k]);
        for (uint32_t k = 0; k < row->sig.n_attrs; k++) h = hash_mix(h, hash_attr(&f->attrs[n->attrs + k]));
        for (uint32_t r = 0; r < n->n_regions; r++) {
            const struct region *g = node_region(f, n, r);
            h = hash_mix(h, ((uint64_t)g->fn << 32) | g->n_operands);
            for (uint32_t k = 0; k < g->n_dims; k++) h = hash_mix(h, g->dims[k]);
        }
    }
    return h;
}

static bool attr_equal(const struct attr *a, const struct attr *b)
{
    if (a->kind != b->kind || a->n != b->n) return false;
    if (attr_is_list(a)) return !a->n || !memcmp(a->list, b->list, a->n * sizeof *a->list);
    return a->kind == ATTR_ABSENT || a->i == b->i; /* reals are compared by their bits */
}

static bool counts_equal(const struct fn *a, const struct fn *b)
{
    if (a->n_params != b->n_params || a->n_results != b->n_results) return false;
    if (a->n_nodes != b->n_nodes || a->n_values != b->n_values) return false;
    if (a->n_symbols != b->n_symbols || a->n_outer_symbols != b->n_outer_symbols) return false;
    return a->n_required == b->n_required;
}

static bool structurally_equal(const struct fn *a, const struct fn *b)
{
    if (!counts_equal(a, b)) return false;
    for (uint32_t i = 0; i < a->n_values; i++)
        if (a->values[i].type != b->values[i].type) return false;
    for (uint32_t i = 0; i < a->n_results; i++)
        if (a->results[i] != b->results[i]) return false;
    if (!a->news != !b->news || (a->news && memcmp(a->news, b->news, a->n_params * sizeof *a->news)))
        return false;
    for (uint32_t i = 0; i < a->n_symbols; i++)
        if (a->symbols[i].lo != b->symbols[i].lo || a->symbols[i].hi != b->symbols[i].hi ||
            a->symbols[i].axis != b->symbols[i].axis)
            return false;
    for (uint32_t i = 0; i < a->n_required; i++)
        if (a->required[i].a != b->required[i].a || a->required[i].b != b->required[i].b) return false;
    for (uint32_t i = 0; i < a->n_nodes; i++) {
        const struct node *x = &a->nodes[i], *y = &b->nodes[i];
        const struct op_row *row = node_row(x);
        if (x->op != y->op || x->n_operands != y->n_operands) return false;
        if (x->n_results != y->n_results || x->n_regions != y->n_regions) return false;
        if (x->n_operands && memcmp(node_operands(a, x), node_operands(b, y), x->n_operands * sizeof(val)))
            return false;
        for (uint32_t g = 0; g < row->sig.n_groups; g++)
            if (a->pool[x->groups + g] != b->pool[y->groups + g]) return false;
        for (uint32_t k = 0; k < row->sig.n_attrs; k++)
            if (!attr_equal(&a->attrs[x->attrs + k], &b->attrs[y->attrs + k])) return false;
        for (uint32_t r = 0; r < x->n_regions; r++) {
            const struct region *g = node_region(a, x, r), *h = node_region(b, y, r);
            if (g->fn != h->fn || g->n_operands != h->n_operands || g->n_dims != h->n_dims) return false;
            if (g->n_dims && memcmp(g->dims, h->dims, g->n_dims * sizeof *g->dims)) return false;
        }
    }
    return true;
}

static void *pack_part(char **at, const void *data, size_t size)
{
    void *part = *at;
    if (size) memcpy(part, data, size);
    *at += size;
    return part;
}

/* The function and its arrays in one piece: bodies are small and many, and padding between arrays would be a
 * good part of them. */
static struct fn *pack(struct module *m, const struct fn *f, uint32_t n_pool, uint32_t n_attrs)
{
    _Static_assert(_Alignof(struct attr) <= 8 && _Alignof(struct region) <= 8 && _Alignof(struct symbol) <= 8,
                   "these come first, on multiples of 8");
    _Static_assert(sizeof(struct fn) % 8 == 0 && sizeof(struct attr) % 8 == 0 &&
                       sizeof(struct region) % 8 == 0 && sizeof(struct symbol) % 8 == 0,
                   "and keep them");
    _Static_assert(_Alignof(struct node) == 4 && _Alignof(struct value) == 4 && _Alignof(struct require) == 4,
                   "the rest are words");
    size_t size = sizeof *f + n_attrs * sizeof *f->attrs + f->n_regions * sizeof *f->regions +
                  f->n_symbols * sizeof *f->symbols + f->n_nodes * sizeof *f->nodes +
                  f->n_values * sizeof *f->values + f->n_required * sizeof *f->required +
                  f->n_results * sizeof *f->results + (f->news ? f->n_params * sizeof *f->news : 0) +
                  n_pool * sizeof *f->pool;
    char *at = arena_alloc(&m->arena, size);
    struct fn *out = pack_part(&at, f, sizeof *f);
    out->attrs = pack_part(&at, f->attrs, n_attrs * sizeof *f->attrs);
    out->regions = pack_part(&at, f->regions, f->n_regions * sizeof *f->regions);
    out->symbols = pack_part(&at, f->symbols, f->n_symbols * sizeof *f->symbols);
    out->nodes = pack_part(&at, f->nodes, f->n_nodes * sizeof *f->nodes);
    out->values = pack_part(&at, f->values, f->n_values * sizeof *f->values);
    out->required = pack_part(&at, f->required, f->n_required * sizeof *f->required);
    out->results = pack_part(&at, f->results, f->n_results * sizeof *f->results);
    if (f->news) out->news = pack_part(&at, f->news, f->n_params * sizeof *f->news);
    out->pool = pack_part(&at, f->pool, n_pool * sizeof *f->pool);
    out->id = m->fns.len;
    return out;
}

static uint32_t find_equal(const struct module *m, const struct fn *f)
{
    for (uint32_t it = map_first(&m->fn_map, f->hash); it != HOP_NONE;
         it = map_next(&m->fn_map, f->hash, it)) {
        const struct fn *other = module_fn(m, map_value(&m->fn_map, it));
        if (structurally_equal(other, f)) return other->id;
    }
    return HOP_NONE;
}

/* Equal bodies are called as the first of them, or as the one that the first was called after: step, not
 * step_backward. */
static void merge_labels(const struct module *m, struct fn *f, uint32_t label)
{
    const char *now = module_text(m, f->label), *other = module_text(m, label);
    size_t n = strlen(other);
    bool after = n && !strncmp(now, other, n) && now[n] == '_';
    if (!fn_label(f) || after) f->label = label;
}

/* Which value is which parameter may have changed since the nodes were made. */
static effect_set union_of_effects(const struct module *m, const struct fn *f)
{
    effect_set effects = EFFECT_NONE;
    for (uint32_t i = 0; i < f->n_nodes; i++) effects |= node_effects(m, f, fn_node(f, i));
    return effects;
}

uint32_t builder_finish(struct builder *b, const val *results, uint32_t n_results)
{
    struct module *m = b->m;
    struct fn f = { .name = b->name,
                    .label = b->label,
                    .place = b->fn_place,
                    .n_params = b->n_params,
                    .n_values = b->values.len,
                    .n_nodes = b->nodes.len,
                    .n_results = n_results,
                    .n_symbols = b->symbols.len,
                    .n_outer_symbols = b->n_outer_symbols,
                    .n_required = b->required.len,
                    .n_regions = b->regions.len,
                    .values = b->values.data,
                    .nodes = b->nodes.data,
                    .results = (val *)results,
                    .pool = b->pool.data,
                    .attrs = b->attrs.data,
                    .regions = b->regions.data,
                    .symbols = b->symbols.data,
                    .required = b->required.data,
                    .news = b->news,
                    .effects = b->effects,
                    .axes = b->axes,
                    .exchanged = b->exchanged,
                    .transposed = b->transposed,
                    .global = b->global };
    if (f.effects & EFFECT_OBJECTS) f.effects = union_of_effects(m, &f);
    if (f.global) parts_outside(m, &f);
    f.hash = structural_hash(&f);
    uint32_t equal = f.name ? HOP_NONE : find_equal(m, &f);
    if (equal != HOP_NONE) {
        merge_labels(m, m->fns.data[equal], f.label);
        m->fns.data[equal]->transposed |= f.transposed;
        builder_abandon(b);
        return equal;
    }
    struct fn *out = pack(m, &f, b->pool.len, b->attrs.len);
    settle_symbols(out, m);
    vec_push(&m->arena, &m->fns, out);
    if (!f.name) map_put(&m->fn_map, f.hash, out->id);
    if (m->scratch.total > 1 << 20) arena_free(&m->scratch);
    builder_abandon(b);
    return out->id;
}

/* ---- parameters that are updated ---- */

uint32_t fn_updated(const struct fn *f, uint32_t result)
{
    for (uint32_t p = 0; f->news && p < f->n_params; p++)
        if (f->news[p] == result) return p;
    return HOP_NONE;
}

bool fn_has_updates(const struct fn *f)
{
    for (uint32_t p = 0; f->news && p < f->n_params; p++)
        if (f->news[p] < f->n_results) return true;
    return false;
}

const uint32_t *fn_updates(struct arena *a, const struct fn *f)
{
    if (!fn_has_updates(f)) return NULL;
    uint32_t *updated = ARENA_NEW(a, uint32_t, f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) updated[k] = fn_updated(f, k);
    return updated;
}

const char *fn_param_name(const struct module *m, const struct fn *f, uint32_t p)
{
    static const char *const numbers[] = { "0", "1", "2",  "3",  "4",  "5",  "6",  "7",
                                           "8", "9", "10", "11", "12", "13", "14", "15" };
    if (f->values[p].name) return module_text(m, f->values[p].name);
    return p < HOP_COUNT(numbers) ? numbers[p] : "";
}

uint32_t module_with_updates(struct module *m, uint32_t fn, const uint32_t *updates)
{
    struct fn f = *module_fn(m, fn);
    bool any = f.news != NULL, same = true;
    for (uint32_t k = 0; updates && k < f.n_results; k++) any |= updates[k] != HOP_NONE;
    if (!any) return fn;
    uint32_t *news = no_news(&m->arena, f.n_params);
    any = false;
    for (uint32_t k = 0; updates && k < f.n_results; k++)
        if (updates[k] != HOP_NONE && value_type(&f, f.results[k]) == value_type(&f, updates[k])) {
            news[updates[k]] = k;
            any = true;
        }
    for (uint32_t p = 0; p < f.n_params; p++) same &= news[p] == (f.news ? f.news[p] : HOP_NONE);
    if (same) return fn;
    f.news = any ? news : NULL;
    f.label = fn_label(&f);
    f.name = 0;
    f.hash = structural_hash(&f);
    uint32_t equal = find_equal(m, &f);
    if (equal != HOP_NONE) return equal;
    /* The arrays are shared: finished functions do not change. */
    struct fn *out = arena_copy(&m->arena, &f, sizeof f);
    out->id = m->fns.len;
    vec_push(&m->arena, &m->fns, out);
    map_put(&m->fn_map, out->hash, out->id);
    return out->id;
}

/* ---- accessors ---- */

const val *node_group(const struct fn *f, const struct node *n, uint32_t g, uint32_t *first)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < g; i++) at += node_group_size(f, n, i);
    if (first) *first = at;
    return node_operands(f, n) + at;
}

const val *node_region_operands(const struct fn *f, const struct node *n, uint32_t r)
{
    return node_operands(f, n) + node_region(f, n, r)->operands;
}

type_id sig_feed_type(struct module *m, const struct op_row *row, uint32_t g, const struct attr *attrs,
                      type_id t)
{
    uint8_t kind = row->sig.groups[g].kind;
    if (kind != GROUP_OVER && kind != GROUP_PAIR) return t;
    const struct attr *which = kind == GROUP_PAIR && row->sig.dim_attr ? &attrs[row->sig.dim_attr - 1] : NULL;
    int64_t at = which && which->kind == ATTR_INT ? which->i : 0;
    if (at < 0 || at >= type_get(m, t).rank) return HOP_NONE;
    t = type_drop_dim(m, t, (uint32_t)at);
    axis_set bound = kind == GROUP_OVER ? axes_bound(m, row, attrs) : 0;
    return bound ? type_varying(m, t, type_get(m, t).varying | bound) : t;
}

uint32_t sig_result_sizes(const struct op_row *row, uint32_t r, const uint32_t *groups,
                          uint32_t n_region_results, uint32_t sizes[3])
{
    const struct sig_region *sig = sig_region(row, r);
    uint32_t n = 0, left = n_region_results;
    while (n < 3 && sig->results[n]) n++;
    for (uint32_t i = 0; i < n; i++) sizes[i] = 0;
    if (n > 1)
        for (uint32_t g = 0; g < row->sig.n_groups; g++)
            if (row->sig.groups[g].kind == GROUP_CARRY) {
                sizes[0] = HOP_MIN(groups[g], left);
                left -= sizes[0];
                break;
            }
    if (n) sizes[n - 1] = left;
    return n;
}
