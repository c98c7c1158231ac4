/* Hand-written C for the benchmark cases, with vector extensions at 512 bits (the compiler narrows them where
 * the host is narrower), polynomials of a few ULP, contraction on, and the products over all steps hoisted
 * into one. */
#include "baseline.h"

#include <cblas.h>
#include <omp.h>
#include <sched.h>
#include <string.h>

typedef float vec16 __attribute__((vector_size(64)));
typedef int32_t ivec16 __attribute__((vector_size(64)));
enum { LANES = 16 };

static inline vec16 all(float x) { return x - (vec16){ 0 }; }
static inline vec16 get(const float *p)
{
    vec16 v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void put(float *p, vec16 v) { memcpy(p, &v, sizeof v); }
static inline vec16 choose(ivec16 mask, vec16 yes, vec16 no)
{
    return (vec16)((mask & (ivec16)yes) | (~mask & (ivec16)no));
}

/* e^y - 1 for y in -87..88: y = n ln 2 + r, a polynomial in r, scaled by 2^n through the exponent bits. */
static inline vec16 expm1_16(vec16 y)
{
    const float magic =
        12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer held in the low mantissa bits */
    vec16 t = y * all(1.44269504f) + all(magic), n = t - all(magic);
    vec16 r = y - n * all(0.693359375f) + n * all(2.12194440e-4f);
    vec16 q = all(1.9875691500e-4f);
    q = q * r + all(1.3981999507e-3f);
    q = q * r + all(8.3334519073e-3f);
    q = q * r + all(4.1665795894e-2f);
    q = q * r + all(1.6666665459e-1f);
    q = q * r + all(5.0000001201e-1f);
    q = q * r * r + r;
    vec16 power = (vec16)(((ivec16)t + (127 - 0x4b400000)) << 23);
    return power * q + (power - all(1.0f));
}

static inline vec16 tanh_16(vec16 x)
{
    vec16 a = (vec16)((ivec16)x & 0x7fffffff);
    a = choose(a > all(10.0f), all(10.0f), a);
    vec16 e = expm1_16(a + a), t = e / (e + all(2.0f));
    return (vec16)((ivec16)t | ((ivec16)x & (int32_t)0x80000000));
}

static inline vec16 sigmoid_16(vec16 x)
{
    x = choose(x > all(87.0f), all(87.0f), x);
    x = choose(x < all(-87.0f), all(-87.0f), x);
    return all(1.0f) / (expm1_16(-x) + all(2.0f));
}

/* sin for quarter 0, cos for quarter 1; moderate arguments. */
static inline vec16 trig_16(vec16 x, int quarter)
{
    const float magic = 12582912.0f;
    vec16 t = x * all(0.636619772f) + all(magic), n = t - all(magic);
    ivec16 q = (ivec16)t + quarter;
    vec16 r = x - n * all(1.5707963109016418f) - n * all(1.5893254712295857e-8f), s = r * r;
    vec16 odd = ((all(-1.9515295891e-4f) * s + all(8.3321608736e-3f)) * s + all(-1.6666654611e-1f)) * s * r +
                r;
    vec16 even = ((all(2.443315711809948e-5f) * s + all(-1.388731625493765e-3f)) * s +
                  all(4.166664568298827e-2f)) *
                     s * s -
                 all(0.5f) * s + all(1.0f);
    vec16 v = choose((q & 1) != 0, even, odd);
    return (vec16)((ivec16)v ^ ((q & 2) << 30));
}

/* Two registers of eight: what every processor with AVX has. */
typedef float vec8 __attribute__((vector_size(32)));

void baseline_while(float x[16], const volatile int64_t *bound)
{
    vec8 low, high;
    memcpy(&low, x, sizeof low);
    memcpy(&high, x + 8, sizeof high);
    int64_t n = *bound;
    for (int64_t i = 0; i < n; i++) {
        low = low * 0.999f + 0.001f;
        high = high * 0.999f + 0.001f;
        __asm__ volatile("" : "+x"(low), "+x"(high));
    }
    memcpy(x, &low, sizeof low);
    memcpy(x + 8, &high, sizeof high);
}

void baseline_scan(float *restrict ys, const float *restrict xs, size_t n)
{
    float h = 0;
    for (size_t t = 0; t < n; t++) {
        h = 0.9f * h + xs[t];
        ys[t] = h;
    }
}

static float states[(RNN_STEPS + 1) * RNN_WIDTH] __attribute__((aligned(64))),
    projected[RNN_STEPS * RNN_WIDTH] __attribute__((aligned(64)));
static float deltas[RNN_STEPS * RNN_WIDTH] __attribute__((aligned(64))),
    transposed[RNN_WIDTH * RNN_WIDTH] __attribute__((aligned(64)));

/* states[0] = h0, states[t + 1] = tanh(states[t] w + projected[t]) */
static void rnn_states(const float *restrict h0, const float *restrict xs, const float *restrict w,
                       const float *restrict u)
{
    float h[RNN_WIDTH];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, RNN_STEPS, RNN_WIDTH, RNN_WIDTH, 1, xs, RNN_WIDTH,
                u, RNN_WIDTH, 0, projected, RNN_WIDTH);
    memcpy(h, h0, sizeof h);
    memcpy(states, h0, sizeof h);
    for (int t = 0; t < RNN_STEPS; t++) {
        vec16 a[4], b[4] = { { 0 } };
        for (int j = 0; j < 4; j++) a[j] = get(projected + t * RNN_WIDTH + j * LANES);
        for (int k = 0; k < RNN_WIDTH; k += 2)
            for (int j = 0; j < 4; j++) {
                a[j] += all(h[k]) * get(w + k * RNN_WIDTH + j * LANES);
                b[j] += all(h[k + 1]) * get(w + (k + 1) * RNN_WIDTH + j * LANES);
            }
        for (int j = 0; j < 4; j++) {
            vec16 v = tanh_16(a[j] + b[j]);
            put(h + j * LANES, v);
            put(states + (t + 1) * RNN_WIDTH + j * LANES, v);
        }
    }
}

