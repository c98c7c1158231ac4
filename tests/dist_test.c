/* Ranks: every exchange on 1, 2, 3, 4 and 8 ranks and along the axes of meshes, with random sizes, against
 * plain definitions; reductions of every dtype against the interpreter's folds, bit for bit; exchanges under
 * way at once; errors, timeouts and cancelling, which end all ranks. By itself with ranks that are threads;
 * `mpirun -n N dist_test --mpi` holds N processes to the same, `--mpi FAULT` has one of them fail in a way of
 * which all tell (tests/mpi_test.sh). */
#include "job.h"

#include "dist/dist_impl.h"
#include "ir/number.h"
#include "runtime/pool.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 8 };
static const int32_t rank_counts[] = { 1, 2, 3, 4, 8 };

/* A number that depends on all of its operands. */
static uint64_t mix(uint64_t a, uint64_t b) { return hash_mix(hash_mix(a + 1, b), b ^ 0x1234567); }

/* Claims are made by one thread at a time. */
static pthread_mutex_t claiming = PTHREAD_MUTEX_INITIALIZER;
#define RANK_CLAIM(...) \
    do { \
        pthread_mutex_lock(&claiming); \
        CLAIM(__VA_ARGS__); \
        pthread_mutex_unlock(&claiming); \
    } while (0)

static struct comm *along(struct rank *r, uint32_t n, const int64_t *sizes, uint32_t which)
{
    struct comm *c = NULL;
    hop_status status = dist_along(r, n, sizes, which, &c);
    RANK_CLAIM(!status, "a communicator: %s", hop_message());
    return c;
}
static struct comm *everybody(struct rank *r) { return along(r, 1, (const int64_t[]){ r->size }, 1); }

static bool runs(int32_t n) { return !process || process->size == n; }

static void run(int32_t n, hop_status (*body)(struct rank *r, void *ctx), void *ctx, const char *what)
{
    if (!runs(n)) return;
    hop_status status = process ? body(process, ctx) : dist_run_threads(n, body, ctx);
    CLAIM(!status, "%s on %d ranks: %s", what, n, hop_message());
}

/* ---- reductions ---- */

static const char *const fold_names[] = { "sum", "reduce_max", "reduce_min", "prod", "mean" };

/* Random elements, small enough for interesting sums, with zeros of both signs, infinities and NaN. */
static void fill(enum dtype t, void *data, int64_t n, uint64_t seed)
{
    static const double odd[] = { 0.0, -0.0, 1.0 / 0.0, -1.0 / 0.0, 0.0 / 0.0, 1e-7, 60000.0 };
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = mix(seed, (uint64_t)i);
        double x = (double)(int64_t)(bits >> 20 & 0xffff) / 4096 - 8;
        if (bits % 13 == 0) x = odd[(bits >> 8) % HOP_COUNT(odd)];
        switch (t) {
        case DT_F16: ((uint16_t *)data)[i] = f16_of_f64(x); break;
        case DT_BF16: ((uint16_t *)data)[i] = bf16_of_f64(x); break;
        case DT_F32: ((float *)data)[i] = (float)x; break;
        case DT_F64: ((double *)data)[i] = x; break;
        default: memcpy((char *)data + (size_t)i * dtype_info[t].size, &bits, dtype_info[t].size);
        }
    }
}

static bool is_nan(enum dtype t, const void *x)
{
    uint16_t half;
    float f32;
    double f64;
    memcpy(&half, x, sizeof half);
    switch (t) {
    case DT_F16: return isnan(f16_to_f32(half));
    case DT_BF16: return isnan(bf16_to_f32(half));
    case DT_F32: memcpy(&f32, x, sizeof f32); return isnan(f32);
    default: memcpy(&f64, x, sizeof f64); return isnan(f64);
    }
}

struct reduction_case {
    enum dtype dtype;
    enum reduction op;
    int32_t ranks;
    int64_t size;
    bool scalar, in_place;
    char *in;   /* of all ranks, one after the other */
    char *want; /* the interpreter's */
};

