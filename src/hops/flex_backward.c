/* The pullback of flex_attention: tiles of probabilities are computed again from the logarithms that the
 * forward run gives, one after the other. A map goes over the heads of keys, and where these are few over
 * parts of the tiles of queries that read them; in it scans over these tiles, one for each list of blocks,
 * carry the cotangents of keys, values and what the score function reads, which each part has of its own, and
 * stack those of the queries. Sums of the parts are taken behind the map, in their order. Of large arrays
 * that are read at the own head alone each head of keys has but the rows of its heads (flex_captures.c). */
#include "hops/flex.h"
#include "transform/pass.h"

/* Elements of captured arrays up to which each head of keys has cotangents of its own, added up behind the
 * map, and so it does with as many as it has keys and values. With more of them, of which no head has its own
 * rows, the heads come one after the other. */
enum { SMALL_CAPTURES = 1 << 16 };
/* Heads of keys below which the tiles of queries are cut into parts, and how many tiles a part has at least:
 * each has cotangents of all keys and values of its own. */
enum { ENOUGH_HEADS = 8, TILES_OF_A_PART = 4 };

/* What goes along with the operands. */
enum { GIVEN_LSE, GIVEN_CT, GIVEN_DELTA, GIVEN };

struct back {
    const struct flex *x;
    uint32_t pull;          /* (raw scores, scale, batch, head, rows, columns, own…, ct) -> (scores, ct…) */
    uint32_t gated;         /* the same with whether keys take part before ct; HOP_NONE: it is not needed */
    uint32_t n_own;         /* operands that get cotangents by the score function: */
    const uint32_t *own;    /* numbers of operands, the scale among them */
    const type_id *carried; /* cotangents of keys and values, then of these */
    enum { PARTS_APART, HEADS_APART, NONE_APART } apart; /* who has cotangents of captured arrays alone */
    uint32_t *head_dims; /* of own: with HEADS_APART the dim of heads; HOP_NONE: it has none, or is whole */
    dim parts;           /* of the tiles of queries that read a head of keys; 1 unless PARTS_APART */
};
enum { CARRY_KEYS, CARRY_VALUES, CARRY_OWN };
static uint32_t n_carried(const struct back *w) { return CARRY_OWN + w->n_own; }

static uint32_t first_own(const struct flex *x) { return x->n - x->n_mask - x->n_score; }
/* Heads of queries that read one head of keys. Where there are as many of both there may be none. */
static dim group_size(const struct flex *x)
{
    return x->kv_heads == x->heads ? 1 : dim_floordiv(x->m, x->heads, x->kv_heads);
}

/* ---- the score function and its pullback ---- */

enum { SCORE_RAW, SCORE_SCALE, SCORE_BATCH, SCORE_HEAD, SCORE_ROWS, SCORE_COLUMNS, SCORE_OWN };

/* The number of the parameter that an operand is. */
static uint32_t score_param(const struct flex *x, uint32_t operand)
{
    return operand == FLEX_SCALE ? SCORE_SCALE : SCORE_OWN + operand - first_own(x);
}

/* The place of own operand k among the cotangents of own ones: they come in the order of the parameters. */
static uint32_t place_of(const struct back *w, uint32_t k)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < w->n_own; i++)
        place += score_param(w->x, w->own[i]) < score_param(w->x, w->own[k]);
    return place;
}

static uint32_t make_pull(struct back *w, struct arena *arena, bool gated)
{
    const struct flex *x = w->x;
    uint32_t n = SCORE_OWN + x->n_score + gated, fn = x->score;
    const dim *dims = x->score_dims;
    struct flex_dims given = { .arena = arena };
    val *p = ARENA_NEW(arena, val, n), out;
    struct builder b;
    builder_begin(&b, x->m, x->shape);
    type_id index = flex_index(x), scale = value_type(x->shape, FLEX_SCALE);
    p[SCORE_RAW] = builder_param(&b, flex_type(x, x->tile[0], x->tile[1]), 0);
    p[SCORE_SCALE] = builder_param(&b, scale, 0);
    p[SCORE_BATCH] = builder_param(&b, index, 0);
    p[SCORE_HEAD] = builder_param(&b, index, 0);
    p[SCORE_ROWS] = builder_param(&b, type_intern(x->m, DT_I64, 1, &x->tile[0]), 0);
    p[SCORE_COLUMNS] = builder_param(&b, type_intern(x->m, DT_I64, 1, &x->tile[1]), 0);
    for (uint32_t k = 0; k < x->n_score; k++)
        p[SCORE_OWN + k] = builder_param(&b, value_type(x->shape, first_own(x) + k), 0);
    if (gated) {
        p[n - 1] = builder_param(&b, type_intern(x->m, DT_BOOL, 2, x->tile), 0);
        for (uint32_t k = 0; k < x->n_dims[FLEX_SCORE]; k++)
            vec_push(arena, &given.list, x->bodies[FLEX_SCORE].dims[k]);
        fn = flex_over_tile(x, flex_gated(x), true, &given);
        dims = given.list.data;
    }
    struct flex_tile t = { .batch = p[SCORE_BATCH],
                           .head = p[SCORE_HEAD],
                           .indices = { p[SCORE_ROWS], p[SCORE_COLUMNS] } };
    val wide = emit_broadcast(&b, p[SCORE_SCALE], 2, x->tile, NULL);
    val scaled = emit2(&b, OP_mul, p[SCORE_RAW], wide);
    out = flex_call_on_tile(&b, fn, dims, &t, scaled, p + SCORE_OWN, n - SCORE_OWN);
    fn = builder_finish(&b, &out, 1);
    bool *wrt = ARENA_ZNEW(arena, bool, n);
    wrt[SCORE_RAW] = true;
    for (uint32_t k = 0; k < w->n_own; k++) wrt[score_param(x, w->own[k])] = true;
    return vjp_function(x->m, fn, wrt);
}

