/* flex_attention against its plain definition: the whole score matrix by nested maps of the same bodies, its
 * softmax and a product. 108 pairs of score and mask functions, over shapes with grouped heads, shared keys,
 * lengths that no block divides, one query, no key at all, lists of blocks, and over the float dtypes: values
 * and cotangents of every float operand on every back end, strict ones bit for bit the interpreter's. Then
 * second derivatives, lanes, a score function with a pole over 1,000 positions, how memory grows with the
 * length, and programs that are refused.
 *
 * attention_test [FIRST [COUNT]]: cases (none: what comes behind them alone); closes with `N passed, M
 * failed`. */
#include "check.h"

#include "check/check.h"
#include "hop/hop.h"
#include "transform/transform.h"

#include <math.h>
#include <stdlib.h>

/* ---- cases ---- */

/* $: the dtype of scores. What is captured stands in `with` and has the type in `types`. */
struct piece {
    const char *name, *with, *types, *body;
};

static const struct piece scores[] = {
    { "as it is", "", "", "yield(%s)" },
    { "ALiBi", "%w", "%w: $[H]",
      "%t0 = gather {dims = [0]} (%w, %h)\n%t1 = sub(%j, %i)\n%t2 = cast {dtype = $} (%t1)\n"
      "%t3 = mul(%t0, %t2)\n%t4 = add(%s, %t3)\nyield(%t4)" },
    { "relative bias", "%w", "%w: $[H, 7]",
      "%t0 = sub(%j, %i)\n%t1 = full {value = 3, dims = [], dtype = i64}\n%t2 = add(%t0, %t1)\n"
      "%t3 = gather {dims = [0, 1]} (%w, %h, %t2)\n%t4 = add(%s, %t3)\nyield(%t4)" },
    { "soft cap", "", "",
      "%t0 = full {value = 0.75, dims = [], dtype = $}\n%t1 = div(%s, %t0)\n%t2 = tanh(%t1)\n"
      "%t3 = mul(%t0, %t2)\nyield(%t3)" },
    { "square and temperature", "%w", "%w: $[]", "%t0 = mul(%s, %s)\n%t1 = mul(%t0, %w)\nyield(%t1)" },
    { "a bias for each pair", "%w", "%w: $[L, S]",
      "%t0 = gather {dims = [0, 1]} (%w, %i, %j)\n%t1 = mul(%s, %t0)\nyield(%t1)" },
    { "nothing of the score", "%w", "%w: $[S]", "%t0 = gather {dims = [0]} (%w, %j)\nyield(%t0)" },
    { "one read twice", "%w", "%w: $[5]",
      "%t0 = gather {dims = [0]} (%w, %i)\n%t1 = gather {dims = [0]} (%w, %j)\n%t2 = mul(%t0, %t1)\n"
      "%t3 = add(%s, %t2)\n%t4 = sin(%t3)\nyield(%t4)" },
    { "batch and head", "%w", "%w: $[B, H]",
      "%t0 = gather {dims = [0, 1]} (%w, %b, %h)\n%t1 = mul(%s, %t0)\nyield(%t1)" },
    { "a loop as long as positions say", "%w", "%w: $[]",
      "%t0 = full {value = 3, dims = [], dtype = i64}\n%t1 = add(%i, %j)\n%t2 = rem(%t1, %t0)\n"
      "%t3 = rem(%j, %t0)\n%t4, %t5: $[?n] = fori_loop carry(%a = %s) from(%step = %t3) to(%t2) with(%w) {\n"
      "%a0 = mul(%a, %w)\n%a1 = sin(%a0)\nnext(%a1) stack(%a0)\n}\n%t6 = sum(%t5)\n"
      "%t7 = add(%t4, %t6)\nyield(%t7)" },
    { "tables by the distance", "%w", "%w: $[H, 7]", /* as i32 both ways, and out of range */
      "%t0 = cast {dtype = i32} (%i)\n%t1 = cast {dtype = i32} (%j)\n%t2 = sub(%t0, %t1)\n"
      "%t3 = gather {dims = [0, 1]} (%w, %h, %t2)\n%t4 = sub(%j, %i)\n"
      "%t5 = cast {dtype = $} (%t4)\n%t6 = sin(%t5)\n%t7 = mul(%t3, %s)\n%t8 = add(%t7, %t6)\n"
      "%t9 = abs(%t4)\n%t10 = gather {dims = [0, 1]} (%w, %b, %t9)\n%t11 = mul(%t8, %t10)\nyield(%t11)" },
    { "nothing but the distance", "%w", "%w: $[9]",
      "%t0 = sub(%i, %j)\n%t1 = gather {dims = [0]} (%w, %t0)\nyield(%t1)" },
};

static const struct piece masks[] = {
    { "none", "", "", "%m0 = full {value = 1, dims = [], dtype = bool}\nyield(%m0)" },
    { "causal", "", "", "%m0 = ge(%i, %j)\nyield(%m0)" },
    { "window", "", "",
      "%m0 = sub(%i, %j)\n%m1 = full {value = 2, dims = [], dtype = i64}\n%m2 = lt(%m0, %m1)\n"
      "%m3 = ge(%i, %j)\n%m4 = and(%m2, %m3)\nyield(%m4)" },
    { "prefix", "%n", "%n: i64[]", "%m0 = lt(%j, %n)\n%m1 = ge(%i, %j)\n%m2 = or(%m0, %m1)\nyield(%m2)" },
    { "documents", "%d", "%d: i64[N]",
      "%m0 = gather {dims = [0]} (%d, %i)\n%m1 = gather {dims = [0]} (%d, %j)\n%m2 = eq(%m0, %m1)\n"
      "yield(%m2)" },
    { "dilated", "", "",
      "%m0 = sub(%i, %j)\n%m1 = full {value = 2, dims = [], dtype = i64}\n%m2 = rem(%m0, %m1)\n"
      "%m3 = full {value = 0, dims = [], dtype = i64}\n%m4 = eq(%m2, %m3)\nyield(%m4)" },
    { "lengths of batches and heads", "%d", "%d: i64[B, H]",
      "%m0 = gather {dims = [0, 1]} (%d, %b, %h)\n%m1 = lt(%j, %m0)\nyield(%m1)" },
    { "behind the query", "", "", "%m0 = gt(%j, %i)\nyield(%m0)" }, /* the last one has no key */
    { "a loop as long as positions say", "", "",
      "%m0 = full {value = 5, dims = [], dtype = i64}\n%m1 = full {value = 0, dims = [], dtype = i64}\n"
      "%m2 = rem(%i, %m0)\n%m3 = rem(%j, %m0)\n%m4, %m5: i64[?r] = fori_loop carry(%a = %m1) "
      "from(%step = %m2) to(%m3) {\n%a0 = add(%a, %step)\nnext(%a0) stack(%step)\n}\n%m6 = sum(%m5)\n"
      "%m7 = add(%m4, %m6)\n%m8 = full {value = 4, dims = [], dtype = i64}\n%m9 = le(%m7, %m8)\n"
      "yield(%m9)" },
};

/* How blocks are listed: not at all, in a row of columns for each row of blocks, compactly, and that with
 * ranges; for all heads or for each. */
