/* The reader's other half: constants written as nested lists, and test blocks with their inputs and expected
 * results. */
#include "ir/number.h"
#include "ir/reader.h"

/* ---- literals ---- */

struct literal {
    struct text bytes; /* elements so far */
    enum dtype dtype;
    int64_t dims[MAX_RANK]; /* -1: not known yet */
    uint32_t depth;         /* of the elements, or of the innermost list while there is none */
    bool has_elements;
    struct token at;
};

static void read_element(struct reader *r, struct literal *l)
{
    struct lexer *lx = &r->lex;
    uint64_t bits; /* little-endian: its first bytes are the element */
    if (l->dtype == DT_BOOL) {
        bits = token_is(&lx->tok, "true");
        if (!bits && !token_is(&lx->tok, "false")) lexer_expected(lx, "true or false");
        lexer_next(lx);
    } else if (dtype_is_float(l->dtype)) bits = lexer_float(lx, l->dtype);
    else if (l->dtype == DT_U64) bits = lexer_unsigned(lx);
    else bits = (uint64_t)lexer_integer(lx, dtype_least(l->dtype), dtype_most(l->dtype));
    text_bytes(&l->bytes, (const char *)&bits, dtype_info[l->dtype].size);
}

static void read_level(struct reader *r, struct literal *l, uint32_t level)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    if (at.kind != '[') {
        if (l->has_elements ? l->depth != level : level < l->depth)
            lexer_expected(lx, "a list as deep as the others");
        l->has_elements = true;
        l->depth = level;
        read_element(r, l);
        return;
    }
    if (level == MAX_RANK) lexer_error(lx, at, "a literal has at most %d levels of lists", MAX_RANK);
    if (l->has_elements && level >= l->depth) lexer_error(lx, at, "expected an element, found a deeper list");
    lexer_next(lx);
    int64_t n = 0;
    for (; lx->tok.kind != ']'; n++) {
        if (n) lexer_expect(lx, ',', "',' or ']'");
        read_level(r, l, level + 1);
    }
    lexer_next(lx);
    if (l->dims[level] >= 0 && l->dims[level] != n)
        lexer_error(lx, at, "a list of %lld elements beside one of %lld", (long long)n,
                    (long long)l->dims[level]);
    l->dims[level] = n;
    if (!l->has_elements) l->depth = HOP_MAX(l->depth, level + 1);
}

static struct literal read_literal(struct reader *r, enum dtype dtype)
{
    struct literal l = { .bytes = { .arena = &r->arena }, .dtype = dtype, .at = r->lex.tok };
    for (uint32_t i = 0; i < MAX_RANK; i++) l.dims[i] = -1;
    read_level(r, &l, 0);
    return l;
}

static type_id literal_type(struct reader *r, const struct literal *l)
{
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < l->depth; i++) dims[i] = dim_const(r->m, l->dims[i]);
    return type_intern(r->m, l->dtype, l->depth, dims);
}

/* May the literal have this type, whose symbolic dims fit any size? The static type in *out. A list without
 * elements ends before the last dims. */
static bool literal_fits(struct reader *r, const struct literal *l, type_id type, type_id *out)
{
    struct type t = type_get(r->m, type);
    dim dims[MAX_RANK];
    if (l->depth > t.rank || (l->depth < t.rank && l->has_elements) || (!l->depth && t.rank)) return false;
    for (uint32_t i = 0; i < t.rank; i++) {
        bool fixed = dim_is_const(r->m, t.dims[i]);
        if (i < l->depth && fixed && dim_const_value(r->m, t.dims[i]) != l->dims[i]) return false;
        dims[i] = i < l->depth ? dim_const(r->m, l->dims[i]) : fixed ? t.dims[i] : 0;
    }
    *out = type_intern(r->m, t.dtype, t.rank, dims);
    return true;
}

static _Noreturn void shape_error(struct reader *r, const struct literal *l, type_id type)
{
    lexer_error(&r->lex, l->at, "expected a literal of type %s, found one of type %s",
                type_text(r->m, NULL, type), type_text(r->m, NULL, literal_type(r, l)));
}

static uint32_t intern_literal(struct reader *r, const struct literal *l, type_id type, uint32_t name)
{
    return module_constant(r->m, type, l->bytes.data ? l->bytes.data : "", l->bytes.len, name);
}