/* Cotangents of the raw scores and of what else is wanted, over a tile. allowed: VAL_NONE: all keys. */
static val *pulled_scores(const struct back *w, struct builder *b, const val *operands,
                          const struct flex_tile *t, val raw, val allowed, val ct)
{
    const struct flex *x = w->x;
    uint32_t number = allowed != VAL_NONE && w->gated != HOP_NONE ? w->gated : w->pull;
    const struct fn *pull = module_fn(x->m, number);
    val *args = ARENA_NEW(&b->arena, val, pull->n_params), *out = ARENA_NEW(&b->arena, val, pull->n_results);
    args[SCORE_RAW] = raw;
    args[SCORE_SCALE] = operands[FLEX_SCALE];
    args[SCORE_BATCH] = t->batch;
    args[SCORE_HEAD] = t->head;
    args[SCORE_ROWS] = t->indices[0];
    args[SCORE_COLUMNS] = t->indices[1];
    for (uint32_t k = 0; k < x->n_score; k++) args[SCORE_OWN + k] = operands[first_own(x) + k];
    if (number == w->gated) args[pull->n_params - 2] = allowed;
    args[pull->n_params - 1] = ct;
    inline_function(b, number, x->same, args, out);
    if (allowed != VAL_NONE) out[1] = emit_select(b, allowed, out[1], emit_full_like(b, out[1], 0));
    return out + 1;
}

/* ---- one tile ---- */

/* STEP_THERE: 1, or 0 for a tile beyond the last one. */
enum { STEP_THERE = FLEX_AT, STEP_QUERIES, STEP_CT, STEP_LSE, STEP_DELTA, STEP_EXTRAS };

static val add_at(const struct flex *x, struct builder *b, val whole, val part, val start)
{
    struct type t = emit_type(b, whole);
    dim sizes[2] = { x->tile[1], t.dims[1] };
    struct attr a = A_DIMS(sizes, 2);
    val zero = flex_i64(b, 0);
    val old = emit(b, OP_dynamic_slice, (val[]){ whole, start, zero }, 3, &a);
    return emit(b, OP_dynamic_update, (val[]){ whole, emit2(b, OP_add, old, part), start, zero }, 4, NULL);
}

