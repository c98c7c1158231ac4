/* Trains the network of rnn.hop with code that hop emitted, and without hop: this file, rnn.c and rnn.h are
 * all there is.
 *
 *   hop emit c examples/emitted/rnn.hop --grad --value --wrt w,u -o rnn.c
 *   cc -std=c99 -O2 -ffp-contract=off -I. examples/emitted/main.c rnn.c -lm -o rnn
 *   ./rnn */
#include "rnn.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 40, STATE = 8, INPUT = 4 };

static float noise(unsigned *state) /* in -0.5..0.5 */
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 16777216.0f - 0.5f;
}

static void fill(float *x, int n, unsigned *state)
{
    for (int i = 0; i < n; i++) x[i] = noise(state);
}

int main(void)
{
    static float h0[STATE], xs[STEPS * INPUT], w[STATE * STATE], u[INPUT * STATE], goal[STATE],
        d_w[STATE * STATE], d_u[INPUT * STATE];
    unsigned state = 1;
    float loss = 0, first = 0;
    void *workspace = malloc(loss_grad_workspace(STEPS) + 1);
    if (!workspace) return 1;
    fill(xs, STEPS * INPUT, &state);
    fill(w, STATE * STATE, &state);
    fill(u, INPUT * STATE, &state);
    fill(goal, STATE, &state);
    for (int epoch = 0; epoch < 200; epoch++) {
        int status = loss_grad(STEPS, h0, xs, w, u, goal, &loss, d_w, d_u, workspace);
        if (status != HOP_C_OK) {
            fprintf(stderr, "status %d\n", status);
            free(workspace);
            return 1;
        }
        if (!epoch) first = loss;
        for (int i = 0; i < STATE * STATE; i++) w[i] -= 0.05f * d_w[i];
        for (int i = 0; i < INPUT * STATE; i++) u[i] -= 0.05f * d_u[i];
    }
    free(workspace);
    printf("loss %.6f, then %.6f\n", (double)first, (double)loss);
    return loss < first / 100 ? 0 : 1;
}
