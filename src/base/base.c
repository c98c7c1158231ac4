/* Implementation of base.h: throwing, allocation with a failure hook, arenas, text, hash tables. */
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { MESSAGE_SIZE = 4096, CLEANUP_DEPTH = 512, CHUNK_FIRST = 4096, CHUNK_LARGEST = 1 << 20, ALIGN = 16 };

struct cleanup {
    void (*clean)(void *);
    void *what;
};

static _Thread_local char message[MESSAGE_SIZE];
static _Thread_local struct hop_catch *innermost;
static _Thread_local hop_status thrown;
static _Thread_local struct cleanup cleanups[CLEANUP_DEPTH]; /* the first ones */
static _Thread_local struct cleanup *more_cleanups;          /* those above them, while there are any */
static _Thread_local uint32_t more_room;
static _Thread_local uint32_t n_cleanups;
static _Thread_local uint64_t allocations, fail_at;
static _Thread_local bool fail_one, tiny_chunks;
static _Thread_local const struct hop_watch *watch;
static atomic_int_fast64_t live;

const char *hop_version(void) { return HOP_VERSION; }
const char *hop_message(void) { return message; }

void hop_set_message(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
}

void hop_catch_begin(struct hop_catch *c)
{
    c->outer = innermost;
    c->cleanups = n_cleanups;
    innermost = c;
}

void hop_catch_end(struct hop_catch *c) { innermost = c->outer; }

hop_status hop_caught(void) { return thrown; }

static struct cleanup *cleanup_at(uint32_t i)
{
    return i < CLEANUP_DEPTH ? &cleanups[i] : &more_cleanups[i - CLEANUP_DEPTH];
}

static void drop_more_cleanups(void)
{
    if (!more_cleanups) return;
    free(more_cleanups);
    more_cleanups = NULL;
    more_room = 0;
}

_Noreturn void hop_rethrow(hop_status status)
{
    struct hop_catch *c = innermost;
    if (!c) { /* a bug in hop: nothing at the edge caught it */
        fprintf(stderr, "hop: uncaught error: %s\n", message);
        abort();
    }
    while (n_cleanups > c->cleanups) {
        struct cleanup last = *cleanup_at(--n_cleanups);
        last.clean(last.what);
    }
    if (!n_cleanups) drop_more_cleanups();
    thrown = status;
    innermost = c->outer;
    longjmp(c->env, 1);
}

_Noreturn void hop_throw(hop_status status, const char *format, ...)
{
    char text[MESSAGE_SIZE]; /* arguments may point into the old message */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(message, text, sizeof text);
    hop_rethrow(status);
}

void hop_cleanup_push(void (*clean)(void *), void *what)
{
    if (n_cleanups >= CLEANUP_DEPTH + more_room) {
        uint32_t room = HOP_MAX(2 * more_room, (uint32_t)CLEANUP_DEPTH);
        struct cleanup *grown = realloc(more_cleanups, room * sizeof *grown);
        if (!grown) {
            clean(what);
            hop_throw(HOP_NOMEM, "out of memory: no room for what is to be freed");
        }
        more_cleanups = grown;
        more_room = room;
    }
    *cleanup_at(n_cleanups++) = (struct cleanup){ clean, what };
}

void hop_cleanup_pop(void *what)
{
    bool newest = n_cleanups && cleanup_at(n_cleanups - 1)->what == what;
    if (!newest) hop_throw(HOP_INTERNAL, "cleanups popped out of order");
    if (!--n_cleanups) drop_more_cleanups();
}

bool hop_debugs(const char *word)
{
    const char *at = getenv("HOP_DEBUG");
    size_t length = strlen(word);
    while (at && *at) {
        size_t n = strcspn(at, ", ");
        if (n == length && !memcmp(at, word, n)) return true;
        at += n;
        at += strspn(at, ", ");
    }
    return false;
}

/* ---- the stack ---- */

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LARGE_FRAMES 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(LARGE_FRAMES)
enum { STACK_RESERVE = 2 << 20 }; /* instrumented frames are several times as large */
#else
enum { STACK_RESERVE = 512 << 10 }; /* bytes: for the deepest that is called without asking again */
#endif

/* All 0: not looked at yet; floor: below it little is left. */
static _Thread_local uintptr_t stack_lowest, stack_floor, stack_top;

static void find_stack(void)
{
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t size = 0;
    stack_top = 1; /* nothing is on this stack, should it not be found */
    if (pthread_getattr_np(pthread_self(), &attributes)) return;
    if (!pthread_attr_getstack(&attributes, &lowest, &size)) {
        stack_lowest = (uintptr_t)lowest;
        stack_top = stack_lowest + size;
        stack_floor = stack_lowest + HOP_MIN((size_t)STACK_RESERVE, size / 2);
    }
    pthread_attr_destroy(&attributes);
}

