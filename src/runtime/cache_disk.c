/* The files of the cache: one directory of this user's with one file for each compiled program, named by the
 * hash of its key. A file is written under a name of its own and renamed, so that it is there whole or not at
 * all; it is read into memory, never mapped, so that nobody can change or cut it afterwards. Nothing is
 * followed or trusted that another user could have put there. */
#include "runtime/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char suffix[] = ".hopc", temporary[] = ".new-";
enum { NAME_DIGITS = 32, STALE_SECONDS = 3600, TOUCH_SECONDS = 60, SHARE_PER_SCAN = 64 };
static const uint64_t LARGEST_FILE = (uint64_t)1 << 30;

void cache_file_name(const uint64_t hash[2], char name[40])
{
    snprintf(name, 40, "%016llx%016llx%s", (unsigned long long)hash[1], (unsigned long long)hash[0], suffix);
}

/* What a file takes of the limit: whole blocks, since most entries are small. */
static uint64_t taken(uint64_t bytes) { return (bytes + 4095) & ~(uint64_t)4095; }

static bool is_entry_name(const char *name)
{
    return strspn(name, "0123456789abcdef") == NAME_DIGITS && !strcmp(name + NAME_DIGITS, suffix);
}

static void make_directories(const char *path)
{
    char part[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof part) return;
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (path[i] && path[i] != '/') continue;
        part[i] = 0;
        mkdir(part, 0700); /* whether that helped shows when it is opened */
        part[i] = path[i];
    }
}

/* The directory, opened, when it is one that nobody but this user can change; -1 and why. */
static int open_directory(const char *path, bool create, char why[256])
{
    struct stat st;
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, fd = open(path, flags);
    if (fd < 0 && errno == ENOENT && create) {
        make_directories(path);
        fd = open(path, flags);
    }
    if (fd < 0) {
        bool link = (errno == ELOOP || errno == ENOTDIR) && !lstat(path, &st) && S_ISLNK(st.st_mode);
        snprintf(why, 256, "%.200s: %s", path, link ? "is a symbolic link" : strerror(errno));
        return -1;
    }
    const char *wrong = NULL;
    if (fstat(fd, &st)) wrong = strerror(errno);
    else if (st.st_uid != geteuid()) wrong = "belongs to another user";
    else if (st.st_mode & 022) wrong = "others may write to it";
    if (!wrong) return fd;
    snprintf(why, 256, "%.200s: %s", path, wrong);
    close(fd);
    return -1;
}

bool disk_usable(const char *directory, bool create, char why[256])
{
    int fd = open_directory(directory, create, why);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* ---- reading ---- */

static unsigned char *read_all(int fd, size_t n, void **memory)
{
    *memory = hop_try_malloc(n + 64);
    if (!*memory) return NULL;
    unsigned char *block = (unsigned char *)(((uintptr_t)*memory + 63) & ~(uintptr_t)63);
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, block + at, n - at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) { /* shorter than it was when we asked */
            hop_free(*memory);
            *memory = NULL;
            return NULL;
        }
        at += (size_t)got;
    }
    return block;
}

static bool good_file(int fd, struct stat *st)
{
    if (fstat(fd, st) || !S_ISREG(st->st_mode)) return false;
    if (st->st_uid != geteuid() || st->st_mode & 022) return false;
    return st->st_size > 0 && (uint64_t)st->st_size <= LARGEST_FILE;
}

/* The time of last use is the file's; it is set at most once a minute. */
static void note_use(int fd, const struct stat *st)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return;
    long long since = (long long)now.tv_sec - (long long)st->st_mtim.tv_sec;
    if (llabs(since) > TOUCH_SECONDS && futimens(fd, NULL)) errno = 0;
}

unsigned char *disk_read(const char *directory, const uint64_t hash[2], size_t *bytes, void **memory)
{
    char name[40], why[256];
    struct stat st;
    unsigned char *block = NULL;
    int dir = open_directory(directory, false, why);
    if (dir < 0) return NULL;
    cache_file_name(hash, name);
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && good_file(fd, &st)) block = read_all(fd, (size_t)st.st_size, memory);
    if (block) {
        *bytes = (size_t)st.st_size;
        note_use(fd, &st);
    }
    if (fd >= 0) close(fd);
    close(dir);
    return block;
}

/* ---- listing and removing ---- */

