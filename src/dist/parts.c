/* Distributed arrays: texts of meshes and placements, which part of an array a rank has, cutting arrays into
 * parts and putting them together again. An array is cut one axis of the mesh after the other, and put
 * together from the last axis back, so that each step sees one placement. */
#include "dist/parts.h"
#include "dist/dist_impl.h"

/* ---- texts ---- */

static const char *skip(const char *p, const char *what)
{
    while (*p && strchr(what, *p)) p++;
    return p;
}

static size_t word_length(const char *p)
{
    size_t n = 0;
    while (p[n] && !strchr(" ,()=", p[n])) n++;
    return n;
}

static bool is_name(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool letter = (p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') || p[i] == '_';
        if (!letter && !(i && p[i] >= '0' && p[i] <= '9')) return false;
    }
    return n > 0;
}

/* A number below 2^31 of n digits; -1: it is none. */
static int64_t number_of(const char *p, size_t n)
{
    int64_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') return -1;
        out = out * 10 + (p[i] - '0');
        if (out > INT32_MAX) return -1;
    }
    return n ? out : -1;
}

static _Noreturn void wrong_mesh(const char *text, const char *why)
{
    hop_throw(
        HOP_INVALID,
        "a mesh: expected names of axes and their sizes, as in \"data = 2, model = 4\", found \"%s\": %s",
        text, why);
}

static void parse_mesh(struct arena *arena, const char *text, struct spread *s)
{
    struct text out = { .arena = arena };
    const char *names[DIST_AXES];
    if (!text) hop_throw(HOP_INVALID, "a mesh: expected a text, found NULL");
    s->ranks = 1;
    for (const char *p = skip(text, " ("); *p; p = skip(p, " ,)")) {
        size_t n = word_length(p);
        if (s->n_axes == DIST_AXES) wrong_mesh(text, "8 axes are the most");
        if (!is_name(p, n)) wrong_mesh(text, "an axis has no name");
        const char *name = names[s->n_axes] = arena_printf(arena, "%.*s", (int)n, p);
        for (uint32_t k = 0; k < s->n_axes; k++)
            if (!strcmp(names[k], name)) wrong_mesh(text, "two axes have one name");
        p = skip(p + n, " ");
        if (*p != '=') wrong_mesh(text, "an axis has no size");
        p = skip(p + 1, " ");
        n = word_length(p);
        int64_t size = number_of(p, n);
        if (size < 1) wrong_mesh(text, "a size is no positive number");
        if (size * s->ranks > 1 << 20) wrong_mesh(text, "more than 2^20 ranks");
        s->ranks *= (int32_t)size;
        s->sizes[s->n_axes++] = size;
        text_add(&out, "%s%s = %lld", s->n_axes > 1 ? ", " : "", name, (long long)size);
        p += n;
    }
    if (!s->n_axes) wrong_mesh(text, "it has no axes");
    s->mesh = out.data;
}

static struct placement parse_place(const char *word, size_t n, uint32_t rank)
{
    struct placement out;
    if (!placement_read(word, n, &out))
        hop_throw(HOP_INVALID,
                  "placements: expected the number of an axis of the array, \"_\" or \"sum\", \"max\", "
                  "\"min\", \"prod\", \"mean\", found \"%.*s\"",
                  (int)n, word);
    if (out.kind == PLACE_SHARD && out.dim >= rank)
        hop_throw(HOP_INVALID, "placements: axis %u of an array that has %u", out.dim, rank);
    return out;
}

void spread_parse(struct arena *arena, const char *mesh, const char *placements, uint32_t rank,
                  struct spread *out)
{
    struct text text = { .arena = arena };
    uint32_t n = 0;
    *out = (struct spread){ 0 };
    parse_mesh(arena, mesh, out);
    if (!placements) hop_throw(HOP_INVALID, "placements: expected a text, found NULL");
    for (const char *p = skip(placements, " ("); *p; p = skip(p, " ,)"), n++) {
        size_t length = word_length(p);
        if (!length) hop_throw(HOP_INVALID, "placements: expected words, found \"%s\"", placements);
        if (n < out->n_axes) {
            out->at[n] = parse_place(p, length, rank);
            text_add(&text, "%s%.*s", n ? " " : "", (int)length, p);
        }
        p += length;
    }
    if (n != out->n_axes)
        hop_throw(HOP_INVALID, "placements: \"%s\" has %u, the mesh (%s) has %u ax%s: one for each is needed",
                  placements, n, out->mesh, out->n_axes, out->n_axes == 1 ? "is" : "es");
    out->placements = text.data;
}

