/* Products by panels of rows. Steps that go over the same rows (products whose left operands have them, and
 * the nests around them, each of which reads at its own rows what the others make) come in as they were
 * scheduled; groups of them go out, whose steps stand together and are written as one parallel loop over
 * panels: what a product leaves is read while it is in the cache, and threads meet once. */
#include "loop/lower_impl.h"

enum {
    PANEL_STEP = 12,    /* rows of a panel: a multiple of this, which the kernels' tiles divide … */
    PANEL_FEW = 8,      /* … or so many, in loops where panels were few: threads then have about the same … */
    PANEL_MOST = 192,   /* … no more than this … */
    PANELS_WISHED = 64, /* … and so that there are no more panels than this, enough for threads */
    PANEL_UNKNOWN = 48, /* rows that are only known while running */
    FEWEST_PANELS = 8,
    MANY_PANELS = 32,      /* whatever a panel costs … */
    PANEL_WORK = 8000000,  /* … multiplications of one where there are fewer: a thread has no more than one */
    LOOPED_WORK = 2000000, /* in loops: multiplications of all, for which threads are woken at every step */
    GROUP_STEPS = 16,      /* more become one function, which LLVM takes more than linear time for */
    PASSED_STEPS = 32      /* that may stand between the steps of a group */
};

enum standing { STANDS_APART, STANDS_IN, STANDS_BEFORE, STANDS_BEHIND };

struct search {
    struct lower *L;
    uint32_t *made_by; /* per value: the step that makes it, HOP_NONE: none */
    uint8_t *standing; /* per step: enum standing with respect to the group that is tried */
    bool *overwritten; /* per parameter: a result may be put into its memory */
    bool any_overwritten;
    struct row_group g;
    vec(val) sources; /* of the step that is looked at */
};

/* ---- what a step reads ---- */

static void add_sources(struct search *s, val v)
{
    struct lower *L = s->L;
    uint32_t node = L->f->values[v].node;
    const struct node *n = node == NODE_NONE ? NULL : fn_node(L->f, node);
    if (!n || L->info[v].root || nest_is_block(L, n) || nest_is_step(L, v)) {
        vec_push(L->arena, &s->sources, v);
        return;
    }
    for (uint32_t k = 0; k < n->n_operands; k++) add_sources(s, node_operands(L->f, n)[k]);
}

static const struct node *step_node(struct search *s, struct lower_step step)
{
    struct lower *L = s->L;
    return fn_node(L->f, step.kind == STEP_BLOCK ? step.index : L->f->values[step.index].node);
}

static void find_sources(struct search *s, struct lower_step step)
{
    struct lower *L = s->L;
    s->sources.len = 0;
    if (step.kind == STEP_NEST) {
        const struct nest *nest = L->nest_list.data[step.index];
        for (uint32_t i = 0; i < nest->items.len; i++) {
            const struct item *item = &nest->items.data[i];
            for (uint32_t r = 0; r < item->reads.len; r++)
                vec_push(L->arena, &s->sources, item->reads.data[r].v);
        }
        return;
    }
    const struct node *n = step_node(s, step);
    for (uint32_t k = 0; k < n->n_operands; k++) add_sources(s, node_operands(L->f, n)[k]);
}

static enum standing standing_of(const struct search *s, val v)
{
    uint32_t step = s->made_by[v];
    return step == HOP_NONE ? STANDS_APART : (enum standing)s->standing[step];
}

static bool reads_any(struct search *s, enum standing standing)
{
    for (uint32_t i = 0; i < s->sources.len; i++)
        if (standing_of(s, s->sources.data[i]) == standing) return true;
    return false;
}

/* Has v other rows at every time than those that a panel has made or may still need? */
static bool only_by_rows(const struct search *s, val v)
{
    return standing_of(s, v) == STANDS_IN || (v < s->L->f->n_params && s->overwritten[v]);
}

static bool begins_with_rows(const struct search *s, val v)
{
    struct type t = type_get(s->L->S->m, value_type(s->L->f, v));
    return t.rank >= s->g.n_dims && !memcmp(t.dims, s->g.dims, s->g.n_dims * sizeof *t.dims);
}

/* ---- panels ---- */

static int64_t static_rows(struct lower *L, const struct row_group *g)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i < g->n_dims; i++) {
        if (!dim_is_const(L->S->m, g->dims[i])) return -1;
        if (__builtin_mul_overflow(rows, dim_const_value(L->S->m, g->dims[i]), &rows)) return -1;
    }
    return rows;
}