/* carry: cotangent of the tile's queries, then what is carried; next: after the tile of keys. */
static void pull_tile(const struct flex_step *s, struct builder *b, const val *carry, const val *operands,
                      const val *extra, struct flex_entry entry, enum flex_list list, val *next)
{
    const struct back *w = s->ctx;
    const struct flex *x = w->x;
    uint32_t rows = 0, along = 1;
    struct flex_row at = { extra[FLEX_AT_BATCH], extra[FLEX_AT_HEAD], extra[FLEX_AT_ROW] };
    struct flex_tile t = flex_tile_at(x, b, operands, at, entry);
    val kv_batch = flex_kv_batch(x, b, at.batch), kv_head = flex_kv_head(x, b, at.head);
    val keys = flex_window(b, operands[FLEX_KEY], kv_batch, kv_head, t.start[1], x->tile[1], x->width);
    val values = flex_window(b, operands[FLEX_VALUE], kv_batch, kv_head, t.start[1], x->tile[1],
                             x->value_width);
    keys = emit_cast(b, keys, x->computed);
    values = emit_cast(b, values, x->computed);
    val raw = flex_dot_keys(x, b, extra[STEP_QUERIES], keys), scaled = flex_scaled(x, b, operands, raw);
    val allowed = flex_allowed(x, b, operands, &t, scaled, list, true);
    val safe = allowed == VAL_NONE ? raw : emit_select(b, allowed, raw, emit_full_like(b, raw, 1));
    val u = flex_scores(x, b, operands, &t, flex_scaled(x, b, operands, safe));
    if (allowed != VAL_NONE) u = emit_select(b, allowed, u, emit_full_like(b, u, -INFINITY));
    val p = flex_exp(x, b, emit2(b, OP_sub, u, flex_spread(b, extra[STEP_LSE], x->tile[0], x->tile[1], 0)));
    val of_values = emit_dot(b, p, extra[STEP_CT], NULL, NULL, 0, &rows, &rows, 1);
    val dp = emit_dot(b, extra[STEP_CT], values, NULL, NULL, 0, &along, &along, 1);
    val ct = emit2(b, OP_mul, p,
                   emit2(b, OP_sub, dp, flex_spread(b, extra[STEP_DELTA], x->tile[0], x->tile[1], 0)));

    const val *out = pulled_scores(w, b, operands, &t, safe, allowed, ct);
    val of_raw = out[0];
    val of_queries = emit_dot(b, of_raw, keys, NULL, NULL, 0, &along, &rows, 1);
    val of_keys = emit_dot(b, of_raw, emit_cast(b, extra[STEP_QUERIES], x->computed), NULL, NULL, 0, &rows,
                           &rows, 1);
    next[0] = emit2(b, OP_add, carry[0], of_queries);
    next[1 + CARRY_KEYS] = add_at(x, b, carry[1 + CARRY_KEYS], of_keys, t.start[1]);
    next[1 + CARRY_VALUES] = add_at(x, b, carry[1 + CARRY_VALUES], of_values, t.start[1]);
    val in_group = emit2(b, OP_rem, at.head, emit_dim_value(b, group_size(x)));
    for (uint32_t k = 0; k < w->n_own; k++) {
        val *sum = &next[1 + CARRY_OWN + k], ct = out[1 + place_of(w, k)];
        struct flex_rows rows_of = { w->head_dims[k], in_group };
        *sum = flex_accumulated(b, carry[1 + CARRY_OWN + k], ct, &rows_of);
    }
}

/* The loop over the tiles of keys in a list; carry: cotangent of the tile's queries, then what is carried. */
static void pull_row(const struct back *w, struct builder *b, val *carry, const val *operands,
                     const val *extra, enum flex_list list)
{
    const struct flex *x = w->x;
    uint32_t n = 1 + n_carried(w);
    type_id *types = ARENA_NEW(&b->arena, type_id, n), last[STEP_EXTRAS];
    types[0] = flex_type(x, x->tile[0], x->width);
    memcpy(types + 1, w->carried, n_carried(w) * sizeof *types);
    for (uint32_t k = 0; k < STEP_QUERIES; k++) last[k] = flex_index(x);
    last[STEP_QUERIES] = type_intern(x->m, x->given, 2, (dim[]){ x->tile[0], x->width });
    last[STEP_CT] = flex_type(x, x->tile[0], x->value_width);
    last[STEP_LSE] = last[STEP_DELTA] = type_intern(x->m, x->computed, 1, &x->tile[0]);
    struct flex_step step = { .x = x,
                              .carry = types,
                              .extra = last,
                              .n_carry = n,
                              .n_extra = STEP_EXTRAS,
                              .parts = 1,
                              .there = w->parts == 1 ? HOP_NONE : STEP_THERE,
                              .ctx = w,
                              .emit = pull_tile };
    flex_loop(&step, b, carry, operands, extra, list);
}

/* ---- all tiles of queries that read one head of keys ---- */

/* What one scan over them goes over. */
struct turn {
    enum flex_list list;
    val before; /* cotangents of the queries so far, a tile for each; VAL_NONE: none */
    bool last;  /* they are as given then */
};

enum { ROW_BATCH = GIVEN, ROW_HEAD, ROW_PART, ROW_EXTRAS };

static void given_types(const struct flex *x, type_id types[GIVEN])
{
    dim rows[3] = { x->batches, x->heads, x->queries };
    dim ct[4] = { x->batches, x->heads, x->queries, x->value_width };
    types[GIVEN_LSE] = types[GIVEN_DELTA] = type_intern(x->m, x->computed, 3, rows);
    types[GIVEN_CT] = type_intern(x->m, x->given, 4, ct);
}

static dim shared_batches(const struct flex *x) { return x->kv_batches == x->batches ? 1 : x->batches; }
/* Tiles of queries that read one head of keys. */
static dim tiles_of_head(const struct flex *x)
{
    return dim_mul(x->m, dim_mul(x->m, shared_batches(x), group_size(x)), x->rows);
}

