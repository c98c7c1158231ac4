/* The operators from outside that the samples of the table call; registered before the first sample runs. */
#include "check/check.h"

#include <pthread.h>

static double get(const hop_operator_array *a, int64_t i)
{
    return a->dtype == HOP_F32 ? ((const float *)a->data)[i] : ((const double *)a->data)[i];
}
static void set(void *data, int32_t dtype, int64_t i, double v)
{
    if (dtype == HOP_F32) ((float *)data)[i] = (float)v;
    else ((double *)data)[i] = v;
}

static int expect_floats(hop_operator_call *call)
{
    int32_t dtype = call->arrays[0].dtype;
    if (dtype == HOP_F32 || dtype == HOP_F64) return 0;
    snprintf(call->message, call->room, "expected f32 or f64, found dtype %d", dtype);
    return HOP_INVALID;
}

/* x: T[N] -> i64[]: how many are above 0 */
static int sample_count(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    int64_t n = 0;
    if (expect_floats(call)) return HOP_INVALID;
    for (int64_t i = 0; i < sizes[0]; i++) n += get(&call->arrays[0], i) > 0;
    *(int64_t *)arrays[1] = n;
    return 0;
}

/* x: T[N] -> T[N] */
static int sample_square(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const hop_operator_array *x = &call->arrays[0];
    if (expect_floats(call)) return HOP_INVALID;
    for (int64_t i = 0; i < sizes[0]; i++) set(arrays[1], x->dtype, i, get(x, i) * get(x, i));
    return 0;
}

/* mut state: T[S], x: T[] -> T[]: what is pushed out at the front */
static int sample_push(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const hop_operator_array *state = &call->arrays[0], *x = &call->arrays[1];
    int64_t n = sizes[0];
    if (expect_floats(call)) return HOP_INVALID;
    set(arrays[2], x->dtype, 0, n ? get(state, 0) : get(x, 0));
    for (int64_t i = 0; i < n; i++) set(arrays[0], x->dtype, i, i + 1 < n ? get(state, i + 1) : get(x, 0));
    return 0;
}

/* x: T[N] -> (i64[?k], T[?k]): which are above 0, and what they are */
static int sample_positive(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    const hop_operator_array *x = &call->arrays[0];
    int64_t n = 0, at = 0;
    (void)arrays;
    if (expect_floats(call)) return HOP_INVALID;
    for (int64_t i = 0; i < sizes[0]; i++) n += get(x, i) > 0;
    int64_t *where = call->result(call, 0, &n);
    void *values = call->result(call, 1, &n);
    if (!where || !values) return HOP_NOMEM;
    for (int64_t i = 0; i < sizes[0]; i++) {
        if (get(x, i) <= 0) continue;
        where[at] = i;
        set(values, x->dtype, at++, get(x, i));
    }
    return 0;
}

static int sample_note(hop_operator_call *call, void *const *arrays, const int64_t *sizes)
{
    (void)call, (void)arrays, (void)sizes;
    return 0;
}

static void register_all(void)
{
    static const hop_operator_spec all[] = {
        { .signature = "sample_count(x: T[N]) -> i64[]", .run = sample_count },
        { .signature = "sample_square(x: T[N]) -> T[N]", .run = sample_square },
        { .signature = "sample_push(mut state: T[S], x: T[]) -> T[]", .run = sample_push },
        { .signature = "sample_positive(x: T[N]) -> (i64[?k], T[?k])", .run = sample_positive },
        { .signature = "sample_note(...)", .run = sample_note, .effect = "io" },
    };
    for (size_t i = 0; i < HOP_COUNT(all); i++) hop_operator_register(&all[i]);
}

void sample_operators(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_all);
}