enum lists { NO_LISTS, ROWS, COMPACT, RANGES };
struct shape {
    int batches, kv_batches, heads, kv_heads, queries, keys, width, value_width, block[2];
    enum lists lists;
    bool of_heads;
};
static const struct shape shapes[] = {
    { 1, 1, 2, 2, 5, 5, 3, 2, { 2, 2 }, NO_LISTS, false },
    { 2, 2, 2, 1, 4, 6, 2, 3, { 4, 3 }, NO_LISTS, false },
    { 2, 1, 4, 2, 3, 7, 2, 2, { 2, 4 }, NO_LISTS, false },
    { 1, 1, 1, 1, 1, 9, 4, 4, { 0, 0 }, NO_LISTS, false },
    { 1, 1, 2, 2, 7, 4, 2, 2, { 3, 128 }, NO_LISTS, false },
    { 1, 1, 2, 1, 5, 6, 2, 2, { 2, 2 }, ROWS, false },
    { 2, 2, 1, 1, 6, 5, 1, 1, { 2, 3 }, ROWS, false },
    /* packed heads over keys that are cut into parts, with lists as well */
    { 1, 1, 4, 2, 1, 2100, 2, 2, { 0, 0 }, NO_LISTS, false },
    { 2, 1, 2, 1, 2, 2060, 2, 1, { 0, 0 }, NO_LISTS, false },
    { 1, 1, 2, 1, 3, 2050, 2, 2, { 4, 512 }, ROWS, false },
    { 1, 1, 1, 1, 27, 5, 2, 2, { 2, 4 }, NO_LISTS, false }, /* tiles of queries that parts do not divide */
    { 2, 2, 2, 1, 7, 8, 2, 2, { 3, 3 }, COMPACT, true },
    { 1, 1, 2, 2, 7, 8, 2, 2, { 3, 3 }, RANGES, false },
    { 1, 1, 4, 2, 2, 9, 2, 2, { 2, 4 }, RANGES, false }, /* packed */
    { 2, 1, 4, 2, 2, 9, 2, 2, { 2, 2 }, ROWS, true },
    { 1, 1, 2, 1, 1, 7, 2, 2, { 1, 2 }, COMPACT, false },
    { 1, 1, 4, 1, 2, 11, 2, 2, { 2, 3 }, RANGES, true },
};
static const char *const dtypes[] = { "f64", "f32", "f64", "bf16", "f64", "f32", "f16" };

/* A text with letters that stand for sizes, alone in brackets, and $ for the dtype of scores. */
static void add_piece(struct text *t, const char *text, const struct shape *s, const char *computed)
{
    for (const char *c = text; *c; c++) {
        bool before = c > text && (c[-1] == '[' || c[-1] == ' '), after = c[1] == ']' || c[1] == ',';
        int size = *c == 'H'   ? s->heads
                   : *c == 'B' ? s->batches
                   : *c == 'L' ? s->queries
                   : *c == 'S' ? s->keys
                   : *c == 'N' ? HOP_MAX(s->queries, s->keys)
                               : 0;
        if (*c == '$') text_str(t, computed);
        else if (before && after && size) text_add(t, "%d", size);
        else text_add(t, "%c", *c);
    }
}

struct one {
    const struct piece *score, *mask;
    const struct shape *s;
    const char *dtype, *computed;
};

static int blocks_of(int length, int block) { return (length + block - 1) / block; }
struct grid {
    int rows, columns, room; /* room: for all blocks of all lists */
};
static struct grid grid_of(const struct shape *s)
{
    struct grid g = { 0 };
    if (!s->lists) return g;
    g.rows = blocks_of(s->queries, s->block[0]);
    g.columns = blocks_of(s->keys, s->block[1]);
    g.room = (s->of_heads ? s->heads : 1) * g.rows * g.columns;
    return g;
}

static void add_params(struct text *t, const struct one *o)
{
    const struct shape *s = o->s;
    text_add(t, "(%%q: %s[%d, %d, %d, %d], %%k: %s[%d, %d, %d, %d], ", o->dtype, s->batches, s->heads,
             s->queries, s->width, o->dtype, s->kv_batches, s->kv_heads, s->keys, s->width);
    text_add(t, "%%v: %s[%d, %d, %d, %d], %%c: %s[]", o->dtype, s->kv_batches, s->kv_heads, s->keys,
             s->value_width, o->computed);
    for (int i = 0; i < 2; i++) {
        const char *types = i ? o->mask->types : o->score->types;
        if (*types) text_str(t, ", ");
        add_piece(t, types, s, o->computed);
    }
    int heads = s->of_heads ? s->heads : 1;
    struct grid g = grid_of(s);
    for (int i = 0; i < 2 && s->lists == ROWS; i++)
        text_add(t, ", %%n%d: i32[1, %d, %d], %%x%d: i32[1, %d, %d, %d]", i, heads, g.rows, i, heads, g.rows,
                 g.columns);
    for (int i = 0; i < 2 && s->lists > ROWS; i++)
        text_add(t, ", %%n%d: i32[1, %d, %d], %%x%d: i32[%d]", i, heads, g.rows + 1, i, g.room);
    if (s->lists)
        text_add(t, ", %%ranges: i32[%d, %d, 2], %%l0: bool[%d, %d, %d], %%l1: bool[%d, %d, %d]", g.room,
                 s->block[0], heads, s->queries, s->keys, heads, s->queries, s->keys);
    text_add(t, ") -> (%s[%d, %d, %d, %d], %s[%d, %d, %d]) {\n", o->dtype, s->batches, s->heads, s->queries,
             s->value_width, o->computed, s->batches, s->heads, s->queries);
}

static void add_flex(struct text *t, const struct one *o)
{
    const struct shape *s = o->s;
    text_str(t, "fn @flex");
    add_params(t, o);
    text_str(t, "  %zero = full {value = 0, dims = [], dtype = i64}\n  %o, %l, %m = flex_attention ");
    if (s->block[0]) text_add(t, "{block = [%d, %d]} ", s->block[0], s->block[1]);
    text_str(t, "(%q, %k, %v) from(%s = %c, %b = %zero, %h = %zero, %i = %zero, %j = %zero) ");
    if (s->lists) text_add(t, "blocks(%%n0, %%x0, %%n1, %%x1%s) ", s->lists == RANGES ? ", %ranges" : "");
    text_add(t, "score with(%s) {\n", o->score->with);
    add_piece(t, o->score->body, s, o->computed);
    text_add(t, "\n  } mask with(%s) {\n", o->mask->with);
    add_piece(t, o->mask->body, s, o->computed);
    text_str(t, "\n  }\n  return %o, %l\n}\n");
}

/* The body of a piece whose result is called by another name. */
static const char *body_as(struct arena *a, const char *body, const char *name)
{
    const char *end = strstr(body, "yield(");
    int length = (int)strcspn(end + 6, ")");
    struct text t = { .arena = a };
    text_add(&t, "%.*s%s = tag {gradient = keep} (%.*s)\n", (int)(end - body), body, name, length, end + 6);
    return t.data;
}

