/* How much memory this process can still get, as far as the system says: its own limits (ulimit), those of
 * its control groups, and what the machine has. */
#include "base/memory.h"

#include <limits.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

uint64_t memory_size_of(const char *text, uint64_t otherwise)
{
    if (!text || *text < '0' || *text > '9') return otherwise;
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    int shift = 0;
    if (*end == 'K') shift = 10;
    else if (*end == 'M') shift = 20;
    else if (*end == 'G') shift = 30;
    if (shift) end++;
    if (*end || n > UINT64_MAX >> 31) return otherwise;
    return (uint64_t)n << shift;
}

/* The start of a small file; false: there is none. */
static bool read_file(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(out, 1, size - 1, f) : 0;
    if (f) fclose(f);
    out[n] = 0;
    return n > 0;
}

/* A number in a file, after a word or at its start; UINT64_MAX: none, or "max". */
static uint64_t number_in(const char *path, const char *word)
{
    char text[4096];
    if (!read_file(path, text, sizeof text)) return UINT64_MAX;
    const char *at = *word ? strstr(text, word) : text;
    if (!at) return UINT64_MAX;
    at += strlen(word) + strspn(at + strlen(word), " \t");
    return *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : UINT64_MAX;
}

static uint64_t left_of(uint64_t limit, uint64_t used) { return used >= limit ? 0 : limit - used; }

static uint64_t left_by_rlimits(void)
{
    struct rlimit space = { RLIM_INFINITY, 0 }, data = { RLIM_INFINITY, 0 };
    char text[256];
    unsigned long long size = 0, segment = 0;
    getrlimit(RLIMIT_AS, &space);
    getrlimit(RLIMIT_DATA, &data);
    if (space.rlim_cur == RLIM_INFINITY && data.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), left = UINT64_MAX;
    if (!read_file("/proc/self/statm", text, sizeof text)) return UINT64_MAX;
    if (sscanf(text, "%llu %*u %*u %*u %*u %llu", &size, &segment) != 2) return UINT64_MAX;
    if (space.rlim_cur != RLIM_INFINITY) left = left_of(space.rlim_cur, size * page);
    if (data.rlim_cur != RLIM_INFINITY) left = HOP_MIN(left, left_of(data.rlim_cur, segment * page));
    return left;
}

/* Of one control group, whose files of the cache can be taken away. */
static uint64_t left_in_group(const char *folder, const char *limit, const char *used,
                              const char *reclaimable)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, limit);
    uint64_t most = number_in(path, "");
    if (most == UINT64_MAX) return UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", folder, used);
    uint64_t now = number_in(path, "");
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    uint64_t files = number_in(path, reclaimable);
    if (now == UINT64_MAX) return UINT64_MAX;
    return left_of(most, files == UINT64_MAX ? now : left_of(now, files));
}

/* ---- control groups ---- */

const char *limits_root = "";

/* Is it in a list "cpu,cpuacct" that ends with a colon? */
static bool is_listed(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = names; at; at = strpbrk(at, ",:")) {
        if (*at == ':' && at != names) return false;
        at += *at == ',';
        if (!strncmp(at, name, n) && (at[n] == ',' || at[n] == ':')) return true;
    }
    return false;
}

/* Visits this process's groups, the innermost and all around it. Of the first kind of control groups those of
 * one controller; of the second kind, the unified one, all. */
typedef void group_visitor(const char *folder, bool unified, void *ctx);
static void each_group(const char *controller, group_visitor *visit, void *ctx)
{
    char text[4096], folder[PATH_MAX], root[PATH_MAX / 2];
    snprintf(folder, sizeof folder, "%.1000s/proc/self/cgroup", limits_root);
    if (!read_file(folder, text, sizeof text)) return;
    for (char *line = text, *next; line && *line; line = next) {
        if ((next = strchr(line, '\n'))) *next++ = 0;
        char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
        if (!path) continue;
        bool unified = path == names + 1;
        if (!unified && !is_listed(names + 1, controller)) continue;
        snprintf(root, sizeof root, "%.1000s/sys/fs/cgroup%s%.32s", limits_root, unified ? "" : "/",
                 unified ? "" : controller);
        snprintf(folder, sizeof folder, "%.1100s%.2900s", root, path + 1);
        for (;;) {
            visit(folder, unified, ctx);
            char *slash = strrchr(folder, '/');
            if (strlen(folder) <= strlen(root) || !slash) break;
            *slash = 0;
        }
    }
}

static void note_memory(const char *folder, bool unified, void *ctx)
{
    uint64_t *left = ctx, here;
    if (unified) here = left_in_group(folder, "memory.max", "memory.current", "inactive_file");
    else
        here = left_in_group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
    *left = HOP_MIN(*left, here);
}

static uint64_t left_by_groups(void)
{
    uint64_t left = UINT64_MAX;
    each_group("memory", note_memory, &left);
    return left;
}

/* A quota of microseconds in each period; of the first kind in two files, of the second "quota period" in
 * one. */
static void note_processors(const char *folder, bool unified, void *ctx)
{
    char path[PATH_MAX + 64], text[128] = "";
    uint32_t *processors = ctx;
    long long quota = 0, period = 0;
    snprintf(path, sizeof path, "%s/%s", folder, unified ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_file(path, text, sizeof text)) return;
    int found = sscanf(text, "%lld %lld", &quota, &period);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!unified && found == 1 && read_file(path, text, sizeof text)) found += sscanf(text, "%lld", &period);
    if (found != 2 || quota <= 0 || period <= 0) return;
    uint64_t whole = ((uint64_t)quota + (uint64_t)period - 1) / (uint64_t)period;
    *processors = (uint32_t)HOP_MIN(whole, (uint64_t)*processors);
}

uint32_t processors_by_groups(void)
{
    uint32_t processors = UINT32_MAX;
    each_group("cpu", note_processors, &processors);
    return processors;
}

static uint64_t left_in_machine(void)
{
    uint64_t memory = number_in("/proc/meminfo", "MemAvailable:");
    uint64_t swap = number_in("/proc/meminfo", "SwapFree:");
    if (memory == UINT64_MAX) return UINT64_MAX;
    return (memory + (swap == UINT64_MAX ? 0 : swap)) << 10;
}

uint64_t memory_left(bool thoroughly)
{
    uint64_t left = left_by_rlimits();
    if (thoroughly) left = HOP_MIN(left, HOP_MIN(left_by_groups(), left_in_machine()));
    return left;
}
