/* hop ops --markdown: the reference of operators as a page of documentation. Everything on it comes from the
 * table: what rows say of themselves, and what their samples show when they are read in other dtypes and run
 * on the interpreter. The page is the same on every machine. */
#include "cli/cli.h"

#include <ctype.h>
#include <math.h>

/* ---- signatures ---- */

static const char *const attr_kinds[] = {
    [ATTR_FLAG] = "flag",      [ATTR_INT] = "integer",
    [ATTR_REAL] = "number",    [ATTR_INTS] = "list of integers",
    [ATTR_DIM] = "size",       [ATTR_DIMS] = "list of sizes",
    [ATTR_DTYPE] = "dtype",    [ATTR_STRING] = "string",
    [ATTR_CONST] = "constant", [ATTR_WORD] = "word",
    [ATTR_FN] = "function",    [ATTR_NAMED] = "any others",
    [ATTR_SCALAR] = "number",
};

/* "%x, %y" for two operands, "%x, …" for any number; what may be left out in brackets. */
static void operand_list(struct text *out, uint32_t least, uint32_t most)
{
    static const char *const names[] = { "%x", "%y", "%z", "%u", "%v", "%w" };
    uint32_t n = most == MANY ? least : most;
    bool open = false;
    for (uint32_t i = 0; i < n && i < HOP_COUNT(names); i++) {
        open |= i == least;
        text_add(out, "%s%s%s", i == least ? "[" : "", i ? ", " : "", names[i]);
    }
    bool more = most == MANY || n > HOP_COUNT(names);
    if (more) text_str(out, n ? ", …" : "…");
    if (open) text_str(out, "]");
}

static void region_text(struct text *out, const struct sig_region *region)
{
    text_add(out, "%s%swith(…) { …", region->word, *region->word ? " " : "");
    for (int k = 0; k < 3 && region->results[k]; k++) text_add(out, " %s(…)", region->results[k]);
    text_str(out, " }");
}

/* The way a node is written, "%… = scan {…} carry(%c = %…) over(%x in %…) with(…) { … next(…) stack(…) }". */
static void signature_text(struct text *out, const struct op_row *row)
{
    const struct signature *sig = &row->sig;
    text_add(out, "%s", row->name);
    if (sig->n_attrs) {
        uint32_t required = 0;
        text_str(out, " {");
        for (uint32_t i = 0; i < sig->n_attrs; i++)
            if (sig->attrs[i].required) text_add(out, "%s%s = …", required++ ? ", " : "", sig->attrs[i].name);
        if (required < sig->n_attrs) text_str(out, required ? ", …" : "…");
        text_str(out, "}");
    }
    if (!(row->flags & OPF_HIGHER)) {
        text_str(out, sig->n_attrs ? " (" : "(");
        operand_list(out, sig->min_operands, sig->max_operands);
        text_str(out, ")");
        return;
    }
    for (uint32_t g = 0; g < sig->n_groups; g++) {
        static const char *const binders[] = {
            [GROUP_PLAIN] = "%…",      [GROUP_CARRY] = "%c = %…",       [GROUP_OVER] = "%x in %…",
            [GROUP_START] = "%i = %…", [GROUP_PAIR] = "(%l, %r) in %…", [GROUP_PART] = "%p = %…"
        };
        const char *binder = sig->groups[g].kind < HOP_COUNT(binders) ? binders[sig->groups[g].kind] : "%…";
        text_add(out, "%s%s(%s)", *sig->groups[g].word ? " " : "", sig->groups[g].word, binder);
    }
    if (sig->max_regions == MANY) {
        text_str(out, " [(…) { …");
        for (int k = 0; k < 3 && sig->regions[0].results[k]; k++)
            text_add(out, " %s(…)", sig->regions[0].results[k]);
        text_str(out, " }, …]");
        return;
    }
    for (uint32_t r = 0; r < sig->max_regions; r++) {
        text_str(out, " ");
        region_text(out, &sig->regions[r]);
    }
}

