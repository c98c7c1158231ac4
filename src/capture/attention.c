/* Attention with bodies for scores and mask: a specification comes in, one node of flex_attention goes out.
 */
#include "capture/capture.h"
#include "hops/flex_parts.h"

#include <math.h>

struct attention_args {
    hop_val *results;
    const hop_flex_attention_spec *spec;
};

static int score_as_it_is(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = in[0];
    return 0;
}
static int every_key(void *env, const hop_val *in, hop_val *out)
{
    (void)env, (void)in;
    out[0] = hop_bool(1);
    return 0;
}

static bool is_given(hop_val v) { return v.scope != HANDLE_NONE; }

/* The scale as it is given, or the root of the width of a query's row, inverted. */
static val bring_scale(struct capture *c, hop_val given, val query)
{
    struct builder *b = &c->innermost->b;
    struct type q = emit_type(b, query);
    enum dtype computed = q.dtype == DT_F64 ? DT_F64 : DT_F32;
    if (is_given(given)) {
        struct operand o = resolve(c->innermost, given);
        return operand_as(b, &o, computed);
    }
    if (q.rank != 4) return emit_full(b, computed, 1, 0, NULL); /* which is told behind this */
    if (dim_is_const(c->m, q.dims[3])) {
        double width = (double)dim_const_value(c->m, q.dims[3]);
        return emit_full(b, computed, width > 0 ? 1 / sqrt(width) : 1, 0, NULL);
    }
    val width = emit_cast(b, emit_dim_value(b, q.dims[3]), computed);
    return emit1(b, OP_rsqrt, width);
}

static val bring_first(struct capture *c, hop_val given, const char *what)
{
    struct scope *s = c->innermost;
    if (!is_given(given)) return emit_full(&s->b, DT_I64, 0, 0, NULL);
    struct operand o = resolve(s, given);
    bool integer = o.weak == HANDLE_INT;
    if (!o.weak) {
        struct type t = emit_type(&s->b, o.v);
        integer = dtype_is_integer((enum dtype)t.dtype) && !t.rank;
    }
    if (!integer) capture_throw("%s: expected an integer", what);
    return o.weak ? operand_as(&s->b, &o, DT_I64) : emit_as_index(&s->b, o.v);
}

static val bring(struct capture *c, hop_val v)
{
    struct operand o = resolve(c->innermost, v);
    return operand_value(&c->innermost->b, &o);
}

/* An array, in the dtype of products. */
static val bring_array(struct capture *c, hop_val v)
{
    struct builder *b = &c->innermost->b;
    val x = bring(c, v);
    return emit_cast(b, x, modes_dtype(b, OP_dot, (enum dtype)emit_type(b, x).dtype));
}

static void do_flex_attention(struct capture *c, void *args)
{
    const struct attention_args *a = args;
    const hop_flex_attention_spec *spec = a->spec;
    struct builder *b = &c->innermost->b;
    if (spec->n_blocks < 0 || spec->n_blocks > 2 * FLEX_LIST || (spec->n_blocks && !spec->blocks))
        capture_throw("expected up to %d operands of a block mask, found %d", 2 * FLEX_LIST, spec->n_blocks);
    if (c->eager)
        hop_throw(HOP_UNAVAILABLE, "flex_attention: it is compiled as a whole: it cannot be run eagerly");
    uint32_t n_blocks = (uint32_t)spec->n_blocks;
    val operands[FLEX_FIRST_BLOCK + 2 * FLEX_LIST];
    operands[FLEX_QUERY] = bring_array(c, spec->query);
    operands[FLEX_KEY] = bring_array(c, spec->key);
    operands[FLEX_VALUE] = bring_array(c, spec->value);
    operands[FLEX_SCALE] = bring_scale(c, spec->scale, operands[FLEX_QUERY]);
    operands[FLEX_BATCH] = bring_first(c, spec->first_batch, "first_batch");
    operands[FLEX_HEAD] = bring_first(c, spec->first_head, "first_head");
    operands[FLEX_ROW] = bring_first(c, spec->first_query, "first_query");
    operands[FLEX_COLUMN] = bring_first(c, spec->first_key, "first_key");
    for (uint32_t i = 0; i < n_blocks; i++) operands[FLEX_FIRST_BLOCK + i] = bring(c, spec->blocks[i]);
    struct reading_body score = { .what = "the score function of flex_attention",
                                  .label = spec->score_name,
                                  .body = spec->score ? spec->score : score_as_it_is,
                                  .env = spec->env,
                                  .operands = operands + FLEX_SCALE,
                                  .n = FLEX_N_FROM,
                                  .like_first = true };
    struct reading_body mask = score;
    mask.what = "the mask function of flex_attention";
    mask.label = spec->mask_name;
    mask.body = spec->mask ? spec->mask : every_key;
    mask.like_first = false;
    struct region_in regions[2];
    regions[FLEX_SCORE] = capture_reading_body(c, &score);
    regions[FLEX_MASK] = capture_reading_body(c, &mask);
    uint32_t groups[3] = { FLEX_N_ARRAYS, FLEX_N_FROM, n_blocks };
    uint32_t block[2] = { (uint32_t)spec->query_block, (uint32_t)spec->key_block };
    bool sized = spec->query_block || spec->key_block;
    struct attr attrs[FLEX_ATTRS] = { [FLEX_BLOCK] = sized ? A_INTS(block, 2) : A_NONE };
    struct node_in node = { .op = OP_flex_attention,
                            .operands = operands,
                            .n_operands = FLEX_FIRST_BLOCK + n_blocks,
                            .groups = groups,
                            .attrs = attrs,
                            .regions = regions,
                            .n_regions = 2 };
    val first = builder_node(b, &node);
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) a->results[k] = value_handle(c->innermost, first + k);
}

int hop_flex_attention_at(hop_place at, hop_val *results, int n_results, const hop_flex_attention_spec *spec)
{
    struct attention_args a = { results, spec };
    int status;
    if (!spec || !results || n_results != FLEX_RESULTS)
        status = hop_fail_at(at, "flex_attention: expected a specification and room for 3 results");
    else status = capture_edge(at, "flex_attention", do_flex_attention, &a);
    for (int i = 0; status && results && i < n_results; i++) results[i] = (hop_val){ 0, 0 };
    return status;
}
