/* Composite rows of random draws: random_split randint bernoulli permutation. All begin with random bits of a
 * key, so they are the same on every back end; keys u32[…, 2] make one draw each, as the primitive rows do.
 * docs/numbers.md says which bits become which numbers. */
#include "ir/loop.h"
#include "ops/rowkit.h"

/* ---- infer ---- */

/* The type of draws of these dims: those of the keys without the last, then the draw's. */
static type_id infer_draw(struct infer *in, enum dtype dtype, uint32_t n_drawn, const dim *drawn,
                          const char *attribute)
{
    struct type key = infer_type(in, 0);
    if (key.dtype != DT_U32 || !key.rank)
        infer_error(in, "the key: expected u32[2], or keys u32[…, 2], found %s",
                    infer_text(in, in->operands[0]));
    infer_equal(in, dim_const(in->m, 2), key.dims[key.rank - 1], "words of a key");
    if (key.rank - 1 + n_drawn > MAX_RANK)
        infer_error(in, "the result would have %u dims, a type has at most %d", key.rank - 1 + n_drawn,
                    MAX_RANK);
    dim dims[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i + 1 < key.rank; i++) dims[n++] = key.dims[i];
    for (uint32_t i = 0; i < n_drawn; i++) {
        infer_not_negative(in, drawn[i], attribute);
        dims[n++] = drawn[i];
    }
    return type_intern(in->m, dtype, n, dims);
}

static void infer_random_split(struct infer *in)
{
    infer_result(in, infer_draw(in, DT_U32, 2, (dim[]){ (dim)in->attrs[RANDOM_SPLIT_COUNT].i, 2 },
                                "attribute 'count'"));
}

static void infer_randint(struct infer *in)
{
    const struct attr *dims = &in->attrs[RANDINT_DIMS];
    static const char *const names[] = { "lo", "hi" };
    struct type lo = infer_type(in, 1);
    for (uint32_t i = 1; i < 3; i++) {
        struct type t = infer_type(in, i);
        if (t.rank || !dtype_is_integer((enum dtype)t.dtype) ||
            (dtype_info[t.dtype].kind == KIND_UINT && dtype_info[t.dtype].size == 8))
            infer_error(in, "%s: expected an integer, as a scalar that i64 holds, found %s", names[i - 1],
                        infer_text(in, in->operands[i]));
    }
    infer_same_type(in, in->operands[1], in->operands[2], "lo and hi");
    infer_result(in, infer_draw(in, (enum dtype)lo.dtype, dims->n, dims->list, "attribute 'dims'"));
}

static void infer_bernoulli(struct infer *in)
{
    const struct attr *dims = &in->attrs[RANDINT_DIMS];
    struct type p = infer_type(in, 1);
    type_id result = infer_draw(in, DT_BOOL, dims->n, dims->list, "attribute 'dims'");
    if (!dtype_is_float((enum dtype)p.dtype))
        infer_error(in, "the probability: expected a float, found %s", infer_text(in, in->operands[1]));
    if (p.rank)
        infer_same_type(in, type_with_dtype(in->m, result, (enum dtype)p.dtype), in->operands[1],
                        "the probability, a scalar or one per result");
    infer_result(in, result);
}

static void infer_permutation(struct infer *in)
{
    infer_result(in, infer_draw(in, DT_I64, 1, (dim[]){ (dim)in->attrs[PERMUTATION_SIZE].i },
                                "attribute 'size'"));
}

/* ---- bits ---- */

static val bits(struct builder *b, val key, uint32_t rank, const dim *dims)
{
    struct attr a = A_DIMS(dims, rank);
    return emit(b, OP_random_bits, &key, 1, &a);
}

/* Words `first` and the next of the last dim, as keys. */
static val key_at(struct builder *b, val words, uint32_t first)
{
    struct type t = emit_type(b, words);
    dim start[MAX_RANK] = { 0 }, limit[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) limit[i] = t.dims[i];
    start[t.rank - 1] = first;
    limit[t.rank - 1] = first + 2;
    return emit_slice(b, words, start, limit);
}

