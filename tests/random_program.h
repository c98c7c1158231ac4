/* Random well-typed programs: a generator draws from a seed and gives a module with one function and
 * arguments for it. A step of a higher-order operator opens a block for each body and fills it with steps
 * (random_steps.h) as the program itself is filled. A step that the builder rejects is dropped. Most seeds
 * wish for one higher-order operator in a body of another, so that every such pair is met. */
#ifndef HOP_TEST_RANDOM_PROGRAM_H
#define HOP_TEST_RANDOM_PROGRAM_H

#include "hops/flex_parts.h"
#include "ir/named.h"
#include "random_custom.h"
#include "random_operators.h"

/* ---- bodies ---- */

/* A body of the block `outer`: its parameters have these types, its dims[k] is what its symbol k is outside,
 * inside[k] what outer's symbol k is in it. */
struct body {
    struct block s;
    dim dims[64], inside[64];
    uint32_t n_types;
};

static type_id type_through(struct module *m, type_id t, const dim *symbols)
{
    struct type in = type_get(m, t);
    dim dims[MAX_RANK];
    for (uint32_t i = 0; i < in.rank; i++) dims[i] = dim_substitute(m, in.dims[i], symbols);
    return type_intern(m, in.dtype, in.rank, dims);
}

static bool is_symbol(void *ctx, uint32_t symbol) { return symbol == *(const uint32_t *)ctx; }

static bool types_mention(struct module *m, const type_id *types, uint32_t n, uint32_t symbol)
{
    for (uint32_t i = 0; i < n; i++) {
        struct type t = type_get(m, types[i]);
        for (uint32_t d = 0; d < t.rank; d++)
            if (dim_mentions(m, t.dims[d], is_symbol, &symbol)) return true;
    }
    return false;
}

static const struct step *hop_step(enum op op);
static const struct step *any_higher_step(struct gen *g);
static void one_step(struct block *s, const struct step *step);
static void make_steps(struct block *s, uint32_t n);

/* A scalar that depends on every element of v, on each in another way. */
static val scalar_from(struct block *s, val v)
{
    struct type t = block_type(s, v);
    if (!dtype_is_float((enum dtype)t.dtype)) v = convert(s, v, s->g->floats[0]), t = block_type(s, v);
    if (t.rank) {
        struct attr a[3] = { A_DIMS(t.dims, t.rank), A_INT(below(s->g, t.rank)),
                             A_DTYPE((enum dtype)t.dtype) };
        v = binary(s, OP_mul, v, unary(s, OP_cos, node(s, OP_iota, NULL, 0, a)));
        v = node(s, OP_sum, &v, 1, (struct attr[REDUCE_ATTRS]){ A_NONE, A_NONE });
    }
    return s->g->wild ? v : unary(s, OP_sin, v);
}

static void link_to(struct block *s, val v)
{
    val x = scalar_from(s, v);
    s->link = s->link == VAL_NONE
                  ? x
                  : binary(s, OP_add, s->link, emit_cast(&s->b, x, (enum dtype)block_type(s, s->link).dtype));
}

/* Up to `most` of the values that nothing reads go into the link, so that little is dead. */
static void link_unread(struct block *s, uint32_t most)
{
    uint32_t end = s->b.values.len;
    bool *read = ARENA_ZNEW(&s->b.arena, bool, end + 1);
    for (uint32_t i = 0; i < s->b.nodes.len; i++)
        for (uint32_t k = 0; k < s->b.nodes.data[i].n_operands; k++)
            read[s->b.pool.data[s->b.nodes.data[i].operands + k]] = true;
    for (val v = end; v-- > s->b.n_params && most;) {
        if (read[v] || s->hidden[v] || v == s->link ||
            !(dtype_is_float((enum dtype)block_type(s, v).dtype) || chance(s->g, 0.25)))
            continue;
        link_to(s, v);
        most--;
    }
}

/* x, of any type, so that it depends on the block's wished node if it holds floats. */
static val linked(struct block *s, val x)
{
    struct type t = block_type(s, x);
    if (s->link == VAL_NONE || !dtype_is_float((enum dtype)t.dtype)) return x;
    val v = emit_cast(&s->b, s->link, (enum dtype)t.dtype);
    return binary(s, OP_add, x, t.rank ? emit_broadcast(&s->b, v, t.rank, t.dims, NULL) : v);
}

/* The wished node, tried a few times; whether it is there. */
static bool make_wished(struct block *s, const struct step *step)
{
    for (int attempt = 0; attempt < 4; attempt++) {
        val first = s->b.values.len;
        uint32_t rejected = s->g->rejected;
        s->g->steps += 4;
        one_step(s, step);
        if (s->g->rejected != rejected || s->b.values.len == first ||
            s->b.nodes.data[s->b.nodes.len - 1].op != step->op)
            continue;
        uint32_t n = s->b.nodes.data[s->b.nodes.len - 1].n_results;
        for (val v = s->b.values.len - n, end = s->b.values.len; v < end; v++)
            if (dtype_is_float((enum dtype)block_type(s, v).dtype)) link_to(s, v);
        if (s->link != VAL_NONE) return true;
    }
    return false;
}

/* The steps of a body, and the inner one of the wish where the body belongs to its outer one. */
static void fill_body(struct block *s, uint32_t n)
{
    struct gen *g = s->g;
    bool wished = g->wish_depth && s->depth == g->wish_depth;
    if (wished) {
        uint32_t depth = g->depth;
        g->wish_depth = 0;
        make_steps(s, n / 2);
        g->depth = HOP_MAX(depth, s->depth + 1);
        if (chance(g, 0.2)) g->bare = true, g->steps += 4, one_step(s, g->inner);
        g->bare = false;
        make_wished(s, g->inner);
        g->depth = depth;
        g->wish_depth = s->depth;
        n -= n / 2;
    }
    make_steps(s, n);
    if (chance(g, 0.5)) link_unread(s, 2);
}

/* A body's results are linked to its wished node; where the row takes any number of results, a result is
 * added if none can be. */
