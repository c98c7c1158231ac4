/* Any first-order operator of the table by name, with its attributes as the text form writes them: what the
 * table has, C has, whether or not it has a function of its own. Operands are taken as they are. */
#include "capture/capture.h"

static const char *string_literal(struct cursor *c, struct arena *arena, size_t *length)
{
    struct text out = { .arena = arena };
    cursor_expect(c, "\"");
    for (; *c->p != '"'; c->p++) {
        if (!*c->p) cursor_error(c, "the closing '\"'");
        if (*c->p == '\\' && c->p[1]) c->p++;
        text_bytes(&out, c->p, 1);
    }
    c->p++;
    cursor_space(c);
    *length = out.len;
    return out.data ? out.data : "";
}

static double real_literal(struct cursor *c)
{
    char *end;
    cursor_space(c);
    double r = strtod(c->p, &end);
    if (end == c->p) cursor_error(c, "a number");
    c->p = end;
    cursor_space(c);
    return r;
}

static struct attr list_literal(struct cursor *c, struct builder *b, bool dims)
{
    vec(uint32_t) list = { 0 };
    cursor_expect(c, "[");
    for (bool first = true; !cursor_accept(c, "]"); first = false) {
        int64_t n = 0;
        if (!first) cursor_expect(c, ",");
        if (!dims && (!cursor_integer(c, &n) || n > INT32_MAX || n < INT32_MIN))
            cursor_error(c, "an integer");
        vec_push(&b->arena, &list, dims ? parse_dim(c) : (uint32_t)(int32_t)n);
    }
    return dims ? A_DIMS(list.data, list.len) : A_INTS(list.data, list.len);
}

static struct attr read_value(struct cursor *c, struct builder *b, const struct attr_spec *spec)
{
    int64_t n;
    size_t length;
    const char *text;
    switch (spec->kind) {
    case ATTR_INT:
        if (!cursor_integer(c, &n)) cursor_error(c, "an integer");
        return A_INT(n);
    case ATTR_REAL: return A_REAL(real_literal(c));
    case ATTR_SCALAR: {
        const char *at = c->p;
        if (cursor_integer(c, &n) && *c->p != '.' && *c->p != 'e') return A_INT(n);
        c->p = at;
        return A_REAL(real_literal(c));
    }
    case ATTR_INTS: return list_literal(c, b, false);
    case ATTR_DIMS: return list_literal(c, b, true);
    case ATTR_DIM: return A_DIM(parse_dim(c));
    case ATTR_DTYPE: return A_DTYPE(parse_dtype(c));
    case ATTR_STRING:
        text = string_literal(c, &b->arena, &length);
        return A_STRING(module_string(b->m, text, length));
    case ATTR_WORD:
        if (!cursor_word(c, &text, &length)) cursor_error(c, "a word");
        for (uint32_t w = 0; spec->words[w]; w++)
            if (strlen(spec->words[w]) == length && !memcmp(spec->words[w], text, length)) return A_WORD(w);
        capture_throw("attribute '%s' has no choice '%.*s'", spec->name, (int)length, text);
    default: capture_throw("attribute '%s' cannot be given here", spec->name);
    }
}

static void read_attrs(struct cursor *c, struct builder *b, const struct op_row *row, struct attr *attrs)
{
    if (!cursor_accept(c, "{")) return;
    for (bool first = true; !cursor_accept(c, "}"); first = false) {
        const char *name;
        size_t length;
        uint32_t k = 0;
        if (!first) cursor_expect(c, ",");
        if (!cursor_word(c, &name, &length)) cursor_error(c, "the name of an attribute");
        while (k < row->sig.n_attrs &&
               (strlen(row->sig.attrs[k].name) != length || memcmp(row->sig.attrs[k].name, name, length)))
            k++;
        if (k == row->sig.n_attrs) capture_throw("%s has no attribute '%.*s'", row->name, (int)length, name);
        if (attrs[k].kind != ATTR_ABSENT)
            capture_throw("attribute '%s' is given twice", row->sig.attrs[k].name);
        if (row->sig.attrs[k].kind == ATTR_FLAG) {
            attrs[k] = A_FLAG(true);
            continue;
        }
        cursor_expect(c, "=");
        attrs[k] = read_value(c, b, &row->sig.attrs[k]);
    }
}

static void rule_apply(struct emission *e)
{
    struct cursor c = { .text = e->args, .p = e->args, .what = "the operator", .s = e->s, .m = e->b->m };
    const char *name;
    size_t length;
    struct attr attrs[16] = { 0 };
    if (!cursor_word(&c, &name, &length)) cursor_error(&c, "the name of an operator");
    enum op op = op_find(name, length);
    if (op == OP_COUNT) capture_throw("there is no operator '%.*s'", (int)length, name);
    const struct op_row *row = op_table[op];
    if (row->flags & OPF_HIGHER) capture_throw("'%s' takes functions: it has a call of its own", row->name);
    read_attrs(&c, e->b, row, attrs);
    cursor_end(&c);
    val *in = ARENA_NEW(&e->b->arena, val, e->n);
    for (uint32_t i = 0; i < e->n; i++) in[i] = operand_value(e->b, &e->in[i]);
    val first = emit(e->b, op, in, e->n, attrs);
    uint32_t n = e->b->n_last_results;
    if (n != e->n_out) capture_throw("'%s' has %u results, room given for %u", row->name, n, e->n_out);
    for (uint32_t i = 0; i < n; i++) e->out[i] = first + i;
}

int hop_apply_at(hop_place at, hop_val *out, int n_out, const char *op, const hop_val *in, int n_in)
{
    if (!op || n_in < 0 || n_out < 0)
        return hop_fail_at(at, "apply: expected an operator and counts that are not negative");
    return capture_emit(at, "apply", rule_apply, op, in, (uint32_t)n_in, out, (uint32_t)n_out);
}
