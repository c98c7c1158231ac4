/* Handles: sharing modules between functions, checking and freeing handles, the edge at which errors become
 * statuses. */
#include "api/api.h"
#include "dist/parts.h"

hop_status api_edge(void (*body)(void *args), void *args)
{
    struct hop_catch c;
    if (HOP_TRY(c)) {
        body(args);
        hop_catch_end(&c);
        return HOP_OK;
    }
    return hop_caught();
}

/* ---- modules ---- */

void module_lock(struct shared_module *s)
{
    pthread_mutex_lock(&s->lock);
    if (!s->changing) return;
    pthread_mutex_unlock(&s->lock);
    hop_throw(HOP_INVALID, "the function is being transformed or compiled on this thread, "
                           "by the call that asks whether to end");
}

void module_change(struct shared_module *s)
{
    module_lock(s);
    s->changing = true;
}

void module_changed(void *shared)
{
    struct shared_module *s = shared;
    s->changing = false;
    pthread_mutex_unlock(&s->lock);
}

struct shared_module *shared_new(struct module *m)
{
    hop_cleanup_push(module_free, m);
    struct shared_module *s = hop_malloc(sizeof *s);
    pthread_mutexattr_t attr;
    *s = (struct shared_module){ .m = m, .refs = 1 };
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&s->lock, &attr);
    pthread_mutexattr_destroy(&attr);
    hop_cleanup_pop(m);
    return s;
}

