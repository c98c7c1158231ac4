/* Assignable arrays. Mutation exists only here: each variable has a current value per scope, assigning makes
 * a new one current, and writing through a view rewrites the array behind it. What a body wrote to variables
 * from outside is found when it ends (control.c) and becomes results or carries. */
#include "capture/capture.h"

const struct variable_binding *find_binding(const struct scope *s, uint32_t variable)
{
    for (uint32_t i = s->bindings.len; i-- > 0;)
        if (s->bindings.data[i].variable == variable) return &s->bindings.data[i];
    return NULL;
}

static void bind(struct scope *s, uint32_t variable, val value, bool written)
{
    vec_push(&s->capture->arena, &s->bindings, (struct variable_binding){ variable, value, written });
}

static hop_val add_variable(struct scope *s, struct variable v)
{
    struct capture *c = s->capture;
    v.at = c->at;
    vec_push(&c->arena, &c->variables, v);
    return (hop_val){ v.scope, VARIABLE_BIT | (c->variables.len - 1) };
}

hop_val variable_new(struct scope *s, val initial, const char *name)
{
    hop_val v = add_variable(s, (struct variable){ .scope = s->serial, .base = HOP_NONE, .name = name });
    bind(s, s->capture->variables.len - 1, initial, false);
    return v;
}

hop_val eager_variable_new(struct scope *s, struct tensor *initial)
{
    hop_cleanup_push(tensor_free, initial);
    struct variable fresh = { .scope = s->serial, .base = HOP_NONE, .name = "", .now = initial };
    hop_val v = add_variable(s, fresh);
    hop_cleanup_pop(initial);
    return v;
}

/* The copy of an eager array in a capture with a host. */
static uint32_t host_variable(struct capture *c, hop_val v)
{
    for (uint32_t i = 0; i < c->host_variables.len; i++)
        if (c->host_variables.data[i].there.id == v.id) return c->host_variables.data[i].here;
    struct scope *root = scope_root(c);
    struct tensor *t = eager_variable_read(c->host, variable_index(c->host, v));
    hop_cleanup_push(tensor_free, t);
    variable_new(root, host_value(c, t), "");
    hop_cleanup_pop(t);
    tensor_free(t);
    vec_push(&c->arena, &c->host_variables, (struct host_variable){ v, c->variables.len - 1 });
    return c->variables.len - 1;
}

uint32_t variable_index(struct capture *c, hop_val v)
{
    uint64_t i = v.id & ~VARIABLE_BIT;
    if (!is_variable(v))
        capture_throw("expected an assignable array (hop_variable, hop_view or a parameter that is mut), "
                      "found a plain value");
    struct scope *s = c->innermost;
    while (s && s->serial != v.scope) s = s->outer;
    if (!s && c->host && in_scope(c->host->innermost, v.scope)) return host_variable(c, v);
    if (!s || i >= c->variables.len || c->variables.data[i].scope != v.scope)
        capture_throw("an assignable array is used outside of the body that made it");
    return (uint32_t)i;
}

/* ---- views ---- */

static val cut_view(struct scope *s, struct builder *b, const struct variable *v, val base, val index)
{
    switch ((enum view_kind)v->view) {
    case VIEW_SLICE: return emit_slices(s, b, base, v->text);
    case VIEW_INDEX: return emit_index(b, base, index, check_axis(v->axis, emit_type(b, base).rank));
    default: return emit_shape_view(s, b, base, (enum view_kind)v->view, v->text, v->axis);
    }
}

/* The value with the type of what the variable holds. */
static val conform(struct builder *b, val current, val value)
{
    struct type t = emit_type(b, current);
    if (emit_type(b, value).rank > t.rank)
        capture_throw("the array: expected %s or fewer dims, found %s",
                      type_text(b->m, b->symbols.data, builder_type(b, current)),
                      type_text(b->m, b->symbols.data, builder_type(b, value)));
    value = bring_to(b, emit_cast(b, value, (enum dtype)t.dtype), t.rank, t.dims);
    struct type found = emit_type(b, value);
    for (uint32_t i = 0; i < t.rank; i++)
        require_equal(b, t.dims[i], found.dims[i], "a size of the value assigned");
    return value;
}

static val update_view(struct scope *s, struct builder *b, const struct variable *v, val base, val index,
                       val part)
{
    switch ((enum view_kind)v->view) {
    case VIEW_SLICE: return emit_slices_update(s, b, base, v->text, part);
    case VIEW_INDEX:
        return emit_index_update(b, base, index, check_axis(v->axis, emit_type(b, base).rank), part);
    default:
        return emit_shape_unview(b, base, (enum view_kind)v->view, v->text,
                                 conform(b, cut_view(s, b, v, base, index), part));
    }
}