void hop_check_stack(void)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (!stack_top) find_stack();
    bool on_another = here < stack_lowest; /* a stack that the program has made itself */
    if (here >= stack_floor || on_another) return;
    size_t kib = (size_t)(stack_top - stack_lowest) >> 10;
    hop_throw(HOP_INVALID,
              "calls and bodies are nested too deeply for the stack of this thread, which has %zu KiB", kib);
}

/* ---- ending long calls ---- */

const struct hop_watch *hop_watch_set(const struct hop_watch *w)
{
    const struct hop_watch *before = watch;
    watch = w;
    return before;
}
const struct hop_watch *hop_watch_get(void) { return watch; }

bool hop_watch_ends(const struct hop_watch *w)
{
    if (!w || !w->cancel || !__atomic_load_n(w->cancel, __ATOMIC_RELAXED)) return false;
    if (!w->confirm) return true;
    const struct hop_watch *before = hop_watch_set(NULL); /* what confirm calls is not to be ended */
    int ends = w->confirm(w->ctx);
    watch = before;
    return ends != 0;
}

void hop_look(void)
{
    if (watch && hop_watch_ends(watch)) hop_throw(HOP_CANCELLED, "the call was cancelled");
}

/* ---- memory ---- */

void hop_fail_allocation(uint64_t n)
{
    fail_at = n ? allocations + n : 0;
    fail_one = false;
}
void hop_fail_one_allocation(uint64_t n)
{
    hop_fail_allocation(n);
    fail_one = true;
}
void hop_tiny_chunks(bool on) { tiny_chunks = on; }
uint64_t hop_allocation_count(void) { return allocations; }
int64_t hop_live_allocations(void) { return atomic_load(&live); }
void hop_count_live(int64_t change) { atomic_fetch_add_explicit(&live, change, memory_order_relaxed); }

static bool must_fail(void)
{
    allocations++;
    return fail_at && (fail_one ? allocations == fail_at : allocations >= fail_at);
}