bool spread_is_plain(const struct spread *s)
{
    for (uint32_t k = 0; k < s->n_axes; k++)
        if (s->at[k].kind != PLACE_REPLICATE) return false;
    return true;
}

const char *parts_text(struct arena *arena, const struct tensor *t)
{
    struct text out = { .arena = arena };
    text_add(&out, "%s[", dtype_info[t->dtype].name);
    for (uint32_t i = 0; i < t->rank; i++) text_add(&out, "%s%lld", i ? ", " : "", (long long)t->dims[i]);
    text_add(&out, "]");
    if (t->parts) text_add(&out, " on (%s) as (%s)", t->parts->spread.mesh, t->parts->spread.placements);
    return out.data;
}

/* ---- parts ---- */

void parts_box(const struct spread *s, int32_t rank, uint32_t n_dims, const int64_t *dims,
               struct part_box *out)
{
    struct mesh over = { .n_axes = s->n_axes };
    memcpy(over.sizes, s->sizes, s->n_axes * sizeof *s->sizes);
    part_of(&over, s->at, n_dims, dims, rank, out);
}

static void parts_free(void *parts)
{
    struct parts *p = parts;
    for (int32_t i = 0; i < p->n; i++) tensor_free(p->part[i]);
    hop_free(p);
}

/* In one block with its texts and its list, whose places are empty. */
static struct parts *parts_make(const struct spread *s, int32_t first, int32_t n)
{
    size_t list = (size_t)n * sizeof(struct tensor *);
    size_t mesh = strlen(s->mesh) + 1, placements = strlen(s->placements) + 1;
    struct parts *p = hop_calloc(1, sizeof *p + list + mesh + placements);
    char *texts = (char *)(p + 1) + list;
    *p = (struct parts){ *s, first, n, (struct tensor **)(p + 1) };
    p->spread.mesh = memcpy(texts, s->mesh, mesh);
    p->spread.placements = memcpy(texts + mesh, s->placements, placements);
    return p;
}

static void check_parts(const struct parts *p, enum dtype dtype, uint32_t rank, const int64_t *dims)
{
    const struct spread *s = &p->spread;
    for (int32_t i = 0; i < p->n; i++) {
        struct part_box box;
        const struct tensor *t = p->part[i];
        parts_box(s, p->first + i, rank, dims, &box);
        bool same = t->dtype == dtype && t->rank == rank && !t->parts && !t->kind;
        for (uint32_t d = 0; same && d < rank; d++) same = t->dims[d] == box.sizes[d];
        if (same) continue;
        struct arena arena = { 0 };
        hop_cleanup_push(arena_free, &arena);
        struct tensor wanted = { .dtype = (uint8_t)dtype, .rank = (uint8_t)rank };
        if (rank) memcpy(wanted.dims, box.sizes, rank * sizeof *box.sizes);
        hop_throw(HOP_INVALID, "the part of rank %d: expected %s, found %s", p->first + i,
                  parts_text(&arena, &wanted), parts_text(&arena, t));
    }
}

struct tensor *parts_new(enum dtype dtype, uint32_t rank, const int64_t *dims, const struct spread *s,
                         int32_t first, int32_t n, struct tensor **part)
{
    struct parts *p = parts_make(s, first, n);
    if (n) memcpy(p->part, part, (size_t)n * sizeof *part);
    hop_cleanup_push(parts_free, p);
    check_parts(p, dtype, rank, dims);
    struct tensor *t = tensor_borrow(dtype, rank, dims, NULL, parts_free, p);
    hop_cleanup_pop(p);
    t->parts = p;
    return t;
}

/* ---- boxes of arrays ---- */

