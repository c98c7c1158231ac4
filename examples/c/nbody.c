/* A probe is aimed with the gradient of a simulation: a sun, two planets and the probe attract each other,
 * the integrator chooses its own steps (a while_loop, so nobody knows how many), and Newton's method turns
 * the derivative of the last place of the probe by its first speed into the speed that brings it to a station
 * behind the outer planet on the day.
 *
 *     cc nbody.c $(pkg-config --cflags --libs hop) -lm && ./a.out
 */
#include <hop/hop.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BODIES = 4, SUN = 0, INNER = 1, OUTER = 2, PROBE = 3, PICTURES = 60 };
static const double masses[BODIES] = { 1, 2e-4, 1e-3, 1e-12 };
static const double end = 5.2; /* 2 pi is a year of a planet at distance 1 */
static const double tolerance = 1e-9;

/* ---- mechanics ---- */

/* Accelerations f64[4, 2] at places f64[4, 2]. */
static hop_val pull(hop_val x, hop_val mass)
{
    hop_val apart = hop_sub(hop_expand(x, 0), hop_expand(x, 1)); /* [i, j]: from body i to body j */
    hop_val same = hop_cast(hop_eq(hop_iota("i64[4, 4]", 0), hop_iota("i64[4, 4]", 1)), "f64");
    hop_val square = hop_add(hop_sum(hop_mul(apart, apart), "-1"),
                             same); /* a body does not pull itself: apart is 0 there */
    hop_val strength = hop_div(mass, hop_mul(square, hop_sqrt(square)));
    return hop_sum(hop_mul(hop_expand(strength, -1), apart), "1");
}

static int energy(void *env, const hop_val *in, hop_val *out) /* (state f64[2, 4, 2]) -> (energy) */
{
    hop_val mass = hop_constant("f64[4]", masses), x = hop_slice(in[0], "0"), v = hop_slice(in[0], "1");
    hop_val apart = hop_sub(hop_expand(x, 0), hop_expand(x, 1));
    hop_val upper = hop_lt(hop_iota("i64[4, 4]", 0), hop_iota("i64[4, 4]", 1));
    hop_val distance = hop_sqrt(
        hop_select(upper, hop_sum(hop_mul(apart, apart), "-1"), hop_number("f64", 1)));
    hop_val products = hop_mul(hop_expand(mass, 1), hop_expand(mass, 0));
    (void)env;
    hop_val potential = hop_sum(hop_select(upper, hop_div(products, distance), hop_number("f64", 0)), "all");
    out[0] = hop_sub(hop_mul(hop_scalar(0.5), hop_sum(hop_mul(mass, hop_sum(hop_mul(v, v), "-1")), "all")),
                     potential);
    return 0;
}

/* ---- the integrator: Bogacki and Shampine's third order with an error estimate ---- */

struct flight {
    hop_val mass, until;
};

static hop_val rate(const struct flight *f, hop_val state) /* d(x, v)/dt = (v, pull) */
{
    hop_val parts[2] = { hop_slice(state, "1"), pull(hop_slice(state, "0"), f->mass) };
    return hop_stack(parts, 2, 0);
}
static hop_val along(hop_val state, hop_val h, double a, hop_val k)
{
    return hop_add(state, hop_mul(hop_mul(h, hop_scalar(a)), k));
}

static int not_there(void *env, const hop_val *in, hop_val *out)
{
    const struct flight *f = env;
    out[0] = hop_lt(in[0], f->until);
    return 0;
}

static int advance(void *env, const hop_val *in, hop_val *out) /* (time, step, tries, state) */
{
    const struct flight *f = env;
    hop_val left = hop_sub(f->until, in[0]), h = hop_min(in[1], left), state = in[3];
    hop_val k1 = rate(f, state), k2 = rate(f, along(state, h, 0.5, k1)),
            k3 = rate(f, along(state, h, 0.75, k2));
    hop_val next = along(along(along(state, h, 2. / 9, k1), h, 1. / 3, k2), h, 4. / 9, k3);
    hop_val k4 = rate(f, next);
    hop_val wrong = along(along(along(hop_mul(h, hop_mul(hop_scalar(-5. / 72), k1)), h, 1. / 12, k2), h,
                                1. / 9, k3),
                          h, -1. / 8, k4);
    hop_val error = hop_div(hop_reduce_max(hop_abs(hop_stop_gradient(wrong)), "all"), hop_scalar(tolerance));
    hop_val good = hop_le(error, hop_scalar(1));
    hop_val growth = hop_clamp(hop_mul(hop_scalar(0.9),
                                       hop_pow(hop_max(error, hop_scalar(1e-12)), hop_scalar(-1. / 3))),
                               hop_scalar(0.2), hop_scalar(4));
    out[0] = hop_select(good, hop_select(hop_lt(in[1], left), hop_add(in[0], h), f->until), in[0]);
    out[1] = hop_mul(h, growth);
    out[2] = hop_add(in[2], hop_int(1));
    out[3] = hop_select(good, next, state);
    return 0;
}

