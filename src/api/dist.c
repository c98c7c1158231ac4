/* Distributed arrays as seen from C: made of arrays and of parts, put together again, and asked about. */
#include "api/api.h"
#include "dist/parts.h"
#include "dist/process.h"
#include "runtime/ranks.h"

struct dist_args {
    hop_tensor **out;
    hop_tensor *from;
    const char *type, *mesh, *placements;
    hop_tensor *const *parts;
    int n_parts;
};

static void arena_drop(void *arena) { arena_free(arena); }

/* The ranks of a mesh whose parts this process has. */
static int32_t ranks_here(const struct spread *s, int32_t *first)
{
    const struct rank *r = dist_process();
    *first = r ? r->number : 0;
    if (!r) return s->ranks;
    if (r->size != s->ranks)
        hop_throw(HOP_INVALID, "the mesh (%s) has %d ranks, the job %d", s->mesh, s->ranks, r->size);
    return 1;
}

static void distribute(void *args)
{
    const struct dist_args *a = args;
    struct arena arena = { 0 };
    struct spread s;
    check_place(a->out, "distribute");
    struct tensor *t = check_array(a->from, "distribute", 0);
    hop_cleanup_push(arena_drop, &arena);
    spread_parse(&arena, a->mesh, a->placements, t->rank, &s);
    int32_t first, n = ranks_here(&s, &first);
    struct tensor *made = spread_is_plain(&s) ? tensor_ref(t) : parts_of(t, &s, first, n);
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
    *a->out = tensor_handle(mesh_collect(t));
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
    int32_t first, n = ranks_here(&s, &first);
    if (a->n_parts != n)
        hop_throw(HOP_INVALID,
                  "an array of parts: found %d parts for a mesh of %d ranks, of which this process has %d",
                  a->n_parts, s.ranks, n);
    if (!a->parts) hop_throw(HOP_INVALID, "an array of parts: expected %d parts, found NULL", a->n_parts);
    for (int i = 0; i < a->n_parts; i++) check_array(a->parts[i], "part", i);
    struct tensor **part = hop_malloc((size_t)a->n_parts * sizeof *part);
    hop_cleanup_push(free_list, part);
    for (int i = 0; i < a->n_parts; i++) part[i] = tensor_contiguous(tensor_of(a->parts[i]));
    struct tensor *made = parts_new(t, rank, dims, &s, first, n, part);
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

/* ---- processes ---- */

hop_status hop_dist_init(void)
{
    struct rank *r = dist_process();
    if (r || !dist_under_mpi()) return HOP_OK;
    hop_status status = dist_mpi(&r);
    if (!status) dist_process_set(r);
    return status;
}

int hop_dist_rank(void) { return dist_process() ? dist_process()->number : 0; }
int hop_dist_size(void) { return dist_process() ? dist_process()->size : 1; }
