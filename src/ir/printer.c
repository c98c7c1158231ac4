/* Prints modules in the text form. Canonical: reading what was printed and printing it again gives the same
 * bytes. Values get unique names, a body used once stands in place, everything else about a function comes
 * from its row's signature. Numbers, strings and constants are written by put.c. */
#include "ir/axes.h"
#include "ir/mesh.h"
#include "ir/named.h"
#include "ir/operator.h"
#include "ir/put.h"

/* ---- state ---- */

/* Printed names of values: a string id, or NUMBER | n for %n. */
#define NUMBER 0x80000000u

struct shown { /* a function being printed */
    const struct fn *f;
    const struct shown *outer;
    uint32_t *names;              /* per value */
    const struct symbol *symbols; /* with unique names */
    uint32_t depth;               /* of indentation */
    uint32_t next_symbol;         /* the next one that a node binds */
};

struct printer {
    struct module *m;
    struct text *out;
    struct arena arena;
    unsigned flags;
    uint32_t *uses, *nesting; /* per function */
    bool *reached, *in_place;
    uint32_t *fn_names, *const_names; /* string ids */
    bool *const_used;
    vec(bool) taken;           /* per string id: a visible value has it */
    vec(uint8_t) symbol_taken; /* the same for symbols, while one function's are made unique */
    vec(uint32_t) taken_log, suffixes;
    uint32_t counter;   /* of values without a name */
    struct text *files; /* per file: how a place in it begins, once needed */
};

/* Names made here are strings of the module, which otherwise stays as it is. */
static uint32_t add_string(struct printer *p, const char *text)
{
    return module_string(p->m, text, strlen(text));
}

static void names_room(struct printer *p)
{
    uint32_t n = p->m->strings.len;
    if (p->taken.len >= n) return;
    vec_reserve(&p->arena, &p->taken, HOP_MAX(n, HOP_MIN(p->taken.cap * 2, 1u << 30)));
    vec_reserve(&p->arena, &p->suffixes, p->taken.cap);
    memset(p->taken.data + p->taken.len, 0, (p->taken.cap - p->taken.len) * sizeof *p->taken.data);
    memset(p->suffixes.data + p->taken.len, 0, (p->taken.cap - p->taken.len) * sizeof *p->suffixes.data);
    vec_reserve(&p->arena, &p->symbol_taken, p->taken.cap);
    memset(p->symbol_taken.data + p->taken.len, 0, p->taken.cap - p->taken.len);
    p->taken.len = p->taken.cap;
    p->suffixes.len = p->taken.cap;
    p->symbol_taken.len = p->taken.cap;
}

static uint32_t unique_name(struct printer *p, uint32_t name)
{
    if (!name) return NUMBER | p->counter++;
    names_room(p);
    uint32_t unique = name;
    while (p->taken.data[unique]) {
        uint32_t suffix = ++p->suffixes.data[name];
        unique = add_string(p, arena_printf(&p->arena, "%s_%u", module_text(p->m, name), suffix));
        names_room(p);
    }
    return unique;
}

static void take_name(struct printer *p, uint32_t name)
{
    if (name & NUMBER || p->taken.data[name]) return;
    p->taken.data[name] = true;
    vec_push(&p->arena, &p->taken_log, name);
}

static void release_names(struct printer *p, uint32_t mark)
{
    while (p->taken_log.len > mark) p->taken.data[p->taken_log.data[--p->taken_log.len]] = false;
}

static void put_name(struct printer *p, char sigil, uint32_t name)
{
    put_char(p->out, sigil);
    if (name & NUMBER) {
        put_uint(p->out, name & ~NUMBER);
        return;
    }
    const char *text = module_text(p->m, name);
    if (lexer_is_word(text)) put_str(p->out, text);
    else text_quoted(p->out, text);
}

static void put_value(struct printer *p, const struct shown *s, val v) { put_name(p, '%', s->names[v]); }

static void put_values(struct printer *p, const struct shown *s, const val *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i) put(p->out, ", ", 2);
        put_value(p, s, list[i]);
    }
}

static void put_dim(struct printer *p, const struct shown *s, dim d)
{
    if (d & DIM_TABLE) dim_print(p->m, s ? s->symbols : NULL, d, p->out);
    else put_uint(p->out, d);
}

static void put_type(struct printer *p, const struct shown *s, type_id t)
{
    struct type type = type_get(p->m, t);
    if (type.kind) {
        type_print(p->m, NULL, t, p->out);
        return;
    }
    put_str(p->out, dtype_info[type.dtype].name);
    put_char(p->out, '[');
    for (uint32_t i = 0; i < type.rank; i++) {
        if (i) put(p->out, ", ", 2);
        put_dim(p, s, type.dims[i]);
    }
    put_char(p->out, ']');
    layout_print(p->m, type.layout, p->out);
    axes_print(p->m, type.varying, p->out);
}

static void put_line(struct printer *p, uint32_t depth)
{
    put_char(p->out, '\n');
    for (uint32_t i = 0; i < depth; i++) put(p->out, "  ", 2);
}

/* in "step" from "rnn.py":30 in "loss" from …: the frames behind a place, the innermost first. */
static void put_frames(struct printer *p, const char *file)
{
    const char *function, *caller;
    int line;
    while (frame_caller(file, &function, &caller, &line) && *function) {
        put_str(p->out, " in ");
        text_quoted(p->out, function);
        if (!caller) return;
        put_str(p->out, " from ");
        text_quoted(p->out, caller);
        put_char(p->out, ':');
        put_uint(p->out, (uint32_t)line);
        file = caller;
    }
}

static void put_place(struct printer *p, struct place place)
{
    if (!(p->flags & TEXT_LOCATIONS)) return;
    if (!p->files[place.file].data) {
        p->files[place.file].arena = &p->arena;
        text_str(&p->files[place.file], " @");
        text_quoted(&p->files[place.file], p->m->files.data[place.file]);
        text_str(&p->files[place.file], ":");
    }
    put(p->out, p->files[place.file].data, p->files[place.file].len);
    put_uint(p->out, place.line);
    put_char(p->out, ':');
    put_uint(p->out, place.col);
    put_frames(p, p->m->files.data[place.file]);
}

