/* Reads nodes of the text form: names are resolved, each node goes to a builder (which checks and types it),
 * an inline body becomes a closed function. Generic over the signatures of the table; no operator is named
 * here. */
#include "ir/mesh.h"
#include "ir/named.h"
#include "ir/reader.h"

void reader_deeper(struct reader *r)
{
    if (++r->depth > MAX_NESTING)
        lexer_error(&r->lex, r->lex.tok, "nested more than %d levels deep", MAX_NESTING);
}

/* ---- names ---- */

uint32_t reader_name(struct reader *r)
{
    struct token t = r->lex.tok;
    size_t length;
    if (t.quoted) {
        char *text = lexer_string(&r->lex, &r->arena, &length);
        if (!length) lexer_error(&r->lex, t, "an empty name");
        return module_string(r->m, text, length);
    }
    lexer_next(&r->lex);
    return module_string(r->m, t.text, t.len);
}

/* Key of the current %name; moves on. */
uint32_t reader_value_key(struct reader *r, const char *what)
{
    struct token t = r->lex.tok;
    if (t.kind != TOKEN_VALUE) lexer_expected(&r->lex, what);
    bool is_number = !t.quoted && t.text[0] >= '0' && t.text[0] <= '9';
    if (is_number) { /* %12: a value without a name; no larger than the text is long */
        uint64_t n = 0;
        for (uint32_t i = 0; i < t.len; i++) {
            if (t.text[i] < '0' || t.text[i] > '9')
                lexer_error(&r->lex, t, "%%%.*s is neither a number nor a name", (int)HOP_MIN(t.len, 60u),
                            t.text);
            n = n * 10 + (uint64_t)(t.text[i] - '0');
            if (n > (uint64_t)(r->lex.end - r->lex.begin))
                lexer_error(&r->lex, t, "the number of the value %%%.*s is too large",
                            (int)HOP_MIN(t.len, 60u), t.text);
        }
        lexer_next(&r->lex);
        return NUMBER_KEY | (uint32_t)n;
    }
    return reader_name(r);
}

static const char *key_text(struct reader *r, uint32_t key)
{
    return key & NUMBER_KEY ? arena_printf(&r->arena, "%u", key & ~NUMBER_KEY) : module_text(r->m, key);
}

static uint32_t *key_head(struct reader *r, uint32_t key)
{
    uint32_t index = key & ~NUMBER_KEY;
    int table = key & NUMBER_KEY ? 1 : 0;
    if (index >= r->heads[table].len) {
        uint32_t doubled = HOP_MIN(r->heads[table].cap * 2, 1u << 30);
        vec_reserve(&r->arena, &r->heads[table], HOP_MAX(index + 1, doubled));
        while (r->heads[table].len < r->heads[table].cap)
            r->heads[table].data[r->heads[table].len++] = HOP_NONE;
    }
    return &r->heads[table].data[index];
}

static const struct binding *visible(struct reader *r, uint32_t key)
{
    uint32_t head = *key_head(r, key);
    return head != HOP_NONE && r->bindings.data[head].scope >= r->base ? &r->bindings.data[head] : NULL;
}

/* `same_as`: the name of the operand that a parameter stands for, which it may have too. */
void reader_bind(struct reader *r, struct token at, uint32_t key, val v, uint32_t same_as)
{
    const struct binding *old = visible(r, key);
    if (old && old->scope == r->scope) lexer_error(&r->lex, at, "%%%s is defined twice", key_text(r, key));
    if (old && key != same_as)
        lexer_error(&r->lex, at,
                    "%%%s shadows a value of the same name outside this body; choose another name",
                    key_text(r, key));
    uint32_t *head = key_head(r, key);
    vec_push(&r->arena, &r->bindings, (struct binding){ key, r->scope, *head, v });
    *head = r->bindings.len - 1;
}

uint32_t reader_scope_enter(struct reader *r)
{
    r->scope++;
    return r->bindings.len;
}

void reader_scope_leave(struct reader *r, uint32_t mark)
{
    while (r->bindings.len > mark) {
        const struct binding *b = &r->bindings.data[--r->bindings.len];
        *key_head(r, b->key) = b->outer;
    }
    r->scope--;
}

/* Where further on in these braces is the name defined? Only for the message. */
static uint32_t defined_later(struct reader *r, struct token name)
{
    struct lexer lx = r->lex;
    for (int depth = 0; lx.tok.kind != TOKEN_END; lexer_next(&lx)) {
        if (lx.tok.kind == '{') depth++;
        if (lx.tok.kind == '}' && depth-- == 0) return 0;
        if (depth || lx.tok.kind != TOKEN_VALUE || lx.tok.len != name.len) continue;
        if (memcmp(lx.tok.text, name.text, name.len)) continue;
        uint32_t line = lx.tok.line;
        struct lexer ahead = lx;
        lexer_next(&ahead);
        if (ahead.tok.kind == '=' || ahead.tok.kind == ':') return line;
    }
    return 0;
}

static val lookup_value(struct reader *r, struct token at, uint32_t key)
{
    const struct binding *b = visible(r, key);
    if (b && b->scope == r->scope) return b->v;
    const char *name = key_text(r, key);
    if (b)
        lexer_error(&r->lex, at,
                    "%%%s belongs to the function around this body, and a body sees only its parameters; "
                    "pass it in: with(%%%s), or (%%%s) in front of a body in a list",
                    name, name, name);
    uint32_t line = defined_later(r, at);
    if (line) lexer_error(&r->lex, at, "%%%s is used before its definition in line %u", name, line);
    lexer_error(&r->lex, at, "%%%s is not defined", name);
}

