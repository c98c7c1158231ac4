/* Loop programs at random for emit_test.c, which includes this: each is run by the executor and by native
 * code. */
/* Local buffers, locals and lanes that are set and read in nested loops, branches and vector loops. What is
 * drawn is always a correct program: everything is set at the beginning, and an iteration of a vector loop
 * writes only elements of its own. */
struct drawing {
    struct lp *p;
    uint64_t state;
    enum dtype t;
    uint32_t args[2], results[3], locals[4], big, scalars[4], lanes[2];
    int64_t width[4];
    lpv vars[8];
    uint32_t n_vars, counter, statements;
};
enum { DRAWN_ELEMENTS = 4096, DRAWN_BIG = 150 };

static uint32_t draw(struct drawing *d, uint32_t n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33) % n;
}

static lpv draw_constant(struct drawing *d)
{
    return dtype_is_float(d->t) ? lp_real(d->p, d->t, (double)draw(d, 64) / 16 - 2)
                                : lp_int(d->p, d->t, (int64_t)draw(d, 9) - 4);
}

/* An index into the arguments that may depend on the vector variable. */
static lpv draw_index(struct drawing *d, lpv i)
{
    lpv at = i == LPV_NONE ? idx(d->p, draw(d, 40)) : i;
    static const int64_t factors[] = { 1, 1, 1, 2, -1, 3, 16 };
    if (i != LPV_NONE)
        at = add(d->p, mul(d->p, at, idx(d->p, factors[draw(d, HOP_COUNT(factors))])),
                 idx(d->p, 200 + draw(d, 30)));
    if (d->n_vars && draw(d, 2)) at = add(d->p, at, d->vars[draw(d, d->n_vars)]);
    if (draw(d, 8) == 0) at = lp_bin(d->p, draw(d, 2) ? LP_FLOORDIV : LP_MOD, at, idx(d->p, 1 + draw(d, 20)));
    return at;
}

static lpv draw_value(struct drawing *d, lpv i, int64_t width, uint32_t depth)
{
    static const enum lp_op ops[] = { LP_ADD, LP_SUB, LP_MUL, LP_MIN, LP_MAX };
    struct lp *p = d->p;
    if (depth == 0 || draw(d, 5) == 0) switch (draw(d, 6)) {
        case 0: return draw_constant(d);
        case 1: return lp_load(p, d->args[draw(d, 2)], draw_index(d, draw(d, 4) ? i : LPV_NONE));
        case 2: return lp_read(p, d->scalars[draw(d, 2)]);
        case 3: {
            uint32_t k = draw(d, 4);
            if (i == LPV_NONE) return lp_load(p, d->locals[3], idx(p, 0));
            return d->width[k] == width ? lp_load(p, d->locals[k], i)
                                        : lp_load(p, d->big, lp_bin(p, LP_MIN, i, idx(p, DRAWN_BIG - 1)));
        }
        case 4: return lp_cast(p, d->t, i == LPV_NONE ? lp_symbol(p, 0) : i);
        default: return lp_load(p, d->big, idx(p, draw(d, DRAWN_BIG)));
        }
    lpv a = draw_value(d, i, width, depth - 1), b = draw_value(d, i, width, depth - 1);
    if (draw(d, 6) == 0)
        return lp_select(p, lp_bin(p, draw(d, 2) ? LP_LT : LP_NE, a, b), b,
                         draw_value(d, i, width, depth - 1));
    return lp_bin(p, ops[draw(d, HOP_COUNT(ops))], a, b);
}

