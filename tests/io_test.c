/* Tensor files and DLPack: golden files of other programs, round trips, files that lie, writing that fails
 * half-way, who frees what. */
#include "check.h"
#include "check/check.h"
#include "io/dlpack.h"
#include "io_bytes.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct arena arena; /* of the test that runs */
static char folder[64];

static const char *in_folder(const char *name) { return arena_printf(&arena, "%s/%s", folder, name); }
static const char *golden(const char *name) { return arena_printf(&arena, "tests/data/%s", name); }

/* ---- attempts ---- */

struct loading {
    const char *spec;
    struct tensor *t;
};
static void do_load(void *ctx)
{
    struct loading *l = ctx;
    l->t = io_load(l->spec);
}
/* NULL when it fails: hop_message() says why. */
static struct tensor *load(const char *spec)
{
    struct loading l = { spec, NULL };
    return attempt(do_load, &l) ? NULL : l.t;
}

struct saving {
    const char *path;
    const char *const *names;
    struct tensor *const *tensors;
    uint32_t n;
};
static void do_save(void *ctx)
{
    struct saving *s = ctx;
    io_save(s->path, s->names, s->tensors, s->n);
}
static hop_status save(const char *path, const char *const *names, struct tensor *const *tensors, uint32_t n)
{
    return attempt(do_save, &(struct saving){ path, names, tensors, n });
}

struct reading { /* of bytes in memory: every entry of the file */
    const struct io_format *format;
    const void *bytes;
    size_t size;
    uint32_t entries;
};
static void do_read(void *ctx)
{
    struct reading *r = ctx;
    struct archive *a = archive_open_file(io_file_copy("bytes", r->bytes, r->size), r->format);
    hop_cleanup_push(archive_free, a);
    r->entries = a->entries.len;
    for (uint32_t i = 0; i < a->entries.len; i++) tensor_free(archive_read(a, i));
    hop_cleanup_pop(a);
    archive_free(a);
}

static void expect_bad(int line, const struct io_format *format, const struct text *bytes, hop_status status,
                       const char *message)
{
    int64_t live = hop_live_allocations();
    struct reading r = { format, bytes->data, bytes->len, 0 };
    hop_status found = attempt(do_read, &r);
    bool good = found == status &&
                (!status || (!strncmp(hop_message(), "bytes: ", 7) && strstr(hop_message(), message))) &&
                hop_live_allocations() == live;
    CLAIM(good, "line %d: expected status %d and '%s', found %d and '%s', %lld allocations left", line,
          status, message, found, found ? hop_message() : "", (long long)(hop_live_allocations() - live));
}
#define BAD(format, bytes, message) expect_bad(__LINE__, &format, bytes, HOP_INVALID, message)
#define GOOD(format, bytes) expect_bad(__LINE__, &format, bytes, HOP_OK, "")

/* ---- what the golden files hold ---- */

static double formula(enum dtype dtype, int64_t i)
{
    int kind = dtype_info[dtype].kind;
    return kind == KIND_BOOL   ? i % 3 == 0
           : kind == KIND_UINT ? (double)i
           : kind == KIND_INT  ? (double)i - 2
                               : (double)i - 2.5;
}

static void expect_formula(const char *spec, const char *type)
{
    struct tensor *t = load(spec);
    CLAIM(t, "%s: %s", spec, hop_message());
    if (!t) return;
    struct text found = { .arena = &arena };
    tensor_type_text(&found, t);
    CLAIM(!strcmp(found.data, type), "%s: expected %s, found %s", spec, type, found.data);
    int64_t wrong = 0;
    for (int64_t i = 0; i < t->count; i++) wrong += tensor_get(t, i) != formula((enum dtype)t->dtype, i);
    CLAIM(!wrong, "%s: %lld elements are wrong", spec, (long long)wrong);
    tensor_free(t);
}

static struct tensor *formula_tensor(enum dtype dtype, uint32_t rank, const int64_t *dims)
{
    struct tensor *t = tensor_new(dtype, rank, dims);
    for (int64_t i = 0; i < t->count; i++) tensor_set(t, i, formula(dtype, i));
    return t;
}

static struct text file_bytes(const char *path)
{
    struct text out = { .arena = &arena };
    out.data = file_text(&arena, path, &out.len);
    return out;
}

static void test_golden(void)
{
    static const struct {
        const char *spec, *type;
    } files[] = {
        { "f4.npy", "f32[2, 3]" },
        { "f8_scalar.npy", "f64[]" },
        { "b1.npy", "bool[7]" },
        { "i8_empty.npy", "i64[0, 4]" },
        { "i4_big_endian.npy", "i32[2, 3]" },
        { "f8_fortran.npy", "f64[2, 3, 2]" },
        { "f4_big_fortran.npy", "f32[3, 4]" },
        { "u4_version2.npy", "u32[5]" },
        { "plain.npz:a", "f32[2, 3]" },
        { "plain.npz:b", "i64[4]" },
        { "plain.npz:naïve", "bool[3]" },
        { "deflated.npz:a", "f32[20, 30]" },
        { "deflated.npz:b", "f64[2, 3]" },
        { "deflated.npz:c", "i32[]" },
        { "streamed.npz:x", "i32[3]" },
        { "streamed.npz", "i32[3]" },
        { "several.safetensors:w", "f32[2, 3]" },
        { "several.safetensors:i", "i64[2]" },
        { "several.safetensors:flags", "bool[3]" },
        { "several.safetensors:empty", "f64[0, 2]" },
        { "several.safetensors:scalar", "f64[]" },
        { "several.safetensors:quo\"te\n", "i32[1]" },
        { "small_floats.safetensors:w", "f32[2]" },
    };
    for (size_t i = 0; i < HOP_COUNT(files); i++) expect_formula(golden(files[i].spec), files[i].type);
    static const char *const again[] = { "f4.npy", "f8_scalar.npy", "b1.npy", "i8_empty.npy" };
    for (size_t i = 0; i < HOP_COUNT(again); i++) {
        struct tensor *t = load(golden(again[i]));
        CLAIM(t && !save(in_folder("again.npy"), NULL, &t, 1), "%s: %s", again[i], hop_message());
        struct text a = file_bytes(golden(again[i])), b = file_bytes(in_folder("again.npy"));
        CLAIM(a.len == b.len && !memcmp(a.data, b.data, a.len), "%s is written differently", again[i]);
        tensor_free(t);
    }
    /* dtypes that hop does not have are refused by name, whatever else is in the file */
    enum dtype dtype;
    static const struct {
        const char *spec, *dtype, *type, *message;
    } optional[] = {
        { "bf16.npy", "bf16", "bf16[3]", "'<V2'" },
        { "small_floats.safetensors:half", "f16", "f16[3]", "'F16'" },
        { "small_floats.safetensors:brain", "bf16", "bf16[3]", "'BF16'" },
        { "c8.npy", "c64", "", "'<c8'" },
    };
    for (size_t i = 0; i < HOP_COUNT(optional); i++) {
        struct tensor *t = load(golden(optional[i].spec));
        bool have = dtype_from_name(optional[i].dtype, strlen(optional[i].dtype), &dtype);
        CLAIM(have ? t != NULL : !t && strstr(hop_message(), optional[i].message), "%s: %s", optional[i].spec,
              t ? "read" : hop_message());
        tensor_free(t);
    }
}