float baseline_rnn(const float *h0, const float *xs, const float *w, const float *u)
{
    rnn_states(h0, xs, w, u);
    vec16 s = { 0 };
    for (int i = RNN_WIDTH; i < (RNN_STEPS + 1) * RNN_WIDTH; i += LANES) s += get(states + i);
    float total = 0;
    for (int i = 0; i < LANES; i++) total += s[i];
    return total;
}

void baseline_rnn_grad(float *dw, const float *h0, const float *xs, const float *w, const float *u)
{
    rnn_states(h0, xs, w, u);
    for (int i = 0; i < RNN_WIDTH; i++)
        for (int j = 0; j < RNN_WIDTH; j++) transposed[j * RNN_WIDTH + i] = w[i * RNN_WIDTH + j];
    float g[RNN_WIDTH] = { 0 };
    for (int t = RNN_STEPS - 1; t >= 0; t--) {
        float d[RNN_WIDTH];
        for (int j = 0; j < RNN_WIDTH; j += LANES) {
            vec16 h = get(states + (t + 1) * RNN_WIDTH + j),
                  v = (get(g + j) + all(1.0f)) * (all(1.0f) - h * h);
            put(d + j, v);
            put(deltas + t * RNN_WIDTH + j, v);
        }
        vec16 a[4] = { { 0 } }, b[4] = { { 0 } };
        for (int k = 0; k < RNN_WIDTH; k += 2)
            for (int j = 0; j < 4; j++) {
                a[j] += all(d[k]) * get(transposed + k * RNN_WIDTH + j * LANES);
                b[j] += all(d[k + 1]) * get(transposed + (k + 1) * RNN_WIDTH + j * LANES);
            }
        for (int j = 0; j < 4; j++) put(g + j * LANES, a[j] + b[j]);
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, RNN_WIDTH, RNN_WIDTH, RNN_STEPS, 1, states,
                RNN_WIDTH, deltas, RNN_WIDTH, 0, dw, RNN_WIDTH);
}

void baseline_assoc(float *restrict p, float *restrict q, const float *restrict a, const float *restrict b,
                    size_t rows)
{
    vec16 product = all(1.0f), state = { 0 };
    for (size_t t = 0; t < rows; t++) {
        vec16 at = get(a + t * LANES);
        product *= at;
        state = at * state + get(b + t * LANES);
        put(p + t * LANES, product);
        put(q + t * LANES, state);
    }
}

