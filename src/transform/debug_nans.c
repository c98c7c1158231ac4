/* debug_nans: behind every operator that computes floats stands a check_finite, which ends the run where the
 * operator made a NaN or an infinity. Bodies get the trips of the loops around them as further parameters: a
 * scan or map goes over its indices besides, a while_loop carries a count, a counted loop has its index. What
 * only moves elements makes nothing and is left alone; operators that are checked already are, too. */
#include "ir/finite.h"
#include "ir/loop.h"
#include "ops/build.h"
#include "transform/localize.h"
#include "transform/transform.h"

#include "loop/lower.h"

static const uint64_t MEMO_WATCH = 0x6e616e73, MEMO_HOLDS = 0x6e616e74, MEMO_WITHIN = 0x6e616e75;

/* ---- what is looked at ---- */

static bool is_float(const struct module *m, const struct fn *f, val v)
{
    return dtype_is_float((enum dtype)type_get(m, value_type(f, v)).dtype);
}

/* Elements of the results are elements of its operands, or nothing is computed from. */
static bool only_moves(const struct node *n)
{
    const struct op_row *row = node_row(n);
    bool moves = row->lower && row->lower->kind == LOWER_POINTWISE && row->lower->access != ACCESS_SAME;
    return !n->n_operands || moves || row->moves || row->chooses || row->flags & OPF_ALIAS;
}

static bool is_check(const struct node *n) { return n->op == OP_check_finite; }

static val checked_value(const struct fn *f, const struct node *n)
{
    bool masked = node_attr(f, n, CHECK_FINITE_MASKED)->kind != ATTR_ABSENT;
    return node_operands(f, n)[masked];
}

static bool *find_checked(struct arena *a, const struct fn *f)
{
    bool *checked = ARENA_ZNEW(a, bool, f->n_values);
    for (uint32_t i = 0; i < f->n_nodes; i++)
        if (is_check(fn_node(f, i))) checked[checked_value(f, fn_node(f, i))] = true;
    return checked;
}

/* Does it, or a body in it, have an operator that is not checked yet? */
static bool has_unchecked(struct module *m, uint32_t fn)
{
    const uint64_t key[4] = { MEMO_HOLDS, fn, 0, 0 };
    const struct fn *f = module_fn(m, fn);
    union memo_value known;
    if (memo_get(m, key, &known)) return known.number;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    const bool *checked = find_checked(&arena, f);
    bool found = false;
    for (uint32_t i = 0; i < f->n_nodes && !found; i++) {
        const struct node *n = fn_node(f, i);
        for (uint32_t r = 0; r < n->n_regions; r++) found |= has_unchecked(m, node_region(f, n, r)->fn);
        for (uint32_t k = 0; k < n->n_results && !n->n_regions && !only_moves(n); k++)
            found |= is_float(m, f, n->results + k) && !checked[n->results + k];
    }
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    memo_put(m, key, (union memo_value){ .number = found });
    return found;
}

/* ---- one function ---- */

/* How a body is made anew. */
struct body_of {
    const char *loops; /* around it, a line each */
    uint32_t n_outer;  /* trips of the loops around the loop, which come last among the parameters */
    uint32_t insert;   /* where its own trip stands among the parameters, HOP_NONE: it has none … */
    uint32_t index;    /* … or has it already, as this one */
    bool steps;        /* it gives the next trip back, behind `insert` carries */
    bool entry;
    bool infinities;
};

struct watching {
    struct module *m;
    struct builder b;
    struct copier copy;
    const struct fn *f;
    struct body_of of;
    val *trips;
    uint32_t n_trips;
    const bool *checked;
};

static uint32_t watch_body(struct module *m, uint32_t fn, struct body_of of);

static uint32_t text_id(struct module *m, const char *text) { return module_string(m, text, strlen(text)); }

static const char *name_of(const struct watching *w, const struct node *n)
{
    const struct op_row *row = node_row(n);
    if (!row->operator_attr) return row->name;
    return module_text(w->m, (uint32_t)node_attr(w->f, n, row->operator_attr - 1u)->i);
}

/* What an operand repeats or turns: that has the same elements. Element by element only a number may stand
 * for an array of it. */
static val source_of(const struct watching *w, val v, bool each)
{
    const struct fn *f = w->f;
    while (f->values[v].node != NODE_NONE) {
        const struct node *n = fn_node(f, f->values[v].node);
        if (!node_repeats(n) && !node_transposes(n)) return v;
        val before = node_operands(f, n)[0];
        if (each && type_get(w->m, value_type(f, before)).rank) return v;
        v = before;
    }
    return v;
}

