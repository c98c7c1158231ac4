/* Ground everything stands on: statuses and throwing, arenas, vectors, hash tables, hashing.
 *
 * Errors inside the library are thrown (`hop_throw`) and caught at the edge (`HOP_TRY`), which turns them
 * into a status and a message. Memory inside the library lives in arenas, so that a throw loses nothing:
 * whoever owns an arena across calls that may throw registers it with `hop_cleanup_push`, and the throw frees
 * it on its way. No allocation function returns NULL. */
#ifndef HOP_BASE_H
#define HOP_BASE_H

#include <hop/hop.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOP_NONE UINT32_MAX
#define HOP_UNUSED(parameter) ((void)(parameter)) /* one that a table of functions asks for */
#define HOP_COUNT(array) (sizeof(array) / sizeof *(array))
#define HOP_MIN(a, b) ((a) < (b) ? (a) : (b))
#define HOP_MAX(a, b) ((a) > (b) ? (a) : (b))
#if defined(__GNUC__)
#define HOP_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define HOP_PRINTF(f, a)
#endif

/* ---- errors ---- */

/* A place in the user's program. Line 0: unknown. `file` indexes the module's file names. The rest says what
 * transforms made of the node there, and is no part of the place. */
struct place {
    uint32_t line;
    uint16_t col;
    uint16_t file;
    uint8_t lanes; /* leading dims of its results that are lanes */
    uint8_t part;  /* 1: of a gradient, 2: of a forward derivative (enum finite_part) */
};

struct hop_catch {
    jmp_buf env;
    struct hop_catch *outer;
    uint32_t cleanups; /* height of the cleanup stack on entry */
};

/* `struct hop_catch c; if (HOP_TRY(c)) { ...; hop_catch_end(&c); } else { status = hop_caught(); }`
 * Locals that the first part changes and the second reads are volatile. */
#define HOP_TRY(c) (hop_catch_begin(&(c)), setjmp((c).env) == 0)
void hop_catch_begin(struct hop_catch *c);
void hop_catch_end(struct hop_catch *c);
hop_status hop_caught(void); /* status of the error just caught; its text is hop_message() */

/* Ends the current computation at the innermost HOP_TRY. */
_Noreturn void hop_throw(hop_status status, const char *format, ...) HOP_PRINTF(2, 3);
_Noreturn void hop_rethrow(hop_status status); /* with the message that is there */
/* Sets status text without throwing. */
void hop_set_message(const char *format, ...) HOP_PRINTF(1, 2);

/* Does HOP_DEBUG in the environment, words with commas between them, name this one? */
bool hop_debugs(const char *word);

/* Runs `clean(what)` if a throw passes; pop (newest first) when the owner has freed it or passed it on. */
void hop_cleanup_push(void (*clean)(void *), void *what);
void hop_cleanup_pop(void *what);

/* Throws HOP_INVALID when little is left of this thread's stack. Whatever follows a program by recursion, as
 * deep as the program says, calls it on every level. */
void hop_check_stack(void);

/* ---- ending long calls ---- */

/* While a watch is set on a thread, whatever asks for memory there looks at it, and throws HOP_CANCELLED when
 * *cancel is not zero and `confirm`, if there is one, says so: what may run out of memory may as well be
 * ended. */
struct hop_watch {
    const volatile int *cancel;
    int (*confirm)(void *ctx); /* 0: go on; it has set *cancel back */
    void *ctx;
};
/* Of this thread, NULL: none; which was it before. */
const struct hop_watch *hop_watch_set(const struct hop_watch *w);
const struct hop_watch *hop_watch_get(void);
bool hop_watch_ends(const struct hop_watch *w); /* has somebody asked for the end, and does confirm agree? */
void hop_look(void);                            /* throws when it has */

/* ---- memory ---- */

