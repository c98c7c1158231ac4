/* Values on the command line and in tests: reading literals, drawing random ones, comparing, printing as JSON; and the bag that owns them. */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

/* ---- the bag ---- */

void bag_free(void *bag)
{
    struct bag *b = bag;
    for (uint32_t i = 0; i < b->tensors.len; i++) tensor_free(b->tensors.data[i]);
    arena_free(&b->arena);
    memset(b, 0, sizeof *b);
}

struct tensor *bag_keep(struct bag *bag, struct tensor *t)
{
    hop_cleanup_push(tensor_free, t);
    vec_push(&bag->arena, &bag->tensors, t);
    hop_cleanup_pop(t);
    return t;
}

struct tensor *bag_new(struct bag *bag, enum dtype dtype, uint32_t rank, const int64_t *dims)
{
    struct tensor *t = bag_keep(bag, tensor_new(dtype, rank, dims));
    memset(t->data, 0, (size_t)t->count * dtype_info[dtype].size);
    return t;
}

/* ---- elements ---- */

double tensor_get(const struct tensor *t, int64_t i)
{
    switch ((enum dtype)t->dtype) {
    case DT_BOOL: return ((const uint8_t *)t->data)[i];
    case DT_I32: return ((const int32_t *)t->data)[i];
    case DT_I64: return (double)((const int64_t *)t->data)[i];
    case DT_U32: return ((const uint32_t *)t->data)[i];
    case DT_F32: return (double)((const float *)t->data)[i];
    default: return ((const double *)t->data)[i];
    }
}

void tensor_set(struct tensor *t, int64_t i, double v)
{
    switch ((enum dtype)t->dtype) {
    case DT_BOOL: ((uint8_t *)t->data)[i] = v != 0; break;
    case DT_I32: ((int32_t *)t->data)[i] = (int32_t)v; break;
    case DT_I64: ((int64_t *)t->data)[i] = (int64_t)v; break;
    case DT_U32: ((uint32_t *)t->data)[i] = (uint32_t)v; break;
    case DT_F32: ((float *)t->data)[i] = (float)v; break;
    default: ((double *)t->data)[i] = v; break;
    }
}

/* splitmix64: every seed gives a good sequence, on every machine the same. */
uint64_t random_next(struct random *r)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double random_unit(struct random *r) { return (double)(random_next(r) >> 11) * 0x1p-53; }

void tensor_random(struct tensor *t, struct random *r, double lo, double hi)
{
    for (int64_t i = 0; i < t->count; i++) {
        if (t->dtype == DT_BOOL) tensor_set(t, i, (double)(random_next(r) & 1));
        else if (dtype_is_float((enum dtype)t->dtype)) tensor_set(t, i, lo + random_unit(r) * (hi - lo));
        else tensor_set(t, i, floor(lo + random_unit(r) * (floor(hi) - ceil(lo) + 1)));
    }
}

/* ---- literals ---- */

struct literal {
    struct bag *bag;
    const char *at, *what;
    enum dtype dtype;
    struct tensor *out; /* NULL while the shape is being found */
    uint32_t rank;
    int64_t dims[MAX_RANK], count;
};

static void literal_space(struct literal *l)
{
    while (isspace((unsigned char)*l->at)) l->at++;
}

static _Noreturn void literal_error(const struct literal *l, const char *expected)
{
    char found[24];
    snprintf(found, sizeof found, "%.20s", l->at);
    hop_throw(HOP_INVALID, "%s: expected %s, found %s%s%s", l->what, expected, *l->at ? "'" : "", *l->at ? found : "the end", *l->at ? "'" : "");
}

