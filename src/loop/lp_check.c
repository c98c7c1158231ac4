/* Holds a loop program against its own rules: values are made before they are used and where they are
 * visible, dtypes agree, nothing writes to arguments and constants, no index lies outside its buffer for
 * certain, no two iterations of a parallel loop write the same element for certain. A violation is a bug of
 * the lowering and is thrown as such. */
#include "loop/lp_walk.h"
#include "loop/rt.h"

struct checker {
    const struct lp *p, *program; /* what is checked; whose procedures it calls */
    uint32_t level;               /* of p, when it is a procedure */
    struct arena arena;
    bool *known;                  /* per value: visible here */
    const struct lp_stmt **loops; /* per loop: its statement, while inside or after it */
    lpv *vars;                    /* per loop: its variable, LPV_NONE when nobody asked for it */
    const struct lp_stmt *vector; /* the vector loop around, if any */
    const struct lp_stmt *parallel;
    const struct lp_stmt *now;
    bool *written, *set;         /* per buffer and per local: anywhere in the program */
    const struct lp_stmt **read; /* per buffer: a statement that reads it */
    uint32_t *asked, question;   /* per value: the last question of `follows` that met it */
    bool dead;                   /* under a condition that never holds: only the structure is checked */
};

static _Noreturn void fail(const struct checker *c, const char *format, ...)
{
    static const char *const words[] = {
#define LP_STMT(NAME, word) word,
#include "loop/lp.def"
    };
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hop_throw(HOP_INTERNAL, "loop program: %s of %u: %s%s%s", words[c->now->kind],
              c->now->kind == LP_LET || c->now->kind == LP_STORE ? c->now->value : c->now->target, text,
              c->now->note ? "; in " : "", c->now->note ? c->now->note : "");
}

static void use(void *ctx, lpv v)
{
    const struct checker *c = ctx;
    if (v >= c->p->instrs.len) fail(c, "reads value %u, which does not exist", v);
    enum lp_op op = (enum lp_op)c->p->instrs.data[v].op;
    if (op != LP_CONST && op != LP_SYMBOL && !c->known[v])
        fail(c, "reads value %u, which is not visible here", v);
    if (op == LP_SYMBOL && (uint64_t)c->p->instrs.data[v].imm >= c->p->entry->n_symbols)
        fail(c, "reads symbol %lld", (long long)c->p->instrs.data[v].imm);
}

static void want(const struct checker *c, lpv v, enum dtype t, const char *what)
{
    if (v == LPV_NONE) return;
    if (lp_dtype(c->p, v) != t)
        fail(c, "%s is %s, not %s", what, dtype_info[lp_dtype(c->p, v)].name, dtype_info[t].name);
}

static const char *buffer_name(const struct lp_buffer *b) { return b->name ? b->name : "a buffer"; }

static void check_index(const struct checker *c, uint32_t buffer, lpv index)
{
    if (buffer >= c->p->buffers.len) fail(c, "names buffer %u, which does not exist", buffer);
    const struct lp_buffer *b = &c->p->buffers.data[buffer];
    if (index == LPV_NONE) return;
    want(c, index, DT_I64, "an index");
    struct lp_range range = lp_range(c->p, index);
    bool sized = b->kind != BUF_DYN && b->static_count > 0;
    bool may_be_empty = c->now->kind == LP_CALL; /* what is handed over may be nothing, behind the last */
    bool outside = range.lo >= b->static_count + may_be_empty || range.hi < 0;
    if (!c->dead && sized && outside)
        fail(c, "index %lld..%lld of %s, which has %lld elements", (long long)range.lo, (long long)range.hi,
             buffer_name(b), (long long)b->static_count);
}

/* Does v change with the variable of loop `loop`, its own inner loops' bounds included? Unknown counts as
 * yes. Values that were looked at in this question do not: the first that does ends it. */
