/* Exchanges over MPI, of messages between two ranks each that are begun and asked about, never waited for. A
 * message is matched by its rank and a tag that tells the communicator, the exchange's place in the ring and
 * a lane; on a lane one step follows the other, on all ranks in the same order. Reductions are computed here,
 * in the order of the ranks: small arrays are sent to everybody, of large ones each rank gets all ranks'
 * share of a stripe, block by block, reduces it and sends what comes out to all. */
#include "dist/mpi_job.h"

/* SMALL: bytes that all ranks together may send to everybody at once. FEW: ranks that everybody sends to by
 * itself; among more, what has come is passed on. SMALL_TREE: bytes of a broadcast that goes down a tree.
 * BLOCKS, LEAST_BLOCK: bytes of one block from all ranks, and from one at least. ELEMENTS: stripes are whole
 * runs of so many. */
enum { SMALL = 32768, FEW = 8, SMALL_TREE = 65536, BLOCKS = 1 << 20, LEAST_BLOCK = 1 << 14, ELEMENTS = 64 };

/* A message that is under way. */
struct transfer {
    int32_t peer, bytes;
    bool comes;
};

struct lane {
    bool ended;
    uint8_t step;
    int64_t block;   /* the how manieth of the exchange it is at */
    int32_t n, room; /* messages under way; so many there is room for */
    MPI_Request *requests;
    MPI_Status *statuses;
    struct transfer *transfers;
    char *scratch;
    int64_t scratch_bytes;
};

/* What an exchange needs while it is under way. */
struct work {
    struct work *next; /* one that is not in use */
    bool (*step)(struct comm *c, struct open *o, struct lane *l);
    uint32_t lanes;
    int64_t rows;
    int64_t block;      /* bytes of each part that a lane moves at once */
    int64_t blocks;     /* of the longest part */
    const void **parts; /* a place for each member's */
    struct lane lane[LANES];
    int64_t before[]; /* bytes of a row in front of each member's part, and of all of them */
};

/* A communicator's: what tells its messages from those of others, and works that are not in use. */
struct channel {
    int tag;
    struct work *spare;
};

static struct channel *channel_of(const struct comm *c) { return c->state; }

/* ---- messages ---- */

static bool grow(struct mpi_job *j, struct lane *l)
{
    int32_t room = l->room ? 2 * l->room : 16;
    size_t n = (size_t)room, used = (size_t)l->n;
    MPI_Request *requests = j->host->get(n * sizeof *requests);
    MPI_Status *statuses = j->host->get(n * sizeof *statuses);
    struct transfer *transfers = j->host->get(n * sizeof *transfers);
    bool good = requests && statuses && transfers;
    if (good && used) {
        memcpy(requests, l->requests, used * sizeof *requests);
        memcpy(transfers, l->transfers, used * sizeof *transfers);
    }
    j->host->release(good ? l->requests : requests);
    j->host->release(good ? l->statuses : statuses);
    j->host->release(good ? l->transfers : transfers);
    if (!good) return false;
    l->requests = requests;
    l->statuses = statuses;
    l->transfers = transfers;
    l->room = room;
    return true;
}

static int tag_of(const struct comm *c, const struct open *o, const struct lane *l)
{
    const struct work *w = o->state;
    int slot = (int)(o->number % DIST_OPEN), lane = (int)(l - w->lane);
    return channel_of(c)->tag | slot << LANE_BITS | lane;
}

/* A barrier's messages have no bytes; those of others are not sent then. */
static void post(struct comm *c, struct open *o, struct lane *l, struct transfer t, void *data)
{
    struct mpi_job *j = mpi_job_of(c->rank);
    int tag = tag_of(c, o, l), peer = c->ranks[t.peer], error;
    if (j->stopped) return;
    if (l->n == l->room && !grow(j, l)) {
        mpi_fail(c->rank, HOP_NOMEM, "no memory for an exchange's messages");
        return;
    }
    MPI_Request *r = &l->requests[l->n];
    l->transfers[l->n++] = t;
    if (t.comes) error = MPI_Irecv(data, t.bytes, MPI_BYTE, peer, tag, j->data, r);
    else error = MPI_Isend(data, t.bytes, MPI_BYTE, peer, tag, j->data, r);
    if (!error) return;
    l->n--;
    mpi_failed(c->rank, t.comes ? "MPI_Irecv" : "MPI_Isend", error);
}

