/* Executables. exe_compile is the compiler as a list of stages; what it leaves is a native entry, the
 * function's header in a module of its own, constants, and the places of all buffers. exe_run binds symbols,
 * lays out the buffers and calls the entry; whatever a run needs is kept and used again, so that repeated
 * runs do not allocate. */
#include "runtime/cache.h"
#include "runtime/exe_impl.h"
#include "interp/interp.h"
#include "ir/angle.h"
#include "loop/lower.h"
#include "ops/callbacks.h"
#include "ops/misc.h"
#include "runtime/blas.h"
#include "runtime/memory.h"
#include "runtime/pool.h"
#include "runtime/rt.h"
#include "runtime/worker.h"

#include <math.h>
#include <sys/auxv.h>
#include <time.h>

enum { KEPT_BYTES = 1 << 28, NOTE_SIZE = 3072 };

struct grown { /* memory of a BUF_DYN */
    void *block, *data;
    int64_t bytes;
};
/* One run in progress, or a spare one waiting. One block with its arrays. */
struct run {
    struct hop_rt rt;
    struct exe *e;
    void **buffers;
    int64_t *symbols, *slot_at;
    struct shape_view *views;        /* of the arguments that sizes were last worked out for */
    struct shape_view *result_views; /* of the results, for these */
    bool sized;                      /* both hold, and all temporaries have their places */
    struct tensor **fresh;           /* per result: made by this run and not yet handed out */
    struct grown *grown;             /* per BUF_DYN */
    void *block;                     /* the arena's, not aligned */
    int64_t block_bytes;
    bool borrowed; /* temporaries lie in a caller's workspace: their places must be found again */
    void (*print)(void *ctx, const char *line, size_t length);
    void *print_ctx;
    callback_taker *callback;
    void *callback_ctx;
    int (*confirm)(void *ctx);
    void *confirm_ctx;
    const void *thread; /* whose run it is, the one that confirm is called on */
    atomic_bool ended;  /* it is to end with HOP_CANCELLED */
    int told_status;    /* of a print or a callback that failed; `note` says why */
    atomic_bool noted;
    char note[NOTE_SIZE];
};

/* ---- the header, on its own ---- */

static dim copy_dim(struct module *to, const struct module *from, dim d)
{
    struct dim_node n = dim_get(from, d);
    dim r;
    switch ((enum dim_kind)n.kind) {
    case DIM_CONST: return dim_const(to, n.value);
    case DIM_SYMBOL: return dim_symbol(to, (uint32_t)n.value);
    case DIM_SUM:
        r = dim_const(to, n.value);
        for (uint32_t i = 0; i < n.n; i++)
            r = dim_add(to, r, dim_mul(to, dim_const(to, n.coefs[i]), copy_dim(to, from, n.args[i])));
        return r;
    case DIM_PRODUCT:
        r = dim_const(to, 1);
        for (uint32_t i = 0; i < n.n; i++) r = dim_mul(to, r, copy_dim(to, from, n.args[i]));
        return r;
    default: break;
    }
    static dim (*const make[])(struct module *, dim, dim) = {
        [DIM_FLOORDIV] = dim_floordiv, [DIM_MOD] = dim_mod, [DIM_MIN] = dim_min, [DIM_MAX] = dim_max
    };
    dim a = copy_dim(to, from, n.args[0]), b = copy_dim(to, from, n.args[1]);
    return make[n.kind](to, a, b);
}

static type_id copy_type(struct module *to, const struct module *from, type_id t)
{
    struct type type = type_get(from, t);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < type.rank; i++) dims[i] = copy_dim(to, from, type.dims[i]);
    return type_intern(to, (enum dtype)type.dtype, type.rank, dims);
}

static uint32_t copy_string(struct module *to, const struct module *from, uint32_t s)
{
    return module_string(to, module_text(from, s), strlen(module_text(from, s)));
}

static struct place copy_place(struct module *to, const struct module *from, struct place p)
{
    if (p.line) p.file = module_file(to, from->files.data[p.file]);
    return p;
}

