/* The row of flex_attention: attention whose scores a body edits and whose mask another body says. Operands:
 * query [b, h, l, e], key and value [b or 1, h / g, s, …]; the scale, and the numbers from which batches,
 * heads, queries and keys count; lists of the blocks of keys that take part, per block of queries. Bodies:
 * (score, batch, head, query, key, own…) -> a score, or whether the key takes part. Results: the values
 * weighed by the softmax of the scores, the logarithm of the sum of the exponentials, the largest score; a
 * query without any key has zeros, -inf and -inf. The node stays one until it is compiled or run; then it is
 * the loops of flex_forward.c, and its pullback those of flex_backward.c from the start. */
#include "hops/flex.h"
#include "transform/pass.h"

/* ---- types ---- */

static void infer_arrays(struct infer *in)
{
    static const char *const names[] = { "query", "key", "value" };
    struct type q = infer_type(in, FLEX_QUERY), k = infer_type(in, FLEX_KEY), v = infer_type(in, FLEX_VALUE);
    for (uint32_t i = 0; i < FLEX_N_ARRAYS; i++) {
        struct type t = infer_type(in, i);
        if (!dtype_is_float((enum dtype)t.dtype) || t.rank != 4)
            infer_error(in, "%s: expected floats [batches, heads, length, width], found %s", names[i],
                        infer_text(in, in->operands[i]));
        if (t.dtype != q.dtype)
            infer_error(in, "%s: expected the dtype of query, %s, found %s", names[i],
                        infer_text(in, in->operands[0]), infer_text(in, in->operands[i]));
    }
    infer_equal(in, q.dims[3], k.dims[3], "the widths of query and key");
    infer_equal(in, k.dims[2], v.dims[2], "the lengths of key and value");
    infer_equal(in, k.dims[1], v.dims[1], "the heads of key and value");
    infer_equal(in, k.dims[0], v.dims[0], "the batches of key and value");
    if (k.dims[0] != q.dims[0] && k.dims[0] != 1)
        infer_equal(in, q.dims[0], k.dims[0], "the batches of query and key (which may be 1)");
    if (q.dims[1] == k.dims[1]) return;
    bool known = dim_is_const(in->m, q.dims[1]) && dim_is_const(in->m, k.dims[1]);
    int64_t heads = known ? dim_const_value(in->m, q.dims[1]) : 0;
    int64_t kv_heads = known ? dim_const_value(in->m, k.dims[1]) : 0;
    if (!known)
        infer_error(in, "the heads of query %s and key %s must be equal, or numbers that divide",
                    infer_text(in, in->operands[0]), infer_text(in, in->operands[1]));
    if (!kv_heads || heads % kv_heads)
        infer_error(in, "the heads of query, %lld, must be a multiple of those of key and value, %lld",
                    (long long)heads, (long long)kv_heads);
}

static enum dtype computed_dtype(enum dtype t) { return t == DT_F64 ? DT_F64 : DT_F32; }

static void infer_from(struct infer *in)
{
    static const char *const names[] = { "the scale", "the first batch", "the first head", "the first query",
                                         "the first key" };
    enum dtype computed = computed_dtype((enum dtype)infer_type(in, FLEX_QUERY).dtype);
    for (uint32_t i = 0; i < FLEX_N_FROM; i++) {
        type_id wanted = type_scalar(in->m, i ? DT_I64 : computed), found = in->operands[FLEX_SCALE + i];
        if (found != wanted)
            infer_error(in, "from: %s: expected %s, found %s", names[i], infer_text(in, wanted),
                        infer_text(in, found));
    }
}

static void infer_one_of(struct infer *in, dim found, dim all, const char *what)
{
    if (found != 1) infer_equal(in, found, all, what);
}

static bool is_list_dtype(struct type t) { return t.dtype == DT_I32 || t.dtype == DT_I64; }

