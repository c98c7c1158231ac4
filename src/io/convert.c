/* What the formats share about arrays: the table of dtype names, sizes of shapes that come from outside, and
 * turning strided, byte-swapped or Fortran-ordered memory into a tensor's. */
#include "io/io.h"

/* ---- dtypes ---- */

enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };
static const struct io_dtype names[] = {
    { "bool", "b1", "BOOL", DL_BOOL, 8 },
    { "i8", "i1", "I8", DL_INT, 8 },
    { "i16", "i2", "I16", DL_INT, 16 },
    { "i32", "i4", "I32", DL_INT, 32 },
    { "i64", "i8", "I64", DL_INT, 64 },
    { "u8", "u1", "U8", DL_UINT, 8 },
    { "u16", "u2", "U16", DL_UINT, 16 },
    { "u32", "u4", "U32", DL_UINT, 32 },
    { "u64", "u8", "U64", DL_UINT, 64 },
    { "f16", "f2", "F16", DL_FLOAT, 16 },
    /* NumPy has no such type; arrays of the ml_dtypes package are saved as two raw bytes. */
    { "bf16", "V2", "BF16", DL_BFLOAT, 16 },
    { "f32", "f4", "F32", DL_FLOAT, 32 },
    { "f64", "f8", "F64", DL_FLOAT, 64 },
};

const struct io_dtype *io_dtype_of(enum dtype t)
{
    for (size_t i = 0; i < HOP_COUNT(names); i++)
        if (!strcmp(names[i].name, dtype_info[t].name)) return &names[i];
    hop_throw(HOP_INVALID, "tensors of dtype %s cannot be exchanged: no file format has a name for it",
              dtype_info[t].name);
}

static bool in_hop(const struct io_dtype *row, enum dtype *out)
{
    return dtype_from_name(row->name, strlen(row->name), out);
}
static bool same(const char *a, const char *text, size_t length)
{
    return strlen(a) == length && !memcmp(a, text, length);
}

bool io_dtype_from_npy(const char *text, size_t length, enum dtype *out)
{
    for (size_t i = 0; i < HOP_COUNT(names); i++)
        if (same(names[i].npy, text, length)) return in_hop(&names[i], out);
    return false;
}

bool io_dtype_from_safetensors(const char *text, size_t length, enum dtype *out)
{
    for (size_t i = 0; i < HOP_COUNT(names); i++)
        if (same(names[i].safetensors, text, length)) return in_hop(&names[i], out);
    return false;
}

bool io_dtype_from_dlpack(uint32_t code, uint32_t bits, enum dtype *out)
{
    for (size_t i = 0; i < HOP_COUNT(names); i++)
        if (names[i].dl_code == code && names[i].dl_bits == bits) return in_hop(&names[i], out);
    return false;
}

/* ---- messages ---- */

void io_fail(hop_status status, const struct io_where *w, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (w->member) hop_throw(status, "%s: '%.200s': %s", w->path, w->member, text);
    hop_throw(status, "%s: %s", w->path, text);
}

/* ---- shapes ---- */

int64_t io_count(const struct io_where *w, enum dtype dtype, uint32_t rank, const int64_t *dims)
{
    if (rank > MAX_RANK) io_fail(HOP_INVALID, w, "shape: expected at most %d dims, found %u", MAX_RANK, rank);
    int64_t count = 1, product = dtype_info[dtype].size;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0)
            io_fail(HOP_INVALID, w, "shape: expected sizes of 0 and more, found %lld", (long long)dims[i]);
        /* as for every tensor: a size of zero does not excuse the others */
        if (__builtin_mul_overflow(product, dims[i] ? dims[i] : 1, &product) || product > INT64_MAX / 4)
            io_fail(HOP_INVALID, w, "shape: expected a product of at most 2^61 bytes, found more");
        count *= dims[i];
    }
    return count;
}

/* ---- strided copies ---- */

/* A plane of the array: its last dim, and the one along which the source is closest together. In tiles,
 * because one of the two sides jumps. */
struct plane {
    int64_t n, m; /* sizes: last dim, the other */
    int64_t to_m; /* stride of the destination along m; along n it is 1 */
    int64_t from_n, from_m;
};
enum { TILE = 32 };

#define COPY_PLANE(T) \
    static void copy_plane_##T(char *to, const char *from, const struct plane *p) \
    { \
        const int64_t size = sizeof(T); \
        for (int64_t i0 = 0; i0 < p->m; i0 += TILE) \
            for (int64_t j0 = 0; j0 < p->n; j0 += TILE) \
                for (int64_t i = i0; i < HOP_MIN(i0 + TILE, p->m); i++) \
                    for (int64_t j = j0; j < HOP_MIN(j0 + TILE, p->n); j++) \
                        memcpy(to + (i * p->to_m + j) * size, from + (i * p->from_m + j * p->from_n) * size, \
                               sizeof(T)); \
    }
COPY_PLANE(uint8_t)
COPY_PLANE(uint16_t)
COPY_PLANE(uint32_t)
COPY_PLANE(uint64_t)

