/* Objects as seen from C: a pointer of the host's under a kind, in a tensor handle. Programs hand it on; only
 * operators look at what it points to. */
#include "api/api.h"

struct object_args {
    hop_tensor **out;
    const hop_tensor *from;
    const char *kind;
    void *pointer;
    void (*retain)(void *pointer);
    void (*release)(void *pointer);
};

static void make_object(void *args)
{
    const struct object_args *a = args;
    check_place(a->out, "an object");
    if (!a->kind || !object_kind_fits(a->kind, strlen(a->kind)))
        hop_throw(HOP_INVALID,
                  "an object: expected a kind of 1 to 100 characters without quotes, backslashes and control "
                  "characters, found \"%.100s\"",
                  a->kind ? a->kind : "NULL");
    if (!a->pointer) hop_throw(HOP_INVALID, "an object \"%s\": expected a pointer, found NULL", a->kind);
    *a->out = tensor_handle(tensor_object(a->kind, a->pointer, a->retain, a->release));
}

hop_status hop_object_new(hop_tensor **out, const char *kind, void *pointer, void (*retain)(void *pointer),
                          void (*release)(void *pointer))
{
    struct object_args a = {
        .out = out, .kind = kind, .pointer = pointer, .retain = retain, .release = release
    };
    return api_edge(make_object, &a);
}

const char *hop_object_kind(const hop_tensor *t) { return t ? tensor_of(t)->kind : NULL; }

static void find_pointer(void *args)
{
    struct object_args *a = args;
    const struct tensor *t = check_tensor(a->from, "the object", 0);
    if (!a->kind) hop_throw(HOP_INVALID, "the object 0: expected a kind, found NULL");
    if (!t->kind)
        hop_throw(HOP_INVALID, "expected object \"%.100s\", found an array of %s", a->kind,
                  dtype_info[t->dtype].name);
    if (strcmp(t->kind, a->kind))
        hop_throw(HOP_INVALID, "expected object \"%.100s\", found object \"%s\"", a->kind, t->kind);
    a->pointer = (void *)(uintptr_t)t->handle;
}

void *hop_object_pointer(const hop_tensor *t, const char *kind)
{
    struct object_args a = { .from = t, .kind = kind };
    return api_edge(find_pointer, &a) ? NULL : a.pointer;
}