/* ---- round trips ---- */

static void test_round_trips(void)
{
    static const struct {
        uint32_t rank;
        int64_t dims[MAX_RANK];
    } shapes[] = { { 0, { 0 } },
                   { 1, { 0 } },
                   { 1, { 5 } },
                   { 2, { 3, 4 } },
                   { 3, { 2, 0, 7 } },
                   { 4, { 2, 1, 3, 2 } },
                   { 12, { 1, 1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 3 } } };
    static const char *const files[] = { "all.npz", "all.safetensors", "wide.npz" };
    enum { N = DT_COUNT * HOP_COUNT(shapes) };
    struct tensor *all[N];
    const char *names[N];
    uint32_t n = 0;
    for (int dtype = 0; dtype < DT_COUNT; dtype++)
        for (size_t s = 0; s < HOP_COUNT(shapes); s++, n++) {
            all[n] = formula_tensor((enum dtype)dtype, shapes[s].rank, shapes[s].dims);
            names[n] = arena_printf(&arena, "%s/%s.%zu \"ü\"", dtype_info[dtype].name, s % 2 ? "x" : "ñ", s);
            CLAIM(!save(in_folder("one.npy"), NULL, &all[n], 1), "%s", hop_message());
            struct tensor *back = load(in_folder("one.npy"));
            const char *d = back ? tensor_difference(&arena, back, all[n], (struct bound){ BOUND_BITS })
                                 : hop_message();
            CLAIM(!d, "%s: %s", names[n], d);
            tensor_free(back);
        }
    for (size_t k = 0; k < HOP_COUNT(files); k++) {
        npz_zip64_from = k == 2 ? 1 : 0xffffffff; /* every size and count in its 64-bit form */
        CLAIM(!save(in_folder(files[k]), names, all, n), "%s", hop_message());
        npz_zip64_from = 0xffffffff;
        for (uint32_t i = 0; i < n; i++) {
            struct tensor *back = load(arena_printf(&arena, "%s:%s", in_folder(files[k]), names[i]));
            const char *d = back ? tensor_difference(&arena, back, all[i], (struct bound){ BOUND_BITS })
                                 : hop_message();
            CLAIM(!d, "%s: %s: %s", files[k], names[i], d);
            if (back && k == 1) CLAIM(!back->count || back->release, "%s: %s is copied", files[k], names[i]);
            tensor_free(back);
        }
        CLAIM(!save(in_folder(files[k]), NULL, NULL, 0), "no tensors at all: %s", hop_message());
        struct text bytes = file_bytes(in_folder(files[k]));
        struct reading r = { k == 1 ? &safetensors_format : &npz_format, bytes.data, bytes.len, 9 };
        CLAIM(!attempt(do_read, &r) && !r.entries, "an empty %s: %u entries", files[k], r.entries);
    }
    for (uint32_t i = 0; i < n; i++) tensor_free(all[i]);
}

static void test_names(void)
{
    struct tensor *t = formula_tensor(DT_F32, 1, (int64_t[]){ 2 }), *two[2] = { t, t };
    static const struct {
        const char *file, *a, *b, *message;
    } bad[] = {
        { "n.npz", "x", "x", "two tensors have the name 'x'" },
        { "n.safetensors", "x", "x", "two tensors have the name 'x'" },
        { "n.npz", "x", "", "expected a name" },
        { "n.npz", "x", "../y", "stays inside" },
        { "n.npz", "x", "a/../../y", "stays inside" },
        { "n.npz", "x", "/y", "stays inside" },
        { "n.npz", "x", "..", "stays inside" },
        { "n.safetensors", "x", "__metadata__", "taken by the format" },
        { "n.safetensors", "x", "\xff", "not UTF-8" },
        { "n.npz", "\xc0\x80", "x", "tensor 0 is not UTF-8" },
        { "n.npy", "x", "y", "one tensor, found 2" },
        { "n.txt", "x", "y", "ends in .npy, .npz or .safetensors" },
        { ".npz", "x", "y", NULL },
    };
    for (size_t i = 0; i < HOP_COUNT(bad); i++) {
        const char *pair[] = { bad[i].a, bad[i].b };
        hop_status status = save(in_folder(bad[i].file), pair, two, 2);
        CLAIM(bad[i].message ? status == HOP_INVALID && strstr(hop_message(), bad[i].message) &&
                                   access(in_folder(bad[i].file), F_OK)
                             : !status,
              "%zu: status %d, %s", i, status, hop_message());
    }
    CLAIM(save(in_folder("n.npz"), NULL, two, 2) == HOP_INVALID &&
              strstr(hop_message(), "a name for each tensor"),
          "%s", hop_message());
    const char *odd[] = { "a.npz:b.npy", "c:d" };
    CLAIM(!save(in_folder("odd:name.npz"), odd, two, 2), "%s", hop_message());
    for (int i = 0; i < 2; i++) {
        struct tensor *back = load(arena_printf(&arena, "%s:%s", in_folder("odd:name.npz"), odd[i]));
        CLAIM(back, "%s", hop_message());
        tensor_free(back);
    }
    static const struct {
        const char *text;
        bool is_file;
    } specs[] = {
        { "x.npy", true },   { "x.npz:a", true }, { "a/b.safetensors:x.y", true }, { "x.npy:", true },
        { ".npy", false },   { "[1, 2]", false }, { "random:7", false },           { "npz", false },
        { "x.npzz", false }, { "", false },
    };
    for (size_t i = 0; i < HOP_COUNT(specs); i++)
        CLAIM(io_names_file(specs[i].text) == specs[i].is_file, "'%s'", specs[i].text);
    CLAIM(!load(arena_printf(&arena, "%s:x", golden("f4.npy"))) && strstr(hop_message(), "without a name"),
          "%s", hop_message());
    CLAIM(!load(golden("plain.npz")) && strstr(hop_message(), "the names are: a, b, naïve"), "%s",
          hop_message());
    CLAIM(!load(golden("plain.npz:q")) && strstr(hop_message(), "there is no tensor 'q'"), "%s",
          hop_message());
    CLAIM(!load("x.txt") && strstr(hop_message(), "ends in"), "%s", hop_message());
    tensor_free(t);
}

/* ---- .npy files that lie ---- */

