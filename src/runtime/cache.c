/* The cache of compiled code. A key comes in (the program's canonical bytes and what else its code depends
 * on), shared code goes out: from the process's table, else from the user's files, else nowhere. Entries are
 * found by a 128-bit hash and compared in full; an entry from a file is checked as a whole before any of it
 * is used. */
#include "runtime/cache.h"
#include "base/memory.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#if __has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#define CPU_FROM_LIBC 1
#else
#include <cpuid.h>
#endif
#endif

/* Tells builds apart: a hash of the sources and flags, from the Makefile. Without it code is shared in the
 * process but not kept in files. */
#ifndef HOP_IDENTITY
#define HOP_IDENTITY ""
#endif

/* ---- the key ---- */

enum { KEY_FORMAT = 1 };

static void key_word(struct cache_key *k, uint32_t w) { vec_push(&k->canon.arena, &k->canon.words, w); }
static void key_wide(struct cache_key *k, uint64_t w)
{
    key_word(k, (uint32_t)w);
    key_word(k, (uint32_t)(w >> 32));
}

#if defined(__x86_64__)
/* What decides the processor's name and features. The C library has asked at start; asking the processor
 * itself is slow under virtualisation. Numbers that differ from core to core (leaf 1, ebx) stay out. */
static uint32_t cpu_words(uint32_t out[64])
{
    static const uint32_t leaves[] = { 1, 7, 0x80000001, 0xd, 0x80000007, 0x80000008, 0x70001, 0x19, 0x14 };
    uint32_t n = 0;
    for (uint32_t i = 0; i < HOP_COUNT(leaves); i++) {
        uint32_t r[4] = { 0 }, active[4] = { 0 };
#ifdef CPU_FROM_LIBC
        static const uint32_t index[] = { CPUID_INDEX_1,       CPUID_INDEX_7,        CPUID_INDEX_80000001,
                                          CPUID_INDEX_D_ECX_1, CPUID_INDEX_80000007, CPUID_INDEX_80000008,
                                          CPUID_INDEX_7_ECX_1, CPUID_INDEX_19,       CPUID_INDEX_14_ECX_0 };
        const struct cpuid_feature *f = __x86_get_cpuid_feature_leaf(index[i]);
        if (f) {
            memcpy(r, f->cpuid_array, sizeof r);
            memcpy(active, f->active_array, sizeof active);
        }
#else
        uint32_t leaf = leaves[i] == 0x70001 ? 7 : leaves[i];
        uint32_t sub = leaves[i] == 0x70001 || leaves[i] == 0xd;
        __get_cpuid_count(leaf, sub, &r[0], &r[1], &r[2], &r[3]);
#endif
        if (leaves[i] == 1) {
            r[1] = 0;
            active[1] = 0;
        }
        if (leaves[i] == 0xd || leaves[i] == 0x80000008) {
            r[2] = 0;
            active[2] = 0;
        }
        for (uint32_t j = 0; j < 4; j++) out[n++] = r[j];
        bool any_active = active[0] | active[1] | active[2] | active[3];
        for (uint32_t j = 1; any_active && j < 4; j++) out[n++] = active[j];
    }
    return n;
}
#else
static uint32_t cpu_words(uint32_t out[64])
{
    uint64_t words[2] = { getauxval(AT_HWCAP), getauxval(AT_HWCAP2) };
    memcpy(out, words, sizeof words);
    return 4;
}
#endif

/* The plug-in as a file: another one may generate other code. */
static void key_backend(struct cache_key *k)
{
    struct stat st;
    const char *path = plug_in_path();
    if (!path || stat(path, &st)) memset(&st, 0, sizeof st);
    key_wide(k, (uint64_t)st.st_ino);
    key_wide(k, (uint64_t)st.st_size);
    key_wide(k, (uint64_t)st.st_mtim.tv_sec);
    key_wide(k, (uint64_t)st.st_mtim.tv_nsec);
}

static bool cache_wanted(void);

