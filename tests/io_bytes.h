/* Bytes of tensor files, right or wrong in one place, for the tests of the readers. */
#ifndef HOP_TEST_IO_BYTES_H
#define HOP_TEST_IO_BYTES_H

#include "base/base.h"

#include <zlib.h>

static struct text npy_bytes(struct arena *arena, uint32_t version, const char *header, size_t data)
{
    struct text t = { .arena = arena };
    size_t n = strlen(header);
    text_bytes(&t, "\x93NUMPY", 6);
    text_bytes(&t, (char[]){ (char)version, 0, (char)n, (char)(n >> 8), (char)(n >> 16), (char)(n >> 24) },
               version == 1 ? 4 : 6);
    text_str(&t, header);
    for (size_t i = 0; i < data; i++) text_bytes(&t, "\1", 1);
    return t;
}

static struct text safetensors_bytes(struct arena *arena, const char *header, size_t length, size_t data)
{
    struct text t = { .arena = arena };
    uint64_t n = length;
    text_bytes(&t, (const char *)&n, 8);
    text_bytes(&t, header, length);
    for (size_t i = 0; i < data; i++) text_bytes(&t, "\1", 1);
    return t;
}

struct zip {
    const char *name; /* of the member */
    const void *data;
    size_t size;
    bool deflate;
    bool zip64; /* sizes in an extra field */
    int64_t size_error, packed_error, offset_error, count_error, directory_error,
        crc_error; /* added to what the directory says */
    uint32_t flags, method_error;
    const char *local_name; /* NULL: as in the directory */
    const char *trailing;   /* inside the member, after its data */
    bool twice;             /* the directory names the member again */
    size_t inner; /* not 0: the directory names a second member z.npy, stored, whose header stands at this
                     place in the first one's data */
    size_t inner_size;
};

static void put(struct text *t, uint64_t v, size_t bytes) { text_bytes(t, (const char *)&v, bytes); }

static struct text deflated(struct arena *arena, const void *data, size_t size)
{
    struct text out = { .arena = arena };
    z_stream z = { 0 };
    char *to = arena_alloc(arena, size + 1000);
    deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)data, z.avail_in = (uInt)size, z.next_out = (Bytef *)to,
    z.avail_out = (uInt)size + 1000;
    deflate(&z, Z_FINISH); /* there is room: it ends */
    text_bytes(&out, to, z.total_out);
    deflateEnd(&z);
    return out;
}

static struct text zip_bytes(struct arena *arena, const struct zip *c)
{
    struct text out = { .arena = arena }, packed = { .arena = arena };
    if (c->deflate) packed = deflated(arena, c->data, c->size);
    else text_bytes(&packed, c->data, c->size);
    if (c->trailing) text_str(&packed, c->trailing);
    uint32_t crc = (uint32_t)crc32(0, c->data, (uInt)c->size) + (uint32_t)c->crc_error,
             method = (c->deflate ? 8 : 0) + c->method_error;
    const char *local = c->local_name ? c->local_name : c->name;
    put(&out, 0x04034b50, 4), put(&out, 45, 2), put(&out, c->flags, 2), put(&out, c->deflate ? 8 : 0, 2),
        put(&out, 0, 4), put(&out, crc, 4);
    put(&out, packed.len, 4), put(&out, c->size, 4), put(&out, strlen(local), 2), put(&out, 0, 2);
    text_str(&out, local);
    text_bytes(&out, packed.data, packed.len);
    uint64_t directory = out.len;
    uint32_t count = c->twice || c->inner ? 2 : 1;
    for (uint32_t i = 0; i < count; i++) {
        bool inner = i && c->inner;
        const char *name = inner ? "z.npy" : c->name;
        uint64_t size = inner ? c->inner_size : c->size + (uint64_t)c->size_error,
                 length = inner ? c->inner_size : packed.len + (uint64_t)c->packed_error;
        uint64_t offset = inner ? 30 + strlen(local) + c->inner : (uint64_t)c->offset_error;
        put(&out, 0x02014b50, 4), put(&out, 45, 2), put(&out, 45, 2), put(&out, c->flags, 2),
            put(&out, method, 2), put(&out, 0, 4), put(&out, crc, 4);
        put(&out, c->zip64 ? 0xffffffff : length, 4), put(&out, c->zip64 ? 0xffffffff : size, 4),
            put(&out, strlen(name), 2), put(&out, c->zip64 ? 26 : 0, 2);
        put(&out, 0, 2), put(&out, 0, 2), put(&out, 0, 2), put(&out, 0, 4), put(&out, offset, 4);
        text_str(&out, name);
        if (c->zip64)
            put(&out, 0x7777, 2), put(&out, 2, 2), put(&out, 0, 2), put(&out, 1, 2), put(&out, 16, 2),
                put(&out, size, 8), put(&out, length, 8);
    }
    uint64_t end = out.len;
    put(&out, 0x06054b50, 4), put(&out, 0, 4), put(&out, count + (uint64_t)c->count_error, 2),
        put(&out, count + (uint64_t)c->count_error, 2);
    put(&out, end - directory + (uint64_t)c->directory_error, 4), put(&out, directory, 4), put(&out, 0, 2);
    return out;
}

#endif