static void test_bad_npy(void)
{
    static const struct {
        const char *header;
        size_t data;
        const char *message;
    } cases[] = {
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, NULL },
        { "{\"shape\":(2L,),\"fortran_order\":True,\"descr\":\"=i4\"}", 8,
          NULL }, /* any order, any quotes, as Python 2 wrote it */
        { "  { 'descr' : 'f4' , 'fortran_order' : False , 'shape' : ( ) } \n", 4, NULL },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 7,
          "data: expected 8 bytes for the dtype and the shape, found 7" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 9,
          "data: expected 8 bytes for the dtype and the shape, found 9" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 0, "data: expected 8 bytes" },
        { "{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8,
          "descr: expected a dtype that hop has (bool, integers, floats), found '<c8'" },
        { "{'descr': '<f3', 'fortran_order': False, 'shape': (1,), }", 3, "found '<f3'" },
        { "{'descr': '', 'fortran_order': False, 'shape': (1,), }", 4, "found ''" },
        { "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 8, "found '|O'" },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4, "a structured one" },
        { "{'descr': 4, 'fortran_order': False, 'shape': (1,), }", 4, "a dtype such as '<f4', found '4'" },
        { "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", 4, "True or False, found 'M'" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4,
          "a size of 0 or more in the shape, found '-'" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,), }", 4,
          "',' or ')' in the shape, found '.'" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1), }", 4, "expected a tuple" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", 4, "'(' before the shape, found '1'" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (,), }", 4, "a size of 0 or more" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1), }", 4, "',' or ')'" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': "
          "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }",
          4, "at most 32 dims" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 4,
          "sizes below 2^63" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 4,
          "a product of at most 2^61 bytes" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }", 0,
          "a product of at most 2^61 bytes" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", 4,
          "data: expected 4000000000000 bytes for the dtype and the shape, found 4" },
        { "{'descr': '<f4', 'fortran_order': False, }", 4, "the key shape is missing" },
        { "{}", 4, "the key descr is missing" },
        { "{'descr': '<f4', 'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 4,
          "the key descr stands there twice" },
        { "{'descr': '<f4', 'order': False, 'shape': (1,), }", 4, "found 'order'" },
        { "{'descr': '<f4' 'fortran_order': False, 'shape': (1,), }", 4, "',' or '}', found '''" },
        { "{'descr' '<f4', 'fortran_order': False, 'shape': (1,), }", 4, "':', found" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", 4, "found the end" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,", 4, "found the end" },
        { "{'descr': '<f", 4, "a string that ends" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", 4,
          "nothing but spaces after '}', found 'x'" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }}", 4, "nothing but spaces after '}'" },
        { "__import__('os')", 4, "'{', found '_'" },
        { "", 4, "'{', found the end" },
        { "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", 3, NULL },
    };
    for (size_t i = 0; i < HOP_COUNT(cases); i++)
        for (uint32_t version = 1; version <= 3; version++) {
            struct text bytes = npy_bytes(&arena, version, cases[i].header, cases[i].data);
            expect_bad((int)i, &npy_format, &bytes, cases[i].message ? HOP_INVALID : HOP_OK,
                       cases[i].message ? cases[i].message : "");
        }
    const char *good = "{'descr': '|b1', 'fortran_order': False, 'shape': (19,), }";
    struct text bytes = npy_bytes(&arena, 1, good, 19);
    for (size_t i = 0; i < 19; i++) { /* wherever it stands */
        bytes.data[bytes.len - 19 + i] = 2;
        BAD(npy_format, &bytes, arena_printf(&arena, "element %zu: expected 0 or 1 as a bool, found 2", i));
        bytes.data[bytes.len - 19 + i] = 0;
    }
    GOOD(npy_format, &bytes);
    for (size_t n = 0; n < bytes.len; n++) {
        struct text cut = { .data = bytes.data, .len = n };
        BAD(npy_format, &cut, "expected");
    }
    bytes.data[6] = 4;
    BAD(npy_format, &bytes, "version: expected 1.0, 2.0 or 3.0, found 4.0");
    bytes.data[6] = 1, bytes.data[7] = 1;
    BAD(npy_format, &bytes, "version: expected 1.0, 2.0 or 3.0, found 1.1");
    bytes.data[7] = 0, bytes.data[9] = 1;
    BAD(npy_format, &bytes, "header length: expected at most the 77 bytes that follow, found 314");
    bytes.data[0] = 'P';
    BAD(npy_format, &bytes, "which begins with 93 4e 55 4d 50 59, found 50 4e");
    bytes = npy_bytes(&arena, 2, good, 19);
    bytes.data[11] = 0x7f;
    BAD(npy_format, &bytes, "header length: expected at most 1048576 bytes");
}

/* ---- .safetensors files that lie ---- */

