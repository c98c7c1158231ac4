/* Worker threads. One job at a time: the caller publishes it, works on it like everybody else and leaves when
 * no worker is inside any more. A job is cut into as many stretches as threads take part, so that one thread
 * meets the same data again in the next job; whoever is done with its own takes pieces of the others', so
 * that a worker which is late, or never comes, holds nobody up. Workers spin for a moment after a job,
 * because parallel regions come in rows, then sleep. One that a caller had to wait for, because its processor
 * does other things as well, is left out for a while. A forked child starts without workers. They end when
 * the process does or the library is unloaded, whose code they run. */
#include "runtime/pool.h"
#include "base/base.h"
#include "base/memory.h"
#include "loop/rt.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE_SPINNING() __builtin_ia32_pause()
#else
#define PAUSE_SPINNING() ((void)0)
#endif

/* SHORT_PIECES: a long job that may be cancelled is cut into as many. */
enum {
    MAX_WORKERS = POOL_MOST_THREADS - 1,
    MOST_PROCESSORS = 1 << 20, /* of a system */
    PIECES_PER_THREAD = 4,
    SPINS_PER_LOOK = 64,         /* at the clock */
    SPINNING_NS = 60000,         /* before a worker sleeps */
    SPINNING_BEFORE_YIELD = 400, /* of the caller, while it waits */
    SHORT_PIECES = 256,
    LATE_NS = 20000,        /* a worker that is waited for so much longer than the caller worked is late … */
    DECLINED_NS = 40000,    /* … as is one that was woken on the caller's processor, by that much … */
    PAUSE = 4,              /* … and left out for so many times as long … */
    MOST_OFTEN = 6,         /* … doubled each time that it is late again soon, so often … */
    MOST_PAUSE = 500000000, /* … and no longer than that */
    SHORT_JOB = 8,          /* grains */
    WORTH_WAKING = 60000,   /* nanoseconds that a short job took alone: the next ones wake workers */
    WAKING = 64,            /* so many of them */
    LINE = 64               /* bytes of a cache line, which no two threads' data share */
};

/* `state`: serial number of the job, how many threads it is for, and whether it may be joined. */
#define OPEN 1u
#define THREADS_SHIFT 1
#define SERIAL_SHIFT 16
#define OPEN_TO(state) ((uint32_t)((state) >> THREADS_SHIFT) & (MAX_WORKERS * 2 + 1))

/* What is written by one thread, mostly. */
struct seat {
    /* its stretch of the job: what is not taken yet */
    _Alignas(LINE) _Atomic int64_t next;
    int64_t end;
    /* a worker: the job that it is inside of, 0: none */
    _Alignas(LINE) _Atomic uint64_t inside;
    atomic_bool asleep;
    atomic_bool declined;         /* a job, because it was in the way */
    _Atomic int64_t paused_until; /* set by callers, as is: */
    int64_t pause;                /* how long that was … */
    uint32_t often;               /* … and how often in a row */
    pthread_mutex_t sleep;
    pthread_cond_t wake;
    pthread_t thread;
    atomic_int apart_from; /* the processor that it stays away from, -1: none */
};

static struct {
    pthread_mutex_t use; /* held by the caller whose job it is */
    _Alignas(LINE) _Atomic uint64_t state;
    /* the processor that the caller began its job on, -1: it may be shared */
    atomic_int caller_on;
    atomic_bool stop;  /* workers end */
    atomic_bool spins; /* workers may: there is a processor for each */
    /* the job */
    struct hop_rt *rt;
    int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi);
    void *env;
    int64_t piece;
    uint32_t threads;
    struct processors others; /* those that the caller may use without the one that it is on */
    _Alignas(LINE) atomic_int status;
    /* under `use` */
    uint32_t workers; /* started: seats 1, 2, … */
    uint32_t placed;  /* so many were told to stay off the caller's processor */
    uint64_t serial;
    int64_t last;                      /* when the last job ended */
    uint32_t waking;                   /* short jobs to come that wake workers */
    struct seat seat[MAX_WORKERS + 1]; /* the caller has the first */
} pool = { .use = PTHREAD_MUTEX_INITIALIZER, .caller_on = -1 };

