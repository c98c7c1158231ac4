/* The MPI transport: ranks are processes, and exchange messages between two of them each (mpi_exchange.c).
 * Here a job starts, ranks wait, and learn of each other's failure and end from notices on a communicator of
 * their own, or, if they share a machine, from the system. A library of its own: nothing else of hop knows of
 * MPI. */
#include "dist/mpi_job.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* NEWS_TAG: of notices. NOT_ASKED: no descriptor of the process yet. While waiting, FIRST_TURNS: without a
 * look at the clock or for notices; TURNS_PER_LOOK: between looks for notices. */
enum { NEWS_TAG = 0, NOT_ASKED = -2, FIRST_TURNS = 8, TURNS_PER_LOOK = 16, FEW_CHANNELS = 64 };
/* Seconds. Between looks at the clock's consequences; that a wait spins before it naps, and naps; before it
 * takes longer naps. */
static const double LOOK = 1e-3, SPIN = 5e-3, LONG_WAIT = 0.5;
enum { NAP_US = 50, LONG_NAP_US = 500 };
/* Until what a rank sent before it ended, or died, must have arrived; that a rank which fails waits for the
 * others to know, and for messages from and into its buffers to end; that one which has failed and is leaving
 * waits for the others to leave as well, or, without MPI, to say what they know. */
static const double LATE = 0.2, LATE_DEAD = 0.01, FAILING = 1.0, MOVING = 5.0, LEAVING = 5.0;
enum { LEAVING_STUCK = 2 };
/* Bytes of a message at most: counts are int. */
static const int64_t MOST_BYTES = 1 << 30;

static double seconds_now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static double now(void) { return seconds_now(CLOCK_MONOTONIC); }

/* ---- failure ---- */

void mpi_fail(struct rank *r, hop_status status, const char *message)
{
    r->transport->end(r, mpi_job_of(r)->host->note(r->job, r->number, status, message));
}

