/* Reads texts: functions with their headers, the order in which definitions that mention each other are read,
 * whole files. Nodes are read in reader_nodes.c, dims and types in reader_types.c, constants and tests in
 * literals.c. */
#include "ir/mesh.h"
#include "ir/reader.h"

#include <errno.h>

/* ---- meshes ---- */

/* At the name behind `mesh`: @m = (data = 2, model = 4). */
static void read_mesh(struct reader *r)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    uint32_t axes[MESH_AXES], n = 0;
    int64_t sizes[MESH_AXES];
    if (at.kind != TOKEN_GLOBAL) lexer_expected(lx, "the name of the mesh (@name)");
    uint32_t name = reader_name(r);
    lexer_expect(lx, '=', "'='");
    lexer_expect(lx, '(', "'(' and the axes");
    do {
        struct token axis = lx->tok;
        if (n == MESH_AXES) lexer_error(lx, axis, "a mesh has at most %d axes", MESH_AXES);
        if (axis.kind != TOKEN_WORD && axis.kind != TOKEN_STRING) lexer_expected(lx, "the name of an axis");
        axes[n] = reader_name(r);
        lexer_expect(lx, '=', "'='");
        sizes[n++] = lexer_integer(lx, 1, INT32_MAX);
    } while (lexer_accept(lx, ','));
    lexer_expect(lx, ')', "',' or ')'");
    uint32_t mesh = module_mesh(r->m, name, n, axes, sizes);
    if (r->m->meshes.data[mesh].name != name)
        lexer_error(lx, at, "the mesh has these axes by another name: @%s",
                    module_text(r->m, r->m->meshes.data[mesh].name));
}

/* ---- functions ---- */

static void read_symbol_declarations(struct reader *r, struct frame *f)
{
    struct lexer *lx = &r->lex;
    if (!lexer_accept(lx, '[')) return;
    for (bool first = true; lx->tok.kind != ']'; first = false) {
        if (!first) lexer_expect(lx, ',', "',' or ']'");
        struct token at = lx->tok;
        if (at.kind != TOKEN_WORD) lexer_expected(lx, "the name of a symbol");
        uint32_t name = reader_name(r);
        bool explicit_dim = token_is(&at, "dim") && lx->tok.kind == TOKEN_WORD && !token_is(&lx->tok, "in");
        if (explicit_dim) {
            at = lx->tok;
            name = reader_name(r);
        }
        if (reader_find_symbol(f, name, false) != HOP_NONE)
            lexer_error(lx, at, "the dim symbol '%s' is declared twice", module_text(r->m, name));
        int64_t lo = 0, hi = INT64_MAX;
        uint32_t axis = reader_along(r, &hi);
        if (!axis && lexer_accept_word(lx, "in")) reader_range(r, &lo, &hi);
        /* until the parameters are read, `index` holds the column of the symbol's declaration, 0: an explicit
         * dim */
        uint32_t s = reader_add_symbol(f, name, lo, hi, HOP_NONE);
        f->b.symbols.data[s].index = explicit_dim ? 0 : 1;
        f->b.symbols.data[s].axis = axis;
    }
    lexer_next(lx);
}

static void read_params(struct reader *r, struct frame *f)
{
    struct lexer *lx = &r->lex;
    struct token open = lx->tok;
    uint32_t declared = f->b.symbols.len, s;
    vec(val) muts = { 0 };
    lexer_expect(lx, '(', "'(' and the parameters");
    f->declares = true;
    for (bool first = true; lx->tok.kind != ')'; first = false) {
        if (!first) lexer_expect(lx, ',', "',' or ')'");
        struct token at = lx->tok;
        uint32_t key = reader_value_key(r, "a parameter (%name: type)");
        lexer_expect(lx, ':', "':' and the parameter's type");
        bool mut = lexer_accept_word(lx, "mut");
        struct token type_at = lx->tok;
        type_id t = reader_type(r, f);
        if (mut && type_is_object(r->m, t))
            lexer_error(lx, type_at, "an object is not `mut`: operators that take it change it in its place");
        val v = builder_param(&f->b, t, key & NUMBER_KEY ? 0 : key);
        reader_bind(r, at, key, v, HOP_NONE);
        if (mut) vec_push(&f->b.arena, &muts, v);
    }
    f->declares = false;
    lexer_next(lx);
    for (uint32_t i = 0; i < muts.len; i++) builder_mut(&f->b, muts.data[i], NEW_UNCHANGED);
    bool *bound = ARENA_ZNEW(&f->b.arena, bool, f->b.symbols.len + 1);
    for (uint32_t p = 0; p < f->b.n_params; p++) {
        struct type t = type_get(r->m, builder_type(&f->b, p));
        for (uint32_t i = 0; i < t.rank; i++)
            if (t.dims[i] & DIM_TABLE && dim_is_symbol(r->m, t.dims[i], &s)) bound[s] = true;
    }
    for (uint32_t i = 0; i < f->b.symbols.len; i++) {
        bool must = i >= declared || f->b.symbols.data[i].index;
        f->b.symbols.data[i].index = 0;
        if (must && !bound[i])
            lexer_error(lx, open,
                        "the dim symbol '%s' cannot be bound: no parameter has it as a dim by itself; "
                        "declare [dim %s]",
                        module_text(r->m, f->b.symbols.data[i].name),
                        module_text(r->m, f->b.symbols.data[i].name));
    }
}

