/* Compiling functions: into executables, and into texts for people, programs and C compilers. */
#include "api/api.h"
#include "emit/c99.h"
#include "runtime/explain.h"
#include "runtime/profile.h"

/* ---- what is asked for ---- */

static uint32_t passes_without(const char *text)
{
    struct cursor c = cursor_over(text, "the passes to leave out", NULL, NULL);
    uint32_t mask = 0;
    cursor_space(&c);
    for (bool first = true; *c.p; first = false) {
        const char *word;
        size_t length;
        char name[32];
        uint32_t pass;
        if (!first) cursor_expect(&c, ",");
        if (!cursor_word(&c, &word, &length) || length >= sizeof name) cursor_error(&c, "the name of a pass");
        memcpy(name, word, length);
        name[length] = 0;
        if (!switch_from_name(name, &pass)) hop_throw(HOP_INVALID, "there is no pass '%s'", name);
        mask |= 1u << pass;
    }
    return mask;
}

/* The parameter at the cursor: by name, or by number. *p: where the last one was found. */
static const char *read_param(struct cursor *c, struct hop_fn *f, const char *option, uint32_t *p)
{
    const struct module *m = f->shared->m;
    const struct fn *g = module_fn(m, f->fn);
    const char *word;
    size_t length;
    int64_t number;
    if (cursor_integer(c, &number)) {
        if (number < 0 || number >= g->n_params)
            hop_throw(HOP_INVALID, "%s: there is no parameter %lld", option, (long long)number);
        *p = (uint32_t)number;
        return fn_param_name(m, g, *p);
    }
    if (!cursor_word(c, &word, &length)) cursor_error(c, "the name of a parameter");
    /* Names most often come in order: the next one is near. */
    for (uint32_t tried = 0; tried < g->n_params; tried++, *p = (*p + 1) % g->n_params) {
        const char *name = module_text(m, g->values[*p].name);
        if (strlen(name) == length && !memcmp(name, word, length)) return name;
    }
    hop_throw(HOP_INVALID, "%s: there is no parameter '%.*s'", option, (int)HOP_MIN(length, 100u), word);
}

static bool is_updated(const struct hop_fn *f, uint32_t p)
{
    bool updated = false;
    for (uint32_t k = 0; k < f->map.n_results; k++) updated |= f->map.updates[k] == p;
    return updated;
}

/* Parameters that the text lists, none of which a run updates: `why` not. */
static uint8_t *listed_params(struct arena *a, struct hop_fn *f, const char *option, const char *text,
                              const char *why)
{
    uint8_t *listed = ARENA_ZNEW(a, uint8_t, f->map.n_params);
    struct cursor c = { .text = text, .p = text, .what = arena_printf(a, "the parameters of %s", option) };
    uint32_t p = 0;
    cursor_space(&c);
    for (bool first = true; *c.p; first = false) {
        if (!first) cursor_expect(&c, ",");
        const char *name = read_param(&c, f, option, &p);
        if (is_updated(f, p))
            hop_throw(HOP_INVALID, "%s: the parameter '%.100s' is updated: %s", option, name, why);
        listed[p] = 1;
    }
    return listed;
}

static bool is_object(const struct hop_fn *f, uint32_t p)
{
    const struct module *m = f->shared->m;
    return type_is_object(m, value_type(module_fn(m, f->fn), p));
}

static void check_not_object(const struct hop_fn *f, uint32_t p, const char *option)
{
    const struct fn *g = module_fn(f->shared->m, f->fn);
    if (is_object(f, p))
        hop_throw(HOP_INVALID, "%s: the parameter '%.100s' is an object", option,
                  fn_param_name(f->shared->m, g, p));
}

/* "*": all that can be. */
static const uint8_t *constant_params(struct arena *a, struct hop_fn *f, const char *text,
                                      const uint8_t *donated)
{
    const struct fn *g = module_fn(f->shared->m, f->fn);
    bool all = !strcmp(text, "*");
    uint8_t *constant = listed_params(a, f, "constant", all ? "" : text, "it changes");
    for (uint32_t p = 0; p < g->n_params; p++) {
        bool given_away = donated && donated[p];
        if (constant[p] && given_away)
            hop_throw(HOP_INVALID, "constant: the parameter '%.100s' is donated: each run has another tensor",
                      fn_param_name(f->shared->m, g, p));
        if (all) constant[p] = !given_away && !is_updated(f, p);
        if (is_object(f, p)) constant[p] = false; /* nothing is computed from it */
    }
    return constant;
}