/* The fold over the array of all ranks. */
static void interpret(const struct reduction_case *k)
{
    char type[64], result[64], text[512];
    hop_fn *f = NULL;
    hop_tensor *x = NULL, *y = NULL;
    const char *t = dtype_info[k->dtype].name;
    size_t bytes = (size_t)k->size * dtype_info[k->dtype].size;
    if (k->scalar) {
        snprintf(type, sizeof type, "%s[%d]", t, k->ranks);
        snprintf(result, sizeof result, "%s[]", t);
    } else {
        snprintf(type, sizeof type, "%s[%d, %lld]", t, k->ranks, (long long)k->size);
        snprintf(result, sizeof result, "%s[%lld]", t, (long long)k->size);
    }
    snprintf(text, sizeof text,
             "hop 1\nfn @main(%%x: %s) -> (%s) {\n  %%y = %s {dims = [0]} (%%x)\n  return %%y\n}\n", type,
             result, fold_names[k->op]);
    hop_status failed = hop_fn_read(&f, text, "main");
    if (!failed) failed = hop_tensor_borrow(&x, type, k->in, NULL, NULL);
    if (!failed) failed = hop_interpret(f, &x, 1, &y, 1);
    CLAIM(!failed, "%s of %s: %s", fold_names[k->op], type, hop_message());
    if (!failed && bytes) memcpy(k->want, hop_data(y), bytes);
    hop_tensor_free(x);
    hop_tensor_free(y);
    hop_fn_free(f);
}

/* The same bits, but any NaN for a NaN: which operand's it is where both are, C leaves to the compiler. */
static bool same(enum dtype t, const void *x, const void *y, int64_t n)
{
    size_t width = dtype_info[t].size;
    for (int64_t i = 0; i < n; i++) {
        const char *a = (const char *)x + (size_t)i * width;
        const char *b = (const char *)y + (size_t)i * width;
        if (!memcmp(a, b, width)) continue;
        if (!dtype_is_float(t) || !is_nan(t, a) || !is_nan(t, b)) return false;
    }
    return true;
}

static hop_status reduce_body(struct rank *r, void *ctx)
{
    const struct reduction_case *k = ctx;
    size_t width = dtype_info[k->dtype].size, bytes = (size_t)k->size * width;
    struct comm *c = everybody(r);
    char *in = k->in + bytes * (size_t)r->number, *out = malloc(bytes + 1), *copy = malloc(bytes + 1);
    memcpy(copy, in, bytes);
    struct dist_call call = { .kind = DIST_ALL_REDUCE, .dtype = k->dtype, .op = k->op, .scalar = k->scalar };
    call.in = k->in_place ? copy : in;
    call.out = k->in_place ? copy : out;
    call.size = k->size;
    hop_status status = dist_do(c, &call);
    bool good = status || same(k->dtype, call.out, k->want, k->size);
    RANK_CLAIM(good, "all_reduce %s of %s[%lld], rank %d of %d", fold_names[k->op], dtype_info[k->dtype].name,
               (long long)k->size, r->number, r->size);
    /* the same cut into parts of different sizes: the last rank has what is left */
    int64_t rows = k->size % 3 ? 1 : 3, total = k->size / rows, sizes[MOST_RANKS], before = 0, left = total;
    for (int32_t i = 0; i < r->size; i++) {
        sizes[i] = i + 1 < r->size ? left * (i + 1) / (2 * r->size) : left;
        left -= sizes[i];
        if (i < r->number) before += sizes[i];
    }
    call = (struct dist_call){ .kind = DIST_REDUCE_SCATTER, .dtype = k->dtype, .op = k->op, .rows = rows };
    call.in = in;
    call.out = out;
    call.sizes = sizes;
    if (!status && !k->scalar) status = dist_do(c, &call);
    good = true;
    for (int64_t row = 0, mine = sizes[r->number]; !status && !k->scalar && row < rows; row++)
        good &= same(k->dtype, out + (size_t)(row * mine) * width,
                     k->want + (size_t)(row * total + before) * width, mine);
    RANK_CLAIM(good, "reduce_scatter %s of %s[%lld], rank %d of %d", fold_names[k->op],
               dtype_info[k->dtype].name, (long long)k->size, r->number, r->size);
    free(out);
    free(copy);
    return status;
}

