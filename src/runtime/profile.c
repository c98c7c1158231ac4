/* Profiles: the thread that looks at runs in progress, and what it has seen. Everything that runs, profiles
 * and that thread share lies behind one lock; executables that were not compiled for profiles never come
 * here. */
#include "runtime/profile.h"
#include "runtime/exe_impl.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static const double USUAL_INTERVAL = 300e-6, LEAST_INTERVAL = 20e-6, MOST_INTERVAL = 1.0;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t registered = PTHREAD_ONCE_INIT;

/* The thread that might hold it is not in the child. */
static void child_after_fork(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    lock = mutex;
}
static void register_fork(void) { pthread_atfork(NULL, NULL, child_after_fork); }

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- marks ---- */

/* "file:line" of "file:line:col: ". */
static const char *short_place(struct arena *a, struct module *m, struct place p)
{
    char *text = arena_printf(a, "%s", p.line ? place_text(m, p) : "");
    char *end = strrchr(text, ':');
    if (end) *end = 0;
    return text;
}

struct mark_table *marks_new(const struct lp *p)
{
    struct mark_table *t = hop_calloc(1, sizeof *t);
    hop_cleanup_push((void (*)(void *))marks_drop, t);
    t->refs = 1;
    t->n = p->marks.len;
    t->levels = 1;
    t->marks = ARENA_ZNEW(&t->arena, struct mark, t->n);
    for (uint32_t i = 0; i < p->procedures.len; i++)
        t->levels = HOP_MAX(t->levels, p->procedures.data[i]->level + 1);
    for (uint32_t i = 0; i < t->n; i++) {
        const struct lp_mark *from = &p->marks.data[i];
        struct mark *to = &t->marks[i];
        *to = (struct mark){ .kind = from->kind,
                             .kept = from->kept,
                             .level = from->level,
                             .parent = from->parent,
                             .label = arena_string(&t->arena, from->label, strlen(from->label)),
                             .place = "",
                             .stack = "",
                             .n_lines = from->n_places };
        if (!from->kept) continue;
        to->lines = ARENA_NEW(&t->arena, const char *, from->n_places);
        for (uint32_t k = 0; k < from->n_places; k++)
            to->lines[k] = short_place(&t->arena, p->m, from->places[k]);
        if (!from->n_places) continue;
        const char *stack = place_stack(p->m, from->places[0]);
        to->place = to->lines[0];
        to->stack = arena_string(&t->arena, stack, strlen(stack));
    }
    hop_cleanup_pop(t);
    return t;
}

void marks_drop(struct mark_table *t)
{
    if (!t || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL)) return;
    arena_free(&t->arena);
    hop_free(t);
}

/* ---- what was seen ---- */

static void profile_drop(struct profile *p)
{
    if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL)) return;
    marks_drop(p->table);
    hop_free(p->contexts);
    hop_free(p->counters);
    hop_free(p->bytes);
    hop_free(p->operations);
    hop_free(p);
}

/* The context of a mark within another; HOP_NONE: there is no memory for it. */
static uint32_t context_in(struct profile *p, uint32_t parent, uint32_t mark)
{
    for (uint32_t c = p->contexts[parent].child; c != HOP_NONE; c = p->contexts[c].sibling)
        if (p->contexts[c].mark == mark) return c;
    if (p->n_contexts == p->room) {
        struct context *more = hop_try_malloc(2 * (size_t)p->room * sizeof *more);
        if (!more) return HOP_NONE;
        memcpy(more, p->contexts, p->room * sizeof *more);
        hop_free(p->contexts);
        p->contexts = more;
        p->room *= 2;
    }
    uint32_t c = p->n_contexts++;
    p->contexts[c] = (struct context){
        .mark = mark, .parent = parent, .child = HOP_NONE, .sibling = p->contexts[parent].child
    };
    p->contexts[parent].child = c;
    return c;
}

/* The same for a mark with those that it stands in, up to the procedure. */
static uint32_t context_of(struct profile *p, uint32_t around, uint32_t mark)
{
    uint32_t path[64], n = 0;
    for (uint32_t m = mark; m && m != HOP_NONE; m = p->table->marks[m].parent)
        if (n < HOP_COUNT(path)) path[n++] = m;
    while (n && around != HOP_NONE) around = context_in(p, around, path[--n]);
    return around;
}

