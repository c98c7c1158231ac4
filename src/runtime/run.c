/* Running executables: exe_run binds symbols, lays out the buffers and calls the entry. Whatever a run needs
 * is kept and used again, so that repeated runs do not allocate. */
#include "runtime/exe_impl.h"
#include "runtime/launch.h"
#include "runtime/operator_call.h"
#include "interp/interp.h"
#include "ir/angle.h"
#include "dist/exchange.h"
#include "ir/finite.h"
#include "ops/misc.h"
#include "runtime/blas.h"
#include "runtime/conv.h"
#include "base/memory.h"
#include "runtime/offload.h"
#include "runtime/pool.h"
#include "runtime/profile.h"
#include "runtime/ready.h"
#include "loop/rt.h"

#include <math.h>

enum { KEPT_BYTES = 1 << 28, NOTE_SIZE = 3072, OPERATOR_NOTE = 1024 };

struct grown { /* memory of a BUF_DYN */
    void *block, *data;
    int64_t bytes;
    struct offload_file file; /* of one that is offloaded, instead of the block */
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
    struct tensor **args;            /* with what is kept behind the caller's arguments; NULL: nothing is */
    uint32_t n_given;                /* how many of them are the caller's */
    struct registered *_Atomic *operators; /* per site: what is registered, held until the run ends; NULL … */
    atomic_bool holds;                     /* … unless some are */
    struct offload_file file;              /* of all temporaries that are offloaded */
    void *block;                           /* the arena's, not aligned */
    int64_t block_bytes;
    bool borrowed;        /* temporaries lie in a caller's workspace: their places must be found again */
    uint32_t threads;     /* of this run, at most */
    uint32_t room;        /* threads that there are private buffers for … */
    int64_t thread_bytes; /* … so far apart, each with its table of buffers behind them … */
    int64_t table_at;     /* … that of the first there */
    void **tables;
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
    struct profiled_run profiled;
    struct rank *rank;             /* that runs it; NULL: no job */
    struct dist_request *requests; /* per exchange of the program that has been begun so far … */
    int32_t n_requests, n_open;    /* … and how many are under way */
    char note[NOTE_SIZE];
};

/* ---- blocks of the back end's memory ---- */

static void *aligned(void *at)
{
    return (void *)(((uintptr_t)at + ARENA_ALIGN - 1) & ~(uintptr_t)(ARENA_ALIGN - 1));
}

/* NULL: there is no more. Has room for `bytes` when it is aligned. */
static void *take_block(const struct exe *e, int64_t bytes)
{
    const struct memory_space *space = e->backend->memory;
    size_t room = (size_t)bytes + ARENA_ALIGN;
    if (space) return space->take(room);
    void *block = hop_try_malloc(room);
    if (block) memory_prefer_huge_pages(block, room);
    return block;
}

/* The block that was made ready for the first run; NULL: there is none, or it is too small. */
static void *take_ready(struct exe *e, int64_t bytes)
{
    return ready_end(atomic_exchange(&e->ready, NULL), (size_t)bytes + ARENA_ALIGN);
}

static void give_block(const struct exe *e, void *block)
{
    if (e->backend->memory) e->backend->memory->give_back(block);
    else hop_free(block);
}

static void copy_block(const struct exe *e, void *to, const void *from, size_t bytes)
{
    if (e->backend->memory) e->backend->memory->copy(to, from, bytes);
    else memcpy(to, from, bytes);
}

/* ---- what native code calls ---- */

static void offload_message(char *out, size_t size, const struct lp_buffer *b, int64_t bytes, int error)
{
    snprintf(out, size,
             "%s: %lld bytes cannot be moved to a file in '%.200s': %s; HOP_OFFLOAD in the environment "
             "names another directory",
             b->offloaded, (long long)bytes, offload_directory(), strerror(error));
}

