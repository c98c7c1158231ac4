/* hop explain: compiles a function and says what happened: passes, nests, stored values and copies with their
 * reasons, memory, code, times. */
#include "cli/cli.h"
#include "runtime/blas.h"
#include "runtime/cache.h"
#include "transform/transform.h"

enum { SHOWN = 12 }; /* stored values listed without --saved */

struct pass_note {
    const char *pass;
    double ms;
    uint32_t nodes;
};
struct explanation {
    struct options *o;
    struct module *m;
    uint32_t fn;
    vec(struct pass_note) passes;
    struct compile_report report;
    struct exe *exe;
    const struct saved_list *kept; /* of a gradient; NULL: none */
};

static void note_pass(void *ctx, const char *pass, double ms, uint32_t nodes)
{
    struct explanation *e = ctx;
    vec_push(&e->o->bag.arena, &e->passes, (struct pass_note){ pass, ms, nodes });
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

static void nests_text(struct text *out, const struct lp_block *block, uint32_t depth)
{
    static const char *const kinds[] = {
        [FOR_SERIAL] = "loop", [FOR_VECTOR] = "vector loop", [FOR_PARALLEL] = "parallel loop"
    };
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->note && (s->kind == LP_FOR || s->kind == LP_WHILE || s->kind == LP_CALL || s->kind == LP_IF)) {
            const char *kind = s->kind == LP_FOR     ? kinds[s->mode]
                               : s->kind == LP_WHILE ? "while"
                               : s->kind == LP_IF    ? "branch"
                                                     : "call";
            text_add(out, "  %*s%s: %s\n", (int)depth * 2, "", kind, s->note);
        }
        uint32_t inner = depth + (s->note != NULL);
        nests_text(out, s->body, inner);
        nests_text(out, s->other, inner);
    }
}

/* ---- the cache ---- */

static const char *const origins[] = {
    [CODE_COMPILED] = "compiled", [CODE_FROM_MEMORY] = "memory", [CODE_FROM_DISK] = "disk"
};