void cache_key_make(struct cache_key *k, struct module *m, uint32_t fn, const struct compile_options *o,
                    bool serial)
{
    static const char version[] = HOP_VERSION " " HOP_IDENTITY;
    const struct fn *f = module_fn(m, fn);
    uint32_t cpu[64], n_cpu = cpu_words(cpu);
    bool keeps = !o->backend || o->backend->abilities & ABLE_TO_KEEP;
    key_word(k, KEY_FORMAT);
    canon_bytes(&k->canon, version, sizeof version - 1);
    key_backend(k);
    canon_bytes(&k->canon, cpu, n_cpu * sizeof *cpu);
    key_word(k, o->passes.without);
    key_word(k, (uint32_t)o->passes.strict | (uint32_t)serial << 1 | (uint32_t)hop_debugs("masks") << 2);
    key_wide(k, o->rewritings);
    for (uint32_t i = 0; i < f->n_results; i++) key_word(k, o->over ? o->over[i] : HOP_NONE);
    canon_function(&k->canon, m, fn);
    /* an image has no marks */
    k->usable = keeps && !o->no_cache && !o->passes.profile && cache_wanted();
    hash_bytes128(k->canon.words.data, k->canon.words.len * sizeof(uint32_t), k->hash);
}

void cache_key_free(void *key) { arena_free(&((struct cache_key *)key)->canon.arena); }

/* ---- entries ---- */

/* The first bytes of an entry. Parts follow in this order, each padded to 64 bytes; `maker` is the path of
 * the library that generated the code. */
struct entry_header {
    char magic[8];
    uint32_t format, header_bytes;
    uint64_t key_bytes, maker_bytes, image_bytes, object_bytes;
    uint64_t maker_size, maker_time; /* of the file, when the entry was made */
    uint64_t reserved[6];
    uint64_t checksum[2]; /* of everything, with this field zero */
};
_Static_assert(sizeof(struct entry_header) == 128, "no padding, parts stay aligned");
static const char entry_magic[8] = "hopcode";
enum { ENTRY_FORMAT = 1, PART = 64 };

static size_t padded(size_t n) { return (n + PART - 1) & ~(size_t)(PART - 1); }

/* The checksum stands at the end of the header: what is before it and after it is hashed. */
static void entry_checksum(const unsigned char *block, size_t n, uint64_t out[2])
{
    uint64_t parts[4];
    hash_bytes128(block, offsetof(struct entry_header, checksum), parts);
    hash_bytes128(block + sizeof(struct entry_header), n - sizeof(struct entry_header), parts + 2);
    hash_bytes128(parts, sizeof parts, out);
}

bool cache_entry_valid(const unsigned char *block, size_t n)
{
    struct entry_header h;
    uint64_t sum[2];
    if (n < sizeof h) return false;
    memcpy(&h, block, sizeof h);
    if (memcmp(h.magic, entry_magic, sizeof h.magic)) return false;
    if (h.format != ENTRY_FORMAT || h.header_bytes != sizeof h) return false;
    if (h.key_bytes > n || h.maker_bytes > n || h.image_bytes > n || h.object_bytes > n) return false;
    size_t parts = padded(h.key_bytes) + padded(h.maker_bytes) + padded(h.image_bytes) +
                   padded(h.object_bytes);
    if (sizeof h + parts != n) return false;
    entry_checksum(block, n, sum);
    return sum[0] == h.checksum[0] && sum[1] == h.checksum[1];
}

static void file_stamp(const char *path, uint64_t *size, uint64_t *when)
{
    struct stat st;
    *size = 0;
    *when = 0;
    if (!*path || stat(path, &st)) return;
    *size = (uint64_t)st.st_size;
    *when = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
}

/* Where the parts of a block with this header lie. */
static void code_parts(struct code *c)
{
    const struct entry_header *h = (const struct entry_header *)c->block;
    c->key = c->block + sizeof *h;
    c->key_bytes = h->key_bytes;
    c->image = c->key + padded(h->key_bytes) + padded(h->maker_bytes);
    c->image_bytes = h->image_bytes;
    c->object = c->image + padded(h->image_bytes);
    c->object_bytes = h->object_bytes;
}