static val i64_like(struct builder *b, val like, int64_t value)
{
    struct type t = emit_type(b, like);
    struct attr a[3] = { A_INT(value), A_DIMS(t.dims, t.rank), A_DTYPE(DT_I64) };
    return emit(b, OP_full, NULL, 0, a);
}

/* Numbers of 63 bits, from two draws whose keys are drawn from this one; `next` is a third such key. */
static val draw_63_bits(struct builder *b, val key, uint32_t rank, const dim *dims, val *next)
{
    val words = bits(b, key, 1, (dim[]){ 6 });
    val high = emit_cast(b, bits(b, key_at(b, words, 0), rank, dims), DT_I64);
    val low = emit_cast(b, bits(b, key_at(b, words, 2), rank, dims), DT_I64);
    *next = key_at(b, words, 4);
    return emit2(b, OP_add, emit2(b, OP_mul, high, i64_like(b, high, INT64_C(1) << 31)),
                 emit2(b, OP_div, low, i64_like(b, low, 2)));
}

/* ---- randint ---- */

/* A draw below span, and where it has to be repeated: of the 2^63 numbers only the largest multiple of span
 * is used, so that all remainders are equally likely. */
static val draw_below(struct builder *b, val key, val span, uint32_t rank, const dim *dims, val *again,
                      val *next)
{
    val drawn = draw_63_bits(b, key, rank, dims, next);
    struct type t = emit_type(b, drawn);
    val spread = t.rank ? emit_broadcast(b, span, t.rank, t.dims, NULL) : span;
    val rest = emit2(b, OP_rem, drawn, spread);
    val last = emit2(b, OP_sub, i64_like(b, drawn, INT64_MAX),
                     emit2(b, OP_sub, spread, i64_like(b, drawn, 1)));
    *again = emit2(b, OP_gt, emit2(b, OP_sub, drawn, rest), last);
    return rest;
}

/* A function whose parameters have the types of values of another builder: each of their sizes that is no
 * number becomes a symbol of its own. */
struct body {
    struct builder b;
    uint32_t n;
    dim outer[4 * MAX_RANK], inner[4 * MAX_RANK];
};

static dim body_dim(struct body *body, const struct builder *around, dim d)
{
    struct module *m = around->m;
    int64_t lo, hi;
    if (dim_is_const(m, d)) return d;
    for (uint32_t i = 0; i < body->n; i++)
        if (body->outer[i] == d) return body->inner[i];
    dim_range(m, around->symbols.data, d, &lo, &hi);
    char name[16];
    int length = snprintf(name, sizeof name, "d%u", body->n);
    body->outer[body->n] = d;
    uint32_t symbol = builder_symbol(&body->b, module_string(m, name, (size_t)length), HOP_MAX(lo, 0), hi);
    dim inside = dim_symbol(m, symbol);
    body->inner[body->n++] = inside;
    return inside;
}

static void body_begin(struct body *body, struct builder *around, const val *params, uint32_t n)
{
    struct module *m = around->m;
    type_id types[8];
    body->n = 0;
    builder_begin(&body->b, m, NULL);
    body->b.place = around->place;
    body->b.fn_place = around->place;
    for (uint32_t i = 0; i < n; i++) {
        struct type t = emit_type(around, params[i]);
        dim dims[MAX_RANK];
        for (uint32_t k = 0; k < t.rank; k++) dims[k] = body_dim(body, around, t.dims[k]);
        types[i] = type_intern(m, (enum dtype)t.dtype, t.rank, dims);
    }
    for (uint32_t i = 0; i < n; i++) builder_param(&body->b, types[i], 0);
}