void baseline_assoc_grad(float *restrict da, const float *restrict a, const float *restrict b, size_t rows)
{
    static float q[ASSOC_ROWS * ASSOC_WIDTH] __attribute__((aligned(64)));
    vec16 state = { 0 }, g = { 0 };
    for (size_t t = 0; t < rows; t++) {
        state = get(a + t * LANES) * state + get(b + t * LANES);
        put(q + t * LANES, state);
    }
    for (size_t t = rows; t-- > 0;) {
        g += all(1.0f);
        put(da + t * LANES, t ? g * get(q + (t - 1) * LANES) : (vec16){ 0 });
        g *= get(a + t * LANES);
    }
}

/* One step waits for the one before it. The states are stored, the slopes only used. */
void baseline_assoc1_grad(float *restrict da, const float *restrict a, const float *restrict b, size_t n)
{
    static float q[ASSOC_ROWS];
    float state = b[0], g = 1;
    q[0] = state;
    for (size_t t = 1; t < n; t++) q[t] = state = a[t] * state + b[t];
    for (size_t t = n; t-- > 1;) {
        da[t] = g * q[t - 1];
        g = a[t] * g + 1;
    }
    da[0] = 0;
}

void baseline_cond(float *restrict y, const float *restrict x, size_t n, int predicate)
{
    if (predicate)
        for (size_t i = 0; i < n; i += LANES) put(y + i, trig_16(get(x + i), 0) * all(2.0f));
    else
        for (size_t i = 0; i < n; i += LANES) put(y + i, trig_16(get(x + i), 1) + all(1.0f));
}

void baseline_elementwise(float *restrict out, const float *restrict a, const float *restrict b,
                          const float *restrict c, const float *restrict d, size_t n)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += LANES)
        put(out + i, tanh_16(get(a + i) * get(b + i) + get(c + i)) * sigmoid_16(get(d + i)));
}

/* Rows of 60 numbers in a ring, with one copied on each side: row[1 + i] is number i. */
enum { CARRY_ROW = 1 + 64 + 1 };
static void close_ring(float *row) { row[0] = row[CARRY_LEAVES], row[CARRY_LEAVES + 1] = row[1]; }

static void carry_step(float *restrict next, const float *restrict row)
{
    for (int i = 0; i < 64; i += LANES)
        put(next + 1 + i, trig_16(get(row + 1 + i) * get(row + i) + get(row + 2 + i), 0));
    close_ring(next);
}

static float ring_sum(const float *row)
{
    float total = 0;
    for (int i = 0; i < CARRY_LEAVES; i++) total += row[1 + i];
    return total;
}

float baseline_carry(const float *h)
{
    float rows[2][CARRY_ROW + 2] = { { 0 } };
    memcpy(rows[0] + 1, h, CARRY_LEAVES * sizeof *h);
    close_ring(rows[0]);
    for (int t = 0; t < CARRY_STEPS; t++) carry_step(rows[(t + 1) & 1], rows[t & 1]);
    return ring_sum(rows[CARRY_STEPS & 1]);
}

void baseline_carry_grad(float *dh, const float *h)
{
    static _Thread_local float rows[CARRY_STEPS + 1][CARRY_ROW + 2];
    memcpy(rows[0] + 1, h, CARRY_LEAVES * sizeof *h);
    close_ring(rows[0]);
    for (int t = 0; t < CARRY_STEPS; t++) carry_step(rows[t + 1], rows[t]);
    float ct[CARRY_ROW + 2], slope[CARRY_ROW + 2];
    for (int i = 0; i < CARRY_ROW + 2; i++) ct[i] = 1;
    for (int t = CARRY_STEPS - 1; t >= 0; t--) {
        const float *row = rows[t];
        for (int i = 0; i < 64; i += LANES)
            put(slope + 1 + i,
                get(ct + 1 + i) * trig_16(get(row + 1 + i) * get(row + i) + get(row + 2 + i), 1));
        close_ring(slope);
        /* number i is itself in step i, the left neighbour in step i + 1, the right one in step i - 1 */
        for (int i = 0; i < 64; i += LANES)
            put(ct + 1 + i,
                get(slope + 1 + i) * get(row + i) + get(slope + 2 + i) * get(row + 2 + i) + get(slope + i));
    }
    memcpy(dh, ct + 1, CARRY_LEAVES * sizeof *dh);
}