static bool follows(const struct checker *c, lpv v, uint32_t loop)
{
    if (v == LPV_NONE || c->asked[v] == c->question) return false;
    c->asked[v] = c->question;
    const struct lp_instr *i = &c->p->instrs.data[v];
    if (i->op == LP_VAR)
        return (uint64_t)i->imm == loop || (c->loops[i->imm] && follows(c, c->loops[i->imm]->lo, loop));
    if (lp_class((enum lp_op)i->op) != PURE) return lp_class((enum lp_op)i->op) == PLACED;
    const lpv operands[3] = { i->a, i->b, i->c };
    for (uint32_t k = 0; k < lp_arity((enum lp_op)i->op); k++)
        if (follows(c, operands[k], loop)) return true;
    return false;
}

/* At most: sizes that are bounded can say that pieces of them are one. */
static bool runs_once(const struct checker *c, const struct lp_stmt *loop)
{
    int64_t first = lp_range(c->p, loop->lo).lo, behind = lp_range(c->p, loop->hi).hi;
    return behind == first + 1 || behind <= first;
}

static void touch(void *ctx, uint32_t buffer, lpv index, bool writes)
{
    struct checker *c = ctx;
    check_index(c, buffer, index);
    c->question++;
    const struct lp_buffer *b = &c->p->buffers.data[buffer];
    if (b->private && !c->parallel && !c->p->in_region)
        fail(c, "%s is used outside of the parallel loop whose threads have one each", buffer_name(b));
    if (!writes && !c->dead) c->read[buffer] = c->now;
    if (!writes) return;
    c->written[buffer] = true;
    bool given = b->kind == BUF_ARG || (b->kind == BUF_PARAM && buffer < c->p->n_inputs);
    if ((given && !b->updated) || b->kind == BUF_CONST)
        fail(c, "writes to %s, which is %s", b->name ? b->name : "a buffer",
             given ? "an argument" : "a constant");
    if (c->parallel && !c->dead && !runs_once(c, c->parallel) && b->static_count && b->kind != BUF_LOCAL &&
        !b->private && c->now->kind == LP_STORE && !follows(c, index, c->parallel->target))
        fail(c, "every iteration of a parallel loop writes the same element of %s",
             b->name ? b->name : "a buffer");
}

/* ---- which dtypes go together: the rules that lp.def names ---- */

static void check_leaf(const struct checker *c, const struct lp_instr *i)
{
    HOP_UNUSED(i);
    fail(c, "a leaf is computed");
}

static void check_read(const struct checker *c, const struct lp_instr *i)
{
    if ((uint64_t)i->imm >= c->p->locals.len)
        fail(c, "reads local %lld, which does not exist", (long long)i->imm);
    const struct lp_local *l = &c->p->locals.data[i->imm];
    if (l->dtype != i->dtype)
        fail(c, "reads %s local as %s", dtype_info[l->dtype].name, dtype_info[i->dtype].name);
    if (!c->set[i->imm]) fail(c, "reads local %lld, which nothing was put into", (long long)i->imm);
}

static void check_fold(const struct checker *c, const struct lp_instr *i)
{
    check_read(c, i);
    if (c->p->locals.data[i->imm].kind != LOCAL_LANES) fail(c, "folds a local without lanes");
    if (i->op == LP_FOLD && i->b == FOLD_LAST) fail(c, "folds lanes that have no order");
    if (c->vector) fail(c, "folds lanes inside a vector loop");
}

static void check_first(const struct checker *c, const struct lp_instr *i)
{
    struct lp_instr values = { .op = LP_FIRST, .imm = i->imm, .dtype = lp_dtype(c->p, i->a) };
    struct lp_instr positions = { .op = LP_FIRST, .imm = i->b, .dtype = i->dtype };
    check_fold(c, &values);
    check_fold(c, &positions);
    if (!dtype_is_integer((enum dtype)i->dtype))
        fail(c, "looks for the least of %s", dtype_info[i->dtype].name);
}

static void check_load(const struct checker *c, const struct lp_instr *i)
{
    const struct lp_buffer *b = &c->p->buffers.data[i->imm];
    if (b->dtype != i->dtype)
        fail(c, "loads %s from a buffer of %s", dtype_info[i->dtype].name, dtype_info[b->dtype].name);
}

/* Numbers are computed with as f32 and wider. */
static void want_wide(const struct checker *c, enum dtype t)
{
    if (dtype_is_narrow(t)) fail(c, "computes with %s", dtype_info[t].name);
}

