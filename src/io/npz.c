/* NumPy's .npz: a zip file whose members are .npy arrays, stored or deflated. The directory at the end of the
 * file is read and checked whole when the file is opened: members lie inside the file, do not overlap and
 * agree with what stands before them; zip64 sizes are understood. Members are written stored. */
#include "io/io.h"

#include <unistd.h>
#include <zlib.h>

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END64 = 0x06064b50,
    LOCATOR64 = 0x07064b50,
    LOCAL_SIZE = 30,
    CENTRAL_SIZE = 46,
    END_SIZE = 22,
    END64_SIZE = 56,
    LOCATOR64_SIZE = 20,
    FLAG_ENCRYPTED = 1,
    FLAG_UTF8 = 1 << 11,
    STORED = 0,
    DEFLATED = 8,
    EXTRA_ZIP64 = 1,
    LARGEST_RATIO = 1032 /* deflate makes at most so many bytes out of one */
};

static uint32_t get16(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t get32(const uint8_t *p) { return get16(p) | get16(p + 2) << 16; }
static uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* ---- the directory ---- */

struct directory {
    uint64_t offset, size, count;
};

/* The last end record whose comment reaches exactly to the end of the file. */
static uint64_t find_end(const struct io_where *w, const struct io_file *f)
{
    if (f->size >= END_SIZE)
        for (uint64_t at = f->size - END_SIZE;; at--) {
            if (get32(f->data + at) == END && get16(f->data + at + 20) == f->size - at - END_SIZE) return at;
            if (!at || f->size - at >= END_SIZE + 0xffff) break;
        }
    io_fail(HOP_INVALID, w,
            "expected a zip file, found no end-of-directory record at its end (is it truncated, or does "
            "something follow it?)");
}

static struct directory find_directory(const struct io_where *w, const struct io_file *f)
{
    uint64_t end = find_end(w, f), limit = end;
    const uint8_t *e = f->data + end;
    struct directory d = { get32(e + 16), get32(e + 12), get16(e + 10) };
    bool wide = d.count == 0xffff || d.size == 0xffffffff || d.offset == 0xffffffff;
    bool parts = get16(e + 4) || get16(e + 6) || get16(e + 8) != d.count;
    if (wide && end >= LOCATOR64_SIZE && get32(e - LOCATOR64_SIZE) == LOCATOR64) {
        limit = get64(e - LOCATOR64_SIZE + 8);
        uint64_t locator = end - LOCATOR64_SIZE;
        bool inside = locator >= END64_SIZE && limit <= locator - END64_SIZE;
        bool found = inside && get32(f->data + limit) == END64;
        if (!found || get64(f->data + limit + 4) != locator - limit - 12)
            io_fail(HOP_INVALID, w,
                    "zip64 locator: expected the offset of a zip64 end record just before it, found %llu",
                    (unsigned long long)limit);
        const uint8_t *r = f->data + limit;
        d = (struct directory){ get64(r + 48), get64(r + 40), get64(r + 32) };
        parts = get32(r + 16) || get32(r + 20) || get64(r + 24) != d.count;
    }
    if (parts) io_fail(HOP_INVALID, w, "expected a zip file in one part, found one of several");
    if (d.offset > limit || d.size != limit - d.offset)
        io_fail(HOP_INVALID, w, "directory: expected it to end at byte %llu, found offset %llu and size %llu",
                (unsigned long long)limit, (unsigned long long)d.offset, (unsigned long long)d.size);
    if (d.count > d.size / CENTRAL_SIZE)
        io_fail(HOP_INVALID, w, "directory: expected at most %llu members in %llu bytes, found %llu",
                (unsigned long long)(d.size / CENTRAL_SIZE), (unsigned long long)d.size,
                (unsigned long long)d.count);
    return d;
}

struct member {
    const uint8_t *name;
    uint32_t name_length, method, flags;
    uint64_t packed, size, offset;
};

/* The 64-bit sizes of a member, in the order in which the 32-bit ones are all ones. */
static void read_zip64(const struct io_where *w, const uint8_t *extra, uint32_t length, struct member *m)
{
    uint64_t *fields[3] = { &m->size, &m->packed, &m->offset };
    const uint8_t *at = extra, *end = extra + length;
    if (m->size != 0xffffffff && m->packed != 0xffffffff && m->offset != 0xffffffff) return;
    while (end - at >= 4 && (size_t)(end - at) - 4 >= get16(at + 2)) {
        const uint8_t *value = at + 4, *stop = value + get16(at + 2);
        bool found = get16(at) == EXTRA_ZIP64;
        at = stop;
        if (!found) continue;
        for (int i = 0; i < 3; i++) {
            if (*fields[i] != 0xffffffff) continue;
            if (stop - value < 8)
                io_fail(HOP_INVALID, w, "zip64 field: expected 8 bytes for each size, found fewer");
            *fields[i] = get64(value);
            value += 8;
        }
        return;
    }
}

/* What stands in front of the member's bytes must say the same as the directory. Returns where the bytes
 * begin. */
static uint64_t check_local(const struct io_where *w, const struct io_file *f, const struct member *m,
                            uint64_t limit)
{
    if (m->offset > limit || limit - m->offset < LOCAL_SIZE)
        io_fail(HOP_INVALID, w, "offset: expected a place before the directory at byte %llu, found %llu",
                (unsigned long long)limit, (unsigned long long)m->offset);
    const uint8_t *l = f->data + m->offset;
    uint64_t before = LOCAL_SIZE + get16(l + 26) + get16(l + 28), room = limit - m->offset;
    if (get32(l) != LOCAL)
        io_fail(HOP_INVALID, w, "offset: expected a member at byte %llu, found none",
                (unsigned long long)m->offset);
    if (before > room)
        io_fail(HOP_INVALID, w,
                "expected its header to end before the directory at byte %llu, found it at %llu",
                (unsigned long long)limit, (unsigned long long)m->offset + before);
    bool same_length = get16(l + 26) == m->name_length;
    bool same_name = same_length && !memcmp(l + LOCAL_SIZE, m->name, m->name_length);
    if (!same_name || get16(l + 8) != m->method)
        io_fail(HOP_INVALID, w,
                "expected the name and the method that the directory gives, found others before the data");
    if (m->packed > room - before)
        io_fail(HOP_INVALID, w, "size: expected at most the %llu bytes before the directory, found %llu",
                (unsigned long long)(room - before), (unsigned long long)m->packed);
    return m->offset + before;
}

struct range {
    uint64_t begin, end;
    const char *name;
};

static int compare_ranges(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    if (x->begin != y->begin) return x->begin > y->begin ? 1 : -1;
    return (x->end > y->end) - (x->end < y->end);
}

static void npz_open(struct archive *a)
{
    const struct io_file *f = a->file;
    struct io_where w = { f->path, NULL };
    struct directory d = find_directory(&w, f);
    struct arena scratch = { 0 };
    hop_cleanup_push(arena_free, &scratch);
    struct range *ranges = ARENA_NEW(&scratch, struct range, d.count);
    const uint8_t *at = f->data + d.offset, *end = at + d.size;
    for (uint64_t i = 0; i < d.count; i++) {
        if ((size_t)(end - at) < CENTRAL_SIZE || get32(at) != CENTRAL)
            io_fail(HOP_INVALID, &w, "directory: expected %llu members, found %llu",
                    (unsigned long long)d.count, (unsigned long long)i);
        struct member m = { at + CENTRAL_SIZE, get16(at + 28), get16(at + 10), get16(at + 8),
                            get32(at + 20),    get32(at + 24), get32(at + 42) };
        uint64_t whole = (uint64_t)CENTRAL_SIZE + m.name_length + get16(at + 30) + get16(at + 32);
        if ((size_t)(end - at) < whole)
            io_fail(HOP_INVALID, &w, "directory: member %llu passes its end", (unsigned long long)i);
        if (memchr(m.name, 0, m.name_length) || !io_is_utf8((const char *)m.name, m.name_length))
            io_fail(HOP_INVALID, &w, "the name of member %llu is not UTF-8", (unsigned long long)i);
        char *name = arena_string(&a->arena, (const char *)m.name, m.name_length);
        struct io_where in = { f->path, name };
        read_zip64(&in, at + CENTRAL_SIZE + m.name_length, get16(at + 30), &m);
        struct archive_entry e = { .name = name,
                                   .begin = check_local(&in, f, &m, d.offset),
                                   .size = m.size,
                                   .crc = get32(at + 16),
                                   .deflated = m.method == DEFLATED };
        e.end = e.begin + m.packed;
        ranges[i] = (struct range){ m.offset, e.end, name };
        at += whole;
        /* other members than arrays are left alone */
        if (m.name_length < 5 || memcmp(name + m.name_length - 4, ".npy", 4)) continue;
        if (m.flags & FLAG_ENCRYPTED)
            io_fail(HOP_INVALID, &in, "expected a plain member, found an encrypted one");
        if (m.method != STORED && m.method != DEFLATED)
            io_fail(HOP_INVALID, &in, "method: expected 0 (stored) or 8 (deflated), found %u", m.method);
        e.name = arena_string(&a->arena, name, m.name_length - 4);
        archive_add(a, &e);
    }
    if (at != end)
        io_fail(HOP_INVALID, &w, "directory: %llu members end %zu bytes before it does",
                (unsigned long long)d.count, (size_t)(end - at));
    qsort(ranges, d.count, sizeof *ranges, compare_ranges);
    for (uint64_t i = 1; i < d.count; i++)
        if (ranges[i].begin < ranges[i - 1].end)
            io_fail(HOP_INVALID, &w, "the members '%.100s' and '%.100s' overlap", ranges[i - 1].name,
                    ranges[i].name);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
}

/* ---- members ---- */

/* A stream of deflated bytes, of which exactly as many are taken as are asked for. */
struct inflater {
    z_stream z;
    const struct io_where *w;
    const uint8_t *in;
    uint64_t left, made, size;
    uint32_t crc;
    bool ended;
};

static void *inflater_alloc(void *ctx, unsigned count, unsigned size)
{
    HOP_UNUSED(ctx);
    return hop_try_malloc((size_t)count * size);
}
static void inflater_release(void *ctx, void *block)
{
    HOP_UNUSED(ctx);
    hop_free(block);
}
static void inflater_end(void *inflater) { inflateEnd(&((struct inflater *)inflater)->z); }

static void inflater_begin(struct inflater *s, const struct io_where *w, const struct io_file *f,
                           const struct archive_entry *e)
{
    *s = (struct inflater){ .w = w,
                            .in = f->data + e->begin,
                            .left = e->end - e->begin,
                            .size = e->size,
                            .crc = (uint32_t)crc32_z(0, NULL, 0) };
    s->z.zalloc = inflater_alloc;
    s->z.zfree = inflater_release;
    if (inflateInit2(&s->z, -MAX_WBITS) != Z_OK) io_fail(HOP_NOMEM, w, "out of memory");
    hop_cleanup_push(inflater_end, s);
}

/* Bytes made, fewer than n only at the end of the stream. */
static size_t inflate_some(struct inflater *s, uint8_t *to, size_t n)
{
    size_t made = 0;
    int code = Z_OK;
    while (made < n && code == Z_OK) {
        uInt in = (uInt)HOP_MIN(s->left, (uint64_t)1 << 30), out = (uInt)HOP_MIN(n - made, (size_t)1 << 30);
        s->z.next_in = (Bytef *)s->in;
        s->z.avail_in = in;
        s->z.next_out = to + made;
        s->z.avail_out = out;
        code = inflate(&s->z, Z_NO_FLUSH);
        s->in += in - s->z.avail_in;
        s->left -= in - s->z.avail_in;
        made += out - s->z.avail_out;
    }
    if (code == Z_MEM_ERROR) io_fail(HOP_NOMEM, s->w, "out of memory");
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        io_fail(HOP_INVALID, s->w, "the deflated data is damaged after %llu bytes: %s",
                (unsigned long long)s->made + made, s->z.msg ? s->z.msg : "wrong code");
    s->ended = code == Z_STREAM_END;
    s->made += made;
    s->crc = (uint32_t)crc32_z(s->crc, to, made);
    return made;
}

static void inflate_exactly(struct inflater *s, void *to, size_t n)
{
    if (inflate_some(s, to, n) < n)
        io_fail(HOP_INVALID, s->w, "size: expected %llu inflated bytes, found %llu",
                (unsigned long long)s->size, (unsigned long long)s->made);
}

static void check_crc(const struct io_where *w, uint32_t expected, uint32_t found)
{
    if (expected != found)
        io_fail(HOP_INVALID, w, "checksum: expected %08x, found %08x: the data is damaged", expected, found);
}

static struct tensor *read_stored(const struct io_where *w, struct archive *a, const struct archive_entry *e)
{
    const uint8_t *data = a->file->data + e->begin;
    struct npy_header h;
    if (e->size != e->end - e->begin)
        io_fail(HOP_INVALID, w, "size: expected %llu bytes as stored, found %llu",
                (unsigned long long)(e->end - e->begin), (unsigned long long)e->size);
    check_crc(w, e->crc, (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, e->size));
    npy_header_parse(w, data, npy_header_size(w, data, e->size), e->size, &h);
    h.array.offset += e->begin;
    return io_tensor(w, a->file, &h.array);
}

/* What is allocated is what the array's own header asks for, which must agree with the directory, which must
 * be possible for deflate. */
static struct tensor *read_deflated(const struct io_where *w, struct archive *a,
                                    const struct archive_entry *e)
{
    uint64_t packed = e->end - e->begin;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (e->size > packed * LARGEST_RATIO)
        io_fail(HOP_INVALID, w, "size: expected at most %llu bytes out of %llu deflated ones, found %llu",
                (unsigned long long)packed * LARGEST_RATIO, (unsigned long long)packed,
                (unsigned long long)e->size);
    if (e->size > memory)
        io_fail(HOP_INVALID, w, "size: expected at most the machine's memory (%llu bytes), found %llu",
                (unsigned long long)memory, (unsigned long long)e->size);
    struct inflater s;
    struct arena scratch = { 0 };
    struct npy_header h;
    uint8_t start[NPY_PREAMBLE] = { 0 }, more;
    hop_cleanup_push(arena_free, &scratch);
    inflater_begin(&s, w, a->file, e);
    size_t first = HOP_MIN(e->size, sizeof start);
    inflate_exactly(&s, start, first);
    size_t size = npy_header_size(w, start, e->size);
    uint8_t *header = arena_alloc(&scratch, HOP_MAX(size, first));
    memcpy(header, start, first);
    if (size > first) inflate_exactly(&s, header + first, size - first);
    npy_header_parse(w, header, size, e->size, &h);
    struct tensor *t = tensor_new(h.array.dtype, h.array.rank, h.array.dims);
    hop_cleanup_push(tensor_free, t);
    /* a header of 10 or 11 bytes leaves the first bytes of the data in what was inflated already; no
     * dictionary is so short */
    inflate_exactly(&s, t->data, (size_t)h.bytes);
    if (inflate_some(&s, &more, 1))
        io_fail(HOP_INVALID, w, "size: expected %llu inflated bytes, found more",
                (unsigned long long)e->size);
    if (!s.ended || s.left)
        io_fail(HOP_INVALID, w, "expected the deflated data to end with the member, found %s",
                s.ended ? "bytes after its end" : "no end");
    check_crc(w, e->crc, s.crc);
    io_check_bools(w, h.array.dtype, t->data, t->count);
    if (h.array.swapped) io_swap_bytes(t->data, dtype_info[t->dtype].size, t->count);
    hop_cleanup_pop(t);
    hop_cleanup_pop(&s);
    inflater_end(&s);
    hop_cleanup_pop(&scratch);
    arena_free(&scratch);
    if (!h.array.fortran) return t;
    hop_cleanup_push(tensor_free, t);
    struct tensor *turned = tensor_new(h.array.dtype, h.array.rank, h.array.dims);
    int64_t strides[MAX_RANK], stride = 1;
    for (uint32_t i = 0; i < h.array.rank; i++) {
        strides[i] = stride;
        stride *= h.array.dims[i];
    }
    io_gather(turned->data, t->data, dtype_info[t->dtype].size, t->rank, t->dims, strides);
    hop_cleanup_pop(t);
    tensor_free(t);
    return turned;
}

static struct tensor *npz_read(struct archive *a, const struct archive_entry *e)
{
    struct io_where w = { a->file->path, e->name };
    return (e->deflated ? read_deflated : read_stored)(&w, a, e);
}

/* ---- writing ---- */

uint64_t npz_zip64_from = 0xffffffff;

static void put16(struct text *t, uint64_t v) { text_bytes(t, (char[]){ (char)v, (char)(v >> 8) }, 2); }
static void put32(struct text *t, uint64_t v)
{
    put16(t, v);
    put16(t, v >> 16);
}
static void put64(struct text *t, uint64_t v)
{
    put32(t, v);
    put32(t, v >> 32);
}
static bool is_wide(uint64_t v) { return v >= npz_zip64_from; }
static uint64_t narrow(uint64_t v) { return is_wide(v) ? 0xffffffff : v; }

/* Version, flags, method, time, date, checksum, sizes, length of the name: the same in both places. */
static void put_member(struct text *t, const char *name, uint32_t crc, uint64_t size)
{
    bool plain = true;
    for (const char *c = name; *c; c++) plain = plain && (unsigned char)*c < 0x80;
    put16(t, 45); /* zip64 */
    put16(t, plain ? 0 : FLAG_UTF8);
    put16(t, STORED);
    put16(t, 0);
    put16(t, 0x21); /* 1980-01-01: equal content makes equal files */
    put32(t, crc);
    put32(t, narrow(size));
    put32(t, narrow(size));
    put16(t, strlen(name) + 4);
}

static void write_member(struct io_writer *w, const char *name, const struct tensor *t, struct text *central)
{
    struct text header = { .arena = &w->arena }, local = { .arena = &w->arena };
    npy_header_text(&header, t);
    size_t bytes = (size_t)t->count * dtype_info[t->dtype].size;
    uint64_t size = header.len + bytes, offset = w->written;
    uLong sum = crc32_z(0, NULL, 0);
    sum = crc32_z(sum, (const Bytef *)header.data, header.len);
    uint32_t crc = (uint32_t)crc32_z(sum, t->data, bytes);
    uint32_t extra = (is_wide(size) ? 16 : 0) + (is_wide(offset) ? 8 : 0);
    put32(&local, LOCAL);
    put_member(&local, name, crc, size);
    put16(&local, is_wide(size) ? 20 : 0);
    text_add(&local, "%s.npy", name);
    if (is_wide(size)) {
        put16(&local, EXTRA_ZIP64);
        put16(&local, 16);
        put64(&local, size);
        put64(&local, size);
    }
    io_write(w, local.data, local.len);
    io_write(w, header.data, header.len);
    io_write(w, t->data, bytes);

    put32(central, CENTRAL);
    put16(central, 3 << 8 | 45); /* made on Unix */
    put_member(central, name, crc, size);
    put16(central, extra ? extra + 4 : 0);
    put16(central, 0); /* comment */
    put16(central, 0); /* part */
    put16(central, 0);
    put32(central, (uint64_t)0100644 << 16); /* a regular file */
    put32(central, narrow(offset));
    text_add(central, "%s.npy", name);
    if (extra) {
        put16(central, EXTRA_ZIP64);
        put16(central, extra);
    }
    if (is_wide(size)) {
        put64(central, size);
        put64(central, size);
    }
    if (is_wide(offset)) put64(central, offset);
}

/* A name that unpacks to a file outside of the folder would be a trap for others. */
static void check_member_name(const char *path, const char *name)
{
    bool climbs = name[0] == '/' || strchr(name, '\\');
    for (const char *part = name; part && !climbs; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        climbs = !strcmp(part, "..") || !strncmp(part, "../", 3);
    if (climbs)
        hop_throw(
            HOP_INVALID,
            "%s: expected a name that stays inside the file's folder when it is unpacked, found '%.200s'",
            path, name);
    if (strlen(name) > 0xffff - 4)
        hop_throw(HOP_INVALID, "%s: expected names of at most %d bytes, found %zu", path, 0xffff - 4,
                  strlen(name));
}

static void npz_write(const char *path, const char *const *names, struct tensor *const *tensors, uint32_t n)
{
    struct io_writer w;
    for (uint32_t i = 0; i < n; i++) check_member_name(path, names[i]);
    io_writer_begin(&w, path);
    struct text central = { .arena = &w.arena }, end = { .arena = &w.arena };
    for (uint32_t i = 0; i < n; i++) write_member(&w, names[i], tensors[i], &central);
    uint64_t offset = w.written, limit = offset + central.len;
    bool many = n >= HOP_MIN(npz_zip64_from, 0xffff);
    if (many || is_wide(central.len) || is_wide(offset)) {
        put32(&end, END64);
        put64(&end, END64_SIZE - 12);
        put16(&end, 45);
        put16(&end, 45);
        put32(&end, 0);
        put32(&end, 0);
        put64(&end, n);
        put64(&end, n);
        put64(&end, central.len);
        put64(&end, offset);
        put32(&end, LOCATOR64);
        put32(&end, 0);
        put64(&end, limit);
        put32(&end, 1);
    }
    put32(&end, END);
    put32(&end, 0); /* parts */
    put16(&end, many ? 0xffff : n);
    put16(&end, many ? 0xffff : n);
    put32(&end, narrow(central.len));
    put32(&end, narrow(offset));
    put16(&end, 0);
    if (central.len) io_write(&w, central.data, central.len);
    io_write(&w, end.data, end.len);
    io_writer_finish(&w);
}

const struct io_format npz_format = { ".npz", npz_open, npz_read, npz_write };
