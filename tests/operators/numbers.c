/* Operators from outside for the programs of tests/corpus/operators, as a library that the command loads
 * (--operators). It needs nothing of hop but the header. */
#include <hop/hop.h>
#include <stdio.h>
#include <string.h>

#define OPERATOR(name) int name(hop_operator_call *call, void *const *arrays, const int64_t *sizes)

/* x: f32[N], factor: f32[] -> f32[N] */
OPERATOR(scaled)
{
    const float *x = arrays[0], *factor = arrays[1];
    float *y = arrays[2];
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) y[i] = x[i] * *factor;
    return 0;
}

/* x: f32[N], y: f32[N] -> f32[]; fails where y has a zero */
OPERATOR(ratio_sum)
{
    const float *x = arrays[0], *y = arrays[1];
    float sum = 0;
    for (int64_t i = 0; i < sizes[0]; i++) {
        if (y[i] == 0) {
            snprintf(call->message, call->room, "y[%lld] is 0", (long long)i);
            return HOP_CHECK;
        }
        sum += x[i] / y[i];
    }
    *(float *)arrays[2] = sum;
    return 0;
}

/* mut total: f64[], x: f64[N] -> i64[]: adds up, and counts */
OPERATOR(add_up)
{
    double *total = arrays[0];
    const double *x = arrays[1];
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) *total += x[i];
    *(int64_t *)arrays[2] = sizes[0];
    return 0;
}

/* x: i32[N], out least: i32[], out most: i32[] */
OPERATOR(extent)
{
    const int32_t *x = arrays[0];
    int32_t *least = arrays[1], *most = arrays[2];
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) {
        if (!i || x[i] < *least) *least = x[i];
        if (!i || x[i] > *most) *most = x[i];
    }
    return 0;
}

/* x: i64[N] -> i64[?k]: those that are even */
OPERATOR(evens)
{
    const int64_t *x = arrays[0];
    int64_t n = 0, at = 0;
    for (int64_t i = 0; i < sizes[0]; i++) n += x[i] % 2 == 0;
    int64_t *y = call->result(call, 0, &n);
    if (!y) return HOP_NOMEM;
    for (int64_t i = 0; i < sizes[0]; i++)
        if (x[i] % 2 == 0) y[at++] = x[i];
    return 0;
}

/* first: f32[N]*, weight: f32[]?, rest: f32[N]* -> f32[N]: the sum of first, weighted, less that of rest */
OPERATOR(mixed)
{
    const float weight = arrays[call->counts[0]] ? *(const float *)arrays[call->counts[0]] : 1;
    float *y = arrays[call->n_arrays - 1];
    for (int64_t i = 0; i < sizes[0]; i++) y[i] = 0;
    for (int32_t k = 0; k < call->n_arrays - 1; k++) {
        const float *x = arrays[k];
        if (!x || k == call->counts[0]) continue;
        for (int64_t i = 0; i < sizes[0]; i++) y[i] += k < call->counts[0] ? weight * x[i] : -x[i];
    }
    return 0;
}

/* x: f32[N] -> f32[M]: as often as it fits, from the front again */
OPERATOR(filled)
{
    const float *x = arrays[0];
    float *y = arrays[1];
    (void)call;
    for (int64_t i = 0; i < sizes[1]; i++) y[i] = sizes[0] ? x[i % sizes[0]] : 0;
    return 0;
}

/* x: f64[N, 2] -> f64[N]; all lanes in one call */
OPERATOR(lengths)
{
    const hop_operator_array *x = &call->arrays[0], *y = &call->arrays[1];
    const double *from = arrays[0];
    double *to = arrays[1];
    int64_t lanes = 1, here = 1;
    for (int32_t d = 0; d < call->lanes; d++) lanes *= y->dims[d], here *= x->dims[d];
    for (int64_t i = 0; i < lanes * sizes[0]; i++) {
        int64_t k = here == 1 ? i % sizes[0] : i;
        to[i] = from[2 * k] * from[2 * k] + from[2 * k + 1] * from[2 * k + 1];
    }
    return 0;
}

/* objects.c */
OPERATOR(count_up);
OPERATOR(counted);
OPERATOR(count_from);

int hop_register_operators(hop_status (*add)(const hop_operator_spec *spec))
{
    static const hop_operator_spec all[] = {
        { .signature = "scaled(x: f32[N], factor: f32[]) -> f32[N]", .run = scaled },
        { .signature = "ratio_sum(x: f32[N], y: f32[N]) -> f32[]", .run = ratio_sum, .effect = "check" },
        { .signature = "add_up(mut total: f64[], x: f64[N]) -> i64[]", .run = add_up },
        { .signature = "extent(x: i32[N], out least: i32[], out most: i32[])", .run = extent },
        { .signature = "evens(x: i64[N]) -> i64[?k]", .run = evens },
        { .signature = "mixed(first: f32[N]*, weight: f32[]?, rest: f32[N]*) -> f32[N]", .run = mixed },
        { .signature = "filled(x: f32[N]) -> f32[M]", .run = filled },
        { .signature = "lengths(x: f64[N, 2]) -> f64[N]", .run = lengths, .version = 2 },
        { .signature = "count_up(t: object \"counter\", by: f64[]) -> f64[]", .run = count_up },
        { .signature = "counted(reads t: object \"counter\") -> f64[]", .run = counted },
        { .signature = "count_from(x: f64[N], reads t: object \"counter\", u: object \"counter\") -> f64[N]",
          .run = count_from },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (add(&all[i])) return 1;
    return 0;
}
