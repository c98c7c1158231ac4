/* Making executables. exe_compile is the compiler as a list of stages; what it leaves is a native entry, the
 * function's header in a module of its own, constants, and the places of all buffers. run.c runs them. */
#include "runtime/cache.h"
#include "runtime/exe_impl.h"
#include "runtime/launch.h"
#include "runtime/profile.h"
#include "loop/lower.h"
#include "base/memory.h"
#include "runtime/pool.h"
#include "runtime/ready.h"
#include "runtime/worker.h"

#include <sys/auxv.h>
#include <time.h>

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
    return type_import(to, from, type, dims);
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
    h->n_required = f->n_required;
    h->effects = f->effects;
    h->values = ARENA_ZNEW(&e->arena, struct value, h->n_values);
    h->results = ARENA_NEW(&e->arena, val, h->n_results);
    h->symbols = ARENA_NEW(&e->arena, struct symbol, h->n_symbols);
    h->required = ARENA_NEW(&e->arena, struct require, h->n_required);
    for (uint32_t i = 0; i < h->n_values; i++) { /* results follow the parameters */
        const struct value *v = &f->values[i < f->n_params ? i : f->results[i - f->n_params]];
        h->values[i] = (struct value){ copy_type(to, from, v->type), NODE_NONE,
                                       copy_string(to, from, v->name) };
    }
    for (uint32_t i = 0; i < h->n_results; i++) h->results[i] = h->n_params + i;
    for (uint32_t i = 0; i < h->n_symbols; i++) {
        h->symbols[i] = f->symbols[i];
        h->symbols[i].name = copy_string(to, from, f->symbols[i].name);
        h->symbols[i].axis = copy_string(to, from, f->symbols[i].axis);
    }
    for (uint32_t i = 0; i < h->n_required; i++)
        h->required[i] = (struct require){ copy_dim(to, from, f->required[i].a),
                                           copy_dim(to, from, f->required[i].b),
                                           copy_place(to, from, f->required[i].place) };
    return h;
}

/* ---- what a run needs to know of the loop program ---- */

static void copy_sites(struct exe *e, const struct lp *p)
{
    e->n_sites = p->sites.len;
    e->sites = ARENA_NEW(&e->arena, struct site, e->n_sites);
    for (uint32_t i = 0; i < e->n_sites; i++) {
        const struct lp_call *c = p->sites.data[i];
        const char *text = module_text(p->m, c->text), *place = place_text(p->m, c->place);
        const char *stack = place_stack(p->m, c->place), *within = c->within ? c->within : "";
        e->sites[i] = (struct site){ arena_string(&e->arena, text, strlen(text)),
                                     arena_string(&e->arena, place, strlen(place)),
                                     arena_printf(&e->arena, "%s%s", stack, within),
                                     arena_string(&e->arena, within, strlen(within)), c->place };
        const char *declared = c->declared ? c->declared : "";
        e->sites[i].declared = arena_string(&e->arena, declared, strlen(declared));
        e->sites[i].effects = c->effects;
        e->sites[i].version = c->version;
        e->sites[i].varies = c->varies;
        e->sites[i].n_counts = c->n_counts;
        e->sites[i].counts = arena_copy(&e->arena, c->counts, c->n_counts * sizeof *c->counts);
    }
}

