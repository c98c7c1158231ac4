/* Operators that are given objects, for the programs of tests/corpus/operators: what stands in for an object
 * there is 64 bytes of zeros, of which the first eight are a counter. */
#include <hop/hop.h>

#define OPERATOR(name) int name(hop_operator_call *call, void *const *arrays, const int64_t *sizes)

/* t: object "counter", by: f64[] -> f64[]: counts up, and says what it has come to */
OPERATOR(count_up)
{
    double *counter = arrays[0];
    (void)call;
    (void)sizes;
    *counter = 2 * *counter + *(const double *)arrays[1];
    *(double *)arrays[2] = *counter;
    return 0;
}

/* reads t: object "counter" -> f64[] */
OPERATOR(counted)
{
    (void)call;
    (void)sizes;
    *(double *)arrays[1] = *(const double *)arrays[0];
    return 0;
}

/* x: f64[N], reads t: object "counter", u: object "counter" -> f64[N]: an object that is not in front */
OPERATOR(count_from)
{
    const double *x = arrays[0];
    double *y = arrays[3], *counter = arrays[2];
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) y[i] = x[i] + *(const double *)arrays[1];
    *counter += (double)sizes[0];
    return 0;
}
