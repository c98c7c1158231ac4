/* map, fori and associative_scan from C: what bodies close over, numbers as bounds and carries, axes, stacks,
 * assignments to arrays outside, also to values that become assignable in a body, keys. Each program is
 * captured and run by every back end and eagerly (captured.h); then gradients, and what must fail. */
#include "captured.h"

/* ---- map ---- */

BODY(scaled)
{
    const hop_val *w = env;
    out[0] = hop_mul(in[0], *w);
    out[1] = hop_sum(hop_mul(in[0], in[1]), "all");
    return 0;
}
BODY(maps)
{
    (void)env;
    hop_val w = in[1], some[2];
    hop_map(out, 2,
            &(hop_map_spec){ .body = scaled, .env = &w, .xs = (hop_val[]){ in[0], in[0] }, .n_xs = 2 });
    hop_map(some, 2,
            &(hop_map_spec){
                .body = scaled, .env = &w, .xs = (hop_val[]){ in[0], in[0] }, .n_xs = 2, .sequential = 1 });
    out[2] = some[0];
    out[3] = some[1];
    return 0;
}
BODY(difference) { return out[0] = hop_sub(*(const hop_val *)env, in[0]), 0; }
BODY(against_all)
{
    const hop_val *ys = env;
    hop_val x = in[0];
    return hop_map(out, 1, &(hop_map_spec){ .body = difference, .env = &x, .xs = ys, .n_xs = 1 });
}
BODY(table)
{
    (void)env;
    hop_val ys = in[1];
    return hop_map(out, 1, &(hop_map_spec){ .body = against_all, .env = &ys, .xs = in, .n_xs = 1 });
}
BODY(log_row)
{
    return hop_assign(*(const hop_val *)env, hop_add(*(const hop_val *)env, in[0])), out[0] = hop_neg(in[0]),
                                                                                     0;
}
BODY(map_that_writes)
{
    (void)env;
    hop_val total = hop_variable(hop_number("f32", 1));
    int status = hop_map(out, 1, &(hop_map_spec){ .body = log_row, .env = &total, .xs = in, .n_xs = 1 });
    out[1] = total;
    return status;
}
BODY(repeated) { return (void)in, out[0] = hop_mul(*(const hop_val *)env, hop_int(2)), 0; }
BODY(map_without_xs)
{
    return (void)env,
           hop_map(out, 1, &(hop_map_spec){ .body = repeated, .env = (void *)&in[0], .length = "3" });
}

/* ---- fori ---- */

BODY(power_step)
{
    const hop_val *w = env;
    out[0] = hop_mul(in[1], *w);
    out[1] = hop_add(in[2], in[0]);
    out[2] = hop_int(7); /* takes the dtype of the third carry */
    out[3] = in[1];
    return 0;
}
BODY(counts)
{
    (void)env;
    hop_val w = in[1], carry[3] = { in[0], hop_int(0), hop_number("i32", 1) };
    return hop_fori(out, 4,
                    &(hop_fori_spec){ .body = power_step,
                                      .env = &w,
                                      .from = hop_int(2),
                                      .to = in[2],
                                      .carry = carry,
                                      .n_carry = 3,
                                      .n_stack = 1,
                                      .schedule = NULL });
}
BODY(index_too) { return (void)env, out[0] = hop_add(in[1], in[0]), out[1] = in[1], 0; }
BODY(up_to_size)
{
    (void)env;
    hop_val some[2];
    hop_fori(some, 2,
             &(hop_fori_spec){ .body = index_too,
                               .from = hop_int(0),
                               .to = hop_size(in[0], 0),
                               .carry = (hop_val[]){ hop_number("i64", 0) },
                               .n_carry = 1,
                               .n_stack = 1 });
    hop_fori(out, 2,
             &(hop_fori_spec){ .body = index_too,
                               .from = hop_int(1),
                               .to = hop_sub(hop_size(in[0], 0), hop_int(1)),
                               .carry = some,
                               .n_carry = 1,
                               .n_stack = 1 });
    out[2] = hop_mul(in[0], hop_cast(some[1], "f32"));
    return 0;
}
BODY(add_index)
{
    return (void)out, hop_assign(*(const hop_val *)env, hop_add(*(const hop_val *)env, in[0])), 0;
}
BODY(fori_that_writes)
{
    (void)env;
    hop_val total = hop_variable(in[0]);
    int status = hop_fori(NULL, 0,
                          &(hop_fori_spec){
                              .body = add_index, .env = &total, .from = hop_int(0), .to = in[1] });
    out[0] = total;
    return status;
}
BODY(inner_power) { return out[0] = hop_mul(in[1], *(const hop_val *)env), 0; }
BODY(outer_power)
{
    return hop_fori(out, 1,
                    &(hop_fori_spec){ .body = inner_power,
                                      .env = env,
                                      .from = hop_int(0),
                                      .to = in[0],
                                      .carry = &in[1],
                                      .n_carry = 1,
                                      .schedule = "sqrt" });
}
BODY(triangle)
{
    (void)env;
    hop_val w = in[1];
    return hop_fori(out, 1,
                    &(hop_fori_spec){ .body = outer_power,
                                      .env = &w,
                                      .from = hop_int(0),
                                      .to = in[2],
                                      .carry = &in[0],
                                      .n_carry = 1,
                                      .schedule = "every 2" });
}

