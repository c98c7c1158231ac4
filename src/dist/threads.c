/* Ranks that are threads of this process. A rank posts what it brings to an exchange; whoever needs it reads
 * it where it lies, small arrays from a copy that lets their owner go on at once. A large all_reduce is cut
 * into stripes: each rank reduces one and writes it to everybody. Ranks that wait spin for a moment if there
 * is a processor for each, then sleep until somebody who made a step rings. */
#include "dist/crew.h"
#include "dist/dist_impl.h"
#include "runtime/pool.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE_SPINNING() __builtin_ia32_pause()
#else
#define PAUSE_SPINNING() ((void)0)
#endif

/* BLOCK: bytes that are copied or reduced between looks at the job's state, and of a stripe while they are in
 * the cache. SLEEP_NS: how long a sleep lasts at most before the rank looks around. */
enum { LINE = 64, BLOCK = 32768, SPINS = 1500, YIELDS = 2, SLEEP_NS = 5000000 };

/* What other ranks see of one. */
struct desk {
    _Atomic uint32_t bell; /* changes when it is rung */
    atomic_bool asleep;    /* or about to be: it has to be rung */
    atomic_bool busy;      /* may be using buffers of others */
    atomic_bool gone;
    char pad[LINE];
};

/* A member of a communicator, as the others see it. */
struct seat {
    _Atomic uint64_t posted[DIST_OPEN]; /* the number, and one, of the exchange that is described below … */
    _Atomic uint64_t left[DIST_OPEN];   /* … and of the last one that needs nothing of others any more */
    struct dist_call call[DIST_OPEN];
    char small[DIST_OPEN][DIST_SMALL];
    char pad[LINE];
};

/* What the members of a communicator share. */
struct meeting {
    struct meeting *next;
    uint32_t n_axes, which;
    int64_t sizes[DIST_AXES];
    int32_t first; /* the first member's number in the job */
    char pad[LINE];
    /* by all members together, in all exchanges that had this place of the ring */
    _Atomic uint64_t arrived[DIST_OPEN], left[DIST_OPEN];
    char pad_behind[LINE];
    struct seat seats[];
};

struct threads {
    bool spins;       /* there is a processor for each */
    uint32_t sharers; /* of the threads that programs run on */
    struct meeting *meetings;
    struct desk desks[];
};

static struct threads *threads_of(const struct rank *r) { return r->job->state; }
static struct desk *desk_of(const struct rank *r) { return &threads_of(r)->desks[r->number]; }

/* ---- sleeping and ringing ---- */

