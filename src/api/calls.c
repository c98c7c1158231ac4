/* Running functions: by the interpreter, compiled, eagerly; and what a run does with the arguments it writes.
 */
#include "api/arguments.h"
#include "interp/interp.h"
#include "runtime/ranks.h"
#include "runtime/blas.h"
#include "runtime/pool.h"

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

static void set_call(struct call *c, const struct result_map *map, const struct run_args *a)
{
    c->map = map;
    c->in = a->in;
    c->out = a->out;
    c->over = NULL;
    c->taken = NULL;
    c->donated = NULL;
    c->ranks = false;
    c->keep = false;
    c->spare = NULL;
}

static void unlock_module(void *shared) { pthread_mutex_unlock(&((struct shared_module *)shared)->lock); }

/* ---- what may end a call ---- */

static void watch_restore(void *before) { hop_watch_set(before); }

const struct hop_watch *watch_begin(const struct hop_watch *w)
{
    const struct hop_watch *before = w->cancel ? hop_watch_set(w) : hop_watch_get();
    hop_cleanup_push(watch_restore, (void *)before);
    return before;
}

void watch_end(const struct hop_watch *before)
{
    hop_cleanup_pop((void *)before);
    hop_watch_set(before);
}

void hop_cancel_by(const volatile int *cancel, int (*confirm)(void *ctx), void *ctx)
{
    static _Thread_local struct hop_watch mine;
    mine = (struct hop_watch){ cancel, confirm, ctx };
    hop_watch_set(cancel ? &mine : NULL);
}

static struct tensor *copy_of(const struct tensor *t)
{
    struct tensor *copy = tensor_new((enum dtype)t->dtype, t->rank, t->dims);
    tensor_copy_elements(copy, t);
    return copy;
}

/* The interpreter may give out an argument, or one tensor twice; the caller gets tensors of his own. */
static void own_results(struct call *c)
{
    for (uint32_t k = 0; k < c->map->n_results; k++) {
        struct tensor *t = c->results[k];
        bool shared = false;
        for (uint32_t p = 0; p < c->map->n_params; p++) shared |= t == c->args[p];
        for (uint32_t j = 0; j < k; j++) shared |= t == c->results[j];
        if (!shared || tensor_is_object(t)) continue;
        c->results[k] = copy_of(t);
        tensor_free(t);
    }
}

static void do_interpret(void *args)
{
    const struct run_args *a = args;
    struct hop_fn *f = check_fn(a->f, "interpret");
    struct call c;
    set_call(&c, &f->map, a);
    c.keep = true; /* it makes its own results */
    c.ranks = f->shared->m->meshes.len > 0;
    begin_call(&c, a->n_in, a->n_out);
    const hop_run_options *o = a->options;
    struct interp interp = { .m = f->shared->m,
                             .ranks = &interp_on_ranks,
                             .print = o ? o->print : NULL,
                             .print_ctx = o ? o->print_ctx : NULL };
    struct hop_watch watch = { 0 };
    if (o) watch = (struct hop_watch){ o->cancel, o->confirm, o->confirm_ctx };
    module_lock(f->shared);
    hop_cleanup_push(unlock_module, f->shared);
    const struct hop_watch *before = watch_begin(&watch);
    uint64_t versions;
    uint32_t fn = regions_rewritten(f->shared->m, f->fn, &versions);
    interp_run(&interp, fn, c.args, o ? o->dims : NULL, c.results);
    own_results(&c);
    watch_end(before);
    hop_cleanup_pop(f->shared);
    unlock_module(f->shared);
    end_call(&c);
}

hop_status hop_interpret_with(hop_fn *f, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out,
                              const hop_run_options *options)
{
    struct run_args a = { .f = f, .in = in, .n_in = n_in, .out = out, .n_out = n_out, .options = options };
    return api_edge(do_interpret, &a);
}
hop_status hop_interpret(hop_fn *f, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out)
{
    return hop_interpret_with(f, in, n_in, out, n_out, NULL);
}

/* ---- executables ---- */