/* Which argument's memory each result should take: updates their own, others that of a donated argument of
 * the same type, in order. */
static uint32_t *wanted_memory(struct arena *a, struct hop_fn *f, const uint8_t *donated)
{
    const struct fn *g = module_fn(f->shared->m, f->fn);
    uint32_t *over = ARENA_NEW(a, uint32_t, g->n_results);
    for (uint32_t k = 0; k < g->n_results; k++) over[k] = f->map.updates[k];
    for (uint32_t p = 0; p < g->n_params && donated; p++)
        for (uint32_t k = 0; donated[p] && k < g->n_results; k++)
            if (over[k] == HOP_NONE && value_type(g, g->results[k]) == value_type(g, p)) {
                over[k] = p;
                break;
            }
    return over;
}

/* A request under way: the module is locked and may change, and somebody may end it. */
struct compilation {
    struct hop_fn *f;
    uint32_t fn;            /* f with its regions rewritten */
    struct arena arena;     /* the lists of the options */
    const uint8_t *donated; /* per parameter; NULL: none */
    struct compile_options options;
    struct hop_watch watch;
    const struct hop_watch *watch_before;
};

static void begin_compilation(struct compilation *c, hop_fn *f, const char *what,
                              const hop_compile_options *given)
{
    static const hop_compile_options defaults;
    const hop_compile_options *o = given ? given : &defaults;
    *c = (struct compilation){ .f = check_fn(f, what), .watch = { o->cancel, o->confirm, o->confirm_ctx } };
    c->options = (struct compile_options){
        .passes = { .without = passes_without(o->without),
                    .strict = o->strict != 0,
                    .profile = o->profile != 0 },
        .threads = o->threads > 0 ? (uint32_t)o->threads : 0,
        .no_cache = o->no_cache != 0,
        .soon = o->soon != 0,
        .backend = o->portable ? &executor_backend : NULL,
    };
    module_change(c->f->shared);
    hop_cleanup_push(module_changed, c->f->shared);
    c->watch_before = watch_begin(&c->watch);
    hop_cleanup_push(arena_free, &c->arena);
    if (o->donate) c->donated = listed_params(&c->arena, c->f, "donate", o->donate, "it stays the caller's");
    for (uint32_t p = 0; c->donated && p < c->f->map.n_params; p++)
        if (c->donated[p]) check_not_object(c->f, p, "donate");
    if (o->constant) c->options.constant.params = constant_params(&c->arena, c->f, o->constant, c->donated);
    c->options.over = wanted_memory(&c->arena, c->f, c->donated);
    c->fn = regions_rewritten(c->f->shared->m, c->f->fn, &c->options.rewritings);
}

static void end_compilation(struct compilation *c)
{
    hop_cleanup_pop(&c->arena);
    arena_free(&c->arena);
    watch_end(c->watch_before);
    hop_cleanup_pop(c->f->shared);
    module_changed(c->f->shared);
}

/* ---- executables ---- */

struct compile_args {
    hop_exe **out;
    hop_fn *f;
    const hop_compile_options *options;
};

void exe_drop(void *handle)
{
    struct hop_exe *e = handle;
    exe_free(e->e);
    hop_free(e->spare);
    for (uint32_t i = 0; i < e->n_kept; i++) kept_free(e->kept[i]);
    arena_free(&e->arena);
    e->magic = DEAD_MAGIC;
    handle_bury(e);
}

/* What of it the compiled program does. */
static void note_memory(struct hop_exe *e)
{
    uint32_t n;
    const struct lp_update *updates = exe_updates(e->e, &n);
    uint32_t *over = ARENA_NEW(&e->arena, uint32_t, e->map.n_results);
    uint8_t *taken = ARENA_ZNEW(&e->arena, uint8_t, e->map.n_params);
    for (uint32_t k = 0; k < e->map.n_results; k++) over[k] = HOP_NONE;
    for (uint32_t i = 0; i < n; i++) {
        if (updates[i].elsewhere) continue;
        over[updates[i].result] = updates[i].param;
        taken[updates[i].param] = 1;
    }
    e->over = over;
    e->taken = taken;
}

static void keep_all(struct hop_exe *e, struct kept *const *kept, uint32_t n)
{
    e->kept = ARENA_NEW(&e->arena, struct kept *, n);
    for (; e->n_kept < n; e->n_kept++) e->kept[e->n_kept] = kept_ref(kept[e->n_kept]);
}

