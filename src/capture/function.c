/* Whole functions: the text of the parameters and a body come in; a function of a module of its own goes out,
 * whose header says which parameters it updates. Also the edges of eager mode, and questions about values. */
#include "capture/capture.h"
#include "ir/mesh.h"
#include "interp/interp.h"

/* ---- parameters ---- */

struct parameter {
    uint32_t name;
    type_id type;
    bool mut;
};
struct header {
    vec(struct parameter) params;
    vec(uint32_t) given; /* symbols declared with `dim`: arguments of their own */
    uint32_t name;
};
struct update {
    uint32_t param;
    val value;
};

static dim declare_symbol(struct cursor *c, const char *name, size_t length)
{
    struct builder *b = &c->s->b;
    return dim_symbol(c->m, builder_symbol(b, module_string(c->m, name, length), 0, INT64_MAX));
}

/* [T in 1..4096, dim N] */
static void read_symbols(struct cursor *c, struct header *h)
{
    if (!cursor_accept(c, "[")) return;
    for (bool first = true; !cursor_accept(c, "]"); first = false) {
        const char *name;
        size_t length;
        int64_t lo = 0, hi = INT64_MAX;
        if (!first) cursor_expect(c, ",");
        bool given = cursor_accept(c, "dim ");
        if (!cursor_word(c, &name, &length)) cursor_error(c, "the name of a size");
        if (scope_symbol(c->s, name, length) != HOP_NONE)
            capture_throw("%s \"%s\": the size '%.*s' is declared twice", c->what, c->text, (int)length,
                          name);
        if (cursor_accept(c, "in")) {
            if (!cursor_integer(c, &lo) || lo < 0) cursor_error(c, "the smallest value");
            cursor_expect(c, "..");
            if (cursor_integer(c, &hi) && hi < lo) cursor_error(c, "a largest value not below the smallest");
        }
        uint32_t symbol = builder_symbol(&c->s->b, module_string(c->m, name, length), lo, hi);
        if (given) vec_push(&c->s->capture->arena, &h->given, symbol);
    }
}

static bool has_name(const struct header *h, uint32_t name)
{
    for (uint32_t i = 0; i < h->params.len; i++)
        if (h->params.data[i].name == name) return true;
    return false;
}

/* "mut f32[T, 3]" */
static void read_param_type(struct cursor *c, struct parameter *p)
{
    dim dims[MAX_RANK];
    uint32_t rank;
    p->mut = cursor_accept(c, "mut");
    const char *kind;
    size_t length;
    if (parse_object(c, &kind, &length)) {
        if (p->mut) capture_throw("an object is not `mut`: operators that take it change it in its place");
        p->type = type_object(c->m, kind, length);
        return;
    }
    enum dtype t = parse_type(c, &rank, dims);
    p->type = type_varying(c->m, type_intern(c->m, t, rank, dims), parse_varying(c));
    p->type = parse_layout(c, p->type);
}

static void read_param(struct cursor *c, struct header *h)
{
    const char *name;
    size_t length;
    struct parameter p = { 0 };
    if (!cursor_word(c, &name, &length)) cursor_error(c, "a parameter, name: type");
    p.name = module_string(c->m, name, length);
    if (has_name(h, p.name))
        capture_throw("%s \"%s\": the name '%.*s' stands twice", c->what, c->text, (int)length, name);
    cursor_expect(c, ":");
    read_param_type(c, &p);
    vec_push(&c->s->capture->arena, &h->params, p);
}

/* "name[T in 1..9](x: f32[T], …)", or the parameters alone. */
static void read_header(struct scope *s, const char *text, struct header *h)
{
    struct cursor c = cursor_over(text, "the parameters", s, s->capture->m);
    c.declare = declare_symbol;
    const char *word = "f";
    size_t length = 1;
    bool parentheses = false;
    if (cursor_word(&c, &word, &length) && (*c.p == '(' || *c.p == '[')) {
        read_symbols(&c, h);
        cursor_expect(&c, "(");
        parentheses = true;
    } else {
        c.p = c.text;
        word = "f";
        length = 1;
        cursor_space(&c);
        if (*c.p == '[') read_symbols(&c, h);
        parentheses = cursor_accept(&c, "(");
    }
    h->name = module_string(c.m, word, length);
    cursor_space(&c);
    for (bool first = true; *c.p && *c.p != ')'; first = false) {
        if (!first) cursor_expect(&c, ",");
        read_param(&c, h);
    }
    if (parentheses) cursor_expect(&c, ")");
    cursor_end(&c);
}