static _Thread_local bool inside;
static _Thread_local uint32_t number; /* of a worker */

uint32_t pool_number(void) { return number; }

static void child_after_fork(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pool.use = mutex;
    atomic_store(&pool.state, 0);
    pool.workers = pool.placed = 0;
    atomic_store(&pool.caller_on, -1);
    inside = false;
    number = 0;
}

int (*pool_ask_processors)(pid_t, size_t, cpu_set_t *) = sched_getaffinity;

/* The set grows until it has room for all of the system: before that it is EINVAL. */
bool pool_processors(struct processors *p)
{
    for (int room = HOP_MAX(p->room, CPU_SETSIZE); room <= MOST_PROCESSORS; room *= 2) {
        cpu_set_t *set = room > p->room ? CPU_ALLOC((size_t)room) : p->set;
        if (!set) return false;
        if (set != p->set) CPU_FREE(p->set);
        *p = (struct processors){ set, room };
        if (!pool_ask_processors(0, CPU_ALLOC_SIZE(room), set)) return true;
        if (errno != EINVAL) return false;
    }
    return false;
}

/* Its `sleep` is locked. */
static void wake(struct seat *s)
{
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->sleep);
}

/* Schedulers may start a worker on the processor of whoever wakes it, where the two take turns for
 * milliseconds while another one is idle. */
static void keep_apart(struct seat *s)
{
    int away_from = atomic_load_explicit(&pool.caller_on, memory_order_relaxed);
    if (away_from < 0 || atomic_load(&s->apart_from) == away_from) return;
    atomic_store(&s->apart_from, away_from);
    pthread_setaffinity_np(s->thread, CPU_ALLOC_SIZE(pool.others.room), pool.others.set);
}

/* Where the caller is; workers stay on other processors if each has one. */
static void note_processor(void)
{
    int before = atomic_load_explicit(&pool.caller_on, memory_order_relaxed);
    int now = atomic_load_explicit(&pool.spins, memory_order_relaxed) ? sched_getcpu() : -1;
    if (now == before && pool.workers == pool.placed) return;
    pool.placed = pool.workers;
    bool known = now >= 0 && pool_processors(&pool.others) && now < pool.others.room;
    size_t size = CPU_ALLOC_SIZE(pool.others.room);
    if (known) CPU_CLR_S((size_t)now, size, pool.others.set);
    bool others = known && CPU_COUNT_S(size, pool.others.set);
    atomic_store_explicit(&pool.caller_on, others ? now : -1, memory_order_relaxed);
    for (uint32_t i = 1; i <= pool.workers; i++)
        if (!atomic_load(&pool.seat[i].asleep)) keep_apart(&pool.seat[i]);
}

/* Unless a job is under way on another thread: then the workers end with the process. */
static void end_workers(void)
{
    if (pthread_mutex_trylock(&pool.use)) return;
    atomic_store(&pool.stop, true);
    for (uint32_t i = 1; i <= pool.workers; i++) {
        pthread_mutex_lock(&pool.seat[i].sleep);
        wake(&pool.seat[i]);
    }
    for (; pool.workers; pool.workers--) pthread_join(pool.seat[pool.workers].thread, NULL);
    atomic_store(&pool.stop, false);
    pthread_mutex_unlock(&pool.use);
}

static void register_ends(void)
{
    pthread_atfork(NULL, NULL, child_after_fork);
    atexit(end_workers);
}

uint32_t pool_cores(void)
{
    struct processors p = { 0 };
    int n = pool_processors(&p) ? CPU_COUNT_S(CPU_ALLOC_SIZE(p.room), p.set) : 1;
    CPU_FREE(p.set);
    uint32_t most = processors_by_groups();
    return n < 1 || !most ? 1 : HOP_MIN((uint32_t)n, most);
}

