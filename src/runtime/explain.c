/* Compiles a function and says what happened: passes, nests, stored values and copies with their reasons,
 * memory, code, times. */
#include "runtime/explain.h"
#include "ir/text.h"
#include "runtime/blas.h"
#include "runtime/cache.h"

enum { SHOWN = 12 }; /* stored values that are listed when not all are asked for */

struct pass_note {
    const char *pass;
    double ms;
    uint32_t nodes;
};
struct explanation {
    const struct explain_options *o;
    struct module *m;
    const struct fn *f;
    struct arena *arena;
    vec(struct pass_note) passes;
    vec(const char *) lanes; /* loops over lanes that may end at different trips */
    struct compile_report report;
    struct exe *exe;
    const struct lp *p; /* the loop program; NULL: it was not kept */
};

static void note_pass(void *ctx, const char *pass, double ms, uint32_t nodes)
{
    struct explanation *e = ctx;
    vec_push(e->arena, &e->passes, (struct pass_note){ pass, ms, nodes });
}

static void note_lanes(void *ctx, const char *text)
{
    struct explanation *e = ctx;
    vec_push(e->arena, &e->lanes, arena_printf(e->arena, "%s", text));
}

static void drop_texts(void *report)
{
    struct compile_report *r = report;
    free(r->ir_text);
    free(r->machine_text);
}

static const char *buffer_kind(const struct lp_buffer *b)
{
    static const char *const kinds[] = {
        [BUF_ARG] = "argument", [BUF_RESULT] = "result", [BUF_CONST] = "constant",
        [BUF_TEMP] = "arena",   [BUF_LOCAL] = "stack",   [BUF_DYN] = "grows"
    };
    if (b->offloaded) return "file";
    return b->kind < HOP_COUNT(kinds) ? kinds[b->kind] : "?";
}

static bool is_stored(const struct lp_buffer *b)
{
    return b->kind == BUF_TEMP || b->kind == BUF_LOCAL || b->kind == BUF_DYN || b->kind == BUF_RESULT;
}

static void buffer_size(struct text *out, const struct lp *p, const struct lp_buffer *b)
{
    text_add(out, "%s[", dtype_info[b->dtype].name);
    if (b->kind == BUF_DYN) text_str(out, "?");
    else dim_print(p->m, p->entry->symbols, b->count, out);
    text_str(out, "]");
}

/* ---- nests ---- */

/* NULL: not one of those that are listed. */
static const char *statement_kind(const struct lp_stmt *s)
{
    static const char *const loops[] = {
        [FOR_SERIAL] = "loop", [FOR_VECTOR] = "vector loop", [FOR_PARALLEL] = "parallel loop"
    };
    switch (s->kind) {
    case LP_FOR: return loops[s->mode];
    case LP_WHILE: return "while";
    case LP_IF: return "branch";
    case LP_CALL: return "call";
    default: return NULL;
    }
}

/* shared: the loop around is one that threads share, and not listed itself. */
static void nests_text(struct text *out, const struct lp_block *block, uint32_t depth, bool shared)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        const char *kind = statement_kind(s), *threads = shared ? ", on threads" : "";
        if (s->note && kind) text_add(out, "  %*s%s%s: %s\n", (int)depth * 2, "", kind, threads, s->note);
        uint32_t inner = depth + (s->note != NULL);
        bool parallel = s->kind == LP_FOR && s->mode == FOR_PARALLEL;
        nests_text(out, s->body, inner, !s->note && (shared || parallel));
        nests_text(out, s->other, inner, !s->note && shared);
    }
}

/* ---- the cache ---- */

static const char *const origins[] = {
    [CODE_COMPILED] = "compiled", [CODE_FROM_MEMORY] = "memory", [CODE_FROM_DISK] = "disk"
};

static const struct backend *explained_backend(const struct explain_options *o)
{
    return o->compile.backend ? o->compile.backend : backend_at(0);
}

static void cache_text(struct text *out, const struct explanation *e)
{
    char where[512];
    cache_describe(where, sizeof where);
    bool compiled = e->report.origin == CODE_COMPILED;
    const char *found = "it is there; compiled again to explain it";
    if (compiled) found = "it was not there and was compiled";
    bool keeps = explained_backend(e->o)->abilities & ABLE_TO_KEEP;
    if (e->o->compile.no_cache || !keeps) text_str(out, "cache: not asked\n");
    else text_add(out, "cache: %s (%s)\n", found, where);
}

