/* The registry of host functions. Names come in from programs that run, on any thread; the function
 * registered under the name is called with tensors that are views of the program's memory. A function that is
 * replaced or removed while calls of it are at work is let go when the last of them has returned. */
#include "ops/callbacks.h"

#include "interp/interp.h"

#include <pthread.h>

struct callback {
    struct callback *next; /* in its bucket; guarded by the lock */
    uint64_t hash;
    int32_t refs; /* the table's and one per call at work; guarded by the lock */
    hop_callback_fn f;
    void *user;
    void (*release)(void *user);
    char name[];
};

static struct {
    pthread_mutex_t lock;
    struct callback **buckets;
    size_t n_buckets, n; /* a power of two */
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t name_hash(const char *name) { return hash_bytes(name, strlen(name), 0); }

/* Where the name's entry hangs, or would. There are buckets. */
static struct callback **find_link(const char *name, uint64_t hash)
{
    struct callback **at = &table.buckets[hash & (table.n_buckets - 1)];
    while (*at && ((*at)->hash != hash || strcmp((*at)->name, name))) at = &(*at)->next;
    return at;
}

/* One reference less; the function is let go outside of the lock, since letting go may register or remove
 * others. */
static void callback_drop(void *callback)
{
    struct callback *c = callback;
    pthread_mutex_lock(&table.lock);
    bool last = !--c->refs;
    pthread_mutex_unlock(&table.lock);
    if (!last) return;
    if (c->release) c->release(c->user);
    hop_free(c);
}

/* ---- registering ---- */

static bool grow_table(void)
{
    if (table.n < table.n_buckets) return true;
    size_t n = table.n_buckets ? 2 * table.n_buckets : 16;
    struct callback **more = hop_try_malloc(n * sizeof *more);
    if (!more) return table.n_buckets > 0; /* longer chains will do */
    memset(more, 0, n * sizeof *more);
    for (size_t i = 0; i < table.n_buckets; i++)
        while (table.buckets[i]) {
            struct callback *c = table.buckets[i];
            table.buckets[i] = c->next;
            c->next = more[c->hash & (n - 1)];
            more[c->hash & (n - 1)] = c;
        }
    hop_free(table.buckets);
    table.buckets = more;
    table.n_buckets = n;
    return true;
}

hop_status hop_callback_register(const char *name, hop_callback_fn f, void *user, void (*release)(void *user))
{
    if (!name || !*name || !f) {
        hop_set_message("callback_register: expected %s, found %s", f ? "a name" : "a function",
                        name && f ? "\"\"" : "NULL");
        return HOP_INVALID;
    }
    size_t length = strlen(name);
    struct callback *c = hop_try_malloc(sizeof *c + length + 1), *old = NULL;
    if (c) {
        *c = (struct callback){
            .hash = name_hash(name), .refs = 1, .f = f, .user = user, .release = release
        };
        memcpy(c->name, name, length + 1);
    }
    pthread_mutex_lock(&table.lock);
    bool room = c && grow_table();
    if (room) {
        struct callback **at = find_link(name, c->hash);
        old = *at;
        c->next = old ? old->next : NULL;
        *at = c;
        table.n += !old;
    }
    pthread_mutex_unlock(&table.lock);
    if (!room) {
        hop_free(c);
        hop_set_message("out of memory: the callback '%s' could not be registered", name);
        return HOP_NOMEM;
    }
    if (old) callback_drop(old);
    return HOP_OK;
}

hop_status hop_callback_unregister(const char *name)
{
    struct callback *c = NULL;
    pthread_mutex_lock(&table.lock);
    if (name && table.n) {
        struct callback **at = find_link(name, name_hash(name));
        c = *at;
        if (c) {
            *at = c->next;
            table.n--;
        }
        if (!table.n) { /* nothing is left behind */
            hop_free(table.buckets);
            table.buckets = NULL;
            table.n_buckets = 0;
        }
    }
    pthread_mutex_unlock(&table.lock);
    if (c) {
        callback_drop(c);
        return HOP_OK;
    }
    hop_set_message("callback_unregister: there is no callback '%s'", name ? name : "NULL");
    return HOP_INVALID;
}

/* ---- calls ---- */

/* The handles of one call. Each has one reference more than is taken away at the end, so that a function that
 * frees its arguments does no harm. */
struct handles {
    uint32_t n;
    struct tensor *list[];
};

static void handles_free(void *handles)
{
    struct handles *h = handles;
    for (uint32_t i = 0; i < h->n; i++) {
        struct tensor *t = h->list[i];
        if (!t) continue;
        int32_t refs = __atomic_load_n(&t->refs, __ATOMIC_ACQUIRE);
        for (int32_t k = 0; k < HOP_MIN(refs, 2); k++) tensor_free(t);
    }
    hop_free(h);
}

static struct handles *handles_new(struct tensor *const *args, uint32_t n)
{
    struct handles *h = hop_calloc(1, sizeof *h + n * sizeof *h->list);
    hop_cleanup_push(handles_free, h);
    for (h->n = 0; h->n < n; h->n++) {
        const struct tensor *t = args[h->n];
        h->list[h->n] = tensor_ref(
            tensor_borrow((enum dtype)t->dtype, t->rank, t->dims, t->data, NULL, NULL));
    }
    return h;
}

/* A handle that somebody kept would soon show memory that is gone: it becomes an array of nothing. */
static uint32_t empty_kept(struct handles *h)
{
    uint32_t kept = HOP_NONE;
    for (uint32_t i = h->n; i-- > 0;) {
        struct tensor *t = h->list[i];
        if (__atomic_load_n(&t->refs, __ATOMIC_ACQUIRE) <= 2) continue;
        kept = i;
        if (!t->rank) t->rank = 1;
        t->dims[0] = 0;
        t->count = 0;
    }
    return kept;
}

static void call_registered(const struct callback *c, const char *place, struct tensor *const *args,
                            uint32_t n)
{
    struct handles *h = handles_new(args, n);
    hop_set_message("%s", "");
    int status = c->f(c->user, (hop_tensor *const *)h->list, (int)n);
    uint32_t kept = empty_kept(h);
    if (status)
        hop_throw((hop_status)status, "%scallback: '%s' returned %d%s%s", place, c->name, status,
                  *hop_message() ? ": " : "", hop_message());
    if (kept != HOP_NONE)
        hop_throw(HOP_INVALID,
                  "%scallback: '%s' kept a reference of its argument %u, which is valid during the call "
                  "only: keep a copy (hop_tensor_copy)",
                  place, c->name, kept);
    hop_cleanup_pop(h);
    handles_free(h);
}

void callback_call(callback_taker *taker, void *ctx, const char *place, const char *name,
                   struct tensor *const *args, uint32_t n)
{
    if (taker) {
        taker(ctx, name, args, n);
        return;
    }
    pthread_mutex_lock(&table.lock);
    struct callback *c = table.n ? *find_link(name, name_hash(name)) : NULL;
    if (c) c->refs++;
    pthread_mutex_unlock(&table.lock);
    if (!c)
        hop_throw(
            HOP_INVALID,
            "%scallback: there is no callback '%s': expected one that hop_callback_register has made known",
            place, name);
    hop_cleanup_push(callback_drop, c);
    call_registered(c, place, args, n);
    hop_cleanup_pop(c);
    callback_drop(c);
}

void callback_text(struct text *out, const char *name, struct tensor *const *args, uint32_t n)
{
    text_add(out, "%s(", name);
    for (uint32_t i = 0; i < n; i++) {
        if (i) text_str(out, ", ");
        tensor_print(out, args[i]);
    }
    text_str(out, ")");
}
