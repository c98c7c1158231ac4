/* Running programs over a mesh: arguments become those of each rank, ranks run the local function, what they
 * give becomes results. A run that fails on one rank ends on all of them, and nothing of the caller's was
 * written then. */
#include "runtime/ranks.h"

#include "dist/exchange.h"
#include "dist/process.h"
#include "ir/canon.h"

#include <pthread.h>

/* ---- what a run needs to know ---- */

static struct spread spread_of(struct arena *arena, const struct module *m, uint32_t mesh, type_id t)
{
    const struct mesh *over = &m->meshes.data[mesh];
    struct placement at[MESH_AXES];
    struct text names = { .arena = arena }, places = { .arena = arena };
    struct spread s = { .n_axes = over->n_axes, .ranks = (int32_t)mesh_size(over) };
    if (t == HOP_NONE) memset(at, 0, sizeof at);
    else type_placements(m, t, mesh, at);
    for (uint32_t k = 0; k < over->n_axes; k++) {
        s.sizes[k] = over->sizes[k];
        s.at[k] = at[k];
    }
    mesh_print(m, over, &names);
    placements_print(over->n_axes, at, &places);
    s.mesh = names.data;
    s.placements = places.data;
    return s;
}

/* Of the program as it is, in whatever module: its bodies, constants and messages, and the mesh. */
static void hash_program(const struct module *m, uint32_t local, struct mesh_program *p)
{
    struct canon canon = { 0 };
    hop_cleanup_push(arena_free, &canon.arena);
    canon_function(&canon, m, local);
    canon_bytes(&canon, p->mesh.mesh, strlen(p->mesh.mesh));
    hash_bytes128(canon.words.data, canon.words.len * sizeof *canon.words.data, p->hash);
    hop_cleanup_pop(&canon.arena);
    arena_free(&canon.arena);
}

void mesh_program_of(struct arena *arena, struct module *m, uint32_t fn, struct mesh_program *out)
{
    const struct edges *edges = localize(m, fn);
    const struct fn *local = module_fn(m, edges->local);
    memset(out, 0, sizeof *out);
    out->m = m;
    out->header = module_fn(m, fn);
    out->local = edges->local;
    out->mesh = spread_of(arena, m, edges->mesh, HOP_NONE);
    out->params = ARENA_NEW(arena, struct spread, edges->n_params);
    out->results = ARENA_NEW(arena, struct spread, edges->n_results);
    for (uint32_t p = 0; p < edges->n_params; p++)
        out->params[p] = spread_of(arena, m, edges->mesh, edges->params[p]);
    for (uint32_t k = 0; k < edges->n_results; k++)
        out->results[k] = spread_of(arena, m, edges->mesh, edges->results[k]);
    out->n_symbols = local->n_outer_symbols;
    out->explicit = ARENA_NEW(arena, bool, out->n_symbols);
    for (uint32_t s = 0; s < out->n_symbols; s++) out->explicit[s] = local->symbols[s].origin == SYMBOL_DIM;
    out->n_ranks = edges->n_ranks;
    memcpy(out->rank_axes, edges->rank_axes, sizeof edges->rank_axes);
    hash_program(m, edges->local, out);
}

void mesh_program_end(void *program)
{
    struct mesh_program *p = program;
    dist_team_free(atomic_exchange(&p->team, NULL));
}

/* ---- one run ---- */

struct mesh_job {
    struct mesh_program *p;
    struct tensor **args;     /* the caller's, those cut that have to be; references of the job's own */
    struct tensor ***results; /* per rank that is here, per result */
    const int64_t *symbols;   /* of the global function */
    int32_t first, n;         /* the ranks that are here */
    const struct exe_call *call;
    void (*run)(void *ctx, const struct rank_run *r);
    void *ctx;
    volatile int stop; /* a rank has failed: those that compute are to leave */
    pthread_mutex_t printing;
};

static void job_free(void *job)
{
    struct mesh_job *j = job;
    for (uint32_t p = 0; p < j->p->header->n_params; p++) tensor_free(j->args[p]);
    for (int32_t r = 0; r < j->n; r++)
        for (uint32_t k = 0; k < j->p->header->n_results; k++) tensor_free(j->results[r][k]);
    pthread_mutex_destroy(&j->printing);
}