static const char *code_maker(const struct code *c) { return (const char *)c->key + padded(c->key_bytes); }

struct code *code_ref(struct code *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void code_free(void *code)
{
    struct code *c = code;
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) > 1) return;
    llvm_backend.unload(&c->program);
    hop_free(c->memory);
    hop_free(c);
}

struct code *code_new(const struct cache_key *k, const void *image, size_t image_bytes, const void *object,
                      size_t object_bytes, const char *library)
{
    size_t key_bytes = k->canon.words.len * sizeof(uint32_t), maker_bytes = strlen(library) + 1;
    size_t n = sizeof(struct entry_header) + padded(key_bytes) + padded(maker_bytes) + padded(image_bytes) +
               padded(object_bytes);
    struct code *c = hop_calloc(1, sizeof *c);
    c->refs = 1;
    hop_cleanup_push(code_free, c);
    c->memory = hop_calloc(1, n + PART);
    c->block = (unsigned char *)(((uintptr_t)c->memory + PART - 1) & ~(uintptr_t)(PART - 1));
    c->block_bytes = n;
    memcpy(c->hash, k->hash, sizeof c->hash);
    struct entry_header *h = (struct entry_header *)c->block;
    *h = (struct entry_header){ .format = ENTRY_FORMAT,
                                .header_bytes = sizeof *h,
                                .key_bytes = key_bytes,
                                .maker_bytes = maker_bytes,
                                .image_bytes = image_bytes,
                                .object_bytes = object_bytes };
    memcpy(h->magic, entry_magic, sizeof h->magic);
    file_stamp(library, &h->maker_size, &h->maker_time);
    code_parts(c);
    memcpy((void *)c->key, k->canon.words.data, key_bytes);
    memcpy((void *)code_maker(c), library, maker_bytes);
    if (image_bytes) memcpy((void *)c->image, image, image_bytes);
    memcpy((void *)c->object, object, object_bytes);
    char error[512] = "";
    int status = llvm_backend.load(c->object, object_bytes, NULL, &c->program, error);
    if (status)
        hop_throw(status == EMIT_NOMEM ? HOP_NOMEM : HOP_INTERNAL, "the back end's code cannot be loaded: %s",
                  error);
    hop_cleanup_pop(c);
    return c;
}

/* ---- the process's table ---- */

enum { BUCKETS = 512 };
static struct {
    pthread_mutex_t lock;
    bool known;               /* the settings below were made */
    bool off;                 /* nothing is kept anywhere */
    char directory[PATH_MAX]; /* "": no files */
    uint64_t memory_limit, disk_limit;
    struct code *buckets[BUCKETS];
    struct code *newest, *oldest; /* by last use */
    uint64_t bytes, entries;
    hop_cache_stats counts; /* hits and misses */
} cache = { .lock = PTHREAD_MUTEX_INITIALIZER,
            .memory_limit = (uint64_t)64 << 20,
            .disk_limit = (uint64_t)256 << 20 };

static void default_directory(char out[PATH_MAX])
{
    const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int n = 0;
    if (base && base[0] == '/') n = snprintf(out, PATH_MAX, "%s/hop", base);
    else if (home && home[0] == '/') n = snprintf(out, PATH_MAX, "%s/.cache/hop", home);
    if (n <= 0 || n >= PATH_MAX) out[0] = 0;
}

/* A process that runs with rights of others than its caller's takes no directions from the environment and
 * leaves no files. */
static bool may_use_files(void) { return *HOP_IDENTITY && !getauxval(AT_SECURE); }

/* A path from the root, without a slash or /. at its end: with one, the system follows a link that stands
 * there. A path that begins elsewhere is completed when the program names it, and not taken from the
 * environment. */
