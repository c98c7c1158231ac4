/* .safetensors: a length, a JSON object that gives each tensor's dtype, shape and byte range, then the bytes.
 * The whole header is checked when the file is opened: strict JSON, every byte of the data belongs to exactly
 * one tensor. Tensors borrow from the mapped file. */
#include "io/io.h"

enum { LARGEST_HEADER = 100000000, DEEPEST = 32, ALIGN = 64 };

/* ---- JSON, as far as the header needs it ---- */

struct json {
    struct io_where w;
    struct arena *arena; /* for strings with escapes, and all names */
    const uint8_t *start, *at, *end;
};

static _Noreturn void bad(const struct json *j, const char *expected)
{
    char found[32] = "the end";
    if (j->at < j->end)
        snprintf(found, sizeof found, *j->at >= 0x20 && *j->at < 0x7f ? "'%c'" : "byte %02x", *j->at);
    io_fail(HOP_INVALID, &j->w, "header, byte %zu: expected %s, found %s", (size_t)(j->at - j->start),
            expected, found);
}

static void spaces(struct json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\n' || *j->at == '\t' || *j->at == '\r')) j->at++;
}

static bool take(struct json *j, uint8_t c)
{
    spaces(j);
    if (j->at == j->end || *j->at != c) return false;
    j->at++;
    return true;
}

static void expect(struct json *j, uint8_t c, const char *expected)
{
    if (!take(j, c)) bad(j, expected);
}

/* After an element: true when another follows, false when the list or object has ended. */
static bool more(struct json *j, uint8_t close)
{
    if (take(j, close)) return false;
    expect(j, ',', close == '}' ? "',' or '}'" : "',' or ']'");
    return true;
}

/* Inside a string, where spaces count. */
static void expect_here(struct json *j, uint8_t c, const char *expected)
{
    if (j->at == j->end || *j->at != c) bad(j, expected);
    j->at++;
}

static uint32_t hex4(struct json *j)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const char *digit = j->at < j->end && *j->at ? strchr(digits, *j->at) : NULL;
        if (!digit) bad(j, "four hexadecimal digits after \\u");
        uint32_t k = (uint32_t)(digit - digits);
        v = v << 4 | (k < 16 ? k : k - 6);
        j->at++;
    }
    return v;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

