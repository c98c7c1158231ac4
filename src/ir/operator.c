/* Declarations of operators from outside: the one parser of signatures, and how they are printed. */
#include "ir/operator.h"

#include "ir/lexer.h"
#include "ir/table.h"
#include "ir/text.h"

const char *const operator_rule_names[OPERATOR_RULES] = { "forward", "backward", "jvp", "batch" };

static const struct {
    const char *name;
    effect_set effects;
} effect_words[] = {
    { "none", EFFECT_NONE }, { "check", EFFECT_CHECK }, { "io", EFFECT_IO }, { "unordered", EFFECT_UNORDERED }
};

const char *effect_name(effect_set effects)
{
    for (uint32_t i = 0; i < HOP_COUNT(effect_words); i++)
        if (effect_words[i].effects == effects) return effect_words[i].name;
    return "several";
}

bool effect_from_name(const char *name, effect_set *out)
{
    for (uint32_t i = 0; i < HOP_COUNT(effect_words); i++)
        if (!strcmp(effect_words[i].name, name)) {
            *out = effect_words[i].effects;
            return true;
        }
    return false;
}

const struct operator_decl *module_operator(const struct module *m, uint32_t name)
{
    uint64_t h = hash_mix(name, 0x6f70);
    for (uint32_t it = map_first(&m->operator_map, h); it != HOP_NONE; it = map_next(&m->operator_map, h, it))
        if (m->operators.data[map_value(&m->operator_map, it)]->name == name)
            return m->operators.data[map_value(&m->operator_map, it)];
    return NULL;
}

bool operator_is_word(const char *name)
{
    return lexer_is_word(name) && op_find(name, strlen(name)) == OP_COUNT;
}

bool operator_has_rules(const struct operator_decl *d)
{
    for (uint32_t i = 0; i < OPERATOR_RULES; i++)
        if (d->rules[i] != HOP_NONE) return true;
    return false;
}

/* ---- printing ---- */

/* The size variables as symbols, for dim_print. */
static const struct symbol *size_symbols(struct arena *a, const struct operator_decl *d)
{
    struct symbol *s = ARENA_ZNEW(a, struct symbol, d->n_sizes + 1);
    for (uint32_t i = 0; i < d->n_sizes; i++)
        s[i] = (struct symbol){ .name = d->sizes[i].name,
                                .origin = d->sizes[i].kind == SIZE_FOUND ? SYMBOL_NODE : SYMBOL_PARAM,
                                .hi = INT64_MAX };
    return s;
}

static void put_type(const struct module *m, const struct operator_decl *d, const struct symbol *symbols,
                     const struct operator_type *t, struct text *out)
{
    if (t->kind) {
        text_add(out, "object \"%s\"", module_text(m, t->kind));
        return;
    }
    text_str(out, t->dtype < DT_COUNT ? dtype_info[t->dtype].name
                                      : module_text(m, d->dtypes[t->dtype - DT_COUNT]));
    text_str(out, "[");
    for (uint32_t i = 0; i < t->rank; i++) {
        if (i) text_str(out, ", ");
        if (t->dims[i] == SIZE_ANY) text_str(out, "_");
        else dim_print(m, symbols, t->dims[i], out);
    }
    text_str(out, "]");
}

void operator_type_print(const struct module *m, const struct operator_decl *d, const struct operator_type *t,
                         struct text *out)
{
    put_type(m, d, size_symbols(out->arena, d), t, out);
}

static void put_word(const char *text, struct text *out)
{
    if (lexer_is_word(text)) text_str(out, text);
    else text_quoted(out, text);
}
static void put_name(const struct module *m, uint32_t name, struct text *out)
{
    put_word(module_text(m, name), out);
}

void operator_any_signature(const char *name, struct text *out)
{
    put_word(name, out);
    text_str(out, "(...)");
}

static void put_params(const struct module *m, const struct operator_decl *d, const struct symbol *symbols,
                       struct text *out)
{
    for (uint32_t i = 0; i < d->n_params; i++) {
        const struct operator_param *p = &d->params[i];
        if (i) text_str(out, ", ");
        if (p->flags & PARAM_MUT) text_str(out, "mut ");
        if (p->flags & PARAM_OUT) text_str(out, "out ");
        if (p->flags & PARAM_READS) text_str(out, "reads ");
        put_name(m, p->name, out);
        text_str(out, ": ");
        put_type(m, d, symbols, &p->type, out);
        if (p->flags & PARAM_MAYBE) text_str(out, "?");
        if (p->flags & PARAM_LIST) text_str(out, "*");
    }
}