val reader_operand(struct reader *r)
{
    struct token at = r->lex.tok;
    uint32_t key = reader_value_key(r, "an operand (%name)");
    return lookup_value(r, at, key);
}

/* ---- attributes ---- */

static struct attr read_list(struct reader *r, struct frame *f, bool dims)
{
    vec(uint32_t) list = { 0 };
    lexer_expect(&r->lex, '[', "'['");
    while (r->lex.tok.kind != ']') {
        if (list.len) lexer_expect(&r->lex, ',', "',' or ']'");
        uint32_t one;
        if (dims) one = reader_dim(r, f);
        else one = (uint32_t)(int32_t)lexer_integer(&r->lex, INT32_MIN, INT32_MAX);
        vec_push(&f->b.arena, &list, one);
    }
    lexer_next(&r->lex);
    return (struct attr){ .kind = dims ? ATTR_DIMS : ATTR_INTS, .n = list.len, .list = list.data };
}

static struct attr read_scalar(struct reader *r)
{
    struct token sign = r->lex.tok;
    if (lexer_accept_word(&r->lex, "true")) return A_INT(1);
    if (lexer_accept_word(&r->lex, "false")) return A_INT(0);
    lexer_accept(&r->lex, '-');
    bool whole = token_is_integer(&r->lex.tok);
    lexer_seek(&r->lex, sign);
    if (whole) return A_INT(lexer_integer(&r->lex, INT64_MIN, INT64_MAX));
    uint64_t bits = lexer_f64(&r->lex);
    struct attr a = { .kind = ATTR_REAL };
    memcpy(&a.r, &bits, sizeof bits);
    return a;
}

static struct attr read_word(struct reader *r, const struct attr_spec *spec)
{
    char choices[256] = "";
    for (uint32_t i = 0; spec->words && spec->words[i]; i++) {
        if (lexer_accept_word(&r->lex, spec->words[i])) return A_WORD(i);
        size_t n = strlen(choices);
        snprintf(choices + n, sizeof choices - n, "%s%s", i ? ", " : "one of ", spec->words[i]);
    }
    lexer_expected(&r->lex, choices[0] ? choices : "a word");
}

static struct attr read_attr(struct reader *r, struct frame *f, const struct attr_spec *spec)
{
    struct lexer *lx = &r->lex;
    size_t length;
    uint64_t bits;
    struct attr a = { .kind = spec->kind };
    switch (spec->kind) {
    case ATTR_INT: return A_INT(lexer_integer(lx, INT64_MIN, INT64_MAX));
    case ATTR_REAL:
        bits = lexer_f64(lx);
        memcpy(&a.r, &bits, sizeof bits);
        return a;
    case ATTR_INTS: return read_list(r, f, false);
    case ATTR_DIM: return A_DIM(reader_dim(r, f));
    case ATTR_DIMS: return read_list(r, f, true);
    case ATTR_DTYPE: return A_DTYPE(reader_dtype(r));
    case ATTR_STRING: {
        if (lx->tok.kind != TOKEN_STRING) lexer_expected(lx, "a string");
        const char *text = lexer_string(lx, &r->arena, &length);
        return A_STRING(module_string(r->m, text, length));
    }
    case ATTR_CONST:
        if (lx->tok.kind == TOKEN_GLOBAL) {
            struct token at = lx->tok;
            const struct definition *d = reader_resolve(r, at, reader_name(r));
            if (!d->is_const) lexer_error(lx, at, "expected a constant, found a function");
            return A_CONST(d->index);
        }
        return A_CONST(reader_constant(r, reader_type(r, NULL), 0));
    case ATTR_WORD: return read_word(r, spec);
    case ATTR_FN: {
        struct token at = lx->tok;
        if (at.kind != TOKEN_GLOBAL) lexer_expected(lx, "a function");
        const struct definition *d = reader_resolve(r, at, reader_name(r));
        if (d->is_const) lexer_error(lx, at, "expected a function, found a constant");
        return A_FN(d->index);
    }
    default: return read_scalar(r);
    }
}

/* A body may follow where attributes may: { is theirs if a word stands in it that is followed as an
 * attribute's name is. */
static bool attrs_follow(const struct reader *r, const struct op_row *row)
{
    if (r->lex.tok.kind != '{') return false;
    if (!(row->flags & OPF_HIGHER)) return true;
    struct lexer ahead = r->lex;
    lexer_next(&ahead);
    if (ahead.tok.kind == TOKEN_WORD) lexer_next(&ahead);
    return ahead.tok.kind == '=' || ahead.tok.kind == ',' || ahead.tok.kind == '}';
}