enum { MOST_LEVELS = 64, LOOKS = 4 };

/* Numbers that stood there at one time, as far as two looks can tell. */
static bool look(const struct profiled_run *r, uint32_t levels, int32_t *at)
{
    for (uint32_t tries = 0; tries < LOOKS; tries++) {
        bool same = true;
        for (uint32_t k = 0; k < levels; k++) at[k] = __atomic_load_n(&r->at[k], __ATOMIC_RELAXED);
        for (uint32_t k = levels; k-- > 0;) same &= at[k] == __atomic_load_n(&r->at[k], __ATOMIC_RELAXED);
        if (same) return true;
    }
    return false;
}

static void see_run(struct profile *p, const struct profiled_run *r, double seconds)
{
    int32_t at[MOST_LEVELS];
    uint32_t levels = HOP_MIN(p->table->levels, (uint32_t)MOST_LEVELS);
    bool seen = look(r, levels, at);
    uint32_t c = seen ? context_of(p, 0, (uint32_t)HOP_MAX(at[0], 1) - 1) : HOP_NONE;
    for (uint32_t k = levels - 1; k > 0 && c != HOP_NONE; k--)
        if (at[k] > 0) c = context_of(p, c, (uint32_t)at[k] - 1);
    if (c == HOP_NONE) {
        p->n_lost++;
        return;
    }
    p->n_samples++;
    p->contexts[c].samples++;
    p->contexts[c].seconds += seconds;
}

void profile_sample(struct profile *p, double seconds)
{
    double time = now();
    pthread_mutex_lock(&lock);
    for (const struct profiled_run *r = p->runs; r; r = r->next) {
        double since = p->sampling ? HOP_MIN(seconds, HOP_MAX(time - r->began, 0)) : seconds;
        see_run(p, r, since);
    }
    pthread_mutex_unlock(&lock);
}

static void *sampler(void *profile)
{
    struct profile *p = profile;
    uint64_t state = 88172645463325252u;
    double before = now();
    while (!__atomic_load_n(&p->stop, __ATOMIC_RELAXED)) {
        /* not in step with what the program repeats */
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        double wait = p->interval * (0.75 + 0.5 * (double)(state >> 11) * 0x1p-53);
        struct timespec t = { (time_t)wait, (long)((wait - floor(wait)) * 1e9) };
        nanosleep(&t, NULL);
        double time = now();
        profile_sample(p, time - before);
        before = time;
    }
    return NULL;
}

/* ---- runs ---- */

