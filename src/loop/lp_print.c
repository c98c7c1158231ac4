/* Loop programs as pseudo-C, for people: buffers with their kinds and why they exist, then the statements. A
 * pure value that is used once in its own block is written where it is used, one that nobody uses is left
 * out; everything else has a name. */
#include "ir/angle.h"
#include "ir/number.h"
#include "loop/lp_walk.h"
#include "loop/rt.h"

#include <math.h>

struct printer {
    const struct lp *p;
    struct arena arena;
    struct text *out;
    uint32_t *uses;                  /* per value, by what is printed */
    const struct lp_block **home;    /* per value: the block of its LET */
    const struct lp_block **used_in; /* per value: the block of its only use */
    bool *in_place;                  /* per value: written where it is used */
    const struct lp_block *block;    /* being counted */
};

static const char *const buffer_kind_text[] = {
    [BUF_ARG] = "argument", [BUF_RESULT] = "result", [BUF_CONST] = "constant", [BUF_TEMP] = "temporary",
    [BUF_LOCAL] = "local",  [BUF_DYN] = "growing",   [BUF_PARAM] = "parameter"
};

static void put_value(struct printer *w, lpv v);

/* ---- names ---- */

static void put_buffer(struct printer *w, uint32_t b)
{
    const char *name = w->p->buffers.data[b].name;
    if (name && *name) text_add(w->out, "%s", name);
    else text_add(w->out, "b%u", b);
}

static void put_local(struct printer *w, uint32_t l)
{
    const char *name = w->p->locals.data[l].name;
    text_add(w->out, "%s%u", name && *name ? name : "l", l);
}

static void put_loop_var(struct printer *w, uint32_t loop)
{
    static const char letters[] = "ijkmnpqrst";
    if (loop < sizeof letters - 1) text_add(w->out, "%c", letters[loop]);
    else text_add(w->out, "i%u", loop);
}

/* ---- expressions: the notations that lp.def names ---- */

static void put_const(struct printer *w, const struct lp_instr *i, const char *text)
{
    enum dtype t = (enum dtype)i->dtype;
    HOP_UNUSED(text);
    if (t == DT_BOOL) text_str(w->out, i->bits ? "true" : "false");
    else if (t == DT_F64) text_add(w->out, "%.17g", element_real(t, &i->bits));
    else if (t == DT_F32) text_add(w->out, "%.9gf", element_real(t, &i->bits));
    else if (t == DT_F16) text_add(w->out, "%.5gh", element_real(t, &i->bits));
    else if (t == DT_BF16) text_add(w->out, "%.4gb", element_real(t, &i->bits));
    else if (dtype_info[t].kind == KIND_UINT) text_add(w->out, "%lluu", (unsigned long long)i->bits);
    else text_add(w->out, "%lld", (long long)element_whole(t, &i->bits));
}

static void put_symbol(struct printer *w, const struct lp_instr *i, const char *text)
{
    const struct fn *f = w->p->entry;
    text = (uint64_t)i->imm < f->n_symbols ? module_text(w->p->m, f->symbols[i->imm].name) : "";
    if (*text) text_str(w->out, text);
    else text_add(w->out, "$%lld", (long long)i->imm);
}

static void put_var(struct printer *w, const struct lp_instr *i, const char *text)
{
    HOP_UNUSED(text);
    put_loop_var(w, (uint32_t)i->imm);
}

static void put_read(struct printer *w, const struct lp_instr *i, const char *text)
{
    HOP_UNUSED(text);
    put_local(w, (uint32_t)i->imm);
}

static void put_element(struct printer *w, uint32_t buffer, lpv index)
{
    put_buffer(w, buffer);
    text_str(w->out, "[");
    put_value(w, index);
    text_str(w->out, "]");
}

static void put_load(struct printer *w, const struct lp_instr *i, const char *text)
{
    HOP_UNUSED(text);
    put_element(w, (uint32_t)i->imm, i->a);
}

static void put_fold(struct printer *w, const struct lp_instr *i, const char *text)
{
    HOP_UNUSED(text);
    text_add(w->out, "fold_%s(", lp_fold_word((enum lp_fold)i->b));
    put_local(w, (uint32_t)i->imm);
    text_str(w->out, ")");
}

static void put_first(struct printer *w, const struct lp_instr *i, const char *text)
{
    HOP_UNUSED(text);
    text_str(w->out, "first(");
    put_local(w, i->b);
    text_str(w->out, " where ");
    put_local(w, (uint32_t)i->imm);
    text_str(w->out, " == ");
    put_value(w, i->a);
    text_str(w->out, ")");
}