static atomic_uint said, usual; /* 0: nothing was said; it is not known yet */
static atomic_uint part;        /* 0: all processors */
static _Thread_local uint32_t sharers = 1;

static uint32_t usual_threads(void)
{
    const char *text = getenv("HOP_NUM_THREADS");
    char *end = NULL;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    bool good = text && *text >= '0' && *text <= '9' && !*end && n;
    if (good) return (uint32_t)HOP_MIN(n, (unsigned long)POOL_MOST_THREADS);
    uint32_t cores = atomic_load(&part);
    return HOP_MIN(cores ? cores : pool_cores(), POOL_MOST_THREADS);
}

uint32_t pool_sharers(void) { return sharers; }
void pool_set_sharers(uint32_t n) { sharers = HOP_MAX(n, 1); }

void pool_set_part(uint32_t cores)
{
    atomic_store(&part, cores);
    atomic_store(&usual, 0);
}

uint32_t pool_threads(void)
{
    uint32_t n = atomic_load_explicit(&said, memory_order_relaxed);
    if (!n) n = atomic_load_explicit(&usual, memory_order_relaxed);
    if (!n) {
        n = usual_threads();
        atomic_store_explicit(&usual, n, memory_order_relaxed);
    }
    return HOP_MAX(n / sharers, 1);
}

uint32_t pool_set_threads(uint32_t threads)
{
    atomic_store(&usual, 0);
    return atomic_exchange(&said, HOP_MIN(threads, POOL_MOST_THREADS));
}