/* ---- where views lie ---- */

static void row_major_strides(struct module *m, struct strided *at)
{
    dim step = 1;
    for (uint32_t d = at->rank; d-- > 0;) {
        at->strides[d] = step;
        step = dim_mul(m, step, at->sizes[d]);
    }
}

static bool is_row_major(struct module *m, const struct strided *at)
{
    struct strided plain = *at;
    row_major_strides(m, &plain);
    for (uint32_t d = 0; d < at->rank; d++)
        if (at->sizes[d] != 1 && at->strides[d] != plain.strides[d]) return false;
    return true;
}

/* The same elements in other dims: those of size 1 come and go, others only where all lies row by row. */
static bool reshape_strided(struct module *m, struct strided *at, struct type to)
{
    struct strided now = { .root = at->root, .offset = at->offset, .rank = to.rank };
    uint32_t from = 0;
    bool same = true;
    for (uint32_t d = 0; d < to.rank; d++) now.sizes[d] = to.dims[d];
    for (uint32_t d = 0; d < to.rank && same; d++) {
        now.strides[d] = 0;
        if (to.dims[d] == 1) continue;
        while (from < at->rank && at->sizes[from] == 1) from++;
        same = from < at->rank && at->sizes[from] == to.dims[d];
        if (same) now.strides[d] = at->strides[from++];
    }
    for (; from < at->rank; from++) same &= at->sizes[from] == 1;
    if (!same) {
        if (!is_row_major(m, at)) return false;
        row_major_strides(m, &now);
    }
    *at = now;
    return true;
}

/* What a node of a view does to it. */
static bool follow_view(struct builder *b, const struct node *n, struct strided *at)
{
    struct module *m = b->m;
    const struct attr *a = b->attrs.data + n->attrs;
    struct type to = type_get(m, builder_type(b, n->results));
    struct strided was = *at;
    switch (n->op) {
    case OP_slice:
        for (uint32_t d = 0; d < at->rank; d++) {
            at->offset = dim_add(m, at->offset, dim_mul(m, a[0].list[d], at->strides[d]));
            if (a[2].kind != ATTR_ABSENT)
                at->strides[d] = dim_mul(m, at->strides[d], dim_const(m, a[2].list[d]));
            at->sizes[d] = to.dims[d];
        }
        return true;
    case OP_permute:
        for (uint32_t d = 0; d < at->rank; d++) {
            at->sizes[d] = was.sizes[a[0].list[d]];
            at->strides[d] = was.strides[a[0].list[d]];
        }
        return true;
    case OP_reshape: return reshape_strided(m, at, to);
    default: return false;
    }
}

/* The nodes that cut the view say where it lies. */
static bool follow_cut(struct scope *s, struct builder *b, const struct variable *v, val *seen,
                       struct strided *at)
{
    uint32_t first = b->nodes.len;
    val before = *seen;
    if (v->view == VIEW_INDEX || v->view == VIEW_BROADCAST) return false;
    *seen = cut_view(s, b, v, *seen, VAL_NONE);
    for (uint32_t i = first; i < b->nodes.len; i++)
        if (!follow_view(b, &b->nodes.data[i], at)) return false;
    at->whole &= *seen == before;
    return true;
}

static bool follow_chain(struct capture *c, struct builder *b, uint32_t variable, val *seen,
                         struct strided *at)
{
    struct variable v = c->variables.data[variable];
    if (v.base != HOP_NONE)
        return follow_chain(c, b, v.base, seen, at) && follow_cut(c->innermost, b, &v, seen, at);
    dim dims[MAX_RANK];
    if (c->eager) {
        for (uint32_t d = 0; d < v.now->rank; d++) dims[d] = dim_const(c->m, v.now->dims[d]);
        *seen = builder_param(b, type_intern(c->m, (enum dtype)v.now->dtype, v.now->rank, dims), 0);
    } else {
        *seen = variable_read(c->innermost, variable);
    }
    struct type t = emit_type(b, *seen);
    *at = (struct strided){ .root = variable, .whole = true, .rank = t.rank };
    if (t.rank) memcpy(at->sizes, t.dims, t.rank * sizeof *t.dims);
    row_major_strides(c->m, at);
    return true;
}