/* A function being read, whose parameters are named. */
struct effects_frame {
    const struct reader *r;
    const struct frame *f;
};

static void name_param(struct text *out, uint32_t param, void *ctx)
{
    const struct effects_frame *e = ctx;
    uint32_t name = e->f->b.values.data[param].name;
    if (name) text_add(out, "%%%s", module_text(e->r->m, name));
    else text_add(out, "%%%u", param);
}

static const char *written_effects(struct reader *r, struct frame *f, effect_set effects)
{
    struct text t = { .arena = &r->arena };
    effects_text(&t, effects, name_param, &(struct effects_frame){ r, f });
    return t.data;
}

/* (any) or (%t) behind `reads` and `writes`: the number of the parameter, HOP_NONE: any object. */
static uint32_t read_object(struct reader *r, const struct frame *f)
{
    struct lexer *lx = &r->lex;
    lexer_expect(lx, '(', "'('");
    struct token at = lx->tok;
    uint32_t param = lexer_accept_word(lx, "any") ? HOP_NONE : reader_operand(r);
    if (param != HOP_NONE && param >= f->b.n_params) lexer_error(lx, at, "expected a parameter or 'any'");
    lexer_expect(lx, ')', "')'");
    return param;
}

static effect_set read_effect(struct reader *r, const struct frame *f)
{
    struct lexer *lx = &r->lex;
    if (lexer_accept_word(lx, "reads")) return effect_reads(read_object(r, f));
    if (lexer_accept_word(lx, "writes")) return effect_writes(read_object(r, f));
    effect_set effect = lx->tok.kind == TOKEN_WORD ? effect_of_word(lx->tok.text, lx->tok.len) : EFFECT_NONE;
    if (!effect) lexer_expected(lx, "an effect (check, io, unordered, reads(…), writes(…))");
    lexer_next(lx);
    return effect;
}

static effect_set read_effects(struct reader *r, const struct frame *f)
{
    struct lexer *lx = &r->lex;
    effect_set effects = EFFECT_NONE;
    lexer_expect(lx, '(', "'('");
    for (bool first = true; lx->tok.kind != ')'; first = false) {
        if (!first) lexer_expect(lx, ',', "',' or ')'");
        effects |= read_effect(r, f);
    }
    lexer_next(lx);
    return effects;
}

/* Behind `new`: the parameter whose new content the result is. */
static void read_new(struct reader *r, struct frame *f, uint32_t result)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    val v = reader_operand(r); /* only parameters are known here */
    int length = (int)HOP_MIN(at.len, 60u);
    if (!f->b.news || f->b.news[v] == HOP_NONE)
        lexer_error(lx, at, "new %%%.*s: the parameter is not `mut`; write %%%.*s: mut %s", length, at.text,
                    length, at.text, type_text(r->m, f->b.symbols.data, builder_type(&f->b, v)));
    if (f->b.news[v] != NEW_UNCHANGED)
        lexer_error(lx, at, "new %%%.*s: it has a new content already, result %u", length, at.text,
                    f->b.news[v]);
    builder_mut(&f->b, v, result);
}

