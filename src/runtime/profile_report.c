/* Profiles as texts: a table for people, JSON for programs, a flame graph as SVG, folded stacks for other
 * tools. What a profile has seen comes in; parts of one name and one place, under the same parent, are one
 * row of what goes out. Seconds are shares of the time that the runs took by the clock. */
#include "ir/text.h"
#include "runtime/profile.h"

#include <math.h>

/* A row: contexts that people take for one. */
struct row {
    const struct mark *mark;
    uint32_t parent, child, last, sibling; /* rows, HOP_NONE */
    uint32_t depth;
    uint64_t samples;
    double self, seconds; /* without and with what is inside */
    double entered, trips, bytes, operations;
};
struct report {
    struct arena *arena;
    const struct profile *p;
    vec(struct row) rows; /* parents first */
    uint32_t *row_of;     /* per context */
    double scale;
    double total; /* seconds of the first row */
};

static const char *const kinds[] = {
    [MARK_FUNCTION] = "function", [MARK_REGION] = "region",     [MARK_CALL] = "call",
    [MARK_LOOP] = "loop",         [MARK_BRANCH] = "branch",     [MARK_NEST] = "nest",
    [MARK_PRODUCT] = "product",   [MARK_OPERATOR] = "operator",
};

/* ---- rows ---- */

static bool same_row(const struct mark *a, const struct mark *b)
{
    return a->kind == b->kind && !strcmp(a->label, b->label) && !strcmp(a->place, b->place);
}

static uint32_t row_in(struct report *r, uint32_t parent, const struct mark *mark)
{
    uint32_t first = parent == HOP_NONE ? HOP_NONE : r->rows.data[parent].child;
    for (uint32_t k = first; k != HOP_NONE; k = r->rows.data[k].sibling)
        if (same_row(r->rows.data[k].mark, mark)) return k;
    struct row row = { .mark = mark,
                       .parent = parent,
                       .child = HOP_NONE,
                       .last = HOP_NONE,
                       .sibling = HOP_NONE,
                       .depth = parent == HOP_NONE ? 0 : r->rows.data[parent].depth + 1 };
    uint32_t k = r->rows.len;
    vec_push(r->arena, &r->rows, row);
    if (parent == HOP_NONE) return k;
    struct row *around = &r->rows.data[parent];
    if (around->last == HOP_NONE) around->child = k;
    else r->rows.data[around->last].sibling = k;
    around->last = k;
    return k;
}

/* Marks of procedures are counted for all calls together: each context has its part by the time. */
static void add_part(struct row *row, const struct profile *p, uint32_t mark, double part)
{
    row->entered += part * (double)p->counters[2 * mark];
    row->trips += part * (double)p->counters[2 * mark + 1];
    row->bytes += part * p->bytes[mark];
    row->operations += part * p->operations[mark];
}

/* Parts of the program that were entered have a row, seen or not, in the order of the program. */
static void add_entered(struct report *r)
{
    const struct profile *p = r->p;
    const struct mark_table *t = p->table;
    uint32_t *row_of_mark = ARENA_NEW(r->arena, uint32_t, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct mark *m = &t->marks[i];
        row_of_mark[i] = HOP_NONE;
        if (i && (m->level || !m->kept || !p->counters[2 * i])) continue;
        uint32_t parent = i ? row_of_mark[m->parent] : HOP_NONE;
        if (i && parent == HOP_NONE) continue;
        uint32_t k = row_of_mark[i] = row_in(r, parent, m);
        add_part(&r->rows.data[k], p, i, 1);
    }
}