/* As many messages as it takes. */
static void post_all(struct comm *c, struct open *o, struct lane *l, int32_t peer, bool comes, void *data,
                     int64_t bytes)
{
    int64_t most = mpi_job_of(c->rank)->most_bytes;
    for (int64_t at = 0; at < bytes; at += most) {
        struct transfer t = { .peer = peer, .bytes = (int32_t)HOP_MIN(bytes - at, most), .comes = comes };
        post(c, o, l, t, (char *)data + at);
    }
}
static void send(struct comm *c, struct open *o, struct lane *l, int32_t to, const void *data, int64_t bytes)
{
    post_all(c, o, l, to, false, (void *)data, bytes);
}
static void receive(struct comm *c, struct open *o, struct lane *l, int32_t from, void *data, int64_t bytes)
{
    post_all(c, o, l, from, true, data, bytes);
}

/* Another rank has sent less than was expected: it runs another program. */
static bool all_whole(struct comm *c, const struct lane *l)
{
    for (int32_t i = 0; i < l->n; i++) {
        int bytes;
        char text[160];
        const struct transfer *t = &l->transfers[i];
        if (!t->comes || MPI_Get_count(&l->statuses[i], MPI_BYTE, &bytes) || bytes == t->bytes) continue;
        snprintf(text, sizeof text, "rank %d sent %d bytes, rank %d expected %d: their programs differ",
                 c->ranks[t->peer], bytes, c->rank->number, t->bytes);
        mpi_fail(c->rank, HOP_INVALID, text);
        return false;
    }
    return true;
}

/* What MPI says went wrong, with the rank whose message it was where that is known. */
static void messages_failed(struct comm *c, const struct lane *l, int error)
{
    char call[64] = "MPI_Testall";
    int class;
    MPI_Error_class(error, &class);
    for (int32_t i = 0; class == MPI_ERR_IN_STATUS && i < l->n; i++) {
        int one = l->statuses[i].MPI_ERROR;
        if (!one || one == MPI_ERR_PENDING) continue;
        const char *way = l->transfers[i].comes ? "from" : "to";
        snprintf(call, sizeof call, "a message %s rank %d", way, c->ranks[l->transfers[i].peer]);
        error = one;
        break;
    }
    mpi_failed(c->rank, call, error);
}

/* Are all messages of the lane there? */
static bool has_arrived(struct comm *c, struct lane *l)
{
    int there = 0;
    if (!l->n) return true;
    int error = MPI_Testall(l->n, l->requests, &there, l->statuses);
    if (error) messages_failed(c, l, error);
    if (error || !there || !all_whole(c, l)) return false;
    l->n = 0;
    return true;
}

/* At least as many bytes of the lane's own; NULL: there is no memory, and the job has failed. */
static char *scratch(struct comm *c, struct lane *l, int64_t bytes)
{
    struct mpi_job *j = mpi_job_of(c->rank);
    if (l->scratch && bytes <= l->scratch_bytes) return l->scratch;
    j->host->release(l->scratch);
    l->scratch = j->host->get((size_t)bytes + 1);
    l->scratch_bytes = l->scratch ? bytes : 0;
    if (!l->scratch) mpi_fail(c->rank, HOP_NOMEM, "no memory for an exchange");
    return l->scratch;
}

/* The members in an order in which not all begin with the same one: behind this one, and in front of it. */
static int32_t behind(const struct comm *c, int32_t i) { return (c->me + i) % c->size; }
static int32_t in_front(const struct comm *c, int32_t i) { return (c->me - i + c->size) % c->size; }

/* ---- parts ---- */

static int64_t part_bytes(const struct work *w, int32_t k) { return w->before[k + 1] - w->before[k]; }