static const char *signature_text(struct module *m, const struct operator_decl *d)
{
    struct text out = { .arena = &m->arena };
    const struct symbol *symbols = size_symbols(&m->scratch, d);
    put_name(m, d->name, &out);
    text_str(&out, d->any ? "(..." : "(");
    put_params(m, d, symbols, &out);
    text_str(&out, ")");
    if (d->n_results) text_str(&out, d->n_results == 1 ? " -> " : " -> (");
    for (uint32_t i = 0; i < d->n_results; i++) {
        if (i) text_str(&out, ", ");
        put_type(m, d, symbols, &d->results[i], &out);
    }
    if (d->n_results > 1) text_str(&out, ")");
    return out.data;
}

void operator_options_print(const struct operator_decl *d, struct text *out)
{
    if (!d->effects && !d->version) return;
    text_str(out, " {");
    if (d->effects) text_add(out, "effects = %s", effect_name(d->effects));
    if (d->version) text_add(out, "%sversion = %u", d->effects ? ", " : "", d->version);
    text_str(out, "}");
}

/* ---- reading ---- */

/* A signature while it is read. */
struct reading {
    struct module *m;
    struct lexer *lx;
    struct operator_decl d;
    vec(struct operator_param) params;
    vec(struct operator_type) results;
    vec(struct operator_size) sizes;
    vec(struct token) first; /* where each size stands for the first time */
    vec(uint32_t) dtypes;
    bool in_result;
    uint32_t depth;
};

static uint32_t read_word(struct reading *r, const char *what)
{
    struct token t = r->lx->tok;
    size_t length = t.len;
    const char *text = t.text;
    if (t.kind == TOKEN_STRING || (t.kind == TOKEN_GLOBAL && t.quoted))
        text = lexer_string(r->lx, &r->m->arena, &length);
    else if (t.kind == TOKEN_WORD || t.kind == TOKEN_GLOBAL) lexer_next(r->lx);
    else lexer_expected(r->lx, what);
    if (!length) lexer_error(r->lx, t, "expected %s, found \"\"", what);
    return module_string(r->m, text, length);
}

/* A capital letter, perhaps with digits behind it. */
static bool is_dtype_variable(const struct token *t)
{
    if (t->kind != TOKEN_WORD || t->text[0] < 'A' || t->text[0] > 'Z') return false;
    for (uint32_t i = 1; i < t->len; i++)
        if (t->text[i] < '0' || t->text[i] > '9') return false;
    return true;
}

static uint8_t read_dtype(struct reading *r)
{
    struct token t = r->lx->tok;
    enum dtype dtype;
    if (t.kind == TOKEN_WORD && dtype_from_name(t.text, t.len, &dtype)) {
        lexer_next(r->lx);
        return (uint8_t)dtype;
    }
    if (!is_dtype_variable(&t))
        lexer_expected(r->lx, "a dtype (bool, i8 to i64, u8 to u64, f16, bf16, f32, f64) or a variable for "
                              "one (a capital letter)");
    lexer_next(r->lx);
    uint32_t name = module_string(r->m, t.text, t.len), k = 0;
    while (k < r->dtypes.len && r->dtypes.data[k] != name) k++;
    if (k == r->dtypes.len) {
        if (r->in_result)
            lexer_error(r->lx, t, "the dtype variable '%.*s' of a result is told by no parameter",
                        (int)HOP_MIN(t.len, 60u), t.text);
        if (k == UINT8_MAX - DT_COUNT) lexer_error(r->lx, t, "more than %u dtype variables", k);
        vec_push(&r->m->arena, &r->dtypes, name);
    }
    return (uint8_t)(DT_COUNT + k);
}

static dim read_size(struct reading *r);

