/* Attention with bodies for scores and mask: a specification comes in, one node of flex_attention goes out.
 * And block masks: a mask comes in, a call of the function that makes its lists goes out. */
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
    val width = emit_cast(b, emit_dim_value(b, dim_max(c->m, q.dims[3], 1)), computed);
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

static void record(struct capture *c, void *args, hop_val *results)
{
    const hop_flex_attention_spec *spec = args;
    struct builder *b = &c->innermost->b;
    if (spec->n_blocks < 0 || spec->n_blocks > FLEX_MOST_BLOCKS || (spec->n_blocks && !spec->blocks))
        capture_throw("expected up to %d operands of a block mask, found %d", (int)FLEX_MOST_BLOCKS,
                      spec->n_blocks);
    uint32_t n_blocks = (uint32_t)spec->n_blocks;
    val operands[FLEX_FIRST_BLOCK + FLEX_MOST_BLOCKS];
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
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) results[k] = value_handle(c->innermost, first + k);
}

static void do_flex_attention(struct capture *c, void *args)
{
    const struct attention_args *a = args;
    if (c->eager) eager_whole(c, record, (void *)a->spec, a->results, FLEX_RESULTS);
    else record(c, (void *)a->spec, a->results);
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

/* ---- block masks ---- */

static dim size_of(struct capture *c, int64_t n, int64_t least, const char *what)
{
    enum { MOST = 1 << 30 };
    if (n < least || n > MOST)
        capture_throw("%s: expected a number from %lld to %d, found %lld", what, (long long)least, (int)MOST,
                      (long long)n);
    return dim_const(c->m, n);
}

/* A length: a size of the capture where one is set. */
static dim length_of(struct capture *c, hop_dim size, int64_t n, const char *what)
{
    if (!size.scope) return size_of(c, n, 0, what);
    dim d = resolve_dim(c->innermost, size);
    return dim_is_const(c->m, d) ? size_of(c, dim_const_value(c->m, d), 0, what) : d;
}

static void record_blocks(struct capture *c, void *args, hop_val *results)
{
    const hop_block_mask_spec *spec = args;
    struct builder *b = &c->innermost->b;
    struct flex_lists_in in = { .batches = size_of(c, HOP_MAX(spec->batches, 1), 1, "batches"),
                                .heads = size_of(c, HOP_MAX(spec->heads, 1), 1, "heads"),
                                .queries = length_of(c, spec->query_size, spec->queries, "queries"),
                                .keys = length_of(c, spec->key_size, spec->keys, "keys"),
                                .room = size_of(c, spec->room, 0, "room"),
                                .ranges = spec->ranges,
                                .sized = spec->query_block || spec->key_block };
    if (in.ranges && !in.room) capture_throw("ranges: expected a room, for compact lists");
    if (in.sized) {
        in.block[0] = (uint32_t)dim_const_value(c->m, size_of(c, spec->query_block, 1, "query_block"));
        in.block[1] = (uint32_t)dim_const_value(c->m, size_of(c, spec->key_block, 1, "key_block"));
    }
    for (uint32_t k = 0; k < FLEX_N_FROM; k++) in.from[k] = emit_full(b, k ? DT_I64 : DT_F32, 0, 0, NULL);
    struct reading_body mask = { .what = "the mask function of block_mask",
                                 .label = spec->mask_name,
                                 .body = spec->mask ? spec->mask : every_key,
                                 .env = spec->env,
                                 .operands = in.from,
                                 .n = FLEX_N_FROM };
    in.mask = capture_reading_body(c, &mask);
    const struct fn *f = module_fn(c->m, in.mask.fn);
    struct type gives = type_get(c->m, value_type(f, f->results[0]));
    if (gives.rank || gives.dtype != DT_BOOL) capture_throw("the mask function must give a bool");
    if (!effects_are_none(f->effects))
        capture_throw("the mask function has effects (it checks, prints or calls the host)");
    if (flex_reads(c->m, in.mask.fn, 0))
        capture_throw("the mask function reads the score, which a block mask does not have");
    val lists = flex_emit_lists(b, &in);
    uint32_t n = 2 * FLEX_LIST + (in.ranges ? 1 : 0);
    for (uint32_t k = 0; k < n; k++) results[k] = value_handle(c->innermost, lists + k);
}

struct block_mask_args {
    hop_val *results;
    const hop_block_mask_spec *spec;
};
static void do_block_mask(struct capture *c, void *args)
{
    const struct block_mask_args *a = args;
    int n = 2 * FLEX_LIST + (a->spec->ranges != 0);
    if (c->eager) eager_whole(c, record_blocks, (void *)a->spec, a->results, n);
    else record_blocks(c, (void *)a->spec, a->results);
}

int hop_block_mask_at(hop_place at, hop_val *results, int n_results, const hop_block_mask_spec *spec)
{
    struct block_mask_args a = { results, spec };
    int status;
    if (!spec || !results || n_results != 2 * FLEX_LIST + (spec->ranges != 0))
        status = hop_fail_at(at,
                             "block_mask: expected a specification and room for 4 results, 5 with ranges");
    else status = capture_edge(at, "block_mask", do_block_mask, &a);
    for (int i = 0; status && results && i < n_results; i++) results[i] = (hop_val){ 0, 0 };
    return status;
}