static uint32_t link_results(struct block *s, val *results, uint32_t n, bool more)
{
    bool any = false;
    for (uint32_t k = 0; k < n && s->link != VAL_NONE; k++) {
        val x = linked(s, results[k]);
        any |= x != results[k];
        if (x != results[k] && !s->g->wild) x = unary(s, OP_tanh, x);
        results[k] = x;
        if (any) break;
    }
    if (!any && more && s->link != VAL_NONE) results[n++] = s->link;
    return n;
}

/* `types`: n_params of parameters, the others may appear inside as well. */
static void body_begin(struct body *body, struct block *outer, const type_id *types, uint32_t n_params,
                       uint32_t n_types)
{
    struct gen *g = outer->g;
    body->s = (struct block){
        .g = g, .depth = outer->depth + 1, .predicate = outer->predicate, .link = VAL_NONE
    };
    builder_begin(&body->s.b, g->m, NULL);
    if (outer->b.symbols.len > HOP_COUNT(body->dims)) hop_throw(HOP_INVALID, "too many symbols");
    for (uint32_t k = 0; k < outer->b.symbols.len; k++) {
        const struct symbol *y = &outer->b.symbols.data[k];
        body->inside[k] = HOP_NONE;
        if (!types_mention(g->m, types, n_types, k) && !chance(g, 0.15)) continue;
        uint32_t inner = builder_symbol(&body->s.b, y->name, y->lo, y->hi);
        body->inside[k] = dim_symbol(g->m, inner);
        body->dims[inner] = dim_symbol(g->m, k);
    }
    for (uint32_t i = 0; i < n_params; i++)
        builder_param(&body->s.b, type_through(g->m, types[i], body->inside), 0);
}

static uint32_t body_end(struct body *body, const val *results, uint32_t n)
{
    if (body->s.depth == 1 && chance(body->s.g, 0.05))
        body->s.b.name = module_string(body->s.g->m, "named", 5);
    if (body->s.b.name && module_find(body->s.g->m, "named") != HOP_NONE) body->s.b.name = 0;
    return builder_finish(&body->s.b, results, n);
}

/* A result of the given type that depends on what is there. */
static val result_of_type(struct block *s, struct type t)
{
    static const enum op numbers[] = { OP_add, OP_mul, OP_sub, OP_max, OP_min }, logic[] = { OP_and, OP_or };
    val x = want(s, (enum dtype)t.dtype, t.rank, t.dims);
    if (chance(s->g, 0.7)) {
        val y = want(s, (enum dtype)t.dtype, t.rank, t.dims);
        x = binary(s, t.dtype == DT_BOOL ? logic[below(s->g, 2)] : numbers[below(s->g, 5)], x, y);
    }
    return x;
}

/* What the next carry is: of the carry's type, and never growing without bound. */
static val next_carry(struct block *s, val carry)
{
    val v = result_of_type(s, block_type(s, carry));
    if (v < s->b.n_params && v != carry && chance(s->g, 0.5)) v = carry;
    return s->g->wild && chance(s->g, 0.5) ? v : v < s->b.n_params && chance(s->g, 0.3) ? v : bounded(s, v);
}

/* Shall this higher-order step have as little as its row allows? Where results must depend on it, it may not.
 */
static bool is_bare(struct gen *g, double how_often)
{
    bool bare = g->bare || chance(g, how_often);
    g->bare = false;
    return bare && !g->wish_depth;
}

/* What a bare body is for, if anything. */
static void bare_body(struct block *s)
{
    if (s->g->effects || chance(s->g, 0.3)) step_effect(s);
}

/* Values of a block that bodies get. */
static uint32_t pick_some(struct block *s, uint32_t most, val *out, type_id *types)
{
    uint32_t n = 0;
    for (uint32_t want_n = below(s->g, most + 1); n < want_n; n++) {
        val v = pick(s, &(struct filter){ .dtypes = chance(s->g, 0.6) ? FLOATS : 0, .most_rank = 3 });
        if (v == VAL_NONE) return n;
        out[n] = v;
        types[n] = builder_type(&s->b, v);
    }
    return n;
}

static val stackable(struct block *s)
{
    return pick(s, &(struct filter){
                       .visible = true, .most_rank = 2, .dtypes = chance(s->g, 0.7) ? FLOATS : 0 });
}

static bool named(const struct attr_spec *a, const char *name) { return a->name && !strcmp(a->name, name); }

/* What reverse mode keeps, as the row's signature offers it: a word of `schedule` (with a number of
 * `snapshots` where the word needs one), or `every`, or `recompute`. */
static void pick_schedule(struct block *s, enum op op, struct attr *attrs)
{
    struct gen *g = s->g;
    const struct signature *sig = &op_table[op]->sig;
    bool words = chance(g, 0.5);
    if (g->loud || chance(g, 0.6)) return;
    for (uint32_t i = 0; i < sig->n_attrs; i++) {
        const struct attr_spec *a = &sig->attrs[i];
        uint32_t n = 0;
        if (named(a, "recompute")) attrs[i] = A_FLAG(true);
        if (named(a, "inline") && chance(g, 0.5)) attrs[i] = A_WORD(chance(g, 0.5) ? INLINE_YES : INLINE_NO);
        if (named(a, "every") && !words) {
            uint32_t *every = ARENA_NEW(&s->b.arena, uint32_t, 2);
            every[0] = 1 + below(g, 4), every[1] = 1 + below(g, 3);
            attrs[i] = A_INTS(every, 1 + chance(g, 0.3));
        }
        if (!named(a, "schedule") || !words) continue;
        while (a->words[n]) n++;
        uint32_t word = below(g, n);
        attrs[i] = A_WORD(word);
        for (uint32_t k = 0; k < sig->n_attrs && !strcmp(a->words[word], "binomial"); k++)
            if (named(&sig->attrs[k], "snapshots")) attrs[k] = A_INT(1 + below(g, 4));
    }
}