/* Where the lane's block of member k's part begins in all rows of that part one after the other; how long. */
static int64_t range_of(const struct work *w, const struct lane *l, int32_t k, int64_t *bytes)
{
    int64_t first = l->block * w->block, whole = w->rows * part_bytes(w, k);
    *bytes = HOP_MAX(HOP_MIN(whole - first, w->block), 0);
    return first;
}

/* Copies bytes of member k's part between an array of all members' parts and its rows one after the other. */
static void copy_part(const struct work *w, int32_t k, char *all, char *own, int64_t first, int64_t bytes,
                      bool to_all, int32_t members)
{
    int64_t size = part_bytes(w, k), total = w->before[members];
    while (bytes > 0) {
        int64_t row = first / size, in_row = first % size, some = HOP_MIN(bytes, size - in_row);
        char *there = all + row * total + w->before[k] + in_row;
        memcpy(to_all ? there : own, to_all ? own : there, (size_t)some);
        own += some;
        first += some;
        bytes -= some;
    }
}

/* ---- small ones: everybody gets everything ---- */

/* What each member brings, and how much. */
static int64_t brought(const struct comm *c, const struct open *o, int32_t k)
{
    const struct work *w = o->state;
    return o->call.kind == DIST_ALL_REDUCE ? dist_in_bytes(c, o) : w->rows * part_bytes(w, k);
}

/* All are there, those of member k at parts[k]. */
static void use_all(struct comm *c, struct open *o)
{
    struct work *w = o->state;
    const struct dist_call *call = &o->call;
    if (call->kind == DIST_ALL_REDUCE) {
        mpi_job_of(c->rank)->host->reduce(call, c->size, w->parts, call->out, call->size);
        return;
    }
    for (int32_t k = 0; k < c->size; k++)
        copy_part(w, k, call->out, (char *)w->parts[k], 0, brought(c, o, k), true, c->size);
}

/* Each sends to all others. */
static bool step_together(struct comm *c, struct open *o, struct lane *l)
{
    struct work *w = o->state;
    int64_t all = 0, mine = brought(c, o, c->me);
    if (l->step++) {
        use_all(c, o);
        return true;
    }
    for (int32_t k = 0; k < c->size; k++) all += brought(c, o, k);
    char *at = scratch(c, l, all);
    if (!at) return false;
    for (int32_t k = 0; k < c->size; k++) {
        int64_t bytes = brought(c, o, k);
        w->parts[k] = k == c->me ? o->call.in : at;
        if (k != c->me) receive(c, o, l, k, at, bytes);
        at += bytes;
    }
    for (int32_t i = 1; i < c->size; i++) send(c, o, l, behind(c, i), o->call.in, mine);
    return false;
}

/* Each passes on what it has, twice as much at every step, in the order of the members from itself on. */
static bool step_doubling(struct comm *c, struct open *o, struct lane *l)
{
    struct work *w = o->state;
    int64_t all = 0, mine = brought(c, o, c->me), out = 0, in = 0;
    int32_t far = l->step < 31 ? 1 << l->step : c->size;
    for (int32_t k = 0; k < c->size; k++) all += brought(c, o, k);
    char *data = scratch(c, l, all);
    if (!data) return false;
    if (!l->step && mine) memcpy(data, o->call.in, (size_t)mine);
    for (int32_t i = 0; i < c->size; i++) {
        w->parts[behind(c, i)] = data + in;
        if (i < far && i < c->size - far) out += brought(c, o, behind(c, i));
        in += brought(c, o, behind(c, i));
    }
    if (far >= c->size) {
        use_all(c, o);
        return true;
    }
    int64_t first = (const char *)w->parts[behind(c, far)] - data;
    int64_t end = 2 * far < c->size ? (const char *)w->parts[behind(c, 2 * far)] - data : all;
    receive(c, o, l, behind(c, far), data + first, end - first);
    send(c, o, l, in_front(c, far), data, out);
    l->step++;
    return false;
}