/* ---- associative_scan ---- */

BODY(affine)
{
    (void)env; /* (a, b) then (c, d) */
    out[0] = hop_mul(in[0], in[2]);
    out[1] = hop_add(hop_mul(in[2], in[1]), in[3]);
    return 0;
}
BODY(recurrence)
{
    (void)env;
    return hop_associative_scan(out, 2,
                                &(hop_associative_scan_spec){
                                    .combine = affine, .xs = in, .n_xs = 2, .key = affine });
}
BODY(weighted) { return out[0] = hop_add(hop_mul(in[0], *(const hop_val *)env), in[1]), 0; }
BODY(along_rows)
{
    (void)env;
    hop_val w = in[1];
    hop_associative_scan(&out[0], 1,
                         &(hop_associative_scan_spec){
                             .combine = weighted, .env = &w, .xs = in, .n_xs = 1, .axis = -1, .reverse = 1 });
    hop_associative_scan(&out[1], 1,
                         &(hop_associative_scan_spec){ .combine = weighted, .env = &w, .xs = in, .n_xs = 1 });
    return 0;
}
BODY(product) { return (void)env, out[0] = hop_matmul(in[0], in[1]), 0; }
BODY(matrices)
{
    return (void)env,
           hop_associative_scan(out, 1,
                                &(hop_associative_scan_spec){ .combine = product, .xs = in, .n_xs = 1 });
}

