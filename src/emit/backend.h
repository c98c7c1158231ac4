/* Back ends: what makes a loop program run. A back end is one struct with a name, what it is able to, the
 * memory that its kernels work on, and functions; backends.def lists them. docs/backends.md shows how to add
 * one.
 *
 * A compiled program is kernels and a launch plan. The runtime goes through the plan step by step: it brings
 * buffers into the back end's memory, launches kernels, waits, and fetches what the program leaves. A back
 * end of the host's has one kernel, one step and no memory of its own; the runtime then calls the kernel
 * straight. */
#ifndef HOP_BACKEND_H
#define HOP_BACKEND_H

#include "emit/emit.h"

struct hop_rt;

/* Memory that kernels work on and the host cannot reach: addresses of it are handed around, nothing more.
 * Copies come after all launches that were waited for; what goes wrong is thrown. */
struct memory_space {
    const char *name;
    void *(*take)(size_t bytes); /* aligned to 64 bytes, contents unknown; NULL: there is no more */
    void (*give_back)(void *at); /* accepts NULL */
    void (*copy_in)(void *to, const void *from, size_t bytes);
    void (*copy_out)(void *to, const void *from, size_t bytes);
    void (*copy)(void *to, const void *from, size_t bytes); /* within it */
    /* Where the host finds memory of it while a kernel that called the host waits; NULL: at the address. */
    void *(*reach)(void *at, size_t bytes, const char *what);
};

enum launch_step_kind {
    LAUNCH_BRING, /* memory for an argument, and its elements there */
    LAUNCH_MAKE,  /* memory for a result */
    LAUNCH_KERNEL,
    LAUNCH_WAIT, /* until all launches are done */
    LAUNCH_FETCH /* a result, or the new content of an argument, back to the host */
};
struct launch_step {
    uint8_t kind;
    uint32_t index; /* the kernel, or the buffer */
};
/* A program that can be launched. */
struct loaded_program {
    const struct launch_step *steps;
    uint32_t n_steps, n_kernels;
    int64_t frame_bytes; /* memory that kernels leave scalars for each other in, taken for each run */
    struct loaded code;  /* of a back end whose kernels are machine code of the host */
    void *own;           /* the back end's */
};
/* What the kernels of one run are given. */
struct launch {
    const struct loaded_program *program;
    struct hop_rt *rt;     /* for checks, prints, callbacks, memory that grows, products, cancellation */
    void **buffers;        /* addresses in the back end's memory */
    const int64_t *counts; /* elements of each */
    int64_t *symbols;      /* sizes; one that a kernel finds is here when it was waited for */
    void *frame;
    void *queue; /* what open gave */
};

enum backend_ability {
    ABLE_TO_KEEP = 1,     /* a compiled program is an object, which the cache keeps */
    ABLE_TO_TELL = 2,     /* kernels call the host: checks, prints, callbacks, exchanges */
    ABLE_TO_GROW = 4,     /* kernels ask for memory: arrays whose size is found while running */
    ABLE_TO_MULTIPLY = 8, /* kernels call a library for matrix products */
    RUNS_LOOPS = 16       /* runs the loop program itself, which the executable keeps */
};
struct backend {
    const char *name, *meaning;
    uint32_t abilities;
    const struct memory_space *memory; /* NULL: the host's */
    bool (*available)(void);           /* false: hop_message() says why. NULL: always */
    /* A loop program to an object, perhaps on a thread of its own: nothing is thrown, the result is EMIT_OK
     * or another with a message. NULL: load makes all of the loop program. */
    int (*compile)(const struct lp *p, const struct emit_options *o, struct native *out, char error[512]);
    /* An object or, with RUNS_LOOPS, a loop program to what can be launched. */
    int (*load)(const void *object, size_t bytes, const struct lp *p, struct loaded_program *out,
                char error[512]);
    void (*unload)(struct loaded_program *p); /* one that is empty, too */
    /* One run: open, launches and waits as the plan says, close. Each gives HOP_OK or what the run ends with.
     */
    void (*open)(struct launch *l); /* NULL: nothing to do; close: the same */
    void (*close)(struct launch *l);
    int32_t (*launch)(struct launch *l, uint32_t kernel);
    int32_t (*wait)(struct launch *l); /* NULL: a launch that returns is done */
};

#define BACKEND(name) extern const struct backend name##_backend;
#include "emit/backends.def"
#undef BACKEND

/* The n-th back end, NULL: there are no more. The first is the default. */
const struct backend *backend_at(uint32_t n);
const struct backend *backend_named(const char *name); /* throws HOP_INVALID, naming those there are */
/* Throws HOP_UNAVAILABLE when the back end is not there, or the program asks for what it is not able to. */
void backend_accept(const struct backend *b, const struct lp *p);

#endif