static void test_bad_safetensors(void)
{
#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
#define B "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}"
    static const struct {
        const char *header;
        size_t data;
        const char *message;
    } cases[] = {
        { "{" A "}", 8, NULL },
        { "{}", 0, NULL },
        { "{" A "," B "}  \n", 12, NULL },
        { "{\n \"a\" : { \"shape\" : [ 2 ] , \"data_offsets\" : [ 0 , 8 ] , \"dtype\" : \"F32\" , \"more\" : "
          "[ { } , [ ] , -1.5e3 , true , null , \"\\u00e9\" ] } }",
          8, NULL },
        { "{\"__metadata__\":{\"k\":\"v\"}," A "}", 8, NULL },
        { "{\"\\u0061\\ud83d\\ude00\\n\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
          NULL },
        { "{" A "}", 9, "data: expected 8 bytes, found 9" },
        { "{" A "}", 7, "'a': data_offsets: expected a range inside the 7 bytes of data, found 0 to 8" },
        { "{" A "," A "}", 8, "the name 'a' stands there twice" },
        { "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8,
          "the tensors 'a' and 'b' overlap" },
        { "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "overlap" },
        { "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}", 16,
          "expected 'b' to begin at byte 8, where the one before ends, found 12" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "found 8 to 0" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
          "'a': data_offsets: expected 12 bytes for dtype and shape, found 8 (0 to 8)" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4],\"data_offsets\":[0,8]}}", 8,
          "a product of at most 2^61 bytes" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
          "a product of at most 2^61 bytes" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],\"data_offsets\":[0,8]}}", 8,
          "a number below 2^63" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,9223372036854775808]}}", 8,
          "a number below 2^63" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8,
          "a size of 0 or more in the shape, found '-'" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8,
          "a size of 0 or more in the shape, found '.'" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2e0],\"data_offsets\":[0,8]}}", 8,
          "a size of 0 or more in the shape, found 'e'" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[02],\"data_offsets\":[0,8]}}", 8,
          "a size of 0 or more in the shape, found '0'" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,],\"data_offsets\":[0,8]}}", 8,
          "a size of 0 or more in the shape, found ']'" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8,
          "'[' before the shape, found '2'" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
          "1,1,2],\"data_offsets\":[0,8]}}",
          8, "at most 32 dims" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8,
          "',' between the two offsets, found ']'" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8,
          "']' after the two offsets, found ','" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "the key data_offsets is missing" },
        { "{\"a\":{}}", 8, "the key dtype is missing" },
        { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
          "the key dtype stands there twice" },
        { "{\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "the name of a dtype, found '4'" },
        { "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8,
          "'a': dtype: expected one that hop has (BOOL, integers, floats), found 'F8_E4M3'" },
        { "{\"a\":[]}", 8, "'{' after the name of a tensor" },
        { "{\"__metadata__\":{\"k\":1}," A "}", 8, "a string: metadata holds nothing else" },
        { "{\"__metadata__\":{},\"__metadata__\":{}," A "}", 8, "the key __metadata__ stands there twice" },
        { "{" A, 8, "',' or '}', found the end" },
        { "{" A "} x", 8, "nothing but spaces after '}', found 'x'" },
        { "{" A ",}", 8, "the name of a tensor, found '}'" },
        { "{" A "," B, 12, "found the end" },
        { "{a:1}", 8, "the name of a tensor, found 'a'" },
        { "{\"a", 8, "a string that ends" },
        { "{\"a\\", 8, "a string that ends" },
        { "{\"a\\x\":{}}", 8, "an escape after '\\', found 'x'" },
        { "{\"a\\u12g4\":{}}", 8, "four hexadecimal digits after \\u" },
        { "{\"a\\u0000\":{}}", 8, "a character other than \\u0000" },
        { "{\"a\\ud800\":{}}", 8, "a low surrogate after a high one" },
        { "{\"a\\ud800\\u0041\":{}}", 8, "a low surrogate after a high one" },
        { "{\"a\\udc00\":{}}", 8, "a high surrogate before a low one" },
        { "{\"a\n\":{}}", 8, "an escape for a control character, found byte 0a" },
        { "{\"\xff\":{}}", 8, "header: expected UTF-8" },
        { "{\"\xed\xa0\x80\":{}}", 8, "header: expected UTF-8" },
        { "{\"\xc0\xaf\":{}}", 8, "header: expected UTF-8" },
        { " {}", 0, "'{', found ' '" },
        { "[]", 0, "'{', found '['" },
        { "", 0, "'{', found the end" },
        { "{\"a\":{\"x\":tru,\"shape\":[2]}}", 8, "a value, found 't'" },
        { "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8, NULL },
    };
    for (size_t i = 0; i < HOP_COUNT(cases); i++) {
        struct text bytes = safetensors_bytes(&arena, cases[i].header, strlen(cases[i].header),
                                              cases[i].data);
        expect_bad((int)i, &safetensors_format, &bytes, cases[i].message ? HOP_INVALID : HOP_OK,
                   cases[i].message ? cases[i].message : "");
    }
    struct text deep = { .arena = &arena };
    text_str(&deep, "{\"a\":{\"x\":");
    for (int i = 0; i < 100000; i++) text_str(&deep, i % 2 ? "[" : "{\"k\":");
    struct text bytes = safetensors_bytes(&arena, deep.data, deep.len, 0);
    BAD(safetensors_format, &bytes, "nested at most 32 deep");
    bytes = safetensors_bytes(&arena, "{" A "}", strlen("{" A "}"), 8);
    for (size_t n = 0; n < bytes.len; n++) {
        struct text cut = { .data = bytes.data, .len = n };
        BAD(safetensors_format, &cut, "expected");
    }
    bytes.data[7] = 1;
    BAD(safetensors_format, &bytes, "header length: expected at most");
    bytes.data[7] = 0, bytes.data[0] = 127;
    BAD(safetensors_format, &bytes, "header length: expected at most 62 bytes, found 127");
    bytes = safetensors_bytes(&arena, "{\"a\\\0\":{}}", 10, 8);
    BAD(safetensors_format, &bytes, "an escape after");
}

/* ---- .npz files that lie ---- */

static void test_bad_npz(void)
{
    struct text member = npy_bytes(&arena, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (100, 2), }",
                                   800),
                bytes;
    const struct zip stored = { .name = "a.npy", .data = member.data, .size = member.len },
                     packed = { .name = "a.npy", .data = member.data, .size = member.len, .deflate = true };
    static const struct {
        struct zip change;
        const char *message;
    } cases[] = {
        { { 0 }, NULL },
        { { .zip64 = true }, NULL },
        { { .size_error = 4 }, "expected 8" },
        { { .size_error = -4 }, "expected 8" },
        { { .size_error = 0x40000000 }, "size: expected" },
        { { .zip64 = true, .size_error = 1ll << 62 }, "size: expected" },
        { { .zip64 = true, .packed_error = 1ll << 62 }, "size: expected at most the" },
        { { .packed_error = 1 }, "size: expected at most the" },
        { { .packed_error = -1 }, "expected" },
        { { .offset_error = 1 }, "offset: expected a member at byte 1, found none" },
        { { .offset_error = 0x7fffffff }, "offset: expected a place before the directory" },
        { { .count_error = 1 }, "directory: expected" },
        { { .count_error = -1 }, "end 51 bytes before it does" },
        { { .count_error = 0xfffe }, "directory: expected at most" },
        { { .directory_error = 1 }, "directory: expected it to end at byte" },
        { { .directory_error = -1 }, "directory: expected it to end at byte" },
        { { .crc_error = 1 }, "checksum: expected" },
        { { .flags = 1 }, "expected a plain member, found an encrypted one" },
        { { .method_error = 4 }, "expected the name and the method that the directory gives" },
        { { .local_name = "b.npy" }, "expected the name and the method that the directory gives" },
        { { .local_name = "a.npyy" }, "expected the name and the method that the directory gives" },
        { { .twice = true }, "the name 'a' stands there twice" },
        { { .name = "\xff.npy" }, "the name of member 0 is not UTF-8" },
        { { .name = "notes.txt" }, NULL },
    };
    for (size_t i = 0; i < HOP_COUNT(cases); i++)
        for (int deflate = 0; deflate < 2; deflate++) {
            struct zip c = cases[i].change;
            c.data = member.data, c.size = member.len, c.deflate = deflate;
            if (!c.name) c.name = "a.npy";
            if (c.zip64 && cases[i].change.count_error) continue;
            bytes = zip_bytes(&arena, &c);
            expect_bad((int)i, &npz_format, &bytes, cases[i].message ? HOP_INVALID : HOP_OK,
                       cases[i].message ? cases[i].message : "");
        }
    struct zip c = packed;
    c.trailing = "xyz";
    bytes = zip_bytes(&arena, &c);
    BAD(npz_format, &bytes, "expected the deflated data to end with the member, found bytes after its end");
    /* one member inside the other */
    struct text inner = { .arena = &arena };
    put(&inner, 0x04034b50, 4), put(&inner, 45, 4), put(&inner, 0, 6), put(&inner, 0, 4), put(&inner, 4, 4),
        put(&inner, 4, 4), put(&inner, 5, 2), put(&inner, 0, 2);
    text_str(&inner, "z.npyzzzzz");
    struct text outer = npy_bytes(&arena, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (10,), }", 0);
    c = stored, c.inner = outer.len, c.inner_size = 4;
    text_bytes(&outer, inner.data, 40);
    c.data = outer.data, c.size = outer.len;
    bytes = zip_bytes(&arena, &c);
    BAD(npz_format, &bytes, "the members 'a.npy' and 'z.npy' overlap");
    c = packed, c.packed_error = -3;
    bytes = zip_bytes(&arena, &c);
    BAD(npz_format, &bytes, "expected");
    c = stored, c.data = "PK", c.size = 2;
    bytes = zip_bytes(&arena, &c);
    BAD(npz_format, &bytes, "'a': expected at least 10 bytes of an .npy array, found 2");
    c.deflate = true;
    bytes = zip_bytes(&arena, &c);
    BAD(npz_format, &bytes, "'a': expected at least 10 bytes of an .npy array, found 2");
    /* a bomb: little data, a shape that would take a terabyte */
    struct text bomb = npy_bytes(&arena, 1,
                                 "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000), }",
                                 1 << 20);
    c = packed, c.data = bomb.data, c.size = bomb.len;
    bytes = zip_bytes(&arena, &c);
    BAD(npz_format, &bytes, "data: expected 4000000000000 bytes for the dtype and the shape, found 1048576");
    c.zip64 = true, c.size_error = 4000000000000 - (1 << 20);
    bytes = zip_bytes(&arena, &c);
    BAD(npz_format, &bytes, "size: expected at most");
    /* every byte cut off, and something after the end */
    for (int deflate = 0; deflate < 2; deflate++) {
        bytes = zip_bytes(&arena, deflate ? &packed : &stored);
        for (size_t n = 0; n < bytes.len; n++) {
            struct text cut = { .data = bytes.data, .len = n };
            BAD(npz_format, &cut, "expected a zip file");
        }
        text_str(&bytes, "x");
        BAD(npz_format, &bytes, "expected a zip file");
    }
    /* damage inside the deflated data is always found */
    bytes = zip_bytes(&arena, &packed);
    for (size_t i = 35; i < 35 + deflated(&arena, member.data, member.len).len; i++) {
        bytes.data[i] ^= 0x55;
        struct reading r = { &npz_format, bytes.data, bytes.len, 0 };
        CLAIM(attempt(do_read, &r) == HOP_INVALID, "byte %zu is changed and nothing is said", i);
        bytes.data[i] ^= 0x55;
    }
}

