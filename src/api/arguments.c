/* The tensors of one call. The caller's tensors come in; what a run can use goes to it: row-major arguments,
 * results given or to be made, and private copies of arguments whose memory the program writes but somebody
 * else may look at. After the run everything is brought to where the caller wants it. */
#include "api/arguments.h"
#include "dist/parts.h"

/* ---- shared memory ---- */

struct range { /* bytes from the first element to behind the last */
    uintptr_t lo, hi;
};

static struct range range_of(const struct tensor *t)
{
    uintptr_t at = (uintptr_t)t->data;
    size_t width = dtype_info[t->dtype].size;
    if (!t->count || t->parts) return (struct range){ at, at };
    if (!t->strides) return (struct range){ at, at + (size_t)t->count * width };
    int64_t lo = 0, hi = 0;
    for (uint32_t i = 0; i < t->rank; i++)
        *(t->strides[i] < 0 ? &lo : &hi) += t->strides[i] * (t->dims[i] - 1);
    uintptr_t first = at + (uintptr_t)(lo * (int64_t)width);
    uintptr_t last = at + (uintptr_t)(hi * (int64_t)width);
    return (struct range){ first, last + width };
}

static inline bool ranges_meet(struct range a, struct range b) { return a.lo < b.hi && b.lo < a.hi; }

/* Sets (set) or looks for (not set) the bytes of a tensor's elements in a map of bytes from `base` on. */
static bool visit_bytes(const struct tensor *t, uintptr_t base, uint8_t *bytes, bool set)
{
    size_t width = dtype_info[t->dtype].size;
    int64_t index[MAX_RANK] = { 0 };
    const char *at = t->data;
    if (!t->strides) {
        uint8_t *from = bytes + ((uintptr_t)at - base);
        if (set) memset(from, 1, (size_t)t->count * width);
        return !set && memchr(from, 1, (size_t)t->count * width);
    }
    for (int64_t n = 0; n < t->count; n++) {
        uint8_t *from = bytes + ((uintptr_t)at - base);
        if (set) memset(from, 1, width);
        else if (memchr(from, 1, width)) return true;
        for (uint32_t i = t->rank; i-- > 0;) {
            at += t->strides[i] * (int64_t)width;
            if (++index[i] < t->dims[i]) break;
            at -= index[i] * t->strides[i] * (int64_t)width;
            index[i] = 0;
        }
    }
    return false;
}

/* Ranges decide for row-major tensors. Strided ones, even rows and odd rows of one matrix, may interleave
 * without meeting: their bytes are looked at. */
bool tensors_overlap(const struct tensor *a, const struct tensor *b)
{
    struct range x = range_of(a), y = range_of(b);
    if (!ranges_meet(x, y) || !a->count || !b->count) return false;
    if ((!a->strides && !b->strides) || a->data == b->data) return true;
    uintptr_t base = HOP_MIN(x.lo, y.lo), end = HOP_MAX(x.hi, y.hi);
    uint8_t *bytes = hop_calloc(end - base, 1);
    visit_bytes(a, base, bytes, true);
    bool meet = visit_bytes(b, base, bytes, false);
    hop_free(bytes);
    return meet;
}

/* ---- checks ---- */

void check_counts(const struct result_map *map, int n_in, int n_out)
{
    if (n_in < 0 || (uint32_t)n_in != map->n_params)
        hop_throw(HOP_INVALID, "the function takes %u argument%s, given %d", map->n_params,
                  map->n_params == 1 ? "" : "s", n_in);
    if (n_out < 0 || (uint32_t)n_out != map->n_visible)
        hop_throw(HOP_INVALID, "the function has %u result%s, room given for %d", map->n_visible,
                  map->n_visible == 1 ? "" : "s", n_out);
}