static const struct program programs[] = {
    { "maps",
      "xs: f32[T, 2], w: f32[2]",
      2,
      4,
      maps,
      { "f32[3, 2]", "f32[2]" },
      { { 1, 2, 3, 4, 5, 6 }, { 10, -1 } },
      { "f32[3, 2]", "f32[3]", "f32[3, 2]", "f32[3]" },
      { { 10, -2, 30, -4, 50, -6 }, { 5, 25, 61 }, { 10, -2, 30, -4, 50, -6 }, { 5, 25, 61 } } },
    { "a map over nothing",
      "xs: f32[T, 2], w: f32[2]",
      2,
      4,
      maps,
      { "f32[0, 2]", "f32[2]" },
      { { 0 }, { 10, -1 } },
      { "f32[0, 2]", "f32[0]", "f32[0, 2]", "f32[0]" },
      { { 0 } } },
    { "a map in a map",
      "x: f32[N], y: f32[M]",
      2,
      1,
      table,
      { "f32[2]", "f32[3]" },
      { { 1, 5 }, { 1, 2, 3 } },
      { "f32[2, 3]" },
      { { 0, -1, -2, 4, 3, 2 } } },
    { "a map that assigns",
      "xs: f32[T]",
      1,
      2,
      map_that_writes,
      { "f32[3]" },
      { { 1, 2, 3 } },
      { "f32[3]", "f32[]" },
      { { -1, -2, -3 }, { 7 } } },
    { "a map without arrays",
      "x: f32[2]",
      1,
      1,
      map_without_xs,
      { "f32[2]" },
      { { 1, 2 } },
      { "f32[3, 2]" },
      { { 2, 4, 2, 4, 2, 4 } } },
    { "a counted loop",
      "x: f32[2], w: f32[], n: i32[]",
      3,
      4,
      counts,
      { "f32[2]", "f32[]", "i32[]" },
      { { 1, 3 }, { 2 }, { 5 } },
      { "f32[2]", "i64[]", "i32[]", "f32[3, 2]" },
      { { 8, 24 }, { 9 }, { 7 }, { 1, 3, 2, 6, 4, 12 } } },
    { "a counted loop without trips",
      "x: f32[2], w: f32[], n: i32[]",
      3,
      4,
      counts,
      { "f32[2]", "f32[]", "i32[]" },
      { { 1, 3 }, { 2 }, { 1 } },
      { "f32[2]", "i64[]", "i32[]", "f32[0, 2]" },
      { { 1, 3 }, { 0 }, { 1 } } },
    { "a counted loop to a size",
      "xs: f32[T]",
      1,
      3,
      up_to_size,
      { "f32[4]" },
      { { 1, 2, 3, 4 } },
      { "i64[]", "i64[2]", "f32[4]" },
      { { 9 }, { 6, 7 }, { 0, 0, 3, 12 } } },
    { "a counted loop to no size",
      "xs: f32[T]",
      1,
      3,
      up_to_size,
      { "f32[0]" },
      { { 0 } },
      { "i64[]", "i64[0]", "f32[0]" },
      { { 0 } } },
    { "a counted loop that assigns",
      "x: i64[], n: i64[]",
      2,
      1,
      fori_that_writes,
      { "i64[]", "i64[]" },
      { { 100 }, { 5 } },
      { "i64[]" },
      { { 110 } } },
    { "a counted loop in another",
      "x: f64[], w: f64[], n: i64[]",
      3,
      1,
      triangle,
      { "f64[]", "f64[]", "i64[]" },
      { { 3 }, { 2 }, { 4 } },
      { "f64[]" },
      { { 192 } } },
    { "a recurrence",
      "a: f32[T], b: f32[T]",
      2,
      2,
      recurrence,
      { "f32[4]", "f32[4]" },
      { { 1, 2, 3, 0.5 }, { 1, 1, 1, 4 } },
      { "f32[4]", "f32[4]" },
      { { 1, 2, 6, 3 }, { 1, 3, 10, 9 } } },
    { "a recurrence of no row",
      "a: f32[T], b: f32[T]",
      2,
      2,
      recurrence,
      { "f32[0]", "f32[0]" },
      { { 0 } },
      { "f32[0]", "f32[0]" },
      { { 0 } } },
    { "along other axes",
      "x: f32[2, 3], w: f32[]",
      2,
      2,
      along_rows,
      { "f32[2, 3]", "f32[]" },
      { { 1, 2, 3, 4, 5, 6 }, { 10 } },
      { "f32[2, 3]", "f32[2, 3]" },
      { { 321, 32, 3, 654, 65, 6 }, { 1, 2, 3, 14, 25, 36 } } },
    { "products of matrices",
      "m: f64[T, 2, 2]",
      1,
      1,
      matrices,
      { "f64[3, 2, 2]" },
      { { 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0 } },
      { "f64[3, 2, 2]" },
      { { 1, 1, 1, 0, 2, 1, 1, 1, 3, 2, 2, 1 } } },
};

/* x·w^(n(n-1)/2) by w, n known only when running, and for each of several n at once. */
static void check_gradient(void)
{
    hop_fn *f = NULL, *g = NULL, *lanes = NULL;
    hop_tensor *in[3] = { 0 }, *out[1] = { 0 };
    CLAIM(!hop_capture(&f, "x: f64[], w: f64[], n: i64[]", 1, triangle, NULL) && !hop_grad(&g, f, "w"), "%s",
          hop_message());
    CLAIM(!hop_tensor_new(&in[0], "f64[]") && !hop_tensor_new(&in[1], "f64[]") &&
              !hop_tensor_new(&in[2], "i64[]"),
          "%s", hop_message());
    set(in[0], 0, 3), set(in[1], 0, 2), set(in[2], 0, 4);
    CLAIM(!hop_interpret(g, in, 3, out, 1) && get(out[0], 0) == 3 * 6 * 32,
          "the gradient of nested counted loops: %s", hop_message());
    free_all(out, 1);
    hop_tensor_free(in[2]), in[2] = NULL;
    CLAIM(!hop_vmap(&lanes, g, "n", NULL) && !hop_tensor_new(&in[2], "i64[3]"), "%s", hop_message());
    set(in[2], 0, 0), set(in[2], 1, 4), set(in[2], 2, 3);
    bool ran = lanes && !hop_interpret(lanes, in, 3, out, 1);
    CLAIM(ran && get(out[0], 0) == 0 && get(out[0], 1) == 576 && get(out[0], 2) == 36, "and of lanes: %s",
          hop_message());
    free_all(out, 1);
    free_all(in, 3);
    hop_fn_free(lanes);
    hop_fn_free(g);
    hop_fn_free(f);
}

