/* Calls about shapes and sizes: reshaping, broadcasting, ordering and joining axes, and sizes as values and
 * handles. */
#include "capture/capture.h"

/* ---- reshape, broadcast ---- */

struct dims_args {
    const char *text;
    const hop_dim *dims;
    int rank;
    enum dtype dtype;
};

static uint32_t read_dims(struct emission *e, const struct dims_args *a, dim *dims)
{
    if (!a->dims && !a->rank) {
        struct cursor c = cursor_for(e, a->text, "the sizes");
        uint32_t rank = parse_dims(&c, dims);
        cursor_end(&c);
        return rank;
    }
    if (a->rank < 0 || a->rank > MAX_RANK)
        capture_throw("expected 0 to %d sizes, found %d", MAX_RANK, a->rank);
    if (a->rank && !a->dims) capture_throw("expected %d sizes, found NULL", a->rank);
    for (int i = 0; i < a->rank; i++) dims[i] = resolve_dim(e->s, a->dims[i]);
    return (uint32_t)a->rank;
}

static void rule_reshape(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    struct module *m = e->b->m;
    dim dims[MAX_RANK], others = 1;
    uint32_t rank = read_dims(e, e->args, dims), open = HOP_NONE;
    for (uint32_t i = 0; i < rank; i++) {
        if (!dim_is_const(m, dims[i]) || dim_const_value(m, dims[i]) != -1) {
            others = dim_mul(m, others, dims[i]);
            continue;
        }
        if (open != HOP_NONE) capture_throw("only one size may be -1");
        open = i;
    }
    if (open != HOP_NONE) {
        if (dim_is_const(m, others) && dim_const_value(m, others) == 0)
            capture_throw("-1 cannot be found beside a size of 0");
        dims[open] = dim_floordiv(m, type_elements(m, builder_type(e->b, v)), others);
    }
    e->out[0] = emit_reshape(e->b, v, rank, dims);
}
hop_val hop_reshape_at(hop_place at, hop_val x, const char *dims)
{
    return capture_emit1(at, "reshape", rule_reshape, &(struct dims_args){ .text = dims }, &x, 1);
}
hop_val hop_reshape_dims_at(hop_place at, hop_val x, const hop_dim *dims, int rank)
{
    struct dims_args args = { .dims = dims, .rank = rank };
    return capture_emit1(at, "reshape", rule_reshape, &args, &x, 1);
}

static void rule_broadcast(struct emission *e)
{
    dim dims[MAX_RANK];
    uint32_t rank = read_dims(e, e->args, dims);
    if (e->in[0].weak) {
        e->out[0] = weak_full(e->b, &e->in[0], operands_dtype(e->b, e->in, 1), rank, dims);
        return;
    }
    struct type t = emit_type(e->b, e->in[0].v);
    if (t.rank > rank)
        capture_throw("%s has more dims than the %u asked for",
                      type_text(e->b->m, e->b->symbols.data, builder_type(e->b, e->in[0].v)), rank);
    bool equal = t.rank == rank;
    for (uint32_t i = 0; i < rank && equal; i++) equal = t.dims[i] == dims[i];
    uint32_t at[MAX_RANK], n = 0;
    dim kept[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        uint32_t to = rank - t.rank + i;
        if (t.dims[i] == 1 && dims[to] != 1) continue;
        kept[n] = t.dims[i];
        at[n++] = to;
    }
    val v = n < t.rank ? emit_reshape(e->b, e->in[0].v, n, kept) : e->in[0].v;
    e->out[0] = equal ? v : emit_broadcast(e->b, v, rank, dims, at);
}
hop_val hop_broadcast_at(hop_place at, hop_val x, const char *dims)
{
    return capture_emit1(at, "broadcast", rule_broadcast, &(struct dims_args){ .text = dims }, &x, 1);
}
hop_val hop_broadcast_dims_at(hop_place at, hop_val x, const hop_dim *dims, int rank)
{
    struct dims_args args = { .dims = dims, .rank = rank };
    return capture_emit1(at, "broadcast", rule_broadcast, &args, &x, 1);
}