/* ---- what is computed once ---- */

static const char *once_type(struct text *like, const struct module *m, const struct fn *f, type_id t)
{
    struct text out = { .arena = like->arena };
    type_print(m, f->symbols, t, &out);
    return out.data;
}

static const char *once_bytes(struct text *like, const struct module *m, const struct fn *f, type_id t)
{
    struct text out = { .arena = like->arena };
    struct module *own = (struct module *)m; /* the executable's; nobody else has it yet */
    dim bytes = dim_mul(own, type_elements(own, t), dtype_info[type_get(m, t).dtype].size);
    dim_print(m, f->symbols, bytes, &out);
    return out.data;
}

static void once_text(struct text *out, const struct explanation *e)
{
    const struct module *m;
    const struct fn *f = exe_init(e->exe, &m);
    if (!f) return;
    text_add(out, "kept from run to run: %u\n", f->n_results);
    for (uint32_t k = 0; k < f->n_results; k++) {
        type_id t = value_type(f, f->results[k]);
        text_add(out, "  %-16s %s bytes\n", once_type(out, m, f, t), once_bytes(out, m, f, t));
    }
    text_str(out, "  computed at the first run and when one of these changes:");
    for (uint32_t p = 0; p < f->n_params; p++) text_add(out, "%s %%%s", p ? "," : "", fn_param_name(m, f, p));
    text_str(out, "\n");
}

/* ---- text ---- */

static void passes_text(struct text *out, const struct explanation *e)
{
    if (!e->passes.len) return;
    text_str(out, "passes               nodes after      ms\n");
    for (uint32_t i = 0; i < e->passes.len; i++)
        text_add(out, "  %-18s %11u %7.3f\n", e->passes.data[i].pass, e->passes.data[i].nodes,
                 e->passes.data[i].ms);
}

/* ---- what the gradient keeps ---- */

static const char *dim_text(struct text *like, const struct module *m, const struct symbol *symbols, dim d)
{
    struct text t = { .arena = like->arena };
    dim_print(m, symbols, d, &t);
    return t.data;
}

static const char *saved_bytes(struct text *like, struct module *m, const struct saved_list *l,
                               const struct saved_value *v, bool all)
{
    dim bytes = dim_mul(m, type_elements(m, v->type), dtype_info[type_get(m, v->type).dtype].size);
    return dim_text(like, m, l->symbols, all && v->rows != HOP_NONE ? dim_mul(m, bytes, v->rows) : bytes);
}

static const char *saved_type(struct text *like, struct module *m, const struct saved_list *l,
                              const struct saved_value *v)
{
    struct text t = { .arena = like->arena };
    type_print(m, l->symbols, v->rows != HOP_NONE ? type_prepend(m, v->type, v->rows) : v->type, &t);
    return t.data;
}

/* Temporaries and what is kept, arguments and results; -1: it depends on sizes. */
static size_t peak_bytes(const struct explanation *e)
{
    size_t bytes = exe_arena_bytes(e->exe);
    uint32_t n = e->f->n_params + e->f->n_results;
    for (uint32_t i = 0; i < n && bytes != (size_t)-1; i++) {
        val v = i < e->f->n_params ? i : e->f->results[i - e->f->n_params];
        type_id t = value_type(e->f, v);
        dim elements = type_elements(e->m, t);
        if (!dim_is_const(e->m, elements)) return (size_t)-1;
        bytes += (size_t)dim_const_value(e->m, elements) * dtype_info[type_get(e->m, t).dtype].size;
    }
    return bytes;
}

/* As a tag names it, in quotes, else as the program does. */
static const char *saved_name(struct text *like, const struct module *m, const struct saved_value *v)
{
    if (v->tag) return arena_printf(like->arena, "'%s'", module_text(m, v->tag));
    return v->name ? module_text(m, v->name) : "-";
}

