/* Reads dims and types of the text form: what a symbol means in a frame, and in the frames around it, and the
 * types that are written though they are known. */
#include "ir/mesh.h"
#include "ir/reader.h"

uint32_t reader_find_symbol(const struct frame *f, uint32_t name, bool by_node)
{
    for (uint32_t i = f->b.symbols.len; i-- > 0;)
        if (f->b.symbols.data[i].name == name && (f->b.symbols.data[i].origin == SYMBOL_NODE) == by_node)
            return i;
    return HOP_NONE;
}

uint32_t reader_add_symbol(struct frame *f, uint32_t name, int64_t lo, int64_t hi, dim is)
{
    if (f->b.symbols.len == f->b.n_outer_symbols) {
        builder_symbol(&f->b, name, lo, hi);
    } else { /* behind a symbol that a node binds; finish_frame puts it in its place */
        f->late = true;
        vec_push(&f->b.arena, &f->b.symbols, (struct symbol){ name, SYMBOL_DIM, 0, lo, hi, 0 });
    }
    vec_reserve(&f->b.arena, &f->binds, HOP_MAX(f->b.symbols.len, f->binds.cap));
    while (f->binds.len < f->b.symbols.len - 1) vec_push(&f->b.arena, &f->binds, HOP_NONE);
    vec_push(&f->b.arena, &f->binds, is);
    return f->b.symbols.len - 1;
}

uint32_t reader_lift_symbol(struct reader *r, struct frame *f, uint32_t index)
{
    dim outer = dim_symbol(r->m, index);
    for (uint32_t i = 0; i < f->binds.len; i++)
        if (f->binds.data[i] == outer) return i;
    struct symbol s = f->outer->b.symbols.data[index];
    index = reader_add_symbol(f, s.name, s.lo, s.hi, outer);
    f->b.symbols.data[index].axis = s.axis;
    return index;
}

uint32_t reader_lookup_symbol(struct reader *r, struct frame *f, uint32_t name, bool by_node)
{
    uint32_t index = reader_find_symbol(f, name, by_node);
    if (index == HOP_NONE && !by_node) index = reader_find_symbol(f, name, true);
    if (index != HOP_NONE || !f->outer) return index;
    index = reader_lookup_symbol(r, f->outer, name, by_node);
    return index == HOP_NONE ? index : reader_lift_symbol(r, f, index);
}

uint32_t reader_along(struct reader *r, int64_t *hi)
{
    if (!lexer_accept_word(&r->lex, "along")) return 0;
    struct token at = r->lex.tok;
    uint32_t number;
    if (at.kind != TOKEN_WORD && at.kind != TOKEN_STRING) lexer_expected(&r->lex, "the axis of a mesh");
    uint32_t axis = reader_name(r), mesh = mesh_of_axis(r->m, axis, &number);
    if (mesh == HOP_NONE)
        lexer_error(&r->lex, at, "there is no mesh with the axis '%s'", module_text(r->m, axis));
    *hi = r->m->meshes.data[mesh].sizes[number] - 1;
    return axis;
}

uint32_t reader_coordinate(struct reader *r, struct frame *f, uint32_t mesh, uint32_t k)
{
    struct mesh of = r->m->meshes.data[mesh];
    for (uint32_t i = 0; i < f->b.symbols.len; i++)
        if (f->b.symbols.data[i].axis == of.axes[k]) return i;
    const char *name = arena_printf(&r->arena, "%s_rank", module_text(r->m, of.axes[k]));
    uint32_t s = reader_add_symbol(f, module_string(r->m, name, strlen(name)), 0, of.sizes[k] - 1, 0);
    f->b.symbols.data[s].axis = of.axes[k];
    return s;
}

static dim read_symbol(struct reader *r, struct frame *f)
{
    struct token at = r->lex.tok;
    bool by_node = lexer_accept(&r->lex, '?');
    if (r->lex.tok.kind != TOKEN_WORD) lexer_expected(&r->lex, "a dim");
    if (!f)
        lexer_error(&r->lex, at, "a type of constants has no symbols, found '%.*s'", (int)r->lex.tok.len,
                    r->lex.tok.text);
    uint32_t name = reader_name(r);
    uint32_t index = reader_lookup_symbol(r, f, name, by_node);
    if (index == HOP_NONE && f->declares && !by_node)
        index = reader_add_symbol(f, name, 0, INT64_MAX, HOP_NONE);
    if (index == HOP_NONE)
        lexer_error(&r->lex, at, "the dim symbol '%s%s' is bound by no parameter and not declared",
                    by_node ? "?" : "", module_text(r->m, name));
    return dim_symbol(r->m, index);
}