static void read_attrs(struct reader *r, struct frame *f, const struct op_row *row, struct attr *attrs)
{
    struct lexer *lx = &r->lex;
    memset(attrs, 0, row->sig.n_attrs * sizeof *attrs);
    _Static_assert(ATTR_ABSENT == 0, "cleared attributes are absent");
    if (!attrs_follow(r, row)) return;
    lexer_next(lx);
    for (bool first = true; lx->tok.kind != '}'; first = false) {
        if (!first) lexer_expect(lx, ',', "',' or '}'");
        struct token at = lx->tok;
        if (at.kind != TOKEN_WORD) lexer_expected(lx, "the name of an attribute");
        uint32_t k = 0, last = row->sig.n_attrs ? row->sig.n_attrs - 1u : 0;
        while (k < row->sig.n_attrs && !token_is(&at, row->sig.attrs[k].name)) k++;
        if (k == row->sig.n_attrs && k && row->sig.attrs[last].kind == ATTR_NAMED) {
            named_read(r->m, lx, &f->b.arena, &attrs[last]);
            continue;
        }
        if (k == row->sig.n_attrs) {
            char names[512] = "none";
            for (uint32_t i = 0, n = 0; i < row->sig.n_attrs && n < sizeof names; i++)
                n += (uint32_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "",
                                        row->sig.attrs[i].name);
            lexer_error(lx, at, "%s has no attribute '%.*s'; it has: %s", row->name,
                        (int)HOP_MIN(at.len, 60u), at.text, names);
        }
        if (attrs[k].kind != ATTR_ABSENT)
            lexer_error(lx, at, "attribute '%s' is given twice", row->sig.attrs[k].name);
        lexer_next(lx);
        if (row->sig.attrs[k].kind == ATTR_FLAG) {
            attrs[k] = A_FLAG(1);
            if (lexer_accept(lx, '=') && !lexer_accept_word(lx, "true")) lexer_expected(lx, "true");
            continue;
        }
        lexer_expect(lx, '=', "'='");
        attrs[k] = read_attr(r, f, &row->sig.attrs[k]);
    }
    lexer_next(lx);
}

/* ---- operands, groups ---- */

/* ( %v, … ) onto r->vals. */
static void read_operands(struct reader *r)
{
    lexer_expect(&r->lex, '(', "'('");
    for (bool first = true; r->lex.tok.kind != ')'; first = false) {
        if (!first) lexer_expect(&r->lex, ',', "',' or ')'");
        val v = reader_operand(r);
        vec_push(&r->arena, &r->vals, v);
    }
    lexer_next(&r->lex);
}

/* (%left, %right) in front of `in` */
static void read_pair(struct reader *r, struct written_operand *item)
{
    struct lexer *lx = &r->lex;
    lexer_next(lx);
    item->at = lx->tok;
    item->param_key = reader_value_key(r, "the left parameter (%name)");
    item->typed = lexer_accept(lx, ':');
    if (item->typed) {
        item->type = lx->tok;
        reader_skip_type(r);
    }
    lexer_expect(lx, ',', "',' and the right parameter");
    item->right_at = lx->tok;
    item->right_key = reader_value_key(r, "the right parameter (%name)");
    item->right_typed = lexer_accept(lx, ':');
    if (item->right_typed) {
        item->right_type = lx->tok;
        reader_skip_type(r);
    }
    lexer_expect(lx, ')', "')'");
    if (!lexer_accept_word(lx, "in")) lexer_expected(lx, "'in'");
}

/* ( %p = %v, … ) onto r->items; operands that go to a body over their leading dim are written %p in %v. */
static void read_items(struct reader *r, uint8_t kind)
{
    bool over = kind == GROUP_OVER;
    struct lexer *lx = &r->lex;
    lexer_expect(lx, '(', "'('");
    for (bool first = true; lx->tok.kind != ')'; first = false) {
        if (!first) lexer_expect(lx, ',', "',' or ')'");
        struct written_operand item = { .at = lx->tok, .right_key = HOP_NONE };
        if (kind == GROUP_PAIR && lx->tok.kind == '(') {
            read_pair(r, &item);
            struct token operand = lx->tok;
            item.named = true;
            item.operand_key = reader_value_key(r, "an operand (%name)");
            item.v = lookup_value(r, operand, item.operand_key);
            vec_push(&r->arena, &r->items, item);
            continue;
        }
        item.operand_key = reader_value_key(r, "an operand (%name)");
        item.param_key = item.operand_key;
        if (lexer_accept(lx, ':')) {
            item.typed = true;
            item.type = lx->tok;
            reader_skip_type(r);
        }
        struct token operand = item.at;
        if (over ? token_is(&lx->tok, "in") : lx->tok.kind == '=') {
            lexer_next(lx);
            operand = lx->tok;
            item.operand_key = reader_value_key(r, "an operand (%name)");
            item.named = true;
        } else if (item.typed || lx->tok.kind == '=' || token_is(&lx->tok, "in"))
            lexer_expected(lx, over ? "'in'" : "'='");
        item.v = lookup_value(r, operand, item.operand_key);
        vec_push(&r->arena, &r->items, item);
    }
    lexer_next(lx);
}

/* ---- bodies ---- */

struct node_state {
    const struct op_row *row;
    const struct attr *attrs;
    struct token at;
    uint32_t items; /* in r->items: the node-level operands, group by group */
    uint32_t n_items;
    uint32_t groups[3];
    const struct region_in *regions;
};

struct lifting {
    struct reader *r;
    struct frame *f;
    dim *inner; /* per symbol of the frame around */
};

static bool lift_one(void *ctx, uint32_t symbol)
{
    struct lifting *l = ctx;
    l->inner[symbol] = dim_symbol(l->r->m, reader_lift_symbol(l->r, l->f, symbol));
    return false;
}

/* A type of the frame around in terms of the body's symbols. */
static type_id lower_type(struct reader *r, struct frame *f, type_id t)
{
    struct type type = type_get(r->m, t);
    struct lifting l = { r, f, NULL };
    for (uint32_t i = 0; i < type.rank; i++)
        if (type.dims[i] & DIM_TABLE) {
            if (!l.inner) l.inner = ARENA_NEW(&f->b.arena, dim, f->outer->b.symbols.len);
            dim_mentions(r->m, type.dims[i], lift_one, &l);
        }
    return l.inner ? type_substitute(r->m, t, l.inner) : t;
}