static void test_reductions(int32_t n)
{
    static const int64_t sizes[] = { 0, 1, 7, 301, 3003 };
    if (!runs(n)) return;
    for (enum dtype t = DT_I8; t <= DT_F64; t++) {
        for (enum reduction op = REDUCTION_SUM; op <= REDUCTION_MEAN; op++) {
            if (op == REDUCTION_MEAN && !dtype_is_float(t)) continue;
            for (size_t i = 0; i <= HOP_COUNT(sizes); i++) {
                struct reduction_case k = { .dtype = t, .op = op, .ranks = n };
                k.scalar = i == HOP_COUNT(sizes);
                k.size = k.scalar ? 1 : sizes[i];
                k.in_place = (i + op) % 2;
                size_t bytes = (size_t)k.size * dtype_info[t].size;
                k.in = malloc(bytes * (size_t)n + 1);
                k.want = calloc(1, bytes + 1);
                fill(t, k.in, k.size * n, mix((uint64_t)t * 8 + op, i * 16 + (uint64_t)n));
                interpret(&k);
                run(n, reduce_body, &k, "a reduction");
                free(k.in);
                free(k.want);
            }
        }
    }
}

/* ---- moves ---- */

/* What rank `from` has for rank `to` (-1: everybody) at position i of an exchange. */
static unsigned char byte_of(uint64_t seed, int32_t from, int32_t to, int64_t i)
{
    return (unsigned char)(mix(mix(seed, (uint64_t)(from * 64 + to + 1)), (uint64_t)i) >> 13);
}

/* Sizes from 0 to beyond what is handed over at once. */
static int64_t size_of(uint64_t seed, int32_t a, int32_t b)
{
    static const int64_t most[] = { 1, 40, 5000, 70000 };
    uint64_t bits = mix(seed, (uint64_t)(a * 64 + b));
    return (int64_t)(bits >> 20) % most[bits % 4] * (bits >> 10 & 7 ? 1 : 0);
}

static hop_status try_gather(struct comm *c, uint64_t seed)
{
    int64_t sizes[MOST_RANKS], total = 0, rows = 1 + (int64_t)(seed % 3), wrong = 0, before = 0;
    for (int32_t k = 0; k < c->size; k++) total += sizes[k] = size_of(seed, k, 9);
    unsigned char *in = malloc((size_t)(rows * sizes[c->me]) + 1), *out = malloc((size_t)(rows * total) + 1);
    for (int64_t i = 0; i < rows * sizes[c->me]; i++) in[i] = byte_of(seed, c->ranks[c->me], -1, i);
    struct dist_call call = { .kind = DIST_ALL_GATHER, .in = in, .out = out, .rows = rows, .sizes = sizes };
    hop_status status = dist_do(c, &call);
    for (int32_t k = 0; !status && k < c->size; before += sizes[k++])
        for (int64_t i = 0; i < rows * sizes[k]; i++)
            wrong += out[i / sizes[k] * total + before + i % sizes[k]] != byte_of(seed, c->ranks[k], -1, i);
    RANK_CLAIM(!wrong, "all_gather: %lld bytes are wrong", (long long)wrong);
    free(in);
    free(out);
    return status;
}

static hop_status try_all_to_all(struct comm *c, uint64_t seed)
{
    int64_t send[MOST_RANKS], receive[MOST_RANKS], in_bytes = 0, out_bytes = 0, wrong = 0;
    for (int32_t k = 0; k < c->size; k++) {
        in_bytes += send[k] = size_of(seed, c->me, k);
        out_bytes += receive[k] = size_of(seed, k, c->me);
    }
    unsigned char *in = malloc((size_t)in_bytes + 1), *out = malloc((size_t)out_bytes + 1), *at = in;
    for (int32_t k = 0; k < c->size; k++)
        for (int64_t i = 0; i < send[k]; i++) *at++ = byte_of(seed, c->ranks[c->me], c->ranks[k], i);
    struct dist_call call = { .kind = DIST_ALL_TO_ALL, .in = in, .out = out };
    call.sizes = send;
    call.receive = receive;
    hop_status status = dist_do(c, &call);
    at = out;
    for (int32_t k = 0; !status && k < c->size; k++)
        for (int64_t i = 0; i < receive[k]; i++)
            wrong += *at++ != byte_of(seed, c->ranks[k], c->ranks[c->me], i);
    RANK_CLAIM(!wrong, "all_to_all: %lld bytes are wrong", (long long)wrong);
    free(in);
    free(out);
    return status;
}

