/* The cache of compiled code: what is shared and what is not, in memory and in files; entries that are
 * damaged, forged, planted or out of reach are misses and never wrong results; limits, races among threads
 * and processes, failing allocations; and the loader of objects on objects that are not what they should be.
 */
#include "check.h"
#include "emit/emit.h"
#include "ir/text.h"
#include "runtime/cache.h"
#include "runtime/exe_impl.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
enum { FORGERIES = 1500 };
#else
enum { FORGERIES = 20000 };
#endif

static char root[PATH_MAX], dir[PATH_MAX + 32];
static uint64_t noise_state = 88172645463325252u;
static uint64_t noise(void)
{
    return noise_state ^= noise_state << 13, noise_state ^= noise_state >> 7,
           noise_state ^= noise_state << 17;
}

static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        char inner[PATH_MAX + 300];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (unlink(inner)) remove_tree(inner);
    }
    if (d) closedir(d);
    rmdir(path);
}

/* An empty cache in a directory of its own. */
static void fresh(const char *name)
{
    snprintf(dir, sizeof dir, "%s/%s", root, name);
    remove_tree(dir);
    cache_set_directory(dir);
    cache_set_limits((uint64_t)64 << 20, (uint64_t)256 << 20);
    cache_clear_memory();
}

static hop_cache_stats stats(void)
{
    hop_cache_stats s;
    cache_statistics(&s);
    return s;
}

/* ---- one program, compiled and run ---- */

enum source { COMPILED, MEMORY, DISK, BROKEN };
static const char *const source_names[] = { "compiled", "memory", "disk", "an error" };

struct one_run {
    const char *text;
    struct compile_options options;
    float x[4];
    float y[4]; /* out */
    enum source from;
    struct exe **keep; /* not NULL: the executable is left here */
};

static void do_once(void *ctx)
{
    struct one_run *o = ctx;
    struct compile_report report;
    struct module *m = text_read("program.hop", o->text, strlen(o->text));
    hop_cleanup_push(module_free, m);
    struct exe *e = exe_compile(m, module_find(m, "main"), &o->options, &report);
    hop_cleanup_pop(m);
    module_free(m); /* the executable needs nothing of it */
    hop_cleanup_push(exe_free, e);
    struct tensor *x = tensor_new(DT_F32, 1, (int64_t[]){ 4 }), *y = NULL;
    memcpy(x->data, o->x, sizeof o->x);
    hop_cleanup_push(tensor_free, x);
    exe_run(e, &x, NULL, &y, &(struct exe_call){ 0 });
    memcpy(o->y, y ? y->data : x->data, sizeof o->y); /* computed in the argument where the options say so */
    tensor_free(y);
    hop_cleanup_pop(x);
    tensor_free(x);
    hop_cleanup_pop(e);
    o->from = report.origin == CODE_FROM_MEMORY ? MEMORY : report.origin == CODE_FROM_DISK ? DISK : COMPILED;
    if (o->keep) *o->keep = e;
    else exe_free(e);
}

static struct one_run once_of(const char *text, struct compile_options options)
{
    struct one_run o = { .text = text, .options = options, .x = { 1, -2, 3, 0.5f } };
    if (attempt(do_once, &o)) o.from = BROKEN;
    return o;
}

/* x -> x * factor + 1 */
static const char *program(int factor)
{
    static _Thread_local char text[400];
    snprintf(text, sizeof text,
             "hop 1\nfn @main(%%x: f32[4]) -> (f32[4]) {\n  %%f = full {value = %d, dims = [4], dtype = "
             "f32}\n  %%o = full {value = 1, dims = [4], dtype = f32}\n  %%a = mul(%%x, %%f)\n  %%b = "
             "add(%%a, %%o)\n  return %%b\n}\n",
             factor);
    return text;
}
static bool right(const struct one_run *o, int factor)
{
    for (int i = 0; i < 4; i++)
        if (o->y[i] != o->x[i] * (float)factor + 1) return false;
    return true;
}
static void expect(int factor, enum source from, const char *what)
{
    struct one_run o = once_of(program(factor), (struct compile_options){ .threads = 1 });
    CLAIM(o.from == from, "%s: expected %s, found %s%s%s", what, source_names[from], source_names[o.from],
          o.from == BROKEN ? ": " : "", o.from == BROKEN ? hop_message() : "");
    CLAIM(right(&o, factor), "%s: the result is right", what);
}
static void expect_text(const char *text, struct compile_options options, enum source from, const char *what)
{
    struct one_run o = once_of(text, options);
    CLAIM(o.from == from, "%s: expected %s, found %s%s%s", what, source_names[from], source_names[o.from],
          o.from == BROKEN ? ": " : "", o.from == BROKEN ? hop_message() : "");
}

/* The only entry's path and content. */
static char entry_path[PATH_MAX + 80];
static unsigned char *entry_read(size_t *n)
{
    struct arena a = { 0 };
    struct cache_files files;
    char why[256] = "";
    bool good = disk_list(dir, &a, &files, why) && files.list.len == 1;
    CLAIM(good, "one entry in %s: %u %s", dir, files.list.len, why);
    if (good) snprintf(entry_path, sizeof entry_path, "%s/%s", dir, files.list.data[0].name);
    arena_free(&a);
    if (!good) return NULL;
    FILE *f = fopen(entry_path, "rb");
    unsigned char *bytes = malloc(1 << 20);
    *n = f ? fread(bytes, 1, 1 << 20, f) : 0;
    if (f) fclose(f);
    return bytes;
}
static void entry_write(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CLAIM(fd >= 0 && write(fd, bytes, n) == (ssize_t)n, "%s is written", path);
    if (fd >= 0) close(fd);
}
/* From files alone: memory forgets first. */
static void expect_cold(int factor, enum source from, const char *what)
{
    cache_clear_memory();
    expect(factor, from, what);
}