static _Noreturn void wrong_argument(const struct mesh_program *w, uint32_t p, const struct tensor *found)
{
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    const char *have = parts_text(&arena, found);
    hop_throw(HOP_INVALID,
              "argument %%%.100s: expected an array distributed on (%s) as (%s), found %s: "
              "redistribute it first",
              module_text(w->m, w->header->values[p].name), w->params[p].mesh, w->params[p].placements, have);
}

static bool same_spread(const struct spread *a, const struct spread *b)
{
    bool same = a->n_axes == b->n_axes && !strcmp(a->mesh, b->mesh);
    for (uint32_t k = 0; same && k < a->n_axes; k++)
        same = a->at[k].kind == b->at[k].kind && a->at[k].dim == b->at[k].dim && a->at[k].op == b->at[k].op;
    return same;
}

/* The argument as ranks take it. */
static struct tensor *taken_argument(const struct mesh_job *j, uint32_t p, struct tensor *given)
{
    const struct mesh_program *w = j->p;
    const struct spread *wanted = &w->params[p];
    if (given->parts) {
        const struct parts *parts = given->parts;
        if (!same_spread(&parts->spread, wanted) || parts->first > j->first ||
            parts->first + parts->n < j->first + j->n)
            wrong_argument(w, p, given);
        return tensor_ref(given);
    }
    return spread_is_plain(wanted) ? tensor_ref(given) : parts_of(given, wanted, j->first, j->n);
}

static struct tensor *argument_of(const struct mesh_job *j, uint32_t p, int32_t rank)
{
    const struct parts *parts = j->args[p]->parts;
    return parts ? parts->part[rank - parts->first] : j->args[p];
}

/* The explicit symbols of the local function on a rank; NULL: it has none. */
static const int64_t *rank_dims(const struct mesh_program *w, const int64_t *symbols, int32_t rank,
                                struct arena *arena)
{
    int64_t *dims = ARENA_NEW(arena, int64_t, w->n_symbols + 1);
    uint32_t n = 0, n_global = w->n_symbols - w->n_ranks;
    struct rank r = { .number = rank };
    for (uint32_t s = 0; s < w->n_symbols; s++) {
        if (!w->explicit[s]) continue;
        dims[n++] = s < n_global
                        ? symbols[s]
                        : rank_coordinate(&r, w->mesh.n_axes, w->mesh.sizes, w->rank_axes[s - n_global]);
    }
    return n ? dims : NULL;
}

/* ---- ranks ---- */

/* Lines come whole, whichever ranks they are of. */
static void print_in_turn(void *job, const char *line, size_t length)
{
    struct mesh_job *j = job;
    pthread_mutex_lock(&j->printing);
    j->call->print(j->call->print_ctx, line, length);
    pthread_mutex_unlock(&j->printing);
}