static void kept_text(struct text *out, struct module *m, const struct saved_list *l, uint32_t depth)
{
    for (uint32_t i = 0; i < l->values.len; i++) {
        const struct saved_value traced = saved_traced(m, &l->values.data[i]), *v = &traced;
        const char *place = place_text(m, v->place);
        text_add(out, "  %*s%-12s %-16s %-12s %s%s%s", (int)depth * 2, "", saved_name(out, m, v),
                 saved_type(out, m, l, v), v->there ? "0" : saved_bytes(out, m, l, v, true), place,
                 v->by ? v->by->name : "", v->by ? ": " : "");
        text_add(out, "%s%s", v->there ? "there anyway: " : "", v->why);
        if (v->policy) text_add(out, ", by policy \"%s\"", module_text(m, v->policy));
        if (v->rows != HOP_NONE && !v->there)
            text_add(out, "; %s bytes a row", saved_bytes(out, m, l, v, false));
        text_str(out, "\n");
    }
    for (uint32_t i = 0; i < l->inside.len; i++) {
        text_add(out, "  %*s%s%s, while its body is gone through backwards once:\n", (int)depth * 2, "",
                 place_text(m, l->inside.data[i].place), l->inside.data[i].row->name);
        kept_text(out, m, l->inside.data[i].list, depth + 1);
    }
}

static void stored_text(struct text *out, const struct explanation *e)
{
    const struct lp *p = e->p;
    uint32_t n = 0, shown = 0;
    for (uint32_t i = 0; i < p->buffers.len; i++) n += is_stored(&p->buffers.data[i]);
    text_add(out, "stored values: %u\n", n);
    for (uint32_t i = 0; i < p->buffers.len; i++) {
        const struct lp_buffer *b = &p->buffers.data[i];
        if (!is_stored(b)) continue;
        if (shown++ == SHOWN && !e->o->saved) {
            text_add(out, "  … %u more; --saved lists all\n", n - SHOWN);
            break;
        }
        struct text size = { .arena = out->arena };
        buffer_size(&size, p, b);
        text_add(out, "  %-12s %-16s %-8s %s\n", b->name && *b->name ? b->name : "-", size.data,
                 buffer_kind(b), b->why ? b->why : "");
    }
    text_add(out, "copies: %u\n", p->n_copies);
    for (uint32_t i = 0; i < p->copy_notes.len; i++) text_add(out, "  %s\n", p->copy_notes.data[i]);
    if (p->within_notes.len) text_add(out, "in the memory of another: %u\n", p->within_notes.len);
    for (uint32_t i = 0; i < p->within_notes.len; i++) text_add(out, "  %s\n", p->within_notes.data[i]);
    if (p->exchange_notes.len) text_add(out, "exchanges with ranks: %u\n", p->exchange_notes.len);
    for (uint32_t i = 0; i < p->exchange_notes.len; i++) text_add(out, "  %s\n", p->exchange_notes.data[i]);
}

/* "%dt: log1p of file:4:3: …" */
static const char *computed_note(struct text *like, const struct explanation *e, const struct lp_computed *c)
{
    struct text t = { .arena = like->arena };
    const struct symbol *symbols = e->f->symbols;
    text_add(&t, "%s%s%s%s%s", place_text(e->m, c->place), c->name ? "%" : "",
             c->name ? module_text(e->m, c->name) : "", c->name ? " = " : "", c->op);
    const char *step = c->stepwise && c->why ? " a step" : "";
    if (c->times == HOP_NONE) text_str(&t, ": at every point that reads it");
    else if (c->times == 1) text_str(&t, ": once");
    else text_add(&t, ": %s times each", dim_text(&t, e->m, symbols, c->times));
    if (c->elements != HOP_NONE)
        text_add(&t, ", %s elements%s", dim_text(&t, e->m, symbols, c->elements), step);
    if (c->why) text_add(&t, ": %s", c->why);
    else if (c->reader.line) text_add(&t, ", where line %u is computed", c->reader.line);
    return t.data;
}

static void computed_text(struct text *out, const struct explanation *e)
{
    uint32_t n = e->p->computed.len;
    if (n) text_add(out, "expensive values: %u\n", n);
    for (uint32_t i = 0; i < n; i++) {
        if (i == SHOWN && !e->o->saved) {
            text_add(out, "  … %u more; --saved lists all\n", n - SHOWN);
            break;
        }
        text_add(out, "  %s\n", computed_note(out, e, &e->p->computed.data[i]));
    }
}

static void lanes_text(struct text *out, const struct explanation *e)
{
    uint32_t n = e->lanes.len;
    if (n) text_add(out, "loops over lanes: %u\n", n);
    for (uint32_t i = 0; i < n; i++) {
        if (i == SHOWN && !e->o->saved) {
            text_add(out, "  … %u more; --saved lists all\n", n - SHOWN);
            break;
        }
        text_add(out, "  %s\n", e->lanes.data[i]);
    }
}