static struct fn *copy_header(struct exe *e, const struct module *from, const struct fn *f)
{
    struct module *to = e->m;
    struct fn *h = ARENA_ZNEW(&e->arena, struct fn, 1);
    h->name = copy_string(to, from, f->name);
    h->n_params = f->n_params;
    h->n_results = f->n_results;
    h->n_values = f->n_params + f->n_results;
    h->n_symbols = f->n_symbols;
    h->n_outer_symbols = f->n_outer_symbols;
    h->n_requires = f->n_requires;
    h->effects = f->effects;
    h->values = ARENA_ZNEW(&e->arena, struct value, h->n_values);
    h->results = ARENA_NEW(&e->arena, val, h->n_results);
    h->symbols = ARENA_NEW(&e->arena, struct symbol, h->n_symbols);
    h->
        requires
    = ARENA_NEW(&e->arena, struct require, h->n_requires);
    for (uint32_t i = 0; i < h->n_values; i++) { /* results follow the parameters */
        const struct value *v = &f->values[i < f->n_params ? i : f->results[i - f->n_params]];
        h->values[i] = (struct value){ copy_type(to, from, v->type), NODE_NONE,
                                       copy_string(to, from, v->name) };
    }
    for (uint32_t i = 0; i < h->n_results; i++) h->results[i] = h->n_params + i;
    for (uint32_t i = 0; i < h->n_symbols; i++) {
        h->symbols[i] = f->symbols[i];
        h->symbols[i].name = copy_string(to, from, f->symbols[i].name);
    }
    for (uint32_t i = 0; i < h->n_requires; i++)
    h->
        requires[
                i] = (struct require){ copy_dim(to, from, f->requires[i].a),
                                       copy_dim(to, from, f->requires[i].b),
                                       copy_place(to, from, f->requires[i].place) };
    return h;
}

/* ---- what a run needs to know of the loop program ---- */

static void number_sites(struct exe *e, const struct lp *p, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_CALL && call_is_told(s->call->kind)) {
            const char *text = module_text(p->m, s->call->text), *place = place_text(p->m, s->call->place);
            if (e->sites)
                e->sites[e->n_sites] = (struct site){ arena_string(&e->arena, text, strlen(text)),
                                                      arena_string(&e->arena, place, strlen(place)),
                                                      s->call->place };
            e->n_sites++;
        }
        number_sites(e, p, s->body);
        number_sites(e, p, s->other);
    }
}