uint32_t reader_constant(struct reader *r, type_id type, uint32_t name)
{
    struct literal l = read_literal(r, (enum dtype)type_get(r->m, type).dtype);
    type_id fits;
    if (!literal_fits(r, &l, type, &fits)) shape_error(r, &l, type);
    return intern_literal(r, &l, type, name);
}

/* const @name: type = literal */
void reader_const_item(struct reader *r)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    lexer_next(lx);
    struct token name_at = lx->tok;
    if (name_at.kind != TOKEN_GLOBAL) lexer_expected(lx, "the name of the constant (@name)");
    uint32_t name = reader_name(r);
    struct definition *d = reader_define(r, name);
    if (d->state == DEF_DONE || d->state == DEF_READING)
        lexer_error(lx, name_at, "@%s is defined twice", module_text(r->m, name));
    lexer_expect(lx, ':', "':' and the constant's type");
    struct token type_at = lx->tok;
    type_id type = reader_type(r, NULL);
    if (type_is_object(r->m, type))
        lexer_error(lx, type_at, "an object cannot be a constant: programs take it as an argument");
    lexer_expect(lx, '=', "'='");
    uint32_t index = reader_constant(r, type, name);
    d->state = DEF_DONE;
    d->is_const = true;
    d->index = index;
    d->at = at;
    d->after = lx->tok;
}

/* ---- test blocks ---- */

/* dtypes of the transformed function's parameters and results, as far as the text alone tells. */
struct dtypes {
    uint8_t *data;
    uint32_t len, cap;
};
struct shape_of_test {
    const struct fn *f;
    struct dtypes params, results;
    bool open; /* there are more: what probes add, whose types the test says */
};

/* Tests name an object by a number. */
static uint8_t literal_dtype(const struct module *m, type_id t)
{
    return (uint8_t)dtype_stored((enum dtype)type_get(m, t).dtype);
}

static enum dtype dtype_at(const struct dtypes *list, uint32_t i)
{
    if (!list->data || i >= list->len)
        hop_throw(HOP_INTERNAL, "a test speaks of number %u of %u", i, list->len);
    return (enum dtype)list->data[i];
}

static enum dtype dtype_there(struct reader *r, const struct shape_of_test *s, const struct dtypes *list,
                              uint32_t i, bool typed)
{
    if (i < list->len || !s->open) return dtype_at(list, i);
    if (!typed)
        lexer_error(&r->lex, r->lex.tok, "expected its type in front of '=', which probes do not tell");
    return DT_F32;
}

static uint32_t param_named(const struct fn *f, uint32_t name)
{
    for (uint32_t p = 0; p < f->n_params; p++)
        if (f->values[p].name && f->values[p].name == name) return p;
    return HOP_NONE;
}

/* x, %x or #0: a parameter's number. */
static uint32_t read_param(struct reader *r, const struct shape_of_test *s)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    uint32_t p;
    if (at.kind == TOKEN_POSITION) {
        struct token digits = at;
        digits.kind = TOKEN_NUMBER;
        lx->tok = digits;
        p = (uint32_t)lexer_integer(lx, 0, 65535);
        if (p >= s->params.len && !s->open)
            lexer_error(lx, at, "there is no parameter #%u, the function has %u", p, s->params.len);
        return p;
    }
    if (at.kind != TOKEN_WORD && at.kind != TOKEN_VALUE)
        lexer_expected(lx, "the name of a parameter, or #number");
    uint32_t name = reader_name(r);
    p = param_named(s->f, name);
    if (p == HOP_NONE) lexer_error(lx, at, "the function has no parameter %%%s", module_text(r->m, name));
    return p;
}

static uint32_t read_param_list(struct reader *r, const struct shape_of_test *s, uint32_t *params)
{
    struct lexer *lx = &r->lex;
    uint32_t n = 0;
    lexer_expect(lx, '(', "'('");
    while (lx->tok.kind != ')' && lx->tok.kind != ';') {
        if (n) lexer_expect(lx, ',', "',' or ')'");
        if (n == MAX_TEST_PARAMS) lexer_error(lx, lx->tok, "more than %d parameters", MAX_TEST_PARAMS);
        params[n++] = read_param(r, s);
    }
    return n;
}