static void draw_vector(struct drawing *d)
{
    struct lp *p = d->p;
    uint32_t k = draw(d, 4);
    int64_t width = d->width[k];
    bool dynamic = draw(d, 3) == 0, store = width > 1 && !dynamic && draw(d, 3);
    lpv lo = idx(p, 0), hi = dynamic ? lp_symbol(p, 0) : idx(p, width);
    if (!store && draw(d, 4) == 0) lo = lp_symbol(p, 1), hi = add(p, lo, idx(p, width));
    if (lo != idx(p, 0) || dynamic) width = -1;
    lpv i = begin(p, lo, hi, FOR_VECTOR), x = draw_value(d, i, width, 3);
    if (draw(d, 3) == 0) {
        lp_set(p, d->scalars[2], x);
        lpv j = begin(p, idx(p, 0), draw(d, 2) ? lp_symbol(p, 1) : idx(p, draw(d, 6)), FOR_SERIAL);
        d->vars[d->n_vars++] = j;
        lpv y = draw_value(d, i, width, 2);
        if (draw(d, 2)) { /* a local that only this loop knows, set again in a branch */
            lp_set(p, d->scalars[3], y);
            lp_if_begin(p, lp_bin(p, LP_GT, j, lp_symbol(p, 1)));
            lp_set(p, d->scalars[3], draw_value(d, i, width, 1));
            if (draw(d, 2)) lp_if_else(p), lp_accum(p, d->scalars[3], FOLD_SUM, draw_value(d, i, width, 1));
            lp_if_end(p);
            y = lp_read(p, d->scalars[3]);
        }
        if (draw(d, 2)) lp_accum(p, d->scalars[2], FOLD_MAX, y);
        else lp_set(p, d->scalars[2], add(p, lp_read(p, d->scalars[2]), y));
        if (draw(d, 3) == 0) lp_accum(p, d->lanes[0], FOLD_SUM, y);
        d->n_vars--;
        lp_for_end(p)->unroll = (uint8_t)draw(d, 4);
        x = lp_read(p, d->scalars[2]);
    }
    if (store) lp_store(p, d->locals[k], i, x);
    uint32_t q = draw(d, 4);
    if (q < 2) lp_accum(p, d->lanes[q], q || dtype_is_float(d->t) ? FOLD_MAX : FOLD_SUM, x);
    if (draw(d, 2))
        lp_store(p, d->results[draw(d, 2)], draw(d, 4) ? i : lp_bin(p, LP_SUB, idx(p, 900), i), x);
    lp_for_end(p);
}

static void draw_block(struct drawing *d, uint32_t depth);

static void draw_statement(struct drawing *d, uint32_t depth)
{
    struct lp *p = d->p;
    d->statements++;
    switch (draw(d, depth && d->statements < 40 ? 8 : 5)) {
    case 0:
    case 1:
    case 2: draw_vector(d); return;
    case 3: lp_set(p, d->scalars[draw(d, 2)], draw_value(d, LPV_NONE, -1, 2)); return;
    case 4:
        if (draw(d, 2)) lp_store(p, d->locals[3], idx(p, 0), draw_value(d, LPV_NONE, -1, 2));
        else lp_accum(p, d->scalars[draw(d, 2)], FOLD_MIN, lp_fold_lanes(p, d->lanes[1], FOLD_MAX));
        return;
    case 5: {
        lpv hi = draw(d, 2) ? lp_symbol(p, 1) : idx(p, draw(d, 5));
        lpv j = lp_for_begin(p, idx(p, 0), hi, idx(p, 1 + draw(d, 2)),
                             draw(d, 6) == 0 ? FOR_PARALLEL : FOR_SERIAL);
        bool parallel = p->open.data[p->open.len - 1].mode == FOR_PARALLEL;
        d->vars[d->n_vars++] = j;
        if (parallel) { /* rows of a result of its own, with private state */
            lpv i = begin(p, idx(p, 0), idx(p, 7 + draw(d, 60)), FOR_VECTOR);
            lp_store(p, d->results[2], add(p, mul(p, j, idx(p, 70)), i), draw_value(d, i, -1, 3));
            lp_for_end(p);
        } else draw_block(d, depth - 1);
        d->n_vars--;
        struct lp_stmt *s = lp_for_end(p);
        s->unroll = parallel ? 0 : (uint8_t)draw(d, 4);
        s->poll = draw(d, 2) && !parallel;
        return;
    }
    case 6: {
        lp_if_begin(p, lp_bin(p, LP_LT, lp_read(p, d->scalars[0]), draw_value(d, LPV_NONE, -1, 1)));
        draw_block(d, depth - 1);
        if (draw(d, 2)) lp_if_else(p), draw_block(d, depth - 1);
        lp_if_end(p);
        return;
    }
    default: {
        uint32_t k = lp_local(p, DT_I64, LOCAL_SCALAR, "k");
        lp_set(p, k, idx(p, 0));
        lp_while_begin(p);
        if (draw(d, 2)) lp_set(p, d->scalars[1], draw_value(d, LPV_NONE, -1, 1));
        lp_while_body(p, lp_bin(p, LP_LT, lp_read(p, k), idx(p, draw(d, 4))));
        draw_block(d, depth - 1);
        lp_set(p, k, add(p, lp_read(p, k), idx(p, 1)));
        lp_while_end(p);
    }
    }
}