static void put_word(struct printer *w, const struct lp_instr *i, const char *text)
{
    const lpv operands[3] = { i->a, i->b, i->c };
    text_add(w->out, "%s(", text);
    for (uint32_t k = 0; k < lp_arity((enum lp_op)i->op); k++) {
        if (k) text_str(w->out, ", ");
        put_value(w, operands[k]);
    }
    text_str(w->out, ")");
}

static void put_cast(struct printer *w, const struct lp_instr *i, const char *text)
{
    text_str(w->out, text);
    put_word(w, i, dtype_info[i->dtype].name);
}

static void put_far(struct printer *w, const struct lp_instr *i, const char *text)
{
    static const char *const functions[] = { [ANGLE_SIN] = "sin", [ANGLE_COS] = "cos", [ANGLE_TAN] = "tan" };
    text_str(w->out, text);
    put_word(w, i, functions[i->imm]);
}

static void put_infix(struct printer *w, const struct lp_instr *i, const char *text)
{
    text_str(w->out, "(");
    put_value(w, i->a);
    text_add(w->out, " %s ", text);
    put_value(w, i->b);
    text_str(w->out, ")");
}

static void put_choice(struct printer *w, const struct lp_instr *i, const char *text)
{
    HOP_UNUSED(text);
    text_str(w->out, "(");
    put_value(w, i->a);
    text_str(w->out, " ? ");
    put_value(w, i->b);
    text_str(w->out, " : ");
    put_value(w, i->c);
    text_str(w->out, ")");
}

static void put_instr(struct printer *w, lpv v)
{
    static const struct {
        void (*put)(struct printer *w, const struct lp_instr *i, const char *text);
        const char *text;
    } notations[] = {
#define LP_OP(NAME, class, operands, rule, cost, notation, text) [LP_##NAME] = { put_##notation, text },
#include "loop/lp.def"
    };
    const struct lp_instr *i = &w->p->instrs.data[v];
    notations[i->op].put(w, i, notations[i->op].text);
}

static bool is_leaf(const struct printer *w, lpv v)
{
    return lp_class((enum lp_op)w->p->instrs.data[v].op) == LEAF;
}

static void put_value(struct printer *w, lpv v)
{
    if (v == LPV_NONE) text_str(w->out, "none");
    else if (v >= w->p->instrs.len) text_add(w->out, "v%u?", v);
    else if (is_leaf(w, v) || w->in_place[v]) put_instr(w, v);
    else text_add(w->out, "v%u", v);
}

/* ---- calls ---- */

static void put_shown(struct printer *w, const struct lp_call *c)
{
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        text_str(w->out, ", ");
        if (o->buffer == HOP_NONE) put_value(w, o->value);
        else put_element(w, o->buffer, o->index);
        for (uint32_t d = 0; d < o->rank; d++) {
            text_str(w->out, d ? " x " : ": ");
            put_value(w, o->dims[d]);
        }
    }
}

static void put_given(struct printer *w, const struct lp_call *c)
{
    static const char *const words[] = {
        [OPERAND_READ] = "",        [OPERAND_WRITTEN] = "out ", [OPERAND_CHANGED] = "mut ",
        [OPERAND_FOUND] = "found ", [OPERAND_ABSENT] = "none",  [OPERAND_OBJECT] = "object "
    };
    text_add(w->out, "%s(", module_text(w->p->m, c->text));
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        text_add(w->out, "%s%s", k ? ", " : "", words[o->use]);
        if (o->use == OPERAND_ABSENT) continue;
        if (o->buffer == HOP_NONE) put_value(w, o->value);
        else put_element(w, o->buffer, o->index);
        for (uint32_t d = 0; d < o->rank; d++) {
            text_str(w->out, d ? " x " : ": ");
            if (o->dims[d] == LPV_NONE) text_str(w->out, "?");
            else put_value(w, o->dims[d]);
            if (!o->strides) continue;
            text_str(w->out, " by ");
            put_value(w, o->strides[d]);
        }
    }
}