static dim read_factor(struct reader *r, struct frame *f)
{
    struct lexer *lx = &r->lex;
    dim d;
    if (lx->tok.kind == TOKEN_NUMBER) return dim_const(r->m, lexer_integer(lx, 0, INT64_MAX));
    reader_deeper(r);
    if (lexer_accept(lx, '(')) {
        d = reader_dim(r, f);
        lexer_expect(lx, ')', "')'");
    } else if (lexer_accept(lx, '-')) {
        d = dim_sub(r->m, 0, read_factor(r, f));
    } else {
        struct token word = lx->tok;
        const char *p = word.text + word.len;
        bool largest = token_is(&word, "max");
        if ((largest || token_is(&word, "min")) && *p == '(') {
            lexer_next(lx);
            lexer_next(lx);
            dim a = reader_dim(r, f);
            lexer_expect(lx, ',', "','");
            dim b = reader_dim(r, f);
            lexer_expect(lx, ')', "')'");
            d = largest ? dim_max(r->m, a, b) : dim_min(r->m, a, b);
        } else d = read_symbol(r, f);
    }
    r->depth--;
    return d;
}

static dim read_term(struct reader *r, struct frame *f)
{
    dim d = read_factor(r, f);
    for (;;) {
        if (lexer_accept(&r->lex, '*')) d = dim_mul(r->m, d, read_factor(r, f));
        else if (lexer_accept(&r->lex, TOKEN_FLOORDIV)) d = dim_floordiv(r->m, d, read_factor(r, f));
        else if (lexer_accept(&r->lex, '%')) d = dim_mod(r->m, d, read_factor(r, f));
        else return d;
    }
}

dim reader_dim(struct reader *r, struct frame *f)
{
    dim d = read_term(r, f);
    for (;;) {
        if (lexer_accept(&r->lex, '+')) d = dim_add(r->m, d, read_term(r, f));
        else if (lexer_accept(&r->lex, '-')) d = dim_sub(r->m, d, read_term(r, f));
        else return d;
    }
}

enum dtype reader_dtype(struct reader *r)
{
    enum dtype dtype;
    if (r->lex.tok.kind != TOKEN_WORD || !dtype_from_name(r->lex.tok.text, r->lex.tok.len, &dtype))
        lexer_expected(&r->lex, "a dtype (bool, i8 to i64, u8 to u64, f16, bf16, f32, f64)");
    lexer_next(&r->lex);
    return dtype;
}

/* Behind the word `object`: the kind, in quotes. */
static type_id read_object_type(struct reader *r)
{
    struct token at = r->lex.tok;
    size_t length;
    if (at.kind != TOKEN_STRING) lexer_expected(&r->lex, "the kind of the object, in quotes");
    const char *kind = lexer_string(&r->lex, &r->arena, &length);
    if (!object_kind_fits(kind, length))
        lexer_error(&r->lex, at,
                    "the kind of an object has 1 to 100 characters without quotes, backslashes and control "
                    "characters");
    return type_object(r->m, kind, length);
}

type_id reader_layout(struct reader *r, type_id t)
{
    struct lexer *lx = &r->lex;
    struct token at = lx->tok;
    struct placement placed[MESH_AXES] = { { 0 } };
    uint32_t n = 0;
    if (at.kind != TOKEN_GLOBAL || *lx->p != '(') return t;
    uint32_t mesh = mesh_find(r->m, reader_name(r));
    if (mesh == HOP_NONE)
        lexer_error(lx, at,
                    "there is no mesh @%.*s; one is declared like this: mesh @m = (data = 2, model = 4)",
                    (int)HOP_MIN(at.len, 60u), at.text);
    uint32_t n_axes = r->m->meshes.data[mesh].n_axes;
    lexer_expect(lx, '(', "'('");
    do {
        struct token word = lx->tok;
        if (n == n_axes || !placement_read(word.text, word.len, &placed[n]))
            lexer_error(lx, word,
                        n == n_axes ? "the mesh has only %u axes"
                                    : "placement %u: expected the number of a dim, '_', 'sum', 'max', 'min', "
                                      "'prod', 'mean' or 'each'",
                        n);
        lexer_next(lx);
        n++;
    } while (lexer_accept(lx, ','));
    if (n != n_axes) lexer_error(lx, lx->tok, "%u placements, the mesh has %u axes", n, n_axes);
    lexer_expect(lx, ')', "',' or ')'");
    if (t == HOP_NONE) return t;
    const char *wrong = layout_error(r->m, t, mesh, placed);
    if (wrong) lexer_error(lx, at, "%s", wrong);
    return type_laid_out(r->m, t, layout_intern(r->m, mesh, placed));
}

axis_set reader_axes(struct reader *r)
{
    axis_set axes = 0;
    lexer_expect(&r->lex, '{', "'{'");
    do {
        struct token at = r->lex.tok;
        if (at.kind != TOKEN_WORD && at.kind != TOKEN_STRING) lexer_expected(&r->lex, "the name of an axis");
        axis_set axis = module_axis(r->m, reader_name(r));
        if (axes & axis) lexer_error(&r->lex, at, "the axis stands there twice");
        axes |= axis;
    } while (lexer_accept(&r->lex, ','));
    lexer_expect(&r->lex, '}', "',' or '}'");
    return axes;
}

