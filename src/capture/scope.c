/* The stack of scopes of a capture. A handle comes in with the serial of the scope that made it; the value it
 * stands for in the innermost scope goes out, lifted through every level between as a parameter of the bodies
 * there. Parameters and symbols that a body gets while it runs stand behind its nodes until scope_finish puts
 * them in front. */
#include "capture/capture.h"

#include <stdatomic.h>

static _Thread_local struct capture *current;
static atomic_uint_fast64_t serials = FIRST_SERIAL;

struct capture *capture_current(void) { return current; }
struct capture *capture_switch(struct capture *c)
{
    struct capture *before = current;
    current = c;
    return before;
}

/* ---- messages ---- */

const char *capture_place_text(struct arena *a, hop_place at)
{
    return at.file ? arena_printf(a, "%s:%d", at.file, at.line) : "an unknown place";
}

void capture_throw(const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const struct capture *c = current;
    if (!c || !c->name) hop_throw(HOP_INVALID, "%s", text);
    if (!c->at.file) hop_throw(HOP_INVALID, "%s: %s", c->name, text);
    hop_throw(HOP_INVALID, "%s:%d: %s: %s", c->at.file, c->at.line, c->name, text);
}

void capture_remark(struct capture *c, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    c->remarks.arena = &c->arena;
    if (c->at.file) text_add(&c->remarks, "%s:%d: ", c->at.file, c->at.line);
    text_add(&c->remarks, "%s: %s\n", c->name, text);
}

/* "the step of scan", step: "the step 'step' of scan". */
static void add_body(char *message, size_t room, const struct scope *s)
{
    const char *of = strstr(s->what, " of ");
    int before = of ? (int)(of - s->what) : (int)strlen(s->what);
    size_t n = strlen(message);
    snprintf(message + n, room - n, "\n  in %.*s '%.60s'%s, %s:%d", before, s->what, s->label, of ? of : "",
             s->at.file ? s->at.file : "", s->at.line);
}

/* The frames in which the call at work stands, unless they are there already. */
static void note_stack(struct capture *c)
{
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    struct hop_catch caught;
    if (!c->at.file || strstr(c->message, "\n  ")) return;
    if (HOP_TRY(caught)) {
        frame_lines(&out, c->at.file, (uint32_t)c->at.line);
        size_t n = strlen(c->message);
        snprintf(c->message + n, sizeof c->message - n, "%s", out.data ? out.data : "");
        hop_catch_end(&caught);
    } else hop_caught(); /* without memory the message is what it is */
    arena_free(&arena);
}

/* A function that is captured while another one is. */
static void add_function(char *message, size_t room, const struct scope *s)
{
    size_t n = strlen(message);
    snprintf(message + n, room - n, "\n  in the function '%.60s', %s:%d",
             module_text(s->capture->m, s->b.name), s->at.file ? s->at.file : "", s->at.line);
}

/* Which bodies with names, and which functions captured inside of others, the error stands in, a line each,
 * the innermost first. */
static void note_bodies(struct capture *c)
{
    enum { MOST_LINES = 8 };
    int lines = 0;
    for (const struct capture *at = c; at; at = at->outer)
        for (const struct scope *s = at->innermost; s && lines < MOST_LINES; s = s->outer) {
            bool captured = !s->outer && at->outer && s->kind != SCOPE_EAGER && s->b.name;
            if (!s->label && !captured) continue;
            if (s->label) add_body(c->message, sizeof c->message, s);
            else add_function(c->message, sizeof c->message, s);
            lines++;
        }
}

void capture_note(struct capture *c, int status)
{
    if (c->status) return;
    const char *message = hop_message();
    size_t n = c->at.file ? strlen(c->at.file) : 0;
    c->status = status;
    bool has_place = n && !strncmp(message, c->at.file, n) && message[n] == ':'; /* else thrown below */
    if (status != HOP_NOMEM && n && c->name && !has_place)
        snprintf(c->message, sizeof c->message, "%s:%d: %s: %s", c->at.file, c->at.line, c->name, message);
    else snprintf(c->message, sizeof c->message, "%s", message);
    if (status == HOP_INVALID) {
        note_stack(c);
        note_bodies(c);
    }
    hop_set_message("%s", c->message);
}