/* Room in a file, which grows by doubling; NULL: there is none, which is noted. */
static void *reserve_in_file(struct run *r, struct grown *g, int32_t buffer, int64_t bytes)
{
    const struct lp_buffer *b = &r->e->buffers[buffer];
    struct offload_file *f = &g->file;
    if ((uint64_t)bytes > f->bytes) {
        size_t want = HOP_MAX((size_t)bytes, (size_t)OFFLOAD_PIECE);
        struct offload_file before = *f;
        int error = offload_reserve(f, HOP_MAX(want, 2 * f->bytes));
        if (error) error = offload_reserve(f, want);
        if (!error) error = offload_map(f);
        if (error) {
            offload_message(r->note, sizeof r->note, b, bytes, error);
            r->told_status = HOP_IO;
            return NULL;
        }
        offload_unmap(&before);
    }
    r->buffers[buffer] = f->data;
    return f->data;
}

static void *rt_reserve(struct hop_rt *rt, int32_t buffer, int64_t bytes)
{
    struct run *r = rt->state;
    struct grown *g = r->grown;
    for (const struct bound_buffer *d = r->e->dyn; d->buffer != (uint32_t)buffer; d++) g++;
    if (r->e->buffers[buffer].offloaded) return reserve_in_file(r, g, buffer, bytes);
    if (!g->block || bytes > g->bytes) {
        int64_t want = HOP_MAX(HOP_MAX(bytes, ARENA_ALIGN), g->bytes > INT64_MAX / 4 ? bytes : 2 * g->bytes);
        void *block = want > INT64_MAX / 2 ? NULL : take_block(r->e, want);
        if (!block && want > bytes) {
            want = bytes;
            block = take_block(r->e, want);
        }
        if (!block) return NULL;
        void *data = aligned(block);
        if (r->buffers[buffer]) copy_block(r->e, data, g->data, (size_t)g->bytes);
        give_block(r->e, g->block);
        *g = (struct grown){ block, data, want };
    }
    r->buffers[buffer] = g->data;
    return g->data;
}

static struct tensor **shown_tensors(struct arena *arena, const struct hop_rt_operand *operands, int32_t n)
{
    struct tensor **list = ARENA_NEW(arena, struct tensor *, n);
    for (int32_t i = 0; i < n; i++) {
        struct tensor *t = ARENA_ZNEW(arena, struct tensor, 1);
        list[i] = t;
        t->refs = 1;
        t->dtype = (uint8_t)operands[i].dtype;
        t->rank = (uint8_t)operands[i].rank;
        t->count = 1;
        for (uint32_t d = 0; d < t->rank; d++) {
            t->dims[d] = operands[i].dims[d];
            t->count *= t->dims[d];
        }
        t->data = operands[i].data;
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
        check_failed_text(&out, s->place, s->stack, s->text, shown_tensors(&arena, operands, n), (uint32_t)n);
        snprintf(r->note, sizeof r->note, "%s", out.data ? out.data : "");
        hop_catch_end(&c);
    } else {
        snprintf(r->note, sizeof r->note, "%s%s", s->place, s->text);
    }
    arena_free(&arena);
}

static int32_t rt_finite(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *operands)
{
    struct run *r = rt->state;
    struct arena arena = { 0 };
    struct hop_catch c;
    const struct site *s = &r->e->sites[site];
    volatile int32_t failed = 1;
    if (HOP_TRY(c)) {
        struct finite what = finite_read(&arena, s->text);
        struct tensor **shown = shown_tensors(&arena, operands, n);
        struct finite_found found = finite_look(&what, shown, (uint32_t)n);
        failed = found.made != MADE_NOTHING;
        if (failed && !atomic_exchange(&r->noted, true)) {
            struct text out = { .arena = &arena };
            finite_text(&what, found, s->place, s->stack, shown, (uint32_t)n, &out);
            snprintf(r->note, sizeof r->note, "%s", out.data);
        }
        hop_catch_end(&c);
    } else if (!atomic_exchange(&r->noted, true)) {
        snprintf(r->note, sizeof r->note, "%sdebug_nans: a NaN or an infinity", s->place);
    }
    arena_free(&arena);
    return failed;
}

/* What all ranks have alike, rank 0 prints; of other lines it is said whose they are. */
static bool is_said_elsewhere(const struct run *r, int32_t site)
{
    return r->rank && r->rank->number && !r->e->sites[site].varies;
}
static void put_rank(const struct run *r, int32_t site, struct text *out)
{
    if (r->rank && r->rank->size > 1 && r->e->sites[site].varies) text_add(out, "rank %d: ", r->rank->number);
}

