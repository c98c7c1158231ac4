/* The programs of capture_test.c: bodies written against the public header, first-order ones, higher-order
 * ones and such that assign, and the table that gives each its parameters, inputs and expected numbers. */
#ifndef HOP_TEST_CAPTURE_PROGRAMS_H
#define HOP_TEST_CAPTURE_PROGRAMS_H

#include "captured.h"

/* ---- first-order programs ---- */

BODY(promote)
{
    UNUSED;
    out[0] = hop_add(in[0], in[1]);           /* i32 + f32 -> f32 */
    out[1] = hop_mul(in[1], hop_scalar(2.5)); /* a number takes f32 */
    out[2] = hop_add(in[0], hop_int(1));      /* and i32 */
    out[3] = hop_add(in[0], hop_scalar(0.5)); /* a real number makes integers f32 */
    out[4] = hop_sqrt(in[2]);                 /* f32 of i64 */
    out[5] = hop_select(hop_gt(in[1], hop_int(1)), in[0], hop_int(-1));
    return 0;
}
BODY(promote_mixed)
{
    UNUSED;
    out[0] = hop_mul(in[0], in[2]); /* i64 and f16 -> f16 */
    out[1] = hop_add(in[1], in[2]); /* u64 and f16 -> f16 */
    out[2] = hop_mean(in[0], NULL); /* of integers, f32 */
    out[3] = hop_exp(hop_sub(in[1], in[1]));
    out[4] = hop_sub(hop_gt(in[0], hop_int(1)), hop_scalar(0.5)); /* bool with a real number */
    out[5] = hop_softmax(in[1], NULL);
    return 0;
}
/* A number beyond the dtype compares as what it is; each result counts where it holds, in base 4. */
static hop_val held(hop_val x, hop_val y)
{
    hop_val all[6] = { hop_lt(x, y), hop_le(x, y), hop_gt(x, y), hop_ge(x, y), hop_eq(x, y), hop_ne(x, y) },
            sum = hop_int(0);
    for (int i = 0; i < 6; i++)
        sum = hop_add(hop_mul(sum, hop_int(4)), hop_sum(hop_cast(all[i], "i64"), "all"));
    return sum;
}
BODY(compare_beside)
{
    UNUSED;
    out[0] = held(in[0], hop_int(300));
    out[1] = held(in[0], hop_int(-129));
    out[2] = held(hop_int(-1), in[1]);
    out[3] = held(in[1], hop_int(256));
    out[4] = held(in[2], hop_int(-1));
    out[5] = held(in[0], hop_int(-128));
    return 0;
}
BODY(promote_short)
{
    UNUSED;
    out[0] = hop_add(in[0], in[1]);            /* i8 + u8 -> i16 */
    out[1] = hop_mul(in[0], in[2]);            /* the float, whatever its size */
    out[2] = hop_add(in[2], hop_scalar(2.25)); /* a number takes f16 */
    out[3] = hop_mul(in[1], hop_int(200));     /* and u8, which wraps */
    out[4] = hop_mean(in[2], "all");
    out[5] = hop_sub(in[2], hop_cast(in[2], "bf16")); /* f16 - bf16 -> f32: what bf16 could not hold */
    return 0;
}
BODY(functions)
{
    UNUSED;
    hop_val odd = hop_eq(hop_mod(in[0], hop_int(2)), hop_int(1)); /* mod has the sign of 2 */
    out[0] = hop_floor_div(in[0], hop_int(2));                    /* stays i32 */
    out[1] = hop_hypot(in[0], hop_int(4));                        /* integers as f32 */
    out[2] = hop_isfinite(in[0]);
    out[3] = hop_popcount(hop_xor(odd, hop_bool(1))); /* bool is counted as i64 */
    out[4] = hop_fma(in[1], hop_scalar(2), in[0]);    /* f32 of f32 and i32 */
    out[5] = hop_add(hop_shift_left(hop_int(1), hop_abs(in[0])), hop_round(in[1]));
    return 0;
}
BODY(broadcast)
{
    UNUSED;
    out[0] = hop_add(in[0], in[1]);                /* [3] + [2, 1] */
    out[1] = hop_sub(hop_expand(in[0], 1), in[0]); /* [3, 1] - [3] */
    out[2] = hop_broadcast(in[0], "2, 3");
    out[3] = hop_clamp(in[0], hop_scalar(1.5), hop_scalar(2.5));
    return 0;
}
BODY(slices)
{
    UNUSED;
    out[0] = hop_slice(in[0], "1:3, ::2");
    out[1] = hop_slice(in[0], "-1");
    out[2] = hop_slice(in[0], "::-2, -2:");
    out[3] = hop_slice(in[0], "..., 1, new");
    out[4] = hop_slice(in[0], "3:1:-1, 0");
    out[5] = hop_index(in[0], in[1], 0);
    return 0;
}
BODY(reductions)
{
    UNUSED;
    out[0] = hop_sum(in[0], "all");
    out[1] = hop_sum(in[0], "-1");
    out[2] = hop_mean(in[0], "0");
    out[3] = hop_reduce_max(in[0], NULL);
    out[4] = hop_sum(hop_gt(in[0], hop_int(2)), "0, 1");
    out[5] = hop_argmax(in[0], 1);
    return 0;
}
BODY(shapes)
{
    UNUSED;
    hop_val parts[2] = { in[0], hop_neg(in[0]) };
    out[0] = hop_reshape(in[0], "-1");
    out[1] = hop_transpose(in[0]);
    out[2] = hop_concat(parts, 2, 0);
    out[3] = hop_stack(parts, 2, -1);
    out[4] = hop_pad(hop_slice(in[0], "0"), "1:2:1", hop_int(9));
    out[5] = hop_squeeze(hop_reverse(hop_slice(in[0], "0:1"), "1"), "0");
    return 0;
}
BODY(products)
{
    UNUSED;
    out[0] = hop_matmul(in[0], in[1]);
    out[1] = hop_dot(in[0], in[0], &(hop_dot_spec){ .contract_x = "1", .contract_y = "1" });
    out[2] = hop_matmul(hop_slice(in[0], "0"), in[1]);
    out[3] = hop_matmul(hop_stack(in, 1, 0), in[1]); /* [1, 2, 2] times [2, 1] */
    return 0;
}
BODY(indexing)
{
    UNUSED;
    hop_val one[1] = { hop_int(1) };
    out[0] = hop_take(in[0], in[1], 0);
    out[1] = hop_scatter_add(in[0], in[1], hop_int(10), 0);
    out[2] = hop_dynamic_slice(in[0], one, "2");
    out[3] = hop_dynamic_update(in[0], hop_full("f32[2]", hop_int(7)), one);
    return 0;
}
BODY(applied)
{
    UNUSED;
    hop_apply(&out[0], 1, "argmax {dim = 1}", in, 1);
    hop_apply(&out[1], 1, "full {value = 0.5, dims = [2, 1 + 1]}", NULL, 0);
    hop_apply(&out[2], 1, "slice {start = [0, 1], limit = [2, 3], step = [1, 1]}", in, 1);
    hop_apply(&out[3], 1, "scatter {mode = add, dims = [0]}",
              (hop_val[]){ hop_zeros("f32[2]"), hop_iota("i64[2]", 0), hop_ones("f32[2]") }, 3);
    return 0;
}
BODY(sizes)
{
    UNUSED;
    hop_let("M", hop_dim_mul(hop_dim_of(in[0], 0), hop_dim_const(2)));
    out[0] = hop_size(in[0], 0);
    out[1] = hop_full("i32[M, 2]", hop_int(3));
    out[2] = hop_reshape_dims(in[1], (hop_dim[]){ hop_dim_const(2), hop_dim_of(in[0], 0) }, 2);
    out[3] = hop_dim_value(hop_dim_text("M + 1"));
    return 0;
}
/* What is known of sizes: their texts, their order, and texts that name them by their numbers. */
BODY(sizes_told)
{
    UNUSED;
    hop_dim n = hop_dim_of(in[0], 0), half = hop_dim_floordiv(n, hop_dim_const(2)), two = hop_dim_const(2);
    hop_dim rest = hop_dim_sub(n, hop_dim_max(hop_dim_sub(n, two), hop_dim_const(0))); /* min(n, 2) */
    char text[80];
    bool eager = hop_dim_known(n) >= 0; /* then it is a number */
    bool shown = !strcmp(hop_dim_shown(half), eager ? "2" : "T // 2") && !strcmp(hop_dim_shown(two), "2");
    int at_most = HOP_DIM_LESS | HOP_DIM_EQUAL;
    bool ordered = hop_dim_order(hop_dim_add(n, two), n) == HOP_DIM_MORE &&
                   hop_dim_order(hop_dim_const(1), two) == HOP_DIM_LESS;
    if (!eager)
        ordered &= hop_dim_order(half, n) == at_most && hop_dim_order(rest, two) == at_most &&
                   hop_dim_order(hop_dim_mul(half, two), n) == at_most &&
                   hop_dim_order(n, two) == (at_most | HOP_DIM_MORE);
    snprintf(text, sizeof text, "i32[#%llu.%llu + 1]", (unsigned long long)half.scope,
             (unsigned long long)half.id);
    out[0] = hop_full(text, hop_int(shown));
    out[1] = hop_cast(hop_bool(ordered), "i32");
    return 0;
}
BODY(random_numbers)
{
    UNUSED;
    hop_val key = hop_key(42), u = hop_random_uniform(key, "f64[1000]");
    out[0] = hop_all(hop_and(hop_ge(u, hop_int(0)), hop_lt(u, hop_int(1))), "all");
    out[1] = hop_lt(hop_abs(hop_sub(hop_mean(u, "all"), hop_scalar(0.5))), hop_scalar(0.05));
    out[2] = hop_lt(hop_abs(hop_mean(hop_random_normal(key, "f32[1000]"), "0")), hop_scalar(0.15));
    return 0;
}

