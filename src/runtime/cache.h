/* Compiled code that is kept: in this process, shared by equal programs, and in files of the user's, for the
 * next process. Looking and keeping never fail a compilation: whatever goes wrong is a miss. docs/cache.md
 * says what is kept where. */
#ifndef HOP_CACHE_H
#define HOP_CACHE_H

#include "emit/emit.h"
#include "ir/canon.h"
#include "runtime/exe.h"

/* What is asked for: the program and everything else that its code depends on. */
struct cache_key {
    struct canon canon;
    uint64_t hash[2]; /* of canon.words */
    bool usable;      /* false: nothing is looked up or kept for this compilation */
};
/* `serial`: no parallel loops. The key must be freed. */
void cache_key_make(struct cache_key *k, struct module *m, uint32_t fn, const struct compile_options *o,
                    bool serial);
void cache_key_free(void *key);

/* Loaded code with what belongs to it, in one block: the bytes of the file that it is kept in. Counted; never
 * changes. */
struct code {
    _Atomic int32_t refs;
    unsigned char *block; /* aligned to 64 bytes */
    size_t block_bytes;
    const unsigned char *key, *image, *object;
    size_t key_bytes, image_bytes, object_bytes;
    struct loaded_program program;
    void *memory; /* what `block` lies in */
    uint64_t hash[2];
    /* in the process's table */
    bool kept;
    struct code *newer, *older, *chain;
};
/* From what the back end gave. `library`: path of what generated it. Throws HOP_NOMEM, or HOP_INTERNAL when
 * the object cannot be loaded. */
struct code *code_new(const struct cache_key *k, const void *image, size_t image_bytes, const void *object,
                      size_t object_bytes, const char *library);
struct code *code_ref(struct code *c);
void code_free(void *c); /* drops one reference; accepts NULL */

enum code_origin { CODE_COMPILED, CODE_FROM_MEMORY, CODE_FROM_DISK };
/* One reference, or NULL. */
struct code *cache_find(const struct cache_key *k, enum code_origin *origin);
void cache_keep(const struct cache_key *k, struct code *c, bool on_disk);
void cache_missed(void); /* counts a compilation that the cache could not spare */
/* One line for explain: where things are kept, or why not. */
void cache_describe(char *out, size_t size);

/* ---- the process's settings; the public calls are made of these ---- */

void cache_clear_memory(void);
/* NULL: as the environment says; "off", "memory", or a path; throws HOP_NOMEM. */
void cache_set_directory(const char *directory);
/* Bytes; 0 keeps nothing there; UINT64_MAX: as it is. */
void cache_set_limits(uint64_t memory, uint64_t disk);
void cache_statistics(hop_cache_stats *out);

/* ---- files (cache_disk.c) ---- */

struct cache_file {
    char name[40];
    uint64_t bytes;
    int64_t used_ns; /* when it was last used, on the system's clock */
};
/* All are given the directory and are safe against other processes doing the same. */
/* NULL: not there or not to be trusted; free `memory`. */
unsigned char *disk_read(const char *directory, const uint64_t hash[2], size_t *bytes, void **memory);
bool disk_write(const char *directory, const uint64_t hash[2], const void *bytes, size_t n, uint64_t limit);
/* Entries in the order in which they would go, oldest first; the list is in the arena. False: no such
 * directory, or not one to use (`why` says). */
struct cache_files {
    vec(struct cache_file) list;
    uint64_t bytes; /* taken on disk, in blocks of 4 KiB */
};
bool disk_list(const char *directory, struct arena *a, struct cache_files *out, char why[256]);
bool disk_clear(const char *directory, uint64_t *removed, char why[256]);
bool disk_usable(const char *directory, bool create, char why[256]);
void cache_file_name(const uint64_t hash[2], char name[40]);
bool cache_directory(char *out, size_t size); /* where files are kept now; false: nowhere */
uint64_t cache_disk_limit(void);
/* Does this block hold a whole, undamaged entry? For listing; looking also compares the key. */
bool cache_entry_valid(const unsigned char *block, size_t bytes);

#endif
