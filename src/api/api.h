/* The public handles. A tensor is a struct tensor; a function is a place in a module that several handles
 * share under a lock; an executable is a compiled function with what a run must know about its arguments.
 * Every public call catches what is thrown below and returns a status. */
#ifndef HOP_API_H
#define HOP_API_H

#include "capture/capture.h"
#include "runtime/exe.h"

#include <pthread.h>

static inline struct tensor *tensor_of(const hop_tensor *t) { return (struct tensor *)t; }

/* Handles that are noted while somebody looks for leaks. */
extern bool handles_noted;
void handle_note_tensor(const struct tensor *t);
void handle_note(const void *handle, const char *format, ...) HOP_PRINTF(2, 3);
void handle_forget(const void *handle);
static inline hop_tensor *tensor_handle(struct tensor *t)
{
    if (__atomic_load_n(&handles_noted, __ATOMIC_RELAXED)) handle_note_tensor(t);
    return (hop_tensor *)t;
}

/* A module and its users. Transforms, compilation and interpretation change it, so they hold the lock. */
struct shared_module {
    struct module *m;
    pthread_mutex_t lock; /* recursive: a print callback may come back */
    int32_t refs;
    /* A transform or a compilation is at work: whoever comes back on the same thread must wait for its end.
     */
    bool changing;
};
/* Locks the module. Throws, without the lock, when called from within a change: by what is asked whether to
 * end it. */
void module_lock(struct shared_module *s);
/* module_lock, to change the module until module_changed (signature of a cleanup). */
void module_change(struct shared_module *s);
void module_changed(void *shared);
struct shared_module *shared_new(struct module *m); /* takes the module, also when it throws */
struct shared_module *shared_ref(struct shared_module *s);
void shared_free(void *s);

enum { FN_MAGIC = 0x68666e31, EXE_MAGIC = 0x68657831, PROFILE_MAGIC = 0x68707231, DEAD_MAGIC = 0x64656164 };

/* What the results of a function are: given to the caller, or the new content of an argument. */
struct result_map {
    uint32_t n_params, n_results, n_visible;
    uint32_t *updates; /* per result: the parameter it updates, HOP_NONE: a visible one */
};
struct hop_fn {
    uint32_t magic;
    int32_t refs;
    struct shared_module *shared;
    uint32_t fn;
    struct result_map map;
    struct arena arena; /* the map and texts */
    const char *text;
    const char *remarks;           /* of its capture; NULL: none */
    const struct saved_list *kept; /* of a gradient: what it keeps; NULL: of none */
    /* What its outer symbols were in the capture around, when it was captured (struct captured); transforms
     * keep them in front of those they add. In the module's arena. */
    const hop_dim *around;
    uint32_t n_around;
    const char *const *probes; /* names of what hop_probes or hop_perturb added; in the module's arena */
    uint32_t n_probes;
};
struct hop_exe {
    uint32_t magic;
    struct exe *e;
    struct result_map map;
    const uint32_t *over; /* per result: the argument in whose memory it is computed, HOP_NONE; NULL: none */
    const uint8_t *taken; /* per parameter: a result is computed there */
    const uint8_t *donated; /* per parameter: the caller gives it away; NULL: none */
    void *spare;            /* lists of a large call, for the next one */
    effect_set effects;     /* of its function */
    struct kept **kept;     /* what its programs need */
    uint32_t n_kept;
    struct arena arena;
};
/* Frees it; the handle is found dead from then on (signature of a cleanup). */
void exe_drop(void *exe);
/* A second handle of the same program, to be freed by itself; throws. */
struct hop_exe *exe_again(const struct hop_exe *e);

struct hop_profile {
    uint32_t magic;
    struct profile *p;
};

/* Runs body(args) at the edge of the library. */
hop_status api_edge(void (*body)(void *args), void *args);

/* The function with what the rewritings of its regions make of them (regions.c). versions: of those that were
 * used. The module is locked. */
uint32_t regions_rewritten(struct module *m, uint32_t fn, uint64_t *versions);

/* A function in the module of a capture; `what` it is, for messages. Throws. */
struct called_fn imported(struct emission *e, hop_fn *given, const char *what);

/* Throws when there is no place for a result. */
void check_place(const void *out, const char *what);
/* All throw. The handle is NULL or a live one; a freed one is found in debug builds. */
struct hop_fn *check_fn(const hop_fn *f, const char *what);
struct hop_exe *check_exe(const hop_exe *e);
struct tensor *check_tensor(const hop_tensor *t, const char *what, int i); /* which is not distributed */
struct tensor *check_any_tensor(const hop_tensor *t, const char *what, int i);
struct tensor *check_array(const hop_tensor *t, const char *what, int i); /* the same, and no object */
/* A new handle. Takes nothing over; `shared` gets one more reference. */
hop_fn *fn_new(struct shared_module *shared, uint32_t fn);
/* Gives a function without a name one, for texts. The module is locked. */
void fn_name(struct hop_fn *f);
/* A text for the caller, who releases it with hop_text_free. */
char *text_given(const struct text *t);

/* While a call is under way, *w (without cancel: what the thread has) says whether to end it; watch_end takes
 * what watch_begin gave. */
const struct hop_watch *watch_begin(const struct hop_watch *w);
void watch_end(const struct hop_watch *before);
/* Keeps the block of a freed handle for a while, so that using it is noticed. */
void handle_bury(void *handle);
void copy_map(struct arena *arena, const struct result_map *from, struct result_map *to);

#endif