/* [T, K = 2*N, M in 1..8 = N]: the body's symbols where they are not simply those of its parameter types. */
static void read_body_symbols(struct reader *r, struct frame *f)
{
    struct lexer *lx = &r->lex;
    if (!lexer_accept(lx, '[')) return;
    for (bool first = true; lx->tok.kind != ']'; first = false) {
        if (!first) lexer_expect(lx, ',', "',' or ']'");
        struct token at = lx->tok;
        if (at.kind != TOKEN_WORD) lexer_expected(lx, "the name of a symbol");
        uint32_t name = reader_name(r), index = HOP_NONE;
        if (reader_find_symbol(f, name, false) != HOP_NONE)
            lexer_error(lx, at, "the dim symbol '%s' is declared twice", module_text(r->m, name));
        int64_t lo = 0, hi = INT64_MAX;
        uint32_t axis = reader_along(r, &hi);
        bool ranged = !axis && lexer_accept_word(lx, "in");
        if (ranged) reader_range(r, &lo, &hi);
        dim is = 0;
        if (lexer_accept(lx, '=')) {
            is = reader_dim(r, f->outer);
        } else if (!axis) {
            index = reader_lookup_symbol(r, f->outer, name, false);
            if (index == HOP_NONE)
                lexer_error(lx, at, "there is no dim symbol '%s' outside this body", module_text(r->m, name));
            if (!ranged) {
                lo = f->outer->b.symbols.data[index].lo;
                hi = f->outer->b.symbols.data[index].hi;
            }
            is = dim_symbol(r->m, index);
            axis = f->outer->b.symbols.data[index].axis;
        }
        index = reader_add_symbol(f, name, lo, hi, is);
        f->b.symbols.data[index].axis = axis;
    }
    lexer_next(lx);
}

void reader_requires(struct reader *r, struct frame *f)
{
    struct lexer *lx = &r->lex;
    while (token_is(&lx->tok, "require")) {
        lexer_next(lx);
        lexer_expect(lx, '(', "'('");
        do {
            f->b.place = token_place(lx, lx->tok);
            dim a = reader_dim(r, f);
            lexer_expect(lx, TOKEN_EQUALS, "'=='");
            dim c = reader_dim(r, f);
            builder_require(&f->b, a, c, "require");
        } while (lexer_accept(lx, ','));
        lexer_expect(lx, ')', "')'");
        f->b.place = (struct place){ 0 };
    }
}

static void bind_param(struct reader *r, struct frame *f, const struct written_operand *item, type_id type)
{
    val v = builder_param(&f->b, type, item->param_key & NUMBER_KEY ? 0 : item->param_key);
    reader_bind(r, item->at, item->param_key, v, item->operand_key);
}

/* What a rank has of an operand of the i-th one that a group gives the parts of, in terms of the body's
 * symbols. */
static type_id part_param(struct reader *r, struct frame *f, const struct node_state *node, uint32_t i,
                          struct token at, type_id type)
{
    const struct op_row *row = node->row;
    uint32_t mesh = mesh_named(r->m, row, node->attrs), n = node->groups[0];
    const struct attr *text = &node->attrs[row->part_attr - 1];
    if (mesh == HOP_NONE || text->kind != ATTR_STRING) return lower_type(r, f, type); /* told of below */
    struct placement(*placed)[MESH_AXES] = arena_alloc(&r->arena, (n + 1) * sizeof *placed);
    const char *wrong = placements_read(r->m, mesh, module_text(r->m, (uint32_t)text->i), n, placed);
    if (wrong)
        lexer_error(&r->lex, node->at, "%s: attribute '%s': %s", row->name,
                    row->sig.attrs[row->part_attr - 1].name, wrong);
    wrong = layout_error(r->m, type, mesh, placed[i]);
    if (wrong) lexer_error(&r->lex, at, "%s: %s", type_text(r->m, f->outer->b.symbols.data, type), wrong);
    type = type_laid_out(r->m, lower_type(r, f, type), 0);
    struct coordinates ranks = { { 0 } };
    uint32_t needed = part_coordinates(r->m, mesh, placed[i], type);
    for (uint32_t k = 0; k < MESH_AXES; k++)
        if (needed >> k & 1) ranks.at[k] = dim_symbol(r->m, reader_coordinate(r, f, mesh, k));
    return part_type(r->m, mesh, placed[i], type, &ranks);
}

static void body_param(struct reader *r, struct frame *f, const struct written_operand *item, type_id type)
{
    if (item->typed) {
        struct lexer saved = r->lex;
        lexer_seek(&r->lex, item->type);
        type = reader_type(r, f);
        r->lex = saved;
    } else type = lower_type(r, f, type);
    bind_param(r, f, item, type);
}

/* Parameters that group g feeds; `items`: where its items begin. */
static void group_params(struct reader *r, struct frame *f, const struct frame *around,
                         const struct node_state *node, uint32_t g, uint32_t items)
{
    const struct op_row *row = node->row;
    for (uint32_t time = 0; time < sig_group_feeds(row, g); time++)
        for (uint32_t i = 0; i < node->groups[g]; i++) {
            struct written_operand item = r->items.data[items + i];
            type_id t = builder_type(&around->b, item.v), fed = sig_feed_type(r->m, row, g, node->attrs, t);
            if (fed == HOP_NONE)
                lexer_error(&r->lex, item.at, "'%s' takes %s dim away, and %s has none",
                            row->sig.groups[g].word,
                            row->sig.groups[g].kind == GROUP_OVER ? "the leading" : "that",
                            type_text(r->m, NULL, t));
            if (row->sig.groups[g].kind == GROUP_PAIR) {
                if (item.right_key == HOP_NONE)
                    lexer_error(&r->lex, item.at,
                                "expected (%%left, %%right) in %%operand: the body of %s takes two "
                                "parameters for each",
                                row->name);
                if (time) {
                    item.at = item.right_at;
                    item.param_key = item.right_key;
                    item.typed = item.right_typed;
                    item.type = item.right_type;
                }
            }
            if (row->sig.groups[g].kind == GROUP_PART && !item.typed) {
                fed = part_param(r, f, node, i, item.at, fed);
                bind_param(r, f, &item, fed);
            } else body_param(r, f, &item, fed);
        }
}