/* To the rank `shift` further on; without `around` those at the end send to nobody. */
static hop_status try_permute(struct comm *c, uint64_t seed)
{
    int32_t shift = (int32_t)(seed % (uint64_t)c->size), to = c->me + shift, from = c->me - shift;
    bool around = seed & 64;
    int64_t size = size_of(seed, 1, 1), wrong = 0;
    if (to >= c->size) to = around ? to - c->size : -1;
    if (from < 0) from = around ? from + c->size : -1;
    unsigned char *in = malloc((size_t)size + 1), *out = malloc((size_t)size + 1);
    for (int64_t i = 0; i < size; i++) in[i] = byte_of(seed, c->ranks[c->me], -1, i);
    memset(out, 0xcd, (size_t)size);
    struct dist_call call = { .kind = DIST_PERMUTE, .in = in, .out = out, .size = size };
    call.to = to;
    call.from = from;
    hop_status status = dist_do(c, &call);
    for (int64_t i = 0; !status && i < size; i++)
        wrong += out[i] != (from < 0 ? 0 : byte_of(seed, c->ranks[from], -1, i));
    RANK_CLAIM(!wrong, "permute by %d of %d: %lld bytes are wrong", shift, c->size, (long long)wrong);
    free(in);
    free(out);
    return status;
}

static hop_status try_broadcast(struct comm *c, uint64_t seed)
{
    int32_t root = (int32_t)(seed % (uint64_t)c->size);
    int64_t size = size_of(seed, 2, 2), wrong = 0;
    unsigned char *data = malloc((size_t)size + 1);
    for (int64_t i = 0; i < size; i++) data[i] = c->me == root ? byte_of(seed, c->ranks[root], -1, i) : 0xcd;
    struct dist_call call = { .kind = DIST_BROADCAST, .in = data, .out = data, .size = size, .root = root };
    hop_status status = dist_do(c, &call);
    for (int64_t i = 0; !status && i < size; i++) wrong += data[i] != byte_of(seed, c->ranks[root], -1, i);
    RANK_CLAIM(!wrong, "broadcast from %d of %d: %lld bytes are wrong", root, c->size, (long long)wrong);
    free(data);
    return status;
}

struct mesh_case {
    uint32_t n;
    int64_t sizes[3];
};
static hop_status moves_body(struct rank *r, void *ctx)
{
    static hop_status (*const tries[])(struct comm *c, uint64_t seed) = { try_gather, try_all_to_all,
                                                                          try_permute, try_broadcast };
    const struct mesh_case *mesh = ctx;
    hop_status status = HOP_OK;
    for (uint64_t round = 0; !status && round < 200; round++) {
        uint32_t which = (uint32_t)(mix(round, 77) >> 9) & ((1u << mesh->n) - 1);
        struct comm *c = along(r, mesh->n, mesh->sizes, which);
        status = tries[round % 4](c, mix(round, (uint64_t)r->size) >> 5);
    }
    return status;
}

static hop_status members_body(struct rank *r, void *ctx)
{
    static const int64_t sizes[] = { 2, 2, 2 };
    struct comm *c = along(r, 3, sizes, 5);
    HOP_UNUSED(ctx);
    int32_t middle = r->number & 2;
    const int32_t want[] = { middle, middle + 1, middle + 4, middle + 5 };
    RANK_CLAIM(c->size == 4 && !memcmp(c->ranks, want, sizeof want), "members of rank %d", r->number);
    struct comm *again = along(r, 3, sizes, 5);
    RANK_CLAIM(c->ranks[c->me] == r->number && c == again, "itself, made once");
    RANK_CLAIM(rank_coordinate(r, 3, sizes, 0) == r->number / 4 && rank_current() == r, "coordinates");
    RANK_CLAIM(dist_along(r, 1, sizes, 1, &c) == HOP_INVALID, "a mesh of another size");
    return HOP_OK;
}

