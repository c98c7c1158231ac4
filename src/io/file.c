/* Files as a whole: reading one into memory or mapping it, and writing one so that it appears complete or not
 * at all. Paths come in; bytes, or errors that name the path, go out. */
#include "io/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Below this, reading is cheaper than mapping. */
enum { MAP_FROM = 1 << 16, LARGEST_WRITE = 1 << 30, TEMPORARY_TRIES = 100 };

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
    return "something else";
}

static void close_descriptor(void *fd) { close(*(int *)fd); }

/* ---- reading ---- */

static struct io_file *file_new(const char *path)
{
    size_t length = strlen(path);
    struct io_file *f = hop_calloc(1, sizeof *f + length + 1);
    f->refs = 1;
    memcpy(f->path, path, length);
    return f;
}

struct io_file *io_file_ref(struct io_file *f)
{
    __atomic_fetch_add(&f->refs, 1, __ATOMIC_RELAXED);
    return f;
}

void io_file_free(void *file)
{
    struct io_file *f = file;
    if (!f || __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (f->mapped) munmap(f->data, f->size);
    else hop_free(f->data);
    hop_free(f);
}

static void read_all(struct io_file *f, int fd)
{
    size_t done = 0;
    f->data = hop_malloc(f->size);
    while (done < f->size) {
        ssize_t n = read(fd, f->data + done, HOP_MIN(f->size - done, (size_t)LARGEST_WRITE));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) hop_throw(HOP_IO, "%s: cannot be read: %s", f->path, strerror(errno));
        if (!n)
            hop_throw(HOP_IO, "%s: expected %zu bytes, found %zu: it became shorter while it was read",
                      f->path, f->size, done);
        done += (size_t)n;
    }
}

struct io_file *io_file_open(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
                            O_NOCTTY); /* without waiting for somebody to open the other end of a pipe */
    if (fd < 0) hop_throw(HOP_IO, "%s: cannot be opened: %s", path, strerror(errno));
    hop_cleanup_push(close_descriptor, &fd);
    if (fstat(fd, &st)) hop_throw(HOP_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        hop_throw(HOP_IO, "%s: expected a regular file, found %s", path, kind_of(st.st_mode));
    if (!st.st_size) hop_throw(HOP_INVALID, "%s: the file is empty", path);
    struct io_file *f = file_new(path);
    hop_cleanup_push(io_file_free, f);
    f->size = (size_t)st.st_size;
    if (f->size >= MAP_FROM) {
        /* private and writable: whoever writes to the tensor gets pages of his own */
        void *data = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
        if (data != MAP_FAILED) {
            f->data = data;
            f->mapped = true;
        }
    }
    if (!f->mapped) read_all(f, fd);
    hop_cleanup_pop(f);
    hop_cleanup_pop(&fd);
    close(fd);
    return f;
}

struct io_file *io_file_copy(const char *path, const void *data, size_t size)
{
    struct io_file *f = file_new(path);
    hop_cleanup_push(io_file_free, f);
    f->data = hop_malloc(size);
    f->size = size;
    if (size) memcpy(f->data, data, size);
    hop_cleanup_pop(f);
    return f;
}

/* ---- writing ---- */

static void writer_abandon(void *writer)
{
    struct io_writer *w = writer;
    if (w->fd >= 0) close(w->fd);
    if (w->temporary) unlink(w->temporary);
    arena_free(&w->arena);
}

static _Noreturn void cannot_write(const struct io_writer *w, const char *why)
{
    hop_throw(HOP_IO, "%s: cannot be written: %s", w->path, why);
}

/* The file itself when the path is a link to it, so that the link stays. */
static void find_target(struct io_writer *w, mode_t *mode, bool *exists)
{
    struct stat st;
    w->target = w->path;
    *exists = !stat(w->path, &st);
    if (!*exists && errno != ENOENT) cannot_write(w, strerror(errno));
    if (!*exists) return;
    if (!S_ISREG(st.st_mode))
        hop_throw(HOP_IO, "%s: cannot be written: expected a regular file or none, found %s", w->path,
                  kind_of(st.st_mode));
    if (access(w->path, W_OK)) cannot_write(w, strerror(errno));
    *mode = st.st_mode & 07777;
    char *real = realpath(w->path, NULL);
    if (!real) cannot_write(w, strerror(errno));
    hop_cleanup_push(free, real);
    w->target = arena_string(&w->arena, real, strlen(real));
    hop_cleanup_pop(real);
    free(real);
}

static char *folder_of(struct io_writer *w)
{
    const char *slash = strrchr(w->target, '/');
    if (!slash) return arena_string(&w->arena, "./", 2);
    return arena_string(&w->arena, w->target, (size_t)(slash - w->target) + 1);
}

void io_writer_begin(struct io_writer *w, const char *path)
{
    static atomic_uint serial;
    mode_t mode = 0;
    bool exists;
    *w = (struct io_writer){ .fd = -1 };
    hop_cleanup_push(writer_abandon, w);
    w->path = arena_string(&w->arena, path, strlen(path));
    find_target(w, &mode, &exists);
    const char *folder = folder_of(w);
    for (int try = 0; w->fd < 0; try++) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        const char *name = arena_printf(&w->arena, "%s.hop-%ld-%u-%lx.tmp", folder, (long)getpid(),
                                        atomic_fetch_add(&serial, 1), (unsigned long)now.tv_nsec);
        w->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (w->fd >= 0) w->temporary = name;
        else if (errno != EEXIST || try == TEMPORARY_TRIES)
            hop_throw(HOP_IO, "%s: cannot be written: no file can be made in '%s': %s", w->path, folder,
                      strerror(errno));
    }
    if (exists && fchmod(w->fd, mode)) cannot_write(w, strerror(errno));
}

void io_write(struct io_writer *w, const void *data, size_t size)
{
    const char *at = data;
    while (size) {
        ssize_t n = write(w->fd, at, HOP_MIN(size, (size_t)LARGEST_WRITE));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) cannot_write(w, strerror(errno));
        at += n;
        size -= (size_t)n;
        w->written += (uint64_t)n;
    }
}

void io_writer_finish(struct io_writer *w)
{
    if (fsync(w->fd)) cannot_write(w, strerror(errno));
    int failed = close(w->fd);
    w->fd = -1;
    if (failed) cannot_write(w, strerror(errno));
    const char *folder = folder_of(w);
    if (rename(w->temporary, w->target)) cannot_write(w, strerror(errno));
    w->temporary = NULL;
    /* The new name lasts once the folder is on disk; the content is complete either way, so that failing here
     * is no failure of the write. */
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    hop_cleanup_pop(w);
    writer_abandon(w);
}
