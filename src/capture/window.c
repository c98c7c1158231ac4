/* Calls about windows and about what lies between elements: reduce_window and the pools, resize, grid_sample,
 * map_coordinates. A rule reads the texts of a specification and emits the row. */
#include "capture/capture.h"

static val float_operand(struct emission *e, uint32_t i)
{
    val v = operand_value(e->b, &e->in[i]);
    return dtype_is_float((enum dtype)emit_type(e->b, v).dtype) ? v : emit_cast(e->b, v, DT_F32);
}

/* The word's number in a list that NULL ends. */
static uint32_t word_of(const char *text, const char *const *words, const char *what)
{
    char list[256] = "";
    for (uint32_t k = 0; words[k]; k++) {
        size_t used = strlen(list);
        if (text && !strcmp(text, words[k])) return k;
        snprintf(list + used, sizeof list - used, "%s%s", k ? ", " : "", words[k]);
    }
    capture_throw("%s: expected one of %s, found \"%s\"", what, list, text ? text : "");
}

static int64_t small_integer(struct cursor *c)
{
    int64_t n = 0;
    if (!cursor_integer(c, &n) || n < INT32_MIN || n > INT32_MAX) cursor_error(c, "an integer");
    return n;
}

/* A list of integers, absent where there is no text. */
static struct attr integers(struct emission *e, const char *text, const char *what, uint32_t *list)
{
    uint32_t n = 0;
    if (!text) return A_NONE;
    struct cursor c = cursor_for(e, text, what);
    for (cursor_space(&c); *c.p;) {
        if (n) cursor_expect(&c, ",");
        int64_t entry = small_integer(&c);
        if (n == MAX_RANK) cursor_error(&c, "fewer entries");
        list[n++] = (uint32_t)(int32_t)entry;
        cursor_space(&c);
    }
    return A_INTS(list, n);
}

/* ---- windows ---- */

struct window_args {
    const hop_window_spec *spec;
    const char *by;
    int without_padding;
};

/* "low:high" for every axis. */
static void read_padding(struct emission *e, const char *text, uint32_t lists[2][MAX_RANK],
                         struct attr *attrs)
{
    uint32_t n = 0;
    attrs[WINDOW_LOW] = attrs[WINDOW_HIGH] = A_NONE;
    if (!text) return;
    struct cursor c = cursor_for(e, text, "the padding");
    for (cursor_space(&c); *c.p;) {
        if (n) cursor_expect(&c, ",");
        if (n == MAX_RANK) cursor_error(&c, "fewer entries");
        lists[0][n] = (uint32_t)(int32_t)small_integer(&c);
        cursor_expect(&c, ":");
        lists[1][n++] = (uint32_t)(int32_t)small_integer(&c);
        cursor_space(&c);
    }
    attrs[WINDOW_LOW] = A_INTS(lists[0], n);
    attrs[WINDOW_HIGH] = A_INTS(lists[1], n);
}

static void emit_window(struct emission *e, enum op op, val x, const hop_window_spec *spec, struct attr last)
{
    uint32_t lists[WINDOW_EXTREME_ATTRS][MAX_RANK], padding[2][MAX_RANK];
    struct attr a[WINDOW_EXTREME_ATTRS + 1];
    a[WINDOW_SIZES] = integers(e, spec->window ? spec->window : "", "the window", lists[WINDOW_SIZES]);
    a[WINDOW_STRIDES] = integers(e, spec->strides, "the strides", lists[WINDOW_STRIDES]);
    a[WINDOW_DILATION] = integers(e, spec->dilation, "the dilation", lists[WINDOW_DILATION]);
    read_padding(e, spec->padding, padding, a);
    a[WINDOW_EXTREME_ATTRS] = last;
    e->out[0] = emit(e->b, op, &x, 1, a);
}

static void rule_reduce_window(struct emission *e)
{
    static const char *const words[] = { "sum", "prod", "max", "min", NULL };
    const struct window_args *a = e->args;
    val x = operand_value(e->b, &e->in[0]);
    emit_window(e, OP_reduce_window, x, a->spec, A_WORD(word_of(a->by, words, "the reduction")));
}
hop_val hop_reduce_window_at(hop_place at, hop_val x, const char *by, const hop_window_spec *spec)
{
    static const hop_window_spec none;
    struct window_args args = { .spec = spec ? spec : &none, .by = by };
    return capture_emit1(at, "reduce_window", rule_reduce_window, &args, &x, 1);
}

static void rule_avg_pool(struct emission *e)
{
    const struct window_args *a = e->args;
    emit_window(e, OP_avg_pool, float_operand(e, 0), a->spec, A_FLAG(a->without_padding));
}
hop_val hop_avg_pool_at(hop_place at, hop_val x, const hop_window_spec *spec, int without_padding)
{
    static const hop_window_spec none;
    struct window_args args = { .spec = spec ? spec : &none, .without_padding = without_padding };
    return capture_emit1(at, "avg_pool", rule_avg_pool, &args, &x, 1);
}