static void attributes_text(struct text *out, const struct op_row *row)
{
    if (!row->sig.n_attrs) return;
    text_str(out, "| attribute | | |\n|---|---|---|\n");
    for (uint32_t i = 0; i < row->sig.n_attrs; i++) {
        const struct attr_spec *spec = &row->sig.attrs[i];
        text_add(out, "| `%s` | ", spec->name);
        if (spec->words) {
            for (uint32_t w = 0; spec->words[w]; w++)
                text_add(out, "%s`%s`", w ? " or " : "", spec->words[w]);
        } else {
            const char *kind = spec->kind < HOP_COUNT(attr_kinds) ? attr_kinds[spec->kind] : NULL;
            text_str(out, kind ? kind : "");
        }
        text_add(out, " | %s |\n", spec->required ? "required" : "may be left out");
    }
    text_str(out, "\n");
}

/* ---- dtypes ---- */

/* The text with one dtype in place of another; NULL when it does not mention it. */
static const char *retyped(struct arena *a, const char *text, const char *from, const char *to)
{
    struct text out = { .arena = a };
    size_t n = strlen(from);
    bool any = false;
    for (const char *at = text; *at;) {
        bool starts = at == text || !(isalnum((unsigned char)at[-1]) || strchr("_@%", at[-1]));
        if (starts && !strncmp(at, from, n) && !isalnum((unsigned char)at[n]) && at[n] != '_') {
            text_str(&out, to);
            at += n;
            any = true;
        } else {
            text_add(&out, "%c", *at++);
        }
    }
    return any ? out.data : NULL;
}

static struct module *sample_read(const char *text)
{
    struct hop_catch caught;
    if (!HOP_TRY(caught)) return NULL;
    struct module *m = text_read("sample", text, strlen(text));
    hop_catch_end(&caught);
    return m;
}

/* Does a node of the operator in this program take the dtype, or if `gives` give it? Of a composite nothing
 * is left to look at. */
static bool has_dtype(const struct module *m, const struct op_row *row, enum dtype t, bool gives)
{
    for (uint32_t i = 0; i < m->fns.len; i++) {
        const struct fn *f = m->fns.data[i];
        for (uint32_t k = 0; f && k < f->n_nodes; k++) {
            const struct node *n = &f->nodes[k];
            if (node_row(n) != row) continue;
            for (uint32_t o = 0; o < n->n_operands; o++)
                if (type_get(m, value_type(f, node_operands(f, n)[o])).dtype == t) return true;
            for (uint32_t r = 0; gives && r < n->n_results; r++)
                if (type_get(m, value_type(f, n->results + r)).dtype == t) return true;
        }
    }
    return row->expand;
}

/* Can the sample be read with one dtype in place of another, and does the operator meet it? */
static bool takes_dtype(struct arena *a, const struct op_row *row, const char *sample, enum dtype from,
                        enum dtype to)
{
    const char *text = retyped(a, sample, dtype_info[from].name, dtype_info[to].name);
    struct module *m = text ? sample_read(text) : NULL;
    bool takes = m &&
                 has_dtype(m, row, to,
                           from != to || !row->sig.max_operands); /* the bool of a comparison says nothing */
    module_free(m);
    return takes;
}

/* Whole kinds by their names. */
static void dtypes_text(struct text *out, const struct op_row *row)
{
    static const char *const kinds[] = { [KIND_BOOL] = "bool",
                                         [KIND_INT] = "signed integers",
                                         [KIND_UINT] = "unsigned integers",
                                         [KIND_FLOAT] = "floats" };
    bool takes[DT_COUNT] = { 0 }, whole[HOP_COUNT(kinds)], said[HOP_COUNT(kinds)] = { 0 }, all = true;
    struct text list = { .arena = out->arena };
    if (row->flags & OPF_HIGHER) return; /* its bodies decide */
    for (size_t k = 0; k < HOP_COUNT(kinds); k++) whole[k] = true;
    for (int t = 0; t < DT_COUNT; t++) {
        for (uint32_t s = 0; s < row->n_samples && !takes[t]; s++)
            for (int from = 0; from < DT_COUNT && !takes[t]; from++)
                takes[t] = takes_dtype(out->arena, row, row->samples[s].text, (enum dtype)from,
                                       (enum dtype)t);
        whole[dtype_info[t].kind] &= takes[t];
        all &= takes[t];
    }
    for (int t = 0; t < DT_COUNT; t++) {
        uint8_t kind = dtype_info[t].kind;
        if (!takes[t] || said[kind]) continue;
        text_add(&list, "%s%s", list.len ? ", " : "", whole[kind] ? kinds[kind] : dtype_info[t].name);
        said[kind] = whole[kind];
    }
    const char *named = list.data ? list.data : "none";
    text_add(out, "- dtypes: %s\n", all ? "all" : named);
}