static dim read_variable(struct reading *r)
{
    struct lexer *lx = r->lx;
    struct token at = lx->tok;
    bool found = lexer_accept(lx, '?');
    struct token word = lx->tok;
    if (word.kind != TOKEN_WORD) lexer_expected(lx, found ? "the name of a size behind '?'" : "a size");
    if (found && !r->in_result)
        lexer_error(lx, at, "only results have sizes that are found, found '?%.*s' in a parameter",
                    (int)HOP_MIN(word.len, 60u), word.text);
    lexer_next(lx);
    if (token_is(&word, "_"))
        lexer_error(lx, word, "'_' stands for a size by itself, expected the name of a size or a number");
    uint32_t name = module_string(r->m, word.text, word.len), k = 0;
    while (k < r->sizes.len && r->sizes.data[k].name != name) k++;
    if (k == r->sizes.len) {
        vec_push(&r->m->arena, &r->sizes, (struct operator_size){ name, found ? SIZE_FOUND : SIZE_GIVEN });
        vec_push(&r->m->arena, &r->first, at);
    } else if (found != (r->sizes.data[k].kind == SIZE_FOUND)) {
        lexer_error(lx, at, "the size '%.*s' stands here %s '?', and elsewhere %s it",
                    (int)HOP_MIN(word.len, 60u), word.text, found ? "with" : "without",
                    found ? "without" : "with");
    }
    return dim_symbol(r->m, k);
}

static dim read_factor(struct reading *r)
{
    struct lexer *lx = r->lx;
    dim d;
    if (lx->tok.kind == TOKEN_NUMBER) return dim_const(r->m, lexer_integer(lx, 0, INT64_MAX));
    if (++r->depth > 100) lexer_error(lx, lx->tok, "a size is nested more than 100 levels deep");
    bool largest = token_is(&lx->tok, "max");
    if (lexer_accept(lx, '(')) {
        d = read_size(r);
        lexer_expect(lx, ')', "')'");
    } else if (lexer_accept(lx, '-')) {
        d = dim_sub(r->m, 0, read_factor(r));
    } else if ((largest || token_is(&lx->tok, "min")) && lx->tok.text[3] == '(') {
        lexer_next(lx);
        lexer_next(lx);
        dim a = read_size(r);
        lexer_expect(lx, ',', "','");
        dim b = read_size(r);
        lexer_expect(lx, ')', "')'");
        d = largest ? dim_max(r->m, a, b) : dim_min(r->m, a, b);
    } else {
        d = read_variable(r);
    }
    r->depth--;
    return d;
}

static dim read_term(struct reading *r)
{
    dim d = read_factor(r);
    for (;;) {
        if (lexer_accept(r->lx, '*')) d = dim_mul(r->m, d, read_factor(r));
        else if (lexer_accept(r->lx, TOKEN_FLOORDIV)) d = dim_floordiv(r->m, d, read_factor(r));
        else if (lexer_accept(r->lx, '%')) d = dim_mod(r->m, d, read_factor(r));
        else return d;
    }
}

static dim read_size(struct reading *r)
{
    dim d = read_term(r);
    for (;;) {
        if (lexer_accept(r->lx, '+')) d = dim_add(r->m, d, read_term(r));
        else if (lexer_accept(r->lx, '-')) d = dim_sub(r->m, d, read_term(r));
        else return d;
    }
}

static dim read_any_size(struct reading *r)
{
    if (!token_is(&r->lx->tok, "_")) return read_size(r);
    if (r->in_result)
        lexer_error(r->lx, r->lx->tok,
                    "'_' in a result: expected a size that operands tell, a name for one "
                    "that the call says, or ?name for one that is found");
    lexer_next(r->lx);
    return SIZE_ANY;
}

/* Behind the word `object`. */
static struct operator_type read_object(struct reading *r, struct token at)
{
    size_t length;
    if (r->in_result)
        lexer_error(r->lx, at, "operators make no objects: a result is an array, and an object is no `out`");
    if (r->lx->tok.kind != TOKEN_STRING) lexer_expected(r->lx, "the kind of the object, in quotes");
    struct token kind_at = r->lx->tok;
    const char *kind = lexer_string(r->lx, &r->m->arena, &length);
    if (!object_kind_fits(kind, length))
        lexer_error(r->lx, kind_at,
                    "the kind of an object has 1 to 100 characters without quotes, backslashes and control "
                    "characters");
    return (struct operator_type){ .dtype = DT_OBJECT, .kind = module_string(r->m, kind, length) };
}

