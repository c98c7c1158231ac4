/* Composite operators and the calls that make them from C: what they give on every back end, what they refuse
 * and how, where their nodes say they were made; einsum against plain loops over random subscripts; random
 * draws against what their distribution says. */
#include "captured.h"
#include "ir/text.h"
#include "ops/scalar_c.h"

/* ---- programs ---- */

BODY(statistics)
{
    UNUSED;
    out[0] = hop_mean(in[0], "-1");
    out[1] = hop_var(in[0], "1", 1);
    out[2] = hop_std(in[0], NULL, 0);
    out[3] = hop_mean(in[1], "all"); /* i32: in f64 */
    out[4] = hop_prod(in[0], "0");
    out[5] = hop_prod(in[2], NULL); /* bool: in i64 */
    return 0;
}
BODY(soft)
{
    UNUSED;
    out[0] = hop_logsumexp(in[0], "1");
    out[1] = hop_softmax(in[0], "1");
    out[2] = hop_log_softmax(in[0], "-1");
    out[3] = hop_argmin(in[0], 1);
    out[4] = hop_logsumexp(in[1], NULL);
    return 0;
}
BODY(shapes)
{
    UNUSED;
    hop_val part[3];
    hop_split(part, 3, in[0], 1);
    out[0] = hop_sub(part[2], part[0]);
    hop_split_sizes(part, 2, in[0], 1, "1, T - 1");
    out[1] = part[1];
    out[2] = hop_tile(in[1], "2, 2");
    out[3] = hop_squeeze(hop_expand(hop_expand(in[1], 0), -1), NULL);
    out[4] = hop_stack((hop_val[]){ in[1], hop_int(7) }, 2, -1);
    out[5] = hop_flatten(hop_swap_axes(in[0], 0, -1));
    return 0;
}
BODY(rolls)
{
    UNUSED;
    out[0] = hop_roll(in[0], hop_int(1), 0);
    out[1] = hop_roll(in[0], hop_int(-7), -1);
    out[2] = hop_roll(in[0], in[1], 0);
    out[3] = hop_roll(in[2], hop_neg(in[1]), 1);
    out[4] = hop_move_axis(in[2], 0, -1);
    out[5] = hop_roll(in[0], hop_int(INT64_C(5000000000)), 0); /* a multiple of the size */
    return 0;
}
BODY(patterns)
{
    UNUSED;
    out[0] = hop_tril(in[0], 0);
    out[1] = hop_triu(in[0], 1);
    out[2] = hop_eye("i32[2, N]", -1);
    out[3] = hop_one_hot(in[1], "N", "f32");
    out[4] = hop_arange("f32[4]", hop_scalar(0.5), hop_int(-2));
    out[5] = hop_linspace("f64[N]", hop_int(-1), hop_int(2));
    return 0;
}
BODY(products)
{
    UNUSED;
    out[0] = hop_einsum("ij,jk", in, 2);
    out[1] = hop_einsum("ij,ij->", (hop_val[]){ in[0], in[0] }, 2);
    out[2] = hop_einsum("i,->i", (hop_val[]){ in[2], hop_int(2) }, 2);
    out[3] = hop_trace(in[0]);
    out[4] = hop_diagonal(in[1]);
    out[5] = hop_einsum("...j,j->...", (hop_val[]){ in[1], in[2] }, 2);
    return 0;
}
/* In dtypes of their own. Without one the sum of two i8 wraps around. */
BODY(chosen)
{
    UNUSED;
    out[0] = hop_matmul_as(in[0], in[1], "i32");
    out[1] = hop_dot(in[0], in[1], &(hop_dot_spec){ .contract_x = "0", .contract_y = "0", .dtype = "f64" });
    out[2] = hop_einsum_as("i,i,i->", (hop_val[]){ in[0], in[0], in[1] }, 3, "i64");
    out[3] = hop_sum_as(in[0], "all", "i16");
    out[4] = hop_prod_as(in[2], NULL, "u8");
    out[5] = hop_matmul_as(in[0], in[0], NULL);
    return 0;
}
BODY(chosen_steps)
{
    UNUSED;
    out[0] = hop_cumsum_as(in[0], 0, 0, "i32");
    out[1] = hop_cumprod_as(in[1], -1, 1, "f64");
    out[2] = hop_mean_as(in[0], "all", "f64");
    out[3] = hop_var_as(in[1], "all", 1, "f32");
    out[4] = hop_std_as(in[2], "0", 0, "f32");
    out[5] = hop_cumsum_as(in[2], 0, 0, NULL);
    return 0;
}
BODY(outer_vectors)
{
    UNUSED;
    out[0] = hop_outer(in[0], in[1]);
    out[1] = hop_ones_like(in[0]);
    return 0;
}
BODY(keys)
{
    UNUSED;
    hop_val two = hop_random_split(in[0], "2");
    out[0] = hop_random_split(in[0], "T");
    out[1] = hop_bernoulli(two, hop_int(1), "T");
    out[2] = hop_bernoulli(in[0], hop_int(0), "T, 2");
    out[3] = hop_randint(in[0], "i32[T]", hop_int(5), hop_int(6));
    out[4] = hop_randint(in[0], "i64[]", hop_int(9), hop_int(3)); /* nothing lies between: lo */
    return 0;
}

