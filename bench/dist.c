/* Latency and bandwidth of exchanges between ranks, one JSON object a line: under mpirun, hop's beside bare
 * MPI's in the same process, turn by turn; `dist threads [N]`, those of N thread ranks (2 by itself) beside a
 * memory copy of as many bytes. `ratio` is the time of the other one divided by hop's. Built by mpicc with
 * the library and with the MPI. */
#include "clock.h"
#include "dist/dist.h"

#include <stdio.h>
#include <string.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

enum { ROUNDS = 15 };
static const int64_t sizes[] = { 8, 1024, 65536, 1 << 20, 16 << 20 }; /* bytes */

struct bench {
    struct comm *all;
    float *in, *out;
    int64_t bytes;
    int32_t to, from;
    const char *failed; /* NULL: nothing */
};

static void by_hop_reduce(struct bench *b)
{
    struct dist_call call = { .kind = DIST_ALL_REDUCE, .dtype = DT_F32, .in = b->in, .out = b->out };
    call.size = b->bytes / (int64_t)sizeof(float);
    if (dist_do(b->all, &call)) b->failed = hop_message();
}
static void by_hop_permute(struct bench *b)
{
    struct dist_call call = { .kind = DIST_PERMUTE, .in = b->in, .out = b->out, .size = b->bytes };
    call.to = b->to;
    call.from = b->from;
    if (dist_do(b->all, &call)) b->failed = hop_message();
}
static void by_copy(struct bench *b)
{
    memcpy(b->out, b->in, (size_t)b->bytes);
    __asm__ volatile("" : : "r"(b->out) : "memory");
}
#ifdef WITH_MPI
static void by_mpi_reduce(struct bench *b)
{
    int n = (int)(b->bytes / (int64_t)sizeof(float));
    if (MPI_Allreduce(b->in, b->out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)) b->failed = "MPI_Allreduce";
}
static void by_mpi_permute(struct bench *b)
{
    int n = (int)b->bytes;
    if (MPI_Sendrecv(b->in, n, MPI_BYTE, b->to, 0, b->out, n, MPI_BYTE, b->from, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE))
        b->failed = "MPI_Sendrecv";
}
#endif

/* Milliseconds of one call, the median of the rounds; all ranks begin together. */
static void measure(struct bench *b, void (*one)(struct bench *), void (*other)(struct bench *), double ms[2])
{
    void (*const both[])(struct bench *) = { one, other };
    double times[2][ROUNDS];
    int repeats = b->bytes > 1 << 19 ? 8 : b->bytes > 1 << 15 ? 60 : 400;
    for (int round = -1; round < ROUNDS; round++) {
        for (int which = 0; which < 2; which++) {
            if (dist_do(b->all, &(struct dist_call){ .kind = DIST_BARRIER })) b->failed = hop_message();
            double begun = now_ms();
            for (int i = 0; i < repeats && !b->failed; i++) both[which](b);
            if (round >= 0) times[which][round] = (now_ms() - begun) / repeats;
        }
    }
    ms[0] = median(times[0], ROUNDS);
    ms[1] = median(times[1], ROUNDS);
}

struct kind {
    const char *name;
    void (*hop)(struct bench *);
    void (*other)(struct bench *);
};
static const struct kind on_threads[] = { { "all_reduce", by_hop_reduce, by_copy },
                                          { "rank_permute", by_hop_permute, by_copy } };
#ifdef WITH_MPI
static const struct kind over_mpi[] = { { "all_reduce", by_hop_reduce, by_mpi_reduce },
                                        { "rank_permute", by_hop_permute, by_mpi_permute } };
#endif

static hop_status run_kinds(struct rank *r, const struct kind *kinds, const char *transport,
                            const char *other)
{
    struct bench b = { .to = (r->number + 1) % r->size, .from = (r->number + r->size - 1) % r->size };
    int64_t most = sizes[HOP_COUNT(sizes) - 1];
    hop_status status = dist_along(r, 1, (const int64_t[]){ r->size }, 1, &b.all);
    b.in = malloc((size_t)most);
    b.out = malloc((size_t)most);
    if (!b.in || !b.out) status = HOP_NOMEM;
    for (int64_t i = 0; !status && i < most / (int64_t)sizeof(float); i++) b.in[i] = b.out[i] = (float)i;
    for (int k = 0; k < 2 && !status && !b.failed; k++) {
        for (size_t s = 0; s < HOP_COUNT(sizes) && !b.failed; s++) {
            double ms[2];
            b.bytes = sizes[s];
            measure(&b, kinds[k].hop, kinds[k].other, ms);
            if (r->number || b.failed) continue;
            printf("{\"case\": \"%s\", \"transport\": \"%s\", \"ranks\": %d, \"bytes\": %lld, \"us\": %.3f, "
                   "\"GB/s\": %.3f, \"beside\": \"%s\", \"beside_us\": %.3f, \"ratio\": %.2f}\n",
                   kinds[k].name, transport, r->size, (long long)b.bytes, 1e3 * ms[0],
                   1e-6 * (double)b.bytes / ms[0], other, 1e3 * ms[1], ms[1] / ms[0]);
            fflush(stdout);
        }
    }
    if (b.failed) fprintf(stderr, "rank %d: %s\n", r->number, b.failed);
    free(b.in);
    free(b.out);
    return b.failed ? HOP_UNAVAILABLE : status;
}

static hop_status thread_body(struct rank *r, void *ctx)
{
    HOP_UNUSED(ctx);
    return run_kinds(r, on_threads, "threads", "memcpy");
}

int main(int argc, char **argv)
{
    int32_t ranks = argc > 2 ? (int32_t)strtol(argv[2], NULL, 10) : 2;
    if (argc > 1 && !strcmp(argv[1], "threads")) {
        hop_status status = dist_run_threads(ranks, thread_body, NULL);
        if (status) fprintf(stderr, "%s\n", hop_message());
        return status != HOP_OK;
    }
#ifdef WITH_MPI
    struct rank *r;
    hop_status status = dist_mpi(&r);
    if (!status) status = run_kinds(r, over_mpi, "mpi", "bare MPI");
    if (status) fprintf(stderr, "%s\n", hop_message());
    return status != HOP_OK;
#else
    fprintf(stderr, "built without an MPI\n");
    return 2;
#endif
}