static void set_memory(struct call *c, const struct hop_exe *e, const hop_run_options *o)
{
    c->over = e->over;
    c->taken = e->taken;
    c->donated = e->donated;
    c->ranks = exe_on_ranks(e->e);
    c->keep = (o && o->keep) || c->ranks;
    c->spare = (void **)&e->spare;
}

static void do_run(void *args)
{
    const struct run_args *a = args;
    struct hop_exe *e = check_exe(a->e);
    const hop_run_options *o = a->options;
    struct exe_call how = { 0 };
    if (o) {
        how.print = o->print;
        how.print_ctx = o->print_ctx;
        how.cancel = o->cancel;
        how.confirm = o->confirm;
        how.confirm_ctx = o->confirm_ctx;
        how.workspace = o->workspace;
        how.workspace_bytes = o->workspace_bytes;
    }
    struct call c;
    set_call(&c, &e->map, a);
    set_memory(&c, e, o);
    begin_call(&c, a->n_in, a->n_out);
    how.given = (struct tensor *const *)c.in; /* a handle is the tensor itself */
    exe_run(e->e, c.args, o ? o->dims : NULL, c.results, &how);
    end_call(&c);
}

hop_status hop_run_with(hop_exe *exe, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out,
                        const hop_run_options *options)
{
    struct run_args a = { .e = exe, .in = in, .n_in = n_in, .out = out, .n_out = n_out, .options = options };
    return api_edge(do_run, &a);
}
hop_status hop_run(hop_exe *exe, hop_tensor *const *in, int n_in, hop_tensor **out, int n_out)
{
    return hop_run_with(exe, in, n_in, out, n_out, NULL);
}