static void run_one(struct mesh_job *j, int32_t rank)
{
    const struct mesh_program *w = j->p;
    struct arena arena = { 0 };
    struct exe_call call = { 0 };
    if (j->call) call = *j->call;
    call.given = NULL;
    call.workspace = NULL;
    if (call.print) {
        call.print = print_in_turn;
        call.print_ctx = j;
    }
    if (rank != j->first) { /* the first is the calling thread's, whose host can be asked */
        call.cancel = &j->stop;
        call.confirm = NULL;
    }
    hop_cleanup_push(arena_free, &arena);
    struct tensor **args = ARENA_NEW(&arena, struct tensor *, w->header->n_params + 1);
    for (uint32_t p = 0; p < w->header->n_params; p++) args[p] = argument_of(j, p, rank);
    struct rank_run r = { .args = args,
                          .dims = rank_dims(w, j->symbols, rank, &arena),
                          .results = j->results[rank - j->first],
                          .call = &call,
                          .number = rank };
    j->run(j->ctx, &r);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* The first error of the job is in everybody's message. */
static hop_status run_rank(struct rank *r, void *job)
{
    struct mesh_job *j = job;
    struct hop_catch c;
    if (HOP_TRY(c)) {
        run_one(j, r->number);
        hop_catch_end(&c);
        return HOP_OK;
    }
    hop_status status = hop_caught();
    int32_t failed = dist_failed(r);
    if (failed < 0) dist_fail(r, status, hop_message());
    else if (failed != r->number) status = dist_state(r);
    __atomic_store_n(&j->stop, 1, __ATOMIC_RELAXED);
    return status;
}

/* A mesh of one rank is no job. */
static hop_status run_alone(struct mesh_job *j)
{
    struct hop_catch c;
    if (HOP_TRY(c)) {
        run_one(j, j->first);
        hop_catch_end(&c);
        return HOP_OK;
    }
    return hop_caught();
}

static hop_status run_threads(struct mesh_job *j)
{
    struct dist_team *team = atomic_exchange(&j->p->team, NULL), *none = NULL;
    if (!team) team = dist_team_new(j->n);
    if (!team) return HOP_NOMEM;
    hop_status status = dist_team_run(team, run_rank, j);
    if (status || !atomic_compare_exchange_strong(&j->p->team, &none, team)) dist_team_free(team);
    return status;
}

/* What all ranks of a job must have alike in this run: the program, its sizes and options. */
static void hash_of_run(const struct mesh_job *j, uint64_t hash[2])
{
    const struct mesh_program *p = j->p;
    uint32_t n = p->header->n_outer_symbols;
    hash[0] = p->hash[0];
    hash[1] = n ? hash_mix(p->hash[1], hash_bytes(j->symbols, n * sizeof *j->symbols, 2)) : p->hash[1];
}

/* Ranks that are processes might have been given different programs, or sizes: each run compares them, the
 * first one before anything else, later ones while they go on. */
static hop_status run_compared(struct mesh_job *j, struct rank *mine)
{
    static const char what[] = "the program, its sizes or its options";
    uint64_t hash[2];
    struct dist_sameness same;
    hash_of_run(j, hash);
    bool first = !atomic_load(&j->p->compared);
    hop_status status = dist_same_begin(mine, (const uint8_t *)hash, &same);
    if (!status && first) status = dist_same_end(&same, what);
    if (status) return status;
    atomic_store(&j->p->compared, true);
    status = run_rank(mine, j);
    if (first) return status;
    char message[2048]; /* of the run, if it has failed */
    snprintf(message, sizeof message, "%s", status ? hop_message() : "");
    hop_status differs = dist_same_end(&same, what);
    if (!status) return differs;
    hop_set_message("%s", message);
    return status;
}

static hop_status run_process(struct mesh_job *j, struct rank *mine)
{
    hop_status status = mine == dist_process() ? run_compared(j, mine) : run_rank(mine, j);
    if (status && dist_failed(mine) == mine->number) {
        char message[2048];
        snprintf(message, sizeof message, "%s", hop_message());
        hop_set_message("rank %d: %s", mine->number, message);
    }
    return status;
}

static void run_here(struct mesh_job *j, struct rank *mine)
{
    hop_status status;
    bool alone = j->p->mesh.ranks == 1;
    struct hop_watch watch = { 0 };
    if (j->call) watch = (struct hop_watch){ j->call->cancel, j->call->confirm, j->call->confirm_ctx };
    const struct hop_watch *before = watch.cancel ? hop_watch_set(&watch) : hop_watch_get();
    if (mine || alone) {
        struct rank *rank_before = rank_enter(alone ? NULL : mine);
        status = alone ? run_alone(j) : run_process(j, mine);
        rank_leave(rank_before);
    } else status = run_threads(j);
    hop_watch_set(before);
    if (status) hop_rethrow(status);
}

/* ---- results ---- */

static struct tensor *result_of(const struct mesh_job *j, uint32_t k)
{
    const struct mesh_program *w = j->p;
    struct type t = type_get(w->m, value_type(w->header, w->header->results[k]));
    if (spread_is_plain(&w->results[k])) return tensor_ref(j->results[0][k]);
    struct arena arena = { 0 };
    int64_t dims[MAX_RANK];
    hop_cleanup_push(arena_free, &arena);
    for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_eval(w->m, t.dims[d], j->symbols);
    struct tensor **parts = ARENA_NEW(&arena, struct tensor *, j->n);
    for (int32_t r = 0; r < j->n; r++) parts[r] = tensor_ref(j->results[r][k]);
    struct tensor *made = parts_new((enum dtype)t.dtype, t.rank, dims, &w->results[k], j->first, j->n, parts);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return made;
}

static void list_free(void *list) { hop_free(list); }

/* Parts of all ranks, gathered one behind the other. */
static struct tensor *gathered(struct tensor *t, struct rank *mine, struct arena *arena)
{
    const struct parts *p = t->parts;
    const int64_t width = dtype_info[t->dtype].size, ranks = p->spread.ranks;
    int64_t *bytes = ARENA_NEW(arena, int64_t, ranks), total = 0;
    struct part_box *boxes = ARENA_NEW(arena, struct part_box, ranks);
    for (int32_t r = 0; r < ranks; r++) {
        int64_t count = width;
        parts_box(&p->spread, r, t->rank, t->dims, &boxes[r]);
        for (uint32_t d = 0; d < t->rank; d++) count *= boxes[r].sizes[d];
        bytes[r] = count;
        total += count;
    }
    char *all = hop_malloc((size_t)total + 1);
    hop_cleanup_push(list_free, all);
    struct comm *everybody;
    struct dist_call call = {
        .kind = DIST_ALL_GATHER, .in = p->part[0]->data, .out = all, .rows = 1, .sizes = bytes
    };
    hop_status status = dist_along(mine, 1, (const int64_t[]){ ranks }, 1, &everybody);
    if (!status) status = dist_do(everybody, &call);
    if (status) hop_rethrow(status);
    struct tensor **part = ARENA_NEW(arena, struct tensor *, ranks);
    char *at = all;
    for (int32_t r = 0; r < ranks; at += bytes[r++]) {
        part[r] = tensor_new((enum dtype)t->dtype, t->rank, boxes[r].sizes);
        if (bytes[r]) memcpy(part[r]->data, at, (size_t)bytes[r]);
    }
    hop_cleanup_pop(all);
    hop_free(all);
    return parts_new((enum dtype)t->dtype, t->rank, t->dims, &p->spread, 0, (int32_t)ranks, part);
}

struct tensor *mesh_collect(struct tensor *t)
{
    if (!t->parts) return tensor_ref(t);
    struct rank *mine = dist_process();
    if (t->parts->n == t->parts->spread.ranks || !mine) return parts_whole(t);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct tensor *parts = gathered(t, mine, &arena);
    hop_cleanup_push(tensor_free, parts);
    struct tensor *whole = parts_whole(parts);
    hop_cleanup_pop(parts);
    tensor_free(parts);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return whole;
}

/* Which ranks are here, and as which the calling thread runs; NULL: all of them, as threads. */
static struct rank *ranks_here(struct mesh_job *j)
{
    int32_t ranks = j->p->mesh.ranks;
    struct rank *mine = ranks == 1 ? NULL : rank_current();
    if (!mine && ranks > 1) mine = dist_process();
    if (mine && mine->size != ranks)
        hop_throw(HOP_INVALID, "the program is for the %d ranks of the mesh (%s), and the job has %d", ranks,
                  j->p->mesh.mesh, mine->size);
    j->first = mine ? mine->number : 0;
    j->n = mine ? 1 : ranks;
    return mine;
}

void mesh_run(struct mesh_program *p, struct tensor *const *args, const int64_t *dims,
              struct tensor **results, const struct exe_call *call,
              void (*run)(void *ctx, const struct rank_run *r), void *ctx)
{
    const struct fn *f = p->header;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct shape_view *views = ARENA_NEW(&arena, struct shape_view, f->n_params + 1);
    int64_t *symbols = ARENA_ZNEW(&arena, int64_t, f->n_outer_symbols + 1);
    for (uint32_t i = 0; i < f->n_params; i++) views[i] = shape_of(args[i]);
    bind_symbols(p->m, f, views, dims, symbols);
    struct mesh_job j = { .p = p,
                          .args = ARENA_ZNEW(&arena, struct tensor *, f->n_params + 1),
                          .symbols = symbols,
                          .call = call,
                          .run = run,
                          .ctx = ctx };
    struct rank *mine = ranks_here(&j);
    j.results = ARENA_NEW(&arena, struct tensor **, j.n);
    for (int32_t r = 0; r < j.n; r++) j.results[r] = ARENA_ZNEW(&arena, struct tensor *, f->n_results + 1);
    pthread_mutex_init(&j.printing, NULL);
    hop_cleanup_push(job_free, &j);
    for (uint32_t i = 0; i < f->n_params; i++) j.args[i] = taken_argument(&j, i, args[i]);
    run_here(&j, mine);
    for (uint32_t k = 0; k < f->n_results; k++) results[k] = result_of(&j, k);
    hop_cleanup_pop(&j);
    job_free(&j);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

/* ---- the interpreter ---- */

/* Interpreters change modules, if only their scratch, so one rank is at work at a time: the others wait for
 * it, or for each other in an exchange. */
struct interpreting {
    struct interp *in;
    uint32_t local;
    pthread_mutex_t turn;
};
static _Thread_local pthread_mutex_t *my_turn;

static void end_turn(void *before)
{
    pthread_mutex_unlock(my_turn);
    my_turn = before;
}

/* An interpreter may give out an argument. */
static void own_results(const struct interpreting *x, const struct rank_run *r)
{
    const struct fn *f = module_fn(x->in->m, x->local);
    for (uint32_t k = 0; k < f->n_results; k++)
        for (uint32_t p = 0; p < f->n_params; p++) {
            struct tensor *t = r->results[k];
            if (t != r->args[p] || tensor_is_object(t)) continue;
            r->results[k] = tensor_new((enum dtype)t->dtype, t->rank, t->dims);
            tensor_copy_elements(r->results[k], t);
            tensor_free(t);
        }
}

static void interpret_rank(void *ctx, const struct rank_run *r)
{
    struct interpreting *x = ctx;
    struct interp in = *x->in;
    pthread_mutex_t *before = my_turn;
    in.print = r->call->print;
    in.print_ctx = r->call->print_ctx;
    in.rank = rank_current() && rank_current()->size > 1 ? r->number + 1 : 0;
    my_turn = &x->turn;
    pthread_mutex_lock(&x->turn);
    hop_cleanup_push(end_turn, before);
    interp_run(&in, x->local, r->args, r->dims, r->results);
    own_results(x, r);
    hop_cleanup_pop(before);
    end_turn(before);
}

static hop_status exchange_in_turn(const struct hop_rt_exchange *x)
{
    pthread_mutex_t *turn = my_turn;
    if (turn) pthread_mutex_unlock(turn);
    hop_status status = exchange_do(x);
    if (turn) pthread_mutex_lock(turn);
    return status;
}

static void interpret_on_ranks(struct interp *in, uint32_t fn, struct tensor *const *args,
                               const int64_t *dims, struct tensor **results)
{
    struct mesh_program p;
    struct arena arena = { 0 };
    struct interpreting x = { .in = in, .turn = PTHREAD_MUTEX_INITIALIZER };
    struct exe_call call = { .print = in->print, .print_ctx = in->print_ctx };
    const struct hop_watch *watch = hop_watch_get();
    if (watch) {
        call.cancel = watch->cancel;
        call.confirm = watch->confirm;
        call.confirm_ctx = watch->ctx;
    }
    hop_cleanup_push(arena_free, &arena);
    mesh_program_of(&arena, in->m, fn, &p);
    hop_cleanup_push(mesh_program_end, &p);
    x.local = p.local;
    mesh_run(&p, args, dims, results, &call, interpret_rank, &x);
    hop_cleanup_pop(&p);
    mesh_program_end(&p);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
}

const struct interp_ranks interp_on_ranks = { .exchange = exchange_in_turn, .run = interpret_on_ranks };