static void make_rows(struct report *r)
{
    const struct profile *p = r->p;
    double seen = 0, *of_mark = ARENA_ZNEW(r->arena, double, p->table->n);
    double *inside = ARENA_ZNEW(r->arena, double, p->n_contexts);
    add_entered(r);
    r->row_of = ARENA_NEW(r->arena, uint32_t, p->n_contexts);
    for (uint32_t c = p->n_contexts; c-- > 0;) {
        inside[c] += p->contexts[c].seconds;
        if (c) inside[p->contexts[c].parent] += inside[c];
        of_mark[p->contexts[c].mark] += inside[c];
        seen += p->contexts[c].seconds;
    }
    r->scale = p->sampling && seen > 0 && p->run_seconds > 0 ? p->run_seconds / seen : 1;
    for (uint32_t c = 0; c < p->n_contexts; c++) {
        const struct context *context = &p->contexts[c];
        const struct mark *m = &p->table->marks[context->mark];
        uint32_t k = r->row_of[c] = c ? row_in(r, r->row_of[context->parent], m) : 0;
        r->rows.data[k].samples += context->samples;
        r->rows.data[k].self += context->seconds * r->scale;
        double all = of_mark[context->mark];
        if (m->level && all > 0) add_part(&r->rows.data[k], p, context->mark, inside[c] / all);
    }
    for (uint32_t k = r->rows.len; k-- > 0;) {
        struct row *row = &r->rows.data[k];
        row->seconds += row->self;
        if (row->parent != HOP_NONE) r->rows.data[row->parent].seconds += row->seconds;
    }
    r->total = r->rows.data[0].seconds;
}

/* ---- numbers ---- */

static const char *seconds_text(struct arena *a, double s)
{
    static const struct {
        double unit;
        const char *name;
    } units[] = { { 1, "s" }, { 1e-3, "ms" }, { 1e-6, "µs" }, { 1e-9, "ns" } };
    uint32_t k = 0;
    while (k + 1 < HOP_COUNT(units) && s < units[k].unit) k++;
    return arena_printf(a, "%.3g %s", s / units[k].unit, units[k].name);
}

static const char *rate_text(struct arena *a, const struct row *row)
{
    if (row->seconds <= 0) return "";
    if (row->operations > 0) return arena_printf(a, "%.3g GFLOP/s", row->operations / row->seconds * 1e-9);
    if (row->bytes > 0) return arena_printf(a, "%.3g GB/s", row->bytes / row->seconds * 1e-9);
    return "";
}

static double share(const struct report *r, double seconds) { return r->total > 0 ? seconds / r->total : 0; }

static double runs_of(const struct report *r) { return r->p->n_runs ? (double)r->p->n_runs : 1; }

/* Of one run; 0: nothing was counted. */
static const char *times_text(struct arena *a, double n)
{
    if (n <= 0) return "";
    return n == floor(n) ? arena_printf(a, "%.0f", n) : arena_printf(a, "%.1f", n);
}

/* ---- the table ---- */