/* ---- files that are none, and writing ---- */

static uint32_t count_files(void)
{
    uint32_t n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

static void expect_io(int line, const char *spec, hop_status status, const char *message)
{
    int64_t live = hop_live_allocations();
    struct loading l = { spec, NULL };
    hop_status found = attempt(do_load, &l);
    CLAIM(found == status && strstr(hop_message(), message) && hop_live_allocations() == live,
          "line %d: expected '%s', found status %d, %s", line, message, found, hop_message());
    tensor_free(l.t);
}

static void test_files(void)
{
    expect_io(__LINE__, in_folder("missing.npy"), HOP_IO, "missing.npy: cannot be opened: No such file");
    mkdir(in_folder("dir.npy"), 0777);
    expect_io(__LINE__, in_folder("dir.npy"), HOP_IO, "expected a regular file, found a directory");
    CLAIM(!mkfifo(in_folder("pipe.npz"), 0666), "mkfifo");
    expect_io(__LINE__, in_folder("pipe.npz"), HOP_IO,
              "expected a regular file, found a pipe"); /* and does not wait for a writer */
    CLAIM(!symlink("/dev/zero", in_folder("device.safetensors")), "symlink");
    expect_io(__LINE__, in_folder("device.safetensors:x"), HOP_IO, "expected a regular file, found a device");
    fclose(fopen(in_folder("empty.npy"), "w"));
    expect_io(__LINE__, in_folder("empty.npy"), HOP_INVALID, "the file is empty");
    if (geteuid()) { /* permissions do not stop root */
        chmod(in_folder("empty.npy"), 0);
        expect_io(__LINE__, in_folder("empty.npy"), HOP_IO, "cannot be opened: Permission denied");
    }
}

static void test_writing(void)
{
    struct tensor *t = formula_tensor(DT_F64, 2, (int64_t[]){ 300, 100 }),
                  *small = formula_tensor(DT_F32, 1, (int64_t[]){ 3 });
    const char *path = in_folder("w.npy"), *name = "x";
    struct stat st;
    mode_t mask = umask(027);
    CLAIM(!save(path, NULL, &small, 1) && !stat(path, &st) && (st.st_mode & 0777) == 0640,
          "a new file has the process's mode: %o", st.st_mode);
    umask(mask);
    chmod(path, 0604);
    uint32_t files = count_files();
    CLAIM(!save(path, NULL, &t, 1) && !stat(path, &st) && (st.st_mode & 0777) == 0604,
          "a file that is replaced keeps its mode: %o", st.st_mode);
    CLAIM(count_files() == files, "something is left over");

    /* a link stays a link */
    CLAIM(!symlink("w.npy", in_folder("link.npy")), "symlink");
    CLAIM(!save(in_folder("link.npy"), NULL, &small, 1) && !lstat(in_folder("link.npy"), &st) &&
              S_ISLNK(st.st_mode),
          "a link is replaced");
    struct tensor *back = load(path);
    CLAIM(back && back->count == 3, "a link is not followed");
    tensor_free(back);

    /* no room: the old file stays, nothing else does */
    files = count_files();
    struct rlimit old, tiny = { 1000, 1000 };
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    tiny.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_FSIZE, &tiny);
    static const char *const paths[] = { "w.npy", "w.npz", "w.safetensors" };
    hop_status status[3];
    char messages[3][256];
    int64_t live = hop_live_allocations();
    for (int i = 0; i < 3; i++) {
        status[i] = save(in_folder(paths[i]), &name, &t, 1);
        snprintf(messages[i], sizeof messages[i], "%s", hop_message());
    }
    setrlimit(RLIMIT_FSIZE, &old);
    for (int i = 0; i < 3; i++)
        CLAIM(status[i] == HOP_IO && strstr(messages[i], "cannot be written: File too large"),
              "%s: status %d, %s", paths[i], status[i], messages[i]);
    CLAIM(count_files() == files, "%u files before, %u after a failed write", files, count_files());
    back = load(path);
    CLAIM(back && back->count == 3, "a failed write changes the file");
    tensor_free(back);
    CLAIM(hop_live_allocations() <= live, "a failed write leaks");

    CLAIM(save(in_folder("none/x.npy"), NULL, &small, 1) == HOP_IO &&
              strstr(hop_message(), "no file can be made in '"),
          "%s", hop_message());
    CLAIM(save(in_folder("dir.npy"), NULL, &small, 1) == HOP_IO && strstr(hop_message(), "found a directory"),
          "%s", hop_message());
    CLAIM(save(in_folder("pipe.npz"), &name, &small, 1) == HOP_IO && strstr(hop_message(), "found a pipe"),
          "%s", hop_message());
    CLAIM(save(in_folder("w.npy/x.npy"), NULL, &small, 1) == HOP_IO &&
              strstr(hop_message(), "Not a directory"),
          "%s", hop_message());
    if (geteuid()) {
        chmod(path, 0444);
        CLAIM(save(path, NULL, &small, 1) == HOP_IO && strstr(hop_message(), "Permission denied"), "%s",
              hop_message());
    }
    int here = open(".", O_RDONLY); /* a path without a folder */
    CLAIM(!chdir(folder) && !save("plain.npy", NULL, &small, 1) && !access("plain.npy", F_OK), "%s",
          hop_message());
    CLAIM(!fchdir(here), "fchdir");
    close(here);
    tensor_free(t);
    tensor_free(small);
}

