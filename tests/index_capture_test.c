/* Indexing, cumulative and sorting calls of the C header: promotion and broadcasting of indices and updates,
 * sizes bound by nonzero, and what must fail. Each program is captured and run by every back end and eagerly
 * (captured.h). */
#include "captured.h"

BODY(gathered)
{
    UNUSED;
    hop_val pair[2] = { in[1], hop_slice(in[2], "new, :") }, swapped[2] = { in[2], hop_int(1) };
    out[0] = hop_gather(in[0], (hop_val[]){ hop_slice(in[1], ":, 0"), in[2] }, 2,
                        NULL);                                       /* i32 and u32 indices, clamped */
    out[1] = hop_gather(in[0], pair, 2, NULL);                       /* [2, 1] and [1, 2] */
    out[2] = hop_gather(in[0], swapped, 2, "-1, 0");                 /* a number is an index too */
    out[3] = hop_take_along(in[0], in[1], 1);                        /* [2, 1] positions */
    out[4] = hop_take_along(in[0], hop_slice(in[2], "new, 0:1"), 1); /* the same position for both rows */
    return 0;
}
BODY(scattered)
{
    UNUSED;
    hop_val i = in[1];
    out[0] = hop_scatter_set(in[0], i, in[2], 0);
    out[1] = hop_scatter_mul(in[0], i, hop_int(2), 0);
    out[2] = hop_scatter_min(in[0], i, in[2], 0);
    out[3] = hop_scatter_max(in[0], i, hop_scalar(2.5), 0);
    out[4] = hop_scatter(hop_zeros("i32[2, 3]"), (hop_val[]){ i, hop_int(1) }, 2, "1, 0", hop_int(1),
                         "add"); /* duplicates add up in row 1 */
    out[5] = hop_scatter(hop_zeros("f32[2, 3]"), (hop_val[]){ i }, 1, "1", in[2],
                         "set"); /* one row for both rows */
    return 0;
}
BODY(running)
{
    UNUSED;
    out[0] = hop_cumsum(in[0], -1, 0);
    out[1] = hop_cumprod(in[0], 0, 1);
    out[2] = hop_cummax(in[0], 1, 0);
    out[3] = hop_cumsum(hop_gt(in[0], hop_int(1)), 1, 0); /* bool as i64 */
    out[4] = hop_recurrence(hop_scalar(0.5), in[0], 1, 0);
    out[5] = hop_logcumsumexp(hop_zeros("i32[2]"), 0, 1); /* integers as f32 */
    return 0;
}
BODY(ordered)
{
    UNUSED;
    out[0] = hop_sort(in[0], 0, 0);
    out[1] = hop_sort(in[0], -1, 1);
    out[2] = hop_argsort(in[0], 0, 0);
    hop_top_k(&out[3], in[0], "2", 0);
    out[5] = hop_searchsorted(out[0], hop_int(2), 0); /* a number takes the dtype of the line */
    return 0;
}
BODY(places)
{
    UNUSED;
    hop_val at[2], some[2];
    hop_nonzero(at, in[0]);
    out[0] = at[0];
    out[1] = at[1];
    out[2] = hop_gather(in[0], at, 2, NULL);
    hop_nonzero_sized(some, in[0], "4", 9);
    out[3] = some[1];
    out[4] = hop_scatter_add(hop_zeros("f32[3]"), some[1], hop_int(1), 0); /* 9 is dropped */
    return 0;
}

