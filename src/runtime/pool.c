/* Worker threads. One job at a time: the caller publishes it, works on it like everybody else and leaves when
 * the last worker has left. Workers spin for a moment after a job, because parallel regions come in rows,
 * then sleep. A forked child starts without workers. They end when the process does or the library is
 * unloaded, whose code they run. */
#include "runtime/pool.h"
#include "base/base.h"
#include "base/memory.h"
#include "loop/rt.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE() __builtin_ia32_pause()
#else
#define PAUSE() ((void)0)
#endif

/* SHORT_PIECES: a long job that may be cancelled is cut into as many. */
enum {
    MAX_WORKERS = 255,
    PIECES_PER_THREAD = 4,
    SPINS_BEFORE_SLEEP = 2000,
    SPINS_BEFORE_YIELD = 4000,
    SHORT_PIECES = 256
};

/* `state`: serial number of the job in the upper half, OPEN while it may be joined, and how many workers are
 * inside. */
#define OPEN 0x80000000u

static struct {
    pthread_mutex_t use; /* held by the caller whose job it is */
    pthread_mutex_t sleep;
    pthread_cond_t wake;
    _Atomic uint64_t state;
    atomic_uint sleepers;
    atomic_bool stop;              /* workers end */
    uint32_t workers;              /* started; under `use` */
    uint32_t serial;               /* under `use` */
    pthread_t thread[MAX_WORKERS]; /* of each worker */
    /* the job */
    struct hop_rt *rt;
    int32_t (*body)(struct hop_rt *rt, void *env, int64_t lo, int64_t hi);
    void *env;
    int64_t n, piece;
    uint32_t helpers; /* workers with a lower number take part */
    _Atomic int64_t next;
    atomic_int status;
} pool = { .use = PTHREAD_MUTEX_INITIALIZER,
           .sleep = PTHREAD_MUTEX_INITIALIZER,
           .wake = PTHREAD_COND_INITIALIZER };

static _Thread_local bool inside;

static void child_after_fork(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    pool.use = mutex;
    pool.sleep = mutex;
    pool.wake = cond;
    atomic_store(&pool.state, 0);
    atomic_store(&pool.sleepers, 0);
    pool.workers = 0;
    inside = false;
}

/* Unless a job is under way on another thread: then the workers end with the process. */
static void end_workers(void)
{
    if (pthread_mutex_trylock(&pool.use)) return;
    pthread_mutex_lock(&pool.sleep);
    atomic_store(&pool.stop, true);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.sleep);
    while (pool.workers) pthread_join(pool.thread[--pool.workers], NULL);
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

static void work(void)
{
    while (!atomic_load_explicit(&pool.status, memory_order_relaxed)) {
        int64_t lo = atomic_fetch_add_explicit(&pool.next, pool.piece, memory_order_relaxed);
        if (lo >= pool.n) return;
        int64_t hi = pool.n - lo < pool.piece ? pool.n : lo + pool.piece;
        bool ended = lo && cancelled(pool.rt);
        int status = ended ? HOP_CANCELLED : pool.body(pool.rt, pool.env, lo, hi);
        int expected = 0;
        if (status) atomic_compare_exchange_strong(&pool.status, &expected, status);
    }
}

static bool joinable(uint64_t state, uint32_t seen)
{
    return state & OPEN && (uint32_t)(state >> 32) != seen;
}

/* The state with a job to join, or 0: the worker ends. */
static uint64_t wait_for_job(uint32_t seen)
{
    for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
        uint64_t state = atomic_load_explicit(&pool.state, memory_order_acquire);
        if (joinable(state, seen)) return state;
        PAUSE();
    }
    pthread_mutex_lock(&pool.sleep);
    atomic_fetch_add(&pool.sleepers, 1); /* before looking again: whoever publishes looks at it afterwards */
    uint64_t state = atomic_load(&pool.state);
    while (!joinable(state, seen) && !atomic_load(&pool.stop)) {
        pthread_cond_wait(&pool.wake, &pool.sleep);
        state = atomic_load(&pool.state);
    }
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.sleep);
    return joinable(state, seen) ? state : 0;
}

static void *worker(void *number)
{
    uint32_t seen = 0;
    inside = true;
    for (;;) {
        uint64_t state = wait_for_job(seen);
        if (!state) return NULL;
        if (!atomic_compare_exchange_strong(&pool.state, &state, state + 1)) continue;
        seen = (uint32_t)(state >> 32);
        if ((uintptr_t)number < pool.helpers) work();
        atomic_fetch_sub_explicit(&pool.state, 1, memory_order_release);
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
    while (pool.workers < wanted &&
           !pthread_create(&pool.thread[pool.workers], NULL, worker, (void *)(uintptr_t)pool.workers))
        pool.workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void publish(void)
{
    if (!++pool.serial) pool.serial = 1; /* workers begin with 0 as the job they have seen */
    atomic_store(&pool.state, (uint64_t)pool.serial << 32 | OPEN);
    if (!atomic_load(&pool.sleepers)) return;
    pthread_mutex_lock(&pool.sleep);
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.sleep);
}

/* Waits for the workers, and is there to be asked whether the run shall end: it may be one of them that does
 * not. */
static void retire(struct hop_rt *rt)
{
    bool asks = rt && rt->cancel && rt->asked;
    atomic_fetch_and(&pool.state, ~(uint64_t)OPEN);
    for (uint32_t spins = 0; atomic_load_explicit(&pool.state, memory_order_acquire) & (OPEN - 1); spins++) {
        if (asks && *rt->cancel) rt->asked(rt);
        if (spins < SPINS_BEFORE_YIELD) PAUSE();
        else sched_yield();
    }
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
    if (grain < 1) grain = 1;
    if (threads > MAX_WORKERS) threads = MAX_WORKERS;
    if (threads < 2 || n <= grain || inside || pthread_mutex_trylock(&pool.use))
        return run_alone(rt, body, env, n, grain);
    start_workers(threads - 1);
    int64_t piece = (n + threads * PIECES_PER_THREAD - 1) / (threads * PIECES_PER_THREAD);
    if (rt && rt->cancel && piece > n / SHORT_PIECES && n / SHORT_PIECES > 4 * grain)
        piece = n / SHORT_PIECES;
    pool.rt = rt;
    pool.body = body;
    pool.env = env;
    pool.n = n;
    pool.piece = piece < grain ? grain : piece;
    pool.helpers = threads - 1;
    atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool.status, 0, memory_order_relaxed);
    publish();
    inside = true;
    work();
    inside = false;
    retire(rt);
    int32_t status = atomic_load(&pool.status);
    pthread_mutex_unlock(&pool.use);
    return status;
}