static void literal_scalar(struct literal *l)
{
    char *end = (char *)l->at;
    uint64_t bits = 0;
    errno = 0;
    bool is_true = !strncmp(l->at, "true", 4), is_false = !strncmp(l->at, "false", 5);
    if (l->dtype == DT_BOOL) {
        end = (char *)l->at + (is_true ? 4 : is_false ? 5 : 0);
        bits = is_true;
        if (end == l->at) literal_error(l, "true or false");
    } else if (l->dtype == DT_F32) {
        float f = strtof(l->at, &end);
        memcpy(&bits, &f, sizeof f);
    } else if (l->dtype == DT_F64) {
        double d = strtod(l->at, &end);
        memcpy(&bits, &d, sizeof d);
    } else {
        long long v = strtoll(l->at, &end, 0);
        long long lo = l->dtype == DT_I32 ? INT32_MIN : l->dtype == DT_U32 ? 0 : INT64_MIN, hi = l->dtype == DT_I32 ? INT32_MAX : l->dtype == DT_U32 ? UINT32_MAX : INT64_MAX;
        if (end != l->at && (errno == ERANGE || v < lo || v > hi)) literal_error(l, l->dtype == DT_I32 ? "a number that fits i32" : l->dtype == DT_U32 ? "a number that fits u32" : "a number that fits i64");
        bits = (uint64_t)v;
        if (end != l->at && strchr(".eE", *end) && *end) literal_error(l, "an integer");
    }
    if (end == l->at) literal_error(l, "a number");
    if (l->out) memcpy((char *)l->out->data + (size_t)l->count * dtype_info[l->dtype].size, &bits, dtype_info[l->dtype].size);
    l->count++;
    l->at = end;
}

/* Nesting gives the shape: the first list at each depth sets the length, the others must have it. */
static void literal_value(struct literal *l, uint32_t depth, bool first)
{
    literal_space(l);
    if (*l->at != '[') {
        if (first) l->rank = depth;
        if (depth != l->rank) literal_error(l, "a list: the lists before are nested deeper");
        literal_scalar(l);
        return;
    }
    if (depth == MAX_RANK) hop_throw(HOP_INVALID, "%s: more than %d dims", l->what, MAX_RANK);
    if (!first && depth >= l->rank) literal_error(l, "a number: the lists before are not nested so deep");
    l->at++;
    int64_t n = 0;
    literal_space(l);
    if (first && *l->at == ']') l->rank = depth + 1;
    while (*l->at != ']') {
        literal_value(l, depth + 1, first && !n);
        n++;
        literal_space(l);
        if (*l->at == ',') l->at++, literal_space(l);
        else if (*l->at != ']') literal_error(l, "',' or ']'");
    }
    if (first) l->dims[depth] = n;
    else if (l->dims[depth] != n) hop_throw(HOP_INVALID, "%s: a list of %lld elements where the one before has %lld", l->what, (long long)n, (long long)l->dims[depth]);
    l->at++;
}

static void literal_all(struct literal *l)
{
    literal_value(l, 0, true);
    literal_space(l);
    if (*l->at) literal_error(l, "the end");
}

struct tensor *tensor_parse(struct bag *bag, enum dtype dtype, const char *text, const char *what)
{
    struct literal shape = { .bag = bag, .at = text, .what = what, .dtype = dtype };
    literal_all(&shape);
    struct literal values = { .bag = bag, .at = text, .what = what, .dtype = dtype, .out = bag_new(bag, dtype, shape.rank, shape.dims) };
    literal_all(&values);
    return values.out;
}

struct tensor *tensor_of_constant(struct bag *bag, const struct module *m, uint32_t constant)
{
    const struct constant *c = &m->constants.data[constant];
    struct type t = type_get(m, c->type);
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = dim_const_value(m, t.dims[i]);
    struct tensor *out = bag_new(bag, (enum dtype)t.dtype, t.rank, dims);
    if (c->bytes) memcpy(out->data, c->data, c->bytes);
    return out;
}

/* ---- printing ---- */