/* "name[T in 1..9]", the name and the sizes that a list of parameters declares. */
static void read_front(struct scope *s, const char *text, struct header *h)
{
    struct cursor c = cursor_over(text, "the name of the function", s, s->capture->m);
    const char *word;
    size_t length;
    if (!cursor_word(&c, &word, &length)) {
        word = "f";
        length = 1;
    }
    h->name = module_string(c.m, word, length);
    read_symbols(&c, h);
    cursor_end(&c);
}

/* The type of a value, without those of its axes that the parameter leaves out, with the one that it adds. */
static type_id like_type(struct scope *s, const hop_param *p)
{
    struct module *m = s->capture->m;
    struct type t = type_get(m, resolve_type(s, p->like));
    uint32_t left_out = p->without ? parse_axes(p->without, t.rank, false) : 0, rank = 0;
    dim dims[MAX_RANK + 1];
    if (p->over) {
        struct cursor c = cursor_over(p->over, "the axis", s, m);
        c.declare = declare_symbol;
        dims[rank++] = parse_dim(&c);
        cursor_end(&c);
    }
    for (uint32_t d = 0; d < t.rank; d++)
        if (!(left_out >> d & 1)) dims[rank++] = t.dims[d];
    if (rank > MAX_RANK) capture_throw("an array has at most %d axes", MAX_RANK);
    if (t.kind && (rank || left_out)) capture_throw("there are no arrays of objects");
    if (t.kind) return resolve_type(s, p->like);
    for (uint32_t d = t.rank; t.layout && d-- > 0;)
        if (left_out >> d & 1 && !layout_drop_dim(m, t.layout, d, &t.layout))
            capture_throw(
                "axis %u of the array is cut over the mesh: batch over another one, or inside of the "
                "function of parts",
                d);
    if (t.layout && p->over) t.layout = layout_insert_dim(m, t.layout, 0);
    type_id made = type_varying(m, type_intern(m, (enum dtype)t.dtype, rank, dims), t.varying);
    return type_laid_out(m, made, t.layout);
}

static void read_list(struct scope *s, const struct capture_header *list, struct header *h)
{
    struct module *m = s->capture->m;
    read_front(s, list->text, h);
    if (list->n_params && !list->params) capture_throw("expected %d parameters, found NULL", list->n_params);
    for (int i = 0; i < list->n_params; i++) {
        const hop_param *given = &list->params[i];
        const char *name = given->name ? given->name : "";
        struct parameter p = { .name = module_string(m, name, strlen(name)) };
        if (*name && has_name(h, p.name)) capture_throw("two parameters have the name '%s'", name);
        if (given->type) {
            struct cursor c = cursor_over(given->type, "the type", s, m);
            c.declare = declare_symbol;
            read_param_type(&c, &p);
            cursor_end(&c);
        } else {
            p.type = like_type(s, given);
        }
        if (given->varying) {
            axis_set more = module_axis(m, module_string(m, given->varying, strlen(given->varying)));
            p.type = type_varying(m, p.type, type_get(m, p.type).varying | more);
        }
        vec_push(&s->capture->arena, &h->params, p);
    }
}

/* A size that stands only inside expressions cannot be found from the arguments. */
static void check_bound(struct scope *s, const struct header *h, const char *text)
{
    struct module *m = s->capture->m;
    for (uint32_t k = 0; k < s->b.symbols.len; k++) {
        bool bound = k < s->binds.len && s->binds.data[k] != HOP_NONE; /* a size of the capture around */
        uint32_t symbol;
        for (uint32_t i = 0; i < h->given.len; i++) bound |= h->given.data[i] == k;
        for (uint32_t p = 0; p < h->params.len; p++) {
            struct type t = type_get(m, h->params.data[p].type);
            for (uint32_t d = 0; d < t.rank; d++)
                bound |= dim_is_symbol(m, t.dims[d], &symbol) && symbol == k;
        }
        if (!bound)
            capture_throw("the parameters \"%s\": no parameter has the size '%s' by itself, so that a run "
                          "could find it; declare it: [dim %s](…)",
                          text, module_text(m, s->b.symbols.data[k].name),
                          module_text(m, s->b.symbols.data[k].name));
    }
}

/* ---- capture ---- */

static struct update *find_updates(struct scope *s, const struct header *h, const hop_val *in, uint32_t *n)
{
    struct capture *c = s->capture;
    struct update *list = ARENA_NEW(&c->arena, struct update, h->params.len);
    *n = 0;
    for (uint32_t p = 0; p < h->params.len; p++) {
        if (!h->params.data[p].mut) continue;
        const struct variable_binding *b = find_binding(s, (uint32_t)(in[p].id & ~VARIABLE_BIT));
        if (b->written) list[(*n)++] = (struct update){ p, b->value };
    }
    return list;
}