static const struct program programs[] = {
    { "statistics",
      "x: f32[2, T], i: i32[3], b: bool[2]",
      3,
      6,
      statistics,
      { "f32[2, 3]", "i32[3]", "bool[2]" },
      { { 1, 2, 3, 4, 6, 8 }, { 1, 2, 4 }, { 1, 0 } },
      { "f32[2]", "f32[2]", "f32[]", "f32[]", "f32[3]", "i64[]" },
      { { 2, 6 }, { 1, 4 }, { 2.3804761428476167 }, { 7.0 / 3 }, { 4, 12, 24 }, { 0 } } },
    { "soft",
      "x: f64[2, 2], z: f32[T]",
      2,
      5,
      soft,
      { "f64[2, 2]", "f32[2]" },
      { { 0, 0, 1000, 999 }, { -INFINITY, -INFINITY } },
      { "f64[2]", "f64[2, 2]", "f64[2, 2]", "i64[2]", "f32[]" },
      { { 0.6931471805599453, 1000.3132616875182 },
        { 0.5, 0.5, 0.7310585786300049, 0.2689414213699951 },
        { -0.6931471805599453, -0.6931471805599453, -0.31326168751822286, -1.3132616875182228 },
        { 0, 1 },
        { -INFINITY } } },
    { "shapes",
      "x: f32[2, T], y: i32[2]",
      2,
      6,
      shapes,
      { "f32[2, 3]", "i32[2]" },
      { { 1, 2, 4, 8, 16, 32 }, { 3, 5 } },
      { "f32[2, 1]", "f32[2, 2]", "i32[2, 4]", "i32[2]", "i32[2, 2]", "f32[6]" },
      { { 3, 24 },
        { 2, 4, 16, 32 },
        { 3, 5, 3, 5, 3, 5, 3, 5 },
        { 3, 5 },
        { 3, 7, 5, 7 },
        { 1, 8, 2, 16, 4, 32 } } },
    { "rolls",
      "x: f32[T], i: i32[], y: f32[2, N]",
      3,
      6,
      rolls,
      { "f32[5]", "i32[]", "f32[2, 3]" },
      { { 1, 2, 3, 4, 5 }, { 12 }, { 1, 2, 3, 4, 5, 6 } },
      { "f32[5]", "f32[5]", "f32[5]", "f32[2, 3]", "f32[3, 2]", "f32[5]" },
      { { 5, 1, 2, 3, 4 },
        { 3, 4, 5, 1, 2 },
        { 4, 5, 1, 2, 3 },
        { 1, 2, 3, 4, 5, 6 },
        { 1, 4, 2, 5, 3, 6 },
        { 1, 2, 3, 4, 5 } } },
    { "patterns",
      "x: f32[2, N], i: i64[2]",
      2,
      6,
      patterns,
      { "f32[2, 3]", "i64[2]" },
      { { 1, 2, 3, 4, 5, 6 }, { 2, 5 } },
      { "f32[2, 3]", "f32[2, 3]", "i32[2, 3]", "f32[2, 3]", "f32[4]", "f64[3]" },
      { { 1, 0, 0, 4, 5, 0 },
        { 0, 2, 3, 0, 0, 6 },
        { 0, 0, 0, 1, 0, 0 },
        { 0, 0, 1, 0, 0, 0 },
        { 0.5, -1.5, -3.5, -5.5 },
        { -1, 0.5, 2 } } },
    { "products",
      "x: f32[2, 2], y: f64[2, 3], z: i32[T]",
      3,
      6,
      products,
      { "f32[2, 2]", "f64[2, 3]", "i32[3]" },
      { { 1, 2, 3, 4 }, { 1, 0, 2, 0, 1, 3 }, { 1, 10, 100 } },
      { "f64[2, 3]", "f32[]", "i32[3]", "f32[]", "f64[2]", "f64[2]" },
      { { 1, 2, 8, 3, 4, 18 }, { 30 }, { 2, 20, 200 }, { 5 }, { 1, 1 }, { 201, 310 } } },
    { "chosen",
      "x: i8[T], y: u8[T], b: bool[2]",
      3,
      6,
      chosen,
      { "i8[2]", "u8[2]", "bool[2]" },
      { { -128, -127 }, { 255, 254 }, { 1, 1 } },
      { "i32[]", "f64[]", "i64[]", "i16[]", "u8[]", "i8[]" },
      { { -64898 }, { -64898 }, { 8274686 }, { -255 }, { 1 }, { 1 } } },
    { "chosen_steps",
      "x: i8[2], y: u8[T], b: bool[2]",
      3,
      6,
      chosen_steps,
      { "i8[2]", "u8[2]", "bool[2]" },
      { { -128, -127 }, { 255, 253 }, { 1, 0 } },
      { "i32[2]", "f64[2]", "f64[]", "f32[]", "f32[]", "i64[2]" },
      { { -128, -255 }, { 64515, 253 }, { -127.5 }, { 2 }, { 0.5 }, { 1, 1 } } },
    { "outer",
      "x: f32[2], y: f32[T]",
      2,
      2,
      outer_vectors,
      { "f32[2]", "f32[3]" },
      { { 2, 3 }, { 1, 10, 100 } },
      { "f32[2, 3]", "f32[2]" },
      { { 2, 20, 200, 3, 30, 300 }, { 1, 1 } } },
};

