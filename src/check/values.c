/* Values on the command line and in tests: reading literals, drawing random ones, comparing, printing as
 * JSON; and the bag that owns them. */
#include "check/check.h"
#include "ir/lexer.h"
#include "ir/number.h"

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

struct tensor *bag_new_of(struct bag *bag, const struct module *m, type_id type)
{
    struct type t = type_get(m, type);
    int64_t dims[MAX_RANK];
    for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_const_value(m, t.dims[d]);
    return bag_new(bag, (enum dtype)t.dtype, t.rank, dims);
}

/* ---- objects ---- */

enum { STAND_INS = 64, STAND_IN_BYTES = 64 };
static _Alignas(64) unsigned char stand_ins[STAND_INS][STAND_IN_BYTES];

struct tensor *bag_object(struct bag *bag, const char *kind, int64_t number)
{
    if (number < 0 || number >= STAND_INS)
        hop_throw(HOP_INVALID, "object \"%s\": expected the number of one, 0 to %d, found %lld", kind,
                  STAND_INS - 1, (long long)number);
    return bag_keep(bag, tensor_object(kind, stand_ins[number], NULL, NULL));
}

void stand_ins_clear(void) { memset(stand_ins, 0, sizeof stand_ins); }

/* As it was given, -1: it is no stand-in. */
static int64_t stand_in_number(const struct tensor *t)
{
    uintptr_t at = (uintptr_t)(*(const uint64_t *)t->data), first = (uintptr_t)stand_ins;
    return at >= first && at < first + sizeof stand_ins ? (int64_t)((at - first) / STAND_IN_BYTES) : -1;
}

/* ---- elements ---- */

double tensor_get(const struct tensor *t, int64_t i)
{
    return element_real((enum dtype)t->dtype, (const char *)t->data + (size_t)i * dtype_info[t->dtype].size);
}

void tensor_set(struct tensor *t, int64_t i, double v)
{
    element_set_real((enum dtype)t->dtype, (char *)t->data + (size_t)i * dtype_info[t->dtype].size, v);
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
    hop_throw(HOP_INVALID, "%s: expected %s, found %s%s%s", l->what, expected, *l->at ? "'" : "",
              *l->at ? found : "the end", *l->at ? "'" : "");
}

static void literal_scalar(struct literal *l)
{
    char *end = (char *)l->at;
    uint64_t bits = 0;
    errno = 0;
    bool is_true = !strncmp(l->at, "true", 4), is_false = !strncmp(l->at, "false", 5);
    if (l->dtype == DT_BOOL) {
        if (!is_true && !is_false) literal_error(l, "true or false");
        end = (char *)l->at + strlen(is_true ? "true" : "false");
        bits = is_true;
    } else if (l->dtype == DT_F32) {
        float f = strtof(l->at, &end);
        memcpy(&bits, &f, sizeof f);
    } else if (dtype_is_float(l->dtype)) {
        bits = real_bits(l->dtype, strtod(l->at, &end));
    } else {
        bool above = l->dtype == DT_U64 && *l->at != '-'; /* the only dtype beyond long long */
        bits = above ? strtoull(l->at, &end, 0) : (uint64_t)strtoll(l->at, &end, 0);
        bool fits = !errno && (above || ((long long)bits >= dtype_least(l->dtype) &&
                                         (long long)bits <= dtype_most(l->dtype)));
        if (end != l->at && !fits) {
            char expected[40];
            snprintf(expected, sizeof expected, "a number that fits %s", dtype_info[l->dtype].name);
            literal_error(l, expected);
        }
        if (end != l->at && strchr(".eE", *end) && *end) literal_error(l, "an integer");
    }
    if (end == l->at) literal_error(l, "a number");
    if (l->out)
        memcpy((char *)l->out->data + (size_t)l->count * dtype_info[l->dtype].size, &bits,
               dtype_info[l->dtype].size);
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
        if (*l->at == ',') {
            l->at++;
            literal_space(l);
        } else if (*l->at != ']') literal_error(l, "',' or ']'");
    }
    if (first) l->dims[depth] = n;
    else if (l->dims[depth] != n)
        hop_throw(HOP_INVALID, "%s: a list of %lld elements where the one before has %lld", l->what,
                  (long long)n, (long long)l->dims[depth]);
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
    struct literal values = { .bag = bag,
                              .at = text,
                              .what = what,
                              .dtype = dtype,
                              .out = bag_new(bag, dtype, shape.rank, shape.dims) };
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
    if (t->kind) {
        text_add(out, "object \"%s\"", t->kind);
        return;
    }
    text_str(out, dtype_info[t->dtype].name);
    text_str(out, "[");
    for (uint32_t i = 0; i < t->rank; i++) text_add(out, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    text_str(out, "]");
}