static void add_scores(struct text *t, const struct one *o)
{
    const struct shape *s = o->s;
    struct text with = { .arena = t->arena };
    text_add(&with, "%s%s%s", o->score->with, *o->score->with && *o->mask->with ? ", " : "", o->mask->with);
    if (s->lists) text_add(&with, "%s%%l0, %%l1", *with.data ? ", " : "");
    const char *more = *with.data ? arena_printf(t->arena, ", %s", with.data) : "";
    text_add(t, "  %%bs = iota {dims = [%d]}\n  %%hs = iota {dims = [%d]}\n  %%is = iota {dims = [%d]}\n",
             s->batches, s->heads, s->queries);
    text_add(t, "  %%js = iota {dims = [%d]}\n", s->keys);
    text_add(t, "  %%t, %%ok = map over(%%b in %%bs, %%s3 in %%scaled) with(%%hs, %%is, %%js%s) {\n", more);
    text_add(t, "%%ta, %%oka = map over(%%h in %%hs, %%s2 in %%s3) with(%%b, %%is, %%js%s) {\n", more);
    text_add(t, "%%tb, %%okb = map over(%%i in %%is, %%s1 in %%s2) with(%%b, %%h, %%js%s) {\n", more);
    text_add(t, "%%tc, %%okc = map over(%%j in %%js, %%s in %%s1) with(%%b, %%h, %%i%s) {\n", more);
    add_piece(t, body_as(t->arena, o->score->body, "%score"), s, o->computed);
    add_piece(t, body_as(t->arena, o->mask->body, "%mask"), s, o->computed);
    if (s->lists) { /* the ranges stand in l0, too, and no mask is asked */
        text_add(t, "%%lists = full {value = %d, dims = [], dtype = i64}\n", s->of_heads ? s->heads : 1);
        text_str(t, "%list = rem(%h, %lists)\n%p0 = gather {dims = [0, 1, 2]} (%l0, %list, %i, %j)\n"
                    "%p1 = gather {dims = [0, 1, 2]} (%l1, %list, %i, %j)\n");
        text_str(t, s->lists == RANGES ? "%p2 = and(%p0, %p0)\n" : "%p2 = and(%mask, %p0)\n");
        text_str(t, "%there = or(%p2, %p1)\nstack(%score, %there)\n");
    } else {
        text_str(t, "stack(%score, %mask)\n");
    }
    text_str(t, "}\nstack(%tc, %okc)\n}\nstack(%tb, %okb)\n}\nstack(%ta, %oka)\n}\n");
}

static void add_plain(struct text *t, const struct one *o)
{
    const struct shape *s = o->s;
    const char *all = arena_printf(t->arena, "%d, %d, %d, %d", s->batches, s->heads, s->queries, s->keys);
    const char *rows = arena_printf(t->arena, "%d, %d, %d", s->batches, s->heads, s->queries);
    const char *c = o->computed;
    text_str(t, "fn @plain");
    add_params(t, o);
    text_add(t, "  %%bn = iota {dims = [%d]}\n  %%hn = iota {dims = [%d]}\n", s->batches, s->heads);
    text_add(t, "  %%kvb = full {value = %d, dims = [%d], dtype = i64}\n", s->kv_batches, s->batches);
    text_add(t, "  %%group = full {value = %d, dims = [%d], dtype = i64}\n", s->heads / s->kv_heads,
             s->heads);
    text_str(t, "  %bi = rem(%bn, %kvb)\n  %hi = div(%hn, %group)\n  %k1 = take {dim = 0} (%k, %bi)\n"
                "  %k2 = take {dim = 1} (%k1, %hi)\n  %v1 = take {dim = 0} (%v, %bi)\n"
                "  %v2 = take {dim = 1} (%v1, %hi)\n");
    text_add(t, "  %%qw = cast {dtype = %s} (%%q)\n  %%kw = cast {dtype = %s} (%%k2)\n", c, c);
    text_str(t, "  %raw = dot {batch_lhs = [0, 1], batch_rhs = [0, 1], contract_lhs = [3], contract_rhs = "
                "[3]} (%qw, %kw)\n");
    text_add(t, "  %%scale = broadcast {dims = [%s], at = []} (%%c)\n  %%scaled = mul(%%raw, %%scale)\n",
             all);
    add_scores(t, o);
    text_add(t,
             "  %%ninf = full {value = -inf, dims = [%s], dtype = %s}\n  %%u = select(%%ok, %%t, %%ninf)\n",
             all, c);
    text_str(t, "  %top = reduce_max {dims = [3]} (%u)\n  %largest = stop_gradient(%top)\n");
    text_add(t, "  %%none = full {value = -inf, dims = [%s], dtype = %s}\n", rows, c);
    text_add(t, "  %%zeros = full {value = 0, dims = [%s], dtype = %s}\n", rows, c);
    text_add(t, "  %%ones = full {value = 1, dims = [%s], dtype = %s}\n", rows, c);
    text_str(t, "  %dead = eq(%largest, %none)\n  %base = select(%dead, %zeros, %largest)\n");
    text_add(t, "  %%wide = broadcast {dims = [%s], at = [0, 1, 2]} (%%base)\n  %%less = sub(%%u, %%wide)\n",
             all);
    text_str(t, "  %p = exp(%less)\n  %sum = sum {dims = [3]} (%p)\n  %total = select(%dead, %ones, %sum)\n"
                "  %log = log(%total)\n  %finite = add(%base, %log)\n"
                "  %lse = select(%dead, %none, %finite)\n");
    text_add(t, "  %%over = broadcast {dims = [%s], at = [0, 1, 2]} (%%total)\n  %%w0 = div(%%p, %%over)\n",
             all);
    text_add(t, "  %%vw = cast {dtype = %s} (%%v2)\n", c);
    text_str(t, "  %out = dot {batch_lhs = [0, 1], batch_rhs = [0, 1], contract_lhs = [3], contract_rhs = "
                "[2]} (%w0, %vw)\n");
    text_add(t, "  %%given = cast {dtype = %s} (%%out)\n  return %%given, %%lse\n}\n", o->dtype);
}

/* ---- running ---- */

enum { COUNTS, COLUMNS, FULL_COUNTS, FULL_COLUMNS, RANGES_OF, ALLOWED, FULL };
/* What a block says of its elements, in the tables that the plain definition reads; place: of a block in a
 * compact list. */
static void fill_block(struct tensor **last, const struct shape *s, const int at[3], int which, int place)
{
    int first = s->lists == RANGES ? (5 * place + 1) % s->block[1] : 0;
    for (int r = 0; r < s->block[0]; r++) {
        int from = (first + r) % s->block[1], to = s->block[1] - (place + r) % 2;
        if (s->lists != RANGES || which) from = 0, to = s->block[1];
        if (!which) {
            tensor_set(last[RANGES_OF], (place * s->block[0] + r) * 2, from);
            tensor_set(last[RANGES_OF], (place * s->block[0] + r) * 2 + 1, to);
        }
        for (int c = from; c < to; c++) {
            int i = at[1] * s->block[0] + r, j = at[2] * s->block[1] + c;
            if (i >= s->queries || j >= s->keys) continue;
            tensor_set(last[which ? FULL : ALLOWED], (at[0] * s->queries + i) * s->keys + j, 1);
        }
    }
}

/* Lists that a row of blocks has, and the same as tables of elements. */
static void fill_lists(struct tensor **last, const struct shape *s, uint32_t seed)
{
    struct grid g = grid_of(s);
    int n[2] = { 0, 0 }, heads = s->of_heads ? s->heads : 1;
    for (int i = 0; i < 2 * s->queries * s->keys * heads; i++)
        tensor_set(last[i % 2 ? FULL : ALLOWED], i / 2, 0);
    for (int h = 0; h < heads; h++)
        for (int r = 0; r < g.rows; r++) {
            int before[2] = { n[0], n[1] }, row = h * g.rows + r;
            for (int c = 0; c < g.columns; c++) {
                /* partial, full, none, partial */
                uint32_t kind = (seed + (uint32_t)(5 * r + 3 * c + h)) % 4;
                int which = kind == 1, list = 2 * which, at = row * g.columns + n[which] - before[which];
                if (kind == 2) continue;
                fill_block(last, s, (int[]){ h, r, c }, which, n[which]);
                tensor_set(last[list + COLUMNS], s->lists == ROWS ? at : n[which], c);
                n[which]++;
            }
            for (int which = 0; which < 2; which++) {
                struct tensor *counts = last[2 * which + COUNTS];
                if (s->lists == ROWS) tensor_set(counts, row, n[which] - before[which]);
                else {
                    tensor_set(counts, row + h, before[which]);
                    tensor_set(counts, row + h + 1, n[which]);
                }
            }
        }
}