static char *escape(struct json *j, char *to)
{
    static const char from[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const char *simple = j->at < j->end && *j->at ? strchr(from, *j->at) : NULL;
    if (simple) {
        j->at++;
        *to++ = means[simple - from];
        return to;
    }
    expect_here(j, 'u', "an escape after '\\'");
    uint32_t c = hex4(j);
    if (c >= 0xdc00 && c < 0xe000) bad(j, "a high surrogate before a low one");
    if (c >= 0xd800 && c < 0xdc00) {
        expect_here(j, '\\', "a low surrogate after a high one");
        expect_here(j, 'u', "a low surrogate after a high one");
        uint32_t low = hex4(j);
        if (low < 0xdc00 || low >= 0xe000) bad(j, "a low surrogate after a high one");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    if (!c) bad(j, "a character other than \\u0000");
    return put_utf8(to, c);
}

/* The header was found to be UTF-8 before. What is not kept is checked and forgotten. */
static const char *string(struct json *j, bool keep, const char *expected)
{
    char forgotten[8];
    expect(j, '"', expected);
    const uint8_t *end = j->at;
    while (end < j->end && *end != '"') end += *end == '\\' ? 2 : 1; /* what is escaped is no end */
    if (end >= j->end) bad(j, "a string that ends");
    /* Escapes are longer than what they mean. */
    char *text = keep ? arena_alloc(j->arena, (size_t)(end - j->at) + 1) : NULL;
    char *to = keep ? text : forgotten;
    while (j->at < end) {
        if (!keep) to = forgotten;
        if (*j->at < 0x20) bad(j, "an escape for a control character");
        if (*j->at == '\\') {
            j->at++;
            to = escape(j, to);
        } else *to++ = (char)*j->at++;
    }
    *to = 0;
    j->at = end + 1;
    return text;
}

static uint64_t natural(struct json *j, const char *expected)
{
    uint64_t v = 0;
    spaces(j);
    const uint8_t *first = j->at;
    for (; j->at < j->end && *j->at >= '0' && *j->at <= '9'; j->at++) {
        uint64_t digit = (uint64_t)(*j->at - '0');
        bool large = __builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, digit, &v);
        if (large || v > INT64_MAX) bad(j, "a number below 2^63");
    }
    bool zeros = j->at - first > 1 && *first == '0';
    bool real = j->at < j->end && (*j->at == '.' || *j->at == 'e' || *j->at == 'E');
    if (zeros || j->at == first || real) {
        if (zeros) j->at = first;
        bad(j, expected);
    }
    return v;
}

/* A value that nobody asks for. */
static void skip_number(struct json *j)
{
    take(j, '-');
    const uint8_t *first = j->at;
    while (j->at < j->end && *j->at && strchr("0123456789.eE+-", *j->at)) j->at++;
    if (j->at == first || *first < '0' || *first > '9') bad(j, "a value");
}

static void skip_value(struct json *j, uint32_t depth)
{
    if (depth == DEEPEST)
        io_fail(HOP_INVALID, &j->w,
                "header, byte %zu: expected values nested at most %d deep, found deeper ones",
                (size_t)(j->at - j->start), DEEPEST);
    spaces(j);
    if (take(j, '{')) {
        if (take(j, '}')) return;
        do {
            string(j, false, "a key");
            expect(j, ':', "':'");
            skip_value(j, depth + 1);
        } while (more(j, '}'));
    } else if (take(j, '[')) {
        if (take(j, ']')) return;
        do skip_value(j, depth + 1);
        while (more(j, ']'));
    } else if (j->at < j->end && *j->at == '"') {
        string(j, false, "a string");
    } else {
        static const char *const words[] = { "true", "false", "null" };
        for (size_t i = 0; i < HOP_COUNT(words); i++)
            if ((size_t)(j->end - j->at) >= strlen(words[i]) && !memcmp(j->at, words[i], strlen(words[i]))) {
                j->at += strlen(words[i]);
                return;
            }
        skip_number(j);
    }
}

/* ---- the header ---- */

static void read_metadata(struct json *j)
{
    expect(j, '{', "'{' after \"__metadata__\":");
    if (take(j, '}')) return;
    do {
        string(j, false, "a key");
        expect(j, ':', "':'");
        string(j, false, "a string: metadata holds nothing else");
    } while (more(j, '}'));
}

static void read_shape(struct json *j, struct archive_entry *e)
{
    int64_t dims[MAX_RANK];
    expect(j, '[', "'[' before the shape");
    e->rank = 0;
    if (!take(j, ']')) do {
            uint64_t size = natural(j, "a size of 0 or more in the shape");
            if (e->rank == MAX_RANK)
                io_fail(HOP_INVALID, &(struct io_where){ j->w.path, e->name },
                        "shape: expected at most %d dims, found more", MAX_RANK);
            dims[e->rank++] = (int64_t)size;
        } while (more(j, ']'));
    e->dims = arena_copy(j->arena, dims, e->rank * sizeof *dims);
}

static void read_offsets(struct json *j, struct archive_entry *e)
{
    expect(j, '[', "'[' before the offsets");
    e->begin = natural(j, "an offset of 0 or more");
    expect(j, ',', "',' between the two offsets");
    e->end = natural(j, "an offset of 0 or more");
    expect(j, ']', "']' after the two offsets");
}

static void read_tensor(struct json *j, struct archive_entry *e, uint64_t data_size)
{
    static const char *const keys[] = { "dtype", "shape", "data_offsets" };
    struct io_where w = { j->w.path, e->name };
    unsigned seen = 0;
    expect(j, '{', "'{' after the name of a tensor");
    if (!take(j, '}')) do {
            size_t k = 0;
            const char *key = string(j, true, "a key");
            expect(j, ':', "':'");
            while (k < HOP_COUNT(keys) && strcmp(keys[k], key)) k++;
            if (k < HOP_COUNT(keys) && seen >> k & 1)
                io_fail(HOP_INVALID, &w, "header: the key %s stands there twice", keys[k]);
            if (k < HOP_COUNT(keys)) seen |= 1u << k;
            if (k == 0) e->dtype_name = string(j, true, "the name of a dtype");
            else if (k == 1) read_shape(j, e);
            else if (k == 2) read_offsets(j, e);
            else skip_value(j, 0);
        } while (more(j, '}'));
    for (size_t k = 0; k < HOP_COUNT(keys); k++)
        if (!(seen >> k & 1)) io_fail(HOP_INVALID, &w, "header: the key %s is missing", keys[k]);
    if (e->begin > e->end || e->end > data_size)
        io_fail(HOP_INVALID, &w,
                "data_offsets: expected a range inside the %llu bytes of data, found %llu to %llu",
                (unsigned long long)data_size, (unsigned long long)e->begin, (unsigned long long)e->end);
    /* a dtype that hop does not have is an error only for who asks for the tensor */
    e->dtype_known = io_dtype_from_safetensors(e->dtype_name, strlen(e->dtype_name), &e->dtype);
    if (!e->dtype_known) return;
    uint64_t bytes = (uint64_t)io_count(&w, e->dtype, e->rank, e->dims) * dtype_info[e->dtype].size;
    if (bytes != e->end - e->begin)
        io_fail(HOP_INVALID, &w,
                "data_offsets: expected %llu bytes for dtype and shape, found %llu (%llu to %llu)",
                (unsigned long long)bytes, (unsigned long long)(e->end - e->begin),
                (unsigned long long)e->begin, (unsigned long long)e->end);
}

static int compare_entries(const void *a, const void *b)
{
    const struct archive_entry *x = *(const struct archive_entry *const *)a;
    const struct archive_entry *y = *(const struct archive_entry *const *)b;
    if (x->begin != y->begin) return x->begin > y->begin ? 1 : -1;
    return (x->end > y->end) - (x->end < y->end);
}

static void check_coverage(struct archive *a, uint64_t data_size)
{
    struct io_where w = { a->file->path, NULL };
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    const struct archive_entry **sorted = ARENA_NEW(&scratch, const struct archive_entry *, a->entries.len);
    for (uint32_t i = 0; i < a->entries.len; i++) sorted[i] = &a->entries.data[i];
    qsort(sorted, a->entries.len, sizeof *sorted, compare_entries);
    uint64_t at = 0;
    for (uint32_t i = 0; i < a->entries.len; at = sorted[i++]->end) {
        if (sorted[i]->begin < at)
            io_fail(HOP_INVALID, &w, "data_offsets: the tensors '%.100s' and '%.100s' overlap",
                    sorted[i - 1]->name, sorted[i]->name);
        if (sorted[i]->begin > at)
            io_fail(HOP_INVALID, &w,
                    "data_offsets: expected '%.100s' to begin at byte %llu, where the one before ends, found "
                    "%llu",
                    sorted[i]->name, (unsigned long long)at, (unsigned long long)sorted[i]->begin);
    }
    if (at != data_size)
        io_fail(HOP_INVALID, &w, "data: expected %llu bytes, found %llu", (unsigned long long)at,
                (unsigned long long)data_size);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
}

static void safetensors_open(struct archive *a)
{
    const struct io_file *f = a->file;
    struct json j = { .w = { f->path, NULL }, .arena = &a->arena };
    uint64_t length = 0;
    if (f->size < 8)
        io_fail(HOP_INVALID, &j.w, "expected at least 8 bytes of a .safetensors file, found %zu", f->size);
    memcpy(&length, f->data, 8);
    if (length > LARGEST_HEADER || length > f->size - 8)
        io_fail(HOP_INVALID, &j.w, "header length: expected at most %llu bytes, found %llu",
                (unsigned long long)HOP_MIN(f->size - 8, (size_t)LARGEST_HEADER), (unsigned long long)length);
    j.start = f->data + 8;
    j.at = j.start;
    j.end = j.start + length;
    uint64_t data_size = f->size - 8 - length;
    if (!length || *j.at != '{') bad(&j, "'{'");
    if (!io_is_utf8((const char *)j.start, length))
        io_fail(HOP_INVALID, &j.w, "header: expected UTF-8, found other bytes");
    expect(&j, '{', "'{'");
    bool metadata = false;
    if (!take(&j, '}')) do {
            struct archive_entry e = { .name = string(&j, true, "the name of a tensor") };
            expect(&j, ':', "':'");
            if (strcmp(e.name, "__metadata__")) {
                read_tensor(&j, &e, data_size);
                archive_add(a, &e);
            } else {
                if (metadata) io_fail(HOP_INVALID, &j.w, "header: the key __metadata__ stands there twice");
                metadata = true;
                read_metadata(&j);
            }
        } while (more(&j, '}'));
    spaces(&j);
    if (j.at != j.end) bad(&j, "nothing but spaces after '}'");
    check_coverage(a, data_size);
    for (uint32_t i = 0; i < a->entries.len; i++) {
        a->entries.data[i].begin += 8 + length;
        a->entries.data[i].end += 8 + length;
    }
}

static struct tensor *safetensors_read(struct archive *a, const struct archive_entry *e)
{
    struct io_where w = { a->file->path, e->name };
    if (!e->dtype_known)
        io_fail(HOP_INVALID, &w, "dtype: expected one that hop has (BOOL, integers, floats), found '%.40s'",
                e->dtype_name);
    struct io_array array = { .dtype = e->dtype, .rank = e->rank, .offset = e->begin };
    if (e->rank) memcpy(array.dims, e->dims, e->rank * sizeof *e->dims);
    return io_tensor(&w, a->file, &array);
}

/* ---- writing ---- */

static void put_string(struct text *out, const char *s)
{
    text_str(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') text_add(out, "\\%c", c);
        else if (c < 0x20) text_add(out, "\\u%04x", c);
        else text_bytes(out, s, 1);
    }
    text_str(out, "\"");
}

struct named_tensor {
    const char *name;
    const struct tensor *t;
};

/* Large elements first, so that every tensor is aligned; then by name, so that equal content makes equal
 * files. */
static int compare_named(const void *a, const void *b)
{
    const struct named_tensor *x = a, *y = b;
    int sizes = (int)dtype_info[y->t->dtype].size - (int)dtype_info[x->t->dtype].size;
    return sizes ? sizes : strcmp(x->name, y->name);
}

static void safetensors_write(const char *path, const char *const *names, struct tensor *const *tensors,
                              uint32_t n)
{
    struct io_writer w;
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(names[i], "__metadata__"))
            hop_throw(HOP_INVALID, "%s: the name __metadata__ is taken by the format", path);
    io_writer_begin(&w, path);
    struct named_tensor *items = ARENA_NEW(&w.arena, struct named_tensor, n);
    for (uint32_t i = 0; i < n; i++) items[i] = (struct named_tensor){ names[i], tensors[i] };
    qsort(items, n, sizeof *items, compare_named);
    struct text header = { .arena = &w.arena };
    text_bytes(&header, "\0\0\0\0\0\0\0\0{", 9);
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tensor *t = items[i].t;
        uint64_t bytes = (uint64_t)t->count * dtype_info[t->dtype].size;
        if (i) text_str(&header, ",");
        put_string(&header, items[i].name);
        text_add(&header, ":{\"dtype\":\"%s\",\"shape\":[", io_dtype_of((enum dtype)t->dtype)->safetensors);
        for (uint32_t k = 0; k < t->rank; k++)
            text_add(&header, "%s%lld", k ? "," : "", (long long)t->dims[k]);
        text_add(&header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                 (unsigned long long)at + bytes);
        at += bytes;
    }
    text_str(&header, "}");
    while (header.len % ALIGN) text_str(&header, " ");
    uint64_t length = header.len - 8;
    if (length > LARGEST_HEADER)
        hop_throw(HOP_INVALID, "%s: expected names and shapes of at most %d bytes, found %llu", path,
                  LARGEST_HEADER, (unsigned long long)length);
    memcpy(header.data, &length, 8);
    io_write(&w, header.data, header.len);
    for (uint32_t i = 0; i < n; i++)
        io_write(&w, items[i].t->data, (size_t)items[i].t->count * dtype_info[items[i].t->dtype].size);
    io_writer_finish(&w);
}

const struct io_format safetensors_format = { ".safetensors", safetensors_open, safetensors_read,
                                              safetensors_write };
