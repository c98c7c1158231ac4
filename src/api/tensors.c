/* Tensors as seen from C: made from type texts, borrowed from the caller, cut into views. A handle is the
 * library's struct tensor itself; only here it may have strides. */
#include "api/api.h"
#include "interp/interp.h"

struct make_args {
    hop_tensor **out;
    const char *type; /* "f32[3, 4]"; with `dims` the dtype alone */
    const int64_t *dims;
    int rank;
    void *data;
    const int64_t *strides;
    void (*release)(void *ctx);
    void *ctx;
    struct tensor *from;
};

static const int64_t no_dims[1]; /* of a scalar, where the caller may give NULL */

static enum dtype wanted_type(const struct make_args *a, uint32_t *rank, int64_t dims[MAX_RANK])
{
    enum dtype t;
    if (!a->dims) return parse_static_type(a->type, rank, dims);
    if (!a->type || !dtype_from_name(a->type, strlen(a->type), &t))
        hop_throw(HOP_INVALID, "a tensor: expected a dtype, found \"%s\"", a->type ? a->type : "NULL");
    if (a->rank < 0 || a->rank > MAX_RANK)
        hop_throw(HOP_INVALID, "a tensor: expected 0 to %d dims, found %d", MAX_RANK, a->rank);
    if (a->rank && a->dims == no_dims)
        hop_throw(HOP_INVALID, "a tensor: expected %d dims, found NULL", a->rank);
    for (int i = 0; i < a->rank; i++) {
        dims[i] = a->dims[i];
        if (dims[i] < 0) hop_throw(HOP_INVALID, "a tensor: dim %d is %lld", i, (long long)dims[i]);
    }
    *rank = (uint32_t)a->rank;
    return t;
}

static void make_new(void *args)
{
    struct make_args *a = args;
    int64_t dims[MAX_RANK];
    uint32_t rank;
    check_place(a->out, "a tensor");
    enum dtype t = wanted_type(a, &rank, dims);
    struct tensor *made = tensor_new(t, rank, dims);
    if (made->count) memset(made->data, 0, (size_t)made->count * dtype_info[t].size);
    *a->out = tensor_handle(made);
}

hop_status hop_tensor_new(hop_tensor **out, const char *type)
{
    struct make_args a = { .out = out, .type = type };
    return api_edge(make_new, &a);
}

static void make_borrowed(void *args)
{
    struct make_args *a = args;
    int64_t dims[MAX_RANK];
    uint32_t rank;
    check_place(a->out, "a tensor");
    enum dtype t = wanted_type(a, &rank, dims);
    bool empty = false;
    for (uint32_t i = 0; i < rank; i++) empty |= !dims[i];
    if (!a->data && !empty)
        hop_throw(HOP_INVALID, "a tensor of type \"%s\": expected memory, found NULL", a->type);
    if ((uintptr_t)a->data % dtype_info[t].size)
        hop_throw(HOP_INVALID, "a tensor of type \"%s\": its memory is not aligned to its elements", a->type);
    struct tensor *made;
    if (a->strides) made = tensor_strided(t, rank, dims, a->strides, a->data, a->release, a->ctx);
    else made = tensor_borrow(t, rank, dims, a->data, a->release, a->ctx);
    *a->out = tensor_handle(made);
}

hop_status hop_tensor_borrow(hop_tensor **out, const char *type, void *data, void (*release)(void *ctx),
                             void *ctx)
{
    struct make_args a = { .out = out, .type = type, .data = data, .release = release, .ctx = ctx };
    return api_edge(make_borrowed, &a);
}

hop_status hop_tensor_new_dims(hop_tensor **out, const char *dtype, const int64_t *dims, int rank)
{
    struct make_args a = { .out = out, .type = dtype, .dims = dims ? dims : no_dims, .rank = rank };
    return api_edge(make_new, &a);
}

hop_status hop_tensor_borrow_dims(hop_tensor **out, const char *dtype, const int64_t *dims, int rank,
                                  void *data, void (*release)(void *ctx), void *ctx)
{
    struct make_args a = { .out = out,
                           .type = dtype,
                           .dims = dims ? dims : no_dims,
                           .rank = rank,
                           .data = data,
                           .release = release,
                           .ctx = ctx };
    return api_edge(make_borrowed, &a);
}