/* ---- dense cases: BLAS for the product, threads over rows ---- */

void baseline_matmul(float *c, const float *a, const float *b)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SQUARE, SQUARE, SQUARE, 1, a, SQUARE, b, SQUARE, 0,
                c, SQUARE);
}

static float largest(vec16 v)
{
    float most = v[0];
    for (int l = 1; l < LANES; l++) most = v[l] > most ? v[l] : most;
    return most;
}

static float added_up(vec16 v)
{
    float sum = 0;
    for (int l = 0; l < LANES; l++) sum += v[l];
    return sum;
}

/* One visit of the table: each thread adds up its rows by itself. */
void baseline_columns(float *sums, float *maxima, const float *x)
{
    memset(sums, 0, TABLE_WIDTH * sizeof *sums);
#pragma omp parallel
    {
        float own[TABLE_WIDTH] = { 0 };
#pragma omp for schedule(static)
        for (int r = 0; r < TABLE_ROWS; r++) {
            const float *row = x + (size_t)r * TABLE_WIDTH;
            vec16 most = get(row);
            for (int i = 0; i < TABLE_WIDTH; i += LANES) {
                vec16 v = get(row + i);
                most = choose(v > most, v, most);
                put(own + i, get(own + i) + v);
            }
            maxima[r] = largest(most);
        }
#pragma omp critical
        for (int i = 0; i < TABLE_WIDTH; i += LANES) put(sums + i, get(sums + i) + get(own + i));
    }
}

void baseline_softmax(float *y, const float *x)
{
#pragma omp parallel for schedule(static)
    for (int r = 0; r < SOFT_ROWS; r++) {
        const float *row = x + (size_t)r * SOFT_WIDTH;
        float *to = y + (size_t)r * SOFT_WIDTH;
        vec16 most = get(row), sum = { 0 };
        for (int i = 0; i < SOFT_WIDTH; i += LANES) {
            vec16 v = get(row + i);
            most = choose(v > most, v, most);
        }
        vec16 top = all(largest(most));
        for (int i = 0; i < SOFT_WIDTH; i += LANES) {
            vec16 e = get(row + i) - top;
            e = expm1_16(choose(e < all(-87.0f), all(-87.0f), e)) + all(1.0f);
            put(to + i, e);
            sum += e;
        }
        vec16 part = all(1 / added_up(sum));
        for (int i = 0; i < SOFT_WIDTH; i += LANES) put(to + i, get(to + i) * part);
    }
}

void baseline_layer_norm(float *y, const float *x, const float *scale, const float *shift)
{
#pragma omp parallel for schedule(static)
    for (int r = 0; r < SOFT_ROWS; r++) {
        const float *row = x + (size_t)r * SOFT_WIDTH;
        float *to = y + (size_t)r * SOFT_WIDTH;
        vec16 sum = { 0 }, squares = { 0 };
        for (int i = 0; i < SOFT_WIDTH; i += LANES) sum += get(row + i);
        vec16 mean = all(added_up(sum) / SOFT_WIDTH);
        for (int i = 0; i < SOFT_WIDTH; i += LANES) {
            vec16 d = get(row + i) - mean;
            squares += d * d;
        }
        vec16 part = all(1 / __builtin_sqrtf(added_up(squares) / SOFT_WIDTH + 1e-5f));
        for (int i = 0; i < SOFT_WIDTH; i += LANES)
            put(to + i, (get(row + i) - mean) * part * get(scale + i) + get(shift + i));
    }
}

/* Sixteen sums in registers: eight rows of two vectors. */
void baseline_batched(float *c, const float *a, const float *b)
{
    enum { ROWS = 8, ACROSS = BATCH_SIDE / LANES, EACH = BATCH_SIDE * BATCH_SIDE };
#pragma omp parallel for schedule(static)
    for (int n = 0; n < BATCH_COUNT; n++)
        for (int i = 0; i < BATCH_SIDE; i += ROWS) {
            const float *left = a + n * EACH + i * BATCH_SIDE, *right = b + n * EACH;
            vec16 sums[ROWS][ACROSS] = { { { 0 } } };
            for (int k = 0; k < BATCH_SIDE; k++)
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
                    for (int v = 0; v < ACROSS; v++)
                        sums[r][v] += all(left[r * BATCH_SIDE + k]) * get(right + k * BATCH_SIDE + v * LANES);
            memcpy(c + n * EACH + i * BATCH_SIDE, sums, sizeof sums);
        }
}