static void emit_check(struct watching *w, struct place place, struct attr *attrs, const val *values,
                       uint32_t n)
{
    val *operands = ARENA_NEW(&w->b.arena, val, n + w->n_trips);
    memcpy(operands, values, n * sizeof *operands);
    if (w->n_trips) memcpy(operands + n, w->trips, w->n_trips * sizeof *operands);
    if (w->n_trips) attrs[CHECK_FINITE_TRIPS] = A_INT(w->n_trips);
    if (w->n_trips) attrs[CHECK_FINITE_LOOPS] = A_STRING(text_id(w->m, w->of.loops));
    builder_node(&w->b, &(struct node_in){ .op = OP_check_finite,
                                           .operands = operands,
                                           .n_operands = n + w->n_trips,
                                           .attrs = attrs,
                                           .place = place });
}

static void check_result(struct watching *w, const struct node *n, uint32_t k)
{
    const struct fn *f = w->f;
    bool each = node_row(n)->flags & OPF_ELEMENTWISE;
    val *values = ARENA_NEW(&w->b.arena, val, n->n_operands + 1);
    uint32_t count = 0;
    values[count++] = w->copy.values[n->results + k];
    for (uint32_t i = 0; i < n->n_operands; i++) {
        val x = node_operands(f, n)[i];
        if (is_float(w->m, f, x)) values[count++] = w->copy.values[source_of(w, x, each)];
    }
    uint32_t rank = type_get(w->m, value_type(f, n->results + k)).rank, lanes = n->place.lanes;
    struct attr attrs[CHECK_FINITE_ATTRS] = { A_NONE };
    attrs[CHECK_FINITE_OPERATOR] = A_STRING(text_id(w->m, name_of(w, n)));
    if (n->place.part) attrs[CHECK_FINITE_PART] = A_WORD(n->place.part - 1);
    if (lanes && lanes <= rank) attrs[CHECK_FINITE_LANES] = A_INT(lanes);
    attrs[CHECK_FINITE_EACH] = A_FLAG(each);
    attrs[CHECK_FINITE_INFINITIES] = A_FLAG(w->of.infinities);
    emit_check(w, n->place, attrs, values, count);
}

static void check_argument(struct watching *w, uint32_t p)
{
    struct attr attrs[CHECK_FINITE_ATTRS] = { A_NONE };
    attrs[CHECK_FINITE_OPERATOR] = A_STRING(text_id(w->m, fn_param_name(w->m, w->f, p)));
    attrs[CHECK_FINITE_PART] = A_WORD(FINITE_ARGUMENT - 1);
    emit_check(w, w->f->place, attrs, &w->copy.values[p], 1);
}

/* ---- bodies ---- */

static const val *with_trips(struct watching *w, const val *list, uint32_t n)
{
    val *longer = ARENA_NEW(&w->b.arena, val, n + w->n_trips);
    if (n) memcpy(longer, list, n * sizeof *longer);
    if (w->n_trips) memcpy(longer + n, w->trips, w->n_trips * sizeof *longer);
    return longer;
}

static const val *with_one(struct watching *w, const val *list, uint32_t n, val more)
{
    val *longer = ARENA_NEW(&w->b.arena, val, n + 1);
    if (n) memcpy(longer, list, n * sizeof *longer);
    longer[n] = more;
    return longer;
}

static const char *loops_inside(struct watching *w, const struct node *n)
{
    const char *place = place_text(w->m, n->place), *outer = w->of.loops;
    int length = (int)strlen(place) - 2; /* without ": " */
    return arena_printf(&w->m->arena, "%s%s%s%s%.*s", outer, *outer ? "\n" : "", node_row(n)->name,
                        length > 0 ? " at " : "", HOP_MAX(length, 0), place);
}