void profile_enter(struct profiled_run *r)
{
    const struct mark_table *t = r->e->marks;
    memset(r->counters, 0, marks_counters(t) * sizeof *r->counters);
    memset(r->at, 0, t->levels * sizeof *r->at);
    r->at[0] = 1;
    r->succeeded = false;
    pthread_mutex_lock(&lock);
    struct profile *p = r->e->profile;
    if (p) {
        r->profile = p;
        r->next = p->runs;
        p->runs = r;
        __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
    r->began = now();
}

static double amount(const struct exe *e, struct lp_amount a, const int64_t *symbols)
{
    double sum = 0;
    for (uint32_t i = 0; i < a.n; i++) {
        double product = a.terms[i].factor;
        for (uint32_t k = 0; k < a.terms[i].n; k++)
            product *= (double)dim_eval(e->m, a.terms[i].dims[k], symbols);
        sum += product;
    }
    return sum;
}

static void add_counts(struct profile *p, const struct profiled_run *r)
{
    const struct exe *e = r->e;
    r->counters[0] = 1;
    for (uint32_t i = 0; i < p->table->n; i++) {
        uint64_t entered = r->counters[2 * i];
        p->counters[2 * i] += entered;
        p->counters[2 * i + 1] += r->counters[2 * i + 1];
        if (!entered) continue;
        p->bytes[i] += (double)entered * amount(e, e->bytes[i], r->symbols);
        p->operations[i] += (double)entered * amount(e, e->operations[i], r->symbols);
    }
}

void profile_leave(struct profiled_run *r)
{
    struct profile *p = r->profile;
    if (!p) return;
    double time = now();
    pthread_mutex_lock(&lock);
    struct profiled_run **at = &p->runs;
    while (*at != r) at = &(*at)->next;
    *at = r->next;
    r->profile = NULL;
    p->n_runs++;
    p->n_failed += !r->succeeded;
    p->run_seconds += time - r->began;
    /* a run that ended early may not know all sizes */
    if (r->succeeded) add_counts(p, r);
    pthread_mutex_unlock(&lock);
    profile_drop(p);
}

void profile_detach(struct exe *e)
{
    pthread_mutex_lock(&lock);
    if (e->profile) e->profile->e = NULL;
    e->profile = NULL;
    pthread_mutex_unlock(&lock);
}

/* ---- beginning and end ---- */

static void profile_abandon(void *profile) { profile_drop(profile); }

static void start_thread(struct profile *p)
{
    sigset_t all, before;
    sigfillset(&all);
    p->sampling = true;
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    int error = pthread_create(&p->thread, NULL, sampler, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error) return;
    p->sampling = false;
    hop_throw(HOP_NOMEM, "profile: no thread could be started: %s", strerror(error));
}

struct profile *profile_start(struct exe *e, double interval)
{
    enum { FIRST_ROOM = 64 };
    if (!e->marks) hop_throw(HOP_INVALID, "profile: the executable was not compiled with the option profile");
    if (interval != interval || interval > MOST_INTERVAL)
        hop_throw(HOP_INVALID, "profile: expected an interval of up to a second, found %g", interval);
    pthread_once(&registered, register_fork);
    struct profile *p = hop_calloc(1, sizeof *p);
    p->refs = 1;
    p->process = getpid();
    hop_cleanup_push(profile_abandon, p);
    p->interval = interval > 0 ? HOP_MAX(interval, LEAST_INTERVAL) : USUAL_INTERVAL;
    p->contexts = hop_calloc(FIRST_ROOM, sizeof *p->contexts);
    p->room = FIRST_ROOM;
    p->contexts[0] = (struct context){
        .mark = 0, .parent = HOP_NONE, .child = HOP_NONE, .sibling = HOP_NONE
    };
    p->n_contexts = 1;
    p->counters = hop_calloc(marks_counters(e->marks), sizeof *p->counters);
    p->bytes = hop_calloc(e->marks->n, sizeof *p->bytes);
    p->operations = hop_calloc(e->marks->n, sizeof *p->operations);
    p->table = e->marks;
    __atomic_add_fetch(&p->table->refs, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&lock);
    bool taken = e->profile;
    if (!taken) {
        e->profile = p;
        p->e = e;
    }
    pthread_mutex_unlock(&lock);
    if (taken) hop_throw(HOP_INVALID, "profile: the executable is being profiled already");
    hop_cleanup_pop(p);
    hop_cleanup_push(profile_free, p);
    if (interval >= 0) start_thread(p);
    hop_cleanup_pop(p);
    return p;
}

void profile_stop(struct profile *p)
{
    pthread_mutex_lock(&lock);
    if (p->e) p->e->profile = NULL;
    p->e = NULL;
    bool waits = p->sampling && !p->stop && p->process == getpid(); /* a forked child has no such thread */
    __atomic_store_n(&p->stop, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    if (waits) pthread_join(p->thread, NULL);
}

void profile_free(void *profile)
{
    if (!profile) return;
    profile_stop(profile);
    profile_drop(profile);
}

/* Nothing may be thrown while the lock is held: there is room before it is taken. */
struct profile *profile_copy(struct arena *a, const struct profile *p)
{
    struct profile *to = ARENA_ZNEW(a, struct profile, 1);
    uint32_t marks = p->table->n;
    for (uint32_t room = 0;;) {
        struct context *contexts = ARENA_NEW(a, struct context, room + 1);
        uint64_t *counters = ARENA_NEW(a, uint64_t, 2 * marks);
        double *bytes = ARENA_NEW(a, double, marks), *operations = ARENA_NEW(a, double, marks);
        pthread_mutex_lock(&lock);
        uint32_t n = p->n_contexts;
        if (n <= room) {
            *to = *p;
            memcpy(contexts, p->contexts, n * sizeof *contexts);
            memcpy(counters, p->counters, 2 * marks * sizeof *counters);
            memcpy(bytes, p->bytes, marks * sizeof *bytes);
            memcpy(operations, p->operations, marks * sizeof *operations);
        }
        pthread_mutex_unlock(&lock);
        to->contexts = contexts;
        to->counters = counters;
        to->bytes = bytes;
        to->operations = operations;
        if (n <= room) return to;
        room = 2 * n;
    }
}