/* A barrier: after k steps each has heard of 2^k members. */
static bool step_barrier(struct comm *c, struct open *o, struct lane *l)
{
    int32_t far = l->step < 31 ? 1 << l->step : c->size;
    if (far >= c->size) return true;
    post(c, o, l, (struct transfer){ .peer = in_front(c, far), .comes = true }, NULL);
    post(c, o, l, (struct transfer){ .peer = behind(c, far) }, NULL);
    l->step++;
    return false;
}

/* ---- to one rank each ---- */

static bool step_direct(struct comm *c, struct open *o, struct lane *l)
{
    const struct dist_call *call = &o->call;
    const char *in = call->in;
    char *out = call->out;
    if (l->step++) return true;
    if (call->kind == DIST_PERMUTE) {
        if (call->from == c->me && call->size) memcpy(out, in, (size_t)call->size);
        if (call->from < 0 && call->size) memset(out, 0, (size_t)call->size);
        if (call->from >= 0 && call->from != c->me) receive(c, o, l, call->from, out, call->size);
        if (call->to >= 0 && call->to != c->me) send(c, o, l, call->to, in, call->size);
        return false;
    }
    for (int32_t k = 0; k < c->size; k++) {
        int64_t bytes = part_received(call, k);
        if (k != c->me) receive(c, o, l, k, out, bytes);
        else if (bytes) memcpy(out, in + sent_offset(call, k), (size_t)bytes);
        out += bytes;
    }
    for (int32_t i = 1; i < c->size; i++) {
        int32_t k = behind(c, i);
        send(c, o, l, k, in + sent_offset(call, k), sent_size(call, k));
    }
    return false;
}

/* A small broadcast: members are numbered from the root on, and each gets it from the one whose number has
 * one bit less, the lowest. */
static bool step_tree(struct comm *c, struct open *o, struct lane *l)
{
    const struct dist_call *call = &o->call;
    int32_t number = (c->me - call->root + c->size) % c->size, bit = 1;
    while (bit < c->size && !(number & bit)) bit *= 2;
    if (l->step == 2) return true;
    if (l->step++ == 0) {
        if (number) receive(c, o, l, (number - bit + call->root) % c->size, call->out, call->size);
        return false;
    }
    const void *data = number ? call->out : call->in;
    for (bit /= 2; bit; bit /= 2)
        if (number + bit < c->size) send(c, o, l, (number + bit + call->root) % c->size, data, call->size);
    return false;
}

/* ---- large ones: a part for each rank, block by block ---- */

enum { TO_OWNERS, OF_ALL, FROM_OWNERS, BLOCK_ENDS };

/* The lane's block of each part, from everybody who has one, to whom the part belongs. */
static void post_to_owners(struct comm *c, struct open *o, struct lane *l)
{
    struct work *w = o->state;
    const struct dist_call *call = &o->call;
    int64_t mine, bytes, first = range_of(w, l, c->me, &mine);
    bool packs = w->rows > 1;
    bool from_root = call->kind == DIST_BROADCAST;
    char *in = (char *)call->in, *at = NULL;
    if (from_root && c->me != call->root) {
        receive(c, o, l, call->root, (char *)call->out + w->before[c->me] + first, mine);
        return;
    }
    if (!from_root && !(at = scratch(c, l, (packs ? 2 : 1) * c->size * w->block))) return;
    for (int32_t k = 0; !from_root && k < c->size; k++, at += w->block)
        if (k != c->me) receive(c, o, l, k, at, mine);
    for (int32_t i = packs ? 0 : 1; i < c->size; i++) {
        int32_t k = behind(c, i);
        first = range_of(w, l, k, &bytes);
        char *data = packs ? at + k * w->block : in + w->before[k] + first;
        if (packs) copy_part(w, k, in, data, first, bytes, false, c->size);
        if (i) send(c, o, l, k, data, bytes);
    }
}

