/* The texts of the C surface: dtypes, sizes, types, axes, slices. A text and, where sizes may have names, a
 * scope come in; dims and lists go out. Errors show the text and what was expected where. */
#include "capture/capture.h"

#include <ctype.h>

struct cursor cursor_over(const char *text, const char *what, struct scope *s, struct module *m)
{
    const char *begin = text ? text : "";
    return (struct cursor){ .text = begin, .p = begin, .what = what, .s = s, .m = m };
}

struct cursor cursor_for(const struct emission *e, const char *text, const char *what)
{
    return cursor_over(text, what, e->s, e->b->m);
}

void cursor_error(const struct cursor *c, const char *expected)
{
    if (*c->p) capture_throw("%s \"%s\": expected %s at \"%s\"", c->what, c->text, expected, c->p);
    capture_throw("%s \"%s\": expected %s at the end", c->what, c->text, expected);
}

void cursor_space(struct cursor *c)
{
    while (isspace((unsigned char)*c->p)) c->p++;
}

static bool is_word_char(char ch) { return isalnum((unsigned char)ch) || ch == '_'; }

bool cursor_accept(struct cursor *c, const char *token)
{
    size_t n = strlen(token);
    cursor_space(c);
    if (strncmp(c->p, token, n) || (is_word_char(token[n - 1]) && is_word_char(c->p[n]))) return false;
    c->p += n;
    cursor_space(c);
    return true;
}

void cursor_expect(struct cursor *c, const char *token)
{
    char expected[40];
    snprintf(expected, sizeof expected, "'%s'", token);
    if (!cursor_accept(c, token)) cursor_error(c, expected);
}

bool cursor_word(struct cursor *c, const char **word, size_t *length)
{
    cursor_space(c);
    if (!is_word_char(*c->p) || isdigit((unsigned char)*c->p)) return false;
    *word = c->p;
    while (is_word_char(*c->p)) c->p++;
    *length = (size_t)(c->p - *word);
    cursor_space(c);
    return true;
}