/* ( T, new %p, … ): the written result types, read again once the body is known. */
static void skip_result_types(struct reader *r, struct frame *f)
{
    lexer_expect(&r->lex, '(', "'(' and the result types");
    for (uint32_t i = 0; r->lex.tok.kind != ')'; i++) {
        if (i) lexer_expect(&r->lex, ',', "',' or ')'");
        if (lexer_accept_word(&r->lex, "new")) read_new(r, f, i);
        else reader_skip_type(r);
    }
    lexer_next(&r->lex);
}

static void check_new_type(struct reader *r, struct frame *f, type_id found)
{
    struct token at = r->lex.tok;
    type_id expected = builder_type(&f->b, reader_operand(r));
    if (found != HOP_NONE && found != expected)
        lexer_error(&r->lex, at, "new %%%.*s: expected %s, found %s", (int)HOP_MIN(at.len, 60u), at.text,
                    type_text(r->m, f->b.symbols.data, expected), type_text(r->m, f->b.symbols.data, found));
}

static void check_result_types(struct reader *r, struct frame *f, struct token types, struct token end,
                               const val *results, uint32_t n)
{
    struct lexer saved = r->lex;
    lexer_seek(&r->lex, types);
    lexer_next(&r->lex);
    uint32_t i = 0;
    for (; r->lex.tok.kind != ')'; i++) {
        if (i) lexer_next(&r->lex);
        if (lexer_accept_word(&r->lex, "new"))
            check_new_type(r, f, i < n ? builder_type(&f->b, results[i]) : HOP_NONE);
        else if (i < n)
            reader_match_type(r, f, builder_type(&f->b, results[i]), UINT32_MAX,
                              arena_printf(&r->arena, "result %u", i));
        else reader_skip_type(r);
    }
    r->lex = saved;
    if (i != n)
        lexer_error(&r->lex, end, "the function says %u result%s and returns %u", i, i == 1 ? "" : "s", n);
}

/* At `fn`. Its definition is marked as being read. */
static void read_fn(struct reader *r)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    lexer_next(lx);
    struct token name_at = lx->tok;
    if (lx->tok.kind != TOKEN_GLOBAL) lexer_expected(lx, "the name of the function (@name)");
    uint32_t name = reader_name(r);
    struct definition *d = reader_define(r, name);
    if (d->state == DEF_DONE || d->state == DEF_READING)
        lexer_error(lx, name_at, "@%s is defined twice", module_text(r->m, name));
    d->state = DEF_READING;
    d->is_const = false;

    struct frame f = { .outer = NULL };
    reader_deeper(r);
    builder_begin(&f.b, r->m, NULL);
    f.b.written = true;
    f.b.name = name;
    f.b.fn_place = token_place(lx, at);
    uint32_t saved_base = r->base, base = r->vals.len, mark = reader_scope_enter(r);
    r->base = r->scope;
    read_symbol_declarations(r, &f);
    read_params(r, &f);
    lexer_expect(lx, TOKEN_ARROW, "'->' and the result types");
    struct token types = lx->tok;
    skip_result_types(r, &f);
    struct token effects_at = lx->tok;
    bool says_effects = lexer_accept_word(lx, "effects");
    effect_set effects = says_effects ? read_effects(r, &f) : EFFECT_NONE;
    reader_requires(r, &f);
    lexer_expect(lx, '{', "'{' and the body");
    reader_statements(r, &f, NULL, 0, NULL);
    reader_location(r, &f.b.fn_place);
    check_result_types(r, &f, types, name_at, r->vals.data + base, r->vals.len - base);
    if (says_effects && effects != f.b.effects)
        lexer_error(lx, effects_at, "written %s, but the body has %s", written_effects(r, &f, effects),
                    written_effects(r, &f, f.b.effects));
    uint32_t id = builder_finish(&f.b, r->vals.data + base, r->vals.len - base);
    r->vals.len = base;
    reader_scope_leave(r, mark);
    r->base = saved_base;
    r->depth--;
    d = reader_define(r, name);
    d->state = DEF_DONE;
    d->index = id;
    d->at = at;
    d->after = lx->tok;
}

/* ---- definitions and their order ---- */

static struct definition *find_definition(struct reader *r, uint32_t name)
{
    uint64_t h = hash_mix(name, 1);
    for (uint32_t it = map_first(&r->definition_map, h); it != HOP_NONE;
         it = map_next(&r->definition_map, h, it)) {
        struct definition *d = &r->definitions.data[map_value(&r->definition_map, it)];
        if (d->name == name) return d;
    }
    return NULL;
}