static void scan_over(struct block *s, const val *over, uint32_t n_over, dim length, bool reverse)
{
    struct gen *g = s->g;
    val operands[8], own[4], results[8];
    type_id types[12];
    bool bare = is_bare(g, 0.07);
    if (bare && chance(g, 0.5)) n_over = 0;
    uint32_t n_carry = bare ? 0 : pick_some(s, 3, operands, types), n_results = 0;
    for (uint32_t k = 0; k < n_over; k++) {
        operands[n_carry + k] = over[k];
        types[n_carry + k] = type_drop_leading(g->m, builder_type(&s->b, over[k]));
    }
    uint32_t n = n_carry + n_over, n_own = pick_some(s, 3, own, types + n);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, types, n + n_own, n + n_own);
    fill_body(&body->s, bare ? below(g, 3) : 1 + below(g, 5));
    if (bare) bare_body(&body->s);
    for (; n_results < n_carry; n_results++) results[n_results] = next_carry(&body->s, n_results);
    for (uint32_t k = bare ? 0 : below(g, 3) + !n_carry; k; k--) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n_results++] = v;
    }
    n_results = link_results(&body->s, results, n_results, !bare);
    uint32_t groups[2] = { n_carry, n_over };
    struct attr attrs[SCAN_ATTRS] = {
        [SCAN_REVERSE] = A_FLAG(reverse), [SCAN_LENGTH] = !n_over || chance(g, 0.2) ? A_DIM(length) : A_NONE
    };
    pick_schedule(s, OP_scan, attrs);
    struct region_in region = { .operands = own, .n_operands = n_own, .dims = body->dims };
    region.fn = body_end(body, results, n_results);
    builder_node(&s->b, &(struct node_in){ .op = OP_scan,
                                           .operands = operands,
                                           .n_operands = n,
                                           .groups = groups,
                                           .attrs = attrs,
                                           .regions = &region,
                                           .n_regions = 1 });
}

/* Sometimes two that could be taken together. */
static void step_scan(struct block *s)
{
    struct gen *g = s->g;
    val over[2];
    uint32_t n_over = 0;
    dim length = pick_dim(s);
    for (uint32_t n = below(g, 3); n_over < n; n_over++) {
        over[n_over] = pick(s, &(struct filter){
                                   .min_rank = 1, .most_rank = 3, .lead = n_over, .dims = &length });
        if (over[n_over] == VAL_NONE) break;
        length = block_type(s, over[n_over]).dims[0];
    }
    bool reverse = chance(g, 0.4);
    if (chance(g, 0.15)) scan_over(s, over, n_over, length, reverse);
    scan_over(s, over, n_over, length, reverse);
}

/* Both, written in one way or another. */
static val both(struct block *s, val x, val y)
{
    uint32_t how = below(s->g, 8);
    if (how == 0) return unary(s, OP_not, binary(s, OP_or, unary(s, OP_not, x), unary(s, OP_not, y)));
    return how < 4 ? binary(s, OP_and, y, x) : binary(s, OP_and, x, y);
}

/* Counts from 0 or a little more up to a limit below 5; the predicate may end the loop earlier. */
static uint32_t while_predicate(struct block *s, struct body *body, const type_id *types, uint32_t n_carry,
                                uint32_t counter, enum op relation, val limit, val *own, uint32_t *n_own)
{
    struct gen *g = s->g;
    type_id all[12];
    memcpy(all, types, n_carry * sizeof *all);
    all[n_carry] = builder_type(&s->b, limit);
    own[0] = limit;
    *n_own = 1 + pick_some(s, 1, own + 1, all + n_carry + 1);
    body_begin(body, s, all, n_carry + *n_own, n_carry + *n_own);
    body->s.predicate = true;
    struct block *p = &body->s;
    bool holds_inner = chance(g, 0.2);
    val test = chance(g, 0.2) && relation != OP_ne ? binary(p,
                                                            relation == OP_lt   ? OP_gt
                                                            : relation == OP_le ? OP_ge
                                                            : relation == OP_gt ? OP_lt
                                                                                : OP_le,
                                                            n_carry, counter)
                                                   : binary(p, relation, counter, n_carry);
    if (chance(g, 0.5)) {
        if (holds_inner) fill_body(p, below(g, 3));
        else make_steps(p, below(g, 3));
        val early = p->link == VAL_NONE ? want_scalar(p, DT_BOOL)
                                        : binary(p, OP_lt, p->link, number_like(p, p->link, 0.5));
        test = both(p, test, early);
        if (chance(g, 0.2))
            test = both(p, test,
                        binary(p, OP_ne, counter,
                               number_like(p, counter,
                                           below(g, 4)))); /* a second thing that the counter ends */
    }
    return body_end(body, &test, 1);
}

