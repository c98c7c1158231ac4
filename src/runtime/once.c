/* What an executable keeps: values that depend on constant arguments alone. They are made by a program of
 * their own at the first run, and again when a constant argument is another tensor than the last time, was
 * written to, or lies in memory that somebody may write to unseen. Runs on several threads share them behind
 * a lock; each holds references while it runs. */
#include "runtime/exe_impl.h"
#include "ir/tensor.h"

#include <pthread.h>

struct seen { /* a constant argument as it was */
    uint64_t stamp;
    const void *data;
    uint8_t dtype, rank;
    bool strided;
    int64_t dims[MAX_RANK], strides[MAX_RANK];
};
struct keeper {
    struct exe *init;
    uint32_t n_inputs, n_values;
    uint32_t *inputs; /* which arguments of the executable init takes */
    struct seen *seen;
    struct tensor **values;
    bool there;    /* the values are those of what was seen */
    bool told;     /* the caller says when memory that cannot be watched has changed */
    uint64_t runs; /* of init */
    /* Recursive: whoever is asked whether to end a run may run the executable again. */
    pthread_mutex_t lock;
};

static void drop_values(struct keeper *o)
{
    o->there = false;
    for (uint32_t k = 0; k < o->n_values; k++) {
        tensor_free(o->values[k]);
        o->values[k] = NULL;
    }
}

void once_free(struct keeper *o)
{
    if (!o) return;
    drop_values(o);
    exe_free(o->init);
    pthread_mutex_destroy(&o->lock);
    hop_free(o);
}

struct keeper *once_new(struct exe *init, const struct once_split *split)
{
    hop_cleanup_push(exe_free, init);
    struct keeper *o = hop_calloc(1, sizeof *o + split->n_kept * sizeof *o->values +
                                         split->n_inputs * (sizeof *o->seen + sizeof *o->inputs));
    o->init = init;
    o->n_inputs = split->n_inputs;
    o->n_values = split->n_kept;
    o->values = (struct tensor **)(o + 1);
    o->seen = (struct seen *)(o->values + o->n_values);
    o->inputs = (uint32_t *)(o->seen + o->n_inputs);
    if (o->n_inputs) memcpy(o->inputs, split->inputs, o->n_inputs * sizeof *o->inputs);
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&o->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    hop_cleanup_pop(init);
    return o;
}

uint32_t once_count(const struct keeper *o) { return o->n_values; }

/* ---- has a constant changed? ---- */

static void look(struct seen *s, struct tensor *t)
{
    memset(s, 0, sizeof *s);
    s->stamp = tensor_stamp(t);
    s->data = t->data;
    s->dtype = t->dtype;
    s->rank = t->rank;
    s->strided = t->strides != NULL;
    memcpy(s->dims, t->dims, t->rank * sizeof *s->dims);
    if (s->strided) memcpy(s->strides, t->strides, t->rank * sizeof *s->strides);
}

static bool looks_the_same(const struct keeper *o, const struct seen *s, struct tensor *t)
{
    uint64_t stamp = tensor_stamp(t);
    bool watched = stamp && s->stamp;
    if (watched ? stamp != s->stamp : !o->told) return false;
    if (s->data != t->data || s->dtype != t->dtype || s->rank != t->rank) return false;
    if (s->strided != (t->strides != NULL)) return false;
    size_t bytes = t->rank * sizeof *t->dims;
    return !memcmp(s->dims, t->dims, bytes) && (!s->strided || !memcmp(s->strides, t->strides, bytes));
}

static bool is_fresh(const struct keeper *o, struct tensor *const *given)
{
    bool fresh = o->there;
    for (uint32_t i = 0; i < o->n_inputs && fresh; i++)
        fresh = looks_the_same(o, &o->seen[i], given[o->inputs[i]]);
    return fresh;
}

/* ---- making ---- */

struct making { /* of a run of init */
    uint32_t n_inputs, n_values;
    struct tensor **inputs, **values;
};
static void making_free(void *making)
{
    struct making *w = making;
    for (uint32_t i = 0; i < w->n_inputs; i++) tensor_free(w->inputs[i]);
    for (uint32_t k = 0; k < w->n_values; k++) tensor_free(w->values[k]);
    hop_free(w);
}

static void make_values(struct keeper *o, struct tensor *const *args, struct tensor *const *given,
                        const struct exe_call *call)
{
    uint32_t n = o->n_inputs + o->n_values;
    struct making *w = hop_calloc(1, sizeof *w + n * sizeof *w->inputs);
    w->inputs = (struct tensor **)(w + 1);
    w->values = w->inputs + o->n_inputs;
    w->n_inputs = o->n_inputs;
    w->n_values = o->n_values;
    hop_cleanup_push(making_free, w);
    drop_values(o);
    for (uint32_t i = 0; i < o->n_inputs; i++) {
        look(&o->seen[i], given[o->inputs[i]]); /* before it is read: a later write is one that is seen */
        w->inputs[i] = tensor_contiguous(args[o->inputs[i]]);
    }
    struct exe_call how = call ? *call : (struct exe_call){ 0 };
    how.workspace = NULL;
    how.workspace_bytes = 0;
    how.given = NULL;
    exe_run(o->init, w->inputs, NULL, w->values, &how);
    for (uint32_t k = 0; k < o->n_values; k++) {
        tensor_free(o->values[k]); /* the caller may have run it again meanwhile */
        o->values[k] = w->values[k];
        w->values[k] = NULL;
    }
    o->there = true;
    o->runs++;
    hop_cleanup_pop(w);
    making_free(w);
}

static void unlock(void *keeper) { pthread_mutex_unlock(&((struct keeper *)keeper)->lock); }

void once_values(struct keeper *o, struct tensor *const *args, const struct exe_call *call,
                 struct tensor **values)
{
    struct tensor *const *given = call && call->given ? call->given : args;
    pthread_mutex_lock(&o->lock);
    hop_cleanup_push(unlock, o);
    if (!is_fresh(o, given)) make_values(o, args, given, call);
    for (uint32_t k = 0; k < o->n_values; k++) values[k] = tensor_ref(o->values[k]);
    hop_cleanup_pop(o);
    unlock(o);
}

/* ---- from outside ---- */

void exe_refresh(struct exe *e)
{
    struct keeper *o = e->once;
    if (!o) return;
    pthread_mutex_lock(&o->lock);
    drop_values(o);
    o->told = true;
    unlock(o);
}

struct exe_kept exe_kept(struct exe *e)
{
    struct keeper *o = e->once;
    struct exe_kept kept = { 0 };
    if (!o) return kept;
    pthread_mutex_lock(&o->lock);
    kept.values = o->n_values;
    kept.runs = o->runs;
    for (uint32_t k = 0; k < o->n_values && o->there; k++)
        kept.bytes += (uint64_t)o->values[k]->count * dtype_info[o->values[k]->dtype].size;
    unlock(o);
    return kept;
}

const struct fn *exe_init(const struct exe *e, const struct module **m)
{
    if (!e->once) return NULL;
    *m = e->once->init->m;
    return e->once->init->header;
}