/* ---- what is one program and what is not ---- */

static void test_sharing(void)
{
    struct compile_options o = { .threads = 1 };
    fresh("sharing");
    expect(2, COMPILED, "the first time");
    expect(2, MEMORY, "the second time");
    expect_cold(2, DISK, "in another process");
    expect(2, MEMORY, "what came from a file is shared");
    expect(3, COMPILED, "another number");
    expect_text("hop 1\n\n\n# a remark\nfn @main(%x: f32[4]) -> (f32[4]) {\n  %factor = full {value = 2, "
                "dims = [4], dtype = f32}\n  %one = full {value = 1, dims = [4], dtype = f32}\n"
                "  %product = mul(%x, %factor)\n  %sum = add(%product, %one)\n  return %sum\n}\n",
                o, MEMORY, "names of inner values and lines do not count");
    expect_text("hop 1\nfn @other(%x: f32[4]) -> (f32[4]) {\n  %y = neg(%x)\n  return %y\n}\nfn @main(%x: "
                "f32[4]) -> (f32[4]) {\n  %f = full {value = 2, dims = [4], dtype = f32}\n"
                "  %o = full {value = 1, dims = [4], dtype = f32}\n  %a = mul(%x, %f)\n  %b = add(%a, %o)\n  "
                "return %b\n}\n",
                o, MEMORY, "other functions of the module do not count");
    expect_text("hop 1\nfn @main(%z: f32[4]) -> (f32[4]) {\n  %f = full {value = 2, dims = [4], dtype = "
                "f32}\n  %o = full {value = 1, dims = [4], dtype = f32}\n  %a = mul(%z, %f)\n"
                "  %b = add(%a, %o)\n  return %b\n}\n",
                o, COMPILED, "names of parameters stand in messages");
    expect_text(program(2), (struct compile_options){ .threads = 1, .passes = { .strict = true } }, COMPILED,
                "strict numbers are other code");
    expect_text(program(2),
                (struct compile_options){ .threads = 1, .passes = { .without = 1u << CHOICE_fuse } },
                COMPILED, "a pass left out");
    expect_text(program(2), (struct compile_options){ .threads = 2 }, COMPILED, "code for several threads");
    expect_text(program(2), (struct compile_options){ .threads = 3 }, MEMORY, "their number does not count");
    expect_text(program(2), (struct compile_options){ .threads = 1, .no_cache = true }, COMPILED, "no_cache");
    for (int i = 0; i < 3; i++) {
        if (i == 2) cache_clear_memory();
        struct one_run over = once_of(program(2),
                                      (struct compile_options){ .threads = 1, .over = (uint32_t[]){ 0 } });
        CLAIM(over.from == (enum source)i && right(&over, 2), "results in arguments are other code: %s",
              source_names[over.from]);
    }
    hop_cache_stats before = stats();
    expect_text(program(77), (struct compile_options){ .threads = 1, .no_cache = true }, COMPILED,
                "no_cache");
    expect_text(program(77), (struct compile_options){ .threads = 1, .no_cache = true }, COMPILED,
                "and keeps nothing");
    CLAIM(stats().entries == before.entries && stats().misses == before.misses, "and counts nowhere");
}

static void test_modes(void)
{
    struct stat st;
    fresh("modes");
    cache_set_directory("off");
    expect(2, COMPILED, "off");
    expect(2, COMPILED, "off keeps nothing");
    cache_set_directory("memory");
    expect(2, COMPILED, "memory");
    expect(2, MEMORY, "memory");
    expect_cold(2, COMPILED, "memory leaves no files");
    CLAIM(stat(dir, &st), "no directory is made");
    cache_set_directory(dir);
    cache_clear_memory();
    expect(2, COMPILED, "a directory");
    CLAIM(!stat(dir, &st) && (st.st_mode & 0777) == 0700, "the directory is the user's alone");
    expect_cold(2, DISK, "a directory");
    cache_set_limits(UINT64_MAX, 0);
    expect_cold(2, COMPILED, "no bytes for files");
}

/* ---- what a run needs besides the code ---- */

static void check_message(const char *text, const char *place, enum source from)
{
    struct one_run o = once_of(text, (struct compile_options){ .threads = 1 });
    CLAIM(o.from == BROKEN && strstr(hop_message(), place), "the failed check stands at %s: %s", place,
          hop_message());
    (void)from;
}