static void draw_block(struct drawing *d, uint32_t depth)
{
    for (uint32_t k = 1 + draw(d, 3); k; k--) draw_statement(d, depth);
}

static void clear_buffer(struct drawing *d, uint32_t b, int64_t n, uint32_t source)
{
    lpv i = begin(d->p, idx(d->p, 0), idx(d->p, n), FOR_VECTOR);
    lp_store(d->p, b, i, lp_load(d->p, source, add(d->p, i, idx(d->p, 3))));
    lp_for_end(d->p);
}

/* Integers have one sum whatever the order, so in default mode they are exact as well; floats are drawn in
 * strict mode. */
static struct lp *draw_program(uint64_t seed, enum dtype t, bool strict)
{
    static const int64_t widths[] = { 2, 3, 5, 8, 16, 17, 24, 32, 48, 64, 100, 128 };
    struct drawing d = { .p = lp_new(m, header(2), strict), .state = seed * 7919 + 1, .t = t };
    struct lp *p = d.p;
    for (int k = 0; k < 2; k++) d.args[k] = buffer(p, BUF_ARG, t, DRAWN_ELEMENTS, "arg");
    for (int k = 0; k < 3; k++) d.results[k] = buffer(p, BUF_RESULT, t, DRAWN_ELEMENTS, "result");
    for (int k = 0; k < 4; k++)
        d.width[k] = k == 3 ? 1 : widths[draw(&d, HOP_COUNT(widths))],
        d.locals[k] = buffer(p, BUF_LOCAL, t, d.width[k], "local");
    d.big = buffer(p, BUF_LOCAL, t, DRAWN_BIG, "big");
    for (int k = 0; k < 4; k++)
        d.scalars[k] = lp_local(p, t, LOCAL_SCALAR, "scalar"), lp_set(p, d.scalars[k], draw_constant(&d));
    for (int k = 0; k < 2; k++)
        d.lanes[k] = lp_local(p, t, LOCAL_LANES, "lanes"),
        lp_set(p, d.lanes[k], lp_int(p, t, k && !dtype_is_float(t) ? -100000 : 0));
    for (int k = 0; k < 3; k++) clear_buffer(&d, d.locals[k], d.width[k], d.args[k & 1]);
    lp_store(p, d.locals[3], idx(p, 0), draw_constant(&d));
    clear_buffer(&d, d.big, DRAWN_BIG, d.args[1]);
    draw_block(&d, 3);
    draw_block(&d, 3);
    for (int k = 0; k < 4; k++) {
        lpv i = begin(p, idx(p, 0), idx(p, d.width[k]), FOR_VECTOR);
        lp_store(p, d.results[0], add(p, i, idx(p, 2000 + 200 * k)),
                 lp_load(p, d.locals[k], k == 3 ? idx(p, 0) : i));
        lp_for_end(p);
    }
    for (int k = 0; k < 2; k++) lp_store(p, d.results[1], idx(p, 3000 + k), lp_read(p, d.scalars[k]));
    for (int k = 0; k < 2; k++)
        lp_store(p, d.results[1], idx(p, 3002 + k),
                 lp_fold_lanes(p, d.lanes[k], k || dtype_is_float(t) ? FOLD_MAX : FOLD_SUM));
    return p;
}

static void test_random(uint64_t count)
{
    static const enum dtype types[] = { DT_F32, DT_I32, DT_I64, DT_F64, DT_U32 };
    for (uint64_t seed = 1; seed <= count; seed++) {
        enum dtype t = types[seed % HOP_COUNT(types)];
        char what[64];
        struct native native[HOP_COUNT(variants)];
        struct lp *p = draw_program(seed, t, dtype_is_float(t) || seed % 2);
        snprintf(what, sizeof what, "random program %llu of %s", (unsigned long long)seed,
                 dtype_info[t].name);
        if (compile_all(what, p, native)) {
            for (int64_t k = 0; k < 3; k++)
                run_all(what, p, native, (int64_t[8]){ k * 37 + (int64_t)(seed % 11), k }, 0);
            release_all(native);
        }
        lp_free(p);
    }
}
