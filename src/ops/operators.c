/* The registry of functions of the host. Names come in from programs that are captured or run, on any thread;
 * a function that is replaced or removed while calls of it are at work is let go when the last of them has
 * returned. */
#include "ops/operators.h"

#include "interp/interp.h"
#include "ir/text.h"

#include <pthread.h>

static struct {
    pthread_mutex_t lock;
    struct registered **buckets;
    size_t n_buckets, n; /* a power of two */
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t name_hash(const char *name) { return hash_bytes(name, strlen(name), 0); }

/* Where the name's entry hangs, or would. There are buckets. */
static struct registered **find_link(const char *name, uint64_t hash)
{
    struct registered **at = &table.buckets[hash & (table.n_buckets - 1)];
    while (*at && ((*at)->hash != hash || strcmp((*at)->name, name))) at = &(*at)->next;
    return at;
}

static void free_entry(struct registered *r)
{
    for (uint32_t i = 0; i < OPERATOR_RULES; i++)
        if (r->rules[i]) hop_fn_free(r->rules[i]);
    hop_free(r);
}

/* One reference less; the function is let go outside of the lock, since letting go may register or remove
 * others. */
void operator_drop(void *registered)
{
    struct registered *r = registered;
    pthread_mutex_lock(&table.lock);
    bool last = !--r->refs;
    pthread_mutex_unlock(&table.lock);
    if (!last) return;
    if (r->release) r->release(r->user);
    free_entry(r);
}

struct registered *operator_hold(const char *name)
{
    pthread_mutex_lock(&table.lock);
    struct registered *r = table.n ? *find_link(name, name_hash(name)) : NULL;
    if (r) r->refs++;
    pthread_mutex_unlock(&table.lock);
    return r;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(struct registered *const *)a)->name, (*(struct registered *const *)b)->name);
}

struct registered **operators_held(struct arena *a)
{
    struct registered **all = NULL;
    for (size_t room = 0, n = 1; n > room;) {
        room = 2 * room + 16;
        all = ARENA_NEW(a, struct registered *, room + 1);
        pthread_mutex_lock(&table.lock);
        n = table.n;
        size_t at = 0;
        for (size_t i = 0; n <= room && i < table.n_buckets; i++)
            for (struct registered *r = table.buckets[i]; r; r = r->next) {
                r->refs++;
                all[at++] = r;
            }
        pthread_mutex_unlock(&table.lock);
        all[at] = NULL;
        if (at) qsort(all, at, sizeof *all, compare_names);
    }
    return all;
}

/* ---- registering ---- */

static bool grow_table(void)
{
    if (table.n < table.n_buckets) return true;
    size_t n = table.n_buckets ? 2 * table.n_buckets : 16;
    struct registered **more = hop_try_malloc(n * sizeof *more);
    if (!more) return table.n_buckets > 0; /* longer chains will do */
    memset(more, 0, n * sizeof *more);
    for (size_t i = 0; i < table.n_buckets; i++)
        while (table.buckets[i]) {
            struct registered *r = table.buckets[i];
            table.buckets[i] = r->next;
            r->next = more[r->hash & (n - 1)];
            more[r->hash & (n - 1)] = r;
        }
    hop_free(table.buckets);
    table.buckets = more;
    table.n_buckets = n;
    return true;
}

/* An entry with copies of the two texts and room for the parameters' flags, in one block; throws. */
static struct registered *new_entry(const char *name, const char *signature, uint32_t n_params)
{
    size_t n = strlen(name) + 1, more = strlen(signature) + 1;
    struct registered *r = hop_try_malloc(sizeof *r + n + more + n_params);
    if (!r) hop_throw(HOP_NOMEM, "out of memory: '%s' could not be registered", name);
    *r = (struct registered){ .hash = name_hash(name),
                              .refs = 1,
                              .signature = r->name + n,
                              .n_params = n_params,
                              .flags = (const uint8_t *)r->name + n + more };
    memcpy(r->name, name, n);
    memcpy(r->name + n, signature, more);
    return r;
}

/* Takes the entry over, or returns why not; *old is what had the name, to be dropped. */
static hop_status put_entry(struct registered *r, struct registered **old, char *other, size_t room)
{
    hop_status status = HOP_NOMEM;
    *old = NULL;
    pthread_mutex_lock(&table.lock);
    if (grow_table()) {
        struct registered **at = find_link(r->name, r->hash);
        *old = *at;
        status = *at && strcmp((*at)->signature, r->signature) ? HOP_INVALID : HOP_OK;
        if (status) {
            snprintf(other, room, "%s", (*at)->signature);
            *old = NULL;
        } else {
            r->next = *at ? (*at)->next : NULL;
            table.n += !*at;
            *at = r;
        }
    }
    pthread_mutex_unlock(&table.lock);
    return status;
}