struct hop_exe *exe_again(const struct hop_exe *e)
{
    struct hop_exe *again = hop_calloc(1, sizeof *again);
    again->magic = EXE_MAGIC;
    hop_cleanup_push(exe_drop, again);
    copy_map(&again->arena, &e->map, &again->map);
    again->effects = e->effects;
    if (e->donated) again->donated = arena_copy(&again->arena, e->donated, e->map.n_params);
    keep_all(again, e->kept, e->n_kept);
    again->e = exe_ref(e->e);
    note_memory(again);
    hop_cleanup_pop(again);
    return again;
}

static void do_compile(void *args)
{
    const struct compile_args *a = args;
    struct compilation c;
    check_place(a->out, "compile");
    struct hop_exe *e = hop_calloc(1, sizeof *e);
    e->magic = EXE_MAGIC;
    hop_cleanup_push(exe_drop, e);
    begin_compilation(&c, a->f, "compile", a->options);
    copy_map(&e->arena, &c.f->map, &e->map);
    if (c.donated) e->donated = arena_copy(&e->arena, c.donated, e->map.n_params);
    keep_all(e, c.f->shared->m->kept.data, c.f->shared->m->kept.len);
    e->effects = module_fn(c.f->shared->m, c.fn)->effects;
    e->e = exe_compile(c.f->shared->m, c.fn, &c.options, NULL);
    note_memory(e);
    end_compilation(&c);
    hop_cleanup_pop(e);
    if (__atomic_load_n(&handles_noted, __ATOMIC_RELAXED))
        handle_note(e, "executable of '%s'", exe_name(e->e));
    *a->out = e;
}

hop_status hop_compile(hop_exe **out, hop_fn *f, const hop_compile_options *options)
{
    struct compile_args a = { out, f, options };
    return api_edge(do_compile, &a);
}

void hop_exe_free(hop_exe *exe)
{
    if (exe && exe->magic == EXE_MAGIC) exe_drop(exe);
}

struct kept_args {
    hop_kept *out;
    hop_exe *exe;
};

static void do_refresh(void *args)
{
    const struct kept_args *a = args;
    exe_refresh(check_exe(a->exe)->e);
}

hop_status hop_exe_refresh(hop_exe *exe)
{
    struct kept_args a = { NULL, exe };
    return api_edge(do_refresh, &a);
}

static void do_kept(void *args)
{
    const struct kept_args *a = args;
    check_place(a->out, "kept");
    struct exe_kept kept = exe_kept(check_exe(a->exe)->e);
    *a->out = (hop_kept){ .values = kept.values, .bytes = kept.bytes, .made = kept.runs };
}

hop_status hop_exe_kept(hop_kept *out, hop_exe *exe)
{
    struct kept_args a = { out, exe };
    return api_edge(do_kept, &a);
}

/* ---- explanations ---- */

struct explain_args {
    char **out;
    hop_fn *f;
    const hop_compile_options *options;
    const char *form;
};

static void do_explain(void *args)
{
    const struct explain_args *a = args;
    struct compilation c;
    check_place(a->out, "explain");
    const char *form = a->form ? a->form : "short";
    bool all = !strcmp(form, "all"), json = !strcmp(form, "json");
    if (!all && !json && strcmp(form, "short"))
        hop_throw(HOP_INVALID, "explain: expected 'short', 'all' or 'json', found '%.100s'", form);
    begin_compilation(&c, a->f, "explain", a->options);
    fn_name(c.f);
    struct text out = { .arena = &c.arena };
    explain_function(c.f->shared->m, c.fn,
                     &(struct explain_options){
                         .compile = c.options, .kept = c.f->kept, .saved = all, .json = json },
                     &out);
    *a->out = text_given(&out);
    end_compilation(&c);
}

hop_status hop_explain(char **out, hop_fn *f, const hop_compile_options *options, const char *form)
{
    struct explain_args a = { out, f, options, form };
    return api_edge(do_explain, &a);
}

/* ---- profiles ---- */

struct profile_args {
    hop_profile **out;
    hop_exe *exe;
    double interval;
    hop_profile *profile;
    char **text;
    const char *form;
};

static struct hop_profile *check_profile(hop_profile *p)
{
    if (!p) hop_throw(HOP_INVALID, "profile: the profile is NULL");
    if (p->magic != PROFILE_MAGIC) hop_throw(HOP_INVALID, "profile: the profile has been freed");
    return p;
}