/* Large files are mapped: tensors outlive the file's name, and writing to them does not reach it. */
static void test_mapping(void)
{
    static const char *const specs[] = { "m.npy", "m.safetensors:x", "m.npz:x" };
    struct tensor *t = formula_tensor(DT_F64, 2, (int64_t[]){ 1000, 100 });
    const char *name = "x";
    for (int i = 0; i < 3; i++) {
        const char *spec = in_folder(specs[i]), *path = arena_string(&arena, spec, strcspn(spec, ":"));
        CLAIM(!save(path, &name, &t, 1), "%s", hop_message());
        int64_t live = hop_live_allocations();
        struct tensor *a = load(spec), *b = load(spec);
        if (!a || !b) {
            CLAIM(false, "%s: %s", specs[i], hop_message());
            continue;
        }
        CLAIM(i == 2 || (a->release && b->release && (uintptr_t)a->data % 64 == 0), "%s is copied", specs[i]);
        tensor_set(a, 7, 77);
        CLAIM(tensor_get(a, 7) == 77 && tensor_get(b, 7) == 4.5, "%s: two loads share memory", specs[i]);
        unlink(path);
        CLAIM(!save(path, &name, &t, 1), "%s", hop_message());
        const char *d = tensor_difference(&arena, b, t, (struct bound){ BOUND_BITS });
        CLAIM(!d, "%s: %s", specs[i], d);
        tensor_free(a);
        d = tensor_difference(&arena, b, t, (struct bound){ BOUND_BITS });
        CLAIM(!d, "%s after the other was freed: %s", specs[i], d);
        tensor_free(b);
        CLAIM(hop_live_allocations() <= live, "%s: %lld allocations are left", specs[i],
              (long long)(hop_live_allocations() - live));
    }
    tensor_free(t);
}

/* ---- strided memory ---- */

static void test_gather(void)
{
    struct random r = { 11 };
    for (int round = 0; round < 3000; round++) {
        uint32_t rank = (uint32_t)(random_next(&r) % 6), order[6] = { 0 };
        size_t size = (size_t)1 << random_next(&r) % 4;
        int64_t dims[6], strides[6], low = 0, high = 0, span = 1, count = 1;
        for (uint32_t i = 0; i < rank; i++) {
            dims[i] = (int64_t)(random_next(&r) % (round % 50 ? 5 : 70)) + (round % 40 != 0);
            if (rank > 3) dims[i] %= 6;
            uint32_t at = (uint32_t)(random_next(&r) % (i + 1)); /* a random order of the dims in memory */
            for (uint32_t k = i; k > at; k--) order[k] = order[k - 1];
            order[at] = i;
            count *= dims[i];
        }
        for (uint32_t k = 0; k < rank; k++) {
            uint32_t i = order[k], what = (uint32_t)(random_next(&r) % 8);
            strides[i] = what == 0 ? 0 : what == 1 ? -span : span;
            span *= HOP_MAX(dims[i], 1);
            if (what == 2) span += 3;
            if (dims[i] > 1) *(strides[i] < 0 ? &low : &high) += (dims[i] - 1) * strides[i];
        }
        struct arena a = { 0 };
        size_t bytes = (size_t)(high - low + 1) * size;
        uint8_t *memory = hop_malloc(bytes), *to = hop_malloc((size_t)count * size),
                *first = memory - low * (int64_t)size; /* exact blocks: a sanitizer sees every step outside */
        for (size_t i = 0; i < bytes; i++) memory[i] = (uint8_t)random_next(&r);
        io_gather(to, first, size, rank, dims, strides);
        int64_t wrong = 0;
        for (int64_t i = 0; i < count; i++) {
            int64_t rest = i, at = 0;
            for (uint32_t k = rank; k-- > 0; rest /= dims[k]) at += rest % dims[k] * strides[k];
            wrong += memcmp(to + i * (int64_t)size, first + at * (int64_t)size, size) != 0;
        }
        CLAIM(!wrong, "round %d: %lld of %lld elements are wrong", round, (long long)wrong, (long long)count);
        hop_free(memory);
        hop_free(to);
        arena_free(&a);
    }
}

/* ---- DLPack ---- */

static int deleted;
static void count_plain(struct DLManagedTensor *m) { deleted += m->manager == &deleted; }
static void count_versioned(struct DLManagedTensorVersioned *m) { deleted += m->manager == &deleted; }

struct importing {
    struct DLManagedTensor *plain;
    struct DLManagedTensorVersioned *versioned;
    struct tensor *t;
};
static void do_import(void *ctx)
{
    struct importing *i = ctx;
    i->t = i->plain ? dlpack_import(i->plain) : dlpack_import_versioned(i->versioned);
}

static void test_export(void)
{
    struct tensor *t = formula_tensor(DT_F32, 2, (int64_t[]){ 2, 3 });
    struct DLManagedTensor *m = dlpack_export(t);
    struct DLManagedTensorVersioned *v = dlpack_export_versioned(t);
    CLAIM(t->refs == 3, "%d references", t->refs);
    const struct dlpack_tensor *both[] = { &m->tensor, &v->tensor };
    for (int i = 0; i < 2; i++) {
        const struct dlpack_tensor *d = both[i];
        CLAIM(d->data == t->data && d->device.type == 1 && d->device.id == 0 && d->rank == 2 &&
                  d->dtype.code == 2 && d->dtype.bits == 32 && d->dtype.lanes == 1 && !d->byte_offset,
              "fields");
        CLAIM(d->dims[0] == 2 && d->dims[1] == 3 && d->strides[0] == 3 && d->strides[1] == 1, "shape");
    }
    CLAIM(v->version.major == 1 && v->version.minor == 0 && !v->flags, "version");
    tensor_free(t); /* the exported ones keep it */
    CLAIM(((float *)m->tensor.data)[5] == 2.5f, "content");
    m->deleter(m);
    struct importing back = { .versioned = v };
    CLAIM(!attempt(do_import, &back) && back.t->data == t->data && back.t != t && t->refs == 1,
          "there and back");
    tensor_free(back.t); /* calls v's deleter, which frees t */
    static float memory[6] = { 0, 1, 2, 3, 4, 5 };
    struct tensor *turned = tensor_strided(DT_F32, 2, (int64_t[]){ 2, 3 }, (int64_t[]){ 1, 2 }, memory, NULL,
                                           NULL);
    m = dlpack_export(turned);
    tensor_free(turned);
    CLAIM(m->tensor.data == memory && m->tensor.strides[0] == 1 && m->tensor.strides[1] == 2 &&
              m->tensor.dims[1] == 3,
          "a strided tensor keeps its strides");
    m->deleter(m);
    struct tensor *scalar = tensor_new(DT_BOOL, 0, NULL);
    m = dlpack_export(scalar);
    CLAIM(m->tensor.rank == 0 && m->tensor.dtype.code == 6 && m->tensor.dtype.bits == 8, "a scalar");
    m->deleter(m);
    tensor_free(scalar);
}