static void step_while(struct block *s)
{
    struct gen *g = s->g;
    val carries[8], own[8], results[8], cond_own[4];
    type_id types[12];
    static const enum dtype narrow[] = { DT_I8, DT_I16, DT_U8, DT_U16, DT_U32, DT_U64 };
    enum dtype count_type = chance(g, 0.5)   ? DT_I64
                            : chance(g, 0.5) ? DT_I32
                                             : narrow[below(g, HOP_COUNT(narrow))];
    bool bare = is_bare(g, 0.07), is_signed = dtype_info[count_type].kind != KIND_UINT;
    uint32_t n_carry = bare ? 0 : pick_some(s, 3, carries, types), counter = below(g, n_carry + 1),
             n_cond = 0;
    val start = chance(g, 0.7) ? emit_full(&s->b, count_type, 0, 0, NULL) : VAL_NONE, limit = VAL_NONE;
    if (start == VAL_NONE) {
        val v = want_scalar(s, count_type);
        start = node(s, OP_clamp, (val[]){ v, number_like(s, v, 0), number_like(s, v, 2) }, 3, NULL);
    }
    limit = chance(g, 0.5) ? emit_full(&s->b, count_type, below(g, 5), 0, NULL) : want_scalar(s, count_type);
    limit = binary(s, OP_min, limit, number_like(s, limit, 4));
    bool down = chance(g, 0.3), meets = chance(g, 0.15); /* meets: it stops where it is exactly the bound */
    bool strictly = chance(g, 0.8) || (down && !is_signed),
         by_two = !meets && chance(g, 0.2) && !(down && !is_signed); /* no unsigned number is below 0 */
    enum op relation = meets ? OP_ne : strictly ? (down ? OP_gt : OP_lt) : down ? OP_ge : OP_le;
    if (meets) limit = binary(s, OP_max, limit, start);
    if (down) {
        val end = start;
        start = limit, limit = end;
    }
    for (uint32_t i = n_carry++; i > counter; i--) carries[i] = carries[i - 1], types[i] = types[i - 1];
    carries[counter] = start;
    types[counter] = builder_type(&s->b, start);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body),
                *cond = arena_alloc(&s->b.arena, sizeof *cond);
    struct region_in regions[2];
    regions[0].fn = while_predicate(s, cond, types, n_carry, counter, relation, limit, cond_own, &n_cond);
    regions[0].operands = cond_own, regions[0].n_operands = n_cond, regions[0].dims = cond->dims;
    uint32_t n_own = pick_some(s, 3, own, types + n_carry), n_results = n_carry;
    body_begin(body, s, types, n_carry + n_own, n_carry + n_own);
    fill_body(&body->s, bare ? below(g, 3) : 1 + below(g, 5));
    if (bare) bare_body(&body->s);
    for (uint32_t i = 0; i < n_carry; i++)
        results[i] = i == counter
                         ? binary(&body->s, down ? OP_sub : OP_add, i, number_like(&body->s, i, 1 + by_two))
                         : next_carry(&body->s, i);
    for (uint32_t k = !bare && chance(g, 0.5) ? 1 + below(g, 2) : 0; k; k--) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n_results++] = v;
    }
    n_results = link_results(&body->s, results, n_results, !bare);
    regions[1] = (struct region_in){ .operands = own, .n_operands = n_own, .dims = body->dims };
    regions[1].fn = body_end(body, results, n_results);
    struct attr attrs[WHILE_ATTRS] = { [WHILE_COUNT] = A_FLAG(chance(g, 0.3)) };
    if (chance(g, 0.4)) { /* a few rows, more than a tape has all of, or a size */
        dim most = dim_const(g->m, (int64_t[]){ 6, 6, 6, 6, 6, 20, 20, 20, 2, 2, 1, 0 }[below(g, 12)]);
        if (s->b.symbols.len && chance(g, 0.15))
            most = dim_add(g->m, dim_symbol(g->m, below(g, s->b.symbols.len)), dim_const(g->m, 4));
        attrs[WHILE_MAX_TRIPS] = A_DIM(most);
    }
    pick_schedule(s, OP_while_loop, attrs);
    builder_node(&s->b, &(struct node_in){ .op = OP_while_loop,
                                           .operands = carries,
                                           .n_operands = n_carry,
                                           .groups = &n_carry,
                                           .attrs = attrs,
                                           .regions = regions,
                                           .n_regions = 2 });
}

static void step_map(struct block *s)
{
    struct gen *g = s->g;
    val over[2], own[4], results[4];
    type_id types[8];
    uint32_t n_over = 0, n_results = 0;
    bool bare = is_bare(g, 0.07);
    dim length = pick_dim(s);
    for (uint32_t n = chance(g, bare ? 0.5 : 0.1) ? 0 : 1 + below(g, 2); n_over < n; n_over++) {
        val v = pick(s, &(struct filter){ .min_rank = 1, .most_rank = 3, .lead = n_over, .dims = &length });
        if (v == VAL_NONE) break;
        length = block_type(s, v).dims[0];
        over[n_over] = v;
        types[n_over] = type_drop_leading(g->m, builder_type(&s->b, v));
    }
    uint32_t n_own = pick_some(s, 3, own, types + n_over);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, types, n_over + n_own, n_over + n_own);
    fill_body(&body->s, bare ? below(g, 3) : 1 + below(g, 5));
    if (bare) bare_body(&body->s);
    for (uint32_t k = bare ? 0 : 1 + below(g, 3); k; k--) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n_results++] = v;
    }
    n_results = link_results(&body->s, results, n_results, !bare);
    struct attr attrs[MAP_ATTRS] = { [MAP_LENGTH] = !n_over || chance(g, 0.1) ? A_DIM(length) : A_NONE,
                                     [MAP_SEQUENTIAL] = A_FLAG(chance(g, 0.2)) };
    struct region_in region = { .operands = own, .n_operands = n_own, .dims = body->dims };
    region.fn = body_end(body, results, n_results);
    builder_node(&s->b, &(struct node_in){ .op = OP_map,
                                           .operands = over,
                                           .n_operands = n_over,
                                           .groups = &n_over,
                                           .attrs = attrs,
                                           .regions = &region,
                                           .n_regions = 1 });
}

/* A bound between -2 and 4. */
static val loop_bound(struct block *s)
{
    struct gen *g = s->g;
    if (chance(g, 0.3)) return emit_full(&s->b, DT_I64, (double)below(g, 7) - 2, 0, NULL);
    if (s->b.symbols.len && chance(g, 0.2)) {
        val d = emit_dim_value(&s->b, dim_symbol(g->m, below(g, s->b.symbols.len)));
        return chance(g, 0.3) ? d : binary(s, OP_min, d, number_like(s, d, 4));
    }
    val v = want_scalar(s, DT_I64);
    return node(s, OP_clamp, (val[]){ v, number_like(s, v, -2), number_like(s, v, 4) }, 3, NULL);
}

static void step_fori(struct block *s)
{
    struct gen *g = s->g;
    val operands[8], own[4], results[8];
    type_id types[12];
    bool bare = is_bare(g, 0.07);
    uint32_t n_carry = bare ? 0 : pick_some(s, 3, operands, types), n_results = 0,
             groups[3] = { n_carry, 1, 1 };
    bool whole = s->b.symbols.len && chance(g, 0.15); /* from 0 to a size: rows of a known number */
    operands[n_carry] = whole ? emit_full(&s->b, DT_I64, 0, 0, NULL) : loop_bound(s);
    operands[n_carry + 1] = whole ? emit_dim_value(&s->b, dim_symbol(g->m, below(g, s->b.symbols.len)))
                                  : loop_bound(s);
    types[n_carry] = builder_type(&s->b, operands[n_carry]);
    uint32_t n_own = pick_some(s, 3, own, types + n_carry + 1);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, types, n_carry + 1 + n_own, n_carry + 1 + n_own);
    fill_body(&body->s, bare ? below(g, 3) : 1 + below(g, 5));
    if (bare) bare_body(&body->s);
    for (; n_results < n_carry; n_results++) results[n_results] = next_carry(&body->s, n_results);
    if (!bare && (chance(g, 0.25) || !n_carry)) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n_results++] = v;
    }
    n_results = link_results(&body->s, results, n_results, !bare);
    struct attr attrs[FORI_ATTRS] = { 0 };
    pick_schedule(s, OP_fori_loop, attrs);
    struct region_in region = { .operands = own, .n_operands = n_own, .dims = body->dims };
    region.fn = body_end(body, results, n_results);
    builder_node(&s->b, &(struct node_in){ .op = OP_fori_loop,
                                           .operands = operands,
                                           .n_operands = n_carry + 2,
                                           .groups = groups,
                                           .attrs = attrs,
                                           .regions = &region,
                                           .n_regions = 1 });
}