/* ---- refusals ---- */

BODY(bad_mean)
{
    UNUSED;
    out[0] = hop_mean(in[0], "2");
    return 0;
}
BODY(bad_matmul_as)
{
    UNUSED;
    out[0] = hop_matmul_as(in[0], hop_transpose(in[0]), "i32");
    return 0;
}
BODY(bad_sum_as)
{
    UNUSED;
    out[0] = hop_sum_as(in[0], "all", "int");
    return 0;
}
BODY(bad_einsum_as)
{
    UNUSED;
    out[0] = hop_einsum_as("ij,ij->", (hop_val[]){ in[0], in[0] }, 2, "u8");
    return 0;
}
BODY(bad_cumsum_as)
{
    UNUSED;
    out[0] = hop_cumsum_as(in[0], 0, 0, "i32");
    return 0;
}
BODY(bad_mean_as)
{
    UNUSED;
    out[0] = hop_mean_as(in[0], "all", "i32");
    return 0;
}
BODY(bad_split)
{
    UNUSED;
    hop_val part[2];
    hop_split(part, 2, in[0], 0);
    out[0] = part[0];
    return 0;
}
BODY(bad_split_sizes)
{
    UNUSED;
    hop_val part[2];
    hop_split_sizes(part, 2, in[0], 0, "1, 1");
    out[0] = part[0];
    return 0;
}
BODY(bad_split_count)
{
    UNUSED;
    hop_val part[2];
    hop_split_sizes(part, 2, in[0], 0, "1, 1, 1");
    out[0] = part[0];
    return 0;
}
BODY(no_parts)
{
    UNUSED;
    out[0] = in[0];
    hop_split(NULL, 0, in[0], 0);
    return 0;
}
BODY(bad_squeeze)
{
    UNUSED;
    out[0] = hop_squeeze(in[0], "1");
    return 0;
}
BODY(bad_tile)
{
    UNUSED;
    out[0] = hop_tile(in[0], "-1, 1");
    return 0;
}
BODY(bad_roll)
{
    UNUSED;
    out[0] = hop_roll(in[0], hop_scalar(0.5), 0);
    return 0;
}
BODY(bad_roll_shift)
{
    UNUSED;
    out[0] = hop_roll(in[0], in[1], 0);
    return 0;
}
BODY(bad_triangle)
{
    UNUSED;
    out[0] = hop_tril(in[1], 0);
    return 0;
}
BODY(bad_eye)
{
    UNUSED;
    out[0] = hop_eye("f32[2]", 0);
    return 0;
}
BODY(bad_one_hot)
{
    UNUSED;
    out[0] = hop_one_hot(in[0], "3", "f32");
    return 0;
}
BODY(bad_randint)
{
    UNUSED;
    out[0] = hop_randint(in[0], "i32[3]", hop_int(0), hop_int(3));
    return 0;
}
BODY(bad_randint_type)
{
    UNUSED;
    out[0] = hop_randint(hop_key(1), "f32[3]", hop_int(0), hop_int(3));
    return 0;
}
BODY(bad_bernoulli)
{
    UNUSED;
    out[0] = hop_bernoulli(hop_key(1), in[1], "3, 3");
    return 0;
}
BODY(bad_linspace)
{
    UNUSED;
    out[0] = hop_linspace("i32[3]", hop_int(0), hop_int(3));
    return 0;
}
#define SUM(name, text, n) \
    BODY(name) \
    { \
        UNUSED; \
        out[0] = hop_einsum(text, in, n); \
        return 0; \
    }