/* Symbols that were lifted late move in front of those bound by nodes; everything built so far is renumbered.
 */
static void settle_late_symbols(struct reader *r, struct frame *f)
{
    struct builder *b = &f->b;
    uint32_t n = b->symbols.len, outer = 0;
    dim *to = ARENA_NEW(&b->arena, dim, n), *binds = ARENA_NEW(&b->arena, dim, n);
    struct symbol *symbols = ARENA_NEW(&b->arena, struct symbol, n);
    while (f->binds.len < n) vec_push(&b->arena, &f->binds, HOP_NONE);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n; i++)
            if ((b->symbols.data[i].origin == SYMBOL_NODE) == pass) {
                binds[outer] = f->binds.data[i];
                symbols[outer] = b->symbols.data[i];
                to[i] = dim_symbol(r->m, outer++);
                if (!pass) b->n_outer_symbols = outer;
            }
    memcpy(b->symbols.data, symbols, n * sizeof *symbols);
    memcpy(f->binds.data, binds, n * sizeof *binds);
    for (uint32_t i = 0; i < b->values.len; i++)
        b->values.data[i].type = type_substitute(r->m, b->values.data[i].type, to);
    for (uint32_t i = 0; i < b->attrs.len; i++) {
        struct attr *a = &b->attrs.data[i];
        if (a->kind == ATTR_DIM) a->i = dim_substitute(r->m, (dim)a->i, to);
        if (a->kind != ATTR_DIMS) continue;
        dim *list = ARENA_NEW(&r->m->arena, dim, a->n);
        for (uint32_t k = 0; k < a->n; k++) list[k] = dim_substitute(r->m, a->list[k], to);
        a->list = list;
    }
    for (uint32_t i = 0; i < b->regions.len; i++) {
        struct region *g = &b->regions.data[i];
        dim *list = ARENA_NEW(&r->m->arena, dim, g->n_dims);
        for (uint32_t k = 0; k < g->n_dims; k++) list[k] = dim_substitute(r->m, g->dims[k], to);
        g->dims = list;
    }
    for (uint32_t i = 0; i < b->required.len; i++) {
        b->required.data[i].a = dim_substitute(r->m, b->required.data[i].a, to);
        b->required.data[i].b = dim_substitute(r->m, b->required.data[i].b, to);
    }
}

/* A body in braces: opens a frame whose parameters are the operands that feed it and its own, and makes a
 * function of it. */
static struct region_in read_body(struct reader *r, struct frame *around, const struct node_state *node,
                                  uint32_t region, uint32_t own, uint32_t label)
{
    struct lexer *lx = &r->lex;
    const struct op_row *row = node->row;
    const struct sig_region *sig = sig_region(row, region);
    struct frame f = { .outer = around };
    reader_deeper(r);
    builder_begin(&f.b, r->m, NULL);
    f.b.written = true;
    uint32_t mark = reader_scope_enter(r), n_own = r->items.len - own, base = r->vals.len;
    read_body_symbols(r, &f);
    uint32_t at = node->items;
    for (uint32_t g = 0; g < row->sig.n_groups; at += node->groups[g++])
        if (sig->feeds >> g & 1) group_params(r, &f, around, node, g, at);
    for (uint32_t i = 0; i < n_own; i++) {
        struct written_operand item = r->items.data[own + i];
        body_param(r, &f, &item, builder_type(&around->b, item.v));
    }
    reader_requires(r, &f);
    if (!label && lx->tok.kind == TOKEN_GLOBAL) label = reader_name(r);
    f.b.label = label;
    f.b.fn_place = token_place(lx, lx->tok);
    lexer_expect(lx, '{', "'{' and a body, or @function");
    reader_statements(r, &f, row, region, node->groups);
    if (f.late) settle_late_symbols(r, &f);
    struct region_in out = { .n_operands = n_own };
    val *operands = ARENA_NEW(&around->b.arena, val, n_own);
    for (uint32_t i = 0; i < n_own; i++) operands[i] = r->items.data[own + i].v;
    out.operands = operands;
    if (f.b.n_outer_symbols)
        out.dims = arena_copy(&around->b.arena, f.binds.data, f.b.n_outer_symbols * sizeof(dim));
    out.fn = builder_finish(&f.b, r->vals.data + base, r->vals.len - base);
    r->vals.len = base;
    reader_scope_leave(r, mark);
    r->depth--;
    return out;
}