/* By the shape alone. */
static int64_t panel_rows(const struct lower *L, int64_t rows)
{
    if (rows < 0) return PANEL_UNKNOWN;
    if (L->S->loop_depth && rows < MANY_PANELS * PANEL_STEP) return PANEL_FEW;
    int64_t steps = (rows + PANELS_WISHED * PANEL_STEP - 1) / (PANELS_WISHED * PANEL_STEP);
    return HOP_MIN(HOP_MAX(steps, 1) * PANEL_STEP, PANEL_MOST);
}

/* How many panels there are at most, 0: that is not known. */
static uint32_t most_panels(const struct lower *L, int64_t rows)
{
    int64_t size = panel_rows(L, rows), n = rows < 0 ? 0 : (rows + size - 1) / size;
    return n > UINT32_MAX ? 0 : (uint32_t)n;
}

/* ---- which steps belong to a group ---- */

static bool is_product(struct search *s, struct lower_step step)
{
    return step.kind == STEP_BLOCK && product_is_gemm(s->L, fn_node(s->L->f, step.index));
}

/* Nothing but what it computes comes of it: it may stand elsewhere, as long as what it reads is there. */
static bool can_move(struct search *s, struct lower_step step)
{
    if (step.kind != STEP_BLOCK || is_product(s, step)) return true;
    const struct node *n = fn_node(s->L->f, step.index);
    return n->n_results == 1 && (s->L->info[n->results].run || product_adds_up(s->L, n));
}

static bool made_elsewhere(const struct search *s, val v)
{
    return s->any_overwritten && s->L->info[v].within != HOP_NONE;
}

static bool nest_belongs(struct search *s, const struct nest *nest)
{
    uint32_t panels = most_panels(s->L, static_rows(s->L, &s->g));
    if (!nest_has_rows(s->L, nest, &s->g)) return false;
    if (nest->n_down && (!panels || panels > PANELS_WISHED)) return false;
    for (uint32_t i = 0; i < nest->items.len; i++) {
        const struct item *item = &nest->items.data[i];
        if (made_elsewhere(s, item->v)) return false;
        for (uint32_t r = 0; r < item->reads.len; r++) {
            struct read read = item->reads.data[r];
            if (only_by_rows(s, read.v) && (read.same < s->g.n_dims || !begins_with_rows(s, read.v)))
                return false;
        }
    }
    return true;
}

static bool product_belongs(struct search *s, const struct node *n)
{
    struct lower *L = s->L;
    const val *o = node_operands(L->f, n);
    dim rows[MAX_RANK];
    uint32_t n_rows = product_row_dims(L, n, rows);
    if (n_rows != s->g.n_dims || memcmp(rows, s->g.dims, n_rows * sizeof *rows)) return false;
    if (made_elsewhere(s, n->results) || !product_by_rows(L, n)) return false;
    s->sources.len = 0;
    if (!product_reads_rows(L, n) || !only_by_rows(s, o[0])) add_sources(s, o[0]);
    add_sources(s, o[1]);
    for (uint32_t i = 0; i < s->sources.len; i++)
        if (only_by_rows(s, s->sources.data[i])) return false;
    return true;
}

static bool belongs(struct search *s, struct lower_step step)
{
    struct lower *L = s->L;
    find_sources(s, step);
    if (step.kind == STEP_SCALAR || reads_any(s, STANDS_BEHIND)) return false;
    if (step.kind == STEP_NEST) return nest_belongs(s, L->nest_list.data[step.index]);
    const struct node *n = fn_node(L->f, step.index);
    if (product_is_gemm(L, n)) return product_belongs(s, n);
    return product_adds_up(L, n) && begins_with_rows(s, n->results) && reads_any(s, STANDS_IN);
}

/* Tries a group from this step on; how many products it would have. What stands between its steps and cannot
 * belong to it goes in front of it, or behind it when it reads what the group makes. */
static uint32_t try_group(struct search *s, uint32_t first, uint32_t *end)
{
    struct lower *L = s->L;
    uint32_t products = 0, others = 0, passed = 0, last = first;
    memset(s->standing, STANDS_APART, L->steps.len);
    for (uint32_t i = first; i < L->steps.len && passed < PASSED_STEPS; i++) {
        struct lower_step step = L->steps.data[i];
        if (!can_move(s, step) || products + others == GROUP_STEPS) break;
        if (belongs(s, step)) {
            s->standing[i] = STANDS_IN;
            if (is_product(s, step)) products++;
            else others++;
            last = i;
            continue;
        }
        find_sources(s, step);
        bool behind = reads_any(s, STANDS_IN) || reads_any(s, STANDS_BEHIND);
        s->standing[i] = behind ? STANDS_BEHIND : STANDS_BEFORE;
        passed++;
    }
    *end = last + 1;
    return products && products + others > 1 ? products : 0;
}

