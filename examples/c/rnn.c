/* A recurrent network in C: the loss and its gradient over a thousand steps, captured, differentiated,
 * compiled, run, and held against the interpreter.
 *
 *     cc rnn.c $(pkg-config --cflags --libs hop) && ./a.out
 */
#include <hop/hop.h>
#include <stdio.h>

struct net {
    hop_val w, u;
}; /* traced values that the step closes over */

static int step(void *env, const hop_val *in, hop_val *out) /* (h; x) -> (h; y) */
{
    const struct net *p = env;
    out[0] = hop_tanh(hop_add(hop_matmul(in[0], p->w), hop_matmul(in[1], p->u)));
    out[1] = out[0];
    return 0; /* non-zero abandons the capture and is its status */
}

static int loss(void *env, const hop_val *in, hop_val *out) /* (h0, xs, w, u) -> sum of all h */
{
    struct net p = { in[2], in[3] };
    hop_val r[2]; /* last h, all h */
    (void)env;
    hop_scan(r, 2,
             &(hop_scan_spec){
                 .step = step, .env = &p, .carry = &in[0], .n_carry = 1, .xs = &in[1], .n_xs = 1 });
    out[0] = hop_sum(r[1], "all");
    return 0;
}

/* Small numbers, the same on every machine. */
static void fill(float *to, int n, unsigned seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        to[i] = (float)(seed >> 8) / (float)(1 << 24) * 0.2f - 0.1f;
    }
}

static int differs(const hop_tensor *a, const hop_tensor *b)
{
    const float *x = hop_data(a), *y = hop_data(b);
    double off = 0, all = 0;
    for (int64_t i = 0; i < hop_tensor_count(a); i++)
        off += (x[i] - y[i]) * (x[i] - y[i]), all += y[i] * y[i];
    return !(off <= 1e-6 * all); /* squares: a thousandth of the length */
}

int main(void)
{
    static float xs[1000][64]; /* the caller's own memory */
    hop_fn *f = NULL, *g = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[4] = { 0 }, *out[3] = { 0 }, *again[3] = { 0 }; /* h0 xs w u -> loss dw du */
    int status = 1;
    if (hop_capture(&f, "h0: f32[64], xs: f32[T, 64], w: f32[64, 64], u: f32[64, 64]", 1, loss, NULL) ||
        hop_value_and_grad(&g, f, "w, u") || hop_compile(&exe, g, NULL) ||
        hop_tensor_new(&in[0], "f32[64]") || hop_tensor_borrow(&in[1], "f32[1000, 64]", xs, NULL, NULL) ||
        hop_tensor_new(&in[2], "f32[64, 64]") || hop_tensor_new(&in[3], "f32[64, 64]"))
        goto done;
    fill(&xs[0][0], 1000 * 64, 1);
    fill(hop_data(in[2]), 64 * 64, 2);
    fill(hop_data(in[3]), 64 * 64, 3);
    if (hop_run(exe, in, 4, out, 3)) goto done; /* out[i] NULL: allocated; else written into */
    printf("loss %g\n", *(const float *)hop_data(out[0]));
    printf("dw[0][0] %g, du[0][0] %g\n", *(const float *)hop_data(out[1]), *(const float *)hop_data(out[2]));
    if (hop_interpret(g, in, 4, again, 3)) goto done; /* the reference: slow, and the same up to rounding */
    status = differs(out[0], again[0]) || differs(out[1], again[1]) || differs(out[2], again[2]);
    if (status) fprintf(stderr, "compiled and interpreted results differ\n");
done:
    if (status && *hop_message())
        fprintf(stderr, "%s\n", hop_message());         /* rnn.c:9: matmul: expected …, found … */
    for (int i = 0; i < 4; i++) hop_tensor_free(in[i]); /* every _free accepts NULL */
    for (int i = 0; i < 3; i++) hop_tensor_free(out[i]), hop_tensor_free(again[i]);
    hop_exe_free(exe);
    hop_fn_free(g);
    hop_fn_free(f); /* any order: a handle keeps what it needs */
    return status;
}