bool variable_strided(struct capture *c, uint32_t variable, struct strided *out)
{
    val seen;
    if (c->eager) {
        struct builder own;
        builder_begin(&own, c->m, NULL);
        bool known = follow_chain(c, &own, variable, &seen, out);
        builder_abandon(&own);
        return known;
    }
    /* In the builder of the scope, whose symbols texts may speak of; taken back unless they brought some. */
    struct builder *b = &c->innermost->b;
    uint32_t root = variable;
    while (c->variables.data[root].base != HOP_NONE) root = c->variables.data[root].base;
    variable_read(c->innermost, root);
    const struct node_hooks *hooks = b->hooks;
    uint32_t nodes = b->nodes.len, values = b->values.len, pool = b->pool.len, attrs = b->attrs.len;
    uint32_t symbols = b->symbols.len, params = b->n_params;
    b->hooks = NULL;
    bool known = follow_chain(c, b, variable, &seen, out);
    b->hooks = hooks;
    if (b->symbols.len == symbols && b->n_params == params) {
        b->nodes.len = nodes;
        b->values.len = values;
        b->pool.len = pool;
        b->attrs.len = attrs;
    }
    return known;
}

/* ---- capturing ---- */

static val view_index(struct scope *s, const struct variable *v)
{
    return v->view == VIEW_INDEX ? resolve(s, v->index).v : VAL_NONE;
}

val variable_read(struct scope *s, uint32_t variable)
{
    struct variable v = s->capture->variables.data[variable];
    if (v.base != HOP_NONE) {
        val base = variable_read(s, v.base);
        return cut_view(s, &s->b, &v, base, view_index(s, &v));
    }
    const struct variable_binding *known = find_binding(s, variable);
    if (known) return known->value;
    val here = variable_entry(s, variable).here;
    bind(s, variable, here, false);
    return here;
}

static _Noreturn void predicate_writes(struct capture *c, const struct variable *v,
                                       const struct scope *predicate)
{
    const char *quote = *v->name ? "'" : "";
    capture_throw("%s (%s) may not assign to arrays from outside of it: %s%s%s made at %s", predicate->what,
                  capture_place_text(&c->arena, predicate->at), quote, *v->name ? v->name : "an array", quote,
                  capture_place_text(&c->arena, v->at));
}

void variable_write(struct scope *s, uint32_t variable, val value)
{
    struct capture *c = s->capture;
    struct variable v = c->variables.data[variable];
    if (v.base != HOP_NONE) {
        val base = variable_read(s, v.base);
        variable_write(s, v.base, update_view(s, &s->b, &v, base, view_index(s, &v), value));
        return;
    }
    for (const struct scope *o = s; o && o->serial != v.scope; o = o->outer)
        if (o->kind == SCOPE_PREDICATE) predicate_writes(c, &v, o);
    bind(s, variable, conform(&s->b, variable_read(s, variable), value), true);
}

void variable_set(struct scope *s, uint32_t variable, val value) { bind(s, variable, value, true); }

/* ---- eager mode ---- */

static void rule_cut(struct emission *e)
{
    e->out[0] = cut_view(e->s, e->b, e->args, e->in[0].v,
                         e->n > 1 ? operand_value(e->b, &e->in[1]) : VAL_NONE);
}
static void rule_update(struct emission *e)
{
    e->out[0] = update_view(e->s, e->b, e->args, e->in[0].v,
                            e->n > 2 ? operand_value(e->b, &e->in[2]) : VAL_NONE,
                            operand_value(e->b, &e->in[1]));
}
static void rule_conform(struct emission *e)
{
    e->out[0] = conform(e->b, e->in[0].v, operand_value(e->b, &e->in[1]));
}

struct tensor *eager_variable_read(struct capture *c, uint32_t variable)
{
    struct variable v = c->variables.data[variable];
    if (v.base == HOP_NONE) return tensor_ref(v.now);
    hop_val in[2] = { eager_value(c->innermost, eager_variable_read(c, v.base)), v.index }, out;
    eager_emit(c, rule_cut, &v, in, v.view == VIEW_INDEX ? 2 : 1, &out, 1);
    return tensor_ref(eager_tensor(c->innermost, out));
}

void eager_variable_write(struct capture *c, uint32_t variable, hop_val value)
{
    struct variable v = c->variables.data[variable];
    hop_val out;
    if (v.base != HOP_NONE) {
        hop_val in[3] = { eager_value(c->innermost, eager_variable_read(c, v.base)), value, v.index };
        eager_emit(c, rule_update, &v, in, v.view == VIEW_INDEX ? 3 : 2, &out, 1);
        eager_variable_write(c, v.base, out);
        return;
    }
    for (const struct scope *o = c->innermost; o && o->serial != v.scope; o = o->outer)
        if (o->kind == SCOPE_PREDICATE) predicate_writes(c, &v, o);
    hop_val in[2] = { eager_value(c->innermost, tensor_ref(v.now)), value };
    eager_emit(c, rule_conform, NULL, in, 2, &out, 1);
    struct tensor *was = c->variables.data[variable].now;
    c->variables.data[variable].now = tensor_ref(eager_tensor(c->innermost, out));
    tensor_free(was);
}