/* ---- an LSTM: the weights of a block of units lie side by side, threads share the blocks ---- */

enum {
    UNIT_BLOCK = 2 * LANES,
    UNIT_BLOCKS = LSTM_UNITS / UNIT_BLOCK,
    BLOCK_ROW = GATES * UNIT_BLOCK, /* weights of a block for one unit of the state */
    GATE_VECTORS = BLOCK_ROW / LANES
};
static float lstm_weights[LSTM_UNITS * GATES * LSTM_UNITS] __attribute__((aligned(64))),
    lstm_fed[LSTM_STEPS * GATES * LSTM_UNITS] __attribute__((aligned(64)));

static void pack_lstm(const float *u)
{
    for (int block = 0; block < UNIT_BLOCKS; block++)
        for (int k = 0; k < LSTM_UNITS; k++)
            for (int gate = 0; gate < GATES; gate++)
                memcpy(lstm_weights + (block * LSTM_UNITS + k) * BLOCK_ROW + gate * UNIT_BLOCK,
                       u + (k * GATES + gate) * LSTM_UNITS + block * UNIT_BLOCK, UNIT_BLOCK * sizeof *u);
}

static void lstm_block(float *next, float *c, const float *h, const float *fed, int block)
{
    const float *weights = lstm_weights + block * LSTM_UNITS * BLOCK_ROW;
    int first = block * UNIT_BLOCK;
    vec16 sums[GATE_VECTORS];
    for (int v = 0; v < GATE_VECTORS; v++) sums[v] = get(fed + v / 2 * LSTM_UNITS + first + v % 2 * LANES);
    for (int k = 0; k < LSTM_UNITS; k++)
#pragma GCC unroll 8
        for (int v = 0; v < GATE_VECTORS; v++)
            sums[v] += all(h[k]) * get(weights + k * BLOCK_ROW + v * LANES);
    for (int v = 0; v < 2; v++) {
        float *cell = c + first + v * LANES;
        put(cell, sigmoid_16(sums[2 + v]) * get(cell) + sigmoid_16(sums[v]) * tanh_16(sums[6 + v]));
        put(next + first + v * LANES, sigmoid_16(sums[4 + v]) * tanh_16(get(cell)));
    }
}

/* Waits until `all_of_them` have come, a little by itself, then with others going first. */
static void meet(int *come, int all_of_them)
{
    __atomic_add_fetch(come, 1, __ATOMIC_RELEASE);
    for (int tries = 0; __atomic_load_n(come, __ATOMIC_ACQUIRE) < all_of_them; tries++)
        if (tries > 2000) sched_yield();
}

void baseline_lstm(float *hs, const struct lstm_inputs *in)
{
    enum { WIDE = GATES * LSTM_UNITS };
    float c[LSTM_UNITS];
    int come = 0;
    memcpy(c, in->c, sizeof c);
    pack_lstm(in->u);
    for (int t = 0; t < LSTM_STEPS; t++) memcpy(lstm_fed + t * WIDE, in->b, WIDE * sizeof *in->b);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, LSTM_STEPS, WIDE, LSTM_UNITS, 1, in->xs,
                LSTM_UNITS, in->w, WIDE, 1, lstm_fed, WIDE);
#pragma omp parallel
    {
        int threads = omp_get_num_threads(), own = omp_get_thread_num();
        for (int t = 0; t < LSTM_STEPS; t++) {
            const float *h = t ? hs + (t - 1) * LSTM_UNITS : in->h;
            for (int block = own; block < UNIT_BLOCKS; block += threads)
                lstm_block(hs + t * LSTM_UNITS, c, h, lstm_fed + t * WIDE, block);
            meet(&come, threads * (t + 1));
        }
    }
}

/* ---- Viterbi: the best way into sixteen states at a time ---- */