static void cache_text(struct text *out, const struct explanation *e)
{
    char where[512];
    cache_describe(where, sizeof where);
    if (option_on(e->o, O_NO_CACHE)) text_str(out, "cache: not asked\n");
    else
        text_add(out, "cache: %s (%s)\n",
                 e->report.origin == CODE_COMPILED ? "it was not there and was compiled"
                                                   : "it is there; compiled again to explain it",
                 where);
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

static void kept_text(struct text *out, struct module *m, const struct saved_list *l, uint32_t depth)
{
    for (uint32_t i = 0; i < l->values.len; i++) {
        const struct saved_value *v = &l->values.data[i];
        const char *place = place_text(m, v->place);
        text_add(out, "  %*s%-12s %-16s %-12s %s%s%s", (int)depth * 2, "",
                 v->name ? module_text(m, v->name) : "-", saved_type(out, m, l, v),
                 v->there ? "0" : saved_bytes(out, m, l, v, true), place, v->by ? v->by->name : "",
                 v->by ? ": " : "");
        text_add(out, "%s%s", v->there ? "there anyway: " : "", v->why);
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

static void json_place(struct text *out, struct module *m, struct place p)
{
    char *text = arena_printf(out->arena, "%s", place_text(m, p)),
         *end = strrchr(text, ':'); /* "file:line:col: " */
    if (end) *end = 0;
    json_string(out, text);
}

static void kept_json(struct text *out, struct module *m, const struct saved_list *l)
{
    text_str(out, "{\"values\": [");
    for (uint32_t i = 0; i < l->values.len; i++) {
        const struct saved_value *v = &l->values.data[i];
        text_str(out, i ? ", {\"name\": " : "{\"name\": ");
        json_string(out, v->name ? module_text(m, v->name) : "");
        text_str(out, ", \"type\": ");
        json_string(out, saved_type(out, m, l, v));
        text_str(out, ", \"bytes\": ");
        json_string(out, v->there ? "0" : saved_bytes(out, m, l, v, true));
        text_str(out, ", \"bytes_a_row\": ");
        if (v->rows == HOP_NONE) text_str(out, "null");
        else json_string(out, v->there ? "0" : saved_bytes(out, m, l, v, false));
        text_str(out, ", \"place\": ");
        json_place(out, m, v->place);
        text_add(out, ", \"operator\": \"%s\", \"there_anyway\": %s, \"why\": ", v->by ? v->by->name : "",
                 v->there ? "true" : "false");
        json_string(out, v->why);
        text_str(out, "}");
    }
    text_str(out, "], \"inside\": [");
    for (uint32_t i = 0; i < l->inside.len; i++) {
        text_add(out, "%s{\"operator\": \"%s\", \"place\": ", i ? ", " : "", l->inside.data[i].row->name);
        json_place(out, m, l->inside.data[i].place);
        text_str(out, ", \"kept\": ");
        kept_json(out, m, l->inside.data[i].list);
        text_str(out, "}");
    }
    text_str(out, "]}");
}

static void stored_text(struct text *out, const struct explanation *e, const struct lp *p)
{
    uint32_t n = 0, shown = 0;
    for (uint32_t i = 0; i < p->buffers.len; i++) n += is_stored(&p->buffers.data[i]);
    text_add(out, "stored values: %u\n", n);
    for (uint32_t i = 0; i < p->buffers.len; i++) {
        const struct lp_buffer *b = &p->buffers.data[i];
        if (!is_stored(b)) continue;
        if (shown++ == SHOWN && !option_on(e->o, O_SAVED)) {
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
    if (p->place_notes.len) text_add(out, "in the memory of another: %u\n", p->place_notes.len);
    for (uint32_t i = 0; i < p->place_notes.len; i++) text_add(out, "  %s\n", p->place_notes.data[i]);
}

/* Where the new contents of parameters are computed. */
static void updates_text(struct text *out, const struct explanation *e, const struct lp *p)
{
    if (!p->updates.len) return;
    text_add(out, "updated arguments: %u\n", p->updates.len);
    for (uint32_t i = 0; i < p->updates.len; i++) {
        const struct lp_update *u = &p->updates.data[i];
        text_add(out, "  %-12s ", fn_param_name(e->m, module_fn(e->m, e->fn), u->param));
        if (u->in_place) text_str(out, "in place\n");
        else text_add(out, "copied: %s\n", u->why ? u->why : "");
    }
}

static void updates_json(struct text *out, const struct explanation *e, const struct lp *p)
{
    text_str(out, "], \"updates\": [");
    for (uint32_t i = 0; p && i < p->updates.len; i++) {
        const struct lp_update *u = &p->updates.data[i];
        text_str(out, i ? ", {\"parameter\": " : "{\"parameter\": ");
        json_string(out, fn_param_name(e->m, module_fn(e->m, e->fn), u->param));
        text_add(out, ", \"in_place\": %s", u->in_place ? "true}" : "false, \"why\": ");
        if (!u->in_place) json_string(out, u->why ? u->why : ""), text_str(out, "}");
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

static void explain_text(struct text *out, const struct explanation *e)
{
    const struct fn *f = module_fn(e->m, e->fn);
    const struct lp *p = exe_lp(e->exe);
    text_add(out, "@%s: %u parameters, %u nodes, %u results\n", f->name ? module_text(e->m, f->name) : "",
             f->n_params, f->n_nodes, f->n_results);
    if (e->kept && option_on(e->o, O_SAVED)) {
        text_str(out, "kept for the gradient     type             bytes        why\n");
        kept_text(out, e->m, e->kept, 0);
        if (!e->kept->values.len && !e->kept->inside.len) text_str(out, "  nothing\n");
    }
    passes_text(out, e);
    if (p) {
        text_add(out, "nests: %u\n", p->n_nests);
        nests_text(out, p->root, 0);
        stored_text(out, e, p);
        updates_text(out, e, p);
        if (multiplies(p->root)) text_add(out, "products: %s\n", blas_description());
    }
    size_t arena = exe_arena_bytes(e->exe);
    if (arena == (size_t)-1) text_str(out, "memory: depends on sizes\n");
    else text_add(out, "memory: %zu bytes\n", arena);
    cache_text(out, e);
    text_add(out, "code: %zu bytes\nstages                    ms\n", e->report.code_bytes);
    double total = 0;
    for (uint32_t i = 0; i < e->report.n_stages; i++) {
        text_add(out, "  %-18s %7.3f\n", e->report.stages[i].name, e->report.stages[i].ms);
        if (e->report.stages[i].name[0] != ' ')
            total += e->report.stages[i].ms; /* an indented stage is part of the next one that is not */
    }
    text_add(out, "  %-18s %7.3f\n", "together", total);
    if (option_on(e->o, O_LOOPS) && p) {
        text_str(out, "\nloop program:\n");
        lp_print(p, out);
    }
    if (option_on(e->o, O_LLVM)) text_add(out, "\nLLVM:\n%s", e->report.ir_text ? e->report.ir_text : "");
    if (option_on(e->o, O_ASM))
        text_add(out, "\nassembly:\n%s", e->report.machine_text ? e->report.machine_text : "");
}

/* ---- JSON ---- */

static void explain_json(struct text *out, const struct explanation *e)
{
    const struct lp *p = exe_lp(e->exe);
    text_str(out, "{\"function\": ");
    json_string(out, module_text(e->m, module_fn(e->m, e->fn)->name));
    if (e->kept) {
        text_str(out, ", \"kept\": ");
        kept_json(out, e->m, e->kept);
    }
    text_str(out, ", \"passes\": [");
    for (uint32_t i = 0; i < e->passes.len; i++)
        text_add(out, "%s{\"pass\": \"%s\", \"nodes\": %u, \"ms\": %.4f}", i ? ", " : "",
                 e->passes.data[i].pass, e->passes.data[i].nodes, e->passes.data[i].ms);
    text_add(out, "], \"nests\": %u, \"stored\": [", p ? p->n_nests : 0);
    bool any = false;
    for (uint32_t i = 0; p && i < p->buffers.len; i++) {
        const struct lp_buffer *b = &p->buffers.data[i];
        if (!is_stored(b)) continue;
        struct text size = { .arena = out->arena };
        buffer_size(&size, p, b);
        text_str(out, any ? ", {\"name\": " : "{\"name\": ");
        json_string(out, b->name ? b->name : "");
        text_str(out, ", \"size\": ");
        json_string(out, size.data);
        text_add(out, ", \"where\": \"%s\", \"why\": ", buffer_kind(b));
        json_string(out, b->why ? b->why : "");
        text_str(out, "}");
        any = true;
    }
    text_str(out, "], \"copies\": [");
    for (uint32_t i = 0; p && i < p->copy_notes.len; i++) {
        if (i) text_str(out, ", ");
        json_string(out, p->copy_notes.data[i]);
    }
    text_str(out, "], \"placed\": [");
    for (uint32_t i = 0; p && i < p->place_notes.len; i++) {
        if (i) text_str(out, ", ");
        json_string(out, p->place_notes.data[i]);
    }
    updates_json(out, e, p);
    if (p && multiplies(p->root)) {
        text_str(out, "], \"products\": [");
        json_string(out, blas_description());
    }
    size_t arena = exe_arena_bytes(e->exe);
    if (arena == (size_t)-1) text_str(out, "], \"memory_bytes\": null");
    else text_add(out, "], \"memory_bytes\": %zu", arena);
    text_add(out, ", \"code_bytes\": %zu, \"from\": \"%s\", \"stages\": {", e->report.code_bytes,
             origins[e->report.origin]);
    for (uint32_t i = 0; i < e->report.n_stages; i++)
        text_add(out, "%s\"%s\": %.4f", i ? ", " : "",
                 e->report.stages[i].name + strspn(e->report.stages[i].name, " "), e->report.stages[i].ms);
    text_str(out, "}}\n");
}

int command_explain(struct options *o)
{
    if (!exe_available())
        hop_throw(HOP_UNAVAILABLE, "nothing to explain without a compiler: %s", hop_message());
    struct explanation e = { .o = o, .m = program_load(o->files.data[0]) };
    hop_cleanup_push(module_free, e.m);
    e.fn = program_select(e.m, o->fn);
    if (option_on(o, O_GRAD)) e.fn = program_grad(o, e.m, e.fn), e.kept = saved_last(e.m);
    if (option_on(o, O_JVP)) e.fn = program_jvp(o, e.m, e.fn);
    if (option_on(o, O_VMAP)) e.fn = program_vmap(o, e.m, e.fn);
    struct compile_options options = {
        .passes = { .without = o->without,
                    .strict = option_on(o, O_STRICT),
                    .report = note_pass,
                    .report_ctx = &e },
        .threads = o->threads,
        .no_cache = option_on(o, O_NO_CACHE),
        .keep_lp = true,
        .keep_ir_text = option_on(o, O_LLVM),
        .keep_machine_text = option_on(o, O_ASM),
    };
    options.over = fn_updates(&o->bag.arena, module_fn(e.m, e.fn));
    hop_cleanup_push(drop_texts, &e.report);
    e.exe = exe_compile(e.m, e.fn, &options, &e.report);
    hop_cleanup_push(exe_free, e.exe);
    struct text out = { .arena = &o->bag.arena };
    option_on(o, O_JSON) ? explain_json(&out, &e) : explain_text(&out, &e);
    fwrite(out.data, 1, out.len, stdout);
    hop_cleanup_pop(e.exe);
    exe_free(e.exe);
    hop_cleanup_pop(&e.report);
    drop_texts(&e.report);
    hop_cleanup_pop(e.m);
    module_free(e.m);
    return EXIT_OK;
}
