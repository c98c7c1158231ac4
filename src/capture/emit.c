/* One public call: operands are brought into the innermost scope, a rule emits nodes there, results become
 * handles. In eager mode the rule emits into a function of its own that is run at once. The first error stays
 * with the capture; a failed call leaves the graph as it was. */
#include "capture/capture.h"

/* How much there was of everything that only grows. */
struct scope_mark {
    struct scope *s;
    uint32_t n_params, values, nodes, pool, attrs, regions; /* of its builder */
    uint32_t symbols, required, checked, n_outer_symbols;
    uint32_t late, bindings, binds; /* of its own */
    uint32_t known, stopped;        /* of its modes */
    bool tracks, enabled;
    effect_set effects;
    bool late_symbols;
};

static struct scope_mark mark_scope(struct scope *s)
{
    const struct builder *b = &s->b;
    return (struct scope_mark){
        .s = s,
        .n_params = b->n_params,
        .values = b->values.len,
        .nodes = b->nodes.len,
        .pool = b->pool.len,
        .attrs = b->attrs.len,
        .regions = b->regions.len,
        .symbols = b->symbols.len,
        .required = b->required.len,
        .checked = b->checked.len,
        .n_outer_symbols = b->n_outer_symbols,
        .late = s->late.len,
        .bindings = s->bindings.len,
        .binds = s->binds.len,
        .known = s->modes.is.len,
        .stopped = s->modes.stopped.len,
        .tracks = s->modes.tracks,
        .enabled = s->modes.enabled,
        .effects = b->effects,
        .late_symbols = s->late_symbols,
    };
}

static void restore_scope(const struct scope_mark *m)
{
    struct scope *s = m->s;
    struct builder *b = &s->b;
    b->n_params = m->n_params;
    b->values.len = m->values;
    b->nodes.len = m->nodes;
    b->pool.len = m->pool;
    b->attrs.len = m->attrs;
    b->regions.len = m->regions;
    b->symbols.len = m->symbols;
    b->required.len = m->required;
    b->checked.len = m->checked;
    b->n_outer_symbols = m->n_outer_symbols;
    b->effects = m->effects;
    b->composite = 0;
    s->late.len = m->late;
    s->bindings.len = m->bindings;
    s->binds.len = m->binds;
    s->late_symbols = m->late_symbols;
    s->modes.is.len = m->known;
    s->modes.stopped.len = m->stopped;
    s->modes.tracks = m->tracks;
    s->modes.enabled = m->enabled;
    s->modes.inside = false;
}

struct capture_mark {
    struct scope *innermost;
    uint32_t n, variables, names, keyed;
    struct modes_mark modes;
    struct scope_mark scopes[MAX_SCOPES];
};

static void mark_capture(struct capture *c, struct capture_mark *m)
{
    m->innermost = c->innermost;
    m->modes = modes_mark();
    m->variables = c->variables.len;
    m->names = c->names.len;
    m->keyed = c->keyed.len;
    m->n = 0;
    if (c->eager) return;
    for (struct scope *s = c->innermost; s; s = s->outer) m->scopes[m->n++] = mark_scope(s);
}

static void restore_capture(struct capture *c, const struct capture_mark *m)
{
    scope_unwind(c, m->innermost);
    modes_restore(m->modes);
    drop_variables(c, m->variables);
    c->names.len = m->names;
    c->keyed.len = m->keyed;
    for (uint32_t i = 0; i < m->n; i++) restore_scope(&m->scopes[i]);
}

int capture_edge(hop_place at, const char *name, void (*body)(struct capture *c, void *args), void *args)
{
    struct capture *c = capture_current();
    struct hop_catch k;
    struct capture_mark mark;
    if (!c) {
        hop_set_message("%s:%d: %s: called outside of a capture and of eager mode", at.file ? at.file : "",
                        at.line, name);
        return HOP_INVALID;
    }
    if (c->status) return c->status;
    hop_place outer_at = c->at;
    const char *outer_name = c->name;
    uint32_t running = c->running;
    c->at = at;
    c->name = name;
    mark_capture(c, &mark);
    if (HOP_TRY(k)) {
        if (!c->innermost) hop_throw(HOP_INTERNAL, "a capture without a scope");
        if (!c->eager) c->innermost->b.place = capture_place(c, at);
        modes_set(c->innermost);
        body(c, args);
        hop_catch_end(&k);
    } else {
        int status = (int)hop_caught();
        c->at = at;
        c->name = name;
        capture_note(c, status);
        restore_capture(c, &mark);
    }
    c->at = outer_at;
    c->name = outer_name;
    c->running = running;
    return c->status;
}

void capture_try(struct capture *c, void (*body)(struct capture *c, void *args), void *args)
{
    struct capture_mark mark;
    mark_capture(c, &mark);
    body(c, args);
    restore_capture(c, &mark);
}

struct emit_args {
    emit_rule rule;
    const void *args;
    const hop_val *in;
    uint32_t n;
    hop_val *out;
    uint32_t n_out;
};

enum { FEW = 4 }; /* operands or results for which no memory is asked */

static void emit_here(struct capture *c, void *args)
{
    const struct emit_args *a = args;
    if (c->eager) {
        eager_emit(c, a->rule, a->args, a->in, a->n, a->out, a->n_out);
        return;
    }
    struct scope *s = c->innermost;
    struct operand few_in[FEW];
    val few_out[FEW];
    struct emission e = { .c = c,
                          .s = s,
                          .b = &s->b,
                          .n = a->n,
                          .in = a->n <= FEW ? few_in : ARENA_NEW(&s->b.arena, struct operand, a->n),
                          .args = a->args,
                          .out = a->n_out <= FEW ? few_out : ARENA_NEW(&s->b.arena, val, a->n_out),
                          .n_out = a->n_out };
    for (uint32_t i = 0; i < a->n; i++) e.in[i] = resolve(s, a->in[i]);
    a->rule(&e);
    for (uint32_t i = 0; i < a->n_out; i++) a->out[i] = value_handle(s, e.out[i]);
}

int capture_emit(hop_place at, const char *name, emit_rule rule, const void *args, const hop_val *in,
                 uint32_t n, hop_val *out, uint32_t n_out)
{
    struct emit_args a = { rule, args, in, n, out, n_out };
    hop_val copies[3];
    if ((n && !in) || (n_out && !out)) {
        char text[128];
        snprintf(text, sizeof text, "%s: expected %s, found NULL", name,
                 n && !in ? "operands" : "a place for the results");
        for (uint32_t i = 0; out && i < n_out; i++) out[i] = (hop_val){ 0, 0 };
        return hop_fail_at(at, text);
    }
    if (n && n <= HOP_COUNT(copies)) { /* in and out may be the same array */
        memcpy(copies, in, n * sizeof *in);
        a.in = copies;
    }
    int status = capture_edge(at, name, emit_here, &a);
    if (status)
        for (uint32_t i = 0; i < n_out; i++) out[i] = (hop_val){ 0, 0 };
    return status;
}

struct room_args {
    uint32_t n;
    hop_val *room;
};
static void make_room(struct capture *c, void *args)
{
    struct room_args *a = args;
    a->room = ARENA_ZNEW(&c->arena, hop_val, a->n);
}
hop_val *capture_room(hop_place at, const char *name, uint32_t n)
{
    struct room_args a = { n, NULL };
    return capture_edge(at, name, make_room, &a) ? NULL : a.room;
}