void check_lists(hop_tensor *const *in, int n_in, hop_tensor *const *out, int n_out)
{
    if (n_in > 0 && !in)
        hop_throw(HOP_INVALID, "expected %d argument%s, found NULL", n_in, n_in == 1 ? "" : "s");
    if (n_out > 0 && !out)
        hop_throw(HOP_INVALID, "expected a place for %d result%s, found NULL", n_out, n_out == 1 ? "" : "s");
}

enum { TYPE_TEXT = 320 }; /* room for any */
static void write_type(const struct tensor *t, char text[TYPE_TEXT])
{
    if (t->kind) {
        snprintf(text, TYPE_TEXT, "object \"%s\"", t->kind);
        return;
    }
    size_t n = (size_t)snprintf(text, TYPE_TEXT, "%s[", dtype_info[t->dtype].name);
    for (uint32_t i = 0; i < t->rank; i++)
        n += (size_t)snprintf(text + n, TYPE_TEXT - n, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    snprintf(text + n, TYPE_TEXT - n, "]");
}

void same_type(const struct tensor *t, const struct tensor *given, uint32_t k)
{
    bool same = t->dtype == given->dtype && t->rank == given->rank;
    for (uint32_t i = 0; same && i < t->rank; i++) same = t->dims[i] == given->dims[i];
    if (same) return;
    char found[TYPE_TEXT] = "", want[TYPE_TEXT] = "";
    write_type(given, found);
    write_type(t, want);
    hop_throw(HOP_INVALID, "result %u: expected a tensor %s, found %s", k, want, found);
}

/* ---- whose memory ---- */

/* Is the memory of an argument written by the program: does a result take it? */
static bool is_taken(const struct call *c, uint32_t p) { return c->taken && c->taken[p]; }

const char *copy_reason(const struct call *c, uint32_t p, struct arena *arena)
{
    const struct tensor *t = tensor_of(c->in[p]);
    if (t->strides) return "it is not row-major";
    if (c->keep) return "arguments are kept as they were";
    if (c->donated && c->donated[p] && __atomic_load_n(&t->refs, __ATOMIC_RELAXED) > 1)
        return "somebody else holds it too";
    if (!c->meet) return NULL;
    for (uint32_t q = 0; q < c->map->n_params; q++)
        if (q != p && tensors_overlap(t, tensor_of(c->in[q])))
            return arena ? arena_printf(arena, "it shares memory with argument %u", q) : "";
    for (uint32_t k = 0, visible = 0; k < c->map->n_results; k++) {
        if (c->map->updates[k] != HOP_NONE) continue;
        const hop_tensor *out = c->out[visible++];
        bool in_place = out == c->in[p] && c->over && c->over[k] == p;
        if (!out || in_place || !tensors_overlap(t, tensor_of(out))) continue;
        if (!arena) return "";
        return arena_printf(arena, "it shares memory with the tensor given for result %u", visible - 1);
    }
    return NULL;
}

/* What a call writes: given results, then updated arguments. */
static const struct tensor *written_tensor(const struct call *c, uint32_t i)
{
    if (i < c->map->n_visible) return tensor_of(c->out[i]);
    uint32_t k = i - c->map->n_visible;
    return c->map->updates[k] == HOP_NONE ? NULL : tensor_of(c->in[c->map->updates[k]]);
}

static void name_written(const struct call *c, uint32_t i, char *text, size_t room)
{
    if (i < c->map->n_visible) snprintf(text, room, "result %u", i);
    else snprintf(text, room, "updated argument %u", c->map->updates[i - c->map->n_visible]);
}

/* Two things written into the same memory: there is no order in which that would be right. */
static void check_writes(const struct call *c)
{
    uint32_t n = c->map->n_visible + c->map->n_results;
    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *t = written_tensor(c, i);
        for (uint32_t j = 0; t && j < i; j++) {
            const struct tensor *other = written_tensor(c, j);
            if (!other || !tensors_overlap(t, other)) continue;
            char a[32], b[32];
            name_written(c, j, a, sizeof a);
            name_written(c, i, b, sizeof b);
            hop_throw(HOP_INVALID, "%s and %s are given the same memory", a, b);
        }
    }
}

