/* Readers of tensor files against damaged bytes, and everything in src/io against memory that runs out.
 * Deterministic: io_fuzz_test [SEED [ROUNDS]]. A file may be refused (HOP_INVALID) or read; then its tensors
 * are what a tensor must be, no larger than the file justifies, and nothing stays allocated. */
#include "check.h"
#include "check/check.h"
#include "io/dlpack.h"
#include "io_bytes.h"

#include <dirent.h>
#include <unistd.h>

enum { LARGEST_SEED = 1 << 13, LARGEST_RATIO = 1032 };

struct seed {
    const struct io_format *format;
    uint8_t *bytes;
    size_t size;
};
static struct arena arena;
static vec(struct seed) seeds;

static void add_seed(const struct io_format *format, const void *bytes, size_t size)
{
    vec_push(&arena, &seeds, (struct seed){ format, arena_copy(&arena, bytes, size), size });
}

static void add_seeds(void)
{
    static const char *const golden[] = { "f4.npy",
                                          "f8_scalar.npy",
                                          "b1.npy",
                                          "i4_big_endian.npy",
                                          "f8_fortran.npy",
                                          "u4_version2.npy",
                                          "c8.npy",
                                          "plain.npz",
                                          "deflated.npz",
                                          "streamed.npz",
                                          "several.safetensors",
                                          "small_floats.safetensors" };
    static const struct io_format *const formats[] = { &npy_format, &npz_format, &safetensors_format };
    for (size_t i = 0; i < HOP_COUNT(golden); i++) {
        size_t size;
        const char *bytes = file_text(&arena, arena_printf(&arena, "tests/data/%s", golden[i]), &size);
        for (size_t k = 0; k < HOP_COUNT(formats); k++)
            if (strstr(golden[i], formats[k]->extension)) add_seed(formats[k], bytes, size);
    }
    struct text npy = npy_bytes(&arena, 2, "{'descr': '>f8', 'fortran_order': True, 'shape': (3, 1, 4), }",
                                96),
                zip;
    zip = zip_bytes(&arena,
                    &(struct zip){ .name = "x.npy", .data = npy.data, .size = npy.len, .zip64 = true });
    add_seed(&npz_format, zip.data, zip.len);
    zip = zip_bytes(&arena,
                    &(struct zip){
                        .name = "x.npy", .data = npy.data, .size = npy.len, .zip64 = true, .deflate = true });
    add_seed(&npz_format, zip.data, zip.len);
    static const char header[] =
        "{\"a\\u00e9\\ud83d\\ude00\" : {\"dtype\": \"I32\", \"shape\":[2,1], \"data_offsets\":[0,8], "
        "\"x\":[{\"k\":[null,-1.5e3,true]}]}, \"__metadata__\":{\"a\":\"\\\\b\"}}   ";
    struct text st = safetensors_bytes(&arena, header, sizeof header - 1, 8);
    add_seed(&safetensors_format, st.data, st.len);
}

/* ---- damage ---- */

static const uint64_t interesting[] = { 0,
                                        1,
                                        2,
                                        8,
                                        0x7f,
                                        0x80,
                                        0xff,
                                        0x100,
                                        0x7fff,
                                        0x8000,
                                        0xffff,
                                        0x7fffffff,
                                        0x80000000,
                                        0xffffffff,
                                        0x100000000,
                                        INT64_MAX,
                                        0x8000000000000000u,
                                        UINT64_MAX };
static const char *const words[] = { "0",          "1",           "9999999999999999999",
                                     "4294967296", "-1",          "'",
                                     "\"",         "{",           "}",
                                     "[",          "]",           "(",
                                     ")",          ",",           ":",
                                     "\\",         "\\u0000",     "\\ud800",
                                     "True",       "F64",         "BOOL",
                                     "b1",         ">i8",         "shape",
                                     "dtype",      "PK\5\6",      "PK\1\2",
                                     "PK\6\6",     "__metadata__" };