/* Its function is seldom associative: the order of the reference is part of what it means. */
static void step_associative(struct block *s)
{
    struct gen *g = s->g;
    val xs[3], own[4], results[3];
    type_id types[12];
    uint32_t n = 0, along = 0;
    bool bare = is_bare(g, 0.3);
    for (uint32_t most = bare ? 1 : 1 + below(g, 3); n < most; n++) {
        val v = pick(s, &(struct filter){ .min_rank = 1,
                                          .most_rank = 3,
                                          .dtypes = chance(g, 0.8) || (!n && g->wish_depth) ? FLOATS : 0 });
        if (v == VAL_NONE && !n && g->wish_depth) v = fill(s, pick_float(g), 1, (dim[]){ pick_dim(s) });
        if (v == VAL_NONE) break;
        struct type t = block_type(s, v);
        if (!n) along = below(g, t.rank);
        else if (t.rank <= along || t.dims[along] != block_type(s, xs[0]).dims[along]) break;
        xs[n] = v;
    }
    if (!n) return;
    for (uint32_t k = 0; k < n; k++)
        types[k] = types[n + k] = type_drop_dim(g->m, builder_type(&s->b, xs[k]), along);
    uint32_t n_own = pick_some(s, 2, own, types + 2 * n);
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, types, 2 * n + n_own, 2 * n + n_own);
    body->s.predicate = true;
    if (!bare) fill_body(&body->s, below(g, 5));
    else if (chance(g, 0.7)) g->bare = true, one_step(&body->s, any_higher_step(g)); /* beside little else */
    g->bare = false;
    for (uint32_t k = 0; k < n; k++) results[k] = next_carry(&body->s, k);
    link_results(&body->s, results, n, false);
    struct attr attrs[ASSOCIATIVE_ATTRS] = {
        [ASSOCIATIVE_DIM] = along ? A_INT(along) : A_NONE, [ASSOCIATIVE_REVERSE] = A_FLAG(chance(g, 0.4))
    };
    struct region_in region = { .operands = own, .n_operands = n_own, .dims = body->dims };
    region.fn = body_end(body, results, n);
    builder_node(&s->b, &(struct node_in){ .op = OP_associative_scan,
                                           .operands = xs,
                                           .n_operands = n,
                                           .groups = &n,
                                           .attrs = attrs,
                                           .regions = &region,
                                           .n_regions = 1 });
}

/* A score is compiled over many keys at once: one that cannot be, as its sizes differ from key to key, is
 * thrown out, as any step that throws. */
static void check_lanes(struct block *s, uint32_t fn)
{
    const struct fn *f = module_fn(s->g->m, fn);
    bool *batched = ARENA_ZNEW(&s->b.arena, bool, f->n_params + 1), found;
    for (uint32_t k = 0; k < FLEX_N_FROM; k++) batched[k] = true;
    batch_function(s->g->m, fn, batched, HOP_NONE, &(bool){ true }, false, &found);
}

/* Attention whose score is a body of any kind; its mask leaves the first key to every query, so that nothing
 * is infinite. Blocks of a few queries and keys, so that there are several of them, and ends that reach
 * beyond. */
static void step_flex(struct block *s)
{
    struct gen *g = s->g;
    enum dtype given = pick_float(g), computed = given == DT_F64 ? DT_F64 : DT_F32;
    dim heads = dim_const(g->m, 1 + below(g, 2)), length = pick_dim(s),
        width = dim_const(g->m, 1 + below(g, 3));
    dim query[4] = { dim_const(g->m, 1 + below(g, 2)), heads, pick_dim(s), width };
    dim key[4] = { chance(g, 0.5) ? query[0] : 1, chance(g, 0.5) ? heads : 1, length, width };
    dim value[4] = { key[0], key[1], length, dim_const(g->m, 1 + below(g, 2)) };
    val operands[FLEX_FIRST_BLOCK] = { want(s, given, 4, query), want(s, given, 4, key),
                                       want(s, given, 4, value) };
    operands[FLEX_SCALE] = chance(g, 0.5) ? want_scalar(s, computed) : fill(s, computed, 0, NULL);
    val zero = emit_full(&s->b, DT_I64, 0, 0, NULL);
    for (uint32_t k = FLEX_BATCH; k < FLEX_FIRST_BLOCK; k++) operands[k] = zero;
    type_id types[FLEX_N_FROM + 2];
    for (uint32_t k = 0; k < FLEX_N_FROM; k++) types[k] = type_scalar(g->m, k ? DT_I64 : computed);
    val own[2], results[2];
    uint32_t n_own = pick_some(s, 2, own, types + FLEX_N_FROM), n_types = FLEX_N_FROM + n_own;
    struct region_in regions[2];
    for (uint32_t r = 0; r < 2; r++) {
        struct body *body = arena_alloc(&s->b.arena, sizeof *body);
        uint32_t n = r == FLEX_SCORE ? n_types : FLEX_N_FROM;
        body_begin(body, s, types, n, n);
        body->s.predicate = true;
        enum { ROW = FLEX_ROW - FLEX_SCALE, COLUMN = FLEX_COLUMN - FLEX_SCALE };
        if (r == FLEX_SCORE) {
            fill_body(&body->s, below(g, 4));
            results[0] = next_carry(&body->s, 0);
            link_results(&body->s, results, 1, false);
        } else if (chance(g, 0.7)) results[0] = binary(&body->s, OP_ge, ROW, COLUMN);
        else results[0] = emit_full(&body->s.b, DT_BOOL, 1, 0, NULL);
        regions[r] = (struct region_in){ .operands = own, .n_operands = r ? 0 : n_own, .dims = body->dims };
        regions[r].fn = body_end(body, results, 1);
        check_lanes(s, regions[r].fn);
    }
    uint32_t block[2] = { 1 + below(g, 3), 1 + below(g, 3) }, groups[3] = { FLEX_N_ARRAYS, FLEX_N_FROM, 0 };
    struct attr attrs[FLEX_ATTRS] = { chance(g, 0.8) ? A_INTS(block, 2) : A_NONE };
    struct node_in in = { .op = OP_flex_attention,
                          .operands = operands,
                          .n_operands = FLEX_FIRST_BLOCK,
                          .groups = groups,
                          .attrs = attrs,
                          .regions = regions,
                          .n_regions = 2 };
    s->hidden[builder_node(&s->b, &in) + FLEX_MAX] =
        true; /* it has no gradient, which differences would see */
}