/* ---- higher-order programs ---- */

BODY(add_step) /* (sum; x) -> (sum; sum) with a constant of the scope around */
{
    const hop_val *scale = env;
    out[0] = hop_add(in[0], hop_mul(in[1], *scale));
    out[1] = hop_mul(out[0], hop_int(2));
    return 0;
}
BODY(scans)
{
    UNUSED;
    hop_val r[2], s[2];
    hop_val zero = hop_number("f32", 0);
    hop_scan(
        r, 2,
        &(hop_scan_spec){
            .step = add_step, .env = (void *)&in[1], .carry = &zero, .n_carry = 1, .xs = &in[0], .n_xs = 1 });
    hop_scan(s, 2,
             &(hop_scan_spec){ .step = add_step,
                               .env = (void *)&in[1],
                               .carry = &zero,
                               .n_carry = 1,
                               .xs = &in[0],
                               .n_xs = 1,
                               .reverse = 1,
                               .schedule = "sqrt" });
    out[0] = r[0];
    out[1] = r[1];
    out[2] = s[1];
    return 0;
}
BODY(below)
{
    out[0] = hop_lt(in[0], *(const hop_val *)env);
    return 0;
}
BODY(twice)
{
    (void)env;
    out[0] = hop_mul(in[0], hop_int(2));
    out[1] = hop_add(in[1], hop_int(1));
    out[2] = in[0];
    return 0;
}
BODY(whiles)
{
    UNUSED;
    hop_val carry[2] = { in[0], hop_number("i64", 0) }, r[4];
    hop_while(r, 4,
              &(hop_while_spec){ .cond = below,
                                 .body = twice,
                                 .env = (void *)&in[1],
                                 .carry = carry,
                                 .n_carry = 2,
                                 .n_stack = 1,
                                 .max_trips = "8" });
    memcpy(out, r, sizeof r);
    return 0;
}
BODY(plus_one)
{
    (void)env;
    out[0] = hop_add(in[0], hop_int(1));
    out[1] = hop_scalar(0.25);
    return 0;
}
BODY(times_outer)
{
    out[0] = hop_mul(in[0], *(const hop_val *)env);
    out[1] = hop_sum(in[0], "all");
    return 0;
}
BODY(branches)
{
    UNUSED;
    hop_val r[2], s[2], pred = hop_gt(hop_sum(in[0], "all"), hop_int(0));
    hop_cond(r, 2,
             &(hop_cond_spec){ .pred = pred,
                               .then = plus_one,
                               .otherwise = times_outer,
                               .env = (void *)&in[1],
                               .in = in,
                               .n_in = 1 });
    hop_body list[3] = { plus_one, times_outer, plus_one };
    hop_switch(s, 2,
               &(hop_switch_spec){ .index = hop_int(1),
                                   .branches = list,
                                   .n_branches = 3,
                                   .env = (void *)&in[1],
                                   .in = in,
                                   .n_in = 1,
                                   .recompute = 1 });
    out[0] = r[0], out[1] = r[1], out[2] = s[0], out[3] = s[1];
    return 0;
}
BODY(call_body)
{
    out[0] = hop_sin(hop_add(in[0], *(const hop_val *)env));
    return 0;
}
BODY(calls)
{
    UNUSED;
    hop_val mid;
    hop_call(&mid, 1, &(hop_call_spec){ .body = call_body, .env = (void *)&in[1], .in = in, .n_in = 1 });
    hop_call(&out[0], 1,
             &(hop_call_spec){
                 .body = call_body, .env = (void *)&in[1], .in = &mid, .n_in = 1, .recompute = 1 });
    return 0;
}

