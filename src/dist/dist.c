/* Ranks, whatever carries what they exchange: which rank a thread runs, communicators along axes of a mesh,
 * exchanges that are under way, waiting for them, and the failure of a job. */
#include "dist/dist_impl.h"

#include <time.h>

static _Thread_local struct rank *current;

struct rank *rank_current(void) { return current; }

struct rank *rank_enter(struct rank *r)
{
    struct rank *before = current;
    current = r;
    return before;
}

void rank_leave(struct rank *before) { current = before; }

double dist_timeout(void)
{
    const char *text = getenv("HOP_DIST_TIMEOUT");
    char *end = NULL;
    double seconds = text ? strtod(text, &end) : -1;
    bool good = text && end != text && !*end && seconds >= 0;
    return good ? seconds : DIST_TIMEOUT;
}

/* ---- failure ---- */

bool job_note(struct dist_job *job, int32_t rank, hop_status status, const char *message)
{
    pthread_mutex_lock(&job->lock);
    bool first = !atomic_load(&job->failed);
    if (first) {
        job->status = status;
        snprintf(job->message, sizeof job->message, "%s", message);
        atomic_store(&job->failed, rank + 1);
    }
    pthread_mutex_unlock(&job->lock);
    return first;
}

int32_t dist_failed(const struct rank *r) { return atomic_load(&r->job->failed) - 1; }

void dist_fail(struct rank *r, hop_status status, const char *message)
{
    r->transport->end(r, job_note(r->job, r->number, status, message));
}

hop_status dist_state(struct rank *r)
{
    int32_t failed = dist_failed(r);
    if (failed < 0) return HOP_OK;
    r->transport->end(r, false);
    if (failed == r->number) hop_set_message("%s", r->job->message);
    else hop_set_message("rank %d failed: %s", failed, r->job->message);
    return r->job->status == HOP_CANCELLED ? HOP_CANCELLED : HOP_UNAVAILABLE;
}