static void copy_plane(char *to, const char *from, size_t size, const struct plane *p)
{
    switch (size) {
    case 1: copy_plane_uint8_t(to, from, p); break;
    case 2: copy_plane_uint16_t(to, from, p); break;
    case 4: copy_plane_uint32_t(to, from, p); break;
    default: copy_plane_uint64_t(to, from, p); break;
    }
}

/* Leaves out dims of one element and joins dims that lie one after the other. */
static uint32_t collapse(uint32_t rank, const int64_t *dims, const int64_t *strides, int64_t *d, int64_t *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t whole;
        if (dims[i] == 1) continue;
        if (n && !__builtin_mul_overflow(dims[i], strides[i], &whole) && s[n - 1] == whole) {
            d[n - 1] *= dims[i];
            s[n - 1] = strides[i];
        } else {
            d[n] = dims[i];
            s[n++] = strides[i];
        }
    }
    return n;
}

void io_gather(void *to, const void *from, size_t size, uint32_t rank, const int64_t *dims,
               const int64_t *strides)
{
    int64_t d[MAX_RANK], s[MAX_RANK], dense[MAX_RANK], index[MAX_RANK] = { 0 }, count = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (!dims[i]) return;
    uint32_t n = collapse(rank, dims, strides, d, s);
    for (uint32_t i = n; i-- > 0; count *= d[i]) dense[i] = count;
    if (!n || (n == 1 && s[0] == 1)) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    uint32_t last = n - 1, other = last;
    for (uint32_t i = 0; i < last; i++)
        if (llabs(s[i]) < llabs(s[other])) other = i;
    if (other == last && n > 1) other = last - 1;
    struct plane p = { .n = d[last],
                       .m = other == last ? 1 : d[other],
                       .to_m = other == last ? 0 : dense[other],
                       .from_n = s[last],
                       .from_m = other == last ? 0 : s[other] };
    for (;;) {
        int64_t to_at = 0, from_at = 0;
        for (uint32_t i = 0; i < n; i++) {
            to_at += index[i] * dense[i] * (int64_t)size;
            from_at += index[i] * s[i] * (int64_t)size;
        }
        copy_plane((char *)to + to_at, (const char *)from + from_at, size, &p);
        uint32_t i = n;
        while (i-- > 0) {
            if (i == last || i == other) continue;
            if (++index[i] < d[i]) break;
            index[i] = 0;
        }
        if (i == HOP_NONE) return;
    }
}

void io_swap_bytes(void *data, size_t size, int64_t count)
{
    uint16_t *half = data;
    uint32_t *word = data;
    uint64_t *wide = data;
    for (int64_t i = 0; i < count; i++) {
        if (size == 2) half[i] = __builtin_bswap16(half[i]);
        else if (size == 4) word[i] = __builtin_bswap32(word[i]);
        else if (size == 8) wide[i] = __builtin_bswap64(wide[i]);
    }
}

void io_check_bools(const struct io_where *w, enum dtype dtype, const void *data, int64_t count)
{
    const uint8_t *bytes = data;
    if (dtype_info[dtype].kind != KIND_BOOL) return;
    uint64_t any = 0, eight;
    int64_t i = 0;
    for (; i + 8 <= count && !(any & 0xfefefefefefefefeu); i += 8) {
        memcpy(&eight, bytes + i, sizeof eight);
        any |= eight;
    }
    for (i = i >= 8 ? i - 8 : 0; i < count; i++)
        if (bytes[i] > 1)
            io_fail(HOP_INVALID, w, "element %lld: expected 0 or 1 as a bool, found %u", (long long)i,
                    bytes[i]);
}

struct tensor *io_tensor(const struct io_where *w, struct io_file *f, const struct io_array *a)
{
    size_t size = dtype_info[a->dtype].size;
    int64_t count = io_count(w, a->dtype, a->rank, a->dims), strides[MAX_RANK], stride = 1;
    const uint8_t *data = f->data + a->offset;
    io_check_bools(w, a->dtype, data, count);
    uint32_t long_dims = 0;
    for (uint32_t i = 0; i < a->rank; i++) {
        strides[i] = stride;
        stride *= a->dims[i];
        long_dims += a->dims[i] != 1;
    }
    bool transposed = a->fortran && long_dims > 1, swapped = a->swapped && size > 1;
    if (!transposed && !swapped && (uintptr_t)data % size == 0) {
        struct tensor *t = tensor_borrow(a->dtype, a->rank, a->dims, f->data + a->offset, io_file_free, f);
        t->own = true; /* a private mapping */
        io_file_ref(f);
        return t;
    }
    struct tensor *t = tensor_new(a->dtype, a->rank, a->dims);
    if (transposed) io_gather(t->data, data, size, a->rank, a->dims, strides);
    else if (count) memcpy(t->data, data, (size_t)count * size);
    if (swapped) io_swap_bytes(t->data, size, count);
    return t;
}