/* Counts, or offsets where columns have one dim, and columns, of which counts are operand `first`. */
static void infer_list(struct infer *in, uint32_t first)
{
    struct type q = infer_type(in, FLEX_QUERY), k = infer_type(in, FLEX_KEY);
    struct type counts = infer_type(in, first), columns = infer_type(in, first + FLEX_COLUMNS);
    struct type like = infer_type(in, FLEX_FIRST_BLOCK);
    bool compact = columns.rank == 1;
    dim rows = flex_blocks(in->m, q.dims[2], flex_block(in->m, in->attrs, q.dims[2], 0));
    dim n_columns = flex_blocks(in->m, k.dims[2], flex_block(in->m, in->attrs, q.dims[2], 1));
    if (!is_list_dtype(counts) || counts.rank != 3)
        infer_error(in, "blocks: operand %u: expected i32 or i64 [batches, heads, %s], found %s",
                    first - FLEX_FIRST_BLOCK, compact ? "rows + 1" : "rows",
                    infer_text(in, in->operands[first]));
    if (!is_list_dtype(columns) || (columns.rank != 4 && !compact))
        infer_error(in,
                    "blocks: operand %u: expected i32 or i64 [batches, heads, rows, columns], or [blocks] "
                    "behind offsets, found %s",
                    first - FLEX_FIRST_BLOCK + 1, infer_text(in, in->operands[first + FLEX_COLUMNS]));
    infer_one_of(in, counts.dims[0], q.dims[0], "the batches of the block mask and of query");
    infer_one_of(in, counts.dims[1], q.dims[1], "the heads of the block mask and of query");
    if (compact)
        infer_equal(in, counts.dims[2], dim_add(in->m, rows, 1), "offsets and blocks of queries + 1");
    else infer_equal(in, counts.dims[2], rows, "rows of the block mask and blocks of queries");
    infer_equal(in, counts.dims[0], like.dims[0], "the batches of the lists of a block mask");
    infer_equal(in, counts.dims[1], like.dims[1], "the heads of the lists of a block mask");
    if (compact) return;
    infer_equal(in, columns.dims[0], like.dims[0], "the batches of the lists of a block mask");
    infer_equal(in, columns.dims[1], like.dims[1], "the heads of the lists of a block mask");
    infer_equal(in, columns.dims[2], rows, "rows of the block mask and blocks of queries");
    infer_equal(in, columns.dims[3], n_columns, "columns of the block mask and blocks of keys");
}

static void infer_blocks(struct infer *in)
{
    uint32_t n = in->groups[FLEX_BLOCKS];
    const struct attr *block = &in->attrs[FLEX_BLOCK];
    if (block->kind != ATTR_ABSENT)
        for (uint32_t i = 0; i < block->n || i < 2; i++)
            if (block->n != 2 || (int32_t)block->list[i] < 1)
                infer_error(in, "block: expected two positive numbers, queries and keys of a block");
    if (n == 1 || n > FLEX_MOST_BLOCKS)
        infer_error(in,
                    "blocks: expected counts and columns of blocks, and of those without a mask, and perhaps "
                    "ranges; found %u operands",
                    n);
    for (uint32_t i = 0; i + 1 < n; i += FLEX_LIST) infer_list(in, FLEX_FIRST_BLOCK + i);
    if (n % FLEX_LIST == 0) return;
    type_id ranges = in->operands[FLEX_FIRST_BLOCK + n - 1];
    struct type t = type_get(in->m, ranges), columns = infer_type(in, FLEX_FIRST_BLOCK + FLEX_COLUMNS);
    bool right = is_list_dtype(t) && t.rank == 3 && t.dims[2] == dim_const(in->m, 2);
    if (!right)
        infer_error(in, "blocks: ranges: expected i32 or i64 [blocks, queries of a block, 2], found %s",
                    infer_text(in, ranges));
    if (columns.rank != 1) infer_error(in, "blocks: ranges: expected a compact list, columns [blocks]");
    infer_equal(in, t.dims[0], columns.dims[0], "blocks of the ranges and of the columns");
    infer_equal(in, t.dims[1], flex_block(in->m, in->attrs, infer_type(in, FLEX_QUERY).dims[2], 0),
                "rows of the ranges and queries of a block");
}

static void infer_bodies(struct infer *in)
{
    static const char *const names[] = { "score", "mask" };
    for (uint32_t r = 0; r < in->n_regions; r++) {
        const struct fn *g = module_fn(in->m, in->regions[r].fn);
        type_id wanted = r == FLEX_SCORE ? in->operands[FLEX_SCALE] : type_scalar(in->m, DT_BOOL);
        if (g->n_results != 1)
            infer_error(in, "%s: the body gives %u results, expected one", names[r], g->n_results);
        type_id found = infer_region_result(in, r, 0);
        if (found != wanted)
            infer_error(in, "%s: the body gives %s, expected %s", names[r], infer_text(in, found),
                        infer_text(in, wanted));
        if (!effects_are_none(g->effects))
            infer_error(in,
                        "%s: the body has effects (it checks, prints or calls the host): it may be run "
                        "for any key, in any order",
                        names[r]);
    }
}

