/* Loading and saving by name: "weights.safetensors:w" comes in, the ending of the path chooses the format, a
 * tensor goes out. Every format is a list of named entries; an .npy file has one without a name. */
#include "io/io.h"
#include "dist/parts.h"

static const struct io_format *const formats[] = { &npy_format, &npz_format, &safetensors_format };
enum { NAMES_SHOWN = 8 };

/* ---- names of files ---- */

static const struct io_format *ends_in_format(const char *text, size_t length)
{
    for (size_t i = 0; i < HOP_COUNT(formats); i++) {
        size_t n = strlen(formats[i]->extension);
        if (length > n && !memcmp(text + length - n, formats[i]->extension, n)) return formats[i];
    }
    return NULL;
}

/* The path ends at the first ':' that follows an ending of ours, or at the end of the text; what follows the
 * ':' is the name. */
static const struct io_format *split(const char *spec, size_t *path, const char **name)
{
    for (const char *colon = strchr(spec, ':'); colon; colon = strchr(colon + 1, ':')) {
        const struct io_format *format = ends_in_format(spec, (size_t)(colon - spec));
        if (!format) continue;
        *path = (size_t)(colon - spec);
        *name = colon + 1;
        return format;
    }
    *path = strlen(spec);
    *name = NULL;
    return ends_in_format(spec, *path);
}

bool io_names_file(const char *spec)
{
    size_t path;
    const char *name;
    return split(spec, &path, &name) != NULL;
}

static const struct io_format *format_of(const char *path)
{
    const struct io_format *format = ends_in_format(path, strlen(path));
    if (!format)
        hop_throw(HOP_INVALID, "%s: expected a file name that ends in .npy, .npz or .safetensors", path);
    return format;
}

/* ---- archives ---- */

void archive_free(void *archive)
{
    struct archive *a = archive;
    if (!a) return;
    io_file_free(a->file);
    arena_free(&a->arena);
    hop_free(a);
}

struct archive *archive_open_file(struct io_file *f, const struct io_format *format)
{
    hop_cleanup_push(io_file_free, f);
    struct archive *a = hop_calloc(1, sizeof *a);
    hop_cleanup_pop(f);
    a->file = f;
    a->format = format;
    a->names.arena = &a->arena;
    hop_cleanup_push(archive_free, a);
    format->open(a);
    hop_cleanup_pop(a);
    return a;
}

struct archive *archive_open(const char *path)
{
    const struct io_format *format = format_of(path);
    return archive_open_file(io_file_open(path), format);
}

static uint32_t find(const struct archive *a, const char *name)
{
    uint64_t hash = hash_bytes(name, strlen(name), 0);
    for (uint32_t it = map_first(&a->names, hash); it != HOP_NONE; it = map_next(&a->names, hash, it))
        if (!strcmp(a->entries.data[map_value(&a->names, it)].name, name)) return map_value(&a->names, it);
    return HOP_NONE;
}

void archive_add(struct archive *a, const struct archive_entry *e)
{
    if (find(a, e->name) != HOP_NONE)
        hop_throw(HOP_INVALID, "%s: the name '%.200s' stands there twice", a->file->path, e->name);
    map_put(&a->names, hash_bytes(e->name, strlen(e->name), 0), a->entries.len);
    vec_push(&a->arena, &a->entries, *e);
}

uint32_t archive_find(const struct archive *a, const char *name)
{
    if (name && a->format == &npy_format)
        hop_throw(HOP_INVALID, "%s: an .npy file holds one array without a name, found the name '%.200s'",
                  a->file->path, name);
    uint32_t only = a->entries.len == 1 ? 0 : HOP_NONE;
    uint32_t found = name ? find(a, name) : only;
    if (found != HOP_NONE) return found;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena); /* freed by the throw below */
    struct text names = { .arena = &arena };
    for (uint32_t i = 0; i < a->entries.len && i < NAMES_SHOWN; i++)
        text_add(&names, "%s%.100s", i ? ", " : "", a->entries.data[i].name);
    if (a->entries.len > NAMES_SHOWN) text_add(&names, ", … (%u in all)", a->entries.len);
    const char *there = a->entries.len ? names.data : "none";
    if (!name)
        hop_throw(HOP_INVALID, "%s: expected the name of a tensor, as in %s:NAME; the names are: %s",
                  a->file->path, a->file->path, there);
    hop_throw(HOP_INVALID, "%s: there is no tensor '%.200s'; the names are: %s", a->file->path, name, there);
}

struct tensor *archive_read(struct archive *a, uint32_t entry)
{
    return a->format->read(a, &a->entries.data[entry]);
}

/* ---- loading and saving ---- */

struct tensor *io_load(const char *spec)
{
    size_t length;
    const char *name;
    struct arena arena = { 0 };
    const struct io_format *format = split(spec, &length, &name);
    if (!format)
        hop_throw(HOP_INVALID, "%s: expected a file name that ends in .npy, .npz or .safetensors", spec);
    hop_cleanup_push(arena_free, &arena);
    struct archive *a = archive_open(arena_string(&arena, spec, length));
    hop_cleanup_push(archive_free, a);
    struct tensor *t = archive_read(a, archive_find(a, name));
    hop_cleanup_pop(a);
    archive_free(a);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return t;
}