static uint32_t columns_of(const char *text)
{
    uint32_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static void right(struct text *out, const char *text, uint32_t width)
{
    uint32_t n = columns_of(text);
    text_add(out, "%*s%s", n < width ? (int)(width - n) : 0, "", text);
}

static void row_text(struct text *out, const struct report *r, const struct row *row)
{
    struct arena *a = out->arena;
    double runs = runs_of(r);
    right(out, arena_printf(a, "%.1f %%", 100 * share(r, row->seconds)), 8);
    right(out, seconds_text(a, row->seconds / runs), 10);
    right(out, seconds_text(a, row->self / runs), 10);
    right(out, times_text(a, row->entered / runs), 9);
    right(out, times_text(a, row->trips / runs), 9);
    right(out, rate_text(a, row), 14);
    text_add(out, "  %*s%s", (int)(2 * row->depth), "", row->mark->label);
    if (*row->mark->place) text_add(out, "  (%s)", row->mark->place);
    text_str(out, "\n");
}

/* The largest part first. */
static void rows_text(struct text *out, const struct report *r, uint32_t k)
{
    static const double LEAST_SHARE = 0.001;
    const struct row *rows = r->rows.data;
    row_text(out, r, &rows[k]);
    double before = INFINITY;
    uint32_t last = HOP_NONE;
    for (;;) {
        uint32_t next = HOP_NONE;
        for (uint32_t c = rows[k].child; c != HOP_NONE; c = rows[c].sibling) {
            bool behind = rows[c].seconds < before ||
                          (rows[c].seconds == before && last != HOP_NONE && c > last);
            if (behind && (next == HOP_NONE || rows[c].seconds > rows[next].seconds)) next = c;
        }
        if (next == HOP_NONE || share(r, rows[next].seconds) < LEAST_SHARE) return;
        rows_text(out, r, next);
        before = rows[next].seconds;
        last = next;
    }
}

static void table_text(struct text *out, const struct report *r)
{
    const struct profile *p = r->p;
    struct arena *a = out->arena;
    text_add(out, "%s: %llu run%s", r->rows.data[0].mark->label, (unsigned long long)p->n_runs,
             p->n_runs == 1 ? "" : "s");
    if (p->n_failed) text_add(out, ", %llu of them failed", (unsigned long long)p->n_failed);
    text_add(out, ", %s each, %llu samples\n", seconds_text(a, p->run_seconds / runs_of(r)),
             (unsigned long long)p->n_samples);
    text_str(out, "   share      time      self  entered    trips          rate  what\n");
    rows_text(out, r, 0);
}

/* ---- JSON ---- */

static void json_row(struct text *out, const struct report *r, uint32_t k)
{
    const struct row *row = &r->rows.data[k];
    const struct mark *m = row->mark;
    text_add(out, "{\"kind\": \"%s\", \"label\": ", kinds[m->kind]);
    json_string(out, m->label);
    text_str(out, ", \"place\": ");
    json_string(out, m->place);
    text_str(out, ", \"lines\": [");
    for (uint32_t i = 0; i < m->n_lines; i++) {
        if (i) text_str(out, ", ");
        json_string(out, m->lines[i]);
    }
    text_str(out, "], \"stack\": ");
    json_string(out, m->stack);
    text_add(out, ", \"samples\": %llu, \"seconds\": %.9g, \"self\": %.9g, \"share\": %.6g",
             (unsigned long long)row->samples, row->seconds, row->self, share(r, row->seconds));
    text_add(out, ", \"entered\": %.17g, \"trips\": %.17g, \"bytes\": %.17g, \"operations\": %.17g",
             row->entered, row->trips, row->bytes, row->operations);
    text_str(out, ", \"inside\": [");
    for (uint32_t c = row->child; c != HOP_NONE; c = r->rows.data[c].sibling) {
        if (c != row->child) text_str(out, ", ");
        json_row(out, r, c);
    }
    text_str(out, "]}");
}

static void profile_json(struct text *out, const struct report *r)
{
    const struct profile *p = r->p;
    text_str(out, "{\"function\": ");
    json_string(out, r->rows.data[0].mark->label);
    text_add(out, ", \"runs\": %llu, \"failed\": %llu, \"samples\": %llu, \"lost\": %llu, \"seconds\": %.9g",
             (unsigned long long)p->n_runs, (unsigned long long)p->n_failed, (unsigned long long)p->n_samples,
             (unsigned long long)p->n_lost, p->run_seconds);
    text_str(out, ", \"tree\": ");
    json_row(out, r, 0);
    text_str(out, "}\n");
}

/* ---- stacks, a line each: "a;b;c microseconds" ---- */

static void folded_name(struct text *out, const struct mark *m)
{
    for (const char *c = m->label; *c; c++) text_bytes(out, *c == ';' || *c == '\n' ? "," : c, 1);
    if (*m->place) text_add(out, " (%s)", m->place);
}

static void folded_stack(struct text *out, const struct report *r, uint32_t k)
{
    const struct row *row = &r->rows.data[k];
    if (row->parent != HOP_NONE) {
        folded_stack(out, r, row->parent);
        text_str(out, ";");
    }
    folded_name(out, row->mark);
}

static void profile_folded(struct text *out, const struct report *r)
{
    for (uint32_t k = 0; k < r->rows.len; k++) {
        double microseconds = floor(r->rows.data[k].self * 1e6 + 0.5);
        if (microseconds < 1) continue;
        folded_stack(out, r, k);
        text_add(out, " %.0f\n", microseconds);
    }
}

/* ---- the flame graph ---- */

enum { WIDTH = 1200, MARGIN = 10, ROW = 20, HEAD = 58, LETTER = 7 };
static const double LEAST_WIDTH = 0.4; /* of a rectangle that is drawn */

/* Hue, saturation and lightness of each kind; labels vary the lightness. */
static const struct {
    uint16_t hue;
    uint8_t saturation, lightness;
} colours[] = {
    [MARK_FUNCTION] = { 220, 12, 84 }, [MARK_REGION] = { 285, 38, 82 },   [MARK_CALL] = { 180, 34, 78 },
    [MARK_LOOP] = { 48, 78, 74 },      [MARK_BRANCH] = { 90, 34, 76 },    [MARK_NEST] = { 24, 82, 74 },
    [MARK_PRODUCT] = { 208, 66, 76 },  [MARK_OPERATOR] = { 338, 58, 80 },
};

static void svg_escaped(struct text *out, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '<') text_str(out, "&lt;");
        else if (c == '>') text_str(out, "&gt;");
        else if (c == '&') text_str(out, "&amp;");
        else if (c == '"') text_str(out, "&quot;");
        else if (c >= ' ' || c == '\n') text_bytes(out, s, 1);
    }
}