SUM(sum_sizes, "ij,i->j", 2)
SUM(sum_letter, "i1,i->", 2)
SUM(sum_axes, "ijk,i->", 2)
SUM(sum_few, "ij", 2)
SUM(sum_many, "ij,i,i", 2)
SUM(sum_result, "ij,k->z", 2)
SUM(sum_twice, "ij,k->ii", 2)
SUM(sum_dots, "...j,k->jk", 2)
SUM(sum_dots_twice, "...i...,k->", 2)
SUM(sum_arrow, "ij,k-i", 2)
SUM(sum_none, "", 0)

static const struct {
    hop_body body;
    const char *message;
} refusals[] = {
    { bad_mean, "mean: expected an axis in -2..1, found 2" },
    { bad_matmul_as, "matmul: attribute 'dtype': expected a float dtype for operand 0 f32[3, 4], found i32" },
    { bad_sum_as, "sum: the dtype \"int\": expected a dtype: " },
    { bad_einsum_as, "einsum: dtype: expected a float dtype for operand 0, which is f32, found u8" },
    { bad_cumsum_as, "cumsum: attribute 'dtype': expected a float dtype for operand 0 f32[3, 4], found i32" },
    { bad_mean_as, "mean: attribute 'dtype': expected a float dtype, found i32" },
    { bad_split, "split: dim 0 of f32[3, 4] does not divide into 2 equal parts" },
    { bad_split_sizes, "split: dim 0 of f32[3, 4] and its parts together: expected 3, found 2" },
    { bad_split_count, "split: \"1, 1, 1\" names 3 sizes, room given for 2 parts" },
    { no_parts, "split: expected 1 to 4096 parts, found 0" },
    { bad_squeeze, "squeeze: dim 1 of f32[3, 4], which is taken away: expected 1, found 4" },
    { bad_tile, "tile: attribute 'repeats': expected a size of at least 0, found -1" },
    { bad_roll, "roll: the shift: expected an integer" },
    { bad_roll_shift, "roll: a shift: expected i64[], found f32[5]" },
    { bad_triangle, "tril: expected at least two dims, found f32[5]" },
    { bad_eye, "eye: the type \"f32[2]\": expected two dims, found 1" },
    { bad_one_hot, "one_hot: the indices: expected integers, found f32[3, 4]" },
    { bad_randint, "randint: the key: expected u32[2], or keys u32[…, 2], found f32[3, 4]" },
    { bad_randint_type, "randint: the type \"f32[3]\": expected integers" },
    { bad_bernoulli,
      "bernoulli: the probability, a scalar or one per result: expected f32[3, 3], found f32[5]" },
    { bad_linspace, "linspace: expected a float type, found i32" },
    { sum_sizes, "einsum: the subscripts \"ij,i->j\": 'i' has the sizes 3 and 5" },
    { sum_letter, "einsum: the subscripts \"i1,i->\": expected a letter, '...', ',' or '->' at \"1,i->\"" },
    { sum_axes, "einsum: the subscripts \"ijk,i->\" name 3 axes of operand 0, which is f32[3, 4]" },
    { sum_few, "einsum: the subscripts \"ij\" are for 1 operands, given 2" },
    { sum_many, "einsum: the subscripts \"ij,i,i\"" },
    { sum_result, "einsum: the subscripts \"ij,k->z\": 'z' of the result is in no operand" },
    { sum_twice, "einsum: the subscripts \"ij,k->ii\": 'i' stands twice in the result" },
    { sum_dots, "einsum: the subscripts \"...j,k->jk\": the result has no '...'" },
    { sum_dots_twice, "einsum: the subscripts \"...i...,k->\" have '...' twice in one operand" },
    { sum_arrow, "einsum: the subscripts \"ij,k-i\": expected ',', '->' or the end at \"-i\"" },
    { sum_none, "einsum: expected subscripts and at least one operand" },
};

static void test_refusals(void)
{
    for (size_t i = 0; i < HOP_COUNT(refusals); i++) {
        hop_fn *f = NULL;
        int status = hop_capture(&f, "x: f32[3, 4], v: f32[5]", 1, refusals[i].body, NULL);
        CLAIM(status == HOP_INVALID && strstr(hop_message(), refusals[i].message),
              "expected '%s', found %d: %s", refusals[i].message, status, hop_message());
        CLAIM(!status || strstr(hop_message(), "composite_test.c:"), "the message names the place: %s",
              hop_message());
        hop_fn_free(f);
    }
}

/* A failed composite leaves nothing behind, and later messages name their own operator. */
BODY(forgiven)
{
    UNUSED;
    hop_val part[2];
    hop_split(part, 2, in[0], 0);
    CLAIM(hop_forgive() == HOP_INVALID, "the split failed");
    out[0] = hop_mean(in[0], "1");
    return 0;
}
static void test_forgiven(void)
{
    hop_fn *f = NULL;
    CLAIM(!hop_capture(&f, "x: f32[3, 4]", 1, forgiven, NULL), "%s", hop_message());
    CLAIM(f && !strstr(hop_fn_text(f), "slice"), "nothing of the split is left:\n%s",
          f ? hop_fn_text(f) : "");
    hop_fn_free(f);
}