static void rule_full_dims(struct emission *e)
{
    const struct dims_args *a = e->args;
    dim dims[MAX_RANK];
    enum dtype t = text_dtype(a->text);
    uint32_t rank = a->rank ? read_dims(e, a, dims) : 0;
    if (e->in[0].weak) e->out[0] = weak_full(e->b, &e->in[0], t, rank, dims);
    else e->out[0] = bring_to(e->b, emit_cast(e->b, e->in[0].v, t), rank, dims);
}
hop_val hop_full_dims_at(hop_place at, const char *dtype, const hop_dim *dims, int rank, hop_val value)
{
    struct dims_args args = { .text = dtype, .dims = dims, .rank = rank };
    return capture_emit1(at, "full", rule_full_dims, &args, &value, 1);
}

/* ---- axes ---- */

static void read_order(const char *text, uint32_t rank, uint32_t *order)
{
    uint32_t n = parse_axis_list(text, rank, order);
    if (n != rank) capture_throw("the order \"%s\" names %u of %u axes", text, n, rank);
}

static void rule_permute(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    uint32_t order[MAX_RANK];
    read_order(e->args, emit_type(e->b, v).rank, order);
    e->out[0] = emit_permute(e->b, v, order);
}
hop_val hop_permute_at(hop_place at, hop_val x, const char *order)
{
    return capture_emit1(at, "permute", rule_permute, order ? order : "", &x, 1);
}

static val swap_last(struct builder *b, val v)
{
    uint32_t rank = emit_type(b, v).rank, order[MAX_RANK];
    if (rank < 2)
        capture_throw("expected at least two axes, found %s",
                      type_text(b->m, b->symbols.data, builder_type(b, v)));
    for (uint32_t i = 0; i < rank; i++) order[i] = i;
    order[rank - 1] = rank - 2;
    order[rank - 2] = rank - 1;
    return emit_permute(b, v, order);
}
static void rule_transpose(struct emission *e)
{
    e->out[0] = swap_last(e->b, operand_value(e->b, &e->in[0]));
}
hop_val hop_transpose_at(hop_place at, hop_val x)
{
    return capture_emit1(at, "transpose", rule_transpose, NULL, &x, 1);
}

static void rule_expand(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    uint32_t to = check_axis(*(const int *)e->args, emit_type(e->b, v).rank + 1u);
    struct attr a = A_INTS(&to, 1);
    e->out[0] = emit(e->b, OP_expand_dims, &v, 1, &a);
}
hop_val hop_expand_at(hop_place at, hop_val x, int axis)
{
    return capture_emit1(at, "expand", rule_expand, &axis, &x, 1);
}

static void rule_squeeze(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    uint32_t rank = emit_type(e->b, v).rank, list[MAX_RANK], n = 0;
    uint32_t mask = e->args ? parse_axes(e->args, rank, false) : 0;
    for (uint32_t i = 0; i < rank; i++)
        if (mask >> i & 1) list[n++] = i;
    struct attr a = e->args ? A_INTS(list, n) : A_NONE;
    e->out[0] = emit(e->b, OP_squeeze, &v, 1, &a);
}
hop_val hop_squeeze_at(hop_place at, hop_val x, const char *axes)
{
    return capture_emit1(at, "squeeze", rule_squeeze, axes, &x, 1);
}

/* ---- views of assignable arrays ---- */

val emit_shape_view(struct scope *s, struct builder *b, val v, enum view_kind kind, const char *text,
                    int axis)
{
    static const emit_rule rules[] = {
        [VIEW_RESHAPE] = rule_reshape, [VIEW_PERMUTE] = rule_permute, [VIEW_TRANSPOSE] = rule_transpose,
        [VIEW_EXPAND] = rule_expand,   [VIEW_SQUEEZE] = rule_squeeze, [VIEW_BROADCAST] = rule_broadcast
    };
    struct operand in = { .v = v };
    val out = VAL_NONE;
    struct dims_args dims = { .text = text };
    const void *args = text;
    if (kind == VIEW_RESHAPE || kind == VIEW_BROADCAST) args = &dims;
    if (kind == VIEW_EXPAND) args = &axis;
    struct emission e = {
        .c = s->capture, .s = s, .b = b, .n = 1, .in = &in, .args = args, .out = &out, .n_out = 1
    };
    rules[kind](&e);
    return out;
}

