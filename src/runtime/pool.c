/* Worker threads. One job at a time: the caller publishes it, works on it like everybody else and leaves when
 * no worker is inside any more. A job is cut into as many stretches as threads take part, so that one thread
 * meets the same data again in the next job; whoever is done with its own takes pieces of the others', so
 * that a worker which is late, or never comes, holds nobody up. Workers spin for a moment after a job,
 * because parallel regions come in rows, then sleep. A forked child starts without workers. They end when the
 * process does or the library is unloaded, whose code they run. */
#include "runtime/pool.h"
#include "base/base.h"
#include "base/memory.h"
#include "loop/rt.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() ((void)0)
#endif

/* SHORT_PIECES: a long job that may be cancelled is cut into as many. */
enum {
    MAX_WORKERS = 255,
    PIECES_PER_THREAD = 4,
    SPINS_PER_LOOK = 64,         /* at the clock */
    SPINNING_NS = 60000,         /* before a worker sleeps */
    SPINNING_BEFORE_YIELD = 400, /* of the caller, while it waits */
    SHORT_PIECES = 256,
    LATE_NS = 20000,      /* waiting so long, and twice as long as it worked, the caller was held up */
    HELD_UP = 8,          /* jobs that make up for one of those */
    HELD_UP_OFTEN = 16,   /* from there on short jobs run on the caller alone … */
    MOST_HELD_UP = 64,    /* … for some fifty of them */
    SHORT_JOB = 8,        /* grains */
    WORTH_WAKING = 60000, /* nanoseconds that a short job took alone: the next ones wake workers */
    WAKING = 64,          /* so many of them */
    LINE = 64             /* bytes of a cache line, which no two threads' data share */
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
    pthread_mutex_t sleep;
    pthread_cond_t wake;
    pthread_t thread;
    int apart_from; /* under `sleep`: the processor that it stays away from, -1: none */
};

static struct {
    pthread_mutex_t use; /* held by the caller whose job it is */
    _Alignas(LINE) _Atomic uint64_t state;
    atomic_bool stop;  /* workers end */
    atomic_bool spins; /* workers may: there is a processor for each */
    /* the job */
    struct hop_rt *rt;
    int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi);
    void *env;
    int64_t piece;
    uint32_t threads;
    int processor;    /* that the caller is on, -1: it may be shared */
    cpu_set_t others; /* that it may use */
    _Alignas(LINE) atomic_int status;
    /* under `use` */
    uint32_t workers; /* started: seats 1, 2, … */
    uint64_t serial;
    int64_t last;     /* when the last job ended */
    uint32_t waking;  /* short jobs to come that wake workers */
    uint32_t held_up; /* how often callers were of late: HELD_UP more each time, one less for every job */
    struct seat seat[MAX_WORKERS + 1]; /* the caller has the first */
} pool = { .use = PTHREAD_MUTEX_INITIALIZER, .processor = -1 };

static _Thread_local bool inside;
static _Thread_local uint32_t number; /* of a worker */

uint32_t pool_number(void) { return number; }

static void child_after_fork(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pool.use = mutex;
    atomic_store(&pool.state, 0);
    pool.workers = 0;
    inside = false;
    number = 0;
}

/* Schedulers may start a worker on the processor of whoever wakes it, where the two take turns for
 * milliseconds while another one is idle. */
static void wake(struct seat *s)
{
    pthread_mutex_lock(&s->sleep);
    if (pool.processor >= 0 && s->apart_from != pool.processor) {
        pthread_setaffinity_np(s->thread, sizeof pool.others, &pool.others);
        s->apart_from = pool.processor;
    }
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->sleep);
}

/* Where the caller is; workers stay on other processors if each has one. */
static void note_processor(void)
{
    int now = atomic_load_explicit(&pool.spins, memory_order_relaxed) ? sched_getcpu() : -1;
    if (now == pool.processor) return;
    bool known = now >= 0 && now < CPU_SETSIZE && !sched_getaffinity(0, sizeof pool.others, &pool.others);
    if (known) CPU_CLR(now, &pool.others);
    pool.processor = known && CPU_COUNT(&pool.others) ? now : -1;
}

/* Unless a job is under way on another thread: then the workers end with the process. */
static void end_workers(void)
{
    if (pthread_mutex_trylock(&pool.use)) return;
    atomic_store(&pool.stop, true);
    for (uint32_t i = 1; i <= pool.workers; i++) wake(&pool.seat[i]);
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
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    uint32_t most = processors_by_groups();
    return n < 1 || !most ? 1 : HOP_MIN((uint32_t)n, most);
}