static void put_exchange(struct printer *w, const struct lp_call *c)
{
    const struct lp_operand *in = &c->operands[0], *out = &c->operands[1];
    text_add(w->out, "%s %u %s(", c->kind == CALL_WAIT ? "wait for" : "begin", c->target,
             module_text(w->p->m, c->text));
    if (in->buffer != HOP_NONE) put_element(w, in->buffer, in->index);
    text_str(w->out, " -> ");
    put_element(w, out->buffer, out->index);
    for (uint32_t k = 0; k < c->n_sizes; k++) {
        text_str(w->out, k ? ", " : "; ");
        put_value(w, c->sizes[k]);
    }
}

static void put_batch(struct printer *w, const struct lp_call *c)
{
    const lpv apart[] = { c->gemm.a_apart, c->gemm.b_apart, c->gemm.c_apart };
    if (c->gemm.batch == LPV_NONE) return;
    text_str(w->out, ", ");
    put_value(w, c->gemm.batch);
    text_str(w->out, " of them, ");
    for (uint32_t k = 0; k < HOP_COUNT(apart); k++) {
        text_str(w->out, k ? ", " : "");
        put_value(w, apart[k]);
    }
    text_str(w->out, " apart");
}

static void put_call(struct printer *w, const struct lp_call *c)
{
    struct text *out = w->out;
    switch ((enum lp_call_kind)c->kind) {
    case CALL_GEMM:
        put_element(w, c->gemm.c, c->gemm.c_at);
        text_str(out, c->gemm.accumulate ? " += gemm(" : " = gemm(");
        put_element(w, c->gemm.a, c->gemm.a_at);
        text_str(out, c->gemm.ta ? "', " : ", ");
        put_element(w, c->gemm.b, c->gemm.b_at);
        text_str(out, c->gemm.tb == HOP_RT_PANELS ? " in panels" : c->gemm.tb ? "'" : "");
        text_str(out, ", m = ");
        put_value(w, c->gemm.m);
        text_str(out, ", n = ");
        put_value(w, c->gemm.n);
        text_str(out, ", k = ");
        put_value(w, c->gemm.k);
        text_str(out, ", rows ");
        put_value(w, c->gemm.lda);
        text_str(out, ", ");
        put_value(w, c->gemm.ldb);
        text_str(out, ", ");
        put_value(w, c->gemm.ldc);
        put_batch(w, c);
        text_str(out, ")");
        return;
    case CALL_PACK:
        put_element(w, c->gemm.c, c->gemm.c_at);
        text_str(out, " = panels(");
        put_element(w, c->gemm.b, c->gemm.b_at);
        text_str(out, c->gemm.tb ? "', n = " : ", n = ");
        put_value(w, c->gemm.n);
        text_str(out, ", k = ");
        put_value(w, c->gemm.k);
        text_str(out, ", rows ");
        put_value(w, c->gemm.ldb);
        text_str(out, ")");
        return;
    case CALL_CHECK:
    case CALL_FINITE:
        text_str(out, c->kind == CALL_CHECK ? "check(" : "check_finite(");
        put_value(w, c->value);
        if (c->kind == CALL_CHECK) text_add(out, ", \"%s\"", module_text(w->p->m, c->text));
        put_shown(w, c);
        break;
    case CALL_PRINT:
        if (c->mask != LPV_NONE) {
            text_str(out, "if (");
            put_value(w, c->mask);
            text_str(out, ") ");
        }
        text_add(out, "print(\"%s\"", module_text(w->p->m, c->text));
        put_shown(w, c);
        break;
    case CALL_OPERATOR: put_given(w, c); break;
    case CALL_EXCHANGE:
    case CALL_WAIT: put_exchange(w, c); break;
    case CALL_CONV:
        put_element(w, c->operands[2].buffer, c->operands[2].index);
        text_str(out, " = conv(");
        put_element(w, c->operands[0].buffer, c->operands[0].index);
        text_str(out, ", ");
        put_element(w, c->operands[1].buffer, c->operands[1].index);
        for (uint32_t k = 0; k < c->n_sizes; k++) {
            text_str(out, k ? ", " : "; ");
            put_value(w, c->sizes[k]);
        }
        break;
    case CALL_PROCEDURE:
        text_add(out, "procedure_%u(", c->target);
        for (uint32_t k = 0; k < c->n_operands; k++) {
            if (k) text_str(out, k == c->source ? "; " : ", ");
            put_element(w, c->operands[k].buffer, c->operands[k].index);
        }
        break;
    case CALL_RESERVE:
        text_str(out, "reserve(");
        put_element(w, c->target, c->index);
        break;
    case CALL_SETDIM:
        text_add(out, "%s = (", module_text(w->p->m, w->p->entry->symbols[c->target].name));
        put_value(w, c->value);
        break;
    case CALL_MARK: text_add(out, "mark(%u", c->target); break;
    case CALL_COUNT:
        text_add(out, "count(%u, ", c->target);
        put_value(w, c->value);
        break;
    case CALL_COPY:
    case CALL_ZERO:
    case CALL_DROP:
        text_str(out, c->kind == CALL_COPY ? "copy(" : c->kind == CALL_ZERO ? "zero(" : "drop(");
        put_element(w, c->target, c->lo);
        if (c->kind == CALL_COPY) {
            text_str(out, ", ");
            put_element(w, c->source, c->index);
        }
        text_str(out, ", ");
        put_value(w, c->count);
        break;
    }
    text_str(out, ")");
}

