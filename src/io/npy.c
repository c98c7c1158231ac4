/* NumPy's .npy: a magic number, a version, a Python dictionary with dtype, order and shape, then the
 * elements. The header is parsed here for files and for members of .npz files. Versions 1, 2 and 3 are read,
 * version 1 is written, byte for byte as NumPy writes it. */
#include "io/io.h"

enum { ALIGN = 64, GROWTH = 21 /* digits that NumPy leaves for the first dim to grow in place */ };

/* ---- header ---- */

size_t npy_header_size(const struct io_where *w, const uint8_t *bytes, uint64_t total)
{
    static const uint8_t magic[6] = { 0x93, 'N', 'U', 'M', 'P', 'Y' };
    if (total < 10)
        io_fail(HOP_INVALID, w, "expected at least 10 bytes of an .npy array, found %llu",
                (unsigned long long)total);
    if (memcmp(bytes, magic, sizeof magic))
        io_fail(HOP_INVALID, w,
                "expected an .npy array, which begins with 93 4e 55 4d 50 59, found %02x %02x %02x %02x %02x "
                "%02x",
                bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]);
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7])
        io_fail(HOP_INVALID, w, "version: expected 1.0, 2.0 or 3.0, found %u.%u", bytes[6], bytes[7]);
    uint64_t before = bytes[6] == 1 ? 10 : 12, length = bytes[8] | (uint64_t)bytes[9] << 8;
    if (bytes[6] > 1 && total >= 12) length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
    if (length > NPY_LARGEST_HEADER)
        io_fail(HOP_INVALID, w, "header length: expected at most %d bytes, found %llu", NPY_LARGEST_HEADER,
                (unsigned long long)length);
    if (total < before || length > total - before)
        io_fail(HOP_INVALID, w, "header length: expected at most the %llu bytes that follow, found %llu",
                (unsigned long long)(total < before ? 0 : total - before), (unsigned long long)length);
    return (size_t)(before + length);
}

struct dictionary {
    const struct io_where *w;
    const uint8_t *start, *at, *end;
};

static _Noreturn void bad_header(const struct dictionary *d, const char *expected)
{
    char found[32] = "the end";
    if (d->at < d->end)
        snprintf(found, sizeof found, *d->at >= 0x20 && *d->at < 0x7f ? "'%c'" : "byte %02x", *d->at);
    io_fail(HOP_INVALID, d->w, "header, byte %zu: expected %s, found %s", (size_t)(d->at - d->start),
            expected, found);
}

static void spaces(struct dictionary *d)
{
    while (d->at < d->end && (*d->at == ' ' || *d->at == '\n' || *d->at == '\t' || *d->at == '\r')) d->at++;
}

static bool take(struct dictionary *d, uint8_t c)
{
    spaces(d);
    if (d->at == d->end || *d->at != c) return false;
    d->at++;
    return true;
}

/* A Python string without escapes. */
static const char *quoted(struct dictionary *d, const char *expected, size_t *length)
{
    spaces(d);
    if (d->at == d->end || (*d->at != '\'' && *d->at != '"')) bad_header(d, expected);
    const uint8_t *text = d->at + 1, *close = memchr(text, *d->at, (size_t)(d->end - text));
    if (!close || memchr(text, '\\', (size_t)(close - text)))
        io_fail(HOP_INVALID, d->w, "header, byte %zu: expected a string that ends and has no escapes",
                (size_t)(d->at - d->start));
    d->at = close + 1;
    *length = (size_t)(close - text);
    return (const char *)text;
}

static bool take_word(struct dictionary *d, const char *word)
{
    size_t n = strlen(word);
    spaces(d);
    if ((size_t)(d->end - d->at) < n || memcmp(d->at, word, n)) return false;
    d->at += n;
    return true;
}

static void parse_descr(struct dictionary *d, struct io_array *a)
{
    size_t length;
    spaces(d);
    if (d->at < d->end && *d->at == '[')
        io_fail(HOP_INVALID, d->w,
                "descr: expected a plain dtype, found a structured one (a list of fields)");
    const char *text = quoted(d, "a dtype such as '<f4'", &length), *name = text;
    size_t rest = length;
    if (rest && strchr("<>|=", *name)) {
        name++;
        rest--;
    }
    a->swapped = length && *text == '>';
    if (!io_dtype_from_npy(name, rest, &a->dtype))
        io_fail(HOP_INVALID, d->w,
                "descr: expected a dtype that hop has (bool, integers, floats), found '%.*s'",
                (int)HOP_MIN(length, (size_t)40), text);
}