static struct operator_type read_type(struct reading *r)
{
    struct lexer *lx = r->lx;
    struct token front = lx->tok;
    if (lexer_accept_word(lx, "object")) return read_object(r, front);
    struct operator_type t = { .dtype = read_dtype(r) };
    dim dims[MAX_RANK];
    lexer_expect(lx, '[', "'[' and sizes");
    while (lx->tok.kind != ']') {
        if (t.rank) lexer_expect(lx, ',', "',' or ']'");
        if (t.rank == MAX_RANK) lexer_error(lx, lx->tok, "a type has at most %d dims", MAX_RANK);
        struct token at = lx->tok;
        dim d = read_any_size(r);
        if (d != SIZE_ANY && dim_is_const(r->m, d) && dim_const_value(r->m, d) < 0)
            lexer_error(lx, at, "expected a size of at least 0, found %lld",
                        (long long)dim_const_value(r->m, d));
        dims[t.rank++] = d;
    }
    lexer_next(lx);
    t.dims = arena_copy(&r->m->arena, dims, t.rank * sizeof *dims);
    return t;
}

/* A size that a parameter has by itself is told by it; one that only expressions of parameters have is told
 * by nobody. */
static void bind_sizes(struct reading *r)
{
    for (uint32_t p = 0; p < r->params.len; p++) {
        const struct operator_type *t = &r->params.data[p].type;
        uint32_t s;
        for (uint32_t i = 0; i < t->rank && !(r->params.data[p].flags & PARAM_OUT); i++)
            if (t->dims[i] != SIZE_ANY && dim_is_symbol(r->m, t->dims[i], &s))
                r->sizes.data[s].kind = SIZE_BOUND;
    }
}

static bool mentions_unbound(void *ctx, uint32_t symbol)
{
    const struct reading *r = ctx;
    return r->sizes.data[symbol].kind == SIZE_GIVEN;
}

static void check_params(struct reading *r)
{
    for (uint32_t p = 0; p < r->params.len; p++) {
        const struct operator_type *t = &r->params.data[p].type;
        if (r->params.data[p].flags & PARAM_OUT) continue;
        for (uint32_t i = 0; i < t->rank; i++) {
            if (t->dims[i] == SIZE_ANY || !(t->dims[i] & DIM_TABLE)) continue;
            if (!dim_mentions(r->m, t->dims[i], mentions_unbound, r)) continue;
            uint32_t s = 0;
            while (r->sizes.data[s].kind != SIZE_GIVEN) s++;
            const char *name = module_text(r->m, r->sizes.data[s].name);
            lexer_error(r->lx, r->first.data[s],
                        "the size '%s' cannot be told: no parameter has it as a dim by itself", name);
        }
    }
}

/* A size that is found stands by itself in some result, which is where it is read from. */
static void check_found(struct reading *r)
{
    for (uint32_t s = 0; s < r->sizes.len; s++) {
        bool alone = r->sizes.data[s].kind != SIZE_FOUND;
        dim d = dim_symbol(r->m, s);
        for (uint32_t i = 0; i < r->results.len; i++)
            for (uint32_t k = 0; k < r->results.data[i].rank; k++) alone |= r->results.data[i].dims[k] == d;
        for (uint32_t i = 0; i < r->params.len; i++)
            for (uint32_t k = 0; k < r->params.data[i].type.rank; k++)
                alone |= r->params.data[i].type.dims[k] == d;
        if (!alone)
            lexer_error(r->lx, r->first.data[s],
                        "the size '?%s' cannot be found: no result has it as a dim by itself",
                        module_text(r->m, r->sizes.data[s].name));
    }
}

static uint8_t read_manner(struct reading *r, uint8_t before)
{
    struct token at = r->lx->tok;
    static const struct {
        const char *word;
        uint8_t flag;
    } manners[] = { { "mut", PARAM_MUT }, { "out", PARAM_OUT }, { "reads", PARAM_READS } };
    uint8_t flag = 0;
    for (uint32_t i = 0; i < HOP_COUNT(manners); i++)
        if (token_is(&at, manners[i].word)) flag = manners[i].flag;
    if (!flag) return before;
    struct lexer ahead = *r->lx;
    lexer_next(&ahead);
    if (ahead.tok.kind == ':') return before; /* a parameter of that name */
    if (before)
        lexer_error(r->lx, at, "expected one of mut, out and reads, found '%.*s' behind another", (int)at.len,
                    at.text);
    lexer_next(r->lx);
    return flag;
}