static struct tensor **arguments(struct bag *bag, struct module *m, uint32_t fn, const struct one *o,
                                 uint32_t seed)
{
    const struct fn *f = module_fn(m, fn);
    struct sample_sizes sizes = sample_sizes(&bag->arena, f, 0);
    struct tensor **args = sample_arguments(bag, m, f, NULL, &sizes, seed + 1);
    if (o->s->lists) {
        struct tensor **last = args + f->n_params;
        for (uint32_t p = 0; p < f->n_params; p++)
            if (!strcmp(fn_param_name(m, f, p), "n0")) last = args + p;
        fill_lists(last, o->s, seed);
    }
    return args;
}

static void compare(struct bag *bag, struct module *m, uint32_t fn, uint32_t plain, struct tensor **args,
                    const char *what, bool low)
{
    static const struct bound bits = { BOUND_BITS, 0 };
    struct bound f32 = { BOUND_TENSOR, low ? 4e-2 : 2e-5 }, f64 = { BOUND_TENSOR, 1e-11 };
    const struct way ways[] = {
        { .name = "simplified", .simplify = true, .passes = { .strict = true } },
        { .name = "executor", .backend = backend_named("executor"), .passes = { .strict = true } },
        { .name = "LLVM", .backend = backend_named("llvm"), .passes = { .strict = true }, .threads = 3 },
        { .name = "LLVM, default", .backend = backend_named("llvm"), .threads = 2 },
    };
    struct outcome expected, reference, found;
    run_on(bag, m, plain, &interpreter, args, NULL, &expected);
    run_on(bag, m, fn, &interpreter, args, NULL, &reference);
    const char *wrong = outcome_difference(&bag->arena, &reference, &expected, f32, f64);
    CLAIM(!wrong, "%s: %s", what, wrong ? wrong : "");
    for (uint32_t i = 0; i < HOP_COUNT(ways); i++) {
        bool strict = ways[i].passes.strict;
        if (i && !ways[i].backend) continue;
        run_on(bag, m, fn, &ways[i], args, NULL, &found);
        wrong = outcome_difference(&bag->arena, &found, &reference, strict ? bits : f32, strict ? bits : f64);
        CLAIM(!wrong, "%s, %s: %s", what, ways[i].name, wrong ? wrong : "");
    }
}

/* The arguments of a vjp: those of the function, then a cotangent for each result. */
static struct tensor **with_cotangents(struct bag *bag, struct module *m, uint32_t vjp, struct tensor **args,
                                       uint32_t n, uint32_t seed)
{
    const struct fn *f = module_fn(m, vjp);
    struct sample_sizes sizes = sample_sizes(&bag->arena, f, 0);
    struct tensor **all = sample_arguments(bag, m, f, NULL, &sizes, seed + 77);
    for (uint32_t p = 0; p < n; p++) all[p] = args[p];
    return all;
}

/* Three lanes, of queries and, by the case's number, of keys and values and of what is captured: the
 * pullbacks of both. */
static void check_lanes(struct bag *bag, struct module *m, const struct one *o, uint32_t number,
                        const bool *wrt, const char *what)
{
    const char *const names[] = { "flex", "plain" };
    const struct fn *f = module_fn(m, module_find(m, "flex"));
    bool *batched = ARENA_ZNEW(&bag->arena, bool, f->n_params);
    bool *force = ARENA_NEW(&bag->arena, bool, f->n_results), found[3];
    for (uint32_t k = 0; k < f->n_results; k++) force[k] = true;
    for (uint32_t p = 0; p < f->n_params && strcmp(fn_param_name(m, f, p), "n0") != 0; p++)
        batched[p] = !p || (p < 3 ? number % 2 : number % 3);
    uint32_t back[2];
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t lanes = batch_function(m, module_find(m, names[i]), batched, dim_const(m, 3), force, false,
                                        found);
        back[i] = vjp_function(m, lanes, wrt);
    }
    struct tensor **args = arguments(bag, m, back[0], o, number);
    compare(bag, m, back[0], back[1], args, arena_printf(&bag->arena, "%s, in lanes", what),
            o->dtype[0] == 'b' || o->dtype[1] == '1');
}

static void check_one(struct bag *bag, struct module *m, const struct one *o, uint32_t number)
{
    uint32_t flex = module_find(m, "flex"), plain = module_find(m, "plain");
    uint32_t n = module_fn(m, flex)->n_params;
    const struct fn *f = module_fn(m, flex);
    struct tensor **args = arguments(bag, m, flex, o, number);
    bool *wrt = ARENA_ZNEW(&bag->arena, bool, n), low = o->dtype[0] == 'b' || o->dtype[1] == '1';
    for (uint32_t p = 0; p < n; p++) wrt[p] = dtype_is_float((enum dtype)type_get(m, value_type(f, p)).dtype);
    const char *what = arena_printf(&bag->arena, "case %u (%s; %s; %s)", number, o->score->name,
                                    o->mask->name, o->dtype);
    if (number % 4 == 1) check_lanes(bag, m, o, number / 4, wrt, what);
    uint32_t back = vjp_function(m, flex, wrt), plain_back = vjp_function(m, plain, wrt);
    args = with_cotangents(bag, m, back, args, n, number);
    compare(bag, m, back, plain_back, args, what, low);
    if (number % 6 || low) return;
    bool *again = ARENA_ZNEW(&bag->arena, bool, module_fn(m, back)->n_params);
    again[0] = again[1] = again[3] = true;
    uint32_t second = vjp_function(m, back, again), plain_second = vjp_function(m, plain_back, again);
    args = with_cotangents(bag, m, second, args, module_fn(m, back)->n_params, number);
    compare(bag, m, second, plain_second, args, arena_printf(&bag->arena, "%s, second order", what), low);
}

static void walk_case(uint32_t number)
{
    struct hop_catch caught;
    struct bag bag = { 0 };
    uint32_t pair = number % (HOP_COUNT(scores) * HOP_COUNT(masks));
    struct one o = { .score = &scores[pair % HOP_COUNT(scores)],
                     .mask = &masks[pair / HOP_COUNT(scores)],
                     .s = &shapes[number % HOP_COUNT(shapes)],
                     .dtype = dtypes[(number / 3) % HOP_COUNT(dtypes)] };
    bool far = o.s->keys > 1000; /* distances whose products with slopes have few digits left in f32 */
    if (far && !strcmp(o.dtype, "f32")) o.dtype = "f64";
    o.computed = strcmp(o.dtype, "f64") ? "f32" : "f64";
    if (!HOP_TRY(caught)) {
        CLAIM(false, "case %u (%s; %s): %s", number, o.score->name, o.mask->name, hop_message());
        return;
    }
    hop_cleanup_push(bag_free, &bag);
    struct text t = { .arena = &bag.arena };
    text_str(&t, "hop 1\n");
    add_flex(&t, &o);
    add_plain(&t, &o);
    if (getenv("HOP_TEST_SHOW")) puts(t.data);
    struct module *m = text_read("case", t.data, strlen(t.data));
    hop_cleanup_push(module_free, m);
    check_one(&bag, m, &o, number);
    hop_cleanup_pop(m);
    module_free(m);
    hop_cleanup_pop(&bag);
    bag_free(&bag);
    hop_catch_end(&caught);
}

/* ---- large arrays that are read ---- */

