/* The system's C compiler, run as a process of its own. */
#include "check/cc.h"

#include <errno.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/wait.h>

extern char **environ;

const char *cc_name(void)
{
    const char *name = secure_getenv("CC");
    return name && *name ? name : "cc";
}

const char *cc_path(struct arena *a, const char *path)
{
    return *path == '/' ? path : arena_printf(a, "./%s", path);
}

void cc_run(const char *const *args)
{
    enum { MOST = 30 };
    const char *argv[MOST + 2] = { cc_name() };
    for (int i = 0; args[i]; i++) {
        if (i == MOST) hop_throw(HOP_INTERNAL, "too many arguments for %s", cc_name());
        argv[i + 1] = args[i];
    }
    if (getauxval(AT_SECURE))
        hop_throw(HOP_UNAVAILABLE, "no C compiler is run with rights that the caller does not have");
    pid_t pid;
    int status = 0, error = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
    if (error)
        hop_throw(HOP_UNAVAILABLE, "the C compiler '%s' cannot be run: %s; install one, or name one in CC",
                  argv[0], strerror(error));
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) hop_throw(HOP_IO, "waiting for %s: %s", argv[0], strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        hop_throw(HOP_UNAVAILABLE, "the C compiler '%s' cannot be run; install one, or name one in CC",
                  argv[0]);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        hop_throw(HOP_IO, "%s did not compile the emitted C", argv[0]);
}

void file_write(const char *path, const struct text *t)
{
    FILE *f = fopen(path, "wb");
    if (!f) hop_throw(HOP_IO, "%s cannot be written: %s", path, strerror(errno));
    bool good = fwrite(t->data, 1, t->len, f) == t->len;
    if (fclose(f) || !good) hop_throw(HOP_IO, "%s cannot be written: %s", path, strerror(errno));
}