/* ---- calls ---- */

struct variable_args {
    hop_val variable, value, index, out;
    uint8_t view;
    const char *text;
    int axis;
};

static void make_variable(struct capture *c, void *args)
{
    struct variable_args *a = args;
    struct scope *s = c->innermost;
    if (c->eager) {
        a->out = eager_variable_new(s, eager_materialise(c, a->value));
        return;
    }
    struct operand o = resolve(s, a->value);
    a->out = variable_new(s, operand_value(&s->b, &o), "");
}
hop_val hop_variable_at(hop_place at, hop_val initial)
{
    struct variable_args a = { .value = initial };
    return capture_edge(at, "variable", make_variable, &a) ? (hop_val){ 0, 0 } : a.out;
}

static void make_assignable(struct capture *c, void *args)
{
    struct variable_args *a = args;
    struct scope *owner = scope_with(c->innermost, a->value.scope);
    if (!owner || a->value.id >= owner->b.values.len) resolve(c->innermost, a->value); /* says why not */
    if (!owner || owner == owner->capture->innermost) return;
    uint32_t name = owner->b.values.data[a->value.id].name;
    a->out = variable_new(owner, (val)a->value.id, name ? module_text(owner->capture->m, name) : "");
    owner->capture->variables.data[a->out.id & ~VARIABLE_BIT].at = value_place(owner, (val)a->value.id);
}
hop_val hop_assignable_at(hop_place at, hop_val v)
{
    const struct capture *c = capture_current();
    bool plain = v.scope < FIRST_SERIAL || is_variable(v) || !c || c->eager;
    if (plain || (c->innermost && v.scope == c->innermost->serial)) return v;
    struct variable_args a = { .value = v, .out = v };
    return capture_edge(at, "assignable", make_assignable, &a) ? (hop_val){ 0, 0 } : a.out;
}

uint64_t hop_body_number(void)
{
    const struct capture *c = capture_current();
    return c && c->innermost ? c->innermost->number : 0;
}
int hop_body_is_open(uint64_t number)
{
    const struct capture *c = capture_current();
    const struct scope *s = c ? c->innermost : NULL;
    while (s && s->number != number) s = scope_around(s);
    return s != NULL;
}

static void read_newest(struct capture *c, void *args)
{
    HOP_UNUSED(args);
    variable_read(c->innermost, c->variables.len - 1);
}

static void make_view(struct capture *c, void *args)
{
    struct variable_args *a = args;
    uint32_t base = variable_index(c, a->variable);
    struct variable v = { .scope = c->variables.data[base].scope,
                          .base = base,
                          .view = a->view,
                          .axis = a->axis,
                          .index = a->index,
                          .name = c->variables.data[base].name };
    const char *text = a->text ? a->text : "";
    v.text = arena_string(&c->arena, text, strlen(text));
    if (a->view == VIEW_INDEX) {
        if (is_variable(a->index)) a->index = hop_current_at(c->at, a->index); /* the index as it is now */
        v.index = a->index;
        if (!c->eager) {
            struct operand index = resolve(c->innermost, a->index);
            v.index = value_handle(c->innermost, operand_value(&c->innermost->b, &index));
        }
        v.scope = c->innermost->serial; /* a view lives where its index does */
    }
    a->out = add_variable(c->innermost, v);
    /* A view that cannot be is an error where it is made. */
    uint32_t newest = c->variables.len - 1;
    if (c->eager) tensor_free(eager_variable_read(c, newest));
    else capture_try(c, read_newest, NULL);
}