#define ARRAYS \
    "(%q: f64[2, 4, 129, 2], %k: f64[2, 2, 129, 2], %v: f64[2, 2, 129, 1], %w: f64[129, 4, 129]) -> " \
    "(f64[2, 4, 129, 1]) {\n"
#define LARGE(score, scores) \
    "hop 1\nfn @flex" ARRAYS "  %zero = full {value = 0, dims = [], dtype = i64}\n" \
    "  %c = full {value = 1, dims = [], dtype = f64}\n" \
    "  %o, %l, %m = flex_attention(%q, %k, %v) from(%s = %c, %b = %zero, %h = %zero, %i = %zero, %j = " \
    "%zero) score with(%w) {\n    %g = gather {dims = [1, 0, 2]} (%w, %h, %i, %j)\n" score \
    "    yield(%t)\n  } mask {\n    %p = full {value = 1, dims = [], dtype = bool}\n    yield(%p)\n  }\n" \
    "  return %o\n}\n" \
    "fn @plain" ARRAYS "  %four = iota {dims = [4]}\n  %two = full {value = 2, dims = [4], dtype = i64}\n  " \
    "%heads = div(%four, %two)\n  %k2 = take {dim = 1} (%k, %heads)\n" \
    "  %v2 = take {dim = 1} (%v, %heads)\n" \
    "  %s = dot {batch_lhs = [0, 1], batch_rhs = [0, 1], contract_lhs = [3], contract_rhs = [3]} (%q, " \
    "%k2)\n" \
    "  %turned = permute {order = [1, 0, 2]} (%w)\n" \
    "  %g = broadcast {dims = [2, 4, 129, 129], at = [1, 2, 3]} (%turned)\n" scores \
    "  %p = softmax {dims = [3]} (%t)\n" \
    "  %o = dot {batch_lhs = [0, 1], batch_rhs = [0, 1], contract_lhs = [3], contract_rhs = [2]} (%p, " \
    "%v2)\n" \
    "  return %o\n}\n"

/* A factor for each pair and head is too large for cotangents of all of it for each head: each has its own
 * rows, unless it reads those of another head as well. */
static const char *const large[] = {
    LARGE("    %t = mul(%s, %g)\n", "  %t = mul(%s, %g)\n"),
    LARGE("    %three = full {value = 3, dims = [], dtype = i64}\n    %other = sub(%three, %h)\n"
          "    %g1 = gather {dims = [1, 0, 2]} (%w, %other, %i, %j)\n    %u = mul(%s, %g)\n"
          "    %t = add(%u, %g1)\n",
          "  %u = mul(%s, %g)\n  %g1 = reverse {dims = [1]} (%g)\n  %t = add(%u, %g1)\n"),
};

static void large_arrays(void)
{
    for (uint32_t i = 0; i < HOP_COUNT(large); i++) {
        struct hop_catch caught;
        struct bag bag = { 0 };
        if (!HOP_TRY(caught)) {
            CLAIM(false, "large arrays %u: %s", i, hop_message());
            continue;
        }
        hop_cleanup_push(bag_free, &bag);
        struct module *m = text_read("large", large[i], strlen(large[i]));
        hop_cleanup_push(module_free, m);
        const bool wrt[4] = { true, true, true, true };
        uint32_t back = vjp_function(m, module_find(m, "flex"), wrt);
        uint32_t plain = vjp_function(m, module_find(m, "plain"), wrt);
        struct sample_sizes sizes = sample_sizes(&bag.arena, module_fn(m, back), 0);
        struct tensor **args = sample_arguments(&bag, m, module_fn(m, back), NULL, &sizes, 5);
        compare(&bag, m, back, plain, args, i ? "a large array, rows of other heads" : "a large array",
                false);
        hop_cleanup_pop(m);
        module_free(m);
        hop_cleanup_pop(&bag);
        bag_free(&bag);
        hop_catch_end(&caught);
    }
}

/* Heads of keys are on threads in a pullback where each has rows of its own. */
static void large_arrays_on_threads(void)
{
    for (uint32_t i = 0; i < HOP_COUNT(large); i++) {
        hop_fn *f = NULL, *back = NULL;
        bool failed = hop_fn_read(&f, large[i], "flex") || hop_vjp(&back, f, "w");
        const char *text = failed ? NULL : hop_fn_text(back);
        uint32_t maps = 0;
        for (const char *c = text; c && (c = strstr(c, "map {apart}")); c++) maps++;
        CLAIM(maps == 1 - i, "large arrays %u: %s", i, text ? text : hop_message());
        hop_fn_free(back);
        hop_fn_free(f);
    }
}

/* ---- long sequences ---- */

#define LONG(score) \
    "hop 1\nfn @main(%%q: f32[1, 1, %d, 8], %%k: f32[1, 1, %d, 8], %%v: f32[1, 1, %d, 8]) -> (f32[]) {\n" \
    "  %%zero = full {value = 0, dims = [], dtype = i64}\n  %%c = full {value = 1, dims = [], dtype = " \
    "f32}\n" \
    "  %%o, %%l, %%m = flex_attention(%%q, %%k, %%v) from(%%s = %%c, %%b = %%zero, %%h = %%zero, %%i = " \
    "%%zero, %%j = %%zero) score {\n" score "  } mask {\n    %%t = ge(%%i, %%j)\n    yield(%%t)\n  }\n" \
    "  %%o2 = mul(%%o, %%o)\n  %%r = sum(%%o2)\n  return %%r\n}\n"

/* hop_workspace of a function over so many positions, or of its gradient. */
static size_t workspace_of(int length, bool gradient)
{
    char text[1024], type[64];
    hop_fn *f = NULL, *g = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[3] = { NULL, NULL, NULL };
    hop_compile_options options = { 0 };
    size_t bytes = 0;
    snprintf(text, sizeof text, LONG("    yield(%%s)\n"), length, length, length);
    snprintf(type, sizeof type, "f32[1, 1, %d, 8]", length);
    bool failed = hop_fn_read(&f, text, NULL) || (gradient && hop_grad(&g, f, "q, k, v"));
    failed = failed || hop_compile(&exe, gradient ? g : f, &options);
    for (int i = 0; i < 3 && !failed; i++) failed = hop_tensor_new(&in[i], type);
    failed = failed || hop_workspace(&bytes, exe, in, 3, NULL);
    CLAIM(!failed, "attention over %d positions: %s", length, hop_message());
    for (int i = 0; i < 3; i++) hop_tensor_free(in[i]);
    hop_exe_free(exe);
    hop_fn_free(g);
    hop_fn_free(f);
    return bytes;
}

static void memory_is_linear(void)
{
    for (int gradient = 0; gradient < 2; gradient++) {
        size_t before = workspace_of(4096, gradient);
        for (int length = 8192; length <= 16384; length *= 2) {
            size_t now = workspace_of(length, gradient);
            CLAIM((double)now <= 2.1 * (double)before, "%s: %zu bytes at %d positions, %zu at half of them",
                  gradient ? "gradient" : "forward", now, length, before);
            before = now;
        }
    }
}

/* Lanes of queries, over keys of their own or of all lanes, are batches of one node, not a map. */
static void lanes_are_batches(void)
{
    static const char *const axes[] = { "q, k, v", "q" };
    for (size_t i = 0; i < HOP_COUNT(axes); i++) {
        char text[1024];
        hop_fn *f = NULL, *lanes = NULL;
        snprintf(text, sizeof text, LONG("    yield(%%s)\n"), 6, 6, 6);
        bool failed = hop_fn_read(&f, text, NULL) || hop_vmap(&lanes, f, axes[i], NULL);
        const char *made = failed ? NULL : hop_fn_text(lanes);
        CLAIM(made && strstr(made, "flex_attention") && !strstr(made, "map {"), "lanes of %s: %s", axes[i],
              made ? made : hop_message());
        hop_fn_free(lanes);
        hop_fn_free(f);
    }
}