/* Symbols with names that are words and differ within each kind. */
static const struct symbol *unique_symbols(struct printer *p, const struct fn *f)
{
    if (!f->n_symbols) return f->symbols;
    struct symbol *s = arena_copy(&p->arena, f->symbols, f->n_symbols * sizeof *s);
    for (uint32_t i = 0; i < f->n_symbols; i++) {
        uint32_t kind = s[i].origin == SYMBOL_NODE ? 2 : 1, suffix = 0;
        if (!lexer_is_word(module_text(p->m, s[i].name)))
            s[i].name = add_string(p, arena_printf(&p->arena, "s%u", i));
        names_room(p);
        while (p->symbol_taken.data[s[i].name] & kind) {
            const char *name = module_text(p->m, f->symbols[i].name);
            s[i].name = add_string(p, arena_printf(&p->arena, "%s_%u", name, ++suffix));
            names_room(p);
        }
        p->symbol_taken.data[s[i].name] |= (uint8_t)kind;
    }
    for (uint32_t i = 0; i < f->n_symbols; i++) p->symbol_taken.data[s[i].name] = 0;
    return s;
}

/* ---- bodies: how the reader would see them ---- */

struct lifted {
    const struct shown *around;
    dim *inner;     /* per symbol of the function around: the body's dim, HOP_NONE */
    uint32_t n;     /* symbols lifted so far */
    uint32_t *list; /* the outer symbol of each */
};

static bool lift_one(void *ctx, uint32_t symbol)
{
    struct lifted *l = ctx;
    if (l->inner[symbol] == HOP_NONE) {
        l->inner[symbol] = 0; /* seen */
        l->list[l->n++] = symbol;
    }
    return false;
}

static bool is_lost(void *inner, uint32_t symbol) { return ((const dim *)inner)[symbol] == HOP_NONE; }

struct body_plan {
    bool symbols;    /* print the list of symbols */
    bool *typed;     /* per parameter of the body: print its type */
    bool typed_feed; /* one that a group feeds is among them */
};

static type_id *feed_types(struct printer *p, const struct fn *f, const struct node *n, uint32_t r,
                           uint32_t *n_fed)
{
    const struct op_row *row = node_row(n);
    const struct sig_region *sig = sig_region(row, r);
    const struct region *g = node_region(f, n, r);
    type_id *types = ARENA_NEW(&p->arena, type_id, 2 * (size_t)n->n_operands + 1);
    uint32_t count = 0, at = 0;
    for (uint32_t k = 0; k < row->sig.n_groups; at += node_group_size(f, n, k++))
        for (uint32_t times = sig->feeds >> k & 1 ? sig_group_feeds(row, k) : 0; times; times--)
            for (uint32_t i = 0; i < node_group_size(f, n, k); i++) {
                type_id operand = value_type(f, node_operands(f, n)[at + i]);
                types[count++] = sig_feed_type(p->m, row, k, f->attrs + n->attrs, operand);
            }
    *n_fed = count;
    for (uint32_t i = 0; i < g->n_operands; i++)
        types[count++] = value_type(f, node_region_operands(f, n, r)[i]);
    return types;
}

static bool plan_symbols(struct printer *p, const struct shown *around, const struct symbol *symbols,
                         const struct fn *g, const struct region *region, const type_id *feeds,
                         struct lifted *l)
{
    for (uint32_t i = 0; i < g->n_params; i++) {
        struct type t = type_get(p->m, feeds[i]);
        for (uint32_t k = 0; k < t.rank; k++)
            if (t.dims[k] & DIM_TABLE) dim_mentions(p->m, t.dims[k], lift_one, l);
    }
    if (l->n != g->n_outer_symbols) return true;
    for (uint32_t i = 0; i < l->n; i++) {
        const struct symbol *o = &around->symbols[l->list[i]];
        if (region->dims[i] != dim_symbol(p->m, l->list[i])) return true;
        if (symbols[i].name != o->name || symbols[i].lo != o->lo || symbols[i].hi != o->hi) return true;
    }
    return false;
}

/* Without a list of symbols the reader lifts the symbols of the operands' types in their order; with one it
 * starts from the list. What the parameter types become that way is compared with what they are. */
static struct body_plan plan_body(struct printer *p, const struct shown *around, const struct node *n,
                                  uint32_t r, const struct symbol *symbols)
{
    const struct region *region = node_region(around->f, n, r);
    const struct fn *g = module_fn(p->m, region->fn);
    struct body_plan plan = { .typed = ARENA_ZNEW(&p->arena, bool, g->n_params + 1) };
    uint32_t n_fed, n_outer = around->f->n_symbols, s;
    type_id *feeds = feed_types(p, around->f, n, r, &n_fed);
    struct lifted l = { around, ARENA_NEW(&p->arena, dim, n_outer + 1), 0,
                        ARENA_NEW(&p->arena, uint32_t, n_outer + 1) };
    for (uint32_t i = 0; i < n_outer; i++) l.inner[i] = HOP_NONE;
    plan.symbols = plan_symbols(p, around, symbols, g, region, feeds, &l);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) plan.symbols |= g->symbols[i].axis && !region->dims[i];
    for (uint32_t i = 0; i < n_outer; i++) l.inner[i] = HOP_NONE;
    for (uint32_t i = g->n_outer_symbols; i-- > 0;)
        if (dim_is_symbol(p->m, region->dims[i], &s)) l.inner[s] = dim_symbol(p->m, i);
    for (uint32_t i = 0; i < g->n_params; i++) {
        struct type have = type_get(p->m, value_type(g, i)), fed = type_get(p->m, feeds[i]);
        bool same = have.rank == fed.rank;
        if (node_row(n)->control == CONTROL_PARTS && i < n_fed) {
            plan.typed[i] = !parts_feed(p->m, &p->arena, around->f, n, i, l.inner);
            plan.typed_feed |= plan.typed[i];
            continue;
        }
        for (uint32_t k = 0; same && k < have.rank; k++) {
            dim d = fed.dims[k];
            if (!(d & DIM_TABLE)) same = have.dims[k] == d;
            else if (dim_mentions(p->m, d, is_lost, l.inner)) same = false;
            else same = have.dims[k] == dim_substitute(p->m, d, l.inner);
        }
        plan.typed[i] = !same;
        plan.typed_feed |= !same && i < n_fed;
    }
    return plan;
}

