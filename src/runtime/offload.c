/* Memory whose content lies in a file: mapped, so that programs read and write it like any other, and dropped
 * piece by piece when they say that they do not need it for a while. */
#include "runtime/offload.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

const char *offload_directory(void)
{
    const char *chosen = secure_getenv("HOP_OFFLOAD");
    if (!chosen || !*chosen) chosen = secure_getenv("TMPDIR");
    return chosen && *chosen ? chosen : "/tmp";
}

static int open_file(void)
{
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/hop-XXXXXX", offload_directory());
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

/* Takes blocks for the bytes from `from` to `to`: writing into a mapped file that has none ends the process
 * when the disk is full. */
static int take_blocks(int fd, size_t from, size_t to)
{
    static const char zeros[OFFLOAD_PIECE];
    struct rlimit limit;
    /* or the system would end the process with a signal */
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY && to > limit.rlim_cur)
        return EFBIG;
    if (to > (size_t)INT64_MAX / 2) return EFBIG;
#ifdef __linux__
    int status = posix_fallocate(fd, (off_t)from, (off_t)(to - from));
    if (status != EINVAL && status != EOPNOTSUPP) return status;
#endif
    while (from < to) {
        ssize_t n = pwrite(fd, zeros, HOP_MIN(sizeof zeros, to - from), (off_t)from);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : ENOSPC;
        from += (size_t)n;
    }
    return 0;
}

int offload_reserve(struct offload_file *f, size_t bytes)
{
    bool fresh = !f->bytes;
    if (bytes <= f->bytes) return 0;
    if (fresh) f->fd = open_file();
    if (f->fd < 0) return errno;
    int status = take_blocks(f->fd, f->bytes, bytes);
    if (status && fresh) close(f->fd);
    if (!status) f->bytes = bytes;
    return status;
}

int offload_map(struct offload_file *f)
{
    void *data = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
    if (data == MAP_FAILED) return errno;
    f->data = data;
    return 0;
}

void offload_unmap(const struct offload_file *f)
{
    if (f->data) munmap(f->data, f->bytes);
}

void offload_drop(const struct offload_file *f, const char *at, size_t bytes, bool again)
{
    size_t first = (size_t)(at - f->data), end = first + bytes;
    if (first / OFFLOAD_PIECE == end / OFFLOAD_PIECE) return;
    first = first / OFFLOAD_PIECE * OFFLOAD_PIECE;
    end = HOP_MIN((end + OFFLOAD_PIECE - 1) / OFFLOAD_PIECE * OFFLOAD_PIECE, f->bytes);
    /* Neither can fail in a way that matters: the content is in the file anyway. */
#ifdef __linux__
    if (again) sync_file_range(f->fd, (off_t)first, (off_t)(end - first), SYNC_FILE_RANGE_WRITE);
#endif
    madvise(f->data + first, end - first, MADV_DONTNEED);
}

void offload_close(struct offload_file *f)
{
    offload_unmap(f);
    if (f->bytes) close(f->fd);
    *f = (struct offload_file){ 0 };
}
