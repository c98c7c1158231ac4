/* Running: tensors of the caller are made fit for a run (row-major, in the function's order, updates included) and given back after it; the interpreter
 * and executables share this. Compiling, and what an executable must keep. */
#include "api/api.h"
#include "interp/interp.h"

/* ---- a call's tensors ---- */

/* Most calls are small: their lists need no allocation. */
enum { SMALL_CALL = 48 };
struct run_call {
    const struct result_map *map;
    struct tensor **args;    /* row-major, owned references */
    struct tensor **results; /* per result of the function: given to the run, or made by it */
    bool *given;             /* results[k] is the caller's */
    void *block;
    struct tensor *small_tensors[SMALL_CALL];
    bool small_given[SMALL_CALL];
};

static void call_free(void *call)
{
    struct run_call *c = call;
    for (uint32_t p = 0; p < c->map->n_params; p++) tensor_free(c->args[p]);
    for (uint32_t k = 0; k < c->map->n_results; k++)
        if (!c->given[k]) tensor_free(c->results[k]);
    hop_free(c->block);
}

static void check_counts(const struct result_map *map, int n_in, int n_out)
{
    if (n_in < 0 || (uint32_t)n_in != map->n_params) hop_throw(HOP_INVALID, "the function takes %u argument%s, given %d", map->n_params, map->n_params == 1 ? "" : "s", n_in);
    if (n_out < 0 || (uint32_t)n_out != map->n_visible) hop_throw(HOP_INVALID, "the function has %u result%s, room given for %d", map->n_visible, map->n_visible == 1 ? "" : "s", n_out);
}

static void begin_call(struct run_call *c, const struct result_map *map, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out)
{
    uint32_t total = map->n_params + map->n_results;
    check_counts(map, n_in, n_out);
    for (int i = 0; i < n_in; i++) check_tensor(in[i], "argument", i);
    for (int i = 0; i < n_out; i++)
        if (out[i]) check_tensor(out[i], "result", i);
    *c = (struct run_call){ .map = map, .args = c->small_tensors, .given = c->small_given };
    if (total > SMALL_CALL) {
        c->block = hop_calloc(total, sizeof *c->args + sizeof *c->given);
        c->args = c->block;
        c->given = (bool *)(c->args + total);
    }
    c->results = c->args + map->n_params;
    hop_cleanup_push(call_free, c);
    for (uint32_t p = 0; p < map->n_params; p++) c->args[p] = tensor_contiguous(tensor_of(in[p]));
    for (uint32_t k = 0, visible = 0; k < map->n_results; k++) {
        struct tensor *t = map->updates[k] == HOP_NONE ? tensor_of(out[visible++]) : tensor_of(in[map->updates[k]]);
        if (!t || t->strides) continue;
        c->results[k] = t;
        c->given[k] = true;
    }
}

static void same_type(const struct tensor *t, const struct tensor *given, uint32_t k)
{
    bool same = t->dtype == given->dtype && t->rank == given->rank;
    for (uint32_t i = 0; same && i < t->rank; i++) same = t->dims[i] == given->dims[i];
    if (!same) hop_throw(HOP_INVALID, "result %u: the given tensor has another dtype, rank or size", k);
}

/* After the run. What was made is handed out, or copied to where the caller wants it. */
static void end_call(struct run_call *c, hop_tensor *const *in, hop_tensor **out)
{
    const struct result_map *map = c->map;
    for (int pass = 0; pass < 2; pass++) /* all are checked before any is written */
        for (uint32_t k = 0, visible = 0; k < map->n_results; k++) {
            hop_tensor **to = map->updates[k] == HOP_NONE ? &out[visible++] : NULL;
            struct tensor *want = to ? tensor_of(*to) : tensor_of(in[map->updates[k]]), *made = c->results[k];
            if (made == want || !made) continue;
            if (want && !pass) same_type(made, want, k);
            if (!pass) continue;
            if (want) {
                tensor_copy_elements(want, made);
                continue;
            }
            *to = tensor_handle(made);
            c->results[k] = NULL;
        }
    hop_cleanup_pop(c);
    call_free(c);
}

/* ---- the interpreter ---- */