static const struct program programs[] = {
    { "gathers",
      "x: f32[2, 3], i: i32[2, 1], j: u32[2]",
      3,
      5,
      gathered,
      { "f32[2, 3]", "i32[2, 1]", "u32[2]" },
      { { 1, 2, 3, 4, 5, 6 }, { 1, -4 }, { 2, 9 } },
      { "f32[2]", "f32[2, 2]", "f32[2]", "f32[2, 1]", "f32[2, 1]" },
      { { 6, 3 }, { 6, 6, 3, 3 }, { 6, 6 }, { 2, 4 }, { 3, 6 } } },
    { "scatters",
      "x: f32[3], i: u32[3], u: f64[3]",
      3,
      6,
      scattered,
      { "f32[3]", "u32[3]", "f64[3]" },
      { { 1, 2, 3 }, { 2, 2, 7 }, { 5, -6, 100 } },
      { "f32[3]", "f32[3]", "f32[3]", "f32[3]", "i32[2, 3]", "f32[2, 3]" },
      { { 1, 2, -6 },
        { 1, 2, 12 },
        { 1, 2, -6 },
        { 1, 2, 3 },
        { 0, 0, 0, 0, 0, 2 },
        { 0, 0, -6, 0, 0, -6 } } },
    { "running values",
      "x: f32[2, 3]",
      1,
      6,
      running,
      { "f32[2, 3]" },
      { { 1, 2, 0, 4, 3, 6 } },
      { "f32[2, 3]", "f32[2, 3]", "f32[2, 3]", "i64[2, 3]", "f32[2, 3]", "f32[2]" },
      { { 1, 3, 3, 4, 7, 13 },
        { 4, 6, 0, 4, 3, 6 },
        { 1, 2, 2, 4, 4, 6 },
        { 0, 1, 1, 1, 2, 3 },
        { 1, 2.5, 1.25, 4, 5, 8.5 },
        { 0.6931471805599453, 0 } } },
    { "order",
      "x: f32[5]",
      1,
      6,
      ordered,
      { "f32[5]" },
      { { 3, 1, NAN, 2, 1 } },
      { "f32[5]", "f32[5]", "i64[5]", "f32[2]", "i64[2]", "i64[]" },
      { { 1, 1, 2, 3, NAN }, { NAN, 3, 2, 1, 1 }, { 1, 4, 3, 0, 2 }, { NAN, 3 }, { 2, 0 }, { 2 } } },
    { "places",
      "x: f32[2, 3]",
      1,
      5,
      places,
      { "f32[2, 3]" },
      { { 0, 7, 0, 8, 0, 9 } },
      { "i64[3]", "i64[3]", "f32[3]", "i64[4]", "f32[3]" },
      { { 0, 1, 1 }, { 1, 0, 2 }, { 7, 8, 9 }, { 1, 0, 2, 9 }, { 1, 1, 1 } } },
};

/* ---- what must fail ---- */

BODY(no_mode) { return UNUSED, out[0] = hop_scatter(in[0], &in[1], 1, NULL, in[0], "sum"), 0; }
BODY(too_many_axes) { return UNUSED, out[0] = hop_gather(in[0], &in[1], 1, "0, 1"), 0; }
BODY(too_many_indices)
{
    return UNUSED, out[0] = hop_gather(in[0], (hop_val[]){ in[1], in[1], in[1] }, 3, NULL), 0;
}
BODY(real_indices) { return UNUSED, out[0] = hop_take(in[0], in[0], 0), 0; }
BODY(no_places) { return UNUSED, hop_nonzero(out, hop_scalar(1)), 0; }
BODY(k_too_large)
{
    hop_val two[2];
    return UNUSED, hop_top_k(two, in[0], "5", 0), out[0] = two[0], 0;
}
BODY(bad_axis) { return UNUSED, out[0] = hop_cumsum(in[0], 2, 0), 0; }

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
    refuse("a mode that is none", no_mode, "expected add, set, mul, min or max, found \"sum\"");
    refuse("axes without indices", too_many_axes, "the axes \"0, 1\" are 2, the index arrays 1");
    refuse("indices without axes", too_many_indices, "3 index arrays for f32[2, 3]");
    refuse("indices that are no integers", real_indices, "expected integers");
    refuse("places of a scalar", no_places, "expected an array with at least one dim");
    refuse("more than there are", k_too_large, "expected at most 2, found 5");
    refuse("an axis too many", bad_axis, "axis");
    return tests_end();
}
