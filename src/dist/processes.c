/* Ranks that are processes: finds and loads the plug-in that speaks MPI, once, and keeps the one rank that
 * this process is. */
#include "dist/dist_impl.h"
#include "emit/emit.h"
#include "runtime/pool.h"

static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;
static struct plug_in plug_in = { .file = "libhop_mpi.so", .variable = "HOP_MPI" };
static struct dist_job job = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct rank rank;

/* How many processes an environment says were started together; 0: it does not say. */
static int64_t processes_by_environment(void)
{
    /* of Open MPI, of MPICH and others that speak PMI, of MVAPICH */
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE" };
    for (size_t i = 0; i < HOP_COUNT(names); i++) {
        const char *text = getenv(names[i]);
        if (text && strtoll(text, NULL, 10) > 0) return strtoll(text, NULL, 10);
    }
    /* srun sets the number of every step's tasks, and the rest where it serves an MPI */
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (tasks && (getenv("PMIX_RANK") || getenv("PMI_RANK"))) return strtoll(tasks, NULL, 10);
    return 0;
}

bool dist_under_mpi(void) { return processes_by_environment() > 1; }

static hop_status start(void)
{
    static const struct dist_host host = {
        .get = hop_try_malloc,
        .release = hop_free,
        .hash = hash_bytes,
        .cores = pool_cores,
        .processors = pool_processors,
        .reduce = dist_reduce,
        .note = job_note,
    };
    char error[512] = "";
    const struct dist_plug_in *p = plug_in_find(&plug_in) ? plug_in_load(&plug_in, "hop_mpi") : NULL;
    if (!p) {
        hop_set_message("ranks over MPI need hop's plug-in for it: %s", plug_in.why_not);
        return HOP_UNAVAILABLE;
    }
    rank = (struct rank){ .timeout = dist_timeout(), .job = &job, .transport = p->transport };
    hop_status status = p->start(&host, &rank, error);
    int64_t expected = processes_by_environment();
    if (!status && rank.size == 1 && expected > 1) {
        status = HOP_UNAVAILABLE;
        snprintf(error, sizeof error,
                 "this process was started as one of %lld, and the MPI that %.200s is built with knows of "
                 "none but it: "
                 "start it by that MPI's own mpirun",
                 (long long)expected, plug_in.path);
    }
    if (status) hop_set_message("%s", error);
    else pool_set_part(rank.cores);
    return status;
}

hop_status dist_mpi(struct rank **out)
{
    static bool tried;
    static hop_status outcome;
    static char why[DIST_MESSAGE];
    pthread_mutex_lock(&joining);
    if (!tried) {
        tried = true;
        outcome = start();
        if (outcome) snprintf(why, sizeof why, "%s", hop_message());
    }
    pthread_mutex_unlock(&joining);
    if (outcome) hop_set_message("%s", why);
    *out = outcome ? NULL : &rank;
    return outcome;
}