/* Rows of a loop whose bounds are sizes have a known number. */
static void check_rows(void)
{
    static const char *const types[] = { "i64[]", "i64[max(0, T - 2)]", "f32[T]" };
    hop_fn *f = NULL;
    CLAIM(!hop_capture(&f, "xs: f32[T]", 3, up_to_size, NULL), "%s", hop_message());
    for (int k = 0; f && k < 3; k++)
        CLAIM(!strcmp(hop_fn_result_type(f, k), types[k]), "result %d: expected %s, found %s", k, types[k],
              hop_fn_result_type(f, k));
    hop_fn_free(f);
}

/* ---- what must fail ---- */

BODY(prints) { return (void)env, hop_print("{}", in, 1), out[0] = hop_add(in[0], in[1]), 0; }
BODY(combine_prints)
{
    return UNUSED,
           hop_associative_scan(out, 1,
                                &(hop_associative_scan_spec){ .combine = prints, .xs = in, .n_xs = 1 });
}
BODY(writes) { return hop_assign(*(const hop_val *)env, in[0]), out[0] = in[1], 0; }
BODY(combine_writes)
{
    (void)env;
    hop_val total = hop_variable(hop_slice(in[0], "0"));
    return hop_associative_scan(out, 1,
                                &(hop_associative_scan_spec){
                                    .combine = writes, .env = &total, .xs = in, .n_xs = 1 });
}
BODY(widens) { return (void)env, out[0] = hop_cast(in[0], "f64"), 0; }
BODY(combine_widens)
{
    return UNUSED,
           hop_associative_scan(out, 1,
                                &(hop_associative_scan_spec){ .combine = widens, .xs = in, .n_xs = 1 });
}
BODY(combine_axis)
{
    return UNUSED, hop_associative_scan(out, 1,
                                        &(hop_associative_scan_spec){
                                            .combine = product, .xs = in, .n_xs = 1, .axis = 2 });
}
BODY(combine_nothing)
{
    return UNUSED, hop_associative_scan(out, 0, &(hop_associative_scan_spec){ .combine = product }),
           out[0] = in[0], 0;
}
BODY(real_bound)
{
    return UNUSED, hop_fori(out, 1,
                            &(hop_fori_spec){ .body = inner_power,
                                              .from = hop_int(0),
                                              .to = hop_scalar(2.5),
                                              .carry = in,
                                              .n_carry = 1 });
}
BODY(array_bound)
{
    return UNUSED,
           hop_fori(out, 1,
                    &(hop_fori_spec){
                        .body = inner_power, .from = hop_int(0), .to = in[1], .carry = in, .n_carry = 1 });
}
BODY(room)
{
    return UNUSED, hop_fori(out, 1,
                            &(hop_fori_spec){ .body = inner_power,
                                              .from = hop_int(0),
                                              .to = hop_int(1),
                                              .carry = in,
                                              .n_carry = 1,
                                              .n_stack = 1 });
}
BODY(no_arrays) { return UNUSED, hop_map(out, 1, &(hop_map_spec){ .body = repeated }); }
BODY(map_of_scalar)
{
    return UNUSED,
           hop_map(out, 1, &(hop_map_spec){ .body = repeated, .xs = (hop_val[]){ hop_int(1) }, .n_xs = 1 });
}

/* ---- values that bodies inside assign to ---- */