static void do_workspace(void *args)
{
    const struct run_args *a = args;
    struct hop_exe *e = check_exe(a->e);
    struct arena arena = { 0 };
    check_counts(&e->map, a->n_in, (int)e->map.n_visible);
    check_lists(a->in, a->n_in, NULL, 0);
    check_place(a->bytes, "workspace");
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

/* ---- what becomes of written arguments ---- */

struct explain_args {
    struct run_args run;
    char *text;
};

static void explain_argument(const struct hop_exe *e, const struct call *c, uint32_t p, struct arena *arena,
                             struct text *out)
{
    uint32_t n, result = HOP_NONE;
    const struct lp_update *updates = exe_updates(e->e, &n), *u = NULL;
    for (uint32_t i = 0; i < n; i++)
        if (updates[i].param == p && (!u || u->elsewhere)) u = &updates[i];
    for (uint32_t k = 0; k < e->map.n_results; k++)
        if (e->map.updates[k] == p) result = k;
    bool donated = e->donated && e->donated[p];
    if (!donated && result == HOP_NONE) return;
    const char *why = u && !u->elsewhere ? copy_reason(c, p, arena) : NULL;
    text_add(out, "argument %u, '%s', %s: ", p, exe_param_name(e->e, p), donated ? "donated" : "updated");
    if (!u) text_str(out, "freed, no result has its type");
    else if (u->elsewhere) text_add(out, "copied, %s", u->why);
    else if (why) text_add(out, "copied before the run, %s", why);
    else if (u->in_place) text_str(out, "in place");
    else text_add(out, "copied at the end, %s", u->why);
    text_str(out, "\n");
}

static void do_explain(void *args)
{
    struct explain_args *a = args;
    struct hop_exe *e = check_exe(a->run.e);
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    struct call c;
    hop_cleanup_push(arena_free, &arena);
    if (!a->run.out) {
        a->run.out = ARENA_ZNEW(&arena, hop_tensor *, e->map.n_visible);
        a->run.n_out = (int)e->map.n_visible;
    }
    set_call(&c, &e->map, &a->run);
    set_memory(&c, e, NULL);
    check_counts(&e->map, a->run.n_in, a->run.n_out);
    check_lists(a->run.in, a->run.n_in, a->run.out, a->run.n_out);
    for (int i = 0; i < a->run.n_in; i++) check_tensor(a->run.in[i], "argument", i);
    for (int i = 0; i < a->run.n_out; i++)
        if (a->run.out[i]) check_tensor(a->run.out[i], "result", i);
    c.meet = true;
    for (uint32_t p = 0; p < e->map.n_params; p++) explain_argument(e, &c, p, &arena, &out);
    a->text = text_given(&out);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

char *hop_explain_run(hop_exe *exe, hop_tensor *const *in, int n_in, hop_tensor *const *out, int n_out)
{
    struct explain_args a = {
        .run = { .e = exe, .in = in, .n_in = n_in, .out = (hop_tensor **)out, .n_out = n_out }
    };
    return api_edge(do_explain, &a) ? NULL : a.text;
}

const char *hop_blas(void) { return blas_description(); }

int hop_threads(void) { return (int)pool_threads(); }
int hop_set_threads(int threads) { return (int)pool_set_threads(threads > 0 ? (uint32_t)threads : 0); }

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

struct eager_results {
    struct tensor **list;
    int n;
};
static void drop_results(void *results)
{
    struct eager_results *r = results;
    for (int i = 0; i < r->n; i++) tensor_free(r->list[i]);
}

static void overwrite(struct tensor *to, const struct tensor *from)
{
    tensor_copy_elements(to, from);
    tensor_written(to);
}

/* What the body gave, to the caller: everything is made and checked before anything is handed out. */
static void hand_out_results(struct capture *c, const struct eager_args *a, const hop_val *out)
{
    struct eager_results made = { ARENA_ZNEW(&c->arena, struct tensor *, a->n_out), a->n_out };
    hop_cleanup_push(drop_results, &made);
    for (int i = 0; i < a->n_out; i++) {
        struct tensor *t = eager_materialise(c, out[i]);
        hop_cleanup_push(tensor_free, t);
        if (a->out[i]) same_type(t, tensor_of(a->out[i]), (uint32_t)i);
        made.list[i] = copy_of(t); /* it may be an argument, or another result */
        hop_cleanup_pop(t);
        tensor_free(t);
    }
    for (int i = 0; i < a->n_out; i++) {
        if (a->out[i]) continue;
        a->out[i] = tensor_handle(made.list[i]);
        made.list[i] = NULL;
    }
    for (int i = 0; i < a->n_out; i++)
        if (made.list[i]) overwrite(tensor_of(a->out[i]), made.list[i]);
    hop_cleanup_pop(&made);
    drop_results(&made);
}

static void run_eagerly(struct capture *c, void *args)
{
    const struct eager_args *a = args;
    struct scope *s = c->innermost;
    if (a->n_in < 0 || a->n_out < 0 || !a->body)
        capture_throw("expected a body and counts that are not negative");
    check_lists(a->in, a->n_in, a->out, a->n_out);
    hop_val *in = ARENA_NEW(&c->arena, hop_val, a->n_in), *out = ARENA_ZNEW(&c->arena, hop_val, a->n_out);
    bool *mut = ARENA_ZNEW(&c->arena, bool, a->n_in);
    for (int i = 0; i < a->n_in; i++) check_tensor(a->in[i], "argument", i);
    if (a->params) eager_header(c, a->params, a->in, a->n_in, mut);
    for (int i = 0; i < a->n_in; i++) {
        struct tensor *t = mut[i] ? copy_of(tensor_of(a->in[i])) : tensor_contiguous(tensor_of(a->in[i]));
        in[i] = mut[i] ? eager_variable_new(s, t) : eager_value(s, t);
    }
    hop_val *given = arena_copy(&c->arena, in,
                                (size_t)a->n_in * sizeof *in); /* the body may change its array */
    int status = a->body(a->env, given, out);
    if (c->status) hop_throw((hop_status)c->status, "%s", c->message);
    if (status) hop_throw((hop_status)status, "the body returned %d", status);
    hand_out_results(c, a, out);
    for (int i = 0; i < a->n_in; i++)
        if (mut[i]) overwrite(tensor_of(a->in[i]), c->variables.data[variable_index(c, in[i])].now);
}

int hop_eager_at(hop_place at, const char *params, hop_body body, void *env, hop_tensor *const *in, int n_in,
                 hop_tensor **out, int n_out)
{
    struct eager_args a = { params, body, env, in, n_in, out, n_out };
    int status = hop_eager_begin_at(at);
    if (status) return status;
    status = capture_edge(at, "eager", run_eagerly, &a);
    int end = hop_eager_end();
    return status ? status : end;
}
