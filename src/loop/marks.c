/* Marks of profiled programs: which part of a program runs. Lowering opens a mark around each nest, product,
 * loop, call, branch and operator that it writes; what comes out is a loop program whose code says where it
 * is, and the list of its marks with their places and how much they move and do. Marks around little work are
 * taken out again, so that saying it costs next to nothing. */
#include "ir/loop.h"
#include "loop/lower_impl.h"
#include "loop/lp_walk.h"

enum {
    MOST_NAMES = 8,    /* of operators in a label */
    MOST_PLACES = 16,  /* of a mark */
    MOST_LOOKED = 256, /* nodes of a nest that are looked at */
    KEPT_WORK = 32,    /* operations that are worth a mark … */
    LOOPED_WORK = 128, /* … and in loops and procedures */
    VECTOR_LANES = 8,
    UNKNOWN_TRIPS = 16,
    CALL_WORK = 400, /* of whatever leaves the program */
    MOST_WORK = 1 << 30
};

static struct lp_mark *mark_at(struct lower *L, uint32_t k) { return &L->S->program->marks.data[k]; }

/* ---- what a mark says ---- */

/* The nodes whose operators a step computes: of a nest also what is expanded in its items. */
struct contents {
    struct lower *L;
    struct arena *arena;
    uint8_t *seen; /* per node */
    uint32_t looked;
};

static void look_at(struct contents *c, uint32_t node)
{
    struct lower *L = c->L;
    if (c->seen[node] || c->looked++ > MOST_LOOKED) return;
    c->seen[node] = 1;
    const struct node *n = fn_node(L->f, node);
    for (uint32_t i = 0; i < n->n_operands; i++) {
        val v = node_operands(L->f, n)[i];
        uint32_t made = L->f->values[v].node;
        bool expanded = made != NODE_NONE && L->slots[v].kind == SLOT_INLINE && !L->info[v].root;
        if (expanded && !nest_is_block(L, fn_node(L->f, made)) && !nest_is_step(L, v)) look_at(c, made);
    }
}

/* Does the node compute, instead of moving elements or giving constants? */
static bool computes(const struct node *n)
{
    const struct op_lower *lower = node_row(n)->lower;
    if (!lower || !n->n_operands) return false;
    return lower->kind != LOWER_POINTWISE || lower->access == ACCESS_SAME || lower->access == ACCESS_GATHER;
}

