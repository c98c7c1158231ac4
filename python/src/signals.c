/* Python's signal handlers, while a program runs, is compiled or transformed on the main thread: Python
 * itself only notes a signal until such a call returns. A thread of this file raises a flag ten times a
 * second while a call is under way; the call sees it and asks, and what is asked lets the handlers run. The
 * call goes on where it was unless one of them raises. A call costs two stores; the thread sleeps when there
 * are none. */
#include "core.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

enum { PERIOD_MS = 50, IDLE_PERIODS = 20 };

static unsigned long main_thread;
static volatile int flag; /* of the main thread's calls: ask */
static atomic_int depth;  /* calls of the main thread under way, one in the other; it alone changes it */
static atomic_uint calls; /* how many there were */
static atomic_bool asleep;
static bool started; /* by the main thread */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

void set_main_thread(unsigned long ident) { main_thread = ident; }

static void *ticker(void *unused)
{
    const struct timespec period = { 0, PERIOD_MS * 1000000 };
    unsigned seen = atomic_load(&calls), idle = 0;
    (void)unused;
    for (;;) {
        nanosleep(&period, NULL);
        unsigned now = atomic_load(&calls);
        if (atomic_load(&depth)) flag = 1;
        idle = now == seen && !atomic_load(&depth) ? idle + 1 : 0;
        seen = now;
        if (idle < IDLE_PERIODS) continue;
        pthread_mutex_lock(&lock);
        atomic_store(&asleep, true); /* before looking again: whoever begins a call looks at it afterwards */
        while (atomic_load(&calls) == seen) pthread_cond_wait(&wake, &lock);
        atomic_store(&asleep, false);
        pthread_mutex_unlock(&lock);
        idle = 0;
    }
    return NULL;
}

static void child_after_fork(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
    lock = mutex;
    wake = cond;
    started = false;
    atomic_store(&asleep, false);
}

static void start_ticker(void)
{
    static bool registered;
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    if (!registered) pthread_atfork(NULL, NULL, child_after_fork);
    registered = started = true;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 1 << 18);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for Python's threads */
    pthread_create(&thread, &attr, ticker,
                   NULL); /* where none can be had, handlers wait for the end of a call */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

/* On the main thread, without the GIL. An exception stays set for whoever began the call. */
static int handle_signals(void *unused)
{
    (void)unused;
    flag = 0;
    PyGILState_STATE state = PyGILState_Ensure();
    struct frame *tracing = frame_set(NULL); /* what a handler does is not part of what is being captured */
    int raised = PyErr_Occurred() || PyErr_CheckSignals();
    frame_set(tracing);
    PyGILState_Release(state);
    if (raised) flag = 1; /* the call's other threads look at it, too */
    return raised;
}

bool signals_begin(const volatile int **cancel, int (**confirm)(void *ctx))
{
    if (PyThread_get_thread_ident() != main_thread) return false;
    if (!started) start_ticker();
    flag = 0;
    atomic_fetch_add(&calls, 1);
    atomic_store_explicit(&depth, atomic_load_explicit(&depth, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    if (atomic_load(&asleep)) {
        pthread_mutex_lock(&lock);
        pthread_cond_signal(&wake);
        pthread_mutex_unlock(&lock);
    }
    *cancel = &flag;
    *confirm = handle_signals;
    return true;
}

void signals_end(bool begun)
{
    if (begun)
        atomic_store_explicit(&depth, atomic_load_explicit(&depth, memory_order_relaxed) - 1,
                              memory_order_relaxed);
}