/* Into how many parts they are cut: by sizes alone, so that sums do not depend on threads. */
static dim parts_of_head(const struct flex *x)
{
    struct module *m = x->m;
    dim heads = dim_mul(m, x->kv_batches, x->kv_heads);
    if (!dim_is_const(m, heads)) return 1;
    int64_t n = HOP_MAX(dim_const_value(m, heads), 1);
    dim most = dim_const(m, (ENOUGH_HEADS + n - 1) / n);
    dim wanted = dim_floordiv(m, tiles_of_head(x), dim_const(m, TILES_OF_A_PART));
    return dim_min(m, most, dim_max(m, wanted, 1));
}

/* The number of a tile of queries, by its number in the part: parts take turns, since tiles may have more to
 * do the later they are. */
static val tile_number(const struct back *w, struct builder *b, val number, val part, val *there)
{
    if (w->parts == 1) {
        *there = flex_i64(b, 1);
        return number;
    }
    val all = emit_dim_value(b, tiles_of_head(w->x)), last = emit2(b, OP_sub, all, flex_i64(b, 1));
    number = emit2(b, OP_add, emit2(b, OP_mul, number, emit_dim_value(b, w->parts)), part);
    *there = emit_cast(b, emit2(b, OP_lt, number, all), DT_I64);
    return emit2(b, OP_min, number, last);
}

/* (carried…, number, cotangent of the queries so far, operands…, given…, batch and head of keys, part) ->
 * (carried…, cotangent of the queries) */
static struct region_in row_body(const struct back *w, const struct turn *turn, struct builder *around,
                                 const val *with)
{
    const struct flex *x = w->x;
    uint32_t n = n_carried(w), n_first = n + (turn->before == VAL_NONE ? 1 : 2);
    struct flex_body body;
    type_id *first = ARENA_NEW(&around->arena, type_id, n_first), last[ROW_EXTRAS];
    val *params = ARENA_NEW(&around->arena, val, n_first + ROW_EXTRAS);
    val *carry = ARENA_NEW(&around->arena, val, n + 1), extra[STEP_EXTRAS];
    memcpy(first, w->carried, n * sizeof *first);
    first[n] = flex_index(x);
    if (n_first > n + 1) first[n + 1] = flex_type(x, x->tile[0], x->width);
    given_types(x, last);
    last[ROW_BATCH] = last[ROW_HEAD] = last[ROW_PART] = flex_index(x);
    flex_body_begin(&body, x, first, n_first, last, ROW_EXTRAS, params);
    struct builder *b = &body.b;
    const val *given = params + n_first;
    val number = tile_number(w, b, params[n], given[ROW_PART], &extra[STEP_THERE]);
    val rows = emit_dim_value(b, x->rows), group = emit_dim_value(b, group_size(x));
    val of_head = emit2(b, OP_div, number, rows);
    val head = emit2(b, OP_mul, given[ROW_HEAD], group);
    extra[FLEX_AT_ROW] = emit2(b, OP_rem, number, rows);
    extra[FLEX_AT_HEAD] = emit2(b, OP_add, head, emit2(b, OP_rem, of_head, group));
    extra[FLEX_AT_BATCH] = emit2(b, OP_add, given[ROW_BATCH], emit2(b, OP_div, of_head, group));
    val start = flex_start(x, b, extra[FLEX_AT_ROW], 0);
    extra[STEP_QUERIES] = flex_window(b, body.operands[FLEX_QUERY], extra[FLEX_AT_BATCH], extra[FLEX_AT_HEAD],
                                      start, x->tile[0], x->width);
    val ct = flex_window(b, given[GIVEN_CT], extra[FLEX_AT_BATCH], extra[FLEX_AT_HEAD], start, x->tile[0],
                         x->value_width);
    extra[STEP_CT] = emit_cast(b, ct, x->computed);
    extra[STEP_LSE] = flex_window(b, given[GIVEN_LSE], extra[FLEX_AT_BATCH], extra[FLEX_AT_HEAD], start,
                                  x->tile[0], 0);
    extra[STEP_DELTA] = flex_window(b, given[GIVEN_DELTA], extra[FLEX_AT_BATCH], extra[FLEX_AT_HEAD], start,
                                    x->tile[0], 0);
    if (n_first > n + 1) carry[0] = params[n + 1];
    else carry[0] = emit_full(b, x->computed, 0, 2, (dim[]){ x->tile[0], x->width });
    memcpy(carry + 1, params, n * sizeof *carry);
    pull_row(w, b, carry, body.operands, extra, turn->list);
    val *results = ARENA_NEW(&b->arena, val, n + 1);
    memcpy(results, carry + 1, n * sizeof *results);
    results[n] = turn->last ? emit_cast(b, carry[0], x->given) : carry[0];
    return flex_body_finish(&body, results, n + 1, with, x->n + ROW_EXTRAS);
}