/* As many characters as there is room for. */
static void svg_clipped(struct text *out, const char *s, uint32_t room)
{
    uint32_t n = columns_of(s);
    struct text cut = { .arena = out->arena };
    if (n <= room) {
        svg_escaped(out, s);
        return;
    }
    for (uint32_t k = 0; *s && (k + 1 < room || ((unsigned char)*s & 0xc0) == 0x80); s++) {
        text_bytes(&cut, s, 1);
        k += ((unsigned char)s[1] & 0xc0) != 0x80;
    }
    svg_escaped(out, cut.data ? cut.data : "");
    text_str(out, "…");
}

static void svg_title(struct text *out, const struct report *r, const struct row *row)
{
    struct arena *a = out->arena;
    const struct mark *m = row->mark;
    double runs = runs_of(r);
    text_add(out, "<title>%s: ", kinds[m->kind]);
    svg_escaped(out, m->label);
    text_add(out, "\n%.1f %%, %s a run (%s itself)", 100 * share(r, row->seconds),
             seconds_text(a, row->seconds / runs), seconds_text(a, row->self / runs));
    const char *entered = times_text(a, row->entered / runs), *trips = times_text(a, row->trips / runs);
    if (*entered) text_add(out, "\nentered %s times a run", entered);
    if (*trips) text_add(out, ", %s trips", trips);
    const char *rate = rate_text(a, row);
    if (*rate) text_add(out, "\n%s", rate);
    for (uint32_t i = 0; i < m->n_lines; i++) {
        text_str(out, "\n");
        svg_escaped(out, m->lines[i]);
    }
    text_str(out, "</title>");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void svg_row(struct text *out, const struct report *r, uint32_t k, double x, double width)
{
    const struct row *row = &r->rows.data[k];
    const struct mark *m = row->mark;
    if (width < LEAST_WIDTH) return;
    uint64_t hash = hash_bytes(m->label, strlen(m->label), 7);
    uint32_t y = HEAD + ROW * row->depth, room = (uint32_t)(HOP_MAX(width - 6, 0) / LETTER);
    uint32_t lightness = colours[m->kind].lightness - (uint32_t)(hash % 9);
    text_str(out, "<g>");
    svg_title(out, r, row);
    text_add(out,
             "<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" rx=\"2\" fill=\"hsl(%u, %u%%, %u%%)\"/>",
             x, y, HOP_MAX(width - 0.5, 0.3), ROW - 1, colours[m->kind].hue, colours[m->kind].saturation,
             lightness);
    if (room >= 3) {
        const char *place = *m->place ? arena_printf(out->arena, "  %s", base_name(m->place)) : "";
        text_add(out, "<text x=\"%.2f\" y=\"%u\">", x + 3, y + 14);
        svg_clipped(out, arena_printf(out->arena, "%s%s", m->label, place), room);
        text_str(out, "</text>");
    }
    text_str(out, "</g>\n");
    for (uint32_t c = row->child; c != HOP_NONE; c = r->rows.data[c].sibling) {
        double part = row->seconds > 0 ? width * r->rows.data[c].seconds / row->seconds : 0;
        svg_row(out, r, c, x, part);
        x += part;
    }
}

static void profile_svg(struct text *out, const struct report *r)
{
    static const uint8_t shown[] = { MARK_NEST,   MARK_PRODUCT, MARK_LOOP,    MARK_CALL,
                                     MARK_REGION, MARK_BRANCH,  MARK_OPERATOR };
    const struct profile *p = r->p;
    uint32_t depth = 0;
    for (uint32_t k = 0; k < r->rows.len; k++)
        if (share(r, r->rows.data[k].seconds) * (WIDTH - 2 * MARGIN) >= LEAST_WIDTH)
            depth = HOP_MAX(depth, r->rows.data[k].depth);
    uint32_t height = HEAD + ROW * (depth + 1) + MARGIN;
    text_add(out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" viewBox=\"0 0 %d %u\" "
             "font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"11.5\">\n"
             "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
             WIDTH, height, WIDTH, height);
    text_add(out, "<text x=\"%d\" y=\"22\" font-size=\"15\" font-weight=\"bold\">", MARGIN);
    svg_escaped(out, r->rows.data[0].mark->label);
    text_add(
        out,
        "</text>\n<text x=\"%d\" y=\"22\" text-anchor=\"end\">%s a run, %llu run%s, %llu samples</text>\n",
        WIDTH - MARGIN, seconds_text(out->arena, p->run_seconds / runs_of(r)), (unsigned long long)p->n_runs,
        p->n_runs == 1 ? "" : "s", (unsigned long long)p->n_samples);
    for (uint32_t i = 0, x = MARGIN; i < HOP_COUNT(shown); i++) {
        text_add(out,
                 "<rect x=\"%u\" y=\"34\" width=\"12\" height=\"12\" rx=\"2\" fill=\"hsl(%u, %u%%, %u%%)\"/>"
                 "<text x=\"%u\" y=\"44\">%s</text>\n",
                 x, colours[shown[i]].hue, colours[shown[i]].saturation, colours[shown[i]].lightness - 4u,
                 x + 17, kinds[shown[i]]);
        x += 17 + LETTER * (uint32_t)strlen(kinds[shown[i]]) + 18;
    }
    svg_row(out, r, 0, MARGIN, WIDTH - 2 * MARGIN);
    text_str(out, "</svg>\n");
}

void profile_text(struct profile *p, const char *form, struct text *out)
{
    static const struct {
        const char *name;
        void (*write)(struct text *out, const struct report *r);
    } forms[] = { { "table", table_text },
                  { "json", profile_json },
                  { "svg", profile_svg },
                  { "folded", profile_folded } };
    for (uint32_t i = 0; i < HOP_COUNT(forms); i++) {
        if (strcmp(form, forms[i].name)) continue;
        struct profile *seen = profile_copy(out->arena, p);
        struct report r = { .arena = out->arena, .p = seen };
        make_rows(&r);
        forms[i].write(out, &r);
        return;
    }
    hop_throw(HOP_INVALID, "profile: expected 'table', 'json', 'svg' or 'folded', found '%.100s'", form);
}