val emit_shape_unview(struct builder *b, val v, enum view_kind kind, const char *text, val part)
{
    struct type t = emit_type(b, v);
    uint32_t order[MAX_RANK], back[MAX_RANK];
    switch (kind) {
    case VIEW_TRANSPOSE: return swap_last(b, part);
    case VIEW_PERMUTE:
        read_order(text, t.rank, order);
        for (uint32_t i = 0; i < t.rank; i++) back[order[i]] = i;
        return emit_permute(b, part, back);
    case VIEW_BROADCAST:
        if (builder_type(b, v) == builder_type(b, part)) return part;
        capture_throw("the view is a broadcast of %s: several of its elements are one element of the array, "
                      "so that it can be read but not assigned to",
                      type_text(b->m, b->symbols.data, builder_type(b, v)));
    default: return emit_reshape(b, part, t.rank, t.dims); /* each element once, in order */
    }
}

static void rule_reverse(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    uint32_t list[MAX_RANK], n = 0, rank = emit_type(e->b, v).rank, mask = parse_axes(e->args, rank, true);
    for (uint32_t i = 0; i < rank; i++)
        if (mask >> i & 1) list[n++] = i;
    struct attr a = A_INTS(list, n);
    e->out[0] = n ? emit(e->b, OP_reverse, &v, 1, &a) : v;
}
hop_val hop_reverse_at(hop_place at, hop_val x, const char *axes)
{
    return capture_emit1(at, "reverse", rule_reverse, axes, &x, 1);
}

struct join_args {
    int axis;
    bool stack;
};
static void rule_join(struct emission *e)
{
    const struct join_args *a = e->args;
    if (!e->n) capture_throw("expected at least one part");
    val *parts = ARENA_NEW(&e->b->arena, val, e->n);
    enum dtype t = operands_dtype(e->b, e->in, e->n);
    if (a->stack) promote_all(e->b, e->in, e->n, t, parts);
    for (uint32_t i = 0; !a->stack && i < e->n; i++) parts[i] = operand_as(e->b, &e->in[i], t);
    struct attr dim = A_INT(check_axis(a->axis, emit_type(e->b, parts[0]).rank + a->stack));
    e->out[0] = emit(e->b, a->stack ? OP_stack : OP_concat, parts, e->n, &dim);
}
hop_val hop_concat_at(hop_place at, const hop_val *parts, int n, int axis)
{
    struct join_args args = { axis, false };
    return capture_emit1(at, "concat", rule_join, &args, parts, n > 0 ? (uint32_t)n : 0);
}
hop_val hop_stack_at(hop_place at, const hop_val *parts, int n, int axis)
{
    struct join_args args = { axis, true };
    return capture_emit1(at, "stack", rule_join, &args, parts, n > 0 ? (uint32_t)n : 0);
}

static void rule_pad(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    struct type t = emit_type(e->b, v);
    struct cursor c = cursor_for(e, e->args, "the sizes");
    dim low[MAX_RANK], high[MAX_RANK];
    uint32_t interior[MAX_RANK];
    bool gaps = false;
    c.what = "the pads";
    for (uint32_t i = 0; i < t.rank; i++) {
        int64_t between = 0;
        if (i) cursor_expect(&c, ",");
        low[i] = parse_dim(&c);
        cursor_expect(&c, ":");
        high[i] = parse_dim(&c);
        if (cursor_accept(&c, ":") && (!cursor_integer(&c, &between) || between < 0 || between > INT32_MAX))
            cursor_error(&c, "a number of elements");
        interior[i] = (uint32_t)between;
        gaps |= between != 0;
    }
    cursor_end(&c);
    struct attr a[3] = { A_DIMS(low, t.rank), A_DIMS(high, t.rank),
                         gaps ? A_INTS(interior, t.rank) : A_NONE };
    e->out[0] = emit(e->b, OP_pad, (val[]){ v, operand_as(e->b, &e->in[1], (enum dtype)t.dtype) }, 2, a);
}
hop_val hop_pad_at(hop_place at, hop_val x, const char *pads, hop_val value)
{
    return capture_emit1(at, "pad", rule_pad, pads, (hop_val[]){ x, value }, 2);
}