static void test_places(void)
{
    static const char one[] = "hop 1\nfn @main(%x: f32[4]) -> (f32[4]) {\n  %s = sum(%x)\n  %z = full {value "
                              "= 100, dims = [], dtype = f32}\n  %p = gt(%s, %z)\n"
                              "  check {message = \"too small\"} (%p, %s)\n  return %x\n}\n";
    static const char two[] = "hop 1\n\n\n\nfn @main(%x: f32[4]) -> (f32[4]) {\n  %s = sum(%x)\n  %z = full "
                              "{value = 100, dims = [], dtype = f32}\n  %p = gt(%s, %z)\n"
                              "  check {message = \"too small\"} (%p, %s)\n  return %x\n}\n";
    fresh("places");
    uint64_t misses = stats().misses;
    check_message(one, "program.hop:6:", COMPILED);
    check_message(two, "program.hop:9:", MEMORY);
    check_message(one, "program.hop:6:", MEMORY);
    cache_clear_memory();
    check_message(two, "program.hop:9:", DISK);
    CLAIM(stats().misses == misses + 1, "compiled once, each tells its own place");
}

static void floats_text(struct text *t, uint32_t n, uint32_t different)
{
    text_str(t, "[");
    for (uint32_t i = 0; i < n; i++) text_add(t, "%s%u", i ? ", " : "", i == different ? 1000 : i % 7);
    text_str(t, "]");
}

static void test_constants(void)
{
    struct arena a = { 0 };
    struct compile_options o = { .threads = 1 };
    static const uint32_t sizes[] = { 4, 4000 }; /* in the key, and by its hash */
    fresh("constants");
    for (uint32_t i = 0; i < HOP_COUNT(sizes); i++)
        for (int folded = 0; folded < 2; folded++) { /* used as it is, or only what the passes make of it */
            float want[2] = { 0 };
            const char *texts[2];
            for (uint32_t k = 0; k < 2; k++) {
                struct text t = { .arena = &a };
                text_add(&t, "hop 1\nconst @k: f32[%u] = ", sizes[i]);
                floats_text(&t, sizes[i], k ? sizes[i] / 2 : HOP_NONE);
                text_str(&t, "\nfn @main(%x: f32[4]) -> (f32[4]) {\n  %k = constant {value = @k} ()\n");
                if (folded) text_str(&t, "  %k2 = add(%k, %k)\n");
                text_add(&t,
                         "  %%s = sum(%%%s)\n  %%z = broadcast {dims = [4], at = []} (%%s)\n  %%i = full "
                         "{value = 3, dims = [4], dtype = i64}\n  %%t = take {dim = 0} (%%%s, %%i)\n  %%u = "
                         "mul(%%x, %%z)\n  %%y = add(%%u, %%t)\n  return %%y\n}\n",
                         folded ? "k2" : "k", folded ? "k2" : "k");
                texts[k] = t.data;
                for (uint32_t j = 0; j < sizes[i]; j++)
                    want[k] += (float)(k && j == sizes[i] / 2 ? 1000 : j % 7) * (float)(1 + folded);
            }
            for (int round = 0; round < 3; round++)
                for (uint32_t k = 0; k < 2; k++) {
                    if (round == 2) cache_clear_memory();
                    struct one_run r = once_of(texts[k], o);
                    enum source from = round == 0 ? COMPILED : round == 1 ? MEMORY : DISK;
                    CLAIM(r.from == from, "constant of %u, %s: expected %s, found %s %s", sizes[i],
                          k ? "one element differs" : "as it is", source_names[from], source_names[r.from],
                          r.from == BROKEN ? hop_message() : "");
                    float third = (float)(3 % 7 * (1 + folded));
                    CLAIM(r.y[0] == want[k] + third, "constant of %u, folded %d: %g, expected %g", sizes[i],
                          folded, (double)r.y[0], (double)(want[k] + third));
                }
        }
    arena_free(&a);
}

/* ---- damage ---- */

static void test_truncated(void)
{
    size_t n = 0;
    fresh("truncated");
    expect(5, COMPILED, "made");
    unsigned char *bytes = entry_read(&n);
    if (!bytes) return;
    for (size_t cut = 0; cut < n; cut += cut < 300 ? 1 : 61) {
        entry_write(entry_path, bytes, cut);
        expect_cold(5, COMPILED, "cut short");
    }
    unsigned char *longer = calloc(1, n + 64);
    memcpy(longer, bytes, n);
    for (size_t more = 1; more <= 64; more += 21) {
        entry_write(entry_path, longer, n + more);
        expect_cold(5, COMPILED, "with something behind it");
    }
    entry_write(entry_path, bytes, n);
    expect_cold(5, DISK, "whole again");
    free(longer);
    free(bytes);
}

static void test_flipped(void)
{
    size_t n = 0;
    fresh("flipped");
    expect(5, COMPILED, "made");
    unsigned char *bytes = entry_read(&n);
    if (!bytes) return;
    uint64_t hits = stats().disk_hits;
    for (int i = 0; i < 400; i++) {
        size_t at = i < 136 ? (size_t)i : noise() % n, count = i % 5 == 4 ? 1 + noise() % 20 : 1;
        unsigned char *copy = malloc(n);
        memcpy(copy, bytes, n);
        copy[at] ^= (unsigned char)(1u << noise() % 8);
        for (size_t k = 1; k < count; k++) copy[noise() % n] ^= (unsigned char)noise();
        CLAIM(!memcmp(copy, bytes, n) || !cache_entry_valid(copy, n), "flipped at %zu of %zu it is not valid",
              at, n);
        if (i % 8 == 0 && memcmp(copy, bytes, n)) {
            entry_write(entry_path, copy, n);
            expect_cold(5, COMPILED, "bits flipped");
        }
        free(copy);
    }
    CLAIM(stats().disk_hits == hits, "nothing damaged was used");
    expect_cold(5, DISK, "the last compilation mended it");
    free(bytes);
}