static size_t mutate(struct random *r, uint8_t *b, size_t n)
{
    size_t at = n ? random_next(r) % n : 0, length, from;
    const char *word;
    switch (random_next(r) % 9) {
    case 0: /* a bit */
        if (n) b[at] ^= (uint8_t)(1u << random_next(r) % 8);
        break;
    case 1: /* a byte */
        if (n) b[at] = (uint8_t)random_next(r);
        break;
    case 2: /* a number that is often wrong */
        length = (size_t)1 << random_next(r) % 4;
        if (n - at >= length) memcpy(b + at, &interesting[random_next(r) % HOP_COUNT(interesting)], length);
        break;
    case 3: /* cut off */ n = at; break;
    case 4: /* without a piece */
        length = random_next(r) % 16;
        if (n - at > length) memmove(b + at, b + at + length, n - at - length), n -= length;
        break;
    case 5: /* a piece twice */
        length = random_next(r) % 64;
        if (n - at > length && n + length <= LARGEST_SEED)
            memmove(b + at + length, b + at, n - at), n += length;
        break;
    case 6: /* a word written over, or put in */
        word = words[random_next(r) % HOP_COUNT(words)];
        length = strlen(word);
        if (random_next(r) % 2 && n + length <= LARGEST_SEED)
            memmove(b + at + length, b + at, n - at), n += length;
        if (n - at >= length) memcpy(b + at, word, length);
        break;
    case 7: /* a piece of itself elsewhere */
        from = n ? random_next(r) % n : 0;
        length = random_next(r) % 32;
        if (n - at >= length && n - from >= length) memmove(b + at, b + from, length);
        break;
    default: /* a digit counts up or down */
        for (size_t i = 0; i < n; i++, at = (at + 1) % n)
            if (b[at] >= '0' && b[at] <= '9') {
                b[at] = (uint8_t)('0' + random_next(r) % 10);
                break;
            }
    }
    return n;
}

/* ---- reading ---- */

struct reading {
    const struct seed *bytes;
    uint32_t read;
    const char *wrong;
};

static void look_at(struct reading *r, const struct tensor *t)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < t->rank; i++) count *= t->dims[i];
    size_t bytes = (size_t)t->count * dtype_info[t->dtype].size;
    if (count != t->count || t->rank > MAX_RANK || t->dtype >= DT_COUNT)
        r->wrong = "the tensor contradicts itself";
    if (bytes > r->bytes->size * LARGEST_RATIO) r->wrong = "the tensor is larger than the file can be";
    if ((uintptr_t)t->data % dtype_info[t->dtype].size) r->wrong = "the tensor is not aligned";
    for (size_t i = 0; i < bytes; i++) /* every byte is there */
        if (((const uint8_t *)t->data)[i] > 1 && t->dtype == DT_BOOL) r->wrong = "a bool is neither 0 nor 1";
}

static void read_all(void *ctx)
{
    struct reading *r = ctx;
    struct archive *a = archive_open_file(io_file_copy("bytes", r->bytes->bytes, r->bytes->size),
                                          r->bytes->format);
    hop_cleanup_push(archive_free, a);
    for (uint32_t i = 0; i < a->entries.len; i++) {
        struct tensor *t = archive_read(a, i);
        look_at(r, t);
        tensor_free(t);
        r->read++;
    }
    hop_cleanup_pop(a);
    archive_free(a);
}

static void try_bytes(const struct seed *s, uint64_t round, uint64_t *good)
{
    int64_t live = hop_live_allocations();
    struct reading r = { s, 0, NULL };
    hop_status status = attempt(read_all, &r);
    *good += !status;
    bool fine = !r.wrong && (!status || (status == HOP_INVALID && !strncmp(hop_message(), "bytes: ", 7))) &&
                hop_live_allocations() == live;
    if (fine) tests_passed++;
    else
        CLAIM(false, "round %llu, %s: status %d (%s), %s, %lld allocations left", (unsigned long long)round,
              s->format->extension, status, status ? hop_message() : "", r.wrong ? r.wrong : "",
              (long long)(hop_live_allocations() - live));
}

static void test_damage(uint64_t start, uint64_t rounds)
{
    static uint8_t buffer[LARGEST_SEED];
    uint64_t good = 0;
    for (uint64_t round = start; round < start + rounds; round++) {
        struct random r = { round };
        const struct seed *s = &seeds.data[random_next(&r) % seeds.len];
        struct seed damaged = { s->format, buffer, s->size };
        struct arena scratch = { 0 };
        memcpy(buffer, s->bytes, s->size);
        for (uint64_t n = random_next(&r) % 4 + 1; n; n--) damaged.size = mutate(&r, buffer, damaged.size);
        /* damage inside of a member is only seen when the checksum is right */
        if (s->format == &npy_format && random_next(&r) % 2) {
            struct text zip = zip_bytes(&scratch, &(struct zip){ .name = "m.npy",
                                                                 .data = buffer,
                                                                 .size = damaged.size,
                                                                 .deflate = random_next(&r) % 2 });
            damaged = (struct seed){ &npz_format, (uint8_t *)zip.data, zip.len };
        }
        int64_t live_scratch = hop_live_allocations();
        try_bytes(&damaged, round, &good);
        CLAIM(hop_live_allocations() == live_scratch, "round %llu leaks", (unsigned long long)round);
        arena_free(&scratch);
    }
    CLAIM(good > rounds / 50,
          "only %llu of %llu damaged files can be read: the damage is too coarse to test much",
          (unsigned long long)good, (unsigned long long)rounds);
}