/* Frees the entry, without its user, where it could not be put. */
static hop_status register_entry(struct registered *r)
{
    char other[512] = "";
    struct registered *old;
    hop_status status = put_entry(r, &old, other, sizeof other);
    if (!status) {
        if (old) operator_drop(old);
        return HOP_OK;
    }
    if (status == HOP_NOMEM)
        hop_set_message("out of memory: the operator '%s' could not be registered", r->name);
    else
        hop_set_message("operator_register: '%s' is registered as %s, found another signature, %s", r->name,
                        other, r->signature);
    free_entry(r);
    return status;
}

static hop_status unregister_entry(const char *what, const char *name)
{
    struct registered *r = NULL;
    pthread_mutex_lock(&table.lock);
    if (name && table.n) {
        struct registered **at = find_link(name, name_hash(name));
        r = *at;
        if (r) {
            *at = r->next;
            table.n--;
        }
        if (!table.n) { /* nothing is left behind */
            hop_free(table.buckets);
            table.buckets = NULL;
            table.n_buckets = 0;
        }
    }
    pthread_mutex_unlock(&table.lock);
    if (r) {
        operator_drop(r);
        return HOP_OK;
    }
    hop_set_message("%s_unregister: there is no %s '%s'", what, what, name ? name : "NULL");
    return HOP_INVALID;
}

hop_status hop_operator_unregister(const char *name) { return unregister_entry("operator", name); }
hop_status hop_callback_unregister(const char *name) { return unregister_entry("callback", name); }

/* The entry of a specification whose signature can be read. */
static struct registered *entry_of(const hop_operator_spec *spec)
{
    struct module *m = module_new();
    hop_cleanup_push(module_free, m);
    const struct operator_decl *d = operator_declare(m, "operator_register: signature", spec->signature);
    struct registered *r = new_entry(module_text(m, d->name), d->signature, d->n_params);
    for (uint32_t i = 0; i < d->n_params; i++) ((uint8_t *)r->flags)[i] = d->params[i].flags;
    r->any = d->any;
    r->n_results = d->n_results;
    r->effects = d->effects;
    r->version = d->version ? d->version : (uint32_t)spec->version;
    hop_cleanup_pop(m);
    module_free(m);
    return r;
}

static hop_status read_effect(const hop_operator_spec *spec, effect_set *out)
{
    if (!spec->effect || effect_from_name(spec->effect, out)) return HOP_OK;
    hop_set_message(
        "operator_register: effect: expected \"none\", \"check\", \"io\" or \"unordered\", found \"%.60s\"",
        spec->effect);
    return HOP_INVALID;
}

hop_status hop_operator_register(const hop_operator_spec *spec)
{
    if (!spec || !spec->signature || !spec->run) {
        const char *what = !spec ? "a specification" : !spec->signature ? "a signature" : "a function (run)";
        hop_set_message("operator_register: expected %s, found NULL", what);
        return HOP_INVALID;
    }
    effect_set effects = EFFECT_NONE;
    if (read_effect(spec, &effects)) return HOP_INVALID;
    if (spec->version < 0) {
        hop_set_message("operator_register: version: expected at least 0, found %d", spec->version);
        return HOP_INVALID;
    }
    if (spec->together < 0 || spec->together > 2) {
        hop_set_message("operator_register: together: expected 0, 1 or 2, found %d", spec->together);
        return HOP_INVALID;
    }
    struct registered *volatile made = NULL;
    struct hop_catch c;
    if (HOP_TRY(c)) {
        made = entry_of(spec);
        hop_catch_end(&c);
    } else {
        return hop_caught();
    }
    struct registered *r = made;
    hop_fn *const rules[OPERATOR_RULES] = { spec->forward, spec->backward, spec->jvp, spec->batch };
    const hop_operator_rule bodies[OPERATOR_RULES] = { spec->forward_body, spec->backward_body,
                                                       spec->jvp_body, spec->batch_body };
    r->run = spec->run;
    r->infer = spec->infer;
    r->user = spec->user;
    r->release = spec->release;
    r->strided = spec->strided;
    r->together = spec->together == 1;
    r->alone = spec->together == 2;
    if (spec->effect) r->effects = effects;
    for (uint32_t i = 0; i < OPERATOR_RULES; i++) {
        r->rules[i] = rules[i] ? hop_fn_ref(rules[i]) : NULL;
        r->bodies[i] = bodies[i];
    }
    return register_entry(r);
}

const char *hop_operator_signature(const char *name)
{
    static _Thread_local char text[1024];
    struct registered *r = name ? operator_hold(name) : NULL;
    if (!r) return NULL;
    snprintf(text, sizeof text, "%s", r->signature);
    operator_drop(r);
    return text;
}

/* "name(...)", as declarations have it. */
static struct registered *callback_entry(const char *name)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct text signature = { .arena = &arena };
    operator_any_signature(name, &signature);
    struct registered *r = new_entry(name, signature.data, 0);
    r->any = true;
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return r;
}