static void want_that(const struct checker *c, bool holds, enum dtype t)
{
    if (!holds) fail(c, "works on %s", dtype_info[t].name);
}

static void check_number1(const struct checker *c, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    want_wide(c, t);
    want(c, i->a, t, "its operand");
}

static void check_real1(const struct checker *c, const struct lp_instr *i)
{
    want_that(c, dtype_is_float((enum dtype)i->dtype), (enum dtype)i->dtype);
    check_number1(c, i);
}

static void check_whole1(const struct checker *c, const struct lp_instr *i)
{
    want_that(c, dtype_is_integer((enum dtype)i->dtype), (enum dtype)i->dtype);
    check_number1(c, i);
}

/* f16 and bf16 from and to f32 only. */
static void check_cast(const struct checker *c, const struct lp_instr *i)
{
    enum dtype from = lp_dtype(c->p, i->a), to = (enum dtype)i->dtype;
    if ((dtype_is_narrow(from) && to != DT_F32) || (dtype_is_narrow(to) && from != DT_F32))
        fail(c, "casts %s to %s", dtype_info[from].name, dtype_info[to].name);
}

static void check_bitcast(const struct checker *c, const struct lp_instr *i)
{
    if (dtype_info[lp_dtype(c->p, i->a)].size != dtype_info[i->dtype].size)
        fail(c, "reinterprets another size");
}

static void check_number2(const struct checker *c, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    want_wide(c, t);
    want(c, i->a, t, "its first operand");
    want(c, i->b, t, "its second operand");
}

static void check_bits2(const struct checker *c, const struct lp_instr *i)
{
    want_that(c, !dtype_is_float((enum dtype)i->dtype), (enum dtype)i->dtype);
    check_number2(c, i);
}

static void check_index2(const struct checker *c, const struct lp_instr *i)
{
    want_that(c, i->dtype == DT_I64, (enum dtype)i->dtype);
    check_number2(c, i);
}

static void check_compare(const struct checker *c, const struct lp_instr *i)
{
    enum dtype of = lp_dtype(c->p, i->a);
    want_wide(c, of);
    if (i->dtype != DT_BOOL) fail(c, "a comparison gives %s", dtype_info[i->dtype].name);
    want(c, i->b, of, "its second operand");
}

static void check_real3(const struct checker *c, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    want_that(c, dtype_is_float(t), t);
    check_number2(c, i);
    want(c, i->c, t, "its third operand");
}

static void check_select(const struct checker *c, const struct lp_instr *i)
{
    enum dtype t = (enum dtype)i->dtype;
    want(c, i->a, DT_BOOL, "its condition");
    want(c, i->b, t, "its second operand");
    want(c, i->c, t, "its third operand");
}

static void check_far(const struct checker *c, const struct lp_instr *i)
{
    want_that(c, dtype_is_float((enum dtype)i->dtype), (enum dtype)i->dtype);
    want_wide(c, (enum dtype)i->dtype);
    check_select(c, i);
}

static void check_instr(const struct checker *c, lpv v)
{
    static void (*const rules[])(const struct checker *, const struct lp_instr *) = {
#define LP_OP(NAME, class, operands, rule, ...) [LP_##NAME] = check_##rule,
#include "loop/lp.def"
    };
    const struct lp_instr *i = &c->p->instrs.data[v];
    rules[i->op](c, i);
}

/* ---- statements ---- */