void baseline_viterbi(float *last, const float *start, const float *moves, const float *seen)
{
    enum { BLOCKS = VITERBI_STATES / LANES };
    static int32_t back[VITERBI_STEPS][VITERBI_STATES] __attribute__((aligned(64)));
    static volatile int32_t path[VITERBI_STEPS];
    float score[VITERBI_STATES], next[VITERBI_STATES];
    memcpy(score, start, sizeof score);
    for (int t = 0; t < VITERBI_STEPS; t++) {
        vec16 best[BLOCKS];
        ivec16 at[BLOCKS] = { { 0 } };
        for (int j = 0; j < BLOCKS; j++) best[j] = all(-__builtin_inff());
        for (int i = 0; i < VITERBI_STATES; i++)
#pragma GCC unroll 4
            for (int j = 0; j < BLOCKS; j++) {
                vec16 way = all(score[i]) + get(moves + i * VITERBI_STATES + j * LANES);
                ivec16 wins = way > best[j];
                best[j] = choose(wins, way, best[j]);
                at[j] = (wins & ((ivec16){ 0 } + i)) | (~wins & at[j]);
            }
        for (int j = 0; j < BLOCKS; j++)
            put(next + j * LANES, best[j] + get(seen + t * VITERBI_STATES + j * LANES));
        memcpy(back[t], at, sizeof at);
        memcpy(score, next, sizeof score);
    }
    int state = 0;
    for (int i = 1; i < VITERBI_STATES; i++)
        if (score[i] > score[state]) state = i;
    for (int t = VITERBI_STEPS - 1; t >= 0; t--) path[t] = state, state = back[t][state];
    memcpy(last, score, sizeof score);
}

static inline vec16 root(vec16 v)
{
    for (int l = 0; l < LANES; l++) v[l] = __builtin_sqrtf(v[l]);
    return v;
}

/* Coordinates lie apart; of each pair one vector is made, r^-3 by a square root and a division. */
void baseline_nbody(float *out, const float *x0, const float *v0, const float *mass)
{
    float x[3][BODIES], v[3][BODIES];
    for (int k = 0; k < 3 * BODIES; k++) x[k % 3][k / 3] = x0[k], v[k % 3][k / 3] = v0[k];
    for (int t = 0; t < BODY_STEPS; t++) {
        for (int i = 0; i < BODIES; i++) {
            vec16 sum[3] = { { 0 }, { 0 }, { 0 } };
            for (int j = 0; j < BODIES; j += LANES) {
                vec16 d[3], r2 = all(0.01f);
                for (int k = 0; k < 3; k++) {
                    d[k] = get(x[k] + j) - all(x[k][i]);
                    r2 += d[k] * d[k];
                }
                vec16 pull = get(mass + j) / (r2 * root(r2));
                for (int k = 0; k < 3; k++) sum[k] += d[k] * pull;
            }
            for (int k = 0; k < 3; k++) v[k][i] += 0.001f * added_up(sum[k]);
        }
        for (int k = 0; k < 3 * BODIES; k++) x[k / BODIES][k % BODIES] += 0.001f * v[k / BODIES][k % BODIES];
    }
    for (int k = 0; k < 3 * BODIES; k++) out[k] = x[k % 3][k / 3];
}

/* ---- windows of 3 by 3: rows of sums in registers, over planes with an edge of zeros ---- */

enum {
    PLANE = PLANE_SIDE * PLANE_SIDE,
    EDGED_ROW = 96,
    EDGED = (PLANE_SIDE + 2) * EDGED_ROW,
    OUTS = 4,
    ROW = 64
};

static void with_edges(float *to, const float *x, int planes)
{
    memset(to, 0, (size_t)planes * EDGED * sizeof *to);
#pragma omp parallel for schedule(static)
    for (int c = 0; c < planes; c++)
        for (int i = 0; i < PLANE_SIDE; i++)
            memcpy(to + c * EDGED + (i + 1) * EDGED_ROW + 1, x + c * PLANE + i * PLANE_SIDE,
                   PLANE_SIDE * sizeof *to);
}