/* ---- nodes ---- */

static void put_statements(struct printer *p, struct shown *s, const struct op_row *row, uint32_t region,
                           const uint32_t *groups);

static void put_attr(struct printer *p, const struct shown *s, const struct attr_spec *spec,
                     const struct attr *a)
{
    struct text *t = p->out;
    uint64_t bits;
    switch (a->kind) {
    case ATTR_INT: put_int(t, a->i); break;
    case ATTR_REAL:
        memcpy(&bits, &a->r, sizeof bits);
        put_float(t, bits, DT_F64, true);
        break;
    case ATTR_INTS:
    case ATTR_DIMS:
        put_char(t, '[');
        for (uint32_t i = 0; i < a->n; i++) {
            if (i) put(t, ", ", 2);
            if (a->kind == ATTR_DIMS) put_dim(p, s, a->list[i]);
            else put_int(t, (int32_t)a->list[i]);
        }
        put_char(t, ']');
        break;
    case ATTR_DIM: put_dim(p, s, (dim)a->i); break;
    case ATTR_DTYPE: put_str(t, dtype_info[a->i].name); break;
    case ATTR_STRING: text_quoted(t, module_text(p->m, (uint32_t)a->i)); break;
    case ATTR_WORD: put_str(t, spec->words[a->i]); break;
    case ATTR_FN: put_name(p, '@', p->fn_names[a->i]); break;
    default:
        if (p->const_names[a->i]) put_name(p, '@', p->const_names[a->i]);
        else {
            put_type(p, NULL, p->m->constants.data[a->i].type);
            put_char(t, ' ');
            put_constant(p->m, t, (uint32_t)a->i);
        }
    }
}

static bool put_attrs(struct printer *p, const struct shown *s, const struct op_row *row,
                      const struct node *n)
{
    bool any = false;
    for (uint32_t i = 0; i < row->sig.n_attrs; i++) {
        const struct attr *a = node_attr(s->f, n, i);
        if (a->kind == ATTR_ABSENT) continue;
        if (a->kind == ATTR_NAMED && !a->n) continue;
        if (row->operator_attr == i + 1 && operator_is_word(module_text(p->m, (uint32_t)a->i))) continue;
        put(p->out, any ? ", " : " {", 2);
        any = true;
        if (a->kind == ATTR_NAMED) {
            named_print(p->m, a, p->out);
            continue;
        }
        put_str(p->out, row->sig.attrs[i].name);
        if (a->kind == ATTR_FLAG) continue;
        put(p->out, " = ", 3);
        put_attr(p, s, &row->sig.attrs[i], a);
    }
    if (any) put_char(p->out, '}');
    return any;
}

/* A name for a parameter of a body: that of its operand may be used again. */
static uint32_t param_name(struct printer *p, uint32_t name, uint32_t operand_name)
{
    return name && name == operand_name ? name : unique_name(p, name);
}

/* `along` and its axis, of a rank's coordinate; false: it is none, or nobody wants to know. */
static bool put_along(struct printer *p, const struct symbol *s, bool wanted)
{
    if (!s->axis || !wanted) return false;
    put_str(p->out, " along ");
    if (lexer_is_word(module_text(p->m, s->axis))) put_str(p->out, module_text(p->m, s->axis));
    else text_quoted(p->out, module_text(p->m, s->axis));
    return true;
}

static void put_range(struct printer *p, const struct symbol *s)
{
    put_str(p->out, " in ");
    put_int(p->out, s->lo);
    put(p->out, "..", 2);
    if (s->hi != INT64_MAX) put_int(p->out, s->hi);
}

static void put_requires(struct printer *p, const struct shown *s)
{
    if (!s->f->n_required) return;
    put_str(p->out, " require(");
    for (uint32_t i = 0; i < s->f->n_required; i++) {
        if (i) put(p->out, ", ", 2);
        put_dim(p, s, s->f->required[i].a);
        put_str(p->out, " == ");
        put_dim(p, s, s->f->required[i].b);
    }
    put_char(p->out, ')');
}

static void put_body_symbols(struct printer *p, const struct shown *around, const struct shown *s,
                             const struct region *region)
{
    put_str(p->out, " [");
    for (uint32_t i = 0; i < s->f->n_outer_symbols; i++) {
        const struct symbol *mine = &s->symbols[i];
        uint32_t found = HOP_NONE;
        for (uint32_t k = 0; k < around->f->n_symbols; k++) {
            if (around->symbols[k].name != mine->name) continue;
            if (found == HOP_NONE || around->symbols[found].origin == SYMBOL_NODE) found = k;
        }
        bool plain = found != HOP_NONE && region->dims[i] == dim_symbol(p->m, found);
        int64_t lo = plain ? around->symbols[found].lo : 0;
        int64_t hi = plain ? around->symbols[found].hi : INT64_MAX;
        if (i) put(p->out, ", ", 2);
        put_str(p->out, module_text(p->m, mine->name));
        if (put_along(p, mine, !plain)) continue;
        if (mine->lo != lo || mine->hi != hi) put_range(p, mine);
        if (plain) continue;
        put(p->out, " = ", 3);
        put_dim(p, around, region->dims[i]);
    }
    put_char(p->out, ']');
}

