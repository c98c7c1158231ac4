/* Worker threads for calls that can be cancelled while they are in code that cannot, LLVM's. Whoever is left
 * behind finishes in peace: its work touches nothing of the caller's. A forked child has none. From the first
 * one on the library stays loaded.
 *
 * A process that ends does not wait for them, though it takes LLVM apart: they are stopped before, by a
 * signal. A thread must not be stopped while it holds a lock of the C library's, as in malloc; so the
 * signal's handler stops it only when it was met in LLVM's own code, else it is sent again. */
#include "runtime/worker.h"
#include "emit/emit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 64 << 20, SMALL_STACK = 8 << 20, LOOK_EVERY_MS = 4, STOP_EVERY_MS = 1 };
enum { TO_BEGIN = 256 << 10 }; /* bytes without which a thread does not begin its work */

/* A signal that no system sends and hardly a program uses; 0: threads cannot be stopped. */
#if defined(SIGSTKFLT) && defined(__x86_64__)
#define STOP_SIGNAL SIGSTKFLT
#define PLACE_OF(context) ((uintptr_t)(context)->uc_mcontext.gregs[REG_RIP])
#elif defined(SIGSTKFLT) && defined(__aarch64__)
#define STOP_SIGNAL SIGSTKFLT
#define PLACE_OF(context) ((uintptr_t)(context)->uc_mcontext.pc)
#else
#define STOP_SIGNAL 0
#define PLACE_OF(context) ((void)(context), (uintptr_t)0)
#endif

struct job {
    void (*work)(void *env), (*drop)(void *env);
    void *env;
    pthread_t thread;
    bool done, left; /* under the lock: whoever sets the second of the two frees the job */
    bool refused;    /* with done: the thread had no memory, nothing was begun */
    bool waits;      /* under the lock: for a job that it began */
    bool beside;     /* the job of another */
    atomic_bool stopped;
    struct job *next; /* of those at work */
};
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job is done */
    pthread_once_t once;
    struct job *first;
    bool ended;               /* the process ends: no more */
    uintptr_t code, code_end; /* of LLVM, when they are to stop */
} workers = { .lock = PTHREAD_MUTEX_INITIALIZER,
              .changed = PTHREAD_COND_INITIALIZER,
              .once = PTHREAD_ONCE_INIT };

static _Thread_local struct job *own;

static void child_after_fork(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    workers.lock = mutex;
    workers.changed = cond;
    workers.first = NULL;
    workers.ended = false;
}

/* ---- the end of the process ---- */

static void wait_for_change(int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&workers.changed, &workers.lock, &until);
}

static void stop_here(int number, siginfo_t *info, void *context)
{
    uintptr_t place = PLACE_OF((ucontext_t *)context);
    HOP_UNUSED(number);
    HOP_UNUSED(info);
    if (!own || place < workers.code || place >= workers.code_end) return;
    atomic_store(&own->stopped, true);
    for (;;) pause();
}

/* Who waits for another will not go on: it finds that the process ends. */
static struct job *somebody_at_work(void)
{
    struct job *job = workers.first;
    while (job && (job->waits || atomic_load(&job->stopped))) job = job->next;
    return job;
}

