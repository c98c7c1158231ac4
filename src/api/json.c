/* A function as JSON, for programs that walk it: engines that translate a body into something else. Values
 * are numbers, parameters first; types, sizes and strings are texts as the text form has them. */
#include "api/api.h"
#include "ir/named.h"
#include "ir/text.h"

struct json {
    struct module *m;
    struct text out;
};

static void put_fn(struct json *j, uint32_t id);

static void put_dim(struct json *j, const struct fn *f, dim d)
{
    if (dim_is_const(j->m, d)) {
        text_add(&j->out, "%lld", (long long)dim_const_value(j->m, d));
        return;
    }
    struct text name = { .arena = j->out.arena };
    dim_print(j->m, f->symbols, d, &name);
    json_string(&j->out, name.data);
}

static void put_type(struct json *j, const struct fn *f, type_id t)
{
    struct text name = { .arena = j->out.arena };
    type_print(j->m, f->symbols, t, &name);
    json_string(&j->out, name.data);
}

/* Infinities and NaN, which JSON does not have, are texts. */
static void put_number(struct json *j, double v)
{
    char number[40];
    if (v - v != 0) {
        text_str(&j->out, v != v ? "\"nan\"" : v > 0 ? "\"inf\"" : "\"-inf\"");
        return;
    }
    snprintf(number, sizeof number, "%.17g", v);
    for (char *p = number; *p; p++)
        if (*p == ',') *p = '.'; /* a locale's decimal point */
    text_str(&j->out, number);
}

/* Bytes as they lie in memory, two digits each. */
static void put_constant(struct json *j, const struct fn *f, const struct constant *c)
{
    static const char digits[] = "0123456789abcdef";
    text_str(&j->out, "{\"type\": ");
    put_type(j, f, c->type);
    text_str(&j->out, ", \"hex\": \"");
    for (size_t i = 0; i < c->bytes; i++) {
        uint8_t byte = ((const uint8_t *)c->data)[i];
        text_bytes(&j->out, (const char[2]){ digits[byte >> 4], digits[byte & 15] }, 2);
    }
    text_str(&j->out, "\"}");
}

static void put_attr(struct json *j, const struct fn *f, const struct attr_spec *spec, const struct attr *a)
{
    struct text *out = &j->out;
    switch (a->kind) {
    case ATTR_FLAG: text_str(out, a->i ? "true" : "false"); break;
    case ATTR_INT: text_add(out, "%lld", (long long)a->i); break;
    case ATTR_REAL: put_number(j, a->r); break;
    case ATTR_DIM: put_dim(j, f, (dim)a->i); break;
    case ATTR_DTYPE: json_string(out, dtype_info[a->i].name); break;
    case ATTR_STRING: json_string(out, module_text(j->m, (uint32_t)a->i)); break;
    case ATTR_CONST: put_constant(j, f, &j->m->constants.data[a->i]); break;
    case ATTR_WORD: json_string(out, spec->words[a->i]); break;
    case ATTR_FN: put_fn(j, (uint32_t)a->i); break;
    case ATTR_NAMED: {
        struct text text = { .arena = out->arena };
        named_print(j->m, a, &text);
        json_string(out, text.data ? text.data : "");
        break;
    }
    default:
        text_str(out, "[");
        for (uint32_t i = 0; i < a->n; i++) {
            text_str(out, i ? ", " : "");
            if (a->kind == ATTR_DIMS) put_dim(j, f, a->list[i]);
            else text_add(out, "%d", (int)(int32_t)a->list[i]);
        }
        text_str(out, "]");
    }
}

static void put_numbers(struct json *j, const val *list, uint32_t n)
{
    text_str(&j->out, "[");
    for (uint32_t i = 0; i < n; i++) text_add(&j->out, i ? ", %u" : "%u", list[i]);
    text_str(&j->out, "]");
}

/* A body, its own operands, and what its sizes are around it. */
static void put_body(struct json *j, const struct fn *f, const struct node *n, uint32_t r)
{
    const struct region *region = node_region(f, n, r);
    const struct fn *body = module_fn(j->m, region->fn);
    text_str(&j->out, "{\"operands\": ");
    put_numbers(j, node_region_operands(f, n, r), region->n_operands);
    text_str(&j->out, ", \"sizes\": {");
    for (uint32_t i = 0; i < region->n_dims; i++) {
        text_str(&j->out, i ? ", " : "");
        json_string(&j->out, module_text(j->m, body->symbols[i].name));
        text_str(&j->out, ": ");
        put_dim(j, f, region->dims[i]);
    }
    text_str(&j->out, "}, \"function\": ");
    put_fn(j, region->fn);
    text_str(&j->out, "}");
}