/* ---- places ---- */

static void read_places(void *ctx)
{
    static const char text[] =
        "hop 1\nfn @f(%x: f32[4], %y: f32[2, 2]) -> (f32[], f32[1, 2], f32[1, 2]) {\n  %m = logsumexp(%x)\n  "
        "%a, %b = split {parts = 2} (%y) @\"model\":70:2\n  return %m, %a, %b\n}\n";
    struct module *m = text_read("composite", text, strlen(text));
    const struct fn *f = module_fn(m, module_find(m, "f"));
    uint32_t first = 0;
    (void)ctx;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        struct place p = fn_node(f, i)->place;
        bool moved = p.line == 70 && !strcmp(m->files.data[p.file], "model");
        CLAIM(p.line == 3 || moved, "node %u has line %u", i, p.line);
        first += p.line == 3;
    }
    CLAIM(f->n_nodes == first + 2 && first > 5, "%u of %u nodes are of the first line", first, f->n_nodes);
    CLAIM(!strcmp(module_text(m, f->values[f->results[2]].name), "b"), "results have the names written");
    module_free(m);
}

static void read_wrong(void *ctx)
{
    struct module *m = text_read("composite", ctx, strlen(ctx));
    module_free(m);
}
static void test_places(void)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        { "hop 1\nfn @f(%x: f32[4]) -> (f32[2]) {\n  %a = split {parts = 2} (%x)\n  return %a\n}\n",
          "split gives 2 results, 1 named here" },
        { "hop 1\nfn @f(%x: i32[4]) -> (i32[]) {\n  %a = mean(%x)\n  return %a\n}\n",
          "composite:3:3: mean: expected floats, found i32[4]" },
        { "hop 1\nfn @f(%x: f32[4]) -> (f32[]) {\n  %a = mean(%x, %x)\n  return %a\n}\n",
          "composite:3:3: mean: takes 1 operand, given 2" },
        { "hop 1\nfn @f(%x: f32[4]) -> (f32[4]) {\n  %a = softmax(%x)\n  return %a\n}\n",
          "composite:3:3: softmax: attribute 'dims' is missing" },
    };
    CLAIM(attempt(read_places, NULL) == HOP_OK, "%s", hop_message());
    for (size_t i = 0; i < HOP_COUNT(wrong); i++)
        CLAIM(attempt(read_wrong, (void *)wrong[i].text) == HOP_INVALID &&
                  strstr(hop_message(), wrong[i].message),
              "expected '%s', found: %s", wrong[i].message, hop_message());
}

/* ---- einsum against loops ---- */

enum { POOL = 5, MOST_TERMS = 4, MOST_AXES = 4 };
struct sum {
    int n, rank[MOST_TERMS], label[MOST_TERMS][MOST_AXES], size[POOL], out_rank, out[POOL];
    char text[64], params[160];
};
static uint64_t seed = 12345;
static int below(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

static void make_sum(struct sum *s)
{
    int used[POOL] = { 0 }, at = 0, written = 0;
    memset(s, 0, sizeof *s);
    s->n = 1 + below(MOST_TERMS);
    for (int l = 0; l < POOL; l++) s->size[l] = below(8) ? 1 + below(4) : 0;
    for (int i = 0; i < s->n; i++) {
        s->rank[i] = below(MOST_AXES + 1);
        at += snprintf(s->text + at, sizeof s->text - (size_t)at, "%s", i ? "," : "");
        written += snprintf(s->params + written, sizeof s->params - (size_t)written, "%sp%d: f64[",
                            i ? ", " : "", i);
        for (int k = 0; k < s->rank[i]; k++) {
            int l = s->label[i][k] = below(POOL);
            used[l]++;
            at += snprintf(s->text + at, sizeof s->text - (size_t)at, "%c", 'a' + l);
            written += snprintf(s->params + written, sizeof s->params - (size_t)written, "%s%d",
                                k ? ", " : "", s->size[l]);
        }
        written += snprintf(s->params + written, sizeof s->params - (size_t)written, "]");
    }
    if (below(4)) {
        at += snprintf(s->text + at, sizeof s->text - (size_t)at, "->");
        for (int start = below(POOL), k = 0; k < POOL; k++) {
            int l = (start + 3 * k) % POOL;
            if (!used[l] || below(2)) continue;
            s->out[s->out_rank++] = l;
            at += snprintf(s->text + at, sizeof s->text - (size_t)at, "%c", 'a' + l);
        }
    } else {
        for (int l = 0; l < POOL; l++)
            if (used[l] == 1) s->out[s->out_rank++] = l;
    }
}

static int64_t flat(const struct sum *s, const int *index, const int *labels, int rank)
{
    int64_t at = 0;
    for (int k = 0; k < rank; k++) at = at * s->size[labels[k]] + index[labels[k]];
    return at;
}

static void plain_sum(const struct sum *s, hop_tensor *const *in, double *out)
{
    int index[POOL] = { 0 }, used[POOL] = { 0 };
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->rank[i]; k++) used[s->label[i][k]] = 1;
    for (int l = 0; l < POOL; l++)
        if (used[l] && !s->size[l]) return;
    for (;;) {
        double product = 1;
        for (int i = 0; i < s->n; i++)
            product *= ((const double *)hop_data(in[i]))[flat(s, index, s->label[i], s->rank[i])];
        out[flat(s, index, s->out, s->out_rank)] += product;
        int l = 0;
        while (l < POOL && (!used[l] || ++index[l] == s->size[l])) index[l++] = 0;
        if (l == POOL) return;
    }
}