static void end_workers(void)
{
    pthread_mutex_lock(&workers.lock);
    workers.ended = true;
    bool stops = STOP_SIGNAL && workers.first && plug_in_code(&workers.code, &workers.code_end);
    struct sigaction action = { .sa_sigaction = stop_here, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigfillset(&action.sa_mask);
    if (stops && sigaction(STOP_SIGNAL, &action, NULL)) stops = false;
    for (struct job *job = somebody_at_work(); job; job = somebody_at_work()) {
        if (stops) pthread_kill(job->thread, STOP_SIGNAL);
        wait_for_change(STOP_EVERY_MS);
    }
    pthread_mutex_unlock(&workers.lock);
}

static void register_ends(void)
{
    Dl_info info;
    pthread_atfork(NULL, NULL, child_after_fork);
    atexit(end_workers);
    if (dladdr((void *)register_ends, &info) && info.dli_fname)
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

/* ---- jobs ---- */

/* Under the lock. */
static void remove_job(struct job *job)
{
    struct job **at = &workers.first;
    while (*at && *at != job) at = &(*at)->next;
    if (*at) *at = job->next;
}

/* Can this thread allocate? The C library may find no arena for a new thread where others have memory left,
 * and ends the process when there is none for the thread's own variables. */
static bool has_memory(void)
{
    void *volatile some = malloc(TO_BEGIN);
    bool found = some != NULL;
    free(some);
    return found;
}

static void *worker(void *arg)
{
    struct job *job = arg;
    bool refused = !has_memory();
    if (!refused) {
        own = job;
        job->work(job->env);
    }
    pthread_mutex_lock(&workers.lock);
    job->done = true;
    job->refused = refused;
    bool left = job->left;
    if (!left) {
        if (!refused) own = NULL;
        remove_job(job);
        pthread_cond_broadcast(&workers.changed); /* from here on the job is the caller's */
    }
    pthread_mutex_unlock(&workers.lock);
    if (!left) return NULL;
    job->drop(job->env);
    pthread_mutex_lock(&workers.lock);
    if (!refused) own = NULL;
    remove_job(job);
    pthread_cond_broadcast(&workers.changed);
    pthread_mutex_unlock(&workers.lock);
    free(job);
    return NULL;
}

static bool start(struct job *job, bool *ended)
{
    static const size_t stacks[] = { STACK, SMALL_STACK }; /* the second where memory is limited */
    pthread_attr_t attr;
    sigset_t blocked, before;
    bool started = false;
    if (pthread_attr_init(&attr)) return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&blocked); /* signals are for the program's own threads */
    if (STOP_SIGNAL) sigdelset(&blocked, STOP_SIGNAL);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    pthread_mutex_lock(&workers.lock);
    *ended = workers.ended;
    for (size_t i = 0; i < HOP_COUNT(stacks) && !started && !*ended; i++)
        started = !pthread_attr_setstacksize(&attr, stacks[i]) &&
                  !pthread_create(&job->thread, &attr, worker, job);
    if (started) {
        job->next = workers.first;
        workers.first = job;
    }
    pthread_mutex_unlock(&workers.lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return started;
}

bool worker_run(void (*work)(void *env), void (*drop)(void *env), void *env, const struct hop_watch *watch)
{
    struct job *job = watch && watch->cancel ? calloc(1, sizeof *job) : NULL;
    if (job) {
        *job = (struct job){ .work = work, .drop = drop, .env = env };
        pthread_once(&workers.once, register_ends);
    }
    bool ended = false;
    if (!job || !start(job, &ended)) {
        free(job);
        (ended ? drop : work)(env);
        return !ended;
    }
    pthread_mutex_lock(&workers.lock);
    for (bool ends = false; !job->done && !ends;) {
        wait_for_change(LOOK_EVERY_MS);
        if (job->done) break;
        pthread_mutex_unlock(&workers.lock);
        ends = hop_watch_ends(watch); /* which may call back, and take its time */
        pthread_mutex_lock(&workers.lock);
    }
    bool done = job->done, refused = job->refused;
    job->left = !done;
    pthread_mutex_unlock(&workers.lock);
    if (done) free(job);
    else /* once more: what LLVM has made since the first time is taken apart before that */
        atexit(end_workers);
    if (refused) work(env);
    return done;
}

void *worker_begin(void (*work)(void *env), void *env)
{
    struct job *job = calloc(1, sizeof *job);
    bool ended = false;
    if (!job) return NULL;
    *job = (struct job){ .work = work, .env = env, .beside = true };
    pthread_once(&workers.once, register_ends);
    if (start(job, &ended)) return job;
    free(job);
    return NULL;
}

void worker_end(void *begun)
{
    struct job *job = begun;
    if (!job) return;
    pthread_mutex_lock(&workers.lock);
    if (own) own->waits = true;
    while (!job->done) pthread_cond_wait(&workers.changed, &workers.lock);
    bool stops = own && workers.ended;
    if (own && !stops) own->waits = false;
    pthread_mutex_unlock(&workers.lock);
    if (stops)
        for (;;) pause();
    if (job->refused) job->work(job->env);
    free(job);
}

uint32_t worker_count(void)
{
    uint32_t n = 0;
    pthread_mutex_lock(&workers.lock);
    for (const struct job *job = workers.first; job; job = job->next) n += !job->beside;
    pthread_mutex_unlock(&workers.lock);
    return n;
}
