/* Ranks and what they exchange. A job is a number of ranks that run one program together: threads of this
 * process, or one process each under MPI. Ranks meet in communicators, those along some axes of a mesh, and
 * exchange arrays there; every rank of a communicator makes the same calls in the same order.
 *
 * Functions that can fail return a status, set hop_message() of the calling thread and do not throw. A job
 * fails as a whole: the first error of any rank (dist_fail, a wait that takes too long, a cancelled one) ends
 * all calls of all ranks, those that wait and those that come later, with the status HOP_CANCELLED, if it was
 * cancelled, else HOP_UNAVAILABLE, and a message that names the rank. When such a call has returned, no rank
 * reads or writes the caller's buffers any more, so that whoever ends may free them.
 *
 * Numbers are the same bits on every transport, but for the sign and payload of NaN. A reduction of values
 * x0, x1, … of the ranks of a communicator is what hop's folds over the array of all lanes are
 * (docs/numbers.md): in the order of the ranks, ((identity · x0) · x1) · …; of a scalar, ranks r go to
 * sixteen lanes r mod 16, which begin with the identity, and lanes 8…15 are folded onto 0…7, then 4…7 onto
 * 0…3, 2 and 3 onto 0 and 1, 1 onto 0. f16 and bf16 are computed in f32 and rounded to nearest even once, at
 * the end; a mean is the sum divided by the number of ranks, before that rounding. Integers wrap around. NaN
 * wins in max and min; of equals (0 and -0) the later operand. */
#ifndef HOP_DIST_H
#define HOP_DIST_H

#include "base/base.h"
#include "ir/ir.h"
#include "ops/build.h"

enum { DIST_AXES = 8 }; /* of a mesh, at most */

struct dist_job;
struct dist_transport;
struct comm;

/* One rank of a job, for whoever runs it; made by dist_run_threads and dist_mpi. */
struct rank {
    int32_t number, size;   /* 0 … size - 1, of all ranks of the job */
    uint32_t cores;         /* processors that are this rank's part of the machine's, one or more */
    struct hop_watch watch; /* looked at while the rank waits; cancel NULL: nobody ends it */
    double timeout;         /* seconds a wait may take, 0: any time; at first HOP_DIST_TIMEOUT says */
    struct dist_job *job;   /* the transport's, as all below */
    struct comm *comms;     /* those made so far */
    const struct dist_transport *transport;
};

/* How long a wait may take in seconds when HOP_DIST_TIMEOUT does not say; 0 there: any time. */
#define DIST_TIMEOUT 300.0

/* The rank that the calling thread runs; NULL: none. Collectives of a program find theirs so. */
struct rank *rank_current(void);
/* Makes it the thread's; which was it before, for rank_leave. */
struct rank *rank_enter(struct rank *r);
void rank_leave(struct rank *before);

/* ---- jobs ---- */

/* Runs body(rank, ctx) on n ranks, each a thread with its rank entered, rank 0 the calling one; it ends when
 * all have. A body that returns a status (with hop_message() of its thread) or throws fails the job. The
 * result is HOP_OK, or the status of the lowest rank that failed by itself, with "rank 2: " and its message;
 * where there is but one rank, the message alone. A watch of the calling thread is that of every rank, or of
 * rank 0 alone where it has to be confirmed there. Ranks that end while others wait for them are an error of
 * the job. */
hop_status dist_run_threads(int32_t n, hop_status (*body)(struct rank *r, void *ctx), void *ctx);

/* The same with ranks that keep their communicators from one job to the next, which begins sooner. One job at
 * a time; a team whose job has failed is of no more use. dist_team_new: NULL, with a message, where n is none
 * or there is no memory. */
struct dist_team;
struct dist_team *dist_team_new(int32_t n);
void dist_team_free(struct dist_team *team); /* accepts NULL */
hop_status dist_team_run(struct dist_team *team, hop_status (*body)(struct rank *r, void *ctx), void *ctx);

/* This process as a rank of an MPI job, the same one at every call: loads libhop_mpi.so, and initialises MPI
 * unless that was done (then the caller finalises it). HOP_UNAVAILABLE: there is no plug-in, or no MPI. One
 * thread at a time runs the rank. A job that has failed stays so, as messages may be under way; at exit it
 * waits a little for the others to notice, and aborts if they do not. */
hop_status dist_mpi(struct rank **out);
/* Was this process started by an mpirun (or srun, …) that set it up as one of several? From its environment
 * alone; nothing is loaded. */
bool dist_under_mpi(void);

/* Fails the job in the name of this rank: its own error, which other ranks will name. When it returns, no
 * rank uses this one's buffers. A second error of a job changes nothing. */
void dist_fail(struct rank *r, hop_status status, const char *message);
/* HOP_OK, or the job's status, with its message set as that of the calling thread. */
hop_status dist_state(struct rank *r);
/* Which rank failed first; -1: none. */
int32_t dist_failed(const struct rank *r);