/* @f[dims](operands): dims in order are for its dim parameters, NAME = dim for any symbol. */
static struct region_in read_reference(struct reader *r, struct frame *f)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    const struct definition *d = reader_resolve(r, at, reader_name(r));
    if (d->is_const) lexer_error(lx, at, "expected a function, found a constant");
    struct region_in out = { .fn = d->index };
    const struct fn *g = module_fn(r->m, d->index);
    if (lexer_accept(lx, '[')) {
        dim *dims = ARENA_NEW(&f->b.arena, dim, g->n_outer_symbols);
        for (uint32_t i = 0; i < g->n_outer_symbols; i++) dims[i] = HOP_NONE;
        uint32_t next = 0;
        for (bool first = true; lx->tok.kind != ']'; first = false) {
            if (!first) lexer_expect(lx, ',', "',' or ']'");
            struct token entry = lx->tok;
            uint32_t k = g->n_outer_symbols;
            if (entry.kind == TOKEN_WORD) {
                lexer_next(lx);
                if (lexer_accept(lx, '=')) {
                    for (k = 0; k < g->n_outer_symbols; k++)
                        if (token_is(&entry, module_text(r->m, g->symbols[k].name))) break;
                    if (k == g->n_outer_symbols)
                        lexer_error(lx, entry, "the function has no dim symbol '%.*s'",
                                    (int)HOP_MIN(entry.len, 60u), entry.text);
                } else lexer_seek(lx, entry);
            }
            if (k == g->n_outer_symbols) {
                while (next < g->n_outer_symbols && g->symbols[next].origin != SYMBOL_DIM) next++;
                if (next == g->n_outer_symbols)
                    lexer_error(lx, entry, "more dims than the function has dim parameters");
                k = next++;
            }
            if (dims[k] != HOP_NONE)
                lexer_error(lx, entry, "the dim '%s' is given twice", module_text(r->m, g->symbols[k].name));
            dims[k] = reader_dim(r, f);
        }
        lexer_next(lx);
        out.dims = dims;
    }
    uint32_t base = r->vals.len;
    if (lx->tok.kind == '(') read_operands(r);
    out.n_operands = r->vals.len - base;
    out.operands = arena_copy(&f->b.arena, r->vals.data + base, out.n_operands * sizeof(val));
    r->vals.len = base;
    return out;
}

static struct region_in read_region(struct reader *r, struct frame *f, const struct node_state *node,
                                    uint32_t region, bool in_list)
{
    struct lexer *lx = &r->lex;
    uint32_t own = r->items.len, label = 0;
    if (lx->tok.kind == TOKEN_GLOBAL) { /* a function, or what the body in braces behind it is called */
        struct token at = lx->tok;
        label = reader_name(r);
        if (lx->tok.kind != '{') {
            lexer_seek(lx, at);
            return read_reference(r, f);
        }
    }
    if (in_list ? lx->tok.kind == '(' : lexer_accept_word(lx, "with")) read_items(r, GROUP_PLAIN);
    struct region_in out = read_body(r, f, node, region, own, label);
    r->items.len = own;
    return out;
}

static uint32_t read_regions(struct reader *r, struct frame *f, struct node_state *node)
{
    struct lexer *lx = &r->lex;
    const struct signature *sig = &node->row->sig;
    vec(struct region_in) regions = { 0 };
    if (sig->max_regions == MANY) {
        lexer_expect(lx, '[', "'[' and the bodies");
        while (lx->tok.kind != ']') {
            if (regions.len) lexer_expect(lx, ',', "',' or ']'");
            if (regions.len >= UINT16_MAX) lexer_error(lx, lx->tok, "too many bodies");
            struct region_in one = read_region(r, f, node, regions.len, true);
            vec_push(&f->b.arena, &regions, one);
        }
        lexer_next(lx);
    } else {
        while (regions.len < sig->max_regions) {
            const char *word = sig->regions[regions.len].word;
            if (word[0] && !lexer_accept_word(lx, word)) {
                if (regions.len >= sig->min_regions) break;
                lexer_expected(lx, arena_printf(&r->arena, "'%s' and a body", word));
            }
            struct region_in one = read_region(r, f, node, regions.len, false);
            vec_push(&f->b.arena, &regions, one);
        }
    }
    node->regions = regions.data;
    return regions.len;
}

/* ---- nodes ---- */

static uint32_t name_hash(const char *text, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h ^ h >> 15;
}

void reader_know_operators(struct reader *r)
{
    for (uint32_t i = 0; i < OP_COUNT; i++) {
        uint32_t at = name_hash(op_table[i]->name, strlen(op_table[i]->name));
        while (r->op_slots[at % HOP_COUNT(r->op_slots)]) at++;
        r->op_slots[at % HOP_COUNT(r->op_slots)] = (uint16_t)(i + 1);
        if (op_table[i]->operator_attr && op_table[i]->expand) r->call_op = (uint16_t)i;
    }
    _Static_assert(OP_COUNT < HOP_COUNT(((struct reader *)0)->op_slots) / 2,
                   "the table of operator names stays sparse");
}