/* Elements of a box of `from` to one of `to`; both row-major and of these sizes. */
static void copy_box(const struct tensor *to, const int64_t *to_begin, const struct tensor *from,
                     const int64_t *from_begin, const int64_t *sizes)
{
    int64_t width = dtype_info[to->dtype].size;
    int64_t to_strides[MAX_RANK], from_strides[MAX_RANK], a = 1, b = 1, at = 0, begin = 0;
    struct tensor there = *to, here = *from;
    for (uint32_t i = to->rank; i-- > 0; a *= to->dims[i], b *= from->dims[i]) {
        to_strides[i] = a;
        from_strides[i] = b;
        at += a * to_begin[i];
        begin += b * from_begin[i];
    }
    there.count = 1;
    for (uint32_t i = 0; i < to->rank; i++) {
        there.dims[i] = sizes[i];
        there.count *= sizes[i];
    }
    there.data = (char *)to->data + at * width;
    there.strides = to_strides;
    here.data = (char *)from->data + begin * width;
    here.strides = from_strides;
    if (to->rank && sizes[to->rank - 1] > 1 && there.count) { /* whole rows at once */
        uint32_t last = to->rank - 1;
        int64_t rows = there.count / sizes[last], index[MAX_RANK] = { 0 };
        for (int64_t r = 0; r < rows; r++) {
            int64_t t = 0, f = 0;
            for (uint32_t i = 0; i < last; i++) {
                t += index[i] * to_strides[i];
                f += index[i] * from_strides[i];
            }
            memcpy((char *)there.data + t * width, (const char *)here.data + f * width,
                   (size_t)(sizes[last] * width));
            for (uint32_t i = last; i-- > 0;) {
                if (++index[i] < sizes[i]) break;
                index[i] = 0;
            }
        }
        return;
    }
    tensor_copy_elements(&there, &here);
}

static const int64_t zeros[MAX_RANK];

/* What all ranks but one contribute to a reduction: what changes nothing. */
static struct tensor *identity_like(const struct tensor *t, uint8_t op)
{
    struct tensor *out = tensor_new((enum dtype)t->dtype, t->rank, t->dims);
    struct dist_call call = { .kind = DIST_ALL_REDUCE, .dtype = (enum dtype)t->dtype, .op = op };
    dist_reduce(&call, 0, NULL, out->data, out->count);
    return out;
}

/* The part of coordinate r of n along one axis of the mesh. */
static struct tensor *place_one(struct tensor *t, struct placement at, int64_t n, int64_t r)
{
    if (at.kind == PLACE_PARTIAL && at.op != REDUCTION_MEAN && r) return identity_like(t, at.op);
    if (at.kind != PLACE_SHARD || n == 1) return tensor_ref(t);
    int64_t begins[MAX_RANK] = { 0 }, sizes[MAX_RANK];
    memcpy(sizes, t->dims, sizeof sizes);
    begins[at.dim] = part_offset(t->dims[at.dim], n, r);
    sizes[at.dim] = part_size(t->dims[at.dim], n, r);
    struct tensor *out = tensor_new((enum dtype)t->dtype, t->rank, sizes);
    copy_box(out, zeros, t, begins, sizes);
    return out;
}

struct tensor *parts_of(struct tensor *whole, const struct spread *s, int32_t first, int32_t n)
{
    for (uint32_t k = 0; k < s->n_axes; k++) {
        if (s->at[k].kind == PLACE_EACH)
            hop_throw(HOP_INVALID, "an array cannot be distributed as \"each\": only programs make such");
        if (s->at[k].kind == PLACE_PARTIAL && whole->dtype == DT_BOOL)
            hop_throw(HOP_INVALID, "an array of bools cannot be distributed to be reduced (%s)",
                      s->placements);
        if (s->at[k].kind == PLACE_PARTIAL && s->at[k].op == REDUCTION_MEAN &&
            !dtype_is_float((enum dtype)whole->dtype))
            hop_throw(HOP_INVALID, "a mean needs floats, found %s", dtype_info[whole->dtype].name);
    }
    struct parts *p = parts_make(s, first, n);
    hop_cleanup_push(parts_free, p);
    struct tensor *base = tensor_contiguous(whole);
    hop_cleanup_push(tensor_free, base);
    for (int32_t i = 0; i < n; i++) {
        struct rank r = { .number = first + i };
        struct tensor *t = tensor_ref(base);
        for (uint32_t k = 0; k < s->n_axes; k++) {
            hop_cleanup_push(tensor_free, t);
            struct tensor *next = place_one(t, s->at[k], s->sizes[k],
                                            rank_coordinate(&r, s->n_axes, s->sizes, k));
            hop_cleanup_pop(t);
            tensor_free(t);
            t = next;
        }
        p->part[i] = t;
    }
    struct tensor *out = tensor_borrow((enum dtype)whole->dtype, whole->rank, whole->dims, NULL, parts_free,
                                       p);
    hop_cleanup_pop(base);
    tensor_free(base);
    hop_cleanup_pop(p);
    out->parts = p;
    return out;
}

