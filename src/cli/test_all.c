/* hop test over files and directories. Worker processes take files from a common counter and send back a
 * report for each, so that a crash or an endless loop in one program is a failure of that program and not of
 * the run. Reports are printed in the order of the files. */
#include "check/test.h"
#include "cli/cli.h"
#include "runtime/cache.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_SECONDS = 300, MOST_WORKERS = 64 };

/* ---- finding files ---- */

static int compare_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void close_directory(void *d) { closedir(d); }

static void find_files(struct options *o, const char *path, bool named)
{
    struct stat st;
    if (stat(path, &st)) hop_throw(HOP_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode)) {
        size_t n = strlen(path);
        if (named || (n > 4 && !strcmp(path + n - 4, ".hop"))) vec_push(&o->bag.arena, &o->files, path);
        return;
    }
    vec(char *) names = { 0 };
    DIR *d = opendir(path);
    if (!d) hop_throw(HOP_IO, "%s: %s", path, strerror(errno));
    hop_cleanup_push(close_directory, d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            vec_push(&o->bag.arena, &names,
                     arena_printf(&o->bag.arena, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/",
                                  e->d_name));
    hop_cleanup_pop(d);
    closedir(d);
    if (names.len) qsort(names.data, names.len, sizeof *names.data, compare_name);
    for (uint32_t i = 0; i < names.len; i++) find_files(o, names.data[i], false);
}

/* ---- workers ---- */

struct shared {
    atomic_uint next;                  /* file to take */
    atomic_uint current[MOST_WORKERS]; /* file + 1 that a worker is at, 0: none */
};
struct file_report {
    uint32_t file, passed, failed, length; /* length bytes of text follow */
};
struct worker {
    pid_t pid;
    int in; /* reports come from here; -1: none */
};
struct run_all {
    struct options *o;
    struct shared *shared;
    struct worker workers[MOST_WORKERS];
    uint32_t n_workers, printed;
    struct file_report *reports; /* per file */
    char **texts;                /* per file, NULL: not there yet */
    uint64_t passed, failed;
    bool compiled, terminal;
};