static void set_directory(const char *text, bool from_environment)
{
    char here[PATH_MAX];
    int n = 0;
    if (*text == '/') n = snprintf(cache.directory, PATH_MAX, "%s", text);
    else if (!from_environment && getcwd(here, sizeof here) && *here == '/')
        n = snprintf(cache.directory, PATH_MAX, "%s/%s", here, text);
    if (n <= 0 || n >= PATH_MAX) n = 0;
    for (const char *d = cache.directory; n > 1 && (d[n - 1] == '/' || (d[n - 1] == '.' && d[n - 2] == '/'));)
        n--;
    cache.directory[n] = 0;
}

static void settings_from(const char *directory)
{
    const char *text = directory ? directory : secure_getenv("HOP_CACHE");
    cache.off = text && !strcmp(text, "off");
    cache.directory[0] = 0;
    if (cache.off || !may_use_files() || (text && !strcmp(text, "memory"))) return;
    if (!text || !*text) default_directory(cache.directory);
    else set_directory(text, !directory);
}

static void lock(void)
{
    pthread_mutex_lock(&cache.lock);
    if (cache.known) return;
    settings_from(NULL);
    cache.disk_limit = memory_size_of(secure_getenv("HOP_CACHE_SIZE"), cache.disk_limit);
    cache.known = true;
}
static void unlock(void) { pthread_mutex_unlock(&cache.lock); }

static bool cache_wanted(void)
{
    lock();
    bool wanted = !cache.off;
    unlock();
    return wanted;
}

static uint64_t weight(const struct code *c) { return c->block_bytes + c->program.code.bytes; }

static void unlink_use(struct code *c)
{
    *(c->newer ? &c->newer->older : &cache.newest) = c->older;
    *(c->older ? &c->older->newer : &cache.oldest) = c->newer;
}

static void link_newest(struct code *c)
{
    c->newer = NULL;
    c->older = cache.newest;
    *(cache.newest ? &cache.newest->newer : &cache.oldest) = c;
    cache.newest = c;
}

/* What the table alone holds does not count as live: it is two blocks. */
static struct code *table_drop(struct code *c)
{
    struct code **at = &cache.buckets[c->hash[0] % BUCKETS];
    while (*at != c) at = &(*at)->chain;
    *at = c->chain;
    unlink_use(c);
    cache.bytes -= weight(c);
    cache.entries--;
    c->kept = false;
    hop_count_live(2);
    return c;
}

static void table_shrink(uint64_t limit)
{
    while (cache.oldest && cache.bytes > limit) code_free(table_drop(cache.oldest));
}

static struct code *table_find(const struct cache_key *k)
{
    size_t n = k->canon.words.len * sizeof(uint32_t);
    for (struct code *c = cache.buckets[k->hash[0] % BUCKETS]; c; c = c->chain) {
        bool same_hash = c->hash[0] == k->hash[0] && c->hash[1] == k->hash[1];
        if (same_hash && c->key_bytes == n && !memcmp(c->key, k->canon.words.data, n)) return c;
    }
    return NULL;
}

static void table_add(const struct cache_key *k, struct code *c)
{
    if (cache.off || weight(c) > cache.memory_limit / 2) return;
    struct code *equal = table_find(k);
    if (equal) code_free(table_drop(equal));
    c->chain = cache.buckets[c->hash[0] % BUCKETS];
    cache.buckets[c->hash[0] % BUCKETS] = code_ref(c);
    link_newest(c);
    cache.bytes += weight(c);
    cache.entries++;
    c->kept = true;
    hop_count_live(-2);
    table_shrink(cache.memory_limit);
}

/* ---- looking and keeping ---- */

/* The library that generated the code is still the one that it was. */
static bool maker_unchanged(const struct code *c)
{
    const struct entry_header *h = (const struct entry_header *)c->block;
    uint64_t size, when;
    if (!h->maker_bytes || code_maker(c)[h->maker_bytes - 1]) return false;
    file_stamp(code_maker(c), &size, &when);
    return size == h->maker_size && when == h->maker_time;
}