/* A row of `outs` results: x is the window of its first, w has `step` floats from one of them to the next. */
static inline __attribute__((always_inline)) void row_of_3x3(float *y, const float *x, const float *w,
                                                             int channels, int outs, int step)
{
    vec16 sums[OUTS][ROW / LANES] = { { { 0 } } };
    for (int c = 0; c < channels; c++)
        for (int tap = 0; tap < 9; tap++)
#pragma GCC unroll 4
            for (int l = 0; l < ROW / LANES; l++) {
                vec16 v = get(x + c * EDGED + tap / 3 * EDGED_ROW + tap % 3 + l * LANES);
#pragma GCC unroll 4
                for (int o = 0; o < outs; o++) sums[o][l] += v * all(w[o * step + c * 9 + tap]);
            }
    for (int o = 0; o < outs; o++) memcpy(y + o * PLANE, sums[o], PLANE_SIDE * sizeof *y);
}

void baseline_conv3x3(float *y, const float *x, const float *w)
{
    static float edged[LAYER_CHANNELS * EDGED];
    with_edges(edged, x, LAYER_CHANNELS);
#pragma omp parallel for schedule(static) collapse(2)
    for (int o = 0; o < LAYER_CHANNELS; o += OUTS)
        for (int i = 0; i < PLANE_SIDE; i++)
            row_of_3x3(y + o * PLANE + i * PLANE_SIDE, edged + i * EDGED_ROW, w + o * LAYER_CHANNELS * 9,
                       LAYER_CHANNELS, OUTS, LAYER_CHANNELS * 9);
}

void baseline_depthwise(float *y, const float *x, const float *w)
{
    static float edged[DEPTHWISE_CHANNELS * EDGED];
    with_edges(edged, x, DEPTHWISE_CHANNELS);
#pragma omp parallel for schedule(static)
    for (int c = 0; c < DEPTHWISE_CHANNELS; c++)
        for (int i = 0; i < PLANE_SIDE; i++)
            row_of_3x3(y + c * PLANE + i * PLANE_SIDE, edged + c * EDGED + i * EDGED_ROW, w + c * 9, 1, 1, 9);
}

void baseline_heat(float *y, const float *u, const float *w)
{
    enum { ROW_STEP = HEAT_SIDE + 2 * LANES, GRID = (HEAT_SIDE + 2) * ROW_STEP };
    static float grids[2][GRID]; /* what stands at the edges stays zero */
    for (int i = 0; i < HEAT_SIDE; i++)
        memcpy(grids[0] + (i + 1) * ROW_STEP + LANES, u + i * HEAT_SIDE, HEAT_SIDE * sizeof *u);
#pragma omp parallel
    for (int step = 0; step < HEAT_STEPS; step++) {
        const float *from = grids[step % 2];
        float *to = grids[1 - step % 2];
#pragma omp for schedule(static)
        for (int i = 1; i <= HEAT_SIDE; i++)
            for (int j = LANES; j < HEAT_SIDE + LANES; j += LANES) {
                vec16 sum = { 0 };
#pragma GCC unroll 9
                for (int tap = 0; tap < 9; tap++)
                    sum += get(from + (i + tap / 3 - 1) * ROW_STEP + j + tap % 3 - 1) * all(w[tap]);
                put(to + i * ROW_STEP + j, sum);
            }
    }
    for (int i = 0; i < HEAT_SIDE; i++)
        memcpy(y + i * HEAT_SIDE, grids[HEAT_STEPS % 2] + (i + 1) * ROW_STEP + LANES, HEAT_SIDE * sizeof *y);
}

/* ---- where values are computed, positions, powers, lanes ---- */

void baseline_argmax(float *places, const float *x)
{
#pragma omp parallel for schedule(static)
    for (int r = 0; r < PLACE_ROWS; r++) {
        const float *row = x + (size_t)r * PLACE_WIDTH;
        vec16 most = all(-__builtin_inff());
        ivec16 lane = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 }, at = lane;
        int i = 0, place = PLACE_WIDTH;
        for (; i + LANES <= PLACE_WIDTH; i += LANES) {
            vec16 v = get(row + i);
            ivec16 wins = v > most;
            most = choose(wins, v, most);
            at = (wins & (lane + i)) | (~wins & at);
        }
        float best = largest(most);
        for (int l = 0; l < LANES; l++)
            if (most[l] == best && at[l] < place) place = at[l];
        for (; i < PLACE_WIDTH; i++)
            if (row[i] > best) best = row[i], place = i;
        places[r] = (float)place;
    }
}