void io_check_target(const char *path, uint32_t n)
{
    if (format_of(path) == &npy_format && n != 1)
        hop_throw(HOP_INVALID, "%s: an .npy file holds one tensor, found %u; use .npz or .safetensors", path,
                  n);
}

/* Row-major tensors in place of strided ones. */
struct dense {
    struct arena arena;
    struct tensor **list;
    uint32_t n;
};

static void dense_free(void *dense)
{
    struct dense *d = dense;
    for (uint32_t i = 0; i < d->n; i++) tensor_free(d->list[i]);
    arena_free(&d->arena);
}

void io_save(const char *path, const char *const *names, struct tensor *const *tensors, uint32_t n)
{
    const struct io_format *format = format_of(path);
    io_check_target(path, n);
    for (uint32_t i = 0; i < n; i++) io_dtype_of((enum dtype)tensors[i]->dtype);
    if (format != &npy_format && n && !names)
        hop_throw(HOP_INVALID, "%s: expected a name for each tensor, found none", path);
    if (format != &npy_format) io_check_names(path, names, n);
    struct dense dense = { 0 };
    hop_cleanup_push(dense_free, &dense);
    dense.list = ARENA_NEW(&dense.arena, struct tensor *, n);
    for (; dense.n < n; dense.n++) {
        struct tensor *t = tensors[dense.n];
        dense.list[dense.n] = t->parts ? parts_whole(t) : tensor_contiguous(t);
    }
    format->write(path, names, dense.list, n);
    hop_cleanup_pop(&dense);
    dense_free(&dense);
}

void io_save_one(const char *spec, struct tensor *t)
{
    size_t length;
    const char *name;
    struct arena arena = { 0 };
    const struct io_format *format = split(spec, &length, &name);
    if (!format)
        hop_throw(HOP_INVALID, "%s: expected a file name that ends in .npy, .npz or .safetensors", spec);
    if (format == &npy_format && name)
        hop_throw(HOP_INVALID, "%s: an .npy file holds one array without a name, found the name '%.200s'",
                  spec, name);
    if (format != &npy_format && !name)
        hop_throw(HOP_INVALID, "%s: expected a name for the tensor, as in %s:NAME", spec, spec);
    hop_cleanup_push(arena_free, &arena);
    io_save(arena_string(&arena, spec, length), &name, &t, 1);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* How many bytes follow this first one; NO_FIRST_BYTE: it begins no character. */
enum { NO_FIRST_BYTE = 4 };
static uint32_t utf8_more(uint8_t first)
{
    if (first < 0x80) return 0;
    if (first < 0xc2) return NO_FIRST_BYTE;
    if (first < 0xe0) return 1;
    if (first < 0xf0) return 2;
    return first < 0xf5 ? 3 : NO_FIRST_BYTE;
}

/* The second byte decides about overlong forms, surrogates and code points above 10ffff. */
static bool utf8_second(uint8_t first, uint8_t second)
{
    switch (first) {
    case 0xe0: return second >= 0xa0 && second <= 0xbf;
    case 0xed: return second >= 0x80 && second <= 0x9f;
    case 0xf0: return second >= 0x90 && second <= 0xbf;
    case 0xf4: return second >= 0x80 && second <= 0x8f;
    default: return second >= 0x80 && second <= 0xbf;
    }
}

bool io_is_utf8(const char *text, size_t length)
{
    const uint8_t *at = (const uint8_t *)text, *end = at + length;
    while (at < end) {
        uint32_t more = utf8_more(*at);
        if (more == NO_FIRST_BYTE || (size_t)(end - at) <= more) return false;
        if (more && !utf8_second(at[0], at[1])) return false;
        for (uint32_t i = 2; i <= more; i++)
            if (at[i] < 0x80 || at[i] > 0xbf) return false;
        at += more + 1;
    }
    return true;
}

void io_check_names(const char *path, const char *const *names, uint32_t n)
{
    struct arena arena = { 0 };
    struct map seen = { .arena = &arena };
    hop_cleanup_push(arena_free, &arena);
    for (uint32_t i = 0; i < n; i++) {
        if (!names[i] || !*names[i])
            hop_throw(HOP_INVALID, "%s: tensor %u: expected a name, found an empty one", path, i);
        if (!io_is_utf8(names[i], strlen(names[i])))
            hop_throw(HOP_INVALID, "%s: the name of tensor %u is not UTF-8", path, i);
        uint64_t hash = hash_bytes(names[i], strlen(names[i]), 0);
        for (uint32_t it = map_first(&seen, hash); it != HOP_NONE; it = map_next(&seen, hash, it))
            if (!strcmp(names[map_value(&seen, it)], names[i]))
                hop_throw(HOP_INVALID, "%s: two tensors have the name '%.200s'", path, names[i]);
        map_put(&seen, hash, i);
    }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}