static void flex_infer(struct infer *in)
{
    if (in->groups[FLEX_ARRAYS] != FLEX_N_ARRAYS)
        infer_error(in, "expected query, key and value, found %u operands", in->groups[FLEX_ARRAYS]);
    if (in->groups[FLEX_FROM] != FLEX_N_FROM)
        infer_error(in,
                    "from: expected the scale and the first batch, head, query and key, found %u operands",
                    in->groups[FLEX_FROM]);
    infer_arrays(in);
    infer_from(in);
    infer_blocks(in);
    infer_bodies(in);
    struct type q = infer_type(in, FLEX_QUERY), v = infer_type(in, FLEX_VALUE);
    dim out[4] = { q.dims[0], q.dims[1], q.dims[2], v.dims[3] };
    enum dtype computed = computed_dtype((enum dtype)q.dtype);
    infer_result(in, type_intern(in->m, (enum dtype)q.dtype, 4, out));
    infer_result(in, type_intern(in->m, computed, 3, out));
    infer_result(in, type_intern(in->m, computed, 3, out));
}

/* ---- the node as loops ---- */

/* Of a node that is mapped into b. */
static void begin_in(struct flex *x, struct builder *b, const struct fn *f, const struct node *n,
                     const struct node_in *in, val *operands)
{
    type_id *types = ARENA_NEW(&b->arena, type_id, n->n_operands);
    uint32_t n_dims[2], at = in->n_operands;
    if (at) memcpy(operands, in->operands, at * sizeof *operands);
    for (uint32_t r = 0; r < 2; r++) {
        n_dims[r] = node_region(f, n, r)->n_dims;
        for (uint32_t k = 0; k < in->regions[r].n_operands; k++) operands[at++] = in->regions[r].operands[k];
    }
    for (uint32_t k = 0; k < n->n_operands; k++) types[k] = builder_type(b, operands[k]);
    flex_begin(x, &b->arena,
               &(struct flex_in){ .m = b->m,
                                  .place = n->place,
                                  .symbols = b->symbols.data,
                                  .operands = types,
                                  .n_operands = n->n_operands,
                                  .groups = in->groups,
                                  .attrs = in->attrs,
                                  .regions = in->regions,
                                  .n_dims = n_dims });
}

static val call(struct builder *b, uint32_t fn, const val *operands, uint32_t n, const dim *dims)
{
    struct region_in region = { fn, operands, n, dims };
    return builder_node(b, &(struct node_in){ .op = OP_invoke_subgraph,
                                              .groups = (const uint32_t[1]){ 0 },
                                              .regions = &region,
                                              .n_regions = 1 });
}

static void flex_stands_for(struct copier *c, const struct node *n, val *results)
{
    struct builder *b = c->b;
    struct node_in in = copier_node_in(c, n);
    val *operands = ARENA_NEW(&b->arena, val, n->n_operands);
    struct flex x;
    begin_in(&x, b, c->f, n, &in, operands);
    val first = call(b, flex_checked(&x), operands, n->n_operands, x.symbols);
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) results[k] = first + k;
}

/* ---- eval ---- */

struct evaluated {
    uint32_t fn;
    const dim *symbols;
};
static const uint64_t MEMO_EVAL = 0x666c6578;