/* Do any two of the call's tensors lie in each other's range? Most often none do, and then nothing else needs
 * to be looked at. */
enum { FEW = 12 };
static int by_start(const void *x, const void *y)
{
    const struct range *a = x, *b = y;
    return (a->lo > b->lo) - (a->lo < b->lo);
}

static bool any_meet(const struct call *c)
{
    struct range few[FEW], *ranges = few;
    uint32_t total = c->map->n_params + c->map->n_visible, n = 0;
    bool meet = false;
    if (total > FEW) ranges = c->ranges;
    for (uint32_t i = 0; i < total; i++) {
        const hop_tensor *t = i < c->map->n_params ? c->in[i] : c->out[i - c->map->n_params];
        if (t && tensor_of(t)->count) ranges[n++] = range_of(tensor_of(t));
    }
    if (n <= FEW) {
        for (uint32_t i = 1; i < n; i++)
            for (uint32_t j = 0; j < i; j++) meet |= ranges_meet(ranges[i], ranges[j]);
        return meet;
    }
    qsort(ranges, n, sizeof *ranges, by_start);
    uintptr_t end = ranges[0].hi;
    for (uint32_t i = 1; i < n && !meet; i++) {
        meet = ranges[i].lo < end;
        end = HOP_MAX(end, ranges[i].hi);
    }
    return meet;
}

static void check_donated(const struct call *c)
{
    for (uint32_t p = 0; p < c->map->n_params; p++)
        for (uint32_t q = 0; c->donated[p] && q < p; q++)
            if (c->donated[q] && c->in[p] == c->in[q])
                hop_throw(HOP_INVALID, "arguments %u and %u are both donated and are the same tensor", q, p);
}

/* ---- begin and end ---- */

/* Content that was written, or partly so. */
static void note_writes(const struct call *c)
{
    for (uint32_t i = 0; i < c->map->n_visible; i++) tensor_written(tensor_of(c->out[i]));
    for (uint32_t k = 0; k < c->map->n_results; k++)
        if (c->map->updates[k] != HOP_NONE) tensor_written(tensor_of(c->in[c->map->updates[k]]));
}

static void call_free(void *call)
{
    struct call *c = call;
    for (uint32_t p = 0; p < c->map->n_params; p++)
        if (c->owned[p]) tensor_free(c->args[p]);
    for (uint32_t k = 0; k < c->map->n_results; k++)
        if (!c->given[k]) tensor_free(c->results[k]);
    if (c->block != c->small)
        hop_free(c->spare ? __atomic_exchange_n(c->spare, c->block, __ATOMIC_ACQ_REL) : c->block);
}

static void call_failed(void *call)
{
    const struct call *c = call;
    note_writes(c);
    for (uint32_t p = 0; c->donated && p < c->map->n_params; p++)
        if (c->donated[p]) tensor_written(tensor_of(c->in[p]));
    call_free(call);
}

static size_t call_bytes(const struct result_map *map)
{
    uint32_t n = map->n_params + map->n_results;
    size_t per_tensor = sizeof(struct tensor *) + sizeof(bool);
    size_t ranges = (map->n_params + map->n_visible) * sizeof(struct range);
    return n * per_tensor + sizeof(void *) + ranges;
}

static void own_copy(struct call *c, uint32_t p)
{
    if (c->owned[p]) return;
    struct tensor *t = tensor_of(c->in[p]), *copy = tensor_new((enum dtype)t->dtype, t->rank, t->dims);
    tensor_copy_elements(copy, t);
    c->args[p] = copy;
    c->owned[p] = true;
}