/* ---- whether it pays ---- */

static bool pays(struct search *s, uint32_t first, uint32_t end)
{
    struct lower *L = s->L;
    int64_t rows = static_rows(L, &s->g), panel = panel_rows(L, rows);
    double panels = rows < 0 ? MANY_PANELS : (double)rows / (double)panel, work = 0;
    for (uint32_t i = first; i < end; i++)
        if (s->standing[i] == STANDS_IN && is_product(s, L->steps.data[i]))
            work += product_work(L, fn_node(L->f, L->steps.data[i].index));
    if (L->S->loop_depth && (rows < 0 || work < LOOPED_WORK)) return false;
    return panels >= MANY_PANELS || (panels >= FEWEST_PANELS && work / panels <= PANEL_WORK);
}

/* ---- finding all groups ---- */

static void note_makers(struct search *s)
{
    struct lower *L = s->L;
    for (uint32_t v = 0; v < L->f->n_values; v++) s->made_by[v] = HOP_NONE;
    for (uint32_t i = 0; i < L->steps.len; i++) {
        struct lower_step step = L->steps.data[i];
        if (step.kind == STEP_NEST) {
            const struct nest *nest = L->nest_list.data[step.index];
            for (uint32_t k = 0; k < nest->items.len; k++) s->made_by[nest->items.data[k].v] = i;
            continue;
        }
        const struct node *n = step_node(s, step);
        for (uint32_t k = 0; k < n->n_results; k++) s->made_by[n->results + k] = i;
    }
}

/* Brings the steps of the group that was tried last together. */
static void gather(struct search *s, uint32_t first, uint32_t end)
{
    struct lower *L = s->L;
    static const uint8_t order[] = { STANDS_BEFORE, STANDS_IN, STANDS_BEHIND };
    struct lower_step *steps = ARENA_NEW(L->arena, struct lower_step, end - first);
    uint32_t n = 0;
    for (uint32_t k = 0; k < HOP_COUNT(order); k++) {
        if (order[k] == STANDS_IN) s->g.first = first + n;
        for (uint32_t i = first; i < end; i++)
            if (s->standing[i] == order[k]) steps[n++] = L->steps.data[i];
        if (order[k] == STANDS_IN) s->g.n = first + n - s->g.first;
    }
    memcpy(L->steps.data + first, steps, n * sizeof *steps);
    vec_push(L->arena, &L->groups, s->g);
    note_makers(s);
}

/* The steps that read each value, from the first to the last. */
static void note_readers(struct search *s)
{
    struct lower *L = s->L;
    L->readers = ARENA_NEW(L->arena, struct span, L->f->n_values);
    for (uint32_t v = 0; v < L->f->n_values; v++) L->readers[v] = (struct span){ UINT32_MAX, 0 };
    for (uint32_t i = 0; i < L->steps.len; i++) {
        find_sources(s, L->steps.data[i]);
        for (uint32_t k = 0; k < s->sources.len; k++) {
            struct span *x = &L->readers[s->sources.data[k]];
            *x = (struct span){ HOP_MIN(x->first, i), HOP_MAX(x->last, i) };
        }
    }
}

/* The first of the nests in front of a product that go over its rows. */
static uint32_t begin_of(struct search *s, uint32_t product, uint32_t least)
{
    uint32_t first = product;
    while (first > least) {
        struct lower_step before = s->L->steps.data[first - 1];
        if (before.kind != STEP_NEST || !nest_has_rows(s->L, s->L->nest_list.data[before.index], &s->g))
            break;
        first--;
    }
    return first;
}

static bool may_thread(const struct lower *L)
{
    bool threads = choice_on(L->S->passes, CHOICE_parallel) && L->S->p->regime.threads != 1;
    return threads && !L->S->regions && !(L->S->loop_depth && L->S->large);
}