/* ---- exchanges under way at once ---- */

enum { AT_ONCE = 40, AT_ONCE_SIZE = 3000 };
/* Begun in one order, waited for in another on each rank. */
static hop_status at_once_body(struct rank *r, void *ctx)
{
    static const int64_t sizes[] = { 2, 2 };
    struct dist_request requests[AT_ONCE];
    int32_t *data = malloc(sizeof(int32_t[AT_ONCE][AT_ONCE_SIZE]));
    hop_status status = HOP_OK;
    int64_t wrong = 0;
    HOP_UNUSED(ctx);
    for (int32_t k = 0; !status && k < AT_ONCE; k++) {
        struct comm *c = along(r, 2, sizes, (uint32_t)k % 3 + 1);
        int32_t *x = data + (ptrdiff_t)k * AT_ONCE_SIZE;
        int32_t size = k % 5 ? AT_ONCE_SIZE : 3;
        for (int32_t i = 0; i < size; i++) x[i] = k * i + c->me;
        struct dist_call call = { .kind = DIST_ALL_REDUCE, .dtype = DT_I32, .in = x, .out = x, .size = size };
        status = dist_begin(c, &call, &requests[k]);
    }
    for (int32_t k = 0; !status && k < AT_ONCE; k++) {
        int32_t which = r->number % 2 ? AT_ONCE - 1 - k : k;
        while (r->number == 2 && !dist_ready(&requests[which])) {}
        status = dist_wait(&requests[which]);
    }
    for (int32_t k = 0; !status && k < AT_ONCE; k++) {
        int32_t n = requests[k].comm->size, size = k % 5 ? AT_ONCE_SIZE : 3;
        for (int32_t i = 0; i < size; i++) wrong += data[k * AT_ONCE_SIZE + i] != n * k * i + n * (n - 1) / 2;
    }
    RANK_CLAIM(!wrong, "%d exchanges at once: %lld sums are wrong", AT_ONCE, (long long)wrong);
    free(data);
    return status;
}

/* ---- failure ---- */

struct failure {
    int32_t rank;
    bool throws, ends;
    atomic_int told; /* how many others ended with a message that names the rank */
};
static hop_status failing_body(struct rank *r, void *ctx)
{
    struct failure *f = ctx;
    struct comm *c = everybody(r);
    char *data = calloc(1, 100000);
    struct dist_call call = { .kind = DIST_ALL_REDUCE, .dtype = DT_U8, .in = data, .out = data };
    call.size = 100000;
    hop_status status = HOP_OK;
    for (int32_t round = 0; !status; round++) {
        if (r->number == f->rank && round == 5) {
            free(data);
            if (f->ends) return HOP_OK;
            if (f->throws) hop_throw(HOP_CHECK, "its own error");
            hop_set_message("its own error");
            return HOP_IO;
        }
        status = dist_do(c, &call);
    }
    char want[64];
    snprintf(want, sizeof want, "rank %d", f->rank);
    if (strstr(hop_message(), want)) atomic_fetch_add(&f->told, 1);
    free(data);
    return status;
}

static void test_failures(void)
{
    for (int32_t who = 0; who < 4; who++) {
        for (int32_t how = 0; how < 3; how++) {
            struct failure f = { .rank = who, .throws = how == 1, .ends = how == 2 };
            char want[64];
            hop_status status = dist_run_threads(4, failing_body, &f), wanted = how == 2 ? HOP_UNAVAILABLE
                                                                                : how    ? HOP_CHECK
                                                                                         : HOP_IO;
            snprintf(want, sizeof want, "rank %d: its own error", who);
            if (how == 2) snprintf(want, sizeof want, "rank %d has ended", who);
            CLAIM(status == wanted && strstr(hop_message(), want), "%s, found %s", want, hop_message());
            CLAIM(atomic_load(&f.told) == 3, "%d of 3 ranks were told", atomic_load(&f.told));
        }
    }
    struct failure alone = { .rank = 0 };
    CLAIM(dist_run_threads(1, failing_body, &alone) == HOP_IO && !strcmp(hop_message(), "its own error"),
          "one rank: %s", hop_message());
    CLAIM(dist_run_threads(0, failing_body, &alone) == HOP_INVALID, "no ranks");
}