void begin_call(struct call *c, int n_in, int n_out)
{
    const struct result_map *map = c->map;
    uint32_t n = map->n_params + map->n_results;
    check_counts(map, n_in, n_out);
    check_lists(c->in, n_in, c->out, n_out);
    struct tensor *(*check)(const hop_tensor *, const char *, int) = c->ranks ? check_any_tensor
                                                                              : check_tensor;
    for (int i = 0; i < n_in; i++) check(c->in[i], "argument", i);
    for (int i = 0; i < n_out; i++)
        if (c->out[i] && check(c->out[i], "result", i)->kind)
            hop_throw(HOP_INVALID, "result %d: an object is given back as itself; its place must be NULL", i);
    size_t bytes = call_bytes(map);
    c->block = NULL;
    if (bytes <= sizeof c->small) c->block = c->small;
    else if (c->spare) c->block = __atomic_exchange_n(c->spare, NULL, __ATOMIC_ACQ_REL);
    if (!c->block) c->block = hop_malloc(bytes);
    c->ranges = c->block;
    c->args = (struct tensor **)(c->ranges + map->n_params + map->n_visible);
    c->results = c->args + map->n_params;
    c->owned = (bool *)(c->args + n);
    c->given = c->owned + map->n_params;
    memset(c->args, 0, n * (sizeof *c->args + sizeof *c->owned));
    hop_cleanup_push(call_failed, c);
    if (c->donated) check_donated(c);
    c->meet = any_meet(c);
    if (c->meet) check_writes(c);
    for (uint32_t p = 0; p < map->n_params; p++) {
        c->args[p] = tensor_of(c->in[p]);
        if (c->args[p]->strides) own_copy(c, p);
        else if (is_taken(c, p) && copy_reason(c, p, NULL)) own_copy(c, p);
    }
    for (uint32_t k = 0, visible = 0; k < map->n_results; k++) {
        uint32_t updated = map->updates[k];
        struct tensor *t = tensor_of(updated == HOP_NONE ? c->out[visible++] : c->in[updated]);
        if (!t || t->strides || c->keep || (c->over && c->over[k] != HOP_NONE)) continue;
        c->results[k] = t;
        c->given[k] = true;
    }
}

/* What result k was computed into. */
static struct tensor *made_result(const struct call *c, uint32_t k)
{
    return c->over && c->over[k] != HOP_NONE ? c->args[c->over[k]] : c->results[k];
}

/* Hands result k to a caller who has no tensor for it. */
static hop_tensor *hand_over(struct call *c, uint32_t k)
{
    uint32_t p = c->over ? c->over[k] : HOP_NONE;
    if (p == HOP_NONE) {
        struct tensor *made = c->results[k];
        c->results[k] = NULL;
        return tensor_handle(made);
    }
    struct tensor *t = c->args[p];
    c->owned[p] = false; /* else it is the donated tensor itself */
    return tensor_handle(t);
}

/* The references of donated tensors are the call's now; one that has become a result is the caller's again.
 */
static void drop_donated(const struct call *c)
{
    for (uint32_t p = 0; p < c->map->n_params; p++) {
        bool result = false;
        for (uint32_t k = 0; c->donated[p] && k < c->map->n_visible; k++) result |= c->out[k] == c->in[p];
        if (c->donated[p] && !result) tensor_free(tensor_of(c->in[p]));
    }
}

void end_call(struct call *c)
{
    const struct result_map *map = c->map;
    for (int pass = 0; pass < 2; pass++) /* all are checked before any is written */
        for (uint32_t k = 0, visible = 0; k < map->n_results; k++) {
            hop_tensor **to = map->updates[k] == HOP_NONE ? &c->out[visible++] : NULL;
            struct tensor *want = tensor_of(to ? *to : c->in[map->updates[k]]);
            struct tensor *made = made_result(c, k);
            if (made == want || !made) continue;
            if (want && !pass) same_type(made, want, k);
            if (want && !pass) parts_check_alike(want, made, k);
            if (!pass) continue;
            if (want) parts_bring(want, made);
            else *to = hand_over(c, k);
        }
    hop_cleanup_pop(c);
    note_writes(c);
    if (c->donated && !c->keep) drop_donated(c);
    call_free(c);
}