/* ---- putting together ---- */

static struct tensor *joined(struct tensor **part, int64_t n, uint32_t d)
{
    int64_t dims[MAX_RANK], begins[MAX_RANK] = { 0 };
    memcpy(dims, part[0]->dims, sizeof dims);
    for (int64_t r = 1; r < n; r++) dims[d] += part[r]->dims[d];
    struct tensor *out = tensor_new((enum dtype)part[0]->dtype, part[0]->rank, dims);
    for (int64_t r = 0; r < n; begins[d] += part[r++]->dims[d])
        copy_box(out, begins, part[r], zeros, part[r]->dims);
    return out;
}

static struct tensor *reduced(struct tensor **part, int64_t n, uint8_t op)
{
    const void **data = hop_malloc((size_t)n * sizeof *data);
    hop_cleanup_push(hop_free, data);
    for (int64_t r = 0; r < n; r++) data[r] = part[r]->data;
    struct tensor *out = tensor_new((enum dtype)part[0]->dtype, part[0]->rank, part[0]->dims);
    struct dist_call call = {
        .kind = DIST_ALL_REDUCE, .dtype = (enum dtype)out->dtype, .op = op, .scalar = !out->rank
    };
    dist_reduce(&call, (int32_t)n, data, out->data, out->count);
    hop_cleanup_pop(data);
    hop_free(data);
    return out;
}

/* The ranks that differ along the last axis alone become one, axis by axis. */
struct tensor *parts_whole(const struct tensor *t)
{
    const struct parts *p = t->parts;
    const struct spread *s = &p->spread;
    if (p->first || p->n != s->ranks)
        hop_throw(HOP_INVALID, "%d of the %d parts of an array are in other processes", s->ranks - p->n,
                  s->ranks);
    struct parts *now = parts_make(s, 0, s->ranks);
    hop_cleanup_push(parts_free, now);
    for (int32_t i = 0; i < s->ranks; i++) now->part[i] = tensor_ref(p->part[i]);
    for (uint32_t k = s->n_axes; k-- > 0;) {
        int64_t n = s->sizes[k], left = now->n / n;
        struct placement at = s->at[k];
        if (at.kind == PLACE_EACH)
            hop_throw(HOP_INVALID,
                      "each rank has a value of its own: there is no array that they are parts of");
        for (int64_t i = 0; i < left; i++) {
            struct tensor **group = now->part + i * n, *one;
            if (n == 1 || at.kind == PLACE_REPLICATE) one = tensor_ref(group[0]);
            else one = at.kind == PLACE_SHARD ? joined(group, n, at.dim) : reduced(group, n, at.op);
            for (int64_t r = 0; r < n; r++) {
                tensor_free(group[r]);
                group[r] = NULL;
            }
            now->part[i] = one;
        }
        now->n = (int32_t)left;
    }
    struct tensor *out = now->part[0];
    now->part[0] = NULL;
    hop_cleanup_pop(now);
    parts_free(now);
    return out;
}

/* ---- given results ---- */

static bool lie_alike(const struct parts *a, const struct parts *b)
{
    return a->first == b->first && a->n == b->n && !strcmp(a->spread.mesh, b->spread.mesh) &&
           !strcmp(a->spread.placements, b->spread.placements);
}

void parts_check_alike(const struct tensor *to, const struct tensor *from, uint32_t result)
{
    struct arena arena = { 0 };
    bool alike = !to->parts || (from->parts && lie_alike(to->parts, from->parts));
    if (alike) return;
    hop_cleanup_push(arena_free, &arena);
    hop_throw(HOP_INVALID, "result %u: expected a tensor %s, found %s", result, parts_text(&arena, from),
              parts_text(&arena, to));
}

void parts_bring(struct tensor *to, struct tensor *from)
{
    if (!from->parts) {
        tensor_copy_elements(to, from);
        return;
    }
    if (!to->parts) {
        struct tensor *whole = parts_whole(from);
        tensor_copy_elements(to, whole);
        tensor_free(whole);
        return;
    }
    for (int32_t i = 0; i < to->parts->n; i++) {
        tensor_copy_elements(to->parts->part[i], from->parts->part[i]);
        tensor_written(to->parts->part[i]);
    }
}