static void step_switch(struct block *s)
{
    struct gen *g = s->g;
    enum dtype index_type = chance(g, 0.5) ? DT_BOOL : (enum dtype[]){ DT_I32, DT_I64, DT_U32,
                                                                       DT_U8,  DT_I16, DT_U64 }[below(g, 6)];
    uint32_t n = index_type == DT_BOOL ? 2 : 1 + below(g, 4), one = 1,
             n_results = is_bare(g, 0.07) ? 0 : 1 + below(g, 3);
    val index = want_scalar(s, index_type), own[4][4];
    struct region_in regions[4];
    type_id types[12], result_types[4];
    for (uint32_t k = 0; k < n_results; k++) {
        bool wished = !k && g->wish_depth;
        val like = pick(s,
                        &(struct filter){ .dtypes = wished || chance(g, 0.8) ? FLOATS : 0, .most_rank = 2 });
        if (like == VAL_NONE) like = wished ? fill(s, pick_float(g), 0, NULL) : index;
        result_types[k] = builder_type(&s->b, like);
    }
    for (uint32_t r = 0; r < n; r++) {
        if (r && chance(g, 0.1)) {
            regions[r] = regions[r - 1];
            continue;
        }
        struct body *body = arena_alloc(&s->b.arena, sizeof *body);
        uint32_t n_own = pick_some(s, 4, own[r], types);
        memcpy(types + n_own, result_types, n_results * sizeof *types);
        body_begin(body, s, types, n_own, n_own + n_results);
        fill_body(&body->s, below(g, 5));
        if (!n_results) bare_body(&body->s);
        val results[4];
        for (uint32_t k = 0; k < n_results; k++)
            results[k] = maybe_squash(
                &body->s,
                result_of_type(&body->s, type_get(g->m, type_through(g->m, result_types[k], body->inside))));
        link_results(&body->s, results, n_results, false);
        regions[r] = (struct region_in){ .operands = own[r], .n_operands = n_own, .dims = body->dims };
        regions[r].fn = body_end(body, results, n_results);
    }
    struct attr attrs[16] = { 0 };
    pick_schedule(s, OP_switch, attrs);
    builder_node(&s->b, &(struct node_in){ .op = OP_switch,
                                           .operands = &index,
                                           .n_operands = 1,
                                           .groups = &one,
                                           .attrs = attrs,
                                           .regions = regions,
                                           .n_regions = n });
}

/* A function of values that are there. */
struct drawn {
    val own[4];
    type_id types[4];
    struct region_in region;
};

static void draw_function(struct block *s, struct drawn *d)
{
    struct gen *g = s->g;
    val results[4];
    bool bare = is_bare(g, 0.07);
    uint32_t n_own = bare && chance(g, 0.5) ? 0 : pick_some(s, 4, d->own, d->types), n = 0;
    struct body *body = arena_alloc(&s->b.arena, sizeof *body);
    body_begin(body, s, d->types, n_own, n_own);
    fill_body(&body->s, bare ? below(g, 3) : 1 + below(g, 4));
    if (bare) bare_body(&body->s);
    for (uint32_t k = bare ? 0 : 1 + below(g, 3); k; k--) {
        val v = stackable(&body->s);
        if (v != VAL_NONE) results[n++] = v;
    }
    n = link_results(&body->s, results, n, !bare);
    d->region = (struct region_in){ .operands = d->own, .n_operands = n_own, .dims = body->dims };
    d->region.fn = body_end(body, results, n);
}

static bool has_name(const struct module *m, uint32_t fn, const char *name)
{
    const struct fn *f = module_fn(m, fn);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        const struct attr *a = n->op == OP_tag ? node_attr(f, n, TAG_NAME) : NULL;
        if (a && a->kind != ATTR_ABSENT && !strcmp(module_text(m, (uint32_t)a->i), name)) return true;
        for (uint32_t r = 0; r < n->n_regions; r++)
            if (has_name(m, node_region(f, n, r)->fn, name)) return true;
    }
    return false;
}

/* What a gradient of the call keeps: every kind of policy, with names that the body has. */
static void pick_policy(struct block *s, uint32_t body, struct attr *attrs)
{
    static const char *const policies[] = {
        "nothing",      "everything",  "products",   "products_without_batch",       "budget(0%)",
        "budget(40%)",  "budget(75%)", "budget(64)", "both(products, everything)",   "budget(100%)",
        "budget(1000)", "budget(20%)", "budget(1)",  "both(nothing, both(products))"
    };
    static const char *const of_names[] = { "names(save = [%s])", "names(recompute = [%s])", "named",
                                            "named(but = [%s])", "both(names(save = [%s]), products)" };
    struct gen *g = s->g;
    const char *name = chance(g, 0.5) ? "a" : "b", *text = policies[below(g, HOP_COUNT(policies))];
    if (has_name(g->m, body, name) && chance(g, 0.7))
        text = arena_printf(&s->b.arena, of_names[below(g, HOP_COUNT(of_names))], name);
    attrs[INVOKE_RECOMPUTE] = A_NONE;
    attrs[INVOKE_POLICY] = A_STRING(module_string(g->m, text, strlen(text)));
}