static hop_val view_at(hop_place at, const char *name, struct variable_args a)
{
    return capture_edge(at, name, make_view, &a) ? (hop_val){ 0, 0 } : a.out;
}
hop_val hop_view_at(hop_place at, hop_val variable, const char *slices)
{
    struct variable_args args = { .variable = variable, .view = VIEW_SLICE, .text = slices };
    return view_at(at, "view", args);
}
hop_val hop_view_index_at(hop_place at, hop_val variable, hop_val i, int axis)
{
    struct variable_args args = { .variable = variable, .view = VIEW_INDEX, .index = i, .axis = axis };
    return view_at(at, "view_index", args);
}
hop_val hop_view_reshape_at(hop_place at, hop_val variable, const char *dims)
{
    struct variable_args args = { .variable = variable, .view = VIEW_RESHAPE, .text = dims };
    return view_at(at, "view_reshape", args);
}
hop_val hop_view_permute_at(hop_place at, hop_val variable, const char *order)
{
    struct variable_args args = { .variable = variable, .view = VIEW_PERMUTE, .text = order };
    return view_at(at, "view_permute", args);
}
hop_val hop_view_transpose_at(hop_place at, hop_val variable)
{
    struct variable_args args = { .variable = variable, .view = VIEW_TRANSPOSE };
    return view_at(at, "view_transpose", args);
}
hop_val hop_view_expand_at(hop_place at, hop_val variable, int axis)
{
    struct variable_args args = { .variable = variable, .view = VIEW_EXPAND, .axis = axis };
    return view_at(at, "view_expand", args);
}
hop_val hop_view_squeeze_at(hop_place at, hop_val variable, const char *axes)
{
    struct variable_args args = { .variable = variable, .view = VIEW_SQUEEZE, .text = axes };
    return view_at(at, "view_squeeze", args);
}
hop_val hop_view_broadcast_at(hop_place at, hop_val variable, const char *dims)
{
    struct variable_args args = { .variable = variable, .view = VIEW_BROADCAST, .text = dims };
    return view_at(at, "view_broadcast", args);
}

static void assign(struct capture *c, void *args)
{
    const struct variable_args *a = args;
    uint32_t variable = variable_index(c, a->variable);
    if (c->eager) {
        eager_variable_write(c, variable, a->value);
        return;
    }
    struct scope *s = c->innermost;
    struct operand o = resolve(s, a->value);
    if (o.weak) { /* the number takes the array's dtype */
        enum dtype t = (enum dtype)emit_type(&s->b, variable_read(s, variable)).dtype;
        variable_write(s, variable, weak_full(&s->b, &o, t, 0, NULL));
    } else {
        variable_write(s, variable, o.v);
    }
}
int hop_assign_at(hop_place at, hop_val variable, hop_val value)
{
    struct variable_args a = { .variable = variable, .value = value };
    return capture_edge(at, "assign", assign, &a);
}

static void rule_current(struct emission *e) { e->out[0] = operand_value(e->b, &e->in[0]); }
/* In a capture around. */
static void read_around(struct capture *c, void *args)
{
    struct variable_args *a = args;
    struct capture *of = scope_with(c->innermost, a->variable.scope)->capture;
    a->out = value_handle(of->innermost, variable_read(of->innermost, variable_index(of, a->variable)));
}
hop_val hop_current_at(hop_place at, hop_val variable)
{
    const struct capture *c = capture_current();
    const struct scope *owner = c && is_variable(variable) ? scope_with(c->innermost, variable.scope) : NULL;
    if (!owner || owner->capture == c) return capture_emit1(at, "current", rule_current, NULL, &variable, 1);
    struct variable_args a = { .variable = variable };
    return capture_edge(at, "current", read_around, &a) ? (hop_val){ 0, 0 } : a.out;
}

int hop_assign_where_at(hop_place at, hop_val variable, hop_val mask, hop_val value)
{
    hop_val mixed = hop_select_at(at, mask, value, variable);
    return hop_failed() ? hop_failed() : hop_assign_at(at, variable, mixed);
}

int hop_update_at(hop_place at, hop_val variable, const char *op, const hop_val *rest, int n)
{
    enum { FEW = 8 };
    hop_val few[FEW + 1], *in = few, out = { 0, 0 };
    if (n < 0 || (n && !rest))
        return hop_fail_at(at, "update: expected further operands, found NULL or a negative count");
    if (n > FEW) in = capture_room(at, "update", (uint32_t)n + 1);
    if (!in) return hop_failed();
    in[0] = variable;
    if (n) memcpy(in + 1, rest, (size_t)n * sizeof *in);
    int status = hop_apply_at(at, &out, 1, op, in, n + 1);
    return status ? status : hop_assign_at(at, variable, out);
}

#define DEFINE(name) \
    int hop_##name##_to_at(hop_place at, hop_val variable, hop_val x) \
    { \
        hop_val sum = hop_##name##_at(at, variable, x); \
        return hop_failed() ? hop_failed() : hop_assign_at(at, variable, sum); \
    }
HOP_IN_PLACE_OPERATORS(DEFINE)
#undef DEFINE