/* %p: type = %v */
static void put_binding(struct printer *p, const struct shown *around, const struct shown *body,
                        uint32_t param, bool typed, val operand, bool over)
{
    uint32_t name = body->names[param], operand_name = around->names[operand];
    if (name != operand_name || typed || over) {
        put_name(p, '%', name);
        if (typed) {
            put(p->out, ": ", 2);
            put_type(p, body, value_type(body->f, param));
        }
        put_str(p->out, over ? " in " : " = ");
    }
    put_name(p, '%', operand_name);
}

/* @f[dims](operands) */
static void put_reference(struct printer *p, const struct shown *s, const struct node *n, uint32_t r)
{
    struct module *m = p->m;
    const struct region *region = node_region(s->f, n, r);
    const struct fn *g = module_fn(m, region->fn);
    put_name(p, '@', p->fn_names[g->id]);
    uint32_t n_fed, k;
    type_id *feeds = feed_types(p, s->f, n, r, &n_fed);
    dim *found = ARENA_NEW(&p->arena, dim, g->n_outer_symbols + 1);
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) found[i] = HOP_NONE;
    for (uint32_t i = 0; i < g->n_params; i++) {
        struct type want = type_get(m, value_type(g, i)), have = type_get(m, feeds[i]);
        for (uint32_t d = 0; d < want.rank; d++)
            if (want.dims[d] & DIM_TABLE && dim_is_symbol(m, want.dims[d], &k) && found[k] == HOP_NONE)
                found[k] = have.dims[d];
    }
    bool any = false;
    const struct symbol *symbols = NULL;
    for (uint32_t i = 0; i < g->n_outer_symbols; i++) {
        if (found[i] == region->dims[i]) continue;
        put_str(p->out, any ? ", " : "[");
        any = true;
        if (g->symbols[i].origin != SYMBOL_DIM) {
            if (!symbols) symbols = unique_symbols(p, g);
            put_str(p->out, module_text(m, symbols[i].name));
            put(p->out, " = ", 3);
        }
        put_dim(p, s, region->dims[i]);
    }
    if (any) put_char(p->out, ']');
    put_char(p->out, '(');
    put_values(p, s, node_region_operands(s->f, n, r), region->n_operands);
    put_char(p->out, ')');
}

static void put_body(struct printer *p, const struct shown *s, const struct node *n, uint32_t r,
                     struct shown *body, const struct body_plan *plan, bool in_list)
{
    const struct op_row *row = node_row(n);
    const struct region *region = node_region(s->f, n, r);
    const val *own = node_region_operands(s->f, n, r);
    uint32_t fed = body->f->n_params - region->n_operands, mark = p->taken_log.len;
    for (uint32_t i = 0; i < fed; i++) take_name(p, body->names[i]);
    for (uint32_t i = 0; i < region->n_operands; i++) {
        body->names[fed + i] = param_name(p, body->f->values[fed + i].name, s->names[own[i]]);
        for (uint32_t k = 0; k < fed + i; k++) /* its operand's name may have gone to another parameter */
            if (body->names[k] == body->names[fed + i])
                body->names[fed + i] = unique_name(p, body->f->values[fed + i].name);
        take_name(p, body->names[fed + i]);
    }
    if (region->n_operands) {
        put_str(p->out, in_list ? "(" : " with(");
        for (uint32_t i = 0; i < region->n_operands; i++) {
            if (i) put(p->out, ", ", 2);
            put_binding(p, s, body, fed + i, plan->typed[fed + i], own[i], false);
        }
        put_char(p->out, ')');
    }
    if (plan->symbols) put_body_symbols(p, s, body, region);
    put_requires(p, body);
    char last = p->out->data[p->out->len - 1];
    bool begins = in_list && last != ')' && last != ']';
    if (!begins) put_char(p->out, ' ');
    if (p->fn_names[body->f->id]) {
        put_name(p, '@', p->fn_names[body->f->id]);
        put_char(p->out, ' ');
    }
    put_char(p->out, '{');
    put_statements(p, body, row, r, s->f->pool + n->groups);
    put_line(p, s->depth);
    put_char(p->out, '}');
    release_names(p, mark);
}

static struct shown show(struct printer *p, const struct fn *f, const struct shown *outer, uint32_t depth)
{
    return (struct shown){ .f = f,
                           .outer = outer,
                           .names = ARENA_NEW(&p->arena, uint32_t, f->n_values + 1),
                           .symbols = unique_symbols(p, f),
                           .depth = depth,
                           .next_symbol = f->n_outer_symbols };
}

/* A name for fed parameter i of a body, which may be that of its operand. */
static uint32_t fed_name(struct printer *p, struct shown *body, uint32_t i, uint32_t operand_name)
{
    uint32_t name = param_name(p, body->f->values[i].name, operand_name);
    for (uint32_t k = 0; k < i; k++)
        if (body->names[k] == name) name = unique_name(p, body->f->values[i].name);
    take_name(p, name);
    body->names[i] = name;
    return name;
}

/* (%l, %r) in %v: parameters `left` and `right` of the one body there is. */
static void put_pair(struct printer *p, const struct shown *around, const struct shown *body, uint32_t left,
                     uint32_t right, const bool *typed, val operand)
{
    put_char(p->out, '(');
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t param = i ? right : left;
        if (i) put(p->out, ", ", 2);
        put_name(p, '%', body->names[param]);
        if (!typed[param]) continue;
        put(p->out, ": ", 2);
        put_type(p, body, value_type(body->f, param));
    }
    put_str(p->out, ") in ");
    put_name(p, '%', around->names[operand]);
}