hop_status hop_callback_register(const char *name, hop_callback_fn f, void *user, void (*release)(void *user))
{
    if (!name || !*name || !f) {
        hop_set_message("callback_register: expected %s, found %s", f ? "a name" : "a function",
                        name && f ? "\"\"" : "NULL");
        return HOP_INVALID;
    }
    struct registered *volatile made = NULL;
    struct hop_catch c;
    if (HOP_TRY(c)) {
        made = callback_entry(name);
        hop_catch_end(&c);
    } else {
        return hop_caught();
    }
    struct registered *r = made;
    r->callback = f;
    r->user = user;
    r->release = release;
    r->effects = EFFECT_IO;
    return register_entry(r);
}

/* ---- runs inside of calls ---- */

static _Thread_local const struct outlet *outlet;

const struct outlet *outlet_get(void) { return outlet; }

const struct outlet *outlet_set(const struct outlet *o)
{
    const struct outlet *before = outlet;
    outlet = o;
    return before;
}

/* ---- what programs expect ---- */

const struct operator_decl *operator_declared(struct module *m, const struct registered *r)
{
    const struct operator_decl *d = module_operator(m, module_string(m, r->name, strlen(r->name)));
    if (d && !strcmp(d->signature, r->signature) && d->effects == r->effects) return d;
    struct operator_decl options = { .effects = r->effects, .version = r->version };
    struct text text = { .arena = &m->arena };
    text_str(&text, r->signature);
    operator_options_print(&options, &text);
    return operator_declare(m, "signature", text.data);
}

struct registered *operator_expect(const char *place, const char *name, const char *signature,
                                   effect_set effects, uint32_t version)
{
    struct registered *r = operator_hold(name);
    if (!r)
        hop_throw(
            HOP_INVALID,
            "%s%s: there is no operator '%s': expected one that hop_operator_register or --operators has "
            "made known",
            place, name, name);
    hop_cleanup_push(operator_drop, r);
    if (strcmp(r->signature, signature))
        hop_throw(HOP_INVALID, "%s%s: the program declares %s, registered is %s", place, name, signature,
                  r->signature);
    if (r->effects != effects)
        hop_throw(HOP_INVALID, "%s%s: the program declares the effects %s, registered are %s", place, name,
                  effect_name(effects), effect_name(r->effects));
    if (version && r->version != version)
        hop_throw(HOP_INVALID, "%s%s: the program declares version %u, registered is version %u", place, name,
                  version, r->version);
    hop_cleanup_pop(r);
    return r;
}

void operator_failed(const char *place, const char *name, int status, const char *message)
{
    hop_status as = status > HOP_OK && status <= HOP_INTERNAL ? (hop_status)status : HOP_INVALID;
    if (*message) hop_throw(as, "%s%s: %s", place, name, message);
    hop_throw(as, "%s%s: the operator returned %d", place, name, status);
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

static void call_registered(const struct registered *c, const char *place, struct tensor *const *args,
                            uint32_t n)
{
    struct handles *h = handles_new(args, n);
    hop_set_message("%s", "");
    int status = c->callback(c->user, (hop_tensor *const *)h->list, (int)n);
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

/* An operator of any operands, which has no results. */
static void run_registered(const struct registered *r, const char *place, struct tensor *const *args,
                           uint32_t n)
{
    struct arena arena = { 0 };
    char message[OPERATOR_MESSAGE_ROOM] = "";
    int32_t count = (int32_t)n;
    hop_cleanup_push(arena_free, &arena);
    hop_operator_array *arrays = ARENA_ZNEW(&arena, hop_operator_array, n + 1);
    void **data = ARENA_NEW(&arena, void *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        arrays[i] = (hop_operator_array){
            .data = args[i]->data, .dtype = args[i]->dtype, .rank = args[i]->rank, .dims = args[i]->dims
        };
        data[i] = args[i]->data;
    }
    hop_operator_call call = { .user = r->user,
                               .message = message,
                               .room = sizeof message,
                               .arrays = arrays,
                               .n_arrays = count,
                               .counts = &count };
    int status = r->run(&call, data, NULL);
    message[sizeof message - 1] = 0;
    if (status) operator_failed(place, r->name, status, message);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

void callback_call(callback_taker *taker, void *ctx, const char *place, const char *name,
                   struct tensor *const *args, uint32_t n)
{
    if (taker) {
        taker(ctx, name, args, n);
        return;
    }
    struct registered *r = operator_hold(name);
    if (!r)
        hop_throw(
            HOP_INVALID,
            "%scallback: there is no callback '%s': expected one that hop_callback_register has made known",
            place, name);
    hop_cleanup_push(operator_drop, r);
    if (!r->any || r->n_results)
        hop_throw(HOP_INVALID, "%s%s: the program declares %s(...), registered is %s", place, name, name,
                  r->signature);
    if (r->callback) call_registered(r, place, args, n);
    else run_registered(r, place, args, n);
    hop_cleanup_pop(r);
    operator_drop(r);
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
