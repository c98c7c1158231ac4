/* Forged entries of the cache, as if their checksums were right: images of executables and objects of machine
 * code. The first byte chooses: changes to a good image (a place in two bytes and a value each), a whole
 * image, a whole object, an entry. What is accepted is run with nothing in the place of its code, on
 * arguments that fit and on ones that do not: what a run does before and after the code is what the image
 * says. */
#include "fuzz.h"
#include "emit/emit.h"
#include "ir/text.h"
#include "runtime/cache.h"
#include "runtime/exe_impl.h"

#include <elf.h>

static const char program[] =
    "hop 1\nconst @k: f32[3] = [1, 2, 3]\n"
    "fn @main[T in 1..100](%x: f32[T], %y: f32[2*T]) -> (f32[T], f32[T, 3], f32[]) effects(check, io) {\n"
    "  %k = constant {value = @k} ()\n  %k2 = add(%k, %k)\n  %b = broadcast {dims = [T, 3], at = [1]} "
    "(%k2)\n  %s = sum(%x)\n"
    "  %z = full {value = 0, dims = [], dtype = f32}\n  %p = gt(%s, %z)\n  check {message = \"positive\"} "
    "(%p, %s)\n"
    "  print {format = \"s={}\"} (%s)\n  %n = neg(%x)\n  %t = sum(%y)\n  return %n, %b, %t\n}\n";

static struct {
    struct module *m;
    uint32_t fn;
    struct cache_key key;
    struct arena arena;
    struct text image;
} good;

static int32_t no_code(void *rt, void **buffers, int64_t *symbols)
{
    return (void)rt, (void)buffers, (void)symbols, HOP_OK;
}

static void prepare(void *ctx)
{
    (void)ctx;
    struct compile_options o = { .threads = 1, .backend = &executor_backend };
    good.m = text_read("images", program, sizeof program - 1);
    good.fn = module_find(good.m, "main");
    struct exe *e = exe_compile(good.m, good.fn, &o, NULL);
    cache_key_make(&good.key, good.m, good.fn, &o, true);
    good.image.arena = &good.arena;
    MUST(image_write(e, good.m, &good.key.canon, &good.image), "the image is the program's");
    exe_free(e);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    MUST(!fuzz_attempt(prepare, NULL), "%s", hop_message());
    return 0;
}

struct run {
    struct exe *e;
    int64_t x, y;
    struct tensor *args[2], *results[3];
};
static void run_once(void *ctx)
{
    struct run *r = ctx;
    r->args[0] = tensor_new(DT_F32, 1, &r->x);
    r->args[1] = tensor_new(DT_F32, 1, &r->y);
    exe_run(r->e, r->args, NULL, r->results, NULL);
}

struct bytes {
    const uint8_t *data;
    size_t size;
};
static void read_image(void *ctx)
{
    static const int64_t sizes[][2] = { { 2, 4 }, { 2, 5 }, { 500, 1000 } };
    const struct bytes *b = ctx;
    struct exe *e = hop_calloc(1, sizeof *e);
    e->backend = &llvm_backend;
    hop_cleanup_push(exe_free, e);
    e->m = module_new();
    image_read(e, good.m, module_fn(good.m, good.fn), &good.key.canon, b->data, b->size);
    e->entry = no_code;
    for (size_t i = 0; i < HOP_COUNT(sizes); i++) {
        struct run r = { .e = e, .x = sizes[i][0], .y = sizes[i][1] };
        hop_status status = fuzz_attempt(run_once, &r);
        for (int k = 0; k < 3; k++) MUST(status || r.results[k], "result %d is missing", k);
        for (int k = 0; k < 2; k++) tensor_free(r.args[k]);
        for (int k = 0; k < 3; k++) tensor_free(r.results[k]);
    }
    hop_cleanup_pop(e);
    exe_free(e);
}

static void try_object(const uint8_t *data, size_t size)
{
    static unsigned char room[1 << 16];
    static const uint32_t machines[] = { EM_X86_64, EM_AARCH64 };
    struct loaded l;
    char error[512];
    size_t used;
    for (size_t i = 0; i < HOP_COUNT(machines); i++)
        object_place(data, size, machines[i], room, sizeof room, 0x7f0000000000, &used, &l, error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    size_t room = HOP_MAX(size, good.image.len) + 128;
    uint8_t *memory = malloc(room), *aligned = (uint8_t *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    struct bytes b = { aligned, size - 1 };
    int64_t live = hop_live_allocations();
    memcpy(aligned, data + 1, size - 1);
    switch (data[0] % 4) {
    case 0:
        memcpy(aligned, good.image.data, good.image.len);
        for (size_t i = 1; i + 3 <= size; i += 3)
            aligned[(data[i] << 8 | data[i + 1]) % good.image.len] = data[i + 2];
        b.size = good.image.len;
        fuzz_attempt(read_image, &b);
        break;
    case 1: fuzz_attempt(read_image, &b); break;
    case 2: try_object(aligned, size - 1); break;
    default: cache_entry_valid(aligned, size - 1); break;
    }
    arena_free(&good.m->scratch); /* texts of places are made there */
    MUST(hop_live_allocations() <= live, "%lld allocations are left",
         (long long)(hop_live_allocations() - live));
    free(memory);
    return 0;
}