static void reduce_block(struct comm *c, struct open *o, struct lane *l)
{
    struct work *w = o->state;
    const struct dist_call *call = &o->call;
    int64_t mine, first = range_of(w, l, c->me, &mine), width = element_bytes(call->dtype);
    char *packed = l->scratch + (c->size + c->me) * w->block;
    for (int32_t k = 0; k < c->size; k++) w->parts[k] = l->scratch + k * w->block;
    w->parts[c->me] = w->rows > 1 ? packed : (const char *)call->in + w->before[c->me] + first;
    char *out = (char *)call->out + first;
    if (call->kind == DIST_ALL_REDUCE) out += w->before[c->me];
    if (mine) mpi_job_of(c->rank)->host->reduce(call, c->size, w->parts, out, mine / width);
}

/* The block of the own part to everybody, and theirs to where they belong, or to scratch where rows of others
 * lie between. */
static void post_from_owners(struct comm *c, struct open *o, struct lane *l)
{
    struct work *w = o->state;
    const struct dist_call *call = &o->call;
    bool has_root = call->kind == DIST_BROADCAST, is_root = has_root && c->me == call->root;
    int64_t mine, first = range_of(w, l, c->me, &mine), bytes;
    const char *data = call->kind == DIST_ALL_GATHER ? (const char *)call->in + first
                                                     : (const char *)call->out + w->before[c->me] + first;
    char *at = NULL;
    if (is_root || (w->rows > 1 && !(at = scratch(c, l, c->size * w->block)))) return;
    for (int32_t i = 1; i < c->size; i++) {
        int32_t k = in_front(c, i);
        first = range_of(w, l, k, &bytes);
        receive(c, o, l, k, at ? at + k * w->block : (char *)call->out + w->before[k] + first, bytes);
    }
    for (int32_t i = 1; i < c->size; i++)
        if (!has_root || behind(c, i) != call->root) send(c, o, l, behind(c, i), data, mine);
}

static void place_block(struct comm *c, struct open *o, struct lane *l)
{
    struct work *w = o->state;
    for (int32_t k = 0; w->rows > 1 && k < c->size; k++) {
        int64_t bytes, first = range_of(w, l, k, &bytes);
        char *from = l->scratch + k * w->block;
        if (k != c->me) copy_part(w, k, o->call.out, from, first, bytes, true, c->size);
    }
}

static bool step_blocks(struct comm *c, struct open *o, struct lane *l)
{
    struct work *w = o->state;
    enum dist_kind kind = o->call.kind;
    if (l->block >= w->blocks) return true;
    switch (l->step) {
    case TO_OWNERS: post_to_owners(c, o, l); break;
    case OF_ALL:
        if (dist_reduces(kind)) reduce_block(c, o, l);
        break;
    case FROM_OWNERS: post_from_owners(c, o, l); break;
    default: place_block(c, o, l); break;
    }
    bool ends = l->step == (kind == DIST_REDUCE_SCATTER ? OF_ALL : BLOCK_ENDS);
    l->step = ends ? (kind == DIST_ALL_GATHER ? FROM_OWNERS : TO_OWNERS) : l->step + 1;
    if (ends) l->block += w->lanes;
    return ends && l->block >= w->blocks;
}

/* ---- an exchange ---- */

/* Which bytes of a row are whose, `unit` bytes each part's size; of one that has no parts, stripes. */
static void find_parts(const struct comm *c, const struct open *o, struct work *w)
{
    const struct dist_call *call = &o->call;
    bool reduces = call->kind == DIST_ALL_REDUCE, stripes = reduces || call->kind == DIST_BROADCAST;
    int64_t unit = dist_reduces(call->kind) ? element_bytes(call->dtype) : 1;
    int64_t owners = reduces ? c->size : c->size - 1, lines = (call->size + ELEMENTS - 1) / ELEMENTS;
    w->rows = stripes ? 1 : call->rows;
    w->before[0] = 0;
    for (int32_t k = 0, owner = 0; k < c->size; k++) {
        bool has_none = !reduces && stripes && k == call->root;
        if (!has_none) owner++;
        int64_t end = stripes ? HOP_MIN(lines * owner / HOP_MAX(owners, 1) * ELEMENTS, call->size) * unit
                              : w->before[k] + sent_size(call, k) * unit;
        w->before[k + 1] = has_none ? w->before[k] : end;
    }
}