/* ---- sizes along some axes ---- */

struct sizes_args {
    const char *axes, *sizes, *word;
    bool align, antialias;
};

static void read_sizes(struct emission *e, const struct sizes_args *a, val x, uint32_t *axes, dim *sizes,
                       struct attr *out)
{
    uint32_t n = parse_axis_list(a->axes, emit_type(e->b, x).rank, axes);
    struct cursor c = cursor_for(e, a->sizes ? a->sizes : "", "the sizes");
    uint32_t found = parse_dims(&c, sizes);
    cursor_end(&c);
    out[0] = A_INTS(axes, n);
    out[1] = A_DIMS(sizes, found);
}

static void rule_adaptive_pool(struct emission *e)
{
    static const char *const words[] = { "mean", "max", NULL };
    const struct sizes_args *a = e->args;
    uint32_t by = word_of(a->word, words, "the reduction"), axes[MAX_RANK];
    val x = by == ADAPTIVE_MEAN ? float_operand(e, 0) : operand_value(e->b, &e->in[0]);
    dim sizes[MAX_RANK];
    struct attr attrs[ADAPTIVE_ATTRS];
    read_sizes(e, a, x, axes, sizes, attrs);
    attrs[ADAPTIVE_BY] = A_WORD(by);
    e->out[0] = emit(e->b, OP_adaptive_pool, &x, 1, attrs);
}
hop_val hop_adaptive_pool_at(hop_place at, hop_val x, const char *by, const char *axes, const char *sizes)
{
    struct sizes_args args = { .axes = axes, .sizes = sizes, .word = by };
    return capture_emit1(at, "adaptive_pool", rule_adaptive_pool, &args, &x, 1);
}

static const char *const methods[] = { "nearest", "linear", "cubic", NULL };

static void rule_resize(struct emission *e)
{
    const struct sizes_args *a = e->args;
    uint32_t method = word_of(a->word ? a->word : "linear", methods, "the method"), axes[MAX_RANK];
    val x = method == BY_NEAREST ? operand_value(e->b, &e->in[0]) : float_operand(e, 0);
    dim sizes[MAX_RANK];
    struct attr attrs[RESIZE_ATTRS];
    read_sizes(e, a, x, axes, sizes, attrs);
    attrs[RESIZE_METHOD] = A_WORD(method);
    attrs[RESIZE_ALIGN] = A_FLAG(a->align);
    attrs[RESIZE_ANTIALIAS] = A_FLAG(a->antialias);
    e->out[0] = emit(e->b, OP_resize, &x, 1, attrs);
}
hop_val hop_resize_at(hop_place at, hop_val x, const hop_resize_spec *spec)
{
    static const hop_resize_spec none;
    if (!spec) spec = &none;
    struct sizes_args args = { .axes = spec->axes,
                               .sizes = spec->sizes,
                               .word = spec->method,
                               .align = spec->align_corners,
                               .antialias = spec->antialias };
    return capture_emit1(at, "resize", rule_resize, &args, &x, 1);
}

/* ---- positions ---- */

static void emit_sampled(struct emission *e, enum op op)
{
    static const char *const paddings[] = { "zeros", "border", "reflection", NULL };
    const hop_sample_spec *spec = e->args;
    uint32_t method = word_of(spec->method ? spec->method : "linear", methods, "the method");
    uint32_t padding = word_of(spec->padding ? spec->padding : "zeros", paddings, "the padding");
    struct attr attrs[SAMPLE_ATTRS] = { A_WORD(method), A_WORD(padding), A_FLAG(spec->align_corners) };
    val *in = ARENA_NEW(&e->b->arena, val, e->n);
    in[0] = method == BY_NEAREST ? operand_value(e->b, &e->in[0]) : float_operand(e, 0);
    for (uint32_t i = 1; i < e->n; i++) in[i] = float_operand(e, i);
    e->out[0] = emit(e->b, op, in, e->n, attrs);
}
static void rule_grid_sample(struct emission *e) { emit_sampled(e, OP_grid_sample); }
static void rule_map_coordinates(struct emission *e) { emit_sampled(e, OP_map_coordinates); }

hop_val hop_grid_sample_at(hop_place at, hop_val x, hop_val grid, const hop_sample_spec *spec)
{
    static const hop_sample_spec none;
    return capture_emit1(at, "grid_sample", rule_grid_sample, spec ? spec : &none, (hop_val[]){ x, grid }, 2);
}

hop_val hop_map_coordinates_at(hop_place at, hop_val x, const hop_val *positions, int n,
                               const hop_sample_spec *spec)
{
    static const hop_sample_spec none;
    hop_val in[MAX_RANK + 1] = { x };
    int most = n < 0 ? 0 : n > MAX_RANK ? MAX_RANK : n;
    for (int i = 0; positions && i < most; i++) in[1 + i] = positions[i];
    return capture_emit1(at, "map_coordinates", rule_map_coordinates, spec ? spec : &none, in,
                         positions ? 1u + (uint32_t)most : 1u);
}
