/* Threads that are handed work one piece at a time. Between two pieces one spins for a moment, as programs
 * are often run one after the other, then sleeps; more than KEPT that have nothing to do end. */
#include "dist/crew.h"

#include "runtime/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#define PAUSE_SPINNING() __builtin_ia32_pause()
#else
#define PAUSE_SPINNING() ((void)0)
#endif

enum { KEPT = 64, SPINS = 2000 };

struct hand {
    _Atomic uint32_t bell; /* 1: there is work */
    void (*work)(void *arg);
    void *arg;
    struct crew_latch *latch;
    struct hand *next; /* that has nothing to do either */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hand *idle;
static uint32_t n_idle;

/* Spins, then sleeps, while *word is `value`. */
static void wait_while(_Atomic uint32_t *word, uint32_t value)
{
    uint32_t spins = pool_cores() > 1 ? SPINS : 0;
    while (spins-- && atomic_load_explicit(word, memory_order_relaxed) == value) PAUSE_SPINNING();
    while (atomic_load(word) == value) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

/* In a child process there are none of these threads. */
static void child_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    idle = NULL;
    n_idle = 0;
}
static void register_fork(void) { pthread_atfork(NULL, NULL, child_after_fork); }

/* Among the idle ones; false: there are enough. */
static bool rest(struct hand *h)
{
    pthread_mutex_lock(&lock);
    bool kept = n_idle < KEPT;
    if (kept) {
        h->next = idle;
        idle = h;
        n_idle++;
    }
    pthread_mutex_unlock(&lock);
    return kept;
}

static void *serve(void *hand)
{
    struct hand *h = hand;
    for (bool kept = true; kept;) {
        wait_while(&h->bell, 0);
        atomic_store(&h->bell, 0);
        struct crew_latch *latch = h->latch;
        h->work(h->arg);
        kept = rest(h); /* it may have the next piece of work from here on */
        if (!kept) free(h);
        if (atomic_fetch_sub(&latch->left, 1) == 1) wake(&latch->left);
    }
    return NULL;
}

static struct hand *take(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork);
    pthread_mutex_lock(&lock);
    struct hand *h = idle;
    if (h) {
        idle = h->next;
        n_idle--;
    }
    pthread_mutex_unlock(&lock);
    return h;
}

static struct hand *hire(void)
{
    pthread_t thread;
    struct hand *h = calloc(1, sizeof *h); /* the process's, not a job's */
    if (!h) return NULL;
    if (pthread_create(&thread, NULL, serve, h)) {
        free(h);
        return NULL;
    }
    pthread_detach(thread);
    return h;
}

bool crew_start(struct crew_latch *latch, void (*work)(void *arg), void *arg)
{
    struct hand *h = take();
    if (!h) h = hire();
    if (!h) return false;
    h->work = work;
    h->arg = arg;
    h->latch = latch;
    atomic_fetch_add(&latch->left, 1);
    atomic_store(&h->bell, 1);
    wake(&h->bell);
    return true;
}

/* A latch that somebody has just let go may be woken once more: a futex of memory that is another's by then
 * is looked at again by whoever sleeps there. */
void crew_wait(struct crew_latch *latch)
{
    for (uint32_t left; (left = atomic_load(&latch->left));) wait_while(&latch->left, left);
}