/* Objects stand in front of what may be absent, so that their positions are known. */
static void check_access(struct reading *r, const struct operator_param *p, struct token at,
                         struct token suffix)
{
    const char *name = module_text(r->m, p->name);
    if (!p->type.kind) {
        if (p->flags & PARAM_READS)
            lexer_error(r->lx, at, "'reads' is said of objects, and the parameter '%s' is an array", name);
        return;
    }
    if (p->flags & PARAM_MUT)
        lexer_error(r->lx, at, "an object is not `mut`: it is written unless 'reads' stands in front of it");
    if (p->flags & (PARAM_MAYBE | PARAM_LIST))
        lexer_error(r->lx, suffix, "an object is not absent and in no list, found '%.*s'", 1, suffix.text);
    uint32_t operand = 0;
    for (uint32_t i = 0; i < r->params.len; i++) {
        if (r->params.data[i].flags & (PARAM_MAYBE | PARAM_LIST))
            lexer_error(r->lx, at, "the object '%s' stands behind parameters that may be absent", name);
        operand += !(r->params.data[i].flags & PARAM_OUT);
    }
    r->d.accesses |= p->flags & PARAM_READS ? effect_reads(operand) : effect_writes(operand);
}

static void read_param(struct reading *r)
{
    struct lexer *lx = r->lx;
    struct operator_param p = { .flags = read_manner(r, 0) };
    struct token at = lx->tok;
    if (at.kind != TOKEN_WORD && at.kind != TOKEN_STRING)
        lexer_expected(lx, "the name of a parameter (name: type)");
    p.name = read_word(r, "the name of a parameter");
    for (uint32_t i = 0; i < r->params.len; i++)
        if (r->params.data[i].name == p.name)
            lexer_error(lx, at, "the parameter '%s' is declared twice", module_text(r->m, p.name));
    lexer_expect(lx, ':', "':' and the parameter's type");
    p.flags = read_manner(r, p.flags);
    r->in_result = p.flags & PARAM_OUT;
    p.type = read_type(r);
    r->in_result = false;
    struct token suffix = lx->tok;
    if (lexer_accept(lx, '?')) p.flags |= PARAM_MAYBE;
    else if (lexer_accept(lx, '*')) p.flags |= PARAM_LIST;
    if (p.flags & PARAM_OUT && p.flags != PARAM_OUT)
        lexer_error(lx, suffix, "an `out` parameter is one array, found '%.*s'", 1, suffix.text);
    check_access(r, &p, at, suffix);
    vec_push(&r->m->arena, &r->params, p);
}

static void read_params(struct reading *r)
{
    struct lexer *lx = r->lx;
    lexer_expect(lx, '(', "'(' and the parameters");
    if (lexer_accept(lx, TOKEN_RANGE)) {
        lexer_expect(lx, '.', "'...'");
        r->d.any = true;
        lexer_expect(lx, ')', "')' behind '...'");
        return;
    }
    for (bool first = true; lx->tok.kind != ')'; first = false) {
        if (!first) lexer_expect(lx, ',', "',' or ')'");
        read_param(r);
    }
    lexer_next(lx);
}

static void read_results(struct reading *r)
{
    struct lexer *lx = r->lx;
    if (!lexer_accept(lx, TOKEN_ARROW)) return;
    r->in_result = true;
    if (!lexer_accept(lx, '(')) {
        vec_push(&r->m->arena, &r->results, read_type(r));
        return;
    }
    for (bool first = true; lx->tok.kind != ')'; first = false) {
        if (!first) lexer_expect(lx, ',', "',' or ')'");
        vec_push(&r->m->arena, &r->results, read_type(r));
    }
    lexer_next(lx);
}