/* ---- memory runs out ---- */

static char folder[64];
static struct tensor *tensors[2];

static void save_to(const char *name)
{
    static const char *const names[] = { "first", "second" };
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    io_save(path, names, tensors, strstr(name, ".npy") ? 1 : 2);
}
static void save_npy(void *ctx) { (void)ctx, save_to("x.npy"); }
static void save_npz(void *ctx) { (void)ctx, save_to("x.npz"); }
static void save_safetensors(void *ctx) { (void)ctx, save_to("x.safetensors"); }
static void load_one(void *ctx)
{
    (void)ctx;
    char path[128];
    snprintf(path, sizeof path, "%s/x.safetensors:second", folder);
    tensor_free(io_load(path));
}
static void there_and_back(void *ctx)
{
    (void)ctx;
    struct DLManagedTensorVersioned *v = dlpack_export_versioned(tensors[0]);
    hop_cleanup_push(dlpack_drop_versioned, v);
    struct DLManagedTensor *m = dlpack_export(tensors[1]);
    hop_cleanup_push(dlpack_drop, m);
    v->flags = DLPACK_READ_ONLY; /* copied */
    struct tensor *copied = dlpack_import(m);
    hop_cleanup_pop(m);
    hop_cleanup_push(tensor_free, copied);
    struct tensor *t = dlpack_import_versioned(
        v); /* on success the deleter has run; on a throw the cleanup calls it */
    hop_cleanup_pop(copied);
    hop_cleanup_pop(v);
    tensor_free(copied);
    tensor_free(t);
}

static uint32_t count_files(void)
{
    uint32_t n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += strncmp(e->d_name, ".hop", 4) == 0;
    closedir(d);
    return n;
}

static void try_allocations(const char *name, void (*body)(void *), void *ctx)
{
    uint64_t start = hop_allocation_count();
    CLAIM(!attempt(body, ctx), "%s: %s", name, hop_message());
    uint64_t total = hop_allocation_count() - start;
    for (uint64_t n = 1; n <= total; n++) {
        int64_t live = hop_live_allocations();
        int32_t refs = tensors[0]->refs + tensors[1]->refs;
        hop_fail_allocation(n);
        hop_status status = attempt(body, ctx);
        hop_fail_allocation(0);
        CLAIM(status == HOP_NOMEM && hop_live_allocations() == live &&
                  tensors[0]->refs + tensors[1]->refs == refs && !count_files(),
              "%s, allocation %llu of %llu fails: status %d (%s), %lld allocations left", name,
              (unsigned long long)n, (unsigned long long)total, status, status ? hop_message() : "",
              (long long)(hop_live_allocations() - live));
    }
}

static void test_allocations(void)
{
    const char *root = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/hop-io-XXXXXX", root ? root : "/tmp");
    CLAIM(mkdtemp(folder), "no folder for temporary files");
    for (int i = 0; i < 2; i++) {
        tensors[i] = tensor_new(i ? DT_F32 : DT_F64, 2, (int64_t[]){ 3, 5 });
        memset(tensors[i]->data, 1, (size_t)tensors[i]->count * dtype_info[tensors[i]->dtype].size);
    }
    for (uint32_t i = 0; i < seeds.len; i++) {
        uint64_t good = 0;
        try_bytes(&seeds.data[i], 0, &good);
        struct reading r = { &seeds.data[i], 0, NULL };
        if (good) try_allocations(arena_printf(&arena, "reading seed %u", i), read_all, &r);
    }
    try_allocations("writing npy", save_npy, NULL);
    try_allocations("writing npz", save_npz, NULL);
    try_allocations("writing safetensors", save_safetensors, NULL);
    try_allocations("loading by name", load_one, NULL);
    try_allocations("DLPack", there_and_back, NULL);
    static const char *const files[] = { "x.npy", "x.npz", "x.safetensors" };
    for (int i = 0; i < 3; i++) unlink(arena_printf(&arena, "%s/%s", folder, files[i]));
    CLAIM(!rmdir(folder), "%s is not empty", folder);
    for (int i = 0; i < 2; i++) tensor_free(tensors[i]);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1,
             rounds = argc > 2 ? strtoull(argv[2], NULL, 0) : 300000;
    add_seeds();
    test_allocations();
    test_damage(seed * 1000000000, rounds);
    arena_free(&arena);
    return tests_end();
}