struct definition *reader_define(struct reader *r, uint32_t name)
{
    struct definition *d = find_definition(r, name);
    if (d) return d;
    vec_push(&r->arena, &r->definitions, (struct definition){ .name = name });
    map_put(&r->definition_map, hash_mix(name, 1), r->definitions.len - 1);
    return &r->definitions.data[r->definitions.len - 1];
}

static struct written_operator *find_operator(struct reader *r, uint32_t name)
{
    for (uint32_t i = 0; i < r->operators.len; i++)
        if (r->operators.data[i].name == name) return &r->operators.data[i];
    return NULL;
}

/* At the name of a declaration, behind its keyword. */
static struct written_operator *note_operator(struct reader *r)
{
    struct written_operator w = { .at = r->lex.tok };
    if (w.at.kind != TOKEN_GLOBAL) lexer_expected(&r->lex, "the name of the operator (@name)");
    w.name = reader_name(r);
    struct written_operator *known = find_operator(r, w.name);
    if (known) return known;
    vec_push(&r->arena, &r->operators, w);
    return &r->operators.data[r->operators.len - 1];
}

/* Finds every function, constant and operator of the text, with the names it mentions. Done once, when a name
 * is used before its definition. */
static void index_text(struct reader *r)
{
    struct lexer saved = r->lex, *lx = &r->lex;
    r->indexed = true;
    lx->p = lx->begin;
    lx->line_start = lx->begin;
    lx->line = 1;
    lx->in_test = false;
    lexer_next(lx);
    uint32_t owner = HOP_NONE, depth = 0; /* owner: the definition being scanned */
    while (lx->tok.kind != TOKEN_END) {
        struct token at = lx->tok;
        bool is_fn = !depth && token_is(&at, "fn"), is_const = !depth && token_is(&at, "const");
        if (!depth && token_is(&at, "test")) {
            owner = HOP_NONE;
            lx->in_test = true;
        }
        if (!depth && token_is(&at, "mesh")) {
            owner = HOP_NONE;
            lexer_next(lx);
            read_mesh(r);
            continue;
        }
        if (!depth && token_is(&at, "operator")) {
            owner = HOP_NONE;
            lexer_next(lx);
            note_operator(r);
            continue;
        }
        depth += at.kind == '{';
        depth -= at.kind == '}' && depth;
        if (at.kind == '}' && !depth) lx->in_test = false;
        if (is_fn || is_const) lexer_next(lx);
        if (lx->tok.kind != TOKEN_GLOBAL) {
            if (!is_fn && !is_const) lexer_next(lx);
            continue;
        }
        uint32_t name = reader_name(r);
        if (is_fn || is_const) {
            struct definition *d = reader_define(r, name);
            if (d->state == DEF_NONE)
                *d = (struct definition){ .name = name, .state = DEF_UNREAD, .is_const = is_const, .at = at };
            d->refs = r->refs.len;
            d->n_refs = 0;
            owner = (uint32_t)(d - r->definitions.data);
        } else if (owner != HOP_NONE) {
            vec_push(&r->arena, &r->refs, name);
            r->definitions.data[owner].n_refs++;
        }
    }
    *lx = saved;
}

static void read_definition(struct reader *r, const struct definition *d)
{
    struct lexer saved = r->lex;
    bool is_const = d->is_const;
    r->lex.in_test = false;
    lexer_seek(&r->lex, d->at);
    if (is_const) reader_const_item(r);
    else read_fn(r);
    r->lex = saved;
}

static _Noreturn void cycle_error(struct reader *r, struct token at, const uint32_t *stack, uint32_t n,
                                  uint32_t again)
{
    struct text cycle = { .arena = &r->arena };
    uint32_t from = 0;
    for (uint32_t i = 0; i < n; i++)
        if (stack[i] == again) from = i;
    for (uint32_t i = from; i < n; i++)
        if (find_definition(r, stack[i])->state == DEF_READING)
            text_add(&cycle, "@%s, ", module_text(r->m, stack[i]));
    lexer_error(&r->lex, at, "calls form a cycle: %s@%s", cycle.data ? cycle.data : "",
                module_text(r->m, again));
}