/* Lifting through several levels, sizes of the function in inner bodies, sizes that a body binds. */
struct deep {
    hop_val x, w;
};
BODY(deep_inner)
{
    const struct deep *d = env;
    out[0] = hop_add(in[0], hop_mul(in[1], hop_sum(hop_mul(d->x, d->w), "all")));
    return 0;
}
BODY(deep_outer)
{
    const struct deep *d = env;
    hop_val grown = hop_add(in[0], hop_zeros("f32[T]")); /* T is a size of the function */
    hop_val n = hop_sum(hop_cast(hop_iota("i64[T]", 0), "f32"), "all");
    return hop_scan(out, 1,
                    &(hop_scan_spec){ .step = deep_inner,
                                      .env = (void *)d,
                                      .carry = (hop_val[]){ hop_add(grown, n) },
                                      .n_carry = 1,
                                      .xs = &d->x,
                                      .n_xs = 1 });
}
BODY(deep)
{
    UNUSED;
    struct deep d = { in[0], in[1] };
    return hop_scan(out, 1,
                    &(hop_scan_spec){
                        .step = deep_outer, .env = &d, .carry = in, .n_carry = 1, .length = "2" });
}
BODY(bound_inner)
{
    const struct deep *d = env;
    hop_val i = hop_bind_dim(in[0], 0, 10),
            s = hop_sum(hop_cast(i, "f32"), "all"); /* binds a size, then lifts one */
    out[0] = hop_add(s, hop_sum(hop_mul(d->x, hop_full("f32[T]", hop_int(2))), "all"));
    return 0;
}
BODY(bound)
{
    UNUSED;
    struct deep d = { in[0], in[0] };
    return hop_call(out, 1, &(hop_call_spec){ .body = bound_inner, .env = &d, .in = &in[1], .n_in = 1 });
}

