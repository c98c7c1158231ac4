/* Statements of a loop program as C99: plain loops that compilers vectorise, checks that leave with a status,
 * calls of the small runtime that the unit carries. A vector loop that keeps lanes runs in blocks of sixteen,
 * so that each lane is an element of an array. */
#include "emit/c99_vector.h"
#include "ir/finite.h"

enum {
    TWICE_WRITTEN = 64
}; /* statements of a loop with lanes whose full blocks and rest are written separately */

static void put_indent(struct c99 *e, uint32_t indent) { text_add(e->out, "%*s", (int)(4 * indent), ""); }

void c99_put_leave(struct c99 *e, const char *status)
{
    if (e->growing) {
        text_add(e->out, "{ status = %s; goto leave; }", status);
        e->left = true;
    } else text_add(e->out, "return %s;", status);
}

/* ---- calls ---- */

/* With fixed room it is not reserving that fails (programs reserve ahead) but the first write behind the end:
 * at + count, or the element at. */
static void put_room(struct c99 *e, uint32_t buffer, lpv at, lpv count, uint32_t indent)
{
    if (e->o->capacity <= 0 || e->p->buffers.data[buffer].kind != BUF_DYN) return;
    text_str(e->out, "if (");
    if (at == LPV_NONE) text_str(e->out, "0");
    else c99_put(e, at);
    if (count != LPV_NONE) {
        text_str(e->out, " + ");
        c99_put(e, count);
    }
    text_add(e->out, count == LPV_NONE ? " >= %lld) " : " > %lld) ", (long long)e->o->capacity);
    c99_put_leave(e, "HOP_C_CAPACITY");
    text_str(e->out, "\n");
    put_indent(e, indent);
}

static void put_gemm(struct c99 *e, const struct lp_call *c)
{
    if (e->o->capacity > 0 && e->p->buffers.data[c->gemm.c].kind == BUF_DYN)
        hop_throw(HOP_INVALID,
                  "a product is written into an array of data-dependent size: emit without --capacity");
    const lpv sizes[] = { c->gemm.m, c->gemm.n, c->gemm.k };
    const uint32_t buffers[] = { c->gemm.a, c->gemm.b, c->gemm.c };
    const lpv at[] = { c->gemm.a_at, c->gemm.b_at, c->gemm.c_at },
              rows[] = { c->gemm.lda, c->gemm.ldb, c->gemm.ldc },
              apart[] = { c->gemm.a_apart, c->gemm.b_apart, c->gemm.c_apart };
    bool single = e->p->buffers.data[c->gemm.c].dtype == DT_F32;
    bool many = c->gemm.batch != LPV_NONE;
    if (many) {
        text_str(e->out, "for (int64_t hop_batch = 0; hop_batch < ");
        c99_put(e, c->gemm.batch);
        text_str(e->out, "; hop_batch++) ");
    }
    text_add(e->out, "%s(%d, %d", c99_product(e->unit, single ? DT_F32 : DT_F64), c->gemm.ta, c->gemm.tb);
    for (uint32_t k = 0; k < 3; k++) {
        text_str(e->out, ", ");
        c99_put(e, sizes[k]);
    }
    for (uint32_t k = 0; k < 3; k++) {
        text_str(e->out, ", ");
        c99_put_pointer(e, buffers[k], at[k]);
        if (many) {
            text_str(e->out, " + hop_batch * (");
            c99_put(e, apart[k]);
            text_str(e->out, ")");
        }
        text_str(e->out, ", ");
        c99_put(e, rows[k]);
    }
    text_add(e->out, ", %d);\n", c->gemm.accumulate);
}