struct place capture_place(struct capture *c, hop_place at)
{
    if (!at.file || at.line <= 0) return (struct place){ 0 };
    if (at.file != c->last_file) {
        c->last_file_id = module_file(c->m, at.file);
        c->last_file = at.file;
    }
    return (struct place){ .line = (uint32_t)at.line, .file = c->last_file_id };
}

int hop_failed(void) { return current ? current->status : HOP_OK; }

int hop_forgive(void)
{
    int status = hop_failed();
    if (current) current->status = HOP_OK;
    return status;
}

int hop_fail_at(hop_place at, const char *message)
{
    hop_set_message("%s:%d: %s", at.file ? at.file : "", at.line,
                    message ? message : "failed without a message");
    return capture_fail(at, HOP_INVALID);
}

int capture_fail(hop_place at, hop_status status)
{
    if (current && !current->status) {
        current->at = at;
        capture_note(current, status);
    }
    return status;
}

/* ---- captures ---- */

void capture_enter(struct capture *c, bool eager)
{
    c->eager = eager;
    c->outer = current;
    c->modes = modes_mark();
    current = c;
    hop_cleanup_push(capture_leave_cleanup, c);
    c->m = module_new();
    hop_cleanup_pop(c);
}

void capture_leave(struct capture *c)
{
    scope_unwind(c, NULL);
    for (uint32_t i = 0; i < c->host_tensors.len; i++) tensor_free(c->host_tensors.data[i]);
    drop_variables(c, 0);
    module_free(c->m);
    arena_free(&c->arena);
    current = c->outer;
    if (!c->eager) modes_restore(c->modes);
}

void capture_leave_cleanup(void *c) { capture_leave(c); }

/* ---- scopes ---- */

uint64_t scope_serial(void) { return atomic_fetch_add(&serials, 1); }

struct scope *scope_open(struct capture *c, enum scope_kind kind, const char *what)
{
    struct scope *s = c->spare;
    if (s) {
        c->spare = s->outer;
        memset(s, 0, sizeof *s);
    } else {
        s = ARENA_ZNEW(&c->arena, struct scope, 1);
    }
    s->depth = c->innermost ? c->innermost->depth + 1 : 1;
    if (s->depth > MAX_SCOPES) capture_throw("bodies are nested more than %d deep", MAX_SCOPES);
    s->capture = c;
    s->serial = s->number = scope_serial();
    s->kind = (uint8_t)kind;
    s->what = what;
    s->at = c->at;
    s->lifted.arena = &c->arena;
    if (kind != SCOPE_EAGER) {
        builder_begin(&s->b, c->m, NULL);
        s->b.written = true;
        s->b.place = capture_place(c, c->at);
        s->b.fn_place = s->b.place;
    }
    modes_open(s);
    s->outer = c->innermost;
    c->innermost = s;
    return s;
}

void scope_label(struct scope *s, const char *label)
{
    if (!label || !*label) return;
    s->label = arena_string(&s->capture->arena, label, strlen(label));
    if (s->kind != SCOPE_EAGER) s->b.label = module_string(s->capture->m, label, strlen(label));
}

static void drop_tensors(struct scope *s)
{
    for (uint32_t i = 0; i < s->n_tensors; i++) tensor_free(s->tensors[i]);
    hop_free(s->tensors);
    s->tensors = NULL;
    s->n_tensors = 0;
    s->cap_tensors = 0;
}

void drop_variables(struct capture *c, uint32_t mark)
{
    while (c->variables.len > mark) tensor_free(c->variables.data[--c->variables.len].now);
}

void scope_close(struct capture *c)
{
    struct scope *s = c->innermost;
    c->innermost = s->outer;
    if (!c->eager) return; /* its values may still be asked for in messages */
    uint32_t n = c->variables.len;
    while (n && c->variables.data[n - 1].scope == s->serial) n--;
    drop_variables(c, n);
    drop_tensors(s);
    s->outer = c->spare;
    c->spare = s;
}

void scope_unwind(struct capture *c, struct scope *mark)
{
    while (c->innermost && c->innermost != mark) scope_close(c);
}

/* ---- symbols ---- */