BODY(sum_body)
{
    const struct sum *s = env;
    out[0] = hop_einsum(s->text, in, s->n);
    return 0;
}
/* All of it times a weight that differs by element, for gradients. */
BODY(loss_body)
{
    const struct sum *s = env;
    hop_val y = hop_flatten(hop_einsum(s->text, in, s->n));
    hop_let("K", hop_dim_of(y, 0));
    out[0] = hop_sum(hop_mul(y, hop_add(hop_iota("f64[K]", 0), hop_scalar(0.5))), NULL);
    return 0;
}

/* It is linear in each operand, so the gradient times the operand is the value itself. */
static void check_sum_gradient(struct sum *s, hop_tensor **in)
{
    hop_fn *f = NULL, *g = NULL;
    hop_tensor *out[MOST_TERMS + 1] = { 0 };
    CLAIM(!hop_capture(&f, s->params, 1, loss_body, s) && !hop_value_and_grad(&g, f, NULL) &&
              !hop_interpret(g, in, s->n, out, s->n + 1),
          "%s: %s", s->text, hop_message());
    for (int i = 0; i < s->n && out[i + 1]; i++) {
        double sum = 0, value = get(out[0], 0);
        for (int64_t k = 0; k < hop_tensor_count(in[i]); k++) sum += get(in[i], k) * get(out[i + 1], k);
        CLAIM(fabs(sum - value) <= 1e-9 * fmax(1, fabs(value)),
              "%s of %s: the gradient of operand %d gives %.17g, the value is %.17g", s->text, s->params, i,
              sum, value);
    }
    free_all(out, MOST_TERMS + 1);
    hop_fn_free(g);
    hop_fn_free(f);
}

static void test_sums(void)
{
    for (int round = 0; round < 400; round++) {
        struct sum s;
        hop_fn *f = NULL;
        hop_tensor *in[MOST_TERMS] = { 0 }, *out[2] = { 0 };
        double expected[1024] = { 0 };
        make_sum(&s);
        for (int i = 0; i < s.n; i++) {
            char type[64];
            const char *from = strchr(s.params, 'f');
            for (int k = 0; k < i; k++) from = strchr(from + 1, 'f');
            snprintf(type, sizeof type, "%.*s", (int)(strchr(from, ']') - from + 1), from);
            CLAIM(!hop_tensor_new(&in[i], type), "%s", hop_message());
            for (int64_t k = 0; k < hop_tensor_count(in[i]); k++) set(in[i], k, below(19) / 4.0 - 2);
        }
        plain_sum(&s, in, expected);
        int status = hop_capture(&f, s.params, 1, sum_body, &s);
        CLAIM(!status, "%s of %s: %s", s.text, s.params, hop_message());
        CLAIM(status || !hop_interpret(f, in, s.n, out, 1), "%s of %s: %s", s.text, s.params, hop_message());
        CLAIM(status || !hop_eager(s.params, sum_body, &s, in, s.n, out + 1, 1), "%s of %s, eagerly: %s",
              s.text, s.params, hop_message());
        for (int k = 0; k < 2 && out[k]; k++) {
            bool good = hop_tensor_rank(out[k]) == s.out_rank;
            for (int d = 0; good && d < s.out_rank; d++) good = hop_tensor_dim(out[k], d) == s.size[s.out[d]];
            for (int64_t i = 0; good && i < hop_tensor_count(out[k]); i++)
                good = fabs(get(out[k], i) - expected[i]) <= 1e-10 * fmax(1, fabs(expected[i]));
            CLAIM(good, "%s of %s: it differs from plain loops", s.text, s.params);
        }
        if (!status && round % 4 == 0) check_sum_gradient(&s, in);
        free_all(in, MOST_TERMS);
        free_all(out, 2);
        hop_fn_free(f);
    }
}