/* Groups and bodies. The parameters that groups feed have one name in all bodies. */
static void put_higher(struct printer *p, const struct shown *s, const struct node *n)
{
    const struct op_row *row = node_row(n);
    bool attrs = put_attrs(p, s, row, n);
    struct shown *bodies = ARENA_ZNEW(&p->arena, struct shown, n->n_regions + 1u);
    struct body_plan *plans = ARENA_ZNEW(&p->arena, struct body_plan, n->n_regions + 1u);
    uint32_t *fed = ARENA_ZNEW(&p->arena, uint32_t, n->n_regions + 1u), first = HOP_NONE;
    for (uint32_t r = 0; r < n->n_regions; r++) {
        const struct fn *g = module_fn(p->m, node_region(s->f, n, r)->fn);
        if (!p->in_place[g->id]) continue;
        bodies[r] = show(p, g, s, s->depth + 1);
        plans[r] = plan_body(p, s, n, r, bodies[r].symbols);
    }
    uint32_t at = 0, mark = p->taken_log.len;
    for (uint32_t g = 0; g < row->sig.n_groups; g++) {
        uint32_t size = node_group_size(s->f, n, g);
        first = HOP_NONE;
        for (uint32_t r = n->n_regions; r-- > 0;)
            if (bodies[r].f && sig_region(row, r)->feeds >> g & 1) first = r;
        if (size) {
            if (row->sig.groups[g].word[0] || attrs) put_char(p->out, ' ');
            put_str(p->out, row->sig.groups[g].word);
            put_char(p->out, '(');
        }
        bool pair = row->sig.groups[g].kind == GROUP_PAIR && first != HOP_NONE;
        for (uint32_t i = 0; pair && i < 2 * size; i++)
            fed_name(p, &bodies[first], fed[first] + i, s->names[node_operands(s->f, n)[at + i % size]]);
        for (uint32_t i = 0; i < size; i++, at++) {
            val operand = node_operands(s->f, n)[at];
            if (i) put(p->out, ", ", 2);
            if (first == HOP_NONE) {
                put_value(p, s, operand);
                continue;
            }
            struct shown *body = &bodies[first];
            if (pair) {
                put_pair(p, s, body, fed[first] + i, fed[first] + size + i, plans[first].typed, operand);
                continue;
            }
            uint32_t name = fed_name(p, body, fed[first], s->names[operand]);
            put_binding(p, s, body, fed[first], plans[first].typed[fed[first]], operand,
                        row->sig.groups[g].kind == GROUP_OVER);
            for (uint32_t r = 0; r < n->n_regions; r++)
                if (bodies[r].f && sig_region(row, r)->feeds >> g & 1) bodies[r].names[fed[r]++] = name;
        }
        if (pair) fed[first] += 2 * size;
        if (size) put_char(p->out, ')');
    }
    release_names(p, mark);
    bool many = row->sig.max_regions == MANY;
    if (many) put(p->out, " [", 2);
    for (uint32_t r = 0; r < n->n_regions; r++) {
        if (many && r) put(p->out, ", ", 2);
        if (!many && sig_region(row, r)->word[0]) {
            put_char(p->out, ' ');
            put_str(p->out, sig_region(row, r)->word);
        }
        if (bodies[r].f) put_body(p, s, n, r, &bodies[r], &plans[r], many);
        else {
            if (!many) put_char(p->out, ' ');
            put_reference(p, s, n, r);
        }
    }
    if (many) put_char(p->out, ']');
}

/* The name of its row, or of the operator from outside that it calls. */
static const char *node_word(const struct printer *p, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    if (!row->operator_attr) return row->name;
    const char *name = module_text(p->m, (uint32_t)node_attr(f, n, row->operator_attr - 1u)->i);
    return operator_is_word(name) ? name : row->name;
}

static void put_node(struct printer *p, struct shown *s, const struct node *n)
{
    const struct op_row *row = node_row(n);
    uint32_t index = (uint32_t)(n - s->f->nodes), bound = s->next_symbol;
    while (s->next_symbol < s->f->n_symbols && s->f->symbols[s->next_symbol].index == index) s->next_symbol++;
    bool binds = s->next_symbol > bound;
    put_line(p, s->depth);
    for (uint32_t i = 0; i < n->n_results; i++) {
        val v = n->results + i;
        if (i) put(p->out, ", ", 2);
        s->names[v] = unique_name(p, s->f->values[v].name);
        for (uint32_t k = 0; k < i; k++) /* Not taken yet, as the node's bodies may use it. */
            if (s->names[v] == s->names[n->results + k] && !(s->names[v] & NUMBER)) {
                take_name(p, s->names[v]);
                s->names[v] = unique_name(p, s->f->values[v].name);
                release_names(p, p->taken_log.len - 1);
                k = HOP_NONE;
            }
        put_value(p, s, v);
        if (binds) {
            put(p->out, ": ", 2);
            put_type(p, s, value_type(s->f, v));
        }
    }
    if (n->n_results) put(p->out, " = ", 3);
    put_str(p->out, node_word(p, s->f, n));
    if (row->flags & OPF_HIGHER) put_higher(p, s, n);
    else {
        bool attrs = put_attrs(p, s, row, n);
        if (n->n_operands || row->operator_attr) {
            put_str(p->out, attrs ? " (" : "(");
            put_values(p, s, node_operands(s->f, n), n->n_operands);
            put_char(p->out, ')');
        }
    }
    for (uint32_t i = 0; i < n->n_results; i++) take_name(p, s->names[n->results + i]);
    put_place(p, n->place);
}

/* row NULL: a function, which ends with `return`. */
static void put_statements(struct printer *p, struct shown *s, const struct op_row *row, uint32_t region,
                           const uint32_t *groups)
{
    const struct fn *f = s->f;
    for (uint32_t i = 0; i < f->n_nodes; i++) put_node(p, s, fn_node(f, i));
    put_line(p, s->depth);
    if (!row) {
        put_str(p->out, f->n_results ? "return " : "return");
        put_values(p, s, f->results, f->n_results);
        return;
    }
    uint32_t sizes[3], n = sig_result_sizes(row, region, groups, f->n_results, sizes), at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!sizes[i] && (f->n_results || i)) continue;
        if (at) put_char(p->out, ' ');
        put_str(p->out, sig_region(row, region)->results[i]);
        put_char(p->out, '(');
        put_values(p, s, f->results + at, sizes[i]);
        put_char(p->out, ')');
        at += sizes[i];
    }
}

/* ---- functions ---- */

struct appearance {
    uint32_t n;
    bool in_order, *seen;
};