static const struct evaluated *evaluated(const struct eval *e)
{
    struct module *m = e->m;
    const uint64_t key[4] = { MEMO_EVAL, e->f->id, (uint64_t)(e->n - e->f->nodes) };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.record;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    const struct fn *f = e->f;
    const struct node *n = e->n;
    type_id *types = ARENA_NEW(&arena, type_id, n->n_operands);
    uint32_t n_dims[2], groups[3];
    struct region_in regions[2];
    for (uint32_t k = 0; k < n->n_operands; k++) types[k] = value_type(f, node_operands(f, n)[k]);
    for (uint32_t g = 0; g < 3; g++) groups[g] = node_group_size(f, n, g);
    for (uint32_t r = 0; r < 2; r++) {
        const struct region *g = node_region(f, n, r);
        n_dims[r] = g->n_dims;
        regions[r] = (struct region_in){ g->fn, NULL, g->n_operands, g->dims };
    }
    struct flex x;
    flex_begin(&x, &arena,
               &(struct flex_in){ .m = m,
                                  .place = n->place,
                                  .symbols = f->symbols,
                                  .operands = types,
                                  .n_operands = n->n_operands,
                                  .groups = groups,
                                  .attrs = node_attr(f, n, 0),
                                  .regions = regions,
                                  .n_dims = n_dims });
    struct evaluated *made = ARENA_NEW(&m->arena, struct evaluated, 1);
    made->fn = flex_checked(&x);
    made->symbols = arena_copy(&m->arena, x.symbols, x.shape->n_outer_symbols * sizeof *x.symbols);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    memo_put(m, key, (union memo_value){ .record = made });
    return made;
}

static void flex_eval(struct eval *e)
{
    const struct evaluated *w = evaluated(e);
    int64_t n = module_fn(e->m, w->fn)->n_outer_symbols;
    struct tensor_list *scratch = tensor_list_begin(1);
    scratch->data[0] = tensor_new(DT_I64, 1, &n);
    int64_t *symbols = scratch->data[0]->data;
    for (int64_t k = 0; k < n; k++) symbols[k] = dim_eval(e->m, w->symbols[k], e->symbols);
    interp_call(e->in, w->fn, symbols, e->operands, e->results);
    tensor_list_end(scratch);
}

/* ---- reverse ---- */

static bool gets_cotangent(const struct vjp_forward *v, uint32_t k)
{
    uint32_t first_mask = v->n->n_operands - node_region(v->f, v->n, FLEX_MASK)->n_operands;
    return v->active[k] && k < first_mask;
}

static void flex_vjp_forward(struct vjp_forward *v)
{
    struct builder *b = v->copy->b;
    bool any = false, *wanted = ARENA_ZNEW(&b->arena, bool, v->n->n_operands);
    for (uint32_t k = 0; k < v->n->n_operands; k++) {
        wanted[k] = gets_cotangent(v, k);
        any |= wanted[k];
    }
    val first = copier_node(v->copy, v->n);
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) {
        v->results[k] = first + k;
        v->result_active[k] = any && k != FLEX_MAX;
    }
    v->saved = wanted;
}

static void flex_vjp(struct vjp *v)
{
    struct builder *b = v->b;
    uint32_t n = v->n->n_operands;
    const bool *wanted = v->saved;
    bool given = v->ct[FLEX_OUT] != VAL_NONE || v->ct[FLEX_LSE] != VAL_NONE;
    if (!given) return; /* only of the largest scores, which have no gradient */
    struct region_in regions[2];
    uint32_t groups[3], at = 0;
    for (uint32_t g = 0; g < 3; g++) at += groups[g] = node_group_size(v->f, v->n, g);
    for (uint32_t r = 0; r < 2; r++) {
        const struct region *g = node_region(v->f, v->n, r);
        dim *dims = ARENA_NEW(&b->arena, dim, g->n_dims);
        for (uint32_t k = 0; k < g->n_dims; k++) dims[k] = dim_substitute(b->m, g->dims[k], v->symbols);
        regions[r] = (struct region_in){ g->fn, v->operands + at, g->n_operands, dims };
        at += g->n_operands;
    }
    struct node_in in = { .operands = v->operands,
                          .n_operands = n - regions[0].n_operands - regions[1].n_operands,
                          .groups = groups,
                          .attrs = v->attrs,
                          .regions = regions,
                          .n_regions = 2 };
    val *operands = ARENA_NEW(&b->arena, val, n + 4);
    struct flex x;
    struct attr first_head;
    begin_in(&x, b, v->f, v->n, &in, operands);
    if (flex_is_nothing(&x)) return;
    x.heads_from_zero = full_value(b, operands[FLEX_HEAD], &first_head) && first_head.i == 0;
    operands[n] = v->results[FLEX_OUT];
    operands[n + 1] = v->results[FLEX_LSE];
    for (uint32_t k = 0; k < 2; k++)
        operands[n + 2 + k] = v->ct[k] != VAL_NONE ? v->ct[k] : zeros_like(b, v->results[k]);
    val next = call(b, flex_backward(&x, wanted), operands, n + 4, x.symbols);
    for (uint32_t k = 0; k < n; k++)
        if (wanted[k]) v->out[k] = next++;
}