/* The own part of an all_gather is there already; a broadcast's root may want a copy. */
static void copy_own(const struct comm *c, const struct open *o, struct work *w)
{
    const struct dist_call *call = &o->call;
    bool is_root = call->kind == DIST_BROADCAST && c->me == call->root;
    if (call->kind == DIST_ALL_GATHER)
        copy_part(w, c->me, call->out, (char *)call->in, 0, w->rows * part_bytes(w, c->me), true, c->size);
    if (is_root && call->in != call->out && call->size) memcpy(call->out, call->in, (size_t)call->size);
}

static void plan_blocks(const struct comm *c, const struct open *o, struct work *w)
{
    bool whole = o->call.kind == DIST_ALL_GATHER && w->rows == 1; /* goes straight to where it belongs */
    int64_t longest = 0, most = mpi_job_of(c->rank)->most_bytes;
    int64_t block = HOP_MIN(HOP_MAX(BLOCKS / c->size, LEAST_BLOCK), most);
    for (int32_t k = 0; k < c->size; k++) longest = HOP_MAX(longest, w->rows * part_bytes(w, k));
    w->step = step_blocks;
    /* elements are not cut */
    block = HOP_MAX(block / ELEMENTS, 1) * ELEMENTS;
    w->block = whole ? longest : block;
    w->blocks = longest ? (longest + w->block - 1) / w->block : 0;
    w->lanes = (uint32_t)HOP_MIN(HOP_MAX(w->blocks, 1), LANES);
    for (uint32_t i = 0; i < w->lanes; i++)
        w->lane[i].step = o->call.kind == DIST_ALL_GATHER ? FROM_OWNERS : TO_OWNERS;
}

static void plan(const struct comm *c, const struct open *o, struct work *w)
{
    const struct dist_call *call = &o->call;
    bool parts = call->kind == DIST_ALL_GATHER || call->kind == DIST_REDUCE_SCATTER;
    int64_t each = dist_in_bytes(c, o), all = parts ? call->rows * o->total : each * c->size;
    bool few = c->size <= FEW, is_small = all <= SMALL;
    w->lanes = 1;
    if (parts || !is_small || call->kind == DIST_BROADCAST) find_parts(c, o, w);
    switch (call->kind) {
    case DIST_BARRIER: w->step = step_barrier; return;
    case DIST_ALL_TO_ALL:
    case DIST_PERMUTE: w->step = step_direct; return;
    case DIST_BROADCAST:
        copy_own(c, o, w);
        if (c->size <= 2 || call->size <= SMALL_TREE) w->step = step_tree;
        else plan_blocks(c, o, w);
        return;
    case DIST_ALL_REDUCE:
        w->step = few ? step_together : step_doubling;
        if (!is_small && c->size > 1) plan_blocks(c, o, w);
        return;
    case DIST_ALL_GATHER:
        w->step = step_doubling;
        if (few || !is_small) copy_own(c, o, w);
        if (few || !is_small) plan_blocks(c, o, w);
        return;
    case DIST_REDUCE_SCATTER: plan_blocks(c, o, w); return;
    }
}

static struct work *take_work(struct comm *c)
{
    struct channel *channel = channel_of(c);
    struct work *w = channel->spare;
    size_t before = (size_t)(c->size + 1) * sizeof w->before[0], parts = (size_t)c->size * sizeof w->parts[0];
    if (w) {
        channel->spare = w->next;
        return w;
    }
    w = mpi_job_of(c->rank)->host->get(sizeof *w + before + parts);
    if (!w) return NULL;
    memset(w, 0, sizeof *w);
    w->parts = (const void **)(w->before + c->size + 1);
    return w;
}

void exchange_begin(struct comm *c, struct open *o)
{
    struct work *w = o->state = take_work(c);
    if (!w) {
        mpi_fail(c->rank, HOP_NOMEM, "no memory for an exchange");
        return;
    }
    for (uint32_t i = 0; i < LANES; i++) {
        struct lane *l = &w->lane[i];
        l->ended = false;
        l->step = 0;
        l->block = i;
        l->n = 0;
    }
    plan(c, o, w);
}