static bool appear(void *ctx, uint32_t symbol)
{
    struct appearance *a = ctx;
    if (!a->seen[symbol]) {
        a->seen[symbol] = true;
        a->in_order &= symbol == a->n++;
    }
    return false;
}

/* Declarations are printed when parameter types alone would give other symbols or another order. */
static void put_symbols(struct printer *p, const struct shown *s)
{
    const struct fn *f = s->f;
    struct appearance a = { 0, true, ARENA_ZNEW(&p->arena, bool, f->n_symbols + 1) };
    for (uint32_t i = 0; i < f->n_params; i++) {
        struct type t = type_get(p->m, value_type(f, i));
        for (uint32_t k = 0; k < t.rank; k++)
            if (t.dims[k] & DIM_TABLE) dim_mentions(p->m, t.dims[k], appear, &a);
    }
    bool needed = !a.in_order || a.n != f->n_outer_symbols;
    for (uint32_t i = 0; i < f->n_outer_symbols; i++) {
        bool bounded = f->symbols[i].lo != 0 || f->symbols[i].hi != INT64_MAX;
        needed |= f->symbols[i].origin != SYMBOL_PARAM || bounded;
    }
    if (!needed) return;
    put_char(p->out, '[');
    for (uint32_t i = 0; i < f->n_outer_symbols; i++) {
        if (i) put(p->out, ", ", 2);
        if (f->symbols[i].origin == SYMBOL_DIM) put_str(p->out, "dim ");
        put_str(p->out, module_text(p->m, s->symbols[i].name));
        if (put_along(p, &f->symbols[i], true)) continue;
        if (f->symbols[i].lo != 0 || f->symbols[i].hi != INT64_MAX) put_range(p, &f->symbols[i]);
    }
    put_char(p->out, ']');
}

struct shown_params {
    struct printer *p;
    const struct shown *s;
};

static void put_accessed(struct text *out, uint32_t param, void *ctx)
{
    const struct shown_params *shown = ctx;
    HOP_UNUSED(out);
    put_value(shown->p, shown->s, param);
}

static void put_fn(struct printer *p, const struct fn *f)
{
    struct shown s = show(p, f, NULL, 1);
    uint32_t mark = p->taken_log.len;
    p->counter = 0;
    put_str(p->out, "\nfn ");
    put_name(p, '@', p->fn_names[f->id]);
    put_symbols(p, &s);
    put_char(p->out, '(');
    for (uint32_t i = 0; i < f->n_params; i++) {
        if (i) put(p->out, ", ", 2);
        s.names[i] = unique_name(p, f->values[i].name);
        take_name(p, s.names[i]);
        put_value(p, &s, i);
        put_str(p->out, f->news && f->news[i] != HOP_NONE ? ": mut " : ": ");
        put_type(p, &s, value_type(f, i));
    }
    put_str(p->out, ") -> (");
    for (uint32_t i = 0; i < f->n_results; i++) {
        uint32_t updated = fn_updated(f, i);
        if (i) put(p->out, ", ", 2);
        if (updated != HOP_NONE) {
            put_str(p->out, "new ");
            put_value(p, &s, updated);
        } else {
            put_type(p, &s, value_type(f, f->results[i]));
        }
    }
    put_char(p->out, ')');
    if (f->effects) {
        put_char(p->out, ' ');
        effects_text(p->out, f->effects, put_accessed, &(struct shown_params){ p, &s });
    }
    put_requires(p, &s);
    put_str(p->out, " {");
    put_statements(p, &s, NULL, 0, NULL);
    put_str(p->out, "\n}");
    put_place(p, f->place);
    put_char(p->out, '\n');
    release_names(p, mark);
}

/* ---- tests ---- */

static const char *const test_words[] = { "expect", "fails", "prints", "dim" };

static void put_param(struct printer *p, const struct fn *f, uint32_t param)
{
    uint32_t name = param < f->n_params ? f->values[param].name : 0;
    for (uint32_t i = 0; name && i < f->n_params; i++)
        if (i != param && f->values[i].name == name) name = 0;
    if (!name) {
        text_add(p->out, "#%u", param);
        return;
    }
    bool plain = lexer_is_word(module_text(p->m, name));
    for (uint32_t i = 0; i < HOP_COUNT(test_words); i++)
        plain &= strcmp(module_text(p->m, name), test_words[i]) != 0;
    if (plain) put_str(p->out, module_text(p->m, name));
    else put_name(p, '%', name);
}

static void put_params(struct printer *p, const struct fn *f, const uint32_t *params, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i) put(p->out, ", ", 2);
        put_param(p, f, params[i]);
    }
}

static void put_test_constant(struct printer *p, uint32_t constant)
{
    put(p->out, " = ", 3);
    if (p->const_names[constant]) put_name(p, '@', p->const_names[constant]);
    else put_constant(p->m, p->out, constant);
}

static void put_test_type(struct printer *p, type_id t)
{
    put(p->out, ": ", 2);
    put_type(p, NULL, t);
}

static void put_probes(struct printer *p, const struct test_transform *t)
{
    if (t->kind != TRANSFORM_PROBES && t->kind != TRANSFORM_PERTURB) return;
    if (t->names != HOP_NONE) text_quoted(p->out, module_text(p->m, t->names));
    if (t->stacked) put_str(p->out, "; stacked");
}