static void check_operator(const struct checker *c, const struct lp_call *call)
{
    const struct lp_buffer *buffers = c->p->buffers.data;
    if (call->n_found && buffers[call->target].dtype != DT_I64) fail(c, "finds sizes that are not i64");
    for (uint32_t k = 0; k < call->n_sizes; k++) want(c, call->sizes[k], DT_I64, "a size");
    for (uint32_t k = 0; k < call->n_operands; k++) {
        const struct lp_operand *o = &call->operands[k];
        bool given = o->use != OPERAND_ABSENT, writes = given && o->use != OPERAND_READ;
        if (!given) continue;
        if (o->use == OPERAND_OBJECT) {
            if (o->buffer != HOP_NONE || o->rank) fail(c, "operand %u is an object in memory", k);
            want(c, o->value, DT_I64, "an object");
            continue;
        }
        if (o->buffer == HOP_NONE && (writes || o->rank)) fail(c, "operand %u has no memory", k);
        if (o->use == OPERAND_FOUND && (buffers[o->buffer].kind != BUF_DYN || !o->found))
            fail(c, "finds how large operand %u is, which does not grow", k);
        if (o->use == OPERAND_FOUND) continue;
        for (uint32_t d = 0; d < o->rank; d++) want(c, o->dims[d], DT_I64, "a dim");
    }
}

static void check_mark(const struct checker *c, const struct lp_call *call)
{
    uint32_t most = c->program->marks.len;
    bool counts = call->kind == CALL_COUNT;
    if (c->parallel) fail(c, "is inside a parallel loop");
    if (counts) want(c, call->value, DT_I64, "what is counted");
    if (call->target >= (counts ? 2 * most : most + 1)) fail(c, "has a number that is none of a mark");
}

/* Ranks meet in one order, which threads of one of them would not keep. */
static void check_exchange(const struct checker *c, const struct lp_call *call)
{
    bool waits = call->source != HOP_RT_INDEX;
    if (waits && (c->parallel || c->p->in_region)) fail(c, "is inside a parallel loop");
    if (call->n_operands != 2 || call->operands[1].buffer == HOP_NONE)
        fail(c, "has not one array that goes and one that comes");
    if (call->operands[0].buffer == HOP_NONE) return;
    const struct lp_buffer *buffers = c->p->buffers.data;
    if (buffers[call->operands[0].buffer].dtype != buffers[call->operands[1].buffer].dtype)
        fail(c, "gives another dtype than it takes");
}

static void check_call(const struct checker *c, const struct lp_call *call)
{
    if (c->vector) fail(c, "is inside a vector loop");
    switch ((enum lp_call_kind)call->kind) {
    case CALL_CHECK:
    case CALL_FINITE: want(c, call->value, DT_BOOL, "its condition"); break;
    case CALL_PRINT: want(c, call->mask, DT_BOOL, "its mask"); break;
    case CALL_SETDIM:
        want(c, call->value, DT_I64, "the size");
        if (call->target >= c->p->entry->n_symbols)
            fail(c, "sets symbol %u, which does not exist", call->target);
        break;
    case CALL_COPY:
        if (c->p->buffers.data[call->target].dtype != c->p->buffers.data[call->source].dtype)
            fail(c, "copies between dtypes");
        break;
    case CALL_GEMM: {
        const struct lp_buffer *buffers = c->p->buffers.data;
        enum dtype to = (enum dtype)buffers[call->gemm.c].dtype, a = (enum dtype)buffers[call->gemm.a].dtype,
                   b = (enum dtype)buffers[call->gemm.b].dtype;
        if (lp_multiplies(to, a, b) == PRODUCT_NONE)
            fail(c, "is a product of %s and %s in %s", dtype_info[a].name, dtype_info[b].name,
                 dtype_info[to].name);
        if (call->gemm.tb == HOP_RT_PANELS && !lp_packs(to, a, b))
            fail(c, "reads panels of %s", dtype_info[b].name);
        break;
    }
    case CALL_PACK: {
        enum dtype from = (enum dtype)c->p->buffers.data[call->gemm.b].dtype;
        if (c->p->buffers.data[call->gemm.c].dtype != from || !lp_packs(from, from, from))
            fail(c, "makes panels of %s", dtype_info[from].name);
        if (call->gemm.tb == HOP_RT_PANELS) fail(c, "makes panels of panels");
        break;
    }
    case CALL_PROCEDURE: {
        if (call->target >= c->program->procedures.len)
            fail(c, "calls procedure %u, which does not exist", call->target);
        const struct lp *q = c->program->procedures.data[call->target];
        bool on_threads = c->parallel || c->p->in_region;
        if (on_threads != q->in_region)
            fail(c, "calls procedure %u, which is %s threads", call->target, on_threads ? "not for" : "for");
        if (q->level >= c->level) fail(c, "calls procedure %u, which may be running", call->target);
        for (uint32_t k = 0; k < call->n_operands; k++)
            if (k >= q->buffers.len || q->buffers.data[k].kind != BUF_PARAM ||
                q->buffers.data[k].dtype != c->p->buffers.data[call->operands[k].buffer].dtype)
                fail(c, "gives procedure %u another array than it takes, number %u", call->target, k);
        break;
    }
    case CALL_OPERATOR: check_operator(c, call); break;
    case CALL_EXCHANGE:
    case CALL_WAIT: check_exchange(c, call); break;
    case CALL_CONV: {
        const struct lp_buffer *buffers = c->p->buffers.data;
        const struct lp_operand *o = call->operands;
        enum lp_product how = lp_multiplies((enum dtype)buffers[o[2].buffer].dtype,
                                            (enum dtype)buffers[o[0].buffer].dtype,
                                            (enum dtype)buffers[o[1].buffer].dtype);
        if (how == PRODUCT_NONE || !dtype_is_float((enum dtype)buffers[o[2].buffer].dtype))
            fail(c, "is a convolution of dtypes that are not multiplied");
        break;
    }
    case CALL_RESERVE:
        if (c->p->buffers.data[call->target].kind != BUF_DYN)
            fail(c, "reserves room in a buffer that does not grow");
        break;
    case CALL_MARK:
    case CALL_COUNT: check_mark(c, call); break;
    case CALL_ZERO:
    case CALL_DROP: break;
    }
}