struct run_args {
    hop_fn *f;
    hop_exe *e;
    hop_tensor *const *in;
    int n_in;
    hop_tensor **out;
    int n_out;
    const hop_run_options *options;
    size_t *bytes;
    const int64_t *dims;
};

static void unlock_module(void *shared) { pthread_mutex_unlock(&((struct shared_module *)shared)->lock); }

static void do_interpret(void *args)
{
    const struct run_args *a = args;
    struct hop_fn *f = check_fn(a->f, "interpret");
    struct run_call c;
    begin_call(&c, &f->map, a->in, a->n_in, a->out, a->n_out);
    for (uint32_t k = 0; k < f->map.n_results; k++) c.results[k] = NULL, c.given[k] = false; /* it makes its own */
    const hop_run_options *o = a->options;
    struct interp interp = { .m = f->shared->m, .print = o ? o->print : NULL, .print_ctx = o ? o->print_ctx : NULL };
    pthread_mutex_lock(&f->shared->lock);
    hop_cleanup_push(unlock_module, f->shared);
    interp_run(&interp, f->fn, c.args, o ? o->dims : NULL, c.results);
    hop_cleanup_pop(f->shared);
    unlock_module(f->shared);
    end_call(&c, a->in, a->out);
}

hop_status hop_interpret_with(hop_fn *f, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out, const hop_run_options *options)
{
    struct run_args a = { .f = f, .in = in, .n_in = n_in, .out = out, .n_out = n_out, .options = options };
    return api_edge(do_interpret, &a);
}
hop_status hop_interpret(hop_fn *f, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out) { return hop_interpret_with(f, in, n_in, out, n_out, NULL); }

/* ---- executables ---- */

struct compile_args {
    hop_exe **out;
    hop_fn *f;
    const hop_compile_options *options;
};

static uint32_t passes_without(const char *text)
{
    struct cursor c = { .text = text ? text : "", .p = text ? text : "", .what = "the passes to leave out" };
    uint32_t mask = 0;
    cursor_space(&c);
    for (bool first = true; *c.p; first = false) {
        const char *word;
        size_t length;
        char name[32];
        enum pass pass;
        if (!first) cursor_expect(&c, ",");
        if (!cursor_word(&c, &word, &length) || length >= sizeof name) cursor_error(&c, "the name of a pass");
        memcpy(name, word, length);
        name[length] = 0;
        if (!pass_from_name(name, &pass)) hop_throw(HOP_INVALID, "there is no pass '%s'", name);
        mask |= 1u << pass;
    }
    return mask;
}

static void exe_drop(void *handle)
{
    struct hop_exe *e = handle;
    exe_free(e->e);
    shared_free(e->shared);
    arena_free(&e->arena);
    e->magic = DEAD_MAGIC;
    handle_bury(e);
}