static void json_element(struct text *out, const struct tensor *t, int64_t i)
{
    static const uint8_t digits[DT_COUNT] = {
        [DT_F16] = 5, [DT_BF16] = 4, [DT_F32] = 9, [DT_F64] = 17
    }; /* enough to give back the bits */
    if (tensor_is_object(t)) {
        text_add(out, "%lld", (long long)stand_in_number(t));
        return;
    }
    double v = tensor_get(t, i);
    int64_t whole = element_whole((enum dtype)t->dtype,
                                  (const char *)t->data + (size_t)i * dtype_info[t->dtype].size);
    if (t->dtype == DT_BOOL) text_str(out, v != 0 ? "true" : "false");
    else if (dtype_info[t->dtype].kind == KIND_UINT) text_add(out, "%llu", (unsigned long long)whole);
    else if (dtype_info[t->dtype].kind == KIND_INT) text_add(out, "%lld", (long long)whole);
    else if (isnan(v)) text_str(out, "\"nan\""); /* JSON has no such numbers */
    else if (isinf(v)) text_str(out, v > 0 ? "\"inf\"" : "\"-inf\"");
    else text_add(out, "%.*g", digits[t->dtype], v);
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
    if (!memcmp((const char *)a->data + (size_t)i * size, (const char *)b->data + (size_t)i * size, size))
        return true;
    return dtype_is_float((enum dtype)a->dtype) && isnan(tensor_get(a, i)) && isnan(tensor_get(b, i));
}

struct bound bound_of(enum dtype t, struct bound f32, struct bound f64)
{
    if (!dtype_is_narrow(t)) return t == DT_F32 ? f32 : f64;
    double few_units = t == DT_F16 ? 0x1p-8 : 0x1p-5;
    return (struct bound){ f32.kind, f32.kind == BOUND_BITS ? 0 : fmax(f32.within, few_units) };
}

static bool close_enough(double found, double expected, double within, double scale)
{
    if (isnan(found) || isnan(expected)) return isnan(found) && isnan(expected);
    if (isinf(found) || isinf(expected)) return found == expected;
    return fabs(found - expected) <= within * fmax(1, scale);
}

const char *tensor_difference(struct arena *a, const struct tensor *found, const struct tensor *expected,
                              struct bound bound)
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
    if (tensor_is_object(found)) {
        int64_t x = stand_in_number(found), y = stand_in_number(expected);
        if (x == y) return NULL;
        return arena_printf(a, "expected object %lld, found object %lld", (long long)y, (long long)x);
    }
    double largest = 0;
    if (bound.kind == BOUND_TENSOR)
        for (int64_t i = 0; i < expected->count; i++)
            if (isfinite(tensor_get(expected, i))) largest = fmax(largest, fabs(tensor_get(expected, i)));
    bool exact = bound.kind == BOUND_BITS || !dtype_is_float((enum dtype)found->dtype);
    for (int64_t i = 0; i < found->count; i++) {
        double x = tensor_get(found, i), y = tensor_get(expected, i);
        double scale = bound.kind == BOUND_TENSOR ? largest : fabs(y);
        bool same = exact ? same_bits(found, expected, i) : close_enough(x, y, bound.within, scale);
        if (same) continue;
        text_str(&out, "element [");
        int64_t rest = i, below = found->count;
        for (uint32_t d = 0; d < found->rank; d++) {
            below /= found->dims[d];
            text_add(&out, "%s%lld", d ? ", " : "", (long long)(rest / below));
            rest %= below;
        }
        if (!dtype_is_float((enum dtype)found->dtype)) text_add(&out, "]: expected %.0f, found %.0f", y, x);
        else if (exact) text_add(&out, "]: expected %.17g (%a), found %.17g (%a)", y, y, x, x);
        else
            text_add(&out, "]: expected %.9g, found %.9g (bound %.3g)", y, x,
                     bound.within * fmax(1, bound.kind == BOUND_TENSOR ? largest : fabs(y)));
        return out.data;
    }
    return NULL;
}