static int by_use(const void *a, const void *b)
{
    const struct cache_file *x = a, *y = b;
    if (x->used_ns != y->used_ns) return x->used_ns < y->used_ns ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void close_stream(void *stream) { closedir(stream); }

/* Takes over the descriptor. Throws HOP_NOMEM. Files that a writer left behind go. */
static void scan(int dir, struct arena *a, struct cache_files *out)
{
    DIR *stream = fdopendir(dir);
    if (!stream) {
        close(dir);
        return;
    }
    hop_cleanup_push(close_stream, stream);
    for (struct dirent *d; (d = readdir(stream));) {
        struct stat st;
        bool entry = is_entry_name(d->d_name), left = !strncmp(d->d_name, temporary, sizeof temporary - 1);
        if ((!entry && !left) || fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
            continue;
        if (left && st.st_mtim.tv_sec + STALE_SECONDS < time(NULL)) unlinkat(dir, d->d_name, 0);
        if (!entry) continue;
        struct cache_file f = { .bytes = (uint64_t)st.st_size,
                                .used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec };
        memcpy(f.name, d->d_name, strlen(d->d_name) + 1);
        vec_push(a, &out->list, f);
        out->bytes += taken(f.bytes);
    }
    if (out->list.len) qsort(out->list.data, out->list.len, sizeof *out->list.data, by_use);
    hop_cleanup_pop(stream);
    closedir(stream);
}

bool disk_list(const char *directory, struct arena *a, struct cache_files *out, char why[256])
{
    *out = (struct cache_files){ 0 };
    int dir = open_directory(directory, false, why);
    if (dir < 0) return false;
    scan(dir, a, out);
    return true;
}

/* Removes the files used longest ago until `limit` bytes are left; returns how many. */
static uint64_t shrink(int dir, uint64_t limit)
{
    struct arena arena = { 0 };
    struct hop_catch caught;
    volatile uint64_t removed = 0;
    if (HOP_TRY(caught)) {
        hop_cleanup_push(arena_free, &arena);
        struct cache_files files = { 0 };
        int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (copy >= 0) scan(copy, &arena, &files);
        for (uint32_t i = 0; i < files.list.len && files.bytes > limit; i++) {
            files.bytes -= taken(
                files.list.data[i].bytes); /* another process may have been faster: it is gone all the same */
            if (!unlinkat(dir, files.list.data[i].name, 0)) removed++;
        }
        hop_cleanup_pop(&arena);
        arena_free(&arena);
        hop_catch_end(&caught);
    }
    return removed;
}

bool disk_clear(const char *directory, uint64_t *removed, char why[256])
{
    int dir = open_directory(directory, false, why);
    *removed = 0;
    if (dir < 0) return false;
    *removed = shrink(dir, 0);
    close(dir);
    return true;
}

/* ---- writing ---- */

static bool write_all(int fd, const unsigned char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t put = write(fd, bytes + at, n - at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += (size_t)put;
    }
    return true;
}

/* Past the limit of file sizes a write would end the process with a signal. */
static bool may_be_written(size_t n)
{
    struct rlimit limit;
    if (n > LARGEST_FILE) return false;
    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY || n <= limit.rlim_cur;
}

bool disk_write(const char *directory, const uint64_t hash[2], const void *bytes, size_t n, uint64_t limit)
{
    static _Atomic uint64_t serial;
    char why[256], name[40], fresh[80];
    struct timespec now = { 0 };
    if (n > limit / 2 || !may_be_written(n)) return false;
    int dir = open_directory(directory, true, why);
    if (dir < 0) return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    cache_file_name(hash, name);
    snprintf(fresh, sizeof fresh, "%s%ld-%llx-%lx", temporary, (long)getpid(), (unsigned long long)serial++,
             (unsigned long)now.tv_nsec);
    int fd = openat(dir, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write_all(fd, bytes, n);
    if (fd >= 0) written = !close(fd) && written;
    if (written) written = !renameat(dir, fresh, dir, name);
    if (fd >= 0 && !written) unlinkat(dir, fresh, 0);
    /* Adding up the directory costs a look at every file: done in proportion to what is written, so that on
     * average the limit is passed by a small share. */
    uint64_t share = limit / SHARE_PER_SCAN, draw = hash_mix(hash[0], (uint64_t)now.tv_nsec);
    if (written && (taken(n) >= share || draw % share < taken(n))) shrink(dir, limit - limit / 8);
    close(dir);
    return written;
}