static void do_compile(void *args)
{
    const struct compile_args *a = args;
    struct hop_fn *f = check_fn(a->f, "compile");
    static const hop_compile_options defaults;
    const hop_compile_options *o = a->options ? a->options : &defaults;
    struct compile_options options = { .passes = { .without = passes_without(o->without), .strict = o->strict != 0 }, .threads = o->threads > 0 ? (uint32_t)o->threads : 0,
                                       .slow_executor = o->portable != 0 };
    struct hop_exe *e = hop_calloc(1, sizeof *e);
    e->magic = EXE_MAGIC;
    hop_cleanup_push(exe_drop, e);
    copy_map(&e->arena, &f->map, &e->map);
    if (options.slow_executor) e->shared = shared_ref(f->shared);
    pthread_mutex_lock(&f->shared->lock);
    hop_cleanup_push(unlock_module, f->shared);
    e->e = exe_compile(f->shared->m, f->fn, &options, NULL);
    hop_cleanup_pop(f->shared);
    unlock_module(f->shared);
    hop_cleanup_pop(e);
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

static void do_run(void *args)
{
    const struct run_args *a = args;
    struct hop_exe *e = check_exe(a->e);
    const hop_run_options *o = a->options;
    struct exe_call how = { 0 };
    if (o) how = (struct exe_call){ .print = o->print, .print_ctx = o->print_ctx, .cancel = o->cancel, .workspace = o->workspace, .workspace_bytes = o->workspace_bytes };
    struct run_call c;
    begin_call(&c, &e->map, a->in, a->n_in, a->out, a->n_out);
    if (e->shared) { /* the loop program lies in the module, which others may be changing */
        pthread_mutex_lock(&e->shared->lock);
        hop_cleanup_push(unlock_module, e->shared);
    }
    exe_run(e->e, c.args, o ? o->dims : NULL, c.results, &how);
    if (e->shared) {
        hop_cleanup_pop(e->shared);
        unlock_module(e->shared);
    }
    end_call(&c, a->in, a->out);
}

hop_status hop_run_with(hop_exe *exe, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out, const hop_run_options *options)
{
    struct run_args a = { .e = exe, .in = in, .n_in = n_in, .out = out, .n_out = n_out, .options = options };
    return api_edge(do_run, &a);
}
hop_status hop_run(hop_exe *exe, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out) { return hop_run_with(exe, in, n_in, out, n_out, NULL); }

static void do_workspace(void *args)
{
    const struct run_args *a = args;
    struct hop_exe *e = check_exe(a->e);
    struct arena arena = { 0 };
    check_counts(&e->map, a->n_in, (int)e->map.n_visible);
    for (int i = 0; i < a->n_in; i++) check_tensor(a->in[i], "argument", i);
    hop_cleanup_push(arena_free, &arena);
    struct tensor **in = ARENA_NEW(&arena, struct tensor *, a->n_in);
    for (int i = 0; i < a->n_in; i++) in[i] = tensor_of(a->in[i]);
    *a->bytes = exe_workspace(e->e, in, a->dims);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

hop_status hop_workspace(size_t *bytes, hop_exe *exe, hop_tensor *const *in, int n_in, const int64_t *dims)
{
    struct run_args a = { .e = exe, .in = in, .n_in = n_in, .bytes = bytes, .dims = dims };
    return api_edge(do_workspace, &a);
}

/* ---- eager mode ---- */

struct eager_args {
    const char *params;
    hop_body body;
    void *env;
    hop_tensor *const *in;
    int n_in;
    hop_tensor **out;
    int n_out;
};

static void run_eagerly(struct capture *c, void *args)
{
    const struct eager_args *a = args;
    struct scope *s = c->innermost;
    if (a->n_in < 0 || a->n_out < 0 || !a->body) capture_throw("expected a body and counts that are not negative");
    hop_val *in = ARENA_NEW(&c->arena, hop_val, a->n_in), *out = ARENA_ZNEW(&c->arena, hop_val, a->n_out);
    bool *mut = ARENA_ZNEW(&c->arena, bool, a->n_in);
    for (int i = 0; i < a->n_in; i++) check_tensor(a->in[i], "argument", i);
    if (a->params) eager_header(c, a->params, a->in, a->n_in, mut);
    for (int i = 0; i < a->n_in; i++) {
        struct tensor *t = tensor_contiguous(tensor_of(a->in[i]));
        in[i] = mut[i] ? eager_variable_new(s, t) : eager_value(s, t);
    }
    hop_val *given = arena_copy(&c->arena, in, (size_t)a->n_in * sizeof *in); /* the body may change its array */
    int status = a->body(a->env, given, out);
    if (c->status) hop_throw((hop_status)c->status, "%s", c->message);
    if (status) hop_throw((hop_status)status, "the body returned %d", status);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < a->n_out; i++) {
            struct tensor *t = eager_materialise(c, out[i]), *want = tensor_of(a->out[i]);
            hop_cleanup_push(tensor_free, t);
            if (want && !pass) same_type(t, want, (uint32_t)i);
            if (want && pass) tensor_copy_elements(want, t);
            if (!want && pass) a->out[i] = tensor_handle(tensor_ref(t));
            hop_cleanup_pop(t);
            tensor_free(t);
        }
    for (int i = 0; i < a->n_in; i++)
        if (mut[i]) tensor_copy_elements(tensor_of(a->in[i]), c->variables.data[variable_index(c, in[i])].now);
}

int hop_eager_at(hop_place at, const char *params, hop_body body, void *env, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out)
{
    struct eager_args a = { params, body, env, in, n_in, out, n_out };
    int status = hop_eager_begin_at(at);
    if (status) return status;
    status = capture_edge(at, "eager", run_eagerly, &a);
    int end = hop_eager_end();
    return status ? status : end;
}