/* One scan over these tiles. carried: what it begins with and what comes out of it; returns the stack of
 * cotangents of queries. */
static val scan_rows(const struct back *w, const struct turn *turn, struct builder *b, val number,
                     val *carried, const val *operands, const val *given)
{
    const struct flex *x = w->x;
    struct module *m = x->m;
    val extra[ROW_EXTRAS], heads = emit_dim_value(b, x->kv_heads);
    val parts = emit_dim_value(b, w->parts), head = emit2(b, OP_div, number, parts);
    memcpy(extra, given, GIVEN * sizeof *extra);
    extra[ROW_BATCH] = emit2(b, OP_div, head, heads);
    extra[ROW_HEAD] = emit2(b, OP_rem, head, heads);
    extra[ROW_PART] = emit2(b, OP_rem, number, parts);
    dim steps = flex_blocks(m, tiles_of_head(x), w->parts);
    val over[2] = { flex_counted(b, steps), turn->before };
    struct loop l = loop_new(LOOP_SCAN);
    l.carry = arena_copy(&b->arena, carried, n_carried(w) * sizeof *carried);
    l.n_carry = n_carried(w);
    l.over = over;
    l.n_over = turn->before == VAL_NONE ? 1 : 2;
    l.length = steps;
    loop_set_body(&l, m, row_body(w, turn, b, flex_with(b, x, operands, extra, ROW_EXTRAS)));
    struct loop_results r = loop_build(b, &l);
    for (uint32_t k = 0; k < n_carried(w); k++) carried[k] = r.last + k;
    return r.stacks;
}

/* Scans for each list: a step of one that had two loops would copy all that is carried between them. */
static val scan_lists(const struct back *w, struct builder *b, val number, val *carried, const val *operands,
                      const val *given)
{
    uint32_t n = w->x->n_lists;
    struct turn whole = { FLEX_WHOLE, VAL_NONE, false };
    struct turn last = { n ? FLEX_PARTIAL : FLEX_EVERY, VAL_NONE, true };
    if (n > 1) last.before = scan_rows(w, &whole, b, number, carried, operands, given);
    return scan_rows(w, &last, b, number, carried, operands, given);
}

static val zeros(struct builder *b, type_id type)
{
    struct type t = type_get(b->m, type);
    return emit_full(b, (enum dtype)t.dtype, 0, t.rank, t.dims);
}

/* ---- all heads of keys ---- */

struct pulled {
    val queries, keys, values; /* a row for each part of a head of keys */
    val *own;                  /* summed */
};

/* Elements of an array of which nothing is known in front of a run: too many. */
static int64_t elements(const struct back *w, type_id type)
{
    int64_t n = static_elements(w->x->m, type);
    return n < 0 ? INT64_MAX / 64 : n;
}

/* How many elements the cotangents of captured arrays have, without those that a head has its rows of. */
static int64_t shared_elements(const struct back *w)
{
    int64_t all = 0;
    for (uint32_t k = 0; k < w->n_own && all < INT64_MAX / 64; k++)
        if (w->head_dims[k] == HOP_NONE) all += elements(w, w->carried[CARRY_OWN + k]);
    return all;
}

/* Who has cotangents of captured arrays alone: those of carried are made as small as they are then. */
static void choose_apart(struct back *w, type_id *carried)
{
    const struct flex *x = w->x;
    struct module *m = x->m;
    int64_t most = SMALL_CAPTURES, keys = 0;
    for (uint32_t k = 0; k < CARRY_OWN; k++) keys += elements(w, carried[k]);
    if (keys < INT64_MAX / 64) most = HOP_MAX(most, keys);
    for (uint32_t k = 0; k < w->n_own; k++) w->head_dims[k] = HOP_NONE;
    w->parts = 1;
    w->apart = shared_elements(w) <= most ? PARTS_APART : NONE_APART;
    if (w->apart == PARTS_APART) w->parts = parts_of_head(x);
    if (w->apart == PARTS_APART || !x->heads_from_zero || !dim_is_const(m, x->heads) || x->kv_heads == 1)
        return;
    for (uint32_t k = 0; k < w->n_own; k++) {
        uint32_t result = 2 + place_of(w, k), also = w->gated == HOP_NONE ? w->pull : w->gated;
        uint32_t found = flex_dim_of_head(m, w->pull, result, SCORE_HEAD, x->heads);
        bool same = found == flex_dim_of_head(m, also, result, SCORE_HEAD, x->heads);
        w->head_dims[k] = same ? found : HOP_NONE;
    }
    if (shared_elements(w) > most) {
        for (uint32_t k = 0; k < w->n_own; k++) w->head_dims[k] = HOP_NONE;
        return;
    }
    w->apart = HEADS_APART;
    for (uint32_t k = 0; k < w->n_own; k++) {
        struct type t = type_get(m, carried[CARRY_OWN + k]);
        if (w->head_dims[k] == HOP_NONE) continue;
        dim dims[MAX_RANK];
        memcpy(dims, t.dims, t.rank * sizeof *dims);
        dims[w->head_dims[k]] = group_size(x);
        carried[CARRY_OWN + k] = type_intern(m, (enum dtype)t.dtype, t.rank, dims);
    }
}