/* Where the new contents of parameters are computed. */
static void updates_text(struct text *out, const struct explanation *e)
{
    const struct lp *p = e->p;
    if (!p->updates.len) return;
    text_add(out, "updated arguments: %u\n", p->updates.len);
    for (uint32_t i = 0; i < p->updates.len; i++) {
        const struct lp_update *u = &p->updates.data[i];
        text_add(out, "  %-12s ", fn_param_name(e->m, e->f, u->param));
        if (u->in_place) text_str(out, "in place\n");
        else text_add(out, "copied: %s\n", u->why ? u->why : "");
    }
}

static bool multiplies(const struct lp_block *block)
{
    bool found = false;
    for (uint32_t i = 0; block && i < block->stmts.len && !found; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        found = (s->kind == LP_CALL && s->call->kind == CALL_GEMM) || multiplies(s->body) ||
                multiplies(s->other);
    }
    return found;
}

static bool program_multiplies(const struct lp *p)
{
    bool found = multiplies(p->root);
    for (uint32_t i = 0; i < p->procedures.len && !found; i++)
        found = multiplies(p->procedures.data[i]->root);
    return found;
}

/* Bodies that are compiled once and called. */
static void shared_text(struct text *out, const struct lp *p)
{
    if (!p->procedures.len) return;
    text_add(out, "shared bodies: %u\n", p->procedures.len);
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        const struct lp *q = p->procedures.data[i];
        text_add(out, "  %-12s %u nests, called in %u places: %s\n", q->name, q->n_nests, q->n_calls,
                 q->why_called);
        nests_text(out, q->root, 1, false);
    }
}

static void stages_text(struct text *out, const struct compile_report *r)
{
    double total = 0;
    text_str(out, "stages                    ms\n");
    for (uint32_t i = 0; i < r->n_stages; i++) {
        bool part_of_next = r->stages[i].name[0] == ' ';
        text_add(out, "  %-18s %7.3f\n", r->stages[i].name, r->stages[i].ms);
        if (!part_of_next) total += r->stages[i].ms;
    }
    text_add(out, "  %-18s %7.3f\n", "together", total);
}

static void explain_text(struct text *out, const struct explanation *e)
{
    const struct explain_options *o = e->o;
    text_add(out, "@%s: %u parameters, %u nodes, %u results\n", module_text(e->m, e->f->name), e->f->n_params,
             e->f->n_nodes, e->f->n_results);
    if (o->kept && o->saved) {
        text_str(out, "kept for the gradient     type             bytes        why\n");
        kept_text(out, e->m, o->kept, 0);
        if (!o->kept->values.len && !o->kept->inside.len) text_str(out, "  nothing\n");
    }
    once_text(out, e);
    passes_text(out, e);
    lanes_text(out, e);
    if (e->p) {
        text_add(out, "nests: %u\n", e->p->n_nests);
        nests_text(out, e->p->root, 0, false);
        shared_text(out, e->p);
        stored_text(out, e);
        computed_text(out, e);
        updates_text(out, e);
        if (program_multiplies(e->p)) text_add(out, "products: %s\n", blas_description());
    }
    size_t arena = exe_arena_bytes(e->exe), peak = peak_bytes(e);
    if (arena == (size_t)-1) text_str(out, "memory: depends on sizes\n");
    else if (peak == (size_t)-1) text_add(out, "memory: %zu bytes\n", arena);
    else text_add(out, "memory: %zu bytes, at the peak %zu with arguments and results\n", arena, peak);
    cache_text(out, e);
    text_add(out, "code: %zu bytes\n", e->report.code_bytes);
    stages_text(out, &e->report);
    if (o->loops && e->p) {
        text_str(out, "\nloop program:\n");
        lp_print(e->p, out);
    }
    if (o->compile.keep_ir_text) text_add(out, "\nLLVM:\n%s", e->report.ir_text ? e->report.ir_text : "");
    if (o->compile.keep_machine_text)
        text_add(out, "\nassembly:\n%s", e->report.machine_text ? e->report.machine_text : "");
}

/* ---- JSON ---- */

