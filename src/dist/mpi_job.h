/* What the files of the MPI plug-in share: mpi.c starts and ends jobs, mpi_exchange.c carries exchanges out.
 * They link nothing of the library. */
#ifndef HOP_MPI_JOB_H
#define HOP_MPI_JOB_H

#include "dist/dist_impl.h"

#include <mpi.h>

/* Of a tag: the place in the ring, and the lane; above them what tells communicators apart. LANES: blocks of
 * an exchange that are under way at once. */
enum { LANE_BITS = 2, SLOT_BITS = 4, LANES = 1 << LANE_BITS, CHANNEL_SHIFT = LANE_BITS + SLOT_BITS };
_Static_assert(DIST_OPEN <= 1 << SLOT_BITS, "a tag holds the place in the ring");

/* What ranks tell each other beside what they exchange. */
enum news { NEWS_FAILED, NEWS_STOPPED, NEWS_ENDED };
struct notice {
    int32_t news;
    int32_t status; /* NEWS_FAILED: of the error … */
    char message[DIST_MESSAGE];
};

/* Where a rank runs. */
struct home {
    uint64_t machine, pid_space;
    int64_t process; /* its number there */
};

/* A rank as another one sees it. */
struct peer {
    int watched;     /* a descriptor of the process, -1: none, NOT_ASKED */
    bool stopped;    /* it knows that the job has failed, and sends nothing any more */
    bool ended;      /* it will never take part again … */
    bool died;       /* … and did not say so … */
    double ended_at; /* … as was known then */
};

struct mpi_job {
    const struct dist_host *host;
    struct rank *rank;
    MPI_Comm data, control;     /* of all ranks: messages are matched by rank and tag */
    int channels;               /* so many communicators can be told apart */
    int64_t most_bytes;         /* of one message */
    bool crowded;               /* more ranks than processors here: whoever waits lets others go on */
    bool stopped;               /* the job has failed and this rank uses nobody's buffers … */
    bool stuck;                 /* … but messages from or into them are under way: MPI is not called again */
    double waits_since, looked; /* what is waited for now; when the clock was looked at last */
    struct home *homes;         /* of all ranks, as all lists */
    struct peer *peers;
    struct notice heard, told, bye;
    MPI_Request hearing, *telling, *leaving;
};

static inline struct mpi_job *mpi_job_of(const struct rank *r) { return r->job->state; }
/* Fails the job because of an error that MPI gave for a call. */
void mpi_failed(struct rank *r, const char *call, int error);
void mpi_fail(struct rank *r, hop_status status, const char *message);

/* ---- mpi_exchange.c: members of struct dist_transport ---- */

hop_status exchange_join(struct comm *c, char error[512]);
void exchange_part(struct member *m);
void exchange_begin(struct comm *c, struct open *o);
bool exchange_advance(struct comm *c, struct open *o);
int32_t exchange_missing(struct comm *c, const struct open *o, bool *gone);
/* Ends all exchanges of a rank, once they are cancelled; false: messages are still under way. */
bool exchanges_given_up(struct rank *r, bool cancel);

/* Has this rank ended? */
bool mpi_is_gone(struct mpi_job *j, int32_t number);

#endif