/* The file of one program under the name of another: as if their hashes were equal. */
static void test_forged(void)
{
    size_t n = 0, other = 0;
    fresh("forged");
    expect(6, COMPILED, "another program");
    unsigned char *six = entry_read(&n);
    fresh("forged");
    expect(5, COMPILED, "made");
    unsigned char *five = entry_read(&other);
    if (six && five) {
        entry_write(entry_path, six, n);
        expect_cold(5, COMPILED, "an entry of another program");
        expect_cold(5, DISK, "was written anew");
    }
    free(six);
    free(five);
}

static void restore(const void *bytes, size_t n)
{
    if (unlink(entry_path)) rmdir(entry_path);
    entry_write(entry_path, bytes, n);
    chmod(entry_path, 0600);
}

static void test_planted(void)
{
    size_t n = 0;
    char elsewhere[PATH_MAX + 80];
    struct stat st;
    fresh("planted");
    expect(5, COMPILED, "made");
    unsigned char *bytes = entry_read(&n);
    if (!bytes) return;
    CLAIM(!stat(entry_path, &st) && (st.st_mode & 0777) == 0600, "entries are the user's alone");
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", root);
    entry_write(elsewhere, bytes, n);
    unlink(entry_path);
    CLAIM(!symlink(elsewhere, entry_path), "a link is planted");
    expect_cold(5, COMPILED, "a symbolic link is not followed");
    CLAIM(!lstat(entry_path, &st) && S_ISREG(st.st_mode) && !stat(elsewhere, &st) && (size_t)st.st_size == n,
          "the link is replaced, what it led to is not touched");
    unlink(entry_path);
    CLAIM(!mkfifo(entry_path, 0600), "a pipe is planted");
    expect_cold(5, COMPILED, "a pipe is not waited for");
    restore(bytes, n);
    chmod(entry_path, 0622);
    expect_cold(5, COMPILED, "an entry that others may write to");
    unlink(entry_path);
    mkdir(entry_path, 0700);
    expect_cold(5, COMPILED, "a directory in its place");
    restore(bytes, n);
    expect_cold(5, DISK, "an entry as it should be");
    if (!geteuid()) {
        CLAIM(!chown(entry_path, 12345, (gid_t)-1), "given to another user");
        expect_cold(5, COMPILED, "an entry of another user's");
    }
    free(bytes);
}

static void expect_unused(const char *what, const char *why_not)
{
    char why[256] = "";
    CLAIM(!disk_usable(dir, true, why) && strstr(why, why_not), "%s: expected '%s', found '%s'", what,
          why_not, why);
    cache_clear_memory();
    expect(5, COMPILED, what);
    expect(5, MEMORY, what);
    expect_cold(5, COMPILED, what);
}

static void test_directory(void)
{
    char target[PATH_MAX + 80];
    fresh("directory");
    snprintf(target, sizeof target, "%s/target", root);
    mkdir(target, 0700);
    CLAIM(!symlink(target, dir), "linked");
    expect_unused("a directory that is a symbolic link", "symbolic link");
    unlink(dir);
    mkdir(dir, 0700);
    chmod(dir, 0770);
    expect_unused("a directory that others may write to", "others may write");
    chmod(dir, 0700);
    if (!geteuid()) {
        CLAIM(!chown(dir, 12345, (gid_t)-1), "given to another user");
        expect_unused("a directory of another user's", "another user");
        CLAIM(!chown(dir, 0, (gid_t)-1), "and back");
    }
    rmdir(dir);
    entry_write(dir, "x", 1);
    expect_unused("a file in its place", "");
    unlink(dir);
    snprintf(dir, sizeof dir, "%s/a/b/c", root);
    cache_set_directory(dir);
    cache_clear_memory();
    expect(5, COMPILED, "missing directories are made");
    expect_cold(5, DISK, "missing directories are made");
    if (geteuid()) { /* root may write anywhere */
        chmod(dir, 0500);
        expect_cold(5, DISK, "read-only: what is there is used");
        expect_cold(6, COMPILED, "read-only: nothing is added");
        expect_cold(6, COMPILED, "read-only: nothing is added");
        chmod(dir, 0700);
    }
    cache_set_directory("/proc/self/cannot/be/made");
    cache_clear_memory();
    expect(5, COMPILED, "a directory that cannot be made");
    expect(5, MEMORY, "a directory that cannot be made");
}

static uint32_t count_files(void)
{
    uint32_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d) closedir(d);
    return n;
}

/* Runs body in a process of its own; true when every claim in it held. */
static bool in_child(void (*body)(void))
{
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        tests_failed = 0;
        body();
        fflush(stdout);
        _exit(tests_failed != 0);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status);
}

static void with_small_files(void)
{
    struct rlimit limit = { 1000, 1000 };
    setrlimit(RLIMIT_FSIZE, &limit);
    expect(5, COMPILED, "no file may have more than 1000 bytes");
    expect(5, MEMORY, "no file may have more than 1000 bytes");
}

static void with_no_descriptors(void)
{
    struct rlimit limit = { 3, 3 };
    setrlimit(RLIMIT_NOFILE, &limit);
    expect_cold(6, COMPILED, "no descriptor is left");
}

