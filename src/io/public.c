/* The functions of hop.h for files and exchange: arguments are checked, errors become statuses, outputs are
 * set only on success. */
#include "io/dlpack.h"

/* One call: what it was given and what it made. */
struct call {
    const char *text;
    const char *const *names;
    hop_tensor *const *tensors;
    uint32_t n;
    struct archive *archive;
    void *given, *made;
};

static hop_status edge(void (*body)(struct call *c), struct call *c)
{
    struct hop_catch caught;
    if (!HOP_TRY(caught)) return hop_caught();
    body(c);
    hop_catch_end(&caught);
    return HOP_OK;
}

static hop_status missing(const char *function, const char *what)
{
    hop_set_message("%s: expected %s, found NULL", function, what);
    return HOP_INVALID;
}

static void load(struct call *c) { c->made = io_load(c->text); }

hop_status hop_load(hop_tensor **out, const char *file)
{
    if (!out || !file) return missing("hop_load", out ? "a file name" : "a place for the result");
    struct call c = { .text = file };
    hop_status status = edge(load, &c);
    if (!status) *out = c.made;
    return status;
}

static void save(struct call *c) { io_save_one(c->text, c->given); }

hop_status hop_save(const hop_tensor *t, const char *file)
{
    if (!t || !file) return missing("hop_save", t ? "a file name" : "a tensor");
    return edge(save, &(struct call){ .text = file, .given = (struct tensor *)t });
}

static void save_many(struct call *c)
{
    io_save(c->text, c->names, (struct tensor *const *)c->tensors, c->n);
}

hop_status hop_save_many(const char *path, const char *const *names, hop_tensor *const *tensors, int n)
{
    if (!path) return missing("hop_save_many", "a file name");
    if (n > 0 && !names) return missing("hop_save_many", "names");
    if (n > 0 && !tensors) return missing("hop_save_many", "tensors");
    if (n < 0) {
        hop_set_message("hop_save_many: expected 0 tensors or more, found %d", n);
        return HOP_INVALID;
    }
    for (int i = 0; i < n; i++)
        if (!tensors[i]) return missing("hop_save_many", "tensors");
    struct call call = { .text = path, .names = names, .tensors = tensors, .n = (uint32_t)n };
    return edge(save_many, &call);
}

static void file_open(struct call *c) { c->made = archive_open(c->text); }

hop_status hop_file_open(hop_file **out, const char *path)
{
    if (!out || !path) return missing("hop_file_open", out ? "a file name" : "a place for the result");
    struct call c = { .text = path };
    hop_status status = edge(file_open, &c);
    if (!status) *out = c.made;
    return status;
}

void hop_file_free(hop_file *f) { archive_free(f); }

int hop_file_count(const hop_file *f) { return f ? (int)((const struct archive *)f)->entries.len : 0; }

const char *hop_file_name(const hop_file *f, int i)
{
    return i >= 0 && i < hop_file_count(f) ? ((const struct archive *)f)->entries.data[i].name : NULL;
}

static void file_load(struct call *c)
{
    c->made = archive_read(c->archive, archive_find(c->archive, c->text));
}

hop_status hop_file_load(hop_tensor **out, hop_file *f, const char *name)
{
    if (!out || !f) return missing("hop_file_load", out ? "an open file" : "a place for the result");
    struct call c = { .text = name, .archive = (struct archive *)f };
    hop_status status = edge(file_load, &c);
    if (!status) *out = c.made;
    return status;
}

static void to_dlpack(struct call *c) { c->made = dlpack_export(c->given); }
static void to_dlpack_versioned(struct call *c) { c->made = dlpack_export_versioned(c->given); }
static void from_dlpack(struct call *c) { c->made = dlpack_import(c->given); }
static void from_dlpack_versioned(struct call *c) { c->made = dlpack_import_versioned(c->given); }

#define EXCHANGE(function, body, From, To) \
    hop_status function(To **out, From *given) \
    { \
        if (!out || !given) return missing(#function, out ? "a tensor" : "a place for the result"); \
        struct call c = { .given = given }; \
        hop_status status = edge(body, &c); \
        if (!status) *out = c.made; \
        return status; \
    }
EXCHANGE(hop_tensor_to_dlpack, to_dlpack, hop_tensor, struct DLManagedTensor)
EXCHANGE(hop_tensor_to_dlpack_versioned, to_dlpack_versioned, hop_tensor, struct DLManagedTensorVersioned)
EXCHANGE(hop_tensor_from_dlpack, from_dlpack, struct DLManagedTensor, hop_tensor)
EXCHANGE(hop_tensor_from_dlpack_versioned, from_dlpack_versioned, struct DLManagedTensorVersioned, hop_tensor)