void *hop_malloc(size_t size); /* throws HOP_NOMEM */
void *hop_calloc(size_t count, size_t size);
void *hop_realloc(void *old, size_t size);
void *hop_try_malloc(size_t size); /* NULL when there is none, for code that must not throw */
void hop_free(void *p);
/* Test hook: the n-th allocation from now on fails (1 is the next), 0 switches it off. Per thread. */
void hop_fail_allocation(uint64_t n);
void hop_fail_one_allocation(uint64_t n); /* that one alone, later ones succeed */
void hop_tiny_chunks(bool on); /* test hook: every piece of an arena is an allocation of its own, so that any
                                  can fail. Per thread. */
uint64_t hop_allocation_count(void); /* allocations made by this thread so far */
int64_t hop_live_allocations(void);  /* in the whole process, for leak tests */
/* Frees a block, in debug builds only after a while, so that a use of it is noticed rather than felt. */
void hop_free_later(void *p);
void hop_count_live(int64_t change); /* blocks that are kept for reuse do not count as live */

struct arena_chunk;
struct arena {
    struct arena_chunk *chunks; /* newest first */
    size_t used, size;          /* of the newest chunk */
    size_t total;               /* bytes obtained */
};
void *arena_alloc(struct arena *a, size_t size);  /* 16-byte aligned, not cleared */
void *arena_zalloc(struct arena *a, size_t size); /* cleared */
void *arena_copy(struct arena *a, const void *data, size_t size);
char *arena_string(struct arena *a, const char *text, size_t length);
char *arena_printf(struct arena *a, const char *format, ...) HOP_PRINTF(2, 3);
void arena_free(void *arena); /* signature of a cleanup; the arena is empty and usable afterwards */
#define ARENA_NEW(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))
#define ARENA_ZNEW(a, T, n) ((T *)arena_zalloc((a), sizeof(T) * (size_t)(n)))

/* A growable array in an arena: `vec(uint32_t) ids = {0}; vec_push(&arena, &ids, 7);` */
#define vec(T) \
    struct { \
        T *data; \
        uint32_t len, cap; \
    }
#define vec_push(arena, v, ...) \
    ((v)->len == (v)->cap \
         ? vec_grow((arena), (void **)&(v)->data, &(v)->cap, (v)->len + 1, sizeof *(v)->data) \
         : (void)0, \
     (v)->data[(v)->len++] = (__VA_ARGS__))
#define vec_reserve(arena, v, n) \
    ((v)->cap < (uint32_t)(n) \
         ? vec_grow((arena), (void **)&(v)->data, &(v)->cap, (uint32_t)(n), sizeof *(v)->data) \
         : (void)0)
void vec_grow(struct arena *a, void **data, uint32_t *cap, uint32_t need, size_t element);

/* Growable text. */
struct text {
    struct arena *arena;
    char *data; /* always terminated once something was added */
    size_t len, cap;
};
void text_add(struct text *t, const char *format, ...) HOP_PRINTF(2, 3);
void text_bytes(struct text *t, const char *bytes, size_t n);
static inline void text_str(struct text *t, const char *s) { text_bytes(t, s, strlen(s)); }

/* ---- hashing ---- */

uint64_t hash_bytes(const void *data, size_t n, uint64_t seed); /* XXH3 */
void hash_bytes128(const void *data, size_t n, uint64_t out[2]);
static inline uint64_t hash_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

/* A hash table from 64-bit hashes to 32-bit values; several values may share a hash, the caller compares:
 * `for (uint32_t it = map_first(&m, h); it != HOP_NONE; it = map_next(&m, h, it)) if (same(map_value(&m,
 * it))) …` */
struct map {
    struct arena *arena;
    uint64_t *hashes;
    uint32_t *values; /* HOP_NONE: free */
    uint32_t cap, len;
};
uint32_t map_first(const struct map *m, uint64_t hash);
uint32_t map_next(const struct map *m, uint64_t hash, uint32_t it);
static inline uint32_t map_value(const struct map *m, uint32_t it) { return m->values[it]; }
void map_put(struct map *m, uint64_t hash, uint32_t value); /* adds, never replaces */

#endif
