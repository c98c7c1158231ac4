/* Whether an operator made a NaN or an infinity, and what is said of it. */
#include "ir/finite.h"
#include "ir/number.h"

#include <math.h>

/* ---- as text ---- */

void finite_write(const struct finite *s, struct text *out)
{
    text_add(out, "%u %u %u %d %d %d %s\n%s", s->part, s->lanes, s->trips, s->each, s->infinities, s->masked,
             s->name, s->loops);
}

struct finite finite_read(struct arena *a, const char *text)
{
    struct finite s = { 0 };
    uint32_t words[6] = { 0 };
    for (uint32_t k = 0; k < HOP_COUNT(words); k++) {
        char *end;
        words[k] = (uint32_t)strtoul(text, &end, 10);
        text = *end ? end + 1 : end;
    }
    s.part = words[0];
    s.lanes = words[1];
    s.trips = words[2];
    s.each = words[3];
    s.infinities = words[4];
    s.masked = words[5];
    size_t length = strcspn(text, "\n");
    s.name = arena_string(a, text, length);
    text += length + (text[length] == '\n');
    s.loops = arena_string(a, text, strlen(text));
    return s;
}

/* ---- looking ---- */

enum { HAS_NAN = 1, HAS_INFINITY = 2 };

static double real_at(const struct tensor *t, int64_t i)
{
    return element_real((enum dtype)t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size);
}

static int kind_at(const struct tensor *t, int64_t i)
{
    double x = real_at(t, i);
    return isnan(x) ? HAS_NAN : isinf(x) ? HAS_INFINITY : 0;
}

static int kinds_within(const struct tensor *t, int64_t from, int64_t to)
{
    int kinds = 0;
    for (int64_t i = from; i < to && kinds != (HAS_NAN | HAS_INFINITY); i++) kinds |= kind_at(t, i);
    return kinds;
}

struct looking {
    const struct finite *s;
    const struct tensor *value;
    struct tensor *const *made_of;
    uint32_t n_made_of;
    int64_t lanes; /* how many there are */
};

static int64_t lane_count(const struct finite *s, const struct tensor *value)
{
    int64_t lanes = 1;
    for (uint32_t d = 0; d < s->lanes && d < value->rank; d++) lanes *= value->dims[d];
    return lanes;
}

static bool has_lanes(const struct looking *w, const struct tensor *t)
{
    bool same = t->rank >= w->s->lanes;
    for (uint32_t d = 0; same && d < w->s->lanes; d++) same = t->dims[d] == w->value->dims[d];
    return same;
}

/* What is in all that element i of the value could be made of. */
static int kinds_before(const struct looking *w, int64_t i)
{
    int kinds = 0;
    for (uint32_t k = 0; k < w->n_made_of; k++) {
        const struct tensor *t = w->made_of[k];
        if (!t->count) continue;
        if (w->s->each) {
            kinds |= kind_at(t, i % t->count);
            continue;
        }
        int64_t lane = i / (w->value->count / w->lanes), part = t->count / w->lanes;
        if (has_lanes(w, t)) kinds |= kinds_within(t, lane * part, (lane + 1) * part);
        else kinds |= kinds_within(t, 0, t->count);
    }
    return kinds;
}

static struct looking look_at(const struct finite *s, struct tensor *const *values, uint32_t n)
{
    uint32_t first = s->masked;
    struct looking w = { .s = s, .value = values[first], .made_of = values + first + 1 };
    w.n_made_of = n - first - 1 - s->trips;
    w.lanes = lane_count(s, w.value);
    return w;
}

struct finite_found finite_look(const struct finite *s, struct tensor *const *values, uint32_t n)
{
    struct looking w = look_at(s, values, n);
    const uint8_t *mask = s->masked ? values[0]->data : NULL;
    int64_t part = w.lanes ? w.value->count / w.lanes : 0, known_lane = -1;
    int known = 0;
    for (int64_t i = 0; i < w.value->count; i++) {
        if (mask && !mask[i / part]) continue;
        int kind = kind_at(w.value, i);
        if (!kind || (kind == HAS_INFINITY && !s->infinities)) continue;
        if (s->each || known_lane != i / part) {
            known = kinds_before(&w, i);
            known_lane = i / part;
        }
        if (kind == HAS_NAN && !(known & HAS_NAN)) return (struct finite_found){ MADE_NAN, i };
        if (kind == HAS_INFINITY && !known) return (struct finite_found){ MADE_INFINITY, i };
    }
    return (struct finite_found){ MADE_NOTHING, 0 };
}

/* ---- saying ---- */

void finite_short(const struct finite *s, enum finite_made made, struct text *out)
{
    const char *what = made == MADE_NAN ? "a NaN" : "an infinity";
    if (s->part == FINITE_ARGUMENT) text_add(out, "debug_nans: argument %s has %s", s->name, what);
    else text_add(out, "debug_nans: %s made %s", s->name, what);
}

/* A NaN has a sign on some machines only. */
static void add_element(const struct tensor *t, int64_t i, struct text *out)
{
    if (kind_at(t, i) == HAS_NAN) {
        text_str(out, "nan");
        return;
    }
    text_add(out, "%.7g", real_at(t, i));
}

static void add_index(const int64_t *index, uint32_t n, struct text *out)
{
    for (uint32_t d = 0; d < n; d++) text_add(out, "%s%lld", d ? ", " : "", (long long)index[d]);
}

/* Innermost first, as a stack is read. What trips have dims for are the outermost lanes. */
static void add_trips(const struct finite *s, int64_t lane, int64_t lanes, struct tensor *const *trips,
                      struct text *out)
{
    for (uint32_t k = s->trips; k-- > 0;) {
        const char *line = s->loops;
        for (uint32_t skip = 0; skip < k; skip++) {
            line += strcspn(line, "\n");
            line += *line == '\n';
        }
        long long trip = ((const int64_t *)trips[k]->data)[lane / (lanes / trips[k]->count)];
        text_add(out, "\n  in trip %lld of the %.*s", trip, (int)strcspn(line, "\n"), line);
    }
}

void finite_text(const struct finite *s, struct finite_found found, const char *place, const char *stack,
                 struct tensor *const *values, uint32_t n, struct text *out)
{
    struct looking w = look_at(s, values, n);
    int64_t index[MAX_RANK] = { 0 }, rest = found.at, part = w.value->count / w.lanes;
    for (uint32_t d = w.value->rank; d-- > 0; rest /= w.value->dims[d]) index[d] = rest % w.value->dims[d];
    uint32_t lanes = HOP_MIN(s->lanes, w.value->rank), inner = w.value->rank - lanes;
    text_str(out, place);
    finite_short(s, found.made, out);
    text_str(out, ": ");
    add_element(w.value, found.at, out);
    if (inner) {
        text_str(out, " at [");
        add_index(index + lanes, inner, out);
        text_str(out, "]");
    }
    for (uint32_t k = 0; s->each && k < w.n_made_of; k++) {
        text_str(out, k ? ", " : " of ");
        add_element(w.made_of[k], found.at % w.made_of[k]->count, out);
    }
    if (s->part == FINITE_GRADIENT) text_str(out, "\n  in a gradient");
    if (s->part == FINITE_TANGENT) text_str(out, "\n  in a forward derivative");
    if (lanes) {
        text_str(out, lanes > 1 ? "\n  in lane (" : "\n  in lane ");
        add_index(index, lanes, out);
        text_str(out, lanes > 1 ? ")" : "");
    }
    add_trips(s, found.at / part, w.lanes, values + n - s->trips, out);
    text_str(out, stack);
}