/* Buffer `from` of the program or of a procedure of it. */
static void place_buffer(struct exe *e, const struct lp *p, uint32_t from)
{
    uint32_t b = p->first_buffer + from;
    struct lp_buffer *to = &e->buffers[b];
    *to = p->buffers.data[from];
    to->offset += p->first_byte;
    to->slot += p->first_slot;
    struct bound_buffer bound = { b, to->index };
    to->why = NULL;
    to->name = NULL;
    if (to->offloaded) {
        to->offloaded = arena_string(&e->arena, to->offloaded, strlen(to->offloaded));
        to->offloaded_name = arena_string(&e->arena, to->offloaded_name, strlen(to->offloaded_name));
    }
    e->n_offloaded += to->offloaded && to->kind == BUF_TEMP;
    if (to->static_count >= 0) to->count = dim_const(e->m, to->static_count);
    else to->count = to->kind == BUF_DYN ? 0 : copy_dim(e->m, p->m, to->count);
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

static struct lp_amount copy_amount(struct exe *e, const struct module *from, struct lp_amount a)
{
    struct lp_amount to = { a.n, ARENA_NEW(&e->arena, struct lp_term, a.n) };
    for (uint32_t i = 0; i < a.n; i++) {
        to.terms[i] = a.terms[i];
        for (uint32_t k = 0; k < a.terms[i].n; k++)
            to.terms[i].dims[k] = copy_dim(e->m, from, a.terms[i].dims[k]);
    }
    return to;
}

static void copy_marks(struct exe *e, const struct lp *p)
{
    if (!p->marks.len) return;
    e->marks = marks_new(p);
    e->bytes = ARENA_NEW(&e->arena, struct lp_amount, p->marks.len);
    e->operations = ARENA_NEW(&e->arena, struct lp_amount, p->marks.len);
    for (uint32_t i = 0; i < p->marks.len; i++) {
        e->bytes[i] = copy_amount(e, p->m, p->marks.data[i].bytes);
        e->operations[i] = copy_amount(e, p->m, p->marks.data[i].operations);
    }
}

void exe_note_private(struct exe *e)
{
    e->slot_private = ARENA_ZNEW(&e->arena, bool, e->n_slots);
    for (uint32_t b = 0; b < e->n_buffers; b++) {
        const struct lp_buffer *buffer = &e->buffers[b];
        if (!buffer->private) continue;
        e->has_private = true;
        e->gives_tables |= buffer->kind == BUF_PARAM;
        if (buffer->kind == BUF_TEMP && !e->arena_static) e->slot_private[buffer->slot] = true;
    }
}

static void copy_layout(struct exe *e, const struct lp *p)
{
    const struct lp *last = p->procedures.len ? p->procedures.data[p->procedures.len - 1] : p;
    uint32_t n = last->first_buffer + last->buffers.len;
    e->n_buffers = n;
    e->buffers = ARENA_ZNEW(&e->arena, struct lp_buffer, n);
    e->constants = ARENA_ZNEW(&e->arena, const void *, n);
    e->args = ARENA_NEW(&e->arena, struct bound_buffer, n);
    e->results = ARENA_NEW(&e->arena, struct bound_buffer, n);
    e->dyn = ARENA_NEW(&e->arena, struct bound_buffer, n);
    e->arena_static = p->arena_static;
    e->arena_size = p->arena_total;
    e->private_size = p->private_size;
    e->n_slots = last->first_slot + last->slot_size.len;
    e->slots = ARENA_NEW(&e->arena, dim, e->n_slots);
    for (uint32_t k = 0; k <= p->procedures.len; k++) {
        const struct lp *q = k ? p->procedures.data[k - 1] : p;
        for (uint32_t b = 0; b < q->buffers.len; b++) place_buffer(e, q, b);
        for (uint32_t i = 0; i < q->slot_size.len; i++)
            e->slots[q->first_slot + i] = copy_dim(e->m, p->m, q->slot_size.data[i]);
    }
    exe_note_private(e);
    e->n_updates = p->updates.len;
    e->updates = arena_copy(&e->arena, p->updates.data, e->n_updates * sizeof *e->updates);
    for (uint32_t i = 0; i < e->n_updates; i++)
        if (e->updates[i].why)
            e->updates[i].why = arena_string(&e->arena, e->updates[i].why, strlen(e->updates[i].why));
    copy_sites(e, p);
    copy_marks(e, p);
}

/* ---- compiling ---- */

struct exe *exe_ref(struct exe *e)
{
    __atomic_fetch_add(&e->more, 1, __ATOMIC_RELAXED);
    return e;
}

void exe_free(void *exe)
{
    struct exe *e = exe;
    if (!e || __atomic_fetch_sub(&e->more, 1, __ATOMIC_ACQ_REL)) return;
    if (e->ranks) {
        exe_free(e->ranks->local);
        mesh_program_end(&e->ranks->program);
    }
    if (e->marks) profile_detach(e);
    for (uint32_t i = 0; i < SPARE_RUNS; i++) run_free(atomic_load(&e->spare[i]));
    hop_free(ready_end(atomic_load(&e->ready), 0));
    once_free(e->once);
    launch_constants_free(e);
    if (e->code) code_free(e->code);
    else e->backend->unload(&e->program);
    lp_free((struct lp *)e->kept);
    marks_drop(e->marks);
    module_free(e->m);
    arena_free(&e->arena);
    hop_free(e);
}

static struct exe *exe_new(const struct backend *backend)
{
    struct exe *e = hop_calloc(1, sizeof *e);
    e->backend = backend;
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
    const struct backend *backend;
    struct lp *p;
    struct emit_options options;
    struct emit_threads threads;
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
    char error[512] = "";
    int status = w->backend->compile(w->p, &w->options, &w->native, error);
    if (status == EMIT_NOMEM) hop_throw(HOP_NOMEM, "compiling: %s", error);
    if (status) hop_throw(HOP_INTERNAL, "the back end failed: %s", error);
    w->code = code_new(&w->key, w->image.data, w->image.len, w->native.object, w->native.object_bytes,
                       plug_in_get()->library());
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
    uint64_t set = memory_size_of(wish, UINT64_MAX);
    uint64_t left = set != UINT64_MAX ? set : memory_left(lp_size(p) > LARGE);
    return left == UINT64_MAX ? 0 : HOP_MAX(left, 1);
}

static void use_code(struct exe *e, struct code *code)
{
    e->code = code;
    e->program = code->program;
    e->entry = code->program.code.entry;
}

/* The loop program to machine code, loaded and kept with all that a run needs where that is wanted. Takes
 * over the program, the newest cleanup. */
static void emit_code(struct exe *e, struct module *m, struct lp *p, const struct compile_options *o,
                      bool serial, struct cache_key *key, struct compile_report *report)
{
    struct emission *w = hop_calloc(1, sizeof *w);
    hop_cleanup_pop(p);
    w->backend = e->backend;
    w->p = p;
    w->key = *key;
    w->image.arena = &w->arena;
    *key = (struct cache_key){ 0 };
    hop_cleanup_push(emission_free, w);
    w->threads = (struct emit_threads){ pool_threads(), worker_begin, worker_end };
    w->options = (struct emit_options){ .threads = &w->threads,
                                        .keep_ir_text = o->keep_ir_text,
                                        .keep_machine_text = o->keep_machine_text,
                                        .scalar = !choice_on(&o->passes, CHOICE_vector),
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
    if (o->keep_lp) {
        w->p = NULL;
        e->kept = p;
    }
    if (w->status) {
        char error[sizeof w->error];
        memcpy(error, w->error, sizeof error);
        hop_throw((hop_status)w->status, "%s", error);
    }
    use_code(e, w->code);
    w->code = NULL;
    if (report) {
        report->ir_text = w->native.ir_text;
        report->machine_text = w->native.machine_text;
        w->native.ir_text = NULL;
        w->native.machine_text = NULL;
        report->code_bytes = e->program.code.code_bytes;
        note_stage(report, "  write IR", w->native.ir_ms);
        note_stage(report, "  generate code", w->native.codegen_ms);
    }
    hop_cleanup_pop(w);
    emission_free(w);
}

/* A back end that runs the loop program itself. Takes over the program, the newest cleanup. */
static void load_loops(struct exe *e, struct lp *p, bool keep_module)
{
    char error[512] = "";
    hop_cleanup_pop(p);
    e->kept = p;
    if (!keep_module) lp_detach(p); /* the executable may outlive the module */
    if (e->backend->load(NULL, 0, p, &e->program, error))
        hop_throw(HOP_INTERNAL, "the back end '%s' failed: %s", e->backend->name, error);
    if (e->backend->memory) launch_constants(e);
}

static struct exe *compile(struct module *m, uint32_t fn, const struct compile_options *o, uint32_t threads,
                           struct cache_key *key, struct compile_report *report)
{
    const struct backend *backend = o->backend ? o->backend : backend_at(0);
    double clock = now_ms();
    fn = simplify(m, fn, &o->passes);
    end_stage(report, "simplify", &clock);

    struct exe *e = exe_new(backend);
    e->threads = threads;
    struct lp *p = lower_function(m, fn, &o->passes, o->over);
    hop_cleanup_push(lp_free, p);
    end_stage(report, "lower", &clock);

    lp_check(p);
    end_stage(report, "check", &clock);

    p->own_memory = !choice_on(&o->passes, CHOICE_inplace);
    if (backend->memory) lp_keep_in_memory(p); /* its memory is no file's */
    lp_plan(p);
    end_stage(report, "plan", &clock);

    e->header = copy_header(e, m, module_fn(m, fn));
    copy_layout(e, p);
    end_stage(report, "layout", &clock);

    backend_accept(backend, p);
    bool own_memory = !backend->memory && e->arena_static;
    if (o->soon && own_memory) atomic_store(&e->ready, ready_begin((size_t)e->arena_size + ARENA_ALIGN));
    if (backend->abilities & RUNS_LOOPS) load_loops(e, p, o->keep_lp);
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
        struct exe *e = exe_new(&llvm_backend);
        use_code(e, code_ref(code));
        e->threads = threads;
        image_read(e, m, module_fn(m, fn), &key->canon, code->image, code->image_bytes);
        hop_cleanup_pop(e);
        made = e;
        hop_catch_end(&caught);
    }
    return made;
}

/* A program that keeps nothing from run to run. */
static struct exe *compile_one(struct module *m, uint32_t fn, const struct compile_options *o,
                               struct compile_report *report)
{
    uint32_t threads = 1;                                  /* 0: as many as there are when it runs */
    bool several = pool_cores() > 1 || pool_threads() > 1; /* now, or whenever somebody says so */
    if (choice_on(&o->passes, CHOICE_parallel) && (o->threads || several)) threads = o->threads;
    enum code_origin origin = CODE_COMPILED;
    struct cache_key key = { 0 };
    struct exe *e = NULL;
    double clock = now_ms();

    hop_cleanup_push(cache_key_free, &key);
    cache_key_make(&key, m, fn, o, threads == 1);
    struct code *code = cache_find(&key, &origin);
    bool wants_more = o->keep_lp || o->keep_ir_text || o->keep_machine_text || o->passes.report;
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

/* Equal functions are one: its parameters may be called as those of another. */
static void name_inputs(struct exe *init, const struct module *m, const struct fn *f,
                        const struct once_split *split)
{
    for (uint32_t i = 0; i < split->n_inputs; i++)
        init->header->values[i].name = copy_string(init->m, m, f->values[split->inputs[i]].name);
}

/* The executable of what each rank does, and what is known of the whole. Nothing is computed once for all
 * runs, as ranks have constants of their own, and nothing is written before all ranks have succeeded. */
static struct exe *compile_for_ranks(struct module *m, uint32_t fn, const struct compile_options *o,
                                     struct compile_report *report)
{
    struct exe *e = exe_new(o->backend ? o->backend : backend_at(0));
    e->ranks = ARENA_ZNEW(&e->arena, struct exe_ranks, 1);
    struct mesh_program *p = &e->ranks->program;
    mesh_program_of(&e->arena, m, fn, p);
    e->header = copy_header(e, m, p->header);
    p->m = e->m;
    p->header = e->header;
    p->hash[1] = hash_mix(p->hash[1], o->passes.without | (uint64_t)o->passes.strict << 32);
    struct compile_options local = *o;
    if (o->threads) local.threads = HOP_MAX(o->threads / (uint32_t)p->mesh.ranks, 1);
    local.over = NULL;
    local.soon = false;
    local.constant = (struct once_marks){ 0 };
    e->ranks->local = exe_compile(m, p->local, &local, report);
    hop_cleanup_pop(e);
    return e;
}

bool exe_on_ranks(const struct exe *e) { return e->ranks != NULL; }

struct exe *exe_compile(struct module *m, uint32_t fn, const struct compile_options *options,
                        struct compile_report *report)
{
    static const struct compile_options defaults;
    const struct compile_options *o = options ? options : &defaults;
    struct arena arena = { 0 };
    struct once_split split;
    if (report) memset(report, 0, sizeof *report);
    if (module_fn(m, fn)->global) return compile_for_ranks(m, fn, o, report);
    hop_cleanup_push(arena_free, &arena);
    bool keeps = once_split(&arena, m, fn, &o->constant, &split);
    struct exe *e = compile_one(m, keeps ? split.main : fn, o, report);
    if (keeps) {
        struct compile_options plain = *o;
        plain.over = NULL;
        plain.keep_lp = false;
        plain.keep_ir_text = false;
        plain.keep_machine_text = false;
        plain.passes.report = NULL;
        plain.passes.profile = false;
        hop_cleanup_push(exe_free, e);
        struct exe *init = compile_one(m, split.init, &plain, NULL);
        name_inputs(init, m, module_fn(m, fn), &split);
        e->once = once_new(init, &split);
        hop_cleanup_pop(e);
    }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return e;
}

const struct lp_update *exe_updates(const struct exe *e, uint32_t *n)
{
    *n = e->n_updates;
    return e->updates;
}
const struct fn *exe_header(const struct exe *e, const struct module **m)
{
    *m = e->m;
    return e->header;
}
const char *exe_name(const struct exe *e) { return module_text(e->m, e->header->name); }
const char *exe_param_name(const struct exe *e, uint32_t p)
{
    return module_text(e->m, e->header->values[p].name);
}

bool exe_available(void) { return backend_at(0)->available(); }
bool exe_promising(void) { return plug_in_path() != NULL; }
static const struct exe *code_of(const struct exe *e) { return e->ranks ? e->ranks->local : e; }
const struct lp *exe_lp(const struct exe *e) { return code_of(e)->kept; }
size_t exe_arena_bytes(const struct exe *e)
{
    e = code_of(e);
    return e->arena_static ? (size_t)e->arena_size : (size_t)-1;
}
