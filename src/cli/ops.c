/* hop ops: the operator table as text or JSON. Everything printed is read from the table. */
#include "cli/cli.h"

#include "ops/operators.h"

/* A cell is there, or says why it is not. A composite row has the cells of its expansion, and says why there
 * are no derivatives. */
static const char *const column_names[] = { "infer", "eval", "vjp", "jvp", "batch", "lower", "samples" };
enum { COLUMNS = HOP_COUNT(column_names) };

static const char *cell(const struct op_row *row, int column)
{
    const bool there[COLUMNS] = { row->infer,    row->eval,  row->vjp,
                                  row->jvp,      row->batch, row->lower || row->stands_for,
                                  row->n_samples };
    bool is_gradient = column == 2 || column == 3; /* vjp, jvp */
    bool is_samples = column == COLUMNS - 1;
    if (there[column]) return NULL;
    if (is_gradient && row->no_gradient) return row->no_gradient;
    if (row->axis_attr) return "batched over its axis before"; /* eval, lower */
    return row->expand && !is_samples ? NULL : "missing";
}

static const char *kind(const struct op_row *row)
{
    if (row->flags & OPF_HIGHER) return "higher-order";
    return row->expand ? "composite" : "first-order";
}

static void row_json(struct text *out, const struct op_row *row)
{
    text_str(out, "  {\"name\": ");
    json_string(out, row->name);
    text_add(out, ", \"kind\": \"%s\", \"meaning\": ", kind(row));
    json_string(out, row->meaning);
    text_str(out, ", \"columns\": {");
    for (int c = 0; c < COLUMNS; c++) {
        const char *none = cell(row, c);
        text_add(out, "%s\"%s\": ", c ? ", " : "", column_names[c]);
        json_string(out, none ? arena_printf(out->arena, "none: %s", none) : "yes");
    }
    text_str(out, "}}");
}

static void row_text(struct text *out, const struct op_row *row)
{
    text_add(out, "%s (%s): %s\n", row->name, kind(row), row->meaning);
    for (uint32_t i = 0; i < row->sig.n_attrs; i++) {
        const struct attr_spec *spec = &row->sig.attrs[i];
        text_add(out, "  attribute %s%s", spec->name, spec->required ? " (required)" : "");
        for (uint32_t w = 0; spec->words && spec->words[w]; w++)
            text_add(out, "%s%s", w ? " | " : ": ", spec->words[w]);
        text_str(out, "\n");
    }
    for (int c = 0; c < COLUMNS; c++) {
        const char *none = cell(row, c);
        text_add(out, "  %-8s %s%s\n", column_names[c], none ? "none: " : "yes", none ? none : "");
    }
    for (uint32_t s = 0; s < row->n_samples; s++)
        text_add(out, "\n%s%s", row->samples[s].text,
                 row->samples[s].text[strlen(row->samples[s].text) - 1] == '\n' ? "" : "\n");
}

/* Those that --operators has loaded; whether there was one. */
static bool put_registered(struct options *o, struct text *out, const char *name, bool json, bool any)
{
    struct registered **all = operators_held(&o->bag.arena);
    for (; *all; all++) {
        const struct registered *r = *all;
        const char *effects = effect_name(r->effects);
        if (!name || !strcmp(r->name, name)) {
            if (json) {
                text_add(out, "%s  {\"name\": ", any ? ",\n" : "");
                json_string(out, r->name);
                text_str(out, ", \"kind\": \"from outside\", \"meaning\": ");
                json_string(out, r->signature);
                text_add(out, ", \"effects\": \"%s\", \"version\": %u}", effects, r->version);
            } else if (name) {
                text_add(out, "%s\n  from outside\n  effects  %s\n  version  %u\n", r->signature, effects,
                         r->version);
            } else {
                text_add(out, "%-16s %-12s %s\n", r->name, "from outside", r->signature);
            }
            any = true;
        }
        operator_drop(*all);
    }
    return any;
}

int command_ops(struct options *o)
{
    struct text out = { .arena = &o->bag.arena };
    const char *name = o->files.len ? o->files.data[0] : NULL;
    bool json = option_on(o, O_JSON), any = false;
    if (option_on(o, O_MARKDOWN)) {
        operators_markdown(&out);
        fwrite(out.data, 1, out.len, stdout);
        return EXIT_OK;
    }
    if (json) text_str(&out, "[\n");
    for (int i = 0; i < OP_COUNT; i++) {
        const struct op_row *row = op_table[i];
        if (!row || (name && strcmp(row->name, name))) continue;
        if (json) {
            if (any) text_str(&out, ",\n");
            row_json(&out, row);
        } else if (name) {
            row_text(&out, row);
        } else {
            text_add(&out, "%-16s %-12s %s\n", row->name, kind(row), row->meaning);
        }
        any = true;
    }
    any = put_registered(o, &out, name, json, any);
    if (name && !any) hop_throw(HOP_INVALID, "there is no operator '%s'; hop ops lists them", name);
    if (json) text_str(&out, "\n]\n");
    if (out.len) fwrite(out.data, 1, out.len, stdout);
    return EXIT_OK;
}