static void read_option(struct reading *r, struct token *rules)
{
    struct lexer *lx = r->lx;
    struct token at = lx->tok;
    uint32_t rule = 0;
    while (rule < OPERATOR_RULES && !token_is(&at, operator_rule_names[rule])) rule++;
    bool effects = token_is(&at, "effects"), version = token_is(&at, "version");
    if (!effects && !version && rule == OPERATOR_RULES)
        lexer_expected(lx, "an option: effects, version, forward, backward, jvp, batch");
    lexer_next(lx);
    lexer_expect(lx, '=', "'='");
    if (version) {
        r->d.version = (uint32_t)lexer_integer(lx, 0, INT32_MAX);
    } else if (effects) {
        char word[16] = "";
        if (lx->tok.kind == TOKEN_WORD && lx->tok.len < sizeof word) memcpy(word, lx->tok.text, lx->tok.len);
        if (!effect_from_name(word, &r->d.effects))
            lexer_expected(lx, "an effect: none, check, io, unordered");
        lexer_next(lx);
    } else {
        if (!rules)
            lexer_error(lx, at, "expected effects or version here, found the rule '%s'",
                        operator_rule_names[rule]);
        if (lx->tok.kind != TOKEN_GLOBAL) lexer_expected(lx, "the name of a function (@name)");
        rules[rule] = lx->tok;
        lexer_next(lx);
    }
}

static void read_options(struct reading *r, struct token *rules)
{
    struct lexer *lx = r->lx;
    if (!lexer_accept(lx, '{')) return;
    for (bool first = true; lx->tok.kind != '}'; first = false) {
        if (!first) lexer_expect(lx, ',', "',' or '}'");
        read_option(r, rules);
    }
    lexer_next(lx);
}

static struct operator_decl *make_known(struct reading *r, struct token at)
{
    struct module *m = r->m;
    struct operator_decl *old = (struct operator_decl *)module_operator(m, r->d.name);
    r->d.signature = signature_text(m, &r->d);
    if (old) {
        if (strcmp(old->signature, r->d.signature) || old->effects != r->d.effects)
            lexer_error(r->lx, at,
                        "the operator '%s' is declared twice: as %s with effects %s, and as %s with "
                        "effects %s",
                        module_text(m, r->d.name), old->signature, effect_name(old->effects), r->d.signature,
                        effect_name(r->d.effects));
        return old;
    }
    struct operator_decl *kept = arena_copy(&m->arena, &r->d, sizeof r->d);
    vec_push(&m->arena, &m->operators, kept);
    map_put(&m->operator_map, hash_mix(kept->name, 0x6f70), m->operators.len - 1);
    return kept;
}

struct operator_decl *operator_read(struct module *m, struct lexer *lx, struct token rules[OPERATOR_RULES])
{
    struct reading r = { .m = m, .lx = lx };
    struct token at = lx->tok;
    for (uint32_t i = 0; rules && i < OPERATOR_RULES; i++) rules[i] = (struct token){ .kind = TOKEN_END };
    memset(r.d.rules, 0xff, sizeof r.d.rules);
    r.d.place = token_place(lx, at);
    r.d.name = read_word(&r, "the name of an operator");
    read_params(&r);
    read_results(&r);
    const char *name = module_text(m, r.d.name);
    bool callback = r.d.any && !r.results.len; /* is not called by its name alone */
    if (!callback && op_find(name, strlen(name)) != OP_COUNT)
        lexer_error(lx, at, "expected a name that no operator of hop has, found '%s'", name);
    bind_sizes(&r);
    check_params(&r);
    check_found(&r);
    read_options(&r, rules);
    r.d.n_params = r.params.len;
    r.d.params = r.params.data;
    r.d.n_results = r.results.len;
    r.d.results = r.results.data;
    r.d.n_sizes = r.sizes.len;
    r.d.sizes = r.sizes.data;
    r.d.n_dtypes = r.dtypes.len;
    r.d.dtypes = r.dtypes.data;
    return make_known(&r, at);
}

const struct operator_decl *operator_declare(struct module *m, const char *what, const char *text)
{
    struct lexer lx;
    size_t length = strlen(text);
    lexer_begin(&lx, what, 0, arena_string(&m->arena, text, length), length);
    const struct operator_decl *d = operator_read(m, &lx, NULL);
    if (lx.tok.kind != TOKEN_END) lexer_expected(&lx, "the end of the signature");
    return d;
}

const struct operator_decl *operator_import(struct module *m, const struct module *from,
                                            const struct operator_decl *d)
{
    const char *name = module_text(from, d->name);
    const struct operator_decl *known = module_operator(m, module_string(m, name, strlen(name)));
    if (known && !strcmp(known->signature, d->signature) && known->effects == d->effects) return known;
    struct text text = { .arena = &m->scratch };
    text_str(&text, d->signature);
    operator_options_print(d, &text);
    return operator_declare(m, "signature", text.data);
}