void mpi_failed(struct rank *r, const char *call, int error)
{
    char text[DIST_MESSAGE], why[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(error, why, &length);
    snprintf(text, sizeof text, "%s: %s", call, why);
    mpi_fail(r, HOP_UNAVAILABLE, text);
}

/* ---- notices ---- */

static size_t notice_bytes(const struct notice *n)
{
    return offsetof(struct notice, message) + (n->news == NEWS_FAILED ? strlen(n->message) + 1 : 0);
}

/* To all other ranks: those that have ended wait for the others to end as well. */
static void tell(struct mpi_job *j, const struct notice *n, MPI_Request *requests)
{
    for (int32_t k = 0; k < j->rank->size; k++) {
        if (k == j->rank->number || j->peers[k].died) continue;
        MPI_Isend(n, (int)notice_bytes(n), MPI_BYTE, k, NEWS_TAG, j->control, &requests[k]);
    }
}

static void listen(struct mpi_job *j)
{
    int bytes = (int)sizeof j->heard;
    MPI_Irecv(&j->heard, bytes, MPI_BYTE, MPI_ANY_SOURCE, NEWS_TAG, j->control, &j->hearing);
}

/* Takes what notices there are. */
static void hear(struct mpi_job *j)
{
    int there = 1;
    while (!j->stuck && there && j->hearing != MPI_REQUEST_NULL) {
        MPI_Status from;
        if (MPI_Test(&j->hearing, &there, &from) || !there) return;
        struct peer *p = &j->peers[from.MPI_SOURCE];
        p->stopped = true;
        if (j->heard.news == NEWS_ENDED) {
            p->ended = true;
            p->ended_at = now();
        }
        if (j->heard.news == NEWS_FAILED)
            j->host->note(j->rank->job, from.MPI_SOURCE, (hop_status)j->heard.status, j->heard.message);
        listen(j);
    }
}

/* Has the process of a rank ended, as far as can be seen from here? */
static bool process_ended(struct mpi_job *j, int32_t number)
{
    const struct home *here = &j->homes[j->rank->number], *there = &j->homes[number];
    struct peer *p = &j->peers[number];
#ifdef SYS_pidfd_open
    if (p->watched == NOT_ASKED) {
        bool visible = there->machine == here->machine && there->pid_space == here->pid_space;
        p->watched = visible ? (int)syscall(SYS_pidfd_open, (pid_t)there->process, 0) : -1;
        if (visible && p->watched < 0 && errno == ESRCH) return true;
    }
#endif
    struct pollfd look = { .fd = p->watched, .events = POLLIN };
    return p->watched >= 0 && poll(&look, 1, 0) == 1;
}

bool mpi_is_gone(struct mpi_job *j, int32_t number)
{
    struct peer *p = &j->peers[number];
    if (!p->ended && process_ended(j, number)) {
        p->ended = p->stopped = p->died = true;
        p->ended_at = now();
    }
    return p->ended && now() - p->ended_at >= (p->died ? LATE_DEAD : LATE);
}

/* ---- waiting ---- */

static void nap(uint32_t us) { nanosleep(&(struct timespec){ .tv_nsec = us * 1000l }, NULL); }

static bool mpi_pause(struct rank *r, uint32_t turn)
{
    struct mpi_job *j = mpi_job_of(r);
    if (turn < FIRST_TURNS) {
        if (j->crowded) sched_yield();
        return false;
    }
    double t = seconds_now(CLOCK_MONOTONIC);
    if (turn == FIRST_TURNS) j->waits_since = j->looked = t;
    if (turn % TURNS_PER_LOOK == 0) hear(j);
    double waited = t - j->waits_since;
    if (waited > SPIN) nap(waited > LONG_WAIT ? LONG_NAP_US : NAP_US);
    else if (j->crowded) sched_yield();
    if (t - j->looked < LOOK) return false;
    j->looked = t;
    hear(j);
    return true;
}

static void mpi_awake(struct rank *r) { HOP_UNUSED(r); }

static bool mpi_is_free(struct comm *c, uint64_t number)
{
    HOP_UNUSED(c);
    HOP_UNUSED(number);
    return true;
}

/* ---- the end ---- */

/* A message that nobody here asked for: its sender waits until it has been taken. */
struct unwanted {
    MPI_Request taking;
    void *data;
};
static void take_unwanted(struct mpi_job *j, struct unwanted *u)
{
    int there = 1, bytes = 0;
    MPI_Status what;
    if (u->taking != MPI_REQUEST_NULL && (MPI_Test(&u->taking, &there, MPI_STATUS_IGNORE) || !there)) return;
    j->host->release(u->data);
    u->data = NULL;
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, j->data, &there, &what) || !there) return;
    MPI_Get_count(&what, MPI_BYTE, &bytes);
    u->data = j->host->get((size_t)bytes + 1);
    if (u->data) MPI_Irecv(u->data, bytes, MPI_BYTE, what.MPI_SOURCE, what.MPI_TAG, j->data, &u->taking);
}

/* Do all others know that the job has failed (or, `left`: have they ended)? */
static bool all_others(struct mpi_job *j, bool left)
{
    for (int32_t k = 0; k < j->rank->size; k++) {
        const struct peer *p = &j->peers[k];
        if (k != j->rank->number && !(left ? p->ended : p->stopped) && !mpi_is_gone(j, k)) return false;
    }
    return true;
}

/* Takes messages until the others know, and none is under way from or into a buffer of this rank. */
static void mpi_end(struct rank *r, bool first)
{
    struct mpi_job *j = mpi_job_of(r);
    struct unwanted u = { .taking = MPI_REQUEST_NULL };
    if (j->stopped) return;
    j->stopped = true;
    j->told.news = first ? NEWS_FAILED : NEWS_STOPPED;
    if (first) {
        j->told.status = (int32_t)r->job->status;
        snprintf(j->told.message, sizeof j->told.message, "%s", r->job->message);
    }
    tell(j, &j->told, j->telling);
    double begun = now(), t = begun;
    bool given_up = exchanges_given_up(r, true);
    while (t - begun < (given_up ? FAILING : MOVING) && !(given_up && all_others(j, false))) {
        hear(j);
        take_unwanted(j, &u);
        nap(NAP_US);
        given_up = exchanges_given_up(r, false);
        t = now();
    }
    j->stuck = !given_up;
    /* one that is still being taken stays where it is */
    if (u.taking == MPI_REQUEST_NULL) j->host->release(u.data);
}

/* At the end of a rank until all others are at theirs: they may need it for what is under way. False: some
 * will never be, or nobody knows. */