/* carries: the draws, where they have to be repeated, the next key. */
static uint32_t again_body(struct builder *around, const val *params, bool predicate, uint32_t n_drawn)
{
    enum { DRAWN, AGAIN, KEY, SPAN };
    struct body body;
    struct builder *b = &body.b;
    body_begin(&body, around, params, predicate ? SPAN : SPAN + 1);
    if (predicate) {
        val any = emit(b, OP_any, (val[]){ AGAIN }, 1, NULL);
        return builder_finish(b, &any, 1);
    }
    struct type t = emit_type(b, DRAWN);
    val again, next, drawn = draw_below(b, KEY, SPAN, n_drawn, t.dims + (t.rank - n_drawn), &again, &next);
    return builder_finish(
        b, (val[]){ emit_select(b, AGAIN, drawn, DRAWN), emit2(b, OP_and, AGAIN, again), next }, 3);
}

static void expand_randint(struct expand *e)
{
    struct builder *b = e->b;
    const struct attr *dims = &e->attrs[RANDINT_DIMS];
    struct type to = type_get(b->m, e->types[0]);
    val lo = emit_cast(b, e->operands[1], DT_I64), hi = emit_cast(b, e->operands[2], DT_I64), params[4];
    params[3] = emit2(b, OP_max, emit2(b, OP_sub, hi, lo), emit_i64(b, 1));
    params[0] = draw_below(b, e->operands[0], params[3], dims->n, dims->list, &params[1], &params[2]);
    struct loop again = loop_new(LOOP_WHILE);
    again.carry = params;
    again.n_carry = 3;
    again.with = &params[3];
    again.n_with = 1;
    again.cond = module_fn(b->m, again_body(b, params, true, dims->n));
    again.body = module_fn(b->m, again_body(b, params, false, dims->n));
    val drawn = loop_build(b, &again).last;
    if (to.rank) lo = emit_broadcast(b, lo, to.rank, to.dims, NULL);
    e->out[0] = emit_cast(b, emit2(b, OP_add, drawn, lo), (enum dtype)to.dtype);
}

/* ---- the others ---- */

static void expand_random_split(struct expand *e)
{
    e->out[0] = bits(e->b, e->operands[0], 2, (dim[]){ (dim)e->attrs[RANDOM_SPLIT_COUNT].i, 2 });
}

static void expand_bernoulli(struct expand *e)
{
    struct builder *b = e->b;
    struct type t = type_get(b->m, e->types[0]);
    enum dtype wide = dtype_accumulator((enum dtype)emit_type(b, e->operands[1]).dtype);
    struct attr a[2] = { [RANDOM_DIMS] = e->attrs[RANDINT_DIMS], [RANDOM_DTYPE] = A_DTYPE(wide) };
    val drawn = emit(b, OP_random_uniform, &e->operands[0], 1, a), p = emit_cast(b, e->operands[1], wide);
    if (emit_type(b, p).rank < t.rank) p = emit_broadcast(b, p, t.rank, t.dims, NULL);
    e->out[0] = emit2(b, OP_lt, drawn, emit_as(b, p, builder_type(b, drawn)));
}

/* The order of random numbers. Two of n are equal with a probability below n²/2^64. */
static void expand_permutation(struct expand *e)
{
    dim size = (dim)e->attrs[PERMUTATION_SIZE].i;
    val next, drawn = draw_63_bits(e->b, e->operands[0], 1, &size, &next);
    struct attr a[2] = { [SORT_DIM] = A_INT(emit_type(e->b, drawn).rank - 1), [SORT_DESCENDING] = A_NONE };
    e->out[0] = emit(e->b, OP_argsort, &drawn, 1, a);
}

/* ---- rows ---- */

#define SAMPLE(symbols, params, call, to) \
    { "hop 1\nfn @sample" symbols "(%key: u32" params ") -> (" to ") {\n  %y = " call "\n  return %y\n}\n", \
      "key = 0..1000000, lo = -3..3, hi = 4..9, p = 0..1" }
static const struct attr_spec random_split_attrs[] = { [RANDOM_SPLIT_COUNT] = { "count", ATTR_DIM, true,
                                                                                NULL } };