const char *const transform_words[TRANSFORMS] = { [TRANSFORM_GRAD] = "grad",
                                                  [TRANSFORM_JVP] = "jvp",
                                                  [TRANSFORM_VMAP] = "vmap",
                                                  [TRANSFORM_VJP] = "vjp",
                                                  [TRANSFORM_DEBUG_NANS] = "debug_nans",
                                                  [TRANSFORM_PROBES] = "probes",
                                                  [TRANSFORM_PERTURB] = "perturb" };
static bool is_of_probes(const struct test_transform *t)
{
    return t->kind == TRANSFORM_PROBES || t->kind == TRANSFORM_PERTURB;
}

static int transform_word(const struct token *t)
{
    for (uint32_t i = 0; i < TRANSFORMS; i++)
        if (token_is(t, transform_words[i])) return (int)i;
    return -1;
}

/* What the transform does to the list of parameters and results. Tangents are counted for every float result.
 */
static void transform_shape(struct reader *r, struct shape_of_test *s, const struct test_transform *t)
{
    uint32_t n_results = s->results.len;
    s->open |= is_of_probes(t);
    if (is_of_probes(t)) return;
    if (t->kind == TRANSFORM_GRAD) s->results.len = 0;
    if (t->kind == TRANSFORM_VJP)
        for (uint32_t i = 0; i < n_results; i++)
            if (dtype_is_float(s->results.data[i])) vec_push(&r->arena, &s->params, s->results.data[i]);
    if (t->kind == TRANSFORM_JVP)
        for (uint32_t i = 0; i < n_results; i++)
            if (dtype_is_float(s->results.data[i])) vec_push(&r->arena, &s->results, s->results.data[i]);
    if (t->kind == TRANSFORM_VMAP || t->kind == TRANSFORM_DEBUG_NANS) return;
    for (uint32_t i = 0; i < t->n; i++) {
        bool known = t->params[i] < s->params.len || !s->open; /* of others the test says the type */
        uint8_t dtype = known ? (uint8_t)dtype_at(&s->params, t->params[i]) : DT_F64;
        if (t->kind == TRANSFORM_JVP) vec_push(&r->arena, &s->params, dtype);
        else vec_push(&r->arena, &s->results, dtype);
    }
}

static uint32_t read_text(struct reader *r)
{
    size_t length;
    if (r->lex.tok.kind != TOKEN_STRING) lexer_expected(&r->lex, "a string");
    const char *text = lexer_string(&r->lex, &r->arena, &length);
    return module_string(r->m, text, length);
}

/* ("a, b*"; stacked) */
static void read_probes(struct reader *r, struct test_transform *t)
{
    struct lexer *lx = &r->lex;
    t->names = HOP_NONE;
    lexer_expect(lx, '(', "'('");
    if (lx->tok.kind == TOKEN_STRING) t->names = read_text(r);
    if (!lexer_accept(lx, ';')) return;
    if (!lexer_accept_word(lx, "stacked")) lexer_expected(lx, "'stacked'");
    t->stacked = true;
}

/* grad(x) vmap(x; size = 4) … @fn. The one nearest to the function is applied first, so reading starts from
 * the last. */