void tensor_type_text(struct text *out, const struct tensor *t)
{
    text_str(out, dtype_info[t->dtype].name);
    text_str(out, "[");
    for (uint32_t i = 0; i < t->rank; i++) text_add(out, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    text_str(out, "]");
}

void json_string(struct text *out, const char *s)
{
    text_str(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') text_add(out, "\\%c", c);
        else if (c < 0x20) text_add(out, "\\u%04x", c);
        else text_bytes(out, s, 1);
    }
    text_str(out, "\"");
}

static void json_element(struct text *out, const struct tensor *t, int64_t i)
{
    double v = tensor_get(t, i);
    if (t->dtype == DT_BOOL) text_str(out, v != 0 ? "true" : "false");
    else if (t->dtype == DT_I64) text_add(out, "%lld", (long long)((const int64_t *)t->data)[i]);
    else if (!dtype_is_float((enum dtype)t->dtype)) text_add(out, "%.0f", v);
    else if (!isfinite(v)) text_str(out, isnan(v) ? "\"nan\"" : v > 0 ? "\"inf\"" : "\"-inf\""); /* JSON has no such numbers */
    else text_add(out, "%.*g", t->dtype == DT_F32 ? 9 : 17, v);
}

static int64_t json_level(struct text *out, const struct tensor *t, uint32_t depth, int64_t at)
{
    if (depth == t->rank) {
        json_element(out, t, at);
        return at + 1;
    }
    text_str(out, "[");
    for (int64_t i = 0; i < t->dims[depth]; i++) {
        if (i) text_str(out, ", ");
        at = json_level(out, t, depth + 1, at);
    }
    text_str(out, "]");
    return at;
}

void tensor_json(struct text *out, const struct tensor *t) { json_level(out, t, 0, 0); }

/* ---- comparing ---- */

static bool same_bits(const struct tensor *a, const struct tensor *b, int64_t i)
{
    size_t size = dtype_info[a->dtype].size;
    if (!memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)i * size, size)) return true;
    return dtype_is_float((enum dtype)a->dtype) && isnan(tensor_get(a, i)) && isnan(tensor_get(b, i));
}

static bool close_enough(double found, double expected, double within, double scale)
{
    if (isnan(found) || isnan(expected)) return isnan(found) && isnan(expected);
    if (isinf(found) || isinf(expected)) return found == expected;
    return fabs(found - expected) <= within * fmax(1, scale);
}

const char *tensor_difference(struct arena *a, const struct tensor *found, const struct tensor *expected, struct bound bound)
{
    struct text out = { .arena = a };
    bool same_shape = found->dtype == expected->dtype && found->rank == expected->rank;
    for (uint32_t i = 0; same_shape && i < found->rank; i++) same_shape = found->dims[i] == expected->dims[i];
    if (!same_shape) {
        text_str(&out, "expected type ");
        tensor_type_text(&out, expected);
        text_str(&out, ", found ");
        tensor_type_text(&out, found);
        return out.data;
    }
    double largest = 0;
    if (bound.kind == BOUND_TENSOR)
        for (int64_t i = 0; i < expected->count; i++)
            if (isfinite(tensor_get(expected, i))) largest = fmax(largest, fabs(tensor_get(expected, i)));
    bool exact = bound.kind == BOUND_BITS || !dtype_is_float((enum dtype)found->dtype);
    for (int64_t i = 0; i < found->count; i++) {
        double x = tensor_get(found, i), y = tensor_get(expected, i);
        if (exact ? same_bits(found, expected, i) : close_enough(x, y, bound.within, bound.kind == BOUND_TENSOR ? largest : fabs(y))) continue;
        text_str(&out, "element [");
        int64_t rest = i, below = found->count;
        for (uint32_t d = 0; d < found->rank; d++) {
            below /= found->dims[d];
            text_add(&out, "%s%lld", d ? ", " : "", (long long)(rest / below));
            rest %= below;
        }
        if (!dtype_is_float((enum dtype)found->dtype)) text_add(&out, "]: expected %.0f, found %.0f", y, x);
        else if (exact) text_add(&out, "]: expected %.17g (%a), found %.17g (%a)", y, y, x, x);
        else text_add(&out, "]: expected %.9g, found %.9g (bound %.3g)", y, x, bound.within * fmax(1, bound.kind == BOUND_TENSOR ? largest : fabs(y)));
        return out.data;
    }
    return NULL;
}