/* A comma, unless something has just been opened. */
static void json_next(struct text *out)
{
    char last = out->data[out->len - 1];
    if (last != '{' && last != '[') text_str(out, ", ");
}
static void json_key(struct text *out, const char *key)
{
    json_next(out);
    text_add(out, "\"%s\": ", key);
}
static void json_field(struct text *out, const char *key, const char *value)
{
    json_key(out, key);
    json_string(out, value ? value : "");
}
static void json_begin(struct text *out, const char *key) /* a list */
{
    json_key(out, key);
    text_str(out, "[");
}
static void json_begin_entry(struct text *out)
{
    json_next(out);
    text_str(out, "{");
}

static void json_place(struct text *out, struct module *m, struct place p)
{
    char *text = arena_printf(out->arena, "%s", place_text(m, p)); /* "file:line:col: " */
    char *end = strrchr(text, ':');
    if (end) *end = 0;
    json_field(out, "place", text);
}

static void size_or_null(struct text *out, size_t bytes)
{
    if (bytes == (size_t)-1) text_str(out, "null");
    else text_add(out, "%zu", bytes);
}

static void kept_value_json(struct text *out, struct module *m, const struct saved_list *l, uint32_t i)
{
    const struct saved_value traced = saved_traced(m, &l->values.data[i]), *v = &traced;
    json_begin_entry(out);
    json_field(out, "name", module_text(m, v->name));
    json_field(out, "tag", module_text(m, v->tag));
    json_field(out, "type", saved_type(out, m, l, v));
    json_field(out, "bytes", v->there ? "0" : saved_bytes(out, m, l, v, true));
    json_key(out, "bytes_a_row");
    if (v->rows == HOP_NONE) text_str(out, "null");
    else json_string(out, v->there ? "0" : saved_bytes(out, m, l, v, false));
    json_place(out, m, v->place);
    json_field(out, "operator", v->by ? v->by->name : "");
    json_key(out, "there_anyway");
    text_str(out, v->there ? "true" : "false");
    json_field(out, "why", v->why);
    json_field(out, "policy", module_text(m, v->policy));
    text_str(out, "}");
}

static void kept_json(struct text *out, struct module *m, const struct saved_list *l)
{
    text_str(out, "{");
    json_begin(out, "values");
    for (uint32_t i = 0; i < l->values.len; i++) kept_value_json(out, m, l, i);
    text_str(out, "]");
    json_begin(out, "inside");
    for (uint32_t i = 0; i < l->inside.len; i++) {
        json_begin_entry(out);
        json_field(out, "operator", l->inside.data[i].row->name);
        json_place(out, m, l->inside.data[i].place);
        json_key(out, "kept");
        kept_json(out, m, l->inside.data[i].list);
        text_str(out, "}");
    }
    text_str(out, "]}");
}

static void stored_json(struct text *out, const struct lp *p)
{
    json_begin(out, "stored");
    for (uint32_t i = 0; p && i < p->buffers.len; i++) {
        const struct lp_buffer *b = &p->buffers.data[i];
        if (!is_stored(b)) continue;
        struct text size = { .arena = out->arena };
        buffer_size(&size, p, b);
        json_begin_entry(out);
        json_field(out, "name", b->name);
        json_field(out, "size", size.data);
        json_field(out, "where", buffer_kind(b));
        json_field(out, "why", b->why);
        text_str(out, "}");
    }
    text_str(out, "]");
}

static void once_json(struct text *out, const struct explanation *e)
{
    const struct module *m;
    const struct fn *f = exe_init(e->exe, &m);
    if (!f) return;
    json_begin(out, "once");
    for (uint32_t k = 0; k < f->n_results; k++) {
        type_id t = value_type(f, f->results[k]);
        json_begin_entry(out);
        json_field(out, "type", once_type(out, m, f, t));
        json_field(out, "bytes", once_bytes(out, m, f, t));
        text_str(out, "}");
    }
    text_str(out, "]");
}

static void shared_json(struct text *out, const struct lp *p)
{
    json_begin(out, "shared");
    for (uint32_t i = 0; p && i < p->procedures.len; i++) {
        const struct lp *q = p->procedures.data[i];
        json_begin_entry(out);
        json_field(out, "name", q->name);
        text_add(out, ", \"nests\": %u, \"calls\": %u, \"why\": \"%s\"}", q->n_nests, q->n_calls,
                 q->why_called);
    }
    text_str(out, "]");
}