/* ---- tangents, lanes ---- */

static void flex_jvp(struct jvp *j)
{
    struct builder *b = j->b;
    struct node_in in = copier_node_in(j->copy, j->n);
    uint32_t n = j->n->n_operands, total = n;
    val *operands = ARENA_NEW(&b->arena, val, 2 * (size_t)n);
    bool *active = ARENA_NEW(&b->arena, bool, n), found[FLEX_RESULTS];
    struct flex x;
    begin_in(&x, b, j->f, j->n, &in, operands);
    for (uint32_t k = 0; k < n; k++) {
        active[k] = j->tangents[k] != VAL_NONE;
        if (active[k]) operands[total++] = j->tangents[k];
    }
    uint32_t fn = jvp_function(b->m, flex_checked(&x), active, found);
    val first = call(b, fn, operands, total, x.symbols), next = first + FLEX_RESULTS;
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) {
        j->results[k] = first + k;
        j->out[k] = found[k] ? next++ : VAL_NONE;
    }
}

/* Lanes as more batches, or a map over them whose body is the node. */
static void flex_batch(struct batch *v)
{
    if (flex_fold_lanes(v)) return;
    struct builder *b = v->b;
    struct node_in in = copier_node_in(v->copy, v->n);
    struct new_body body;
    uint32_t n = v->n->n_operands, n_over = 0, n_with = 0;
    val *inner = ARENA_NEW(&b->arena, val, n), *over = ARENA_NEW(&b->arena, val, n);
    val *with = ARENA_NEW(&b->arena, val, n);
    type_id *types = ARENA_NEW(&b->arena, type_id, n);
    struct region_in regions[2];
    new_body_begin(&body, b, NULL, NULL, 0);
    for (uint32_t k = 0; k < n; k++) {
        type_id t = builder_type(b, v->operands[k]);
        types[k] = new_body_type(&body, v->batched[k] ? type_drop_leading(b->m, t) : t);
    }
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t n_dims = node_region(v->f, v->n, r)->n_dims;
        dim *dims = ARENA_NEW(&b->arena, dim, n_dims);
        for (uint32_t k = 0; k < n_dims; k++) dims[k] = new_body_dim(&body, in.regions[r].dims[k]);
        regions[r] = in.regions[r];
        regions[r].dims = dims;
    }
    for (uint32_t k = 0; k < n; k++)
        if (v->batched[k]) {
            inner[k] = builder_param(&body.b, types[k], 0);
            over[n_over++] = v->operands[k];
        }
    for (uint32_t k = 0; k < n; k++)
        if (!v->batched[k]) {
            inner[k] = builder_param(&body.b, types[k], 0);
            with[n_with++] = v->operands[k];
        }
    in.operands = inner;
    for (uint32_t r = 0, at = in.n_operands; r < 2; at += regions[r++].n_operands)
        regions[r].operands = inner + at;
    in.regions = regions;
    val first = builder_node(&body.b, &in), results[FLEX_RESULTS];
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) results[k] = first + k;
    struct loop l = loop_new(LOOP_MAP);
    l.over = over;
    l.n_over = n_over;
    l.length = v->size;
    l.apart = true;
    loop_set_body(&l, b->m, new_body_finish(&body, results, FLEX_RESULTS, with, n_with));
    val stacks = loop_build(b, &l).stacks;
    for (uint32_t k = 0; k < FLEX_RESULTS; k++) v->results[k] = stacks + k;
}