void panels_find(struct lower *L)
{
    const struct fn *f = L->f;
    if (!choice_on(L->S->passes, CHOICE_panels) || !may_thread(L)) return;
    struct search s = { .L = L };
    s.made_by = ARENA_NEW(L->arena, uint32_t, f->n_values);
    s.standing = ARENA_ZNEW(L->arena, uint8_t, L->steps.len);
    s.overwritten = ARENA_ZNEW(L->arena, bool, f->n_params);
    for (uint32_t r = 0; r < f->n_results; r++) {
        uint32_t param = L->sinks[r].overwrites;
        if (L->sinks[r].unused || L->sinks[r].scalar || param == HOP_NONE) continue;
        s.overwritten[param] = s.any_overwritten = true;
    }
    note_makers(&s);
    uint32_t least = 0, end;
    for (uint32_t i = 0; i < L->steps.len; i++) {
        if (!is_product(&s, L->steps.data[i])) continue;
        s.g = (struct row_group){ 0 };
        s.g.n_dims = product_row_dims(L, fn_node(f, L->steps.data[i].index), s.g.dims);
        if (!s.g.n_dims || !product_by_rows(L, fn_node(f, L->steps.data[i].index))) continue;
        uint32_t first = begin_of(&s, i, least);
        if (!try_group(&s, first, &end) || !pays(&s, first, end)) continue;
        gather(&s, first, end);
        least = s.g.first + s.g.n;
        i = least - 1;
    }
    if (L->groups.len) note_readers(&s);
}

/* ---- writing a group ---- */

const struct row_group *panels_at(struct lower *L, uint32_t step)
{
    for (uint32_t i = 0; i < L->groups.len; i++)
        if (L->groups.data[i].first == step) return &L->groups.data[i];
    return NULL;
}

/* What only the steps of a group read lives as long as a panel: each thread has rows for one. */
struct scratch {
    struct lower *L;
    const struct row_group *g;
    int64_t rows;
    vec(val) values;
};

static bool lives_in_panel(const struct scratch *s, val v)
{
    struct lower *L = s->L;
    const struct row_group *g = s->g;
    const struct value_info *info = &L->info[v];
    struct type t = type_get(L->S->m, value_type(L->f, v));
    struct span readers = L->readers[v];
    bool inside = readers.first >= g->first && readers.last < g->first + g->n &&
                  readers.first <= readers.last;
    if (!inside || nest_is_result(L, v) || L->slots[v].kind != SLOT_INLINE) return false;
    bool elsewhere = info->within != HOP_NONE || info->takes != HOP_NONE || info->given != HOP_NONE;
    if (elsewhere || info->sum != VAL_NONE || info->run || info->assembled) return false;
    if (t.rank < g->n_dims || memcmp(t.dims, g->dims, g->n_dims * sizeof *t.dims)) return false;
    for (uint32_t i = g->n_dims; i < t.rank; i++)
        if (lower_entry_dim(L, t.dims[i]) == HOP_NONE) return false;
    return true;
}

static lpv row_elements(struct lower *L, const struct row_group *g, val v)
{
    struct type t = type_get(L->S->m, value_type(L->f, v));
    lpv n = lp_index(L->S->p, 1);
    for (uint32_t i = g->n_dims; i < t.rank; i++) n = lp_bin(L->S->p, LP_MUL, n, lower_dim(L, t.dims[i]));
    return n;
}

static void give_scratch(struct scratch *s, val v)
{
    struct lower *L = s->L;
    struct module *m = L->S->m;
    if (!lives_in_panel(s, v)) return;
    struct type t = type_get(m, value_type(L->f, v));
    dim dims[MAX_RANK + 1] = { dim_const(m, s->rows) };
    uint32_t rank = 1;
    for (uint32_t i = s->g->n_dims; i < t.rank; i++) dims[rank++] = t.dims[i];
    struct array a = lower_alloc(L, type_intern(m, (enum dtype)t.dtype, rank, dims), "rows of a panel");
    L->S->p->buffers.data[a.buffer].private = true;
    L->slots[v] = (struct slot){ .kind = SLOT_ARRAY, .array = a };
    vec_push(L->arena, &s->values, v);
}

static void give_scratch_for(struct scratch *s, struct lower_step step)
{
    struct lower *L = s->L;
    if (step.kind == STEP_NEST) {
        const struct nest *nest = L->nest_list.data[step.index];
        for (uint32_t i = 0; i < nest->items.len; i++) {
            const struct item *item = &nest->items.data[i];
            bool stored = item->memory || item->row_temp;
            if (stored && !item->targets.len && item->class != ITEM_DOWN) give_scratch(s, item->v);
        }
    } else if (product_is_gemm(L, fn_node(L->f, step.index)))
        give_scratch(s, fn_node(L->f, step.index)->results);
}

/* Positions in a scratch count from the panel's first row. */
static void begin_panel(struct scratch *s, lpv lo)
{
    struct lower *L = s->L;
    struct lp *p = L->S->p;
    for (uint32_t i = 0; i < s->values.len; i++) {
        lpv before = lp_bin(p, LP_MUL, lo, row_elements(L, s->g, s->values.data[i]));
        L->slots[s->values.data[i]].array.at = lp_bin(p, LP_SUB, lp_index(p, 0), before);
    }
}