static void *counted(void *p)
{
    if (p) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

static _Noreturn void out_of_memory(size_t size)
{
    hop_throw(HOP_NOMEM, "out of memory: %zu bytes could not be had", size);
}

void *hop_try_malloc(size_t size) { return must_fail() ? NULL : counted(malloc(size ? size : 1)); }

void *hop_malloc(size_t size)
{
    if (watch) hop_look();
    void *p = hop_try_malloc(size);
    if (!p) out_of_memory(size);
    return p;
}

void *hop_calloc(size_t count, size_t size)
{
    if (watch) hop_look();
    void *p = must_fail() ? NULL : counted(calloc(count ? count : 1, size ? size : 1));
    if (!p) out_of_memory(count * size);
    return p;
}

void *hop_realloc(void *old, size_t size)
{
    if (watch) hop_look();
    void *p = must_fail() ? NULL : realloc(old, size ? size : 1);
    if (!p) out_of_memory(size);
    if (!old) counted(p);
    return p;
}

void hop_free(void *p)
{
    if (p) atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(p);
}

#ifndef NDEBUG
enum { BURIED = 64 };
static _Atomic(void *) grave[BURIED];
static atomic_uint graves;

void hop_free_later(void *p)
{
    if (!p) return;
    void *old = atomic_exchange(&grave[atomic_fetch_add(&graves, 1) % BURIED], p);
    hop_count_live(-1); /* kept for checking, not in use */
    if (old) hop_count_live(1);
    hop_free(old);
}
#else
void hop_free_later(void *p) { hop_free(p); }
#endif

struct arena_chunk {
    struct arena_chunk *older;
    size_t pad; /* keeps the payload 16-byte aligned */
};

void *arena_alloc(struct arena *a, size_t size)
{
    if (watch) hop_look();
    if (size > SIZE_MAX / 2) out_of_memory(size);
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (!a->chunks || size > a->size - a->used) {
        size_t want = a->total;
        if (want < CHUNK_FIRST) want = CHUNK_FIRST;
        else if (want > CHUNK_LARGEST) want = CHUNK_LARGEST;
        if (want < size || tiny_chunks) want = size;
        struct arena_chunk *chunk = hop_malloc(sizeof *chunk + want);
        a->total += want;
        bool oversized = a->chunks && want - size < a->size - a->used;
        if (oversized) { /* keep filling the current chunk */
            chunk->older = a->chunks->older;
            a->chunks->older = chunk;
            return chunk + 1;
        }
        chunk->older = a->chunks;
        a->chunks = chunk;
        a->used = 0;
        a->size = want;
    }
    void *p = (char *)(a->chunks + 1) + a->used;
    a->used += size;
    return p;
}

void *arena_zalloc(struct arena *a, size_t size) { return memset(arena_alloc(a, size), 0, size); }

void *arena_copy(struct arena *a, const void *data, size_t size)
{
    void *p = arena_alloc(a, size);
    if (size) memcpy(p, data, size);
    return p;
}

char *arena_string(struct arena *a, const char *text, size_t length)
{
    char *p = arena_alloc(a, length + 1);
    if (length) memcpy(p, text, length);
    p[length] = 0;
    return p;
}

char *arena_printf(struct arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *p = arena_alloc(a, (size_t)(n < 0 ? 0 : n) + 1);
    vsnprintf(p, (size_t)(n < 0 ? 0 : n) + 1, format, again);
    va_end(again);
    return p;
}

void arena_free(void *arena)
{
    struct arena *a = arena;
    for (struct arena_chunk *c = a->chunks, *older; c; c = older) {
        older = c->older;
        hop_free(c);
    }
    memset(a, 0, sizeof *a);
}

void vec_grow(struct arena *a, void **data, uint32_t *cap, uint32_t need, size_t element)
{
    uint32_t grown = *cap < 8 ? 8 : *cap * 2;
    if (*cap > UINT32_MAX / 4) hop_throw(HOP_NOMEM, "a list grew past %u elements", UINT32_MAX / 4);
    if (grown < need) grown = need;
    void *fresh = arena_alloc(a, grown * element);
    if (*cap) memcpy(fresh, *data, *cap * element);
    *data = fresh;
    *cap = grown;
}

static void text_need(struct text *t, size_t more)
{
    if (t->len + more + 1 <= t->cap) return;
    size_t cap = t->cap * 2 < 64 ? 64 : t->cap * 2;
    if (cap < t->len + more + 1) cap = t->len + more + 1;
    char *fresh = arena_alloc(t->arena, cap);
    if (t->len) memcpy(fresh, t->data, t->len);
    t->data = fresh;
    t->cap = cap;
}

void text_bytes(struct text *t, const char *bytes, size_t n)
{
    text_need(t, n);
    memcpy(t->data + t->len, bytes, n);
    t->len += n;
    t->data[t->len] = 0;
}

void text_add(struct text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    text_need(t, (size_t)(n < 0 ? 0 : n));
    vsnprintf(t->data + t->len, t->cap - t->len, format, again);
    va_end(again);
    t->len += (size_t)(n < 0 ? 0 : n);
}

/* ---- hashing ---- */

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed) { return XXH3_64bits_withSeed(data, n, seed); }

void hash_bytes128(const void *data, size_t n, uint64_t out[2])
{
    XXH128_hash_t h = XXH3_128bits(data, n);
    out[0] = h.low64;
    out[1] = h.high64;
}

static uint32_t map_slot(const struct map *m, uint64_t hash, uint32_t from)
{
    for (uint32_t i = from;; i = (i + 1) & (m->cap - 1))
        if (m->values[i] == HOP_NONE || m->hashes[i] == hash) return i;
}

uint32_t map_first(const struct map *m, uint64_t hash)
{
    if (!m->cap) return HOP_NONE;
    uint32_t i = map_slot(m, hash, (uint32_t)hash & (m->cap - 1));
    return m->values[i] == HOP_NONE ? HOP_NONE : i;
}

uint32_t map_next(const struct map *m, uint64_t hash, uint32_t it)
{
    uint32_t i = map_slot(m, hash, (it + 1) & (m->cap - 1));
    return m->values[i] == HOP_NONE ? HOP_NONE : i;
}

static void map_insert(struct map *m, uint64_t hash, uint32_t value)
{
    uint32_t i = (uint32_t)hash & (m->cap - 1);
    while (m->values[i] != HOP_NONE) i = (i + 1) & (m->cap - 1);
    m->hashes[i] = hash;
    m->values[i] = value;
}

void map_put(struct map *m, uint64_t hash, uint32_t value)
{
    if (m->len * 4ull >= m->cap * 3ull) {
        struct map more = *m; /* m stays whole when there is no memory */
        more.cap = m->cap ? m->cap * 2 : 16;
        more.hashes = ARENA_NEW(m->arena, uint64_t, more.cap);
        more.values = ARENA_NEW(m->arena, uint32_t, more.cap);
        memset(more.values, 0xff, more.cap * sizeof *more.values);
        for (uint32_t i = 0; i < m->cap; i++)
            if (m->values[i] != HOP_NONE) map_insert(&more, m->hashes[i], m->values[i]);
        *m = more;
    }
    map_insert(m, hash, value);
    m->len++;
}