static void watch_loop(struct watching *w, const struct node *n, struct loop *l)
{
    struct body_of of = { .loops = loops_inside(w, n),
                          .n_outer = w->n_trips,
                          .insert = HOP_NONE,
                          .index = HOP_NONE,
                          .infinities = w->of.infinities };
    struct loop before = *l;
    bool counted = l->kind == LOOP_COUNTED, carries = l->kind == LOOP_WHILE;
    if (counted) of.index = l->n_carry;
    else of.insert = carries ? l->n_carry : l->n_carry + l->n_over;
    of.steps = carries;
    if (carries) {
        dim none;
        struct attr zero[3] = { A_INT(0), A_DIMS(&none, 0), A_DTYPE(DT_I64) };
        l->carry = with_one(w, l->carry, l->n_carry, emit(&w->b, OP_full, NULL, 0, zero));
        l->n_carry++;
        struct body_of cond = of;
        cond.steps = false;
        l->cond = module_fn(w->m, watch_body(w->m, l->cond->id, cond));
        l->cond_with = with_trips(w, l->cond_with, l->n_cond_with);
        l->n_cond_with += w->n_trips;
    } else if (!counted) {
        struct attr indices[3] = { A_DIMS(&l->length, 1), A_INT(0), A_DTYPE(DT_I64) };
        l->over = with_one(w, l->over, l->n_over, emit(&w->b, OP_iota, NULL, 0, indices));
        l->n_over++;
    }
    l->body = module_fn(w->m, watch_body(w->m, l->body->id, of));
    l->with = with_trips(w, l->with, l->n_with);
    l->n_with += w->n_trips;
    struct loop_results made = loop_build(&w->b, l);
    val *results = ARENA_NEW(&w->b.arena, val, n->n_results);
    for (uint32_t k = 0; k < before.n_carry; k++) results[k] = made.last + k;
    if (before.counts) results[loop_trips_result(&before)] = made.trips;
    for (uint32_t k = 0; k < before.n_stack; k++) results[loop_stack_result(&before, k)] = made.stacks + k;
    copier_bind(&w->copy, n, results);
}

/* Functions of the user's have rules for exactly these operands; what is computed once, or for totals, has no
 * trip. */
static bool takes_trips(const struct watching *w, const struct node *n)
{
    const struct op_row *row = node_row(n);
    for (uint32_t k = 0; k < row->sig.n_attrs; k++)
        if (node_attr(w->f, n, k)->kind == ATTR_FN) return false;
    return row->control != CONTROL_TOTALS && !(row->once && row->once(w->m, w->f, n) != ONCE_NO);
}

static void watch_higher(struct watching *w, const struct node *n)
{
    bool any = false, trips = takes_trips(w, n);
    struct loop l;
    for (uint32_t r = 0; r < n->n_regions; r++) any |= has_unchecked(w->m, node_region(w->f, n, r)->fn);
    if (!any) {
        copier_node(&w->copy, n);
        return;
    }
    struct place outer = w->b.place;
    w->b.place = n->place;
    if (loop_of_copy(&w->copy, n, &l)) watch_loop(w, n, &l);
    else {
        struct node_in in = copier_node_in(&w->copy, n);
        struct region_in *regions = arena_copy(&w->b.arena, in.regions, n->n_regions * sizeof *regions);
        for (uint32_t r = 0; r < n->n_regions; r++) {
            struct body_of of = { .loops = trips ? w->of.loops : "",
                                  .n_outer = trips ? w->n_trips : 0,
                                  .insert = HOP_NONE,
                                  .index = HOP_NONE,
                                  .infinities = w->of.infinities };
            regions[r].fn = watch_body(w->m, regions[r].fn, of);
            if (!trips) continue;
            regions[r].operands = with_trips(w, regions[r].operands, regions[r].n_operands);
            regions[r].n_operands += w->n_trips;
        }
        in.regions = regions;
        val first = builder_node(&w->b, &in), *results = ARENA_NEW(&w->b.arena, val, n->n_results);
        for (uint32_t k = 0; k < n->n_results; k++) results[k] = first + k;
        copier_bind(&w->copy, n, results);
    }
    w->b.place = outer;
}

/* ---- building ---- */

static void make_params(struct watching *w)
{
    const struct fn *f = w->f;
    type_id number = type_scalar(w->m, DT_I64);
    uint32_t name = text_id(w->m, "trip");
    val own = VAL_NONE;
    w->trips = ARENA_NEW(&w->b.arena, val, w->of.n_outer + 1);
    for (uint32_t p = 0; p <= f->n_params; p++) {
        if (p == w->of.insert) own = builder_param(&w->b, number, name);
        if (p == f->n_params) break;
        w->copy.values[p] = builder_param(&w->b, copier_type(&w->copy, value_type(f, p)), f->values[p].name);
        if (p == w->of.index) own = w->copy.values[p];
    }
    while (w->n_trips < w->of.n_outer) w->trips[w->n_trips++] = builder_param(&w->b, number, name);
    if (own != VAL_NONE) w->trips[w->n_trips++] = own;
    for (uint32_t i = 0; i < f->n_required; i++)
        builder_require(&w->b, copier_dim(&w->copy, f->required[i].a), copier_dim(&w->copy, f->required[i].b),
                        "requirement");
}

