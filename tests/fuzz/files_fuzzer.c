/* Any bytes as a tensor file: the first byte chooses .npy, .npz or .safetensors. A file is refused or read;
 * then its tensors are what a tensor must be, no larger than the file justifies, and nothing stays allocated.
 */
#include "fuzz.h"
#include "io/io.h"

enum { LARGEST_RATIO = 1032 /* of deflate */ };

struct input {
    const uint8_t *data;
    size_t size;
    const struct io_format *format;
};

static void read_file(void *ctx)
{
    const struct input *in = ctx;
    struct archive *a = archive_open_file(io_file_copy("bytes", in->data, in->size), in->format);
    hop_cleanup_push(archive_free, a);
    for (uint32_t i = 0; i < a->entries.len && i < 16; i++) {
        struct tensor *t = archive_read(a, i);
        int64_t count = 1;
        uint64_t sum = 0;
        for (uint32_t d = 0; d < t->rank; d++) count *= t->dims[d];
        size_t bytes = (size_t)t->count * dtype_info[t->dtype].size;
        MUST(count == t->count && t->rank <= MAX_RANK && t->dtype < DT_COUNT,
             "the tensor contradicts itself");
        MUST(bytes <= in->size * LARGEST_RATIO, "the tensor is larger than the file can be");
        for (size_t k = 0; k < bytes; k++) sum += ((const uint8_t *)t->data)[k]; /* every byte is there */
        MUST(t->dtype != DT_BOOL || sum <= bytes, "a bool is neither 0 nor 1");
        tensor_free(t);
    }
    hop_cleanup_pop(a);
    archive_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct io_format *const formats[] = { &npy_format, &npz_format, &safetensors_format };
    if (!size) return 0;
    struct input in = { data + 1, size - 1, formats[data[0] % HOP_COUNT(formats)] };
    int64_t live = hop_live_allocations();
    hop_status status = fuzz_attempt(read_file, &in);
    MUST(status == HOP_OK || status == HOP_INVALID || status == HOP_NOMEM, "status %d: %s", status,
         hop_message());
    MUST(hop_live_allocations() == live, "%lld allocations are left",
         (long long)(hop_live_allocations() - live));
    return 0;
}