bool exchange_advance(struct comm *c, struct open *o)
{
    struct mpi_job *j = mpi_job_of(c->rank);
    struct work *w = o->state;
    bool all = true;
    for (uint32_t i = 0; !j->stopped && i < w->lanes; i++) {
        struct lane *l = &w->lane[i];
        while (!l->ended && !j->stopped && has_arrived(c, l)) l->ended = w->step(c, o, l);
        all &= l->ended;
    }
    if (j->stopped || !all) return false;
    w->next = channel_of(c)->spare;
    channel_of(c)->spare = w;
    o->state = NULL;
    return true;
}

int32_t exchange_missing(struct comm *c, const struct open *o, bool *gone)
{
    struct mpi_job *j = mpi_job_of(c->rank);
    const struct work *w = o->state;
    int32_t who = -1;
    for (uint32_t i = 0; w && i < w->lanes; i++) {
        const struct lane *l = &w->lane[i];
        for (int32_t m = 0; m < l->n && !*gone; m++) {
            int there = 0, peer = c->ranks[l->transfers[m].peer];
            MPI_Request_get_status(l->requests[m], &there, MPI_STATUS_IGNORE);
            if (there) continue;
            *gone = mpi_is_gone(j, peer);
            if (who < 0 || *gone) who = peer;
        }
    }
    return who;
}

/* Are the messages of a lane done with? Those of a rank that died are: nobody is there to move them. */
static bool lane_given_up(struct comm *c, struct lane *l, bool cancel)
{
    const struct mpi_job *j = mpi_job_of(c->rank);
    bool all = true;
    for (int32_t i = 0; i < l->n; i++) {
        MPI_Request *r = &l->requests[i];
        int there = 1;
        if (cancel && l->transfers[i].comes && *r != MPI_REQUEST_NULL) MPI_Cancel(r);
        /* an error ends a message as well */
        bool done = MPI_Test(r, &there, MPI_STATUS_IGNORE) || there;
        all &= done || j->peers[c->ranks[l->transfers[i].peer]].died;
    }
    return all;
}

bool exchanges_given_up(struct rank *r, bool cancel)
{
    bool all = true;
    for (struct comm *c = r->comms; c; c = c->next) {
        struct member *m = (struct member *)c;
        for (int32_t i = 0; i < DIST_OPEN * LANES; i++) {
            struct work *w = m->ring[i / LANES].used ? m->ring[i / LANES].state : NULL;
            if (w) all &= lane_given_up(c, &w->lane[i % LANES], cancel);
        }
    }
    return all;
}

/* ---- communicators ---- */

hop_status exchange_join(struct comm *c, char error[512])
{
    struct mpi_job *j = mpi_job_of(c->rank);
    uint64_t hash = j->host->hash(c->sizes, c->n_axes * sizeof *c->sizes, c->which);
    int tag = (int)(hash % (uint64_t)j->channels) << CHANNEL_SHIFT;
    for (const struct comm *other = c->rank->comms; other; other = other->next) {
        if (channel_of(other)->tag != tag) continue;
        snprintf(error, 512,
                 "this MPI has tags for %d communicators, too few to tell two of this job apart: meshes of "
                 "other shapes may do",
                 j->channels);
        return HOP_UNAVAILABLE;
    }
    struct channel *channel = c->state = j->host->get(sizeof *channel);
    if (channel) *channel = (struct channel){ .tag = tag };
    else snprintf(error, 512, "no memory for a communicator of %d ranks", c->size);
    return channel ? HOP_OK : HOP_NOMEM;
}

void exchange_part(struct member *m)
{
    struct channel *channel = m->comm.state;
    const struct dist_host *host = mpi_job_of(m->comm.rank)->host;
    for (struct work *w = channel->spare, *next; w; w = next) {
        next = w->next;
        for (int32_t i = 0; i < LANES; i++) {
            host->release(w->lane[i].requests);
            host->release(w->lane[i].statuses);
            host->release(w->lane[i].transfers);
            host->release(w->lane[i].scratch);
        }
        host->release(w);
    }
    host->release(channel);
}