/* 1 / s over lengths that no tile divides: what the last tile repeats must not be seen. */
static void a_pole(void)
{
    char text[1024];
    enum { LENGTH = 1000, WIDTH = 8 };
    hop_fn *f = NULL, *g = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[3] = { NULL, NULL, NULL }, *out[3] = { NULL, NULL, NULL };
    hop_compile_options options = { 0 };
    snprintf(text, sizeof text,
             LONG("    %%one = full {value = 1, dims = [], dtype = f32}\n    %%t = div(%%one, %%s)\n    "
                  "yield(%%t)\n"),
             LENGTH, LENGTH, LENGTH);
    bool failed = hop_fn_read(&f, text, NULL) || hop_grad(&g, f, "q, k, v") || hop_compile(&exe, g, &options);
    for (int i = 0; i < 3 && !failed; i++) {
        failed = hop_tensor_new(&in[i], "f32[1, 1, 1000, 8]");
        float *x = failed ? NULL : hop_data(in[i]);
        for (int k = 0; x && k < LENGTH * WIDTH; k++)
            x[k] = 0.5f +
                   0.5f * sinf((float)(k * (i + 1))) * sinf((float)(k % 97)); /* positive: no pole met */
    }
    failed = failed || hop_run(exe, in, 3, out, 3);
    CLAIM(!failed, "1 / s: %s", hop_message());
    for (int i = 0; i < 3 && !failed; i++) {
        const float *x = hop_data_const(out[i]);
        bool finite = true;
        for (int k = 0; k < LENGTH * WIDTH; k++) finite &= isfinite(x[k]) != 0;
        CLAIM(finite, "1 / s: the gradient of operand %d has a number that is not finite", i);
    }
    for (int i = 0; i < 3; i++) {
        hop_tensor_free(in[i]);
        hop_tensor_free(out[i]);
    }
    hop_exe_free(exe);
    hop_fn_free(g);
    hop_fn_free(f);
}

/* ---- from C ---- */

static int doubled(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_mul(in[0], hop_scalar(2));
    return 0;
}
static int not_later(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_ge(in[3], in[4]);
    return 0;
}
static int attends(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    return hop_flex_attention(out, 3,
                              &(hop_flex_attention_spec){ .query = in[0],
                                                          .key = in[1],
                                                          .value = in[1],
                                                          .score = doubled,
                                                          .mask = not_later,
                                                          .first_query = hop_int(1) });
}

/* Scores of a width of 4 are halved, and doubled again; the first query sees two keys. */
static void check_from_c(hop_tensor *const *out, const char *how)
{
    float seen = *(const float *)hop_data_const(out[0]), lse = *(const float *)hop_data_const(out[1]);
    float most = *(const float *)hop_data_const(out[2]);
    double sum = 1 + exp(2);
    CLAIM(fabs(seen - 2 * exp(2) / sum) < 1e-5, "%s: found %g", how, (double)seen);
    CLAIM(fabs(lse - log(sum)) < 1e-5 && most == 2, "%s: found %g and %g", how, (double)lse, (double)most);
}

static void free_all(hop_tensor **tensors, int n)
{
    for (int i = 0; i < n; i++) {
        hop_tensor_free(tensors[i]);
        tensors[i] = NULL;
    }
}

/* Eager bodies read values from outside: an eager one, and an assignable array. */
static int scaled_from_outside(void *env, const hop_val *in, hop_val *out)
{
    const hop_val *outside = env;
    out[0] = hop_mul(hop_mul(in[0], outside[0]), outside[1]);
    return 0;
}
static int attends_eagerly(void *env, const hop_val *in, hop_val *out)
{
    hop_val outside[2] = { hop_mul(hop_cast(hop_scalar(2), "f32"), hop_scalar(2)),
                           hop_variable(hop_cast(hop_scalar(0.5), "f32")) };
    (void)env;
    return hop_flex_attention(out, 3,
                              &(hop_flex_attention_spec){ .query = in[0],
                                                          .key = in[1],
                                                          .value = in[1],
                                                          .score = scaled_from_outside,
                                                          .mask = not_later,
                                                          .env = outside,
                                                          .first_query = hop_int(1) });
}
static int fails(void *env, const hop_val *in, hop_val *out)
{
    (void)env, (void)in, (void)out;
    return HOP_INVALID;
}
static int attends_with_a_failing_mask(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    hop_flex_attention_spec spec = { .query = in[0], .key = in[1], .value = in[1], .mask = fails };
    return hop_flex_attention(out, 3, &spec);
}

static void from_c(void)
{
    hop_fn *f = NULL;
    hop_exe *exe = NULL;
    hop_tensor *in[2] = { NULL, NULL }, *out[3] = { NULL, NULL, NULL };
    bool failed = hop_capture(&f, "q: f32[1, 1, 1, 4], k: f32[1, 1, 3, 4]", 3, attends, NULL) ||
                  hop_compile(&exe, f, &(hop_compile_options){ 0 }) ||
                  hop_tensor_new(&in[0], "f32[1, 1, 1, 4]") || hop_tensor_new(&in[1], "f32[1, 1, 3, 4]");
    if (!failed) {
        *(float *)hop_data(in[0]) = 1;
        ((float *)hop_data(in[1]))[4] = 2;
        ((float *)hop_data(in[1]))[8] = 100;
    }
    failed = failed || hop_run(exe, in, 2, out, 3);
    CLAIM(!failed, "from C: %s", hop_message());
    if (!failed) check_from_c(out, "from C");
    free_all(out, 3);
    const hop_body eager[] = { attends, attends_eagerly };
    for (int i = 0; i < 2 && !failed; i++) {
        failed = hop_eager(NULL, eager[i], NULL, in, 2, out, 3);
        CLAIM(!failed, "eagerly: %s", hop_message());
        if (!failed) check_from_c(out, "eagerly");
        free_all(out, 3);
    }
    int status = hop_eager(NULL, attends_with_a_failing_mask, NULL, in, 2, out, 3);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), "the mask function of flex_attention"),
          "a mask that fails, eagerly: %s", status ? hop_message() : "it was taken");
    free_all(in, 2);
    free_all(out, 3);
    hop_exe_free(exe);
    hop_fn_free(f);
}

/* ---- block masks from C ---- */

/* Three keys at most behind the query. */
static int near_by(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    hop_val distance = hop_sub(in[3], in[4]);
    out[0] = hop_and(hop_ge(distance, hop_int(0)), hop_le(distance, hop_int(3)));
    return 0;
}
static int reads_score(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_ge(in[0], hop_scalar(0));
    return 0;
}
static int makes_lists(void *env, const hop_val *in, hop_val *out)
{
    (void)in;
    hop_block_mask_spec spec = {
        .mask = *(const hop_body *)env, .queries = 7, .keys = 6, .query_block = 2, .key_block = 2
    };
    return hop_block_mask(out, 4, &spec);
}
static int makes_lists_by_sizes(void *env, const hop_val *in, hop_val *out)
{
    hop_block_mask_spec spec = { .mask = *(const hop_body *)env,
                                 .query_size = hop_dim_add(hop_dim_of(in[0], 0), hop_dim_const(1)),
                                 .key_size = hop_dim_of(in[0], 0),
                                 .query_block = 2,
                                 .key_block = 2 };
    return hop_block_mask(out, 4, &spec);
}

