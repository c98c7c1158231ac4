/* Calls of operators from outside by compiled code. Arrays are the program's memory; results whose size the
 * operator finds are buffers that grow, and what was found goes back to the program. */
#include "runtime/operator_call.h"

enum { FEW_ARRAYS = 24 }; /* more are given room of their own */

_Static_assert(sizeof(struct hop_rt_operand) == sizeof(hop_operator_array) &&
                   offsetof(struct hop_rt_operand, data) == offsetof(hop_operator_array, data) &&
                   offsetof(struct hop_rt_operand, dtype) == offsetof(hop_operator_array, dtype) &&
                   offsetof(struct hop_rt_operand, rank) == offsetof(hop_operator_array, rank) &&
                   offsetof(struct hop_rt_operand, dims) == offsetof(hop_operator_array, dims) &&
                   offsetof(struct hop_rt_operand, strides) == offsetof(hop_operator_array, strides),
               "what the program lays out is what the operator sees");

struct calling {
    struct hop_rt *rt;
    const struct memory_space *space; /* of what is reserved; NULL: the host's */
    struct hop_rt_call *call;
    void **data;
    uint32_t first;   /* of the arrays that are results */
    hop_status wrong; /* with what was asked for … */
    char why[160];    /* … for this reason */
};

static char nothing; /* what an array without elements lies at: NULL would say that it is absent */

/* ---- memory for results ---- */

static void *refuse(struct calling *w, hop_status status)
{
    w->wrong = status;
    return NULL;
}

static void *misfit(struct calling *w, int result, const struct hop_rt_operand *o, const int64_t *dims)
{
    size_t at = (size_t)snprintf(w->why, sizeof w->why, "result %d: expected [", result);
    for (int32_t k = 0; k < 2 * o->rank; k++) {
        int64_t x = k < o->rank ? o->dims[k] : dims[k - o->rank];
        const char *before = !k ? "" : k == o->rank ? "], found [" : ", ";
        if (at >= sizeof w->why) break;
        if (x < 0 && k < o->rank) at += (size_t)snprintf(w->why + at, sizeof w->why - at, "%s?", before);
        else at += (size_t)snprintf(w->why + at, sizeof w->why - at, "%s%lld", before, (long long)x);
    }
    if (at < sizeof w->why) snprintf(w->why + at, sizeof w->why - at, "]");
    return refuse(w, HOP_INVALID);
}

/* The number of the size that dim d of an array is, -1: it is known. */
static int64_t found_at(const struct hop_rt_operand *o, int32_t d) { return o->dims[o->rank + 1 + d]; }

/* Room for a result that has none yet; false: its dims do not fit. */
static bool fits(const struct calling *w, const struct hop_rt_operand *o, const int64_t *dims, int64_t *count)
{
    *count = 1;
    for (int32_t d = 0; d < o->rank; d++) {
        int64_t known = o->data || found_at(o, d) < 0 ? o->dims[d] : w->call->found[found_at(o, d)];
        if (dims[d] < 0 || (known >= 0 && known != dims[d])) return false;
        if (__builtin_mul_overflow(*count, dims[d], count)) return false;
    }
    return true;
}

/* hop_operator_call.result */
static void *give_result(hop_operator_call *asked, int result, const int64_t *dims)
{
    struct calling *w = asked->host;
    uint32_t i = w->first + (uint32_t)result;
    int64_t count, bytes;
    if (result < 0 || i >= (uint32_t)w->call->n || !dims) {
        snprintf(w->why, sizeof w->why, "result %d: %s", result,
                 dims ? "there is no such result" : "expected its dims, found NULL");
        return refuse(w, HOP_INVALID);
    }
    struct hop_rt_operand *o = &w->call->operands[i];
    if (!fits(w, o, dims, &count)) return misfit(w, result, o, dims);
    if (o->data) return o->data;
    if (__builtin_mul_overflow(count, (int64_t)dtype_info[o->dtype].size, &bytes))
        return refuse(w, HOP_NOMEM);
    void *at = w->rt->reserve(w->rt, (int32_t)o->dims[o->rank], HOP_MAX(bytes, 1));
    if (!at) return refuse(w, HOP_NOMEM);
    if (w->space && w->space->reach) at = w->space->reach(at, (size_t)bytes, "a result of an operator");
    for (int32_t d = 0; d < o->rank; d++) {
        if (found_at(o, d) >= 0) w->call->found[found_at(o, d)] = dims[d];
        o->dims[d] = dims[d];
    }
    o->data = at;
    w->data[i] = at;
    return at;
}