static atomic_bool hold;
static hop_status late_body(struct rank *r, void *ctx)
{
    double *timeout = ctx;
    struct comm *c = everybody(r);
    if (r->number != 2) r->timeout = *timeout;
    while (r->number == 2 && dist_failed(r) < 0 && atomic_load(&hold)) sched_yield();
    return dist_do(c, &(struct dist_call){ .kind = DIST_BARRIER });
}

static volatile int cancel;
static hop_status cancel_body(struct rank *r, void *ctx)
{
    HOP_UNUSED(ctx);
    if (r->number == 2) __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
    return r->number == 2 ? HOP_OK : late_body(r, &(double){ 0 });
}

static hop_status wrong_body(struct rank *r, void *ctx)
{
    struct dist_call call = *(const struct dist_call *)ctx;
    return dist_do(everybody(r), &call);
}

static void test_ends(void)
{
    atomic_store(&hold, true);
    hop_status status = dist_run_threads(3, late_body, &(double){ 0.05 });
    CLAIM(status == HOP_UNAVAILABLE && strstr(hop_message(), "waited for rank 2 for 0.05 s"), "a timeout: %s",
          hop_message());
    struct hop_watch watch = { .cancel = &cancel };
    const struct hop_watch *before = hop_watch_set(&watch);
    status = dist_run_threads(4, cancel_body, NULL);
    hop_watch_set(before);
    CLAIM(status == HOP_CANCELLED || strstr(hop_message(), "rank 2 has ended"), "cancelled: %s",
          hop_message());
    setenv("HOP_DIST_TIMEOUT", "0.04", 1);
    status = dist_run_threads(3, late_body, &(double){ 0.04 });
    unsetenv("HOP_DIST_TIMEOUT");
    CLAIM(status == HOP_UNAVAILABLE && strstr(hop_message(), "0.04 s"), "HOP_DIST_TIMEOUT: %s",
          hop_message());
    struct dist_call wrong[] = { { .kind = DIST_ALL_REDUCE, .dtype = DT_BOOL },
                                 { .kind = DIST_ALL_REDUCE, .dtype = DT_I8, .op = REDUCTION_MEAN },
                                 { .kind = DIST_PERMUTE, .to = 7 },
                                 { .kind = DIST_BROADCAST, .root = -1 },
                                 { .kind = DIST_ALL_GATHER, .size = -1 } };
    for (size_t i = 0; i < HOP_COUNT(wrong); i++)
        CLAIM(dist_run_threads(2, wrong_body, &wrong[i]) == HOP_INVALID, "call %zu: %s", i, hop_message());
}

/* ---- faults of a process ---- */

enum { FAULTY = 1, FAULT_BYTES = 8 << 20 };

static hop_status exchange_for_ever(struct rank *r, const char *fault)
{
    struct comm *c = everybody(r);
    hop_status status = HOP_OK;
    for (int32_t round = 0; !status; round++) {
        bool fails = r->number == FAULTY && round == 5;
        char *data = calloc(1, FAULT_BYTES);
        struct dist_call call = { .kind = DIST_ALL_REDUCE, .dtype = DT_U8, .in = data, .out = data };
        call.size = FAULT_BYTES;
        if (fails && !strcmp(fault, "kill")) raise(SIGKILL);
        if (fails && !strcmp(fault, "end")) exit(EXIT_SUCCESS);
        if (fails && !strcmp(fault, "late")) nanosleep(&(struct timespec){ .tv_sec = 30 }, NULL);
        if (fails && !strcmp(fault, "raise")) {
            hop_set_message("its own error");
            status = HOP_IO;
        }
        if (fails && !strcmp(fault, "differ")) call.size = 100;
        if (!status) status = dist_do(c, &call);
        free(data); /* nobody uses it any more */
    }
    return status;
}

/* Interrupted while it waits. */
static volatile int interrupted;
static void interrupt(int number) { interrupted = number; }

