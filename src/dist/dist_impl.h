/* What dist.c and the transports share. dist.c keeps the exchanges that are under way, waits, and knows
 * whether the job has failed; a transport gets an exchange one step further at a time and never waits by
 * itself. The MPI transport is a plug-in that links nothing of the library, and calls it through dist_host.
 */
#ifndef HOP_DIST_IMPL_H
#define HOP_DIST_IMPL_H

#include "dist/dist.h"
#include "runtime/pool.h"

#include <pthread.h>
#include <stdatomic.h>

/* DIST_OPEN: exchanges of one communicator that may be under way; the next one finishes the oldest.
 * DIST_SMALL: bytes up to which an array is handed to everybody at once. */
enum { DIST_OPEN = 16, DIST_SMALL = 2048, DIST_MESSAGE = 1024 };

/* An exchange that a rank has begun and not finished. */
struct open {
    struct dist_call call; /* with its lists, which stay in the member */
    uint64_t number;       /* the how manieth of the communicator */
    bool used;
    uint8_t step;   /* the transport's, 0 at first */
    int64_t total;  /* of all parts of a row: all_gather, reduce_scatter */
    int64_t before; /* parts of a row in front of this rank's */
    void *state;    /* the transport's, kept from one exchange to the next in this place */
};

/* A communicator as dist.c keeps it. */
struct member {
    struct comm comm;
    uint32_t used; /* of the ring */
    struct open ring[DIST_OPEN];
    int64_t lists[]; /* two for each of the ring, with an element for each member; then the ranks */
};

struct dist_job {
    /* Not 0: the number of the rank that failed first, and one; the rest does not change from then on. */
    _Atomic int32_t failed;
    pthread_mutex_t lock;
    hop_status status;
    char message[DIST_MESSAGE];
    void *state; /* the transport's */
};

struct dist_transport {
    const char *name;
    /* Makes and frees c->state. Not HOP_OK: with a message. */
    hop_status (*join)(struct comm *c, char error[512]);
    void (*part)(struct member *m);
    /* May the next exchange of the communicator take the place of the one DIST_OPEN before it? */
    bool (*is_free)(struct comm *c, uint64_t number);
    void (*begin)(struct comm *c, struct open *o);
    /* As far as it goes without waiting; true: done. */
    bool (*advance)(struct comm *c, struct open *o);
    /* Called again and again while nothing gets further, which is the `turn`-th time now; lets a little time
     * pass. True: it may have been a millisecond or more. */
    bool (*pause)(struct rank *r, uint32_t turn);
    /* What was waited for is there. */
    void (*awake)(struct rank *r);
    /* A rank that an exchange waits for, of the whole job; -1: not known. *gone: it has ended. */
    int32_t (*missing)(struct comm *c, const struct open *o, bool *gone);
    /* The job has failed. tell: by this rank, and the others have to learn it. Afterwards nobody uses the
     * buffers of this rank. */
    void (*end)(struct rank *r, bool tell);
};

/* What the plug-in calls. */
struct dist_host {
    void *(*get)(size_t bytes); /* NULL: there is no memory */
    void (*release)(void *block);
    uint64_t (*hash)(const void *data, size_t n, uint64_t seed);
    uint32_t (*cores)(void);                  /* processors that this process may use … */
    bool (*processors)(struct processors *p); /* … and which ones, as pool_processors says */
    void (*reduce)(const struct dist_call *call, int32_t n, const void *const *parts, void *out,
                   int64_t count);
    /* Notes the job's first failure; false: there was one. */
    bool (*note)(struct dist_job *job, int32_t rank, hop_status status, const char *message);
};
/* What `hop_mpi` in the plug-in is. */
struct dist_plug_in {
    const struct dist_transport *transport;
    /* Fills in number, size and cores, and r->job->state; r->job is there. Not HOP_OK: with a message. */
    hop_status (*start)(const struct dist_host *host, struct rank *r, char error[512]);
};

/* out[i] = the reduction of parts[k][i] over n ranks k, as dist.h says; out may be one of the parts. */
void dist_reduce(const struct dist_call *call, int32_t n, const void *const *parts, void *out, int64_t count);

/* Notes the job's first failure; false: there was one. */
bool job_note(struct dist_job *job, int32_t rank, hop_status status, const char *message);
/* As HOP_DIST_TIMEOUT says. */
double dist_timeout(void);
/* Waits for everything that the rank has begun. */
hop_status rank_finish(struct rank *r);
void rank_free_comms(struct rank *r);

/* How many elements (bytes) of a row belong to member k. */
static inline int64_t sent_size(const struct dist_call *call, int32_t k)
{
    return call->sizes ? call->sizes[k] : call->size;
}
static inline int64_t part_received(const struct dist_call *call, int32_t k)
{
    return call->receive ? call->receive[k] : call->size;
}
/* Where part k of all_to_all's `in` begins. */
static inline int64_t sent_offset(const struct dist_call *call, int32_t k)
{
    int64_t at = 0;
    if (!call->sizes) return call->size * k;
    for (int32_t i = 0; i < k; i++) at += call->sizes[i];
    return at;
}
/* Sizes of dtypes, for the plug-in, too. */
static inline int64_t element_bytes(enum dtype t)
{
    static const uint8_t bytes[] = { 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8 };
    return bytes[t];
}
static inline bool dist_reduces(enum dist_kind kind)
{
    return kind == DIST_ALL_REDUCE || kind == DIST_REDUCE_SCATTER;
}
/* Bytes of a rank's `in`. */
static inline int64_t dist_in_bytes(const struct comm *c, const struct open *o)
{
    const struct dist_call *call = &o->call;
    switch (call->kind) {
    case DIST_BARRIER: return 0;
    case DIST_ALL_REDUCE: return call->size * element_bytes(call->dtype);
    case DIST_ALL_GATHER: return call->rows * sent_size(call, c->me);
    case DIST_REDUCE_SCATTER: return call->rows * o->total * element_bytes(call->dtype);
    case DIST_ALL_TO_ALL: return sent_offset(call, c->size);
    case DIST_PERMUTE: return call->to >= 0 ? call->size : 0;
    case DIST_BROADCAST: return c->me == call->root ? call->size : 0;
    }
    return 0;
}

#endif