static void check_block(struct checker *c, const struct lp_block *block, const struct lp_stmt *loop);

static void check_for(struct checker *c, const struct lp_stmt *s)
{
    want(c, s->lo, DT_I64, "its start");
    want(c, s->hi, DT_I64, "its end");
    want(c, s->step, DT_I64, "its step");
    if (s->target >= c->p->loops.len) fail(c, "has a variable that does not exist");
    if (s->mode == FOR_VECTOR && c->vector) fail(c, "is a vector loop inside a vector loop");
    if (s->mode == FOR_PARALLEL && c->vector) fail(c, "is a parallel loop inside a vector loop");
    if (s->mode == FOR_PARALLEL && c->p->in_region) fail(c, "is a parallel loop that threads would begin");
    const struct lp_stmt *vector = c->vector, *parallel = c->parallel;
    bool dead = c->dead;
    c->dead |= lp_range(c->p, s->hi).hi <= lp_range(c->p, s->lo).lo;
    if (s->mode == FOR_VECTOR) c->vector = s;
    if (s->mode == FOR_PARALLEL && !parallel) c->parallel = s;
    c->loops[s->target] = s;
    check_block(c, s->body, s);
    c->vector = vector;
    c->parallel = parallel;
    c->dead = dead;
}

static void check_if(struct checker *c, const struct lp_stmt *s)
{
    int64_t k = 0;
    bool dead = c->dead, constant = lp_is_const(c->p, s->value, &k);
    want(c, s->value, DT_BOOL, "its condition");
    c->dead = dead || (constant && !k);
    check_block(c, s->body, NULL);
    c->dead = dead || (constant && k);
    check_block(c, s->other, NULL);
    c->dead = dead;
}

static void check_target(const struct checker *c, const struct lp_stmt *s)
{
    if (s->target >= c->p->locals.len) fail(c, "local %u does not exist", s->target);
    const struct lp_local *l = &c->p->locals.data[s->target];
    want(c, s->value, (enum dtype)l->dtype, "the value");
    if (s->kind == LP_ACCUM && dtype_is_narrow((enum dtype)l->dtype))
        fail(c, "accumulates in %s", dtype_info[l->dtype].name);
    if (s->kind == LP_SET) c->set[s->target] = true;
    if (l->kind == LOCAL_LANES && s->kind == LP_ACCUM && !c->vector)
        fail(c, "adds to lanes outside a vector loop");
    if (s->kind == LP_ACCUM && !c->set[s->target]) fail(c, "adds to a local that nothing was put into");
    if (l->kind == LOCAL_LANES && s->kind == LP_SET && c->vector) fail(c, "sets lanes inside a vector loop");
}