static void read_transforms(struct reader *r, struct program_test *test, struct shape_of_test *s)
{
    struct lexer *lx = &r->lex;
    struct token at[MAX_TEST_TRANSFORMS];
    uint32_t n = 0;
    while (transform_word(&lx->tok) >= 0) {
        if (n == MAX_TEST_TRANSFORMS)
            lexer_error(lx, lx->tok, "more than %d transforms", MAX_TEST_TRANSFORMS);
        at[n++] = lx->tok;
        while (lx->tok.kind != ')') {
            if (lx->tok.kind == TOKEN_END || lx->tok.kind == '{') lexer_expected(lx, "')'");
            lexer_next(lx);
        }
        lexer_next(lx);
    }
    struct token fn_at = lx->tok;
    if (fn_at.kind != TOKEN_GLOBAL)
        lexer_expected(
            lx, "a transform (grad, jvp, vjp, vmap, debug_nans, probes, perturb) or the function (@name)");
    const struct definition *d = reader_resolve(r, fn_at, reader_name(r));
    if (d->is_const) lexer_error(lx, fn_at, "expected a function, found a constant");
    test->fn = d->index;
    s->f = module_fn(r->m, test->fn);
    for (uint32_t i = 0; i < s->f->n_params; i++)
        vec_push(&r->arena, &s->params, literal_dtype(r->m, value_type(s->f, i)));
    for (uint32_t i = 0; i < s->f->n_results; i++)
        vec_push(&r->arena, &s->results, literal_dtype(r->m, value_type(s->f, s->f->results[i])));
    struct lexer after = *lx;
    while (n-- > 0) {
        lexer_seek(lx, at[n]);
        struct test_transform *t = &test->transforms[test->n_transforms++];
        t->kind = (uint8_t)transform_word(&lx->tok);
        t->size = -1;
        lexer_next(lx);
        if (is_of_probes(t)) read_probes(r, t);
        else t->n = read_param_list(r, s, t->params);
        if (t->kind == TRANSFORM_VMAP && lexer_accept(lx, ';')) {
            if (!lexer_accept_word(lx, "size")) lexer_expected(lx, "'size'");
            lexer_expect(lx, '=', "'='");
            t->size = lexer_integer(lx, 0, INT32_MAX);
        }
        lexer_expect(lx, ')', "')'");
        transform_shape(r, s, t);
    }
    *lx = after;
}

/* A literal, @constant, or with `typed` a literal of exactly that type. `like`: a type it must fit, HOP_NONE:
 * any shape. */
static uint32_t read_test_constant(struct reader *r, bool typed, type_id type, enum dtype dtype, type_id like)
{
    struct lexer *lx = &r->lex;
    if (lx->tok.kind == TOKEN_GLOBAL) {
        struct token at = lx->tok;
        const struct definition *d = reader_resolve(r, at, reader_name(r));
        if (!d->is_const) lexer_error(lx, at, "expected a constant, found a function");
        return d->index;
    }
    if (typed) return reader_constant(r, type, 0);
    struct literal l = read_literal(r, dtype);
    type_id fits = literal_type(r, &l);
    if (like != HOP_NONE && !literal_fits(r, &l, like, &fits)) shape_error(r, &l, like);
    return intern_literal(r, &l, fits, 0);
}

static type_id literal_like(struct module *m, type_id t)
{
    return type_is_object(m, t) ? type_scalar(m, DT_I64) : t;
}

static void read_input(struct reader *r, const struct program_test *test, const struct shape_of_test *s,
                       struct test_input *in)
{
    struct lexer *lx = &r->lex;
    in->param = read_param(r, s);
    bool typed = lexer_accept(lx, ':');
    bool plain = !test->n_transforms;
    type_id like = plain ? literal_like(r->m, value_type(s->f, in->param)) : HOP_NONE;
    in->type = typed ? literal_like(r->m, reader_type(r, NULL)) : like;
    lexer_expect(lx, '=', "'='");
    struct token at = lx->tok;
    if (!lexer_accept_word(lx, "random")) {
        in->kind = INPUT_CONST;
        enum dtype dtype = dtype_there(r, s, &s->params, in->param, typed);
        in->constant = read_test_constant(r, typed, in->type, dtype, like);
        in->type = r->m->constants.data[in->constant].type;
        return;
    }
    bool is_static = in->type != HOP_NONE;
    for (uint32_t i = 0; is_static && i < type_get(r->m, in->type).rank; i++)
        is_static = dim_is_const(r->m, type_get(r->m, in->type).dims[i]);
    if (!is_static) lexer_error(lx, at, "a random input needs a type with known sizes in front of '='");
    in->kind = INPUT_RANDOM;
    in->seed = (uint64_t)lexer_integer(lx, 0, INT64_MAX);
    bool is_float = dtype_is_float(type_get(r->m, in->type).dtype);
    in->lo = is_float ? -2 : 0;
    in->hi = is_float ? 2 : 3;
    if (!lexer_accept_word(lx, "in")) return;
    uint64_t lo = lexer_f64(lx);
    lexer_expect(lx, TOKEN_RANGE, "'..'");
    uint64_t hi = lexer_f64(lx);
    memcpy(&in->lo, &lo, sizeof lo);
    memcpy(&in->hi, &hi, sizeof hi);
    if (!(in->lo <= in->hi)) lexer_error(lx, at, "an empty range: %g..%g", in->lo, in->hi);
}