/* ---- statements ---- */

static void put_block(struct printer *w, const struct lp_block *block, uint32_t indent);

static void put_indent(struct printer *w, uint32_t indent) { text_add(w->out, "%*s", (int)(2 * indent), ""); }

static void put_for(struct printer *w, const struct lp_stmt *s, uint32_t indent)
{
    static const char *const modes[] = {
        [FOR_SERIAL] = "", [FOR_VECTOR] = " vector", [FOR_PARALLEL] = " parallel"
    };
    int64_t step = 1;
    text_str(w->out, "for (");
    put_loop_var(w, s->target);
    text_str(w->out, " = ");
    put_value(w, s->lo);
    text_str(w->out, "; ");
    put_loop_var(w, s->target);
    text_str(w->out, " < ");
    put_value(w, s->hi);
    text_str(w->out, "; ");
    put_loop_var(w, s->target);
    if (s->step == LPV_NONE || (lp_is_const(w->p, s->step, &step) && step == 1)) text_str(w->out, "++");
    else {
        text_str(w->out, " += ");
        put_value(w, s->step);
    }
    text_add(w->out, ")%s", modes[s->mode]);
    if (s->unroll > 1) text_add(w->out, " unroll %u", s->unroll);
    if (s->scalar) text_str(w->out, " one by one");
    if (s->threads) text_add(w->out, " threads %u", s->threads);
    text_str(w->out, " {\n");
    put_block(w, s->body, indent + 1);
    put_indent(w, indent);
    text_str(w->out, "}\n");
}

static void put_if(struct printer *w, const struct lp_stmt *s, uint32_t indent)
{
    text_str(w->out, "if (");
    put_value(w, s->value);
    text_str(w->out, ") {\n");
    put_block(w, s->body, indent + 1);
    put_indent(w, indent);
    if (s->other && s->other->stmts.len) {
        text_str(w->out, "} else {\n");
        put_block(w, s->other, indent + 1);
        put_indent(w, indent);
    }
    text_str(w->out, "}\n");
}

static void put_while(struct printer *w, const struct lp_stmt *s, uint32_t indent)
{
    text_str(w->out, "loop {\n");
    put_block(w, s->body, indent + 1);
    put_indent(w, indent + 1);
    text_str(w->out, "if (!");
    put_value(w, s->value);
    text_str(w->out, ") break;\n");
    put_block(w, s->other, indent + 1);
    put_indent(w, indent);
    text_str(w->out, "}\n");
}

static void put_assign(struct printer *w, const struct lp_stmt *s)
{
    if (s->kind == LP_STORE) put_element(w, s->target, s->index);
    else put_local(w, s->target);
    bool combines = s->kind == LP_ACCUM && s->mode != FOLD_LAST;
    if (combines && s->mode != FOLD_SUM) {
        text_add(w->out, " = %s(", lp_fold_word((enum lp_fold)s->mode));
        put_local(w, s->target);
        text_str(w->out, ", ");
        put_value(w, s->value);
        text_str(w->out, ")");
    } else {
        text_str(w->out, combines ? " += " : " = ");
        put_value(w, s->value);
    }
}

static void put_block(struct printer *w, const struct lp_block *block, uint32_t indent)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_LET && (w->in_place[s->value] || !w->uses[s->value])) continue;
        if (s->note) {
            put_indent(w, indent);
            text_add(w->out, "/* %s */\n", s->note);
        }
        put_indent(w, indent);
        switch ((enum lp_stmt_kind)s->kind) {
        case LP_FOR: put_for(w, s, indent); continue;
        case LP_WHILE: put_while(w, s, indent); continue;
        case LP_IF: put_if(w, s, indent); continue;
        case LP_LET:
            text_add(w->out, "%s v%u = ", dtype_info[lp_dtype(w->p, s->value)].name, s->value);
            put_instr(w, s->value);
            break;
        case LP_CALL: put_call(w, s->call); break;
        case LP_STORE:
        case LP_SET:
        case LP_ACCUM: put_assign(w, s); break;
        }
        text_str(w->out, ";\n");
    }
}