/* The arrays of a check, a print or a callback as a table of struct hop_c_value. */
static void put_shown(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        put_indent(e, indent);
        if (o->buffer == HOP_NONE) {
            text_add(e->out, "const %s hop_x%u = ", c99_type[lp_dtype(e->p, o->value)], k);
            c99_put(e, o->value);
            text_str(e->out, ";\n");
            if (!o->rank) continue;
            put_indent(e, indent);
        }
        text_add(e->out, "const int64_t hop_d%u[] = { ", k);
        for (uint32_t d = 0; d < o->rank; d++) {
            if (d) text_str(e->out, ", ");
            c99_put(e, o->dims[d]);
        }
        text_str(e->out, o->rank ? " };\n" : "0 };\n");
    }
    if (!c->n_operands) return;
    put_indent(e, indent);
    text_str(e->out, "const struct hop_c_value shown[] = { ");
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        bool scalar = o->buffer == HOP_NONE;
        uint8_t dtype = scalar ? (uint8_t)lp_dtype(e->p, o->value) : e->p->buffers.data[o->buffer].dtype;
        text_str(e->out, k ? ", { " : "{ ");
        if (scalar) text_add(e->out, "&hop_x%u", k);
        else c99_put_pointer(e, o->buffer, o->index);
        text_add(e->out, ", %s, %u, ", c99_dtype_code((enum dtype)dtype), o->rank);
        if (scalar && !o->rank) text_str(e->out, "NULL }");
        else text_add(e->out, "hop_d%u }", k);
    }
    text_str(e->out, " };\n");
}

void c99_put_told(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    put_indent(e, indent);
    text_str(e->out, "context->place = ");
    c99_put_string(e->out, place_text(e->p->m, c->place));
    text_str(e->out, ";\n");
    put_indent(e, indent);
    text_str(e->out, "context->message = ");
    const char *text = module_text(e->p->m, c->text), *within = c->within ? c->within : "";
    c99_put_string(e->out, arena_printf(e->out->arena, "%s%s", text, within));
    text_str(e->out, ";\n");
}