/* One step for each number of a part of a head of keys: a map, or a scan that carries the cotangents of
 * captured arrays. */
static struct loop_results over_numbers(const struct back *w, struct builder *b, val numbers, dim length,
                                        const val *operands, const val *given)
{
    const struct flex *x = w->x;
    bool map = w->apart == PARTS_APART;
    uint32_t n = n_carried(w), n_carry = map ? 0 : w->n_own;
    struct flex_body body;
    type_id *first = ARENA_NEW(&b->arena, type_id, n_carry + 1), last[GIVEN];
    val *params = ARENA_NEW(&b->arena, val, n_carry + 1 + GIVEN), *carried = ARENA_NEW(&b->arena, val, n);
    val *results = ARENA_NEW(&b->arena, val, n + 1), *carry = ARENA_NEW(&b->arena, val, n_carry);
    if (n_carry) memcpy(first, w->carried + CARRY_OWN, n_carry * sizeof *first);
    for (uint32_t k = 0; k < n_carry; k++) carry[k] = zeros(b, first[k]);
    first[n_carry] = flex_index(x);
    given_types(x, last);
    flex_body_begin(&body, x, first, n_carry + 1, last, GIVEN, params);
    for (uint32_t k = 0; k < n; k++)
        carried[k] = !map && k >= CARRY_OWN ? params[k - CARRY_OWN] : zeros(&body.b, w->carried[k]);
    val queries = scan_lists(w, &body.b, params[n_carry], carried, body.operands, params + n_carry + 1);
    for (uint32_t k = 0; k < n_carry; k++) results[k] = carried[CARRY_OWN + k];
    results[n_carry] = queries;
    for (uint32_t k = 0; k < n - n_carry; k++) results[n_carry + 1 + k] = carried[k];
    struct loop l = loop_new(map ? LOOP_MAP : LOOP_SCAN);
    l.carry = carry;
    l.n_carry = n_carry;
    l.over = &numbers;
    l.n_over = 1;
    l.length = length;
    l.apart = map;
    const val *with = flex_with(b, x, operands, given, GIVEN);
    loop_set_body(&l, x->m, flex_body_finish(&body, results, n + 1, with, x->n + GIVEN));
    return loop_build(b, &l);
}

/* What all parts of heads have, added up. */
static struct pulled over_all(const struct back *w, struct builder *b, const val *operands, const val *given)
{
    const struct flex *x = w->x;
    bool map = w->apart == PARTS_APART;
    dim steps = dim_mul(x->m, dim_mul(x->m, x->kv_batches, x->kv_heads), w->parts);
    struct loop_results r = over_numbers(w, b, flex_counted(b, steps), steps, operands, given);
    val *own = ARENA_NEW(&b->arena, val, w->n_own);
    uint32_t heads = 0;
    for (uint32_t k = 0; k < w->n_own; k++)
        own[k] = map ? emit_reduce(b, OP_sum, r.stacks + 1 + CARRY_OWN + k, &heads, 1) : r.last + k;
    return (struct pulled){ r.stacks, r.stacks + 1 + CARRY_KEYS, r.stacks + 1 + CARRY_VALUES, own };
}

/* [heads, batches, …] as [batches · heads, …], of keys. */
static val batches_first(const struct flex *x, struct builder *b, val v)
{
    struct type t = emit_type(b, v);
    uint32_t order[MAX_RANK] = { 1, 0 };
    dim dims[MAX_RANK] = { dim_mul(x->m, x->kv_batches, x->kv_heads) };
    for (uint32_t i = 2; i < t.rank; i++) {
        order[i] = i;
        dims[i - 1] = t.dims[i];
    }
    return emit_reshape(b, x->kv_batches == 1 ? v : emit_permute(b, v, order), t.rank - 1u, dims);
}

