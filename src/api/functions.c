/* Functions as seen from C: captured, read from text, printed, asked about, called from other captures. */
#include "api/api.h"
#include "interp/interp.h"
#include "ir/text.h"

/* ---- capture ---- */

struct capture_args {
    hop_fn **out;
    hop_place at;
    struct capture_header header;
    int n_results;
    hop_body body;
    void *env;
};

static hop_fn *captured_fn(const struct captured *made)
{
    struct shared_module *shared = shared_new(made->m);
    hop_cleanup_push(shared_free, shared);
    hop_fn *f = fn_new(shared, made->fn);
    f->remarks = made->remarks; /* the module stays as long as the handle */
    f->around = made->around;
    f->n_around = made->n_around;
    hop_cleanup_pop(shared);
    shared_free(shared);
    return f;
}

static void do_capture(void *args)
{
    const struct capture_args *a = args;
    struct captured made;
    check_place(a->out, "capture");
    capture_function(a->at, &a->header, a->n_results, a->body, a->env, &made);
    *a->out = captured_fn(&made);
}

int hop_capture_at(hop_place at, hop_fn **out, const char *params, int n_results, hop_body body, void *env)
{
    struct capture_args a = { out, at, { params, NULL, -1 }, n_results, body, env };
    return (int)api_edge(do_capture, &a);
}

int hop_capture_params_at(hop_place at, hop_fn **out, const char *name, const hop_param *params, int n_params,
                          int n_results, hop_body body, void *env)
{
    struct capture_args a = { out, at, { name, params, n_params }, n_results, body, env };
    if (n_params < 0) return hop_fail_at(at, "capture: the number of parameters is negative");
    return (int)api_edge(do_capture, &a);
}

struct cut_args {
    hop_place at;
    const hop_val *values;
    int n;
    hop_fn *made;
    struct capture *of;
};

static void do_cut(void *args)
{
    struct cut_args *a = args;
    struct captured made;
    if (a->n < 0 || (a->n && !a->values)) hop_throw(HOP_INVALID, "cut: expected values, found NULL");
    a->of = capture_cut(a->at, a->values, (uint32_t)a->n, &made);
    a->made = captured_fn(&made);
}

int hop_cut_at(hop_place at, const hop_val *values, int n, int (*run)(void *env, hop_fn *part), void *env)
{
    struct cut_args a = { at, values, n, NULL, NULL };
    if (!run) return hop_fail_at(at, "cut: expected a function that runs the part, found NULL");
    if (hop_failed()) return hop_failed();
    int status = (int)api_edge(do_cut, &a);
    if (status) {
        if (capture_current()) capture_note(capture_current(), status);
        return status;
    }
    struct capture *inside = capture_switch(a.of->outer);
    status = run(env, a.made);
    capture_switch(inside);
    hop_fn_free(a.made);
    return status;
}

/* ---- text ---- */

struct read_args {
    hop_fn **out;
    const char *text, *name;
};

static void do_read(void *args)
{
    const struct read_args *a = args;
    check_place(a->out, "read");
    if (!a->text) hop_throw(HOP_INVALID, "read: expected a program, found NULL");
    struct module *m = text_read("text", a->text, strlen(a->text));
    struct shared_module *shared = shared_new(m);
    hop_cleanup_push(shared_free, shared);
    uint32_t fn = a->name ? module_find(m, a->name) : HOP_NONE;
    if (!a->name)
        for (uint32_t i = 0; i < m->fns.len; i++)
            if (m->fns.data[i]->name) fn = i;
    if (fn == HOP_NONE) {
        char known[512] = "";
        for (uint32_t i = 0; i < m->fns.len; i++)
            if (m->fns.data[i]->name)
                snprintf(known + strlen(known), sizeof known - strlen(known), "%s@%s",
                         *known ? ", " : "; it has ", module_text(m, m->fns.data[i]->name));
        hop_throw(HOP_INVALID, "the program has no function%s%s%s", a->name ? " @" : "",
                  a->name ? a->name : "", known);
    }
    *a->out = fn_new(shared, fn);
    hop_cleanup_pop(shared);
    shared_free(shared);
}

hop_status hop_fn_read(hop_fn **out, const char *text, const char *name)
{
    struct read_args a = { out, text, name };
    return api_edge(do_read, &a);
}

struct text_args {
    hop_fn *f;
    int i;
    const char *text;
    uint8_t what;
};
enum { WHOLE_TEXT, PARAM_TYPE, RESULT_TYPE, REQUIREMENT };

static val visible_result(const struct hop_fn *f, const struct fn *g, int i)
{
    for (uint32_t k = 0; k < g->n_results; k++)
        if (f->map.updates[k] == HOP_NONE && !i--) return g->results[k];
    return VAL_NONE;
}