static void test_limits_of_the_system(void)
{
    fresh("limits");
    expect(6, COMPILED, "with the back end loaded");
    CLAIM(in_child(with_small_files), "a limit of file sizes does not end the process");
    CLAIM(in_child(with_no_descriptors), "nor do descriptors that ran out");
    CLAIM(count_files() == 1, "nothing is left behind: %u files", count_files());
}

/* ---- size ---- */

static void test_eviction(void)
{
    struct arena a = { 0 };
    struct cache_files files;
    char why[256] = "", path[PATH_MAX + 80];
    fresh("eviction");
    expect(0, COMPILED, "made");
    CLAIM(disk_list(dir, &a, &files, why) && files.list.len == 1, "one entry");
    uint64_t size = files.bytes;
    cache_set_limits(UINT64_MAX, 10 * size + size / 2);
    for (int i = 1; i < 30; i++) {
        expect(i, COMPILED, "made");
        CLAIM(disk_list(dir, &a, &files, why) && files.bytes <= 10 * size + size / 2,
              "%d programs: %llu bytes of %llu", i, (unsigned long long)files.bytes,
              (unsigned long long)(10 * size));
        struct timespec old[2] = { { 1000 + i, 0 }, { 1000 + i, 0 } }; /* written in this order, long ago */
        for (uint32_t k = 0; k < files.list.len; k++) {
            if (files.list.data[k].used_ns < (int64_t)100000 * 1000000000) continue;
            snprintf(path, sizeof path, "%s/%s", dir, files.list.data[k].name);
            utimensat(AT_FDCWD, path, old, 0);
        }
        if (i > 2) { /* one that is used again and again stays */
            cache_clear_memory();
            expect(1, DISK, "used all the time");
        }
    }
    expect_cold(29, DISK, "the newest is there");
    expect_cold(3, COMPILED, "an old one has gone");
    uint64_t removed = 0;
    entry_write(path, "x", 1);
    snprintf(path, sizeof path, "%s/notes.txt", dir);
    entry_write(path, "mine", 4);
    CLAIM(disk_clear(dir, &removed, why) && removed >= 8 && count_files() == 1,
          "clear removes %llu entries and nothing else", (unsigned long long)removed);
    arena_free(&a);
}

static void test_memory_limit(void)
{
    struct exe *kept[20] = { 0 };
    fresh("memory");
    cache_set_directory("memory");
    expect(0, COMPILED, "made");
    uint64_t each = stats().bytes;
    cache_set_limits(5 * each + each / 2, UINT64_MAX);
    for (int i = 1; i < 20; i++) {
        struct one_run o = { .text = program(i), .options = { .threads = 1 }, .keep = &kept[i] };
        CLAIM(!attempt(do_once, &o), "%s", hop_message());
        CLAIM(stats().bytes <= 5 * each + each / 2 && stats().entries <= 5, "%llu bytes in %llu entries",
              (unsigned long long)stats().bytes, (unsigned long long)stats().entries);
        if (i > 2) expect(1, MEMORY, "used all the time");
    }
    expect(2, COMPILED, "an old one has gone");
    cache_clear_memory();
    CLAIM(!stats().bytes && !stats().entries, "nothing is left");
    for (int i = 1; i < 20; i++) {
        struct tensor *x = tensor_new(DT_F32, 1, (int64_t[]){ 4 }), *y = NULL;
        for (int k = 0; k < 4; k++) ((float *)x->data)[k] = (float)k;
        exe_run(kept[i], &x, NULL, &y, &(struct exe_call){ 0 });
        CLAIM(((float *)y->data)[3] == (float)(3 * i + 1), "an executable keeps its code");
        tensor_free(x);
        tensor_free(y);
        exe_free(kept[i]);
    }
    cache_set_limits(0, UINT64_MAX);
    expect(2, COMPILED, "no bytes for memory");
    expect(2, COMPILED, "no bytes for memory");
}

/* ---- at the same time ---- */

static void race_once(void)
{
    for (int i = 0; i < 60; i++) {
        int k = (int)(noise() % 6);
        struct one_run o = once_of(program(k), (struct compile_options){ .threads = 1 });
        CLAIM(o.from != BROKEN && right(&o, k), "in a race: %s",
              o.from == BROKEN ? hop_message() : "a wrong result");
        if (noise() % 2) cache_clear_memory();
    }
}