/* Reads `name` and, before it, whatever it mentions that is not read yet; without recursion, so that long
 * chains do no harm. */
static void read_on_demand(struct reader *r, struct token at, uint32_t name)
{
    vec(uint32_t) stack = { 0 };
    vec_push(&r->arena, &stack, name);
    while (stack.len) {
        struct definition *d = find_definition(r, stack.data[stack.len - 1]);
        if (d->state == DEF_DONE) {
            stack.len--;
            continue;
        }
        uint32_t before = stack.len;
        d->state = DEF_READING; /* its mentions are being read */
        for (uint32_t i = 0; i < d->n_refs; i++) {
            uint32_t other = r->refs.data[d->refs + i];
            const struct definition *o = find_definition(r, other);
            if (o && o->state == DEF_UNREAD) vec_push(&r->arena, &stack, other);
            if (o && o->state == DEF_READING) cycle_error(r, at, stack.data, before, other);
        }
        if (stack.len > before) continue;
        d->state = DEF_UNREAD;
        read_definition(r, d);
        stack.len--;
    }
}

struct definition *reader_resolve(struct reader *r, struct token at, uint32_t name)
{
    struct definition *d = find_definition(r, name);
    if (!d && !r->indexed) {
        index_text(r);
        d = find_definition(r, name);
    }
    if (!d) lexer_error(&r->lex, at, "there is no function or constant @%s", module_text(r->m, name));
    if (d->state == DEF_READING)
        lexer_error(&r->lex, at, "calls form a cycle: @%s is used inside itself", module_text(r->m, name));
    if (d->state == DEF_UNREAD) read_on_demand(r, at, name);
    return find_definition(r, name);
}

/* ---- operators from outside ---- */

/* At the name of a declaration, behind its keyword. */
static void read_operator(struct reader *r)
{
    struct token at = r->lex.tok;
    uint32_t index = (uint32_t)(note_operator(r) - r->operators.data);
    struct token rules[OPERATOR_RULES];
    lexer_seek(&r->lex, at);
    struct operator_decl *decl = operator_read(r->m, &r->lex, rules);
    struct written_operator *w = &r->operators.data[index];
    if (w->decl) return;
    w->decl = decl;
    memcpy(w->rules, rules, sizeof rules);
}

static void resolve_rules(struct reader *r, uint32_t index)
{
    r->operators.data[index].resolved = true;
    for (uint32_t i = 0; i < OPERATOR_RULES; i++) {
        const struct written_operator *w = &r->operators.data[index];
        if (w->rules[i].kind == TOKEN_END) continue;
        struct lexer saved = r->lex;
        lexer_seek(&r->lex, w->rules[i]);
        uint32_t name = reader_name(r);
        r->lex = saved;
        const struct definition *d = find_definition(r, name);
        if (d && d->state == DEF_READING)
            lexer_error(&r->lex, r->lex.tok,
                        "the rule @%s of the operator '%s' calls it: write operator {name = \"%s\"} for a "
                        "call without rules",
                        module_text(r->m, name), module_text(r->m, w->name), module_text(r->m, w->name));
        d = reader_resolve(r, w->rules[i], name);
        if (d->is_const) lexer_error(&r->lex, w->rules[i], "expected a function, found a constant");
        r->operators.data[index].decl->rules[i] = d->index;
    }
}

const struct operator_decl *reader_operator(struct reader *r, uint32_t name, bool with_rules)
{
    const struct written_operator *w = find_operator(r, name);
    if (!w && module_operator(r->m, name)) return module_operator(r->m, name);
    if (!w && !r->indexed) {
        index_text(r);
        w = find_operator(r, name);
    }
    if (!w) return NULL;
    uint32_t index = (uint32_t)(w - r->operators.data);
    if (!w->decl) {
        struct lexer saved = r->lex;
        r->lex.in_test = false;
        lexer_seek(&r->lex, w->at);
        read_operator(r);
        r->lex = saved;
    }
    if (with_rules && !r->operators.data[index].resolved) resolve_rules(r, index);
    return r->operators.data[index].decl;
}

/* ---- whole texts ---- */