static uint32_t add_symbol(struct scope *s, uint32_t name, int64_t lo, int64_t hi, dim is)
{
    struct builder *b = &s->b;
    if (b->symbols.len == b->n_outer_symbols) {
        builder_symbol(b, name, lo, hi);
    } else {
        s->late_symbols = true;
        vec_push(&b->arena, &b->symbols, (struct symbol){ name, SYMBOL_DIM, 0, lo, hi, 0 });
    }
    while (s->binds.len + 1 < b->symbols.len) vec_push(&s->capture->arena, &s->binds, HOP_NONE);
    vec_push(&s->capture->arena, &s->binds, is);
    return b->symbols.len - 1;
}

struct scope *scope_around(const struct scope *s)
{
    const struct capture *outer = s->capture->outer;
    if (s->outer) return s->outer;
    return outer && !outer->eager ? outer->innermost : NULL;
}

/* The symbol here that stands for symbol k around, made if need be. */
static uint32_t lift_symbol(struct scope *s, const struct scope *around, uint32_t k)
{
    struct module *m = s->capture->m, *from = around->capture->m;
    dim outer = dim_symbol(from, k);
    for (uint32_t i = 0; i < s->binds.len; i++)
        if (s->binds.data[i] == outer) return i;
    struct symbol of = around->b.symbols.data[k];
    const char *name = module_text(from, of.name);
    uint32_t id = m == from ? of.name : module_string(m, name, strlen(name));
    const char *axis = module_text(from, of.axis);
    k = add_symbol(s, id, HOP_MAX(of.lo, 0), of.hi, outer);
    s->b.symbols.data[k].axis = module_string(m, axis, strlen(axis));
    return k;
}

struct lifting {
    struct scope *s;
    const struct scope *around;
    dim *symbols;
};

static bool lift_mentioned(void *ctx, uint32_t symbol)
{
    struct lifting *l = ctx;
    l->symbols[symbol] = dim_symbol(l->s->capture->m, lift_symbol(l->s, l->around, symbol));
    return false;
}

dim lift_dim(struct scope *s, dim outer)
{
    const struct scope *around = scope_around(s);
    struct module *m = s->capture->m, *from = around->capture->m;
    if (dim_is_const(from, outer)) return dim_const(m, dim_const_value(from, outer));
    struct lifting l = { s, around, ARENA_NEW(&s->b.arena, dim, around->b.symbols.len) };
    dim_mentions(from, outer, lift_mentioned, &l);
    return m == from ? dim_substitute(m, outer, l.symbols) : import_size(m, from, outer, l.symbols);
}

type_id lift_type(struct scope *s, type_id outer)
{
    const struct module *from = scope_around(s)->capture->m;
    struct type t = type_get(from, outer);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) dims[i] = lift_dim(s, t.dims[i]);
    return type_import(s->capture->m, from, t, dims);
}

static dim lift_from(struct scope *s, const struct scope *owner, dim d)
{
    return s == owner ? d : lift_dim(s, lift_from(scope_around(s), owner, d));
}

static type_id lift_type_from(struct scope *s, const struct scope *owner, type_id t)
{
    return s == owner ? t : lift_type(s, lift_type_from(scope_around(s), owner, t));
}

static struct scope *owner_of(struct scope *s, uint64_t serial)
{
    while (s && s->serial != serial) s = s->outer;
    return s;
}

struct scope *scope_with(struct scope *s, uint64_t serial)
{
    while (s && s->serial != serial) s = scope_around(s);
    return s;
}

bool in_scope(struct scope *s, uint64_t serial) { return owner_of(s, serial) != NULL; }

dim scope_symbol(struct scope *s, const char *name, size_t length)
{
    struct capture *c = s->capture;
    for (uint32_t i = c->names.len; i-- > 0;) {
        const char *known = c->names.data[i].name;
        hop_dim d = c->names.data[i].d;
        if (strlen(known) != length || memcmp(known, name, length)) continue;
        if (d.scope == HANDLE_NUMBER_DIM || owner_of(s, d.scope)) return resolve_dim(s, d);
    }
    if (c->eager) return HOP_NONE;
    uint32_t id = module_string(c->m, name, length);
    for (struct scope *o = s; o; o = o->outer)
        for (uint32_t i = o->b.symbols.len; i-- > 0;)
            if (o->b.symbols.data[i].name == id) return lift_from(s, o, dim_symbol(c->m, i));
    return HOP_NONE;
}

