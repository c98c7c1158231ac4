/* Handles: sharing modules between functions, checking and freeing handles, the edge at which errors become statuses. */
#include "api/api.h"

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

#ifndef NDEBUG
enum { BURIED = 64 };
static struct {
    pthread_mutex_t lock;
    void *blocks[BURIED];
    uint32_t next;
} grave = { .lock = PTHREAD_MUTEX_INITIALIZER };

void handle_bury(void *handle)
{
    pthread_mutex_lock(&grave.lock);
    void *old = grave.blocks[grave.next];
    grave.blocks[grave.next] = handle;
    grave.next = (grave.next + 1) % BURIED;
    pthread_mutex_unlock(&grave.lock);
    hop_count_live(-1); /* kept for checking, not in use */
    if (old) hop_count_live(1);
    hop_free(old);
}
#else
void handle_bury(void *handle) { hop_free(handle); }
#endif

struct hop_fn *check_fn(const hop_fn *f, const char *what)
{
    if (!f) hop_throw(HOP_INVALID, "%s: expected a function, found NULL", what);
    if (f->magic != FN_MAGIC) hop_throw(HOP_INVALID, "%s: expected a function, found a handle that was freed or is none", what);
    return (struct hop_fn *)f;
}

struct hop_exe *check_exe(const hop_exe *e)
{
    if (!e) hop_throw(HOP_INVALID, "expected an executable, found NULL");
    if (e->magic != EXE_MAGIC) hop_throw(HOP_INVALID, "expected an executable, found a handle that was freed or is none");
    return (struct hop_exe *)e;
}

struct tensor *check_tensor(const hop_tensor *t, const char *what, int i)
{
    if (!t) hop_throw(HOP_INVALID, "%s %d: expected a tensor, found NULL", what, i);
    if (tensor_of(t)->refs <= 0) hop_throw(HOP_INVALID, "%s %d: expected a tensor, found one that was freed", what, i);
    return tensor_of(t);
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

hop_fn *fn_new(struct shared_module *shared, uint32_t fn, const uint32_t *updates)
{
    const struct fn *g = module_fn(shared->m, fn);
    struct hop_fn *f = hop_calloc(1, sizeof *f);
    f->magic = FN_MAGIC;
    f->refs = 1;
    f->shared = shared_ref(shared);
    f->fn = fn;
    hop_cleanup_push(fn_drop, f);
    f->map = (struct result_map){ g->n_params, g->n_results, 0, ARENA_NEW(&f->arena, uint32_t, g->n_results) };
    for (uint32_t k = 0; k < g->n_results; k++) {
        f->map.updates[k] = updates ? updates[k] : HOP_NONE;
        f->map.n_visible += f->map.updates[k] == HOP_NONE;
    }
    hop_cleanup_pop(f);
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