bool cursor_integer(struct cursor *c, int64_t *out)
{
    cursor_space(c);
    const char *p = c->p;
    bool negative = *p == '-';
    if (negative)
        for (p++; isspace((unsigned char)*p); p++) continue;
    if (!isdigit((unsigned char)*p)) return false;
    int64_t n = 0;
    for (; isdigit((unsigned char)*p); p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
            cursor_error(c, "a number below 2^63");
    if (is_word_char(*p)) return false;
    *out = negative ? -n : n;
    c->p = p;
    cursor_space(c);
    return true;
}

void cursor_end(struct cursor *c)
{
    cursor_space(c);
    if (*c->p) cursor_error(c, "the end");
}

/* ---- sizes ---- */

/* SCOPE.ID: the numbers of a hop_dim. */
static dim parse_handle(struct cursor *c)
{
    int64_t scope, id;
    if (!cursor_integer(c, &scope)) cursor_error(c, "the number of a scope");
    cursor_expect(c, ".");
    if (!cursor_integer(c, &id)) cursor_error(c, "the number of a size");
    return resolve_dim(c->s, (hop_dim){ (uint64_t)scope, (uint64_t)id });
}

static dim parse_factor(struct cursor *c, int depth)
{
    int64_t n;
    const char *word;
    size_t length;
    if (depth > 100) cursor_error(c, "fewer parentheses");
    if (cursor_accept(c, "-")) return dim_sub(c->m, 0, parse_factor(c, depth + 1));
    if (cursor_integer(c, &n)) return dim_const(c->m, n);
    if (cursor_accept(c, "(")) {
        dim d = parse_dim(c);
        cursor_expect(c, ")");
        return d;
    }
    if (c->s && cursor_accept(c, "#")) return parse_handle(c);
    cursor_accept(c, "?");
    if (!cursor_word(c, &word, &length)) cursor_error(c, "a size");
    bool largest = length == 3 && !memcmp(word, "max", 3);
    if ((largest || (length == 3 && !memcmp(word, "min", 3))) && cursor_accept(c, "(")) {
        dim a = parse_dim(c);
        cursor_expect(c, ",");
        dim b = parse_dim(c);
        cursor_expect(c, ")");
        return largest ? dim_max(c->m, a, b) : dim_min(c->m, a, b);
    }
    dim d = c->s ? scope_symbol(c->s, word, length) : HOP_NONE;
    if (d == HOP_NONE && c->declare) d = c->declare(c, word, length);
    if (d == HOP_NONE)
        capture_throw("%s \"%s\": the size '%.*s' is not known here", c->what, c->text, (int)length, word);
    return d;
}

static dim parse_term(struct cursor *c)
{
    dim d = parse_factor(c, 0);
    for (;;) {
        if (cursor_accept(c, "*")) d = dim_mul(c->m, d, parse_factor(c, 0));
        else if (cursor_accept(c, "//")) d = dim_floordiv(c->m, d, parse_factor(c, 0));
        else if (cursor_accept(c, "%")) d = dim_mod(c->m, d, parse_factor(c, 0));
        else return d;
    }
}

dim parse_dim(struct cursor *c)
{
    dim d = parse_term(c);
    for (;;) {
        if (cursor_accept(c, "+")) d = dim_add(c->m, d, parse_term(c));
        else if (cursor_accept(c, "-")) d = dim_sub(c->m, d, parse_term(c));
        else return d;
    }
}

uint32_t parse_dims(struct cursor *c, dim *dims)
{
    uint32_t rank = 0;
    cursor_space(c);
    while (*c->p && *c->p != ']') {
        if (rank) cursor_expect(c, ",");
        if (rank == MAX_RANK) capture_throw("%s \"%s\" has more than %d dims", c->what, c->text, MAX_RANK);
        dims[rank++] = parse_dim(c);
    }
    return rank;
}

/* ---- types ---- */

enum dtype parse_dtype(struct cursor *c)
{
    enum dtype t;
    const char *word, *at = c->p;
    size_t length;
    if (!cursor_word(c, &word, &length) || !dtype_from_name(word, length, &t)) {
        char known[128] = "a dtype:";
        for (int i = 0; i < DT_COUNT; i++)
            snprintf(known + strlen(known), sizeof known - strlen(known), " %s", dtype_info[i].name);
        c->p = at;
        cursor_error(c, known);
    }
    return t;
}

enum dtype parse_type(struct cursor *c, uint32_t *rank, dim *dims)
{
    enum dtype t = parse_dtype(c);
    cursor_expect(c, "[");
    *rank = parse_dims(c, dims);
    cursor_expect(c, "]");
    return t;
}

axis_set parse_varying(struct cursor *c)
{
    axis_set axes = 0;
    if (!cursor_accept(c, "{")) return 0;
    do {
        const char *name;
        size_t length;
        if (!cursor_word(c, &name, &length)) cursor_error(c, "the name of an axis");
        axes |= module_axis(c->m, module_string(c->m, name, length));
    } while (cursor_accept(c, ","));
    cursor_expect(c, "}");
    return axes;
}

bool parse_object(struct cursor *c, const char **kind, size_t *length)
{
    if (!cursor_accept(c, "object")) return false;
    if (*c->p != '"') cursor_error(c, "the kind of the object, in quotes");
    *kind = c->p + 1;
    *length = strcspn(*kind, "\"");
    if ((*kind)[*length] != '"' || !object_kind_fits(*kind, *length))
        cursor_error(c, "a kind: 1 to 100 characters without quotes, backslashes and control characters");
    c->p = *kind + *length + 1;
    cursor_space(c);
    return true;
}

enum dtype text_dtype(const char *text)
{
    struct cursor c = cursor_over(text, "the dtype", NULL, NULL);
    enum dtype t = parse_dtype(&c);
    cursor_end(&c);
    return t;
}

enum dtype parse_static_type(const char *text, uint32_t *rank, int64_t *dims)
{
    struct cursor c = cursor_over(text, "the type", NULL, NULL);
    enum dtype t = parse_dtype(&c);
    *rank = 0;
    cursor_expect(&c, "[");
    while (!cursor_accept(&c, "]")) {
        if (*rank) cursor_expect(&c, ",");
        if (*rank == MAX_RANK) capture_throw("%s \"%s\" has more than %d dims", c.what, c.text, MAX_RANK);
        if (!cursor_integer(&c, &dims[*rank]) || dims[*rank] < 0) cursor_error(&c, "a size, a number");
        ++*rank;
    }
    cursor_end(&c);
    return t;
}

/* ---- axes ---- */

uint32_t check_axis(int axis, uint32_t rank)
{
    int64_t a = axis < 0 ? (int64_t)axis + rank : axis;
    if (a < 0 || a >= (int64_t)rank)
        capture_throw("expected an axis in %d..%d, found %d", -(int)rank, (int)rank - 1, axis);
    return (uint32_t)a;
}

uint32_t parse_axis_list(const char *text, uint32_t rank, uint32_t *list)
{
    struct cursor c = cursor_over(text, "the axes", NULL, NULL);
    uint32_t n = 0, seen = 0;
    cursor_space(&c);
    while (*c.p) {
        int64_t a;
        if (n) cursor_expect(&c, ",");
        if (!cursor_integer(&c, &a) || a > INT32_MAX || a < INT32_MIN) cursor_error(&c, "an axis");
        uint32_t axis = check_axis((int)a, rank);
        if (seen >> axis & 1) capture_throw("%s \"%s\" name axis %u twice", c.what, c.text, axis);
        seen |= 1u << axis;
        list[n++] = axis;
    }
    return n;
}

uint32_t parse_axes(const char *text, uint32_t rank, bool all_allowed)
{
    uint32_t list[MAX_RANK], mask = 0;
    if (all_allowed) {
        struct cursor c = { .text = text, .p = text ? text : "" };
        if (!text) return all_dims(rank);
        if (cursor_accept(&c, "all") && !*c.p) return all_dims(rank);
    }
    uint32_t n = parse_axis_list(text, rank, list);
    for (uint32_t i = 0; i < n; i++) mask |= 1u << list[i];
    return mask;
}

/* ---- slices ---- */

/* One bound of a range, if there is one: a negative number counts from the end. */
static bool parse_bound(struct cursor *c, dim *out, int64_t *number, bool *negative)
{
    cursor_space(c);
    if (!*c->p || *c->p == ':' || *c->p == ',') return false;
    if (c->m) {
        *out = parse_dim(c);
        *number = dim_is_const(c->m, *out) ? dim_const_value(c->m, *out) : 0;
    } else if (!cursor_integer(c, number)) {
        cursor_error(c, "a number");
    }
    *negative = *number < 0;
    return true;
}

static struct slice_item parse_item(struct cursor *c)
{
    struct slice_item item = { .kind = SLICE_INDEX, .step = 1 };
    if (cursor_accept(c, "new")) {
        item.kind = SLICE_NEW;
        return item;
    }
    item.has_start = parse_bound(c, &item.start, &item.start_number, &item.start_negative);
    if (!cursor_accept(c, ":")) {
        if (!item.has_start) cursor_error(c, "an index or a range");
        return item;
    }
    item.kind = SLICE_RANGE;
    item.has_limit = parse_bound(c, &item.limit, &item.limit_number, &item.limit_negative);
    if (!cursor_accept(c, ":")) return item;
    if (!cursor_integer(c, &item.step) && *c->p && *c->p != ',') cursor_error(c, "a step, a number");
    if (!item.step || item.step > INT32_MAX || item.step < -INT32_MAX)
        cursor_error(c, "a step other than 0 and below 2^31");
    return item;
}

uint32_t parse_slices(struct cursor *c, uint32_t rank, struct slice_item *items, uint32_t room)
{
    struct slice_item written[MAX_SLICE_ITEMS], all = { .kind = SLICE_RANGE, .step = 1 };
    uint32_t n = 0, used = 0, dots = HOP_NONE, out = 0;
    cursor_space(c);
    for (bool first = true; *c->p; first = false) {
        if (!first) cursor_expect(c, ",");
        if (n == HOP_COUNT(written))
            capture_throw("%s \"%s\" has more than %d parts", c->what, c->text, MAX_SLICE_ITEMS);
        if (cursor_accept(c, "...")) {
            if (dots != HOP_NONE) capture_throw("%s \"%s\" has \"...\" twice", c->what, c->text);
            dots = n;
            continue;
        }
        written[n] = parse_item(c);
        used += written[n++].kind != SLICE_NEW;
    }
    if (used > rank)
        capture_throw("%s \"%s\" speak of %u axes, the array has %u", c->what, c->text, used, rank);
    if (n + rank - used > room) capture_throw("%s \"%s\" have too many parts", c->what, c->text);
    if (dots == HOP_NONE) dots = n;
    for (uint32_t i = 0; i <= n; i++) {
        if (i == dots)
            for (uint32_t k = used; k < rank; k++) items[out++] = all;
        if (i < n) items[out++] = written[i];
    }
    return out;
}