static bool is_scratch(const struct scratch *s, uint32_t buffer)
{
    for (uint32_t i = 0; i < s->values.len; i++)
        if (s->L->slots[s->values.data[i]].array.buffer == buffer) return true;
    return false;
}

static struct lp_call rows_of_product(const struct scratch *s, struct lp_call call, lpv lo, lpv rows)
{
    struct lp *p = s->L->S->p;
    lpv a_row = call.gemm.ta ? lp_index(p, 1) : call.gemm.lda;
    if (!is_scratch(s, call.gemm.a))
        call.gemm.a_at = lp_bin(p, LP_ADD, call.gemm.a_at, lp_bin(p, LP_MUL, lo, a_row));
    if (!is_scratch(s, call.gemm.c))
        call.gemm.c_at = lp_bin(p, LP_ADD, call.gemm.c_at, lp_bin(p, LP_MUL, lo, call.gemm.ldc));
    call.gemm.m = rows;
    return call;
}

static const char *group_note(struct lower *L, const struct row_group *g)
{
    struct text t = { .arena = &L->S->program->arena };
    uint32_t products = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        struct lower_step step = L->steps.data[g->first + i];
        products += step.kind == STEP_BLOCK && product_is_gemm(L, fn_node(L->f, step.index));
    }
    text_add(&t, "panels of rows: %u product%s", products, products == 1 ? "" : "s");
    for (uint32_t i = 0; i < g->n; i++) {
        struct lower_step step = L->steps.data[g->first + i];
        if (step.kind != STEP_NEST) continue;
        const struct nest *nest = L->nest_list.data[step.index];
        for (uint32_t k = 0; k < nest->items.len; k++)
            text_add(&t, ", %s", node_row(fn_node(L->f, nest->items.data[k].node))->name);
    }
    return t.data;
}

void panels_emit(struct lower *L, const struct row_group *g)
{
    struct lp *p = L->S->p;
    struct lp_call *calls = ARENA_ZNEW(L->arena, struct lp_call, g->n);
    const char *note = group_note(L, g);
    struct mark_around around = mark_group(L, g, note);
    int64_t known = static_rows(L, g), size = panel_rows(L, known);
    uint32_t most = most_panels(L, known);
    struct scratch scratch = { .L = L, .g = g, .rows = size };
    for (uint32_t i = 0; i < g->n; i++) give_scratch_for(&scratch, L->steps.data[g->first + i]);
    for (uint32_t i = 0; i < g->n; i++) { /* memory, and operands in the order that products read */
        struct lower_step step = L->steps.data[g->first + i];
        L->step = g->first + i;
        if (step.kind == STEP_NEST) nest_prepare_rows(L, L->nest_list.data[step.index], most);
        else if (product_is_gemm(L, fn_node(L->f, step.index))) {
            const struct node *n = fn_node(L->f, step.index);
            calls[i] = product_call(L, n);
            if (product_wants_panels(L, n)) product_put_in_panels(L, &calls[i]);
        }
    }
    lpv rows = lp_index(p, 1), one = lp_index(p, 1), panel = lp_index(p, size);
    for (uint32_t i = 0; i < g->n_dims; i++) rows = lp_bin(p, LP_MUL, rows, lower_dim(L, g->dims[i]));
    lpv panels = lp_bin(p, LP_FLOORDIV, lp_bin(p, LP_ADD, rows, lp_index(p, size - 1)), panel);
    lpv number = lp_for_begin(p, lp_index(p, 0), panels, one, FOR_PARALLEL);
    lpv lo = lp_bin(p, LP_MUL, number, panel), hi = lp_bin(p, LP_ADD, lo, panel);
    if (known < 0 || known % size) hi = lp_bin(p, LP_MIN, hi, rows);
    begin_panel(&scratch, lo);
    for (uint32_t i = 0; i < g->n; i++) {
        struct lower_step step = L->steps.data[g->first + i];
        if (step.kind == STEP_NEST) nest_emit_rows(L, L->nest_list.data[step.index], g, number, lo, hi);
        else if (calls[i].kind == CALL_GEMM && product_is_gemm(L, fn_node(L->f, step.index)))
            lp_add_call(p, rows_of_product(&scratch, calls[i], lo, lp_bin(p, LP_SUB, hi, lo)));
    }
    lp_for_end(p)->note = note;
    for (uint32_t i = 0; i < g->n; i++) {
        struct lower_step step = L->steps.data[g->first + i];
        if (step.kind == STEP_NEST) nest_join_rows(L, L->nest_list.data[step.index], panels);
    }
    mark_end(L, around);
}
