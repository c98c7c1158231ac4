/* Hand-written C for the benchmark cases: what a careful C programmer gets. Each function does the whole job
 * of its case once. */
#ifndef HOP_BENCH_BASELINE_H
#define HOP_BENCH_BASELINE_H

#include <stddef.h>
#include <stdint.h>

enum { CARRY_STEPS = 614, CARRY_LEAVES = 60 };
enum { RNN_STEPS = 1000, RNN_WIDTH = 64, ASSOC_ROWS = 65536, ASSOC_WIDTH = 16 };
enum { SQUARE = 1024, TABLE_ROWS = 8192, TABLE_WIDTH = 2048, SOFT_ROWS = 4096, SOFT_WIDTH = 1024 };
enum { BODIES = 64, BODY_STEPS = 500 };
enum { LSTM_STEPS = 500, LSTM_UNITS = 256, GATES = 4, BATCH_COUNT = 512, BATCH_SIDE = 32 };
enum { VITERBI_STEPS = 1000, VITERBI_STATES = 64 };
enum { LAYER_CHANNELS = 64, DEPTHWISE_CHANNELS = 144, PLANE_SIDE = 56, HEAT_SIDE = 256, HEAT_STEPS = 200 };
enum { PLACE_ROWS = 2000, PLACE_WIDTH = 1000, SPREAD_ROWS = 2048, SPREAD_WIDTH = 64, SPREAD_STATES = 8 };
enum { POWERS = 1 << 20, SINGLE_STEPS = 100000, FIELD = 32, FIELD_STEPS = 1000, SKEW_LANES = 512 };

void baseline_while(float x[16], const volatile int64_t *bound);
void baseline_scan(float *ys, const float *xs, size_t n);
float baseline_rnn(const float *h0, const float *xs, const float *w, const float *u);
void baseline_rnn_grad(float *dw, const float *h0, const float *xs, const float *w, const float *u);
void baseline_assoc(float *p, float *q, const float *a, const float *b, size_t rows);
void baseline_assoc_grad(float *da, const float *a, const float *b, size_t rows); /* of the sum of all q */
void baseline_assoc1_grad(float *da, const float *a, const float *b,
                          size_t n); /* the same for rows of one number */
float baseline_carry(const float *h);
void baseline_carry_grad(float *dh, const float *h);
void baseline_cond(float *y, const float *x, size_t n, int predicate);
void baseline_elementwise(float *out, const float *a, const float *b, const float *c, const float *d,
                          size_t n);
void baseline_matmul(float *c, const float *a, const float *b);
void baseline_columns(float *sums, float *maxima, const float *x); /* sums of columns, maxima of rows */
void baseline_softmax(float *y, const float *x);
void baseline_layer_norm(float *y, const float *x, const float *scale, const float *shift);
void baseline_batched(float *c, const float *a, const float *b);
/* Gates i, f, o, n side by side in w, u and b. */
struct lstm_inputs {
    const float *w, *u, *b, *h, *c, *xs;
};
void baseline_lstm(float *hs, const struct lstm_inputs *in);
/* The last scores; the path stays inside. */
void baseline_viterbi(float *last, const float *start, const float *moves, const float *seen);
void baseline_conv3x3(float *y, const float *x, const float *w); /* LAYER_CHANNELS to as many */
void baseline_depthwise(float *y, const float *x, const float *w);
void baseline_heat(float *y, const float *u, const float *w);
void baseline_nbody(float *out, const float *x, const float *v, const float *mass);
void baseline_argmax(float *places, const float *x);
void baseline_spread(float *y, const float *raw, const float *a, const float *b);
void baseline_powers(float *y, const float *x);
float baseline_single(const float *h, const float *xs);
float baseline_mean_field(const float *h);
float baseline_branches(const float *h);
void baseline_skew(float *last, const float *few);

#endif