/* ---- the whole ---- */

static void count_use(void *ctx, lpv v)
{
    struct printer *w = ctx;
    if (v >= w->p->instrs.len) return;
    w->uses[v]++;
    w->used_in[v] = w->block;
}

/* First everything that statements other than LET read, then, operands being older than their readers, what
 * those values are made of. */
static void count_uses(struct printer *w, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        w->block = block;
        if (s->kind == LP_LET) w->home[s->value] = block;
        else lp_stmt_uses(w->p, s, count_use, w);
        if (s->kind == LP_WHILE) w->used_in[s->value] = s->body;
        count_uses(w, s->body);
        count_uses(w, s->other);
    }
}

static void count_operands(struct printer *w)
{
    for (lpv v = w->p->instrs.len; v-- > 0;) {
        if (!w->uses[v] || !w->home[v]) continue;
        w->block = w->home[v];
        lp_stmt_uses(w->p, &(struct lp_stmt){ .kind = LP_LET, .value = v }, count_use, w);
    }
}

static void choose_in_place(struct printer *w, const struct lp_block *block)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_LET && s->value < w->p->instrs.len)
            w->in_place[s->value] = lp_class((enum lp_op)w->p->instrs.data[s->value].op) == PURE &&
                                    w->uses[s->value] == 1 && w->used_in[s->value] == block;
        choose_in_place(w, s->body);
        choose_in_place(w, s->other);
    }
}

static void put_buffers(struct printer *w)
{
    for (uint32_t i = 0; i < w->p->buffers.len; i++) {
        const struct lp_buffer *b = &w->p->buffers.data[i];
        text_add(w->out, "%s ", dtype_info[b->dtype].name);
        put_buffer(w, i);
        text_str(w->out, "[");
        if (b->static_count >= 0) text_add(w->out, "%lld", (long long)b->static_count);
        else if (b->kind != BUF_DYN) dim_print(w->p->m, w->p->entry->symbols, b->count, w->out);
        text_add(w->out, "];  /* %s", buffer_kind_text[b->kind]);
        if (b->kind <= BUF_CONST || (b->kind == BUF_DYN && b->index != HOP_NONE))
            text_add(w->out, " %u", b->index);
        if (b->kind == BUF_TEMP && b->last) {
            if (w->p->arena_static) text_add(w->out, " at %lld", (long long)b->offset);
            else text_add(w->out, " in slot %u", b->slot);
        }
        if (b->why && strcmp(b->why, buffer_kind_text[b->kind])) text_add(w->out, ": %s", b->why);
        text_str(w->out, " */\n");
    }
    for (uint32_t i = 0; i < w->p->locals.len; i++) {
        const struct lp_local *l = &w->p->locals.data[i];
        text_add(w->out, "%s%s ", dtype_info[l->dtype].name, l->kind == LOCAL_LANES ? " lanes" : "");
        put_local(w, i);
        text_str(w->out, ";\n");
    }
}

static void print_one(const struct lp *p, struct text *out)
{
    struct printer w = { .p = p, .out = out };
    hop_cleanup_push(arena_free, &w.arena);
    w.uses = ARENA_ZNEW(&w.arena, uint32_t, p->instrs.len);
    w.used_in = ARENA_ZNEW(&w.arena, const struct lp_block *, p->instrs.len);
    w.in_place = ARENA_ZNEW(&w.arena, bool, p->instrs.len);
    w.home = ARENA_ZNEW(&w.arena, const struct lp_block *, p->instrs.len);
    count_uses(&w, p->root);
    count_operands(&w);
    choose_in_place(&w, p->root);
    put_buffers(&w);
    text_str(out, "{\n");
    put_block(&w, p->root, 1);
    text_str(out, "}\n");
    hop_cleanup_pop(&w.arena);
    arena_free(&w.arena);
}

void lp_print(const struct lp *p, struct text *out)
{
    print_one(p, out);
    for (uint32_t i = 0; i < p->procedures.len; i++) {
        text_add(out, "procedure_%u:\n", i);
        print_one(p->procedures.data[i], out);
    }
}