static void rt_print(struct hop_rt *rt, int32_t site, int32_t n, const struct hop_rt_operand *operands)
{
    struct run *r = rt->state;
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    struct hop_catch c;
    if (!r->print || atomic_load_explicit(&r->ended, memory_order_relaxed)) return;
    if (is_said_elsewhere(r, site)) return;
    if (HOP_TRY(c)) {
        put_rank(r, site, &out);
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
    if (atomic_load_explicit(&r->ended, memory_order_relaxed)) {
        r->told_status = HOP_CANCELLED;
        snprintf(r->note, sizeof r->note, "the run was cancelled");
        return 1;
    }
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

/* Something outside went wrong; of several threads the first says what. */
static int32_t note_told(struct run *r, int status, const char *note)
{
    if (atomic_exchange(&r->noted, true)) return 1;
    r->told_status = status;
    snprintf(r->note, sizeof r->note, "%s", note);
    return 1;
}

/* The operator that the site names, held until the run ends; NULL: there is none, which is noted. */
static struct registered *hold_operator(struct run *r, int32_t site)
{
    const struct site *s = &r->e->sites[site];
    struct registered *volatile found = NULL;
    struct hop_catch c;
    if (HOP_TRY(c)) {
        found = operator_expect(s->place, s->text, s->declared, s->effects, s->version);
        hop_catch_end(&c);
    } else {
        note_told(r, hop_caught(), hop_message());
        return NULL;
    }
    struct registered *mine = found, *first = NULL;
    atomic_store(&r->holds, true);
    if (atomic_compare_exchange_strong(&r->operators[site], &first, mine)) return mine;
    operator_drop(mine);
    return first;
}

static void drop_operators(struct run *r)
{
    if (!atomic_load_explicit(&r->holds, memory_order_relaxed)) return;
    for (uint32_t i = 0; i < r->e->n_sites; i++) {
        struct registered *of = atomic_exchange(&r->operators[i], NULL);
        if (of) operator_drop(of);
    }
    atomic_store(&r->holds, false);
}

static _Thread_local char this_thread;

static int32_t rt_call(struct hop_rt *rt, struct hop_rt_call *call)
{
    struct run *r = rt->state;
    const struct site *s = &r->e->sites[call->site];
    char note[OPERATOR_NOTE];
    if (!*s->declared) return rt_callback(rt, call->site, call->n, call->operands);
    if (atomic_load_explicit(&r->ended, memory_order_relaxed))
        return note_told(r, HOP_CANCELLED, "the run was cancelled");
    struct registered *of = atomic_load_explicit(&r->operators[call->site], memory_order_acquire);
    if (!of) of = hold_operator(r, call->site);
    if (!of) return 1;
    bool asks = !r->confirm || r->thread == &this_thread; /* on another thread nobody is asked */
    struct outlet mine = { r->print, r->print_ctx, asks ? rt->cancel : NULL, r->confirm, r->confirm_ctx };
    const struct outlet *before = outlet_set(&mine);
    int status = operator_call(of, s, r->e->backend->memory, rt, call, note, sizeof note);
    outlet_set(before);
    return status ? note_told(r, status, note) : 0;
}

/* ---- exchanges ---- */

static int32_t note_exchange(struct run *r, hop_status status)
{
    return status ? note_told(r, (int)status, hop_message()) : 0;
}

/* The place of exchange `number`; NULL: no memory, which is noted. */
static struct dist_request *request_of(struct run *r, int32_t number)
{
    if (number >= r->n_requests) {
        int32_t n = HOP_MAX(number + 1, 2 * r->n_requests);
        struct dist_request *more = hop_try_malloc((size_t)n * sizeof *more);
        if (!more) {
            note_told(r, HOP_NOMEM, "out of memory while running");
            return NULL;
        }
        memset(more, 0, (size_t)n * sizeof *more);
        if (r->n_requests) memcpy(more, r->requests, (size_t)r->n_requests * sizeof *more);
        hop_free(r->requests);
        r->requests = more;
        r->n_requests = n;
    }
    return &r->requests[number];
}

/* A rank's own number is asked for by several threads at a time, all else by one. */
static int32_t rt_begin(struct hop_rt *rt, const struct hop_rt_exchange *x)
{
    struct run *r = rt->state;
    struct dist_request none, *request = &none;
    if (x->numbers->kind != HOP_RT_INDEX) request = request_of(r, x->number);
    if (!request) return 1;
    hop_status status = exchange_begin(r->rank, x, request);
    if (!status && request->comm) r->n_open++;
    return note_exchange(r, status);
}

static int32_t rt_wait(struct hop_rt *rt, int32_t number)
{
    struct run *r = rt->state;
    struct dist_request *request = &r->requests[number];
    if (!request->comm) return 0;
    r->n_open--;
    return note_exchange(r, exchange_wait(request));
}

/* A run that ends while exchanges are under way ends the job: others would go on to use its memory. */
static void leave_exchanges(struct run *r)
{
    if (r->n_open) dist_fail(r->rank, HOP_CANCELLED, hop_message());
    r->n_open = 0;
}

static int32_t rt_parallel(struct hop_rt *rt,
                           int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env,
                           int64_t n, int64_t grain)
{
    return pool_run(((struct run *)rt->state)->threads, rt, body, env, n, grain);
}

/* Of the thread at hand in this run: a worker of the pool may have a run of its own inside of a job. */
static uint32_t thread_number(const struct run *r) { return r->thread == &this_thread ? 0 : pool_number(); }

static int64_t rt_offset(struct hop_rt *rt)
{
    const struct run *r = rt->state;
    return thread_number(r) * r->thread_bytes;
}

/* What the thread that runs the loop has at this time, but for private buffers. Those that procedures are
 * given are set by whoever calls them. */
static void **rt_table(struct hop_rt *rt, void **table)
{
    const struct run *r = rt->state;
    const struct exe *e = r->e;
    uint32_t number = thread_number(r);
    if (!number) return table;
    int64_t offset = number * r->thread_bytes;
    void **own = r->tables + offset / (int64_t)sizeof(void *);
    for (uint32_t b = 0; b < e->n_buffers; b++) {
        const struct lp_buffer *buffer = &e->buffers[b];
        if (!buffer->private) own[b] = r->buffers[b];
        else if (buffer->kind == BUF_TEMP) own[b] = (char *)r->buffers[b] + offset;
    }
    return own + (table - r->buffers);
}

/* Other threads of the run leave when its own has been told to. */
static int32_t rt_asked(struct hop_rt *rt)
{
    struct run *r = rt->state;
    if (!r->confirm || (r->thread == &this_thread && !atomic_load(&r->ended) && r->confirm(r->confirm_ctx)))
        atomic_store(&r->ended, true);
    return atomic_load(&r->ended) ? HOP_CANCELLED : HOP_OK;
}

static bool lies_in(const struct offload_file *f, const char *at)
{
    return f->data && at >= f->data && at < f->data + f->bytes;
}

static void rt_drop(struct hop_rt *rt, const void *at, uint64_t bytes, int32_t again)
{
    const struct run *r = rt->state;
    const struct offload_file *f = lies_in(&r->file, at) ? &r->file : NULL;
    for (uint32_t i = 0; i < r->e->n_dyn && !f; i++)
        if (lies_in(&r->grown[i].file, at)) f = &r->grown[i].file;
    if (f) offload_drop(f, at, bytes, again);
}

static void *rt_copy(void *to, const void *from, uint64_t bytes) { return memmove(to, from, bytes); }
static void *rt_zero(void *to, int value, uint64_t bytes) { return memset(to, value, bytes); }

static const volatile int32_t never_cancelled;

/* ---- runs ---- */

void run_free(struct run *r)
{
    if (!r) return;
    for (uint32_t i = 0; i < r->e->n_dyn; i++) give_block(r->e, r->grown[i].block);
    give_block(r->e, r->block);
    hop_free(r->requests);
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
    if (e->once) size += f->n_params * sizeof(struct tensor *);
    size += e->n_sites * sizeof(struct registered *);
    if (e->marks)
        size += marks_counters(e->marks) * sizeof(uint64_t) + marks_levels(e->marks) * sizeof(int32_t);
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
    for (uint32_t i = 0; i < f->n_params + f->n_results; i++) {
        r->views[i].dims = dims;
        dims += MAX_RANK;
    }
    if (e->once) {
        r->args = (struct tensor **)dims;
        r->n_given = f->n_params - once_count(e->once);
        dims = (int64_t *)(r->args + f->n_params);
    }
    r->operators = (struct registered * _Atomic *)dims;
    r->rt = (struct hop_rt){
        .asked = rt_asked,
        .gemm = blas_gemm,
        .pack = blas_pack,
        .conv = conv_multiply,
        .reserve = rt_reserve,
        .check = rt_check,
        .finite = rt_finite,
        .print = rt_print,
        .call = rt_call,
        .begin = rt_begin,
        .wait = rt_wait,
        .parallel = rt_parallel,
        .offset = rt_offset,
        .table = rt_table,
        .drop = rt_drop,
        .copy = rt_copy,
        .zero = rt_zero,
        .fmod = fmod,
        .fmodf = fmodf,
        .far = angle_far_lanes,
        .buffers = r->buffers,
        .state = r,
    };
    if (e->marks) {
        r->rt.counters = (uint64_t *)(r->operators + e->n_sites);
        r->rt.at = (int32_t *)(r->rt.counters + marks_counters(e->marks));
        r->profiled = (struct profiled_run){
            .e = e, .at = r->rt.at, .counters = r->rt.counters, .symbols = r->symbols
        };
    }
    for (uint32_t b = 0; b < e->n_buffers; b++)
        r->buffers[b] = e->brought ? e->brought[b] : (void *)e->constants[b];
    return r;
}

static struct run *run_take(struct exe *e)
{
    for (uint32_t i = 0; i < SPARE_RUNS; i++) {
        struct run *r = atomic_load_explicit(&e->spare[i], memory_order_relaxed);
        if (r) r = atomic_exchange_explicit(&e->spare[i], NULL, memory_order_acquire);
        if (r) return r;
    }
    return run_new(e);
}

/* Gives a run back, whatever state it is in. */
static void run_return(void *run)
{
    struct run *r = run;
    struct exe *e = r->e;
    leave_exchanges(r);
    if (e->marks) profile_leave(&r->profiled);
    for (uint32_t i = 0; i < e->header->n_results; i++) {
        tensor_free(r->fresh[i]);
        r->fresh[i] = NULL;
    }
    for (uint32_t i = r->n_given; r->args && i < e->header->n_params; i++) {
        tensor_free(r->args[i]);
        r->args[i] = NULL;
    }
    drop_operators(r);
    offload_close(&r->file);
    for (uint32_t i = 0; i < e->n_dyn; i++) {
        r->buffers[e->dyn[i].buffer] = NULL;
        offload_close(&r->grown[i].file);
        if (r->grown[i].bytes <= KEPT_BYTES) continue;
        give_block(e, r->grown[i].block);
        r->grown[i] = (struct grown){ 0 };
    }
    for (uint32_t i = 0; i < SPARE_RUNS; i++) {
        struct run *none = NULL;
        if (atomic_load_explicit(&e->spare[i], memory_order_relaxed)) continue;
        bool kept = atomic_compare_exchange_strong_explicit(&e->spare[i], &none, r, memory_order_release,
                                                            memory_order_relaxed);
        if (kept) return;
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

/* Another memory is not for the pool's threads. */
static uint32_t run_threads(const struct exe *e)
{
    if (e->backend->memory) return 1;
    return e->threads ? HOP_MIN(e->threads, POOL_MOST_THREADS) : pool_threads();
}

/* Where each slot lies, private ones behind the others; returns what all need together, with private ones for
 * so many threads. */
static int64_t place_slots(struct run *r, uint32_t threads)
{
    const struct exe *e = r->e;
    int64_t bytes = e->arena_static ? e->arena_size : 0, private = e->private_size;
    for (int own = 0; own < 2; own++) {
        int64_t first = bytes;
        for (uint32_t i = 0; i < e->n_slots; i++) {
            if (e->slot_private[i] != own) continue;
            r->slot_at[i] = bytes;
            bytes = add_aligned(bytes, dim_eval(e->m, e->slots[i], r->symbols));
        }
        if (own && !e->arena_static) private = bytes - first;
    }
    if (!e->has_private) return bytes;
    int64_t first = bytes - private, tables = e->gives_tables ? e->n_buffers * (int64_t)sizeof(void *) : 0;
    private = add_aligned(private, 0);
    r->table_at = first + private;
    r->thread_bytes = add_aligned(private, tables);
    if (__builtin_mul_overflow((int64_t)threads, r->thread_bytes, &bytes))
        hop_throw(HOP_INVALID, "the temporaries of this run need more than 2^62 bytes");
    return add_aligned(first, bytes);
}

/* Memory for temporaries; stays as it is from run to run while sizes and threads do not grow. */
static void place_temporaries(struct run *r, const struct exe_call *call)
{
    const struct exe *e = r->e;
    bool given = call && call->workspace;
    bool enough = !e->has_private || r->room >= r->threads;
    if ((e->arena_static || r->sized) && !given && !r->borrowed && enough && (r->block || !e->arena_size))
        return;
    int64_t bytes = place_slots(r, r->threads);
    if (given && (size_t)bytes + ARENA_ALIGN > call->workspace_bytes)
        hop_throw(HOP_INVALID, "the workspace has %zu bytes, but this run needs %zu", call->workspace_bytes,
                  (size_t)bytes + ARENA_ALIGN);
    bool own = !given || e->backend->memory; /* of another memory the caller has none */
    if (own && (!r->block || bytes > r->block_bytes)) {
        give_block(e, r->block);
        r->block = take_ready(r->e, bytes);
        if (!r->block) r->block = take_block(e, bytes);
        if (!r->block)
            hop_throw(HOP_NOMEM, "out of memory: %zu bytes could not be had", (size_t)bytes + ARENA_ALIGN);
        r->block_bytes = bytes;
    }
    if (!own) give_block(e, take_ready(r->e, 0));
    r->borrowed = given;
    char *base = aligned(own ? r->block : call->workspace);
    for (uint32_t b = 0; b < e->n_buffers; b++)
        if (e->buffers[b].kind == BUF_TEMP && !e->buffers[b].offloaded)
            r->buffers[b] = base + (e->arena_static ? e->buffers[b].offset : r->slot_at[e->buffers[b].slot]);
    r->tables = (void **)base + r->table_at / (int64_t)sizeof(void *);
    r->room = r->threads;
}

/* A file of this run for the temporaries that are offloaded. It holds them one after the other. */
static void place_offloaded(struct run *r)
{
    const struct exe *e = r->e;
    for (int mapped = 0; mapped < 2; mapped++) {
        size_t at = 0;
        for (uint32_t b = 0; b < e->n_buffers; b++) {
            const struct lp_buffer *buffer = &e->buffers[b];
            if (!buffer->offloaded || buffer->kind != BUF_TEMP) continue;
            int64_t count = buffer->static_count, bytes, end;
            if (count < 0) count = dim_eval(e->m, buffer->count, r->symbols);
            if (__builtin_mul_overflow(count, (int64_t)dtype_info[buffer->dtype].size, &bytes))
                bytes = INT64_MAX / 2;
            end = add_aligned((int64_t)at, bytes);
            if (mapped) r->buffers[b] = r->file.data + at;
            int error = mapped ? 0 : offload_reserve(&r->file, (size_t)end);
            if (error) {
                char why[NOTE_SIZE];
                offload_message(why, sizeof why, buffer, bytes, error);
                hop_throw(HOP_IO, "%s", why);
            }
            at = (size_t)end;
        }
        int error = mapped || !r->file.bytes ? 0 : offload_map(&r->file);
        if (error)
            hop_throw(HOP_NOMEM, "a file of %zu bytes cannot be mapped: %s", r->file.bytes, strerror(error));
    }
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
        if (e->backend->memory) { /* the block stays for the next run */
            r->fresh[k] = new_result(r, k);
            e->backend->memory->copy_out(r->fresh[k]->data, g->data, tensor_bytes(r->fresh[k]));
            continue;
        }
        r->fresh[k] = tensor_borrow((enum dtype)v->dtype, v->rank, v->dims, g->data, hop_free, g->block);
        r->fresh[k]->own = true;
        *g = (struct grown){ 0 };
    }
}

/* The argument that native code gave back: programs make no objects. */
static struct tensor *object_of(const struct run *r, struct tensor *const *args, type_id type,
                                uint64_t handle)
{
    for (uint32_t p = 0; p < r->e->header->n_params; p++) /* one pointer may be given under several kinds */
        if (value_type(r->e->header, p) == type && args[p]->handle == handle) return tensor_ref(args[p]);
    hop_throw(HOP_INTERNAL, "a result is an object that no argument is");
}

/* Native code gives back handles. */
static void name_objects(struct run *r, struct tensor *const *args)
{
    const struct fn *h = r->e->header;
    for (uint32_t k = 0; k < h->n_results; k++) {
        struct tensor *made = r->fresh[k];
        if (!made || !tensor_is_object(made)) continue;
        r->fresh[k] = object_of(r, args, value_type(h, h->results[k]), *(const uint64_t *)made->data);
        tensor_free(made);
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
    case HOP_INVALID: hop_throw((hop_status)r->told_status, "%s", r->note); /* something outside failed */
    case HOP_NOMEM:
        if (r->told_status == HOP_IO) hop_throw(HOP_IO, "%s", r->note);
        hop_throw(HOP_NOMEM, "out of memory while running");
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
        same &= !args[p]->kind; /* kinds are compared by bind_symbols */
    }
    if (same) return;
    r->sized = false;
    for (uint32_t p = 0; p < f->n_params; p++) {
        struct shape_view *v = &r->views[p];
        v->dtype = args[p]->dtype;
        v->rank = args[p]->rank;
        v->kind = args[p]->kind;
        memcpy((int64_t *)v->dims, args[p]->dims, v->rank * sizeof *v->dims);
    }
    bind_symbols(e->m, f, r->views, dims, r->symbols);
    for (uint32_t i = 0; i < e->n_results; i++) view_result(r, e->results[i].index);
}

/* The program's arguments: the caller's, and what is kept. */
static struct tensor *const *all_arguments(struct run *r, struct tensor *const *args,
                                           const struct exe_call *call)
{
    if (!r->args) return args;
    if (r->n_given) memcpy(r->args, args, r->n_given * sizeof *args);
    once_values(r->e->once, args, call, r->args + r->n_given);
    return r->args;
}

size_t exe_workspace(struct exe *e, struct tensor *const *args, const int64_t *dims)
{
    if (e->ranks) hop_throw(HOP_INVALID, "a program over a mesh takes no workspace of the caller's");
    struct run *r = run_take(e);
    hop_cleanup_push(run_return, r);
    args = all_arguments(r, args, NULL);
    size_run(r, args, dims);
    r->sized = false;
    size_t bytes = (size_t)place_slots(r, run_threads(e)) + ARENA_ALIGN;
    hop_cleanup_pop(r);
    run_return(r);
    return bytes;
}

static void run_local(void *local, const struct rank_run *r)
{
    exe_run(local, r->args, r->dims, r->results, r->call);
}

void exe_run(struct exe *e, struct tensor *const *args, const int64_t *dims, struct tensor **results,
             const struct exe_call *call)
{
    if (e->ranks) {
        mesh_run(&e->ranks->program, args, dims, results, call, run_local, e->ranks->local);
        return;
    }
    struct run *r = run_take(e);
    hop_cleanup_push(run_return, r);
    if (e->marks) profile_enter(&r->profiled);
    args = all_arguments(r, args, call);
    size_run(r, args, dims);
    check_objects_differ(e->m, e->header, args);
    r->threads = run_threads(e);
    place_temporaries(r, call);
    if (e->n_offloaded) place_offloaded(r);
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
    r->rank = rank_current();
    r->told_status = HOP_OK;
    atomic_store_explicit(&r->noted, false, memory_order_relaxed);
    atomic_store_explicit(&r->ended, false, memory_order_relaxed);

    int32_t status;
    if (e->entry) status = e->entry(&r->rt, r->buffers, r->symbols);
    else status = launch_plan(e, &r->rt, r->buffers, r->symbols);
    if (!status && atomic_load_explicit(&r->ended, memory_order_relaxed))
        status = HOP_CANCELLED; /* a product was left unfinished */
    if (status) run_failed(r, status);
    if (r->told_status) hop_throw((hop_status)r->told_status, "%s", r->note);
    r->profiled.succeeded = true;
    take_grown(r, results);
    if (e->m->has_objects) name_objects(r, args);
    hand_out(r, results);
    hop_cleanup_pop(r);
    run_return(r);
}