/* More bytes than an int counts, from rank 0 to all. */
static int broadcast_large(struct rank *r)
{
    int64_t size = ((int64_t)1 << 31) + 12345, wrong = 0;
    unsigned char *data = malloc((size_t)size);
    for (int64_t i = 0; data && !r->number && i < size; i++) data[i] = (unsigned char)(i * 7 + (i >> 20));
    struct dist_call call = { .kind = DIST_BROADCAST, .in = data, .out = data, .size = size };
    hop_status status = data ? dist_do(everybody(r), &call) : HOP_NOMEM;
    for (int64_t i = 0; !status && i < size; i++) wrong += data[i] != (unsigned char)(i * 7 + (i >> 20));
    printf("rank %d: %s\n", r->number, status || wrong ? "bytes are wrong" : "all bytes are right");
    free(data);
    return status || wrong;
}

/* For somebody to interrupt. */
static int wait_for_ever(struct rank *r)
{
    printf("process %d waits\n", (int)getpid());
    fflush(stdout);
    while (r->number == FAULTY) pause();
    return (int)dist_do(everybody(r), &(struct dist_call){ .kind = DIST_BARRIER });
}

static int run_fault(const char *fault)
{
    struct rank *r = process;
    if (!strcmp(fault, "large")) return broadcast_large(r);
    if (!strcmp(fault, "wait")) return wait_for_ever(r);
    if (!strcmp(fault, "interrupt")) {
        signal(SIGALRM, interrupt);
        r->watch = (struct hop_watch){ .cancel = &interrupted };
        if (r->number == FAULTY) alarm(1);
    }
    bool waits = !strcmp(fault, "interrupt") && r->number != FAULTY;
    if (waits) nanosleep(&(struct timespec){ .tv_sec = 2 }, NULL);
    hop_status status = exchange_for_ever(r, fault);
    dist_fail(r, status, hop_message());
    char own[DIST_MESSAGE];
    snprintf(own, sizeof own, "%s", hop_message());
    bool stays = dist_state(r) && dist_do(everybody(r), &(struct dist_call){ .kind = DIST_BARRIER });
    const char *name = status == HOP_CANCELLED ? "cancelled" : status == HOP_UNAVAILABLE ? "told" : "failed";
    printf("rank %d %s%s: %s\n", r->number, name, stays ? "" : ", not for good", own);
    return EXIT_FAILURE;
}

/* ---- what has to be the same everywhere ---- */

static hop_status same_body(struct rank *r, void *ctx)
{
    const int32_t *other = ctx; /* this rank, and all from there on, have another hash; -1: none */
    uint8_t hash[16] = "sixteen bytes ..";
    char want[128] = "";
    if (*other >= 0 && r->number >= *other) hash[15]++;
    hop_status status = dist_same(r, "the program", hash);
    if (*other == 1 && r->size == 3) snprintf(want, sizeof want, "another one on ranks 1, 2 than on rank 0");
    if (*other == r->size - 1) snprintf(want, sizeof want, "another one on rank %d than", *other);
    bool differs = *other > 0 && *other < r->size, right = status == (differs ? HOP_INVALID : HOP_OK);
    RANK_CLAIM(right && (!differs || strstr(hop_message(), want)), "%s: %s", want, hop_message());
    RANK_CLAIM(!differs || strstr(hop_message(), "the program"), "what differs: %s", hop_message());
    return HOP_OK;
}

static void test_same(int32_t n)
{
    for (int32_t other = -1; other <= n; other++) run(n, same_body, &other, "comparing hashes");
}

/* ---- threads that programs run on ---- */

enum { PIECES = 4096 };
struct piece_run {
    pthread_t caller;
    atomic_int others;       /* pieces on another thread than the caller's */
    atomic_int done[PIECES]; /* how often each was */
};
static int32_t run_pieces(struct hop_rt *rt, void *env, int64_t lo, int64_t hi)
{
    struct piece_run *p = env;
    HOP_UNUSED(rt);
    if (!pthread_equal(p->caller, pthread_self())) atomic_fetch_add(&p->others, 1);
    for (int64_t i = lo; i < hi; i++) atomic_fetch_add(&p->done[i], 1);
    return 0;
}