static void put_test(struct printer *p, const struct program_test *t)
{
    const struct fn *f = module_fn(p->m, t->fn);
    struct text *out = p->out;
    put_str(out, "\ntest ");
    if (t->name) {
        text_quoted(out, module_text(p->m, t->name));
        put_char(out, ' ');
    }
    for (uint32_t i = t->n_transforms; i-- > 0;) {
        put_str(out, transform_words[t->transforms[i].kind]);
        put_char(out, '(');
        put_params(p, f, t->transforms[i].params, t->transforms[i].n);
        if (t->transforms[i].kind == TRANSFORM_VMAP && t->transforms[i].size >= 0)
            text_add(out, "; size = %lld", (long long)t->transforms[i].size);
        put_probes(p, &t->transforms[i]);
        put_str(out, ") ");
    }
    put_name(p, '@', p->fn_names[t->fn]);
    put_str(out, " {");
    for (uint32_t i = 0, k = 0; i < f->n_outer_symbols; i++)
        if (f->symbols[i].origin == SYMBOL_DIM && k < t->n_dims)
            text_add(out, "\n  dim %s = %lld", module_text(p->m, f->symbols[i].name),
                     (long long)t->dims[k++]);
    for (uint32_t i = 0; i < t->n_inputs; i++) {
        const struct test_input *in = &t->inputs[i];
        put_line(p, 1);
        put_param(p, f, in->param);
        put_test_type(p, in->kind == INPUT_RANDOM ? in->type : p->m->constants.data[in->constant].type);
        if (in->kind == INPUT_CONST) {
            put_test_constant(p, in->constant);
            continue;
        }
        text_add(out, " = random %llu in ", (unsigned long long)in->seed);
        text_print_element(DT_F64, &in->lo, out);
        put(out, "..", 2);
        text_print_element(DT_F64, &in->hi, out);
    }
    for (uint32_t i = 0; i < t->n_expects; i++) {
        put_line(p, 1);
        text_add(out, "expect %u", t->expects[i].result);
        put_test_type(p, p->m->constants.data[t->expects[i].constant].type);
        if (t->expects[i].within != 0) {
            put_str(out, " within ");
            text_print_element(DT_F64, &t->expects[i].within, out);
        }
        put_test_constant(p, t->expects[i].constant);
    }
    for (uint32_t i = 0; i < t->n_properties; i++) {
        put_line(p, 1);
        put_str(out, module_text(p->m, t->properties[i].word));
        put_char(out, '(');
        put_params(p, f, t->properties[i].params, t->properties[i].n);
        put_char(out, ')');
    }
    if (t->fails) {
        put_str(out, "\n  fails ");
        text_quoted(out, module_text(p->m, t->fails));
    }
    if (t->prints) {
        put_str(out, "\n  prints ");
        text_quoted(out, module_text(p->m, t->prints));
    }
    put_str(out, "\n}\n");
}

/* ---- modules ---- */

enum { DEEPEST_IN_PLACE = 64, LARGEST_IN_PLACE = 16 /* elements of a constant */ };

/* A body can stand in place unless a parameter that feeds several bodies must show its type, which differs
 * from body to body, or one is `mut`. */
static bool fits_in_place(struct printer *p, const struct fn *f, const struct node *n, uint32_t r)
{
    const struct fn *g = module_fn(p->m, node_region(f, n, r)->fn);
    if (g->name || g->news || p->uses[g->id] != 1 || p->nesting[f->id] >= DEEPEST_IN_PLACE) return false;
    if (n->n_regions == 1) return true;
    struct shown around = { .f = f, .symbols = f->symbols };
    return !plan_body(p, &around, n, r, g->symbols).typed_feed;
}

/* Functions that attributes name are printed with a name of their own. */
static void reach_attrs(struct printer *p, const struct fn *f)
{
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t k = 0; k < node_row(n)->sig.n_attrs; k++) {
            const struct attr *a = node_attr(f, n, k);
            if (a->kind != ATTR_FN) continue;
            p->reached[a->i] = true;
            p->uses[a->i] += 2;
        }
    }
}

/* A body's function is older than the one that uses it, so one walk from the newest to the oldest sees users
 * first. */
static void reach(struct printer *p, uint32_t root)
{
    struct module *m = p->m;
    if (root != HOP_NONE) p->reached[root] = true;
    for (uint32_t i = 0; i < m->fns.len; i++) p->reached[i] |= root == HOP_NONE && m->fns.data[i]->name;
    for (uint32_t i = 0; i < m->tests.len && root == HOP_NONE; i++) p->reached[m->tests.data[i]->fn] = true;
    for (uint32_t id = m->fns.len; id-- > 0;) {
        const struct fn *f = module_fn(m, id);
        if (!p->reached[id]) continue;
        for (uint32_t i = 0; i < f->n_regions; i++) {
            p->reached[f->regions[i].fn] = true;
            p->uses[f->regions[i].fn]++;
        }
        reach_attrs(p, f);
    }
    for (uint32_t i = 0; i < m->tests.len && root == HOP_NONE; i++) p->uses[m->tests.data[i]->fn] += 2;
    if (root != HOP_NONE) p->uses[root] += 2;
    for (uint32_t id = m->fns.len; id-- > 0;) {
        const struct fn *f = module_fn(m, id);
        for (uint32_t i = 0; p->reached[id] && f->n_regions && i < f->n_nodes; i++) {
            const struct node *n = fn_node(f, i);
            for (uint32_t r = 0; r < n->n_regions; r++) {
                uint32_t g = node_region(f, n, r)->fn;
                if (fits_in_place(p, f, n, r)) {
                    p->in_place[g] = true;
                    p->nesting[g] = p->nesting[id] + 1;
                }
            }
        }
    }
}

static void name_functions(struct printer *p)
{
    struct module *m = p->m;
    enum { NAMED, LABELLED, MADE_UP, PASSES }; /* names that are there first, the others around them */
    for (int pass = 0; pass < PASSES; pass++)
        for (uint32_t id = 0; id < m->fns.len; id++) {
            const struct fn *f = module_fn(m, id);
            int kind = f->label ? LABELLED : MADE_UP;
            if (f->name) kind = NAMED;
            if (!p->reached[id] || kind != pass || (p->in_place[id] && kind == MADE_UP)) continue;
            uint32_t name = fn_label(f) ? fn_label(f) : add_string(p, arena_printf(&p->arena, "body_%u", id));
            p->fn_names[id] = unique_name(p, name);
            take_name(p, p->fn_names[id]);
        }
}