/* Axes that '...' stands for are broadcast, sizes may be symbols. */
BODY(dots)
{
    UNUSED;
    out[0] = hop_einsum("...ij,...jk->...ik", in, 2);
    out[1] = hop_einsum("i...j,...->...ji", (hop_val[]){ in[0], in[2] }, 2);
    out[2] = hop_einsum("bii...->b...", (hop_val[]){ in[3] }, 1);
    out[3] = hop_einsum("nn, nm, mm -> m", (hop_val[]){ in[4], in[4], in[4] }, 3);
    return 0;
}
static const struct program dot_program = {
    "dots",
    "x: f32[2, 1, T], y: f32[1, T, 2], s: f32[], d: f32[1, 2, 2, 3], q: f32[N, N]",
    5,
    4,
    dots,
    { "f32[2, 1, 2]", "f32[1, 2, 2]", "f32[]", "f32[1, 2, 2, 3]", "f32[2, 2]" },
    { { 1, 2, 3, 4 }, { 1, 2, 3, 4 }, { 10 }, { 1, 2, 3, 0, 0, 0, 0, 0, 0, 4, 5, 6 }, { 1, 2, 3, 4 } },
    { "f32[2, 1, 2]", "f32[1, 2, 2]", "f32[1, 3]", "f32[2]" },
    { { 7, 10, 15, 22 }, { 10, 30, 20, 40 }, { 5, 7, 9 }, { 1 * 1 * 1 + 4 * 3 * 1, 1 * 2 * 4 + 4 * 4 * 4 } },
};

/* ---- random draws ---- */

BODY(draws)
{
    UNUSED;
    out[0] = hop_randint(in[0], "i32[60000]", hop_int(-2), hop_int(4));
    out[1] = hop_bernoulli(in[0], hop_scalar(0.25), "40000");
    out[2] = hop_randint(in[0], "i64[3]", hop_int(INT64_MIN / 4),
                         hop_int(INT64_MAX / 2)); /* three quarters of 2^63: many draws are repeated */
    out[3] = hop_randint(in[0], "i64[3000]", hop_int(0), hop_int(INT64_C(3) << 61));
    return 0;
}
/* What docs/numbers.md says randint is, one element at a time. */
static int64_t plain_randint(const uint32_t first[2], uint64_t position, int64_t lo, int64_t hi, int *repeats)
{
    uint64_t span = (uint64_t)hi - (uint64_t)lo, all = UINT64_C(1) << 63;
    uint32_t key[2] = { first[0], first[1] };
    for (*repeats = 0;; ++*repeats) {
        uint32_t words[6], pair[2], high, low;
        for (uint64_t i = 0; i < 6; i++) scalar_c_block(key, i, false, pair), words[i] = pair[0];
        scalar_c_block(words, position, false, pair), high = pair[0];
        scalar_c_block(words + 2, position, false, pair), low = pair[0];
        uint64_t drawn = ((uint64_t)high << 31) + low / 2;
        if (drawn < all - all % span) return (int64_t)((uint64_t)lo + drawn % span);
        memcpy(key, words + 4, sizeof key);
    }
}

static void check_randint(const hop_tensor *t, int64_t lo, int64_t hi, int64_t n)
{
    static const uint32_t key[2] = { 7, 42 };
    int64_t wrong = -1;
    int most = 0, repeats;
    for (int64_t i = 0; i < n && wrong < 0; i++) {
        int64_t want = plain_randint(key, (uint64_t)i, lo, hi, &repeats),
                found = strcmp(hop_tensor_dtype(t), "i32") ? ((const int64_t *)hop_data(t))[i]
                                                           : ((const int32_t *)hop_data(t))[i];
        most = repeats > most ? repeats : most;
        if (want != found) wrong = i;
    }
    CLAIM(wrong < 0, "element %lld of integers from %lld to %lld is another than plain C draws",
          (long long)wrong, (long long)lo, (long long)hi);
    CLAIM(most > 2 || hi - lo < 1000, "some draws are repeated more than twice");
}