hop_dim dim_handle(struct scope *s, dim d)
{
    if (dim_is_const(s->capture->m, d)) return hop_dim_const(dim_const_value(s->capture->m, d));
    return (hop_dim){ s->serial, d };
}

static bool is_unknown_symbol(void *n_symbols, uint32_t symbol) { return symbol >= *(uint32_t *)n_symbols; }

dim checked_dim(const struct scope *owner, hop_dim d)
{
    const struct module *m = owner->capture->m;
    uint32_t n_symbols = owner->b.symbols.len;
    bool known = d.id <= UINT32_MAX;
    if (known && d.id & DIM_TABLE)
        known = (d.id & ~(uint64_t)DIM_TABLE) < m->dims.len &&
                !dim_mentions(m, (dim)d.id, is_unknown_symbol, &n_symbols);
    if (!known) capture_throw("there is no size %llu", (unsigned long long)d.id);
    return (dim)d.id;
}

dim resolve_dim(struct scope *s, hop_dim d)
{
    if (d.scope == HANDLE_NUMBER_DIM) return dim_const(s->capture->m, (int64_t)d.id);
    struct scope *owner = scope_with(s, d.scope);
    if (!owner) capture_throw("a size was used outside of the capture or body in which it was made");
    return lift_from(s, owner, checked_dim(owner, d));
}

/* ---- values ---- */

val scope_param(struct scope *s, type_id outer_type, const char *name)
{
    return builder_param(&s->b, lift_type(s, outer_type),
                         name ? module_string(s->capture->m, name, strlen(name)) : 0);
}

static uint64_t value_hash(val v) { return hash_mix(v, 77); }

static val add_late(struct scope *s, type_id type, uint32_t name, val outer, uint32_t variable)
{
    struct builder *b = &s->b;
    val here = b->values.len;
    vec_push(&b->arena, &b->values, (struct value){ type, NODE_NONE, name });
    b->global |= type_get(b->m, type).layout != 0; /* as of any parameter */
    vec_push(&s->capture->arena, &s->late, (struct late_param){ here, outer, variable });
    return here;
}

val lift_value(struct scope *s, val outer)
{
    uint64_t h = value_hash(outer);
    for (uint32_t it = map_first(&s->lifted, h); it != HOP_NONE; it = map_next(&s->lifted, h, it)) {
        uint32_t i = map_value(
            &s->lifted, it); /* an entry of a call that failed is one beyond the end, or another value */
        if (i < s->late.len && s->late.data[i].outer == outer && s->late.data[i].variable == HOP_NONE)
            return s->late.data[i].here;
    }
    struct value of = s->outer->b.values.data[outer];
    val here = add_late(s, lift_type(s, of.type), of.name, outer, HOP_NONE);
    map_put(&s->lifted, h, s->late.len - 1);
    modes_lifted(s, here, outer);
    return here;
}

static val lift_value_from(struct scope *s, const struct scope *owner, val v)
{
    return s == owner ? v : lift_value(s, lift_value_from(s->outer, owner, v));
}

struct late_param variable_entry(struct scope *s, uint32_t variable)
{
    for (uint32_t i = 0; i < s->late.len; i++)
        if (s->late.data[i].variable == variable) return s->late.data[i];
    val outer = variable_read(s->outer, variable);
    struct value of = s->outer->b.values.data[outer];
    add_late(s, lift_type(s, of.type), of.name, outer, variable);
    return s->late.data[s->late.len - 1];
}

hop_place value_place(const struct scope *s, val v)
{
    uint32_t n = v < s->b.values.len ? s->b.values.data[v].node : NODE_NONE;
    if (n == NODE_NONE) return s->at;
    struct place p = s->b.nodes.data[n].place;
    return p.line ? (hop_place){ s->capture->m->files.data[p.file], (int)p.line } : s->at;
}