type_id reader_type(struct reader *r, struct frame *f)
{
    if (lexer_accept_word(&r->lex, "object")) return read_object_type(r);
    enum dtype dtype = reader_dtype(r);
    dim dims[MAX_RANK];
    uint32_t rank = 0;
    lexer_expect(&r->lex, '[', "'['");
    while (r->lex.tok.kind != ']') {
        if (rank) lexer_expect(&r->lex, ',', "',' or ']'");
        if (rank == MAX_RANK) lexer_error(&r->lex, r->lex.tok, "a type has at most %d dims", MAX_RANK);
        dims[rank++] = reader_dim(r, f);
    }
    /* Before moving on, so that an error points at the type. */
    type_id t = type_intern(r->m, dtype, rank, dims);
    lexer_next(&r->lex);
    t = reader_layout(r, t);
    return r->lex.tok.kind == '{' ? type_varying(r->m, t, reader_axes(r)) : t;
}

static void check_written(struct reader *r, const struct frame *f, struct token at, type_id written,
                          type_id actual, const char *what)
{
    if (written == actual) return;
    lexer_error(&r->lex, at, "%s: written %s, but it has type %s", what,
                type_text(r->m, f->b.symbols.data, written), type_text(r->m, f->b.symbols.data, actual));
}

void reader_match_type(struct reader *r, struct frame *f, type_id actual, uint32_t first_fresh,
                       const char *what)
{
    struct token at = r->lex.tok;
    struct type have = type_get(r->m, actual);
    dim dims[MAX_RANK];
    uint32_t rank = 0, s;
    if (lexer_accept_word(&r->lex, "object")) {
        check_written(r, f, at, read_object_type(r), actual, what);
        return;
    }
    enum dtype dtype = reader_dtype(r);
    lexer_expect(&r->lex, '[', "'['");
    while (r->lex.tok.kind != ']') {
        if (rank) lexer_expect(&r->lex, ',', "',' or ']'");
        if (rank == MAX_RANK) lexer_error(&r->lex, r->lex.tok, "a type has at most %d dims", MAX_RANK);
        struct token dim_at = r->lex.tok;
        bool is_symbol = r->lex.tok.kind == '?' && rank < have.rank &&
                         dim_is_symbol(r->m, have.dims[rank], &s);
        if (is_symbol && s >= first_fresh && f->b.symbols.data[s].origin == SYMBOL_NODE) {
            lexer_next(&r->lex);
            if (r->lex.tok.kind != TOKEN_WORD) lexer_expected(&r->lex, "the name of a symbol");
            uint32_t name = reader_name(r), known = reader_find_symbol(f, name, true);
            if (known == HOP_NONE) f->b.symbols.data[s].name = name; /* this place names it */
            else if (known < first_fresh)
                lexer_error(&r->lex, dim_at, "?%s is bound twice", module_text(r->m, name));
            if (r->lex.tok.kind != ',' && r->lex.tok.kind != ']') { /* an expression after all */
                lexer_seek(&r->lex, dim_at);
                dims[rank++] = reader_dim(r, f);
            } else {
                dims[rank] = known == HOP_NONE ? have.dims[rank] : dim_symbol(r->m, known);
                rank++;
            }
        } else dims[rank++] = reader_dim(r, f);
    }
    lexer_next(&r->lex);
    type_id written = reader_layout(r, type_intern(r->m, dtype, rank, dims));
    if (r->lex.tok.kind == '{') written = type_varying(r->m, written, reader_axes(r));
    check_written(r, f, at, written, actual, what);
}

void reader_range(struct reader *r, int64_t *lo, int64_t *hi)
{
    struct token at = r->lex.tok;
    *lo = lexer_integer(&r->lex, 0, INT64_MAX);
    lexer_expect(&r->lex, TOKEN_RANGE, "'..'");
    *hi = r->lex.tok.kind == TOKEN_NUMBER ? lexer_integer(&r->lex, 0, INT64_MAX) : INT64_MAX;
    if (*lo > *hi) lexer_error(&r->lex, at, "an empty range: %lld..%lld", (long long)*lo, (long long)*hi);
}

void reader_skip_type(struct reader *r)
{
    if (lexer_accept_word(&r->lex, "object")) {
        read_object_type(r);
        return;
    }
    reader_dtype(r);
    lexer_expect(&r->lex, '[', "'['");
    for (uint32_t depth = 1; depth; lexer_next(&r->lex)) {
        if (r->lex.tok.kind == TOKEN_END) lexer_expected(&r->lex, "']'");
        depth += r->lex.tok.kind == '[';
        depth -= r->lex.tok.kind == ']';
    }
    reader_layout(r, HOP_NONE);
    if (r->lex.tok.kind == '{') reader_axes(r);
}