/* ---- assignable arrays ---- */

BODY(writes)
{
    UNUSED;
    hop_val a = hop_variable(in[0]), part = hop_view(a, "1:3"), item = hop_view_index(a, in[1], 0),
            odd = hop_view(hop_view(a, "::2"), "1:");
    hop_assign(part, hop_int(10));
    hop_add_to(item, hop_scalar(0.5));
    hop_val then = hop_current(a);
    hop_mul_to(odd, hop_int(3));
    hop_assign(hop_view(a, "::-3"), in[2]);
    out[0] = then;
    out[1] = a;
    out[2] = hop_add(part, hop_int(0));
    return 0;
}
BODY(shape_views)
{
    UNUSED;
    hop_val a = hop_variable(in[0]), flat = hop_view_reshape(a, "-1"), t = hop_view_transpose(a),
            row = hop_view(t, "1");                                    /* a: [2, 3] */
    hop_assign(row, hop_scalar(10));                                   /* column 1 of a */
    hop_add_to(hop_view(flat, "4:"), hop_int(100));                    /* the last two elements */
    hop_mul_to(hop_view_squeeze(hop_view(a, "0:1"), "0"), hop_int(2)); /* row 0 */
    hop_assign(hop_view_index(hop_view_permute(hop_view_expand(a, 0), "2, 0, 1"), in[1], 0),
               hop_slice(in[0], "new, :, 0")); /* column in[1] */
    out[0] = a;
    out[1] = hop_add(flat, hop_int(0));
    out[2] = hop_add(t, hop_int(0));
    out[3] = hop_sum(hop_view_broadcast(row, "4, 2"), "0");
    return 0;
}
BODY(masked)
{
    UNUSED;
    hop_val a = hop_variable(in[0]), part = hop_view(a, "1:");
    hop_assign_where(a, hop_gt(a, hop_int(2)), hop_int(-1));
    hop_assign_where(part, hop_eq(part, hop_int(-1)), in[1]);
    hop_update(hop_view(a, "0:2"), "max", (hop_val[]){ hop_full("f32[2]", hop_scalar(1.5)) }, 1);
    hop_update(hop_view(a, "3:"), "neg", NULL, 0);
    hop_pow_to(hop_view(a, "2"), hop_int(2));
    out[0] = a;
    return 0;
}
BODY(reshaped_in_step)
{
    const hop_val *a = env;
    hop_add_to(hop_view_reshape(hop_view_transpose(*a), "-1"), in[0]);
    out[0] = hop_add(in[0], hop_int(1));
    return 0;
}
BODY(shape_views_in_loops)
{
    UNUSED;
    hop_val a = hop_variable(in[0]), one = hop_number("f32", 1);
    hop_scan(&out[0], 1,
             &(hop_scan_spec){
                 .step = reshaped_in_step, .env = &a, .carry = &one, .n_carry = 1, .length = "3" });
    out[1] = a;
    return 0;
}
struct writer {
    hop_val a, b;
};
BODY(write_a)
{
    const struct writer *w = env;
    UNUSED;
    hop_add_to(w->a, hop_int(1));
    out[0] = hop_sum(w->a, "all");
    return 0;
}
BODY(write_b)
{
    const struct writer *w = env;
    UNUSED;
    hop_assign(w->b, hop_mul(w->a, hop_int(2)));
    out[0] = hop_scalar(-1);
    return 0;
}
BODY(write_branches)
{
    UNUSED;
    struct writer w = { hop_variable(in[0]), hop_variable(hop_zeros("f32[3]")) };
    hop_val r;
    hop_cond(&r, 1,
             &(hop_cond_spec){ .pred = hop_gt(hop_slice(in[0], "0"), hop_int(0)),
                               .then = write_a,
                               .otherwise = write_b,
                               .env = &w });
    out[0] = r, out[1] = w.a, out[2] = w.b;
    return 0;
}
BODY(write_step)
{
    const struct writer *w = env;
    hop_add_to(w->a, hop_mul(in[1], w->a));
    hop_assign(hop_view_index(w->b, in[0], 0), hop_sum(w->a, "all"));
    out[0] = hop_add(in[0], hop_int(1));
    out[1] = hop_sum(w->b, "all");
    return 0;
}
BODY(write_loops)
{
    UNUSED;
    struct writer w = { hop_variable(in[0]), hop_variable(hop_zeros("f32[2]")) };
    hop_val zero = hop_number("i64", 0), r[2];
    hop_scan(r, 2,
             &(hop_scan_spec){
                 .step = write_step, .env = &w, .carry = &zero, .n_carry = 1, .xs = &in[1], .n_xs = 1 });
    out[0] = r[1], out[1] = w.a, out[2] = w.b;
    return 0;
}
BODY(small)
{
    const struct writer *w = env;
    UNUSED;
    out[0] = hop_lt(hop_sum(w->a, "all"), hop_int(50));
    return 0;
}
BODY(grow)
{
    const struct writer *w = env;
    hop_mul_to(hop_view(w->a, "1:"), hop_int(2));
    out[0] = hop_add(in[0], hop_int(1));
    return 0;
}
BODY(write_while)
{
    UNUSED;
    struct writer w = { hop_variable(in[0]), in[0] };
    hop_val zero = hop_number("i32", 0);
    hop_while(&out[0], 1,
              &(hop_while_spec){ .cond = small, .body = grow, .env = &w, .carry = &zero, .n_carry = 1 });
    out[1] = w.a;
    return 0;
}
BODY(write_slice)
{
    (void)env;
    hop_mul_to(in[1], in[0]);
    out[0] = hop_add(in[0], hop_int(1));
    return 0;
}
BODY(write_slices)
{
    UNUSED;
    hop_val a = hop_variable(in[0]), one = hop_number("f32", 1);
    hop_scan(&out[0], 1,
             &(hop_scan_spec){ .step = write_slice, .carry = &one, .n_carry = 1, .xs = &a, .n_xs = 1 });
    out[1] = a;
    return 0;
}
BODY(write_outer_views) /* views made outside, assigned to inside */
{
    const struct writer *w = env;
    hop_add_to(w->a, in[0]);
    hop_assign(w->b, hop_sum(w->a, "all"));
    out[0] = hop_add(in[0], hop_int(1));
    out[1] = hop_add(w->b, hop_int(0));
    return 0;
}
BODY(few_trips)
{
    (void)env;
    out[0] = hop_lt(in[0], hop_int(3));
    return 0;
}
BODY(views_in_loops)
{
    UNUSED;
    hop_val a = hop_variable(in[0]), one = hop_number("f32", 1), r[3];
    struct writer w = { hop_view(a, "1:3"), hop_view_index(a, hop_int(0), 0) };
    hop_while(r, 3,
              &(hop_while_spec){ .cond = few_trips,
                                 .body = write_outer_views,
                                 .env = &w,
                                 .carry = &one,
                                 .n_carry = 1,
                                 .n_stack = 1 });
    out[0] = r[0], out[1] = r[1], out[2] = r[2], out[3] = a;
    return 0;
}
BODY(write_nested_inner)
{
    const struct writer *w = env;
    (void)in;
    hop_add_to(w->a, hop_int(1));
    (void)out;
    return 0;
}
BODY(write_nested_step)
{
    hop_cond(NULL, 0,
             &(hop_cond_spec){ .pred = hop_gt(in[0], hop_int(1)),
                               .then = write_nested_inner,
                               .otherwise = write_nested_inner,
                               .env = env });
    hop_call(NULL, 0, &(hop_call_spec){ .body = write_nested_inner, .env = env });
    out[0] = hop_add(in[0], hop_int(1));
    return 0;
}
BODY(write_nested)
{
    UNUSED;
    struct writer w = { hop_variable(in[0]), in[0] };
    hop_val zero = hop_number("i64", 0);
    hop_scan(&out[0], 1,
             &(hop_scan_spec){
                 .step = write_nested_step, .env = &w, .carry = &zero, .n_carry = 1, .length = "3" });
    out[1] = w.a;
    return 0;
}