static void mark_constants(struct printer *p, uint32_t root)
{
    struct module *m = p->m;
    for (uint32_t id = 0; id < m->fns.len; id++) {
        const struct fn *f = module_fn(m, id);
        for (uint32_t i = 0; p->reached[id] && i < f->n_nodes; i++) {
            const struct op_row *row = node_row(fn_node(f, i));
            for (uint32_t k = 0; k < row->sig.n_attrs; k++) {
                const struct attr *a = node_attr(f, fn_node(f, i), k);
                if (a->kind == ATTR_CONST) p->const_used[a->i] = true;
            }
        }
    }
    for (uint32_t i = 0; i < m->constants.len; i++) {
        const struct constant *c = &m->constants.data[i];
        if (c->name && root == HOP_NONE) p->const_used[i] = true;
        size_t in_place = (size_t)LARGEST_IN_PLACE * dtype_info[type_get(m, c->type).dtype].size;
        if (!p->const_used[i] || (!c->name && c->bytes <= in_place)) continue;
        uint32_t name = c->name ? c->name : add_string(p, arena_printf(&p->arena, "const_%u", i));
        p->const_names[i] = unique_name(p, name);
        take_name(p, p->const_names[i]);
    }
}

/* Room for the whole text at once, guessed from the number of nodes: growing step by step would copy it
 * several times. */
static void reserve(struct printer *p)
{
    size_t nodes = 0, room;
    for (uint32_t i = 0; i < p->m->fns.len; i++) nodes += p->reached[i] ? module_fn(p->m, i)->n_nodes : 0;
    room = p->out->len + nodes * (p->flags & TEXT_LOCATIONS ? 80 : 48);
    if (nodes < 1000 || p->out->cap > room) return;
    char *data = arena_alloc(p->out->arena, room);
    if (p->out->len) memcpy(data, p->out->data, p->out->len);
    p->out->data = data;
    p->out->cap = room;
}

/* The declarations of operators from outside that are called. Their rules stand in the calls. */
static void put_operators(struct printer *p)
{
    struct module *m = p->m;
    bool *used = ARENA_ZNEW(&p->arena, bool, m->strings.len + 1);
    for (uint32_t id = 0; m->operators.len && id < m->fns.len; id++) {
        const struct fn *f = module_fn(m, id);
        for (uint32_t i = 0; p->reached[id] && i < f->n_nodes; i++) {
            const struct node *n = fn_node(f, i);
            uint8_t attr = node_row(n)->operator_attr;
            if (attr) used[node_attr(f, n, attr - 1u)->i] = true;
        }
    }
    for (uint32_t i = 0; i < m->operators.len; i++) {
        const struct operator_decl *d = m->operators.data[i];
        if (!used[d->name]) continue;
        put_str(p->out, "operator @");
        put_str(p->out, d->signature);
        operator_options_print(d, p->out);
        put_char(p->out, '\n');
    }
}

/* The meshes of the module, where anything that is printed may mention one. */
static void put_meshes(struct printer *p)
{
    struct module *m = p->m;
    axis_set axes = meshes_axes(m), used = 0;
    for (uint32_t i = 0; i < m->fns.len && m->meshes.len; i++) {
        const struct fn *f = module_fn(m, i);
        if (!p->reached[i]) continue;
        if (f->global) used = axes;
        used |= f->axes;
        for (uint32_t v = 0; v < f->n_values; v++) used |= type_get(m, value_type(f, v)).varying;
        for (uint32_t s = 0; s < f->n_outer_symbols; s++) used |= f->symbols[s].axis ? axes : 0;
    }
    for (uint32_t i = 0; i < m->meshes.len; i++) {
        if (!(mesh_axes(m, i) & used)) continue;
        put_str(p->out, "mesh ");
        put_name(p, '@', m->meshes.data[i].name);
        put_str(p->out, " = (");
        mesh_print(m, &m->meshes.data[i], p->out);
        put_str(p->out, ")\n");
    }
}

static void print_module(struct printer *p, uint32_t root)
{
    struct module *m = p->m;
    uint32_t n = m->fns.len + 1;
    p->uses = ARENA_ZNEW(&p->arena, uint32_t, n);
    p->nesting = ARENA_ZNEW(&p->arena, uint32_t, n);
    p->reached = ARENA_ZNEW(&p->arena, bool, n);
    p->in_place = ARENA_ZNEW(&p->arena, bool, n);
    p->fn_names = ARENA_ZNEW(&p->arena, uint32_t, n);
    p->const_names = ARENA_ZNEW(&p->arena, uint32_t, m->constants.len + 1);
    p->const_used = ARENA_ZNEW(&p->arena, bool, m->constants.len + 1);
    p->files = ARENA_ZNEW(&p->arena, struct text, m->files.len + 1);
    reach(p, root);
    reserve(p);
    name_functions(p);
    mark_constants(p, root);
    release_names(p, 0); /* names of functions and of values do not meet */
    put_str(p->out, "hop 1\n");
    put_meshes(p);
    put_operators(p);
    for (uint32_t i = 0; i < m->constants.len; i++) {
        if (!p->const_names[i]) continue;
        put_str(p->out, "const ");
        put_name(p, '@', p->const_names[i]);
        put_test_type(p, m->constants.data[i].type);
        put(p->out, " = ", 3);
        put_constant(m, p->out, i);
        put_char(p->out, '\n');
    }
    for (uint32_t i = 0; i < m->fns.len; i++)
        if (p->reached[i] && !p->in_place[i]) put_fn(p, module_fn(m, i));
    for (uint32_t i = 0; i < m->tests.len && root == HOP_NONE; i++) put_test(p, m->tests.data[i]);
}

static void printer_free(void *printer) { arena_free(&((struct printer *)printer)->arena); }

void text_print(const struct module *m, uint32_t fn, unsigned flags, struct text *out)
{
    struct printer p = { .m = (struct module *)m, .out = out, .flags = flags };
    hop_cleanup_push(printer_free, &p);
    print_module(&p, fn);
    hop_cleanup_pop(&p);
    printer_free(&p);
}