/* Buffer `from` of the program or of a procedure of it. */
static void place_buffer(struct exe *e, const struct lp *p, uint32_t from)
{
    uint32_t b = p->first_buffer + from;
    struct lp_buffer *to = &e->buffers[b];
    *to = p->buffers.data[from];
    to->offset += p->first_place;
    to->slot += p->first_slot;
    struct bound_buffer bound = { b, to->index };
    to->why = to->name = NULL;
    to->count = to->static_count >= 0 ? dim_const(e->m, to->static_count)
                : to->kind == BUF_DYN ? 0
                                      : copy_dim(e->m, p->m, to->count);
    if (to->kind == BUF_ARG) e->args[e->n_args++] = bound;
    if (to->kind == BUF_RESULT) e->results[e->n_results++] = bound;
    if (to->kind == BUF_DYN) e->dyn[e->n_dyn++] = bound;
    if (to->kind != BUF_CONST) return;
    const struct constant *c = &p->m->constants.data[to->index];
    for (uint32_t i = 0; i < b; i++) /* two buffers may be one constant */
        if (e->buffers[i].kind == BUF_CONST && e->buffers[i].index == to->index)
            e->constants[b] = e->constants[i];
    if (e->constants[b]) return;
    uintptr_t at = (uintptr_t)arena_alloc(&e->arena, c->bytes + ARENA_ALIGN);
    void *copy = (void *)((at + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
    if (c->bytes) memcpy(copy, c->data, c->bytes);
    e->constants[b] = copy;
}

static void copy_layout(struct exe *e, const struct lp *p)
{
    const struct lp *last = p->procedures.len ? p->procedures.data[p->procedures.len - 1] : p;
    uint32_t n = e->n_buffers = last->first_buffer + last->buffers.len;
    e->buffers = ARENA_ZNEW(&e->arena, struct lp_buffer, n);
    e->constants = ARENA_ZNEW(&e->arena, const void *, n);
    e->args = ARENA_NEW(&e->arena, struct bound_buffer, n);
    e->results = ARENA_NEW(&e->arena, struct bound_buffer, n);
    e->dyn = ARENA_NEW(&e->arena, struct bound_buffer, n);
    e->arena_static = p->arena_static;
    e->arena_size = p->arena_total;
    e->n_slots = last->first_slot + last->slot_size.len;
    e->slots = ARENA_NEW(&e->arena, dim, e->n_slots);
    for (uint32_t k = 0; k <= p->procedures.len; k++) {
        const struct lp *q = k ? p->procedures.data[k - 1] : p;
        for (uint32_t b = 0; b < q->buffers.len; b++) place_buffer(e, q, b);
        for (uint32_t i = 0; i < q->slot_size.len; i++)
            e->slots[q->first_slot + i] = copy_dim(e->m, p->m, q->slot_size.data[i]);
    }
    e->n_updates = p->updates.len;
    e->updates = arena_copy(&e->arena, p->updates.data, e->n_updates * sizeof *e->updates);
    for (uint32_t i = 0; i < e->n_updates; i++)
        if (e->updates[i].why)
            e->updates[i].why = arena_string(&e->arena, e->updates[i].why, strlen(e->updates[i].why));
    number_sites(e, p, p->root);
    e->sites = ARENA_NEW(&e->arena, struct site, e->n_sites);
    e->n_sites = 0;
    number_sites(e, p, p->root);
}

/* ---- compiling ---- */

static void run_free(struct run *r);

void exe_free(void *exe)
{
    struct exe *e = exe;
    if (!e) return;
    for (uint32_t i = 0; i < SPARE_RUNS; i++) run_free(atomic_load(&e->spare[i]));
    code_free(e->code);
    lp_free((struct lp *)e->kept);
    module_free(e->m);
    arena_free(&e->arena);
    hop_free(e);
}

static struct exe *exe_new(void)
{
    struct exe *e = hop_calloc(1, sizeof *e);
    hop_cleanup_push(exe_free, e);
    e->m = module_new();
    return e;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void note_stage(struct compile_report *report, const char *name, double ms)
{
    if (report && report->n_stages < HOP_COUNT(report->stages)) {
        report->stages[report->n_stages].name = name;
        report->stages[report->n_stages++].ms = ms;
    }
}

static void end_stage(struct compile_report *report, const char *name, double *since)
{
    double now = now_ms();
    note_stage(report, name, now - *since);
    *since = now;
}

/* ---- the stages ---- */

/* Everything from the plan on, which needs nothing of the module: it may go on when the call has ended. */
struct emission {
    struct lp *p;
    struct emit_options options;
    struct cache_key key; /* taken over from the caller */
    struct arena arena;   /* of the image */
    struct text image;
    bool lasting; /* the image may be kept */
    struct native native;
    struct code *code; /* what is made */
    int status;        /* hop_status */
    char error[1024];
};

static void emission_free(void *emission)
{
    struct emission *w = emission;
    lp_free(w->p);
    native_free(&w->native);
    code_free(w->code);
    cache_key_free(&w->key);
    arena_free(&w->arena);
    hop_free(w);
}

static void make_code(struct emission *w)
{
    const struct emit_backend *backend = backend_get();
    char error[512] = "";
    int status = backend->compile(w->p, &w->options, &w->native, error);
    if (status == EMIT_NOMEM) hop_throw(HOP_NOMEM, "compiling: %s", error);
    if (status) hop_throw(HOP_INTERNAL, "the back end failed: %s", error);
    w->code = code_new(&w->key, w->image.data, w->image.len, w->native.object, w->native.object_bytes,
                       backend->library());
    if (w->lasting) cache_keep(&w->key, w->code, true);
}

static void emission_work(void *emission)
{
    struct emission *w = emission;
    struct hop_catch c;
    if (HOP_TRY(c)) {
        make_code(w);
        hop_catch_end(&c);
        return;
    }
    w->status = hop_caught();
    snprintf(w->error, sizeof w->error, "%s", hop_message());
}

/* What generating code may take. Small programs are not worth looking through files for. */
static uint64_t memory_for_code(const struct lp *p)
{
    enum { LARGE = 2000 };
    const char *wish = getauxval(AT_SECURE) ? NULL : getenv("HOP_COMPILE_MEMORY");
    uint64_t set = memory_size_of(wish, UINT64_MAX),
             left = set != UINT64_MAX ? set : memory_left(lp_size(p) > LARGE);
    return left == UINT64_MAX ? 0 : HOP_MAX(left, 1);
}

/* The loop program to machine code, loaded and kept with all that a run needs where that is wanted. Takes
 * over the program, the newest cleanup. */
static void emit_code(struct exe *e, struct module *m, struct lp *p, const struct compile_options *o,
                      bool serial, struct cache_key *key, struct compile_report *report)
{
    if (!backend_get()) hop_throw(HOP_UNAVAILABLE, "%s", hop_message());
    struct emission *w = hop_calloc(1, sizeof *w);
    hop_cleanup_pop(p);
    w->p = p;
    w->key = *key;
    w->image.arena = &w->arena;
    *key = (struct cache_key){ 0 };
    hop_cleanup_push(emission_free, w);
    w->options = (struct emit_options){ .keep_llvm = o->keep_llvm,
                                        .keep_asm = o->keep_asm,
                                        .scalar = !pass_on(&o->passes, PASS_vector),
                                        .serial = serial,
                                        .memory = memory_for_code(p) };
    w->lasting = image_write(e, m, &w->key.canon, &w->image);
    const struct hop_watch *watch = o->keep_lp ? NULL : hop_watch_get();
    if (watch) lp_detach(p); /* the worker may outlive the module */
    bool done = worker_run(emission_work, emission_free, w, watch);
    if (!done) {
        hop_cleanup_pop(w);
        hop_throw(HOP_CANCELLED, "the compilation was cancelled");
    }
    if (o->keep_lp) w->p = NULL, e->kept = p;
    if (w->status) {
        char error[sizeof w->error];
        memcpy(error, w->error, sizeof error);
        hop_throw((hop_status)w->status, "%s", error);
    }
    e->code = w->code;
    w->code = NULL;
    e->entry = e->code->loaded.entry;
    if (report) {
        report->llvm = w->native.llvm;
        report->assembly = w->native.assembly;
        w->native.llvm = w->native.assembly = NULL;
        report->code_bytes = e->code->loaded.code_bytes;
        note_stage(report, "  write IR", w->native.ir_ms);
        note_stage(report, "  generate code", w->native.codegen_ms);
    }
    hop_cleanup_pop(w);
    emission_free(w);
}

static struct exe *compile(struct module *m, uint32_t fn, const struct compile_options *o, uint32_t threads,
                           struct cache_key *key, struct compile_report *report)
{
    double clock = now_ms();
    fn = simplify(m, fn, &o->passes);
    end_stage(report, "simplify", &clock);

    struct exe *e = exe_new();
    e->threads = threads;
    struct lp *p = lower_function(m, fn, o);
    hop_cleanup_push(lp_free, p);
    end_stage(report, "lower", &clock);

    lp_check(p);
    end_stage(report, "check", &clock);

    p->own_places = !pass_on(&o->passes, PASS_inplace);
    lp_plan(p);
    end_stage(report, "plan", &clock);

    e->header = copy_header(e, m, module_fn(m, fn));
    copy_layout(e, p);
    end_stage(report, "layout", &clock);

    if (o->slow_executor) hop_cleanup_pop(p), e->kept = p;
    else emit_code(e, m, p, o, threads == 1, key, report);
    end_stage(report, "emit", &clock);
    hop_cleanup_pop(e);
    return e;
}

/* An executable of code that was kept; NULL when it does not make one after all. */
static struct exe *from_code(struct code *code, struct module *m, uint32_t fn, const struct cache_key *key,
                             uint32_t threads)
{
    struct hop_catch caught;
    struct exe *volatile made = NULL;
    if (HOP_TRY(caught)) {
        struct exe *e = exe_new();
        e->code = code_ref(code);
        e->entry = code->loaded.entry;
        e->threads = threads;
        image_read(e, m, module_fn(m, fn), &key->canon, code->image, code->image_bytes);
        hop_cleanup_pop(e);
        made = e;
        hop_catch_end(&caught);
    }
    return made;
}

struct exe *exe_compile(struct module *m, uint32_t fn, const struct compile_options *options,
                        struct compile_report *report)
{
    static const struct compile_options defaults;
    const struct compile_options *o = options ? options : &defaults;
    uint32_t threads = !pass_on(&o->passes, PASS_parallel) ? 1 : o->threads ? o->threads : pool_cores();
    enum code_origin origin = CODE_COMPILED;
    struct cache_key key = { 0 };
    struct exe *e = NULL;
    double clock = now_ms();
    if (report) memset(report, 0, sizeof *report);

    hop_cleanup_push(cache_key_free, &key);
    cache_key_make(&key, m, fn, o, threads == 1);
    struct code *code = cache_find(&key, &origin);
    bool wants_more = o->keep_lp || o->keep_llvm || o->keep_asm || o->passes.report;
    if (code && !wants_more) e = from_code(code, m, fn, &key, threads);
    code_free(code);
    if (code && wants_more) key.usable = false; /* it is kept already */
    if (!code || (!e && !wants_more)) origin = CODE_COMPILED;
    if (report) report->origin = (uint8_t)origin;
    end_stage(report, "look in the cache", &clock);

    bool counted = key.usable;
    if (!e) e = compile(m, fn, o, threads, &key, report);
    if (origin == CODE_COMPILED && counted) cache_missed();
    hop_cleanup_pop(&key);
    cache_key_free(&key);
    return e;
}

const struct lp_update *exe_updates(const struct exe *e, uint32_t *n)
{
    *n = e->n_updates;
    return e->updates;
}
const char *exe_name(const struct exe *e) { return module_text(e->m, e->header->name); }
const char *exe_param_name(const struct exe *e, uint32_t p)
{
    return module_text(e->m, e->header->values[p].name);
}

bool exe_available(void) { return backend_get() != NULL; }
bool exe_promising(void) { return backend_path() != NULL; }
const struct lp *exe_lp(const struct exe *e) { return e->kept; }
size_t exe_arena_bytes(const struct exe *e) { return e->arena_static ? (size_t)e->arena_size : (size_t)-1; }

/* ---- what native code calls ---- */

static void *rt_reserve(struct hop_rt *rt, int32_t buffer, int64_t bytes)
{
    struct run *r = rt->state;
    struct grown *g = r->grown;
    for (const struct bound_buffer *d = r->e->dyn; d->buffer != (uint32_t)buffer; d++) g++;
    if (!g->block || bytes > g->bytes) {
        int64_t want = HOP_MAX(HOP_MAX(bytes, ARENA_ALIGN), g->bytes > INT64_MAX / 4 ? bytes : 2 * g->bytes);
        void *block = want > INT64_MAX / 2 ? NULL : hop_try_malloc((size_t)want + ARENA_ALIGN);
        if (!block && want > bytes) block = hop_try_malloc((size_t)(want = bytes) + ARENA_ALIGN);
        if (!block) return NULL;
        memory_prefer_huge_pages(block, (size_t)want + ARENA_ALIGN);
        void *data = (void *)(((uintptr_t)block + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
        if (r->buffers[buffer]) memcpy(data, g->data, (size_t)g->bytes);
        hop_free(g->block);
        *g = (struct grown){ block, data, want };
    }
    return r->buffers[buffer] = g->data;
}

static struct tensor **shown_tensors(struct arena *arena, const struct hop_rt_operand *operands, int32_t n)
{
    struct tensor **list = ARENA_NEW(arena, struct tensor *, n);
    for (int32_t i = 0; i < n; i++) {
        struct tensor *t = list[i] = ARENA_ZNEW(arena, struct tensor, 1);
        t->refs = 1;
        t->dtype = (uint8_t)operands[i].dtype;
        t->rank = (uint8_t)operands[i].rank;
        t->count = 1;
        for (uint32_t d = 0; d < t->rank; d++) t->count *= t->dims[d] = operands[i].dims[d];
        t->data = (void *)operands[i].data;
    }
    return list;
}

/* These run below native code, a check perhaps on a worker: nothing may be thrown from here. */
static void rt_check(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *operands)
{
    struct run *r = rt->state;
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    struct hop_catch c;
    if (atomic_exchange(&r->noted, true)) return; /* another iteration of the parallel loop was first */
    const struct site *s = &r->e->sites[site];
    if (HOP_TRY(c)) {
        check_failed_text(&out, s->place, s->text, shown_tensors(&arena, operands, n), (uint32_t)n);
        snprintf(r->note, sizeof r->note, "%s", out.data ? out.data : "");
        hop_catch_end(&c);
    } else {
        snprintf(r->note, sizeof r->note, "%s%s", s->place, s->text);
    }
    arena_free(&arena);
}

static void rt_print(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *operands)
{
    struct run *r = rt->state;
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    struct hop_catch c;
    if (!r->print || atomic_load_explicit(&r->ended, memory_order_relaxed)) return;
    if (HOP_TRY(c)) {
        format_values(&out, r->e->sites[site].text, shown_tensors(&arena, operands, n), (uint32_t)n);
        r->print(r->print_ctx, out.data, out.len);
        hop_catch_end(&c);
    } else {
        r->told_status = hop_caught();
        snprintf(r->note, sizeof r->note, "%s", hop_message());
    }
    arena_free(&arena);
}

static int32_t rt_callback(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *operands)
{
    struct run *r = rt->state;
    const struct site *s = &r->e->sites[site];
    struct arena arena = { 0 };
    struct hop_catch c;
    volatile bool failed = true;
    if (atomic_load_explicit(&r->ended, memory_order_relaxed))
        return r->told_status = HOP_CANCELLED, snprintf(r->note, sizeof r->note, "the run was cancelled"), 1;
    if (HOP_TRY(c)) {
        callback_call(r->callback, r->callback_ctx, s->place, s->text, shown_tensors(&arena, operands, n),
                      (uint32_t)n);
        hop_catch_end(&c);
        failed = false;
    } else {
        r->told_status = hop_caught();
        snprintf(r->note, sizeof r->note, "%s", hop_message());
    }
    arena_free(&arena);
    return failed;
}

static int32_t rt_parallel(struct hop_rt *rt,
                           int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env,
                           int64_t n, int64_t grain)
{
    return pool_run(((struct run *)rt->state)->e->threads, rt, body, env, n, grain);
}

static _Thread_local char this_thread;

/* Other threads of the run leave when its own has been told to. */
static int32_t rt_asked(struct hop_rt *rt)
{
    struct run *r = rt->state;
    if (!r->confirm || (r->thread == &this_thread && !atomic_load(&r->ended) && r->confirm(r->confirm_ctx)))
        atomic_store(&r->ended, true);
    return atomic_load(&r->ended) ? HOP_CANCELLED : HOP_OK;
}

static void *rt_copy(void *to, const void *from, uint64_t bytes) { return memmove(to, from, bytes); }
static void *rt_zero(void *to, int value, uint64_t bytes) { return memset(to, value, bytes); }

static const volatile int32_t never_cancelled;

/* ---- runs ---- */

static void run_free(struct run *r)
{
    if (!r) return;
    for (uint32_t i = 0; i < r->e->n_dyn; i++) hop_free(r->grown[i].block);
    hop_free(r->block);
    hop_free(r);
}

static struct run *run_new(struct exe *e)
{
    const struct fn *f = e->header;
    size_t size = sizeof(struct run) + e->n_buffers * sizeof(void *) +
                  (f->n_symbols + e->n_slots) * sizeof(int64_t) + f->n_params * sizeof(struct shape_view) +
                  f->n_results * (sizeof(struct tensor *) + sizeof(struct shape_view)) +
                  e->n_dyn * sizeof(struct grown) +
                  ((size_t)f->n_params + f->n_results) * MAX_RANK * sizeof(int64_t);
    struct run *r = hop_calloc(1, size);
    r->e = e;
    r->buffers = (void **)(r + 1);
    r->symbols = (int64_t *)(r->buffers + e->n_buffers);
    r->slot_at = r->symbols + f->n_symbols;
    r->fresh = (struct tensor **)(r->slot_at + e->n_slots);
    r->grown = (struct grown *)(r->fresh + f->n_results);
    r->views = (struct shape_view *)(r->grown + e->n_dyn);
    r->result_views = r->views + f->n_params;
    int64_t *dims = (int64_t *)(r->result_views + f->n_results);
    for (uint32_t i = 0; i < f->n_params + f->n_results; i++, dims += MAX_RANK) r->views[i].dims = dims;
    r->rt = (struct hop_rt){
        .asked = rt_asked,
        .gemm = blas_gemm,
        .reserve = rt_reserve,
        .check = rt_check,
        .print = rt_print,
        .callback = rt_callback,
        .parallel = rt_parallel,
        .copy = rt_copy,
        .zero = rt_zero,
        .fmod = fmod,
        .fmodf = fmodf,
        .far = angle_far_lanes,
        .buffers = r->buffers,
        .state = r,
    };
    for (uint32_t b = 0; b < e->n_buffers; b++) r->buffers[b] = (void *)e->constants[b];
    return r;
}

static struct run *run_take(struct exe *e)
{
    for (uint32_t i = 0; i < SPARE_RUNS; i++) {
        struct run *r = atomic_load_explicit(&e->spare[i], memory_order_relaxed);
        if (r && (r = atomic_exchange_explicit(&e->spare[i], NULL, memory_order_acquire))) return r;
    }
    return run_new(e);
}

/* Gives a run back, whatever state it is in. */
static void run_return(void *run)
{
    struct run *r = run;
    struct exe *e = r->e;
    for (uint32_t i = 0; i < e->header->n_results; i++) {
        tensor_free(r->fresh[i]);
        r->fresh[i] = NULL;
    }
    for (uint32_t i = 0; i < e->n_dyn; i++) {
        r->buffers[e->dyn[i].buffer] = NULL;
        if (r->grown[i].bytes <= KEPT_BYTES) continue;
        hop_free(r->grown[i].block);
        r->grown[i] = (struct grown){ 0 };
    }
    for (uint32_t i = 0; i < SPARE_RUNS; i++) {
        struct run *none = NULL;
        if (!atomic_load_explicit(&e->spare[i], memory_order_relaxed) &&
            atomic_compare_exchange_strong_explicit(&e->spare[i], &none, r, memory_order_release,
                                                    memory_order_relaxed))
            return;
    }
    run_free(r);
}

static int64_t add_aligned(int64_t at, int64_t bytes)
{
    int64_t end;
    if (__builtin_add_overflow(at, bytes, &end) || end > INT64_MAX / 2)
        hop_throw(HOP_INVALID, "the temporaries of this run need more than 2^62 bytes");
    return (end + ARENA_ALIGN - 1) & ~(int64_t)(ARENA_ALIGN - 1);
}

/* Where each slot lies; returns what all need together. */
static int64_t place_slots(struct run *r)
{
    const struct exe *e = r->e;
    int64_t bytes = e->arena_static ? e->arena_size : 0;
    for (uint32_t i = 0; i < e->n_slots; i++) {
        r->slot_at[i] = bytes;
        bytes = add_aligned(bytes, dim_eval(e->m, e->slots[i], r->symbols));
    }
    return bytes;
}

/* Memory for temporaries; stays as it is from run to run while sizes do not grow. */
static void place_temporaries(struct run *r, const struct exe_call *call)
{
    const struct exe *e = r->e;
    bool given = call && call->workspace;
    if ((e->arena_static || r->sized) && !given && !r->borrowed && (r->block || !e->arena_size)) return;
    int64_t bytes = place_slots(r);
    if (given && (size_t)bytes + ARENA_ALIGN > call->workspace_bytes)
        hop_throw(HOP_INVALID, "the workspace has %zu bytes, but this run needs %zu", call->workspace_bytes,
                  (size_t)bytes + ARENA_ALIGN);
    if (!given && (!r->block || bytes > r->block_bytes)) {
        hop_free(r->block);
        r->block = NULL;
        r->block = hop_malloc((size_t)bytes + ARENA_ALIGN);
        memory_prefer_huge_pages(r->block, (size_t)bytes + ARENA_ALIGN);
        r->block_bytes = bytes;
    }
    r->borrowed = given;
    char *base = (char *)(((uintptr_t)(given ? call->workspace : r->block) + ARENA_ALIGN - 1) &
                          ~(uintptr_t)(ARENA_ALIGN - 1));
    for (uint32_t b = 0; b < e->n_buffers; b++)
        if (e->buffers[b].kind == BUF_TEMP)
            r->buffers[b] = base + (e->arena_static ? e->buffers[b].offset : r->slot_at[e->buffers[b].slot]);
}

static size_t tensor_bytes(const struct tensor *t) { return (size_t)t->count * dtype_info[t->dtype].size; }

static bool share_memory(const struct tensor *a, const struct tensor *b)
{
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return tensor_bytes(a) && tensor_bytes(b) && x < y + tensor_bytes(b) && y < x + tensor_bytes(a);
}

static void view_result(struct run *r, uint32_t k)
{
    const struct exe *e = r->e;
    struct type t = type_get(e->m, value_type(e->header, e->header->results[k]));
    struct shape_view *v = &r->result_views[k];
    v->dtype = t.dtype;
    v->rank = t.rank;
    for (uint32_t i = 0; i < t.rank; i++) ((int64_t *)v->dims)[i] = dim_eval(e->m, t.dims[i], r->symbols);
}

static void check_given(const struct run *r, uint32_t k, const struct tensor *given)
{
    const struct shape_view *v = &r->result_views[k];
    if (given->dtype != v->dtype || given->rank != v->rank)
        hop_throw(HOP_INVALID, "result %u: the given tensor has another dtype or rank", k);
    for (uint32_t i = 0; i < v->rank; i++)
        if (given->dims[i] != v->dims[i])
            hop_throw(HOP_INVALID, "result %u: dim %u is %lld, but the given tensor has %lld", k, i,
                      (long long)v->dims[i], (long long)given->dims[i]);
}

static struct tensor *new_result(const struct run *r, uint32_t k)
{
    const struct shape_view *v = &r->result_views[k];
    return tensor_new((enum dtype)v->dtype, v->rank, v->dims);
}

/* Memory for the results whose sizes are known: the caller's, unless it is also read or written through
 * another name. */
static void place_results(struct run *r, struct tensor *const *args, struct tensor *const *results)
{
    const struct exe *e = r->e;
    for (uint32_t i = 0; i < e->n_results; i++) {
        uint32_t k = e->results[i].index;
        bool shared = false;
        if (results[k]) {
            check_given(r, k, results[k]);
            for (uint32_t p = 0; p < e->header->n_params; p++) shared |= share_memory(results[k], args[p]);
            for (uint32_t j = 0; j < e->header->n_results; j++)
                if (j != k && results[j] && share_memory(results[k], results[j]))
                    hop_throw(HOP_INVALID, "results %u and %u are given the same memory", HOP_MIN(j, k),
                              HOP_MAX(j, k));
        }
        if (!results[k] || shared) r->fresh[k] = new_result(r, k);
        r->buffers[e->results[i].buffer] = r->fresh[k] ? r->fresh[k]->data : results[k]->data;
    }
}

static void take_grown(struct run *r, struct tensor *const *results)
{
    const struct exe *e = r->e;
    for (uint32_t i = 0; i < e->n_dyn; i++) {
        uint32_t k = e->dyn[i].index;
        if (k == HOP_NONE) continue;
        struct grown *g = &r->grown[i];
        view_result(r, k);
        if (results[k]) check_given(r, k, results[k]);
        const struct shape_view *v = &r->result_views[k];
        if (!r->buffers[e->dyn[i].buffer]) { /* nothing was ever stored: empty */
            r->fresh[k] = new_result(r, k);
            continue;
        }
        r->fresh[k] = tensor_borrow((enum dtype)v->dtype, v->rank, v->dims, g->data, hop_free, g->block);
        *g = (struct grown){ 0 };
    }
}

static void hand_out(struct run *r, struct tensor **results)
{
    for (uint32_t k = 0; k < r->e->header->n_results; k++) {
        struct tensor *t = r->fresh[k];
        if (!t) continue;
        r->fresh[k] = NULL;
        if (!results[k]) {
            results[k] = t;
            continue;
        }
        if (t->count) memmove(results[k]->data, t->data, tensor_bytes(t));
        tensor_free(t);
    }
}

static _Noreturn void run_failed(const struct run *r, int32_t status)
{
    switch (status) {
    case HOP_CHECK: hop_throw(HOP_CHECK, "%s", r->note);
    case HOP_INVALID: hop_throw((hop_status)r->told_status, "%s", r->note); /* a callback failed */
    case HOP_NOMEM: hop_throw(HOP_NOMEM, "out of memory while running");
    case HOP_CANCELLED: hop_throw(HOP_CANCELLED, "the run was cancelled");
    default: hop_throw(HOP_INTERNAL, "native code ended with status %d", status);
    }
}

/* Works out all sizes for these arguments, unless the last run had arguments of the same. */
static void size_run(struct run *r, struct tensor *const *args, const int64_t *dims)
{
    const struct exe *e = r->e;
    const struct fn *f = e->header;
    bool same = r->sized && !dims;
    for (uint32_t p = 0; p < f->n_params && same; p++) {
        const struct shape_view *v = &r->views[p];
        same = v->dtype == args[p]->dtype && v->rank == args[p]->rank;
        for (uint32_t i = 0; i < v->rank && same; i++) same = v->dims[i] == args[p]->dims[i];
    }
    if (same) return;
    r->sized = false;
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct shape_view *v = &r->views[p];
        v->dtype = args[p]->dtype;
        v->rank = args[p]->rank;
        memcpy((int64_t *)v->dims, args[p]->dims, v->rank * sizeof *v->dims);
    }
    bind_symbols(e->m, f, r->views, dims, r->symbols);
    for (uint32_t i = 0; i < e->n_results; i++) view_result(r, e->results[i].index);
}

size_t exe_workspace(struct exe *e, struct tensor *const *args, const int64_t *dims)
{
    struct run *r = run_take(e);
    hop_cleanup_push(run_return, r);
    size_run(r, args, dims);
    r->sized = false;
    size_t bytes = (size_t)place_slots(r) + ARENA_ALIGN;
    hop_cleanup_pop(r);
    run_return(r);
    return bytes;
}

void exe_run(struct exe *e, struct tensor *const *args, const int64_t *dims, struct tensor **results,
             const struct exe_call *call)
{
    struct run *r = run_take(e);
    hop_cleanup_push(run_return, r);
    size_run(r, args, dims);
    place_temporaries(r, call);
    r->sized = !dims;
    place_results(r, args, results);
    for (uint32_t i = 0; i < e->n_args; i++) r->buffers[e->args[i].buffer] = args[e->args[i].index]->data;
    r->rt.cancel = call && call->cancel ? call->cancel : &never_cancelled;
    r->print = call ? call->print : NULL;
    r->print_ctx = call ? call->print_ctx : NULL;
    r->callback = call ? call->callback : NULL;
    r->callback_ctx = call ? call->callback_ctx : NULL;
    r->confirm = call ? call->confirm : NULL;
    r->confirm_ctx = call ? call->confirm_ctx : NULL;
    r->thread = &this_thread;
    r->told_status = HOP_OK;
    atomic_store_explicit(&r->noted, false, memory_order_relaxed);
    atomic_store_explicit(&r->ended, false, memory_order_relaxed);

    int32_t status = e->entry ? e->entry(&r->rt, r->buffers, r->symbols)
                              : lp_execute(e->kept, &r->rt, r->buffers, r->symbols);
    if (!status && atomic_load_explicit(&r->ended, memory_order_relaxed))
        status = HOP_CANCELLED; /* a product was left unfinished */
    if (status) run_failed(r, status);
    if (r->told_status) hop_throw((hop_status)r->told_status, "%s", r->note);
    take_grown(r, results);
    hand_out(r, results);
    hop_cleanup_pop(r);
    run_return(r);
}