void fn_name(struct hop_fn *f)
{
    struct module *m = f->shared->m;
    const struct fn *g = module_fn(m, f->fn);
    if (!g->name) module_rename(m, f->fn, g->label ? module_text(m, g->label) : "f");
}

static void do_text(void *args)
{
    struct text_args *a = args;
    struct hop_fn *f = check_fn(a->f, "text");
    struct module *m = f->shared->m;
    const struct fn *g = module_fn(m, f->fn);
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    hop_cleanup_push(arena_free, &arena);
    if (a->what == WHOLE_TEXT && !f->text) {
        fn_name(f);
        text_print(m, f->fn, 0, &out);
        f->text = arena_string(&f->arena, out.data ? out.data : "", out.len);
    }
    if (a->what == REQUIREMENT) {
        if (a->i < 0 || (uint32_t)a->i >= g->n_required)
            hop_throw(HOP_INVALID, "the function has no requirement %d", a->i);
        dim_print(m, g->symbols, g->required[a->i].a, &out);
        text_str(&out, " == ");
        dim_print(m, g->symbols, g->required[a->i].b, &out);
    } else if (a->what != WHOLE_TEXT) {
        val v = VAL_NONE;
        if (a->i >= 0 && a->what == RESULT_TYPE) v = visible_result(f, g, a->i);
        else if (a->i >= 0 && (uint32_t)a->i < g->n_params) v = (val)a->i;
        if (v == VAL_NONE) hop_throw(HOP_INVALID, "the function has no such parameter or result: %d", a->i);
        type_print(m, g->symbols, value_type(g, v), &out);
    }
    a->text = a->what == WHOLE_TEXT ? f->text : arena_string(&f->arena, out.data, out.len);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

static const char *text_of(hop_fn *f, uint8_t what, int i)
{
    struct text_args a = { f, i, NULL, what };
    if (!f || f->magic != FN_MAGIC) return NULL;
    pthread_mutex_lock(&f->shared->lock);
    hop_status status = api_edge(do_text, &a);
    pthread_mutex_unlock(&f->shared->lock);
    return status ? NULL : a.text;
}

const char *hop_fn_remarks(const hop_fn *f)
{
    return f && f->magic == FN_MAGIC && f->remarks ? f->remarks : "";
}
const char *hop_fn_text(hop_fn *f) { return text_of(f, WHOLE_TEXT, 0); }
const char *hop_fn_param_type(hop_fn *f, int i) { return text_of(f, PARAM_TYPE, i); }
const char *hop_fn_result_type(hop_fn *f, int i) { return text_of(f, RESULT_TYPE, i); }

const char *hop_fn_require_text(hop_fn *f, int i) { return text_of(f, REQUIREMENT, i); }
int hop_fn_requires(const hop_fn *f)
{
    if (!f || f->magic != FN_MAGIC) return -1;
    pthread_mutex_lock(&f->shared->lock);
    int n = (int)module_fn(f->shared->m, f->fn)->n_required;
    pthread_mutex_unlock(&f->shared->lock);
    return n;
}

int hop_fn_params(const hop_fn *f) { return f ? (int)f->map.n_params : -1; }
int hop_fn_results(const hop_fn *f) { return f ? (int)f->map.n_visible : -1; }

const char *hop_fn_param_name(const hop_fn *f, int i)
{
    if (!f || i < 0 || (uint32_t)i >= f->map.n_params) return "";
    pthread_mutex_lock(&f->shared->lock);
    const char *name = module_text(f->shared->m, module_fn(f->shared->m, f->fn)->values[i].name);
    pthread_mutex_unlock(&f->shared->lock);
    return name;
}

const char *hop_fn_name(const hop_fn *f)
{
    if (!f || f->magic != FN_MAGIC) return "";
    pthread_mutex_lock(&f->shared->lock);
    const char *name = module_text(f->shared->m, fn_label(module_fn(f->shared->m, f->fn)));
    pthread_mutex_unlock(&f->shared->lock);
    return name;
}

/* How many declared sizes there are, and the name of the one at i, "" when there is none. */
static int declared_dims(const hop_fn *f, int i, const char **name)
{
    int n = 0;
    *name = "";
    if (!f || f->magic != FN_MAGIC) return -1;
    pthread_mutex_lock(&f->shared->lock);
    const struct fn *g = module_fn(f->shared->m, f->fn);
    for (uint32_t k = 0; k < g->n_outer_symbols; k++) {
        if (g->symbols[k].origin != SYMBOL_DIM) continue;
        if (n == i) *name = module_text(f->shared->m, g->symbols[k].name);
        n++;
    }
    pthread_mutex_unlock(&f->shared->lock);
    return n;
}
int hop_fn_dims(const hop_fn *f)
{
    const char *name;
    return declared_dims(f, -1, &name);
}
const char *hop_fn_dim_name(const hop_fn *f, int i)
{
    const char *name;
    declared_dims(f, i, &name);
    return name;
}

int hop_fn_param_is_mut(const hop_fn *f, int i)
{
    for (uint32_t k = 0; f && k < f->map.n_results; k++)
        if (i >= 0 && f->map.updates[k] == (uint32_t)i) return 1;
    return 0;
}

/* ---- which arguments fit ---- */

static void unlock_module(void *shared) { pthread_mutex_unlock(&((struct shared_module *)shared)->lock); }

struct accept_args {
    hop_fn *f;
    hop_tensor *const *in;
    int n_in;
    const int64_t *dims;
};

static void do_accept(void *args)
{
    const struct accept_args *a = args;
    struct hop_fn *f = check_fn(a->f, "accepts");
    if (a->n_in != (int)f->map.n_params || (a->n_in && !a->in))
        hop_throw(HOP_INVALID, "the function takes %u arguments, given %d", f->map.n_params, a->n_in);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct shape_view *views = ARENA_NEW(&arena, struct shape_view, f->map.n_params);
    for (uint32_t p = 0; p < f->map.n_params; p++) {
        const struct tensor *t = check_tensor(a->in[p], "argument", (int)p);
        views[p] = shape_of(t);
    }
    module_lock(f->shared);
    hop_cleanup_push(unlock_module, f->shared);
    const struct fn *g = module_fn(f->shared->m, f->fn);
    int64_t *symbols = ARENA_ZNEW(&arena, int64_t, g->n_outer_symbols);
    bind_symbols(f->shared->m, g, views, a->dims, symbols);
    hop_cleanup_pop(f->shared);
    unlock_module(f->shared);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

hop_status hop_fn_accepts(hop_fn *f, hop_tensor *const *in, int n_in, const int64_t *dims)
{
    struct accept_args a = { f, in, n_in, dims };
    return api_edge(do_accept, &a);
}

/* ---- what programs need besides ---- */

struct keep_args {
    hop_fn *f;
    void *user;
    void (*release)(void *user);
};

static void do_keep(void *args)
{
    const struct keep_args *a = args;
    struct hop_fn *f = check_fn(a->f, "keep");
    if (!a->release) hop_throw(HOP_INVALID, "keep: expected a function that releases it, found NULL");
    module_lock(f->shared);
    hop_cleanup_push(unlock_module, f->shared);
    struct kept *k = hop_malloc(sizeof *k);
    *k = (struct kept){ 0, a->user, a->release };
    hop_cleanup_push(hop_free, k);
    module_keep(f->shared->m, k);
    hop_cleanup_pop(k);
    hop_cleanup_pop(f->shared);
    unlock_module(f->shared);
}

hop_status hop_fn_keep(hop_fn *f, void *user, void (*release)(void *user))
{
    struct keep_args a = { f, user, release };
    return api_edge(do_keep, &a);
}

/* The strongest of what it does; objects that it writes count as io. */
const char *hop_fn_effect(hop_fn *f)
{
    if (!f || f->magic != FN_MAGIC) return "";
    pthread_mutex_lock(&f->shared->lock);
    effect_set e = module_fn(f->shared->m, f->fn)->effects;
    pthread_mutex_unlock(&f->shared->lock);
    return effects_word(e);
}

/* ---- calls from other captures ---- */

struct call_fn_args {
    struct hop_fn *f;
    const hop_val *in;
    int n_in;
    hop_val *out;
    int n_out;
    const hop_call_options *options;
};

struct called_fn imported(struct emission *e, hop_fn *given, const char *what)
{
    struct hop_fn *f = check_fn(given, what);
    pthread_mutex_lock(&f->shared->lock);
    hop_cleanup_push(unlock_module, f->shared);
    uint32_t fn = import_function(e->b->m, f->shared->m, f->fn);
    hop_cleanup_pop(f->shared);
    unlock_module(f->shared);
    return (struct called_fn){ fn, f->around, f->n_around };
}

static void rule_call(struct emission *e)
{
    const struct call_fn_args *a = e->args;
    emit_call(e, imported(e, a->f, "call"), a->options);
}

int hop_call_fn_with_at(hop_place at, hop_val *results, int n_results, const hop_fn *f, const hop_val *in,
                        int n_in, const hop_call_options *options)
{
    struct call_fn_args a = { (struct hop_fn *)f, in, n_in, results, n_results, options };
    hop_val *all = results;
    bool live = f && f->magic == FN_MAGIC;
    const struct result_map *map = live ? &f->map : NULL;
    if (n_results < 0 || n_in < 0 || (n_results && !results) || (n_in && !in))
        return hop_fail_at(at, "call: expected arguments and a place for each result, found NULL");
    for (int i = 0; i < n_results; i++) results[i] = (hop_val){ 0, 0 };
    if (live && n_results != (int)map->n_visible)
        return hop_fail_at(at, "call: the number of results is not the function's");
    for (uint32_t k = 0; live && k < map->n_results && n_in == (int)map->n_params; k++)
        if (map->updates[k] != HOP_NONE && !is_variable(in[map->updates[k]])) {
            char text[128];
            snprintf(text, sizeof text,
                     "call: argument %u is updated by the function: expected an assignable array, found a "
                     "plain value",
                     map->updates[k]);
            return hop_fail_at(at, text);
        }
    /* Results that nobody sees stand among the others. */
    bool updates = live && map->n_results > map->n_visible;
    if (updates) {
        all = capture_room(at, "call", map->n_results);
        if (!all) return hop_failed();
    }
    int status = capture_emit(at, "call", rule_call, &a, in, n_in > 0 ? (uint32_t)n_in : 0, all,
                              live ? map->n_results : 0);
    for (uint32_t k = 0, visible = 0; k < (updates && !status ? map->n_results : 0); k++) {
        if (map->updates[k] == HOP_NONE) results[visible++] = all[k];
        else status = hop_assign_at(at, in[map->updates[k]], all[k]);
    }
    return status;
}

int hop_call_fn_at(hop_place at, hop_val *results, int n_results, const hop_fn *f, const hop_val *in,
                   int n_in)
{
    return hop_call_fn_with_at(at, results, n_results, f, in, n_in, NULL);
}

/* ---- calls with rules ---- */

static void rule_custom(struct emission *e)
{
    const hop_custom_spec *s = e->args;
    struct {
        hop_fn *fn;
        const char *what;
    } all[CUSTOM_RULES] = { { s->forward, "custom: forward" },
                            { s->backward, "custom: backward" },
                            { s->jvp, "custom: jvp" },
                            { s->batch, "custom: batch" } };
    struct called_fn rules[CUSTOM_RULES];
    for (int r = 0; r < CUSTOM_RULES; r++) {
        rules[r] = (struct called_fn){ HOP_NONE, NULL, 0 };
        if (all[r].fn) rules[r] = imported(e, all[r].fn, all[r].what);
    }
    struct attr attrs[CUSTOM_ATTRS] = { 0 };
    if (s->gives) {
        uint32_t *list = ARENA_NEW(&e->b->arena, uint32_t, (uint32_t)s->n_gives);
        for (int i = 0; i < s->n_gives; i++) list[i] = (uint32_t)s->gives[i];
        attrs[CUSTOM_GIVES] = A_INTS(list, (uint32_t)s->n_gives);
    }
    if (s->n_closed) attrs[CUSTOM_CLOSED] = A_INT(s->n_closed);
    if (s->tangent_of_body) attrs[CUSTOM_TANGENT] = A_WORD(TANGENT_BODY);
    if (s->no_derivatives) attrs[CUSTOM_TANGENT] = A_WORD(TANGENT_NONE);
    attrs[CUSTOM_ASKS] = A_FLAG(s->asks != 0);
    emit_custom(e, imported(e, s->body, "custom: body"), rules, attrs);
}

int hop_custom_at(hop_place at, hop_val *results, int n_results, const hop_custom_spec *spec)
{
    if (!spec || n_results < 0 || (n_results && !results) || spec->n_in < 0 || (spec->n_in && !spec->in))
        return hop_fail_at(at, "custom: expected a specification, arguments and a place for each result, "
                               "found NULL");
    for (int i = 0; i < n_results; i++) results[i] = (hop_val){ 0, 0 };
    if (!spec->body) return hop_fail_at(at, "custom: expected a body, found NULL");
    if (spec->n_gives < 0 || spec->n_closed < 0) return hop_fail_at(at, "custom: a count is negative");
    const hop_fn *all[] = { spec->body, spec->forward, spec->backward, spec->jvp, spec->batch };
    for (size_t i = 0; i < HOP_COUNT(all); i++)
        if (all[i] && all[i]->magic == FN_MAGIC && all[i]->map.n_results > all[i]->map.n_visible)
            return hop_fail_at(at,
                               "custom: a function of it updates an argument, which is not possible here");
    return capture_emit(at, "custom", rule_custom, spec, spec->in, (uint32_t)spec->n_in, results,
                        (uint32_t)n_results);
}
