/* hop cache: where compiled programs are kept, what is there, and how to be rid of it. */
#include "cli/cli.h"
#include "runtime/cache.h"

#include <limits.h>
#include <time.h>
#include <unistd.h>

static void bytes_text(struct text *out, uint64_t n)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB" };
    double v = (double)n;
    int unit = 0;
    for (; v >= 1024 && unit < 3; unit++) v /= 1024;
    text_add(out, unit ? "%.1f %s" : "%.0f %s", v, units[unit]);
}

static void time_text(struct text *out, int64_t ns)
{
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm t;
    char text[40] = "";
    if (gmtime_r(&seconds, &t)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t);
    text_str(out, text);
}

static void summary(struct options *o, const char *directory, const struct cache_files *files,
                    const char *why)
{
    struct text out = { .arena = &o->bag.arena };
    if (option_on(o, O_JSON)) {
        text_str(&out, "{\"directory\": ");
        if (directory) json_string(&out, directory);
        else text_str(&out, "null");
        text_add(&out, ", \"entries\": %u, \"bytes\": %llu, \"limit\": %llu}\n", files->list.len,
                 (unsigned long long)files->bytes, (unsigned long long)cache_disk_limit());
    } else if (!directory) {
        text_add(&out, "directory: none (%s)\n", why);
    } else {
        text_add(&out, "directory: %s%s%s%s\nentries: %u\nbytes: ", directory, *why ? " (not used: " : "",
                 why, *why ? ")" : "", files->list.len);
        bytes_text(&out, files->bytes);
        text_str(&out, " of ");
        bytes_text(&out, cache_disk_limit());
        text_str(&out, "\n");
    }
    fwrite(out.data, 1, out.len, stdout);
}

static void listing(struct options *o, const struct cache_files *files)
{
    struct text out = { .arena = &o->bag.arena };
    bool json = option_on(o, O_JSON);
    if (json) text_str(&out, "[");
    for (uint32_t i = files->list.len; i-- > 0;) {
        const struct cache_file *f = &files->list.data[i];
        if (json)
            text_add(&out, "%s\n  {\"name\": \"%s\", \"bytes\": %llu, \"used\": \"",
                     i + 1 == files->list.len ? "" : ",", f->name, (unsigned long long)f->bytes);
        else text_add(&out, "%s %10llu  ", f->name, (unsigned long long)f->bytes);
        time_text(&out, f->used_ns);
        text_str(&out, json ? "\"}" : "\n");
    }
    if (json) text_str(&out, "]\n");
    if (out.len) fwrite(out.data, 1, out.len, stdout);
}

int command_cache(struct options *o)
{
    char directory[PATH_MAX], why[256] = "";
    const char *what = o->files.len ? o->files.data[0] : "";
    bool list = !strcmp(what, "list"), clear = !strcmp(what, "clear");
    if (*what && !list && !clear)
        hop_throw(HOP_INVALID, "hop cache: expected list or clear, found '%s'", what);
    struct cache_files files = { 0 };
    if (!cache_directory(directory, sizeof directory)) {
        char how[300];
        cache_describe(how, sizeof how);
        if (!*what) summary(o, NULL, &files, how);
        else if (list) listing(o, &files);
        else hop_throw(HOP_INVALID, "hop cache clear: no files are kept (%s)", how);
        return EXIT_OK;
    }
    uint64_t removed = 0;
    bool good;
    if (clear) good = disk_clear(directory, &removed, why);
    else good = disk_list(directory, &o->bag.arena, &files, why);
    if (!good && access(directory, F_OK)) why[0] = 0; /* nothing was kept yet */
    else if (!good && clear) hop_throw(HOP_IO, "hop cache clear: %s", why);
    if (clear && option_on(o, O_JSON)) printf("{\"removed\": %llu}\n", (unsigned long long)removed);
    else if (clear) printf("removed %llu\n", (unsigned long long)removed);
    else if (list) listing(o, &files);
    else summary(o, directory, &files, why);
    return EXIT_OK;
}