static bool write_all(int fd, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static bool read_all(int fd, void *data, size_t n)
{
    for (char *p = data; n;) {
        ssize_t k = read(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static void work(const struct run_all *all, uint32_t index, int out)
{
    struct options *o = all->o;
    for (uint32_t i; (i = atomic_fetch_add(&all->shared->next, 1)) < o->files.len;) {
        struct arena arena = { 0 };
        struct text text = { .arena = &arena };
        struct test_run run = { .path = o->files.data[i],
                                .verbose = option_on(o, O_VERBOSE),
                                .quick = option_on(o, O_QUICK),
                                .compiled = all->compiled,
                                .backend = o->backend,
                                .emitted_c = option_on(o, O_C),
                                .without = o->without,
                                .out = &text };
        atomic_store(&all->shared->current[index], i + 1);
        alarm(FILE_SECONDS);
        test_file(&run);
        alarm(0);
        struct file_report head = { i, run.passed, run.failed, (uint32_t)text.len };
        if (!write_all(out, &head, sizeof head) || (text.len && !write_all(out, text.data, text.len))) break;
        atomic_store(&all->shared->current[index], 0);
        arena_free(&arena);
    }
    close(out);
}

static void start_worker(struct run_all *all, uint32_t index)
{
    int ends[2];
    if (pipe(ends)) hop_throw(HOP_IO, "a pipe could not be made: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) hop_throw(HOP_IO, "a process could not be started: %s", strerror(errno));
    if (!pid) {
        close(ends[0]);
        for (uint32_t w = 0; w < all->n_workers; w++)
            if (all->workers[w].in >= 0) close(all->workers[w].in);
        work(all, index, ends[1]);
        options_free(all->o);
        exit(0); /* not _exit: leak checkers look here */
    }
    close(ends[1]);
    all->workers[index] = (struct worker){ pid, ends[0] };
}

static void print_ready(struct run_all *all)
{
    for (; all->printed < all->o->files.len && all->texts[all->printed]; all->printed++) {
        const struct file_report *r = &all->reports[all->printed];
        if (all->terminal) fprintf(stderr, "\r\033[K");
        fputs(all->texts[all->printed], stdout);
        if (option_on(all->o, O_VERBOSE))
            printf("%s: %u passed, %u failed\n", all->o->files.data[all->printed], r->passed, r->failed);
    }
    if (all->terminal) fprintf(stderr, "\r\033[K%u/%u", all->printed, all->o->files.len);
    fflush(stdout);
}

static void take_report(struct run_all *all, struct file_report head, char *text)
{
    all->reports[head.file] = head;
    all->texts[head.file] = text;
    all->passed += head.passed;
    all->failed += head.failed;
    print_ready(all);
}

/* A worker that ended in the middle of a file has crashed there; another one takes its place. */
static void worker_ended(struct run_all *all, uint32_t index)
{
    int status = 0;
    struct worker *w = &all->workers[index];
    close(w->in);
    w->in = -1;
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) {}
    uint32_t at = atomic_exchange(&all->shared->current[index], 0);
    if (!at && WIFEXITED(status) && !WEXITSTATUS(status)) return;
    struct arena *a = &all->o->bag.arena;
    char *what;
    if (!WIFSIGNALED(status)) what = arena_printf(a, "ended with code %d", WEXITSTATUS(status));
    else if (WTERMSIG(status) == SIGALRM) what = arena_printf(a, "took more than %d seconds", FILE_SECONDS);
    else what = arena_printf(a, "crashed: %s", strsignal(WTERMSIG(status)));
    if (at && !all->texts[at - 1]) {
        take_report(all, (struct file_report){ at - 1, 0, 1, 0 },
                    arena_printf(a, "%s:1: %s\n", all->o->files.data[at - 1], what));
    } else {
        all->failed++;
        printf("a test process %s\n", what);
    }
    if (atomic_load(&all->shared->next) < all->o->files.len) start_worker(all, index);
}

static void collect(struct run_all *all)
{
    for (;;) {
        struct pollfd polled[MOST_WORKERS];
        uint32_t open = 0;
        for (uint32_t w = 0; w < all->n_workers; w++) {
            polled[w] = (struct pollfd){ .fd = all->workers[w].in, .events = POLLIN };
            open += all->workers[w].in >= 0;
        }
        if (!open) return;
        if (poll(polled, all->n_workers, -1) < 0 && errno != EINTR)
            hop_throw(HOP_IO, "waiting for the test processes: %s", strerror(errno));
        for (uint32_t w = 0; w < all->n_workers; w++) {
            if (polled[w].fd < 0 || !polled[w].revents) continue;
            struct file_report head;
            char *text = NULL;
            bool good = read_all(polled[w].fd, &head, sizeof head);
            if (good) {
                text = arena_alloc(&all->o->bag.arena, head.length + 1u);
                good = read_all(polled[w].fd, text, head.length);
                text[good ? head.length : 0] = 0;
            }
            if (good) take_report(all, head, text);
            else worker_ended(all, w);
        }
    }
}

int command_test(struct options *o)
{
    uint32_t n_given = o->files.len;
    const char **given = arena_copy(&o->bag.arena, o->files.data, n_given * sizeof *given);
    o->files.len = 0;
    for (uint32_t i = 0; i < n_given; i++) find_files(o, given[i], true);
    /* what is tested is compiled, and its many variants push nothing out of the user's cache */
    if (!getenv("HOP_CACHE")) cache_set_directory("off");
    setenv("HOP_DEBUG", "verify", 0); /* what each pass makes is verified */
    struct run_all all = { .o = o,
                           .terminal = isatty(STDERR_FILENO),
                           .compiled = !option_on(o, O_INTERPRET) && !option_on(o, O_C) && exe_available() };
    if (!all.compiled && !option_on(o, O_INTERPRET) && !option_on(o, O_C))
        fprintf(stderr, "hop: nothing is compiled: %s\n", hop_message());
    all.shared = mmap(NULL, sizeof *all.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all.shared == MAP_FAILED) hop_throw(HOP_NOMEM, "no memory to share with the test processes");
    all.reports = ARENA_ZNEW(&o->bag.arena, struct file_report, o->files.len);
    all.texts = ARENA_ZNEW(&o->bag.arena, char *, o->files.len);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t jobs = o->jobs ? o->jobs : (uint32_t)HOP_MAX(cores, 1);
    all.n_workers = HOP_MIN(HOP_MIN(jobs, (uint32_t)MOST_WORKERS), o->files.len);
    for (uint32_t w = 0; w < all.n_workers; w++) all.workers[w].in = -1;
    for (uint32_t w = 0; w < all.n_workers; w++) start_worker(&all, w);
    collect(&all);
    munmap(all.shared, sizeof *all.shared);
    if (all.terminal) fprintf(stderr, "\r\033[K");
    printf("%llu passed, %llu failed\n", (unsigned long long)all.passed, (unsigned long long)all.failed);
    return all.failed ? EXIT_FAILED : EXIT_OK;
}