static void check_stmt(struct checker *c, const struct lp_stmt *s, const struct lp_block *block)
{
    c->now = s;
    if (s->kind != LP_WHILE) lp_stmt_uses(c->p, s, use, c);
    lp_stmt_buffers(c->p, s, touch, c);
    switch ((enum lp_stmt_kind)s->kind) {
    case LP_LET:
        if (c->known[s->value]) fail(c, "is computed twice");
        if (c->p->instrs.data[s->value].depth != block->depth)
            fail(c, "stands at depth %u, not %u", block->depth, c->p->instrs.data[s->value].depth);
        check_instr(c, s->value);
        c->known[s->value] = true;
        break;
    case LP_STORE: want(c, s->value, (enum dtype)c->p->buffers.data[s->target].dtype, "the value"); break;
    case LP_SET:
    case LP_ACCUM: check_target(c, s); break;
    case LP_FOR: check_for(c, s); break;
    case LP_WHILE:
        check_block(c, s->body, s);
        check_block(c, s->other, NULL);
        break;
    case LP_IF: check_if(c, s); break;
    case LP_CALL: check_call(c, s->call); break;
    }
}

/* `loop`: the FOR whose variable is visible inside, or the WHILE whose predicate this block computes. */
static void check_block(struct checker *c, const struct lp_block *block, const struct lp_stmt *loop)
{
    if (!block) return;
    lpv var = loop && loop->kind == LP_FOR ? c->vars[loop->target] : LPV_NONE;
    if (var != LPV_NONE) c->known[var] = true;
    for (uint32_t i = 0; i < block->stmts.len; i++) check_stmt(c, &block->stmts.data[i], block);
    if (loop && loop->kind == LP_WHILE) {
        c->now = loop;
        use(c, loop->value);
        want(c, loop->value, DT_BOOL, "its condition");
    }
    for (uint32_t i = 0; i < block->stmts.len; i++)
        if (block->stmts.data[i].kind == LP_LET) c->known[block->stmts.data[i].value] = false;
    if (var != LPV_NONE) c->known[var] = false;
}

static void check_one(const struct lp *program, const struct lp *p, uint32_t level)
{
    struct checker c = { .p = p, .program = program, .level = level };
    hop_cleanup_push(arena_free, &c.arena);
    c.known = ARENA_ZNEW(&c.arena, bool, p->instrs.len);
    c.loops = ARENA_ZNEW(&c.arena, const struct lp_stmt *, p->loops.len);
    c.vars = ARENA_NEW(&c.arena, lpv, p->loops.len);
    for (uint32_t i = 0; i < p->loops.len; i++) c.vars[i] = LPV_NONE;
    for (lpv v = 0; v < p->instrs.len; v++)
        if (p->instrs.data[v].op == LP_VAR) c.vars[p->instrs.data[v].imm] = v;
    c.asked = ARENA_ZNEW(&c.arena, uint32_t, p->instrs.len);
    c.written = ARENA_ZNEW(&c.arena, bool, p->buffers.len);
    c.set = ARENA_ZNEW(&c.arena, bool, p->locals.len);
    c.read = ARENA_ZNEW(&c.arena, const struct lp_stmt *, p->buffers.len);
    check_block(&c, p->root, NULL);
    for (uint32_t i = 0; i < p->buffers.len; i++) {
        const struct lp_buffer *b = &p->buffers.data[i];
        bool given = b->kind == BUF_ARG || b->kind == BUF_CONST || b->kind == BUF_PARAM;
        if (!c.read[i] || c.written[i] || given) continue;
        c.now = c.read[i];
        fail(&c, "reads %s, which nothing writes", buffer_name(b));
    }
    hop_cleanup_pop(&c.arena);
    arena_free(&c.arena);
}

void lp_check(const struct lp *p)
{
    for (uint32_t i = 0; i < p->procedures.len; i++)
        check_one(p, p->procedures.data[i], p->procedures.data[i]->level);
    check_one(p, p, UINT32_MAX);
}