/* ---- rules ---- */

static void rules_text(struct text *out, const struct op_row *row)
{
    if (row->flags & OPF_HIGHER)
        text_str(
            out,
            "- higher-order: gradients, forward derivatives, batching and native code by rules of its own\n");
    else if (row->expand)
        text_str(out, "- composite: it is replaced by others as soon as it is made, and has their rules\n");
    if (row->axis_attr)
        text_str(out,
                 "- along a named axis: batched over it, it becomes operators on the array of all lanes\n");
    if (row->no_gradient) text_add(out, "- no gradient: %s\n", row->no_gradient);
    if (row->flags & OPF_ELEMENTWISE)
        text_str(out, "- elementwise: operands and result have the same sizes\n");
    if (row->flags & OPF_COMMUTES) text_str(out, "- operands may be swapped\n");
    if (row->effect & EFFECT_CHECK || row->check_attr)
        text_add(out, "- may end the run%s%s%s\n", row->check_attr ? ", when `" : "",
                 row->check_attr ? row->sig.attrs[row->check_attr - 1].name : "",
                 row->check_attr ? "` is given" : "");
    if (row->effect & EFFECT_IO)
        text_str(out, "- visible outside: keeps its place in the order of effects\n");
    if (row->flags & OPF_NO_MERGE) text_str(out, "- nothing is merged or moved across it\n");
}

/* ---- samples ---- */

struct shown {
    struct module *m;
    const struct fn *f;
    struct tensor **args;
    struct sample_sizes sizes;
    struct outcome outcome;
    int64_t elements; /* of arguments and results together; 0 when one of them is empty */
};

/* Short numbers, where the sample's range has them. */
static void round_arguments(struct tensor **args, uint32_t n)
{
    for (uint32_t p = 0; p < n; p++)
        for (int64_t i = 0; dtype_is_float((enum dtype)args[p]->dtype) && i < args[p]->count; i++) {
            double v = tensor_get(args[p], i), short_v = round(v * 10) / 10;
            if (short_v != 0) tensor_set(args[p], i, short_v);
        }
}

static bool run_sample(struct bag *bag, const struct op_sample *sample, struct module *m, struct shown *shown)
{
    uint32_t fn = module_find(m, "sample");
    if (fn == HOP_NONE) return false;
    shown->m = m;
    shown->f = module_fn(m, fn);
    for (uint32_t attempt = 0; attempt < 4; attempt++) {
        shown->sizes = sample_sizes(&bag->arena, shown->f, attempt / 2);
        shown->args = sample_arguments(bag, m, shown->f, sample->inputs, &shown->sizes, 1);
        if (attempt % 2 == 0) round_arguments(shown->args, shown->f->n_params);
        if (!run_on(bag, m, fn, &interpreter, shown->args, shown->sizes.dims, &shown->outcome)) continue;
        shown->elements = 0;
        bool empty = false;
        for (uint32_t p = 0; p < shown->f->n_params; p++) {
            shown->elements += shown->args[p]->count;
            empty |= !shown->args[p]->count;
        }
        for (uint32_t r = 0; r < shown->f->n_results; r++) {
            shown->elements += shown->outcome.results[r]->count;
            empty |= !shown->outcome.results[r]->count;
        }
        if (empty) shown->elements = 0;
        return true;
    }
    return false;
}

static void value_line(struct text *out, const char *name, const struct tensor *t)
{
    text_add(out, "%s: ", name);
    tensor_type_text(out, t);
    text_str(out, " = ");
    tensor_print(out, t);
    text_str(out, "\n");
}

