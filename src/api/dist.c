/* Distributed arrays as seen from C: made of arrays and of parts, put together again, and asked about. */
#include "api/api.h"
#include "dist/parts.h"

struct dist_args {
    hop_tensor **out;
    hop_tensor *from;
    const char *type, *mesh, *placements;
    hop_tensor *const *parts;
    int n_parts;
};

static void arena_drop(void *arena) { arena_free(arena); }

static void distribute(void *args)
{
    const struct dist_args *a = args;
    struct arena arena = { 0 };
    struct spread s;
    check_place(a->out, "distribute");
    struct tensor *t = check_array(a->from, "distribute", 0);
    hop_cleanup_push(arena_drop, &arena);
    spread_parse(&arena, a->mesh, a->placements, t->rank, &s);
    struct tensor *made = spread_is_plain(&s) ? tensor_ref(t) : parts_of(t, &s, 0, s.ranks);
    hop_cleanup_pop(&arena);
    arena_drop(&arena);
    *a->out = tensor_handle(made);
}

hop_status hop_distribute(hop_tensor **out, const hop_tensor *t, const char *mesh, const char *placements)
{
    struct dist_args a = { .out = out, .from = (hop_tensor *)t, .mesh = mesh, .placements = placements };
    return api_edge(distribute, &a);
}

static void collect(void *args)
{
    const struct dist_args *a = args;
    check_place(a->out, "collect");
    struct tensor *t = check_any_tensor(a->from, "collect", 0);
    *a->out = tensor_handle(t->parts ? parts_whole(t) : tensor_ref(t));
}

hop_status hop_collect(hop_tensor **out, hop_tensor *t)
{
    struct dist_args a = { .out = out, .from = t };
    return api_edge(collect, &a);
}

static void free_list(void *list) { hop_free(list); }

static void from_parts(void *args)
{
    const struct dist_args *a = args;
    struct arena arena = { 0 };
    struct spread s;
    int64_t dims[MAX_RANK];
    uint32_t rank;
    check_place(a->out, "an array of parts");
    enum dtype t = parse_static_type(a->type, &rank, dims);
    hop_cleanup_push(arena_drop, &arena);
    spread_parse(&arena, a->mesh, a->placements, rank, &s);
    if (a->n_parts != s.ranks)
        hop_throw(HOP_INVALID, "an array of parts: found %d parts for a mesh of %d ranks", a->n_parts,
                  s.ranks);
    if (!a->parts) hop_throw(HOP_INVALID, "an array of parts: expected %d parts, found NULL", a->n_parts);
    for (int i = 0; i < a->n_parts; i++) check_array(a->parts[i], "part", i);
    struct tensor **part = hop_malloc((size_t)a->n_parts * sizeof *part);
    hop_cleanup_push(free_list, part);
    for (int i = 0; i < a->n_parts; i++) part[i] = tensor_contiguous(tensor_of(a->parts[i]));
    struct tensor *made = parts_new(t, rank, dims, &s, 0, a->n_parts, part);
    hop_cleanup_pop(part);
    hop_free(part);
    hop_cleanup_pop(&arena);
    arena_drop(&arena);
    *a->out = tensor_handle(made);
}

hop_status hop_tensor_from_parts(hop_tensor **out, const char *type, const char *mesh, const char *placements,
                                 hop_tensor *const *parts, int n_parts)
{
    struct dist_args a = {
        .out = out, .type = type, .mesh = mesh, .placements = placements, .parts = parts, .n_parts = n_parts
    };
    return api_edge(from_parts, &a);
}

static const struct parts *parts_in(const hop_tensor *t) { return t ? tensor_of(t)->parts : NULL; }

int hop_tensor_parts(const hop_tensor *t) { return parts_in(t) ? parts_in(t)->n : 0; }

hop_tensor *hop_tensor_part(const hop_tensor *t, int k, int *rank)
{
    const struct parts *p = parts_in(t);
    if (!p || k < 0 || k >= p->n) return NULL;
    if (rank) *rank = p->first + k;
    return (hop_tensor *)p->part[k];
}

const char *hop_tensor_mesh(const hop_tensor *t) { return parts_in(t) ? parts_in(t)->spread.mesh : NULL; }

const char *hop_tensor_placements(const hop_tensor *t)
{
    return parts_in(t) ? parts_in(t)->spread.placements : NULL;
}