void capture_keep_around(const struct scope *s, struct captured *out)
{
    const struct scope *around = scope_around(s);
    struct module *m = s->capture->m;
    out->n_around = HOP_MIN(module_fn(m, out->fn)->n_outer_symbols, s->binds.len);
    hop_dim *dims = ARENA_ZNEW(&m->arena, hop_dim, out->n_around);
    for (uint32_t k = 0; k < out->n_around; k++)
        if (s->binds.data[k] != HOP_NONE) dims[k] = (hop_dim){ around->serial, s->binds.data[k] };
    out->around = dims;
}

static void capture_body(struct capture *c, const struct capture_header *header, int n_results, hop_body body,
                         void *env, struct captured *out)
{
    struct scope *s = scope_open(c, SCOPE_ROOT, "the function");
    struct header h = { .params = { 0 } };
    hop_place at = c->at;
    if (n_results < 0 && !results_open(n_results))
        capture_throw("the number of results is negative: %d", n_results);
    if (!body) capture_throw("the body is NULL");
    if (header->n_params < 0) read_header(s, header->text, &h);
    else read_list(s, header, &h);
    check_bound(s, &h, header->text ? header->text : "");
    hop_val *in = ARENA_NEW(&c->arena, hop_val, h.params.len);
    hop_val *results = ARENA_ZNEW(&c->arena, hop_val, results_room(n_results));
    for (uint32_t p = 0; p < h.params.len; p++)
        in[p] = value_handle(s, builder_param(&s->b, h.params.data[p].type, h.params.data[p].name));
    for (uint32_t p = 0; p < h.params.len; p++)
        if (h.params.data[p].mut) {
            in[p] = variable_new(s, p, module_text(c->m, h.params.data[p].name));
            c->updates = true;
        }
    hop_val *given = arena_copy(&c->arena, in, h.params.len * sizeof *in); /* the body may change its array */
    s->b.name = h.name;
    int status = body(env, given, results);
    c->at = at;
    c->name = "capture";
    if (c->status) hop_throw((hop_status)c->status, "%s", c->message);
    if (status)
        hop_throw((hop_status)status, "%s:%d: capture: the function returned %d", at.file ? at.file : "",
                  at.line, status);
    if (c->innermost != s) hop_throw(HOP_INTERNAL, "the function left a scope open");
    modes_close(s, "the function");
    n_results = (int)results_set(s, n_results, &results);
    h.params.len = s->b.n_params; /* none are left of those of a capture that was cut */
    uint32_t n_updates, n_params = h.params.len + s->late.len;
    const struct update *updates = find_updates(s, &h, in, &n_updates);
    val *ends = ARENA_NEW(&c->arena, val, (uint32_t)n_results + n_updates);
    val *order = ARENA_NEW(&c->arena, val, n_params);
    s->b.place = capture_place(c, at);
    for (int i = 0; i < n_results; i++) {
        if (results[i].scope == HANDLE_NONE) capture_throw("result %d was not set", i);
        struct operand o = resolve(s, results[i]);
        ends[i] = operand_value(&s->b, &o);
    }
    s->b.n_params = n_params; /* those that came late are parameters, too, none of them mut */
    for (uint32_t p = 0; p < h.params.len; p++) {
        order[p] = p;
        if (h.params.data[p].mut) builder_mut(&s->b, p, NEW_UNCHANGED);
    }
    s->b.n_params = h.params.len;
    for (uint32_t k = 0; k < s->late.len; k++)
        order[h.params.len + k] = s->late.data[k].here; /* hop_parameter */
    for (uint32_t k = 0; k < n_updates; k++) {
        type_id type = builder_type(&s->b, updates[k].param);
        struct type t = type_get(c->m, type);
        bool same = builder_type(&s->b, updates[k].value) ==
                    type; /* else sizes that are required to be equal are written another way */
        ends[n_results + k] = same ? updates[k].value : emit_reshape(&s->b, updates[k].value, t.rank, t.dims);
        builder_mut(&s->b, updates[k].param, (uint32_t)n_results + k);
    }
    out->fn = scope_finish(s, order, n_params, ends, (uint32_t)n_results + n_updates);
    capture_keep_around(s, out);
    out->remarks = arena_string(&c->m->arena, c->remarks.data ? c->remarks.data : "", c->remarks.len);
    scope_close(c);
}