static const struct op_sample flex_samples[] = {
    { "hop 1\n"
      "fn @sample(%q: f64[1, 2, 5, 3], %k: f64[1, 2, 4, 3], %v: f64[1, 2, 4, 2], %c: f64[]) -> "
      "(f64[1, 2, 5, 2], f64[1, 2, 5]) {\n"
      "  %zero = full {value = 0, dims = [], dtype = i64}\n"
      "  %o, %l, %m = flex_attention {block = [2, 3]} (%q, %k, %v) from(%s = %c, %b = %zero, %h = "
      "%zero, %i = %zero, %j = %zero) score {\n"
      "    yield(%s)\n"
      "  } mask {\n"
      "    %t = ge(%i, %j)\n"
      "    yield(%t)\n"
      "  }\n"
      "  return %o, %l\n"
      "}\n",
      NULL },
    { "hop 1\n"
      "fn @sample[T](%q: f64[2, 4, T, 2], %k: f64[1, 2, 5, 2], %v: f64[1, 2, 5, 2], %w: f64[4], %d: "
      "i64[5]) -> (f64[2, 4, T, 2]) {\n"
      "  %zero = full {value = 0, dims = [], dtype = i64}\n"
      "  %c = full {value = 0.5, dims = [], dtype = f64}\n"
      "  %o, %l, %m = flex_attention(%q, %k, %v) from(%s = %c, %b = %zero, %h = %zero, %i = %zero, "
      "%j = %zero) score with(%w) {\n"
      "    %g = gather {dims = [0]} (%w, %h)\n"
      "    %n = sub(%j, %i)\n"
      "    %x = cast {dtype = f64} (%n)\n"
      "    %y = mul(%g, %x)\n"
      "    %t = add(%s, %y)\n"
      "    yield(%t)\n"
      "  } mask with(%d) {\n"
      "    %x = gather {dims = [0]} (%d, %i)\n"
      "    %y = gather {dims = [0]} (%d, %j)\n"
      "    %t = eq(%x, %y)\n"
      "    yield(%t)\n"
      "  }\n"
      "  return %o\n"
      "}\n",
      "d = 0..1" },
    { "hop 1\n"
      "fn @sample(%q: f32[1, 1, 4, 2], %k: f32[1, 1, 6, 2], %v: f32[1, 1, 6, 2], %r: f32[9], %n: "
      "i32[1, 1, 2], %x: i32[1, 1, 2, 3], %fn: i32[1, 1, 2], %fx: i32[1, 1, 2, 3]) -> (f32[1, 1, 4, "
      "2], f32[1, 1, 4]) {\n"
      "  %zero = full {value = 0, dims = [], dtype = i64}\n"
      "  %c = full {value = 0.5, dims = [], dtype = f32}\n"
      "  %o, %l, %m = flex_attention {block = [2, 2]} (%q, %k, %v) from(%s = %c, %b = %zero, %h = "
      "%zero, %i = %zero, %j = %zero) blocks(%n, %x, %fn, %fx) score with(%r) {\n"
      "    %three = full {value = 3, dims = [], dtype = i64}\n"
      "    %d = sub(%j, %i)\n"
      "    %e = add(%d, %three)\n"
      "    %g = gather {dims = [0]} (%r, %e)\n"
      "    %t = mul(%s, %g)\n"
      "    yield(%t)\n"
      "  } mask {\n"
      "    %t = ne(%i, %j)\n"
      "    yield(%t)\n"
      "  }\n"
      "  return %o, %l\n"
      "}\n",
      "n = 0..1, x = 0..2, fn = 0..1, fx = 0..2" },
};

static const struct attr_spec flex_attrs[FLEX_ATTRS] = {
    [FLEX_BLOCK] = { "block", ATTR_INTS, false, NULL },
};

const struct op_row row_flex_attention = {
    .name = "flex_attention",
    .meaning = "attention whose scores and whose mask are bodies",
    .autocast = AUTOCAST_KEEP, /* of its arrays: where it is captured */
    .sig = { .n_attrs = FLEX_ATTRS,
             .attrs = flex_attrs,
             .n_groups = 3,
             .groups = { { "", GROUP_PLAIN }, { "from", GROUP_START }, { "blocks", GROUP_PLAIN } },
             .min_regions = 2,
             .max_regions = 2,
             .regions = { { .word = "score", .feeds = 1 << FLEX_FROM, .results = { "yield" } },
                          { .word = "mask", .feeds = 1 << FLEX_FROM, .results = { "yield" } } } },
    .flags = OPF_HIGHER,
    .infer = flex_infer,
    .eval = flex_eval,
    .vjp = flex_vjp,
    .vjp_forward = flex_vjp_forward,
    .jvp = flex_jvp,
    .batch = flex_batch,
    .stands_for = flex_stands_for,
    HOP_SAMPLES(flex_samples),
};
