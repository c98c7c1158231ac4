/* Convolutions: a specification of texts comes in, one node of conv or conv_transpose goes out. */
#include "capture/capture.h"

struct conv_args {
    const hop_conv_spec *spec;
    bool transposed;
};

/* ---- lists, one entry per spatial axis or one for all ---- */

static void repeat_first(uint32_t *list, uint32_t found, uint32_t n)
{
    for (uint32_t i = 1; found == 1 && i < n; i++) list[i] = list[0];
}
static void check_entries(const struct cursor *c, uint32_t found, uint32_t n)
{
    if (found != n && found != 1)
        capture_throw("%s \"%s\": expected one entry, or one for each of %u spatial axes, found %u", c->what,
                      c->text, n, found);
}

static struct attr parse_steps(const struct emission *e, const char *text, const char *what, uint32_t *list,
                               uint32_t n)
{
    if (!text) return A_NONE;
    struct cursor c = cursor_for(e, text, what);
    uint32_t found = 0;
    do {
        int64_t step;
        if (!cursor_integer(&c, &step) || step < 0 || step > INT32_MAX) cursor_error(&c, "a number");
        if (found == MAX_RANK) cursor_error(&c, "fewer entries");
        list[found++] = (uint32_t)step;
    } while (cursor_accept(&c, ","));
    cursor_end(&c);
    check_entries(&c, found, n);
    repeat_first(list, found, n);
    return A_INTS(list, n);
}

/* Into `low` and `high`; true: "same". */
static bool parse_padding(const struct emission *e, const char *text, dim *low, dim *high, uint32_t n)
{
    struct cursor c = cursor_for(e, text, "padding");
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++) low[i] = high[i] = 0;
    if (!text || cursor_accept(&c, "valid")) {
        if (text) cursor_end(&c);
        return false;
    }
    if (!strcmp(text, "same")) return true;
    do {
        if (found == MAX_RANK) cursor_error(&c, "fewer entries");
        low[found] = parse_dim(&c);
        high[found] = cursor_accept(&c, ":") ? parse_dim(&c) : low[found];
        found++;
    } while (cursor_accept(&c, ","));
    cursor_end(&c);
    check_entries(&c, found, n);
    repeat_first(low, found, n);
    repeat_first(high, found, n);
    return false;
}

/* ---- layouts ---- */

/* The place of a letter, which must stand there once. */
static uint32_t letter_at(const char *layout, const char *what, char letter)
{
    const char *found = strchr(layout, letter);
    if (!found || strchr(found + 1, letter))
        capture_throw("%s \"%s\": expected the letter %c once", what, layout, letter);
    return (uint32_t)(found - layout);
}

static void check_length(const char *layout, const char *what, uint32_t rank)
{
    if (strlen(layout) != rank)
        capture_throw("%s \"%s\": expected a letter for each of %u axes", what, layout, rank);
}

/* Which axes of x and w are which, spatial ones in the order in which x has them. */
static void parse_layouts(const hop_conv_spec *spec, bool transposed, uint32_t rank, uint32_t *x, uint32_t *w)
{
    char plain[MAX_RANK + 1] = "NC", kernel[MAX_RANK + 1];
    for (uint32_t i = 2; i < rank; i++) plain[i] = (char)('a' + i);
    const char *layout = spec->layout ? spec->layout : plain, *windows = spec->kernel_layout;
    check_length(layout, "layout", rank);
    x[0] = letter_at(layout, "layout", 'N');
    x[1] = letter_at(layout, "layout", 'C');
    uint32_t n = 2, k = 0;
    bool last = x[1] + 1 == rank;
    if (!last) kernel[k++] = transposed ? 'I' : 'O';
    if (!last) kernel[k++] = transposed ? 'O' : 'I';
    for (uint32_t i = 0; i < rank; i++) {
        if (i == x[0] || i == x[1]) continue;
        letter_at(layout, "layout", layout[i]);
        kernel[k++] = layout[i];
        x[n++] = i;
    }
    if (last) kernel[k++] = 'I';
    if (last) kernel[k++] = 'O';
    kernel[k] = 0;
    if (!windows) windows = kernel;
    check_length(windows, "kernel_layout", rank);
    w[0] = letter_at(windows, "kernel_layout", transposed ? 'I' : 'O');
    w[1] = letter_at(windows, "kernel_layout", transposed ? 'O' : 'I');
    for (uint32_t i = 2; i < rank; i++) w[i] = letter_at(windows, "kernel_layout", layout[x[i]]);
}

/* ---- the call ---- */

static void rule_conv(struct emission *e)
{
    const struct conv_args *args = e->args;
    const hop_conv_spec *spec = args->spec;
    val in[2];
    enum dtype t = product_operands(e, spec->dtype, in);
    uint32_t rank = emit_type(e->b, in[0]).rank;
    if (rank < 3)
        capture_throw("x: expected a batch, channels and at least one spatial axis, found rank %u", rank);
    if (emit_type(e->b, in[1]).rank != rank)
        capture_throw("w: expected %u axes, as x has, found %u", rank, emit_type(e->b, in[1]).rank);
    if (spec->groups < 0) capture_throw("groups: expected at least 1, found %d", spec->groups);
    if (args->transposed ? spec->x_dilation != NULL : spec->output_padding != NULL)
        capture_throw("%s has no meaning here", args->transposed ? "x_dilation" : "output_padding");
    uint32_t n = rank - 2, strides[MAX_RANK], dilation[MAX_RANK], other[MAX_RANK], x[MAX_RANK], w[MAX_RANK];
    dim low[MAX_RANK], high[MAX_RANK];
    const char *other_text = args->transposed ? spec->output_padding : spec->x_dilation;
    const char *other_name = args->transposed ? "output_padding" : "x_dilation";
    struct attr a[USUAL_ATTRS] = { [USUAL_STRIDES] = parse_steps(e, spec->strides, "strides", strides, n),
                                   [USUAL_DILATION] = parse_steps(e, spec->dilation, "dilation", dilation, n),
                                   [USUAL_OTHER] = parse_steps(e, other_text, other_name, other, n),
                                   [USUAL_GROUPS] = spec->groups ? A_INT(spec->groups) : A_NONE,
                                   [USUAL_DTYPE] = emit_result_dtype(e->b, in, 2, t) };
    bool same = parse_padding(e, spec->padding, low, high, n);
    if (same && args->transposed) capture_throw("padding \"same\": expected numbers");
    a[USUAL_SAME] = A_FLAG(same);
    if (!same) a[USUAL_LOW] = A_DIMS(low, n);
    if (!same) a[USUAL_HIGH] = A_DIMS(high, n);
    parse_layouts(spec, args->transposed, rank, x, w);
    a[USUAL_X_DIMS] = A_INTS(x, rank);
    a[USUAL_W_DIMS] = A_INTS(w, rank);
    e->out[0] = emit(e->b, args->transposed ? OP_conv_transpose : OP_conv, in, 2, a);
}

static const hop_conv_spec nothing_said;

hop_val hop_conv_at(hop_place at, hop_val x, hop_val w, const hop_conv_spec *spec)
{
    struct conv_args args = { spec ? spec : &nothing_said, false };
    return capture_emit1(at, "conv", rule_conv, &args, (hop_val[]){ x, w }, 2);
}

hop_val hop_conv_transpose_at(hop_place at, hop_val x, hop_val w, const hop_conv_spec *spec)
{
    struct conv_args args = { spec ? spec : &nothing_said, true };
    return capture_emit1(at, "conv_transpose", rule_conv, &args, (hop_val[]){ x, w }, 2);
}