static bool name_listed(const char *const *names, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

static const char *operators_text(struct contents *c)
{
    const struct fn *f = c->L->f;
    const char *names[MOST_NAMES];
    uint32_t n = 0, more = 0, computing = 0;
    for (uint32_t i = 0; i < f->n_nodes; i++) computing += c->seen[i] && computes(fn_node(f, i));
    for (uint32_t i = 0; i < f->n_nodes; i++) {
        const struct node *node = fn_node(f, i);
        if (!c->seen[i] || (computing && !computes(node))) continue;
        const char *name = node_row(node)->name;
        if (name_listed(names, n, name)) continue;
        if (n < MOST_NAMES) names[n++] = name;
        else more++;
    }
    struct text t = { .arena = c->arena };
    for (uint32_t i = 0; i < n; i++) text_add(&t, "%s%s", i ? ", " : "", names[i]);
    if (more) text_str(&t, ", …");
    return t.data ? t.data : "";
}

static void add_place(struct arena *a, struct lp_mark *mark, struct place p)
{
    if (!p.line || mark->n_places == MOST_PLACES) return;
    for (uint32_t i = 0; i < mark->n_places; i++)
        if (mark->places[i].line == p.line && mark->places[i].file == p.file) return;
    if (!mark->places) mark->places = ARENA_NEW(a, struct place, MOST_PLACES);
    mark->places[mark->n_places++] = p;
}

/* Elements of a value over the entry's symbols; HOP_NONE: only known while running. */
static dim elements_of(struct lower *L, val v)
{
    return lower_entry_dim(L, type_elements(L->S->m, value_type(L->f, v)));
}

/* False: how many elements there are is only known while running. */
static bool add_bytes(struct lower *L, struct lp_amount *bytes, val v, dim most)
{
    dim count = elements_of(L, v);
    if (count == HOP_NONE || most == HOP_NONE) return false;
    enum dtype dtype = dtype_stored((enum dtype)type_get(L->S->m, value_type(L->f, v)).dtype);
    bytes->terms[bytes->n++] = (struct lp_term){ .factor = dtype_info[dtype].size,
                                                 .n = 1,
                                                 .dims = { dim_min(L->S->m, count, most) } };
    return true;
}

static bool is_read_before(const struct nest *nest, uint32_t item, uint32_t read)
{
    val v = nest->items.data[item].reads.data[read].v;
    for (uint32_t i = 0; i <= item; i++)
        for (uint32_t r = 0; r < (i < item ? nest->items.data[i].reads.len : read); r++)
            if (nest->items.data[i].reads.data[r].v == v) return true;
    return false;
}

/* What a nest reads and writes, each array once; of one that is read at computed places no more than is
 * written. */
static struct lp_amount nest_bytes(struct lower *L, const struct nest *nest)
{
    struct lp_amount bytes = { 0 };
    struct arena *a = &L->S->program->arena;
    uint32_t most = nest->items.len;
    for (uint32_t i = 0; i < nest->items.len; i++) most += nest->items.data[i].reads.len;
    if (most > MOST_LOOKED) return bytes;
    bytes.terms = ARENA_NEW(a, struct lp_term, most);
    for (uint32_t i = 0; i < nest->items.len; i++) {
        const struct item *item = &nest->items.data[i];
        bool stored = item->memory || item->targets.len;
        dim own = elements_of(L, item->v);
        if (stored && !add_bytes(L, &bytes, item->v, own)) return (struct lp_amount){ 0 };
        for (uint32_t r = 0; r < item->reads.len; r++) {
            struct read read = item->reads.data[r];
            bool here = L->info[read.v].root && L->info[read.v].nest != HOP_NONE &&
                        L->nest_list.data[L->info[read.v].nest] == nest;
            if (here || is_read_before(nest, i, r)) continue;
            bool gathered = read.relation == REL_OTHER && item->class == ITEM_POINT;
            if (!add_bytes(L, &bytes, read.v, gathered ? own : elements_of(L, read.v)))
                return (struct lp_amount){ 0 };
        }
    }
    return bytes;
}

static bool multiply_dims(struct lower *L, struct lp_term *t, val v, const uint32_t *dims, uint32_t n)
{
    struct module *m = L->S->m;
    dim all = 1;
    for (uint32_t i = 0; i < n; i++) {
        dim d = lower_entry_dim(L, type_get(m, value_type(L->f, v)).dims[dims[i]]);
        if (d == HOP_NONE) return false;
        all = dim_mul(m, all, d);
    }
    t->dims[t->n++] = all;
    return true;
}

/* Multiplications and additions of a product. */
static struct lp_amount product_operations(struct lower *L, const struct node *n)
{
    struct dot_dims d;
    const val *o = node_operands(L->f, n);
    struct lp_term *t = ARENA_ZNEW(&L->S->program->arena, struct lp_term, 1);
    node_row(n)->lower->product(L->S->m, L->f, n, &d);
    t->factor = 2;
    bool known = multiply_dims(L, t, o[0], d.batch_lhs, d.n_batch) &&
                 multiply_dims(L, t, o[0], d.lhs_free, d.n_lhs_free) &&
                 multiply_dims(L, t, o[0], d.contract_lhs, d.n_contract) &&
                 multiply_dims(L, t, o[1], d.rhs_free, d.n_rhs_free);
    return known ? (struct lp_amount){ 1, t } : (struct lp_amount){ 0 };
}

static enum lp_mark_kind kind_of_node(struct lower *L, const struct node *n)
{
    const struct op_row *row = node_row(n);
    if (product_is_gemm(L, n)) return MARK_PRODUCT;
    if (node_is_loop(n) || row->control == CONTROL_TOTALS) return MARK_LOOP;
    if (row->control == CONTROL_CALL) return MARK_CALL;
    if (row->control == CONTROL_REGION) return MARK_REGION;
    if (row->control == CONTROL_CHOICE) return MARK_BRANCH;
    return node_effects(L->S->m, L->f, n) ? MARK_OPERATOR : MARK_NEST;
}

static const char *node_label(struct lower *L, const struct node *n)
{
    const char *row = node_row(n)->name;
    uint32_t label = n->n_regions ? fn_label(module_fn(L->S->m, node_region(L->f, n, 0)->fn)) : 0;
    if (!label) return row;
    return arena_printf(&L->S->program->arena, "%s @%s", row, module_text(L->S->m, label));
}

static void describe_nest(struct lower *L, const struct nest *nest, struct lp_mark *mark)
{
    struct arena *a = &L->S->program->arena;
    struct contents c = { .L = L, .arena = a, .seen = ARENA_ZNEW(L->arena, uint8_t, L->f->n_nodes) };
    for (uint32_t i = 0; i < nest->items.len; i++) look_at(&c, nest->items.data[i].node);
    mark->label = operators_text(&c);
    mark->bytes = nest_bytes(L, nest);
    for (uint32_t i = nest->items.len; i-- > 0;)
        add_place(a, mark, fn_node(L->f, nest->items.data[i].node)->place);
    for (uint32_t i = 0; i < L->f->n_nodes; i++)
        if (c.seen[i]) add_place(a, mark, fn_node(L->f, i)->place);
}

static void describe_node(struct lower *L, const struct node *n, struct lp_mark *mark)
{
    mark->kind = (uint8_t)kind_of_node(L, n);
    mark->label = node_label(L, n);
    if (mark->kind == MARK_PRODUCT) mark->operations = product_operations(L, n);
    add_place(&L->S->program->arena, mark, n->place);
}

/* ---- opening and closing ---- */

static void say(struct lower *L, uint32_t mark, bool enters)
{
    struct lp_call c = { .kind = CALL_MARK,
                         .target = mark + 1, /* HOP_NONE: 0 */
                         .source = enters,
                         .value = LPV_NONE,
                         .mask = LPV_NONE };
    lp_add_call(L->S->p, c);
}

static void count(struct lower *L, uint32_t counter, lpv value)
{
    lp_add_call(L->S->p,
                (struct lp_call){ .kind = CALL_COUNT, .target = counter, .value = value, .mask = LPV_NONE });
}

static const struct mark_around no_mark = { HOP_NONE, HOP_NONE };

static struct mark_around open_mark(struct lower *L, struct lp_mark mark)
{
    struct shared *S = L->S;
    struct mark_around around = { .mark = S->program->marks.len, .outer = S->mark };
    mark.parent = S->mark;
    vec_push(&S->program->arena, &S->program->marks, mark);
    S->mark = around.mark;
    say(L, around.mark, true);
    count(L, 2 * around.mark, lp_index(S->p, 1));
    return around;
}

void mark_program(struct shared *S, const struct fn *f)
{
    if (!S->passes->profile) return;
    struct lp_mark mark = { .kind = MARK_FUNCTION, .kept = true, .parent = HOP_NONE };
    const char *name = f->name ? module_text(S->m, f->name) : NULL;
    if (!name && fn_label(f)) name = module_text(S->m, fn_label(f));
    mark.label = arena_printf(&S->program->arena, "@%s", name ? name : "main");
    add_place(&S->program->arena, &mark, f->place);
    vec_push(&S->program->arena, &S->program->marks, mark);
    S->mark = 0;
}

struct mark_around mark_step(struct lower *L, const struct lower_step *s)
{
    struct lp_mark mark = { .kind = MARK_NEST };
    if (!L->S->passes->profile || s->kind == STEP_SCALAR) return no_mark;
    if (s->kind == STEP_NEST) describe_nest(L, L->nest_list.data[s->index], &mark);
    else describe_node(L, fn_node(L->f, s->index), &mark);
    return open_mark(L, mark);
}

struct mark_around mark_group(struct lower *L, const struct row_group *g, const char *label)
{
    struct lp_mark mark = { .kind = MARK_PRODUCT, .label = label };
    struct arena *a = &L->S->program->arena;
    if (!L->S->passes->profile) return no_mark;
    mark.operations.terms = ARENA_ZNEW(a, struct lp_term, g->n);
    bool known = true;
    for (uint32_t i = 0; i < g->n; i++) {
        struct lower_step step = L->steps.data[g->first + i];
        if (step.kind == STEP_NEST) {
            const struct nest *nest = L->nest_list.data[step.index];
            for (uint32_t k = 0; k < nest->items.len; k++)
                add_place(a, &mark, fn_node(L->f, nest->items.data[k].node)->place);
            continue;
        }
        const struct node *n = fn_node(L->f, step.index);
        add_place(a, &mark, n->place);
        if (!product_is_gemm(L, n)) continue;
        struct lp_amount own = product_operations(L, n);
        known &= own.n == 1;
        if (known) mark.operations.terms[mark.operations.n++] = own.terms[0];
    }
    if (!known) mark.operations.n = 0;
    return open_mark(L, mark);
}

struct mark_around mark_results(struct lower *L)
{
    if (!L->S->passes->profile) return no_mark;
    return open_mark(L, (struct lp_mark){ .kind = MARK_NEST, .label = "results" });
}

void mark_end(struct lower *L, struct mark_around around)
{
    if (around.mark == HOP_NONE) return;
    say(L, around.outer, false);
    L->S->mark = around.outer;
}

void lower_mark_label(struct lower *L, const char *label)
{
    if (!L->S->passes->profile || L->S->mark == HOP_NONE) return;
    mark_at(L, L->S->mark)->label = arena_string(&L->S->program->arena, label, strlen(label));
}

void lower_mark_trips(struct lower *L, lpv from, lpv to)
{
    struct lp *p = L->S->p;
    if (!L->S->passes->profile || L->S->mark == HOP_NONE) return;
    count(L, 2 * L->S->mark + 1, lp_bin(p, LP_SUB, lp_bin(p, LP_MAX, to, from), from));
}

void lower_mark_trip(struct lower *L)
{
    if (!L->S->passes->profile || L->S->mark == HOP_NONE) return;
    count(L, 2 * L->S->mark + 1, lp_index(L->S->p, 1));
}

/* ---- which marks stay ---- */

struct thinning {
    struct lp *p, *program;
    struct arena scratch;
};
/* Where a block stands. */
struct standing {
    bool looped, parallel;
};

static bool is_kind(const struct lp_stmt *s, enum lp_call_kind kind)
{
    return s->kind == LP_CALL && s->call->kind == kind;
}

static uint64_t bounded(uint64_t work) { return HOP_MIN(work, (uint64_t)MOST_WORK); }

static uint64_t trips_of(const struct lp *p, const struct lp_stmt *s)
{
    int64_t lo, hi, step = 1;
    bool known = lp_is_const(p, s->lo, &lo) && lp_is_const(p, s->hi, &hi);
    if (!known || (s->step != LPV_NONE && !lp_is_const(p, s->step, &step)) || step < 1) return UNKNOWN_TRIPS;
    return hi > lo ? bounded(((uint64_t)hi - (uint64_t)lo + (uint64_t)step - 1) / (uint64_t)step) : 0;
}

static uint64_t call_work(const struct lp *p, const struct lp_call *c)
{
    int64_t m, n, k, batch = 1;
    switch ((enum lp_call_kind)c->kind) {
    case CALL_MARK:
    case CALL_COUNT:
    case CALL_SETDIM: return 0;
    case CALL_CHECK: return 2;
    case CALL_RESERVE: return 4;
    case CALL_GEMM:
        if (!lp_is_const(p, c->gemm.m, &m) || !lp_is_const(p, c->gemm.n, &n) ||
            !lp_is_const(p, c->gemm.k, &k))
            return CALL_WORK;
        if (c->gemm.batch != LPV_NONE && !lp_is_const(p, c->gemm.batch, &batch)) return CALL_WORK;
        if (batch > MOST_WORK / 8 || m > MOST_WORK / 8 || n > MOST_WORK / 8 || k > MOST_WORK / 8)
            return MOST_WORK;
        m = (int64_t)bounded((uint64_t)m * (uint64_t)batch);
        return CALL_WORK + bounded(bounded((uint64_t)m * (uint64_t)n) * (uint64_t)k / VECTOR_LANES);
    case CALL_PACK:
        if (!lp_is_const(p, c->gemm.n, &n) || !lp_is_const(p, c->gemm.k, &k)) return CALL_WORK;
        if (n > MOST_WORK / 8 || k > MOST_WORK / 8) return MOST_WORK;
        return CALL_WORK + bounded((uint64_t)n * (uint64_t)k / 4);
    case CALL_COPY:
    case CALL_ZERO: return lp_is_const(p, c->count, &n) && n <= MOST_WORK ? 8 + (uint64_t)n / 16 : CALL_WORK;
    default: return CALL_WORK;
    }
}

static uint64_t thin_block(struct thinning *t, struct lp_block *block, struct standing at);

/* Operations of a statement, about; blocks inside are thinned. */
static uint64_t thin_stmt(struct thinning *t, struct lp_stmt *s, struct standing at)
{
    struct standing inside = at;
    uint64_t work;
    switch ((enum lp_stmt_kind)s->kind) {
    case LP_LET: return lp_cost((enum lp_op)t->p->instrs.data[s->value].op);
    case LP_STORE:
    case LP_SET:
    case LP_ACCUM: return 1;
    case LP_CALL: return call_work(t->p, s->call);
    case LP_IF: {
        uint64_t other = thin_block(t, s->other, at);
        work = thin_block(t, s->body, at);
        return 1 + HOP_MAX(work, other);
    }
    case LP_WHILE:
        inside.looped = true;
        work = thin_block(t, s->body, inside);
        return bounded(UNKNOWN_TRIPS * (1 + work + thin_block(t, s->other, inside)));
    case LP_FOR:
        inside.looped |= s->mode == FOR_SERIAL;
        inside.parallel |= s->mode == FOR_PARALLEL;
        work = thin_block(t, s->body, inside);
        work = bounded(trips_of(t->p, s) * (1 + work));
        return s->mode == FOR_VECTOR ? 1 + work / VECTOR_LANES : work;
    }
    return 0;
}

/* A mark says where the run is until the next one does: of several without work between them the last. */
static void drop_overwritten(struct lp_block *block)
{
    uint32_t n = 0, last = HOP_NONE; /* last: a mark behind which nothing but counting stands */
    struct lp_stmt *stmts = block->stmts.data;
    for (uint32_t i = 0; i < block->stmts.len; i++) {
        bool mark = is_kind(&stmts[i], CALL_MARK);
        if (mark && last != HOP_NONE) {
            memmove(&stmts[last], &stmts[last + 1], (n - last - 1) * sizeof *stmts);
            n--;
        }
        if (mark) last = n;
        else if (!is_kind(&stmts[i], CALL_COUNT)) last = HOP_NONE;
        stmts[n++] = stmts[i];
    }
    block->stmts.len = n;
}

/* A counter of a mark that is not there counts nothing, nor does one of trips that are short. */
static bool counts(const struct thinning *t, const struct lp_stmt *s, struct standing at, uint64_t work)
{
    bool trip = s->call->target % 2;
    int64_t one;
    if (trip && lp_is_const(t->p, s->call->value, &one) && one == 1)
        return !at.parallel && work >= LOOPED_WORK;
    return t->program->marks.data[s->call->target / 2].kept;
}

static uint64_t thin_block(struct thinning *t, struct lp_block *block, struct standing at)
{
    if (!block) return 0;
    hop_check_stack();
    uint64_t work = 0, least = at.looped ? LOOPED_WORK : KEPT_WORK;
    vec(struct open_mark {
        uint32_t stmt;
        uint64_t work;
    }) open = { 0 };
    uint32_t n = 0, len = block->stmts.len;
    bool *dropped = ARENA_ZNEW(&t->scratch, bool, len + 1);
    for (uint32_t i = 0; i < len; i++) {
        struct lp_stmt *s = &block->stmts.data[i];
        work += thin_stmt(t, s, at);
        if (!is_kind(s, CALL_MARK)) continue;
        if (s->call->source) {
            vec_push(&t->scratch, &open, (struct open_mark){ i, work });
            continue;
        }
        struct open_mark first = open.data[--open.len];
        struct lp_mark *mark = &t->program->marks.data[block->stmts.data[first.stmt].call->target - 1];
        mark->kept = work - first.work >= least && !at.parallel;
        mark->level = t->p->level;
        dropped[i] = dropped[first.stmt] = !mark->kept;
    }
    for (uint32_t i = 0; i < len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        bool counting = is_kind(s, CALL_COUNT);
        if (dropped[i] || (counting && !counts(t, s, at, work))) continue;
        block->stmts.data[n++] = *s;
    }
    block->stmts.len = n;
    drop_overwritten(block);
    return bounded(work);
}

void lp_thin_marks(struct lp *p)
{
    struct thinning t = { .program = p };
    hop_cleanup_push(arena_free, &t.scratch);
    for (uint32_t i = 0; i <= p->procedures.len; i++) {
        t.p = i ? p->procedures.data[i - 1] : p;
        thin_block(&t, t.p->root, (struct standing){ .looped = t.p != p, .parallel = t.p->in_region });
    }
    hop_cleanup_pop(&t.scratch);
    arena_free(&t.scratch);
}