static void put_check(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    const char *shown = c->n_operands ? "shown" : "NULL";
    text_str(e->out, "if (!(");
    c99_put(e, c->value);
    text_str(e->out, ")) {\n");
    put_indent(e, indent + 1);
    text_str(e->out, "if (context) {\n");
    c99_put_told(e, c, indent + 2);
    put_indent(e, indent + 2);
    text_str(e->out, "if (context->failed) {\n");
    put_shown(e, c, indent + 3);
    put_indent(e, indent + 3);
    text_add(e->out, "context->failed(context->user, context->place, context->message, %u, %s);\n",
             c->n_operands, shown);
    put_indent(e, indent + 2);
    text_str(e->out, "}\n");
    put_indent(e, indent + 1);
    text_str(e->out, "}\n");
    put_indent(e, indent + 1);
    c99_put_leave(e, "HOP_C_CHECK");
    text_str(e->out, "\n");
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

static void put_made(struct c99 *e, const struct lp_call *c, const struct finite *s, enum finite_made made)
{
    struct text message = { .arena = e->out->arena };
    finite_short(s, made, &message);
    text_str(&message, c->within ? c->within : "");
    c99_put_string(e->out, message.data);
}

static void put_finite(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    struct finite s = finite_read(e->out->arena, module_text(e->p->m, c->text));
    text_str(e->out, "if (!(");
    c99_put(e, c->value);
    text_str(e->out, ")) {\n");
    put_shown(e, c, indent + 1);
    put_indent(e, indent + 1);
    text_add(e->out, "const int made = %s(shown, %u, %d, %u, %d, %d);\n", c99_helper(e->unit, "made"),
             c->n_operands - s.trips, s.masked, s.lanes, s.each, s.infinities);
    put_indent(e, indent + 1);
    text_str(e->out, "if (made && context) {\n");
    put_indent(e, indent + 2);
    text_str(e->out, "context->place = ");
    c99_put_string(e->out, place_text(e->p->m, c->place));
    text_str(e->out, ";\n");
    put_indent(e, indent + 2);
    text_str(e->out, "context->message = made == 1 ? ");
    put_made(e, c, &s, MADE_NAN);
    text_str(e->out, " : ");
    put_made(e, c, &s, MADE_INFINITY);
    text_str(e->out, ";\n");
    put_indent(e, indent + 2);
    text_add(e->out,
             "if (context->failed) context->failed(context->user, context->place, context->message, %u, "
             "shown);\n",
             c->n_operands);
    put_indent(e, indent + 1);
    text_str(e->out, "}\n");
    put_indent(e, indent + 1);
    text_str(e->out, "if (made) ");
    c99_put_leave(e, "HOP_C_CHECK");
    text_str(e->out, "\n");
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

static void put_print(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    text_str(e->out, "if (context && context->print");
    if (c->mask != LPV_NONE) {
        text_str(e->out, " && ");
        c99_put(e, c->mask);
    }
    text_str(e->out, ") {\n");
    put_shown(e, c, indent + 1);
    put_indent(e, indent + 1);
    text_str(e->out, "context->print(context->user, ");
    c99_put_string(e->out, module_text(e->p->m, c->text));
    text_add(e->out, ", %u, %s);\n", c->n_operands, c->n_operands ? "shown" : "NULL");
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

static void put_callback(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    text_str(e->out, "{\n");
    put_shown(e, c, indent + 1);
    put_indent(e, indent + 1);
    text_str(e->out, "if (!context || !context->callback || context->callback(context->user, ");
    c99_put_string(e->out, module_text(e->p->m, c->text));
    text_add(e->out, ", %u, %s)) {\n", c->n_operands, c->n_operands ? "shown" : "NULL");
    put_indent(e, indent + 2);
    text_str(e->out, "if (context) {\n");
    c99_put_told(e, c, indent + 3);
    put_indent(e, indent + 2);
    text_str(e->out, "}\n");
    put_indent(e, indent + 2);
    c99_put_leave(e, "HOP_C_CALLBACK");
    text_str(e->out, "\n");
    put_indent(e, indent + 1);
    text_str(e->out, "}\n");
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

static void put_reserve(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    const char *name = e->buffer_name[c->target];
    text_str(e->out, "if (");
    c99_put(e, c->index);
    text_add(e->out, " > room_%u) {\n", c->target);
    put_indent(e, indent + 1);
    text_add(e->out, "void *const grown = %s(context, %s, &room_%u, ", c99_helper(e->unit, "grow"), name,
             c->target);
    c99_put(e, c->index);
    text_add(e->out, ", sizeof *%s);\n", name);
    put_indent(e, indent + 1);
    text_str(e->out, "if (!grown) ");
    c99_put_leave(e, "HOP_C_NOMEM");
    text_str(e->out, "\n");
    put_indent(e, indent + 1);
    text_add(e->out, "%s = grown;\n", name);
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

static void put_copy(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    put_room(e, c->target, c->lo, c->count, indent);
    text_str(e->out, "if (");
    c99_put(e, c->count);
    if (c->kind == CALL_COPY) {
        text_str(e->out, " > 0) memmove(");
        c99_put_pointer(e, c->target, c->lo);
        text_str(e->out, ", ");
        c99_put_pointer(e, c->source, c->index);
    } else { /* an element's address: of an array gcc takes some numbers of bytes for numbers of elements */
        text_add(e->out, " > 0) memset(&%s[", e->buffer_name[c->target]);
        if (c->lo == LPV_NONE) text_str(e->out, "0");
        else c99_put(e, c->lo);
        text_str(e->out, "], 0");
    }
    text_str(e->out, ", (size_t)");
    c99_put(e, c->count);
    text_add(e->out, " * sizeof(%s));\n", c99_type[e->p->buffers.data[c->target].dtype]);
}

static void put_procedure(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    const char *comma = "";
    text_str(e->out, "{\n");
    put_indent(e, indent + 1);
    text_add(e->out, "const int hop_part_status = %s(", e->parts[c->target].name);
    for (uint32_t s = 0; s < e->f->n_outer_symbols; s++) {
        text_add(e->out, "%s%s", comma, e->symbol_name[s]);
        comma = ", ";
    }
    for (uint32_t k = 0; k < c->n_operands; k++) {
        if (!c99_takes(&e->parts[c->target], k)) continue;
        text_str(e->out, comma);
        c99_put_pointer(e, c->operands[k].buffer, c->operands[k].index);
        comma = ", ";
    }
    if (e->context) text_add(e->out, "%scontext", comma);
    text_str(e->out, ");\n");
    put_indent(e, indent + 1);
    text_str(e->out, "if (hop_part_status != HOP_C_OK) ");
    c99_put_leave(e, "hop_part_status");
    text_str(e->out, "\n");
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

static void put_call(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    switch ((enum lp_call_kind)c->kind) {
    case CALL_GEMM: put_gemm(e, c); return;
    case CALL_CHECK: put_check(e, c, indent); return;
    case CALL_FINITE: put_finite(e, c, indent); return;
    case CALL_PRINT: put_print(e, c, indent); return;
    case CALL_OPERATOR:
        if (c->declared) c99_put_operator(e, c, indent);
        else put_callback(e, c, indent);
        return;
    case CALL_RESERVE: put_reserve(e, c, indent); return;
    case CALL_PROCEDURE: put_procedure(e, c, indent); return;
    case CALL_SETDIM:
        text_add(e->out, "%s = ", e->symbol_name[c->target]);
        c99_put(e, c->value);
        text_str(e->out, ";\n");
        return;
    case CALL_COPY:
    case CALL_ZERO: put_copy(e, c, indent); return;
    case CALL_EXCHANGE:
    case CALL_WAIT:
        hop_throw(HOP_UNAVAILABLE,
                  "%s%s: emitted C has no ranks; the program runs with 'hop run', in C and in Python",
                  place_text(e->p->m, c->place), module_text(e->p->m, c->text));
    case CALL_DROP: break; /* lp_keep_in_memory leaves none */
    case CALL_CONV:
    case CALL_PACK: break; /* nor does plain_products leave these */
    case CALL_MARK:
    case CALL_COUNT: break; /* emitted C is not profiled */
    }
    hop_throw(HOP_INTERNAL, "C99: a call of kind %d", c->kind);
}

/* ---- loops ---- */

/* Does a block touch lanes outside of the vector loops in it? `n` counts its statements. */
static bool touches_lanes(const struct c99 *e, const struct lp_block *block, uint32_t *n)
{
    bool any = false;
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        bool plain = s->kind == LP_LET || s->kind == LP_STORE || s->kind == LP_SET || s->kind == LP_ACCUM;
        *n += plain ? 1 : TWICE_WRITTEN;
        uint32_t local = lp_local_touched(e->p, s);
        any |= lp_has_lanes(e->p, local) && e->local_read[local];
        bool vector = s->kind == LP_FOR && s->mode == FOR_VECTOR;
        any |= !vector && touches_lanes(e, s->body, n);
        any |= touches_lanes(e, s->other, n);
    }
    return any;
}

static void put_poll(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    if (!s->poll || !e->context) return;
    put_indent(e, indent);
    text_str(e->out, "if (context && context->cancel && *context->cancel) ");
    c99_put_leave(e, "HOP_C_CANCELLED");
    text_str(e->out, "\n");
}

static void close_brace(struct c99 *e, uint32_t indent)
{
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

/* Directives stand at the beginning of a line; the indentation of a statement has been written already. */
static void open_guard(struct c99 *e, bool widest, uint32_t indent)
{
    text_add(e->out, "\n#if %s\n", c99_guard(widest));
    put_indent(e, indent);
}
static void other_guard(struct c99 *e, uint32_t indent)
{
    text_str(e->out, "#else\n");
    put_indent(e, indent);
}

static void put_lane_body(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    if (e->var_used[s->target]) {
        put_indent(e, indent + 1);
        text_add(e->out, "const int64_t i_%u = base_%u + l_%u;\n", s->target, s->target, s->target);
    }
    c99_put_block(e, s->body, indent + 1);
    close_brace(e, indent);
}

enum lane_form {
    LANES_WHOLE, /* the number of iterations is known to be a multiple of sixteen */
    LANES_TWICE, /* full blocks, then the rest: the body is written twice */
    LANES_SHORT  /* blocks of sixteen or what is left */
};

static enum lane_form lane_form(const struct c99 *e, const struct lp_stmt *s, uint32_t n_statements)
{
    int64_t lo, hi;
    bool known = lp_is_const(e->p, s->lo, &lo) && lp_is_const(e->p, s->hi, &hi);
    if (known && hi > lo && (hi - lo) % LP_STRICT_LANES == 0) return LANES_WHOLE;
    return n_statements <= TWICE_WRITTEN ? LANES_TWICE : LANES_SHORT;
}

/* Blocks of sixteen iterations, lane l being iteration l of each. */
static void put_lane_loop(struct c99 *e, const struct lp_stmt *s, uint32_t indent, enum lane_form form)
{
    uint32_t t = s->target;
    text_str(e->out, "{\n");
    put_indent(e, indent + 1);
    text_add(e->out, "int64_t base_%u = ", t);
    c99_put(e, s->lo);
    text_str(e->out, ";\n");
    put_indent(e, indent + 1);
    text_add(e->out, "for (; base_%u%s < ", t, form == LANES_TWICE ? " + 15" : "");
    c99_put(e, s->hi);
    text_add(e->out, "; base_%u += 16) {\n", t);
    put_indent(e, indent + 2);
    if (form == LANES_SHORT) {
        text_add(e->out, "const int64_t rest_%u = ", t);
        c99_put(e, s->hi);
        text_add(e->out, " - base_%u, n_%u = rest_%u < 16 ? rest_%u : 16;\n", t, t, t, t);
        put_indent(e, indent + 2);
        text_add(e->out, "$vector for (int64_t l_%u = 0; l_%u < n_%u; l_%u++) {\n", t, t, t, t);
    } else text_add(e->out, "$vector for (int64_t l_%u = 0; l_%u < 16; l_%u++) {\n", t, t, t);
    put_lane_body(e, s, indent + 2);
    close_brace(e, indent + 1);
    if (form == LANES_TWICE) {
        put_indent(e, indent + 1);
        text_add(e->out, "$vector for (int64_t l_%u = 0; base_%u + l_%u < ", t, t, t);
        c99_put(e, s->hi);
        text_add(e->out, "; l_%u++) {\n", t);
        put_lane_body(e, s, indent + 1);
    }
    close_brace(e, indent);
}

static bool has_unit_step(const struct c99 *e, const struct lp_stmt *s)
{
    int64_t step;
    return s->step == LPV_NONE || (lp_is_const(e->p, s->step, &step) && step == 1);
}

static void put_plain_loop(struct c99 *e, const struct lp_stmt *s, uint32_t indent, bool lanes)
{
    uint32_t t = s->target;
    if (lanes) {
        text_add(e->out, "{\n%*sint64_t l_%u = 0;\n", (int)(4 * (indent + 1)), "", t);
        put_indent(e, ++indent);
    }
    text_add(e->out, "%sfor (int64_t i_%u = ", s->mode == FOR_VECTOR && !lanes ? "$vector " : "", t);
    c99_put(e, s->lo);
    text_add(e->out, "; i_%u < ", t);
    c99_put(e, s->hi);
    if (has_unit_step(e, s)) {
        text_add(e->out, "; i_%u++) {\n", t);
    } else {
        text_add(e->out, "; i_%u += ", t);
        c99_put(e, s->step);
        text_str(e->out, ") {\n");
    }
    c99_put_block(e, s->body, indent + 1);
    if (lanes) text_add(e->out, "%*sl_%u = (l_%u + 1) %% 16;\n", (int)(4 * (indent + 1)), "", t, t);
    put_poll(e, s, indent + 1);
    close_brace(e, indent);
    if (lanes) close_brace(e, indent - 1);
}

static void put_scalar_for(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    uint32_t outer = e->lane_loop;
    uint32_t n = 0;
    bool lanes = s->mode == FOR_VECTOR && touches_lanes(e, s->body, &n);
    if (lanes) e->lane_loop = s->target;
    if (lanes && has_unit_step(e, s) && !s->poll) put_lane_loop(e, s, indent, lane_form(e, s, n));
    else put_plain_loop(e, s, indent, lanes);
    e->lane_loop = outer;
}

/* In vector types where there are some, and plainly. */
static void put_for(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    const struct c99_loop *l = &e->vectors->loops[s->target];
    if (!l->wide) {
        put_scalar_for(e, s, indent);
        return;
    }
    open_guard(e, l->strict || l->short_rows, indent);
    c99_put_wide_loop(e, s, indent);
    other_guard(e, indent);
    put_scalar_for(e, s, indent);
    text_str(e->out, "#endif\n");
}

static void put_while(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    text_str(e->out, "for (;;) {\n");
    c99_put_block(e, s->body, indent + 1);
    put_indent(e, indent + 1);
    text_str(e->out, "if (!(");
    c99_put(e, s->value);
    text_str(e->out, ")) break;\n");
    c99_put_block(e, s->other, indent + 1);
    put_poll(e, s, indent + 1);
    close_brace(e, indent);
}

static void put_if(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    text_str(e->out, "if (");
    c99_put(e, s->value);
    text_str(e->out, ") {\n");
    c99_put_block(e, s->body, indent + 1);
    if (s->other && s->other->stmts.len) {
        put_indent(e, indent);
        text_str(e->out, "} else {\n");
        c99_put_block(e, s->other, indent + 1);
    }
    close_brace(e, indent);
}

/* ---- assignments ---- */

static void put_lanes_set(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    bool vectors = e->vectors->locals[s->target].wide;
    if (vectors) {
        open_guard(e, e->vectors->locals[s->target].strict, indent);
        c99_put_accumulators_set(e, s->target, s->value);
        other_guard(e, indent);
    }
    text_add(e->out, "for (int j = 0; j < 16; j++) s_%u[j] = ", s->target);
    c99_put(e, s->value);
    text_str(e->out, vectors ? ";\n#endif\n" : ";\n");
}

/* The lanes of a local, combined. */
static void put_lanes_fold(struct c99 *e, lpv v, uint32_t indent)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    uint32_t local = (uint32_t)i->imm;
    if (e->vectors->locals[local].wide) {
        open_guard(e, e->vectors->locals[local].strict, indent);
        text_add(e->out, "const %s v_%u = ", c99_value[i->dtype], v);
        c99_put_accumulators_fold(e, local, (enum lp_fold)i->b);
        text_str(e->out, ";\n");
        other_guard(e, indent);
    }
    text_add(e->out, "const %s v_%u = ", c99_value[i->dtype], v);
    c99_put_definition(e, v);
    text_str(e->out, e->vectors->locals[local].wide ? ";\n#endif\n" : ";\n");
}

static void put_first_of(struct c99 *e, lpv v, const char *value, const char *position)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    text_add(e->out, "if ((%s == ", value);
    c99_put(e, i->a);
    if (dtype_is_float(lp_dtype(e->p, i->a))) text_add(e->out, " || %s != %s", value, value);
    text_add(e->out, ") && %s < v_%u) v_%u = %s;\n", position, v, v, position);
}

/* The least position in a lane that holds the value. */
static void put_lanes_first(struct c99 *e, lpv v, uint32_t indent)
{
    const struct lp_instr *i = &e->p->instrs.data[v];
    uint32_t values = (uint32_t)i->imm;
    bool vectors = e->vectors->locals[values].wide;
    text_add(e->out, "%s v_%u = %s;\n", c99_value[i->dtype], v,
             i->dtype == DT_I32 ? "INT32_MAX" : "INT64_MAX");
    put_indent(e, indent);
    if (vectors) {
        open_guard(e, e->vectors->locals[values].strict, indent);
        c99_put_accumulators_first(e, v, indent);
        other_guard(e, indent);
    }
    text_str(e->out, "for (int j = 0; j < 16; j++) ");
    put_first_of(e, v, arena_printf(e->arena, "s_%u[j]", values), arena_printf(e->arena, "s_%u[j]", i->b));
    if (vectors) text_str(e->out, "#endif\n");
}

static void put_assignment(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    const struct lp_local *l = s->kind == LP_STORE ? NULL : &e->p->locals.data[s->target];
    if (s->kind == LP_SET && l->kind == LOCAL_LANES) {
        put_lanes_set(e, s, indent);
        return;
    }
    if (s->kind == LP_STORE) {
        put_room(e, s->target, s->index, LPV_NONE, indent);
        c99_put_element(e, s->target, s->index);
        text_str(e->out, " = ");
        if (dtype_info[e->p->buffers.data[s->target].dtype].size < 4)
            text_add(e->out, "(%s)", c99_type[e->p->buffers.data[s->target].dtype]);
        c99_put(e, s->value);
    } else if (s->kind == LP_ACCUM) {
        c99_put_lane(e, s->target);
        text_str(e->out, " = ");
        c99_put_fold(e, (enum lp_fold)s->mode, (enum dtype)l->dtype, c99_put_lane, s->target, s->value);
    } else {
        text_add(e->out, "s_%u = ", s->target);
        c99_put(e, s->value);
    }
    text_str(e->out, ";\n");
}

static void put_note(struct c99 *e, const char *note, uint32_t indent)
{
    put_indent(e, indent);
    text_str(e->out, "/* ");
    c99_put_comment(e->out, note);
    text_str(e->out, " */\n");
}

void c99_put_stmt(struct c99 *e, const struct lp_stmt *s, uint32_t indent)
{
    if (s->note) put_note(e, s->note, indent);
    put_indent(e, indent);
    switch ((enum lp_stmt_kind)s->kind) {
    case LP_FOR: put_for(e, s, indent); break;
    case LP_WHILE: put_while(e, s, indent); break;
    case LP_IF: put_if(e, s, indent); break;
    case LP_CALL: put_call(e, s->call, indent); break;
    case LP_LET:
        if (e->p->instrs.data[s->value].op == LP_FOLD) {
            put_lanes_fold(e, s->value, indent);
            break;
        }
        if (e->p->instrs.data[s->value].op == LP_FIRST) {
            put_lanes_first(e, s->value, indent);
            break;
        }
        text_add(e->out, "const %s v_%u = ", c99_value[lp_dtype(e->p, s->value)], s->value);
        c99_put_definition(e, s->value);
        text_str(e->out, ";\n");
        break;
    case LP_STORE:
    case LP_SET:
    case LP_ACCUM: put_assignment(e, s, indent); break;
    }
}

void c99_put_block(struct c99 *e, const struct lp_block *block, uint32_t indent)
{
    for (uint32_t i = 0; block && i < block->stmts.len; i++) {
        const struct lp_stmt *s = &block->stmts.data[i];
        if (s->kind == LP_LET && (e->in_place[s->value] || !e->uses[s->value])) continue;
        if (!c99_is_dead(e, s)) c99_put_stmt(e, s, indent);
    }
}
