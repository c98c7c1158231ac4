/* Calls of operators from outside as C99: functions that whoever compiles the text brings, each declared once
 * in the header. A call lays out what the operator is given, as struct hop_operator_call says. */
#include "emit/c99_impl.h"

static void put_indent(struct c99 *e, uint32_t indent) { text_add(e->out, "%*s", (int)(4 * indent), ""); }

static const char *const dtype_code[DT_COUNT] = {
    [DT_BOOL] = "HOP_C_BOOL", [DT_I8] = "HOP_C_I8",   [DT_I16] = "HOP_C_I16",   [DT_I32] = "HOP_C_I32",
    [DT_I64] = "HOP_C_I64",   [DT_U8] = "HOP_C_U8",   [DT_U16] = "HOP_C_U16",   [DT_U32] = "HOP_C_U32",
    [DT_U64] = "HOP_C_U64",   [DT_F16] = "HOP_C_F16", [DT_BF16] = "HOP_C_BF16", [DT_F32] = "HOP_C_F32",
    [DT_F64] = "HOP_C_F64",
};
const char *c99_dtype_code(enum dtype t) { return dtype_code[t]; }

/* ---- names ---- */

const char *c99_operator(const struct c99_unit *unit, const char *name)
{
    for (uint32_t i = 0; i < unit->operators.len; i++)
        if (!strcmp(unit->operators.data[i].name, name)) return unit->operators.data[i].c_name;
    hop_throw(HOP_INTERNAL, "C99: there is no operator '%s'", name);
}

static void put_list(struct c99 *e, const lpv *values, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        if (k) text_str(e->out, ", ");
        c99_put(e, values[k]);
    }
}

/* ---- what it is given ---- */

static enum dtype operand_dtype(const struct c99 *e, const struct lp_operand *o)
{
    if (o->buffer == HOP_NONE) return lp_dtype(e->p, o->value);
    return (enum dtype)e->p->buffers.data[o->buffer].dtype;
}

static void put_dims(struct c99 *e, const struct lp_operand *o, uint32_t k, uint32_t indent)
{
    bool finds = o->use == OPERAND_FOUND;
    put_indent(e, indent);
    text_add(e->out, "%sint64_t hop_d%u[] = { ", finds ? "" : "const ", k);
    for (uint32_t d = 0; d < o->rank; d++) {
        if (d) text_str(e->out, ", ");
        if (finds && o->found[d] != HOP_NONE) text_str(e->out, "-1");
        else c99_put(e, o->dims[d]);
    }
    text_str(e->out, " };\n");
    if (finds) {
        put_indent(e, indent);
        text_add(e->out, "const int hop_f%u[] = { ", k);
        for (uint32_t d = 0; d < o->rank; d++)
            text_add(e->out, "%s%d", d ? ", " : "", o->found[d] == HOP_NONE ? -1 : (int)o->found[d]);
        text_str(e->out, " };\n");
    }
    if (!o->strides) return;
    put_indent(e, indent);
    text_add(e->out, "const int64_t hop_s%u[] = { ", k);
    put_list(e, o->strides, o->rank);
    text_str(e->out, " };\n");
}

/* Scalars, dims and strides: x0, d0, s0. */
static void put_parts(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        if (o->use == OPERAND_ABSENT) continue;
        if (o->rank) put_dims(e, o, k, indent);
        if (o->buffer != HOP_NONE) continue;
        put_indent(e, indent);
        text_add(e->out, "%s hop_x%u = ", c99_type[lp_dtype(e->p, o->value)], k);
        c99_put(e, o->value);
        text_str(e->out, ";\n");
    }
}

static void put_data(struct c99 *e, const struct lp_operand *o, uint32_t k)
{
    if (o->use == OPERAND_ABSENT || o->use == OPERAND_FOUND) text_str(e->out, "NULL");
    else if (o->use == OPERAND_OBJECT) text_add(e->out, "(void *)(intptr_t)hop_x%u", k);
    else if (o->buffer == HOP_NONE) text_add(e->out, "&hop_x%u", k);
    else {
        text_str(e->out, "(void *)(");
        c99_put_pointer(e, o->buffer, o->index);
        text_str(e->out, ")");
    }
}

static void put_arrays(struct c99 *e, const struct lp_call *c, bool finds, uint32_t indent)
{
    put_indent(e, indent);
    text_add(e->out, "%sstruct hop_operator_array hop_given[] = {\n", finds ? "" : "const ");
    for (uint32_t k = 0; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        bool absent = o->use == OPERAND_ABSENT;
        put_indent(e, indent + 1);
        text_str(e->out, "{ ");
        put_data(e, o, k);
        const char *code = absent                     ? "-1"
                           : o->use == OPERAND_OBJECT ? "HOP_C_OBJECT"
                                                      : dtype_code[operand_dtype(e, o)];
        text_add(e->out, ", %s, %u, ", code, o->rank);
        if (absent || !o->rank) text_str(e->out, "NULL, NULL },\n");
        else if (o->strides) text_add(e->out, "hop_d%u, hop_s%u },\n", k, k);
        else text_add(e->out, "hop_d%u, NULL },\n", k);
    }
    if (!c->n_operands) {
        put_indent(e, indent + 1);
        text_str(e->out, "{ NULL, -1, 0, NULL, NULL },\n");
    }
    put_indent(e, indent);
    text_str(e->out, "};\n");
    put_indent(e, indent);
    text_add(e->out, "void *%shop_data[] = { ", finds ? "" : "const ");
    for (uint32_t k = 0; k < c->n_operands; k++) text_add(e->out, "%shop_given[%u].data", k ? ", " : "", k);
    text_str(e->out, c->n_operands ? " };\n" : "NULL };\n");
    put_indent(e, indent);
    text_str(e->out, "const int64_t hop_sizes[] = { ");
    put_list(e, c->sizes, c->n_sizes);
    text_str(e->out, c->n_sizes ? " };\n" : "0 };\n");
}