HOP_PRINTF(3, 4)
static hop_status fail(struct rank *r, hop_status status, const char *format, ...)
{
    char text[DIST_MESSAGE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    dist_fail(r, status, text);
    hop_status known = dist_state(r);
    return dist_failed(r) == r->number ? status : known;
}

/* ---- waiting ---- */

static const char *const kind_names[] = {
    [DIST_BARRIER] = "barrier",          [DIST_ALL_REDUCE] = "all_reduce",
    [DIST_ALL_GATHER] = "all_gather",    [DIST_REDUCE_SCATTER] = "reduce_scatter",
    [DIST_ALL_TO_ALL] = "all_to_all",    [DIST_PERMUTE] = "rank_permute",
    [DIST_BROADCAST] = "rank_broadcast",
};

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool advance(struct member *m, struct open *o)
{
    if (!o->used) return true;
    if (!m->comm.rank->transport->advance(&m->comm, o)) return false;
    o->used = false;
    m->used--;
    return true;
}

/* Others may wait for this rank's part in anything that it has begun. */
static void advance_all(struct rank *r)
{
    for (struct comm *c = r->comms; c; c = c->next) {
        struct member *m = (struct member *)c;
        for (uint32_t i = 0; m->used && i < DIST_OPEN; i++) advance(m, &m->ring[i]);
    }
}

/* The exchange of the ring's place o to be finished or, with room, that place to be free for everybody. */
struct wait {
    struct member *m;
    struct open *o;
    bool room;
    uint32_t turn;
    double since; /* 0: nobody has looked at the clock */
};

static bool is_there(const struct wait *w)
{
    struct comm *c = &w->m->comm;
    return w->room ? c->rank->transport->is_free(c, c->begun) : advance(w->m, w->o);
}

/* After a millisecond or more: somebody may have asked for the end, a rank may be gone, time may be up. */
static hop_status look(struct wait *w)
{
    struct rank *r = w->m->comm.rank;
    bool gone = false;
    const char *name = kind_names[w->o->call.kind];
    if (r->watch.cancel && hop_watch_ends(&r->watch)) return fail(r, HOP_CANCELLED, "cancelled in %s", name);
    double now = seconds_now();
    if (!w->since) w->since = now;
    int32_t who = r->transport->missing(&w->m->comm, w->o, &gone);
    if (gone)
        return fail(r, HOP_UNAVAILABLE, "%s: rank %d has ended, rank %d waits for it", name, who, r->number);
    if (!r->timeout || now - w->since < r->timeout) return HOP_OK;
    if (who < 0)
        return fail(r, HOP_UNAVAILABLE, "%s: rank %d has waited for %g s", name, r->number, r->timeout);
    return fail(r, HOP_UNAVAILABLE, "%s: rank %d has waited for rank %d for %g s", name, r->number, who,
                r->timeout);
}

static hop_status wait_for(struct wait w)
{
    struct rank *r = w.m->comm.rank;
    hop_status status = HOP_OK;
    while (!status && !is_there(&w)) {
        status = dist_state(r);
        if (status) break;
        advance_all(r);
        if (r->transport->pause(r, w.turn++)) status = look(&w);
    }
    if (w.turn) r->transport->awake(r);
    return status;
}

hop_status rank_finish(struct rank *r)
{
    hop_status status = HOP_OK;
    for (struct comm *c = r->comms; c && !status; c = c->next) {
        struct member *m = (struct member *)c;
        for (uint32_t i = 0; m->used && !status && i < DIST_OPEN; i++)
            status = wait_for((struct wait){ .m = m, .o = &m->ring[i] });
    }
    return status;
}

/* ---- communicators ---- */

/* Strides of the mesh's axes in numbers of ranks; false: another number of ranks. */
static bool strides_of(const struct rank *r, uint32_t n, const int64_t *sizes, int64_t *strides)
{
    int64_t ranks = 1;
    if (n > DIST_AXES) return false;
    for (uint32_t k = n; k--;) {
        strides[k] = ranks;
        if (sizes[k] < 1 || __builtin_mul_overflow(ranks, sizes[k], &ranks)) return false;
    }
    return ranks == r->size;
}

/* The members' numbers in the job, in the order of their coordinates along the chosen axes. */
static void list_members(const struct rank *r, uint32_t n, const int64_t *sizes, const int64_t *strides,
                         uint32_t which, int32_t size, int32_t *ranks)
{
    int64_t first = r->number;
    for (uint32_t k = 0; k < n; k++)
        if (which >> k & 1) first -= rank_coordinate(r, n, sizes, k) * strides[k];
    for (int32_t i = 0; i < size; i++) {
        int64_t rest = i, number = first;
        for (uint32_t k = n; k--;) {
            if (!(which >> k & 1)) continue;
            number += rest % sizes[k] * strides[k];
            rest /= sizes[k];
        }
        ranks[i] = (int32_t)number;
    }
}

static struct comm *find_comm(const struct rank *r, uint32_t n, const int64_t *sizes, uint32_t which)
{
    for (struct comm *c = r->comms; c; c = c->next)
        if (c->n_axes == n && c->which == which && !memcmp(c->sizes, sizes, n * sizeof *sizes)) return c;
    return NULL;
}

hop_status dist_along(struct rank *r, uint32_t n, const int64_t *sizes, uint32_t which, struct comm **out)
{
    int64_t strides[DIST_AXES];
    char error[512];
    which &= n < 32 ? (1u << n) - 1 : UINT32_MAX;
    *out = find_comm(r, n, sizes, which);
    if (*out) return HOP_OK;
    if (!strides_of(r, n, sizes, strides)) {
        hop_set_message("a mesh of %u axes: expected the %d ranks of the job, at most %d axes", n, r->size,
                        DIST_AXES);
        return HOP_INVALID;
    }
    int32_t size = 1;
    for (uint32_t k = 0; k < n; k++)
        if (which >> k & 1) size *= (int32_t)sizes[k];
    size_t lists = 2 * (size_t)DIST_OPEN * (size_t)size;
    size_t bytes = sizeof(struct member) + lists * sizeof(int64_t) + (size_t)size * sizeof(int32_t);
    struct member *m = hop_try_malloc(bytes);
    if (!m) {
        hop_set_message("no memory for a communicator of %d ranks", size);
        return HOP_NOMEM;
    }
    memset(m, 0, sizeof *m);
    int32_t *ranks = (int32_t *)(m->lists + lists);
    list_members(r, n, sizes, strides, which, size, ranks);
    struct comm *c = &m->comm;
    *c = (struct comm){ .size = size, .ranks = ranks, .rank = r, .n_axes = n, .which = which };
    memcpy(c->sizes, sizes, n * sizeof *sizes);
    while (ranks[c->me] != r->number) c->me++;
    error[0] = 0;
    hop_status status = r->transport->join(c, error);
    if (status) {
        hop_free(m);
        hop_set_message("%s", error);
        return status;
    }
    c->next = r->comms;
    r->comms = c;
    *out = c;
    return HOP_OK;
}

void rank_free_comms(struct rank *r)
{
    for (struct comm *c = r->comms, *next; c; c = next) {
        next = c->next;
        r->transport->part((struct member *)c);
        hop_free(c);
    }
    r->comms = NULL;
}

/* ---- exchanges ---- */

/* NULL, or what is wrong with a call. */
static const char *call_fault(const struct comm *c, const struct dist_call *call)
{
    if (dist_reduces(call->kind)) {
        if (call->dtype == DT_BOOL || (!dtype_is_float(call->dtype) && !dtype_is_integer(call->dtype)))
            return "expected numbers";
        if (call->op == REDUCTION_MEAN && !dtype_is_float(call->dtype)) return "a mean: expected floats";
    }
    if (call->size < 0 || call->rows < 0) return "expected sizes of 0 or more";
    for (int32_t k = 0; k < c->size; k++)
        if (sent_size(call, k) < 0 || part_received(call, k) < 0) return "expected parts of 0 or more";
    if (call->kind == DIST_PERMUTE &&
        (call->to < -1 || call->to >= c->size || call->from < -1 || call->from >= c->size))
        return "to, from: expected ranks of the communicator or -1";
    if (call->kind == DIST_BROADCAST && (call->root < 0 || call->root >= c->size))
        return "root: expected a rank of the communicator";
    return NULL;
}

static void note_call(struct member *m, struct open *o, const struct dist_call *call)
{
    struct comm *c = &m->comm;
    int64_t *lists = m->lists + 2 * (o - m->ring) * c->size;
    void *state = o->state;
    *o = (struct open){ .call = *call, .number = c->begun, .used = true, .state = state };
    if (call->sizes) o->call.sizes = memcpy(lists, call->sizes, (size_t)c->size * sizeof *lists);
    if (call->receive)
        o->call.receive = memcpy(lists + c->size, call->receive, (size_t)c->size * sizeof *lists);
    for (int32_t k = 0; k < c->size; k++) {
        if (k == c->me) o->before = o->total;
        o->total += sent_size(call, k);
    }
    if (call->kind != DIST_ALL_REDUCE || call->size != 1) o->call.scalar = false;
    m->used++;
}

hop_status dist_begin(struct comm *c, const struct dist_call *call, struct dist_request *request)
{
    struct rank *r = c->rank;
    struct member *m = (struct member *)c;
    struct open *o = &m->ring[c->begun % DIST_OPEN];
    hop_status status = dist_state(r);
    *request = (struct dist_request){ c, c->begun };
    if (status) return status;
    const char *fault = call_fault(c, call);
    if (fault) return fail(r, HOP_INVALID, "%s: %s", kind_names[call->kind], fault);
    if (o->used) status = wait_for((struct wait){ .m = m, .o = o });
    if (!status && !r->transport->is_free(c, c->begun))
        status = wait_for((struct wait){ .m = m, .o = o, .room = true });
    if (status) return status;
    note_call(m, o, call);
    c->begun++;
    r->transport->begin(c, o);
    advance(m, o);
    return HOP_OK;
}

/* Its place in the ring; NULL: it is finished. */
static struct open *open_of(const struct dist_request *request)
{
    struct open *o = &((struct member *)request->comm)->ring[request->number % DIST_OPEN];
    return o->used && o->number == request->number ? o : NULL;
}

bool dist_ready(struct dist_request *request)
{
    struct rank *r = request->comm->rank;
    struct open *o = open_of(request);
    if (o && !advance((struct member *)request->comm, o)) advance_all(r);
    return !open_of(request) || dist_failed(r) >= 0;
}

hop_status dist_wait(struct dist_request *request)
{
    struct open *o = open_of(request);
    if (!o) return dist_state(request->comm->rank);
    return wait_for((struct wait){ .m = (struct member *)request->comm, .o = o });
}

hop_status dist_do(struct comm *c, const struct dist_call *call)
{
    struct dist_request request;
    hop_status status = dist_begin(c, call, &request);
    return status ? status : dist_wait(&request);
}

/* ---- what has to be the same on all ranks ---- */

enum { HASH_BYTES = DIST_HASH, MOST_NAMED = 8 };

/* "rank 2", "ranks 1, 2, 5 and 3 more": those whose hash is not the first one. None: "". */
static void name_others(const uint8_t *hashes, int32_t ranks, char *names, size_t room)
{
    int32_t others = 0, named = 0;
    size_t used = 0;
    names[0] = 0;
    for (int32_t k = 1; k < ranks; k++)
        others += memcmp(hashes, hashes + (ptrdiff_t)k * HASH_BYTES, HASH_BYTES) != 0;
    for (int32_t k = 1; k < ranks && named < MOST_NAMED; k++) {
        if (!memcmp(hashes, hashes + (ptrdiff_t)k * HASH_BYTES, HASH_BYTES)) continue;
        const char *before = named ? ", " : others > 1 ? "ranks " : "rank ";
        used += (size_t)snprintf(names + used, room - used, "%s%d", before, k);
        named++;
    }
    if (others > named) snprintf(names + used, room - used, " and %d more", others - named);
}

hop_status dist_same_begin(struct rank *r, const uint8_t hash[HASH_BYTES], struct dist_sameness *s)
{
    struct comm *everybody;
    hop_status status = dist_along(r, 1, (const int64_t[]){ r->size }, 1, &everybody);
    s->hashes = status ? NULL : hop_try_malloc((size_t)r->size * HASH_BYTES);
    if (status) return status;
    if (!s->hashes) return fail(r, HOP_NOMEM, "no memory for the hashes of %d ranks", r->size);
    memcpy(s->hash, hash, HASH_BYTES);
    struct dist_call call = { .kind = DIST_ALL_GATHER, .in = s->hash, .out = s->hashes, .rows = 1 };
    call.size = HASH_BYTES;
    status = dist_begin(everybody, &call, &s->request);
    if (status) hop_free(s->hashes);
    return status;
}

hop_status dist_same_end(struct dist_sameness *s, const char *what)
{
    char names[256] = "";
    hop_status status = dist_wait(&s->request);
    if (!status) name_others(s->hashes, s->request.comm->size, names, sizeof names);
    hop_free(s->hashes);
    if (!names[0]) return status;
    hop_set_message("%s: expected the same on all ranks, found another one on %s than on rank 0", what,
                    names);
    return HOP_INVALID;
}

hop_status dist_same(struct rank *r, const char *what, const uint8_t hash[HASH_BYTES])
{
    struct dist_sameness s;
    hop_status status = dist_same_begin(r, hash, &s);
    return status ? status : dist_same_end(&s, what);
}