static void read_items_of_text(struct reader *r)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    if (lexer_accept_word(lx, "hop")) {
        if (lx->tok.kind != TOKEN_NUMBER) lexer_expected(lx, "the version of the text form");
        if (lx->tok.len != 1 || lx->tok.text[0] != '1')
            lexer_error(lx, at, "version %.*s of the text form is unknown; this reader knows version 1",
                        (int)HOP_MIN(lx->tok.len, 60u), lx->tok.text);
        lexer_next(lx);
    }
    while (lx->tok.kind != TOKEN_END) {
        bool is_fn = token_is(&lx->tok, "fn");
        if (is_fn || token_is(&lx->tok, "const")) {
            at = lx->tok;
            lexer_next(lx);
            if (lx->tok.kind != TOKEN_GLOBAL)
                lexer_expected(lx, is_fn ? "the name of the function (@name)"
                                         : "the name of the constant (@name)");
            uint32_t name = reader_name(r);
            const struct definition *d = find_definition(r, name);
            if (d && d->state == DEF_DONE && d->at.start == at.start) lexer_seek(lx, d->after);
            else {
                lexer_seek(lx, at);
                if (is_fn) read_fn(r);
                else reader_const_item(r);
            }
        } else if (lexer_accept_word(lx, "mesh")) read_mesh(r);
        else if (lexer_accept_word(lx, "operator")) read_operator(r);
        else if (token_is(&lx->tok, "test")) reader_test(r);
        else lexer_expected(lx, "'fn', 'const', 'mesh', 'operator' or 'test'");
    }
    for (uint32_t i = 0; i < r->operators.len; i++)
        if (!r->operators.data[i].resolved) resolve_rules(r, i);
}

static void know(struct reader *r, uint32_t name, bool is_const, uint32_t index)
{
    if (!name) return;
    struct definition *d = reader_define(r, name);
    d->state = DEF_DONE;
    d->is_const = is_const;
    d->index = index;
}

static void reader_free(void *reader)
{
    arena_free(&((struct reader *)reader)->arena);
    hop_free(reader);
}

void text_read_into(struct module *m, const char *file_name, const char *text, size_t length)
{
    struct reader *r = hop_calloc(1, sizeof *r);
    hop_cleanup_push(reader_free, r);
    r->m = m;
    r->lex.file = file_name;
    struct hop_catch c;
    if (HOP_TRY(c)) {
        char *copy = arena_string(&r->arena, text, length);
        reader_know_operators(r);
        vec_reserve(&r->arena, &r->vals, 16); /* parts of it are pointed to, empty ones, too */
        r->definition_map.arena = &r->arena;
        for (uint32_t i = 0; i < m->fns.len; i++) know(r, m->fns.data[i]->name, false, i);
        for (uint32_t i = 0; i < m->constants.len; i++) know(r, m->constants.data[i].name, true, i);
        lexer_begin(&r->lex, file_name, module_file(m, file_name), copy, length);
        read_items_of_text(r);
        hop_catch_end(&c);
    } else {
        hop_status status = hop_caught();
        size_t n = strlen(file_name);
        const char *message = hop_message();
        bool placed = !strncmp(message, file_name, n) && message[n] == ':';
        if (status == HOP_INVALID && !placed) /* thrown below the reader, which knows the place */
            hop_throw(status, "%s:%u:%u: %s", file_name, r->lex.tok.line, r->lex.tok.col, message);
        hop_rethrow(status);
    }
    hop_cleanup_pop(r);
    reader_free(r);
}

struct module *text_read(const char *file_name, const char *text, size_t length)
{
    struct module *m = module_new();
    hop_cleanup_push(module_free, m);
    text_read_into(m, file_name, text, length);
    hop_cleanup_pop(m);
    return m;
}

static void close_file(void *file) { fclose(file); }

struct module *text_read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) hop_throw(HOP_IO, "%s: %s", path, strerror(errno));
    hop_cleanup_push(close_file, file);
    struct arena arena = { 0 };
    struct text text = { .arena = &arena };
    hop_cleanup_push(arena_free, &arena);
    char block[16384];
    size_t n;
    while ((n = fread(block, 1, sizeof block, file)) > 0) text_bytes(&text, block, n);
    if (ferror(file)) hop_throw(HOP_IO, "%s: %s", path, strerror(errno));
    struct module *m = text_read(path, text.data ? text.data : "", text.len);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    hop_cleanup_pop(file);
    fclose(file);
    return m;
}