hop_status hop_tensor_strided(hop_tensor **out, const char *type, void *data, const int64_t *strides,
                              void (*release)(void *ctx), void *ctx)
{
    static const int64_t scalar[1];
    struct make_args a = { .out = out,
                           .type = type,
                           .data = data,
                           .strides = strides ? strides : scalar,
                           .release = release,
                           .ctx = ctx };
    return api_edge(make_borrowed, &a);
}

/* ---- views ---- */

static int64_t stride_of(const struct tensor *t, uint32_t axis)
{
    int64_t s = 1;
    if (t->strides) return t->strides[axis];
    for (uint32_t i = t->rank; i-- > axis + 1;) s *= t->dims[i];
    return s;
}

static int64_t into(int64_t n, int64_t lo, int64_t hi)
{
    if (n < lo) return lo;
    return HOP_MIN(n, hi);
}

static void make_view(void *args)
{
    struct make_args *a = args;
    check_place(a->out, "view");
    struct tensor *t = check_array(tensor_handle(a->from), "view", 0);
    struct cursor c = cursor_over(a->type, "the slices", NULL, NULL);
    struct slice_item items[MAX_SLICE_ITEMS];
    uint32_t n = parse_slices(&c, t->rank, items, HOP_COUNT(items)), axis = 0, rank = 0;
    int64_t dims[MAX_RANK], strides[MAX_RANK], offset = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct slice_item *item = &items[i];
        if (item->kind != SLICE_INDEX && rank == MAX_RANK)
            hop_throw(HOP_INVALID, "the view would have more than %d dims", MAX_RANK);
        if (item->kind == SLICE_NEW) {
            dims[rank] = 1;
            strides[rank++] = 1;
            continue;
        }
        int64_t size = t->dims[axis], stride = stride_of(t, axis), step = item->step;
        int64_t start = item->start_number + (item->start_negative ? size : 0);
        int64_t limit = item->limit_number + (item->limit_negative ? size : 0);
        axis++;
        if (item->kind == SLICE_INDEX) {
            if (start < 0 || start >= size)
                hop_throw(HOP_INVALID, "index %lld is outside of axis %u of size %lld",
                          (long long)item->start_number, axis - 1, (long long)size);
            offset += start * stride;
            continue;
        }
        bool forward = step > 0;
        int64_t least = forward ? 0 : -1;
        int64_t most = forward ? size : size - 1;
        int64_t first = forward ? least : most;
        int64_t behind = forward ? most : least;
        start = item->has_start ? into(start, least, most) : first;
        limit = item->has_limit ? into(limit, least, most) : behind;
        int64_t span = forward ? limit - start : start - limit;
        int64_t pace = forward ? step : HOP_MAX(-step, 1);
        int64_t count = span > 0 ? (span + pace - 1) / pace : 0;
        if (count) offset += start * stride;
        dims[rank] = count;
        strides[rank++] = stride * step;
    }
    char *data = (char *)t->data + offset * (int64_t)dtype_info[t->dtype].size;
    struct tensor *view = tensor_strided((enum dtype)t->dtype, rank, dims, strides, data, tensor_free, t);
    tensor_ref(t);
    *a->out = tensor_handle(view);
}

hop_status hop_tensor_view(hop_tensor **out, hop_tensor *t, const char *slices)
{
    struct make_args a = { .out = out, .type = slices, .from = tensor_of(t) };
    return api_edge(make_view, &a);
}

static void make_reshaped(void *args)
{
    struct make_args *a = args;
    int64_t dims[MAX_RANK], count = 1;
    uint32_t rank;
    check_place(a->out, "reshape");
    struct tensor *t = check_array(tensor_handle(a->from), "reshape", 0);
    if (!a->type) a->type = dtype_info[t->dtype].name;
    enum dtype dtype = wanted_type(a, &rank, dims);
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(count, dims[i], &count)) count = -1;
    if (count != t->count || dtype_info[dtype].size != dtype_info[t->dtype].size)
        hop_throw(HOP_INVALID, "reshape: expected %lld elements of %u bytes, found %lld of %u",
                  (long long)t->count, dtype_info[t->dtype].size, (long long)count, dtype_info[dtype].size);
    if (t->strides) hop_throw(HOP_INVALID, "reshape: the tensor is not row-major: copy it first");
    struct tensor *view = tensor_borrow(dtype, rank, dims, t->data, tensor_free, t);
    tensor_ref(t);
    *a->out = tensor_handle(view);
}