/* What is known about a handle whose scope is not on the stack. */
static _Noreturn void out_of_scope(struct capture *c, hop_val v)
{
    for (uint32_t i = 0; i < c->ended.len; i++) {
        const struct ended_scope *e = &c->ended.data[i];
        if (e->serial != v.scope) continue;
        bool known = !(v.id & VARIABLE_BIT) && v.id < e->n_values && e->lines[v.id];
        hop_place made = known ? (hop_place){ c->m->files.data[e->files[v.id]], (int)e->lines[v.id] } : e->at;
        uint64_t variable = v.id & ~VARIABLE_BIT;
        if (is_variable(v) && variable < c->variables.len) made = c->variables.data[variable].at;
        capture_throw("a value made at %s inside %s (%s) is used after that has ended; return it as a result",
                      capture_place_text(&c->arena, made), e->what, capture_place_text(&c->arena, e->at));
    }
    for (struct capture *o = c->outer; o; o = o->outer)
        for (struct scope *s = o->innermost; s; s = s->outer)
            if (s->serial == v.scope) {
                hop_place made = v.id & VARIABLE_BIT || o->eager ? s->at : value_place(s, (val)v.id);
                capture_throw(
                    "a value made at %s belongs to another capture, begun at %s; pass it as an argument",
                    capture_place_text(&c->arena, made), capture_place_text(&c->arena, s->at));
            }
    capture_throw("a value of another capture, of one that has ended, or of another thread was used");
}

struct scope *scope_root(struct capture *c)
{
    struct scope *s = c->innermost;
    while (s->outer) s = s->outer;
    return s;
}

type_id tensor_type(struct module *m, const struct tensor *t)
{
    if (t->kind) return type_object(m, t->kind, strlen(t->kind));
    dim dims[MAX_RANK];
    for (uint32_t d = 0; d < t->rank; d++) dims[d] = dim_const(m, t->dims[d]);
    return type_intern(m, (enum dtype)t->dtype, t->rank, dims);
}

val host_value(struct capture *c, struct tensor *t)
{
    vec_push(&c->arena, &c->host_tensors, NULL);
    c->host_tensors.data[c->host_tensors.len - 1] = tensor_ref(t);
    return scope_parameter(scope_root(c), tensor_type(c->m, t));
}

val scope_parameter(struct scope *s, type_id type) { return add_late(s, type, 0, VAL_NONE, HOP_NONE); }

struct operand resolve(struct scope *s, hop_val v)
{
    struct operand o = { .v = VAL_NONE, .weak = (uint8_t)(is_weak(v) ? v.scope : 0) };
    if (v.scope == HANDLE_REAL) memcpy(&o.real, &v.id, sizeof o.real);
    if (v.scope == HANDLE_INT || v.scope == HANDLE_BOOL) o.integer = (int64_t)v.id;
    if (o.weak) return o;
    if (v.scope < FIRST_SERIAL) capture_throw("an empty handle was used: no call has given it a value");
    struct scope *owner = owner_of(s, v.scope);
    if (!owner && !s->capture->host) out_of_scope(s->capture, v);
    if (is_variable(v)) {
        o.v = variable_read(s, variable_index(s->capture, v));
        return o;
    }
    if (!owner) {
        o.v = lift_value_from(s, scope_root(s->capture),
                              host_value(s->capture, eager_tensor(s->capture->host->innermost, v)));
        return o;
    }
    if (v.id >= owner->b.values.len) capture_throw("a handle that no call has made was used");
    o.v = lift_value_from(s, owner, (val)v.id);
    return o;
}

/* The scope of eager mode around a capture that has made a value; NULL: none has. */
static struct scope *eager_owner(const struct scope *s, uint64_t serial)
{
    const struct capture *c = s->capture;
    while (c && !c->eager) c = c->outer;
    return c ? owner_of(c->innermost, serial) : NULL;
}

type_id resolve_type(struct scope *s, hop_val v)
{
    struct scope *eager = v.scope < FIRST_SERIAL || is_variable(v) ? NULL : eager_owner(s, v.scope);
    if (eager) return tensor_type(s->capture->m, eager_tensor(eager, v));
    struct scope *owner = v.scope < FIRST_SERIAL ? NULL : scope_with(s, v.scope);
    if (!owner || is_variable(v) || v.id >= owner->b.values.len)
        capture_throw("expected a value of this capture or of one around it, to take its type");
    return lift_type_from(s, owner, builder_type(&owner->b, (val)v.id));
}

/* ---- finishing ---- */