static bool wait_for_others(struct mpi_job *j)
{
    struct unwanted u = { .taking = MPI_REQUEST_NULL };
    double begun = now(), failed_since = 0;
    bool left;
    while (!(left = all_others(j, true))) {
        double t = now();
        bool failed = atomic_load(&j->rank->job->failed);
        if (failed && !failed_since) failed_since = t;
        if (failed && t - failed_since > LEAVING) break;
        hear(j);
        if (failed) take_unwanted(j, &u);
        nap(t - begun > LONG_WAIT ? LONG_NAP_US : NAP_US);
    }
    for (int32_t k = 0; k < j->rank->size; k++) left &= !j->peers[k].died;
    return left && u.taking == MPI_REQUEST_NULL;
}

/* MPI calls it when it is about to be finalised, by whomever. Finalising waits for all ranks, for ever if one
 * of them is gone: then the job is aborted. */
static int leave_job(MPI_Comm comm, int key, void *value, void *extra)
{
    struct mpi_job *j = value;
    HOP_UNUSED(comm);
    HOP_UNUSED(key);
    HOP_UNUSED(extra);
    fflush(NULL); /* others may hear of this end before the rest of it comes, and abort the job */
    if (j->stuck) {
        nanosleep(&(struct timespec){ .tv_sec = LEAVING_STUCK }, NULL);
    } else {
        j->bye.news = NEWS_ENDED;
        tell(j, &j->bye, j->leaving);
        if (wait_for_others(j)) {
            for (int32_t k = 0; k < j->rank->size; k++) {
                MPI_Wait(&j->telling[k], MPI_STATUS_IGNORE);
                MPI_Wait(&j->leaving[k], MPI_STATUS_IGNORE);
            }
            MPI_Cancel(&j->hearing);
            MPI_Wait(&j->hearing, MPI_STATUS_IGNORE);
            return MPI_SUCCESS;
        }
    }
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    return MPI_SUCCESS;
}

/* ---- the beginning ---- */

static const struct dist_transport transport = {
    .name = "mpi",
    .join = exchange_join,
    .part = exchange_part,
    .is_free = mpi_is_free,
    .begin = exchange_begin,
    .advance = exchange_advance,
    .pause = mpi_pause,
    .awake = mpi_awake,
    .missing = exchange_missing,
    .end = mpi_end,
};

static void finalise(void)
{
    int finalised;
    if (!MPI_Finalized(&finalised) && !finalised) MPI_Finalize();
}

/* SERIALIZED: a rank is run by one thread at a time, which need not be the same one always. */
static hop_status initialise(char error[512])
{
    int done, finalised, level, is_main = 1;
    MPI_Finalized(&finalised);
    if (finalised) {
        snprintf(error, 512, "MPI has been finalised: ranks can be had before that");
        return HOP_UNAVAILABLE;
    }
    MPI_Initialized(&done);
    if (done) MPI_Query_thread(&level);
    else if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level)) level = -1;
    else atexit(finalise);
    if (level >= 0 && level < MPI_THREAD_SERIALIZED) MPI_Is_thread_main(&is_main);
    if (level >= 0 && is_main) return HOP_OK;
    if (level < 0) snprintf(error, 512, "MPI could not be initialised");
    else
        snprintf(error, 512,
                 "MPI was initialised for its main thread alone: expected MPI_THREAD_SERIALIZED or more");
    return HOP_UNAVAILABLE;
}