/* ---- the call ---- */

/* Where the results begin: behind the operands of all parameters. */
static uint32_t first_result(const struct site *site)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < site->n_counts; k++) n += (uint32_t)site->counts[k];
    return n;
}

/* What operators throw nothing of; the text is the one that the interpreter has. */
static int note_failed(const struct site *site, int status, const char *message, char *note, size_t room)
{
    struct hop_catch c;
    if (HOP_TRY(c)) operator_failed(site->place, site->text, status, message);
    snprintf(note, room, "%s", hop_message());
    return hop_caught();
}

static int check_found(const struct calling *w, const struct site *site, char *note, size_t room)
{
    if (w->wrong == HOP_NOMEM) {
        snprintf(note, room, "%s%s: out of memory for a result", site->place, site->text);
        return HOP_NOMEM;
    }
    if (w->wrong) return note_failed(site, w->wrong, w->why, note, room);
    for (int32_t k = 0; k < w->call->n; k++) {
        const struct hop_rt_operand *o = &w->call->operands[k];
        if (o->data || o->dtype < 0) continue;
        snprintf(note, room,
                 "%s%s: result %u has a size that the operator finds, but it asked for no memory "
                 "(call->result)",
                 site->place, site->text, (uint32_t)k - w->first);
        return HOP_INVALID;
    }
    return HOP_OK;
}

static bool is_open(const struct hop_rt_operand *o)
{
    for (int32_t d = 0; d < o->rank; d++)
        if (o->dims[d] < 0) return true;
    return false;
}

static int call_with(const struct registered *of, const struct site *site, struct calling *w, char *note,
                     size_t room)
{
    char message[OPERATOR_MESSAGE_ROOM];
    struct hop_rt_call *c = w->call;
    bool finds = c->n_found, views = false;
    for (int32_t k = 0; k < c->n; k++) {
        struct hop_rt_operand *o = &c->operands[k];
        bool empty = !o->data && o->dtype >= 0 && !(finds && is_open(o));
        if (empty) o->data = &nothing;
        w->data[k] = o->data;
        views |= o->strides != NULL;
    }
    for (int32_t k = 0; k < c->n_found; k++) c->found[k] = -1;
    message[0] = 0;
    hop_operator_call call = { .user = of->user,
                               .message = message,
                               .room = sizeof message,
                               .arrays = (const hop_operator_array *)c->operands,
                               .n_arrays = c->n,
                               .counts = site->counts,
                               .lanes = c->lanes,
                               .result = give_result,
                               .host = w };
    int status = views ? operator_run(of, &call, w->data, c->sizes) : of->run(&call, w->data, c->sizes);
    if (!status && !finds && !w->wrong) return HOP_OK;
    message[sizeof message - 1] = 0;
    if (status && !*message && w->wrong) return check_found(w, site, note, room);
    if (status) return note_failed(site, status, message, note, room);
    return check_found(w, site, note, room);
}

int operator_call(const struct registered *of, const struct site *site, const struct memory_space *space,
                  struct hop_rt *rt, struct hop_rt_call *call, char *note, size_t room)
{
    void *few[FEW_ARRAYS];
    struct calling w; /* `why` is not cleared: a call takes a few nanoseconds */
    w.rt = rt;
    w.space = space;
    w.call = call;
    w.data = few;
    w.wrong = HOP_OK;
    w.first = call->n_found ? first_result(site) : 0;
    if (call->n <= FEW_ARRAYS) return call_with(of, site, &w, note, room);
    w.data = hop_try_malloc((size_t)call->n * sizeof *w.data);
    if (!w.data) {
        snprintf(note, room, "%s%s: out of memory", site->place, site->text);
        return HOP_NOMEM;
    }
    int status = call_with(of, site, &w, note, room);
    hop_free(w.data);
    return status;
}
