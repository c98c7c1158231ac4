/* For tests whose ranks are threads, or, with --mpi, the processes of a job. */
#ifndef HOP_TEST_JOB_H
#define HOP_TEST_JOB_H

#include "check.h"

#include "dist/dist.h"

static struct rank *process; /* the rank that this process is, under MPI */

/* False, having said why: there is no job to join. */
static inline bool job_join(void)
{
    if (!dist_mpi(&process)) return true;
    printf("%s\n", hop_message());
    return false;
}

/* Rank 0 says how many claims held on all ranks. */
static inline int job_end(void)
{
    int64_t counts[2] = { tests_passed, tests_failed };
    struct comm *everybody;
    struct dist_call call = { .kind = DIST_ALL_REDUCE, .dtype = DT_I64, .in = counts, .out = counts };
    call.size = 2;
    hop_status status = dist_along(process, 1, (const int64_t[]){ process->size }, 1, &everybody);
    if (!status) status = dist_do(everybody, &call);
    if (status) printf("the sum: %s\n", hop_message());
    else if (!process->number)
        printf("%lld passed, %lld failed\n", (long long)counts[0], (long long)counts[1]);
    return status || counts[1];
}

#endif