static void sample_text(struct text *out, const struct op_sample *sample, struct shown *s)
{
    const char *text = strchr(sample->text, '\n'); /* after "hop 1" */
    text_add(out, "```\n%s%s", text ? text + 1 : sample->text,
             text && text[strlen(text) - 1] == '\n' ? "" : "\n");
    text_str(out, "```\n\n```\n");
    for (uint32_t i = 0, n = 0; i < s->f->n_outer_symbols; i++)
        if (s->f->symbols[i].origin == SYMBOL_DIM) {
            text_add(out, "size %u: %lld\n", n, (long long)s->sizes.dims[n]);
            n++;
        }
    for (uint32_t p = 0; p < s->f->n_params; p++)
        value_line(out, arena_printf(out->arena, "%%%s", fn_param_name(s->m, s->f, p)), s->args[p]);
    text_add(out, "->%s\n", s->f->n_results || s->outcome.printed.len ? "" : " (nothing)");
    if (s->outcome.printed.len) text_add(out, "prints: %s", s->outcome.printed.data);
    for (uint32_t r = 0; r < s->f->n_results; r++)
        value_line(out, arena_printf(out->arena, "%%%s", result_name(out->arena, s->m, s->f, r)),
                   s->outcome.results[r]);
    text_str(out, "```\n\n");
}

/* Of the samples that are not about nothing, the one that takes the least room. */
static void best_sample(struct text *out, const struct op_row *row)
{
    enum { LEAST = 6, FEW = 1 << 20 };
    struct text best = { 0 };
    size_t best_size = SIZE_MAX;
    for (uint32_t s = 0; s < row->n_samples; s++) {
        struct bag bag = { 0 };
        hop_cleanup_push(bag_free, &bag);
        struct module *m = sample_read(row->samples[s].text);
        hop_cleanup_push(module_free, m);
        struct shown shown = { 0 };
        if (m && run_sample(&bag, &row->samples[s], m, &shown)) {
            struct text text = { .arena = out->arena };
            sample_text(&text, &row->samples[s], &shown);
            size_t size = text.len + (shown.elements < LEAST ? FEW : 0);
            if (size < best_size) {
                best = text;
                best_size = size;
            }
        }
        hop_cleanup_pop(m);
        module_free(m);
        hop_cleanup_pop(&bag);
        bag_free(&bag);
    }
    if (best.data) text_str(out, best.data);
}

/* ---- the page ---- */

static const char page_head[] =
    "# The operators\n\n"
    "Every row of the operator table: what it means, how it is written in the text form ([ir.md](../ir.md)), "
    "its attributes, the dtypes it takes, what is special\n"
    "about its rules, and a sample with the result that the interpreter gives. Every operator can be batched "
    "and compiled; where nothing else is said it has a gradient\n"
    "and a forward derivative. From C an operator is called by a function of [the C interface](c.md) or by "
    "`hop_apply`. `hop ops NAME` prints a row with all of its\n"
    "samples. This page is generated from the table (`make docs`).\n\n";

enum row_kind { FIRST_ORDER, COMPOSITE, HIGHER_ORDER, ROW_KINDS };
static enum row_kind kind_of(const struct op_row *row)
{
    if (row->flags & OPF_HIGHER) return HIGHER_ORDER;
    return row->expand ? COMPOSITE : FIRST_ORDER;
}

static void index_text(struct text *out)
{
    static const char *const kinds[ROW_KINDS] = { "First-order", "Composite", "Higher-order" };
    for (int kind = 0; kind < ROW_KINDS; kind++) {
        uint32_t n = 0;
        for (int i = 0; i < OP_COUNT; i++) {
            const struct op_row *row = op_table[i];
            if (!row || (int)kind_of(row) != kind) continue;
            if (!n++) text_add(out, "%s: ", kinds[kind]);
            else text_str(out, " · ");
            text_add(out, "[%s](#%s)", row->name, row->name);
        }
        if (n) text_str(out, "\n\n");
    }
}

void operators_markdown(struct text *out)
{
    text_str(out, page_head);
    index_text(out);
    for (int i = 0; i < OP_COUNT; i++) {
        const struct op_row *row = op_table[i];
        if (!row) continue;
        text_add(out, "## %s\n\n%s\n\n```\n", row->name, row->meaning);
        signature_text(out, row);
        text_str(out, "\n```\n\n");
        attributes_text(out, row);
        dtypes_text(out, row);
        rules_text(out, row);
        text_str(out, "\n");
        best_sample(out, row);
    }
    while (out->len > 1 && out->data[out->len - 1] == '\n' && out->data[out->len - 2] == '\n')
        out->data[--out->len] = 0;
}