static struct code *find_on_disk(const struct cache_key *k, const char *directory)
{
    size_t n = 0, key_bytes = k->canon.words.len * sizeof(uint32_t);
    void *memory = NULL;
    char error[512];
    unsigned char *block = disk_read(directory, k->hash, &n, &memory);
    if (!block) return NULL;
    struct code *c = cache_entry_valid(block, n) ? hop_try_malloc(sizeof *c) : NULL;
    if (!c) {
        hop_free(memory);
        return NULL;
    }
    *c = (struct code){ .refs = 1, .block = block, .block_bytes = n, .memory = memory };
    memcpy(c->hash, k->hash, sizeof c->hash);
    code_parts(c);
    bool same_key = c->key_bytes == key_bytes && !memcmp(c->key, k->canon.words.data, key_bytes);
    bool usable = same_key && maker_unchanged(c);
    if (usable && !llvm_backend.load(c->object, c->object_bytes, NULL, &c->program, error)) return c;
    code_free(c);
    return NULL;
}

struct code *cache_find(const struct cache_key *k, enum code_origin *origin)
{
    char directory[PATH_MAX];
    if (!k->usable) return NULL;
    lock();
    struct code *c = table_find(k);
    if (c) {
        unlink_use(c);
        link_newest(c);
        code_ref(c);
        cache.counts.memory_hits++;
    }
    memcpy(directory, cache.directory, sizeof directory);
    if (!cache.disk_limit) directory[0] = 0;
    unlock();
    *origin = CODE_FROM_MEMORY;
    if (c || !directory[0]) return c;
    c = find_on_disk(k, directory);
    if (!c) return NULL;
    *origin = CODE_FROM_DISK;
    lock();
    cache.counts.disk_hits++;
    table_add(k, c);
    unlock();
    return c;
}

void cache_missed(void)
{
    lock();
    cache.counts.misses++;
    unlock();
}

void cache_keep(const struct cache_key *k, struct code *c, bool on_disk)
{
    char directory[PATH_MAX];
    if (!k->usable) return;
    struct entry_header *h = (struct entry_header *)c->block;
    if (!h->checksum[0] && !h->checksum[1]) entry_checksum(c->block, c->block_bytes, h->checksum);
    lock();
    table_add(k, c);
    memcpy(directory, cache.directory, sizeof directory);
    uint64_t limit = cache.disk_limit;
    unlock();
    if (on_disk && directory[0] && limit) disk_write(directory, k->hash, c->block, c->block_bytes, limit);
}

/* ---- settings ---- */

void cache_clear_memory(void)
{
    lock();
    table_shrink(0);
    unlock();
}

void cache_set_directory(const char *directory)
{
    if (directory && strlen(directory) >= PATH_MAX)
        hop_throw(HOP_INVALID, "the name of the cache's directory has more than %d bytes", PATH_MAX - 1);
    lock();
    settings_from(directory);
    if (cache.off) table_shrink(0);
    unlock();
}

void cache_set_limits(uint64_t memory, uint64_t disk)
{
    lock();
    if (memory != UINT64_MAX) cache.memory_limit = memory;
    if (disk != UINT64_MAX) cache.disk_limit = disk;
    table_shrink(cache.memory_limit);
    unlock();
}

bool cache_directory(char *out, size_t size)
{
    lock();
    snprintf(out, size, "%s", cache.directory);
    unlock();
    return *out;
}

uint64_t cache_disk_limit(void)
{
    lock();
    uint64_t limit = cache.disk_limit;
    unlock();
    return limit;
}

void cache_statistics(hop_cache_stats *out)
{
    lock();
    *out = cache.counts;
    out->entries = cache.entries;
    out->bytes = cache.bytes;
    out->limit = cache.memory_limit;
    unlock();
}

void cache_describe(char *out, size_t size)
{
    char directory[PATH_MAX], why[256];
    lock();
    bool off = cache.off;
    memcpy(directory, cache.directory, sizeof directory);
    unlock();
    if (off) snprintf(out, size, "off");
    else if (!directory[0]) snprintf(out, size, "in memory only");
    else if (!disk_usable(directory, false, why) && access(directory, F_OK) == 0)
        snprintf(out, size, "in memory only: %s", why);
    else snprintf(out, size, "%s", directory);
}