BODY(inner_exp)
{
    UNUSED;
    out[0] = hop_exp(in[0]);
    return 0;
}
BODY(map_body)
{
    const hop_val *total = env;
    hop_add_to(*total, in[0]);
    hop_mul_to(in[1], hop_int(2));
    out[0] = hop_add(in[0], *total);
    return 0;
}
BODY(map_writes)
{
    UNUSED;
    hop_val total = hop_variable(hop_number("f32", 0)), rows = hop_variable(in[1]), xs[2] = { in[0], rows };
    hop_map(&out[0], 1, &(hop_map_spec){ .body = map_body, .env = &total, .xs = xs, .n_xs = 2 });
    out[1] = total, out[2] = rows;
    return 0;
}
BODY(never)
{
    UNUSED;
    out[0] = hop_bool(0);
    return 0;
}
BODY(endless)
{
    UNUSED;
    out[0] = hop_bool(1);
    return 0;
}
BODY(inner_trip)
{
    const struct writer *w = env;
    hop_add_to(w->a, hop_int(1));
    out[0] = in[0];
    return 0;
}
BODY(write_outer_views_of_none) /* never run for its results: an endless loop inside does no harm */
{
    const struct writer *w = env;
    hop_mul_to(hop_view(w->a, "0"), hop_int(2));
    hop_while(
        out, 1,
        &(hop_while_spec){
            .cond = endless, .body = inner_trip, .env = env, .carry = in, .n_carry = 1, .max_trips = "3" });
    out[1] = hop_cast(hop_mul(hop_expand(w->a, 1), hop_add(w->b, hop_sum(w->a, "all"))), "f64");
    return 0;
}
BODY(no_steps)
{
    UNUSED;
    hop_val w = hop_variable(in[1]), zero = hop_number("f32", 0), r[3], carry[1] = { zero };
    struct writer e = { w, in[1] };
    hop_scan(r, 2,
             &(hop_scan_spec){ .step = write_outer_views_of_none,
                               .env = &e,
                               .carry = &zero,
                               .n_carry = 1,
                               .xs = in,
                               .n_xs = 1 });
    out[0] = r[0], out[1] = r[1];
    hop_while(r, 3,
              &(hop_while_spec){ .cond = never,
                                 .body = write_outer_views_of_none,
                                 .env = &e,
                                 .carry = carry,
                                 .n_carry = 1,
                                 .n_stack = 1 });
    out[2] = r[1], out[3] = r[2];
    hop_while(r, 3,
              &(hop_while_spec){ .cond = never,
                                 .body = write_outer_views_of_none,
                                 .env = &e,
                                 .carry = carry,
                                 .n_carry = 1,
                                 .n_stack = 1,
                                 .max_trips = "2" });
    out[4] = r[2], out[5] = w;
    return 0;
}