/* The classes of 4 rows and 3 columns of blocks as `near_by` says them: _ none, s some, f
 * full; the last row has one query. */
static void block_masks_from_c(void)
{
    static const char *const expected[] = { "s__", "fs_", "sfs", "_sf" };
    hop_body mask = near_by;
    hop_fn *f = NULL, *by_sizes = NULL;
    hop_exe *exe = NULL, *sized = NULL;
    hop_tensor *out[4] = { NULL, NULL, NULL, NULL }, *six = NULL;
    bool failed = hop_capture(&f, "", 4, makes_lists, &mask) || hop_compile(&exe, f, NULL) ||
                  hop_capture(&by_sizes, "x: f32[T]", 4, makes_lists_by_sizes, &mask) ||
                  hop_compile(&sized, by_sizes, NULL) || hop_tensor_new(&six, "f32[6]");
    CLAIM(!failed, "a block mask: %s", hop_message());
    for (int way = 0; way < 4 && !failed; way++) {
        if (way == 0) failed = hop_run(exe, NULL, 0, out, 4);
        else if (way == 1) failed = hop_eager("", makes_lists, &mask, NULL, 0, out, 4);
        else if (way == 2) failed = hop_run(sized, &six, 1, out, 4);
        else failed = hop_eager(NULL, makes_lists_by_sizes, &mask, &six, 1, out, 4);
        CLAIM(!failed, "a block mask: %s", hop_message());
        for (int r = 0; r < 4 && !failed; r++) {
            char found[4] = "___";
            for (int full = 0; full < 2; full++) {
                const int64_t *counts = hop_data_const(out[2 * full]);
                const int64_t *columns = hop_data_const(out[2 * full + 1]);
                for (int64_t k = 0; k < counts[r]; k++) found[columns[3 * r + k]] = full ? 'f' : 's';
            }
            CLAIM(!strcmp(found, expected[r]), "a block mask: row %d is %s, expected %s", r, found,
                  expected[r]);
        }
        free_all(out, 4);
    }
    mask = reads_score;
    hop_fn *g = NULL;
    int status = hop_capture(&g, "", 4, makes_lists, &mask);
    CLAIM(status == HOP_INVALID && strstr(hop_message(), "reads the score"), "a mask of scores: %s",
          status ? hop_message() : "it was taken");
    hop_tensor_free(six);
    hop_exe_free(sized);
    hop_exe_free(exe);
    hop_fn_free(by_sizes);
    hop_fn_free(f);
    hop_fn_free(g);
}

/* Attention under compact lists with ranges, less the same under the mask. */
struct compact {
    hop_body mask;
    int64_t room;
};
static int differs_by(void *env, const hop_val *in, hop_val *out)
{
    const struct compact *w = env;
    hop_val lists[5], found[3], expected[3];
    hop_block_mask_spec made = { .mask = w->mask,
                                 .queries = 7,
                                 .keys = 6,
                                 .query_block = 3,
                                 .key_block = 4,
                                 .room = w->room,
                                 .ranges = 1 };
    hop_flex_attention_spec by_mask = { .query = in[0], .key = in[1], .value = in[1], .mask = w->mask };
    hop_flex_attention_spec by_lists = { .query = in[0],
                                         .key = in[1],
                                         .value = in[1],
                                         .blocks = lists,
                                         .n_blocks = 5,
                                         .query_block = 3,
                                         .key_block = 4 };
    int status = hop_block_mask(lists, 5, &made) || hop_flex_attention(found, 3, &by_lists) ||
                 hop_flex_attention(expected, 3, &by_mask);
    if (status) return HOP_INVALID;
    out[0] = hop_reduce_max(hop_abs(hop_sub(found[0], expected[0])), "all");
    out[1] = hop_reduce_max(hop_abs(expected[0]), "all");
    return 0;
}
/* All but the key of the query's own number: no range. */
static int all_others(void *env, const hop_val *in, hop_val *out)
{
    (void)env;
    out[0] = hop_ne(in[3], in[4]);
    return 0;
}

static void compact_from_c(void)
{
    static const struct {
        struct compact w;
        const char *message; /* NULL: it runs */
    } cases[] = { { { near_by, 6 }, NULL },
                  { { not_later, 9 }, NULL },
                  { { near_by, 2 }, "more blocks than a compact list has room for (4, 2)" },
                  { { all_others, 6 }, "no range, in the block of this row and column (0, 0)" } };
    for (size_t i = 0; i < HOP_COUNT(cases); i++) {
        struct compact w = cases[i].w;
        hop_fn *f = NULL;
        hop_exe *exe = NULL;
        hop_tensor *in[2] = { NULL, NULL }, *out[2] = { NULL, NULL };
        bool failed = hop_capture(&f, "q: f64[2, 2, 7, 3], k: f64[2, 2, 6, 3]", 2, differs_by, &w) ||
                      hop_compile(&exe, f, NULL) || hop_tensor_new(&in[0], "f64[2, 2, 7, 3]") ||
                      hop_tensor_new(&in[1], "f64[2, 2, 6, 3]");
        for (int t = 0; t < 2 && !failed; t++)
            for (int k = 0; k < (t ? 72 : 84); k++) ((double *)hop_data(in[t]))[k] = sin(k * (t + 1.3));
        CLAIM(!failed, "compact lists %zu: %s", i, hop_message());
        int status = failed ? 0 : hop_run(exe, in, 2, out, 2);
        bool as_said = cases[i].message ? status && strstr(hop_message(), cases[i].message) : !status;
        CLAIM(as_said, "compact lists %zu: %s", i, status ? hop_message() : "it ran");
        if (!failed && !status)
            CLAIM(*(const double *)hop_data_const(out[0]) < 1e-12 &&
                      *(const double *)hop_data_const(out[1]) > 0.1,
                  "compact lists %zu: they differ by %g", i, *(const double *)hop_data_const(out[0]));
        free_all(in, 2);
        free_all(out, 2);
        hop_exe_free(exe);
        hop_fn_free(f);
    }
}

/* ---- lists against the mask ---- */

/* Attention by one mask under the lists of another. */
struct listed {
    hop_body lists, mask;
    int64_t room;
    const char *message; /* with HOP_DEBUG=masks; NULL: it runs */
};
static int under_lists(void *env, const hop_val *in, hop_val *out)
{
    const struct listed *w = env;
    hop_val lists[4], found[3];
    hop_block_mask_spec made = {
        .mask = w->lists, .queries = 7, .keys = 6, .query_block = 2, .key_block = 2, .room = w->room
    };
    hop_flex_attention_spec attention = { .query = in[0],
                                          .key = in[1],
                                          .value = in[1],
                                          .mask = w->mask,
                                          .blocks = lists,
                                          .n_blocks = 4,
                                          .query_block = 2,
                                          .key_block = 2 };
    if (hop_block_mask(lists, 4, &made) || hop_flex_attention(found, 3, &attention)) return HOP_INVALID;
    out[0] = hop_sum(hop_mul(found[0], found[0]), "all");
    return 0;
}

