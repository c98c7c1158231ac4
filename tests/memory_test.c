/* Running out of memory while code is generated: before LLVM begins, by what it would need and what is left,
 * and in the middle of it, wherever it is. The call ends with HOP_NOMEM, and the process goes on: it
 * interprets, and compiles again once there is memory. */
#include "check.h"
#include "runtime/exe.h"
#include "base/memory.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITS = 0 }; /* the sanitizers' own memory is mapped far beyond any limit */
#else
enum { LIMITS = 1 };
#endif

static hop_fn *chain(int nodes)
{
    size_t size = 64 * (size_t)nodes + 1024, at = 0;
    char *text = malloc(size);
    hop_fn *f = NULL;
    at += (size_t)snprintf(text, size, "hop 1\nfn @main(%%v0: f64[7]) -> (f64[]) {\n");
    for (int i = 1; i < nodes; i++) {
        int other = i > 5 ? i - 5 : 0;
        if (i % 2) at += (size_t)snprintf(text + at, size - at, "  %%v%d = sin(%%v%d)\n", i, i - 1);
        else at += (size_t)snprintf(text + at, size - at, "  %%v%d = add(%%v%d, %%v%d)\n", i, i - 1, other);
    }
    snprintf(text + at, size - at, "  %%s = sum(%%v%d)\n  return %%s\n}\n", nodes - 1);
    CLAIM(!hop_fn_read(&f, text, "main"), "%s", hop_message());
    free(text);
    return f;
}

static hop_status compile(hop_fn *f, bool on_a_worker)
{
    static const volatile int never;
    hop_exe *exe = NULL;
    hop_status status = hop_compile(&exe, f, &(hop_compile_options){ .cancel = on_a_worker ? &never : NULL });
    hop_exe_free(exe);
    return status;
}

static hop_status interpret(hop_fn *f)
{
    hop_tensor *in[1] = { 0 }, *out[1] = { 0 };
    hop_status status = hop_tensor_new(&in[0], "f64[7]");
    if (!status) memset(hop_data(in[0]), 0, 7 * sizeof(double)), status = hop_interpret(f, in, 1, out, 1);
    hop_tensor_free(in[0]), hop_tensor_free(out[0]);
    return status;
}

static void test_limit(hop_fn *small, hop_fn *large)
{
    setenv("HOP_COMPILE_MEMORY", "40M", 1);
    hop_status status = compile(large, false);
    CLAIM(status == HOP_NOMEM && strstr(hop_message(), "40 MB are left") &&
              strstr(hop_message(), "HOP_COMPILE_MEMORY="),
          "%d: %s", status, hop_message());
    CLAIM(!compile(small, false), "a small program fits: %s", hop_message());
    setenv("HOP_COMPILE_MEMORY", "1K", 1);
    CLAIM(compile(small, true) == HOP_NOMEM, "nothing fits into nothing");
    setenv("HOP_COMPILE_MEMORY", "4G", 1);
    CLAIM(!compile(large, true), "%s", hop_message());
    setenv("HOP_COMPILE_MEMORY", "plenty", 1);
    CLAIM(!compile(small, false), "what is no size says nothing: %s", hop_message());
    unsetenv("HOP_COMPILE_MEMORY");
}

static struct rlimit limit_to(uint64_t more)
{
    struct rlimit before, now;
    unsigned long long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%llu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    getrlimit(RLIMIT_AS, &before);
    now = (struct rlimit){ pages * (uint64_t)sysconf(_SC_PAGESIZE) + more, before.rlim_max };
    setrlimit(RLIMIT_AS, &now);
    return before;
}

enum { FINE = 20, NO_MEMORY, WRONG };

/* In a child: how a compilation with so much memory ends, when the library does not look at how much there
 * is, or does. */
static int with_memory(uint64_t more, bool blindly, bool on_a_worker, hop_fn *small, hop_fn *large)
{
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        if (blindly) setenv("HOP_COMPILE_MEMORY", "1000G", 1);
        struct rlimit before = limit_to(more);
        hop_status status = compile(large, on_a_worker);
        bool goes_on = !interpret(small);
        hop_status again = compile(small, on_a_worker);
        setrlimit(RLIMIT_AS, &before);
        bool good = (!status || status == HOP_NOMEM) && goes_on && (!again || again == HOP_NOMEM) &&
                    !compile(small, false) && !interpret(small);
        if (!good) printf("%d, then %d: %s\n", status, again, hop_message());
        fflush(stdout);
        _exit(!good ? WRONG : status ? NO_MEMORY : FINE);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void test_exhaustion(hop_fn *small, hop_fn *large)
{
    for (int blindly = 0; blindly < 2; blindly++)
        for (int on_a_worker = 0; on_a_worker < 2; on_a_worker++) {
            int refused = 0;
            for (uint64_t mb = 2; mb <= 82; mb += blindly ? 7 : 20) {
                int end = with_memory(mb << 20, blindly, on_a_worker, small, large);
                CLAIM(end == FINE || end == NO_MEMORY, "%llu MB%s%s: ended with %d", (unsigned long long)mb,
                      blindly ? ", not looked at" : "", on_a_worker ? ", on a worker" : "", end);
                refused += end == NO_MEMORY;
            }
            CLAIM(refused > 1, "some were refused");
        }
    CLAIM(with_memory((uint64_t)2 << 30, false, true, small, large) == FINE, "with two GB it is compiled");
}

static void test_sizes(void)
{
    CLAIM(memory_size_of("12", 7) == 12 && memory_size_of("3K", 7) == 3072 &&
              memory_size_of("2M", 7) == 2 << 20 && memory_size_of("1G", 7) == 1 << 30,
          "sizes");
    CLAIM(memory_size_of("", 7) == 7 && memory_size_of(NULL, 7) == 7 && memory_size_of("-1", 7) == 7 &&
              memory_size_of("3MB", 7) == 7,
          "no sizes");
    CLAIM(memory_left(true) > 1 << 20, "there is some");
    if (!LIMITS) return;
    struct rlimit before = limit_to(64 << 20);
    uint64_t left = memory_left(false);
    CLAIM(left > 60 << 20 && left <= 64 << 20, "a limit of the process: %llu", (unsigned long long)left);
    setrlimit(RLIMIT_AS, &before);
}

int main(void)
{
    if (!exe_available()) return puts("there is no compiler"), tests_end();
    /* The largest is compiled in children alone: what this process has freed would be enough for others. */
    hop_fn *small = chain(20), *large = chain(5000), *largest = chain(12000);
    test_sizes();
    /* With one thread first: a worker finds no arena of the C library's then that another has left. */
    hop_set_threads(1);
    test_limit(small, large);
    if (LIMITS) test_exhaustion(small, largest);
    hop_set_threads(0);
    test_limit(small, large);
    if (LIMITS) test_exhaustion(small, largest);
    hop_fn_free(small), hop_fn_free(large), hop_fn_free(largest);
    return tests_end();
}