static uint32_t finish(struct watching *w)
{
    const struct fn *f = w->f;
    val *results = ARENA_NEW(&w->b.arena, val, f->n_results + 1);
    uint32_t n = 0;
    for (uint32_t k = 0; k <= f->n_results; k++) {
        if (w->of.steps && k == w->of.insert) {
            dim none;
            struct attr one[3] = { A_INT(1), A_DIMS(&none, 0), A_DTYPE(DT_I64) };
            val more = emit(&w->b, OP_full, NULL, 0, one);
            results[n++] = emit2(&w->b, OP_add, w->trips[w->n_trips - 1], more);
        }
        if (k < f->n_results) results[n++] = w->copy.values[f->results[k]];
    }
    return builder_finish(&w->b, results, n);
}

static uint32_t build(struct module *m, const struct fn *f, struct body_of of)
{
    struct watching w = { .m = m, .f = f, .of = of };
    builder_begin(&w.b, m, f);
    w.b.fn_place = f->place;
    copier_begin(&w.copy, &w.b, f);
    w.checked = find_checked(&w.b.arena, f);
    make_params(&w);
    for (uint32_t p = 0; of.entry && p < f->n_params; p++)
        if (is_float(m, f, p) && !w.checked[p]) check_argument(&w, p);
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (n->n_regions && !node_row(n)->stands_for) {
            watch_higher(&w, n);
            continue;
        }
        copier_node(&w.copy, n);
        for (uint32_t k = 0; k < n->n_results && !only_moves(n); k++)
            if (is_float(m, f, n->results + k) && !w.checked[n->results + k]) check_result(&w, n, k);
    }
    return finish(&w);
}

static uint32_t watch_body(struct module *m, uint32_t fn, struct body_of of)
{
    const uint64_t key[4] = { MEMO_WATCH, (uint64_t)fn << 32 | text_id(m, of.loops),
                              (uint64_t)of.insert << 32 | of.index,
                              (uint64_t)of.n_outer << 3 | of.steps << 2 | of.entry << 1 | of.infinities };
    union memo_value known;
    if (memo_get(m, key, &known)) return known.fn;
    hop_check_stack();
    uint32_t made = build(m, module_fn(m, fn), of);
    memo_put(m, key, (union memo_value){ .fn = made });
    return made;
}

uint32_t debug_nans_function(struct module *m, uint32_t fn, bool infinities, bool arguments)
{
    const struct fn *f = module_fn(m, fn);
    if (f->global) return global_debug_nans(m, fn, infinities, arguments);
    struct body_of of = {
        .loops = "", .insert = HOP_NONE, .index = HOP_NONE, .entry = arguments, .infinities = infinities
    };
    uint32_t made = watch_body(m, prune_function(m, fn, NULL), of);
    if (!fn_has_updates(f)) return made;
    struct arena arena = { 0 };
    hop_cleanup_push(arena_free, &arena);
    made = module_with_updates(m, made, fn_updates(&arena, f));
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    return made;
}

enum { WITHIN = 1, WITHIN_INFINITIES = 2 };

static int64_t found_within(struct module *m, uint32_t fn)
{
    const uint64_t key[4] = { MEMO_WITHIN, fn, 0, 0 };
    const struct fn *f = module_fn(m, fn);
    union memo_value known;
    if (!(f->effects & EFFECT_CHECK)) return 0;
    if (memo_get(m, key, &known)) return known.number;
    int64_t found = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *n = fn_node(f, i);
        if (is_check(n)) found |= WITHIN;
        if (is_check(n) && node_attr(f, n, CHECK_FINITE_INFINITIES)->kind != ATTR_ABSENT)
            found |= WITHIN_INFINITIES;
        for (uint32_t r = 0; r < n->n_regions; r++) found |= found_within(m, node_region(f, n, r)->fn);
    }
    memo_put(m, key, (union memo_value){ .number = found });
    return found;
}

bool debug_nans_within(struct module *m, uint32_t fn, bool *infinities)
{
    int64_t found = found_within(m, fn);
    *infinities = found & WITHIN_INFINITIES;
    return found & WITHIN;
}