static void read_expect(struct reader *r, const struct program_test *test, const struct shape_of_test *s,
                        struct test_expect *e)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    e->result = (uint32_t)lexer_integer(lx, 0, 65535);
    if (e->result >= s->results.len && !s->open)
        lexer_error(lx, at, "there is no result %u, the function has %u", e->result, s->results.len);
    bool typed = lexer_accept(lx, ':');
    type_id type = typed ? literal_like(r->m, reader_type(r, NULL)) : HOP_NONE;
    if (lexer_accept_word(lx, "within")) {
        uint64_t bits = lexer_f64(lx);
        memcpy(&e->within, &bits, sizeof bits);
    }
    lexer_expect(lx, '=', "'='");
    type_id like = test->n_transforms ? HOP_NONE
                                      : literal_like(r->m, value_type(s->f, s->f->results[e->result]));
    enum dtype dtype = dtype_there(r, s, &s->results, e->result, typed);
    e->constant = read_test_constant(r, typed, type, dtype, like);
}

/* dim K = 4 */
static void read_test_dim(struct reader *r, struct program_test *test, const struct shape_of_test *s)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    if (at.kind != TOKEN_WORD) lexer_expected(lx, "the name of a dim parameter");
    uint32_t name = reader_name(r), k = 0;
    for (uint32_t i = 0; i < s->f->n_outer_symbols; i++) {
        if (s->f->symbols[i].origin != SYMBOL_DIM) continue;
        if (s->f->symbols[i].name == name) {
            lexer_expect(lx, '=', "'='");
            test->dims[k] = lexer_integer(lx, 0, INT64_MAX);
            return;
        }
        k++;
    }
    lexer_error(lx, at, "the function has no dim parameter '%s'", module_text(r->m, name));
}

void reader_test(struct reader *r)
{
    struct lexer *lx = &r->lex;
    struct arena *a = &r->m->arena;
    struct program_test *test = ARENA_ZNEW(a, struct program_test, 1);
    struct shape_of_test s = { 0 };
    vec(struct test_input) inputs = { 0 };
    vec(struct test_expect) expects = { 0 };
    vec(struct test_property) properties = { 0 };
    test->place = token_place(lx, lx->tok);
    lx->in_test = true;
    lexer_next(lx);
    if (lx->tok.kind == TOKEN_STRING) test->name = read_text(r);
    read_transforms(r, test, &s);
    for (uint32_t i = 0; i < s.f->n_outer_symbols; i++) test->n_dims += s.f->symbols[i].origin == SYMBOL_DIM;
    test->dims = ARENA_ZNEW(a, int64_t, test->n_dims);
    lexer_expect(lx, '{', "'{'");
    while (lx->tok.kind != '}') {
        struct token at = lx->tok;
        if (lexer_accept_word(lx, "expect")) {
            struct test_expect e = { 0 };
            read_expect(r, test, &s, &e);
            vec_push(a, &expects, e);
        } else if (lexer_accept_word(lx, "fails")) test->fails = read_text(r);
        else if (lexer_accept_word(lx, "prints")) test->prints = read_text(r);
        else if (token_is(&at, "dim") && (lexer_next(lx), lx->tok.kind == TOKEN_WORD))
            read_test_dim(r, test, &s);
        else {
            if (token_is(&at, "dim")) lexer_seek(lx, at);
            struct test_property p = { 0 };
            if (at.kind == TOKEN_WORD && *lx->p == '(') {
                p.word = reader_name(r);
                p.n = read_param_list(r, &s, p.params);
                lexer_expect(lx, ')', "')'");
                vec_push(a, &properties, p);
                continue;
            }
            struct test_input in = { 0 };
            read_input(r, test, &s, &in);
            for (uint32_t i = 0; i < inputs.len; i++)
                if (inputs.data[i].param == in.param)
                    lexer_error(lx, at, "parameter #%u is given twice", in.param);
            vec_push(a, &inputs, in);
        }
    }
    lx->in_test = false;
    lexer_next(lx);
    test->inputs = inputs.data;
    test->n_inputs = inputs.len;
    test->expects = expects.data;
    test->n_expects = expects.len;
    test->properties = properties.data;
    test->n_properties = properties.len;
    vec_push(a, &r->m->tests, test);
}