static void parse_shape(struct dictionary *d, struct io_array *a)
{
    if (!take(d, '(')) bad_header(d, "'(' before the shape");
    bool comma = false;
    for (a->rank = 0; !take(d, ')');) {
        int64_t v = 0;
        if (a->rank && !comma) bad_header(d, "',' or ')' in the shape");
        if (d->at == d->end || *d->at < '0' || *d->at > '9')
            bad_header(d, "a size of 0 or more in the shape");
        for (; d->at < d->end && *d->at >= '0' && *d->at <= '9'; d->at++)
            if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *d->at - '0', &v))
                io_fail(HOP_INVALID, d->w, "shape: expected sizes below 2^63, found more");
        if (d->at < d->end && *d->at == 'L') d->at++; /* as Python 2 wrote them */
        if (a->rank == MAX_RANK)
            io_fail(HOP_INVALID, d->w, "shape: expected at most %d dims, found more", MAX_RANK);
        a->dims[a->rank++] = v;
        comma = take(d, ',');
    }
    if (a->rank == 1 && !comma)
        io_fail(HOP_INVALID, d->w, "shape: expected a tuple, found a number in parentheses");
}

void npy_header_parse(const struct io_where *w, const uint8_t *bytes, size_t size, uint64_t total,
                      struct npy_header *out)
{
    static const char *const keys[] = { "descr", "fortran_order", "shape" };
    struct dictionary d = { w, bytes, bytes + (bytes[6] == 1 ? 10 : 12), bytes + size };
    struct io_array *a = &out->array;
    unsigned seen = 0;
    *a = (struct io_array){ .offset = size };
    if (!take(&d, '{')) bad_header(&d, "'{'");
    for (bool comma = true; !take(&d, '}'); comma = take(&d, ',')) {
        size_t length, k = 0;
        if (!comma) bad_header(&d, "',' or '}'");
        const char *key = quoted(&d, "'descr', 'fortran_order' or 'shape'", &length);
        while (k < HOP_COUNT(keys) && (strlen(keys[k]) != length || memcmp(keys[k], key, length))) k++;
        if (k == HOP_COUNT(keys))
            io_fail(HOP_INVALID, w, "header: expected the keys descr, fortran_order and shape, found '%.*s'",
                    (int)HOP_MIN(length, (size_t)40), key);
        if (seen >> k & 1) io_fail(HOP_INVALID, w, "header: the key %s stands there twice", keys[k]);
        seen |= 1u << k;
        if (!take(&d, ':')) bad_header(&d, "':'");
        if (k == 0) parse_descr(&d, a);
        else if (k == 2) parse_shape(&d, a);
        else if (take_word(&d, "True")) a->fortran = true;
        else if (!take_word(&d, "False")) bad_header(&d, "True or False");
    }
    spaces(&d);
    if (d.at != d.end) bad_header(&d, "nothing but spaces after '}'");
    for (size_t k = 0; k < HOP_COUNT(keys); k++)
        if (!(seen >> k & 1)) io_fail(HOP_INVALID, w, "header: the key %s is missing", keys[k]);
    out->bytes = (uint64_t)io_count(w, a->dtype, a->rank, a->dims) * dtype_info[a->dtype].size;
    if (out->bytes != total - size)
        io_fail(HOP_INVALID, w, "data: expected %llu bytes for the dtype and the shape, found %llu",
                (unsigned long long)out->bytes, (unsigned long long)(total - size));
}

void npy_header_text(struct text *out, const struct tensor *t)
{
    const char *name = io_dtype_of((enum dtype)t->dtype)->npy;
    char first[24] = "";
    size_t start = out->len;
    text_bytes(out, "\x93NUMPY\1\0..", 10);
    text_add(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
             dtype_info[t->dtype].size == 1 ? '|' : '<', name);
    for (uint32_t i = 0; i < t->rank; i++) text_add(out, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    text_str(out, t->rank == 1 ? ",), }" : "), }");
    if (t->rank)
        text_add(out, "%*s", GROWTH - snprintf(first, sizeof first, "%lld", (long long)t->dims[0]), "");
    text_add(out, "%*s\n", (int)(ALIGN - (out->len - start + 1) % ALIGN), "");
    size_t length = out->len - start - 10;
    out->data[start + 8] = (char)(length & 0xff);
    out->data[start + 9] = (char)(length >> 8);
}

/* ---- files ---- */

static void npy_open(struct archive *a)
{
    archive_add(a, &(struct archive_entry){ .name = "", .end = a->file->size });
}

static struct tensor *npy_read_entry(struct archive *a, const struct archive_entry *e)
{
    struct io_where w = { a->file->path, NULL };
    struct npy_header h;
    size_t size = npy_header_size(&w, a->file->data, e->end);
    npy_header_parse(&w, a->file->data, size, e->end, &h);
    return io_tensor(&w, a->file, &h.array);
}

static void npy_write_file(const char *path, const char *const *names, struct tensor *const *tensors,
                           uint32_t n)
{
    struct io_writer w;
    HOP_UNUSED(names); /* one, whose name is the path */
    HOP_UNUSED(n);
    io_writer_begin(&w, path);
    struct text header = { .arena = &w.arena };
    npy_header_text(&header, tensors[0]);
    io_write(&w, header.data, header.len);
    io_write(&w, tensors[0]->data, (size_t)tensors[0]->count * dtype_info[tensors[0]->dtype].size);
    io_writer_finish(&w);
}

const struct io_format npy_format = { ".npy", npy_open, npy_read_entry, npy_write_file };
