/* Native code: a loop program in, an object out, and the object loaded. LLVM is behind this interface in a
 * shared object of its own that is loaded only when something must be compiled (loading libLLVM takes longer
 * than compiling). backend.h is what the runtime sees of it. */
#ifndef HOP_EMIT_H
#define HOP_EMIT_H

#include "loop/lp.h"

#include <limits.h>

/* Code in this process: one mapping that is written, then made executable and no longer writable. */
struct loaded {
    int32_t (*entry)(void *rt, void **buffers, int64_t *symbols);
    void *map;
    size_t bytes;
    size_t code_bytes; /* of them machine code */
};
/* What the plug-in makes of a loop program: a relocatable object (ELF) that defines ENTRY_NAME and contains
 * no addresses, or several that name each other's functions, behind a struct object_parts. All malloc'ed. */
struct native {
    void *object;
    size_t object_bytes;
    char *ir_text, *machine_text; /* texts when asked for */
    double ir_ms, codegen_ms;
    struct loaded code; /* filled by native_compile, not by the plug-in */
};
#define ENTRY_NAME "hop_entry"

/* Objects of one program: this, then one after the other, each from a multiple of eight on. */
enum { OBJECT_MOST_PARTS = 8 };
#define OBJECT_PARTS_MAGIC 0x7374726170706f68u /* "hopparts" */
struct object_parts {
    uint64_t magic, n;
    uint64_t bytes[OBJECT_MOST_PARTS]; /* of each, without what fills it up */
};

/* Threads that generate code beside the caller: begin gives NULL where there is none, what it gives goes to
 * end, which waits. */
struct emit_threads {
    uint32_t n; /* worth using, the caller's included */
    void *(*begin)(void (*work)(void *env), void *env);
    void (*end)(void *begun);
};
struct emit_options {
    bool keep_ir_text, keep_machine_text;
    bool scalar; /* no vector code */
    bool serial; /* no parallel loops */
    /* Bytes that may be taken; 0: as many as it needs. More is EMIT_NOMEM, before it is asked for. */
    uint64_t memory;
    const struct emit_threads *threads; /* NULL: the caller does it all */
    bool many_parts;                    /* code is made in several parts, however little it is; for tests */
    bool small_sections;                /* large blocks are those of a few statements; for tests */
    bool plain_f16; /* f16 by integer arithmetic even where the machine has instructions for it; for tests */
};
/* A library that hop loads when it is needed. */
struct plug_in {
    const char *file;     /* its name, libhop_….so */
    const char *variable; /* of the environment, which may name another place */
    char path[PATH_MAX + 64], why_not[1200];
};
/* Looks for it beside the library and where hop was installed; false: it is nowhere, with `why_not`. */
bool plug_in_find(struct plug_in *p);
/* What it exports under a name; NULL: with `why_not`. It stays loaded. */
void *plug_in_load(struct plug_in *p, const char *symbol);

/* The interface of the one that makes code: `hop_llvm_generator` is looked up in it. Functions return 0, or
 * non-zero with a message in `error`; EMIT_NOMEM: memory was out. */
enum { EMIT_OK, EMIT_FAILED, EMIT_NOMEM };
struct code_generator {
    const char *version;
    int (*compile)(const struct lp *p, const struct emit_options *o, struct native *out, char error[512]);
    /* Path of the library that generates the code, "" when it is part of the plug-in. */
    const char *(*library)(void);
    const void *code; /* some place in that library's code */
};

/* The plug-in, loaded on first use; NULL when there is none, hop_message() says why. */
const struct code_generator *plug_in_get(void);
/* Where the code of the library lies that generates code; false: nowhere yet. */
bool plug_in_code(uintptr_t *first, uintptr_t *end);
/* The file that plug_in_get loads, found without loading it; NULL when there is none. */
const char *plug_in_path(void);

/* Loads an object made for this machine: EMIT_OK, or another with a message. Nothing is thrown and no memory
 * but the mapping is taken. Sections that hold addresses or can be written, relocations and outside names
 * that the back end's objects have no use for are errors. */
int object_load(const void *object, size_t bytes, struct loaded *out, char error[512]);
void object_unload(struct loaded *l);
/* The same for an object of any machine that is known (ELF's number), laid out in `image` of `room` bytes as
 * if at `address`; *used is what it needs. */
int object_place(const void *object, size_t bytes, uint32_t machine, unsigned char *image, size_t room,
                 uint64_t address, size_t *used, struct loaded *out, char error[512]);

/* A program compiled and loaded at once, for tests. */
int native_compile(const struct code_generator *b, const struct lp *p, const struct emit_options *o,
                   struct native *out, char error[512]);
void native_free(struct native *n);

#endif