static void do_profile_start(void *args)
{
    const struct profile_args *a = args;
    check_place(a->out, "profile");
    struct hop_exe *exe = check_exe(a->exe);
    struct hop_profile *p = hop_calloc(1, sizeof *p);
    hop_cleanup_push(hop_free, p);
    p->magic = PROFILE_MAGIC;
    p->p = profile_start(exe->e, a->interval > 0 ? a->interval : 0);
    hop_cleanup_pop(p);
    *a->out = p;
}

hop_status hop_profile_start(hop_profile **out, hop_exe *exe, double interval)
{
    struct profile_args a = { .out = out, .exe = exe, .interval = interval };
    return api_edge(do_profile_start, &a);
}

static void do_profile_stop(void *args)
{
    const struct profile_args *a = args;
    profile_stop(check_profile(a->profile)->p);
}

hop_status hop_profile_stop(hop_profile *profile)
{
    struct profile_args a = { .profile = profile };
    return api_edge(do_profile_stop, &a);
}

static void do_profile_text(void *args)
{
    const struct profile_args *a = args;
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    check_place(a->text, "profile");
    struct hop_profile *p = check_profile(a->profile);
    hop_cleanup_push(arena_free, &arena);
    profile_text(p->p, a->form ? a->form : "table", &out);
    *a->text = text_given(&out);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

hop_status hop_profile_text(char **out, hop_profile *profile, const char *form)
{
    struct profile_args a = { .text = out, .profile = profile, .form = form };
    return api_edge(do_profile_text, &a);
}

void hop_profile_free(hop_profile *profile)
{
    if (!profile || profile->magic != PROFILE_MAGIC) return;
    profile_free(profile->p);
    profile->magic = DEAD_MAGIC;
    handle_bury(profile);
}

/* ---- texts ---- */

struct emit_args {
    char **out;
    hop_fn *f;
    const char *kind;
    const hop_emit_options *options;
};

static void free_texts(void *report)
{
    struct compile_report *r = report;
    free(r->ir_text);
    free(r->machine_text);
}

/* Names of the n that are not left out, in order; NULL for those that are not named. left_out: per place
 * HOP_NONE, or something else where there is no name; NULL: nowhere. */
static const char **names_of(struct compilation *c, const char *what, const char *text, uint32_t n,
                             const uint32_t *left_out)
{
    const char **names = ARENA_ZNEW(&c->arena, const char *, n);
    struct cursor at = { .text = text, .p = text, .what = arena_printf(&c->arena, "the names of %s", what) };
    uint32_t k = 0, named = 0;
    cursor_space(&at);
    for (bool first = true; *at.p; first = false) {
        const char *word;
        size_t length;
        if (!first) cursor_expect(&at, ",");
        if (!cursor_word(&at, &word, &length)) cursor_error(&at, "a name");
        while (left_out && k < n && left_out[k] != HOP_NONE) k++;
        if (k == n) hop_throw(HOP_INVALID, "emit: the function has %u %s, found more names", named, what);
        names[k++] = arena_string(&c->arena, word, length);
        named++;
    }
    return names;
}

/* The constants as they are written: row-major, of the parameters' types. */
static const struct tensor *const *constants_of(struct compilation *c, const hop_tensor *const *given)
{
    const struct module *m = c->f->shared->m;
    const struct fn *g = module_fn(m, c->f->fn);
    struct tensor **out = ARENA_ZNEW(&c->arena, struct tensor *, g->n_params);
    for (uint32_t p = 0; p < g->n_params; p++) {
        if (!given[p]) continue;
        const char *name = module_text(m, g->values[p].name);
        check_not_object(c->f, p, "emit: a constant");
        struct tensor *t = tensor_of(given[p]);
        struct type expected = type_get(m, value_type(g, p));
        bool fits = t->dtype == expected.dtype && t->rank == expected.rank;
        for (uint32_t d = 0; fits && d < t->rank; d++)
            fits = dim_is_const(m, expected.dims[d]) && dim_const_value(m, expected.dims[d]) == t->dims[d];
        if (!fits) {
            struct text found = { .arena = &c->arena };
            for (uint32_t d = 0; d < t->rank; d++)
                text_add(&found, d ? ", %lld" : "%lld", (long long)t->dims[d]);
            hop_throw(HOP_INVALID, "emit: the constant of parameter %u %s: expected %s, found %s[%s]", p,
                      name, type_text(m, g->symbols, value_type(g, p)), dtype_info[t->dtype].name,
                      found.len ? found.data : "");
        }
        for (uint32_t k = 0; k < c->f->map.n_results; k++)
            if (c->f->map.updates[k] == p)
                hop_throw(HOP_INVALID, "emit: parameter %u %s is updated, it cannot be a constant", p, name);
        out[p] = tensor_contiguous(t);
        hop_cleanup_push(tensor_free, out[p]);
    }
    return (const struct tensor *const *)out;
}

static void free_constants(struct compilation *c, const struct tensor *const *constants)
{
    for (uint32_t p = c->f->map.n_params; p-- && constants;) {
        if (!constants[p]) continue;
        hop_cleanup_pop((void *)constants[p]);
        tensor_free((void *)constants[p]);
    }
}

static void emit_c(struct compilation *c, const hop_emit_options *o, bool header, struct text *out)
{
    const struct result_map *map = &c->f->map;
    struct text other = { .arena = &c->arena };
    struct c99_options options = {
        .name = o->name, .capacity = o->capacity, .constant = c->options.constant, .plain = o->plain != 0
    };
    if (o->results) options.results = names_of(c, "results", o->results, map->n_results, map->updates);
    if (o->params) options.params = names_of(c, "parameters", o->params, map->n_params, NULL);
    if (o->constants) options.constants = constants_of(c, o->constants);
    if (o->capacity < 0 || o->capacity > INT32_MAX)
        hop_throw(HOP_INVALID, "emit: capacity: expected a number of elements, found %lld",
                  (long long)o->capacity);
    c99_function(c->f->shared->m, c->fn, &c->options.passes, &options, o->header, header ? &other : out,
                 header ? out : &other);
    free_constants(c, options.constants);
}

static void emit_loops(struct compilation *c, const hop_emit_options *o, struct text *out)
{
    HOP_UNUSED(o);
    struct lp *p = lower_and_plan(c->f->shared->m, c->fn, &c->options.passes);
    hop_cleanup_push(lp_free, p);
    lp_print(p, out);
    hop_cleanup_pop(p);
    lp_free(p);
}

static void emit_native(struct compilation *c, bool machine, struct text *out)
{
    struct compile_report report = { 0 };
    c->options.backend = &llvm_backend;
    c->options.keep_ir_text = !machine;
    c->options.keep_machine_text = machine;
    hop_cleanup_push(free_texts, &report);
    exe_free(exe_compile(c->f->shared->m, c->fn, &c->options, &report));
    const char *made = machine ? report.machine_text : report.ir_text;
    text_str(out, made ? made : "");
    hop_cleanup_pop(&report);
    free_texts(&report);
}

static void emit_c_source(struct compilation *c, const hop_emit_options *o, struct text *out)
{
    emit_c(c, o, false, out);
}
static void emit_c_header(struct compilation *c, const hop_emit_options *o, struct text *out)
{
    emit_c(c, o, true, out);
}
static void emit_llvm(struct compilation *c, const hop_emit_options *o, struct text *out)
{
    HOP_UNUSED(o);
    emit_native(c, false, out);
}
static void emit_assembly(struct compilation *c, const hop_emit_options *o, struct text *out)
{
    HOP_UNUSED(o);
    emit_native(c, true, out);
}

static const struct {
    const char *word;
    void (*emit)(struct compilation *c, const hop_emit_options *o, struct text *out);
} kinds[] = { { "c", emit_c_source },
              { "header", emit_c_header },
              { "loops", emit_loops },
              { "llvm", emit_llvm },
              { "asm", emit_assembly } };

static void do_emit(void *args)
{
    const struct emit_args *a = args;
    static const hop_emit_options defaults;
    const hop_emit_options *o = a->options ? a->options : &defaults;
    const char *word = a->kind ? a->kind : "";
    check_place(a->out, "emit");
    uint32_t kind = 0;
    while (kind < HOP_COUNT(kinds) && strcmp(word, kinds[kind].word)) kind++;
    if (kind == HOP_COUNT(kinds))
        hop_throw(HOP_INVALID, "emit: expected 'c', 'header', 'loops', 'llvm' or 'asm', found '%.100s'",
                  word);
    struct compilation c;
    begin_compilation(&c, a->f, "emit", o->compile);
    fn_name(c.f);
    struct text out = { .arena = &c.arena };
    kinds[kind].emit(&c, o, &out);
    *a->out = text_given(&out);
    end_compilation(&c);
}

hop_status hop_emit(char **out, hop_fn *f, const char *kind, const hop_emit_options *options)
{
    struct emit_args a = { out, f, kind, options };
    return api_edge(do_emit, &a);
}
