/* Operators from outside for the tests in which memory runs out: one that finds the size of a result, one
 * that changes an argument, one that changes views of one array, one with rules; a function that calls them
 * all, and whole programs. */
#ifndef HOP_TEST_ALLOC_OPERATORS_H
#define HOP_TEST_ALLOC_OPERATORS_H

#include <hop/hop.h>

#define OPERATOR(name) static int name(hop_operator_call *call, void *const *arrays, const int64_t *sizes)

/* x: f32[N] -> (f32[?k], i64[]): those above 0, and N */
OPERATOR(run_above)
{
    const float *x = arrays[0];
    int64_t k = 0, at = 0;
    for (int64_t i = 0; i < sizes[0]; i++) k += x[i] > 0;
    float *y = call->result(call, 0, &k);
    if (!y) return HOP_NOMEM;
    for (int64_t i = 0; i < sizes[0]; i++)
        if (x[i] > 0) y[at++] = x[i];
    *(int64_t *)arrays[2] = sizes[0];
    return 0;
}

/* mut sums: f32[N], x: f32[N] -> f32[]: adds x, and gives the first */
OPERATOR(run_gather_up)
{
    float *sums = arrays[0];
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) sums[i] += ((const float *)arrays[1])[i];
    *(float *)arrays[2] = sizes[0] ? sums[0] : 0;
    return 0;
}

/* mut a: f32[_], mut b: f32[_]: each element of both once more; row-major, so views with strides are copied
 */
OPERATOR(run_raise)
{
    (void)sizes;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < call->arrays[k].dims[0]; i++) ((float *)arrays[k])[i] += 1;
    return 0;
}

/* x: f32[N] -> f32[N]: the squares */
OPERATOR(run_square)
{
    (void)call;
    for (int64_t i = 0; i < sizes[0]; i++) {
        float v = ((const float *)arrays[0])[i];
        ((float *)arrays[1])[i] = v * v;
    }
    return 0;
}
#undef OPERATOR

static int square_backward(void *env, const hop_val *in, hop_val *out)
{
    return (void)env, out[0] = hop_mul(hop_mul(hop_scalar(2), in[0]), in[2]), hop_failed();
}

static const hop_operator_spec alloc_specs[] = {
    { .signature = "above(x: f32[N]) -> (f32[?k], i64[])", .run = run_above },
    { .signature = "gather_up(mut sums: f32[N], x: f32[N]) -> f32[]", .run = run_gather_up },
    { .signature = "raise(mut a: f32[_], mut b: f32[_])", .run = run_raise },
    { .signature = "square(x: f32[N]) -> f32[N]",
      .run = run_square,
      .backward_body = { square_backward, NULL, 0 } },
};
enum { ALLOC_SPECS = sizeof alloc_specs / sizeof *alloc_specs };
static const char *const alloc_names[ALLOC_SPECS] = { "above", "gather_up", "raise", "square" };

static int alloc_operators_register(void)
{
    int status = 0;
    for (int i = 0; i < ALLOC_SPECS && !status; i++) status = hop_operator_register(&alloc_specs[i]);
    return status;
}

static void alloc_operators_unregister(void)
{
    for (int i = 0; i < ALLOC_SPECS; i++) hop_operator_unregister(alloc_names[i]);
}

/* (x: f32[6]) -> (f32[], f32[6], i64[]) */
static int calls_operators(void *env, const hop_val *in, hop_val *out)
{
    hop_val found[2], first, squares, v = hop_variable(in[0]);
    (void)env;
    if (hop_operator(found, 2, "above", in, 1)) return hop_failed();
    if (hop_operator(&first, 1, "gather_up", (hop_val[]){ v, in[0] }, 2)) return hop_failed();
    if (hop_operator(NULL, 0, "raise", (hop_val[]){ hop_view(v, "::2"), hop_view(v, "1::2") }, 2))
        return hop_failed();
    if (hop_operator(&squares, 1, "square", in, 1)) return hop_failed();
    out[0] = hop_add(hop_add(hop_sum(found[0], "all"), first), hop_sum(squares, "all"));
    out[1] = hop_add(v, hop_scalar(0));
    out[2] = found[1];
    return hop_failed();
}
static const char operators_params[] = "x: f32[6]";

/* What a whole life begins with; the first has a gradient. */
static const char *const operator_programs[] = {
    "operator @square(x: f32[N]) -> f32[N] {backward = @back}\n"
    "fn @back(%x: f32[N], %ct: f32[N]) -> (f32[N]) {\n"
    "  %y = mul(%x, %ct)\n"
    "  %z = add(%y, %y)\n"
    "  return %z\n"
    "}\n"
    "fn @main(%x: f32[3, 4]) -> (f32[]) {\n"
    "  %y = map over(%r in %x) {\n"
    "    %q = square(%r)\n"
    "    stack(%q)\n"
    "  }\n"
    "  %s = sum(%y)\n"
    "  return %s\n"
    "}\n",
    "operator @above(x: f32[N]) -> (f32[?k], i64[])\n"
    "fn @main(%x: f32[9]) -> (i64[], f32[], f32[?k]) {\n"
    "  %y: f32[?k], %n = above(%x)\n"
    "  %z = tanh(%y)\n"
    "  %s = sum(%z)\n"
    "  return %n, %s, %z\n"
    "}\n",
    "operator @gather_up(mut sums: f32[N], x: f32[N]) -> f32[]\n"
    "fn @main(%s: f32[5], %xs: f32[3, 5]) -> (f32[5], f32[3], f32[5]) {\n"
    "  %last, %firsts = scan carry(%c = %s) over(%x in %xs) {\n"
    "    %f, %n = gather_up(%c, %x)\n"
    "    next(%n) stack(%f)\n"
    "  }\n"
    "  return %last, %firsts, %s\n"
    "}\n",
    "operator @raise(mut a: f32[_], mut b: f32[_])\n"
    "fn @main(%x: f32[8]) -> (f32[8], f32[8]) {\n"
    "  %y = raise {views = [0, 0, 1, 4, 2, 0, 1, 1, 4, 2]} (%x)\n"
    "  %z = raise {views = [0, 0, 1, 3, 1, 0, 3, 1, 5, 1]} (%y)\n"
    "  return %z, %y\n"
    "}\n",
};

#endif