void capture_function(hop_place at, const struct capture_header *header, int n_results, hop_body body,
                      void *env, struct captured *out)
{
    struct capture c = { .at = at, .name = "capture" };
    capture_enter(&c, false);
    hop_cleanup_push(capture_leave_cleanup, &c);
    capture_body(&c, header, n_results, body, env, out);
    hop_cleanup_pop(&c);
    out->m = c.m;
    c.m = NULL;
    capture_leave(&c);
}

/* ---- parameters that a body asks for ---- */

static void add_parameter(struct capture *c, void *args)
{
    void **a = args;
    if (c->eager) capture_throw("eager mode has no parameters");
    uint32_t rank = 0;
    dim dims[MAX_RANK];
    const char *kind;
    size_t length;
    struct cursor text = cursor_over(a[0], "the type", NULL, c->m);
    type_id t;
    if (parse_object(&text, &kind, &length)) {
        t = type_object(c->m, kind, length);
    } else {
        enum dtype dtype = parse_type(&text, &rank, dims);
        t = parse_layout(&text, type_intern(c->m, dtype, rank, dims));
    }
    cursor_end(&text);
    *(hop_val *)a[1] = value_handle(scope_root(c), scope_parameter(scope_root(c), t));
}
hop_val hop_parameter_at(hop_place at, const char *type)
{
    hop_val v = { 0, 0 };
    capture_edge(at, "parameter", add_parameter, (void *[]){ (void *)type, &v });
    return v;
}

struct like_args {
    hop_val like, made;
};
static void add_parameter_like(struct capture *c, void *args)
{
    struct like_args *a = args;
    if (c->eager) capture_throw("eager mode has no parameters");
    struct scope *root = scope_root(c);
    a->made = value_handle(root, scope_parameter(root, resolve_type(root, a->like)));
}
hop_val hop_parameter_like_at(hop_place at, hop_val like)
{
    struct like_args a = { .like = like };
    return capture_edge(at, "parameter", add_parameter_like, &a) ? (hop_val){ 0, 0 } : a.made;
}

hop_val hop_parameter_around_at(hop_place at, int levels, const hop_param *p)
{
    struct capture *inside = capture_current(), *c = inside;
    for (int i = 0; i < levels && c; i++) c = c->outer;
    capture_switch(c);
    hop_val v = p && p->type ? hop_parameter_at(at, p->type)
                             : hop_parameter_like_at(at, p ? p->like : (hop_val){ 0, 0 });
    capture_switch(inside);
    return v;
}

/* ---- as many results as there are ---- */

struct give_args {
    const hop_val *values;
    int n;
};
static void give(struct capture *c, void *args)
{
    const struct give_args *a = args;
    if (c->eager) capture_throw("eager mode needs to know the number of results");
    if (a->n < 0 || (a->n && !a->values)) capture_throw("expected %d values, found NULL", a->n);
    struct scope *s = c->innermost;
    s->given = a->n ? arena_copy(&c->arena, a->values, (size_t)a->n * sizeof *a->values) : NULL;
    s->n_given = (uint32_t)a->n;
}
int hop_give_at(hop_place at, const hop_val *values, int n)
{
    return capture_edge(at, "give", give, &(struct give_args){ values, n });
}

const hop_val *hop_given(int *n)
{
    const struct capture *c = capture_current();
    if (n) *n = c && c->given ? (int)c->n_given : 0;
    return c ? c->given : NULL;
}

/* ---- eager mode ---- */

hop_status hop_eager_begin_at(hop_place at)
{
    struct hop_catch k;
    struct capture *volatile c = NULL;
    if (HOP_TRY(k)) {
        c = hop_calloc(1, sizeof *c);
        hop_cleanup_push(hop_free, c);
        c->at = at;
        c->name = "eager";
        capture_enter(c, true);
        hop_cleanup_push(capture_leave_cleanup, c);
        scope_open(c, SCOPE_EAGER, "eager mode");
        hop_cleanup_pop(c);
        hop_cleanup_pop(c);
        hop_catch_end(&k);
        return HOP_OK;
    }
    return hop_caught();
}

int hop_eager_end(void)
{
    struct capture *c = capture_current();
    if (!c || !c->eager) {
        hop_set_message("hop_eager_end without hop_eager_begin");
        return HOP_INVALID;
    }
    int status = c->status;
    if (status) hop_set_message("%s", c->message);
    capture_leave(c);
    hop_free(c);
    return status;
}