static void test_processes(void)
{
    enum { PROCESSES = 4 };
    pid_t pids[PROCESSES];
    fresh("processes");
    cache_set_limits(UINT64_MAX, 16000); /* a few entries: they evict each other's */
    for (int i = 0; i < PROCESSES; i++) {
        fflush(stdout);
        noise();
        if ((pids[i] = fork())) continue;
        tests_failed = 0;
        uint64_t removed;
        char why[256];
        for (int round = 0; round < 4; round++) {
            race_once();
            if (i == 0) disk_clear(dir, &removed, why);
        }
        fflush(stdout);
        _exit(tests_failed != 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        CLAIM(pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && !status, "process %d ended well: %d",
              i, status);
    }
}

static atomic_int thread_failures;
static void *thread_body(void *seed)
{
    uint64_t state = (uint64_t)(uintptr_t)seed * 2654435761u + 1;
    for (int i = 0; i < 60; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int k = (int)(state >> 33) % 5;
        struct one_run o = once_of(program(k), (struct compile_options){ .threads = 1 });
        if (o.from == BROKEN || !right(&o, k)) thread_failures++;
        if (state >> 60 == 3) cache_clear_memory();
    }
    return NULL;
}

static void test_threads(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    fresh("threads");
    cache_set_limits((uint64_t)40 << 10, 40 << 10);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread_body, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CLAIM(!thread_failures, "%d failures", thread_failures);
}

/* ---- memory that runs out ---- */

static void test_allocations(void)
{
    for (int from_disk = 0; from_disk < 2; from_disk++) {
        fresh("allocations");
        expect(5, COMPILED, "made");
        for (uint64_t n = 1; n < 400; n++) {
            struct one_run o = { .text = program(5), .options = { .threads = 1 }, .x = { 1, 2, 3, 4 } };
            if (from_disk) cache_clear_memory();
            int64_t live = hop_live_allocations();
            uint64_t before = hop_allocation_count();
            hop_fail_allocation(n);
            hop_status status = attempt(do_once, &o);
            hop_fail_allocation(0);
            bool far = hop_allocation_count() - before < n;
            CLAIM((status == HOP_OK && right(&o, 5)) || status == HOP_NOMEM, "allocation %llu fails: %d, %s",
                  (unsigned long long)n, status, hop_message());
            CLAIM(hop_live_allocations() == live, "allocation %llu fails: %lld left", (unsigned long long)n,
                  (long long)(hop_live_allocations() - live));
            if (far) break;
        }
    }
}

/* ---- bytes that make no sense ---- */

struct image_try {
    struct module *m;
    const struct fn *f;
    struct canon *canon;
    const unsigned char *bytes;
    size_t n;
};

/* In place of the code: what a run does before and after it is what the image says. */
static int32_t no_code(void *rt, void **buffers, int64_t *symbols)
{
    return (void)rt, (void)buffers, (void)symbols, HOP_OK;
}

struct bare_run {
    struct exe *e;
    int64_t x, y; /* sizes of the arguments */
    struct tensor *args[2], *results[3];
};
static void run_bare(void *ctx)
{
    struct bare_run *r = ctx;
    r->args[0] = tensor_new(DT_F32, 1, &r->x);
    r->args[1] = tensor_new(DT_F32, 1, &r->y);
    exe_run(r->e, r->args, NULL, r->results, NULL);
}

static void read_image(void *ctx)
{
    static const int64_t sizes[][2] = { { 2, 4 },
                                        { 2, 5 },
                                        { 500, 1000 } }; /* that fit, that do not, out of range */
    struct image_try *t = ctx;
    struct exe *e = hop_calloc(1, sizeof *e);
    e->backend = &llvm_backend;
    hop_cleanup_push(exe_free, e);
    e->m = module_new();
    image_read(e, t->m, t->f, t->canon, t->bytes, t->n);
    e->entry = no_code;
    for (size_t i = 0; i < HOP_COUNT(sizes); i++) {
        struct bare_run r = { .e = e, .x = sizes[i][0], .y = sizes[i][1] };
        hop_status status = attempt(run_bare, &r);
        CLAIM(status == HOP_OK || status == HOP_INVALID || status == HOP_NOMEM, "a run: %d %s", status,
              hop_message());
        for (int k = 0; k < 3; k++) CLAIM(status || r.results[k], "result %d is there", k);
        for (int k = 0; k < 2; k++) tensor_free(r.args[k]);
        for (int k = 0; k < 3; k++) tensor_free(r.results[k]);
    }
    hop_cleanup_pop(e);
    exe_free(e);
}

static const char rich[] =
    "hop 1\nconst @k: f32[3] = [1, 2, 3]\n"
    "fn @main[T in 1..100](%x: f32[T], %y: f32[2*T]) -> (f32[T], f32[T, 3], f32[]) effects(check, io) {\n"
    "  %k = constant {value = @k} ()\n  %k2 = add(%k, %k)\n  %b = broadcast {dims = [T, 3], at = [1]} "
    "(%k2)\n  %s = sum(%x)\n  %z = full {value = 0, dims = [], dtype = f32}\n  %p = gt(%s, %z)\n"
    "  check {message = \"positive\"} (%p, %s)\n  print {format = \"s={}\"} (%s)\n  %n = neg(%x)\n  %t = "
    "sum(%y)\n  return %n, %b, %t\n}\n";

static void test_images(void)
{
    size_t n = 0, refused = 0;
    fresh("images");
    struct module *m = text_read("rich.hop", rich, strlen(rich));
    uint32_t fn = module_find(m, "main");
    struct compile_options o = { .threads = 1 };
    struct exe *e = exe_compile(m, fn, &o, NULL);
    exe_free(e);
    unsigned char *bytes = entry_read(&n);
    struct cache_key key = { 0 };
    cache_key_make(&key, m, fn, &o, true);
    enum code_origin origin;
    struct code *c = cache_find(&key, &origin);
    CLAIM(c, "it is there");
    if (c && bytes) {
        struct image_try t = { m, module_fn(m, fn), &key.canon, c->image, c->image_bytes };
        CLAIM(!attempt(read_image, &t), "the image reads back: %s", hop_message());
        unsigned char *copy = malloc(c->image_bytes + 64),
                      *aligned = (unsigned char *)(((uintptr_t)copy + 63) & ~(uintptr_t)63);
        arena_free(&m->scratch); /* texts of places are made there */
        int64_t live = hop_live_allocations();
        for (int i = 0; i < FORGERIES; i++) {
            memcpy(aligned, c->image, c->image_bytes);
            aligned[noise() % c->image_bytes] = (unsigned char)noise();
            if (i % 3 == 0) aligned[noise() % c->image_bytes] = 0xff;
            t.bytes = aligned;
            t.n = i % 4 ? c->image_bytes : noise() % c->image_bytes;
            hop_status status = attempt(read_image, &t);
            refused += status != HOP_OK;
            if (status && status != HOP_INVALID && status != HOP_NOMEM)
                CLAIM(false, "image %d: %d %s", i, status, hop_message());
        }
        arena_free(&m->scratch);
        CLAIM(refused > FORGERIES / 4 && hop_live_allocations() == live,
              "%zu of %d wrong images are refused, nothing leaks", refused, FORGERIES);
        free(copy);
    }
    code_free(c);
    cache_key_free(&key);
    module_free(m);
    free(bytes);
}

/* A program of parts; here it has one. */
static void test_parts(const unsigned char *object, size_t n)
{
    struct object_parts head = { .magic = OBJECT_PARTS_MAGIC, .n = 1, .bytes = { n } };
    size_t all = sizeof head + n;
    unsigned char *parts = malloc(all);
    struct loaded l;
    char error[512] = "";
    memcpy(parts, &head, sizeof head);
    memcpy(parts + sizeof head, object, n);
    CLAIM(!object_load(parts, all, &l, error) && l.entry, "a program of parts loads: %s", error);
    object_unload(&l);
    const struct object_parts damaged[] = { { OBJECT_PARTS_MAGIC, 0, { n } },
                                            { OBJECT_PARTS_MAGIC, OBJECT_MOST_PARTS + 1, { n } },
                                            { OBJECT_PARTS_MAGIC, 1, { n + 1 } },
                                            { OBJECT_PARTS_MAGIC, 2, { n, 1 } },
                                            { OBJECT_PARTS_MAGIC, 1, { UINT64_MAX } } };
    for (uint32_t i = 0; i < HOP_COUNT(damaged); i++) {
        memcpy(parts, &damaged[i], sizeof head);
        CLAIM(object_load(parts, all, &l, error), "parts that are not there are refused: %u", i);
    }
    free(parts);
}

static void test_objects(void)
{
    struct loaded l;
    char error[512] = "";
    size_t n = 0, loaded = 0;
    fresh("objects");
    struct module *m = text_read("program.hop", program(5), strlen(program(5)));
    struct compile_options o = { .threads = 1 };
    struct exe *e = exe_compile(m, module_find(m, "main"), &o, NULL);
    const unsigned char *object = e->code->object;
    n = e->code->object_bytes;
    CLAIM(!object_load(object, n, &l, error) && l.entry && l.code_bytes > 10, "an object loads: %s", error);
    object_unload(&l);
    unsigned char *copy = malloc(n);
    for (int i = 0; i < FORGERIES; i++) { /* loaded, not run */
        memcpy(copy, object, n);
        size_t wide = i % 2 ? n : HOP_MIN(n, (size_t)64);
        copy[noise() % wide] = (unsigned char)noise();
        if (i % 3 == 0)
            copy[n - 1 - noise() % HOP_MIN(n, (size_t)1200)] = (unsigned char)noise(); /* the section table */
        if (!object_load(copy, i % 5 ? n : noise() % n, &l, error)) loaded++;
        object_unload(&l);
    }
    CLAIM(loaded < FORGERIES, "damaged objects are refused or laid out within bounds: %zu of %d loaded",
          loaded, FORGERIES);
    CLAIM(object_load(copy, 0, &l, error), "nothing is no object");
    free(copy);
    test_parts(object, n);
    exe_free(e);
    module_free(m);
}

/* Relocations of a machine that this may not be: an object with four instructions and the words that they
 * must become, from the instruction set's manual. */
static void test_other_machine(void)
{
    enum { TEXT = 1, DATA, RELOCATIONS, SYMBOLS, NAMES, SECTIONS };
    struct {
        Elf64_Ehdr header;
        uint32_t text[4];
        unsigned char data[32];
        Elf64_Rela relocations[4];
        Elf64_Sym symbols[3];
        char names[16];
        Elf64_Shdr sections[SECTIONS];
    } o = { 0 };
    memcpy(o.header.e_ident, ELFMAG, SELFMAG);
    o.header.e_ident[EI_CLASS] = ELFCLASS64;
    o.header.e_ident[EI_DATA] = ELFDATA2LSB;
    o.header.e_type = ET_REL;
    o.header.e_machine = EM_AARCH64;
    o.header.e_shoff = offsetof(__typeof__(o), sections);
    o.header.e_shentsize = sizeof o.sections[0];
    o.header.e_shnum = SECTIONS;
    static const uint32_t code[4] = { 0x90000000, 0x91000000, 0x3dc00000,
                                      0x94000000 }; /* adrp x0, add x0, ldr q0, bl */
    memcpy(o.text, code, sizeof code);
    o.relocations[0] = (Elf64_Rela){ 0, ELF64_R_INFO(2ull, R_AARCH64_ADR_PREL_PG_HI21), 0 };
    o.relocations[1] = (Elf64_Rela){ 4, ELF64_R_INFO(2ull, R_AARCH64_ADD_ABS_LO12_NC), 8 };
    o.relocations[2] = (Elf64_Rela){ 8, ELF64_R_INFO(2ull, R_AARCH64_LDST128_ABS_LO12_NC), 16 };
    o.relocations[3] = (Elf64_Rela){ 12, ELF64_R_INFO(1ull, R_AARCH64_CALL26), 0 };
    memcpy(o.names + 1, ENTRY_NAME, sizeof ENTRY_NAME);
    o.symbols[1] = (Elf64_Sym){ .st_name = 1, .st_shndx = TEXT };
    o.symbols[2] = (Elf64_Sym){ .st_name = 0, .st_shndx = DATA };
    o.sections[TEXT] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
                                     .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                     .sh_offset = offsetof(__typeof__(o), text),
                                     .sh_size = sizeof o.text,
                                     .sh_addralign = 4 };
    o.sections[DATA] = (Elf64_Shdr){ .sh_type = SHT_PROGBITS,
                                     .sh_flags = SHF_ALLOC,
                                     .sh_offset = offsetof(__typeof__(o), data),
                                     .sh_size = sizeof o.data,
                                     .sh_addralign = 16 };
    o.sections[RELOCATIONS] = (Elf64_Shdr){ .sh_type = SHT_RELA,
                                            .sh_offset = offsetof(__typeof__(o), relocations),
                                            .sh_size = sizeof o.relocations,
                                            .sh_info = TEXT,
                                            .sh_link = SYMBOLS,
                                            .sh_entsize = sizeof(Elf64_Rela) };
    o.sections[SYMBOLS] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
                                        .sh_offset = offsetof(__typeof__(o), symbols),
                                        .sh_size = sizeof o.symbols,
                                        .sh_link = NAMES,
                                        .sh_entsize = sizeof(Elf64_Sym) };
    o.sections[NAMES] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
                                      .sh_offset = offsetof(__typeof__(o), names),
                                      .sh_size = sizeof o.names };
    unsigned char image[256];
    uint32_t words[4];
    size_t used;
    struct loaded l;
    char error[512] = "";
    /* The code ends where a page ends, the data begins the next one. */
    CLAIM(!object_place(&o, sizeof o, EM_AARCH64, image, sizeof image, 0x10000ff0, &used, &l, error), "%s",
          error);
    memcpy(words, image, sizeof words);
    CLAIM((uintptr_t)l.entry == 0x10000ff0 && used == 48, "the entry and the size: %zu", used);
    CLAIM(words[0] == 0xb0000000, "adrp of the next page: %08x", words[0]);
    CLAIM(words[1] == 0x91002000, "add of 8: %08x", words[1]);
    CLAIM(words[2] == 0x3dc00400, "ldr of 16 bytes at 16: %08x", words[2]);
    CLAIM(words[3] == 0x97fffffd, "bl three instructions back: %08x", words[3]);
    o.relocations[3].r_info = ELF64_R_INFO(1ull, R_AARCH64_TLSDESC);
    CLAIM(object_place(&o, sizeof o, EM_AARCH64, image, sizeof image, 0x10000ff0, &used, &l, error) &&
              strstr(error, "relocation type"),
          "an unknown relocation: %s", error);
    o.relocations[3].r_info = ELF64_R_INFO(1ull, R_AARCH64_CALL26);
    o.sections[DATA].sh_flags |= SHF_WRITE;
    CLAIM(object_place(&o, sizeof o, EM_AARCH64, image, sizeof image, 0x10000ff0, &used, &l, error) &&
              strstr(error, "no use for"),
          "data that can be written: %s", error);
    o.sections[DATA].sh_flags = SHF_ALLOC;
    o.symbols[2] = (Elf64_Sym){ .st_name = 2, .st_shndx = SHN_UNDEF };
    CLAIM(object_place(&o, sizeof o, EM_AARCH64, image, sizeof image, 0x10000ff0, &used, &l, error) &&
              strstr(error, "op_entry"),
          "a name from outside that it is not given: %s", error);
}