/* (state, time) -> (state then, number of steps tried) */
static void fly(hop_val state, hop_val until, hop_val out[2])
{
    struct flight f = { hop_constant("f64[4]", masses), until };
    hop_val carry[4] = { hop_number("f64", 0), hop_number("f64", 0.01), hop_number("i64", 0), state }, r[4];
    hop_while(r, 4,
              &(hop_while_spec){
                  .cond = not_there, .body = advance, .env = &f, .carry = carry, .n_carry = 4 });
    out[0] = r[3];
    out[1] = r[2];
}

static hop_val launch(hop_val state, hop_val speed) /* the state with another speed of the probe */
{
    hop_val start[3] = { hop_number("i64", 1), hop_number("i64", PROBE), hop_number("i64", 0) };
    return hop_dynamic_update(state, hop_reshape(speed, "1, 1, 2"), start);
}

static int flight(void *env, const hop_val *in, hop_val *out) /* (speed, state) -> (last state, steps) */
{
    (void)env;
    fly(launch(in[1], in[0]), hop_number("f64", end), out);
    return 0;
}

static int miss(void *env, const hop_val *in, hop_val *out) /* (speed, state) -> (probe less station) */
{
    hop_val r[2];
    flight(env, in, r);
    out[0] = hop_sub(hop_slice(r[0], "0, 3"), hop_mul(hop_scalar(1.07), hop_slice(r[0], "0, 2")));
    return 0;
}

static int where(void *env, const hop_val *in, hop_val *out) /* (time, speed, state) -> (places then) */
{
    hop_val r[2];
    (void)env;
    fly(launch(in[2], in[1]), in[0], r);
    out[0] = hop_slice(r[0], "0");
    return 0;
}

/* ---- around it ---- */

static void draw(const double *places) /* [PICTURES][BODIES][2] */
{
    char map[25][62];
    for (int y = 0; y < 25; y++) memset(map[y], ' ', 61), map[y][61] = 0;
    for (int t = 0; t < PICTURES; t++)
        for (int b = 0; b < BODIES; b++) {
            int x = 30 + (int)lround(places[(t * BODIES + b) * 2] * 14),
                y = 12 - (int)lround(places[(t * BODIES + b) * 2 + 1] * 7);
            if (x < 0 || x > 60 || y < 0 || y > 24) continue;
            if (t == PICTURES - 1 || map[y][x] == ' ')
                map[y][x] = "@...@123"[b + (t == PICTURES - 1 ? 4 : 0)];
            if (b == PROBE && t < PICTURES - 1) map[y][x] = '*';
        }
    for (int y = 0; y < 25; y++) printf("  %s\n", map[y]);
}