struct shared_module *shared_ref(struct shared_module *s)
{
    __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void shared_free(void *shared)
{
    struct shared_module *s = shared;
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    module_free(s->m);
    pthread_mutex_destroy(&s->lock);
    hop_free(s);
}

/* ---- freed handles ---- */

void handle_bury(void *handle)
{
    if (__atomic_load_n(&handles_noted, __ATOMIC_RELAXED)) handle_forget(handle);
    hop_free_later(handle);
}

/* ---- live handles ---- */

bool handles_noted;
struct note {
    const void *handle;
    char text[120];
};
static struct {
    pthread_mutex_t lock;
    struct note *notes; /* plain memory: what looks for leaks is none */
    size_t n, room;
    uint64_t lost; /* not noted: no memory */
} live = { .lock = PTHREAD_MUTEX_INITIALIZER };

static size_t find_note(const void *handle)
{
    size_t i = live.n;
    while (i > 0 && live.notes[i - 1].handle != handle) i--;
    return i;
}

void handle_note(const void *handle, const char *format, ...)
{
    va_list args;
    if (!handle || !__atomic_load_n(&handles_noted, __ATOMIC_RELAXED)) return;
    pthread_mutex_lock(&live.lock);
    if (live.n == live.room) {
        size_t room = live.room ? 2 * live.room : 64;
        struct note *more = realloc(live.notes, room * sizeof *more);
        if (more) {
            live.notes = more;
            live.room = room;
        }
    }
    if (find_note(handle)) (void)0;
    else if (live.n == live.room) live.lost++;
    else {
        struct note *note = &live.notes[live.n++];
        note->handle = handle;
        va_start(args, format);
        vsnprintf(note->text, sizeof note->text, format, args);
        va_end(args);
        for (size_t n = strlen(note->text); n && strchr(": ", note->text[n - 1]); n--) note->text[n - 1] = 0;
    }
    pthread_mutex_unlock(&live.lock);
}

void handle_forget(const void *handle)
{
    pthread_mutex_lock(&live.lock);
    size_t i = find_note(handle);
    if (i) memmove(&live.notes[i - 1], &live.notes[i], (live.n-- - i) * sizeof *live.notes);
    pthread_mutex_unlock(&live.lock);
}

void handle_note_tensor(const struct tensor *t)
{
    char type[96];
    if (!t) return;
    if (t->kind) {
        handle_note(t, "object \"%s\"", t->kind);
        return;
    }
    size_t n = (size_t)snprintf(type, sizeof type, "%s[", dtype_info[t->dtype].name);
    for (uint32_t i = 0; i < t->rank && n < sizeof type - 24; i++)
        n += (size_t)snprintf(type + n, sizeof type - n, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    handle_note(t, "tensor %s]", type);
}

void hop_debug_track(int on)
{
    pthread_mutex_lock(&live.lock);
    if (!on) {
        free(live.notes);
        live.notes = NULL;
        live.n = 0;
        live.room = 0;
        live.lost = 0;
    }
    __atomic_store_n(&handles_noted, on != 0, __ATOMIC_RELAXED);
    tensor_watch(on ? handle_forget : NULL);
    pthread_mutex_unlock(&live.lock);
}

char *hop_debug_leaks(void)
{
    pthread_mutex_lock(&live.lock);
    char *text = hop_try_malloc(live.n * (sizeof live.notes->text + 1) + 64);
    size_t at = 0;
    if (text) text[0] = 0;
    for (size_t i = 0; text && i < live.n; i++) at += (size_t)sprintf(text + at, "%s\n", live.notes[i].text);
    if (!text) hop_set_message("out of memory: the list of %zu handles could not be had", live.n);
    if (text && live.lost) sprintf(text + at, "and %llu more\n", (unsigned long long)live.lost);
    pthread_mutex_unlock(&live.lock);
    return text;
}

static void print_leaks(void)
{
    char *text = hop_debug_leaks();
    if (text && *text) fprintf(stderr, "hop: handles that were not freed:\n%s", text);
    hop_text_free(text);
}

/* HOP_DEBUG=leaks in the environment: tracked from the start, listed at the end of the process. */
__attribute__((constructor)) static void track_on_demand(void)
{
    if (!hop_debugs("leaks")) return;
    hop_debug_track(1);
    atexit(print_leaks);
}

void check_place(const void *out, const char *what)
{
    if (!out) hop_throw(HOP_INVALID, "%s: expected a place for the result, found NULL", what);
}

struct hop_fn *check_fn(const hop_fn *f, const char *what)
{
    if (!f) hop_throw(HOP_INVALID, "%s: expected a function, found NULL", what);
    if (f->magic != FN_MAGIC)
        hop_throw(HOP_INVALID, "%s: expected a function, found a handle that was freed or is none", what);
    return (struct hop_fn *)f;
}

struct hop_exe *check_exe(const hop_exe *e)
{
    if (!e) hop_throw(HOP_INVALID, "expected an executable, found NULL");
    if (e->magic != EXE_MAGIC)
        hop_throw(HOP_INVALID, "expected an executable, found a handle that was freed or is none");
    return (struct hop_exe *)e;
}

struct tensor *check_any_tensor(const hop_tensor *t, const char *what, int i)
{
    if (!t) hop_throw(HOP_INVALID, "%s %d: expected a tensor, found NULL", what, i);
    if (__atomic_load_n(&tensor_of(t)->refs, __ATOMIC_RELAXED) <= 0)
        hop_throw(HOP_INVALID, "%s %d: expected a tensor, found one that was freed", what, i);
    return tensor_of(t);
}

struct tensor *check_tensor(const hop_tensor *t, const char *what, int i)
{
    struct tensor *given = check_any_tensor(t, what, i);
    if (given->parts)
        hop_throw(HOP_INVALID,
                  "%s %d: expected an array, found a distributed one (%s on the mesh %s): collect it first",
                  what, i, given->parts->spread.placements, given->parts->spread.mesh);
    return given;
}

struct tensor *check_array(const hop_tensor *t, const char *what, int i)
{
    struct tensor *given = check_tensor(t, what, i);
    if (given->kind)
        hop_throw(HOP_INVALID, "%s %d: expected an array, found object \"%s\"", what, i, given->kind);
    return given;
}

/* ---- functions ---- */

void copy_map(struct arena *arena, const struct result_map *from, struct result_map *to)
{
    *to = *from;
    to->updates = arena_copy(arena, from->updates, from->n_results * sizeof *from->updates);
}

static void fn_drop(void *handle)
{
    struct hop_fn *f = handle;
    arena_free(&f->arena);
    shared_free(f->shared);
    f->magic = DEAD_MAGIC;
    handle_bury(f);
}

hop_fn *fn_new(struct shared_module *shared, uint32_t fn)
{
    const struct fn *g = module_fn(shared->m, fn);
    struct hop_fn *f = hop_calloc(1, sizeof *f);
    f->magic = FN_MAGIC;
    f->refs = 1;
    f->shared = shared_ref(shared);
    f->fn = fn;
    hop_cleanup_push(fn_drop, f);
    f->map = (struct result_map){ g->n_params, g->n_results, 0,
                                  ARENA_NEW(&f->arena, uint32_t, g->n_results) };
    for (uint32_t k = 0; k < g->n_results; k++) {
        f->map.updates[k] = fn_updated(g, k);
        f->map.n_visible += f->map.updates[k] == HOP_NONE;
    }
    hop_cleanup_pop(f);
    if (__atomic_load_n(&handles_noted, __ATOMIC_RELAXED))
        handle_note(f, "function '%s', made at %s", module_text(shared->m, fn_label(g)),
                    place_text(shared->m, g->place));
    return f;
}

hop_fn *hop_fn_ref(hop_fn *f)
{
    if (f) __atomic_fetch_add(&f->refs, 1, __ATOMIC_RELAXED);
    return f;
}

void hop_fn_free(hop_fn *f)
{
    if (!f || f->magic != FN_MAGIC || __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL)) return;
    fn_drop(f);
}