/* Symbols that came late move in front of those bound by nodes; everything built so far is renumbered. */
static void settle_symbols(struct scope *s)
{
    struct builder *b = &s->b;
    struct module *m = b->m;
    uint32_t n = b->symbols.len, next = 0;
    dim *to = ARENA_NEW(&b->arena, dim, n), *binds = ARENA_NEW(&b->arena, dim, n);
    struct symbol *symbols = ARENA_NEW(&b->arena, struct symbol, n);
    while (s->binds.len < n) vec_push(&s->capture->arena, &s->binds, HOP_NONE);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n; i++)
            if ((b->symbols.data[i].origin == SYMBOL_NODE) == pass) {
                binds[next] = s->binds.data[i];
                symbols[next] = b->symbols.data[i];
                to[i] = dim_symbol(m, next++);
                if (!pass) b->n_outer_symbols = next;
            }
    memcpy(b->symbols.data, symbols, n * sizeof *symbols);
    memcpy(s->binds.data, binds, n * sizeof *binds);
    for (uint32_t i = 0; i < b->values.len; i++)
        b->values.data[i].type = type_substitute(m, b->values.data[i].type, to);
    for (uint32_t i = 0; i < b->attrs.len; i++) {
        struct attr *a = &b->attrs.data[i];
        if (a->kind == ATTR_DIM) a->i = dim_substitute(m, (dim)a->i, to);
        if (a->kind != ATTR_DIMS) continue;
        dim *list = ARENA_NEW(&m->arena, dim, a->n);
        for (uint32_t k = 0; k < a->n; k++) list[k] = dim_substitute(m, a->list[k], to);
        a->list = list;
    }
    for (uint32_t i = 0; i < b->regions.len; i++) {
        struct region *g = &b->regions.data[i];
        dim *list = ARENA_NEW(&m->arena, dim, g->n_dims);
        for (uint32_t k = 0; k < g->n_dims; k++) list[k] = dim_substitute(m, g->dims[k], to);
        g->dims = list;
    }
    for (uint32_t i = 0; i < b->required.len; i++) {
        b->required.data[i].a = dim_substitute(m, b->required.data[i].a, to);
        b->required.data[i].b = dim_substitute(m, b->required.data[i].b, to);
    }
}

/* Keeps where each value was made, for the message about one that is used later. */
static void remember_ended(struct scope *s)
{
    struct capture *c = s->capture;
    uint32_t n = s->b.values.len;
    uint32_t *lines = ARENA_ZNEW(&c->arena, uint32_t, n);
    uint16_t *files = ARENA_ZNEW(&c->arena, uint16_t, n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = s->b.values.data[i].node;
        struct place p = node == NODE_NONE ? s->b.fn_place : s->b.nodes.data[node].place;
        lines[i] = p.line;
        files[i] = p.file;
    }
    vec_push(&c->arena, &c->ended, (struct ended_scope){ s->serial, s->what, s->at, n, lines, files });
}

uint32_t scope_finish(struct scope *s, const val *params, uint32_t n_params, const val *results,
                      uint32_t n_results)
{
    struct builder *b = &s->b;
    results = modes_results(s, results, n_results);
    uint32_t n = b->values.len, next = 0;
    remember_ended(s);
    if (s->late_symbols) settle_symbols(s);
    val *to = ARENA_NEW(&b->arena, val, n), *ends = ARENA_NEW(&b->arena, val, n_results);
    struct value *values = ARENA_NEW(&b->arena, struct value, n);
    memset(to, 0xff, n * sizeof *to);
    for (uint32_t i = 0; i < n_params; i++) to[params[i]] = next++;
    for (uint32_t v = 0; v < n; v++)
        if (b->values.data[v].node != NODE_NONE) to[v] = next++;
    if (next != n)
        hop_throw(HOP_INTERNAL, "a body's parameters were counted wrongly: %u of %u values have a place",
                  next, n);
    for (uint32_t v = 0; v < n; v++) values[to[v]] = b->values.data[v];
    b->values.data = values;
    b->values.cap = n;
    b->n_params = n_params;
    for (uint32_t i = 0; i < b->nodes.len; i++) {
        struct node *node = &b->nodes.data[i];
        if (node->n_results) node->results = to[node->results]; /* they stay together */
        for (uint32_t k = 0; k < node->n_operands; k++)
            b->pool.data[node->operands + k] = to[b->pool.data[node->operands + k]];
    }
    for (uint32_t k = 0; k < n_results; k++) ends[k] = to[results[k]];
    return builder_finish(b, ends, n_results);
}