struct held {
    hop_val y;
    uint64_t number; /* of the function's own body */
};
BODY(assign_held)
{
    struct held *h = env;
    CLAIM(hop_body_number() != h->number && hop_body_is_open(h->number), "the numbers of bodies");
    h->y = hop_assignable(h->y);
    hop_val first = hop_slice(h->y, "0");
    hop_add_to(h->y, hop_mul(in[1], first));
    out[0] = hop_add(in[0], first);
    return 0;
}
static int around(void *env, const hop_val *in, hop_val *out)
{
    struct held *h = env;
    hop_val now = hop_current(hop_assignable(h->y));
    CLAIM(!hop_failed() && hop_body_is_open(h->number), "the value of a capture around: %s", hop_message());
    out[0] = hop_add(in[0], hop_parameter_like(now));
    return 0;
}
BODY(assignables)
{
    (void)env;
    struct held h = { hop_add(in[0], hop_int(0)), hop_body_number() };
    hop_val zero = hop_number("f32", 0), same = hop_assignable(h.y);
    hop_fn *f = NULL;
    CLAIM(same.scope == h.y.scope && same.id == h.y.id, "a value is assignable as it is where it was made");
    hop_scan(out, 1,
             &(hop_scan_spec){
                 .step = assign_held, .env = &h, .carry = &zero, .n_carry = 1, .xs = &in[1], .n_xs = 1 });
    hop_capture(&f, "x: f32[2]", 1, around, &h);
    hop_val now = hop_current(h.y);
    hop_call_fn(&out[1], 1, f, (hop_val[]){ in[0], now }, 2);
    out[2] = h.y;
    hop_fn_free(f);
    return 0;
}
static void check_assignables(void)
{
    static const float want[3][2] = { { 9 }, { 25, 43 }, { 24, 33 } };
    float x[] = { 1, 10 }, xs[] = { 1, 2, 3 };
    hop_fn *f = NULL;
    hop_tensor *in[2] = { NULL, NULL }, *out[3] = { NULL, NULL, NULL };
    int failed = hop_capture(&f, "x: f32[2], xs: f32[T]", 3, assignables, NULL) ||
                 hop_tensor_borrow(&in[0], "f32[2]", x, NULL, NULL) ||
                 hop_tensor_borrow(&in[1], "f32[3]", xs, NULL, NULL) || hop_interpret(f, in, 2, out, 3);
    CLAIM(!failed, "values that bodies assign to: %s", hop_message());
    for (int i = 0; i < 3 && !failed; i++)
        CLAIM(!memcmp(hop_data(out[i]), want[i], i ? 8 : 4), "values that bodies assign to: result %d", i);
    CLAIM(!hop_body_number() && !hop_body_is_open(1), "there are no bodies outside of captures");
    for (int i = 0; i < 3; i++) hop_tensor_free(out[i]);
    hop_tensor_free(in[0]);
    hop_tensor_free(in[1]);
    hop_fn_free(f);
}

/* A parameter that comes late stands behind those that are mut, and is none. */
BODY(late_beside_mut)
{
    (void)env;
    hop_val late = hop_parameter("f32[]");
    hop_add_to(in[1], hop_mul(in[0], late));
    out[0] = hop_sum(in[1], "all");
    return 0;
}
static void check_late_parameters(void)
{
    float x[] = { 1, 2 }, y[] = { 10, 20 }, late[] = { 3 };
    hop_fn *f = NULL;
    hop_tensor *in[3] = { NULL, NULL, NULL }, *out[1] = { NULL };
    int failed = hop_capture(&f, "x: f32[2], y: mut f32[2]", 1, late_beside_mut, NULL) ||
                 hop_tensor_borrow(&in[0], "f32[2]", x, NULL, NULL) ||
                 hop_tensor_borrow(&in[1], "f32[2]", y, NULL, NULL) ||
                 hop_tensor_borrow(&in[2], "f32[]", late, NULL, NULL);
    CLAIM(!failed && hop_fn_results(f) == 1 && hop_fn_param_is_mut(f, 1) && !hop_fn_param_is_mut(f, 2),
          "a late parameter beside one that is mut: %s", hop_message());
    failed = failed || hop_interpret(f, in, 3, out, 1);
    CLAIM(!failed && y[0] == 13 && y[1] == 26 && *(const float *)hop_data(out[0]) == 39,
          "a late parameter beside one that is mut: %s, %g %g", hop_message(), y[0], y[1]);
    hop_tensor_free(out[0]);
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
    hop_fn_free(f);
}

static void refuse(const char *name, hop_body body, const char *message)
{
    hop_fn *f = NULL;
    int status = hop_capture(&f, "x: f32[2, 3], i: i64[2]", 1, body, NULL);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), message), "%s: status %d, expected '%s', found '%s'",
          name, status, message, hop_message());
    hop_fn_free(f);
}

int main(void)
{
    for (size_t i = 0; i < HOP_COUNT(programs); i++) check_program(&programs[i]);
    check_gradient();
    check_rows();
    check_assignables();
    check_late_parameters();
    refuse("a combine function that prints", combine_prints, "the combine function has effects beyond check");
    refuse("a combine function that assigns", combine_writes, "the combine function of associative_scan");
    refuse("a combine function of another type", combine_widens, "expected f32[3], found f64[3]");
    refuse("an axis too many", combine_axis, "axis");
    refuse("nothing to scan", combine_nothing, "expected one array at least");
    refuse("a bound that is no integer", real_bound, "'to': expected an integer");
    refuse("a bound that is an array", array_bound, "'to': expected an integer, found i64[2]");
    refuse("room for too few results", room, "expected room for 2 results");
    refuse("nothing to map over", no_arrays, "nothing is mapped over");
    refuse("a map over a scalar", map_of_scalar, "is a scalar");
    return tests_end();
}