/* The rows that each head of keys has of a captured array, [heads of keys, …], together. */
static val rows_together(const struct back *w, struct builder *b, val v, uint32_t k)
{
    struct type t = emit_type(b, v), all = type_get(b->m, value_type(w->x->shape, w->own[k]));
    uint32_t order[MAX_RANK], along = w->head_dims[k], heads = 0;
    if (along == HOP_NONE) return emit_reduce(b, OP_sum, v, &heads, 1);
    for (uint32_t i = 0; i < t.rank; i++) order[i] = i < along ? i + 1 : i == along ? 0 : i;
    return emit_reshape(b, along ? emit_permute(b, v, order) : v, all.rank, all.dims);
}

/* A map over the heads of keys; in it a scan over the batches carries the cotangents of captured arrays. */
static struct pulled over_own_heads(const struct back *w, struct builder *b, const val *operands,
                                    const val *given)
{
    enum { QUERIES, KEYS, VALUES, OWN };
    const struct flex *x = w->x;
    struct flex_body body;
    type_id index = flex_index(x), last[GIVEN];
    val params[1 + GIVEN], numbers = flex_counted(b, x->kv_heads);
    val *results = ARENA_NEW(&b->arena, val, OWN + w->n_own);
    given_types(x, last);
    flex_body_begin(&body, x, &index, 1, last, GIVEN, params);
    struct builder *in = &body.b;
    dim batches = x->kv_batches;
    val heads = emit_broadcast(in, emit_dim_value(in, x->kv_heads), 1, &batches, NULL);
    val number = emit2(in, OP_mul, flex_counted(in, batches), heads);
    number = emit2(in, OP_add, number, emit_broadcast(in, params[0], 1, &batches, NULL));
    struct loop_results r = over_numbers(w, in, number, batches, body.operands, params + 1);
    for (uint32_t k = 0; k < OWN; k++) results[k] = r.stacks + k;
    for (uint32_t k = 0; k < w->n_own; k++) results[OWN + k] = r.last + k;
    struct loop l = loop_new(LOOP_MAP);
    l.over = &numbers;
    l.n_over = 1;
    l.length = x->kv_heads;
    l.apart = true;
    const val *with = flex_with(b, x, operands, given, GIVEN);
    loop_set_body(&l, x->m, flex_body_finish(&body, results, OWN + w->n_own, with, x->n + GIVEN));
    val first = loop_build(b, &l).stacks, *own = ARENA_NEW(&b->arena, val, w->n_own);
    for (uint32_t k = 0; k < w->n_own; k++) own[k] = rows_together(w, b, first + OWN + k, k);
    return (struct pulled){ batches_first(x, b, first + QUERIES), batches_first(x, b, first + KEYS),
                            batches_first(x, b, first + VALUES), own };
}

/* [heads of keys · parts, tiles, q, e] in the order of the queries. */
static val of_queries(const struct back *w, struct builder *b, val v)
{
    const struct flex *x = w->x;
    struct module *m = x->m;
    if (w->parts != 1) {
        dim heads = dim_mul(m, x->kv_batches, x->kv_heads), all = tiles_of_head(x);
        dim each = flex_blocks(m, all, w->parts), zero[4] = { 0 };
        dim apart[5] = { heads, w->parts, each, x->tile[0], x->width };
        dim merged[4] = { heads, dim_mul(m, w->parts, each), x->tile[0], x->width };
        dim there[4] = { heads, all, x->tile[0], x->width };
        v = emit_permute(b, emit_reshape(b, v, 5, apart), (uint32_t[]){ 0, 2, 1, 3, 4 });
        v = emit_slice(b, emit_reshape(b, v, 4, merged), zero, there);
    }
    dim tiles = dim_mul(m, dim_mul(m, x->batches, x->heads), x->rows);
    if (x->kv_batches != x->batches) {
        dim rows = dim_mul(m, group_size(x), x->rows);
        dim dims[5] = { x->kv_heads, x->batches, rows, x->tile[0], x->width };
        v = emit_permute(b, emit_reshape(b, v, 5, dims), (uint32_t[]){ 1, 0, 2, 3, 4 });
    }
    return flex_assemble(x, b, emit_reshape(b, v, 3, (dim[]){ tiles, x->tile[0], x->width }));
}

/* [heads of keys · parts, keys, …] as the operand's cotangent. */
static val as_operand(const struct back *w, struct builder *b, val v, uint32_t operand)
{
    const struct flex *x = w->x;
    struct type t = type_get(x->m, value_type(x->shape, operand));
    if (w->parts != 1) {
        uint32_t along = 2;
        dim dims[5] = { t.dims[0], t.dims[1], w->parts, t.dims[2], t.dims[3] };
        v = emit_reduce(b, OP_sum, emit_reshape(b, v, 5, dims), &along, 1);
    }
    return emit_cast(b, emit_reshape(b, v, t.rank, t.dims), (enum dtype)t.dtype);
}