static void step_call(struct block *s)
{
    struct gen *g = s->g;
    struct drawn d;
    draw_function(s, &d);
    struct attr attrs[16] = { 0 };
    pick_schedule(s, OP_invoke_subgraph, attrs);
    if (!g->loud && chance(g, 0.4)) pick_policy(s, d.region.fn, attrs);
    if (chance(g, 0.2)) attrs[INVOKE_INLINE] = A_WORD(below(g, 2));
    struct node_in call = { .op = OP_invoke_subgraph, .attrs = attrs, .regions = &d.region, .n_regions = 1 };
    builder_node(&s->b, &call);
    if (!chance(g, 0.4)) return;
    for (uint32_t i = 0; i < d.region.n_operands; i++) {
        struct type t = type_get(g->m, d.types[i]);
        d.own[i] = want(s, (enum dtype)t.dtype, t.rank, t.dims);
    }
    builder_node(&s->b, &call); /* the same function again, on other operands */
}

static void step_custom(struct block *s)
{
    struct drawn d;
    draw_function(s, &d);
    custom_of(s, d.region.fn, d.own, d.region.n_operands, d.region.dims);
}

/* Every kind of region, with what its attributes may be, and some that nobody knows. */
static const struct region_kind {
    const char *kind, *attributes;
} region_kinds[] = {
    { "wrap", NULL },
    { "wrap", "inline = true" },
    { "named", "name = \"part\"" },
    { "numbers", "mode = \"strict\"" },
    { "hints", "unroll = 3" },
    { "hints", "vector = \"off\", threads = 1" },
    { "hints", "inline = \"no\", of_another = [1, 2]" },
    { "mine", "bits = 8, levels = [0.5, -1.0, 2], mode = \"even\"" },
    { "theirs", NULL },
    /* NOT_LOUD: forward derivatives of the first give the body's values, loops of the others are run again */
    { "once", "otherwise = \"body\"" },
    { "hints", "schedule = \"recompute\"" },
    { "hints", "schedule = \"every 2\"" },
    { "hints", "schedule = \"binomial 2\"" },
};
enum { NOT_LOUD = 4 }; /* the last of these */

static void step_region(struct block *s)
{
    struct gen *g = s->g;
    struct drawn d;
    draw_function(s, &d);
    const struct region_kind *k = &region_kinds[below(g, HOP_COUNT(region_kinds) - (g->loud ? NOT_LOUD : 0))];
    struct attr attrs[REGION_ATTRS] = {
        [REGION_KIND] = A_STRING(module_string(g->m, k->kind, strlen(k->kind))),
        [REGION_NAMED] = named_parse(g->m, "region", k->attributes, &s->b.arena),
    };
    builder_node(&s->b,
                 &(struct node_in){ .op = OP_region, .attrs = attrs, .regions = &d.region, .n_regions = 1 });
}

/* ---- steps ---- */

static const struct step step_kinds[] = {
    { step_elementwise, 34, OP_COUNT },   { step_cast, 3, OP_COUNT },
    { step_reduce, 9, OP_COUNT },         { step_shape, 12, OP_COUNT },
    { step_index, 8, OP_COUNT },          { step_gather, 4, OP_COUNT },
    { step_along, 7, OP_COUNT },          { step_dot, 7, OP_COUNT },
    { step_statistic, 4, OP_COUNT },      { step_composite, 7, OP_COUNT },
    { step_draw, 2, OP_COUNT },           { step_source, 3, OP_COUNT },
    { step_effect, 3, OP_COUNT },         { step_bind, 1, OP_COUNT },
    { step_operator, 8, OP_COUNT },       { step_scan, 14, OP_scan },
    { step_while, 11, OP_while_loop },    { step_switch, 11, OP_switch },
    { step_call, 6, OP_invoke_subgraph }, { step_map, 9, OP_map },
    { step_fori, 9, OP_fori_loop },       { step_associative, 9, OP_associative_scan },
    { step_custom, 6, OP_custom },        { step_region, 6, OP_region },
    { step_flex, 3, OP_flex_attention },  { step_windows, 4, OP_COUNT },
    { step_conv, 2, OP_COUNT },           { step_resized, 3, OP_COUNT },
    { step_sample, 3, OP_COUNT },
};

static const struct step *hop_step(enum op op)
{
    for (size_t i = 0; i < HOP_COUNT(step_kinds); i++)
        if (step_kinds[i].op == op) return &step_kinds[i];
    return NULL;
}

static const struct step *any_higher_step(struct gen *g)
{
    const struct step *step;
    do step = &step_kinds[below(g, HOP_COUNT(step_kinds))];
    while (step->op == OP_COUNT);
    return step;
}

static const struct step *pick_step(struct block *s)
{
    struct gen *g = s->g;
    uint32_t total = 0;
    bool higher = s->depth < g->depth && g->steps > 3;
    const struct step *chosen = NULL;
    for (size_t i = 0; i < HOP_COUNT(step_kinds); i++) {
        if (step_kinds[i].op != OP_COUNT && !higher) continue;
        if (step_kinds[i].make == step_operator && !g->operators) continue;
        uint32_t weight = step_kinds[i].weight * (step_kinds[i].op != OP_COUNT && s->depth < 2 ? 2 : 1);
        total += weight;
        if (below(g, total) < weight) chosen = &step_kinds[i];
    }
    return chosen;
}

static void one_step(struct block *s, const struct step *step)
{
    struct gen *g = s->g;
    struct hop_catch caught;
    bool asked[OP_COUNT];
    const uint32_t depth = g->depth, wish_depth = g->wish_depth;
    memcpy(asked, g->asked, sizeof asked);
    g->steps -= g->steps > 0;
    if (HOP_TRY(caught)) {
        step->make(s);
        g->made++;
        hop_catch_end(&caught);
    } else {
        hop_status status = hop_caught();
        if (status != HOP_INVALID) hop_rethrow(status);
        memcpy(g->asked, asked, sizeof asked);
        g->depth = depth, g->wish_depth = wish_depth;
        g->rejected++;
        if (getenv("RANDOM_REJECTED")) printf("rejected: %s\n", hop_message());
    }
}

static void make_steps(struct block *s, uint32_t n)
{
    for (uint32_t i = 0; i < n && s->b.values.len + 200 < MAX_VALUES; i++) one_step(s, pick_step(s));
}