static struct home find_home(void)
{
    struct home h = { .process = getpid() };
    char text[64] = "", node[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    struct stat space;
    FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (boot) {
        if (!fgets(text, sizeof text, boot)) text[0] = 0;
        fclose(boot);
    }
    MPI_Get_processor_name(node, &length);
    for (const char *c = text[0] ? text : node; *c; c++) h.machine = hash_mix(h.machine, (unsigned char)*c);
    if (!stat("/proc/self/ns/pid", &space)) h.pid_space = (uint64_t)space.st_ino;
    return h;
}

/* Memory for what is kept of so many ranks; false: there is none. */
static bool make_room(struct mpi_job *j, int32_t ranks)
{
    size_t n = (size_t)ranks;
    j->homes = j->host->get(n * sizeof *j->homes);
    j->peers = j->host->get(n * sizeof *j->peers);
    j->telling = j->host->get(n * sizeof(MPI_Request));
    j->leaving = j->host->get(n * sizeof(MPI_Request));
    if (!j->homes || !j->peers || !j->telling || !j->leaving) return false;
    for (int32_t k = 0; k < ranks; k++) {
        j->peers[k] = (struct peer){ .watched = NOT_ASKED };
        j->telling[k] = j->leaving[k] = MPI_REQUEST_NULL;
    }
    return true;
}

/* Communicators of this job's own, where errors are returned, and what all ranks know of each other. */
static hop_status meet(struct mpi_job *j, char error[512])
{
    struct home here = find_home();
    int *most = NULL, known = 0, good = make_room(j, j->rank->size), all_good = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &j->data);
    MPI_Comm_dup(MPI_COMM_WORLD, &j->control);
    MPI_Comm_set_errhandler(j->data, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(j->control, MPI_ERRORS_RETURN);
    MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, j->control);
    if (!all_good) {
        snprintf(error, 512, "no memory for what is known of %d ranks", j->rank->size);
        return HOP_NOMEM;
    }
    int bytes = (int)sizeof here;
    MPI_Allgather(&here, bytes, MPI_BYTE, j->homes, bytes, MPI_BYTE, j->control);
    MPI_Comm_get_attr(j->data, MPI_TAG_UB, (void *)&most, &known);
    j->channels = known && *most >= FEW_CHANNELS << CHANNEL_SHIFT ? *most >> CHANNEL_SHIFT : FEW_CHANNELS;
    return HOP_OK;
}

/* How many ranks have processors among these sets, `size` bytes each, that this one has in `own`; it is one
 * of them. both: room for one more. */
static int32_t count_common(const struct mpi_job *j, const char *sets, size_t size, const void *own,
                            void *both)
{
    int32_t sharing = 0;
    for (int32_t k = 0; k < j->rank->size; k++) {
        const void *theirs = sets + (size_t)k * size;
        CPU_AND_S(size, (cpu_set_t *)both, (const cpu_set_t *)own, (const cpu_set_t *)theirs);
        bool near = j->homes[k].machine == j->homes[j->rank->number].machine;
        sharing += (near && CPU_COUNT_S(size, (cpu_set_t *)both)) || k == j->rank->number;
    }
    return sharing;
}

/* How many ranks may use processors that this one may use; 0: a rank has no memory to find out. Their sets
 * are as large as the largest one of a system. */
static int32_t count_sharing(const struct mpi_job *j)
{
    struct processors own = { 0 };
    int room = j->host->processors(&own) ? own.room : 0, most = 0, all_good = 0;
    MPI_Allreduce(&room, &most, 1, MPI_INT, MPI_MAX, j->control);
    size_t size = CPU_ALLOC_SIZE(HOP_MAX(most, 1)), n = (size_t)j->rank->size;
    char *sets = j->host->get((n + 2) * size);
    int good = sets != NULL;
    int32_t sharing = 0;
    MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, j->control);
    if (all_good) {
        char *mine = sets + n * size, *both = mine + size;
        memset(mine, 0, size);
        if (room) memcpy(mine, own.set, CPU_ALLOC_SIZE(room));
        MPI_Allgather(mine, (int)size, MPI_BYTE, sets, (int)size, MPI_BYTE, j->control);
        sharing = count_common(j, sets, size, mine, both);
    }
    CPU_FREE(own.set);
    j->host->release(sets);
    return sharing;
}

static hop_status start(const struct dist_host *host, struct rank *r, char error[512])
{
    static struct mpi_job job;
    struct mpi_job *j = &job;
    int number, size, key;
    hop_status status = initialise(error);
    if (status) return status;
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    r->number = number;
    r->size = size;
    r->job->state = j;
    *j = (struct mpi_job){ .host = host, .rank = r, .most_bytes = MOST_BYTES };
    const char *most = getenv("HOP_DIST_MESSAGE");
    if (most && strtoll(most, NULL, 10) > 0) j->most_bytes = HOP_MIN(strtoll(most, NULL, 10), MOST_BYTES);
    status = meet(j, error);
    if (status) return status;
    int32_t sharing = count_sharing(j);
    if (!sharing) {
        snprintf(error, 512, "no memory for the processors of %d ranks", size);
        return HOP_NOMEM;
    }
    r->cores = HOP_MAX(host->cores() / (uint32_t)sharing, 1);
    j->crowded = (uint32_t)sharing > host->cores();
    listen(j);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave_job, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, j);
    return HOP_OK;
}

const struct dist_plug_in hop_mpi = { .transport = &transport, .start = start };