static void test_draws(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *key = NULL, *out[4] = { 0 }, *native[4] = { 0 };
    CLAIM(!hop_capture(&f, "key: u32[2]", 4, draws, NULL) && !hop_tensor_new(&key, "u32[2]"), "%s",
          hop_message());
    set(key, 0, 7);
    set(key, 1, 42);
    CLAIM(!hop_interpret(f, &key, 1, out, 4), "%s", hop_message());
    double count[6] = { 0 }, distance = 0, hits = 0, low = 0, mean = 0;
    for (int64_t i = 0; out[0] && i < 60000; i++) {
        double v = get(out[0], i);
        if (v < -2 || v > 3) CLAIM(false, "element %lld is %g", (long long)i, v);
        else count[(int)v + 2]++;
    }
    for (int k = 0; k < 6; k++) distance += (count[k] - 10000) * (count[k] - 10000) / 10000;
    CLAIM(distance < 20.5, "chi squared with 5 degrees of freedom is %g: %g %g %g %g %g %g", distance,
          count[0], count[1], count[2], count[3], count[4], count[5]); /* 0.1 % lie above */
    for (int64_t i = 0; out[1] && i < 40000; i++) hits += get(out[1], i);
    CLAIM(fabs(hits - 10000) < 3.3 * sqrt(40000 * 0.25 * 0.75), "%g of 40000 hit with probability a quarter",
          hits);
    for (int64_t i = 0; out[3] && i < 3000; i++) {
        double v = get(out[3], i) / (3.0 * 2305843009213693952.0);
        CLAIM(v >= 0 && v < 1, "element %lld is %g of the range", (long long)i, v);
        low += v < 1.0 / 3;
        mean += v / 3000;
    }
    CLAIM(fabs(low - 1000) < 3.3 * sqrt(3000 * 2.0 / 9) && fabs(mean - 0.5) < 3.3 * sqrt(1 / 12.0 / 3000),
          "%g of 3000 lie in the first third, the mean is %g", low, mean);
    if (out[3]) {
        check_randint(out[0], -2, 4, 500);
        check_randint(out[3], 0, INT64_C(3) << 61, 1000);
    }
    for (int portable = 0; portable < 2; portable++) {
        if (!portable && !exe_available()) continue;
        CLAIM(!hop_compile(&exe, f, &(hop_compile_options){ .portable = portable }) &&
                  !hop_run(exe, &key, 1, native, 4),
              "%s", hop_message());
        struct program p = { .name = "draws", .n_out = 4 };
        if (native[3]) same_bits(&p, portable ? "the loop program" : "native code", out, native);
        free_all(native, 4);
        hop_exe_free(exe);
        exe = NULL;
    }
    hop_tensor_free(key);
    free_all(out, 4);
    hop_fn_free(f);
}

/* All orders of three are equally likely. */
BODY(orders)
{
    UNUSED;
    hop_val keys = hop_random_split(in[0], "6000");
    out[0] = hop_permutation(keys, "3");
    out[1] = hop_shuffle(in[0], hop_iota("i64[8]", 0), 0);
    return 0;
}
static void test_orders(void)
{
    hop_tensor *key = NULL, *out[2] = { 0 };
    double count[9] = { 0 }, distance = 0, sum = 0;
    CLAIM(!hop_tensor_new(&key, "u32[2]"), "%s", hop_message());
    set(key, 1, 3);
    CLAIM(!hop_eager("key: u32[2]", orders, NULL, &key, 1, out, 2), "%s", hop_message());
    for (int64_t i = 0; out[0] && i < 6000; i++)
        count[(int)(3 * get(out[0], 3 * i) + get(out[0], 3 * i + 1))]++;
    for (int k = 0; k < 9; k++)
        distance += k % 4 ? (count[k] - 1000) * (count[k] - 1000) / 1000
                          : count[k]; /* k % 4 = 0: the first two would be equal */
    CLAIM(distance < 20.5, "chi squared with 5 degrees of freedom is %g", distance);
    for (int64_t i = 0; out[1] && i < 8; i++) sum += (double)(1 << (int)get(out[1], i));
    CLAIM(sum == 255, "a shuffled array has every element once");
    hop_tensor_free(key);
    free_all(out, 2);
}

static void test_keys(void)
{
    struct program p = { "keys",
                         "key: u32[2], x: f32[T]",
                         2,
                         5,
                         keys,
                         { "u32[2]", "f32[3]" },
                         { { 1, 2 }, { 0 } },
                         { "u32[3, 2]", "bool[2, 3]", "bool[3, 2]", "i32[3]", "i64[]" },
                         { { 0 }, { 1, 1, 1, 1, 1, 1 }, { 0 }, { 5, 5, 5 }, { 9 } } };
    const uint32_t key[2] = { 1, 2 };
    for (uint64_t i = 0; i < 6; i++) { /* keys are the bits that random_bits gives */
        uint32_t words[2];
        scalar_c_block(key, i, false, words);
        p.expect[0][i] = words[0];
    }
    check_program(&p);
}

int main(void)
{
    for (size_t i = 0; i < HOP_COUNT(programs); i++) check_program(&programs[i]);
    check_program(&dot_program);
    test_keys();
    test_refusals();
    test_forgiven();
    test_places();
    test_sums();
    test_draws();
    test_orders();
    return tests_end();
}