static void notes_json(struct text *out, const char *key, const char *const *notes, uint32_t n)
{
    json_begin(out, key);
    for (uint32_t i = 0; i < n; i++) {
        json_next(out);
        json_string(out, notes[i]);
    }
    text_str(out, "]");
}

static void computed_json(struct text *out, const struct explanation *e)
{
    json_begin(out, "computed");
    for (uint32_t i = 0; e->p && i < e->p->computed.len; i++) {
        json_next(out);
        json_string(out, computed_note(out, e, &e->p->computed.data[i]));
    }
    text_str(out, "]");
}

static void updates_json(struct text *out, const struct explanation *e)
{
    json_begin(out, "updates");
    for (uint32_t i = 0; e->p && i < e->p->updates.len; i++) {
        const struct lp_update *u = &e->p->updates.data[i];
        json_begin_entry(out);
        json_field(out, "parameter", fn_param_name(e->m, e->f, u->param));
        json_key(out, "in_place");
        text_str(out, u->in_place ? "true" : "false");
        if (!u->in_place) json_field(out, "why", u->why);
        text_str(out, "}");
    }
    text_str(out, "]");
}

static void explain_json(struct text *out, const struct explanation *e)
{
    const struct lp *p = e->p;
    text_str(out, "{");
    json_field(out, "function", module_text(e->m, e->f->name));
    if (e->o->kept) {
        json_key(out, "kept");
        kept_json(out, e->m, e->o->kept);
    }
    once_json(out, e);
    json_begin(out, "passes");
    for (uint32_t i = 0; i < e->passes.len; i++) {
        const struct pass_note *n = &e->passes.data[i];
        json_begin_entry(out);
        json_field(out, "pass", n->pass);
        text_add(out, ", \"nodes\": %u, \"ms\": %.4f}", n->nodes, n->ms);
    }
    text_add(out, "], \"nests\": %u", p ? p->n_nests : 0);
    shared_json(out, p);
    stored_json(out, p);
    notes_json(out, "lanes", e->lanes.data, e->lanes.len);
    notes_json(out, "copies", p ? p->copy_notes.data : NULL, p ? p->copy_notes.len : 0);
    notes_json(out, "placed", p ? p->within_notes.data : NULL, p ? p->within_notes.len : 0);
    notes_json(out, "exchanges", p ? p->exchange_notes.data : NULL, p ? p->exchange_notes.len : 0);
    computed_json(out, e);
    updates_json(out, e);
    const char *products = p && program_multiplies(p) ? blas_description() : NULL;
    if (products) notes_json(out, "products", &products, 1);
    size_t arena = exe_arena_bytes(e->exe);
    json_key(out, "memory_bytes");
    size_or_null(out, arena);
    json_key(out, "peak_bytes");
    size_or_null(out, peak_bytes(e));
    text_add(out, ", \"code_bytes\": %zu", e->report.code_bytes);
    json_field(out, "from", origins[e->report.origin]);
    text_str(out, ", \"stages\": {");
    for (uint32_t i = 0; i < e->report.n_stages; i++) {
        const char *name = e->report.stages[i].name;
        json_key(out, name + strspn(name, " "));
        text_add(out, "%.4f", e->report.stages[i].ms);
    }
    text_str(out, "}}\n");
}

void explain_function(struct module *m, uint32_t fn, const struct explain_options *o, struct text *out)
{
    const struct backend *backend = explained_backend(o);
    if (backend->available && !backend->available())
        hop_throw(HOP_UNAVAILABLE, "nothing to explain without a compiler: %s", hop_message());
    struct explanation e = { .o = o, .m = m, .f = module_fn(m, fn), .arena = out->arena };
    struct compile_options compile = o->compile;
    compile.passes.report = note_pass;
    compile.passes.note = note_lanes;
    compile.passes.report_ctx = &e;
    compile.keep_lp = true;
    hop_cleanup_push(drop_texts, &e.report);
    e.exe = exe_compile(m, fn, &compile, &e.report);
    hop_cleanup_push(exe_free, e.exe);
    e.p = exe_lp(e.exe);
    if (o->json) explain_json(out, &e);
    else explain_text(out, &e);
    hop_cleanup_pop(e.exe);
    exe_free(e.exe);
    hop_cleanup_pop(&e.report);
    drop_texts(&e.report);
}