static void ring(const struct rank *r, int32_t number)
{
    struct desk *p = &threads_of(r)->desks[number];
    if (!atomic_load(&p->asleep)) return;
    atomic_fetch_add(&p->bell, 1);
    syscall(SYS_futex, &p->bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void ring_members(const struct comm *c)
{
    for (int32_t k = 0; k < c->size; k++)
        if (k != c->me) ring(c->rank, c->ranks[k]);
}

static void ring_everybody(const struct rank *r)
{
    for (int32_t k = 0; k < r->size; k++)
        if (k != r->number) ring(r, k);
}

/* Between being noted as asleep and sleeping the caller looks once more at what it waits for, and the bell
 * that it heard last is older than that look. */
static bool threads_pause(struct rank *r, uint32_t turn)
{
    static _Thread_local uint32_t heard;
    struct desk *p = desk_of(r);
    uint32_t awake_turns = threads_of(r)->spins ? SPINS : YIELDS;
    if (turn < awake_turns) {
        if (threads_of(r)->spins) PAUSE_SPINNING();
        else sched_yield();
        return false;
    }
    bool sleeps = turn > awake_turns;
    atomic_store(&p->asleep, true);
    if (sleeps) {
        struct timespec most = { .tv_nsec = SLEEP_NS };
        syscall(SYS_futex, &p->bell, FUTEX_WAIT_PRIVATE, heard, &most, NULL, 0);
    }
    heard = atomic_load(&p->bell);
    return sleeps;
}

static void threads_awake(struct rank *r) { atomic_store(&desk_of(r)->asleep, false); }

/* ---- using the buffers of others ---- */

/* Whoever fails waits until nobody is busy, and nobody becomes so after that. */
static bool become_busy(struct rank *r)
{
    atomic_store(&desk_of(r)->busy, true);
    if (!atomic_load(&r->job->failed)) return true;
    atomic_store(&desk_of(r)->busy, false);
    return false;
}

static void threads_end(struct rank *r, bool tell)
{
    if (tell) ring_everybody(r);
    for (int32_t k = 0; k < r->size; k++)
        while (k != r->number && atomic_load(&threads_of(r)->desks[k].busy)) sched_yield();
}

static bool copy(const struct rank *r, void *to, const void *from, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += BLOCK) {
        if (atomic_load_explicit(&r->job->failed, memory_order_relaxed)) return false;
        memcpy((char *)to + at, (const char *)from + at, (size_t)HOP_MIN(bytes - at, BLOCK));
    }
    return true;
}

/* ---- the exchanges ---- */

static struct seat *seat_of(const struct comm *c, int32_t k)
{
    struct meeting *m = c->state;
    return &m->seats[k];
}
static uint32_t slot_of(const struct open *o) { return (uint32_t)(o->number % DIST_OPEN); }

/* What all members together count up to when this exchange is complete. */
static uint64_t complete(const struct comm *c, uint64_t number)
{
    return (number / DIST_OPEN + 1) * (uint64_t)c->size;
}
static const struct dist_call *call_of(const struct comm *c, int32_t k, const struct open *o)
{
    return &seat_of(c, k)->call[slot_of(o)];
}
static bool has_posted(const struct comm *c, int32_t k, const struct open *o)
{
    return atomic_load(&seat_of(c, k)->posted[slot_of(o)]) > o->number;
}
static bool has_left(const struct comm *c, int32_t k, const struct open *o)
{
    return atomic_load(&seat_of(c, k)->left[slot_of(o)]) > o->number;
}
static bool is_small(const struct comm *c, const struct open *o) { return dist_in_bytes(c, o) <= DIST_SMALL; }

/* More may have left: of a permute or a broadcast a rank can be done before another begins it. */
static bool threads_is_free(struct comm *c, uint64_t number)
{
    struct meeting *m = c->state;
    return atomic_load(&m->left[number % DIST_OPEN]) >= number / DIST_OPEN * (uint64_t)c->size;
}

static void threads_begin(struct comm *c, struct open *o)
{
    struct meeting *m = c->state;
    uint32_t slot = slot_of(o);
    struct seat *mine = seat_of(c, c->me);
    mine->call[slot] = o->call;
    if (is_small(c, o)) {
        int64_t bytes = dist_in_bytes(c, o);
        if (bytes) memcpy(mine->small[slot], o->call.in, (size_t)bytes);
        mine->call[slot].in = mine->small[slot];
    }
    atomic_store(&mine->posted[slot], o->number + 1);
    bool last = atomic_fetch_add(&m->arrived[slot], 1) + 1 == complete(c, o->number);
    if (o->call.kind == DIST_PERMUTE) {
        if (o->call.to >= 0 && o->call.to != c->me) ring(c->rank, c->ranks[o->call.to]);
    } else if (last || (o->call.kind == DIST_BROADCAST && c->me == o->call.root)) {
        ring_members(c);
    }
}

static void leave(struct comm *c, const struct open *o)
{
    struct meeting *m = c->state;
    uint32_t slot = slot_of(o);
    atomic_store(&seat_of(c, c->me)->left[slot], o->number + 1);
    bool last = atomic_fetch_add(&m->left[slot], 1) + 1 == complete(c, o->number);
    if (last) ring_members(c);
    else if (o->call.kind == DIST_PERMUTE && o->call.from >= 0) ring(c->rank, c->ranks[o->call.from]);
}

/* Of n members' `in`, at a number of bytes. */
static void list_parts(const struct comm *c, const struct open *o, int64_t at, const void **parts)
{
    for (int32_t k = 0; k < c->size; k++) parts[k] = (const char *)call_of(c, k, o)->in + at;
}

/* Elements first … end of every rank's `in` to `out`, and to where the others have it if `everywhere`. */
static bool reduce_range(const struct comm *c, const struct open *o, const void **parts, int64_t first,
                         int64_t end, void *out, bool everywhere)
{
    int64_t width = element_bytes(o->call.dtype), step = BLOCK / width;
    for (int64_t at = first; at < end; at += step) {
        int64_t some = HOP_MIN(end - at, step);
        char *here = (char *)out + (at - first) * width;
        if (atomic_load_explicit(&c->rank->job->failed, memory_order_relaxed)) return false;
        list_parts(c, o, at * width, parts);
        dist_reduce(&o->call, c->size, parts, here, some);
        for (int32_t k = 0; everywhere && k < c->size; k++) {
            char *there = (char *)call_of(c, k, o)->out + at * width;
            if (k != c->me) memcpy(there, here, (size_t)(some * width));
        }
    }
    return true;
}

static bool all_reduce(const struct comm *c, const struct open *o, const void **parts)
{
    const struct dist_call *call = &o->call;
    if (is_small(c, o)) return reduce_range(c, o, parts, 0, call->size, call->out, false);
    int64_t lines = (call->size + LINE - 1) / LINE; /* stripes are whole lines of elements */
    int64_t first = HOP_MIN(lines * c->me / c->size * LINE, call->size);
    int64_t end = HOP_MIN(lines * (c->me + 1) / c->size * LINE, call->size);
    char *out = (char *)call->out + first * element_bytes(call->dtype);
    return reduce_range(c, o, parts, first, end, out, true);
}

static bool reduce_scatter(const struct comm *c, const struct open *o, const void **parts)
{
    const struct dist_call *call = &o->call;
    int64_t mine = sent_size(call, c->me), width = element_bytes(call->dtype);
    for (int64_t row = 0; row < call->rows; row++) {
        int64_t first = row * o->total + o->before;
        char *out = (char *)call->out + row * mine * width;
        if (!reduce_range(c, o, parts, first, first + mine, out, false)) return false;
    }
    return true;
}

static bool all_gather(const struct comm *c, const struct open *o)
{
    const struct dist_call *call = &o->call;
    int64_t before = 0;
    for (int32_t k = 0; k < c->size; k++) {
        int64_t size = sent_size(call, k);
        const char *in = call_of(c, k, o)->in;
        for (int64_t row = 0; row < call->rows; row++) {
            char *out = (char *)call->out + row * o->total + before;
            if (!copy(c->rank, out, in + row * size, size)) return false;
        }
        before += size;
    }
    return true;
}

static bool all_to_all(const struct comm *c, const struct open *o)
{
    char *out = o->call.out;
    for (int32_t k = 0; k < c->size; k++) {
        const struct dist_call *theirs = call_of(c, k, o);
        int64_t size = part_received(&o->call, k);
        if (!copy(c->rank, out, (const char *)theirs->in + sent_offset(theirs, c->me), size)) return false;
        out += size;
    }
    return true;
}

/* This rank's part in an exchange; false: the job has failed. */
static bool work(struct comm *c, const struct open *o, const void **parts)
{
    const struct dist_call *call = &o->call;
    switch (call->kind) {
    case DIST_BARRIER: return true;
    case DIST_ALL_REDUCE: return all_reduce(c, o, parts);
    case DIST_REDUCE_SCATTER: return reduce_scatter(c, o, parts);
    case DIST_ALL_GATHER: return all_gather(c, o);
    case DIST_ALL_TO_ALL: return all_to_all(c, o);
    case DIST_PERMUTE:
        if (call->from >= 0) return copy(c->rank, call->out, call_of(c, call->from, o)->in, call->size);
        if (call->size) memset(call->out, 0, (size_t)call->size);
        return true;
    case DIST_BROADCAST:
        if (call->in == call->out && c->me == call->root) return true;
        return copy(c->rank, call->out, call_of(c, call->root, o)->in, call->size);
    }
    return true;
}

/* Is everything there that this rank reads? */
static bool has_begun(const struct comm *c, const struct open *o)
{
    struct meeting *m = c->state;
    if (o->call.kind == DIST_PERMUTE) return o->call.from < 0 || has_posted(c, o->call.from, o);
    if (o->call.kind == DIST_BROADCAST) return has_posted(c, o->call.root, o);
    return atomic_load(&m->arrived[slot_of(o)]) >= complete(c, o->number);
}

/* Has everybody read what this rank brought, and written what it gets? */
static bool has_ended(const struct comm *c, const struct open *o)
{
    struct meeting *m = c->state;
    bool brings = o->call.kind != DIST_BROADCAST || c->me == o->call.root;
    if (!brings || o->call.kind == DIST_BARRIER || is_small(c, o)) return true;
    if (o->call.kind == DIST_PERMUTE) return o->call.to < 0 || has_left(c, o->call.to, o);
    return atomic_load(&m->left[slot_of(o)]) >= complete(c, o->number);
}

enum { STEP_BEGUN, STEP_DONE };
enum { FEW_RANKS = 64 };

static bool threads_advance(struct comm *c, struct open *o)
{
    const void *few[FEW_RANKS], **parts = few;
    if (o->step == STEP_BEGUN) {
        if (!has_begun(c, o) || !become_busy(c->rank)) return false;
        if (c->size > FEW_RANKS) parts = (const void **)o->state;
        bool good = work(c, o, parts);
        atomic_store(&desk_of(c->rank)->busy, false);
        if (!good) return false;
        o->step = STEP_DONE;
        leave(c, o);
    }
    return has_ended(c, o);
}

static int32_t threads_missing(struct comm *c, const struct open *o, bool *gone)
{
    int32_t who = -1;
    const struct dist_call *call = &o->call;
    for (int32_t k = 0; k < c->size; k++) {
        bool one = call->kind == DIST_PERMUTE, reads = o->step == STEP_BEGUN;
        bool concerns = !one || k == (reads ? call->from : call->to);
        if (call->kind == DIST_BROADCAST && reads && k != call->root) concerns = false;
        bool ended = atomic_load(&threads_of(c->rank)->desks[c->ranks[k]].gone);
        if (!concerns || (reads ? has_posted(c, k, o) : has_left(c, k, o))) continue;
        if (who < 0 || (ended && !*gone)) who = c->ranks[k];
        *gone |= ended;
    }
    return who;
}

/* ---- communicators ---- */

static hop_status threads_join(struct comm *c, char error[512])
{
    struct dist_job *job = c->rank->job;
    struct threads *t = job->state;
    struct member *mine = (struct member *)c;
    size_t bytes = sizeof(struct meeting) + (size_t)c->size * sizeof(struct seat);
    /* lists of every member's buffers, one for each exchange that is under way */
    if (c->size > FEW_RANKS) {
        const void **lists = hop_try_malloc(DIST_OPEN * (size_t)c->size * sizeof *lists);
        for (int32_t i = 0; lists && i < DIST_OPEN; i++) mine->ring[i].state = lists + (ptrdiff_t)i * c->size;
    }
    pthread_mutex_lock(&job->lock);
    struct meeting *m = t->meetings;
    while (m && (m->n_axes != c->n_axes || m->which != c->which || m->first != c->ranks[0] ||
                 memcmp(m->sizes, c->sizes, sizeof m->sizes) != 0))
        m = m->next;
    if (!m && (m = hop_try_malloc(bytes))) {
        memset(m, 0, bytes);
        m->n_axes = c->n_axes;
        m->which = c->which;
        m->first = c->ranks[0];
        memcpy(m->sizes, c->sizes, sizeof m->sizes);
        m->next = t->meetings;
        t->meetings = m;
    }
    pthread_mutex_unlock(&job->lock);
    c->state = m;
    if (m && (c->size <= FEW_RANKS || mine->ring[0].state)) return HOP_OK;
    hop_free(mine->ring[0].state);
    snprintf(error, 512, "no memory for a communicator of %d ranks", c->size);
    return HOP_NOMEM;
}

static void threads_part(struct member *m) { hop_free(m->ring[0].state); }

static const struct dist_transport transport = {
    .name = "threads",
    .join = threads_join,
    .part = threads_part,
    .is_free = threads_is_free,
    .begin = threads_begin,
    .advance = threads_advance,
    .pause = threads_pause,
    .awake = threads_awake,
    .missing = threads_missing,
    .end = threads_end,
};

/* ---- a job ---- */

struct runner {
    struct rank rank;
    hop_status (*body)(struct rank *r, void *ctx);
    void *ctx;
    hop_status status;
    bool own; /* the error is this rank's, not one that it was told */
    char message[DIST_MESSAGE];
};

static hop_status try_body(struct runner *u)
{
    struct hop_catch c;
    volatile hop_status status = HOP_OK;
    if (HOP_TRY(c)) {
        status = u->body(&u->rank, u->ctx);
        hop_catch_end(&c);
    } else {
        status = hop_caught();
    }
    return status;
}

static void run_rank(void *runner)
{
    struct runner *u = runner;
    struct rank *r = &u->rank, *before = rank_enter(r);
    const struct hop_watch *watch_before = hop_watch_set(r->watch.cancel ? &r->watch : NULL);
    uint32_t sharers_before = pool_sharers();
    pool_set_sharers(threads_of(r)->sharers);
    u->status = try_body(u);
    if (!u->status) u->status = rank_finish(r);
    hop_watch_set(watch_before);
    pool_set_sharers(sharers_before);
    if (u->status) {
        int32_t failed = dist_failed(r);
        snprintf(u->message, sizeof u->message, "%s", hop_message());
        /* a rank that was told of another's error ends with what it was told */
        bool told = failed >= 0 && failed != r->number && strstr(u->message, r->job->message);
        u->own = !told;
        dist_fail(r, u->status, u->message);
    }
    atomic_store(&desk_of(r)->gone, true);
    ring_everybody(r);
    rank_leave(before);
}

static void start_ranks(struct runner *runners, int32_t n, struct crew_latch *latch)
{
    struct rank *first = &runners[0].rank;
    for (int32_t k = 1; k < n && dist_failed(first) < 0; k++) {
        if (crew_start(latch, run_rank, &runners[k])) continue;
        runners[k].status = HOP_UNAVAILABLE;
        runners[k].own = true;
        snprintf(runners[k].message, DIST_MESSAGE, "no thread could be started for it");
        dist_fail(&runners[k].rank, HOP_UNAVAILABLE, runners[k].message);
    }
}

/* The error of the lowest rank that failed by itself. */
static hop_status outcome(const struct runner *runners, int32_t n)
{
    const struct runner *first = NULL;
    for (int32_t k = 0; k < n; k++) {
        const struct runner *u = &runners[k];
        if (u->status && (!first || (u->own && !first->own))) first = u;
    }
    if (!first) return HOP_OK;
    if (n == 1) hop_set_message("%s", first->message);
    else hop_set_message("rank %d: %s", first->rank.number, first->message);
    return first->status;
}

/* Ranks with their communicators, for one job after the other. */
struct dist_team {
    struct dist_job job;
    int32_t n;
    struct threads *threads;
    struct runner runners[];
};

struct dist_team *dist_team_new(int32_t n)
{
    size_t bytes = n < 1 ? 0 : sizeof(struct threads) + (size_t)n * sizeof(struct desk);
    struct dist_team *team = bytes ? hop_try_malloc(sizeof *team + (size_t)n * sizeof *team->runners) : NULL;
    struct threads *t = team ? hop_try_malloc(bytes) : NULL;
    if (!t) {
        hop_free(team);
        if (n < 1) hop_set_message("expected one rank or more, found %d", n);
        else hop_set_message("no memory for %d ranks", n);
        return NULL;
    }
    memset(t, 0, bytes);
    memset(team, 0, sizeof *team + (size_t)n * sizeof *team->runners);
    team->n = n;
    team->threads = team->job.state = t;
    pthread_mutex_init(&team->job.lock, NULL);
    for (int32_t k = 0; k < n; k++) {
        struct rank *r = &team->runners[k].rank;
        *r = (struct rank){ .number = k, .size = n, .job = &team->job, .transport = &transport };
    }
    return team;
}

void dist_team_free(struct dist_team *team)
{
    if (!team) return;
    for (int32_t k = 0; k < team->n; k++) rank_free_comms(&team->runners[k].rank);
    for (struct meeting *m = team->threads->meetings, *next; m; m = next) {
        next = m->next;
        hop_free(m);
    }
    pthread_mutex_destroy(&team->job.lock);
    hop_free(team->threads);
    hop_free(team);
}

hop_status dist_team_run(struct dist_team *team, hop_status (*body)(struct rank *r, void *ctx), void *ctx)
{
    struct crew_latch latch = { 0 };
    const struct hop_watch *watch = hop_watch_get();
    double timeout = dist_timeout();
    uint32_t cores = pool_cores(), sharers = (uint32_t)team->n * pool_sharers();
    team->threads->spins = (uint32_t)team->n <= cores;
    team->threads->sharers = sharers;
    for (int32_t k = 0; k < team->n; k++) {
        struct runner *u = &team->runners[k];
        u->body = body;
        u->ctx = ctx;
        u->status = HOP_OK;
        u->own = false;
        u->rank.timeout = timeout;
        u->rank.cores = HOP_MAX(cores / sharers, 1);
        u->rank.watch = watch && (!watch->confirm || !k) ? *watch : (struct hop_watch){ 0 };
        atomic_store(&team->threads->desks[k].gone, false);
    }
    start_ranks(team->runners, team->n, &latch);
    run_rank(&team->runners[0]);
    crew_wait(&latch);
    return outcome(team->runners, team->n);
}

hop_status dist_run_threads(int32_t n, hop_status (*body)(struct rank *r, void *ctx), void *ctx)
{
    struct dist_team *team = dist_team_new(n);
    if (!team) return n < 1 ? HOP_INVALID : HOP_NOMEM;
    hop_status status = dist_team_run(team, body, ctx);
    dist_team_free(team);
    return status;
}