static void claim_listed(const struct listed *w, bool checks)
{
    enum { COMPILED, INTERPRETED, GRADIENT, TANGENT, EAGER, WAYS };
    hop_fn *f = NULL, *g = NULL, *t = NULL;
    hop_exe *exe[WAYS] = { NULL };
    hop_tensor *in[3] = { NULL, NULL, NULL }, *out[2] = { NULL, NULL };
    bool failed = hop_capture(&f, "q: f64[2, 1, 7, 3], k: f64[2, 1, 6, 3]", 1, under_lists, (void *)w) ||
                  hop_grad(&g, f, "q") || hop_jvp(&t, f, "k") || hop_compile(&exe[COMPILED], f, NULL) ||
                  hop_compile(&exe[GRADIENT], g, NULL) || hop_compile(&exe[TANGENT], t, NULL) ||
                  hop_tensor_new(&in[0], "f64[2, 1, 7, 3]") || hop_tensor_new(&in[1], "f64[2, 1, 6, 3]") ||
                  hop_tensor_new(&in[2], "f64[2, 1, 6, 3]");
    CLAIM(!failed, "lists against the mask: %s", hop_message());
    for (int way = 0; way < WAYS && !failed; way++) {
        int status, n = way == TANGENT ? 2 : 1;
        if (way == EAGER) status = hop_eager(NULL, under_lists, (void *)w, in, 2, out, n);
        else if (way == INTERPRETED) status = hop_interpret(f, in, 2, out, n);
        else status = hop_run(exe[way], in, way == TANGENT ? 3 : 2, out, n);
        bool fails = checks && w->message;
        CLAIM(fails ? status && strstr(hop_message(), w->message) : !status,
              "way %d, room %lld, expected %s: %s", way, (long long)w->room, fails ? w->message : "results",
              status ? hop_message() : "it ran");
        free_all(out, 2);
    }
    free_all(in, 3);
    for (int way = 0; way < WAYS; way++) hop_exe_free(exe[way]);
    hop_fn_free(t);
    hop_fn_free(g);
    hop_fn_free(f);
}

/* HOP_DEBUG=masks names the first block that disagrees; otherwise lists are meaning. */
static void lists_against_masks(void)
{
    static const char missing[] = "of this row and column is not listed, but keys in it take part (3, 0)";
    static const char not_full[] = "is listed as full, but not all keys take part (2, 0)";
    const struct listed cases[] = { { near_by, near_by, 0, NULL },       { near_by, near_by, 12, NULL },
                                    { near_by, not_later, 0, missing },  { near_by, not_later, 12, missing },
                                    { not_later, near_by, 0, not_full }, { not_later, near_by, 12, not_full },
                                    { near_by, NULL, 0, NULL },          { near_by, reads_score, 0, NULL } };
    const char *before = getenv("HOP_DEBUG");
    char *kept = before ? strdup(before) : NULL;
    for (size_t i = 0; i < HOP_COUNT(cases); i++) {
        claim_listed(&cases[i], false);
        setenv("HOP_DEBUG", "masks,verify", 1);
        claim_listed(&cases[i], true);
        if (kept) setenv("HOP_DEBUG", kept, 1);
        else unsetenv("HOP_DEBUG");
    }
    free(kept);
}

/* ---- what is refused ---- */

#define BAD(q, k, v, scale, more, score, mask) \
    "hop 1\nfn @main(%q: " q ", %k: " k ", %v: " v ", %c: " scale \
    ", %n: i32[1, 1, 2], %x: i32[1, 1, 2, 2], %e: i32[1, 1, 3], %y: i32[4], %r: i32[4, 2, 2], " \
    "%fewer: i32[3, 2, 2], %wider: i32[4, 3, 2]) " \
    "-> () {\n  %zero = full {value = 0, dims = [], dtype = i64}\n" \
    "  %o, %l, %m = flex_attention {block = [2, 2]} (%q, %k, %v) from(%s = %c, %b = %zero, %h = %zero, %i " \
    "= " \
    "%zero, %j = %zero) " more "score {\n" score "  } mask {\n" mask "  }\n  return\n}\n"
#define ALL "    %t = full {value = 1, dims = [], dtype = bool}\n    yield(%t)\n"
#define SAME "    yield(%s)\n"
#define F4 "f32[1, 2, 4, 3]"

static void refusals(void)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        { BAD("f32[1, 3, 4, 3]", F4, F4, "f32[]", "", SAME, ALL), "must be a multiple of those of key" },
        { BAD(F4, "f32[1, 2, 4, 2]", F4, "f32[]", "", SAME, ALL), "the widths of query and key" },
        { BAD(F4, F4, "f32[1, 2, 5, 3]", "f32[]", "", SAME, ALL), "the lengths of key and value" },
        { BAD("f32[2, 4, 3]", F4, F4, "f32[]", "", SAME, ALL), "query: expected floats" },
        { BAD(F4, "f64[1, 2, 4, 3]", F4, "f32[]", "", SAME, ALL), "expected the dtype of query" },
        { BAD(F4, F4, F4, "f64[]", "", SAME, ALL), "the scale: expected f32[]" },
        { BAD(F4, F4, F4, "f32[]", "", "    yield(%i)\n", ALL),
          "score: the body gives i64[], expected f32[]" },
        { BAD(F4, F4, F4, "f32[]", "", SAME, SAME), "mask: the body gives f32[], expected bool[]" },
        { BAD("f32[1, 2, 6, 3]", F4, F4, "f32[]", "blocks(%n, %x) ", SAME, ALL),
          "rows of the block mask and blocks of queries" },
        { BAD(F4, "f32[1, 2, 9, 3]", "f32[1, 2, 9, 3]", "f32[]", "blocks(%n, %x) ", SAME, ALL),
          "columns of the block mask and blocks of keys" },
        { BAD(F4, F4, F4, "f32[]", "blocks(%n) ", SAME, ALL), "blocks: expected counts and columns" },
        { BAD(F4, F4, F4, "f32[]", "blocks(%n, %y) ", SAME, ALL), "offsets and blocks of queries + 1" },
        { BAD(F4, F4, F4, "f32[]", "blocks(%e, %r) ", SAME, ALL), "or [blocks] behind offsets" },
        { BAD(F4, F4, F4, "f32[]", "blocks(%n, %x, %r) ", SAME, ALL), "ranges: expected a compact list" },
        { BAD(F4, F4, F4, "f32[]", "blocks(%e, %y, %x) ", SAME, ALL), "ranges: expected i32 or i64" },
        { BAD(F4, F4, F4, "f32[]", "blocks(%e, %y, %fewer) ", SAME, ALL),
          "blocks of the ranges and of the columns" },
        { BAD(F4, F4, F4, "f32[]", "blocks(%e, %y, %wider) ", SAME, ALL),
          "rows of the ranges and queries of a block" },
        { BAD(F4, F4, F4, "f32[]", "", "    print {format = \"{}\"} (%s)\n" SAME, ALL),
          "score: the body has effects" },
    };
    for (size_t i = 0; i < HOP_COUNT(bad); i++) {
        hop_fn *f = NULL;
        hop_status status = hop_fn_read(&f, bad[i].text, NULL);
        CLAIM(status == HOP_INVALID && strstr(hop_message(), bad[i].message), "refusal %zu: %s", i,
              status ? hop_message() : "it was taken");
        hop_fn_free(f);
    }
}

#ifdef __SANITIZE_ADDRESS__
enum { ONE_CASE_IN = 5 }; /* what is slow there is made less often; every score and mask is still met */
#else
enum { ONE_CASE_IN = 1 };
#endif

int main(int argc, char **argv)
{
    enum { CASES = HOP_COUNT(scores) * HOP_COUNT(masks) };
    uint32_t first = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : argc > 1 ? 1 : CASES;
    for (uint32_t i = first; i < first + count; i += argc > 1 ? 1 : ONE_CASE_IN) walk_case(i);
    if (argc <= 1 || !count) {
        refusals();
        from_c();
        block_masks_from_c();
        compact_from_c();
        lists_against_masks();
        large_arrays();
        large_arrays_on_threads();
        memory_is_linear();
        lanes_are_batches();
        a_pole();
    }
    return tests_end();
}