int main(void)
{
    const double far = 1.6, angle = 1.9;
    const int64_t pictured = PICTURES;
    double state[2][BODIES][2] = { { { 0, 0 }, { 1, 0 }, { 0, 0 }, { 0.95, -0.25 } } };
    double speed[2] = { -0.2, 1.15 }, times[PICTURES], apart = 1, forth_and_back = 0, drift = 1;
    hop_fn *f = NULL, *path = NULL, *backward = NULL, *forward = NULL, *e = NULL, *w = NULL, *pictures = NULL;
    hop_exe *aim = NULL, *jacobian = NULL, *check = NULL, *run = NULL, *show = NULL;
    hop_tensor *in[3] = { NULL }, *out[2] = { NULL }, *off = NULL, *j = NULL, *again = NULL,
               *energies[2] = { NULL }, *places = NULL;
    int failed = 1;

    state[0][OUTER][0] = far * cos(angle), state[0][OUTER][1] = far * sin(angle);
    state[1][OUTER][0] = -sin(angle) / sqrt(far), state[1][OUTER][1] = cos(angle) / sqrt(far);
    state[1][INNER][1] = 1;
    for (int b = 1; b < BODIES; b++) /* the whole does not drift */
        for (int k = 0; k < 2; k++) state[1][SUN][k] -= masses[b] * state[1][b][k];
    for (int t = 0; t < PICTURES; t++) times[t] = end * t / (PICTURES - 1);
    if (hop_capture(&f, "speed: f64[2], state: f64[2, 4, 2]", 1, miss, NULL) ||
        hop_jacrev(&backward, f, "speed") || hop_jacfwd(&forward, f, "speed") ||
        hop_capture(&path, "speed: f64[2], state: f64[2, 4, 2]", 2, flight, NULL) ||
        hop_capture(&e, "state: f64[2, 4, 2]", 1, energy, NULL) ||
        hop_capture(&w, "time: f64[], speed: f64[2], state: f64[2, 4, 2]", 1, where, NULL) ||
        hop_vmap(&pictures, w, "time", NULL) || hop_compile(&aim, f, NULL) ||
        hop_compile(&jacobian, backward, NULL) || hop_compile(&check, forward, NULL) ||
        hop_compile(&run, path, NULL) || hop_compile(&show, pictures, NULL) ||
        hop_tensor_borrow_dims(&in[0], "f64", &pictured, 1, times, NULL, NULL) ||
        hop_tensor_borrow(&in[1], "f64[2]", speed, NULL, NULL) ||
        hop_tensor_borrow(&in[2], "f64[2, 4, 2]", state, NULL, NULL))
        goto done;

    printf("trip   speed of the probe        misses by\n");
    for (int trip = 0; trip < 20 && apart > 1e-9; trip++) {
        if (hop_run(aim, &in[1], 2, &off, 1) || hop_run(jacobian, &in[1], 2, &j, 1)) goto done;
        const double *d = hop_data(off), *a = hop_data(j);
        double det = a[0] * a[3] - a[1] * a[2],
               step[2] = { (a[3] * d[0] - a[1] * d[1]) / det, (a[0] * d[1] - a[2] * d[0]) / det };
        double size = hypot(step[0], step[1]),
               most = size > 0.1 ? 0.1 / size : 1; /* far away the derivative says little */
        apart = hypot(d[0], d[1]);
        printf("%4d  (%9.6f, %9.6f)  %13.3e\n", trip, speed[0], speed[1], apart);
        if (apart > 1e-9)
            for (int k = 0; k < 2; k++) speed[k] -= most * step[k];
    }
    if (hop_run(check, &in[1], 2, &again, 1) || hop_run(run, &in[1], 2, out, 2) ||
        hop_interpret(e, &in[2], 1, &energies[0], 1) || hop_interpret(e, out, 1, &energies[1], 1) ||
        hop_run(show, in, 3, &places, 1))
        goto done;
    for (int k = 0; k < 4; k++)
        forth_and_back = fmax(forth_and_back,
                              fabs(((double *)hop_data(j))[k] / ((double *)hop_data(again))[k] - 1));
    drift = fabs(*(double *)hop_data(energies[1]) / *(double *)hop_data(energies[0]) - 1);
    printf("\n%d steps of the integrator; energy changed by %.1e of itself\n",
           (int)*(int64_t *)hop_data(out[1]), drift);
    printf("derivatives by forward and by reverse mode differ by %.1e of themselves\n\n", forth_and_back);
    draw(hop_data(places));
    printf("  @ sun   1 inner planet   2 outer planet   3 probe and its way *\n");
    failed = !(apart < 1e-9) || !(drift < 1e-6) || !(forth_and_back < 1e-9);
    if (failed) fprintf(stderr, "the probe is lost\n");
done:
    if (failed && *hop_message()) fprintf(stderr, "%s\n", hop_message());
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
    for (int i = 0; i < 2; i++) hop_tensor_free(out[i]), hop_tensor_free(energies[i]);
    hop_tensor_free(off), hop_tensor_free(j), hop_tensor_free(again), hop_tensor_free(places);
    hop_exe_free(aim), hop_exe_free(jacobian), hop_exe_free(check), hop_exe_free(run), hop_exe_free(show);
    hop_fn_free(f), hop_fn_free(path), hop_fn_free(backward), hop_fn_free(forward), hop_fn_free(e),
        hop_fn_free(w), hop_fn_free(pictures);
    return failed;
}