/* Has every rank of the job the same `hash` of something that has to be the same everywhere, of the program
 * that is about to run, say? All ranks call it at the same point. If not, each gets HOP_INVALID and a message
 * that names `what` and the ranks whose hash is another than rank 0's. */
enum { DIST_HASH = 16 };
hop_status dist_same(struct rank *r, const char *what, const uint8_t hash[DIST_HASH]);

/* ---- communicators ---- */

/* The ranks that differ from this one along some axes of a mesh at most: `sizes` are those of its n axes, bit
 * k of `which` chooses axis k; 0: this rank alone. Rank r has row-major coordinates, the last axis runs
 * fastest, and members are numbered in the same way by their coordinates along the chosen axes. Made at the
 * first call, which does not wait for anybody, and kept until the job ends. HOP_INVALID: a mesh of another
 * number of ranks. */
hop_status dist_along(struct rank *r, uint32_t n, const int64_t *sizes, uint32_t which, struct comm **out);

struct comm {
    int32_t size, me;     /* members; this rank's number among them */
    const int32_t *ranks; /* numbers of the members in the job */
    struct rank *rank;    /* this one */
    void *state;          /* the transport's */
    uint64_t begun;       /* how many calls this rank has begun here */
    /* what it was made for */
    uint32_t n_axes, which;
    int64_t sizes[DIST_AXES];
    struct comm *next;
};

/* This rank's coordinate along axis k of a mesh. */
static inline int64_t rank_coordinate(const struct rank *r, uint32_t n, const int64_t *sizes, uint32_t k)
{
    int64_t rest = r->number;
    for (uint32_t later = n; --later > k;) rest /= sizes[later];
    return rest % sizes[k];
}

/* ---- exchanges ---- */

enum dist_kind {
    DIST_BARRIER,
    /* out = the reduction of all ranks' `in`; in == out is allowed. size: elements */
    DIST_ALL_REDUCE,
    /* out[row][part of rank k] = in[row] of rank k; in: rows of size (sizes[me]) bytes, out: rows of all
     * parts one after the other */
    DIST_ALL_GATHER,
    /* out[row] = the reduction of all ranks' in[row][part me]; as all_gather the other way round, sizes in
     * elements */
    DIST_REDUCE_SCATTER,
    /* part k of `in` goes to rank k, part k of `out` comes from rank k; size bytes each, or sizes[k] go and
     * receive[k] come (rows is not looked at) */
    DIST_ALL_TO_ALL,
    /* `in` goes to rank `to` of the communicator, `out` comes from rank `from`, -1: nobody; out is zeros
     * where nobody sends. size bytes. What `to` and `from` say must agree among the ranks. */
    DIST_PERMUTE,
    /* out = in of rank `root`; in is read there alone. size bytes */
    DIST_BROADCAST
};

/* What this rank has to do with an exchange; `in` and `out` do not overlap but where it says so. All but
 * addresses and `to`, `from`, `receive` are the same on all ranks (of all_to_all `sizes`, too, is each rank's
 * own). The lists are read by dist_begin alone. */
struct dist_call {
    enum dist_kind kind;
    enum dtype dtype;  /* of reductions: any but bool */
    enum reduction op; /* REDUCTION_MEAN: floats */
    bool scalar;       /* of all_reduce: a value of rank 0, whose order of reduction is that of a row */
    const void *in;
    void *out;
    int64_t rows;         /* all_gather, reduce_scatter: 1 for parts of the leading dim */
    int64_t size;         /* see above */
    const int64_t *sizes; /* NULL: `size` on each rank; else one for each rank of the communicator */
    const int64_t *receive;
    int32_t to, from, root;
};

/* An exchange that was begun. */
struct dist_request {
    struct comm *comm;
    uint64_t number;
};

/* Begins an exchange, and may do some of it. Until it is waited for, `in` must stay as it is and `out` is
 * nobody's to look at. Any number may be under way; how far they get meanwhile is the transport's matter.
 * Each is to be waited for once, in any order, unless the job fails. */
hop_status dist_begin(struct comm *c, const struct dist_call *call, struct dist_request *r);
/* Gets on with it as far as it goes without waiting; true: dist_wait will not wait, or the job has failed. */
bool dist_ready(struct dist_request *r);
hop_status dist_wait(struct dist_request *r);
/* Both, one after the other. */
hop_status dist_do(struct comm *c, const struct dist_call *call);

/* ---- what has to be the same on all ranks, compared while the ranks go on ---- */

/* Stays where it is until the end, which is to come unless the beginning fails. */
struct dist_sameness {
    struct dist_request request;
    uint8_t hash[DIST_HASH], *hashes; /* this rank's; all ranks' */
};
hop_status dist_same_begin(struct rank *r, const uint8_t hash[DIST_HASH], struct dist_sameness *s);
hop_status dist_same_end(struct dist_sameness *s, const char *what);

#endif