static bool cancelled(struct hop_rt *rt)
{
    return rt && rt->cancel && *rt->cancel && rt->asked && rt->asked(rt);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What is left of a stretch, piece by piece. */
static void work_on(struct seat *s)
{
    while (!atomic_load_explicit(&pool.status, memory_order_relaxed)) {
        if (atomic_load_explicit(&s->next, memory_order_relaxed) >= s->end) return;
        int64_t lo = atomic_fetch_add_explicit(&s->next, pool.piece, memory_order_relaxed);
        if (lo >= s->end) return;
        int64_t hi = s->end - lo < pool.piece ? s->end : lo + pool.piece;
        bool ended = lo && cancelled(pool.rt);
        int status = ended ? HOP_CANCELLED : pool.body(pool.rt, pool.env, lo, hi);
        int expected = 0;
        if (status) atomic_compare_exchange_strong(&pool.status, &expected, status);
    }
}

/* The own stretch, then those of the others. */
static void work(void)
{
    for (uint32_t k = 0; k < pool.threads; k++) work_on(&pool.seat[(number + k) % pool.threads]);
}

static bool is_paused(struct seat *s, int64_t now)
{
    return atomic_load_explicit(&s->paused_until, memory_order_relaxed) > now;
}

/* Those who sleep are woken by threads that take part themselves, each of them two; and those whom one that
 * is left out would wake. Nobody waits for one that is just about to sleep or to wake: its processor may do
 * something else meanwhile. */
static void wake_below(uint32_t waker, uint32_t threads, int64_t now)
{
    for (uint32_t i = 2 * waker + 1; i <= 2 * waker + 2 && i < threads && i <= pool.workers; i++)
        if (is_paused(&pool.seat[i], now)) wake_below(i, threads, now);
        else if (atomic_load(&pool.seat[i].asleep) && !pthread_mutex_trylock(&pool.seat[i].sleep)) {
            keep_apart(&pool.seat[i]);
            wake(&pool.seat[i]);
        }
}

/* Is there a job for the worker at hand that it has not seen? */
static bool joinable(uint64_t state, uint64_t seen)
{
    bool is_new = state & OPEN && state >> SERIAL_SHIFT != seen && number < OPEN_TO(state);
    return is_new && !is_paused(&pool.seat[number], now_ns());
}

static uint64_t sleep_until_job(struct seat *s, uint64_t seen)
{
    pthread_mutex_lock(&s->sleep);
    atomic_store(&s->asleep, true); /* before looking again: whoever publishes looks at it afterwards */
    uint64_t state = atomic_load(&pool.state);
    while (!joinable(state, seen) && !atomic_load(&pool.stop)) {
        pthread_cond_wait(&s->wake, &s->sleep);
        state = atomic_load(&pool.state);
    }
    atomic_store(&s->asleep, false);
    pthread_mutex_unlock(&s->sleep);
    return state;
}

/* Is the worker at hand where the caller wants to go on? Nothing is won by what it does there. */
static bool in_the_way(void)
{
    return sched_getcpu() == atomic_load_explicit(&pool.caller_on, memory_order_relaxed);
}

/* The state with a job to join, or 0: the worker ends. */
static uint64_t wait_for_job(struct seat *s, uint64_t seen)
{
    int64_t until = 0;
    for (uint32_t i = 0; atomic_load_explicit(&pool.spins, memory_order_relaxed); i++) {
        uint64_t state = atomic_load_explicit(&pool.state, memory_order_acquire);
        if (joinable(state, seen)) return state;
        PAUSE_SPINNING();
        if (i % SPINS_PER_LOOK) continue;
        if (in_the_way()) break;
        int64_t now = now_ns();
        if (!until) until = now + SPINNING_NS;
        if (now > until) break;
    }
    uint64_t state = sleep_until_job(s, seen);
    return joinable(state, seen) ? state : 0;
}

static void *worker(void *own_number)
{
    uint64_t seen = 0;
    inside = true;
    number = (uint32_t)(uintptr_t)own_number;
    struct seat *s = &pool.seat[number];
    for (;;) {
        uint64_t state = wait_for_job(s, seen);
        if (!state) return NULL;
        seen = state >> SERIAL_SHIFT;
        atomic_store(&s->inside,
                     seen); /* before looking again: whoever retires the job looks at it afterwards */
        if (atomic_load(&pool.state) == state) {
            wake_below(number, pool.threads, now_ns());
            if (in_the_way()) atomic_store_explicit(&s->declined, true, memory_order_relaxed);
            else work();
        }
        atomic_store_explicit(&s->inside, 0, memory_order_release);
    }
}

static void start_workers(uint32_t wanted)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (pool.workers >= wanted) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_once(&once, register_ends);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    while (pool.workers < wanted) {
        uintptr_t next = pool.workers + 1;
        struct seat *s = &pool.seat[next];
        pthread_mutex_init(&s->sleep, NULL);
        pthread_cond_init(&s->wake, NULL);
        atomic_store(&s->inside, 0);
        atomic_store(&s->asleep, false);
        atomic_store(&s->apart_from, -1);
        if (pthread_create(&s->thread, NULL, worker, (void *)next)) break;
        pool.workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    atomic_store(&pool.spins, pool.workers < pool_cores());
}

/* Seats beyond the workers that could be started have stretches, too: the others take them. */
static void publish(int64_t n, uint32_t threads)
{
    for (uint32_t i = 0; i < threads; i++) {
        atomic_store_explicit(&pool.seat[i].next, n * i / threads, memory_order_relaxed);
        pool.seat[i].end = n * (i + 1) / threads;
    }
    pool.threads = threads;
    note_processor();
    atomic_store_explicit(&pool.status, 0, memory_order_relaxed);
    atomic_store(&pool.state, ++pool.serial << SERIAL_SHIFT | threads << THREADS_SHIFT | OPEN);
    wake_below(0, threads, now_ns());
}

/* A worker that was late once will be again while its processor has other things to do. Leaving it out for a
 * multiple of the time that was lost bounds what that costs, whatever the jobs are. */
static void leave_out(struct seat *s, int64_t waited, int64_t now)
{
    bool again = now - atomic_load(&s->paused_until) < s->pause;
    s->often = again ? HOP_MIN(s->often + 1, MOST_OFTEN) : 0;
    s->pause = HOP_MIN(waited, MOST_PAUSE / (PAUSE << MOST_OFTEN)) * (PAUSE << s->often);
    atomic_store(&s->paused_until, now + s->pause);
}

/* Waits for the workers, and is there to be asked whether the run shall end: it may be one of them that does
 * not. */
static void retire(struct hop_rt *rt, uint32_t threads, int64_t begun)
{
    bool asks = rt && rt->cancel && rt->asked;
    int64_t since = now_ns(), worked = since - begun;
    atomic_store(&pool.state, pool.serial << SERIAL_SHIFT);
    for (uint32_t i = 1; i < threads; i++) {
        uint32_t spins = 0;
        for (; atomic_load(&pool.seat[i].inside) == pool.serial; spins++) {
            if (asks && *rt->cancel) rt->asked(rt);
            if (spins < SPINNING_BEFORE_YIELD) PAUSE_SPINNING();
            else sched_yield();
        }
        bool declined = atomic_load_explicit(&pool.seat[i].declined, memory_order_relaxed);
        if (spins < SPINNING_BEFORE_YIELD && !declined) continue;
        int64_t now = now_ns();
        atomic_store_explicit(&pool.seat[i].declined, false, memory_order_relaxed);
        if (now - since > worked + LATE_NS) leave_out(&pool.seat[i], now - since, now);
        else if (declined) leave_out(&pool.seat[i], DECLINED_NS, now);
        since = now;
    }
}

/* Is a worker among them that is not left out? */
static bool any_takes_part(uint32_t threads, int64_t now)
{
    for (uint32_t i = 1; i < threads; i++)
        if (!is_paused(&pool.seat[i], now)) return true;
    return false;
}

/* Everything on this thread, in pieces so that it can be ended. */
static int32_t run_alone(struct hop_rt *rt,
                         int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env,
                         int64_t n, int64_t grain)
{
    bool can_be_ended = rt && rt->cancel;
    int64_t piece = can_be_ended ? HOP_MAX(n / SHORT_PIECES, grain) : n;
    int32_t status = 0;
    for (int64_t lo = 0; lo < n && !status; lo += piece) {
        int64_t hi = n - lo < piece ? n : lo + piece;
        bool ended = lo && cancelled(rt);
        status = ended ? HOP_CANCELLED : body(rt, env, lo, hi);
    }
    return status;
}

int32_t pool_run(uint32_t threads, struct hop_rt *rt,
                 int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi), void *env, int64_t n,
                 int64_t grain)
{
    if (n <= 0) return 0;
    int64_t each = grain < 0 ? -grain : 1, grains; /* each: grains that an iteration is worth */
    if (grain < 1) grain = 1;
    if (__builtin_mul_overflow((n + grain - 1) / grain, each, &grains)) grains = INT64_MAX;
    threads = (uint32_t)HOP_MIN(HOP_MIN(threads, POOL_MOST_THREADS), (n + grain - 1) / grain);
    if (threads < 2 || inside || pthread_mutex_trylock(&pool.use)) return run_alone(rt, body, env, n, grain);
    int64_t begun = now_ns();
    bool others_sleep = begun - pool.last > SPINNING_NS && !pool.waking;
    if (pool.waking) pool.waking--;
    if ((grains < SHORT_JOB && others_sleep) || !any_takes_part(threads, begun)) {
        int32_t status = run_alone(rt, body, env, n, grain);
        pool.last = now_ns();
        if (others_sleep && pool.last - begun > WORTH_WAKING) pool.waking = WAKING;
        pthread_mutex_unlock(&pool.use);
        return status;
    }
    start_workers(threads - 1);
    int64_t piece = (n + threads * PIECES_PER_THREAD - 1) / (threads * PIECES_PER_THREAD);
    if (rt && rt->cancel && piece > n / SHORT_PIECES && n / SHORT_PIECES > 4 * grain)
        piece = n / SHORT_PIECES;
    pool.rt = rt;
    pool.body = body;
    pool.env = env;
    pool.piece = HOP_MAX(piece, grain);
    publish(n, threads);
    inside = true;
    work();
    inside = false;
    retire(rt, threads, begun);
    pool.last = now_ns();
    int32_t status = atomic_load(&pool.status);
    pthread_mutex_unlock(&pool.use);
    return status;
}