static void test_import(void)
{
    static float memory[24];
    static int64_t dims[] = { 2, 3 }, row_major[] = { 3, 1 }, turned[] = { 1, 2 }, backwards[] = { -3, -1 },
                   spread[] = { 0, 4 }, huge[] = { INT64_MAX, 2 }, least[] = { INT64_MIN, 1 };
    for (int i = 0; i < 24; i++) memory[i] = (float)i;
    const struct DLManagedTensor good = { { memory, { 1, 0 }, 2, { 2, 32, 1 }, dims, NULL, 0 },
                                          &deleted,
                                          count_plain };
    struct {
        int64_t *strides;
        uint64_t offset;
        float values[6];
    } cases[] = {
        { NULL, 0, { 0, 1, 2, 3, 4, 5 } },       { row_major, 0, { 0, 1, 2, 3, 4, 5 } },
        { row_major, 8, { 2, 3, 4, 5, 6, 7 } },  { turned, 0, { 0, 2, 4, 1, 3, 5 } },
        { backwards, 20, { 5, 4, 3, 2, 1, 0 } }, { spread, 4, { 1, 5, 9, 1, 5, 9 } },
    };
    for (size_t i = 0; i < HOP_COUNT(cases); i++)
        for (int flavour = 0; flavour < 3; flavour++) { /* plain, versioned, versioned and read-only */
            struct DLManagedTensor m = good;
            m.tensor.strides = cases[i].strides;
            m.tensor.byte_offset = cases[i].offset;
            struct DLManagedTensorVersioned v = {
                { 1, 7 }, &deleted, count_versioned, flavour == 2 ? DLPACK_READ_ONLY : 0, m.tensor
            };
            struct importing in = { flavour ? NULL : &m, &v, NULL };
            deleted = 0;
            hop_status status = attempt(do_import, &in);
            bool shared = flavour < 2;
            CLAIM(!status && in.t && (in.t->data == (char *)memory + cases[i].offset) == shared &&
                      deleted == !shared,
                  "case %zu, flavour %d: %s, deleted %d times", i, flavour, status ? hop_message() : "",
                  deleted);
            if (status) continue;
            struct tensor *rows = tensor_contiguous(in.t);
            CLAIM(!memcmp(rows->data, cases[i].values, sizeof cases[i].values),
                  "case %zu, flavour %d: values", i, flavour);
            CLAIM((i > 2 && shared) == (in.t->strides != NULL), "case %zu, flavour %d: strides", i, flavour);
            tensor_free(rows);
            tensor_free(tensor_ref(in.t));
            CLAIM(deleted == !shared, "one reference of two");
            tensor_free(in.t);
            CLAIM(deleted == 1, "deleted %d times in all", deleted);
        }
    /* at an odd address it is copied; without a deleter there is nobody to tell */
    static _Alignas(8) char odd[32];
    memcpy(odd + 1, memory, 24);
    struct DLManagedTensor m = good;
    m.tensor.data = odd;
    m.tensor.byte_offset = 1;
    m.deleter = NULL;
    struct importing in = { &m, NULL, NULL };
    CLAIM(!attempt(do_import, &in) && !memcmp(in.t->data, memory, 24), "an odd address");
    tensor_free(in.t);
    static int64_t none[] = { 0, 3 };
    m = good, m.tensor.dims = none, m.tensor.data = NULL, m.tensor.strides = huge, deleted = 0;
    CLAIM(!attempt(do_import, &in) && in.t->count == 0 && in.t->dims[1] == 3 && deleted == 1,
          "no elements need no memory");
    tensor_free(in.t);

    static int64_t negative[] = { -1, 3 }, too_many[] = { 1ll << 40, 1ll << 40 };
    struct {
        struct dlpack_tensor d;
        const char *message;
    } bad[] = {
        { { memory, { 2, 0 }, 2, { 2, 32, 1 }, dims, NULL, 0 }, "device: expected CPU (1), found CUDA (2)" },
        { { memory, { 99, 0 }, 2, { 2, 32, 1 }, dims, NULL, 0 }, "found another device (99)" },
        { { memory, { 1, 0 }, 2, { 5, 64, 1 }, dims, NULL, 0 }, "dtype: expected one that hop has" },
        { { memory, { 1, 0 }, 2, { 2, 32, 4 }, dims, NULL, 0 }, "found code 2, 32 bits, 4 lanes" },
        { { memory, { 1, 0 }, 2, { 2, 24, 1 }, dims, NULL, 0 }, "24 bits" },
        { { memory, { 1, 0 }, -1, { 2, 32, 1 }, dims, NULL, 0 }, "ndim: expected 0 to 32, found -1" },
        { { memory, { 1, 0 }, 33, { 2, 32, 1 }, dims, NULL, 0 }, "ndim: expected 0 to 32, found 33" },
        { { memory, { 1, 0 }, 2, { 2, 32, 1 }, NULL, NULL, 0 }, "shape: expected 2 sizes, found NULL" },
        { { memory, { 1, 0 }, 2, { 2, 32, 1 }, negative, NULL, 0 }, "found -1" },
        { { memory, { 1, 0 }, 2, { 2, 32, 1 }, too_many, NULL, 0 }, "a product of at most 2^61 bytes" },
        { { NULL, { 1, 0 }, 2, { 2, 32, 1 }, dims, NULL, 0 }, "data: expected 6 elements, found NULL" },
        { { memory, { 1, 0 }, 2, { 2, 32, 1 }, dims, huge, 0 }, "strides: expected elements within" },
        { { memory, { 1, 0 }, 2, { 2, 32, 1 }, dims, least, 0 }, "strides: expected elements within" },
        { { memory, { 1, 0 }, 2, { 6, 8, 1 }, dims, spread, 6 }, "expected 0 or 1 as a bool" },
        { { memory, { 1, 0 }, 2, { 6, 8, 1 }, dims, NULL, 5 }, "expected 0 or 1 as a bool" },
    };
    deleted = 0;
    for (size_t i = 0; i < HOP_COUNT(bad); i++) {
        struct DLManagedTensor wrong = { bad[i].d, &deleted, count_plain };
        struct DLManagedTensorVersioned wrong_versioned = {
            { 1, 0 }, &deleted, count_versioned, 0, bad[i].d
        };
        int64_t live = hop_live_allocations();
        for (int k = 0; k < 2; k++) {
            struct importing w = { k ? NULL : &wrong, &wrong_versioned, NULL };
            CLAIM(attempt(do_import, &w) == HOP_INVALID && strstr(hop_message(), bad[i].message),
                  "case %zu: %s", i, hop_message());
        }
        CLAIM(!deleted && hop_live_allocations() == live,
              "case %zu: what is refused still belongs to the caller", i);
    }
    struct DLManagedTensorVersioned later = { { 2, 0 }, &deleted, count_versioned, 0, good.tensor };
    struct importing w = { .versioned = &later };
    CLAIM(attempt(do_import, &w) == HOP_INVALID &&
              strstr(hop_message(), "version: expected 1.x, found 2.0") && !deleted,
          "%s", hop_message());
}