/* Each rank has its part of the threads, and with one alone it needs nobody. */
static hop_status share_body(struct rank *r, void *ctx)
{
    const uint32_t *expected = ctx;
    RANK_CLAIM(pool_threads() == *expected, "rank %d of %d has %u threads, expected %u", r->number, r->size,
               pool_threads(), *expected);
    struct piece_run *p = calloc(1, sizeof *p);
    p->caller = pthread_self();
    int64_t wrong = 0;
    for (int round = 1; round <= 20; round++) {
        pool_run(pool_threads(), NULL, run_pieces, p, PIECES, 1);
        for (int i = 0; i < PIECES; i++) wrong += atomic_load(&p->done[i]) != round;
    }
    RANK_CLAIM(!wrong, "%lld pieces were not run once", (long long)wrong);
    RANK_CLAIM(*expected > 1 || !atomic_load(&p->others), "a rank with one thread runs alone");
    free(p);
    return HOP_OK;
}

static hop_status nested_body(struct rank *r, void *ctx)
{
    HOP_UNUSED(r);
    return dist_run_threads(2, share_body, ctx);
}

static void test_shares(void)
{
    static const struct {
        uint32_t threads;
        int32_t ranks;
        uint32_t each;
    } cases[] = { { 8, 1, 8 }, { 8, 2, 4 }, { 8, 3, 2 }, { 4, 4, 1 }, { 2, 3, 1 } };
    uint32_t before = pool_set_threads(0), usual = pool_threads();
    for (size_t i = 0; i < HOP_COUNT(cases); i++) {
        uint32_t each = cases[i].each;
        pool_set_threads(cases[i].threads);
        run(cases[i].ranks, share_body, &each, "threads of ranks");
        CLAIM(pool_threads() == cases[i].threads, "the caller has all of them again");
    }
    pool_set_threads(8);
    run(2, nested_body, &(uint32_t){ 2 }, "ranks of a rank");
    pool_set_threads(0);
    pool_set_part(3);
    CLAIM(pool_threads() == (getenv("HOP_NUM_THREADS") ? usual : 3), "the part of a process");
    pool_set_part(0);
    CLAIM(pool_threads() == usual, "all of it again");
    pool_set_threads(before);
}

/* ---- all of it ---- */

static void test_exchanges(void)
{
    struct mesh_case meshes[] = { { 2, { 2, 4 } }, { 2, { 4, 2 } }, { 3, { 2, 2, 2 } },
                                  { 2, { 3, 1 } }, { 2, { 2, 2 } }, { 2, { 1, 2 } } };
    static const int32_t ranks[] = { 8, 8, 8, 3, 4, 2 };
    for (size_t i = 0; i < HOP_COUNT(rank_counts); i++) {
        struct mesh_case line = { 1, { rank_counts[i] } };
        test_reductions(rank_counts[i]);
        run(rank_counts[i], moves_body, &line, "moves");
        test_same(rank_counts[i]);
    }
    for (size_t i = 0; i < HOP_COUNT(meshes); i++) run(ranks[i], moves_body, &meshes[i], "a mesh");
    run(8, members_body, NULL, "members");
    for (int i = 0; i < 20; i++) run(4, at_once_body, NULL, "exchanges at once");
}

static int test_processes(const char *fault)
{
    if (!job_join()) return 2;
    struct rank *before = rank_enter(process), *again = NULL;
    CLAIM(!dist_mpi(&again) && again == process, "one rank, however often it is asked for");
    if (!getenv("HOP_NUM_THREADS")) CLAIM(pool_threads() == process->cores, "its part of the processors");
    CLAIM(process->cores > 0 && dist_under_mpi() == (process->size > 1), "where it runs");
    int code = 0;
    if (fault) code = run_fault(fault);
    else {
        test_exchanges();
        code = job_end();
    }
    rank_leave(before);
    return code;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--mpi")) return test_processes(argv[2]);
    int64_t live = hop_live_allocations();
    test_exchanges();
    test_failures();
    test_ends();
    test_shares();
    CLAIM(hop_live_allocations() == live, "%lld blocks are lost", (long long)(hop_live_allocations() - live));
    return tests_end();
}