/* ---- sizes that it finds ---- */

static uint32_t first_result(const struct lp_call *c)
{
    uint32_t k = 0;
    while (k < c->n_operands && c->operands[k].use != OPERAND_WRITTEN && c->operands[k].use != OPERAND_FOUND)
        k++;
    return k;
}

static void put_finding(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    uint32_t first = first_result(c);
    put_indent(e, indent);
    text_str(e->out, "struct hop_c_growing hop_growing[] = {\n");
    for (uint32_t k = first; k < c->n_operands; k++) {
        const struct lp_operand *o = &c->operands[k];
        put_indent(e, indent + 1);
        if (o->use != OPERAND_FOUND) {
            text_str(e->out, "{ NULL, 0, 0, 0, NULL, NULL },\n");
            continue;
        }
        const char *name = e->buffer_name[o->buffer];
        if (e->o->capacity > 0) text_add(e->out, "{ %s, %lld, 1, ", name, (long long)e->o->capacity);
        else text_add(e->out, "{ %s, room_%u, 0, ", name, o->buffer);
        text_add(e->out, "sizeof *%s, hop_d%u, hop_f%u },\n", name, k, k);
    }
    put_indent(e, indent);
    text_str(e->out, "};\n");
    put_indent(e, indent);
    text_add(e->out,
             "struct hop_c_finding hop_finding = { context, hop_given, hop_data, hop_growing, %s, %u, %u, 0, "
             "HOP_C_OK };\n",
             e->buffer_name[c->target], first, c->n_operands - first);
    put_indent(e, indent);
    text_add(e->out, "for (int hop_k = 0; hop_k < %u; hop_k++) %s[hop_k] = -1;\n", c->n_found,
             e->buffer_name[c->target]);
}

static void put_found(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    uint32_t first = first_result(c);
    for (uint32_t k = first; k < c->n_operands && e->o->capacity <= 0; k++) {
        const struct lp_operand *o = &c->operands[k];
        if (o->use != OPERAND_FOUND) continue;
        put_indent(e, indent);
        text_add(e->out, "%s = hop_growing[%u].at;\n", e->buffer_name[o->buffer], k - first);
        put_indent(e, indent);
        text_add(e->out, "room_%u = hop_growing[%u].room;\n", o->buffer, k - first);
    }
}

/* ---- the call ---- */

static void put_counts(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    put_indent(e, indent);
    text_str(e->out, "static const int32_t hop_counts[] = { ");
    for (uint32_t k = 0; k < c->n_counts; k++) text_add(e->out, "%s%d", k ? ", " : "", c->counts[k]);
    text_str(e->out, c->n_counts ? " };\n" : "0 };\n");
}

static void put_failed(struct c99 *e, const struct lp_call *c, bool finds, uint32_t indent)
{
    put_indent(e, indent);
    text_str(e->out, "if (hop_failed) {\n");
    put_indent(e, indent + 1);
    text_str(e->out, "if (context) {\n");
    c99_put_told(e, c, indent + 2);
    put_indent(e, indent + 2);
    text_str(e->out,
             "if (context->failed) context->failed(context->user, context->place, *hop_message ? hop_message "
             ": context->message, 0, NULL);\n");
    put_indent(e, indent + 1);
    text_str(e->out, "}\n");
    put_indent(e, indent + 1);
    c99_put_leave(e, finds ? "hop_finding.status != HOP_C_OK ? hop_finding.status : HOP_C_OPERATOR"
                           : "HOP_C_OPERATOR");
    text_str(e->out, "\n");
    put_indent(e, indent);
    text_str(e->out, "}\n");
}

void c99_put_operator(struct c99 *e, const struct lp_call *c, uint32_t indent)
{
    bool finds = c->n_found > 0;
    const char *name = c99_operator(e->unit, module_text(e->p->m, c->text));
    text_str(e->out, "{\n");
    put_parts(e, c, indent + 1);
    put_arrays(e, c, finds, indent + 1);
    if (finds) put_finding(e, c, indent + 1);
    put_indent(e, indent + 1);
    text_str(e->out, "char hop_message[256] = \"\";\n");
    put_counts(e, c, indent + 1);
    put_indent(e, indent + 1);
    text_add(e->out,
             "struct hop_operator_call hop_call = { context ? context->user : NULL, hop_message, sizeof "
             "hop_message, "
             "hop_given, %u, hop_counts, %u, %s, %s };\n",
             c->n_operands, c->lanes, finds ? c99_helper(e->unit, "find") : "NULL",
             finds ? "&hop_finding" : "NULL");
    put_indent(e, indent + 1);
    text_add(e->out, "%sint hop_failed = %s(&hop_call, hop_data, hop_sizes);\n", finds ? "" : "const ", name);
    if (finds) {
        put_indent(e, indent + 1);
        text_add(e->out, "if (!hop_failed) hop_failed = %s(&hop_finding);\n",
                 c99_helper(e->unit, "all_found"));
        put_found(e, c, indent + 1);
    }
    put_failed(e, c, finds, indent + 1);
    put_indent(e, indent);
    text_str(e->out, "}\n");
}