/* ---- the functions of hop.h ---- */

static void test_public(void)
{
    hop_tensor *none = (hop_tensor *)&arena, *t = none, *u;
    struct tensor *turned = tensor_strided(DT_I32, 2, (int64_t[]){ 2, 3 }, (int64_t[]){ 1, 2 },
                                           (int32_t[]){ -2, 1, -1, 2, 0, 3 }, NULL,
                                           NULL); /* the formula's numbers */
    const hop_tensor *const given = (const hop_tensor *)turned;
    static const char *const specs[] = { "p.npy", "p.npz:x", "p.safetensors:x", "q.npz" };
    for (int i = 0; i < 3; i++) {
        CLAIM(!hop_save(given, in_folder(specs[i])), "%s", hop_message());
        expect_formula(in_folder(specs[i]), "i32[2, 3]");
        CLAIM(!hop_load(&t, in_folder(specs[i])), "%s", hop_message());
        tensor_free(t);
    }
    CLAIM(hop_save(given, in_folder("p.npz")) == HOP_INVALID && strstr(hop_message(), "p.npz:NAME"), "%s",
          hop_message());
    CLAIM(hop_save(given, in_folder("p.npy:x")) == HOP_INVALID && strstr(hop_message(), "without a name"),
          "%s", hop_message());
    CLAIM(hop_save(given, "x.txt") == HOP_INVALID && hop_save(NULL, "x.npy") == HOP_INVALID &&
              hop_save(given, NULL) == HOP_INVALID,
          "nothing to save, nowhere to save it");
    t = none;
    CLAIM(hop_load(&t, in_folder("absent.npy")) == HOP_IO && t == none,
          "a failed call leaves its output alone");
    CLAIM(hop_load(NULL, "x.npy") == HOP_INVALID && hop_load(&t, NULL) == HOP_INVALID &&
              strstr(hop_message(), "hop_load: expected a file name, found NULL"),
          "%s", hop_message());

    hop_tensor *pair[] = { (hop_tensor *)turned, (hop_tensor *)turned };
    const char *names[] = { "b", "a" };
    hop_file *f = NULL;
    CLAIM(!hop_save_many(in_folder("q.npz"), names, pair, 2) && !hop_file_open(&f, in_folder("q.npz")), "%s",
          hop_message());
    CLAIM(hop_file_count(f) == 2 && !strcmp(hop_file_name(f, 0), "b") && !strcmp(hop_file_name(f, 1), "a") &&
              !hop_file_name(f, 2) && !hop_file_name(f, -1),
          "names");
    CLAIM(!hop_file_load(&t, f, "a") && hop_file_load(&u, f, "c") == HOP_INVALID &&
              hop_file_load(&u, f, NULL) == HOP_INVALID && hop_file_load(&u, NULL, "a") == HOP_INVALID,
          "%s", hop_message());
    hop_file_free(f);
    CLAIM(tensor_get((struct tensor *)t, 5) == 3, "the tensor outlives the file");
    hop_file_free(NULL);
    CLAIM(!hop_file_count(NULL) && hop_file_open(NULL, "x.npz") == HOP_INVALID &&
              hop_file_open(&f, "x") == HOP_INVALID,
          "%s", hop_message());
    CLAIM(hop_save_many(in_folder("q.npz"), names, pair, -1) == HOP_INVALID &&
              hop_save_many(in_folder("q.npz"), names, (hop_tensor *[]){ NULL, NULL }, 2) == HOP_INVALID,
          "%s", hop_message());
    CLAIM(hop_save_many(in_folder("q.npz"), NULL, pair, 2) == HOP_INVALID &&
              hop_save_many(NULL, names, pair, 2) == HOP_INVALID &&
              hop_save_many(in_folder("q.npz"), names, NULL, 2) == HOP_INVALID,
          "%s", hop_message());

    struct DLManagedTensor *m = NULL;
    struct DLManagedTensorVersioned *v = NULL;
    CLAIM(!hop_tensor_to_dlpack(&m, t) && !hop_tensor_to_dlpack_versioned(&v, t), "%s", hop_message());
    void *data = ((struct tensor *)t)->data;
    tensor_free(t);
    CLAIM(!hop_tensor_from_dlpack(&t, m) && !hop_tensor_from_dlpack_versioned(&u, v), "%s", hop_message());
    CLAIM(((struct tensor *)t)->data == data && ((struct tensor *)u)->data == data,
          "memory is shared all the way");
    tensor_free(t);
    tensor_free(u);
    CLAIM(hop_tensor_to_dlpack(&m, NULL) == HOP_INVALID && hop_tensor_from_dlpack(NULL, m) == HOP_INVALID &&
              strstr(hop_message(), "hop_tensor_from_dlpack: expected a place"),
          "%s", hop_message());
    tensor_free(turned);
}

int main(void)
{
    static void (*const tests[])(void) = { test_golden,          test_round_trips, test_names,  test_bad_npy,
                                           test_bad_safetensors, test_bad_npz,     test_files,  test_writing,
                                           test_mapping,         test_gather,      test_export, test_import,
                                           test_public };
    const char *root = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/hop-io-XXXXXX", root ? root : "/tmp");
    if (!mkdtemp(folder)) {
        printf("no folder for temporary files can be made\n");
        return 1;
    }
    for (size_t i = 0; i < HOP_COUNT(tests); i++) {
        int64_t live = hop_live_allocations();
        tests[i]();
        arena_free(&arena);
        CLAIM(hop_live_allocations() == live, "test %zu: %lld allocations are left", i,
              (long long)(hop_live_allocations() - live));
    }
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' || strlen(e->d_name) > 2)
            unlinkat(dirfd(d), e->d_name, strcmp(e->d_name, "dir.npy") ? 0 : AT_REMOVEDIR);
    closedir(d);
    rmdir(folder);
    return tests_end();
}