/* "file:line:col" */
static void put_place(struct json *j, struct place place)
{
    const char *text = place_text_in(j->out.arena, j->m, place);
    size_t n = strlen(text);
    json_string(&j->out, n > 2 ? arena_string(j->out.arena, text, n - 2) : "");
}

static void put_node(struct json *j, const struct fn *f, const struct node *n)
{
    const struct op_row *row = node_row(n);
    uint32_t own = n->n_operands;
    text_str(&j->out, "{\"op\": ");
    json_string(&j->out, row->name);
    text_str(&j->out, ", \"attributes\": {");
    for (uint32_t k = 0, some = 0; k < row->sig.n_attrs; k++) {
        const struct attr *a = node_attr(f, n, k);
        if (a->kind == ATTR_ABSENT) continue;
        text_str(&j->out, some++ ? ", " : "");
        json_string(&j->out, row->sig.attrs[k].name);
        text_str(&j->out, ": ");
        put_attr(j, f, &row->sig.attrs[k], a);
    }
    for (uint32_t r = 0; r < n->n_regions; r++) own -= node_region(f, n, r)->n_operands;
    text_str(&j->out, "}, \"operands\": ");
    put_numbers(j, node_operands(f, n), own);
    if (row->sig.n_groups) {
        text_str(&j->out, ", \"groups\": ");
        put_numbers(j, f->pool + n->groups, row->sig.n_groups);
    }
    text_str(&j->out, ", \"results\": [");
    for (uint32_t k = 0; k < n->n_results; k++) text_add(&j->out, k ? ", %u" : "%u", n->results + k);
    text_str(&j->out, "], \"types\": [");
    for (uint32_t k = 0; k < n->n_results; k++) {
        text_str(&j->out, k ? ", " : "");
        put_type(j, f, value_type(f, n->results + k));
    }
    text_str(&j->out, "], \"bodies\": [");
    for (uint32_t r = 0; r < n->n_regions; r++) {
        text_str(&j->out, r ? ", " : "");
        put_body(j, f, n, r);
    }
    text_str(&j->out, "], \"place\": ");
    put_place(j, n->place);
    text_str(&j->out, "}");
}

static void put_fn(struct json *j, uint32_t id)
{
    const struct fn *f = module_fn(j->m, id);
    hop_check_stack();
    text_str(&j->out, "{\"name\": ");
    json_string(&j->out, module_text(j->m, fn_label(f)));
    text_str(&j->out, ", \"params\": [");
    for (uint32_t p = 0; p < f->n_params; p++) {
        text_str(&j->out, p ? ", {\"name\": " : "{\"name\": ");
        json_string(&j->out, module_text(j->m, f->values[p].name));
        text_str(&j->out, ", \"type\": ");
        put_type(j, f, value_type(f, p));
        text_str(&j->out, "}");
    }
    text_str(&j->out, "], \"nodes\": [");
    for (uint32_t k = 0; k < f->n_nodes; k++) {
        text_str(&j->out, k ? ",\n" : "\n");
        put_node(j, f, fn_node(f, k));
    }
    text_str(&j->out, "], \"results\": ");
    put_numbers(j, f->results, f->n_results);
    text_str(&j->out, "}");
}

/* ---- the edge ---- */

struct json_args {
    char **out;
    hop_fn *f;
};

static void unlock_module(void *shared) { pthread_mutex_unlock(&((struct shared_module *)shared)->lock); }

static void do_json(void *args)
{
    const struct json_args *a = args;
    check_place(a->out, "json");
    struct hop_fn *f = check_fn(a->f, "json");
    struct arena arena = { 0 };
    struct json j = { f->shared->m, { .arena = &arena } };
    module_lock(f->shared);
    hop_cleanup_push(unlock_module, f->shared);
    hop_cleanup_push(arena_free, &arena);
    put_fn(&j, f->fn);
    *a->out = text_given(&j.out);
    hop_cleanup_pop(&arena);
    arena_free(&arena);
    hop_cleanup_pop(f->shared);
    unlock_module(f->shared);
}

hop_status hop_fn_json(char **out, hop_fn *f)
{
    struct json_args a = { out, f };
    return api_edge(do_json, &a);
}