hop_status hop_tensor_reshape(hop_tensor **out, hop_tensor *t, const char *dtype, const int64_t *dims,
                              int rank)
{
    struct make_args a = {
        .out = out, .type = dtype, .dims = dims ? dims : no_dims, .rank = rank, .from = tensor_of(t)
    };
    return api_edge(make_reshaped, &a);
}

static void make_copy(void *args)
{
    struct make_args *a = args;
    check_place(a->out, "copy");
    struct tensor *t = check_array(tensor_handle(a->from), "copy", 0);
    struct tensor *copy = tensor_new((enum dtype)t->dtype, t->rank, t->dims);
    tensor_copy_elements(copy, t);
    *a->out = tensor_handle(copy);
}

hop_status hop_tensor_copy(hop_tensor **out, const hop_tensor *t)
{
    struct make_args a = { .out = out, .from = tensor_of(t) };
    return api_edge(make_copy, &a);
}

static void fill(void *args)
{
    struct make_args *a = args;
    struct tensor *to = check_array(*a->out, "fill", 0);
    struct tensor *from = check_array(tensor_handle(a->from), "fill", 1);
    bool same = to->dtype == from->dtype && to->rank == from->rank;
    for (uint32_t i = 0; same && i < to->rank; i++) same = to->dims[i] == from->dims[i];
    if (!same) hop_throw(HOP_INVALID, "fill: the tensors have different types");
    struct tensor *row_major = tensor_contiguous(from); /* the two may overlap */
    tensor_copy_elements(to, row_major);
    tensor_written(to);
    tensor_free(row_major);
}

hop_status hop_tensor_fill(hop_tensor *to, const hop_tensor *from)
{
    struct make_args a = { .out = &to, .from = tensor_of(from) };
    return api_edge(fill, &a);
}

hop_tensor *hop_tensor_ref(hop_tensor *t) { return t ? tensor_handle(tensor_ref(tensor_of(t))) : NULL; }
void hop_tensor_free(hop_tensor *t) { tensor_free_handle(t); }

/* ---- questions ---- */

void *hop_data(const hop_tensor *t)
{
    tensor_written(tensor_of(t));
    return t && !tensor_of(t)->kind ? tensor_of(t)->data : NULL;
}
const void *hop_data_const(const hop_tensor *t)
{
    return t && !tensor_of(t)->kind ? tensor_of(t)->data : NULL;
}
const char *hop_tensor_dtype(const hop_tensor *t) { return t ? dtype_info[tensor_of(t)->dtype].name : ""; }
int hop_tensor_rank(const hop_tensor *t) { return t ? tensor_of(t)->rank : -1; }

static int axis_of(const hop_tensor *t, int axis)
{
    if (!t) return -1;
    int rank = hop_tensor_rank(t), a = axis < 0 ? axis + rank : axis;
    return a >= 0 && a < rank ? a : -1;
}
int64_t hop_tensor_dim(const hop_tensor *t, int axis)
{
    int a = axis_of(t, axis);
    return a < 0 ? -1 : tensor_of(t)->dims[a];
}
int64_t hop_tensor_stride(const hop_tensor *t, int axis)
{
    int a = axis_of(t, axis);
    return a < 0 ? 0 : stride_of(tensor_of(t), (uint32_t)a);
}
int64_t hop_tensor_count(const hop_tensor *t) { return t ? tensor_of(t)->count : 0; }
int hop_tensor_is_contiguous(const hop_tensor *t) { return t && !tensor_of(t)->strides; }
int hop_tensor_is_shared(const hop_tensor *t) { return t && tensor_of(t)->refs > 1; }

struct text_args {
    const hop_tensor *t;
    char *out;
};
static void print_tensor(void *args)
{
    struct text_args *a = args;
    struct tensor *t = tensor_contiguous(check_array(a->t, "text", 0));
    struct arena arena = { 0 };
    struct text out = { .arena = &arena };
    hop_cleanup_push(tensor_free, t);
    hop_cleanup_push(arena_free, &arena);
    tensor_print(&out, t);
    a->out = text_given(&out);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    hop_cleanup_pop(t);
    tensor_free(t);
}
char *hop_tensor_text(const hop_tensor *t)
{
    struct text_args a = { t, NULL };
    return api_edge(print_tensor, &a) ? NULL : a.out;
}
char *text_given(const struct text *t)
{
    char *given = hop_malloc(t->len + 1);
    memcpy(given, t->data ? t->data : "", t->len + 1);
    return given;
}

void hop_text_free(char *text) { hop_free(text); }