/* ---- a process that finds everything in the cache ---- */

static int warm_process(const char *directory)
{
    char line[1000];
    bool llvm = false;
    cache_set_directory(directory);
    expect(5, DISK, "a process of its own");
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        llvm |= strstr(line, "libLLVM") || strstr(line, "libhop_llvm");
    if (maps) fclose(maps);
    CLAIM(!llvm, "LLVM is not loaded");
    return tests_end();
}

static void test_warm_process(const char *self)
{
    fresh("warm");
    expect(5, COMPILED, "made");
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execl("/proc/self/exe", self, "--warm", dir, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    CLAIM(waitpid(pid, &status, 0) == pid && !status,
          "a process that finds its program does not load LLVM: %d", status);
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "--warm")) return warm_process(argv[2]);
    if (!exe_available()) {
        printf("no back end: nothing to keep\n");
        return tests_end();
    }
    snprintf(root, sizeof root, "%s/hop-cache-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(root)) return perror(root), 1;
    test_sharing();
    test_modes();
    test_places();
    test_constants();
    test_truncated();
    test_flipped();
    test_forged();
    test_planted();
    test_directory();
    test_limits_of_the_system();
    test_eviction();
    test_memory_limit();
    test_processes();
    test_threads();
    test_allocations();
    test_images();
    test_objects();
    test_other_machine();
    test_warm_process(argv[0]);
    cache_set_directory("off");
    remove_tree(root);
    return tests_end();
}