/* The sum over the columns of out · ct, less the cotangent of lse; and lse, finite. */
static void prepare(const struct flex *x, struct builder *b, val out, val ct, val ct_lse, val *given)
{
    uint32_t along = 3;
    val product = emit2(b, OP_mul, emit_cast(b, out, x->computed), emit_cast(b, ct, x->computed));
    val lse = given[GIVEN_LSE];
    val dead = emit2(b, OP_eq, lse, emit_full_like(b, lse, -INFINITY));
    given[GIVEN_LSE] = emit_select(b, dead, emit_full_like(b, lse, 0), lse);
    given[GIVEN_CT] = ct;
    given[GIVEN_DELTA] = emit2(b, OP_sub, emit_reduce(b, OP_sum, product, &along, 1), ct_lse);
}

enum { OUT, LSE, CT, CT_LSE, PARAMS };

static void param_types(const struct flex *x, type_id types[PARAMS])
{
    type_id given[GIVEN];
    given_types(x, given);
    types[OUT] = types[CT] = given[GIVEN_CT];
    types[LSE] = types[CT_LSE] = given[GIVEN_LSE];
}

/* The pullback of the same with lists of blocks, which are made in front of it. */
static uint32_t backward_with_lists(const struct flex *x, const bool *wanted)
{
    struct flex_body body;
    struct flex listed;
    type_id last[PARAMS];
    val params[PARAMS];
    const val *with;
    param_types(x, last);
    flex_body_begin(&body, x, NULL, 0, last, PARAMS, params);
    struct builder *b = &body.b;
    flex_with_lists(&listed, x, b, body.operands, &with);
    bool *more = ARENA_ZNEW(&b->arena, bool, listed.n);
    for (uint32_t k = 0; k < x->n; k++) more[k < FLEX_FIRST_BLOCK ? k : k + listed.n - x->n] = wanted[k];
    val *results = ARENA_NEW(&b->arena, val, x->n);
    uint32_t n = 0, fn = flex_backward(&listed, more);
    for (uint32_t k = 0; k < x->n; k++) n += wanted[k];
    const val *args = flex_with(b, &listed, with, params, PARAMS);
    inline_function(b, fn, listed.symbols, args, results);
    return builder_finish(b, results, n);
}

uint32_t flex_backward(const struct flex *x, const bool *wanted)
{
    if (flex_wants_lists(x)) return backward_with_lists(x, wanted);
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    struct back w = { .x = x };
    uint32_t *own = ARENA_NEW(&arena, uint32_t, x->n_score + 1);
    if (wanted[FLEX_SCALE]) own[w.n_own++] = FLEX_SCALE;
    for (uint32_t k = first_own(x); k < x->n - x->n_mask; k++)
        if (wanted[k]) own[w.n_own++] = k;
    w.own = own;
    type_id *carried = ARENA_NEW(&arena, type_id, CARRY_OWN + w.n_own), last[PARAMS];
    carried[CARRY_KEYS] = flex_type(x, x->keys, x->width);
    carried[CARRY_VALUES] = flex_type(x, x->keys, x->value_width);
    for (uint32_t k = 0; k < w.n_own; k++) carried[CARRY_OWN + k] = value_type(x->shape, own[k]);
    w.carried = carried;
    w.head_dims = ARENA_NEW(&arena, uint32_t, w.n_own);
    w.pull = make_pull(&w, &arena, false);
    w.gated = HOP_NONE;
    if (w.n_own && flex_wants_gate(x, &arena, wanted[FLEX_SCALE])) w.gated = make_pull(&w, &arena, true);
    choose_apart(&w, carried);

    param_types(x, last);
    struct flex_body body;
    val params[PARAMS], given[GIVEN];
    flex_body_begin(&body, x, NULL, 0, last, PARAMS, params);
    struct builder *b = &body.b;
    given[GIVEN_LSE] = params[LSE];
    prepare(x, b, params[OUT], params[CT], params[CT_LSE], given);
    struct pulled r = (w.apart == HEADS_APART ? over_own_heads : over_all)(&w, b, body.operands, given);
    val *results = ARENA_NEW(&b->arena, val, x->n);
    uint32_t n = 0, next_own = 0;
    for (uint32_t k = 0; k < x->n; k++) {
        if (!wanted[k]) continue;
        if (k == FLEX_QUERY) results[n++] = of_queries(&w, b, r.queries);
        else if (k == FLEX_KEY) results[n++] = as_operand(&w, b, r.keys, k);
        else if (k == FLEX_VALUE) results[n++] = as_operand(&w, b, r.values, k);
        else results[n++] = r.own[next_own++];
    }
    uint32_t fn = builder_finish(b, results, n);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return fn;
}