/* ---- sizes ---- */

static void rule_size(struct emission *e)
{
    val v = operand_value(e->b, &e->in[0]);
    struct type t = emit_type(e->b, v);
    e->out[0] = emit_dim_value(e->b, t.dims[check_axis(*(const int *)e->args, t.rank)]);
}
hop_val hop_size_at(hop_place at, hop_val v, int axis)
{
    return capture_emit1(at, "size", rule_size, &axis, &v, 1);
}

static void rule_dim_value(struct emission *e)
{
    e->out[0] = emit_dim_value(e->b, resolve_dim(e->s, *(const hop_dim *)e->args));
}
hop_val hop_dim_value_at(hop_place at, hop_dim d)
{
    return capture_emit1(at, "dim_value", rule_dim_value, &d, NULL, 0);
}

static void rule_bind_dim(struct emission *e)
{
    const int64_t *range = e->args;
    struct attr a[2] = {
        range[0] > 0 ? A_INT(range[0]) : A_NONE,
        range[1] >= 0 ? A_INT(range[1]) : A_NONE,
    };
    val n = operand_as(e->b, &e->in[0], DT_I64);
    e->out[0] = emit(e->b, OP_bind_dim, &n, 1, a);
}
hop_val hop_bind_dim_at(hop_place at, hop_val n, int64_t lo, int64_t hi)
{
    return capture_emit1(at, "bind_dim", rule_bind_dim, (const int64_t[]){ lo, hi }, &n, 1);
}

/* Calls that give sizes: no nodes, so they work on the innermost scope as it is. */
struct dim_args {
    hop_val v;
    int axis;
    const char *text;
    hop_dim x, y, out;
    char *shown;
    size_t room;
    int order;
    dim (*combine)(struct module *m, dim x, dim y);
};

static void get_dim(struct capture *c, void *args)
{
    struct dim_args *a = args;
    if (c->eager) {
        struct tensor *t = eager_tensor(c->innermost, a->v);
        a->out = hop_dim_const(t ? t->dims[check_axis(a->axis, t->rank)] : check_axis(a->axis, 0));
        return;
    }
    struct operand o = resolve(c->innermost, a->v);
    struct type t = o.weak ? (struct type){ .rank = 0 } : emit_type(&c->innermost->b, o.v);
    a->out = dim_handle(c->innermost, t.dims[check_axis(a->axis, t.rank)]);
}
hop_dim hop_dim_of_at(hop_place at, hop_val v, int axis)
{
    struct dim_args a = { .v = v, .axis = axis };
    return capture_edge(at, "dim_of", get_dim, &a) ? (hop_dim){ 0, 0 } : a.out;
}

static void read_dim(struct capture *c, void *args)
{
    struct dim_args *a = args;
    struct cursor k = cursor_over(a->text, "the size", c->innermost, c->m);
    dim d = parse_dim(&k);
    cursor_end(&k);
    a->out = dim_handle(c->innermost, d);
}
hop_dim hop_dim_text_at(hop_place at, const char *text)
{
    struct dim_args a = { .text = text };
    return capture_edge(at, "dim_text", read_dim, &a) ? (hop_dim){ 0, 0 } : a.out;
}