static const struct program programs[] = {
    { "writes in a map",
      "xs: f32[T], rows: f32[T]",
      2,
      3,
      map_writes,
      { "f32[3]", "f32[3]" },
      { { 1, 2, 3 }, { 1, 2, 3 } },
      { "f32[3]", "f32[]", "f32[3]" },
      { { 2, 5, 9 }, { 6 }, { 2, 4, 6 } } },
    { "loops without steps",
      "xs: f32[T], w: f32[2]",
      2,
      6,
      no_steps,
      { "f32[0]", "f32[2]" },
      { { 0 }, { 1, 2 } },
      { "f32[]", "f64[0, 2, 2]", "i64[]", "f64[0, 2, 2]", "f64[2, 2, 2]", "f32[2]" },
      { { 0 }, { 0 }, { 0 }, { 0 }, { 0 }, { 1, 2 } } },
    { "promotion",
      "a: i32[2], b: f32[2], c: i64[2]",
      3,
      6,
      promote,
      { "i32[2]", "f32[2]", "i64[2]" },
      { { 1, 2 }, { 0.5, 1.5 }, { 4, 9 } },
      { "f32[2]", "f32[2]", "i32[2]", "f32[2]", "f32[2]", "i32[2]" },
      { { 1.5, 3.5 }, { 1.25, 3.75 }, { 2, 3 }, { 1.5, 2.5 }, { 2, 3 }, { -1, 2 } } },
    { "promotion of mixed kinds",
      "a: i64[2], b: u64[2], c: f16[2]",
      3,
      6,
      promote_mixed,
      { "i64[2]", "u64[2]", "f16[2]" },
      { { 1, 2 }, { 3, 3 }, { 0.5, 1.5 } },
      { "f16[2]", "f16[2]", "f32[]", "f32[2]", "f32[2]", "f32[2]" },
      { { 0.5, 3 }, { 3.5, 4.5 }, { 1.5 }, { 1, 1 }, { -0.5, 0.5 }, { 0.5, 0.5 } } },
    { "numbers beyond a dtype compare",
      "a: i8[2], b: u8[2], c: u64[2]",
      3,
      6,
      compare_beside,
      { "i8[2]", "u8[2]", "u64[2]" },
      { { -128, 127 }, { 0, 255 }, { 0, 7 } },
      { "i64[]", "i64[]", "i64[]", "i64[]", "i64[]", "i64[]" },
      { { 2562 }, { 162 }, { 2562 }, { 2562 }, { 162 }, { 357 } } },
    { "promotion of short dtypes",
      "a: i8[2], b: u8[2], c: f16[2]",
      3,
      6,
      promote_short,
      { "i8[2]", "u8[2]", "f16[2]" },
      { { -100, 7 }, { 250, 3 }, { 0.5, 1.501953125 } },
      { "i16[2]", "f16[2]", "f16[2]", "u8[2]", "f16[]", "f32[2]" },
      { { 150, 10 },
        { -50, 10.515625 },
        { 2.75, 3.751953125 },
        { 80, 88 },
        { 1.0009765625 },
        { 0, 0.001953125 } } },
    { "functions",
      "a: i32[2], b: f32[2]",
      2,
      6,
      functions,
      { "i32[2]", "f32[2]" },
      { { -3, 3 }, { 0.5, 1.5 } },
      { "i32[2]", "f32[2]", "bool[2]", "i64[2]", "f32[2]", "f32[2]" },
      { { -2, 1 }, { 5, 5 }, { 1, 1 }, { 0, 0 }, { -2, 6 }, { 8, 10 } } },
    { "broadcasting",
      "a: f32[3], b: f32[2, 1]",
      2,
      4,
      broadcast,
      { "f32[3]", "f32[2, 1]" },
      { { 1, 2, 3 }, { 10, 20 } },
      { "f32[2, 3]", "f32[3, 3]", "f32[2, 3]", "f32[3]" },
      { { 11, 12, 13, 21, 22, 23 },
        { 0, -1, -2, 1, 0, -1, 2, 1, 0 },
        { 1, 2, 3, 1, 2, 3 },
        { 1.5, 2, 2.5 } } },
    { "slices",
      "a: f32[4, 3], i: i64[]",
      2,
      6,
      slices,
      { "f32[4, 3]", "i64[]" },
      { { 0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32 }, { 2 } },
      { "f32[2, 2]", "f32[3]", "f32[2, 2]", "f32[4, 1]", "f32[2]", "f32[3]" },
      { { 10, 12, 20, 22 },
        { 30, 31, 32 },
        { 31, 32, 11, 12 },
        { 1, 11, 21, 31 },
        { 30, 20 },
        { 20, 21, 22 } } },
    { "slices of symbolic sizes",
      "a: f32[N, M], i: i64[]",
      2,
      6,
      slices,
      { "f32[4, 3]", "i64[]" },
      { { 0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32 }, { 2 } },
      { "f32[2, 2]", "f32[3]", "f32[2, 2]", "f32[4, 1]", "f32[2]", "f32[3]" },
      { { 10, 12, 20, 22 },
        { 30, 31, 32 },
        { 31, 32, 11, 12 },
        { 1, 11, 21, 31 },
        { 30, 20 },
        { 20, 21, 22 } } },
    { "reductions",
      "a: f32[2, N]",
      1,
      6,
      reductions,
      { "f32[2, 3]" },
      { { 1, 5, 3, 4, 2, 6 } },
      { "f32[]", "f32[2]", "f32[3]", "f32[]", "i64[]", "i64[2]" },
      { { 21 }, { 9, 12 }, { 2.5, 3.5, 4.5 }, { 6 }, { 4 }, { 1, 2 } } },
    { "shapes",
      "a: f32[2, 2]",
      1,
      6,
      shapes,
      { "f32[2, 2]" },
      { { 1, 2, 3, 4 } },
      { "f32[4]", "f32[2, 2]", "f32[4, 2]", "f32[2, 2, 2]", "f32[6]", "f32[2]" },
      { { 1, 2, 3, 4 },
        { 1, 3, 2, 4 },
        { 1, 2, 3, 4, -1, -2, -3, -4 },
        { 1, -1, 2, -2, 3, -3, 4, -4 },
        { 9, 1, 9, 2, 9, 9 },
        { 2, 1 } } },
    { "products",
      "a: f32[2, 2], b: f32[2, 1]",
      2,
      4,
      products,
      { "f32[2, 2]", "f32[2, 1]" },
      { { 1, 2, 3, 4 }, { 1, 10 } },
      { "f32[2, 1]", "f32[2, 2]", "f32[1]", "f32[1, 2, 1]" },
      { { 21, 43 }, { 5, 11, 11, 25 }, { 21 }, { 21, 43 } } },
    { "indexing",
      "a: f32[4], i: i32[3]",
      2,
      4,
      indexing,
      { "f32[4]", "i32[3]" },
      { { 1, 2, 3, 4 }, { 3, 0, 3 } },
      { "f32[3]", "f32[4]", "f32[2]", "f32[4]" },
      { { 4, 1, 4 }, { 11, 2, 3, 24 }, { 2, 3 }, { 1, 7, 7, 4 } } },
    { "operators by name",
      "a: f32[2, 3]",
      1,
      4,
      applied,
      { "f32[2, 3]" },
      { { 1, 5, 3, 4, 2, 6 } },
      { "i64[2]", "f32[2, 2]", "f32[2, 2]", "f32[2]" },
      { { 1, 2 }, { 0.5, 0.5, 0.5, 0.5 }, { 5, 3, 2, 6 }, { 1, 1 } } },
    { "sizes",
      "a: f32[T], b: f32[2*T]",
      2,
      4,
      sizes,
      { "f32[2]", "f32[4]" },
      { { 1, 2 }, { 1, 2, 3, 4 } },
      { "i64[]", "i32[4, 2]", "f32[2, 2]", "i64[]" },
      { { 2 }, { 3, 3, 3, 3, 3, 3, 3, 3 }, { 1, 2, 3, 4 }, { 5 } } },
    { "sizes told",
      "a: f32[T]",
      1,
      2,
      sizes_told,
      { "f32[5]" },
      { { 1, 2, 3, 4, 5 } },
      { "i32[3]", "i32[]" },
      { { 1, 1, 1 }, { 1 } } },
    { "random numbers",
      "",
      0,
      3,
      random_numbers,
      { 0 },
      { { 0 } },
      { "bool[]", "bool[]", "bool[]" },
      { { 1 }, { 1 }, { 1 } } },
    { "scan",
      "xs: f32[T], k: f32[]",
      2,
      3,
      scans,
      { "f32[3]", "f32[]" },
      { { 1, 2, 3 }, { 10 } },
      { "f32[]", "f32[3]", "f32[3]" },
      { { 60 }, { 20, 60, 120 }, { 120, 100, 60 } } },
    { "while",
      "x: f32[], most: f32[]",
      2,
      4,
      whiles,
      { "f32[]", "f32[]" },
      { { 1 }, { 10 } },
      { "f32[]", "i64[]", "i64[]", "f32[8]" },
      { { 16 }, { 4 }, { 4 }, { 1, 2, 4, 8, 0, 0, 0, 0 } } },
    { "branches",
      "x: f32[2], w: f32[2]",
      2,
      4,
      branches,
      { "f32[2]", "f32[2]" },
      { { 1, 2 }, { 3, 4 } },
      { "f32[2]", "f32[]", "f32[2]", "f32[]" },
      { { 2, 3 }, { 0.25 }, { 3, 8 }, { 3 } } },
    { "the other branch",
      "x: f32[2], w: f32[2]",
      2,
      4,
      branches,
      { "f32[2]", "f32[2]" },
      { { -1, -2 }, { 3, 4 } },
      { "f32[2]", "f32[]", "f32[2]", "f32[]" },
      { { -3, -8 }, { -3 }, { -3, -8 }, { -3 } } },
    { "calls",
      "x: f64[2], k: f64[]",
      2,
      1,
      calls,
      { "f64[2]", "f64[]" },
      { { 0, 1 }, { 0.5 } },
      { "f64[2]" },
      { { 0.830177245525354, 0.9973146594667816 } } },
    { "lifting through levels",
      "x: f32[T], w: f32[T]",
      2,
      1,
      deep,
      { "f32[2]", "f32[2]" },
      { { 1, 2 }, { 1, 1 } },
      { "f32[2]" },
      { { 21, 22 } } },
    { "a size bound inside",
      "x: f32[T], n: i64[]",
      2,
      1,
      bound,
      { "f32[2]", "i64[]" },
      { { 1, 2 }, { 4 } },
      { "f32[]" },
      { { 12 } } },
    { "views",
      "a: f32[6], i: i64[], b: f32[2]",
      3,
      3,
      writes,
      { "f32[6]", "i64[]", "f32[2]" },
      { { 0, 1, 2, 3, 4, 5 }, { 1 }, { 100, 200 } },
      { "f32[6]", "f32[6]", "f32[2]" },
      { { 0, 10.5, 10, 3, 4, 5 }, { 0, 10.5, 200, 3, 12, 100 }, { 10.5, 200 } } },
    { "views of other shapes",
      "a: f32[N, M], i: i64[]",
      2,
      4,
      shape_views,
      { "f32[2, 3]", "i64[]" },
      { { 0, 1, 2, 3, 4, 5 }, { 2 } },
      { "f32[2, 3]", "f32[6]", "f32[3, 2]", "f32[2]" },
      { { 0, 20, 0, 3, 110, 3 }, { 0, 20, 0, 3, 110, 3 }, { 0, 3, 20, 110, 0, 3 }, { 80, 440 } } },
    { "masks and updates",
      "a: f32[5], b: f32[]",
      2,
      1,
      masked,
      { "f32[5]", "f32[]" },
      { { 3, 1, 2, 5, 4 }, { 9 } },
      { "f32[5]" },
      { { 1.5, 1.5, 4, -9, -9 } } },
    { "views of other shapes in a loop",
      "a: f32[2, N]",
      1,
      2,
      shape_views_in_loops,
      { "f32[2, 2]" },
      { { 1, 2, 3, 4 } },
      { "f32[]", "f32[2, 2]" },
      { { 4 }, { 7, 8, 9, 10 } } },
    { "writes in a branch",
      "a: f32[3]",
      1,
      3,
      write_branches,
      { "f32[3]" },
      { { 1, 2, 3 } },
      { "f32[]", "f32[3]", "f32[3]" },
      { { 9 }, { 2, 3, 4 }, { 0, 0, 0 } } },
    { "writes in the other branch",
      "a: f32[3]",
      1,
      3,
      write_branches,
      { "f32[3]" },
      { { -1, 2, 3 } },
      { "f32[]", "f32[3]", "f32[3]" },
      { { -1 }, { -1, 2, 3 }, { -2, 4, 6 } } },
    { "writes in a scan",
      "a: f32[2], xs: f32[T]",
      2,
      3,
      write_loops,
      { "f32[2]", "f32[2]" },
      { { 1, 2 }, { 1, 2 } },
      { "f32[2]", "f32[2]", "f32[2]" },
      { { 6, 24 }, { 6, 12 }, { 6, 18 } } },
    { "writes in a while",
      "a: f32[3]",
      1,
      2,
      write_while,
      { "f32[3]" },
      { { 1, 2, 3 } },
      { "i32[]", "f32[3]" },
      { { 4 }, { 1, 32, 48 } } },
    { "writes to slices of xs",
      "a: f32[3, 2]",
      1,
      2,
      write_slices,
      { "f32[3, 2]" },
      { { 1, 1, 1, 1, 1, 1 } },
      { "f32[]", "f32[3, 2]" },
      { { 4 }, { 1, 1, 2, 2, 3, 3 } } },
    { "views made outside of loops",
      "a: f32[4]",
      1,
      4,
      views_in_loops,
      { "f32[4]" },
      { { 0, 1, 2, 3 } },
      { "f32[]", "i64[]", "f32[2]", "f32[4]" },
      { { 3 }, { 2 }, { 5, 9 }, { 9, 4, 5, 3 } } },
    { "writes from bodies in bodies",
      "a: f32[2]",
      1,
      2,
      write_nested,
      { "f32[2]" },
      { { 1, 2 } },
      { "i64[]", "f32[2]" },
      { { 3 }, { 7, 8 } } },
};

#endif