/* log of normal numbers: x = m 2^e with m around 1, log m from the series of atanh. */
static inline vec16 log_16(vec16 x)
{
    ivec16 bits = (ivec16)x - 0x3f3504f3, whole = bits >> 23;
    vec16 m = (vec16)((bits & 0x7fffff) + 0x3f3504f3), e = __builtin_convertvector(whole, vec16);
    vec16 s = (m - all(1.0f)) / (m + all(1.0f)), z = s * s;
    vec16 series = ((all(0.2447f) * z + all(0.285279f)) * z + all(0.4000096f)) * z + all(0.66666663f);
    return e * all(0.693147181f) + (s + s) + s * z * series;
}

void baseline_spread(float *y, const float *raw, const float *a, const float *b)
{
#pragma omp parallel for schedule(static)
    for (int r = 0; r < SPREAD_ROWS; r++) {
        float dt[SPREAD_WIDTH];
        for (int i = 0; i < SPREAD_WIDTH; i += LANES)
            put(dt + i, log_16(expm1_16(get(raw + r * SPREAD_WIDTH + i)) + all(2.0f)));
        float *to = y + (size_t)r * SPREAD_WIDTH * SPREAD_STATES;
        for (int i = 0; i < SPREAD_WIDTH; i++)
            for (int k = 0; k < SPREAD_STATES; k++)
                to[i * SPREAD_STATES + k] = dt[i] * a[i * SPREAD_STATES + k] * b[r * SPREAD_STATES + k];
    }
}

/* The cube root: a third of the exponent, and two of Halley's steps. */
void baseline_powers(float *y, const float *x)
{
#pragma omp parallel for schedule(static)
    for (int i = 0; i < POWERS; i += LANES) {
        vec16 v = get(x + i);
        vec16 third = (vec16)(__builtin_convertvector(__builtin_convertvector((ivec16)v, vec16) / all(3.0f),
                                                      ivec16) +
                              0x2a5119f2);
        for (int k = 0; k < 2; k++) {
            vec16 cube = third * third * third;
            third = third * (cube + v + v) / (cube + cube + v);
        }
        put(y + i, all(1.0f) / (v * root(v)) + third);
    }
}

float baseline_single(const float *h, const float *xs)
{
    float c = h[0];
    for (int t = 0; t < SINGLE_STEPS; t++) c = 0.9f * c + xs[t];
    return c;
}

float baseline_mean_field(const float *h)
{
    vec16 x[FIELD / LANES];
    for (int k = 0; k < FIELD / LANES; k++) x[k] = get(h + k * LANES);
    for (int t = 0; t <= FIELD_STEPS; t++) {
        vec16 sum = x[0] + x[1];
        float total = 0;
        for (int l = 0; l < LANES; l++) total += sum[l];
        if (t == FIELD_STEPS) return total;
        for (int k = 0; k < FIELD / LANES; k++) x[k] += trig_16(all(total / FIELD) - x[k], 0);
    }
    return 0;
}

float baseline_branches(const float *h)
{
    float rows[2][CARRY_ROW + 2] = { { 0 } };
    memcpy(rows[0] + 1, h, CARRY_LEAVES * sizeof *h);
    close_ring(rows[0]);
    for (int t = 0; t < CARRY_STEPS; t++) {
        float *next = rows[(t + 1) & 1];
        const float *row = rows[t & 1];
        for (int i = 0; i < 64; i += LANES) {
            vec16 c = get(row + 1 + i), after = get(row + 2 + i);
            put(next + 1 + i, t & 1 ? tanh_16(c - after) : trig_16(c * get(row + i) + after, 0));
        }
        close_ring(next);
    }
    return ring_sum(rows[CARRY_STEPS & 1]);
}

/* Vectors of lanes, each until its last lane ends. */
void baseline_skew(float *last, const float *few)
{
    for (int i = 0; i < SKEW_LANES; i += LANES) {
        vec16 x = get(few + i), rate = all(0.5f);
        if (i <= 300 && 300 < i + LANES) x[300 - i] = 1e30f, rate[300 - i] = 0.87f;
        for (;;) {
            ivec16 on = x > all(1.0f);
            int any = 0;
            for (int l = 0; l < LANES; l++) any |= on[l];
            if (!any) break;
            x = choose(on, x * rate, x);
        }
        put(last + i, x);
    }
}