static uint32_t edit_distance(const char *a, size_t n, const char *b)
{
    size_t m = strlen(b);
    uint32_t row[64];
    if (n >= HOP_COUNT(row) || m >= HOP_COUNT(row)) return 99;
    for (size_t j = 0; j <= m; j++) row[j] = (uint32_t)j;
    for (size_t i = 1; i <= n; i++) {
        uint32_t diagonal = row[0];
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= m; j++) {
            uint32_t up = row[j];
            row[j] = HOP_MIN(HOP_MIN(row[j], row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = up;
        }
    }
    return row[m];
}

/* *declared: the name of the operator from outside that it is, 0: none. */
static enum op read_op(struct reader *r, uint32_t *declared)
{
    struct token t = r->lex.tok;
    *declared = 0;
    if (t.kind != TOKEN_WORD) lexer_expected(&r->lex, "an operator");
    for (uint32_t at = name_hash(t.text, t.len);; at++) {
        uint32_t slot = r->op_slots[at % HOP_COUNT(r->op_slots)];
        if (!slot) break;
        if (token_is(&t, op_table[slot - 1]->name)) {
            lexer_next(&r->lex);
            return (enum op)(slot - 1);
        }
    }
    uint32_t name = module_string(r->m, t.text, t.len);
    if (reader_operator(r, name, true)) {
        *declared = name;
        lexer_next(&r->lex);
        return (enum op)r->call_op;
    }
    const char *nearest = NULL;
    uint32_t best = 4;
    for (uint32_t i = 0; i < OP_COUNT; i++) {
        uint32_t distance = op_table[i] ? edit_distance(t.text, t.len, op_table[i]->name) : 99;
        if (distance < best && distance < t.len) {
            best = distance;
            nearest = op_table[i]->name;
        }
    }
    lexer_error(&r->lex, t, "unknown operator '%.*s'%s%s%s", (int)HOP_MIN(t.len, 60u), t.text,
                nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* in "step" from "rnn.py":30 in "loss" …: the file's name with its frames. */
static const char *read_frames(struct reader *r, const char *file)
{
    enum { MOST = 64 };
    struct lexer *lx = &r->lex;
    struct {
        const char *file, *function;
        int line;
    } frames[MOST] = { { .file = file } };
    uint32_t n = 0;
    size_t length;
    while (lexer_accept_word(lx, "in")) {
        if (lx->tok.kind != TOKEN_STRING) lexer_expected(lx, "the name of a function in quotes");
        frames[n++].function = lexer_string(lx, &r->arena, &length);
        if (!lexer_accept_word(lx, "from")) break;
        if (n == MOST) lexer_error(lx, lx->tok, "more than %d frames", MOST);
        if (lx->tok.kind != TOKEN_STRING) lexer_expected(lx, "the name of a file in quotes");
        frames[n].file = lexer_string(lx, &r->arena, &length);
        lexer_expect(lx, ':', "':'");
        frames[n].line = (int)lexer_integer(lx, 0, INT32_MAX);
    }
    if (!n) return file;
    hop_place caller = { NULL, 0 };
    if (n < MOST && frames[n].file) frames[n++].function = ""; /* the outermost one may have no function */
    while (n-- > 0)
        caller = (hop_place){ hop_frame(frames[n].file, frames[n].function, caller), frames[n].line };
    return caller.file;
}

/* @"file":12:3 behind a node or function: where it was made. */
bool reader_location(struct reader *r, struct place *out)
{
    struct lexer *lx = &r->lex;
    struct token t = lx->tok;
    if (t.kind != TOKEN_GLOBAL || !t.quoted || lx->p[0] != ':') return false;
    if (!r->last_file || t.len != r->last_file_len || memcmp(t.text, r->last_file, t.len)) {
        size_t length;
        const char *file = lexer_string(lx, &r->arena, &length);
        r->last_file = t.text;
        r->last_file_len = t.len;
        r->last_file_id = module_file(r->m, file);
    } else lexer_next(lx);
    lexer_expect(lx, ':', "':'");
    out->file = r->last_file_id;
    out->line = (uint32_t)lexer_integer(lx, 0, UINT32_MAX);
    out->col = 0;
    if (lexer_accept(lx, ':')) out->col = (uint16_t)lexer_integer(lx, 0, UINT16_MAX);
    const char *file = r->m->files.data[out->file], *with_frames = read_frames(r, file);
    if (with_frames != file) out->file = module_file(r->m, with_frames);
    return true;
}

/* Operand groups and bodies of a higher-order node. */
static void read_higher(struct reader *r, struct frame *f, struct node_state *node, struct node_in *in)
{
    const struct signature *sig = &node->row->sig;
    node->items = r->items.len;
    for (uint32_t g = 0; g < sig->n_groups; g++) {
        uint32_t before = r->items.len;
        const char *word = sig->groups[g].word;
        bool given = word[0] ? lexer_accept_word(&r->lex, word) : r->lex.tok.kind == '(';
        if (given) read_items(r, sig->groups[g].kind);
        node->groups[g] = r->items.len - before;
    }
    node->n_items = r->items.len - node->items;
    in->n_regions = read_regions(r, f, node);
    in->regions = node->regions;
    val *operands = ARENA_NEW(&f->b.arena, val, node->n_items);
    for (uint32_t i = 0; i < node->n_items; i++) operands[i] = r->items.data[node->items + i].v;
    in->operands = operands;
    in->n_operands = node->n_items;
    in->groups = node->groups;
    r->items.len = node->items;
}

struct result_name {
    struct token at, type;
    uint32_t key;
    bool typed;
};

static void bind_results(struct reader *r, struct frame *f, const struct op_row *row, struct token at,
                         const struct result_name *names, uint32_t n, val first, uint32_t first_fresh)
{
    uint32_t have = f->b.n_last_results;
    if (have != n)
        lexer_error(&r->lex, n ? names[0].at : at, "%s gives %u result%s, %u named here", row->name, have,
                    have == 1 ? "" : "s", n);
    for (uint32_t i = 0; i < n; i++) {
        if (names[i].typed) {
            struct lexer saved = r->lex;
            lexer_seek(&r->lex, names[i].type);
            reader_match_type(r, f, builder_type(&f->b, first + i), first_fresh, "result");
            r->lex = saved;
        }
        reader_bind(r, names[i].at, names[i].key, first + i, HOP_NONE);
        if (!(names[i].key & NUMBER_KEY)) builder_name(&f->b, first + i, names[i].key);
    }
}

/* The operator from outside that a node calls, by its name in place of the row's or by an attribute. */
static void read_declared(struct reader *r, const struct op_row *row, uint32_t declared, struct attr *attrs)
{
    struct attr *name = &attrs[row->operator_attr - 1];
    if (declared && name->kind != ATTR_ABSENT)
        lexer_error(&r->lex, r->lex.tok, "the attribute '%s' and the name in front of it are two names",
                    row->sig.attrs[row->operator_attr - 1].name);
    if (declared) *name = A_STRING(declared);
    else if (name->kind == ATTR_STRING) reader_operator(r, (uint32_t)name->i, row->expand);
}

static void read_node(struct reader *r, struct frame *f)
{
    struct lexer *lx = &r->lex;
    struct result_name few[4], *names = few;
    uint32_t n_names = 0, cap = HOP_COUNT(few);
    struct token at = lx->tok;
    if (at.kind == TOKEN_VALUE) {
        do {
            if (n_names == cap) {
                struct result_name *more = ARENA_NEW(&f->b.arena, struct result_name, cap * 2);
                memcpy(more, names, cap * sizeof *more);
                names = more;
                cap *= 2;
            }
            struct result_name *name = &names[n_names++];
            name->at = lx->tok;
            name->key = reader_value_key(r, "the name of a result (%name)");
            name->typed = lexer_accept(lx, ':');
            if (name->typed) {
                name->type = lx->tok;
                reader_skip_type(r);
            }
        } while (lexer_accept(lx, ','));
        lexer_expect(lx, '=', "'='");
    }
    struct attr attrs[16];
    struct node_state node = { .row = NULL, .at = at };
    uint32_t declared;
    struct node_in in = { .op = (uint16_t)read_op(r, &declared),
                          .attrs = attrs,
                          .place = token_place(lx, at) };
    node.row = op_table[in.op];
    if (node.row->sig.n_attrs > HOP_COUNT(attrs))
        hop_throw(HOP_INTERNAL, "%s has too many attributes", node.row->name);
    read_attrs(r, f, node.row, attrs);
    if (node.row->operator_attr) read_declared(r, node.row, declared, attrs);
    node.attrs = attrs;
    uint32_t base = r->vals.len;
    if (node.row->flags & OPF_HIGHER) read_higher(r, f, &node, &in);
    else {
        if (lx->tok.kind == '(') read_operands(r);
        in.operands = r->vals.data + base;
        in.n_operands = r->vals.len - base;
    }
    uint32_t first_fresh = f->b.symbols.len, n_nodes = f->b.nodes.len;
    val first = builder_node(&f->b, &in);
    if (node.row->axis_role == AXIS_VARIES && f->b.nodes.len == n_nodes)
        lexer_error(lx, at, "%s: its operand varies along that axis already", node.row->name);
    r->vals.len = base;
    bind_results(r, f, node.row, at, names, n_names, first, first_fresh);
    if (lx->tok.kind != TOKEN_GLOBAL || !reader_location(r, &in.place)) return;
    if (!node.row->expand)
        n_nodes = f->b.nodes.len - 1; /* what its sizes need stands before it, and keeps its place */
    for (uint32_t i = n_nodes; i < f->b.nodes.len; i++) f->b.nodes.data[i].place = in.place;
}

/* next(…) stack(…) onto r->vals; the words are the row's. Returns false when no such word stands here. */
static bool read_body_results(struct reader *r, const struct op_row *row, uint32_t region,
                              const uint32_t *groups)
{
    struct lexer *lx = &r->lex;
    const struct sig_region *sig = sig_region(row, region);
    uint32_t sizes[3] = { 0 }, want[3] = { 0 }, n = 0, total = 0;
    bool any = false;
    struct token at = lx->tok;
    for (; n < HOP_COUNT(sig->results) && sig->results[n]; n++) {
        if (!token_is(&lx->tok, sig->results[n])) continue;
        any = true;
        lexer_next(lx);
        uint32_t before = r->vals.len;
        read_operands(r);
        sizes[n] = r->vals.len - before;
        total += sizes[n];
    }
    if (!any) return false;
    sig_result_sizes(row, region, groups, total, want);
    for (uint32_t i = 0; i < n; i++)
        if (sizes[i] != want[i])
            lexer_error(lx, at, "%s: '%s' takes %u value%s, given %u", row->name, sig->results[i], want[i],
                        want[i] == 1 ? "" : "s", sizes[i]);
    return true;
}

static const char *body_end(struct reader *r, const struct op_row *row, uint32_t region)
{
    const struct sig_region *sig = sig_region(row, region);
    struct text t = { .arena = &r->arena };
    for (uint32_t i = 0; i < HOP_COUNT(sig->results) && sig->results[i]; i++)
        text_add(&t, "%s%s(…)", i ? " " : "", sig->results[i]);
    return t.data ? t.data : "its results";
}

/* Nodes up to and including the closing brace; the results end on r->vals. row NULL: a function, which ends
 * with `return`. */
void reader_statements(struct reader *r, struct frame *f, const struct op_row *row, uint32_t region,
                       const uint32_t *groups)
{
    struct lexer *lx = &r->lex;
    for (;;) {
        if (lx->tok.kind == TOKEN_VALUE) {
            read_node(r, f);
            continue;
        }
        if (lx->tok.kind != TOKEN_WORD) break;
        if (row ? read_body_results(r, row, region, groups) : lexer_accept_word(lx, "return")) {
            for (bool more = !row && lx->tok.kind != '}'; more; more = lexer_accept(lx, ',')) {
                val v = reader_operand(r);
                vec_push(&r->arena, &r->vals, v);
            }
            lexer_expect(lx, '}', "'}' behind the results");
            return;
        }
        if (token_is(&lx->tok, "return"))
            lexer_error(lx, lx->tok, "a body of %s ends with %s, not with 'return'", row->name,
                        body_end(r, row, region));
        read_node(r, f);
    }
    if (row)
        lexer_expected(lx, arena_printf(&r->arena, "a node, or %s to end the body of %s",
                                        body_end(r, row, region), row->name));
    lexer_expected(lx, "a node, or 'return' to end the function");
}
