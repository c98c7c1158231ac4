/* Tensor files and exchange: .npy, .npz and .safetensors files, and DLPack. Everything that is read is
 * untrusted: an error is HOP_INVALID (what the file says is wrong) or HOP_IO (it cannot be read or written)
 * and names the file, the field, what was expected and what was found. Nothing is allocated that the size of
 * the file does not justify. Files are little-endian, as is the machine; everything here throws. */
#ifndef HOP_IO_H
#define HOP_IO_H

#include "ir/table.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "file formats and memory share one byte order");

/* ---- any file of tensors, by name ---- */

/* "x.npy", "x.npz:name", "x.safetensors:name"; the name may be left out when the file holds one tensor. */
struct tensor *io_load(const char *spec);
/* The format is the ending of the path; .npy takes one tensor, whose name (names NULL: none) it does not
 * keep. The file appears whole or not at all. Strided tensors are written row-major. */
void io_save(const char *path, const char *const *names, struct tensor *const *tensors, uint32_t n);
/* As for io_load; the file holds this tensor and nothing else. */
void io_save_one(const char *spec, struct tensor *t);
/* Throws when io_save could not write n tensors there, whatever they are: an ending that is no format,
 * several in an .npy file. */
void io_check_target(const char *path, uint32_t n);
/* Does the text name a tensor file (does it end, or a part before ':' end, in .npy, .npz or .safetensors)? */
bool io_names_file(const char *spec);

static inline struct tensor *npy_read(const char *path) { return io_load(path); }
static inline void npy_write(const char *path, struct tensor *t) { io_save(path, NULL, &t, 1); }

/* ---- dtypes ---- */

/* What a dtype is called in each format. */
struct io_dtype {
    const char *name; /* hop's; a row whose name hop does not have (yet) is as if it were not there */
    const char *npy;  /* without the byte order */
    const char *safetensors;
    uint8_t dl_code, dl_bits;
};
const struct io_dtype *io_dtype_of(enum dtype t);
bool io_dtype_from_npy(const char *text, size_t length, enum dtype *out);
bool io_dtype_from_safetensors(const char *text, size_t length, enum dtype *out);
bool io_dtype_from_dlpack(uint32_t code, uint32_t bits, enum dtype *out);

/* ---- places for messages ---- */

struct io_where {
    const char *path;
    const char *member; /* NULL: the file itself */
};
_Noreturn void io_fail(hop_status status, const struct io_where *w, const char *format, ...) HOP_PRINTF(3, 4);

/* ---- arrays in memory that is not ours ---- */

/* Elements and bytes of a shape, or an error that names the place: a product that overflows, too many dims.
 */
int64_t io_count(const struct io_where *w, enum dtype dtype, uint32_t rank, const int64_t *dims);
/* Gathers a strided array (strides in elements, any sign) into contiguous memory; neither side need be
 * aligned. */
void io_gather(void *to, const void *from, size_t size, uint32_t rank, const int64_t *dims,
               const int64_t *strides);
void io_swap_bytes(void *data, size_t size, int64_t count);
/* Each byte is 0 or 1. */
void io_check_bools(const struct io_where *w, enum dtype dtype, const void *data, int64_t count);

/* ---- bytes of a file ---- */

/* The content of a file: mapped privately when it is large (writing to it changes no file), else read.
 * Tensors borrow from it and keep it alive. */
struct io_file {
    int32_t refs;
    bool mapped;
    uint8_t *data;
    size_t size;
    char path[]; /* for messages */
};
struct io_file *io_file_open(const char *path);
/* Bytes that are in memory, under a name for messages. */
struct io_file *io_file_copy(const char *path, const void *data, size_t size);
struct io_file *io_file_ref(struct io_file *f);
void io_file_free(void *file); /* drops one reference; signature of a cleanup */

struct io_array {
    enum dtype dtype;
    uint32_t rank;
    int64_t dims[MAX_RANK];
    uint64_t offset; /* of the first element in the file; the elements lie inside */
    bool swapped;    /* big-endian */
    bool fortran;    /* the first dim varies fastest */
};
/* Borrows from the file where the bytes are the tensor, copies where they are not: badly aligned, big-endian,
 * Fortran order. */
struct tensor *io_tensor(const struct io_where *w, struct io_file *f, const struct io_array *a);

/* ---- writing ---- */

/* A file in the making: a temporary in the folder of the path, which takes the path's place when it is
 * complete. */
struct io_writer {
    struct arena arena;
    const char *path;               /* for messages */
    const char *target, *temporary; /* temporary NULL: there is none (any more) */
    int fd;
    uint64_t written;
};
void io_writer_begin(struct io_writer *w, const char *path); /* registers its cleanup */
void io_write(struct io_writer *w, const void *data, size_t size);
void io_writer_finish(struct io_writer *w); /* on disk, renamed, cleanup taken back */

/* ---- files with named members ---- */

struct archive_entry {
    const char *name;    /* "" in an .npy file */
    uint64_t begin, end; /* of its bytes in the file */
    /* npz */
    uint64_t size; /* when inflated */
    uint32_t crc;
    bool deflated;
    /* safetensors */
    const char *dtype_name;
    bool dtype_known;
    enum dtype dtype;
    uint32_t rank;
    const int64_t *dims;
};
struct archive {
    struct arena arena;
    struct io_file *file;
    const struct io_format *format;
    vec(struct archive_entry) entries;
    struct map names;
};
struct io_format {
    const char *extension;
    void (*open)(struct archive *a); /* file -> entries */
    struct tensor *(*read)(struct archive *a, const struct archive_entry *e);
    void (*write)(const char *path, const char *const *names, struct tensor *const *tensors, uint32_t n);
};
extern const struct io_format npy_format, npz_format, safetensors_format;

struct archive *archive_open(const char *path);
/* Takes over one reference, also when it throws. */
struct archive *archive_open_file(struct io_file *f, const struct io_format *format);
void archive_free(void *archive);
/* Throws with the names there are; NULL: the only one. */
uint32_t archive_find(const struct archive *a, const char *name);
struct tensor *archive_read(struct archive *a, uint32_t entry);
/* For formats: adds an entry; its name must be new. */
void archive_add(struct archive *a, const struct archive_entry *e);
bool io_is_utf8(const char *text, size_t length);
/* Throws when the names cannot be those of one file: two are equal, one is empty or not UTF-8. */
void io_check_names(const char *path, const char *const *names, uint32_t n);

/* ---- npy, also inside npz ---- */

enum { NPY_PREAMBLE = 12, NPY_LARGEST_HEADER = 1 << 20 };
struct npy_header {
    struct io_array array; /* its offset is the header's size */
    uint64_t bytes;        /* of data */
};
/* Size of the header, from the first min(NPY_PREAMBLE, total) bytes of an array of `total` bytes. */
size_t npy_header_size(const struct io_where *w, const uint8_t *bytes, uint64_t total);
/* Reads a header of the size found above; header and data together must have `total` bytes. */
void npy_header_parse(const struct io_where *w, const uint8_t *bytes, size_t size, uint64_t total,
                      struct npy_header *out);
void npy_header_text(struct text *out, const struct tensor *t);

/* Test hook: sizes, offsets and counts from here on are written in zip64 form. */
extern uint64_t npz_zip64_from;

#endif