static void get_tensor(struct capture *c, void *args)
{
    void **a = args;
    if (!c->eager)
        capture_throw("a value has no tensor while it is captured; run the function, or use eager mode");
    *(struct tensor **)a[1] = eager_materialise(c, *(const hop_val *)a[0]);
}
hop_tensor *hop_value_tensor_at(hop_place at, hop_val v)
{
    struct tensor *t = NULL;
    capture_edge(at, "value_tensor", get_tensor, (void *[]){ &v, &t });
    return (hop_tensor *)t;
}

void hop_eager_print(void (*print)(void *ctx, const char *line, size_t length), void *ctx)
{
    struct capture *c = capture_current();
    if (!c || !c->eager) return;
    c->print = print;
    c->print_ctx = ctx;
}

/* A function with these parameters and no nodes binds the sizes and checks the tensors, as a run would. */
void eager_header(struct capture *c, const char *params, hop_tensor *const *in, int n_in, bool *mut)
{
    struct scope *outer = c->innermost, s = { .capture = c, .kind = SCOPE_ROOT };
    struct header h = { .params = { 0 } };
    builder_begin(&s.b, c->m, NULL);
    c->eager = false; /* names are looked for in the builder */
    struct hop_catch k;
    if (HOP_TRY(k)) {
        read_header(&s, params, &h);
        hop_catch_end(&k);
    } else {
        c->eager = true;
        hop_rethrow(hop_caught());
    }
    c->eager = true;
    if ((int)h.params.len != n_in)
        capture_throw("the text names %u parameters, given %d tensors", h.params.len, n_in);
    check_bound(&s, &h, params);
    for (uint32_t p = 0; p < h.params.len; p++) {
        builder_param(&s.b, h.params.data[p].type, h.params.data[p].name);
        mut[p] = h.params.data[p].mut;
    }
    const struct fn *f = module_fn(c->m, builder_finish(&s.b, NULL, 0));
    struct shape_view *views = ARENA_NEW(&c->arena, struct shape_view, f->n_params);
    int64_t *sizes = ARENA_ZNEW(&c->arena, int64_t, f->n_outer_symbols);
    for (uint32_t p = 0; p < f->n_params; p++) {
        const struct tensor *t = (const struct tensor *)in[p];
        views[p] = shape_of(t);
    }
    bind_symbols(c->m, f, views, NULL, sizes);
    for (uint32_t i = 0; i < f->n_outer_symbols; i++) {
        const char *name = module_text(c->m, f->symbols[i].name);
        vec_push(&c->arena, &c->names,
                 (struct named_dim){ arena_string(&c->arena, name, strlen(name)), hop_dim_const(sizes[i]) });
    }
    c->innermost = outer;
}

/* ---- questions ---- */

struct question {
    hop_val v;
    int rank;
    char *text;
    size_t room;
};

static const char *weak_type_text(hop_val v)
{
    if (v.scope == HANDLE_REAL) return "f32[]";
    return v.scope == HANDLE_INT ? "i64[]" : "bool[]";
}

static void ask(struct capture *c, void *args)
{
    struct question *q = args;
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    hop_cleanup_push(arena_free, &arena);
    if (is_weak(q->v)) {
        q->rank = 0;
        text_str(&out, weak_type_text(q->v));
    } else if (c->eager) {
        const struct tensor *t = eager_tensor(c->innermost, q->v);
        q->rank = t->rank;
        text_add(&out, "%s[", dtype_info[t->dtype].name);
        for (uint32_t i = 0; i < t->rank; i++) text_add(&out, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
        text_str(&out, "]");
    } else {
        struct operand o = resolve(c->innermost, q->v);
        q->rank = emit_type(&c->innermost->b, o.v).rank;
        type_id t = builder_type(&c->innermost->b, o.v);
        uint16_t layout = type_get(c->m, t).layout;
        type_print(c->m, c->innermost->b.symbols.data, type_laid_out(c->m, t, 0), &out);
        if (layout) layout_text(c->m, layout, &out);
    }
    if (q->text) snprintf(q->text, q->room, "%s", out.data);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

int hop_rank(hop_val v)
{
    struct question q = { .v = v, .rank = -1 };
    if (v.scope == HANDLE_NONE || !capture_current()) return is_weak(v) ? 0 : -1;
    return capture_edge(capture_current()->at, "rank", ask, &q) ? -1 : q.rank;
}

const char *hop_type_text(hop_val v)
{
    static _Thread_local char text[4096];
    struct question q = { v, -1, text, sizeof text };
    text[0] = 0;
    if (v.scope != HANDLE_NONE && capture_current())
        capture_edge(capture_current()->at, "type_text", ask, &q);
    return text;
}