static const struct op_sample random_split_samples[] = {
    SAMPLE("", "[2]", "random_split {count = 3} (%key)", "u32[3, 2]"),
    SAMPLE("[N]", "[N, 2]", "random_split {count = N} (%key)", "u32[N, N, 2]"),
    SAMPLE("", "[2]", "random_split {count = 0} (%key)", "u32[0, 2]"),
};
static const struct attr_spec permutation_attrs[] = { [PERMUTATION_SIZE] = { "size", ATTR_DIM, true, NULL } };
static const struct op_sample permutation_samples[] = {
    SAMPLE("", "[2]", "permutation {size = 7} (%key)", "i64[7]"),
    SAMPLE("[N]", "[N, 2]", "permutation {size = N} (%key)", "i64[N, N]"),
    SAMPLE("", "[2]", "permutation {size = 0} (%key)", "i64[0]"),
};
static const struct attr_spec draw_attrs[] = { [RANDINT_DIMS] = { "dims", ATTR_DIMS, true, NULL } };
static const struct op_sample randint_samples[] = {
    SAMPLE("", "[2], %lo: i32[], %hi: i32[]", "randint {dims = [21]} (%key, %lo, %hi)", "i32[21]"),
    SAMPLE("[N]", "[2], %lo: i64[], %hi: i64[], %x: f32[N]", "randint {dims = [N, 3]} (%key, %lo, %hi)",
           "i64[N, 3]"),
    SAMPLE("", "[3, 2], %lo: i64[], %hi: i64[]", "randint {dims = [4]} (%key, %lo, %hi)", "i64[3, 4]"),
    SAMPLE("", "[2], %lo: i64[], %hi: i64[]", "randint {dims = []} (%key, %lo, %hi)", "i64[]"),
    SAMPLE("", "[2], %lo: i32[], %hi: i32[]", "randint {dims = [0]} (%key, %hi, %lo)", "i32[0]"),
    { "hop 1\nfn @sample(%key: u32[2]) -> (i64[9]) {\n  %lo = full {value = -1, dims = [], dtype = i64}\n  "
      "%hi = full {value = 6148914691236517204, dims = [], dtype = i64}\n"
      "  %y = randint {dims = [9]} (%key, %lo, %hi)\n  return %y\n}\n",
      "key = 0..1000000" }, /* a third of the draws is repeated */
};
static const struct op_sample bernoulli_samples[] = {
    SAMPLE("", "[2], %p: f32[]", "bernoulli {dims = [21]} (%key, %p)", "bool[21]"),
    SAMPLE("[N]", "[2], %p: f64[N, 3]", "bernoulli {dims = [N, 3]} (%key, %p)", "bool[N, 3]"),
    SAMPLE("", "[3, 2], %p: f64[]", "bernoulli {dims = [4]} (%key, %p)", "bool[3, 4]"),
    SAMPLE("", "[2], %p: f32[]", "bernoulli {dims = []} (%key, %p)", "bool[]"),
};

#define COMPOSITE(op, text, n, list, infers, expands, why) \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { n, n, ROW_ATTRS(list) }, \
                                     .infer = infers, \
                                     .expand = expands, \
                                     .autocast = AUTOCAST_KEEP, \
                                     .no_gradient = why, \
                                     ROW_SAMPLES(op##_samples) };
COMPOSITE(random_split, "new keys u32[count, 2] from a key", 1, random_split_attrs, infer_random_split,
          expand_random_split, "integer-valued")
COMPOSITE(
    randint,
    "integers from lo up to hi - 1, all equally likely, from a key; lo where hi <= lo; hi - lo below 2^63", 3,
    draw_attrs, infer_randint, expand_randint, "integer-valued")
COMPOSITE(bernoulli, "true with probability p, from a key", 2, draw_attrs, infer_bernoulli, expand_bernoulli,
          "piecewise constant")
COMPOSITE(permutation, "0 to size - 1 in an order drawn from a key, all orders equally likely", 1,
          permutation_attrs, infer_permutation, expand_permutation, "integer-valued")
