/* Rows of the random operators. The draw's element at row-major position i comes from one block of a
 * counter-based generator with the key and the counter i, so it depends on nothing but key and position. A
 * key with leading dims, u32[…, 2], makes one draw a key: result dims are those leading dims and then the
 * draw's; each draw counts its positions from 0. */
#include "loop/lower.h"
#include "ops/rowkit.h"
#include "ops/scalar_c.h"
#include "ops/scalar_lp.h"

static enum dtype draw_dtype(enum op op, const struct attr *attrs)
{
    if (op == OP_random_bits) return DT_U32;
    return attrs[RANDOM_DTYPE].kind == ATTR_ABSENT ? DT_F32 : (enum dtype)attrs[RANDOM_DTYPE].i;
}

static void infer_random(struct infer *in)
{
    struct type key = infer_type(in, 0);
    enum dtype t = draw_dtype((enum op)in->op, in->attrs);
    const struct attr *drawn = &in->attrs[RANDOM_DIMS];
    if (key.dtype != DT_U32 || !key.rank)
        infer_error(in, "the key: expected u32[2], or keys u32[…, 2], found %s",
                    infer_text(in, in->operands[0]));
    infer_equal(in, dim_const(in->m, 2), key.dims[key.rank - 1], "words of a key");
    if (in->op != OP_random_bits && !dtype_is_float(t))
        infer_error(in, "attribute 'dtype': expected a float dtype, found %s", dtype_info[t].name);
    if (key.rank - 1 + drawn->n > MAX_RANK)
        infer_error(in, "the result would have %u dims, a type has at most %d", key.rank - 1 + drawn->n,
                    MAX_RANK);
    dim dims[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i + 1 < key.rank; i++) dims[n++] = key.dims[i];
    for (uint32_t i = 0; i < drawn->n; i++) {
        infer_not_negative(in, drawn->list[i], "attribute 'dims'");
        dims[n++] = drawn->list[i];
    }
    infer_result(in, type_intern(in->m, t, n, dims));
}

static void eval_random(struct eval *e)
{
    const struct tensor *keys = e->operands[0];
    struct tensor *out = e->results[0];
    int64_t n_keys = keys->count / 2, each = n_keys ? out->count / n_keys : 0;
    for (int64_t k = 0; k < n_keys; k++) {
        const uint32_t *key = (const uint32_t *)keys->data + 2 * k;
        for (int64_t i = 0; i < each; i++) {
            uint64_t position = (uint64_t)i, at = (uint64_t)(k * each + i);
            uint32_t words[2];
            if (e->n->op == OP_random_bits) {
                scalar_c_block(key, position, false, words);
                ((uint32_t *)out->data)[at] = words[0];
            } else {
                char *to = (char *)out->data + at * tensor_width(out);
                scalar_c_draw((enum op)e->n->op, (enum dtype)out->dtype, key, position, to);
            }
        }
    }
}

/* A batch of keys is already what the operator takes. */
static void batch_random(struct batch *v)
{
    if (!batch_none(v)) v->results[0] = emit(v->b, (enum op)v->n->op, v->operands, 1, v->attrs);
}

static lpv elem_random(struct lower *L, const struct fn *f, const struct node *n, uint32_t result,
                       const lpv *idx)
{
    struct lp *p = lower_lp(L);
    val keys = node_operands(f, n)[0];
    struct type t = type_get(lower_module(L), value_type(f, n->results));
    uint32_t lead = type_get(lower_module(L), value_type(f, keys)).rank - 1u;
    lpv at[MAX_RANK], key[2], position = lp_index(p, 0);
    HOP_UNUSED(result);
    for (uint32_t i = 0; i < lead; i++) at[i] = idx[i];
    for (uint32_t word = 0; word < 2; word++) {
        at[lead] = lp_index(p, word);
        key[word] = lower_elem(L, keys, at);
    }
    for (uint32_t i = lead; i < t.rank; i++)
        position = lp_bin(p, LP_ADD, lp_bin(p, LP_MUL, position, lower_dim(L, t.dims[i])), idx[i]);
    return scalar_lp_random(p, (enum op)n->op, (enum dtype)t.dtype, key, position);
}

static const struct op_lower lower_random = {
    .kind = LOWER_POINTWISE, .access = ACCESS_GATHER, .cost = COST_EXPENSIVE, .elem = elem_random
};

#define SAMPLE(op, symbols, key, attrs, to) \
    { "hop 1\nfn @sample" symbols "(%key: u32" key ") -> (" to ") {\n  %y = " op " {" attrs \
      "} (%key)\n  return %y\n}\n", \
      "key = 0..1000000" }
static const struct op_sample samples_random_bits[] = {
    SAMPLE("random_bits", "", "[2]", "dims = [21]", "u32[21]"),
    SAMPLE("random_bits", "", "[3, 2]", "dims = [2, 5]", "u32[3, 2, 5]"),
    SAMPLE("random_bits", "", "[2]", "dims = []", "u32[]"),
    SAMPLE("random_bits", "", "[2]", "dims = [0]", "u32[0]"),
};
#define FLOAT_SAMPLES(op) \
    SAMPLE(op, "", "[2]", "dims = [21]", "f32[21]"), \
        SAMPLE(op, "", "[2]", "dims = [3, 4], dtype = f64", "f64[3, 4]"), \
        SAMPLE(op, "", "[3, 2]", "dims = [5]", "f32[3, 5]"), \
        SAMPLE(op, "", "[2]", "dims = [], dtype = f64", "f64[]"), \
        SAMPLE(op, "", "[2]", "dims = [0, 3]", "f32[0, 3]"), \
        SAMPLE(op, "[N]", "[N, 2]", "dims = [N, 4]", "f32[N, N, 4]"), \
        SAMPLE(op, "", "[2]", "dims = [21], dtype = f16", "f16[21]"), \
        SAMPLE(op, "", "[2]", "dims = [21], dtype = bf16", "bf16[21]")
static const struct op_sample samples_random_uniform[] = { FLOAT_SAMPLES("random_uniform") };
static const struct op_sample samples_random_normal[] = { FLOAT_SAMPLES("random_normal") };

static const struct attr_spec random_attrs[] = {
    [RANDOM_DIMS] = { "dims", ATTR_DIMS, true, NULL }, [RANDOM_DTYPE] = { "dtype", ATTR_DTYPE, false, NULL }
};

/* Floats drawn depend on integers only, so no derivative passes through. */
#define RANDOM_ROW(op, text, n) \
    const struct op_row row_##op = { .name = #op, \
                                     .meaning = text, \
                                     .sig = { 1, 1, .n_attrs = n, .attrs = random_attrs }, \
                                     .infer = infer_random, \
                                     .eval = eval_random, \
                                     .batch = batch_random, \
                                     .lower = &lower_random, \
                                     .autocast = AUTOCAST_KEEP, \
                                     .no_gradient = "integer-valued", \
                                     ROW_SAMPLES(samples_##op) };
RANDOM_ROW(random_bits, "32 random bits an element, from a key u32[2] and the element's position", 1)
RANDOM_ROW(random_uniform,
           "uniform in [0, 1): multiples of 2^-8 (bf16), 2^-11 (f16), 2^-24 (f32) or 2^-53 (f64), from a key "
           "u32[2] and the position",
           2)
RANDOM_ROW(random_normal, "normal with mean 0 and deviation 1, from a key u32[2] and the position", 2)