static void combine_dims(struct capture *c, void *args)
{
    struct dim_args *a = args;
    a->out = dim_handle(c->innermost,
                        a->combine(c->m, resolve_dim(c->innermost, a->x), resolve_dim(c->innermost, a->y)));
}
#define DEFINE(name) \
    hop_dim hop_dim_##name##_at(hop_place at, hop_dim x, hop_dim y) \
    { \
        struct dim_args a = { .x = x, .y = y, .combine = dim_##name }; \
        return capture_edge(at, "dim_" #name, combine_dims, &a) ? (hop_dim){ 0, 0 } : a.out; \
    }
HOP_DIM_OPERATORS(DEFINE)
#undef DEFINE

static void let_dim(struct capture *c, void *args)
{
    const struct dim_args *a = args;
    struct cursor k = cursor_over(a->text, "the name", NULL, NULL);
    const char *word;
    size_t length;
    if (!cursor_word(&k, &word, &length)) cursor_error(&k, "a name");
    cursor_end(&k);
    resolve_dim(c->innermost, a->x);
    vec_push(&c->arena, &c->names, (struct named_dim){ arena_string(&c->arena, word, length), a->x });
}
int hop_let_at(hop_place at, const char *name, hop_dim d)
{
    struct dim_args a = { .text = name, .x = d };
    return capture_edge(at, "let", let_dim, &a);
}

int64_t hop_dim_known(hop_dim d) { return d.scope == HANDLE_NUMBER_DIM ? (int64_t)d.id : -1; }

/* The scope of a size, of this capture or one around it; NULL: there is none. */
static const struct scope *dim_scope(const struct capture *c, hop_dim d)
{
    for (; c && !c->eager; c = c->outer)
        for (const struct scope *s = c->innermost; s; s = s->outer)
            if (s->serial == d.scope) return s;
    return NULL;
}

/* How a symbol came about where it was made: bodies and captures inside have it from those around. */
static enum symbol_origin symbol_origin(const struct scope *s, uint32_t k)
{
    for (const struct scope *around; k < s->binds.len && s->binds.data[k] != HOP_NONE; s = around) {
        around = scope_around(s);
        if (!around || !dim_is_symbol(around->capture->m, s->binds.data[k], &k)) break;
    }
    return (enum symbol_origin)s->b.symbols.data[k].origin;
}

static void show_dim(struct capture *c, void *args)
{
    struct dim_args *a = args;
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    const struct scope *owner = dim_scope(c, a->x);
    if (!owner) return;
    hop_cleanup_push(arena_free, &arena);
    uint32_t n = owner->b.symbols.len;
    struct symbol *symbols = ARENA_NEW(&arena, struct symbol, n ? n : 1);
    for (uint32_t k = 0; k < n; k++) {
        symbols[k] = owner->b.symbols.data[k];
        symbols[k].origin = (uint8_t)symbol_origin(owner, k);
    }
    dim_print(owner->capture->m, symbols, checked_dim(owner, a->x), &out);
    bool fits = strlen(out.data) < a->room;
    snprintf(a->shown, a->room, "%s%s", fits ? "" : "?", out.data); /* what is cut off is no expression */
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}
const char *hop_dim_shown(hop_dim d)
{
    static _Thread_local char text[2048];
    struct dim_args a = { .x = d, .shown = text, .room = sizeof text };
    text[0] = 0;
    if (d.scope == HANDLE_NUMBER_DIM) snprintf(text, sizeof text, "%lld", (long long)d.id);
    else if (capture_current() && !capture_current()->eager)
        capture_edge(capture_current()->at, "dim_shown", show_dim, &a);
    return text;
}

static void order_dims(struct capture *c, void *args)
{
    struct dim_args *a = args;
    dim x = resolve_dim(c->innermost, a->x), y = resolve_dim(c->innermost, a->y);
    const struct symbol *symbols = c->innermost->b.symbols.data;
    if (x == y) {
        a->order = HOP_DIM_EQUAL;
        return;
    }
    bool not_more = dim_provably_le(c->m, symbols, x, y), not_less = dim_provably_le(c->m, symbols, y, x);
    bool less = not_more && dim_provably_le(c->m, symbols, dim_add(c->m, x, 1), y);
    bool more = not_less && dim_provably_le(c->m, symbols, dim_add(c->m, y, 1), x);
    if (!not_less) a->order |= HOP_DIM_LESS;
    if (!less && !more) a->order |= HOP_DIM_EQUAL;
    if (!not_more) a->order |= HOP_DIM_MORE;
}
int hop_dim_order_at(hop_place at, hop_dim a, hop_dim b)
{
    struct dim_args args = { .x = a, .y = b };
    if (a.scope == HANDLE_NUMBER_DIM && b.scope == HANDLE_NUMBER_DIM) {
        int64_t x = (int64_t)a.id, y = (int64_t)b.id;
        if (x == y) return HOP_DIM_EQUAL;
        return x < y ? HOP_DIM_LESS : HOP_DIM_MORE;
    }
    return capture_edge(at, "dim_order", order_dims, &args) ? 0 : args.order;
}