static atomic_uint said, usual; /* 0: nothing was said; it is not known yet */

static uint32_t usual_threads(void)
{
    const char *text = getenv("HOP_NUM_THREADS");
    char *end = NULL;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    bool good = text && *text >= '0' && *text <= '9' && !*end && n;
    return good ? (uint32_t)HOP_MIN(n, MAX_WORKERS + 1ul) : pool_cores();
}

uint32_t pool_threads(void)
{
    uint32_t n = atomic_load_explicit(&said, memory_order_relaxed);
    if (!n) n = atomic_load_explicit(&usual, memory_order_relaxed);
    if (n) return n;
    n = usual_threads();
    atomic_store_explicit(&usual, n, memory_order_relaxed);
    return n;
}

uint32_t pool_set_threads(uint32_t threads)
{
    atomic_store(&usual, 0);
    return atomic_exchange(&said, threads);
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

/* Those who sleep are woken by threads that take part themselves, each of them two. */
static void wake_next(uint32_t threads)
{
    for (uint32_t i = 2 * number + 1; i <= 2 * number + 2 && i < threads; i++)
        if (atomic_load(&pool.seat[i].asleep)) wake(&pool.seat[i]);
}

/* Is there a job for the worker at hand that it has not seen? */
static bool joinable(uint64_t state, uint64_t seen)
{
    return state & OPEN && state >> SERIAL_SHIFT != seen && number < OPEN_TO(state);
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

/* The state with a job to join, or 0: the worker ends. */
static uint64_t wait_for_job(struct seat *s, uint64_t seen)
{
    int64_t until = 0;
    for (uint32_t i = 0; atomic_load_explicit(&pool.spins, memory_order_relaxed); i++) {
        uint64_t state = atomic_load_explicit(&pool.state, memory_order_acquire);
        if (joinable(state, seen)) return state;
        PAUSE();
        if (i % SPINS_PER_LOOK) continue;
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
            wake_next(pool.threads);
            work();
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
        s->apart_from = -1;
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
    atomic_store_explicit(&pool.status, 0, memory_order_relaxed);
    atomic_store(&pool.state, ++pool.serial << SERIAL_SHIFT | threads << THREADS_SHIFT | OPEN);
    wake_next(threads);
}

/* Waits for the workers, and is there to be asked whether the run shall end: it may be one of them that does
 * not. */
static void retire(struct hop_rt *rt, uint32_t threads)
{
    bool asks = rt && rt->cancel && rt->asked;
    atomic_store(&pool.state, pool.serial << SERIAL_SHIFT);
    for (uint32_t i = 1; i < threads; i++)
        for (uint32_t spins = 0; atomic_load(&pool.seat[i].inside) == pool.serial; spins++) {
            if (asks && *rt->cancel) rt->asked(rt);
            if (spins < SPINNING_BEFORE_YIELD) PAUSE();
            else sched_yield();
        }
}

/* A caller that waited for others longer than it worked had them on processors that do other things as well.
 * Where that happens often, short jobs are better off without. */
static void note_waiting(int64_t worked, int64_t waited)
{
    bool held_up = waited > LATE_NS && waited > 2 * worked;
    if (held_up) pool.held_up = HOP_MIN(pool.held_up + HELD_UP, MOST_HELD_UP);
    else if (pool.held_up) pool.held_up--;
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
    threads = (uint32_t)HOP_MIN(HOP_MIN(threads, MAX_WORKERS), (n + grain - 1) / grain);
    if (threads < 2 || inside || pthread_mutex_trylock(&pool.use)) return run_alone(rt, body, env, n, grain);
    int64_t begun = now_ns();
    bool others_sleep = begun - pool.last > SPINNING_NS && !pool.waking;
    if (pool.waking) pool.waking--;
    if (grains < SHORT_JOB && (others_sleep || pool.held_up > HELD_UP_OFTEN)) {
        if (pool.held_up) pool.held_up--;
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
    note_processor();
    publish(n, threads);
    inside = true;
    work();
    inside = false;
    int64_t worked = now_ns();
    retire(rt, threads);
    pool.last = now_ns();
    note_waiting(worked - begun, pool.last - worked);
    int32_t status = atomic_load(&pool.status);
    pthread_mutex_unlock(&pool.use);
    return status;
}