/* ---- programs ---- */

static const int64_t run_sizes[] = { 3, 2, 1, 5, 0, 4, 17, 8, 33 };

static void draw_args(struct bag *bag, struct program *p, uint64_t seed, struct tensor **args)
{
    const struct fn *f = module_fn(p->m, p->fn);
    struct random r = { seed };
    for (uint32_t i = 0; i < f->n_params; i++) {
        struct type t = type_get(p->m, value_type(f, i));
        int64_t dims[MAX_RANK];
        for (uint32_t d = 0; d < t.rank; d++) dims[d] = dim_eval(p->m, t.dims[d], p->symbols);
        args[i] = bag_new(bag, (enum dtype)t.dtype, t.rank, dims);
        tensor_random(args[i], &r,
                      dtype_info[t.dtype].kind == KIND_UINT ? 0
                      : dtype_is_float((enum dtype)t.dtype) ? -1.5
                                                            : -2,
                      dtype_is_float((enum dtype)t.dtype) ? 1.5 : 5);
        if (p->wild) put_specials(args[i], 0.1, &r);
    }
}

static const enum op higher_ops[] = {
    OP_invoke_subgraph, OP_switch,           OP_while_loop, OP_scan,  OP_map,
    OP_fori_loop,       OP_associative_scan, OP_custom,     OP_region
};
enum { HIGHER = HOP_COUNT(higher_ops), PAIRS = HIGHER * HIGHER, WISHES = PAIRS + PAIRS / 3 };

/* What a seed wishes for: pair x * HIGHER + y is row y in a body of row x; PAIRS and more: nothing. */
static uint32_t seed_wish(uint64_t seed) { return (uint32_t)(seed % WISHES); }

static void random_program(struct bag *bag, struct gen *g, struct program *p)
{
    struct block *s = arena_alloc(&bag->arena, sizeof *s);
    uint32_t kind = below(g, 10), n_symbols = below(g, 3), n_params = 2 + below(g, 4), n = 0,
             size_kinds = chance(g, 0.15) ? 9 : 6;
    uint32_t wish = seed_wish(p->seed);
    val results[8];
    *s = (struct block){ .g = g, .link = VAL_NONE };
    if (wish < PAIRS && chance(g, 0.8)) kind = below(g, 8);
    g->wild = p->wild = kind >= 8;
    g->effects = chance(g, 0.25);
    p->wide = g->smooth = kind < 4;
    p->scaled = g->scaled = kind < 4 && chance(g, 0.6);
    g->loud = g->scaled && chance(g, 0.5);
    g->floats[0] = kind < 4 ? DT_F64 : DT_F32,
    g->floats[1] = kind < 4 || kind == 9 || kind == 6 ? DT_F64 : DT_F32;
    if (!p->wide && chance(g, g->wild ? 0.5 : 0.25))
        g->floats[below(g, 2)] = chance(g, 0.5) ? DT_F16 : DT_BF16;
    p->coarse = dtype_is_narrow(g->floats[0]) || dtype_is_narrow(g->floats[1]);
    g->steps = 6 + below(g, 25);
    g->depth = 2 + below(g, 3);
    p->large = chance(g, 0.03);
    if (p->large) g->depth = chance(g, 0.4), n_symbols = 1;
    for (size_t i = 0; i < HOP_COUNT(g->consts); i++)
        g->consts[i] = (int64_t[]){ 2, 3, 4, 5, 1, 7 }[below(g, 6)];
    builder_begin(&s->b, g->m, NULL);
    for (uint32_t i = 0; i < n_symbols; i++) {
        builder_symbol(&s->b, module_string(g->m, i ? "S" : "T", 1), 0, INT64_MAX);
        p->symbols[i] = p->large ? (g->depth ? 60 : 150) : run_sizes[below(g, size_kinds)];
    }
    for (uint32_t i = 0; i < n_params; i++) {
        dim dims[3] = { pick_dim(s), pick_dim(s), pick_dim(s) };
        enum dtype t = i ? pick_dtype(g) : pick_float(g);
        for (uint32_t d = 0; d < 3; d++) /* a size bound by a parameter is a plain symbol there */
            if (!dim_is_const(g->m, dims[d]) && !dim_is_symbol(g->m, dims[d], &(uint32_t){ 0 }))
                dims[d] = dim_symbol(g->m, below(g, n_symbols));
        char name[2] = { (char)('a' + i), 0 };
        builder_param(&s->b,
                      make_type(s, t,
                                i == 0 ? 1 + below(g, p->large ? 1 : 2)
                                       : below(g, p->large         ? 2
                                                  : size_kinds > 6 ? 3
                                                                   : 4),
                                dims),
                      module_string(g->m, name, 1));
    }
    if (wish < PAIRS && !p->large) {
        g->steps = 3 + below(g, 9), g->depth = 2 + chance(g, 0.2);
        make_steps(s, below(g, 3));
        g->outer = hop_step(higher_ops[wish / HIGHER]), g->inner = hop_step(higher_ops[wish % HIGHER]);
        g->wish_depth = 1;
        make_wished(s, g->outer);
        g->wish_depth = 0;
        if (s->link != VAL_NONE) results[n++] = s->link;
    }
    make_steps(s, n ? below(g, 4) : 3 + below(g, 8));
    for (int k = 0; k < 2 && g->operators; k++) one_step(s, &(struct step){ step_operator, 1, OP_COUNT });
    link_unread(s, 6);
    if (s->link != VAL_NONE) results[0] = s->link, n = 1;
    for (uint32_t k = 1 + below(g, 4); k; k--)
        results[n++] = pick(s, &(struct filter){ .dtypes = k == 1 || chance(g, 0.7) ? FLOATS : 0 });
    s->b.name = module_string(g->m, "main", 4);
    p->m = g->m;
    p->fn = builder_finish(&s->b, results, n);
    const struct fn *f = module_fn(g->m, p->fn);
    for (uint32_t i = 0, k = 0; i < f->n_outer_symbols; i++)
        if (f->symbols[i].origin == SYMBOL_DIM) p->dims[k++] = p->symbols[i];
    draw_args(bag, p, p->seed, p->args);
}

#endif
